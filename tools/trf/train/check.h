// trf train: checks the command line before any data are read (check.c).

#ifndef TRF_CHECK_H
#define TRF_CHECK_H

#include "base/base.h"

int check_training(struct settings *s,
                   char **checkpoint);         /* *checkpoint: its path, malloc'd, or NULL */
int check_data_options(const struct settings *s);   /* that the files fit the objective */
/* Calls each, which takes the text, for every two options that name the same file: probably a
   mistake. */
void for_same_files(const struct settings *s, void (*each)(void *user, char *text), void *user);
int check_rereading(const struct settings *s); /* fails for a pipe, which can be read only once */
int check_read(const struct settings *s);           /* that all files are readable */
/* Files of a training run. checkpoint and log may be NULL. */
int check_own_names(const struct settings *s, const char *model, const char *checkpoint,
                    const char *log);
int check_replaced(const struct settings *s, const char *model, const char *checkpoint,
                   const char *log);
int check_saved(const struct settings *s, const char *model, const char *checkpoint);
int is_device(const char *path);        /* a pipe, a terminal, /dev/null: never replaced */

#endif

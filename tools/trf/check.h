// trf train: what is wrong with a command line, before any data are read (check.c).

#ifndef TRF_CHECK_H
#define TRF_CHECK_H

#include "trf.h"

int check_training(struct settings *s, char **checkpoint);      /* *checkpoint: its path, or NULL: none is kept */
int check_rereading(const struct settings *s);      /* what is read once is gone: a pipe */
int check_read(const struct settings *s);           /* everything that will be read can be */
/* Files of a training, each a path or NULL. */
int check_own_names(const struct settings *s, const char *model, const char *checkpoint, const char *log);
int check_replaced(const struct settings *s, const char *model, const char *checkpoint, const char *log);
int check_saved(const struct settings *s, const char *model, const char *checkpoint);
int is_device(const char *path);        /* a pipe, a terminal, /dev/null: written as it is, never replaced */

#endif

// trf plot: what plot.c and its parts share.
// SPDX-License-Identifier: MIT

#ifndef TRF_PLOT_H
#define TRF_PLOT_H

#include "draw.h"

/* Pictures that need no log, each in a file of its name. */
int plot_schedule(struct settings *s);
int plot_positions(struct settings *s);
int plot_masks(struct settings *s);

/* A list in an option; plot_lists.c. */
enum { MAX_LIST = 16 };

struct list {
    double item[MAX_LIST];
    int n;
};

/* Reads numbers with commas between them. whole 1: only whole numbers. */
int read_numbers(const char *option, const char *text, double low, double high, int whole,
                 struct list *to);
/* Reads words with commas between them; each becomes its number in the list of names. */
int read_words(const char *option, const char *text, const char *const *names, int n_names,
               struct list *to);
int has_word(const struct list *words, int word);       /* the number of a word */

#endif

// trf train: what is read, and what is held out of it (data.c).

#ifndef TRF_DATA_H
#define TRF_DATA_H

#include "trf.h"

/* What was not taken: the first five with their lines, all of them by number. */
enum skip { SKIP_UNREADABLE, SKIP_LONG, SKIP_EMPTY, SKIP_HALF, SKIP_LABEL, N_SKIPS };

/* What the data are, for the recipe. */
struct amounts {
    int64_t pairs, tokens[2];       /* tokens with one mark for each sentence */
    int32_t longest;                /* tokens of the longest side of a pair */
};

/* Pairs of lines, and the token ids that they become (encode.c). Text alone is a pair with an empty side; a text and
   its label are a pair too. */
struct pairs {
    struct text text[2];
    struct side ids[2];
    size_t *line, line_capacity;    /* of each pair of ids its line in the text: of those held out alone */
};

/* All data of a training. */
struct examples {
    struct pairs learn, held;       /* to learn from, to validate on */
    struct amounts amounts;         /* of those to learn from */
    int64_t skips[N_SKIPS];
};

/* Reads what the options name. rule: which pairs are held out where none are given to validate on. */
int read_data(struct settings *s, struct examples *data, trf_hold_out_rule rule);
void warn_of_overlap(const struct settings *s, const struct examples *data);
const char *training_file(const struct settings *s, int side);
/* A pair that is left out: told and counted; or, with --strict, the end (FAILED). */
int skip(const struct settings *s, struct examples *data, enum skip why, const char *file, int64_t line,
         const char *reason);
void say_skips(const struct settings *s, const struct examples *data, int64_t trained_on);
void free_examples(struct examples *data);

#endif

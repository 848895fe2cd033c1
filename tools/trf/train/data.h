// trf train: reading the data, and holding out a part of them (data.c).

#ifndef TRF_DATA_H
#define TRF_DATA_H

#include "labelled.h"

/* The size of the data, for the recipe. */
struct data_sizes {
    int64_t pairs, tokens[2];       /* tokens with one mark for each sentence */
    int32_t longest;                /* tokens of the longest side of a pair */
};

/* Pairs of lines, and their token ids (encode.c). A line of text alone is a pair with an empty
   side; a text and its label are a pair too. */
struct pairs {
    struct text text[2];
    struct side ids[2];
    size_t *line,
        line_capacity; /* line[i]: index in text of pair i of the ids; held-out pairs only */
};

/* All data of a training run. */
struct examples {
    struct pairs learn, held;       /* to train on, to validate on */
    struct data_sizes sizes;        /* of the pairs to train on */
    trf_token_facts facts;          /* of --token-file */
    int64_t skips[N_SKIPS];
};

/* Reads the files of the options. rule: which pairs to hold out if no file for validation is
   given. */
int read_data(struct settings *s, struct examples *data, trf_hold_out_rule rule);
void warn_of_overlap(const struct settings *s, const struct examples *data);
const char *training_file(const struct settings *s, int side);
/* Reports and counts a pair that is left out. With --strict it is an error: FAILED. */
int skip(const struct settings *s, struct examples *data, enum skip why, const char *file,
         int64_t line, const char *reason);
void say_skips(const struct settings *s, const struct examples *data, int64_t trained_on);
void free_examples(struct examples *data);

#endif

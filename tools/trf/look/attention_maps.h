// trf attention: what attention.c and attention_maps.c share.
// SPDX-License-Identifier: MIT

#ifndef TRF_ATTENTION_MAPS_H
#define TRF_ATTENTION_MAPS_H

#include "answer/answer.h"
#include "draw.h"

enum { MEAN = -1, ALL = -2 }; /* instead of the number of a head or a layer */

struct map {
    int32_t layer, head; /* head MEAN: the mean of all heads */
    float *values;       /* (rows, columns) */
    char title[64];
    double entropy;      /* mean of the rows, in nats */
    double share;        /* of the largest possible entropy; NAN if that is 0 */
    int64_t row, column; /* the strongest link; -1: there is none */
};

struct attention_view {
    struct settings *s;
    trf_model *model;
    trf_translator *translator;
    const trf_vocab *source_vocab, *target_vocab;
    trf_attention_kind kind;
    struct side source, target;
    struct attention attention;
    const char **row_names, **column_names;
    int64_t rows, columns;
    int32_t layer, head;   /* shown; ALL and MEAN are possible */
    int32_t layers, heads; /* of the model */
    struct map *maps;
    int32_t n_maps;
    double high;  /* the largest weight */
    char *answer; /* text of the model's own answer, or NULL */
    size_t answer_capacity;
};

extern const char *const attention_kinds[];     /* by trf_attention_kind */

/* The tokens of a source, of a target as the decoder reads it, and as it writes it. */
enum token_list { SOURCE, READ, WRITTEN };
/* Names of n tokens of a side of one sequence, with what the model reads in front of them; the name
   of EOS is the last if n is larger. One malloc'd block; the vocabulary has the texts. */
const char **token_names(const struct settings *s, const trf_model *model, const trf_vocab *vocab,
                         const struct side *side, enum token_list of, int64_t n);
/* The same names, cut to so many columns of a terminal; free_names frees them. */
char **short_names(const char *const *names, int64_t n, int columns);
void free_names(char **names, int64_t n);
/* Makes the maps of --layer and --head from the attention of all heads. */
void add_maps(struct attention_view *l);
/* A picture to --output, and text or JSON to standard output. */
int write_maps(const struct attention_view *l);

#endif

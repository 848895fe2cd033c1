// trf, the door of answer/: commands that read lines and print what a model makes of them.

#ifndef TRF_ANSWER_ANSWER_H
#define TRF_ANSWER_ANSWER_H

#include "base/base.h"

int command_translate(struct settings *s, int argc, char **argv);
int command_generate(struct settings *s, int argc, char **argv);
int command_classify(struct settings *s, int argc, char **argv);      /* trf tag too */
int command_embed(struct settings *s, int argc, char **argv);
int command_score(struct settings *s, int argc, char **argv);
int command_eval(struct settings *s, int argc, char **argv);

// -----------------------------------------------------------------------------------------------
// The attention of one kind over one pair (attention_weights.c)
// -----------------------------------------------------------------------------------------------

struct attention {
    trf_real *weights;              /* (layers, heads, queries, keys) */
    size_t capacity;
    int64_t extent[4];
};

int read_attention(trf_translator *translator, const trf_model *model, trf_attention_kind kind,
                   const trf_sequences *source, const trf_sequences *target, struct attention *to);
void free_attention(struct attention *of);
const trf_real *head_of(const struct attention *of, int64_t layer, int64_t head);
void mean_attention(const struct attention *of, int64_t layer, trf_real *to);  /* (queries, keys) */
/* ,"attention":... all: ATTENTION_MEAN or ATTENTION_ALL. */
void print_json_attention(FILE *file, const struct attention *of, int all);

#endif

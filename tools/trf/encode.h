// trf train: encodes lines as token ids, and fills the corpus (encode.c).

#ifndef TRF_ENCODE_H
#define TRF_ENCODE_H

#include "recipe.h"
#include "subwords.h"

/* vocab: the vocabularies to encode with: v's, or those of a checkpoint. */
int encode_data(const struct settings *s, struct examples *data, const struct vocabularies *v,
                const trf_vocab *const vocab[2], const struct labels *labels);
/* Frees the ids of the pairs to train on; notes in the plan how many batches and updates a pass
   has. */
int fill_corpus(const struct settings *s, struct examples *data, trf_corpus **corpus,
                struct plan *plan);
void warn_of_line_ends(const struct settings *s, const trf_vocab *vocab);
void warn_of_unknown(const struct settings *s, const struct examples *data,
                     const trf_vocab *const vocab[2]);
int64_t count_unknown_targets(const struct settings *s, const struct examples *data,
                              const trf_vocab *const vocab[2]);

#endif

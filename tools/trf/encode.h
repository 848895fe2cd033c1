// trf train: lines become token ids, and these a corpus (encode.c).

#ifndef TRF_ENCODE_H
#define TRF_ENCODE_H

#include "recipe.h"
#include "subwords.h"

/* vocab: those of the model, which are v's where they are made here. */
int encode_data(const struct settings *s, struct examples *data, const struct vocabularies *v,
                const trf_vocab *const vocab[2], const struct labels *labels);
/* Frees the ids of what is learned; a pass over the corpus is noted in the plan. */
int fill_corpus(const struct settings *s, struct examples *data, trf_corpus **corpus, struct plan *plan);
void warn_of_line_ends(const struct settings *s, const trf_vocab *vocab);
void warn_of_unknown(const struct settings *s, const struct examples *data, const trf_vocab *const vocab[2]);
int64_t count_unknown_targets(const struct settings *s, const struct examples *data);

#endif

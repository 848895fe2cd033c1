// trf train: what the tokens of the data say, and the corpus (corpus.c).

#ifndef TRF_CORPUS_H
#define TRF_CORPUS_H

#include "recipe.h"
#include "subwords.h"

/* --subword-samples: more copies of the pairs in use, each side segmented at random. */
int add_samples(struct data *data, const struct vocabularies *v, const trf_vocab *const vocab[2]);
/* Gives the corpus its batches; notes in the plan how many batches and updates a pass has. */
int set_corpus(const struct settings *s, struct data *data, const trf_vocab *const vocab[2],
               struct plan *plan);
void warn_of_line_ends(const struct settings *s, const trf_vocab *vocab);
void warn_of_unknown(const struct settings *s, const struct data *data,
                     const trf_vocab *const vocab[2]);
/* Unknown tokens among the targets: the model learns to write them. */
void warn_of_changed(const struct settings *s, const struct data *data);
int64_t count_unknown_targets(const struct settings *s, const struct data *data);

#endif

// trf train: encodes lines as token ids, and fills the corpus (encode.c).

#ifndef TRF_ENCODE_H
#define TRF_ENCODE_H

#include "recipe.h"
#include "subwords.h"

/* vocab: the vocabularies to encode with: v's, or those of a checkpoint. */
int encode_data(const struct settings *s, struct examples *data, const struct vocabularies *v,
                const trf_vocab *const vocab[2], const struct labels *labels);
/* Token ids that are not in a chunk yet; all 0 at first. */
struct stream { int32_t *ids; size_t n, capacity; };

/* trf prepare: encodes the only line of data->learn.text; appends to data->learn.ids what it
   completes: a pair, or chunks. */
int encode_line(const struct settings *s, struct examples *data, const trf_vocab *const vocab[2],
                const char *const files[2], struct stream *stream);
/* The end of a file; last: of all files. */
void end_text(const struct settings *s, struct examples *data, struct stream *stream, int last);
/* Frees the ids of the pairs to train on; notes in the plan how many batches and updates a pass
   has. */
int fill_corpus(const struct settings *s, struct examples *data, const trf_vocab *const vocab[2],
                trf_corpus **corpus, struct plan *plan);
void warn_of_line_ends(const struct settings *s, const trf_vocab *vocab);
void warn_of_unknown(const struct settings *s, const struct examples *data,
                     const trf_vocab *const vocab[2]);
int64_t count_unknown_targets(const struct settings *s, const struct examples *data,
                              const trf_vocab *const vocab[2]);

#endif

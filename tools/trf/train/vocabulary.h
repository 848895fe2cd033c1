// trf train: vocabularies: learned from the training text, or read from a file (vocabulary.c).

#ifndef TRF_VOCABULARY_H
#define TRF_VOCABULARY_H

#include "recipe.h"
#include "subwords.h"

/* Makes the vocabularies that v lacks. */
int make_vocabularies(struct settings *s, struct vocabularies *v, const trf_data_lines *lines,
                      struct plan *plan);
int extend_vocabulary(const struct settings *s, const trf_data_lines *lines, int first_side,
                      int last_side, trf_vocab *vocab);
int check_tokens(const struct settings *s, const trf_vocab *const vocab[2], const char *path);
int check_samples(const struct settings *s,
                  const trf_vocab *const vocab[2]); /* --subword-samples */

#endif

// trf train: what --objective means (objective.c).
//
//   objective   model             learns from                      target of a sequence
//   translate   encoder-decoder   pairs of lines                   the other line
//   causal      decoder-only      text                             the text itself, token by token
//   classify    encoder-only      text, tab, label                 its label
//   tag         encoder-only      words and as many labels         a label at the first token of each word
//   mask        encoder-only      text                             the tokens that are hidden (Devlin et al. 2019)
//   span        encoder-decoder   text                             the spans that are missing (Raffel et al. 2020)

#ifndef TRF_OBJECTIVE_H
#define TRF_OBJECTIVE_H

#include "trf.h"

int learns_from_text(const struct settings *s);
int learns_labels(const struct settings *s);
int reads_side(const struct settings *s, int side);     /* has a vocabulary of its own */
int leading_side(const struct settings *s);             /* that the recipe looks at */
void set_kind(struct settings *s);                      /* of the model */

int check_effects(const struct settings *s);            /* that the options given are some to this objective, */
int check_company(const struct settings *s);            /* beside one another, */
int check_inherited(const struct settings *s, const trf_vocab *const vocab[2]);     /* and beside --init-from */
int check_chunk(const struct settings *s);          /* whether a chunk fits the model */
int settle_chunk(struct settings *s);               /* and how long a sequence may be */

enum { SENTINELS = 100 };
int32_t n_sentinels(const struct settings *s);          /* that are learned with subwords */
int check_noise(const struct settings *s);
/* What hides tokens from the model, or NULL. They must outlive the training. */
int make_noise(const struct settings *s, const trf_vocab *vocab, trf_noise **training, trf_noise **validation);

#endif

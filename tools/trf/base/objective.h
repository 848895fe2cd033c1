// trf train: what follows from --objective (objective.c).
//
//   objective   model             data                         target of a sequence
//   translate   encoder-decoder   pairs of lines               the other line
//   causal      decoder-only      text                         the text itself, token by token
//   classify    encoder-only      text, tab, label             its label
//   tag         encoder-only      words and as many labels     a label at each word's first token
//   mask        encoder-only      text                         hidden tokens (Devlin et al. 2019)
//   span        encoder-decoder   text                         missing spans (Raffel et al. 2020)
//   pretrain    encoder-only      text, tab, label             its label, and hidden tokens

#ifndef TRF_OBJECTIVE_H
#define TRF_OBJECTIVE_H

#include "base.h"

int learns_from_text(const struct settings *s);
int learns_labels(const struct settings *s);
int hides_words(const struct settings *s);              /* from a model that fills them in */
int reads_side(const struct settings *s, int side); /* whether the side has its own vocabulary */
int leading_side(const struct settings *s);             /* of text alone: the side that it is on */
int is_scored_by_labels(const struct settings *s);      /* by accuracy or F1 */
trf_kind kind_of_model(const struct settings *s);
trf_head head_of_model(const struct settings *s);
void set_kind(struct settings *s);                      /* the kind of model and its head */

/* Refuse options without effect: on this objective, on one another, and on a training run with
   --init-from. */
int check_effects(const struct settings *s);
int check_combinations(const struct settings *s);
int check_inherited(const struct settings *s, const trf_vocab *const vocab[2]);
int check_chunk(const struct settings *s);          /* whether a chunk fits the model */
int settle_chunk(struct settings *s);               /* sets the chunk and the longest sequence */

enum { SENTINELS = 100 };
int32_t n_sentinels(const struct settings *s);          /* to be learned with subwords */
int check_noise(const struct settings *s);
/* Makes what hides tokens from the model, or leaves NULL. vocab must live as long as the
   training. */
int make_noise(const struct settings *s, const trf_vocab *vocab, trf_noise **training,
               trf_noise **validation);

#endif

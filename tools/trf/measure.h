// trf train: the figures by which a model is judged (measure.c).

#ifndef TRF_MEASURE_H
#define TRF_MEASURE_H

#include "trf.h"

enum metric metric_of(const struct settings *s);
const char *metric_name(enum metric metric);
int is_translating(enum metric metric);         /* needs answers */
trf_metric library_metric(enum metric metric);  /* the library's, which says what is better */
/* Whether BLEU is a measure for these references. cut: their tokens are words, which subword-nmt may have cut.
   *nothing: it would be 0 whatever is answered. */
int bleu_tells(const struct text *references, int cut, int *nothing);
/* "ein gro@@ ßer Hund" -> "ein großer Hund", in place: pieces that subword-nmt has cut. */
char *join_cut(int cut, char *text);
/* --metric auto becomes one. vocab, references: of the target. */
void settle_metric(struct settings *s, const trf_vocab *vocab, const struct text *references);

#endif

// trf train: the metrics of a validation (measure.c).

#ifndef TRF_MEASURE_H
#define TRF_MEASURE_H

#include "base/base.h"

enum metric metric_of(const struct settings *s);
const char *metric_name(enum metric metric);
const char *metric_unit(enum metric metric);    /* " %" or nothing */
int is_translating(enum metric metric);         /* whether it needs translations */
trf_metric library_metric(enum metric metric);  /* by which the library compares scores */
/* Whether a score is better than another. Of equal ones the smaller loss is. */
int is_better_by(enum metric metric, double score, double loss, double than, double than_loss);
int is_perfect(enum metric metric, double score);       /* no score can be better */
/* Whether BLEU is useful for these references. cut: join_pieces joins their words first. *nothing:
   BLEU would always be 0. */
int bleu_is_useful(const char *const *references, int64_t n, int cut, int *nothing);
/* Joins pieces of subword-nmt in place: "ein gro@@ ßer Hund" -> "ein großer Hund". cut 0: changes
   nothing. */
char *join_pieces(int cut, char *text);
/* Refuses a metric of other labels. */
int check_label_metric(const struct settings *s);
/* Replaces --metric auto. vocab: of the target. lines: of all pairs. */
void settle_metric(struct settings *s, const trf_vocab *vocab, const trf_data_lines *lines);

#endif

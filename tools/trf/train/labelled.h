// trf train: the labels of the data, and lines with their labels as training pairs (labelled.c).

#ifndef TRF_LABELLED_H
#define TRF_LABELLED_H

#include "base/base.h"

/* Why a line is left out. */
enum skip { SKIP_UNREADABLE, SKIP_LONG, SKIP_EMPTY, SKIP_HALF, SKIP_LABEL, N_SKIPS };

/* Unmarks held-out lines whose label no line to train on has, together with all lines of the same
   source. Returns how many lines it unmarked. */
int64_t keep_labels(const struct settings *s, const struct text text[2], char *held);
int learn_labels(const struct settings *s, const struct text *text, struct labels *labels);
/* Appends a line with its label, or with the labels of its words. Returns NULL, or the reason why
   the line is left out and its kind. An empty line appends nothing. */
const char *add_labelled(const struct settings *s, const struct labels *labels,
                         const trf_vocab *vocab, const char *const line[2], struct side ids[2],
                         enum skip *kind, char why[300]);
/* Why no vocabulary can take the line, or NULL. */
const char *unlearnable(const trf_vocab *vocab, const char *line);

#endif

// trf train: the labels of the data, and what a line becomes by them (labelled.c).

#ifndef TRF_LABELLED_H
#define TRF_LABELLED_H

#include "data.h"

/* Lines held out though no other has their label go back to those to learn from, with all of their source. Returns
   how many. */
int64_t keep_labels(const struct settings *s, const struct text text[2], char *held);
int learn_labels(const struct settings *s, const struct text *text, struct labels *labels);
int store_labels(trf_model *model, const struct labels *labels);
/* Appends a line with its label, or with those of its words. Returns why not, and what kind of fault it is, or NULL;
   an empty line appends nothing. */
const char *add_labelled(const struct settings *s, const struct labels *labels, const trf_vocab *vocab,
                         const char *const line[2], struct side ids[2], enum skip *kind, char why[300]);
/* Why a line cannot be learned from, whatever its length in tokens, or NULL. */
const char *unlearnable(const trf_vocab *vocab, const char *line);

#endif

// trf train: outputs that are numbers, against what is wanted (outputs.c).

#ifndef TRF_OUTPUTS_H
#define TRF_OUTPUTS_H

#include "base/base.h"

/* Of n texts with so many numbers each, in rows: means over the columns of Pearson's correlation
   and of Spearman's, that of ranks. NAN if a column is constant. */
void measure_numbers(const double *got, const double *wanted, size_t n, size_t labels,
                     double *p, double *s);
/* Of n decisions, labels of all texts: 2 right / (given + wanted), in percent. A label is given if
   its output is 1/2 or more, and wanted if it is 1. */
double micro_f1(const double *got, const double *wanted, size_t n);

#endif

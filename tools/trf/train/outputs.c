// trf train: how good outputs are that are numbers: correlations, and F1 of several labels at once.

#include "outputs.h"

#include <math.h>

/* The correlation of n pairs; NAN if one side is constant. */
static double pearson(const double *x, const double *y, size_t n)
{
    double mean[2] = {0, 0}, sums[3] = {0, 0, 0};
    int vary[2] = {0, 0};       /* the deviations of equal numbers are not exactly 0 */
    size_t i;
    for (i = 1; i < n; i++) { vary[0] |= x[i] != x[0]; vary[1] |= y[i] != y[0]; }
    if (!vary[0] || !vary[1]) return (double)NAN;
    for (i = 0; i < n; i++) { mean[0] += x[i] / (double)n; mean[1] += y[i] / (double)n; }
    for (i = 0; i < n; i++) {
        double a = x[i] - mean[0], b = y[i] - mean[1];
        sums[0] += a * a;
        sums[1] += b * b;
        sums[2] += a * b;
    }
    return sums[2] / sqrt(sums[0]) / sqrt(sums[1]);
}

struct place { double x; size_t i; };

static int by_number(const void *a, const void *b)
{
    const struct place *p = a, *q = b;
    return p->x < q->x ? -1 : p->x > q->x;
}

/* The ranks of n numbers, from 0; equal ones share the mean of theirs. */
static void rank_numbers(const double *x, double *rank, struct place *order, size_t n)
{
    size_t i, first, end;
    for (i = 0; i < n; i++) { order[i].x = x[i]; order[i].i = i; }
    qsort(order, n, sizeof *order, by_number);
    for (first = 0; first < n; first = end) {
        for (end = first; end < n && order[end].x == order[first].x; end++) { }
        if (end == first) end++;        /* a NaN */
        for (i = first; i < end; i++) rank[order[i].i] = 0.5 * (double)(first + end - 1);
    }
}

void measure_numbers(const double *got, const double *wanted, size_t n, size_t labels,
                     double *p, double *s)
{
    double *column = zeroed(4 * n + 1, sizeof *column), *other = column + n;
    struct place *order = zeroed(n + 1, sizeof *order);
    size_t i, k;
    for (*p = *s = 0, k = 0; k < labels; k++) {
        for (i = 0; i < n; i++) {
            column[i] = got[i * labels + k];
            other[i] = wanted[i * labels + k];
        }
        *p += pearson(column, other, n) / (double)labels;
        rank_numbers(column, column + 2 * n, order, n);
        rank_numbers(other, column + 3 * n, order, n);
        *s += pearson(column + 2 * n, column + 3 * n, n) / (double)labels;
    }
    free(column);
    free(order);
}

double micro_f1(const double *got, const double *wanted, size_t n)
{
    int64_t right = 0, all = 0;         /* all: given and wanted */
    size_t i;
    for (i = 0; i < n; i++) {
        int given = got[i] >= 0.5, holds = wanted[i] >= 0.5;
        right += given && holds;
        all += given + holds;
    }
    return all ? 200 * (double)right / (double)all : 0;
}

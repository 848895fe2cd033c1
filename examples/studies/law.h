/* law.h - power laws, L = floor + (N0 / N)^exponent, fitted as straight lines in logarithms. */
#ifndef STUDIES_LAW_H
#define STUDIES_LAW_H

#include "study.h"

/* ln(L - floor) = a + b ln N, and the share of the variance that the line explains. */
struct law { double a, b, floor, explained; };

STUDY double law_at(const struct law *law, double n)
{
    return law->floor + exp(law->a + law->b * log(n));
}

STUDY struct law law_fit(const double *size, const double *loss, int n, double floor)
{
    struct law law = {0, 0, 0, 0};
    double sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;
    int i;
    for (i = 0; i < n; i++) {
        double x = log(size[i]), y = log(loss[i] - floor);
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
        syy += y * y;
    }
    law.b = (n * sxy - sx * sy) / (n * sxx - sx * sx);
    law.a = (sy - law.b * sx) / n;
    law.floor = floor;
    law.explained = law.b * (n * sxy - sx * sy) / (n * syy - sy * sy);
    return law;
}

/* Of a thousand floors below the lowest loss the one whose line explains most. */
STUDY struct law law_fit_floor(const double *size, const double *loss, int n)
{
    double lowest = loss[0];
    struct law best;
    int i;
    for (i = 1; i < n; i++) lowest = fmin(lowest, loss[i]);
    best = law_fit(size, loss, n, 0);
    for (i = 1; i < 1000; i++) {
        struct law law = law_fit(size, loss, n, lowest * i / 1000);
        if (law.explained > best.explained) best = law;
    }
    return best;
}

/* A fit has to find the law that made the numbers. */
STUDY void law_check(struct study *s)
{
    enum { LAW_CHECKED = 8 };
    const struct law truth = {1.5, -0.25, 0.5, 1};
    double size[LAW_CHECKED], loss[LAW_CHECKED];
    struct law found;
    int i;
    for (i = 0; i < LAW_CHECKED; i++) loss[i] = law_at(&truth, size[i] = pow(10, 3 + 0.3 * i));
    found = law_fit_floor(size, loss, LAW_CHECKED);
    study_must(s, fabs(found.b - truth.b) < 0.01 && fabs(found.floor - truth.floor) < 0.02,
               "the fit finds exponent %.3f and floor %.3f", found.b, found.floor);
}

#endif /* STUDIES_LAW_H */

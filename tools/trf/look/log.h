// Logs of training runs, as trf plot and trf report read them (log.c).
// SPDX-License-Identifier: MIT

#ifndef TRF_LOG_H
#define TRF_LOG_H

#include "base/base.h"

enum quantity {
    LOG_LOSS,
    LOG_VALID_LOSS,
    LOG_SCORE, /* of the metric that chooses the best model */
    LOG_VALID_ACCURACY,
    LOG_ACCURACY,
    LOG_RATE,
    LOG_SPEED,
    LOG_NORM,
    N_QUANTITIES
};

/* Quantities that one picture shows: of training, which are behind, and of validations. */
enum {
    PANEL_LOSS,
    PANEL_METRIC,
    PANEL_ACCURACY,
    PANEL_RATE,
    PANEL_SPEED,
    PANEL_GRADIENT,
    N_PANELS
};
extern const enum quantity panel_quantities[N_PANELS][2]; /* N_QUANTITIES: none */
int panel_of(enum quantity of);
int is_validation(enum quantity of);

/* What a run says of one quantity, over its updates. */
struct series {
    enum quantity of;
    char metric[16]; /* of LOG_SCORE; else "" */
    double *update, *value;
    size_t n, capacity[2], finite;
};

struct run {
    const char *path;
    char *name;            /* unique among the runs */
    struct fields options; /* of the last start, and other facts of the training */
    struct series *series; /* in the order of the log */
    size_t n_series, capacity;
    char metric[16], why[16];           /* metric: the last one; why: "" if the log has no end */
    double weights, update, seconds;    /* NAN: the log does not say */
    double speed_seconds, speed_tokens; /* of the lines of progress */
    double session_seconds;             /* when its session began, or the last line of progress */
    int64_t lines, starts, unusable;    /* unusable: lines that are no events */
    /* Lines that are no events or events without an update. The last line of the file does not
       count: trf is writing it, or was killed. */
    int64_t faults, first_fault;
    char fault[64]; /* the reason, of the first one */
};

/* Refuses a log that --output would overwrite. */
int check_logs(const struct settings *s, int n, char **paths);
/* Reads a log. gaps 1: a value that is no number becomes NAN, a gap in the curve; 0: it is left
   out. */
int read_run(struct run *run, const char *path, int gaps);
void name_runs(struct run *runs, int n);
void free_run(struct run *run);
/* Never NULL: a quantity that the log does not have is a series without points. LOG_SCORE: that of
   the run's last metric. */
const struct series *series_of(const struct run *run, enum quantity of);
/* Whether a run has a number of the quantity. */
int has_numbers(const struct run *runs, int n, enum quantity of);

#endif

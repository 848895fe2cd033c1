// trf train: a line now and then for people, and the same as JSON for programs (progress.c).

#ifndef TRF_PROGRESS_H
#define TRF_PROGRESS_H

#include "trf.h"

/* What --log writes: a JSON object a line. */
struct log {
    FILE *file;                     /* or NULL */
    const char *path;
    int broken;                     /* 1: it could not be written, which has been told */
};

int open_log(struct log *log, const struct settings *s);
void flush_log(struct log *log);    /* tells once that it cannot be written */
void close_log(struct log *log);
void log_start(struct log *log, const struct settings *s, const trf_model *model, int64_t step, int64_t pairs,
               int64_t held_out);

struct progress {
    const struct settings *s;
    struct log *log;
    double earlier;                             /* seconds spent in earlier runs */
    double began, drawn, told, waited;          /* times: training began; the last line was drawn; was kept; was one
                                                   of waiting */
    double window_began;                        /* the last finished line */
    int64_t window_tokens;                      /* since then */
    struct { double loss, right; int64_t target; } *recent;     /* of the last `span` updates: a ring */
    size_t recent_capacity;
    int64_t span;                               /* --log-every, MOST_RECENT at most */
    int64_t tokens, updates, left_out;          /* of this run; left_out: of these updates */
    int64_t in_a_row;                           /* left out without one between them that was not */
    double passes, first_pass;                  /* over the data, in this run; where that began */
    int terminal, warned;
};

enum { MOST_RECENT = 65536 };

void start_progress(struct progress *p, const struct settings *s, struct log *log, double earlier);
void end_progress(struct progress *p);
double seconds_of_run(const struct progress *p);
double seconds_in_all(const struct progress *p);    /* earlier runs' too */
void count_update(struct progress *p, const trf_step_report *report);
/* left: validations until --patience ends training; INT32_MAX: it does not. */
void show_progress(struct progress *p, int64_t epoch, const trf_step_report *report, int32_t left);
/* A line for an update or a validation that takes long, if the last one is old. */
void show_waiting(struct progress *p, const char *doing, int64_t update, double since);
/* Before the first update: a line, with its end, that comes every 30 seconds until the next call; NULL: none. */
void busy_with(const char *line);
void end_line(void);                            /* of progress, if one stands unfinished */

#endif

// trf train: lines of progress for people, and a log in JSON for programs (progress.c).

#ifndef TRF_PROGRESS_H
#define TRF_PROGRESS_H

#include "base/base.h"

/* What --log writes: a JSON object a line. */
struct log {
    FILE *file;                     /* or NULL */
    const char *path;
    int broken;                     /* 1: writing failed, and a message said so */
};

int open_log(struct log *log, const struct settings *s);
void flush_log(struct log *log);    /* the first failure is reported */
void close_log(struct log *log);
void log_start(struct log *log, const struct settings *s, const trf_model *model, int64_t step,
               int64_t pairs, int64_t held_out);

struct progress {
    const struct settings *s;
    struct log *log;
    double earlier;                             /* seconds spent in earlier runs */
    double began;                               /* time at which training began, */
    double drawn, printed, waited; /* of the last line, of the last finished one, of the last that
                                   show_waiting wrote, */
    double window_began;                        /* of the last line with a speed */
    int64_t window_tokens;                      /* since then */
    struct {
        double loss, right;
        int64_t target;
    } * recent; /* of the last `span` updates: a ring */
    size_t recent_capacity;
    int64_t span;                               /* --log-every, MOST_RECENT at most */
    int64_t tokens, updates, left_out;          /* of this run; left_out: skipped updates */
    double passes, first_pass; /* passes over the data in this run; position at its start */
    int64_t ends;               /* the last update of --cooldown; 0: the rate does not fall */
    int terminal;
};

enum { MOST_RECENT = 65536 };

void start_progress(struct progress *p, const struct settings *s, struct log *log, double earlier);
void end_progress(struct progress *p);
double seconds_of_run(const struct progress *p);
double seconds_in_all(const struct progress *p);    /* with those of earlier runs */
void count_update(struct progress *p, const trf_step_report *report);
/* left: validations until --patience ends training, or INT32_MAX. */
void show_progress(struct progress *p, int64_t epoch, const trf_step_report *report, int32_t left);
/* A line about an update or a validation that takes long, unless the last line is recent. */
void show_waiting(struct progress *p, const char *doing, int64_t update, double since);
/* Before the first update: prints the line every 30 seconds until the next call. NULL: prints
   nothing. */
void busy_with(const char *line);
void end_line(void);                            /* ends an unfinished line of progress */

#endif

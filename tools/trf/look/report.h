// trf report: what its files share.
//
//   report.c             the command, the order of work, the page
//   report_runs.c        training runs, and what differs between them
//   report_curves.c      their curves, drawn by gnuplot
//   report_data.c        the data: what the model answers, and how good that is
//   report_answers.c     answers beside references, scores by length, labels
//   report_attention.c   attention of some lines, the vocabulary, the parts of the model
//   report_text.c        text of unknown origin as HTML; what differs between two texts
//   report_page.h        style and script of the page

#ifndef TRF_REPORT_H
#define TRF_REPORT_H

#include "answer/answer.h"
#include "tools/metrics/metrics.h"

#include "log.h"

// -----------------------------------------------------------------------------------------------
// Text (report_text.c)
//
// A browser shows any text and runs none of it: the five special characters of HTML are escaped,
// and invisible characters (controls, bytes that are not UTF-8, marks of the writing direction) are
// named in a box.
// -----------------------------------------------------------------------------------------------

enum { SHOWN_CHARACTERS = 2000 }; /* of one text; the others are only counted */

void put_html(FILE *to, const char *text, size_t bytes);
void put_html_text(FILE *to, const char *text); /* up to its NUL */
/* At most `limit` characters, then an ellipsis. */
void put_html_start(FILE *to, const char *text, size_t bytes, size_t limit);
/* Two texts, each in an element of its own, with their differences marked. */
enum compare {
    COMPARE_TEXT,   /* in words, or in characters if there are no words */
    COMPARE_POSITIONS, /* word i with word i: labels of words */
    COMPARE_WHOLE   /* the whole texts */
};
void put_differences(FILE *to, const char *reference, const char *answer, enum compare how);
/* A whole number with thin spaces between thousands. A number with so many digits behind the point
   or, below 0, so many in all. A dash where it is not finite. The text is good for seven more
   calls. */
const char *whole_text(double x);
const char *number_text(double x, int digits);
void put_cell(FILE *to, const char *text);      /* of numbers, in a table */
/* A table in a box of its own, up to its first row; heads: titles of columns with '|' between them,
   '#' in front of those of numbers. begin_head leaves the head open for more. */
void put_heads(FILE *to, const char *heads);
void begin_head(FILE *to, const char *label, const char *heads);
void begin_table(FILE *to, const char *label, const char *heads);
void end_head(FILE *to);
void end_table(FILE *to);

// -----------------------------------------------------------------------------------------------
// Runs (report_runs.c)
// -----------------------------------------------------------------------------------------------

int read_log(struct run *run, const char *path); /* refuses what is no log */
void put_runs(FILE *to, const struct run *runs, int n);
const char *series_title(const struct run *runs, int n, enum quantity of);

// -----------------------------------------------------------------------------------------------
// Curves (report_curves.c)
// -----------------------------------------------------------------------------------------------

void put_curves(FILE *to, const struct run *runs, int n);

// -----------------------------------------------------------------------------------------------
// A model and its data (report_data.c)
// -----------------------------------------------------------------------------------------------

enum task {
    TASK_NONE,
    TASK_TRANSLATE,
    TASK_CLASSIFY,
    TASK_TAG,
    TASK_TEXT
}; /* TEXT: a language model */

struct line {
    int64_t number;                    /* in the file */
    char *source, *reference, *answer; /* of a language model `reference` alone */
    int32_t *ids, n_ids;               /* of the answer of a translation */
    size_t bytes;       /* of source; with a fault, the whole line of the file */
    char *fault;        /* NULL, or the reason why the model has not read it */
    int broken;         /* 1: it is not a pair and does not count */
    double value;       /* smaller is worse */
    double probability; /* of the label that the model gives */
    int32_t tokens; /* of what the model reads: a source, or a text with its end; of tags: labels */
    int32_t wrong;  /* of tags: words with another label */
    int32_t wanted, given; /* of classify: labels; wanted -1: the model has no such label */
    int right;
    double log_probability; /* of a text */
    int32_t class_of;       /* by length: see length_class */
};


struct length_sums {
    int64_t lines, units, right;
    double log_probability;
    struct metrics_sums metrics;
};

struct data {
    struct settings *s;
    enum task task;
    trf_model *model;
    trf_translator *translator;
    trf_reader *alone;                      /* of `model`, if others answer with it */
    struct ensemble ensemble;
    const trf_vocab *vocab[2]; /* source, target; NULL: the model has none, or the file does not */
    struct labels labels;
    struct line *lines;
    size_t n, capacity;
    size_t *worst; /* numbers of lines, the worst first */
    struct metrics *metrics;
    struct length_sums by_length[LENGTH_CLASSES];
    int characters;     /* lengths are in characters: no reference has several words */
    int64_t unusable;   /* lines that the model has not read */
    int64_t *counts[2]; /* of each token of a vocabulary, how often the data have it */
    int64_t tokens[2], unknown[2];
    int64_t
        *confusion; /* (labels + 1, labels): wanted, given; the last row: labels unknown to it */
};

int open_data(struct data *d,
              struct settings *s); /* the model and the lines; refuses what cannot be answered */
int answer_data(struct data *d);
void free_data(struct data *d);
const char *unit_of_length(const struct data *d);

// -----------------------------------------------------------------------------------------------
// Parts of the page about them
// -----------------------------------------------------------------------------------------------

void put_scores(FILE *to, const struct data *d); /* report_answers.c */
void put_lines(FILE *to, const struct data *d);
/* Sorts numbers of tokens or labels by their counts, the most frequent first. */
void sort_by_count(int32_t *order, int32_t n, const int64_t *counts);
int put_attention(FILE *to, struct data *d); /* report_attention.c */
void put_model(FILE *to, const struct data *d);

#endif

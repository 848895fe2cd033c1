// trf doctor: what the files of a training run probably have wrong.
//
//   doctor.c             the command: reads as trf train does
//   doctor_text.c        one line at a time: characters, blanks
//   doctor_lines.c       lines beside one another: repeated, labels, lengths
//   doctor_pairs.c       the two sides of pairs: exchanged, shifted, numbers
//   doctor_findings.c    what is found, its words, the report

#ifndef TRF_DOCTOR_H
#define TRF_DOCTOR_H

#include "data.h"

/* What may be wrong, in the order of the report. The first ones are trf_fault: training leaves the
   line out. */
enum symptom {
    UNEQUAL = TRF_FAULT_COUNT, SHIFTED, EXCHANGED, LANGUAGE, RATIO, NUMBERS, PLACEHOLDERS,
    LONGER, HEADER, CONLL, LABEL_COLUMN, SINGLE_LABEL, CONFLICT, ONE_LINE, SAME_FILE,
    OVERLAP, CONTROL, MARK, ZERO_WIDTH, SOFT_HYPHEN, REPLACEMENT, SEPARATOR, MOJIBAKE, MIXED, TAB,
    NOTES,          /* those from here on are notes */
    SOME_OVERLAP = NOTES, KNOWN_SOURCE, IDENTICAL, REPEATED, AMBIGUOUS, NO_BREAK, META, HTML,
    OUTER_BLANKS, CRLF, SYMPTOMS
};

enum { SHOWN = 5 };
/* Where a finding is. file: an index of doctor.files, or -1; side: of one file with both, or -1. */
struct place { int32_t file, side; int64_t line; char *why; };
struct finding {
    int64_t count, last;        /* of lines; last: the line that was counted last, plus one */
    int n;                      /* places that are shown */
    struct place at[SHOWN];
    char *text, *remedy;        /* those of trf train instead of ours; or NULL */
};

struct origin { int32_t file; int64_t number; };

struct doctor {
    struct settings *s;
    struct data data;
    char **files;               /* their names */
    size_t n_files, files_capacity;
    struct origin *origins;     /* (n) of the lines of the data set: those to learn from, to */
    size_t n, capacity;         /* validate on, to test on */
    int64_t of[3];              /* how many of each */
    int64_t unread;             /* lines that are in no data set */
    int examined;               /* 1: the data set is complete */
    struct finding found[SYMPTOMS];
};

enum symptom symptom_of(const char *name);   /* the names that data.c has for warnings */
int32_t file_number(struct doctor *d, const char *name);
/* Keeps a place, if there are not enough. */
void add_place(struct finding *f, int32_t file, int64_t line, int side, const char *why);
/* Counts a line, once for each symptom, and keeps its place. why: NULL, or what is there, which is
   copied. */
void note_place(struct doctor *d, enum symptom is, int32_t file, int64_t line, int side,
                const char *why);
/* The same for line i of the data set. side -1: both. */
void note_line(struct doctor *d, enum symptom is, int64_t i, int side, const char *why);

int report(const struct doctor *d);         /* returns how many of the findings are warnings */

/* side -1: a text alone. is_label: the text is labels. */
void examine_text(struct doctor *d, int32_t file, int64_t line, int side, const char *text,
                  int is_label);
void examine_lines(struct doctor *d, const trf_data_lines *lines);
void examine_pairs(struct doctor *d, const trf_data_lines *lines, int32_t *const units[2]);

#endif

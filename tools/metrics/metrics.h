// metrics: compares lines of text with references by BLEU, chrF, exact matches, word and character
// errors.
// SPDX-License-Identifier: MIT
//
// Figures follow from sums over sentences, as in sacreBLEU 2 (BLEU, chrF) and jiwer 4 (WER, CER):
//
//     struct metrics *m = metrics_create(&options);
//     for each line: if (metrics_add(m, hypothesis, references, n)) ...
//     metrics_value(m, FIGURE_BLEU);
//     metrics_destroy(m);
//
// Texts are UTF-8. A byte that belongs to no well-formed character counts as one character. Blanks
// are those of Python's str.split(): all of Unicode's.

#ifndef TRF_METRICS_H
#define TRF_METRICS_H

#include <stddef.h>
#include <stdint.h>

enum figure {
    FIGURE_BLEU, FIGURE_CHRF, FIGURE_CHRFPP, FIGURE_EXACT, FIGURE_WER, FIGURE_CER, FIGURES
};

struct figure_info {
    const char *name;           /* in options: "chrf++" */
    const char *title;          /* in results, as sacreBLEU has it: "chrF2++" */
};

extern const struct figure_info metrics_figures[FIGURES];
int metrics_figure_named(const char *name, size_t length);      /* or -1 */

enum { METRICS_OK = 0, METRICS_NO_MEMORY, METRICS_NO_REFERENCE };

/* How BLEU cuts a line into words. */
enum metrics_tokens { METRICS_13A, METRICS_NONE, METRICS_CHAR };

struct metrics_options {
    unsigned figures;           /* 1u << FIGURE_BLEU | ...: what is asked for; the others stay 0 */
    int32_t tokens;             /* enum metrics_tokens */
    int32_t lowercase;          /* of all figures */
};

/* n-grams of one order: in the hypotheses, in the references, and those in both. */
struct metrics_counts { int64_t hypothesis, reference, matches; };

struct metrics_sums {
    int64_t sentences;
    int64_t fewest_references, most_references;     /* of a sentence */
    struct metrics_counts bleu[4];      /* reference: of all references together */
    int64_t hypothesis_length;          /* words of BLEU; */
    int64_t reference_length;           /* those of the reference with the closest length */
    struct metrics_counts chrf[6], chrfpp[8];   /* orders of characters, words; best reference */
    int64_t exact;                      /* sentences with the words of a reference */
    int64_t word_errors, words;         /* of the reference with the fewest, then the longest */
    int64_t character_errors, characters;       /* likewise */
};

struct metrics;

struct metrics *metrics_create(const struct metrics_options *options);      /* NULL: no memory */
void metrics_destroy(struct metrics *m);

/* Adds a sentence with at least one reference. After any error nothing is added. The texts of a
   sentence may have 2^26 bytes together; with many more the result is METRICS_NO_MEMORY. The
   time of WER and CER grows with the product of both lengths, that of the others with the sum. */
int metrics_add(struct metrics *m, const char *hypothesis, const char *const *references,
                int n_references);

const struct metrics_sums *metrics_sums(const struct metrics *m);

/* The figure of all sentences so far, from 0 to 100 (error rates may be above). WER and CER are
   errors in 100 words or characters of the references; without any, a hundred times the errors, as
   in jiwer. */
double metrics_value(const struct metrics *m, enum figure which);

/* The same of other sums. The sums of one sentence are the difference that adding it made (sign
   -1); those of some sentences are the sum of theirs (sign 1). */
double metrics_value_of(const struct metrics_sums *sums, enum figure which);
void metrics_sums_add(struct metrics_sums *to, const struct metrics_sums *more, int sign);

/* BLEU and what it is made of: smoothed precisions in percent, brevity penalty. */
struct metrics_bleu { double score, precision[4], brevity; };
struct metrics_bleu metrics_bleu(const struct metrics_sums *sums);

/* The settings of the figure as sacreBLEU writes them: "nrefs:1|case:mixed|eff:no|tok:13a|...". Cut
   at `size`; 128 bytes and the version's are enough. */
void metrics_signature(const struct metrics *m, enum figure which, const char *version, char *text,
                       size_t size);

#endif

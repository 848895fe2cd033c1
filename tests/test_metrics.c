/* build: O0 */
/* The figures of trf eval: beside sacreBLEU's and jiwer's (written down), beside plain loops, on
   hostile bytes; every allocation failing once. With arguments it prints its figures for
   tools/parity/metrics.py. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Allocations that fail from number `failing` on; 0: none does. */
static long failing, allocations;
static void *tested_realloc(void *old, size_t bytes)
{
    if (++allocations >= failing && failing) return NULL;
    return realloc(old, bytes);
}
static void *tested_calloc(size_t n, size_t bytes)
{
    if (++allocations >= failing && failing) return NULL;
    return calloc(n, bytes);
}
#define realloc tested_realloc
#define calloc tested_calloc
#include "../tools/metrics/metrics.c"
#undef realloc
#undef calloc

#include "golden/metrics.h"

enum { SENTENCES = sizeof sentences / sizeof *sentences, RUNS = sizeof runs / sizeof *runs };
static const unsigned all_figures = (1u << FIGURES) - 1;

static struct metrics *make(unsigned figures, int tokens, int lowercase)
{
    struct metrics_options options;
    struct metrics *m;
    options.figures = figures;
    options.tokens = tokens;
    options.lowercase = lowercase;
    m = metrics_create(&options);
    assert_non_null(m);
    return m;
}

static int close_to(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

/* The units as text again. */
static size_t write_character(uint32_t c, char *to)
{
    char *at = to;
    if (c >= 0xDC80 && c < 0xDD00) *at++ = (char)(c - 0xDC00);
    else if (c < 0x80) *at++ = (char)c;
    else {
        int n = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        *at++ = (char)(0xFF00 >> (n + 1) | c >> 6 * n);
        while (n-- > 0) *at++ = (char)(0x80 | (c >> 6 * n & 0x3F));
    }
    return (size_t)(at - to);
}

/* The words of the line as BLEU has them, a blank between two. */
static void write_words(struct metrics *m, const char *line, char *to)
{
    const uint32_t *s;
    size_t n, at = 0, begin;
    char *start = to;
    clear(&m->characters);
    assert_int_equal(add_line(m, line), METRICS_OK);
    s = text_at(&m->characters, 0, &n);
    if (m->options.tokens == METRICS_13A) {
        assert_int_equal(tokenize_13a(m->scratch, s, n), METRICS_OK);
        s = m->scratch[0].at;
        n = m->scratch[0].n;
    }
    if (m->options.tokens == METRICS_CHAR) {
        for (; at < n; at++)
            if (!is_blank(s[at])) {
                to += write_character(s[at], to);
                *to++ = ' ';
            }
    } else {
        while (next_word(s, n, &at, &begin, 0)) {
            for (; begin < at; begin++) to += write_character(s[begin], to);
            *to++ = ' ';
        }
    }
    to[to > start ? -1 : 0] = 0;
}

/* ---- beside sacreBLEU and jiwer ---- */

static int texts_of(int sentence)
{
    int n = 0;
    while (n < MOST_TEXTS && sentences[sentence][n]) n++;
    return n;
}

static void add_sentence(struct metrics *m, int i)
{
    assert_int_equal(metrics_add(m, sentences[i][0], &sentences[i][1], texts_of(i) - 1),
                     METRICS_OK);
}

static void golden_figures(void **state)
{
    int r, i;
    (void)state;
    for (r = 0; r < RUNS; r++) {
        struct metrics *m = make(all_figures, runs[r].tokens, runs[r].lowercase);
        char text[160];
        for (i = 0; i < runs[r].n; i++) add_sentence(m, runs[r].first + i);
        for (i = 0; i < FIGURES; i++) {
            double ours = metrics_value(m, (enum figure)i);
            if (!close_to(ours, runs[r].figures[i]))
                fail_msg("%s of %d sentences from %d on: %.17g, not %.17g", metrics_figures[i].name,
                         runs[r].n, runs[r].first, ours, runs[r].figures[i]);
        }
        for (i = 0; i < 2; i++) {
            metrics_signature(m, i ? FIGURE_CHRFPP : FIGURE_BLEU, "", text, sizeof text);
            text[strlen(text) - 1] = 0;
            assert_string_equal(text, runs[r].signatures[i]);
        }
        metrics_destroy(m);
    }
}

static void golden_tokens(void **state)
{
    static const int how[3][2] = {{METRICS_13A, 0}, {METRICS_13A, 1}, {METRICS_CHAR, 0}};
    char text[2000];
    int i, k;
    (void)state;
    for (k = 0; k < 3; k++) {
        struct metrics *m = make(all_figures, how[k][0], how[k][1]);
        for (i = 0; i < SENTENCES; i++) {
            write_words(m, sentences[i][0], text);
            assert_string_equal(text, tokenized[i][k]);
        }
        metrics_destroy(m);
    }
}

static void all_characters(void **state)
{
    uint64_t sum = 0;
    uint32_t c;
    (void)state;
    for (c = 0; c < 0x110000; c++)
        if (c < 0xD800 || c >= 0xE000)
            sum = 31 * sum + (c == 0x130 ? 0 : small_letter(c)) + (uint64_t)is_blank(c);
    assert_true(sum == sum_of_characters);
}

/* A figure asked for alone is what it is among all; the others stay 0. */
static void one_figure(void **state)
{
    struct metrics *all = make(all_figures, METRICS_13A, 0);
    int i, f;
    (void)state;
    for (i = 0; i < SENTENCES; i++) add_sentence(all, i);
    for (f = 0; f < FIGURES; f++) {
        struct metrics *m = make(1u << f, METRICS_13A, 0);
        int other;
        for (i = 0; i < SENTENCES; i++) add_sentence(m, i);
        for (other = 0; other < FIGURES; other++)
            assert_true(metrics_value(m, (enum figure)other) ==
                        (other == f) * metrics_value(all, (enum figure)f));
        metrics_destroy(m);
    }
    metrics_destroy(all);
}

static void names_and_signatures(void **state)
{
    struct metrics *m = make(all_figures, METRICS_NONE, 1);
    const char *two[2] = {"a", "b"};
    char text[160];
    (void)state;
    assert_int_equal(metrics_figure_named("bleu", 4), FIGURE_BLEU);
    assert_int_equal(metrics_figure_named("chrf", 4), FIGURE_CHRF);
    assert_int_equal(metrics_figure_named("chrf++,wer", 6), FIGURE_CHRFPP);
    assert_int_equal(metrics_figure_named("chr", 3), -1);
    assert_int_equal(metrics_figure_named("", 0), -1);
    assert_int_equal(metrics_add(m, "a", two, 0), METRICS_NO_REFERENCE);
    assert_int_equal(metrics_sums(m)->sentences, 0);
    assert_true(metrics_value(m, FIGURE_BLEU) == 0 && metrics_value(m, FIGURE_WER) == 0);
    assert_int_equal(metrics_add(m, "a", two, 2), METRICS_OK);
    metrics_signature(m, FIGURE_WER, "1", text, sizeof text);
    assert_string_equal(text, "nrefs:2|case:lc|unit:word|ref:best|version:1");
    assert_int_equal(metrics_add(m, "a", two, 1), METRICS_OK);
    metrics_signature(m, FIGURE_BLEU, "1", text, sizeof text);
    assert_string_equal(text, "nrefs:var|case:lc|eff:no|tok:none|smooth:exp|version:1");
    metrics_signature(m, FIGURE_BLEU, "1", text, 10);
    assert_string_equal(text, "nrefs:var");
    metrics_destroy(m);
    metrics_destroy(NULL);
}

/* ---- beside plain loops ---- */

static uint32_t next_random(uint64_t *x)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*x >> 33);
}

/* Letters of a small alphabet, so that n-grams repeat; `words` of one letter each. */
static int random_line(uint64_t *x, int words, char *to)
{
    int n = (int)(next_random(x) % (unsigned)(words + 1)), i;
    for (i = 0; i < n; i++) { to[2 * i] = (char)('a' + next_random(x) % 4); to[2 * i + 1] = ' '; }
    to[2 * n] = 0;
    return n;
}

static int times(const char *in, int n, const char *gram, int order)
{
    int i, found = 0;
    for (i = 0; i + order <= n; i++) found += !memcmp(in + 2 * i, gram, (size_t)(2 * order));
    return found;
}

static void plain_matches(void **state)
{
    uint64_t x = 1;
    int round;
    (void)state;
    for (round = 0; round < 2000; round++) {
        struct metrics *m = make(1u << FIGURE_BLEU, METRICS_NONE, 0);
        char hypothesis[100], reference[3][100];
        const char *references[3] = {reference[0], reference[1], reference[2]};
        int n = random_line(&x, 40, hypothesis), lengths[3], some = 1 + (int)(next_random(&x) % 3),
            order, i, k;
        for (k = 0; k < some; k++) lengths[k] = random_line(&x, 40, reference[k]);
        assert_int_equal(metrics_add(m, hypothesis, references, some), METRICS_OK);
        for (order = 1; order <= 4; order++) {
            int64_t matches = 0;
            for (i = 0; i + order <= n; i++) { /* the n-gram at i, if it is the first of its kind */
                const char *gram = hypothesis + 2 * i;
                int most = 0, own = times(hypothesis, n, gram, order);
                if (times(hypothesis, i + order - 1, gram, order)) continue;
                for (k = 0; k < some; k++) {
                    int found = times(reference[k], lengths[k], gram, order);
                    if (found > most) most = found;
                }
                matches += own < most ? own : most;
            }
            assert_int_equal(metrics_sums(m)->bleu[order - 1].matches, matches);
            assert_int_equal(metrics_sums(m)->bleu[order - 1].hypothesis,
                             n < order ? 0 : n - order + 1);
        }
        metrics_destroy(m);
    }
}

static int plain_distance(const char *a, const char *b)
{
    int d[50][50], n = (int)strlen(a) / 2, k = (int)strlen(b) / 2, i, j;
    for (i = 0; i <= n; i++)
        for (j = 0; j <= k; j++) {
            int least = i && j ? d[i - 1][j - 1] + (a[2 * i - 2] != b[2 * j - 2]) : i + j;
            if (i && d[i - 1][j] + 1 < least) least = d[i - 1][j] + 1;
            if (j && d[i][j - 1] + 1 < least) least = d[i][j - 1] + 1;
            d[i][j] = least;
        }
    return d[n][k];
}

/* With several references: the fewest errors; the longest of those, in whatever order they come. */
static void plain_errors(void **state)
{
    uint64_t x = 2;
    int round;
    (void)state;
    for (round = 0; round < 2000; round++) {
        struct metrics *m = make(1u << FIGURE_WER, METRICS_13A, 0);
        char hypothesis[100], reference[3][100];
        const char *references[3] = {reference[0], reference[1], reference[2]};
        int some = 1 + (int)(next_random(&x) % 3), fewest = 1000, longest = 0, k;
        random_line(&x, 40, hypothesis);
        for (k = 0; k < some; k++) {
            int n = random_line(&x, 40, reference[k]),
                edits = plain_distance(hypothesis, reference[k]);
            if (edits < fewest || (edits == fewest && n > longest)) { fewest = edits; longest = n; }
        }
        assert_int_equal(metrics_add(m, hypothesis, references, some), METRICS_OK);
        assert_int_equal(metrics_sums(m)->word_errors, fewest);
        assert_int_equal(metrics_sums(m)->words, longest);
        metrics_destroy(m);
    }
}

/* ---- hostile input, long lines, no memory ---- */

/* Every byte that breaks off or begins wrongly is one character; what follows is read again. */
static void bad_bytes(void **state)
{
    static const struct { const char *text; int characters;
    } some[] = {{"\x80", 1},
                {"\xC3\xA4", 1},
                {"\xC3", 1},
                {"\xC3"
                 "a",
                 2},
                {"\xC0\x80", 2},
                {"\xE2\x82\xAC", 1},
                {"\xE2\x82", 2},
                {"\xE0\x80\x80", 3},
                {"\xED\xA0\x80", 3},
                {"\xEE\x80\x80", 1},
                {"\xF0\x9F\x98\x80", 1},
                {"\xF0\x8F\xBF\xBF", 4},
                {"\xF4\x8F\xBF\xBF", 1},
                {"\xF4\x90\x80\x80", 4},
                {"\xF5\x80\x80\x80", 4},
                {"\xF9\x80\x80\x80", 4},
                {"\xFF\xFE", 2},
                {"\xE2\xC3\xA4", 2},
                {"\xC3\xA4\x80", 2}};
    struct metrics *alone = make(1u << FIGURE_CER, METRICS_13A, 0);
    const char *character = "\xC2\x80";
    size_t i;
    (void)state;
    assert_int_equal(metrics_add(alone, "\x80", &character, 1), METRICS_OK);
    assert_int_equal(metrics_sums(alone)->character_errors, 1);     /* the byte is not U+0080 */
    metrics_destroy(alone);
    for (i = 0; i < sizeof some / sizeof *some; i++) {
        struct metrics *m = make(1u << FIGURE_CER, METRICS_13A, 0);
        const char *reference = some[i].text;
        assert_int_equal(metrics_add(m, "", &reference, 1), METRICS_OK);
        assert_int_equal(metrics_sums(m)->characters, some[i].characters);
        metrics_destroy(m);
    }
}

static void random_bytes(void **state)
{
    struct metrics *m[3] = {make(all_figures, METRICS_13A, 1), make(all_figures, METRICS_NONE, 1),
                            make(all_figures, METRICS_CHAR, 0)};
    uint64_t x = 3;
    int round, i, k, f;
    (void)state;
    for (round = 0; round < 3000; round++) {
        char *texts[3];
        for (k = 0; k < 3; k++) {
            size_t n = next_random(&x) % 60, j;
            texts[k] = (char *)malloc(n + 1);       /* exactly as long: reading behind it is seen */
            for (j = 0; j < n; j++) {
                texts[k][j] = (char)(1 + next_random(&x) % 255);
                if (next_random(&x) % 2)
                    texts[k][j] = "&.,-'1a \xC3\xE2\x80\xCE\xA3"[next_random(&x) % 13];
            }
            texts[k][n] = 0;
        }
        for (i = 0; i < 3; i++)
            assert_int_equal(metrics_add(m[i], texts[0], (const char *const *)&texts[1], 2),
                             METRICS_OK);
        for (k = 0; k < 3; k++) free(texts[k]);
    }
    for (i = 0; i < 3; i++) {
        for (f = 0; f < FIGURES; f++) {
            double value = metrics_value(m[i], (enum figure)f);
            assert_true(value >= 0 && value < 1000);
        }
        metrics_destroy(m[i]);
    }
}

/* Of every length: a line that becomes as long as it can. */
static void growing_lines(void **state)
{
    static const char *const patterns[] = {",", "a,", ",a", "1-", "!", "\xC4\xB0", " ,"};
    char line[1400];
    const char *reference = line;
    size_t k, n, i;
    (void)state;
    for (k = 0; k < sizeof patterns / sizeof *patterns; k++)
        for (n = 1; n < sizeof line; n += 1 + n / 20) {
            struct metrics *m = make(all_figures & ~(1u << FIGURE_CER), METRICS_13A, 1);
            for (i = 0; i < n; i++) line[i] = patterns[k][i % strlen(patterns[k])];
            line[n] = 0;
            assert_int_equal(metrics_add(m, line, &reference, 1), METRICS_OK);
            assert_int_equal(metrics_sums(m)->word_errors, 0);
            metrics_destroy(m);
        }
}

/* A line of 200,000 characters, and a short one after it. */
static void long_lines(void **state)
{
    enum { N = 200000 };
    struct metrics *m = make(all_figures & ~(1u << FIGURE_CER | 1u << FIGURE_WER), METRICS_13A, 1);
    char *line = (char *)malloc(N + 1);
    const char *reference = line;
    uint64_t x = 4;
    int i;
    (void)state;
    for (i = 0; i < N; i++) line[i] = "abcdefg .,&1"[next_random(&x) % 12];
    line[N] = 0;
    assert_int_equal(metrics_add(m, line, &reference, 1), METRICS_OK);
    assert_int_equal(metrics_add(m, "ab", &reference, 1), METRICS_OK);
    reference = "ab";
    assert_int_equal(metrics_add(m, line, &reference, 1), METRICS_OK);
    assert_int_equal(metrics_sums(m)->exact, 1);
    free(line);
    metrics_destroy(m);
}

/* Each allocation fails once: the sums stay what they were, and then it goes on. */
static void no_memory(void **state)
{
    static const char *const references[2] = {"The little dog, 1.5 years old, sleeps.", "A dog."};
    struct metrics_options options = {0, METRICS_13A, 1};
    long number, failures = 0;
    (void)state;
    options.figures = all_figures;
    for (number = 1; number < 100; number++) {
        struct metrics_sums before;
        struct metrics *m;
        int status;
        allocations = 0;
        failing = number;
        m = metrics_create(&options);
        if (!m) { assert_int_equal(number, 1); continue; }
        before = *metrics_sums(m);
        status = metrics_add(m, "The small dog is 2.5 years old.", references, 2);
        failing = 0;
        if (status) {
            failures++;
            assert_int_equal(status, METRICS_NO_MEMORY);
            assert_memory_equal(&before, metrics_sums(m), sizeof before);
            assert_int_equal(metrics_add(m, "The small dog is 2.5 years old.", references, 2),
                             METRICS_OK);
        }
        assert_int_equal(metrics_sums(m)->sentences, 1);
        assert_true(metrics_value(m, FIGURE_CHRFPP) > 0);
        metrics_destroy(m);
    }
    assert_true(failures > 8 && failures < 98);
}

/* A table whose stamps run out is cleared. */
static void stamps(void **state)
{
    struct metrics *m = make(1u << FIGURE_BLEU, METRICS_13A, 0);
    const char *reference = "a b c d e";
    int i;
    (void)state;
    assert_int_equal(metrics_add(m, "a b c d e", &reference, 1), METRICS_OK);
    m->table.stamp = UINT32_MAX - 2;
    for (i = 0; i < 3; i++)
        assert_int_equal(metrics_add(m, "a b c d e", &reference, 1), METRICS_OK);
    assert_true(close_to(metrics_value(m, FIGURE_BLEU), 100));
    assert_true(m->table.stamp < 100);
    metrics_destroy(m);
}

/* ---- for tools/parity/metrics.py ---- */

/* Lines in turn hypothesis and reference: the figures of each pair and, behind a tab, the words of
   the hypothesis. */
static int print_pairs(const char *tokens, const char *letters)
{
    int how = !strcmp(tokens, "13a")    ? METRICS_13A
              : !strcmp(tokens, "none") ? METRICS_NONE
                                        : METRICS_CHAR,
        i;
    char *line[2] = {NULL, NULL}, *words = NULL;
    size_t capacity[2] = {0, 0};
    ssize_t n;
    while ((n = getline(&line[0], &capacity[0], stdin)) > 0 &&
           getline(&line[1], &capacity[1], stdin) > 0) {
        struct metrics *m = make(all_figures, how, !strcmp(letters, "lower"));
        for (i = 0; i < 2; i++) line[i][strcspn(line[i], "\n")] = 0;
        assert_int_equal(metrics_add(m, line[0], (const char *const *)&line[1], 1), METRICS_OK);
        for (i = 0; i < FIGURES; i++) printf("%.17g ", metrics_value(m, (enum figure)i));
        words = (char *)realloc(words, 5 * (size_t)n + 1);
        assert_non_null(words);
        write_words(m, line[0], words);
        printf("\t%s\n", words);
        metrics_destroy(m);
    }
    free(line[0]);
    free(line[1]);
    free(words);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_figures), cmocka_unit_test(golden_tokens),
        cmocka_unit_test(all_characters), cmocka_unit_test(one_figure),
        cmocka_unit_test(growing_lines),  cmocka_unit_test(names_and_signatures),
        cmocka_unit_test(plain_matches),  cmocka_unit_test(plain_errors),
        cmocka_unit_test(bad_bytes),      cmocka_unit_test(random_bytes),
        cmocka_unit_test(long_lines),     cmocka_unit_test(no_memory),
        cmocka_unit_test(stamps)};
    if (argc == 3) return print_pairs(argv[1], argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

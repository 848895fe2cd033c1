// metrics: BLEU, chrF, exact matches, word and character errors. See metrics.h.
//
// A line becomes characters; characters become units (words of some kind, or characters of some
// kind), numbered so that equal ones have equal numbers; of the units, n-grams are counted, or
// edits.
//
// Contents: characters.h  >>units  >>n-grams  >>bleu  >>chrf  >>errors  >>figures

#include "metrics.h"
#include "../unicode/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct figure_info metrics_figures[FIGURES] = {
    {"bleu", "BLEU"}, {"chrf", "chrF2"}, {"chrf++", "chrF2++"}, {"exact", "exact"}, {"wer", "WER"},
    {"cer", "CER"}};

#include "characters.h"

struct metrics {
    struct metrics_options options;
    struct metrics_sums sums;
    struct parts characters;        /* of the hypothesis and of each reference */
    struct parts units, words;      /* the same, cut for the figure at hand */
    struct units scratch[2];        /* a line on its way */
    struct units grams;             /* number of the n-gram that begins at each unit */
    struct units row;               /* of the table of edit distances */
    struct table table;
};

/* One more text behind m->characters. */
static int add_line(struct metrics *m, const char *line)
{
    struct units *all = &m->characters.units, *to = m->options.lowercase ? &m->scratch[0] : all;
    size_t n = strlen(line), i = 0;
    uint32_t c;
    m->scratch[0].n = 0;
    if (reserve(to, n) || reserve(&m->characters.ends, 1)) return METRICS_NO_MEMORY;
    while (i < n) {
        i += character_at((const unsigned char *)line + i, n - i, &c);
        put(to, c);
    }
    if (to != all && append_lower(all, to->at, to->n)) return METRICS_NO_MEMORY;
    put(&m->characters.ends, (uint32_t)all->n);
    return METRICS_OK;
}

// -----------------------------------------------------------------------------------------------
// >>units          what each figure counts in a line: words or characters of some kind
// -----------------------------------------------------------------------------------------------

/* A cutter appends the units of a text; there is room for one for each of its characters. */
typedef int cutter(struct metrics *m, struct units *to, const uint32_t *s, size_t n);

/* Equal words have equal numbers. */
static void put_word(struct metrics *m, struct units *to, const uint32_t *s, size_t n)
{
    uint32_t word = ROOT;
    size_t i;
    for (i = 0; i < n; i++) word = find(&m->table, word, s[i], 1);
    put(to, word);
}

/* Finds the next word from *at on: to `end`, where *at then is. Blanks part words; with `jiwer` a
   blank that stands by itself does so only if it is U+0020. */
static int next_word(const uint32_t *s, size_t n, size_t *at, size_t *begin, int jiwer)
{
    size_t i = *at;
    while (i < n && is_blank(s[i])) i++;
    *begin = i;
    while (i < n && (!is_blank(s[i]) || (jiwer && s[i] != ' ' && i + 1 < n && !is_blank(s[i + 1]))))
        i++;
    *at = i;
    return *begin < n;
}

/* str.split(): exact matches, and BLEU with tokens "none". */
static int cut_words(struct metrics *m, struct units *to, const uint32_t *s, size_t n)
{
    size_t at = 0, begin;
    while (next_word(s, n, &at, &begin, 0)) put_word(m, to, s + begin, at - begin);
    return METRICS_OK;
}

static int cut_13a(struct metrics *m, struct units *to, const uint32_t *s, size_t n)
{
    int status = tokenize_13a(m->scratch, s, n);
    return status ? status : cut_words(m, to, m->scratch[0].at, m->scratch[0].n);
}

/* Characters without blanks: chrF, and BLEU with tokens "char". */
static int cut_characters(struct metrics *m, struct units *to, const uint32_t *s, size_t n)
{
    size_t i;
    (void)m;
    for (i = 0; i < n; i++) if (!is_blank(s[i])) put(to, s[i]);
    return METRICS_OK;
}

/* string.punctuation: the visible ASCII that is no letter and no digit. */
static int is_punctuation(uint32_t c)
{
    return c != ' ' && (stands_alone(c) || c == '\'' || is_stop(c) || is_dash(c));
}

/* chrF++: a punctuation mark at the end of a word is a word, or else one at its beginning
   (chrf.py, _remove_punctuation). */
static int cut_chrf_words(struct metrics *m, struct units *to, const uint32_t *s, size_t n)
{
    size_t at = 0, begin, split;
    while (next_word(s, n, &at, &begin, 0)) {
        split = at - begin < 2              ? at
                : is_punctuation(s[at - 1]) ? at - 1
                : is_punctuation(s[begin])  ? begin + 1
                                            : at;
        put_word(m, to, s + begin, split - begin);
        if (split < at) put_word(m, to, s + split, at - split);
    }
    return METRICS_OK;
}

/* WER, as jiwer: of the blanks at both ends none counts, two or more are U+0020, and U+0020 parts
   words. */
static int cut_wer_words(struct metrics *m, struct units *to, const uint32_t *s, size_t n)
{
    size_t at = 0, begin;
    while (n > 0 && is_blank(s[n - 1])) n--;
    while (next_word(s, n, &at, &begin, 1)) put_word(m, to, s + begin, at - begin);
    return METRICS_OK;
}

/* CER, as jiwer: all characters, blanks too, but for those at both ends. */
static int cut_cer_characters(struct metrics *m, struct units *to, const uint32_t *s, size_t n)
{
    size_t i = 0;
    (void)m;
    while (n > 0 && is_blank(s[n - 1])) n--;
    while (i < n && is_blank(s[i])) i++;
    for (; i < n; i++) put(to, s[i]);
    return METRICS_OK;
}

/* All texts of the sentence, cut. */
static int cut(struct metrics *m, struct parts *to, cutter *how)
{
    size_t texts = m->characters.ends.n, t, n;
    clear(to);
    if (prepare(&m->table, m->characters.units.n) || reserve(&to->units, m->characters.units.n) ||
        reserve(&to->ends, texts)) return METRICS_NO_MEMORY;
    for (t = 0; t < texts; t++) {
        const uint32_t *s = text_at(&m->characters, t, &n);
        if (how(m, &to->units, s, n)) return METRICS_NO_MEMORY;
        put(&to->ends, (uint32_t)to->units.n);
    }
    return METRICS_OK;
}

// -----------------------------------------------------------------------------------------------
// >>n-grams        how many, and how many in common
//
// An n-gram is numbered by its first n - 1 units, whose number is known from the order before, and
// its last one. Of one that the hypothesis has h times and reference r has k_r times, min(h, max
// over r of k_r) match.
// -----------------------------------------------------------------------------------------------

/* The hypothesis' n-grams into the table; g: their numbers. */
static void count_hypothesis(struct table *table, const uint32_t *s, size_t n, size_t order,
                             uint32_t *g)
{
    size_t i;
    for (i = 0; i + order <= n; i++) {
        g[i] = find(table, order > 1 ? g[i] : ROOT, s[i + order - 1], 1);
        table->slots[g[i]].in_hypothesis++;
    }
}

/* Those of the reference that is text t: returns how many more match now. */
static int64_t count_reference(struct table *table, const uint32_t *s, size_t n, size_t order,
                               uint32_t *g, uint32_t t)
{
    int64_t matches = 0;
    size_t i;
    for (i = 0; i + order <= n; i++) {
        struct slot *slot;
        if (order > 1 && g[i] == NONE) continue;
        g[i] = find(table, order > 1 ? g[i] : ROOT, s[i + order - 1], 0);
        if (g[i] == NONE) continue;
        slot = &table->slots[g[i]];
        if (slot->text != t) { slot->text = t; slot->in_reference = 0; }
        if (++slot->in_reference <= slot->most) continue;
        slot->most = slot->in_reference;
        matches += slot->most <= slot->in_hypothesis;
    }
    return matches;
}

/* counts[0] of n-grams of order 1, and so on: of text 0 and of the references first to last. */
static int count_grams(struct metrics *m, const struct parts *p, size_t first, size_t last,
                       size_t orders, struct metrics_counts *counts)
{
    size_t order, t, n, hypothesis;
    m->grams.n = 0;
    if (reserve(&m->grams, p->units.n)) return METRICS_NO_MEMORY;
    for (order = 1; order <= orders; order++, counts++) {
        const uint32_t *s = text_at(p, 0, &hypothesis);
        if (prepare(&m->table, hypothesis)) return METRICS_NO_MEMORY;
        memset(counts, 0, sizeof *counts);
        counts->hypothesis = hypothesis < order ? 0 : (int64_t)(hypothesis - order + 1);
        count_hypothesis(&m->table, s, hypothesis, order, m->grams.at);
        for (t = first; t <= last; t++) {
            s = text_at(p, t, &n);
            counts->reference += n < order ? 0 : (int64_t)(n - order + 1);
            counts->matches += count_reference(&m->table, s, n, order,
                                               m->grams.at + (s - p->units.at), (uint32_t)t);
        }
    }
    return METRICS_OK;
}

// -----------------------------------------------------------------------------------------------
// >>bleu           Papineni et al., 2002, as sacreBLEU's bleu.py
// -----------------------------------------------------------------------------------------------

/* The length that is closest to the hypothesis'; of two the shorter. */
static size_t closest_length(const struct parts *p)
{
    size_t hypothesis, n, t, closest = 0, least = SIZE_MAX;
    text_at(p, 0, &hypothesis);
    for (t = 1; t < p->ends.n; t++) {
        size_t far;
        text_at(p, t, &n);
        far = n < hypothesis ? hypothesis - n : n - hypothesis;
        if (far < least || (far == least && n < closest)) { least = far; closest = n; }
    }
    return closest;
}

static int add_bleu(struct metrics *m, struct metrics_sums *sums)
{
    cutter *const how[] = {cut_13a, cut_words, cut_characters};
    struct metrics_counts counts[4];
    size_t n;
    int i, status = cut(m, &m->units, how[m->options.tokens]);
    if (!status) status = count_grams(m, &m->units, 1, m->units.ends.n - 1, 4, counts);
    if (status) return status;
    text_at(&m->units, 0, &n);
    sums->hypothesis_length += (int64_t)n;
    sums->reference_length += (int64_t)closest_length(&m->units);
    for (i = 0; i < 4; i++) {
        sums->bleu[i].hypothesis += counts[i].hypothesis;
        sums->bleu[i].reference += counts[i].reference;
        sums->bleu[i].matches += counts[i].matches;
    }
    return METRICS_OK;
}

/* BLEU = brevity * exp(1/4 sum_n log p_n), brevity = min(1, exp(1 - r / h)) for lengths h and r,
   p_n = matches_n / hypothesis_n. Smoothing "exp": the k-th p_n without a match is 1 / (2^k
   hypothesis_n). */
struct metrics_bleu metrics_bleu(const struct metrics_sums *sums)
{
    struct metrics_bleu b;
    double h = (double)sums->hypothesis_length, r = (double)sums->reference_length, smooth = 1,
           logs = 0;
    int n;
    memset(&b, 0, sizeof b);
    b.brevity = h >= r ? 1 : h > 0 ? exp(1 - r / h) : 0;
    if (sums->bleu[0].matches == 0) return b;       /* no match of order 1: none of any */
    for (n = 0; n < 4 && sums->bleu[n].hypothesis > 0; n++) {
        double matches = (double)sums->bleu[n].matches, all = (double)sums->bleu[n].hypothesis;
        if (sums->bleu[n].matches == 0) smooth *= 2;
        b.precision[n] = matches > 0 ? 100 * matches / all : 100 / (smooth * all);
        logs += log(b.precision[n]);
    }
    if (n == 4) b.score = b.brevity * exp(logs / 4); /* a hypothesis of three words has no p_4 */
    return b;
}

// -----------------------------------------------------------------------------------------------
// >>chrf           Popovic, 2015 and 2017 (chrF++), as sacreBLEU's chrf.py
// -----------------------------------------------------------------------------------------------

/* F = (1 + b^2) P R / (b^2 P + R) with b = 2; P and R: averages of matches / hypothesis and of
   matches / reference over the orders that both sides have. From 0 to 100. */
static double f_score(const struct metrics_counts *counts, int orders)
{
    double precision = 0, recall = 0;
    int i, n = 0;
    for (i = 0; i < orders; i++) {
        if (counts[i].hypothesis == 0 || counts[i].reference == 0) continue;
        precision += (double)counts[i].matches / (double)counts[i].hypothesis;
        recall += (double)counts[i].matches / (double)counts[i].reference;
        n++;
    }
    if (n == 0 || precision + recall == 0) return 0;
    precision /= n;
    recall /= n;
    return 100 * (5 * precision * recall / (4 * precision + recall));
}

/* Adds the counts of the reference with the best score; of several such, the first. */
static int add_chrf(struct metrics *m, int word_orders, struct metrics_counts *sums)
{
    struct metrics_counts counts[8], best[8];
    double score, highest = -1;
    size_t r;
    int i, orders = 6 + word_orders, status = cut(m, &m->units, cut_characters);
    if (!status && word_orders) status = cut(m, &m->words, cut_chrf_words);
    for (r = 1; !status && r < m->units.ends.n; r++) {
        status = count_grams(m, &m->units, r, r, 6, counts);
        if (!status) status = count_grams(m, &m->words, r, r, (size_t)word_orders, counts + 6);
        for (i = 0; i < orders; i++) if (counts[i].reference == 0) counts[i].hypothesis = 0;
        score = f_score(counts, orders);
        if (!(score > highest)) continue;
        highest = score;
        memcpy(best, counts, sizeof best);
    }
    if (status) return status;
    for (i = 0; i < orders; i++) {
        sums[i].hypothesis += best[i].hypothesis;
        sums[i].reference += best[i].reference;
        sums[i].matches += best[i].matches;
    }
    return METRICS_OK;
}

// -----------------------------------------------------------------------------------------------
// >>errors         exact matches; word and character errors
// -----------------------------------------------------------------------------------------------

static int add_exact(struct metrics *m, struct metrics_sums *sums)
{
    size_t n, length, t;
    const uint32_t *s, *hypothesis;
    int status = cut(m, &m->units, cut_words);
    if (status) return status;
    hypothesis = text_at(&m->units, 0, &n);
    for (t = 1; t < m->units.ends.n; t++) {
        s = text_at(&m->units, t, &length);
        if (length == n && !memcmp(s, hypothesis, n * sizeof *s)) break;
    }
    sums->exact += t < m->units.ends.n;
    return METRICS_OK;
}

/* The least number of insertions, deletions and substitutions that make a into b (Levenshtein,
   1966): d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [a_i != b_j]), of which row i -
   1 is kept. */
static int edit_distance(struct metrics *m, const uint32_t *a, size_t n, const uint32_t *b,
                         size_t k, size_t *edits)
{
    uint32_t *d;
    size_t i, j;
    while (n > 0 && k > 0 && *a == *b) { a++; n--; b++; k--; }
    while (n > 0 && k > 0 && a[n - 1] == b[k - 1]) { n--; k--; }
    m->row.n = 0;
    if (reserve(&m->row, k + 1)) return METRICS_NO_MEMORY;
    d = m->row.at;
    for (j = 0; j <= k; j++) d[j] = (uint32_t)j;
    for (i = 0; i < n; i++) {
        uint32_t diagonal = d[0], left = ++d[0];
        for (j = 1; j <= k; j++) {
            uint32_t above = d[j], least = diagonal + (a[i] != b[j - 1]);
            if (above + 1 < least) least = above + 1;
            if (left + 1 < least) least = left + 1;
            diagonal = above;
            d[j] = left = least;
        }
    }
    *edits = d[k];
    return METRICS_OK;
}

/* Adds the errors beside the reference that has the fewest; of several such, beside the longest. */
static int add_errors(struct metrics *m, cutter *how, int64_t *errors, int64_t *units)
{
    size_t t, n, length, edits = 0, fewest = SIZE_MAX, longest = 0;
    int status = cut(m, &m->units, how);
    for (t = 1; !status && t < m->units.ends.n; t++) {
        const uint32_t *hypothesis = text_at(&m->units, 0, &n), *s = text_at(&m->units, t, &length);
        status = edit_distance(m, s, length, hypothesis, n, &edits);
        if (edits > fewest || (edits == fewest && length <= longest)) continue;
        fewest = edits;
        longest = length;
    }
    if (status) return status;
    *errors += (int64_t)fewest;
    *units += (int64_t)longest;
    return METRICS_OK;
}

// -----------------------------------------------------------------------------------------------
// >>figures        sums in, figures out
// -----------------------------------------------------------------------------------------------

struct metrics *metrics_create(const struct metrics_options *options)
{
    struct metrics *m = (struct metrics *)calloc(1, sizeof *m);
    if (m) m->options = *options;
    return m;
}

void metrics_destroy(struct metrics *m)
{
    if (!m) return;
    free_parts(&m->characters);
    free_parts(&m->units);
    free_parts(&m->words);
    free(m->scratch[0].at);
    free(m->scratch[1].at);
    free(m->grams.at);
    free(m->row.at);
    free(m->table.slots);
    free(m);
}

static int wanted(const struct metrics *m, enum figure which)
{
    return (int)(m->options.figures >> which & 1);
}

int metrics_add(struct metrics *m, const char *hypothesis, const char *const *references,
                int n_references)
{
    struct metrics_sums sums = m->sums;
    int i, status;
    if (n_references < 1) return METRICS_NO_REFERENCE;
    clear(&m->characters);
    status = add_line(m, hypothesis);
    for (i = 0; !status && i < n_references; i++) status = add_line(m, references[i]);
    if (!status && wanted(m, FIGURE_BLEU)) status = add_bleu(m, &sums);
    if (!status && wanted(m, FIGURE_CHRF)) status = add_chrf(m, 0, sums.chrf);
    if (!status && wanted(m, FIGURE_CHRFPP)) status = add_chrf(m, 2, sums.chrfpp);
    if (!status && wanted(m, FIGURE_EXACT)) status = add_exact(m, &sums);
    if (!status && wanted(m, FIGURE_WER))
        status = add_errors(m, cut_wer_words, &sums.word_errors, &sums.words);
    if (!status && wanted(m, FIGURE_CER))
        status = add_errors(m, cut_cer_characters, &sums.character_errors, &sums.characters);
    if (status) return status;
    if (!sums.sentences++) sums.fewest_references = n_references;
    if (n_references < sums.fewest_references) sums.fewest_references = n_references;
    if (n_references > sums.most_references) sums.most_references = n_references;
    m->sums = sums;
    return METRICS_OK;
}

const struct metrics_sums *metrics_sums(const struct metrics *m) { return &m->sums; }

static double percent(int64_t part, int64_t whole)
{
    return 100 * (double)part / (double)(whole > 0 ? whole : 1);
}

double metrics_value(const struct metrics *m, enum figure which)
{
    return metrics_value_of(&m->sums, which);
}

void metrics_sums_add(struct metrics_sums *to, const struct metrics_sums *more, int sign)
{
    int64_t *sums = (int64_t *)(void *)to;          /* there is nothing else in it */
    const int64_t *other = (const int64_t *)(const void *)more;
    size_t i;
    for (i = 0; i < sizeof *to / sizeof *sums; i++) sums[i] += sign * other[i];
}

double metrics_value_of(const struct metrics_sums *s, enum figure which)
{
    switch (which) {
    case FIGURE_BLEU: return metrics_bleu(s).score;
    case FIGURE_CHRF: return f_score(s->chrf, 6);
    case FIGURE_CHRFPP: return f_score(s->chrfpp, 8);
    case FIGURE_EXACT: return percent(s->exact, s->sentences);
    case FIGURE_WER: return percent(s->word_errors, s->words);
    case FIGURE_CER: return percent(s->character_errors, s->characters);
    case FIGURES: break;
    }
    return 0;
}

void metrics_signature(const struct metrics *m, enum figure which, const char *version, char *text,
                       size_t size)
{
    static const char *const tokens[] = {"13a", "none", "char"};
    static const char *const rules[FIGURES] = {
        NULL,        "eff:yes|nc:6|nw:0|space:no", "eff:yes|nc:6|nw:2|space:no",
        "unit:line", "unit:word|ref:best",         "unit:char|space:yes|ref:best"};
    const struct metrics_sums *s = &m->sums;
    char count[24] = "var", bleu[40];
    if (s->fewest_references == s->most_references)
        snprintf(count, sizeof count, "%lld", (long long)s->most_references);
    snprintf(bleu, sizeof bleu, "eff:no|tok:%s|smooth:exp", tokens[m->options.tokens]);
    snprintf(text, size, "nrefs:%s|case:%s|%s|version:%s", count,
             m->options.lowercase ? "lc" : "mixed", which == FIGURE_BLEU ? bleu : rules[which],
             version);
}

int metrics_figure_named(const char *name, size_t length)
{
    int i;
    for (i = 0; i < FIGURES; i++)
        if (strlen(metrics_figures[i].name) == length &&
            !memcmp(metrics_figures[i].name, name, length))
            return i;
    return -1;
}

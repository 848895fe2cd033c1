// trf doctor: the two sides of pairs beside one another. See doctor.h.
//
// Nothing is known about the languages. What most pairs have in common is right, and single pairs
// are compared with it.

#include "doctor.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>languages      sides that are exchanged, or in the language of the other one
//
// How often each three bytes in a row occur on either side says from which side a text probably is:
// the mean of log(p(source) / p(target)). The counts come from the first pairs. A pair that seems
// to be exchanged is counted so: then a file shows it even if half of it is exchanged.
// -----------------------------------------------------------------------------------------------

enum { TRIGRAMS = 1 << 16, LEARNED = 100000 };

struct profile {
    int32_t count[2][TRIGRAMS];
    double total[2];
    float evidence[TRIGRAMS];       /* of each three bytes, once all are counted */
    int counted;
};

/* The place of the three bytes at *at; 0: the text ends there. Blanks follow a text. */
static int next_trigram(const unsigned char **at, uint32_t *slot)
{
    const unsigned char *c = *at;
    uint32_t three;
    if (!*c) return 0;
    three = (uint32_t)c[0] << 16 | (uint32_t)(c[1] ? c[1] : ' ') << 8 | (c[1] && c[2] ? c[2] : ' ');
    *slot = (three * 2654435761u) >> 16;
    ++*at;
    return 1;
}

static void count_trigrams(struct profile *p, const char *text, int side)
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t slot;
    while (next_trigram(&at, &slot)) {
        p->count[side][slot]++;
        p->total[side]++;
    }
}

/* Rare ones say nothing. */
static double evidence_of(const struct profile *p, uint32_t slot)
{
    double a = p->count[0][slot], b = p->count[1][slot];
    return a + b < 4 ? 0 : log((a + 0.5) * (p->total[1] + 1) / ((b + 0.5) * (p->total[0] + 1)));
}

/* The mean evidence that a text is a source, as if it had eight trigrams more that say nothing: a
   short text shows little. */
static double source_like(const struct profile *p, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    double sum = 0;
    uint32_t slot;
    int n;
    for (n = 0; next_trigram(&at, &slot); n++)
        sum += p->counted ? (double)p->evidence[slot] : evidence_of(p, slot);
    return sum / (n + 8);
}

/* Counts the first pairs, each as it seems to be. Returns 1 if most are exchanged. */
static int learn_languages(struct profile *p, const trf_data_lines *lines, int64_t n)
{
    int64_t i, exchanged = 0;
    uint32_t slot;
    if (n > LEARNED) n = LEARNED;
    for (i = 0; i < n; i++) {
        int other = source_like(p, lines->source[i]) < -0.2 &&
                    source_like(p, lines->target[i]) > 0.2;
        count_trigrams(p, lines->source[i], other);
        count_trigrams(p, lines->target[i], !other);
        exchanged += other;
    }
    for (slot = 0; slot < TRIGRAMS; slot++) p->evidence[slot] = (float)evidence_of(p, slot);
    p->counted = 1;
    return 2 * exchanged > n;
}

/* The threshold is a part of what most pairs show. Sides that are alike have none, though in a few
   pairs chance makes them differ. */
static void find_languages(struct doctor *d, const trf_data_lines *lines)
{
    struct profile *p = zeroed(1, sizeof *p);
    int turned = learn_languages(p, lines, d->of[0]);
    double usual = 0, sign = turned ? -1 : 1, least;
    int64_t i, n = (int64_t)d->n;
    for (i = 0; i < n; i++)
        usual += fabs(source_like(p, lines->source[i]) - source_like(p, lines->target[i])) /
                 (2 * (double)n);
    least = usual / 3;
    for (i = 0; i < n && usual > 0.25 + 2 / sqrt((double)n); i++) {
        double a = sign * source_like(p, lines->source[i]),
               b = sign * source_like(p, lines->target[i]);
        if (a < -least && b > least) note_line(d, EXCHANGED, i, -1, NULL);
        else if (a < -least && b < -least) note_line(d, LANGUAGE, i, 0, NULL);
        else if (a > least && b > least) note_line(d, LANGUAGE, i, 1, NULL);
    }
    free(p);
}

// -----------------------------------------------------------------------------------------------
// >>lengths        ratios; sides that are shifted against one another
//
// Long sources have long targets, in the order of the lines. Where the lengths of sources go with
// those of the targets one line further, and not with their own, the sides are shifted.
// -----------------------------------------------------------------------------------------------

enum { BLOCK = 64, FARTHEST = 4, RATIOS = 800 };

static int class_of_ratio(double x)
{
    double k = RATIOS / 2 + 50 * x;
    return k < 0 ? 0 : k >= RATIOS ? RATIOS - 1 : (int)k;
}

/* The ratio, a logarithm, that a share of the pairs does not exceed. */
static double ratio_of_share(const int64_t counts[RATIOS], int64_t n, double share)
{
    int64_t below = 0;
    int k;
    for (k = 0; k < RATIOS - 1 && (double)(below += counts[k]) < share * (double)n; k++) { }
    return (k + 0.5 - RATIOS / 2) / 50.0;
}

static double ratio_of(int32_t *const units[2], int64_t i)
{
    return log((units[0][i] + 5.0) / (units[1][i] + 5.0));
}

/* Three times the usual ratio, and far more than others differ; empty sides are told elsewhere. */
static void find_ratios(struct doctor *d, int32_t *const units[2])
{
    int64_t counts[RATIOS] = {0}, i, n = (int64_t)d->n;
    double usual, most;
    char why[60];
    for (i = 0; i < n; i++) counts[class_of_ratio(ratio_of(units, i))]++;
    usual = ratio_of_share(counts, n, 0.5);
    most = log(3) + 2 * (ratio_of_share(counts, n, 0.75) - ratio_of_share(counts, n, 0.25));
    for (i = 0; i < n; i++) {
        if (!units[0][i] || !units[1][i] || fabs(ratio_of(units, i) - usual) <= most) continue;
        snprintf(why, sizeof why, "%d and %d characters", (int)units[0][i], (int)units[1][i]);
        note_line(d, RATIO, i, -1, why);
    }
}

/* Of a[i] and b[i + offset], from `from` to end - 1. */
static double correlation(const float *a, const float *b, int64_t n, int64_t from, int64_t end,
                          int offset)
{
    double sa = 0, sb = 0, saa = 0, sbb = 0, sab = 0, m = 0, below;
    int64_t i;
    for (i = from; i < end; i++) {
        double x = a[i], y;
        if (i + offset < 0 || i + offset >= n) continue;
        y = b[i + offset];
        sa += x; sb += y; saa += x * x; sbb += y * y; sab += x * y; m++;
    }
    below = (m * saa - sa * sa) * (m * sbb - sb * sb);
    return below > 1e-9 ? (m * sab - sa * sb) / sqrt(below) : 0;
}

/* How far the targets of a block of lines lie behind its sources, or 0. By chance a correlation is
   above four times 1 / sqrt(lines) in one of 30,000 blocks. */
static int shift_of(const float *a, const float *b, int64_t n, int64_t from, int64_t end)
{
    double own = correlation(a, b, n, from, end, 0), most = 0,
           least = fmax(0.5, 4 / sqrt((double)(end - from)));
    int offset, best = 0;
    for (offset = -FARTHEST; offset <= FARTHEST && own < 0.3; offset++) {
        double r = offset ? correlation(a, b, n, from, end, offset) : 0;
        if (r > most) { most = r; best = offset; }
    }
    return most > least && most - own > 0.4 ? best : 0;
}

/* The line from which on an offset fits better, between `from` and `end`. */
static int64_t first_shifted(const float *a, const float *b, int64_t n, int64_t from, int64_t end,
                             int offset)
{
    double gain = 0, most = 0, mean = 0;
    int64_t i, best = end;
    for (i = from; i < end; i++) mean += ((double)a[i] - b[i]) / (double)(end - from);
    for (i = end - 1; i >= from; i--) {
        double own = (double)a[i] - b[i] - mean, other;
        if (i + offset < 0 || i + offset >= n) continue;
        other = (double)a[i] - b[i + offset] - mean;
        gain += own * own - other * other;
        if (gain > most) { most = gain; best = i; }
    }
    return best;
}

/* Tells lines first .. end - 1 of a file, of which line 0 is `begin` of the data set. */
static void note_shift(struct doctor *d, int64_t first, int64_t end, int offset)
{
    char why[100];
    snprintf(why, sizeof why, "to about line %lld: source n fits target n %c %d",
             (long long)d->origins[end - 1].number, offset < 0 ? '-' : '+', abs(offset));
    note_line(d, SHIFTED, first, -1, why);
    d->found[SHIFTED].count += end - first - 1;
}

/* Whether a third of the lines are the targets of the lines they seem shifted to: pairs in both directions, A B and
   B A. */
static int is_both_directions(const trf_data_lines *lines, int64_t from, int64_t end, int64_t n, int offset)
{
    int64_t i, equal = 0;
    for (i = from; i < end; i++)
        equal += i + offset >= 0 && i + offset < n && !strcmp(lines->source[i], lines->target[i + offset]);
    return 3 * equal > end - from;
}

/* The lines of one file: runs of two blocks or more; one, if there are not more. */
static void find_shifts(struct doctor *d, const trf_data_lines *lines, const float *a, const float *b, int64_t begin,
                        int64_t n)
{
    const trf_data_lines here = {lines->source + begin, lines->target + begin, n, 0, NULL};
    int64_t from, end, next;
    for (from = 0; from + BLOCK / 2 <= n; from = end) {
        int offset = shift_of(a, b, n, from, from + BLOCK < n ? from + BLOCK : n);
        end = from + BLOCK < n ? from + BLOCK : n;
        while (offset && end < n) {
            next = end + BLOCK < n ? end + BLOCK : n;
            if (next - end >= BLOCK / 2 && shift_of(a, b, n, end, next) != offset) break;
            end = next;
        }
        if (!offset || (end - from <= BLOCK && n > 2 * BLOCK)) continue;
        if (is_both_directions(&here, from, end, n, offset)) continue;
        if (from) from = first_shifted(a, b, n, from - BLOCK, from + BLOCK / 2, offset);
        note_shift(d, begin + from, begin + end, offset);
    }
}

static void find_all_shifts(struct doctor *d, const trf_data_lines *lines, int32_t *const units[2])
{
    float *length[2];
    size_t i, from;
    int side;
    for (side = 0; side < 2; side++) {
        length[side] = zeroed(d->n, sizeof *length[side]);
        for (i = 0; i < d->n; i++) length[side][i] = (float)log(1.0 + units[side][i]);
    }
    for (from = 0; from < d->n; from = i) {
        for (i = from; i < d->n && d->origins[i].file == d->origins[from].file; i++) { }
        find_shifts(d, lines, length[0] + from, length[1] + from, (int64_t)from, (int64_t)(i - from));
    }
    free(length[0]);
    free(length[1]);
}

// -----------------------------------------------------------------------------------------------
// >>marks          numbers and placeholders, which most targets have from their source
// -----------------------------------------------------------------------------------------------

/* How many a text has; a sum of their hashes, in which their order does not count. */
struct marks { uint64_t sum; int n; };

static void add_mark(struct marks *m, const char *text, size_t n)
{
    m->sum += hash_bytes(1, text, n);
    m->n++;
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Numbers, without the marks between their digits: languages write 1,000.5 and 1.000,5. */
static struct marks numbers_of(const char *text)
{
    struct marks m = {0, 0};
    char number[40];
    while (*(text += strcspn(text, "0123456789"))) {
        size_t n = 0;
        for (; is_digit(*text) || (strchr(".,:'", *text) && *text && is_digit(text[1])); text++)
            if (is_digit(*text) && n < sizeof number) number[n++] = *text;
        add_mark(&m, number, n);
    }
    return m;
}

/* The bytes of a placeholder, a tag or an address that begins here, or 0: {name}, %s, %1$d, <b>,
   http://... */
static size_t mark_at(const char *text)
{
    static const char *const letters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    size_t n;
    if (*text == '{') {
        n = 1 + strspn(text + 1, letters);
        return text[n] == '}' ? n + 1 : 0;
    }
    if (*text == '%') {
        n = 1 + strspn(text + 1, "0123456789$.");
        return text[n] && strchr("sdiufgx@", text[n]) && !strchr(letters, text[n + 1]) ? n + 1 : 0;
    }
    if (*text == '<') {
        n = 1 + (text[1] == '/');
        if (!text[n] || !strchr(letters, text[n]) || is_digit(text[n])) return 0;
        n += strcspn(text + n, "<>");
        return text[n] == '>' ? n + 1 : 0;
    }
    if (strncmp(text, "http://", 7) && strncmp(text, "https://", 8)) return 0;
    return strcspn(text, BLANKS);
}

static struct marks placeholders_of(const char *text)
{
    struct marks m = {0, 0};
    size_t n;
    for (; *(text += strcspn(text, "{%<h")); text += n ? n : 1)
        if ((n = mark_at(text))) add_mark(&m, text, n);
    return m;
}

/* Pairs of which the marks differ, if nine in ten of those that have some have the same. Empty
   sides are told elsewhere. */
static void find_differing(struct doctor *d, const trf_data_lines *lines,
                           struct marks (*marks_of)(const char *text), enum symptom is)
{
    int64_t i, all = 0, same = 0, n = (int64_t)d->n;
    int tell;
    for (tell = 0; tell < 2 && (!tell || (all >= 10 && 10 * same >= 9 * all)); tell++)
        for (i = 0; i < n; i++) {
            struct marks a = marks_of(lines->source[i]), b = marks_of(lines->target[i]);
            int equal = a.n == b.n && a.sum == b.sum;
            if ((!a.n && !b.n) || !*lines->source[i] || !*lines->target[i]) continue;
            if (tell && !equal) note_line(d, is, i, -1, NULL);
            all += !tell;
            same += !tell && equal;
        }
}

/* Of three words or more: names stay as they are. Where most pairs are so, they are meant. */
static void find_identical(struct doctor *d, const trf_data_lines *lines)
{
    int64_t i, equal = 0, n = (int64_t)d->n;
    for (i = 0; i < n; i++) equal += !strcmp(lines->source[i], lines->target[i]);
    for (i = 0; i < n && 2 * equal < n; i++)
        if (!strcmp(lines->source[i], lines->target[i]) && count_units(lines->source[i], 0) > 2)
            note_line(d, IDENTICAL, i, -1, NULL);
}

void examine_pairs(struct doctor *d, const trf_data_lines *lines, int32_t *const units[2])
{
    find_all_shifts(d, lines, units);
    find_languages(d, lines);
    find_identical(d, lines);
    find_ratios(d, units);
    find_differing(d, lines, numbers_of, NUMBERS);
    find_differing(d, lines, placeholders_of, PLACEHOLDERS);
}

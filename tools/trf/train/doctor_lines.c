// trf doctor: lines beside one another: repeated ones, labels, lengths. See doctor.h.

#include "doctor.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>repeats        the same line, or the same source, again
// -----------------------------------------------------------------------------------------------

static int is_blank(const char *text) { return !text[strspn(text, BLANKS)]; }

/* The side that has the text: that of texts alone, else the source. */
static int text_side(const struct settings *s)
{
    return learns_from_text(s) && leading_side(s);
}

static void find_repeats(struct doctor *d, const trf_data_lines *lines)
{
    const char *const *text = lines_of(lines, text_side(d->s));
    enum symptom other = learns_labels(d->s) ? CONFLICT : AMBIGUOUS;
    struct hashes pairs = {NULL, 0, 0}, sources = {NULL, 0, 0};
    int64_t i, n = d->of[0];
    for (i = 0; i < (int64_t)d->n; i++) {
        uint64_t pair = hash_pair(lines, i), source = hash_line(text[i]);
        if (is_blank(text[i])) continue;
        if (i >= n) {
            if (!has_hash(&pairs, pair) && has_hash(&sources, source))
                note_line(d, KNOWN_SOURCE, i, -1, NULL);
        } else if (!note_hash(&pairs, pair)) note_line(d, REPEATED, i, -1, NULL);
        else if (!note_hash(&sources, source)) note_line(d, other, i, -1, NULL);
    }
    free_hashes(&pairs);
    free_hashes(&sources);
}

// -----------------------------------------------------------------------------------------------
// >>labels         those that occur once
// -----------------------------------------------------------------------------------------------

struct label_counts {
    struct doctor *d;
    struct hashes once, again;
    int64_t line;           /* -1: they are counted; else those that occur once are told */
};

static void meet_label(void *user, const char *label, size_t bytes)
{
    struct label_counts *c = user;
    char *text = format_text("%.*s", (int)bytes, label);
    uint64_t hash = hash_line(text);
    if (c->line < 0) {
        if (!note_hash(&c->once, hash)) note_hash(&c->again, hash);
    } else if (!has_hash(&c->again, hash)) note_line(c->d, SINGLE_LABEL, c->line, -1, text);
    free(text);
}

/* A label of a text is the whole line without the blanks around it. */
static void meet_labels(struct label_counts *c, const char *line)
{
    size_t n;
    if (c->d->s->objective == OBJECTIVE_TAG) {
        for_words(line, meet_label, c);
        return;
    }
    line += strspn(line, BLANKS);
    for (n = strlen(line); n && strchr(BLANKS, line[n - 1]); n--) { }
    if (n) meet_label(c, line, n);
}

/* A header is told already, and so is a column that has no labels. */
static void find_single_labels(struct doctor *d, const trf_data_lines *lines)
{
    struct label_counts c = {d, {NULL, 0, 0}, {NULL, 0, 0}, -1};
    int64_t i, begin = d->found[HEADER].count > 0;
    if (d->found[LABEL_COLUMN].count || d->found[CONLL].count) return;
    for (i = 0; i < d->of[0]; i++) meet_labels(&c, lines->target[i]);
    for (c.line = begin; c.line < d->of[0]; c.line++) meet_labels(&c, lines->target[c.line]);
    free_hashes(&c.once);
    free_hashes(&c.again);
}

// -----------------------------------------------------------------------------------------------
// >>lengths        in characters without blanks
// -----------------------------------------------------------------------------------------------

enum { CLASSES = 160 };

/* Classes of lengths, eight to a factor of two. */
static int class_of(int32_t units)
{
    return (int)(8 * log2(1.0 + units)) < CLASSES ? (int)(8 * log2(1.0 + units)) : CLASSES - 1;
}

/* The length that a share of the lines does not exceed, to a tenth. */
static double length_of_share(const int64_t counts[CLASSES], int64_t n, double share)
{
    int64_t below = 0;
    int k;
    for (k = 0; k < CLASSES - 1 && (double)(below += counts[k]) < share * (double)n; k++) { }
    return pow(2, (k + 1) / 8.0);
}

/* Twenty times as long as half of the lines, and four times as long as almost all. */
static void find_long(struct doctor *d, int side, const int32_t *units)
{
    int64_t counts[CLASSES] = {0}, i, n = (int64_t)d->n;
    double most;
    char why[40];
    for (i = 0; i < n; i++) counts[class_of(units[i])]++;
    most = fmax(20 * length_of_share(counts, n, 0.5), 4 * length_of_share(counts, n, 0.99));
    most = fmax(most, 200);
    for (i = 0; i < n; i++) {
        if (units[i] <= most) continue;
        snprintf(why, sizeof why, "%d characters", (int)units[i]);
        note_line(d, LONGER, i, side, why);
    }
}

void examine_lines(struct doctor *d, const trf_data_lines *lines)
{
    int32_t *units[2] = {NULL, NULL};
    int64_t i;
    int side, pairs = d->s->objective == OBJECTIVE_TRANSLATE, only = text_side(d->s);
    find_repeats(d, lines);
    if (learns_labels(d->s)) find_single_labels(d, lines);
    for (side = 0; side < 2; side++) {
        if (!pairs && side != only) continue;
        units[side] = zeroed(d->n, sizeof *units[side]);
        for (i = 0; i < (int64_t)d->n; i++)
            units[side][i] = (int32_t)count_units(lines_of(lines, side)[i], 1);
        find_long(d, side, units[side]);
    }
    if (pairs) examine_pairs(d, lines, units);
    free(units[0]);
    free(units[1]);
}

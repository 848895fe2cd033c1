// trf translate: --glossary: terms with their translations.
//
// Terms are sorted by their bytes. The longest one with which a text begins is the last one that is
// not above the text, or the longest other term with which that one begins, and so on.

#include "answer.h"

struct term {
    char *text, *translation;
    int32_t shorter;            /* the longest other term with which it begins, or -1 */
};

static int by_text(const void *a, const void *b)
{
    const struct term *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : strcmp(x->translation, y->translation);
}

/* A line of the file. Empty lines are left out. */
static int add_term(struct glossary *g, struct reader *r)
{
    char *tab = strchr(r->line, '\t');
    const char *fault = r->fault;
    if (!fault && !*r->line) return DONE;
    if (!fault && (!tab || tab == r->line || !tab[1] || strchr(tab + 1, '\t')))
        fault = "expected a term, a tab and its translation";
    if (!fault && g->n == INT32_MAX) fault = "too many terms";
    if (fault) {
        say("%s:%lld: %s", r->name, (long long)r->number, fault);
        return FAILED;
    }
    g->term = grow(g->term, &g->capacity, (size_t)g->n + 1, sizeof *g->term);
    g->term[g->n].text = format_text("%.*s", (int)(tab - r->line), r->line);
    g->term[g->n++].translation = format_text("%s", tab + 1);
    return DONE;
}

/* Sorts the terms and finds those in one another. One that has two translations is an error. */
static int sort_terms(struct glossary *g, const char *path)
{
    int32_t i, k;
    if (g->n) qsort(g->term, (size_t)g->n, sizeof *g->term, by_text);
    for (i = 0; i < g->n; i++) {
        struct term *t = &g->term[i];
        if (i > 0 && !strcmp(t->text, t[-1].text) && strcmp(t->translation, t[-1].translation)) {
            say("%s: '%s' has two translations, '%s' and '%s'", path, t->text, t[-1].translation,
                t->translation);
            return FAILED;
        }
        for (k = i - 1; k >= 0 && strncmp(t->text, g->term[k].text, strlen(g->term[k].text));
             k = g->term[k].shorter) { }
        t->shorter = k;
    }
    return DONE;
}

int read_glossary(struct glossary *g, const char *path)
{
    struct reader r;
    int got = 0, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) status = add_term(g, &r);
    if (got < 0) status = FAILED;
    if (!status) status = sort_terms(g, r.name);
    close_reader(&r);
    return status;
}

/* Whether a word goes on between the characters before and at `at`: letters and digits of scripts
   that put blanks between words. */
static int is_word(const char *text, size_t at, size_t end)
{
    uint32_t c = 0;
    if (at >= end || !character_of(text + at, end - at, &c)) return 0;
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           (c >= 0xC0 && c < 0x2000 && c != 0xD7 && c != 0xF7);
}

static int inside_word(const char *text, size_t at, size_t end)
{
    size_t before = at;
    if (at == 0 || at >= end) return 0;
    do before--; while (before > 0 && ((unsigned char)text[before] & 0xC0) == 0x80);
    return is_word(text, before, end) && is_word(text, at, end);
}

/* The last term that is not above a text of n bytes; -1: all are. */
static int32_t last_term(const struct glossary *g, const char *text, size_t n)
{
    int32_t low = 0, high = g->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (strncmp(g->term[middle].text, text, n) > 0 ||
            (!strncmp(g->term[middle].text, text, n) && strlen(g->term[middle].text) > n))
            high = middle;
        else low = middle + 1;
    }
    return low - 1;
}

const char *find_term(const struct glossary *g, const char *text, size_t at, size_t end, size_t *n)
{
    int32_t k;
    if (!g->n || inside_word(text, at, end)) return NULL;
    for (k = last_term(g, text + at, end - at); k >= 0; k = g->term[k].shorter) {
        *n = strlen(g->term[k].text);
        if (*n <= end - at && !strncmp(g->term[k].text, text + at, *n) &&
            !inside_word(text, at + *n, end)) return g->term[k].translation;
    }
    *n = 0;
    return NULL;
}

void free_glossary(struct glossary *g)
{
    for (; g->n > 0; g->n--) {
        free(g->term[g->n - 1].text);
        free(g->term[g->n - 1].translation);
    }
    free(g->term);
    memset(g, 0, sizeof *g);
}

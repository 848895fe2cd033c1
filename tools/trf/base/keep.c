// trf: text that must survive a translation: --keep. See base.h.
//
// A pattern is a POSIX extended regular expression, or a name below. A model file has the patterns
// and symbols of its training, one a line.

#include "base.h"

const char keep_key[] = "keep.patterns", symbols_key[] = "keep.symbols";

static const char *const names[][2] = {
    {"printf", "%([0-9]+\\$)?[-+#0']*([0-9]+|\\*)?(\\.([0-9]+|\\*)?)?(hh|h|ll|l|z|j|t|q|L)?"
               "[diouxXeEfFgGaAcspn]|%[0-9]+|%%"},
    {"python", "%\\([A-Za-z_][A-Za-z0-9_]*\\)[-+#0-9.]*[diouxXeEfFgGcrsa]|"
               "\\{[A-Za-z0-9_.]*(\\[[^]{}]*\\])?(![rsa])?(:[^{}]*)?\\}"},
    {"icu", "\\{[A-Za-z0-9_]+(, *[a-z]+(, *[^{}]*)?)?\\}"},
    {"html", "</?[A-Za-z][^<>]*>|&(#[0-9]+|#[xX][0-9A-Fa-f]+|[A-Za-z][A-Za-z0-9]*);"},
    {"url", "(https?|ftp|file)://[^[:space:]<>\"]*[^[:space:]<>\".,;:!?)']"},
    {"number", "[0-9]+([.,][0-9]+)*"},
    {"escape", "\\\\([abefnrtv0\\\\\"'?]|x[0-9A-Fa-f]+|u[0-9A-Fa-f]{4})"},
};

static const char *expression_of(const char *pattern)
{
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(pattern, names[i][0])) return names[i][1];
    return pattern;
}

int add_pattern(struct patterns *p, const char *where, const char *text)
{
    struct pattern *x;
    char why[256];
    int failed;
    if (*text && !text[strspn(text, "0123456789")]) {       /* as --keep of trf 0.3 had it */
        say("%s takes a pattern of text that stays as it is, got '%s'; how many models trf train keeps "
            "is --keep-models", where, text);
        return USAGE;
    }
    p->item = grow(p->item, &p->capacity, (size_t)p->n + 1, sizeof *p->item);
    x = &p->item[p->n];
    failed = *text ? regcomp(&x->regex, expression_of(text), REG_EXTENDED) : REG_BADPAT;
    if (!failed) { p->n++; return DONE; }
    if (*text) regerror(failed, &x->regex, why, sizeof why);
    say("%s '%s': %s", where, text, *text ? why : "expected a pattern, got nothing");
    return USAGE;
}

int add_patterns(struct patterns *p, const char *where, const char *lines)
{
    int status = DONE;
    while (!status && lines && *lines) {
        size_t n = strcspn(lines, "\n");
        char *one = format_text("%.*s", (int)n, lines);
        status = add_pattern(p, where, one);
        free(one);
        lines += n + (lines[n] == '\n');
    }
    return status;
}

void free_patterns(struct patterns *p)
{
    for (; p->n > 0; p->n--) regfree(&p->item[p->n - 1].regex);
    free(p->item);
    memset(p, 0, sizeof *p);
}

static int goes_on(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

/* The next match of a pattern that is not empty, from `at` on, in whole characters. */
static void find_next(struct pattern *x, const char *text, size_t at)
{
    regmatch_t match;
    for (;; at++) {
        if (regexec(&x->regex, text + at, 1, &match, at ? REG_NOTBOL : 0)) break;
        x->begin = at + (size_t)match.rm_so;
        x->end = at + (size_t)match.rm_eo;
        while (x->begin > at && goes_on(text[x->begin])) x->begin--;
        while (goes_on(text[x->end])) x->end++;
        if (x->end > x->begin) return;
        at = x->begin;
        if (!text[at]) break;
    }
    x->begin = x->end = SIZE_MAX;
}

int next_match(struct patterns *p, const char *text, size_t from, size_t *begin, size_t *end)
{
    int i, best = -1;
    for (i = 0; i < p->n; i++) {
        struct pattern *x = &p->item[i];
        if (from == 0 || x->begin < from) find_next(x, text, from);
        if (x->begin == SIZE_MAX) continue;
        if (best < 0 || x->begin < p->item[best].begin ||
            (x->begin == p->item[best].begin && x->end > p->item[best].end)) best = i;
    }
    if (best < 0) return 0;
    *begin = p->item[best].begin;
    *end = p->item[best].end;
    return 1;
}

char *joined_texts(const char *const *item, int n)
{
    char *joined = format_text("%s", ""), *longer;
    int k;
    for (k = 0; k < n; k++) {
        longer = format_text("%s%s%s", joined, k ? "\n" : "", item[k]);
        free(joined);
        joined = longer;
    }
    return joined;
}

// trf plot: lists of numbers and of words in an option, as in --warmup 1000,4000,8000.

#include "plot.h"

#include <math.h>

int read_numbers(const char *option, const char *text, double low, double high, int whole,
                 struct list *to)
{
    const char *at = text;
    char *end;
    for (to->n = 0; to->n < MAX_LIST; at = end + 1) {
        double x = strtod(at, &end);
        int bad = end == at || !(x >= low && x <= high) || (whole && x != floor(x));
        if (bad || (*end && *end != ',')) break;
        to->item[to->n++] = x;
        if (!*end) return DONE;
    }
    if (to->n == MAX_LIST) say("--%s takes at most %d numbers", option, MAX_LIST);
    else
        say("--%s takes %s from %.10g to %.10g, with commas between them, got '%s'", option,
            whole ? "whole numbers" : "numbers", low, high, text);
    return USAGE;
}

int read_words(const char *option, const char *text, const char *const *names, int n_names,
               struct list *to)
{
    const char *at = text;
    char known[128] = "";
    int i;
    for (to->n = 0; to->n < MAX_LIST;) {
        size_t n = strcspn(at, ",");
        for (i = 0; i < n_names; i++)
            if (strlen(names[i]) == n && !strncmp(names[i], at, n)) break;
        if (i == n_names) break;
        to->item[to->n++] = i;
        if (!at[n]) return DONE;
        at += n + 1;
    }
    for (i = 0; i < n_names; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? "," : "",
                 names[i]);
    if (to->n == MAX_LIST) say("--%s takes at most %d words", option, MAX_LIST);
    else say("--%s takes some of %s, got '%s'", option, known, text);
    return USAGE;
}

int has_word(const struct list *words, int word)
{
    int i;
    for (i = 0; i < words->n; i++)
        if ((int)words->item[i] == word) return 1;
    return 0;
}

// trf plot masks: which keys (columns) a query (row) sees.

#include "plot.h"

enum { MASK_FULL, MASK_CAUSAL, MASK_PREFIX, MASK_PADDING, N_MASKS, MOST_TOKENS = 1000 };

static const char *const mask_names[N_MASKS] = {"full", "causal", "prefix", "padding"};

/* After `own` tokens comes padding, which no query sees. */
static int sees(int kind, long query, long key, long prefix, long own)
{
    return kind == MASK_FULL ||
           (kind == MASK_PADDING ? key < own
                                 : key <= query || (kind == MASK_PREFIX && key < prefix));
}

static char *mask_title(int kind, long n, long prefix, long own)
{
    long i, j, seen = 0;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) seen += sees(kind, i, j, prefix, own);
    if (kind == MASK_FULL)
        return format_text("full (BERT, encoders): %ld of %ld pairs", seen, n * n);
    if (kind == MASK_CAUSAL)
        return format_text("causal (GPT, decoders): %ld of %ld pairs", seen, n * n);
    if (kind == MASK_PREFIX)
        return format_text("prefix of %ld (T5, UniLM): %ld of %ld pairs", prefix, seen, n * n);
    return format_text("padding after %ld (batches): %ld of %ld pairs", own, seen, n * n);
}

/* The words of --words. *n: their number; *text: malloc'd, they point into it. */
static char **split_words(const char *words, char **text, long *n)
{
    char *at = *text = format_text("%s", words),
         **names = zeroed(strlen(words) / 2 + 2, sizeof *names);
    for (*n = 0; *(at += strspn(at, " \t\n"));) {
        names[(*n)++] = at;
        at += strcspn(at, " \t\n");
        if (*at) *at++ = '\0';
    }
    return names;
}

static int write_masks(const struct settings *s, const struct heat_map *maps,
                       const struct list *kinds)
{
    FILE *out = open_output(s);
    long i, j;
    int k;
    if (!out) return FAILED;
    fputs("mask,query,key,seen\n", out);
    for (k = 0; k < kinds->n; k++)
        for (i = 0; i < maps[k].rows; i++)
            for (j = 0; j < maps[k].columns; j++)
                fprintf(out, "%s,%ld,%ld,%.0f\n", mask_names[(int)kinds->item[k]], i, j,
                        (double)maps[k].values[i * maps[k].columns + j]);
    return close_output(out, s->output);
}

/* Reads a number of tokens for one kind of mask. */
static int read_part(const char *option, const char *text, const struct list *kinds, int kind,
                     long n, long *part)
{
    struct list one;
    if (!text) return DONE;
    if (!has_word(kinds, kind)) {
        say("--%s is for --kind %s", option, mask_names[kind]);
        return USAGE;
    }
    if (read_numbers(option, text, 0, (double)n, 1, &one)) return USAGE;
    if (one.n > 1) {
        say("--%s takes one number, got '%s'", option, text);
        return USAGE;
    }
    *part = (long)one.item[0];
    return DONE;
}

/* Makes the maps: which keys a query sees. */
static void make_masks(const struct list *kinds, long n, long prefix, long own, char **names,
                       struct heat_map *maps)
{
    long i, j;
    int k;
    for (k = 0; k < kinds->n; k++) {
        float *values = zeroed((size_t)(n * n), sizeof *values);
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                values[i * n + j] = (float)sees((int)kinds->item[k], i, j, prefix, own);
        maps[k].title = mask_title((int)kinds->item[k], n, prefix, own);
        maps[k].values = values;
        maps[k].rows = maps[k].columns = n;
        maps[k].row_names = maps[k].column_names = (const char *const *)names;
        maps[k].row_label = "query";
        maps[k].column_label = "key";
    }
}

static int draw_masks(const struct settings *s, const struct list *kinds, long n, char **names)
{
    struct heat_map maps[MAX_LIST];
    long prefix = (n + 1) / 2, padded = (n + 3) / 4;
    int status, k;
    if (n < 1 || n > MOST_TOKENS) {
        say("a mask has 1 to %d tokens, got %ld", MOST_TOKENS, n);
        return USAGE;
    }
    if (read_part("prefix", s->plot_prefix, kinds, MASK_PREFIX, n, &prefix) ||
        read_part("padded", s->plot_padded, kinds, MASK_PADDING, n, &padded))
        return USAGE;
    memset(maps, 0, sizeof maps);
    make_masks(kinds, n, prefix, n - padded, names, maps);
    status = s->csv ? write_masks(s, maps, kinds) : show_heat_maps(s, maps, kinds->n, 0);
    for (k = 0; k < kinds->n; k++) {
        free((float *)(uintptr_t)maps[k].values);
        free((char *)(uintptr_t)maps[k].title);
    }
    return status;
}

int plot_masks(struct settings *s)
{
    struct list kinds;
    char **names = NULL, *text = NULL;
    long n = s->plot_length;
    int status;
    if (read_words("kind", s->plot_kinds, mask_names, N_MASKS, &kinds)) return USAGE;
    if (s->plot_words && is_given(s, AT(plot_length))) {
        say("give --words or --length, not both");
        return USAGE;
    }
    if (s->plot_words) names = split_words(s->plot_words, &text, &n);
    status = draw_masks(s, &kinds, n, names);
    free(names);
    free(text);
    return status;
}

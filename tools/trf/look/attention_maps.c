// trf attention: the heads that are shown, as numbers, as text, as JSON, as a picture.

#include "attention_maps.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>names          of tokens
// -----------------------------------------------------------------------------------------------

static const char *name_of_token(const trf_vocab *vocab, int32_t id)
{
    const char *token = trf_vocab_token(vocab, id);
    return *token ? token : "\xE2\x90\x80"; /* U+2400, the picture of a NUL */
}

const char **token_names(const struct settings *s, const trf_model *model, const trf_vocab *vocab,
                         const struct side *side, enum token_list of, int64_t n)
{
    const trf_config *c = trf_model_config(model);
    const int32_t starts[] = {c->bos, c->eos, c->pad, c->pad};
    const char **names = zeroed((size_t)n + 1, sizeof *names);
    int64_t i, at;
    for (i = 0; i < n; i++) {
        at = i - (of == READ || (of == SOURCE && c->source_bos));
        if (at < 0 && of == READ && c->decoder_start == TRF_START_ZERO) names[i] = "<zero>";
        else if (at < 0)
            names[i] = name_of_token(vocab, of == READ ? starts[c->decoder_start] : c->bos);
        else {
            at = id_of_row(s, c, of != SOURCE, (int64_t)side->used, at);
            names[i] = name_of_token(vocab, at < (int64_t)side->used ? side->ids[at] : c->eos);
        }
    }
    return names;
}

char **short_names(const char *const *names, int64_t n, int columns)
{
    char **cut = zeroed((size_t)n + 1, sizeof *cut);
    int64_t i;
    for (i = 0; i < n; i++) {
        const char *at = names[i];
        int width = 0;
        while (*at && width < columns) width += picture__wide(picture__next(&at));
        cut[i] = format_text("%.*s%s", (int)(at - names[i]), names[i], *at ? "\xE2\x80\xA6" : "");
    }
    return cut;
}

void free_names(char **names, int64_t n)
{
    while (n > 0) free(names[--n]);
    free(names);
}

// -----------------------------------------------------------------------------------------------
// >>maps           the numbers of each map
// -----------------------------------------------------------------------------------------------

const char *const attention_kinds[] = {"encoder", "decoder", "cross"};

/* How many keys a query can attend to. */
static int64_t visible_keys(const struct attention_view *l, int64_t row)
{
    return l->kind == TRF_DECODER_SELF ? row + 1 : l->columns;
}

static void measure(const struct attention_view *l, struct map *m)
{
    double sum = 0, largest = 0, strongest = -1;
    int64_t i, j;
    m->row = m->column = -1;
    for (i = 0; i < l->rows; i++) {
        const float *row = m->values + i * l->columns;
        int64_t seen = visible_keys(l, i);
        largest += log((double)seen);
        for (j = 0; j < seen; j++) {
            double p = (double)row[j];
            sum -= p > 0 ? p * log(p) : 0;
            if (isnan(p)) sum = NAN;
            if (seen == 1 || !(p > strongest)) continue;
            strongest = p;
            m->row = i;
            m->column = j;
        }
    }
    m->entropy = sum / (double)l->rows;
    m->share = largest > 0 ? sum / largest : NAN;
}

static void add_map(struct attention_view *l, int32_t layer, int32_t head)
{
    struct map *m = &l->maps[l->n_maps++];
    int64_t numbers = l->rows * l->columns, i;
    trf_real *mean = NULL;
    const trf_real *from;
    if (head == MEAN)
        mean_attention(&l->attention, layer, mean = zeroed((size_t)numbers, sizeof *mean));
    from = mean ? mean : head_of(&l->attention, layer, head);
    m->layer = layer;
    m->head = head;
    if (head == MEAN)
        snprintf(m->title, sizeof m->title, "layer %d, mean of the heads", (int)layer);
    else snprintf(m->title, sizeof m->title, "layer %d, head %d", (int)layer, (int)head);
    m->values = zeroed((size_t)numbers, sizeof *m->values);
    for (i = 0; i < numbers; i++) {
        m->values[i] = (float)from[i];
        if ((double)m->values[i] > l->high) l->high = (double)m->values[i];
    }
    free(mean);
    measure(l, m);
}

void add_maps(struct attention_view *l)
{
    int32_t layer, head;
    l->maps = zeroed((size_t)l->layers * (size_t)l->heads, sizeof *l->maps);
    for (layer = 0; layer < l->layers; layer++) {
        if (l->layer != ALL && l->layer != layer) continue;
        if (l->head == MEAN) add_map(l, layer, MEAN);
        for (head = 0; head < l->heads && l->head != MEAN; head++)
            if (l->head == ALL || l->head == head) add_map(l, layer, head);
    }
}

// -----------------------------------------------------------------------------------------------
// >>forms          text, JSON, pictures
// -----------------------------------------------------------------------------------------------

static void print_text_line(const char *name, const char *const *tokens, int64_t n,
                            const char *note)
{
    int64_t i;
    printf("%s, %lld token%s%s:", name, (long long)n, plural(n), note);
    for (i = 0; i < n; i++) {
        putchar(' ');
        print_clean(stdout, tokens[i], 1000);
    }
    putchar('\n');
}

static void print_table(const struct attention_view *l)
{
    int32_t i;
    char head[16], entropy[16], share[16];
    printf("layer  head  entropy  of the largest  strongest link\n");
    for (i = 0; i < l->n_maps; i++) {
        const struct map *m = &l->maps[i];
        snprintf(head, sizeof head, m->head == MEAN ? "mean" : "%d", (int)m->head);
        snprintf(entropy, sizeof entropy, isnan(m->entropy) ? "-" : "%.3f", m->entropy);
        snprintf(share, sizeof share, isnan(m->share) ? "-" : "%.1f %%", 100 * m->share);
        printf("%5d  %4s  %7s  %14s  ", (int)m->layer, head, entropy, share);
        if (m->row < 0) {
            puts("-");
            continue;
        }
        print_clean(stdout, l->row_names[m->row], 80);
        printf(" -> ");
        print_clean(stdout, l->column_names[m->column], 80);
        printf("  %.3f  (row %lld, column %lld)\n",
               (double)m->values[m->row * l->columns + m->column], (long long)m->row,
               (long long)m->column);
    }
}

static struct heat_map heat_of(const struct attention_view *l, const struct map *m)
{
    static const char *const labels[][2] = {
        {"query", "key"}, {"query", "key"}, {"target", "source"}};
    struct heat_map heat;
    memset(&heat, 0, sizeof heat);
    heat.title = m->title;
    heat.values = m->values;
    heat.rows = (long)l->rows;
    heat.columns = (long)l->columns;
    heat.row_names = l->row_names;
    heat.column_names = l->column_names;
    heat.row_label = labels[l->kind][0];
    heat.column_label = labels[l->kind][1];
    return heat;
}

static void print_json_names(const char *name, const char *const *tokens, int64_t n)
{
    int64_t i;
    printf(",\"%s\":[", name);
    for (i = 0; i < n; i++) {
        if (i) putchar(',');
        print_json_text(stdout, tokens[i], strlen(tokens[i]));
    }
    putchar(']');
}

static void print_json(const struct attention_view *l)
{
    int64_t k, j;
    int32_t i;
    printf("{\"model\":");
    print_json_text(stdout, l->s->model, strlen(l->s->model));
    printf(",\"kind\":\"%s\",\"layers\":%d,\"heads\":%d", attention_kinds[l->kind], (int)l->layers,
           (int)l->heads);
    if (l->answer) {
        printf(",\"answer\":");
        print_json_text(stdout, l->answer, strlen(l->answer));
    }
    print_json_names("rows", l->row_names, l->rows);
    print_json_names("columns", l->column_names, l->columns);
    printf(",\"maps\":[");
    for (i = 0; i < l->n_maps; i++) {
        const struct map *m = &l->maps[i];
        printf("%s{\"layer\":%d,\"head\":", i ? "," : "", (int)m->layer);
        if (m->head == MEAN) printf("\"mean\"");
        else printf("%d", (int)m->head);
        print_json_field(stdout, "entropy", m->entropy);
        print_json_field(stdout, "share_of_largest", m->share);
        if (m->row < 0) printf(",\"strongest\":null");
        else
            printf(",\"strongest\":{\"row\":%lld,\"column\":%lld,\"weight\":%.9g}",
                   (long long)m->row, (long long)m->column,
                   (double)m->values[m->row * l->columns + m->column]);
        printf(",\"attention\":[");
        for (k = 0; k < l->rows; k++) {
            printf(k ? ",[" : "[");
            for (j = 0; j < l->columns; j++) {
                if (j) putchar(',');
                print_json_number(stdout, (double)m->values[k * l->columns + j]);
            }
            putchar(']');
        }
        printf("]}");
    }
    printf("]}\n");
}

/* Maps beside each other: those of one layer, or an even part of them. */
static int maps_across(const struct attention_view *l)
{
    int heads = l->head == ALL ? l->heads : 1, several = l->layer == ALL && l->layers > 1;
    int limit = several ? 8 : 5, across;
    if (heads == 1) return several ? l->layers < 4 ? l->layers : 4 : 1;
    for (across = heads < limit ? heads : limit; across > 1; across--)
        if (heads % across == 0) return across;
    return heads < limit ? heads : limit;
}

static char *picture_title(const struct attention_view *l)
{
    static const char *const titles[] = {"Self-attention of the encoder",
                                        "Self-attention of the decoder",
                                        "Attention of the target to the source"};
    return format_text("%s", titles[l->kind]);
}

static int draw_maps(const struct attention_view *l)
{
    struct heat_map *heat = zeroed((size_t)l->n_maps, sizeof *heat);
    char *title = picture_title(l);
    int32_t i;
    int status;
    for (i = 0; i < l->n_maps; i++) heat[i] = heat_of(l, &l->maps[i]);
    status = draw_heat_maps(l->s, title, heat, (int)l->n_maps, maps_across(l), 0,
                            l->high > 0 ? l->high : 1);
    free(heat);
    free(title);
    return status;
}

/* A terminal shows the names of columns vertically: at most LETTERS lines. */
static void print_heat(const struct attention_view *l)
{
    enum { LETTERS = 24 };
    char **rows_cut = short_names(l->row_names, l->rows, LETTERS);
    char **columns_cut = short_names(l->column_names, l->columns, LETTERS);
    int32_t i;
    for (i = 0; i < l->n_maps; i++) {
        struct heat_map heat = heat_of(l, &l->maps[i]);
        heat.row_names = (const char *const *)rows_cut;
        heat.column_names = (const char *const *)columns_cut;
        putchar('\n');
        picture_heat_text(stdout, &heat, 0, l->high > 0 ? l->high : 1);
    }
    free_names(rows_cut, l->rows);
    free_names(columns_cut, l->columns);
}

static void print_maps(const struct attention_view *l)
{
    static const char *const names[] = {"read by the encoder", "read by the decoder",
                                        "rows: the target"};
    print_text_line(names[l->kind], l->row_names, l->rows,
                    l->answer ? " (the model's own answer)" : "");
    if (l->kind == TRF_DECODER_CROSS)
        print_text_line("columns: the source", l->column_names, l->columns, "");
    if (!l->s->output) print_heat(l);
    putchar('\n');
    print_table(l);
}

int write_maps(const struct attention_view *l)
{
    int status = l->s->output ? draw_maps(l) : DONE;
    if (!status && l->s->json) print_json(l);
    else if (!status) print_maps(l);
    return check_output(stdout, NULL) ? FAILED : status;
}

// trf attention: maps of which token attends to which, as a picture, as text, as JSON.
//
// One forward pass gives the weights of all heads of all layers (trf_look_inside). trf translate,
// trf classify and trf tag use these functions too.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "picture.h" /* first: its names and those of trf.h do not meet */

#include "trf.h"

// -----------------------------------------------------------------------------------------------
// >>weights        the attention of one kind for one pair
// -----------------------------------------------------------------------------------------------

int read_attention(trf_translator *translator, const trf_model *model, trf_attention_kind kind,
                   const trf_sequences *source, const trf_sequences *target, struct attention *to)
{
    trf_tensor all, shape;
    trf_batch batch;
    trf_views views;
    trf_error err;
    int64_t numbers;
    int k;
    memset(&batch, 0, sizeof batch);
    memset(&views, 0, sizeof views);
    memset(to->extent, 0, sizeof to->extent);
    if (source) batch.source = *source;
    if (target) batch.target = *target;
    numbers = trf_attention_count(model, &batch, kind);
    if (numbers == 0) return DONE;
    to->weights = grow(to->weights, &to->capacity, (size_t)numbers, sizeof *to->weights);
    all = trf_tensor_of(to->weights, 1, numbers, 0, 0);
    *(kind == TRF_ENCODER_SELF   ? &views.encoder_self
      : kind == TRF_DECODER_SELF ? &views.decoder_self
                                 : &views.cross) = &all;
    if (trf_look_inside(translator, &batch, &views, &err)) {
        say_error("attention", &err);
        return FAILED;
    }
    shape = trf_attention_at(model, &batch, kind, &all, 0);
    for (k = 0; k < 4; k++) to->extent[k] = shape.shape[k];
    return DONE;
}

void free_attention(struct attention *of) { free(of->weights); }

const trf_real *head_of(const struct attention *of, int64_t layer, int64_t head)
{
    return of->weights + (layer * of->extent[1] + head) * of->extent[2] * of->extent[3];
}

void mean_attention(const struct attention *of, int64_t layer, trf_real *to)
{
    int64_t numbers = of->extent[2] * of->extent[3], head, i;
    for (i = 0; i < numbers; i++) to[i] = 0;
    for (head = 0; head < of->extent[1]; head++)
        for (i = 0; i < numbers; i++)
            to[i] += head_of(of, layer, head)[i] / (trf_real)of->extent[1];
}

void print_json_matrix(FILE *file, const trf_real *x, int64_t height, int64_t width)
{
    int64_t i, j;
    fputc('[', file);
    for (i = 0; i < height; i++) {
        fputs(i ? ",[" : "[", file);
        for (j = 0; j < width; j++) {
            double weight = (double)x[i * width + j];
            if (j) fputc(',', file);
            if (isfinite(weight)) fprintf(file, "%.4g", weight);
            else fputs("null", file);
        }
        fputc(']', file);
    }
    fputc(']', file);
}

/* ATTENTION_ALL: a list of layers, each a list of heads, each a matrix; else the mean of the heads
   of the last layer. */
void print_json_attention(FILE *file, const struct attention *of, int all)
{
    const int64_t *extent = of->extent;
    int64_t layer, head;
    fputs(",\"attention\":", file);
    if (all != ATTENTION_ALL) {
        trf_real *mean = zeroed((size_t)(extent[2] * extent[3]) + 1, sizeof *mean);
        if (extent[0]) mean_attention(of, extent[0] - 1, mean);
        print_json_matrix(file, mean, extent[2], extent[3]);
        free(mean);
        return;
    }
    fputc('[', file);
    for (layer = 0; layer < extent[0]; layer++) {
        fputs(layer ? ",[" : "[", file);
        for (head = 0; head < extent[1]; head++) {
            if (head) fputc(',', file);
            print_json_matrix(file, head_of(of, layer, head), extent[2], extent[3]);
        }
        fputc(']', file);
    }
    fputc(']', file);
}

// -----------------------------------------------------------------------------------------------
// >>maps           the heads that are shown, and the numbers of each
// -----------------------------------------------------------------------------------------------

enum { MEAN = -1, ALL = -2 }; /* instead of the number of a head or a layer */

struct map {
    int32_t layer, head; /* head MEAN: the mean of all heads */
    float *values;       /* (rows, columns) */
    char title[64];
    double entropy;      /* mean of the rows, in nats */
    double share;        /* of the largest possible entropy; NAN if that is 0 */
    int64_t row, column; /* the strongest link; -1: there is none */
};

struct looking {
    struct settings *s;
    trf_model *model;
    trf_translator *translator;
    const trf_vocab *source_vocab, *target_vocab;
    trf_attention_kind kind;
    struct side source, target;
    struct attention attention;
    const char **row_names, **column_names;
    int64_t rows, columns;
    int32_t layer, head;   /* shown; ALL and MEAN are possible */
    int32_t layers, heads; /* of the model */
    struct map *maps;
    int32_t n_maps;
    double high;  /* the largest weight */
    char *answer; /* text of the model's own answer, or NULL */
    size_t answer_capacity;
};

static const char *const kind_names[] = {"encoder", "decoder", "cross"}; /* by trf_attention_kind */

/* How many keys a query can attend to. */
static int64_t seen_by(const struct looking *l, int64_t row)
{
    return l->kind == TRF_DECODER_SELF ? row + 1 : l->columns;
}

static void measure(const struct looking *l, struct map *m)
{
    double sum = 0, largest = 0, strongest = -1;
    int64_t i, j;
    m->row = m->column = -1;
    for (i = 0; i < l->rows; i++) {
        const float *row = m->values + i * l->columns;
        int64_t seen = seen_by(l, i);
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

static void add_map(struct looking *l, int32_t layer, int32_t head)
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

static void add_maps(struct looking *l)
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

static void print_table(const struct looking *l)
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

static struct heat_map heat_of(const struct looking *l, const struct map *m)
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

static void print_json(const struct looking *l)
{
    int64_t k, j;
    int32_t i;
    printf("{\"model\":");
    print_json_text(stdout, l->s->model, strlen(l->s->model));
    printf(",\"kind\":\"%s\",\"layers\":%d,\"heads\":%d", kind_names[l->kind], (int)l->layers,
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
static int maps_across(const struct looking *l)
{
    int heads = l->head == ALL ? l->heads : 1, several = l->layer == ALL && l->layers > 1;
    int limit = several ? 8 : 5, across;
    if (heads == 1) return several ? l->layers < 4 ? l->layers : 4 : 1;
    for (across = heads < limit ? heads : limit; across > 1; across--)
        if (heads % across == 0) return across;
    return heads < limit ? heads : limit;
}

static char *picture_title(const struct looking *l)
{
    static const char *const titles[] = {"Self-attention of the encoder",
                                        "Self-attention of the decoder",
                                        "Attention of the target to the source"};
    return format_text("%s", titles[l->kind]);
}

static int draw_maps(const struct looking *l, FILE *to, const char *kind)
{
    struct heat_map *heat = zeroed((size_t)l->n_maps, sizeof *heat);
    char *title = picture_title(l), message[300];
    int32_t i;
    int failed;
    for (i = 0; i < l->n_maps; i++) heat[i] = heat_of(l, &l->maps[i]);
    failed = picture_heat_maps_to(to, kind, title, heat, (int)l->n_maps, maps_across(l), 0,
                                  l->high > 0 ? l->high : 1, message, sizeof message);
    if (failed)
        say("%s%s", message, strncmp(message, "gnuplot", 7) ? "" : "; trf itself writes an .svg");
    free(heat);
    free(title);
    return failed ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>command        from texts to tokens, maps, a picture
// -----------------------------------------------------------------------------------------------

static int settle_kind(struct looking *l)
{
    static const char *const needs[] = {"an encoder", "a decoder", "an encoder and a decoder"};
    static const trf_attention_kind kinds[] = {TRF_DECODER_CROSS, TRF_DECODER_CROSS,
                                               TRF_ENCODER_SELF, TRF_DECODER_SELF};
    const struct settings *s = l->s;
    const trf_config *c = trf_model_config(l->model);
    l->kind = kinds[s->map_kind];
    if (s->map_kind == MAP_AUTO)
        l->kind = c->kind == TRF_ENCODER_ONLY   ? TRF_ENCODER_SELF
                  : c->kind == TRF_DECODER_ONLY ? TRF_DECODER_SELF
                                                : TRF_DECODER_CROSS;
    if ((l->kind != TRF_DECODER_SELF && c->kind == TRF_DECODER_ONLY) ||
        (l->kind != TRF_ENCODER_SELF && c->kind == TRF_ENCODER_ONLY)) {
        say("--kind %s needs %s; '%s' has only %s", kind_names[l->kind], needs[l->kind], s->model,
            c->kind == TRF_ENCODER_ONLY ? needs[0] : needs[1]);
        return USAGE;
    }
    if (s->target_text && c->kind != TRF_ENCODER_DECODER) {
        say("--target: '%s' reads only one text, --source", s->model);
        return USAGE;
    }
    if (s->target_text && l->kind == TRF_ENCODER_SELF) {
        say("--target is for --kind cross and decoder: the encoder does not read it");
        return USAGE;
    }
    l->layers = l->kind == TRF_ENCODER_SELF ? c->encoder_layers : c->decoder_layers;
    l->heads = c->n_heads;
    return DONE;
}

/* A number from 0, "all", or of a head "mean". */
static int settle_number(const char *option, const char *text, int32_t n, int32_t without,
                         int means, int32_t *number)
{
    char *end;
    long value;
    *number = without;
    if (!text) return DONE;
    *number = !strcmp(text, "all") ? ALL : MEAN;
    if (!strcmp(text, "all") || (means && !strcmp(text, "mean"))) return DONE;
    errno = 0;
    value = strtol(text, &end, 10);
    *number = (int32_t)value;
    if (end != text && !*end && !errno && value >= 0 && value < n) return DONE;
    say("--%s takes a number from 0 to %d%s, got '%s'", option, (int)n - 1,
        means ? ", all or mean" : " or all", text);
    return USAGE;
}

/* Appends the text as a sequence of at most `limit` tokens. */
static int take_text(struct side *side, const char *option, const trf_vocab *vocab,
                     const char *text, int32_t limit)
{
    struct unknown unknown;
    char why[300], name[16];
    int32_t n;
    if (add_text(side, vocab, text, limit, &n, why)) {
        say("--%s: %s", option, why);
        return FAILED;
    }
    memset(&unknown, 0, sizeof unknown);
    note_unknown(&unknown, vocab, text, 0);
    snprintf(name, sizeof name, "--%s", option);
    say_unknown_share(&unknown, name, 0);
    return DONE;
}

/* The model's own best answer becomes the target. */
static int take_answer(struct looking *l)
{
    trf_sequences source = sequences_of(&l->source);
    const trf_hypothesis *answer;
    trf_error err;
    if (trf_translate_batch(l->translator, &source, &err)) {
        say_error("translating --source", &err);
        return FAILED;
    }
    answer = trf_hypothesis_at(l->translator, 0, 0);
    if (!answer) {
        say("the model has no translation of --source: give --target");
        return FAILED;
    }
    add_ids(&l->target, answer->ids, answer->n);
    return text_of(l->target_vocab, answer->ids, answer->n, &l->answer, &l->answer_capacity)
               ? DONE
               : FAILED;
}

static int take_texts(struct looking *l)
{
    const struct settings *s = l->s;
    const trf_config *c = trf_model_config(l->model);
    int status;
    if (c->kind == TRF_DECODER_ONLY) {
        status =
            take_text(&l->target, "source", l->target_vocab, s->source_text, c->max_length - 1);
        if (status || l->target.used) return status;
    } else {
        status = take_text(&l->source, "source", l->source_vocab, s->source_text, source_limit(c));
        if (status) return status;
    }
    if (l->source.used == 0) {
        say("--source has no tokens, so there is no attention");
        return FAILED;
    }
    if (l->kind == TRF_ENCODER_SELF) return DONE;
    if (!s->target_text) return take_answer(l);
    return take_text(&l->target, "target", l->target_vocab, s->target_text, c->max_length - 1);
}

static const char *name_of_token(const trf_vocab *vocab, int32_t id)
{
    const char *token = trf_vocab_token(vocab, id);
    return *token ? token : "\xE2\x90\x80"; /* U+2400, the picture of a NUL */
}

/* Names of n tokens of a side. start 1: the names of the decoder's input, where the start token is
   the first. start 0: the name of EOS is the last if n is larger than the number of tokens. */
static const char **names_of(const struct side *side, const trf_vocab *vocab, const trf_config *c,
                             int64_t n, int start)
{
    const int32_t first[] = {c->bos, c->eos, c->pad, c->pad};
    const char **names = zeroed((size_t)n + 1, sizeof *names);
    int64_t i, at;
    for (i = 0; i < n; i++) {
        at = i - start;
        if (at < 0)
            names[i] = c->decoder_start == TRF_START_ZERO
                           ? "<zero>"
                           : name_of_token(vocab, first[c->decoder_start]);
        else names[i] = name_of_token(vocab, at < (int64_t)side->used ? side->ids[at] : c->eos);
    }
    return names;
}

/* A decoder reads its last token only if another one follows: this adds EOS if the library does
   not. */
static int look(struct looking *l)
{
    const trf_config *c = trf_model_config(l->model);
    trf_sequences source, target;
    int decoder = l->kind == TRF_DECODER_SELF;
    if (l->kind != TRF_ENCODER_SELF && !c->target_eos) {
        size_t used = l->target.used;
        l->target.ids =
            grow(l->target.ids, &l->target.ids_capacity, used + 1, sizeof *l->target.ids);
        l->target.ids[used] = c->eos;
        l->target.lengths[0]++;
    }
    source = sequences_of(&l->source);
    target = sequences_of(&l->target);
    if (read_attention(l->translator, l->model, l->kind, &source, &target, &l->attention))
        return FAILED;
    l->rows = l->attention.extent[2];
    l->columns = l->attention.extent[3];
    if (l->kind == TRF_ENCODER_SELF)
        l->row_names = names_of(&l->source, l->source_vocab, c, l->rows, 0);
    else l->row_names = names_of(&l->target, l->target_vocab, c, l->rows, decoder);
    if (decoder) l->column_names = names_of(&l->target, l->target_vocab, c, l->columns, 1);
    else l->column_names = names_of(&l->source, l->source_vocab, c, l->columns, 0);
    add_maps(l);
    return DONE;
}

enum { LETTERS = 24 };

/* Names of at most LETTERS columns: a terminal shows those of columns vertically. */
static char **short_names(const char *const *names, int64_t n)
{
    char **cut = zeroed((size_t)n + 1, sizeof *cut);
    int64_t i;
    for (i = 0; i < n; i++) {
        const char *at = names[i];
        int columns = 0;
        while (*at && columns < LETTERS) columns += picture__wide(picture__next(&at));
        cut[i] = format_text("%.*s%s", (int)(at - names[i]), names[i], *at ? "\xE2\x80\xA6" : "");
    }
    return cut;
}

static void free_names(char **names, int64_t n)
{
    while (n > 0) free(names[--n]);
    free(names);
}

static void print_heat(const struct looking *l)
{
    char **rows_cut = short_names(l->row_names, l->rows);
    char **columns_cut = short_names(l->column_names, l->columns);
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

static void print_maps(const struct looking *l)
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

static int write_maps(const struct looking *l)
{
    const char *kind = l->s->output ? picture_kind(l->s->output) : NULL;
    int status = DONE;
    FILE *out;
    if (kind) {
        FILE *drawn = tmpfile();
        if (!drawn) {
            say("cannot make a temporary file: %s", strerror(errno));
            return FAILED;
        }
        status = draw_maps(l, drawn, kind);
        if (!status && (out = open_output(l->s))) {
            if (picture_copy(drawn, out) && !ferror(out)) {
                say("cannot read a temporary file");
                status = FAILED;
            }
            if (close_output(out, l->s->output)) status = FAILED;
        } else status = FAILED;
        fclose(drawn);
    }
    if (!status && l->s->json) print_json(l);
    else if (!status) print_maps(l);
    return close_output(stdout, NULL) ? FAILED : status;
}

static void free_looking(struct looking *l)
{
    int32_t i;
    for (i = 0; i < l->n_maps; i++) free(l->maps[i].values);
    free(l->maps);
    free((void *)l->row_names);
    free((void *)l->column_names);
    free(l->answer);
    free_side(&l->source);
    free_side(&l->target);
    free_attention(&l->attention);
    trf_translator_destroy(l->translator);
    trf_model_destroy(l->model);
}

static int check_command(struct settings *s, int argc, char **argv)
{
    if (argc > 1 || (argc && s->model)) {
        say("give one model, got '%s' and '%s': a text of several words needs quotation marks",
            argc > 1 ? argv[0] : s->model, argv[argc - 1]);
        return USAGE;
    }
    if (argc) s->model = argv[0];
    if (!s->model || !*s->model) {
        say("give a model written by trf train, as in: trf attention FILE --source TEXT");
        return USAGE;
    }
    if (!s->source_text) {
        say("give --source TEXT, the text that the model reads");
        return USAGE;
    }
    if (!s->output) return DONE;
    if (!picture_kind(s->output)) {
        say("--output takes an .svg, .png or .pdf, got '%s'", s->output);
        return USAGE;
    }
    return check_output_name(s) || check_writable(s->output) ? FAILED : DONE;
}

int command_attention(struct settings *s, int argc, char **argv)
{
    struct looking l;
    trf_error err;
    int status;
    memset(&l, 0, sizeof l);
    l.s = s;
    if ((status = check_command(s, argc, argv))) return status;
    status = load_model(s, &l.model, &l.source_vocab, &l.target_vocab);
    if (!status) status = settle_kind(&l);
    if (!status) status = settle_number("layer", s->layer, l.layers, l.layers - 1, 0, &l.layer);
    if (!status) status = settle_number("head", s->head, l.heads, ALL, 1, &l.head);
    if (!status) s->search.ban_unk = never_writes_unk(l.model);
    if (!status && trf_translator_create(&l.translator, l.model, &s->search, &err))
        status = refused("search", &err);
    if (!status) status = take_texts(&l);
    if (!status) status = look(&l);
    if (!status) status = write_maps(&l);
    free_looking(&l);
    return status;
}

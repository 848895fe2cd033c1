// trf report: attention of some lines, the vocabulary, the parts of the model. See report.h.
//
// The page stores each weight as two digits, in attributes of their own: layer by layer, head by
// head, row by row. The script of the page draws the selected head into the picture of its kind of
// attention; without the script the page shows the mean of the heads of the last layer.

#include "attention_maps.h"
#include "inspect.h"
#include "report.h"

enum {
    CHOSEN = 10,            /* of the worst lines, and of the first lines of the file */
    LONGEST = 64,           /* largest number of tokens of a side */
    MAX_WEIGHTS = 4000000,  /* of all lines: two bytes each */
    SHADES = 20
};

/* A line as the model reads it, with its attention. */
struct looked {
    const struct line *line;
    struct side source, target;
    struct attention attention[3]; /* by trf_attention_kind */
};

static void forget(struct looked *l)
{
    int k;
    for (k = 0; k < 3; k++) free_attention(&l->attention[k]);
    free_side(&l->source);
    free_side(&l->target);
}

/* Sets the ids of the line. Returns 0 if there is nothing to draw. */
static int read_ids(const struct data *d, struct looked *l)
{
    const trf_config *config = trf_model_config(d->model);
    struct word_tokens words;
    trf_sequences source, target;
    int64_t height, width;
    char why[300];
    int32_t n;
    memset(&words, 0, sizeof words);
    if (l->line->fault) return 0;
    if (d->task == TASK_TAG) {
        if (!encode_words(d->vocab[0], l->line->source, &words))
            add_ids(&l->source, words.ids, words.n);
        free_word_tokens(&words);
    } else if (d->task != TASK_TEXT)
        add_tagged_text(d->s, 0, &l->source, d->vocab[0], l->line->source, config->max_length, &n,
                        why);
    if (d->task == TASK_TRANSLATE) {
        add_ids(&l->target, l->line->ids, l->line->n_ids);
        add_tags(&l->target, tags_of(d->s, 1));
    }
    if (d->task == TASK_TEXT &&
        !add_text(&l->target, d->vocab[1], l->line->reference, config->max_length, &n, why) &&
        !config->target_eos)
        append_id(&l->target, config->eos);
    source = sequences_of(&l->source);
    target = sequences_of(&l->target);
    width = source.count ? *source.lengths + config->source_bos + config->source_eos : 0;
    height = target.count ? *target.lengths + config->target_eos : 0;
    if (width > LONGEST || height > LONGEST) return 0;
    return (d->task == TASK_TEXT || l->source.used > 0) &&
           (height > 0 || d->task == TASK_CLASSIFY || d->task == TASK_TAG);
}

static int64_t count_weights(const struct attention *a)
{
    return a->extent[0] * a->extent[1] * a->extent[2] * a->extent[3];
}

/* Adds the number of weights to *numbers. */
static int look(struct data *d, struct looked *l, int64_t *numbers)
{
    trf_sequences source = sequences_of(&l->source), target = sequences_of(&l->target);
    int k, status = DONE;
    for (k = 0; k < 3 && !status; k++) {
        status = read_attention(d->alone ? d->alone : trf_translator_reader(d->translator), d->model,
                                (trf_attention_kind)k, &source, &target,
                                &l->attention[k]);
        *numbers += count_weights(&l->attention[k]);
    }
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>map
// -----------------------------------------------------------------------------------------------

/* Names of n tokens, short enough to stand beside the picture. */
static char **names_of(const struct data *d, const struct looked *l, enum token_list of, int64_t n)
{
    enum { LETTERS = 14 };
    const char **all = token_names(d->s, d->model, d->vocab[of != SOURCE],
                                   of == SOURCE ? &l->source : &l->target, of, n);
    char **names = short_names(all, n, LETTERS);
    free((void *)all);
    return names;
}

/* The attention that is drawn first: to the source if there is one. */
static int first_kind(const struct data *d)
{
    return d->task == TASK_TRANSLATE ? 2 : d->task == TASK_TEXT ? 1 : 0;
}

/* Squares of each shade share a path. */
static void put_cells(FILE *to, const trf_real *weights, int64_t height, int64_t width)
{
    int64_t i, k;
    int shade, some;
    for (shade = 1; shade <= SHADES; shade++) {
        for (some = 0, i = 0; i < height; i++)
            for (k = 0; k < width; k++) {
                if ((int)((double)weights[i * width + k] * SHADES + 0.5) != shade) continue;
                if (!some++) fprintf(to, "<path opacity=%.2f d='", (double)shade / SHADES);
                fprintf(to, "M%lld %lldh1v1h-1z", (long long)k, (long long)i);
            }
        if (some) fputs("'/>", to);
    }
}

/* The picture of a kind of attention: the mean of the heads of the last layer, or, if another kind
   is drawn first, nothing. The script draws into it. */
static void put_map(FILE *to, const struct data *d, const struct looked *l, int kind)
{
    const struct attention *a = &l->attention[kind];
    const struct picture__canvas svg = {to, 0, 0, 0, 0};
    const int64_t *n = a->extent + 2;
    char **rows_of = names_of(d, l, kind == TRF_ENCODER_SELF ? SOURCE : WRITTEN, n[0]),
         **columns_of = names_of(d, l, kind == TRF_DECODER_SELF ? READ : SOURCE, n[1]);
    struct heat_map map;
    struct picture__map m;
    trf_real *mean = zeroed((size_t)(n[0] * n[1]), sizeof *mean);
    memset(&map, 0, sizeof map);
    map.rows = (long)n[0];
    map.columns = (long)n[1];
    map.row_names = (const char *const *)rows_of;
    map.column_names = (const char *const *)columns_of;
    m = picture__layout(&map, 0);
    fprintf(to,
            "<svg class=%s%s data-cell=%.0f data-left=%.1f data-top=%.1f width=%.0f height=%.0f "
            "role=img aria-label='Attention of line %lld'>",
            attention_kinds[kind], kind == first_kind(d) ? "" : " hidden", m.cell_width, m.left,
            m.top, m.width, m.height + 2, (long long)l->line->number);
    picture__axes(&svg, &map, &m);
    fprintf(to, "<g transform='translate(%.1f %.1f)scale(%.0f)'>", m.left, m.top, m.cell_width);
    mean_attention(a, a->extent[0] - 1, mean);
    if (kind == first_kind(d)) put_cells(to, mean, map.rows, map.columns);
    fprintf(to,
            "</g><rect x=%.1f y=%.1f width=%.0f height=%.0f />"
            "<rect class=here width=%.0f height=%.0f visibility=hidden /></svg>\n",
            m.left, m.top, m.cell_width * (double)n[1], m.cell_height * (double)n[0], m.cell_width,
            m.cell_height);
    free(mean);
    free_names(rows_of, n[0]);
    free_names(columns_of, n[1]);
}

static void put_weights(FILE *to, const struct looked *l)
{
    int64_t i;
    int k;
    for (k = 0; k < 3; k++) {
        int64_t numbers = count_weights(&l->attention[k]);
        if (!numbers) continue;
        fprintf(to, " data-%s=", attention_kinds[k]);
        for (i = 0; i < numbers; i++) {
            int hundredths = (int)((double)l->attention[k].weights[i] * 100 + 0.5);
            fprintf(to, "%02d", hundredths > 99 ? 99 : hundredths < 0 ? 0 : hundredths);
        }
    }
}

static void put_figure(FILE *to, const struct data *d, const struct looked *l)
{
    static const char *const rows_are[] = {
        "a row for each token of the text, a column for each that it attends to",
        "a row for each token that is predicted, a column for each that the model reads",
        "a row for each token that is written, a column for each of the source that it attends to"};
    const trf_config *config = trf_model_config(d->model);
    int kind = first_kind(d), k;
    fprintf(to,
            "<figure class=map data-line=%lld data-heads=%d data-encoder-layers=%d "
            "data-decoder-layers=%d",
            (long long)l->line->number, (int)config->n_heads, (int)config->encoder_layers,
            (int)config->decoder_layers);
    put_weights(to, l);
    fprintf(to,
            ">\n<figcaption>Line %lld: %s. Layer %d, mean of the %d head%s.</figcaption>\n"
            "<div class=wide>",
            (long long)l->line->number, rows_are[kind], (int)l->attention[kind].extent[0] - 1,
            (int)config->n_heads, plural(config->n_heads));
    for (k = 0; k < 3; k++)
        if (count_weights(&l->attention[k])) put_map(to, d, l, k);
    fputs("</div>\n</figure>\n", to);
}

// -----------------------------------------------------------------------------------------------
// >>choice         which lines
// -----------------------------------------------------------------------------------------------

/* Finds the next line after *at that can be drawn. Returns 0 if there is none. */
static int next_looked(struct data *d, const size_t *order, size_t *at, const char *taken,
                       struct looked *l)
{
    for (; *at < d->n; (*at)++) {
        size_t i = order ? order[*at] : *at;
        memset(l, 0, sizeof *l);
        l->line = &d->lines[i];
        if (!taken[i] && read_ids(d, l)) {
            (*at)++;
            return 1;
        }
        forget(l);
    }
    return 0;
}

static void put_choice(FILE *to, const struct looked *looked, int n)
{
    int i;
    fputs("<div class=choice id=attend hidden>\n"
          "<p><label for=attend-line>Line</label> <select id=attend-line>",
          to);
    for (i = 0; i < n; i++) {
        const struct line *l = looked[i].line;
        fprintf(to, "<option value=%d>%lld: ", i, (long long)l->number);
        put_html_start(to, l->source, l->bytes, 50);
    }
    fputs("</select></p>\n"
          "<p><label for=attend-kind>Attention</label> <select id=attend-kind></select>\n"
          "<label for=attend-layer>Layer</label> <select id=attend-layer></select>\n"
          "<label for=attend-head>Head</label> <select id=attend-head></select></p>\n"
          "<p class=note>A square shows its weight under the pointer; the arrow keys move from "
          "square to square.</p>\n"
          "<output id=attend-value aria-live=polite></output></div>\n",
          to);
}

int put_attention(FILE *to, struct data *d)
{
    struct looked looked[2 * CHOSEN];
    char *taken = zeroed(d->n, 1);
    size_t at = 0, i;
    int64_t numbers = 0;
    int n = 0, k, status = DONE;
    for (k = 0; k < 2 && !status; k++)
        for (at = 0, i = 0; i < CHOSEN && !status && numbers < MAX_WEIGHTS / 2 * (k + 1); i++) {
            if (!next_looked(d, k ? NULL : d->worst, &at, taken, &looked[n])) break;
            taken[looked[n].line - d->lines] = 1;
            status = look(d, &looked[n++], &numbers);
        }
    fputs("<section id=attention><h2>Attention</h2>\n", to);
    if (!n) fprintf(to, "<p>No line has an answer of at most %d tokens.</p>\n", (int)LONGEST);
    if (n && !status) {
        fprintf(to,
                "<p>%d line%s: the worst ones, then the first ones of the file, each with at most "
                "%d tokens%s. The stronger the colour of a square, the more its row "
                "attends to its column.</p>\n",
                n, plural(n), (int)LONGEST,
                numbers < MAX_WEIGHTS / 2 ? ""
                                           : "; fewer lines if the page would become too large");
        put_choice(to, looked, n);
        for (k = 0; k < n; k++) put_figure(to, d, &looked[k]);
    }
    fputs("</section>\n", to);
    while (n > 0) forget(&looked[--n]);
    free(taken);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>vocabulary
// -----------------------------------------------------------------------------------------------

/* The most frequent tokens of the data; without data, the first ones of the vocabulary. */
static void put_frequent(FILE *to, const trf_vocab *vocab, const int64_t *counts)
{
    int32_t n = trf_vocab_size(vocab), *order = zeroed((size_t)n, sizeof *order), some = 0, i;
    for (i = 4; i < n; i++)
        if (!counts || counts[i]) order[some++] = i;
    if (counts) sort_by_count(order, some, counts);
    fprintf(to, "<p>%s</p>\n<ul class=tokens>",
            counts ? "The most frequent tokens of the data:"
                   : "The first tokens after the special ones:");
    for (i = 0; i < some && i < 30; i++) {
        size_t bytes;
        const char *token = token_of(vocab, order[i], &bytes);
        fputs("<li><bdi>", to);
        put_html_start(to, token, bytes, 40);
        fputs("</bdi>", to);
        if (counts) fprintf(to, " <small>%s</small>", whole_text((double)counts[order[i]]));
    }
    fputs("</ul>\n", to);
    free(order);
}

static void put_vocabulary(FILE *to, const struct data *d, int side, const char *title)
{
    const trf_config *config = trf_model_config(d->model);
    const int32_t special[] = {config->pad, config->bos, config->eos, config->unk};
    static const char *const names[] = {"pad", "begin", "end", "unknown"};
    const trf_vocab *vocab = d->vocab[side];
    int i;
    fprintf(to, "<h3>%s</h3>\n", title);
    if (!vocab) {
        fputs("<p>The file has no vocabulary.</p>\n", to);
        return;
    }
    fprintf(to, "<p>%s tokens (%s), the special ones included. Special ids:",
            whole_text(trf_vocab_size(vocab)), kinds_of_tokens[trf_vocab_kind(vocab)]);
    for (i = 0; i < 4; i++) {
        fprintf(to, "%s %s ", i ? "," : "", names[i]);
        if (special[i] < 0) fputs("none", to);
        else fprintf(to, "%d", (int)special[i]);
    }
    fputs(".", to);
    if (d->tokens[side])
        fprintf(to, " Of %s token%s of the data %s %s unknown to it (%s %%).",
                whole_text((double)d->tokens[side]), plural(d->tokens[side]),
                whole_text((double)d->unknown[side]), d->unknown[side] == 1 ? "is" : "are",
                number_text(100 * (double)d->unknown[side] / (double)d->tokens[side], 2));
    fputs("</p>\n", to);
    put_frequent(to, vocab, d->counts[side]);
}

// -----------------------------------------------------------------------------------------------
// >>parts          where the weights of the model are, and its settings
// -----------------------------------------------------------------------------------------------

static void put_parts(FILE *to, const struct data *d)
{
    const trf_config *config = trf_model_config(d->model);
    struct weight_part part[N_WEIGHT_PARTS];
    trf_model_size n;
    trf_error err;
    int i;
    if (trf_config_check(config, &n, &err)) {
        say_error("weights", &err);
        return;
    }
    weight_parts(config, &n, part);
    begin_table(to, "Parts of the model", "part|#weights|#share|0 to 100 %");
    for (i = 0; i < N_WEIGHT_PARTS; i++) {
        double share = 100 * (double)part[i].weights / (double)n.total;
        if (!part[i].weights) continue;
        fprintf(to,
                "<tr><th scope=row>%s<td class=n>%s<td class=n>%.1f %%<td><span class=bar "
                "style='width:%.1f%%'></span>\n",
                part[i].name, whole_text((double)part[i].weights), share, share);
    }
    end_table(to);
}

static void put_settings(FILE *to, const struct data *d)
{
    struct settings *shown = zeroed(1, sizeof *shown);
    char value[64];
    int i;
    *shown = *d->s;
    shown->config = *trf_model_config(d->model);
    fputs("<details><summary>Settings of the model</summary>\n<dl class=options>\n", to);
    for (i = 0; i < n_rows; i++) {
        const struct row *row = &rows[i];
        if (!(row->commands & TRAIN) || !row_within(row, AT(config), sizeof shown->config))
            continue;
        value_text(row, shown, value, sizeof value);
        fprintf(to, "<div><dt>%s<dd>%s</div>\n", row->name, value);
    }
    fputs("</dl></details>\n", to);
    free(shown);
}

void put_model(FILE *to, const struct data *d)
{
    static const char *const kinds_of_models[] = {"an encoder and a decoder", "an encoder",
                                                  "a decoder"};
    const trf_config *config = trf_model_config(d->model);
    fputs("<section id=model><h2>Model</h2>\n<p><b>", to);
    put_html_text(to, name_of(d->s->model));
    fprintf(to, "</b>: %s, %s weights.</p>\n", kinds_of_models[config->kind],
            whole_text((double)trf_model_parameter_total(d->model)));
    put_parts(to, d);
    put_settings(to, d);
    if (config->kind == TRF_ENCODER_DECODER && d->vocab[0] &&
        same_tokens(d->vocab[0], d->vocab[1])) {
        put_vocabulary(to, d, 0, "Vocabulary of both sides: in sources");
        put_vocabulary(to, d, 1, "and in references");
    } else {
        if (config->kind != TRF_DECODER_ONLY)
            put_vocabulary(
                to, d, 0, config->kind == TRF_ENCODER_DECODER ? "Source vocabulary" : "Vocabulary");
        if (config->kind != TRF_ENCODER_ONLY)
            put_vocabulary(
                to, d, 1, config->kind == TRF_ENCODER_DECODER ? "Target vocabulary" : "Vocabulary");
    }
    fputs("</section>\n", to);
}

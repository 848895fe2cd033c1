// trf train: how good the model is on pairs that it is not trained on. See validate.h.
//
// Loss and perplexity are those of the given targets. The other metrics need translations. A source
// of several pairs (a word with several pronunciations) is translated once, and each of its targets
// is a reference.

#include "validate.h"
#include "measure.h"
#include "outputs.h"
#include "tools/metrics/metrics.h"
#include "signals.h"

#include <math.h>

enum { CHUNK = 64 };    /* sources in one call of the library */

static size_t count_held(const struct validator *v) { return (size_t)v->held.source.count; }

static const char *text_of_pair(const struct validator *v, size_t pair, int side)
{
    return trf_dataset_held_out_text(v->set, (int32_t)pair, side);
}

static int cancelled(trf_status status, const trf_error *err)
{
    if (status == TRF_E_CANCELLED) return 1;
    say_error("validation", err);
    return 0;
}

/* Mean loss over the pairs, in batches of the training's size. */
static int mean_loss(struct validator *v, struct validation *result)
{
    trf_step_report report;
    trf_error err;
    trf_status status = trf_trainer_evaluate(v->trainer, &v->held, v->noise, &report, &err);
    if (status) return (result->cancelled = cancelled(status, &err)) ? DONE : FAILED;
    result->loss = report.loss;
    result->nll = report.nll;
    result->accuracy = report.accuracy;
    result->label_loss = report.sequence_loss;
    result->label_accuracy = report.sequence_accuracy;
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>translating    the sources, and the metric of the answers
// -----------------------------------------------------------------------------------------------

struct translations {
    struct validator *v;
    trf_translator *translator;
    struct metrics *metrics;
    char *text;
    const char **references;
    char **joined;              /* the same strings, to be freed */
    size_t sample[N_SAMPLES];   /* first pairs of the sources whose answers are shown */
    int cut;                    /* 1: tokens are words, and pieces of subword-nmt are joined */
    size_t text_capacity, references_capacity, joined_capacity;
};

/* The targets of all pairs with the same source. `pair` is the first of them. */
static size_t references_of(struct translations *r, size_t pair, const size_t *next)
{
    const struct validator *v = r->v;
    size_t i, n = 0;
    for (i = pair; i != SIZE_MAX; i = next[i], n++) {
        r->references = grow(r->references, &r->references_capacity, n + 1, sizeof *r->references);
        r->joined = grow(r->joined, &r->joined_capacity, n + 1, sizeof *r->joined);
        r->joined[n] =
            join_pieces(r->cut, format_text("%s", text_of_pair(v, i, 1)));
        r->references[n] = r->joined[n];
    }
    return n;
}

static int add_figure(struct translations *r, size_t pair, const char *text, const size_t *next)
{
    size_t n = references_of(r, pair, next), i;
    int status = metrics_add(r->metrics, text, r->references, (int)n);
    for (i = 0; i < n; i++) free(r->joined[i]);
    if (status) say("validation: out of memory");
    return status ? FAILED : DONE;
}

static int add_answer(struct translations *r, size_t pair, int32_t sentence, const size_t *next)
{
    const trf_hypothesis *h = trf_translator_answer(r->translator, sentence, 0);
    int k;
    r->v->cut += h->ended == TRF_ENDED_MAX_LENGTH;
    if (!text_of(trf_model_vocab(r->v->model, TRF_TARGET), h->ids, h->n, &r->text, &r->text_capacity))
        return FAILED;
    for (k = 0; k < N_SAMPLES; k++) if (r->sample[k] == pair && !r->v->samples[k])
        r->v->samples[k] = format_text("%s", r->text);
    return add_figure(r, pair, join_pieces(r->cut, r->text), next);
}

/* next[i]: the next pair with the source of pair i, or SIZE_MAX; first[i]: whether it is the first
   of them. */
static void chain_sources(const struct validator *v, size_t *next, char *first)
{
    size_t n = count_held(v), buckets = 1, *head, *tail, i;
    while (buckets < 2 * n) buckets *= 2;
    head = zeroed(buckets, sizeof *head);
    tail = zeroed(n, sizeof *tail);
    for (i = 0; i < n; i++) {
        const char *line = text_of_pair(v, i, 0);
        size_t at = (size_t)hash_line(line) & (buckets - 1);
        while (head[at] && strcmp(line, text_of_pair(v, head[at] - 1, 0)))
            at = (at + 1) & (buckets - 1);
        next[i] = SIZE_MAX;
        first[i] = head[at] == 0;
        if (first[i]) head[at] = i + 1;
        else next[tail[head[at] - 1]] = i;
        tail[head[at] - 1] = i;
    }
    free(head);
    free(tail);
}

/* The pair of sample k: the same in every validation. */
static size_t sample_pair(const struct validator *v, int k)
{
    return (size_t)(2 * k + 1) * count_held(v) / (2 * N_SAMPLES);
}

static void choose_samples(struct translations *r, const size_t *next, const char *first)
{
    size_t pair, i;
    int k;
    free_samples(r->v);
    for (pair = 0; pair < count_held(r->v); pair++)
        for (i = first[pair] ? pair : SIZE_MAX; i != SIZE_MAX; i = next[i])
            for (k = 0; k < N_SAMPLES; k++) if (sample_pair(r->v, k) == i) r->sample[k] = pair;
}

/* Translates up to CHUNK sources from pair *at on, and counts their answers. The answer to an empty
   one is empty. */
static int translate_some(struct translations *r, size_t *at, size_t *used, const size_t *next,
                          const char *first, struct validation *result)
{
    const trf_sequences *side = &r->v->held.source;
    const struct around tags = tags_of(r->v->s, 0);     /* left out: the search adds them */
    size_t pairs[CHUNK], i;
    struct side sources;
    trf_sequences all;
    trf_error err;
    trf_status status;
    int failed = DONE;
    memset(&sources, 0, sizeof sources);
    for (; *at < count_held(r->v) && sources.count < CHUNK; *used += (size_t)side->lengths[(*at)++]) {
        int32_t n = side->lengths[*at] - tags.n;
        if (!first[*at]) continue;
        if (n == 0) {
            if (add_figure(r, *at, "", next)) { free_side(&sources); return FAILED; }
            continue;
        }
        pairs[sources.count] = *at;
        add_ids(&sources, side->ids + *used + (tags.first >= 0), n);
    }
    all = sequences_of(&sources);
    status = all.count ? trf_translate(r->translator, &all, NULL, &err) : TRF_OK;
    if (status) failed = (result->cancelled = cancelled(status, &err)) ? DONE : FAILED;
    for (i = 0; i < sources.count && !status && !failed; i++)
        failed = add_answer(r, pairs[i], (int32_t)i, next);
    free_side(&sources);
    return failed;
}

/* A translator of the current weights. */
static int make_translator(struct validator *v, trf_translator **translator)
{
    trf_search search = v->s->search;
    trf_error err;
    search.beam = v->s->train.valid_beam;
    search.max_sentences = 0;           /* few enough for Ctrl-C */
    search.hooks = v->s->training.hooks;
    *translator = NULL;
    return trf_translator_create(translator, v->model, &search, &err) ? refused("validation", &err)
                                                                      : DONE;
}

static int translates(const struct validator *v) { return is_translating(metric_of(v->s)); }

static void warn_of_references(const struct validator *v)
{
    int cut = trf_vocab_kind(trf_model_vocab(v->model, TRF_TARGET)) == TRF_WORDS, nothing;
    size_t n = count_held(v), i;
    const char **references = zeroed(n, sizeof *references);
    for (i = 0; i < n; i++) references[i] = text_of_pair(v, i, 1);
    if (!bleu_is_useful(references, (int64_t)n, cut, &nothing) && nothing)
        say("warning: no reference has four words: BLEU counts n-grams of up to four words, so it "
            "means nothing here; use --metric chrf");
    free((void *)references);
}

int check_translating(struct validator *v)
{
    trf_translator *translator;
    int status;
    if (!translates(v) || count_held(v) == 0) return DONE;
    status = make_translator(v, &translator);
    trf_translator_destroy(translator);
    if (!status && metric_of(v->s) == METRIC_BLEU) warn_of_references(v);
    return status;
}

static int translate_held_out(struct validator *v, struct validation *result)
{
    static const int figures[] = {0,          0,         FIGURE_BLEU, FIGURE_CHRF, FIGURE_EXACT,
                                  FIGURE_WER, FIGURE_CER};
    struct translations r;
    struct metrics_options options;
    size_t n = count_held(v), at = 0, used = 0, *next = zeroed(n, sizeof *next);
    char *first = zeroed(n, 1);
    int status = DONE;
    memset(&r, 0, sizeof r);
    r.v = v;
    memset(&options, 0, sizeof options);
    options.figures = 1u << figures[metric_of(v->s)];
    r.cut = trf_vocab_kind(trf_model_vocab(v->model, TRF_TARGET)) == TRF_WORDS;
    options.tokens = r.cut ? METRICS_NONE : METRICS_13A;
    r.metrics = metrics_create(&options);
    if (!r.metrics) { say("out of memory"); exit(FAILED); }
    v->cut = 0;
    chain_sources(v, next, first);
    choose_samples(&r, next, first);
    status = make_translator(v, &r.translator);
    while (!status && !result->cancelled && at < n) {
        status = translate_some(&r, &at, &used, next, first, result);
        if (signal_here()) result->cancelled = 1;
    }
    result->score = metrics_value(r.metrics, (enum figure)figures[metric_of(v->s)]);
    trf_translator_destroy(r.translator);
    metrics_destroy(r.metrics);
    free(r.text);
    free((void *)r.references);
    free(r.joined);
    free(next);
    free(first);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>labelling      macro-averaged F1: the mean of 2 right / (given + wanted) of the labels
// -----------------------------------------------------------------------------------------------

struct counts { int64_t right, given, wanted; };

static double mean_f1(const struct counts *counts, int32_t n)
{
    double sum = 0;
    int32_t i, occur = 0;
    for (i = 0; i < n; i++) {
        if (counts[i].given + counts[i].wanted == 0) continue;
        sum += 2 * (double)counts[i].right / (double)(counts[i].given + counts[i].wanted);
        occur++;
    }
    return occur ? 100 * sum / occur : 0;
}

/* Counts the labels of some sequences. n: the number of sequences, or of their tokens. */
static trf_status label_some(trf_translator *translator, const trf_sequences *sources,
                             const int32_t *wanted, int64_t n, int32_t n_labels, struct counts *counts,
                             trf_error *err)
{
    trf_real *p = zeroed((size_t)(n * n_labels) + 1, sizeof *p);
    trf_tensor out = trf_tensor_of(p, 2, n, n_labels, 0);
    trf_status status = trf_reader_classify(trf_translator_reader(translator), sources, &out, err);
    int64_t i;
    for (i = 0; i < n && !status; i++) {
        int32_t best = best_of(p + i * n_labels, n_labels);
        if (wanted[i] < 0) continue;
        counts[best].given++;
        counts[wanted[i]].wanted++;
        counts[best].right += best == wanted[i];
    }
    free(p);
    return status;
}

static int label_held_out(struct validator *v, struct validation *result)
{
    const trf_sequences *const valid[2] = {&v->held.source, &v->held.target};
    size_t all = count_held(v);
    int32_t n_labels = v->n_labels;
    struct counts *counts = zeroed((size_t)n_labels, sizeof *counts);
    trf_translator *translator;
    int made = make_translator(v, &translator) == DONE;
    size_t i, source = 0, target = 0, n;
    trf_status status = TRF_OK;
    trf_error err;
    for (i = 0; made && i < all && !status; i += n) {
        trf_sequences some = {valid[0]->ids + source, valid[0]->lengths + i, 0};
        size_t from = target;
        n = all - i < CHUNK ? all - i : CHUNK;
        for (; some.count < (int32_t)n; some.count++) {
            source += (size_t)valid[0]->lengths[i + (size_t)some.count];
            target += (size_t)valid[1]->lengths[i + (size_t)some.count];
        }
        status = label_some(translator, &some, valid[1]->ids + from, (int64_t)(target - from),
                            n_labels, counts, &err);
        if (signal_here()) { result->cancelled = 1; break; }
    }
    if (status) result->cancelled = cancelled(status, &err);
    result->score = mean_f1(counts, n_labels);
    free(counts);
    trf_translator_destroy(translator);
    return made && (!status || result->cancelled) ? DONE : FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>outputs        labels that are numbers, or several at once
// -----------------------------------------------------------------------------------------------

/* What is wanted of a text, a number for each output. Returns 0: nothing. */
static int read_wanted(const trf_config *c, const int32_t *ids, int32_t n, double *to)
{
    int32_t k;
    if (n == 1 && *ids == -1) return 0;
    for (k = 0; k < c->n_labels; k++) to[k] = 0;
    for (k = 0; k < n; k++)
        if (c->label_kind == TRF_LABELS_ANY) to[ids[k]] = 1;
        else to[k] = (double)trf_label_number(ids[k]);
    return 1;
}

/* The outputs of the held-out texts that have labels, and what is wanted: *n rows of each. */
static trf_status read_outputs(struct validator *v, trf_translator *translator, double *got,
                               double *wanted, size_t *n, trf_error *err)
{
    const trf_config *c = trf_model_config(v->model);
    const trf_sequences *source = &v->held.source, *target = &v->held.target;
    const size_t labels = (size_t)c->n_labels;
    trf_real *p = zeroed(CHUNK * labels, sizeof *p);
    const int32_t *ids = source->ids, *wants = target->ids;
    trf_status status = TRF_OK;
    int32_t i, k, count;
    for (*n = 0, i = 0; i < source->count && !status; i += count) {
        trf_sequences some = {ids, source->lengths + i, 0};
        trf_tensor out;
        count = source->count - i < CHUNK ? source->count - i : CHUNK;
        some.count = count;
        out = trf_tensor_of(p, 2, count, c->n_labels, 0);
        status = trf_reader_classify(trf_translator_reader(translator), &some, &out, err);
        for (k = 0; k < count && !status; k++) {
            size_t j;
            ids += source->lengths[i + k];
            for (j = 0; j < labels; j++)
                got[*n * labels + j] = (double)p[(size_t)k * labels + j];
            *n += (size_t)read_wanted(c, wants, target->lengths[i + k], wanted + *n * labels);
            wants += target->lengths[i + k];
        }
    }
    free(p);
    return status;
}

int measure_outputs(struct validator *v, struct validation *result)
{
    const trf_config *c = trf_model_config(v->model);
    size_t labels = (size_t)c->n_labels, n = 0;
    double *got, *wanted;
    trf_translator *translator;
    trf_status status;
    trf_error err;
    if (!c->label_kind || !count_held(v)) return DONE;
    if (make_translator(v, &translator)) return FAILED;
    got = zeroed((count_held(v) + 1) * labels, sizeof *got);
    wanted = zeroed((count_held(v) + 1) * labels, sizeof *wanted);
    status = read_outputs(v, translator, got, wanted, &n, &err);
    if (!status && c->label_kind == TRF_LABELS_ANY) result->f1 = micro_f1(got, wanted, n * labels);
    else if (!status)
        measure_numbers(got, wanted, n, labels, &result->pearson, &result->spearman);
    result->score = metric_of(v->s) == METRIC_F1        ? result->f1
                    : metric_of(v->s) == METRIC_PEARSON ? 100 * result->pearson
                                                        : 100 * result->spearman;
    free(got);
    free(wanted);
    trf_translator_destroy(translator);
    if (status) result->cancelled = cancelled(status, &err);
    return !status || result->cancelled ? DONE : FAILED;
}

/* Metrics other than loss and accuracy that need no translations. */
static int is_labelling(const struct validator *v) { return metric_of(v->s) >= METRIC_F1; }

int score_held_out(struct validator *v, struct validation *result)
{
    if (is_labelling(v) && trf_model_config(v->model)->label_kind) return measure_outputs(v, result);
    return is_labelling(v) ? label_held_out(v, result) : translate_held_out(v, result);
}

int validate(struct validator *v, struct validation *result)
{
    int status;
    memset(result, 0, sizeof *result);
    if ((status = mean_loss(v, result)) || result->cancelled) return status;
    if (measure_outputs(v, result)) return FAILED;
    if (result->cancelled) return DONE;
    result->score = metric_of(v->s) == METRIC_ACCURACY ? 100 * result->accuracy : result->loss;
    return is_labelling(v) || translates(v) ? score_held_out(v, result) : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>showing        the results
// -----------------------------------------------------------------------------------------------

/* At most 60 bytes of a text, whole characters; malloc'd. */
static char *clipped(const char *text)
{
    size_t n = strlen(text), most = 60;
    if (n <= most) return format_text("%s", text);
    for (most -= 3; most && ((unsigned char)text[most] & 0xC0) == 0x80; most--) { }
    return format_text("%.*s...", (int)most, text);
}

static void show_sample(const struct validator *v, size_t pair, const char *answer)
{
    const char *reference = text_of_pair(v, pair, 1);
    char *source = clipped(text_of_pair(v, pair, 0)),
         *got = clipped(answer), *wanted = clipped(reference);
    if (!strcmp(answer, reference)) inform_line("    %s -> %s  (right)", source, got);
    else inform_line("    %s -> %s  (reference: %s)", source, *got ? got : "(nothing)", wanted);
    free(source);
    free(got);
    free(wanted);
}

/* The answer to the source of a pair, malloc'd; NULL: a signal aborted it. */
static char *answer_of(struct validator *v, trf_translator *translator, size_t pair)
{
    const struct around tags = tags_of(v->s, 0);        /* left out: the search adds them */
    const trf_hypothesis *h;
    trf_sequences source;
    size_t i, capacity = 0;
    int32_t length = v->held.source.lengths[pair] - tags.n;
    char *text = NULL;
    trf_error err;
    source.ids = v->held.source.ids + (tags.first >= 0);
    for (i = 0; i < pair; i++) source.ids += v->held.source.lengths[i];
    source.lengths = &length;
    source.count = 1;
    if (!length) return format_text("%s", "");
    if (trf_translate(translator, &source, NULL, &err)) return NULL;
    h = trf_translator_answer(translator, 0, 0);
    return text_of(trf_model_vocab(v->model, TRF_TARGET), h->ids, h->n, &text, &capacity) ? text : NULL;
}

/* A validation by loss has no translations yet. */
void show_samples(struct validator *v)
{
    size_t n = count_held(v);
    trf_translator *translator = NULL;
    int k, status = DONE;
    if (quiet || v->s->objective != OBJECTIVE_TRANSLATE || n == 0) return;
    if (!is_translating(metric_of(v->s))) status = make_translator(v, &translator);
    for (k = 0; k < N_SAMPLES && (size_t)k < n && !status; k++) {
        char *answer = translator ? answer_of(v, translator, sample_pair(v, k)) : v->samples[k];
        if (!answer && translator) break;
        show_sample(v, sample_pair(v, k), answer ? answer : ""); /* an empty source has no answer */
        if (translator) free(answer);
    }
    trf_translator_destroy(translator);
}

void show_validation(const struct validator *v, struct log *log, int64_t update,
                     const struct validation *result, const char *remark)
{
    FILE *file = log->file;
    const char *name = metric_name(metric_of(v->s));
    int labels = v->s->objective == OBJECTIVE_PRETRAIN;
    trf_label_kind kind = trf_model_config(v->model)->label_kind;
    end_line();
    inform("validation: update %lld  loss %.4f", (long long)update, result->loss);
    if (!kind) inform("  nll %.4f  perplexity %.4g", result->nll, exp(result->nll));
    if (kind == TRF_LABELS_ANY) inform("  micro-F1 %.2f %%", result->f1);
    if (kind == TRF_LABELS_NUMBERS)
        inform("  pearson %.4f  spearman %.4f", result->pearson, result->spearman);
    if (metric_of(v->s) != METRIC_ACCURACY && kind != TRF_LABELS_NUMBERS)
        inform("  accuracy %.2f %%", 100 * result->accuracy);
    if (metric_of(v->s) != METRIC_LOSS && (!kind || metric_of(v->s) == METRIC_ACCURACY)) inform("  %s %.2f%s", name,
        result->score, metric_unit(metric_of(v->s)));
    if (labels) inform("  labels: loss %.4f accuracy %.2f %%", result->label_loss,
                       100 * result->label_accuracy);
    if (v->cut) inform("  %lld of the answers reached the length limit", (long long)v->cut);
    inform("%s\n", remark);
    if (!file) return;
    fprintf(file, "{\"event\":\"validation\",\"update\":%lld", (long long)update);
    print_json_field(file, "loss", result->loss);
    if (kind == TRF_LABELS_ANY) print_json_field(file, "micro_f1", result->f1);
    if (kind == TRF_LABELS_NUMBERS) print_json_field(file, "pearson", result->pearson);
    if (kind == TRF_LABELS_NUMBERS) print_json_field(file, "spearman", result->spearman);
    print_json_field(file, "nll", result->nll);
    print_json_field(file, "perplexity", exp(result->nll));
    print_json_field(file, "accuracy", result->accuracy);
    if (labels) print_json_field(file, "label_loss", result->label_loss);
    if (labels) print_json_field(file, "label_accuracy", result->label_accuracy);
    fprintf(file, ",\"metric\":\"%s\"", name);
    print_json_field(file, "score", result->score);
    if (v->cut) fprintf(file, ",\"cut\":%lld", (long long)v->cut);
    fprintf(file, ",\"best\":%s}\n", *remark ? "true" : "false");
    flush_log(log);
}

int validates(const struct validator *v) { return count_held(v) > 0; }

void free_samples(struct validator *v)
{
    int k;
    for (k = 0; k < N_SAMPLES; k++) {
        free(v->samples[k]);
        v->samples[k] = NULL;
    }
}

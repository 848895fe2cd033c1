// trf train: how good the model is on pairs that it does not learn from.
//
// Loss and perplexity are those of the given targets. Every other metric translates the sources: one line in several
// pairs (a word with several pronunciations) is translated once, and any of its targets counts as right.

#include "train.h"
#include "metrics.h"

#include <math.h>

enum { CHUNK = 64 };    /* sources translated in one call: between calls a signal is noticed at once */

static const char *const metric_names[] = {"auto", "loss", "bleu", "chrf", "exact", "wer", "cer", "accuracy",
                                           "f1"};

const char *metric_name(enum metric metric) { return metric_names[metric]; }

enum metric metric_of(const struct training *t) { return (enum metric)t->s->metric; }

static int is_error_rate(enum metric metric) { return metric == METRIC_WER || metric == METRIC_CER; }

trf_metric library_metric(enum metric metric)
{
    return metric == METRIC_LOSS ? TRF_METRIC_LOSS : is_error_rate(metric) ? TRF_METRIC_ERROR_RATE
         : metric == METRIC_ACCURACY ? TRF_METRIC_ACCURACY : TRF_METRIC_CUSTOM;
}

static int cancelled(trf_status status, const trf_error *err)
{
    if (status == TRF_E_CANCELLED) return 1;
    say_error("validation", err);
    return 0;
}

/* Mean loss over the pairs, in batches of the training's size. */
static int mean_loss(struct training *t, struct validation *v)
{
    trf_step_report report;
    trf_batch pairs;
    trf_error err;
    trf_status status;
    memset(&pairs, 0, sizeof pairs);
    pairs.source = sequences_of(&t->valid[0]);
    pairs.target = sequences_of(&t->valid[1]);
    status = trf_evaluate_all(t->trainer, &pairs, t->valid_noise, &report, &err);
    if (status) return (v->cancelled = cancelled(status, &err)) ? DONE : FAILED;
    v->loss = report.loss;
    v->nll = report.nll;
    v->accuracy = report.accuracy;
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>translating    the sources, and the metric of what comes
// -----------------------------------------------------------------------------------------------

struct translations {
    struct training *t;
    trf_translator *translator;
    struct metrics *metrics;
    char *text;
    const char **references;
    char **joined;              /* the same, ours to free */
    size_t sample[N_SAMPLES];   /* pairs whose answers are kept, to be shown: the first ones of their sources */
    int cut;                    /* tokens are words: what subword-nmt has cut is joined */
    size_t text_capacity, references_capacity, joined_capacity;
};

/* "ein gro@@ ßer Hund" -> "ein großer Hund": pieces that subword-nmt has cut. */
static char *joined(int cut, char *text)
{
    char *from = text, *to = text;
    if (!cut) return text;
    while (*from) {
        if (!strncmp(from, "@@ ", 3)) from += 3;
        else if (!strcmp(from, "@@")) from += 2;
        else *to++ = *from++;
    }
    *to = 0;
    return text;
}

/* All targets of the pairs that have this one's source; none if an earlier pair has it. */
static size_t references_of(struct translations *r, size_t pair, const size_t *next)
{
    const struct training *t = r->t;
    size_t i, n = 0;
    for (i = pair; i != SIZE_MAX; i = next[i], n++) {
        r->references = grow(r->references, &r->references_capacity, n + 1, sizeof *r->references);
        r->joined = grow(r->joined, &r->joined_capacity, n + 1, sizeof *r->joined);
        r->joined[n] = joined(r->cut, format_text("%s", line_of(&t->held[1], t->valid_line[i])));
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
    const trf_hypothesis *h = trf_hypothesis_at(r->translator, sentence, 0);
    int k;
    if (!text_of(trf_model_target_vocab(r->t->model), h->ids, h->n, &r->text, &r->text_capacity)) return FAILED;
    for (k = 0; k < N_SAMPLES; k++) if (r->sample[k] == pair && !r->t->samples[k])
        r->t->samples[k] = format_text("%s", r->text);
    return add_figure(r, pair, joined(r->cut, r->text), next);
}

/* next[i]: the next pair with the source of pair i, or SIZE_MAX; first[i]: whether it is the first of them. */
static void chain_sources(const struct training *t, size_t *next, char *first)
{
    size_t n = t->valid[0].count, buckets = 1, *head, *tail, i;
    while (buckets < 2 * n) buckets *= 2;
    head = zeroed(buckets, sizeof *head);
    tail = zeroed(n, sizeof *tail);
    for (i = 0; i < n; i++) {
        const char *line = line_of(&t->held[0], t->valid_line[i]);
        size_t at = (size_t)hash_line(line) & (buckets - 1);
        while (head[at] && strcmp(line, line_of(&t->held[0], t->valid_line[head[at] - 1])))
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

/* Which of the pairs is shown as sample k: the same ones each time. */
static size_t sample_pair(const struct training *t, int k)
{
    return (size_t)(2 * k + 1) * t->valid[0].count / (2 * N_SAMPLES);
}

static void choose_samples(struct translations *r, const size_t *next, const char *first)
{
    size_t pair, i;
    int k;
    for (k = 0; k < N_SAMPLES; k++) {
        free(r->t->samples[k]);
        r->t->samples[k] = NULL;
    }
    for (pair = 0; pair < r->t->valid[0].count; pair++)
        for (i = first[pair] ? pair : SIZE_MAX; i != SIZE_MAX; i = next[i])
            for (k = 0; k < N_SAMPLES; k++) if (sample_pair(r->t, k) == i) r->sample[k] = pair;
}

/* Translates up to CHUNK sources from pair *at on, and adds up what comes. An empty one has an empty answer. */
static int translate_some(struct translations *r, size_t *at, size_t *used, const size_t *next, const char *first,
                          struct validation *v)
{
    const struct side *side = &r->t->valid[0];
    size_t pairs[CHUNK], i;
    struct side sources;
    trf_sequences all;
    trf_error err;
    trf_status status;
    int failed = DONE;
    memset(&sources, 0, sizeof sources);
    for (; *at < side->count && sources.count < CHUNK; *used += (size_t)side->lengths[(*at)++]) {
        size_t n = (size_t)side->lengths[*at];
        if (!first[*at]) continue;
        if (n == 0) {
            if (add_figure(r, *at, "", next)) { free_side(&sources); return FAILED; }
            continue;
        }
        sources.ids = grow(sources.ids, &sources.ids_capacity, sources.used + n, sizeof *sources.ids);
        sources.lengths = grow(sources.lengths, &sources.lengths_capacity, sources.count + 1,
                               sizeof *sources.lengths);
        memcpy(sources.ids + sources.used, side->ids + *used, n * sizeof *sources.ids);
        sources.used += n;
        pairs[sources.count] = *at;
        sources.lengths[sources.count++] = (int32_t)n;
    }
    all = sequences_of(&sources);
    status = all.count ? trf_translate_batch(r->translator, &all, &err) : TRF_OK;
    if (status) failed = (v->cancelled = cancelled(status, &err)) ? DONE : FAILED;
    for (i = 0; i < sources.count && !status && !failed; i++) failed = add_answer(r, pairs[i], (int32_t)i, next);
    free_side(&sources);
    return failed;
}

/* The translator of the model as it is now. */
static int make_translator(struct training *t, trf_translator **translator)
{
    trf_search search = t->s->search;
    trf_error err;
    search.beam = t->s->valid_beam;
    trf_search_limit(&search, trf_model_config(t->model));
    search.hooks = t->s->training.hooks;
    *translator = NULL;
    return trf_translator_create(translator, t->model, &search, &err) ? refused("validation", &err) : DONE;
}

/* A text of at most 60 bytes, whole characters, for one line of several. malloc'd */
static char *clipped(const char *text)
{
    size_t n = strlen(text), most = 60;
    if (n <= most) return format_text("%s", text);
    for (most -= 3; most && ((unsigned char)text[most] & 0xC0) == 0x80; most--) { }
    return format_text("%.*s...", (int)most, text);
}

static void show_sample(const struct training *t, size_t pair, const char *answer)
{
    const char *reference = line_of(&t->held[1], t->valid_line[pair]);
    char *source = clipped(line_of(&t->held[0], t->valid_line[pair])), *got = clipped(answer),
         *wanted = clipped(reference);
    if (!strcmp(answer, reference)) tell("    %s -> %s  (right)", source, got);
    else tell("    %s -> %s  (reference: %s)", source, *got ? got : "(nothing)", wanted);
    free(source);
    free(got);
    free(wanted);
}

/* The answer to a pair's source, or NULL, where a signal has left it; malloc'd. */
static char *answer_of(struct training *t, trf_translator *translator, size_t pair)
{
    const trf_hypothesis *h;
    trf_sequences source;
    size_t i, capacity = 0;
    char *text = NULL;
    trf_error err;
    source.ids = t->valid[0].ids;
    for (i = 0; i < pair; i++) source.ids += t->valid[0].lengths[i];
    source.lengths = t->valid[0].lengths + pair;
    source.count = 1;
    if (!*source.lengths) return format_text("%s", "");
    if (trf_translate_batch(translator, &source, &err)) return NULL;
    h = trf_hypothesis_at(translator, 0, 0);
    return text_of(trf_model_target_vocab(t->model), h->ids, h->n, &text, &capacity) ? text : NULL;
}

/* A validation that translates has the answers; another one makes them here. */
void show_samples(struct training *t)
{
    size_t n = t->valid[0].count;
    trf_translator *translator = NULL;
    int k, status = DONE;
    if (quiet || t->s->objective != OBJECTIVE_TRANSLATE || n == 0) return;
    if (!is_translating(metric_of(t))) status = make_translator(t, &translator);
    for (k = 0; k < N_SAMPLES && (size_t)k < n && !status; k++) {
        char *answer = translator ? answer_of(t, translator, sample_pair(t, k)) : t->samples[k];
        if (!answer && translator) break;
        show_sample(t, sample_pair(t, k), answer ? answer : "");        /* an empty source has no answer */
        if (translator) free(answer);
    }
    trf_translator_destroy(translator);
}

int is_translating(enum metric metric) { return metric >= METRIC_BLEU && metric <= METRIC_CER; }

static int translates(const struct training *t) { return is_translating(metric_of(t)); }

int check_translating(struct training *t)
{
    trf_translator *translator;
    int status, nothing;
    if (!translates(t) || t->valid[0].count == 0) return DONE;
    status = make_translator(t, &translator);
    trf_translator_destroy(translator);
    if (!status && metric_of(t) == METRIC_BLEU && !bleu_tells(t, &nothing) && nothing)
        say("warning: no reference has four words: BLEU counts n-grams of up to four words, so it means nothing here; "
            "use --metric chrf");
    return status;
}

/* BLEU counts n-grams of up to four words. It is a measure where nearly all references have four and their mean has
   six; where none has four it is 0 whatever is answered. The words are those that BLEU will count. */
int bleu_tells(const struct training *t, int *nothing)
{
    const struct text *text = t->held[1].count ? &t->held[1] : &t->text[1];
    struct metrics_options options;
    struct metrics *m;
    const struct metrics_sums *sums;
    int64_t grams = 0;
    size_t i, four = 0;
    int cut = trf_vocab_kind(t->vocab[1] ? t->vocab[1] : trf_model_target_vocab(t->model)) == TRF_WORDS;
    memset(&options, 0, sizeof options);
    options.figures = 1u << FIGURE_BLEU;
    options.tokens = cut ? METRICS_NONE : METRICS_13A;
    m = metrics_create(&options);
    if (!m) { say("out of memory"); exit(FAILED); }
    sums = metrics_sums(m);
    for (i = 0; i < text->count; i++) {
        char *line = joined(cut, format_text("%s", line_of(text, i)));
        const char *reference = line;
        if (metrics_add(m, line, &reference, 1)) { say("out of memory"); exit(FAILED); }
        free(line);
        four += sums->bleu[3].hypothesis > grams;
        grams = sums->bleu[3].hypothesis;
    }
    *nothing = grams == 0;
    i = (double)four >= 0.9 * (double)text->count && (double)sums->reference_length >= 6 * (double)text->count;
    metrics_destroy(m);
    return (int)i;
}

static int translate_held_out(struct training *t, struct validation *v)
{
    static const int figures[] = {0, 0, FIGURE_BLEU, FIGURE_CHRF, FIGURE_EXACT, FIGURE_WER, FIGURE_CER};
    struct translations r;
    struct metrics_options options;
    size_t n = t->valid[0].count, at = 0, used = 0, *next = zeroed(n, sizeof *next);
    char *first = zeroed(n, 1);
    int status = DONE;
    memset(&r, 0, sizeof r);
    r.t = t;
    memset(&options, 0, sizeof options);
    options.figures = 1u << figures[metric_of(t)];
    r.cut = trf_vocab_kind(trf_model_target_vocab(t->model)) == TRF_WORDS;
    options.tokens = r.cut ? METRICS_NONE : METRICS_13A;
    r.metrics = metrics_create(&options);
    if (!r.metrics) { say("out of memory"); exit(FAILED); }
    chain_sources(t, next, first);
    choose_samples(&r, next, first);
    status = make_translator(t, &r.translator);
    while (!status && !v->cancelled && at < n) {
        status = translate_some(&r, &at, &used, next, first, v);
        if (stopped()) v->cancelled = 1;
    }
    v->score = metrics_value(r.metrics, (enum figure)figures[metric_of(t)]);
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
// >>labelling      F1: of each label 2 right / (given + wanted), and the mean of those that occur (macro-averaged)
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

/* Adds up what is given to some sequences; n: their number, or that of their tokens. */
static trf_status label_some(trf_translator *translator, const trf_sequences *sources, const int32_t *wanted,
                             int64_t n, int32_t n_labels, int tags, struct counts *counts, trf_error *err)
{
    trf_real *p = zeroed((size_t)(n * n_labels) + 1, sizeof *p);
    trf_tensor out = trf_tensor_of(p, 2, n, n_labels, 0);
    trf_status status = tags ? trf_tag(translator, sources, &out, err) : trf_classify(translator, sources, &out, err);
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

static int label_held_out(struct training *t, struct validation *v)
{
    const struct side *valid = t->valid;
    int32_t n_labels = t->labels.n;
    struct counts *counts = zeroed((size_t)n_labels, sizeof *counts);
    trf_translator *translator;
    int made = make_translator(t, &translator) == DONE;
    size_t i, source = 0, target = 0, n;
    trf_status status = TRF_OK;
    trf_error err;
    for (i = 0; made && i < valid[0].count && !status; i += n) {
        trf_sequences some = {valid[0].ids + source, valid[0].lengths + i, 0};
        size_t from = target;
        n = valid[0].count - i < CHUNK ? valid[0].count - i : CHUNK;
        for (; some.count < (int32_t)n; some.count++) {
            source += (size_t)valid[0].lengths[i + (size_t)some.count];
            target += (size_t)valid[1].lengths[i + (size_t)some.count];
        }
        status = label_some(translator, &some, valid[1].ids + from, (int64_t)(target - from), n_labels,
                            t->s->objective == OBJECTIVE_TAG, counts, &err);
        if (stopped()) { v->cancelled = 1; break; }
    }
    if (status) v->cancelled = cancelled(status, &err);
    v->score = mean_f1(counts, n_labels);
    free(counts);
    trf_translator_destroy(translator);
    return made && (!status || v->cancelled) ? DONE : FAILED;
}

int validate(struct training *t, struct validation *v)
{
    int status;
    memset(v, 0, sizeof *v);
    if ((status = mean_loss(t, v)) || v->cancelled) return status;
    v->score = metric_of(t) == METRIC_ACCURACY ? 100 * v->accuracy : v->loss;
    if (metric_of(t) == METRIC_F1) return label_held_out(t, v);
    return translates(t) ? translate_held_out(t, v) : DONE;
}

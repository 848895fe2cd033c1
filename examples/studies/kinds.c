/* kinds.c - an encoder, a decoder and an encoder-decoder learn the same two tasks. Which one fits?

   Tutorials claim that an encoder (BERT) understands but does not generate, that a decoder (GPT)
   generates, that an encoder-decoder (T5) turns one sequence into another, and that a decoder layer
   of T5 is larger than an encoder layer because of its cross-attention.

   In both tasks the answer is as long as the source: reversal, and running sums modulo 12, of 3 to
   8 symbols. The encoder labels every token (TRF_HEAD_TOKENS). The decoder reads source, separator
   and answer as one sequence; its loss counts the source too. The encoder-decoder has two layers on
   each side, the others have four. An answer is exact if all its symbols are right, decoded freely,
   for 400 sequences that training never draws. A model that never reaches 90 % counts with all its
   updates. */
#include "study.h"

enum { SYMBOLS = 12, SEPARATOR = 4 + SYMBOLS, VOCAB, SHORTEST = 3, LONGEST = 8 };
enum { WIDTH = 64, BATCH = 64, TESTS = 400, POINTS = 16, MOST = 100 };
enum { REVERSAL = 0, SUMS = 1, TASKS = 2 };
enum { ENCODER = 0, DECODER = 1, BOTH = 2, KINDS = 3 };
static const char *const names[KINDS] = {"encoder", "decoder", "encoder-decoder"};
static const char *const tasks[TASKS] = {"reversal", "running sums"};

/* Pairs, with labels (symbols from 0) for the encoder, and each pair as one sequence for the
   decoder, which is also given its beginning alone. */
struct samples {
    int32_t source[TESTS * LONGEST], target[TESTS * LONGEST], labels[TESTS * LONGEST];
    int32_t joined[TESTS * (2 * LONGEST + 1)], begun[TESTS * (LONGEST + 1)];
    int32_t lengths[TESTS], joined_lengths[TESTS], begun_lengths[TESTS];
};
struct result { double exact, symbols, reached, training, answering; };

/* One sequence in eight is kept for tests. */
static int is_test(const int32_t *ids, int32_t n)
{
    uint64_t hash = 14695981039346656037u;
    int32_t i;
    for (i = 0; i < n; i++) hash = (hash ^ (uint64_t)ids[i]) * 1099511628211u;
    return (hash >> 40) % 8 == 0;
}

static void draw(struct samples *x, int32_t count, int task, int testing, uint64_t *random)
{
    int32_t *source = x->source, *target = x->target, *joined = x->joined, *begun = x->begun;
    int32_t i, j, n, sum, *labels = x->labels;
    for (i = 0; i < count; i++, source += n, target += n) {
        do {
            n = SHORTEST + study_below(random, LONGEST - SHORTEST + 1);
            for (j = 0; j < n; j++) source[j] = 4 + study_below(random, SYMBOLS);
        } while (is_test(source, n) != testing);
        for (j = sum = 0; j < n; j++) {
            sum = (sum + source[j] - 4) % SYMBOLS;
            target[j] = task == SUMS ? 4 + sum : source[n - 1 - j];
            *labels++ = target[j] - 4;
            *begun++ = *joined++ = source[j];
        }
        *begun++ = *joined++ = SEPARATOR;
        for (j = 0; j < n; j++) *joined++ = target[j];
        x->lengths[i] = n;
        x->begun_lengths[i] = n + 1;
        x->joined_lengths[i] = 2 * n + 1;
    }
}

/* The batch that a model of this kind learns from. */
static trf_batch batch_of(const struct samples *x, int kind, int32_t count)
{
    trf_batch b;
    memset(&b, 0, sizeof b);
    b.source.ids = x->source;
    b.target.ids = kind == DECODER ? x->joined : kind == ENCODER ? x->labels : x->target;
    b.source.lengths = x->lengths;
    b.target.lengths = kind == DECODER ? x->joined_lengths : x->lengths;
    b.source.count = b.target.count = count;
    return b;
}

static trf_config config_of(const struct study *s, int kind, uint64_t seed)
{
    static const trf_kind kinds[KINDS] = {TRF_ENCODER_ONLY, TRF_DECODER_ONLY, TRF_ENCODER_DECODER};
    trf_config c = study_config(s, kinds[kind], 4, VOCAB, seed);
    c.head = kind == ENCODER ? TRF_HEAD_TOKENS : TRF_HEAD_NONE;
    c.n_labels = kind == ENCODER ? SYMBOLS : 0;
    return c;
}

/* Answers all tests: shares that are right, in percent, and the time that it takes. */
static void judge(const trf_model *model, int kind, int task, struct result *r)
{
    static struct samples x;
    static trf_real p[TESTS * LONGEST * SYMBOLS];
    uint64_t random = 77;               /* the same tests for all */
    trf_search search = trf_search_defaults();
    trf_translator *t = NULL;
    trf_batch b;
    int32_t i, j, k, best, at = 0, right = 0, exact = 0;
    double begin;
    search.beam = 1;
    draw(&x, TESTS, task, 1, &random);
    b = batch_of(&x, BOTH, TESTS);
    if (kind == DECODER) {
        b.source.ids = x.begun;
        b.source.lengths = x.begun_lengths;
    }
    for (i = 0; i < TESTS; i++) at += x.lengths[i];
    STUDY_TRY(trf_translator_create(&t, model, &search, &err));
    begin = study_seconds();
    if (kind == ENCODER) {
        trf_tensor out = trf_tensor_of(p, 2, at, SYMBOLS, 1);
        STUDY_TRY(trf_reader_classify(trf_translator_reader(t), &b.source, &out, &err));
    } else {
        STUDY_TRY(trf_translate(t, &b.source, NULL, &err));
    }
    r->answering = study_seconds() - begin;
    for (i = at = 0; i < TESTS; at += x.lengths[i++]) {
        const trf_hypothesis *h = kind == ENCODER ? NULL : trf_translator_answer(t, i, 0);
        int32_t hits = 0, n = x.lengths[i];
        for (j = 0; j < n; j++) {
            const trf_real *row = p + (at + j) * SYMBOLS;
            for (best = k = 0; k < SYMBOLS; k++) if (row[k] > row[best]) best = k;
            hits += x.target[at + j] == (!h ? 4 + best : j < h->n ? h->ids[j] : -1);
        }
        right += hits;
        exact += hits == n && (!h || h->n == n);
    }
    trf_translator_destroy(t);
    r->exact = 100.0 * exact / TESTS;
    r->symbols = 100.0 * right / at;
}

/* Trains one model and judges it POINTS times, the last time at the end. Adds to `exact`. */
static struct result run(const struct study *s, int kind, int task, uint64_t seed, int updates,
                         double *exact, int64_t *weights)
{
    static struct samples x;
    trf_config c = config_of(s, kind, seed);
    trf_train_options o = trf_train_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    struct result r;
    uint64_t random = seed * 1000 + (uint64_t)task;
    int i, every = updates / POINTS;
    memset(&r, 0, sizeof r);
    r.reached = updates;
    o.schedule = TRF_COSINE;
    o.learning_rate = 2e-3;
    o.warmup = updates / 16;
    o.total_steps = updates;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    STUDY_TRY(trf_trainer_create(&trainer, model, &o, &err));
    for (i = 1; i <= updates; i++) {
        trf_batch b;
        double begin;
        draw(&x, BATCH, task, 0, &random);
        b = batch_of(&x, kind, BATCH);
        begin = study_seconds();
        STUDY_TRY(trf_trainer_step(trainer, &b, NULL, &err));
        r.training += study_seconds() - begin;
        if (i % every) continue;
        judge(model, kind, task, &r);
        exact[i / every - 1] += r.exact / s->seeds;
        if (r.exact >= 90 && r.reached > i) r.reached = i;
    }
    *weights = trf_model_parameter_total(model);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return r;
}

static void conclude(struct study *s, double exact[TASKS][KINDS][MOST],
                     double reached[TASKS][KINDS][MOST], const int64_t *weights)
{
    int n = s->seeds, better = study_larger(reached[SUMS][DECODER], n, reached[SUMS][BOTH], n);
    int64_t d = WIDTH, cross = 4 * d * d + 4 * d + 2 * d;   /* four projections, one norm */
    study_must(s, weights[BOTH] - weights[DECODER] == 2 * cross + VOCAB * d + 2 * d,
               "two layers of cross-attention, an embedding and a norm are the difference");
    study_must(s, weights[DECODER] - weights[ENCODER] == (VOCAB - SYMBOLS) * (d + 1),
               "an encoder and a decoder alone differ in what projects their last rows");
    study_claim(s,
                "a decoder layer has more weights than an encoder layer: its cross-attention",
                STUDY_YES, "%lld more; a layer of a decoder-only model has none of them",
                (long long)cross);
    if (s->quick) return;
    study_claim(s, "an encoder does not generate", STUDY_NO, "an answer as long as the source is a "
                "label for each token: reversal %s %% exact",
                study_spread(exact[REVERSAL][ENCODER], n, 1));
    study_claim(s, "an encoder-decoder is best at turning one sequence into another", better,
                "updates until 90 %% of running sums are exact, at most 1200: "
                "encoder-decoder %s, decoder %s, encoder %s",
                study_spread(reached[SUMS][BOTH], n, 0), study_spread(reached[SUMS][DECODER], n, 0),
                study_spread(reached[SUMS][ENCODER], n, 0));
}

int main(int argc, char **argv)
{
    static double exact[TASKS][KINDS][MOST], reached[TASKS][KINDS][MOST], symbols[MOST],
        spent[MOST];
    static double answering[MOST], along[TASKS][KINDS][POINTS], at[POINTS];
    static struct curve curves[TASKS][KINDS];
    static struct panel panels[TASKS];
    struct study s = study_begin(argc, argv, "kinds", "three kinds of model, the same tasks");
    int64_t weights[KINDS];
    int task, kind, i, updates = s.quick ? 96 : 1200, n_tasks = s.quick ? 1 : TASKS;
    if (s.quick) s.seeds = 1;
    study_columns(&s,
                  "task | kind | weights | exact, % | symbols right, % | updates until 90 % exact"
                  " | seconds of training | seconds for 400 answers");
    for (i = 0; i < POINTS; i++) at[i] = (i + 1) * (updates / POINTS);
    for (task = 0; task < n_tasks; task++) {
        for (kind = 0; kind < KINDS; kind++) {
            struct curve curve = {names[kind], at, along[task][kind], POINTS, 1, 0, 0};
            for (i = 0; i < s.seeds; i++) {
                struct result r = run(&s, kind, task, (uint64_t)i + 1, updates, along[task][kind],
                                      &weights[kind]);
                exact[task][kind][i] = r.exact;
                reached[task][kind][i] = r.reached;
                symbols[i] = r.symbols;
                spent[i] = r.training;
                answering[i] = r.answering;
                study_must(&s, r.symbols > 200.0 / SYMBOLS,
                           "%s learns %s: %.1f %% of symbols right", names[kind], tasks[task],
                           r.symbols);
            }
            study_row(&s, "%s | %s | %lld | %s | %s | %s | %s | %s", tasks[task], names[kind],
                      (long long)weights[kind], study_spread(exact[task][kind], s.seeds, 1),
                      study_spread(symbols, s.seeds, 1),
                      study_spread(reached[task][kind], s.seeds, 0),
                      study_spread(spent, s.seeds, 1), study_spread(answering, s.seeds, 3));
            curves[task][kind] = curve;
        }
        panels[task].title = tasks[task];
        panels[task].x_label = "updates";
        panels[task].y_label = "exact answers, %";
        panels[task].curves = curves[task];
        panels[task].n = KINDS;
        panels[task].from_zero = 1;
    }
    study_curves(&s, "", panels, n_tasks, n_tasks);
    conclude(&s, exact, reached, weights);
    return study_end(&s);
}

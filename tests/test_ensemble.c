/* build: shared double:shared separate:shared cuda:shared plain:shared */
/* Several models that answer as one. The oracle runs each model alone, teacher-forced and without a cache, mixes the
   logits in plain loops in double and drives a beam with them (test_search.c compares beams with plain programs).
   The rules about tokens are compared with those of one model: a model twice is that model. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "kit.h"

enum { PAD = 0, BOS = 1, EOS = 2, UNK = 3, FIRST = 4, VOCAB = 20, MAX_IDS = 40, MODELS = 3, ANSWERS = 4, SOURCES = 7 };

#define OK(call) check_ok((call), &err, #call, __LINE__)
#define FAILS(status, call) check_fails((status), (call), &err, #call, __LINE__)

static void check_ok(trf_status status, const trf_error *err, const char *call, int line)
{
    if (status != TRF_OK) fail_msg("line %d: %s: %s: %s", line, call, trf_status_name(status), err->message);
}

static void check_fails(trf_status wanted, trf_status status, const trf_error *err, const char *call, int line)
{
    if (status != wanted || err->status != wanted || !err->message[0])
        fail_msg("line %d: %s: expected %s, got %s: %s", line, call, trf_status_name(wanted), trf_status_name(status),
                 err->message);
}

static uint64_t draws;
static int32_t pick(int32_t n) { return (int32_t)(trf__random64(78, 4, draws++) % (uint64_t)n); }
static double close_enough(void) { return sizeof(trf_real) == 8 ? 1e-9 : 5e-5; }

/* -----------------------------------------------------------------------------------------------
   Models that have little in common but the tokens of their answers. */

static void sharpen(trf_model *model)
{
    trf_tensor w = kit_open(trf_model_parameter(model, trf_model_parameter_index(model, "generator.weight")));
    int64_t n = trf_tensor_count(&w), i;
    for (i = 0; i < n; i++) w.data[i] *= 3;
    kit_close(&w);
}

static trf_config config_of(trf_kind kind, int k)
{
    static const int32_t layers[MODELS] = {1, 2, 1}, width[MODELS] = {16, 32, 8}, longest[MODELS] = {64, 33, 48};
    trf_config c = kit_of_kind(kit_small(layers[k], width[k], VOCAB, longest[k]), kind);
    c.decoder_start = kind == TRF_DECODER_ONLY ? TRF_START_BOS : TRF_START_EOS;
    c.seed = (uint64_t)(11 + k);
    if (k == 1) {
        c.norm_place = TRF_PRE_NORM;
        c.n_heads = 4;
        c.positions = TRF_POSITIONS_LEARNED;
        c.source_bos = kind == TRF_ENCODER_DECODER;
        c.generator_bias = 1;
    }
    if (k == 2) { c.activation = TRF_GELU; c.source_eos = kind != TRF_ENCODER_DECODER; c.scale_logits = 1; }
    return c;
}

static trf_model *model_of(trf_kind kind, int k)
{
    trf_config c = config_of(kind, k);
    trf_model *model = NULL;
    trf_error err;
    OK(trf_model_create(&model, &c, NULL, &err));
    if (kind != TRF_ENCODER_ONLY) sharpen(model);
    return model;
}

/* The models of a case, and a translator of each alone. */
typedef struct company {
    int32_t n;
    double weights[MODELS];                 /* as given */
    trf_model *models[MODELS];
    trf_translator *alone[MODELS];
    const trf_model *list[MODELS];
} company;

static company company_of(trf_kind kind, int32_t n, trf_weights weights)
{
    company a;
    trf_search search = trf_search_defaults();
    trf_error err;
    int32_t k;
    memset(&a, 0, sizeof a);
    search.weights = weights;
    a.n = n;
    for (k = 0; k < MODELS; k++) a.weights[k] = 0.5 + k;
    for (k = 0; k < n; k++) {
        a.list[k] = a.models[k] = model_of(kind, k);
        OK(trf_translator_create(&a.alone[k], a.list[k], &search, &err));
    }
    return a;
}

static void part(company *a)
{
    int32_t k;
    for (k = 0; k < a->n; k++) {
        trf_translator_destroy(a->alone[k]);
        trf_model_destroy(a->models[k]);
    }
}

static trf_sequences some(const int32_t *ids, const int32_t *lengths, int32_t count)
{
    trf_sequences x;
    x.ids = ids; x.lengths = lengths; x.count = count;
    return x;
}

/* -----------------------------------------------------------------------------------------------
   The oracle. */

/* What the models say of the token after `ids`, each alone and then together. sources[k]: of model k. */
static void said(const company *a, int rule, const trf_sequences *sources, const int32_t *ids, int32_t n, double *l)
{
    trf_real rows[MAX_IDS * VOCAB];
    double sum = 0, own[VOCAB];
    trf_error err;
    int32_t k, w;
    for (k = 0; k < a->n; k++) sum += a->weights[k];
    for (w = 0; w < VOCAB; w++) l[w] = 0;
    for (k = 0; k < a->n; k++) {
        const trf_config *c = trf_model_config(a->list[k]);
        double all = 0, weight = rule == TRF_ENSEMBLE_ARITHMETIC ? a->weights[k] / sum : a->weights[k];
        trf_tensor logits = trf_tensor_of(rows, 2, n + c->target_eos, VOCAB, 1);
        trf_batch batch;
        memset(&batch, 0, sizeof batch);
        assert_true(n < MAX_IDS);
        if (sources) batch.source = sources[k];
        batch.target = some(ids, &n, 1);
        assert_int_equal(c->target_eos, 1);
        OK(kit_logits(a->alone[k], &batch, &logits, &err));
        for (w = 0; w < VOCAB; w++) all += exp(own[w] = (double)rows[n * VOCAB + w]);
        for (w = 0; w < VOCAB; w++)
            l[w] += weight * (rule == TRF_ENSEMBLE_ARITHMETIC ? exp(own[w]) / all : own[w] - log(all));
    }
    for (w = 0; rule == TRF_ENSEMBLE_ARITHMETIC && w < VOCAB; w++) l[w] = log(l[w]);
}

typedef struct answer { int32_t n, ids[MAX_IDS]; double each[MAX_IDS], score; trf_ended ended; } answer;

/* The best `count` tokens of a row; those that are never chosen, and EOS if it is out, are not among them. */
static void best_of(const double *l, int bos, int32_t forced, int32_t count, double *p, int32_t *ids, double *rest)
{
    int taken[VOCAB] = {0};
    double out = forced == TRF__NOT_EOS ? log1p(-exp(l[EOS])) : 0;
    int32_t i, w;
    *rest = out;
    if (forced >= 0) { ids[0] = forced; p[0] = l[forced]; return; }
    taken[PAD] = 1;
    taken[BOS] = !bos;
    if (forced == TRF__NOT_EOS) taken[EOS] = 1;
    for (i = 0; i < count; i++) {
        ids[i] = -1;
        p[i] = -HUGE_VAL;
        for (w = 0; w < VOCAB; w++)
            if (!taken[w] && (ids[i] < 0 || l[w] > p[i])) { ids[i] = w; p[i] = l[w]; }
        if (ids[i] >= 0) taken[ids[i]] = 1;
        p[i] -= out;
    }
}

static int32_t plain_search(const company *a, const trf_search *s, const trf_sequences *sources, int32_t limit,
                            const int32_t *prefix, int32_t n_prefix, answer *answers)
{
    enum { WIDEST = 4 * 16 + 2 };
    static double room[1 << 17];
    static double p[8 * WIDEST];
    static int32_t ids[8 * WIDEST];
    double rest[8], own[ANSWERS * MAX_IDS];
    trf_hypothesis found[ANSWERS];
    int32_t kept[ANSWERS * MAX_IDS], i, n;
    trf_search running = *s;
    int bos = trf_model_config(a->list[0])->decoder_start != TRF_START_BOS;     /* may be chosen */
    trf__beam beam;
    if (s->ensemble.rule == TRF_ENSEMBLE_GEOMETRIC) running.renormalize_logits = 0;
    assert_true(trf__beam_layout(&beam, &running, NULL, MAX_IDS, NULL) <= sizeof room);
    trf__beam_layout(&beam, &running, NULL, MAX_IDS, room);
    trf__beam_sentence(&beam, limit, prefix, n_prefix, EOS, VOCAB - 2 + bos);
    trf__beam_open(&beam);
    while (!beam.done) {
        trf__beam_request wanted = trf__beam_wanted(&beam);
        int32_t row, live = beam.live;
        assert_true(wanted.count <= WIDEST && live <= 8);
        for (row = 0; row < live; row++) {
            int32_t history[MAX_IDS], at = row, t;
            double l[VOCAB];
            for (t = beam.n; t > 0; t--) {
                size_t node = (size_t)(t - 1) * (size_t)s->beam + (size_t)at;
                history[t - 1] = beam.token[node];
                at = beam.parent[node];
            }
            said(a, (int)s->ensemble.rule, sources, history, beam.n, l);
            best_of(l, bos, wanted.forced, wanted.count, p + row * wanted.count, ids + row * wanted.count,
                    &rest[row]);
        }
        trf__beam_advance(&beam, p, NULL, running.renormalize_logits ? rest : NULL, ids, wanted.count, wanted.count, 0);
    }
    n = trf__beam_finish(&beam, found, kept, own);
    for (i = 0; i < n; i++) {
        answers[i].n = found[i].n;
        answers[i].score = found[i].score;
        answers[i].ended = found[i].ended;
        memcpy(answers[i].ids, found[i].ids, (size_t)found[i].n * sizeof(int32_t));
        memcpy(answers[i].each, found[i].log_probabilities, ((size_t)found[i].n + 1) * sizeof(double));
    }
    return n;
}

/* An answer of the library is the plain loop's. */
static void same_answer(const trf_hypothesis *h, const answer *b, int32_t hidden, double tolerance)
{
    int32_t i;
    assert_int_equal(h->n, b->n - hidden);
    assert_int_equal(h->ended, b->ended);
    for (i = 0; i < h->n; i++) assert_int_equal(h->ids[i], b->ids[hidden + i]);
    for (i = 0; i < h->n + (h->ended == TRF_ENDED_EOS); i++)
        if (!(fabs(h->log_probabilities[i] - b->each[hidden + i]) < tolerance))
            fail_msg("token %d: %.9g, not %.9g", (int)i, h->log_probabilities[i], b->each[hidden + i]);
    if (!(fabs(h->score - b->score) < tolerance * (1 + b->n)))
        fail_msg("score %.9g, not %.9g", h->score, b->score);
}

/* -----------------------------------------------------------------------------------------------
   Searches beside plain loops. */

typedef struct asked { int32_t ids[SOURCES * 8], lengths[SOURCES], prefix_ids[SOURCES * 3], prefixes[SOURCES]; } asked;

static void ask(asked *q)
{
    int32_t i, k, at = 0, prefix = 0;
    for (i = 0; i < SOURCES; i++) {
        q->lengths[i] = i == 2 ? 0 : 1 + pick(7);
        for (k = 0; k < q->lengths[i]; k++) q->ids[at++] = FIRST + pick(VOCAB - FIRST);
        q->prefixes[i] = i % 3;
        for (k = 0; k < q->prefixes[i]; k++) q->prefix_ids[prefix++] = FIRST + pick(VOCAB - FIRST);
    }
}

static trf_search search_of(int32_t beam, trf_search_rule rule, trf_ensemble_rule ensemble_rule)
{
    trf_search s = trf_search_defaults();
    s.beam = beam;
    s.n_best = beam < ANSWERS ? beam : ANSWERS;
    trf_search_set_rule(&s, rule);
    s.ensemble.rule = ensemble_rule;
    s.max_length_a = 1;
    s.max_length_b = 4;
    return s;
}

static void check_searches(const company *a, trf_search s, int32_t prefixed)
{
    static const int32_t sentences[3] = {32, 1, 3};
    asked q;
    trf_error err;
    trf_sequences x, prefixes;
    answer plain[SOURCES][ANSWERS];
    int32_t i, k, run, n[SOURCES], at = 0, prefix = 0;
    /* in 8 bits a last bit may round an activation to the next integer */
    const double tolerance = s.weights == TRF_WEIGHTS_FULL ? close_enough() : s.weights == TRF_WEIGHTS_BF16 ? 1e-3 : 1e-2;
    ask(&q);
    x = some(q.ids, q.lengths, SOURCES);
    prefixes = some(q.prefix_ids, q.prefixes, SOURCES);
    for (i = 0; i < SOURCES; at += q.lengths[i], prefix += q.prefixes[i++]) {
        trf_sequences each[MODELS];
        for (k = 0; k < a->n; k++) each[k] = some(q.ids + at, q.lengths + i, 1);
        n[i] = plain_search(a, &s, each, (int32_t)trf__max64(q.lengths[i] + 4, prefixed ? q.prefixes[i] : 0),
                            q.prefix_ids + prefix, prefixed ? q.prefixes[i] : 0, plain[i]);
    }
    for (run = 0; run < 3; run++) {
        trf_translator *t = NULL;
        s.max_sentences = sentences[run];
        s.threads = run == 1 ? 3 : 1;
        OK(kit_translator_ensemble(&t, a->list, a->weights, a->n, &s, &err));
        if (prefixed) OK(kit_translate_with(t, &x, &prefixes, NULL, 0, &err));
        else OK(trf_translate(t, &x, NULL, &err));
        for (i = 0; i < SOURCES; i++) {
            assert_int_equal(kit_count(t, i), n[i]);
            for (k = 0; k < n[i]; k++)
                same_answer(trf_translator_answer(t, i, k), &plain[i][k], 0, tolerance);
        }
        trf_translator_destroy(t);
    }
}

static void test_searches_equal_plain_loops(void **state)
{
    static const trf_search_rule rules[4] = {TRF_SEARCH_PAPER, TRF_SEARCH_MARIAN, TRF_SEARCH_CTRANSLATE2,
                                             TRF_SEARCH_FAIRSEQ};
    int32_t n, rule, i;
    (void)state;
    for (n = KIT_SAME_ROWS || kit_all() ? 2 : 3; n <= 3; n++) {
        company a = company_of(TRF_ENCODER_DECODER, n, TRF_WEIGHTS_FULL);
        for (rule = 0; rule < 2; rule++)
            for (i = KIT_AGAIN ? 2 : 0; i < 4; i++) {
                trf_search s = search_of(i == 3 ? 1 : 1 + n, rules[i], (trf_ensemble_rule)rule);
                if (KIT_AGAIN && !kit_all() && i % 2 != rule) continue;
                if (i == 2) s.min_length = 3;
                check_searches(&a, s, i % 2);
            }
        part(&a);
    }
}

#if !defined(TRF_DOUBLE) && !defined(KIT_ON_CUDA)
static void test_small_weights(void **state)
{
    static const trf_weights weights[2] = {TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
    int i;
    (void)state;
    for (i = 0; i < 2; i++) {
        company a = company_of(TRF_ENCODER_DECODER, 2, weights[i]);
        trf_search s = search_of(2, TRF_SEARCH_PAPER, TRF_ENSEMBLE_ARITHMETIC);
        s.weights = weights[i];
        check_searches(&a, s, 0);
        part(&a);
    }
}
#endif

/* A model and itself are the model, whatever the rules about tokens ask; so is one model alone, to the last bit. */
static void test_a_model_twice(void **state)
{
    static const int32_t banned_ids[5] = {5, 7, 8, 9, 6}, banned_n[3] = {1, 2, 2};
    static const int32_t phrase_ids[3] = {10, 11, 6}, phrase_n[2] = {2, 1};
    company a = company_of(TRF_ENCODER_DECODER, 1, TRF_WEIGHTS_FULL);
    const trf_model *twice[2];
    int32_t i, k, r, j;
    trf_error err;
    asked q;
    trf_sequences x;
    (void)state;
    ask(&q);
    x = some(q.ids, q.lengths, SOURCES);
    twice[0] = twice[1] = a.list[0];
    for (i = 0; i < 8; i++) {
        trf_search s = search_of(i % 2 ? 4 : 1, i < 4 ? TRF_SEARCH_PAPER : TRF_SEARCH_CTRANSLATE2,
                                 TRF_ENSEMBLE_ARITHMETIC);
        trf_translator *t[3] = {NULL, NULL, NULL};
        s.min_length = i % 3;
        if (i & 2) { s.banned = some(banned_ids, banned_n, 3); s.no_repeat_ngram = 2; }
        if (i == 3 || i == 5) s.phrases = some(phrase_ids + 1, phrase_n, 1);
        if (i % 4 == 1) { s.repetition_penalty = 1.3; s.forced_first = 12; }
        if (i == 6) { s.ends.n = 2; s.ends.ids[0] = 13; s.ends.ids[1] = 14; }
        OK(trf_translator_create(&t[0], a.list[0], &s, &err));
        OK(kit_translator_ensemble(&t[1], a.list, NULL, 1, &s, &err));
        OK(kit_translator_ensemble(&t[2], twice, a.weights, 2, &s, &err));
        for (r = 0; r < 3; r++) OK(trf_translate(t[r], &x, NULL, &err));
        assert_true(hash_answers(1, t[0], SOURCES) == hash_answers(1, t[1], SOURCES));
        for (j = 0; j < SOURCES; j++)
            for (k = 0; k < kit_count(t[0], j); k++) {
                const trf_hypothesis *h = trf_translator_answer(t[0], j, k), *b = trf_translator_answer(t[2], j, k);
                assert_non_null(b);
                assert_int_equal(h->n, b->n);
                assert_memory_equal(h->ids, b->ids, (size_t)h->n * sizeof *h->ids);
                assert_true(fabs(h->score - b->score) < close_enough());
                assert_true(fabs(h->log_probability - b->log_probability) < close_enough());
            }
        for (r = 0; r < 3; r++) trf_translator_destroy(t[r]);
    }
    part(&a);
}

/* Sixteen models; the same scores as one of them with each rule's weights. */
static void test_many_models(void **state)
{
    company a = company_of(TRF_ENCODER_DECODER, 1, TRF_WEIGHTS_FULL);
    const trf_model *many[TRF_MAX_MODELS + 1];
    double ones[TRF_MAX_MODELS];
    int32_t source[3] = {5, 9, 6}, n = 3, i, rule;
    trf_sequences x = some(source, &n, 1);
    trf_error err;
    (void)state;
    for (i = 0; i <= TRF_MAX_MODELS; i++) many[i] = a.list[0];
    for (i = 0; i < TRF_MAX_MODELS; i++) ones[i] = 1.0 / TRF_MAX_MODELS;
    for (rule = 0; rule < 2; rule++) {
        trf_search s = search_of(3, TRF_SEARCH_PAPER, (trf_ensemble_rule)rule);
        trf_translator *t = NULL, *alone = NULL;
        double factor = 1;
        int pass;
        OK(trf_translator_create(&alone, a.list[0], &s, &err));
        OK(trf_translate(alone, &x, NULL, &err));
        for (pass = 0; pass < 2; pass++) {
            if (rule && pass) factor = TRF_MAX_MODELS;          /* Marian's weights are 1 each */
            OK(kit_translator_ensemble(&t, many, pass ? NULL : ones, TRF_MAX_MODELS, &s, &err));
            OK(trf_translate(t, &x, NULL, &err));
            if (factor == 1)
                assert_true(fabs(trf_translator_answer(t, 0, 0)->score - trf_translator_answer(alone, 0, 0)->score) < 1e-4);
            else assert_true(trf_translator_answer(t, 0, 0)->score < 2 * trf_translator_answer(alone, 0, 0)->score);
            trf_translator_destroy(t);
        }
        FAILS(TRF_E_INVALID_ARG, kit_translator_ensemble(&t, many, NULL, TRF_MAX_MODELS + 1, &s, &err));
        assert_null(t);
        trf_translator_destroy(alone);
    }
    part(&a);
}

/* -----------------------------------------------------------------------------------------------
   Language models; sampling. */

static void test_language_models(void **state)
{
    company a = company_of(TRF_DECODER_ONLY, 2, TRF_WEIGHTS_FULL);
    int32_t prompt[4] = {5, 9, 6, 12}, n = 4, rule;
    trf_sequences x = some(prompt, &n, 1);
    trf_error err;
    (void)state;
    for (rule = 0; rule < 2; rule++) {
        trf_search s = search_of(3, TRF_SEARCH_FAIRSEQ, (trf_ensemble_rule)rule);
        trf_translator *t = NULL;
        answer plain[ANSWERS];
        int32_t found, k;
        s.min_length = 0;
        found = plain_search(&a, &s, NULL, 12, prompt, n, plain);
        OK(kit_translator_ensemble(&t, a.list, a.weights, a.n, &s, &err));
        OK(trf_translate(t, &x, NULL, &err));
        assert_int_equal(kit_count(t, 0), found);
        for (k = 0; k < found; k++) same_answer(trf_translator_answer(t, 0, k), &plain[k], n, close_enough());
        FAILS(TRF_E_STATE, kit_translate_with(t, &x, NULL, NULL, 1, &err));
        trf_translator_destroy(t);
    }
    part(&a);
}

/* Every token that a sampler draws has the log-probability of the models together, divided by the sum of all; with
   temperature 0 it is the likeliest one. The prompts are longer than the window of one of the models, too. */
static void check_sampler(const company *a, const trf_sequences *source, trf_sampling o)
{
    trf_sampler *g = NULL;
    trf_batch batch;
    trf_error err;
    int32_t prompts[7] = {5, 9, 6, 12, 7, 7, 8}, lengths[3] = {4, 0, 3}, at = 0, i, t, w, live = 1;
    memset(&batch, 0, sizeof batch);
    batch.target = some(prompts, lengths, 3);
    if (source) batch.source = *source;
    OK(kit_sampler_ensemble(&g, a->list, a->weights, a->n, &o, &err));
    OK(trf_sampler_begin(g, &batch, &err));
    while (live) OK(trf_sampler_step(g, 3, &live, &err));
    for (i = 0; i < 3; at += lengths[i++]) {
        const trf_hypothesis *h = trf_sampler_answer(g, i);
        int32_t ids[MAX_IDS], n = lengths[i], from = 0, k;
        trf_sequences each[MODELS];
        for (k = 0; source && k < i; k++) from += source->lengths[k];
        for (k = 0; source && k < a->n; k++) each[k] = some(source->ids + from, source->lengths + i, 1);
        memcpy(ids, prompts + at, (size_t)n * sizeof *ids);
        assert_true(h->n > 0);
        for (t = 0; t < h->n + (h->ended == TRF_ENDED_EOS); t++) {
            int32_t id = t < h->n ? h->ids[t] : EOS, best = EOS;
            double l[VOCAB], all = 0;
            said(a, (int)o.ensemble.rule, source ? each : NULL, ids, n, l);
            for (w = 0; w < VOCAB; w++) all += exp(l[w]);
            for (w = 0; w < VOCAB; w++)
                if (w != PAD && (w != BOS || source) && w != UNK && l[w] > l[best]) best = w;
            if (o.temperature == 0) assert_int_equal(id, best);
            if (!(fabs(h->log_probabilities[t] - (l[id] - log(all))) < close_enough()))
                fail_msg("token %d: %.9g, not %.9g", (int)t, h->log_probabilities[t], l[id] - log(all));
            if (t < h->n) ids[n++] = id;
        }
    }
    FAILS(TRF_E_STATE, trf_sampler_save(g, "no_such_file", &err));
    FAILS(TRF_E_STATE, trf_sampler_load(g, "no_such_file", &err));
    trf_sampler_destroy(g);
}

static void test_sampling(void **state)
{
    static const int32_t source[7] = {5, 9, 6, 12, 7, 7, 8}, lengths[3] = {2, 4, 1};
    trf_sequences x = some(source, lengths, 3);
    company a = company_of(TRF_DECODER_ONLY, 3, TRF_WEIGHTS_FULL), b;
    trf_model *third;
    trf_error err;
    trf_sampler *none = NULL;
    int i;
    (void)state;
    for (i = 0; i < 4; i++) {
        trf_sampling o = trf_sampling_defaults();
        o.ensemble.rule = (trf_ensemble_rule)(i % 2);
        o.temperature = i < 2 ? 0 : 1;
        o.max_tokens = 12;
        o.seed = 7;
        o.threads = 1 + i % 2;
        check_sampler(&a, NULL, o);
    }
    part(&a);
    b = company_of(TRF_ENCODER_DECODER, 2, TRF_WEIGHTS_FULL);
    FAILS(TRF_E_INVALID_ARG, kit_sampler_ensemble(&none, b.list, NULL, 2, NULL, &err));     /* source_bos */
    third = b.models[1];
    trf_translator_destroy(b.alone[1]);
    {
        trf_config c = config_of(TRF_ENCODER_DECODER, 1);
        c.source_bos = 0;
        OK(trf_model_create(&b.models[1], &c, NULL, &err));
        b.list[1] = b.models[1];
        OK(trf_translator_create(&b.alone[1], b.list[1], NULL, &err));
    }
    trf_model_destroy(third);
    for (i = 0; i < 2; i++) {
        trf_sampling o = trf_sampling_defaults();
        o.ensemble.rule = (trf_ensemble_rule)i;
        o.temperature = i;
        o.max_tokens = 9;
        check_sampler(&b, &x, o);
    }
    part(&b);
}

/* -----------------------------------------------------------------------------------------------
   Scores, sources of their own, labels. */

static void test_scores(void **state)
{
    company a = company_of(TRF_ENCODER_DECODER, 3, TRF_WEIGHTS_FULL);
    trf_error err;
    int32_t rule, i, k, t;
    asked q, other;
    (void)state;
    ask(&q);
    ask(&other);
    for (rule = 0; rule < 2; rule++) {
        trf_search s = search_of(2, TRF_SEARCH_PAPER, (trf_ensemble_rule)rule);
        trf_sequences sources[MODELS], targets = some(q.prefix_ids, q.prefixes, SOURCES);
        trf_translator *together = NULL;
        double got[SOURCES], each[SOURCES];
        trf_batch batch;
        int32_t at = 0, of_other = 0, target = 0;
        for (k = 0; k < 3; k++)
            sources[k] = some(k == 1 ? other.ids : q.ids, k == 1 ? other.lengths : q.lengths, SOURCES);
        memset(&batch, 0, sizeof batch);
        batch.source = sources[0];
        batch.target = targets;
        OK(kit_translator_ensemble(&together, a.list, a.weights, 3, &s, &err));
        OK(trf_reader_score(trf_translator_reader(together), &batch, NULL, got, &err));
        OK(kit_score_each(together, sources, &targets, each, &err));
        OK(kit_translate_with(together, sources, NULL, NULL, 1, &err));
        for (i = 0; i < SOURCES; i++) {
            trf_sequences same[MODELS], own[MODELS];
            double want[2] = {0, 0}, l[VOCAB];
            answer plain[ANSWERS];
            for (k = 0; k < 3; k++) {
                same[k] = own[k] = some(q.ids + at, q.lengths + i, 1);
                if (k == 1) own[k] = some(other.ids + of_other, other.lengths + i, 1);
            }
            for (t = 0; t <= q.prefixes[i]; t++)
                for (k = 0; k < 2; k++) {
                    said(&a, rule, k ? own : same, q.prefix_ids + target, t, l);
                    want[k] += l[t < q.prefixes[i] ? q.prefix_ids[target + t] : EOS];
                }
            assert_true(fabs(got[i] - want[0]) < close_enough());
            assert_true(fabs(each[i] - want[1]) < close_enough());
            assert_int_equal(plain_search(&a, &s, own, q.lengths[i] + 4, NULL, 0, plain),
                             kit_count(together, i));
            for (k = 0; k < kit_count(together, i); k++)
                same_answer(trf_translator_answer(together, i, k), &plain[k], 0, close_enough());
            at += q.lengths[i];
            of_other += other.lengths[i];
            target += q.prefixes[i];
        }
        sources[2].count--;
        FAILS(TRF_E_INVALID_ARG, kit_translate_with(together, sources, NULL, NULL, 1, &err));
        trf_translator_destroy(together);
    }
    part(&a);
}

static trf_vocab *words(const char *first, int32_t extra)
{
    trf_vocab *v = NULL;
    trf_error err;
    char word[32];
    int32_t i;
    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
    OK(trf_vocab_learn(v, first, &err));
    for (i = 0; i < extra; i++) {
        snprintf(word, sizeof word, "w%d", (int)i);
        OK(trf_vocab_learn(v, word, &err));
    }
    OK(trf_vocab_finish(v, VOCAB, 1, &err));
    assert_int_equal(trf_vocab_size(v), VOCAB);
    return v;
}

/* A text reaches each model in its own tokens; ids do not; other target tokens are refused. */
static void test_texts(void **state)
{
    company a = company_of(TRF_ENCODER_DECODER, 2, TRF_WEIGHTS_FULL);
    trf_vocab *one = words("b a a b b b", 14), *two = words("a a a b b c", 13), *target = words("x", 15),
              *same = words("x", 15), *else_ = words("y", 15);
    trf_search s = search_of(2, TRF_SEARCH_PAPER, TRF_ENSEMBLE_ARITHMETIC);
    trf_translator *t = NULL;
    trf_sampler *g = NULL;
    trf_error err;
    const trf_hypothesis *best;
    char text[256], want[256];
    double score;
    trf_batch batch;
    int32_t ids[2][3], n = 3, i;
    trf_sequences sources[2], x;
    (void)state;
    OK(trf_model_set_vocabs(a.models[0], one, target, &err));
    OK(trf_model_set_vocabs(a.models[1], two, else_, &err));
    FAILS(TRF_E_INVALID_ARG, kit_translator_ensemble(&t, a.list, NULL, 2, &s, &err));
    assert_int_equal(err.where, 1);
    assert_non_null(strstr(err.message, "target vocabulary"));
    OK(trf_model_set_vocabs(a.models[1], two, same, &err));
    OK(kit_translator_ensemble(&t, a.list, NULL, 2, &s, &err));
    for (i = 0; i < 2; i++) {
        OK(trf_vocab_encode(i ? two : one, "a b w3", 0, ids[i], 3, &n, &err));
        sources[i] = some(ids[i], &n, 1);
    }
    assert_true(memcmp(ids[0], ids[1], sizeof ids[0]) != 0);
    OK(kit_translate_with(t, sources, NULL, NULL, 1, &err));
    best = trf_translator_answer(t, 0, 0);
    OK(trf_vocab_decode(t->reader.model->target, best->ids, best->n, want, sizeof want, NULL, &err));
    OK(trf_translate_text(t, "a b w3", text, sizeof text, &err));
    assert_string_equal(text, want);
    x = some(ids[0], &n, 1);
    FAILS(TRF_E_STATE, trf_translate(t, &x, NULL, &err));
    FAILS(TRF_E_STATE, kit_translate_with(t, &x, NULL, NULL, 0, &err));
    memset(&batch, 0, sizeof batch);
    batch.source = batch.target = x;
    FAILS(TRF_E_STATE, trf_reader_score(trf_translator_reader(t), &batch, NULL, &score, &err));
    FAILS(TRF_E_STATE, kit_sampler_ensemble(&g, a.list, NULL, 2, NULL, &err));
    trf_translator_destroy(t);
    trf_vocab_destroy(one); trf_vocab_destroy(two); trf_vocab_destroy(target); trf_vocab_destroy(same);
    trf_vocab_destroy(else_);
    part(&a);
}

/* What two outputs p and z of one label are together, but for a sum that is 1. */
static double labels_together(trf_label_kind kind, int rule, double p, double z, const double w[2])
{
    double a = w[0] / (w[0] + w[1]), b = w[1] / (w[0] + w[1]);
    if (kind == TRF_LABELS_ONE_OF && rule) return pow(p, w[0]) * pow(z, w[1]);
    if (kind == TRF_LABELS_ANY && rule)         /* the mean of the logits */
        return 1 / (1 + pow((1 - p) / p, a) * pow((1 - z) / z, b));
    return a * p + b * z;
}

/* Labels: the outputs of each model alone, mixed in double. */
static void test_labels(void **state)
{
    enum { LABELS = 5, ROWS = 16 };
    static const trf_head heads[5] = {TRF_HEAD_MEAN, TRF_HEAD_TOKENS, TRF_HEAD_MASKED, TRF_HEAD_MEAN,
                                      TRF_HEAD_FIRST};
    static const int32_t ids[9] = {5, 9, 6, 12, 7, 7, 8, 4, 4}, lengths[3] = {4, 3, 2};
    trf_sequences x = some(ids, lengths, 3);
    trf_error err;
    int which, rule, k, i, r;
    (void)state;
    for (which = 0; which < 5; which++) {
        const trf_label_kind kind = which == 3 ? TRF_LABELS_ANY : which == 4 ? TRF_LABELS_NUMBERS
                                    : TRF_LABELS_ONE_OF;
        trf_model *models[2] = {NULL, NULL};
        const trf_model *list[2];
        double weights[2] = {0.25, 1.5};
        trf_real alone[2][ROWS * LABELS], got[ROWS * LABELS];
        int64_t rows = which == 1 ? 9 : 3, n = LABELS;
        for (k = 0; k < 2; k++) {
            trf_config c = config_of(TRF_ENCODER_ONLY, k);
            trf_tensor out = trf_tensor_of(alone[k], 2, rows, LABELS, 1);
            trf_translator *t = NULL;
            c.head = heads[which];
            c.label_kind = kind;
            c.n_labels = which == 2 ? 0 : LABELS;
            if (which == 2) { c.sequence_labels = LABELS; c.mask = 4; }
            OK(trf_model_create(&models[k], &c, NULL, &err));
            list[k] = models[k];
            OK(trf_translator_create(&t, models[k], NULL, &err));
            OK(trf_reader_classify(trf_translator_reader(t), &x, &out, &err));
            trf_translator_destroy(t);
        }
        for (rule = 0; rule < 2; rule++) {
            trf_search s = search_of(1, TRF_SEARCH_PAPER, (trf_ensemble_rule)rule);
            trf_tensor out = trf_tensor_of(got, 2, rows, LABELS, 1);
            trf_translator *t = NULL;
            OK(kit_translator_ensemble(&t, list, weights, 2, &s, &err));
            OK(trf_reader_classify(trf_translator_reader(t), &x, &out, &err));
            for (r = 0; r < rows; r++) {
                double want[LABELS], sum = 0;
                for (i = 0; i < n; i++) {
                    double p = (double)alone[0][r * LABELS + i], z = (double)alone[1][r * LABELS + i];
                    want[i] = labels_together(kind, rule, p, z, weights);
                    sum += want[i];
                }
                if (kind) sum = 1;
                for (i = 0; i < n; i++) assert_true(fabs((double)got[r * LABELS + i] - want[i] / sum) < 1e-5);
            }
            trf_translator_destroy(t);
        }
        for (k = 0; k < 2; k++) trf_model_destroy(models[k]);
    }
}

/* -----------------------------------------------------------------------------------------------
   What does not fit, what shows one model, memory, cancelling. */

static size_t memory_of(const trf_model *const *models, int32_t n, const trf_search *search, int32_t sentences,
                        int32_t tokens)
{
    trf_search s = *search;
    s.ensemble = kit_ensemble(models, NULL, n, s.ensemble.rule);
    return trf_translator_memory(NULL, &s, sentences, tokens, NULL);
}

static void test_refusals(void **state)
{
    static const char *const said_of[] = {"has kind", "target_vocab 21", "pad 4", "eos 5", "bos 5", "unk 5",
                                          "decoder_start", "target_eos 0"};
    company a = company_of(TRF_ENCODER_DECODER, 1, TRF_WEIGHTS_FULL);
    trf_translator *t = NULL;
    const trf_model *pair[2];
    trf_search s = trf_search_defaults();
    trf_error err;
    double bad[4] = {0, -1, (double)NAN, 1e7}, weights[2] = {1, 1};
    trf_model *other = NULL;
    size_t i;
    (void)state;
    pair[0] = a.list[0];
    for (i = 0; i < sizeof said_of / sizeof *said_of; i++) {
        trf_config c = config_of(i == 0 ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER, 1);
        trf_model *other = NULL;
        if (i == 1) c.target_vocab = c.source_vocab = VOCAB + 1;
        if (i == 2) c.pad = 4;
        if (i == 3) c.eos = 5;
        if (i == 4) c.bos = 5;
        if (i == 5) c.unk = 5;
        if (i == 6) c.decoder_start = TRF_START_BOS;
        if (i == 7) c.target_eos = 0;
        OK(trf_model_create(&other, &c, NULL, &err));
        pair[1] = other;
        FAILS(TRF_E_INVALID_ARG, kit_translator_ensemble(&t, pair, NULL, 2, NULL, &err));
        assert_null(t);
        assert_int_equal(err.where, 1);
        assert_string_equal(err.what, "models");
        if (!strstr(err.message, said_of[i])) fail_msg("'%s' in '%s'", said_of[i], err.message);
        assert_true(memory_of(pair, 2, &s, 1, 5) == 0);
        trf_model_destroy(other);
    }
    pair[1] = a.list[0];
    for (i = 0; i < 4; i++) {
        weights[1] = bad[i];
        FAILS(TRF_E_INVALID_ARG, kit_translator_ensemble(&t, pair, weights, 2, NULL, &err));
        assert_true(err.where == 1 && !strcmp(err.what, "weights"));
    }
    FAILS(TRF_E_INVALID_ARG, kit_translator_ensemble(&t, pair, NULL, 0, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, kit_translator_ensemble(&t, pair, NULL, -1, NULL, &err));
    pair[1] = pair[0];
    s.ensemble = kit_ensemble(pair, NULL, 2, TRF_ENSEMBLE_RULE_COUNT);
    FAILS(TRF_E_INVALID_ARG, trf_translator_create(&t, NULL, &s, &err));
    assert_string_equal(err.what, "ensemble.rule");
    s.ensemble.rule = TRF_ENSEMBLE_ARITHMETIC;
    OK(trf_model_copy(&other, a.list[0], &err));
    FAILS(TRF_E_INVALID_ARG, trf_translator_create(&t, other, &s, &err));       /* not the first one */
    assert_string_equal(err.what, "model");
    trf_model_destroy(other);
    OK(trf_translator_create(&t, pair[0], &s, &err));
    trf_translator_destroy(t);
    FAILS(TRF_E_INVALID_ARG, kit_translator_ensemble(&t, NULL, NULL, 1, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, kit_translator_ensemble(NULL, pair, NULL, 1, NULL, &err));
    pair[1] = NULL;
    FAILS(TRF_E_INVALID_ARG, kit_translator_ensemble(&t, pair, NULL, 2, NULL, &err));
    part(&a);
}

static void test_what_shows_one_model(void **state)
{
    company a = company_of(TRF_ENCODER_DECODER, 2, TRF_WEIGHTS_FULL);
    trf_translator *t = NULL;
    trf_error err;
    trf_real numbers[64 * VOCAB];
    int32_t ids[3] = {5, 9, 6}, n = 3;
    trf_sequences x = some(ids, &n, 1);
    trf_batch batch;
    trf_reading seen;
    trf_tensor out = trf_tensor_of(numbers, 2, 4, 16, 1);
    (void)state;
    memset(&batch, 0, sizeof batch);
    batch.source = batch.target = x;
    OK(kit_translator_ensemble(&t, a.list, NULL, 2, NULL, &err));
    FAILS(TRF_E_STATE, kit_encode(t, &x, &out, &err));
    FAILS(TRF_E_STATE, trf_reader_embed(trf_translator_reader(t), &x, TRF_POOL_MEAN, 0, &out, &err));
    FAILS(TRF_E_STATE, kit_logits(t, &batch, &out, &err));
    FAILS(TRF_E_STATE, trf_reader_read(trf_translator_reader(t), &batch, TRF_READ_LOGITS, NULL, &seen, &err));
    assert_null(seen.logits.data);
    FAILS(TRF_E_STATE, kit_attention_weights(t, &batch, TRF_ENCODER_SELF, 0, 0, &out, &err));
    FAILS(TRF_E_STATE, kit_decode(t, &out, &n, &x, &out, &err));
    FAILS(TRF_E_STATE, kit_project(t, &out, &out, &err));
    trf_translator_destroy(t);
    part(&a);
}

typedef struct quitter { int64_t asked, at; } quitter;
static int quits(void *user) { quitter *q = (quitter *)user; return ++q->asked == q->at; }

/* Wherever it is cancelled, the next call gives what it always gives. */
static void test_cancel(void **state)
{
    company a = company_of(TRF_ENCODER_DECODER, 2, TRF_WEIGHTS_FULL);
    trf_search s = search_of(3, TRF_SEARCH_PAPER, TRF_ENSEMBLE_ARITHMETIC);
    trf_translator *t = NULL;
    trf_error err;
    quitter q = {0, 0};
    asked question;
    trf_sequences x;
    uint64_t want;
    int64_t calls, at;
    int cancelled = 0;
    (void)state;
    ask(&question);
    x = some(question.ids, question.lengths, SOURCES);
    s.hooks.user = &q;
    s.hooks.cancel = quits;
    OK(kit_translator_ensemble(&t, a.list, a.weights, 2, &s, &err));
    OK(trf_translate(t, &x, NULL, &err));
    want = hash_answers(1, t, SOURCES);
    calls = q.asked;
    assert_true(calls > (KIT_ASKS_ONCE ? 4 : 40));
    for (at = 1; at <= calls; at += 1 + calls / (KIT_ASKS_ONCE ? 4 : 17)) {
        trf_status status;
        q.asked = 0;
        q.at = at;
        status = trf_translate(t, &x, NULL, &err);      /* a GPU that plays ops again asks less */
        assert_int_equal(status, q.asked < at ? TRF_OK : TRF_E_CANCELLED);
        cancelled += status == TRF_E_CANCELLED;
        q.at = 0;
        OK(trf_translate(t, &x, NULL, &err));
        assert_true(hash_answers(1, t, SOURCES) == want);
    }
    assert_true(cancelled >= (KIT_ASKS_ONCE ? 1 : 15));
    trf_translator_destroy(t);
    part(&a);
}

/* Every allocation fails in turn, once and for ever: nothing is lost, and the same object goes on. The bound that is
   told holds; for one model it is what a translator of it tells. */
static void test_memory(void **state)
{
    company a = company_of(TRF_ENCODER_DECODER, 2, TRF_WEIGHTS_FULL);
    trf_search s = search_of(3, TRF_SEARCH_PAPER, TRF_ENSEMBLE_ARITHMETIC);
    trf_error err;
    kit_memory m;
    int64_t calls, at, longest = 8;
    int32_t ids[40 * 8], lengths[40], i, models;
    trf_sequences x;
    (void)state;
#if defined(KIT_ON_CUDA)                /* a minute there */
    if (!kit_all()) skip();
#endif
    for (i = 0; i < 40 * 8; i++) ids[i] = FIRST + i % (VOCAB - FIRST);
    for (i = 0; i < 40; i++) lengths[i] = (int32_t)longest;
    x = some(ids, lengths, 40);
    for (models = 1; models <= 2; models++) {
        trf_translator *t = NULL;
        s.hooks = kit_hooks(&m);
        s.max_sentences = 40;
        OK(kit_translator_ensemble(&t, a.list, NULL, models, &s, &err));
        OK(trf_translate(t, &x, NULL, &err));
        if ((size_t)m.peak > memory_of(a.list, models, &s, 40, 8))
            fail_msg("%d models hold %lld bytes, told are %llu", (int)models, (long long)m.peak,
                     (unsigned long long)memory_of(a.list, models, &s, 40, 8));
        if (models == 2)
            assert_true(memory_of(a.list, 2, &s, 40, 8) < memory_of(a.list, 1, &s, 40, 8) +
                        2 * memory_of(a.list + 1, 1, &s, 40, 8));
        trf_translator_destroy(t);
        assert_true(m.blocks == 0 && m.live == 0);
        calls = m.calls;
    }
    assert_true(memory_of(a.list, 1, &s, 40, 8) ==
                trf_translator_memory(trf_model_config(a.list[0]), &s, 40, 8, NULL));
    assert_true(memory_of(a.list, 0, &s, 40, 8) == 0 && memory_of(NULL, 2, &s, 40, 8) == 0);
    assert_true(memory_of(a.list, 17, &s, 40, 8) == 0);
    assert_true(memory_of(a.list, 2, &s, 1, 33) == 0);          /* the second reads 33 with BOS and EOS */
    for (at = 1; at <= calls; at += KIT_AGAIN ? 5 : 1) {
        trf_translator *t = NULL;
        trf_status status;
        s.hooks = kit_hooks(&m);
        m.fail_at = at;
        status = kit_translator_ensemble(&t, a.list, NULL, 2, &s, &err);
        if (status == TRF_OK) {
            status = trf_translate(t, &x, NULL, &err);
            if (status != TRF_OK) OK(trf_translate(t, &x, NULL, &err));
            assert_int_equal(kit_count(t, 39), 3);
            trf_translator_destroy(t);
        } else assert_null(t);
        if (status != TRF_OK) assert_int_equal(err.status, status == TRF_E_NOMEM && t ? TRF_OK : status);
        assert_true(m.blocks == 0 && m.live == 0);
    }
    for (at = 1; at < 200; at++) {
        trf_sampling o = trf_sampling_defaults();
        trf_sampler *g = NULL;
        const trf_model *twice[2];
        trf_batch batch;
        trf_status status;
        int32_t live;
        twice[0] = twice[1] = a.list[0];
        memset(&batch, 0, sizeof batch);
        batch.source = some(ids, lengths, 2);
        o.hooks = kit_hooks(&m);
        o.max_tokens = 3;
        m.fail_at = at;
        status = kit_sampler_ensemble(&g, twice, NULL, 2, &o, &err);
        if (status == TRF_OK) status = trf_sampler_begin(g, &batch, &err);
        if (status == TRF_OK) status = trf_sampler_step(g, 3, &live, &err);
        assert_true(status == TRF_OK || status == TRF_E_NOMEM);
        trf_sampler_destroy(g);
        assert_true(m.blocks == 0 && m.live == 0);
        if (m.calls < at) break;
    }
    assert_in_range(at, 10, 199);
    part(&a);
}

/* -----------------------------------------------------------------------------------------------
   What the models together allow. */

static trf_translator *together_of(const company *a, const trf_search *s)
{
    trf_translator *t = NULL;
    trf_error err;
    OK(kit_translator_ensemble(&t, a->list, a->weights, a->n, s, &err));
    return t;
}

/* An answer is no longer than the model reads that reads least. */
static void test_longest_answer(void **state)
{
    company a = company_of(TRF_ENCODER_DECODER, 2, TRF_WEIGHTS_FULL);
    trf_search s = trf_search_defaults();
    int32_t ids[] = {5, 6, 7}, n = 3, longest = trf_model_config(a.list[1])->max_length;
    trf_sequences source = some(ids, &n, 1);
    trf_translator *t;
    trf_error err;
    (void)state;
    s.max_length_a = 0;
    s.max_length_b = s.min_length = 50;
    assert_true(longest < 50 && trf_model_config(a.list[0])->max_length > 50);
    t = together_of(&a, &s);
    OK(trf_translate(t, &source, NULL, &err));
    assert_true(trf_translator_answer(t, 0, 0)->n <= longest && trf_translator_answer(t, 0, 0)->n > longest - 4);
    trf_translator_destroy(t);
    part(&a);
}

/* The first model's sources are short, and one of the other's is longer than the sixteen rows that a short one has
   room for: answers have the scores that they have without a search. */
static void test_longer_sources(void **state)
{
    enum { N = 3, LONG = 25 };
    company a = company_of(TRF_ENCODER_DECODER, 2, TRF_WEIGHTS_FULL);
    trf_search s = trf_search_defaults();
    int32_t ids[2][N * LONG], lengths[2][N], targets[N * 8], target_lengths[N], i, used = 0;
    trf_sequences sources[2], answers;
    double scores[N], found[N];
    trf_translator *t;
    trf_error err;
    (void)state;
    draws = 900;
    for (i = 0; i < 2 * N * LONG; i++) ids[i / (N * LONG)][i % (N * LONG)] = FIRST + pick(VOCAB - FIRST);
    for (i = 0; i < N; i++) { lengths[0][i] = 2; lengths[1][i] = i ? 2 : LONG; }
    for (i = 0; i < 2; i++) sources[i] = some(ids[i], lengths[i], N);
    s.max_length_a = 0;
    s.max_length_b = 8;
    s.at_limit = TRF_LIMIT_FORCE_EOS;
    t = together_of(&a, &s);
    OK(kit_translate_with(t, sources, NULL, NULL, 1, &err));
    for (i = 0; i < N; i++) {
        const trf_hypothesis *h = trf_translator_answer(t, i, 0);
        memcpy(targets + used, h->ids, (size_t)h->n * sizeof *targets);
        used += target_lengths[i] = h->n;
        scores[i] = h->log_probability;
    }
    answers = some(targets, target_lengths, N);
    OK(kit_score_each(t, sources, &answers, found, &err));
    for (i = 0; i < N; i++) assert_true(fabs(found[i] - scores[i]) < close_enough());
    trf_translator_destroy(t);
    part(&a);
}

/* What GEOMETRIC makes of the models is no distribution, so nothing is made one of it when EOS is not allowed. */
static void test_no_distribution(void **state)
{
    company a = company_of(TRF_ENCODER_DECODER, 3, TRF_WEIGHTS_FULL);
    trf_search s = trf_search_defaults();
    int32_t ids[] = {5, 6, 7, 8}, n = 4;
    trf_sequences source = some(ids, &n, 1);
    double sum[2];
    trf_translator *t;
    trf_error err;
    int k;
    (void)state;
    s.ensemble.rule = TRF_ENSEMBLE_GEOMETRIC;
    s.min_length = 6;
    for (k = 0; k < 2; k++) {
        s.renormalize_logits = k;
        t = together_of(&a, &s);
        OK(trf_translate(t, &source, NULL, &err));
        sum[k] = trf_translator_answer(t, 0, 0)->log_probability;
        trf_translator_destroy(t);
    }
    assert_true(sum[0] == sum[1]);
    part(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_searches_equal_plain_loops),
#if !defined(TRF_DOUBLE) && !defined(KIT_ON_CUDA)
        cmocka_unit_test(test_small_weights),
#endif
        cmocka_unit_test(test_a_model_twice),
        cmocka_unit_test(test_many_models),
        cmocka_unit_test(test_language_models),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_what_shows_one_model),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_longest_answer),
        cmocka_unit_test(test_longer_sources),
        cmocka_unit_test(test_no_distribution),
        cmocka_unit_test(test_memory)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* build: shared double:shared separate:shared long:shared plain:shared */
/* Generating: every rule against a plain program of it and against Hugging Face's own numbers,
   frequencies against exact probabilities, greedy against the search, the same bits however a
   session is cut, and what must be refused. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "kit.h"
#include "golden/sampling.h"

enum { VOCAB = 23 };

static int32_t width = 32;
static int gpt2_ids;            /* 1: bos is eos, and there is no pad and no unk */

static trf_model *make_model_of(trf_kind kind, trf_positions positions, int32_t vocab,
                                const trf_hooks *hooks)
{
    trf_config c = kit_small(2, width, vocab, 64);
    trf_model *model = NULL;
    if (positions > TRF_POSITIONS_NONE) {
        c.positions = positions;
        c.kv_heads = 1;
        c.d_head = 10;
        c.scale_logits = positions == TRF_POSITIONS_RELATIVE;
    }
    c.source_vocab = 19;
    c.n_heads = width / 8;
    c = kit_of_kind(c, kind);
    c.device.threads = 2;
    c.embedding_init = TRF_EMBEDDING_NORMAL_1;          /* logits that differ */
    if (gpt2_ids) { c.bos = c.eos; c.pad = c.unk = -1; }
    if (hooks) c.hooks = *hooks;
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    return model;
}

static trf_model *make_model(trf_kind kind, int32_t vocab, const trf_hooks *hooks)
{
    return make_model_of(kind, TRF_POSITIONS_INTERLEAVED, vocab, hooks);
}

/* Five sources and five beginnings, of which one is empty and one long. */
static const int32_t source_ids[] = { 5, 9, 7, 4, 10, 6, 6, 12, 3, 18, 17, 16, 5, 4 };
static const int32_t source_lengths[5] = { 3, 1, 0, 4, 6 };
static const int32_t beginning_ids[] = {5,  4,  9,  12, 12, 3,  4,  5,  6,  7,  8, 9,
                                        10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
static const int32_t beginning_lengths[5] = { 2, 0, 3, 1, 17 };
static const int32_t no_lengths[5] = { 0, 0, 0, 0, 0 };

static trf_batch five(void)
{
    trf_batch batch = {{source_ids, source_lengths, 5},
                       {beginning_ids, beginning_lengths, 5},
                       0,
                       {0, 0, 0}};
    return batch;
}

static trf_sampling quick(void)
{
    trf_sampling s = trf_sampling_defaults();
    s.threads = 1;
    s.max_tokens = 20;
    s.temperature = 1.5;
    s.seed = 7;
    return s;
}

static trf_sampler *make(const trf_model *model, const trf_sampling *s)
{
    trf_sampler *g = NULL;
    trf_error err;
    if (trf_sampler_create(&g, model, s, &err)) fail_msg("%s", err.message);
    return g;
}

static uint64_t hash_stories(uint64_t hash, const trf_sampler *g, int32_t first, int32_t n)
{
    int32_t i;
    for (i = first; i < first + n; i++) {
        const trf_hypothesis *h = trf_sampler_answer(g, i);
        assert_non_null(h);
        hash = hash_bytes(hash, &h->n, sizeof h->n);
        hash = hash_bytes(hash, h->ids, (size_t)h->n * sizeof *h->ids);
        hash = hash_bytes(hash, &h->log_probability, sizeof h->log_probability);
        hash = hash_bytes(hash, h->log_probabilities,
                          (size_t)(h->n + (h->ended == TRF_ENDED_EOS)) * sizeof(double));
        hash = hash_bytes(hash, &h->ended, sizeof h->ended);
    }
    return hash;
}

static uint64_t run(trf_sampler *g, const trf_batch *batch, int32_t budget)
{
    int32_t live = 1, steps = 0;
    assert_int_equal(trf_sampler_begin(g, batch, NULL), TRF_OK);
    while (live) {
        assert_int_equal(trf_sampler_step(g, budget, &live, NULL), TRF_OK);
        assert_true(++steps < 1000);
    }
    return hash_stories(HASH_START, g, 0, batch->target.count);
}

/* -----------------------------------------------------------------------------------------------
   The rules, on logits of our own. A plain program of them: everything sorted, as Hugging Face does
   it. */

/* Whether an id that comes after `ids` would end a run of tokens that may not occur: each rule looks
   at the whole sequence. */
static int ends_forbidden(const trf_sampling *o, const int32_t *ids, int32_t n, int32_t id)
{
    int32_t all[64], i, k, at = 0, m = o->no_repeat_ngram;
    if (n) memcpy(all, ids, (size_t)n * sizeof *all);
    all[n++] = id;
    for (i = 0; m > 0 && i + m < n; i++)
        if (!memcmp(all + i, all + n - m, (size_t)m * sizeof *all)) return 1;
    for (i = 0; i < o->banned.count; at += k, i++) {
        k = o->banned.lengths[i];
        if (k <= n && !memcmp(o->banned.ids + at, all + n - k, (size_t)k * sizeof *all)) return 1;
    }
    return 0;
}

static int is_end(const trf_sampling *o, const trf_config *c, int32_t id)
{
    int32_t i;
    for (i = 0; i < o->ends.n && o->ends.ids[i] != id; i++) { }
    return id == c->eos || i < o->ends.n;
}

/* What the rules make of logits: probabilities, 0 for what they drop. ids: all that the decoder has
   read, with its start id. */
static void plain_rules(const trf_sampling *o, const trf_config *c, const int32_t *ids, int32_t n,
                        int32_t generated, const trf_real *z, int32_t vocab, double *p)
{
    int32_t i, k, order[64];
    double sum, most, before;
    for (i = 0; i < vocab; i++) {
        p[i] = (double)z[i];
        for (k = 0; k < n && ids[k] != i; k++) { }
        if (k < n) p[i] = p[i] < 0 ? p[i] * o->repetition_penalty : p[i] / o->repetition_penalty;
        if (is_end(o, c, i)) { if (generated < o->min_tokens) p[i] = -HUGE_VAL; }
        else if (i == c->pad || i == c->bos || (i == c->unk && !o->allow_unk)) p[i] = -HUGE_VAL;
        if (ends_forbidden(o, ids, n, i)) p[i] = -HUGE_VAL;
        p[i] /= o->temperature;
    }
    for (i = 0; i < vocab; i++) {           /* by insertion: falling, equal ones by rising id */
        for (k = i; k > 0 && p[order[k - 1]] < p[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    if (o->top_k > 0 && o->top_k < vocab)
        for (i = o->top_k; i < vocab; i++)
            if (p[order[i]] < p[order[o->top_k - 1]]) p[order[i]] = -HUGE_VAL;
    for (most = p[order[0]], sum = 0, i = 0; i < vocab; i++) sum += p[i] = exp(p[i] - most);
    for (i = 0; i < vocab; i++) p[i] /= sum;
    for (before = most = 0, i = 0; o->top_p < 1 && i < vocab; i++) {
        double own = p[order[i]];       /* one as likely as the last that stays does too */
        if (i > 0 && before >= o->top_p && own < most) p[order[i]] = 0;
        else most = own;
        before += own;
    }
    for (most = p[order[0]], sum = 0, i = 0; i < vocab; i++)
        sum += p[i] = p[i] < o->min_p * most ? 0 : p[i];
    for (i = 0; i < vocab; i++) p[i] /= sum;
}

/* A story of n ids behind a start id, of which the first are its beginning. */
static trf__sampled story_of(int32_t *ids, int32_t n, int32_t n_begin)
{
    static double each[4096];
    trf__sampled s;
    memset(&s, 0, sizeof s);
    s.each = each;
    s.ids = ids + 1;
    s.n = n;
    s.n_begin = n_begin;
    s.answer.ids = s.ids + n_begin;
    s.answer.n = n - n_begin;
    return s;
}

/* Draws an id of a sequence from logits. */
static int32_t draw_one(trf_sampler *g, trf__sampled *s, const trf_real *z, double *log_probability)
{
    trf__sampled *all = g->sampled;
    g->sampled = s;
    g->here.self[0].sentence = 0;
    memcpy(g->logits, z, VOCAB * sizeof *z);
    trf__draw_ids(g, 1);
    g->sampled = all;
    *log_probability = g->drawing.log_probabilities[0];
    return g->drawing.ids[0];
}

/* n draws, each as another sequence; counts of ids. */
static void draw_many(trf_sampler *g, trf__sampled *s, const trf_real *z, int64_t n,
                      int64_t *counts)
{
    double lp;
    int64_t i;
    memset(counts, 0, VOCAB * sizeof *counts);
    for (i = 0; i < n; i++) {
        int32_t id;
        g->ordinal = i;
        id = draw_one(g, s, z, &lp);
        assert_true(id >= 0 && id < VOCAB);
        counts[id]++;
    }
    g->ordinal = 0;
}

/* Memory of one draw, as a beginning would have made. */
static void draw_room(trf_sampler *g)
{
    trf_batch batch = five();
    assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
}

static const struct {
    double temperature;
    int32_t top_k;
    double top_p, min_p, penalty;
    int32_t min_tokens;
} cases[] = {{1, 0, 1, 0, 1, 0},         {0.6, 0, 1, 0, 1, 0},         {3, 0, 1, 0, 1, 2},
             {1, 5, 1, 0, 1, 0},         {1, 1, 1, 0, 1, 0},           {1, 0, 0.7, 0, 1, 0},
             {2, 0, 0.3, 0, 1, 0},       {1, 0, 1, 0.1, 1, 0},         {1, 0, 1, 0, 1.3, 0},
             {1, 0, 1, 0, 0.7, 2},       {0.8, 10, 0.9, 0.05, 1.2, 2}, {1.7, 12, 0.6, 0.3, 1.5, 0},
             {1, 1000, 0.999, 0, 1, 0},  {1, 0, 0, 0, 1, 0},           {1, 0, 1, 1, 1, 0},
             {1, 22, 0.95, 0.02, 1.1, 0}};
enum { CASES = sizeof cases / sizeof *cases };

static void set_case(trf_sampling *o, int i)
{
    o->temperature = cases[i].temperature; o->top_k = cases[i].top_k; o->top_p = cases[i].top_p;
    o->min_p = cases[i].min_p;
    o->repetition_penalty = cases[i].penalty;
    o->min_tokens = cases[i].min_tokens;
}

/* Logits of a case: every third number comes twice, so that there are equals. */
static void set_logits(trf_real *z, int seed)
{
    int32_t i;
    for (i = 0; i < VOCAB; i++)
        z[i] = i % 3 == 2
                   ? z[i - 1]
                   : (trf_real)(trf__random64((uint64_t)seed, 5, (uint64_t)i) % 1000) / 150 - 3;
}

/* Every case: what may be drawn is what the plain program leaves, by the same weights and as often:
   chi-squared below mean + 6 deviations. The answer has one token, its beginning two, which are the
   same; every second time all logits are negative, ids are banned, and there are ends besides EOS,
   of which some are special. */
static void test_rules(void **state)
{
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    trf_sampler *g = make(model, &s);
    static const int32_t banned[] = {7, 9, 4, 2, 9, 6, 5, 9, 8, 12, 1, 5, 5, 9, 10, 7},
                         n_banned[] = {1, 2, 2, 1, 3, 1, 5, 1};
    static const trf_ends ends = {4, {14, 0, 3, 2}};
    int32_t ids[4] = { trf__start_id(&model->config), 5, 5, 9 };
    int c, seed;
    (void)state;
    trf_sampler_destroy(g);
    s.banned.ids = banned; s.banned.lengths = n_banned; s.banned.count = 8;
    s.ends = ends;
    g = make(model, &s);
    draw_room(g);
    for (c = 0; c < CASES; c++)
        for (seed = 0; seed < 4; seed++) {
            trf_real z[VOCAB];
            int64_t counts[VOCAB], many = 0;
            int64_t n = seed || (KIT_AGAIN && !kit_all())         ? 3000
                        : KIT_AGAIN || gpt2_ids || !kit_all() ? 20000
                                                              : 100000;
            double p[VOCAB], chi = 0, kept = 0;
            trf__sampled story = story_of(ids, 3, 2);
            int32_t i;
            trf_sampling plain;
            trf__rules rules = g->rules;
            set_case(&g->sampling, c);
            g->sampling.allow_unk = seed / 2;
            g->sampling.no_repeat_ngram = seed % 2 ? 1 + c % 3 : 0;
            g->sampling.ends.n = seed % 2 ? 4 : 0;
            plain = g->sampling;
            if (seed % 2) plain.banned = s.banned;
            else g->rules.n_alone = g->rules.n_sequences = 0;
            set_logits(z, 100 * c + seed);
            for (i = 0; i < VOCAB && seed % 2; i++) z[i] -= 4;
            plain_rules(&plain, &model->config, ids, 4, 1, z, VOCAB, p);
            draw_many(g, &story, z, n, counts);
            g->rules = rules;
            for (i = 0; i < VOCAB; i++) if (p[i] > 0) kept += (double)g->drawing.weights[i];
            for (i = 0; i < VOCAB; i++)
                if (p[i] > 0)
                    assert_true(fabs((double)g->drawing.weights[i] / kept - p[i]) < 1e-6);
            for (i = 0; i < VOCAB; i++) {
                double want = p[i] * (double)n;
                if (p[i] == 0) assert_int_equal(counts[i], 0);
                if (want < 10) continue;
                chi += ((double)counts[i] - want) * ((double)counts[i] - want) / want;
                many++;
            }
            if (!(chi <= (double)many + 6 * sqrt(2.0 * (double)many + 1)))
                fail_msg("case %d, seed %d: chi-squared %.1f of %d ids", c, seed, chi, (int)many);
        }
    trf_sampler_destroy(g);
    trf_model_destroy(model);
}

/* Temperature 0: of the likeliest ids the lowest, and its log-probability before all rules. */
static void test_most_likely(void **state)
{
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    trf_sampler *g = make(model, &s);
    int32_t ids[4] = { trf__start_id(&model->config), 5, 5, 9 }, i;
    int seed, equals = 0;
    (void)state;
    draw_room(g);
    for (seed = 0; seed < 300; seed++) {
        trf__sampled story = story_of(ids, 3, 2);
        trf_real z[VOCAB];
        double p[VOCAB], sum = 0, found;
        int32_t best = 0;
        g->sampling.temperature = 1;
        g->sampling.repetition_penalty = seed % 2 ? 1.5 : 1;
        set_logits(z, seed);
        plain_rules(&g->sampling, &model->config, ids, 4, 1, z, VOCAB, p);
        for (i = 0; i < VOCAB; i++) if (p[i] > p[best]) best = i;
        equals += p[best] == p[(best + 1) % VOCAB];
        for (i = 0; i < VOCAB; i++) sum += exp((double)z[i]);
        g->sampling.temperature = 0;
        assert_int_equal(draw_one(g, &story, z, &found), best);
        assert_true(fabs(found - ((double)z[best] - log(sum))) < 1e-6);
    }
    assert_true(equals > 50);
    trf_sampler_destroy(g);
    trf_model_destroy(model);
}

/* A model whose likeliest token is unk: never drawn unless asked for, though it keeps its share of
   the probabilities; nor found where it is banned from a search. A beginning may have it. */
static void test_unknown(void **state)
{
    const int32_t ids[] = { 7, 3, 9 }, lengths[] = { 3 };
    int kind, allow, beam;
    (void)state;
    for (kind = 0; kind < 2; kind++) {
        trf_model *model = make_model(kind ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER, VOCAB, NULL);
        trf_tensor bias = kit_open(
            trf_model_parameter(model, trf_model_parameter_index(model, "generator.bias")));
        trf_batch batch = { { ids, lengths, 1 }, { ids, lengths, 1 }, 0, { 0, 0, 0 } };
        bias.data[3] += 5;
        kit_close(&bias);
        for (allow = 0; allow < 2; allow++) {
            trf_sampling s = quick();
            trf_sampler *g;
            int32_t i, unknown = 0;
            double sum[1];
            trf_translator *t = NULL;
            s.allow_unk = allow;
            s.min_tokens = 20;
            g = make(model, &s);
            run(g, &batch, 100);
            for (i = 0; i < 20; i++) unknown += trf_sampler_answer(g, 0)->ids[i] == 3;
            assert_true(allow ? unknown > 5 : unknown == 0);
            trf_sampler_destroy(g);
            for (beam = 1; beam < 4; beam += 2) {
                trf_search search = trf_search_defaults();
                const trf_hypothesis *h;
                trf_batch pair = batch;
                int32_t whole[64], n, before = kind ? 3 : 0;
                search.beam = search.n_best = beam; search.threads = 1; search.max_length_a = 0;
                search.max_length_b = 10; search.min_length = 4; search.ban_unk = !allow;
                assert_int_equal(trf_translator_create(&t, model, &search, NULL), TRF_OK);
                assert_int_equal(trf_translate(t, &batch.source, NULL, NULL), TRF_OK);
                h = trf_translator_answer(t, 0, 0);
                for (unknown = i = 0; i < h->n; i++) unknown += h->ids[i] == 3;
                assert_true(allow ? unknown > 1 : unknown == 0);
                memcpy(whole, ids, sizeof ids);
                memcpy(whole + before, h->ids, (size_t)h->n * sizeof *whole);
                n = before + h->n;
                pair.target.ids = whole; pair.target.lengths = &n;
                if (h->ended == TRF_ENDED_EOS) {        /* unk has kept its share */
                    double found = h->log_probability;
                    assert_int_equal(trf_reader_score(trf_translator_reader(t), &pair, NULL, sum, NULL), TRF_OK);
                    assert_true(fabs(found - sum[0]) < 1e-4);
                }
                trf_translator_destroy(t);
            }
        }
        trf_model_destroy(model);
    }
}

/* What trf__filter leaves of n weights: the number of ids, which stand in order[0...]. */
static int64_t filtered(const trf_sampling *o, const double *w, int32_t n, int32_t *order,
                        double *mass)
{
    trf_real each[64], few[64], largest = 0;
    double total = 0;
    trf__drawing d;
    int64_t kept, i;
    memset(&d, 0, sizeof d);
    d.top_k = o->top_k; d.top_p = o->top_p; d.min_p = o->min_p;
    for (i = 0; i < 64; i++) {
        each[i] = i < n ? (trf_real)w[i] : 0;
        total += (double)each[i];
        if (each[i] > largest) largest = each[i];
    }
    kept = trf__filter(&d, each, trf__round_up(n, 16), total, &largest, order, few);
    for (*mass = 0, i = 0; i < kept; i++) {
        assert_true(few[i] == each[order[i]] && few[i] > 0);
        *mass += (double)few[i];
    }
    return kept;
}

/* The sum and the number of the weights that reach a bound. */
static double reached(const trf_real *w, int32_t n, trf_real bound, int64_t *count)
{
    double sum = 0;
    int32_t i;
    for (*count = 0, i = 0; i < n; i++) if (w[i] >= bound) { sum += (double)w[i]; ++*count; }
    return sum;
}

/* Thousands of weights, flat or steep, many of them equal: what the filters leave, and what is
   drawn of it, by a plain sum. */
static void test_filters_of_many(void **state)
{
    enum { N = 5003, ROOM = 5008 };
    static trf_real w[ROOM], few[ROOM], largest[ROOM / 256 + 1];
    static int32_t order[ROOM];
    int round, i;
    (void)state;
    for (round = 0; round < 60; round++) {
        double total = 0, mass, above, u;
        trf_real least = 2, next = 2;
        trf__drawing d;
        int64_t kept, count, k;
        memset(&d, 0, sizeof d);
        memset(largest, 0, sizeof largest);
        for (i = 0; i < ROOM; i++) {
            double x = (double)(trf__random64((uint64_t)round, 5, (uint64_t)i) >> 40) / 16777216;
            if (round % 3 == 1) x = floor(40 * x) / 40;             /* many are equal */
            w[i] = i < N ? (trf_real)pow(0.001, x * (round % 4)) : 0;
            if (i == round) w[i] = 1;
            if (w[i] > largest[i / 256]) largest[i / 256] = w[i];
            total += (double)w[i];
        }
        d.top_k = round % 2 ? 1 + round * 80 : 0;
        d.top_p = round % 5 ? 0.1 * (round % 10) + 0.05 : 1;
        if (!d.top_k && round % 5 == 0) d.min_p = 0.3;
        kept = trf__filter(&d, w, ROOM, total, largest, order, few);
        for (k = 0; k < kept; k++) {
            assert_true(few[k] == w[order[k]] && (k == 0 || order[k] > order[k - 1]));
            if (few[k] < least) least = few[k];
        }
        mass = reached(w, N, least, &count);
        assert_int_equal(count, kept);                  /* equal ones stay together */
        for (i = 0; i < N; i++) if (w[i] > least && w[i] < next) next = w[i];
        above = reached(w, N, next, &count);            /* without the last ones: too few */
        if (d.min_p > 0) assert_true(least >= 0.3f && (kept == N || mass < total));
        else {
            if (d.top_k && d.top_k < N) assert_true(count < d.top_k);
            if (d.top_k && d.top_p == 1) assert_true(kept >= d.top_k || kept == N);
            if (!d.top_k) assert_true(mass >= d.top_p * total * (1 - 1e-6));
            if (!d.top_k && d.top_p < 1) assert_true(above < d.top_p * total * (1 + 1e-6));
        }
        for (u = 0; u <= 1; u += 0.0625) {
            double more, with;
            k = trf__draw_falling(few, kept, u * mass);
            assert_true(k >= 0 && k < kept);
            for (more = with = 0, i = 0; i < kept; i++)
                if (few[i] > few[k]) more += (double)few[i];
                else if (few[i] == few[k] && i <= k) with += (double)few[i];
            assert_true(more + with - (double)few[k] <= u * mass * (1 + 1e-6));
            assert_true(more + with >= u * mass * (1 - 1e-6));
        }
    }
}

static void no_rule(const void *user, int64_t row, trf_real *s, trf_real *largest)
{
    (void)user; (void)row; (void)s; (void)largest;
}

/* A rule that makes a logit likelier than all were: probabilities are those of the logits alone. */
static void raise_one(const void *user, int64_t row, trf_real *s, trf_real *largest)
{
    (void)row;
    trf__rule_logit(s, largest, *(const int32_t *)user, 20);
}
static void test_a_likelier_token(void **state)
{
    enum { N = 600, ROOM = 608 };
    static trf_real z[N], weights[ROOM], few[ROOM], largest[3];
    static double sums[3];
    static int32_t order[ROOM];
    const int32_t raised = 300;
    double uniform = 0.5, found, sum = 0;
    trf_device device = trf_device_default();
    trf_hooks none;
    trf__drawing d;
    trf__run run;
    int32_t id, i;
    (void)state;
    memset(&none, 0, sizeof none);
    memset(&d, 0, sizeof d);
    for (i = 0; i < N; i++) sum += exp((double)(z[i] = (trf_real)(i % 7) / 2));
    device.threads = 1;
    run = trf__run_on(&device, &none);
    run.backend = trf__host_backend(64);
    d.logits = z; d.rows = 1; d.vocab = N; d.temperature = 1; d.top_p = 1;
    d.rule = raise_one; d.user = &raised; d.uniform = &uniform; d.ids = &id;
    d.log_probabilities = &found; d.weights = weights; d.few = few; d.sums = sums;
    d.largest = largest; d.order = order;
    assert_int_equal(run.backend->open(&run, NULL), TRF_OK);
    run.backend->draw(&run, &d);
    run.backend->close(&run);
    assert_int_equal(id, raised);
    assert_true(fabs(found - ((double)z[raised] - log(sum))) < 1e-5);
}

/* Ids and weights have the same bits with every level of vectors, with and without fused
   multiply-adds. */
static void test_levels(void **state)
{
    enum { N = 1003, ROOM = 1008, ROUNDS = 300 };
    static trf_real z[N], weights[3][ROOM], few[ROOM], largest[8];
    static double sums[8];
    static int32_t order[ROOM];
    int32_t ids[3], level, first, round, i;
    trf_hooks none;
    (void)state;
    memset(&none, 0, sizeof none);
    for (round = 0; round < ROUNDS; round++) {
        double uniform = (double)(trf__random64(1, 2, (uint64_t)round) >> 11) / 9007199254740992.0;
        for (i = 0; i < N; i++)
            z[i] = (trf_real)(trf__random64((uint64_t)round, 3, (uint64_t)i) % 100003) / 9001;
        for (level = 0, first = -1; level < 3; level++) {
            trf_device device = trf_device_default();
            double log_probability;
            trf__drawing d;
            trf__run run;
            device.threads = 1;
            run = trf__run_on(&device, &none);
            run.backend = trf__host_backend(16 << level);
            if (!run.backend) continue;         /* the build has none so narrow */
            if (first < 0) first = level;
            memset(&d, 0, sizeof d);
            d.logits = z; d.rows = 1; d.vocab = N; d.temperature = 0.4 + round % 7 * 0.3;
            d.top_p = round % 3 ? 1 : 0.9; d.top_k = round % 5 ? 0 : 40;
            d.min_p = round % 11 ? 0 : 0.02;
            d.rule = no_rule; d.uniform = &uniform; d.ids = &ids[level];
            d.log_probabilities = &log_probability; d.weights = weights[level]; d.few = few;
            d.sums = sums; d.largest = largest; d.order = order;
            assert_int_equal(run.backend->open(&run, NULL), TRF_OK);
            run.backend->draw(&run, &d);
            run.backend->close(&run);
            assert_int_equal(ids[level], ids[first]);
            assert_memory_equal(weights[level], weights[first], N * sizeof(trf_real));
        }
        assert_true(first >= 0);
    }
}

/* Scratch for draws has room for the sequences that are drawn, not for every thread. */
static void test_room(void **state)
{
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    size_t bytes[2];
    int i;
    (void)state;
    for (i = 0; i < 2; i++) {
        trf_sampler *g;
        s.threads = i ? 64 : 5;
        g = make(model, &s);
        draw_room(g);
        bytes[i] = g->bytes;
        trf_sampler_destroy(g);
    }
    assert_int_equal(bytes[0], bytes[1]);
    trf_model_destroy(model);
}

/* The whole set that filters leave, weight by weight, against the plain program: 4,000 random
   rules. */
static void test_filters(void **state)
{
    trf_sampling o = trf_sampling_defaults();
    trf_config c = kit_config();
    int round;
    (void)state;
    o.allow_unk = 1;
    for (round = 0; round < 4000; round++) {
        uint64_t r = trf__random64(3, 9, (uint64_t)round);
        trf_real z[VOCAB];
        double w[VOCAB], p[VOCAB], mass, most = -HUGE_VAL;
        int32_t order[64], i;
        int64_t kept;
        char left[VOCAB] = { 0 };
        o.top_k = r & 1 ? (int32_t)(r >> 8 & 31) : 0;
        o.top_p = r & 2 ? (double)(r >> 16 & 1023) / 1023 : 1;
        o.min_p = r & 4 ? (double)(r >> 32 & 255) / 512 : 0;
        o.temperature = 0.3 + (double)(r >> 40 & 15) / 4;
        set_logits(z, round);
        z[c.pad] = z[c.bos] = -(trf_real)HUGE_VAL;
        plain_rules(&o, &c, NULL, 0, 0, z, VOCAB, p);
        for (i = 0; i < VOCAB; i++) if ((double)z[i] > most) most = (double)z[i];
        for (i = 0; i < VOCAB; i++) w[i] = exp(((double)z[i] - most) / o.temperature);
        kept = filtered(&o, w, VOCAB, order, &mass);
        for (i = 0; i < kept; i++) {
            int32_t id = order[i];
            left[id] = 1;
            assert_true(fabs(w[id] / mass - p[id]) < 1e-6);
            if (i > 0) assert_true(order[i - 1] < id);
        }
        for (i = 0; i < VOCAB; i++) assert_int_equal(left[i], p[i] > 0);
    }
}

/* Numbers of Hugging Face's processors (tools/parity/sampling.py), for the plain program, and for
   the library's rules and filters. The first id is as the start id of a sequence. */
static void test_golden(void **state)
{
    static trf_model model;     /* only its configuration is read */
    static trf_sampler g;
    size_t k;
    (void)state;
    g.model = &model;
    for (k = 0; k < sizeof golden_sampling / sizeof *golden_sampling; k++) {
        const golden_sampling_case *want = &golden_sampling[k];
        trf_sampling o = trf_sampling_defaults();
        trf_real z[GOLDEN_SAMPLING_VOCAB];
        double p[GOLDEN_SAMPLING_VOCAB], w[GOLDEN_SAMPLING_VOCAB], most = -HUGE_VAL, mass;
        trf_real ruled[GOLDEN_SAMPLING_VOCAB], largest;
        int32_t order[64], given[GOLDEN_SAMPLING_IDS], i;
        trf__sampled s = story_of(given, GOLDEN_SAMPLING_IDS - 1, 0);
        trf_error err;
        int64_t kept;
        memcpy(given, want->ids, sizeof given);
        o.temperature = want->temperature;
        o.top_k = want->top_k;
        o.top_p = want->top_p;
        o.min_p = want->min_p;
        o.repetition_penalty = want->repetition_penalty;
        o.no_repeat_ngram = want->no_repeat_ngram;
        o.banned.ids = want->banned;
        o.banned.lengths = want->banned_lengths;
        o.banned.count = want->n_banned;
        o.allow_unk = 1;
        model.config = kit_config();
        model.config.pad = 22;  /* theirs forbids none: a place that the goldens give no weight */
        model.config.bos = want->ids[0];
        model.config.decoder_start = TRF_START_BOS;
        for (i = 0; i < GOLDEN_SAMPLING_VOCAB; i++) ruled[i] = z[i] = (trf_real)want->logits[i];
        g.sampling = o;
        assert_int_equal(trf__ban_drawn(&g, &o.banned, &err), TRF_OK);
        trf__rule_logits(&g, &s, z, ruled, &largest);
        trf__free(&g.sampling.hooks, g.banned, g.banned_bytes);
        TRF__ZERO(g.rules);
        model.config.bos = 22;
        plain_rules(&o, &model.config, want->ids, GOLDEN_SAMPLING_IDS, 9, z, GOLDEN_SAMPLING_VOCAB,
                    p);
        for (i = 0; i < GOLDEN_SAMPLING_VOCAB; i++)
            if (!(fabs(p[i] - want->probabilities[i]) < 2e-6))
                fail_msg("case %d, id %d: plain %.9g, Hugging Face %.9g", (int)k, (int)i, p[i],
                         want->probabilities[i]);
        for (i = 0; i < GOLDEN_SAMPLING_VOCAB; i++) w[i] = (double)ruled[i];
        w[22] = -HUGE_VAL;
        for (i = 0; i < GOLDEN_SAMPLING_VOCAB; i++) if (w[i] > most) most = w[i];
        for (i = 0; i < GOLDEN_SAMPLING_VOCAB; i++) w[i] = exp((w[i] - most) / o.temperature);
        kept = filtered(&o, w, GOLDEN_SAMPLING_VOCAB, order, &mass);
        for (i = 0; i < kept; i++)
            assert_true(fabs(w[order[i]] / mass - want->probabilities[order[i]]) < 2e-6);
        for (mass = 0, i = 0; i < GOLDEN_SAMPLING_VOCAB; i++) mass += want->probabilities[i] > 0;
        assert_int_equal((int64_t)mass, kept);
    }
}

/* -----------------------------------------------------------------------------------------------
   Whole generations. */

/* Temperature 0 is the search with beam 1: tokens, end and log-probability, with the same rules
   about tokens too. */
static void test_greedy(void **state)
{
    static const int32_t banned[] = {6, 7, 8, 9, 5, 12, 10, 11}, n_banned[] = {1, 2, 3, 1, 1};
    int number, limit;
    (void)state;
    for (number = 0; number < 8; number++)
        for (limit = 5; limit < 64; limit += 29) {
            int kind = number % 2;
            trf_model *model = make_model_of(kind ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER,
                                             (trf_positions)(TRF_POSITIONS_NONE + number / 2),
                                             VOCAB, NULL);
            trf_search search = trf_search_defaults();
            trf_sampling s = quick();
            trf_translator *t = NULL;
            trf_sampler *g;
            trf_batch batch = five();
            int32_t i, k;
            search.beam = 1;
            search.threads = 1;
            search.max_length_a = 0;
            search.max_length_b = limit;
            trf_search_set_rule(&search, TRF_SEARCH_RAW);
            s.temperature = 0; s.max_tokens = limit; s.window = 0; s.allow_unk = !gpt2_ids;
            if (limit == 34) {
                search.banned.ids = banned;
                search.banned.lengths = n_banned;
                search.banned.count = 5;
                search.no_repeat_ngram = 2 + number / 4;
                search.repetition_penalty = number / 2 % 2 ? 1.3 : 0.8;
                s.banned = search.banned;
                s.no_repeat_ngram = search.no_repeat_ngram;
                s.repetition_penalty = search.repetition_penalty;
                search.ends.n = 2; search.ends.ids[0] = 13; search.ends.ids[1] = 14;
                s.ends = search.ends;
                s.min_tokens = search.min_length = number / 2;
            }
            if (!kind) batch.target.lengths = no_lengths;
            g = make(model, &s);
            assert_int_equal(trf_translator_create(&t, model, &search, NULL), TRF_OK);
            assert_int_equal(trf_translate(t, kind ? &batch.target : &batch.source, NULL, NULL),
                             TRF_OK);
            run(g, &batch, 3);
            for (i = 0; i < 5; i++) {
                const trf_hypothesis *h = trf_sampler_answer(g, i), *want = trf_translator_answer(t, i, 0);
                assert_int_equal(h->n, want->n);
                for (k = 0; k < h->n; k++) assert_int_equal(h->ids[k], want->ids[k]);
                assert_int_equal(h->ended, want->ended);
                for (k = 0; k < h->n; k++) assert_false(is_end(&s, &model->config, h->ids[k]));
                if (!kind) assert_true(fabs(h->log_probability - want->log_probability) < 1e-4);
            }
            trf_translator_destroy(t);
            trf_sampler_destroy(g);
            trf_model_destroy(model);
        }
}

/* The log-probability is that of trf_reader_score, EOS included, behind an empty beginning. */
static void test_log_probability(void **state)
{
    static const int32_t likely = 7, one = 1;           /* banned, where temperature 1 shares sums */
    int round;
    (void)state;
    for (round = 0; round < 2; round++) {
        trf_model *model = make_model(TRF_ENCODER_DECODER, VOCAB, NULL);
        trf_sampling s = quick();
        trf_sampler *g;
        trf_translator *t = NULL;
        trf_batch batch = five();
        int32_t ids[5 * 64], lengths[5], i, n = 0, ends = 0;
        int32_t bias = trf_model_parameter_index(model, "generator.bias");
        double scores[5];
        s.max_tokens = 60;
        if (round) {
            s.temperature = 1; s.banned.ids = &likely; s.banned.lengths = &one; s.banned.count = 1;
            kit_set(trf_model_parameter(model, bias), likely, 3);
        } else { s.top_k = 9; s.repetition_penalty = 1.2; }
        kit_set(trf_model_parameter(model, bias), 2, 2);        /* EOS */
        g = make(model, &s);
        batch.target.count = 0;                                 /* no beginnings at all */
        batch.target.ids = batch.target.lengths = NULL;
        run(g, &batch, 100);
        for (i = 0; i < 5; i++) {
            const trf_hypothesis *h = trf_sampler_answer(g, i);
            memcpy(ids + n, h->ids, (size_t)h->n * sizeof *ids);
            n += lengths[i] = h->n;
        }
        batch.target.ids = ids; batch.target.lengths = lengths; batch.target.count = 5;
        assert_int_equal(trf_translator_create(&t, model, NULL, NULL), TRF_OK);
        assert_int_equal(trf_reader_score(trf_translator_reader(t), &batch, NULL, scores, NULL), TRF_OK);
        for (i = 0; i < 5; i++) {
            const trf_hypothesis *h = trf_sampler_answer(g, i);
            if (h->ended != TRF_ENDED_EOS) { assert_true(h->log_probability > scores[i]); continue; }
            assert_true(fabs(h->log_probability - scores[i]) < 1e-3);
            assert_true(h->score == h->log_probability);
            ends++;
        }
        assert_true(ends > 0);
        trf_translator_destroy(t);
        trf_sampler_destroy(g);
        trf_model_destroy(model);
    }
}

/* Beginnings that are read in many passes, as they have more rows than one pass takes. */
static void test_rows_of_many_passes(void **state)
{
    enum { MANY = 320, LONG = 60 };
    static int32_t ids[MANY * LONG], lengths[MANY];
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    trf_batch batch = {{NULL, NULL, 0}, {ids, lengths, MANY}, 0, {0, 0, 0}};
    trf_sampler *g;
    uint64_t together, alone = HASH_START;
    int32_t i;
    (void)state;
    for (i = 0; i < MANY * LONG; i++) { ids[i] = 5 + i * 7 % 11; lengths[i / LONG] = LONG; }
    s.max_tokens = 3;
    g = make(model, &s);
    together = run(g, &batch, 100);
    for (i = 0; i < MANY; i += 8) {             /* eight at a time fit into one */
        batch.target.ids = ids + i * LONG;
        batch.target.count = 8;
        batch.ordinal = i;
        (void)run(g, &batch, 100);
        alone = hash_stories(alone, g, 0, 8);
    }
    assert_true(together == alone);
    trf_sampler_destroy(g);
    trf_model_destroy(model);
}

/* The same bits for any threads, budgets, parts of the batch, and behind any beginning of an
   answer. */
static void test_same_text(void **state)
{
    static const int32_t threads[] = { 2, 5, 256 }, budgets[] = { 1, 2, 7, INT32_MAX };
    int kind, i, k;
    (void)state;
    for (kind = 0; kind < 2; kind++) {
        trf_model *model = make_model(kind ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER, VOCAB, NULL);
        trf_sampling s = quick();
        trf_batch batch = five();
        trf_sampler *g = make(model, &s);
        uint64_t want, parts = HASH_START;
        s.top_p = 0.95;
        trf_sampler_destroy(g);
        g = make(model, &s);
        want = run(g, &batch, 1000);
        for (i = 0; i < 4; i++)
            assert_true(run(g, &batch, budgets[i]) == want); /* begun again and again */
        for (i = 0; KIT_SAME_ROWS && i < 5; i++) {
            trf_batch part = kit_slice(&batch, i, 1);
            run(g, &part, 4);
            parts = hash_stories(parts, g, 0, 1);
        }
        if (KIT_SAME_ROWS) assert_true(parts == want);
        run(g, &batch, 1000);
        for (i = 0; KIT_SAME_ROWS && i < 5;
             i++) { /* a beginning that is longer by some of the answer */
            const trf_hypothesis *h = trf_sampler_answer(g, i);
            int32_t ids[64], n = beginning_lengths[i], more;
            trf_sampler *other;
            trf_batch one = kit_slice(&batch, i, 1);
            memcpy(ids, one.target.ids, (size_t)n * sizeof *ids);
            more = h->n / 2;
            memcpy(ids + n, h->ids, (size_t)more * sizeof *ids);
            n += more;
            one.target.ids = ids; one.target.lengths = &n;
            s.max_tokens = 20 - more;
            other = make(model, &s);
            run(other, &one, 1);
            assert_int_equal(trf_sampler_answer(other, 0)->n, h->n - more);
            for (k = more; k < h->n; k++)
                assert_int_equal(trf_sampler_answer(other, 0)->ids[k - more], h->ids[k]);
            trf_sampler_destroy(other);
            s.max_tokens = 20;
        }
        trf_sampler_destroy(g);
        for (i = 0; i < 3; i++) {
            s.threads = threads[i];
            g = make(model, &s);
            assert_true(run(g, &batch, 3) == want);
            trf_sampler_destroy(g);
        }
        trf_model_destroy(model);
    }
}

/* Beginnings of more rows than are read at a time, some of them cut in two, and more sequences than
   are drawn at a time. */
static void many_sequences(void)
{
    enum { MANY = 520 };
    static int32_t ids[MANY * 7], lengths[MANY];
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    trf_batch batch = { { ids, lengths, MANY }, { ids, lengths, MANY }, 0, { 0, 0, 0 } };
    trf_sampler *g, *one;
    int32_t i;
    for (i = 0; i < MANY * 7; i++) ids[i] = 4 + i * 7 % 19;
    for (i = 0; i < MANY; i++) lengths[i] = 1 + i % 7;
    s.max_tokens = 3;
    g = make(model, &s);
    one = make(model, &s);
    run(g, &batch, 2);
    for (i = 0; KIT_SAME_ROWS && i < MANY; i++) {
        trf_batch part = kit_slice(&batch, i, 1);
        run(one, &part, 3);
        assert_true(hash_stories(HASH_START, one, 0, 1) == hash_stories(HASH_START, g, i, 1));
    }
    trf_sampler_destroy(g);
    trf_sampler_destroy(one);
    trf_model_destroy(model);
}

/* Fewer and more sequences in one generator, in memory that may come back at the same place: what
   was recorded for others is not played. */
static void fewer_sequences(void)
{
    enum { MOST = 24 };
    static const int32_t counts[] = { 24, 20, 24, 17, 19, 18, 24 };
    static int32_t ids[MOST * 3], lengths[MOST];
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    trf_sampler *g = make(model, &s);
    size_t k;
    int32_t i;
    for (i = 0; i < MOST * 3; i++) ids[i] = 4 + i * 5 % 19;
    for (i = 0; i < MOST; i++) lengths[i] = 3;
    for (k = 0; k < sizeof counts / sizeof *counts; k++) {
        trf_batch batch = {{ids, lengths, counts[k]}, {ids, lengths, counts[k]}, 0, {0, 0, 0}};
        trf_sampler *fresh = make(model, &s);
        uint64_t want = run(fresh, &batch, 4);
        trf_sampler_destroy(fresh);
        assert_true(run(g, &batch, 4) == want);
    }
    trf_sampler_destroy(g);
    trf_model_destroy(model);
}

static void test_many(void **state)
{
    (void)state;
    many_sequences();
    fewer_sequences();
    width = 24;                         /* whose keys' weights are no whole panels */
    many_sequences();
    fewer_sequences();
    width = 32;
}

/* Limits: of the answer, of the model; beginnings that leave no room; nothing at all. */
static void test_limits(void **state)
{
    static int32_t ids[63];
    int32_t length = 63, live = 9, i;
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    trf_batch batch = { { NULL, NULL, 0 }, { ids, &length, 1 }, 0, { 0, 0, 0 } };
    trf_sampler *g;
    trf_error err;
    (void)state;
    for (i = 0; i < 63; i++) ids[i] = 4 + i % 15;
    s.max_tokens = INT32_MAX;
    s.min_tokens = INT32_MAX;
    s.window = 0;
    g = make(model, &s);
    assert_int_equal(trf_sampler_step(g, 1, &live, &err), TRF_E_STATE);
    assert_int_equal(live, 0);
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_OK);
    assert_int_equal(trf_sampler_answer(g, 0)->ended, TRF_ENDED_MAX_LENGTH);
    assert_int_equal(trf_sampler_step(g, 5, &live, &err), TRF_OK);
    assert_int_equal(live, 0);
    assert_int_equal(trf_sampler_answer(g, 0)->n, 0);
    length = 62;
    run(g, &batch, 1);
    assert_int_equal(trf_sampler_answer(g, 0)->n, 1);
    length = 0;
    run(g, &batch, INT32_MAX);
    assert_int_equal(trf_sampler_answer(g, 0)->n, 63);
    assert_int_equal(trf_sampler_answer(g, 0)->ended, TRF_ENDED_MAX_LENGTH);
    length = 64;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_E_LIMIT);
    assert_int_equal(trf_sampler_step(g, 1, &live, &err),
                     TRF_E_STATE); /* what was there is forgotten */
    assert_null(trf_sampler_answer(g, 0));
    batch.target.count = 0;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_OK);
    assert_int_equal(trf_sampler_step(g, 1, &live, &err), TRF_OK);
    assert_int_equal(live, 0);
    batch.target.count = 1;
    length = 2;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_OK);
    assert_int_equal(trf_sampler_step(g, 0, &live, &err), TRF_OK);
    assert_int_equal(live, 1);
    assert_int_equal(trf_sampler_step(g, -1, &live, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_sampler_step(g, 3, NULL, &err), TRF_OK);
    assert_int_equal(trf_sampler_answer(g, 0)->n, 3);
    assert_int_equal(trf_sampler_answer(g, 0)->ended, TRF_ENDED_NOT_YET);
    assert_null(trf_sampler_answer(g, 1));
    assert_null(trf_sampler_answer(g, -1));
    assert_null(trf_sampler_answer(NULL, 0));
    trf_sampler_destroy(g);
    trf_model_destroy(model);
}

/* Whatever the rules are, ids are allowed ones and the numbers finite: the ends of every range.
   Nothing overflows on the way, so a host that traps is not ended. */
/* Memory full of the largest numbers: who computes with what nobody has written overflows. */
static void *huge_alloc(void *user, size_t align, size_t bytes)
{
    void *memory = NULL;
    (void)user;
    if (posix_memalign(&memory, align, bytes)) return NULL;
    return memset(memory, 0x7F, bytes);
}
static void huge_free(void *user, void *memory, size_t bytes)
{
    (void)user; (void)bytes;
    free(memory);
}

static void test_extremes(void **state)
{
    static const double temperatures[] = { 0, 5e-324, 1e-30, 1e6 }, ps[] = { 0, 1e-30, 1 };
    int a, b, c, vocab;
    (void)state;
    for (vocab = 5; vocab < 24; vocab += 18) {
        trf_model *model = make_model(TRF_DECODER_ONLY, vocab, NULL);
        trf_batch batch = five();
        batch.target.count = 2;
        batch.target.lengths = no_lengths;
        for (a = 0; a < 4; a++) for (b = 0; b < 3; b++) for (c = 0; c < 3; c++) {
            trf_sampling s = quick();
            trf_sampler *g;
            int32_t i, k;
            s.temperature = temperatures[a]; s.top_p = ps[b]; s.min_p = ps[c];
            s.top_k = (a + b + c) % 2 ? 0 : INT32_MAX;
            s.repetition_penalty = c == 1 ? 1e6 : c == 2 ? 1e-6 : 1;
            s.hooks.alloc = huge_alloc;
            s.hooks.free = huge_free;
            g = make(model, &s);
            feclearexcept(FE_ALL_EXCEPT);
            run(g, &batch, 3);
            assert_false(fetestexcept(FE_OVERFLOW | FE_INVALID | FE_DIVBYZERO));
            for (i = 0; i < 2; i++) {
                const trf_hypothesis *h = trf_sampler_answer(g, i);
                assert_true(trf__is_finite(h->log_probability));
                for (k = 0; k < h->n; k++) assert_true(h->ids[k] >= 3 && h->ids[k] < vocab);
            }
            trf_sampler_destroy(g);
        }
        trf_model_destroy(model);
    }
}

/* Logits that are infinite or no numbers: told with the sequence, and nothing is drawn. */
static void test_nonfinite(void **state)
{
    static const double bad[] = { HUGE_VAL, -HUGE_VAL, 0 };
    int i;
    (void)state;
    for (i = 0; i < 3; i++) {
        trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
        int32_t bias = trf_model_parameter_index(model, "generator.bias"), k;
        trf_sampling s = quick();
        trf_batch batch = five();
        trf_sampler *g;
        trf_error err;
        assert_true(bias >= 0);
        for (k = 0; k < VOCAB; k++)
            kit_set(trf_model_parameter(model, bias), k, i == 2 ? 0.0 / bad[2] : bad[i]);
        g = make(model, &s);
        assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_OK);
        assert_int_equal(trf_sampler_step(g, 1, NULL, &err), TRF_E_NONFINITE);
        assert_int_equal(err.where, 0);
        assert_int_equal(trf_sampler_answer(g, 0)->n, 0);
        trf_sampler_destroy(g);
        for (k = 0; k < VOCAB; k++)                     /* some may be: those are never drawn */
            kit_set(trf_model_parameter(model, bias), k, k % 2 ? 0 : -HUGE_VAL);
        g = make(model, &s);
        run(g, &batch, 2);
        for (k = 0; k < trf_sampler_answer(g, 4)->n; k++) assert_true(trf_sampler_answer(g, 4)->ids[k] % 2);
        trf_sampler_destroy(g);
        trf_model_destroy(model);
    }
}

/* -----------------------------------------------------------------------------------------------
   Sessions. */

static char path[] = "/tmp/trf_generate_XXXXXX";

/* Saved after every number of steps, loaded into another generator with other rules: it goes on
   with the same bits. */
static void test_sessions(void **state)
{
    int kind, cut;
    (void)state;
    for (kind = 0; kind < 2; kind++) {
        trf_model *model = make_model(kind ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER, VOCAB, NULL);
        trf_sampling s = quick(), plain = trf_sampling_defaults();
        trf_batch batch = five();
        trf_sampler *g, *other;
        trf_error err;
        uint64_t want;
        s.temperature = 1.25;
        s.top_k = 15;
        s.top_p = 0.97;
        s.min_p = 1e-3;
        s.repetition_penalty = 1.1;
        s.seed = (uint64_t)-5; s.min_tokens = 2;
        batch.ordinal = INT64_MAX - 2;      /* the fourth sequence has number 2^63 */
        plain.threads = 2;
        g = make(model, &s);
        other = make(model, &plain);
        assert_int_equal(trf_sampler_save(g, path, &err), TRF_E_STATE);
        want = run(g, &batch, 100);
        for (cut = 0; cut <= 20; cut += 4) {
            int32_t live = 1;
            assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
            assert_int_equal(trf_sampler_step(g, cut, NULL, NULL), TRF_OK);
            if (trf_sampler_save(g, path, &err)) fail_msg("%s", err.message);
            if (trf_sampler_load(other, path, &err)) fail_msg("%s", err.message);
            assert_true(hash_stories(HASH_START, g, 0, 5) == hash_stories(HASH_START, other, 0, 5));
            assert_true(other->sampling.seed == s.seed && other->sampling.threads == 2);
            assert_true(other->ordinal == batch.ordinal);
            while (live) assert_int_equal(trf_sampler_step(other, 3, &live, NULL), TRF_OK);
            if (KIT_SAME_ROWS) assert_true(hash_stories(HASH_START, other, 0, 5) == want);
        }
        {
            trf_model *stranger;
            trf_sampler *third;
            trf_config c = model->config;
            c.seed = 99;
            assert_int_equal(trf_model_create(&stranger, &c, NULL, NULL), TRF_OK);
            third = make(stranger, NULL);
            assert_int_equal(trf_sampler_load(third, path, &err), TRF_E_STATE);
            assert_string_equal(err.what, "trf.weights");
            trf_sampler_destroy(third);
            trf_model_destroy(stranger);
        }
        assert_int_equal(trf_sampler_load(other, "/nonexistent", &err), TRF_E_IO);
        assert_int_equal(trf_sampler_save(g, "/nonexistent/x", &err), TRF_E_IO);
        assert_int_equal(trf_model_save(model, path, NULL, NULL), TRF_OK);
        assert_int_equal(trf_sampler_load(other, path, &err), TRF_E_FORMAT);
        assert_int_equal(trf_sampler_answer(other, 4)->ended != TRF_ENDED_NOT_YET,
                         1); /* nothing has changed */
        trf_sampler_destroy(g);
        trf_sampler_destroy(other);
        trf_model_destroy(model);
    }
}

/* A session as transformer.h 0.2.0 wrote it, made from one of this version. */
static void write_as_format_1(const char *to, const trf_sampler *g)
{
    size_t n, cut = 0, begin;
    uint64_t header;
    int32_t i;
    char *bytes, *at;
    long long words;
    assert_int_equal(trf_sampler_save(g, to, NULL), TRF_OK);
    bytes = kit_read_file(to, &n);
    for (i = 0; i < g->count; i++) cut += 8 * (size_t)trf__scored(trf_sampler_answer(g, i));
    memcpy(&header, bytes, 8);
    begin = 8 + (size_t)header;
    words = (long long)((n - cut - begin) / 4);
    bytes[begin - 1] = 0;
    at = strstr(bytes + 8, "\"trf.generator\":\"3\"");
    assert_non_null(at);
    at[17] = '1';
    memcpy(strstr(bytes + 8, "trf.sampling.allow_unk"), "own", 3);
    memcpy(strstr(bytes + 8, "trf.sampling.window"), "own", 3);
    memcpy(strstr(bytes + 8, "trf.sampling.no_repeat_ngram"), "own", 3);
    kit_unchecked(bytes, n);
    at = strstr(bytes + 8, "\"generator\":{");
    assert_non_null(at);
    i = snprintf(at, (size_t)(bytes + begin - at),
                 "\"generator\":{\"dtype\":\"I32\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                 words, 4 * words);
    assert_true(at + i < bytes + begin);
    memset(at + i, ' ', (size_t)(bytes + begin - at - i));
    assert_true(kit_write_file(to, bytes, n - cut));
    free(bytes);
}

/* Which goes on as it would have: unk may be drawn, there is no window, nor are there numbers of
   its tokens, not even when it is saved once more. */
static void test_format_1(void **state)
{
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick(), plain = trf_sampling_defaults();
    trf_batch batch = five();
    trf_sampler *g, *other;
    trf_error err;
    int32_t i, live = 1;
    int again;
    (void)state;
    s.allow_unk = 1; s.window = 0; s.max_tokens = 200; s.min_tokens = 200;
    plain.threads = 1;
    g = make(model, &s);
    other = make(model, &plain);
    assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
    assert_int_equal(trf_sampler_step(g, 7, NULL, NULL), TRF_OK);
    write_as_format_1(path, g);
    while (live) assert_int_equal(trf_sampler_step(g, 5, &live, NULL), TRF_OK);
    for (again = 0; again < 2; again++) {
        if (trf_sampler_load(other, path, &err)) fail_msg("%s", err.message);
        assert_true(other->sampling.allow_unk == 1 && other->sampling.window == 0);
        for (i = 0; i < 5; i++) assert_null(trf_sampler_answer(other, i)->log_probabilities);
        assert_int_equal(trf_sampler_save(other, path, NULL), TRF_OK);
    }
    for (live = 1; live;) assert_int_equal(trf_sampler_step(other, 5, &live, NULL), TRF_OK);
    for (i = 0; i < 5; i++) {
        const trf_hypothesis *a = trf_sampler_answer(g, i), *b = trf_sampler_answer(other, i);
        assert_true(a->n == b->n && a->log_probability == b->log_probability &&
                    a->ended == b->ended);
        assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
        assert_null(b->log_probabilities);
    }
    trf_sampler_destroy(g);
    trf_sampler_destroy(other);
    trf_model_destroy(model);
}

/* Format 2 had no no_repeat_ngram. Format 3 has it, and a session that is loaded keeps to it; banned
   sequences and ends are those of the sampler that loads it. */
static void test_rules_of_a_session(void **state)
{
    static const int32_t banned[] = {5, 6, 7}, n_banned[] = {1, 2};
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick(), plain = quick();
    trf_batch batch = five();
    trf_sampler *g, *other;
    int32_t i, live = 1;
    uint64_t want;
    char *bytes, *at;
    size_t n;
    (void)state;
    s.no_repeat_ngram = 2; s.max_tokens = 60;
    s.banned.ids = banned; s.banned.lengths = n_banned; s.banned.count = 2;
    s.ends.n = 1; s.ends.ids[0] = 8;
    plain.banned = s.banned;
    plain.ends = s.ends;
    g = make(model, &s);
    want = run(g, &batch, 100);
    for (i = 0; i < 5; i++) {
        const trf_hypothesis *h = trf_sampler_answer(g, i);
        int32_t k;
        for (k = 0; k < h->n; k++) assert_true(h->ids[k] != 5 && h->ids[k] != 8);
    }
    other = make(model, &plain);
    assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
    assert_int_equal(trf_sampler_step(g, 3, NULL, NULL), TRF_OK);
    assert_int_equal(trf_sampler_save(g, path, NULL), TRF_OK);
    assert_int_equal(trf_sampler_load(other, path, NULL), TRF_OK);
    assert_int_equal(other->sampling.no_repeat_ngram, 2);
    while (live) assert_int_equal(trf_sampler_step(other, 5, &live, NULL), TRF_OK);
    if (KIT_SAME_ROWS) assert_true(hash_stories(HASH_START, other, 0, 5) == want);
    bytes = kit_read_file(path, &n);
    assert_non_null(bytes);
    for (at = bytes + 8; memcmp(at, "trf.generator\":\"3", 17); at++) { }
    at[16] = '2';
    for (at = bytes + 8; memcmp(at, "trf.sampling.no_repeat_ngram", 28); at++) { }
    memcpy(at, "own", 3);
    kit_unchecked(bytes, n);
    assert_true(kit_write_file(path, bytes, n));
    assert_int_equal(trf_sampler_load(g, path, NULL), TRF_OK);
    assert_int_equal(g->sampling.no_repeat_ngram, 0);
    free(bytes);
    trf_sampler_destroy(g);
    trf_sampler_destroy(other);
    trf_model_destroy(model);
}

/* Every number of a session replaced by hostile ones, without a checksum that would tell; every
   byte changed; every length: a status, or a session that can go on. */
static void test_hostile_sessions(void **state)
{
    static const int32_t bad[] = { -1, 0, 1, 3, 40, 63, 64, 0x7FF00000, INT32_MAX, INT32_MIN };
    trf_model *model = make_model(TRF_ENCODER_DECODER, VOCAB, NULL);
    trf_sampling s = quick();
    trf_batch batch = five();
    trf_sampler *g;
    trf_error err;
    size_t n, at, begin, scores = 0;
    char *bytes, *changed, *crc;
    int refused = 0, taken = 0, i;
    uint64_t k, before;
    (void)state;
    s.max_tokens = 6;
    g = make(model, &s);
    assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
    assert_int_equal(trf_sampler_step(g, 3, NULL, NULL), TRF_OK);
    assert_int_equal(trf_sampler_save(g, path, NULL), TRF_OK);
    for (i = 0; i < 5; i++) scores += (size_t)trf__scored(trf_sampler_answer(g, i));
    bytes = kit_read_file(path, &n);
    assert_non_null(bytes);
    changed = (char *)malloc(n);
    memcpy(&k, bytes, 8);
    begin = 8 + (size_t)k;
    for (at = 0; at < n; at += at < 900 ? 1 : 3) {      /* any byte, the checksum as it was */
        trf_status status;
        memcpy(changed, bytes, n);
        changed[at] = (char)(changed[at] ^ (1 << at % 8));
        assert_true(kit_write_file(path, changed, n));
        status = trf_sampler_load(g, path, &err);
        if (at >= begin) assert_int_equal(status, TRF_E_CHECKSUM);
        if (status == TRF_OK) assert_int_equal(trf_sampler_step(g, 1, NULL, NULL), TRF_OK);
    }
    assert_true(kit_write_file(path, bytes, n));
    assert_int_equal(trf_sampler_load(g, path, &err), TRF_OK);
    before = hash_stories(HASH_START, g, 0, 5);
    for (i = 0; i < 3; i++) {                           /* numbers in its header */
        static const struct { const char *from, *to, *what; trf_status status;
        } of[] = {{"\"trf.generator\":\"3\"", "\"trf.generator\":\"4\"", "trf.generator",
                   TRF_E_UNSUPPORTED},
                  {"\"trf.sampling.top_p\":\"1\"", "\"trf.sampling.top_p\":\"5\"", "top_p",
                   TRF_E_FORMAT},
                  {"\"trf.ordinal\"", "\"own.ordinal\"", "trf.ordinal", TRF_E_FORMAT}};
        memcpy(changed, bytes, n);
        kit_unchecked(changed, n);
        changed[begin - 1] = 0; /* a blank or the last brace, where strstr ends */
        crc = strstr(changed + 8, of[i].from);
        assert_non_null(crc);
        memcpy(crc, of[i].to, strlen(of[i].to));
        changed[begin - 1] = bytes[begin - 1];
        assert_true(kit_write_file(path, changed, n));
        assert_int_equal(trf_sampler_load(g, path, &err), of[i].status);
        assert_string_equal(err.what, of[i].what);
        assert_true(hash_stories(HASH_START, g, 0, 5) == before && g->sampling.top_p == s.top_p);
    }
    for (at = 0; at < n; at += 7) {
        assert_true(kit_write_file(path, bytes, at));
        assert_int_not_equal(trf_sampler_load(g, path, &err), TRF_OK);
    }
    kit_unchecked(bytes, n);
    for (at = begin; at < n; at += 4)
        for (k = 0; k < sizeof bad / sizeof *bad; k++) {
            memcpy(changed, bytes, n);
            memcpy(changed + at, &bad[k], 4);
            assert_true(kit_write_file(path, changed, n));
            if (trf_sampler_load(g, path, &err) == TRF_OK) {
                int32_t live = 1;
                while (live) assert_int_equal(trf_sampler_step(g, 5, &live, NULL), TRF_OK);
                taken++;
            } else {
                assert_true(err.status == TRF_E_FORMAT || err.status == TRF_E_LIMIT ||
                            err.status == TRF_E_SHAPE);
                refused++;
            }
        }
    assert_true(refused > 100 && taken > 10);
    {
        const int32_t stranger = VOCAB;
        trf_sampling own = trf_sampling_defaults(), kept;
        trf_sampler *other = make(model, &own);
        kept = other->sampling;
        assert_int_equal(trf_sampler_begin(other, &batch, NULL), TRF_OK);
        memcpy(changed, bytes, n);
        memcpy(changed + n - 4 - 8 * scores, &stranger,
               4); /* ids that do not fit: no sequences, and its own rules */
        assert_true(kit_write_file(path, changed, n));
        assert_int_equal(trf_sampler_load(other, path, &err), TRF_E_FORMAT);
        assert_null(trf_sampler_answer(other, 0));
        assert_memory_equal(&other->sampling, &kept, sizeof kept);
        trf_sampler_destroy(other);
    }
    assert_true(kit_write_file(path, bytes, n));
    assert_int_equal(trf_sampler_load(g, path, &err), TRF_OK);
    assert_int_equal(trf_sampler_load(NULL, path, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_sampler_load(g, NULL, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_sampler_save(g, NULL, &err), TRF_E_INVALID_ARG);
    free(bytes);
    free(changed);
    trf_sampler_destroy(g);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Hooks: cancelling anywhere, every allocation failing. */

static int64_t cancel_at, cancel_calls;
static int cancel(void *user) { (void)user; return ++cancel_calls == cancel_at; }

static void test_cancel(void **state)
{
    trf_model *model = make_model(TRF_ENCODER_DECODER, VOCAB, NULL);
    trf_sampling s = quick();
    trf_batch batch = five();
    trf_sampler *g;
    trf_error err;
    uint64_t want;
    int64_t all, at;
    (void)state;
    s.max_tokens = 6;
    s.hooks.cancel = cancel;
    g = make(model, &s);
    cancel_at = cancel_calls = 0;
    want = run(g, &batch, 100);
    all = cancel_calls;
    assert_true(all > 6);
    for (at = 1; at <= all; at += at < 30 ? 1 : 5) {
        int32_t live = 1, cancelled = 0;
        trf_status status;
        cancel_calls = 0;
        cancel_at = at;
        status = trf_sampler_begin(g, &batch, &err);
        if (status != TRF_OK) {
            assert_int_equal(status, TRF_E_CANCELLED);
            assert_int_equal(trf_sampler_step(g, 1, &live, NULL), TRF_E_STATE);
            assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
            cancelled++;
        }
        for (live = 1; live || (cancelled == 0 && status == TRF_E_CANCELLED); ) {
            status = trf_sampler_step(g, 2, &live, &err);
            if (status == TRF_OK) continue;
            assert_int_equal(status, TRF_E_CANCELLED);
            cancelled++;
            assert_true(live > 0);              /* those that go on */
        }
        assert_int_equal(cancelled, cancel_calls >= at); /* what is played again asks less often */
        assert_true(hash_stories(HASH_START, g, 0, 5) == want);
    }
    trf_sampler_destroy(g);
    trf_model_destroy(model);
}

static void say(void *user, int32_t sequence, int32_t id, const char *text, size_t bytes);

static void test_memory(void **state)
{
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    trf_model *model = make_model(TRF_ENCODER_DECODER, VOCAB, NULL);
    trf_vocab *target = NULL, *source = NULL;
    trf_sampling s = quick();
    trf_batch batch = five();
    trf_sampler *g = NULL;
    trf_status status = TRF_E_NOMEM;
    trf_error err;
    int64_t k, failures = 0;
    (void)state;
    s.hooks = hooks;
    s.token = say;
    s.max_tokens = 3;
    s.banned.ids = beginning_ids; s.banned.lengths = source_lengths; s.banned.count = 2;
    assert_int_equal(trf_vocab_create(&target, TRF_CHARACTERS, NULL, NULL), TRF_OK);
    assert_int_equal(trf_vocab_learn(target, "abcdefghijklmnopqrs", NULL), TRF_OK);
    assert_int_equal(trf_vocab_finish(target, VOCAB, 1, NULL), TRF_OK);
    assert_int_equal(trf_vocab_create(&source, TRF_CHARACTERS, NULL, NULL), TRF_OK);
    assert_int_equal(trf_vocab_learn(source, "abcdefghijklmno", NULL), TRF_OK);
    assert_int_equal(trf_vocab_finish(source, 19, 1, NULL), TRF_OK);
    assert_int_equal(trf_model_set_vocabs(model, source, target, &err), TRF_OK);
    s.user = NULL;
    for (k = 1; status == TRF_E_NOMEM; k++) {
        int32_t live = 1;
        memory.fail_at = memory.calls + k;
        status = trf_sampler_create(&g, model, &s, &err);
        if (status != TRF_OK) assert_null(g);
        if (status == TRF_OK) status = trf_sampler_begin(g, &batch, &err);
        if (status == TRF_OK) status = trf_sampler_save(g, path, &err);
        if (status == TRF_OK) status = trf_sampler_load(g, path, &err);
        while (status == TRF_OK && live) status = trf_sampler_step(g, 1, &live, &err);
        if (status == TRF_E_NOMEM) failures++;
        trf_sampler_destroy(g);
        g = NULL;
        assert_int_equal(memory.blocks, 0);
        assert_int_equal(memory.live, 0);
    }
    assert_int_equal(status, TRF_OK);
    assert_true(failures > 10);
    trf_vocab_destroy(target);
    trf_vocab_destroy(source);
    trf_model_destroy(model);
}

/* A plain program of the window: the next token's logits are those of a translator that reads the
   last ids alone. */
static void check_window(trf_model *model, int32_t window, int32_t tokens)
{
    const int32_t asked = window ? window : INT32_MAX, W = window && window < 63 ? window : 63;
    const int32_t leave = W + 1 - (W + 1) / 2;
    trf_sampling s = quick();
    trf_search search = trf_search_defaults();
    trf_translator *t = NULL;
    trf_batch batch = five(), pair;
    trf_sampler *g;
    trf_real logits[64 * VOCAB];
    int32_t i, k, moved = 0;
    s.window = asked; s.max_tokens = s.min_tokens = tokens; s.allow_unk = !gpt2_ids;
    search.threads = 1;
    g = make(model, &s);
    assert_int_equal(trf_translator_create(&t, model, &search, NULL), TRF_OK);
    run(g, &batch, 7);
    memset(&pair, 0, sizeof pair);
    for (i = 0; i < 5; i++) {
        const trf_hypothesis *h = trf_sampler_answer(g, i);
        const int32_t *ids = h->ids - beginning_lengths[i];
        int32_t first = 0;
        double sum = 0;
        assert_int_equal(h->n, tokens);
        assert_int_equal(h->ended, TRF_ENDED_MAX_LENGTH);
        for (k = 0; k < h->n; k++) {
            int32_t n = beginning_lengths[i] + k, seen, v;
            double all = 0, most = -HUGE_VAL, want;
            trf_tensor out;
            while (n - first > W) { first += leave; moved++; }
            seen = n - first;
            assert_true(first == 0 || seen >= (W + 1) / 2);
            pair.target.ids = ids + first; pair.target.lengths = &seen; pair.target.count = 1;
            out = trf_tensor_of(logits, 2, seen + 1, VOCAB, 0);
            if (k % 4 && n - first != W && n != first + (W + 1) / 2)
                continue; /* at its ends, and now and then */
            assert_int_equal(kit_logits(t, &pair, &out, NULL), TRF_OK);
            for (v = 0; v < VOCAB; v++)
                if ((double)logits[seen * VOCAB + v] > most)
                    most = (double)logits[seen * VOCAB + v];
            for (v = 0; v < VOCAB; v++) all += exp((double)logits[seen * VOCAB + v] - most);
            want = (double)logits[seen * VOCAB + h->ids[k]] - most - log(all);
            if (!(fabs(want - h->log_probabilities[k]) < 1e-4))
                fail_msg("window %d, sequence %d, token %d: %g, not %g", (int)W, (int)i, (int)k,
                         h->log_probabilities[k], want);
        }
        for (k = 0; k < h->n; k++) sum += h->log_probabilities[k];
        assert_true(sum == h->log_probability && h->prompt_log_probability == 0);
    }
    assert_true(moved > 5);
    trf_translator_destroy(t);
    trf_sampler_destroy(g);
}

/* Beyond max_length, and in windows that are smaller: the same bits for any threads, budgets and
   parts, across saving and loading, and behind any beginning, which may be longer than all that is
   read. */
static void test_window(void **state)
{
    static const int32_t windows[] = { 0, 3, 17, 1, 2, 8, 62, 63, 64, 1000 };
    size_t w;
    (void)state;
    for (w = 0; w < (KIT_AGAIN ? 3 : sizeof windows / sizeof *windows); w++) {
        trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
        trf_sampling s = quick();
        trf_batch batch = five(), longer = five();
        trf_sampler *g, *other;
        trf_error err;
        int32_t ids[5 * 200], lengths[5], i, used = 0, live = 1;
        uint64_t want, hash;
        check_window(model, windows[w], windows[w] > 3 || windows[w] == 0 ? 160 : 20);
        s.window = windows[w] ? windows[w] : INT32_MAX;
        s.max_tokens = s.min_tokens = 150;
        s.repetition_penalty = 1.1;
        g = make(model, &s);
        s.threads = 2;
        other = make(model, &s);
        want = run(g, &batch, 1000);
        assert_true(run(other, &batch, 1) == want);
        for (i = 0; i < 5;
             i++) { /* what has been drawn becomes a beginning, shorter or longer than a window */
            const trf_hypothesis *h = trf_sampler_answer(g, i);
            lengths[i] = beginning_lengths[i] + 20 * i + 30;
            memcpy(ids + used, h->ids - beginning_lengths[i], (size_t)lengths[i] * sizeof *ids);
            used += lengths[i];
        }
        longer.target.ids = ids; longer.target.lengths = lengths;
        run(other, &longer, 3);
        for (i = 0; i < 5; i++) {
            const trf_hypothesis *a = trf_sampler_answer(g, i), *b = trf_sampler_answer(other, i);
            int32_t had = 20 * i + 30;
            if (!KIT_SAME_ROWS) continue;
            assert_memory_equal(a->ids + had, b->ids, (size_t)(150 - had) * sizeof *ids);
            assert_memory_equal(a->log_probabilities + had, b->log_probabilities,
                                (size_t)(150 - had) * sizeof(double));
        }
        assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
        assert_int_equal(trf_sampler_step(g, 40 + (int32_t)w * 7, NULL, NULL), TRF_OK);
        assert_int_equal(trf_sampler_save(g, path, &err), TRF_OK);
        hash = hash_stories(HASH_START, g, 0, 5);
        if (trf_sampler_load(other, path, &err)) fail_msg("%s", err.message);
        assert_true(hash_stories(HASH_START, other, 0, 5) == hash);
        while (live) assert_int_equal(trf_sampler_step(other, 11, &live, NULL), TRF_OK);
        if (KIT_SAME_ROWS) assert_true(hash_stories(HASH_START, other, 0, 5) == want);
        trf_sampler_destroy(g);
        trf_sampler_destroy(other);
        trf_model_destroy(model);
    }
}

/* A model whose bos is eos, without pad and unk: the rules, the search and windows. */
static void test_bos_is_eos(void **state)
{
    trf_model *model;
    gpt2_ids = 1;
    test_rules(state);
    test_greedy(state);
    model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    check_window(model, 17, 90);
    trf_model_destroy(model);
    gpt2_ids = 0;
}

/* Answers of two samplers or searches, whose bits must be the same. */
static void same_answer(const trf_hypothesis *a, const trf_hypothesis *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->ended, b->ended);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
    assert_memory_equal(a->log_probabilities, b->log_probabilities,
                        (size_t)(a->n + (a->ended == TRF_ENDED_EOS)) * sizeof(double));
    assert_true(a->score == b->score);
}

/* A model with bare_prompts reads the prompt p, q.. as one whose start id is p reads q.., alone or
   among others, with windows, from a session and in a search. An empty prompt begins with the
   model's own start id. */
static void test_bare_prompts(void **state)
{
    static const int32_t ids[] = {5, 4, 9, 6, 12, 12, 20, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 5, 15, 16},
                         lengths[5] = {2, 0, 4, 1, 13}, windows[] = {INT32_MAX, 5, 12};
    trf_model *model[6];            /* the bare one, then those whose bos each prompt begins with */
    trf_config c = kit_of_kind(kit_small(2, 32, VOCAB, 40), TRF_DECODER_ONLY);
    trf_batch all = {{NULL, NULL, 0}, {ids, lengths, 5}, 0, {0, 0, 0}};
    trf_error err;
    int32_t k, w, at = 0, live, bos = 1, one = 1;
    int differ = 0;
    (void)state;
    c.embedding_init = TRF_EMBEDDING_NORMAL_1;
    for (k = 0; k < 6; at += k ? lengths[k - 1] : 0, k++) {
        c.bare_prompts = k == 0;
        c.bos = k && lengths[k - 1] ? ids[at] : bos;
        assert_int_equal(trf_model_create(&model[k], &c, NULL, &err), TRF_OK);
    }
    for (w = 0; w < 3; w++) {
        trf_sampling s = quick();
        trf_sampler *g, *other, *alone, *usual;
        const int32_t banned[] = {1, 5, 9, 20, 4}, each[5] = {1, 1, 1, 1, 1};
        s.window = windows[w];
        s.max_tokens = 35;
        s.repetition_penalty = 1.3;
        s.no_repeat_ngram = 2;
        s.banned.ids = banned; s.banned.lengths = each; s.banned.count = 5;
        g = make(model[0], &s);
        other = make(model[0], &s);
        run(g, &all, 100);
        assert_int_equal(trf_sampler_begin(other, &all, &err), TRF_OK);
        assert_int_equal(trf_sampler_step(other, 3, NULL, &err), TRF_OK);
        if (trf_sampler_save(other, path, &err)) fail_msg("%s", err.message);
        if (trf_sampler_load(other, path, &err)) fail_msg("%s", err.message);
        for (live = 1; live;) assert_int_equal(trf_sampler_step(other, 9, &live, &err), TRF_OK);
        usual = make(model[2], &s);                 /* with bos before every prompt */
        run(usual, &all, 100);
        for (k = at = 0; k < 5; at += lengths[k++]) {
            int32_t n = lengths[k] > 0 ? lengths[k] - 1 : 0;
            trf_batch batch = {{NULL, NULL, 0}, {ids + at + (lengths[k] > 0), &n, 1}, k, {0, 0, 0}};
            alone = make(model[k + 1], &s);
            run(alone, &batch, 7);
            if (KIT_SAME_ROWS) same_answer(trf_sampler_answer(g, k), trf_sampler_answer(alone, 0));
            if (KIT_SAME_ROWS) same_answer(trf_sampler_answer(g, k), trf_sampler_answer(other, k));
            differ += lengths[k] && trf_sampler_answer(g, k)->score != trf_sampler_answer(usual, k)->score;
            trf_sampler_destroy(alone);
        }
        trf_sampler_destroy(g);
        trf_sampler_destroy(other);
        trf_sampler_destroy(usual);
    }
    assert_true(differ >= 10);
    for (w = 0; w < 6; w++) {
        trf_search search = trf_search_defaults();
        trf_translator *t = NULL, *alone = NULL;
        search.threads = 1;
        search.beam = w % 2 ? 4 : 1;
        search.min_length = w;
        search.max_length_a = 0;
        search.max_length_b = w == 5 ? 1000 : 12;
        search.repetition_penalty = w >= 2 ? 1.4 : 1;
        search.no_repeat_ngram = w >= 4 ? 2 : 0;
        search.score_prefix = w == 3;
        search.count_prefix = w != 3;
        search.banned.ids = &bos; search.banned.lengths = &one; search.banned.count = w == 1;
        assert_int_equal(trf_translator_create(&t, model[0], &search, &err), TRF_OK);
        assert_int_equal(trf_translate(t, &all.target, NULL, &err), TRF_OK);
        for (k = at = 0; k < 5; at += lengths[k++]) {
            int32_t n = lengths[k] > 0 ? lengths[k] - 1 : 0;
            trf_sequences rest = {ids + at + (lengths[k] > 0), &n, 1};
            search.start = lengths[k] ? ids[at] : -1;
            /* prompt and answer together have up to max_length - 1 ids */
            if (w == 5) search.max_length_b = c.max_length - 1 - lengths[k];
            assert_int_equal(trf_translator_create(&alone, model[2], &search, &err), TRF_OK);
            assert_int_equal(trf_translate(alone, &rest, NULL, &err), TRF_OK);
            same_answer(trf_translator_answer(t, k, 0), trf_translator_answer(alone, 0, 0));
            trf_translator_destroy(alone);
            search.start = bos;                     /* a start id of the search is read after all */
            assert_int_equal(trf_translator_create(&alone, model[k % 2 ? 0 : 2], &search, &err),
                             TRF_OK);
            assert_int_equal(trf_translate(alone, &rest, NULL, &err), TRF_OK);
            {
                trf_translator *same = NULL;
                assert_int_equal(trf_translator_create(&same, model[k % 2 ? 2 : 0], &search, &err),
                                 TRF_OK);
                assert_int_equal(trf_translate(same, &rest, NULL, &err), TRF_OK);
                same_answer(trf_translator_answer(same, 0, 0), trf_translator_answer(alone, 0, 0));
                trf_translator_destroy(same);
            }
            trf_translator_destroy(alone);
        }
        trf_translator_destroy(t);
    }
    {       /* as many ids as a sequence may have, in a session too */
        trf_sampling s = quick();
        trf_sampler *g, *other;
        s.window = 0;
        s.max_tokens = s.min_tokens = 1000;
        g = make(model[0], &s);
        other = make(model[0], &s);
        run(g, &all, 100);
        if (trf_sampler_save(g, path, &err)) fail_msg("%s", err.message);
        if (trf_sampler_load(other, path, &err)) fail_msg("%s", err.message);
        for (k = 0; k < 5; k++) {
            assert_int_equal(lengths[k] + trf_sampler_answer(g, k)->n, c.max_length - 1);
            same_answer(trf_sampler_answer(g, k), trf_sampler_answer(other, k));
        }
        trf_sampler_destroy(g);
        trf_sampler_destroy(other);
    }
    for (k = 0; k < 6; k++) trf_model_destroy(model[k]);
    c = kit_of_kind(kit_small(2, 32, VOCAB, 40), TRF_ENCODER_DECODER);
    c.bare_prompts = 1;
    assert_int_equal(trf_model_create(&model[0], &c, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.message,
                        "bare_prompts must be 0 in an encoder-decoder model, got 1");
}

/* A beginning longer than max_length is read where there is a window, and refused where there is
   none; an encoder-decoder ends with its length, whatever the window. */
static void test_no_window(void **state)
{
    static int32_t ids[300];
    int32_t length = 300, live = 1, i, kind;
    trf_error err;
    (void)state;
    for (i = 0; i < 300; i++) ids[i] = 4 + i % 19;
    for (kind = 0; kind < 2; kind++) {
        trf_model *model = make_model(kind ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER, VOCAB, NULL);
        trf_sampling s = quick();
        trf_sampler *g;
        trf_batch batch = { { NULL, NULL, 0 }, { ids, &length, 1 }, 0, { 0, 0, 0 } };
        int32_t none = 0;
        if (!kind) { batch.source.count = 1; batch.source.lengths = &none; }
        s.max_tokens = s.min_tokens = 100;
        g = make(model, &s);
        length = 300;
        assert_int_equal(trf_sampler_begin(g, &batch, &err), kind ? TRF_OK : TRF_E_LIMIT);
        length = 40;
        run(g, &batch, 9);
        assert_int_equal(trf_sampler_answer(g, 0)->n, kind ? 100 : 23);
        trf_sampler_destroy(g);
        s.window = 0;
        g = make(model, &s);
        length = 64;
        assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_E_LIMIT);
        length = 40;
        run(g, &batch, 9);
        assert_int_equal(trf_sampler_answer(g, 0)->n, 23);
        assert_int_equal(trf_sampler_step(g, 1, &live, &err), TRF_OK);
        assert_int_equal(live, 0);
        trf_sampler_destroy(g);
        trf_model_destroy(model);
    }
}

/* Cancelled at any moment, while a window is read again too: what has been drawn stays, and the
   rest is the same. */
static int cancel_every(void *user) { int *calls = (int *)user; return ++*calls % 7 == 0; }
static void test_window_cancelled(void **state)
{
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    trf_batch batch = five();
    trf_sampler *g, *other;
    trf_error err;
    int calls = 0, cancelled = 0;
    int32_t live = 1;
    uint64_t want;
    (void)state;
    s.window = 9; s.max_tokens = s.min_tokens = 60;
    g = make(model, &s);
    want = run(g, &batch, 5);
    other = make(model, &s);
    assert_int_equal(trf_sampler_begin(other, &batch, NULL), TRF_OK);
    other->pass.run.hooks.cancel = cancel_every;
    other->pass.run.hooks.user = &calls;
    while (live) {
        trf_status status = trf_sampler_step(other, 4, &live, &err);
        assert_true(status == TRF_OK || status == TRF_E_CANCELLED);
        if (status) live = 1;
        cancelled += status != TRF_OK;
    }
    assert_true(cancelled > 20);
    assert_true(hash_stories(HASH_START, other, 0, 5) == want);
    other->pass.run.hooks.cancel = NULL;
    trf_sampler_destroy(g);
    trf_sampler_destroy(other);
    { /* nor is anything lost where ids have no room to grow */
        kit_memory memory;
        int64_t k, failures = 0;
        s.hooks = kit_hooks(&memory);
        for (k = 1; k < (KIT_AGAIN ? 5 : 12); k++) {
            memory.fail_at = 0;
            g = make(model, &s);
            assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
            memory.fail_at = memory.calls + k;
            for (live = 1; live;) {
                trf_status status = trf_sampler_step(g, 4, &live, &err);
                assert_true(status == TRF_OK || status == TRF_E_NOMEM);
                if (status) { live = 1; failures++; }
            }
            assert_true(hash_stories(HASH_START, g, 0, 5) == want);
            trf_sampler_destroy(g);
            assert_int_equal(memory.live, 0);
        }
        assert_true(failures > 2);
    }
    trf_model_destroy(model);
}

/* As many beginnings as would need more room than 31 bits can count. */
static void too_many(void)
{
    enum { COUNT = 1 << 16 };
    trf_config c = kit_config();
    trf_sampling s = trf_sampling_defaults();
    trf_model *model;
    trf_sampler *g;
    trf_error err;
    trf_batch batch = {{NULL, NULL, 0}, {NULL, NULL, 0}, 0, {0, 0, 0}};
    int32_t *lengths = (int32_t *)calloc(COUNT, sizeof *lengths);
    c.kind = TRF_DECODER_ONLY;
    c.encoder_layers = 0;
    c.decoder_layers = 1;
    c.d_model = 8; c.n_heads = 1; c.d_ff = 8;
    c.target_vocab = 12;
    c.positions = TRF_POSITIONS_NONE;
    c.max_length = COUNT;
    s.max_tokens = COUNT - 1;
    assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_OK);
    g = make(model, &s);
    batch.target.lengths = lengths;
    batch.target.count = COUNT;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_E_LIMIT);
    assert_string_equal(err.what, "beginnings");
    assert_int_equal(err.where, COUNT);
    trf_sampler_destroy(g);
    trf_model_destroy(model);
    free(lengths);
}

/* Beginnings of more rows than one pass reads (16 in this width), next to short ones: the most
   likely tokens are those of a search with one hypothesis, which reads a beginning row by row. */
static void test_long_beginnings(void **state)
{
    static kit_pairs pairs;
    trf_config c = kit_config();
    trf_sampling s = trf_sampling_defaults();
    trf_search search = trf_search_defaults();
    trf_batch batch = kit_fill(&pairs, 5, 3, 50, VOCAB, 11);
    trf_translator *t = NULL;
    trf_model *model = NULL;
    trf_sampler *g;
    trf_error err;
    int32_t i, k, most = 0;
    (void)state;
    c.kind = TRF_DECODER_ONLY;
    c.encoder_layers = 0;
    c.decoder_layers = 2;
    c.d_model = 20; c.n_heads = 2; c.d_ff = 40;
    c.target_vocab = VOCAB;
    c.max_length = 80;
    batch.source.count = 0;
    for (i = 0; i < 5; i++) if (most < batch.target.lengths[i]) most = batch.target.lengths[i];
    assert_true(most > 2 * 16);
    assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_OK);
    search.beam = 1;
    search.max_length_a = 0;
    search.max_length_b = 6;
    assert_int_equal(trf_translator_create(&t, model, &search, &err), TRF_OK);
    assert_int_equal(trf_translate(t, &batch.target, NULL, &err), TRF_OK);
    s.temperature = 0;
    s.max_tokens = 6;
    g = make(model, &s);
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_OK);
    assert_int_equal(trf_sampler_step(g, 20, NULL, &err), TRF_OK);
    for (i = 0; i < 5; i++) {
        const trf_hypothesis *one = trf_sampler_answer(g, i), *other = trf_translator_answer(t, i, 0);
        assert_int_equal(one->n, other->n);
        for (k = 0; k < one->n; k++) assert_int_equal(one->ids[k], other->ids[k]);
    }
    trf_sampler_destroy(g);
    trf_translator_destroy(t);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Options and arguments. */

static void test_options(void **state)
{
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL),
              *encoder = make_model(TRF_ENCODER_ONLY, VOCAB, NULL);
    trf_model *both = make_model(TRF_ENCODER_DECODER, VOCAB, NULL);
    trf_sampler *g = NULL;
    trf_sampling good = quick(), s;
    trf_batch batch = five();
    int32_t special = 2, one = 1;
    trf_error err;
    (void)state;
#define REFUSED(field, value) \
    s = good; s.field = value; \
    assert_int_equal(trf_sampler_create(&g, model, &s, &err), TRF_E_INVALID_ARG); \
    if (strncmp(err.what, #field, strlen(err.what))) fail_msg("%s", err.message); \
    assert_null(g)
    REFUSED(temperature, -1e-9); REFUSED(temperature, 1.1e6); REFUSED(temperature, (double)NAN);
    REFUSED(temperature, HUGE_VAL);
    REFUSED(top_k, -1); REFUSED(top_p, -0.1); REFUSED(top_p, 1.01); REFUSED(top_p, (double)NAN);
    REFUSED(min_p, -0.1); REFUSED(min_p, 1.01); REFUSED(min_p, (double)NAN);
    REFUSED(repetition_penalty, 0);
    REFUSED(repetition_penalty, -1);
    REFUSED(repetition_penalty, (double)NAN);
    REFUSED(max_tokens, 0); REFUSED(max_tokens, -1); REFUSED(min_tokens, -1); REFUSED(threads, -1);
    REFUSED(window, -1); REFUSED(allow_unk, 2); REFUSED(no_repeat_ngram, -1);
    REFUSED(banned.count, -1);
    REFUSED(ends.n, -1); REFUSED(ends.n, 17); REFUSED(ends.n = 1; s.ends.ids[0], -1);
    REFUSED(ends.n = 1; s.ends.ids[0], VOCAB);
    s = good;
    s.banned.ids = &special; s.banned.lengths = &one; s.banned.count = 1;
    assert_int_equal(trf_sampler_create(&g, model, &s, &err), TRF_E_INVALID_ARG);
    assert_non_null(strstr(err.message, "banned sequence 0 is EOS alone"));
    special = s.ends.ids[0] = 5;
    s.ends.n = 1;
    assert_int_equal(trf_sampler_create(&g, model, &s, &err), TRF_E_INVALID_ARG);
    assert_non_null(strstr(err.message, "banned sequence 0 is an end alone"));
    special = VOCAB;
    assert_int_equal(trf_sampler_create(&g, model, &s, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "banned");
    assert_int_equal(err.where, 0);
    special = 2;
    REFUSED(threads, 4097);
    s = good;
    s.hooks.alloc = kit_alloc;
    assert_int_equal(trf_sampler_create(&g, model, &s, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_sampler_create(NULL, model, &good, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_sampler_create(&g, NULL, &good, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_sampler_create(&g, encoder, &good, &err), TRF_E_STATE);
    assert_null(g);
    g = make(both, NULL);
    assert_int_equal(trf_sampler_begin(g, NULL, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_sampler_begin(NULL, &batch, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_sampler_step(NULL, 1, NULL, &err), TRF_E_INVALID_ARG);
    batch.target.count = 4;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_E_INVALID_ARG);
    batch.target.count = -1;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_E_INVALID_ARG);
    batch = five();
    batch.source.count = -1;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_E_INVALID_ARG);
    batch = five();
    batch.target.ids = &special; batch.target.lengths = &one; batch.target.count = 1;
    batch.source.count = 1;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_E_INVALID_ARG);
    special = VOCAB;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_E_INVALID_ARG);
    special = 5;
    assert_int_equal(trf_sampler_begin(g, &batch, &err), TRF_OK);
    too_many();
    trf_sampler_destroy(g);
    trf_sampler_destroy(NULL);
    trf_model_destroy(model);
    trf_model_destroy(encoder);
    trf_model_destroy(both);
}

/* -----------------------------------------------------------------------------------------------
   Text as it comes: pieces of it add up to what decoding all ids gives, and each is whole
   characters. */

typedef struct said { char text[4096]; size_t bytes; int32_t tokens, ends; } said;
static void say(void *user, int32_t sequence, int32_t id, const char *text, size_t n)
{
    said *to = (said *)user;
    size_t i = 0;
    assert_int_equal(text[n], 0);
    if (!to) return;
    to += sequence;
    while (i < n) {
        int bytes = trf__utf8_at(text + i, n - i);
        assert_true(bytes > 0);
        i += (size_t)bytes;
    }
    assert_true(to->bytes + n < sizeof to->text);
    memcpy(to->text + to->bytes, text, n + 1);
    to->bytes += n;
    to->tokens++;
    to->ends += id == 2;
}

/* <unk>, U+2581, "a", U+2581 "b", "\u00E9" and all bytes. */
static trf_vocab *byte_pieces(void)
{
    static char model[8192];
    size_t n = 0;
    trf_vocab *vocab = NULL;
    trf_error err;
    int i;
    const struct {
        const char *text;
        int type;
    } first[] = {{"<unk>", 2},
                 {"\xE2\x96\x81", 1},
                 {"a", 1},
                 {"\xE2\x96\x81"
                  "b",
                  1},
                 {"\xC3\xA9", 1},
                 {"\xE2\x96\x81\xE2\x96\x81", 1}};
    for (i = 0; i < 6 + 256; i++) {
        char text[16];
        size_t length;
        snprintf(text, sizeof text, "<0x%02X>", i - 6);
        if (i < 6) snprintf(text, sizeof text, "%s", first[i].text);
        length = strlen(text);
        model[n++] = 0x0A; model[n++] = (char)(length + 9);
        model[n++] = 0x0A; model[n++] = (char)length; memcpy(model + n, text, length); n += length;
        model[n++] = 0x15; memset(model + n, 0, 4); n += 4;
        model[n++] = 0x18; model[n++] = (char)(i < 6 ? first[i].type : 6);
    }
    memcpy(model + n, "\x12\x05\x18\x01\x98\x02\x01", 7);
    n += 7; /* unigram, byte_fallback (field 35) */
    memcpy(model + n, "\x1A\x06\x18\x01\x20\x01\x28\x01", 8); n += 8;
    if (trf__vocab_from_bytes(&vocab, TRF_SENTENCEPIECE, model, n, NULL, &err))
        fail_msg("%s", err.message);
    return vocab;
}

/* Random ids, told one by one, of any vocabulary; sometimes from a session that was loaded in
   between. */
static void check_text(trf_vocab *vocab, int32_t first, int32_t count, int rounds)
{
    static said heard[1];
    int32_t size = trf_vocab_size(vocab), ids[41], i, round;
    trf_model *model = make_model(TRF_DECODER_ONLY, size, NULL);
    trf_sampling s = quick();
    trf_sampler *g;
    assert_int_equal(trf_model_set_vocabs(model, NULL, vocab, NULL), TRF_OK);
    s.token = say;
    s.user = heard;
    g = make(model, &s);
    for (round = 0; round < rounds; round++) {
        trf__sampled story = story_of(ids, 0, 0);
        int32_t n = 1 + (int32_t)(trf__random64(2, 6, (uint64_t)round) % 30);
        char want[4096];
        size_t bytes;
        memset(heard, 0, sizeof heard);
        story.limit = 1000;
        g->sampled = &story;
        g->capacity = 1000;
        for (i = 0; i < n; i++) {
            uint64_t r = trf__random64(1, 6, (uint64_t)(round * 40 + i));
            int32_t id = r % 5 == 0 ? first + (int32_t)((r >> 8) % (uint64_t)count)
                                    : 3 + (int32_t)((r >> 8) % (uint64_t)(size - 3));
            if (r % 11 == 0) {          /* as a session that is loaded finds it */
                story.emitted = trf__complete_ids(vocab, story.ids, 0, story.n);
                story.from = 0;
            }
            assert_int_equal(trf__append_drawn(g, &story, id, 0, NULL), TRF_OK);
        }
        assert_int_equal(trf__append_drawn(g, &story, 2, 0, NULL), TRF_OK);
        assert_int_equal(heard->tokens, n + 1);
        assert_int_equal(heard->ends, 1);
        assert_int_equal(trf_vocab_decode(vocab, story.ids, n, want, sizeof want, &bytes, NULL),
                         TRF_OK);
        if (bytes != heard->bytes || memcmp(want, heard->text, bytes))
            fail_msg("round %d: told \"%s\", whole \"%s\"", (int)round, heard->text, want);
        g->sampled = NULL;
    }
    trf_sampler_destroy(g);
    trf_model_destroy(model);
    trf_vocab_destroy(vocab);
}

static void test_text(void **state)
{
    trf_vocab *words = NULL, *characters = NULL;
    (void)state;
    assert_int_equal(trf_vocab_create(&words, TRF_WORDS, NULL, NULL), TRF_OK);
    assert_int_equal(trf_vocab_learn(words, "the \xC3\xA9t\xC3\xA9 is \xE2\x82\xAC long", NULL),
                     TRF_OK);
    assert_int_equal(trf_vocab_finish(words, 100, 1, NULL), TRF_OK);
    check_text(words, 4, 3, 300);
    assert_int_equal(trf_vocab_create(&characters, TRF_CHARACTERS, NULL, NULL), TRF_OK);
    assert_int_equal(trf_vocab_learn(characters, "a\xC3\xA9 \xE2\x82\xAC\xF0\x9F\x98\x80", NULL),
                     TRF_OK);
    assert_int_equal(trf_vocab_finish(characters, 100, 1, NULL), TRF_OK);
    check_text(characters, 4, 3, 300);
    check_text(kit_pieces(NULL), 4, 2, 300);
    {
        trf_vocab *bytes = byte_pieces();
        int32_t euro = trf_vocab_id(bytes, "<0x00>") + 0xE2;
        assert_int_equal(trf_vocab_size(bytes), 4 + 5 + 256);
        check_text(bytes, 4, 5, 2000);
        check_text(byte_pieces(), euro, 1, 500);
        check_text(byte_pieces(), euro - 0xE2 + 0x80, 32, 3000);
    }
}

/* A character of four bytes is told when its last one is there, or, cut off, at the end. */
static void test_bytes_wait(void **state)
{
    static const unsigned char face[] = { 0xF0, 0x9F, 0x98, 0x80 };
    static said heard[1];
    trf_vocab *vocab = byte_pieces();
    int32_t zero = trf_vocab_id(vocab, "<0x00>"), ids[8], i;
    trf_model *model = make_model(TRF_DECODER_ONLY, trf_vocab_size(vocab), NULL);
    trf_sampling s = quick();
    trf_sampler *g;
    trf__sampled story = story_of(ids, 0, 0);
    (void)state;
    assert_int_equal(trf_model_set_vocabs(model, NULL, vocab, NULL), TRF_OK);
    memset(heard, 0, sizeof heard);
    s.token = say;
    s.user = heard;
    g = make(model, &s);
    story.limit = 1000;
    g->sampled = &story;
    g->capacity = 1000;
    for (i = 0; i < 4; i++) {
        assert_string_equal(heard->text, "");
        assert_int_equal(trf__append_drawn(g, &story, zero + face[i], 0, NULL), TRF_OK);
    }
    assert_string_equal(heard->text, "\xF0\x9F\x98\x80");
    for (i = 0; i < 2; i++)
        assert_int_equal(trf__append_drawn(g, &story, zero + face[i], 0, NULL), TRF_OK);
    assert_string_equal(heard->text, "\xF0\x9F\x98\x80");
    assert_int_equal(trf__append_drawn(g, &story, 2, 0, NULL), TRF_OK);
    assert_string_equal(heard->text, "\xF0\x9F\x98\x80\xEF\xBF\xBD\xEF\xBF\xBD");
    g->sampled = NULL;
    trf_sampler_destroy(g);
    trf_model_destroy(model);
    trf_vocab_destroy(vocab);
}

/* Bytes that cannot begin a character, or do not go on with the one that has begun, are told at
   once; a NUL too. */
static void test_bytes_do_not_wait(void **state)
{
    static const struct {
        const char *bytes;
        size_t n, told[4];
        const char *text;
        size_t whole;
    } of[] = {{"\xFE\0k", 3, {3, 4, 5}, "\xEF\xBF\xBD\0k", 5},
              {"\xF7"
               "A",
               2,
               {3, 4},
               "\xEF\xBF\xBD"
               "A",
               4},
              {"\xC1\xC2\x80", 3, {3, 3, 5}, "\xEF\xBF\xBD\xC2\x80", 5},
              {"\xE2\x82"
               "A",
               3,
               {0, 0, 7},
               "\xEF\xBF\xBD\xEF\xBF\xBD"
               "A",
               7},
              {"\xE0\x80", 2, {0, 6}, "\xEF\xBF\xBD\xEF\xBF\xBD", 6},
              {"\xED\xA0\x80", 3, {0, 6, 9}, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 9},
              {"\xF4\x90", 2, {0, 6}, "\xEF\xBF\xBD\xEF\xBF\xBD", 6},
              {"\xF0\x8F\x80", 3, {0, 6, 9}, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 9},
              {"\xF5", 1, {3}, "\xEF\xBF\xBD", 3},
              {"\xE2\xE2\x82\xAC", 4, {0, 3, 3, 6}, "\xEF\xBF\xBD\xE2\x82\xAC", 6}};
    static said heard[1];
    trf_vocab *vocab = byte_pieces();
    int32_t zero = trf_vocab_id(vocab, "<0x00>"), ids[8];
    trf_model *model = make_model(TRF_DECODER_ONLY, trf_vocab_size(vocab), NULL);
    trf_sampling s = quick();
    trf_sampler *g;
    size_t k, i;
    (void)state;
    assert_int_equal(trf_model_set_vocabs(model, NULL, vocab, NULL), TRF_OK);
    s.token = say;
    s.user = heard;
    g = make(model, &s);
    for (k = 0; k < sizeof of / sizeof *of; k++) {
        trf__sampled story = story_of(ids, 0, 0);
        memset(heard, 0, sizeof heard);
        story.limit = 1000;
        g->sampled = &story;
        g->capacity = 1000;
        for (i = 0; i < of[k].n; i++) {
            assert_int_equal(trf__append_drawn(g, &story, zero + (unsigned char)of[k].bytes[i], 0,
                                               NULL),
                             TRF_OK);
            assert_int_equal(heard->bytes, of[k].told[i]);
        }
        assert_int_equal(heard->bytes, of[k].whole);
        assert_memory_equal(heard->text, of[k].text, of[k].whole);
    }
    g->sampled = NULL;
    trf_sampler_destroy(g);
    trf_model_destroy(model);
    trf_vocab_destroy(vocab);
}

/* Through the model, with a callback for each of several sequences. */
static void test_callback(void **state)
{
    static said heard[5];
    trf_vocab *vocab = NULL;
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    trf_batch batch = five();
    trf_sampler *g;
    int32_t i;
    (void)state;
    assert_int_equal(trf_vocab_create(&vocab, TRF_CHARACTERS, NULL, NULL), TRF_OK);
    assert_int_equal(trf_vocab_learn(vocab, "abcdefghi\xC3\xA9\xE2\x82\xACklmnopqr", NULL), TRF_OK);
    assert_int_equal(trf_vocab_finish(vocab, VOCAB, 1, NULL), TRF_OK);
    assert_int_equal(trf_model_set_vocabs(model, NULL, vocab, NULL), TRF_OK);
    memset(heard, 0, sizeof heard);
    s.token = say;
    s.user = heard;
    g = make(model, &s);
    run(g, &batch, 3);
    for (i = 0; i < 5; i++) {
        const trf_hypothesis *h = trf_sampler_answer(g, i);
        char want[4096];
        assert_int_equal(trf_vocab_decode(vocab, h->ids, h->n, want, sizeof want, NULL, NULL),
                         TRF_OK);
        assert_string_equal(heard[i].text, want);
        assert_int_equal(heard[i].tokens, h->n + (h->ended == TRF_ENDED_EOS));
        assert_int_equal(heard[i].ends, h->ended == TRF_ENDED_EOS);
    }
    trf_sampler_destroy(g);
    trf_model_destroy(model);
    trf_vocab_destroy(vocab);
}

/* Most tokens are bytes of characters: a session that is saved in the middle of one goes on with
   the rest of it. */
static void test_session_of_bytes(void **state)
{
    static said before[5], after[5];
    trf_vocab *vocab = byte_pieces();
    int32_t zero = trf_vocab_id(vocab, "<0x00>"), size = trf_vocab_size(vocab), i, cut, waiting = 0;
    trf_model *model = make_model(TRF_DECODER_ONLY, size, NULL);
    trf_tensor bias;
    trf_sampling s = quick();
    trf_batch batch = five();
    trf_sampler *g, *other;
    (void)state;
    assert_int_equal(trf_model_set_vocabs(model, NULL, vocab, NULL), TRF_OK);
    bias = kit_open(trf_model_parameter(model, trf_model_parameter_index(model, "generator.bias")));
    for (i = 0x80; i < 0xF5; i++) bias.data[zero + i] = 6;
    bias.data[zero] = -60;                              /* would end a text */
    kit_close(&bias);
    s.token = say;
    s.user = before;
    g = make(model, &s);
    s.user = after;
    other = make(model, &s);
    for (cut = 0; cut <= 20; cut++) {
        int32_t live = 1;
        memset(before, 0, sizeof before);
        assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
        assert_int_equal(trf_sampler_step(g, cut, NULL, NULL), TRF_OK);
        memcpy(after, before, sizeof after);
        for (i = 0; i < 5; i++) waiting += g->sampled[i].emitted < trf_sampler_answer(g, i)->n;
        assert_int_equal(trf_sampler_save(g, path, NULL), TRF_OK);
        assert_int_equal(trf_sampler_load(other, path, NULL), TRF_OK);
        while (live) assert_int_equal(trf_sampler_step(other, 1, &live, NULL), TRF_OK);
        for (i = 0; i < 5; i++) {
            const trf_hypothesis *h = trf_sampler_answer(other, i);
            char want[4096];
            assert_int_equal(trf_vocab_decode(vocab, h->ids, h->n, want, sizeof want, NULL, NULL),
                             TRF_OK);
            assert_string_equal(after[i].text, want);
        }
    }
    assert_true(waiting > 10);
    trf_sampler_destroy(g);
    trf_sampler_destroy(other);
    trf_model_destroy(model);
    trf_vocab_destroy(vocab);
}

/* A text that finds no memory: what has been drawn stays, and the next step draws the token again.
 */
static void test_text_without_memory(void **state)
{
    static said heard[5], whole[5];
    kit_memory memory;
    trf_vocab *vocab = NULL;
    trf_model *model = make_model(TRF_DECODER_ONLY, VOCAB, NULL);
    trf_sampling s = quick();
    trf_batch batch = five();
    char word[64];
    uint64_t want = 0;
    int32_t i, k, failed = 1;
    (void)state;
    assert_int_equal(trf_vocab_create(&vocab, TRF_WORDS, NULL, NULL), TRF_OK);
    for (i = 0; i < VOCAB - 4; i++) {
        memset(word, 'a' + i, (size_t)(2 * i + 1));
        word[2 * i + 1] = 0;
        assert_int_equal(trf_vocab_learn(vocab, word, NULL), TRF_OK);
    }
    assert_int_equal(trf_vocab_finish(vocab, VOCAB, 1, NULL), TRF_OK);
    assert_int_equal(trf_model_set_vocabs(model, NULL, vocab, NULL), TRF_OK);
    s.hooks = kit_hooks(&memory);
    s.token = say;
    s.user = heard;
    for (k = 0; failed || k == 1; k++) {        /* round 0 without a failure */
        trf_sampler *g = make(model, &s);
        int32_t live = 1;
        failed = 0;
        memset(heard, 0, sizeof heard);
        assert_int_equal(trf_sampler_begin(g, &batch, NULL), TRF_OK);
        memory.fail_at = k ? memory.calls + k : 0;
        while (live) {
            trf_status status = trf_sampler_step(g, 1, &live, NULL);
            if (status == TRF_OK) continue;
            assert_int_equal(status, TRF_E_NOMEM);
            failed++;
            live = 1;
        }
        if (k == 0) {
            want = hash_stories(HASH_START, g, 0, 5);
            memcpy(whole, heard, sizeof whole);
        }
        assert_true(hash_stories(HASH_START, g, 0, 5) == want);
        for (i = 0; i < 5; i++) {
            assert_string_equal(heard[i].text, whole[i].text);
            assert_int_equal(heard[i].tokens, whole[i].tokens);
        }
        trf_sampler_destroy(g);
    }
    assert_true(k > 3);
    trf_model_destroy(model);
    trf_vocab_destroy(vocab);
}

/* -----------------------------------------------------------------------------------------------
   Two generators of one model in two threads. */

typedef struct worker { const trf_model *model; uint64_t hash; } worker;
static void *work(void *argument)
{
    worker *w = (worker *)argument;
    trf_sampling s = quick();
    trf_batch batch = five();
    trf_sampler *g = make(w->model, &s);
    int i;
    for (i = 0; i < 5; i++) w->hash = run(g, &batch, 2);
    trf_sampler_destroy(g);
    return NULL;
}

static void test_two_threads(void **state)
{
    trf_model *model = make_model(TRF_ENCODER_DECODER, VOCAB, NULL);
    worker workers[2] = { { model, 1 }, { model, 2 } };
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, work, &workers[1]), 0);
    work(&workers[0]);
    pthread_join(thread, NULL);
    assert_true(workers[0].hash == workers[1].hash);
    trf_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules),
                                       cmocka_unit_test(test_most_likely),
                                       cmocka_unit_test(test_filters_of_many),
        cmocka_unit_test(test_a_likelier_token),
        cmocka_unit_test(test_levels), cmocka_unit_test(test_room),
        cmocka_unit_test(test_filters),
                                       cmocka_unit_test(test_golden),
                                       cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_greedy),
                                       cmocka_unit_test(test_log_probability),
                                       cmocka_unit_test(test_same_text),
                                       cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_nonfinite),
                                       cmocka_unit_test(test_sessions),
                                       cmocka_unit_test(test_hostile_sessions),
                                       cmocka_unit_test(test_format_1),
        cmocka_unit_test(test_rules_of_a_session),
                                       cmocka_unit_test(test_window),
                                       cmocka_unit_test(test_bos_is_eos),
                                       cmocka_unit_test(test_bare_prompts),
                                       cmocka_unit_test(test_rows_of_many_passes),
                                       cmocka_unit_test(test_no_window),
                                       cmocka_unit_test(test_window_cancelled),
                                       cmocka_unit_test(test_cancel),
                                       cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_options),
                                       cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_bytes_wait),
                                       cmocka_unit_test(test_bytes_do_not_wait),
                                       cmocka_unit_test(test_callback),
                                       cmocka_unit_test(test_session_of_bytes),
                                       cmocka_unit_test(test_text_without_memory),
                                       cmocka_unit_test(test_long_beginnings),
                                       cmocka_unit_test(test_two_threads)};
    int failed, file;
    file = mkstemp(path);
    if (file < 0) return 1;
    close(file);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}

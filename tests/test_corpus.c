/* build: shared plain:shared */
/* The corpus: every pair once an epoch, budgets, orders, resuming at every batch, and every
   allocation failing once. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"

/* -----------------------------------------------------------------------------------------------
   A data set: pair p has the ids p, p * 7 + 1, p * 7 + 2, ... on the source and p, p * 5 + 1, ...
   on the target side, so a delivered pair tells its number and can be checked. Lengths 1 to 25,
   many short, and two long pairs. */
enum { PAIRS = 300, LONG_A = 17, LONG_B = 230, MOST_BATCHES = 3 * PAIRS };
static int32_t source_length[PAIRS], target_length[PAIRS];

static int32_t source_id(int32_t p, int32_t i) { return i ? p * 7 + i : p; }
static int32_t target_id(int32_t p, int32_t i) { return i ? p * 5 + i : p; }

static void make_lengths(void)
{
    int32_t p;
    for (p = 0; p < PAIRS; p++) {
        uint64_t x = trf__random64(5, 1, (uint64_t)p);
        source_length[p] =
            1 + (int32_t)(x % 5) + (int32_t)((x >> 8) % 5) * (int32_t)((x >> 16) % 5);
        target_length[p] = 1 + (source_length[p] + (int32_t)((x >> 24) % 3)) % 25;
    }
    source_length[LONG_A] = 90;
    target_length[LONG_B] = 120;
}

static trf_status add_pair(trf_corpus *c, int32_t p)
{
    int32_t source[128], target[128], i;
    for (i = 0; i < source_length[p]; i++) source[i] = source_id(p, i);
    for (i = 0; i < target_length[p]; i++) target[i] = target_id(p, i);
    return trf_corpus_add(c, source, source_length[p], target, target_length[p], &err);
}

static trf_corpus *filled(const trf_corpus_options *o)
{
    trf_corpus *c;
    int32_t p;
    OK(trf_corpus_create(&c, o, &err));
    for (p = 0; p < PAIRS; p++) OK(add_pair(c, p));
    assert_int_equal(trf_corpus_facts(c)->pairs, PAIRS);
    return c;
}

/* Checks the ids of a batch and writes the numbers of its pairs. Every check is an assertion. */
static int32_t read_batch(const trf_batch *b, int32_t *pairs)
{
    const int32_t *s = b->source.ids, *t = b->target.ids;
    int32_t k, i;
    assert_true(b->source.count > 0 && b->source.count == b->target.count && b->ordinal == 0);
    for (k = 0; k < b->source.count; k++) {
        int32_t p = *s;
        assert_true(p >= 0 && p < PAIRS && *t == p);
        assert_int_equal(b->source.lengths[k], source_length[p]);
        assert_int_equal(b->target.lengths[k], target_length[p]);
        for (i = 0; i < source_length[p]; i++) assert_int_equal(*s++, source_id(p, i));
        for (i = 0; i < target_length[p]; i++) assert_int_equal(*t++, target_id(p, i));
        pairs[k] = p;
    }
    return b->source.count;
}

/* An epoch as the corpus delivers it: numbers of pairs, one after another, and where batches begin.
 */
typedef struct epoch { int32_t pairs[PAIRS], first[PAIRS + 1], n_batches; } epoch;

static epoch play(trf_corpus *c)
{
    epoch e;
    int64_t number = trf_corpus_facts(c)->epoch;
    int32_t n = 0;
    memset(&e, 0, sizeof e);
    while (trf_corpus_facts(c)->epoch == number) {
        trf_batch b;
        int32_t pairs[PAIRS], k;
        OK(trf_corpus_next(c, &b, &err));
        assert_true(e.n_batches < PAIRS && b.source.count <= PAIRS - n);
        e.first[e.n_batches++] = n;
        k = read_batch(&b, pairs);
        memcpy(e.pairs + n, pairs, (size_t)k * sizeof *pairs);
        n += k;
    }
    assert_int_equal(trf_corpus_facts(c)->epoch, number + 1);
    assert_int_equal(n, PAIRS);
    e.first[e.n_batches] = n;
    return e;
}

/* Does a batch of these pairs keep the limits? Written from the documentation of the options. */
static int fits(const trf_corpus_options *o, const int32_t *pairs, int32_t n)
{
    int64_t source = 0, target = 0, longest = 0;
    int32_t k;
    for (k = 0; k < n; k++) {
        source += source_length[pairs[k]] + 1;
        target += target_length[pairs[k]] + 1;
        if (longest < source_length[pairs[k]] + 1) longest = source_length[pairs[k]] + 1;
        if (longest < target_length[pairs[k]] + 1) longest = target_length[pairs[k]] + 1;
    }
    if (n > o->batch_sentences) return 0;
    return o->padded_budget ? longest * n <= o->batch_tokens
                            : source <= o->batch_tokens && target <= o->batch_tokens;
}

static int shorter(int32_t p, int32_t q)
{
    if (target_length[p] != target_length[q]) return target_length[p] < target_length[q];
    return source_length[p] < source_length[q];
}

/* -----------------------------------------------------------------------------------------------
 */
static void options(void **state)
{
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *c = (trf_corpus *)&err;
    kit_memory h;
    trf_hooks hooks = kit_hooks(&h);
    (void)state;
    assert_true(o.batch_tokens == 4096 && o.batch_sentences == 1024 && o.padded_budget == 0 && o.pool == 0 &&
                o.shuffle == 1);
    assert_true(o.buckets == 1 && o.max_length == 511 && o.epochs == TRF_ENDLESS && o.seed == 0 &&
                !o.hooks.alloc);
#define REFUSED(field, value) \
    do { \
        c = (trf_corpus *)&err; \
        o = trf_corpus_defaults(); \
        o.hooks = hooks; \
        o.field = value; \
        FAILS(trf_corpus_create(&c, &o, &err), TRF_E_INVALID_ARG, #field, -1); \
        assert_null(c); \
    } while (0)
    REFUSED(batch_tokens, 0);
    REFUSED(batch_tokens, -1);
    REFUSED(batch_sentences, 0);
    REFUSED(padded_budget, 2);
    REFUSED(pool, -1);
    REFUSED(pool, (1 << 20) + 1);
    REFUSED(shuffle, -1);
    REFUSED(buckets, 2);
    REFUSED(max_length, 0);
    REFUSED(epochs, 0);
    REFUSED(epochs, INT64_MIN);
    assert_int_equal(h.calls, 0);
    FAILS(trf_corpus_create(NULL, &o, &err), TRF_E_INVALID_ARG, "corpus", -1);
    assert_int_equal(trf_corpus_create(&c, NULL, NULL), TRF_OK);
    assert_int_equal(c->options.batch_tokens, 4096);
    trf_corpus_destroy(c);
    trf_corpus_destroy(NULL);
    assert_null(trf_corpus_facts(NULL));
}

static void adding(void **state)
{
    trf_corpus_options o = trf_corpus_defaults();
    int32_t ids[8] = { 4, 5, 6, 7, 8, 9, 10, 11 };
    trf_corpus *c;
    trf_batch b;
    uint64_t before;
    (void)state;
    o.max_length = 5;
    o.shuffle = o.buckets = 0;
    OK(trf_corpus_create(&c, &o, &err));
    before = trf__corpus_fingerprint(c);
    FAILS(trf_corpus_add(NULL, ids, 1, ids, 1, &err), TRF_E_INVALID_ARG, "corpus", -1);
    FAILS(trf_corpus_add(c, NULL, 1, ids, 1, &err), TRF_E_INVALID_ARG, "source", -1);
    FAILS(trf_corpus_add(c, ids, 1, NULL, 1, &err), TRF_E_INVALID_ARG, "target", -1);
    FAILS(trf_corpus_add(c, ids, -1, ids, 1, &err), TRF_E_INVALID_ARG, "n_source", -1);
    FAILS(trf_corpus_add(c, ids, 1, ids, -1, &err), TRF_E_INVALID_ARG, "n_target", -1);
    FAILS(trf_corpus_add(c, ids, 6, ids, 1, &err), TRF_E_LIMIT, "n_source", 5);
    FAILS(trf_corpus_add(c, ids, 1, ids, 8, &err), TRF_E_LIMIT, "n_target", 5);
    ids[2] = -2;        /* labels may be any numbers */
    FAILS(trf_corpus_add(c, ids, 5, ids, 1, &err), TRF_E_INVALID_ARG, "source", 2);
    ids[2] = 6;
    c->facts.pairs = INT32_MAX;
    FAILS(trf_corpus_add(c, ids, 1, ids, 1, &err), TRF_E_LIMIT, "corpus", -1);
    c->facts.pairs = 0;
    assert_int_equal(trf_corpus_facts(c)->pairs, 0);
    assert_true(before == trf__corpus_fingerprint(c));
    FAILS(trf_corpus_next(c, &b, &err), TRF_E_STATE, "corpus", -1);         /* nothing there */
    FAILS(trf_corpus_next(NULL, &b, &err), TRF_E_INVALID_ARG, "corpus", -1);
    FAILS(trf_corpus_next(c, NULL, &err), TRF_E_INVALID_ARG, "batch", -1);

    OK(trf_corpus_add(c, NULL, 0, NULL, 0, &err)); /* empty sequences are sequences */
    OK(trf_corpus_add(c, ids, 5, NULL, 0, &err));
    OK(trf_corpus_add(c, NULL, 0, ids + 1, 5, &err));
    memset(ids, 0, sizeof ids); /* the corpus has copies */
    assert_int_equal(trf_corpus_facts(c)->pairs, 3);
    OK(trf_corpus_next(c, &b, &err));
    assert_int_equal(b.source.count, 3);
    assert_true(b.source.lengths[0] == 0 && b.source.lengths[1] == 5 && b.source.lengths[2] == 0);
    assert_true(b.target.lengths[0] == 0 && b.target.lengths[1] == 0 && b.target.lengths[2] == 5);
    assert_true(b.source.ids[0] == 4 && b.source.ids[4] == 8 && b.target.ids[0] == 5 &&
                b.target.ids[4] == 9);
    FAILS(trf_corpus_add(c, ids, 1, ids, 1, &err), TRF_E_STATE, "corpus", -1);
    assert_int_equal(trf_corpus_facts(c)->pairs, 3);
    trf_corpus_destroy(c);

    OK(trf_corpus_create(&c, NULL, &err)); /* nothing but empty pairs */
    OK(trf_corpus_add(c, NULL, 0, NULL, 0, &err));
    OK(trf_corpus_next(c, &b, &err));
    assert_true(b.source.count == 1 && b.source.lengths[0] == 0 && b.target.lengths[0] == 0);
    assert_true(b.source.ids && b.target.ids);
    assert_int_equal(trf_corpus_facts(c)->epoch, 1);
    trf_corpus_destroy(c);
}

static void every_pair_once_within_budget(void **state)
{
    int n, number;
    (void)state;
    for (n = 0; n < KIT_CORPORA; n++) {
        trf_corpus_options o = kit_corpus(n);
        trf_corpus *c = filled(&o);
        for (number = 0; number < 3; number++) {
            int seen[PAIRS] = { 0 };
            epoch e = play(c);
            int32_t i, b;
            for (i = 0; i < PAIRS; i++) assert_int_equal(seen[e.pairs[i]]++, 0);
            for (b = 0; b < e.n_batches; b++) {
                int32_t size = e.first[b + 1] - e.first[b];
                assert_true(size == 1 || fits(&o, e.pairs + e.first[b], size));
                /* No batch ends too early: its next pair, where we know it, would have broken a
                   limit. */
                if (!(o.buckets && o.shuffle) && b + 1 < e.n_batches)
                    assert_false(fits(&o, e.pairs + e.first[b], size + 1));
            }
        }
        trf_corpus_destroy(c);
    }
}

static void unshuffled_orders(void **state)
{
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *c;
    int32_t i;
    epoch e, again;
    (void)state;
    o.shuffle = 0;
    o.batch_tokens = 200;
    for (o.buckets = 0; o.buckets < 2; o.buckets++) {
        c = filled(&o);
        e = play(c);
        for (i = 0; !o.buckets && i < PAIRS; i++) assert_int_equal(e.pairs[i], i);
        for (i = 1; o.buckets && i < PAIRS; i++) {      /* by target, then source, then as added */
            int32_t p = e.pairs[i - 1], q = e.pairs[i];
            assert_true(shorter(p, q) || (!shorter(q, p) && p < q));
        }
        again = play(c);
        assert_memory_equal(&e, &again, sizeof e);
        trf_corpus_destroy(c);
    }
}

static void shuffled_orders(void **state)
{
    trf_corpus_options o = trf_corpus_defaults();
    (void)state;
    o.batch_tokens = 200;
    for (o.buckets = 0; o.buckets < 2; o.buckets++) {
        trf_corpus *c, *same, *other;
        epoch first, second;
        int32_t i, b, falls = 0, swapped = 0;
        o.seed = 1;
        c = filled(&o);
        same = filled(&o);
        o.seed = 2;
        other = filled(&o);
        first = play(c);
        second = play(same);
        assert_memory_equal(&first, &second, sizeof first); /* the same seed, the same order */
        second = play(other);
        assert_memory_not_equal(first.pairs, second.pairs, sizeof first.pairs);
        second = play(c);
        assert_memory_not_equal(first.pairs, second.pairs,
                                sizeof first.pairs); /* another epoch, another order */
        for (b = 1; o.buckets && b < first.n_batches; b++)
            falls += shorter(first.pairs[first.first[b]], first.pairs[first.first[b - 1]]);
        for (b = 0; o.buckets && b < first.n_batches; b++)
            for (i = first.first[b] + 1; i < first.first[b + 1]; i++) {
                assert_false(shorter(first.pairs[i], first.pairs[i - 1]));
                swapped += !shorter(first.pairs[i - 1], first.pairs[i]) &&
                           first.pairs[i] < first.pairs[i - 1];
            }
        for (i = 1; !o.buckets && i < PAIRS; i++) falls += first.pairs[i] < first.pairs[i - 1];
        if (o.buckets) {
            assert_true(first.n_batches > 15 && swapped > 10);
            assert_true(4 * falls > first.n_batches && 4 * falls < 3 * first.n_batches);
        } else assert_true(falls > PAIRS / 3 && falls < 2 * PAIRS / 3);
        trf_corpus_destroy(c);
        trf_corpus_destroy(same);
        trf_corpus_destroy(other);
    }
}

/* The shapes of batches do not depend on the shuffling of equals, so a plain program can foretell
   them. It cuts as common PyTorch loops do: sort, then close a batch when (longest + 1) * pairs
   would be more than the budget. */
static void buckets_as_foretold(void **state)
{
    trf_corpus_options o = trf_corpus_defaults();
    int32_t order[PAIRS], size[PAIRS], n_batches = 0, begin, i, k;
    trf_corpus *c;
    epoch e;
    (void)state;
    o.padded_budget = 1;
    o.batch_tokens = 256;
    for (i = 0; i < PAIRS; i++) {
        for (k = i; k > 0 && shorter(i, order[k - 1]); k--) order[k] = order[k - 1];
        order[k] = i;
    }
    for (begin = 0; begin < PAIRS; begin += size[n_batches++]) {
        int32_t longest = 0, n = 0;
        while (begin + n < PAIRS) {
            int32_t p = order[begin + n], more = longest;
            if (more < source_length[p] + 1) more = source_length[p] + 1;
            if (more < target_length[p] + 1) more = target_length[p] + 1;
            if (n > 0 && more * (n + 1) > 256) break;
            longest = more;
            n++;
        }
        size[n_batches] = n;
    }
    c = filled(&o);
    for (k = 0; k < 3; k++) {
        int32_t place[PAIRS] = { 0 }, b;
        e = play(c);
        assert_int_equal(e.n_batches, n_batches);
        for (b = 0; b < e.n_batches;
             b++) { /* find each batch among the foretold ones by its shape */
            int32_t found = -1, at = 0;
            for (i = 0; i < n_batches && found < 0; at += size[i++]) {
                int32_t j;
                if (place[i] || size[i] != e.first[b + 1] - e.first[b]) continue;
                for (j = 0; j < size[i]; j++) {
                    int32_t p = order[at + j], q = e.pairs[e.first[b] + j];
                    if (shorter(p, q) || shorter(q, p)) break;
                }
                if (j == size[i]) found = i;
            }
            assert_true(found >= 0);
            place[found] = 1;
        }
    }
    trf_corpus_destroy(c);
}

static void shuffling_is_fair(void **state)
{
    enum { ROUNDS = 48000 };
    int count[24] = { 0 };
    double chi = 0;
    trf__draws draws;
    int i, k, j;
    (void)state;
    for (i = 0; i < ROUNDS; i++) {
        int32_t items[4] = { 0, 1, 2, 3 };
        int code = 0;
        trf__shuffle(items, 4, trf__random64(9, 0, (uint64_t)i), TRF__SHUFFLE_PAIRS);
        for (k = 0; k < 4; k++) {                       /* number of the permutation */
            int smaller = 0;
            for (j = k + 1; j < 4; j++) smaller += items[j] < items[k];
            code = code * (4 - k) + smaller;
        }
        count[code]++;
    }
    for (i = 0; i < 24; i++)
        chi += (count[i] - ROUNDS / 24.0) * (count[i] - ROUNDS / 24.0) / (ROUNDS / 24.0);
    assert_true(chi < 60); /* 23 degrees of freedom: one chance in 30,000 */

    draws.key = 3; /* unbiased: n = 2^63 + 1 throws away about half of the draws */
    draws.stream = 0;
    draws.next = 0;
    for (i = 0; i < 1000; i++)
        assert_true(trf__draw_below(&draws, ((uint64_t)1 << 63) + 1) <= (uint64_t)1 << 63);
    assert_true(draws.next > 1800 && draws.next < 2200);
    draws.next = 0;
    for (i = 0; i < 1000; i++) assert_true(trf__draw_below(&draws, 1 + (uint64_t)i) <= (uint64_t)i);
    assert_int_equal(draws.next, 1000);
    trf__shuffle(NULL, 0, 1, 0);
}

static double padding(const epoch *e) /* filled cells over real tokens, both sides */
{
    int64_t cells = 0, tokens = 0;
    int32_t b, i;
    for (b = 0; b < e->n_batches; b++) {
        int32_t s = 0, t = 0, n = e->first[b + 1] - e->first[b];
        for (i = e->first[b]; i < e->first[b + 1]; i++) {
            int32_t p = e->pairs[i];
            if (s < source_length[p]) s = source_length[p];
            if (t < target_length[p]) t = target_length[p];
            tokens += source_length[p] + target_length[p];
        }
        cells += (int64_t)n * (s + t);
    }
    return (double)cells / (double)tokens - 1;
}

static void buckets_save_padding(void **state)
{
    trf_corpus_options o = trf_corpus_defaults();
    double waste[2];
    (void)state;
    o.batch_tokens = 200;
    for (o.buckets = 0; o.buckets < 2; o.buckets++) {
        trf_corpus *c = filled(&o);
        epoch e = play(c);
        waste[o.buckets] = padding(&e);
        trf_corpus_destroy(c);
    }
    assert_true(waste[0] > 1 && waste[1] < 0.25);       /* filling per token: 1.7 and 0.2 */
}

static void epochs_end(void **state)
{
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *c;
    trf_batch b, none;
    int i;
    (void)state;
    o.epochs = 2;
    o.batch_tokens = 500;
    c = filled(&o);
    assert_int_equal(trf_corpus_facts(c)->epoch, 0);
    for (i = 0; i < 2; i++) (void)play(c);
    assert_int_equal(trf_corpus_facts(c)->epoch, 2);
    memset(&none, 0, sizeof none);
    for (i = 0; i < 3; i++) { /* a batch that there is not has no pairs, and no pointers */
        memset(&b, 0x33, sizeof b);
        FAILS(trf_corpus_next(c, &b, &err), TRF_E_END, "epochs", -1);
        assert_memory_equal(&b, &none, sizeof b);
    }
    memset(&b, 0x33, sizeof b);
    assert_int_equal(trf_corpus_next(NULL, &b, NULL), TRF_E_INVALID_ARG);
    assert_memory_equal(&b, &none, sizeof b);
    assert_int_equal(trf_corpus_facts(c)->epoch, 2);
    DONE(trf__corpus_seek(c, 1, 0, &err));                /* and back again */
    (void)play(c);
    FAILS(trf_corpus_next(c, &b, &err), TRF_E_END, "epochs", -1);
    trf_corpus_destroy(c);
}

/* -----------------------------------------------------------------------------------------------
 */
typedef struct step { int64_t epoch, batch; int32_t n, pairs[PAIRS]; } step;

/* Where the next batch stands. */
static void position_of(const trf_corpus *c, int64_t *epoch_now, int64_t *batch_now)
{
    trf_place place = trf__corpus_place(c);
    *epoch_now = place.epoch;
    *batch_now = place.batch;
}

static void check_step(trf_corpus *c, const step *wanted)
{
    trf_batch b;
    int32_t pairs[PAIRS];
    int64_t epoch_now, batch_now;
    position_of(c, &epoch_now, &batch_now);
    assert_true(epoch_now == wanted->epoch && batch_now == wanted->batch);
    OK(trf_corpus_next(c, &b, &err));
    assert_int_equal(read_batch(&b, pairs), wanted->n);
    assert_memory_equal(pairs, wanted->pairs, (size_t)wanted->n * sizeof *pairs);
}

static void resuming(void **state)
{
    static step steps[MOST_BATCHES + 1];
    int n;
    (void)state;
    for (n = 16; n < 56; n++) {
        trf_corpus_options o = kit_corpus(n);
        trf_corpus *c = filled(&o), *jumping = filled(&o);
        uint64_t fingerprint = trf__corpus_fingerprint(c);
        int32_t n_steps = 0, i, k;
        while (trf_corpus_facts(c)->epoch < 3) {
            trf_batch b;
            step *s = &steps[n_steps++];
            assert_true(n_steps <= MOST_BATCHES);
            position_of(c, &s->epoch, &s->batch);
            OK(trf_corpus_next(c, &b, &err));
            s->n = read_batch(&b, s->pairs);
            assert_true(trf__corpus_fingerprint(c) == fingerprint);
        }
        for (i = 0; i < n_steps; i++) {
            trf_corpus *fresh = NULL;
            if (i % 16 == 0)
                fresh = filled(&o); /* a corpus that has delivered nothing, as after a restart */
            for (k = 0; k < 2; k++) {                   /* to and fro in one that has */
                const step *s = &steps[k ? i : i * 7 % n_steps];
                DONE(trf__corpus_seek(jumping, s->epoch, s->batch, &err));
                check_step(jumping, s);
            }
            for (k = 1; k < 3 && i + k < n_steps; k++) check_step(jumping, &steps[i + k]);
            if (fresh) {
                DONE(trf__corpus_seek(fresh, steps[i].epoch, steps[i].batch, &err));
                assert_int_equal(trf_corpus_facts(fresh)->epoch, steps[i].epoch);
                for (k = 0; k < 40 && i + k < n_steps; k++) check_step(fresh, &steps[i + k]);
                assert_true(trf__corpus_fingerprint(fresh) == fingerprint);
                trf_corpus_destroy(fresh);
            }
        }
        trf_corpus_destroy(c);
        trf_corpus_destroy(jumping);
    }
}

/* -----------------------------------------------------------------------------------------------
   Pools, beside a plan that is written from their description: the numbers of the pairs of an
   epoch, batch after batch. Pair p of MANY has the ids p, p, ... */
enum { MANY = 4 * 1024 + 300 };
typedef struct plan { int32_t pairs[MANY], first[MANY + 1], n, n_batches; } plan;
static int32_t many_length(int32_t p, int side)
{
    return 1 + (int32_t)(trf__random64(11, (uint32_t)side, (uint64_t)p) % (side ? 9 : 6));
}

/* Equal lengths keep their places in `pairs`: `place` has them. */
static int32_t place[MANY];
static int by_lengths(const void *a, const void *b)
{
    int32_t p = *(const int32_t *)a, q = *(const int32_t *)b;
    int32_t by_target = many_length(p, 1) - many_length(q, 1);
    int32_t by_source = many_length(p, 0) - many_length(q, 0);
    return by_target ? by_target : by_source ? by_source : place[p] - place[q];
}

/* Plans n pairs as one pool, behind what is planned already. */
static void plan_pool(plan *all, int32_t *pairs, int32_t n, const trf_corpus_options *o,
                      uint64_t key)
{
    static int32_t order[MANY], begins[MANY + 1];
    int32_t i, k, n_batches = 0, source = 0, target = 0;
    if (o->shuffle) trf__shuffle(pairs, n, key, TRF__SHUFFLE_PAIRS);
    for (i = 0; i < n; i++) place[pairs[i]] = i;
    if (o->buckets) qsort(pairs, (size_t)n, sizeof *pairs, by_lengths);
    for (i = 0; i < n; i++) {
        int32_t s = many_length(pairs[i], 0) + 1, t = many_length(pairs[i], 1) + 1;
        if (i == 0 || source + s > o->batch_tokens || target + t > o->batch_tokens) {
            order[n_batches] = n_batches;
            begins[n_batches++] = i;
            source = target = 0;
        }
        source += s;
        target += t;
    }
    begins[n_batches] = n;
    if (o->shuffle && o->buckets) trf__shuffle(order, n_batches, key, TRF__SHUFFLE_BATCHES);
    for (k = 0; k < n_batches; k++) {
        all->first[all->n_batches++] = all->n;
        for (i = begins[order[k]]; i < begins[order[k] + 1]; i++) all->pairs[all->n++] = pairs[i];
    }
    all->first[all->n_batches] = all->n;
}

static void plan_epoch(plan *all, const trf_corpus_options *o, int64_t number)
{
    uint64_t key = trf__random64(o->seed, TRF__SHUFFLE_EPOCH, (uint64_t)number);
    static int32_t pairs[MANY];
    int32_t blocks[5] = {0, 1, 2, 3, 4}, pool, n, b, k, i;
    memset(all, 0, sizeof *all);
    if (o->shuffle) trf__shuffle(blocks, 5, key, TRF__SHUFFLE_BLOCKS);
    for (pool = 0; pool * o->pool < 5; pool++) {
        for (n = b = 0; b < 5; b++)                     /* of this pool, by their numbers */
            for (k = pool * o->pool; k < (pool + 1) * o->pool && k < 5; k++)
                for (i = b * 1024; blocks[k] == b && i < (b + 1) * 1024 && i < MANY; i++)
                    pairs[n++] = i;
        plan_pool(all, pairs, n, o, trf__random64(key, TRF__SHUFFLE_POOL, (uint64_t)pool));
    }
    assert_int_equal(all->n, MANY);
}

static void check_planned(trf_corpus *c, const plan *all, int64_t batch)
{
    trf_batch b;
    const int32_t *id;
    int32_t i;
    OK(trf_corpus_next(c, &b, &err));
    assert_true(b.place.batch == batch);
    assert_int_equal(b.source.count, all->first[batch + 1] - all->first[batch]);
    for (id = b.source.ids, i = 0; i < b.source.count; id += b.source.lengths[i++]) {
        int32_t p = all->pairs[all->first[batch] + i];
        assert_int_equal(*id, p);
        assert_int_equal(b.source.lengths[i], many_length(p, 0));
        assert_int_equal(b.target.lengths[i], many_length(p, 1));
    }
}

static void pools(void **state)
{
    static plan all;
    int n, differ = 0;
    (void)state;
    for (n = 0; n < 16; n++) {
        trf_corpus_options o = trf_corpus_defaults();
        trf_corpus *c;
        int32_t ids[9], p, i, batches[2];
        int64_t number, b, got;
        o.batch_tokens = 150;
        o.pool = n / 4 < 3 ? 1 + n / 4 : 1 << 20;
        o.shuffle = n & 1;
        o.buckets = n >> 1 & 1;
        o.seed = 3;
        OK(trf_corpus_create(&c, &o, &err));
        for (p = 0; p < MANY; p++) {
            for (i = 0; i < 9; i++) ids[i] = p;
            OK(trf_corpus_add(c, ids, many_length(p, 0), ids, many_length(p, 1), &err));
        }
        for (number = 0; number < 2; number++) {
            plan_epoch(&all, &o, number);
            batches[number] = all.n_batches;
            for (b = 0; b < all.n_batches; b++) {
                check_planned(c, &all, b);
                if (b % 50 == 7 && trf_corpus_facts(c)->epoch == number) {
                    OK(trf_corpus_batches(c, &got, &err));      /* this moves nothing */
                    assert_int_equal(got, all.n_batches);
                }
            }
            assert_int_equal(trf_corpus_facts(c)->epoch, number + 1);
        }
        differ += batches[0] != batches[1];
        for (b = batches[1] - 1; b >= 0; b -= b < 5 ? 1 : 37) {     /* to any batch, backwards */
            DONE(trf__corpus_seek(c, 1, b, &err));
            check_planned(c, &all, b);
        }
        FAILS(trf__corpus_seek(c, 1, batches[1] + 1, &err), TRF_E_STATE, "corpus", -1);
        DONE(trf__corpus_seek(c, 0, batches[0], &err));             /* the end is a beginning */
        check_planned(c, &all, 0);
        trf_corpus_destroy(c);
    }
    assert_true(differ > 0);
}

static void seeking_nowhere(void **state)
{
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *c, *empty;
    trf_batch b;
    int32_t pairs[PAIRS], before[PAIRS], n;
    epoch e;
    int64_t epoch_now, batch_now;
    (void)state;
    o.epochs = 2;
    o.batch_tokens = 200;
    c = filled(&o);
    e = play(c);
    trf_corpus_destroy(c);

    c = filled(&o);
    FAILS(trf__corpus_seek(c, 0, e.n_batches + 1, &err), TRF_E_STATE, "corpus", -1);
    FAILS(trf__corpus_seek(c, -1, 0, &err), TRF_E_STATE, "corpus", -1);
    FAILS(trf__corpus_seek(c, 0, -1, &err), TRF_E_STATE, "corpus", -1);
    FAILS(trf__corpus_seek(c, 1, INT64_MAX, &err), TRF_E_STATE, "corpus", -1);
    OK(add_pair(c, 5));                                 /* a failed seek has not begun anything */
    trf_corpus_destroy(c);

    c = filled(&o);
    OK(trf_corpus_next(c, &b, &err));
    OK(trf_corpus_next(c, &b, &err));
    n = read_batch(&b, before);
    FAILS(trf__corpus_seek(c, 1, 10000, &err), TRF_E_STATE, "corpus", -1);
    FAILS(trf__corpus_seek(c, 2, 1, &err), TRF_E_STATE, "corpus", -1);
    FAILS(trf__corpus_seek(c, 3, 0, &err), TRF_E_STATE, "corpus", -1);
    position_of(c, &epoch_now, &batch_now);
    assert_true(epoch_now == 0 && batch_now == 2);
    assert_int_equal(read_batch(&b, pairs), n);         /* the delivered batch is still there */
    assert_memory_equal(pairs, before, (size_t)n * sizeof *pairs);
    OK(trf_corpus_next(c, &b, &err));                   /* and the next one is the next one */
    n = read_batch(&b, pairs);
    assert_int_equal(n, e.first[3] - e.first[2]);
    assert_memory_equal(pairs, e.pairs + e.first[2], (size_t)n * sizeof *pairs);
    DONE(trf__corpus_seek(c, 0, e.n_batches - 1, &err));
    OK(trf_corpus_next(c, &b, &err));
    assert_int_equal(trf_corpus_facts(c)->epoch, 1);
    DONE(trf__corpus_seek(c, 0, e.n_batches,
                          &err)); /* behind the last batch the next epoch begins */
    position_of(c, &epoch_now, &batch_now);
    assert_true(epoch_now == 1 && batch_now == 0);
    DONE(trf__corpus_seek(c, 1, e.n_batches, &err));
    position_of(c, &epoch_now, &batch_now);
    assert_true(epoch_now == 2 && batch_now == 0);
    DONE(trf__corpus_seek(c, 2, 0, &err));                /* the end is a place */
    assert_int_equal(trf_corpus_facts(c)->epoch, 2);
    FAILS(trf_corpus_next(c, &b, &err), TRF_E_END, "epochs", -1);
    trf_corpus_destroy(c);

    OK(trf_corpus_create(&empty, NULL, &err));
    DONE(trf__corpus_seek(empty, 0, 0, &err));
    FAILS(trf__corpus_seek(empty, 0, 1, &err), TRF_E_STATE, "corpus", -1);
    FAILS(trf__corpus_seek(empty, 1, 0, &err), TRF_E_STATE, "corpus", -1);
    trf_corpus_destroy(empty);
}

static uint64_t print_of(const trf_corpus_options *o, const int32_t *lengths, int32_t n,
                         int32_t changed)
{
    int32_t ids[12] = { 4, 5, 6, 7, 4, 4, 4, 4, 9, 8, 7, 6 }, i, at = 0;
    trf_corpus *c;
    uint64_t print;
    if (changed >= 0) ids[changed]++;
    OK(trf_corpus_create(&c, o, &err));
    for (i = 0; i < n; i++) {
        OK(trf_corpus_add(c, ids + at, lengths[2 * i], ids + at + lengths[2 * i],
                          lengths[2 * i + 1], &err));
        at += lengths[2 * i] + lengths[2 * i + 1];
    }
    print = trf__corpus_fingerprint(c);
    trf_corpus_destroy(c);
    return print;
}

static void fingerprints(void **state)
{
    static const int32_t lengths[5][6] = {{2, 2, 2, 2, 2, 2},
                                          {3, 1, 2, 2, 2, 2},
                                          {2, 3, 1, 2, 2, 2},
                                          {2, 2, 2, 2, 3, 1},
                                          {12, 0, 0, 0, 0, 0}};
    trf_corpus_options o = trf_corpus_defaults();
    uint64_t prints[32];
    int n = 0, i, k;
    kit_memory h;
    (void)state;
    for (i = 0; i < 5; i++) prints[n++] = print_of(&o, lengths[i], 3, -1);
    prints[n++] = print_of(&o, lengths[0], 2, -1);
    for (i = 0; i < 12; i++) prints[n++] = print_of(&o, lengths[0], 3, i);
#define CHANGED(field, value) \
    o = trf_corpus_defaults(), o.field = value, prints[n++] = print_of(&o, lengths[0], 3, -1)
    CHANGED(batch_tokens, 4095);
    CHANGED(batch_sentences, 1023);
    for (i = 1; i < 8; i++) { /* the three flags, in all ways but the default */
        o = trf_corpus_defaults();
        o.padded_budget = i & 1;
        o.shuffle = !(i & 2);
        o.buckets = !(i & 4);
        prints[n++] = print_of(&o, lengths[0], 3, -1);
    }
    CHANGED(pool, 1);
    CHANGED(pool, 2);
    CHANGED(pool, 1 << 20);
    CHANGED(seed, 1);
    CHANGED(seed, (uint64_t)1 << 63);
    for (i = 0; i < n; i++) for (k = 0; k < i; k++)
        if (prints[i] == prints[k]) fail_msg("prints %d and %d are equal", i, k);
    o = trf_corpus_defaults(); /* what does not change the order does not count */
    o.max_length = 77;
    o.epochs = 3;
    o.hooks = kit_hooks(&h);
    assert_true(print_of(&o, lengths[0], 3, -1) == prints[0]);
    assert_int_equal(h.blocks, 0);
}

/* -----------------------------------------------------------------------------------------------
 */
static void no_allocation_in_steady_state(void **state)
{
    int n;
    (void)state;
    for (n = 40; n < 48; n++) {
        trf_corpus_options o = kit_corpus(n);
        trf_corpus *c;
        trf_batch b;
        kit_memory h;
        int64_t calls;
        o.hooks = kit_hooks(&h);
        c = filled(&o);
        OK(trf_corpus_next(c, &b, &err));
        calls = h.calls;
        while (trf_corpus_facts(c)->epoch < 3) OK(trf_corpus_next(c, &b, &err));
        DONE(trf__corpus_seek(c, 1, 1, &err));
        assert_int_equal(h.calls, calls);
        trf_corpus_destroy(c);
        assert_int_equal(h.blocks, 0);
    }
}

static int run_short_of_memory(int64_t fail_at, int seek)
{
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *c, *twin;
    trf_batch b;
    kit_memory h;
    epoch e, wanted;
    int32_t p, before;
    int failures = 0;
    o.batch_tokens = 100;
    twin = filled(&o);
    wanted = play(twin);
    o.hooks = kit_hooks(&h);
    h.fail_at = fail_at;
    if (trf_corpus_create(&c, &o, &err)) {
        failures++;
        assert_null(c);
        OK(trf_corpus_create(&c, &o, &err));
    }
    for (p = 0; p < PAIRS; p++) {
        uint64_t print = trf__corpus_fingerprint(c);
        before = (int32_t)trf_corpus_facts(c)->pairs;
        if (add_pair(c, p)) {
            failures++;
            assert_int_equal(err.status, TRF_E_NOMEM);
            assert_int_equal(trf_corpus_facts(c)->pairs, before);
            assert_true(trf__corpus_fingerprint(c) == print);
            OK(add_pair(c, p));
        }
    }
    if (seek ? trf__corpus_seek(c, 0, 3, &err) : trf_corpus_next(c, &b, &err)) {
        failures++;
        assert_int_equal(err.status, TRF_E_NOMEM);
        /* Not TRF_E_STATE: nothing has begun. */
        FAILS(trf_corpus_add(c, NULL, 1, NULL, 0, &err), TRF_E_INVALID_ARG, "source", -1);
    }
    DONE(trf__corpus_seek(c, 0, 0, &err));
    e = play(c);
    assert_memory_equal(&e, &wanted, sizeof e);
    trf_corpus_destroy(c);
    trf_corpus_destroy(twin);
    assert_int_equal(h.blocks, 0);
    return failures;
}

static void out_of_memory(void **state)
{
    int k, seek;
    (void)state;
    for (seek = 0; seek < 2; seek++) {
        for (k = 1; run_short_of_memory(k, seek); k++) {}
        assert_true(k > 10);
    }
}

/* -----------------------------------------------------------------------------------------------
 */
static trf_vocab *words(const char *line)
{
    trf_vocab *v;
    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
    OK(trf_vocab_learn(v, line, &err));
    OK(trf_vocab_finish(v, 100, 1, &err));
    return v;
}

/* Pairs of text are those of their ids, whatever their lengths and kinds. */
static void texts(void **state)
{
    static const char long_text[] =
        "b a c b a c b a c b a c b a c b a c b a c b a c b a c b a c b a c b a c";
    static const char sixteen[] = "aaaaaaaaaaaaaaaa",
                      forty[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const char *sources[] = {"a b", "", long_text, "zz a"}, *targets[] = {sixteen, forty, "", "a"};
    trf_vocab *v = words("a a a b b c"), *pieces = kit_pieces(NULL);
    trf_corpus *c, *wanted;
    int32_t ids[2][64], n[2], i;
    (void)state;
    OK(trf_corpus_create(&c, NULL, &err));
    OK(trf_corpus_create(&wanted, NULL, &err));
    for (i = 0; i < 4; i++) {
        OK(trf_vocab_encode(v, sources[i], 0, ids[0], 64, &n[0], &err));
        OK(trf_vocab_encode(pieces, targets[i], 0, ids[1], 64, &n[1], &err));
        if (i == 0) assert_true(n[0] == 2 && n[1] == 17);
        OK(trf_corpus_add(wanted, ids[0], n[0], ids[1], n[1], &err));
        OK(trf_corpus_add_text(c, v, sources[i], pieces, targets[i], &err));
    }
    assert_true(trf__corpus_fingerprint(c) == trf__corpus_fingerprint(wanted));
    OK(trf_vocab_encode(v, "c b", 0, ids[0], 64, &n[0],
                        &err)); /* one side alone; the other's text is not read */
    OK(trf_corpus_add(wanted, ids[0], 2, NULL, 0, &err));
    OK(trf_corpus_add(wanted, NULL, 0, ids[0], 2, &err));
    OK(trf_corpus_add_text(c, v, "c b", NULL, "\xFF", &err));
    OK(trf_corpus_add_text(c, NULL, NULL, v, "c b", &err));
    assert_int_equal(trf_corpus_facts(c)->pairs, 6);
    assert_true(trf__corpus_fingerprint(c) == trf__corpus_fingerprint(wanted));
    OK(trf_corpus_add_text(c, v, "a", pieces, "\xFF", &err));       /* pieces take it for U+FFFD */
    trf_corpus_destroy(c);
    trf_corpus_destroy(wanted);
    trf_vocab_destroy(v);
    trf_vocab_destroy(pieces);
}

static void texts_refused(void **state)
{
    trf_corpus_options o = trf_corpus_defaults();
    trf_vocab *v = words("a a a b b c"), *learning;
    trf_corpus *c;
    trf_batch batch;
    kit_memory memory;
    uint64_t before;
    int64_t k;
    (void)state;
    o.max_length = 20;
    o.hooks = kit_hooks(&memory);
    OK(trf_vocab_create(&learning, TRF_WORDS, NULL, &err));
    OK(trf_corpus_create(&c, &o, &err));
    OK(trf_corpus_add_text(c, v, "a b", v, "c", &err));
    before = trf__corpus_fingerprint(c);
    FAILS(trf_corpus_add_text(NULL, v, "a", v, "a", &err), TRF_E_INVALID_ARG, "corpus", -1);
    FAILS(trf_corpus_add_text(c, NULL, "a", NULL, "a", &err), TRF_E_INVALID_ARG, "source_vocab",
          -1);
    FAILS(trf_corpus_add_text(c, v, NULL, v, "a", &err), TRF_E_INVALID_ARG, "source", -1);
    FAILS(trf_corpus_add_text(c, v, "a", v, NULL, &err), TRF_E_INVALID_ARG, "target", -1);
    FAILS(trf_corpus_add_text(c, v, "a b\xC3", v, "a", &err), TRF_E_FORMAT, "source", 3);
    FAILS(trf_corpus_add_text(c, v, "a", v, "\x80", &err), TRF_E_FORMAT, "target", 0);
    FAILS(trf_corpus_add_text(c, v, "a", v, "a a a a a a a a a a a a a a a a a a a a a", &err),
          TRF_E_LIMIT, "n_target", 20);
    assert_non_null(strstr(err.message, "got 21"));
    dirty();
    assert_int_equal(trf_corpus_add_text(c, learning, "a", v, "a", &err), TRF_E_STATE);
    assert_int_equal(trf_corpus_facts(c)->pairs, 1);
    assert_true(trf__corpus_fingerprint(c) == before);
    trf_corpus_destroy(c);
    for (k = 1; k < 20; k++) {          /* every allocation failing once */
        OK(trf_corpus_create(&c, &o, &err));
        memory.fail_at = memory.calls + k;
        if (trf_corpus_add_text(c, v, "a b c", v, "a a a a a a a a a a a a a a a a a a a", &err) ==
            TRF_OK)
            break;
        assert_int_equal(err.status, TRF_E_NOMEM);
        assert_int_equal(trf_corpus_facts(c)->pairs, 0);
        memory.fail_at = 0;
        OK(trf_corpus_add_text(c, v, "a b c", v, "a a a a a a a a a a a a a a a a a a a", &err));
        trf_corpus_destroy(c);
        assert_int_equal(memory.live, 0);
    }
    assert_true(k > 4);
    memory.fail_at = 0;
    OK(trf_corpus_next(c, &batch, &err));
    FAILS(trf_corpus_add_text(c, v, "a", v, "a", &err), TRF_E_STATE, "corpus", -1);
    trf_corpus_destroy(c);
    assert_int_equal(memory.live, 0);
    trf_vocab_destroy(v);
    trf_vocab_destroy(learning);
}

/* From wherever it stands, the corpus begins again as a new one. */
static void rewinding(void **state)
{
    static const int stops[] = { 0, 1, 3, 1000, 1000000 };
    trf_corpus_options o = trf_corpus_defaults();
    int32_t pairs[PAIRS], wanted[PAIRS];
    trf_batch batch, first;
    size_t i;
    int k, n;
    (void)state;
    o.batch_tokens = 200;
    o.epochs = 3;
    kit_rewind(NULL);
    for (i = 0; i < sizeof stops / sizeof *stops; i++) {
        trf_corpus *c = filled(&o), *fresh = filled(&o);
        trf_status status = TRF_OK;
        for (k = 0; k < stops[i] && status == TRF_OK; k++)
            status = trf_corpus_next(c, &batch, &err);
        kit_rewind(c);
        assert_int_equal(trf_corpus_facts(c)->epoch, 0);
        for (k = 0; ; k++) {
            status = trf_corpus_next(fresh, &first, &err);
            assert_int_equal(trf_corpus_next(c, &batch, &err), status);
            if (status != TRF_OK) break;
            n = read_batch(&first, wanted);
            assert_int_equal(read_batch(&batch, pairs), n);
            assert_memory_equal(pairs, wanted, (size_t)n * sizeof *pairs);
            assert_memory_equal(&batch.place, &first.place, sizeof batch.place);
        }
        assert_int_equal(status, TRF_E_END);
        trf_corpus_destroy(c);
        trf_corpus_destroy(fresh);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options),
        cmocka_unit_test(adding),
        cmocka_unit_test(every_pair_once_within_budget),
        cmocka_unit_test(unshuffled_orders),
        cmocka_unit_test(shuffled_orders),
        cmocka_unit_test(buckets_as_foretold),
        cmocka_unit_test(shuffling_is_fair),
        cmocka_unit_test(buckets_save_padding),
        cmocka_unit_test(epochs_end),
        cmocka_unit_test(texts),
        cmocka_unit_test(texts_refused),
        cmocka_unit_test(rewinding),
        cmocka_unit_test(resuming),
        cmocka_unit_test(pools), cmocka_unit_test(seeking_nowhere),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(no_allocation_in_steady_state),
        cmocka_unit_test(out_of_memory),
    };
    make_lengths();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

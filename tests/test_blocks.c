/* build: shared double:shared separate:shared cuda:shared plain:shared */
/* The public blocks, each alone: forward against plain loops, backward against finite differences
   of a random linear function of the output, what is set and what is added to, and every wrong
   argument. Built twice: in double the gradients must agree to 1e-6. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "plain.h"
#include "golden/blocks.h"

#if defined(TRF_DOUBLE)
#define FORMULA  1e-12          /* of the largest number of a tensor */
#define GRADIENT 1e-6 /* length of the difference by length of the gradient, tensor by tensor */
#define NUDGE    1e-5
#else
#define FORMULA  1e-5
#define GRADIENT 1e-2
#define NUDGE    2e-3
#endif

/* -----------------------------------------------------------------------------------------------
   A job: one call of a block. Its tensors in the order of the call, outputs first; their names as
   errors call them; which of them may be NULL; which of them decide the shapes that the others must
   have. */

enum { MOST = 16 };
typedef struct job job;
typedef trf_status job_call(job *j, trf_error *err);
struct job {
    job_call *call;
    trf_context *context;
    int n;
    trf_tensor *arg[MOST];
    const char *name[MOST];
    unsigned optional, leads;
    const trf_attention_shape *shape;
    trf_activation activation;
    trf_norm_rule rule;
    double epsilon;
    int32_t back;
    const trf_sequences *ids;
    trf_embedding_options embedding;
    const trf_dropout *dropout;
    const int32_t *targets;
    trf_cross_entropy_options smoothing;
    double loss;
};

static trf_context *context_of(int threads, const trf_hooks *hooks)
{
    trf_device device = trf_device_default();
    trf_context *context = NULL;
    device.threads = threads;
    assert_int_equal(trf_context_create(&context, &device, hooks, NULL), TRF_OK);
    assert_non_null(context);
    return context;
}

static trf_context *shared;         /* of the running test */
static int setup(void **state) { (void)state; shared = context_of(1, NULL); return 0; }
static int teardown(void **state)
{
    trf_context_destroy(shared);
    return plain_teardown(state);
}

/* Tensors: random ones, and unwritten ones (NaN) for results. columns 0: rank 1. */
static trf_tensor *shaped(trf_real *data, int64_t rows, int64_t columns)
{
    trf_tensor *t = (trf_tensor *)plain_work(sizeof *t);
    *t = trf_tensor_of(data, columns ? 2 : 1, rows, columns, 1);
    return t;
}
static trf_tensor *random_tensor(int64_t rows, int64_t columns)
{
    return shaped(plain_random(rows * (columns ? columns : 1), 1), rows, columns);
}
static trf_tensor *empty_tensor(int64_t rows, int64_t columns)
{
    return shaped(plain_empty(rows * (columns ? columns : 1)), rows, columns);
}
static trf_tensor value_of(const trf_tensor *t)
{
    trf_tensor none;
    TRF__ZERO(none);
    return t ? *t : none;
}
static double *doubles_of(const trf_tensor *t)
{
    return plain_doubles(t->data, trf_tensor_count(t));
}

static job job_of(job_call *call, unsigned optional, unsigned leads)
{
    job j;
    TRF__ZERO(j);
    j.call = call;
    j.context = shared;
    j.optional = optional;
    j.leads = leads;
    j.epsilon = 1e-5;
    return j;
}
static void give(job *j, const char *name, trf_tensor *t)
{
    j->arg[j->n] = t;
    j->name[j->n++] = name;
}
static void runs(job *j)
{
    trf_error err;
    memset(&err, 0x5A, sizeof err);
    if (j->call(j, &err) != TRF_OK) fail_msg("%s", err.message);
    assert_int_equal(err.status, TRF_OK);
}

static trf_status call_embedding(job *j, trf_error *err)
{
    j->embedding.learned = j->arg[2];
    return trf_embedding(j->context, j->arg[0], j->ids, j->arg[1], &j->embedding, err);
}
static trf_status call_embedding_backward(job *j, trf_error *err)
{
    return trf_embedding_backward(j->context, j->arg[0], j->arg[1], j->arg[2], j->ids,
                                  &j->embedding, err);
}
static trf_status call_linear(job *j, trf_error *err)
{
    return trf_linear(j->context, j->arg[0], j->arg[1], j->arg[2], j->arg[3], err);
}
static trf_status call_linear_backward(job *j, trf_error *err)
{
    return trf_linear_backward(j->context, j->arg[0], j->arg[1], j->arg[2], j->arg[3], j->arg[4],
                               j->arg[5], err);
}
static trf_status call_norm(job *j, trf_error *err)
{
    return trf_norm(j->context, j->arg[0], j->arg[1], j->arg[2], j->arg[3], j->rule, j->epsilon,
                    j->arg[4], err);
}
static trf_status call_norm_backward(job *j, trf_error *err)
{
    return trf_norm_backward(j->context, j->arg[0], j->arg[1], j->arg[2], j->arg[3], j->arg[4],
                             j->arg[5], j->rule, j->epsilon, j->arg[6], err);
}
static trf_status call_attention(job *j, trf_error *err)
{
    return trf_attention(j->context, j->arg[0], j->arg[1], j->arg[2], j->arg[3], j->shape,
                         j->arg[5], j->arg[4], err);
}
static trf_status call_attention_backward(job *j, trf_error *err)
{
    return trf_attention_backward(j->context, j->arg[0], j->arg[1], j->arg[2], j->arg[9], j->arg[3],
                                  j->arg[4], j->arg[5], j->arg[6], j->arg[7], j->shape, j->arg[8],
                                  err);
}
static trf_status call_rotary(job *j, trf_error *err)
{
    return trf_rotary(j->context, j->arg[0], j->arg[1], j->shape, j->back, err);
}
static trf_attention_params attention_params(trf_tensor *const *t)
{
    trf_attention_params p;
    p.in_weight = value_of(t[0]); p.in_bias = value_of(t[1]);
    p.out_weight = value_of(t[2]); p.out_bias = value_of(t[3]);
    return p;
}
static trf_status call_heads(job *j, trf_error *err)
{
    trf_attention_params p = attention_params(j->arg + 3);
    return trf_multi_head_attention(j->context, j->arg[0], j->arg[1], j->arg[2], &p, j->shape,
                                    j->arg[8], j->arg[7], err);
}
static trf_status call_probabilities(job *j, trf_error *err)
{
    return trf_attention(j->context, NULL, j->arg[1], j->arg[2], NULL, j->shape, j->arg[0], NULL,
                         err);
}
static trf_status call_heads_backward(job *j, trf_error *err)
{
    trf_attention_params d = attention_params(j->arg + 2), p = attention_params(j->arg + 9);
    return trf_multi_head_attention_backward(j->context, j->arg[0], j->arg[1], &d, j->arg[14],
                                             j->arg[6], j->arg[7], j->arg[8], &p, j->shape,
                                             j->arg[13], err);
}
static trf_feed_forward_params feed_forward_params(trf_tensor *const *t)
{
    trf_feed_forward_params p;
    p.w1 = value_of(t[0]); p.b1 = value_of(t[1]); p.w2 = value_of(t[2]); p.b2 = value_of(t[3]);
    return p;
}
static trf_status call_feed_forward(job *j, trf_error *err)
{
    trf_feed_forward_params p = feed_forward_params(j->arg + 2);
    return trf_feed_forward(j->context, j->arg[0], j->arg[1], &p, j->activation, j->arg[6], err);
}
static trf_status call_feed_forward_backward(job *j, trf_error *err)
{
    trf_feed_forward_params d = feed_forward_params(j->arg + 1),
                            p = feed_forward_params(j->arg + 7);
    return trf_feed_forward_backward(j->context, j->arg[0], &d, j->arg[5], j->arg[6], &p,
                                     j->activation, j->arg[11], err);
}
static trf_status call_residual(job *j, trf_error *err)
{
    return trf_residual(j->context, j->arg[0], j->arg[1], j->arg[2], j->dropout, err);
}
static trf_status call_residual_backward(job *j, trf_error *err)
{
    return trf_residual_backward(j->context, j->arg[0], j->arg[1], j->arg[2], j->dropout, err);
}
static trf_status call_cross_entropy(job *j, trf_error *err)
{
    return trf_cross_entropy(j->context, &j->loss, j->arg[0], j->arg[1], j->arg[2], j->arg[3],
                             j->arg[4], j->arg[5], j->targets, &j->smoothing, err);
}

/* -----------------------------------------------------------------------------------------------
   Gradients. The function that is differentiated is the sum of dy * output 0, over one job or a
   chain of them. */

typedef struct chain { job *jobs[8]; int n; const trf_tensor *dy; } chain;

static double value_along(const chain *c)
{
    const trf_tensor *y = c->jobs[c->n - 1]->arg[0];
    double sum = 0;
    int64_t i;
    int k;
    for (k = 0; k < c->n; k++) runs(c->jobs[k]);
    if (!c->dy) return c->jobs[c->n - 1]->loss;
    for (i = 0; i < trf_tensor_count(y); i++) sum += (double)y->data[i] * (double)c->dy->data[i];
    return sum;
}

/* Differentiates by every element of x, and compares with `gradient`, less what was there `before`
   (NULL: zero). */
static void check_gradient(const char *name, const chain *c, trf_tensor *x,
                           const trf_tensor *gradient, const trf_real *before)
{
    double reference = 0, difference = 0;
    int64_t i;
    for (i = 0; i < trf_tensor_count(x); i++) {
        trf_real old = x->data[i], up = old + (trf_real)NUDGE, down = old - (trf_real)NUDGE;
        double rise, slope, got = (double)gradient->data[i] - (before ? (double)before[i] : 0);
        if (!(old > -HUGE_VAL)) { assert_true(got == 0); continue; }        /* a hidden key */
        x->data[i] = up;
        rise = value_along(c);
        x->data[i] = down;
        rise -= value_along(c);
        x->data[i] = old;
        slope = rise / ((double)up - (double)down);
        reference += slope * slope;
        difference += (slope - got) * (slope - got);
    }
    if (!(sqrt(reference) > 1e-3))
        fail_msg("%s: its gradient is %g, too small to be checked", name, sqrt(reference));
    if (!(sqrt(difference) <= GRADIENT * sqrt(reference)))
        fail_msg("%s: off by %g of %g", name, sqrt(difference), sqrt(reference));
}

/* A parameter gradient that already holds something, and what it holds. */
typedef struct sum { trf_tensor *t; trf_real *before; } sum;
static sum sum_like(const trf_tensor *x)
{
    sum s;
    s.t = random_tensor(x->shape[0], x->rank == 2 ? x->shape[1] : 0);
    s.before = plain_copy(s.t->data, trf_tensor_count(s.t));
    return s;
}

/* -----------------------------------------------------------------------------------------------
   Wrong arguments. Each tensor in turn is missing, without data, of another rank, longer, shorter,
   wider: the call must name it, say so with and without a trf_error, and change nothing at all. */

static uint64_t hash_of_args(const job *j)
{
    uint64_t hash = HASH_START;
    int i;
    for (i = 0; i < j->n; i++)
        if (j->arg[i])
            hash = hash_bytes(hash, j->arg[i]->data,
                              (size_t)trf_tensor_count(j->arg[i]) * sizeof(trf_real));
    return hash;
}

/* what: NULL where any argument may be blamed, as one that decides the others' shapes cannot be
   wrong itself. */
static void refused(job *j, trf_status status, const char *what, int64_t where, const char *doing)
{
    trf_error err;
    memset(&err, 0x5A, sizeof err);
    if (j->call(j, &err) == TRF_OK) fail_msg("%s: accepted", doing);
    if (what && (err.status != (int32_t)status || strcmp(err.what, what) || err.where != where))
        fail_msg("%s: %s, what \"%s\", where %lld: %s", doing,
                 trf_status_name((trf_status)err.status), err.what, (long long)err.where,
                 err.message);
    if (!what && err.status != TRF_E_SHAPE && err.status != TRF_E_INVALID_ARG)
        fail_msg("%s: %s", doing, trf_status_name((trf_status)err.status));
    assert_true(err.message[0] != 0);
    assert_int_equal(err.sys_errno, 0);
    assert_int_equal(j->call(j, NULL), err.status);
}

static void refuses_bent_tensors(job *good, const char *block)
{
    uint64_t before;
    int i, bend;
    runs(good);
    before = hash_of_args(good);
    for (i = 0; i < good->n; i++)
        for (bend = 0; bend < 8; bend++) {
            job j = *good;
            trf_tensor bent;
            char doing[96];
            int missing = bend < 2, lead = good->leads >> i & 1;
            if (!good->arg[i]) continue;
            bent = *good->arg[i];
            j.arg[i] = &bent;
            if (bend == 0) { j.arg[i] = NULL; if (good->optional >> i & 1) continue; }
            if (bend == 1) bent.data = NULL;
            if (bend == 2) bent.rank = 3 - bent.rank;
            if (bend == 3) bent.rank = 3;
            if (bend == 4) bent.shape[0]++;
            if (bend == 5) bent.shape[0]--;
            if (bend == 6) bent.shape[bent.rank - 1]++;
            if (bend == 7) bent.shape[bent.rank - 1]--;
            snprintf(doing, sizeof doing, "%s: argument %d, %s, bend %d", block, i, good->name[i],
                     bend);
            refused(&j, missing ? TRF_E_INVALID_ARG : TRF_E_SHAPE,
                    lead && bend > 3 ? NULL : good->name[i], -1, doing);
            if (hash_of_args(good) != before) fail_msg("%s: something has changed", doing);
        }
    {
        job j = *good;
        j.context = NULL;
        refused(&j, TRF_E_INVALID_ARG, "context", -1, block);
    }
    assert_true(hash_of_args(good) == before);
}

/* Whatever allocation fails, the status says so, nothing has changed, and the same call works
   afterwards. */
static void survives_no_memory(const job *good, int asks)
{
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    job j = *good;
    uint64_t before = hash_of_args(good);
    int64_t first;
    trf_status status;
    trf_error err;
    int fail, failed = 0;
    j.context = context_of(1, &hooks);
    first = memory.calls;
    for (fail = 1; ; fail++) {
        memory.fail_at = first + fail;
        memory.calls = first;
        status = j.call(&j, &err);
        if (status == TRF_OK) break;
        failed++;
        assert_int_equal(status, TRF_E_NOMEM);
        assert_int_equal(err.status, TRF_E_NOMEM);
        assert_true(hash_of_args(&j) == before);
        if (j.call == call_cross_entropy) assert_true(j.loss == 0);
        trf_context_destroy(j.context);
        assert_int_equal(memory.live, 0);
        memory.fail_at = 0;
        j.context = context_of(1, &hooks);
    }
#if defined(KIT_ON_CUDA)
    asks = 0;       /* the device's memory is not the hooks' */
#endif
    if (failed < asks) fail_msg("only %d of at least %d allocations were seen", failed, asks);
    trf_context_destroy(j.context);
    assert_int_equal(memory.live, 0);
}

/* -----------------------------------------------------------------------------------------------
   The context */

static void test_context(void **state)
{
    trf_device device = trf_device_default();
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    trf_context *context = (trf_context *)&device;
    trf_error err;
    int fail;
    (void)state;
    assert_int_equal(trf_context_create(NULL, &device, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "context");
    device.threads = 0;
    assert_int_equal(trf_context_create(&context, &device, NULL, &err), TRF_E_INVALID_ARG);
    assert_null(context);
    assert_string_equal(err.what, "device.threads");
    device.threads = 1;
    device.kind = (trf_device_kind)7;
    context = (trf_context *)&device;
    assert_int_not_equal(trf_context_create(&context, &device, NULL, &err), TRF_OK);
    assert_null(context);
    assert_string_equal(err.what, "device.kind");
    device.kind = TRF_DEVICE_CPU;
    for (fail = 1; fail <= 2; fail++) {
        memory.calls = 0;
        memory.fail_at = fail;
        context = (trf_context *)&device;
        assert_int_equal(trf_context_create(&context, &device, &hooks, &err), TRF_E_NOMEM);
        assert_null(context);
        assert_int_equal(memory.live, 0);
    }
    memory.fail_at = 0;
    assert_int_equal(trf_context_create(&context, NULL, &hooks, NULL),
                     TRF_OK); /* the default device */
    assert_true(memory.live > 0);
    trf_context_destroy(context);
    assert_int_equal(memory.live, 0);
    trf_context_destroy(NULL);
}

/* -----------------------------------------------------------------------------------------------
   Embedding */

enum { E_VOCAB = 7, E_ROWS = 9 };
static const int32_t e_ids[E_ROWS] = {3, 0, 6, 3, 3, 1, 2, 6, 0}, e_lengths[4] = {4, 0, 3, 2};
static const trf_sequences e_sequences = {e_ids, e_lengths, 4};

static double sinusoid(int rule, int64_t p, int64_t i, int64_t d)
{
    int64_t half = d / 2, pair = rule == TRF_POSITIONS_INTERLEAVED ? i / 2 : i % half;
    int cosine = rule == TRF_POSITIONS_INTERLEAVED ? i % 2 == 1 : i >= half;
    double power = 2.0 * (double)pair / (double)d, angle;
    if (rule == TRF_POSITIONS_HALVES_N1) power = (double)pair / (double)(half - 1);
    angle = (double)p / pow(10000, power);
    return cosine ? cos(angle) : sin(angle);
}

static void test_position_table(void **state)
{
    enum { ROWS = 40, D = 10 };
    trf_real numbers[ROWS * D];
    trf_tensor t = trf_tensor_of(numbers, 2, ROWS, D, 1);
    trf_error err;
    int rule, first, p, i;
    (void)state;
    for (rule = TRF_POSITIONS_INTERLEAVED; rule <= TRF_POSITIONS_HALVES; rule++)
        for (first = 0; first < 9; first += 4) {
            memset(numbers, 0x5A, sizeof numbers);
            assert_int_equal(trf_position_table((trf_positions)rule, first, &t, &err), TRF_OK);
            for (p = 0; p < ROWS; p++)
                for (i = 0; i < D; i++)
                    assert_number_near((double)numbers[p * D + i], sinusoid(rule, first + p, i, D),
                                       FORMULA);
        }
    assert_int_equal(trf_position_table(TRF_POSITIONS_LEARNED, 0, &t, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "rule");
    assert_int_equal(trf_position_table(TRF_POSITIONS_NONE, 0, &t, NULL), TRF_E_INVALID_ARG);
    assert_int_equal(trf_position_table(TRF_POSITIONS_HALVES, -1, &t, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "first");
    assert_int_equal(trf_position_table(TRF_POSITIONS_HALVES, (1 << 20) + 1, &t, &err),
                     TRF_E_INVALID_ARG);
    assert_int_equal(trf_position_table(TRF_POSITIONS_HALVES, 0, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "out");
    t.rank = 1;
    assert_int_equal(trf_position_table(TRF_POSITIONS_HALVES, 0, &t, &err), TRF_E_SHAPE);
    t = trf_tensor_of(numbers, 2, 0, D, 1);
    assert_int_equal(trf_position_table(TRF_POSITIONS_HALVES, 0, &t, &err), TRF_OK);
    t = trf_tensor_of(numbers, 2, (1 << 24) + 1, D, 1);
    assert_int_equal(trf_position_table(TRF_POSITIONS_HALVES, 0, &t, &err), TRF_E_INVALID_ARG);
    t.data = NULL;
    assert_int_equal(trf_position_table(TRF_POSITIONS_HALVES, 0, &t, &err), TRF_E_INVALID_ARG);
}

/* Arguments of the backward: dweight, dlearned or NULL, dy. */
static job embedding_job(int64_t d, int rule, int32_t offset, int learned_rows)
{
    job j = job_of(call_embedding, rule == TRF_POSITIONS_LEARNED ? 0 : 1u << 2, 0);
    j.ids = &e_sequences;
    j.embedding.positions = (trf_positions)rule;
    j.embedding.position_offset = offset;
    j.embedding.scale = 1.5;
    give(&j, "y", empty_tensor(E_ROWS, d));
    give(&j, "weight", random_tensor(E_VOCAB, d));
    give(&j, "learned", rule == TRF_POSITIONS_LEARNED ? random_tensor(learned_rows, d) : NULL);
    return j;
}

static void test_embedding(void **state)
{
    int rule, i;
    int32_t offset;
    int64_t d, r, c, p;
    (void)state;
    for (rule = TRF_POSITIONS_INTERLEAVED; rule <= TRF_POSITIONS_NONE; rule++)
        for (d = 6; d <= 34; d += 14)
            for (offset = 0; offset <= 2; offset += 2) {
                job j = embedding_job(d, rule, offset, 4 + offset),
                    back = job_of(call_embedding_backward, 2, 0);
                double *want = plain_zeros(E_ROWS * d);
                sum dweight = sum_like(j.arg[1]), dlearned;
                chain c1;
                for (i = 0, r = 0; i < 4; i++)
                    for (p = 0; p < e_lengths[i]; p++, r++)
                        for (c = 0; c < d; c++) {
                            want[r * d + c] = 1.5 * (double)j.arg[1]->data[e_ids[r] * d + c];
                            if (rule == TRF_POSITIONS_LEARNED)
                                want[r * d + c] += (double)j.arg[2]->data[(p + offset) * d + c];
                            else if (rule != TRF_POSITIONS_NONE)
                                want[r * d + c] += sinusoid(rule, p + offset, c, d);
                        }
                runs(&j);
                assert_all_near("y", j.arg[0]->data, want, E_ROWS * d, FORMULA);
                if (d > 6) continue;
                dlearned = sum_like(j.arg[2] ? j.arg[2] : j.arg[1]);
                back.ids = j.ids; back.embedding = j.embedding;
                give(&back, "dweight", dweight.t);
                give(&back, "dlearned", j.arg[2] ? dlearned.t : NULL);
                give(&back, "dy", random_tensor(E_ROWS, d));
                runs(&back);
                c1.jobs[0] = &j; c1.n = 1; c1.dy = back.arg[2];
                check_gradient("weight", &c1, j.arg[1], dweight.t, dweight.before);
                if (j.arg[2]) check_gradient("learned", &c1, j.arg[2], dlearned.t, dlearned.before);
            }
}

/* As `refused`; nothing that `good` shows may change. */
static void embedding_refuses(job *bad, const job *good, const char *what, trf_status status,
                              int64_t where, const char *doing)
{
    uint64_t before = hash_of_args(good);
    refused(bad, status, what, where, doing);
    assert_true(hash_of_args(good) == before);
}

static void test_embedding_errors(void **state)
{
    static const int32_t bad_ids[E_ROWS] = {3, 0, 6, 3, 3, 1, E_VOCAB, 6, 0},
                         below[E_ROWS] = {0, 0, -1};
    static const int32_t bad_lengths[4] = {4, -1, 3, 2}, many[2] = {INT32_MAX, 1};
    trf_sequences s[3];
    trf_tensor tall;
    int side, i;
    (void)state;
    for (side = 0; side < 2; side++) {
        job f = embedding_job(6, TRF_POSITIONS_LEARNED, 1, 5), j, good;
        if (side == 0) good = f;
        else {
            good = job_of(call_embedding_backward, 1u << 1, 0);
            good.ids = f.ids; good.embedding = f.embedding;
            give(&good, "dweight", random_tensor(E_VOCAB, 6));
            give(&good, "learned", random_tensor(5, 6));
            give(&good, "dy", random_tensor(E_ROWS, 6));
        }
        runs(&good);
        for (i = 0; i < 3; i++) s[i] = e_sequences;
        s[0].ids = bad_ids; s[1].ids = below; s[2].lengths = bad_lengths;
        j = good;
        j.ids = NULL;
        embedding_refuses(&j, &good, "x", TRF_E_INVALID_ARG, -1, "no sequences");
        j = good;
        j.ids = &s[0];
        embedding_refuses(&j, &good, "x", TRF_E_INVALID_ARG, 6, "id beyond the vocabulary");
        j.ids = &s[1]; embedding_refuses(&j, &good, "x", TRF_E_INVALID_ARG, 2, "negative id");
        j.ids = &s[2]; embedding_refuses(&j, &good, "x", TRF_E_INVALID_ARG, 1, "negative length");
        s[0] = s[1] = e_sequences;
        s[0].ids = NULL; s[1].lengths = NULL;
        j.ids = &s[0]; embedding_refuses(&j, &good, "x", TRF_E_INVALID_ARG, -1, "no ids");
        j.ids = &s[1]; embedding_refuses(&j, &good, "x", TRF_E_INVALID_ARG, -1, "no lengths");
        s[0].ids = e_ids; s[0].lengths = many; s[0].count = 2;
        j.ids = &s[0];
        embedding_refuses(&j, &good, "x", TRF_E_LIMIT, 1, "more ids than int32 counts");
        j = good;
        if (side == 0) {
            j.embedding.positions = (trf_positions)5;
            embedding_refuses(&j, &good, "positions", TRF_E_INVALID_ARG, -1, "no such positions");
        } else {
            j.embedding.positions = TRF_POSITIONS_INTERLEAVED;
            embedding_refuses(&j, &good, "dlearned", TRF_E_INVALID_ARG, -1,
                              "dlearned, but nothing is learned");
            tall = *good.arg[0];
            tall.shape[0] = (1 << 24) + 1;
            j = good; j.arg[0] = &tall;
            embedding_refuses(&j, &good, "dweight", TRF_E_LIMIT, -1, "more rows than are sorted");
        }
        j = good; j.embedding.position_offset = -1;
        embedding_refuses(&j, &good, "position_offset", TRF_E_INVALID_ARG, -1, "negative offset");
        j = good; j.embedding.position_offset = 2;          /* 4 tokens from row 2 need 6 rows */
        embedding_refuses(&j, &good, "learned", TRF_E_SHAPE, -1, "too few learned positions");
        for (i = 0; i < 3; i++) {
            int bend;
            for (bend = 0; bend < 4; bend++) {
                trf_tensor bent = *good.arg[i];
                int decides = bend == 3 && i == (side ? 0 : 1); /* the width of weight, dweight */
                j = good;
                j.arg[i] = &bent;
                if (bend == 0) { if (good.optional >> i & 1) continue; j.arg[i] = NULL; }
                if (bend == 1) bent.data = NULL;
                if (bend == 2) bent.rank = 1;
                if (bend == 3) bent.shape[1]++;
                embedding_refuses(&j, &good, decides ? NULL : good.name[i],
                                  bend < 2 ? TRF_E_INVALID_ARG : TRF_E_SHAPE, -1, good.name[i]);
            }
        }
        j = good;
        j.context = NULL;
        embedding_refuses(&j, &good, "context", TRF_E_INVALID_ARG, -1, "no context");
        survives_no_memory(&good, 1);
        if (side) continue;
        j = embedding_job(4, TRF_POSITIONS_INTERLEAVED, 0, 0); /* a table of sines needs room too */
        runs(&j);
        survives_no_memory(&j, 2);
    }
    assert_int_equal(trf_embedding(shared, NULL, &e_sequences, NULL, NULL, NULL),
                     TRF_E_INVALID_ARG);
    assert_int_equal(trf_embedding_backward(shared, NULL, NULL, NULL, &e_sequences, NULL, NULL),
                     TRF_E_INVALID_ARG);
}

/* -----------------------------------------------------------------------------------------------
   Linear */

static void test_linear(void **state)
{
    static const int64_t shapes[][3] = {{5, 4, 3}, {1, 1, 7}, {20, 5, 17}, {40, 33, 18}};
    int k, bias;
    (void)state;
    for (k = 0; k < 4; k++)
        for (bias = 0; bias < 2; bias++) {
            int64_t rows = shapes[k][0], out = shapes[k][1], in = shapes[k][2];
            job j = job_of(call_linear, 1u << 3, 3u << 1),
                back = job_of(call_linear_backward, 1u | 1u << 2, 3u << 3);
            double *want = plain_zeros(rows * out);
            sum dw, db;
            chain c;
            give(&j, "y", empty_tensor(rows, out));
            give(&j, "x", random_tensor(rows, in));
            give(&j, "weight", random_tensor(out, in));
            give(&j, "bias", bias ? random_tensor(out, 0) : NULL);
            runs(&j);
            plain_linear(want, doubles_of(j.arg[1]), doubles_of(j.arg[2]),
                         bias ? doubles_of(j.arg[3]) : NULL, rows, out, in);
            assert_all_near("y", j.arg[0]->data, want, rows * out, FORMULA);
            dw = sum_like(j.arg[2]);
            db = sum_like(bias ? j.arg[3] : j.arg[2]);
            give(&back, "dx", empty_tensor(rows, in));
            give(&back, "dweight", dw.t);
            give(&back, "dbias", bias ? db.t : NULL);
            give(&back, "dy", random_tensor(rows, out));
            give(&back, "x", j.arg[1]);
            give(&back, "weight", j.arg[2]);
            runs(&back);
            c.jobs[0] = &j; c.n = 1; c.dy = back.arg[3];
            if (rows < 40) {
                check_gradient("x", &c, j.arg[1], back.arg[0], NULL);
                check_gradient("weight", &c, j.arg[2], dw.t, dw.before);
                if (bias) check_gradient("bias", &c, j.arg[3], db.t, db.before);
            }
            back.arg[0] = NULL;             /* dx is not wanted: the others are the same */
            memcpy(dw.t->data, dw.before, (size_t)(out * in) * sizeof(trf_real));
            runs(&back);
            if (rows < 40) check_gradient("weight alone", &c, j.arg[2], dw.t, dw.before);
        }
}

static void test_linear_errors(void **state)
{
    job j = job_of(call_linear, 1u << 3, 3u << 1),
        back = job_of(call_linear_backward, 1u | 1u << 2, 3u << 3);
    (void)state;
    give(&j, "y", random_tensor(5, 4));
    give(&j, "x", random_tensor(5, 3));
    give(&j, "weight", random_tensor(4, 3));
    give(&j, "bias", random_tensor(4, 0));
    refuses_bent_tensors(&j, "linear");
    give(&back, "dx", random_tensor(5, 3));
    give(&back, "dweight", random_tensor(4, 3));
    give(&back, "dbias", random_tensor(4, 0));
    give(&back, "dy", random_tensor(5, 4));
    give(&back, "x", j.arg[1]);
    give(&back, "weight", j.arg[2]);
    refuses_bent_tensors(&back, "linear backward");
}

/* -----------------------------------------------------------------------------------------------
   Norms */

static job norm_job(int64_t rows, int64_t d)
{
    job j = job_of(call_norm, 3u << 3, 1u << 1);
    give(&j, "y", empty_tensor(rows, d));
    give(&j, "x", random_tensor(rows, d));
    give(&j, "gain", random_tensor(d, 0));
    give(&j, "bias", random_tensor(d, 0));
    give(&j, "saved", empty_tensor(2 * rows, 0));
    return j;
}

static job norm_backward_job(const job *j)
{
    job back = job_of(call_norm_backward, 1u << 2, 1u << 4);
    int64_t rows = j->arg[1]->shape[0], d = j->arg[1]->shape[1];
    back.epsilon = j->epsilon;
    back.rule = j->rule;
    give(&back, "dx", empty_tensor(rows, d));
    give(&back, "dgain", random_tensor(d, 0));
    give(&back, "dbias", random_tensor(d, 0));
    give(&back, "dy", random_tensor(rows, d));
    give(&back, "x", j->arg[1]);
    give(&back, "gain", j->arg[2]);
    give(&back, "saved", j->arg[4]);
    return back;
}

/* One row by the formulas of trf_norm_rule. stats: mean and factor. */
static void norm_row(double *y, const double *x, const double *gain, const double *bias, int64_t d,
                     trf_norm_rule rule, double epsilon, double stats[2])
{
    double squares = 0;
    int64_t i;
    stats[0] = 0;
    for (i = 0; i < d && rule != TRF_NORM_RMS; i++) stats[0] += x[i] / (double)d;
    for (i = 0; i < d; i++) squares += (x[i] - stats[0]) * (x[i] - stats[0]);
    stats[1] = rule == TRF_NORM_ANNOTATED ? 1 / (sqrt(squares / (double)(d - 1)) + epsilon)
        : 1 / sqrt(squares / (double)d + epsilon);
    for (i = 0; i < d; i++) y[i] = gain[i] * (x[i] - stats[0]) * stats[1] + (bias ? bias[i] : 0);
}

static void test_norm(void **state)
{
    static const int64_t shapes[][2] = {{3, 5}, {2, 16}, {7, 20}, {40, 33}};
    int k, rule, bias;
    (void)state;
    for (rule = 0; rule < TRF_NORM_RULE_COUNT; rule++)
        for (k = 0; k < 8; k++) {
            int64_t rows = shapes[k / 2][0], d = shapes[k / 2][1], i;
            job j = norm_job(rows, d), back;
            double *want = plain_zeros(rows * d), *x = doubles_of(j.arg[1]),
                   *gain = doubles_of(j.arg[2]), *stats = plain_zeros(2 * rows);
            trf_tensor *saved = j.arg[4];
            trf_real *dgain, *dbias, *again;
            chain c;
            bias = k % 2;
            if (!bias) j.arg[3] = NULL;
            j.epsilon = k % 3 ? 0.03 : 1e-5;
            j.rule = (trf_norm_rule)rule;
            back = norm_backward_job(&j);
            if (!bias) back.arg[2] = NULL;
            dgain = plain_copy(back.arg[1]->data, d);
            dbias = bias ? plain_copy(back.arg[2]->data, d) : NULL;
            runs(&j);
            for (i = 0; i < rows; i++)
                norm_row(want + i * d, x + i * d, gain, bias ? doubles_of(j.arg[3]) : NULL, d,
                         j.rule, j.epsilon, stats + 2 * i);
            assert_all_near("y", j.arg[0]->data, want, rows * d, FORMULA);
            assert_all_near("saved", saved->data, stats, 2 * rows, FORMULA);
            again = plain_copy(j.arg[0]->data, rows * d);
            j.arg[4] = NULL;                /* nothing to be saved: the same y */
            runs(&j);
            assert_memory_equal(again, j.arg[0]->data, (size_t)(rows * d) * sizeof *again);
            j.arg[4] = saved;
            runs(&back);
            if (k >= 6) continue;
            c.jobs[0] = &j; c.n = 1; c.dy = back.arg[3];
            check_gradient("x", &c, j.arg[1], back.arg[0], NULL);
            check_gradient("gain", &c, j.arg[2], back.arg[1], dgain);
            if (bias) check_gradient("bias", &c, j.arg[3], back.arg[2], dbias);
        }
}

static void test_norm_errors(void **state)
{
    job j = norm_job(4, 6), back, bad;
    static const double epsilons[] = {0, -1, 2, NAN};
    int i;
    (void)state;
    refuses_bent_tensors(&j, "norm");
    back = norm_backward_job(&j);
    refuses_bent_tensors(&back, "norm backward");
    for (i = 0; i < 8; i++) {
        bad = i % 2 ? back : j;
        bad.epsilon = epsilons[i / 2];
        refused(&bad, TRF_E_INVALID_ARG, "epsilon", -1, "epsilon");
        bad = i % 2 ? back : j;
        bad.rule = (trf_norm_rule)(i < 4 ? TRF_NORM_RULE_COUNT : -1);
        refused(&bad, TRF_E_INVALID_ARG, "rule", -1, "no such rule");
    }
}

/* -----------------------------------------------------------------------------------------------
   Attention */

enum { COUNT = 3 };
static const int32_t self_lengths[COUNT] = {3, 1, 4}, cross_lengths[COUNT] = {2, 5, 0};
static const int32_t long_lengths[COUNT] = {40, 0, 21};
static const int32_t growing_lengths[COUNT] = {
    500, 2, 50}; /* more keys than the scratch of a new context has room for */

static trf_attention_shape shape_of(const int32_t *queries, const int32_t *keys, int32_t heads,
                                    trf_mask mask)
{
    trf_attention_shape s;
    TRF__ZERO(s);
    s.query_lengths = queries;
    s.key_lengths = keys;
    s.count = COUNT;
    s.n_heads = heads;
    s.mask = mask;
    return s;
}
static int64_t rows_of(const int32_t *lengths) { return lengths[0] + lengths[1] + lengths[2]; }

static int32_t key_heads(const trf_attention_shape *s)
{
    return s->kv_heads ? s->kv_heads : s->n_heads;
}

/* The number of score_bias for head h of sequence n. */
static double number_of(const trf_attention_shape *s, int32_t n, int32_t h, int64_t i, int64_t j)
{
    const trf_tensor *t = s->score_bias;
    int64_t at = 0, all = 0, keys, blocks;
    int32_t k;
    if (!t) return 0;
    if (t->rank > 1) {
        keys = t->shape[t->rank - 1];
        return (double)t->data[(t->rank == 3 ? h * t->shape[1] * keys : 0) + i * keys + j];
    }
    for (k = 0; k < s->count; k++) {
        if (k == n) at = all;
        all += (int64_t)s->query_lengths[k] * s->key_lengths[k];
    }
    blocks = t->shape[0] == all ? 1 : s->n_heads;
    at *= blocks;
    if (blocks > 1) at += (int64_t)h * s->query_lengths[n] * s->key_lengths[n];
    return (double)t->data[at + i * s->key_lengths[n] + j];
}

/* out (queries, d) of q, k, v with row strides ldq and ldk; the weights of all heads, one after
   another, go to p, unless it is NULL */
static void plain_sequences(double *out, double *p, const double *q, const double *k,
                            const double *v, int64_t ldq, int64_t ldk, int64_t d,
                            const trf_attention_shape *s)
{
    int64_t query = 0, key = 0, i, j, c, width = d / s->n_heads;
    double scale = s->scale > 0 ? s->scale : 1 / sqrt((double)width);
    int32_t n, h;
    for (n = 0; n < s->count; query += s->query_lengths[n], key += s->key_lengths[n], n++)
        for (h = 0; h < s->n_heads; h++)
            for (i = 0; i < s->query_lengths[n]; i++) {
                int64_t m = s->key_lengths[n], first = h * key_heads(s) / s->n_heads * width;
                double *w = plain_zeros(m), top = -HUGE_VAL, sum = 0;
                for (j = 0; j < m; j++) {
                    for (c = 0; c < width; c++)
                        w[j] += q[(query + i) * ldq + h * width + c] *
                                k[(key + j) * ldk + first + c];
                    w[j] = w[j] * scale + number_of(s, n, h, i, j);
                    if (s->mask == TRF_CAUSAL && j > i) w[j] = -HUGE_VAL;
                    if (w[j] > top) top = w[j];
                }
                for (j = 0; j < m; j++) sum += w[j] = top > -HUGE_VAL ? exp(w[j] - top) : 0;
                for (j = 0; j < m; j++) w[j] = sum > 0 ? w[j] / sum : 0;
                for (j = 0; p && j < m; j++) *p++ = w[j];
                for (c = 0; c < width; c++) {
                    double *to = out + (query + i) * d + h * width + c;
                    for (*to = 0, j = 0; j < m; j++) *to += w[j] * v[(key + j) * ldk + first + c];
                }
                plain_release(plain_used - 1);
            }
}

static int64_t weights_of(const trf_attention_shape *s)
{
    int64_t n = 0;
    int i;
    for (i = 0; i < s->count; i++)
        n += (int64_t)s->n_heads * s->query_lengths[i] * s->key_lengths[i];
    return n;
}

static job attention_job(const trf_attention_shape *s, int64_t d)
{
    job j = job_of(call_attention, 3u << 4, 1u << 1);
    int64_t queries = rows_of(s->query_lengths), keys = rows_of(s->key_lengths);
    int64_t wide = d / s->n_heads * key_heads(s);
    j.shape = s;
    give(&j, "out", empty_tensor(queries, d));
    give(&j, "q", random_tensor(queries, d));
    give(&j, "k", random_tensor(keys, wide));
    give(&j, "v", random_tensor(keys, wide));
    give(&j, "saved", empty_tensor(trf_attention_saved(s, NULL), 0));
    give(&j, "probabilities", NULL);
    return j;
}

static job attention_backward_job(const job *j)
{
    job back = job_of(call_attention_backward, 1u << 9, 1u << 5);
    int64_t queries = j->arg[1]->shape[0], keys = j->arg[2]->shape[0], d = j->arg[1]->shape[1];
    back.shape = j->shape;
    give(&back, "dq", empty_tensor(queries, d));
    give(&back, "dk", empty_tensor(keys, j->arg[2]->shape[1]));
    give(&back, "dv", empty_tensor(keys, j->arg[2]->shape[1]));
    give(&back, "dout", random_tensor(queries, d));
    give(&back, "out", j->arg[0]);
    give(&back, "q", j->arg[1]);
    give(&back, "k", j->arg[2]);
    give(&back, "v", j->arg[3]);
    give(&back, "saved", j->arg[4]);
    give(&back, "dscore_bias", NULL);
    return back;
}

static void test_attention(void **state)
{
    static const int64_t widths[] = {6, 2, 10};
    static const int32_t heads[] = {2, 2, 1};
    int kind, k, i;
    (void)state;
    for (kind = 0; kind < 4;
         kind++) /* full, causal, cross with a sequence without keys, long and causal */
        for (k = 0; k < 3; k++) {
            const int32_t *queries = kind == 3 ? long_lengths : self_lengths;
            trf_attention_shape s = shape_of(queries, kind == 2 ? cross_lengths : queries, heads[k],
                                             kind == 1 || kind == 3 ? TRF_CAUSAL : TRF_FULL);
            int64_t d = widths[k], n;
            job j = attention_job(&s, d), back;
            double *want;
            trf_real *again;
            trf_tensor *saved = j.arg[4];
            chain c;
            n = rows_of(queries) * d;
            want = plain_zeros(n);
            runs(&j);
            plain_sequences(want, NULL, doubles_of(j.arg[1]), doubles_of(j.arg[2]),
                            doubles_of(j.arg[3]), d, d, d, &s);
            assert_all_near("out", j.arg[0]->data, want, n, FORMULA);
            again = plain_copy(j.arg[0]->data, n);
            j.arg[4] = NULL;
            runs(&j);
            assert_memory_equal(again, j.arg[0]->data, (size_t)n * sizeof *again);
            j.arg[4] = saved;
            back = attention_backward_job(&j);
            runs(&back);
            if (kind == 3) continue;
            c.jobs[0] = &j; c.n = 1; c.dy = back.arg[3];
            for (i = 0; i < 3; i++)
                check_gradient(j.name[1 + i], &c, j.arg[1 + i], back.arg[i], NULL);
        }
}

/* Queries without keys get zero, and their gradient is zero. */
static void test_attention_without_keys(void **state)
{
    static const int32_t none[COUNT] = {0, 0, 0};
    trf_attention_shape s = shape_of(self_lengths, cross_lengths, 2, TRF_FULL), empty;
    job j = attention_job(&s, 4), back = attention_backward_job(&j);
    int i;
    (void)state;
    runs(&j);
    runs(&back);
    for (i = 4 * 4; i < 8 * 4; i++)
        assert_true(j.arg[0]->data[i] == 0 && back.arg[0]->data[i] == 0);
    empty = shape_of(self_lengths, none, 2, TRF_FULL);
    j = attention_job(&empty, 4);
    runs(&j);
    for (i = 0; i < 8 * 4; i++) assert_true(j.arg[0]->data[i] == 0);
}

/* A context that has computed something small grows for something larger, and back. */
static void test_attention_of_growing_sizes(void **state)
{
    int k;
    (void)state;
    for (k = 0; k < 4; k++) {
        const int32_t *lengths = k % 2 ? growing_lengths : self_lengths;
        int64_t d = k < 2 ? 4 : 40, n = rows_of(lengths) * d;
        trf_attention_shape s = shape_of(lengths, lengths, 2, TRF_CAUSAL);
        job j = attention_job(&s, d);
        double *want = plain_zeros(n);
        runs(&j);
        plain_sequences(want, NULL, doubles_of(j.arg[1]), doubles_of(j.arg[2]),
                        doubles_of(j.arg[3]), d, d, d, &s);
        assert_all_near("out", j.arg[0]->data, want, n, FORMULA);
    }
}

/* What attention and multi-head attention have in common. */
static void refuses_bad_shapes(const job *good)
{
    static const int32_t negative[COUNT] = {3, -1, 4}, other[COUNT] = {3, 2, 3};
    trf_attention_shape s = *good->shape;
    job j = *good;
    j.shape = NULL; refused(&j, TRF_E_INVALID_ARG, "shape", -1, "no shape");
    j.shape = &s;
    s.n_heads = 0; refused(&j, TRF_E_INVALID_ARG, "n_heads", -1, "no heads");
    s.n_heads = -2; refused(&j, TRF_E_INVALID_ARG, "n_heads", -1, "negative heads");
    s.n_heads = 4;
    refused(&j, TRF_E_INVALID_ARG, "n_heads", -1, "heads that do not divide the width");
    s = *good->shape;
    s.query_lengths = negative;
    refused(&j, TRF_E_INVALID_ARG, "lengths", 1, "negative queries");
    s = *good->shape;
    s.key_lengths = negative;
    refused(&j, TRF_E_INVALID_ARG, "lengths", 1, "negative keys");
    s = *good->shape;
    s.query_lengths = NULL;
    refused(&j, TRF_E_INVALID_ARG, "lengths", -1, "no query lengths");
    s = *good->shape;
    s.key_lengths = NULL;
    refused(&j, TRF_E_INVALID_ARG, "lengths", -1, "no key lengths");
    s = *good->shape; s.count = -1; refused(&j, TRF_E_INVALID_ARG, NULL, -1, "negative count");
    s = *good->shape;
    s.mask = (trf_mask)2;
    refused(&j, TRF_E_INVALID_ARG, "mask", -1, "no such mask");
    s = *good->shape; s.mask = TRF_CAUSAL; s.query_lengths = self_lengths; s.key_lengths = other;
    refused(&j, TRF_E_INVALID_ARG, "lengths", 1, "causal, other numbers of keys");
}

static void test_attention_errors(void **state)
{
    trf_attention_shape s = shape_of(self_lengths, cross_lengths, 2, TRF_FULL);
    job j = attention_job(&s, 6), back = attention_backward_job(&j);
    job wide = attention_job(&s, 1024),
        wide_back = attention_backward_job(&wide); /* asks for more scratch, too */
    (void)state;
    refuses_bent_tensors(&j, "attention");
    refuses_bent_tensors(&back, "attention backward");
    refuses_bad_shapes(&j);
    refuses_bad_shapes(&back);
    survives_no_memory(&wide, 2);
    survives_no_memory(&wide_back, 2);
}

/* Fewer key heads, a scale, and numbers that are added to scores, of each shape; some hide a key,
   and the last query of each sequence is hidden from all of them. */

enum { NO_NUMBERS, SHARED, PER_HEAD, PER_SEQUENCE, OF_BOTH, NUMBER_KINDS };

static trf_tensor *numbers_of(const trf_attention_shape *s, int kind, int hiding)
{
    int64_t n = weights_of(s) / s->n_heads, i, q = 0, k = 0;
    trf_tensor *t;
    for (i = 0; i < s->count; i++) {
        if (s->query_lengths[i] > q) q = s->query_lengths[i];
        if (s->key_lengths[i] > k) k = s->key_lengths[i];
    }
    if (kind == NO_NUMBERS) return NULL;
    if (kind == SHARED) t = random_tensor(q + 1, k + 2);    /* larger than it must be */
    else if (kind == PER_HEAD) {
        t = random_tensor(s->n_heads * q * k, 0);
        *t = trf_tensor_of(t->data, 3, s->n_heads, q, k);
    } else t = random_tensor(kind == OF_BOTH ? weights_of(s) : n, 0);
    n = trf_tensor_count(t);
    for (i = 0; hiding && i < n; i++)
        if (i % 5 == 2 || (kind == PER_SEQUENCE && i >= n - k) ||
            (kind == PER_HEAD && i % (q * k) >= (q - 1) * k))
            t->data[i] = -(trf_real)HUGE_VAL;
    return t;
}

static trf_tensor *like(const trf_tensor *t)
{
    trf_tensor *x = random_tensor(trf_tensor_count(t), 0);
    trf_real *data = x->data;
    *x = *t;
    x->data = data;
    return x;
}

static void test_attention_of_every_kind(void **state)
{
    static const int32_t heads[] = {4, 6, 3}, kv_heads[] = {2, 1, 0};
    int kind, k, mask, i;
    (void)state;
    for (kind = 0; kind < NUMBER_KINDS; kind++)
        for (k = 0; k < 3; k++)
            for (mask = 0; mask < 3; mask++) {      /* full, causal, cross */
                trf_attention_shape s = shape_of(self_lengths, mask == 2 ? cross_lengths
                                                 : self_lengths, heads[k],
                                                 mask == 1 ? TRF_CAUSAL : TRF_FULL);
                int64_t d = 3 * heads[k], n = rows_of(self_lengths) * d;
                double *want = plain_zeros(n), *p;
                trf_tensor *dnumbers = NULL;
                trf_real *before = NULL, *dq;
                job j, back;
                chain c;
                s.kv_heads = kv_heads[k];
                s.scale = k == 1 ? 0.3 : 0;
                s.score_bias = numbers_of(&s, kind, mask < 2);
                j = attention_job(&s, d);
                j.arg[5] = empty_tensor(weights_of(&s), 0);
                p = plain_zeros(weights_of(&s));
                runs(&j);
                plain_sequences(want, p, doubles_of(j.arg[1]), doubles_of(j.arg[2]),
                                doubles_of(j.arg[3]), d, j.arg[2]->shape[1], d, &s);
                assert_all_near("out", j.arg[0]->data, want, n, FORMULA);
                assert_all_near("probabilities", j.arg[5]->data, p, weights_of(&s), FORMULA);
                back = attention_backward_job(&j);
                runs(&back);
                c.jobs[0] = &j; c.n = 1; c.dy = back.arg[3];
                for (i = 0; i < 3; i++)
                    check_gradient(j.name[1 + i], &c, j.arg[1 + i], back.arg[i], NULL);
                if (!s.score_bias) continue;
                dq = plain_copy(back.arg[0]->data, n);
                dnumbers = like(s.score_bias);
                before = plain_copy(dnumbers->data, trf_tensor_count(dnumbers));
                back.arg[9] = dnumbers;
                runs(&j);
                runs(&back);
                assert_memory_equal(dq, back.arg[0]->data, (size_t)n * sizeof *dq);
                /* the const of score_bias goes: its numbers are nudged, and put back */
                check_gradient("score_bias", &c, (trf_tensor *)(uintptr_t)s.score_bias, dnumbers,
                               before);
            }
}

/* A query that sees no key has zeros for results, weights and gradients, and other queries are as
   without it. The least float hides nothing if all keys have it. Long rows, too: tiles. */
static void test_hidden_keys(void **state)
{
    static const int32_t lengths[COUNT] = {40, 1, 33};
    int round, i;
    (void)state;
    for (round = 0; round < 2; round++) {
        trf_attention_shape s = shape_of(lengths, lengths, 2, round ? TRF_CAUSAL : TRF_FULL);
        int64_t n = rows_of(lengths) * 6;
        trf_tensor *numbers = random_tensor(40, 40);
        double *want = plain_zeros(n);
        job j, back;
        s.score_bias = numbers;
        for (i = 0; i < 40; i++) {
            numbers->data[7 * 40 + i] = numbers->data[i] = -(trf_real)HUGE_VAL;
            numbers->data[9 * 40 + i] = -(trf_real)FLT_MAX;
        }
        j = attention_job(&s, 6);
        j.arg[5] = empty_tensor(weights_of(&s), 0);
        runs(&j);
        for (i = 0; i < 40; i++) numbers->data[9 * 40 + i] = 0;
        for (i = 0; i < 6; i++) j.arg[1]->data[9 * 6 + i] = j.arg[1]->data[50 * 6 + i] = 0;
        plain_sequences(want, NULL, doubles_of(j.arg[1]), doubles_of(j.arg[2]),
                        doubles_of(j.arg[3]), 6, 6, 6, &s);
        assert_all_near("out", j.arg[0]->data, want, n, FORMULA);
        for (i = 0; i < 6; i++)
            assert_true(j.arg[0]->data[i] == 0 && j.arg[0]->data[7 * 6 + i] == 0 &&
                        j.arg[0]->data[40 * 6 + i] == 0 && j.arg[0]->data[41 * 6 + i] == 0);
        for (i = 0; i < 40; i++) assert_true(j.arg[5]->data[i] == 0);
        back = attention_backward_job(&j);
        back.arg[9] = like(numbers);
        runs(&j);
        runs(&back);
        for (i = 0; i < 6; i++)
            assert_true(back.arg[0]->data[i] == 0 && back.arg[0]->data[7 * 6 + i] == 0);
        for (i = 0; i < n; i++)
            assert_true(back.arg[0]->data[i] - back.arg[0]->data[i] == 0 &&
                        back.arg[1]->data[i] - back.arg[1]->data[i] == 0 &&
                        back.arg[2]->data[i] - back.arg[2]->data[i] == 0);
    }
}

/* Values that are rows of the unit matrix: the result shows the weights after dropout. */
static void test_attention_dropout(void **state)
{
    enum { N = 64, HEADS = 2, D = HEADS * N };
    static const int32_t lengths[COUNT] = {N, 0, N};
    static const trf_dropout drops[] = {{0.25, 5, 3, 2}, {0.25, 5, 3, 4}};
    trf_attention_shape s = shape_of(lengths, lengths, HEADS, TRF_FULL);
    trf_real *first = NULL;
    int k, i, h;
    (void)state;
    for (k = 0; k < 2; k++) {
        job j = attention_job(&s, D);
        int kept = 0, differ = 0;
        s.dropout = &drops[k];
        j.arg[5] = empty_tensor(weights_of(&s), 0);
        for (i = 0; i < 2 * N * D; i++) j.arg[3]->data[i] = i % N == i / D % N;
        runs(&j);
        for (i = 0; i < 2 * N * D; i++) {
            double out = (double)j.arg[0]->data[i], p;
            h = i % D / N;
            p = (double)j.arg[5]->data[((i / D / N * HEADS + h) * N + i / D % N) * N + i % N];
            kept += out != 0;
            if (out != 0) assert_number_near(out, p / 0.75, FORMULA);
            if (first) differ += (out != 0) != (first[i] != 0);
        }
        assert_number_near(kept, 2 * N * D * 0.75, 4 * sqrt(2 * N * D * 0.1875));
        if (first) assert_number_near(differ, 2 * N * D * 0.375, 5 * sqrt(2 * N * D * 0.24));
        first = j.arg[0]->data;
    }
    {
        trf_attention_shape small = shape_of(self_lengths, self_lengths, 2, TRF_CAUSAL);
        job j, back;
        chain c;
        small.dropout = &drops[0];
        small.kv_heads = 1;
        j = attention_job(&small, 8);
        back = attention_backward_job(&j);
        runs(&j);
        runs(&back);
        c.jobs[0] = &j; c.n = 1; c.dy = back.arg[3];
        for (i = 0; i < 3; i++) check_gradient(j.name[1 + i], &c, j.arg[1 + i], back.arg[i], NULL);
    }
}

static void test_numbers_errors(void **state)
{
    static const double bad[] = {NAN, HUGE_VAL};
    trf_attention_shape s = shape_of(self_lengths, cross_lengths, 2, TRF_FULL), plain = s;
    trf_tensor numbers = *numbers_of(&s, OF_BOTH, 0), wide = *numbers_of(&s, SHARED, 0);
    trf_tensor head = *numbers_of(&s, PER_HEAD, 0);
    trf_dropout drop = {1, 1, 1, 1};
    job j, back;
    int i;
    (void)state;
    s.score_bias = &numbers;
    j = attention_job(&s, 6);
    runs(&j);
    back = attention_backward_job(&j);
    back.arg[9] = like(&numbers);
    refuses_bent_tensors(&back, "attention backward with numbers");
    survives_no_memory(&back, 2);
    numbers.shape[0]++; refused(&j, TRF_E_SHAPE, "score_bias", -1, "one more"); numbers.shape[0]--;
    numbers.shape[0]--; refused(&j, TRF_E_SHAPE, "score_bias", -1, "one less"); numbers.shape[0]++;
    for (i = 0; i < 2; i++) {
        trf_real kept = numbers.data[11];
        numbers.data[11] = (trf_real)bad[i];
        refused(&j, TRF_E_INVALID_ARG, "score_bias", 11, "a number that is none");
        refused(&back, TRF_E_INVALID_ARG, "score_bias", 11, "a number that is none, backward");
        numbers.data[11] = kept;
        kept = wide.data[3];
        s.score_bias = &wide;
        wide.data[3] = (trf_real)bad[i];
        refused(&j, TRF_E_INVALID_ARG, "score_bias", 3, "a number that is none, for all");
        wide.data[3] = kept;
        kept = wide.data[5];            /* the longest sequences do not reach it */
        wide.data[wide.shape[1] - 1] = (trf_real)bad[i];
        runs(&j);
        wide.data[wide.shape[1] - 1] = kept;
        s.score_bias = &numbers;
    }
    s.score_bias = &wide;
    wide.shape[0] = 3; refused(&j, TRF_E_SHAPE, "score_bias", -1, "too few queries");
    wide.shape[0] = (int64_t)1 << 40; wide.shape[1] = (int64_t)1 << 40;
    refused(&j, TRF_E_SHAPE, "score_bias", -1, "more than there can be");
    wide.shape[0] = wide.shape[1] = 5; wide.data = NULL;
    refused(&j, TRF_E_INVALID_ARG, "score_bias", -1, "no numbers");
    s.score_bias = &head;
    for (i = 0; i < 3; i++) {
        head.shape[i]--;
        refused(&j, TRF_E_SHAPE, "score_bias", -1, "heads, queries or keys");
        head.shape[i]++;
    }
    head.rank = 0; refused(&j, TRF_E_SHAPE, "score_bias", -1, "no rank");
    head.rank = 4; refused(&j, TRF_E_SHAPE, "score_bias", -1, "rank 4");
    back.shape = &plain;
    refused(&back, TRF_E_INVALID_ARG, "dscore_bias", -1, "a gradient of nothing");
    j.shape = &plain;
    for (i = 0; i < 4; i++) {
        static const int32_t kv[] = {-1, 3, 4, -2};
        plain.kv_heads = kv[i];
        refused(&j, TRF_E_INVALID_ARG, "kv_heads", -1, "kv_heads that do not divide n_heads");
    }
    plain.kv_heads = 1;
    refused(&j, TRF_E_SHAPE, "k", -1, "keys of more heads");
    plain.kv_heads = 0;
    for (i = 0; i < 3; i++) {
        static const double scales[] = {-1, 2e6, NAN};
        plain.scale = scales[i];
        refused(&j, TRF_E_INVALID_ARG, "scale", -1, "scale");
    }
    plain.scale = 0;
    plain.dropout = &drop;
    refused(&j, TRF_E_INVALID_ARG, "p", -1, "p");
}

/* -----------------------------------------------------------------------------------------------
   Rotary positions */

static trf_config rotary_config(int32_t width, trf_rotary_pairs pairs, int llama)
{
    trf_config c = trf_config_preset(TRF_TINY);
    c.rotary_base = 300;
    c.rotary_width = width;
    c.rotary_pairs = pairs;
    c.rotary_scale = llama ? 4 : 1.5;
    c.rotary_trained = llama ? 64 : 0;
    return c;
}

/* x (rows, heads * width) of one head turned by its position in place: the formulas of trf_config. */
static void plain_turn(double *head, int64_t d, int64_t position, const trf_config *c, int back)
{
    int64_t w = c->rotary_width ? c->rotary_width : d, i;
    for (i = 0; i < w / 2; i++) {
        int64_t a = c->rotary_pairs == TRF_ROTARY_HALVES ? i : 2 * i,
            b = c->rotary_pairs == TRF_ROTARY_HALVES ? i + w / 2 : 2 * i + 1;
        double slow = pow(c->rotary_base, -2.0 * (double)i / (double)w), x = head[a], y = head[b];
        double turns = c->rotary_trained * slow / (2 * acos(-1.0)), share = 1, angle;
        if (c->rotary_trained) share = turns >= 4 ? 0 : turns <= 1 ? 1 : (4 - turns) / 3;
        angle = (double)position * slow * (share / c->rotary_scale + 1 - share) * (back ? -1 : 1);
        head[a] = x * cos(angle) - y * sin(angle);
        head[b] = y * cos(angle) + x * sin(angle);
    }
}

static void plain_turn_all(double *x, const int32_t *lengths, const int32_t *keys, int32_t heads,
                           int64_t d, const trf_config *c, int back)
{
    int64_t row = 0, i;
    int32_t n, h;
    for (n = 0; n < COUNT; n++)
        for (i = 0; i < lengths[n]; i++, row++)
            for (h = 0; h < heads; h++)
                plain_turn(x + (row * heads + h) * d, d, keys[n] - lengths[n] + i, c, back);
}

static job rotary_job(const trf_attention_shape *s, int64_t d, int back)
{
    job j = job_of(call_rotary, 3, 1);
    j.shape = s;
    j.back = back;
    give(&j, "q", random_tensor(rows_of(s->query_lengths), s->n_heads * d));
    give(&j, "k", random_tensor(rows_of(s->key_lengths), key_heads(s) * d));
    return j;
}

static void test_rotary(void **state)
{
    static const int32_t cached[COUNT] = {5, 1, 23}, last[COUNT] = {1, 0, 4};
    int kind, back, cache;
    (void)state;
    for (kind = 0; kind < 8; kind++)
        for (back = 0; back < 2; back++)
            for (cache = 0; cache < 2; cache++) {
                trf_config c = rotary_config(kind & 2 ? 4 : 0, (trf_rotary_pairs)(kind & 1),
                                             kind & 4);
                const int32_t *queries = cache ? last : self_lengths,
                              *keys = cache ? cached : self_lengths;
                trf_attention_shape s = shape_of(queries, keys, 4, TRF_FULL);
                int64_t d = kind & 2 ? 6 : 36, i;
                double *q, *k;
                trf_real *alone;
                job j;
                s.kv_heads = 2;
                s.rotary = &c;
                j = rotary_job(&s, d, back);
                q = doubles_of(j.arg[0]); k = doubles_of(j.arg[1]);
                alone = plain_copy(j.arg[0]->data, trf_tensor_count(j.arg[0]));
                plain_turn_all(q, queries, keys, 4, d, &c, back);
                plain_turn_all(k, keys, keys, 2, d, &c, back);
                runs(&j);
                assert_all_near("q", j.arg[0]->data, q, trf_tensor_count(j.arg[0]), FORMULA);
                assert_all_near("k", j.arg[1]->data, k, trf_tensor_count(j.arg[1]), FORMULA);
                for (i = 0; i < 2; i++) {       /* back again; and each alone */
                    job other = j;
                    other.back = !back;
                    other.arg[i] = NULL;
                    runs(&other);
                }
                for (i = 0; i < trf_tensor_count(j.arg[0]); i++)
                    assert_number_near(j.arg[0]->data[i], alone[i], 4 * FORMULA);
            }
}

static void test_rotary_errors(void **state)
{
    static const int32_t fewer[COUNT] = {3, 0, 4}, one[COUNT] = {1, 1, 1};
    static const int32_t huge[COUNT] = {1, (1 << 24) + 1, 9};
    static const double bases[] = {0.5, NAN, 2e12};
    trf_config c = rotary_config(4, TRF_ROTARY_HALVES, 0), bad;
    trf_attention_shape s = shape_of(self_lengths, self_lengths, 4, TRF_FULL), t;
    job j, k;
    int i;
    (void)state;
    s.kv_heads = 2;
    s.rotary = &c;
    j = rotary_job(&s, 6, 0);
    survives_no_memory(&j, 2);
    k = j; k.shape = NULL; refused(&k, TRF_E_INVALID_ARG, "shape", -1, "no shape");
    t = s; t.n_heads = 5; t.kv_heads = 0; k.shape = &t;
    refused(&k, TRF_E_INVALID_ARG, "n_heads", -1, "heads that do not divide the width");
    for (i = 0; i < 2; i++) {
        trf_tensor bent = *j.arg[i];
        k = j;
        k.arg[i] = &bent;
        bent.data = NULL; refused(&k, TRF_E_INVALID_ARG, k.name[i], -1, "no data");
        bent = *j.arg[i]; bent.shape[0]++; refused(&k, TRF_E_SHAPE, k.name[i], -1, "a row more");
        bent = *j.arg[i]; bent.rank = 1; refused(&k, TRF_E_SHAPE, k.name[i], -1, "rank 1");
    }
    k = j;
    k.arg[0] = k.arg[1] = NULL;
    refused(&k, TRF_E_INVALID_ARG, "q", -1, "nothing to turn");
    k = j; k.back = 2; refused(&k, TRF_E_INVALID_ARG, "back", -1, "back");
    t = s; k = j; k.shape = &t;
    t.rotary = NULL;
    refused(&k, TRF_E_INVALID_ARG, "rotary", -1, "no rotary");
    t = s; t.key_lengths = fewer; k.arg[1] = random_tensor(7, 12);
    refused(&k, TRF_E_INVALID_ARG, "lengths", 1, "more queries than keys");
    k.arg[0] = NULL;
    runs(&k);
    t.key_lengths = huge; t.query_lengths = one; k = j; k.shape = &t;
    k.arg[0] = random_tensor(3, 24); k.arg[1] = NULL;
    refused(&k, TRF_E_LIMIT, "lengths", -1, "positions without end");
    k = j; t = s; t.rotary = &bad; k.shape = &t;
    for (i = 0; i < 3; i++) {
        bad = c; bad.rotary_base = bases[i];
        refused(&k, TRF_E_INVALID_ARG, "rotary_base", -1, "base");
    }
    bad = c; bad.rotary_width = 7; refused(&k, TRF_E_INVALID_ARG, "rotary_width", -1, "wide");
    bad = c; bad.rotary_width = 3; refused(&k, TRF_E_INVALID_ARG, "rotary_width", -1, "odd");
    bad = c; bad.rotary_scale = 0; refused(&k, TRF_E_INVALID_ARG, "rotary_scale", -1, "scale");
    bad = c; bad.rotary_pairs = TRF_ROTARY_PAIRS_COUNT;
    refused(&k, TRF_E_INVALID_ARG, "rotary_pairs", -1, "pairs");
    bad = c; bad.rotary_trained = 9; bad.rotary_low = bad.rotary_high;
    refused(&k, TRF_E_INVALID_ARG, "rotary_high", -1, "low and high");
    memset(&bad, 0x5A, sizeof bad);     /* other fields are not read */
    bad.rotary_base = 10; bad.rotary_width = 0; bad.rotary_scale = 1; bad.rotary_trained = 0;
    bad.rotary_low = 1; bad.rotary_high = 4; bad.rotary_pairs = TRF_ROTARY_HALVES;
    runs(&k);
}

/* -----------------------------------------------------------------------------------------------
   Multi-head attention */

/* d_head is d / n_heads. */
static job heads_job(const trf_attention_shape *s, int64_t d, int cross)
{
    /* in_weight decides d_head */
    job j = job_of(call_heads, 1u << 2 | 1u << 4 | 7u << 6, 1u << 1 | 1u << 3);
    int64_t wide = d + 2 * (d / s->n_heads * key_heads(s)), queries = rows_of(s->query_lengths), keys = rows_of(s->key_lengths);
    j.shape = s;
    give(&j, "y", empty_tensor(queries, d));
    give(&j, "x", random_tensor(queries, d));
    give(&j, "memory", cross ? random_tensor(keys, d) : NULL);
    give(&j, "in_weight", random_tensor(wide, d));
    give(&j, "in_bias", random_tensor(wide, 0));
    give(&j, "out_weight", random_tensor(d, d));
    give(&j, "out_bias", random_tensor(d, 0));
    give(&j, "saved", NULL);
    give(&j, "probabilities", NULL);
    {
        trf_attention_params p = attention_params(j.arg + 3);
        j.arg[7] = empty_tensor(trf_attention_saved(s, &p), 0);
    }
    return j;
}

/* dx, dmemory, four gradients, dy, then what forward had. before: of the four gradients. */
static job heads_backward_job(const job *j, trf_tensor *dy, trf_real *before[4])
{
    job back = job_of(call_heads_backward, 0, 1u << 7 | 1u << 9);
    int64_t d = j->arg[1]->shape[1];
    int i;
    back.shape = j->shape;
    give(&back, "dx", empty_tensor(j->arg[1]->shape[0], d));
    give(&back, "dmemory", j->arg[2] ? empty_tensor(j->arg[2]->shape[0], d) : NULL);
    for (i = 0; i < 4; i++) {
        sum g = sum_like(j->arg[3 + (j->arg[3 + i] ? i : 0)]);
        if (before) before[i] = g.before;
        give(&back, j->name[3 + i], j->arg[3 + i] ? g.t : NULL);
    }
    give(&back, "dy", dy ? dy : random_tensor(j->arg[1]->shape[0], d));
    for (i = 1; i < 8; i++) give(&back, j->name[i], j->arg[i]);
    give(&back, "dscore_bias", NULL);
    back.optional = 1u << 3 | 1u << 5 | 1u << 8 | 1u << 10 | 1u << 12 | 1u << 14;
    return back;
}

static void test_multi_head_attention(void **state)
{
    enum { D = 6, HEADS = 2 };
    int kind, i;
    (void)state;
    for (kind = 0; kind < 4; kind++) {      /* self, causal self, cross, memory = x */
        trf_attention_shape s = shape_of(self_lengths, kind == 2 ? cross_lengths : self_lengths,
                                         HEADS, kind == 1 ? TRF_CAUSAL : TRF_FULL);
        job j = heads_job(&s, D, kind == 2), back;
        int64_t queries = rows_of(s.query_lengths), keys = rows_of(s.key_lengths);
        double *wide = plain_zeros(queries * 3 * D), *memory = plain_zeros(keys * 3 * D),
               *x = doubles_of(j.arg[1]);
        double *inner = plain_zeros(queries * D), *want = plain_zeros(queries * D),
               *w = doubles_of(j.arg[3]);
        double *b = doubles_of(j.arg[4]);
        trf_real *before[4];
        chain c;
        if (kind == 3) j.arg[2] = j.arg[1];
        plain_linear(wide, x, w, b, queries, 3 * D, D);
        plain_linear(memory, kind == 2 ? doubles_of(j.arg[2]) : x, w, b, keys, 3 * D, D);
        plain_sequences(inner, NULL, wide, memory + D, memory + 2 * D, 3 * D, 3 * D, D, &s);
        plain_linear(want, inner, doubles_of(j.arg[5]), doubles_of(j.arg[6]), queries, D, D);
        runs(&j);
        assert_all_near("y", j.arg[0]->data, want, queries * D, FORMULA);
        if (kind == 3) j.arg[2] = NULL;
        back = heads_backward_job(&j, NULL, before);
        if (kind == 3) { back.arg[1] = NULL; back.arg[8] = back.arg[7]; }
        runs(&back);
        c.jobs[0] = &j; c.n = 1; c.dy = back.arg[6];
        check_gradient("x", &c, j.arg[1], back.arg[0], NULL);
        if (kind == 2) check_gradient("memory", &c, j.arg[2], back.arg[1], NULL);
        for (i = 0; i < 4; i++)
            check_gradient(j.name[3 + i], &c, j.arg[3 + i], back.arg[2 + i], before[i]);
    }
}

static void test_multi_head_attention_errors(void **state)
{
    trf_attention_shape s = shape_of(self_lengths, cross_lengths, 2, TRF_FULL);
    job j = heads_job(&s, 6, 1), back = heads_backward_job(&j, NULL, NULL);
    (void)state;
    refuses_bent_tensors(&j, "multi-head attention");
    refuses_bent_tensors(&back, "multi-head attention backward");
    refuses_bad_shapes(&j);
    refuses_bad_shapes(&back);
    survives_no_memory(&j, 1);
    survives_no_memory(&back, 2);
    assert_int_equal(trf_multi_head_attention(shared, j.arg[0], j.arg[1], j.arg[2], NULL, &s,
                                              NULL, j.arg[7], NULL),
                     TRF_E_INVALID_ARG);
    {
        trf_attention_params p = attention_params(j.arg + 3);
        assert_int_equal(trf_multi_head_attention_backward(shared, back.arg[0], back.arg[1], NULL,
                                                           NULL, back.arg[6], back.arg[7],
                                                           back.arg[8], &p, &s, back.arg[13],
                                                           NULL),
                         TRF_E_INVALID_ARG);
    }
    /* no memory means x: then keys and queries must be equal in number */
    j.arg[2] = NULL;
    refused(&j, TRF_E_SHAPE, "memory", -1, "self-attention with other keys");
    s = shape_of(growing_lengths, growing_lengths, 2, TRF_CAUSAL);
    j = heads_job(&s, 6, 1);
    runs(&j);
    back = heads_backward_job(&j, NULL, NULL);
    survives_no_memory(&j, 2);
    survives_no_memory(&back, 3);
}

/* Fewer key heads, rotary positions, numbers and dropout, without biases: what the chain of blocks
   computes, and the gradients of it all. */
static void test_multi_head_attention_of_every_kind(void **state)
{
    enum { D = 8, HEADS = 4, KV = 2, WIDE = 12 };   /* d_head 2, or 6, which is more than D / HEADS */
    static const trf_dropout drop = {0.3, 5, 3, 2};
    int kind, i;
    (void)state;
    for (kind = 0; kind < 6; kind++) {
        trf_config c = rotary_config(0, (trf_rotary_pairs)(kind % 2), 0);
        int64_t d_head = kind > 3 ? 6 : D / HEADS, q_width = HEADS * d_head, k_width = KV * d_head;
        int cross = kind == 3, biased = kind > 1;
        trf_attention_shape s = shape_of(self_lengths, cross ? cross_lengths : self_lengths, HEADS,
                                         kind % 2 && !cross ? TRF_CAUSAL : TRF_FULL);
        int64_t rows = rows_of(s.query_lengths), keys = rows_of(s.key_lengths);
        trf_real *before[4], *bias_before;
        trf_tensor *q, *k, *v, *mixed, *y, *none = random_tensor(1, 0);
        trf_tensor w[3], b[3];
        const trf_tensor *from;
        job j, back;
        chain chained;
        none->data = NULL; none->rank = 0;
        s.kv_heads = KV;
        s.rotary = cross ? NULL : &c;
        s.dropout = kind == 2 ? &drop : NULL;
        s.score_bias = numbers_of(&s, 1 + kind % 4, 0);
        j = heads_job(&s, D, cross);
        j.arg[3] = random_tensor(q_width + 2 * k_width, D);
        j.arg[4] = biased ? random_tensor(q_width + 2 * k_width, 0) : none;
        j.arg[5] = random_tensor(D, q_width);
        if (!biased) j.arg[6] = none;
        {
            trf_attention_params p = attention_params(j.arg + 3);
            j.arg[7] = empty_tensor(trf_attention_saved(&s, &p), 0);
        }
        runs(&j);
        from = cross ? j.arg[2] : j.arg[1];
        for (i = 0; i < 3; i++) {
            int64_t at = i == 0 ? 0 : q_width + (i - 1) * k_width, n = i == 0 ? q_width : k_width;
            w[i] = trf_tensor_of(j.arg[3]->data + at * D, 2, n, D, 1);
            if (biased) b[i] = trf_tensor_of(j.arg[4]->data + at, 1, n, 1, 1);
        }
        q = empty_tensor(rows, q_width); k = empty_tensor(keys, k_width);
        v = empty_tensor(keys, k_width); mixed = empty_tensor(rows, q_width);
        y = empty_tensor(rows, D);
        assert_int_equal(trf_linear(shared, q, j.arg[1], &w[0], biased ? &b[0] : NULL, NULL), 0);
        assert_int_equal(trf_linear(shared, k, from, &w[1], biased ? &b[1] : NULL, NULL), 0);
        assert_int_equal(trf_linear(shared, v, from, &w[2], biased ? &b[2] : NULL, NULL), 0);
        if (s.rotary) assert_int_equal(trf_rotary(shared, q, k, &s, 0, NULL), TRF_OK);
        assert_int_equal(trf_attention(shared, mixed, q, k, v, &s, NULL, NULL, NULL), TRF_OK);
        assert_int_equal(trf_linear(shared, y, mixed, j.arg[5], biased ? j.arg[6] : NULL, NULL), 0);
        assert_all_near("y", j.arg[0]->data, doubles_of(y), rows * D, FORMULA);
        if (!biased) j.arg[4] = j.arg[6] = NULL;    /* the test's way to write an empty struct */
        back = heads_backward_job(&j, NULL, before);
        back.arg[14] = like(s.score_bias);
        bias_before = plain_copy(back.arg[14]->data, trf_tensor_count(back.arg[14]));
        runs(&j);
        runs(&back);
        chained.jobs[0] = &j; chained.n = 1; chained.dy = back.arg[6];
        check_gradient("x", &chained, j.arg[1], back.arg[0], NULL);
        if (cross) check_gradient("memory", &chained, j.arg[2], back.arg[1], NULL);
        for (i = 0; i < 4; i += biased ? 1 : 2)
            check_gradient(j.name[3 + i], &chained, j.arg[3 + i], back.arg[2 + i], before[i]);
        check_gradient("score_bias", &chained, (trf_tensor *)(uintptr_t)s.score_bias,
                       back.arg[14], bias_before);
        if (cross) {
            s.rotary = &c;
            refused(&j, TRF_E_INVALID_ARG, "rotary", -1, "rotary with a memory");
        } else {
            static const int32_t turned[COUNT] = {4, 1, 3};     /* as many rows in all */
            trf_attention_shape other = s;
            other.mask = TRF_FULL;
            other.score_bias = NULL;
            other.key_lengths = turned;
            j.shape = &other;
            refused(&j, TRF_E_INVALID_ARG, "lengths", 0, "rotary with other keys");
            other = s;
            other.kv_heads = 3;
            refused(&j, TRF_E_INVALID_ARG, "kv_heads", -1, "kv_heads that do not divide");
        }
    }
}

/* The same bits without `saved`, also where a larger call has left room in the context. */
static void runs_without_saved(job *j, int saved)
{
    int64_t n = trf_tensor_count(j->arg[0]);
    trf_tensor *kept = j->arg[saved];
    trf_real *with;
    runs(j);
    with = plain_copy(j->arg[0]->data, n);
    memset(j->arg[0]->data, 0x5A, (size_t)n * sizeof *with);
    j->arg[saved] = NULL;
    runs(j);
    assert_memory_equal(with, j->arg[0]->data, (size_t)n * sizeof *with);
    survives_no_memory(j, 1);
    j->arg[saved] = kept;
}

static void test_multi_head_attention_without_saved(void **state)
{
    int kind, round;
    (void)state;
    for (round = 0; round < 2; round++)
        for (kind = 0; kind < 4; kind++) {      /* self, causal, cross, long */
            const int32_t *queries = kind == 3 ? long_lengths : self_lengths;
            trf_attention_shape s = shape_of(queries, kind == 2 ? cross_lengths : queries, 2,
                                             kind == 1 ? TRF_CAUSAL : TRF_FULL);
            job j = heads_job(&s, 6, kind == 2);
            runs_without_saved(&j, 7);
        }
}

/* -----------------------------------------------------------------------------------------------
   Probabilities */

static job probabilities_job(const trf_attention_shape *s, int64_t d)
{
    job j = job_of(call_probabilities, 1, 1u << 1);      /* without them v would be needed */
    j.shape = s;
    give(&j, "probabilities", empty_tensor(weights_of(s), 0));
    give(&j, "q", random_tensor(rows_of(s->query_lengths), d));
    give(&j, "k", random_tensor(rows_of(s->key_lengths), d));
    return j;
}

static job heads_probabilities_job(const trf_attention_shape *s, int64_t d, int cross)
{
    job j = heads_job(s, d, cross);
    j.arg[7] = NULL;
    j.arg[8] = empty_tensor(weights_of(s), 0);
    return j;
}

static void test_probabilities(void **state)
{
    enum { D = 6, HEADS = 2 };
    int kind;
    (void)state;
    for (kind = 0; kind < 4;
         kind++) { /* full, causal, cross with a sequence without keys, long and causal */
        const int32_t *queries = kind == 3 ? long_lengths : self_lengths;
        trf_attention_shape s = shape_of(queries, kind == 2 ? cross_lengths : queries, HEADS,
                                         kind == 1 || kind == 3 ? TRF_CAUSAL : TRF_FULL);
        int64_t n = weights_of(&s), q = rows_of(s.query_lengths), k = rows_of(s.key_lengths);
        job j = probabilities_job(&s, D), heads = heads_probabilities_job(&s, D, kind == 2);
        double *want = plain_zeros(n), *out = plain_zeros(q * D), *v = plain_zeros(k * 3 * D);
        double *wide = plain_zeros(q * 3 * D), *memory = plain_zeros(k * 3 * D), *w, *b;
        trf_tensor *weights = heads.arg[8];
        trf_real *y;
        runs(&j);
        plain_sequences(out, want, doubles_of(j.arg[1]), doubles_of(j.arg[2]), v, D, D, D, &s);
        assert_all_near("probabilities", j.arg[0]->data, want, n, FORMULA);
        w = doubles_of(heads.arg[3]); b = doubles_of(heads.arg[4]);
        plain_linear(wide, doubles_of(heads.arg[1]), w, b, q, 3 * D, D);
        plain_linear(memory, doubles_of(heads.arg[kind == 2 ? 2 : 1]), w, b, k, 3 * D, D);
        runs(&heads);
        plain_sequences(out, want, wide, memory + D, memory + 2 * D, 3 * D, 3 * D, D, &s);
        assert_all_near("probabilities of heads", weights->data, want, n, FORMULA);
        y = plain_copy(heads.arg[0]->data, q * D);      /* nobody asks for them: the same y */
        heads.arg[8] = NULL;
        runs(&heads);
        assert_memory_equal(y, heads.arg[0]->data, (size_t)(q * D) * sizeof *y);
    }
}

/* One sequence may also be (heads, queries, keys); and what is wrong is refused. */
static void test_probabilities_errors(void **state)
{
    trf_attention_shape s = shape_of(self_lengths, cross_lengths, 2, TRF_FULL), one;
    job j = probabilities_job(&s, 6), heads = heads_probabilities_job(&s, 6, 1);
    trf_tensor maps;
    int k;
    (void)state;
    refuses_bent_tensors(&j, "probabilities");
    refuses_bent_tensors(&heads, "probabilities of heads");
    refuses_bad_shapes(&j);
    refuses_bad_shapes(&heads);
    survives_no_memory(&heads, 2);
    one = shape_of(self_lengths, cross_lengths, 2, TRF_FULL);
    one.count = 1;
    j.shape = &one;
    j.arg[1]->shape[0] = self_lengths[0];
    j.arg[2]->shape[0] = cross_lengths[0];
    maps = trf_tensor_of(j.arg[0]->data, 3, 2, self_lengths[0], cross_lengths[0]);
    j.arg[0] = &maps;
    runs(&j);
    for (k = 0; k < 3; k++) {
        maps.shape[k]++;
        refused(&j, TRF_E_SHAPE, "probabilities", -1, "another extent");
        maps.shape[k]--;
    }
    maps.shape[0] = self_lengths[0]; maps.shape[1] = 2;
    refused(&j, TRF_E_SHAPE, "probabilities", -1, "heads in the second extent");
}

/* -----------------------------------------------------------------------------------------------
   Feed-forward */

static job feed_forward_job(int64_t rows, int64_t d, int64_t f, trf_activation activation)
{
    job j = job_of(call_feed_forward, 1u << 3 | 3u << 5, 1u << 1 | 1u << 2);
    j.activation = activation;
    give(&j, "y", empty_tensor(rows, d));
    give(&j, "x", random_tensor(rows, d));
    give(&j, "w1", random_tensor(f, d));
    give(&j, "b1", random_tensor(f, 0));
    give(&j, "w2", random_tensor(d, f));
    give(&j, "b2", random_tensor(d, 0));
    give(&j, "saved", empty_tensor(2 * rows * f, 0));
    return j;
}

static job feed_forward_backward_job(const job *j, trf_tensor *dy, trf_real *before[4])
{
    job back = job_of(call_feed_forward_backward, 5u << 2 | 5u << 8, 1u << 1 | 1u << 6 | 1u << 7);
    int i;
    back.activation = j->activation;
    give(&back, "dx", empty_tensor(j->arg[1]->shape[0], j->arg[1]->shape[1]));
    for (i = 0; i < 4; i++) {
        sum g = sum_like(j->arg[2 + (j->arg[2 + i] ? i : 0)]);
        if (before) before[i] = g.before;
        give(&back, j->name[2 + i], j->arg[2 + i] ? g.t : NULL);
    }
    give(&back, "dy", dy ? dy : random_tensor(j->arg[1]->shape[0], j->arg[1]->shape[1]));
    for (i = 1; i < 7; i++) give(&back, j->name[i], j->arg[i]);
    return back;
}

/* relu has no slope at 0: draws w1 until nothing before the activation is near enough to be nudged
   across. */
static void keep_off_the_corner(job *j)
{
    int64_t rows = j->arg[1]->shape[0], d = j->arg[1]->shape[1], f = j->arg[2]->shape[0], i;
    double closest = 0, *h = plain_zeros(rows * f);
    while (closest < 3 * NUDGE) {
        for (i = 0; i < f * d; i++) j->arg[2]->data[i] = (trf_real)plain_draw();
        plain_linear(h, doubles_of(j->arg[1]), doubles_of(j->arg[2]), doubles_of(j->arg[3]), rows,
                     f, d);
        for (closest = 1, i = 0; i < rows * f; i++) if (fabs(h[i]) < closest) closest = fabs(h[i]);
    }
}

static void test_feed_forward(void **state)
{
    enum { ROWS = 4, D = 5, F = 7 };
    int kind, i;
    (void)state;
    for (kind = TRF_RELU; kind < TRF_ACTIVATION_COUNT; kind++) {
        job j = feed_forward_job(ROWS, D, F, (trf_activation)kind), back;
        double inner[ROWS * F], want[ROWS * D];
        trf_real *before[4];
        chain c;
        keep_off_the_corner(&j);
        back = feed_forward_backward_job(&j, NULL, before);
        plain_linear(inner, doubles_of(j.arg[1]), doubles_of(j.arg[2]), doubles_of(j.arg[3]), ROWS,
                     F, D);
        for (i = 0; i < ROWS * F; i++) inner[i] = plain_activation(kind, inner[i]);
        plain_linear(want, inner, doubles_of(j.arg[4]), doubles_of(j.arg[5]), ROWS, D, F);
        runs(&j);
        assert_all_near("y", j.arg[0]->data, want, ROWS * D, FORMULA);
        runs(&back);
        c.jobs[0] = &j; c.n = 1; c.dy = back.arg[5];
        check_gradient("x", &c, j.arg[1], back.arg[0], NULL);
        for (i = 0; i < 4; i++)
            check_gradient(j.name[2 + i], &c, j.arg[2 + i], back.arg[1 + i], before[i]);
    }
}

/* With a gate: w1 has the rows of both matrices. Biases are there or not. */
static void test_feed_forward_with_a_gate(void **state)
{
    enum { ROWS = 4, D = 5, F = 7 };
    int kind, i, k;
    (void)state;
    for (kind = 0; kind < 2 * TRF_ACTIVATION_COUNT; kind++) {
        int biased = kind % 2;
        job j = feed_forward_job(ROWS, D, 2 * F, (trf_activation)(kind / 2)), back;
        double inner[ROWS * 2 * F], want[ROWS * D];
        trf_real *before[4];
        chain c;
        keep_off_the_corner(&j);
        j.arg[4] = random_tensor(D, F);
        j.arg[6] = empty_tensor(3 * ROWS * F, 0);
        if (!biased) {
            for (i = 0; i < 2 * F; i++) j.arg[3]->data[i] = 0;
            keep_off_the_corner(&j);
            j.arg[3] = j.arg[5] = NULL;
        }
        {
            trf_feed_forward_params p = feed_forward_params(j.arg + 2);
            assert_int_equal(trf_feed_forward_saved(ROWS, &p), 3 * ROWS * F);
        }
        plain_linear(inner, doubles_of(j.arg[1]), doubles_of(j.arg[2]),
                     biased ? doubles_of(j.arg[3]) : NULL, ROWS, 2 * F, D);
        for (i = 0; i < ROWS; i++)
            for (k = 0; k < F; k++)
                inner[i * F + k] = plain_activation(kind / 2, inner[i * 2 * F + k]) *
                                   inner[i * 2 * F + F + k];
        plain_linear(want, inner, doubles_of(j.arg[4]), biased ? doubles_of(j.arg[5]) : NULL, ROWS,
                     D, F);
        runs(&j);
        assert_all_near("y", j.arg[0]->data, want, ROWS * D, FORMULA);
        back = feed_forward_backward_job(&j, NULL, before);
        runs(&back);
        c.jobs[0] = &j; c.n = 1; c.dy = back.arg[5];
        check_gradient("x", &c, j.arg[1], back.arg[0], NULL);
        for (i = 0; i < 4; i += biased ? 1 : 2)
            check_gradient(j.name[2 + i], &c, j.arg[2 + i], back.arg[1 + i], before[i]);
        runs_without_saved(&j, 6);
    }
}

static void test_feed_forward_without_saved(void **state)
{
    int rows;
    (void)state;
    for (rows = 1; rows < 300; rows += 97) {
        job j = feed_forward_job(rows, 5, 7, TRF_GELU);
        runs_without_saved(&j, 6);
    }
}

static void test_feed_forward_errors(void **state)
{
    job j = feed_forward_job(4, 5, 7, TRF_GELU), back, bad;
    (void)state;
    refuses_bent_tensors(&j, "feed-forward");
    back = feed_forward_backward_job(&j, NULL, NULL);
    refuses_bent_tensors(&back, "feed-forward backward");
    bad = j; bad.activation = TRF_ACTIVATION_COUNT;
    refused(&bad, TRF_E_INVALID_ARG, "activation", -1, "no such activation");
    bad = back; bad.activation = (trf_activation)77;
    refused(&bad, TRF_E_INVALID_ARG, "activation", -1, "no such activation, backward");
    /* without rows `saved` has no size that could tell it */
    bad = feed_forward_job(0, 5, 7, TRF_GELU);
    bad = feed_forward_backward_job(&bad, NULL, NULL);
    runs(&bad);
    bad.arg[1] = random_tensor(6, 5); bad.arg[2] = random_tensor(6, 0);
    bad.arg[3] = random_tensor(5, 6);
    refused(&bad, TRF_E_SHAPE, "w1", -1, "gradients of another d_ff");
    survives_no_memory(&back, 1);
    assert_int_equal(trf_feed_forward(shared, j.arg[0], j.arg[1], NULL, TRF_RELU, j.arg[6], NULL),
                     TRF_E_INVALID_ARG);
    {
        trf_feed_forward_params p = feed_forward_params(j.arg + 2);
        assert_int_equal(trf_feed_forward_backward(shared, back.arg[0], NULL, back.arg[5], j.arg[1],
                                                   &p, TRF_RELU, j.arg[6], NULL),
                         TRF_E_INVALID_ARG);
        assert_int_equal(trf_feed_forward_backward(shared, back.arg[0], &p, back.arg[5], j.arg[1],
                                                   NULL, TRF_RELU, j.arg[6], NULL),
                         TRF_E_INVALID_ARG);
    }
}

/* -----------------------------------------------------------------------------------------------
   Residual */

static job residual_job(trf_tensor *x, trf_tensor *part, const trf_dropout *dropout)
{
    job j = job_of(call_residual, 0, 1u << 1);
    j.dropout = dropout;
    give(&j, "y", empty_tensor(x->shape[0], x->shape[1]));
    give(&j, "x", x);
    give(&j, "sub", part);
    return j;
}

static job residual_backward_job(const job *j, trf_tensor *dy)
{
    job back = job_of(call_residual_backward, 0, 1u << 2);
    int64_t rows = j->arg[1]->shape[0], d = j->arg[1]->shape[1];
    back.dropout = j->dropout;
    give(&back, "dx", empty_tensor(rows, d));
    give(&back, "dsub", empty_tensor(rows, d));
    give(&back, "dy", dy ? dy : random_tensor(rows, d));
    return back;
}

/* Without dropout a sum; with it every element of sub is 0 or 1/(1-p) of itself, and backward knows
   which. */
static void test_residual(void **state)
{
    enum { ROWS = 50, D = 37, N = ROWS * D };
    static const trf_dropout dropouts[] = {{0, 1, 1, 1},
                                           {0.25, 5, 3, 2},
                                           {0.9, 0x123456789ABCDEFu, 100000, 17}};
    int k, i;
    (void)state;
    for (k = -1; k < 3; k++) {
        const trf_dropout *drop = k < 0 ? NULL : &dropouts[k];
        double p = k < 0 ? 0 : drop->p;
        job j = residual_job(random_tensor(ROWS, D), random_tensor(ROWS, D), drop), back;
        int kept = 0;
        runs(&j);
        back = residual_backward_job(&j, NULL);
        runs(&back);
        for (i = 0; i < N; i++) {
            double x = (double)j.arg[1]->data[i], part = (double)j.arg[2]->data[i],
                   y = (double)j.arg[0]->data[i];
            double dy = (double)back.arg[2]->data[i],
                   factor = 1 / (1 - floor(p * 65536 + 0.5) / 65536);
            int alive = back.arg[1]->data[i] != 0;
            kept += alive;
            assert_true(back.arg[0]->data[i] == back.arg[2]->data[i]);
            assert_number_near(back.arg[1]->data[i], alive ? dy * factor : 0,
                               FORMULA * (1 + factor));
            assert_number_near(y, x + (alive ? part * factor : 0), FORMULA * (1 + factor));
        }
        assert_number_near(kept, N * (1 - p), 4 * sqrt(N * p * (1 - p)));
    }
}

static void test_residual_gradients(void **state)
{
    static const trf_dropout drop = {0.4, 9, 2, 1};
    job j = residual_job(random_tensor(5, 7), random_tensor(5, 7), &drop),
        back = residual_backward_job(&j, NULL);
    chain c;
    (void)state;
    runs(&back);
    c.jobs[0] = &j; c.n = 1; c.dy = back.arg[2];
    check_gradient("x", &c, j.arg[1], back.arg[0], NULL);
    check_gradient("sub", &c, j.arg[2], back.arg[1], NULL);
}

/* seed, step and site each give another mask, and the same three give the same one. */
static void test_residual_masks(void **state)
{
    enum { ROWS = 8, D = 40, N = ROWS * D };
    static const trf_dropout dropouts[] = {{0.5, 1, 1, 1},
                                           {0.5, 2, 1, 1},
                                           {0.5, 1, 2, 1},
                                           {0.5, 1, 1, 2},
                                           {0.5, (uint64_t)1 << 40 | 1, 1, 1},
                                           {0.5, 1, 1, 1},
                                           {0.5, 1, ((int64_t)1 << 32) + 1,
                                            1}}; /* of step the lower 32 bits */
    trf_real masks[7][N];
    int a, b, i;
    (void)state;
    for (a = 0; a < 7; a++) {
        job j = residual_job(shaped(plain_fill(plain_empty(N), N, 0), ROWS, D),
                             shaped(plain_fill(plain_empty(N), N, 1), ROWS, D), &dropouts[a]);
        runs(&j);
        memcpy(masks[a], j.arg[0]->data, sizeof masks[a]);
    }
    assert_memory_equal(masks[0], masks[5], sizeof masks[0]);
    assert_memory_equal(masks[0], masks[6], sizeof masks[0]);
    for (a = 0; a < 5; a++)
        for (b = 0; b < a; b++) {
            int differ = 0;
            for (i = 0; i < N; i++) differ += masks[a][i] != masks[b][i];
            assert_number_near(differ, N / 2, 5 * sqrt(N / 4));
        }
}

static void test_residual_errors(void **state)
{
    static const double bad[] = {-0.1, 1, 2, NAN};
    trf_dropout drop = {0.2, 1, 1, 1};
    job j = residual_job(random_tensor(4, 5), random_tensor(4, 5), &drop),
        back = residual_backward_job(&j, NULL);
    int i;
    (void)state;
    refuses_bent_tensors(&j, "residual");
    refuses_bent_tensors(&back, "residual backward");
    for (i = 0; i < 4; i++) {
        drop.p = bad[i];
        refused(&j, TRF_E_INVALID_ARG, "p", -1, "p");
        refused(&back, TRF_E_INVALID_ARG, "p", -1, "p, backward");
    }
}

/* -----------------------------------------------------------------------------------------------
   Cross-entropy */

enum { L_ROWS = 7, L_VOCAB = 9, L_D = 4, L_PAD = 2 };
static const int32_t l_targets[L_ROWS] = {0, 8, -1, 5, 5, -1, 1},
                     l_all[L_ROWS] = {0, 8, 2, 5, 5, 2, 1};

static job loss_job(trf_smoothing rule, double e, int bias)
{
    job j = job_of(call_cross_entropy, 7u | 1u << 5, 3u << 3);
    j.targets = l_targets;
    j.smoothing.rule = rule; j.smoothing.label_smoothing = e; j.smoothing.smoothing_pad = L_PAD;
    give(&j, "dx", empty_tensor(L_ROWS, L_D));
    give(&j, "dweight", random_tensor(L_VOCAB, L_D));
    give(&j, "dbias", bias ? random_tensor(L_VOCAB, 0) : NULL);
    give(&j, "x", random_tensor(L_ROWS, L_D));
    give(&j, "weight", random_tensor(L_VOCAB, L_D));
    give(&j, "bias", bias ? random_tensor(L_VOCAB, 0) : NULL);
    return j;
}

static double plain_total(const job *j)
{
    double z[L_ROWS * L_VOCAB], q[L_VOCAB], total = 0;
    int r;
    plain_linear(z, doubles_of(j->arg[3]), doubles_of(j->arg[4]),
                 j->arg[5] ? doubles_of(j->arg[5]) : NULL, L_ROWS, L_VOCAB, L_D);
    for (r = 0; r < L_ROWS; r++) {
        double entropy;
        if (j->targets[r] < 0) continue;
        entropy = plain_wanted(q, j->smoothing.rule, j->smoothing.label_smoothing, L_VOCAB,
                               j->targets[r], j->smoothing.smoothing_pad);
        total += (double)plain_loss(NULL, z + r * L_VOCAB, q, L_VOCAB) - entropy;
    }
    return total;
}

static void test_cross_entropy(void **state)
{
    int rule, variant;
    (void)state;
    for (rule = TRF_SMOOTH_UNIFORM; rule <= TRF_SMOOTH_NO_PAD_KL; rule++)
        for (variant = 0; variant < 4; variant++) { /* with bias or without, smoothed or not */
            job j = loss_job((trf_smoothing)rule, variant & 1 ? 0.2 : 0, variant & 2), alone;
            trf_real *dw = plain_copy(j.arg[1]->data, L_VOCAB * L_D);
            trf_real *db = j.arg[2] ? plain_copy(j.arg[2]->data, L_VOCAB) : NULL;
            double want;
            int i;
            chain c;
            if (rule != TRF_SMOOTH_NO_PAD_KL && variant == 3)
                j.targets = l_all; /* then all rows count */
            if (rule != TRF_SMOOTH_NO_PAD_KL && variant == 2)
                j.smoothing.smoothing_pad = -77; /* not read */
            want = plain_total(&j);
            runs(&j);
            assert_number_near(j.loss, want, FORMULA * want);
            if (j.targets == l_targets)
                for (i = 0; i < L_D; i++)
                    assert_true(j.arg[0]->data[2 * L_D + i] == 0 &&
                                j.arg[0]->data[5 * L_D + i] == 0);
            alone = j;
            alone.arg[0] = alone.arg[1] = alone.arg[2] = NULL; /* the loss alone */
            runs(&alone);
            assert_number_near(alone.loss, j.loss, 0);
            c.jobs[0] = &alone; c.n = 1; c.dy = NULL;
            check_gradient("x", &c, j.arg[3], j.arg[0], NULL);
            check_gradient("weight", &c, j.arg[4], j.arg[1], dw);
            if (db) check_gradient("bias", &c, j.arg[5], j.arg[2], db);
            alone.arg[0] = empty_tensor(L_ROWS, L_D); /* dx without the others */
            runs(&alone);
            assert_memory_equal(alone.arg[0]->data, j.arg[0]->data,
                                L_ROWS * L_D * sizeof(trf_real));
        }
}

/* Two labels: -(1 - e/2) ln p - e/2 ln(1 - p). */
static void test_two_labels(void **state)
{
    static const int32_t targets[3] = {1, 0, 1};
    trf_tensor *x = random_tensor(3, 5), *weight = random_tensor(2, 5);
    trf_cross_entropy_options options = {0.2, TRF_SMOOTH_UNIFORM, -1};
    double loss, want = 0;
    int i, k;
    (void)state;
    for (i = 0; i < 3; i++) {
        double z[2] = {0, 0}, ln[2];
        for (k = 0; k < 10; k++)
            z[k / 5] += (double)x->data[5 * i + k % 5] * (double)weight->data[k];
        for (k = 0; k < 2; k++) ln[k] = z[k] - log(exp(z[0]) + exp(z[1]));
        want -= 0.9 * ln[targets[i]] + 0.1 * ln[!targets[i]];
    }
    assert_int_equal(trf_cross_entropy(shared, &loss, NULL, NULL, NULL, x, weight, NULL, targets,
                                       &options, NULL),
                     TRF_OK);
    assert_number_near(loss, want, FORMULA * want);
}

static void test_cross_entropy_errors(void **state)
{
    static const double bad[] = {-0.1, 1, NAN};
    static const int32_t beyond[L_ROWS] = {0, 8, 2, 9, 5, 2, 1},
                         below[L_ROWS] = {0, -2, 2, 5, 5, 2, 1};
    job good = loss_job(TRF_SMOOTH_UNIFORM, 0.1, 1), j;
    trf_tensor two;
    int i;
    (void)state;
    refuses_bent_tensors(&good, "cross-entropy");
    for (i = 0; i < 3; i++) {
        j = good; j.smoothing.label_smoothing = bad[i];
        refused(&j, TRF_E_INVALID_ARG, "label_smoothing", -1, "smoothing");
    }
    j = good;
    j.smoothing.rule = (trf_smoothing)4;
    refused(&j, TRF_E_INVALID_ARG, "rule", -1, "no such rule");
    j = good; j.smoothing.rule = TRF_SMOOTH_NO_PAD_KL;
    j.smoothing.smoothing_pad = L_VOCAB;
    refused(&j, TRF_E_INVALID_ARG, "smoothing_pad", -1, "pad beyond the vocabulary");
    j.smoothing.smoothing_pad = -1;
    refused(&j, TRF_E_INVALID_ARG, "smoothing_pad", -1, "a rule without its pad");
    j = good;
    j.targets = beyond;
    refused(&j, TRF_E_INVALID_ARG, "targets", 3, "target beyond the vocabulary");
    j.targets = below; refused(&j, TRF_E_INVALID_ARG, "targets", 1, "target below -1");
    j.targets = NULL; refused(&j, TRF_E_INVALID_ARG, "targets", -1, "no targets");
    j = good; j.arg[0] = NULL; refused(&j, TRF_E_INVALID_ARG, "dx", -1, "dweight without dx");
    survives_no_memory(&good, 1);
    two = *good.arg[4];
    two.shape[0] = 2;
    j = good; j.arg[0] = j.arg[1] = j.arg[2] = j.arg[5] = NULL; j.arg[4] = &two; j.targets = NULL;
    j.smoothing.smoothing_pad = 1; j.smoothing.rule = TRF_SMOOTH_NO_PAD_KL;
    refused(&j, TRF_E_INVALID_ARG, "vocab", -1, "two tokens, and nothing on pad");
    j = good;
    assert_int_equal(trf_cross_entropy(shared, NULL, j.arg[0], j.arg[1], j.arg[2], j.arg[3],
                                       j.arg[4], j.arg[5], l_targets, &j.smoothing, NULL),
                     TRF_E_INVALID_ARG);
    assert_int_equal(trf_cross_entropy(shared, &j.loss, j.arg[0], j.arg[1], j.arg[2], j.arg[3],
                                       j.arg[4], j.arg[5], l_targets, NULL, NULL),
                     TRF_E_INVALID_ARG);
}

/* -----------------------------------------------------------------------------------------------
   No rows at all are a batch too. */

static void test_no_rows(void **state)
{
    enum { D = 4, F = 6 };
    static const int32_t none[COUNT] = {0, 0, 0};
    static const trf_dropout drop = {0.2, 1, 1, 1};
    trf_attention_shape s = shape_of(none, none, 2, TRF_CAUSAL);
    trf_sequences nothing = {e_ids, none, COUNT};
    job jobs[12];
    int n = 0, k, i;
    (void)state;
    jobs[n] = embedding_job(D, TRF_POSITIONS_INTERLEAVED, 0, 0);
    jobs[n].ids = &nothing; jobs[n++].arg[0] = empty_tensor(0, D);
    jobs[n] = norm_job(0, D); n++;
    jobs[n] = norm_backward_job(&jobs[n - 1]); n++;
    jobs[n++] = attention_job(&s, D);
    jobs[n] = attention_backward_job(&jobs[n - 1]); n++;
    jobs[n++] = heads_job(&s, D, 0);
    jobs[n] = heads_backward_job(&jobs[n - 1], NULL, NULL); n++;
    jobs[n++] = feed_forward_job(0, D, F, TRF_SILU);
    jobs[n] = feed_forward_backward_job(&jobs[n - 1], NULL, NULL); n++;
    jobs[n++] = residual_job(empty_tensor(0, D), empty_tensor(0, D), &drop);
    jobs[n] = loss_job(TRF_SMOOTH_UNIFORM, 0.1, 1);
    jobs[n].arg[0] = empty_tensor(0, L_D);
    jobs[n].arg[3] = empty_tensor(0, L_D);
    jobs[n++].targets = NULL;
    for (k = 0; k < n; k++) {
        uint64_t before;
        jobs[k].loss = 0;
        before = hash_of_args(&jobs[k]);
        runs(&jobs[k]);
        for (i = 0; i < jobs[k].n; i++)
            assert_true(!jobs[k].arg[i] || jobs[k].arg[i]->data != NULL);
        if (hash_of_args(&jobs[k]) != before) fail_msg("job %d has changed something", k);
    }
}

/* A memory without rows: its gradient need not be there, but has the shape of none if it is. */
static void test_no_memory_rows(void **state)
{
    static const int32_t none[COUNT] = {0, 0, 0};
    trf_attention_shape s = shape_of(self_lengths, none, 2, TRF_FULL);
    job j = heads_job(&s, 6, 1), back = heads_backward_job(&j, NULL, NULL), bent;
    (void)state;
    runs(&j);
    runs(&back);
    bent = back;
    bent.arg[1] = empty_tensor(3, 6);
    refused(&bent, TRF_E_SHAPE, "dmemory", -1, "rows of a memory that has none");
    back.arg[1] = NULL;
    runs(&back);
}

/* No rows are nothing to do. No outputs are refused in both directions: their tensors would have no
   columns. */
static void test_no_outputs(void **state)
{
    enum { D = 4, ROWS = 40 };
    trf_tensor *x = random_tensor(ROWS, D), *dy = random_tensor(ROWS, 3), *w = random_tensor(3, D),
               *b = random_tensor(3, 0);
    trf_tensor *y = random_tensor(ROWS, 3), *dx = random_tensor(ROWS, D),
               *saved = random_tensor(2 * ROWS * 3, 0);
    trf_feed_forward_params p, dp;
    trf_error err;
    trf_real first = w->data[0];
    (void)state;
    w->shape[0] = b->shape[0] = y->shape[1] = dy->shape[1] = saved->shape[0] = 0;
    assert_int_equal(trf_linear(shared, y, x, w, NULL, &err), TRF_E_SHAPE);
    assert_string_equal(err.what, "weight");
    assert_int_equal(trf_linear(shared, y, x, w, b, &err), TRF_E_SHAPE);
    assert_int_equal(trf_linear_backward(shared, dx, w, NULL, dy, x, w, &err), TRF_E_SHAPE);
    assert_string_equal(err.what, "dy");
    p.w1 = *w; p.b1 = *b; p.w2 = *random_tensor(D, 1); p.b2 = *random_tensor(D, 0);
    p.w2.shape[1] = 0;
    dp = p;
    assert_int_equal(trf_feed_forward(shared, dx, x, &p, TRF_RELU, saved, &err), TRF_E_SHAPE);
    assert_string_equal(err.what, "w1");
    assert_int_equal(trf_feed_forward_backward(shared, dx, &dp, x, x, &p, TRF_RELU, saved, &err),
                     TRF_E_SHAPE);
    assert_string_equal(err.what, "w1");
    w->shape[0] = b->shape[0] = y->shape[1] = dy->shape[1] = 3;
    x->shape[0] = y->shape[0] = dy->shape[0] = dx->shape[0] = 0;
    assert_int_equal(trf_linear(shared, y, x, w, b, &err), TRF_OK);
    assert_int_equal(trf_linear_backward(shared, dx, w, b, dy, x, w, &err), TRF_OK);
    assert_true(w->data[0] == first);
}

/* Sizes that no memory has: products do not wrap, and a call is refused before its scratch is made.
 */
static void test_sizes_beyond_memory(void **state)
{
    static const int64_t sizes[] = {0, 1, -1, INT32_MAX, (int64_t)1 << 62, INT64_MAX, INT64_MIN};
    size_t scratch = trf__cpu_of(&shared->run)->scratch_each;
    int32_t most = INT32_MAX, none = 0;
    trf_attention_shape s = {&most, &most, 1, 1, TRF_FULL, 0, 0, NULL, NULL, NULL};
    trf_feed_forward_params p;
    trf_attention_params h;
    trf_tensor empty = *empty_tensor(1, 4), count = empty;
    trf_error err;
    size_t i, k;
    (void)state;
    TRF__ZERO(p);
    TRF__ZERO(h);
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            int64_t a = sizes[i], b = sizes[k];
            double product = a > 0 && b > 0 ? (double)a * (double)b : 0;
            count.shape[0] = a; count.shape[1] = b;
            assert_true((double)trf_tensor_count(&count) ==
                        (product < 9.22337203e18 ? product : (double)INT64_MAX));
            p.w1.shape[0] = p.w2.shape[1] = b;
            assert_true((double)trf_feed_forward_saved(a, &p) ==
                        (2 * product < 9.22337203e18 ? 2 * product : (double)INT64_MAX));
            h.in_weight.shape[0] = a;
            h.out_weight.shape[1] = b;
            assert_true(trf_attention_saved(&s, &h) >= 2 * (int64_t)INT32_MAX);
        }
    assert_int_equal(trf_feed_forward_saved(1, NULL), 0);
    assert_int_equal(trf_attention_saved(NULL, &h), 0);
    count.rank = TRF_MAX_RANK + 1;
    assert_true(trf_tensor_count(&count) == 0);
    count.rank = -1;
    assert_true(trf_tensor_count(&count) == 0);
    empty.shape[0] = 0;
    empty.shape[1] = INT32_MAX;
    assert_int_equal(trf_attention(shared, &empty, &empty, &empty, &empty, &s, NULL, NULL,
                                   &err),
                     TRF_E_SHAPE);
    s.query_lengths = &none;
    assert_int_equal(trf_attention(shared, &empty, &empty, &empty, &empty, &s, NULL, NULL,
                                   &err),
                     TRF_E_SHAPE);
    assert_string_equal(err.what, "k");
    {
        static const int32_t two[] = {INT32_MAX, 1};
        trf_attention_shape many = {two, two, 2, 1, TRF_FULL, 0, 0, NULL, NULL, NULL};
        assert_int_equal(trf_attention(shared, &empty, &empty, &empty, &empty, &many, NULL, NULL,
                                       &err),
                         TRF_E_LIMIT);
        assert_string_equal(err.what, "lengths");
        assert_int_equal(err.where, 1);
    }
    assert_true(trf__cpu_of(&shared->run)->scratch_each == scratch);
    empty.shape[1] = (int64_t)INT32_MAX + 1;
    assert_int_equal(trf_residual(shared, &empty, &empty, &empty, NULL, &err), TRF_E_LIMIT);
    assert_string_equal(err.what, "x");
}

/* Probabilities beyond the last multiple of 1/65536 count as that one: nothing is divided by zero,
   something lives. */
static void test_nearly_one(void **state)
{
    enum { ROWS = 400, D = 512 };
    static const double ps[] = {0.99999, 65535.0 / 65536, 1 - 1e-9, 1 - DBL_EPSILON / 2};
    trf_tensor *x = empty_tensor(ROWS, D), *part = empty_tensor(ROWS, D);
    size_t k;
    int i;
    (void)state;
    for (i = 0; i < ROWS * D; i++) { x->data[i] = 0; part->data[i] = 1; }
    for (k = 0; k < sizeof ps / sizeof ps[0]; k++) {
        trf_dropout drop = {0, 3, 1, 1};
        job j, loss = loss_job(TRF_SMOOTH_OTHERS_KL, ps[k], 1);
        int alive = 0;
        drop.p = ps[k];
        j = residual_job(x, part, &drop);
        runs(&j);
        for (i = 0; i < ROWS * D; i++) {
            assert_true(j.arg[0]->data[i] == 0 || j.arg[0]->data[i] == 65536);
            alive += j.arg[0]->data[i] != 0;
        }
        assert_true(alive > 0 && alive < 20);
        runs(&loss);
        assert_true(loss.loss - loss.loss == 0);
    }
}

/* -----------------------------------------------------------------------------------------------
   PyTorch's numbers (tools/parity/blocks.py). Ours may be off by the rounding of trf_real. */

enum { G_COUNT = 2, G_N = 3, G_M = 5, G_HEADS = 4, G_KV = 2, G_D = 2 };
static const int32_t g_queries[G_COUNT] = {G_N, G_N}, g_keys[G_COUNT] = {G_M, G_M};

static trf_tensor *golden_tensor(int seed, int64_t rows, int64_t columns)
{
    trf_tensor *t = empty_tensor(rows, columns);
    int64_t i;
    for (i = 0; i < trf_tensor_count(t); i++)
        t->data[i] = (trf_real)((i * (29 + 2 * seed) + seed) % 37 - 18) / 16;
    return t;
}
static trf_tensor *zero_tensor(int64_t rows, int64_t columns)
{
    trf_tensor *t = empty_tensor(rows, columns);
    memset(t->data, 0, (size_t)trf_tensor_count(t) * sizeof(trf_real));
    return t;
}

/* Compares tensors with the numbers that follow one another. */
static void near_golden(const char *what, const double *want, size_t n, int count, ...)
{
    va_list list;
    int64_t at = 0;
    va_start(list, count);
    while (count-- > 0) {
        const trf_tensor *t = va_arg(list, const trf_tensor *);
        assert_all_near(what, t->data, want + at, trf_tensor_count(t), 3 * FORMULA + 1e-11);
        at += trf_tensor_count(t);
    }
    va_end(list);
    assert_int_equal(at, (int64_t)n);
}
#define NEAR(golden, count, ...) \
    near_golden(#golden, golden, sizeof golden / sizeof golden[0], count, __VA_ARGS__)

static void test_goldens(void **state)
{
    enum { D = G_HEADS * G_D, ROWS = G_COUNT * G_N };
    static const int ranks[5][4] = {{2, G_N, G_M, 0},
                                    {3, G_HEADS, G_N, G_M},
                                    {1, G_COUNT * G_N * G_M, 0, 0},
                                    {1, G_COUNT * G_HEADS * G_N * G_M, 0, 0},
                                    {3, G_HEADS, G_N, G_N}};
    trf_error err;
    int k;
    int64_t i;
    (void)state;
    for (k = 0; k < 5; k++) {
        trf_attention_shape s = shape_of(g_queries, k == 4 ? g_queries : g_keys, G_HEADS,
                                         k == 4 ? TRF_CAUSAL : TRF_FULL);
        const int *rank = ranks[k];
        int64_t m = k == 4 ? G_N : G_M, n = 1;
        trf_tensor *mask, *dmask;
        trf_tensor *q = golden_tensor(1, ROWS, D), *key = golden_tensor(2, 2 * m, G_KV * G_D),
                   *v = golden_tensor(3, 2 * m, G_KV * G_D), *out = empty_tensor(ROWS, D),
                   *dq = empty_tensor(ROWS, D), *dk = empty_tensor(2 * m, G_KV * G_D),
                   *dv = empty_tensor(2 * m, G_KV * G_D), *saved;
        for (i = 1; i <= rank[0]; i++) n *= rank[i];
        mask = golden_tensor(4 + k, n, 0);
        dmask = zero_tensor(n, 0);
        for (i = 0; i < n; i++)
            if (i % 7 == 3 && i % m > 0) mask->data[i] = -(trf_real)HUGE_VAL;
        *mask = trf_tensor_of(mask->data, rank[0], rank[1], rank[2], rank[3]);
        *dmask = trf_tensor_of(dmask->data, rank[0], rank[1], rank[2], rank[3]);
        s.count = G_COUNT;
        s.kv_heads = G_KV;
        s.scale = 0.6;
        s.score_bias = mask;
        saved = empty_tensor(trf_attention_saved(&s, NULL), 0);
        assert_int_equal(trf_attention(shared, out, q, key, v, &s, NULL, saved, &err), TRF_OK);
        assert_int_equal(trf_attention_backward(shared, dq, dk, dv, dmask,
                                                golden_tensor(9, ROWS, D), out, q, key, v, &s,
                                                saved, &err), TRF_OK);
        if (k == 0) NEAR(attention_shared, 5, out, dq, dk, dv, dmask);
        if (k == 1) NEAR(attention_per_head, 5, out, dq, dk, dv, dmask);
        if (k == 2) NEAR(attention_per_sequence, 5, out, dq, dk, dv, dmask);
        if (k == 3) NEAR(attention_both, 5, out, dq, dk, dv, dmask);
        if (k == 4) NEAR(attention_causal, 5, out, dq, dk, dv, dmask);
    }
    {       /* nn.MultiheadAttention with a mask for each sequence and head */
        trf_attention_shape s = shape_of(g_queries, g_queries, G_HEADS, TRF_FULL);
        int64_t n = G_COUNT * G_HEADS * G_N * G_N;
        trf_attention_params p, dp;
        trf_tensor *x = golden_tensor(5, ROWS, D), *y = empty_tensor(ROWS, D),
                   *dx = empty_tensor(ROWS, D), *weights = empty_tensor(n, 0),
                   *dmask = zero_tensor(n, 0), *saved;
        p.in_weight = *golden_tensor(0, 3 * D, D); p.in_bias = *golden_tensor(1, 3 * D, 0);
        p.out_weight = *golden_tensor(2, D, D); p.out_bias = *golden_tensor(3, D, 0);
        TRF__ZERO(dp);                  /* gradients of biases are not asked for */
        dp.in_weight = *zero_tensor(3 * D, D);
        dp.out_weight = *zero_tensor(D, D);
        s.count = G_COUNT;
        s.score_bias = golden_tensor(6, n, 0);
        saved = empty_tensor(trf_attention_saved(&s, &p), 0);
        assert_int_equal(trf_multi_head_attention(shared, y, x, NULL, &p, &s, weights, saved,
                                                  &err), TRF_OK);
        assert_int_equal(trf_multi_head_attention_backward(shared, dx, NULL, &dp, dmask,
                                                           golden_tensor(9, ROWS, D), x, NULL, &p,
                                                           &s, saved, &err), TRF_OK);
        NEAR(multi_head, 5, y, dx, &dp.in_weight, &dp.out_weight, dmask);
        NEAR(multi_head_weights, 1, weights);
    }
    {
        trf_tensor *x = golden_tensor(2, ROWS, D), *y = empty_tensor(ROWS, D),
                   *dx = empty_tensor(ROWS, D), *gain = golden_tensor(1, D, 0),
                   *dgain = zero_tensor(D, 0), *saved = empty_tensor(2 * ROWS, 0);
        assert_int_equal(trf_norm(shared, y, x, gain, NULL, TRF_NORM_RMS, 1e-6, saved, &err),
                         TRF_OK);
        assert_int_equal(trf_norm_backward(shared, dx, dgain, NULL, golden_tensor(9, ROWS, D), x,
                                           gain, TRF_NORM_RMS, 1e-6, saved, &err), TRF_OK);
        NEAR(rms_norm, 3, y, dx, dgain);
    }
    for (k = 0; k < 2; k++) {
        static const int32_t three = 3;
        trf_attention_shape s = shape_of(&three, &three, 2, TRF_FULL);
        trf_config c = trf_config_preset(TRF_TINY);
        trf_tensor *x = golden_tensor(3, 3, 12), *dx = golden_tensor(9, 3, 12);
        c.rotary_base = 100;
        c.rotary_pairs = k ? TRF_ROTARY_HALVES : TRF_ROTARY_INTERLEAVED;
        s.count = 1;
        s.rotary = &c;
        assert_int_equal(trf_rotary(shared, x, NULL, &s, 0, &err), TRF_OK);
        assert_int_equal(trf_rotary(shared, dx, NULL, &s, 1, &err), TRF_OK);
        if (k) NEAR(rotary_halves, 2, x, dx);
        else NEAR(rotary_interleaved, 2, x, dx);
    }
    {
        trf_feed_forward_params p, dp;
        trf_tensor *x = golden_tensor(1, G_N, G_HEADS), *y = empty_tensor(G_N, G_HEADS),
                   *dx = empty_tensor(G_N, G_HEADS), *saved;
        TRF__ZERO(p);
        TRF__ZERO(dp);
        p.w1 = *empty_tensor(2 * G_M, G_HEADS);
        for (k = 0; k < 2; k++)
            memcpy(p.w1.data + k * G_M * G_HEADS, golden_tensor(2 + k, G_M, G_HEADS)->data,
                   G_M * G_HEADS * sizeof(trf_real));
        p.w2 = *golden_tensor(4, G_HEADS, G_M);
        dp.w1 = *zero_tensor(2 * G_M, G_HEADS); dp.w2 = *zero_tensor(G_HEADS, G_M);
        saved = empty_tensor(trf_feed_forward_saved(G_N, &p), 0);
        assert_int_equal(trf_feed_forward(shared, y, x, &p, TRF_SILU, saved, &err), TRF_OK);
        assert_int_equal(trf_feed_forward_backward(shared, dx, &dp, golden_tensor(9, G_N, G_HEADS),
                                                   x, &p, TRF_SILU, saved, &err), TRF_OK);
        NEAR(swiglu, 4, y, dx, &dp.w1, &dp.w2);
    }
}

/* -----------------------------------------------------------------------------------------------
   A layer made of blocks: the pre-norm encoder layer that a user would write.

       a = norm(x; g1, b1)     m = attention(a)      r = x + drop(m)
       c = norm(r; g2, b2)     f = feed_forward(c)   y = r + drop(f) */

enum { LAYER_D = 6, LAYER_F = 9, LAYER_PARAMS = 12 };

typedef struct layer {
    job norm1, heads, add1, norm2, feed, add2;
    trf_attention_shape shape;
    chain forward;
    trf_tensor *x, *y, *params[LAYER_PARAMS], *gradients[LAYER_PARAMS], *dx;
    trf_real *before[LAYER_PARAMS];
} layer;

static void make_layer(layer *l, trf_context *context)
{
    static const trf_dropout drop1 = {0.2, 7, 3, 0}, drop2 = {0.2, 7, 3, 1};
    int64_t rows = rows_of(self_lengths);
    int i;
    TRF__ZERO(*l);
    l->shape = shape_of(self_lengths, self_lengths, 2, TRF_FULL);
    l->norm1 = norm_job(rows, LAYER_D);
    l->heads = heads_job(&l->shape, LAYER_D, 0);
    l->heads.arg[1] = l->norm1.arg[0];
    l->add1 = residual_job(l->norm1.arg[1], l->heads.arg[0], &drop1);
    l->norm2 = norm_job(rows, LAYER_D);
    l->norm2.arg[1] = l->add1.arg[0];
    l->feed = feed_forward_job(rows, LAYER_D, LAYER_F, TRF_GELU);
    l->feed.arg[1] = l->norm2.arg[0];
    l->add2 = residual_job(l->add1.arg[0], l->feed.arg[0], &drop2);
    l->x = l->norm1.arg[1];
    l->y = l->add2.arg[0];
    l->forward.jobs[0] = &l->norm1; l->forward.jobs[1] = &l->heads; l->forward.jobs[2] = &l->add1;
    l->forward.jobs[3] = &l->norm2; l->forward.jobs[4] = &l->feed; l->forward.jobs[5] = &l->add2;
    l->forward.n = 6;
    l->forward.dy = random_tensor(rows, LAYER_D);
    for (i = 0; i < 6; i++) l->forward.jobs[i]->context = context;
    for (i = 0; i < 2; i++) {
        l->params[i] = l->norm1.arg[2 + i];
        l->params[6 + i] = l->norm2.arg[2 + i];
    }
    for (i = 0; i < 4; i++) {
        l->params[2 + i] = l->heads.arg[3 + i];
        l->params[8 + i] = l->feed.arg[2 + i];
    }
}

/* The mirror of forward. The two ways into a sum meet again: their gradients are added. */
static void layer_backward(layer *l, trf_context *context)
{
    job add2 = residual_backward_job(&l->add2, (trf_tensor *)l->forward.dy), feed, norm2, add1,
        heads, norm1;
    trf_real *before[4];
    int i;
    int64_t k;
    add2.context = context; runs(&add2);
    feed = feed_forward_backward_job(&l->feed, add2.arg[1], before);
    for (i = 0; i < 4; i++) { l->gradients[8 + i] = feed.arg[1 + i]; l->before[8 + i] = before[i]; }
    feed.context = context; runs(&feed);
    norm2 = norm_backward_job(&l->norm2);
    norm2.arg[3] = feed.arg[0];
    for (i = 0; i < 2; i++) {
        l->gradients[6 + i] = norm2.arg[1 + i];
        l->before[6 + i] = plain_copy(norm2.arg[1 + i]->data, LAYER_D);
    }
    norm2.context = context; runs(&norm2);
    for (k = 0; k < trf_tensor_count(l->y); k++) add2.arg[0]->data[k] += norm2.arg[0]->data[k];
    add1 = residual_backward_job(&l->add1, add2.arg[0]);
    add1.context = context; runs(&add1);
    heads = heads_backward_job(&l->heads, add1.arg[1], before);
    for (i = 0; i < 4; i++) {
        l->gradients[2 + i] = heads.arg[2 + i];
        l->before[2 + i] = before[i];
    }
    heads.context = context; runs(&heads);
    norm1 = norm_backward_job(&l->norm1);
    norm1.arg[3] = heads.arg[0];
    for (i = 0; i < 2; i++) {
        l->gradients[i] = norm1.arg[1 + i];
        l->before[i] = plain_copy(norm1.arg[1 + i]->data, LAYER_D);
    }
    norm1.context = context; runs(&norm1);
    for (k = 0; k < trf_tensor_count(l->x); k++) add1.arg[0]->data[k] += norm1.arg[0]->data[k];
    l->dx = add1.arg[0];
}

static void test_encoder_layer_of_blocks(void **state)
{
    static const char *names[LAYER_PARAMS] = {"norm1 gain", "norm1 bias", "in_weight",
                                              "in_bias",    "out_weight", "out_bias",
                                              "norm2 gain", "norm2 bias", "w1",
                                              "b1",         "w2",         "b2"};
    layer l;
    int i;
    (void)state;
    make_layer(&l, shared);
    value_along(&l.forward);
    layer_backward(&l, shared);
    check_gradient("x", &l.forward, l.x, l.dx, NULL);
    for (i = 0; i < LAYER_PARAMS; i++)
        check_gradient(names[i], &l.forward, l.params[i], l.gradients[i], l.before[i]);
}

/* A small Llama of blocks: loss and gradients are those of the model, which has the same dropout of
   attention weights (pass.h: site 16 + 4 * 4096 is that of its first layer). Up to rounding: the
   model's gradient of a norm adds the residual's in one operation. */
static void test_llama_of_blocks(void **state)
{
    enum { D = 8, HEADS = 4, KV = 2, F = 7, VOCAB = 11, PARTS = 9 };
    static const char *const names[PARTS] = {
        "tgt_embed.weight", "decoder.layers.0.norm1.weight",
        "decoder.layers.0.self_attn.in_proj_weight", "decoder.layers.0.self_attn.out_proj.weight",
        "decoder.layers.0.norm2.weight", "decoder.layers.0.linear1.weight",
        "decoder.layers.0.linear2.weight", "decoder.norm.weight", "generator.weight"};
    static const int32_t ids[] = {5, 9, 4, 10, 7}, lengths[] = {3, 2}, rows[] = {4, 3};
    static const int32_t inputs[] = {1, 5, 9, 4, 1, 10, 7}, targets[] = {5, 9, 4, 2, 10, 7, 2};
    static const trf_dropout drop = {0.3, 77, 1, 16 + 4 * 4096};
    trf_config c = trf_config_preset(TRF_TINY);
    trf_train_options o = trf_train_defaults();
    trf_embedding_options embedding = {TRF_POSITIONS_NONE, 0, 1, NULL};
    trf_cross_entropy_options plain = {0, TRF_SMOOTH_UNIFORM, 0};
    trf_sequences x = {inputs, rows, 2};
    trf_attention_shape s = shape_of(rows, rows, HEADS, TRF_CAUSAL);
    trf_attention_params heads, dheads;
    trf_feed_forward_params feed, dfeed;
    trf_tensor w[PARTS], g[PARTS], *t[12], *saved[5];
    trf_model *model;
    trf_trainer *trainer;
    trf_batch batch;
    trf_step_report report;
    double loss;
    int i, k, n = 7;
    (void)state;
    c.kind = TRF_DECODER_ONLY;
    c.encoder_layers = c.source_vocab = 0;
    c.decoder_layers = 1;
    c.target_vocab = VOCAB;
    c.d_model = D; c.n_heads = HEADS; c.kv_heads = KV; c.d_ff = F;
    c.feed_forward_gate = 1; c.activation = TRF_SILU;
    c.positions = TRF_POSITIONS_ROTARY; c.rotary_base = 50;
    c.norm_rule = TRF_NORM_RMS; c.norm_epsilon = 1e-6;
    c.scale_embeddings = c.generator_bias = c.qkv_bias = c.out_bias = c.feed_forward_bias = 0;
    c.device.threads = 1;
    o.attention_dropout = drop.p;
    o.seed = drop.seed;
    o.label_smoothing = 0;
    TRF__ZERO(batch);
    batch.target.ids = ids; batch.target.lengths = lengths; batch.target.count = 2;
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    assert_int_equal(trf_trainer_create(&trainer, model, &o, NULL), TRF_OK);
    assert_int_equal(trf_trainer_forward_backward(trainer, &batch, &report, NULL), TRF_OK);
    for (i = 0; i < PARTS; i++) {
        w[i] = kit_open(trf_model_parameter(model, trf_model_parameter_index(model, names[i])));
        g[i] = *zero_tensor(w[i].shape[0], w[i].rank > 1 ? w[i].shape[1] : 0);
    }
    for (i = 0; i < 12; i++) t[i] = empty_tensor(n, D);
    s.count = 2; s.kv_heads = KV; s.rotary = &c; s.dropout = &drop;
    TRF__ZERO(heads); TRF__ZERO(dheads); TRF__ZERO(feed); TRF__ZERO(dfeed);
    heads.in_weight = w[2]; heads.out_weight = w[3]; feed.w1 = w[5]; feed.w2 = w[6];
    dheads.in_weight = g[2]; dheads.out_weight = g[3]; dfeed.w1 = g[5]; dfeed.w2 = g[6];
    for (i = 0; i < 3; i++) saved[i] = empty_tensor(2 * n, 0);
    saved[3] = empty_tensor(trf_attention_saved(&s, &heads), 0);
    saved[4] = empty_tensor(trf_feed_forward_saved(n, &feed), 0);
#define DOES(call) assert_int_equal(call, TRF_OK)
#define NORM(y, x, gain, kept) \
    DOES(trf_norm(shared, t[y], t[x], &w[gain], NULL, TRF_NORM_RMS, 1e-6, saved[kept], NULL))
#define NORM_BACK(dx, dy, x, gain, kept) \
    DOES(trf_norm_backward(shared, t[dx], &g[gain], NULL, t[dy], t[x], &w[gain], TRF_NORM_RMS, \
                           1e-6, saved[kept], NULL))
#define RESIDUAL(y, a, b) DOES(trf_residual(shared, t[y], t[a], t[b], NULL, NULL))
    DOES(trf_embedding(shared, t[0], &x, &w[0], &embedding, NULL));
    NORM(1, 0, 1, 0);
    DOES(trf_multi_head_attention(shared, t[2], t[1], NULL, &heads, &s, NULL, saved[3], NULL));
    RESIDUAL(3, 0, 2);
    NORM(4, 3, 4, 1);
    DOES(trf_feed_forward(shared, t[2], t[4], &feed, TRF_SILU, saved[4], NULL));
    RESIDUAL(5, 3, 2);
    NORM(6, 5, 7, 2);
    DOES(trf_cross_entropy(shared, &loss, t[7], &g[8], NULL, t[6], &w[8], NULL, targets, &plain,
                           NULL));
    NORM_BACK(8, 7, 5, 7, 2);
    DOES(trf_feed_forward_backward(shared, t[9], &dfeed, t[8], t[4], &feed, TRF_SILU, saved[4],
                                   NULL));
    NORM_BACK(10, 9, 3, 4, 1);
    RESIDUAL(7, 8, 10);
    DOES(trf_multi_head_attention_backward(shared, t[9], NULL, &dheads, NULL, t[7], t[1], NULL,
                                           &heads, &s, saved[3], NULL));
    NORM_BACK(10, 9, 0, 1, 0);
    RESIDUAL(8, 7, 10);
    DOES(trf_embedding_backward(shared, &g[0], NULL, t[8], &x, &embedding, NULL));
    assert_number_near(loss, report.loss * (double)n, FORMULA * loss);
    for (i = 0; i < PARTS; i++) {
        k = trf_model_parameter_index(model, names[i]);
        trf_tensor of_model = kit_open(trf_trainer_tensor(trainer, TRF_GRADIENT, k));
        assert_all_near(names[i], g[i].data, doubles_of(&of_model), trf_tensor_count(&g[i]),
                        FORMULA);
        kit_close(&of_model);
        kit_close(&w[i]);
    }
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

static void test_same_bits_for_any_threads(void **state)
{
    uint64_t alone = 0;
    int threads, i;
    (void)state;
    for (threads = 1; threads <= 8; threads += threads == 1 ? 1 : 3) {
        trf_context *context = context_of(threads, NULL);
        uint64_t hash;
        layer l;
#if TRF__THREADS && !defined(KIT_ON_CUDA)
        assert_int_equal(trf__cpu_of(&context->run)->threads, threads);
#endif
        plain_seed = 5;
        make_layer(&l, context);
        value_along(&l.forward);
        layer_backward(&l, context);
        hash = hash_bytes(HASH_START, l.y->data, (size_t)trf_tensor_count(l.y) * sizeof(trf_real));
        hash = hash_bytes(hash, l.dx->data, (size_t)trf_tensor_count(l.dx) * sizeof(trf_real));
        for (i = 0; i < LAYER_PARAMS; i++)
            hash = hash_bytes(hash, l.gradients[i]->data,
                              (size_t)trf_tensor_count(l.gradients[i]) * sizeof(trf_real));
        if (threads == 1) alone = hash;
        assert_true(hash == alone);
        trf_context_destroy(context);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_context),
                                       TEST(test_position_table),
                                       TEST(test_embedding),
                                       TEST(test_embedding_errors),
                                       TEST(test_linear),
                                       TEST(test_linear_errors),
                                       TEST(test_norm),
                                       TEST(test_norm_errors),
                                       TEST(test_attention),
                                       TEST(test_attention_without_keys),
                                       TEST(test_attention_of_growing_sizes),
                                       TEST(test_attention_errors),
                                       TEST(test_attention_of_every_kind),
                                       TEST(test_hidden_keys),
                                       TEST(test_attention_dropout),
                                       TEST(test_numbers_errors),
                                       TEST(test_rotary),
                                       TEST(test_rotary_errors),
                                       TEST(test_multi_head_attention),
                                       TEST(test_multi_head_attention_errors),
                                       TEST(test_multi_head_attention_of_every_kind),
                                       TEST(test_multi_head_attention_without_saved),
                                       TEST(test_probabilities),
                                       TEST(test_probabilities_errors),
                                       TEST(test_feed_forward),
                                       TEST(test_feed_forward_with_a_gate),
                                       TEST(test_feed_forward_without_saved),
                                       TEST(test_feed_forward_errors),
                                       TEST(test_residual),
                                       TEST(test_residual_gradients),
                                       TEST(test_residual_masks),
                                       TEST(test_residual_errors),
                                       TEST(test_cross_entropy),
                                       TEST(test_two_labels),
                                       TEST(test_cross_entropy_errors),
                                       TEST(test_no_rows),
                                       TEST(test_no_memory_rows),
                                       TEST(test_no_outputs),
                                       TEST(test_nearly_one),
                                       TEST(test_sizes_beyond_memory),
                                       TEST(test_goldens),
                                       TEST(test_encoder_layer_of_blocks),
                                       TEST(test_llama_of_blocks),
                                       TEST(test_same_bits_for_any_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

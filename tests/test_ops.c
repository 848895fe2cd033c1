/* The kernels: every lane of >>vector, the matrix products, and every op of the table against plain loops in double;
   the same bits for any number of threads. Built with TRF_DOUBLE too, and good with TRF_NO_CBLAS and TRF_SCALAR. */

/* Workers report here before every tile. If `sharing` is set, the first ones wait until a second worker has begun a
   tile: so it is certain that the work was shared, however busy the machine is. */
static int sharing, tiles_begun, workers_seen, tired;
static void tile_begins(int worker);
#define TRF__TILE_HOOK(worker) tile_begins(worker)

#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>
#include "plain.h"

#if defined(TRF_DOUBLE)
#define EPSILON 2.3e-16
#else
#define EPSILON 1.2e-7
#endif
#define TIGHT (50 * EPSILON)            /* of the largest number of a tensor, after a few operations or a short sum */
#define LOOSE (200 * EPSILON)           /* after several sums and exponentials */

static void tile_begins(int worker)
{
    int me = 1 << worker, seen = __atomic_or_fetch(&workers_seen, me, __ATOMIC_SEQ_CST), wait;
    __atomic_add_fetch(&tiles_begun, 1, __ATOMIC_SEQ_CST);
    for (wait = 0; sharing && seen == me && !__atomic_load_n(&tired, __ATOMIC_SEQ_CST); wait++) {
        usleep(50);
        if (wait > 200000) __atomic_store_n(&tired, 1, __ATOMIC_SEQ_CST);      /* ten seconds: nobody comes */
        seen = __atomic_load_n(&workers_seen, __ATOMIC_SEQ_CST);
    }
}

/* With `watching`, an op that needs scratch is asked whether each worker took its own, and nobody another's. */
static int watching;
enum { UNTOUCHED = 0xEE };

static void op_begins(const trf__run *run)
{
    tiles_begun = workers_seen = 0;
    if (watching) memset(run->scratch, UNTOUCHED, (size_t)run->threads * run->scratch_each);
}

static void op_ends(const trf__run *run, const char *name)
{
    int worker;
    if (sharing && (tiles_begun < 3 || (workers_seen & (workers_seen - 1)) == 0))
        fail_msg("%s: %d tiles, workers %x: the work was not shared", name, tiles_begun, workers_seen);
    for (worker = 0; watching && worker < run->threads; worker++) {
        const unsigned char *room = (const unsigned char *)trf__scratch(run, worker);
        size_t i, used = 0;
        for (i = 0; i < run->scratch_each; i++) used += room[i] != UNTOUCHED;
        if ((used > 0) != (workers_seen >> worker & 1)) fail_msg("%s: scratch of worker %d", name, worker);
    }
}

/* Calls an op of the table. */
#define OP(run, name, ...) (op_begins(run), (run)->ops->name(run, __VA_ARGS__), op_ends(run, #name))

enum { LONGEST = 80, WIDEST_HEAD = 32 };

static trf__run run_of(int threads, int blas)
{
    int64_t scratch = trf__max64(TRF__GEMM_SCRATCH, trf__attention_scratch(LONGEST, WIDEST_HEAD));
    trf__run run;
    trf_hooks none;
    TRF__ZERO(none);
    assert_int_equal(trf__run_open(&run, threads, scratch, &none, NULL), TRF_OK);
    if (!blas) run.blas = 0;
    return run;
}

static uint64_t hash_of(uint64_t hash, const trf_real *x, int64_t n)
{
    return hash_bytes(hash, x, (size_t)n * sizeof *x);
}

/* -----------------------------------------------------------------------------------------------
   Random numbers: Philox4x32-10 once more, as the paper describes it; the published vectors hold for both. */

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    const uint64_t multiplier[2] = {0xD2511F53u, 0xCD9E8D57u};
    const uint32_t weyl[2] = {0x9E3779B9u, 0xBB67AE85u};
    uint32_t round;
    memcpy(out, counter, 4 * sizeof *out);
    for (round = 0; round < 10; round++) {
        uint64_t left = multiplier[0] * out[0], right = multiplier[1] * out[2];
        uint32_t next[4];
        next[0] = (uint32_t)(right >> 32) ^ out[1] ^ (key[0] + round * weyl[0]);
        next[1] = (uint32_t)right;
        next[2] = (uint32_t)(left >> 32) ^ out[3] ^ (key[1] + round * weyl[1]);
        next[3] = (uint32_t)left;
        memcpy(out, next, sizeof next);
    }
}

static void test_philox_vectors(void **state)
{
    /* kat_vectors of Random123: counter, key, expected */
    static const uint32_t known[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
         0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1}
    };
    uint32_t out[4], wide[4][TRF__WIDE];
    int i, lane, w;
    (void)state;
    for (i = 0; i < 3; i++) {
        const uint32_t *k = known[i];
        trf__philox(k, k[4], k[5], out);
        assert_memory_equal(out, k + 6, sizeof out);
        philox(k, k + 4, out);
        assert_memory_equal(out, k + 6, sizeof out);
        trf__philox16(k[0], k[1], k[2], k[3], k[4], k[5], wide);      /* the second one: the counter wraps */
        for (lane = 0; lane < TRF__WIDE; lane++) {
            uint32_t counter[4];
            memcpy(counter, k, sizeof counter);
            counter[0] += (uint32_t)lane;
            philox(counter, k + 4, out);
            for (w = 0; w < 4; w++) assert_int_equal(wide[w][lane], out[w]);
        }
    }
}

static void test_random64_is_philox(void **state)
{
    const uint64_t seed = 0x0123456789ABCDEFu, index = 0xFEDCBA9876543210u;
    uint32_t counter[4] = {0x76543210u, 0xFEDCBA98u, 7, 0x5EED5EEDu}, key[2] = {0x89ABCDEFu, 0x01234567u}, out[4];
    (void)state;
    philox(counter, key, out);
    assert_true(trf__random64(seed, 7, index) == ((uint64_t)out[1] << 32 | out[0]));
    assert_true(trf__random64(seed, 7, index) != trf__random64(seed, 8, index));
    assert_true(trf__random64(seed, 7, index) != trf__random64(seed ^ (uint64_t)1 << 40, 7, index));
}

/* The factor of one element, from the note of >>dropout. */
static double kept(const trf__drop *drop, int32_t sentence, int32_t position, int64_t feature)
{
    uint32_t counter[4], key[2], out[4], bits;
    if (drop->threshold == 0) return 1;
    counter[0] = (uint32_t)(feature / 128 * 16 + feature % 16);         /* group of 128, lane */
    counter[1] = (uint32_t)position;
    counter[2] = (uint32_t)sentence;
    counter[3] = drop->step;
    key[0] = drop->key0;
    key[1] = drop->key1;
    philox(counter, key, out);
    bits = out[feature % 128 / 32];                                     /* two features of a lane share a word */
    bits = feature % 32 / 16 ? bits >> 16 : bits & 0xFFFF;
    return bits >= drop->threshold ? (double)(trf_real)(65536.0 / (65536.0 - drop->threshold)) : 0;
}

/* A dropout over `rows` rows of sentences of 1 to 9 tokens, whose numbers begin at 1000. */
static trf__drop drop_of(double p, int64_t rows)
{
    trf__drop drop = trf__drop_of(p, 0x1122334455667788u, 77, 5, NULL);
    int32_t *sentence = (int32_t *)plain_room((size_t)rows * sizeof(int32_t)), number = 1000, at = 0;
    int32_t *position = (int32_t *)plain_room((size_t)rows * sizeof(int32_t));
    int64_t i;
    for (i = 0; i < rows; i++) {
        if (at > 0 && plain_below(9) < at) { number++; at = 0; }
        sentence[i] = number;
        position[i] = at++;
    }
    drop.rows.sentence = sentence;
    drop.rows.position = position;
    return drop;
}

static double kept_in(const trf__drop *drop, int64_t row, int64_t feature)
{
    return kept(drop, drop->rows.sentence ? drop->rows.sentence[row] : 0,
                drop->rows.position ? drop->rows.position[row] : (int32_t)row, feature);
}

static uint64_t check_drop(const trf__run *run, int64_t rows, int64_t width, double p)
{
    int mark = plain_used;
    trf__drop drop = drop_of(p, rows);
    trf_real *x = plain_random(rows * width, 1), *y = plain_empty(rows * width);
    int64_t i;
    uint64_t hash;
    OP(run, drop, y, x, rows, width, &drop);
    for (i = 0; i < rows * width; i++)
        if (y[i] != x[i] * (trf_real)kept_in(&drop, i / width, i % width))
            fail_msg("element %lld of %lld x %lld", (long long)i, (long long)rows, (long long)width);
    OP(run, drop, x, x, rows, width, &drop);                            /* in place */
    assert_memory_equal(x, y, (size_t)(rows * width) * sizeof *x);
    hash = hash_of(HASH_START, y, rows * width);
    plain_release(mark);
    return hash;
}

static void test_drop_follows_its_formula(void **state)
{
    static const int64_t widths[] = {1, 15, 16, 17, 33, 127, 128, 129, 300, 513};
    trf__run run = run_of(1, 1);
    size_t i;
    (void)state;
    for (i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_drop(&run, 11, widths[i], 0.1);
        check_drop(&run, 3, widths[i], 0.9);
        check_drop(&run, 3, widths[i], 0);
    }
    trf__run_close(&run);
}

static void test_drop_numbers(void **state)
{
    trf__drop a = trf__drop_of(0.25, 0xAAAABBBBCCCCDDDDu, 9, 3, NULL), b;
    (void)state;
    assert_int_equal(a.threshold, 16384);
    assert_true(a.scale == (trf_real)(4.0 / 3));
    assert_int_equal(a.step, 9);
    assert_null(a.rows.sentence);
    /* every one of seed (both halves), site and step gives another mask */
    b = trf__drop_of(0.25, 0xAAAABBBBCCCCDDDEu, 9, 3, NULL); assert_true(b.key0 != a.key0);
    b = trf__drop_of(0.25, 0xAAAABBBCCCCCDDDDu, 9, 3, NULL); assert_true(b.key1 != a.key1);
    b = trf__drop_of(0.25, 0xAAAABBBBCCCCDDDDu, 9, 4, NULL); assert_true(b.key1 != a.key1);
    b = trf__drop_of(0.25, 0xAAAABBBBCCCCDDDDu, 10, 3, NULL); assert_true(b.step != a.step);
    b = trf__drop_of(0, 1, 1, 1, NULL);
    assert_int_equal(b.threshold, 0);
    assert_true(b.scale == 1);
}

/* Kept: n times a coin of 1 - p; the deviation is sqrt(n p (1 - p)). All within 4 of it, rows and columns within 5.
   The rarest rate is compared with the formula instead: there one value of the 65536 matters. */
static void test_drop_rate(void **state)
{
    enum { ROWS = 1024, WIDTH = 512 };
    static const double rates[] = {0.1, 0.5, 1.0 / 65536};
    trf__run run = run_of(1, 1);
    trf_real *ones = plain_fill(plain_empty(ROWS * WIDTH), ROWS * WIDTH, 1), *y = plain_empty(ROWS * WIDTH);
    size_t k;
    int64_t i, j;
    (void)state;
    for (k = 0; k < 3; k++) {
        double p = rates[k], all = 0, *of_row = plain_zeros(ROWS), *of_column = plain_zeros(WIDTH), next = 0;
        double below = 0;
        trf__drop drop = trf__drop_of(p, 3, 1, 2, NULL);
        OP(&run, drop, y, ones, ROWS, WIDTH, &drop);
        for (i = 0; i < ROWS; i++)
            for (j = 0; j < WIDTH; j++) {
                int alive = y[i * WIDTH + j] != 0;
                all += alive; of_row[i] += alive; of_column[j] += alive;
                next += alive && y[i * WIDTH + (j + 16) % WIDTH] != 0;          /* pairs that share a word */
                below += alive && y[(i + 1) % ROWS * WIDTH + j] != 0;           /* pairs of neighbouring rows */
            }
        assert_number_near(all, ROWS * WIDTH * (1 - p), 4 * sqrt(ROWS * WIDTH * p * (1 - p)));
        if (p < 0.01) {
            for (i = 0; i < ROWS * WIDTH; i++)
                assert_true((y[i] != 0) == (kept_in(&drop, i / WIDTH, i % WIDTH) > 0));
            continue;
        }
        for (i = 0; i < ROWS; i++) assert_number_near(of_row[i], WIDTH * (1 - p), 5 * sqrt(WIDTH * p * (1 - p)));
        for (j = 0; j < WIDTH; j++) assert_number_near(of_column[j], ROWS * (1 - p), 5 * sqrt(ROWS * p * (1 - p)));
        p = 1 - (1 - p) * (1 - p);
        assert_number_near(next, ROWS * WIDTH * (1 - p), 6 * sqrt(ROWS * WIDTH * p * (1 - p)));
        assert_number_near(below, ROWS * WIDTH * (1 - p), 6 * sqrt(ROWS * WIDTH * p * (1 - p)));
    }
    trf__run_close(&run);
}

/* Rows of a batch cut in two keep their masks. */
static void test_drop_does_not_see_the_batch(void **state)
{
    enum { ROWS = 90, WIDTH = 70, CUT = 37 };
    trf__run run = run_of(1, 1);
    trf__drop whole = drop_of(0.3, ROWS), part = whole;
    trf_real *x = plain_random(ROWS * WIDTH, 1), *y = plain_empty(ROWS * WIDTH), *z = plain_empty(ROWS * WIDTH);
    (void)state;
    OP(&run, drop, y, x, ROWS, WIDTH, &whole);
    OP(&run, drop, z, x, CUT, WIDTH, &part);
    part.rows.sentence += CUT;
    part.rows.position += CUT;
    OP(&run, drop, z + CUT * WIDTH, x + CUT * WIDTH, ROWS - CUT, WIDTH, &part);
    assert_memory_equal(y, z, ROWS * WIDTH * sizeof *y);
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>vector */

static void lanes(trf_real out[TRF__WIDE], trf__v16 a) { trf__store(out, a); }

static void test_lanes(void **state)
{
    static const trf_real special[] = {0, -(trf_real)0, 1, -1, (trf_real)HUGE_VAL, -(trf_real)HUGE_VAL,
                                       (trf_real)FLT_MAX, (trf_real)FLT_MIN};
    trf_real a[16], b[16], c[16], got[16], once[16], twice[16];
    int round, i, fused = 1, rounded = 1;
    (void)state;
    for (round = 0; round < 500; round++) {
        trf__v16 va, vb, vc;
        for (i = 0; i < 16; i++) {
            a[i] = round % 2 ? (trf_real)plain_draw() : special[plain_below(8)];
            b[i] = round % 3 ? (trf_real)plain_draw() : special[plain_below(8)];
            c[i] = round % 4 ? (trf_real)plain_draw() : a[i];
        }
        va = trf__load(a); vb = trf__load(b); vc = trf__load(c);
#define EACH_LANE(call, expected) \
        lanes(got, call); \
        for (i = 0; i < 16; i++) { \
            trf_real want = expected; \
            if (!(got[i] == want || (got[i] != got[i] && want != want))) \
                fail_msg(#call ": lane %d of %g, %g is %g, not %g", i, (double)a[i], (double)b[i], (double)got[i], \
                         (double)want); \
        }
        EACH_LANE(va, a[i])
        EACH_LANE(trf__set(a[3]), a[3])
        EACH_LANE(trf__add(va, vb), a[i] + b[i])
        EACH_LANE(trf__sub(va, vb), a[i] - b[i])
        EACH_LANE(trf__mul(va, vb), a[i] * b[i])
        EACH_LANE(trf__div(va, vb), a[i] / b[i])
        EACH_LANE(trf__max(va, vb), a[i] < b[i] ? b[i] : a[i])
        EACH_LANE(trf__min(va, vb), b[i] < a[i] ? b[i] : a[i])
        EACH_LANE(trf__if_less(va, vc, vb, vc), a[i] < c[i] ? b[i] : c[i])
        lanes(got, trf__fma(va, vb, vc));
#if defined(TRF_DOUBLE)
        for (i = 0; i < 16; i++) once[i] = fma(a[i], b[i], c[i]);
#else
        for (i = 0; i < 16; i++) once[i] = fmaf(a[i], b[i], c[i]);
#endif
        for (i = 0; i < 16; i++) { volatile trf_real product = a[i] * b[i]; twice[i] = product + c[i]; }
        for (i = 0; i < 16; i++) {
            fused &= got[i] == once[i] || (got[i] != got[i] && once[i] != once[i]);
            rounded &= got[i] == twice[i] || (got[i] != got[i] && twice[i] != twice[i]);
        }
    }
    assert_true(fused + rounded == 1);      /* one or the other, the same for all lanes */
}

/* NaN: the first operand wins, so exp and erf of NaN are NaN, and a maximum that begins with a number stays one. */
static void test_lanes_and_nan(void **state)
{
    trf__v16 nan = trf__set((trf_real)NAN), one = trf__set(1);
    trf_real got[16];
    int i;
    (void)state;
    lanes(got, trf__max(nan, one)); for (i = 0; i < 16; i++) assert_true(got[i] != got[i]);
    lanes(got, trf__max(one, nan)); for (i = 0; i < 16; i++) assert_true(got[i] == 1);
    lanes(got, trf__min(nan, one)); for (i = 0; i < 16; i++) assert_true(got[i] != got[i]);
    lanes(got, trf__min(one, nan)); for (i = 0; i < 16; i++) assert_true(got[i] == 1);
    lanes(got, trf__if_less(nan, one, one, trf__set(2))); for (i = 0; i < 16; i++) assert_true(got[i] == 2);
    lanes(got, trf__exp(nan)); for (i = 0; i < 16; i++) assert_true(got[i] != got[i]);
    lanes(got, trf__erf(nan)); for (i = 0; i < 16; i++) assert_true(got[i] != got[i]);
    assert_true(trf__ln(NAN) != trf__ln(NAN));
    assert_false(trf__is_finite(trf__ln(HUGE_VAL)));
}

static void test_ends_of_rows(void **state)
{
    trf_real from[20], to[20], got[16];
    int n, i;
    (void)state;
    for (i = 0; i < 20; i++) from[i] = (trf_real)(i + 1);
    for (n = -2; n <= 20; n++) {
        trf_real *exact = plain_copy(from, n < 0 ? 0 : n);      /* nothing is read beyond n */
        lanes(got, trf__load_n(exact, n));
        for (i = 0; i < 16; i++) assert_true(got[i] == (i < n ? from[i] : 0));
        plain_fill(to, 20, -7);
        trf__store_n(to, trf__load(from), n);
        for (i = 0; i < 20; i++) assert_true(to[i] == (i < n && i < 16 ? from[i] : -7));
        lanes(got, trf__first(n));
        for (i = 0; i < 16; i++) assert_true(got[i] == (i < n ? 1 : 0));
    }
}

/* Lane i with i + 8, + 4, + 2, + 1, and no other order: most orders give other bits. */
static void test_sums_follow_one_tree(void **state)
{
    trf_real a[16];
    int round, i, differs = 0;
    (void)state;
    for (round = 0; round < 1000; round++) {
        trf_real x[8], line = 0, top = -2;
        for (i = 0; i < 16; i++) a[i] = (trf_real)(plain_draw() * pow(10, 3 * plain_draw()));
        for (i = 0; i < 8; i++) x[i] = a[i] + a[i + 8];
        for (i = 0; i < 16; i++) { line += a[i]; if (i == 0 || a[i] > top) top = a[i]; }
        x[0] = ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
        assert_true(trf__sum(trf__load(a)) == x[0]);
        assert_true(trf__max_lane(trf__load(a)) == top);
        differs += line != x[0];
    }
    assert_true(differs > 300);
}

static double worst_of(trf__v16 (*f)(trf__v16), long double (*exact)(long double), double from, double to, int64_t n,
                       int relative)
{
    double worst = 0;
    int64_t at;
    for (at = 0; at < n; at += 16) {
        trf_real x[16], y[16];
        int i;
        for (i = 0; i < 16; i++) x[i] = (trf_real)(from + (to - from) * (double)(at + i) / (double)n);
        trf__store(y, f(trf__load(x)));
        for (i = 0; i < 16; i++) {
            long double want = exact((long double)x[i]), error = fabsl((long double)y[i] - want);
            if (relative) error /= want;
            if (!(error <= worst)) worst = (double)error;       /* a NaN stays */
        }
    }
    return worst;
}

static trf__v16 exp16(trf__v16 x) { return trf__exp(x); }
static trf__v16 erf16(trf__v16 x) { return trf__erf(x); }

static void test_exp(void **state)
{
    double everywhere = worst_of(exp16, expl, -87, 88, 1 << 20, 1);
    double near_zero = worst_of(exp16, expl, -1, 1, 1 << 18, 1);
    trf_real got[16];
    int i, k;
    (void)state;
    assert_true(everywhere < (sizeof(trf_real) == 4 ? 2e-7 : 1e-15));
    assert_true(near_zero < (sizeof(trf_real) == 4 ? 2e-7 : 1e-15));
    for (k = -125; k <= 126; k++)           /* where n changes: odd multiples of ln 2 / 2 */
        assert_true(worst_of(exp16, expl, (k + 0.5) * log(2) - 1e-4, (k + 0.5) * log(2) + 1e-4, 128, 1) <
                    (sizeof(trf_real) == 4 ? 2e-7 : 1e-15));
    lanes(got, trf__exp(trf__set(0))); for (i = 0; i < 16; i++) assert_true(got[i] == 1);
    lanes(got, trf__exp(trf__set(-(trf_real)HUGE_VAL))); for (i = 0; i < 16; i++) assert_true(got[i] == 0);
    lanes(got, trf__exp(trf__set(-(trf_real)FLT_MAX))); for (i = 0; i < 16; i++) assert_true(got[i] == 0);
#if !defined(TRF_DOUBLE)
    lanes(got, trf__exp(trf__set(-87.31f))); for (i = 0; i < 16; i++) assert_true(got[i] == 0);
    /* beyond 88.3 there is no better answer than a very large number */
    lanes(got, trf__exp(trf__set(1000))); for (i = 0; i < 16; i++) assert_true(got[i] > 2e38f && got[i] <= FLT_MAX);
    lanes(got, trf__exp(trf__set(HUGE_VALF))); for (i = 0; i < 16; i++) assert_true(got[i] > 2e38f);
#endif
}

static void test_erf(void **state)
{
    trf_real got[16];
    int i;
    (void)state;
    assert_true(worst_of(erf16, erfl, -6, 6, 1 << 20, 0) < (sizeof(trf_real) == 4 ? 5e-7 : 1e-15));
    assert_true(worst_of(erf16, erfl, -0.01, 0.01, 1 << 12, 0) < (sizeof(trf_real) == 4 ? 5e-9 : 1e-17));
    lanes(got, trf__erf(trf__set((trf_real)HUGE_VAL)));
    for (i = 0; i < 16; i++) assert_number_near(got[i], 1, 5e-7);
    lanes(got, trf__erf(trf__set(-(trf_real)HUGE_VAL)));
    for (i = 0; i < 16; i++) assert_number_near(got[i], -1, 5e-7);
}

/* Of numbers >= 0: exact for 0 and 1, near everywhere else, and never a number for infinity or NaN. */
static void test_sqrt(void **state)
{
    trf_real x[16], y[16];
    double worst = 0, low = log((double)FLT_MIN), high = log((double)FLT_MAX);
    int i, k;
    (void)state;
    for (k = 0; k < 50000; k++) {
        for (i = 0; i < 16; i++)
            x[i] = (trf_real)exp(k % 2 ? plain_draw() : low + (high - low) * (plain_draw() + 1) / 2);
        lanes(y, trf__sqrt(trf__load(x)));
        for (i = 0; i < 16; i++) {
            double error = fabs((double)y[i] / sqrt((double)x[i]) - 1);
            if (!(error <= worst)) worst = error;
        }
    }
    assert_true(worst < (sizeof(trf_real) == 4 ? 1e-7 : 1e-15));
    lanes(y, trf__sqrt(trf__set(0))); for (i = 0; i < 16; i++) assert_true(y[i] == 0);
    lanes(y, trf__sqrt(trf__set(1))); for (i = 0; i < 16; i++) assert_true(y[i] == 1);
    for (k = sizeof(trf_real) == 4 ? -149 : -1074; k < (sizeof(trf_real) == 4 ? 128 : 1024); k++) {
        for (i = 0; i < 16; i++) x[i] = (trf_real)ldexp(1 + i / 16.0, k);   /* every exponent, denormal ones too */
        lanes(y, trf__sqrt(trf__load(x)));
        for (i = 0; i < 16; i++) {
            double root = sqrt((double)x[i]);
            assert_true(fabs((double)y[i] - root) < (sizeof(trf_real) == 4 ? 1e-7 : 1e-15) * root);
        }
    }
    lanes(y, trf__sqrt(trf__set((trf_real)HUGE_VAL)));
    for (i = 0; i < 16; i++) assert_false(trf__is_finite((double)y[i]));
    lanes(y, trf__sqrt(trf__set((trf_real)NAN)));
    for (i = 0; i < 16; i++) assert_false(trf__is_finite((double)y[i]));
}

static void test_ln(void **state)
{
    double x, worst = 0, worst_relative = 0;
    int i;
    (void)state;
    for (i = 0; i < 400000; i++) {          /* 1e-6 to 1e8, then everything normal */
        long double want;
        x = exp(-13.8 + (18.42 + 13.8) * i / 400000);
        want = logl((long double)x);
        if (!(fabs((double)(trf__ln(x) - want)) <= worst)) worst = fabs((double)(trf__ln(x) - want));
        x = exp(-708 + 1417.0 * i / 400000);
        want = logl((long double)x);
        want = fabsl((trf__ln(x) - want) / (fabsl(want) > 1 ? want : 1));
        if (!((double)want <= worst_relative)) worst_relative = (double)want;
    }
    assert_true(worst < 1e-14);
    assert_true(worst_relative < 1e-15);
    assert_true(trf__ln(1) == 0);
}

/* -----------------------------------------------------------------------------------------------
   >>gemm: c (m, n) = a b [+ c], element by element within the rounding of k multiply-adds. */

typedef struct product_case { int64_t m, n, k, a_row, a_step, b_row, b_column; const trf_real *a, *b; } product_case;

static void check_product(const product_case *p, const trf_real *c, int64_t ldc, const trf_real *before,
                          const char *name)
{
    int64_t i, j, t;
    for (i = 0; i < p->m; i++)
        for (j = 0; j < ldc; j++) {
            double want = before ? (double)before[i * ldc + j] : 0, size = fabs(want), got = (double)c[i * ldc + j];
            if (j >= p->n) {                /* between the rows nothing is touched */
                if (memcmp(&c[i * ldc + j], &before[i * ldc + j], sizeof *c))
                    fail_msg("%s writes beyond its rows", name);
                continue;
            }
            for (t = 0; t < p->k; t++) {
                double a = (double)p->a[i * p->a_row + t * p->a_step];
                double term = a * (double)p->b[t * p->b_row + j * p->b_column];
                want += term;
                size += fabs(term);
            }
            if (!(fabs(got - want) <= EPSILON * (2 + sqrt((double)p->k)) * size))
                fail_msg("%s (%lld, %lld, %lld): c[%lld][%lld] = %.9g, expected %.9g", name, (long long)p->m,
                         (long long)p->n, (long long)p->k, (long long)i, (long long)j, got, want);
        }
}

/* Any strides, and panels packed by hand. */
static void product_of(int64_t m, int64_t n, int64_t k, int a_turned, int b_turned)
{
    int mark = plain_used, add;
    int64_t ldc = n + 3, panels = (n + 15) / 16, j, t;
    trf_real *a = plain_random(m * k, 1), *b = plain_random(k * n, 1), *scratch = plain_empty(TRF__GEMM_SCRATCH);
    trf_real *packed = plain_empty(panels * 16 * k);
    product_case p;
    p.m = m; p.n = n; p.k = k; p.a = a; p.b = b;
    p.a_row = a_turned ? 1 : k; p.a_step = a_turned ? m : 1;
    p.b_row = b_turned ? 1 : n; p.b_column = b_turned ? k : 1;
    for (j = 0; j < panels * 16; j++)
        for (t = 0; t < k; t++)
            packed[j / 16 * 16 * k + t * 16 + j % 16] = j < n ? b[t * p.b_row + j * p.b_column] : 0;
    for (add = 0; add < 2; add++) {
        trf_real *before = plain_random(m * ldc, 1), *c = plain_copy(before, m * ldc);
        trf_real *d = plain_copy(before, m * ldc);
        int64_t i;
        trf__view view = trf__view_of(a, p.a_row, p.a_step), panels_view = trf__view_of(packed, 16, 16 * k);
        trf__product any = trf__product_of(c, ldc, m, n, k, view, trf__view_of(b, p.b_row, p.b_column), add);
        if (!add) for (i = 0; i < m * ldc; i++) if (i % ldc < n) c[i] = d[i] = (trf_real)NAN;
        trf__mm_packing(scratch, &any);
        trf__mm(trf__product_of(d, ldc, m, n, k, view, panels_view, add));
        /* cut into panels of 256 or not: the same bits */
        assert_memory_equal(c, d, (size_t)(m * ldc) * sizeof *c);
        if (!add) for (i = 0; i < m * ldc; i++) if (i % ldc < n) before[i] = 0;
        check_product(&p, c, ldc, before, "trf__mm_packing");
    }
    plain_release(mark);
}

static void test_products(void **state)
{
    static const int64_t rows[] = {1, 5, 6, 7, 15, 16, 17, 33}, columns[] = {1, 15, 16, 17, 31, 32, 33, 50},
        depths[] = {0, 1, 2, 17, 255, 256, 257};
    size_t i, j, k;
    (void)state;
    for (i = 0; i < 8; i++)
        for (j = 0; j < 8; j++)
            for (k = 0; k < 7; k++) product_of(rows[i], columns[j], depths[k], (i + j + k) & 1, (i + j) >> 1 & 1);
    for (i = 0; i < 4; i++) product_of(13, 37, 519, i & 1, (int)i >> 1);
    product_of(300, 33, 300, 0, 1);
}

/* A packed weight: panel p has rows 16 p ... of w, transposed; missing rows are zero. */
static void test_pack_weight(void **state)
{
    static const int64_t outs[] = {1, 15, 16, 17, 33, 48};
    const int64_t in = 7;
    size_t k;
    int64_t o, i;
    (void)state;
    for (k = 0; k < 6; k++) {
        int64_t out = outs[k], padded = (out + 15) / 16 * 16;
        trf_real *w = plain_random(out * in, 1), *packed = plain_empty(padded * in);
        trf__pack_weight(packed, w, out, in);
        for (o = 0; o < padded; o++)
            for (i = 0; i < in; i++)
                assert_true(packed[o / 16 * 16 * in + i * 16 + o % 16] == (o < out ? w[o * in + i] : 0));
    }
}

static void multiply(const trf__run *run, const product_case *p, trf_real *c, int64_t ldc, int add)
{
    trf__multiply(run, 0, run->blas, NULL,
                  trf__product_of(c, ldc, p->m, p->n, p->k, trf__view_of(p->a, p->a_row, p->a_step),
                                  trf__view_of(p->b, p->b_row, p->b_column), add));
}

static void test_products_of_weights(void **state)
{
    static const int64_t shapes[][3] = {{1, 1, 1}, {1, 300, 33}, {15, 17, 16}, {16, 16, 300}, {17, 15, 31},
                                        {33, 129, 70}, {33, 1, 20}, {33, 20, 1}, {33, 1, 1}, {300, 50, 65}};
    size_t s;
    int blas;
    (void)state;
    for (blas = 0; blas < 2; blas++)
        for (s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            trf__run run = run_of(1, blas);
            int64_t rows = shapes[s][0], out = shapes[s][1], in = shapes[s][2], ldy = out + 2, i;
            trf_real *x = plain_random(rows * in, 1), *y, *before;
            product_case p;
            p.m = rows; p.n = out; p.k = in; p.a = x; p.a_row = in; p.a_step = 1; p.b_row = 1; p.b_column = in;
            p.b = plain_random(out * in, 1);
            before = plain_fill(plain_empty(rows * ldy), rows * ldy, 0);
            y = plain_copy(before, rows * ldy);
            for (i = 0; i < rows * ldy; i++) if (i % ldy < out) y[i] = (trf_real)NAN;
            multiply(&run, &p, y, ldy, 0);                                              /* y = x w^T */
            check_product(&p, y, ldy, before, "x w^T");
            p.a = plain_random(rows * ldy, 1); p.a_row = ldy;                           /* dx = dy w */
            p.n = in; p.k = out; p.b_row = in; p.b_column = 1;
            y = plain_empty(rows * in);
            multiply(&run, &p, y, in, 0);
            check_product(&p, y, in, NULL, "dy w");
            before = plain_copy(y, rows * in);
            multiply(&run, &p, y, in, 1);
            check_product(&p, y, in, before, "dx + dy w");
            p.m = out; p.n = in; p.k = rows; p.a_row = 1; p.a_step = ldy;               /* dw += dy^T x */
            p.b = plain_random(rows * (in + 1), 1); p.b_row = in + 1;
            before = plain_random(out * (in + 5), 1);
            y = plain_copy(before, out * (in + 5));
            multiply(&run, &p, y, in + 5, 1);
            check_product(&p, y, in + 5, before, "dw + dy^T x");
            trf__run_close(&run);
        }
}

static void test_blas_for_many_rows_only(void **state)
{
    trf__run run = run_of(1, 1);
    (void)state;
    assert_false(trf__use_blas(&run, 1));
    assert_false(trf__use_blas(&run, 16));
#if defined(TRF_NO_CBLAS)
    assert_false(trf__use_blas(&run, 17));
#else
    assert_true(trf__use_blas(&run, 17));
#endif
    run.blas = 0;
    assert_false(trf__use_blas(&run, 300));
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>linear */

static trf__mat weight_of(const trf_real *plain, int64_t out, int64_t in, int packed)
{
    trf__mat w;
    w.plain = plain;
    w.packed = NULL;
    if (packed) {
        trf_real *panels = plain_empty((out + 15) / 16 * 16 * in);
        trf__pack_weight(panels, plain, out, in);
        w.packed = panels;
    }
    return w;
}

static uint64_t check_linear(const trf__run *run, int64_t rows, int64_t out, int64_t in, int packed, int bias)
{
    int mark = plain_used;
    trf_real *x = plain_random(rows * in, 1), *w = plain_random(out * in, 1), *b = bias ? plain_random(out, 1) : NULL;
    trf_real *y = plain_empty(rows * out);
    double *want = plain_zeros(rows * out);
    uint64_t hash;
    OP(run, linear, y, x, weight_of(w, out, in, packed), b, rows, out, in);
    plain_linear(want, plain_doubles(x, rows * in), plain_doubles(w, out * in), b ? plain_doubles(b, out) : NULL,
                 rows, out, in);
    assert_all_near("y", y, want, rows * out, TIGHT);
    hash = hash_of(HASH_START, y, rows * out);
    plain_release(mark);
    return hash;
}

static uint64_t check_linear_dx(const trf__run *run, int64_t rows, int64_t out, int64_t in)
{
    int mark = plain_used;
    trf_real *dy = plain_random(rows * out, 1), *w = plain_random(out * in, 1), *dx = plain_empty(rows * in);
    trf_real *sum = plain_random(rows * in, 1);
    double *want = plain_zeros(rows * in), *wanted_sum = plain_doubles(sum, rows * in);
    uint64_t hash;
    int64_t r, o, i;
    OP(run, linear_dx, dx, dy, weight_of(w, out, in, 0), rows, out, in, 0);
    OP(run, linear_dx, sum, dy, weight_of(w, out, in, 1), rows, out, in, 1);
    for (r = 0; r < rows; r++)
        for (o = 0; o < out; o++)
            for (i = 0; i < in; i++) want[r * in + i] += (double)dy[r * out + o] * (double)w[o * in + i];
    for (i = 0; i < rows * in; i++) wanted_sum[i] += want[i];
    assert_all_near("dx", dx, want, rows * in, TIGHT);
    assert_all_near("dx added", sum, wanted_sum, rows * in, TIGHT);
    hash = hash_of(hash_of(HASH_START, dx, rows * in), sum, rows * in);
    plain_release(mark);
    return hash;
}

/* Products of different sizes in one call; the second has no bias. */
static uint64_t check_linear_dw(const trf__run *run, const int64_t (*shapes)[3], int n)
{
    int mark = plain_used, k;
    trf__dw products[TRF__DW_MOST];
    double *dw[TRF__DW_MOST], *db[TRF__DW_MOST];
    uint64_t hash = HASH_START;
    int64_t r, o, i;
    for (k = 0; k < n; k++) {
        trf__dw *p = &products[k];
        p->rows = shapes[k][0]; p->out = shapes[k][1]; p->in = shapes[k][2];
        p->dy = plain_random(p->rows * p->out, 1);
        p->x = plain_random(p->rows * p->in, 1);
        p->dw = plain_random(p->out * p->in, 1);
        p->db = k == 1 ? NULL : plain_random(p->out, 1);
        dw[k] = plain_doubles(p->dw, p->out * p->in);
        db[k] = p->db ? plain_doubles(p->db, p->out) : NULL;
        for (r = 0; r < p->rows; r++)
            for (o = 0; o < p->out; o++) {
                double dy = (double)p->dy[r * p->out + o];
                if (db[k]) db[k][o] += dy;
                for (i = 0; i < p->in; i++) dw[k][o * p->in + i] += dy * (double)p->x[r * p->in + i];
            }
    }
    OP(run, linear_dw, products, n);
    for (k = 0; k < n; k++) {
        trf__dw *p = &products[k];
        assert_all_near("dw", p->dw, dw[k], p->out * p->in, TIGHT);
        if (p->db) assert_all_near("db", p->db, db[k], p->out, TIGHT);
        hash = hash_of(hash, p->dw, p->out * p->in);
        if (p->db) hash = hash_of(hash, p->db, p->out);
    }
    plain_release(mark);
    return hash;
}

static void test_linear(void **state)
{
    static const int64_t rows[] = {0, 1, 15, 16, 17, 33, 300}, outs[] = {1, 16, 33, 130, 300};
    static const int64_t ins[] = {1, 17, 64, 270};
    static const int64_t several[][3] = {{70, 5, 130}, {70, 130, 5}, {1, 257, 129}, {300, 33, 17}, {0, 3, 3},
                                         {65, 128, 128}, {16, 1, 1}, {64, 2, 300}};
    size_t i, j, k;
    int blas;
    (void)state;
    for (blas = 0; blas < 2; blas++) {
        trf__run run = run_of(1, blas);
        for (i = 0; i < 7; i++)
            for (j = 0; j < 5; j++)
                for (k = 0; k < 4; k++) {
                    if (rows[i] == 300 && outs[j] == 300 && blas) continue;         /* time */
                    check_linear(&run, rows[i], outs[j], ins[k], (i + j) & 1, (j + k) & 1);
                    if ((i + j + k) % 2 == 0) check_linear_dx(&run, rows[i], outs[j], ins[k]);
                }
        for (i = 1; i <= 8; i++) check_linear_dw(&run, several, (int)i);
        trf__run_close(&run);
    }
}

/* The built-in product gives every element by one chain of multiply-adds in order: whatever the row's neighbours, the
   panels, the tiles and the packing. trf__fma says what a multiply-add is on this machine. */
static void test_built_in_product_has_one_order(void **state)
{
    enum { ROWS = 70, OUT = 150, IN = 300 };
    static const int64_t starts[] = {0, 1, 3, 20, 45, 69, 70};
    trf__run run = run_of(1, 0);
    trf_real *x = plain_random(ROWS * IN, 1), *w = plain_random(OUT * IN, 1), *b = plain_random(OUT, 1);
    trf_real *y = plain_empty(ROWS * OUT), *again = plain_empty(ROWS * OUT), *dx = plain_empty(ROWS * IN);
    trf_real *more = plain_empty(ROWS * IN), lane[16];
    trf__mat plain = weight_of(w, OUT, IN, 0), packed = weight_of(w, OUT, IN, 1);
    int64_t r, o, i;
    size_t s;
    (void)state;
    OP(&run, linear, y, x, plain, b, ROWS, OUT, IN);
    for (r = 0; r < ROWS; r += 7)
        for (o = 0; o < OUT; o += 16) {
            trf__v16 sum = trf__set(0);
            int l, columns = (int)trf__min64(16, OUT - o);
            for (i = 0; i < IN; i++) {
                for (l = 0; l < 16; l++) lane[l] = l < columns ? w[(o + l) * IN + i] : 0;
                sum = trf__fma(trf__set(x[r * IN + i]), trf__load(lane), sum);
            }
            lanes(lane, sum);
            for (l = 0; l < columns; l++) assert_true(y[r * OUT + o + l] == lane[l] + b[o + l]);
        }
    OP(&run, linear, again, x, packed, b, ROWS, OUT, IN);
    assert_memory_equal(y, again, ROWS * OUT * sizeof *y);
    OP(&run, linear_dx, dx, y, plain, ROWS, OUT, IN, 0);
    for (s = 0; s + 1 < sizeof starts / sizeof *starts; s++) {
        int64_t first = starts[s], rows = starts[s + 1] - first;
        OP(&run, linear, again + first * OUT, x + first * IN, s & 1 ? packed : plain, b, rows, OUT, IN);
        OP(&run, linear_dx, more + first * IN, y + first * OUT, plain, rows, OUT, IN, 0);
    }
    assert_memory_equal(y, again, ROWS * OUT * sizeof *y);
    assert_memory_equal(dx, more, ROWS * IN * sizeof *dx);
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>embed */

static uint64_t check_embed(const trf__run *run, int64_t rows, int64_t d, int with_table, double p)
{
    enum { VOCAB = 13, PLACES = 9 };
    int mark = plain_used;
    trf__drop drop = drop_of(p, rows);
    trf_real *weight = plain_random(VOCAB * d, 1), *table = with_table ? plain_random(PLACES * d, 1) : NULL;
    trf_real *dweight = plain_random(VOCAB * d, 1), *dtable = with_table ? plain_random(PLACES * d, 1) : NULL;
    trf_real *y = plain_empty(rows * d), *dy = plain_random(rows * d, 1);
    double *want = plain_zeros(rows * d), *want_dweight = plain_doubles(dweight, VOCAB * d);
    double *want_dtable = with_table ? plain_doubles(dtable, PLACES * d) : NULL, scale = 2.5;
    int32_t *ids = (int32_t *)plain_room((size_t)rows * sizeof *ids);
    int32_t *places = (int32_t *)plain_room((size_t)rows * sizeof *places);
    uint64_t hash;
    int64_t r, c;
    for (r = 0; r < rows; r++) {
        ids[r] = r == 2 ? -1 : (int32_t)plain_below(VOCAB);     /* -1: no token, as before a target's first one */
        places[r] = (int32_t)plain_below(PLACES);
        for (c = 0; c < d; c++) {
            double gradient = (double)dy[r * d + c];
            if (ids[r] >= 0) {
                want[r * d + c] = scale * (double)weight[ids[r] * d + c];
                want_dweight[ids[r] * d + c] += scale * gradient;
            }
            if (with_table) {
                want[r * d + c] += (double)table[places[r] * d + c];
                want_dtable[places[r] * d + c] += gradient;
            }
            want[r * d + c] *= kept_in(&drop, r, c);
        }
    }
    OP(run, embed, y, weight, table, ids, places, rows, d, (trf_real)scale, &drop);
    OP(run, embed_backward, dweight, dtable, dy, ids, places, rows, d, (trf_real)scale);
    assert_all_near("y", y, want, rows * d, TIGHT);
    assert_all_near("dweight", dweight, want_dweight, VOCAB * d, TIGHT);
    if (with_table) assert_all_near("dtable", dtable, want_dtable, PLACES * d, TIGHT);
    hash = hash_of(hash_of(HASH_START, y, rows * d), dweight, VOCAB * d);
    if (with_table) hash = hash_of(hash, dtable, PLACES * d);
    plain_release(mark);
    return hash;
}

static void test_embed(void **state)
{
    static const int64_t widths[] = {1, 15, 16, 17, 40, 150};
    trf__run run = run_of(1, 1);
    size_t i;
    (void)state;
    for (i = 0; i < 6; i++) {
        check_embed(&run, 50, widths[i], 1, 0.2);
        check_embed(&run, 3, widths[i], 0, 0);
        check_embed(&run, 7, widths[i], 0, 0.5);
        check_embed(&run, 80, widths[i], 1, 0);
    }
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>activate */

static uint64_t check_activate(const trf__run *run, int64_t rows, int64_t width, int kind, double p)
{
    int mark = plain_used;
    int64_t n = rows * width, i;
    trf__drop drop = drop_of(p, rows);
    trf_real *h = plain_random(n, 6), *da = plain_random(n, 1), *a = plain_empty(n), *dh = plain_empty(n);
    double *want = plain_zeros(n), *want_dh = plain_zeros(n);
    uint64_t hash;
    h[0] = 0;
    if (n > 4) { h[1] = -100; h[2] = 100; h[3] = (trf_real)-1e-20; h[4] = (trf_real)1e-20; }
    for (i = 0; i < n; i++) {
        double factor = kept_in(&drop, i / width, i % width);
        want[i] = factor * plain_activation(kind, (double)h[i]);
        want_dh[i] = factor * plain_slope(kind, (double)h[i]) * (double)da[i];
    }
    OP(run, activate, a, h, rows, width, kind, &drop);
    OP(run, activate_backward, dh, da, h, rows, width, kind, &drop);
    for (i = 0; i < n; i++) {
        if (!(fabs((double)a[i] - want[i]) <= 10 * EPSILON * (1 + fabs(want[i]))) ||
            !(fabs((double)dh[i] - want_dh[i]) <= 20 * EPSILON * (1 + fabs((double)da[i]))))
            fail_msg("activation %d of %.9g: %.9g, expected %.9g; backward %.9g, expected %.9g", kind, (double)h[i],
                     (double)a[i], want[i], (double)dh[i], want_dh[i]);
    }
    hash = hash_of(hash_of(HASH_START, a, n), dh, n);
    plain_release(mark);
    return hash;
}

static void test_activate(void **state)
{
    trf__run run = run_of(1, 1);
    int kind;
    (void)state;
    for (kind = TRF_RELU; kind <= TRF_SILU; kind++) {
        check_activate(&run, 40, 33, kind, 0);
        check_activate(&run, 5, 300, kind, 0.3);
        check_activate(&run, 3, 1, kind, 0.5);
    }
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>attention: forward and backward of spans with gaps between them, which must stay untouched */

typedef struct attention_case {
    /* together: q, k and v are columns of one matrix, as in self-attention */
    int heads, d_head, causal, together;
    int n;
    int64_t lengths[4][2];                      /* queries and keys */
    double p, size;
} attention_case;

enum { GAP = 2 };       /* rows between spans */

/* One head of one span: copies it out, computes it plainly, adds the results into the wanted matrices. */
static void attention_head(const trf__attention *a, const trf__span *s, int head, double *out, double *stats,
                           double *weights, double *dq, double *dk, double *dv)
{
    int mark = plain_used, backward = a->dout != NULL;
    int64_t n = s->n_query, m = s->n_key, d = a->d_head, i, j, c;
    double *q = plain_zeros(n * d), *k = plain_zeros(m * d), *v = plain_zeros(m * d), *keep = plain_zeros(n * m);
    double *dout = plain_zeros(n * d);
    plain_head h;
    TRF__ZERO(h);
    h.n = n; h.m = m; h.d = d; h.causal = a->causal; h.q = q; h.k = k; h.v = v; h.keep = keep;
    h.p = plain_zeros(n * m); h.out = plain_zeros(n * d); h.maximum = plain_zeros(n); h.sum = plain_zeros(n);
    h.dq = plain_zeros(n * d); h.dk = plain_zeros(m * d); h.dv = plain_zeros(m * d);
    if (backward) h.dout = dout;
    for (i = 0; i < n; i++) {
        for (c = 0; c < d; c++) q[i * d + c] = (double)a->q[(s->query + i) * a->ldq + head * d + c];
        if (backward)
            for (c = 0; c < d; c++) dout[i * d + c] = (double)a->dout[(s->query + i) * a->ldo + head * d + c];
        /* weights are numbered as features of the row (sentence, head), each query's from a multiple of sixteen */
        for (j = 0; j < m; j++) keep[i * m + j] = kept(&a->drop, s->sentence, head, i * ((m + 15) / 16 * 16) + j);
    }
    for (j = 0; j < m; j++)
        for (c = 0; c < d; c++) {
            int64_t row = s->key_rows ? s->key_rows[j] : s->key + j;
            k[j * d + c] = (double)a->k[row * a->ldk + head * d + c];
            v[j * d + c] = (double)a->v[row * a->ldk + head * d + c];
        }
    plain_attention(&h);
    for (i = 0; i < n; i++) {
        for (c = 0; c < d; c++) {
            out[(s->query + i) * a->ldo + head * d + c] = h.out[i * d + c];
            if (backward) dq[(s->query + i) * a->ldq + head * d + c] = h.dq[i * d + c];
        }
        if (stats && m > 0) {
            stats[((s->query + i) * a->heads + head) * 2] = h.maximum[i];
            stats[((s->query + i) * a->heads + head) * 2 + 1] = 1 / h.sum[i];
        }
        if (weights) for (j = 0; j < m; j++) weights[i * m + j] = h.p[i * m + j];
    }
    if (backward)
        for (j = 0; j < m; j++)
            for (c = 0; c < d; c++) {
                dk[(s->key + j) * a->ldk + head * d + c] = h.dk[j * d + c];
                dv[(s->key + j) * a->ldk + head * d + c] = h.dv[j * d + c];
            }
    plain_release(mark);
}

/* Where nothing is wanted (NaN), the sentinel must still stand; where something is, it must be near. */
static void near_or_untouched(const char *what, const trf_real *got, double *want, int64_t n, double sentinel)
{
    int64_t i;
    for (i = 0; i < n; i++) {
        if (want[i] == want[i]) continue;
        if (!((double)got[i] == sentinel)) fail_msg("%s[%lld] is not this op's, but was written", what, (long long)i);
        want[i] = sentinel;
    }
    assert_all_near(what, got, want, n, LOOSE);
}

static double *nothing(int64_t n)
{
    double *x = plain_zeros(n);
    int64_t i;
    for (i = 0; i < n; i++) x[i] = NAN;
    return x;
}

static uint64_t check_attention(const trf__run *run, const attention_case *t)
{
    const double sentinel = 0.5;
    int mark = plain_used, d = t->heads * t->d_head, i, head;
    int64_t q_rows = GAP, k_rows = GAP, q_numbers, k_numbers;
    trf__span spans[4];
    trf__attention a;
    trf_real *q, *k, *dq, *dk;
    double *out, *stats, *want_dq, *want_dk;
    uint64_t hash = HASH_START;
    TRF__ZERO(spans);
    for (i = 0; i < t->n; i++) {
        trf__span *s = &spans[i];
        s->n_query = t->lengths[i][0]; s->n_key = t->lengths[i][1]; s->sentence = 100 + 7 * i;
        s->query = q_rows; s->key = t->together ? q_rows : k_rows;
        q_rows += s->n_query + GAP;
        k_rows += s->n_key + GAP;
    }
    TRF__ZERO(a);
    a.spans = spans; a.n_spans = t->n; a.heads = t->heads; a.d_head = t->d_head; a.causal = t->causal;
    a.drop = drop_of(t->p, 1);
    a.ldq = t->together ? 3 * d : d + 3; a.ldk = t->together ? 3 * d : 2 * d + 1; a.ldo = d + 1;
    q_numbers = q_rows * a.ldq; k_numbers = t->together ? q_numbers : k_rows * a.ldk;
    a.q = q = plain_random(q_numbers, t->size);
    k = t->together ? q + d : plain_random(k_numbers, t->size);
    a.k = k; a.v = k + d;
    a.out = plain_fill(plain_empty(q_rows * a.ldo), q_rows * a.ldo, sentinel);
    a.stats = plain_fill(plain_empty(q_rows * t->heads * 2), q_rows * t->heads * 2, sentinel);
    a.dq = dq = plain_fill(plain_empty(q_numbers), q_numbers, sentinel);
    dk = t->together ? dq + d : plain_fill(plain_empty(k_numbers), k_numbers, sentinel);
    a.dk = dk; a.dv = dk + d;
    a.dout = plain_random(q_rows * a.ldo, 1);
    out = nothing(q_rows * a.ldo); stats = nothing(q_rows * t->heads * 2);
    want_dq = nothing(q_numbers); want_dk = t->together ? want_dq + d : nothing(k_numbers);
    for (i = 0; i < t->n; i++)
        for (head = 0; head < t->heads; head++)
            attention_head(&a, &spans[i], head, out, stats, NULL, want_dq, want_dk, want_dk + d);
    OP(run, attention, &a);
    near_or_untouched("out", a.out, out, q_rows * a.ldo, sentinel);
    near_or_untouched("stats", a.stats, stats, q_rows * t->heads * 2, sentinel);
    OP(run, attention_backward, &a);
    near_or_untouched("dq", dq, want_dq, q_numbers, sentinel);
    if (!t->together) near_or_untouched("dk, dv", dk, want_dk, k_numbers, sentinel);
    hash = hash_of(hash_of(hash, a.out, q_rows * a.ldo), a.stats, q_rows * t->heads * 2);
    hash = hash_of(hash_of(hash, dq, q_numbers), dk, t->together ? 0 : k_numbers);
    plain_release(mark);
    return hash;
}

static void test_attention(void **state)
{
    static const attention_case cases[] = {
        /* heads, d_head, causal, together, spans, their queries and keys, dropout, size */
        {1, 1, 0, 0, 1, {{1, 1}}, 0, 1},
        {2, 5, 0, 1, 3, {{3, 3}, {17, 17}, {1, 1}}, 0, 1},
        {2, 5, 1, 1, 3, {{3, 3}, {17, 17}, {1, 1}}, 0, 1},
        {1, 16, 0, 0, 4, {{4, 31}, {33, 2}, {5, 0}, {0, 3}}, 0, 1},
        {3, 20, 0, 0, 2, {{15, 16}, {16, 15}}, 0.2, 1},
        {1, 32, 1, 0, 1, {{70, 70}}, 0, 1},
        {2, 16, 1, 1, 2, {{33, 33}, {65, 65}}, 0.3, 1},
        {2, 20, 0, 1, 1, {{75, 75}}, 0.1, 1},
        {2, 1, 1, 0, 2, {{40, 40}, {2, 2}}, 0.5, 2},
        /* causal with a past: query i sees m - n + i + 1 */
        {1, 5, 1, 0, 3, {{1, 19}, {4, 20}, {33, 40}}, 0, 1},
        {2, 32, 0, 0, 2, {{64, 80}, {32, 48}}, 0.25, 1}
    };
    trf__run run = run_of(1, 1);
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) check_attention(&run, &cases[i]);
    trf__run_close(&run);
}

/* Keys listed by row, as the ancestors of a beam are: any order, repeated, far apart; one query with a long past. */
static void test_attention_with_listed_keys(void **state)
{
    enum { HEADS = 2, D_HEAD = 20, D = HEADS * D_HEAD, KEYS = 35, CACHE = 60, QUERIES = 3 };
    trf__run run = run_of(1, 1);
    int32_t rows[KEYS];
    trf__span spans[2];
    trf__attention a;
    double *want = nothing(QUERIES * D);
    int i, head;
    (void)state;
    for (i = 0; i < KEYS; i++) rows[i] = (int32_t)plain_below(CACHE);
    rows[4] = rows[5];
    TRF__ZERO(spans);
    TRF__ZERO(a);
    spans[0].n_query = 1; spans[0].n_key = KEYS; spans[0].key_rows = rows;
    spans[1].query = 1; spans[1].n_query = 2; spans[1].n_key = 17; spans[1].key_rows = rows + 3;
    a.spans = spans; a.n_spans = 2; a.heads = HEADS; a.d_head = D_HEAD; a.causal = 1;
    a.ldq = a.ldo = D; a.ldk = 2 * D;
    a.q = plain_random(QUERIES * D, 1);
    a.k = plain_random(CACHE * 2 * D, 1);
    a.v = a.k + D;
    a.out = plain_empty(QUERIES * D);
    for (i = 0; i < 2; i++)
        for (head = 0; head < HEADS; head++) attention_head(&a, &spans[i], head, want, NULL, NULL, NULL, NULL, NULL);
    OP(&run, attention, &a);            /* without stats too */
    assert_all_near("out", a.out, want, QUERIES * D, LOOSE);
    trf__run_close(&run);
}

/* The weights of one head, before dropout; each row sums to 1, and unseen keys have exactly none. */
static void test_attention_weights_can_be_seen(void **state)
{
    enum { HEADS = 3, D_HEAD = 5, D = HEADS * D_HEAD, N = 37 };
    trf__run run = run_of(1, 1);
    trf__span span;
    trf__attention a;
    int probe;
    int64_t i, j;
    (void)state;
    TRF__ZERO(span);
    TRF__ZERO(a);
    span.n_query = span.n_key = N;
    a.spans = &span; a.n_spans = 1; a.heads = HEADS; a.d_head = D_HEAD; a.causal = 1;
    a.drop = drop_of(0.4, 1);
    a.ldq = a.ldk = a.ldo = D;
    a.q = plain_random(N * D, 2); a.k = plain_random(N * D, 2); a.v = plain_random(N * D, 2);
    a.out = plain_empty(N * D);
    for (probe = 0; probe < HEADS; probe++) {
        double *want = plain_zeros(N * N), *out = plain_zeros(N * D);
        a.probe = probe;
        a.weights = plain_empty(N * N);
        attention_head(&a, &span, probe, out, NULL, want, NULL, NULL, NULL);
        OP(&run, attention, &a);
        assert_all_near("weights", a.weights, want, N * N, LOOSE);
        for (i = 0; i < N; i++) {
            double sum = 0;
            for (j = 0; j < N; j++) {
                sum += (double)a.weights[i * N + j];
                if (j > i) assert_true(a.weights[i * N + j] == 0);
            }
            assert_number_near(sum, 1, TIGHT);
        }
    }
    trf__run_close(&run);
}

/* Scores far apart and scores all the same: weights 0 and 1, or 1/m each; and never a NaN. */
static void test_attention_extremes(void **state)
{
    enum { M = 21 };
    trf__run run = run_of(1, 1);
    trf_real q[2] = {(trf_real)1e15, 0}, k[M], v[M], out[2], weights[2 * M], stats[4];
    trf__span span;
    trf__attention a;
    double average = 0;
    int j;
    (void)state;
    TRF__ZERO(span);
    TRF__ZERO(a);
    for (j = 0; j < M; j++) {
        k[j] = (trf_real)(1e15 * (j - 10));
        v[j] = (trf_real)plain_draw();
        average += (double)v[j] / M;
    }
    span.n_query = 2; span.n_key = M;
    a.spans = &span; a.n_spans = 1; a.heads = 1; a.d_head = 1; a.ldq = a.ldk = a.ldo = 1;
    a.q = q; a.k = k; a.v = v; a.out = out; a.weights = weights; a.stats = stats;
    OP(&run, attention, &a);
    for (j = 0; j < M; j++) assert_true(weights[j] == (j == M - 1));
    assert_true(out[0] == v[M - 1]);
    for (j = 0; j < M; j++) assert_number_near(weights[M + j], 1.0 / M, TIGHT);
    assert_number_near(out[1], average, TIGHT);
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>add_norm: s = x + drop(sub), y = norm(s), and the way back */

typedef struct norm_case { int64_t rows, d; int rule, sub, norm, dy2, ds_in; double p, epsilon; } norm_case;

static void plain_add_norm(const norm_case *t, const trf__norm *n, double *s, double *y, double *ds, double *dsub,
                           double *dgain, double *dbias, double *stats)
{
    int mark = plain_used;
    int64_t d = t->d, r, c;
    double *gain = plain_doubles(n->gain, d), *bias = plain_doubles(n->bias, d), *g = plain_zeros(d);
    for (r = 0; r < t->rows; r++) {
        int inner = plain_used;
        for (c = 0; c < d; c++) {
            int64_t at = r * d + c;
            s[at] = (double)n->x[at] + (t->sub ? (double)n->sub[at] * kept_in(&n->drop, r, c) : 0);
            g[c] = t->norm ? (double)n->dy[at] + (t->dy2 ? (double)n->dy2[at] : 0) : 0;
        }
        if (t->norm) {
            stats[2 * r + 1] = plain_norm(y + r * d, s + r * d, gain, bias, d, t->epsilon, t->rule, &stats[2 * r]);
            plain_norm_backward(ds + r * d, dgain, dbias, g, s + r * d, gain, d, t->epsilon, t->rule);
        }
        for (c = 0; c < d; c++) {
            if (t->ds_in) ds[r * d + c] += (double)n->ds_in[r * d + c];
            if (t->sub) dsub[r * d + c] = ds[r * d + c] * kept_in(&n->drop, r, c);
        }
        plain_release(inner);
    }
    plain_release(mark);
}

static uint64_t check_add_norm(const trf__run *run, const norm_case *t)
{
    int mark = plain_used;
    int64_t d = t->d, all = t->rows * d;
    double *s = plain_zeros(all), *y = plain_zeros(all), *ds = plain_zeros(all), *dsub = plain_zeros(all);
    double *dgain, *dbias;
    double *stats = plain_zeros(2 * t->rows);
    trf_real *gain_before, *bias_before;
    uint64_t hash;
    trf__norm n;
    TRF__ZERO(n);
    n.rows = t->rows; n.d = d; n.rule = t->rule; n.epsilon = t->epsilon;
    n.drop = drop_of(t->p, t->rows);
    n.x = plain_random(all, 2);
    if (t->sub) { n.sub = plain_random(all, 1); n.s = plain_empty(all); n.dsub = plain_empty(all); }
    n.gain = plain_random(d, 1); n.bias = plain_random(d, 1);
    if (t->norm) { n.y = plain_empty(all); n.dy = plain_random(all, 1); }
    if (t->dy2) n.dy2 = plain_random(all, 1);
    if (t->ds_in) n.ds_in = plain_random(all, 1);
    n.stats = plain_empty(2 * t->rows);
    n.dgain = plain_random(d, 1); n.dbias = plain_random(d, 1);
    gain_before = plain_copy(n.dgain, d); bias_before = plain_copy(n.dbias, d);
    dgain = plain_doubles(n.dgain, d); dbias = plain_doubles(n.dbias, d);
    plain_add_norm(t, &n, s, y, ds, dsub, dgain, dbias, stats);
    OP(run, add_norm, &n);
    if (t->sub) assert_all_near("s", n.s, s, all, TIGHT);
    if (t->norm) {
        assert_all_near("y", n.y, y, all, TIGHT);
        assert_all_near("stats", n.stats, stats, 2 * t->rows, TIGHT);
    }
    if (!t->sub) n.s = (trf_real *)n.x;             /* as the model does: backward reads the sum */
    n.ds = plain_empty(all);
    OP(run, add_norm_backward, &n);
    assert_all_near("ds", n.ds, ds, all, LOOSE);
    if (t->sub) assert_all_near("dsub", n.dsub, dsub, all, LOOSE);
    assert_all_near("dgain", n.dgain, dgain, d, LOOSE);
    assert_all_near("dbias", n.dbias, dbias, d, LOOSE);
    hash = hash_of(hash_of(hash_of(HASH_START, n.ds, all), n.dgain, d), n.dbias, d);
    if (t->norm) hash = hash_of(hash_of(hash, n.y, all), n.stats, 2 * t->rows);
    if (t->sub) hash = hash_of(hash_of(hash, n.s, all), n.dsub, all);
    if (t->dy2) {                                   /* ds may be dy2's memory */
        trf_real *alone = n.ds, *gain_alone = n.dgain, *bias_alone = n.dbias;
        n.ds = (trf_real *)n.dy2;
        n.dgain = gain_before; n.dbias = bias_before;
        OP(run, add_norm_backward, &n);
        assert_memory_equal(n.ds, alone, (size_t)all * sizeof *alone);
        assert_memory_equal(n.dgain, gain_alone, (size_t)d * sizeof *alone);
        assert_memory_equal(n.dbias, bias_alone, (size_t)d * sizeof *alone);
    }
    plain_release(mark);
    return hash;
}

static void test_add_norm(void **state)
{
    static const int64_t widths[] = {3, 7, 16, 20, 48, 100};
    trf__run run = run_of(1, 1);
    norm_case t;
    int bits;
    (void)state;
    for (bits = 0; bits < 64; bits++) {
        t.rule = bits & 1; t.sub = bits >> 1 & 1; t.norm = bits >> 2 & 1; t.dy2 = (bits >> 3 & 1) && t.norm;
        t.ds_in = bits >> 4 & 1 || !t.norm;
        t.p = bits >> 5 ? 0.25 : 0;
        t.epsilon = bits % 3 ? 1e-5 : 0.1;
        t.rows = bits % 5 == 0 ? 1 : bits % 5 == 1 ? 70 : bits % 5 == 2 ? 130 : 33;
        t.d = widths[bits % 6];
        check_add_norm(&run, &t);
    }
    trf__run_close(&run);
}

/* Means far from zero and rows without variance: the mean is taken off before anything is squared. */
static void test_norm_extremes(void **state)
{
    enum { D = 20 };
    trf__run run = run_of(1, 1);
    trf_real x[3 * D], y[3 * D], gain[D], bias[D], stats[6], ds[3 * D], dy[3 * D], dgain[D] = {0}, dbias[D] = {0};
    trf__norm n;
    int rule, i;
    (void)state;
    for (i = 0; i < D; i++) {
        x[i] = 4096 + (trf_real)(i % 2);            /* mean 4096.5, deviation 0.5 */
        x[D + i] = (trf_real)0.1;                   /* all the same */
        x[2 * D + i] = (trf_real)(1e10 * (i - 9.5));
        gain[i] = 1;
        bias[i] = (trf_real)(0.01 * i);
    }
    for (i = 0; i < 3 * D; i++) dy[i] = (trf_real)plain_draw();
    for (rule = 0; rule < 2; rule++) {
        TRF__ZERO(n);
        n.rows = 3; n.d = D; n.rule = rule; n.epsilon = 1e-6;
        n.x = x; n.y = y; n.gain = gain; n.bias = bias; n.stats = stats;
        OP(&run, add_norm, &n);
        for (i = 0; i < D; i++) {
            double deviation = rule ? 0.5 * sqrt(D / (D - 1.0)) + 1e-6 : sqrt(0.25 + 1e-6);
            assert_number_near((double)y[i] - (double)bias[i], (i % 2 - 0.5) / deviation, TIGHT);
            assert_true(y[D + i] == bias[i]);
            deviation = sqrt((D * D - 1) / 12.0) * (rule ? sqrt(D / (D - 1.0)) : 1);
            assert_number_near((double)y[2 * D + i] - (double)bias[i], (i - 9.5) / deviation, TIGHT);
        }
        n.s = x; n.ds = ds; n.dy = dy; n.dgain = dgain; n.dbias = dbias;
        OP(&run, add_norm_backward, &n);
        for (i = 0; i < 3 * D; i++) assert_true(trf__is_finite((double)ds[i]));
    }
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>cross_entropy */

/* Room and options of a loss; `pad` for the rule that needs one. */
static trf__loss loss_of(int64_t rows, int64_t vocab, int64_t d, int rule, double e, int64_t pad)
{
    trf__loss l;
    TRF__ZERO(l);
    trf__smooth(&l, e, rule, vocab, pad);
    l.rows = rows; l.d = d;
    l.row_loss = (double *)plain_room((size_t)rows * sizeof(double));
    l.row_nll = (double *)plain_room((size_t)rows * sizeof(double));
    l.row_correct = (int32_t *)plain_room((size_t)rows * sizeof(int32_t));
    l.logits = plain_empty(trf__loss_group(rows) * ((vocab + 15) / 16 * 16));
    return l;
}

/* gradients: 0 none, 1 dx alone, 2 dx and dw, 3 all */
static uint64_t check_cross_entropy(const trf__run *run, int64_t rows, int64_t vocab, int64_t d, int rule, double e,
                                    int bias, int gradients)
{
    enum { PAD = 1 };
    int mark = plain_used;
    trf__loss l = loss_of(rows, vocab, d, rule, e, PAD);
    trf_real *w = plain_random(vocab * d, 1), *b = bias ? plain_random(vocab, 1) : NULL;
    double *z = plain_zeros(vocab), *dz = plain_zeros(vocab), *q = plain_zeros(vocab);
    double *dx = plain_zeros(rows * d), *dw, *db;
    int32_t *targets = (int32_t *)plain_room((size_t)rows * sizeof(int32_t));
    uint64_t hash;
    int64_t r, v, c;
    l.x = plain_random(rows * d, 2);
    l.w = weight_of(w, vocab, d, 0);
    l.bias = b;
    l.targets = targets;
    for (r = 0; r < rows; r++)
        do targets[r] = r % 5 == 3 ? -1 : (int32_t)plain_below(vocab); while (targets[r] == PAD);
    if (gradients > 0) l.dx = plain_empty(rows * d);
    if (gradients > 1) l.dw = plain_random(vocab * d, 1);
    if (gradients > 2) l.db = plain_random(vocab, 1);
    dw = l.dw ? plain_doubles(l.dw, vocab * d) : plain_zeros(vocab * d);
    db = l.db ? plain_doubles(l.db, vocab) : plain_zeros(vocab);
    OP(run, cross_entropy, &l);
    for (r = 0; r < rows; r++) {
        double entropy, highest = -HUGE_VAL, second = -HUGE_VAL, want;
        int32_t t = targets[r];
        if (t < 0) {
            assert_true(l.row_loss[r] == 0 && l.row_nll[r] == 0 && l.row_correct[r] == 0);
            continue;
        }
        for (v = 0; v < vocab; v++) {
            z[v] = b ? (double)b[v] : 0;
            for (c = 0; c < d; c++) z[v] += (double)l.x[r * d + c] * (double)w[v * d + c];
            if (z[v] > highest) { second = highest; highest = z[v]; } else if (z[v] > second) second = z[v];
        }
        entropy = plain_wanted(q, rule, e, vocab, t, PAD);
        want = (double)plain_loss(dz, z, q, vocab);
        assert_number_near(l.row_loss[r], want - entropy, LOOSE * want);
        plain_wanted(q, TRF_SMOOTH_UNIFORM, 0, vocab, t, PAD);
        assert_number_near(l.row_nll[r], plain_loss(NULL, z, q, vocab), LOOSE * want);
        if (highest - second > 1e-4) assert_int_equal(l.row_correct[r], z[t] == highest);
        for (v = 0; v < vocab; v++) {
            db[v] += dz[v];
            for (c = 0; c < d; c++) {
                dx[r * d + c] += dz[v] * (double)w[v * d + c];
                dw[v * d + c] += dz[v] * (double)l.x[r * d + c];
            }
        }
    }
    if (l.dx) assert_all_near("dx", l.dx, dx, rows * d, LOOSE);
    if (l.dw) assert_all_near("dw", l.dw, dw, vocab * d, LOOSE);
    if (l.db) assert_all_near("db", l.db, db, vocab, LOOSE);
    hash = hash_bytes(HASH_START, l.row_loss, (size_t)rows * sizeof(double));
    hash = hash_bytes(hash, l.row_nll, (size_t)rows * sizeof(double));
    hash = hash_bytes(hash, l.row_correct, (size_t)rows * sizeof(int32_t));
    if (l.dx) hash = hash_of(hash, l.dx, rows * d);
    if (l.dw) hash = hash_of(hash, l.dw, vocab * d);
    if (l.db) hash = hash_of(hash, l.db, vocab);
    plain_release(mark);
    return hash;
}

static void test_cross_entropy(void **state)
{
    int rule, blas;
    (void)state;
    for (blas = 0; blas < 2; blas++) {
        trf__run run = run_of(1, blas);
        for (rule = TRF_SMOOTH_UNIFORM; rule <= TRF_SMOOTH_NO_PAD_KL; rule++) {
            check_cross_entropy(&run, 20, 37, 5, rule, 0.1, 1, 3);
            check_cross_entropy(&run, 7, 16, 17, rule, 0.3, 0, 2);
            check_cross_entropy(&run, 3, 5, 1, rule, 0, 1, 1);
            check_cross_entropy(&run, 33, 100, 8, rule, 0.1, 0, 0);
        }
        check_cross_entropy(&run, 600, 40, 3, TRF_SMOOTH_UNIFORM, 0.1, 1, 3);           /* two groups of rows */
        /* three blocks of the vocabulary */
        check_cross_entropy(&run, 18, 1100, 3, TRF_SMOOTH_OTHERS_KL, 0.1, 1, 3);
        trf__run_close(&run);
    }
}

/* Logits beyond all reason: the loss within 1e-6 of long double, and finite; so are the gradients of the logits,
   which stand in dw, as x is the identity. */
typedef struct extreme { const char *name; double (*logit)(int64_t row, int64_t v); } extreme;
static double one_huge(int64_t row, int64_t v) { return v == row ? 3e38 : -3e38; }
static double signs(int64_t row, int64_t v) { return (row + v) % 2 ? 3e38 : -3e38; }
static double all_huge(int64_t row, int64_t v) { (void)row; (void)v; return 3e38; }
static double all_low(int64_t row, int64_t v) { (void)row; (void)v; return -3e38; }
static double all_equal(int64_t row, int64_t v) { (void)row; (void)v; return 0; }
static double all_equal_far(int64_t row, int64_t v) { (void)v; return 12345.678 * (double)(row - 4); }
static double spread(int64_t row, int64_t v) { return 1e4 * sin((double)(7 * row + 13 * v)); }
static double steps(int64_t row, int64_t v) { return -10.0 * (double)(v * (row + 1)); }

static void test_cross_entropy_extremes(void **state)
{
    enum { ROWS = 9, V = 51, PAD = 50 };
    static const extreme extremes[] = {{"one huge", one_huge}, {"signs", signs}, {"all huge", all_huge},
                                       {"all low", all_low}, {"all equal", all_equal},
                                       {"all equal, far", all_equal_far}, {"spread", spread}, {"steps", steps}};
    trf__run run = run_of(1, 0);
    size_t k;
    int rule, plain;
    int64_t r, v;
    (void)state;
    for (k = 0; k < sizeof extremes / sizeof *extremes; k++)
        for (rule = 0; rule < 4; rule++)
            for (plain = 0; plain < 2; plain++) {
                double e = plain ? 0 : 0.1, z[V], dz[V], q[V];
                trf__loss l = loss_of(ROWS, V, ROWS, rule, e, PAD);
                trf_real *w = plain_empty(V * ROWS), *x = plain_fill(plain_empty(ROWS * ROWS), ROWS * ROWS, 0);
                int32_t targets[ROWS];
                for (r = 0; r < ROWS; r++) {
                    x[r * ROWS + r] = 1;
                    targets[r] = (int32_t)((5 * r + (int64_t)k) % (V - 1));
                    for (v = 0; v < V; v++) w[v * ROWS + r] = (trf_real)extremes[k].logit(r, v);
                }
                targets[1] = 1;                         /* the huge one */
                l.x = x; l.w = weight_of(w, V, ROWS, 0); l.targets = targets;
                l.dx = plain_empty(ROWS * ROWS);
                l.dw = plain_fill(plain_empty(V * ROWS), V * ROWS, 0);
                OP(&run, cross_entropy, &l);
                for (r = 0; r < ROWS; r++) {
                    double entropy = plain_wanted(q, rule, e, V, targets[r], PAD), want;
                    for (v = 0; v < V; v++) z[v] = (double)w[v * ROWS + r];
                    want = (double)(plain_loss(dz, z, q, V) - entropy);
                    if (!(fabs(l.row_loss[r] - want) <= 1e-6 * (fabs(want) + entropy)) ||
                        !trf__is_finite(l.row_nll[r]))
                        fail_msg("%s, rule %d, smoothing %g, row %d: loss %.9g, expected %.9g", extremes[k].name,
                                 rule, e, (int)r, l.row_loss[r], want);
                    for (v = 0; v < V; v++)
                        if (!(fabs((double)l.dw[v * ROWS + r] - dz[v]) <= 1e-6))
                            fail_msg("%s, rule %d: gradient of logit %d is %g, expected %g", extremes[k].name, rule,
                                     (int)v, (double)l.dw[v * ROWS + r], dz[v]);
                }
            }
    trf__run_close(&run);
}

/* A NaN or an infinity among the logits never gives a loss or a score that looks like one. */
static void test_nonfinite_logits_are_seen(void **state)
{
    enum { V = 40 };
    static const double bad[] = {NAN, HUGE_VAL};
    trf__run run = run_of(1, 0);
    size_t k;
    int place;
    (void)state;
    for (k = 0; k < 2; k++)
        for (place = 0; place < V; place += 3) {
            trf__loss l = loss_of(1, V, 1, TRF_SMOOTH_UNIFORM, 0.1, -1);
            trf_real *w = plain_random(V, 1), one = 1, dx = 0;
            int32_t target = 5;
            trf__candidate best[4];
            trf__top t;
            int i;
            w[place] = (trf_real)bad[k];
            l.x = &one; l.w = weight_of(w, V, 1, 0); l.targets = &target; l.dx = &dx;
            OP(&run, cross_entropy, &l);
            assert_false(trf__is_finite(l.row_loss[0]));
            assert_false(trf__is_finite(l.row_nll[0]));
            assert_false(trf__is_finite((double)dx));
            TRF__ZERO(t);
            t.best = best; t.logits = w; t.rows = 1; t.vocab = t.ld = V; t.n = 4; t.banned[0] = t.banned[1] = -1;
            OP(&run, top, &t);
            for (i = 0; i < 4; i++) assert_false(trf__is_finite(best[i].log_probability));
        }
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>adam */

enum { PIECES = 5 };
static const trf__adam_tile pieces[PIECES] = {{0, 100, 1}, {112, 16, 0}, {128, 1, 1}, {144, 333, 0}, {480, 47, 1}};
enum { ARENA = 544 };       /* pieces have holes behind them, which stay untouched */

static int piece_of(int64_t i)
{
    int k;
    for (k = 0; k < PIECES; k++) if (i >= pieces[k].begin && i < pieces[k].begin + pieces[k].n) return k;
    return -1;
}

static uint64_t check_sum_squares(const trf__run *run)
{
    int mark = plain_used, k;
    trf_real *x = plain_random(ARENA, 3);
    double partial[PIECES];
    int64_t i;
    OP(run, sum_squares, partial, x, pieces, PIECES);
    for (k = 0; k < PIECES; k++) {
        double want = 0;
        for (i = 0; i < pieces[k].n; i++) want += (double)x[pieces[k].begin + i] * (double)x[pieces[k].begin + i];
        assert_number_near(partial[k], want, 1e-14 * want);         /* in double, whatever the numbers are */
    }
    plain_release(mark);
    return hash_bytes(HASH_START, partial, sizeof partial);
}

/* Several updates by the textbook: m' and v' corrected for their bias, epsilon where the rule puts it. */
static void textbook_adam(const trf_train_options *o, double *p, double *m, double *v, const trf_real *gradient,
                          double scale, double rate, int step)
{
    double c1 = 1 - pow(o->beta1, step), c2 = 1 - pow(o->beta2, step);
    int64_t i;
    for (i = 0; i < ARENA; i++) {
        int k = piece_of(i), decay = k >= 0 && pieces[k].decay;
        double g = (double)gradient[i] * scale, update;
        if (k < 0) continue;
        if (decay && o->optimizer == TRF_ADAM) g += o->weight_decay * p[i];
        m[i] = o->beta1 * m[i] + (1 - o->beta1) * g;
        v[i] = o->beta2 * v[i] + (1 - o->beta2) * g * g;
        if (o->epsilon_rule == TRF_EPSILON_INSIDE) update = m[i] / c1 / sqrt(v[i] / c2 + o->epsilon);
        else if (o->epsilon_rule == TRF_EPSILON_FAIRSEQ) update = sqrt(c2) / c1 * m[i] / (sqrt(v[i]) + o->epsilon);
        else update = m[i] / c1 / (sqrt(v[i] / c2) + o->epsilon);
        if (decay && o->optimizer == TRF_ADAMW) p[i] -= rate * o->weight_decay * p[i];
        p[i] -= rate * update;
    }
}

static uint64_t check_adam(const trf__run *run, trf_adam_epsilon epsilon_rule, trf_optimizer optimizer)
{
    const double scale = 0.4, rate = 0.2;
    int mark = plain_used, step;
    trf_real *p = plain_random(ARENA, 1), *m = plain_fill(plain_empty(ARENA), ARENA, 0);
    trf_real *v = plain_fill(plain_empty(ARENA), ARENA, 0);
    double *want_p = plain_doubles(p, ARENA), *want_m = plain_zeros(ARENA), *want_v = plain_zeros(ARENA);
    trf_trainer trainer;
    trf_model model;
    uint64_t hash;
    TRF__ZERO(trainer);
    TRF__ZERO(model);
    model.weights = p;
    trainer.model = &model;
    trainer.m = m; trainer.v = v; trainer.tiles = (trf__adam_tile *)pieces; trainer.n_tiles = PIECES;
    trainer.options = trf_train_defaults();
    trainer.options.epsilon = 0.05;
    trainer.options.epsilon_rule = epsilon_rule;
    trainer.options.optimizer = optimizer;
    trainer.options.weight_decay = 0.3;
    for (step = 1; step <= 5; step++) {
        trf__adam a;
        trainer.gradients = plain_random(ARENA, 2);
        a = trf__adam_of(&trainer, scale, rate, step);
        OP(run, adam, &a);
        textbook_adam(&trainer.options, want_p, want_m, want_v, trainer.gradients, scale, rate, step);
    }
    assert_all_near("p", p, want_p, ARENA, TIGHT);
    assert_all_near("m", m, want_m, ARENA, TIGHT);
    assert_all_near("v", v, want_v, ARENA, TIGHT);
    hash = hash_of(hash_of(hash_of(HASH_START, p, ARENA), m, ARENA), v, ARENA);
    plain_release(mark);
    return hash;
}

static void test_adam(void **state)
{
    trf__run run = run_of(1, 1);
    int rule;
    (void)state;
    check_sum_squares(&run);
    for (rule = TRF_EPSILON_OUTSIDE; rule <= TRF_EPSILON_INSIDE; rule++) {
        check_adam(&run, (trf_adam_epsilon)rule, TRF_ADAM);
        check_adam(&run, (trf_adam_epsilon)rule, TRF_ADAMW);
    }
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>top */

/* levels: how many different logits there are, so that few make many ties; 0: any number. */
static uint64_t check_top(const trf__run *run, int64_t rows, int64_t vocab, int64_t n, int levels, int banned,
                          int only)
{
    int mark = plain_used;
    int64_t ld = vocab + 3, r, v, i;
    trf_real *z = plain_random(rows * ld, 8);
    trf__candidate *best = (trf__candidate *)plain_room((size_t)(rows * n) * sizeof *best);
    int32_t *wanted = (int32_t *)plain_room((size_t)rows * sizeof(int32_t));
    char *taken = (char *)plain_room((size_t)vocab);
    uint64_t hash = HASH_START;
    trf__top t;
    if (levels) for (i = 0; i < rows * ld; i++) z[i] = (trf_real)plain_below(levels);
    for (r = 0; r < rows; r++)
        wanted[r] = r % 3 == 0 ? TRF__ANY : r % 3 == 1 ? (int32_t)plain_below(vocab) : TRF__NOT_EOS;
    TRF__ZERO(t);
    t.eos = (int32_t)plain_below(vocab);
    for (r = 2; r < rows; r += 3) z[r * ld + t.eos] += (trf_real)(only ? 30 : 0);  /* the rest is far below it */
    t.best = best; t.logits = z; t.rows = rows; t.vocab = vocab; t.ld = ld; t.n = n;
    t.banned[0] = banned > 0 ? (int32_t)(vocab - 1) : -1;
    t.banned[1] = banned > 1 ? 0 : -1;
    t.only = only ? wanted : NULL;
    OP(run, top, &t);
    for (r = 0; r < rows; r++) {
        const trf_real *row = z + r * ld;
        double sum = 0;
        memset(taken, 0, (size_t)vocab);
        for (v = 0; v < vocab; v++) {
            int out = only && wanted[r] == TRF__NOT_EOS && v == t.eos;
            sum += out ? 0 : exp((double)row[v]);
            taken[v] = out || v == t.banned[0] || v == t.banned[1];
        }
        if (only && wanted[r] >= 0) for (v = 0; v < vocab; v++) taken[v] = v != wanted[r];
        for (i = 0; i < n; i++) {           /* the best of those that are left, the lowest id of equals */
            const trf__candidate *got = &best[r * n + i];
            int64_t choice = -1;
            for (v = 0; v < vocab; v++) if (!taken[v] && (choice < 0 || row[v] > row[choice])) choice = v;
            assert_int_equal(got->id, choice);
            hash = hash_bytes(hash_bytes(hash, &got->id, sizeof got->id), &got->log_probability, sizeof(double));
            if (choice < 0) { assert_true(got->log_probability == -HUGE_VAL); continue; }
            assert_number_near(got->log_probability, (double)row[choice] - log(sum), TIGHT * 10);
            taken[choice] = 1;
        }
    }
    plain_release(mark);
    return hash;
}

static void test_top(void **state)
{
    static const int64_t vocabs[] = {3, 15, 16, 17, 64, 211};
    trf__run run = run_of(1, 1);
    int i, banned, only;
    (void)state;
    for (i = 0; i < 6; i++)
        for (banned = 0; banned < 3; banned++)
            for (only = 0; only < 2; only++) {
                check_top(&run, 6, vocabs[i], 1, 0, banned, only);
                check_top(&run, 6, vocabs[i], 8, 0, banned, only);
                check_top(&run, 6, vocabs[i], 5, 3, banned, only);
                check_top(&run, 2, vocabs[i], vocabs[i] + 2, 4, banned, only);
            }
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>add */

static uint64_t check_add(const trf__run *run, int64_t n)
{
    int mark = plain_used;
    trf_real *a = plain_random(n, 1), *b = plain_random(n, 1), *y = plain_empty(n);
    uint64_t hash;
    int64_t i;
    OP(run, add, y, a, b, n);
    for (i = 0; i < n; i++) assert_true(y[i] == a[i] + b[i]);
    OP(run, add, a, a, b, n);                       /* in place */
    assert_memory_equal(a, y, (size_t)n * sizeof *a);
    hash = hash_of(HASH_START, y, n);
    plain_release(mark);
    return hash;
}

static void test_add(void **state)
{
    static const int64_t sizes[] = {1, 15, 16, 17, 16384, 16385, 40000};
    trf__run run = run_of(1, 1);
    int i;
    (void)state;
    for (i = 0; i < 7; i++) check_add(&run, sizes[i]);
    trf__run_close(&run);
}

/* -----------------------------------------------------------------------------------------------
   Threads: every op of the table, three tiles or more, on 1, 2, 3, 4 and 8 workers. A sample checks its op against
   the plain loops again, and returns a hash of everything that it wrote. */

static const attention_case shared_attention = {2, 20, 1, 1, 4, {{40, 40}, {7, 7}, {33, 33}, {1, 1}}, 0.1, 1};
static const norm_case shared_norm = {200, 50, 0, 1, 1, 1, 1, 0.1, 1e-5};
static const int64_t shared_dw[][3] = {{100, 130, 40}, {70, 20, 300}, {33, 5, 5}};

static uint64_t sample_embed(const trf__run *run) { return check_embed(run, 200, 50, 1, 0.1); }
static uint64_t sample_embed_backward(const trf__run *run) { return check_embed(run, 100, 150, 1, 0); }
static uint64_t sample_linear(const trf__run *run)
{
    uint64_t hash = check_linear(run, 200, 45, 33, 1, 1) ^ check_linear(run, 300, 20, 300, 0, 0);
    return hash ^ check_linear(run, 4, 400, 30, 1, 1);
}
static uint64_t sample_linear_dx(const trf__run *run) { return check_linear_dx(run, 200, 45, 33); }
static uint64_t sample_linear_dw(const trf__run *run) { return check_linear_dw(run, shared_dw, 3); }
static uint64_t sample_activate(const trf__run *run) { return check_activate(run, 200, 40, TRF_GELU, 0.1); }
static uint64_t sample_activate_backward(const trf__run *run) { return check_activate(run, 100, 140, TRF_SILU, 0.2); }
static uint64_t sample_attention(const trf__run *run) { return check_attention(run, &shared_attention); }
static uint64_t sample_attention_backward(const trf__run *run)
{
    attention_case t = shared_attention;
    t.together = t.causal = 0;
    return check_attention(run, &t);
}
static uint64_t sample_add_norm(const trf__run *run) { return check_add_norm(run, &shared_norm); }
static uint64_t sample_add_norm_backward(const trf__run *run)
{
    norm_case t = shared_norm;
    t.rule = 1; t.ds_in = 0;
    return check_add_norm(run, &t);
}
static uint64_t sample_cross_entropy(const trf__run *run)
{
    return check_cross_entropy(run, 530, 1040, 6, 0, 0.1, 1, 3);
}
static uint64_t sample_top(const trf__run *run) { return check_top(run, 40, 100, 6, 0, 1, 0); }
static uint64_t sample_sum_squares(const trf__run *run) { return check_sum_squares(run); }
static uint64_t sample_adam(const trf__run *run) { return check_adam(run, TRF_EPSILON_OUTSIDE, TRF_ADAMW); }
static uint64_t sample_drop(const trf__run *run) { return check_drop(run, 200, 40, 0.1); }
static uint64_t sample_add(const trf__run *run) { return check_add(run, 100000); }

typedef struct sample { const char *name; uint64_t (*run)(const trf__run *run); } sample;
static const sample samples[] = {       /* an op without a sample does not compile */
#define X(name, arguments) {#name, sample_##name},
    TRF__OPS(X)
#undef X
};

static KIT_UNUSED void same_bits(int blas)
{
    static const int threads[] = {1, 2, 3, 4, 5, 6, 7, 8};
    size_t k, i;
    for (k = 0; k < sizeof samples / sizeof *samples; k++) {
        uint64_t alone = 0, got;
        for (i = 0; i < 8; i++) {
            trf__run run;
            if (threads[i] > 4 && threads[i] < 8 && strcmp(samples[k].name, "drop")) continue;
            run = run_of(threads[i], blas);
            sharing = threads[i] > 1;
            plain_seed = 99;
            got = samples[k].run(&run);
            sharing = 0;
            trf__run_close(&run);
            if (i == 0) alone = got;
            if (got != alone) fail_msg("%s: %d threads give other bits than one", samples[k].name, threads[i]);
        }
    }
}

static void test_same_bits_for_any_threads(void **state)
{
    (void)state;
#if defined(_OPENMP)
    same_bits(0);
#else
    skip();
#endif
}

static void test_same_bits_for_any_threads_with_blas(void **state)
{
    (void)state;
#if defined(_OPENMP) && !defined(TRF_NO_CBLAS)
    {
        trf__run run = run_of(2, 1);
        int ready = run.blas;
        trf__run_close(&run);
        if (ready) { same_bits(1); return; }
    }
#endif
    skip();
}

static void test_workers_have_their_own_scratch(void **state)
{
    (void)state;
#if defined(_OPENMP)
    {
        trf__run run = run_of(3, 0);
        sharing = watching = 1;
        check_linear(&run, 200, 45, 33, 0, 1);
        check_linear_dx(&run, 200, 45, 33);
        check_linear_dw(&run, shared_dw, 3);
        check_attention(&run, &shared_attention);
        check_cross_entropy(&run, 530, 1040, 6, 0, 0.1, 1, 3);
        sharing = watching = 0;
        trf__run_close(&run);
    }
#else
    skip();
#endif
}

/* Tiles are a matter of shapes alone: what is asked for is done once, and nothing else. */
static void count_tile(const trf__run *run, const void *arguments, int64_t tile, int worker)
{
    (void)worker;
    assert_true(worker >= 0 && worker < run->threads);
    __atomic_add_fetch(&((int *)(uintptr_t)arguments)[tile], 1, __ATOMIC_SEQ_CST);
}

static void test_every_tile_once(void **state)
{
    int threads, n, i, counts[40];
    (void)state;
    for (threads = 1; threads <= 8; threads += 3)
        for (n = 0; n <= 39; n += 13) {
            trf__run run = run_of(threads, 0);
            memset(counts, 0, sizeof counts);
            trf__tiles(&run, n, count_tile, counts);
            for (i = 0; i < 40; i++) assert_int_equal(counts[i], i < n);
            trf__run_close(&run);
        }
}

static int teardown(void **state)
{
    sharing = watching = 0;
    return plain_teardown(state);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_philox_vectors), TEST(test_random64_is_philox), TEST(test_drop_follows_its_formula),
        TEST(test_drop_numbers), TEST(test_drop_rate), TEST(test_drop_does_not_see_the_batch), TEST(test_lanes),
        TEST(test_lanes_and_nan), TEST(test_ends_of_rows), TEST(test_sums_follow_one_tree), TEST(test_exp),
        TEST(test_erf), TEST(test_sqrt), TEST(test_ln), TEST(test_products), TEST(test_pack_weight),
        TEST(test_products_of_weights), TEST(test_blas_for_many_rows_only), TEST(test_linear),
        TEST(test_built_in_product_has_one_order), TEST(test_embed), TEST(test_activate), TEST(test_attention),
        TEST(test_attention_with_listed_keys), TEST(test_attention_weights_can_be_seen),
        TEST(test_attention_extremes), TEST(test_add_norm), TEST(test_norm_extremes), TEST(test_cross_entropy),
        TEST(test_cross_entropy_extremes), TEST(test_nonfinite_logits_are_seen), TEST(test_adam), TEST(test_top),
        TEST(test_add), TEST(test_same_bits_for_any_threads), TEST(test_same_bits_for_any_threads_with_blas),
        TEST(test_workers_have_their_own_scratch), TEST(test_every_tile_once)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* build: O1 double:O1 plain:O0:all */
/* The kernels: every lane of >>vector, the matrix products, and every op of the table against plain
   loops in double; the same bits for any number of threads. Built with TRF_DOUBLE too, and good
   with TRF_NO_CBLAS and TRF_SCALAR. */

/* Workers report here before every tile. If `sharing` is set, the first ones wait until a second
   worker has begun a tile: so it is certain that the work was shared, however busy the machine is.
 */
static int sharing, tiles_begun, workers_seen, tired;
static void tile_begins(int worker);
#define TRF__TILE_HOOK(tiling, worker) tile_begins(worker)

#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>
#include "plain.h"
#include "golden/consistency.h"

#if defined(TRF_DOUBLE)
#define EPSILON 2.3e-16
#else
#define EPSILON 1.2e-7
#endif
#define TIGHT \
    (50 * EPSILON) /* of the largest number of a tensor, after a few operations or a short sum */
#define LOOSE (200 * EPSILON)           /* after several sums and exponentials */

static void tile_begins(int worker)
{
    int me = 1 << worker, seen = __atomic_or_fetch(&workers_seen, me, __ATOMIC_SEQ_CST), wait;
    __atomic_add_fetch(&tiles_begun, 1, __ATOMIC_SEQ_CST);
    for (wait = 0; sharing && seen == me && !__atomic_load_n(&tired, __ATOMIC_SEQ_CST); wait++) {
        usleep(50);
        if (wait > 200000)
            __atomic_store_n(&tired, 1, __ATOMIC_SEQ_CST); /* ten seconds: nobody comes */
        seen = __atomic_load_n(&workers_seen, __ATOMIC_SEQ_CST);
    }
}

/* With `watching`, an op that needs scratch is asked whether workers took it, and nobody another's.
   (A worker may have had only tiles that need none.) */
static int watching;
enum { UNTOUCHED = 0xEE };

static void op_begins(const trf__run *run)
{
    const trf__cpu *cpu = trf__cpu_of(run);
    tiles_begun = workers_seen = 0;
    if (watching) memset(cpu->scratch, UNTOUCHED, (size_t)cpu->threads * cpu->scratch_each);
}

static void op_ends(const trf__run *run, const char *name)
{
    const trf__cpu *cpu = trf__cpu_of(run);
    int worker, took = 0;
    if (sharing && (tiles_begun < 3 || (workers_seen & (workers_seen - 1)) == 0))
        fail_msg("%s: %d tiles, workers %x: the work was not shared", name, tiles_begun,
                 workers_seen);
    for (worker = 0; watching && worker < cpu->threads; worker++) {
        const unsigned char *room = (const unsigned char *)trf__scratch(run, worker);
        size_t i, used = 0;
        for (i = 0; i < cpu->scratch_each; i++) used += room[i] != UNTOUCHED;
        if (used > 0 && !(workers_seen >> worker & 1))
            fail_msg("%s: scratch of worker %d", name, worker);
        took += used > 0;
    }
    if (watching && took == 0) fail_msg("%s: nobody took scratch", name);
}

/* Calls an op of the table. */
#define OP(run, name, ...) \
    (op_begins(run), (run)->backend->name(run, __VA_ARGS__), op_ends(run, #name))

/* The same where it is not what the test is about: it may have one tile, which need not be shared.
 */
#define ASIDE(run, name, ...) \
    do { \
        int was = sharing; \
        sharing = 0; \
        (run)->backend->name(run, __VA_ARGS__); \
        sharing = was; \
    } while (0)

enum { LONGEST = 80, WIDEST_HEAD = 32, ROOM = 10000, SOURCE_TOKENS = 12345678 };

/* What every run follows that follows anything: seed, step, learning rate. */
static trf__now now;
static void begin_step(void)
{
    now.key0 = 0x55667788;
    now.key1 = 0x11223344;
    now.step = 77;
    now.learning_rate = 0.2;
}

static trf__run run_of(int threads, int blas)
{
    trf_device device;
    trf_hooks none;
    trf__run run;
    TRF__ZERO(none);
    TRF__ZERO(device);
    device.kind = TRF_DEVICE_CPU; device.threads = threads;
    device.products = blas ? TRF_PRODUCTS_CBLAS : TRF_PRODUCTS_BUILT_IN;
    run = trf__run_on(&device, &none);
    assert_int_equal(run.backend->open(&run, NULL), TRF_OK);
    assert_int_equal(run.backend->reserve(&run, LONGEST, WIDEST_HEAD, ROOM, 0, NULL), TRF_OK);
    begin_step();
    now.source_tokens = SOURCE_TOKENS;
    run.now = &now;
    return run;
}

static void end_run(trf__run *run)
{
    run->backend->close(run);
    assert_null(run->state);
}

/* Numbers as the activations they are here. */
static trf__act *act(const trf_real *x) { return (trf__act *)(uintptr_t)x; }

static uint64_t hash_of(uint64_t hash, const trf_real *x, int64_t n)
{
    return hash_bytes(hash, x, (size_t)n * sizeof *x);
}

/* 0 and -0 are the same number. */
static void assert_same(const char *what, const trf_real *got, const trf_real *want, int64_t n)
{
    int64_t i;
    for (i = 0; i < n; i++)
        if (!(got[i] == want[i]))
            fail_msg("%s[%lld] is %.9g, not %.9g", what, (long long)i, (double)got[i],
                     (double)want[i]);
}

/* A gradient that is to be set holds garbage before, one to be added to holds numbers. */
static trf_real *gradient_of(int64_t n, int first)
{
    return first ? plain_empty(n) : plain_random(n, 1);
}
static double *gradient_before(const trf_real *x, int64_t n, int first)
{
    return first ? plain_zeros(n) : plain_doubles(x, n);
}

/* -----------------------------------------------------------------------------------------------
   Random numbers: Philox4x32-10 once more, as the paper describes it; the published vectors hold
   for both. */

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
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1}};
    uint32_t out[4], wide[4][TRF__WIDE], c0[TRF__WIDE], c1[TRF__WIDE];
    int i, lane, w;
    (void)state;
    for (i = 0; i < 3; i++) {
        const uint32_t *k = known[i];
        trf__philox(k, k[4], k[5], out);
        assert_memory_equal(out, k + 6, sizeof out);
        philox(k, k + 4, out);
        assert_memory_equal(out, k + 6, sizeof out);
        for (lane = 0; lane < TRF__WIDE; lane++) { /* the second one: the counters wrap */
            c0[lane] = k[0] + (uint32_t)lane;
            c1[lane] = k[1] + (uint32_t)lane / 3;
        }
        trf__philox16(c0, c1, k[2], k[3], k[4], k[5], wide);
        for (lane = 0; lane < TRF__WIDE; lane++) {
            uint32_t counter[4];
            counter[0] = c0[lane]; counter[1] = c1[lane]; counter[2] = k[2]; counter[3] = k[3];
            philox(counter, k + 4, out);
            for (w = 0; w < 4; w++) assert_int_equal(wide[w][lane], out[w]);
        }
    }
}

static void test_random64_is_philox(void **state)
{
    const uint64_t seed = 0x0123456789ABCDEFu, index = 0xFEDCBA9876543210u;
    uint32_t counter[4] = {0x76543210u, 0xFEDCBA98u, 7, 0x5EED5EEDu},
             key[2] = {0x89ABCDEFu, 0x01234567u}, out[4];
    (void)state;
    philox(counter, key, out);
    assert_true(trf__random64(seed, 7, index) == ((uint64_t)out[1] << 32 | out[0]));
    assert_true(trf__random64(seed, 7, index) != trf__random64(seed, 8, index));
    assert_true(trf__random64(seed, 7, index) != trf__random64(seed ^ (uint64_t)1 << 40, 7, index));
}

/* Random words from a counter and (seed, site). */
static void words_of(const trf__drop *drop, uint32_t c0, uint32_t c1, int32_t sentence,
                     uint32_t out[4])
{
    uint32_t counter[4], key[2];
    counter[0] = c0; counter[1] = c1; counter[2] = (uint32_t)sentence; counter[3] = now.step;
    key[0] = now.key0;
    key[1] = now.key1 ^ drop->site * 0x9E3779B9u;
    philox(counter, key, out);
}

static double factor_of(const trf__drop *drop, uint32_t word, int upper)
{
    uint32_t bits = upper ? word >> 16 : word & 0xFFFF;
    return bits >= drop->threshold ? (double)(trf_real)(65536.0 / (65536.0 - drop->threshold)) : 0;
}

/* The factor of one element, from the note of >>dropout. */
static double kept(const trf__drop *drop, int32_t sentence, int32_t position, int64_t feature)
{
    uint32_t words[4];
    if (drop->threshold == 0) return 1;
    words_of(drop, (uint32_t)(feature / 128 * 16 + feature % 16),       /* group of 128, lane */
             (uint32_t)position, sentence, words);
    return factor_of(drop, words[feature % 128 / 32],
                     (int)(feature % 32 / 16)); /* two share a word */
}

/* The factor of one weight, from the note of >>attention: eight keys of a query share a block. */
static double kept_weight(const trf__drop *drop, int32_t sentence, int head, int64_t query,
                          int64_t key)
{
    uint32_t words[4], h = (uint32_t)head;
    if (drop->threshold == 0) return 1;
    words_of(drop, (uint32_t)(key / 8) | h >> 12 << 17, (uint32_t)query | (h & 4095) << 20,
             sentence, words);
    return factor_of(drop, words[key % 8 / 2], (int)(key % 2));
}

/* Rows of sentences of 1 to 9 tokens, whose numbers begin at 1000. */
static trf__rows rows_of(int64_t rows)
{
    int32_t *sentence = (int32_t *)plain_work((size_t)rows * sizeof(int32_t)), number = 1000,
            at = 0;
    int32_t *position = (int32_t *)plain_work((size_t)rows * sizeof(int32_t));
    trf__rows r;
    int64_t i;
    for (i = 0; i < rows; i++) {
        if (at > 0 && plain_below(9) < at) { number++; at = 0; }
        sentence[i] = number;
        position[i] = at++;
    }
    r.sentence = sentence;
    r.position = position;
    return r;
}

static double kept_in(const trf__drop *drop, const trf__rows *at, int64_t row, int64_t feature)
{
    return kept(drop, at->sentence ? at->sentence[row] : 0,
                at->position ? at->position[row] : (int32_t)row, feature);
}

/* y = drop(x): what is left of norm_gradient where there is no norm. x is not written. */
static void drop_rows(const trf__run *run, trf_real *y, const trf_real *x, int64_t rows,
                      int64_t width, trf__rows at, trf__drop drop)
{
    trf__norm_gradient j;
    TRF__ZERO(j);
    j.ds = act(x); j.dy = act(x); j.dsub = act(y);
    j.rows = rows; j.d = width; j.at = at; j.drop = drop;
    OP(run, norm_gradient, &j);
}

static void check_drop(const trf__run *run, int64_t rows, int64_t width, double p)
{
    int mark = plain_used;
    trf__drop drop = trf__drop_of(p, 5);
    trf__rows at = rows_of(rows);
    trf_real *x = plain_random(rows * width, 1), *y = plain_empty(rows * width);
    int64_t i;
    drop_rows(run, y, x, rows, width, at, drop);
    for (i = 0; i < rows * width; i++)
        if (y[i] != x[i] * (trf_real)kept_in(&drop, &at, i / width, i % width))
            fail_msg("element %lld of %lld x %lld", (long long)i, (long long)rows,
                     (long long)width);
    plain_release(mark);
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
    end_run(&run);
}

/* Every one of seed (both halves), step, site, sentence and position gives another mask; without a
   step none does. */
static void test_drop_numbers(void **state)
{
    enum { WIDTH = 200 };
    trf__run run = run_of(1, 1);
    trf__drop drop = trf__drop_of(0.25, 3);
    trf_real *ones = plain_fill(plain_empty(WIDTH), WIDTH, 1), *masks[8];
    int32_t one = 1;
    trf__rows at;
    int i, j;
    (void)state;
    assert_int_equal(drop.threshold, 16384);
    assert_true(drop.scale == (trf_real)(4.0 / 3));
    assert_int_equal(drop.site, 3);
    for (i = 0; i < 8; i++) {
        TRF__ZERO(at);
        begin_step();
        drop.site = i == 1 ? 4 : 3;
        if (i == 2) now.key0 ^= 1;
        if (i == 3) now.key1 ^= 1u << 31;
        if (i == 4) now.step++;
        if (i == 5) at.sentence = &one;
        if (i == 6) at.position = &one;
        if (i == 7) run.now = NULL;
        drop_rows(&run, masks[i] = plain_empty(WIDTH), ones, 1, WIDTH, at, drop);
        for (j = 0; j < i; j++) assert_memory_not_equal(masks[i], masks[j], WIDTH * sizeof *ones);
    }
    assert_memory_equal(masks[7], ones, WIDTH * sizeof *ones);
    drop = trf__drop_of(0, 1);
    assert_int_equal(drop.threshold, 0);
    assert_true(drop.scale == 1);
    end_run(&run);
}

/* Kept: n times a coin of 1 - p; the deviation is sqrt(n p (1 - p)). All within 4 of it, rows and
   columns within 5. The rarest rate is compared with the formula instead: there one value of the
   65536 matters. */
static void test_drop_rate(void **state)
{
    enum { ROWS = 1024, WIDTH = 512 };
    static const double rates[] = {0.1, 0.5, 1.0 / 65536};
    trf__run run = run_of(1, 1);
    trf_real *ones = plain_fill(plain_empty(ROWS * WIDTH), ROWS * WIDTH, 1),
             *y = plain_empty(ROWS * WIDTH);
    trf__rows at;
    size_t k;
    int64_t i, j;
    (void)state;
    TRF__ZERO(at);
    for (k = 0; k < 3; k++) {
        double p = rates[k], all = 0, *of_row = plain_zeros(ROWS), *of_column = plain_zeros(WIDTH),
               next = 0;
        double below = 0;
        trf__drop drop = trf__drop_of(p, 2);
        drop_rows(&run, y, ones, ROWS, WIDTH, at, drop);
        for (i = 0; i < ROWS; i++)
            for (j = 0; j < WIDTH; j++) {
                int alive = y[i * WIDTH + j] != 0;
                all += alive; of_row[i] += alive; of_column[j] += alive;
                next += alive && y[i * WIDTH + (j + 16) % WIDTH] != 0; /* pairs that share a word */
                below +=
                    alive && y[(i + 1) % ROWS * WIDTH + j] != 0; /* pairs of neighbouring rows */
            }
        assert_number_near(all, ROWS * WIDTH * (1 - p), 4 * sqrt(ROWS * WIDTH * p * (1 - p)));
        if (p < 0.01) {
            for (i = 0; i < ROWS * WIDTH; i++)
                assert_true((y[i] != 0) == (kept_in(&drop, &at, i / WIDTH, i % WIDTH) > 0));
            continue;
        }
        for (i = 0; i < ROWS; i++)
            assert_number_near(of_row[i], WIDTH * (1 - p), 5 * sqrt(WIDTH * p * (1 - p)));
        for (j = 0; j < WIDTH; j++)
            assert_number_near(of_column[j], ROWS * (1 - p), 5 * sqrt(ROWS * p * (1 - p)));
        p = 1 - (1 - p) * (1 - p);
        assert_number_near(next, ROWS * WIDTH * (1 - p), 6 * sqrt(ROWS * WIDTH * p * (1 - p)));
        assert_number_near(below, ROWS * WIDTH * (1 - p), 6 * sqrt(ROWS * WIDTH * p * (1 - p)));
    }
    end_run(&run);
}

/* Rows of a batch cut in two keep their masks. */
static void test_drop_does_not_see_the_batch(void **state)
{
    enum { ROWS = 90, WIDTH = 70, CUT = 37 };
    trf__run run = run_of(1, 1);
    trf__drop drop = trf__drop_of(0.3, 5);
    trf__rows whole = rows_of(ROWS), part = whole;
    trf_real *x = plain_random(ROWS * WIDTH, 1), *y = plain_empty(ROWS * WIDTH),
             *z = plain_empty(ROWS * WIDTH);
    (void)state;
    drop_rows(&run, y, x, ROWS, WIDTH, whole, drop);
    drop_rows(&run, z, x, CUT, WIDTH, part, drop);
    part.sentence += CUT;
    part.position += CUT;
    drop_rows(&run, z + CUT * WIDTH, x + CUT * WIDTH, ROWS - CUT, WIDTH, part, drop);
    assert_memory_equal(y, z, ROWS * WIDTH * sizeof *y);
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>vector */

static void lanes(trf_real out[TRF__WIDE], trf__v16 a) { trf__store(out, a); }

static void test_lanes(void **state)
{
    static const trf_real special[] = {0,
                                       -(trf_real)0,
                                       1,
                                       -1,
                                       (trf_real)HUGE_VAL,
                                       -(trf_real)HUGE_VAL,
                                       (trf_real)FLT_MAX,
                                       (trf_real)FLT_MIN};
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
            fail_msg(#call ": lane %d of %g, %g is %g, not %g", i, (double)a[i], (double)b[i], \
                     (double)got[i], (double)want); \
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
        for (i = 0; i < 16; i++) {
            volatile trf_real product = a[i] * b[i];
            twice[i] = product + c[i];
        }
        for (i = 0; i < 16; i++) {
            fused &= got[i] == once[i] || (got[i] != got[i] && once[i] != once[i]);
            rounded &= got[i] == twice[i] || (got[i] != got[i] && twice[i] != twice[i]);
        }
    }
    assert_true(fused + rounded == 1);      /* one or the other, the same for all lanes */
}

/* A maximum of a and b is a if they are equal or one is NaN, and so is a minimum. The bits tell 0
   from -0. */
static void test_bits_of_maxima(void **state)
{
    static const trf_real special[] = {0, -(trf_real)0, 1, -1, (trf_real)NAN};
    trf_real a[16], b[16], most[16], least[16], got[16], top;
    int round, half, i;
    (void)state;
    for (round = 0; round < 2000; round++) {
        for (i = 0; i < 16; i++) {
            a[i] = special[plain_below(5)];
            b[i] = special[plain_below(5)];
            most[i] = a[i] < b[i] ? b[i] : a[i];
            least[i] = b[i] < a[i] ? b[i] : a[i];
        }
        lanes(got, trf__max(trf__load(a), trf__load(b)));
        assert_memory_equal(got, most, sizeof got);
        lanes(got, trf__min(trf__load(a), trf__load(b)));
        assert_memory_equal(got, least, sizeof got);
        top = trf__max_lane(trf__load(a));
        for (half = 8; half > 0; half /= 2)
            for (i = 0; i < half; i++) if (a[i] < a[i + half]) a[i] = a[i + half];
        assert_memory_equal(&top, &a[0], sizeof top);
    }
}

/* NaN: the first operand wins, so exp and erf of NaN are NaN, and a maximum that begins with a
   number stays one. */
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
    lanes(got, trf__if_less(nan, one, one, trf__set(2)));
    for (i = 0; i < 16; i++) assert_true(got[i] == 2);
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

static double worst_of(trf__v16 (*f)(trf__v16), long double (*exact)(long double), double from,
                       double to, int64_t n, int relative)
{
    double worst = 0;
    int64_t at;
    for (at = 0; at < n; at += 16) {
        trf_real x[16], y[16];
        int i;
        for (i = 0; i < 16; i++)
            x[i] = (trf_real)(from + (to - from) * (double)(at + i) / (double)n);
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
        assert_true(worst_of(exp16, expl, (k + 0.5) * log(2) - 1e-4, (k + 0.5) * log(2) + 1e-4, 128,
                             1) < (sizeof(trf_real) == 4 ? 2e-7 : 1e-15));
    lanes(got, trf__exp(trf__set(0))); for (i = 0; i < 16; i++) assert_true(got[i] == 1);
    lanes(got, trf__exp(trf__set(-(trf_real)HUGE_VAL)));
    for (i = 0; i < 16; i++) assert_true(got[i] == 0);
    lanes(got, trf__exp(trf__set(-(trf_real)FLT_MAX)));
    for (i = 0; i < 16; i++) assert_true(got[i] == 0);
#if !defined(TRF_DOUBLE)
    lanes(got, trf__exp(trf__set(-87.31f))); for (i = 0; i < 16; i++) assert_true(got[i] == 0);
    /* beyond 88.3 there is no better answer than a very large number */
    lanes(got, trf__exp(trf__set(1000)));
    for (i = 0; i < 16; i++) assert_true(got[i] > 2e38f && got[i] <= FLT_MAX);
    lanes(got, trf__exp(trf__set(HUGE_VALF))); for (i = 0; i < 16; i++) assert_true(got[i] > 2e38f);
#endif
}

static void test_erf(void **state)
{
    trf_real got[16];
    int i;
    (void)state;
    assert_true(worst_of(erf16, erfl, -6, 6, 1 << 20, 0) < (sizeof(trf_real) == 4 ? 5e-7 : 1e-15));
    assert_true(worst_of(erf16, erfl, -0.01, 0.01, 1 << 12, 0) <
                (sizeof(trf_real) == 4 ? 5e-9 : 1e-17));
    lanes(got, trf__erf(trf__set((trf_real)HUGE_VAL)));
    for (i = 0; i < 16; i++) assert_number_near(got[i], 1, 5e-7);
    lanes(got, trf__erf(trf__set(-(trf_real)HUGE_VAL)));
    for (i = 0; i < 16; i++) assert_number_near(got[i], -1, 5e-7);
}

/* Of numbers >= 0: exact for 0 and 1, near everywhere else, and never a number for infinity or NaN.
 */
static void test_sqrt(void **state)
{
    trf_real x[16], y[16];
    double worst = 0, low = log((double)FLT_MIN), high = log((double)FLT_MAX);
    int i, k;
    (void)state;
    for (k = 0; k < 50000; k++) {
        for (i = 0; i < 16; i++)
            x[i] =
                (trf_real)exp(k % 2 ? plain_draw() : low + (high - low) * (plain_draw() + 1) / 2);
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
        for (i = 0; i < 16; i++)
            x[i] = (trf_real)ldexp(1 + i / 16.0, k); /* every exponent, denormal ones too */
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
        if (!(fabs((double)(trf__ln(x) - want)) <= worst))
            worst = fabs((double)(trf__ln(x) - want));
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

typedef struct product_case {
    int64_t m, n, k, a_row, a_step, b_row, b_column;
    const trf_real *a, *b;
} product_case;

static void check_product(const product_case *p, const trf_real *c, int64_t ldc,
                          const trf_real *before, const char *name)
{
    int64_t i, j, t;
    for (i = 0; i < p->m; i++)
        for (j = 0; j < ldc; j++) {
            double want = before ? (double)before[i * ldc + j] : 0, size = fabs(want),
                   got = (double)c[i * ldc + j];
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
                fail_msg("%s (%lld, %lld, %lld): c[%lld][%lld] = %.9g, expected %.9g", name,
                         (long long)p->m, (long long)p->n, (long long)p->k, (long long)i,
                         (long long)j, got, want);
        }
}

/* Any strides, and panels packed by hand. */
static void product_of(int64_t m, int64_t n, int64_t k, int a_turned, int b_turned)
{
    int mark = plain_used, add;
    int64_t ldc = n + 3, panels = (n + 15) / 16, j, t;
    trf_real *a = plain_random(m * k, 1), *b = plain_random(k * n, 1),
             *scratch = plain_empty(TRF__GEMM_SCRATCH);
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
        trf__view view = trf__view_of(a, p.a_row, p.a_step),
                  panels_view = trf__view_of(packed, 16, 16 * k);
        trf__product any =
            trf__product_of(c, ldc, m, n, k, view, trf__view_of(b, p.b_row, p.b_column), add);
        if (!add) for (i = 0; i < m * ldc; i++) if (i % ldc < n) c[i] = d[i] = (trf_real)NAN;
        trf__mm_packing(scratch, &any, 0);
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
    static const int64_t rows[] = {1, 5, 6, 7, 15, 16, 17, 33},
                         columns[] = {1, 15, 16, 17, 31, 32, 33, 50},
                         depths[] = {0, 1, 2, 17, 255, 256, 257};
    size_t i, j, k;
    (void)state;
    for (i = 0; i < 8; i++)
        for (j = 0; j < 8; j++)
            for (k = 0; k < 7; k++)
                product_of(rows[i], columns[j], depths[k], (i + j + k) & 1, (i + j) >> 1 & 1);
    for (i = 0; i < 4; i++) product_of(13, 37, 519, i & 1, (int)i >> 1);
    product_of(300, 33, 300, 0, 1);
}

static void multiply(const trf__run *run, const product_case *p, trf_real *c, int64_t ldc, int add)
{
    trf__multiply(run, 0, trf__cpu_of(run)->blas, NULL, 0,
                  trf__product_of(c, ldc, p->m, p->n, p->k, trf__view_of(p->a, p->a_row, p->a_step),
                                  trf__view_of(p->b, p->b_row, p->b_column), add));
}

static void test_products_of_weights(void **state)
{
    static const int64_t shapes[][3] = {{1, 1, 1},    {1, 300, 33},  {15, 17, 16}, {16, 16, 300},
                                        {17, 15, 31}, {33, 129, 70}, {33, 1, 20},  {33, 20, 1},
                                        {33, 1, 1},   {300, 50, 65}};
    size_t s;
    int blas;
    (void)state;
    for (blas = 0; blas < 2; blas++)
        for (s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            trf__run run = run_of(1, blas);
            int64_t rows = shapes[s][0], out = shapes[s][1], in = shapes[s][2], ldy = out + 2, i;
            trf_real *x = plain_random(rows * in, 1), *y, *before;
            product_case p;
            p.m = rows;
            p.n = out;
            p.k = in;
            p.a = x;
            p.a_row = in;
            p.a_step = 1;
            p.b_row = 1;
            p.b_column = in;
            p.b = plain_random(out * in, 1);
            before = plain_fill(plain_empty(rows * ldy), rows * ldy, 0);
            y = plain_copy(before, rows * ldy);
            for (i = 0; i < rows * ldy; i++) if (i % ldy < out) y[i] = (trf_real)NAN;
            multiply(&run, &p, y, ldy, 0); /* y = x w^T */
            check_product(&p, y, ldy, before, "x w^T");
            p.a = plain_random(rows * ldy, 1);
            p.a_row = ldy; /* dx = dy w */
            p.n = in; p.k = out; p.b_row = in; p.b_column = 1;
            y = plain_empty(rows * in);
            multiply(&run, &p, y, in, 0);
            check_product(&p, y, in, NULL, "dy w");
            before = plain_copy(y, rows * in);
            multiply(&run, &p, y, in, 1);
            check_product(&p, y, in, before, "dx + dy w");
            p.m = out;
            p.n = in;
            p.k = rows;
            p.a_row = 1;
            p.a_step = ldy; /* dw += dy^T x */
            p.b = plain_random(rows * (in + 1), 1); p.b_row = in + 1;
            before = plain_random(out * (in + 5), 1);
            y = plain_copy(before, out * (in + 5));
            multiply(&run, &p, y, in + 5, 1);
            check_product(&p, y, in + 5, before, "dw + dy^T x");
            end_run(&run);
        }
}

/* An op's product on threads, from panels that are made in rooms of several sizes, some of which
   hold it in pieces: the numbers, and the same bits for all of them. */
static void whole_product(int64_t m, int64_t n, int64_t k, int a_turned, int b_turned)
{
    static const int64_t rooms[] = {0, 8192, 20000, TRF__ROOM};
    int mark = plain_used, add, q, threads;
    int64_t ldc = n + 1, i;
    trf_real *a = plain_random(m * k, 1), *b = plain_random(k * n, 1), *bias = plain_random(n, 1);
    product_case p;
    p.m = m; p.n = n; p.k = k; p.a = a; p.b = b;
    p.a_row = a_turned ? 1 : k; p.a_step = a_turned ? m : 1;
    p.b_row = b_turned ? 1 : n; p.b_column = b_turned ? k : 1;
    for (add = 0; add < 2; add++) {
        trf_real *before = plain_random(m * ldc, 1), *first = NULL;
        for (i = 0; !add && i < m * ldc; i++) if (i % ldc < n) before[i] = bias[i % ldc];
        for (q = 0; q < 4; q++)
            for (threads = 1; threads < 4; threads += 2) {
                trf_real *c = plain_copy(before, m * ldc);
                trf__run run = run_of(threads, 0);
                trf__product whole =
                    trf__product_of(c, ldc, m, n, k, trf__view_of(a, p.a_row, p.a_step),
                                    trf__view_of(b, p.b_row, p.b_column), add);
                whole.bias = add ? NULL : bias;
                for (i = 0; !add && i < m * ldc; i++) if (i % ldc < n) c[i] = (trf_real)NAN;
                run.backend->close(&run);
                assert_int_equal(run.backend->open(&run, NULL), TRF_OK);
                assert_int_equal(run.backend->reserve(&run, 1, 1, rooms[q], 0, NULL), TRF_OK);
                trf__product_all(&run, 0, NULL, &whole);
                end_run(&run);
                if (first) assert_memory_equal(c, first, (size_t)(m * ldc) * sizeof *c);
                else first = c;
            }
        check_product(&p, first, ldc, before, "trf__product_all");
    }
    plain_release(mark);
}

static void test_whole_products(void **state)
{
    static const int64_t shapes[][3] = {{1, 1, 1},      {5, 40, 0},     {33, 70, 20},
                                        {130, 17, 300}, {250, 100, 65}, {13, 300, 600},
                                        {121, 33, 257}, {64, 513, 40}};
    size_t i;
    int turns;
    (void)state;
    for (i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (turns = 0; turns < 4; turns++)
            whole_product(shapes[i][0], shapes[i][1], shapes[i][2], turns & 1, turns >> 1);
}

static void test_blas_for_many_rows_only(void **state)
{
    trf__run run = run_of(1, 1);
    (void)state;
    assert_false(trf__use_blas(&run, 1, NULL));
    assert_false(trf__use_blas(&run, 16, NULL));
#if defined(TRF_NO_CBLAS)
    assert_false(trf__use_blas(&run, 17, NULL));
#else
    assert_true(trf__use_blas(&run, 17, NULL));
#endif
    trf__cpu_of(&run)->blas = 0;
    assert_false(trf__use_blas(&run, 300, NULL));
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>linear */

static trf__mat floats_of(const trf_real *plain)
{
    trf__mat w = { plain, NULL, 0, TRF__FLOAT32 };
    return w;
}

static trf__mat weight_of(const trf__run *run, const trf_real *plain, int64_t out, int64_t in,
                          int packed)
{
    trf__mat w;
    w.plain = plain; w.packed = NULL; w.row = 0; w.format = TRF__FLOAT32;
    if (packed) {
        trf__pack j = trf__pack_of(plain_empty((out + 15) / 16 * 16 * in), plain, out, in,
                                   TRF__FLOAT32);
        ASIDE(run, pack, &j);
        w.packed = j.packed;
    }
    return w;
}

static trf__linear linear_of(trf_real *y, const trf_real *x, trf__mat w, const trf_real *b,
                             int64_t rows, int64_t out, int64_t in)
{
    trf__linear j;
    TRF__ZERO(j);
    j.y = act(y); j.x = act(x); j.w = w; j.b = b; j.rows = rows; j.out = out; j.in = in;
    return j;
}

static trf__linear_dx linear_dx_of(trf_real *dx, const trf_real *dy, trf__mat w, int64_t rows,
                                   int64_t out, int64_t in, int add)
{
    trf__linear_dx j;
    j.dx = act(dx); j.dy = act(dy); j.w = w; j.rows = rows; j.out = out; j.in = in; j.add = add;
    return j;
}

/* Of n sums, which may all be small beside their terms by chance if they are few. */
static double tight_for(int64_t n) { return n < 20 ? 20 * TIGHT : TIGHT; }

/* The weight begins at row `row` of a larger one. */
static uint64_t check_linear(const trf__run *run, int64_t rows, int64_t out, int64_t in, int packed,
                             int bias, int64_t row)
{
    int mark = plain_used;
    trf_real *x = plain_random(rows * in, 1), *w = plain_random((row + out + 1) * in, 1);
    trf_real *b = bias ? plain_random(out, 1) : NULL, *y = plain_empty(rows * out);
    double *want = plain_zeros(rows * out);
    trf__mat mat = weight_of(run, w, row + out + 1, in, packed);
    trf__linear j;
    uint64_t hash;
    mat.row = row;
    j = linear_of(y, x, mat, b, rows, out, in);
    OP(run, linear, &j);
    plain_linear(want, plain_doubles(x, rows * in), plain_doubles(w + row * in, out * in),
                 b ? plain_doubles(b, out) : NULL, rows, out, in);
    assert_all_near("y", y, want, rows * out, tight_for(rows * out));
    hash = hash_of(HASH_START, y, rows * out);
    plain_release(mark);
    return hash;
}

static uint64_t check_linear_dx(const trf__run *run, int64_t rows, int64_t out, int64_t in,
                                int64_t row)
{
    int mark = plain_used;
    trf_real *dy = plain_random(rows * out, 1), *w = plain_random((row + out) * in, 1),
             *dx = plain_empty(rows * in);
    trf_real *sum = plain_random(rows * in, 1);
    double *want = plain_zeros(rows * in), *wanted_sum = plain_doubles(sum, rows * in);
    trf__mat mat = weight_of(run, w, row + out, in, 1);
    trf__linear_dx j;
    uint64_t hash;
    int64_t r, o, i;
    mat.row = row;
    j = linear_dx_of(dx, dy, mat, rows, out, in, 0);
    OP(run, linear_dx, &j);
    j.dx = act(sum); j.w.packed = NULL; j.add = 1;
    OP(run, linear_dx, &j);
    for (r = 0; r < rows; r++)
        for (o = 0; o < out; o++)
            for (i = 0; i < in; i++)
                want[r * in + i] += (double)dy[r * out + o] * (double)w[(row + o) * in + i];
    for (i = 0; i < rows * in; i++) wanted_sum[i] += want[i];
    assert_all_near("dx", dx, want, rows * in, tight_for(rows * in));
    assert_all_near("dx added", sum, wanted_sum, rows * in, tight_for(rows * in));
    hash = hash_of(hash_of(HASH_START, dx, rows * in), sum, rows * in);
    plain_release(mark);
    return hash;
}

/* Products of different sizes in one call; the second has no bias, and only the last one is the
   first of a step. */
static uint64_t check_linear_dw(const trf__run *run, const int64_t (*shapes)[3], int n)
{
    int mark = plain_used, k;
    trf__linear_dw products[TRF__MAX_DW];
    double *dw[TRF__MAX_DW], *db[TRF__MAX_DW];
    uint64_t hash = HASH_START;
    int64_t r, o, i;
    for (k = 0; k < n; k++) {
        trf__linear_dw *p = &products[k];
        int64_t rows = shapes[k][0], out = shapes[k][1], in = shapes[k][2];
        trf_real *dy = plain_random(rows * out, 1), *x = plain_random(rows * in, 1);
        p->rows = rows; p->out = out; p->in = in; p->first = k == n - 1;
        p->dy = act(dy); p->x = act(x);
        p->dw = gradient_of(out * in, p->first);
        p->db = k == 1 ? NULL : gradient_of(out, p->first);
        dw[k] = gradient_before(p->dw, out * in, p->first);
        db[k] = p->db ? gradient_before(p->db, out, p->first) : NULL;
        for (r = 0; r < rows; r++)
            for (o = 0; o < out; o++) {
                if (db[k]) db[k][o] += (double)dy[r * out + o];
                for (i = 0; i < in; i++)
                    dw[k][o * in + i] += (double)dy[r * out + o] * (double)x[r * in + i];
            }
    }
    OP(run, linear_dw, products, n);
    for (k = 0; k < n; k++) {
        trf__linear_dw *p = &products[k];
        assert_all_near("dw", p->dw, dw[k], p->out * p->in, tight_for(p->out * p->in));
        if (p->db) assert_all_near("db", p->db, db[k], p->out, tight_for(p->out));
        hash = hash_of(hash, p->dw, p->out * p->in);
        if (p->db) hash = hash_of(hash, p->db, p->out);
    }
    plain_release(mark);
    return hash;
}

static void test_linear(void **state)
{
    static const int64_t rows[] = {0, 1, 15, 16, 17, 33, 300}, outs[] = {1, 16, 33, 130, 300};
    static const int64_t ins[] = {1, 17, 64, 270}, first_rows[] = {0, 16, 5};
    static const int64_t several[][3] = {{70, 5, 130},  {70, 130, 5}, {1, 257, 129},
                                         {300, 33, 17}, {0, 3, 3},    {65, 128, 128},
                                         {16, 1, 1},    {64, 2, 300}, {0, 130, 4}};
    size_t i, j, k;
    int blas, n;
    (void)state;
    for (blas = 0; blas < 2; blas++) {
        trf__run run = run_of(1, blas);
        for (i = 0; i < 7; i++)
            for (j = 0; j < 5; j++)
                for (k = 0; k < 4; k++) {
                    int64_t row = first_rows[(i + 2 * k) % 3];
                    if (rows[i] == 300 && outs[j] == 300 && blas) continue;         /* time */
                    check_linear(&run, rows[i], outs[j], ins[k], (i + j) & 1, (j + k) & 1, row);
                    if ((i + j + k) % 2 == 0) check_linear_dx(&run, rows[i], outs[j], ins[k], row);
                }
        for (n = 1; n <= TRF__MAX_DW; n++)
            for (i = 0; i + (size_t)n <= sizeof several / sizeof *several; i++)
                check_linear_dw(&run, several + i, n);
        end_run(&run);
    }
}

/* The built-in product gives every element by one chain of multiply-adds in order: whatever the
   row's neighbours, the panels, the tiles and the packing. trf__fma says what a multiply-add is on
   this machine. */
static void test_built_in_product_has_one_order(void **state)
{
    enum { ROWS = 70, OUT = 150, IN = 300 };
    static const int64_t starts[] = {0, 1, 3, 20, 45, 69, 70};
    trf__run run = run_of(1, 0);
    trf_real *x = plain_random(ROWS * IN, 1), *w = plain_random(OUT * IN, 1),
             *b = plain_random(OUT, 1);
    trf_real *y = plain_empty(ROWS * OUT), *again = plain_empty(ROWS * OUT),
             *dx = plain_empty(ROWS * IN);
    trf_real *more = plain_empty(ROWS * IN), lane[16];
    trf__mat plain = weight_of(&run, w, OUT, IN, 0), packed = weight_of(&run, w, OUT, IN, 1);
    trf__linear j = linear_of(y, x, plain, b, ROWS, OUT, IN);
    trf__linear_dx back = linear_dx_of(dx, y, plain, ROWS, OUT, IN, 0);
    int64_t r, o, i;
    size_t s;
    (void)state;
    OP(&run, linear, &j);
    for (r = 0; r < ROWS; r += 7)
        for (o = 0; o < OUT; o += 16) {
            int l, columns = (int)trf__min64(16, OUT - o);
            trf__v16 sum = trf__load_n(b + o, columns);
            for (i = 0; i < IN; i++) {
                for (l = 0; l < 16; l++) lane[l] = l < columns ? w[(o + l) * IN + i] : 0;
                sum = trf__fma(trf__set(x[r * IN + i]), trf__load(lane), sum);
            }
            lanes(lane, sum);
            for (l = 0; l < columns; l++) assert_true(y[r * OUT + o + l] == lane[l]);
        }
    j = linear_of(again, x, packed, b, ROWS, OUT, IN);
    OP(&run, linear, &j);
    assert_memory_equal(y, again, ROWS * OUT * sizeof *y);
    OP(&run, linear_dx, &back);
    for (s = 0; s + 1 < sizeof starts / sizeof *starts; s++) {
        int64_t first = starts[s], rows = starts[s + 1] - first;
        j = linear_of(again + first * OUT, x + first * IN, s & 1 ? packed : plain, b, rows, OUT,
                      IN);
        back = linear_dx_of(more + first * IN, y + first * OUT, plain, rows, OUT, IN, 0);
        OP(&run, linear, &j);
        OP(&run, linear_dx, &back);
    }
    assert_memory_equal(y, again, ROWS * OUT * sizeof *y);
    assert_memory_equal(dx, more, ROWS * IN * sizeof *dx);
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   pack: panels of sixteen rows, and nothing else is touched. A product reads them: with NaN in the
   floats it gives no NaN. From a row in the middle of a panel it reads the floats, if there are
   any. */

static uint64_t check_pack(const trf__run *run, int64_t out, int64_t in, int64_t offset)
{
    const double sentinel = 0.5;
    int mark = plain_used;
    int64_t padded = (out + 15) / 16 * 16, n = offset + padded * in + 7, i, o;
    trf_real *weights = plain_random(n, 1), *copies = plain_fill(plain_empty(n), n, sentinel);
    uint64_t hash;
    trf__pack j = trf__pack_of(copies + offset, weights + offset, out, in, TRF__FLOAT32);
    OP(run, pack, &j);
    for (i = 0; i < n; i++)
        if (i < offset || i >= offset + padded * in) assert_true((double)copies[i] == sentinel);
    for (o = 0; o < padded; o++)
        for (i = 0; i < in; i++)
            assert_true(copies[offset + o / 16 * 16 * in + i * 16 + o % 16] ==
                        (o < out ? weights[offset + o * in + i] : 0));
    hash = hash_of(HASH_START, copies, n);
    plain_release(mark);
    return hash;
}

static void test_pack(void **state)
{
    enum { OUT = 70, IN = 9, ROWS = 5 };
    static const int64_t outs[] = {1, 15, 16, 17, 255, 256, 257, 600};
    trf__run run = run_of(1, 1);
    trf_real *x = plain_random(ROWS * IN, 1), *w = plain_random(OUT * IN, 1),
             *y = plain_empty(ROWS * OUT);
    trf__mat packed = weight_of(&run, w, OUT, IN, 1);
    trf__linear j = linear_of(y, x, packed, NULL, ROWS, OUT, IN);
    int i, row;
    (void)state;
    for (i = 0; i < 8; i++) check_pack(&run, outs[i], 1 + 5 * i, 16 * i);
    for (row = 0; row <= 32; row += 8) {
        j.out = OUT - row;
        j.w = packed; j.w.row = row;
        plain_fill(w, OUT * IN, row % 16 ? 1 : NAN);        /* the floats are read, or the panels */
        plain_fill(y, ROWS * OUT, NAN);
        OP(&run, linear, &j);
        for (i = 0; i < ROWS * (OUT - row); i++) {
            const trf_real *line = x + i / (OUT - row) * IN;
            double sum = 0;
            int c;
            for (c = 0; c < IN; c++) sum += (double)line[c];
            assert_true(trf__is_finite((double)y[i]));
            if (row % 16) assert_true(fabs(sum - (double)y[i]) < 1e-5);
        }
    }
    end_run(&run);
}

/* Without floats every product has the bits of the built-in one with them: from any row of the
   matrix on, for few rows and for more than CBLAS would take; so does every looked-up row. */
static void test_packed_alone(void **state)
{
    enum { OUT = 70, IN = 300, MANY = 530 };
    static const int64_t rows[] = {1, 7, 40, MANY};
    trf__run run = run_of(2, 1);
    int mark = plain_used;
    trf_real *x = plain_random(MANY * IN, 1), *w = plain_random(OUT * IN, 1),
             *bias = plain_random(OUT, 1);
    trf_real *wanted = plain_empty(MANY * OUT), *y = plain_empty(MANY * OUT);
    trf__mat floats = floats_of(w), packed = weight_of(&run, w, OUT, IN, 1);
    int32_t ids[OUT + 1];
    trf__embed e;
    int64_t r, row, i;
    (void)state;
    packed.plain = NULL;
    for (r = 0; r < 4; r++)
        for (row = 0; row < OUT; row += 1 + row % 5) {
            trf__linear j = linear_of(wanted, x, floats, bias, rows[r], OUT - row, IN);
            int blas = trf__cpu_of(&run)->blas;
            trf__cpu_of(&run)->blas = 0;
            j.w.row = row;
            ASIDE(&run, linear, &j);
            trf__cpu_of(&run)->blas = blas;
            plain_fill(y, MANY * OUT, NAN);
            j.y = act(y); j.w = packed; j.w.row = row;
            ASIDE(&run, linear, &j);
            assert_memory_equal(y, wanted, (size_t)(rows[r] * (OUT - row)) * sizeof *y);
        }
    TRF__ZERO(e);
    for (i = 0; i < OUT; i++) ids[i] = (int32_t)((i * 37) % OUT);
    ids[OUT] = -1;
    e.ids = ids; e.rows = OUT + 1; e.d = IN; e.scale = (trf_real)1.5;
    wanted = plain_empty((OUT + 1) * IN);
    y = plain_fill(plain_empty((OUT + 1) * IN), (OUT + 1) * IN, NAN);
    e.y = act(wanted); e.weight = floats;
    ASIDE(&run, embed, &e);
    e.y = act(y); e.weight = packed;
    ASIDE(&run, embed, &e);
    assert_memory_equal(y, wanted, (size_t)((OUT + 1) * IN) * sizeof *y);
    plain_release(mark);
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>embed */

/* Groups of equal ids in any order of ids; inside a group the rows stand in theirs; those without
   an id in none. */
static void check_groups(const trf__groups *g, const int32_t *ids, int64_t rows)
{
    int mark = plain_used;
    char *seen = (char *)memset(plain_work((size_t)rows), 0, (size_t)rows);
    int64_t k, i, j, count = 0, with_id = 0;
    assert_int_equal(g->first[0], 0);
    for (k = 0; k < g->n; k++) {
        assert_true(g->first[k] < g->first[k + 1]);
        for (j = 0; j < k; j++) assert_true(ids[g->rows[g->first[j]]] != ids[g->rows[g->first[k]]]);
        for (i = g->first[k]; i < g->first[k + 1]; i++, count++) {
            assert_true(ids[g->rows[i]] == ids[g->rows[g->first[k]]] && !seen[g->rows[i]]);
            assert_true(i == g->first[k] || g->rows[i] > g->rows[i - 1]);
            seen[g->rows[i]] = 1;
        }
    }
    for (i = 0; i < rows; i++) with_id += ids[i] >= 0;
    assert_int_equal(count, with_id);
    plain_release(mark);
}

static trf__groups groups_of(const int32_t *ids, int64_t rows)
{
    int32_t *list = (int32_t *)plain_work((size_t)rows * sizeof *list);
    int32_t *first = (int32_t *)plain_work((size_t)(rows + 1) * sizeof *first);
    trf__groups g;
    g.n = trf__group_rows(list, first, ids, rows);
    g.rows = list; g.first = first;
    check_groups(&g, ids, rows);
    return g;
}

static void test_rows_in_groups(void **state)
{
    static const int32_t far[] = {5,    1 << 12 | 5, 2 << 12 | 5,   -1, 0, 4095,
                                  4096, 8191,        (1 << 24) - 1, -1};
    int32_t ids[300];
    int round, i;
    (void)state;
    for (round = 0; round < 40; round++) {
        for (i = 0; i < 300; i++)
            ids[i] = round % 2 ? far[plain_below(1 + round % 10)]
                               : (int32_t)plain_below(1 << round % 24) - 1;
        groups_of(ids, round < 4 ? round : 300);
    }
    for (i = 0; i < 300; i++) ids[i] = -1;
    assert_int_equal(groups_of(ids, 300).n, 0);
}

/* first: 1 the gradient of the weight is set, 2 those of positions and segments, 3 all of them */
static uint64_t check_embed(const trf__run *run, int64_t rows, int64_t d, int with_table,
                            int segments, double p, int first)
{
    enum { VOCAB = 13, PLACES = 9 };
    int mark = plain_used;
    trf__drop drop = trf__drop_of(p, 5);
    trf__rows at = rows_of(rows);
    trf_real *weight = plain_random(VOCAB * d, 1),
             *table = with_table ? plain_random(PLACES * d, 1) : NULL;
    trf_real *dweight = gradient_of(VOCAB * d, first & 1);
    trf_real *dtable = with_table ? gradient_of(PLACES * d, first & 2) : NULL;
    trf_real *of_segments = segments ? plain_random(segments * d, 1) : NULL;
    trf_real *dsegments = segments ? gradient_of(segments * d, first & 2) : NULL;
    double *want_dsegments = segments ? gradient_before(dsegments, segments * d, first & 2) : NULL;
    trf_real *y = plain_empty(rows * d), *dy = plain_random(rows * d, 1),
             *dropped = plain_copy(dy, rows * d);
    double *want = plain_zeros(rows * d),
           *want_dweight = gradient_before(dweight, VOCAB * d, first & 1);
    double *want_dtable = with_table ? gradient_before(dtable, PLACES * d, first & 2) : NULL,
           scale = 2.5;
    int32_t *ids = (int32_t *)plain_work((size_t)rows * sizeof *ids);
    int32_t *segment = (int32_t *)plain_work((size_t)rows * sizeof *segment);
    trf__embed e;
    trf__embed_gradient g;
    uint64_t hash;
    int64_t r, c;
    for (r = 0; r < rows; r++) {
        ids[r] = r == 2 ? -1
                        : (int32_t)plain_below(
                              VOCAB - 1); /* -1: no token, as before a target's first one */
        segment[r] = segments ? (int32_t)plain_below(segments) : 0;
        for (c = 0; c < d; c++) {
            double factor = kept_in(&drop, &at, r, c), gradient = factor * (double)dy[r * d + c];
            dropped[r * d + c] *= (trf_real)factor;
            if (ids[r] >= 0) {
                want[r * d + c] = scale * (double)weight[ids[r] * d + c];
                want_dweight[ids[r] * d + c] += scale * gradient;
            }
            if (with_table) {
                want[r * d + c] += (double)table[at.position[r] * d + c];
                want_dtable[at.position[r] * d + c] += gradient;
            }
            if (segments) {
                want[r * d + c] += (double)of_segments[segment[r] * d + c];
                want_dsegments[segment[r] * d + c] += gradient;
            }
            want[r * d + c] *= factor;
        }
    }
    e.y = act(y);
    e.weight = floats_of(weight);
    e.table = table;
    e.segments = of_segments;
    e.ids = ids;
    e.segment = segment;
    e.at = at;
    e.rows = rows;
    e.d = d;
    e.scale = (trf_real)scale; e.drop = drop;
    OP(run, embed, &e);
    g.dweight = dweight;
    g.dtable = dtable;
    g.dsegments = dsegments;
    g.dy = act(dy);
    g.ids = ids;
    g.segment = segment;
    g.n_segments = segments;
    g.groups = groups_of(ids, rows);
    g.at = at;
    g.rows = rows;
    g.d = d;
    g.vocab = VOCAB;
    g.positions = PLACES;
    g.scale = (trf_real)scale;
    g.drop = drop;
    g.first = first & 1; g.first_table = first >> 1;
    OP(run, embed_gradient, &g);
    assert_all_near("y", y, want, rows * d, TIGHT);
    assert_all_near("dweight", dweight, want_dweight, VOCAB * d, TIGHT);
    if (with_table) assert_all_near("dtable", dtable, want_dtable, PLACES * d, TIGHT);
    if (segments) assert_all_near("dsegments", dsegments, want_dsegments, segments * d, TIGHT);
    assert_same("dy", dy, dropped, rows * d);
    hash = hash_of(hash_of(hash_of(HASH_START, y, rows * d), dweight, VOCAB * d), dy, rows * d);
    if (with_table) hash = hash_of(hash, dtable, PLACES * d);
    if (segments) hash = hash_of(hash, dsegments, segments * d);
    plain_release(mark);
    return hash;
}

static void test_embed(void **state)
{
    static const int64_t widths[] = {1, 15, 16, 17, 40, 150};
    trf__run run = run_of(1, 1);
    size_t i;
    int first;
    (void)state;
    for (i = 0; i < 6; i++)
        for (first = 0; first < 4; first++) {
            check_embed(&run, 50, widths[i], 1, 0, 0.2, first);
            check_embed(&run, 3, widths[i], 0, 0, 0, first & 1);
            check_embed(&run, 7, widths[i], 0, 0, 0.5, first & 1);
            check_embed(&run, 80, widths[i], 1, 0, 0, first);
            check_embed(&run, 0, widths[i], 1, 2, 0.2, first);
            check_embed(&run, 60, widths[i], 1, 2, 0.2, first);
            check_embed(&run, 40, widths[i], 0, 5, 0, first);
        }
    end_run(&run);
}

/* Rows without a list of positions stand at 0, 1, 2 ... */
static void test_positions_without_a_list(void **state)
{
    enum { ROWS = 5, D = 3 };
    trf__run run = run_of(1, 1);
    trf_real *table = plain_random(ROWS * D, 1), *weight = plain_random(D, 1),
             *y = plain_empty(ROWS * D);
    trf_real *dtable = plain_empty(ROWS * D), *dweight = plain_empty(D),
             *dy = plain_random(ROWS * D, 1);
    int32_t ids[ROWS] = {-1, -1, -1, -1, -1};
    trf__embed e;
    trf__embed_gradient g;
    (void)state;
    TRF__ZERO(e);
    TRF__ZERO(g);
    e.y = act(y);
    e.weight = floats_of(weight);
    e.table = table;
    e.ids = ids;
    e.rows = ROWS;
    e.d = D;
    e.scale = 1;
    OP(&run, embed, &e);
    assert_same("y", y, table, ROWS * D);
    g.dweight = dweight;
    g.dtable = dtable;
    g.dy = act(dy);
    g.ids = ids;
    g.groups = groups_of(ids, ROWS);
    g.rows = ROWS;
    g.d = D;
    g.vocab = 1;
    g.positions = ROWS;
    g.scale = 1;
    g.first = g.first_table = 1;
    OP(&run, embed_gradient, &g);
    assert_same("dtable", dtable, dy, ROWS * D);
    assert_true(dweight[0] == 0 && dweight[1] == 0 && dweight[2] == 0);
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>pool: spans of several lengths, an empty one, one that ends at the last row; no row but theirs
   is written */

static uint64_t check_pool(const trf__run *run, int64_t d, int64_t most)
{
    static const int32_t lengths[] = {1, 7, 0, 40, 2, 17};
    enum { SPANS = 6, ROWS = 67 };
    int mark = plain_used;
    trf__span spans[SPANS];
    trf_real *x = plain_random(ROWS * d, 1), *y = plain_empty(SPANS * d);
    trf_real *dy = plain_random(SPANS * d, 1), *dx = plain_empty(ROWS * d);
    double *want = plain_zeros(SPANS * d), *want_dx = plain_zeros(ROWS * d);
    trf__pool p, g;
    uint64_t hash;
    int64_t row = 0, c;
    int32_t s, k;
    for (s = 0; s < SPANS; s++, row += lengths[s - 1]) {
        double n = (double)(lengths[s] < most ? lengths[s] : most);
        TRF__ZERO(spans[s]);
        spans[s].query = (int32_t)row;
        spans[s].n_query = lengths[s];
        for (k = 0; k < (int32_t)n; k++)
            for (c = 0; c < d; c++) {
                want[s * d + c] += (double)x[(row + k) * d + c] / n;
                want_dx[(row + k) * d + c] = (double)dy[s * d + c] / n;
            }
    }
    p.to = act(y); p.from = act(x); p.spans = spans; p.n_spans = SPANS; p.d = d; p.most = most;
    OP(run, pool, &p);
    g.to = act(dx); g.from = act(dy); g.spans = spans; g.n_spans = SPANS; g.d = d; g.most = most;
    OP(run, pool_gradient, &g);
    assert_all_near("pool", y, want, SPANS * d, TIGHT);
    assert_all_near("pool_gradient", dx, want_dx, ROWS * d, TIGHT);
    if (most == 1) assert_same("first row", y + d, x + d, d);
    hash = hash_of(hash_of(HASH_START, y, SPANS * d), dx, ROWS * d);
    plain_release(mark);
    return hash;
}

static void test_pool(void **state)
{
    static const int64_t widths[] = {1, 15, 16, 17, 40, 150};
    trf__run run = run_of(1, 1);
    size_t i;
    (void)state;
    for (i = 0; i < 6; i++) {
        check_pool(&run, widths[i], 1);
        check_pool(&run, widths[i], 5);
        check_pool(&run, widths[i], INT32_MAX);
    }
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>activate */

static uint64_t check_activate(const trf__run *run, int64_t rows, int64_t width, int kind, int gate,
                               double p)
{
    int mark = plain_used;
    int64_t n = rows * width, m = n << gate, i;
    trf__drop drop = trf__drop_of(p, 5);
    trf__rows at = rows_of(rows);
    trf_real *h = plain_random(m, 6), *da = plain_random(n, 1), *a = plain_empty(n),
             *dh = plain_empty(m);
    double *want = plain_zeros(n), *want_dh = plain_zeros(m);
    trf__activate j;
    trf__activate_gradient g;
    uint64_t hash;
    h[0] = 0;
    if (n > 4) { h[1] = -100; h[2] = 100; h[3] = (trf_real)-1e-20; h[4] = (trf_real)1e-20; }
    for (i = 0; i < n; i++) {
        double factor = kept_in(&drop, &at, i / width, i % width);
        int64_t u = gate ? i / width * 2 * width + i % width : i;
        double v = gate ? (double)h[u + width] : 1;
        want[i] = factor * plain_activation(kind, (double)h[u]) * v;
        want_dh[u] = factor * plain_slope(kind, (double)h[u]) * v * (double)da[i];
        if (gate) want_dh[u + width] = factor * plain_activation(kind, (double)h[u]) * (double)da[i];
    }
    TRF__ZERO(j);
    j.a = act(a);
    j.h = act(h);
    j.rows = rows;
    j.width = width;
    j.kind = kind;
    j.gate = gate;
    j.at = at;
    j.drop = drop;
    OP(run, activate, &j);
    g.dh = act(dh);
    g.da = act(da);
    g.h = act(h);
    g.rows = rows;
    g.width = width;
    g.kind = kind;
    g.gate = gate;
    g.at = at;
    g.drop = drop;
    OP(run, activate_gradient, &g);
    /* the second half of h is at most 6, and multiplies errors of the first */
    for (i = 0; i < n; i++)
        if (!(fabs((double)a[i] - want[i]) <= 20 * EPSILON * (1 + 6 * gate) * (1 + fabs(want[i]))))
            fail_msg("activation %d, gate %d, element %d: %.9g, expected %.9g", kind, gate, (int)i,
                     (double)a[i], want[i]);
    for (i = 0; i < m; i++) {
        double size = 1 + fabs((double)da[gate ? i / (2 * width) * width + i % width : i]);
        if (!(fabs((double)dh[i] - want_dh[i]) <=
              20 * EPSILON * (1 + 6 * gate) * (size + fabs(want_dh[i]))))
            fail_msg("activation %d, gate %d, backward of %.9g: %.9g, expected %.9g", kind, gate,
                     (double)h[i], (double)dh[i], want_dh[i]);
    }
    hash = hash_of(hash_of(HASH_START, a, n), dh, m);
    plain_release(mark);
    return hash;
}

static void test_activate(void **state)
{
    trf__run run = run_of(1, 1);
    int kind;
    (void)state;
    for (kind = TRF_RELU; kind < TRF__ACTIVATIONS; kind++) {
        check_activate(&run, 40, 33, kind, 0, 0);
        check_activate(&run, 5, 300, kind, 0, 0.3);
        check_activate(&run, 3, 1, kind, 0, 0.5);
        check_activate(&run, 40, 33, kind, 1, 0);
        check_activate(&run, 5, 150, kind, 1, 0.3);
        check_activate(&run, 3, 1, kind, 1, 0.5);
    }
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>rotary: positions as rotations, and back; x * factor */

/* Features i of a head and their partners: by halves, or side by side. */
static uint64_t check_rotate(const trf__run *run, int64_t rows, int heads, int d_head, int width,
                             int pairs)
{
    enum { POSITIONS = 50, GAP_OF_ROW = 7 };
    int mark = plain_used, h, i;
    int64_t ld = heads * d_head + GAP_OF_ROW, n = rows * ld, r;
    trf_real *x = plain_random(n, 1), *table = plain_empty(POSITIONS * width);
    trf_real *before = plain_empty(n);
    double *want = plain_zeros(n);
    int32_t *position = (int32_t *)(void *)plain_empty(rows);
    trf__rotation job;
    uint64_t hash;
    TRF__ZERO(job);
    memcpy(before, x, (size_t)n * sizeof *x);
    for (i = 0; i < POSITIONS * width; i++) {
        double angle = 0.1 * (i / width) * pow(100, -2.0 * (i % (width / 2)) / width);
        table[i] = (trf_real)(i % width < width / 2 ? cos(angle) : sin(angle));
    }
    for (r = 0; r < n; r++) want[r] = (double)x[r];
    for (r = 0; r < rows; r++) {
        position[r] = (int32_t)plain_below(POSITIONS);
        for (h = 0; h < heads; h++)
            for (i = 0; i < width / 2; i++) {
                double *at = want + r * ld + h * d_head;
                double *a = pairs == TRF_ROTARY_HALVES ? at + i : at + 2 * i;
                double *b = pairs == TRF_ROTARY_HALVES ? at + i + width / 2 : at + 2 * i + 1;
                double c = (double)table[position[r] * width + i], from = *a;
                double s = (double)table[position[r] * width + width / 2 + i];
                *a = from * c - *b * s;
                *b = *b * c + from * s;
            }
    }
    job.x = act(x); job.table = table; job.position = position;
    job.rows = rows; job.ld = ld;
    job.heads = heads; job.d_head = d_head; job.width = width; job.pairs = pairs;
    OP(run, rotate, &job);
    assert_all_near("rotated", x, want, n, TIGHT);
    hash = hash_of(HASH_START, x, n);
    for (r = 0; r < n; r++) want[r] = (double)before[r];
    job.back = 1;
    OP(run, rotate, &job);
    assert_all_near("turned back", x, want, n, TIGHT);
    plain_release(mark);
    return hash;
}

static void test_rotate(void **state)
{
    static const int shapes[][4] = { /* rows, heads, d_head, width */
        {1, 1, 2, 2}, {5, 3, 16, 16}, {40, 2, 64, 64}, {17, 2, 70, 66}, {3, 4, 5, 4}, {0, 1, 4, 4}
    };
    trf__run run = run_of(1, 1);
    size_t i;
    int pairs;
    (void)state;
    for (i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (pairs = 0; pairs < TRF_ROTARY_PAIRS_COUNT; pairs++)
            check_rotate(&run, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], pairs);
    end_run(&run);
}

static uint64_t check_scale(const trf__run *run, int64_t n)
{
    int mark = plain_used;
    trf_real *x = plain_random(n + 1, 1);
    double *want = plain_zeros(n + 1);
    int64_t i;
    uint64_t hash;
    trf__scale job = { act(x), n, (trf_real)0.3 };
    for (i = 0; i <= n; i++) want[i] = (double)x[i] * (i < n ? (double)(trf_real)0.3 : 1);
    OP(run, scale, &job);
    assert_all_near("scaled", x, want, n + 1, TIGHT);
    hash = hash_of(HASH_START, x, n);
    plain_release(mark);
    return hash;
}

static void test_scale(void **state)
{
    trf__run run = run_of(1, 1);
    (void)state;
    check_scale(&run, 0);
    check_scale(&run, 33);
    end_run(&run);
}

/* Adding, and the -0 that a sum of floats does not see; nothing behind the numbers changes. */
static uint64_t check_accumulate(const trf__run *run, int64_t n)
{
    int mark = plain_used;
    trf_real *to = plain_random(n + 1, 1), *from = plain_random(n + 1, 1);
    trf_real *was = plain_random(n + 1, 1);
    trf__accumulate job = { to, from, n };
    uint64_t hash;
    int64_t i;
    memcpy(was, to, (size_t)(n + 1) * sizeof *was);
    OP(run, accumulate, &job);
    for (i = 0; i < n; i++) assert_true(to[i] == was[i] + from[i]);
    assert_true(to[n] == was[n]);
    hash = hash_of(HASH_START, to, n);
    job.from = NULL;
    OP(run, accumulate, &job);
    for (i = 0; i < n; i++) assert_true(to[i] == 0 && signbit(to[i]));
    assert_true(to[n] == was[n]);
    plain_release(mark);
    return hash;
}

/* A moving average, beside a plain loop in double; nothing behind the numbers changes. */
static uint64_t check_average(const trf__run *run, int64_t n)
{
    int mark = plain_used;
    trf_real *to = plain_random(n + 1, 1), *from = plain_random(n + 1, 1);
    trf_real *was = plain_random(n + 1, 1);
    trf__average job = { to, from, n, (trf_real)0.3 };
    uint64_t hash;
    int64_t i;
    memcpy(was, to, (size_t)(n + 1) * sizeof *was);
    OP(run, average, &job);
    for (i = 0; i < n; i++) {
        double want = was[i] + (double)job.share * ((double)from[i] - was[i]);
        assert_true(fabs(to[i] - want) <= 4 * (TRF__REAL_BYTES == 4 ? FLT_EPSILON : DBL_EPSILON) * (fabs(want) + fabs(from[i])));
    }
    assert_true(to[n] == was[n]);
    hash = hash_of(HASH_START, to, n);
    plain_release(mark);
    return hash;
}

static void test_average(void **state)
{
    trf__run run = run_of(1, 1);
    (void)state;
    check_average(&run, 0);
    check_average(&run, 33);
    check_average(&run, 9000);
    end_run(&run);
}

static void test_accumulate(void **state)
{
    trf__run run = run_of(1, 1);
    (void)state;
    check_accumulate(&run, 0);
    check_accumulate(&run, 33);
    check_accumulate(&run, 9000);
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>attention: forward and backward of spans with gaps between them, which must stay untouched */

/* What is added to scores: nothing, ALiBi, or a table of four rows for distances up to 5. */
enum { BIAS_NONE, BIAS_ALIBI, BIAS_TABLE, BIAS_ROWS = 4, BIAS_REACH = 5 };

typedef struct attention_case {
    /* together: q, k and v are columns of one matrix, as in self-attention */
    int heads, d_head, causal, together;
    int n;
    int32_t lengths[4][2];                      /* queries and keys */
    double p, size;
    int shared, bias;                           /* shared: heads of queries for one of keys; 0: 1 */
    double scale;                               /* 0: 1 / sqrt(d_head) */
} attention_case;

enum { GAP = 2 };       /* rows between spans */

/* What is wanted; NULL: not looked at. The gradients only with dout. */
typedef struct attention_wanted {
    double *out, *stats, *weights, *dq, *dk, *dv, *dbias;     /* gradients are added to */
    const trf_real *dout;
} attention_wanted;

/* Press et al.'s program, for head 0, 1, ... of n. */
static double alibi_slope(int head, int n)
{
    int power = 1;
    while (power * 2 <= n) power *= 2;
    if (head < power) return pow(pow(2, -pow(2, -(log2(power) - 3))), head + 1);
    return alibi_slope(2 * (head - power), 2 * power);
}

/* What is added for a distance, and with a table its row. */
static double distance_bias(const trf__attention_in *a, int head, int64_t distance, int *row)
{
    int64_t reach = a->bias.reach;
    *row = 0;
    if (a->bias.alibi) return -alibi_slope(head, a->heads) * fabs((double)distance);
    if (distance < -reach) distance = -reach;
    if (distance > reach) distance = reach;
    *row = a->bias.row_of[distance + reach];
    return (double)a->bias.table[*row * a->heads + head];
}

/* One head of span number `which`: copies it out, computes it plainly, puts the results into the
   wanted matrices. */
static void attention_head(const trf__attention_in *a, int which, int head,
                           const attention_wanted *w)
{
    const trf__span *s = &a->spans[which];
    const trf_real *from_q = trf__from(a->q), *from_k = trf__from(a->k), *from_v = trf__from(a->v);
    int mark = plain_used;
    int64_t n = s->n_query, m = s->n_key, d = a->d_head, ldo = a->heads * d, i, j, c;
    int of_keys = head / (a->heads / a->kv_heads), row;
    double *bias = plain_zeros(n + m), *dbias = plain_zeros(n + m);
    double *q = plain_zeros(n * d), *k = plain_zeros(m * d), *v = plain_zeros(m * d),
           *keep = plain_zeros(n * m);
    double *dout = plain_zeros(n * d);
    plain_head h;
    TRF__ZERO(h);
    h.n = n; h.m = m; h.d = d; h.causal = a->causal; h.q = q; h.k = k; h.v = v; h.keep = keep;
    h.p = plain_zeros(n * m);
    h.out = plain_zeros(n * d);
    h.maximum = plain_zeros(n);
    h.sum = plain_zeros(n);
    h.dq = plain_zeros(n * d); h.dk = plain_zeros(m * d); h.dv = plain_zeros(m * d);
    if (w->dout) h.dout = dout;
    h.scale = a->scale;
    if (a->bias.alibi || a->bias.table) { h.bias = bias; h.dbias = dbias; }
    for (j = 0; h.bias && j < n + m - 1; j++) bias[j] = distance_bias(a, head, j - m + 1, &row);
    for (i = 0; i < n; i++) {
        for (c = 0; c < d; c++)
            q[i * d + c] = (double)from_q[(s->query + i) * a->ldq + head * d + c];
        if (w->dout)
            for (c = 0; c < d; c++)
                dout[i * d + c] = (double)w->dout[(s->query + i) * ldo + head * d + c];
        for (j = 0; j < m; j++) keep[i * m + j] = kept_weight(&a->drop, s->sentence, head, i, j);
    }
    for (j = 0; j < m; j++)
        for (c = 0; c < d; c++) {
            int64_t from = a->key_rows ? a->key_rows[which * a->key_stride + j] : s->key + j;
            k[j * d + c] = (double)from_k[from * a->ldk + of_keys * d + c];
            v[j * d + c] = (double)from_v[from * a->ldk + of_keys * d + c];
        }
    plain_attention(&h);
    for (i = 0; i < n; i++) {
        for (c = 0; c < d; c++) {
            if (w->out) w->out[(s->query + i) * ldo + head * d + c] = h.out[i * d + c];
            if (w->dout) w->dq[(s->query + i) * a->ldq + head * d + c] = h.dq[i * d + c];
        }
        if (w->stats && m > 0) {
            w->stats[((s->query + i) * a->heads + head) * 2] = h.maximum[i];
            w->stats[((s->query + i) * a->heads + head) * 2 + 1] = 1 / h.sum[i];
        }
        if (w->weights) for (j = 0; j < m; j++) w->weights[i * m + j] = h.p[i * m + j];
    }
    if (w->dout)
        for (j = 0; j < m; j++)
            for (c = 0; c < d; c++) {
                int64_t at = (s->key + j) * a->ldk + of_keys * d + c;
                int first = head % (a->heads / a->kv_heads) == 0;
                w->dk[at] = h.dk[j * d + c] + (first ? 0 : w->dk[at]);
                w->dv[at] = h.dv[j * d + c] + (first ? 0 : w->dv[at]);
            }
    for (j = 0; w->dbias && j < n + m - 1; j++) {
        distance_bias(a, head, j - m + 1, &row);
        w->dbias[row * a->heads + head] += dbias[j];
    }
    plain_release(mark);
}

/* Where nothing is wanted (NaN), the sentinel must still stand; where something is, it must be
   near. */
static void near_or_untouched(const char *what, const trf_real *got, double *want, int64_t n,
                              double sentinel)
{
    int64_t i;
    for (i = 0; i < n; i++) {
        if (want[i] == want[i]) continue;
        if (!((double)got[i] == sentinel))
            fail_msg("%s[%lld] is not this op's, but was written", what, (long long)i);
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
    int mark = plain_used, d = t->heads * t->d_head, i, head, kd = d / (t->shared ? t->shared : 1);
    int wide = t->together ? d + 2 * kd : 0;
    const int32_t row_of[2 * BIAS_REACH + 1] = { 2, 3, 2, 0, 1, 0, 1, 2, 0, 0, 3 };
    int32_t q_rows = GAP, k_rows = GAP;
    int64_t q_numbers, k_numbers, outs, notes;
    trf__span spans[4];
    trf__attention a;
    trf__attention_gradient g;
    attention_wanted w;
    trf_real *q, *k, *dq, *dk, *out, *stats;
    uint64_t hash = HASH_START;
    TRF__ZERO(spans);
    TRF__ZERO(a);
    TRF__ZERO(g);
    TRF__ZERO(w);
    for (i = 0; i < t->n; i++) {
        trf__span *s = &spans[i];
        s->n_query = t->lengths[i][0]; s->n_key = t->lengths[i][1]; s->sentence = 100 + 7 * i;
        s->query = q_rows; s->key = t->together ? q_rows : k_rows;
        q_rows += s->n_query + GAP;
        k_rows += s->n_key + GAP;
        a.in.max_keys = trf__max64(a.in.max_keys, s->n_key);
    }
    a.in.spans = spans;
    a.in.n_spans = t->n;
    a.in.heads = t->heads;
    a.in.kv_heads = kd / t->d_head;
    a.in.d_head = t->d_head;
    a.in.scale = t->scale > 0 ? t->scale : 1 / sqrt((double)t->d_head);
    a.in.bias.alibi = t->bias == BIAS_ALIBI;
    if (t->bias == BIAS_TABLE) {
        a.in.bias.table = plain_random(BIAS_ROWS * t->heads, 2);
        a.in.bias.row_of = row_of;
        a.in.bias.rows = BIAS_ROWS;
        a.in.bias.reach = BIAS_REACH;
        g.dbias = plain_fill(plain_empty(BIAS_ROWS * t->heads), BIAS_ROWS * t->heads, sentinel);
        g.partial = plain_empty((int64_t)t->n * BIAS_ROWS * t->heads);
        w.dbias = plain_zeros(BIAS_ROWS * t->heads);
        g.first_bias = t->causal;
        for (i = 0; !t->causal && i < BIAS_ROWS * t->heads; i++) w.dbias[i] = sentinel;
    }
    a.in.causal = t->causal;
    a.in.drop = trf__drop_of(t->p, 5);
    a.in.ldq = t->together ? wide : d + 3; a.in.ldk = t->together ? wide : 2 * kd + 1;
    q_numbers = q_rows * a.in.ldq; k_numbers = t->together ? q_numbers : k_rows * a.in.ldk;
    outs = q_rows * d; notes = q_rows * t->heads * 2;
    q = plain_random(q_numbers, t->size);
    k = t->together ? q + d : plain_random(k_numbers, t->size);
    a.in.q = act(q); a.in.k = act(k); a.in.v = act(k + kd);
    out = plain_fill(plain_empty(outs), outs, sentinel);
    stats = plain_fill(plain_empty(notes), notes, sentinel);
    dq = plain_fill(plain_empty(q_numbers), q_numbers, sentinel);
    dk = t->together ? dq + d : plain_fill(plain_empty(k_numbers), k_numbers, sentinel);
    w.dout = plain_random(outs, 1);
    w.out = nothing(outs); w.stats = nothing(notes); w.dq = nothing(q_numbers);
    w.dk = t->together ? w.dq + d : nothing(k_numbers); w.dv = w.dk + kd;
    for (i = 0; i < t->n; i++)
        for (head = 0; head < t->heads; head++) attention_head(&a.in, i, head, &w);
    a.out = act(out); a.stats = stats;
    OP(run, attention, &a);
    near_or_untouched("out", out, w.out, outs, sentinel);
    near_or_untouched("stats", stats, w.stats, notes, sentinel);
    g.in = a.in;
    g.dq = act(dq);
    g.dk = act(dk);
    g.dv = act(dk + kd);
    g.dout = act(w.dout);
    g.out = a.out;
    g.stats = stats;
    OP(run, attention_gradient, &g);
    near_or_untouched("dq", dq, w.dq, q_numbers, sentinel);
    if (!t->together) near_or_untouched("dk, dv", dk, w.dk, k_numbers, sentinel);
    if (g.dbias) assert_all_near("dbias", g.dbias, w.dbias, BIAS_ROWS * t->heads, LOOSE);
    if (g.dbias) hash = hash_of(hash, g.dbias, BIAS_ROWS * t->heads);
    hash = hash_of(hash_of(hash, out, outs), stats, notes);
    hash = hash_of(hash_of(hash, dq, q_numbers), dk, t->together ? 0 : k_numbers);
    plain_release(mark);
    return hash;
}

static void test_attention(void **state)
{
    static const attention_case cases[] = {
        /* heads, d_head, causal, together, spans, their queries and keys, dropout, size */
        {1, 1, 0, 0, 1, {{1, 1}}, 0, 1, 0, 0, 0},
        {2, 5, 0, 1, 3, {{3, 3}, {17, 17}, {1, 1}}, 0, 1, 0, 0, 0},
        {2, 5, 1, 1, 3, {{3, 3}, {17, 17}, {1, 1}}, 0, 1, 0, 0, 0},
        {1, 16, 0, 0, 4, {{4, 31}, {33, 2}, {5, 0}, {0, 3}}, 0.2, 1, 0, 0, 0},
        {3, 20, 0, 0, 2, {{15, 16}, {16, 15}}, 0.2, 1, 0, 0, 0},
        {1, 32, 1, 0, 1, {{70, 70}}, 0, 1, 0, 0, 0},
        {2, 16, 1, 1, 2, {{33, 33}, {65, 65}}, 0.3, 1, 0, 0, 0},
        {2, 20, 0, 1, 1, {{75, 75}}, 0.1, 1, 0, 0, 0},
        {2, 1, 1, 0, 2, {{40, 40}, {2, 2}}, 0.5, 2, 0, 0, 0},
        /* causal with a past: query i sees m - n + i + 1 */
        {1, 5, 1, 0, 3, {{1, 19}, {4, 20}, {33, 40}}, 0.3, 1, 0, 0, 0},
        {2, 32, 0, 0, 2, {{64, 80}, {32, 48}}, 0.25, 1, 0, 0, 0},
        /* so many heads that their numbers are cut in two */
        {4100, 1, 0, 1, 1, {{2, 2}}, 0.5, 1, 0, 0, 0},
        /* heads that share keys, other scales, numbers for distances */
        {4, 16, 0, 1, 2, {{33, 33}, {2, 2}}, 0.2, 1, 4, BIAS_NONE, 0},
        {6, 5, 1, 0, 3, {{1, 19}, {4, 20}, {33, 40}}, 0.3, 1, 3, BIAS_NONE, 1},
        {2, 20, 0, 1, 1, {{75, 75}}, 0, 1, 0, BIAS_NONE, 0.01},
        {3, 16, 0, 1, 3, {{33, 33}, {2, 2}, {1, 1}}, 0, 1, 0, BIAS_ALIBI, 0},
        {12, 5, 1, 1, 2, {{70, 70}, {7, 7}}, 0.2, 1, 2, BIAS_ALIBI, 0},
        {4, 8, 1, 0, 2, {{1, 40}, {3, 20}}, 0, 1, 0, BIAS_ALIBI, 0},
        {2, 16, 0, 1, 4, {{33, 33}, {2, 2}, {1, 1}, {16, 16}}, 0, 1, 0, BIAS_TABLE, 1},
        {4, 5, 1, 1, 2, {{70, 70}, {7, 7}}, 0.2, 1, 2, BIAS_TABLE, 0.3},
        {2, 32, 1, 0, 2, {{1, 40}, {3, 20}}, 0.1, 1, 0, BIAS_TABLE, 1}
    };
    trf__run run = run_of(1, 1);
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) check_attention(&run, &cases[i]);
    end_run(&run);
}

/* Keys listed by row, as the ancestors of a beam are: any order, repeated, far apart; one query
   with a long past. */
static void test_attention_with_listed_keys(void **state)
{
    enum {
        HEADS = 2,
        D_HEAD = 20,
        D = HEADS * D_HEAD,
        KEYS = 35,
        STRIDE = 38,
        CACHE = 60,
        QUERIES = 3
    };
    trf__run run = run_of(1, 1);
    int32_t rows[2 * STRIDE];
    trf__span spans[2];
    trf__attention a;
    attention_wanted w;
    trf_real *k = plain_random(CACHE * 2 * D, 1), *out = plain_empty(QUERIES * D);
    int i, head;
    (void)state;
    for (i = 0; i < 2 * STRIDE; i++)
        rows[i] = i % STRIDE < KEYS ? (int32_t)plain_below(CACHE) : 1 << 30;
    rows[4] = rows[5];
    TRF__ZERO(spans);
    TRF__ZERO(a);
    TRF__ZERO(w);
    spans[0].n_query = 1; spans[0].n_key = KEYS;
    spans[1].query = 1;
    spans[1].n_query = 2;
    spans[1].n_key = 17;
    spans[0].key = spans[1].key = 1 << 30;
    TRF__ZERO(a);
    a.in.spans = spans; a.in.n_spans = 2; a.in.heads = HEADS; a.in.d_head = D_HEAD; a.in.causal = 1;
    a.in.kv_heads = HEADS;
    a.in.scale = 0.3;
    a.in.bias.alibi = 1;
    a.in.max_keys = KEYS; a.in.key_rows = rows; a.in.key_stride = STRIDE;
    a.in.ldq = D; a.in.ldk = 2 * D;
    a.in.q = act(plain_random(QUERIES * D, 1));
    a.in.k = act(k); a.in.v = act(k + D);
    a.out = act(out);
    w.out = nothing(QUERIES * D);
    for (i = 0; i < 2; i++)
        for (head = 0; head < HEADS; head++) attention_head(&a.in, i, head, &w);
    OP(&run, attention, &a);            /* without stats too */
    assert_all_near("out", out, w.out, QUERIES * D, LOOSE);
    end_run(&run);
}

/* What has been remembered in areas gives the same bits as the rows it came from. */
static void test_attention_over_areas(void **state)
{
    enum { HEADS = 2, MOST = 37, AREA = 48, SOURCES = 3, BEAM = 4 };
    static const int widths[] = { 5, 16, 32 }, lengths[SOURCES] = { 16, MOST, 1 };
    trf__run run = run_of(1, 1);
    int w;
    (void)state;
    for (w = 0; w < 3; w++) {
        int64_t d_head = widths[w], d = HEADS * d_head, kd = d / 2, rows = 0, k;
        int mark = plain_used, s;
        int32_t slots[SOURCES * MOST];
        trf__span spans[SOURCES], areas[SOURCES];
        trf__attention a;
        trf__append_kv r;
        trf_real *fresh = plain_random(SOURCES * MOST * 2 * kd, 1),
                 *q = plain_random(SOURCES * BEAM * d, 1);
        trf_real *cache =
            plain_fill(plain_empty(SOURCES * AREA * 2 * kd), SOURCES * AREA * 2 * kd, NAN);
        trf_real *out[2] = { plain_empty(SOURCES * BEAM * d), plain_empty(SOURCES * BEAM * d) };
        TRF__ZERO(a);
        TRF__ZERO(spans);
        for (s = 0; s < SOURCES; s++) {
            spans[s].query = s * BEAM; spans[s].n_query = BEAM;
            spans[s].key = (int32_t)rows; spans[s].n_key = lengths[s];
            areas[s] = spans[s];
            areas[s].key = (SOURCES - 1 - s) * AREA;
            for (k = 0; k < lengths[s]; k++) slots[rows++] = (int32_t)(areas[s].key + k);
        }
        r.cache = act(cache);
        r.fresh = act(fresh);
        r.slots = slots;
        r.rows = rows;
        r.width = 2 * kd;
        r.area = AREA;
        ASIDE(&run, append_kv, &r);
        TRF__ZERO(a);
        a.in.n_spans = SOURCES; a.in.heads = HEADS; a.in.kv_heads = HEADS / 2;
        a.in.d_head = (int)d_head;
        a.in.scale = 0.2;
        a.in.max_queries = BEAM; a.in.max_keys = MOST;
        a.in.q = act(q); a.in.ldq = d; a.in.ldk = 2 * kd;
        a.in.spans = spans; a.in.k = act(fresh); a.in.v = act(fresh + kd); a.out = act(out[0]);
        OP(&run, attention, &a);
        a.in.spans = areas;
        a.in.k = act(cache);
        a.in.v = act(cache + kd);
        a.in.area = AREA;
        a.out = act(out[1]);
        OP(&run, attention, &a);
        assert_memory_equal(out[0], out[1], (size_t)(SOURCES * BEAM * d) * sizeof(trf_real));
        plain_release(mark);
    }
    end_run(&run);
}

/* The weights of one head, before dropout; each row sums to 1, and unseen keys have exactly none.
 */
static uint64_t check_attention_weights(const trf__run *run, int32_t n, int32_t m, int causal,
                                        int listed)
{
    enum { HEADS = 3, D_HEAD = 5, D = HEADS * D_HEAD, CACHE = 120 };
    int mark = plain_used;
    int32_t *rows = (int32_t *)plain_work((size_t)m * sizeof *rows);
    trf__span span;
    trf__attention_weights a;
    uint64_t hash = HASH_START;
    int64_t i, j;
    TRF__ZERO(a);
    span.query = 3;
    span.n_query = n;
    span.key = listed ? 1 << 30 : 7;
    span.n_key = m;
    span.sentence = 2;
    for (i = 0; i < m; i++) rows[i] = (int32_t)plain_below(CACHE);
    a.in.spans = &span;
    a.in.n_spans = 1;
    a.in.max_keys = m;
    a.in.heads = HEADS;
    a.in.kv_heads = HEADS / 2;
    a.in.d_head = D_HEAD;
    a.in.scale = 0.25;
    a.in.bias.alibi = listed;
    a.in.causal = causal;
    a.in.drop = trf__drop_of(0.4, 5);
    if (listed) { a.in.key_rows = rows; a.in.key_stride = m; }
    a.in.ldq = D + 2; a.in.ldk = D;
    a.in.q = act(plain_random((n + 3) * (D + 2), 2)); a.in.k = act(plain_random(CACHE * D, 2));
    a.in.v = act(plain_empty(CACHE * D));               /* nobody asks for values */
    for (a.head = 0; a.head < HEADS; a.head++) {
        attention_wanted w;
        trf_real *weights = a.weights = plain_empty(n * m);
        TRF__ZERO(w);
        w.weights = plain_zeros(n * m);
        attention_head(&a.in, 0, a.head, &w);
        OP(run, attention_weights, &a);
        assert_all_near("weights", weights, w.weights, n * m, LOOSE);
        for (i = 0; i < n && m > 0; i++) {
            double sum = 0;
            for (j = 0; j < m; j++) {
                sum += (double)weights[i * m + j];
                if (causal && j > m - n + i) assert_true(weights[i * m + j] == 0);
            }
            assert_number_near(sum, 1, TIGHT);
        }
        hash = hash_of(hash, weights, n * m);
    }
    plain_release(mark);
    return hash;
}

static void test_attention_weights(void **state)
{
    trf__run run = run_of(1, 1);
    (void)state;
    check_attention_weights(&run, 37, 37, 1, 0);
    check_attention_weights(&run, 33, 40, 1, 1);
    check_attention_weights(&run, 1, 17, 1, 1);
    check_attention_weights(&run, 100, 16, 0, 0);
    check_attention_weights(&run, 5, 0, 0, 0);
    end_run(&run);
}

/* Scores far apart and scores all the same: weights 0 and 1, or 1/m each; and never a NaN. */
static void test_attention_extremes(void **state)
{
    enum { M = 21 };
    trf__run run = run_of(1, 1);
    trf_real q[2] = {(trf_real)1e15, 0}, k[M], v[M], out[2], weights[2 * M], stats[4];
    trf__span span;
    trf__attention a;
    trf__attention_weights look;
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
    a.in.spans = &span; a.in.n_spans = 1; a.in.max_keys = M;
    a.in.heads = a.in.kv_heads = a.in.d_head = 1; a.in.scale = 1;
    a.in.ldq = a.in.ldk = 1; a.in.q = act(q); a.in.k = act(k); a.in.v = act(v);
    a.out = act(out); a.stats = stats;
    OP(&run, attention, &a);
    look.in = a.in; look.weights = weights; look.head = 0;
    OP(&run, attention_weights, &look);
    for (j = 0; j < M; j++) assert_true(weights[j] == (j == M - 1));
    assert_true(out[0] == v[M - 1]);
    for (j = 0; j < M; j++) assert_number_near(weights[M + j], 1.0 / M, TIGHT);
    assert_number_near(out[1], average, TIGHT);
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>add_norm: s = x + drop(sub), y = norm(s), and the way back */

typedef struct norm_case {
    int64_t rows, d;
    int rule, sub, norm, dy2, ds_in, first;
    double p, epsilon;
} norm_case;

/* Everything wanted of both directions. */
typedef struct norm_wanted { double *s, *y, *stats, *ds, *dsub, *dgain, *dbias; } norm_wanted;

static void plain_add_norm(const trf__norm *n, const trf__norm_gradient *b, const norm_wanted *w)
{
    int mark = plain_used;
    const trf_real *x = trf__from(n->x), *sub = trf__from(n->sub), *dy = trf__from(b->dy),
                   *dy2 = trf__from(b->dy2);
    const trf_real *ds_in = trf__from(b->ds_in);
    int64_t d = n->d, r, c;
    double *gain = plain_doubles(n->gain, d), *bias = plain_doubles(n->bias, d),
           *g = plain_zeros(d);
    for (r = 0; r < n->rows; r++) {
        int inner = plain_used;
        double *ds = w->ds + r * d, *s = w->s + r * d;
        for (c = 0; c < d; c++) {
            int64_t at = r * d + c;
            s[c] = (double)x[at] + (sub ? (double)sub[at] * kept_in(&n->drop, &n->at, r, c) : 0);
            ds[c] = g[c] = (double)dy[at] + (dy2 ? (double)dy2[at] : 0);
        }
        if (b->gain) {
            w->stats[2 * r + 1] =
                plain_norm(w->y + r * d, s, gain, bias, d, n->epsilon, n->rule, &w->stats[2 * r]);
            plain_norm_backward(ds, w->dgain, w->dbias, g, s, gain, d, n->epsilon, n->rule);
            for (c = 0; c < d && ds_in; c++) ds[c] += (double)ds_in[r * d + c];
        }
        for (c = 0; c < d; c++) w->dsub[r * d + c] = ds[c] * kept_in(&n->drop, &n->at, r, c);
        plain_release(inner);
    }
    plain_release(mark);
}

/* The gradient again, ds in the memory of one of its inputs: the same bits. */
static void check_norm_overlap(const trf__run *run, const trf__norm_gradient *b,
                               const trf_real *gain_before, const trf_real *bias_before)
{
    int64_t all = b->rows * b->d;
    size_t bytes = (size_t)all * sizeof(trf_real), few = (size_t)b->d * sizeof(trf_real);
    int which;
    for (which = 0; which < 3; which++) {
        trf__norm_gradient j = *b;
        const trf__act **input = which == 0 ? &j.dy : which == 1 ? &j.dy2 : &j.ds_in;
        if (!*input) continue;
        *input = j.ds = act(plain_copy(trf__from(*input), all));
        if (j.dsub) j.dsub = act(plain_empty(all));
        if (j.gain) {
            j.dgain = plain_copy(gain_before, j.d);
            j.dbias = plain_copy(bias_before, j.d);
        }
        OP(run, norm_gradient, &j);
        assert_memory_equal(j.ds, b->ds, bytes);
        if (j.dsub) assert_memory_equal(j.dsub, b->dsub, bytes);
        if (!j.gain) continue;
        assert_memory_equal(j.dgain, b->dgain, few);
        assert_memory_equal(j.dbias, b->dbias, few);
    }
}

static uint64_t check_add_norm(const trf__run *run, const norm_case *t)
{
    int mark = plain_used;
    int64_t d = t->d, all = t->rows * d;
    trf_real *gain_before, *bias_before, *s = plain_empty(all), *y = plain_empty(all),
                                         *ds = plain_empty(all);
    trf_real *dsub = plain_empty(all), *stats = plain_empty(2 * t->rows),
             *gain = plain_random(d, 1);
    uint64_t hash;
    norm_wanted w;
    trf__norm n;
    trf__norm_gradient b;
    TRF__ZERO(n);
    TRF__ZERO(b);
    b.rows = n.rows = t->rows;
    b.d = n.d = d;
    b.rule = n.rule = t->rule;
    b.epsilon = n.epsilon = t->epsilon;
    b.drop = n.drop = trf__drop_of(t->p, 5);
    b.at = n.at = rows_of(t->rows);
    n.x = act(plain_random(all, 2));
    if (t->sub) { n.sub = act(plain_random(all, 1)); n.s = act(s); b.dsub = act(dsub); }
    n.gain = gain; n.bias = plain_random(d, 1);
    b.dy = act(plain_random(all, 1));
    if (t->dy2) b.dy2 = act(plain_random(all, 1));
    if (t->ds_in) b.ds_in = act(plain_random(all, 1));
    if (t->norm) {
        n.y = act(y);
        n.stats = stats;
        b.stats = stats;
        b.gain = gain;
        b.first = t->first;
    }
    b.s = t->sub ? n.s : n.x;                       /* as the model does: backward reads the sum */
    b.ds = act(ds);
    b.dgain = gradient_of(d, b.first); b.dbias = gradient_of(d, b.first);
    gain_before = plain_copy(b.dgain, d); bias_before = plain_copy(b.dbias, d);
    w.s = plain_zeros(all);
    w.y = plain_zeros(all);
    w.stats = plain_zeros(2 * t->rows);
    w.ds = plain_zeros(all);
    w.dsub = plain_zeros(all);
    w.dgain = gradient_before(b.dgain, d, b.first); w.dbias = gradient_before(b.dbias, d, b.first);
    plain_add_norm(&n, &b, &w);
    OP(run, add_norm, &n);
    if (t->sub) assert_all_near("s", s, w.s, all, TIGHT);
    if (t->norm) {
        assert_all_near("y", y, w.y, all, TIGHT);
        assert_all_near("stats", stats, w.stats, 2 * t->rows, TIGHT);
    }
    OP(run, norm_gradient, &b);
    assert_all_near("ds", ds, w.ds, all, LOOSE);
    if (t->sub) assert_all_near("dsub", dsub, w.dsub, all, LOOSE);
    assert_all_near("dgain", b.dgain, w.dgain, d, LOOSE);
    assert_all_near("dbias", b.dbias, w.dbias, d, LOOSE);
    hash = hash_of(hash_of(hash_of(HASH_START, ds, all), b.dgain, d), b.dbias, d);
    if (t->norm) hash = hash_of(hash_of(hash, y, all), stats, 2 * t->rows);
    if (t->sub) hash = hash_of(hash_of(hash, s, all), dsub, all);
    check_norm_overlap(run, &b, gain_before, bias_before);
    if (t->norm && t->sub) {                        /* without notes for a gradient: the same */
        trf_real *again = plain_empty(all);
        n.stats = NULL;
        n.y = act(again);
        OP(run, add_norm, &n);
        assert_memory_equal(again, y, (size_t)all * sizeof *y);
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
    for (bits = 0; bits < 128; bits++) {
        t.rule = bits & 1; t.sub = bits >> 1 & 1; t.norm = bits >> 2 & 1; t.dy2 = bits >> 3 & 1;
        t.ds_in = (bits >> 4 & 1) && t.norm;
        t.p = bits >> 5 & 1 ? 0.25 : 0;
        t.first = bits >> 6;
        t.epsilon = bits % 3 ? 1e-5 : 0.1;
        t.rows = bits % 5 == 0 ? 1 : bits % 5 == 1 ? 70 : bits % 5 == 2 ? 130 : 33;
        t.d = widths[bits % 6];
        check_add_norm(&run, &t);
    }
    t.rows = 0; t.norm = t.first = 1;               /* nothing is added to nothing */
    check_add_norm(&run, &t);
    end_run(&run);
}

/* Means far from zero and rows without variance: the mean is taken off before anything is squared.
 */
static void test_norm_extremes(void **state)
{
    enum { D = 20 };
    trf__run run = run_of(1, 1);
    trf_real x[3 * D], y[3 * D], gain[D], bias[D], stats[6], ds[3 * D], dy[3 * D], dgain[D] = {0},
                                                                                   dbias[D] = {0};
    trf__norm n;
    trf__norm_gradient b;
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
        TRF__ZERO(b);
        TRF__ZERO(n);
        n.rows = b.rows = 3; n.d = b.d = D; n.rule = b.rule = rule; n.epsilon = b.epsilon = 1e-6;
        n.x = act(x); n.y = act(y); n.gain = gain; n.bias = bias; n.stats = stats;
        OP(&run, add_norm, &n);
        for (i = 0; i < D; i++) {
            double deviation = rule ? 0.5 * sqrt(D / (D - 1.0)) + 1e-6 : sqrt(0.25 + 1e-6);
            assert_number_near((double)y[i] - (double)bias[i], (i % 2 - 0.5) / deviation, TIGHT);
            assert_true(y[D + i] == bias[i]);
            deviation = sqrt((D * D - 1) / 12.0) * (rule ? sqrt(D / (D - 1.0)) : 1);
            assert_number_near((double)y[2 * D + i] - (double)bias[i], (i - 9.5) / deviation,
                               TIGHT);
        }
        b.s = act(x);
        b.ds = act(ds);
        b.dy = act(dy);
        b.dgain = dgain;
        b.dbias = dbias;
        b.stats = stats;
        b.gain = gain;
        OP(&run, norm_gradient, &b);
        for (i = 0; i < 3 * D; i++) assert_true(trf__is_finite((double)ds[i]));
    }
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>cross_entropy */

/* Room and options of a loss; `pad` for the rule that needs one. */
static trf__loss loss_of(const trf__run *run, int64_t rows, int64_t vocab, int64_t d, int rule,
                         double e, int64_t pad, int paired)
{
    trf__loss l;
    TRF__ZERO(l);
    trf__smooth(&l, e, rule, vocab, pad);
    l.rows = rows; l.d = d;
    l.row_loss = (double *)plain_work((size_t)rows * sizeof(double));
    l.row_nll = (double *)plain_work((size_t)rows * sizeof(double));
    l.work = plain_work(run->backend->loss_scratch(&run->device, rows, vocab, d, 0, paired));
    return l;
}

/* The sums are those of the rows, in order, and go into the slots; `before` is what stood there. Of
   the labels of sequences three go there, behind those of tokens. */
static void check_sums(const trf__loss *l, const double *before, int64_t correct, int64_t perhaps)
{
    double loss = 0, nll = 0, tokens = 0, want[5];      /* in the order of the slots */
    int64_t i;
    for (i = 0; i < l->rows; i++) {
        loss += l->row_loss[i];
        nll += l->row_nll[i];
        tokens += l->targets[i] >= 0;
    }
    assert_true(l->sums->loss == loss && l->sums->nll == nll && l->sums->tokens == tokens);
    assert_true(l->sums->correct >= (double)correct &&
                l->sums->correct <= (double)(correct + perhaps));
    want[0] = loss;
    want[1] = l->of_sequences ? l->sums->correct : nll;
    want[2] = l->of_sequences ? tokens : l->sums->correct;
    want[3] = tokens;
    want[4] = SOURCE_TOKENS;
    for (i = 0; i < TRF__TALLIES / 2; i++) {
        int64_t k = l->of_sequences ? i - TRF__TALLY_SEQUENCE_LOSS / 2 : i;
        double sum = before[2 * i] + before[2 * i + 1];
        if (k < 0 || k >= (l->of_sequences ? 3 : 5)) {
            assert_true((double)l->slots[2 * i] == before[2 * i]);
            assert_true((double)l->slots[2 * i + 1] == before[2 * i + 1]);
            continue;
        }
        sum += want[k];
        assert_number_near((double)l->slots[2 * i] + (double)l->slots[2 * i + 1], sum,
                           1e-13 * (fabs(sum) + 1));
    }
}

/* gradients: 0 none, 1 dx alone, 2 dx and dw, 3 all. `more` rows of the matrix stand above the
   vocabulary's. */
typedef struct loss_case {
    int64_t rows, vocab, d;
    int rule;
    double e;
    int bias, gradients, first, packed, more, of_sequences;
} loss_case;

static uint64_t check_cross_entropy(const trf__run *run, const loss_case *t)
{
    enum { PAD = 1 };
    int mark = plain_used;
    int64_t rows = t->rows, vocab = t->vocab, d = t->d, r, v, c, correct = 0, perhaps = 0;
    trf__loss l = loss_of(run, rows, vocab, d, t->rule, t->e, PAD, 0);
    trf_real *all = plain_random((t->more + vocab) * d, 1), *w = all + t->more * d,
             *x = plain_random(rows * d, 2);
    trf_real *b = t->bias ? plain_random(vocab, 1) : NULL, *dx_got = plain_empty(rows * d);
    double *z = plain_zeros(vocab), *dz = plain_zeros(vocab), *q = plain_zeros(vocab);
    double *dx = plain_zeros(rows * d), *dw, *db, *slots;
    int32_t *targets = (int32_t *)plain_work((size_t)rows * sizeof(int32_t));
    trf__sums sums;
    uint64_t hash;
    l.x = act(x); l.bias = b; l.targets = targets; l.sums = &sums; l.first = t->first;
    l.w = weight_of(run, all, t->more + vocab, d, t->packed);
    l.w.row = t->more;
    l.of_sequences = t->of_sequences;
    now.sequence_weight = 2.5;
    for (r = 0; r < rows; r++)
        do targets[r] = r % 5 == 3 ? -1 : (int32_t)plain_below(vocab); while (targets[r] == PAD);
    l.slots = gradient_of(TRF__TALLIES, t->first);
    slots = gradient_before(l.slots, TRF__TALLIES, t->first);
    if (t->gradients > 0) l.dx = act(dx_got);
    if (t->gradients > 1) l.dw = gradient_of(vocab * d, t->first);
    if (t->gradients > 2) l.db = gradient_of(vocab, t->first);
    dw = l.dw ? gradient_before(l.dw, vocab * d, t->first) : plain_zeros(vocab * d);
    db = l.db ? gradient_before(l.db, vocab, t->first) : plain_zeros(vocab);
    OP(run, cross_entropy, &l);
    for (r = 0; r < rows; r++) {
        double entropy, highest = -HUGE_VAL, second = -HUGE_VAL, want;
        int32_t target = targets[r];
        if (target < 0) {
            assert_true(l.row_loss[r] == 0 && l.row_nll[r] == 0);
            continue;
        }
        for (v = 0; v < vocab; v++) {
            z[v] = b ? (double)b[v] : 0;
            for (c = 0; c < d; c++) z[v] += (double)x[r * d + c] * (double)w[v * d + c];
            if (z[v] > highest) {
                second = highest;
                highest = z[v];
            } else if (z[v] > second) second = z[v];
        }
        entropy = plain_wanted(q, t->rule, t->e, vocab, target, PAD);
        want = (double)plain_loss(dz, z, q, vocab);
        assert_number_near(l.row_loss[r], want - entropy, LOOSE * want);
        plain_wanted(q, TRF_SMOOTH_UNIFORM, 0, vocab, target, PAD);
        assert_number_near(l.row_nll[r], plain_loss(NULL, z, q, vocab), LOOSE * want);
        if (highest - second > 1e-4) correct += z[target] == highest; else perhaps++;
        for (v = 0; v < vocab; v++) {
            if (t->of_sequences) dz[v] *= 2.5;
            db[v] += dz[v];
            for (c = 0; c < d; c++) {
                dx[r * d + c] += dz[v] * (double)w[v * d + c];
                dw[v * d + c] += dz[v] * (double)x[r * d + c];
            }
        }
    }
    check_sums(&l, slots, correct, perhaps);
    if (l.dx) assert_all_near("dx", dx_got, dx, rows * d, LOOSE);
    if (l.dw) assert_all_near("dw", l.dw, dw, vocab * d, LOOSE);
    if (l.db) assert_all_near("db", l.db, db, vocab, LOOSE);
    hash = hash_bytes(HASH_START, l.row_loss, (size_t)rows * sizeof(double));
    hash = hash_bytes(hash, l.row_nll, (size_t)rows * sizeof(double));
    hash = hash_of(hash_bytes(hash, &sums, sizeof sums), l.slots, TRF__TALLIES);
    if (l.dx) hash = hash_of(hash, dx_got, rows * d);
    if (l.dw) hash = hash_of(hash, l.dw, vocab * d);
    if (l.db) hash = hash_of(hash, l.db, vocab);
    plain_release(mark);
    return hash;
}

static void test_cross_entropy(void **state)
{
    static const loss_case cases[] = {
        /* rows, vocab, d, rule, smoothing, bias, gradients, first, packed, rows above, of
           sequences */
        {20, 37, 5, 0, 0.1, 1, 3, 0, 0, 0, 0},
        {7, 16, 17, 0, 0.3, 0, 2, 1, 1, 0, 0},
        {3, 5, 1, 0, 0, 1, 1, 0, 0, 3, 0},
        {33, 100, 8, 0, 0.1, 0, 0, 0, 1, 16, 0},
        {600, 40, 3, -1, 0.1, 1, 3, 1, 1, 0, 0},
        {600, 40, 3, -1, 0.1, 1, 3, 0, 0, 0, 0}, /* two groups of rows */
        {18, 1100, 3, -2, 0.1, 1, 3, 1, 0, 0, 0}, /* three blocks of the vocabulary */
        {19, 6, 7, 0, 0.1, 1, 3, 0, 0, 0, 1},
        {0, 20, 4, -1, 0.1, 1, 3, 1, 0, 0, 0}};
    size_t i;
    int rule, blas;
    (void)state;
    for (blas = 0; blas < 2; blas++) {
        trf__run run = run_of(1, blas);
        for (i = 0; i < sizeof cases / sizeof *cases; i++)
            for (rule = TRF_SMOOTH_UNIFORM; rule <= TRF_SMOOTH_NO_PAD_KL; rule++) {
                loss_case t = cases[i];
                if (t.rule < 0 &&
                    rule != (t.rule == -1 ? TRF_SMOOTH_UNIFORM : TRF_SMOOTH_OTHERS_KL))
                    continue;
                t.rule = rule;
                check_cross_entropy(&run, &t);
            }
        end_run(&run);
    }
}

/* ---- pairs: the formula of R-Drop, number by number, in long double ---- */

/* log softmax(z)[v] of n logits */
static void plain_log_softmax(long double *out, const double *z, int64_t n)
{
    long double most = z[0], sum = 0;
    int64_t v;
    for (v = 1; v < n; v++) if (z[v] > most) most = z[v];
    for (v = 0; v < n; v++) sum += expl(z[v] - most);
    for (v = 0; v < n; v++) out[v] = z[v] - most - logl(sum);
}

/* The two rows of a token: dz of (loss + loss) / 2 + a (KL(p || q) + KL(q || p)) / 2, and the last
   bracket's half. */
static long double plain_pair(double *dz[2], double *const z[2], const double *q, int64_t n,
                              double a)
{
    long double *log_p[2], kl[2] = {0, 0};
    int64_t v;
    int k;
    for (k = 0; k < 2; k++) {
        log_p[k] = (long double *)malloc((size_t)n * sizeof **log_p);
        assert_non_null(log_p[k]);
        plain_log_softmax(log_p[k], z[k], n);
    }
    for (k = 0; k < 2; k++)
        for (v = 0; v < n; v++)
            kl[k] += expl(log_p[k][v]) * (log_p[k][v] - log_p[1 - k][v]);
    for (k = 0; k < 2; k++)
        for (v = 0; v < n; v++) {
            long double p = expl(log_p[k][v]), other = expl(log_p[1 - k][v]);
            dz[k][v] = (double)((p - q[v]) / 2 +
                                a / 2 * (p * (log_p[k][v] - log_p[1 - k][v] - kl[k]) + p - other));
        }
    free(log_p[0]);
    free(log_p[1]);
    return (kl[0] + kl[1]) / 2;
}

static uint64_t check_pairs(const trf__run *run, const loss_case *t, double a)
{
    enum { PAD = 1 };
    int mark = plain_used, k;
    const int64_t n = t->rows, rows = 2 * n, vocab = t->vocab, d = t->d;
    int64_t r, v, c;
    trf__loss l = loss_of(run, rows, vocab, d, t->rule, t->e, PAD, 1);
    trf_real *w = plain_random(vocab * d, 1), *x = plain_random(rows * d, 2);
    trf_real *b = t->bias ? plain_random(vocab, 1) : NULL, *dx_got = plain_empty(rows * d);
    double *z[2], *dz[2], *q = plain_zeros(vocab), *dx = plain_zeros(rows * d), *dw, *db;
    double divergence = 0, loss = 0, nll = 0, tokens = 0, weight = t->of_sequences ? 2.5 : 1;
    int32_t *targets = (int32_t *)plain_work((size_t)rows * sizeof(int32_t));
    const int slot = t->of_sequences ? TRF__TALLY_SEQUENCE_DIVERGENCE : TRF__TALLY_DIVERGENCE;
    trf__sums sums;
    uint64_t hash;
    for (k = 0; k < 2; k++) { z[k] = plain_zeros(vocab); dz[k] = plain_zeros(vocab); }
    l.x = act(x); l.bias = b; l.targets = targets; l.sums = &sums; l.first = t->first;
    l.w = weight_of(run, w, vocab, d, t->packed);
    l.of_sequences = t->of_sequences;
    l.pairs = n; l.consistency = a;
    now.sequence_weight = 2.5;
    for (r = 0; r < n; r++) {
        do targets[r] = r % 5 == 3 ? -1 : (int32_t)plain_below(vocab); while (targets[r] == PAD);
        targets[n + r] = targets[r];
    }
    l.slots = plain_empty(TRF__TALLIES);
    for (c = 0; c < TRF__TALLIES; c++) l.slots[c] = 0;
    l.dx = act(dx_got);
    l.dw = gradient_of(vocab * d, t->first);
    l.db = gradient_of(vocab, t->first);
    dw = gradient_before(l.dw, vocab * d, t->first);
    db = gradient_before(l.db, vocab, t->first);
    OP(run, cross_entropy, &l);
    for (r = 0; r < n; r++) {
        double entropy, want;
        if (targets[r] < 0) {
            assert_true(l.row_loss[r] == 0 && l.row_loss[n + r] == 0 && l.row_nll[n + r] == 0);
            continue;
        }
        for (k = 0; k < 2; k++)
            for (v = 0; v < vocab; v++) {
                z[k][v] = b ? (double)b[v] : 0;
                for (c = 0; c < d; c++)
                    z[k][v] += (double)x[(k * n + r) * d + c] * (double)w[v * d + c];
            }
        entropy = plain_wanted(q, t->rule, t->e, vocab, targets[r], PAD);
        for (k = 0; k < 2; k++) {
            want = (double)plain_loss(NULL, z[k], q, vocab);
            assert_number_near(l.row_loss[k * n + r], want - entropy, LOOSE * want);
            loss += l.row_loss[k * n + r] / 2;
            nll += l.row_nll[k * n + r] / 2;
        }
        divergence += (double)plain_pair(dz, z, q, vocab, a);
        tokens++;
        for (k = 0; k < 2; k++)
            for (v = 0; v < vocab; v++) {
                dz[k][v] *= weight;
                db[v] += dz[k][v];
                for (c = 0; c < d; c++) {
                    dx[(k * n + r) * d + c] += dz[k][v] * (double)w[v * d + c];
                    dw[v * d + c] += dz[k][v] * (double)x[(k * n + r) * d + c];
                }
            }
    }
    assert_number_near(sums.loss, loss, 1e-12 * (loss + 1));
    assert_number_near(sums.nll, nll, 1e-12 * (nll + 1));
    assert_true(sums.tokens == tokens && sums.correct <= tokens);
    assert_number_near(sums.divergence, divergence, LOOSE * (divergence + 1));
    assert_number_near(trf__tally(l.slots, slot), sums.divergence, 1e-13 * (divergence + 1));
    assert_number_near(trf__tally(l.slots, t->of_sequences ? TRF__TALLY_SEQUENCE_TARGETS
                                                           : TRF__TALLY_TOKENS), tokens, 0.01);
    assert_all_near("dx of pairs", dx_got, dx, rows * d, LOOSE * (1 + a));
    assert_all_near("dw of pairs", l.dw, dw, vocab * d, LOOSE * (1 + a));
    assert_all_near("db of pairs", l.db, db, vocab, LOOSE * (1 + a));
    hash = hash_bytes(HASH_START, l.row_loss, (size_t)rows * sizeof(double));
    hash = hash_of(hash_bytes(hash, &sums, sizeof sums), l.slots, TRF__TALLIES);
    hash = hash_of(hash_of(hash, dx_got, rows * d), l.dw, vocab * d);
    plain_release(mark);
    return hash;
}

static void test_cross_entropy_of_pairs(void **state)
{
    static const loss_case cases[] = {
        {1, 2, 1, 0, 0, 0, 3, 1, 0, 0, 0},
        {20, 37, 5, 0, 0.1, 1, 3, 0, 0, 0, 0},
        {7, 16, 17, 0, 0.3, 0, 3, 1, 1, 0, 0},
        {19, 6, 7, 0, 0.1, 1, 3, 0, 0, 0, 1},
        {300, 40, 3, -1, 0.1, 1, 3, 1, 1, 0, 0},    /* two groups of rows */
        {600, 33, 3, -1, 0, 1, 3, 0, 0, 0, 0},      /* three */
        {9, 1100, 3, -2, 0.1, 1, 3, 1, 0, 0, 0},    /* three blocks of the vocabulary */
        {0, 20, 4, -1, 0.1, 1, 3, 1, 0, 0, 0}};
    static const double strengths[] = {0, 0.5, 5};
    size_t i, s;
    int rule, blas;
    (void)state;
    for (blas = 0; blas < 2; blas++) {
        trf__run run = run_of(1, blas);
        for (i = 0; i < sizeof cases / sizeof *cases; i++)
            for (rule = TRF_SMOOTH_UNIFORM; rule <= TRF_SMOOTH_NO_PAD_KL; rule++)
                for (s = 0; s < 3; s++) {
                    loss_case t = cases[i];
                    if (t.rule < 0 &&
                        rule != (t.rule == -1 ? TRF_SMOOTH_UNIFORM : TRF_SMOOTH_OTHERS_KL))
                        continue;
                    if (rule == TRF_SMOOTH_NO_PAD_KL && t.vocab < 3) continue;
                    t.rule = rule;
                    check_pairs(&run, &t, strengths[s]);
                }
        end_run(&run);
    }
}

/* The authors' loss, in PyTorch. */
static void test_pairs_of_pytorch(void **state)
{
    enum { N = 5, V = 7, D = 4 };
    trf__run run = run_of(1, 0);
    trf__loss l = loss_of(&run, 2 * N, V, D, TRF_SMOOTH_UNIFORM, 0.1, -1, 1);
    trf_real *x = plain_empty(2 * N * D), *w = plain_empty(V * D), *b = plain_empty(V),
             *dx = plain_empty(2 * N * D);
    int32_t targets[2 * N];
    trf__sums sums;
    int i;
    (void)state;
    for (i = 0; i < 2 * N * D; i++) x[i] = (trf_real)((i * 37 % 23 - 11) / 8.0);
    for (i = 0; i < V * D; i++) w[i] = (trf_real)((i * 29 % 19 - 9) / 8.0);
    for (i = 0; i < V; i++) b[i] = (trf_real)((i * 13 % 7 - 3) / 8.0);
    for (i = 0; i < 2 * N; i++) targets[i] = (3 * (i % N) + 1) % V;
    l.x = act(x); l.bias = b; l.targets = targets; l.sums = &sums;
    l.w = weight_of(&run, w, V, D, 0);
    l.dx = act(dx); l.dw = plain_empty(V * D); l.db = plain_empty(V); l.first = 1;
    l.pairs = N; l.consistency = 1.5;
    OP(&run, cross_entropy, &l);
    /* its numbers have twelve digits */
    assert_number_near(sums.loss, consistency_loss[0], LOOSE * 12 + 1e-10);
    assert_number_near(sums.divergence, consistency_divergence[0], LOOSE * 5 + 1e-10);
    for (i = 0; i < 2 * N * D; i++)
        assert_number_near((double)dx[i], consistency_dx[i], LOOSE * 3 + 1e-11);
    for (i = 0; i < V * D; i++)
        assert_number_near((double)l.dw[i], consistency_dw[i], LOOSE * 4 + 1e-11);
    for (i = 0; i < V; i++)
        assert_number_near((double)l.db[i], consistency_db[i], LOOSE + 1e-11);
    end_run(&run);
}

/* Two passes with the same logits: the losses have the bits of one pass, the divergence is 0, and
   the gradient of each is half of what it is alone. */
static void test_equal_pairs(void **state)
{
    enum { N = 40, V = 37, D = 6, PAD = 1 };
    trf__run run = run_of(1, 0);
    trf_real *x = plain_random(2 * N * D, 2), *w = plain_random(V * D, 1), *dx[2];
    double *losses[2];
    int32_t targets[2 * N];
    trf__sums sums[2];
    int64_t i;
    int paired, rule;
    (void)state;
    memcpy(x + N * D, x, N * D * sizeof *x);
    for (i = 0; i < 2 * N; i++) targets[i] = (int32_t)(i % N % 7 == 3 ? -1 : 2 + i % N % (V - 2));
    for (rule = TRF_SMOOTH_UNIFORM; rule <= TRF_SMOOTH_NO_PAD_KL; rule++) {
        for (paired = 0; paired < 2; paired++) {
            trf__loss l = loss_of(&run, paired ? 2 * N : N, V, D, rule, 0.1, PAD, paired);
            l.x = act(x); l.targets = targets; l.sums = &sums[paired];
            l.w = weight_of(&run, w, V, D, 0);
            dx[paired] = plain_empty(2 * N * D);
            l.dx = act(dx[paired]);
            l.pairs = paired ? N : 0; l.consistency = 7;
            OP(&run, cross_entropy, &l);
            losses[paired] = l.row_loss;
        }
        assert_true(sums[1].divergence == 0);
        assert_memory_equal(losses[1], losses[0], N * sizeof(double));
        assert_memory_equal(losses[1] + N, losses[0], N * sizeof(double));
        assert_number_near(sums[1].loss, sums[0].loss, 1e-13 * sums[0].loss);
        assert_number_near(sums[1].nll, sums[0].nll, 1e-13 * sums[0].nll);
        assert_true(sums[1].correct == sums[0].correct && sums[1].tokens == sums[0].tokens);
        for (i = 0; i < N * D; i++) {
            assert_true(dx[1][i] == dx[1][N * D + i]);
            assert_number_near((double)dx[1][i], (double)dx[0][i] / 2, TIGHT);
        }
    }
    end_run(&run);
}

/* Logits beyond all reason: the loss within 1e-6 of long double, and finite; so are the gradients
   of the logits, which stand in dw, as x is the identity. */
typedef struct extreme { const char *name; double (*logit)(int64_t row, int64_t v); } extreme;
static double one_huge(int64_t row, int64_t v) { return v == row ? 3e38 : -3e38; }
static double signs(int64_t row, int64_t v) { return (row + v) % 2 ? 3e38 : -3e38; }
static double all_huge(int64_t row, int64_t v) { (void)row; (void)v; return 3e38; }
static double all_low(int64_t row, int64_t v) { (void)row; (void)v; return -3e38; }
static double all_equal(int64_t row, int64_t v) { (void)row; (void)v; return 0; }
static double all_equal_far(int64_t row, int64_t v)
{
    (void)v;
    return 12345.678 * (double)(row - 4);
}
static double spread(int64_t row, int64_t v) { return 1e4 * sin((double)(7 * row + 13 * v)); }
static double steps(int64_t row, int64_t v) { return -10.0 * (double)(v * (row + 1)); }

/* x = identity: weight[v][row] is logit v of the row. */
static trf_real *identity_of(int64_t n)
{
    trf_real *x = plain_fill(plain_empty(n * n), n * n, 0);
    int64_t i;
    for (i = 0; i < n; i++) x[i * n + i] = 1;
    return x;
}

/* Pairs of them too: nothing becomes NaN. */
static void check_extreme_pairs(const trf__run *run, const extreme *one, const extreme *other)
{
    enum { ROWS = 9, V = 51, PAD = 50 };
    trf__loss l = loss_of(run, 2 * ROWS, V, 2 * ROWS, TRF_SMOOTH_UNIFORM, 0.1, PAD, 1);
    trf_real *w = plain_empty(V * 2 * ROWS), *dx = plain_empty(4 * ROWS * ROWS);
    int32_t targets[2 * ROWS];
    trf__sums sums;
    int64_t r, v;
    for (r = 0; r < 2 * ROWS; r++) {
        targets[r] = (int32_t)(5 * (r % ROWS));
        for (v = 0; v < V; v++)
            w[v * 2 * ROWS + r] = (trf_real)(r < ROWS ? one : other)->logit(r % ROWS, v);
    }
    l.x = act(identity_of(2 * ROWS));
    l.w = weight_of(run, w, V, 2 * ROWS, 0);
    l.targets = targets; l.sums = &sums;
    l.dx = act(dx);
    l.dw = plain_empty(V * 2 * ROWS); l.first = 1;
    l.pairs = ROWS; l.consistency = 1;
    OP(run, cross_entropy, &l);
    assert_true(trf__is_finite(sums.loss) && trf__is_finite(sums.divergence));
    if (!(sums.divergence > -1e-3 * (1 + sums.loss)))
        fail_msg("%s beside %s: divergence %g", one->name, other->name, sums.divergence);
    for (v = 0; v < V * 2 * ROWS; v++)
        if (!trf__is_finite((double)l.dw[v]))
            fail_msg("%s beside %s: a gradient is %g", one->name, other->name, (double)l.dw[v]);
}

static void test_cross_entropy_extremes(void **state)
{
    enum { ROWS = 9, V = 51, PAD = 50 };
    static const extreme extremes[] = {{"one huge", one_huge},   {"signs", signs},
                                       {"all huge", all_huge},   {"all low", all_low},
                                       {"all equal", all_equal}, {"all equal, far", all_equal_far},
                                       {"spread", spread},       {"steps", steps}};
    trf__run run = run_of(1, 0);
    size_t k;
    int rule, plain;
    int64_t r, v;
    (void)state;
    for (k = 0; k < sizeof extremes / sizeof *extremes; k++)
        for (v = 0; v < (int64_t)(sizeof extremes / sizeof *extremes); v++)
            check_extreme_pairs(&run, &extremes[k], &extremes[v]);
    for (k = 0; k < sizeof extremes / sizeof *extremes; k++)
        for (rule = 0; rule < 4; rule++)
            for (plain = 0; plain < 2; plain++) {
                double e = plain ? 0 : 0.1, z[V], dz[V], q[V];
                trf__loss l = loss_of(&run, ROWS, V, ROWS, rule, e, PAD, 0);
                trf_real *w = plain_empty(V * ROWS);
                int32_t targets[ROWS];
                for (r = 0; r < ROWS; r++) {
                    targets[r] = (int32_t)((5 * r + (int64_t)k) % (V - 1));
                    for (v = 0; v < V; v++) w[v * ROWS + r] = (trf_real)extremes[k].logit(r, v);
                }
                targets[1] = 1;                         /* the huge one */
                l.x = act(identity_of(ROWS));
                l.w = weight_of(&run, w, V, ROWS, 0);
                l.targets = targets;
                l.dx = act(plain_empty(ROWS * ROWS));
                l.dw = plain_empty(V * ROWS); l.first = 1;
                OP(&run, cross_entropy, &l);
                for (r = 0; r < ROWS; r++) {
                    double entropy = plain_wanted(q, rule, e, V, targets[r], PAD), want;
                    for (v = 0; v < V; v++) z[v] = (double)w[v * ROWS + r];
                    want = (double)(plain_loss(dz, z, q, V) - entropy);
                    if (!(fabs(l.row_loss[r] - want) <= 1e-6 * (fabs(want) + entropy)) ||
                        !trf__is_finite(l.row_nll[r]))
                        fail_msg("%s, rule %d, smoothing %g, row %d: loss %.9g, expected %.9g",
                                 extremes[k].name, rule, e, (int)r, l.row_loss[r], want);
                    for (v = 0; v < V; v++)
                        if (!(fabs((double)l.dw[v * ROWS + r] - dz[v]) <= 1e-6))
                            fail_msg("%s, rule %d: gradient of logit %d is %g, expected %g",
                                     extremes[k].name, rule, (int)v, (double)l.dw[v * ROWS + r],
                                     dz[v]);
                }
            }
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>clip */

enum { PIECES = 5 };
static const trf__param_tile pieces[PIECES] = {
    {0, 100, 0, 1}, {112, 16, 0, 0}, {128, 1, 2, 1}, {144, 333, 1, 0}, {480, 47, 2, 1}};
enum { ARENA = 544 };       /* pieces have holes behind them, which stay untouched */

static int piece_of(int64_t i)
{
    int k;
    for (k = 0; k < PIECES; k++)
        if (i >= pieces[k].begin && i < pieces[k].begin + pieces[k].n) return k;
    return -1;
}

/* A step of 40 tokens. NaN in the holes: they are nobody's. */
typedef struct clip_room {
    trf_real *gradients, slots[TRF__TALLIES];
    double partial[PIECES];
    trf__clip_result v;
} clip_room;

static trf__clip clip_of(clip_room *room, double size, double clip_norm)
{
    trf__clip j;
    int64_t i;
    TRF__ZERO(*room);
    room->gradients = plain_random(ARENA, size);
    for (i = 0; i < ARENA; i++) if (piece_of(i) < 0) room->gradients[i] = (trf_real)NAN;
    for (i = 0; i < TRF__TALLIES; i++)
        room->slots[i] = (trf_real)((double)i * (i % 2 ? 1e-9 : 1) + 1e-9);
    room->slots[TRF__TALLY_TOKENS] = 40; room->slots[TRF__TALLY_TOKENS + 1] = 0;
    memset(&room->v, 0x55, sizeof room->v);
    room->v.updates = 7;
    j.clip_result = &room->v;
    j.partial = room->partial;
    j.gradients = room->gradients;
    j.slots = room->slots;
    j.tiles = pieces; j.n_tiles = PIECES; j.clip_norm = clip_norm;
    return j;
}

static uint64_t check_clip(const trf__run *run, double size, double clip_norm)
{
    int mark = plain_used, k;
    clip_room room;
    trf__clip j = clip_of(&room, size, clip_norm);
    const trf__clip_result *v = &room.v;
    double sum = 0, norm, factor;
    uint64_t hash;
    int64_t i;
    OP(run, clip, &j);
    for (k = 0; k < PIECES; k++)
        for (i = 0; i < pieces[k].n; i++) {
            double g = (double)room.gradients[pieces[k].begin + i];
            sum += g / size * (g / size);
        }
    norm = sqrt(sum) * size / 40;
    factor = clip_norm < norm + 1e-6 ? clip_norm / (norm + 1e-6) : 1;
    assert_number_near(v->norm, norm, 1e-14 * norm); /* in double, whatever the numbers are */
    assert_number_near(v->scale, factor / 40, 1e-14 * factor);
    assert_int_equal(v->bad_tile, -1);
    assert_int_equal(v->skipped, norm * factor >= TRF__MAX_GRADIENT);
    assert_int_equal(v->updates, v->skipped ? 7 : 8);
    assert_true(v->sums[0].loss == (double)room.slots[0] + (double)room.slots[1]);
    assert_true(v->sums[0].nll == (double)room.slots[2] + (double)room.slots[3]);
    assert_true(v->sums[0].correct == (double)room.slots[4] + (double)room.slots[5]);
    assert_true(v->sums[0].tokens == 40);
    assert_true(v->sums[1].loss == (double)room.slots[10] + (double)room.slots[11]);
    assert_true(v->sums[1].correct == (double)room.slots[12] + (double)room.slots[13]);
    assert_true(v->sums[1].tokens == (double)room.slots[14] + (double)room.slots[15]);
    assert_true(v->source_tokens == (double)room.slots[8] + (double)room.slots[9]);
    hash = hash_bytes(HASH_START, room.partial, sizeof room.partial);
    hash = hash_bytes(hash, &v->norm, sizeof v->norm);
    plain_release(mark);
    return hash;
}

/* One number that is not finite, anywhere: nothing is updated, and the first tile with one is told.
 */
static void check_skip(const trf__run *run, int64_t at, int64_t also, double bad)
{
    int mark = plain_used;
    clip_room room;
    trf__clip j = clip_of(&room, 3, 0.5);
    room.gradients[at] = room.gradients[also] = (trf_real)bad;
    OP(run, clip, &j);
    assert_int_equal(room.v.skipped, 1);
    assert_int_equal(room.v.bad_tile, piece_of(at));
    assert_int_equal(room.v.updates, 7);
    plain_release(mark);
}

static void test_clip(void **state)
{
    static const double bad[] = {NAN, HUGE_VAL, -HUGE_VAL};
    const double most = TRF__MAX_GRADIENT;
    trf__run run = run_of(1, 1);
    clip_room room;
    trf__clip j;
    int i, k;
    (void)state;
    check_clip(&run, 3, 0.5);                       /* clipped */
    check_clip(&run, 3, 1e5);                       /* not */
    check_clip(&run, 3, TRF_NO_CLIPPING);
    check_clip(&run, 1e-20, 1e-12);
    check_clip(&run, most, 1); /* larger than what could be squared, but clipped */
    check_clip(&run, most * 30, TRF_NO_CLIPPING < most ? 1 : most * 10);        /* too large */
    check_clip(&run, most * 30, most / 2);
    for (i = 0; i < 3; i++)
        for (k = 0; k < PIECES; k++) {
            int64_t first = pieces[k].begin, last = first + pieces[k].n - 1;
            check_skip(&run, first, last, bad[i]);
            check_skip(&run, last, last, bad[i]);
            check_skip(&run, last, pieces[PIECES - 1].begin, bad[i]);
        }
    for (i = 0; i < 3; i++) /* either half of each loss, and the number of tokens */
        for (k = 0; k < 5; k++) {
            static const int at[] = {TRF__TALLY_LOSS, TRF__TALLY_LOSS + 1, TRF__TALLY_SEQUENCE_LOSS,
                                     TRF__TALLY_SEQUENCE_LOSS + 1, TRF__TALLY_TOKENS};
            j = clip_of(&room, 3, 0.5);
            room.slots[at[k]] = (trf_real)(k == 4 ? NAN : bad[i]);
            OP(&run, clip, &j);
            assert_int_equal(room.v.skipped, 1);
            assert_int_equal(room.v.bad_tile, -1);
            assert_int_equal(room.v.updates, 7);
        }
#if defined(TRF_DOUBLE)
    j = clip_of(&room, 1e200, 1); /* squares overflow, though every number is finite */
    OP(&run, clip, &j);
    assert_int_equal(room.v.skipped, 1);
    assert_int_equal(room.v.bad_tile, -1);
#endif
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>adam */

typedef struct adam_case {
    trf_adam_epsilon rule;
    trf_optimizer optimizer;
    double beta1, beta2, epsilon, decay;
} adam_case;

/* One update by the textbook: m' and v' corrected for their bias, epsilon where the rule puts it.
 */
static void textbook_adam(const adam_case *o, double *p, double *m, double *v,
                          const trf_real *gradient, double scale, double rate, int step)
{
    int64_t i;
    for (i = 0; i < ARENA; i++) {
        int k = piece_of(i), decay = k >= 0 && pieces[k].decay;
        double g = (double)gradient[i] * scale, update, c1, c2;
        if (k < 0) continue;
        c1 = 1 - pow(o->beta1, (double)(step - pieces[k].missed));
        c2 = 1 - pow(o->beta2, (double)(step - pieces[k].missed));
        if (decay && o->optimizer == TRF_ADAM) g += o->decay * p[i];
        m[i] = o->beta1 * m[i] + (1 - o->beta1) * g;
        v[i] = o->beta2 * v[i] + (1 - o->beta2) * g * g;
        if (o->rule == TRF_EPSILON_INSIDE) update = m[i] / c1 / sqrt(v[i] / c2 + o->epsilon);
        else if (o->rule == TRF_EPSILON_FAIRSEQ)
            update = sqrt(c2) / c1 * m[i] / (sqrt(v[i]) + o->epsilon);
        else update = m[i] / c1 / (sqrt(v[i] / c2) + o->epsilon);
        if (decay && o->optimizer == TRF_ADAMW) p[i] -= rate * o->decay * p[i];
        p[i] -= rate * update;
    }
}

/* Five updates, and steps that are skipped between them: then nothing moves. */
static uint64_t check_adam(const trf__run *run, const adam_case *t)
{
    int mark = plain_used, step;
    trf_real *p = plain_random(ARENA, 1), *m = plain_fill(plain_empty(ARENA), ARENA, 0);
    trf_real *v = plain_fill(plain_empty(ARENA), ARENA, 0);
    double *want_p = plain_doubles(p, ARENA), *want_m = plain_zeros(ARENA),
           *want_v = plain_zeros(ARENA);
    trf__run other = *run;
    trf__now rate = now;
    trf__clip_result verdict;
    trf__adam a;
    uint64_t hash;
    TRF__ZERO(verdict);
    TRF__ZERO(a);
    other.now = &rate;
    a.p = p; a.m = m; a.v = v; a.tiles = pieces; a.n_tiles = PIECES; a.clip_result = &verdict;
    a.beta1 = t->beta1; a.beta2 = t->beta2; a.epsilon = t->epsilon; a.weight_decay = t->decay;
    a.optimizer = (int)t->optimizer; a.epsilon_rule = (int)t->rule;
    for (step = 1; step <= 5; step++) {
        trf_real *g = plain_random(ARENA, 2);
        rate.learning_rate = 0.2 / step;
        verdict.scale = 0.4 + 0.1 * step;
        verdict.updates = step + 2;                     /* of which pieces have missed some */
        a.g = g;
        OP(&other, adam, &a);
        textbook_adam(t, want_p, want_m, want_v, g, verdict.scale, rate.learning_rate, step + 2);
        hash = hash_of(hash_of(hash_of(HASH_START, p, ARENA), m, ARENA), v, ARENA);
        verdict.skipped = 1;
        ASIDE(&other, adam, &a);
        verdict.skipped = 0;
        assert_true(hash_of(hash_of(hash_of(HASH_START, p, ARENA), m, ARENA), v, ARENA) == hash);
    }
    assert_all_near("p", p, want_p, ARENA, TIGHT);
    assert_all_near("m", m, want_m, ARENA, TIGHT);
    assert_all_near("v", v, want_v, ARENA, TIGHT);
    plain_release(mark);
    return hash;
}

static adam_case adam_of(int rule, trf_optimizer optimizer)
{
    adam_case t;
    t.rule = (trf_adam_epsilon)rule; t.optimizer = optimizer;
    t.beta1 = 0.9; t.beta2 = 0.98; t.epsilon = 0.05; t.decay = 0.3;
    return t;
}

static void test_adam(void **state)
{
    trf__run run = run_of(1, 1);
    int rule, k;
    (void)state;
    for (rule = TRF_EPSILON_OUTSIDE; rule <= TRF_EPSILON_INSIDE; rule++)
        for (k = 0; k < 4; k++) {
            adam_case t = adam_of(rule, k % 2 ? TRF_ADAMW : TRF_ADAM);
            if (k > 1) { t.beta1 = k == 2 ? 0 : 0.3; t.beta2 = k == 2 ? 0 : 0.4; }
            check_adam(&run, &t);
        }
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>top */

typedef struct top_case { int64_t rows, vocab, n; int levels, banned, only, packed, ends; } top_case;

/* levels: how many different logits there are, so that few make many ties; 0: any number. ends: how
   many there are besides EOS. */
static uint64_t check_top(const trf__run *run, const top_case *t)
{
    enum { D = 7 };
    int mark = plain_used;
    int64_t rows = t->rows, vocab = t->vocab, n = t->n, d = t->levels ? rows : D, r, v, i;
    trf_real *z = plain_empty(rows * vocab), *w = plain_random(vocab * d, 3),
             *b = plain_random(vocab, 3);
    double *got = (double *)plain_work((size_t)(rows * n) * sizeof *got);
    double *rest = (double *)plain_work((size_t)(rows * (1 + t->ends)) * sizeof *rest);
    int32_t *ids = (int32_t *)plain_work((size_t)(rows * n) * sizeof *ids);
    int32_t *wanted = (int32_t *)plain_work((size_t)rows * sizeof(int32_t));
    char *taken = (char *)plain_work((size_t)vocab);
    uint64_t hash;
    trf__top j;
    trf__linear projection;
    for (r = 0; r < rows; r++)
        wanted[r] = r % 3 == 0 ? TRF__ANY : r % 3 == 1 ? (int32_t)plain_below(vocab) : TRF__NOT_EOS;
    TRF__ZERO(j);
    j.eos = (int32_t)plain_below(vocab);
    for (; j.ends.n < t->ends; j.ends.n++) j.ends.ids[j.ends.n] = (int32_t)plain_below(vocab);
    if (t->levels) for (i = 0; i < vocab * d; i++) w[i] = (trf_real)plain_below(t->levels);
    else if (t->only) b[t->ends ? j.ends.ids[0] : j.eos] = 30;      /* the rest is far below it */
    j.ids = ids; j.log_probabilities = got; j.rows = rows; j.vocab = vocab; j.d = d; j.n = n;
    j.work = plain_work(run->backend->top_scratch(&run->device, rows, vocab, j.n));
    j.x = act(t->levels ? identity_of(rows) : plain_random(rows * D, 1));
    j.w = weight_of(run, w, vocab, d, t->packed);
    j.bias = t->levels ? NULL : b;
    j.banned[0] = t->banned > 0 ? (int32_t)(vocab - 1) : -1;
    j.banned[1] = t->banned > 1 ? 0 : -1;
    j.banned[2] = t->banned > 2 ? (int32_t)(vocab / 2) : -1;
    j.only = t->only ? wanted : NULL;
    j.rest = t->packed ? NULL : rest;
    OP(run, top, &j);
    projection = linear_of(z, trf__from(j.x), j.w, j.bias, rows, vocab, d);
    ASIDE(run, linear, &projection);
    for (r = 0; r < rows; r++) {
        const trf_real *row = z + r * vocab;
        double sum = 0, all = 0;
        memset(taken, 0, (size_t)vocab);
        for (v = 0; v < vocab; v++) {
            int out = t->only && wanted[r] == TRF__NOT_EOS && v == j.eos;
            for (i = 0; t->only && wanted[r] == TRF__NOT_EOS && i < t->ends; i++)
                out |= v == j.ends.ids[i];
            all += exp((double)row[v]);
            sum += out ? 0 : exp((double)row[v]);
            taken[v] = out || v == j.banned[0] || v == j.banned[1] || v == j.banned[2];
        }
        if (j.rest) assert_number_near(rest[r], log(sum) - log(all), TIGHT * 10);
        if (t->only && wanted[r] >= 0) for (v = 0; v < vocab; v++) taken[v] = v != wanted[r];
        for (i = 0; i < n; i++) { /* the best of those that are left, the lowest id of equals */
            int64_t choice = -1;
            for (v = 0; v < vocab; v++)
                if (!taken[v] && (choice < 0 || row[v] > row[choice])) choice = v;
            assert_int_equal(ids[r * n + i], choice);
            if (choice < 0) { assert_true(got[r * n + i] == -HUGE_VAL); continue; }
            assert_number_near(got[r * n + i], (double)row[choice] - log(sum), TIGHT * 10);
            taken[choice] = 1;
        }
    }
    hash = hash_bytes(HASH_START, ids, (size_t)(rows * n) * sizeof *ids);
    hash = hash_bytes(hash, got, (size_t)(rows * n) * sizeof *got);
    plain_release(mark);
    return hash;
}

static void test_top(void **state)
{
    static const int64_t vocabs[] = {
        3, 15, 16, 17, 64, 211, 2 * TRF__TOP_COLUMNS + 1}; /* one slice, and three */
    trf__run run = run_of(1, 1);
    top_case t;
    int i;
    (void)state;
    for (i = 0; i < 7; i++)
        for (t.banned = 0; t.banned < 4; t.banned++)
            for (t.only = 0; t.only < 2; t.only++) {
                t.vocab = vocabs[i]; t.packed = i % 2;
                t.rows = 6;
                t.ends = t.banned % 3;
                t.n = 1; t.levels = 0; check_top(&run, &t);
                t.n = 8; check_top(&run, &t);
                t.n = 5; t.levels = 3; check_top(&run, &t);
                t.n = trf__min64(t.vocab, 300) + 2; t.levels = 4; check_top(&run, &t);
            }
    end_run(&run);
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
            trf__loss l = loss_of(&run, 1, V, 1, TRF_SMOOTH_UNIFORM, 0.1, -1, 0);
            trf_real *w = plain_random(V, 1), one = 1, dx = 0;
            int32_t target = 5, ids[4];
            double best[4];
            trf__top t;
            int i;
            w[place] = (trf_real)bad[k];
            l.x = act(&one);
            l.w = weight_of(&run, w, V, 1, 0);
            l.targets = &target;
            l.dx = act(&dx);
            OP(&run, cross_entropy, &l);
            assert_false(trf__is_finite(l.row_loss[0]));
            assert_false(trf__is_finite(l.row_nll[0]));
            assert_false(trf__is_finite((double)dx));
            TRF__ZERO(t);
            t.ids = ids; t.log_probabilities = best; t.x = l.x; t.w = l.w;
            t.work = plain_work(run.backend->top_scratch(&run.device, 1, V, 4));
            t.rows = t.d = 1; t.vocab = V; t.n = 4; t.banned[0] = t.banned[1] = t.banned[2] = -1;
            OP(&run, top, &t);
            for (i = 0; i < 4; i++) assert_false(trf__is_finite(best[i]));
        }
    end_run(&run);
}

/* Several models, one after another, in double; then the best tokens of what that gives. */
static uint64_t check_mix(const trf__run *run, int64_t rows, int64_t vocab, int models, int rule, int packed)
{
    enum { D = 7, BEST = 4 };
    int mark = plain_used, k, i;
    trf_real *sum = plain_empty(rows * vocab), *logits = plain_empty(rows * vocab), *z = plain_empty(rows * vocab);
    double *want = (double *)plain_work((size_t)(rows * vocab) * sizeof *want);
    double *got = (double *)plain_work((size_t)(rows * BEST) * sizeof *got);
    int32_t *ids = (int32_t *)plain_work((size_t)(rows * BEST) * sizeof *ids);
    char *taken = (char *)plain_work((size_t)vocab);
    int64_t r, v;
    uint64_t hash;
    trf__top t;
    for (k = 0; k < models; k++) {
        trf_real *w = plain_random(vocab * D, k == 1 ? 20 : 3);         /* the second is very sure */
        trf__mix j;
        trf__linear projection;
        j.sum = sum; j.logits = logits; j.first = k == 0;
        j.x = act(plain_random(rows * D, 1));
        j.w = weight_of(run, w, vocab, D, packed);
        j.bias = k % 2 ? plain_random(vocab, 1) : NULL;
        j.rows = rows; j.vocab = vocab; j.d = D; j.rule = rule;
        j.weight = (k + 1) / (models * (models + 1) / 2.0);
        OP(run, mix, &j);
        projection = linear_of(z, trf__from(j.x), j.w, j.bias, rows, vocab, D);
        ASIDE(run, linear, &projection);
        for (r = 0; r < rows; r++) {
            const trf_real *row = z + r * vocab;
            double most = (double)row[0], all = 0;
            for (v = 0; v < vocab; v++) most = (double)row[v] > most ? (double)row[v] : most;
            for (v = 0; v < vocab; v++) all += exp((double)row[v] - most);
            for (v = 0; v < vocab; v++) {
                double l = (double)row[v] - most - log(all), *to = &want[r * vocab + v], a = *to;
                if (rule == TRF_ENSEMBLE_GEOMETRIC) *to = (k ? a : 0) + j.weight * l;
                else {
                    l += log(j.weight);
                    *to = !k ? l : a > l ? a + log1p(exp(l - a)) : l + log1p(exp(a - l));
                }
            }
        }
    }
    for (v = 0; v < rows * vocab; v++) assert_number_near(sum[v], want[v], TIGHT * 10);
    hash = hash_bytes(HASH_START, sum, (size_t)(rows * vocab) * sizeof *sum);
    TRF__ZERO(t);
    t.mixed = sum; t.scores = rule == TRF_ENSEMBLE_GEOMETRIC;
    t.log_probabilities = got; t.ids = ids; t.rows = rows; t.vocab = vocab; t.n = BEST; t.d = D;
    t.banned[0] = 0; t.banned[1] = t.banned[2] = -1;
    t.work = plain_work(run->backend->top_scratch(&run->device, rows, vocab, BEST));
    OP(run, top, &t);
    for (r = 0; r < rows; r++) {
        const double *row = want + r * vocab;
        memset(taken, 0, (size_t)vocab);
        for (i = 0; i < BEST; i++) {
            int32_t id = ids[r * BEST + i];
            assert_true(id > 0 && id < vocab && !taken[id]);
            taken[id] = 1;
            assert_number_near(got[r * BEST + i], row[id], TIGHT * 10);
            for (v = 1; v < vocab; v++) assert_true(taken[v] || row[v] <= row[id] + TIGHT * 10 * (1 - row[id]));
        }
    }
    hash = hash_bytes(hash, ids, (size_t)(rows * BEST) * sizeof *ids);
    plain_release(mark);
    return hash;
}

/* Logits of minus infinity are tokens of probability 0; a NaN of one model is one of all. */
static void test_mix(void **state)
{
    static const int64_t vocabs[5] = {5, 16, 33, 211, TRF__TOP_COLUMNS + 1};
    trf__run run = run_of(1, 1);
    int i, models, rule;
    (void)state;
    for (i = 0; i < 5; i++)
        for (models = 1; models <= 4; models++)
            for (rule = 0; rule < 2; rule++) check_mix(&run, 1 + 2 * i, vocabs[i], models, rule, i % 2);
    for (i = 0; i < 8; i++) {           /* of the first model, of the second, of both */
        enum { V = 20 };
        trf_real sum[V], logits[V], one = 1;
        trf__mix j;
        TRF__ZERO(j);
        j.sum = sum; j.logits = logits; j.x = act(&one);
        j.rows = j.d = 1; j.vocab = V; j.weight = 0.5; j.rule = i / 4;
        for (models = 0; models < 2; models++) {
            trf_real *w = plain_random(V, 1);
            if (i % 4 == 3) { if (models) w[7] = (trf_real)NAN; }
            else if ((i % 4 + 1) & (1 + models)) w[7] = -(trf_real)HUGE_VAL;
            j.w = weight_of(&run, w, V, 1, 0);
            j.first = models == 0;
            OP(&run, mix, &j);
        }
        if (i % 4 == 3) { for (rule = 0; rule < V; rule++) assert_false(trf__is_finite((double)sum[rule])); }
        else if (i % 4 == 2 || i / 4) assert_true((double)sum[7] == -HUGE_VAL);
        else assert_true(sum[7] < 0 && trf__is_finite((double)sum[7]));
    }
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   >>ancestors */

static uint64_t check_ancestors(const trf__run *run, int64_t rows, int64_t stride, int64_t at,
                                int64_t first_slot)
{
    int mark = plain_used;
    size_t bytes = (size_t)(rows * stride) * sizeof(int32_t);
    int32_t *from = (int32_t *)plain_work(bytes), *to = (int32_t *)plain_work(bytes);
    int32_t *parents = (int32_t *)plain_work((size_t)rows * sizeof *parents);
    int32_t *position = (int32_t *)plain_work((size_t)rows * sizeof *position);
    int32_t *slots = (int32_t *)plain_work((size_t)rows * sizeof *slots);
    uint64_t hash;
    trf__backpointers j;
    int64_t r, i;
    for (r = 0; r < rows; r++) {
        parents[r] = (int32_t)plain_below(rows);
        position[r] = (int32_t)(r == 1 ? at / 2 : at); /* a row may be nobody's, or young */
        slots[r] = (int32_t)(first_slot + r);
    }
    for (i = 0; i < rows * stride; i++) { from[i] = (int32_t)plain_below(1000); to[i] = -5; }
    j.to = to; j.from = from; j.parents = parents; j.position = position; j.slots = slots;
    j.rows = rows; j.stride = stride;
    ASIDE(run, backpointers, &j);
    for (r = 0; r < rows; r++)
        for (i = 0; i < stride; i++)
            assert_int_equal(to[r * stride + i], i < position[r] ? from[parents[r] * stride + i]
                                               : i == position[r] ? first_slot + r : -5);
    hash = hash_bytes(HASH_START, to, bytes);
    plain_release(mark);
    return hash;
}

static uint64_t check_remember(const trf__run *run, int64_t rows, int64_t width, int64_t slots)
{
    int mark = plain_used;
    trf_real *fresh = (trf_real *)plain_work((size_t)(rows * width) * sizeof *fresh);
    trf_real *cache = (trf_real *)plain_work((size_t)(slots * width) * sizeof *cache);
    int32_t *at = (int32_t *)plain_work((size_t)rows * sizeof *at);
    trf__append_kv j;
    uint64_t hash;
    int64_t r, c;
    for (r = 0; r < rows * width; r++) fresh[r] = (trf_real)plain_below(1000);
    for (r = 0; r < slots * width; r++) cache[r] = -5;
    for (r = 0; r < rows; r++)
        at[r] = r % 5 == 3 ? -1 : (int32_t)(r * 7 % slots); /* some are nobody's */
    j.cache = (trf__act *)(void *)cache;
    j.fresh = (const trf__act *)(const void *)fresh;
    j.slots = at;
    j.rows = rows; j.width = width; j.area = 0;
    ASIDE(run, append_kv, &j);
    for (r = 0; r < rows; r++)
        for (c = 0; c < width && at[r] >= 0; c++) {
            assert_true(cache[at[r] * width + c] == fresh[r * width + c]);
            cache[at[r] * width + c] = -5;
        }
    for (r = 0; r < slots * width; r++) assert_true(cache[r] == -5);
    hash = hash_bytes(HASH_START, fresh, (size_t)(rows * width) * sizeof *fresh);
    plain_release(mark);
    return hash;
}

/* Searches of several sentences beside the same ones, each driven by itself: their beams are equal
   after every token, and each row is told what its beam says; the places behind them are empty.
   Half of them arrive when some tokens have been read; the cache holds fewer tokens than are read
   in all. */
static uint64_t check_advance(const trf__run *run, int32_t sentences, int beam, int sources)
{
    enum { LIMIT = 6, VOCAB_OF = 9, COLUMNS = 4, LATE = 2 };
    int mark = plain_used;
    int64_t places = (int64_t)sentences * beam + 3, wanted = 2 * beam + 1, r;
    trf_search search = trf_search_defaults();
    trf__beam *alone;
    trf__arrival *arrivals;
    trf__progress progress = { 0, 0, 0, 1 };
    trf__reorder a;
    double *p;
    int32_t *found, *lined, n_lined = 0, arrived = 0, i, k, at = 0, token;
    uint64_t hash = HASH_START;
    search.beam = search.n_best = beam;
    search.candidates = 2;
    TRF__ZERO(a);
    a.beams = (trf__beam *)plain_work((size_t)sentences * sizeof *a.beams);
    alone = (trf__beam *)plain_work((size_t)sentences * sizeof *alone);
    arrivals = (trf__arrival *)plain_work((size_t)sentences * sizeof *arrivals);
    lined = (int32_t *)plain_work((size_t)sentences * sizeof *lined);
    a.sources = (trf__span *)plain_work((size_t)sentences * sizeof *a.sources);
    p = (double *)plain_work((size_t)(places * wanted) * sizeof *p);
    found = (int32_t *)plain_work((size_t)(places * wanted) * sizeof *found);
    a.live = (int32_t *)plain_work((size_t)sentences * sizeof(int32_t));
    a.starts = (int32_t *)plain_work((size_t)sentences * sizeof(int32_t));
    a.ids = (int32_t *)plain_work((size_t)places * sizeof(int32_t));
    a.parents = (int32_t *)plain_work((size_t)places * sizeof(int32_t));
    a.position = (int32_t *)plain_work((size_t)places * sizeof(int32_t));
    a.only = (int32_t *)plain_work((size_t)places * sizeof(int32_t));
    a.slots = (int32_t *)plain_work((size_t)places * sizeof(int32_t));
    a.self = (trf__span *)plain_work((size_t)places * sizeof(trf__span));
    a.cross = sources ? (trf__span *)plain_work((size_t)(sentences + 2) * sizeof(trf__span)) : NULL;
    for (i = 0; i < sentences; i++) {
        int32_t limit = i % 4 == 2 ? 0 : LIMIT - i % 3;     /* some are over before they begin */
        size_t bytes = trf__beam_layout(&alone[i], &search, NULL, LIMIT + 1, NULL);
        TRF__ZERO(arrivals[i]);
        arrivals[i].place = sentences - 1 - i;
        arrivals[i].source->key = 7 * i;
        arrivals[i].source->n_key = 3 + i;
        trf__beam_layout(&arrivals[i].beam, &search, NULL, LIMIT + 1, plain_work(bytes));
        trf__beam_layout(&alone[i], &search, NULL, LIMIT + 1, plain_work(bytes));
        trf__beam_sentence(&arrivals[i].beam, limit, NULL, 0, 2, VOCAB_OF);
        trf__beam_sentence(&alone[i], limit, NULL, 0, 2, VOCAB_OF);
        arrivals[i].beam.start = alone[i].start = 1 + i % 3;
    }
    a.progress = &progress;
    a.log_probabilities = p; a.found = found; a.wanted = wanted; a.rows = places;
    a.models = 1; a.places = sentences + 2;
    a.n_cross = sources ? a.places : 0; a.n_rows = places; a.columns = COLUMNS;
    for (token = -1; token < 0 || progress.rows > 0 || arrived < sentences; token++) {
        int32_t row = 0, place = 0, before = 0, old = n_lined;
        a.begin = token == -1 ? (sentences + 1) / 2 : token == LATE ? sentences - arrived : 0;
        if (token == LATE && a.begin == 0) continue;
        a.arrivals = arrivals + arrived;
        for (r = 0; r < places * wanted; r++) {
            p[r] = r % wanted ? p[r - 1] - 0.25 * (double)plain_below(9)
                              : -0.5 * (double)plain_below(9);
            found[r] = (int32_t)((r / wanted * 5 + r % wanted) % VOCAB_OF);
        }
        ASIDE(run, reorder, &a);
        for (i = 0; i < a.begin; i++) {
            trf__beam_open(&alone[arrived]);
            lined[n_lined++] = arrived++;
        }
        if (!a.begin) at = (at + 1) % COLUMNS;
        assert_int_equal(progress.at, at);
        for (k = 0; k < n_lined; k++) {
            trf__beam *b = &alone[lined[k]];
            const trf__beam *there = &a.beams[sentences - 1 - lined[k]];
            int32_t was = b->live, fresh = a.begin && k >= old, j;
            if (!a.begin)
                trf__beam_advance(b, p + before * wanted, NULL, NULL, found + before * wanted, wanted,
                                  trf__beam_wanted(b).count, 0);
            assert_int_equal(there->live, b->live);
            assert_int_equal(there->n_finished, b->n_finished);
            before += was;
            for (j = 0; j < b->live; j++, row++) {
                assert_int_equal(a.ids[row], fresh || b->n == 0 ? b->start : trf__beam_tokens(b)[j]);
                if (!a.begin)
                    assert_int_equal(a.parents[row], before - was + trf__beam_parents(b)[j]);
                if (fresh) assert_int_equal(a.parents[row], 0);
                assert_int_equal(a.position[row], b->n);
                assert_int_equal(a.slots[row], at * places + row);
                assert_int_equal(a.only[row], trf__beam_wanted(b).forced);
                assert_true(a.self[row].query == row && a.self[row].n_query == 1 &&
                            a.self[row].n_key == b->n + 1);
            }
            if (b->live == 0) continue;
            assert_int_equal(a.live[place], sentences - 1 - lined[k]);
            assert_int_equal(a.starts[place], row - b->live);
            if (sources) {
                assert_true(a.cross[place].query == row - b->live &&
                            a.cross[place].n_query == b->live);
                assert_true(a.cross[place].key == 7 * lined[k] &&
                            a.cross[place].n_key == 3 + lined[k]);
            }
            lined[place++] = lined[k];
        }
        n_lined = place;
        assert_true(progress.rows == row && progress.n_live == place);
        for (r = row; r < places; r++)
            assert_true(a.ids[r] == -1 && a.slots[r] == -1 && a.self[r].n_key == 0 &&
                        a.position[r] == 0);
        for (r = place; r < a.n_cross; r++) assert_int_equal(a.cross[r].n_query, 0);
        hash = hash_bytes(hash, a.ids, (size_t)places * sizeof(int32_t));
        assert_true(token <= LATE + LIMIT + 1);
    }
    plain_release(mark);
    return hash;
}

static void test_advance(void **state)
{
    trf__run run = run_of(1, 1);
    (void)state;
    check_advance(&run, 1, 1, 1);
    check_advance(&run, 5, 3, 1);
    check_advance(&run, 9, 2, 0);
    check_remember(&run, 9, 5, 70);
    check_remember(&run, 0, 5, 1);
    end_run(&run);
}

static void test_ancestors(void **state)
{
    trf__run run = run_of(1, 1);
    trf__backpointers j;
    int32_t to[4] = {-5, -5, -5, -5}, position[2] = {0, 0}, slots[2] = {8, 9}, row;
    trf_real cache[6] = {0, 0, 0, 0, 0, 0}, fresh[6] = {1, 2, 3, 4, 5, 6};
    trf__append_kv kept;
    (void)state;
    check_ancestors(&run, 5, 9, 4, 100);
    check_ancestors(&run, 1, 1, 0, 3);
    check_ancestors(&run, 7, 6, 5, 1 << 20);
    j.to = to;
    j.from = NULL;
    j.parents = NULL;
    j.position = position;
    j.slots = slots;
    j.rows = j.stride = 2;
    ASIDE(&run, backpointers, &j);               /* the first token has none */
    assert_true(to[0] == 8 && to[1] == -5 && to[2] == 9 && to[3] == -5);
    for (row = 0; row < 3; row++)
        to[row] = row == 1 ? -1 : 2 - row; /* the middle one is nobody's */
    kept.cache = (trf__act *)(void *)cache;
    kept.fresh = (const trf__act *)(const void *)fresh;
    kept.slots = to;
    kept.rows = 3; kept.width = 2; kept.area = 0;
    ASIDE(&run, append_kv, &kept);
    assert_true(cache[4] == 1 && cache[5] == 2 && cache[2] == 0 && cache[3] == 0 && cache[0] == 5 &&
                cache[1] == 6);
    end_run(&run);
}

/* -----------------------------------------------------------------------------------------------
   The verbs of the CPU */

static void test_memory_verbs(void **state)
{
    static const unsigned char zeros[64] = {0};
    trf__run run = run_of(1, 1);
    const trf__backend *cpu = run.backend;
    trf_real numbers[5] = {1, 2, 3, 4, 5}, fetched[5];
    kit_memory memory;
    unsigned char *there;
    trf_hooks none = run.hooks;
    (void)state;
    run.hooks = kit_hooks(&memory);
    there = (unsigned char *)cpu->alloc(&run, 64);
    assert_int_equal(memory.live, 64);
    assert_true(trf__act_at(&run, act(numbers), 3) == act(numbers + 3));
    assert_null(trf__act_at(&run, NULL, 3));
    cpu->zero(&run, there, 64);
    assert_memory_equal(there, zeros, 64);
    cpu->upload(&run, there, numbers, sizeof numbers);
    cpu->copy(&run, there + 48, there, sizeof numbers / 5);
    cpu->download(&run, fetched, there, sizeof fetched);
    assert_memory_equal(fetched, numbers, sizeof numbers);
    assert_memory_equal(there + 48, numbers, sizeof numbers / 5);
    cpu->upload(&run, NULL, NULL, 0);
    cpu->fetch(&run, fetched, trf__act_at(&run, act(numbers), 1), 2);
    assert_true(fetched[0] == 2 && fetched[1] == 3 && fetched[2] == 3);
    assert_int_equal(cpu->sync(&run, NULL), TRF_OK);
    cpu->release(&run, there, 64);
    memory.fail_at = memory.calls + 1;
    assert_null(cpu->alloc(&run, 64));
    assert_int_equal(memory.live, 0);
    run.hooks = none;
    assert_int_equal(cpu->on_host, 1);
    assert_int_equal(cpu->element(&run.device), sizeof(trf_real));
    assert_int_equal(cpu->packs(&run.device, 0), TRF__PACKS_MATRICES);
    assert_int_equal(cpu->packs(&run.device, 1), TRF__PACKS_NOTHING);
    assert_int_equal(cpu->packed_bytes(TRF__FLOAT32, 17, 10), 320 * sizeof(trf_real));
    end_run(&run);
}

/* The state takes what it says. Growing keeps the rest, shrinking does nothing, and a failure
   changes nothing. */
static void test_state_verbs(void **state)
{
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    trf_device device;
    trf__run run;
    trf__cpu before;
    trf_error err;
    (void)state;
    device = trf_device_default();
    device.threads = 3;
    run = trf__run_on(&device, &hooks);
    assert_null(run.state);
    memory.fail_at = 1;
    assert_int_equal(run.backend->open(&run, &err), TRF_E_NOMEM);
    assert_null(run.state);
    assert_int_equal(memory.live, 0);
    memory.fail_at = 0;
    assert_int_equal(run.backend->open(&run, &err), TRF_OK);
    assert_int_equal(run.backend->reserve(&run, 10, 8, 0, 0, &err), TRF_OK);
    assert_int_equal(memory.live, run.backend->state_bytes(&run, 10, 8, 0, 0));
    before = *trf__cpu_of(&run);
    memory.fail_at = memory.calls + 1;
    assert_int_equal(run.backend->reserve(&run, 2000, 64, 0, 0, &err), TRF_E_NOMEM);
    assert_memory_equal(run.state, &before, sizeof before);
    memory.fail_at = 0;
    assert_int_equal(run.backend->reserve(&run, 2, 1, 0, 0, &err), TRF_OK);
    assert_memory_equal(run.state, &before, sizeof before);
    assert_int_equal(run.backend->reserve(&run, 2000, 64, 0, 0, &err), TRF_OK);
    assert_int_equal(run.backend->reserve(&run, 1, 1, 5000, 0, &err), TRF_OK);
    assert_int_equal(memory.live, run.backend->state_bytes(&run, 2000, 64, 5000, 0));
    assert_true(trf__cpu_of(&run)->threads == before.threads &&
                trf__cpu_of(&run)->gate == before.gate);
    end_run(&run);
    assert_int_equal(memory.live, 0);
    run.backend->close(&run);                       /* closed already: nothing happens */
}

/* -----------------------------------------------------------------------------------------------
   Threads: every op of the table, three tiles or more, on 1 to 8 workers. A sample checks its op
   against the plain loops again, and returns a hash of everything that it wrote. */

static const attention_case shared_attention = {
    2, 20, 1, 1, 4, {{40, 40}, {7, 7}, {33, 33}, {1, 1}}, 0.1, 1, 0, BIAS_NONE, 0};
static const norm_case shared_norm = {200, 50, 0, 1, 1, 1, 1, 0, 0.1, 1e-5};
static const int64_t shared_dw[][3] = {{100, 130, 40}, {70, 20, 300}, {33, 5, 5}};
static const loss_case shared_loss = {530, 1040, 6, 0, 0.1, 1, 3, 0, 0, 0, 0};
static const top_case shared_top = {200, 100, 6, 0, 1, 0, 0};

static uint64_t sample_embed(const trf__run *run) { return check_embed(run, 200, 50, 1, 2, 0.1, 0); }
static uint64_t sample_embed_gradient(const trf__run *run)
{
    return check_embed(run, 100, 150, 1, 2, 0.2, 3);
}
static uint64_t sample_linear(const trf__run *run)
{
    uint64_t hash =
        check_linear(run, 200, 45, 33, 1, 1, 0) ^ check_linear(run, 300, 20, 300, 0, 0, 0);
    return hash ^ check_linear(run, 4, 400, 30, 1, 1, 16);
}
static uint64_t sample_linear_dx(const trf__run *run)
{
    return check_linear_dx(run, 200, 45, 33, 0);
}
static uint64_t sample_linear_dw(const trf__run *run) { return check_linear_dw(run, shared_dw, 3); }
static uint64_t sample_activate(const trf__run *run)
{
    return check_activate(run, 200, 140, TRF_GELU, 0, 0.1) ^ check_activate(run, 90, 140, TRF_SILU, 1, 0.1);
}
static uint64_t sample_activate_gradient(const trf__run *run)
{
    return check_activate(run, 100, 140, TRF_GELU_TANH, 1, 0.2);
}
static uint64_t sample_attention(const trf__run *run)
{
    return check_attention(run, &shared_attention);
}
static uint64_t sample_attention_gradient(const trf__run *run)
{
    attention_case t = shared_attention;
    uint64_t hash;
    t.together = t.causal = 0;
    hash = check_attention(run, &t);
    t.shared = 2;
    t.bias = BIAS_TABLE;
    return hash ^ check_attention(run, &t);
}
static uint64_t sample_rotate(const trf__run *run)
{
    return check_rotate(run, 200, 3, 40, 34, TRF_ROTARY_HALVES) ^
        check_rotate(run, 90, 3, 40, 34, TRF_ROTARY_INTERLEAVED);
}
static uint64_t sample_scale(const trf__run *run) { return check_scale(run, 50000); }
static uint64_t sample_accumulate(const trf__run *run) { return check_accumulate(run, 50000); }
static uint64_t sample_average(const trf__run *run) { return check_average(run, 50000); }
static uint64_t sample_attention_weights(const trf__run *run)
{
    return check_attention_weights(run, 100, 77, 0, 1);
}
static uint64_t sample_add_norm(const trf__run *run) { return check_add_norm(run, &shared_norm); }
static uint64_t sample_norm_gradient(const trf__run *run)
{
    norm_case t = shared_norm;
    t.rule = 1; t.ds_in = 0; t.first = 1;
    return check_add_norm(run, &t);
}
static uint64_t sample_pool(const trf__run *run) { return check_pool(run, 50, INT32_MAX); }
static uint64_t sample_pool_gradient(const trf__run *run) { return check_pool(run, 33, 3); }
static uint64_t sample_cross_entropy(const trf__run *run)
{
    return check_cross_entropy(run, &shared_loss) ^ check_pairs(run, &shared_loss, 2);
}
static uint64_t sample_top(const trf__run *run) { return check_top(run, &shared_top); }
static uint64_t sample_mix(const trf__run *run) { return check_mix(run, 90, 300, 3, TRF_ENSEMBLE_ARITHMETIC, 1); }
static uint64_t sample_backpointers(const trf__run *run)
{
    return check_ancestors(run, 40, 30, 20, 7);
} /* no tiles */
static uint64_t sample_append_kv(const trf__run *run) { return check_remember(run, 40, 8, 400); }
static uint64_t sample_reorder(const trf__run *run) { return check_advance(run, 9, 4, 1); }
static uint64_t sample_pack(const trf__run *run) { return check_pack(run, 700, 9, 32); }
static uint64_t sample_clip(const trf__run *run) { return check_clip(run, 3, 0.5); }
static uint64_t sample_adam(const trf__run *run)
{
    adam_case t = adam_of(TRF_EPSILON_OUTSIDE, TRF_ADAMW);
    return check_adam(run, &t);
}

typedef struct sample { const char *name; uint64_t (*run)(const trf__run *run); } sample;
static const sample samples[] = {       /* an op without a sample does not compile */
#define X(name, type) {#name, sample_##name},
    TRF__OPS(X)
#undef X
    {"linear_dw", sample_linear_dw}
};

static KIT_UNUSED void same_bits(int blas)
{
    size_t k;
    int threads;
    for (k = 0; k < sizeof samples / sizeof *samples; k++) {
        uint64_t alone = 0, got;
        for (threads = 1; threads <= 8; threads += kit_all() || threads < 3 ? 1 : 5) {
            trf__run run = run_of(threads, blas);
            sharing = threads > 1;
            plain_seed = 99;
            got = samples[k].run(&run);
            sharing = 0;
            end_run(&run);
            if (threads == 1) alone = got;
            if (got != alone)
                fail_msg("%s: %d threads give other bits than one", samples[k].name, threads);
        }
    }
}

static void test_same_bits_for_any_threads(void **state)
{
    (void)state;
#if TRF__THREADS
    same_bits(0);
#else
    skip();
#endif
}

static void test_same_bits_for_any_threads_with_blas(void **state)
{
    (void)state;
#if TRF__THREADS && !defined(TRF_NO_CBLAS)
    {
        trf__run run = run_of(2, 1);
        int ready = trf__cpu_of(&run)->blas;
        end_run(&run);
        if (ready) { same_bits(1); return; }
    }
#endif
    skip();
}

static void test_workers_have_their_own_scratch(void **state)
{
    (void)state;
#if TRF__THREADS
    {
        trf__run run = run_of(3, 0);
        size_t room = trf__cpu_of(&run)->work_bytes;
        sharing = watching = 1;
        trf__cpu_of(&run)->work_bytes = 0;          /* so that every product packs for itself */
        check_linear(&run, 200, 45, 33, 0, 1, 0);
        check_linear_dx(&run, 200, 45, 33, 0);
        check_linear_dw(&run, shared_dw, 3);
        check_attention(&run, &shared_attention);
        check_attention_weights(&run, 100, 77, 0, 0);
        check_cross_entropy(&run, &shared_loss);
        check_pairs(&run, &shared_loss, 2);
        sharing = watching = 0;
        trf__cpu_of(&run)->work_bytes = room;
        end_run(&run);
    }
#else
    skip();
#endif
}

/* Tiles are a matter of shapes alone: what is asked for is done once, and nothing else. */
static void count_tile(const trf__run *run, const void *arguments, int64_t tile, int worker)
{
    (void)worker;
    assert_true(worker >= 0 && worker < trf__cpu_of(run)->threads);
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
            end_run(&run);
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
    const struct CMUnitTest tests[] = {TEST(test_philox_vectors),
                                       TEST(test_random64_is_philox),
                                       TEST(test_drop_follows_its_formula),
                                       TEST(test_drop_numbers),
                                       TEST(test_drop_rate),
                                       TEST(test_drop_does_not_see_the_batch),
                                       TEST(test_lanes),
                                       TEST(test_bits_of_maxima),
                                       TEST(test_lanes_and_nan),
                                       TEST(test_ends_of_rows),
                                       TEST(test_sums_follow_one_tree),
                                       TEST(test_exp),
                                       TEST(test_erf),
                                       TEST(test_sqrt),
                                       TEST(test_ln),
                                       TEST(test_products),
                                       TEST(test_products_of_weights),
                                       TEST(test_whole_products),
                                       TEST(test_blas_for_many_rows_only),
                                       TEST(test_linear),
                                       TEST(test_built_in_product_has_one_order),
                                       TEST(test_pack),
                                       TEST(test_packed_alone),
                                       TEST(test_rows_in_groups),
                                       TEST(test_embed),
                                       TEST(test_positions_without_a_list),
                                       TEST(test_pool),
                                       TEST(test_activate),
                                       TEST(test_rotate),
                                       TEST(test_scale),
                                       TEST(test_accumulate), TEST(test_average),
                                       TEST(test_attention),
                                       TEST(test_attention_with_listed_keys),
                                       TEST(test_attention_over_areas),
                                       TEST(test_attention_weights),
                                       TEST(test_attention_extremes),
                                       TEST(test_add_norm),
                                       TEST(test_norm_extremes),
                                       TEST(test_cross_entropy),
                                       TEST(test_cross_entropy_of_pairs),
                                       TEST(test_pairs_of_pytorch),
                                       TEST(test_equal_pairs),
                                       TEST(test_cross_entropy_extremes),
                                       TEST(test_clip),
                                       TEST(test_adam),
                                       TEST(test_top),
                                       TEST(test_mix),
                                       TEST(test_nonfinite_logits_are_seen),
                                       TEST(test_ancestors),
                                       TEST(test_advance),
                                       TEST(test_memory_verbs),
                                       TEST(test_state_verbs),
                                       TEST(test_same_bits_for_any_threads),
                                       TEST(test_same_bits_for_any_threads_with_blas),
                                       TEST(test_workers_have_their_own_scratch),
                                       TEST(test_every_tile_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

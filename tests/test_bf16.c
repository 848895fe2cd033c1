/* build: O1 slow separate:O1:all */
/* Products of numbers of 16 bits: rounding, every layout, products that pack for themselves, and
   models that translate, score and train with them. */
#define TRF__BF16_KERNEL first_kernel
static int first_kernel;
#include "tiles.h"
#if defined(__GNUC__) && defined(__x86_64__) && !defined(TRF_SCALAR)
/* vdpbf16ps as two multiply-adds and vcvtne2ps2bf16 by integers, so that their kernel runs wherever
   AVX-512 is, with exact results; and the instructions where the processor has them. */
#include <immintrin.h>
__attribute__((target("avx512f"))) static inline __m512 two_products(__m512 sum, __m512i a, __m512i b)
{
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000u);
    sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)),
                          _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)), sum);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a, upper)),
                           _mm512_castsi512_ps(_mm512_and_si512(b, upper)), sum);
}
__attribute__((target("avx512f"))) static inline __m256i sixteen_rounded(__m512 x)
{
    __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16),
                                                                  _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    up = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                               _mm512_or_si512(bits, _mm512_set1_epi32(0x400000)));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
}
__attribute__((target("avx512f"))) static inline __m512i all_rounded(__m512 upper, __m512 lower)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(sixteen_rounded(lower)),
                              sixteen_rounded(upper), 1);
}
#define TRF__TO_BF16(upper, lower) \
    (real_instructions ? (__m512i)_mm512_cvtne2ps_pbh(upper, lower) : all_rounded(upper, lower))
#define TRF__DPBF16(sum, a, b) \
    (real_instructions ? _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b)) : two_products(sum, a, b))
#define TRF__HAS_DPBF16() \
    (real_instructions ? __builtin_cpu_supports("avx512bf16") : __builtin_cpu_supports("avx512f"))
#elif defined(__aarch64__) && !defined(TRF_SCALAR)
/* bfmmla as multiply-adds in order, and the instruction. */
#include <arm_neon.h>
#include <math.h>
#include <string.h>
static inline int32x4_t four_products(int32x4_t sum, int32x4_t x, int32x4_t q)
{
    uint16_t a[8], b[8];
    float c[4];
    int i, t;
    memcpy(a, &x, sizeof a);
    memcpy(b, &q, sizeof b);
    memcpy(c, &sum, sizeof c);
    for (i = 0; i < 4; i++)
        for (t = 0; t < 4; t++) {
            uint32_t left = (uint32_t)a[i / 2 * 4 + t] << 16, right = (uint32_t)b[i % 2 * 4 + t] << 16;
            float l, r;
            memcpy(&l, &left, sizeof l);
            memcpy(&r, &right, sizeof r);
            c[i] = fmaf(l, r, c[i]);
        }
    memcpy(&sum, c, sizeof sum);
    return sum;
}
#define TRF__BFMMLA(sum, x, q) (real_instructions ? trf__bfmmla(sum, x, q) : four_products(sum, x, q))
#endif
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "answers.h"
#include "products.h"

enum { KERNELS = sizeof trf__bf16_kernels / sizeof *trf__bf16_kernels, WAYS = 2 * KERNELS - 1 };

/* Chooses a kernel: all of them, then those in front of the last with their real instructions.
   Returns 0 if the processor does not have it. */
static KIT_UNUSED int choose(int way)
{
    real_instructions = way >= KERNELS;
    first_kernel = way % KERNELS;
    return trf__bf16_kernels[first_kernel].supported();
}

static KIT_UNUSED void choose_again(void) { real_instructions = first_kernel = 0; }

/* The nearest number of 8 significant bits, of equally near ones the even one, by the C library. */
static trf_real nearest(trf_real x)
{
    double y = x, unit;
    int exponent;
    if (y == 0 || !isfinite(y)) return x;
    frexp(y, &exponent);
    if (exponent < -125) exponent = -125;               /* denormal numbers have fewer bits */
    unit = ldexp(1, exponent - 8);
    y = nearbyint(y / unit) * unit;
    return fabs(y) >= ldexp(1, 128) ? (trf_real)(y < 0 ? -HUGE_VAL : HUGE_VAL) : (trf_real)y;
}

static void rounding(void **state)
{
    static const trf_real special[] = {0, -0.0f, 1, 1.00390625f, 1.01171875f, -1.00390625f, 1e-45f,
                                       1.17549435e-38f, 3.38953139e38f, 3.3961775e38f,
                                       3.4028235e38f, -3.4028235e38f, 65535, 0.1f, -1e-40f};
    trf_real x[16], y[16];
    int64_t i;
    int k;
    (void)state;
    for (i = 0; i < 10000; i++) {
        for (k = 0; k < 16; k++)
            x[k] = i * 16 + k < (int64_t)(sizeof special / sizeof *special)
                ? special[i * 16 + k] : (trf_real)ldexp(drawn(), (int)(250 * drawn()));
        if (i == 1) { x[0] = (trf_real)HUGE_VAL; x[1] = (trf_real)-HUGE_VAL; }
        trf__store(y, trf__bf16_round(trf__load(x)));
        for (k = 0; k < 16; k++)
            if (y[k] != nearest(x[k]) || signbit(y[k]) != signbit(x[k]))
                fail_msg("%.9g becomes %.9g instead of %.9g", (double)x[k], (double)y[k],
                         (double)nearest(x[k]));
    }
    /* every NaN stays one: also those whose bits would carry into the exponent or the sign */
    for (k = 0; k < 16; k++) {
        static const uint32_t nans[4] = {0x7F800001u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0xFF808000u};
        float nan;
        memcpy(&nan, &nans[k % 4], sizeof nan);
        x[k] = nan;
    }
    trf__store(y, trf__bf16_round(trf__load(x)));
    for (k = 0; k < 16; k++) assert_true(y[k] != y[k]);
}

static KIT_UNUSED trf_real *rounded(const trf_real *x, int64_t n)
{
    trf_real *y = (trf_real *)malloc((size_t)n * sizeof *y);
    int64_t i;
    assert_non_null(y);
    for (i = 0; i < n; i++) y[i] = nearest(x[i]);
    return y;
}

/* One result: products of two rounded numbers are exact, so a loop gives the bits. Tiles add 32
   products, those of even and of odd places apart. */
static KIT_UNUSED trf_real chain(trf_real sum, const trf_real *a, int64_t a_step, const trf_real *b,
                      int64_t b_step, int64_t k)
{
    int tiles = trf__bf16_chosen(1)->tiles;
    int64_t t, i;
    for (t = 0; tiles && t < k; t += 32) {
        trf_real both[2] = {0, 0};
        for (i = t; i < t + 32 && i < k; i++) both[i % 2] += a[i * a_step] * b[i * b_step];
        sum += both[0] + both[1];
    }
    for (t = 0; !tiles && t < k; t++) sum += a[t * a_step] * b[t * b_step];
    return sum;
}

static KIT_UNUSED void assert_same(trf_real got, trf_real want, const char *what, int64_t m, int64_t n,
                        int64_t k)
{
    double most = real_instructions ? 1e-4 + 1e-5 * fabs((double)want) : 0;
    if (!(fabs((double)got - (double)want) <= most))
        fail_msg("%s%s (%d, %d, %d): %.9g instead of %.9g", trf__bf16_chosen(1)->name, what, (int)m,
                 (int)n, (int)k, (double)got, (double)want);
}

/* y = x w^T + b with a packed weight, whose rows may begin inside a panel. */
static KIT_UNUSED void packed_products_by_one(void)
{
    int round;
    for (round = 0; round < (kit_all() ? 400 : 80); round++) {
        int64_t rows = 1 + (int64_t)((round % 4 ? 9.5 : 150) * (drawn() + 1));
        int64_t in = 1 + (int64_t)((round % 40 == 7 ? 2000 : round % 8 ? 75 : 300) * (drawn() + 1));
        int64_t out = 1 + (int64_t)(50 * (drawn() + 1)), above = round % 3 ? 0 : round % 40, i, c;
        trf_real *x = numbers(rows * in), *w = numbers((above + out) * in), *b = numbers(out);
        trf_real *y = numbers(rows * out + 1), *rx, *rw, sixteen[16];
        void *packed = malloc(trf__bf16_bytes(above + out, in));
        trf__run run = run_of(TRF__BF16, 1 + round % 3, 0, 0);
        trf__pack pack = trf__pack_of(packed, w, above + out, in, TRF__BF16);
        trf__linear j;
        assert_non_null(packed);
        run.backend->pack(&run, &pack);
        TRF__ZERO(j);
        j.x = (const trf__act *)(const void *)x; j.y = (trf__act *)(void *)y;
        j.w.packed = packed; j.w.row = above; j.w.format = TRF__BF16;
        j.b = round % 2 ? b : NULL;
        j.rows = rows; j.in = in; j.out = out;
        y[rows * out] = 7;
        run.backend->linear(&run, &j);
        rx = rounded(x, rows * in);
        rw = rounded(w, (above + out) * in);
        for (i = 0; i < rows; i++)
            for (c = 0; c < out; c++)
                assert_same(y[i * out + c], chain(round % 2 ? b[c] : 0, rx + i * in, 1,
                                                  rw + (above + c) * in, 1, in),
                            ": y = x w^T", rows, out, in);
        assert_true(y[rows * out] == 7);
        for (i = 0; i < above + out; i += 7)
            for (c = 0; c < in; c += 16) {
                int64_t l;
                trf__store(sixteen, trf__bf16_read(packed, i, c, in));
                for (l = 0; l < 16; l++)
                    assert_true(sixteen[l] == (c + l < in ? rw[i * in + c + l] : 0));
            }
        run.backend->close(&run);
        free(x); free(w); free(b); free(y); free(packed); free(rx); free(rw);
    }
}

/* What training computes, with weights as they are: each product packs for itself, in parts if the
   weight is larger than the scratch. */
static KIT_UNUSED void products_of_training_by_one(void)
{
    int round;
    for (round = 0; round < (kit_all() ? 200 : 40); round++) {
        int64_t rows = 1 + (int64_t)((round % 4 ? 20 : 200) * (drawn() + 1));
        int64_t in = 1 + (int64_t)(60 * (drawn() + 1)), i, c, t;
        int64_t out = 1 + (int64_t)((round % 5 ? 40 : 300) * (drawn() + 1));
        trf_real *x = numbers(rows * in), *w = numbers(trf__round_up(out, 16) * in);
        trf_real *y = numbers(rows * out), *dx = numbers(rows * in), *dw = numbers(out * in);
        trf_real *dx0 = numbers(rows * in), *dw0 = numbers(out * in), *db = numbers(out);
        trf_real *rx, *rw, *ry;
        trf__run run = run_of(TRF__BF16, 1 + round % 3, round % 3 ? 1 : in * out, 0);
        trf__linear linear;
        trf__linear_dx back;
        trf__linear_dw gradient;
        memcpy(dx0, dx, (size_t)(rows * in) * sizeof *dx);
        memcpy(dw0, dw, (size_t)(out * in) * sizeof *dw);
        TRF__ZERO(linear); TRF__ZERO(back); TRF__ZERO(gradient);
        linear.x = (const trf__act *)(const void *)x; linear.y = (trf__act *)(void *)y;
        linear.w.plain = w; linear.w.format = TRF__BF16;
        linear.rows = rows; linear.in = in; linear.out = out;
        run.backend->linear(&run, &linear);
        back.dx = (trf__act *)(void *)dx; back.dy = (const trf__act *)(const void *)y;
        back.w = linear.w; back.rows = rows; back.in = in; back.out = out; back.add = round % 2;
        run.backend->linear_dx(&run, &back);
        gradient.dw = dw; gradient.db = db; gradient.dy = back.dy; gradient.x = linear.x;
        gradient.rows = rows; gradient.in = in; gradient.out = out; gradient.first = round % 2;
        run.backend->linear_dw(&run, &gradient, 1);
        rx = rounded(x, rows * in);
        rw = rounded(w, out * in);
        ry = rounded(y, rows * out);
        for (i = 0; i < rows; i++) {
            for (c = 0; c < out; c++)
                assert_same(y[i * out + c], chain(0, rx + i * in, 1, rw + c * in, 1, in), ": y", rows,
                            out, in);
            for (c = 0; c < in; c++)
                assert_same(dx[i * in + c], chain(round % 2 ? dx0[i * in + c] : 0, ry + i * out, 1,
                                                  rw + c, in, out), ": dx", rows, out, in);
        }
        for (t = 0; t < out; t++)
            for (c = 0; c < in; c++)
                assert_same(dw[t * in + c], chain(round % 2 ? 0 : dw0[t * in + c], ry + t, out,
                                                  rx + c, in, rows), ": dw", rows, out, in);
        run.backend->close(&run);
        free(x); free(w); free(y); free(dx); free(dw); free(dx0); free(dw0); free(db);
        free(rx); free(rw); free(ry);
    }
}

/* The pairs of sixteen rows, from rows or columns, for a block or a panel: with the instruction,
   without it, and emulated. */
static void pairs_are_packed(void **state)
{
    (void)state;
#if TRF__BF16_PAIRS && OWN_LEVEL
    int round, way, i, t;
    for (round = 0; round < 2000; round++) {
        int rows = 1 + (int)(7.9 * (drawn() + 1)), n = 1 + (int)(20 * (drawn() + 1));
        int by_rows = round % 2, panel = round / 2 % 2;
        trf_real *x = numbers(rows * n);
        trf__view view = trf__view_of(x, by_rows ? n : 1, by_rows ? 1 : rows);
        uint32_t words[257];
        if (round % 8 == 0) x[round % (rows * n)] = (trf_real)(round % 16 ? NAN : -HUGE_VAL);
        for (way = 0; way < 3; way++) {
            if (way == 0 && panel) continue;
            real_instructions = way == 1;
            if (way > 0 && !trf__has_dpbf16()) continue;
            memset(words, 7, sizeof words);
            if (way == 0) trf__bf16_pairs_plain(words, view, rows, n);
            else trf__bf16_pairs16(words, view, rows, n, panel);
            for (i = 0; i < 16; i++)
                for (t = 0; t < 32; t++) {
                    uint32_t word = words[panel ? t / 2 * 16 + i : i * 16 + t / 2];
                    trf_real got = (trf_real)trf__float_of(t % 2 ? word & 0xFFFF0000u : word << 16);
                    trf_real want = i < rows && t < n
                        ? nearest(view.at[i * view.row + t * view.column]) : 0;
                    if (i >= rows && !panel) assert_int_equal(word, 0x07070707);
                    else assert_true(got == want || (got != got && want != want));
                }
            assert_int_equal(words[256], 0x07070707);
        }
        free(x);
    }
    real_instructions = 0;
#endif
}

static KIT_UNUSED void packed_products(void **state)
{
    int way;
    (void)state;
    for (way = 0; way < WAYS; way++) if (choose(way)) packed_products_by_one();
    choose_again();
}

static KIT_UNUSED void products_of_training(void **state)
{
    int way;
    (void)state;
    for (way = 0; way < WAYS; way++) if (choose(way)) products_of_training_by_one();
    choose_again();
}

/* Numbers of converted rows, as floats. */
static KIT_UNUSED trf_real *read_rows(const void *rows, int64_t n, int64_t k)
{
    trf_real *x = (trf_real *)malloc((size_t)(n * k) * sizeof *x);
    int64_t i, c;
    uint16_t bits;
    assert_non_null(x);
    for (i = 0; i < n; i++)
        for (c = 0; c < k; c++) {
            memcpy(&bits, (const char *)rows + (size_t)i * trf__bf16_row_bytes(k) + 2 * c, 2);
            x[i * k + c] = (trf_real)trf__float_of((uint32_t)bits << 16);
        }
    return x;
}

/* What the ops before a product write converted is what the product would convert: the results are
   the same bits. */
static KIT_UNUSED void converted_rows_by_one(void)
{
    int round;
    for (round = 0; round < (kit_all() ? 200 : 10); round++) {
        int64_t rows = 1 + (int64_t)((round % 4 ? 9.5 : 50) * (drawn() + 1)), i;
        int64_t k = 32 * (1 + (int64_t)((round % 8 ? 2 : 20) * (drawn() + 1)));
        int64_t out = 1 + (int64_t)(20 * (drawn() + 1)), gate = round % 2;
        trf_real *h = numbers(rows * k << gate), *a = numbers(rows * k), *w = numbers(out * k);
        trf_real *s = numbers(rows * k), *gain = numbers(k), *y = numbers(rows * out), *z = numbers(rows * out);
        trf_real *wanted, *got;
        const size_t bytes = trf__cpu_converted_row(TRF__BF16, k, k);
        char *to = (char *)malloc((size_t)rows * bytes);
        void *packed = malloc(trf__bf16_bytes(out, k));
        trf__run run = run_of(TRF__BF16, 1 + round % 3, 0, 0);
        trf__pack pack = trf__pack_of(packed, w, out, k, TRF__BF16);
        trf__linear j;
        trf__activate f;
        trf__norm n;
        assert_non_null(to);
        assert_non_null(packed);
        assert_int_equal(bytes, trf__bf16_row_bytes(k));
        assert_true(bytes <= (size_t)k * sizeof(float));
        /* a norm writes both */
        TRF__ZERO(n);
        n.x = (const trf__act *)(const void *)a; n.y = (trf__act *)(void *)s; n.converted = to;
        n.gain = gain; n.rows = rows; n.d = k; n.epsilon = 1e-5;
        run.backend->add_norm(&run, &n);
        wanted = rounded(s, rows * k);
        got = read_rows(to, rows, k);
        assert_memory_equal(got, wanted, (size_t)(rows * k) * sizeof *got);
        free(wanted); free(got);
        /* an activation: floats first, as it overwrites h */
        TRF__ZERO(f);
        f.h = (const trf__act *)(const void *)h; f.a = (trf__act *)(void *)a; f.rows = rows; f.width = k;
        f.kind = round % TRF__ACTIVATIONS; f.gate = (int)gate;
        run.backend->activate(&run, &f);
        f.a = (trf__act *)(void *)to;
        f.converted = 1;
        run.backend->activate(&run, &f);
        wanted = rounded(a, rows * k);
        got = read_rows(to, rows, k);
        assert_memory_equal(got, wanted, (size_t)(rows * k) * sizeof *got);
        free(wanted); free(got);
        /* a product */
        run.backend->pack(&run, &pack);
        TRF__ZERO(j);
        j.y = (trf__act *)(void *)y;
        j.w.packed = packed; j.w.format = TRF__BF16;
        j.rows = rows; j.in = k; j.out = out;
        j.x = (const trf__act *)(const void *)a;
        run.backend->linear(&run, &j);
        j.x = (const trf__act *)(const void *)to; j.y = (trf__act *)(void *)z; j.converted = 1;
        run.backend->linear(&run, &j);
        for (i = 0; i < rows * out; i++)
            if (memcmp(&y[i], &z[i], sizeof *y))
                fail_msg("%s (%d, %d, %d): %.9g from floats, %.9g converted", trf__bf16_chosen(1)->name,
                         (int)rows, (int)out, (int)k, (double)y[i], (double)z[i]);
        run.backend->close(&run);
        free(h); free(a); free(w); free(s); free(gain); free(y); free(z); free(to); free(packed);
    }
}

static KIT_UNUSED void converted_rows(void **state)
{
    int way;
    (void)state;
    for (way = 0; way < WAYS; way++)
        if (choose(way) && trf__bf16_reads_rows()) converted_rows_by_one();
    for (way = 0; way < KERNELS; way++) {
        if (!choose(way)) continue;
        assert_int_equal(trf__cpu_converted_row(TRF__BF16, 64, 64) > 0, way < KERNELS - 1);
        assert_int_equal(trf__cpu_converted_row(TRF__BF16, 48, 48), 0);
        assert_int_equal(trf__cpu_converted_row(TRF__BF16, 96, 48), 0);      /* heads share a line of a row */
        assert_int_equal(trf__cpu_converted_row(TRF__FLOAT32, 64, 64), 0);
        assert_int_equal(trf__cpu_converted_row(TRF__INT8, 64, 64), 0);
    }
    choose_again();
}

/* A head of a span, number by number, from q, k and v rounded, with rounded weights. */
static KIT_UNUSED void plain_head(trf_real *to, const trf_real *q, const trf_real *k, const trf_real *v,
                                  int64_t ld, int64_t d, int64_t i, int64_t seen, double slope, int64_t last)
{
    double *p = (double *)calloc((size_t)seen + 1, sizeof *p), most = -HUGE_VAL, sum = 0;
    int64_t t, c;
    assert_non_null(p);
    for (t = 0; t < seen; t++) {
        for (c = 0; c < d; c++) p[t] += (double)nearest(q[i * ld + c]) * (double)nearest(k[t * ld + c]);
        p[t] = p[t] / sqrt((double)d) - slope * fabs((double)(last - t));
        most = fmax(most, p[t]);
    }
    for (t = 0; t < seen; t++) sum += p[t] = exp(p[t] - most);
    for (c = 0; c < d; c++) {
        double x = 0;
        for (t = 0; t < seen; t++) x += (double)nearest((trf_real)(p[t] / sum)) * (double)nearest(v[t * ld + c]);
        to[c] = (trf_real)x;
    }
    free(p);
}

/* Attention in tiles, and what it leaves to floats: few queries. */
static KIT_UNUSED void attention_by_one(int tiles)
{
    static const int32_t lengths[] = {0, 1, 7, 8, 17, 32, 65, 9, 15, 16, 31, 33, 48, 64, 100};
    enum { SPANS = sizeof lengths / sizeof *lengths, HEADS = 2 };
    const int n_spans = kit_all() ? (int)SPANS : 7;
    int round, s, h;
    for (round = 0; round < 8; round++) {
        const int64_t d = round % 3 == 2 ? 96 : 32 << round % 3, groups = round % 4 == 3 ? 1 : HEADS;
        const int64_t width = HEADS * d, ld = width + 2 * groups * d;
        trf__span spans[SPANS];
        int64_t rows = 0, i, c;
        trf_real *x, *wanted = numbers(width), *floats, *got;
        trf__run run = run_of(TRF__BF16, 1 + round % 3, 0, 0);
        trf__attention a;
        void *to;
        OK(run.backend->reserve(&run, 100, d, 0, 0, &err));
        for (s = 0; s < n_spans; s++) {
            TRF__ZERO(spans[s]);
            spans[s].query = spans[s].key = (int32_t)rows;
            spans[s].n_query = spans[s].n_key = lengths[s];
            if (round == 5 && s > 2) { spans[s].key += 3; spans[s].n_key -= 3; }
            if (round == 7) spans[s].n_key = 0;
            rows += lengths[s];
        }
        x = numbers(rows * ld);
        floats = numbers(rows * width);
        to = malloc((size_t)rows * trf__bf16_row_bytes(width));
        assert_non_null(to);
        memset(to, 0x3F, (size_t)rows * trf__bf16_row_bytes(width));    /* what was there before */
        TRF__ZERO(a);
        a.in.q = (const trf__act *)(const void *)x;
        a.in.k = (const trf__act *)(const void *)(x + width);
        a.in.v = (const trf__act *)(const void *)(x + width + groups * d);
        a.in.ldq = a.in.ldk = ld;
        a.in.spans = spans; a.in.n_spans = n_spans; a.in.max_queries = a.in.max_keys = 100;
        a.in.heads = HEADS; a.in.kv_heads = (int)groups; a.in.d_head = (int)d;
        a.in.causal = round % 2 && round != 5;
        a.in.scale = 1 / sqrt((double)d);
        a.in.bias.alibi = round % 5 == 4;
        a.out = (trf__act *)(void *)floats;
        run.backend->attention(&run, &a);
        a.out = (trf__act *)to;
        a.converted = 1;
        run.backend->attention(&run, &a);
        got = read_rows(to, rows, width);
        for (s = 0; s < n_spans; s++)
            for (i = 0; i < spans[s].n_query; i++)
                for (h = 0; h < HEADS; h++) {
                    const int64_t row = spans[s].query + i, at = h * groups / HEADS * d, m = spans[s].n_key;
                    const int64_t last = m - spans[s].n_query + i;
                    const trf_real *key = x + spans[s].key * ld + width + at;
                    plain_head(wanted, x + spans[s].query * ld + h * d, key, key + groups * d, ld, d, i,
                               a.in.causal ? trf__max64(0, last + 1) : m,
                               a.in.bias.alibi ? trf__alibi_slope(h, HEADS) : 0, last);
                    for (c = 0; c < d; c++) {
                        const int64_t n = row * width + h * d + c;
                        if (!tiles || spans[s].n_query < 8 || m == 0) {
                            if (got[n] != nearest(floats[n]))
                                fail_msg("%s, round %d, %d queries, head %d, number %d: %.9g of %.9g",
                                         trf__bf16_chosen(1)->name, round, spans[s].n_query, h, (int)c,
                                         (double)got[n], (double)floats[n]);
                        }
                        else if (!(fabs((double)got[n] - (double)wanted[c]) < 8e-3))
                            fail_msg("round %d, %d queries, head %d: %.9g instead of %.9g", round,
                                     spans[s].n_query, h, (double)got[n], (double)wanted[c]);
                        if (!(fabs((double)got[n] - (double)floats[n]) < 0.03))
                            fail_msg("round %d: %.9g, in floats %.9g", round, (double)got[n],
                                     (double)floats[n]);
                    }
                }
        run.backend->close(&run);
        free(x); free(wanted); free(floats); free(got); free(to);
    }
}

static KIT_UNUSED void attention_in_16_bits(void **state)
{
    int way;
    (void)state;
    for (way = 0; way < WAYS; way++)
        if (choose(way) && trf__bf16_reads_rows()) attention_by_one(trf__bf16_chosen(1)->tiles);
    choose_again();
}

/* An infinity or a NaN reaches the results of its own row alone. */
static KIT_UNUSED void rows_that_are_not_finite(void **state)
{
    enum { ROWS = 9, IN = 37, OUT = 21 };
    trf_real *x = numbers(ROWS * IN), *w = numbers(OUT * IN), *y = numbers(ROWS * OUT);
    trf__run run = run_of(TRF__BF16, 1, 0, 0);
    int i, c;
    (void)state;
    x[0 * IN + 3] = (trf_real)HUGE_VAL;
    x[2 * IN + 36] = (trf_real)NAN;
    w[17 * IN + 5] = (trf_real)NAN;
    multiply_packed(&run, TRF__BF16, y, x, w, ROWS, IN, OUT);
    for (i = 0; i < ROWS; i++)
        for (c = 0; c < OUT; c++)
            assert_int_equal(trf__is_finite((double)y[i * OUT + c]), i != 0 && i != 2 && c != 17);
    run.backend->close(&run);
    free(x); free(w); free(y);
}

/* The answers do not depend on threads, and packing the model instead changes none; a model that
   computes in 16 bits gives the same. */
static void same_bits(void **state)
{
    int n, way;
    (void)state;
    for (n = 0; n < MODELS * KERNELS; n++) {
        trf_config config = nth_config(n / KERNELS);
        trf_model *model = NULL;
        uint64_t wanted;
        long begun;
        if (!choose(n % KERNELS)) continue;
        OK(trf_model_create(&model, &config, NULL, &err));
        begun = tiles_begun;
        wanted = answers(model, TRF_WEIGHTS_BF16, 1, NULL, NULL);
        assert_int_equal(tiles_begun > begun, trf__bf16_chosen(1)->tiles);
        assert_true(wanted != answers(model, TRF_WEIGHTS_FULL, 1, NULL, NULL));
        assert_true(wanted == answers(model, TRF_WEIGHTS_BF16, 3, NULL, NULL));
        /* every kernel but tiles adds in the same order, if its instruction is emulated */
        for (way = n % KERNELS; !trf__bf16_chosen(1)->tiles && way < KERNELS; way++) {
            first_kernel = way;
            assert_true(wanted == answers(model, TRF_WEIGHTS_BF16, 1, NULL, NULL));
        }
        trf_model_destroy(model);
        config.device.precision = TRF_PRECISION_BF16;
        OK(trf_model_create(&model, &config, NULL, &err));
        assert_true(wanted == answers(model, TRF_WEIGHTS_FULL, 2, NULL, NULL));
        assert_true(wanted != answers(model, TRF_WEIGHTS_INT8, 2, NULL, NULL));
        trf_model_destroy(model);
    }
    choose_again();
}

/* What the processor computes with tiles has the bits of the emulation. */
#if TRF__TILES && OWN_LEVEL
TRF__AMX static void tiles_by(char sums[2][1024], const char *a, const char *b, const char *c)
{
    trf__amx_begin();
    TRF__AMX_LOAD(0, c, 64);
    TRF__AMX_LOAD(1, c, 64);
    TRF__AMX_LOAD(2, a, 64);
    TRF__AMX_LOAD(3, b, 64);
    TRF__AMX_BF16(0, 2, 3);
    TRF__AMX_INT8(1, 2, 3);
    TRF__AMX_STORE(0, sums[0], 64);
    TRF__AMX_STORE(1, sums[1], 64);
    trf__amx_end();
}
#endif

static void tiles_are_emulated(void **state)
{
    (void)state;
#if TRF__TILES && OWN_LEVEL
    {
        static char wanted[2][1024], got[2][1024];
        uint16_t a[512], b[512];
        float c[256], x;
        int round, i;
        real_instructions = 1;
        for (round = 0; trf__has_amx() && round < 1000; round++) {
            uint32_t bits;
            for (i = 0; i < 1024; i++) {
                x = (float)ldexp(drawn(), round % 30);
                memcpy(&bits, &x, sizeof bits);
                if (i < 512) a[i] = (uint16_t)(bits >> 16);
                else b[i - 512] = (uint16_t)(bits >> 16);
            }
            for (i = 0; i < 256; i++) c[i] = (float)drawn();
            real_instructions = 0;
            tiles_by(wanted, (char *)a, (char *)b, (char *)c);
            real_instructions = 1;
            tiles_by(got, (char *)a, (char *)b, (char *)c);
            assert_memory_equal(got, wanted, sizeof got);
        }
        real_instructions = 0;
    }
#endif
}

static void near_the_floats(void **state) { (void)state; assert_near(TRF_WEIGHTS_BF16, 0.9999); }

/* Two bytes of four, but for vectors. */
static void memory_is_as_planned(void **state)
{
    (void)state;
    assert_planned(TRF_WEIGHTS_BF16, 1.9);
}

/* The kernel's name, which a program may show. */
static void kernels_have_names(void **state)
{
    trf_device device = trf_device_default();
    trf_hooks hooks = {0};
    int w, amx;
    (void)state;
    for (w = 0; w < KERNELS; w++) {
        first_kernel = w;
        if (!trf__bf16_kernels[w].supported()) continue;
        device.products = TRF_PRODUCTS_AUTO;
        assert_string_equal(trf__product_kernel(&device, TRF_WEIGHTS_BF16), trf__bf16_kernels[w].name);
        /* AUTO is 16 bits with AMX alone, and for objects as the call says */
        device.precision = TRF_PRECISION_AUTO;
        amx = !strcmp(trf__bf16_kernels[w].name, "AMX");
        assert_int_equal(trf_device_precision(&device),
                         amx ? TRF_PRECISION_BF16 : TRF_PRECISION_FLOAT32);
        assert_int_equal(trf__run_on(&device, &hooks).format, amx ? TRF__BF16 : TRF__FLOAT32);
        assert_int_equal(trf__run_on(&device, &hooks).device.precision,
                         amx ? TRF_PRECISION_BF16 : TRF_PRECISION_FLOAT32);
        device.products = TRF_PRODUCTS_BF16X3;              /* which is about floats alone */
        assert_int_equal(trf_device_precision(&device), TRF_PRECISION_FLOAT32);
        device.precision = TRF_PRECISION_BF16;
        assert_int_equal(trf_device_precision(&device), TRF_PRECISION_BF16);
        assert_string_equal(trf__product_kernel(&device, TRF_WEIGHTS_BF16), trf__bf16_kernels[w].name);
    }
    device.kind = (trf_device_kind)TRF_DEVICE_COUNT;
    assert_int_equal(trf_device_precision(&device), TRF_PRECISION_FLOAT32);
    assert_int_equal(trf_device_precision(NULL), TRF_PRECISION_FLOAT32);
    device = trf_device_default();
    first_kernel = 0;
    assert_string_equal(trf__product_kernel(&device, TRF_WEIGHTS_INT8), trf__int8_chosen(1)->name);
    device.products = TRF_PRODUCTS_BUILT_IN;
    assert_string_equal(trf__product_kernel(&device, TRF_WEIGHTS_FULL), "built-in");
    assert_null(trf__product_kernel(&device, TRF_WEIGHTS_F16));
    assert_null(trf__product_kernel(&device, TRF_WEIGHTS_COUNT));
    assert_null(trf__product_kernel(NULL, TRF_WEIGHTS_FULL));
    device.threads = -1;
    assert_null(trf__product_kernel(&device, TRF_WEIGHTS_FULL));
}

/* Only objects that will use tiles ask the system for them, which changes the process. */
static void queries_ask_for_nothing(void **state)
{
    static const trf_weights weights[] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
    trf_config c = kit_small(2, 32, 40, 20);
    trf_train_options o = kit_training();
    trf_search search = trf_search_defaults();
    trf_translator *t = NULL;
    trf_model *model = NULL;
    int w, products;
    (void)state;
    tiles_asked = 0;
    for (products = TRF_PRODUCTS_AUTO; products < TRF_PRODUCTS_COUNT; products += 3)
        for (w = 0; w < 3; w++) {
            c.device.products = (trf_products)products;
            search.weights = weights[w];
            trf__product_kernel(&c.device, weights[w]);
            trf_config_check(&c, NULL, NULL);
            kit_model_memory(&c);
            trf_trainer_memory(&c, &o, NULL);
            trf_stage_memory(&c, &o, 0, 1, 1, NULL);
            trf_packed_memory(&c, weights[w], NULL, NULL);
            trf_translator_memory(&c, &search, 4, 10, NULL);
        }
    assert_int_equal(tiles_asked, 0);
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    assert_int_equal(trf_translator_create(&t, model, &search, NULL), TRF_OK);
    assert_true(!(TRF__TILES && OWN_LEVEL) || tiles_asked > 0);
    trf_translator_destroy(t);
    trf_model_destroy(model);
}

/* Gradients are near those of floats, and the same bits with other threads and when activations
   are computed again. */
static void gradients_are_near(void **state)
{
    int variant;
    (void)state;
    for (variant = 0; variant < 6; variant++) {
        trf_config config = config_of(variant, 64);
        gradients full = gradients_of(&config, SENTENCES, 1, 0), one, two;
        config.device.precision = TRF_PRECISION_BF16;
        one = gradients_of(&config, SENTENCES, 1, 0);
        two = gradients_of(&config, SENTENCES, 2, 1);
        assert_memory_equal(one.all, two.all, (size_t)one.n * sizeof *one.all);
        assert_true(one.loss == two.loss && one.loss != full.loss);
        assert_gradients_near(&one, &full, 0.05, 0.001, variant);
        free(full.all); free(one.all); free(two.all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding),             cmocka_unit_test(pairs_are_packed),
#if !defined(TRF__TEST_BACKEND)             /* these call an op with memory of the host */
        cmocka_unit_test(packed_products),      cmocka_unit_test(products_of_training),
        cmocka_unit_test(converted_rows),       cmocka_unit_test(attention_in_16_bits),
        cmocka_unit_test(rows_that_are_not_finite),
#endif
        cmocka_unit_test(same_bits),            cmocka_unit_test(near_the_floats),
        cmocka_unit_test(memory_is_as_planned), cmocka_unit_test(gradients_are_near),
        cmocka_unit_test(tiles_are_emulated), cmocka_unit_test(kernels_have_names),
        cmocka_unit_test(queries_ask_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

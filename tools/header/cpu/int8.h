#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "cpu/gemm.h"
#include "cpu/amx.h"
#include "cpu/arm.h"

// >>int8           products of eight-bit integers
//
//   q[j][t] = round(w[j][t] / s[j])     s[j] = max over t of |w[j][t]| / 127, for each row of w
//   r[i][t] = round(x[i][t] / s[i])     s[i] = max over t of |x[i][t]| / 127, for each row of x
//   y[i][j] = (sum over t of r[i][t] q[j][t]) * (s[i] s[j]) + b[j]
//
// Both sides are symmetric, without zero points. The sums are exact, because |sum| <= 127 * 127 * k
// < 2^31: no instruction, order or tile changes them. The float operations around them are written
// once, on trf__v16. So an answer has the same bits with every kernel below.
//
// A row whose numbers are all 0, or too small to be inverted, becomes zeros with the scale 0. A row
// with an infinity or a NaN becomes zeros with the scale NaN, so all its results are NaN.
//
//   panel         sixteen rows of w: four numbers of each row, then the next four of each, ...;
//                 zeros up to a multiple of 64 numbers, sixteen scales, and for each row -128 times
//                 the sum of its q
//   activations   a row: its numbers, zeros up to a multiple of 64 bytes, and its scale
//
// The first kernel of the table that the processor supports is used.

#if !defined(TRF__LEVEL)
enum {
    TRF__INT8_DEEPEST = 1 << 17,    /* numbers of the longest row: its sum fits into 32 bits */
    TRF__INT8_DEEP = 64,            /* panels and rows of x have a multiple of so many numbers */
    TRF__INT8_ROWS = 6,             /* the most rows of x in a call */
    TRF__INT8_SIGNED_ROWS = 4,      /* the same with AVX2 */
    TRF__INT8_TILE_ROWS = 32,       /* the same with AMX */
    TRF__INT8_PANELS = 4,           /* the most panels in a call */
    TRF__INT8_SCALES = 128          /* bytes behind the numbers of a panel */
};

/* Where in a panel its scales, and its sums of q, begin. */
TRF__FN size_t trf__int8_scales_at(int64_t k)
{
    return (size_t)trf__round_up(k, TRF__INT8_DEEP) * 16;
}
TRF__FN size_t trf__int8_sums_at(int64_t k) { return trf__int8_scales_at(k) + 64; }

/* Sums (rows, n_panels, 16) of the products of rows of x, x_step bytes apart, and panels, w_step
   bytes apart. There are at most as many rows as the table says. k is a multiple of four. Each row
   of x continues with zeros up to a multiple of 64 numbers. A kernel with tiles reads x and writes
   sums in whole tiles of sixteen rows. */
typedef void trf__int8_function(int32_t *sums, const char *x, size_t x_step, int64_t rows,
                                const char *w, size_t w_step, int64_t n_panels, int64_t k);
#endif

TRF__FN void trf__int8_plain(int32_t *sums, const char *x, size_t x_step, int64_t rows,
                             const char *w, size_t w_step, int64_t n_panels, int64_t k)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t p = 0; p < n_panels; p++, sums += 16) {
            const signed char *a = (const signed char *)x + (size_t)r * x_step;
            const signed char *b = (const signed char *)w + (size_t)p * w_step;
            for (int64_t j = 0; j < 16; j++) sums[j] = 0;
            for (int64_t t = 0; t < k; t += 4)
                for (int64_t j = 0; j < 16; j++)
                    for (int64_t i = 0; i < 4; i++) sums[j] += a[t + i] * b[16 * t + 4 * j + i];
        }
}

#if TRF__X86 && TRF__WIDEST >= 32

/* vpmaddubsw multiplies unsigned by signed bytes and adds two products in 16 bits. So the kernel
   needs |r|, and a mask m that is -1 where r is negative and 0 elsewhere. q ^ -1 = -q - 1, so

     r q = |r| (q ^ m) + (r < 0 ? |r| : 0)

   The sum of |r| over negative r is the same for all q: each sum begins with it. Nothing saturates,
   because |r| <= 127 and |q ^ m| <= 128. */
#define TRF__AVX2 TRF__TARGET("avx2")
enum { TRF__INT8_SIGNED_DEEP = 512 };
/* |r| and m of so many numbers of the rows of a call. */
typedef struct trf__int8_signed {
    char sizes[TRF__INT8_SIGNED_ROWS][TRF__INT8_SIGNED_DEEP];
    char signs[TRF__INT8_SIGNED_ROWS][TRF__INT8_SIGNED_DEEP];
    int32_t first[TRF__INT8_SIGNED_ROWS];       /* the sum of |r| over negative r */
} trf__int8_signed;

/* |r| and m of n numbers. Returns the sum of |r| where r is negative. */
TRF__AVX2 static TRF__UNUSED
int32_t trf__int8_signs(char *sizes, char *signs, const char *x, int64_t n)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i sum = zero;
    int64_t sums[4];
    for (int64_t t = 0; t < n; t += 32) {
        __m256i value = _mm256_loadu_si256((const __m256i *)(const void *)(x + t));
        __m256i sign = _mm256_cmpgt_epi8(zero, value), size = _mm256_abs_epi8(value);
        _mm256_storeu_si256((__m256i *)(void *)(sizes + t), size);
        _mm256_storeu_si256((__m256i *)(void *)(signs + t), sign);
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(_mm256_and_si256(size, sign), zero));
    }
    _mm256_storeu_si256((__m256i *)(void *)sums, sum);
    return (int32_t)(sums[0] + sums[1] + sums[2] + sums[3]);
}

/* Adds R rows times a panel to their sums, row_sums apart. Four numbers of a panel are two vectors.
   The next panel begins w_step bytes further and is prefetched. SIGN is 0 if no r of these rows is
   negative, as after a ReLU. */
#define TRF__INT8_AVX2(R, SIGN) \
TRF__AVX2 static TRF__UNUSED \
void TRF__NAMED(trf__int8_avx2_##R##_##SIGN)(int32_t *sums, int64_t row_sums, \
                                             const trf__int8_signed *x, const char *w, \
                                             size_t w_step, int64_t k) \
{ \
    const __m256i ones = _mm256_set1_epi16(1); \
    __m256i sum[R][2]; \
    int64_t t; \
    int r, h; \
    TRF__UNROLL for (r = 0; r < R; r++) \
        TRF__UNROLL for (h = 0; h < 2; h++) sum[r][h] = _mm256_set1_epi32(x->first[r]); \
    for (t = 0; t < k; t += 4) { \
        const char *at = w + 16 * t; \
        __m256i q[2]; \
        TRF__UNROLL for (h = 0; h < 2; h++) { \
            q[h] = _mm256_loadu_si256((const __m256i *)(const void *)(at + 32 * h)); \
            TRF__HOLD(q[h]); \
        } \
        TRF__PREFETCH(at + w_step); \
        TRF__UNROLL for (r = 0; r < R; r++) { \
            int32_t size, sign; \
            memcpy(&size, x->sizes[r] + t, sizeof size); \
            memcpy(&sign, x->signs[r] + t, sizeof sign); \
            TRF__UNROLL for (h = 0; h < 2; h++) { \
                __m256i flipped = SIGN ? _mm256_xor_si256(q[h], _mm256_set1_epi32(sign)) : q[h]; \
                __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi32(size), flipped); \
                sum[r][h] = _mm256_add_epi32(sum[r][h], _mm256_madd_epi16(pairs, ones)); \
                TRF__HOLD(sum[r][h]); \
            } \
        } \
    } \
    TRF__UNROLL for (r = 0; r < R; r++) \
        TRF__UNROLL for (h = 0; h < 2; h++) { \
            __m256i *to = (__m256i *)(void *)(sums + r * row_sums + 8 * h); \
            _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), sum[r][h])); \
        } \
}
#define TRF__EACH_AVX2(X) X(1, 0) X(2, 0) X(3, 0) X(4, 0) X(1, 1) X(2, 1) X(3, 1) X(4, 1)
TRF__EACH_AVX2(TRF__INT8_AVX2)

TRF__AVX2 static TRF__UNUSED
void trf__int8_avx2(int32_t *sums, const char *x, size_t x_step, int64_t rows, const char *w,
                    size_t w_step, int64_t n_panels, int64_t k)
{
    trf__int8_signed part;
    int64_t n;
    memset(sums, 0, (size_t)(rows * n_panels) * 64);
    for (int64_t t = 0; t < k; t += n) {
        int negative = 0;
        n = trf__min64(TRF__INT8_SIGNED_DEEP, k - t);
        for (int64_t r = 0; r < rows; r++) {
            part.first[r] = trf__int8_signs(part.sizes[r], part.signs[r],
                                            x + (size_t)r * x_step + t, n);
            negative |= part.first[r] != 0;
        }
        for (int64_t p = 0; p < n_panels; p++)
            switch (8 * negative + rows) {
#define TRF__CASE(R, SIGN) case 8 * SIGN + R: \
            TRF__NAMED(trf__int8_avx2_##R##_##SIGN)(sums + 16 * p, 16 * n_panels, &part, \
                                        w + (size_t)p * w_step + 16 * t, w_step, n); break;
            TRF__EACH_AVX2(TRF__CASE)
#undef TRF__CASE
            default: break;
            }
    }
}

#endif

// >>int8-vnni      the same, with instructions for it
//
// vpdpbusd multiplies unsigned by signed bytes and adds four products to a sum of 32 bits. x is
// stored as r + 128, and each sum begins with -128 times the sum of its row of q.

#if (TRF__X86 && TRF__WIDEST >= 32) || TRF__ARM
/* R rows and P panels, whose sums are registers. Four numbers of a panel are PARTS vectors, and a
   row of C has row_sums sums. One row waits for weights, so it prefetches. FIRST: of what the panel
   has behind its scales. */
#define TRF__VNNI_ROWS(R, P, NAME, TARGET, VECTOR, PARTS, LOAD, FIRST, SET, DOT, STORE) \
TARGET static TRF__UNUSED \
void TRF__NAMED(NAME##_##R##_##P)(int32_t *sums, int64_t row_sums, const char *x, size_t x_step, \
                      const char *w, size_t w_step, int64_t k) \
{ \
    VECTOR sum[R][P * PARTS]; \
    const size_t part = 64 / PARTS; \
    int64_t t; \
    int r, p; \
    TRF__UNROLL for (r = 0; r < R; r++) \
        TRF__UNROLL for (p = 0; p < P * PARTS; p++) \
            sum[r][p] = FIRST((const VECTOR *)(const void *)(w + (size_t)(p / PARTS) * w_step + \
                              (size_t)(p % PARTS) * part + trf__int8_sums_at(k))); \
    for (t = 0; t < k; t += 4) { \
        VECTOR column[P * PARTS]; \
        TRF__UNROLL for (p = 0; p < P * PARTS; p++) { \
            const char *at = w + (size_t)(p / PARTS) * w_step + (size_t)(p % PARTS) * part + \
                             16 * t; \
            column[p] = LOAD((const VECTOR *)(const void *)at); \
            if (R == 1 && p % PARTS == 0) TRF__PREFETCH(at + P * w_step); \
        } \
        TRF__UNROLL for (r = 0; r < R; r++) { \
            int32_t four; \
            VECTOR value; \
            memcpy(&four, x + (size_t)r * x_step + t, sizeof four); \
            value = SET(four); \
            TRF__UNROLL for (p = 0; p < P * PARTS; p++) \
                sum[r][p] = DOT(sum[r][p], value, column[p]); \
        } \
    } \
    TRF__UNROLL for (r = 0; r < R; r++) \
        TRF__UNROLL for (p = 0; p < P * PARTS; p++) \
            STORE((VECTOR *)(void *)(sums + r * row_sums + 16 / PARTS * p), sum[r][p]); \
}
#endif

#if TRF__X86 && TRF__WIDEST >= 32
#if TRF__WIDEST == 64
#define TRF__VNNI TRF__TARGET("avx512f,avx512bw,avx512vl,avx512vnni")
#define TRF__VNNI_512(R, P) \
    TRF__VNNI_ROWS(R, P, trf__int8_vnni, TRF__VNNI, __m512i, 1, _mm512_loadu_si512, \
                   _mm512_loadu_si512, _mm512_set1_epi32, _mm512_dpbusd_epi32, _mm512_storeu_si512)
#define TRF__EACH_VNNI_512(X) \
    TRF__EACH_ROWS(X, 1) TRF__EACH_ROWS(X, 2) TRF__EACH_ROWS(X, 3) TRF__EACH_ROWS(X, 4)
TRF__EACH_VNNI_512(TRF__VNNI_512)

TRF__VNNI static TRF__UNUSED
void trf__int8_vnni(int32_t *sums, const char *x, size_t x_step, int64_t rows, const char *w,
                    size_t w_step, int64_t n_panels, int64_t k)
{
    switch (8 * n_panels + rows) {
#define TRF__CASE(R, P) case 8 * P + R: \
        TRF__NAMED(trf__int8_vnni_##R##_##P)(sums, 16 * P, x, x_step, w, w_step, k); break;
    TRF__EACH_VNNI_512(TRF__CASE)
#undef TRF__CASE
    default: break;
    }
}

TRF__FN int trf__has_vnni(void)
{
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

/* Before version 19 clang cannot ask whether a processor has AVX-VNNI. */
#undef TRF__AVX_VNNI
#if (defined(__clang__) && __clang_major__ >= 19) || (!defined(__clang__) && __GNUC__ >= 11)
#define TRF__AVX_VNNI 1
/* The same with vectors of 32 bytes, for processors without AVX-512. */
#define TRF__AVX_VNNI_TARGET TRF__TARGET("avx2,avxvnni")
#define TRF__VNNI_256(R, P) \
    TRF__VNNI_ROWS(R, P, trf__int8_avx_vnni, TRF__AVX_VNNI_TARGET, __m256i, 2, \
                   _mm256_loadu_si256, _mm256_loadu_si256, _mm256_set1_epi32, \
                   _mm256_dpbusd_avx_epi32, _mm256_storeu_si256)
#define TRF__EACH_VNNI_256(X) X(1, 4) X(2, 2) X(3, 2) TRF__EACH_ROWS(X, 1)
TRF__EACH_VNNI_256(TRF__VNNI_256)

TRF__AVX_VNNI_TARGET static TRF__UNUSED
void trf__int8_avx_vnni(int32_t *sums, const char *x, size_t x_step, int64_t rows, const char *w,
                        size_t w_step, int64_t n_panels, int64_t k)
{
    const int64_t most = rows == 1 ? 4 : rows <= 3 ? 2 : 1;     /* sums of all fit into registers */
    int64_t n;
    for (int64_t p = 0; p < n_panels; p += n) {
        n = n_panels - p < most ? 1 : most;
        switch (8 * n + rows) {
#define TRF__CASE(R, P) case 8 * P + R: \
            TRF__NAMED(trf__int8_avx_vnni_##R##_##P)(sums + 16 * p, 16 * n_panels, x, x_step, \
                                         w + (size_t)p * w_step, w_step, k); break;
        TRF__EACH_VNNI_256(TRF__CASE)
#undef TRF__CASE
        default: break;
        }
    }
}

TRF__FN int trf__has_avx_vnni(void) { return __builtin_cpu_supports("avxvnni") != 0; }
#else
#define TRF__AVX_VNNI 0
#endif

TRF__FN int trf__has_avx2(void) { return __builtin_cpu_supports("avx2"); }
#endif

#if TRF__TILES
/* tdpbusd multiplies as vpdpbusd does. */
TRF__AMX_PRODUCT(trf__int8_tile_product, TRF__AMX_INT8)
TRF__FN void trf__int8_tiles(int32_t *sums, const char *x, size_t x_step, int64_t rows,
                             const char *w, size_t w_step, int64_t n_panels, int64_t k)
{
    trf__tile_call call = { (char *)sums, (size_t)n_panels * 64, w + trf__int8_sums_at(k), 0,
                            w_step, x, x_step, TRF__INT8_DEEP, w, w_step,
                            trf__ceil_div(k, TRF__INT8_DEEP) };
    trf__int8_tile_product(call, rows, n_panels);
}
TRF__FN int trf__int8_has_amx(void) { return trf__has_vnni() && trf__has_amx(); }
#endif

#if TRF__ARM
/* x and q are signed: sums begin with 0. */
#define TRF__SDOT_LOAD(at) vld1q_s32((const int32_t *)(at))
#define TRF__SDOT_FIRST(at) vdupq_n_s32(0)
#define TRF__SDOT_STORE(at, sum) vst1q_s32((int32_t *)(at), sum)
#define TRF__SDOT_ROWS(R, P) \
    TRF__VNNI_ROWS(R, P, trf__int8_sdot, , int32x4_t, 4, TRF__SDOT_LOAD, TRF__SDOT_FIRST, \
                   vdupq_n_s32, trf__sdot, TRF__SDOT_STORE)
TRF__EACH_ROWS(TRF__SDOT_ROWS, 1)

TRF__FN void trf__int8_sdot(int32_t *sums, const char *x, size_t x_step, int64_t rows,
                            const char *w, size_t w_step, int64_t n_panels, int64_t k)
{
    for (int64_t p = 0; p < n_panels; p++, w += w_step, sums += 16)
        switch (rows) {
#define TRF__CASE(R, P) case R: \
            trf__int8_sdot_##R##_##P(sums, 16 * n_panels, x, x_step, w, w_step, k); break;
        TRF__EACH_ROWS(TRF__CASE, 1)
#undef TRF__CASE
        default: break;
        }
}

TRF__ARM_PRODUCT(trf__int8_smmla_product, trf__smmla)
TRF__FN void trf__int8_smmla(int32_t *sums, const char *x, size_t x_step, int64_t rows,
                             const char *w, size_t w_step, int64_t n_panels, int64_t k)
{
    static const int32_t zeros[16] = {0};
    trf__tile_call call = { (char *)sums, (size_t)n_panels * 64, (const char *)zeros, 0, 0, x,
                            x_step, TRF__INT8_DEEP, w, w_step, trf__ceil_div(k, TRF__INT8_DEEP) };
    trf__int8_smmla_product(call, rows, n_panels);
}
#endif
TRF__FN int trf__has_c(void) { return 1; }

/* flip: 0x80 if the kernel reads r + 128. A product of fewer than `least` rows takes the next
   kernel, which reads the same: it waits for weights, whatever multiplies. */
typedef struct trf__int8_kernel {
    const char *name;
    int (*supported)(void);
    int flip, tiles;
    int64_t rows, least;            /* rows of a call */
    trf__int8_function *function;
} trf__int8_kernel;

static const trf__int8_kernel trf__int8_kernels[] = {
#if TRF__TILES
    { "AMX", trf__int8_has_amx, 0x80, 1, TRF__INT8_TILE_ROWS, 7, trf__int8_tiles },
#endif
#if TRF__X86 && TRF__WIDEST == 64
    { "AVX-512 VNNI", trf__has_vnni, 0x80, 0, TRF__INT8_ROWS, 1, trf__int8_vnni },
#endif
#if TRF__X86 && TRF__WIDEST >= 32
#if TRF__AVX_VNNI
    { "AVX-VNNI", trf__has_avx_vnni, 0x80, 0, TRF__INT8_ROWS, 1, trf__int8_avx_vnni },
#endif
    { "AVX2", trf__has_avx2, 0, 0, TRF__INT8_SIGNED_ROWS, 1, trf__int8_avx2 },
#endif
#if TRF__ARM
    { "I8MM", trf__has_mmla, 0, 0, TRF__INT8_ROWS, 1, trf__int8_smmla },
    { "DotProd", trf__has_sdot, 0, 0, TRF__INT8_ROWS, 1, trf__int8_sdot },
#endif
    { "C", trf__has_c, 0, 0, TRF__INT8_ROWS, 1, trf__int8_plain }
};

/* The number of the first kernel that may be chosen; tests define it. */
#if !defined(TRF__INT8_KERNEL)
#define TRF__INT8_KERNEL 0
#endif
/* tiles: 1 if they may be used (trf__cpu.tiles). The kernel with tiles needs the next one. Both
   read the same activations, so converting passes 0. */
TRF__FN const trf__int8_kernel *trf__int8_chosen(int tiles)
{
    const trf__int8_kernel *kernel = trf__int8_kernels + TRF__INT8_KERNEL;
    while (kernel->tiles ? !(tiles && kernel[1].supported()) : !kernel->supported()) kernel++;
    return kernel;
}

// >>int8-products  rounding, and the floats around the sums

TRF__FN size_t trf__int8_row_bytes(int64_t k)
{
    return (size_t)trf__round_up(k, TRF__INT8_DEEP) + 64;
}
TRF__FN size_t trf__int8_panel_bytes(int64_t k)
{
    return trf__int8_scales_at(k) + TRF__INT8_SCALES;
}

/* The scale of n numbers, and what they are multiplied with before rounding. */
TRF__FN float trf__int8_scale(const trf_real *x, int64_t n, trf_real *inverse)
{
    trf__v16 zero = trf__set(0), most = zero, bad = zero;
    for (int64_t c = 0; c < n; c += 16) {
        trf__v16 value = trf__load_n(x + c, n - c);
        most = trf__max(most, trf__max(value, trf__sub(zero, value)));
        bad = trf__add(bad, trf__sub(value, value));            /* NaN if one is not finite */
    }
    trf_real largest = trf__max_lane(most);
    *inverse = 0;
    if (!(trf__sum(bad) == 0)) return NAN;
    if (!(largest > (trf_real)1e-30)) return 0;
    *inverse = 127 / largest;
    return (float)largest / 127;
}

/* Rounds sixteen numbers x * inverse to integers -127 .. 127, halves to the even one: the sum with
   1.5 * 2^23 has the integer in its lowest bits. Returns them as floats. flip: bits that change in
   each that is written. Rounded apart: files are written at the base level, and must have the
   integers that other levels pack. */
TRF__INLINE trf__v16 trf__int8_round(int8_t *to, trf__v16 x, trf_real inverse, int flip)
{
    const double magic = TRF__REAL_BYTES == 8 ? 6755399441055744.0 : 12582912.0;
    trf__v16 y = trf__apart(x, trf__set(inverse), trf__set((trf_real)magic));
#if TRF__SHUFFLES
    {
        /* by way of 16 bits: GCC moves numbers one by one if it is to drop 24 bits at once */
        typedef int16_t half __attribute__((vector_size(2 * TRF__VECTOR_BYTES / TRF__REAL_BYTES)));
        typedef int8_t part __attribute__((vector_size(TRF__VECTOR_BYTES / TRF__REAL_BYTES)));
        TRF__EACH(half halves = __builtin_convertvector((trf__ivec)y.part[i] ^ flip, half);
                  part bytes = __builtin_convertvector(halves, part);
                  memcpy(to + i * (int)sizeof bytes, &bytes, sizeof bytes))
    }
#else
    {
        trf_real sums[TRF__WIDE];
        trf__store(sums, y);
        for (int i = 0; i < TRF__WIDE; i++) {
            trf__int bits;
            memcpy(&bits, &sums[i], sizeof bits);
            to[i] = (int8_t)(bits ^ flip);
        }
    }
#endif
    return trf__sub(y, trf__set((trf_real)magic));
}

/* A row of x as a kernel reads it. A row that is not finite keeps no numbers: NaN * 0 would be NaN,
   and a NaN is no integer. */
TRF__FN void trf__int8_convert(void *row, const trf_real *x, int64_t k)
{
    const int flip = trf__int8_chosen(0)->flip;
    int64_t padded = trf__round_up(k, TRF__INT8_DEEP);
    int8_t *to = (int8_t *)row;
    trf_real inverse;
    float scale = trf__int8_scale(x, k, &inverse);
    memset(to + trf__round_up(k, 16), flip, (size_t)(padded - trf__round_up(k, 16)));
    if (inverse == 0) memset(to, flip, (size_t)padded);
    for (int64_t c = 0; inverse != 0 && c < k; c += 16)
        trf__int8_round(to + c, trf__load_n(x + c, k - c), inverse, flip);
    memcpy(to + padded, &scale, sizeof scale);
}

// >>int8-panels    weights in 8 bits, rounded here or by a file

TRF__FN size_t trf__int8_bytes(int64_t out, int64_t in)
{
    return trf__bytes(trf__ceil_div(out, 16), trf__int8_panel_bytes(in));
}

/* If scales are given, each weight is an integer times its row's scale, which rounding finds. */
TRF__FN void trf__int8_pack(void *packed, const trf_real *w, int64_t first, int64_t rows,
                            int64_t in)
{
    int64_t deep = trf__round_up(in, TRF__INT8_DEEP), t;
    for (int64_t r = 0; r < trf__round_up(rows, 16); r++) {
        char *panel = (char *)packed + (size_t)((first + r) / 16) * trf__int8_panel_bytes(in);
        char *numbers = panel + 4 * (r % 16);
        const trf_real *from = w + (first + r) * in;
        float *scales = (float *)(void *)(panel + trf__int8_scales_at(in));
        int32_t *sums = (int32_t *)(void *)(panel + trf__int8_sums_at(in));
        trf_real inverse = 0;
        trf__v16 sum = trf__set(0);     /* exact: of whole numbers, below 2^24 */
        scales[r % 16] = 0;
        if (r < rows) scales[r % 16] = trf__int8_scale(from, in, &inverse);
        for (int64_t c = 0; c < deep; c += 16) {
            int8_t sixteen[TRF__WIDE] = {0};
            if (inverse != 0 && c < in)
                sum = trf__add(sum, trf__int8_round(sixteen, trf__load_n(from + c, in - c), inverse,
                                                    0));
            for (t = 0; t < TRF__WIDE; t += 4) memcpy(numbers + (c + t) * 16, sixteen + t, 4);
        }
        sums[r % 16] = -128 * (int32_t)trf__sum(sum);
    }
}

/* The sums of sixteen rows of a panel. */
TRF__FN void trf__int8_row_sums(int32_t sums[16], const char *panel, int64_t words)
{
#if TRF__VECTOR_BYTES > TRF__REAL_BYTES && TRF__REAL_BYTES == 4
    const int lanes = TRF__VECTOR_BYTES / 4;
    for (int first = 0; first < 16; first += lanes) {
        trf__ivec sum = {0};
        for (int64_t c = 0; c < words; c++) {
            trf__uvec w;
            memcpy(&w, panel + 4 * (16 * c + first), sizeof w);
            sum += ((trf__ivec)(w << 24) >> 24) + ((trf__ivec)(w << 16) >> 24) +
                   ((trf__ivec)(w << 8) >> 24) + ((trf__ivec)w >> 24);
        }
        memcpy(sums + first, &sum, sizeof sum);
    }
#else
    memset(sums, 0, 16 * sizeof *sums);
    for (int64_t c = 0; c < 64 * words; c++) sums[c / 4 % 16] += ((const signed char *)panel)[c];
#endif
}

/* Packs rows in 8 bits, and their scales. A panel has words of four numbers of a row. */
TRF__FN void trf__int8_stored(void *packed, const void *stored, int64_t first, int64_t rows,
                              int64_t in, const trf_real *scales)
{
    const int64_t words = trf__round_up(in, TRF__INT8_DEEP) / 4;
    for (int64_t r = 0; r < rows; r += 16) {
        char *panel = (char *)packed + (size_t)((first + r) / 16) * trf__int8_panel_bytes(in);
        float *scale = (float *)(void *)(panel + trf__int8_scales_at(in));
        int32_t *sums = (int32_t *)(void *)(panel + trf__int8_sums_at(in));
        trf__pack_words(panel, (const char *)stored + (first + r) * in, in, rows - r, words);
        trf__int8_row_sums(sums, panel, words);
        for (int64_t i = 0; i < 16; i++) {
            sums[i] *= -128;
            scale[i] = r + i < rows ? (float)scales[first + r + i] : 0;
        }
    }
}

TRF__FN trf__v16 trf__int8_read(const void *packed, int64_t row, int64_t c, int64_t in)
{
    const char *panel = (const char *)packed + (size_t)(row / 16) * trf__int8_panel_bytes(in);
    const float *scales = (const float *)(const void *)(panel + trf__int8_scales_at(in));
    /* the panel continues with zeros, so all sixteen numbers are there */
    const signed char *numbers = (const signed char *)panel + 4 * (row % 16) + 16 * c;
    trf_real x[TRF__WIDE];
    for (int i = 0; i < TRF__WIDE; i++) x[i] = (trf_real)numbers[i / 4 * 64 + i % 4];
    return trf__mul(trf__load(x), trf__set((trf_real)scales[row % 16]));
}

/* Sixteen integers or floats of memory as a vector. GCC makes two half stores of a loop over single
   numbers, and the load of the whole vector waits for both. */
#if TRF__SHUFFLES && TRF__REAL_BYTES == 4
TRF__INLINE trf__v16 trf__of_ints(const int32_t *from)
{
    trf__v16 x;
    TRF__UNROLL for (int i = 0; i < TRF__PARTS; i++) {
        trf__ivec part;
        memcpy(&part, from + i * (16 / TRF__PARTS), sizeof part);
        x.part[i] = __builtin_convertvector(part, trf__vec);
    }
    return x;
}
TRF__INLINE trf__v16 trf__of_floats(const float *from) { return trf__load(from); }
#else
#define TRF__OF(name, type) \
TRF__INLINE trf__v16 name(const type *from) \
{ \
    trf_real x[TRF__WIDE]; \
    for (int i = 0; i < TRF__WIDE; i++) x[i] = (trf_real)from[i]; \
    return trf__load(x); \
}
TRF__OF(trf__of_ints, int32_t)
TRF__OF(trf__of_floats, float)
#endif

/* Sixteen sums as results, in C's columns from `column` on. A negative one says how many of the
   first sums belong to rows of the panel in front of the product's. */
TRF__FN void trf__int8_store(const trf__product *p, int64_t row, int64_t column,
                             const int32_t *sums, float scale, const float *scales)
{
    int low = column < 0 ? (int)-column : 0;
    int64_t at = column + low, n = trf__min64(TRF__WIDE - low, p->n - at);
    trf_real *c = p->c + row * p->ldc + at;
    const trf_real *from = p->add ? c : p->bias ? p->bias + at : NULL;
    int32_t own_sums[TRF__WIDE];
    float own_scales[TRF__WIDE];
    trf__v16 first = from ? trf__load_n(from, n) : trf__set(0);
    if (low) {
        memset(own_sums, 0, sizeof own_sums);
        memset(own_scales, 0, sizeof own_scales);
        memcpy(own_sums, sums + low, (size_t)(TRF__WIDE - low) * sizeof *sums);
        memcpy(own_scales, scales + low, (size_t)(TRF__WIDE - low) * sizeof *scales);
        sums = own_sums;
        scales = own_scales;
    }
    trf__v16 x = trf__of_ints(sums);
    trf__v16 y = trf__mul(trf__of_floats(scales), trf__set((trf_real)scale));
    trf__store_n(c, trf__fma(trf__opaque(x), trf__opaque(y), trf__opaque(first)), n);
}

/* The product of converted rows. The weight's rows may begin inside a panel: then the first columns
   are computed for nothing. */
TRF__FN void trf__int8_product(TRF__UNUSED trf_real *scratch, trf__product p, const void *packed,
                               int64_t row)
{
    const trf__int8_kernel *kernel = trf__int8_chosen(p.tiles);
    const size_t step = trf__int8_panel_bytes(p.k);
    const char *panels = (const char *)packed + (size_t)(row / 16) * step;
    const int64_t skip = row % 16, n_panels = trf__ceil_div(skip + p.n, 16);
    const int64_t deep = trf__round_up(p.k, 4), scale_at = trf__round_up(p.k, TRF__INT8_DEEP);
    int32_t sums[TRF__INT8_TILE_ROWS * TRF__INT8_PANELS * 16];
    if (p.m < kernel->least) kernel++;
    if (kernel->tiles) trf__amx_begin();
    for (int64_t j = 0; j < n_panels; j += TRF__INT8_PANELS)
        for (int64_t i = 0; i < p.m; i += kernel->rows) {
            int64_t rows = trf__min64(kernel->rows, p.m - i);
            int64_t n = trf__min64(TRF__INT8_PANELS, n_panels - j);
            const char *x = p.left + (size_t)i * p.left_step, *w = panels + (size_t)j * step;
            kernel->function(sums, x, p.left_step, rows, w, step, n, deep);
            for (int64_t r = 0; r < rows; r++) {
                float scale;
                memcpy(&scale, x + (size_t)r * p.left_step + scale_at, sizeof scale);
                for (int64_t q = 0; q < n; q++)
                    trf__int8_store(&p, i + r, 16 * (j + q) - skip, sums + (r * n + q) * 16, scale,
                                    (const float *)(const void *)(w + (size_t)q * step +
                                                                  trf__int8_scales_at(p.k)));
            }
        }
    if (kernel->tiles) trf__amx_end();
}

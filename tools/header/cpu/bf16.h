#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "cpu/gemm.h"
#include "cpu/amx.h"
#include "cpu/arm.h"
#include "cpu/int8.h"

// >>bf16           products of numbers of 16 bits
//
//   y[i][j] = sum over t of bf16(x[i][t]) bf16(w[j][t]) + b[j]
//
// bf16 is the upper half of a float: 8 significant bits. Numbers are rounded to the nearest one,
// ties to even; an infinity stays one, and so does a NaN. A product of two such numbers is exact in
// a float. Every element of C is one chain of additions over t in order, as in >>gemm.
//
//   panel    sixteen rows of w: words with two numbers of each row, the earlier one in the lower
//            half, then the next two of each, ...; zeros up to a multiple of 32 numbers
//   block    some rows of x as a kernel reads them: sixteen (or 32) numbers of each row, then the
//            next sixteen of each, ...; zeros fill up the last ones
//   converted rows   x as the op before has left it (>>ops): numbers of 16 bits in order. A row
//            takes an odd number of cache lines, so rows lie in different sets of a cache
//
// A kernel multiplies a block and some panels. The first that the processor supports is used:
//   AMX          adds 32 products at once: those of even and of odd places apart, then both to the
//                sum
//   vdpbf16ps    adds two products to a float at once, and rounds in its own way: results are near
//                those of the other, not the same bits
//   bfmmla       four products, in its own way too (>>arm)
//   vectors      widens numbers to floats, and works everywhere. Large products are no faster than
//                those of floats. Products of few rows are: they wait for weights, which have half
//                the bytes
//
// These instructions take numbers below 2^-126 as 0. So does vcvtne2ps2bf16, which rounds for them.

enum {
    TRF__BF16_DEEP = 32,            /* panels have a multiple of so many numbers */
    TRF__BF16_ROWS = 6,             /* the most rows of x in a call */
    TRF__BF16_TILE_ROWS = 32,       /* the same with AMX */
    TRF__BF16_MOST = 4,             /* the most panels in a call */
    TRF__BF16_PANELS = TRF__PARTS == 1 ? 2 : 1,         /* the same with plain vectors */
    TRF__BF16_BLOCK = 96,           /* rows of a block; one of a kernel with tiles has their rows */
    TRF__BF16_FAR = 4096,           /* the most numbers of a row if a block has up to six rows, */
    TRF__BF16_TILE_DEEP = 2048,     /* and for tiles */
    TRF__BF16_NEAR = 5 << 18,       /* bytes of a weight that stays in a level-2 cache. Small tiles
                                       of C read it again from there, and stay there too */
    TRF__BF16_ROOM = 1 << 16        /* the most trf_reals for blocks: 256 KB, in a level-2 cache */
};

/* C (rows, 16 * panels) = first + A B. */
typedef struct trf__bf16_call {
    trf_real *c;
    int64_t ldc;
    const trf_real *first;          /* C itself, a bias or zeros, */
    int64_t first_row;              /* and the numbers between its rows: ldc or 0 */
    const trf_real *a;              /* of a block with block_rows rows; a row of it takes the
                                       bytes of sixteen trf_real; or of converted rows */
    int64_t block_rows;
    size_t a_row, a_step;           /* bytes between rows of pairs, and between 32 numbers of one */
    const uint32_t *w;
    int64_t w_step;                 /* words between panels */
    int64_t k;
    const trf_real *next;           /* >>bf16x3 prefetches these floats: */
    int64_t next_rows;              /* so many rows of a panel for each 32 numbers of A */
    int64_t next_panel;             /* numbers between panels */
} trf__bf16_call;

/* The nearest number with 8 significant bits. */
TRF__INLINE trf__v16 trf__bf16_round(trf__v16 x)
{
#if TRF__SHUFFLES && TRF__REAL_BYTES == 4
    TRF__UNROLL for (int i = 0; i < TRF__PARTS; i++) {
        trf__uvec bits = (trf__uvec)x.part[i];
        trf__uvec nan = (trf__uvec)(x.part[i] != x.part[i]) & 0x7FC00000u;
        bits += 0x7FFFu + (bits >> 16 & 1u);
        x.part[i] = (trf__vec)((bits & 0xFFFF0000u) | nan);
    }
#else
    trf_real numbers[TRF__WIDE];
    trf__store(numbers, x);
    for (int i = 0; i < TRF__WIDE; i++) {
        uint32_t bits = trf__float_bits((float)numbers[i]);
        bits = (bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u;
        if (numbers[i] != numbers[i]) bits |= 0x7FC00000u;
        numbers[i] = (trf_real)trf__float_of(bits);
    }
    x = trf__load(numbers);
#endif
    return x;
}

/* Sixteen words of a panel from two times sixteen rounded numbers, and back. */
TRF__INLINE void trf__bf16_join(uint32_t *words, trf__v16 even, trf__v16 odd)
{
#if TRF__SHUFFLES && TRF__REAL_BYTES == 4
    for (int i = 0; i < TRF__PARTS; i++) {
        trf__uvec both = (trf__uvec)even.part[i] >> 16 | (trf__uvec)odd.part[i];
        memcpy(words + i * (16 / TRF__PARTS), &both, sizeof both);
    }
#else
    trf_real numbers[2][TRF__WIDE];
    trf__store(numbers[0], even);
    trf__store(numbers[1], odd);
    for (int i = 0; i < TRF__WIDE; i++)
        words[i] = trf__float_bits((float)numbers[0][i]) >> 16 |
                   trf__float_bits((float)numbers[1][i]);
#endif
}

TRF__INLINE void trf__bf16_split(const uint32_t *words, trf__v16 *even, trf__v16 *odd)
{
#if TRF__SHUFFLES && TRF__REAL_BYTES == 4
    TRF__UNROLL for (int i = 0; i < TRF__PARTS; i++) {
        trf__uvec both;
        memcpy(&both, words + i * (16 / TRF__PARTS), sizeof both);
        even->part[i] = (trf__vec)(both << 16);
        odd->part[i] = (trf__vec)(both & 0xFFFF0000u);
    }
#else
    trf_real numbers[2][TRF__WIDE];
    for (int i = 0; i < TRF__WIDE; i++) {
        numbers[0][i] = (trf_real)trf__float_of(words[i] << 16);
        numbers[1][i] = (trf_real)trf__float_of(words[i] & 0xFFFF0000u);
    }
    *even = trf__load(numbers[0]);
    *odd = trf__load(numbers[1]);
#endif
}

/* Sixteen rounded numbers in order, 16 bits each. */
TRF__INLINE void trf__bf16_store(void *to, trf__v16 x)
{
#if TRF__SHUFFLES && TRF__REAL_BYTES == 4
    for (int i = 0; i < TRF__PARTS; i++) {
        trf__bits_in_memory bits = __builtin_convertvector((trf__uvec)x.part[i] >> 16,
                                                           trf__bits_in_memory);
        memcpy((char *)to + i * (32 / TRF__PARTS), &bits, sizeof bits);
    }
#else
    trf_real numbers[TRF__WIDE];
    trf__store(numbers, x);
    for (int i = 0; i < TRF__WIDE; i++) {
        uint16_t bits = (uint16_t)(trf__float_bits((float)numbers[i]) >> 16);
        memcpy((char *)to + 2 * i, &bits, sizeof bits);
    }
#endif
}

/* A block of a matrix's first `rows` rows and `deep` columns, as floats. */
TRF__FN void trf__bf16_block(trf_real *block, trf__view a, int64_t rows, int64_t deep)
{
    for (int64_t t = 0; t < deep; t += 16, block += 16 * rows) {
        trf__pack_panel(block, trf__view_of(a.at + t * a.column, a.row, a.column), rows, deep - t);
        for (int64_t i = 0; i < rows; i++)
            trf__store(block + 16 * i, trf__bf16_round(trf__load(block + 16 * i)));
    }
}

/* R rows and P panels, whose sums are registers. */
#define TRF__BF16_VECTORS(R, P) \
TRF__FN void TRF__NAMED(trf__bf16_vectors_##R##_##P)(const trf__bf16_call *x) \
{ \
    trf__v16 sum[R][P]; \
    const uint32_t *w = x->w; \
    int64_t t, i; \
    int r, p; \
    TRF__UNROLL for (r = 0; r < R; r++) \
        TRF__UNROLL for (p = 0; p < P; p++) \
            sum[r][p] = trf__load(x->first + r * x->first_row + 16 * p); \
    for (t = 0; t < x->k; t += 16) { \
        const trf_real *a = x->a + t * x->block_rows; \
        for (i = 0; i < 16; i += 2, w += 16) { \
            trf__v16 even[P], odd[P]; \
            TRF__UNROLL for (p = 0; p < P; p++) { \
                trf__bf16_split(w + p * x->w_step, &even[p], &odd[p]); \
                even[p] = trf__opaque(even[p]); \
                odd[p] = trf__opaque(odd[p]); \
            } \
            TRF__UNROLL for (r = 0; r < R; r++) { \
                trf__v16 value = trf__set(a[16 * r + i]); \
                TRF__UNROLL for (p = 0; p < P; p++) \
                    sum[r][p] = trf__fma(value, even[p], sum[r][p]); \
                value = trf__set(a[16 * r + i + 1]); \
                TRF__UNROLL for (p = 0; p < P; p++) \
                    sum[r][p] = trf__fma(value, odd[p], sum[r][p]); \
            } \
        } \
    } \
    TRF__UNROLL for (r = 0; r < R; r++) \
        TRF__UNROLL for (p = 0; p < P; p++) \
            trf__store(x->c + r * x->ldc + 16 * p, sum[r][p]); \
}
#undef TRF__EACH_BF16_VECTORS
#if TRF__PARTS == 1
#define TRF__EACH_BF16_VECTORS(X) TRF__EACH_ROWS(X, 1) TRF__EACH_ROWS(X, 2)
#else
#define TRF__EACH_BF16_VECTORS(X) TRF__EACH_ROWS(X, 1)
#endif
TRF__EACH_BF16_VECTORS(TRF__BF16_VECTORS)

TRF__FN void trf__bf16_vectors(const trf__bf16_call *x, int64_t rows, int64_t panels)
{
    switch (8 * panels + rows) {
#define TRF__CASE(R, P) case 8 * P + R: TRF__NAMED(trf__bf16_vectors_##R##_##P)(x); break;
    TRF__EACH_BF16_VECTORS(TRF__CASE)
#undef TRF__CASE
    default: break;
    }
}

// >>bf16-pairs     two products at once

#undef TRF__BF16_PAIRS
#undef TRF__BF16_TILES
#if TRF__SHUFFLES && TRF__REAL_BYTES == 4
/* Up to sixteen rows of a block, 32 numbers each in pairs, without a rounding instruction. */
TRF__FN void trf__bf16_pairs_plain(uint32_t *to, trf__view a, int64_t rows, int64_t numbers)
{
    trf_real chunk[16 * 16];
    memset(to, 0, (size_t)rows * 64);
    for (int64_t h = 0; h < trf__min64(32, numbers); h += 16) {
        trf__pack_panel(chunk, trf__view_of(a.at + h * a.column, a.row, a.column), rows,
                        numbers - h);
        for (int64_t r = 0; r < rows; r++)
            trf__bf16_store((char *)(to + 16 * r) + 2 * h,
                            trf__bf16_round(trf__load(chunk + 16 * r)));
    }
}
#endif

/* GCC has vdpbf16ps from version 10 on. */
#if TRF__X86 && TRF__WIDEST == 64 && TRF__SHUFFLES && TRF__REAL_BYTES == 4 && \
    (defined(__clang__) || __GNUC__ >= 10)
#define TRF__BF16_PAIRS 1

/* A test emulates the instruction. */
#if !defined(TRF__DPBF16)
#define TRF__DPBF16(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#define TRF__TO_BF16(upper, lower) (__m512i)_mm512_cvtne2ps_pbh(upper, lower)
#define TRF__HAS_DPBF16() __builtin_cpu_supports("avx512bf16")
#endif

TRF__FN int trf__has_dpbf16(void)
{
    return TRF__HAS_DPBF16() && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

#define TRF__BF16_TARGET TRF__TARGET("avx512f,avx512bw,avx512vl,avx512bf16")
#define TRF__BF16_INLINE TRF__BF16_TARGET static inline __attribute__((always_inline, unused))

/* Transposes sixteen vectors of sixteen words: first blocks of four by four words, then the blocks.
   All masks are full. Without one the intrinsics begin with an undefined vector: g++ warns. */
TRF__BF16_INLINE void trf__transpose16(__m512i x[16])
{
    __m512i y[16];
    TRF__UNROLL for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_maskz_unpacklo_epi32(0xFFFF, x[i], x[i + 1]);
        y[i + 1] = _mm512_maskz_unpackhi_epi32(0xFFFF, x[i], x[i + 1]);
    }
    TRF__UNROLL for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_maskz_unpacklo_epi64(0xFF, y[i], y[i + 2]);
        x[i + 1] = _mm512_maskz_unpackhi_epi64(0xFF, y[i], y[i + 2]);
        x[i + 2] = _mm512_maskz_unpacklo_epi64(0xFF, y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_maskz_unpackhi_epi64(0xFF, y[i + 1], y[i + 3]);
    }
    TRF__UNROLL for (int i = 0; i < 4; i++) {
        y[i] = _mm512_maskz_shuffle_i32x4(0xFFFF, x[i], x[i + 4], 0x88);
        y[i + 4] = _mm512_maskz_shuffle_i32x4(0xFFFF, x[i], x[i + 4], 0xDD);
        y[i + 8] = _mm512_maskz_shuffle_i32x4(0xFFFF, x[i + 8], x[i + 12], 0x88);
        y[i + 12] = _mm512_maskz_shuffle_i32x4(0xFFFF, x[i + 8], x[i + 12], 0xDD);
    }
    TRF__UNROLL for (int i = 0; i < 4; i++) {
        x[i] = _mm512_maskz_shuffle_i32x4(0xFFFF, y[i], y[i + 8], 0x88);
        x[i + 4] = _mm512_maskz_shuffle_i32x4(0xFFFF, y[i + 4], y[i + 12], 0x88);
        x[i + 8] = _mm512_maskz_shuffle_i32x4(0xFFFF, y[i], y[i + 8], 0xDD);
        x[i + 12] = _mm512_maskz_shuffle_i32x4(0xFFFF, y[i + 4], y[i + 12], 0xDD);
    }
}

/* Which of sixteen numbers are among the first n. */
TRF__INLINE __mmask16 trf__first_of(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1);
}

/* Pairs as words. by_rows: the numbers of a row are contiguous, and vector i has the pairs of
   row i. Else those of a column are, and vector i has pair i of each row. */
TRF__BF16_INLINE void trf__bf16_words_of(__m512i words[16], trf__view x, int64_t rows,
                                         int64_t numbers, int by_rows)
{
    const __m512i places = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
                                            24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
                                            16, 0);
    const int64_t lines = by_rows ? rows : numbers, step = by_rows ? x.row : 2 * x.column;
    const __mmask16 first = trf__first_of(by_rows ? numbers : rows);
    const __mmask16 second = by_rows ? trf__first_of(numbers - 16) : first;
    const trf_real *at = x.at;
    TRF__UNROLL for (int i = 0; i < 16; i++, at += step) {
        int line = by_rows ? i : 2 * i;
        const trf_real *other = at + (by_rows ? 16 : x.column);
        __m512 lower = _mm512_setzero_ps(), upper = lower;
        if (line < lines) lower = _mm512_maskz_loadu_ps(first, at);
        if (line + !by_rows < lines) upper = _mm512_maskz_loadu_ps(second, other);
        words[i] = TRF__TO_BF16(upper, lower);
        if (!by_rows) words[i] = _mm512_maskz_permutexvar_epi16(~0u, places, words[i]);
    }
}

/* The pairs of up to sixteen rows of 32 numbers: pair p of row i becomes word 16 i + p, or, in a
   panel, word 16 p + i. Zeros follow the last number, and in a panel the last row. */
TRF__BF16_TARGET static TRF__UNUSED
void trf__bf16_pairs16(uint32_t *to, trf__view x, int64_t rows, int64_t numbers, int panel)
{
    const int by_rows = x.column == 1;
    __m512i words[16];
    /* whole ones with constants, so that their loops have no conditions */
    if (rows < 16 || numbers < 32) trf__bf16_words_of(words, x, rows, numbers, by_rows);
    else if (by_rows) trf__bf16_words_of(words, x, 16, 32, 1);
    else trf__bf16_words_of(words, x, 16, 32, 0);
    if (by_rows == panel) trf__transpose16(words);
    TRF__UNROLL for (int i = 0; i < 16; i++)
        if (panel || i < rows) _mm512_storeu_si512(to + 16 * i, words[i]);
}

#define TRF__BF16_PAIR_ROWS(R, P) \
TRF__BF16_TARGET static TRF__UNUSED \
void TRF__NAMED(trf__bf16_pairs_##R##_##P)(const trf__bf16_call *x) \
{ \
    __m512 sum[R][P]; \
    const char *a = (const char *)(const void *)x->a; \
    const uint32_t *w = x->w; \
    int64_t t, i; \
    int r, p; \
    TRF__UNROLL for (r = 0; r < R; r++) \
        TRF__UNROLL for (p = 0; p < P; p++) \
            sum[r][p] = _mm512_loadu_ps(x->first + r * x->first_row + 16 * p); \
    for (t = 0; t < x->k; t += 32, a += x->a_step) \
        for (i = 0; i < 16; i++, w += 16) { \
            __m512i column[P]; \
            TRF__UNROLL for (p = 0; p < P; p++) { \
                column[p] = _mm512_loadu_si512(w + p * x->w_step); \
                if (R == 1) TRF__PREFETCH(w + (P + p) * x->w_step); \
            } \
            TRF__UNROLL for (r = 0; r < R; r++) { \
                int32_t two; \
                __m512i value; \
                memcpy(&two, a + (size_t)r * x->a_row + 4 * i, sizeof two); \
                value = _mm512_set1_epi32(two); \
                TRF__UNROLL for (p = 0; p < P; p++) \
                    sum[r][p] = TRF__DPBF16(sum[r][p], value, column[p]); \
            } \
        } \
    TRF__UNROLL for (r = 0; r < R; r++) \
        TRF__UNROLL for (p = 0; p < P; p++) \
            _mm512_storeu_ps(x->c + r * x->ldc + 16 * p, sum[r][p]); \
}
#define TRF__EACH_BF16_PAIRS(X) TRF__EACH_ROWS(X, 1) TRF__EACH_ROWS(X, 4)
TRF__EACH_BF16_PAIRS(TRF__BF16_PAIR_ROWS)

TRF__BF16_TARGET static TRF__UNUSED
void trf__bf16_pairs(const trf__bf16_call *x, int64_t rows, int64_t panels)
{
    switch (8 * panels + rows) {
#define TRF__CASE(R, P) case 8 * P + R: TRF__NAMED(trf__bf16_pairs_##R##_##P)(x); break;
    TRF__EACH_BF16_PAIRS(TRF__CASE)
#undef TRF__CASE
    default: break;
    }
}

#else
#define TRF__BF16_PAIRS 0
#endif

// >>bf16-kernels   converted rows, blocks in pairs, tiles, ARM64, and the choice of a kernel

#if TRF__BF16_PAIRS
TRF__BF16_TARGET static TRF__UNUSED
void trf__bf16_row_pairs(uint16_t *to, const trf_real *x, int64_t n)
{
    for (; n >= 32; n -= 32, x += 32, to += 32)
        _mm512_storeu_si512(to, TRF__TO_BF16(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x)));
    if (n > 0)
        _mm512_mask_storeu_epi32(to, 0xFF, TRF__TO_BF16(_mm512_setzero_ps(), _mm512_loadu_ps(x)));
}
#endif

/* A part of a converted row: n numbers, a multiple of sixteen. */
TRF__FN void trf__bf16_row(void *row, const trf_real *x, int64_t n)
{
#if TRF__BF16_PAIRS
    if (trf__has_dpbf16()) { trf__bf16_row_pairs((uint16_t *)row, x, n); return; }
#endif
    for (int64_t c = 0; c < n; c += 16)
        trf__bf16_store((char *)row + 2 * c, trf__bf16_round(trf__load(x + c)));
}

/* Bytes of a converted row of k numbers, a multiple of 32. */
TRF__FN size_t trf__bf16_row_bytes(int64_t k) { return 64 * ((size_t)(k / 32) | 1); }

#if TRF__SHUFFLES && TRF__REAL_BYTES == 4
/* A block in pairs: 32 numbers of each row, then the next 32. */
TRF__FN void trf__bf16_pairs_block(trf_real *block, trf__view a, int64_t rows, int64_t deep)
{
#if TRF__BF16_PAIRS
    const int fast = trf__has_dpbf16() && (a.row == 1 || a.column == 1);
#endif
    uint32_t *to = (uint32_t *)(void *)block;
    for (int64_t t = 0; t < deep; t += 32)
        for (int64_t i = 0; i < rows; i += 16) {
            trf__view x = trf__view_of(a.at + i * a.row + t * a.column, a.row, a.column);
            int64_t n = trf__min64(16, rows - i);
#if TRF__BF16_PAIRS
            if (fast) trf__bf16_pairs16(to, x, n, deep - t, 0);
            else
#endif
            trf__bf16_pairs_plain(to, x, n, deep - t);
            to += 16 * n;
        }
}

/* The same call for kernels that count bytes. */
TRF__FN trf__tile_call trf__bf16_call_bytes(const trf__bf16_call *x)
{
    trf__tile_call call = { (char *)(void *)x->c, (size_t)x->ldc * 4,
                            (const char *)(const void *)x->first, (size_t)x->first_row * 4, 64,
                            (const char *)(const void *)x->a, x->a_row, x->a_step,
                            (const char *)(const void *)x->w, (size_t)x->w_step * 4,
                            trf__ceil_div(x->k, TRF__BF16_DEEP) };
    return call;
}
#endif

#if TRF__TILES && TRF__BF16_PAIRS
#define TRF__BF16_TILES 1
TRF__AMX_PRODUCT(trf__bf16_tile_product, TRF__AMX_BF16)
TRF__FN void trf__bf16_tiles(const trf__bf16_call *x, int64_t rows, int64_t panels)
{
    trf__bf16_tile_product(trf__bf16_call_bytes(x), rows, panels);
}
#else
#define TRF__BF16_TILES 0
#endif

#undef TRF__BF16_MMLA
#if TRF__ARM && TRF__REAL_BYTES == 4
#define TRF__BF16_MMLA 1
#if !defined(TRF__BFMMLA)       /* a test emulates the instruction */
#define TRF__BFMMLA trf__bfmmla
#endif
TRF__ARM_PRODUCT(trf__bf16_mmla_product, TRF__BFMMLA)
TRF__FN void trf__bf16_mmla(const trf__bf16_call *x, int64_t rows, int64_t panels)
{
    trf__bf16_mmla_product(trf__bf16_call_bytes(x), rows, panels);
}
#else
#define TRF__BF16_MMLA 0
#endif

/* tiles: C is written in whole tiles of sixteen rows. The scratch has several blocks of A, and B is
   read once for all of them. */
typedef struct trf__bf16_kernel {
    const char *name;
    int (*supported)(void);
    int tiles;
    int64_t rows, panels;       /* of a call; the last panels are computed one by one */
    int64_t block_rows;
    int64_t deep;               /* the most numbers of a row; TRF__BF16_FAR if A has few rows */
    int64_t words;              /* trf_reals for 32 numbers of a row of a block */
    void (*block)(trf_real *block, trf__view a, int64_t rows, int64_t deep);
    void (*function)(const trf__bf16_call *x, int64_t rows, int64_t panels);
} trf__bf16_kernel;

static const trf__bf16_kernel trf__bf16_kernels[] = {
#if TRF__BF16_TILES
    { "AMX", trf__has_amx, 1, TRF__BF16_TILE_ROWS, TRF__BF16_MOST, TRF__BF16_TILE_ROWS,
      TRF__BF16_TILE_DEEP, 16, trf__bf16_pairs_block, trf__bf16_tiles },
#endif
#if TRF__BF16_PAIRS
    { "AVX-512 BF16", trf__has_dpbf16, 0, TRF__BF16_ROWS, TRF__BF16_MOST, TRF__BF16_BLOCK,
      TRF__DEEP, 16, trf__bf16_pairs_block, trf__bf16_pairs },
#endif
#if TRF__BF16_MMLA
    { "BFMMLA", trf__has_mmla, 0, TRF__BF16_ROWS, TRF__BF16_MOST, TRF__BF16_BLOCK, TRF__DEEP, 16,
      trf__bf16_pairs_block, trf__bf16_mmla },
#endif
    { "vectors", trf__has_c, 0, TRF__BF16_ROWS, TRF__BF16_PANELS, TRF__BF16_BLOCK, TRF__DEEP, 32,
      trf__bf16_block, trf__bf16_vectors }
};

/* The number of the first kernel that may be chosen; tests define it. */
#if !defined(TRF__BF16_KERNEL)
#define TRF__BF16_KERNEL 0
#endif
TRF__FN const trf__bf16_kernel *trf__bf16_chosen(int tiles)
{
    const trf__bf16_kernel *kernel = trf__bf16_kernels + TRF__BF16_KERNEL;
    while (kernel->tiles ? !tiles : !kernel->supported()) kernel++;
    return kernel;
}

// >>bf16-products  packing, and the product of whole matrices

/* Words of a panel. */
TRF__FN int64_t trf__bf16_words(int64_t k) { return trf__round_up(k, TRF__BF16_DEEP) * 8; }

TRF__FN size_t trf__bf16_bytes(int64_t out, int64_t in)
{
    return trf__bytes(trf__mul_counts(trf__ceil_div(out, 16), trf__bf16_words(in)),
                      sizeof(uint32_t));
}

/* As trf__panels_panel. Missing columns become 0. */
TRF__FN void trf__bf16_panel(void *packed, int64_t k, int64_t row, int64_t column, trf__view b,
                             int64_t deep, int64_t columns)
{
    uint32_t *to = (uint32_t *)packed + column / 16 * trf__bf16_words(k) + 8 * row;
    trf_real chunk[TRF__BF16_DEEP * 16];
    int64_t t = 0, n;
#if TRF__BF16_PAIRS
    int pairs = trf__bf16_chosen(0)->function == trf__bf16_pairs && (b.row == 1 || b.column == 1);
    for (; pairs && t < deep; t += TRF__BF16_DEEP, to += 8 * TRF__BF16_DEEP)
        trf__bf16_pairs16(to, trf__view_of(b.at + t * b.row, b.column, b.row),
                          trf__min64(16, columns), deep - t, 1);
#endif
    for (; t < deep; t += TRF__BF16_DEEP) {
        n = trf__min64(TRF__BF16_DEEP, deep - t);
        trf__pack_panel(chunk, trf__view_of(b.at + t * b.row, b.row, b.column), n, columns);
        memset(chunk + 16 * n, 0, (size_t)(16 * (TRF__BF16_DEEP - n)) * sizeof *chunk);
        for (int64_t i = 0; i < TRF__BF16_DEEP; i += 2, to += 16)
            trf__bf16_join(to, trf__bf16_round(trf__load(chunk + 16 * i)),
                           trf__bf16_round(trf__load(chunk + 16 * i + 16)));
    }
}

/* Packs rows of 16-bit numbers. A panel has words of two numbers of a row. */
TRF__FN void trf__bf16_stored(void *packed, const void *stored, int64_t first, int64_t rows,
                              int64_t in, TRF__UNUSED const trf_real *scales)
{
    for (int64_t r = 0; r < rows; r += 16)
        trf__pack_words((uint32_t *)packed + (first + r) / 16 * trf__bf16_words(in),
                        (const char *)stored + 2 * (first + r) * in, 2 * in, rows - r,
                        trf__round_up(in, TRF__BF16_DEEP) / 2);
}

TRF__FN trf__v16 trf__bf16_read(const void *packed, int64_t row, int64_t c, int64_t in)
{
    const uint32_t *from = (const uint32_t *)packed + row / 16 * trf__bf16_words(in) + 8 * c;
    trf_real x[TRF__WIDE];
    for (int i = 0; i < TRF__WIDE; i++) {
        uint32_t both = from[i / 2 * 16 + row % 16];
        x[i] = (trf_real)trf__float_of(i % 2 ? both & 0xFFFF0000u : both << 16);
    }
    return trf__load_n(x, in - c);
}

/* One call of the kernel: columns `column` .. of C, of which the first or the last may lie outside
   C. first: C begins with the bias or with 0. */
TRF__FN void trf__bf16_tile(const trf__product *p, const trf__bf16_kernel *kernel,
                            trf__bf16_call *call, int64_t row, int64_t rows, int64_t column,
                            int64_t panels, int first)
{
    static const trf_real zeros[TRF__BF16_MOST * 16] = {0};
    trf_real sums[TRF__BF16_TILE_ROWS * TRF__BF16_MOST * 16];
    int whole = column >= 0 && column + 16 * panels <= p->n && !(kernel->tiles && rows % 16);
    call->ldc = call->first_row = whole ? p->ldc : 16 * panels;
    call->first = call->c = whole ? p->c + row * p->ldc + column : sums;
    if (whole && first) {
        call->first = p->bias ? p->bias + column : zeros;
        call->first_row = 0;
    }
    for (int64_t r = 0; !whole && r < rows; r++)
        for (int64_t q = 0; q < panels; q++) {
            int64_t low = trf__max64(0, -(column + 16 * q)), at = column + 16 * q + low;
            const trf_real *from = !first ? p->c + (row + r) * p->ldc + at
                                 : p->bias ? p->bias + at : NULL;
            trf_real *to = sums + (r * panels + q) * 16;
            trf__store(to, trf__set(0));
            trf__store_n(to + low, from ? trf__load_n(from, p->n - at) : trf__set(0), 16 - low);
        }
    kernel->function(call, rows, panels);
    for (int64_t r = 0; !whole && r < rows; r++)
        for (int64_t q = 0; q < panels; q++) {
            int64_t low = trf__max64(0, -(column + 16 * q)), at = column + 16 * q + low;
            trf__store_n(p->c + (row + r) * p->ldc + at,
                         trf__load_n(sums + (r * panels + q) * 16 + low, 16 - low),
                         trf__min64(16 - low, p->n - at));
        }
}

/* trf_reals of a row of a block. */
TRF__FN int64_t trf__bf16_line(const trf__bf16_kernel *kernel, int64_t deep)
{
    return trf__ceil_div(deep, 32) * kernel->words;
}

/* Converted rows are read where they are. But kernels with tiles read sixteen at a time: the last
   ones, if they are fewer, are copied into a block when the first panels need them. */
TRF__FN void trf__bf16_left(trf_real *scratch, const trf__product *p,
                            const trf__bf16_kernel *kernel, trf__bf16_call *call, int64_t row,
                            int64_t t, int64_t deep, int copies)
{
    const char *a = p->left + (size_t)row * p->left_step + 2 * t;
    int64_t n = call->block_rows;
    call->a = (const trf_real *)(const void *)a;
    call->a_row = p->left_step;
    call->a_step = 64;
    if (!kernel->tiles || n % 16 == 0) return;
    for (int64_t i = 0; copies && i < deep; i += 32)
        for (int64_t r = 0; r < n; r++)
            memcpy(scratch + 16 * (i / 32 * n + r), a + (size_t)r * p->left_step + 2 * i, 64);
    call->a = scratch;
    call->a_row = 64;
    call->a_step = 64 * (size_t)n;
}

/* Multiplies `deep` numbers, from t on, of A's rows row .. row + rows - 1. Each block of A is
   converted when the first panels need it: then it is in the cache. */
TRF__FN void trf__bf16_part(trf_real *scratch, const trf__product *p,
                            const trf__bf16_kernel *kernel, const uint32_t *panels, int64_t skip,
                            int64_t row, int64_t rows, int64_t t, int64_t deep)
{
    const int64_t n_panels = trf__ceil_div(skip + p->n, 16), line = trf__bf16_line(kernel, deep);
    int64_t n;
    TRF__ZEROED(trf__bf16_call, call);
    call.w_step = trf__bf16_words(p->k);
    call.k = deep;
    for (int64_t j = 0; j < n_panels; j += n) {
        n = n_panels - j < kernel->panels ? 1 : kernel->panels;
        call.w = panels + j * call.w_step + 8 * t;
        for (int64_t top = 0; top < rows; top += kernel->block_rows) {
            trf__view a = trf__view_of(p->a.at + (row + top) * p->a.row + t * p->a.column,
                                       p->a.row, p->a.column);
            call.block_rows = trf__min64(kernel->block_rows, rows - top);
            call.a = scratch + top * line;
            call.a_row = 16 * sizeof(trf_real);
            call.a_step = call.a_row * (size_t)call.block_rows;
            if (p->left) trf__bf16_left(scratch, p, kernel, &call, row + top, t, deep, j == 0);
            else if (j == 0) kernel->block(scratch + top * line, a, call.block_rows, deep);
            const trf_real *block = call.a;
            for (int64_t r = 0; r < call.block_rows; r += kernel->rows) {
                call.a = block + (int64_t)(call.a_row / sizeof *block) * r;
                trf__bf16_tile(p, kernel, &call, row + top + r,
                               trf__min64(kernel->rows, call.block_rows - r), 16 * j - skip, n,
                               t == 0 && !p->add);
            }
        }
    }
}

/* Whether all kernels of this processor read converted rows. */
TRF__FN int trf__bf16_reads_rows(void) { return trf__bf16_chosen(0)->words == 16; }

/* The product with rows of a packed weight as B^T. They may begin inside a panel: then the first
   columns are computed for nothing. */
TRF__FN void trf__bf16_product(trf_real *scratch, trf__product p, const void *packed, int64_t row)
{
    const trf__bf16_kernel *kernel = trf__bf16_chosen(p.tiles);
    const uint32_t *panels = (const uint32_t *)packed + row / 16 * trf__bf16_words(p.k);
    const int64_t most = p.m > TRF__BF16_ROWS ? kernel->deep : (int64_t)TRF__BF16_FAR;
    const int64_t line = trf__bf16_line(kernel, trf__max64(1, trf__min64(most, p.k)));
    const int64_t room = p.left ? (int64_t)TRF__BF16_ROOM : trf__min64(p.scratch, TRF__BF16_ROOM);
    const int64_t tall = trf__max64(1, room / line / kernel->block_rows) * kernel->block_rows;
    if (kernel->tiles) trf__amx_begin();
    for (int64_t t = 0; t == 0 || t < p.k; t += most)
        for (int64_t i = 0; i < p.m; i += tall)
            trf__bf16_part(scratch, &p, kernel, panels, row % 16, i, trf__min64(tall, p.m - i), t,
                           trf__min64(most, p.k - t));
    if (kernel->tiles) trf__amx_end();
}

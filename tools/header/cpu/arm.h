#pragma once
#include "base/impl.h"
#include "base/vector.h"
#include "cpu/gemm.h"
#include "cpu/amx.h"

// >>arm            products of 8 and of 16 bits on ARM64
//
//   sdot      adds four products of signed bytes to each of four sums
//   smmla     C (2, 2) += A (2, 8) B (8, 2), of signed bytes
//   bfmmla    C (2, 2) += A (2, 4) B (4, 2), of 16 bits
//
// A panel has four bytes of each of its sixteen rows, then the next four. A zip of both is eight
// bytes of two rows: the operand B of the last two instructions. Two rows of x are the operand A.
// The last row of an odd number is computed twice.
//
// The code writes the instructions as numbers, because compilers and assemblers know their names
// only with certain flags and versions.

#undef TRF__ARM
#if TRF__GNU && defined(__aarch64__) && defined(__AARCH64EL__) && !defined(TRF_SCALAR) && \
    !defined(__CUDACC__) && TRF__SHUFFLES
#define TRF__ARM 1
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

/* What the compiler's flags contain, or what Linux says. */
TRF__FN int trf__has_sdot(void)
{
#if defined(__ARM_FEATURE_DOTPROD)
    return 1;
#elif defined(__linux__)
    return getauxval(AT_HWCAP) >> 20 & 1;               /* HWCAP_ASIMDDP */
#else
    return 0;
#endif
}
TRF__FN int trf__has_mmla(void)
{
#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    return 1;
#elif defined(__linux__)
    return (getauxval(AT_HWCAP2) >> 13 & 3) == 3;       /* HWCAP2_I8MM, HWCAP2_BF16 */
#else
    return 0;
#endif
}

/* An instruction by its number. The symbols .Ltrf_v0 to .Ltrf_v31 are the numbers of registers.
   Without `volatile` the compiler loads all vectors of a panel first, and runs out of registers. */
#define TRF__ARM_SUMS(NAME, NUMBER) \
TRF__INLINE int32x4_t trf__##NAME(int32x4_t sum, int32x4_t x, int32x4_t q) \
{ \
    __asm__ volatile(".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24," \
                     "25,26,27,28,29,30,31\n\t.equ .Ltrf_v\\n,\\n\n\t.endr\n\t" \
                     ".inst " NUMBER " | .Ltrf_%0 | .Ltrf_%1 << 5 | .Ltrf_%2 << 16" \
                     : "+w"(sum) : "w"(x), "w"(q)); \
    return sum; \
}
TRF__ARM_SUMS(sdot, "0x4E809400")
TRF__ARM_SUMS(smmla, "0x4E80A400")
TRF__ARM_SUMS(bfmmla, "0x6E40EC00")

#define TRF__ARM_LOAD(at) vld1q_s32((const int32_t *)(const void *)(at))
#define TRF__ARM_LOAD2(at) vld1_s32((const int32_t *)(const void *)(at))
/* The lower halves of two vectors, or the upper ones. */
#define TRF__ARM_ZIP(n, x, y) \
    vreinterpretq_s32_s64(vzip##n##q_s64(vreinterpretq_s64_s32(x), vreinterpretq_s64_s32(y)))

/* 2 * PAIRS rows and a panel, whose sums are registers, and all panels of up to six rows. */
#define TRF__ARM_PAIRS(NAME, PAIRS, MMLA) \
TRF__FN void NAME##_##PAIRS(const trf__tile_call *x, size_t last) \
{ \
    const char *a = x->a, *b = x->b; \
    int32x4_t sum[PAIRS][8]; \
    int64_t t; \
    int q, h, i; \
    TRF__UNROLL for (q = 0; q < PAIRS; q++) { \
        const char *even = x->first + (size_t)(2 * q) * x->first_row; \
        const char *odd = even + (q + 1 == PAIRS ? last : 1) * x->first_row; \
        TRF__UNROLL for (h = 0; h < 4; h++) { \
            int32x4_t upper = TRF__ARM_LOAD(even + 16 * h), lower = TRF__ARM_LOAD(odd + 16 * h); \
            sum[q][2 * h] = TRF__ARM_ZIP(1, upper, lower); \
            sum[q][2 * h + 1] = TRF__ARM_ZIP(2, upper, lower); \
        } \
    } \
    for (t = 0; t < x->steps; t++, a += x->a_step) \
        for (i = 0; i < 64; i += 8, b += 128) { \
            int32x4_t value[PAIRS]; \
            TRF__UNROLL for (q = 0; q < PAIRS; q++) { \
                const char *even = a + (size_t)(2 * q) * x->a_row + i; \
                const char *odd = even + (q + 1 == PAIRS ? last : 1) * x->a_row; \
                value[q] = vcombine_s32(TRF__ARM_LOAD2(even), TRF__ARM_LOAD2(odd)); \
            } \
            TRF__UNROLL for (h = 0; h < 4; h++) { \
                int32x4_t four, next, left, right; \
                __asm__ volatile("" : "+r"(b)); \
                four = TRF__ARM_LOAD(b + 16 * h); \
                next = TRF__ARM_LOAD(b + 16 * h + 64); \
                left = vzip1q_s32(four, next); \
                right = vzip2q_s32(four, next); \
                TRF__UNROLL for (q = 0; q < PAIRS; q++) { \
                    sum[q][2 * h] = MMLA(sum[q][2 * h], value[q], left); \
                    sum[q][2 * h + 1] = MMLA(sum[q][2 * h + 1], value[q], right); \
                } \
            } \
        } \
    TRF__UNROLL for (q = 0; q < PAIRS; q++) { \
        char *even = x->c + (size_t)(2 * q) * x->c_row; \
        char *odd = even + (q + 1 == PAIRS ? last : 1) * x->c_row; \
        TRF__UNROLL for (h = 0; h < 4; h++) { \
            vst1q_s32((int32_t *)(void *)(odd + 16 * h), \
                      TRF__ARM_ZIP(2, sum[q][2 * h], sum[q][2 * h + 1])); \
            vst1q_s32((int32_t *)(void *)(even + 16 * h), \
                      TRF__ARM_ZIP(1, sum[q][2 * h], sum[q][2 * h + 1])); \
        } \
    } \
}
#define TRF__ARM_PRODUCT(NAME, MMLA) \
TRF__ARM_PAIRS(NAME, 1, MMLA) \
TRF__ARM_PAIRS(NAME, 2, MMLA) \
TRF__ARM_PAIRS(NAME, 3, MMLA) \
TRF__FN void NAME(trf__tile_call x, int64_t rows, int64_t panels) \
{ \
    const size_t last = rows % 2 == 0;          /* 0: the last pair is one row, twice */ \
    for (; panels > 0; panels--, x.b += x.b_panel, x.c += 64, x.first += x.first_panel) \
        switch ((rows + 1) / 2) { \
        case 1: NAME##_1(&x, last); break; \
        case 2: NAME##_2(&x, last); break; \
        default: NAME##_3(&x, last); break; \
        } \
}
#else
#define TRF__ARM 0
#endif

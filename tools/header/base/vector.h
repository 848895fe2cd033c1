#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/width.h"

// -----------------------------------------------------------------------------------------------
// >>vector         sixteen lanes on every machine
//
// The hot loops are written once, on trf__v16: sixteen numbers, whatever the machine. It is a
// struct of TRF__PARTS native vectors: one AVX-512, two AVX, four SSE2/NEON/WebAssembly, or sixteen
// scalars. Every lane is computed by the same operations in the same order everywhere. Sums over
// lanes follow one fixed tree. So results do not depend on the width of the machine's vectors.
//
// Only trf__fma may fuse a product and a sum into one rounding. Machines with a fused multiply-add
// do so if the compiler may contract (gnu modes), others round twice. Kernels therefore write no
// other product that only feeds a sum, and gcc and clang give the same bits. A minimum between the
// two prevents the fusion. The doubles of trf__ln and of a row's loss have one product a sum, which
// all compilers contract alike.
// -----------------------------------------------------------------------------------------------

#if defined(TRF_DOUBLE)
typedef int64_t trf__int;           /* an integer as wide as trf_real */
#else
typedef int32_t trf__int;
#endif

#if TRF__VECTOR_BYTES == TRF__REAL_BYTES
typedef trf_real trf__vec;
typedef trf__int trf__ivec;
typedef uint32_t trf__uvec;
typedef trf_real trf__vec_in_memory;
#define TRF__LESS(a, b) ((trf__ivec)-((a) < (b)))
#define TRF__SELECT(mask, a, b) ((mask) ? (a) : (b))
#define TRF__AS_INT(to, x) memcpy(&(to), &(x), sizeof(to))
#define TRF__AS_REAL(to, x) memcpy(&(to), &(x), sizeof(to))
#else
/* trf__vec_in_memory: pointers to it need the alignment of one number only. */
typedef trf_real trf__vec __attribute__((vector_size(TRF__VECTOR_BYTES)));
typedef trf__int trf__ivec __attribute__((vector_size(TRF__VECTOR_BYTES)));
typedef uint32_t trf__uvec __attribute__((vector_size(TRF__VECTOR_BYTES)));
typedef trf_real trf__vec_in_memory __attribute__((vector_size(TRF__VECTOR_BYTES),
                                                   aligned(TRF__REAL_BYTES), may_alias));
#define TRF__LESS(a, b) ((trf__ivec)((a) < (b)))
#define TRF__SELECT(mask, a, b) ((trf__vec)(((mask) & (trf__ivec)(a)) | (~(mask) & (trf__ivec)(b))))
#define TRF__AS_INT(to, x) ((to) = (trf__ivec)(x))
#define TRF__AS_REAL(to, x) ((to) = (trf__vec)(x))
#endif

#if TRF__SHUFFLES
typedef trf_real trf__quad __attribute__((vector_size(4 * TRF__REAL_BYTES)));
typedef trf__int trf__quad_int __attribute__((vector_size(4 * TRF__REAL_BYTES)));
typedef uint16_t trf__bits_in_memory __attribute__((vector_size(2 * TRF__VECTOR_BYTES /
                                                                TRF__REAL_BYTES), aligned(2),
                                                    may_alias));
#if defined(__clang__)
#define TRF__SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define TRF__SHUFFLE(a, b, i, j, k, l) \
    __builtin_shuffle(a, b, __extension__(trf__quad_int){i, j, k, l})
#endif
TRF__INLINE trf__quad trf__quad_at(const trf_real *p)
{
    trf__quad q; memcpy(&q, p, sizeof q); return q;
}
TRF__INLINE void trf__quad_to(trf_real *p, trf__quad q) { memcpy(p, &q, sizeof q); }
#endif

#define TRF__WIDE 16            /* lanes */

/* The vector of all kernels. Passed by value: inlining keeps the parts in registers. */
typedef struct trf__v16 { trf__vec part[TRF__PARTS]; } trf__v16;

TRF__INLINE trf__v16 trf__load(const trf_real *p)
{
    trf__v16 r;
    TRF__EACH(r.part[i] = ((const trf__vec_in_memory *)(const void *)p)[i])
    return r;
}

TRF__INLINE void trf__store(trf_real *p, trf__v16 a)
{
    TRF__EACH(((trf__vec_in_memory *)(void *)p)[i] = a.part[i])
}

TRF__INLINE trf__v16 trf__set(trf_real x)
{
    trf__v16 r;
    TRF__ZEROED(trf__vec, zero);
    /* broadcasts x: x - 0 is x for every x, whereas 0 + x would make 0 of -0 */
    TRF__EACH(r.part[i] = x - zero)
    return r;
}

/* The first n numbers, then zeros: for the end of a row whose length is no multiple of 16. It reads
   nothing beyond the row. */
TRF__INLINE trf__v16 trf__load_n(const trf_real *p, int64_t n)
{
    trf_real buffer[TRF__WIDE];
    if (n >= TRF__WIDE) return trf__load(p);
    for (int64_t i = 0; i < TRF__WIDE; i++) buffer[i] = i < n ? p[i] : 0;
    return trf__load(buffer);
}

TRF__INLINE void trf__store_n(trf_real *p, trf__v16 a, int64_t n)
{
    trf_real buffer[TRF__WIDE];
    if (n >= TRF__WIDE) { trf__store(p, a); return; }
    trf__store(buffer, a);
    for (int64_t i = 0; i < n; i++) p[i] = buffer[i];
}

/* Operations on all lanes. With a NaN max and min return a: no comparison with NaN is true. */
#define TRF__BINARY(name, expression) \
TRF__INLINE trf__v16 name(trf__v16 a, trf__v16 b) \
{ \
    trf__v16 r; \
    TRF__EACH(r.part[i] = expression) \
    return r; \
}
TRF__BINARY(trf__add, a.part[i] + b.part[i])
TRF__BINARY(trf__sub, a.part[i] - b.part[i])
TRF__BINARY(trf__mul, a.part[i] * b.part[i])
TRF__BINARY(trf__div, a.part[i] / b.part[i])
TRF__BINARY(trf__max, TRF__MAX(a.part[i], b.part[i]))
TRF__BINARY(trf__min, TRF__MIN(a.part[i], b.part[i]))

/* a * b + c, rounded once where the machine can. */
TRF__INLINE trf__v16 trf__fma(trf__v16 a, trf__v16 b, trf__v16 c)
{
    trf__v16 r;
    TRF__EACH(r.part[i] = a.part[i] * b.part[i] + c.part[i])
    return r;
}

/* a * b + c, rounded twice: the same bits whether or not the machine can round once. GCC would join
   both operations. */
TRF__INLINE trf__v16 trf__apart(trf__v16 a, trf__v16 b, trf__v16 c)
{
    trf__v16 r = trf__mul(a, b);
#if TRF__GNU && !defined(__clang__) && !defined(__CUDA_ARCH__)
#if defined(__SSE__)
    TRF__EACH(__asm__("" : "+x"(r.part[i])))
#elif defined(__aarch64__)
    TRF__EACH(__asm__("" : "+w"(r.part[i])))
#else
    TRF__EACH(__asm__("" : "+m"(r.part[i])))
#endif
#endif
    return trf__add(r, c);
}

/* a < b ? x : y, lane by lane. */
TRF__INLINE trf__v16 trf__if_less(trf__v16 a, trf__v16 b, trf__v16 x, trf__v16 y)
{
    trf__v16 r;
    TRF__EACH(r.part[i] = TRF__SELECT(TRF__LESS(a.part[i], b.part[i]), x.part[i], y.part[i]))
    return r;
}

/* Sum and maximum over the lanes: lane i is combined with lane i + 8, then + 4, + 2, + 1. Both
   forms follow this tree, so they give the same bits. */
#undef TRF__OVER_LANES
#if TRF__SHUFFLES
TRF__INLINE trf__quad trf__both_sum(trf__quad a, trf__quad b) { return a + b; }
TRF__INLINE trf__quad trf__both_max(trf__quad a, trf__quad b)
{
#if TRF__X86 && TRF__REAL_BYTES == 4
    return _mm_max_ps(b, a);            /* a < b ? b : a, see TRF__MAX */
#else
    trf__quad_int less = (trf__quad_int)(a < b);
    return (trf__quad)((less & (trf__quad_int)b) | (~less & (trf__quad_int)a));
#endif
}
#define TRF__OVER_LANES(name, both, scalar) \
TRF__INLINE trf_real name(trf__v16 a) \
{ \
    trf_real x[TRF__WIDE]; \
    trf__quad q; \
    trf__store(x, a); \
    q = both(both(trf__quad_at(x), trf__quad_at(x + 8)), \
             both(trf__quad_at(x + 4), trf__quad_at(x + 12))); \
    q = both(q, TRF__SHUFFLE(q, q, 2, 3, 0, 1)); \
    q = both(q, TRF__SHUFFLE(q, q, 1, 0, 3, 2)); \
    return q[0]; \
}
#else
#define TRF__OVER_LANES(name, both, scalar) \
TRF__INLINE trf_real name(trf__v16 a) \
{ \
    trf_real x[TRF__WIDE]; \
    int half, i; \
    trf__store(x, a); \
    for (half = 8; half > 0; half /= 2) for (i = 0; i < half; i++) scalar; \
    return x[0]; \
}
#endif
TRF__OVER_LANES(trf__sum, trf__both_sum, x[i] += x[i + half])
TRF__OVER_LANES(trf__max_lane, trf__both_max, if (x[i] < x[i + half]) x[i] = x[i + half])

// >>lane-moves     transposing, masks
//
// What >>panels (packing of matrices) and >>dropout need beside arithmetic. Where the compiler has
// shuffles the second form of each function is not compiled; both give the same numbers.

/* to[c][r] = from[r][c] for four rows of four; ldt: the distance between rows of `to`. */
TRF__INLINE void trf__transpose4(trf_real *to, int64_t ldt, const trf_real *const from[4])
{
#if TRF__SHUFFLES
    trf__quad a = trf__quad_at(from[0]), b = trf__quad_at(from[1]);
    trf__quad c = trf__quad_at(from[2]), d = trf__quad_at(from[3]);
    trf__quad ab = TRF__SHUFFLE(a, b, 0, 4, 1, 5), cd = TRF__SHUFFLE(c, d, 0, 4, 1, 5);
    trf__quad_to(to, TRF__SHUFFLE(ab, cd, 0, 1, 4, 5));
    trf__quad_to(to + ldt, TRF__SHUFFLE(ab, cd, 2, 3, 6, 7));
    ab = TRF__SHUFFLE(a, b, 2, 6, 3, 7);
    cd = TRF__SHUFFLE(c, d, 2, 6, 3, 7);
    trf__quad_to(to + 2 * ldt, TRF__SHUFFLE(ab, cd, 0, 1, 4, 5));
    trf__quad_to(to + 3 * ldt, TRF__SHUFFLE(ab, cd, 2, 3, 6, 7));
#else
    for (int i = 0; i < 4; i++) for (int k = 0; k < 4; k++) to[i * ldt + k] = from[k][i];
#endif
}

/* The factors of a dropout: `scale` where the bits of a lane reach the threshold, else 0. */
TRF__INLINE trf__v16 trf__kept(const uint16_t *bits, uint32_t threshold, trf_real scale)
{
#if TRF__SHUFFLES
    trf__v16 r;
    TRF__ZEROED(trf__vec, zero);
    trf__vec value = scale - zero;
    TRF__EACH(trf__ivec wide =
                  __builtin_convertvector(((const trf__bits_in_memory *)(const void *)bits)[i],
                                          trf__ivec);
              r.part[i] = TRF__SELECT((trf__ivec)(wide < (trf__int)threshold), zero, value))
    return r;
#else
    trf_real factor[TRF__WIDE];
    for (int i = 0; i < TRF__WIDE; i++) factor[i] = bits[i] >= threshold ? scale : 0;
    return trf__load(factor);
#endif
}

/* 1 where lane < n, else 0: the mask of a row's end. */
TRF__INLINE trf__v16 trf__first(int64_t n)
{
    static const trf_real ones[2 * TRF__WIDE] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return trf__load(ones + TRF__WIDE - (n < 0 ? 0 : n > TRF__WIDE ? TRF__WIDE : n));
}

// >>lane-functions exp, ln, erf, sqrt; Philox for sixteen counters
//
// libm's functions differ between systems in their last bits and are computed one by one. These
// have one text for all lanes, and the same bits everywhere.

#if defined(TRF_DOUBLE)

/* In double the lanes call libm: this build serves to check gradients, not to be fast. */
#define TRF__BY_LANE(name, expression) \
TRF__INLINE trf__v16 name(trf__v16 a) \
{ \
    trf_real x[TRF__WIDE]; \
    int i; \
    trf__store(x, a); \
    for (i = 0; i < TRF__WIDE; i++) x[i] = expression; \
    return trf__load(x); \
}
TRF__BY_LANE(trf__exp, exp(x[i]))
TRF__BY_LANE(trf__exp2_apart, x[i] < -125.5 ? 0 : exp(x[i] * 0.69314718055994531))
TRF__BY_LANE(trf__erf, erf(x[i]))
TRF__BY_LANE(trf__log_1_plus, log(1 + x[i]))
TRF__BY_LANE(trf__sqrt, sqrt(x[i]))
TRF__FN double trf__ln(double x) { return log(x); }

#else

/* p times 2 to the power of n + bias - 127. n is in the low bits of t = 1.5 * 2^23 + n; the shift
   into the exponent's bits drops the others. */
TRF__INLINE trf__v16 trf__times_power(trf__v16 p, trf__v16 t, uint32_t bias)
{
    TRF__EACH(trf__ivec bits; trf__vec scale;
              TRF__AS_INT(bits, t.part[i]);
              bits = (trf__ivec)(((trf__uvec)bits + bias) << 23);
              TRF__AS_REAL(scale, bits);
              p.part[i] *= scale)
    return p;
}

/* exp: x = n ln 2 + r, |r| <= ln 2 / 2; e^x = 2^n e^r. Adding 1.5 * 2^23 leaves the rounded n in
   the low bits. ln 2 is split in two, so that n times the first part is exact. e^r is its Taylor
   polynomial of degree 7 (remainder 5e-9 relative). The relative error is below 3e-7. Below -87.3
   the result is 0; it is never above e^88.3. */
TRF__INLINE trf__v16 trf__exp(trf__v16 x)
{
    const trf__v16 one = trf__set(1.0f), magic = trf__set(12582912.0f), low = trf__set(-87.3f);
    trf__v16 clamped = trf__min(trf__max(x, low), trf__set(88.3f));
    trf__v16 t = trf__fma(clamped, trf__set(1.44269504088896341f), magic);
    trf__v16 n = trf__sub(t, magic);
    trf__v16 r = trf__fma(n, trf__set(-0.693359375f), clamped);
    r = trf__fma(n, trf__set(2.12194440054690583e-4f), r);
    trf__v16 p = trf__set(1.0f / 5040);
    p = trf__fma(p, r, trf__set(1.0f / 720));
    p = trf__fma(p, r, trf__set(1.0f / 120));
    p = trf__fma(p, r, trf__set(1.0f / 24));
    p = trf__fma(p, r, trf__set(1.0f / 6));
    p = trf__fma(p, r, trf__set(0.5f));
    p = trf__fma(p, r, one);
    p = trf__fma(p, r, one);
    return trf__if_less(x, low, trf__set(0), trf__times_power(p, t, 127));
}

/* 2^x for -126 <= x <= 0, with the same bits on every machine: x = n + r, |r| <= 1/2. 2 2^r is a
   polynomial of degree 5 (minimax, 2 at 0; 2e-7 relative with its rounding). Its factor 2^(n - 1)
   is 0 where n is -126: so no result is subnormal. */
TRF__INLINE trf__v16 trf__exp2_apart(trf__v16 x)
{
    const trf__v16 magic = trf__set(12582912.0f), two = trf__set(2.0f);
    trf__v16 t = trf__add(x, magic), r = trf__sub(x, trf__sub(t, magic));
    trf__v16 p = trf__set(2 * 0.00132647271f);
    p = trf__apart(p, r, trf__set(2 * 0.00967151276f));
    p = trf__apart(p, r, trf__set(2 * 0.0555073374f));
    p = trf__apart(p, r, trf__set(2 * 0.240222421f));
    p = trf__apart(p, r, trf__set(2 * 0.693146978f));
    p = trf__apart(p, r, two);
    return trf__times_power(p, t, 126);
}

/* erf: an odd rational function x P(x^2) / Q(x^2), fitted to [-4, 4]. Beyond it is +-1. */
TRF__INLINE trf__v16 trf__erf(trf__v16 x)
{
    trf__v16 c = trf__min(trf__max(x, trf__set(-4.0f)), trf__set(4.0f)), s = trf__mul(c, c);
    trf__v16 p = trf__set(-2.72614225801306e-10f);
    p = trf__fma(p, s, trf__set(2.77068142495902e-08f));
    p = trf__fma(p, s, trf__set(-2.10102402082508e-06f));
    p = trf__fma(p, s, trf__set(-5.69250639462346e-05f));
    p = trf__fma(p, s, trf__set(-7.34990630326855e-04f));
    p = trf__fma(p, s, trf__set(-2.95459980854025e-03f));
    p = trf__fma(p, s, trf__set(-1.60960333262415e-02f));
    trf__v16 q = trf__set(-1.45660718464996e-05f);
    q = trf__fma(q, s, trf__set(-2.13374055278905e-04f));
    q = trf__fma(q, s, trf__set(-1.68282697438203e-03f));
    q = trf__fma(q, s, trf__set(-7.37332916720468e-03f));
    q = trf__fma(q, s, trf__set(-1.42647390514189e-02f));
    return trf__div(trf__mul(c, p), q);
}

/* log(1 + x) for x in 0..1: 2 (s + s^3/3 + ... + s^15/15) with s = x / (2 + x), at most 1/3. The
   relative error is below 2e-7. */
TRF__INLINE trf__v16 trf__log_1_plus(trf__v16 x)
{
    trf__v16 s = trf__div(x, trf__add(x, trf__set(2.0f))), s2 = trf__mul(s, s);
    trf__v16 p = trf__set(2.0f / 15);
    for (int k = 13; k > 0; k -= 2) p = trf__fma(p, s2, trf__set(2.0f / (trf_real)k));
    return trf__mul(p, s);
}

/* Square root of a >= 0. A guess that halves the exponent and three Newton steps give 1 / sqrt(a);
   one more step gives the root. The steps need normal numbers, so an a below 2^-100 is scaled by
   2^64 and its root by 2^-32. The relative error is below 1e-7; 0 and infinity are exact. (sqrtf
   may set errno, so compilers do not vectorize it.) */
TRF__INLINE trf__v16 trf__sqrt(trf__v16 a)
{
    const trf__v16 one = trf__set(1.0f), tiny = trf__set(7.88860905e-31f);
    trf__v16 x = trf__mul(a, trf__if_less(a, tiny, trf__set(18446744073709551616.0f), one));
    trf__v16 r, half = trf__mul(x, trf__set(-0.5f));
    /* shifting a float's bits halves its exponent; the constant also corrects the mantissa */
    TRF__EACH(trf__ivec bits;
              TRF__AS_INT(bits, x.part[i]);
              bits = 0x5F3759DF - (bits >> 1);
              TRF__AS_REAL(r.part[i], bits))
    for (int k = 0; k < 3; k++) r = trf__mul(r, trf__fma(trf__mul(half, r), r, trf__set(1.5f)));
    trf__v16 s = trf__mul(x, r);
    /* s + (x - s^2) * r / 2 */
    s = trf__fma(trf__fma(trf__mul(s, trf__set(-1)), s, x), trf__mul(r, trf__set(0.5f)), s);
    s = trf__mul(s, trf__if_less(a, tiny, trf__set(2.32830644e-10f), one));
    /* infinity and NaN are not less than infinity, and are returned as they are */
    return trf__if_less(a, trf__set((trf_real)HUGE_VAL), s, a);
}

/* Natural logarithm of a normal x > 0 without libm: x = m 2^e with m in [sqrt(1/2), sqrt(2)), and
   ln m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m-1)/(m+1), |s| < 0.172. The relative error is a few
   1e-16; near ln 1 that is the absolute one. */
TRF__FN double trf__ln(double x)
{
    uint64_t bits;
    double m, p = 0;
    if (!(x > 0) || !trf__is_finite(x)) return x == 0 ? -HUGE_VAL : x < 0 ? (double)NAN : x;
    memcpy(&bits, &x, sizeof bits);
    /* the exponent for m in [1/2, 1); x is positive, so its sign bit is 0 */
    int e = (int)(bits >> 52) - 1022;
    bits = (bits & 0x000FFFFFFFFFFFFFull) | 0x3FE0000000000000ull;
    memcpy(&m, &bits, sizeof m);
    if (m < 0.70710678118654752) { m *= 2; e--; }
    double s = (m - 1) / (m + 1), s2 = s * s;
    /* Horner: p = 2 (1/3 + s2/5 + s2^2/7 + ...) */
    for (int k = 21; k >= 3; k -= 2) p = p * s2 + 2.0 / k;
    /* s + s, so that the last line has only one product (see >>vector) */
    p = s * s2 * p + (s + s);
    return e * 0.69314718055994531 + p;
}

#endif

/* Sixteen Philox blocks at once, with the same words as trf__philox: out[w][lane] is word w of the
   block with the counter (c0[lane], c1[lane], c2, c3). */
TRF__INLINE void trf__philox16(const uint32_t c0[TRF__WIDE], const uint32_t c1[TRF__WIDE],
                               uint32_t c2, uint32_t c3,
                               uint32_t key0, uint32_t key1, uint32_t out[4][TRF__WIDE])
{
    uint32_t a[TRF__WIDE], b[TRF__WIDE], c[TRF__WIDE], d[TRF__WIDE];
    for (int i = 0; i < TRF__WIDE; i++) { a[i] = c0[i]; b[i] = c1[i]; c[i] = c2; d[i] = c3; }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < TRF__WIDE; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * a[i], p1 = (uint64_t)0xCD9E8D57u * c[i];
            a[i] = (uint32_t)(p1 >> 32) ^ b[i] ^ key0;
            b[i] = (uint32_t)p1;
            c[i] = (uint32_t)(p0 >> 32) ^ d[i] ^ key1;
            d[i] = (uint32_t)p0;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < TRF__WIDE; i++) {
        out[0][i] = a[i]; out[1][i] = b[i]; out[2][i] = c[i]; out[3][i] = d[i];
    }
}

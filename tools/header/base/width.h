#pragma once
#include "base/levels.h"

// What depends on the level (>>levels), and is read once more after the last one.
#undef TRF__VECTOR_BYTES
#undef TRF__EACH
#undef TRF__MAX
#undef TRF__MIN

#if defined(TRF_DOUBLE)
#define TRF__REAL_BYTES 8
#else
#define TRF__REAL_BYTES 4
#endif

/* Bytes of a native vector. Without GNU vectors a "vector" is one number. */
#if TRF__LEVEL
#define TRF__VECTOR_BYTES TRF__LEVEL
#elif !TRF__GNU || defined(TRF_SCALAR)
#define TRF__VECTOR_BYTES TRF__REAL_BYTES
#elif defined(__AVX512F__)
#define TRF__VECTOR_BYTES 64
#elif defined(__AVX__)
#define TRF__VECTOR_BYTES 32
#else
#define TRF__VECTOR_BYTES 16
#endif
#define TRF__PARTS (16 * TRF__REAL_BYTES / TRF__VECTOR_BYTES)

/* The widest vectors, in bytes, of kernels that have instructions of their own (>>amx). A processor
   that has wider ones computes with another level. */
#define TRF__WIDEST (TRF__LEVELS ? TRF__VECTOR_BYTES : 64)

/* Repeats a statement for every part, whose number is the constant i. At -O2 gcc would keep a loop
   rolled, and the parts would lie in memory instead of registers. */
#define TRF__PART(n, ...) { enum { i = n }; __VA_ARGS__; }
#define TRF__TWO(n, ...) TRF__PART(n, __VA_ARGS__) TRF__PART(n + 1, __VA_ARGS__)
#define TRF__FOUR(n, ...) TRF__TWO(n, __VA_ARGS__) TRF__TWO(n + 2, __VA_ARGS__)
#define TRF__EIGHT(n, ...) TRF__FOUR(n, __VA_ARGS__) TRF__FOUR(n + 4, __VA_ARGS__)
#if TRF__PARTS == 1
#define TRF__EACH(...) TRF__PART(0, __VA_ARGS__)
#elif TRF__PARTS == 2
#define TRF__EACH(...) TRF__TWO(0, __VA_ARGS__)
#elif TRF__PARTS == 4
#define TRF__EACH(...) TRF__FOUR(0, __VA_ARGS__)
#elif TRF__PARTS == 8
#define TRF__EACH(...) TRF__EIGHT(0, __VA_ARGS__)
#else
#define TRF__EACH(...) TRF__EIGHT(0, __VA_ARGS__) TRF__EIGHT(8, __VA_ARGS__)
#endif

/* a < b ? b : a, and b < a ? b : a. GCC makes four instructions of TRF__SELECT. The processor has
   one, which gives its second operand unless the first is larger (smaller). clang finds it by
   itself. Doubles keep TRF__SELECT. _mm512_max_ps gives the same instruction as its form with a
   mask of all lanes, but g++ warns of it. */
#if !TRF__X86 || defined(__clang__) || TRF__REAL_BYTES == 8
#define TRF__MAX(a, b) TRF__SELECT(TRF__LESS(a, b), b, a)
#define TRF__MIN(a, b) TRF__SELECT(TRF__LESS(b, a), b, a)
#elif TRF__VECTOR_BYTES == 64
#define TRF__MAX(a, b) _mm512_maskz_max_ps(0xFFFF, b, a)
#define TRF__MIN(a, b) _mm512_maskz_min_ps(0xFFFF, b, a)
#elif TRF__VECTOR_BYTES == 32
#define TRF__MAX(a, b) _mm256_max_ps(b, a)
#define TRF__MIN(a, b) _mm256_min_ps(b, a)
#else
#define TRF__MAX(a, b) _mm_max_ps(b, a)
#define TRF__MIN(a, b) _mm_min_ps(b, a)
#endif

/* Permutations of four numbers, and sixteen bits a lane, for compilers that have builtins for
   both. */
#undef TRF__SHUFFLES
#if TRF__VECTOR_BYTES >= 4 * TRF__REAL_BYTES && (defined(__clang__) || (TRF__GNU && __GNUC__ >= 9))
#define TRF__SHUFFLES 1
#else
#define TRF__SHUFFLES 0
#endif

#pragma once
#include "api/version.h"

// -----------------------------------------------------------------------------------------------
// >>impl           includes, compiler differences
//
// A file compiles one of three things: everything (TRF_IMPLEMENTATION); a column of the CPU, which
// is the chapters up to >>column; or the column `cuda`, which is the chapters up to >>beam, and
// then >>column and >>cuda (TRF_COLUMN). None of them is inside the include guard: a file may
// include the header for its declarations first.
// -----------------------------------------------------------------------------------------------
#if defined(TRF_IMPLEMENTATION) && defined(TRF_COLUMN)
#error "TRF_IMPLEMENTATION and TRF_COLUMN exclude each other: define one of them in a file"
#endif

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "transformer.h must recognize infinities and NaN: build without -ffast-math and -Ofast"
#endif

#include <errno.h>
#include <float.h>
/* 16 is a method too: it widens _Float16 alone. */
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "floats have excess precision: add -msse2 -mfpmath=sse (x86) or -std=gnu99 (s390x)"
#endif
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__linux__)
#include <sys/mman.h>
#if !defined(MADV_HUGEPAGE)             /* strict C hides both */
#define TRF__HUGEPAGE 14
int madvise(void *, size_t, int);
#else
#define TRF__HUGEPAGE MADV_HUGEPAGE
#endif
#endif

#if defined(__GNUC__) || defined(__clang__)
#define TRF__GNU 1
#define TRF__UNUSED __attribute__((unused))
#define TRF__NOINLINE __attribute__((noinline))
#define TRF__INLINE static inline __attribute__((always_inline, unused))
#define TRF__PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define TRF__GNU 0
#define TRF__UNUSED
#define TRF__NOINLINE
#define TRF__INLINE static inline
#define TRF__PRINTF(a, b)
#endif
#if TRF__GNU && defined(__x86_64__) && !defined(TRF_SCALAR)
#define TRF__X86 1
#include <immintrin.h>
#else
#define TRF__X86 0
#endif
#if TRF__GNU && !defined(__OPTIMIZE__)
#define TRF__SLOW 1
#else
#define TRF__SLOW 0                     /* as far as one can know */
#endif
/* Linked columns compute instead, and print this message themselves. */
#if TRF__SLOW && !defined(TRF_NO_SLOW_WARNING) && !defined(__CUDACC__) && \
    !defined(TRF_WITH_AVX2) && !defined(TRF_WITH_AVX512)
#pragma message("transformer.h compiled without -O is slow: add -O2, or define TRF_NO_SLOW_WARNING")
#elif !TRF__GNU && !defined(TRF_NO_SLOW_WARNING)
#pragma message("transformer.h is slow with this compiler: it has no vectors and one thread")
#endif
#if !defined(TRF_NO_CBLAS) && !defined(TRF_CBLAS_HEADER) && defined(__has_include)
#if !__has_include(<cblas.h>)
#define TRF_NO_CBLAS
#endif
#endif
#if !defined(TRF_CBLAS_HEADER)
#define TRF_CBLAS_HEADER <cblas.h>
#endif
/* every private function: silent when a build does not use it */
#ifndef TRF__FN     /* -DTRF__FN=: external, for suites that look into objects */
#define TRF__FN static TRF__UNUSED
#endif
/* TRF__FOR_SIZE and TRF__FOR_SPEED stand around chapters that do little beside what they call:
   their code is small rather than fast. TRF__COLD stands before one such function elsewhere. None
   has an inner loop over weights, ids or bytes. GCC's own "cold" will not do: what calls such a
   function on every path is cold too, and its loops are slow. */
#if defined(__clang__)
/* Some builds leave a chapter empty; clang would warn of that. */
#define TRF__FOR_SIZE \
    _Pragma("clang diagnostic push") \
    _Pragma("clang diagnostic ignored \"-Wpragma-clang-attribute\"") \
    _Pragma("clang attribute push(__attribute__((minsize)), apply_to = function)")
#define TRF__FOR_SPEED _Pragma("clang attribute pop") _Pragma("clang diagnostic pop")
#define TRF__COLD __attribute__((minsize))
#elif TRF__GNU && defined(__OPTIMIZE__) && !defined(__CUDACC__)
/* gcc defines __OPTIMIZE_SIZE__ at the second pragma, and pop_options leaves it defined. */
#define TRF__FOR_SIZE \
    _Pragma("push_macro(\"__OPTIMIZE_SIZE__\")") _Pragma("GCC push_options") \
    _Pragma("GCC optimize(\"Os\")")
#define TRF__FOR_SPEED \
    _Pragma("GCC pop_options") _Pragma("pop_macro(\"__OPTIMIZE_SIZE__\")")
#define TRF__COLD __attribute__((optimize("Os")))
#else
#define TRF__FOR_SIZE
#define TRF__FOR_SPEED
#define TRF__COLD
#endif

#if defined(__clang__)
#define TRF__UNROLL _Pragma("unroll")
#elif TRF__GNU
#define TRF__UNROLL _Pragma("GCC unroll 16")
#if defined(__CUDACC__)                 /* nvcc does not know the pragma, and passes it on */
#pragma nv_diag_suppress 1675
#endif
#else
#define TRF__UNROLL
#endif

#define TRF__PASTE_OF(a, b) a##b
#define TRF__PASTE(a, b) TRF__PASTE_OF(a, b)
#define TRF__COLUMN_cuda 1              /* TRF_COLUMN cuda: the column that is no CPU's */
#if defined(TRF_CUDA) || (defined(TRF_COLUMN) && TRF__PASTE(TRF__COLUMN_, TRF_COLUMN))
#define TRF__CUDA 1
#else
#define TRF__CUDA 0
#endif
#if defined(__CUDACC__)
#define TRF__BOTH static __host__ __device__ TRF__UNUSED    /* for the GPU too */
#else
#define TRF__BOTH TRF__FN
#endif

/* Zeroes one object, in C and C++ alike; declares one that is zeroed. */
#define TRF__ZERO(object) memset(&(object), 0, sizeof(object))
#define TRF__ZEROED(type, name) type name; TRF__ZERO(name)

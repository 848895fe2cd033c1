#pragma once
#include "base/levels.h"
#include "cpu/state.h"

/* The chapters of each level that the flags do not contain (>>levels). */
#if TRF__LEVELS
#undef TRF__ONCE

#if TRF__FLAGS_LEVEL < 32
#undef TRF__SUFFIX
#undef TRF__INSTRUCTIONS
#define TRF__LEVEL 32
#define TRF__SUFFIX _avx2
#define TRF__INSTRUCTIONS "avx2,fma,"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#include TRF_THIS_FILE
#pragma clang attribute pop
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include TRF_THIS_FILE
#pragma GCC pop_options
#endif
#undef TRF__LEVEL
#endif

#undef TRF__SUFFIX
#undef TRF__INSTRUCTIONS
#define TRF__LEVEL 64
#define TRF__SUFFIX _avx512
#define TRF__INSTRUCTIONS "avx512f,avx512dq,avx512bw,avx512vl,fma,"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"))), \
                             apply_to = function)
#include TRF_THIS_FILE
#pragma clang attribute pop
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,fma")
#include TRF_THIS_FILE
#pragma GCC pop_options
#endif
#undef TRF__LEVEL

/* the flags' own level again */
#undef TRF__SUFFIX
#undef TRF__INSTRUCTIONS
#define TRF__SUFFIX
#define TRF__INSTRUCTIONS
#define TRF__LEVEL 0
#include TRF_THIS_FILE
#undef TRF__LEVEL
#define TRF__ONCE 1
#endif

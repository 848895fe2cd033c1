#pragma once
#include "base/impl.h"

// -----------------------------------------------------------------------------------------------
// >>levels         the kernels of several processors in one compile
//
// A program for any x86-64 (`cc -O2`) has >>vector and the ops of >>cpu three times: with the flags
// of its build, with AVX2 and FMA, and with AVX-512. >>backend chooses among them when an object
// opens. For that the header includes itself once for each level (TRF__LEVEL, the bytes of a
// vector), but then compiles only the code that depends on the level. Its names get the level's
// suffix. A pragma gives the compiler the level's instructions. The names are listed below;
// tools/header/names.awk finds them.
//
// Levels that the build's flags contain are left out, so -march=native compiles one. On Windows
// there is one, because GCC aligns no stack to 32 bytes there.
// -----------------------------------------------------------------------------------------------

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && \
    defined(__AVX512VL__) && defined(__FMA__)
#define TRF__FLAGS_LEVEL 64
#elif defined(__AVX2__) && defined(__FMA__)
#define TRF__FLAGS_LEVEL 32
#else
#define TRF__FLAGS_LEVEL 16
#endif

#if TRF__X86 && TRF__FLAGS_LEVEL < 64 && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__) && \
    !defined(TRF_ONE_LEVEL) && !defined(TRF_COLUMN) && !defined(TRF_WITH_AVX2) && \
    !defined(TRF_WITH_AVX512) && !defined(_WIN32) && defined(TRANSFORMER_H) && \
    defined(__has_include)
#if !defined(TRF_THIS_FILE)
#define TRF_THIS_FILE "transformer.h"
#endif
#if __has_include(TRF_THIS_FILE)
#define TRF__LEVELS 1
#elif !defined(TRF_NO_SLOW_WARNING)
#pragma message("a renamed transformer.h is slow: define TRF_THIS_FILE as its name, in quotes")
#endif
#endif
#if !defined(TRF__LEVELS)
#define TRF__LEVELS 0
#endif

/* The suffix of the current level's names, and its instructions, for functions that need more.
   (clang does not add those of the pragma.) */
#define TRF__SUFFIX
#define TRF__INSTRUCTIONS
#define TRF__NAMED(name) TRF__PASTE(name, TRF__SUFFIX)
#define TRF__TARGET(more) __attribute__((target(TRF__INSTRUCTIONS more)))

#if TRF__LEVELS
TRF__NAMES
#endif

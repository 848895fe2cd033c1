#pragma once

#include <stddef.h>
#include <stdint.h>

#define TRF_VERSION "1.0.0"
#define TRF_VERSION_NUMBER 10000        /* 10000 major + 100 minor + patch */

#if defined(TRF_STATIC) && defined(__GNUC__)
#define TRF_API static __attribute__((unused))
#elif defined(TRF_STATIC)
#define TRF_API static
#elif !defined(TRF_API)
#define TRF_API extern
#endif

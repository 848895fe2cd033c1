#pragma once

#include <stddef.h>
#include <stdint.h>

#define TRF_VERSION "0.4.0"
#define TRF_VERSION_NUMBER 400          /* 10000 major + 100 minor + patch */

#if defined(TRF_STATIC) && defined(__GNUC__)
#define TRF_API static __attribute__((unused))
#elif defined(TRF_STATIC)
#define TRF_API static
#elif !defined(TRF_API)
#define TRF_API extern
#endif

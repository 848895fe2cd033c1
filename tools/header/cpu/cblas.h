#pragma once
#include "api/basics.h"
#include "base/impl.h"

// -----------------------------------------------------------------------------------------------
// >>cblas          the one call of CBLAS, and what can be asked of OpenBLAS
// -----------------------------------------------------------------------------------------------

#if !defined(TRF_NO_CBLAS)
#include TRF_CBLAS_HEADER
#if defined(TRF_DOUBLE)
#define TRF__GEMM cblas_dgemm
#else
#define TRF__GEMM cblas_sgemm
#endif

/* C = A B + c_factor C; the numbers of a row, or else of a column, are contiguous. A linker that
   finds no CBLAS prints the name of the function that calls it: so this one says what to do. */
TRF__FN TRF__NOINLINE
void trf__add_lopenblas_or_define_TRF_NO_CBLAS(int a_by_rows, int b_by_rows, int m, int n, int k,
                                               const trf_real *a, int lda, const trf_real *b,
                                               int ldb, trf_real c_factor, trf_real *c, int ldc)
{
    TRF__GEMM(CblasRowMajor, a_by_rows ? CblasNoTrans : CblasTrans,
              b_by_rows ? CblasNoTrans : CblasTrans, m, n, k, 1, a, lda, b, ldb, c_factor, c, ldc);
}
#endif

/* What can be asked of OpenBLAS; NULL if CBLAS is another library. */
#if !defined(TRF_NO_CBLAS) && defined(TRF_IMPLEMENTATION) && TRF__GNU && \
    (defined(__unix__) || defined(__HAIKU__))
#define TRF__ASK_OPENBLAS 1
#if defined(__cplusplus)
extern "C" {
#endif
extern int openblas_get_parallel(void) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));
extern void openblas_set_num_threads(int) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));     /* of its OpenMP build */
extern void omp_set_num_threads(int) __attribute__((weak));
#if defined(__cplusplus)
}
#endif
#else
#define TRF__ASK_OPENBLAS 0
#endif

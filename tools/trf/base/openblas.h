// trf: CBLAS as transformer.h calls it, from OpenBLAS, which is loaded at the first large product
// (openblas.c).
// SPDX-License-Identifier: MIT

#ifndef TRF_TOOL_OPENBLAS_H
#define TRF_TOOL_OPENBLAS_H

/* CBLAS's own numbers. */
enum cblas_order { CblasRowMajor = 101 };
enum cblas_transpose { CblasNoTrans = 111, CblasTrans = 112 };

/* 0: it cannot be loaded, and `reason` says why; else it stays loaded, and reason is NULL. */
int loaded_openblas(const char **reason);

void loaded_sgemm(enum cblas_order order, enum cblas_transpose turn_a, enum cblas_transpose turn_b,
                  int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                  int ldb, float beta, float *c, int ldc);
int loaded_get_parallel(void);      /* -1: it cannot be loaded */
char *loaded_get_config(void);
int loaded_get_num_threads(void);
void loaded_set_num_threads(int n);
char *loaded_get_corename(void);

#define cblas_sgemm loaded_sgemm
#define openblas_get_parallel loaded_get_parallel
#define openblas_get_config loaded_get_config
#define openblas_get_num_threads loaded_get_num_threads
#define openblas_set_num_threads loaded_set_num_threads
#define openblas_get_corename loaded_get_corename

#endif

// trf: OpenBLAS, which is loaded at the first large product (openblas.c).
// SPDX-License-Identifier: MIT

#ifndef TRF_TOOL_OPENBLAS_H
#define TRF_TOOL_OPENBLAS_H

/* 0: it cannot be loaded, and `reason` says why; else it stays loaded, and reason is NULL. */
int loads_openblas(const char **reason);

#endif

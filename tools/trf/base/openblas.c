// trf: OpenBLAS, loaded by the first product that needs it.
// SPDX-License-Identifier: MIT
//
// A program that is linked with OpenBLAS starts the library's threads in every run, before main.
// Each of them requests 128 MB of address space until it gets them, and the program cannot end
// before. Yet most runs of trf have no product for OpenBLAS. Here its threads are never started:
// trf has its own.

#include "base.h"

#if defined(LOADS_OPENBLAS)
#include <dlfcn.h>
#include "openblas.h"

/* Function, its type. */
#define FUNCTIONS(X) \
    X(cblas_sgemm, sgemm, void, \
      (enum cblas_order, enum cblas_transpose, enum cblas_transpose, int, int, int, float, \
       const float *, int, const float *, int, float, float *, int)) \
    X(openblas_get_parallel, get_parallel, int, (void)) \
    X(openblas_get_config, get_config, char *, (void)) \
    X(openblas_get_num_threads, get_num_threads, int, (void)) \
    X(openblas_set_num_threads, set_num_threads, void, (int)) \
    X(openblas_get_corename, get_corename, char *, (void))
#undef cblas_sgemm
#undef openblas_get_parallel
#undef openblas_get_config
#undef openblas_get_num_threads
#undef openblas_set_num_threads
#undef openblas_get_corename

static struct {
    int tried;
    char reason[200];
#define X(symbol, name, type, arguments) type (*name) arguments;
    FUNCTIONS(X)
#undef X
} openblas;

/* The first call is of the thread that creates the first object, before it has others. */
int loaded_openblas(const char **reason)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    void *library = NULL;
    size_t i;
    if (!openblas.tried) {
        openblas.tried = 1;
        setenv("OPENBLAS_NUM_THREADS", "1", 1);
        for (i = 0; i < sizeof names / sizeof *names && !library; i++) {
            library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
            if (!library && i == 0)
                snprintf(openblas.reason, sizeof openblas.reason, "%s", dlerror());
        }
        if (library) openblas.reason[0] = 0;
#define X(symbol, name, type, arguments) \
        if (library && !(*(void **)&openblas.name = dlsym(library, #symbol)) && \
            !openblas.reason[0]) \
            snprintf(openblas.reason, sizeof openblas.reason, \
                     "it lacks %s", #symbol);
        FUNCTIONS(X)
#undef X
    }
    *reason = openblas.reason[0] ? openblas.reason : NULL;
    return !*reason;
}

int loaded_get_parallel(void)
{
    const char *reason;
    return loaded_openblas(&reason) ? openblas.get_parallel() : -1;
}

void loaded_sgemm(enum cblas_order order, enum cblas_transpose turn_a, enum cblas_transpose turn_b,
                  int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                  int ldb, float beta, float *c, int ldc)
{
    openblas.sgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* The library asks this before anything else. */
char *loaded_get_corename(void)
{
    static char nothing[1];
    const char *reason;
    return loaded_openblas(&reason) ? openblas.get_corename() : nothing;
}

char *loaded_get_config(void) { return openblas.get_config(); }
int loaded_get_num_threads(void) { return openblas.get_num_threads(); }
void loaded_set_num_threads(int n) { openblas.set_num_threads(n); }

#else
typedef int nothing_is_loaded;      /* C wants something in a file */
#endif

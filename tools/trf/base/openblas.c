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

/* Function, its type: CBLAS's enumerations are int. */
#define FUNCTIONS(X) \
    X(cblas_sgemm, void, (int, int, int, int, int, int, float, const float *, int, const float *, \
                          int, float, float *, int)) \
    X(openblas_get_parallel, int, (void)) \
    X(openblas_get_config, char *, (void)) \
    X(openblas_get_num_threads, int, (void)) \
    X(openblas_set_num_threads, void, (int)) \
    X(openblas_get_corename, char *, (void))

static struct {
    int tried;
    char reason[200];
#define X(name, type, arguments) type (*name) arguments;
    FUNCTIONS(X)
#undef X
} loaded;

/* The first call is of the thread that creates the first object, before it has others. */
int loads_openblas(const char **reason)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    void *library = NULL;
    size_t i;
    if (!loaded.tried) {
        loaded.tried = 1;
        setenv("OPENBLAS_NUM_THREADS", "1", 1);
        for (i = 0; i < sizeof names / sizeof *names && !library; i++) {
            library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
            if (!library && i == 0)
                snprintf(loaded.reason, sizeof loaded.reason, "%s", dlerror());
        }
        if (library) loaded.reason[0] = 0;
#define X(name, type, arguments) \
        if (library && !(*(void **)&loaded.name = dlsym(library, #name)) && !loaded.reason[0]) \
            snprintf(loaded.reason, sizeof loaded.reason, "it lacks %s", #name);
        FUNCTIONS(X)
#undef X
    }
    *reason = loaded.reason[0] ? loaded.reason : NULL;
    return !*reason;
}

/* What transformer.h calls, by the names that OpenBLAS has. */
void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    loaded.cblas_sgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

int openblas_get_parallel(void)
{
    const char *reason;
    return loads_openblas(&reason) ? loaded.openblas_get_parallel() : -1;
}

/* The library asks this before anything else. */
char *openblas_get_corename(void)
{
    static char nothing[1];
    const char *reason;
    return loads_openblas(&reason) ? loaded.openblas_get_corename() : nothing;
}

char *openblas_get_config(void) { return loaded.openblas_get_config(); }
int openblas_get_num_threads(void) { return loaded.openblas_get_num_threads(); }
void openblas_set_num_threads(int n) { loaded.openblas_set_num_threads(n); }

#else
typedef int nothing_is_loaded;      /* C wants something in a file */
#endif

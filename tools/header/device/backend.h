#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/model.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "cpu/state.h"
#include "cuda/state.h"

// -----------------------------------------------------------------------------------------------
// >>backend        which table computes; OpenBLAS
//
// Objects that compute (trainer, translator, sampler, context, updater) open a trf__run and call
// ops through it. A model's run only knows the device of its memory. For the CPU the widest column
// is chosen that was compiled in and that this processor supports. Opening decides whether CBLAS
// may be used, and makes threads and OpenBLAS's buffers. After it no op allocates.
// -----------------------------------------------------------------------------------------------

/* Columns compiled in other files (`#define TRF_COLUMN avx2` there, -DTRF_WITH_AVX2 here). */
#if defined(__cplusplus)
extern "C" {
#endif
#if defined(TRF_WITH_AVX2)
extern const trf__backend TRF__COLUMN_SYMBOL(avx2);
#define TRF__AVX2_BACKEND &TRF__COLUMN_SYMBOL(avx2)
#elif TRF__LEVELS
#define TRF__AVX2_BACKEND &trf__cpu_backend_avx2
#endif
#if defined(TRF_WITH_AVX512)
extern const trf__backend TRF__COLUMN_SYMBOL(avx512);
#define TRF__AVX512_BACKEND &TRF__COLUMN_SYMBOL(avx512)
#elif TRF__LEVELS
#define TRF__AVX512_BACKEND &trf__cpu_backend_avx512
#endif
#if defined(TRF_WITH_CUDA)
extern const trf__backend TRF__COLUMN_SYMBOL(cuda);
#endif
#if defined(__cplusplus)
}
#endif

#if defined(TRF__TEST_BACKEND)      /* tests replace the CPU by a device of their own */
TRF__FN const trf__backend *TRF__TEST_BACKEND(const trf__backend *cpu);
#define TRF__BACKEND(cpu) TRF__TEST_BACKEND(cpu)
#else
#define TRF__BACKEND(cpu) (cpu)
#endif

TRF__FN int trf__has_avx2_and_fma(void)
{
#if TRF__X86
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

/* The CPU's backend, or NULL if this build has none: of those with vectors of at most so many bytes
   the widest that the processor has; 0: of all. The processor is queried in every call: the
   compiler's builtin reads a variable. */
TRF__FN const trf__backend *trf__host_backend(int32_t vector_bytes)
{
    const int most = vector_bytes ? (int)vector_bytes : INT_MAX;
#if defined(TRF_WITH_AVX512) || TRF__LEVELS
    if (most >= 64 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("fma"))
        return TRF__AVX512_BACKEND;
#endif
#if defined(TRF_WITH_AVX2) || (TRF__LEVELS && TRF__FLAGS_LEVEL < 32)
    if (most >= 32 && trf__has_avx2_and_fma()) return TRF__AVX2_BACKEND;
#endif
    return most >= TRF__VECTOR_BYTES ? &trf__cpu_backend : NULL;
}

/* The backend of a device, or NULL if this build has none. */
TRF__FN const trf__backend *trf__backend_of(const trf_device *device)
{
#if defined(TRF_WITH_CUDA)
    if (device->kind == TRF_DEVICE_CUDA) return &TRF__COLUMN_SYMBOL(cuda);
#elif TRF__CUDA
    if (device->kind == TRF_DEVICE_CUDA) return trf__cuda_backend();
#endif
    if (device->kind != TRF_DEVICE_CPU) return NULL;
    const trf__backend *host = trf__host_backend(device->vector_bytes);
    return host ? TRF__BACKEND(host) : NULL;
}

#if TRF__ASK_OPENBLAS
enum { TRF__BLAS_CALLERS = 64, TRF__BLAS_BUFFER = 128 << 20 };

// >>openblas       a gate for as many callers as its buffers allow

/* OpenBLAS has one number of threads and one set of buffers for the whole process. So the guard of
   both is the only state of the library outside objects (besides the last error of a CUDA device,
   >>launches). The threads are ours, so OpenBLAS's number is 1 while an op calls CBLAS: the first
   caller saves the number, and the last one restores it unless the program has changed it
   meanwhile. More simultaneous callers than buffers (2 * MAX_THREADS) would crash. Ours use half of
   them and are admitted in the order of arrival, so that no team starves. A program must not change
   the number while an op runs (bits may change), cancel a thread inside a call, compute in a child
   that was forked while an op ran, or compute with two copies of the implementation at once (each
   has its own guard). Every waiting thread has a condition of its own: one for all would wake
   all. */
typedef struct trf__waiting { pthread_cond_t turn; struct trf__waiting *behind; } trf__waiting;

static struct trf__openblas {
    pthread_mutex_t lock;
    trf__waiting *first, *last; /* the queue of waiting callers */
    int inside, places;         /* callers now, and the maximum; places 0: not determined yet */
    int number;                 /* OpenBLAS's thread number while no caller is inside */
    int64_t threads;            /* threads of all open runs */
    int buffers;                /* buffers made so far */
} trf__openblas = { PTHREAD_MUTEX_INITIALIZER, NULL, NULL, 0, 0, 1, 0, 0 };

/* Waits in the queue until `wanted` more callers may enter. */
TRF__FN void trf__products_wait(struct trf__openblas *o, int wanted)
{
    trf__waiting me;
    pthread_cond_init(&me.turn, NULL);
    me.behind = NULL;
    if (o->last) o->last->behind = &me; else o->first = &me;
    o->last = &me;
    while (o->first != &me || o->inside + wanted > o->places) pthread_cond_wait(&me.turn, &o->lock);
    o->first = me.behind;
    if (!o->first) o->last = NULL;
    pthread_cond_destroy(&me.turn);
}

/* The gate's enter. Earlier callers come first even if this one would fit, or many small ones could
   keep out a large one forever. */
TRF__FN int trf__products_enter(int wanted)
{
    struct trf__openblas *o = &trf__openblas;
    pthread_mutex_lock(&o->lock);
    if (wanted > o->places) wanted = o->places;
    if (o->first || o->inside + wanted > o->places) trf__products_wait(o, wanted);
    if (o->inside == 0) {
        o->number = openblas_get_num_threads();
        if (o->number != 1) openblas_set_num_threads(1);
    }
    o->inside += wanted;
    if (o->first) pthread_cond_signal(&o->first->turn);
    pthread_mutex_unlock(&o->lock);
    return wanted;
}

TRF__FN void trf__products_leave(int taken)
{
    struct trf__openblas *o = &trf__openblas;
    pthread_mutex_lock(&o->lock);
    o->inside -= taken;
    if (o->inside == 0 && o->number != 1 && openblas_get_num_threads() == 1)
        openblas_set_num_threads(o->number);
    if (o->first) pthread_cond_signal(&o->first->turn);
    pthread_mutex_unlock(&o->lock);
}

/* Which build of OpenBLAS it is. Old versions, which cannot tell, have threads. */
enum { TRF__BLAS_SERIAL, TRF__BLAS_THREADS, TRF__BLAS_OPENMP };
TRF__FN int trf__openblas_build(void)
{
    return openblas_get_parallel ? openblas_get_parallel() : TRF__BLAS_THREADS;
}

/* In the OpenMP build each thread has a number of its own, and the calling thread gets its back. */
TRF__FN int trf__openblas_enter(int wanted, int *team)
{
    *team = trf__openblas_build() == TRF__BLAS_OPENMP && omp_get_max_threads &&
                    omp_set_num_threads ? omp_get_max_threads() : 0;
    wanted = trf__products_enter(wanted);
    if (*team) omp_set_num_threads(1);
    return wanted;
}

TRF__FN void trf__openblas_leave(int taken, int team)
{
    trf__products_leave(taken);
    if (team) omp_set_num_threads(team);
}

static const trf__gate trf__openblas_gate = { trf__openblas_enter, trf__openblas_leave };

/* Whether there is address space for so many buffers at once. OpenBLAS allocates them when it needs
   them, and if it cannot, tries forever. */
TRF__FN int trf__buffers_fit(int wanted)
{
    void *held[TRF__BLAS_CALLERS];
    int n, fits = 1;
    for (n = 0; n < wanted && fits; n++) {
        void *volatile probe = malloc(TRF__BLAS_BUFFER);    /* compilers may not remove it */
        held[n] = probe;
        fits = held[n] != NULL;
    }
    while (n-- > 0) free(held[n]);
    return fits;
}

/* Adds to the callers of open runs (or subtracts), and returns the number of buffers they need. */
TRF__FN int trf__openblas_count(int threads)
{
    pthread_mutex_lock(&trf__openblas.lock);
    trf__openblas.threads += threads;
    int64_t wanted = trf__min64(trf__openblas.threads, trf__openblas.places);
    pthread_mutex_unlock(&trf__openblas.lock);
    return (int)wanted;
}

/* The callers that OpenBLAS serves at a time: half of the number of buffers, or one if it is a
   serial build, which locks nothing. Called once, as OpenBLAS writes its description to one static
   buffer in every call. */
TRF__FN int trf__openblas_places(void)
{
    const char *most = openblas_get_config ? strstr(openblas_get_config(), "MAX_THREADS=") : NULL;
    int places = most ? atoi(most + 12) : 0;
    if (trf__openblas_build() == TRF__BLAS_SERIAL) return 1;
    if (places < 1) places = TRF__BLAS_CALLERS / 2;
    return places < TRF__BLAS_CALLERS ? places : TRF__BLAS_CALLERS;
}

/* Whether OpenBLAS has chosen kernels for processors without AVX2 although this one has it. They
   are up to eight times as slow as the built-in product. */
TRF__FN int trf__openblas_is_slow(void)
{
    static const char *const narrow[] = {
        "generic", "unknown", "katmai", "coppermine", "northwood", "banias", "prescott", "core2",
        "penryn", "dunnington", "atom", "nehalem", "sandybridge", "athlon", "opteron",
        "opteron_sse3", "barcelona", "bobcat", "bulldozer", "nano" };
    const char *core = openblas_get_corename ? openblas_get_corename() : "";
    char name[16];
    size_t i, n = strlen(core);
    if (!trf__has_avx2_and_fma() || n >= sizeof name) return 0;
    for (i = 0; i <= n; i++)
        name[i] = (char)(core[i] >= 'A' && core[i] <= 'Z' ? core[i] - 'A' + 'a' : core[i]);
    for (i = 0; i < sizeof narrow / sizeof *narrow; i++) if (!strcmp(name, narrow[i])) return 1;
    return 0;
}

/* Adds to the callers, if there is room for the buffers that are missing. */
TRF__FN trf_status trf__openblas_open(int threads, trf_error *err)
{
    struct trf__openblas *o = &trf__openblas;
    pthread_mutex_lock(&o->lock);
    if (o->places == 0) o->places = trf__openblas_places();
    int made = o->buffers;
    pthread_mutex_unlock(&o->lock);
    int wanted = trf__openblas_count(threads);
    if (wanted <= made) return TRF_OK;
    if (!trf__buffers_fit(wanted - made)) {
        trf__openblas_count(-threads);
        return trf__fail(err, TRF_E_NOMEM, -1, "OpenBLAS",
                         "no address space for OpenBLAS's buffers: %d buffers of %d bytes each",
                         wanted, (int)TRF__BLAS_BUFFER);
    }
    pthread_mutex_lock(&o->lock);
    if (o->buffers < wanted) o->buffers = wanted;
    pthread_mutex_unlock(&o->lock);
    return TRF_OK;
}
#endif

#if !defined(TRF_NO_CBLAS)
/* Why CBLAS is not used where AUTO would use it; NULL: it is used. */
TRF__FN const char *trf__cblas_refused(void)
{
#if TRF__ASK_OPENBLAS
    /* another library: used without a gate */
    if (!openblas_get_config && !openblas_get_parallel) return NULL;
    if (!openblas_get_num_threads || !openblas_set_num_threads)
        return "this OpenBLAS cannot be told how many threads to use";
    if (trf__openblas_build() == TRF__BLAS_OPENMP)
        return "OpenBLAS's OpenMP build computes wrongly if two threads of a program call it";
    if (trf__openblas_is_slow())
        return "OpenBLAS uses kernels for older processors: install a newer OpenBLAS, or set "
               "OPENBLAS_CORETYPE=Haswell";
#endif
    return NULL;
}
#endif

/* Starts threads. If large products are for CBLAS (cpu->blas), prepares it, or decides that it is
   not used. */
TRF__FN trf_status trf__process_open(trf__cpu *cpu, const trf_hooks *hooks, trf_error *err)
{
    TRF__TRY(trf__team_open(cpu->threads, hooks, &cpu->team, err));
    if (!cpu->blas) return TRF_OK;
#if defined(TRF_NO_CBLAS)
    cpu->blas = 0;
#else
    cpu->blas = cpu->blas_asked || !trf__cblas_refused();
#if TRF__ASK_OPENBLAS
    if (cpu->blas && openblas_get_num_threads && openblas_set_num_threads) {
        TRF__TRY(trf__openblas_open(cpu->threads, err));
        cpu->gate = &trf__openblas_gate;
    }
#endif
#endif
    return TRF_OK;
}

/* OpenBLAS keeps its buffers. */
TRF__FN void trf__process_close(trf__cpu *cpu, const trf_hooks *hooks)
{
#if TRF__ASK_OPENBLAS
    if (cpu->gate) trf__openblas_count(-cpu->threads);
#endif
    cpu->gate = NULL;
    trf__team_close(cpu->team, hooks);
}

static const trf__process trf__this_process = {
    trf__process_open, trf__process_close, trf__team_share, trf__team_bytes
};

// >>runs           opening a device for an object; what was built
//
// All objects begin with trf__run_on, which cannot fail; the backend's `open` then makes the state.

TRF_API trf_precision trf_device_precision(const trf_device *device)
{
    const trf__backend *backend = device ? trf__backend_of(device) : NULL;
    if (!backend) return TRF_PRECISION_FLOAT32;
    if (device->precision != TRF_PRECISION_AUTO) return device->precision;
    if (TRF__REAL_BYTES == 8) return TRF_PRECISION_FLOAT32;
    const char *kernel = backend->kernel(device, TRF__BF16);
    return device->kind != TRF_DEVICE_CPU ||
                   ((device->products == TRF_PRODUCTS_AUTO ||
                     device->products == TRF_PRODUCTS_BUILT_IN) && !strcmp(kernel, "AMX"))
               ? TRF_PRECISION_BF16 : TRF_PRECISION_FLOAT32;
}

/* A run that can own memory; run.backend->open makes it compute. The device has been checked, so
   its backend exists. */
TRF__FN trf__run trf__run_on(const trf_device *device, const trf_hooks *hooks)
{
    TRF__ZEROED(trf__run, run);
    run.backend = trf__backend_of(device);
    run.device = *device;
    run.device.threads = trf__threads(device->threads);
    run.device.precision = trf_device_precision(device);
    run.hooks = *hooks;
    run.element = run.backend->element(&run.device);
    if (run.device.precision == TRF_PRECISION_BF16 && run.backend->packed_bytes(TRF__BF16, 16, 16))
        run.format = TRF__BF16;
    run.process = &trf__this_process;
    return run;
}

/* Scratch on the device that grows on demand; growing loses its contents. */
typedef struct trf__workspace { void *memory; size_t bytes; } trf__workspace;

TRF__FN trf_status trf__workspace_reserve(const trf__run *run, trf__workspace *work, size_t bytes,
                                          trf_error *err)
{
    if (bytes <= work->bytes) return TRF_OK;
    void *bigger = run->backend->alloc(run, bytes);
    TRF__FAIL_IF(!bigger, TRF_E_NOMEM, -1, "workspace", "no memory for %llu bytes",
                 (unsigned long long)bytes);
    run->backend->release(run, work->memory, work->bytes);
    work->memory = bigger;
    work->bytes = bytes;
    return TRF_OK;
}

/* An address of the device, if the host reaches the same memory at the same address; else NULL.
   All code above the backends works for both kinds of devices by these three functions. */
TRF__FN void *trf__shared_address(const trf__run *run, void *address)
{
    return run->backend->on_host ? address : NULL;
}

/* Where the host reads n items of the device: the items themselves if memory is shared, otherwise a
   piece of the cursor's memory for a copy. */
TRF__FN void *trf__take_host_copy(trf__cursor *host, const trf__run *run, void *items, int64_t n,
                                  size_t item)
{
    int shared = run->backend->on_host;
    void *copy = trf__take(host, shared ? 0 : n, item);
    return shared ? items : copy;
}

/* Brings such a copy up to date, after the next sync. */
TRF__FN void trf__read_host_copy(const trf__run *run, void *copy, const void *items, size_t bytes)
{
    if (copy != items) run->backend->download(run, copy, items, bytes);
}

/* Memory of the device, all zero; NULL if there is none. */
TRF__FN void *trf__device_zeroed(const trf__run *run, size_t bytes)
{
    void *memory = run->backend->alloc(run, bytes);
    if (memory) run->backend->zero(run, memory, bytes);
    return memory;
}

/* One string literal, assembled by the preprocessor: it needs no memory and no initialization. */
TRF_API int32_t trf_version(void) { return TRF_VERSION_NUMBER; }

TRF__FN const char *trf__build_info(void)
{
    return "transformer.h " TRF_VERSION
#if defined(TRF_DOUBLE)
        ", double"
#else
        ", float"
#endif
        ", vectors of " TRF__TEXT(TRF__VECTOR_BYTES) " bytes"
#if defined(TRF_NO_CBLAS)
        ", built-in products"
#else
        ", CBLAS"
#endif
#if TRF__THREADS
        ", threads"
#else
        ", one thread"
#endif
#if TRF__LEVELS
        ", levels up to avx512"
#endif
#if defined(TRF_WITH_AVX2)
        ", column avx2"
#endif
#if defined(TRF_WITH_AVX512)
        ", column avx512"
#endif
#if defined(TRF_WITH_CUDA) || TRF__CUDA
        ", CUDA"
#endif
#if defined(TRF_NO_TRAIN)
        ", no training"
#endif
#if TRF__SLOW
        ", not optimised"
#endif
        ;
}

/* Ranges first, then the device itself: probe asks the driver, which may be slow or missing. */
TRF__FN trf_status trf__device_check(const trf_device *device, trf_error *err)
{
    const trf__backend *backend = trf__backend_of(device);
    TRF__TRY(trf__check_range("device.threads", device->threads, 1, TRF__MAX_THREADS, err));
    TRF__TRY(trf__check_range("device.index", device->index, 0, INT32_MAX, err));
    TRF__TRY(trf__check_range("device.precision", (double)device->precision, 0,
                              TRF_PRECISION_COUNT - 1, err));
    TRF__TRY(trf__check_range("device.products", (double)device->products, 0,
                              TRF_PRODUCTS_COUNT - 1, err));
    TRF__TRY(trf__check_range("device.vector_bytes", device->vector_bytes, 0, 64, err));
    TRF__FAIL_IF(device->vector_bytes & (device->vector_bytes - 1) || (device->vector_bytes & 15),
                 TRF_E_INVALID_ARG, device->vector_bytes, "device.vector_bytes",
                 "device.vector_bytes must be 0, 16, 32 or 64, got %d", (int)device->vector_bytes);
    if (backend) return backend->probe(device, err);
    TRF__FAIL_IF(device->kind == TRF_DEVICE_CUDA, TRF_E_BACKEND, -1, "device.kind",
                 "TRF_DEVICE_CUDA: this program was built without CUDA (define TRF_WITH_CUDA or "
                 "TRF_CUDA to have it)");
    TRF__FAIL_IF(device->kind == TRF_DEVICE_CPU, TRF_E_BACKEND, -1, "device.vector_bytes",
                 "device.vector_bytes = %d: this build's vectors have at least %d bytes",
                 (int)device->vector_bytes, (int)TRF__VECTOR_BYTES);
    return trf__fail(err, TRF_E_BACKEND, -1, "device.kind", "there is no device.kind %d",
                     (int)device->kind);
}

/* The name of what multiplies matrices on a device with these weights. NULL: the device or the
   build does not have them, or the device is not valid. */
TRF__FN const char *trf__product_kernel(const trf_device *device, trf_weights weights)
{
    const int bf16 = weights == TRF_WEIGHTS_BF16, int8 = weights == TRF_WEIGHTS_INT8;
    if (!bf16 && !int8 && weights != TRF_WEIGHTS_FULL) return NULL;
    if (!device || trf__device_check(device, NULL)) return NULL;
    const char *kernel = trf__backend_of(device)->kernel(device, bf16 ? TRF__BF16
                                                         : int8 ? TRF__INT8 : TRF__FLOAT32);
#if !defined(TRF_NO_CBLAS)
    if (device->products == TRF_PRODUCTS_AUTO && kernel && !strcmp(kernel, "CBLAS") &&
        trf__cblas_refused()) return "built-in";
#endif
    return kernel;
}

TRF_API char *trf_device_text(const trf_device *device, char *text, size_t bytes)
{
    const trf_device on = device ? *device : trf_device_default();
    const char *why = NULL;
    trf_error err;
    if (!text || !bytes) return NULL;
    snprintf(text, bytes, "%s\n", trf__build_info());
    size_t used = strlen(text);
    if (trf__device_check(&on, &err)) {
        snprintf(text + used, bytes - used, "%s", err.message);
        return text;
    }
    const char *full = trf__product_kernel(&on, TRF_WEIGHTS_FULL);
    const char *bf16 = trf__product_kernel(&on, TRF_WEIGHTS_BF16);  /* NULL: numbers are doubles */
    const char *int8 = trf__product_kernel(&on, TRF_WEIGHTS_INT8);
#if !defined(TRF_NO_CBLAS)
    if (on.products == TRF_PRODUCTS_AUTO) why = trf__cblas_refused();
#if TRF__ASK_OPENBLAS
    if (!strcmp(full, "CBLAS") && openblas_get_corename) why = openblas_get_corename();
#endif
#endif
    if (on.kind != TRF_DEVICE_CPU)
        snprintf(text + used, bytes - used, "GPU %d by CUDA; products when training: %s",
                 (int)on.index, full);
    else
        snprintf(text + used, bytes - used,
                 "%s vectors, %d thread%s%s; products when training: %s%s%s%s",
                 trf__backend_of(&on)->name, TRF__THREADS ? (int)on.threads : 1,
                 trf__plural(TRF__THREADS ? on.threads : 1), TRF__SLOW ? ", not optimised" : "",
                 full, why ? " (" : "", why ? why : "", why ? ")" : "");
    used = strlen(text);
    if (bf16) snprintf(text + used, bytes - used, "; in 16 bits: %s", bf16);
    used = strlen(text);
    if (int8) snprintf(text + used, bytes - used, "; in 8 bits: %s", int8);
    return text;
}

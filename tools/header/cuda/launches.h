#pragma once
#include "base/impl.h"
#include "base/memory.h"
#include "ops/ops.h"

#if TRF__CUDA

// -----------------------------------------------------------------------------------------------
// >>cuda           the backend for NVIDIA's GPUs: the ops in the CPU's order
//
// Only nvcc compiles it: as a column of its own (`#define TRF_COLUMN cuda`, the program then has
// -DTRF_WITH_CUDA) or with everything in one file (-DTRF_CUDA). The formulas of an op are those of
// its twin in >>cpu; comments here say which thread computes what. Block b of threads takes tile b,
// then every gridDim-th one. Sums have a fixed order and nothing is added by atomics, so the same
// card and libraries give the same bits.
//
// All runs of a device issue into its default stream, so everything runs in the order of issue.
// Only during recording a list of ops goes into another stream; the graph made from it is then
// issued as a whole into the default stream.
// -----------------------------------------------------------------------------------------------
#if defined(TRF_DOUBLE)
#error "the CUDA backend computes in float: build it without TRF_DOUBLE"
#endif
/* bf16 products of tensor cores (mma.sync) begin with sm_80. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "the CUDA backend needs a GPU of sm_80 or later: nvcc -arch=sm_80"
#endif

#if defined(TRF__GPU_ON_CPU)            /* tests run on the CPU: they define these names */
#include TRF__GPU_ON_CPU
#else
#include <cublasLt.h>
#include <cuda_runtime.h>
#define TRF__SHARED(type, name, n) __shared__ __align__(16) type name[n]
/* A loop whose arrays lie in registers, which have no index. */
#define TRF__UNROLLED _Pragma("unroll")
#endif
#define TRF__DEVICE static __device__ __forceinline__
#define TRF__KERNEL static __global__

// >>launches       the device's state, its first error, and the function that starts kernels
//
// Ops return nothing: the first error is stored in the run, further ops are not issued, and `sync`
// returns the error. Kernels start through trf__launch only, which issues nothing after an error.

/* An algorithm that cuBLASLt chose, and the products it serves: those of this shape with all
   pointers and row lengths multiples of `aligned` bytes. m 0: the plan is empty. */
typedef struct trf__lt_key {
    int64_t m, n, k, lda, ldb, ldd, turn_a, turn_b, narrow, narrow_d, bias, aligned;
} trf__lt_key;
typedef struct trf__plan { trf__lt_key key; cublasLtMatmulAlgo_t algo; } trf__plan;

/* Pinned memory of the host that holds an upload until the device has read it. */
typedef struct trf__staging { void *memory; size_t bytes; cudaEvent_t read; } trf__staging;

/* A list of ops that was issued once or more, and its recording. */
typedef struct trf__recorded {
    trf__shape shape;
    int64_t used;               /* the number of its last use; 0: never used */
    cudaGraphExec_t graph;      /* NULL: not recorded */
} trf__recorded;

/* Recorded lists; the most rows of a padded batch; plans (a power of two); stages of uploads; bytes
   of a product's workspace; numbers of `sums`; the most blocks of a grid. */
enum { TRF__CUDA_LISTS = 16, TRF__CUDA_SHORT = 8192, TRF__CUDA_PLANS = 1024, TRF__CUDA_STAGES = 4,
       TRF__CUDA_WORKSPACE = 32 << 20, TRF__CUDA_SUMS = 1 << 20, TRF__CUDA_BLOCKS = 1 << 20 };

typedef struct trf__cuda {
    cublasLtHandle_t lt;
    cublasLtMatmulPreference_t preference;
    void *workspace;            /* scratch of products */
    float *sums;                /* TRF__CUDA_SUMS partial sums of columns */
    trf__staging stages[TRF__CUDA_STAGES];
    int stage;                  /* the stage of the next upload */
    cudaStream_t recorder;      /* the stream of ops while they are recorded */
    trf__recorded lists[TRF__CUDA_LISTS], *recording;   /* recording: this one, or NULL */
    /* lists_asked: lists issued so far; cannot_record: 1 after a recording has failed */
    int64_t lists_asked;
    int cannot_record;
    int failed;                 /* 1: nothing is issued any more, */
    char said[160];             /* because of this error */
    trf__plan plans[TRF__CUDA_PLANS];
} trf__cuda;

TRF__INLINE trf__cuda *trf__cuda_of(const trf__run *run) { return (trf__cuda *)run->state; }

/* The first error of runs without a state (models): a model is shared by threads, so each thread
   has its own; `sync` returns and clears it. */
static thread_local char trf__cuda_said[160];

/* Stores the first error; later ones are consequences. */
TRF__FN void trf__cuda_fails(const trf__run *run, const char *what, const char *why)
{
    trf__cuda *cuda = trf__cuda_of(run);
    char *said = cuda ? cuda->said : trf__cuda_said;
    if (!said[0]) snprintf(said, sizeof trf__cuda_said, "%s: %s", what, why);
    if (cuda) cuda->failed = 1;
}

/* Stores the error of a call if it failed. Returns whether it succeeded. */
TRF__FN int trf__cuda_did(const trf__run *run, const char *what, cudaError_t e)
{
    if (e != cudaSuccess) trf__cuda_fails(run, what, cudaGetErrorString(e));
    return e == cudaSuccess;
}

/* The stream into which ops are issued. */
TRF__FN cudaStream_t trf__cuda_queue(const trf__run *run)
{
    return run->state && trf__cuda_of(run)->recording ? trf__cuda_of(run)->recorder
        : cudaStreamLegacy;
}

/* Whether anything may still be issued. */
TRF__FN int trf__cuda_works(const trf__run *run)
{
    return !run->state || !trf__cuda_of(run)->failed;
}

/* Makes a device the current one of the calling thread, for the life of the object: the program's
   own choice is restored afterwards. */
struct trf__on_device {
    int before, now;
    explicit trf__on_device(int index) : before(index), now(index)
    {
        if (cudaGetDevice(&before) != cudaSuccess) before = index;
        if (before != now && cudaSetDevice(now) != cudaSuccess) now = before;
    }
    ~trf__on_device() { if (before != now) (void)cudaSetDevice(before); }
};

/* Arguments of this type do not take part in deducing T: the kernel alone determines it, and
   arguments are converted. */
template <class T> struct trf__exactly { typedef T type; };

enum { TRF__CUDA_THREADS = 256, TRF__CUDA_WARPS = TRF__CUDA_THREADS / 32,
       TRF__MMA_ROWS = 64, TRF__MMA_THREADS = 2 * TRF__MMA_ROWS };

/* Starts kernel(arguments...) with a block for each tile, up to the largest grid. Nothing is
   started for 0 tiles, which would be an error. */
template <int THREADS = TRF__CUDA_THREADS, class... P>
TRF__FN void trf__launch(const trf__run *run, const char *what, int64_t tiles, void (*kernel)(P...),
                         typename trf__exactly<P>::type... arguments)
{
    void *list[] = { (void *)&arguments... };
    trf__on_device here(run->device.index);
    dim3 grid((unsigned)trf__min64(tiles, TRF__CUDA_BLOCKS)), block(THREADS);
    if (tiles < 1 || !trf__cuda_works(run)) return;
    trf__cuda_did(run, what, cudaLaunchKernel(kernel, grid, block, list, 0, trf__cuda_queue(run)));
}

/* The number of tiles for n threads. */
TRF__FN int64_t trf__tiles_of(int64_t n) { return trf__ceil_div(n, TRF__CUDA_THREADS); }

/* Combines all lanes of a warp by `both`, or groups of 2 * LAST neighbours; every lane gets the
   result. Pairs exchange numbers over half the distance each time, so the order is fixed. */
template <int LAST = 16, class T, class Both> TRF__DEVICE T trf__of_warp(T x, Both both)
{
    for (int distance = LAST; distance > 0; distance /= 2)
        x = both(x, __shfl_xor_sync(0xFFFFFFFFu, x, distance));
    return x;
}

/* The same for a block of TRF__CUDA_THREADS threads. shared: memory for a number a warp. */
template <class T, class Both> TRF__DEVICE T trf__of_block(T x, T *shared, Both both)
{
    x = trf__of_warp(x, both);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    x = shared[0];
    for (int w = 1; w < TRF__CUDA_WARPS; w++) x = both(x, shared[w]);
    __syncthreads();                    /* all have read `shared`, so it may be used again */
    return x;
}

struct trf__plus { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
struct trf__larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
    __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};
template <class T> TRF__DEVICE T trf__warp_sum(T x) { return trf__of_warp(x, trf__plus()); }
template <class T> TRF__DEVICE T trf__block_sum(T x, T *shared) { return trf__of_block(x, shared,
        trf__plus()); }
TRF__DEVICE float trf__warp_max(float x) { return trf__of_warp(x, trf__larger()); }
template <class T> TRF__DEVICE T trf__block_max(T x, T *shared) { return trf__of_block(x, shared,
        trf__larger()); }

/* Calls thing(i) for all i < n: a thread takes its own i, then every one a grid further. */
template <class Do> TRF__DEVICE void trf__each(int64_t n, Do thing)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += (int64_t)gridDim.x * blockDim.x) thing(i);
}

/* bfloat16: the upper half of a float, rounded to nearest, ties to even. */
typedef struct trf__bf16 { uint16_t bits; } trf__bf16;

TRF__DEVICE float trf__as_float(float x) { return x; }
TRF__DEVICE float trf__as_float(trf__bf16 b) { return trf__float_of((uint32_t)b.bits << 16); }
TRF__DEVICE void trf__put_as(float *to, float x) { *to = x; }
TRF__DEVICE void trf__put_as(trf__bf16 *to, float x)
{
    uint32_t u = trf__float_bits(x);
    /* rounding could turn a NaN into infinity, so NaN is written directly */
    to->bits = (uint16_t)(x != x ? 0x7FC0 : (u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

/* Numbers of an activation. Kernels are templates of their type A, which TRF__OF_ACT chooses. Sums
   are always floats. */
template <class A> TRF__DEVICE float trf__get(const trf__act *a, int64_t i)
{
    return trf__as_float(((const A *)(const void *)a)[i]);
}
template <class A> TRF__DEVICE void trf__put(trf__act *a, int64_t i, float x)
{
    trf__put_as((A *)(void *)a + i, x);
}
#define TRF__OF_ACT(run, kernel) \
    ((run)->element == sizeof(float) ? kernel<float> : kernel<trf__bf16>)

/* An op that is one kernel: a block of so many threads for each tile, then the kernel and its
   arguments. j: the op. TRF__ACT_OP: the kernel is trf__gpu_<name>, a template of A. */
#define TRF__LAUNCHED_OP(name, type, threads, tiles, ...) \
    TRF__FN void trf__cuda_##name(const trf__run *run, const type *j) \
    { \
        trf__launch<threads>(run, #name, tiles, __VA_ARGS__); \
    }
#define TRF__ACT_OP(name, type, threads, tiles, ...) \
    TRF__LAUNCHED_OP(name, type, threads, tiles, TRF__OF_ACT(run, trf__gpu_##name), __VA_ARGS__)

#endif /* TRF__CUDA */

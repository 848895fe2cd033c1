/* The part of CUDA and cuBLASLt that >>cuda calls, on the CPU, so that its text is tested where no
   GPU is. C++11.

   A launch runs its grid block by block. Inside a block every CUDA thread is a fiber, which runs
   until it meets a barrier or a warp operation, or ends; a block in which nobody can run is
   reported with the lines where its threads wait. Shared and device memory are born as NaN, each
   array from malloc, so that AddressSanitizer sees every byte out of range. Under ThreadSanitizer
   each CUDA thread is a fiber of its own, which only barriers order: a missing
   __syncthreads is a data race. GPU_ORDER=1: threads run downwards; 2 and more: in shuffled orders.

   What is asked for waits in a queue until somebody must know: a sync, a download, a free. Launches
   keep copies of their arguments, and so do graphs. Uploads from pinned memory read it when their
   turn comes. A thread that captures asks for nothing elsewhere, waits for nothing, allocates and
   frees nothing. Every call can be made to fail. */
#ifndef GPU_ON_CPU_H
#define GPU_ON_CPU_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <vector>
#include "gpu.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
extern "C" {
void *__tsan_create_fiber(unsigned);
void __tsan_switch_to_fiber(void *, unsigned);
void *__tsan_get_current_fiber(void);
void __tsan_acquire(void *);
void __tsan_release(void *);
}
#define GPU_QUIET __attribute__((no_sanitize_thread, noinline))
#define GPU_RELEASE(p) __tsan_release(p)
#define GPU_ACQUIRE(p) __tsan_acquire(p)
#else
#define GPU_QUIET
#define GPU_RELEASE(p) ((void)0)
#define GPU_ACQUIRE(p) ((void)0)
#endif
#define GPU_UNUSED __attribute__((unused))

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline GPU_UNUSED
#define __launch_bounds__(...)
#define TRF__UNROLLED
struct alignas(16) uint4 { uint32_t x, y, z, w; };

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

gpu_numbers gpu_on_cpu = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0 };

/* One thing at a time: blocks, the queue and the list of memory are the process's. */
static std::recursive_mutex gpu_lock;
typedef std::lock_guard<std::recursive_mutex> gpu_guard;

/* -----------------------------------------------------------------------------------------------
   Fibers. */

#if defined(__x86_64__)
typedef void *gpu_context;
/* Inline, with a jump in place of a return: a processor expects that a return goes to where the last
   call came from, and waits for its pipeline where that is another fiber. */
#if defined(__AVX512F__)
#define GPU_MORE_REGISTERS                                                                        \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",   \
    "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5",     \
    "k6", "k7"
#else
#define GPU_MORE_REGISTERS
#endif
static inline __attribute__((always_inline)) void gpu_switch(gpu_context *from, gpu_context to)
{
    __asm__ volatile(                   /* 128: the compiler may use so many bytes below rsp */
        "lea -128(%%rsp),%%rsp\n\tpush %%rbp\n\tpush %%rbx\n\tlea 1f(%%rip),%%rcx\n\tpush %%rcx\n\t"
        "mov %%rsp,(%%rdi)\n\tmov %%rsi,%%rsp\n\tpop %%rcx\n\tjmp *%%rcx\n"
        "1:\tpop %%rbx\n\tpop %%rbp\n\tlea 128(%%rsp),%%rsp"
        : "+D"(from), "+S"(to)
        :
        : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
          "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
          "xmm11", "xmm12", "xmm13", "xmm14", "xmm15" GPU_MORE_REGISTERS);
}

static void gpu_start(gpu_context *context, char *stack, size_t bytes, void (*entry)(void))
{
    void **s = (void **)(((uintptr_t)stack + bytes) & ~(uintptr_t)15);
    *--s = NULL; /* keeps the stack aligned at entry, and stops a back trace */
    *--s = (void *)entry;
    *context = s;
}
#else
#include <ucontext.h>
typedef ucontext_t gpu_context;
static void gpu_switch(gpu_context *from, gpu_context &to) { swapcontext(from, &to); }
static void gpu_start(gpu_context *context, char *stack, size_t bytes, void (*entry)(void))
{
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = bytes;
    context->uc_link = NULL;
    makecontext(context, entry, 0);
}
#endif

enum { GPU_READY, GPU_AT_BLOCK, GPU_AT_WARP, GPU_DONE };
enum {
    GPU_MOST_THREADS = 1024,
    GPU_STACK = 64 << 10,
    GPU_MOST_SHARED = 8,
    GPU_POOL = 2048,
    GPU_TOKENS = 64,
    GPU_POISON = 1 << 20,
    GPU_MOST_COPIES = 32
};
#if defined(__SANITIZE_ADDRESS__)        /* which sees each byte by itself */
enum { GPU_GUARD = 0, GPU_BEHIND = 0x5A };
#else
enum { GPU_GUARD = 256, GPU_BEHIND = 0x5A };
#endif

struct gpu_copy { uint16_t *to; const uint16_t *from; };
struct gpu_thread {
    dim3 index;
    unsigned lane, warp, warp_ops;
    int state, line;                    /* line: where it waits */
    uint32_t mask;
    gpu_context context;
    char *stack;
    void *sanitizer;                    /* its fiber, or its fake stack */
    gpu_copy copies[GPU_MOST_COPIES];   /* begun, and not waited for */
    unsigned n_copies;
};
struct gpu_warp { uint64_t slot[2][32]; uint32_t arrived, alive; };
struct gpu_array { const void *key; void *memory; size_t bytes; };

/* The block that runs. Plain arrays: no library code that ThreadSanitizer would watch. */
static struct gpu_block {
    dim3 grid, size, index;
    gpu_thread threads[GPU_MOST_THREADS];
    gpu_warp warps[GPU_MOST_THREADS / 32];
    gpu_array shared[GPU_MOST_SHARED];
    unsigned n, alive, at_block, n_shared, stacks, count;
    char begin, end,
        token[GPU_TOKENS][33]; /* what barriers synchronise on: nothing orders two blocks */
    gpu_context scheduler;
    const std::function<void()> *kernel;
    const void *bottom;
    size_t bottom_size;
    void *fake, *fiber, *pool[GPU_POOL];
    char *pool_stack[GPU_POOL], *arena;
    size_t arena_used;
    unsigned pooled;
} gpu_b;
static gpu_thread *gpu_now;             /* and one of its threads */

#define threadIdx (gpu_now->index)
#define blockIdx  (gpu_b.index)
#define blockDim  (gpu_b.size)
#define gridDim   (gpu_b.grid)

GPU_QUIET static void gpu_fail(const char *what)
{
    static const char *const names[] = {"runs", "waits at __syncthreads",
                                        "waits in a warp operation", "has ended"};
    unsigned i, shown = 0;
    fprintf(stderr, "gpu: %s, block %u\n", what, blockIdx.x);
    for (i = 0; i < gpu_b.n && shown < 6; i++) {
        const gpu_thread *t = &gpu_b.threads[i];
        if (i && t->state == t[-1].state && t->line == t[-1].line) continue;
        fprintf(stderr, "     thread %u.. %s, line %d\n", i, names[t->state], t->line);
        shown++;
    }
    abort();
}

GPU_QUIET static void gpu_to_scheduler(bool last)
{
    gpu_thread *me = gpu_now;
    (void)last;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(last ? NULL : &me->sanitizer, gpu_b.bottom, gpu_b.bottom_size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(gpu_b.fiber, 1);     /* 1: switching orders nothing */
#endif
    gpu_switch(&me->context, gpu_b.scheduler);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(me->sanitizer, NULL, NULL);
#endif
}

GPU_QUIET static void gpu_resume(gpu_thread *t)
{
    gpu_now = t;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&gpu_b.fake, t->stack, GPU_STACK);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(t->sanitizer, 1);
#endif
    gpu_switch(&gpu_b.scheduler, t->context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(gpu_b.fake, NULL, NULL);
#endif
}

GPU_QUIET static void gpu_entry(void)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(NULL, &gpu_b.bottom, &gpu_b.bottom_size);
#endif
    GPU_ACQUIRE(&gpu_b.begin);
    (*gpu_b.kernel)();
    GPU_RELEASE(&gpu_b.end);
    if (gpu_now->n_copies) gpu_fail("a thread ends before the copies that it has begun");
    gpu_now->state = GPU_DONE;
    gpu_to_scheduler(true);
}

/* -----------------------------------------------------------------------------------------------
   Barriers and warp operations. */

GPU_QUIET static void gpu_syncthreads(int line)
{
    gpu_thread *me = gpu_now;
    char *token = &gpu_b.token[gpu_b.count % GPU_TOKENS][32];
    (void)token;
    me->state = GPU_AT_BLOCK;
    me->line = line;
    gpu_b.at_block++;
    GPU_RELEASE(token);
    gpu_to_scheduler(false);
    GPU_ACQUIRE(token);
}

/* Waits for all lanes that the mask names. The last one to arrive frees the others. */
GPU_QUIET static void gpu_warp_meet(uint32_t mask, int line)
{
    gpu_thread *me = gpu_now;
    gpu_warp *w = &gpu_b.warps[me->warp];
    char *token = &gpu_b.token[gpu_b.count % GPU_TOKENS][me->warp];
    unsigned i;
    (void)token;
    if (!(mask >> me->lane & 1))
        gpu_fail("a warp operation by a lane that its own mask leaves out");
    w->arrived |= 1u << me->lane;
    me->mask = mask;
    me->line = line;
    GPU_RELEASE(token);
    if (mask & ~w->alive) gpu_fail("a warp operation waits for a lane that has ended");
    if ((w->arrived & mask) == mask) {
        for (i = me->warp * 32; i < me->warp * 32 + 32; i++) {
            gpu_thread *other = &gpu_b.threads[i];
            if (!(mask >> other->lane & 1)) continue;
            if (other->mask != mask) gpu_fail("lanes of one warp operation name different masks");
            if (other->line != line) gpu_fail("lanes of one warp meet in different operations");
            if (other != me) other->state = GPU_READY;
        }
        w->arrived &= ~mask;
    } else {
        me->state = GPU_AT_WARP;
        gpu_to_scheduler(false);
    }
    GPU_ACQUIRE(token);
    me->warp_ops++;
}

/* Two sets of slots, so that one meeting is enough. */
template <class T> GPU_QUIET static T gpu_shuffle(uint32_t mask, T value, unsigned source, int line)
{
    gpu_thread *me = gpu_now;
    uint64_t (*slots)[32] = &gpu_b.warps[me->warp].slot[me->warp_ops & 1];
    T got;
    static_assert(sizeof(T) <= 8, "a shuffle of more than eight bytes");
    memcpy(&(*slots)[me->lane], &value, sizeof value);
    gpu_warp_meet(mask, line);
    if (!(mask >> (source & 31) & 1)) gpu_fail("a shuffle reads a lane outside its mask");
    memcpy(&got, &(*slots)[source & 31], sizeof got);
    return got;
}

#define __syncthreads()          gpu_syncthreads(__LINE__)
#define __syncwarp()             gpu_warp_meet(0xFFFFFFFFu, __LINE__)
#define __shfl_sync(m, v, s)     gpu_shuffle((m), (v), (unsigned)(s), __LINE__)
#define __shfl_xor_sync(m, v, x) gpu_shuffle((m), (v), gpu_now->lane ^ (unsigned)(x), __LINE__)

/* What a kernel asks of tensor cores, by the layouts of the PTX manual: a bf16 product (16, 8) +=
   (16, 16) (16, 8), and four matrices (8, 8) of 16 bits, turned. */
static inline float gpu_widened(uint32_t bits)
{
    float x;
    bits = (bits & 0xFFFF) << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Lane 4 g + t holds rows g and g + 8 of a, columns 2 t, 2 t + 1 and eight further: register row /
   8 + 2 * (k / 8). Of b it holds column g, of d columns 2 t and 2 t + 1. */
GPU_QUIET static void gpu_mma(float d[4], const uint32_t a[4], const uint32_t b[2], int line)
{
    static struct { uint32_t a[4], b[2]; } held[GPU_MOST_THREADS / 32][32][2];
    gpu_thread *me = gpu_now;
    unsigned side = me->warp_ops & 1, i, k;
    memcpy(held[me->warp][me->lane][side].a, a, 16);
    memcpy(held[me->warp][me->lane][side].b, b, 8);
    gpu_warp_meet(0xFFFFFFFFu, line);
    for (i = 0; i < 4; i++) {
        unsigned row = me->lane / 4 + i / 2 * 8, column = me->lane % 4 * 2 + i % 2;
        double sum = d[i];
        for (k = 0; k < 16; k++) {
            uint32_t x = held[me->warp][row % 8 * 4 + k % 8 / 2][side].a[row / 8 + k / 8 * 2];
            uint32_t y = held[me->warp][column * 4 + k % 8 / 2][side].b[k / 8];
            sum += (double)gpu_widened(x >> k % 2 * 16) * (double)gpu_widened(y >> k % 2 * 16);
        }
        d[i] = (float)sum;
    }
}

static __attribute__((noinline)) uint32_t gpu_read16(const uint16_t *p)
{
    return *p;
} /* sanitizers see it */
GPU_QUIET static void gpu_load(uint32_t r[4], const void *row, bool turned, int line)
{
    gpu_thread *me = gpu_now;
    uint64_t (*slots)[32] = &gpu_b.warps[me->warp].slot[me->warp_ops & 1];
    unsigned i, k, first = me->lane / 4, second = me->lane % 4 * 2;
    if ((uintptr_t)row % 16)
        gpu_fail("a row of ldmatrix that does not begin at a multiple of 16 bytes");
    (*slots)[me->lane] = (uint64_t)(uintptr_t)row;
    gpu_warp_meet(0xFFFFFFFFu, line);
    for (i = 0; i < 4; i++)
        for (k = 0, r[i] = 0; k < 2; k++) {
            unsigned of = turned ? second + k : first, at = turned ? first : second + k;
            r[i] |= gpu_read16((const uint16_t *)(uintptr_t)(*slots)[i * 8 + of] + at) << k * 16;
        }
}

/* What a thread copies without waiting: until it waits, the place holds NaN. */
static __attribute__((noinline)) void gpu_copy16(uint16_t *to, const uint16_t *from, uint16_t else_)
{
    for (int i = 0; i < 8; i++) to[i] = from ? from[i] : else_;
}
GPU_QUIET static void gpu_copy_begin(void *to, const void *from, bool there)
{
    gpu_thread *me = gpu_now;
    if ((uintptr_t)to % 16 || (uintptr_t)from % 16)
        gpu_fail("a copy that does not begin at a multiple of 16 bytes");
    if (me->n_copies == GPU_MOST_COPIES) gpu_fail("too many copies under way");
    gpu_copy16((uint16_t *)to, NULL, 0xFFFF);
    me->copies[me->n_copies].to = (uint16_t *)to;
    me->copies[me->n_copies++].from = there ? (const uint16_t *)from : NULL;
}
GPU_QUIET static void gpu_copies_end(void)
{
    gpu_thread *me = gpu_now;
    for (unsigned i = 0; i < me->n_copies; i++)
        gpu_copy16(me->copies[i].to, me->copies[i].from, 0);
    me->n_copies = 0;
}
#define trf__mma(d, a, b)           gpu_mma((d), (a), (b), __LINE__)
#define trf__load_matrices(r, row)      gpu_load((r), (row), false, __LINE__)
#define trf__load_transposed(r, row)    gpu_load((r), (row), true, __LINE__)
#define trf__copy_begin             gpu_copy_begin
#define trf__copies_end             gpu_copies_end
#define trf__quick_exp2             exp2f

/* -----------------------------------------------------------------------------------------------
   Shared memory: one array per declaration and block, of its exact size, freed when the block ends.
   Under ThreadSanitizer blocks get addresses of their own, since nothing orders them. */

GPU_QUIET static void *gpu_array_new(size_t bytes)
{
    char *p;
#if defined(__SANITIZE_THREAD__)
    p = gpu_b.arena + gpu_b.arena_used;
    gpu_b.arena_used += (bytes + 127) & ~(size_t)127;
    if (gpu_b.arena_used > (size_t)1 << 30) gpu_fail("the shim's arena is full");
#else
    p = (char *)malloc(bytes + GPU_GUARD);
    memset(p + bytes, GPU_BEHIND, GPU_GUARD);
#endif
    for (size_t i = 0; i < bytes; i++) p[i] = (char)0xFF;
    return p;
}

GPU_QUIET static void gpu_shared_end(void)
{
#if !defined(__SANITIZE_THREAD__)
    for (unsigned i = 0; i < gpu_b.n_shared; i++) {
        char *p = (char *)gpu_b.shared[i].memory;
        for (size_t k = 0; k < GPU_GUARD; k++)
            if (p[gpu_b.shared[i].bytes + k] != GPU_BEHIND)
                gpu_fail("written behind a shared array");
        free(p);
    }
#endif
    gpu_b.n_shared = 0;
}

GPU_QUIET static void *gpu_shared(const void *key, size_t bytes)
{
    unsigned i;
    for (i = 0; i < gpu_b.n_shared; i++)
        if (gpu_b.shared[i].key == key) return gpu_b.shared[i].memory;
    if (i == GPU_MOST_SHARED) gpu_fail("too many shared arrays");
    gpu_b.shared[i].key = key;
    gpu_b.shared[i].memory = gpu_array_new(bytes);
    gpu_b.shared[i].bytes = bytes;
    gpu_b.n_shared++;
    return gpu_b.shared[i].memory;
}
#define TRF__SHARED(type, name, n) \
    static char name##_key; \
    type *name = (type *)gpu_shared(&name##_key, sizeof(type) * (size_t)(n))

static char *gpu_stack(void)            /* with a page below it that faults */
{
    char *p = (char *)mmap(NULL, GPU_STACK + 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(p, 4096, PROT_NONE);
    return p + 4096;
}

/* -----------------------------------------------------------------------------------------------
   A grid. */

/* Every thread of the block at its beginning. */
GPU_QUIET static void gpu_block_begin(void)
{
    unsigned i;
    gpu_b.alive = gpu_b.n;
    gpu_b.at_block = 0;
    gpu_b.count++;
    for (i = 0; i < GPU_MOST_THREADS / 32; i++) gpu_b.warps[i].arrived = gpu_b.warps[i].alive = 0;
    for (i = 0; i < gpu_b.n; i++) {
        gpu_thread *t = &gpu_b.threads[i];
#if defined(__SANITIZE_THREAD__)
        unsigned at =
            (gpu_b.count * gpu_b.n + i) % gpu_b.pooled; /* another one than in the last blocks */
        t->sanitizer = gpu_b.pool[at];
        t->stack = gpu_b.pool_stack[at];
#endif
        t->index = dim3(i, 0, 0);
        t->lane = i % 32;
        t->warp = i / 32;
        t->state = GPU_READY;
        t->line = 0;
        t->warp_ops = 0;
        t->mask = 0;
        gpu_b.warps[t->warp].alive |= 1u << t->lane;
        /* Stacks that begin at one place of their pages would displace one another from the cache. */
        gpu_start(&t->context, t->stack, GPU_STACK - i * 192 % 4096, gpu_entry);
    }
}

/* Frees those who wait at the barrier, once all that live do. */
GPU_QUIET static void gpu_open_barrier(bool ran)
{
    unsigned i;
    int line = -1;
    if (gpu_b.at_block != gpu_b.alive) {
        if (!ran) gpu_fail("a deadlock: no thread of the block can run");
        return;
    }
    if (gpu_b.alive < gpu_b.n) gpu_fail("a barrier that some threads of the block never reach");
    for (i = 0; i < gpu_b.n; i++) {
        gpu_thread *t = &gpu_b.threads[i];
        if (line >= 0 && t->line != line)
            gpu_fail("threads of one block meet in different barriers");
        line = t->line;
        t->state = GPU_READY;
    }
    gpu_b.at_block = 0;
}

/* In which order a warp's lanes run; for a shuffled order another one at every turn. */
GPU_QUIET static const unsigned char *gpu_turn(void)
{
    static const int order = getenv("GPU_ORDER") ? atoi(getenv("GPU_ORDER")) : 0;
    static uint64_t seed = (uint64_t)order * 0x9E3779B97F4A7C15u + 1;
    static unsigned char turn[32], made;
    unsigned i;
    for (i = 0; !made && i < 32; i++) turn[i] = (unsigned char)(order == 1 ? 31 - i : i);
    made = 1;
    for (i = 32; order >= 2 && i > 1; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        std::swap(turn[i - 1], turn[(seed >> 33) % i]);
    }
    return turn;
}

/* A warp runs until none of its lanes can. Whether any could. */
GPU_QUIET static bool gpu_run_warp(unsigned warp)
{
    bool ran = false, again = true;
    unsigned i;
    while (again) {
        const unsigned char *turn = gpu_turn();
        again = false;
        for (i = 0; i < 32; i++) {
            gpu_thread *t = &gpu_b.threads[warp * 32 + turn[i]];
            if (t->state != GPU_READY) continue;
            ran = again = true;
            gpu_resume(t);
            if (t->state != GPU_DONE) continue;
            gpu_b.alive--;
            gpu_b.warps[warp].alive &= ~(1u << t->lane);
        }
    }
    return ran;
}

GPU_QUIET static void gpu_grid(dim3 grid, dim3 size, const std::function<void()> &kernel)
{
    unsigned i, n = size.x;
    if (n == 0 || n > GPU_MOST_THREADS || n % 32 || size.y * size.z != 1 || !grid.x ||
        grid.y * grid.z != 1)
        gpu_fail("a launch that is not of this library's kind");
    while (gpu_b.stacks < n) gpu_b.threads[gpu_b.stacks++].stack = gpu_stack();
#if defined(__SANITIZE_THREAD__)
    if (!gpu_b.arena)
        gpu_b.arena = (char *)mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    gpu_b.fiber = __tsan_get_current_fiber();
    gpu_b.arena_used = 0;
    while (gpu_b.pooled < GPU_POOL && gpu_b.pooled < 4 * n) {
        gpu_b.pool_stack[gpu_b.pooled] = gpu_stack();
        gpu_b.pool[gpu_b.pooled++] = __tsan_create_fiber(0);
    }
#endif
    gpu_b.grid = grid;
    gpu_b.size = size;
    gpu_b.n = n;
    gpu_b.kernel = &kernel;
    GPU_RELEASE(&gpu_b.begin);
    for (gpu_b.index = dim3(0, 0, 0); gpu_b.index.x < grid.x; gpu_b.index.x++) {
        gpu_block_begin();
        while (gpu_b.alive > 0) {
            bool ran = false;
            for (i = 0; i < n / 32; i++) ran = gpu_run_warp(i) || ran;
            if (gpu_b.alive > 0) gpu_open_barrier(ran);
        }
        gpu_shared_end();
    }
    GPU_ACQUIRE(&gpu_b.end);
    gpu_now = NULL;
}

/* -----------------------------------------------------------------------------------------------
   The runtime: errors, memory, the queue. */

typedef int cudaError_t;
enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorUnknown = 999
};
typedef int cudaMemcpyKind;
enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
typedef std::vector<std::function<void()> > gpu_things;
typedef struct gpu_stream { bool captures; gpu_things things; } *cudaStream_t;
typedef gpu_things *cudaGraph_t;
typedef gpu_things *cudaGraphExec_t;
typedef enum { cudaStreamCaptureModeThreadLocal = 1 } cudaStreamCaptureMode;
enum { cudaStreamNonBlocking = 1 };
#define cudaStreamLegacy ((cudaStream_t)1)
enum { cudaEventDisableTiming = 2 };
typedef struct gpu_event {
    size_t behind;
} * cudaEvent_t; /* done when so many things have been */
typedef struct cudaFuncAttributes { int unused; } cudaFuncAttributes;

static gpu_things gpu_queue;
static thread_local cudaStream_t gpu_captures; /* the stream that this thread captures, or NULL */
static size_t gpu_did;                  /* things that have left the queue */
static std::map<const char *, size_t> gpu_device_memory, gpu_pinned_memory;
static thread_local cudaError_t gpu_last;
static thread_local int gpu_device_now;

/* Counts a call; 1 if it is to fail. */
static inline int gpu_refuses(void)
{
    gpu_guard guard(gpu_lock);
    return ++gpu_on_cpu.calls == gpu_on_cpu.fail_at;
}
#define GPU_CALL(error) do { if (gpu_refuses()) return gpu_last = (error); } while (0)

static inline const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaSuccess                 ? "no error"
           : e == cudaErrorMemoryAllocation ? "out of memory"
           : e == cudaErrorNoDevice         ? "no CUDA-capable device is detected"
           : e == cudaErrorUnknown          ? "made to fail"
                                            : "invalid argument";
}
static inline cudaError_t cudaGetLastError(void)
{
    cudaError_t e = gpu_last;
    gpu_last = cudaSuccess;
    return e;
}

static inline int gpu_holds(const std::map<const char *, size_t> &list, const void *p, size_t n)
{
    std::map<const char *, size_t>::const_iterator i = list.upper_bound((const char *)p);
    if (i == list.begin()) return 0;
    --i;
    return (const char *)p + n <= i->first + i->second;
}

/* Things up to so many happen now, one by one, as a thing may ask for others. */
static inline void gpu_flush(void)
{
    gpu_guard guard(gpu_lock);
    gpu_things now;
    now.swap(gpu_queue);
    for (size_t i = 0; i < now.size(); i++, gpu_did++) now[i]();
}
void gpu_on_cpu_flush(void) { gpu_flush(); }
static inline void gpu_ask(cudaStream_t stream, const std::function<void()> &thing)
{
    gpu_guard guard(gpu_lock);
    if (gpu_captures && stream != gpu_captures)
        gpu_fail("asked beside the stream that this thread captures");
    if (stream != cudaStreamLegacy) {
        if (!stream->captures) gpu_fail("asked of a stream that does not capture");
        stream->things.push_back(thing);
        return;
    }
    gpu_queue.push_back(thing);
    if (gpu_queue.size() > 4096) gpu_flush();
}
static inline void gpu_outside(void)
{
    if (gpu_captures) gpu_fail("a call that must not be made while capturing");
}

static inline cudaError_t cudaGetDeviceCount(int *n)
{
    GPU_CALL(cudaErrorUnknown);
    *n = gpu_on_cpu.devices;
    return *n ? cudaSuccess : gpu_last = cudaErrorNoDevice;
}
static inline cudaError_t cudaGetDevice(int *device)
{
    *device = gpu_device_now;
    return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= gpu_on_cpu.devices) return gpu_last = cudaErrorInvalidDevice;
    gpu_device_now = device;
    return cudaSuccess;
}
template <class T> static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, T *)
{
    GPU_CALL(cudaErrorUnknown);
    return cudaSuccess;
}

static inline cudaError_t gpu_new(std::map<const char *, size_t> &list, void **p, size_t n)
{
    gpu_guard guard(gpu_lock);
    gpu_outside();
    *p = n > (size_t)1 << 34 ? NULL : malloc(n);
    if (!*p) return gpu_last = cudaErrorMemoryAllocation;
    memset(*p, 0xFF, std::min(n, (size_t)GPU_POISON));
    list[(const char *)*p] = n;
    gpu_on_cpu.blocks++;
    gpu_on_cpu.bytes += (int64_t)n;
    gpu_on_cpu.most_bytes = std::max(gpu_on_cpu.most_bytes, gpu_on_cpu.bytes);
    return cudaSuccess;
}
static inline void gpu_delete(std::map<const char *, size_t> &list, void *p)
{
    gpu_guard guard(gpu_lock);
    std::map<const char *, size_t>::iterator i = list.find((const char *)p);
    if (!p) return;
    gpu_outside();
    if (i == list.end()) gpu_fail("freed what is no memory of this kind");
    gpu_flush();
    gpu_on_cpu.blocks--;
    gpu_on_cpu.bytes -= (int64_t)i->second;
    list.erase(i);
    free(p);
}
static inline cudaError_t cudaMalloc(void **p, size_t n)
{
    GPU_CALL(cudaErrorMemoryAllocation);
    return gpu_new(gpu_device_memory, p, n);
}
static inline cudaError_t cudaMallocHost(void **p, size_t n)
{
    GPU_CALL(cudaErrorMemoryAllocation);
    return gpu_new(gpu_pinned_memory, p, n);
}
/* Freeing has happened even where an error is told, one of something before it. */
static inline cudaError_t cudaFree(void *p)
{
    gpu_delete(gpu_device_memory, p);
    GPU_CALL(cudaErrorUnknown);
    return cudaSuccess;
}
static inline cudaError_t cudaFreeHost(void *p)
{
    gpu_delete(gpu_pinned_memory, p);
    GPU_CALL(cudaErrorUnknown);
    return cudaSuccess;
}

static inline cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t stream)
{
    gpu_guard guard(gpu_lock);
    GPU_CALL(cudaErrorUnknown);
    if (!gpu_holds(gpu_device_memory, p, n)) return gpu_last = cudaErrorInvalidValue;
    gpu_ask(stream, [=] { memset(p, value, n); });
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind,
                                          cudaStream_t stream)
{
    gpu_guard guard(gpu_lock);
    GPU_CALL(cudaErrorUnknown);
    if (gpu_holds(gpu_device_memory, to, n) != (kind != cudaMemcpyDeviceToHost) ||
        gpu_holds(gpu_device_memory, from, n) != (kind != cudaMemcpyHostToDevice))
        return gpu_last = cudaErrorInvalidValue;
    if (kind == cudaMemcpyHostToDevice) gpu_on_cpu.uploads++;
    if (kind == cudaMemcpyDeviceToHost) gpu_on_cpu.downloads++;
    if (kind == cudaMemcpyHostToDevice && !gpu_holds(gpu_pinned_memory, from, n)) {
        std::vector<char> copy((const char *)from, (const char *)from + n);
        gpu_ask(stream, [=] { memcpy(to, copy.data(), n); });
    } else gpu_ask(stream, [=] { memcpy(to, from, n); });
    if (kind == cudaMemcpyDeviceToHost) { gpu_outside(); gpu_flush(); }
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    gpu_guard guard(gpu_lock);
    GPU_CALL(cudaErrorUnknown);
    gpu_outside();
    gpu_on_cpu.syncs++;
    gpu_flush();
    return cudaSuccess;
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    GPU_CALL(cudaErrorUnknown);
    *event = new gpu_event();
    return cudaSuccess;
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    GPU_CALL(cudaErrorUnknown);
    return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
    gpu_guard guard(gpu_lock);
    GPU_CALL(cudaErrorUnknown);
    event->behind = gpu_did + gpu_queue.size();
    return cudaSuccess;
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    gpu_guard guard(gpu_lock);
    GPU_CALL(cudaErrorUnknown);
    if (gpu_did < event->behind) gpu_flush();
    return cudaSuccess;
}

template <int... I> struct gpu_indices {};
template <int N, int... I> struct gpu_count : gpu_count<N - 1, N - 1, I...> {};
template <int... I> struct gpu_count<0, I...> { typedef gpu_indices<I...> type; };

/* The arguments by their types, from where CUDA is told that they lie. */
template <class... P, int... I>
static inline std::function<void()> gpu_bound(void (*kernel)(P...), void **list, gpu_indices<I...>)
{
    return std::bind(kernel, *(P *)list[I]...);
}
template <class... P>
static inline cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 size, void **list,
                                           size_t, cudaStream_t stream)
{
    gpu_guard guard(gpu_lock);
    std::function<void()> one = gpu_bound(kernel, list, typename gpu_count<sizeof...(P)>::type());
    GPU_CALL(cudaErrorUnknown);
    gpu_on_cpu.launches++;
    gpu_ask(stream, [=] { gpu_grid(grid, size, one); });
    return cudaSuccess;
}

/* Streams, for capturing alone, and graphs: lists of what was asked for, arguments included. */
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    GPU_CALL(cudaErrorUnknown);
    *stream = new gpu_stream();
    gpu_on_cpu.blocks++;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    gpu_on_cpu.blocks--;
    GPU_CALL(cudaErrorUnknown);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    GPU_CALL(cudaErrorUnknown);
    if (gpu_on_cpu.no_graphs) return gpu_last = cudaErrorUnknown;
    gpu_outside();
    stream->captures = true;
    stream->things.clear();
    gpu_captures = stream;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    gpu_guard guard(gpu_lock);
    if (!stream->captures) return gpu_last = cudaErrorInvalidValue;
    stream->captures = false;
    gpu_captures = NULL;
    GPU_CALL(cudaErrorUnknown);
    *graph = new gpu_things(stream->things);
    gpu_on_cpu.blocks++;
    return cudaSuccess;
}
static inline cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    gpu_guard guard(gpu_lock);
    delete graph;
    gpu_on_cpu.blocks--;
    GPU_CALL(cudaErrorUnknown);
    return cudaSuccess;
}
static inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                                        unsigned long long)
{
    gpu_guard guard(gpu_lock);
    GPU_CALL(cudaErrorUnknown);
    *exec = new gpu_things(*graph);
    gpu_on_cpu.blocks++;
    return cudaSuccess;
}
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return cudaGraphDestroy(exec);
}
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    gpu_guard guard(gpu_lock);
    gpu_things things = *exec;
    GPU_CALL(cudaErrorUnknown);
    gpu_on_cpu.graphs++;
    gpu_ask(stream, [=] { for (size_t i = 0; i < things.size(); i++) things[i](); });
    return cudaSuccess;
}

/* -----------------------------------------------------------------------------------------------
   cuBLASLt, as naive loops, strict about what the real one refuses. */

typedef int cublasStatus_t;
enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
};
typedef enum { CUDA_R_32F = 0, CUDA_R_16BF = 14 } cudaDataType_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
typedef enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC = 69 } cublasComputeType_t;
typedef enum { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4 } cublasLtEpilogue_t;
typedef enum {
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_DESC_TRANSB = 4,
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8
} cublasLtMatmulDescAttributes_t;
typedef enum {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
} cublasLtMatmulPreferenceAttributes_t;
enum { CUBLASLT_REDUCTION_SCHEME_NONE = 0, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };
typedef struct cublasLtMatmulDescOpaque_t {
    cublasOperation_t turn_a, turn_b;
    cublasLtEpilogue_t epilogue;
    cublasComputeType_t compute;
    const char *bias;                   /* of D's type */
} cublasLtMatmulDescOpaque_t;
typedef struct cublasLtMatrixLayoutOpaque_t {
    uint64_t rows, columns;
    int64_t ld;
    cudaDataType_t type;
} cublasLtMatrixLayoutOpaque_t;
typedef struct gpu_preference {
    uint64_t workspace;
    uint32_t reduction, aligned[4];
} * cublasLtMatmulPreference_t;
typedef struct gpu_lt { int unused; } *cublasLtHandle_t;
/* What an algorithm was chosen for: another product must not use it. */
typedef struct cublasLtMatmulAlgo_t {
    uint64_t m, n, k;
    uint32_t aligned[4];
    int turn_a, turn_b, bias, in, out;
} cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    cublasStatus_t state;
} cublasLtMatmulHeuristicResult_t;
typedef const cublasLtMatmulDescOpaque_t *gpu_desc;
typedef const cublasLtMatrixLayoutOpaque_t *gpu_layout;

static inline const char *cublasLtGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_EXECUTION_FAILED ? "made to fail"
           : s == CUBLAS_STATUS_NOT_SUPPORTED  ? "not supported"
                                               : "invalid value";
}
#define GPU_LT_CALL() do { if (gpu_refuses()) return CUBLAS_STATUS_EXECUTION_FAILED; } while (0)
static inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *lt)
{
    GPU_LT_CALL();
    *lt = new gpu_lt();
    return 0;
}
static inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t lt)
{
    delete lt;
    GPU_LT_CALL();
    return 0;
}
static inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    GPU_LT_CALL();
    *p = new gpu_preference();
    return 0;
}
static inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete p;
    GPU_LT_CALL();
    return 0;
}
static inline cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                     cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                     size_t n)
{
    GPU_LT_CALL();
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && n == 8) memcpy(&p->workspace, value, n);
    else if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && n == 4)
        memcpy(&p->reduction, value, n);
    else if (what >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && n == 4)
        memcpy(&p->aligned[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, n);
    else return CUBLAS_STATUS_INVALID_VALUE;
    return 0;
}
static inline cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDescOpaque_t *d,
                                                    cublasComputeType_t compute,
                                                    cudaDataType_t scale)
{
    GPU_LT_CALL();
    if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(d, 0, sizeof *d);
    d->compute = compute;
    d->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return 0;
}
static inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t *d,
                                                            cublasLtMatmulDescAttributes_t what,
                                                            const void *value, size_t n)
{
    GPU_LT_CALL();
    if (what == CUBLASLT_MATMUL_DESC_TRANSA && n == 4) memcpy(&d->turn_a, value, n);
    else if (what == CUBLASLT_MATMUL_DESC_TRANSB && n == 4) memcpy(&d->turn_b, value, n);
    else if (what == CUBLASLT_MATMUL_DESC_EPILOGUE && n == 4) memcpy(&d->epilogue, value, n);
    else if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER && n == 8) memcpy(&d->bias, value, n);
    else return CUBLAS_STATUS_INVALID_VALUE;
    return 0;
}
static inline cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayoutOpaque_t *l,
                                                      cudaDataType_t type, uint64_t rows,
                                                      uint64_t columns, int64_t ld)
{
    GPU_LT_CALL();
    if (rows == 0 || columns == 0 || ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    l->rows = rows;
    l->columns = columns;
    l->ld = ld;
    l->type = type;
    return 0;
}
/* The product's shape, or an error where the layouts do not fit together. */
static inline cublasStatus_t gpu_lt_shape(cublasLtMatmulAlgo_t *x, gpu_desc d, gpu_layout a,
                                          gpu_layout b, gpu_layout c)
{
    x->m = c->rows;
    x->n = c->columns;
    x->k = d->turn_a ? a->rows : a->columns;
    x->turn_a = d->turn_a;
    x->turn_b = d->turn_b;
    x->bias = d->bias != NULL;
    x->in = a->type;
    x->out = c->type;
    /* both factors are of one type; floats become floats, pedantically */
    if (a->type != b->type || (a->type == CUDA_R_32F && c->type != CUDA_R_32F) ||
        (a->type == CUDA_R_32F) != (d->compute == CUBLAS_COMPUTE_32F_PEDANTIC))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if ((d->turn_a ? a->columns : a->rows) != x->m || (d->turn_b ? b->columns : b->rows) != x->k ||
        (d->turn_b ? b->rows : b->columns) != x->n ||
        (d->epilogue == CUBLASLT_EPILOGUE_BIAS) != x->bias)
        return CUBLAS_STATUS_INVALID_VALUE;
    return 0;
}
static inline cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, gpu_desc d, gpu_layout a, gpu_layout b,
                               gpu_layout c, gpu_layout, cublasLtMatmulPreference_t p, int,
                               cublasLtMatmulHeuristicResult_t *found, int *n)
{
    GPU_LT_CALL();
    memset(found, 0, sizeof *found);
    found->state = gpu_lt_shape(&found->algo, d, a, b, c);
    memcpy(found->algo.aligned, p->aligned, sizeof p->aligned);
    if (p->reduction & ~2u || p->workspace == 0) return CUBLAS_STATUS_INVALID_VALUE;
    *n = found->state ? 0 : 1;
    return found->state;
}
static inline float gpu_number(const char *p, int64_t i, int type)
{
    return type == CUDA_R_32F ? ((const float *)(const void *)p)[i]
                              : gpu_widened(((const uint16_t *)(const void *)p)[i]);
}
static inline void gpu_number_put(char *p, int64_t i, int type, float x)
{
    uint32_t u;
    if (type == CUDA_R_32F) { ((float *)(void *)p)[i] = x; return; }
    memcpy(&u, &x, sizeof u);
    ((uint16_t *)(void *)p)[i] = (uint16_t)(x != x ? 0x7FC0 : (u + 0x7FFF + (u >> 16 & 1)) >> 16);
}
static inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, gpu_desc d, const void *alpha,
                                            const void *A, gpu_layout a, const void *B,
                                            gpu_layout b, const void *beta, const void *C,
                                            gpu_layout c, void *D, gpu_layout o,
                                            const cublasLtMatmulAlgo_t *algo, void *workspace,
                                            size_t, cudaStream_t stream)
{
    const void *const places[4] = { A, B, C, D };
    gpu_layout const layouts[4] = { a, b, c, o };
    cublasLtMatmulAlgo_t now = *algo;
    cublasLtMatmulDescOpaque_t x = *d;
    const char *pa = (const char *)A, *pb = (const char *)B;
    char *pd = (char *)D;
    float factor = *(const float *)alpha, more = *(const float *)beta;
    int64_t lda = a->ld, ldb = b->ld, ldd = o->ld;
    cublasStatus_t s = gpu_lt_shape(&now, d, a, b, o);
    int i;
    GPU_LT_CALL();
    if (s) return s;
    if (memcmp(algo, &now, sizeof now)) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (i = 0; i < 4; i++) {
        int64_t bytes = layouts[i]->type == CUDA_R_32F ? 4 : 2;
        if (((uintptr_t)places[i] | (uintptr_t)(layouts[i]->ld * bytes)) % algo->aligned[i])
            return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (!workspace || (uintptr_t)workspace % 16 || C != D) return CUBLAS_STATUS_INVALID_VALUE;
    gpu_ask(stream, [=] {
        int64_t m = (int64_t)now.m, n = (int64_t)now.n, k = (int64_t)now.k, row, column, t;
        for (column = 0; column < n; column++)
            for (row = 0; row < m; row++) {
                double sum = 0;
                int64_t to = row + column * ldd;
                float y;
                for (t = 0; t < k; t++)
                    sum +=
                        (double)gpu_number(pa, x.turn_a ? t + row * lda : row + t * lda, now.in) *
                        (double)gpu_number(pb, x.turn_b ? column + t * ldb : t + column * ldb,
                                           now.in);
                y = factor * (float)sum + (more != 0 ? more * gpu_number(pd, to, now.out) : 0);
                gpu_number_put(pd, to, now.out,
                               y + (x.bias ? gpu_number(x.bias, row, now.out) : 0));
            }
    });
    return 0;
}
#endif

#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "cpu/cblas.h"

// -----------------------------------------------------------------------------------------------
// >>threads        the threads of an object that computes
//
// A team belongs to one object. It computes the tiles of an op together with the calling thread,
// which is worker 0. Workers 1 and up start when the object is created and end before it is
// destroyed, so a program may unload this code afterwards.
//
//   caller   (share) publishes the work, opens `entry` for some workers, raises `round`, wakes
//            sleeping workers; takes tiles until none is left, closes `entry`, waits until no
//            worker is inside
//   worker   waits for another round, enters if `entry` admits it, takes tiles until none is left,
//            leaves
//
// The caller never waits for a worker that has not entered: if other programs keep the processors
// busy, the caller computes those tiles itself. A waiting thread first spins for some microseconds,
// because the next op of a step comes soon, and then sleeps. Workers block all signals, which are
// for the program's own threads. They use the caller's floating-point environment, so that rounding
// and denormal numbers do not depend on the worker of a tile. A forked child has no workers: an
// object of its parent computes on the calling thread alone there.
// -----------------------------------------------------------------------------------------------

// >>tiles          how ops are cut into pieces for threads (>>threads)
//
// An op is cut into numbered tiles that write disjoint outputs. Where bits depend on the cut, as in
// CBLAS, the cut depends on shapes alone. So the bits depend neither on the number of workers nor
// on which of them runs which tile, nor on the order of tiles.

/* A hook for tests, which count with it: called for every tile with the number of its worker. */
#if !defined(TRF__TILE_HOOK)
#define TRF__TILE_HOOK(tiling, worker) ((void)0)
#endif

/* An op while it is computed. Worker 0 is the calling thread. */
typedef struct trf__tiling {
    trf__tile_function *function;
    const trf__run *run;
    const void *job;
    int64_t n_tiles;
} trf__tiling;

/* The threads of one object: >>team defines it, only outside columns. */
typedef struct trf__team trf__team;

/* Admission to a CBLAS that supports only so many callers at a time (OpenBLAS). enter waits until
   it can admit `wanted` callers, or the maximum if that is fewer, and returns the number admitted;
   leave releases them. */
typedef struct trf__gate {
    int (*enter)(int wanted, int *team);    /* *team: for leave, in the same thread */
    void (*leave)(int taken, int team);
} trf__gate;

/* A run's state on the CPU. */
typedef struct trf__cpu {
    int threads;
    int blas_asked;             /* 1: the caller wants CBLAS, whatever its kernels are */
    int blas;                   /* 1: large products go to CBLAS, */
    const trf__gate *gate;      /* through this gate; NULL: without one */
    trf__team *team;            /* NULL: one thread */
    int tiles;                  /* 1: products of small weights may use tiles (>>amx), */
    int bf16x3;                 /* and products of floats (>>bf16x3) */
    /* all threads pack a weight, or a part of it, here; behind it in the same memory: */
    trf_real *work;
    char *scratch;              /* threads * scratch_each bytes, a part for each worker */
    size_t scratch_each, work_bytes;
} trf__cpu;

/* The functions that exist once in a process, outside all columns: columns must share one set of
   threads and one gate. open starts threads and decides whether CBLAS may be called and through
   which gate; close ends them. share runs all tiles on at most `workers` threads and returns 1, or
   0 if there are no threads. bytes: the size of the team. */
typedef struct trf__process {
    trf_status (*open)(trf__cpu *cpu, const trf_hooks *hooks, trf_error *err);
    void (*close)(trf__cpu *cpu, const trf_hooks *hooks);
    int (*share)(trf__team *team, int workers, const trf__tiling *work);
    size_t (*bytes)(int threads);
} trf__process;

TRF__INLINE trf__cpu *trf__cpu_of(const trf__run *run) { return (trf__cpu *)run->state; }
TRF__INLINE const trf__process *trf__process_of(const trf__run *run)
{
    return (const trf__process *)run->process;
}

/* Runs all tiles on at most `workers` threads. Without a team, or in a forked child, the calling
   thread runs them. */
TRF__FN void trf__tiles_on(const trf__run *run, int workers, int64_t n_tiles,
                           trf__tile_function *function, const void *job)
{
    trf__team *team = trf__cpu_of(run)->team;
    trf__tiling work;
    work.function = function; work.run = run; work.job = job; work.n_tiles = n_tiles;
    if (team && workers > 1 && n_tiles > 1 && trf__process_of(run)->share(team, workers, &work))
        return;
    for (int64_t tile = 0; tile < n_tiles; tile++) {
        TRF__TILE_HOOK(&work, 0);
        function(run, job, tile, 0);
    }
}

TRF__FN void trf__tiles(const trf__run *run, int64_t n_tiles, trf__tile_function *function,
                        const void *job)
{
    trf__tiles_on(run, trf__cpu_of(run)->threads, n_tiles, function, job);
}

/* The head of a function that computes tile number `tile` of an op. */
#define TRF__TILE(name) \
    TRF__FN void name(TRF__UNUSED const trf__run *run, const void *job, int64_t tile, \
                      TRF__UNUSED int worker)

/* An op that is nothing but its tiles: so many calls of `tile`. j: the op. */
#define TRF__TILED_OP(name, type, tile, n_tiles) \
    TRF__FN void name(const trf__run *run, const type *j) { trf__tiles(run, n_tiles, tile, j); }

/* The same for tiles that call CBLAS if `blas`: with as many workers as the gate admits. No bit
   depends on that number. */
TRF__FN void trf__product_tiles(const trf__run *run, int blas, int64_t n_tiles,
                                trf__tile_function *function, const void *job)
{
    const trf__cpu *cpu = trf__cpu_of(run);
    int workers = cpu->threads, team = 0, gated = blas && cpu->gate && n_tiles > 0;
    if (gated) workers = cpu->gate->enter((int)trf__min64(workers, n_tiles), &team);
    trf__tiles_on(run, workers, n_tiles, function, job);
    if (gated) cpu->gate->leave(workers, team);
}

/* A worker's scratch. Only one op runs at a time, so each op may use all of it. */
TRF__FN trf_real *trf__scratch(const trf__run *run, int worker)
{
    const trf__cpu *cpu = trf__cpu_of(run);
    return (trf_real *)(void *)(cpu->scratch + (size_t)worker * cpu->scratch_each);
}

/* Rows of a product's tile: about eight tiles, or two for each thread, so that none is idle. A
   tile has at least 32 rows, which pays for starting it, and at most 256. */
TRF__FN int64_t trf__rows_each(int64_t rows, int threads)
{
    int64_t tiles = trf__max64(8, 2 * (int64_t)threads);
    return trf__max64(32, trf__min64(256, trf__round_up(trf__ceil_div(rows, tiles), 16)));
}

/* Rows of a tile of an op that takes each row by itself: about 4,096 numbers, microseconds. */
TRF__INLINE int64_t trf__tile_rows(int64_t width)
{
    return trf__max64(1, 4096 / trf__max64(1, width));
}

/* The number of tiles of so many rows. */
TRF__INLINE int64_t trf__row_tiles(int64_t rows, int64_t width)
{
    return trf__ceil_div(rows, trf__tile_rows(width));
}

/* A loop over the rows of a tile (TRF__TILE). */
#define TRF__ROWS_OF_TILE(row, n_rows, width) \
    for (int64_t row = tile * trf__tile_rows(width), \
                 trf__bound = trf__min64(n_rows, row + trf__tile_rows(width)); \
         row < trf__bound; row++)

// >>thread-build   whether this build has threads

#if defined(TRF_IMPLEMENTATION)         /* all columns of a program share its threads */

#if TRF__GNU && (defined(__unix__) || defined(__APPLE__) || defined(__HAIKU__))
#define TRF__PTHREADS 1
#include <pthread.h>
#else
#define TRF__PTHREADS 0
#endif
#if defined(TRF_NO_THREADS) || (defined(__wasm__) && !defined(_REENTRANT))
#define TRF__THREADS 0
#elif TRF__GNU && defined(_WIN32)
#define TRF__THREADS 1
#else
#define TRF__THREADS TRF__PTHREADS
#endif

enum { TRF__MAX_THREADS = 4096 };

/* The number of threads of an object if the options say n. */
TRF__FN int trf__threads(int n) { return TRF__THREADS ? n : 1; }

#if !TRF__THREADS

/* Without threads there is no team, and trf__tiles_on runs all tiles itself. */
TRF__FN int trf__processors(void) { return 1; }
TRF__FN size_t trf__team_bytes(int threads) { (void)threads; return 0; }

TRF__COLD
TRF__FN trf_status trf__team_open(TRF__UNUSED int threads, TRF__UNUSED const trf_hooks *hooks,
                                  trf__team **team, TRF__UNUSED trf_error *err)
{
    *team = NULL;
    return TRF_OK;
}

TRF__FN void trf__team_close(trf__team *team, const trf_hooks *hooks) { (void)team; (void)hooks; }

TRF__FN int trf__team_share(TRF__UNUSED trf__team *team, TRF__UNUSED int workers,
                            TRF__UNUSED const trf__tiling *work) { return 0; }

#else
#include <fenv.h>

enum {
    /* bytes of a worker's stack; a tile needs less than a tenth */
    TRF__STACK = 256 << 10,
    /* 10 to 60 microseconds, as the pause instruction differs between processors */
    TRF__SPINS = 1000,
    TRF__TURNS = 8,             /* in which a thread takes its part of many tiles */
    TRF__TAKEN = 256,           /* more than the most turns, which are 2 TRF__TURNS - 1 */
    TRF__WORKS = 1 << 24,       /* UINT32_MAX / TRF__TAKEN + 1 */
    TRF__PLACE = 1 << 16        /* the unit of the upper half of team->entry */
};

typedef struct trf__worker trf__worker;
TRF__FN void trf__worker_run(trf__worker *worker);

// >>os-threads     threads, locks and conditions of Windows and of POSIX

/* The same functions for both systems. Windows: SRW locks and condition variables are declared
   here, as <windows.h> defines hundreds of macros. */
#if defined(_WIN32)
#include <process.h>
#if defined(__cplusplus)
extern "C" {
#endif
struct _RTL_SRWLOCK;
struct _RTL_CONDITION_VARIABLE;
__declspec(dllimport) void __stdcall AcquireSRWLockExclusive(struct _RTL_SRWLOCK *);
__declspec(dllimport) void __stdcall ReleaseSRWLockExclusive(struct _RTL_SRWLOCK *);
__declspec(dllimport) int __stdcall SleepConditionVariableSRW(
    struct _RTL_CONDITION_VARIABLE *, struct _RTL_SRWLOCK *, unsigned long, unsigned long);
__declspec(dllimport) void __stdcall WakeConditionVariable(struct _RTL_CONDITION_VARIABLE *);
__declspec(dllimport) void __stdcall WakeAllConditionVariable(struct _RTL_CONDITION_VARIABLE *);
__declspec(dllimport) unsigned long __stdcall WaitForSingleObject(void *, unsigned long);
__declspec(dllimport) int __stdcall CloseHandle(void *);
__declspec(dllimport) unsigned long __stdcall GetActiveProcessorCount(unsigned short);
#if defined(__cplusplus)
}
#endif

typedef uintptr_t trf__thread;
/* SRWLOCK and CONDITION_VARIABLE: one pointer each, initially NULL */
typedef void *trf__lock;
typedef void *trf__condition;
#define TRF__SRW(lock) ((struct _RTL_SRWLOCK *)(void *)(lock))
#define TRF__CONDITION(condition) ((struct _RTL_CONDITION_VARIABLE *)(void *)(condition))

TRF__FN int trf__lock_make(trf__lock *lock) { *lock = NULL; return 1; }
TRF__FN void trf__lock_end(trf__lock *lock) { (void)lock; }
TRF__FN void trf__lock_take(trf__lock *lock) { AcquireSRWLockExclusive(TRF__SRW(lock)); }
TRF__FN void trf__lock_give(trf__lock *lock) { ReleaseSRWLockExclusive(TRF__SRW(lock)); }
TRF__FN int trf__condition_make(trf__condition *c) { *c = NULL; return 1; }
TRF__FN void trf__condition_end(trf__condition *c) { (void)c; }
TRF__FN void trf__condition_wait(trf__condition *c, trf__lock *lock)
{
    SleepConditionVariableSRW(TRF__CONDITION(c), TRF__SRW(lock), 0xFFFFFFFFu /* INFINITE */, 0);
}
TRF__FN void trf__condition_wake(trf__condition *c) { WakeConditionVariable(TRF__CONDITION(c)); }
TRF__FN void trf__condition_wake_all(trf__condition *c)
{
    WakeAllConditionVariable(TRF__CONDITION(c));
}

static unsigned __stdcall trf__thread_main(void *worker)
{
    trf__worker_run((trf__worker *)worker);
    return 0;
}

TRF__FN int trf__thread_start(trf__thread *thread, trf__worker *worker)
{
    *thread = _beginthreadex(NULL, TRF__STACK, trf__thread_main, worker, 0x10000 /* reserve */,
                             NULL);
    return *thread != 0;
}

TRF__FN void trf__thread_end(trf__thread thread)
{
    WaitForSingleObject((void *)thread, 0xFFFFFFFFu /* INFINITE */);
    CloseHandle((void *)thread);
}

TRF__FN long trf__process_id(void) { return 0; }        /* Windows has no fork */

TRF__FN int trf__processors(void)
{
    /* processors of this process's group, at most 64 */
    unsigned long n = GetActiveProcessorCount(0);
    return n < 1 ? 1 : n < TRF__MAX_THREADS ? (int)n : TRF__MAX_THREADS;
}
#else
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* -std=c99 hides these declarations in their headers; the layouts are those of Linux. */
#if defined(__cplusplus)
extern "C" {
#endif
#if defined(SIG_SETMASK)
typedef sigset_t trf__signals;
#define TRF__SETMASK SIG_SETMASK
#else
typedef struct trf__signals { unsigned long bits[128 / sizeof(long)]; } trf__signals;
int sigfillset(trf__signals *);
#if defined(__mips__) || defined(__alpha__)
#define TRF__SETMASK 3
#elif defined(__sparc__)
#define TRF__SETMASK 4
#else
#define TRF__SETMASK 2
#endif
#endif
#if !defined(SIG_SETMASK) || (defined(__GLIBC__) && !defined(__USE_POSIX199506))
int pthread_sigmask(int, const trf__signals *, trf__signals *);
#endif
#if defined(CPU_SETSIZE)
typedef cpu_set_t trf__processor_set;
#elif defined(__linux__)
typedef unsigned long trf__processor_set;
int sched_getaffinity(int, size_t, trf__processor_set *);
#endif
#if defined(__cplusplus)
}
#endif

typedef pthread_t trf__thread;
typedef pthread_mutex_t trf__lock;
typedef pthread_cond_t trf__condition;

TRF__FN int trf__lock_make(trf__lock *lock) { return !pthread_mutex_init(lock, NULL); }
TRF__FN void trf__lock_end(trf__lock *lock) { pthread_mutex_destroy(lock); }
TRF__FN void trf__lock_take(trf__lock *lock) { pthread_mutex_lock(lock); }
TRF__FN void trf__lock_give(trf__lock *lock) { pthread_mutex_unlock(lock); }
TRF__FN int trf__condition_make(trf__condition *c) { return !pthread_cond_init(c, NULL); }
TRF__FN void trf__condition_end(trf__condition *c) { pthread_cond_destroy(c); }
TRF__FN void trf__condition_wait(trf__condition *c, trf__lock *lock) { pthread_cond_wait(c, lock); }
TRF__FN void trf__condition_wake(trf__condition *c) { pthread_cond_signal(c); }
TRF__FN void trf__condition_wake_all(trf__condition *c) { pthread_cond_broadcast(c); }

TRF__FN void *trf__thread_main(void *worker)
{
#if TRF__ASK_OPENBLAS                   /* OpenMP has a number for each thread */
    if (omp_set_num_threads) omp_set_num_threads(1);
#endif
    trf__worker_run((trf__worker *)worker);
    return NULL;
}

/* Starts a worker with all signals blocked from its first instruction on: a thread inherits the
   mask of its creator. If the small stack is too small for the program's thread-local data, a stack
   of the default size is tried. */
TRF__FN int trf__thread_start(trf__thread *thread, trf__worker *worker)
{
    pthread_attr_t attributes;
    trf__signals all, before;
    int started = 0;
    sigfillset(&all);
    pthread_sigmask(TRF__SETMASK, &all, &before);
    if (!pthread_attr_init(&attributes)) {
        pthread_attr_setstacksize(&attributes, TRF__STACK);
        started = !pthread_create(thread, &attributes, trf__thread_main, worker) ||
                  !pthread_create(thread, NULL, trf__thread_main, worker);
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(TRF__SETMASK, &before, NULL);
    return started;
}

TRF__FN void trf__thread_end(trf__thread thread) { pthread_join(thread, NULL); }

TRF__FN long trf__process_id(void) { return (long)getpid(); }

/* The processors that this process may run on: containers and taskset allow fewer than exist. */
TRF__FN int trf__processors(void)
{
    long n = 0;
#if defined(CPU_SETSIZE) || defined(__linux__)
    unsigned long set[TRF__MAX_THREADS / (8 * sizeof(long))];
    memset(set, 0, sizeof set);
    if (sched_getaffinity(0, sizeof set, (trf__processor_set *)(void *)set) >= 0)
        for (size_t i = 0; i < sizeof set / sizeof *set; i++)
            /* each iteration clears the lowest bit */
            for (; set[i]; set[i] &= set[i] - 1) n++;
#endif
    if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n < TRF__MAX_THREADS ? (int)n : TRF__MAX_THREADS;
}
#endif

// >>team           the workers of one object
//
// Order of memory: the caller writes the work before it opens `entry` (release); a worker reads it
// after it has entered (acquire). Its results are visible to the caller after it has left.

struct trf__worker {
    /* TRF__TAKEN * the number of a work + how many turns of this thread's part of it are taken */
    uint32_t taken;
    char apart[TRF__ALIGN - sizeof(uint32_t)];
    trf__team *team;
    int number;
    trf__thread thread;
};

/* Fields that one thread writes while others poll them have cache lines of their own. */
struct trf__team {
    /* workers inside + TRF__PLACE * workers that may still enter: both change at once */
    uint32_t entry;
    char apart[TRF__ALIGN - sizeof(uint32_t)];
    /* the number of shared works; only the caller writes the fields from here on */
    uint32_t round;
    uint32_t number;                    /* that of the work, below TRF__WORKS */
    int spins, threads, caller_sleeps, ending;
    long process;
    const trf__tiling *work;
    fenv_t environment;
    trf__lock lock;                     /* held while going to sleep; protects the fields below */
    trf__condition wake, left;          /* there is another round; no worker is inside */
    int sleeping;                       /* workers asleep */
    trf__worker workers[1];             /* threads; the first is the caller */
};

TRF__FN size_t trf__team_bytes(int threads)
{
    size_t first = offsetof(trf__team, workers);
    return threads < 2 ? 0 : trf__add_size(first, trf__bytes(threads, sizeof(trf__worker)));
}

/* Tells the processor that this thread spins. */
TRF__INLINE void trf__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");            /* "yield" returns at once on most processors */
#endif
}

/* Takes the next turn of a thread's part of the work: tiles *tile to *end - 1. Returns 0 if none is
   left. What another work has left in `taken` counts as nothing. */
TRF__FN int trf__turn_take(trf__team *team, const trf__tiling *work, int owner, int64_t *tile,
                           int64_t *end)
{
    int64_t first = work->n_tiles * owner / team->threads;
    int64_t last = work->n_tiles * (owner + 1) / team->threads;
    int64_t each = trf__max64(1, (last - first) / TRF__TURNS);
    uint32_t *taken = &team->workers[owner].taken, turns;
    if (first == last) return 0;        /* of few tiles most threads have none */
    uint32_t old = __atomic_load_n(taken, __ATOMIC_RELAXED);
    do {
        turns = old / TRF__TAKEN == team->number ? old % TRF__TAKEN : 0;
        if (first + turns * each >= last) return 0;
    } while (!__atomic_compare_exchange_n(taken, &old, team->number * TRF__TAKEN + turns + 1, 0,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    *tile = first + turns * each;
    *end = trf__min64(last, *tile + each);
    return 1;
}

/* A thread takes its own part of the tiles, and then what others have left of theirs. So it finds
   in its cache what it wrote in the last op, and no thread waits for a slow one. */
TRF__FN void trf__take_tiles(trf__team *team, const trf__tiling *work, int worker)
{
    int64_t tile, end;
    for (int i = 0; i < team->threads; i++)
        while (trf__turn_take(team, work, (worker + i) % team->threads, &tile, &end))
            for (; tile < end; tile++) {
                TRF__TILE_HOOK(work, worker);
                work->function(work->run, work->job, tile, worker);
            }
}

/* Waits for a round other than `seen`, and returns its number. A worker counts itself as sleeping
   before it looks once more, and the caller raises the round before it reads that count: so one of
   the two sees the other. */
TRF__FN uint32_t trf__await_round(trf__team *team, uint32_t seen)
{
    uint32_t round;
    for (int i = 0; i < team->spins; i++) {
        if ((round = __atomic_load_n(&team->round, __ATOMIC_ACQUIRE)) != seen) return round;
        trf__pause();
    }
    trf__lock_take(&team->lock);
    __atomic_add_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
    while ((round = __atomic_load_n(&team->round, __ATOMIC_SEQ_CST)) == seen)
        trf__condition_wait(&team->wake, &team->lock);
    __atomic_sub_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
    trf__lock_give(&team->lock);
    return round;
}

/* Enters the current work if it admits another worker: 1, else 0. */
TRF__FN int trf__enter(trf__team *team)
{
    uint32_t entry = __atomic_load_n(&team->entry, __ATOMIC_RELAXED);
    while (entry >= TRF__PLACE)
        if (__atomic_compare_exchange_n(&team->entry, &entry, entry - TRF__PLACE + 1, 0,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return 1;
    return 0;
}

/* The last worker to leave wakes the caller. Taking the lock ensures that the caller is either
   asleep or has not yet checked `entry`. */
TRF__FN void trf__leave(trf__team *team)
{
    if (__atomic_sub_fetch(&team->entry, 1, __ATOMIC_SEQ_CST) > 0) return;
    if (!__atomic_load_n(&team->caller_sleeps, __ATOMIC_SEQ_CST)) return;
    trf__lock_take(&team->lock);
    trf__lock_give(&team->lock);
    trf__condition_wake(&team->left);
}

/* The life of a worker. A round that it misses was computed by others. */
TRF__FN void trf__worker_run(trf__worker *worker)
{
    trf__team *team = worker->team;
    uint32_t seen = 0;
    for (;;) {
        seen = trf__await_round(team, seen);
        if (__atomic_load_n(&team->ending, __ATOMIC_RELAXED)) return;
        if (!trf__enter(team)) continue;
        fesetenv(&team->environment);
        trf__take_tiles(team, team->work, worker->number);
        trf__leave(team);
    }
}

/* Begins another round and wakes `wanted` of the sleeping workers. */
TRF__FN void trf__wake_workers(trf__team *team, int wanted)
{
    __atomic_add_fetch(&team->round, 1, __ATOMIC_SEQ_CST);
    int sleeping = __atomic_load_n(&team->sleeping, __ATOMIC_SEQ_CST);
    if (sleeping == 0) return;
    /* a worker about to sleep now either sleeps or has seen the round */
    trf__lock_take(&team->lock);
    trf__lock_give(&team->lock);
    if (wanted >= sleeping) trf__condition_wake_all(&team->wake);
    else while (wanted-- > 0) trf__condition_wake(&team->wake);
}

/* The caller waits until no worker is inside: the work and its job are on the caller's stack. */
TRF__FN void trf__await_workers(trf__team *team)
{
    for (int i = 0; i < team->spins; i++) {
        if (__atomic_load_n(&team->entry, __ATOMIC_ACQUIRE) == 0) return;
        trf__pause();
    }
    trf__lock_take(&team->lock);
    __atomic_store_n(&team->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&team->entry, __ATOMIC_SEQ_CST) > 0)
        trf__condition_wait(&team->left, &team->lock);
    __atomic_store_n(&team->caller_sleeps, 0, __ATOMIC_SEQ_CST);
    trf__lock_give(&team->lock);
}

/* Runs all tiles on the caller and at most workers - 1 others. Returns 0 in a forked child, which
   has no workers. */
TRF__FN int trf__team_share(trf__team *team, int workers, const trf__tiling *work)
{
    int places = (int)trf__min64(trf__min64(workers, team->threads), work->n_tiles) - 1;
    if (team->process != trf__process_id()) return 0;
    fegetenv(&team->environment);
    team->work = work;
    team->number = (team->number + 1) % TRF__WORKS;
    if (team->number == 0)
        for (int i = 0; i < team->threads; i++) team->workers[i].taken = 0;
    __atomic_store_n(&team->entry, (uint32_t)(places * TRF__PLACE), __ATOMIC_RELEASE);
    trf__wake_workers(team, places);
    trf__take_tiles(team, work, 0);
    if (__atomic_and_fetch(&team->entry, TRF__PLACE - 1, __ATOMIC_ACQ_REL))
        trf__await_workers(team);
    return 1;
}

// >>team-open      starting and ending a team

/* Ends workers 1 to n and frees the team. A forked child has no workers to wait for. */
TRF__FN void trf__team_end(trf__team *team, int n, const trf_hooks *hooks)
{
    if (team->process == trf__process_id()) {
        __atomic_store_n(&team->ending, 1, __ATOMIC_RELAXED);
        trf__wake_workers(team, n);
        for (; n > 0; n--) trf__thread_end(team->workers[n].thread);
        trf__condition_end(&team->left);
        trf__condition_end(&team->wake);
        trf__lock_end(&team->lock);
    }
    trf__free(hooks, team, trf__team_bytes(team->threads));
}

TRF__FN void trf__team_close(trf__team *team, const trf_hooks *hooks)
{
    if (team) trf__team_end(team, team->threads - 1, hooks);
}

/* Makes the lock and both conditions, or none of them. */
TRF__FN int trf__team_make(trf__team *team)
{
    if (!trf__lock_make(&team->lock)) return 0;
    if (trf__condition_make(&team->wake)) {
        if (trf__condition_make(&team->left)) return 1;
        trf__condition_end(&team->wake);
    }
    trf__lock_end(&team->lock);
    return 0;
}

/* Starts a team; one thread needs none. If a worker cannot be started, the others end again. */
TRF__FN trf_status trf__team_open(int threads, const trf_hooks *hooks, trf__team **to,
                                  trf_error *err)
{
    int n;
    *to = NULL;
    if (threads < 2) return TRF_OK;
    trf__team *team = (trf__team *)trf__alloc_zeroed(hooks, trf__team_bytes(threads));
    TRF__FAIL_IF(!team, TRF_E_NOMEM, -1, "threads", "no memory for %d threads", threads);
    team->threads = threads;
    team->process = trf__process_id();
    /* with more threads than processors, spinning keeps others from computing */
    team->spins = threads > trf__processors() ? 0 : TRF__SPINS;
    if (!trf__team_make(team)) {
        trf__free(hooks, team, trf__team_bytes(threads));
        return trf__fail(err, TRF_E_NOMEM, -1, "threads", "the system has no locks left");
    }
    for (n = 1; n < threads; n++) {
        trf__worker *worker = &team->workers[n];
        worker->team = team;
        worker->number = n;
        if (!trf__thread_start(&worker->thread, worker)) break;
    }
    if (n < threads) {
        trf__team_end(team, n - 1, hooks);
        return trf__fail(err, TRF_E_NOMEM, -1, "threads",
                         "the system cannot start %d of %d threads", threads - n, threads);
    }
    *to = team;
    return TRF_OK;
}
#endif

TRF_API trf_device trf_device_default(void)
{
    TRF__ZEROED(trf_device, device);
    device.threads = trf__processors();
    return device;
}

#endif /* TRF_IMPLEMENTATION */

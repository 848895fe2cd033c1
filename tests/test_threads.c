/* build: O0 slow */
/* The threads of objects: who starts and ends them, what they have of the program (signals,
   floating-point environment, forks), that every tile is computed once, and what happens where they
   cannot be started or do not come. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

static void seen_tile(int worker);
#define TRF__TILE_HOOK(tiling, worker) seen_tile(worker)

/* Every thread that the library starts is started here. */
typedef void *starter(void *);
static int starting(pthread_t *thread, const pthread_attr_t *attributes, starter *start,
                    void *argument);
#define pthread_create(thread, attributes, start, argument) \
    starting(thread, attributes, start, argument)
#define TRF_IMPLEMENTATION
#include "transformer.h"
#undef pthread_create

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"

#if TRF__THREADS

/* -----------------------------------------------------------------------------------------------
   What is seen of the library's threads. */

static int fail_at; /* the call of pthread_create that fails, and all behind it; 0: none */
static int starts;
static int late;                    /* 1: threads start, but do nothing until it is 0 again */
static size_t stack;                /* of the last one */
static int open_signals;            /* tiles of workers that had a signal unblocked */
static int widest;                  /* the largest number of a worker that had a tile */

typedef struct beginning { starter *start; void *argument; } beginning;

static void *begin_late(void *argument)
{
    beginning b = *(beginning *)argument;
    free(argument);
    while (__atomic_load_n(&late, __ATOMIC_ACQUIRE)) usleep(1000);
    return b.start(b.argument);
}

static int starting(pthread_t *thread, const pthread_attr_t *attributes, starter *start,
                    void *argument)
{
    beginning *b;
    starts++;
    if (fail_at && starts >= fail_at) return EAGAIN;
    if (attributes) pthread_attr_getstacksize(attributes, &stack);
    b = (beginning *)malloc(sizeof *b);
    b->start = start;
    b->argument = argument;
    return pthread_create(thread, attributes, begin_late, b);
}

static void seen_tile(int worker)
{
    sigset_t mask;
    int i, open = 0, old = __atomic_load_n(&widest, __ATOMIC_RELAXED);
    while (worker > old && !__atomic_compare_exchange_n(&widest, &old, worker, 0, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED)) {}
    if (worker == 0) return;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (i = 1; i <= SIGRTMAX; i++) {
        if (i == SIGKILL || i == SIGSTOP || (i > 31 && i < SIGRTMIN))
            continue; /* these cannot be blocked */
        open += !sigismember(&mask, i);
    }
    if (open) __atomic_add_fetch(&open_signals, 1, __ATOMIC_RELAXED);
}

/* Threads of this process. */
static int threads_here(void)
{
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;
    if (!folder) return -1;
    while ((entry = readdir(folder)) != NULL) n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

/* A thread that has been joined may stand in the list for a moment. */
static int threads_become(int n)
{
    int i;
    for (i = 0; i < 2000 && threads_here() > n; i++) usleep(1000);
    return threads_here() == n || threads_here() < 0;
}

/* -----------------------------------------------------------------------------------------------
   Objects. */

enum { VOCAB = 50 };

static trf_model *new_model(void)
{
    trf_config c = trf_config_preset(TRF_TINY);
    trf_model *model = NULL;
    c.encoder_layers = c.decoder_layers = 1;
    c.d_model = 32; c.n_heads = 4; c.d_ff = 64;
    c.source_vocab = c.target_vocab = VOCAB;
    c.max_length = 40;
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    return model;
}

static trf_status make_trainer(trf_trainer **trainer, trf_model *model, int threads,
                               const trf_hooks *hooks, trf_error *err)
{
    trf_train_options o = trf_train_defaults();
    o.source_tokens = o.target_tokens = 1024;
    o.threads = threads;
    o.warmup = 4;
    if (hooks) o.hooks = *hooks;
    return trf_trainer_create(trainer, model, &o, err);
}

static trf_trainer *new_trainer(trf_model *model, int threads)
{
    trf_trainer *trainer = NULL;
    assert_int_equal(make_trainer(&trainer, model, threads, NULL, NULL), TRF_OK);
    return trainer;
}

static kit_pairs data;

static uint64_t steps(trf_trainer *trainer, trf_model *model, int n)
{
    trf_batch batch = kit_fill(&data, 40, 8, 20, VOCAB, 5);
    while (n-- > 0) if (trf_trainer_step(trainer, &batch, NULL, NULL) != TRF_OK) return 0;
    return hash_weights(HASH_START, model);
}

/* n steps of a new model. */
static uint64_t training(int threads, int n)
{
    trf_model *model = new_model();
    trf_trainer *trainer = new_trainer(model, threads);
    uint64_t hash = steps(trainer, model, n);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return hash;
}

static trf__run new_run(int threads)
{
    trf_device device = trf_device_default();
    trf_hooks hooks = {0};
    trf__run run;
    device.threads = threads;
    device.products = TRF_PRODUCTS_BUILT_IN;
    run = trf__run_on(&device, &hooks);
    assert_int_equal(run.backend->open(&run, NULL), TRF_OK);
    return run;
}

/* -----------------------------------------------------------------------------------------------
   Tests. */

static int setup(void **state)
{
    (void)state;
    fail_at = starts = late = open_signals = widest = 0;
    stack = 0;
    return 0;
}

/* They start with an object and have ended when it is destroyed; one thread starts none. */
static void test_they_end_with_their_object(void **state)
{
    trf_model *model = new_model();
    int alone = threads_here(), i;
    trf_trainer *trainer;
    (void)state;
    trainer = new_trainer(model, 1);
    assert_int_equal(starts, 0);
    trf_trainer_destroy(trainer);
    for (i = 0; i < 20; i++) {
        trainer = new_trainer(model, 4);
        if (alone > 0) assert_int_equal(threads_here(), alone + 3);
        if (i % 2) assert_true(steps(trainer, model, 1) != 0);
        trf_trainer_destroy(trainer);
        assert_true(threads_become(alone));
    }
    assert_int_equal(starts, 60);
    assert_int_equal(stack, 256 << 10);
    trf_model_destroy(model);
}

/* Whichever thread cannot be started: an error, and nothing is left. */
static void test_they_cannot_be_started(void **state)
{
    trf_model *model = new_model();
    int alone = threads_here(), k;
    (void)state;
    for (k = 1; k <= 7; k++) {
        trf_trainer *trainer = (trf_trainer *)&k;
        trf_error err;
        kit_memory memory;
        trf_hooks hooks = kit_hooks(&memory);
        starts = 0;
        fail_at = k;
        assert_int_equal(make_trainer(&trainer, model, 8, &hooks, &err), TRF_E_NOMEM);
        assert_null(trainer);
        assert_string_equal(err.what, "threads");
        assert_non_null(strstr(err.message, "of 8 threads"));
        assert_int_equal(memory.live, 0);
        assert_true(threads_become(alone));
    }
    fail_at = 0;
    assert_true(training(8, 1) == training(1, 1));
    trf_model_destroy(model);
}

/* Workers that the system does not let run are not waited for. */
static void test_workers_that_do_not_come(void **state)
{
    uint64_t want = training(1, 2);
    trf_model *model = new_model();
    trf_trainer *trainer;
    (void)state;
    late = 1;
    trainer = new_trainer(model, 3);
    widest = 0;
    alarm(60);
    assert_true(steps(trainer, model, 2) == want);
    alarm(0);
    assert_int_equal(widest, 0);
    __atomic_store_n(&late, 0, __ATOMIC_RELEASE);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

static void test_signals(void **state)
{
    sigset_t before, after, some;
    (void)state;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &some, &before);
    assert_true(training(4, 3) != 0);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    assert_true(sigismember(&after, SIGUSR2) &&
                !sigismember(&after, SIGUSR1)); /* the caller's mask is its own */
    assert_true(widest > 0);
    assert_int_equal(open_signals, 0);
}

/* n steps of a new model, rounded otherwise than when the threads began. */
static uint64_t rounded(int threads, int rounding, int n)
{
    trf_model *model = new_model();
    trf_trainer *trainer = new_trainer(model, threads);
    uint64_t hash;
    fesetround(rounding);
    hash = steps(trainer, model, n);
    fesetround(FE_TONEAREST);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return hash;
}

static void test_rounding(void **state)
{
#if defined(FE_UPWARD)
    uint64_t want = rounded(1, FE_UPWARD, 3);
    (void)state;
    assert_true(want != rounded(1, FE_TONEAREST, 3));
    assert_true(rounded(4, FE_UPWARD, 3) == want);
    assert_true(widest > 0);
#else
    (void)state;
    skip();
#endif
}

/* Any thread may call, one after another. */
typedef struct visitor { trf_trainer *trainer; trf_model *model; uint64_t hash; } visitor;

static void *visit(void *argument)
{
    visitor *v = (visitor *)argument;
    v->hash = steps(v->trainer, v->model, 1);
    return NULL;
}

static void test_any_thread_may_call(void **state)
{
    visitor v;
    int i;
    (void)state;
    v.model = new_model();
    v.trainer = new_trainer(v.model, 3);
    for (i = 0; i < 6; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
        pthread_join(thread, NULL);
    }
    assert_true(v.hash == training(1, 6));
    trf_trainer_destroy(v.trainer);
    trf_model_destroy(v.model);
}

/* A child of fork() goes on with the objects of its parent, makes others, and destroys both. */
static void test_fork(void **state)
{
    uint64_t want = training(1, 4), new_one = training(1, 2);
    trf_model *model = new_model();
    trf_trainer *trainer = new_trainer(model, 3);
    trf__team *team = trf__cpu_of(&trainer->pass.run)->team;
    int i, status;
    (void)state;
    assert_true(steps(trainer, model, 2) != 0);
    for (i = 0; i < (kit_all() ? 20 : 8); i++) {
        pid_t pid;
        int k;
        if (i % 2) usleep(2000);        /* the workers sleep; or they still look for work */
        else assert_int_equal(steps(trainer, model, 0), hash_weights(HASH_START, model));
        if (i % 4 ==
            3) { /* all sleep, and one that is about to has the lock, which nobody gives back */
            for (k = 0; k < 20000 && __atomic_load_n(&team->sleeping, __ATOMIC_SEQ_CST) < 2; k++)
                usleep(1000);
            assert_true(k < 20000);
            trf__lock_take(&team->lock);
        }
        pid = fork();
        if (i % 4 == 3 && pid != 0) trf__lock_give(&team->lock);
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(60);
            widest = 0;
            if (steps(trainer, model, 2) != want) _exit(1);
            if (widest > 0) _exit(2);
#if !defined(__SANITIZE_THREAD__)       /* it starts no threads in a child */
            if (training(3, 2) != new_one) _exit(3);
            if (widest == 0) _exit(4);
#endif
            trf_trainer_destroy(trainer);
            trf_model_destroy(model);
            if (threads_here() > 1 && !threads_become(1)) _exit(5);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0) fail_msg("the child ended with %x", status);
    }
    assert_true(steps(trainer, model, 2) == want); /* and the parent goes on with its own threads */
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* How many threads an object has: those of the device, unless its own options say otherwise. */
static int of_run(const trf__run *run) { return trf__cpu_of(run)->threads; }

static int of_trainer(trf_model *model, int threads)
{
    trf_trainer *trainer = new_trainer(model, threads);
    int n = of_run(&trainer->pass.run);
    trf_trainer_destroy(trainer);
    return n;
}

static int of_translator(const trf_model *model, int threads)
{
    trf_search s = trf_search_defaults();
    trf_translator *translator = NULL;
    int n;
    s.threads = threads;
    assert_int_equal(trf_translator_create(&translator, model, threads ? &s : NULL, NULL), TRF_OK);
    n = of_run(&translator->reader.pass.run);
    trf_translator_destroy(translator);
    return n;
}

static int of_generator(const trf_model *model, int threads)
{
    trf_sampling s = trf_sampling_defaults();
    trf_sampler *generator = NULL;
    int n;
    s.threads = threads;
    assert_int_equal(trf_sampler_create(&generator, model, threads ? &s : NULL, NULL), TRF_OK);
    n = of_run(&generator->pass.run);
    trf_sampler_destroy(generator);
    return n;
}

static int of_updater(const trf_device *device, int threads)
{
    trf_train_options o = trf_train_defaults();
    trf_updater *updater = NULL;
    trf_real numbers[4] = {0};
    trf_tensor weight = trf_tensor_of(numbers, 1, 4, 1, 1);
    int n;
    o.threads = threads;
    assert_int_equal(trf_updater_create(&updater, &weight, 1, 64, &o, device, NULL), TRF_OK);
    n = of_run(&updater->trainer.pass.run);
    trf_updater_destroy(updater);
    return n;
}

static void test_one_place(void **state)
{
    trf_load_options load = trf_load_defaults();
    trf_config c = trf_config_preset(TRF_TINY);
    trf_device device = trf_device_default();
    trf_context *context = NULL;
    trf_model *model = NULL, *loaded = NULL;
    trf_trainer *trainer = NULL;
    trf_train_options o = trf_train_defaults();
    trf_error err;
    char path[64];
    (void)state;
    c.encoder_layers = c.decoder_layers = 1;
    c.source_vocab = c.target_vocab = VOCAB;
    c.device.threads = device.threads = 3;
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    assert_int_equal(of_trainer(model, 0), 3);
    assert_int_equal(of_trainer(model, 2), 2);
    assert_int_equal(of_translator(model, 0), 3);
    assert_int_equal(of_translator(model, 1), 1);
    assert_int_equal(of_generator(model, 0), 3);
    assert_int_equal(of_generator(model, 5), 5);
    assert_int_equal(of_updater(&device, 0), 3);
    assert_int_equal(of_updater(&device, 4), 4);
    assert_int_equal(of_updater(NULL, 0), trf_device_default().threads);
    assert_int_equal(trf_context_create(&context, &device, NULL, NULL), TRF_OK);
    assert_int_equal(of_run(&context->run), 3);
    trf_context_destroy(context);

    snprintf(path, sizeof path, "/tmp/trf_test_threads_%d", (int)getpid());
    o.threads = 2;
    assert_int_equal(trf_trainer_create(&trainer, model, &o, NULL), TRF_OK);
    o.threads = 0;                      /* 3: not what it has */
    assert_int_equal(trf_trainer_set_options(trainer, &o, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "threads");
    assert_int_equal(trf_checkpoint_save(trainer, NULL, path, NULL, NULL), TRF_OK);
    trf_trainer_destroy(trainer);
    trainer = new_trainer(model, 0);
    o = *trf_trainer_options(trainer);
    assert_int_equal(o.threads, 0);
    o.threads = 3;
    assert_int_equal(trf_trainer_set_options(trainer, &o, NULL), TRF_OK);
    assert_int_equal(of_run(&trainer->pass.run), 3);
    trf_trainer_destroy(trainer);

    load.device.threads = 4;
    assert_int_equal(trf_checkpoint_load(&loaded, &trainer, NULL, path, NULL, &load, NULL), TRF_OK);
    assert_int_equal(of_run(&trainer->pass.run), 4);
    assert_int_equal(of_translator(loaded, 0), 4);
    trf_trainer_destroy(trainer);
    trf_model_destroy(loaded);
    assert_int_equal(trf_checkpoint_load(&loaded, &trainer, NULL, path, &o, &load, NULL), TRF_OK);
    assert_int_equal(of_run(&trainer->pass.run), 3);
    trf_trainer_destroy(trainer);
    trf_model_destroy(loaded);
    unlink(path);

    o.threads = -1;
    assert_int_equal(trf_trainer_create(&trainer, model, &o, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "threads");
    o.threads = 4097;
    assert_int_equal(trf_trainer_create(&trainer, model, &o, &err), TRF_E_INVALID_ARG);
    trf_model_destroy(model);
    c.device.threads = 0;
    assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "device.threads");
}

/* Rounds of few small tiles, as they follow one another, or with a sleep between; each tile is
   computed once, and by no more workers than may. */
typedef struct counts { int tiles[16], inside, most, pause; } counts;

static void count_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    counts *c = (counts *)(uintptr_t)job;
    int now = __atomic_add_fetch(&c->inside, 1, __ATOMIC_SEQ_CST),
        old = __atomic_load_n(&c->most, __ATOMIC_SEQ_CST);
    (void)run; (void)worker;
    while (now > old && !__atomic_compare_exchange_n(&c->most, &old, now, 0, __ATOMIC_SEQ_CST,
                                                     __ATOMIC_SEQ_CST)) {}
    c->tiles[tile]++;
    if (c->pause) usleep(200);
    __atomic_sub_fetch(&c->inside, 1, __ATOMIC_SEQ_CST);
}

static void test_rounds(void **state)
{
    static const int sizes[] = {2, 3, 8};
    size_t size;
    int i, k;
    (void)state;
    for (size = 0; size < 3; size++) {
        trf__run run = new_run(sizes[size]);
        for (i = 0; i < 30000; i++) {
            int n = 1 + i % 16, workers = 1 + i / 16 % sizes[size];
            counts c;
            TRF__ZERO(c);
            c.pause = i % 1000 == 999;
            if (i % 500 == 7) usleep(300);          /* so that they sleep */
            trf__tiles_on(&run, workers, n, count_tile, &c);
            for (k = 0; k < 16; k++)
                if (c.tiles[k] != (k < n)) fail_msg("round %d: tile %d %d times", i, k, c.tiles[k]);
            if (c.inside != 0 || c.most > workers)
                fail_msg("round %d: %d of %d inside", i, c.most, workers);
        }
        run.backend->close(&run);
    }
}

enum { MANY = 5000 };
static void count_many(const trf__run *run, const void *job, int64_t tile, int worker)
{
    (void)run; (void)worker;
    __atomic_add_fetch((int *)(uintptr_t)job + tile, 1, __ATOMIC_RELAXED);
}

/* Every tile is computed once, however many there are, and also where the numbers of works begin
   again: what an old work of the same number has left in the threads' parts does not count. */
static void test_many_tiles(void **state)
{
    static const int sizes[] = {2, 3, 7}, tiles[] = {2, 15, 16, 17, 64, 999, MANY};
    static int times[MANY];
    size_t size, i;
    int turn, k;
    (void)state;
    for (size = 0; size < 3; size++) {
        trf__run run = new_run(sizes[size]);
        trf__team *team = trf__cpu_of(&run)->team;
        for (turn = 0; turn < 40; turn++)
            for (i = 0; i < sizeof tiles / sizeof *tiles; i++) {
                if (turn == 20 && i == 0)
                    for (team->number = TRF__WORKS - 1, k = 0; k < sizes[size]; k++)
                        team->workers[k].taken = (uint32_t)k * TRF__TAKEN + 1;
                memset(times, 0, sizeof times);
                trf__tiles(&run, tiles[i], count_many, times);
                for (k = 0; k < MANY; k++)
                    if (times[k] != (k < tiles[i]))
                        fail_msg("%d threads, turn %d: tile %d of %d %d times", sizes[size], turn,
                                 k, tiles[i], times[k]);
            }
        assert_true(team->number < 200);
        run.backend->close(&run);
    }
}

/* As many as may at a time do: where tiles take long, all come. */
static void test_all_workers_come(void **state)
{
    trf__run run = new_run(4);
    int most = 0, i;
    (void)state;
    for (i = 0; i < 100 && most < 4; i++) {
        counts c;
        TRF__ZERO(c);
        c.pause = 1;
        usleep(2000);
        trf__tiles(&run, 16, count_tile, &c);
        most = c.most;
    }
    assert_int_equal(most, 4);
    run.backend->close(&run);
}

static void test_processors(void **state)
{
    cpu_set_t before, one;
    int i;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(trf_device_default().threads, CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (i = 0; !CPU_ISSET(i, &before); i++) { }
    CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(trf_device_default().threads, 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_non_null(strstr(trf__build_info(), ", threads"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(test_they_end_with_their_object),
        TEST(test_they_cannot_be_started),
        TEST(test_workers_that_do_not_come),
        TEST(test_signals),
        TEST(test_rounding),
        TEST(test_any_thread_may_call),
        TEST(test_fork),
        TEST(test_rounds),
        TEST(test_many_tiles),
        TEST(test_all_workers_come),
        TEST(test_processors),
        TEST(test_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else
/* One thread, whatever an object has been given. */
static int starting(pthread_t *thread, const pthread_attr_t *attributes, starter *start,
                    void *argument)
{
    return pthread_create(thread, attributes, start, argument);
}
static void seen_tile(int worker) { assert_int_equal(worker, 0); }

static void test_one_thread(void **state)
{
    trf_device device = trf_device_default();
    trf_context *context = NULL;
    trf_error err;
    (void)state; (void)starting;
    assert_int_equal(device.threads, 1);
    device.threads = 8;
    assert_int_equal(trf_context_create(&context, &device, NULL, &err), TRF_OK);
    assert_int_equal(trf__cpu_of(&context->run)->threads, 1);
    trf_context_destroy(context);
    assert_non_null(strstr(trf__build_info(), ", one thread"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif

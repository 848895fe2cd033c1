/* build: O0 slow */
/* Beside a host: OpenBLAS's three builds while the program itself computes, many threads, little
   address space, no threads left. Each case is a process of its own: the program starts itself
   again. A build that is not installed is left out; TRF_OPENBLAS_BUILDS names a folder with more of
   them (openblas-serial/libopenblas.so.0 and so on). */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <stddef.h>

/* Every product that the library asks CBLAS for is seen here. */
#if !defined(TRF_NO_CBLAS)
#include <cblas.h>
static void seen_gemm(CBLAS_ORDER order, CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, int m,
                      int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                      float beta, float *c, int ldc);
static void host_gemm(CBLAS_ORDER order, CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, int m,
                      int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                      float beta, float *c, int ldc)
{
    cblas_sgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
#define cblas_sgemm seen_gemm

/* And what it asks about OpenBLAS: which build it is, or what we pretend. */
extern int openblas_get_parallel(void) __attribute__((weak));
static int pretended = -1;
static int real_parallel(void) { return openblas_get_parallel ? openblas_get_parallel() : -1; }
int seen_parallel(void);
#define openblas_get_parallel seen_parallel
extern char *openblas_get_config(void) __attribute__((weak));
static int config_asked;
static char *real_config(void) { return openblas_get_config ? openblas_get_config() : NULL; }
char *seen_config(void);
#define openblas_get_config seen_config
extern char *openblas_get_corename(void) __attribute__((weak));
static char *pretended_core;
static char *real_corename(void)
{
    static char nothing[1];
    return openblas_get_corename ? openblas_get_corename() : nothing;
}
char *seen_corename(void);
#define openblas_get_corename seen_corename
#endif
#undef TRF__AUTO_IS_OWN
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <glob.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"

#if defined(__SANITIZE_THREAD__)
/* OpenBLAS is not instrumented: how its own threads hand over what they have computed is not seen.
 */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libopenblas\nrace:^host_product$\n";
}
#endif

#if !defined(TRF_NO_CBLAS)
int seen_parallel(void) { return pretended < 0 ? real_parallel() : pretended; }

char *seen_corename(void) { return pretended_core ? pretended_core : real_corename(); }

/* Its answer is written anew at every call: who asks beside another caller may see the beginning of
   it alone. */
char *seen_config(void)
{
    static char nothing[1];
    char *config = real_config();
    return config && __atomic_fetch_add(&config_asked, 1, __ATOMIC_SEQ_CST) == 0 ? config : nothing;
}
#endif

static const char *self;        /* the path of this program */

#define MUST(condition) \
    do \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    while (0)
#define OK(call) \
    do \
        if ((call) != TRF_OK) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, err.message); \
            exit(1); \
        } \
    while (0)

/* -----------------------------------------------------------------------------------------------
   In a child: small work that is large enough for CBLAS, and for OpenBLAS's own threads if it were
   let. */

enum { VOCAB = 60, WIDTH = 128 };

/* What this file is about is CBLAS. */
#if defined(TRF_NO_CBLAS)
#define HOW TRF_PRODUCTS_BUILT_IN
#else
#define HOW TRF_PRODUCTS_CBLAS
#endif

static trf_model *new_model(int width)
{
    trf_config c = kit_config();
    trf_model *model = NULL;
    trf_error err;
    c.encoder_layers = c.decoder_layers = 1;
    c.d_model = width; c.n_heads = 4; c.d_ff = 2 * width;
    c.source_vocab = c.target_vocab = VOCAB;
    c.max_length = 32;
    c.device.threads = 1;
    c.device.products = HOW;
    OK(trf_model_create(&model, &c, NULL, &err));
    return model;
}

static trf_trainer *new_trainer(trf_model *model, int threads)
{
    trf_train_options o = kit_training();
    trf_trainer *trainer = NULL;
    trf_error err;
    o.source_tokens = o.target_tokens = 1024;
    o.threads = threads;
    o.warmup = 4;
    OK(trf_trainer_create(&trainer, model, &o, &err));
    return trainer;
}

static KIT_UNUSED uint64_t training(int threads, int steps)
{
    kit_pairs *data = (kit_pairs *)malloc(sizeof *data);
    trf_model *model = new_model(WIDTH);
    trf_trainer *trainer = new_trainer(model, threads);
    trf_batch batch = kit_fill(data, 40, 8, 20, VOCAB, 5);
    trf_error err;
    uint64_t hash;
    while (steps-- > 0) OK(trf_trainer_step(trainer, &batch, NULL, &err));
    hash = hash_weights(HASH_START, model);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    free(data);
    return hash;
}

#if !defined(TRF_NO_CBLAS) && TRF__ASK_OPENBLAS && TRF__THREADS
#define HAVE_BUILDS 1

static int products, inside, most_inside, most_threads, slowly;

static void most_is(int *most, int value)
{
    int old = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (value > old &&
           !__atomic_compare_exchange_n(most, &old, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static void seen_gemm(CBLAS_ORDER order, CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, int m,
                      int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                      float beta, float *c, int ldc)
{
    __atomic_add_fetch(&products, 1, __ATOMIC_RELAXED);
    most_is(&most_inside, __atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED));
    most_is(&most_threads, openblas_get_num_threads());
    host_gemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (slowly) usleep(500);            /* so that those who may be here at the same time are */
    __atomic_sub_fetch(&inside, 1, __ATOMIC_RELAXED);
}

/* The host: one thread that multiplies all the time and looks at what it gets. */
enum { SIZE = 160 };
static float host_a[SIZE * SIZE], host_b[SIZE * SIZE];
static double host_c[SIZE * SIZE];
static int host_stops, host_rounds, host_errors;

static int host_product(void)
{
    float *c = (float *)malloc(sizeof host_a);
    int i, errors = 0;
    host_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIZE, SIZE, SIZE, 1, host_a, SIZE, host_b,
              SIZE, 0, c, SIZE);
    for (i = 0; i < SIZE * SIZE; i++) errors += !(fabs((double)c[i] - host_c[i]) < 1e-3);
    free(c);
    return errors;
}

static void *host(void *unused)
{
    while (!__atomic_load_n(&host_stops, __ATOMIC_RELAXED)) {
        host_errors += host_product() > 0;
        host_rounds++;
    }
    return unused;
}

static void host_prepare(void)
{
    uint64_t draw = 0;
    int i, j, k;
    for (i = 0; i < SIZE * SIZE; i++) {
        host_a[i] = (float)(trf__random64(1, 1, draw++) % 2001) / 1000 - 1;
        host_b[i] = (float)(trf__random64(1, 1, draw++) % 2001) / 1000 - 1;
    }
    for (i = 0; i < SIZE; i++) for (k = 0; k < SIZE; k++) for (j = 0; j < SIZE; j++)
        host_c[i * SIZE + j] += (double)host_a[i * SIZE + k] * (double)host_b[k * SIZE + j];
}

/* The team of a host that has OpenMP: OpenBLAS's OpenMP build brings it. */
extern int omp_get_max_threads(void) __attribute__((weak));
static int team_of_host(void) { return omp_get_max_threads ? omp_get_max_threads() : 0; }

/* The OpenMP build's number is not looked at: there the products of the host's other thread move
   it. */
static int as_set(int parallel, int number, int team)
{
    return (parallel == 2 || openblas_get_num_threads() == number) && team_of_host() == team;
}

/* What the host has set stands before, between and after our calls; what we compute does not depend
   on it. */
static void child_beside(int parallel)
{
    static const int numbers[] = {1, 2, 4, 3};
    kit_pairs *data = (kit_pairs *)malloc(sizeof *data);
    trf_batch batch = kit_fill(data, 40, 8, 20, VOCAB, 5);
    uint64_t first = 0, hash;
    pthread_t thread;
    trf_error err;
    int i, step;
    MUST(real_parallel() == parallel);
    host_prepare();
    /* the other builds are not for two threads at once: a host must not use them beside us */
    MUST(parallel != 1 || pthread_create(&thread, NULL, host, NULL) == 0);
    for (i = 0; i < 4; i++) {           /* with 1, with 2, with 4, with another before each step */
        trf_model *model = new_model(WIDTH);
        trf_trainer *trainer;
        int number = numbers[i], team;
        openblas_set_num_threads(number);
        if (parallel == 0) number = 1;
        team = team_of_host();
        trainer = new_trainer(model, 2);
        MUST(as_set(parallel, number, team));
        for (step = 0; step < 4; step++) {
            if (i == 3) {
                openblas_set_num_threads(number = 1 + step);
                if (parallel == 0) number = 1;
                team = team_of_host();
            }
            OK(trf_trainer_step(trainer, &batch, NULL, &err));
            MUST(as_set(parallel, number, team));
        }
        MUST(host_product() == 0);
        hash = hash_weights(HASH_START, model);
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
        MUST(as_set(parallel, number, team));
        if (i == 0) first = hash;
        MUST(hash == first);
    }
    __atomic_store_n(&host_stops, 1, __ATOMIC_RELAXED);
    if (parallel == 1) {
        pthread_join(thread, NULL);
        MUST(host_rounds > 10);
        MUST(host_errors == 0);
    }
    MUST(products > 0);
    MUST(most_threads <= 1);
    MUST(parallel != 0 || most_inside == 1);
    MUST(trf__openblas.threads == 0 && trf__openblas.inside == 0);
    free(data);
}

/* More threads in one trainer and in one context than OpenBLAS has buffers. */
static void child_wide(void)
{
    uint64_t one = training(1, 2);
    trf_device device = trf_device_default();
    trf_context *context = NULL;
    trf_error err;
    enum { ROWS = 4096, WIDE = 64 };
    trf_real *room = (trf_real *)malloc((ROWS * WIDE * 2 + WIDE * WIDE) * sizeof *room);
    trf_tensor x, w, y;
    int64_t i;
    MUST(training(256, 2) == one);
    slowly = 1;
    device.threads = 256;
    device.products = HOW;
    OK(trf_context_create(&context, &device, NULL, &err));
    for (i = 0; i < ROWS * WIDE + WIDE * WIDE; i++) room[i] = (trf_real)(i % 7) - 3;
    x = trf_tensor_of(room, 2, ROWS, WIDE, 1);
    w = trf_tensor_of(room + ROWS * WIDE, 2, WIDE, WIDE, 1);
    y = trf_tensor_of(room + ROWS * WIDE + WIDE * WIDE, 2, ROWS, WIDE, 1);
    OK(trf_linear(context, &y, &x, &w, NULL, &err));
    for (i = 0; i < ROWS * WIDE; i++) {
        trf_real want = 0;
        int64_t k;
        for (k = 0; k < WIDE; k++)
            want += x.data[i / WIDE * WIDE + k] * w.data[i % WIDE * WIDE + k];
        MUST(y.data[i] == want);                /* small integers: exact */
    }
    trf_context_destroy(context);
    MUST(products > 0 && most_inside <= 64 && most_threads <= 1);
    free(room);
}

/* 200 of the host's threads, each with a translator. */
#if defined(__SANITIZE_THREAD__)
enum { HOSTS = 24, SENTENCES = 40 };
#else
enum { HOSTS = 200, SENTENCES = 40 };
#endif
static trf_model *shared;
static trf_batch shared_batch;

static void scores(double *out)
{
    trf_search s = trf_search_defaults();
    trf_translator *t = NULL;
    trf_error err;
    s.threads = 1;
    s.max_sentences = SENTENCES;
    OK(trf_translator_create(&t, shared, &s, &err));
    OK(trf_reader_score(trf_translator_reader(t), &shared_batch, NULL, out, &err));
    trf_translator_destroy(t);
}

static void *score(void *out) { scores((double *)out); return NULL; }

static void child_hosts(void)
{
    static kit_pairs data;
    static double got[HOSTS][SENTENCES], want[SENTENCES];
    pthread_t threads[HOSTS];
    int i;
    shared = new_model(32);
    shared_batch = kit_fill(&data, SENTENCES, 15, 20, VOCAB,
                            5); /* more rows than packed weights are used for */
    scores(want);
    MUST(products > 0);
    slowly = 1;
    for (i = 0; i < HOSTS; i++) MUST(pthread_create(&threads[i], NULL, score, got[i]) == 0);
    for (i = 0; i < HOSTS; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < HOSTS; i++) MUST(memcmp(got[i], want, sizeof want) == 0);
    MUST(most_inside > 8 && most_inside <= 64 && most_threads <= 1);
    MUST(trf__openblas.threads == 0 && trf__openblas.inside == 0 && trf__openblas.buffers <= 64);
    MUST(config_asked == 1);
    trf_model_destroy(shared);
}
#elif !defined(TRF_NO_CBLAS)
#define HAVE_BUILDS 0
static void seen_gemm(CBLAS_ORDER order, CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, int m,
                      int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                      float beta, float *c, int ldc)
{
    host_gemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
#else
#define HAVE_BUILDS 0
#endif

/* Address space: what there is now and `more` MiB. */
static void limit_space(int more)
{
    struct rlimit limit;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    MUST(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    limit.rlim_cur = limit.rlim_max =
        (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)more << 20);
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* A trainer with so many threads: "no: WHAT", or steps that end, and "yes". */
static void child_short(int more, int threads)
{
    static kit_pairs data;
    trf_train_options o = kit_training();
    trf_batch batch = kit_fill(&data, 40, 8, 20, VOCAB, 5);
    trf_model *model = new_model(WIDTH);
    trf_trainer *trainer = NULL;
    trf_error err;
    trf_status status;
    o.source_tokens = o.target_tokens = 1024;
    o.threads = threads;
    limit_space(more);
    status = trf_trainer_create(&trainer, model, &o, &err);
    if (status != TRF_OK) {
        MUST(status == TRF_E_NOMEM && !trainer);
        printf("no: %s", err.what);
    } else {
        OK(trf_trainer_step(trainer, &batch, NULL, &err));
        OK(trf_trainer_step(trainer, &batch, NULL, &err));
        printf("yes");
    }
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    /* OpenBLAS's own thread, if it has started late, asks for memory again and again, and its exit
       handler waits for that thread */
    fflush(stdout);
    _exit(0);
}

static int child(int argc, char **argv)
{
    int a = argc > 2 ? atoi(argv[2]) : 0, b = argc > 3 ? atoi(argv[3]) : 0;
    alarm(600);
    if (!strcmp(argv[1], "short")) child_short(a, b);
#if HAVE_BUILDS
    else if (!strcmp(argv[1], "parallel")) printf("%d", real_parallel());
    else if (!strcmp(argv[1], "beside")) child_beside(a);
    else if (!strcmp(argv[1], "wide")) child_wide();
    else if (!strcmp(argv[1], "hosts")) child_hosts();
#endif
    else return 2;
    return 0;
}

/* -----------------------------------------------------------------------------------------------
   The parent. */

/* What a child says on either stream; fails if it ends badly. */
static void run_child(char *said, size_t size, const char *library, const char *name, int a, int b)
{
    char first[16], second[16];
    size_t n = 0;
    ssize_t got;
    int out[2], status;
    pid_t pid;
    snprintf(first, sizeof first, "%d", a);
    snprintf(second, sizeof second, "%d", b);
    assert_int_equal(pipe(out), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(out[1], 1);
        dup2(out[1], 2);
        close(out[0]);
        close(out[1]);
#if defined(__linux__)
        prctl(PR_SET_PDEATHSIG,
              SIGKILL); /* a parent that is killed leaves nothing behind that runs */
#endif
        if (library) setenv("LD_LIBRARY_PATH", library, 1);
        if (__builtin_cpu_supports("avx2"))
            setenv("OPENBLAS_CORETYPE", "Haswell", 1); /* here its threads change bits */
        execl(self, self, name, first, second, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    while ((got = read(out[0], said + n, size - 1 - n)) > 0) n += (size_t)got;
    said[n] = 0;
    close(out[0]);
    assert_true(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s %d %d: status %x: %s", name, a, b, status, said);
}

static KIT_UNUSED void silent_child(const char *library, const char *name, int a)
{
    char said[4096];
    run_child(said, sizeof said, library, name, a, 0);
    assert_string_equal(said, "");
}

/* The folder of a build of OpenBLAS, if it is here. */
static KIT_UNUSED int find_build(const char *name, int parallel, char *library, size_t size)
{
    char pattern[512], said[64];
    const char *more = getenv("TRF_OPENBLAS_BUILDS");
    glob_t found;
    int i, here = 0;
    for (i = 0; i < 2 && !here; i++) {
        if (i && !more) break;
        snprintf(pattern, sizeof pattern, "%s/openblas-%s/libopenblas.so.0",
                 i ? more : "/usr/lib/*", name);
        if (glob(pattern, 0, NULL, &found) == 0) {
            snprintf(library, size, "%.*s",
                     (int)(strrchr(found.gl_pathv[0], '/') - found.gl_pathv[0]), found.gl_pathv[0]);
            here = 1;
            globfree(&found);
        }
    }
    if (!here) return 0;
    run_child(said, sizeof said, library, "parallel", 0, 0);
    return atoi(said) == parallel;
}

static void beside(const char *name, int parallel)
{
#if HAVE_BUILDS
    char library[512];
    if (find_build(name, parallel, library, sizeof library)) {
        silent_child(library, "beside", parallel);
        return;
    }
#else
    (void)name; (void)parallel;
#endif
    skip();
}

static void test_beside_pthread_openblas(void **state) { (void)state; beside("pthread", 1); }
static void test_beside_serial_openblas(void **state) { (void)state; beside("serial", 0); }
static void test_beside_openmp_openblas(void **state) { (void)state; beside("openmp", 2); }

static void pthread_child(const char *name)
{
#if HAVE_BUILDS
    if (real_parallel() == 1) { silent_child(NULL, name, 0); return; }
#else
    (void)name;
#endif
    skip();
}

static void test_256_threads(void **state) { (void)state; pthread_child("wide"); }
static void test_200_hosts(void **state) { (void)state; pthread_child("hosts"); }

/* At every limit a trainer is refused, or made and never stops for memory. */
static void test_address_space_short(void **state)
{
    static const int more[] = {8, 40, 100, 160, 240, 300, 420, 500, 650, 900};
    char said[4096];
    int yes = 0, no = 0;
    size_t i;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    for (i = 0; i < sizeof more / sizeof *more; i++) {
        run_child(said, sizeof said, NULL, "short", more[i], 3);
        if (!strcmp(said, "yes")) yes++;
        else if (!strncmp(said, "no: ", 4)) no += !HAVE_BUILDS || !strcmp(said, "no: OpenBLAS");
        else fail_msg("%d MiB: %s", more[i], said);
    }
    assert_true(yes > 0);
    assert_true(no > 0);
}

/* Stacks take address space too: here the threads do not fit. */
static void test_threads_short(void **state)
{
    char said[4096];
    (void)state;
#if !TRF__THREADS || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    run_child(said, sizeof said, NULL, "short", 30, 256);
    assert_string_equal(said, "no: threads");
}

/* The gate lets in as many as there are places, and counts them. */
static void test_gate(void **state)
{
    (void)state;
#if HAVE_BUILDS
    {
        int before, number = 2, taken;
        if (real_parallel() != 1) skip();
        before = openblas_get_num_threads();
        openblas_set_num_threads(number);
        trf__openblas.places = TRF__BLAS_CALLERS;
        taken = trf__products_enter(1000);
        assert_int_equal(taken, TRF__BLAS_CALLERS);
        assert_int_equal(openblas_get_num_threads(), 1);
        trf__products_leave(taken);
        assert_int_equal(openblas_get_num_threads(), number);
        assert_int_equal(trf__products_enter(3), 3);
        assert_int_equal(trf__products_enter(2), 2);
        trf__products_leave(3);
        assert_int_equal(openblas_get_num_threads(), 1);
        openblas_set_num_threads(3);                    /* somebody else: then it stays */
        trf__products_leave(2);
        assert_int_equal(openblas_get_num_threads(), 3);
        assert_int_equal(trf__openblas.inside, 0);
        openblas_set_num_threads(before);
    }
#else
    skip();
#endif
}

#if HAVE_BUILDS
static trf_device device_of(trf_products how)
{
    trf_device device = trf_device_default();
    device.threads = 1;
    device.products = how;
    return device;
}

/* Whether a run on the device calls CBLAS, through the gate. */
static int calls_cblas(trf_products how)
{
    trf_device device = device_of(how);
    trf_hooks hooks;
    trf__run run;
    int blas;
    TRF__ZERO(hooks);
    run = trf__run_on(&device, &hooks);
    assert_int_equal(run.backend->open(&run, NULL), TRF_OK);
    blas = trf__cpu_of(&run)->blas;
    assert_int_equal(blas, trf__cpu_of(&run)->gate != NULL);
    run.backend->close(&run);
    return blas;
}
#endif

/* Each build is called: of the serial one, which locks nothing, one thread at a time; the OpenMP
   build, if the caller wants it. */
static void test_other_builds(void **state)
{
    (void)state;
#if HAVE_BUILDS
    if (real_parallel() == 1) {
        static char core[] = "Haswell";         /* OpenBLAS may take this processor for an old one */
        pretended_core = core;
        for (pretended = 2; pretended >= 0; pretended--) {
            assert_int_equal(calls_cblas(TRF_PRODUCTS_AUTO), pretended != 2);
            assert_true(calls_cblas(TRF_PRODUCTS_CBLAS));
            assert_false(calls_cblas(TRF_PRODUCTS_BUILT_IN));
            assert_int_equal(trf__openblas_places() == 1, pretended == 0);
        }
        pretended_core = NULL;
        return;
    }
#endif
    skip();
}

/* AUTO does not use kernels for processors without AVX2 where AVX2 is, and says so; CBLAS does. */
static void test_slow_kernels(void **state)
{
    (void)state;
#if HAVE_BUILDS
    if (real_parallel() == 1 && __builtin_cpu_supports("avx2")) {
        static char cores[][16] = {"Prescott", "SANDYBRIDGE", "generic", "Haswell", "Zen", "Zen9"};
        trf_device device = device_of(TRF_PRODUCTS_AUTO);
        char text[500];
        int i;
        for (i = 0; i < 6; i++) {
            pretended_core = cores[i];
            assert_int_equal(calls_cblas(TRF_PRODUCTS_AUTO), i > 2);
            assert_true(calls_cblas(TRF_PRODUCTS_CBLAS));
            assert_string_equal(trf__product_kernel(&device, TRF_WEIGHTS_FULL),
                                i > 2 ? "CBLAS" : "built-in");
            assert_ptr_equal(trf_device_text(&device, text, sizeof text), text);
            assert_non_null(strstr(text, i > 2 ? cores[i] : "OPENBLAS_CORETYPE"));
            assert_non_null(strchr(text, '\n'));
            assert_ptr_equal(strchr(text, '\n'), strrchr(text, '\n'));         /* two lines */
            assert_int_equal(strncmp(text, "transformer.h ", 14), 0);
            assert_true(strlen(text) < sizeof text - 1);
        }
        pretended_core = NULL;
        assert_int_equal(strlen(trf_device_text(&device, text, 5)), 4);
        assert_null(trf_device_text(&device, text, 0));
        assert_null(trf_device_text(&device, NULL, 9));
        return;
    }
#endif
    skip();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate),
        cmocka_unit_test(test_other_builds),
        cmocka_unit_test(test_slow_kernels),
        cmocka_unit_test(test_beside_pthread_openblas),
        cmocka_unit_test(test_beside_serial_openblas),
        cmocka_unit_test(test_beside_openmp_openblas),
        cmocka_unit_test(test_256_threads),
        cmocka_unit_test(test_200_hosts),
        cmocka_unit_test(test_address_space_short),
        cmocka_unit_test(test_threads_short),
    };
    self = argv[0];
    if (argc > 1) return child(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

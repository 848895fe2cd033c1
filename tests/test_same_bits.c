/* build: O1 slow */
/* Same bits: for any number of threads, with CBLAS and without, on other kernels of OpenBLAS, and
   after a kill. The program starts itself again, with arguments, where a process of its own is
   needed. */
#define TRF_IMPLEMENTATION

/* Called inside trf__tiles: how many tiles each tile function was cut into. */
#define TRF__TILE_HOOK(tiling, worker) \
    tile_seen((void *)(uintptr_t)(tiling)->function, (tiling)->n_tiles, (worker))
#include <stdint.h>
static void tile_seen(void *function, int64_t n_tiles, int worker);
#include "transformer.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"

static const char *self;        /* the path of this program */

enum { KINDS_OF_TILES = 32 };
static struct { void *function; int64_t most; } seen[KINDS_OF_TILES];
static int64_t widest_worker;

static void raise_to(int64_t *most, int64_t value)
{
    int64_t old = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (value > old &&
           !__atomic_compare_exchange_n(most, &old, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static void tile_seen(void *function, int64_t n_tiles, int worker)
{
    int i;
    raise_to(&widest_worker, worker);
    for (i = 0; i < KINDS_OF_TILES;
         i++) { /* the place that is this function's, or the first free one */
        void *there = NULL;
        __atomic_compare_exchange_n(&seen[i].function, &there, function, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
        if (there && there != function) continue;
        raise_to(&seen[i].most, n_tiles);
        return;
    }
}

static int64_t tiles_of(trf__tile_function *function)
{
    int i;
    for (i = 0; i < KINDS_OF_TILES; i++)
        if (seen[i].function == (void *)(uintptr_t)function) return seen[i].most;
    return 0;
}

/* -----------------------------------------------------------------------------------------------
   Threads. The shapes give every op at least three tiles: more than 1,024 rows, a vocabulary of
   three blocks. */

enum { TALL = 70 };             /* rows of a sentence whose attention weights are three tiles */

/* Ten steps with dropout, forward, scores, attention weights and answers: one hash. */
static uint64_t hash_of_training(trf_products products, int threads, int steps)
{
    static kit_pairs data;
    static double scores[KIT_PAIRS];
    static trf_real logits[40 * 1100];
    static const int32_t one = TALL - 1;
    static int32_t tall[TALL - 1];
    trf_config c = kit_config();
    trf_train_options o = kit_training();
    trf_search s = trf_search_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *translator = NULL;
    trf_batch batch = kit_fill(&data, 120, 4, 12, 1100, 11), some;
    trf_step_report report;
    trf_tensor out;
    uint64_t hash = HASH_START;
    int step;
    int32_t i;
    c.encoder_layers = c.decoder_layers = 1;
    c.d_model = 48; c.n_heads = 4; c.d_ff = 304;
    c.source_vocab = c.target_vocab = 1100;
    c.max_length = TALL;
    c.activation = TRF_GELU;
    c.positions = TRF_POSITIONS_LEARNED;
    c.device.threads = threads;
    c.device.products = products;
    o.threads = s.threads = threads;
    o.warmup = 10;
    o.source_tokens = o.target_tokens = 1600;
    s.max_length_a = 0; s.max_length_b = 4;
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    assert_int_equal(trf_trainer_create(&trainer, model, &o, NULL), TRF_OK);
    for (step = 0; step < steps; step++) {
        assert_int_equal(trf_trainer_forward_backward(trainer, &batch, &report, NULL), TRF_OK);
        assert_true(report.target_tokens > 1024 && report.source_tokens > 1024);
        hash = hash_bytes(hash, &report.loss, sizeof report.loss);
        hash = hash_gradients(hash, trainer);
        assert_int_equal(trf_trainer_update(trainer, &report, NULL), TRF_OK);
        assert_int_equal(report.skipped, 0);
        hash = hash_bytes(hash, &report.gradient_norm, sizeof report.gradient_norm);
    }
    hash = hash_weights(hash, model);
    hash = hash_bytes(hash, trainer->m, (size_t)model->layout.n_weights * sizeof(trf_real));
    hash = hash_bytes(hash, trainer->v, (size_t)model->layout.n_weights * sizeof(trf_real));
    assert_int_equal(trf_trainer_evaluate(trainer, &batch, NULL, &report, NULL), TRF_OK);
    hash = hash_bytes(hash, &report.nll, sizeof report.nll);
    assert_int_equal(trf_translator_create(&translator, model, &s, NULL), TRF_OK);
    assert_int_equal(trf_reader_score(trf_translator_reader(translator), &batch, NULL, scores, NULL), TRF_OK);
    hash = hash_bytes(hash, scores, 120 * sizeof *scores);
    some = kit_slice(&batch, 0, 3);
    out = trf_tensor_of(logits, 2, kit_target_rows(model, &some.target), 1100, 1);
    assert_int_equal(kit_logits(translator, &some, &out, NULL), TRF_OK);
    hash = hash_bytes(hash, logits, (size_t)(out.shape[0] * out.shape[1]) * sizeof *logits);
    for (i = 0; i < TALL - 1; i++) tall[i] = 3 + i;
    some.source.ids = some.target.ids = tall;
    some.source.lengths = some.target.lengths = &one;
    some.source.count = some.target.count = 1;
    out = trf_tensor_of(logits, 2, TALL, TALL, 1);
    assert_int_equal(kit_attention_weights(translator, &some, TRF_DECODER_SELF, 0, 1, &out, NULL),
                     TRF_OK);
    hash = hash_bytes(hash, logits, TALL * TALL * sizeof *logits);
    some = kit_slice(&batch, 0, 40);
    assert_int_equal(trf_translate(translator, &some.source, NULL, NULL), TRF_OK);
    for (i = 0; i < 40; i++) {
        const trf_hypothesis *h = trf_translator_answer(translator, i, 0);
        hash = hash_bytes(hash, h->ids, (size_t)h->n * sizeof *h->ids);
        hash = hash_bytes(hash, &h->log_probability, sizeof h->log_probability);
    }
    trf_translator_destroy(translator);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return hash;
}

static void same_for_threads(trf_products products)
{
    static const int threads[] = { 2, 3, 4, 8, 32 };
    uint64_t want = hash_of_training(products, 1, 10);
    size_t i;
    assert_int_equal(widest_worker, 0);
    for (i = 0; i < sizeof threads / sizeof *threads; i++) {
        uint64_t got;
        widest_worker = 0;
        got = hash_of_training(products, threads[i], 10);
        if (got != want) print_error("%d threads: hash %016llx, one thread %016llx\n", threads[i],
                                     (unsigned long long)got, (unsigned long long)want);
        assert_true(got == want);
#if TRF__THREADS
        assert_true(widest_worker > 0);     /* or nothing would have been shown */
#endif
    }
}

static void test_threads(void **state)
{
    (void)state;
    same_for_threads(TRF_PRODUCTS_AUTO);
#define AT_LEAST_THREE(function) \
    if (tiles_of(function) < 3) print_error(#function ": %d tiles\n", (int)tiles_of(function)); \
    assert_true(tiles_of(function) >= 3);
    AT_LEAST_THREE(trf__embed_tile)
    AT_LEAST_THREE(trf__embed_drop_tile) AT_LEAST_THREE(trf__embed_gradient_tile) AT_LEAST_THREE(
        trf__product_tile) AT_LEAST_THREE(trf__work_tile) AT_LEAST_THREE(trf__sums_tile)
        AT_LEAST_THREE(trf__activate_tile) AT_LEAST_THREE(trf__activate_gradient_tile)
            AT_LEAST_THREE(trf__attention_tile) AT_LEAST_THREE(trf__attention_gradient_tile)
                AT_LEAST_THREE(trf__attention_weights_tile) AT_LEAST_THREE(trf__add_norm_tile)
                    AT_LEAST_THREE(trf__norm_gradient_tile) AT_LEAST_THREE(trf__norm_gain_tile)
                        AT_LEAST_THREE(trf__loss_rows_tile) AT_LEAST_THREE(trf__clip_tile)
                            AT_LEAST_THREE(trf__adam_tile) AT_LEAST_THREE(trf__top_tile)
                                AT_LEAST_THREE(trf__pack_tile)
}

/* Where the built-in product is the faster one AUTO never asks CBLAS. */
static void test_threads_with_cblas(void **state)
{
    (void)state;
    if (!kit_cblas_serves()) { skip(); return; }
    widest_worker = 0;
    same_for_threads(TRF_PRODUCTS_CBLAS);
}

/* A hash that never changed would be the same for everybody. */
static void test_the_hash(void **state)
{
    (void)state;
    assert_true(hash_of_training(TRF_PRODUCTS_AUTO, 1, 1) !=
                hash_of_training(TRF_PRODUCTS_AUTO, 1, 2));
}

/* -----------------------------------------------------------------------------------------------
   Processes of our own. */

/* Starts this program with arguments and perhaps one variable more in its environment; its output
   can be read. */
static pid_t start(const char *const arguments[], const char *variable, const char *value, int *out)
{
    int ends[2];
    pid_t child;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        if (variable) setenv(variable, value, 1);
        execv(self, (char *const *)(uintptr_t)arguments);
        _exit(99);
    }
    close(ends[1]);
    *out = ends[0];
    return child;
}

/* Waits for the end of a child that prints one hash. */
static uint64_t finish(pid_t child, int out)
{
    char text[64];
    ssize_t n, at = 0;
    int status;
    while (at < (ssize_t)sizeof text - 1 &&
           (n = read(out, text + at, sizeof text - 1 - (size_t)at)) > 0)
        at += n;
    close(out);
    text[at] = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        print_error("the child ended with status %d\n", status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(at >= 16);
    return strtoull(text, NULL, 16);
}

/* Whether OpenBLAS, if that is what is linked, runs the kernels that the environment asks for. */
#if !defined(TRF_NO_CBLAS) && TRF__ASK_OPENBLAS
extern char *openblas_get_corename(void) __attribute__((weak));
#endif
static int kernels_as_asked(void)
{
    const char *asked = getenv("OPENBLAS_CORETYPE");
#if !defined(TRF_NO_CBLAS) && TRF__ASK_OPENBLAS
    if (asked && openblas_get_corename) return !strcmp(asked, openblas_get_corename());
#endif
    (void)asked;
    return 1;
}

/* OpenBLAS with the kernels of another processor: its bits may be others, but threads still do not
   matter. */
static void test_other_kernels(void **state)
{
    static const char *const cores[] = { "Haswell", "Nehalem" };
    size_t i;
    (void)state;
    if (!kit_cblas_serves()) { skip(); return; }
    for (i = 0; i < sizeof cores / sizeof *cores; i++) {
        uint64_t one = 0, got;
        static const char *const threads[] = { "1", "2", "3", "4", "8" };
        size_t k;
        for (k = 0; k < sizeof threads / sizeof *threads; k++) {
            const char *arguments[] = { self, "hash", threads[k], NULL };
            int out;
            pid_t child = start(arguments, "OPENBLAS_CORETYPE", cores[i], &out);
            got = finish(child, out);
            if (k == 0) one = got;
            if (got != one)
                print_error("%s, %s threads: %016llx, one thread %016llx\n", cores[i], threads[k],
                            (unsigned long long)got, (unsigned long long)one);
            assert_true(got == one);
        }
    }
}

/* -----------------------------------------------------------------------------------------------
   Resume: dropout, shuffled and bucketed batches, the end of an epoch inside, with and without
   accumulation. */

enum { WHOLE = 13 };            /* steps of the uninterrupted run */

static trf_corpus *new_corpus(void)
{
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *corpus = NULL;
    int32_t ids[2][12], i, k;
    uint64_t draw = 0;
    o.batch_sentences = 7;
    o.batch_tokens = 64;
    o.seed = 3;
    assert_int_equal(trf_corpus_create(&corpus, &o, NULL), TRF_OK);
    for (i = 0; i < 40; i++) {
        int32_t n[2];
        for (k = 0; k < 24; k++)
            ids[k / 12][k % 12] = 3 + (int32_t)(trf__random64(8, 1, draw++) % 27);
        for (k = 0; k < 2; k++) n[k] = 1 + (int32_t)(trf__random64(8, 1, draw++) % 11);
        assert_int_equal(trf_corpus_add(corpus, ids[0], n[0], ids[1], n[1], NULL), TRF_OK);
    }
    return corpus;
}

static void new_trainer(trf_model **model, trf_trainer **trainer, int threads)
{
    trf_config c = kit_config();
    trf_train_options o = kit_training();
    c.encoder_layers = c.decoder_layers = 1;
    c.d_model = 16; c.n_heads = 2; c.d_ff = 24;
    c.source_vocab = c.target_vocab = 30;
    c.max_length = 32;
    c.seed = 0xFEDCBA9876543210u;       /* seeds of 64 bits survive a file */
    o.seed = 0x8000000000000001u;
    o.warmup = 5;
    o.learning_rate = 1.0 / 3;          /* a number that few digits do not hold */
    o.label_smoothing = 0.1 / 7;
    o.optimizer = TRF_ADAMW;
    o.weight_decay = 0.01 / 3;
    o.source_tokens = o.target_tokens = 128;
    o.sequences = 8;
    o.longest = 16;
    trf_train_set_dropout(&o, 0.15);
    o.threads = threads;
    assert_int_equal(trf_model_create(model, &c, NULL, NULL), TRF_OK);
    assert_int_equal(trf_trainer_create(trainer, *model, &o, NULL), TRF_OK);
}

/* Steps until `last`, each of `micro` batches. */
static void train_until(trf_trainer *trainer, trf_corpus *corpus, int64_t last, int micro)
{
    while (kit_updates(trainer) < last) {
        int i;
        for (i = 0; i < micro; i++) {
            trf_batch batch;
            assert_int_equal(trf_corpus_next(corpus, &batch, NULL), TRF_OK);
            assert_int_equal(trf_trainer_forward_backward(trainer, &batch, NULL, NULL), TRF_OK);
        }
        assert_int_equal(trf_trainer_update(trainer, NULL, NULL), TRF_OK);
    }
}

static uint64_t uninterrupted(int micro, int threads)
{
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus = new_corpus();
    uint64_t hash;
    new_trainer(&model, &trainer, threads);
    train_until(trainer, corpus, WHOLE, micro);
    assert_true(trf_corpus_facts(corpus)->epoch >= 1);
    hash = hash_state(trainer);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    trf_corpus_destroy(corpus);
    return hash;
}

/* Goes on from a checkpoint, with another number of threads or with the stored options. */
static uint64_t resumed(const char *path, int micro, int threads, int64_t *step)
{
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus = new_corpus();
    trf_train_options o, *given = NULL;
    uint64_t hash;
    if (threads) {
        new_trainer(&model, &trainer, threads);
        o = *trf_trainer_options(trainer);
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
        given = &o;
    }
    assert_int_equal(trf_checkpoint_load(&model, &trainer, corpus, path, given, NULL, NULL),
                     TRF_OK);
    *step = kit_updates(trainer);
    train_until(trainer, corpus, WHOLE, micro);
    hash = hash_state(trainer);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    trf_corpus_destroy(corpus);
    return hash;
}

static void checkpoint_path(char path[80], const char *name)
{
    snprintf(path, 80, "/tmp/trf_test_same_bits_%d.%s", (int)getpid(), name);
    unlink(path);
}

static void test_resume_everywhere(void **state)
{
    char path[80];
    int micro, k;
    (void)state;
    checkpoint_path(path, "every");
    for (micro = 1; micro <= 3; micro += 2) {
        uint64_t want = uninterrupted(micro, 1);
        assert_true(want == uninterrupted(micro, 2));
        for (k = 1; k < WHOLE; k++) {
            trf_model *model;
            trf_trainer *trainer;
            trf_corpus *corpus = new_corpus();
            int64_t step;
            new_trainer(&model, &trainer, 1 + k % 2);
            train_until(trainer, corpus, k, micro);
            assert_int_equal(trf_checkpoint_save(trainer, corpus, path, NULL, NULL), TRF_OK);
            trf_trainer_destroy(trainer);
            trf_model_destroy(model);
            trf_corpus_destroy(corpus);
            assert_true(resumed(path, micro, k % 3, &step) ==
                        want); /* k % 3 == 0: the stored options */
            assert_int_equal(step, k);
        }
    }
    unlink(path);
}

/* The child saves after every step and says so; we kill it somewhere behind its k-th checkpoint. */
static int child_trains(const char *path, int micro, int threads)
{
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus = new_corpus();
    int64_t step;
    new_trainer(&model, &trainer, threads);
    for (step = 1; ; step++) {
        train_until(trainer, corpus, step, micro);
        if (step < WHOLE && trf_checkpoint_save(trainer, corpus, path, NULL, NULL) != TRF_OK) return 3;
        if (write(1, ".", 1) != 1) return 4;
    }
}

static int child_resumes(const char *path, int micro, int threads)
{
    int64_t step;
    uint64_t hash = resumed(path, micro, threads, &step);
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}

static void test_kill(void **state)
{
    static const int after[] = { 1, 4, 9, 12 };
    char path[80], number[16], dot;
    size_t i;
    (void)state;
    for (i = 0; i < sizeof after / sizeof *after; i++) {
        int micro = i % 2 ? 3 : 1, out, status, k;
        pid_t child;
        checkpoint_path(path, "killed");
        snprintf(number, sizeof number, "%d", micro);
        {
            const char *arguments[] = { self, "train", path, number, "2", NULL };
            child = start(arguments, NULL, NULL, &out);
        }
        for (k = 0; k < after[i]; k++) assert_int_equal(read(out, &dot, 1), 1);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        close(out);
        {
            const char *arguments[] = { self, "resume", path, number, i % 2 ? "1" : "3", NULL };
            child = start(arguments, NULL, NULL, &out);
        }
        assert_true(finish(child, out) == uninterrupted(micro, 1));
        unlink(path);
    }
}

/* A checkpoint of other data, or of none, is refused; nothing is handed out. */
static void test_wrong_data(void **state)
{
    static const int32_t ids[] = { 5, 6 };
    char path[80];
    trf_model *model, *loaded = (trf_model *)path;
    trf_trainer *trainer, *other = (trf_trainer *)path;
    trf_corpus *corpus = new_corpus(), *larger = new_corpus();
    trf_error err;
    (void)state;
    checkpoint_path(path, "wrong");
    assert_int_equal(trf_corpus_add(larger, ids, 2, ids, 2, NULL), TRF_OK);
    new_trainer(&model, &trainer, 1);
    train_until(trainer, corpus, 2, 1);
    assert_int_equal(trf_checkpoint_save(trainer, corpus, path, NULL, NULL), TRF_OK);
    assert_int_equal(trf_checkpoint_load(&loaded, &other, larger, path, NULL, NULL, &err),
                     TRF_E_STATE);
    assert_string_equal(err.what, "corpus");
    assert_null(loaded);
    assert_null(other);
    assert_int_equal(trf_checkpoint_save(trainer, NULL, path, NULL, NULL), TRF_OK);
    assert_int_equal(trf_checkpoint_load(&loaded, &other, corpus, path, NULL, NULL, &err),
                     TRF_E_STATE);
    assert_int_equal(trf_checkpoint_load(&loaded, &other, NULL, path, NULL, NULL, &err), TRF_OK);
    assert_true(hash_state(other) == hash_state(trainer));
    trf_trainer_destroy(other);
    trf_model_destroy(loaded);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    trf_corpus_destroy(corpus);
    trf_corpus_destroy(larger);
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_threads_with_cblas),
        cmocka_unit_test(test_the_hash),
        cmocka_unit_test(test_other_kernels),
        cmocka_unit_test(test_resume_everywhere),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_wrong_data),
    };
    self = argv[0];
    if (argc == 3 && !strcmp(argv[1], "hash")) {
        if (!kernels_as_asked()) return 3;
        printf("%016llx\n",
               (unsigned long long)hash_of_training(TRF_PRODUCTS_CBLAS, atoi(argv[2]), 3));
        return 0;
    }
    if (argc == 5 && !strcmp(argv[1], "train"))
        return child_trains(argv[2], atoi(argv[3]), atoi(argv[4]));
    if (argc == 5 && !strcmp(argv[1], "resume"))
        return child_resumes(argv[2], atoi(argv[3]), atoi(argv[4]));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

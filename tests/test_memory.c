/* build: shared slow plain:shared:all */
/* Memory: nothing is allocated once things run, every allocation may fail, and the plan tells the
   bytes. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"

/* -----------------------------------------------------------------------------------------------
   glibc lets a program have its own malloc. Ours counts, from every thread, while `watching`.
   Sanitizers bring one of their own: then only the hooks count. */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(SANITIZED)
#define OWN_MALLOC 1
static int watching, counted;
static void note(void)
{
    if (__atomic_load_n(&watching, __ATOMIC_RELAXED))
        __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
}

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t each);
extern void *__libc_realloc(void *memory, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
extern void __libc_free(void *memory);

void *malloc(size_t n) { note(); return __libc_malloc(n); }
void *calloc(size_t n, size_t each) { note(); return __libc_calloc(n, each); }
void *realloc(void *memory, size_t n) { note(); return __libc_realloc(memory, n); }
void *memalign(size_t align, size_t n) { note(); return __libc_memalign(align, n); }
void *aligned_alloc(size_t align, size_t n) { note(); return __libc_memalign(align, n); }
int posix_memalign(void **memory, size_t align, size_t n)
{
    note();
    *memory = __libc_memalign(align, n);
    return *memory ? 0 : ENOMEM;
}
void free(void *memory) { if (memory) note(); __libc_free(memory); }

static void watch(void) { counted = 0; __atomic_store_n(&watching, 1, __ATOMIC_SEQ_CST); }
static int seen(void) { __atomic_store_n(&watching, 0, __ATOMIC_SEQ_CST); return counted; }
#else
#define OWN_MALLOC 0
static void watch(void) { }
static int seen(void) { return 0; }
#endif

static void test_the_counter(void **state)
{
    void *volatile memory;
    (void)state;
    watch();
    memory = malloc(100);
    free(memory);
    assert_int_equal(seen(), OWN_MALLOC ? 2 : 0);
}

/* -----------------------------------------------------------------------------------------------
   Small objects. */

enum { VOCAB = 40 };

static trf_train_options training_of_512(void)
{
    trf_train_options o = kit_small_training(0.1);
    o.source_tokens = o.target_tokens = 512;
    o.sequences = 32;
    o.longest = 40;
    return o;
}

static trf_search search_of_128(void)
{
    trf_search s = trf_search_defaults();
    s.threads = 1;
    s.beam = 3;
    s.n_best = 2;
    s.max_length_a = 0.5; s.max_length_b = 4;
    s.max_sentences = 4;
    s.max_tokens = 128;
    return s;
}

/* -----------------------------------------------------------------------------------------------
   Nothing is allocated once things run: by the hook and by malloc. */

static void steady_training(int threads, int hooked)
{
    static kit_pairs data[3];
    static const int32_t source[] = { 5, 6, 7 }, target[] = { 8, 9 };
    trf_config c = kit_small(2, 32, VOCAB, 160);
    trf_train_options o = training_of_512();
    trf_corpus_options corpus_options = trf_corpus_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_corpus *corpus = NULL;
    trf_batch batches[3], batch;
    trf_step_report report;
    trf_error err;
    kit_memory memory;
    int64_t calls;
    int step, status = 0;
    memset(&memory, 0, sizeof memory);
    if (hooked) c.hooks = o.hooks = corpus_options.hooks = kit_hooks(&memory);
    o.threads = threads;
    corpus_options.batch_sentences = 3;
    corpus_options.epochs = 1000;
    batches[0] = kit_fill(&data[0], 20, 1, 20, VOCAB, 1);
    batches[1] = kit_fill(&data[1], 4, 0, 30, VOCAB, 2);
    batches[2] = kit_fill(&data[2], 30, 3, 11, VOCAB, 3);
    assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_OK);
    assert_int_equal(trf_trainer_create(&trainer, model, &o, &err), TRF_OK);
    assert_int_equal(trf_corpus_create(&corpus, &corpus_options, &err), TRF_OK);
    for (step = 0; step < 10; step++)
        assert_int_equal(trf_corpus_add(corpus, source, 1 + step % 3, target, step % 3, &err),
                         TRF_OK);
    for (step = 0; step < 3; step++)
        assert_int_equal(trf_trainer_step(trainer, &batches[step], &report, &err), TRF_OK);
    assert_int_equal(trf_corpus_next(corpus, &batch, &err), TRF_OK);
    calls = memory.calls;
    watch();
    for (step = 0; step < 12; step++) {
        status |= trf_trainer_step(trainer, &batches[step % 3], &report, &err);
        status |= trf_corpus_next(corpus, &batch, &err);        /* past the end of an epoch, too */
        status |= trf_trainer_forward_backward(trainer, &batch, &report, &err);
        status |= trf_trainer_update(trainer, &report, &err);
        status |= trf_trainer_evaluate(trainer, &batches[step % 3], NULL, &report, &err);
    }
    assert_int_equal(seen(), 0);
    assert_int_equal(status, TRF_OK);
    assert_true(trf_corpus_facts(corpus)->epoch >= 2);
    assert_int_equal(memory.calls, calls);
    trf_corpus_destroy(corpus);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

static void test_steady_training(void **state)
{
    (void)state;
    steady_training(1, 0);
    steady_training(1, 1);
    steady_training(2, 1);
    steady_training(3, 0);
}

static void steady_translating(trf_kind kind, int threads, int hooked)
{
    static kit_pairs data;
    static trf_real logits[1024 * VOCAB];
    static double score[16];
    trf_config c = kit_small(2, 32, VOCAB, 160);
    trf_search s = search_of_128();
    trf_model *model = NULL;
    trf_translator *translator = NULL;
    trf_batch batch = kit_fill(&data, 10, 1, 15, VOCAB, 4);
    trf_tensor out;
    trf_error err;
    kit_memory memory;
    int64_t calls;
    int32_t answer[64], n;
    int round, status = 0;
    memset(&memory, 0, sizeof memory);
    c.kind = kind;
    if (kind == TRF_DECODER_ONLY) { c.encoder_layers = 0; c.source_vocab = 0; }
    if (hooked) c.hooks = s.hooks = kit_hooks(&memory);
    s.threads = threads;
    assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_OK);
    assert_int_equal(trf_translator_create(&translator, model, &s, &err), TRF_OK);
    out = trf_tensor_of(logits, 2, kit_target_rows(model, &batch.target), VOCAB, 1);
    for (round = 0; round < 4; round++) {
        if (round == 1) {
            calls = memory.calls;
            watch();
        } /* the first time all lengths are met */
        status |= trf_translate(translator, &batch.source, NULL, &err);
        status |= kit_translate(translator, batch.source.ids, batch.source.lengths[0], answer, 64,
                                &n, &err);
        status |= trf_reader_score(trf_translator_reader(translator), &batch, NULL, score, &err);
        status |= kit_logits(translator, &batch, &out, &err);
    }
    assert_int_equal(seen(), 0);
    assert_int_equal(status, TRF_OK);
    assert_int_equal(memory.calls, calls);
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

static void test_steady_translating(void **state)
{
    (void)state;
    steady_translating(TRF_ENCODER_DECODER, 1, 0);
    steady_translating(TRF_ENCODER_DECODER, 1, 1);
    steady_translating(TRF_ENCODER_DECODER, 2, 1);
    steady_translating(TRF_DECODER_ONLY, 1, 1);
}

/* -----------------------------------------------------------------------------------------------
   Every allocation may fail, once or from then on: TRF_E_NOMEM, nothing leaks, nothing has changed,
   and the same call succeeds when there is memory again. An operation is prepared without failures,
   run, and undone. `least`: allocations that it must make; `keeps`: 1 where an object may keep room
   it has gained (it is all given back in the end). */

typedef struct world {
    kit_memory memory;
    trf_hooks hooks;
    trf_config config;
    trf_train_options options, larger;
    trf_search search;
    trf_load_options load;
    char model_path[64], checkpoint_path[64], other_path[64];
    trf_vocab *vocab;           /* without our hooks */
    trf_model *model, *other;
    trf_trainer *trainer, *other_trainer;
    trf_translator *translator;
    trf_corpus *corpus;
    trf_context *context;
    trf_vocab *other_vocab;
    kit_pairs small_data, large_data;
    trf_batch small, large, delivered;
    trf_corpus_options corpus_options;
    char answer[400];
    double scores[64];
} world;

static void need_model(world *w)
{
    assert_int_equal(trf_model_create(&w->model, &w->config, NULL, NULL), TRF_OK);
    assert_int_equal(trf_model_set_vocabs(w->model, w->vocab, w->vocab, NULL), TRF_OK);
    assert_int_equal(trf_model_set_metadata(w->model, "author", "nobody", NULL), TRF_OK);
}
static void need_trainer(world *w)
{
    need_model(w);
    assert_int_equal(trf_trainer_create(&w->trainer, w->model, &w->options, NULL), TRF_OK);
}
static void need_translator(world *w)
{
    need_model(w);
    assert_int_equal(trf_translator_create(&w->translator, w->model, &w->search, NULL), TRF_OK);
}
static void need_corpus(world *w)
{
    static const int32_t ids[] = { 5, 6, 7, 8 };
    int i;
    assert_int_equal(trf_corpus_create(&w->corpus, &w->corpus_options, NULL), TRF_OK);
    for (i = 0; i < 16; i++)
        assert_int_equal(trf_corpus_add(w->corpus, ids, 1 + i % 4, ids, i % 3, NULL), TRF_OK);
}
static void need_checkpoint(world *w)
{
    need_trainer(w);
    assert_int_equal(trf_trainer_step(w->trainer, &w->small, NULL, NULL), TRF_OK);
    assert_int_equal(trf_checkpoint_save(w->trainer, NULL, w->checkpoint_path, NULL, NULL), TRF_OK);
    assert_int_equal(trf_model_save(w->model, w->model_path, NULL, NULL), TRF_OK);
}
static void need_nothing(world *w) { (void)w; }
static void need_learned(world *w)
{
    assert_int_equal(trf_vocab_create(&w->other_vocab, TRF_WORDS, &w->hooks, NULL), TRF_OK);
    assert_int_equal(trf_vocab_learn(w->other_vocab, "one two three two", NULL), TRF_OK);
}

#define OPERATION(name, call) static trf_status name(world *w, trf_error *err) { return call; }
OPERATION(do_create, trf_model_create(&w->other, &w->config, NULL, err))
OPERATION(do_create_zeros, kit_create_zeros(&w->other, &w->config, err))
OPERATION(do_copy, trf_model_copy(&w->other, w->model, err))
OPERATION(do_vocabs, trf_model_set_vocabs(w->model, w->vocab, w->vocab, err))
OPERATION(do_metadata, trf_model_set_metadata(w->model, "licence", "none", err))
OPERATION(do_save, trf_model_save(w->model, w->other_path, NULL, err))
OPERATION(do_load, trf_model_load(&w->other, w->model_path, &w->load, err))
OPERATION(do_trainer, trf_trainer_create(&w->other_trainer, w->model, &w->options, err))
OPERATION(do_step, trf_trainer_step(w->trainer, &w->large, NULL, err))
OPERATION(do_set_options, trf_trainer_set_options(w->trainer, &w->larger, err))
/* One pair: with more, the trainer would have grown for the first when the second fails. */
static trf_status do_evaluate(world *w, trf_error *err)
{
    trf_batch one = kit_slice(&w->large, 0, 1);
    return trf_trainer_evaluate(w->trainer, &one, NULL, NULL, err);
}
OPERATION(do_checkpoint, trf_checkpoint_save(w->trainer, w->corpus, w->other_path, NULL, err))
OPERATION(do_resume, trf_checkpoint_load(&w->other, &w->other_trainer, NULL, w->checkpoint_path,
                                         &w->options, &w->load, err))
OPERATION(do_translator, trf_translator_create(&w->translator, w->model, &w->search, err))
OPERATION(do_translate, trf_translate(w->translator, &w->large.source, NULL, err))
OPERATION(do_text, trf_translate_text(w->translator, "a b c a b", w->answer, sizeof w->answer, err))
OPERATION(do_score, trf_reader_score(trf_translator_reader(w->translator), &w->large, NULL, w->scores, err))
OPERATION(do_corpus, trf_corpus_create(&w->corpus, &w->corpus_options, err))
OPERATION(do_add,
          trf_corpus_add(w->corpus, w->large.source.ids, 500, w->large.target.ids, 500, err))
OPERATION(do_next, trf_corpus_next(w->corpus, &w->delivered, err))
OPERATION(do_context, trf_context_create(&w->context, &w->config.device, &w->hooks, err))
OPERATION(do_vocab, trf_vocab_create(&w->other_vocab, TRF_WORDS, &w->hooks, err))
OPERATION(do_learn, trf_vocab_learn(w->other_vocab, "three four five six seven eight nine", err))
OPERATION(do_finish, trf_vocab_finish(w->other_vocab, 100, 1, err))

static const struct operation {
    const char *name;
    void (*need)(world *);
    trf_status (*run)(world *, trf_error *);
    int least, keeps;
} operations[] = {
    { "model create", need_nothing, do_create, 4, 0 },
    { "model create zeros", need_nothing, do_create_zeros, 4, 0 },
    { "model copy", need_model, do_copy, 7, 0 },
    { "set vocabularies", need_model, do_vocabs, 2, 0 },
    { "set metadata", need_model, do_metadata, 2, 0 },
    { "model save", need_model, do_save, 1, 0 },
    { "model load", need_checkpoint, do_load, 8, 0 },
    { "trainer create", need_model, do_trainer, 8, 0 },
    { "first step", need_trainer, do_step, 2, 0 },
    { "set options", need_trainer, do_set_options, 4, 0 },
    { "evaluate", need_trainer, do_evaluate, 2, 1 },
    { "checkpoint save", need_trainer, do_checkpoint, 1, 0 },
    { "checkpoint load", need_checkpoint, do_resume, 12, 0 },
    { "translator create", need_model, do_translator, 4, 0 },
    { "translate", need_translator, do_translate, 4, 1 },
    { "translate text", need_translator, do_text, 4, 1 },
    { "score", need_translator, do_score, 1, 1 },
    { "corpus create", need_nothing, do_corpus, 1, 0 },
    { "corpus add", need_corpus, do_add, 1, 1 },
    { "corpus next", need_corpus, do_next, 1, 1 },
    { "context create", need_nothing, do_context, 1, 0 },
    { "vocabulary create", need_nothing, do_vocab, 1, 0 },
    { "vocabulary learn", need_learned, do_learn, 1, 1 },
    { "vocabulary finish", need_learned, do_finish, 1, 0 },
};

static void world_end(world *w)
{
    trf_translator_destroy(w->translator);
    trf_trainer_destroy(w->trainer);
    trf_trainer_destroy(w->other_trainer);
    trf_model_destroy(w->model);
    trf_model_destroy(w->other);
    trf_corpus_destroy(w->corpus);
    trf_context_destroy(w->context);
    trf_vocab_destroy(w->other_vocab);
    w->translator = NULL;
    w->trainer = w->other_trainer = NULL;
    w->model = w->other = NULL;
    w->corpus = NULL;
    w->context = NULL;
    w->other_vocab = NULL;
    unlink(w->model_path);
    unlink(w->checkpoint_path);
    unlink(w->other_path);
    assert_int_equal(w->memory.live, 0);
}

static uint64_t world_hash(const world *w)
{
    uint64_t hash = HASH_START;
    if (w->model) {
        hash = hash_weights(hash, w->model);
        hash += (uint64_t)kit_model_texts(w->model);
    }
    if (w->trainer) hash ^= hash_state(w->trainer);
    if (w->trainer)
        hash +=
            trf_trainer_options(w->trainer)->seed + (uint64_t)w->trainer->pass.plan.limits.longest;
    return hash;
}

static void test_every_failure(void **state)
{
    static world w;
    size_t i;
    int for_ever, word;
    trf_error err;
    (void)state;
    memset(&w, 0, sizeof w);
    w.hooks = kit_hooks(&w.memory);
    w.config = kit_small(2, 32, VOCAB, 160); w.config.hooks = w.hooks;
    w.options = training_of_512(); w.options.hooks = w.hooks;
    w.options.source_tokens = w.options.target_tokens = 32;
    w.options.sequences = 4;
    w.options.longest = 8;
    w.larger = w.options;
    w.larger.seed = 77; w.larger.source_tokens = 500; w.larger.longest = 100;
    w.search = search_of_128(); w.search.hooks = w.hooks;
    w.search.max_tokens = 16;
    w.corpus_options = trf_corpus_defaults(); w.corpus_options.hooks = w.hooks;
    w.load = trf_load_defaults(); w.load.hooks = w.hooks; w.load.device.threads = 1;
    snprintf(w.model_path, sizeof w.model_path, "/tmp/trf_test_memory_%d.model", (int)getpid());
    snprintf(w.checkpoint_path, sizeof w.checkpoint_path, "/tmp/trf_test_memory_%d.checkpoint",
             (int)getpid());
    snprintf(w.other_path, sizeof w.other_path, "/tmp/trf_test_memory_%d.other", (int)getpid());
    w.small = kit_fill(&w.small_data, 2, 1, 6, VOCAB, 5);
    w.large = kit_fill(&w.large_data, 12, 100, 150, VOCAB, 6);      /* wants more scratch, too */
    assert_int_equal(trf_vocab_create(&w.vocab, TRF_WORDS, NULL, NULL), TRF_OK);
    for (word = 0; word < VOCAB - 4; word++) {
        char text[3] = { 'a', 0, 0 };
        text[0] = (char)('a' + word % 26);
        if (word >= 26) text[1] = 'x';
        assert_int_equal(trf_vocab_learn(w.vocab, text, NULL), TRF_OK);
    }
    assert_int_equal(trf_vocab_finish(w.vocab, VOCAB, 1, NULL), TRF_OK);
    assert_int_equal(trf_vocab_size(w.vocab), VOCAB);
    for (i = 0; i < sizeof operations / sizeof *operations; i++)
        for (for_ever = 0; for_ever < 2; for_ever++) {
            int64_t live, before, k;
            uint64_t hash;
            operations[i].need(&w);
            live = w.memory.live;
            hash = world_hash(&w);
            w.memory.for_ever = for_ever;
            for (k = 1; k < 200; k++) {
                trf_status status;
                before = w.memory.calls;
                w.memory.fail_at = before + k;
                memset(&err, 0x55, sizeof err);
                status = operations[i].run(&w, &err);
                w.memory.fail_at = 0;
                if (status == TRF_OK) break;
                if (status != TRF_E_NOMEM || (w.memory.live != live && !operations[i].keeps))
                    print_error("%s, allocation %d failing%s: status %s, \"%s\", %lld bytes more "
                                "than before\n",
                                operations[i].name, (int)k, for_ever ? " and all after it" : "",
                                trf_status_name(status), err.message,
                                (long long)(w.memory.live - live));
                assert_int_equal(status, TRF_E_NOMEM);
                assert_int_equal(err.status, TRF_E_NOMEM);
                if (!operations[i].keeps) assert_int_equal(w.memory.live, live);
                assert_true(world_hash(&w) == hash);
                assert_null(w.other);
                assert_null(w.other_trainer);
                if (operations[i]
                        .keeps) { /* it still works; then a new one, which keeps nothing yet */
                    assert_int_equal(operations[i].run(&w, &err), TRF_OK);
                    world_end(&w);
                    operations[i].need(&w);
                }
                if (operations[i].run != do_checkpoint && operations[i].run != do_save) continue;
                assert_int_equal(access(w.other_path, F_OK), -1);
            }
            assert_true(w.memory.calls < before + k); /* success only where nothing has failed */
            if (k - 1 < operations[i].least)
                print_error("%s made only %d allocations\n", operations[i].name, (int)k - 1);
            assert_true(k - 1 >= operations[i].least && k < 200);
            world_end(&w);
        }
    trf_vocab_destroy(w.vocab);
}

/* -----------------------------------------------------------------------------------------------
   The plan. */

static void check_plan(const trf_config *given, const trf_train_options *options, int steps)
{
    static kit_pairs data;
    trf_config c = *given;
    trf_train_options o = *options;
    kit_memory memory;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_batch batch = kit_fill(&data, o.sequences < 4 ? o.sequences : 4, 1,
                               o.longest - 1 < 20 ? o.longest - 1 : 20, 100, 7);
    size_t plan;
    double share;
    c.hooks = o.hooks = kit_hooks(&memory);
    plan = kit_model_memory(&c);
    assert_true(plan > 0);
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    assert_true(fabs((double)memory.peak / (double)plan - 1) <= 0.05);
    plan += trf_trainer_memory(&c, &o, NULL);
    assert_int_equal(trf_trainer_create(&trainer, model, &o, NULL), TRF_OK);
    for (; steps > 0; steps--)
        assert_int_equal(trf_trainer_step(trainer, &batch, NULL, NULL), TRF_OK);
    share = (double)memory.peak / (double)plan;
    if (!(fabs(share - 1) <= 0.05))
        print_error("peak %lld, planned %lld\n", (long long)memory.peak, (long long)plan);
    assert_true(fabs(share - 1) <= 0.05);
    assert_int_equal(memory.live, memory.peak);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

/* A limit counts each sequence with one more row. Where sources have BOS and EOS, it is two. */
static void test_limits_of_sources_with_bos_and_eos(void **state)
{
    enum { PAIRS = 128 };
    static int32_t ids[3 * PAIRS], lengths[PAIRS];
    trf_config c = kit_config();
    trf_train_options o = kit_training();
    kit_memory memory;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_batch batch = {{ids, lengths, PAIRS}, {ids, lengths, PAIRS}, 0, {0, 0, 0}};
    int i;
    (void)state;
    for (i = 0; i < 3 * PAIRS; i++) { ids[i] = 5 + i % 7; lengths[i / 3] = 3; }
    c.hooks = o.hooks = kit_hooks(&memory);
    c.source_vocab = c.target_vocab = 50;
    c.source_bos = c.source_eos = 1;
    o.source_tokens = o.target_tokens = 4 * PAIRS;
    o.sequences = PAIRS;
    o.longest = 4;
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    int64_t told = memory.live + (int64_t)trf_trainer_memory(&c, &o, NULL);
    assert_int_equal(trf_trainer_create(&trainer, model, &o, NULL), TRF_OK);
    assert_int_equal(trf_trainer_step(trainer, &batch, NULL, NULL), TRF_OK);
    assert_int_equal(memory.live, told);
    assert_int_equal(memory.peak, told);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

static void test_plan(void **state)
{
    static const int32_t limits[][3] = {{4096, 256, 128},
                                        {2048, 64, 512},
                                        {200, 8, 60},
                                        {20, 1, 2}};
    trf_config c = kit_config(), small = kit_small(2, 32, VOCAB, 160);
    trf_train_options o = kit_training();
    size_t i;
    int kind;
    (void)state;
    c.source_vocab = 1000;
    c.target_vocab = 1200;
    for (i = 0; i < sizeof limits / sizeof *limits; i++) {
        o.source_tokens = limits[i][0];
        o.target_tokens = limits[i][0] / 2 + 10;
        o.sequences = limits[i][1];
        o.longest = limits[i][2];
        o.threads = (int32_t)(i * i) + 1;
        check_plan(&c, &o, i > 1 && i < 3);
    }
    o = training_of_512();
    for (kind = 0; kind < 2; kind++) {
        small.norm_place = kind ? TRF_PRE_NORM : TRF_POST_NORM;
        small.tying = kind ? TRF_TIED_ALL : TRF_UNTIED;
        small.positions = kind ? TRF_POSITIONS_LEARNED : TRF_POSITIONS_INTERLEAVED;
        small.source_vocab = small.target_vocab = 100;
        check_plan(&small, &o, 2);
    }
    small.kind = TRF_DECODER_ONLY;
    small.encoder_layers = 0;
    small.tying = TRF_TIED_DECODER;
    check_plan(&small, &o, 2);
    assert_int_equal(trf_trainer_memory(&c, NULL, NULL) > 0, 1);
    o.beta1 = 2;
    assert_int_equal(trf_trainer_memory(&c, &o, NULL), 0);
    assert_int_equal(trf_trainer_memory(NULL, NULL, NULL), 0);
    assert_int_equal(kit_model_memory(NULL), 0);
}

/* A random model and random limits; every kind, head, norm, tying and table of positions. */
static trf_config random_config(uint64_t seed, int n, trf_train_options *o)
{
    trf_config c = kit_small(2, 32, VOCAB, 160);
    uint64_t k = 0;
#define UP_TO(most) ((int32_t)(trf__random64(seed, (uint32_t)n, k++) % (uint64_t)(most)))
    c.kind = (trf_kind)UP_TO(3);
    c.head = c.kind == TRF_ENCODER_ONLY ? (trf_head)(1 + UP_TO(4)) : TRF_HEAD_NONE;
    c.n_labels = trf__has_labels(&c) ? 2 + UP_TO(300) : 0;
    c.encoder_layers = c.kind == TRF_DECODER_ONLY ? 0 : 1 + UP_TO(3);
    c.decoder_layers = c.kind == TRF_ENCODER_ONLY ? 0 : 1 + UP_TO(3);
    c.n_heads = 1 + UP_TO(4);
    c.d_model = c.n_heads * (1 + UP_TO(40));
    c.d_ff = 1 + UP_TO(300);
    c.source_vocab = c.kind == TRF_DECODER_ONLY ? 0 : 5 + UP_TO(700);
    c.target_vocab = c.kind == TRF_ENCODER_ONLY ? 0 : 5 + UP_TO(700);
    if (c.kind == TRF_DECODER_ONLY) c.source_eos = 0;
    c.tying =
        (trf_tying)(c.kind == TRF_ENCODER_ONLY ? 0 : UP_TO(c.kind == TRF_DECODER_ONLY ? 2 : 4));
    if (c.tying >= TRF_TIED_ALL) c.target_vocab = c.source_vocab;
    c.norm_place = UP_TO(2) ? TRF_PRE_NORM : TRF_POST_NORM;
    c.final_norm = (trf_final_norm)UP_TO(c.kind ? 2 : 4);
    c.norm_rule = (trf_norm_rule)UP_TO(3);
    c.qkv_bias = UP_TO(2); c.out_bias = UP_TO(2); c.feed_forward_bias = UP_TO(2);
    c.generator_bias = c.kind != TRF_ENCODER_ONLY && UP_TO(2);
    c.positions = UP_TO(2) ? TRF_POSITIONS_LEARNED : TRF_POSITIONS_INTERLEAVED;
    c.max_length = 2 + UP_TO(200);
    c.segments = c.kind != TRF_DECODER_ONLY && UP_TO(2) ? 1 + UP_TO(5) : 0;
    c.head_layer = (c.head == TRF_HEAD_FIRST || c.head == TRF_HEAD_MASKED) && UP_TO(2);
    c.sequence_labels = c.head == TRF_HEAD_MASKED && UP_TO(2) ? 2 + UP_TO(40) : 0;
    *o = training_of_512();
    o->source_tokens = 1 + UP_TO(700);
    o->target_tokens = 1 + UP_TO(700);
    o->sequences = 1 + UP_TO(60);
    o->longest = 2 + UP_TO(150);
    o->threads = 1 + UP_TO(3);
    o->recompute = UP_TO(2);
    o->consistency = UP_TO(3) == 0;
#undef UP_TO
    return c;
}

/* What is told of a model and of its trainer is what they take, to the byte; and recomputing never
   takes more: with one layer a stack the same. */
static void test_told_exactly(void **state)
{
    const int configurations = kit_all() ? 400 : 120;
    int n, kinds = 0;
    (void)state;
    for (n = 0; n < configurations; n++) {
        trf_train_options o, other;
        trf_config c = random_config(12, n, &o);
        trf_model *model = NULL;
        trf_trainer *trainer = NULL;
        trf_error err;
        kit_memory memory;
        int64_t told, of_trainer;
        c.hooks = o.hooks = kit_hooks(&memory);
        told = (int64_t)kit_model_memory(&c);
        if (trf_model_create(&model, &c, NULL, &err)) fail_msg("configuration %d: %s", n, err.message);
        if (memory.live != told || memory.peak != told)
            fail_msg("configuration %d: a model of %lld bytes, %lld told", n,
                     (long long)memory.live, (long long)told);
        of_trainer = (int64_t)trf_trainer_memory(&c, &o, NULL);
        told += of_trainer;
        if (trf_trainer_create(&trainer, model, &o, &err))
            fail_msg("configuration %d: %s", n, err.message);
        if (memory.live != told || memory.peak != told)
            fail_msg("configuration %d: %lld bytes, %lld at most, %lld told", n,
                     (long long)memory.live, (long long)memory.peak, (long long)told);
        other = o;
        other.recompute = !o.recompute;
        told = (int64_t)trf_trainer_memory(&c, &other, NULL);
        if ((o.recompute ? of_trainer > told : told > of_trainer) ||
            (told != of_trainer && c.encoder_layers <= 1 && c.decoder_layers <= 1))
            fail_msg("configuration %d: %lld bytes, %lld with recompute %d", n,
                     (long long)of_trainer, (long long)told, (int)other.recompute);
        kinds |= 1 << c.kind;
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
        assert_int_equal(memory.live, 0);
    }
    assert_int_equal(kinds, 7);
}

#if !defined(TRF_DOUBLE)
/* A model that is packed takes what is told, to the byte, whether it was packed or read so; and a
   translator of it takes less than one that packs for itself, by the packed matrices. */
static void test_told_of_packed(void **state)
{
    static const trf_weights formats[] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
    int n, kinds = 0;
    (void)state;
    for (n = 0; n < (kit_all() ? 200 : 60); n++) {
        trf_weights weights = formats[n % 3];
        trf_train_options o;
        trf_config c = random_config(14, n, &o);
        trf_load_options load = trf_load_defaults();
        trf_model *model = NULL, *plain = NULL;
        size_t told, shared, bytes, needed;
        kit_memory memory;
        trf_error err;
        void *file;
        c.hooks = kit_hooks(&memory);
        told = trf_packed_memory(&c, weights, &shared, NULL);
        assert_int_equal(memory.live, 0);
        assert_true(told > shared && shared > 0);
        assert_int_equal(trf_packed_memory(&c, weights, NULL, NULL), told);
        assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_OK);
        needed = 0;
        kit_save_memory(model, TRF_WEIGHTS_FULL, NULL, 0, &needed, NULL);
        file = malloc(needed);
        assert_int_equal(kit_save_memory(model, TRF_WEIGHTS_FULL, file, needed, &bytes, &err),
                         TRF_OK);
        assert_int_equal(trf_model_pack(model, weights, &err), TRF_OK);
        if (memory.live != (int64_t)told || model->packed_bytes != shared)
            fail_msg("configuration %d: %lld bytes, %lld told", n, (long long)memory.live,
                     (long long)told);
        trf_model_destroy(model);
        assert_int_equal(memory.live, 0);
        if (weights != TRF_WEIGHTS_FULL) {
            load.weights = weights;
            load.hooks = kit_hooks(&memory);
            assert_int_equal(kit_load_memory(&plain, file, bytes, &load, &err), TRF_OK);
            assert_int_equal(memory.live, told);
            trf_model_destroy(plain);
        }
        free(file);
        kinds |= 1 << c.kind;
    }
    assert_int_equal(kinds, 7);
}

/* The memory of translators, created from a packed model and from one that is not. */
static void test_translator_plan_of_packed(void **state)
{
    static const trf_weights formats[] = {TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
    int32_t ids[20] = {4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7}, n = 20, k, of;
    (void)state;
    for (k = 0; k < 2; k++) {
        trf_config c = kit_small(2, 32, VOCAB, 160);
        trf_search s = trf_search_defaults();
        trf_sequences x = { ids, &n, 1 };
        trf_model *model = NULL;
        kit_memory memory;
        size_t shared, told;
        int64_t peak[2];
        trf_error err;
        c.generator_bias = 1;
        s.threads = 1;
        s.weights = formats[k];
        told = trf_translator_memory(&c, &s, 1, 20, NULL);
        assert_true(trf_packed_memory(&c, formats[k], &shared, NULL) > 0);
        for (of = 0; of < 2; of++) {
            trf_translator *t = NULL;
            trf_tensor bias;
            s.hooks = kit_hooks(&memory);
            assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_OK);
            bias = trf_model_parameter(model, trf_model_parameter_index(model, "generator.bias"));
            bias.data[c.eos] = -100;            /* answers go on to their limit */
            if (of) assert_int_equal(trf_model_pack(model, formats[k], &err), TRF_OK);
            assert_int_equal(trf_translator_create(&t, model, &s, &err), TRF_OK);
            assert_int_equal(trf_translate(t, &x, NULL, &err), TRF_OK);
            peak[of] = memory.peak;
            trf_translator_destroy(t);
            trf_model_destroy(model);
        }
        assert_int_equal(peak[0] - peak[1], shared);
        assert_true((int64_t)told >= peak[0] && (double)told <= 1.01 * (double)peak[0]);
    }
}
#endif

/* No such model: 0. */
static void test_told_of_nothing(void **state)
{
    trf_config c = kit_small(2, 32, VOCAB, 160), bad = c;
    size_t shared = 7;
    (void)state;
    bad.d_ff = 0;
    assert_int_equal(trf_packed_memory(NULL, TRF_WEIGHTS_INT8, &shared, NULL), 0);
    assert_int_equal(shared, 0);
    assert_int_equal(trf_packed_memory(&bad, TRF_WEIGHTS_INT8, &shared, NULL), 0);
    assert_int_equal(trf_packed_memory(&c, TRF_WEIGHTS_F16, &shared, NULL), 0);
    assert_int_equal(trf_packed_memory(&c, (trf_weights)9, &shared, NULL), 0);
    assert_true(trf_packed_memory(&c, TRF_WEIGHTS_INT8, &shared, NULL) > 0 || sizeof(trf_real) == 8);
    c.d_ff = 131104;                /* sums of INT8 could overflow */
    assert_int_equal(trf_packed_memory(&c, TRF_WEIGHTS_INT8, &shared, NULL), 0);
    assert_true(trf_packed_memory(&c, TRF_WEIGHTS_BF16, &shared, NULL) > 0 || sizeof(trf_real) == 8);
}

typedef struct told { kit_memory memory; int lines, level; char last[256]; } told;

static void hear(void *user, int level, const char *message)
{
    told *t = (told *)user;
    t->lines++;
    t->level = level;
    snprintf(t->last, sizeof t->last, "%s", message);
}

/* A batch beyond the plan makes the plan grow, once, and says so. */
static void test_growth(void **state)
{
    static kit_pairs data;
    trf_config c = kit_small(2, 32, VOCAB, 160);
    trf_train_options o = training_of_512();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_batch large =
        kit_fill(&data, 30, 5, 9, c.source_vocab < c.target_vocab ? c.source_vocab : c.target_vocab,
                 5);
    told t;
    int64_t planned, calls;
    (void)state;
    memset(&t, 0, sizeof t);
    o.hooks = kit_hooks(&t.memory);
    o.hooks.log = hear;
    o.source_tokens = o.target_tokens = 50;
    o.sequences = 10;
    o.longest = 5;
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    assert_int_equal(trf_trainer_create(&trainer, model, &o, NULL), TRF_OK);
    planned = t.memory.live;
    assert_int_equal(t.lines, 0);
    assert_int_equal(trf_trainer_step(trainer, &large, NULL, NULL), TRF_OK);
    assert_int_equal(t.lines, 1);
    assert_int_equal(t.level, TRF_LOG_INFO);
    assert_non_null(strstr(t.last, "larger than those before"));
    assert_true(t.memory.live > planned);
    calls = t.memory.calls;
    assert_int_equal(trf_trainer_step(trainer, &large, NULL, NULL), TRF_OK);
    assert_true(t.lines == 1 && t.memory.calls == calls);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    assert_int_equal(t.memory.live, 0);
}

/* Many short sentences, then a long one: the memory of the larger call, not of many long sentences.
 */
static void test_translator_memory(void **state)
{
    int32_t ids[400], lengths[64], i;
    trf_config c = kit_small(2, 32, VOCAB, 160);
    trf_search s = trf_search_defaults();
    trf_model *model = NULL;
    trf_translator *t = NULL;
    trf_sequences many, one;
    kit_memory memory;
    int64_t peak[2];
    int after;
    (void)state;
    c.max_length = 500;
    for (i = 0; i < 400; i++) ids[i] = 4 + i % 3;
    for (i = 0; i < 64; i++) lengths[i] = 1;
    many.ids = one.ids = ids;
    many.lengths = lengths;
    many.count = 64;
    one.count = 1;
    i = 400;
    one.lengths = &i;
    s.threads = 1;
    s.max_sentences = 64;
    s.max_length_a = 1; s.max_length_b = 1;
    for (after = 0; after < 2; after++) {
        assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
        s.hooks = kit_hooks(&memory);
        assert_int_equal(trf_translator_create(&t, model, &s, NULL), TRF_OK);
        if (after) assert_int_equal(trf_translate(t, &many, NULL, NULL), TRF_OK);
        assert_int_equal(trf_translate(t, &one, NULL, NULL), TRF_OK);
        if (after) assert_int_equal(trf_translate(t, &many, NULL, NULL), TRF_OK);
        peak[after] = memory.peak;
        trf_translator_destroy(t);
        trf_model_destroy(model);
        assert_int_equal(memory.live, 0);
    }
    assert_true(peak[1] < 4 * peak[0]);
}

/* What is told before, against what a first call takes at most: within one per cent, and never
   less. The largest bias of the generator belongs to a token that is not EOS, so that every answer
   goes on to its limit. */
static void test_translator_plan(void **state)
{
    static const struct {
        int32_t d, vocab, beam, candidates, n_best, sentences, max_sentences, max_tokens, source;
        double a;
        int32_t b, kind, threads;
    } cases[] = {{8, 100, 1024, 16, 1, 1, 32, 4096, 3, 2, 4, 0, 1},
                 {8, 100, 1024, 1, 4, 2, 32, 4096, 3, 2, 4, 0, 1},
                 {64, 500, 4, 2, 1, 40, 32, 4096, 30, 2, 20, 0, 2},
                 {64, 500, 1, 2, 1, 40, 32, 100, 60, 1, 1, 0, 1},
                 {64, 500, 5, 2, 5, 3, 2, 10, 90, 0, 30, 0, 1},
                 {32, 60, 2, 2, 2, 70, 64, 4096, 0, 0, 9, 0, 1},
                 {64, 300, 4, 2, 1, 10, 32, 4096, 25, 1, 20, 2, 1}};
    static const int32_t banned[] = {5, 6, 7, 8, 9, 10}, n_banned[] = {1, 2, 3};
    const size_t n = sizeof cases / sizeof cases[0];
    size_t at;
    (void)state;
    for (at = 0; at < 2 * n; at++) {
        size_t i = at % n;
        int rules = at >= n;
        int32_t ids[4096], lengths[128], k;
        trf_config c = kit_small(2, 32, VOCAB, 160);
        trf_search s = trf_search_defaults();
        trf_model *model = NULL;
        trf_translator *t = NULL;
        trf_sequences x;
        trf_tensor bias;
        trf_error err;
        kit_memory memory;
        size_t told;
        c.kind = (trf_kind)cases[i].kind;
        if (c.kind == TRF_DECODER_ONLY) {
            c.encoder_layers = 0;
            c.source_vocab = 0;
            c.source_eos = 0;
        } else c.source_vocab = cases[i].vocab;
        c.target_vocab = cases[i].vocab;
        c.d_model = cases[i].d;
        c.n_heads = 2;
        c.max_length = 100;
        c.generator_bias = 1;
        s.beam = cases[i].beam; s.candidates = cases[i].candidates; s.n_best = cases[i].n_best;
        s.max_sentences = cases[i].max_sentences; s.max_tokens = cases[i].max_tokens;
        s.max_length_a = cases[i].a; s.max_length_b = cases[i].b;
        s.threads = cases[i].threads;
        if (rules) {                    /* that change no answer, but take room */
            s.banned.ids = banned; s.banned.lengths = n_banned; s.banned.count = 3;
            s.phrases = s.banned;
            s.no_repeat_ngram = 500; s.repetition_penalty = 1.001;
            s.ends.n = 3; s.ends.ids[0] = 11; s.ends.ids[1] = c.eos; s.ends.ids[2] = 12;
            if (c.kind == TRF_ENCODER_DECODER) s.forced_first = s.source_first = s.source_last = 7;
        }
        for (k = 0; k < 4096; k++) ids[k] = 4 + k % 3;
        for (k = 0; k < 128; k++) lengths[k] = cases[i].source;
        x.ids = ids; x.lengths = lengths; x.count = cases[i].sentences;
        assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
        bias = trf_model_parameter(model, trf_model_parameter_index(model, "generator.bias"));
        bias.data[c.eos] = bias.data[11] = bias.data[12] = -100;
        s.hooks = kit_hooks(&memory);
        told = trf_translator_memory(&c, &s, x.count, cases[i].source, NULL);
        assert_int_equal(trf_translator_create(&t, model, &s, NULL), TRF_OK);
        if (trf_translate(t, &x, NULL, &err)) fail_msg("case %d: %s", (int)i, err.message);
        if (!((double)told >= (double)memory.peak && (double)told <= 1.01 * (double)memory.peak))
            fail_msg("case %d: told %lld, taken %lld", (int)at, (long long)told,
                     (long long)memory.peak);
        trf_translator_destroy(t);
        trf_model_destroy(model);
    }
}

/* Sixteen long sources, then a round of thirty-two shorter ones, whose answers are as long: no more
   is taken than what is told of so many of the longest. */
static void test_translator_plan_of_mixed_lengths(void **state)
{
    int32_t ids[48 * 60], lengths[48], k;
    trf_config c = kit_small(2, 32, VOCAB, 160);
    trf_search s = trf_search_defaults(), plain;
    trf_model *model = NULL;
    trf_translator *t = NULL;
    trf_sequences x = { ids, lengths, 48 };
    trf_error err;
    kit_memory memory;
    (void)state;
    for (k = 0; k < 48 * 60; k++) ids[k] = 4 + k % 3;
    for (k = 0; k < 48; k++) lengths[k] = k % 3 == 0 ? 60 : 28;
    c.max_length = 400;
    s.threads = 1;
    s.max_length_a = 0;
    s.max_length_b = 300;
    s.min_length = 10;
    s.max_tokens = 16 * 61;
    plain = s;
    plain.max_tokens = INT32_MAX;
    s.hooks = kit_hooks(&memory);
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    assert_int_equal(trf_translator_create(&t, model, &s, NULL), TRF_OK);
    if (trf_translate(t, &x, NULL, &err)) fail_msg("%s", err.message);
    assert_true((size_t)memory.peak <= trf_translator_memory(&c, &plain, 48, 60, NULL));
    trf_translator_destroy(t);
    trf_model_destroy(model);
}

/* No such call: 0. */
static void test_translator_plan_of_nothing(void **state)
{
    trf_config c = kit_small(2, 32, VOCAB, 160);
    trf_search s = trf_search_defaults();
    size_t known;
    (void)state;
    s.threads = 1;
    assert_true(trf_translator_memory(&c, NULL, 1, 0, NULL) > 0 &&
                trf_translator_memory(&c, &s, 1, 0, NULL) > 0);
    assert_true(trf_translator_memory(&c, &s, 1, c.max_length - c.source_eos, NULL) > 0);
    assert_true(trf_translator_memory(&c, &s, 1, c.max_length - c.source_eos + 1, NULL) == 0);
    assert_true(trf_translator_memory(&c, &s, 0, 1, NULL) == 0 &&
                trf_translator_memory(&c, &s, -1, 1, NULL) == 0);
    assert_true(trf_translator_memory(&c, &s, 1, -1, NULL) == 0 &&
                trf_translator_memory(&c, &s, 1, INT32_MAX, NULL) == 0);
    assert_true(trf_translator_memory(NULL, &s, 1, 1, NULL) == 0);
    s.beam = c.target_vocab; /* no room for more candidates than there are tokens */
    s.candidates = 1;
    known = trf_translator_memory(&c, &s, 8, 5, NULL);
    s.candidates = 16;
    assert_true(trf_translator_memory(&c, &s, 8, 5, NULL) <
                known + 8 * 32 * (size_t)(s.beam * s.candidates));
    s.beam = 1;
    s.max_sentences = s.max_tokens = INT32_MAX;     /* sums that are large, but do not wrap */
    assert_true(trf_translator_memory(&c, &s, INT32_MAX, 1, NULL) >
                trf_translator_memory(&c, &s, INT32_MAX / 2, 1, NULL));
    s.beam = s.n_best = 1024; s.candidates = 16;
    assert_true(trf_translator_memory(&c, &s, INT32_MAX, 1, NULL) >
                trf_translator_memory(&c, &s, INT32_MAX / 2, 1, NULL));
    s.beam = 0;
    assert_true(trf_translator_memory(&c, &s, 1, 1, NULL) == 0);
    c.kind = TRF_ENCODER_ONLY; c.decoder_layers = 0; c.tying = TRF_UNTIED; c.target_vocab = 0;
    assert_true(kit_model_memory(&c) > 0 && trf_translator_memory(&c, NULL, 1, 1, NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_counter),
        cmocka_unit_test(test_steady_training),
        cmocka_unit_test(test_steady_translating),
        cmocka_unit_test(test_every_failure),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_limits_of_sources_with_bos_and_eos),
        cmocka_unit_test(test_told_exactly),
#if !defined(TRF_DOUBLE)
        cmocka_unit_test(test_told_of_packed), cmocka_unit_test(test_translator_plan_of_packed),
#endif
        cmocka_unit_test(test_told_of_nothing),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_translator_memory),
        cmocka_unit_test(test_translator_plan),
        cmocka_unit_test(test_translator_plan_of_mixed_lengths),
        cmocka_unit_test(test_translator_plan_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

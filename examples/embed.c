/* embed.c - the library inside a program that has its own memory, threads, log and errors.

   build   cc -O2 -march=native -pthread -I. examples/embed.c -o embed -lopenblas -lm
   run     ./embed                              trains a very small model first (a few seconds), into embed.safetensors
           ./embed translate.safetensors        takes any encoder-decoder's file
   prints  [host] lines: what was loaded, four threads that translate with one model at the same time, one of them
           cancelled on the way, and the memory left at the end: "0 bytes in 0 blocks".
   exits   with 1 if a thread's answers differ from those of a single thread, if the cancelled one did not answer
           TRF_E_CANCELLED, or if a byte was left.

   What to copy from here: `library_hooks` (memory, log and cancel of an object), `report` (what an error
   carries), and one trf_translator a thread on one const trf_model. */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L         /* posix_memalign and threads under -std=c99 too */
#endif
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -----------------------------------------------------------------------------------------------
// The host program: memory that is counted, a log, errors of its own
// -----------------------------------------------------------------------------------------------

typedef enum host_error { HOST_OK, HOST_NO_MODEL, HOST_CANCELLED, HOST_BROKEN } host_error;

typedef struct host {
    pthread_mutex_t lock;
    long blocks;                /* in use now */
    size_t bytes, peak;
} host;

/* May be called from any thread. Must be aligned as asked. */
static void *host_alloc(void *user, size_t align, size_t bytes)
{
    host *h = (host *)user;
    void *memory = NULL;
    if (align < sizeof(void *)) align = sizeof(void *);
    if (posix_memalign(&memory, align, bytes ? bytes : 1)) return NULL;
    pthread_mutex_lock(&h->lock);
    h->blocks++;
    h->bytes += bytes;
    if (h->bytes > h->peak) h->peak = h->bytes;
    pthread_mutex_unlock(&h->lock);
    return memory;
}

static void host_free(void *user, void *memory, size_t bytes)
{
    host *h = (host *)user;
    if (!memory) return;
    pthread_mutex_lock(&h->lock);
    h->blocks--;
    h->bytes -= bytes;
    pthread_mutex_unlock(&h->lock);
    free(memory);
}

static void host_log(void *user, int level, const char *message)
{
    (void)user;
    printf("[host] library %s: %s\n", level == TRF_LOG_WARNING ? "warns" : "says", message);
}

static trf_hooks library_hooks(host *h)
{
    trf_hooks hooks;
    memset(&hooks, 0, sizeof hooks);
    hooks.user = h;
    hooks.alloc = host_alloc;
    hooks.free = host_free;
    hooks.log = host_log;
    return hooks;
}

/* The library's errors become the host's: the code decides, the sentence is for people. */
static host_error report(const trf_error *err, const char *doing)
{
    printf("[host] %s: %s", doing, trf_status_name((trf_status)err->status));
    if (strncmp(err->message, err->what, strlen(err->what)) != 0) printf(", %s", err->what);    /* a path stands there */
    if (err->where >= 0) printf(" at %lld", (long long)err->where);
    printf(": %s\n", err->message);
    switch (err->status) {
    case TRF_OK: return HOST_OK;
    case TRF_E_CANCELLED: return HOST_CANCELLED;
    case TRF_E_IO: case TRF_E_FORMAT: case TRF_E_SHAPE: case TRF_E_CHECKSUM: return HOST_NO_MODEL;
    default: return HOST_BROKEN;
    }
}

// -----------------------------------------------------------------------------------------------
// A model to work with
// -----------------------------------------------------------------------------------------------

enum { SENTENCES = 24, LENGTH = 6, MOST_TOKENS = 128 };

/* SENTENCES sequences of LENGTH ids that a model of this configuration can read. */
static trf_sequences make_sources(int32_t *ids, int32_t *lengths, const trf_config *config, uint32_t number)
{
    trf_sequences sources;
    int32_t i;
    for (i = 0; i < SENTENCES * LENGTH; i++) {
        do {
            number = number * 1664525u + 1013904223u;
            ids[i] = (int32_t)((number >> 8) % (uint32_t)config->source_vocab);
        } while (ids[i] == config->pad || ids[i] == config->bos || ids[i] == config->eos || ids[i] == config->unk);
    }
    for (i = 0; i < SENTENCES; i++) lengths[i] = LENGTH;
    sources.ids = ids;
    sources.lengths = lengths;
    sources.count = SENTENCES;
    return sources;
}

/* Trains a very small model to copy, and saves it. */
static host_error train_small_model(host *h, const char *path)
{
    trf_config config = trf_config_tiny();
    trf_train_options training = trf_train_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_error err;
    trf_step_report result;
    int32_t ids[SENTENCES * LENGTH], lengths[SENTENCES];
    host_error outcome = HOST_OK;
    uint32_t step;
    config.d_model = 32;
    config.d_ff = 64;
    config.encoder_layers = config.decoder_layers = 1;
    config.source_vocab = config.target_vocab = 16;
    config.hooks = training.hooks = library_hooks(h);
    training.learning_rate = 5e-3;
    training.source_tokens = training.target_tokens = SENTENCES * (LENGTH + 2);     /* a small plan: little memory */
    if (trf_model_create(&model, &config, &err) || trf_trainer_create(&trainer, model, &training, &err)) goto failed;
    for (step = 1; step <= 300; step++) {
        trf_batch batch;
        memset(&batch, 0, sizeof batch);
        batch.source = batch.target = make_sources(ids, lengths, &config, step);
        if (trf_train_step(trainer, &batch, &result, &err)) goto failed;
    }
    printf("[host] trained a small model: loss %.3f\n", result.loss);
    if (trf_model_save(model, path, &err)) goto failed;
    goto done;
failed:
    outcome = report(&err, "training");
done:
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return outcome;
}

// -----------------------------------------------------------------------------------------------
// Workers: a translator each, the model shared
// -----------------------------------------------------------------------------------------------

typedef struct worker {
    host *h;
    const trf_model *model;
    trf_sequences sources;
    int for_ever;                           /* 1: starts again and again, until it is cancelled */
    pthread_mutex_t lock;
    pthread_cond_t started;
    int is_running, stop;                   /* both under the lock; also "running" once it has ended */
    host_error outcome;
    int32_t lengths[SENTENCES], ids[SENTENCES][MOST_TOKENS];    /* the answers */
} worker;

/* The library asks this at least once per layer and per decoded token; the first time, the host learns from it
   that the work has begun. */
static int worker_cancel(void *user)
{
    worker *w = (worker *)user;
    int stop;
    pthread_mutex_lock(&w->lock);
    stop = w->stop;
    w->is_running = 1;
    pthread_cond_signal(&w->started);
    pthread_mutex_unlock(&w->lock);
    return stop;
}

/* hooks.user is one pointer for all hooks: the worker, who knows its host. */
static void *worker_alloc(void *user, size_t align, size_t bytes)
{
    return host_alloc(((worker *)user)->h, align, bytes);
}
static void worker_free(void *user, void *memory, size_t bytes)
{
    host_free(((worker *)user)->h, memory, bytes);
}

static void worker_copy_answers(worker *w, const trf_translator *translator)
{
    int32_t i;
    for (i = 0; i < w->sources.count; i++) {
        const trf_hypothesis *answer = trf_hypothesis_at(translator, i, 0);
        w->lengths[i] = answer->n < MOST_TOKENS ? answer->n : MOST_TOKENS;
        memcpy(w->ids[i], answer->ids, (size_t)w->lengths[i] * sizeof w->ids[i][0]);
    }
}

static void *worker_main(void *user)
{
    worker *w = (worker *)user;
    trf_search search = trf_search_defaults();
    trf_translator *translator = NULL;
    trf_error err;
    trf_status status;
    search.threads = 1;                     /* the host has threads enough */
    search.hooks.user = w;
    search.hooks.alloc = worker_alloc;
    search.hooks.free = worker_free;
    search.hooks.cancel = worker_cancel;
    status = trf_translator_create(&translator, w->model, &search, &err);
    while (!status) {
        status = trf_translate_batch(translator, &w->sources, &err);
        if (!status && !w->for_ever) break;
    }
    if (status) w->outcome = report(&err, w->for_ever ? "the endless worker" : "a worker");
    else worker_copy_answers(w, translator);
    trf_translator_destroy(translator);
    worker_cancel(w);                       /* nobody shall wait for the start of a thread that failed at once */
    return NULL;
}

static void worker_prepare(worker *w, host *h, const trf_model *model, trf_sequences sources, int for_ever)
{
    memset(w, 0, sizeof *w);
    w->h = h;
    w->model = model;
    w->sources = sources;
    w->for_ever = for_ever;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->started, NULL);
}

static void worker_cancel_now(worker *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->is_running) pthread_cond_wait(&w->started, &w->lock);
    w->stop = 1;
    pthread_mutex_unlock(&w->lock);
}

static void worker_release(worker *w)
{
    pthread_cond_destroy(&w->started);
    pthread_mutex_destroy(&w->lock);
}

/* Four threads on one model; thread 3 never ends by itself and is cancelled. Compares with a run on one thread. */
static host_error translate_in_threads(host *h, const trf_model *model)
{
    static worker serial[4], workers[4];            /* large: answers inside */
    static int32_t ids[4][SENTENCES * LENGTH];
    int32_t lengths[4][SENTENCES];
    pthread_t threads[4];
    int i, started, same = 0;
    host_error outcome = HOST_OK;
    for (i = 0; i < 4; i++) {
        trf_sequences sources = make_sources(ids[i], lengths[i], trf_model_config(model), (uint32_t)i);
        worker_prepare(&serial[i], h, model, sources, 0);
        worker_prepare(&workers[i], h, model, sources, i == 3);
        worker_main(&serial[i]);
    }
    for (started = 0; started < 4; started++)
        if (pthread_create(&threads[started], NULL, worker_main, &workers[started])) break;
    if (started == 4) worker_cancel_now(&workers[3]);
    for (i = 0; i < started; i++) pthread_join(threads[i], NULL);

    for (i = 0; i < 3; i++)
        same += workers[i].outcome == HOST_OK && serial[i].outcome == HOST_OK
                && memcmp(workers[i].lengths, serial[i].lengths, sizeof serial[i].lengths) == 0
                && memcmp(workers[i].ids, serial[i].ids, sizeof serial[i].ids) == 0;
    printf("[host] %d of 3 threads gave the answers of the serial run; thread 4 was %s\n", same,
           workers[3].outcome == HOST_CANCELLED ? "cancelled" : "NOT cancelled");
    if (started < 4 || same < 3 || workers[3].outcome != HOST_CANCELLED) outcome = HOST_BROKEN;
    for (i = 0; i < 4; i++) { worker_release(&serial[i]); worker_release(&workers[i]); }
    return outcome;
}

static host_error run(host *h, const char *path)
{
    trf_load_options options = trf_load_defaults();
    trf_model *model = NULL;
    trf_error err;
    host_error outcome;
    options.hooks = library_hooks(h);
    if (trf_model_load(&model, "no/such/model.safetensors", &options, &err) == TRF_OK) return HOST_BROKEN;
    report(&err, "as expected, loading a file that is not there");
    if (trf_model_load(&model, path, &options, &err)) return report(&err, "loading");
    if (trf_model_config(model)->kind != TRF_ENCODER_DECODER) {
        printf("[host] %s is no encoder-decoder\n", path);
        trf_model_destroy(model);
        return HOST_NO_MODEL;
    }
    printf("[host] loaded %s: %lld weights, %lu bytes in use\n", path, (long long)trf_model_parameter_total(model),
           (unsigned long)h->bytes);
    outcome = translate_in_threads(h, model);
    trf_model_destroy(model);
    return outcome;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "embed.safetensors";
    host h;
    host_error outcome = HOST_OK;
    memset(&h, 0, sizeof h);
    pthread_mutex_init(&h.lock, NULL);
    if (argc < 2) outcome = train_small_model(&h, path);
    if (outcome == HOST_OK) outcome = run(&h, path);
    printf("[host] %lu bytes in %ld blocks left, at most %lu at a time\n", (unsigned long)h.bytes, h.blocks,
           (unsigned long)h.peak);
    pthread_mutex_destroy(&h.lock);
    return outcome != HOST_OK || h.blocks != 0 || h.bytes != 0;
}

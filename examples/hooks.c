/* hooks.c - the library in a program with its own memory, log, errors and way to cancel.

   build   cc -O2 -I. examples/hooks.c -o hooks -lopenblas -lm
   run     ./hooks                (a few seconds)
   prints  what the program sees of the library: an error with its fields, a warning, a training
           run that is cancelled, memory that is refused, and "0 bytes left in 0 blocks" at the end
   exits   with 1 if one of these did not happen */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L         /* posix_memalign under -std=c99 too */
#endif
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the hooks work with. Where objects of several threads share it, the hooks need a lock. */
typedef struct host {
    size_t bytes, most, limit;              /* in use, at most so far, allowed */
    long blocks;
    int calls_left;                         /* of host_cancel, before it cancels */
} host;

static void *host_alloc(void *user, size_t align, size_t bytes)
{
    host *h = (host *)user;
    void *memory = NULL;
    if (h->bytes + bytes > h->limit) return NULL;       /* the call fails with TRF_E_NOMEM */
    if (align < sizeof(void *)) align = sizeof(void *);
    if (posix_memalign(&memory, align, bytes ? bytes : 1)) return NULL;
    h->blocks++;
    h->bytes += bytes;
    if (h->most < h->bytes) h->most = h->bytes;
    return memory;
}

static void host_free(void *user, void *memory, size_t bytes)
{
    host *h = (host *)user;
    if (!memory) return;
    h->blocks--;
    h->bytes -= bytes;
    free(memory);
}

static void host_log(void *user, int level, const char *message)
{
    (void)user;
    printf("[host] library %s: %s\n", level == TRF_LOG_WARNING ? "warns" : "says", message);
}

/* Called several times in each step, for instance before each layer. */
static int host_cancel(void *user)
{
    host *h = (host *)user;
    return h->calls_left-- <= 0;
}

/* Programs decide by err->status; err->message is a sentence for people. */
static trf_status report(const char *doing, const trf_error *err)
{
    printf("[host] %s: %s, %s", doing, trf_status_name((trf_status)err->status), err->what);
    if (err->where >= 0) printf(" at %lld", (long long)err->where);
    printf(": %s\n", err->message);
    return (trf_status)err->status;
}

/* Trains a small model to copy, until the host cancels it. */
static trf_status train(host *h, const trf_hooks *hooks)
{
    static int32_t ids[] = {4, 5, 6, 7, 8, 9, 10, 11}, lengths[] = {3, 5};
    trf_batch batch = {{ids, lengths, 2}, {ids, lengths, 2}, 0, {0, 0, 0}};
    trf_config config = trf_config_preset(TRF_TINY);
    trf_train_options training = trf_train_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report step;
    trf_error err;
    trf_status status;
    config.source_vocab = config.target_vocab = 12;
    config.hooks = training.hooks = *hooks;         /* each object has its own hooks */
    training.learning_rate = 1e-7;                  /* the library warns of a rate as low as this */
    training.source_tokens = training.target_tokens = 64;       /* a small plan: little memory */
    h->calls_left = 1000;
    status = trf_model_create(&model, &config, NULL, &err);
    if (!status) status = trf_trainer_create(&trainer, model, &training, &err);
    while (!status) status = trf_trainer_step(trainer, &batch, &step, &err);
    report("training", &err);
    if (trf_trainer_report(trainer, &step, NULL) == TRF_OK) printf("[host] cancelled after %d steps\n", (int)step.step);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return status;
}

int main(void)
{
    host h = {0, 0, 0, 0, 0};
    trf_hooks hooks = {NULL, host_alloc, host_free, host_log, host_cancel};
    trf_load_options loading = trf_load_defaults();
    trf_model *model = NULL;
    trf_error err;
    int expected = 0;
    hooks.user = &h;
    loading.hooks = hooks;
    h.limit = (size_t)64 << 20;
    if (trf_model_load(&model, "no/such/model.safetensors", &loading, &err))
        expected += report("loading", &err) == TRF_E_IO;
    expected += train(&h, &hooks) == TRF_E_CANCELLED;
    h.limit = (size_t)64 << 10;
    expected += train(&h, &hooks) == TRF_E_NOMEM;
    printf("[host] %lu bytes left in %ld blocks, at most %lu at a time\n", (unsigned long)h.bytes,
           h.blocks, (unsigned long)h.most);
    return expected < 3 || h.bytes || h.blocks;
}

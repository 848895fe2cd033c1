/* Two lines: a hash of forward, gradients, ten training steps with dropout, and translations, over
   models that use every op; and one of translations with weights in 8 and in 16 bits.
   tests/columns.sh builds it in many ways and compares. With an argument:
   one line per stage, to see where two builds part, and first the column that computes. A second
   argument is the kernel of 8 bits, counted from the end of its table, or 0; a third one the most
   bytes of a vector. Nothing of
   this may raise a floating-point exception: a host may have them end the program. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <fenv.h>
/* the kernel of 16 bits that has the same bits everywhere: the last one */
#define TRF__BF16_KERNEL (int)(sizeof trf__bf16_kernels / sizeof *trf__bf16_kernels) - 1
#if !defined(TRF_COLUMN)
static int hash_int8_kernel;
#define TRF__INT8_KERNEL hash_int8_kernel
#define TRF_IMPLEMENTATION
#endif
#include "transformer.h"

#if !defined(TRF_COLUMN)        /* else this file is nothing but the ops */
#include <stdio.h>
#include <stdlib.h>
#include "kit.h"

static int verbose, vector_bytes;

static void stage(const char *model, int step, const char *what, uint64_t hash)
{
    if (verbose)
        printf("%-28s step %2d  %-10s %016llx\n", model, step, what, (unsigned long long)hash);
}

typedef struct kind {
    const char *name;
    int kind, d, heads, f, vocab, place, rule, activation, tying, positions, start, smoothing,
        epsilon, optimizer;
    double dropout;
} kind;

static const kind kinds[] = {
    { "post, relu", 0, 32, 2, 64, 600, 0, 0, TRF_RELU, 0, 0, 0, 0, 0, 0, 0.1 },
    { "post, gelu, learned", 0, 20, 5, 37, 41, 0, 0, TRF_GELU, 0, 3, 2, 1, 1, 1, 0.2 },
    { "pre, silu, annotated, tied", 0, 48, 3, 80, 70, 1, 1, TRF_SILU, 2, 1, 1, 2, 2, 0, 0.1 },
    { "decoder only, gelu, pre", 2, 36, 2, 50, 530, 1, 0, TRF_GELU, 1, 2, 0, 3, 0, 1, 0.1 },
    { "pre, relu, no dropout", 0, 64, 1, 128, 33, 1, 0, TRF_RELU, 1, 4, 3, 0, 1, 1, 0 },
    { "post, gated, norm on embeddings", 0, 36, 2, 50, 41, 0, 0, TRF_GELU_TANH, 2, 3, 0, 0, 0, 0, 0.1 },
    { "decoder only, gated, RMS norm", 2, 32, 2, 80, 50, 1, 2, TRF_SILU, 0, 0, 0, 0, 0, 0, 0.1 },
};

#define MUST(call) \
    do if ((call) != TRF_OK) { fprintf(stderr, "%s: %s\n", #call, err.message); exit(1); } while (0)

static uint64_t translations(uint64_t hash, const trf_model *model, const trf_sequences *sources,
                             trf_weights weights)
{
    trf_search s = trf_search_defaults();
    trf_translator *translator = NULL;
    trf_error err;
    int32_t i, k;
    s.threads = 1;
    s.weights = weights;
    s.n_best = 3;
    s.max_length_a = 0;
    s.max_length_b = 8;
    MUST(trf_translator_create(&translator, model, &s, &err));
    MUST(trf_translate(translator, sources, NULL, &err));
    for (i = 0; i < sources->count; i++)
        for (k = 0; k < kit_count(translator, i); k++) {
            const trf_hypothesis *h = trf_translator_answer(translator, i, k);
            hash = hash_bytes(hash, h->ids, (size_t)h->n * sizeof *h->ids);
            hash = hash_bytes(hash, &h->log_probability, sizeof h->log_probability);
            hash = hash_bytes(hash, &h->score, sizeof h->score);
        }
    trf_translator_destroy(translator);
    return hash;
}

static uint64_t hash_of(const kind *k, uint64_t hash, uint64_t *small)
{
    static kit_pairs data;
    trf_config c = kit_config();
    trf_train_options o = kit_training();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    trf_error err;
    trf_batch batch;
    size_t output;
    int step;
    c.kind = (trf_kind)k->kind;
    c.encoder_layers = c.kind == TRF_DECODER_ONLY ? 0 : 2;
    c.decoder_layers = 2;
    c.d_model = k->d; c.n_heads = k->heads; c.d_ff = k->f;
    c.source_vocab = c.target_vocab = k->vocab;
    c.max_length = 64;
    c.norm_place = (trf_norm_place)k->place; c.norm_rule = (trf_norm_rule)k->rule;
    c.activation = (trf_activation)k->activation; c.tying = (trf_tying)k->tying;
    c.embedding_norm = c.activation == TRF_GELU_TANH;
    c.feed_forward_gate = c.embedding_norm || c.norm_rule == TRF_NORM_RMS;
    c.positions = (trf_positions)k->positions; c.decoder_start = (trf_decoder_start)k->start;
    c.device.threads = o.threads = 1;
    c.device.products = TRF_PRODUCTS_BUILT_IN;
    c.device.vector_bytes = vector_bytes;
    o.smoothing_rule = (trf_smoothing)k->smoothing; o.epsilon_rule = (trf_adam_epsilon)k->epsilon;
    o.optimizer = (trf_optimizer)k->optimizer;
    o.weight_decay = 0.01;
    o.warmup = 20;
    o.source_tokens = o.target_tokens = 1024;
    o.longest = 64;
    trf_train_set_dropout(&o, k->dropout);
    MUST(trf_model_create(&model, &c, NULL, &err));
    MUST(trf_trainer_create(&trainer, model, &o, &err));
    stage(k->name, 0, "start", hash = hash_weights(hash, model));
    for (step = 1; step <= 10; step++) {
        batch = kit_fill(&data, step % 2 ? 12 : 3, 0, step % 2 ? 20 : 50, k->vocab, (uint64_t)step);
        MUST(trf_trainer_forward_backward(trainer, &batch, &report, &err));
        output = (size_t)(report.target_tokens * k->d) * sizeof(trf_real);
        stage(k->name, step, "output",
              hash = hash_bytes(hash, (const void *)trainer->pass.decoder.out, output));
        stage(k->name, step, "loss", hash = hash_bytes(hash, &report.loss, sizeof report.loss));
        stage(k->name, step, "gradients", hash = hash_gradients(hash, trainer));
        MUST(trf_trainer_update(trainer, &report, &err));
        stage(k->name, step, "norm",
              hash = hash_bytes(hash, &report.gradient_norm, sizeof report.gradient_norm));
        stage(k->name, step, "weights", hash = hash_weights(hash, model));
    }
    batch = kit_fill(&data, 5, 1, 12, k->vocab, 99);
    MUST(trf_trainer_evaluate(trainer, &batch, NULL, &report, &err));
    stage(k->name, step, "evaluate", hash = hash_bytes(hash, &report.nll, sizeof report.nll));
    stage(k->name, step, "translate", hash = translations(hash, model, &batch.source, TRF_WEIGHTS_FULL));
    stage(k->name, step, "int8",
          *small = translations(*small, model, &batch.source, TRF_WEIGHTS_INT8));
    stage(k->name, step, "bf16",
          *small = translations(*small, model, &batch.source, TRF_WEIGHTS_BF16));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return hash;
}

int main(int argc, char **argv)
{
    uint64_t hash = HASH_START, small = HASH_START;
    size_t i;
    int kernels = (int)(sizeof trf__int8_kernels / sizeof *trf__int8_kernels);
    trf_device device = trf_device_default();
    if (argc > 2 && atoi(argv[2])) hash_int8_kernel = kernels - atoi(argv[2]);
    if (argc > 3) vector_bytes = atoi(argv[3]);
    device.vector_bytes = vector_bytes;
#if defined(__GLIBC__)
    feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
#endif
    verbose = argc > 1;
    if (verbose && trf__backend_of(&device)) printf("column %s\n", trf__backend_of(&device)->name);
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) hash = hash_of(&kinds[i], hash, &small);
    printf("%016llx\nsmall %016llx\n", (unsigned long long)hash, (unsigned long long)small);
    return 0;
}
#endif

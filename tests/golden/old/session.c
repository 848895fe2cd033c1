/* session.c - for make.sh: a generator's session and a checkpoint, and what becomes of them, of the transformer.h it is
   compiled with. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include "steps.h"

static int generate(void)
{
    int32_t ids[16], lengths[3] = {0, 0, 0}, i, n, used = 0;
    const char *const texts[3] = {"two", "", "nine zero"};
    trf_model *model;
    trf_sampler *generator;
    trf_sampling sampling = trf_sampling_defaults();
    trf_batch begin;
    trf_error err;
    FILE *out = fopen("session.out", "w");
    sampling.threads = 1;
    sampling.temperature = 0.9;
    sampling.top_k = 5;
    sampling.seed = 7;
    sampling.min_tokens = 10;
    sampling.max_tokens = 20;
    memset(&begin, 0, sizeof begin);
    if (!out || trf_model_load(&model, "causal", NULL, &err)) return 1;
    for (i = 0; i < 3; i++) {
        if (trf_vocab_encode(trf_model_target_vocab(model), texts[i], 0, ids + used, 16 - used, &n, &err)) return 1;
        used += lengths[i] = n;
    }
    begin.target.ids = ids;
    begin.target.lengths = lengths;
    begin.target.count = 3;
    if (trf_sampler_create(&generator, model, &sampling, &err) || trf_sampler_begin(generator, &begin, &err) ||
        trf_sampler_step(generator, 3, NULL, &err) || trf_sampler_save(generator, "session", &err)) return 1;
    trf_sampler_destroy(generator);
    if (steps_generate(model, "session", out)) return 1;
    trf_model_destroy(model);
    return fclose(out);
}

static int train(void)
{
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus;
    trf_error err;
    trf_config config = trf_config_preset(TRF_TINY);
    trf_train_options training = trf_train_defaults();
    int32_t i;
    FILE *out = fopen("state.out", "w");
    config.source_vocab = config.target_vocab = 14;
    config.d_model = 8;
    config.d_ff = 16;
    config.n_heads = 2;
    config.encoder_layers = config.decoder_layers = 1;
    config.max_length = 16;
    training.threads = 1;
    training.warmup = 20;
    training.learning_rate = 0.2;       /* a factor: the schedule is Noam's */
    training.seed = 6;
    if (!out || trf_model_create(&model, &config, &err) || trf_trainer_create(&trainer, model, &training, &err) ||
        steps_corpus(&corpus, &err)) return 1;
    for (i = 0; i < 25; i++) {
        trf_batch batch;
        if (trf_corpus_next(corpus, &batch, &err) || trf_train_step(trainer, &batch, NULL, &err)) return 1;
    }
    if (trf_checkpoint_save(trainer, corpus, "state", &err) || steps_train(trainer, corpus, out)) return 1;
    trf_corpus_destroy(corpus);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return fclose(out);
}

static int look(void)
{
    trf_model *model;
    trf_error err;
    FILE *out = fopen("mask.out", "w");
    if (!out || trf_model_load(&model, "mask", NULL, &err) || steps_masked(model, steps_lines, 3, out)) return 1;
    trf_model_destroy(model);
    return fclose(out);
}

int main(void) { return generate() || train() || look(); }

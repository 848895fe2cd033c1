/* copy.c - a training loop of your own, on batches of ids: a model learns to copy what it reads.

   build   cc -O2 -I. examples/copy.c -o copy -lopenblas -lm
   run     ./copy
   prints  the loss as it falls to nearly 0, and "5 9 7 -> 5 9 7"; leaves copy.safetensors behind,
           which trf_model_load and PyTorch read. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>

/* 32 pairs of 3 to 10 random ids from 4 to 23; ids 0 to 3 are special. The target is the source. */
static trf_batch next_copy_task(void)
{
    static int32_t ids[32 * 10], lengths[32];
    trf_batch batch = {{ids, lengths, 32}, {ids, lengths, 32}, 0, {0, 0, 0}};
    int i, j, n = 0;
    for (i = 0; i < 32; i++) {
        lengths[i] = 3 + rand() % 8;
        for (j = 0; j < lengths[i]; j++) ids[n++] = 4 + rand() % 20;
    }
    return batch;
}

int main(void)
{
    trf_error err;
    trf_model *model = NULL; trf_trainer *trainer = NULL; trf_translator *translator = NULL;
    int32_t source[] = {5, 9, 7}, length = 3;
    const trf_sequences asked = {source, &length, 1};   /* a batch of one */
    const trf_hypothesis *best;
    int step, i, failed = 1;

    trf_config config = trf_config_preset(TRF_TINY);
    trf_train_options training = trf_train_defaults();  /* Adam; a rate up to 1e-3 */
    config.source_vocab = config.target_vocab = 24;

    if (trf_model_create(&model, &config, NULL, &err)) goto done;
    if (trf_trainer_create(&trainer, model, &training, &err)) goto done;
    for (step = 1; step <= 400; step++) {
        trf_batch batch = next_copy_task();     /* ids one after another, and lengths: no padding */
        trf_step_report report;
        if (trf_trainer_step(trainer, &batch, &report, &err)) goto done;
        if (step % 100 == 0)
            printf("step %d  loss %.4f  lr %.2e\n", step, report.loss, report.learning_rate);
    }
    if (trf_model_save(model, "copy.safetensors", NULL, &err)) goto done;

    if (trf_translator_create(&translator, model, NULL, &err)) goto done;
    if (trf_translate(translator, &asked, NULL, &err)) goto done;
    best = trf_translator_answer(translator, 0, 0);         /* of sentence 0 the best */
    printf("5 9 7 ->");
    for (i = 0; i < best->n; i++) printf(" %d", (int)best->ids[i]);
    printf("\n");
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    trf_translator_destroy(translator); trf_trainer_destroy(trainer); trf_model_destroy(model);
    return failed;
}

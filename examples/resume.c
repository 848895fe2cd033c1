/* resume.c - training that continues where it was stopped, bit for bit, and which errors to
   handle.

   build   cc -O2 -I. examples/resume.c -o resume -lopenblas -lm
   run     ./resume               Ctrl-C ends it; run it again and it continues
   prints  the loss every 50 updates; after 300 updates it leaves resume.safetensors, the model
   exits   with 1 if a call failed */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>

enum { UPDATES = 300, EVERY = 50 };

static const char checkpoint[] = "resume.checkpoint";
static volatile sig_atomic_t stopping;
static void stop(int number) { (void)number; stopping = 1; }

/* The same data in every run: the checkpoint holds the position in them, not the data. */
static trf_dataset *read_data(trf_error *err)
{
    trf_dataset_options options = trf_dataset_defaults();
    trf_dataset *data = NULL;
    char source[64], target[64];
    trf_status status;
    int i;
    options.updates = UPDATES;
    status = trf_dataset_create(&data, &options, err);
    for (i = 0; i < 10000 && !status; i++) {
        snprintf(source, sizeof source, "%d hours and %d minutes", i / 100, i % 100);
        snprintf(target, sizeof target, "%d minutes", i / 100 * 60 + i % 100);
        status = trf_dataset_add(data, source, target, err);
    }
    if (!status) status = trf_dataset_finish(data, err);
    if (status) { trf_dataset_destroy(data); return NULL; }
    return data;
}

/* From the checkpoint or, if there is none yet, from the beginning. */
static trf_status begin(trf_model **model, trf_trainer **trainer, trf_dataset *data, trf_error *err)
{
    trf_corpus *corpus = trf_dataset_results(data)->corpus;
    trf_step_report report;
    trf_status status = trf_checkpoint_load(model, trainer, corpus, checkpoint, NULL, NULL, err);
    if (!status) status = trf_trainer_report(*trainer, &report, err);
    if (!status) printf("continues after update %d\n", (int)report.step);
    if (status == TRF_E_CHECKSUM) fprintf(stderr, "%s is damaged: remove it\n", checkpoint);
    if (status != TRF_E_IO || err->sys_errno != ENOENT) return status;
    status = trf_dataset_create_model(data, model, err);
    if (status) return status;
    return trf_trainer_create(trainer, *model, &trf_dataset_results(data)->recipe->training, err);
}

int main(void)
{
    trf_error err;
    trf_dataset *data = read_data(&err);
    trf_model *model = NULL; trf_trainer *trainer = NULL;
    trf_step_report report;
    trf_corpus *corpus = data ? trf_dataset_results(data)->corpus : NULL;
    int failed = 1;
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    if (!data || begin(&model, &trainer, data, &err)) goto done;
    if (trf_trainer_report(trainer, &report, &err)) goto done;
    while (report.step < UPDATES && !stopping) {
        trf_batch batch;
        if (trf_corpus_next(corpus, &batch, &err)) goto done;
        if (trf_trainer_step(trainer, &batch, &report, &err)) goto done;
        if (report.skipped) fputs("an update was skipped: its gradient is not finite\n", stderr);
        if (report.step % EVERY) continue;
        printf("update %d  loss %.4f\n", (int)report.step, report.loss);
        if (trf_checkpoint_save(trainer, corpus, checkpoint, NULL, &err)) goto done;
    }
    if (trf_checkpoint_save(trainer, corpus, checkpoint, NULL, &err)) goto done;
    if (!stopping && trf_model_save(model, "resume.safetensors", NULL, &err)) goto done;
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s: %s\n", trf_status_name((trf_status)err.status), err.message);
    trf_trainer_destroy(trainer); trf_model_destroy(model); trf_dataset_destroy(data);
    return failed;
}

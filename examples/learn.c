/* learn.c - from text files to a model, every setting found by the library. Ctrl-C interrupts it; the
   same command goes on, and ends with the model of a run without a break, bit for bit.

   build   cc -O2 -I. examples/learn.c -o learn -lopenblas -lm
   run     ./learn pairs.tsv model                             a line: source, tab, target
           ./learn source.txt target.txt model                 line n belongs to line n
           ./learn source.txt target.txt model pieces.model    subwords of this SentencePiece model
   prints  what was chosen and why, then each validation. `trf translate` and examples/raw.c use the
           model. With the same tokens and --metric wer (for characters cer), `trf train` makes the
           same one, bit for bit.
   exits   with 1 if a call failed, with 130 if it was interrupted: model.checkpoint is there then */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t interrupted;
static void on_interrupt(int number) { (void)number; interrupted = 1; }
static int cancel(void *user) { (void)user; return interrupted; }

static int show(void *user, const trf_learn_progress *p)
{
    (void)user;
    if (p->validated)
        printf("update %d  loss %.4f  score %.2f%s\n", (int)p->update->step, p->loss, p->score,
               p->is_best ? "  best so far" : "");
    return 0;
}

/* trf_trainer_learn calls it where a run can go on from: every save_every updates, after a new best
   validation, and when it ends or is interrupted. */
static void save(void *user, const trf_trainer *trainer, const trf_corpus *corpus)
{
    trf_error err;
    if (trf_checkpoint_save(trainer, corpus, (const char *)user, NULL, &err))
        fprintf(stderr, "no checkpoint: %s\n", err.message);
}

int main(int argc, char **argv)
{
    trf_error err;
    trf_dataset_options options = trf_dataset_defaults();
    trf_load_options loading = trf_load_defaults();
    trf_dataset *data = NULL; trf_model *model = NULL;
    trf_trainer *trainer = NULL; trf_vocab *pieces = NULL;
    trf_learn_options *learning;
    trf_step_report so_far;
    const trf_data_results *results;
    trf_recipe *recipe;
    char checkpoint[1024];
    const char *path = argv[argc > 3 ? 3 : argc - 1];
    int failed = 1;
    if (argc < 3 || argc > 5) {
        fprintf(stderr, "usage: learn PAIRS MODEL\n       learn SOURCE TARGET MODEL [PIECES]\n");
        return 2;
    }
    snprintf(checkpoint, sizeof checkpoint, "%s.checkpoint", path);
    if (argc > 4 && trf_vocab_load(&pieces, argv[4], NULL, &err)) goto done;
    options.source_vocab = options.target_vocab = pieces;
    if (trf_dataset_create(&data, &options, &err)) goto done;
    if (trf_dataset_read(data, argv[1], argc > 3 ? argv[2] : NULL, 0, &err)) goto done;
    if (trf_dataset_finish(data, &err)) goto done;
    results = trf_dataset_results(data);
    recipe = results->recipe;
    printf("%s", recipe->reasons);

    signal(SIGINT, on_interrupt);
    loading.hooks.cancel = recipe->training.hooks.cancel = cancel;
    learning = &recipe->learning;
    learning->progress = show;
    learning->save = save;
    learning->save_every = 1000;
    learning->user = checkpoint;
    if (!trf_checkpoint_load(&model, &trainer, results->corpus, checkpoint,
                             &recipe->training, &loading, &err)) {
        if (trf_trainer_report(trainer, &so_far, &err)) goto done;
        printf("continuing after update %d\n", (int)so_far.step);
        learning->resume = 1;
    } else if (err.status == TRF_E_IO && err.sys_errno == ENOENT) {     /* no file: begin */
        if (trf_dataset_create_model(data, &model, &err)) goto done;
        if (trf_trainer_create(&trainer, model, &recipe->training, &err)) goto done;
    } else goto done;           /* damaged, or of other data: leave the file as it is */

    if (trf_trainer_learn(trainer, results->corpus, results->held_out, learning, NULL, &err)) goto done;
    if (trf_model_save(model, path, NULL, &err)) goto done;       /* it has the best weights */
    remove(checkpoint);
    failed = 0;
done:
    if (failed && interrupted) printf("interrupted: the same command goes on\n");
    else if (failed) fprintf(stderr, "%s\n", err.message);
    trf_trainer_destroy(trainer); trf_model_destroy(model);
    trf_dataset_destroy(data); trf_vocab_destroy(pieces);
    return failed && interrupted ? 130 : failed;
}

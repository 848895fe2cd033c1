/* learn.c - from text files to a model, every setting found by the library.

   build   cc -O2 -march=native -I. examples/learn.c -o learn -lopenblas -lm
   run     ./learn pairs.tsv model                             a line: source, tab, target
           ./learn source.txt target.txt model                 line n belongs to line n
           ./learn source.txt target.txt model pieces.model    subwords of this SentencePiece model
   prints  what was chosen and why, then each validation. `trf translate` and examples/raw.c use the
           model. With the same tokens and --metric wer (for characters cer), `trf train` makes the
           same one, bit for bit.
   exits   with 1 if a call failed */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>

static int show(void *user, const trf_learn_progress *p)
{
    (void)user;
    if (p->validated)
        printf("update %d  loss %.4f  score %.2f%s\n", (int)p->update->step, p->loss, p->score,
               p->is_best ? "  best so far" : "");
    return 0;
}

int main(int argc, char **argv)
{
    trf_error err;
    trf_dataset_options options = trf_dataset_defaults();
    trf_dataset *data = NULL; trf_model *model = NULL;
    trf_trainer *trainer = NULL; trf_vocab *pieces = NULL;
    trf_recipe *recipe;
    int failed = 1;
    if (argc < 3 || argc > 5) {
        fprintf(stderr, "usage: learn PAIRS MODEL\n       learn SOURCE TARGET MODEL [PIECES]\n");
        return 2;
    }
    if (argc > 4 && trf_vocab_load_sentencepiece(&pieces, argv[4], NULL, &err)) goto done;
    options.source_vocab = options.target_vocab = pieces;
    if (trf_dataset_create(&data, &options, &err)) goto done;
    if (trf_dataset_read(data, argv[1], argc > 3 ? argv[2] : NULL, &err)) goto done;
    if (trf_dataset_finish(data, &err)) goto done;
    recipe = trf_dataset_recipe(data);
    printf("%s", recipe->reasons);
    recipe->learning.progress = show;
    if (trf_dataset_create_model(data, &model, &err)) goto done;
    if (trf_trainer_create(&trainer, model, &recipe->training, &err)) goto done;
    if (trf_learn(trainer, trf_dataset_corpus(data), trf_dataset_held_out(data),
                  &recipe->learning, NULL, &err)) goto done;
    if (trf_model_save(model, argv[argc > 3 ? 3 : 2], &err)) goto done;
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    trf_trainer_destroy(trainer); trf_model_destroy(model);
    trf_dataset_destroy(data); trf_vocab_destroy(pieces);
    return failed;
}

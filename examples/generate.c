/* generate.c - a language model: learns texts letter by letter, then writes more of them.

   build   cc -O2 -I. examples/generate.c -o generate -lopenblas -lm
   run     ./generate                           sums, which it makes itself (half a minute)
           ./generate FILE [BEGINNING [UPDATES]]        each line of the file is a text
   prints  what was chosen from the data, each validation, then a text letter by letter:
           "9+8=17 3+0=3 ...", in which nearly all sums are right */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int show(void *user, const trf_learn_progress *p)
{
    (void)user;
    if (p->validated) printf("update %d  loss %.4f\n", (int)p->update->step, p->loss);
    return fflush(stdout);
}

/* Called for each token with the text that it adds: whole characters. */
static void print_text(void *user, int32_t sequence, int32_t id, const char *text, size_t bytes)
{
    (void)user; (void)sequence; (void)id;
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    trf_error err;
    trf_dataset_options options = trf_dataset_defaults();
    trf_sampling sampling = trf_sampling_defaults();
    trf_dataset *data = NULL; trf_model *model = NULL;
    trf_trainer *trainer = NULL; trf_sampler *sampler = NULL;
    const trf_data_results *results;
    trf_recipe *recipe;
    const char *beginning = argc > 2 ? argv[2] : "9+8=";
    char text[64];
    int32_t ids[256], n, live = 1;
    trf_batch begin = {{NULL, NULL, 0}, {ids, &n, 1}, 0, {0, 0, 0}};
    int i, k, n_text, failed = 1;
    options.kind = TRF_DATA_TEXTS;
    options.target_tokens = TRF_TOKENS_CHARACTERS;
    options.updates = argc > 3 ? atoi(argv[3]) : 1500;
    if (trf_dataset_create(&data, &options, &err)) goto done;
    if (argc > 1 && trf_dataset_read(data, argv[1], NULL, 0, &err)) goto done;
    for (i = 0; i < 5000 && argc == 1; i++) {
        for (k = n_text = 0; k < 6; k++) {
            int a = rand() / 64 % 10, b = rand() / 64 % 10;
            n_text += sprintf(text + n_text, "%s%d+%d=%d", k ? " " : "", a, b, a + b);
        }
        if (trf_dataset_add(data, NULL, text, &err)) goto done;
    }
    if (trf_dataset_finish(data, &err)) goto done;
    results = trf_dataset_results(data);
    recipe = results->recipe;
    recipe->learning.progress = show;
    printf("%s", recipe->reasons);
    if (trf_dataset_create_model(data, &model, &err)) goto done;
    if (trf_trainer_create(&trainer, model, &recipe->training, &err)) goto done;
    if (trf_trainer_learn(trainer, results->corpus, results->held_out, &recipe->learning, NULL, &err)) goto done;

    sampling.temperature = 0.5;                         /* below 1: likely letters more often */
    sampling.max_tokens = 60;
    sampling.token = print_text;
    if (trf_sampler_create(&sampler, model, &sampling, &err)) goto done;
    if (trf_vocab_encode(trf_model_vocab(model, TRF_TARGET), beginning, 0, ids, 256, &n, &err)) goto done;
    if (trf_sampler_begin(sampler, &begin, &err)) goto done;
    printf("%s", beginning);
    while (live) if (trf_sampler_step(sampler, 1, &live, &err)) goto done;      /* one token */
    printf("\n");
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    trf_sampler_destroy(sampler); trf_trainer_destroy(trainer);
    trf_model_destroy(model); trf_dataset_destroy(data);
    return failed;
}

/* dates.c - the header's first page: pairs of texts in, a model out, no setting chosen by hand.

   build   cc -O2 -I. examples/dates.c -o dates -lopenblas -lm
   run     ./dates                (about a minute)
   prints  "14 July 2001 -> 2001-07-14". It leaves dates.safetensors behind, which `trf translate`
           and examples/raw.c use.
   exits   with 1 if a call failed */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>

int main(void)
{
    static const char *const months[] = {"January", "February", "March", "April", "May",
        "June", "July", "August", "September", "October", "November", "December"};
    trf_error err;
    trf_dataset *data = NULL; trf_model *model = NULL;
    trf_trainer *trainer = NULL; trf_translator *translator = NULL;
    trf_recipe *recipe;
    char source[64], target[64];
    int i, failed = 1;

    if (trf_dataset_create(&data, NULL, &err)) goto done;
    for (i = 0; i < 10000; i++) {
        int day = 1 + i % 28, month = i / 28 % 12, year = 1990 + i / 336;
        if (i % 100 == 77) continue;            /* 14 July 2001 and 99 others: never seen */
        snprintf(source, sizeof source, "%d %s %d", day, months[month], year);
        snprintf(target, sizeof target, "%d-%02d-%02d", year, month + 1, day);
        if (trf_dataset_add(data, source, target, &err)) goto done;
    }
    if (trf_dataset_finish(data, &err)) goto done;      /* vocabularies, held-out pairs, */
    recipe = trf_dataset_recipe(data);                  /* settings, and why: ->reasons */
    if (trf_dataset_create_model(data, &model, &err)) goto done;
    if (trf_trainer_create(&trainer, model, &recipe->training, &err)) goto done;
    if (trf_learn(trainer, trf_dataset_corpus(data), trf_dataset_held_out(data),
                  &recipe->learning, NULL, &err)) goto done;
    if (trf_model_save(model, "dates.safetensors", &err)) goto done;
    if (trf_translator_create(&translator, model, NULL, &err)) goto done;
    if (trf_translate_text(translator, "14 July 2001", target, sizeof target, &err))
        goto done;
    printf("14 July 2001 -> %s\n", target);
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    trf_translator_destroy(translator); trf_trainer_destroy(trainer);
    trf_model_destroy(model); trf_dataset_destroy(data);
    return failed;
}

/* dates.c - a program of one's own: pairs of texts in, a model out, without a setting of its own.

   build   cc -O2 -march=native -I. examples/dates.c -o dates -lopenblas -lm
   run     ./dates                (about a minute)
   prints  "14 July 2001 -> 2001-07-14". It leaves dates.safetensors behind, which `trf translate --model
           dates.safetensors` and examples/raw.c use. trf_dataset_recipe(data)->reasons has what the data decided.
   exits   with 1 if a call failed. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>

int main(void)
{
    static const char *const months[] = {"January", "February", "March", "April", "May", "June",
        "July", "August", "September", "October", "November", "December"};
    trf_error err;
    trf_dataset *data; trf_model *model = NULL; trf_trainer *trainer = NULL; trf_translator *translator = NULL;
    char source[64], target[64];
    int i, failed = trf_dataset_create(&data, NULL, &err);

    for (i = 0; i < 10000 && !failed; i++) {
        int day = 1 + i % 28, month = i / 28 % 12, year = 1990 + i / 336;
        snprintf(source, sizeof source, "%d %s %d", day, months[month], year);
        snprintf(target, sizeof target, "%d-%02d-%02d", year, month + 1, day);
        failed = trf_dataset_add(data, source, target, &err);
    }
    failed = failed || trf_dataset_finish(data, &err) || trf_dataset_model(data, &model, &err) ||
        trf_trainer_create(&trainer, model, &trf_dataset_recipe(data)->training, &err) ||
        trf_learn(trainer, trf_dataset_corpus(data), trf_dataset_held_out(data),
                  &trf_dataset_recipe(data)->learning, NULL, &err) ||
        trf_model_save(model, "dates.safetensors", &err) ||
        trf_translator_create(&translator, model, NULL, &err) ||
        trf_translate_text(translator, "14 July 2001", target, sizeof target, &err);
    if (failed) fprintf(stderr, "%s\n", err.message);
    else printf("14 July 2001 -> %s\n", target);
    trf_translator_destroy(translator); trf_trainer_destroy(trainer);
    trf_model_destroy(model); trf_dataset_destroy(data);
    return failed != 0;
}

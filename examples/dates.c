/* dates.c - the header's first page: pairs of texts in, a model out, no setting chosen by hand.

   build   cc -O2 -I. examples/dates.c -o dates -lopenblas -lm
   run     ./dates                (ten seconds)
   prints  how training goes, and "14 July 2001 -> 2001-07-14". It leaves dates.safetensors behind,
           which `trf translate` and examples/raw.c use.
   exits   with 1 if a call failed */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>

static void say(void *user, const char *line) { (void)user; puts(line); }

int main(void)
{
    static const char *const months[] = {"January", "February", "March", "April", "May",
        "June", "July", "August", "September", "October", "November", "December"};
    trf_error err; trf_dataset *data = NULL; trf_model *model = NULL;
    trf_translator *translator = NULL;
    trf_dataset_options options = trf_dataset_defaults();
    char source[64], target[64];
    int i, failed;

    options.say = say;
    failed = trf_dataset_create(&data, &options, &err);
    for (i = 0; i < 6720 && !failed; i++) {
        int day = 1 + i % 28, month = i / 28 % 12, year = 1990 + i / 336;
        if (i % 100 == 77) continue;            /* 14 July 2001 and 66 others: never seen */
        snprintf(source, sizeof source, "%d %s %d", day, months[month], year);
        snprintf(target, sizeof target, "%d-%02d-%02d", year, month + 1, day);
        failed = trf_dataset_add(data, source, target, &err);
    }
    failed = failed || trf_dataset_train(data, &model, NULL, &err) ||
             trf_model_save(model, "dates.safetensors", NULL, &err) ||
             trf_translator_create(&translator, model, NULL, &err) ||
             trf_translate_text(translator, "14 July 2001", target, sizeof target, &err);
    if (failed) fprintf(stderr, "%s\n", err.message);
    else printf("14 July 2001 -> %s\n", target);
    trf_translator_destroy(translator); trf_model_destroy(model); trf_dataset_destroy(data);
    return failed;
}

/* app.c - translates a text with a model of `trf train`; fetched/ and installed/ build it.
   run     app MODEL TEXT
   prints  the translation; without arguments, how the header was compiled */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    trf_error err;
    trf_model *model = NULL;
    trf_translator *translator = NULL;
    char answer[4096];
    int failed;
    if (argc != 3) return puts(trf_device_text(NULL, answer, sizeof answer)) < 0;
    failed = trf_model_load(&model, argv[1], NULL, &err) || trf_translator_create(&translator, model, NULL, &err) ||
             trf_translate_text(translator, argv[2], answer, sizeof answer, &err);
    if (failed) fprintf(stderr, "%s\n", err.message);
    else puts(answer);
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    return failed;
}

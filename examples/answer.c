/* answer.c - loads a model and uses it: the program of README.

   build   cc -O2 -DTRF_IMPLEMENTATION -I. examples/answer.c -o answer -lopenblas -lm
   run     ./answer               (after ./dates, whose model it reads)
   prints  "1998-05-09"
   exits   with 1 if a call failed */
#include "transformer.h"
#include <stdio.h>

int main(void)
{
    trf_error err; trf_model *model; trf_translator *translator; char answer[512];
    if (trf_model_load(&model, "dates.safetensors", NULL, &err) ||
        trf_translator_create(&translator, model, NULL, &err) ||
        trf_translate_text(translator, "9 May 1998", answer, sizeof answer, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    puts(answer);
    return 0;
}

/* say.c - English words to phones (ARPAbet), by a model that learned a pronouncing dictionary.

   build   cc -O2 -I. examples/say.c -o say -lopenblas -lm
   run     ./say 'Hello, World!'                    with examples/models/en-phones.safetensors
           ./say other.safetensors hello            with another model: the first argument names it
           echo hello | ./say                       words of standard input
   prints  a line for each word, as CMUdict has them: "hello", a tab, "HH EH L OW". Letters beyond
           a to z are left out: CMUdict has none
   exits   with 1 if a call failed */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* CMUdict's words have small letters, apostrophes, hyphens and dots, but no other mark. */
static int say(trf_translator *translator, const char *text, trf_error *err)
{
    char word[256], phones[1024];
    while (*text) {
        size_t n = 0;
        for (; *text && !isspace((unsigned char)*text); text++)
            if ((isalpha((unsigned char)*text) || strchr("'-.", *text)) && n < sizeof word - 1)
                word[n++] = (char)tolower((unsigned char)*text);
        word[n] = 0;
        if (n && strchr(word, '.') == word + n - 1) word[--n] = 0;     /* "end.", but not "a.m." */
        if (n && trf_translate_text(translator, word, phones, sizeof phones, err)) return 1;
        if (n) printf("%s\t%s\n", word, phones);
        if (*text) text++;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int named = argc > 1 && strstr(argv[1], ".safetensors") != NULL, i = 1 + named, failed;
    const char *path = named ? argv[1] : "examples/models/en-phones.safetensors";
    trf_error err; trf_model *model = NULL; trf_translator *translator = NULL; char word[256];

    failed = trf_model_load(&model, path, NULL, &err) ||
             trf_translator_create(&translator, model, NULL, &err);
    if (!failed && i == argc)
        while (!failed && scanf("%255s", word) == 1) failed = say(translator, word, &err);
    for (; !failed && i < argc; i++) failed = say(translator, argv[i], &err);
    if (failed) fprintf(stderr, "%s\n", err.message);
    trf_translator_destroy(translator); trf_model_destroy(model);
    return failed;
}

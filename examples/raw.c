/* raw.c - translates lines of raw text with a model made by `trf train`; it needs no other file.

   build   cc -O2 -I. examples/raw.c -o raw -lopenblas -lm
   run     ./raw en-de.safetensors <test.en
   prints  one answer for each line. A blank line gives an empty answer. So does a line that is too
           long for the model or is not UTF-8; the reason goes to standard error.
   exits   with 1 if a line had no answer for such a reason, or a call failed */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <string.h>

/* The next line without its end; anything beyond size - 1 bytes is dropped. */
static int read_line(char *line, size_t size)
{
    size_t n = 0;
    int c = getchar();
    if (c == EOF) return 0;
    for (; c != EOF && c != '\n'; c = getchar()) if (n < size - 1) line[n++] = (char)c;
    line[n] = 0;
    return 1;
}

static int translate_lines(const char *path)
{
    static char line[8192], answer[65536];
    trf_model *model = NULL;
    trf_translator *translator = NULL;
    trf_error err;
    int failed = trf_model_load(&model, path, NULL, &err) ||
                 trf_translator_create(&translator, model, NULL, &err);
    if (failed) fprintf(stderr, "%s\n", err.message);
    while (translator && read_line(line, sizeof line)) {
        if (!line[strspn(line, " \t\r")]) *answer = 0;
        else if (trf_translate_text(translator, line, answer, sizeof answer, &err)) {
            fprintf(stderr, "%s\n", err.message);
            failed = 1;
            *answer = 0;
        }
        puts(answer);
    }
    if (fflush(stdout) || ferror(stdout)) { perror("raw"); failed = 1; }
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc == 2) return translate_lines(argv[1]);
    fputs("usage: raw MODEL <lines\n", stderr);
    return 2;
}

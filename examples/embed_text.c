/* embed_text.c - how near the lines of a file are to a text, by a sentence encoder.

   model   trf import all-MiniLM-L6-v2 --output minilm.safetensors      (a folder of Hugging Face)
   build   cc -O2 -I. examples/embed_text.c -o embed_text -lopenblas -lm
   run     ./embed_text minilm.safetensors 'a dog on the grass' lines.txt | sort -rn | head
   prints  each line behind its cosine to the text, from -1 to 1; sorted, the nearest come first */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <string.h>

static trf_error err;
/* The vector of a text, of length 1, pooled as the model file says. */
static int embed(trf_reader *encoder, const trf_model *model, const char *text, trf_real *vector)
{
    int32_t ids[512], n;
    trf_sequences sentence = {ids, &n, 1};
    trf_tensor out = trf_tensor_of(vector, 2, 1, trf_model_config(model)->d_model, 1);
    return trf_vocab_encode(trf_model_vocab(model, TRF_SOURCE), text, 0, ids, 512, &n, &err) ||
           trf_reader_embed(encoder, &sentence, TRF_POOL_MODEL, 1, &out, &err);
}

int main(int argc, char **argv)
{
    static trf_real query[65536], vector[65536];
    static char line[65536];
    trf_model *model = NULL;
    trf_reader *encoder = NULL;
    FILE *file = argc == 4 ? fopen(argv[3], "r") : NULL;
    int32_t i, number = 0;
    if (!file) { fputs("usage: embed_text MODEL TEXT FILE\n", stderr); return 1; }
    if (trf_model_load(&model, argv[1], NULL, &err) ||
        trf_reader_create(&encoder, model, NULL, &err) || embed(encoder, model, argv[2], query))
        goto failed;
    for (number = 1; fgets(line, sizeof line, file); number++) {
        double cosine = 0;
        line[strcspn(line, "\r\n")] = 0;
        if (embed(encoder, model, line, vector)) goto failed;
        for (i = 0; i < trf_model_config(model)->d_model; i++)
            cosine += (double)query[i] * (double)vector[i];
        printf("%7.4f  %s\n", cosine, line);
    }
failed:
    if (err.status) fprintf(stderr, "line %d: %s\n", (int)number, err.message);
    trf_reader_destroy(encoder); trf_model_destroy(model);
    fclose(file);
    return err.status != TRF_OK;
}

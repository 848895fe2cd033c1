/* generate.c - a language model of characters: learns a text, then continues a beginning, letter by letter.

   build   cc -O2 -march=native -I. examples/generate.c -o generate -lopenblas -lm
   run     ./generate [FILE [BEGINNING [STEPS]]]       without a file: sums that it makes itself
   prints  the loss as it falls, then 60 characters as they are drawn: sums, nearly all of them right */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 64, BATCH = 8 };

static void print_text(void *user, int32_t sequence, int32_t id, const char *text, size_t bytes)
{
    (void)user; (void)sequence; (void)id;
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
}

/* The first MiB of a file, or sums as "3+4=7;8+9=17;"; NULL: it cannot be read. */
static char *read_text(const char *path)
{
    FILE *file = path ? fopen(path, "rb") : NULL;
    size_t n = 0, size = 1 << 20;
    char *text = path && !file ? NULL : (char *)malloc(size);
    if (!text) { perror(path); return NULL; }
    if (file) { n = fread(text, 1, size - 1, file); fclose(file); }
    if (n == size - 1) while (n && (text[n - 1] & 0x80)) n--;                           /* no character is cut in two */
    while (!path && n < 60000) { int a = rand() % 10, b = rand() % 10; n += (size_t)sprintf(text + n, "%d+%d=%d;", a, b, a + b); }
    text[n] = 0;
    return text;
}

int main(int argc, char **argv)
{
    static int32_t pieces[BATCH * LENGTH], lengths[BATCH], start[LENGTH];
    trf_error err = {0, 0, 0, "", ""};
    trf_vocab *vocab = NULL; trf_model *model = NULL; trf_trainer *trainer = NULL; trf_sampler *generator = NULL;
    trf_data_stats stats; trf_recipe recipe;
    trf_sampling sampling = trf_sampling_defaults();
    const char *beginning = argc > 2 ? argv[2] : ";";
    char *text = read_text(argc > 1 ? argv[1] : NULL);
    int32_t *ids = text ? (int32_t *)malloc((strlen(text) + 1) * sizeof *ids) : NULL, n, live = 1, step, i, failed = 1;
    int32_t steps = argc > 3 ? atoi(argv[3]) : 600;
    trf_batch batch = {{NULL, NULL, 0}, {pieces, lengths, BATCH}, 0, {0, 0, 0}};

    if (!ids || trf_vocab_create(&vocab, TRF_CHARACTERS, NULL, &err) || trf_vocab_learn(vocab, text, &err)) goto done;
    if (trf_vocab_finish(vocab, 1000, 1, &err)) goto done;
    if (trf_vocab_encode(vocab, text, ids, (int32_t)strlen(text), &n, &err)) goto done;
    if (n <= LENGTH) { fputs("the text must be longer than a line\n", stderr); goto done; }
    memset(&stats, 0, sizeof stats);
    stats.kind = TRF_DECODER_ONLY; stats.target_vocab = trf_vocab_size(vocab);
    stats.pairs = 1 + n / LENGTH; stats.target_tokens = n; stats.longest = LENGTH; stats.updates = steps > 0 ? steps : 0;
    if (trf_recipe_find(&recipe, &stats, &err)) goto done;
    if (trf_model_create(&model, &recipe.config, &err) || trf_model_set_vocabs(model, NULL, vocab, &err)) goto done;
    if (trf_trainer_create(&trainer, model, &recipe.training, &err)) goto done;
    for (step = 1; step <= steps; step++) {
        trf_step_report report;
        for (i = 0; i < BATCH; i++)
            memcpy(pieces + i * LENGTH, ids + rand() % (n - LENGTH), (size_t)(lengths[i] = LENGTH) * sizeof *ids);
        if (trf_train_step(trainer, &batch, &report, &err)) goto done;
        if (step % 50 == 0) printf("step %d  loss %.3f\n", (int)step, report.loss);
    }
    sampling.temperature = 0.5; sampling.top_p = 0.9; sampling.token = print_text;
    sampling.max_tokens = sampling.min_tokens = LENGTH - 4;     /* pieces end anywhere: an EOS means nothing here */
    if (trf_sampler_create(&generator, model, &sampling, &err)) goto done;
    if (trf_vocab_encode(vocab, beginning, start, LENGTH, lengths, &err)) goto done;
    batch.target.ids = start; batch.target.count = 1;
    if (trf_sampler_begin(generator, &batch, &err)) goto done;
    printf("%s", beginning);
    while (live) if (trf_sampler_step(generator, 1, &live, &err)) goto done;
    printf("\n"); if ((failed = fflush(stdout) || ferror(stdout))) perror("generate");
done:
    if (err.status) fprintf(stderr, "%s\n", err.message);
    trf_sampler_destroy(generator); trf_trainer_destroy(trainer); trf_model_destroy(model); trf_vocab_destroy(vocab);
    free(ids); free(text);
    return failed;
}

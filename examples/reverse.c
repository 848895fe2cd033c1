/* reverse.c - looks inside a model that writes words backwards: where does it look for each letter?

   build   cc -O2 -I. examples/reverse.c -o reverse -lopenblas -lm
   run     ./reverse              (half a minute)
           ./reverse 17           other weights, other words
   prints  the loss as it falls, "500 of 500 words right", and the cross-attention of one word as
           a picture: a line from top right to bottom left, as the last letter is written first
   exits   with 1 if a call failed or one of the 500 words was wrong.

   Words have 3 to 8 of the letters a to t. Those whose letters add up to a multiple of 8 are for
   testing only. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 50000, TESTS = 500, LONGEST = 8, UPDATES = 1200 };

static void next_word(char *word, char *reversed, int for_test)
{
    int sum, n, i;
    do {
        n = 3 + rand() / 64 % (LONGEST - 2);
        for (i = sum = 0; i < n; i++) sum += word[i] = (char)('a' + rand() / 64 % 20);
    } while ((sum % 8 == 0) != for_test);
    for (i = 0; i < n; i++) reversed[i] = word[n - 1 - i];
    word[n] = reversed[n] = 0;
}

static int show(void *user, const trf_learn_progress *p)
{
    (void)user;
    if (p->validated) printf("update %d  loss %.4f\n", (int)p->update->step, p->loss);
    return 0;
}

/* Draws the head of the decoder's cross-attention that looks most where it should: letter i of the
   answer is letter n - 1 - i of the word. A row is a query, a column a key. */
static trf_status draw(trf_translator *translator, const trf_model *model, trf_error *err)
{
    static const char word[] = "hcpjastl", back[] = "ltsajpch", shades[] = " .:-=+*#%@";
    int32_t source[LONGEST], target[LONGEST], n = LONGEST, i, j, best = 0, heads;
    trf_batch batch = {{source, &n, 1}, {target, &n, 1}, 0, {0, 0, 0}};
    double most = -1;
    int64_t keys, size, head;
    const trf_real *weights;
    trf_tensor cross;
    trf_reading seen;
    if (trf_vocab_encode(trf_model_vocab(model, TRF_SOURCE), word, 0, source, n, &n, err) ||
        trf_vocab_encode(trf_model_vocab(model, TRF_TARGET), back, 0, target, n, &n, err))
        return (trf_status)err->status;
    if (trf_reader_read(trf_translator_reader(translator), &batch, TRF_READ_CROSS, NULL, &seen, err))
        return (trf_status)err->status;
    cross = seen.attention[TRF_DECODER_CROSS][0];       /* (layers, heads, queries, keys) */
    weights = cross.data;
    heads = (int32_t)cross.shape[1];
    keys = cross.shape[3];                              /* the letters, and EOS */
    size = cross.shape[2] * keys;
    for (head = 0; head < cross.shape[0] * heads; head++) {
        double share = 0;
        for (i = 0; i < n; i++) share += (double)weights[head * size + i * keys + n - 1 - i] / n;
        if (share > most) { most = share; best = (int32_t)head; }
    }
    printf("\n  wrote   read\n         ");
    for (j = 0; j < n; j++) printf(" %c ", word[j]);
    for (i = 0; i < n; i++) {
        printf("\n    %c    ", back[i]);
        for (j = 0; j < n; j++) {
            char c = shades[(int)((double)weights[best * size + i * keys + j] * 9.99)];
            printf("%c%c%c", c, c, c);
        }
    }
    printf("\n\n  cross-attention, layer %d, head %d: %.0f %% of its weight is on the line\n",
           (int)(best / heads), (int)(best % heads), 100 * most);
    return TRF_OK;
}

int main(int argc, char **argv)
{
    trf_error err;
    trf_dataset_options options = trf_dataset_defaults();
    trf_dataset *data = NULL; trf_model *model = NULL;
    trf_trainer *trainer = NULL; trf_translator *translator = NULL;
    const trf_data_results *results;
    trf_recipe *recipe;
    char word[LONGEST + 1], reversed[LONGEST + 1], answer[64];
    int i, right = 0, failed = 1;
    srand(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
    options.seed = argc > 1 ? (uint64_t)atoi(argv[1]) : 1;
    options.source_tokens = options.target_tokens = TRF_TOKENS_CHARACTERS;
    options.updates = UPDATES;
    if (trf_dataset_create(&data, &options, &err)) goto done;
    for (i = 0; i < WORDS; i++) {
        next_word(word, reversed, 0);
        if (trf_dataset_add(data, word, reversed, &err)) goto done;
    }
    if (trf_dataset_finish(data, &err)) goto done;
    results = trf_dataset_results(data);
    recipe = results->recipe;
    recipe->config.encoder_layers = recipe->config.decoder_layers = 2;
    trf_train_set_dropout(&recipe->training, 0.0);      /* under two passes: too few to overfit */
    recipe->training.schedule = TRF_COSINE;             /* ends with small updates: exact answers */
    recipe->training.total_steps = UPDATES;
    recipe->learning.progress = show;
    if (trf_dataset_create_model(data, &model, &err)) goto done;
    if (trf_trainer_create(&trainer, model, &recipe->training, &err)) goto done;
    if (trf_trainer_learn(trainer, results->corpus, results->held_out, &recipe->learning, NULL, &err)) goto done;
    if (trf_translator_create(&translator, model, NULL, &err)) goto done;
    for (i = 0; i < TESTS; i++) {
        next_word(word, reversed, 1);
        if (trf_translate_text(translator, word, answer, sizeof answer, &err)) goto done;
        right += strcmp(answer, reversed) == 0;
    }
    printf("%d of %d words right\n", right, TESTS);
    if (draw(translator, model, &err)) goto done;
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    trf_translator_destroy(translator); trf_trainer_destroy(trainer);
    trf_model_destroy(model); trf_dataset_destroy(data);
    return failed || right < TESTS;
}

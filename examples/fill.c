/* fill.c - masked words: an encoder learns a language by filling gaps, then chooses words for them.

   build   cc -O2 -I. examples/fill.c -o fill -lopenblas -lm
   data    make build/tasks && build/tasks grammar 20000 1 | cut -f 2 >german.txt
   run     ./fill german.txt der die das den dem        (a minute)
           FILE: a sentence in each line. WORD...: the words to choose from
   prints  a line a second with the loss, six sentences with a gap and what fills
           it, and how many gaps in held-out sentences got back the word that stood there (90 % of
           German articles; some gaps admit two)
   exits   with 1 if a call failed or no gap got its word, with 2 if the arguments are wrong */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UPDATES = 1100, SHOWN = 6, MOST_IDS = 512 };

static void say(void *user, const char *line) { (void)user; puts(line); }

/* An encoder that was trained to say which words are hidden. */
static trf_status train(trf_dataset *data, const char *file, trf_model **model, trf_error *err)
{
    trf_noise_options hidden = trf_noise_defaults();    /* 15 % of the words; most become pad */
    trf_noise *noise = NULL, *held_out = NULL;
    trf_recipe *recipe;
    trf_status status;
    if ((status = trf_dataset_read(data, file, NULL, 0, err)) ||
        (status = trf_dataset_finish(data, err))) return status;
    recipe = trf_dataset_results(data)->recipe;
    hidden.vocab = recipe->config.source_vocab;
    recipe->config.head = TRF_HEAD_MASKED;
    trf_train_set_dropout(&recipe->training, 0.0);      /* sentences hardly ever repeat */
    if (!(status = trf_noise_create(&noise, &hidden, err)) &&
        !(status = trf_noise_create(&held_out, &hidden, err))) {
        recipe->learning.noise = noise;
        recipe->learning.held_out_noise = held_out;
        status = trf_dataset_train(data, model, NULL, err);
    }
    trf_noise_destroy(noise);
    trf_noise_destroy(held_out);
    return status;
}

/* The index of the first of these words among n ids, or -1. *is: which word. */
static int find_word(const int32_t *ids, int32_t n, const int32_t *word, int n_words, int *is)
{
    int at, i;
    for (at = 0; at < n; at++)
        for (i = 0; i < n_words; i++)
            if (ids[at] == word[i]) { *is = i; return at; }
    return -1;
}

/* Hides a word in each held-out sentence, and fills the gap with the likeliest of the words. */
static trf_status fill_gaps(const trf_dataset *data, const trf_model *model, char **words,
                            int n_words, int *right, trf_error *err)
{
    const trf_config *c = trf_model_config(model);
    const trf_vocab *vocab = trf_model_vocab(model, TRF_SOURCE);
    int32_t ids[MOST_IDS], n, *word = (int32_t *)malloc((size_t)n_words * sizeof *word), k;
    trf_batch gap = {{ids, &n, 1}, {NULL, NULL, 0}, 0, {0, 0, 0}};
    trf_reader *reader = NULL;
    const trf_batch *held_out = trf_dataset_results(data)->held_out;         /* NULL: too few sentences */
    const int32_t *from = held_out ? held_out->source.ids : NULL, *lengths;
    char shown[4096];
    int tests = 0, i, best, is = 0, at;
    trf_status status = word ? trf_reader_create(&reader, model, NULL, err) : TRF_E_NOMEM;
    for (i = 0; word && i < n_words; i++) {
        word[i] = trf_vocab_id(vocab, words[i]);
        if (word[i] < 0) { printf("no sentence has '%s'\n", words[i]); from = NULL; }
    }
    lengths = from ? held_out->source.lengths : NULL;
    for (k = 0; from && !status && k < held_out->source.count; from += lengths[k++]) {
        trf_reading seen;
        const trf_real *z;
        n = lengths[k];
        if (n > MOST_IDS || (at = find_word(from, n, word, n_words, &is)) < 0) continue;
        memcpy(ids, from, (size_t)n * sizeof *ids);
        ids[at] = c->pad;
        if ((status = trf_reader_read(reader, &gap, TRF_READ_LOGITS, NULL, &seen, err))) break;
        z = seen.logits.data + (int64_t)(at + c->source_bos) * c->source_vocab;
        for (i = best = 0; i < n_words; i++) if (z[word[i]] > z[word[best]]) best = i;
        *right += best == is;
        ids[at] = c->unk;                   /* unk is written */
        if (tests++ < SHOWN && !trf_vocab_decode(vocab, ids, n, shown, sizeof shown, NULL, err))
            printf("  %s: %s%s\n", shown, words[best], best == is ? "" : ", not right");
    }
    printf("%d of %d right\n", *right, tests);
    trf_reader_destroy(reader);
    free(word);
    return status;
}

int main(int argc, char **argv)
{
    trf_dataset_options options = trf_dataset_defaults();
    trf_dataset *data = NULL;
    trf_model *model = NULL;
    static trf_error err;
    int right = 0;
    if (argc < 4) { fputs("usage: fill FILE WORD WORD...\n", stderr); return 2; }
    options.kind = TRF_DATA_SOURCES;
    options.source_tokens = TRF_TOKENS_WORDS;
    options.updates = UPDATES;
    options.say = say;
    if (!trf_dataset_create(&data, &options, &err) && !train(data, argv[1], &model, &err))
        (void)fill_gaps(data, model, argv + 2, argc - 2, &right, &err);
    if (err.status || !right) fprintf(stderr, "%s\n", *err.message ? err.message : "no gap filled");
    trf_model_destroy(model);
    trf_dataset_destroy(data);
    return err.status || !right;
}

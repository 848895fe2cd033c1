/* first.c - what a newcomer writes, and what it learns: sums in words, "twelve plus seven" to "19".

   build   cc -O2 -I. tools/data/first.c -o build/first -lopenblas -lm
   run     build/first            every row; build/first 2: row 2 alone
   prints  for each row the minutes of training, and how many of 1,000 sums that it has not seen are right
   exits   with 1 where a row has fewer than 900

   20,000 sums of two numbers from 0 to 99; of the 10,000 that there are a tenth is for the test alone. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LEARN = 20000, TEST = 1000, UPDATES = 1500 };

static void number_in_words(int n, char text[32])
{
    static const char *const small[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
        "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
    static const char *const tens[] = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
    if (n < 20) snprintf(text, 32, "%s", small[n]);
    else snprintf(text, 32, "%s%s%s", tens[n / 10 - 2], n % 10 ? " " : "", n % 10 ? small[n % 10] : "");
}

/* Sum i of those to learn from, or of the test. */
static void make_sum(int i, int test, char source[80], char target[16])
{
    static uint64_t draws;
    char a[32], b[32];
    uint64_t pair;
    if (i == 0) draws = test ? 1u << 30 : 0;
    do pair = trf__random_of(draws++) % 10000; while ((trf__random_of(pair + 77777) % 10 == 0) != test);
    number_in_words((int)(pair / 100), a);
    number_in_words((int)(pair % 100), b);
    snprintf(source, 80, "%s plus %s", a, b);
    snprintf(target, 16, "%d", (int)(pair / 100 + pair % 100));
}

static int right_of_test(const trf_model *model, trf_error *err)
{
    trf_translator *translator = NULL;
    char source[80], target[16], answer[64];
    int i, right = 0;
    if (trf_translator_create(&translator, model, NULL, err)) return -1;
    for (i = 0; i < TEST; i++) {
        make_sum(i, 1, source, target);
        if (trf_translate_text(translator, source, answer, sizeof answer, err)) *answer = 0;
        right += !strcmp(answer, target);
    }
    trf_translator_destroy(translator);
    return right;
}

/* Words in, characters out, in batches of 1,024 tokens, by hand. */
static int learn_by_hand(const trf_train_options *training, trf_model **model, trf_error *err)
{
    trf_config config = trf_config_preset(TRF_TINY);
    trf_corpus_options options = trf_corpus_defaults();
    trf_vocab *vocab[2] = {NULL, NULL};
    trf_corpus *corpus = NULL;
    trf_trainer *trainer = NULL;
    trf_batch batch;
    char text[2][80];
    int i, step, failed = 1;
    options.batch_tokens = 1024;
    if (trf_vocab_create(&vocab[0], TRF_WORDS, NULL, err) || trf_vocab_create(&vocab[1], TRF_CHARACTERS, NULL, err) ||
        trf_corpus_create(&corpus, &options, err)) goto done;
    for (i = 0; i < LEARN; i++) {
        make_sum(i, 0, text[0], text[1]);
        if (trf_vocab_learn(vocab[0], text[0], err) || trf_vocab_learn(vocab[1], text[1], err)) goto done;
    }
    for (i = 0; i < 2; i++) if (trf_vocab_finish(vocab[i], 1000, 1, err)) goto done;
    for (i = 0; i < LEARN; i++) {
        make_sum(i, 0, text[0], text[1]);
        if (trf_corpus_add_text(corpus, vocab[0], text[0], vocab[1], text[1], err)) goto done;
    }
    config.source_vocab = trf_vocab_size(vocab[0]);
    config.target_vocab = trf_vocab_size(vocab[1]);
    if (trf_model_create(model, &config, NULL, err) || trf_model_set_vocabs(*model, vocab[0], vocab[1], err) ||
        trf_trainer_create(&trainer, *model, training, err)) goto done;
    for (step = 0; step < UPDATES; step++)
        if (trf_corpus_next(corpus, &batch, err) || trf_trainer_step(trainer, &batch, NULL, err)) goto done;
    failed = 0;
done:
    trf_trainer_destroy(trainer);
    trf_corpus_destroy(corpus);
    trf_vocab_destroy(vocab[0]);
    trf_vocab_destroy(vocab[1]);
    return failed;
}

/* Without a number. */
static int learn_by_itself(trf_model **model, trf_error *err)
{
    trf_dataset *data = NULL;
    trf_trainer *trainer = NULL;
    const trf_data_results *results;
    char source[80], target[16];
    int i, failed = 1;
    if (trf_dataset_create(&data, NULL, err)) return 1;
    for (i = 0; i < LEARN; i++) {
        make_sum(i, 0, source, target);
        if (trf_dataset_add(data, source, target, err)) goto done;
    }
    if (trf_dataset_finish(data, err) || trf_dataset_create_model(data, model, err)) goto done;
    results = trf_dataset_results(data);
    failed = trf_trainer_create(&trainer, *model, &results->recipe->training, err) ||
             trf_trainer_learn(trainer, results->corpus, results->held_out, &results->recipe->learning, NULL, err);
done:
    trf_trainer_destroy(trainer);
    trf_dataset_destroy(data);
    return failed;
}

int main(int argc, char **argv)
{
    static const char *const rows[] = {"trf_train_defaults() untouched", "learning_rate = 1e-3, the rest default",
        "constant 1e-3, warm-up 100, the rest default", "the same with dropout 0.1", "trf_dataset and trf_trainer_learn"};
    int row, only = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0, failed = 0;
    for (row = 1; row <= 5; row++) {
        trf_train_options training = trf_train_defaults();
        trf_model *model = NULL;
        trf_error err;
        time_t began = time(NULL);
        int right = -1;
        if (only && row != only) continue;
        if (row == 2 || row == 3 || row == 4) training.learning_rate = 1e-3;
        if (row == 3 || row == 4) { training.schedule = TRF_CONSTANT; training.warmup = 100; }
        if (row == 4) trf_train_set_dropout(&training, 0.1);
        if (!(row == 5 ? learn_by_itself(&model, &err) : learn_by_hand(&training, &model, &err))) {
            double minutes = difftime(time(NULL), began) / 60;
            right = right_of_test(model, &err);
            printf("%-46s %5.1f minutes  %4d of %d right\n", rows[row - 1], minutes, right, (int)TEST);
            fflush(stdout);
        }
        if (right < 0) printf("%-46s %s\n", rows[row - 1], err.message);
        failed |= right < 900;
        trf_model_destroy(model);
    }
    return failed;
}

/* translate.c - English to German: change a recipe, train, test, then translate what is typed.

   build   cc -O2 -I. examples/translate.c -o translate -lopenblas -lm
   run     ./translate             (about 80 seconds; `make demo` runs this)
           ./translate --quick     a twentieth of the training: enough to see it run, too little to
                                   translate well
           echo "the dog sees a cat" | ./translate --quick
   prints  the loss as it falls, ten translations, the share of 1,000 new sentences that came out
           exactly right (97.6 %), where the model is, then one translation for each line of
           standard input:
               english> I know that the dog helps the old king
               ich weiß , dass der hund dem alten könig hilft .
           It leaves translate.safetensors behind, which `trf translate` and examples/raw.c use.
   exits   with 1 if a call failed or, without --quick, fewer than 95 % were right; with 2 if it
           does not know an argument

   A test sentence combines words that no training sentence combines: grammar.h. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include "grammar.h"
#include <ctype.h>

enum { TESTS = 1000, SHOWN = 10 };

static void next_sentence(grammar_sentence *s, int for_test)
{
    static uint64_t number;
    do grammar_make(++number, s);
    while (for_test ? !grammar_is_test(s) : !grammar_is_training(s));
}

static int show(void *user, const trf_learn_progress *p)
{
    const int *updates = (const int *)user;
    int step = (int)p->update->step;
    if (p->validated || (step % 100 && step != *updates)) return 0;
    printf("step %5d of %d   loss %.4f   word accuracy %5.1f %%\n", step, *updates, p->update->loss,
           100 * p->update->accuracy);
    return fflush(stdout);
}

/* Returns how many of the test sentences came out exactly right, or -1 after an error. */
static int count_right(trf_translator *translator, trf_error *err)
{
    char german[2 * GRAMMAR_TEXT];
    grammar_sentence s;
    int i, right = 0;
    printf("\nHeld-out sentences:\n");
    for (i = 0; i < TESTS; i++) {
        next_sentence(&s, 1);
        if (trf_translate_text(translator, s.english, german, sizeof german, err)) return -1;
        right += strcmp(german, s.german) == 0;
        if (i < SHOWN) printf("  %s\n    %s\n", s.english, german);
    }
    printf("exactly right on held-out combinations: %5.1f %%\n", 100.0 * right / (double)TESTS);
    return right;
}

/* Rewrites a line in the form of the data: lower case, a space before the final mark. */
static void tidy(char *line)
{
    size_t n;
    for (n = 0; line[n] && line[n] != '\n'; n++) line[n] = (char)tolower((unsigned char)line[n]);
    while (n && strchr(" .?", line[n - 1])) n--;
    memcpy(line + n, strchr(line + n, '?') ? " ?" : " .", 3);
}

static void translate_lines(trf_translator *translator, const trf_vocab *english)
{
    char line[GRAMMAR_TEXT + 4], german[2 * GRAMMAR_TEXT];
    int32_t unknown;
    trf_error err;
    for (;;) {
        fprintf(stderr, "english> ");
        if (!fgets(line, GRAMMAR_TEXT, stdin)) break;
        tidy(line);
        if (!trf_vocab_count_unknown(english, line, &unknown, NULL, &err) && unknown)
            fprintf(stderr, "(words that were not in the training: %d)\n", (int)unknown);
        if (trf_translate_text(translator, line, german, sizeof german, &err)) puts(err.message);
        else puts(german);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int quick = argc > 1 && !strcmp(argv[1], "--quick"), pairs = quick ? 6000 : 40000;
    int updates = quick ? 130 : 2600, i, right = -1;
    trf_error err;
    trf_dataset_options options = trf_dataset_defaults();
    trf_dataset *data = NULL; trf_model *model = NULL;
    trf_trainer *trainer = NULL; trf_translator *translator = NULL;
    trf_recipe *recipe;
    grammar_sentence s;
    if (argc > 1 + quick) { fprintf(stderr, "usage: translate [--quick]\n"); return 2; }
    options.updates = updates;
    options.held_out = -1;                      /* the tests are enough */
    if (trf_dataset_create(&data, &options, &err)) goto done;
    for (i = 0; i < pairs; i++) {
        next_sentence(&s, 0);
        if (trf_dataset_add(data, s.english, s.german, &err)) goto done;
    }
    if (trf_dataset_finish(data, &err)) goto done;
    recipe = trf_dataset_results(data)->recipe;         /* settings for these data; some are changed here */
    recipe->config.encoder_layers = recipe->config.decoder_layers = 2;
    trf_train_set_dropout(&recipe->training, 0.0);
    recipe->training.schedule = TRF_COSINE;
    recipe->training.learning_rate = 3e-3;
    recipe->training.warmup = updates / 10;
    recipe->training.total_steps = recipe->learning.updates = updates;
    recipe->learning.ema = 0;                   /* the last weights, not their average */
    recipe->learning.progress = show;
    recipe->learning.user = &updates;
    if (trf_dataset_create_model(data, &model, &err)) goto done;
    if (trf_trainer_create(&trainer, model, &recipe->training, &err)) goto done;
    if (trf_trainer_learn(trainer, trf_dataset_results(data)->corpus, NULL, &recipe->learning, NULL, &err))
        goto done;
    if (trf_model_save(model, "translate.safetensors", NULL, &err)) goto done;
    if (trf_translator_create(&translator, model, NULL, &err)) goto done;
    right = count_right(translator, &err);
    if (right >= 0) {
        printf("the model is in translate.safetensors\n");
        translate_lines(translator, trf_model_vocab(model, TRF_SOURCE));
    }
done:
    if (right < 0) fprintf(stderr, "%s\n", err.message);
    trf_translator_destroy(translator); trf_trainer_destroy(trainer);
    trf_model_destroy(model); trf_dataset_destroy(data);
    return right < (quick ? 0 : 95 * TESTS / 100);
}

/* classify.c - a classifier: learns one label for each text, here the kind of a German sentence.

   build   cc -O2 -I. examples/classify.c -o classify -lopenblas -lm
   run     ./classify             (half a minute)
   prints  what was chosen from the data, each validation, six German sentences with their kind and
           its probability, and how many of 1000 with new combinations of words got the right label
   exits   with 1 if a call failed or fewer than 98 % were right */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include "tools/data/grammar.h"

enum { SENTENCES = 4000, TESTS = 1000, KINDS = GRAMMAR_FRAMES };

/* The next sentence that tools/data/grammar.h keeps for training, or for testing. */
static void next_sentence(grammar_sentence *s, int for_test)
{
    static uint64_t number;
    do grammar_make(++number, s);
    while (for_test ? !grammar_is_test(s) : !grammar_is_training(s));
}

static int show(void *user, const trf_learn_progress *p)
{
    (void)user;
    if (!p->validated) return 0;
    printf("update %d  loss %.4f  right %.1f %%\n", (int)p->update->step, p->loss, p->score);
    return 0;
}

int main(void)
{
    static const char *const kinds[KINDS] = {"statement", "question", "opening", "that", "because",
                                             "when", "who"};
    trf_error err;
    trf_dataset_options options = trf_dataset_defaults();
    trf_dataset *data = NULL; trf_model *model = NULL;
    trf_trainer *trainer = NULL; trf_translator *translator = NULL;
    trf_recipe *recipe;
    grammar_sentence s;
    int i, k, right = 0;
    options.kind = TRF_DATA_LABELLED;
    if (trf_dataset_create(&data, &options, &err)) goto done;
    for (i = 0; i < SENTENCES; i++) {
        next_sentence(&s, 0);
        if (trf_dataset_add(data, s.german, kinds[s.frame], &err)) goto done;
    }
    if (trf_dataset_finish(data, &err)) goto done;
    recipe = trf_dataset_recipe(data);
    printf("%s", recipe->reasons);
    recipe->learning.progress = show;
    if (trf_dataset_create_model(data, &model, &err) ||
        trf_trainer_create(&trainer, model, &recipe->training, &err) ||
        trf_learn(trainer, trf_dataset_corpus(data), trf_dataset_held_out(data), &recipe->learning,
                  NULL, &err) ||
        trf_translator_create(&translator, model, NULL, &err)) goto done;
    for (i = 0; i < TESTS; i++) {
        int32_t ids[GRAMMAR_TEXT], n, best = 0;
        trf_sequences source = {ids, &n, 1};
        trf_real p[KINDS];
        trf_tensor probabilities = trf_tensor_of(p, 2, 1, KINDS, 1);
        char label[16];
        next_sentence(&s, 1);
        if (trf_vocab_encode(trf_model_source_vocab(model), s.german, ids, GRAMMAR_TEXT, &n,
                             &err) ||
            trf_classify(translator, &source, &probabilities, &err)) goto done;
        for (k = 1; k < KINDS; k++) if (p[k] > p[best]) best = k;
        if (trf_model_label(model, best, label, sizeof label, NULL, &err)) goto done;
        right += strcmp(label, kinds[s.frame]) == 0;
        if (i < 6) printf("  %-9s %.3f  %s\n", label, (double)p[best], s.german);
    }
    printf("%d of %d right\n", right, TESTS);
done:
    if (!right) fprintf(stderr, "%s\n", err.message);
    trf_translator_destroy(translator); trf_trainer_destroy(trainer);
    trf_model_destroy(model); trf_dataset_destroy(data);
    return right < TESTS * 98 / 100;
}

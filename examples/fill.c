/* fill.c - masked words: an encoder learns German by filling gaps, then chooses articles.

   build   cc -O2 -I. examples/fill.c -o fill -lopenblas -lm
   run     ./fill                       (half a minute)
   prints  the loss, six sentences with a gap and what fills it, and how many of 1000 gaps in unseen
           sentences got back the original article (some gaps admit two)
   exits   with 1 if a call failed or fewer than 85 % of the gaps got it */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include "tools/data/grammar.h"

enum { BATCH = 64, STEPS = 1100, TESTS = 1000, MOST = BATCH * GRAMMAR_TEXT / 2, VOCAB = 1000 };

static uint64_t number;                 /* of the next sentence */

static const char *next_sentence(grammar_sentence *s, int for_test)
{
    do grammar_make(++number, s);
    while (for_test ? !grammar_is_test(s) : !grammar_is_training(s));
    return s->german;
}

/* The words of 5000 sentences. */
static trf_status learn_words(trf_vocab *vocab, trf_error *err)
{
    grammar_sentence s;
    int i;
    for (i = 0; i < 5000; i++)
        if (trf_vocab_learn(vocab, next_sentence(&s, 0), err)) return (trf_status)err->status;
    return trf_vocab_finish(vocab, VOCAB, 1, err);
}

/* The sizes of the model and the training options for so many sentences. */
static trf_status find_recipe(trf_recipe *recipe, int32_t words, trf_error *err)
{
    trf_data_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.kind = TRF_ENCODER_ONLY;
    stats.head = TRF_HEAD_MASKED;
    stats.source_vocab = words;
    stats.pairs = (int64_t)BATCH * STEPS;
    stats.source_tokens = 12 * stats.pairs;
    stats.longest = GRAMMAR_TEXT / 2;
    stats.updates = STEPS;
    if (trf_recipe_find(recipe, &stats, err)) return (trf_status)err->status;
    trf_train_set_dropout(&recipe->training, 0.0);      /* sentences hardly ever repeat */
    return TRF_OK;
}

/* The index of the first article among n ids, or -1 if there is none. *is: which article. */
static int find_article(const int32_t *ids, int32_t n, const int32_t article[5], int *is)
{
    int at, i;
    for (at = 0; at < n; at++)
        for (i = 0; i < 5; i++)
            if (ids[at] == article[i]) { *is = i; return at; }
    return -1;
}

int main(void)
{
    static int32_t ids[MOST], lengths[BATCH];
    static trf_real numbers[GRAMMAR_TEXT * VOCAB];
    static const char *const articles[5] = {"der", "die", "das", "den", "dem"};
    trf_error err;
    trf_vocab *vocab = NULL; trf_model *model = NULL;
    trf_trainer *trainer = NULL; trf_translator *translator = NULL;
    trf_noise *noise = NULL;
    /* hides 15 % of the words; most hidden words become pad, the mask */
    trf_noise_options hidden = trf_noise_defaults();
    trf_recipe recipe;
    trf_step_report report;
    trf_batch plain = {{ids, lengths, BATCH}, {NULL, NULL, 0}, 0, {0, 0, 0}}, batch;
    grammar_sentence s; char text[GRAMMAR_TEXT];
    int32_t i, k, n, words, article[5], tests = 0, right = 0;
    if (trf_vocab_create(&vocab, TRF_WORDS, NULL, &err) || learn_words(vocab, &err)) goto done;
    words = trf_vocab_size(vocab);
    for (i = 0; i < 5; i++) article[i] = trf_vocab_id(vocab, articles[i]);
    if (find_recipe(&recipe, words, &err)) goto done;
    hidden.vocab = words;
    if (trf_noise_create(&noise, &hidden, &err) || trf_model_create(&model, &recipe.config, &err) ||
        trf_trainer_create(&trainer, model, &recipe.training, &err)) goto done;
    while (plain.place.batch++ < STEPS) {               /* what is hidden follows from the place */
        for (i = k = 0; i < BATCH; k += lengths[i++])
            if (trf_vocab_encode(vocab, next_sentence(&s, 0), ids + k, MOST - k, &lengths[i], &err))
                goto done;
        if (trf_noise_apply(noise, &plain, &batch, &err)) goto done;
        if (trf_train_step(trainer, &batch, &report, &err)) goto done;
        if (report.step % 500 == 0) printf("step %d  loss %.4f\n", (int)report.step, report.loss);
    }
    if (trf_translator_create(&translator, model, NULL, &err)) goto done;
    plain.source.count = 1;
    while (tests < TESTS) {
        trf_tensor logits;
        const trf_real *z;
        int gap, is = 0, best = 0;
        if (trf_vocab_encode(vocab, next_sentence(&s, 1), ids, MOST, lengths, &err)) goto done;
        n = lengths[0];
        gap = find_article(ids, n, article, &is);
        if (gap < 0) continue;
        ids[gap] = recipe.config.pad;
        logits = trf_tensor_of(numbers, 2, n + 1, words, 1);
        if (trf_logits(translator, &plain, &logits, &err)) goto done;
        z = numbers + gap * words;
        for (i = 1; i < 5; i++) if (z[article[i]] > z[article[best]]) best = i;
        right += best == is;
        ids[gap] = 3;                   /* unk is written */
        if (tests++ < 6 && !trf_vocab_decode(vocab, ids, n, text, sizeof text, NULL, &err))
            printf("  %s: %s%s\n", text, articles[best], best == is ? "" : ", not right");
    }
    printf("%d of %d right\n", (int)right, TESTS);
done:
    if (!right) fprintf(stderr, "%s\n", err.message);
    trf_translator_destroy(translator); trf_noise_destroy(noise);
    trf_trainer_destroy(trainer); trf_model_destroy(model); trf_vocab_destroy(vocab);
    return right < TESTS * 85 / 100;
}

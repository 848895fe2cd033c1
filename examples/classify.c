/* classify.c - what kind of sentence is it? An encoder learns one label for each German sentence.
   build   cc -O2 -march=native -I. examples/classify.c -o classify -lopenblas -lm
   run     ./classify             (a few seconds)
   prints  the loss, six sentences with their kind and its probability, and how many of 1000 sentences
           with new combinations of words got the right label; exits with 1 if fewer than 98 % did. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include "grammar.h"

enum { BATCH = 64, STEPS = 200, TESTS = 1000, KINDS = GRAMMAR_FRAMES };

typedef struct sentences {
    int32_t ids[TESTS * GRAMMAR_TEXT / 4], lengths[TESTS], labels[TESTS], ones[TESTS];
    trf_batch batch;
} sentences;

/* The next `count` sentences that grammar.h keeps for training, or for testing. */
static trf_status next_sentences(sentences *x, const trf_vocab *vocab, int count, int testing, trf_error *err)
{
    static uint64_t number;
    int32_t n, at = 0, i = 0;
    while (i < count) {
        grammar_sentence s;
        grammar_make(++number, &s);
        if (testing ? grammar_check(s.english) == 0 || !grammar_is_test(&s) : !grammar_is_training(&s)) continue;
        if (trf_vocab_encode(vocab, s.german, x->ids + at, GRAMMAR_TEXT / 4, &n, err)) return (trf_status)err->status;
        x->lengths[i] = n; x->labels[i] = (int32_t)s.frame; x->ones[i++] = 1;
        at += n;
    }
    x->batch.source.ids = x->ids; x->batch.source.lengths = x->lengths;
    x->batch.target.ids = x->labels; x->batch.target.lengths = x->ones;     /* one label each */
    x->batch.source.count = x->batch.target.count = count;
    return TRF_OK;
}

int main(void)
{
    static const char *const kinds[KINDS] = {"statement", "question", "opening", "that", "because", "when", "who"};
    static sentences x;
    static trf_real numbers[TESTS * KINDS];
    trf_error err;
    trf_vocab *vocab = NULL; trf_model *model = NULL; trf_trainer *trainer = NULL; trf_translator *translator = NULL;
    trf_tensor probabilities = trf_tensor_of(numbers, 2, TESTS, KINDS, 1);
    trf_config config = trf_config_tiny();
    trf_train_options training = trf_train_defaults();
    trf_step_report report;
    grammar_sentence s;
    char text[GRAMMAR_TEXT];
    int i, k, best, at = 0, right = 0;
    if (trf_vocab_create(&vocab, TRF_WORDS, NULL, &err)) goto done;
    for (i = 0; i < 5000; i++) {        /* the words, from sentences far beyond the others */
        grammar_make(UINT64_C(1) << 32 | (uint64_t)i, &s);
        if (trf_vocab_learn(vocab, s.german, &err)) goto done;
    }
    if (trf_vocab_finish(vocab, 1000, 1, &err)) goto done;
    config.kind = TRF_ENCODER_ONLY; config.head = TRF_HEAD_MEAN; config.n_labels = KINDS;
    config.encoder_layers = 2; config.decoder_layers = 0; config.source_vocab = trf_vocab_size(vocab);
    training.schedule = TRF_CONSTANT; training.learning_rate = 1e-3; training.warmup = 50;
    if (trf_model_create(&model, &config, &err) || trf_trainer_create(&trainer, model, &training, &err)) goto done;
    for (i = 1; i <= STEPS; i++) {
        if (next_sentences(&x, vocab, BATCH, 0, &err) || trf_train_step(trainer, &x.batch, &report, &err)) goto done;
        if (i % 100 == 0) printf("step %d  loss %.4f  right %.1f %%\n", i, report.loss, 100 * report.accuracy);
    }
    if (next_sentences(&x, vocab, TESTS, 1, &err)) goto done;
    if (trf_translator_create(&translator, model, NULL, &err) ||
        trf_classify(translator, &x.batch.source, &probabilities, &err)) goto done;
    for (i = 0; i < TESTS; at += x.lengths[i++]) {
        const trf_real *p = numbers + i * KINDS;
        for (best = 0, k = 1; k < KINDS; k++) if (p[k] > p[best]) best = k;
        right += best == x.labels[i];
        if (i < 6 && !trf_vocab_decode(vocab, x.ids + at, x.lengths[i], text, sizeof text, NULL, &err))
            printf("  %-9s %.3f  %s\n", kinds[best], (double)p[best], text);
    }
    printf("%d of %d right\n", right, TESTS);
done:
    if (!right) fprintf(stderr, "%s\n", err.message);
    trf_translator_destroy(translator); trf_trainer_destroy(trainer);
    trf_model_destroy(model); trf_vocab_destroy(vocab);
    return right < TESTS * 98 / 100;
}

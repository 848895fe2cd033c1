/* scaling.c - does the loss of a language model fall as a power of its size?

   A tutorial quotes Kaplan et al. (2020): L(N) = (Nc / N)^0.076, where N counts the weights without
   embeddings, and neither data nor training limit the loss.

   Language models of two layers read German sentences of examples/grammar.h letter by letter,
   each sentence once. Widths go from 8 to 96, all with equally many updates and the embedding tied
   to the output projection. The loss per letter is that of unseen sentences: some with combinations
   of words that training may have, others with new ones. The power law is a straight line in
   logarithms, fitted by least squares. A grammar has an entropy that no model can go below, so the
   study also fits a law with a floor, L = E + (Nc / N)^a, where E is the best of a thousand values.
   scaling.svg shows the loss against the size, and the power law, both in logarithms. */
#include "law.h"
#include "examples/grammar.h"

enum { SIZES = 8, LETTERS = 64, BATCH = 32, TESTS = 300, LAYERS = 2 };
enum { SEEDS = 100 };                   /* the most that --seeds takes */

static const int widths[SIZES] = {8, 12, 16, 24, 32, 48, 64, 96};

/* The next `count` sentences of at most LETTERS letters from *number on. */
static trf_batch read_on(struct study *s, const trf_vocab *letters, uint64_t *number, int test,
                         int32_t *ids, int32_t *lengths, int32_t count)
{
    int32_t at = 0, i = 0;
    while (i < count) {
        grammar_sentence sentence;
        grammar_make((*number)++, &sentence);
        if (test ? !grammar_is_test(&sentence) : !grammar_is_training(&sentence)) continue;
        if (trf_vocab_encode(letters, sentence.german, 0, ids + at, LETTERS, &lengths[i], NULL))
            continue;                                   /* too long */
        study_must(s, !grammar_check(sentence.english) == !test, "held out: %s", sentence.english);
        at += lengths[i++];
    }
    return study_batch(NULL, ids, lengths, count);
}

/* Trains one model. losses: of sentences with known combinations, and of those with new ones. */
static double learn(struct study *s, const trf_vocab *letters, int width, int seed, double *losses)
{
    static int32_t ids[TESTS * LETTERS], lengths[TESTS];
    int updates = s->quick ? 100 : 600, i, test;
    uint64_t number = (uint64_t)(seed + 1) * 10000000;
    trf_config c = study_config(s, TRF_DECODER_ONLY, LAYERS, trf_vocab_size(letters),
                                (uint64_t)seed + 1);
    trf_train_options o = trf_train_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    double size;
    c.d_model = width;
    c.d_ff = 4 * width;
    c.n_heads = width < 16 ? 2 : 4;
    c.max_length = LETTERS + 2;
    c.tying = TRF_TIED_DECODER;
    o.seed = c.seed;
    o.schedule = TRF_COSINE;
    o.learning_rate = 3e-3;
    o.warmup = 50;
    o.total_steps = updates + 1;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    STUDY_TRY(trf_trainer_create(&trainer, model, &o, &err));
    for (i = 0; i < updates; i++) {
        trf_batch batch = read_on(s, letters, &number, 0, ids, lengths, BATCH);
        STUDY_TRY(trf_trainer_step(trainer, &batch, NULL, &err));
    }
    for (test = 0; test < 2; test++) {
        trf_batch batch;
        number = 900000000;
        batch = read_on(s, letters, &number, test, ids, lengths, TESTS);
        STUDY_TRY(trf_trainer_evaluate(trainer, &batch, NULL, &report, &err));
        losses[test] = report.nll;
    }
    size = (double)(trf_model_parameter_total(model) - (int64_t)c.target_vocab * c.d_model);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return size;
}

static void draw(struct study *s, const double *size, const double *loss, int n)
{
    double x[2] = {size[0], size[n - 1]}, y[2];     /* a straight line */
    struct law law = law_fit(size, loss, n, 0);
    struct curve curves[2];
    struct panel panel;
    char name[64];
    y[0] = law_at(&law, x[0]);
    y[1] = law_at(&law, x[1]);
    snprintf(name, sizeof name, "power law, exponent %.2f", -law.b);
    curves[0] = study_curve("measured", size, loss, n);
    curves[1] = study_curve(name, x, y, 2);
    curves[1].points = 0;
    panel = study_panel("loss of a letter over size", "weights without embeddings", "nats", curves,
                        2);
    panel.log_x = panel.log_y = 1;
    study_curves(s, "", &panel, 1, 1);
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "scaling",
                                 "does the loss fall as a power of the size?");
    int n = s.quick ? 4 : SIZES, seeds = s.quick ? 1 : s.seeds, i, seed;
    double size[SIZES], loss[SIZES][SEEDS], other[SIZES][SEEDS], mean[SIZES];
    double exponent[SEEDS], explained[SEEDS], with_floor[SEEDS], floors[SEEDS];
    trf_vocab *letters = NULL;
    grammar_sentence sentence;
    STUDY_TRY(trf_vocab_create(&letters, TRF_CHARACTERS, NULL, &err));
    for (i = 0; i < 3000; i++) {
        grammar_make((uint64_t)i, &sentence);
        STUDY_TRY(trf_vocab_learn(letters, sentence.german, &err));
    }
    STUDY_TRY(trf_vocab_finish(letters, 1000, 1, &err));
    law_check(&s);
    study_columns(&s, "d_model | weights without embeddings | loss | loss, new combinations");
    for (i = 0; i < n; i++) {
        for (seed = 0; seed < seeds; seed++) {
            double losses[2];
            size[i] = learn(&s, letters, widths[i], seed, losses);
            loss[i][seed] = losses[0];
            other[i][seed] = losses[1];
        }
        mean[i] = study_mean(loss[i], seeds);
        study_row(&s, "%d | %.0f | %s | %s", widths[i], size[i], study_spread(loss[i], seeds, 4),
                  study_spread(other[i], seeds, 4));
    }
    for (seed = 0; seed < seeds; seed++) {
        double at[SIZES];
        struct law plain, law;
        for (i = 0; i < n; i++) at[i] = loss[i][seed];
        plain = law_fit(size, at, n, 0);
        law = law_fit_floor(size, at, n);
        exponent[seed] = -plain.b;
        explained[seed] = 100 * plain.explained;
        with_floor[seed] = -law.b;
        floors[seed] = law.floor;
    }
    for (i = 1; i < n; i++)
        study_must(&s, mean[i] < mean[i - 1], "d_model %d is better than %d", widths[i],
                   widths[i - 1]);
    draw(&s, size, mean, n);
    study_claim(&s, "loss falls as a power of size",
                study_mean(explained, seeds) > 95 ? STUDY_YES : STUDY_NO,
                "exponent %s, %s %% of the variance explained; with a floor of %s exponent %s",
                study_spread(exponent, seeds, 3), study_spread(explained, seeds, 1),
                study_spread(floors, seeds, 2), study_spread(with_floor, seeds, 3));
    study_claim(&s, "the exponent is 0.076",
                fabs(study_mean(exponent, seeds) - 0.076) < 0.02 ? STUDY_YES : STUDY_NO,
                "%s, with %d to %.0f weights and %d sentences", study_spread(exponent, seeds, 3),
                (int)size[0], size[n - 1], BATCH * (s.quick ? 100 : 600));
    trf_vocab_destroy(letters);
    return study_end(&s);
}

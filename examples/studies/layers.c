/* layers.c - how deep should a model be, and where does the norm stand?

   Claims      tutorial 000, exercise 5: too deep overfits and trains longer, too shallow lacks expressiveness.
               Tutorial 000, summary: residuals and layer norm keep deep models trainable.
   Measured    reversals of 3 to 8 of 17 symbols, d_model 32, four heads, d_ff 64; 1 to 12 layers a side, the norm
               behind each sublayer (post-norm, the paper) or before it. All train as tutorial 004 does: Adam at a
               constant rate without a warm-up, dropout 0.1, the same updates. Losses are per target token,
               without dropout.
   Picture     layers.svg: accuracy and both losses over the number of layers
   Run         build/studies/layers [--quick] [--output DIR] */
#include "pairs.h"

enum { MOST = 5, PLACES = 2 };

static const char *const places[PLACES] = {"post-norm", "pre-norm"};

static void draw(struct study *s, const int *layers, int n, const struct outcome *o, int seeds)
{
    static const char *const names[3] = {"tokens right", "training", "held out"};
    static char name[PLACES][3][40];
    double x[MOST], y[PLACES][3][MOST];
    struct curve right[PLACES], losses[2 * PLACES];
    struct panel panels[2];
    int place, i, k;
    memset(right, 0, sizeof right);
    memset(losses, 0, sizeof losses);
    memset(panels, 0, sizeof panels);
    for (place = 0; place < PLACES; place++)
        for (k = 0; k < 3; k++) {
            struct curve *curve = k ? &losses[2 * place + k - 1] : &right[place];
            for (i = 0; i < n; i++) {
                const struct outcome *at = o + (place * n + i) * seeds;
                x[i] = layers[i];
                y[place][k][i] = k == 0 ? OUTCOME(at, seeds, accuracy).mean : k == 1
                                 ? OUTCOME(at, seeds, training_loss).mean : OUTCOME(at, seeds, loss).mean;
            }
            snprintf(name[place][k], sizeof name[place][k], k ? "%s, %s" : "%s", places[place], names[k]);
            curve->name = name[place][k];
            curve->x = x;
            curve->y = y[place][k];
            curve->n = n;
            curve->points = 1;
        }
    panels[0].title = "held-out tokens right";
    panels[0].y_label = "percent";
    panels[0].curves = right;
    panels[0].n = PLACES;
    panels[0].from_zero = 1;
    panels[1].title = "loss per target token";
    panels[1].y_label = "nats";
    panels[1].curves = losses;
    panels[1].n = 2 * PLACES;
    panels[1].from_zero = 1;
    panels[0].x_label = panels[1].x_label = "layers of the encoder, and of the decoder";
    study_curves(s, "", panels, 2, 2);
}

/* Trains every depth at both places of the norm, and prints the table. */
static void measure(struct study *s, const int *layers, int n, int seeds, struct outcome *o)
{
    int32_t count = s->quick ? 1000 : 2000;
    int place, i, seed;
    study_columns(s, "norm | layers | weights | training loss | loss | tokens right, % | +- | exact, % | +- | seconds");
    for (place = 0; place < PLACES; place++)
        for (i = 0; i < n; i++) {
            struct outcome *at = o + (place * n + i) * seeds;
            for (seed = 0; seed < seeds; seed++) {
                struct lesson lesson = pairs_lesson(s, 32, 4, layers[i], 64);
                lesson.training.learning_rate = lesson.training.initial_rate = 2e-3;
                lesson.batch = 64;
                lesson.epochs = s->quick ? 6 : 20;
                lesson.config.norm_place = place ? TRF_PRE_NORM : TRF_POST_NORM;
                lesson.config.final_norm = place;       /* what pre-norm leaves without one */
                trf_model_destroy(reversal_learn(s, lesson, count, (uint64_t)seed + 1, at + seed));
            }
            study_row(s, "%s | %d | %.0f | %.4f | %.4f | %.2f | %.2f | %.1f | %.1f | %.1f", places[place], layers[i],
                      at->weights, OUTCOME(at, seeds, training_loss).mean, OUTCOME(at, seeds, loss).mean,
                      OUTCOME(at, seeds, accuracy).mean, OUTCOME(at, seeds, accuracy).deviation,
                      OUTCOME(at, seeds, exact).mean, OUTCOME(at, seeds, exact).deviation,
                      OUTCOME(at, seeds, seconds).mean);
        }
}

/* The depth with the lowest held-out loss. */
static int best_of(const struct outcome *o, int n, int seeds)
{
    int i, best = 0;
    for (i = 1; i < n; i++)
        if (OUTCOME(o + i * seeds, seeds, loss).mean < OUTCOME(o + best * seeds, seeds, loss).mean) best = i;
    return best;
}

static void judge(struct study *s, const int *layers, int n, int seeds, const struct outcome *o)
{
    const struct outcome *post = o, *pre = o + n * seeds, *deep = pre + (n - 1) * seeds, *post_deep = post + (n - 1) * seeds;
    int best = best_of(pre, n, seeds), worse, learns_better;
    const struct outcome *top = pre + best * seeds;
    worse = OUTCOME_LARGER(deep, top, seeds, loss);
    learns_better = OUTCOME_LARGER(top, deep, seeds, training_loss);
    study_claim(s, "too shallow lacks expressiveness (000, exercise 5)", OUTCOME_LARGER(pre, top, seeds, loss),
                "pre-norm, held-out loss: one layer %.3f, %d layers, the best, %.3f", OUTCOME(pre, seeds, loss).mean,
                layers[best], OUTCOME(top, seeds, loss).mean);
    /* Overfitting: held-out pairs get worse while those learned get better. */
    study_claim(s, "too deep overfits (000, exercise 5)", best == n - 1 ? STUDY_NO : worse == STUDY_YES
                && learns_better == STUDY_YES ? STUDY_YES : worse == STUDY_YES ? STUDY_NO : STUDY_UNDECIDED,
                "pre-norm, loss learned / held out: %d layers %.3f / %.3f, %d layers %.3f / %.3f", layers[best],
                OUTCOME(top, seeds, training_loss).mean, OUTCOME(top, seeds, loss).mean, layers[n - 1],
                OUTCOME(deep, seeds, training_loss).mean, OUTCOME(deep, seeds, loss).mean);
    study_claim(s, "deeper trains longer (000, exercise 5)", OUTCOME_LARGER(deep, pre, seeds, seconds),
                "pre-norm, seconds: one layer %.1f, %d layers %.1f", OUTCOME(pre, seeds, seconds).mean, layers[n - 1],
                OUTCOME(deep, seeds, seconds).mean);
    study_claim(s, "residuals and layer norm keep the paper's deep models trainable (000, summary)",
                OUTCOME_LARGER(post_deep, post, seeds, accuracy) == STUDY_NO ? STUDY_NO
                : OUTCOME(post_deep, seeds, accuracy).mean > 90 ? STUDY_YES : STUDY_UNDECIDED,
                "tokens right, %d layers without a warm-up: post-norm %.1f %%, pre-norm %.1f %%", layers[n - 1],
                OUTCOME(post_deep, seeds, accuracy).mean, OUTCOME(deep, seeds, accuracy).mean);
}

int main(int argc, char **argv)
{
    static const int all[MOST] = {1, 2, 4, 6, 12}, few[] = {1, 2, 4};
    struct study s = study_begin(argc, argv, "layers", "How deep should a model be, and where does the norm stand?");
    const int *layers = s.quick ? few : all;
    int n = s.quick ? STUDY_COUNT(few) : MOST, seeds = s.quick ? 1 : s.seeds, i;
    struct outcome *o = (struct outcome *)study_memory(&s, (size_t)(PLACES * n * seeds) * sizeof *o);
    double layer, norms;
    measure(&s, layers, n, seeds, o);
    layer = o[seeds].weights - o[0].weights;        /* a layer of each side */
    norms = o[n * seeds].weights - o[0].weights;    /* the final ones of pre-norm */
    for (i = 0; i < n; i++) {
        study_must(&s, o[i * seeds].weights == o[0].weights + (layers[i] - 1) * layer, "every layer has as many weights");
        study_must(&s, o[(n + i) * seeds].weights == o[i * seeds].weights + norms, "pre-norm has two norms more");
    }
    study_must(&s, norms == 4 * 32, "two norms have 4 d_model weights, not %.0f", norms);
    study_must(&s, OUTCOME(o + (n + 1) * seeds, seeds, loss).mean < 2.2, "two layers, pre-norm, learn");
    draw(&s, layers, n, o, seeds);
    judge(&s, layers, n, seeds, o);
    return study_end(&s);
}

/* layers.c - how deep should a model be, and where should the norm stand?

   A tutorial expects that a model too deep overfits and trains longer, and that one too shallow
   lacks expressiveness. Its summary claims that residuals and layer norm keep deep models
   trainable.

   Models with d_model 32, four heads and d_ff 64 learn reversals of 3 to 8 of 17 symbols. They have
   1 to 12 layers a side, with the norm after each sublayer (post-norm, the paper's) or before it.
   All train as the tutorial does: Adam at a constant rate without a warm-up, dropout 0.1, equally
   many updates. Losses are per target token, without dropout. layers.svg shows accuracy and losses
   against the depth. */
#include "pairs.h"

enum { MOST = 5, PLACES = 2 };

static const char *const places[PLACES] = {"post-norm", "pre-norm"};

/* The curves of both places of the norm: tokens right, or the two losses. */
static void draw(struct study *s, const int *layers, int n, const struct outcome *o, int seeds)
{
    static const char *const names[3] = {"", ", learned pairs", ", held-out pairs"};
    static char name[PLACES][3][40];
    double x[MOST], y[PLACES][3][MOST];
    struct curve curves[2][2 * PLACES];
    struct panel panels[2];
    int place, i, k;
    for (place = 0; place < PLACES; place++)
        for (k = 0; k < 3; k++) {
            struct curve *curve = k ? &curves[1][2 * place + k - 1] : &curves[0][place];
            for (i = 0; i < n; i++) {
                const struct outcome *at = o + (place * n + i) * seeds;
                x[i] = layers[i];
                y[place][k][i] = k == 0 ? MEAN(at, seeds, accuracy)
                                 : k == 1 ? MEAN(at, seeds, training_loss) : MEAN(at, seeds, loss);
            }
            snprintf(name[place][k], sizeof name[place][k], "%s%s", places[place], names[k]);
            *curve = study_curve(name[place][k], x, y[place][k], n);
        }
    for (k = 0; k < 2; k++) {
        panels[k] = study_panel(k ? "loss of a target token" : "held-out tokens right",
                                "layers of each side", k ? "nats" : "percent", curves[k],
                                k ? 2 * PLACES : PLACES);
        panels[k].from_zero = !k;
        panels[k].log_y = k;
    }
    study_curves(s, "", panels, 2, 2);
}

/* Trains every depth at both places of the norm, and prints the table. */
static void measure(struct study *s, const int *layers, int n, int seeds, struct outcome *o)
{
    int32_t count = s->quick ? 1000 : 2000;
    int place, i, seed;
    study_columns(s, "norm | layers | weights | training loss | held-out loss | tokens right, % | "
                     "exact, % | CPU seconds");
    for (place = 0; place < PLACES; place++)
        for (i = 0; i < n; i++) {
            struct outcome *at = o + (place * n + i) * seeds;
            for (seed = 0; seed < seeds; seed++) {
                struct lesson lesson = pairs_lesson(s, 32, 4, layers[i], 64);
                lesson.training.learning_rate = lesson.training.initial_rate = 2e-3;
                lesson.batch = 64;
                lesson.epochs = s->quick ? 6 : 20;
                lesson.config.norm_place = place ? TRF_PRE_NORM : TRF_POST_NORM;
                lesson.config.final_norm = place ? TRF_FINAL_NORM_BOTH : TRF_FINAL_NORM_NONE;
                trf_model_destroy(reversal_learn(s, lesson, count, (uint64_t)seed + 1, at + seed));
            }
            study_row(s, "%s | %d | %.0f | %s | %s | %s | %s | %s", places[place], layers[i],
                      at->weights, SPREAD(at, seeds, training_loss, 3), SPREAD(at, seeds, loss, 3),
                      SPREAD(at, seeds, accuracy, 1), SPREAD(at, seeds, exact, 1),
                      SPREAD(at, seeds, seconds, 1));
        }
}

/* The depth with the lowest held-out loss. */
static int best_of(const struct outcome *o, int n, int seeds)
{
    int i, best = 0;
    for (i = 1; i < n; i++)
        if (MEAN(o + i * seeds, seeds, loss) < MEAN(o + best * seeds, seeds, loss)) best = i;
    return best;
}

/* Overfitting: held-out pairs are worse than at the best depth, while those learned are better. */
static int overfits(const struct outcome *deep, const struct outcome *top, int seeds)
{
    int worse = LARGER(deep, top, seeds, loss);
    if (deep == top) return STUDY_NO;
    if (worse != STUDY_YES) return worse;
    return LARGER(top, deep, seeds, training_loss) == STUDY_YES ? STUDY_YES : STUDY_NO;
}

static void judge(struct study *s, const int *layers, int n, int seeds, const struct outcome *post)
{
    const struct outcome *pre = post + n * seeds, *deep = pre + (n - 1) * seeds;
    int best = best_of(pre, n, seeds), most = layers[n - 1], place;
    const struct outcome *top = pre + best * seeds;
    study_claim(s, "too shallow lacks expressiveness",
                LARGER(pre, top, seeds, loss),
                "pre-norm, held-out loss: one layer %s, the best depth (%d) %s",
                SPREAD(pre, seeds, loss, 3), layers[best], SPREAD(top, seeds, loss, 3));
    study_claim(s, "too deep overfits", overfits(deep, top, seeds),
                "pre-norm, training and held-out loss: %d layers %s and %s, %d layers %s and %s",
                layers[best], SPREAD(top, seeds, training_loss, 3), SPREAD(top, seeds, loss, 3),
                most, SPREAD(deep, seeds, training_loss, 3), SPREAD(deep, seeds, loss, 3));
    study_claim(s, "deeper trains longer", LARGER(deep, pre, seeds, seconds),
                "pre-norm, CPU seconds: one layer %s, %d layers %s", SPREAD(pre, seeds, seconds, 1),
                most, SPREAD(deep, seeds, seconds, 1));
    for (place = 0; place < PLACES; place++) {
        const struct outcome *one = post + place * n * seeds, *last = one + (n - 1) * seeds;
        char claim[128];
        snprintf(claim, sizeof claim,
                 "residuals and layer norm keep deep models trainable, %s",
                 places[place]);
        study_claim(s, claim, MEAN(last, seeds, accuracy) > 0.9 * MEAN(one, seeds, accuracy)
                    ? STUDY_YES : STUDY_NO,
                    "tokens right, no warm-up: one layer %s %%, %d layers %s %% (bound: nine "
                    "tenths)", SPREAD(one, seeds, accuracy, 1), most,
                    SPREAD(last, seeds, accuracy, 1));
    }
}

int main(int argc, char **argv)
{
    static const int all[MOST] = {1, 2, 4, 6, 12}, few[] = {1, 2, 4};
    struct study s = study_begin(argc, argv, "layers",
                                 "how deep should a model be, and where should the norm stand?");
    const int *layers = s.quick ? few : all;
    int n = s.quick ? STUDY_COUNT(few) : MOST, seeds = s.quick ? 1 : s.seeds, i;
    size_t trainings = (size_t)(PLACES * n * seeds);
    struct outcome *o = (struct outcome *)study_memory(&s, trainings * sizeof *o);
    double layer, norms;
    measure(&s, layers, n, seeds, o);
    layer = o[seeds].weights - o[0].weights;        /* a layer of each side */
    norms = o[n * seeds].weights - o[0].weights;    /* the final ones of pre-norm */
    study_must(&s, norms == 4 * 32, "two norms have 4 d_model weights, not %.0f", norms);
    for (i = 0; i < n; i++) {
        double post = o[i * seeds].weights, pre = o[(n + i) * seeds].weights;
        study_must(&s, post == o[0].weights + (layers[i] - 1) * layer,
                   "every layer has as many weights");
        study_must(&s, pre == post + norms, "pre-norm has two norms more");
    }
    study_must(&s, MEAN(o + (n + 1) * seeds, seeds, loss) < 2.2, "two layers, pre-norm, learn");
    draw(&s, layers, n, o, seeds);
    judge(&s, layers, n, seeds, o);
    return study_end(&s);
}

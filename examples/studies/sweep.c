/* sweep.c - five shapes on one task: does depth, width or the number of heads help more?

   A tutorial's exercise trains five configurations on its reversals. It asks whether depth or width
   helps more, whether more heads help, how small a model can be that solves the task, and when
   returns diminish.

   The study trains the five with the tutorial's initialisation (embeddings of deviation 1,
   nn.Linear) and with the paper's (1 / sqrt(d_model), Glorot and Bengio). It reports weights,
   losses, right held-out tokens, exact answers, and the first epoch with 95 % of the tokens right.
   Updates have 64 pairs, not 128, so 10 epochs have as many updates as 20 of the exercise's 30.
   With the paper's initialisation 5 epochs are enough. */
#include "pairs.h"

enum { SHAPES = 5, STARTS = 2 };
enum { BASELINE, DEEPER, WIDER, MORE_HEADS, SMALLER };

static const struct shape { const char *name; int d_model, heads, layers, d_ff; } shapes[SHAPES] = {
    {"baseline", 64, 4, 2, 256}, {"deeper", 64, 4, 4, 256}, {"wider", 128, 4, 2, 512},
    {"more heads", 64, 8, 2, 256}, {"smaller feed-forward", 64, 4, 2, 128}
};
static const struct start {
    const char *name;
    trf_embedding_init embedding_init;
    trf_init init;
    int epochs;
} starts[STARTS] = {
    {"tutorial", TRF_EMBEDDING_NORMAL_1, TRF_INIT_LINEAR, 10},
    {"paper", TRF_EMBEDDING_NORMAL_D, TRF_INIT_XAVIER, 5}
};

/* The tutorial's own count of weights. */
static double count(const struct shape *shape)
{
    double d = shape->d_model, f = shape->d_ff, v = REVERSAL_VOCAB;
    double attention = 4 * d * d + 4 * d, feed = 2 * d * f + f + d, norm = 2 * d;
    double encoder = attention + feed + 2 * norm, decoder = 2 * attention + feed + 3 * norm;
    return 2 * v * d + shape->layers * (encoder + decoder) + v * d + v;
}

/* The first epoch with 95 % of the tokens right, or "-" where a seed has none. */
static const char *reached(const struct outcome *o, int seeds, int epochs)
{
    int i;
    for (i = 0; i < seeds; i++) if (o[i].reached > epochs) return "-";
    return SPREAD(o, seeds, reached, 1);
}

static void measure(struct study *s, const struct start *start, int seeds, struct outcome *o)
{
    int epochs = s->quick ? 2 : start->epochs, i, seed;
    for (i = 0; i < SHAPES; i++) {
        const struct shape *shape = &shapes[i];
        struct outcome *at = o + i * seeds;
        for (seed = 0; seed < seeds; seed++) {
            struct lesson lesson = pairs_lesson(s, shape->d_model, shape->heads, shape->layers,
                                                shape->d_ff);
            lesson.config.embedding_init = start->embedding_init;
            lesson.config.init = start->init;
            lesson.epochs = epochs;
            lesson.batch = s->quick ? 32 : 64;
            trf_model_destroy(reversal_learn(s, lesson, s->quick ? 500 : 5000, (uint64_t)seed + 1,
                                             at + seed));
        }
        study_row(s, "%s | %s | %.0f | %s | %s | %s | %s | %s | %s", start->name, shape->name,
                  at->weights, SPREAD(at, seeds, training_loss, 3), SPREAD(at, seeds, loss, 3),
                  SPREAD(at, seeds, accuracy, 1), SPREAD(at, seeds, exact, 1),
                  reached(at, seeds, epochs), SPREAD(at, seeds, seconds, 1));
        study_must(s, at->weights == count(shape), "%s: %.0f weights, not %.0f", shape->name,
                   at->weights, count(shape));
        study_must(s, MEAN(at, seeds, loss) < log(REVERSAL_VOCAB), "%s learns", shape->name);
    }
}

/* A claim about two shapes: the larger share of tokens right is better. */
static void compare(struct study *s, const char *claim, const struct start *start,
                    const struct outcome *o, int a, int b, int seeds)
{
    const struct outcome *x = o + a * seeds, *y = o + b * seeds;
    char text[128];
    snprintf(text, sizeof text, "%s, first weights of the %s", claim,
             start->name);
    study_claim(s, text, LARGER(x, y, seeds, accuracy), "tokens right: %s %s %%, %s %s %%",
                shapes[a].name, SPREAD(x, seeds, accuracy, 1), shapes[b].name,
                SPREAD(y, seeds, accuracy, 1));
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "sweep",
                                 "does depth, width or the number of heads help more?");
    int seeds = s.quick ? 1 : s.seeds, i;
    size_t trainings = (size_t)(STARTS * SHAPES * seeds);
    struct outcome *o = (struct outcome *)study_memory(&s, trainings * sizeof *o);
    study_columns(&s, "initialisation | shape | weights | training loss | held-out loss | "
                      "tokens right, % | exact, % | epoch with 95 % | CPU seconds");
    for (i = 0; i < STARTS; i++) measure(&s, &starts[i], seeds, o + i * SHAPES * seeds);
    for (i = 0; i < STARTS; i++) {
        const struct outcome *at = o + i * SHAPES * seeds;
        compare(&s, "width helps more than depth", &starts[i], at, WIDER, DEEPER, seeds);
        compare(&s, "depth helps", &starts[i], at, DEEPER, BASELINE, seeds);
        compare(&s, "width helps", &starts[i], at, WIDER, BASELINE, seeds);
        compare(&s, "more heads help", &starts[i], at, MORE_HEADS, BASELINE, seeds);
        compare(&s, "a larger feed-forward helps", &starts[i], at, BASELINE, SMALLER, seeds);
    }
    return study_end(&s);
}

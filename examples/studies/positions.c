/* positions.c - how do models with different positions handle longer sequences?

   Tutorials expect that sines generalise to arbitrary lengths, that learned positions end at the
   longest trained length, and that attention without positions does not know the order. T5's
   relative positions, ALiBi and rotary positions depend on distances alone: do they generalise?

   Models of one layer, d_model 64, learn reversals of 3 to 8 of 17 symbols. Without more training
   they reverse 200 sequences of each length from 6 to 12. The study reports the percentage of exact
   answers, and that of right tokens when the decoder reads the right ones before. Learned positions
   have rows for all lengths; those after the ninth (8 symbols and EOS) keep their random initial
   values. positions.svg shows both measures against the length. */
#include "pairs.h"

enum { RULES = 6 };
enum { FROM = 6, TO = 12, LENGTHS = TO - FROM + 1, TRAINED = REVERSAL_LONG - FROM };

static const char *const names[RULES] = {"sines", "learned", "none", "relative", "ALiBi", "rotary"};
static const trf_positions rules[RULES] = {TRF_POSITIONS_INTERLEAVED, TRF_POSITIONS_LEARNED,
                                           TRF_POSITIONS_NONE, TRF_POSITIONS_RELATIVE,
                                           TRF_POSITIONS_ALIBI, TRF_POSITIONS_ROTARY};

struct lengths { double exact[LENGTHS][STUDY_SEEDS], right[LENGTHS][STUDY_SEEDS]; };

/* Percent of the target tokens, EOS included, that are the most likely ones. */
static double tokens_right(struct study *s, const trf_model *model, const struct pairs *p)
{
    trf_tensor logits = pairs_logits(s, model, p);
    const trf_real *row = logits.data;
    int32_t i, j, right = 0;
    for (i = 0; i < p->count; i++)
        for (j = 0; j <= p->n_target[i]; j++, row += REVERSAL_VOCAB)
            right += study_best(row, 0, REVERSAL_VOCAB) == pairs_token(model, p, i, j);
    return 100.0 * right / (double)logits.shape[0];
}

static void draw(struct study *s, const struct lengths *l, int seeds)
{
    double x[LENGTHS], y[2][RULES][LENGTHS];
    struct curve curves[2][RULES];
    struct panel panels[2];
    int rule, i, k;
    for (k = 0; k < 2; k++) {
        for (rule = 0; rule < RULES; rule++) {
            for (i = 0; i < LENGTHS; i++) {
                x[i] = FROM + i;
                y[k][rule][i] = study_mean(k ? l[rule].right[i] : l[rule].exact[i], seeds);
            }
            curves[k][rule] = study_curve(names[rule], x, y[k][rule], LENGTHS);
        }
        panels[k] = study_panel(k ? "tokens right" : "answers exact", "symbols (trained: 3 to 8)",
                                "percent", curves[k], RULES);
        panels[k].from_zero = 1;
    }
    study_curves(s, "", panels, 2, 2);
}

/* One model: what it makes of each length. */
static double measure(struct study *s, int rule, int seed, struct lengths *l)
{
    int32_t count = s->quick ? 4000 : 5000, tests = s->quick ? 100 : 200, n;
    struct lesson lesson = pairs_lesson(s, 64, 4, 1, 128);
    struct outcome o;
    trf_model *model;
    pairs_hurry(&lesson, 3e-3, s->quick ? 6 : 12, 64, count);
    lesson.config.positions = rules[rule];
    model = reversal_learn(s, lesson, count, (uint64_t)seed + 1, &o);
    for (n = FROM; n <= TO; n++) {
        struct pairs p = pairs_reversal(s, (uint64_t)(2000 + 100 * n + seed), tests, n, n, NULL);
        l->exact[n - FROM][seed] = pairs_exact(model, &p);
        l->right[n - FROM][seed] = tokens_right(s, model, &p);
    }
    trf_model_destroy(model);
    return o.weights;
}

static void table(struct study *s, struct lengths *l, int seeds)
{
    int rule, i, seed;
    study_columns(s, "positions | weights | symbols | trained | exact, % | tokens right, %");
    for (rule = 0; rule < RULES; rule++) {
        double weights = 0;
        for (seed = 0; seed < seeds; seed++) weights = measure(s, rule, seed, &l[rule]);
        for (i = 0; i < LENGTHS; i++)
            study_row(s, "%s | %.0f | %d | %s | %s | %s", names[rule], weights, FROM + i,
                      i <= TRAINED ? "yes" : "no", study_spread(l[rule].exact[i], seeds, 1),
                      study_spread(l[rule].right[i], seeds, 1));
    }
}

static void judge(struct study *s, const struct lengths *l, int seeds)
{
    const struct lengths *sines = &l[0], *learned = &l[1], *none = &l[2];
    const double *at = sines->exact[TRAINED], *next = sines->exact[TRAINED + 1];
    const double *at_learned = learned->exact[TRAINED], *next_learned = learned->exact[TRAINED + 1];
    const double *at_none = none->exact[TRAINED];
    const double *right = sines->right[TRAINED + 1], *right_learned = learned->right[TRAINED + 1];
    int rule;
    study_must(s, study_mean(at, seeds) > 30, "with sines 8 symbols are reversed");
    study_must(s, study_mean(at, seeds) > study_mean(at_none, seeds) + 20,
               "without positions less is reversed than with sines");
    study_claim(s, "sines generalise to lengths beyond training",
                study_mean(next, seeds) > study_mean(at, seeds) / 2 ? STUDY_YES : STUDY_NO,
                "exact: %s %% of length 8, %s %% of length 9, %s %% of length 12",
                study_spread(at, seeds, 1), study_spread(next, seeds, 1),
                study_spread(sines->exact[LENGTHS - 1], seeds, 1));
    study_claim(s, "learned positions end at the longest trained length",
                study_mean(next_learned, seeds) > study_mean(at_learned, seeds) / 2 ? STUDY_NO
                : STUDY_YES, "exact: %s %% of length 8, %s %% of length 9",
                study_spread(at_learned, seeds, 1), study_spread(next_learned, seeds, 1));
    study_claim(s, "one symbol beyond training, sines extrapolate better than learned positions",
                study_larger(right, seeds, right_learned, seeds),
                "tokens right, 9 symbols: sines %s %%, learned %s %%",
                study_spread(right, seeds, 1), study_spread(right_learned, seeds, 1));
    study_claim(s, "attention without positions does not know the order",
                study_larger(at, seeds, at_none, seeds),
                "exact, 8 symbols: sines %s %%, none %s %%", study_spread(at, seeds, 1),
                study_spread(at_none, seeds, 1));
    for (rule = 3; rule < RULES; rule++) {
        char claim[96];
        at = l[rule].exact[TRAINED];
        next = l[rule].exact[TRAINED + 1];
        snprintf(claim, sizeof claim, "%s positions generalise to lengths beyond training",
                 names[rule]);
        study_claim(s, claim,
                    study_mean(next, seeds) > study_mean(at, seeds) / 2 ? STUDY_YES : STUDY_NO,
                    "exact: %s %% of length 8, %s %% of length 9; tokens right: %s %% of length 9",
                    study_spread(at, seeds, 1), study_spread(next, seeds, 1),
                    study_spread(l[rule].right[TRAINED + 1], seeds, 1));
    }
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "positions",
                                 "positions and sequences longer than the trained ones");
    struct lengths *l = (struct lengths *)study_memory(&s, RULES * sizeof *l);
    int seeds = s.quick ? 1 : s.seeds;
    table(&s, l, seeds);
    draw(&s, l, seeds);
    judge(&s, l, seeds);
    return study_end(&s);
}

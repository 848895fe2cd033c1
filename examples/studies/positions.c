/* positions.c - sines, learned positions or none: which of them a model needs, and what they know of longer sequences.

   Claims      tutorial 000, exercise 2: sines generalise to arbitrary lengths. Tutorial 004, 2: sines can extrapolate
               to longer sequences, learned positions have a fixed longest length; without positions attention does
               not know the order.
   Measured    reversals of 3 to 8 of 17 symbols, d_model 64, one layer; then, without more training, 200 reversals of
               each length from 6 to 12: percent that are exact, and percent of tokens that are right when the model
               reads the right ones before. Learned positions have rows for all lengths; those from position 9 on
               (8 symbols and their end) keep their first, random values.
   Picture     positions.svg: both measures over the length
   Run         build/studies/positions [--quick] [--output DIR] */
#include "pairs.h"

enum { RULES = 3, FROM = 6, TO = 12, LENGTHS = TO - FROM + 1, TRAINED = REVERSAL_LONG - FROM, TESTS = 200 };

static const char *const names[RULES] = {"sines", "learned", "none"};
static const trf_positions rules[RULES] = {TRF_POSITIONS_INTERLEAVED, TRF_POSITIONS_LEARNED, TRF_POSITIONS_NONE};

struct lengths { double exact[LENGTHS][STUDY_SEEDS], right[LENGTHS][STUDY_SEEDS]; };

/* Percent of the target tokens, EOS included, that are the most likely ones. */
static double tokens_right(struct study *s, const trf_model *model, const struct pairs *p)
{
    trf_batch batch = pairs_batch(p, 0, p->count);
    int64_t rows = trf_target_rows(model, &batch.target), row = 0, right = 0;
    trf_tensor logits = study_tensor(s, rows, REVERSAL_VOCAB);
    trf_translator *translator = NULL;
    int32_t i, j, k;
    STUDY_TRY(trf_translator_create(&translator, model, NULL, &err));
    STUDY_TRY(trf_logits(translator, &batch, &logits, &err));
    trf_translator_destroy(translator);
    for (i = 0; i < p->count; i++)
        for (j = 0; j <= p->n_target[i]; j++, row++) {
            const trf_real *z = logits.data + row * REVERSAL_VOCAB;
            int32_t best = 0, wanted = j < p->n_target[i] ? p->target[p->from_target[i] + j] : 2;
            for (k = 1; k < REVERSAL_VOCAB; k++) if (z[k] > z[best]) best = k;
            right += best == wanted;
        }
    return 100.0 * (double)right / (double)rows;
}

static void draw(struct study *s, const struct lengths *l, int seeds)
{
    double x[LENGTHS], y[2][RULES][LENGTHS];
    struct curve curves[2][RULES];
    struct panel panels[2];
    int rule, i, k;
    memset(curves, 0, sizeof curves);
    memset(panels, 0, sizeof panels);
    for (k = 0; k < 2; k++) {
        for (rule = 0; rule < RULES; rule++) {
            for (i = 0; i < LENGTHS; i++) {
                x[i] = FROM + i;
                y[k][rule][i] = study_mean(k ? l[rule].right[i] : l[rule].exact[i], seeds);
            }
            curves[k][rule].name = names[rule];
            curves[k][rule].x = x;
            curves[k][rule].y = y[k][rule];
            curves[k][rule].n = LENGTHS;
            curves[k][rule].points = 1;
        }
        panels[k].title = k ? "tokens right" : "answers exact";
        panels[k].x_label = "symbols (trained: 3 to 8)";
        panels[k].y_label = "percent";
        panels[k].curves = curves[k];
        panels[k].n = RULES;
        panels[k].from_zero = 1;
    }
    study_curves(s, "", panels, 2, 2);
}

/* Trains one model for each rule and seed; the table is printed by length. */
static void measure(struct study *s, struct lengths *l, int seeds)
{
    int32_t count = s->quick ? 3000 : 5000;
    int rule, i, seed;
    study_columns(s, "positions | weights | length | trained | exact, % | +- | tokens right, % | +-");
    for (rule = 0; rule < RULES; rule++) {
        struct outcome o;
        for (seed = 0; seed < seeds; seed++) {
            struct lesson lesson = pairs_lesson(s, 64, 4, 1, 128);
            trf_model *model;
            pairs_hurry(&lesson, 3e-3, s->quick ? 8 : 12, count);
            lesson.config.positions = rules[rule];
            model = reversal_learn(s, lesson, count, (uint64_t)seed + 1, &o);
            for (i = 0; i < LENGTHS; i++) {
                struct pairs p = pairs_reversal(s, (uint64_t)(2000 + 100 * i + seed), TESTS, FROM + i, FROM + i, NULL);
                l[rule].exact[i][seed] = pairs_exact(model, &p);
                l[rule].right[i][seed] = tokens_right(s, model, &p);
            }
            trf_model_destroy(model);
        }
        for (i = 0; i < LENGTHS; i++)
            study_row(s, "%s | %.0f | %d | %s | %.1f | %.1f | %.1f | %.1f", names[rule], o.weights, FROM + i,
                      i <= TRAINED ? "yes" : "no", study_mean(l[rule].exact[i], seeds),
                      study_deviation(l[rule].exact[i], seeds), study_mean(l[rule].right[i], seeds),
                      study_deviation(l[rule].right[i], seeds));
    }
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "positions", "What do positions know of sequences longer than trained ones?");
    struct lengths *l = (struct lengths *)study_memory(&s, RULES * sizeof *l);
    int seeds = s.quick ? 1 : s.seeds, rule;
    double at[RULES], next[RULES], far[RULES];
    measure(&s, l, seeds);
    for (rule = 0; rule < RULES; rule++) {
        at[rule] = study_mean(l[rule].exact[TRAINED], seeds);
        next[rule] = study_mean(l[rule].exact[TRAINED + 1], seeds);
        far[rule] = study_mean(l[rule].exact[LENGTHS - 1], seeds);
    }
    draw(&s, l, seeds);
    study_must(&s, at[0] > 60, "with sines 8 symbols are reversed, not %.1f %%", at[0]);
    study_must(&s, at[0] > at[2] + 30, "without positions (%.1f %%) less is reversed than with sines", at[2]);
    study_claim(&s, "sines generalise to lengths beyond training (000, exercise 2; 004, 2)",
                next[0] > at[0] / 2 ? STUDY_YES : STUDY_NO, "exact: 8 symbols %.1f %%, 9 %.1f %%, 12 %.1f %%", at[0],
                next[0], far[0]);
    study_claim(&s, "learned positions end with the longest trained length (002, 2; 004, 2)",
                next[1] > at[1] / 2 ? STUDY_NO : STUDY_YES, "exact: 8 symbols %.1f %%, 9 %.1f %%, 12 %.1f %%", at[1],
                next[1], far[1]);
    study_claim(&s, "sines extrapolate better than learned positions (004, 2)",
                study_larger(l[0].right[TRAINED + 1], seeds, l[1].right[TRAINED + 1], seeds),
                "tokens right of 9 symbols: sines %.1f %%, learned %.1f %%", study_mean(l[0].right[TRAINED + 1], seeds),
                study_mean(l[1].right[TRAINED + 1], seeds));
    study_claim(&s, "without positions a model does not know the order (002, 2; 004, 2)",
                study_larger(l[0].exact[TRAINED], seeds, l[2].exact[TRAINED], seeds),
                "exact, 8 symbols: sines %.1f %%, none %.1f %%", at[0], at[2]);
    return study_end(&s);
}

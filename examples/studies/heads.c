/* heads.c - how many heads does attention need, and what does each of them look at?

   Claims      tutorial 000, exercise 1: more heads improve performance and cost time. Tutorial 004, 7: heads specialise.
   Measured    reversals of 3 to 8 of 17 symbols, d_model 64, two layers: one training for each number of heads and
               seed, on the same pairs. Then, of one model with four heads, what each head does on held-out pairs.
   Roles       entropy of a head's weights in nats; |query - key| in the mean; the share of its weight on the key
               before the query's position, at it, behind it, and on the first key; in cross-attention the share on the
               anti-diagonal, where a reversal has to look. Heads of one layer are apart by the total variation
               of their weights: 0 the same, 1 nothing in common.
   Run         build/studies/heads [--quick] [--output DIR] */
#include "pairs.h"

enum { KINDS = 3, SHOWN = 4, MEASURES = 7 };

static const char *const kinds[KINDS] = {"encoder", "decoder", "cross"};
enum { ENTROPY, DISTANCE, PREVIOUS, SAME, NEXT, FIRST, ANTI };

/* Adds what one head does for one sequence, each query counting 1 / queries. */
static void add_measures(const trf_real *weights, int64_t queries, int64_t keys, double part, double *m)
{
    int64_t i, j;
    for (i = 0; i < queries; i++)
        for (j = 0; j < keys; j++) {
            double w = (double)weights[i * keys + j], share = w * part / (double)queries;
            if (w > 0) m[ENTROPY] -= share * log(w);
            m[DISTANCE] += share * fabs((double)(i - j));
            if (j == i - 1) m[PREVIOUS] += share;
            if (j == i) m[SAME] += share;
            if (j == i + 1) m[NEXT] += share;
            if (j == 0) m[FIRST] += share;
        }
}

/* Half the sum of |a - b|, in the mean over the queries. */
static double apart(const trf_real *a, const trf_real *b, int64_t queries, int64_t keys)
{
    double sum = 0;
    int64_t i;
    for (i = 0; i < queries * keys; i++) sum += fabs((double)a[i] - (double)b[i]);
    return sum / 2 / (double)queries;
}

/* The weights of every query sum to 1, and a causal head does not see what follows. */
static double broken(const trf_real *weights, int64_t queries, int64_t keys, int causal)
{
    double worst = 0;
    int64_t i, j;
    for (i = 0; i < queries; i++) {
        double sum = 0;
        for (j = 0; j < keys; j++) {
            sum += (double)weights[i * keys + j];
            if (causal && j > i) worst = fmax(worst, (double)weights[i * keys + j]);
        }
        worst = fmax(worst, fabs(sum - 1));
    }
    return worst;
}

/* Rows of the table of roles; the mean distance of two heads of one layer is returned. */
static double roles(struct study *s, const trf_model *model, const struct pairs *p, int kind)
{
    trf_batch batch = pairs_batch(p, 0, p->count);
    trf_tensor all = pairs_attention(s, model, &batch, (trf_attention_kind)kind);
    const trf_config *c = trf_model_config(model);
    int32_t i, layer, head, other, n_pairs = 0;
    double sum = 0, worst = 0;
    for (layer = 0; layer < c->decoder_layers; layer++)
        for (head = 0; head < c->n_heads; head++) {
            double m[MEASURES] = {0};
            for (i = 0; i < p->count; i++) {
                trf_tensor one = trf_attention_of(model, &batch, (trf_attention_kind)kind, &all, i);
                const trf_real *w = pairs_head(&one, layer, head);
                int64_t queries = one.shape[2], keys = one.shape[3];
                add_measures(w, queries, keys, 1.0 / p->count, m);
                m[ANTI] += reversal_share(w, p->n_source[i], keys) / p->count;
                worst = fmax(worst, broken(w, queries, keys, kind == TRF_DECODER_SELF));
                for (other = 0; other < head; other++, n_pairs++)
                    sum += apart(w, pairs_head(&one, layer, other), queries, keys);
            }
            study_row(s, "%s | %d | %d | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f", kinds[kind], (int)layer + 1,
                      (int)head + 1, m[ENTROPY], m[DISTANCE], m[PREVIOUS], m[SAME], m[NEXT], m[FIRST],
                      kind == TRF_DECODER_CROSS ? m[ANTI] : 0.0);
        }
    study_must(s, worst < 1e-4, "the weights of a query sum to 1, and none is ahead: off by %.1e", worst);
    return n_pairs ? sum / n_pairs : 0;
}

/* What the heads of a trained model do: a table and a picture for each kind of attention. */
static void look(struct study *s, const trf_model *model)
{
    struct pairs p = pairs_reversal(s, 5000, 40, REVERSAL_SHORT, REVERSAL_LONG, NULL);
    struct pairs longest = pairs_reversal(s, 5001, 1, REVERSAL_LONG, REVERSAL_LONG, NULL);
    trf_batch one = pairs_batch(&longest, 0, 1);
    double distance[KINDS];
    char title[80];
    int kind;
    study_table(s, "roles", "attention | layer | head | entropy | distance | previous | same | next | first | anti-diagonal");
    for (kind = 0; kind < KINDS; kind++) distance[kind] = roles(s, model, &p, kind);
    for (kind = 0; kind < KINDS; kind++) {
        snprintf(title, sizeof title, "%s attention of a model that reverses", kinds[kind]);
        reversal_draw(s, kinds[kind], title, model, &one, (trf_attention_kind)kind);
    }
    study_claim(s, "different heads specialise in different patterns (004, 6)",
                distance[0] > 0.3 && distance[1] > 0.3 && distance[2] > 0.3 ? STUDY_YES
                : distance[0] < 0.3 && distance[1] < 0.3 && distance[2] < 0.3 ? STUDY_NO : STUDY_UNDECIDED,
                "total variation of two heads of one layer: encoder %.2f, decoder %.2f, cross %.2f (bound 0.3)",
                distance[0], distance[1], distance[2]);
}

int main(int argc, char **argv)
{
    static const int all[] = {1, 2, 4, 8, 16}, few[] = {1, 4, 16};
    struct study s = study_begin(argc, argv, "heads", "How many heads does attention need?");
    const int *heads = s.quick ? few : all;
    int n = s.quick ? STUDY_COUNT(few) : STUDY_COUNT(all), seeds = s.quick ? 1 : s.seeds, i, seed;
    int32_t count = s.quick ? 2000 : 5000;
    trf_model *shown = NULL;
    struct outcome *o = (struct outcome *)study_memory(&s, (size_t)(n * seeds) * sizeof *o), *last;
    study_columns(&s, "heads | weights | training loss | loss | tokens right, % | +- | exact, % | +- | seconds");
    for (i = 0; i < n; i++) {
        struct outcome *at = o + i * seeds;
        for (seed = 0; seed < seeds; seed++) {
            struct lesson lesson = pairs_lesson(&s, 64, heads[i], s.quick ? 1 : 2, 128);
            trf_model *model;
            pairs_hurry(&lesson, s.quick ? 3e-3 : 2e-3, s.quick ? 6 : 8, count);
            model = reversal_learn(&s, lesson, count, (uint64_t)seed + 1, at + seed);
            if (heads[i] == SHOWN && !seed) shown = model;
            else trf_model_destroy(model);
        }
        study_row(&s, "%d | %.0f | %.4f | %.4f | %.2f | %.2f | %.1f | %.1f | %.1f", heads[i], at->weights,
                  OUTCOME(at, seeds, training_loss).mean, OUTCOME(at, seeds, loss).mean,
                  OUTCOME(at, seeds, accuracy).mean, OUTCOME(at, seeds, accuracy).deviation,
                  OUTCOME(at, seeds, exact).mean, OUTCOME(at, seeds, exact).deviation,
                  OUTCOME(at, seeds, seconds).mean);
        study_must(&s, at->weights == o->weights, "%d heads have as many weights as one", heads[i]);
    }
    last = o + (n - 1) * seeds;
    study_claim(&s, "more heads improve performance (000, exercise 1)", OUTCOME_LARGER(last, o, seeds, exact),
                "exact: one head %.1f %%, %d heads %.1f %%", OUTCOME(o, seeds, exact).mean, heads[n - 1],
                OUTCOME(last, seeds, exact).mean);
    study_claim(&s, "more heads cost more time (000, exercise 1)", OUTCOME_LARGER(last, o, seeds, seconds),
                "seconds: one head %.1f, %d heads %.1f", OUTCOME(o, seeds, seconds).mean, heads[n - 1],
                OUTCOME(last, seeds, seconds).mean);
    look(&s, shown);
    trf_model_destroy(shown);
    return study_end(&s);
}

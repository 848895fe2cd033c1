/* heads.c - how many heads does attention need, and where does each of them look?

   Tutorials expect that more heads improve performance and cost time, and that different heads
   specialise in different patterns.

   Models of two layers, d_model 64, learn reversals of 3 to 8 of 17 symbols, one for each number of
   heads and each seed. The study then looks at each head of the model with four heads and seed 1 on
   held-out pairs. It reports the entropy of the weights in nats; the mean of |query - key|; the
   share of the weight on the key before the query's position, at it, after it, and on the first
   key; in cross-attention the share on the anti-diagonal, where a reversal has to look. The
   distance between two heads is the total variation of their weights: 0 if they are equal, 1 if
   they have nothing in common. heads-encoder.svg, heads-decoder.svg and heads-cross.svg show the
   weights for one sequence. */
#include "look.h"

enum { KINDS = 3, SHOWN = 4, MEASURES = 7 };

static const char *const kinds[KINDS] = {"encoder", "decoder", "cross"};
static const char *const titles[KINDS] = {"encoder, self-attention", "decoder, self-attention",
                                          "cross-attention"};
enum { ENTROPY, DISTANCE, PREVIOUS, SAME, NEXT, FIRST, ANTI };

/* Adds what one head does for one sequence, each query counting 1 / queries. */
static void add_measures(const trf_real *weights, int64_t queries, int64_t keys, double part,
                         double *m)
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

/* One row of the table of roles for each head of a kind. Returns how far two heads of one layer are
   apart, in the mean. */
static double roles(struct study *s, const trf_model *model, const struct pairs *p,
                    trf_attention_kind kind)
{
    trf_batch batch = pairs_batch(p, 0, p->count);
    const trf_tensor *all = pairs_attention(s, model, &batch, kind);
    const trf_config *c = trf_model_config(model);
    int32_t i, k, other, heads = c->n_heads, couples = 0;
    double sum = 0, worst = 0;
    for (k = 0; k < c->decoder_layers * heads; k++) {
        double m[MEASURES] = {0};
        for (i = 0; i < p->count; i++) {
            trf_tensor one = all[i];
            const trf_real *w = pairs_head(&one, k / heads, k % heads);
            int64_t queries = one.shape[2], keys = one.shape[3];
            add_measures(w, queries, keys, 1.0 / p->count, m);
            m[ANTI] += reversal_share(w, p->n_source[i], keys) / p->count;
            worst = fmax(worst, broken(w, queries, keys, kind == TRF_DECODER_SELF));
            for (other = 0; other < k % heads; other++, couples++)
                sum += apart(w, pairs_head(&one, k / heads, other), queries, keys);
        }
        study_row(s, "%s | %d | %d | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f", kinds[kind],
                  (int)(k / heads), (int)(k % heads), m[ENTROPY], m[DISTANCE], m[PREVIOUS],
                  m[SAME], m[NEXT], m[FIRST], m[ANTI]);
    }
    study_must(s, worst < 1e-4, "weights sum to 1, and none is ahead: %.1e away", worst);
    return sum / couples;
}

/* What the heads of a trained model do: a table, and a picture for each kind of attention. */
static void look(struct study *s, const trf_model *model)
{
    enum { LOW = REVERSAL_SHORT, HIGH = REVERSAL_LONG };
    static const double bound = 0.3;
    struct pairs p = pairs_reversal(s, 5000, 40, LOW, HIGH, NULL);
    struct pairs longest = pairs_reversal(s, 5002, 1, HIGH, HIGH, NULL);
    trf_batch one = pairs_batch(&longest, 0, 1);
    double distance[KINDS];
    char title[80];
    int kind, far = 0;
    study_table(s, "roles", "attention | layer | head | entropy | distance | previous | same | "
                            "next | first | anti-diagonal");
    for (kind = 0; kind < KINDS; kind++) {
        distance[kind] = roles(s, model, &p, (trf_attention_kind)kind);
        far += distance[kind] > bound;
    }
    for (kind = 0; kind < KINDS; kind++) {
        snprintf(title, sizeof title, "%s of a model that reverses", titles[kind]);
        reversal_draw(s, kinds[kind], title, model, &one, (trf_attention_kind)kind);
    }
    study_claim(s, "different heads specialise in different patterns",
                far == KINDS ? STUDY_YES : far ? STUDY_UNDECIDED : STUDY_NO,
                "the distance of two heads is %.2f in the encoder, %.2f in the decoder, "
                "%.2f in cross-attention (bound: %.1f)", distance[0], distance[1],
                distance[2], bound);
}

int main(int argc, char **argv)
{
    static const int all[] = {1, 2, 4, 8, 16}, few[] = {1, 4, 16};
    struct study s = study_begin(argc, argv, "heads", "how many heads does attention need?");
    const int *heads = s.quick ? few : all;
    int n = s.quick ? STUDY_COUNT(few) : STUDY_COUNT(all), seeds = s.quick ? 1 : s.seeds, i, seed;
    int32_t count = s.quick ? 2000 : 5000;
    trf_model *shown = NULL;
    struct outcome *o = (struct outcome *)study_memory(&s, (size_t)(n * seeds) * sizeof *o), *last;
    study_columns(&s, "heads | weights | held-out loss | tokens right, % | exact, % | "
                      "CPU seconds");
    for (i = 0; i < n; i++) {
        struct outcome *at = o + i * seeds;
        for (seed = 0; seed < seeds; seed++) {
            struct lesson lesson = pairs_lesson(&s, 64, heads[i], s.quick ? 1 : 2, 128);
            trf_model *model;
            pairs_hurry(&lesson, s.quick ? 3e-3 : 2e-3, s.quick ? 6 : 8, 64, count);
            model = reversal_learn(&s, lesson, count, (uint64_t)seed + 1, at + seed);
            if (heads[i] == SHOWN && !seed) shown = model;
            else trf_model_destroy(model);
        }
        study_row(&s, "%d | %.0f | %s | %s | %s | %s", heads[i], at->weights,
                  SPREAD(at, seeds, loss, 3), SPREAD(at, seeds, accuracy, 1),
                  SPREAD(at, seeds, exact, 1), SPREAD(at, seeds, seconds, 1));
        study_must(&s, at->weights == o->weights, "%d heads have as many weights as one", heads[i]);
        study_must(&s, MEAN(at, seeds, loss) < 2, "%d heads learn", heads[i]);
    }
    last = o + (n - 1) * seeds;
    study_claim(&s, "more heads improve performance",
                LARGER(last, o, seeds, exact), "exact: one head %s %%, %d heads %s %%",
                SPREAD(o, seeds, exact, 1), heads[n - 1], SPREAD(last, seeds, exact, 1));
    study_claim(&s, "more heads cost more time", LARGER(last, o, seeds, seconds),
                "CPU seconds: one head %s, %d heads %s", SPREAD(o, seeds, seconds, 1),
                heads[n - 1], SPREAD(last, seeds, seconds, 1));
    look(&s, shown);
    trf_model_destroy(shown);
    return study_end(&s);
}

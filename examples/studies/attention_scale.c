/* attention_scale.c - why does attention divide its scores by sqrt(d_head)?

   The paper suspects (3.2.1) that dot products of long vectors grow large, so that the softmax
   gives nearly all weight to one key and passes hardly any gradient back. Queries and keys here are
   normal with deviation 1. For each d_head the study computes attention with the division and
   without it, and measures three things: the entropy of a query's weights as a share of the highest
   possible entropy, the largest weight, and the norm of the gradient at the scores when a gradient
   of norm 1 reaches the weights.

   The library always divides. Queries multiplied by sqrt(d_head) undo that. */
#include "study.h"

enum { KEYS = 32, QUERIES = 256, FIGURES = 3 };

/* The softmax's own gradient: ds_j = p_j (dp_j - sum_k p_k dp_k). Returns its norm. */
static double through_softmax(const trf_real *p, uint64_t *state)
{
    double dp[KEYS], norm = 0, inner = 0, sum = 0;
    int j;
    for (j = 0; j < KEYS; j++) {
        dp[j] = study_normal(state);
        norm += dp[j] * dp[j];
    }
    for (j = 0; j < KEYS; j++) inner += (double)p[j] * dp[j];
    for (j = 0; j < KEYS; j++) {
        double ds = (double)p[j] * (dp[j] - inner);
        sum += ds * ds;
    }
    return sqrt(sum / norm);
}

/* The means of the three figures over all queries. */
static void measure(struct study *s, trf_context *context, int d_head, int divided, int seed,
                    double *figures)
{
    static const int32_t queries = QUERIES, keys = KEYS;
    trf_attention_shape shape = {.query_lengths = &queries, .key_lengths = &keys, .count = 1,
                                 .n_heads = 1};
    trf_tensor q = study_tensor(s, QUERIES, d_head), k = study_tensor(s, KEYS, d_head);
    trf_tensor p = study_tensor(s, QUERIES, KEYS);
    uint64_t state = (uint64_t)(1000 * seed + d_head);
    int i, j;
    p = trf_tensor_of(p.data, 1, (int64_t)QUERIES * KEYS, 1, 1);
    study_fill_normal(&q, &state, divided ? 1 : sqrt(d_head));
    study_fill_normal(&k, &state, 1);
    STUDY_TRY(trf_attention(context, NULL, &q, &k, NULL, &shape, &p, NULL, &err));
    for (i = 0; i < FIGURES; i++) figures[i] = 0;
    for (i = 0; i < QUERIES; i++) {
        const trf_real *row = p.data + (int64_t)i * KEYS;
        double entropy = 0, largest = 0, sum = 0;
        for (j = 0; j < KEYS; j++) {
            if (row[j] > 0) entropy -= (double)row[j] * log((double)row[j]);
            largest = fmax(largest, (double)row[j]);
            sum += (double)row[j];
        }
        study_must(s, fabs(sum - 1) < 1e-5, "the weights of a query sum up to 1, not %.9f", sum);
        figures[0] += entropy / log(KEYS) / QUERIES;
        figures[1] += largest / QUERIES;
        figures[2] += through_softmax(row, &state) / QUERIES;
    }
}

static void draw(struct study *s, const double *sizes, double (*mean)[2][16], int n)
{
    static const char *const titles[] = {"entropy, share of the highest", "largest weight",
                                         "gradient through the softmax"};
    struct curve curves[FIGURES][2];
    struct panel panels[FIGURES];
    int f, divided;
    for (f = 0; f < FIGURES; f++) {
        for (divided = 0; divided < 2; divided++) {
            const char *name = divided ? "divided by sqrt(d_head)" : "not divided";
            curves[f][divided] = study_curve(name, sizes, mean[f][divided], n);
        }
        panels[f] = study_panel(titles[f], "d_head", NULL, curves[f], 2);
        panels[f].log_x = panels[f].from_zero = 1;
    }
    study_curves(s, "", panels, FIGURES, FIGURES);
}

int main(int argc, char **argv)
{
    static const int full[] = {1, 4, 16, 32, 64, 128, 256, 512, 1024}, quick[] = {4, 64, 512};
    struct study s = study_begin(argc, argv, "attention_scale",
                                 "attention with and without 1/sqrt(d_head)");
    const int *d_heads = s.quick ? quick : full;
    int n = s.quick ? STUDY_COUNT(quick) : STUDY_COUNT(full), i, f, seed, divided;
    double mean[FIGURES][2][16], sizes[16];
    trf_context *context = study_context(&s);
    study_columns(&s, "d_head | divided | entropy, share of the highest | largest weight | "
                      "gradient through the softmax");
    for (i = 0; i < n; i++) {
        sizes[i] = d_heads[i];
        for (divided = 1; divided >= 0; divided--) {
            double of[FIGURES][100];
            for (seed = 0; seed < s.seeds; seed++) {
                double figures[FIGURES];
                measure(&s, context, d_heads[i], divided, seed + 1, figures);
                for (f = 0; f < FIGURES; f++) of[f][seed] = figures[f];
            }
            for (f = 0; f < FIGURES; f++) mean[f][divided][i] = study_mean(of[f], s.seeds);
            study_row(&s, "%d | %s | %s | %s | %s", d_heads[i], divided ? "yes" : "no",
                      study_spread(of[0], s.seeds, 3), study_spread(of[1], s.seeds, 3),
                      study_spread(of[2], s.seeds, 4));
        }
    }
    trf_context_destroy(context);
    draw(&s, sizes, mean, n);
    study_must(&s, mean[0][0][n - 1] < 0.2 && mean[0][1][n - 1] > 0.7,
               "long heads are sharp only without the division: %g and %g", mean[0][0][n - 1],
               mean[0][1][n - 1]);
    study_must(&s, mean[2][0][n - 1] < mean[2][1][n - 1], "the division saves gradient");
    for (i = 1; i < n; i++)
        study_must(&s, mean[0][0][i] < mean[0][0][i - 1], "without it, longer heads are sharper");
    study_claim(&s, "without 1/sqrt(d_head) the softmax saturates as heads grow", STUDY_YES,
                "largest weight at d_head %d to %d: %.2f to %.2f without, %.2f to %.2f with",
                d_heads[0], d_heads[n - 1], mean[1][0][0], mean[1][0][n - 1], mean[1][1][0],
                mean[1][1][n - 1]);
    study_claim(&s, "without 1/sqrt(d_head) the gradient through the softmax vanishes",
                mean[2][0][n - 1] < mean[2][1][n - 1] / 2 ? STUDY_YES : STUDY_NO,
                "norm at d_head %d: %.4f without, %.4f with", d_heads[n - 1], mean[2][0][n - 1],
                mean[2][1][n - 1]);
    return study_end(&s);
}

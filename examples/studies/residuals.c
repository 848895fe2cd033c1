/* residuals.c - do gradients vanish without residual connections?

   Tutorials stack linear layers, mostly with tanh, with and without residual connections, and look
   at the gradient that arrives at the input. One initialises its weights with deviation 0.5 and
   claims that this shows how gradients vanish. Another uses the initialisation of nn.Linear. The
   study measures both. residuals_encoder.c does the same for encoder layers.

   The loss is the sum of the outputs. Figures are geometric means over seeds. */
#include "study.h"

enum { DEPTHS = 5 };
static const int depths[DEPTHS] = {1, 5, 10, 20, 50};

/* A stack h_i = [h_i-1 +] tanh(W h_i-1). deviation 0: nn.Linear's initialisation. */
struct stack { const char *name; int d, squash; double deviation; };
static const struct stack stacks[] = {
    {"tanh, d 64, nn.Linear's weights", 64, 1, 0},
    {"tanh, d 64, weights of deviation 0.5", 64, 1, 0.5},
    {"linear, d 512, nn.Linear's weights", 512, 0, 0}};

static void fill(const struct stack *k, trf_tensor *w, uint64_t *random)
{
    int64_t i;
    if (k->deviation > 0) {
        study_fill_normal(w, random, k->deviation);
        return;
    }
    for (i = 0; i < trf_tensor_count(w); i++)
        w->data[i] = (trf_real)((2 * study_uniform(random) - 1) / sqrt(k->d));
}

/* The norm of d sum(h_depth) / d h_0. */
static double gradient(struct study *s, trf_context *context, const struct stack *k, int depth,
                       int residual, int seed)
{
    trf_tensor *h = (trf_tensor *)study_memory(s, (size_t)(depth + 1) * sizeof *h);
    trf_tensor *w = (trf_tensor *)study_memory(s, (size_t)depth * sizeof *w);
    trf_tensor dh = study_tensor(s, 1, k->d), dx = study_tensor(s, 1, k->d);
    trf_tensor dy = study_tensor(s, 1, k->d), dw = study_tensor(s, k->d, k->d);
    uint64_t random = (uint64_t)seed;
    double sum = 0;
    int i, j;
    h[0] = study_tensor(s, 1, k->d);
    study_fill_normal(&h[0], &random, 1);
    for (i = 0; i < depth; i++) {
        w[i] = study_tensor(s, k->d, k->d);
        h[i + 1] = study_tensor(s, 1, k->d);
        fill(k, &w[i], &random);
        STUDY_TRY(trf_linear(context, &h[i + 1], &h[i], &w[i], NULL, &err));
        for (j = 0; j < k->d; j++) {
            trf_real *y = &h[i + 1].data[j];
            if (k->squash) *y = (trf_real)tanh((double)*y);
            if (residual) *y += h[i].data[j];
        }
    }
    for (j = 0; j < k->d; j++) dh.data[j] = 1;
    for (i = depth - 1; i >= 0; i--) {
        for (j = 0; j < k->d; j++) {    /* the slope of tanh is 1 - tanh^2 */
            double t = (double)h[i + 1].data[j] - (residual ? (double)h[i].data[j] : 0);
            dy.data[j] = (trf_real)((double)dh.data[j] * (k->squash ? 1 - t * t : 1));
        }
        STUDY_TRY(trf_linear_backward(context, &dx, &dw, NULL, &dy, &h[i], &w[i], &err));
        for (j = 0; j < k->d; j++) dh.data[j] = dx.data[j] + (residual ? dh.data[j] : 0);
    }
    for (j = 0; j < k->d; j++) sum += (double)dh.data[j] * (double)dh.data[j];
    return sqrt(sum);
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "residuals", "the gradient at the input of a stack");
    trf_context *context = study_context(&s);
    double mean[3][2][DEPTHS], x[DEPTHS];
    struct curve curves[3][2];
    struct panel panels[3];
    int k, i, residual, seed;
    study_columns(&s, "stack | layers | gradient without residuals | with residuals");
    for (k = 0; k < 3; k++) {
        int n = s.quick && stacks[k].d > 64 ? 3 : DEPTHS;
        for (i = 0; i < n; i++) {
            x[i] = depths[i];
            for (residual = 0; residual < 2; residual++) {
                double logs[100];
                for (seed = 0; seed < s.seeds; seed++)
                    logs[seed] = log(gradient(&s, context, &stacks[k], depths[i], residual,
                                              seed + 1));
                mean[k][residual][i] = exp(study_mean(logs, s.seeds));
            }
            study_row(&s, "%s | %d | %.2e | %.2e", stacks[k].name, depths[i], mean[k][0][i],
                      mean[k][1][i]);
        }
        for (i = 0; i < 2; i++)
            curves[k][i] = study_curve(i ? "with" : "without residuals", x, mean[k][i], n);
        panels[k] = study_panel(stacks[k].name, "layers", "gradient at the input", curves[k], 2);
        panels[k].log_y = 1;
    }
    trf_context_destroy(context);
    study_curves(&s, "", panels, 3, 3);
    study_must(&s, mean[0][0][4] < 1e-6 * mean[0][0][0], "nn.Linear's weights make it vanish");
    study_must(&s, mean[0][1][4] > 1, "residuals keep it alive: %g", mean[0][1][4]);
    study_must(&s, mean[1][0][4] > mean[1][0][0], "large weights make it explode");
    study_must(&s, mean[2][0][2] < mean[2][1][2], "residuals keep it larger in linear stacks");
    study_claim(&s, "gradients vanish without residuals, nn.Linear's initialisation", STUDY_YES,
                "%.2g after 1 layer, %.2g after 50; with residuals %.0f and %.0f", mean[0][0][0],
                mean[0][0][4], mean[0][1][0], mean[0][1][4]);
    study_claim(&s, "gradients vanish without residuals, deviation 0.5, the tutorial's",
                STUDY_NO, "%.2g after 1 layer, %.2g after 50: they explode", mean[1][0][0],
                mean[1][0][4]);
    study_claim(&s, "with residuals gradients stay healthy, deviation 0.5, the tutorial's",
                mean[1][1][4] < 100 * mean[1][1][0] ? STUDY_YES : STUDY_NO,
                "%.2g after 1 layer, %.2g after 50", mean[1][1][0], mean[1][1][4]);
    study_claim(&s, "ten linear layers of 512 lose the gradient without residuals", STUDY_YES,
                "%.3f without, %.1f with", mean[2][0][2], mean[2][1][2]);
    return study_end(&s);
}

/* norm.c - what does layer norm do to a row of numbers?

   Tutorials normalise random rows, print mean and deviation before and after, and compare a layer
   norm of their own (epsilon 1e-6) with PyTorch's (1e-5). They claim that every row then has mean 0
   and deviation 1, whatever it was before, and that a row does not depend on its batch.

   The study applies trf_norm to rows of many means and deviations, and compares it with
   numbers from PyTorch. Deviations are biased (divided by n), as in the norm itself. */
#include "study.h"

/* Made by torch.nn.LayerNorm(8) of PyTorch 2.15 in float64, from the float32 numbers of
       x = (torch.arange(24) * 1.7).sin() * 3 + 2, in rows of 8, the last row times 1e-3
       weight = torch.linspace(0.5, 1.375, 8), bias = torch.linspace(-1, 0.75, 8)
       y.backward((torch.arange(24) * 0.9).cos()) */
enum { ROWS = 3, WIDTH = 8 };
static const double torch_y[ROWS * WIDTH] = {
    -0.98010688, 0.191979969, -0.753756362, -1.41388643, 0.77093335, 1.62398495, -0.744786308,
    -0.452960969, -0.423006247, -0.442463439, -1.58902761, -0.502993883, 1.35529262, -0.0102793201,
    -1.33365645, 1.35241309, -0.68986505, -1.07384744, -0.971802924, 0.220694595, 0.348126438,
    -0.616214924, 0.134952867, 1.71648748};
static const double torch_dx[ROWS * WIDTH] = {
    0.190436964, 0.24930102, -0.169570563, -0.552661537, -0.441766825, -0.0814738724, 0.254780932,
    0.550953883, 0.0964863789, -0.137577954, -0.438876125, -0.455425091, -0.136417376, 0.264861853,
    0.482911461, 0.324036853, -42.0739776, -177.878517, -202.529424, -50.2320301, 157.646398,
    257.179393, 163.11045, -105.222292};
static const double torch_dgain[WIDTH] = {0.580659139, 1.29266394, 1.95431213, 1.36400398,
                                          -0.724841167, -1.17626603, -2.26790922, -0.808123627};
static const double torch_dbias[WIDTH] = {1.34853393, -0.539864942, -2.01970485, -1.97107239,
                                          -0.430771634, 1.43552853, 2.21544927, 1.31876215};

/* The largest difference, as a share of the largest number. */
static double away(const trf_real *x, const double *wanted, int n)
{
    double worst = 0, largest = 0;
    int i;
    for (i = 0; i < n; i++) {
        double apart = fabs((double)x[i] - wanted[i]);
        if (!(apart <= worst)) worst = apart;
        largest = fmax(largest, fabs(wanted[i]));
    }
    return worst / largest;
}

static void against_pytorch(struct study *s, trf_context *context)
{
    trf_tensor x = study_tensor(s, ROWS, WIDTH), y = study_tensor(s, ROWS, WIDTH);
    trf_tensor dy = study_tensor(s, ROWS, WIDTH), dx = study_tensor(s, ROWS, WIDTH);
    trf_tensor gain = study_tensor(s, WIDTH, 0), bias = study_tensor(s, WIDTH, 0);
    trf_tensor dgain = study_tensor(s, WIDTH, 0), dbias = study_tensor(s, WIDTH, 0);
    trf_tensor saved = study_tensor(s, 2 * ROWS, 0);
    double apart[4];
    int i;
    for (i = 0; i < ROWS * WIDTH; i++) {
        x.data[i] = (trf_real)((3 * sin(1.7 * i) + 2) * (i < 2 * WIDTH ? 1 : 1e-3));
        dy.data[i] = (trf_real)cos(0.9 * i);
    }
    for (i = 0; i < WIDTH; i++) {
        gain.data[i] = (trf_real)(0.5 + 0.125 * i);
        bias.data[i] = (trf_real)(-1 + 0.25 * i);
    }
    STUDY_TRY(trf_norm(context, &y, &x, &gain, &bias, TRF_NORM_STANDARD, 1e-5, &saved, &err));
    STUDY_TRY(trf_norm_backward(context, &dx, &dgain, &dbias, &dy, &x, &gain, TRF_NORM_STANDARD,
                                1e-5, &saved, &err));
    apart[0] = away(y.data, torch_y, ROWS * WIDTH);
    apart[1] = away(dx.data, torch_dx, ROWS * WIDTH);
    apart[2] = away(dgain.data, torch_dgain, WIDTH);
    apart[3] = away(dbias.data, torch_dbias, WIDTH);
    study_table(s, "pytorch", "tensor | largest difference from PyTorch, relative");
    for (i = 0; i < 4; i++) {
        static const char *const names[] = {"y", "dx", "dgain", "dbias"};
        study_row(s, "%s | %.1e", names[i], apart[i]);
        study_must(s, apart[i] < 2e-5, "%s is PyTorch's: %g", names[i], apart[i]);
    }
    study_claim(s, "a layer norm from its formula equals PyTorch's",
                apart[0] < 2e-5 && apart[1] < 2e-5 ? STUDY_YES : STUDY_NO,
                "relative difference: output %.0e, gradient %.0e", apart[0], apart[1]);
}

/* The mean over rows of their deviations, and the largest mean. */
static void statistics(const trf_tensor *x, double *mean, double *deviation)
{
    int64_t rows = x->shape[0], d = x->shape[1], i, j;
    *mean = *deviation = 0;
    for (i = 0; i < rows; i++) {
        const trf_real *row = x->data + i * d;
        double sum = 0, squares = 0;
        for (j = 0; j < d; j++) sum += (double)row[j];
        sum /= (double)d;
        for (j = 0; j < d; j++) squares += ((double)row[j] - sum) * ((double)row[j] - sum);
        if (!(fabs(sum) <= fabs(*mean))) *mean = sum;
        *deviation += sqrt(squares / (double)d) / (double)rows;
    }
}

enum { POINTS = 11, EPSILONS = 3, D = 512 };
static const double epsilons[EPSILONS] = {1e-6, 1e-5, 1e-2};

/* Rows of this deviation, with twice it as their mean, through a norm of each epsilon. Returns the
   largest mean afterwards. */
static double normalise(struct study *s, trf_context *context, double scale, const trf_tensor *x,
                        trf_tensor *y, double *before, double *after)
{
    trf_tensor gain = study_tensor(s, D, 0), bias = study_tensor(s, D, 0);
    double mean_before, mean = 0;
    uint64_t random = 1;
    int64_t k;
    int e;
    for (k = 0; k < D; k++) gain.data[k] = 1;
    for (k = 0; k < trf_tensor_count(x); k++)
        x->data[k] = (trf_real)(scale * (2 + study_normal(&random)));
    statistics(x, &mean_before, before);
    for (e = 0; e < EPSILONS; e++) {
        double largest, expected = *before / sqrt(*before * *before + epsilons[e]);
        STUDY_TRY(trf_norm(context, &y[e], x, &gain, &bias, TRF_NORM_STANDARD, epsilons[e], NULL,
                           &err));
        statistics(&y[e], &largest, &after[e]);
        mean = fmax(mean, fabs(largest));
        study_must(s, fabs(after[e] - expected) < 2e-3,
                   "the deviation is deviation / sqrt(variance + epsilon): %g, not %g", after[e],
                   expected);
    }
    study_must(s, mean < 1e-5, "the mean of a row is 0 afterwards: %g", mean);
    study_row(s, "%.2e | %.2e | %.6f | %.6f | %.6f | %.1e", *before, mean_before, after[0],
              after[1], after[2], mean);
    if (scale == 1) {
        trf_tensor one = trf_tensor_of(x->data + 7 * D, 2, 1, D, 1), alone = study_tensor(s, 1, D);
        STUDY_TRY(trf_norm(context, &alone, &one, &gain, &bias, TRF_NORM_STANDARD, epsilons[2],
                           NULL, &err));
        study_must(s, !memcmp(alone.data, y[2].data + 7 * D, D * sizeof(trf_real)),
                   "a row alone has the same bits as in a batch");
    }
    return mean;
}

static void sweep(struct study *s, trf_context *context)
{
    static const char *const names[] = {"epsilon 1e-6", "epsilon 1e-5", "epsilon 1e-2"};
    trf_tensor x = study_tensor(s, s->quick ? 40 : 640, D), y[EPSILONS];
    double before[POINTS], after[POINTS][EPSILONS], lines[EPSILONS][POINTS], largest = 0;
    struct curve curves[EPSILONS];
    struct panel panel;
    int i, e;
    for (e = 0; e < EPSILONS; e++) y[e] = study_tensor(s, x.shape[0], D);
    study_columns(s, "deviation before | largest mean before | deviation after, epsilon 1e-6 | "
                     "1e-5 | 1e-2 | largest mean after");
    for (i = 0; i < POINTS; i++) {
        double scale = i == 6 ? 1 : pow(10, i - 6);
        largest = fmax(largest, normalise(s, context, scale, &x, y, &before[i], after[i]));
    }
    for (e = 0; e < EPSILONS; e++) {
        for (i = 0; i < POINTS; i++) lines[e][i] = after[i][e];
        curves[e] = study_curve(names[e], before, lines[e], POINTS);
    }
    panel = study_panel("layer norm", "deviation before", "deviation after", curves, EPSILONS);
    panel.log_x = 1;
    study_curves(s, "", &panel, 1, 1);
    study_claim(s, "after layer norm every row has mean 0", STUDY_YES, "at most %.0e", largest);
    study_claim(s, "a row's result does not depend on its batch", STUDY_YES,
                "a row alone gives the same bits");
    study_claim(s, "after layer norm every row has deviation 1", STUDY_NO,
                "%.5f if it was 1 before, %.3f if it was 1e-3: a variance near epsilon, 1e-5, "
                "matters", after[6][1], after[3][1]);
}

/* The tutorials' comparison: epsilon 1e-6 beside 1e-5, on normal numbers. */
static void two_epsilons(struct study *s, trf_context *context)
{
    enum { N = 20, W = 64 };
    trf_tensor x = study_tensor(s, N, W), a = study_tensor(s, N, W), b = study_tensor(s, N, W);
    trf_tensor gain = study_tensor(s, W, 0), bias = study_tensor(s, W, 0);
    uint64_t random = 42;
    double apart;
    int i;
    study_fill_normal(&x, &random, 1);
    for (i = 0; i < W; i++) gain.data[i] = 1;
    STUDY_TRY(trf_norm(context, &a, &x, &gain, &bias, TRF_NORM_STANDARD, 1e-6, NULL, &err));
    STUDY_TRY(trf_norm(context, &b, &x, &gain, &bias, TRF_NORM_STANDARD, 1e-5, NULL, &err));
    apart = study_apart(&a, &b);
    study_must(s, apart > 0 && apart < 5e-5, "two epsilons are near on normal numbers: %g", apart);
    study_claim(s, "epsilon 1e-6 instead of 1e-5 makes no difference that matters",
                apart < 5e-5 ? STUDY_YES : STUDY_NO,
                "at most %.0e on normal rows of %d", apart, W);
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "norm", "mean and deviation before and after");
    trf_context *context = study_context(&s);
    against_pytorch(&s, context);
    sweep(&s, context);
    two_epsilons(&s, context);
    trf_context_destroy(context);
    return study_end(&s);
}

/* The obvious formulas as plain loops in double, to compare kernels with; random numbers; and
   memory in blocks of exactly the size asked for, so that a sanitizer sees every step beyond one.
   Include it after transformer.h and cmocka.h. */
#ifndef PLAIN_H
#define PLAIN_H

#include "kit.h"

/* -----------------------------------------------------------------------------------------------
   Memory, given back by plain_teardown after each test, and random numbers, the same in every run.
 */

enum { PLAIN_BLOCKS = 1 << 16 };
static void *plain_blocks[PLAIN_BLOCKS];
static int plain_used;
static uint64_t plain_seed = 1;

static KIT_UNUSED void *plain_work(size_t bytes)
{
    void *block = malloc(bytes ? bytes : 1);
    assert_non_null(block);
    assert_true(plain_used < PLAIN_BLOCKS);
    plain_blocks[plain_used++] = block;
    return block;
}

/* Frees what was made since `plain_used` was `mark`: for tests with many cases. */
static KIT_UNUSED void plain_release(int mark)
{
    while (plain_used > mark) free(plain_blocks[--plain_used]);
}

static KIT_UNUSED int plain_teardown(void **state)
{
    (void)state;
    plain_release(0);
    plain_seed = 1;
    return 0;
}

/* Uniform between -1 and 1 (splitmix64). */
static KIT_UNUSED double plain_draw(void)
{
    uint64_t z = plain_seed += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) / 4503599627370496.0 - 1;
}
static KIT_UNUSED int64_t plain_below(int64_t n)
{
    return (int64_t)((plain_draw() + 1) / 2 * (double)n) % n;
}

static KIT_UNUSED trf_real *plain_fill(trf_real *x, int64_t n, double value)
{
    int64_t i;
    for (i = 0; i < n; i++) x[i] = (trf_real)value;
    return x;
}

/* n numbers that nobody has written yet: NaN, so that forgotten ones are seen. */
static KIT_UNUSED trf_real *plain_empty(int64_t n)
{
    return plain_fill((trf_real *)plain_work((size_t)n * sizeof(trf_real)), n, NAN);
}

static KIT_UNUSED trf_real *plain_random(int64_t n, double scale)
{
    trf_real *x = plain_empty(n);
    int64_t i;
    for (i = 0; i < n; i++) x[i] = (trf_real)(scale * plain_draw());
    return x;
}

static KIT_UNUSED trf_real *plain_copy(const trf_real *from, int64_t n)
{
    return (trf_real *)memcpy(plain_empty(n), from, (size_t)n * sizeof(trf_real));
}

static KIT_UNUSED double *plain_zeros(int64_t n)
{
    return (double *)memset(plain_work((size_t)n * sizeof(double)), 0, (size_t)n * sizeof(double));
}

static KIT_UNUSED double *plain_doubles(const trf_real *from, int64_t n)
{
    double *x = plain_zeros(n);
    int64_t i;
    for (i = 0; i < n; i++) x[i] = (double)from[i];
    return x;
}

/* -----------------------------------------------------------------------------------------------
   Comparing. A NaN is never near anything. */

/* Every |got - want| at most `tolerance` times the largest |want|. */
#define assert_all_near(what, got, want, n, tolerance) \
    plain_near(what, got, want, n, tolerance, __FILE__, __LINE__)
static KIT_UNUSED void plain_near(const char *what, const trf_real *got, const double *want,
                                  int64_t n, double tolerance, const char *file, int line)
{
    double largest = 0;
    int64_t i;
    for (i = 0; i < n; i++) if (fabs(want[i]) > largest) largest = fabs(want[i]);
    for (i = 0; i < n; i++) {
        if (fabs((double)got[i] - want[i]) <= tolerance * largest) continue;
        print_error("%s[%lld] of %lld: got %.12g, expected %.12g within %.1e times %.3g\n", what,
                    (long long)i, (long long)n, (double)got[i], want[i], tolerance, largest);
        _fail(file, line);
    }
}

#define assert_number_near(got, want, tolerance) \
    plain_near_one((double)(got), (double)(want), tolerance, __FILE__, __LINE__)
static KIT_UNUSED void plain_near_one(double got, double want, double tolerance, const char *file,
                                      int line)
{
    if (fabs(got - want) <= tolerance) return;
    print_error("got %.15g, expected %.15g within %.1e\n", got, want, tolerance);
    _fail(file, line);
}

/* -----------------------------------------------------------------------------------------------
   The formulas. */

/* y (rows, out) = x (rows, in) w^T + b */
static KIT_UNUSED void plain_linear(double *y, const double *x, const double *w, const double *b,
                                    int64_t rows, int64_t out, int64_t in)
{
    int64_t r, o, i;
    for (r = 0; r < rows; r++)
        for (o = 0; o < out; o++) {
            y[r * out + o] = b ? b[o] : 0;
            for (i = 0; i < in; i++) y[r * out + o] += x[r * in + i] * w[o * in + i];
        }
}

static KIT_UNUSED double plain_activation(int kind, double h)
{
    if (kind == TRF_RELU) return h > 0 ? h : 0;
    if (kind == TRF_GELU) return h * 0.5 * (1 + erf(h / sqrt(2.0)));
    if (kind == TRF_GELU_TANH)
        return h * 0.5 * (1 + tanh(sqrt(2 / acos(-1.0)) * (h + 0.044715 * h * h * h)));
    if (kind == TRF__TANH) return tanh(h);
    return kind == TRF_SILU ? h / (1 + exp(-h)) : h;
}

static KIT_UNUSED double plain_slope(int kind, double h)
{
    double s = 1 / (1 + exp(-h));
    if (kind == TRF_RELU) return h > 0;
    if (kind == TRF_GELU)
        return 0.5 * (1 + erf(h / sqrt(2.0))) + h * exp(-h * h / 2) / sqrt(2 * acos(-1.0));
    if (kind == TRF_GELU_TANH) {
        double t = tanh(sqrt(2 / acos(-1.0)) * (h + 0.044715 * h * h * h));
        return 0.5 * (1 + t) +
               0.5 * h * (1 - t * t) * sqrt(2 / acos(-1.0)) * (1 + 3 * 0.044715 * h * h);
    }
    if (kind == TRF__TANH) return 1 - tanh(h) * tanh(h);
    return kind == TRF_SILU ? s + h * s * (1 - s) : 1;
}

/* One row: y = gain * n + bias, n = (s - mean) r. Returns r. */
static KIT_UNUSED double plain_norm(double *y, const double *s, const double *gain,
                                    const double *bias, int64_t d, double epsilon, int rule,
                                    double *mean_out)
{
    double mean = 0, var = 0, r;
    int64_t i;
    for (i = 0; i < d; i++) mean += s[i] / (double)d;
    for (i = 0; i < d; i++) var += (s[i] - mean) * (s[i] - mean);
    if (rule == TRF_NORM_ANNOTATED) r = 1 / (sqrt(var / (double)(d - 1)) + epsilon);
    else r = 1 / sqrt(var / (double)d + epsilon);
    for (i = 0; i < d; i++) y[i] = gain[i] * (s[i] - mean) * r + bias[i];
    *mean_out = mean;
    return r;
}

/* ds of one row from dy, by the whole matrix of derivatives; dgain and dbias are added to. */
static KIT_UNUSED void plain_norm_backward(double *ds, double *dgain, double *dbias,
                                           const double *dy, const double *s, const double *gain,
                                           int64_t d, double epsilon, int rule)
{
    double *y = plain_zeros(d), mean, r = plain_norm(y, s, gain, gain, d, epsilon, rule, &mean);
    double deviation = 1 / r - epsilon;
    int64_t i, j;
    for (j = 0; j < d; j++) {
        double dr = rule == TRF_NORM_ANNOTATED
                        ? -r * r * (s[j] - mean) / ((double)(d - 1) * deviation)
                        : -r * r * r * (s[j] - mean) / (double)d;
        ds[j] = 0;
        for (i = 0; i < d; i++)
            ds[j] += dy[i] * gain[i] * (((i == j) - 1 / (double)d) * r + (s[i] - mean) * dr);
        dgain[j] += dy[j] * (s[j] - mean) * r;
        dbias[j] += dy[j];
    }
}

/* One head of one sequence: q (n, d), k and v (m, d); row i sees its first `m - n + i + 1` keys if
   causal. keep: the dropout's factors (n, m), or NULL. p: the weights before dropout. dq, dk, dv
   only if dout is given. */
/* bias: added to the scores, one for each key - query from 1 - m to n - 1, the queries being the
   last positions; or NULL. The maximum is that of q k^T, or with a bias of the scores. */
typedef struct plain_head {
    int64_t n, m, d;
    int causal;
    double scale;
    const double *q, *k, *v, *keep, *dout, *bias;
    double *p, *out, *dq, *dk, *dv, *maximum, *sum, *dbias;
} plain_head;

static KIT_UNUSED void plain_attention(const plain_head *a)
{
    int64_t n = a->n, m = a->m, d = a->d, i, j, c;
    double *dp = plain_zeros(m), scale = a->scale, factor_of_exp = a->bias ? 1 : scale;
    for (i = 0; i < n; i++) {
        int64_t seen = a->causal ? m - n + i + 1 : m;
        double maximum = -HUGE_VAL, sum = 0, *p = a->p + i * m, *out = a->out + i * d, average = 0;
        for (j = 0; j < m; j++) p[j] = 0;
        for (c = 0; c < d; c++) out[c] = 0;
        for (j = 0; j < seen; j++) {
            for (c = 0; c < d; c++) p[j] += a->q[i * d + c] * a->k[j * d + c];
            if (a->bias) p[j] = p[j] * scale + a->bias[j - (m - n + i) + m - 1];
            if (p[j] > maximum) maximum = p[j];
        }
        for (j = 0; j < seen; j++) sum += p[j] = exp((p[j] - maximum) * factor_of_exp);
        for (j = 0; j < seen; j++) p[j] /= sum;
        if (a->maximum) { a->maximum[i] = maximum; a->sum[i] = sum; }
        for (j = 0; j < seen; j++)
            for (c = 0; c < d; c++)
                out[c] += p[j] * (a->keep ? a->keep[i * m + j] : 1) * a->v[j * d + c];
        if (!a->dout) continue;
        for (j = 0; j < seen; j++) {
            double factor = a->keep ? a->keep[i * m + j] : 1;
            for (dp[j] = 0, c = 0; c < d; c++) {
                dp[j] += factor * a->dout[i * d + c] * a->v[j * d + c];
                a->dv[j * d + c] += factor * p[j] * a->dout[i * d + c];
            }
            average += p[j] * dp[j];
        }
        for (j = 0; a->dbias && j < seen; j++)
            a->dbias[j - (m - n + i) + m - 1] += p[j] * (dp[j] - average);
        for (j = 0; j < seen; j++)
            for (c = 0; c < d; c++) {
                a->dq[i * d + c] += p[j] * (dp[j] - average) * scale * a->k[j * d + c];
                a->dk[j * d + c] += p[j] * (dp[j] - average) * scale * a->q[i * d + c];
            }
    }
}

/* What label smoothing wants of a row (see trf_smoothing), and what is taken off the loss. */
static KIT_UNUSED double plain_wanted(double *q, int rule, double e, int64_t vocab, int64_t target,
                                      int64_t pad)
{
    double entropy = 0;
    int64_t v;
    for (v = 0; v < vocab; v++) {
        if (rule == TRF_SMOOTH_UNIFORM) q[v] = e / (double)vocab + (v == target ? 1 - e : 0);
        else if (rule == TRF_SMOOTH_NO_PAD_KL)
            q[v] = v == target ? 1 - e : v == pad ? 0 : e / (double)(vocab - 2);
        else q[v] = v == target ? 1 - e : e / (double)(vocab - 1);
        if (q[v] > 0) entropy -= q[v] * log(q[v]);
    }
    return rule == TRF_SMOOTH_UNIFORM || rule == TRF_SMOOTH_OTHERS ? 0 : entropy;
}

/* Loss of one row of logits against q in long double; dz = softmax(z) - q if wanted. */
static KIT_UNUSED long double plain_loss(double *dz, const double *z, const double *q,
                                         int64_t vocab)
{
    long double maximum = z[0], sum = 0, loss = 0;
    int64_t v;
    for (v = 1; v < vocab; v++) if (z[v] > maximum) maximum = z[v];
    for (v = 0; v < vocab; v++) sum += expl(z[v] - maximum);
    for (v = 0; v < vocab; v++) {
        loss += q[v] * ((maximum - z[v]) + logl(sum));
        if (dz) dz[v] = (double)(expl(z[v] - maximum) / sum) - q[v];
    }
    return loss;
}

#endif

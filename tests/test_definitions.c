/* build: shared double:shared plain:shared */
/* The conventions in which systems differ, each pinned by a number worked out by hand or by a page
   of plain Python, and one test for each mistake that tutorials make (the rows about search stand
   in the tests of the search). */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kit.h"

#if defined(TRF_DOUBLE)
#define EXACT 1e-13 /* relative, where a few operations are compared with their formula */
#else
#define EXACT 2e-6
#endif

#define assert_near(got, want, tolerance) \
    near_at((double)(got), (double)(want), tolerance, __FILE__, __LINE__)
static void near_at(double got, double want, double tolerance, const char *file, int line)
{
    if (fabs(got - want) <= tolerance) return;
    print_error("got %.12g, expected %.12g within %.1e\n", got, want, tolerance);
    _fail(file, line);
}

static trf_context *one_thread(void)
{
    trf_device device = trf_device_default();
    trf_context *context = NULL;
    device.threads = 1;
    assert_int_equal(trf_context_create(&context, &device, NULL, NULL), TRF_OK);
    return context;
}

// -----------------------------------------------------------------------------------------------
// Label smoothing
// -----------------------------------------------------------------------------------------------

enum { V = 5 };
static const double example[V] = { 0.5, -1.0, 2.0, 0.3, -0.7 };

/* Loss of one row of logits; the weight is the identity, so that x are the logits and dx their
   gradient. */
static double smoothed(const double *logits, int target, double e, trf_smoothing rule,
                       trf_real dlogits[V])
{
    trf_context *context = one_thread();
    trf_cross_entropy_options options;
    trf_real w[V * V], z[V];
    trf_tensor weight = trf_tensor_of(w, 2, V, V, 1), x = trf_tensor_of(z, 2, 1, V, 1);
    trf_tensor dx = trf_tensor_of(dlogits, 2, 1, V, 1);
    int32_t targets[1];
    double loss = -1;
    int i;
    for (i = 0; i < V * V; i++) w[i] = (trf_real)(i % (V + 1) == 0);
    for (i = 0; i < V; i++) { z[i] = (trf_real)logits[i]; dlogits[i] = 77; }
    targets[0] = target;
    options.label_smoothing = e;
    options.rule = rule;
    options.smoothing_pad = 0;
    assert_int_equal(trf_cross_entropy(context, &loss, &dx, NULL, NULL, &x, &weight, NULL, targets,
                                       &options, NULL),
                     TRF_OK);
    trf_context_destroy(context);
    return loss;
}

static void test_smoothing_variants(void **state)
{
    static const struct { trf_smoothing rule; double e, loss, dz[V]; } want[] = {
        { TRF_SMOOTH_UNIFORM, 0.1, 0.598554860,
          { 0.126525638, 0.012694289, -0.263317648, 0.099965046, 0.024132674 } },
        { TRF_SMOOTH_OTHERS, 0.1, 0.643054860,
          { 0.121525638, 0.007694289, -0.243317648, 0.094965046, 0.019132674 } },
        { TRF_SMOOTH_OTHERS_KL, 0.1, 0.179342450,
          { 0.121525638, 0.007694289, -0.243317648, 0.094965046, 0.019132674 } },
        { TRF_SMOOTH_NO_PAD_KL, 0.1, 0.232277324,
          { 0.146525638, -0.000639044, -0.243317648, 0.086631713, 0.010799341 } },
        { TRF_SMOOTH_UNIFORM, 0.0, 0.420554860,
          { 0.146525638, 0.032694289, -0.343317648, 0.119965046, 0.044132674 } },
        { TRF_SMOOTH_NO_PAD_KL, 0.0, 0.420554860,
          { 0.146525638, 0.032694289, -0.343317648, 0.119965046, 0.044132674 } },
    };
    size_t k;
    int i;
    (void)state;
    for (k = 0; k < sizeof want / sizeof *want; k++) {
        trf_real dz[V];
        assert_near(smoothed(example, 2, want[k].e, want[k].rule, dz), want[k].loss, EXACT + 1e-9);
        for (i = 0; i < V; i++) assert_near(dz[i], want[k].dz[i], EXACT + 1e-9);
    }
}

/* So little that its share of a token is 0: none, and no logarithm of it. */
static void test_smoothing_next_to_nothing(void **state)
{
    int rule, i;
    (void)state;
    for (rule = TRF_SMOOTH_UNIFORM; rule <= TRF_SMOOTH_NO_PAD_KL; rule++) {
        trf_real dz[V];
        assert_near(smoothed(example, 2, 5e-324, (trf_smoothing)rule, dz), 0.420554860,
                    EXACT + 1e-9);
        for (i = 0; i < V; i++) assert_true(dz[i] - dz[i] == 0);
    }
}

/* fairseq's rule at e is PyTorch's at e V/(V-1). */
static void test_smoothing_rules_convert(void **state)
{
    trf_real a[V], b[V];
    int i;
    (void)state;
    assert_near(smoothed(example, 2, 0.1, TRF_SMOOTH_OTHERS, a),
                smoothed(example, 2, 0.1 * V / (V - 1), TRF_SMOOTH_UNIFORM, b), EXACT);
    for (i = 0; i < V; i++) assert_near(a[i], b[i], EXACT);
}

/* A model that knows nothing loses ln V, whatever the smoothing; the forms less entropy do not. */
static void test_uniform_logits_lose_ln_v(void **state)
{
    static const double flat[V] = { 3, 3, 3, 3, 3 };
    static const double smoothing[] = { 0.0, 0.1, 0.3, 0.9 };
    trf_real dz[V];
    size_t k;
    (void)state;
    for (k = 0; k < 4; k++) {
        assert_near(smoothed(flat, 2, smoothing[k], TRF_SMOOTH_UNIFORM, dz), log(5.0), EXACT);
        assert_near(smoothed(flat, 2, smoothing[k], TRF_SMOOTH_OTHERS, dz), log(5.0), EXACT);
    }
    assert_near(smoothed(flat, 2, 0.1, TRF_SMOOTH_OTHERS_KL, dz), log(5.0) - 0.463712410,
                EXACT + 1e-9);
}

// -----------------------------------------------------------------------------------------------
// Layer normalisation
// -----------------------------------------------------------------------------------------------

static void normalise(const double *row, int n, double epsilon, double bias, trf_real *out)
{
    trf_context *context = one_thread();
    trf_real x[64], g[64], b[64], s[64];
    trf_tensor tx = trf_tensor_of(x, 2, 1, n, 1), ty = trf_tensor_of(out, 2, 1, n, 1);
    trf_tensor tg = trf_tensor_of(g, 1, n, 1, 1), tb = trf_tensor_of(b, 1, n, 1, 1);
    trf_tensor saved = trf_tensor_of(s, 1, 2, 1, 1);
    int i;
    assert_true(n <= 64);
    for (i = 0; i < n; i++) { x[i] = (trf_real)row[i]; g[i] = 1; b[i] = (trf_real)bias; }
    assert_int_equal(trf_norm(context, &ty, &tx, &tg, &tb, TRF_NORM_STANDARD, epsilon, &saved,
                              NULL), TRF_OK);
    trf_context_destroy(context);
}

/* The rule of The Annotated Transformer: only a model's configuration knows it, so the row function
   is asked. */
static void normalise_annotated(const double *row, int n, double epsilon, double bias,
                                trf_real *out)
{
    trf_real x[64], g[64], b[64], stats[2];
    trf__norm j;
    int i;
    TRF__ZERO(j);
    for (i = 0; i < n; i++) { x[i] = (trf_real)row[i]; g[i] = 1; b[i] = (trf_real)bias; }
    j.gain = g; j.bias = b; j.d = n; j.rows = 1; j.epsilon = epsilon; j.rule = TRF_NORM_ANNOTATED;
    trf__norm_row(&j, x, out, stats);
}

static void test_layer_norm_epsilon(void **state)
{
    static const double x[4] = { 1, 2, 3, 4 }, tiny[4] = { 1e-3, -1e-3, 2e-3, -2e-3 };
    trf_real y[4];
    (void)state;
    normalise(x, 4, 1e-5, 0, y);
    assert_near(y[0], -1.341635420, 1e-6); assert_near(y[1], -0.447211807, 1e-6);
    assert_near(y[3], 1.341635420, 1e-6);
    normalise(x, 4, 1e-6, 0, y);
    assert_near(y[0], -1.341640250, 1e-6); assert_near(y[2], 0.447213417, 1e-6);
    normalise_annotated(x, 4, 1e-6, 0, y);
    assert_near(y[0], -1.161894104, 1e-6); assert_near(y[1], -0.387298035, 1e-6);
    normalise(tiny, 4, 1e-5, 0, y);
    assert_near(y[0], 0.282843, 1e-6); assert_near(y[3], -0.565685, 1e-6);
    normalise(tiny, 4, 1e-6, 0, y);
    assert_near(y[0], 0.534522, 1e-6); assert_near(y[3], -1.069045, 1e-6);
    normalise_annotated(tiny, 4, 1e-6, 0, y);
    assert_near(y[0], 0.547423, 1e-6); assert_near(y[3], -1.094845, 1e-6);
}

/* A row of equal numbers has no direction: what is left is the bias, exactly. */
static void test_layer_norm_of_constant_row(void **state)
{
    static const double constants[] = { 0.0, 1.0, -3.25, 0.1, 1e-3, 1234.567, 1e20, 1e-30 };
    static const int widths[] = { 2, 3, 4, 16, 17, 33, 64 };
    size_t c, w;
    int i;
    (void)state;
    for (c = 0; c < sizeof constants / sizeof *constants; c++)
        for (w = 0; w < sizeof widths / sizeof *widths; w++) {
            double row[64];
            trf_real y[64];
            for (i = 0; i < widths[w]; i++) row[i] = constants[c];
            normalise(row, widths[w], 1e-5, 0.3, y);
            for (i = 0; i < widths[w]; i++) assert_true(y[i] == (trf_real)0.3);
            normalise_annotated(row, widths[w], 1e-5, 0.3, y);
            for (i = 0; i < widths[w]; i++) assert_true(y[i] == (trf_real)0.3);
        }
}

// -----------------------------------------------------------------------------------------------
// Positions
// -----------------------------------------------------------------------------------------------

/* The table itself: embedding of `n` positions with a zero weight, d = 8. A short sequence stands
   before. */
static void positions_table(trf_positions kind, int offset, int n, trf_real *table)
{
    trf_context *context = one_thread();
    trf_embedding_options options;
    trf_real zero[5 * 8], *y = (trf_real *)malloc((size_t)(3 + n) * 8 * sizeof *y);
    int32_t *ids = (int32_t *)calloc((size_t)(3 + n), sizeof *ids), lengths[2];
    trf_sequences x;
    trf_tensor weight = trf_tensor_of(zero, 2, 5, 8, 1), out = trf_tensor_of(y, 2, 3 + n, 8, 1);
    int i;
    assert_non_null(y);
    assert_non_null(ids);
    memset(zero, 0, sizeof zero);
    memset(&options, 0, sizeof options);
    for (i = 0; i < 3 + n; i++) ids[i] = 4;
    lengths[0] = 3; lengths[1] = n;
    x.ids = ids; x.lengths = lengths; x.count = 2;
    options.positions = kind; options.position_offset = offset; options.scale = 1.0;
    assert_int_equal(trf_embedding(context, &out, &x, &weight, &options, NULL), TRF_OK);
    for (i = 0; i < 3 * 8; i++)
        assert_true(y[i] == y[3 * 8 + i]); /* positions restart in every sequence */
    memcpy(table, y + 3 * 8, (size_t)n * 8 * sizeof *y);
    free(y);
    free(ids);
    trf_context_destroy(context);
}

static void test_position_tables(void **state)
{
    static const struct { trf_positions kind; int offset, row; double want[8];
    } cases[] = {
        {TRF_POSITIONS_INTERLEAVED, 0, 0, {0, 1, 0, 1, 0, 1, 0, 1}},
        {TRF_POSITIONS_INTERLEAVED,
         0,
         1,
         {.841471, .540302, .099833, .995004, .010000, .999950, .001000, 1.0}},
        {TRF_POSITIONS_INTERLEAVED,
         0,
         50,
         {-.262375, .964966, -.958924, .283662, .479426, .877583, .049979, .998750}},
        {TRF_POSITIONS_HALVES_N1, 0, 0, {0, 0, 0, 0, 1, 1, 1, 1}},
        {TRF_POSITIONS_HALVES_N1,
         0,
         1,
         {.841471, .046399, .002154, .000100, .540302, .998923, .999998, 1.0}},
        /* fairseq */
        {TRF_POSITIONS_HALVES_N1,
         2,
         0,
         {.909297, .092699, .004309, .000200, -.416147, .995694, .999991, 1.0}},
        /* CTranslate2 */
        {TRF_POSITIONS_HALVES_N1,
         1,
         0,
         {.841471, .046399, .002154, .000100, .540302, .998923, .999998, 1.0}},
        {TRF_POSITIONS_HALVES, 0, 0, {0, 0, 0, 0, 1, 1, 1, 1}},
        {TRF_POSITIONS_HALVES,
         0,
         1,
         {.841471, .099833, .010000, .001000, .540302, .995004, .999950, 1.0}},
        {TRF_POSITIONS_NONE, 0, 1, {0, 0, 0, 0, 0, 0, 0, 0}},
    };
    trf_real table[51 * 8];
    size_t k;
    int i;
    (void)state;
    for (k = 0; k < sizeof cases / sizeof *cases; k++) {
        positions_table(cases[k].kind, cases[k].offset, 51, table);
        for (i = 0; i < 8; i++) assert_near(table[cases[k].row * 8 + i], cases[k].want[i], 6e-7);
    }
}

/* "The first features change slowly": they are the fast ones. */
static void test_low_features_are_fast(void **state)
{
    enum { N = 200 };
    trf_real table[N * 8];
    int crossings[4] = { 0, 0, 0, 0 }, i, p;
    (void)state;
    positions_table(TRF_POSITIONS_INTERLEAVED, 0, N, table);
    for (i = 0; i < 4; i++)
        for (p = 1; p < N; p++)
            crossings[i] += (table[p * 8 + 2 * i] < 0) != (table[(p - 1) * 8 + 2 * i] < 0);
    assert_true(crossings[0] > crossings[1] && crossings[1] > crossings[2] &&
                crossings[2] >= crossings[3]);
    assert_int_equal(crossings[0], 63);     /* of sin p for p < 200: floor(199 / pi) */
}

// -----------------------------------------------------------------------------------------------
// Learning rate
// -----------------------------------------------------------------------------------------------

static void test_noam(void **state)
{
    trf_train_options t = trf_train_defaults();
    (void)state;
    trf_set_conventions(NULL, &t, TRF_CONVENTIONS_PAPER);
    assert_int_equal(t.schedule, TRF_NOAM);
    assert_int_equal(t.warmup, 4000);
    assert_near(trf_learning_rate(&t, 512, 1) / 1.746928107e-07, 1, 1e-9);
    assert_near(trf_learning_rate(&t, 512, 2000) / 3.493856215e-04, 1, 1e-9);
    assert_near(trf_learning_rate(&t, 512, 4000) / 6.987712430e-04, 1, 1e-9);
    assert_near(trf_learning_rate(&t, 512, 8000) / 4.941058844e-04, 1, 1e-9);
    assert_near(trf_learning_rate(&t, 512, 20000) / 3.125e-04, 1, 1e-12);   /* not step 19,999 */
    assert_near(trf_learning_rate(&t, 512, 100000) / 1.397542486e-04, 1, 1e-9);
    t.warmup = 400;
    assert_near(trf_learning_rate(&t, 64, 1) / 1.5625e-05, 1, 1e-9);
    assert_near(trf_learning_rate(&t, 64, 400) / 6.25e-3, 1, 1e-9);
    assert_near(trf_learning_rate(&t, 64, 20000) / 8.838834765e-04, 1, 1e-9);
    t.learning_rate = 2.0; /* tensor2tensor's 0.2 */
    t.warmup = 4000;
    assert_near(trf_learning_rate(&t, 512, 4000) / 1.397542486e-03, 1, 1e-9);
}

/* Step 0 divides by zero in one tutorial; a longer warm-up gives a higher peak in another. */
static void test_noam_at_zero_and_its_peak(void **state)
{
    trf_train_options t = kit_training();
    double last = HUGE_VAL;
    int64_t w, s;
    (void)state;
    assert_true(trf_learning_rate(&t, 512, 0) >= 0 &&
                trf_learning_rate(&t, 512, 0) <= trf_learning_rate(&t, 512, 1));
    for (w = 100; w <= 51200; w *= 2) {
        t.warmup = w;
        assert_true(trf_learning_rate(&t, 512, w) < last);
        last = trf_learning_rate(&t, 512, w);
        for (s = w / 2; s <= 2 * w; s += w / 10) assert_true(trf_learning_rate(&t, 512, s) <= last);
    }
}

static void test_inverse_sqrt_and_others(void **state)
{
    trf_train_options t = kit_training(), noam = kit_training();
    int64_t s;
    (void)state;
    t.schedule = TRF_INVERSE_SQRT; t.learning_rate = 5e-3; t.initial_rate = 1e-7; t.warmup = 2000;
    assert_near(trf_learning_rate(&t, 512, 1000) / (1e-7 + 0.5 * (5e-3 - 1e-7)), 1, 1e-12);
    assert_near(trf_learning_rate(&t, 512, 2000) / 5e-3, 1, 1e-12);
    assert_near(trf_learning_rate(&t, 512, 8000) / 2.5e-3, 1, 1e-12);
    t.learning_rate = pow(512 * 4000.0, -0.5);
    t.initial_rate = 0;
    t.warmup = 4000; /* then it is Noam */
    for (s = 1; s < 50000; s += 777)
        assert_near(trf_learning_rate(&t, 512, s) / trf_learning_rate(&noam, 512, s), 1, 1e-12);
    t.schedule = TRF_COSINE;
    t.learning_rate = 1e-3;
    t.final_rate = 1e-5;
    t.warmup = 100;
    t.total_steps = 1100;
    assert_near(trf_learning_rate(&t, 512, 50), 5e-4, 1e-15);
    assert_near(trf_learning_rate(&t, 512, 100), 1e-3, 1e-15);
    assert_near(trf_learning_rate(&t, 512, 600), 0.5 * (1e-3 + 1e-5), 1e-15);
    assert_near(trf_learning_rate(&t, 512, 1100), 1e-5, 1e-15);
    t.schedule = TRF_CONSTANT; t.initial_rate = 1e-4;
    assert_near(trf_learning_rate(&t, 512, 50), 1e-4 + 0.5 * 9e-4, 1e-15);
    assert_near(trf_learning_rate(&t, 512, 5000), 1e-3, 1e-15);
}

// -----------------------------------------------------------------------------------------------
// Small models
// -----------------------------------------------------------------------------------------------

static trf_model *new_model(const trf_config *config)
{
    trf_model *model = NULL;
    trf_error err;
    if (trf_model_create(&model, config, NULL, &err)) fail_msg("%s", err.message);
    return model;
}

static trf_trainer *new_trainer(trf_model *model, const trf_train_options *options)
{
    trf_trainer *trainer = NULL;
    trf_train_options t = options ? *options : kit_training();
    trf_error err;
    trf_train_set_dropout(&t, 0.0);
    t.threads = 1; t.source_tokens = t.target_tokens = 256; t.sequences = 16; t.longest = 32;
    if (trf_trainer_create(&trainer, model, &t, &err)) fail_msg("%s", err.message);
    return trainer;
}

static trf_sequences sequences(const int32_t *ids, const int32_t *lengths, int32_t count)
{
    trf_sequences s;
    s.ids = ids; s.lengths = lengths; s.count = count;
    return s;
}

static trf_batch pairs(const int32_t *source, const int32_t *source_lengths, const int32_t *target,
                       const int32_t *target_lengths, int32_t count)
{
    trf_batch b;
    b.source = sequences(source, source_lengths, count);
    b.target = sequences(target, target_lengths, count);
    b.ordinal = 0;
    memset(&b.place, 0, sizeof b.place);
    return b;
}

static const int32_t ids_of_four[] = {4,  7, 5, 6, 9, 8, 10,
                                      11, 4, 5, 6, 7, 8, 9}; /* lengths 3, 1, 9, 1 */
static const int32_t lengths_of_four[] = { 3, 1, 9, 1 };

static trf_batch batch_of_four(void)
{
    return pairs(ids_of_four, lengths_of_four, ids_of_four, lengths_of_four, 4);
}

/* Teacher-forced logits of a batch; returns the number of rows. */
static int64_t logits_of(const trf_model *model, const trf_batch *batch, trf_real *out)
{
    trf_search search = trf_search_defaults();
    trf_translator *translator = NULL;
    int64_t rows = kit_target_rows(model, &batch->target);
    trf_tensor tensor = trf_tensor_of(out, 2, rows, trf_model_config(model)->target_vocab, 1);
    trf_error err;
    search.threads = 1;
    if (trf_translator_create(&translator, model, &search, &err)) fail_msg("%s", err.message);
    if (kit_logits(translator, batch, &tensor, &err)) fail_msg("%s", err.message);
    trf_translator_destroy(translator);
    return rows;
}

static double largest_difference(const trf_real *a, const trf_real *b, int64_t n)
{
    double worst = 0;
    int64_t i;
    for (i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst)) worst = d <= DBL_MAX ? d : HUGE_VAL;
    }
    return worst;
}

// -----------------------------------------------------------------------------------------------
// Adam's epsilon
// -----------------------------------------------------------------------------------------------

/* One step with a gradient of 1e-8 everywhere, in units of the learning rate. */
static double adam_step(trf_adam_epsilon rule, trf_optimizer optimizer)
{
    trf_config config = kit_small(1, 16, 12, 32);
    trf_model *model = new_model(&config);
    trf_train_options t = kit_training();
    trf_batch batch = batch_of_four();
    trf_step_report report;
    trf_trainer *trainer;
    trf_tensor bias;
    int32_t i;
    int64_t k;
    double moved;
    t.optimizer = optimizer;
    t.epsilon_rule = rule; t.schedule = TRF_CONSTANT; t.learning_rate = 1.0; t.warmup = 1;
    t.clip_norm = TRF_NO_CLIPPING;
    trainer = new_trainer(model, &t);
    assert_int_equal(trf_trainer_forward_backward(trainer, &batch, &report, NULL), TRF_OK);
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor g = trf_trainer_tensor(trainer, TRF_GRADIENT, i);
        for (k = 0; k < trf_tensor_count(&g); k++)
            g.data[k] = (trf_real)(1e-8 * (double)report.target_tokens);
    }
    assert_int_equal(trf_trainer_update(trainer, &report, NULL), TRF_OK);
    assert_near(report.learning_rate, 1.0, 1e-12);
    bias = trf_model_parameter(
        model, trf_model_parameter_index(model, "encoder.layers.0.linear1.bias")); /* was 0 */
    moved = -(double)bias.data[0];
    for (k = 1; k < trf_tensor_count(&bias); k++) assert_true(bias.data[k] == bias.data[0]);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return moved;
}

static void test_adam_epsilon(void **state)
{
    (void)state;
    assert_near(adam_step(TRF_EPSILON_OUTSIDE, TRF_ADAM), 0.9090909090909091, EXACT);
    assert_near(adam_step(TRF_EPSILON_FAIRSEQ, TRF_ADAM), 0.585786437626905, EXACT);
    assert_near(adam_step(TRF_EPSILON_INSIDE, TRF_ADAM), 0.0003162277502054508, 1e-9);
    assert_near(adam_step(TRF_EPSILON_OUTSIDE, TRF_ADAMW), 0.9090909090909091, EXACT);
}

// -----------------------------------------------------------------------------------------------
// How many parameters
// -----------------------------------------------------------------------------------------------

/* The closed form: attention 4d^2 + 4d, feed-forward 2 d ff + ff + d, norms 2d each. */
static int64_t closed_form(const trf_config *c)
{
    int64_t d = c->d_model, ff = c->d_ff, attention = 4 * d * d + 4 * d,
            forward = 2 * d * ff + ff + d;
    int64_t encoder = c->encoder_layers * (attention + forward + 4 * d) +
                      (c->final_norm == 1 || c->final_norm == 2 ? 2 * d : 0);
    int64_t decoder =
        c->decoder_layers * (2 * attention + forward + 6 * d) + (c->final_norm & 1 ? 2 * d : 0);
    int64_t matrices = c->tying == TRF_UNTIED     ? c->source_vocab + 2 * c->target_vocab
                       : c->tying != TRF_TIED_ALL ? c->source_vocab + c->target_vocab
                                                  : c->source_vocab;
    return encoder + decoder + matrices * d + (c->generator_bias ? c->target_vocab : 0);
}

static void check_count(const trf_config *config, int64_t want)
{
    trf_model *model = new_model(config);
    int64_t sum = 0;
    int32_t i;
    assert_int_equal(trf_model_parameter_total(model), want);
    assert_int_equal(closed_form(config), want);
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor p = trf_model_parameter(model, i);
        sum += trf_tensor_count(&p);
        assert_int_equal(trf_model_parameter_index(model, p.name), i);
    }
    assert_int_equal(sum, want);
    trf_model_destroy(model);
}

static void test_parameter_counts(void **state)
{
    trf_config c = trf_config_preset(TRF_TINY);
    trf_tying tyings[4] = { TRF_UNTIED, TRF_TIED_DECODER, TRF_TIED_ALL, TRF_TIED_EMBEDDINGS };
    int tying, bias, final_norm;
    (void)state;
    c.d_model = 64; c.d_ff = 256; c.n_heads = 4; c.encoder_layers = c.decoder_layers = 2;
    c.source_vocab = c.target_vocab = 20;
    c.tying = TRF_UNTIED; c.generator_bias = 1; c.final_norm = 0;
    check_count(&c, 237332);
    for (tying = 0; tying < 4; tying++)
        for (bias = 0; bias < 2; bias++)
            for (final_norm = 0; final_norm < 4; final_norm++) {
                c.tying = tyings[tying];
                c.generator_bias = bias;
                c.final_norm = (trf_final_norm)final_norm;
                check_count(&c, closed_form(&c));
            }
    c.d_model = 256;
    c.d_ff = 1024;
    c.encoder_layers = c.decoder_layers = 4;
    c.source_vocab = c.target_vocab = 1000;
    c.tying = TRF_UNTIED; c.generator_bias = 1; c.final_norm = 0;
    check_count(&c, 31980800 - 31000 * (3 * 256 + 1));
    c.d_model = 256; c.source_vocab = c.target_vocab = 32000;
    assert_int_equal(closed_form(&c), 31980800);
}

/* The paper's models by the bytes they would take: 101,007,496 and 63,082,496 weights and not much
   more. */
static void test_parameter_counts_of_the_paper(void **state)
{
    trf_config c = trf_config_preset(TRF_BASE);
    size_t bytes;
    (void)state;
    c.source_vocab = c.target_vocab = 37000;
    c.tying = TRF_UNTIED; c.generator_bias = 1; c.final_norm = 0;
    assert_int_equal(closed_form(&c), 101007496);
    bytes = kit_model_memory(&c);
    assert_true(bytes >= 101007496u * sizeof(trf_real) && bytes < 101107496u * sizeof(trf_real));
    c.tying = TRF_TIED_ALL; c.generator_bias = 0;
    bytes = kit_model_memory(&c);
    assert_true(bytes >= 63082496u * sizeof(trf_real) && bytes < 63182496u * sizeof(trf_real));
    c = trf_config_preset(TRF_BIG);
    c.source_vocab = c.target_vocab = 37000;
    c.tying = TRF_UNTIED; c.generator_bias = 1; c.final_norm = 0;
    assert_int_equal(closed_form(&c), 290058376);
    bytes = kit_model_memory(&c);
    assert_true(bytes >= 290058376u * sizeof(trf_real) && bytes < 290158376u * sizeof(trf_real));
}

// -----------------------------------------------------------------------------------------------
// Initial weights
// -----------------------------------------------------------------------------------------------

/* Largest magnitude and deviation of a parameter. */
static void spread(const trf_model *model, const char *name, double *largest, double *deviation)
{
    int32_t index = trf_model_parameter_index(model, name);
    trf_tensor p;
    double sum = 0, squares = 0;
    int64_t i, n;
    assert_true(index >= 0);
    p = trf_model_parameter(model, index);
    n = trf_tensor_count(&p);
    *largest = 0;
    for (i = 0; i < n; i++) {
        double x = (double)p.data[i];
        if (!(fabs(x) <= *largest)) *largest = fabs(x);
        sum += x;
        squares += x * x;
    }
    *deviation = sqrt(squares / (double)n - sum / (double)n * (sum / (double)n));
}

static double largest_of_rows(const trf_model *model, const char *name, int64_t row, int64_t end)
{
    trf_tensor p = trf_model_parameter(model, trf_model_parameter_index(model, name));
    double largest = 0;
    int64_t i;
    assert_true(p.rank == 2 && end <= p.shape[0]);
    for (i = row * p.shape[1]; i < end * p.shape[1]; i++)
        if (!(fabs((double)p.data[i]) <= largest)) largest = fabs((double)p.data[i]);
    return largest;
}

static void check_uniform(const trf_model *model, const char *name, double bound)
{
    double largest, deviation;
    spread(model, name, &largest, &deviation);
    if (!(largest <= bound * (1 + 1e-6) && largest > 0.99 * bound))
        fail_msg("%s: largest %g, bound %g", name, largest, bound);
    assert_near(deviation / (bound / sqrt(3.0)), 1.0, 0.03);
}

/* The two tables of presets, field by field; no other field is touched. */
static void test_presets(void **state)
{
    int paper;
    (void)state;
    for (paper = 0; paper < 2; paper++) {
        trf_conventions whose = paper ? TRF_CONVENTIONS_PAPER : TRF_CONVENTIONS_PYTORCH;
        trf_config c, rest;
        trf_train_options o, others;
        memset(&c, 0x11, sizeof c);
        memset(&o, 0x11, sizeof o);
        rest = c;
        others = o;
        trf_set_conventions(&c, NULL, whose);
        assert_int_equal(c.activation, TRF_RELU);
        assert_true(!c.feed_forward_gate && !c.embedding_norm && !c.segments && !c.source_bos);
        assert_true(!c.kv_heads && !c.d_head && c.attention_scale == 0 && !c.scale_logits);
        assert_int_equal(c.positions, TRF_POSITIONS_INTERLEAVED);
        assert_int_equal(c.position_offset, 0);
        assert_int_equal(c.norm_place, TRF_POST_NORM);
        assert_int_equal(c.norm_rule, TRF_NORM_STANDARD);
        assert_true(c.norm_epsilon == (paper ? 1e-6 : 1e-5));
        assert_int_equal(c.final_norm, !paper);
        assert_int_equal(c.scale_embeddings, 1);
        assert_int_equal(c.tying, paper ? TRF_TIED_ALL : TRF_UNTIED);
        assert_int_equal(c.generator_bias, !paper);
        assert_int_equal(c.init, paper ? TRF_INIT_XAVIER : TRF_INIT_XAVIER_PACKED);
        assert_int_equal(c.embedding_init, paper ? TRF_EMBEDDING_NORMAL_D : TRF_EMBEDDING_NORMAL_1);
        assert_int_equal(c.source_eos, 1);
        assert_int_equal(c.decoder_start, TRF_START_BOS);
        rest.activation = c.activation;
        rest.feed_forward_gate = rest.embedding_norm = rest.source_bos = rest.scale_logits = 0;
        rest.segments = 0;
        rest.kv_heads = rest.d_head = 0; rest.attention_scale = 0;
        rest.positions = c.positions;
        rest.position_offset = c.position_offset;
        rest.norm_place = c.norm_place;
        rest.norm_rule = c.norm_rule;
        rest.norm_epsilon = c.norm_epsilon;
        rest.final_norm = c.final_norm;
        rest.scale_embeddings = c.scale_embeddings;
        rest.tying = c.tying;
        rest.generator_bias = c.generator_bias;
        rest.init = c.init;
        rest.embedding_init = c.embedding_init;
        rest.source_eos = c.source_eos; rest.decoder_start = c.decoder_start;
        assert_memory_equal(&c, &rest, sizeof c);
        trf_set_conventions(NULL, &o, whose);
        assert_int_equal(o.optimizer, TRF_ADAM);
        assert_true(o.beta1 == 0.9 && o.beta2 == (paper ? 0.98 : 0.999) &&
                    o.epsilon == (paper ? 1e-9 : 1e-8));
        assert_int_equal(o.epsilon_rule, paper ? TRF_EPSILON_FAIRSEQ : TRF_EPSILON_OUTSIDE);
        assert_int_equal(o.smoothing_rule, paper ? TRF_SMOOTH_OTHERS_KL : TRF_SMOOTH_UNIFORM);
        assert_true(o.label_smoothing == (paper ? 0.1 : 0));
        assert_int_equal(o.schedule, paper ? TRF_NOAM : TRF_CONSTANT);
        assert_true(o.learning_rate == (paper ? 1 : 1e-3) && o.warmup == (paper ? 4000 : 1));
        assert_true(o.dropout == 0.1 && o.residual_dropout == 0.1);
        assert_true(o.attention_dropout == (paper ? 0 : 0.1) &&
                    o.activation_dropout == o.attention_dropout);
        others.label_smoothing = o.label_smoothing; others.schedule = o.schedule;
        others.learning_rate = o.learning_rate;
        others.warmup = o.warmup;
        others.dropout = o.dropout;
        others.attention_dropout = o.attention_dropout;
        others.activation_dropout = o.activation_dropout;
        others.residual_dropout = o.residual_dropout;
        others.optimizer = o.optimizer;
        others.beta1 = o.beta1;
        others.beta2 = o.beta2;
        others.epsilon = o.epsilon;
        others.epsilon_rule = o.epsilon_rule; others.smoothing_rule = o.smoothing_rule;
        assert_memory_equal(&o, &others, sizeof o);
    }
}

/* What the public part and README say that a program gets without saying anything. */
static void test_defaults(void **state)
{
    trf_config tiny = trf_config_preset(TRF_TINY), base = trf_config_preset(TRF_BASE);
    trf_config big = trf_config_preset(TRF_BIG), none = trf_config_preset(TRF_PRESET_COUNT);
    trf_train_options o = trf_train_defaults();
    trf_search search = trf_search_defaults();
    trf_sampling sampling = trf_sampling_defaults();
    trf_noise_options noise = trf_noise_defaults();
    trf_corpus_options corpus = trf_corpus_defaults();
    trf_load_options load = trf_load_defaults();
    (void)state;
    assert_true(tiny.encoder_layers == 4 && tiny.decoder_layers == 4 && tiny.d_model == 128 &&
                tiny.d_ff == 256 && tiny.n_heads == 4);
    assert_true(base.encoder_layers == 6 && base.decoder_layers == 6 && base.d_model == 512 &&
                base.d_ff == 2048 && base.n_heads == 8);
    assert_true(big.encoder_layers == 6 && big.decoder_layers == 6 && big.d_model == 1024 &&
                big.d_ff == 4096 && big.n_heads == 16 && none.d_model == 0);
    assert_true(tiny.max_length == 512 && tiny.pad == 0 && tiny.bos == 1 && tiny.eos == 2 &&
                tiny.unk == 3);
    assert_true(tiny.kind == TRF_ENCODER_DECODER && tiny.target_eos == 1 && tiny.seed == 1 &&
                tiny.head == TRF_HEAD_NONE);
    assert_true(o.optimizer == TRF_ADAM && o.beta1 == 0.9 && o.beta2 == 0.98 && o.epsilon == 1e-9 &&
                o.weight_decay == 0);
    assert_true(tiny.norm_place == TRF_PRE_NORM && base.norm_place == TRF_PRE_NORM &&
                big.norm_place == TRF_PRE_NORM);
    assert_true(o.schedule == TRF_INVERSE_SQRT && o.learning_rate == 1e-3 && o.warmup == 100 &&
                o.initial_rate == 0);
    assert_true(o.final_rate == 0 && o.label_smoothing == 0 &&
                o.smoothing_rule == TRF_SMOOTH_UNIFORM && o.clip_norm == 1 && o.seed == 1);
    assert_true(o.dropout == 0 && o.attention_dropout == 0 && o.activation_dropout == 0 &&
                o.residual_dropout == 0);
    assert_true(o.source_tokens == 0 && o.target_tokens == 0 && o.sequences == 0 &&
                o.longest == 0 && o.n_ranks == 1);
    assert_true(search.beam == 4 && search.n_best == 1 && search.max_length_a == 2.0 &&
                search.max_length_b == -1);
    assert_true(search.max_sentences == 32 && search.max_tokens == 4096 &&
                search.word_penalty == 0);
    assert_true(sampling.temperature == 1 && sampling.top_p == 1 &&
                sampling.repetition_penalty == 1 && sampling.top_k == 0 &&
                sampling.no_repeat_ngram == 0 && sampling.banned.count == 0);
    assert_true(sampling.min_p == 0 && sampling.max_tokens == 256 && sampling.min_tokens == 0 &&
                sampling.seed == 0);
    assert_true(noise.density == 0.15 && noise.masked == 0.8 && noise.randomised == 0.1 &&
                noise.mean_span == 3);
    assert_true(corpus.batch_tokens == 4096 && corpus.batch_sentences == 1024 &&
                corpus.max_length == 511 && corpus.shuffle == 1);
    assert_true(corpus.buckets == 1 && corpus.pool == 0 && corpus.padded_budget == 0 && corpus.epochs == TRF_ENDLESS);
    assert_true(load.max_bytes == (uint64_t)64 << 30 && !load.config && !load.allow_nonfinite);
}

/* Numbers that never change, as files and other programs have them. */
static void test_numbers(void **state)
{
    static const struct { trf_status status; const char *name;
    } statuses[] = {{TRF_OK, "TRF_OK"},
                    {TRF_E_NOMEM, "TRF_E_NOMEM"},
                    {TRF_E_INVALID_ARG, "TRF_E_INVALID_ARG"},
                    {TRF_E_LIMIT, "TRF_E_LIMIT"},
                    {TRF_E_IO, "TRF_E_IO"},
                    {TRF_E_FORMAT, "TRF_E_FORMAT"},
                    {TRF_E_SHAPE, "TRF_E_SHAPE"},
                    {TRF_E_UNSUPPORTED, "TRF_E_UNSUPPORTED"},
                    {TRF_E_CHECKSUM, "TRF_E_CHECKSUM"},
                    {TRF_E_NONFINITE, "TRF_E_NONFINITE"},
                    {TRF_E_STATE, "TRF_E_STATE"},
                    {TRF_E_BACKEND, "TRF_E_BACKEND"},
                    {TRF_E_INTERNAL, "TRF_E_INTERNAL"},
                    {TRF_E_CANCELLED, "TRF_E_CANCELLED"},
                    {TRF_E_END, "TRF_E_END"}};
    int i;
    (void)state;
    for (i = 0; i < (int)(sizeof statuses / sizeof *statuses); i++) {
        assert_int_equal(statuses[i].status, -i);
        assert_string_equal(trf_status_name((trf_status)-i), statuses[i].name);
    }
    assert_true(TRF_ENCODER_DECODER == 0 && TRF_ENCODER_ONLY == 1 && TRF_DECODER_ONLY == 2);
    assert_true(TRF_RELU == 0 && TRF_GELU == 1 && TRF_SILU == 2 && TRF_GELU_TANH == 3);
    assert_true(TRF_POSITIONS_INTERLEAVED == 0 && TRF_POSITIONS_HALVES_N1 == 1 &&
                TRF_POSITIONS_HALVES == 2);
    assert_true(TRF_POSITIONS_LEARNED == 3 && TRF_POSITIONS_NONE == 4);
    assert_true(TRF_POST_NORM == 0 && TRF_PRE_NORM == 1 && TRF_NORM_STANDARD == 0 &&
                TRF_NORM_ANNOTATED == 1);
    assert_true(TRF_UNTIED == 0 && TRF_TIED_DECODER == 1 && TRF_TIED_ALL == 2 &&
                TRF_TIED_EMBEDDINGS == 3);
    assert_true(TRF_FINAL_NORM_NONE == 0 && TRF_FINAL_NORM_BOTH == 1 &&
                TRF_FINAL_NORM_ENCODER == 2 && TRF_FINAL_NORM_DECODER == 3 && TRF_INIT_LINEAR == 2);
    assert_true(TRF_INIT_XAVIER_PACKED == 0 && TRF_INIT_XAVIER == 1);
    assert_true(TRF_EMBEDDING_NORMAL_D == 0 && TRF_EMBEDDING_NORMAL_1 == 1 &&
                TRF_EMBEDDING_XAVIER == 2 && TRF_EMBEDDING_FAN_OUT == 3);
    assert_true(TRF_START_BOS == 0 && TRF_START_EOS == 1 && TRF_START_PAD == 2 &&
                TRF_START_ZERO == 3);
    assert_true(TRF_HEAD_NONE == 0 && TRF_HEAD_MEAN == 1 && TRF_HEAD_FIRST == 2 &&
                TRF_HEAD_TOKENS == 3 && TRF_HEAD_MASKED == 4);
    assert_true(TRF_WORDS == 0 && TRF_CHARACTERS == 1 && TRF_SENTENCEPIECE == 2);
    assert_true(TRF_ADAM == 0 && TRF_ADAMW == 1 && TRF_EPSILON_OUTSIDE == 0 &&
                TRF_EPSILON_FAIRSEQ == 1 && TRF_EPSILON_INSIDE == 2);
    assert_true(TRF_NOAM == 0 && TRF_INVERSE_SQRT == 1 && TRF_COSINE == 2 && TRF_CONSTANT == 3);
    assert_true(TRF_SMOOTH_UNIFORM == 0 && TRF_SMOOTH_OTHERS == 1 && TRF_SMOOTH_OTHERS_KL == 2 &&
                TRF_SMOOTH_NO_PAD_KL == 3);
    assert_true(TRF_ENDED_EOS == 0 && TRF_ENDED_MAX_LENGTH == 1 && TRF_ENDED_NOT_YET == 2);
}

/* Every matrix begins with numbers of its own. */
static void test_initial_weights_differ(void **state)
{
    trf_config c = trf_config_preset(TRF_TINY);
    trf_model *model;
    int32_t i, k, n;
    (void)state;
    c.encoder_layers = c.decoder_layers = 2;
    c.source_vocab = c.target_vocab = 40;
    c.tying = TRF_UNTIED;
    model = new_model(&c);
    n = trf_model_parameter_count(model);
    for (i = 0; i < n; i++) {
        trf_tensor a = trf_model_parameter(model, i);
        if (a.rank != 2) continue;
        for (k = 0; k < i; k++) {
            trf_tensor b = trf_model_parameter(model, k);
            double product = 0, squares_a = 0, squares_b = 0;
            int64_t j;
            if (b.rank != 2) continue;
            for (j = 0; j < 128 * 40; j++) {
                product += (double)a.data[j] * (double)b.data[j];
                squares_a += (double)a.data[j] * (double)a.data[j];
                squares_b += (double)b.data[j] * (double)b.data[j];
            }
            if (!(fabs(product) < 0.1 * sqrt(squares_a * squares_b)))
                fail_msg("%s is like %s", a.name, b.name);
        }
    }
    trf_model_destroy(model);
}

static void test_initial_weights(void **state)
{
    trf_config c = trf_config_preset(TRF_TINY);
    trf_model *model;
    double largest, deviation;
    (void)state;
    c.d_model = 512;
    c.d_ff = 256;
    c.n_heads = 8;
    c.encoder_layers = c.decoder_layers = 1;
    c.source_vocab = 700;
    c.target_vocab = 300;
    c.tying = TRF_UNTIED; c.generator_bias = 1; c.init = TRF_INIT_XAVIER_PACKED;
    c.embedding_init = TRF_EMBEDDING_NORMAL_D;
    model = new_model(&c);
    check_uniform(model, "encoder.layers.0.self_attn.in_proj_weight", 0.054126588);
    check_uniform(model, "decoder.layers.0.multihead_attn.in_proj_weight", 0.054126588);
    check_uniform(model, "decoder.layers.0.self_attn.out_proj.weight", 0.076546554);
    check_uniform(model, "encoder.layers.0.linear1.weight", sqrt(6.0 / (512 + 256)));
    check_uniform(model, "decoder.layers.0.linear2.weight", sqrt(6.0 / (512 + 256)));
    spread(model, "src_embed.weight", &largest, &deviation);
    assert_near(deviation / 0.04419417382, 1.0, 0.01);
    assert_true(largest > 4 * deviation && largest < 7 * deviation); /* a normal distribution */
    spread(model, "encoder.layers.0.self_attn.in_proj_bias", &largest, &deviation);
    assert_true(largest == 0);
    spread(model, "decoder.layers.0.norm3.weight", &largest, &deviation);
    assert_true(largest == 1 && deviation == 0);
    spread(model, "decoder.layers.0.norm3.bias", &largest, &deviation);
    assert_true(largest == 0);
    trf_model_destroy(model);
    c.init = TRF_INIT_XAVIER; c.embedding_init = TRF_EMBEDDING_FAN_OUT;
    model = new_model(&c);
    check_uniform(model, "encoder.layers.0.self_attn.in_proj_weight", 0.076546554);
    check_uniform(model, "tgt_embed.weight", 0.076546554);
    trf_model_destroy(model);
    /* heads of keys are fewer: q is (512, 512), k and v are (128, 512), the output (512, 512) */
    c.kv_heads = 2;
    model = new_model(&c);
    largest = largest_of_rows(model, "encoder.layers.0.self_attn.in_proj_weight", 0, 512);
    assert_near(largest / 0.076546554, 1.0, 0.001);
    largest = largest_of_rows(model, "encoder.layers.0.self_attn.in_proj_weight", 512, 640);
    assert_near(largest / sqrt(6.0 / (512 + 128)), 1.0, 0.001);
    largest = largest_of_rows(model, "encoder.layers.0.self_attn.in_proj_weight", 640, 768);
    assert_near(largest / sqrt(6.0 / (512 + 128)), 1.0, 0.001);
    trf_model_destroy(model);
    c.kv_heads = 0;
    c.init = TRF_INIT_LINEAR; c.d_head = 128;       /* the output projection has 1024 columns */
    model = new_model(&c);
    check_uniform(model, "decoder.layers.0.self_attn.out_proj.bias", 1 / 32.0);
    check_uniform(model, "decoder.layers.0.self_attn.out_proj.weight", 1 / 32.0);
    trf_model_destroy(model);
    c.init = TRF_INIT_XAVIER; c.d_head = 0;
    c.embedding_init = TRF_EMBEDDING_XAVIER; c.feed_forward_gate = 1;
    model = new_model(&c);
    /* a gate is a matrix of its own */
    check_uniform(model, "encoder.layers.0.linear1.weight", sqrt(6.0 / (512 + 256)));
    check_uniform(model, "src_embed.weight", sqrt(6.0 / (700 + 512)));
    check_uniform(model, "tgt_embed.weight", sqrt(6.0 / (300 + 512)));
    trf_model_destroy(model);
    c.embedding_init = TRF_EMBEDDING_NORMAL_1;
    model = new_model(&c);
    spread(model, "src_embed.weight", &largest, &deviation);
    assert_near(deviation, 1.0, 0.01);
    check_uniform(model, "generator.weight", 0.044194174);
    spread(model, "generator.bias", &largest, &deviation);
    assert_true(largest > 0.9 * 0.044194174 && largest <= 0.044194174 * (1 + 1e-6));
    trf_model_destroy(model);
}

// -----------------------------------------------------------------------------------------------
// What the decoder reads first
// -----------------------------------------------------------------------------------------------

static trf_model *model_starting_with(trf_decoder_start start)
{
    trf_config c = kit_small(1, 16, 12, 32);
    c.decoder_start = start;
    return new_model(&c);       /* the same seed: the same weights */
}

/* Makes row `to` of the target embedding equal to row `from`, or zero. */
static void write_row(trf_model *model, int32_t to, int32_t from)
{
    trf_trainer *trainer = new_trainer(model, NULL);
    int32_t index = trf_model_parameter_index(model, "tgt_embed.weight");
    trf_tensor w;
    int i;
    if (index < 0) index = trf_model_parameter_index(model, "src_embed.weight");
    w = trf_trainer_tensor(trainer, TRF_PARAMETER, index);
    for (i = 0; i < 16; i++) w.data[to * 16 + i] = from < 0 ? 0 : w.data[from * 16 + i];
    trf_trainer_destroy(trainer);
}

static void test_decoder_start(void **state)
{
    static const trf_decoder_start starts[4] = {TRF_START_BOS, TRF_START_EOS, TRF_START_PAD,
                                                TRF_START_ZERO};
    trf_batch batch = batch_of_four();
    trf_real logits[4][18 * 12], again[18 * 12];
    int i, j, row;
    (void)state;
    for (i = 0; i < 4; i++) {
        trf_model *model = model_starting_with(starts[i]);
        assert_int_equal(logits_of(model, &batch, logits[i]), 18);
        trf_model_destroy(model);
    }
    for (i = 0; i < 4; i++)
        for (j = 0; j < i; j++) assert_true(largest_difference(logits[i], logits[j], 12) > 1e-3);
    /* each start is what it is called: with that vector in the place of BOS nothing differs */
    for (i = 0; i < 4; i++) {
        trf_config c = kit_small(1, 16, 12, 32);
        trf_model *model = new_model(&c), *other;
        trf_real first[18 * 12];
        static const int32_t from[4] = { 1, 2, 0, -1 };
        write_row(model, 1, from[i]);
        logits_of(model, &batch, first);
        other = model_starting_with(starts[i]);
        write_row(other, 1, from[i]);
        logits_of(other, &batch, again);
        /* the generator is untied or its row 1 is in the same way changed in both */
        for (row = 0; row < 18; row++)
            assert_true(largest_difference(first + row * 12, again + row * 12, 12) == 0);
        trf_model_destroy(other);
        trf_model_destroy(model);
    }
}

// -----------------------------------------------------------------------------------------------
// Mistakes that tutorials make
// -----------------------------------------------------------------------------------------------

/* A mask of the wrong shape misaligns in silence where the batch is as large as the number of
   heads; a missing one lets padding in. Each pair alone must give what it gives among four. */
static void test_neighbours_do_not_matter(void **state)
{
    trf_config c = kit_small(1, 16, 12, 32);
    trf_model *model;
    trf_batch batch = batch_of_four();
    trf_real together[18 * 12], alone[18 * 12];
    int i, at = 0, row = 0;
    (void)state;
    c.n_heads = 4;              /* the number of pairs */
    model = new_model(&c);
    logits_of(model, &batch, together);
    for (i = 0; i < 4; i++) {
        trf_batch one =
            pairs(ids_of_four + at, lengths_of_four + i, ids_of_four + at, lengths_of_four + i, 1);
        int64_t rows = logits_of(model, &one, alone);
        assert_int_equal(rows, lengths_of_four[i] + 1);
        assert_true(largest_difference(together + row * 12, alone, rows * 12) < 1e-5);
        at += lengths_of_four[i];
        row += lengths_of_four[i] + 1;
    }
    trf_model_destroy(model);
}

/* In training too: the gradients of a batch are the sums of the gradients of its pairs. */
static void test_training_is_not_padded(void **state)
{
    trf_config c = kit_small(1, 16, 12, 32);
    trf_model *model = new_model(&c);
    trf_trainer *together = new_trainer(model, NULL), *alone = new_trainer(model, NULL);
    trf_batch batch = batch_of_four();
    trf_step_report report;
    double loss = 0;
    int32_t k;
    int i, at = 0;
    (void)state;
    for (i = 0; i < 4; i++) {
        trf_batch one =
            pairs(ids_of_four + at, lengths_of_four + i, ids_of_four + at, lengths_of_four + i, 1);
        assert_int_equal(trf_trainer_forward_backward(alone, &one, &report, NULL), TRF_OK);
        loss += report.loss * (double)report.target_tokens;
        at += lengths_of_four[i];
    }
    assert_int_equal(trf_trainer_forward_backward(together, &batch, &report, NULL), TRF_OK);
    assert_near(loss / 18, report.loss, 1e-5);
    for (k = 0; k < trf_model_parameter_count(model); k++) {
        trf_tensor a = trf_trainer_tensor(together, TRF_GRADIENT, k), b = trf_trainer_tensor(alone, TRF_GRADIENT, k);
        int64_t n = trf_tensor_count(&a), j;
        double largest = 0;
        for (j = 0; j < n; j++)
            if (fabs((double)a.data[j]) > largest) largest = fabs((double)a.data[j]);
        assert_true(largest_difference(a.data, b.data, n) <= 1e-4 * largest + 1e-6);
    }
    trf_trainer_destroy(alone);
    trf_trainer_destroy(together);
    trf_model_destroy(model);
}

/* Without BOS and EOS in the data a model cannot learn to stop: the library adds them, and EOS is
   learned. */
static void test_targets_end_with_eos(void **state)
{
    trf_config c = kit_small(1, 16, 12, 32);
    trf_train_options t = trf_train_defaults();
    trf_model *model;
    trf_trainer *trainer;
    trf_batch batch = batch_of_four();
    trf_step_report report;
    trf_tensor g;
    int v;
    (void)state;
    c.tying = TRF_UNTIED; c.generator_bias = 1; c.source_eos = 1;
    t.label_smoothing = 0;
    model = new_model(&c);
    trainer = new_trainer(model, &t);
    assert_int_equal(trf_trainer_forward_backward(trainer, &batch, &report, NULL), TRF_OK);
    assert_int_equal(report.target_tokens, 14 + 4);
    assert_int_equal(report.source_tokens, 14 + 4);
    g = trf_trainer_tensor(trainer, TRF_GRADIENT, trf_model_parameter_index(model, "generator.bias"));
    for (v = 0; v < 12;
         v++) /* p - q summed over tokens: negative where the token is wanted often enough */
        if (v == c.pad || v == c.bos || v == c.unk) assert_true(g.data[v] > 0);
    assert_true(g.data[c.eos] < g.data[c.pad] - 1.0);       /* wanted four times */
    trf_trainer_destroy(trainer);
    c.source_eos = 0;
    trf_model_destroy(model);
    model = new_model(&c);
    assert_int_equal(kit_source_rows(model, &batch.source), 14);
    assert_int_equal(kit_target_rows(model, &batch.target), 18);
    trf_model_destroy(model);
}

/* A decoder that ignores its encoder: perturb the source, and the logits must change; but never
   those before the change of a target. */
static void test_what_depends_on_what(void **state)
{
    static const int32_t source[] = { 4, 7, 5 }, other_source[] = { 4, 7, 6 };
    static const int32_t target[] = { 8, 9, 10, 11 }, other_target[] = { 8, 9, 4, 11 };
    static const int32_t three[] = { 3 }, four[] = { 4 };
    trf_real a[5 * 12], b[5 * 12];
    trf_config c = kit_small(1, 16, 12, 32);
    trf_model *model;
    trf_batch batch;
    int place, row;
    (void)state;
    for (place = 0; place < 2; place++) {
        c.norm_place = place ? TRF_PRE_NORM : TRF_POST_NORM;
        model = new_model(&c);
        batch = pairs(source, three, target, four, 1);
        logits_of(model, &batch, a);
        batch = pairs(other_source, three, target, four, 1);
        logits_of(model, &batch, b);
        for (row = 0; row < 5; row++)
            assert_true(largest_difference(a + row * 12, b + row * 12, 12) > 1e-4);
        batch = pairs(source, three, other_target, four, 1);
        logits_of(model, &batch, b);
        assert_true(largest_difference(a, b, 3 * 12) == 0);     /* rows 0 to 2 read BOS, 8, 9 */
        assert_true(largest_difference(a + 3 * 12, b + 3 * 12, 12) > 1e-4);
        trf_model_destroy(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smoothing_variants),
        cmocka_unit_test(test_smoothing_next_to_nothing),
        cmocka_unit_test(test_smoothing_rules_convert),
        cmocka_unit_test(test_uniform_logits_lose_ln_v),
        cmocka_unit_test(test_layer_norm_epsilon),
        cmocka_unit_test(test_layer_norm_of_constant_row),
        cmocka_unit_test(test_position_tables),
        cmocka_unit_test(test_low_features_are_fast),
        cmocka_unit_test(test_noam),
        cmocka_unit_test(test_noam_at_zero_and_its_peak),
        cmocka_unit_test(test_inverse_sqrt_and_others),
        cmocka_unit_test(test_adam_epsilon),
        cmocka_unit_test(test_parameter_counts),
        cmocka_unit_test(test_parameter_counts_of_the_paper),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_initial_weights),
        cmocka_unit_test(test_initial_weights_differ),
        cmocka_unit_test(test_decoder_start),
        cmocka_unit_test(test_neighbours_do_not_matter),
        cmocka_unit_test(test_training_is_not_padded),
        cmocka_unit_test(test_targets_end_with_eos),
        cmocka_unit_test(test_what_depends_on_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

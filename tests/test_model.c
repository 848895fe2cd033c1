/* build: shared double:shared separate:shared long:shared plain:shared */
/* Whole models: gradients against finite differences, batches that must not matter, updates against
   their formulas, and what a caller may do wrong. Built twice: in float, and with TRF_DOUBLE, where
   gradients are right to 1e-6. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"

#if defined(TRF_DOUBLE)
#define GRADIENT 1e-6           /* relative, a tensor against central differences */
#define CLOSE    1e-11          /* relative, the same sum in another order */
#define FORMULA  1e-12          /* a few operations against their formula */
#else
#define GRADIENT 5e-2
#define CLOSE    2e-5
#define FORMULA  2e-6
#endif

enum { VOCAB = 11, MAX_WEIGHTS = 16384 };

/* -----------------------------------------------------------------------------------------------
   A model, its trainer and its translator: every test has one or two. */

typedef struct lab {
    trf_config c;
    trf_train_options o;
    trf_model *model;
    trf_trainer *trainer;
    trf_translator *translator;
} lab;

/* The bounds of the finite differences below hold for this seed. */
static trf_config seeded_config(void)
{
    trf_config c = kit_small(2, 8, VOCAB, 20);
    c.seed = 5;
    return c;
}

static lab lab_open(const trf_config *c, const trf_train_options *o)
{
    trf_search search = trf_search_defaults();
    lab l;
    memset(&l, 0, sizeof l);
    l.c = *c;
    l.o = *o;
    search.threads = 1;
    search.max_tokens = 128;
    search.max_sentences = 16;
    assert_int_equal(trf_model_create(&l.model, c, NULL, NULL), TRF_OK);
    if (c->kind != TRF_ENCODER_ONLY)
        assert_int_equal(trf_trainer_create(&l.trainer, l.model, o, NULL), TRF_OK);
    assert_int_equal(trf_translator_create(&l.translator, l.model, &search, NULL), TRF_OK);
    return l;
}

static void lab_close(lab *l)
{
    trf_translator_destroy(l->translator);
    trf_trainer_destroy(l->trainer);
    trf_model_destroy(l->model);
}

/* Biases start at 0 and gains at 1, where mistakes can hide: moves every weight a little, also the
   translator's copies. */
static void shake(lab *l, double size)
{
    int64_t i, n = l->model->layout.n_weights;
    trf_tensor w = kit_open(kit_there(l->model, l->model->weights, n));
    for (i = 0; i < n; i++)
        w.data[i] += (trf_real)(size * (2 * trf__uniform(99, 5, (uint64_t)i) - 1));
    kit_close(&w);
    trf__pack_weights(&l->translator->reader.pass);
}

/* With the built-in product alone a row's bits depend on nothing but its sentence. (On CUDA only to
   rounding.) */
static void no_blas(lab *l)
{
    if (!KIT_SAME_ROWS) return;
    if (l->trainer) trf__cpu_of(&l->trainer->pass.run)->blas = 0;
    trf__cpu_of(&l->translator->reader.pass.run)->blas = 0;
}

static double distance(const trf_real *a, const trf_real *b, int64_t n)
{
    double sum = 0;
    int64_t i;
    for (i = 0; i < n; i++) sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum);
}

static double length_of(const trf_real *a, int64_t n)
{
    double sum = 0;
    int64_t i;
    for (i = 0; i < n; i++) sum += (double)a[i] * (double)a[i];
    return sqrt(sum);
}

#define assert_near(got, want, tolerance) \
    near_at((double)(got), (double)(want), tolerance, __FILE__, __LINE__)
static void near_at(double got, double want, double tolerance, const char *file, int line)
{
    if (fabs(got - want) <= tolerance) return;
    print_error("got %.12g, expected %.12g within %.1e\n", got, want, tolerance);
    _fail(file, line);
}

static void assert_finite(const trf_real *a, int64_t n)
{
    int64_t i;
    for (i = 0; i < n; i++) assert_true(trf__is_finite((double)a[i]));
}

static void logits_of(const lab *l, const trf_batch *batch, trf_real *out)
{
    trf_tensor t =
        trf_tensor_of(out, 2, kit_target_rows(l->model, &batch->target), l->c.target_vocab, 1);
    assert_int_equal(kit_logits(l->translator, batch, &t, NULL), TRF_OK);
}

static int64_t gradient_count(const lab *l) { return l->model->layout.n_weights; }

/* All gradients, on the host until the next call. */
static const trf_real *gradients_of(const lab *l)
{
    static trf_real numbers[MAX_WEIGHTS];
    assert_true(gradient_count(l) <= MAX_WEIGHTS);
    kit_get(l->model, numbers, l->trainer->gradients, gradient_count(l));
    return numbers;
}

static void assert_same_gradients(const lab *l, const trf_real *want)
{
    int64_t n = gradient_count(l);
    assert_true(distance(gradients_of(l), want, n) <= CLOSE * length_of(want, n));
}

/* -----------------------------------------------------------------------------------------------
   Gradients. The functional is report.loss * tokens; dropout's mask follows from the step, so it is
   the same at every call as long as no update is made. */

enum {
    NO_QKV = 2,
    NO_OUT = 4,
    NO_FORWARD = 8,
    GATE = 16,
    EMBED_NORM = 32,
    SHARED_KEYS = 64,
    WIDE_HEADS = 128,
    INTERLEAVED = 256,
    SCALED = 512,
    GPT2_IDS = 1024,            /* bos is eos; no pad, no unk */
    MARIAN_IDS = 2048,          /* no bos; pad is the last id */
    SEGMENTS = 4096,
    SLOW_PAIRS = 8192           /* rotary_trained */
}; /* beside the generator's bias, 1, in variant.bias */
typedef struct variant {
    const char *name;
    int kind, place, rule, activation, tying, positions, final_norm, bias, scale, source_eos, start,
        smoothing, offset;
    double p[4];                /* dropout: embedding, attention, activation, residual */
} variant;

static const variant variants[] = {
    {"paper, post-norm", 0, 0, 0, 0, 2, 0, 0, 0, 1, 1, 0, TRF_SMOOTH_OTHERS_KL, 0, {0, 0, 0, 0}},
    {"pytorch, post-norm with final norm", 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, {0, 0, 0, 0}},
    {"pre-norm", 0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, {0, 0, 0, 0}},
    {"pre-norm without final norm", 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, {0, 0, 0, 0}},
    {"gelu, tied decoder", 0, 0, 0, 1, 1, 2, 1, 1, 1, 0, 1, TRF_SMOOTH_OTHERS, 0, {0, 0, 0, 0}},
    {"silu, tied all, no positions", 0, 1, 0, 2, 2, 4, 1, 1, 1, 1, 3, 0, 0, {0, 0, 0, 0}},
    {"learned positions", 0, 0, 0, 1, 0, 3, 1, 1, 1, 1, 2, TRF_SMOOTH_NO_PAD_KL, 2, {0, 0, 0, 0}},
    {"annotated norm, post", 0, 0, 1, 2, 0, 0, 1, 1, 1, 1, 0, 0, 0, {0, 0, 0, 0}},
    {"annotated norm, pre", 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, {0, 0, 0, 0}},
    {"decoder only, post", 2, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, {0, 0, 0, 0}},
    {"decoder only, pre, learned", 2, 1, 0, 2, 0, 3, 1, 0, 0, 0, 0, 0, 0, {0, 0, 0, 0}},
    {"dropout on embeddings", 0, 0, 0, 1, 0, 3, 1, 1, 1, 1, 0, 0, 0, {0.3, 0, 0, 0}},
    {"dropout on attention", 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, {0, 0.3, 0, 0}},
    {"dropout on activations", 0, 1, 0, 2, 0, 0, 1, 1, 1, 1, 0, 0, 0, {0, 0, 0.3, 0}},
    {"dropout on residuals", 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, {0, 0, 0, 0.3}},
    {"dropout everywhere, post", 0, 0, 0, 1, 2, 3, 1, 1, 1, 1, 0, 0, 0, {0.2, 0.2, 0.2, 0.2}},
    {"dropout everywhere, pre", 0, 1, 0, 1, 2, 0, 1, 1, 1, 1, 0, 0, 0, {0.2, 0.2, 0.2, 0.2}},
    {"tied embeddings, final norm of the decoder",
     0,
     1,
     0,
     1,
     3,
     0,
     3,
     1,
     1,
     1,
     0,
     0,
     0,
     {0, 0, 0, 0}},
    {"tied embeddings, learned positions, final norm of the encoder",
     0,
     0,
     0,
     1,
     3,
     3,
     2,
     0,
     1,
     1,
     0,
     0,
     0,
     {0, 0, 0, 0}},
    {"RMS norm, no bias, pre",
     0,
     1,
     2,
     1,
     3,
     0,
     1,
     NO_QKV | NO_OUT | NO_FORWARD,
     0,
     1,
     0,
     0,
     0,
     {0, 0, 0, 0}},
    {"RMS norm, biases, post", 0, 0, 2, 2, 0, 0, 1, 1, 1, 1, 0, 0, 0, {0, 0, 0, 0}},
    {"RMS norm, decoder only, biases of q, k and v alone",
     2,
     1,
     2,
     2,
     0,
     0,
     1,
     NO_OUT | NO_FORWARD,
     0,
     0,
     0,
     0,
     0,
     {0, 0, 0, 0.1}},
    {"gate, gelu by tanh, RMS norm", 0, 1, 2, 3, 3, 0, 1, GATE | NO_FORWARD, 0, 1, 0, 0, 0,
     {0, 0, 0, 0}},
    {"gate, dropout on activations", 0, 0, 0, 2, 0, 0, 1, 1 | GATE, 1, 1, 0, 0, 0, {0, 0, 0.3, 0}},
    {"decoder only, gelu by tanh", 2, 1, 0, 3, 1, 3, 1, 0, 0, 0, 0, 0, 0, {0, 0, 0, 0}},
    {"norm on embeddings, post, tied all", 0, 0, 0, 1, 2, 3, 0, EMBED_NORM, 0, 0, 1, 0, 2,
     {0, 0, 0, 0}},
    {"norm on embeddings, pre, dropout", 0, 1, 0, 1, 0, 0, 1, 1 | EMBED_NORM, 1, 1, 3, 0, 0,
     {0.3, 0.1, 0, 0.1}},
    {"RMS norm on embeddings, decoder only, dropout", 2, 0, 2, 2, 0, 3, 1, EMBED_NORM, 0, 0, 0, 0, 0,
     {0.3, 0, 0, 0}},
    {"decoder only, bos is eos", 2, 1, 0, 3, 1, 3, 1, GPT2_IDS, 0, 0, 0, 0, 0, {0, 0, 0, 0}},
    {"no bos, decoder starts with pad, tied all", 0, 0, 0, 2, 2, 2, 0, 1 | MARIAN_IDS, 1, 1, 2,
     TRF_SMOOTH_NO_PAD_KL, 0, {0, 0, 0, 0}},
    {"no biases of q, k and v", 0, 0, 0, 1, 0, 0, 1, 1 | NO_QKV, 1, 1, 0, 0, 0, {0, 0, 0, 0}},
    {"T5: distances, scaled logits", 0, 1, 2, 0, 2, TRF_POSITIONS_RELATIVE, 1,
     NO_QKV | NO_OUT | NO_FORWARD | WIDE_HEADS | SCALED, 0, 1, 2, 0, 0, {0, 0, 0, 0}},
    {"distances, shared keys, dropout on attention", 0, 0, 0, 1, 0, TRF_POSITIONS_RELATIVE, 1,
     1 | SHARED_KEYS, 1, 1, 0, 0, 0, {0, 0.3, 0, 0}},
    {"ALiBi, decoder only", 2, 1, 0, 3, 1, TRF_POSITIONS_ALIBI, 1, EMBED_NORM, 0, 0, 0, 0, 0,
     {0, 0.3, 0, 0}},
    {"Llama: rotary, shared keys", 2, 1, 2, 2, 0, TRF_POSITIONS_ROTARY, 1,
     NO_QKV | NO_OUT | NO_FORWARD | GATE | SHARED_KEYS | WIDE_HEADS, 0, 0, 0, 0, 0, {0, 0, 0, 0}},
    {"rotary, interleaved", 0, 0, 0, 1, 0, TRF_POSITIONS_ROTARY, 1, 1 | INTERLEAVED | WIDE_HEADS, 1,
     1, 0, 0, 0, {0, 0.1, 0, 0.1}},
    {"Llama 3.1: slow pairs are scaled", 2, 1, 2, 2, 0, TRF_POSITIONS_ROTARY, 1,
     NO_OUT | GATE | WIDE_HEADS | SLOW_PAIRS, 0, 0, 0, 0, 0, {0, 0, 0, 0}},
    {"segments, post, learned positions", 0, 0, 0, 1, 0, 3, 0, 1 | SEGMENTS, 0, 1, 0, 0, 2,
     {0, 0, 0, 0}},
    {"segments, norm on embeddings, dropout", 0, 1, 0, 1, 2, 0, 1, 1 | EMBED_NORM | SEGMENTS, 1, 1,
     0, 0, 0, {0.3, 0, 0, 0.1}},
};

static trf_products whose_products = TRF_PRODUCTS_AUTO;

static lab lab_of(const variant *v, int32_t d, int32_t heads, int32_t f, int32_t layers)
{
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    c.device.products = whose_products;
    c.kind = (trf_kind)v->kind;
    c.d_model = d; c.n_heads = heads; c.d_ff = f;
    c.encoder_layers = v->kind == TRF_DECODER_ONLY ? 0 : layers;
    c.decoder_layers = layers;
    c.norm_place = (trf_norm_place)v->place; c.norm_rule = (trf_norm_rule)v->rule;
    c.activation = (trf_activation)v->activation;
    c.tying = (trf_tying)v->tying;
    c.positions = (trf_positions)v->positions;
    c.final_norm = (trf_final_norm)v->final_norm;
    c.generator_bias = v->bias & 1;
    c.qkv_bias = !(v->bias & NO_QKV); c.out_bias = !(v->bias & NO_OUT);
    c.feed_forward_bias = !(v->bias & NO_FORWARD);
    c.feed_forward_gate = (v->bias & GATE) != 0; c.embedding_norm = (v->bias & EMBED_NORM) != 0;
    c.kv_heads = v->bias & SHARED_KEYS ? 1 : 0;
    c.d_head = v->bias & WIDE_HEADS ? 2 * (d / heads) : 0;
    c.attention_scale = v->bias & WIDE_HEADS ? 0.4 : 0;
    c.scale_logits = (v->bias & SCALED) != 0;
    c.relative_buckets = 8; c.relative_distance = 6;
    c.rotary_pairs = v->bias & INTERLEAVED ? TRF_ROTARY_INTERLEAVED : TRF_ROTARY_HALVES;
    c.rotary_width = v->bias & INTERLEAVED ? 2 : 0;
    if (v->bias & SLOW_PAIRS) {     /* pair 0 turns 1.6 times in 10 positions, pair 1 fewer */
        c.rotary_base = 4; c.rotary_scale = 3;
        c.rotary_trained = 10; c.rotary_low = 0.5; c.rotary_high = 2;
    }
    c.segments = (v->bias & SEGMENTS) ? 2 : 0;
    c.scale_embeddings = v->scale; c.source_eos = v->source_eos;
    c.decoder_start = (trf_decoder_start)v->start; c.position_offset = v->offset;
    if (v->bias & GPT2_IDS) { c.bos = c.eos; c.pad = c.unk = -1; }
    if (v->bias & MARIAN_IDS) { c.bos = -1; c.pad = c.source_vocab++; c.target_vocab++; }
    o.smoothing_rule = (trf_smoothing)v->smoothing;
    o.dropout = v->p[0];
    o.attention_dropout = v->p[1];
    o.activation_dropout = v->p[2];
    o.residual_dropout = v->p[3];
    return lab_open(&c, &o);
}

/* The functional alone: what trf_trainer_forward_backward computes before it turns round. */
static double loss_sum(trf_trainer *t, const trf_batch *batch)
{
    const trf_train_options *o = &t->options;
    trf__pass *pass = &t->pass;
    trf__loss l;
    trf__sums sums;
    pass->block.now.key0 = (uint32_t)o->seed;
    pass->block.now.key1 = (uint32_t)(o->seed >> 32);
    pass->block.now.step = (uint32_t)(t->step + 1);
    assert_int_equal(trf__pass_sides(pass, batch, pass->sides, batch->ordinal, NULL), TRF_OK);
    pass->run.now = (const trf__now *)(const void *)pass->block.device;
    assert_int_equal(trf__pass_forward(pass, pass->sides, NULL), TRF_OK);
    pass->run.now = NULL;
    l = trf__pass_loss(pass, o, 0);
    pass->run.backend->cross_entropy(&pass->run, &l);
    pass->run.backend->download(&pass->run, &sums, pass->loss.sums, sizeof sums);
    assert_int_equal(pass->run.backend->sync(&pass->run, NULL), TRF_OK);
    return sums.loss;
}

/* Relative distance of one tensor's gradient from central differences; in double number by number
   (of long tensors every seventh), in float along the gradient itself, where rounding matters
   least. */
static double gradient_error(trf_trainer *t, const trf_batch *batch, int32_t index,
                             const trf_real *gradient)
{
    trf_tensor w = trf_trainer_tensor(t, TRF_PARAMETER, index);
    int64_t i, n = trf_tensor_count(&w);
    double want = 0, difference = 0;
    static trf_real old[MAX_WEIGHTS], moved[MAX_WEIGHTS];
    if (n > MAX_WEIGHTS) return HUGE_VAL;
    kit_get(t->model, old, w.device_data, n);
    memcpy(moved, old, sizeof old);
#if defined(TRF_DOUBLE)
    for (i = 0; i < n; i += n > 50 ? 7 : 1) {
        double h = 1e-5, slope;
        moved[i] = old[i] + h;
        kit_put(t->model, w.device_data, moved, n);
        slope = loss_sum(t, batch);
        moved[i] = old[i] - h;
        kit_put(t->model, w.device_data, moved, n);
        slope = (slope - loss_sum(t, batch)) / (2 * h);
        moved[i] = old[i];
        want += slope * slope;
        difference += (slope - gradient[i]) * (slope - gradient[i]);
    }
#else
    double length = length_of(gradient, n), h = 1e-3, slope;
    assert_true(length > 1e-4);
    for (i = 0; i < n; i++) moved[i] = old[i] + (trf_real)(h * gradient[i] / length);
    kit_put(t->model, w.device_data, moved, n);
    slope = loss_sum(t, batch);
    for (i = 0; i < n; i++) moved[i] = old[i] - (trf_real)(h * gradient[i] / length);
    kit_put(t->model, w.device_data, moved, n);
    slope = (slope - loss_sum(t, batch)) / (2 * h);
    want = slope * slope;
    difference = (slope - length) * (slope - length);
#endif
    kit_put(t->model, w.device_data, old, n);
    assert_true(want > 1e-8);       /* a tensor that does nothing would prove nothing */
    return sqrt(difference / want);
}

static void check_gradients(const variant *v, int32_t d, int32_t heads, int32_t f, int32_t layers,
                            int32_t count, uint64_t seed)
{
    static trf_real gradients[MAX_WEIGHTS];
    static kit_pairs data;
    lab l = lab_of(v, d, heads, f, layers);
    trf_batch batch = kit_fill(&data, count, 0, 7, VOCAB, seed);
    trf_step_report report;
    double worst = 0;
    int32_t i, failed = 0;
    if (v->bias & SEGMENTS) kit_cut(&data, l.c.eos);
    shake(&l, 0.1);
    assert_true(gradient_count(&l) <= MAX_WEIGHTS);
    for (i = 0; i < gradient_count(&l); i++) gradients[i] = (trf_real)NAN;
    kit_put(l.model, l.trainer->gradients, gradients,
            gradient_count(&l)); /* what was there does not matter */
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, &report, NULL), TRF_OK);
    kit_get(l.model, gradients, l.trainer->gradients, gradient_count(&l));
    assert_near(loss_sum(l.trainer, &batch), report.loss * (double)report.target_tokens,
                FORMULA * 100);
    for (i = 0; i < trf_model_parameter_count(l.model); i++) {
        double error =
            gradient_error(l.trainer, &batch, i, gradients + l.model->layout.params[i].offset);
        if (error > worst) worst = error;
        if (error <= GRADIENT) continue;
        print_error("%s: gradient of %s is %.2e off\n", v->name,
                    trf_model_parameter(l.model, i).name, error);
        failed = 1;
    }
    if (failed || !(worst <= GRADIENT)) fail();
    lab_close(&l);
}

static void test_gradients(void **state)
{
    size_t i;
    (void)state;
    for (i = 0; i < sizeof variants / sizeof *variants; i++)
        check_gradients(&variants[i], 6, 2, 10, 2, 5, 21);
}

/* Wider than one vector and no multiple of it; few rows, so that the built-in product is asked in
   every build. */
static void test_gradients_wide(void **state)
{
    (void)state;
    check_gradients(&variants[15], 18, 3, 20, 1, 2, 22);
    check_gradients(&variants[9], 34, 2, 20, 1, 2, 23);
}

/* Rows of learned positions that no token reads have a gradient of 0, whatever was there before. */
static void test_unread_positions(void **state)
{
    static trf_real numbers[MAX_WEIGHTS];
    static kit_pairs data;
    lab l = lab_of(&variants[6], 8, 2, 12, 1);
    trf_batch batch = kit_fill(&data, 3, 2, 4, VOCAB, 24);
    int64_t n = gradient_count(&l), d = l.c.d_model, offset = l.c.position_offset, i;
    const trf__model_params *at = &l.model->layout.model;
    (void)state;
    assert_int_equal(offset, 2);
    for (i = 0; i < n; i++) numbers[i] = (trf_real)NAN;
    kit_put(l.model, l.trainer->gradients, numbers, n);
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
    kit_get(l.model, numbers, l.trainer->gradients, n);
    for (i = 0; i < offset * d; i++)
        assert_true(numbers[at->positions[0] + i] == 0 && numbers[at->positions[1] + i] == 0);
    for (i = (offset + 5) * d; i < (offset + l.c.max_length) * d; i++)
        assert_true(numbers[at->positions[0] + i] == 0 && numbers[at->positions[1] + i] == 0);
    lab_close(&l);
}

/* -----------------------------------------------------------------------------------------------
   What must not matter: neighbours, order, the split into micro-batches, padding. */

static const int trained[] = { 1, 2, 6, 9, 15 };     /* numbers of variants that stand for all */
enum { TRAINED = sizeof trained / sizeof *trained };

static variant without_dropout(variant v) { memset(v.p, 0, sizeof v.p); return v; }

static void test_neighbours(void **state)
{
    enum { PAIRS = 7 };
    static kit_pairs data;
    static trf_real together[128 * VOCAB], alone[128 * VOCAB], sums[MAX_WEIGHTS];
    int which, blas;
    (void)state;
    for (which = 0; which < TRAINED; which++)
        for (blas = 0; blas < 2; blas++) {
            variant v = without_dropout(variants[trained[which]]);
            lab l;
            trf_batch batch = kit_fill(&data, PAIRS, 1, 9, VOCAB, 31), one;
            int64_t row = 0;
            int32_t i;
            double loss = 0;
            trf_step_report all, report;
            whose_products = !blas                ? TRF_PRODUCTS_BUILT_IN
                             : kit_cblas_serves() ? TRF_PRODUCTS_CBLAS
                                                  : TRF_PRODUCTS_AUTO;
            l = lab_of(&v, 8, 2, 12, 2);
            whose_products = TRF_PRODUCTS_AUTO;
            shake(&l, 0.1);
            logits_of(&l, &batch, together);
            assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, &all, NULL), TRF_OK);
            kit_get(l.model, sums, l.trainer->gradients, gradient_count(&l));
            trf_trainer_discard_gradients(l.trainer);
            for (i = 0; i < PAIRS; i++) {
                one = kit_slice(&batch, i, 1);
                logits_of(&l, &one, alone);
                if (blas)
                    assert_near(distance(together + row * VOCAB, alone,
                                         (one.target.lengths[0] + 1) * VOCAB),
                                0, CLOSE * 10);
                else
                    assert_memory_equal(together + row * VOCAB, alone,
                                        (size_t)((one.target.lengths[0] + 1) * VOCAB) *
                                            sizeof *alone);
                row += one.target.lengths[0] + 1;
                assert_int_equal(trf_trainer_forward_backward(l.trainer, &one, &report, NULL), TRF_OK);
                loss += report.loss * (double)report.target_tokens;
            }
            assert_int_equal(row, all.target_tokens);
            assert_near(loss, all.loss * (double)all.target_tokens, CLOSE * loss);
            assert_true(length_of(sums, gradient_count(&l)) > 0.1);
            assert_same_gradients(&l, sums);
            lab_close(&l);
        }
}

static void test_order_of_sentences(void **state)
{
    enum { PAIRS = 6 };
    static kit_pairs data, reversed;
    static trf_real logits[128 * VOCAB], other[128 * VOCAB], sums[MAX_WEIGHTS];
    lab l = lab_of(&variants[2], 8, 2, 12, 2);
    trf_batch batch = kit_fill(&data, PAIRS, 1, 8, VOCAB, 32),
              back = kit_fill(&reversed, PAIRS, 1, 8, VOCAB, 32);
    int32_t i, n_source = 0, n_target = 0;
    int64_t row = 0, behind;
    (void)state;
    no_blas(&l);
    shake(&l, 0.1);
    for (i = 0; i < PAIRS; i++) {       /* the last pair first */
        trf_batch one = kit_slice(&batch, PAIRS - 1 - i, 1);
        reversed.source_lengths[i] = one.source.lengths[0];
        reversed.target_lengths[i] = one.target.lengths[0];
        memcpy(reversed.source + n_source, one.source.ids,
               (size_t)one.source.lengths[0] * sizeof(int32_t));
        memcpy(reversed.target + n_target, one.target.ids,
               (size_t)one.target.lengths[0] * sizeof(int32_t));
        n_source += one.source.lengths[0];
        n_target += one.target.lengths[0];
    }
    logits_of(&l, &batch, logits);
    logits_of(&l, &back, other);
    for (behind = kit_target_rows(l.model, &batch.target), i = 0; i < PAIRS; i++) {
        int64_t n = batch.target.lengths[i] + 1;
        behind -= n;
        assert_memory_equal(logits + row * VOCAB, other + behind * VOCAB,
                            (size_t)(n * VOCAB) * sizeof *logits);
        row += n;
    }
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
    kit_get(l.model, sums, l.trainer->gradients, gradient_count(&l));
    trf_trainer_discard_gradients(l.trainer);
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &back, NULL, NULL), TRF_OK);
    assert_same_gradients(&l, sums);
    lab_close(&l);
}

/* Dropout is on: a sentence's mask follows from its number in the whole step, so every split sees
   the same masks, and with the built-in product every token has the same loss to the last bit. */
static void test_micro_batches(void **state)
{
    enum { PAIRS = 8 };
    static const int32_t splits[3][4] = { { 8, 0, 0, 0 }, { 3, 5, 0, 0 }, { 1, 2, 4, 1 } };
    static kit_pairs data;
    static trf_real sums[MAX_WEIGHTS];
    static double losses[128], row_loss[128];
    int split, part;
    (void)state;
    for (split = 0; split < 3; split++) {
        lab l = lab_of(&variants[16], 8, 2, 12, 2);
        trf_batch batch = kit_fill(&data, PAIRS, 1, 8, VOCAB, 33), piece;
        trf_step_report report, whole;
        int64_t row = 0, i;
        int32_t first = 0;
        static double first_loss, first_norm;
        no_blas(&l);
        for (part = 0; part < 4 && splits[split][part]; part++) {
            piece = kit_slice(&batch, first, splits[split][part]);
            piece.ordinal = 0;          /* the trainer counts the sentences of a step itself */
            assert_int_equal(trf_trainer_forward_backward(l.trainer, &piece, &report, NULL), TRF_OK);
            kit_get(l.model, row_loss, l.trainer->pass.loss.row_loss[0],
                    report.target_tokens * (int64_t)(sizeof *row_loss / sizeof(trf_real)));
            for (i = 0; i < report.target_tokens; i++, row++) {
                if (split == 0) losses[row] = row_loss[i];
                else assert_true(losses[row] == row_loss[i]);
            }
            first += piece.target.count;
        }
        if (split == 0) kit_get(l.model, sums, l.trainer->gradients, gradient_count(&l));
        assert_same_gradients(&l, sums);
        assert_int_equal(trf_trainer_update(l.trainer, &whole, NULL), TRF_OK);
        assert_int_equal(whole.target_tokens, row);
        if (split == 0) { first_loss = whole.loss; first_norm = whole.gradient_norm; }
        assert_near(whole.loss, first_loss, 1e-12);
        assert_near(whole.gradient_norm, first_norm, CLOSE * first_norm);
        assert_int_equal(trf_trainer_evaluate(l.trainer, &batch, NULL, &report, NULL), TRF_OK);
        lab_close(&l);
    }
}

/* The same sentence at another place of the step has another mask; the next step has others too. */
static void test_masks_differ(void **state)
{
    static kit_pairs data;
    lab l = lab_of(&variants[16], 8, 2, 12, 2);
    trf_batch batch = kit_fill(&data, 1, 5, 5, VOCAB, 34);
    trf_step_report first, again, elsewhere, next, seeded;
    (void)state;
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, &first, NULL), TRF_OK);
    trf_trainer_discard_gradients(l.trainer);
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, &again, NULL), TRF_OK);
    trf_trainer_discard_gradients(l.trainer);
    batch.ordinal = 3;
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, &elsewhere, NULL), TRF_OK);
    trf_trainer_discard_gradients(l.trainer);
    batch.ordinal = 0;
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
    trf_trainer_end_step(l.trainer);        /* the caller's own update */
    assert_int_equal(kit_updates(l.trainer), 1);
    assert_int_equal(trf_trainer_update(l.trainer, NULL, NULL), TRF_E_STATE);
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, &next, NULL), TRF_OK);
    assert_int_equal(next.step, 2);
    trf_trainer_discard_gradients(l.trainer);
    l.trainer->step = 0;
    l.trainer->options.seed++;
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, &seeded, NULL), TRF_OK);
    assert_true(first.loss == again.loss);
    assert_true(fabs(first.loss - elsewhere.loss) > 1e-4);
    assert_true(fabs(first.loss - next.loss) > 1e-4);
    assert_true(fabs(first.loss - seeded.loss) > 1e-4);
    lab_close(&l);
}

/* -----------------------------------------------------------------------------------------------
   Corners: nothing to attend to, one token, no token. */

static void empty_sources(int source_eos, int all)
{
    static const int32_t ids[] = { 5, 6, 7, 8, 9 }, target_lengths[] = { 2, 3, 0 };
    static const int32_t some[] = { 2, 0, 3 }, none[] = { 0, 0, 0 };
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    trf_batch batch = { { ids, all ? none : some, 3 }, { ids, target_lengths, 3 }, 0, { 0, 0, 0 } };
    trf_step_report report;
    trf_real logits[8 * VOCAB];
    double score[3];
    int32_t answer[32], n = -1, i;
    int64_t r, k;
    trf_tensor w;
    lab l;
    c.source_eos = source_eos;
    l = lab_open(&c, &o);
    shake(&l, 0.1);
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, &report, NULL), TRF_OK);
    assert_int_equal(report.source_tokens, (all ? 0 : 5) + 3 * source_eos);
    assert_int_equal(report.target_tokens, 8);
    assert_true(trf__is_finite(report.loss) && report.loss > 0);
    assert_finite(gradients_of(&l), gradient_count(&l));
    for (i = 0; i < 2; i++) {           /* cross-attention of the second sentence: rows 3 to 6 */
        trf_real inner[8 * 64];
        kit_get(l.model, inner, l.trainer->pass.decoder.sublayers[3 * i + 1].hidden,
                8 * (int64_t)c.d_model);
        for (r = 0; r < 8; r++)
            for (k = 0; k < c.d_model; k++)
                if (!source_eos && (all || (r >= 3 && r < 7)))
                    assert_true(inner[r * c.d_model + k] == 0);
                else assert_true(inner[r * c.d_model + k] != 0);
    }
    assert_int_equal(trf_trainer_update(l.trainer, &report, NULL), TRF_OK);
    assert_int_equal(report.skipped, 0);
    w = kit_open(kit_there(l.model, l.model->weights, gradient_count(&l)));
    assert_finite(w.data, gradient_count(&l));
    kit_close(&w);
    logits_of(&l, &batch, logits);
    assert_finite(logits, 8 * VOCAB);
    assert_int_equal(trf_reader_score(trf_translator_reader(l.translator), &batch, NULL, score, NULL), TRF_OK);
    for (i = 0; i < 3; i++) assert_true(score[i] < 0 && trf__is_finite(score[i]));
    assert_int_equal(kit_translate(l.translator, ids, 0, answer, 32, &n, NULL), TRF_OK);
    assert_true(n >= 0);
    lab_close(&l);
}

static void test_empty_sources(void **state)
{
    (void)state;
    empty_sources(0, 0);
    empty_sources(0, 1);
    empty_sources(1, 0);
    empty_sources(1, 1);
}

static void test_length_one(void **state)
{
    static const int32_t id[] = { 7 }, one[] = { 1 };
    int which;
    (void)state;
    for (which = 0; which < TRAINED; which++) {
        lab l = lab_of(&variants[trained[which]], 8, 2, 12, 2);
        trf_batch batch = { { id, one, 1 }, { id, one, 1 }, 0, { 0, 0, 0 } };
        trf_step_report report;
        double before;
        int step;
        assert_int_equal(trf_trainer_evaluate(l.trainer, &batch, NULL, &report, NULL), TRF_OK);
        before = report.loss;
        assert_int_equal(report.target_tokens, 2);
        for (step = 0; step < 30; step++)
            assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, NULL), TRF_OK);
        assert_int_equal(trf_trainer_evaluate(l.trainer, &batch, NULL, &report, NULL), TRF_OK);
        assert_true(report.loss < before - 0.3);
        lab_close(&l);
    }
}

/* -----------------------------------------------------------------------------------------------
   Who sees whom. */

static void test_source_matters(void **state)
{
    enum { PAIRS = 3 };
    static kit_pairs data;
    static trf_real before[64 * VOCAB], after[64 * VOCAB];
    int place;
    (void)state;
    for (place = 0; place < 2; place++) {
        lab l = lab_of(&variants[1 + place], 8, 2, 12, 2);
        trf_batch batch = kit_fill(&data, PAIRS, 3, 6, VOCAB, 36);
        int32_t changed, i, at = 0;
        no_blas(&l);
        shake(&l, 0.1);
        logits_of(&l, &batch, before);
        for (changed = 0; changed < PAIRS; changed++) {
            int64_t row = 0;
            int32_t old = data.source[at];
            data.source[at] = old == 5 ? 6 : 5;     /* the first token of sentence `changed` */
            logits_of(&l, &batch, after);
            for (i = 0; i < PAIRS; i++) {
                int64_t n = batch.target.lengths[i] + 1, r;
                if (i != changed) assert_memory_equal(before + row * VOCAB, after + row * VOCAB,
                                                      (size_t)(n * VOCAB) * sizeof *before);
                else
                    for (r = row; r < row + n; r++)
                        assert_true(distance(before + r * VOCAB, after + r * VOCAB, VOCAB) > 1e-4);
                row += n;
            }
            data.source[at] = old;
            at += batch.source.lengths[changed];
        }
        lab_close(&l);
    }
}

static void test_causality(void **state)
{
    enum { LENGTH = 7 };
    static kit_pairs data;
    static trf_real before[16 * VOCAB], after[16 * VOCAB];
    int which;
    (void)state;
    for (which = 0; which < TRAINED; which++) {
        variant v = without_dropout(variants[trained[which]]);
        lab l = lab_of(&v, 8, 2, 12, 2);
        trf_batch batch = kit_fill(&data, 1, LENGTH, LENGTH, VOCAB, 37);
        int32_t changed, r;
        no_blas(&l);
        shake(&l, 0.1);
        logits_of(&l, &batch, before);
        for (changed = 0; changed < LENGTH; changed++) {
            int32_t old = data.target[changed];
            data.target[changed] = old == 5 ? 6 : 5;
            logits_of(&l, &batch, after);       /* row r has read tokens 0 .. r - 1 */
            for (r = 0; r <= changed; r++)
                assert_memory_equal(before + r * VOCAB, after + r * VOCAB, VOCAB * sizeof *before);
            for (; r <= LENGTH; r++)
                assert_true(distance(before + r * VOCAB, after + r * VOCAB, VOCAB) > 1e-4);
            data.target[changed] = old;
        }
        lab_close(&l);
    }
}

/* -----------------------------------------------------------------------------------------------
   Looks inside. */

static void test_score(void **state)
{
    enum { PAIRS = 6 };
    static kit_pairs data;
    static trf_real logits[128 * VOCAB];
    int which;
    (void)state;
    for (which = 0; which < TRAINED; which++) {
        lab l = lab_of(&variants[trained[which]], 8, 2, 12, 2);
        trf_batch batch = kit_fill(&data, PAIRS, 0, 8, VOCAB, 38);
        double score[PAIRS], want;
        int64_t row = 0, at = 0, k, v;
        int32_t i;
        shake(&l, 0.1);
        logits_of(&l, &batch, logits);
        assert_int_equal(trf_reader_score(trf_translator_reader(l.translator), &batch, NULL, score, NULL), TRF_OK);
        for (i = 0; i < PAIRS; i++) {
            for (want = 0, k = 0; k <= batch.target.lengths[i]; k++, row++) {
                int32_t wanted = k < batch.target.lengths[i] ? batch.target.ids[at++] : l.c.eos;
                double sum = 0;
                for (v = 0; v < VOCAB; v++) sum += exp((double)logits[row * VOCAB + v]);
                want += (double)logits[row * VOCAB + wanted] - log(sum);
            }
            assert_near(score[i], want, CLOSE * 20);
        }
        lab_close(&l);
    }
}

static void test_encode(void **state)
{
    enum { PAIRS = 5, D = 8 };
    static kit_pairs data;
    static trf_real together[64 * D], alone[64 * D], inside[64 * D];
    int kind;
    (void)state;
    for (kind = 0; kind < 2; kind++) {
        trf_config c = seeded_config();
        trf_train_options o = kit_small_training(0);
        trf_batch batch = kit_fill(&data, PAIRS, 0, 8, VOCAB, 39);
        trf_tensor out;
        trf_error err;
        trf_trainer *trainer;
        double scores[PAIRS];
        int32_t i;
        int64_t row = 0, rows;
        lab l;
        c.kind = (trf_kind)kind;
        if (kind == TRF_ENCODER_ONLY) { c.decoder_layers = 0; c.target_vocab = 0; }
        l = lab_open(&c, &o);
        no_blas(&l);
        rows = kit_source_rows(l.model, &batch.source);
        out = trf_tensor_of(together, 2, rows, D, 1);
        assert_int_equal(kit_encode(l.translator, &batch.source, &out, NULL), TRF_OK);
        kit_get(l.model, inside, l.translator->reader.pass.encoder.out, rows * D);
        assert_memory_equal(together, inside, (size_t)(rows * D) * sizeof *together);
        for (i = 0; i < PAIRS; i++) {
            trf_batch one = kit_slice(&batch, i, 1);
            out = trf_tensor_of(alone, 2, kit_source_rows(l.model, &one.source), D, 1);
            assert_int_equal(kit_encode(l.translator, &one.source, &out, NULL), TRF_OK);
            assert_memory_equal(together + row * D, alone,
                                (size_t)(out.shape[0] * D) * sizeof *alone);
            row += out.shape[0];
        }
        if (kind == TRF_ENCODER_ONLY) {
            assert_int_equal(kit_logits(l.translator, &batch, &out, &err), TRF_E_STATE);
            assert_int_equal(trf_reader_score(trf_translator_reader(l.translator), &batch, NULL, scores, &err), TRF_E_STATE);
            assert_int_equal(trf_translate(l.translator, &batch.source, NULL, &err), TRF_E_STATE);
            trainer = (trf_trainer *)(void *)&data;
            assert_int_equal(trf_trainer_create(&trainer, l.model, &o, &err), TRF_E_UNSUPPORTED);
            assert_null(trainer);
        }
        lab_close(&l);
    }
}

/* Rows sum to one, nothing sees the future, and the weights of a layer times its values are what
   that layer took. */
static void test_attention_weights(void **state)
{
    enum { D = 8, HEADS = 2, N = 5, M = 7 };
    static kit_pairs data;
    lab l = lab_of(&variants[1], D, HEADS, 12, 2);
    trf_batch batch = kit_fill(&data, 2, M - 1, M - 1, VOCAB, 40), one;
    trf_real w[16 * 16], first[16 * 16];
    trf_tensor out;
    int kind, layer, head, i, k, c;
    (void)state;
    shake(&l, 0.3);
    data.target_lengths[0] = N - 1;
    one = kit_slice(&batch, 0, 1);
    assert_int_equal(trf_trainer_evaluate(l.trainer, &one, NULL, NULL, NULL),
                     TRF_OK); /* a trainer's pass keeps all layers */
    for (kind = 0; kind < 3; kind++)
        for (layer = 0; layer < 2; layer++)
            for (head = 0; head < HEADS; head++) {
                int queries = kind == TRF_ENCODER_SELF ? M : N,
                    keys = kind == TRF_DECODER_SELF ? N : M;
                const trf__pass *pass = &l.trainer->pass;
                const trf__sublayer *sub = kind == TRF_ENCODER_SELF
                                               ? &pass->encoder.sublayers[2 * layer]
                                               : &pass->decoder.sublayers[3 * layer + kind - 1];
                int cross = kind == TRF_DECODER_CROSS;
                trf_real inner[(M + N) * D], wide[(M + N) * 3 * D];
                const trf_real *values = wide + (cross ? D : 2 * D);
                kit_get(l.model, inner, sub->hidden, queries * D);
                kit_get(l.model, wide, cross ? sub->memory : sub->projected,
                        keys * (cross ? 2 : 3) * D);
                out = trf_tensor_of(w, 2, queries, keys, 1);
                assert_int_equal(kit_attention_weights(l.translator, &one, (trf_attention_kind)kind,
                                                       layer, head, &out, NULL),
                                 TRF_OK);
                if (layer + head == 0) memcpy(first, w, sizeof w);
                else
                    assert_true(distance(first, w, queries * keys) >
                                1e-3); /* each head has its own */
                for (i = 0; i < queries; i++) {
                    double sum = 0;
                    for (k = 0; k < keys; k++) {
                        assert_true(w[i * keys + k] >= 0);
                        if (kind == TRF_DECODER_SELF && k > i) assert_true(w[i * keys + k] == 0);
                        sum += (double)w[i * keys + k];
                    }
                    assert_near(sum, 1, FORMULA);
                    for (c = 0; c < D / HEADS; c++) {
                        int ld = cross ? 2 * D : 3 * D, feature = head * (D / HEADS) + c;
                        for (sum = 0, k = 0; k < keys; k++)
                            sum += (double)w[i * keys + k] * (double)values[k * ld + feature];
                        assert_near(inner[i * D + feature], sum, FORMULA * 10);
                    }
                }
            }
    logits_of(&l, &one, w);             /* and the next call writes no weights */
    lab_close(&l);
}

/* A model has the attention of the sides that it has, and wants no sequence of the other. */
static void test_attention_of_one_side(void **state)
{
    static const trf_kind kinds[] = {TRF_ENCODER_ONLY, TRF_DECODER_ONLY};
    static const int32_t ids[] = {5, 6, 7}, n = 3;
    trf_real w[16];
    int which, kind, i, k;
    (void)state;
    for (which = 0; which < 2; which++) {
        trf_config c = seeded_config();
        trf_model *model;
        trf_translator *translator;
        trf_error err;
        trf_batch batch = {{NULL, NULL, 0}, {NULL, NULL, 0}, 0, {0, 0, 0}};
        trf_sequences sequence = {ids, &n, 1};
        trf_tensor out;
        int64_t rows;
        c.kind = kinds[which];
        if (which) c.encoder_layers = 0; else c.decoder_layers = 0;
        c.tying = TRF_UNTIED;
        assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_OK);
        assert_int_equal(trf_translator_create(&translator, model, NULL, &err), TRF_OK);
        if (which) batch.target = sequence; else batch.source = sequence;
        rows =
            which ? kit_target_rows(model, &batch.target) : kit_source_rows(model, &batch.source);
        out = trf_tensor_of(w, 2, rows, rows, 1);
        for (kind = 0; kind < 3; kind++) {
            trf_status status = kit_attention_weights(translator, &batch, (trf_attention_kind)kind,
                                                      0, 1, &out, &err);
            if (kind == (which ? (int)TRF_DECODER_SELF : (int)TRF_ENCODER_SELF)) {
                assert_int_equal(status, TRF_OK);
                for (i = 0; i < rows; i++) {
                    double sum = 0;
                    for (k = 0; k < rows; k++) sum += (double)w[i * rows + k];
                    assert_near(sum, 1, FORMULA);
                }
                continue;
            }
            assert_int_equal(status, TRF_E_STATE);
            assert_string_equal(err.what, "kind");
        }
        trf_translator_destroy(translator);
        trf_model_destroy(model);
    }
}

/* -----------------------------------------------------------------------------------------------
   Updates against their formulas. */

/* The formula of an update in plain double, from the gradient sums that the trainer shows. */
typedef struct oracle { double p[MAX_WEIGHTS], m[MAX_WEIGHTS], v[MAX_WEIGHTS]; } oracle;

static void oracle_start(oracle *x, const lab *l)
{
    trf_tensor w = kit_open(kit_there(l->model, l->model->weights, gradient_count(l)));
    int64_t i;
    memset(x, 0, sizeof *x);
    for (i = 0; i < gradient_count(l); i++) x->p[i] = (double)w.data[i];
    kit_close(&w);
}

static double oracle_step(oracle *x, const lab *l, double tokens, int64_t step)
{
    const trf_train_options *o = &l->o;
    const trf_real *gradients = gradients_of(l);
    double norm = length_of(gradients, gradient_count(l)) / tokens,
           clip = o->clip_norm / (norm + 1e-6);
    double rate = trf_learning_rate(o, l->c.d_model, step), c1 = 1 - pow(o->beta1, (double)step),
        c2 = 1 - pow(o->beta2, (double)step);
    int32_t i;
    int64_t k;
    for (i = 0; i < trf_model_parameter_count(l->model); i++) {
        trf_tensor w = trf_model_parameter(l->model, i);
        int decays = o->decay_all ||
                     (w.rank == 2 && !strstr(w.name, "embed") && !strstr(w.name, "positions"));
        double decay = decays ? o->weight_decay : 0;
        for (k = w.device_data - l->model->weights;
             k < w.device_data - l->model->weights + trf_tensor_count(&w); k++) {
            double g = (double)gradients[k] / tokens * (clip < 1 ? clip : 1), change;
            if (o->optimizer == TRF_ADAM) g += decay * x->p[k];
            x->m[k] = o->beta1 * x->m[k] + (1 - o->beta1) * g;
            x->v[k] = o->beta2 * x->v[k] + (1 - o->beta2) * g * g;
            if (o->epsilon_rule == TRF_EPSILON_OUTSIDE)
                change = x->m[k] / c1 / (sqrt(x->v[k] / c2) + o->epsilon);
            else if (o->epsilon_rule == TRF_EPSILON_INSIDE)
                change = x->m[k] / c1 / sqrt(x->v[k] / c2 + o->epsilon);
            else change = sqrt(c2) / c1 * x->m[k] / (sqrt(x->v[k]) + o->epsilon);
            if (o->optimizer == TRF_ADAMW) x->p[k] -= rate * decay * x->p[k];
            x->p[k] -= rate * change;
        }
    }
    return norm;
}

static void test_updates(void **state)
{
    static oracle x;
    static kit_pairs data;
    int which;
    (void)state;
    /* optimizer, place of epsilon, what decays; with and without clipping */
    for (which = 0; which < 12; which++) {
        trf_config c = seeded_config();
        trf_train_options o = kit_small_training(0);
        trf_batch batch = kit_fill(&data, 4, 1, 8, VOCAB, 41);
        trf_step_report report;
        double norm;
        int64_t step, k;
        int32_t i;
        lab l;
        o.optimizer = (trf_optimizer)(which & 1);
        o.epsilon_rule = (trf_adam_epsilon)(which / 2 % 3);
        o.epsilon = 1e-4;               /* large enough to see where it stands */
        o.weight_decay = 0.05;
        o.decay_all = which >= 6;
        o.clip_norm = which % 4 < 2 ? 0.1 : TRF_NO_CLIPPING;
        o.schedule = TRF_CONSTANT;
        o.warmup = 1;
        o.learning_rate = 0.01;
        l = lab_open(&c, &o);
        shake(&l, 0.1);
        oracle_start(&x, &l);
        for (step = 1; step <= 3; step++) {
            assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, &report, NULL), TRF_OK);
            norm = oracle_step(&x, &l, (double)report.target_tokens, step);
            assert_int_equal(trf_trainer_update(l.trainer, &report, NULL), TRF_OK);
            assert_near(report.gradient_norm, norm, FORMULA * norm);
            assert_int_equal(report.step, step);
            assert_int_equal(kit_updates(l.trainer), step);
            for (i = 0; i < trf_model_parameter_count(l.model); i++) {
                trf_tensor w = kit_open(trf_model_parameter(l.model, i));
                for (k = 0; k < trf_tensor_count(&w); k++)
                    assert_near(w.data[k], x.p[w.device_data + k - l.model->weights],
                                10 * FORMULA * 0.03 + FORMULA * fabs((double)w.data[k]));
                kit_close(&w);
            }
        }
        lab_close(&l);
    }
}

static void test_schedules(void **state)
{
    static kit_pairs data;
    static const int64_t steps[] = { 1, 2, 99, 100, 101, 400, 1000, 5000 };
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    int schedule;
    size_t i;
    (void)state;
    o.warmup = 100; o.total_steps = 1000;
    o.initial_rate = 1e-5; o.final_rate = 2e-5; o.learning_rate = 0.5;
    for (schedule = 0; schedule < 4; schedule++) {
        o.schedule = (trf_schedule)schedule;
        for (i = 0; i < sizeof steps / sizeof *steps; i++) {
            double s = (double)steps[i], w = 100, rising = 1e-5 + s / w * (0.5 - 1e-5), want;
            if (schedule == TRF_NOAM) want = 0.5 / sqrt(8.0) * fmin(1 / sqrt(s), s * pow(w, -1.5));
            else if (s < w) want = rising;
            else if (schedule == TRF_INVERSE_SQRT) want = 0.5 * sqrt(w / s);
            else if (schedule == TRF_CONSTANT) want = 0.5;
            else
                want = s >= 1000 ? 2e-5
                                 : 2e-5 + (0.5 - 2e-5) * (1 + cos(acos(-1.0) * (s - w) / 900)) / 2;
            assert_near(trf_learning_rate(&o, 8, steps[i]), want, 1e-12);
        }
        assert_near(trf_learning_rate(&o, 8, 0), schedule == TRF_NOAM ? 0 : 1e-5, 0);
        {
            lab l = lab_open(&c, &o);
            trf_batch batch = kit_fill(&data, 2, 1, 5, VOCAB, 42);
            trf_step_report report;
            int64_t step;
            for (step = 1; step <= 3; step++) {
                assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, NULL), TRF_OK);
                assert_true(report.learning_rate == trf_learning_rate(&o, 8, step));
            }
            lab_close(&l);
        }
    }
}

/* -----------------------------------------------------------------------------------------------
   Steps that must change nothing. */

static void test_nonfinite(void **state)
{
    static kit_pairs data;
    static const variant *const kinds[] = { &variants[15], &variants[1] };
    const double bad[3] = { (double)NAN, (double)INFINITY, -(double)INFINITY };
    size_t kind;
    int32_t i;
    int b;
    (void)state;
    for (kind = 0; kind < 2; kind++) {
        lab l = lab_of(kinds[kind], 8, 2, 12, 2);
        trf_batch batch = kit_fill(&data, 3, 1, 8, VOCAB, 43);
        trf_step_report report;
        assert_int_equal(trf_trainer_step(l.trainer, &batch, NULL, NULL), TRF_OK);
        for (i = 0; i < trf_model_parameter_count(l.model); i++)
            for (b = 0; b < 3; b++) {
                trf_tensor g;
                uint64_t before;
                int64_t step = kit_updates(l.trainer);
                assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
                g = trf_trainer_tensor(l.trainer, TRF_GRADIENT, i);
                kit_set(g, (i * 7 + b) % trf_tensor_count(&g), bad[b]);
                l.trainer->step =
                    0; /* the hash is of weights, moments and step: take the step out */
                before = hash_state(l.trainer);
                l.trainer->step = step;
                assert_int_equal(trf_trainer_update(l.trainer, &report, NULL), TRF_OK);
                assert_int_equal(report.skipped, 1);
                assert_string_equal(report.tensor, trf_model_parameter(l.model, i).name);
                assert_int_equal(kit_updates(l.trainer), step + 1);
                assert_int_equal(report.step, step + 1);
                assert_true(report.learning_rate == trf_learning_rate(&l.o, 8, step + 1));
                l.trainer->step = 0;
                assert_true(hash_state(l.trainer) == before);
                l.trainer->step = step + 1;
            }
        assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, NULL),
                         TRF_OK); /* and training goes on */
        assert_int_equal(report.skipped, 0);
        assert_true(trf__is_finite(report.gradient_norm) && report.gradient_norm > 0);
        kit_set(trf_trainer_tensor(l.trainer, TRF_PARAMETER, 0), 5 * 8, HUGE_VAL); /* token 5's embedding */
        assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, NULL), TRF_OK);
        assert_int_equal(report.skipped, 1);
        assert_true(report.tensor[0] != 0);
        lab_close(&l);
    }
}

typedef struct canceller { int64_t calls, at; } canceller;
static int cancel_at(void *user)
{
    canceller *x = (canceller *)user;
    return ++x->calls == x->at;
}

static void test_cancel(void **state)
{
    static kit_pairs data;
    int which;
    (void)state;
    for (which = 0; which < 2; which++) {
        trf_config c = seeded_config();
        trf_train_options o = kit_small_training(0);
        trf_batch batch = kit_fill(&data, 6, 1, 8, VOCAB, 44), parts[2];
        canceller x = { 0, 0 };
        trf_error err;
        uint64_t before, after, gradients;
        int64_t calls, k;
        lab l;
        c.norm_place = (trf_norm_place)which;
        trf_train_set_dropout(&o, 0.2);
        o.hooks.user = &x;
        o.hooks.cancel = cancel_at;
        l = lab_open(&c, &o);
        parts[0] = kit_slice(&batch, 0, 2);
        parts[1] = kit_slice(&batch, 2, 4);
        parts[1].ordinal = 0;
        before = hash_state(l.trainer);
        assert_int_equal(trf_trainer_forward_backward(l.trainer, &parts[0], NULL, NULL), TRF_OK);
        calls = x.calls;
        assert_true(calls >= 2 * (2 + 2));      /* once per layer, forward and backward */
        gradients = hash_gradients(HASH_START, l.trainer);
        assert_int_equal(trf_trainer_forward_backward(l.trainer, &parts[1], NULL, NULL), TRF_OK);
        assert_int_equal(trf_trainer_update(l.trainer, NULL, NULL), TRF_OK);
        after = hash_state(l.trainer);
        assert_true(before != after);
        lab_close(&l);

        l = lab_open(&c, &o);
        for (k = 1; k <= calls; k++) {          /* a whole step */
            x.calls = 0; x.at = k;
            assert_int_equal(trf_trainer_step(l.trainer, &parts[0], NULL, &err), TRF_E_CANCELLED);
            assert_int_equal(err.status, TRF_E_CANCELLED);
            assert_int_equal(x.calls, k);
            assert_true(hash_state(l.trainer) == before);
            assert_int_equal(trf_trainer_update(l.trainer, NULL, NULL), TRF_E_STATE);
        }
        x.at = 0;
        assert_int_equal(trf_trainer_forward_backward(l.trainer, &parts[0], NULL, NULL), TRF_OK);
        assert_true(hash_gradients(HASH_START, l.trainer) == gradients);
        for (k = 1;; k++) { /* the second micro-batch: the first one's gradients stay */
            x.calls = 0; x.at = k;
            if (trf_trainer_forward_backward(l.trainer, &parts[1], NULL, &err) == TRF_OK) break;
            assert_int_equal(err.status, TRF_E_CANCELLED);
            assert_true(hash_state(l.trainer) == before);
            assert_true(hash_gradients(HASH_START, l.trainer) == gradients);
        }
        assert_true(k > 4);                     /* once per layer of the forward at least */
        x.at = 0;
        assert_int_equal(trf_trainer_update(l.trainer, NULL, NULL), TRF_OK);
        assert_true(hash_state(l.trainer) == after);
        x.calls = 0; x.at = 1;
        assert_int_equal(trf_trainer_evaluate(l.trainer, &batch, NULL, NULL, NULL), TRF_E_CANCELLED);
        assert_true(hash_state(l.trainer) == after);
        lab_close(&l);
    }
}

static void test_cancel_translating(void **state)
{
    static kit_pairs data;
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    trf_search search = trf_search_defaults();
    trf_batch batch = kit_fill(&data, 4, 1, 6, VOCAB, 45);
    canceller x = { 0, 0 };
    int32_t want[4][32], n[4], i;
    int64_t calls, k;
    lab l = lab_open(&c, &o);
    trf_translator *t = NULL;
    (void)state;
    search.threads = 1;
    search.hooks.user = &x;
    search.hooks.cancel = cancel_at;
    assert_int_equal(trf_translator_create(&t, l.model, &search, NULL), TRF_OK);
    for (i = 0; i < 3; i++) {                   /* what can be recorded is, after the second time */
        x.calls = 0;
        assert_int_equal(trf_translate(t, &batch.source, NULL, NULL), TRF_OK);
    }
    for (i = 0; i < 4; i++) {
        n[i] = trf_translator_answer(t, i, 0)->n;
        if (n[i]) memcpy(want[i], trf_translator_answer(t, i, 0)->ids, (size_t)n[i] * sizeof(int32_t));
    }
    calls = x.calls;
    assert_true(calls > (KIT_ASKS_ONCE ? n[0] : 4 + n[0]));     /* once per layer and per token */
    for (k = 1; k <= calls; k++) {
        x.calls = 0; x.at = k;
        assert_int_equal(trf_translate(t, &batch.source, NULL, NULL), TRF_E_CANCELLED);
        assert_int_equal(x.calls, k);
        assert_int_equal(kit_count(t, 0), 0);
        assert_null(trf_translator_answer(t, 0, 0));
    }
    x.at = 0;
    assert_int_equal(trf_translate(t, &batch.source, NULL, NULL), TRF_OK);
    for (i = 0; i < 4; i++) {
        assert_int_equal(trf_translator_answer(t, i, 0)->n, n[i]);
        assert_memory_equal(trf_translator_answer(t, i, 0)->ids, want[i],
                            (size_t)n[i] * sizeof(int32_t));
    }
    trf_translator_destroy(t);
    lab_close(&l);
}

static void test_states(void **state)
{
    static kit_pairs data;
    char path[64];
    lab l = lab_of(&variants[1], 8, 2, 12, 2);
    trf_batch batch = kit_fill(&data, 4, 1, 8, VOCAB, 46);
    trf_step_report report;
    trf_error err;
    uint64_t before = hash_state(l.trainer);
    (void)state;
    snprintf(path, sizeof path, "/tmp/trf_test_model_%d.checkpoint", (int)getpid());
    assert_int_equal(trf_trainer_update(l.trainer, &report, &err), TRF_E_STATE);
    assert_string_equal(err.what, "gradients");
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
    assert_int_equal(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err), TRF_E_STATE);
    assert_int_equal(access(path, F_OK), -1);
    trf_trainer_discard_gradients(l.trainer);
    assert_int_equal(trf_trainer_update(l.trainer, &report, &err), TRF_E_STATE);
    assert_true(hash_state(l.trainer) == before);
    assert_int_equal(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err), TRF_OK);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    lab_close(&l);
}

static void test_evaluate(void **state)
{
    static kit_pairs data, other;
    lab l = lab_of(&variants[16], 8, 2, 12, 2), plain;
    variant v = without_dropout(variants[16]);
    trf_batch batch = kit_fill(&data, 4, 1, 8, VOCAB, 47),
              more = kit_fill(&other, 3, 2, 9, VOCAB, 48);
    trf_step_report report, want;
    uint64_t before, gradients;
    (void)state;
    plain = lab_of(&v, 8, 2, 12, 2);
    assert_int_equal(trf_trainer_forward_backward(plain.trainer, &more, &want, NULL), TRF_OK);
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
    before = hash_state(l.trainer);
    gradients = hash_gradients(HASH_START, l.trainer);
    assert_int_equal(trf_trainer_evaluate(l.trainer, &more, NULL, &report, NULL), TRF_OK);
    assert_true(hash_state(l.trainer) == before);
    assert_true(hash_gradients(HASH_START, l.trainer) == gradients);
    assert_true(report.loss == want.loss && report.nll == want.nll &&
                report.accuracy == want.accuracy);
    assert_int_equal(report.target_tokens, want.target_tokens);
    assert_int_equal(report.source_tokens, want.source_tokens);
    /* the accumulation goes on as if nothing had been */
    assert_int_equal(trf_trainer_update(l.trainer, &report, NULL), TRF_OK);
    assert_int_equal(report.target_tokens, kit_target_rows(l.model, &batch.target));
    lab_close(&l);
    lab_close(&plain);
}

/* -----------------------------------------------------------------------------------------------
   Several ranks: two trainers in two threads, whose hook adds up what both of them bring. */

typedef struct ranks {
    pthread_mutex_t lock;
    pthread_cond_t change;
    const trf_real *parts[2];
    trf_real *sum;
    int waiting, turn;
} ranks;

typedef struct rank_job {
    ranks *all;
    const trf_config *c;
    trf_train_options o;
    trf_batch batch;
    trf_step_report reports[3];
    uint64_t hash;
    double norm;
    int64_t end;                /* where the last slice began */
    int failures, fail_at, calls, in_order;
    int frozen;                 /* 1: the encoder stays as it is */
} rank_job;

/* Waits until both are here; the second one to come adds up, in the order of ranks. */
static void meet(ranks *r, int add, size_t count)
{
    int turn;
    size_t i;
    pthread_mutex_lock(&r->lock);
    turn = r->turn;
    if (++r->waiting == 2) {
        separate_enter();
        for (i = 0; add && i < count; i++) r->sum[i] = r->parts[0][i] + r->parts[1][i];
        separate_leave();
        r->waiting = 0;
        r->turn++;
        pthread_cond_broadcast(&r->change);
    }
    while (turn == r->turn) pthread_cond_wait(&r->change, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static int sum_over_two(void *user, trf_real *gradients, size_t count, void *stream)
{
    rank_job *j = (rank_job *)user;
    j->all->parts[j->o.rank] = gradients;
    if ((stream != NULL) != KIT_HAS_STREAM) j->in_order = 0;
    meet(j->all, 1, count);
    separate_enter();
    memcpy(gradients, j->all->sum, count * sizeof *gradients);
    separate_leave();
    meet(j->all, 0, 0);
    return 0;
}

/* Nothing here may call cmocka: it is another thread. */
static void *rank_main(void *argument)
{
    rank_job *j = (rank_job *)argument;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    uint64_t first = 0, encoder = 0;
    int32_t i, matched = 0;
    int step;
    j->failures += trf_model_create(&model, j->c, NULL, NULL) != TRF_OK;
    j->failures += trf_trainer_create(&trainer, model, &j->o, NULL) != TRF_OK;
    if (j->frozen)
        j->failures += trf_trainer_freeze(trainer, "encoder.*", 1, &matched, NULL) != TRF_OK;
    for (i = 0; i < trf_model_parameter_count(model); i++)
        if (!strncmp(trf_model_parameter(model, i).name, "encoder.", 8))
            first = hash_tensor(first, trf_model_parameter(model, i));
    for (step = 0; step < 3 && !j->failures; step++) {
        if (step == 1) {                /* this step in two micro-batches */
            trf_batch part = kit_slice(&j->batch, 0, 1);
            part.ordinal = j->batch.ordinal;
            j->failures += trf_trainer_forward_backward(trainer, &part, NULL, NULL) != TRF_OK;
            part = kit_slice(&j->batch, 1, j->batch.target.count - 1);
            part.ordinal = j->batch.ordinal;
            j->failures += trf_trainer_forward_backward(trainer, &part, NULL, NULL) != TRF_OK;
            j->failures += trf_trainer_update(trainer, &j->reports[step], NULL) != TRF_OK;
        } else j->failures += trf_trainer_step(trainer, &j->batch, &j->reports[step], NULL) != TRF_OK;
    }
    for (i = 0; i < trf_model_parameter_count(model); i++)
        if (!strncmp(trf_model_parameter(model, i).name, "encoder.", 8))
            encoder = hash_tensor(encoder, trf_model_parameter(model, i));
    j->failures += j->frozen != (first == encoder) || (j->frozen && matched < 20);
    j->hash = j->failures ? 0 : hash_weights(HASH_START, model);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return NULL;
}

/* Training by CBLAS and by the built-in product: the same but for rounding. */
static void test_products(void **state)
{
    static kit_pairs data;
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    trf_batch batch =
        kit_fill(&data, 12, 3, 8, VOCAB, 50); /* more rows than the built-in product always takes */
    double losses[2][5];
    int by, step;
    (void)state;
    for (by = 0; by < 2; by++) {
        trf_status status;
        trf_error err;
        trf_model *model = NULL;
        lab l;
        c.device.products = by ? TRF_PRODUCTS_BUILT_IN : TRF_PRODUCTS_CBLAS;
        status = trf_model_create(&model, &c, NULL, &err);
        trf_model_destroy(model);
        if (status != TRF_OK) {                 /* a build without CBLAS says so */
            assert_int_equal(status, TRF_E_BACKEND);
            assert_string_equal(err.what, "device.products");
            return;
        }
        l = lab_open(&c, &o);
        for (step = 0; step < 5; step++) {
            trf_step_report report;
            assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, NULL), TRF_OK);
            losses[by][step] = report.loss;
        }
        lab_close(&l);
    }
    for (step = 0; step < 5; step++)
        assert_near(losses[1][step], losses[0][step], 20 * CLOSE * losses[0][step]);
}

static void test_two_ranks(void **state)
{
    enum { PAIRS = 7, FIRST = 3 };
    static trf_real sum[MAX_WEIGHTS + 64];
    static kit_pairs data;
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    trf_batch batch = kit_fill(&data, PAIRS, 1, 8, VOCAB, 49);
    uint64_t hash[3];
    rank_job jobs[2];
    int repetition, step, r;
    lab l;
    (void)state;
    trf_train_set_dropout(&o, 0.2);
    for (repetition = 2; repetition >= 0;
         repetition--) { /* frozen and recomputing, then twice without */
        o.recompute = repetition == 2;
        ranks all;
        pthread_t threads[2];
        memset(&all, 0, sizeof all);
        memset(jobs, 0, sizeof jobs);
        pthread_mutex_init(&all.lock, NULL);
        pthread_cond_init(&all.change, NULL);
        all.sum = sum;
        for (r = 0; r < 2; r++) {
            jobs[r].all = &all;
            jobs[r].c = &c;
            jobs[r].o = o;
            jobs[r].in_order = 1;
            jobs[r].frozen = repetition == 2;
            jobs[r].o.rank = r;
            jobs[r].o.n_ranks = 2;
            jobs[r].o.all_reduce = sum_over_two;
            jobs[r].o.user = &jobs[r];
            jobs[r].batch =
                r ? kit_slice(&batch, FIRST, PAIRS - FIRST) : kit_slice(&batch, 0, FIRST);
        }
        for (r = 0; r < 2; r++)
            assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &jobs[r]), 0);
        for (r = 0; r < 2; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
        pthread_mutex_destroy(&all.lock);
        pthread_cond_destroy(&all.change);
        for (r = 0; r < 2; r++) {
            assert_int_equal(jobs[r].failures, 0);
            assert_true(jobs[r].in_order);
        }
        assert_true(jobs[0].hash != 0 && jobs[0].hash == jobs[1].hash);
        hash[repetition] = jobs[0].hash;
    }
    assert_true(hash[0] == hash[1] && hash[0] != hash[2]);
    l = lab_open(&c, &o);
    for (step = 0; step < 3; step++) {
        trf_step_report report;
        assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, NULL), TRF_OK);
        for (r = 0; r < 2; r++) {
            const trf_step_report *got = &jobs[r].reports[step];
            assert_near(got->loss, report.loss, CLOSE * report.loss);
            assert_near(got->nll, report.nll, CLOSE * report.nll);
            assert_near(got->accuracy, report.accuracy, 1e-12);
            assert_near(got->gradient_norm, report.gradient_norm,
                        10 * CLOSE * report.gradient_norm);
            assert_int_equal(got->target_tokens, report.target_tokens);
            assert_int_equal(got->source_tokens, report.source_tokens);
            assert_int_equal(got->skipped, 0);
        }
    }
    lab_close(&l);
}

/* A hook that only watches: slices come last first, without gaps, and every number once. */
static int watch(void *user, trf_real *gradients, size_t count, void *stream)
{
    rank_job *j = (rank_job *)user;
    if ((stream != NULL) != KIT_HAS_STREAM || !gradients || (int64_t)count > j->end)
        j->in_order = 0;
    j->end -= (int64_t)count;
    return ++j->calls == j->fail_at;
}

static void test_reduce_hook(void **state)
{
    static kit_pairs data;
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    trf_batch batch = kit_fill(&data, 4, 1, 8, VOCAB, 50);
    rank_job j;
    trf_step_report report;
    trf_error err;
    uint64_t before;
    int64_t whole;
    int k, calls;
    lab l, plain = lab_open(&c, &o);
    (void)state;
    memset(&j, 0, sizeof j);
    j.in_order = 1;
    o.all_reduce = watch;
    o.user = &j;
    l = lab_open(&c, &o);
    whole = j.end = gradient_count(&l) + TRF__TALLIES;
    before = hash_state(l.trainer);
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
    assert_int_equal(j.calls, 0);
    trf_trainer_discard_gradients(l.trainer);
    assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, NULL), TRF_OK);
    assert_true(j.in_order && j.end == 0 && j.calls >= 4);
    calls = j.calls;
    assert_int_equal(trf_trainer_step(plain.trainer, &batch, NULL, NULL), TRF_OK);
    assert_true(hash_state(l.trainer) == hash_state(plain.trainer));
    lab_close(&l);
    l = lab_open(&c, &o);
    for (k = 1; k <= calls; k++) {
        j.calls = 0; j.fail_at = k; j.end = whole;
        assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, &err), TRF_E_BACKEND);
        assert_string_equal(err.what, "all_reduce");
        assert_int_equal(j.calls, k);
        assert_true(hash_state(l.trainer) == before);
        assert_int_equal(trf_trainer_update(l.trainer, &report, NULL), TRF_E_STATE);
    }
    j.calls = 0; j.fail_at = 0; j.end = whole;
    assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, &err), TRF_OK);
    assert_true(hash_state(l.trainer) == hash_state(plain.trainer));
    lab_close(&l);
    lab_close(&plain);
}

/* -----------------------------------------------------------------------------------------------
   The contract of every call. */

/* A failing call says so with and without an error struct, and leaves its output pointer at NULL.
 */
#define assert_refused(out, wanted, call) \
    do { \
        trf_error refused_, *error_ = &refused_; \
        memset(&refused_, 0x55, sizeof refused_); \
        (out) = (void *)&refused_; \
        assert_int_equal(call, wanted); \
        assert_null(out); \
        assert_int_equal(refused_.status, wanted); \
        assert_true(refused_.message[0] != 0 && \
                    memchr(refused_.message, 0, sizeof refused_.message) != NULL); \
        assert_non_null(memchr(refused_.what, 0, sizeof refused_.what)); \
        error_ = NULL; \
        (out) = (void *)&refused_; \
        assert_int_equal(call, wanted); \
        assert_null(out); \
    } while (0)

/* Every weight is 0, gains too, and with the weights of another model it is that model. */
static void test_zeros(void **state)
{
    trf_config c = seeded_config();
    trf_model *model, *drawn;
    size_t bytes, n;
    trf_error err;
    char *one, *other;
    trf_real *weights;
    int64_t k;
    (void)state;
    assert_int_equal(kit_create_zeros(&model, &c, &err), TRF_OK);
    assert_int_equal(trf_model_create(&drawn, &c, NULL, &err), TRF_OK);
    assert_int_equal(trf_model_parameter_count(model), trf_model_parameter_count(drawn));
    weights = (trf_real *)malloc((size_t)model->layout.n_weights * sizeof *weights);
    kit_get(model, weights, model->weights, model->layout.n_weights);
    for (k = 0; k < model->layout.n_weights; k++) assert_true(weights[k] == 0);
    kit_get(drawn, weights, drawn->weights, drawn->layout.n_weights);
    kit_put(model, model->weights, weights, drawn->layout.n_weights);
    free(weights);
    kit_save_memory(drawn, TRF_WEIGHTS_FULL, NULL, 0, &bytes, NULL);
    one = (char *)malloc(bytes);
    other = (char *)malloc(bytes);
    assert_int_equal(kit_save_memory(model, TRF_WEIGHTS_FULL, one, bytes, &n, &err), TRF_OK);
    assert_int_equal(n, bytes);
    assert_int_equal(kit_save_memory(drawn, TRF_WEIGHTS_FULL, other, bytes, &n, &err),
                     TRF_OK);
    assert_memory_equal(one, other, bytes);
    free(one);
    free(other);
    trf_model_destroy(model);
    trf_model_destroy(drawn);
}

static void test_contract(void **state)
{
    const trf_model_options two = {2, 0, 0};
    trf_config c = seeded_config(), bad = c;
    trf_train_options o = kit_small_training(0), bad_o = o;
    trf_search bad_s = trf_search_defaults();
    trf_corpus_options bad_c = trf_corpus_defaults();
    trf_device device = trf_device_default();
    trf_model *model;
    trf_trainer *trainer;
    trf_translator *translator;
    trf_corpus *corpus;
    trf_context *context;
    trf_vocab *vocab;
    trf_file *file;
    lab l = lab_open(&c, &o);
    (void)state;
    bad.d_ff = 0;
    bad_o.beta1 = 1;
    bad_s.beam = 0;
    bad_c.batch_tokens = 0;
    device.threads = 0;
    assert_refused(model, TRF_E_INVALID_ARG, trf_model_create(&model, &bad, NULL, error_));
    assert_refused(model, TRF_E_INVALID_ARG, trf_model_create(&model, NULL, NULL, error_));
    assert_refused(model, TRF_E_INVALID_ARG, kit_create_zeros(&model, &bad, error_));
    assert_refused(model, TRF_E_INVALID_ARG, kit_create_zeros(&model, NULL, error_));
    assert_refused(model, TRF_E_INVALID_ARG, trf_model_create(&model, &c, &two, error_));
    assert_refused(model, TRF_E_IO, trf_model_load(&model, "/nonexistent/model", NULL, error_));
    assert_refused(trainer, TRF_E_INVALID_ARG,
                   trf_trainer_create(&trainer, l.model, &bad_o, error_));
    assert_refused(trainer, TRF_E_INVALID_ARG, trf_trainer_create(&trainer, NULL, &o, error_));
    assert_refused(translator, TRF_E_INVALID_ARG,
                   trf_translator_create(&translator, l.model, &bad_s, error_));
    assert_refused(translator, TRF_E_INVALID_ARG,
                   trf_translator_create(&translator, NULL, NULL, error_));
    assert_refused(corpus, TRF_E_INVALID_ARG, trf_corpus_create(&corpus, &bad_c, error_));
    assert_refused(context, TRF_E_INVALID_ARG, trf_context_create(&context, &device, NULL, error_));
    assert_refused(vocab, TRF_E_INVALID_ARG,
                   trf_vocab_create(&vocab, (trf_token_kind)9, NULL, error_));
    assert_refused(file, TRF_E_IO, trf_file_open(&file, "/nonexistent/file", NULL, error_));
    assert_refused(trainer, TRF_E_IO,
                   trf_checkpoint_load(&model, &trainer, NULL, "/nonexistent/checkpoint", NULL,
                                       NULL, error_));
    assert_refused(model, TRF_E_IO,
                   trf_checkpoint_load(&model, &trainer, NULL, "/nonexistent/checkpoint", NULL,
                                       NULL, error_));
    assert_int_equal(trf_model_create(NULL, &c, NULL, NULL), TRF_E_INVALID_ARG);
    assert_int_equal(kit_create_zeros(NULL, &c, NULL), TRF_E_INVALID_ARG);
    assert_int_equal(trf_model_copy(NULL, l.model, NULL), TRF_E_INVALID_ARG);
    assert_int_equal(trf_trainer_create(NULL, l.model, &o, NULL), TRF_E_INVALID_ARG);
    assert_int_equal(trf_translator_create(NULL, l.model, NULL, NULL), TRF_E_INVALID_ARG);
    assert_null(trf_model_vocab(l.model, TRF_SOURCE));
    assert_null(trf_model_vocab(l.model, (trf_side)2));
    assert_null(trf_model_vocab(NULL, TRF_TARGET));
    trf_model_destroy(NULL);
    trf_trainer_destroy(NULL);
    trf_translator_destroy(NULL);
    trf_corpus_destroy(NULL);
    trf_context_destroy(NULL);
    trf_vocab_destroy(NULL);
    trf_file_close(NULL);
    lab_close(&l);
}

static void assert_cleared(trf_error *err)
{
    assert_int_equal(err->status, TRF_OK);
    assert_int_equal(err->sys_errno, 0);
    assert_int_equal(err->where, -1);
    assert_string_equal(err->what, "");
    assert_string_equal(err->message, "");
    memset(err, 0x55, sizeof *err);
}

static void test_success_clears(void **state)
{
    static kit_pairs data;
    static trf_real out[64 * VOCAB];
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    lab l = lab_open(&c, &o);
    trf_batch batch = kit_fill(&data, 2, 3, 5, VOCAB, 51);
    trf_model *model;
    trf_trainer *trainer;
    trf_translator *translator;
    trf_tensor t;
    trf_error err;
    double score[2];
    int32_t answer[64], n;
    (void)state;
    memset(&err, 0x55, sizeof err);
    assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_OK); assert_cleared(&err);
    trf_model_destroy(model);
    assert_int_equal(trf_model_copy(&model, l.model, &err), TRF_OK); assert_cleared(&err);
    assert_true(hash_weights(HASH_START, model) == hash_weights(HASH_START, l.model));
    assert_int_equal(trf_trainer_create(&trainer, model, &o, &err), TRF_OK); assert_cleared(&err);
    assert_int_equal(trf_translator_create(&translator, model, NULL, &err), TRF_OK);
    assert_cleared(&err);
    assert_int_equal(trf_trainer_step(trainer, &batch, NULL, &err), TRF_OK); assert_cleared(&err);
    assert_int_equal(trf_trainer_forward_backward(trainer, &batch, NULL, &err), TRF_OK);
    assert_cleared(&err);
    assert_int_equal(trf_trainer_update(trainer, NULL, &err), TRF_OK); assert_cleared(&err);
    assert_int_equal(trf_trainer_evaluate(trainer, &batch, NULL, NULL, &err), TRF_OK); assert_cleared(&err);
    assert_int_equal(trf_reader_score(trf_translator_reader(translator), &batch, NULL, score, &err), TRF_OK); assert_cleared(&err);
    t = trf_tensor_of(out, 2, kit_target_rows(model, &batch.target), VOCAB, 1);
    assert_int_equal(kit_logits(translator, &batch, &t, &err), TRF_OK); assert_cleared(&err);
    t = trf_tensor_of(out, 2, kit_source_rows(model, &batch.source), 8, 1);
    assert_int_equal(kit_encode(translator, &batch.source, &t, &err), TRF_OK); assert_cleared(&err);
    assert_int_equal(trf_translate(translator, &batch.source, NULL, &err), TRF_OK);
    assert_cleared(&err);
    assert_int_equal(kit_translate(translator, batch.source.ids, 2, answer, 64, &n, &err), TRF_OK);
    assert_cleared(&err);
    trf_translator_destroy(translator);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    lab_close(&l);
}

/* -----------------------------------------------------------------------------------------------
   Bad arguments. */

#define assert_bad(create, object, field, value) do { \
    bad = (object); bad.field = value; \
    assert_int_equal(create, TRF_E_INVALID_ARG); \
    assert_string_equal(err.what, #field); \
    assert_non_null(strstr(err.message, #field)); \
} while (0)
#define BAD_CONFIG(field, value) \
    assert_bad(trf_model_create(&model, &bad, NULL, &err), good, field, value)
#define BAD_INT(field, above) \
    do { \
        BAD_CONFIG(field, -1); \
        BAD_CONFIG(field, INT32_MIN); \
        BAD_CONFIG(field, INT32_MAX); \
        BAD_CONFIG(field, above); \
    } while (0)
#define BAD_OPTIONAL(field, above) \
    do { \
        BAD_CONFIG(field, -2); \
        BAD_CONFIG(field, INT32_MIN); \
        BAD_CONFIG(field, INT32_MAX); \
        BAD_CONFIG(field, above); \
    } while (0)
#define BAD_CHOICE(type, field, above) \
    do { \
        BAD_CONFIG(field, (type)-1); \
        BAD_CONFIG(field, (type)INT32_MAX); \
        BAD_CONFIG(field, (type)(above)); \
    } while (0)

static void test_bad_config(void **state)
{
    trf_config good = seeded_config(), bad;
    trf_model *model = NULL;
    trf_error err;
    int k;
    (void)state;
    BAD_CHOICE(trf_kind, kind, 3);
    BAD_INT(d_model, 0);
    BAD_INT(n_heads, 0);
    BAD_CONFIG(n_heads, 3);
    BAD_INT(d_ff, 0);
    BAD_INT(encoder_layers, 0);
    BAD_INT(decoder_layers, 0);
    BAD_INT(source_vocab, 0);
    BAD_INT(source_vocab, 4);
    BAD_INT(target_vocab, 4);
    BAD_INT(max_length, 1);
    BAD_OPTIONAL(pad, VOCAB);
    BAD_OPTIONAL(bos, VOCAB);
    BAD_INT(eos, VOCAB);
    BAD_OPTIONAL(unk, VOCAB);
    BAD_CONFIG(bos, 0);         /* as pad */
    BAD_CONFIG(eos, 0);         /* as pad */
    BAD_CONFIG(unk, 2);         /* as eos */
    BAD_CHOICE(trf_activation, activation, 4);
    BAD_INT(feed_forward_gate, 2);
    BAD_INT(embedding_norm, -1);
    BAD_INT(segments, 1025);
    BAD_INT(head_layer, 1);
    BAD_INT(sequence_labels, 2);
    BAD_INT(sequence_labels, -1);
    BAD_CONFIG(mask, 5);
    BAD_CONFIG(mask, -2);
    BAD_CHOICE(trf_positions, positions, 8);
    BAD_INT(kv_heads, good.n_heads + 1);
    BAD_INT(d_head, (1 << 20) / good.n_heads + 1);
    BAD_CONFIG(attention_scale, -1);
    BAD_CONFIG(attention_scale, (double)NAN);
    BAD_INT(relative_buckets, 65537);
    BAD_CONFIG(relative_buckets, 5);
    BAD_INT(relative_distance, 0);
    BAD_CONFIG(rotary_base, 0.9);
    BAD_CONFIG(rotary_base, (double)NAN);
    BAD_INT(rotary_width, good.d_model / good.n_heads + 1);
    BAD_CONFIG(rotary_scale, 0);
    BAD_INT(rotary_trained, (1 << 20) + 1);
    BAD_CONFIG(rotary_low, -1);
    BAD_CONFIG(rotary_high, (double)NAN);
    BAD_CHOICE(trf_rotary_pairs, rotary_pairs, 2);
    BAD_INT(scale_logits, 2);
    BAD_INT(position_offset, INT32_MAX - 1);
    BAD_CHOICE(trf_norm_place, norm_place, 2);
    BAD_CHOICE(trf_norm_rule, norm_rule, 3);
    BAD_CONFIG(norm_epsilon, 0);
    BAD_CONFIG(norm_epsilon, -1e-5);
    BAD_CONFIG(norm_epsilon, (double)NAN);
    BAD_CONFIG(norm_epsilon, (double)INFINITY);
    BAD_CHOICE(trf_final_norm, final_norm, 4);
    BAD_INT(scale_embeddings, 2);
    BAD_CHOICE(trf_tying, tying, 4);
    BAD_INT(generator_bias, 2);
    BAD_INT(qkv_bias, 2);
    BAD_INT(out_bias, 2);
    BAD_INT(feed_forward_bias, 2);
    BAD_CHOICE(trf_init, init, 3);
    BAD_CHOICE(trf_embedding_init, embedding_init, 4);
    BAD_INT(source_eos, 2);
    BAD_INT(target_eos, 2);
    BAD_CHOICE(trf_decoder_start, decoder_start, 4);
    BAD_CONFIG(head, TRF_HEAD_MEAN);
    BAD_INT(n_labels, 2);
    BAD_CONFIG(device.products, TRF_PRODUCTS_COUNT);
    BAD_CONFIG(device.products, (trf_products)-1);
    BAD_CONFIG(device.vector_bytes, 8);
    BAD_CONFIG(device.vector_bytes, 48);
    BAD_CONFIG(device.vector_bytes, -16);
    BAD_CONFIG(device.vector_bytes, 128);
    BAD_CONFIG(device.threads, 0);
    BAD_CONFIG(device.threads, -1);
    BAD_CONFIG(device.threads, INT32_MAX);
    for (k = 0; k < 2; k++) {           /* not in this program, and not at all */
        bad = good;
        bad.device.kind = k == 0 ? TRF_DEVICE_CUDA : (trf_device_kind)2;
        if (k == 0 && trf__backend_of(&bad.device)) continue;
        assert_int_equal(trf_model_create(&model, &bad, NULL, &err), TRF_E_BACKEND);
        assert_string_equal(err.what, "device.kind");
    }
    good.target_vocab++;
    BAD_CONFIG(target_vocab, VOCAB - 8);
    bad = good;
    bad.tying = TRF_TIED_ALL;   /* two vocabularies of different sizes */
    assert_int_equal(trf_model_create(&model, &bad, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "target_vocab");
    good = seeded_config();
    good.kind = TRF_DECODER_ONLY;
    BAD_CONFIG(encoder_layers, 1);
    good.kind = TRF_ENCODER_ONLY;
    good.encoder_layers = 1;
    BAD_CONFIG(decoder_layers, 1);
    good.decoder_layers = 0;
    BAD_CONFIG(tying, TRF_TIED_DECODER);
    assert_null(model);
}

#define BAD_OPTION(field, value) \
    assert_bad(trf_trainer_create(&trainer, l.model, &bad, &err), good, field, value)
#define BAD_REAL(field) do { \
    BAD_OPTION(field, -1e-3); BAD_OPTION(field, (double)NAN); BAD_OPTION(field, (double)INFINITY); \
} while (0)

static void bad_kind(trf_config c, const char *field, const char *says)
{
    trf_model *model = NULL;
    trf_error err;
    assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, field);
    assert_string_equal(err.message, says);
}

/* What a kind of model does not have is 0, and the message says of which kind. */
static void test_fields_of_a_kind(void **state)
{
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    trf_error err;
    (void)state;
    c.kind = TRF_DECODER_ONLY;
    bad_kind(c, "encoder_layers", "encoder_layers must be 0 in a decoder-only model, got 2");
    c.kind = TRF_ENCODER_ONLY;
    bad_kind(c, "decoder_layers", "decoder_layers must be 0 in an encoder-only model, got 2");
    c.decoder_layers = 0;
    c.tying = TRF_TIED_DECODER;
    bad_kind(c, "tying", "tying must be 0 in an encoder-only model, got 1");
    c.tying = TRF_UNTIED;
    c.head = (trf_head)5;
    bad_kind(c, "head", "head must be between 0 and 4, got 5");
    c.head = TRF_HEAD_TOKENS;
    c.n_labels = 1;
    bad_kind(c, "n_labels", "n_labels must be between 2 and 16777216, got 1");
    c.head = TRF_HEAD_MASKED;
    bad_kind(c, "n_labels", "n_labels must be 0 with head 4, got 1");
    c.n_labels = 0;
    c.mask = c.eos;
    bad_kind(c, "mask", "mask must not be pad, bos or eos, got 2 (-1: pad is the mask)");
    c.head = TRF_HEAD_NONE;
    bad_kind(c, "mask", "mask must be -1 with head 0, got 2");
    c.mask = -1;
    c.head_layer = 1;
    bad_kind(c, "head_layer", "head_layer must be 0 with head 0, got 1");
    c.head_layer = 0;
    c.sequence_labels = 2;
    bad_kind(c, "sequence_labels", "sequence_labels must be 0 with head 0, got 2");
    c.head = TRF_HEAD_MASKED;
    c.sequence_labels = 1;
    bad_kind(c, "sequence_labels", "sequence_labels must be between 2 and 16777216, got 1");
    c = seeded_config();
    c = kit_of_kind(c, TRF_DECODER_ONLY);
    c.segments = 2;
    bad_kind(c, "segments", "segments must be 0 in a decoder-only model, got 2");
    c = seeded_config();
    c.head = TRF_HEAD_MASKED;
    bad_kind(c, "head", "head must be 0 in an encoder-decoder model, got 4");
    c = seeded_config();
    c.d_model = 1;
    bad_kind(c, "n_heads", "n_heads must divide d_model = 1, got 2");
    c.n_heads = 0;
    bad_kind(c, "n_heads", "n_heads must be between 1 and 65536, got 0");
    c = seeded_config();
    c.n_heads = 4; c.kv_heads = 3; c.d_head = 6;
    bad_kind(c, "kv_heads", "kv_heads must divide n_heads = 4, got 3");
    c.kv_heads = 2;
    c.positions = TRF_POSITIONS_RELATIVE;
    c.relative_distance = 16;
    bad_kind(c, "relative_distance",
             "relative_distance must be more than half of relative_buckets = 32, got 16");
    c.positions = TRF_POSITIONS_ROTARY;
    c.rotary_width = 3;
    bad_kind(c, "rotary_width", "rotary positions turn pairs of features, but rotary_width is 3");
    c.rotary_width = 0; c.d_head = 5;
    bad_kind(c, "rotary_width",
             "rotary positions turn pairs of features, but rotary_width = d_head is 5");
    c.rotary_width = 8;
    bad_kind(c, "rotary_width", "rotary_width must be between 0 and 5, got 8");
    c.rotary_width = 4;
    c.rotary_trained = 100; c.rotary_low = c.rotary_high = 3;
    bad_kind(c, "rotary_high", "rotary_high must be more than rotary_low = 3, got 3");
    o.rank = 1;
    assert_int_equal(trf_train_check(&o, &c, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.message, "rank must be 0, got 1");
}

static void test_bad_options(void **state)
{
    trf_config c = seeded_config();
    trf_train_options good = kit_small_training(0), bad;
    trf_trainer *trainer = NULL;
    trf_error err;
    lab l = lab_open(&c, &good);
    (void)state;
    BAD_OPTION(optimizer, (trf_optimizer)2);
    BAD_REAL(beta1); BAD_OPTION(beta1, 1);
    BAD_REAL(beta2); BAD_OPTION(beta2, 1);
    BAD_REAL(epsilon); BAD_OPTION(epsilon, 0);
    BAD_OPTION(epsilon_rule, (trf_adam_epsilon)3);
    BAD_REAL(weight_decay);
    BAD_OPTION(decay_all, 2);
    BAD_OPTION(schedule, (trf_schedule)4);
    BAD_REAL(learning_rate); BAD_OPTION(learning_rate, 0);
    BAD_REAL(initial_rate);
    BAD_REAL(final_rate);
    BAD_OPTION(warmup, 0); BAD_OPTION(warmup, INT64_MIN); BAD_OPTION(warmup, INT64_MAX);
    BAD_REAL(label_smoothing); BAD_OPTION(label_smoothing, 1);
    BAD_OPTION(smoothing_rule, (trf_smoothing)4);
    BAD_REAL(dropout); BAD_OPTION(dropout, 1);
    BAD_REAL(attention_dropout); BAD_OPTION(attention_dropout, 1);
    BAD_REAL(activation_dropout); BAD_OPTION(activation_dropout, 1);
    BAD_REAL(residual_dropout); BAD_OPTION(residual_dropout, 1);
    bad = good; /* all that is below 1 is legal, though it is rounded to a multiple of 1/65536 */
    trf_train_set_dropout(&bad, 1 - DBL_EPSILON / 2);
    bad.label_smoothing = 1 - DBL_EPSILON / 2;
    assert_int_equal(trf_trainer_create(&trainer, l.model, &bad, &err), TRF_OK);
    trf_trainer_destroy(trainer);
    trainer = NULL;
    BAD_REAL(clip_norm); BAD_OPTION(clip_norm, 0);
    BAD_OPTION(source_tokens, -1); BAD_OPTION(source_tokens, INT32_MAX);
    BAD_OPTION(target_tokens, -1); BAD_OPTION(target_tokens, INT32_MIN);
    BAD_OPTION(sequences, -1); BAD_OPTION(sequences, -1);
    BAD_OPTION(longest, -1); BAD_OPTION(longest, INT32_MAX);
    BAD_OPTION(threads, -1); BAD_OPTION(threads, INT32_MAX);
    BAD_OPTION(n_ranks, 0);
    BAD_OPTION(rank, 1); BAD_OPTION(rank, -1);
    good.n_ranks = 2;
    BAD_OPTION(all_reduce, NULL);
    good = kit_small_training(0);
    good.schedule = TRF_COSINE;
    BAD_OPTION(total_steps, 10);        /* as long as the warm-up */
    assert_null(trainer);
    lab_close(&l);
}

static void set_field(trf_config *c, int which, int64_t value)
{
    int n = 0;
#define X(type, field, low, high, stored) \
    if (!TRF__IS_REAL(type) && n++ == which) c->field = (type)value;
    TRF__CONFIG_FIELDS(X)
#undef X
}

/* Sizes of every kind, two fields at a time: a documented answer, and nothing beyond the limit
   succeeds. */
static void test_sizes_in_pairs(void **state)
{
    static const int64_t values[] = { 0, 1, 2, INT32_MAX, INT32_MIN, 65536 };
    enum { VALUES = sizeof values / sizeof *values };
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    int fields = 0, a, b, i, k, made = 0;
    (void)state;
#define X(type, field, low, high, stored) fields += !TRF__IS_REAL(type);
    TRF__CONFIG_FIELDS(X)
#undef X
    memory.limit = 1 << 15;
    for (a = 0; a < fields; a++) for (b = a + 1; b < fields; b++)
    for (i = 0; i < VALUES; i++) for (k = 0; k < VALUES; k++) {
        trf_config c = seeded_config();
        trf_model *model = NULL;
        trf_error err;
        trf_status status;
        c.hooks = hooks;
        c.encoder_layers = c.decoder_layers = 1;
        set_field(&c, a, values[i]);
        set_field(&c, b, values[k]);
        status = trf_model_create(&model, &c, NULL, &err);
        assert_true(status == TRF_OK || status == TRF_E_INVALID_ARG || status == TRF_E_LIMIT ||
                    status == TRF_E_NOMEM);
        assert_int_equal(status == TRF_OK, model != NULL);
        assert_int_equal(status == TRF_E_INVALID_ARG, kit_model_memory(&c) == 0);
        if (model) {
            assert_int_equal(memory.live + kit_device_bytes(), kit_model_memory(&c));
            made++;
        }
        trf_model_destroy(model);
        assert_int_equal(memory.live, 0);
    }
    assert_true(made > 100);
}

static void refused_batch(lab *l, const trf_batch *batch, trf_status status, int64_t where,
                          const char *what, int all)
{
    trf_step_report report;
    trf_real out[1];
    trf_tensor t = trf_tensor_of(out, 2, 1, 1, 1);
    trf_error err;
    double score[8];
    uint64_t before = hash_state(l->trainer);
    assert_int_equal(trf_trainer_forward_backward(l->trainer, batch, &report, &err), status);
    assert_int_equal(err.where, where);
    assert_string_equal(err.what, what);
    assert_int_equal(report.target_tokens, 0);
    assert_int_equal(trf_trainer_step(l->trainer, batch, &report, NULL), status);
    assert_int_equal(trf_trainer_evaluate(l->trainer, batch, NULL, &report, NULL), status);
    assert_int_equal(trf_reader_score(trf_translator_reader(l->translator), batch, NULL, score, NULL), status);
    assert_int_equal(kit_logits(l->translator, batch, &t, NULL), status);
    if (all) {                          /* the source alone is wrong */
        assert_int_equal(trf_translate(l->translator, &batch->source, NULL, &err), status);
        assert_int_equal(err.where, where);
        assert_string_equal(err.what, what);
        assert_int_equal(kit_encode(l->translator, &batch->source, &t, NULL), status);
    }
    assert_true(hash_state(l->trainer) == before);
    assert_int_equal(trf_trainer_update(l->trainer, &report, NULL), TRF_E_STATE);
}

/* More rows than 31 bits count are refused by the lengths alone: no id is looked at. */
static void test_too_many_rows(void **state)
{
    enum { COUNT = 2049, LONG = (1 << 20) - 1 };
    static int32_t lengths[COUNT];
    static const int32_t one_id = 5;
    lab l = lab_of(&variants[1], 8, 2, 12, 1);
    trf_config c = l.c;
    trf_train_options o = kit_small_training(0);
    trf_batch batch = { { &one_id, lengths, COUNT }, { &one_id, lengths, COUNT }, 0, { 0, 0, 0 } };
    trf_error err;
    int i;
    (void)state;
    lab_close(&l);
    c.max_length = LONG + 1;
    l = lab_open(&c, &o);
    for (i = 0; i < COUNT; i++) lengths[i] = LONG;
    refused_batch(&l, &batch, TRF_E_LIMIT, (int64_t)COUNT * (LONG + 1), "source", 1);
    batch.source.count = batch.target.count = 1;
    lengths[0] = 1;
    batch.ordinal = INT32_MAX;                  /* the first and only pair would be number 2^31 */
    assert_int_equal(trf_trainer_step(l.trainer, &batch, NULL, NULL), TRF_E_INVALID_ARG);
    batch.ordinal = -1;
    assert_int_equal(trf_trainer_step(l.trainer, &batch, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "ordinal");
    batch.ordinal = INT32_MAX - 1;
    assert_int_equal(trf_trainer_step(l.trainer, &batch, NULL, NULL), TRF_OK);
    lab_close(&l);
}

static void test_bad_batches(void **state)
{
    /* the last three: pad, bos, eos */
    static const int32_t bad_ids[] = { -1, VOCAB, INT32_MIN, INT32_MAX, 0, 1, 2 };
    static const int32_t long_ids[32] = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
                                         5, 5, 5, 5, 5, 5, 5, 5, 5, 5};
    lab l = lab_of(&variants[1], 8, 2, 12, 2);
    int32_t ids[6] = { 4, 5, 3, 7, 8, 9 }, good[6] = { 4, 5, 3, 7, 8, 9 }, n;
    int32_t lengths[2] = { 2, 4 }, wrong[2] = { 2, 4 };
    trf_batch batch = { { good, lengths, 2 }, { good, lengths, 2 }, 0, { 0, 0, 0 } };
    trf_step_report report;
    trf_error err;
    int side, at;
    size_t i;
    (void)state;
    for (side = 0; side < 2; side++) {
        const char *name = side ? "target" : "source";
        trf_sequences *x = side ? &batch.target : &batch.source;
        for (at = 0; at < 6; at++)
            for (i = 0; i < sizeof bad_ids / sizeof *bad_ids; i++) {
                x->ids = ids;
                ids[at] = bad_ids[i];
                refused_batch(&l, &batch, TRF_E_INVALID_ARG, at, name, !side);
                ids[at] = good[at];
            }
        x->ids = good;
        x->lengths = wrong;
        wrong[1] = -1;
        refused_batch(&l, &batch, TRF_E_INVALID_ARG, 1, name, !side);
        wrong[1] = INT32_MIN;
        refused_batch(&l, &batch, TRF_E_INVALID_ARG, 1, name, !side);
        wrong[1] = INT32_MAX;
        refused_batch(&l, &batch, TRF_E_LIMIT, 1, name, !side);
        x->ids = long_ids;
        wrong[0] = 0;
        wrong[1] = l.c.max_length - 1;          /* BOS or EOS is one more: just fits */
        assert_int_equal(trf_trainer_evaluate(l.trainer, &batch, NULL, &report, NULL), TRF_OK);
        wrong[1]++;
        refused_batch(&l, &batch, TRF_E_LIMIT, 1, name, !side);
        x->ids = good;
        x->lengths = NULL;
        refused_batch(&l, &batch, TRF_E_INVALID_ARG, -1, name, !side);
        x->lengths = lengths;
        x->count = -1;
        refused_batch(&l, &batch, TRF_E_INVALID_ARG, -1, name, !side);
        x->count = 1;
        refused_batch(&l, &batch, TRF_E_INVALID_ARG, -1, "target", 0); /* one source, two targets */
        x->count = 2;
        x->ids = NULL;
        refused_batch(&l, &batch, TRF_E_INVALID_ARG, -1, name, !side);
        x->ids = good;
        wrong[0] = 2; wrong[1] = 4;
    }
    assert_int_equal(trf_trainer_forward_backward(l.trainer, NULL, NULL, NULL), TRF_E_INVALID_ARG);
    assert_int_equal(trf_trainer_step(l.trainer, NULL, NULL, NULL), TRF_E_INVALID_ARG);
    assert_int_equal(trf_trainer_evaluate(l.trainer, NULL, NULL, NULL, NULL), TRF_E_INVALID_ARG);
    batch.source.count = batch.target.count = 0;        /* no sentence: nothing to learn from */
    assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, &err), TRF_E_STATE);
    assert_string_equal(err.what, "tokens");
    assert_int_equal(trf_trainer_evaluate(l.trainer, &batch, NULL, &report, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "pairs");
    assert_int_equal(trf_translate(l.translator, &batch.source, NULL, NULL), TRF_OK);
    assert_int_equal(kit_count(l.translator, 0), 0);
    assert_int_equal(kit_translate(l.translator, good, -1, ids, 6, &n, NULL), TRF_E_INVALID_ARG);
    assert_int_equal(n, 0);
    batch.source.count = batch.target.count = 2;
    assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, NULL),
                     TRF_OK); /* unk (3) is an id like others */
    assert_int_equal(kit_updates(l.trainer), 1);
    lab_close(&l);
}

/* -----------------------------------------------------------------------------------------------
   A batch beyond the limits. */

static void test_growth(void **state)
{
    static kit_pairs small_data, large_data;
    trf_config c = seeded_config();
    trf_train_options o = kit_small_training(0);
    trf_batch few = kit_fill(&small_data, 2, 2, 5, VOCAB, 52),
              many = kit_fill(&large_data, 40, 12, 19, VOCAB, 53);
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    trf_step_report want[4], got;
    trf_error err;
    uint64_t hash;
    int64_t k, calls;
    int step;
    lab l;
    (void)state;
    trf_train_set_dropout(&o, 0.1);
    o.source_tokens = o.target_tokens = 1024;
    o.sequences = 40;
    l = lab_open(&c, &o);               /* one that has room from the beginning */
    for (step = 0; step < 4; step++)
        assert_int_equal(trf_trainer_step(l.trainer, step % 2 ? &many : &few, &want[step], NULL),
                         TRF_OK);
    hash = hash_state(l.trainer);
    lab_close(&l);
    o.source_tokens = o.target_tokens = 32;
    o.sequences = 2;
    o.longest = 8;
    o.hooks = hooks;
    l = lab_open(&c, &o);
    assert_int_equal(trf_trainer_step(l.trainer, &few, &got, NULL), TRF_OK);
    assert_true(got.loss == want[0].loss);
    calls = memory.calls;
    for (k = 1; ; k++) {                /* the arena cannot grow: the old one goes on */
        uint64_t before = hash_state(l.trainer);
        int64_t live = memory.live;
        memory.fail_at = memory.calls + k;
        if (trf_trainer_step(l.trainer, &many, &got, &err) == TRF_OK) break;
        assert_int_equal(err.status, TRF_E_NOMEM);
        assert_true(hash_state(l.trainer) == before);
        assert_int_equal(memory.live, live);
        assert_int_equal(trf_trainer_evaluate(l.trainer, &few, NULL, &got, NULL), TRF_OK);
        assert_true(trf__is_finite(got.loss));
    }
    assert_true(k > 1 && memory.calls > calls);
    memory.fail_at = 0;
    assert_true(got.loss == want[1].loss);
    for (step = 2; step < 4; step++) {
        assert_int_equal(trf_trainer_step(l.trainer, step % 2 ? &many : &few, &got, NULL), TRF_OK);
        assert_true(got.loss == want[step].loss);
    }
    assert_true(hash_state(l.trainer) == hash);
    lab_close(&l);
    assert_int_equal(memory.live, 0);
}

/* A norm whose square no float holds is left out too, and is not called a loss. */
static void test_huge_gradient(void **state)
{
    static kit_pairs data;
    lab l = lab_of(&variants[0], 8, 2, 12, 2);
    trf_batch batch = kit_fill(&data, 2, 3, 5, VOCAB, 77);
    trf_step_report report;
    uint64_t before = hash_weights(HASH_START, l.model);
    (void)state;
    l.trainer->options.clip_norm = TRF_NO_CLIPPING;
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
    kit_set(trf_trainer_tensor(l.trainer, TRF_GRADIENT, 0), 0, sizeof(trf_real) == 4 ? 1e25 : 1e153);
    assert_int_equal(trf_trainer_update(l.trainer, &report, NULL), TRF_OK);
    assert_int_equal(report.skipped, 1);
    assert_string_equal(report.tensor, "gradient_norm");
    assert_true(trf__is_finite(report.loss) && before == hash_weights(HASH_START, l.model));
    lab_close(&l);
}

/* -----------------------------------------------------------------------------------------------
   Adam at the ends of its options: five updates with gradients of one size, against the formulas in
   double. */

typedef struct moments {
    double m, v, size;
} moments; /* size: the mean of |g|, which says what m may be off */

/* One weight. Returns 0 where only finiteness is asked for. */
static int adam_weight(const trf_train_options *o, moments *w, double before, double after,
                       double g, double rate, int step)
{
    const int single = sizeof(trf_real) == 4;
    double c1 = -expm1(step * log(o->beta1)), c2 = -expm1(step * log(o->beta2)), root, below, move,
           most, want, keep;
    double noise = single ? 3e-44 : 0,
           v_scale = o->epsilon_rule == TRF_EPSILON_FAIRSEQ ? 1 : 1 / c2;
    assert_true(trf__is_finite(after));
    if (o->optimizer == TRF_ADAM) g += o->weight_decay * before;
    keep = o->optimizer == TRF_ADAMW ? 1 - rate * o->weight_decay : 1;
    w->m = o->beta1 * w->m + (1 - o->beta1) * g;
    w->v = o->beta2 * w->v + (1 - o->beta2) * g * g;
    w->size = o->beta1 * w->size + (1 - o->beta1) * fabs(g);
    if (!(fabs(g) < (single ? 1e18 : 1e150))) return 0;
    root = sqrt(w->v * v_scale + (o->epsilon_rule == TRF_EPSILON_INSIDE ? o->epsilon : 0));
    below = root + (o->epsilon_rule == TRF_EPSILON_INSIDE ? 0 : o->epsilon);
    rate *= (o->epsilon_rule == TRF_EPSILON_FAIRSEQ ? sqrt(c2) : 1) / c1;
    move = rate * w->m / below;
    most = fabs(before) + fabs(keep * before) + rate * w->size / below;
    want = keep * before - move;
    if (!(most < (single ? 1e38 : 1e300))) return 0;
    if (noise * v_scale < 1e-4 * root * below &&
        (!single || w->size > 1e-34)) { /* all digits are there */
        if (fabs(after - want) <= 2e-4 * most + noise) return 1;
    } else if (fabs(after - keep * before) <=
               1.01 * rate * (w->size + noise) / below + 1e-6 * most + noise)
        return 1;
    fail_msg("beta %g %g epsilon %g rule %d decay %g clip %g rate %g, step %d: %g became %.9g, not "
             "%.9g; g %g m %g "
             "v %g",
             o->beta1, o->beta2, o->epsilon, (int)o->epsilon_rule, o->weight_decay, o->clip_norm,
             o->learning_rate, step, before, after, want, g, w->m, w->v);
    return 0;
}

static void adam_at_the_end(lab *l, const trf_train_options *o, const trf_batch *batch, double size,
                            double weights)
{
    static trf_real good[MAX_WEIGHTS], before[MAX_WEIGHTS], moment[MAX_WEIGHTS];
    static moments all[MAX_WEIGHTS];
    int64_t n = l->model->layout.n_weights, i;
    int32_t t;
    int step, go_on = 1;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    assert_true(n <= MAX_WEIGHTS);
    assert_int_equal(trf_trainer_create(&trainer, l->model, o, NULL), TRF_OK);
    memset(all, 0, sizeof all);
    kit_get(l->model, good, l->model->weights, n);
    for (i = 0; i < n; i++) before[i] = (trf_real)(weights * (double)good[i]);
    for (step = 1; step <= 5; step++) {
        double norm = 0, scale;
        kit_put(l->model, l->model->weights, good, n); /* so that the loss is a number */
        assert_int_equal(trf_trainer_forward_backward(trainer, batch, &report, NULL), TRF_OK);
        kit_put(l->model, l->model->weights, before, n);
        for (t = 0; t < trf_model_parameter_count(l->model); t++) {
            trf_tensor g = kit_open(trf_trainer_tensor(trainer, TRF_GRADIENT, t));
            for (i = 0; i < trf_tensor_count(&g); i++) {
                double draw = 2 * trf__uniform(7, (uint32_t)(t + 100 * step), (uint64_t)i) - 1;
                g.data[i] = (trf_real)(size * (draw + (draw < 0 ? -0.1 : 0.1)) / 1.1);
                norm += (double)g.data[i] * (double)g.data[i];
            }
            kit_close(&g);
        }
        norm = sqrt(norm) / (double)report.target_tokens;
        scale = fmin(1, o->clip_norm / (norm + 1e-6)) / (double)report.target_tokens;
        assert_int_equal(trf_trainer_update(trainer, &report, NULL), TRF_OK);
        assert_int_equal(report.skipped,
                         !(norm * scale * (double)report.target_tokens < TRF__MAX_GRADIENT));
        if (report.skipped) break;
        for (t = 0; t < trf_model_parameter_count(l->model); t++) {
            trf_tensor w = kit_open(trf_model_parameter(l->model, t)),
                       g = kit_open(trf_trainer_tensor(trainer, TRF_GRADIENT, t));
            int64_t at = w.device_data - l->model->weights;
            for (i = 0; i < trf_tensor_count(&w); i++)
                if (!go_on) assert_true(trf__is_finite((double)w.data[i]));
                else go_on = adam_weight(o, &all[at + i], (double)before[at + i], (double)w.data[i],
                                         scale * (double)g.data[i], o->learning_rate, step);
            kit_close(&w);
            kit_close(&g);
        }
        kit_get(l->model, before, l->model->weights, n);
        kit_get(l->model, moment, trainer->m, n);
        assert_finite(moment, n);               /* or the checkpoint could not be loaded */
        kit_get(l->model, moment, trainer->v, n);
        assert_finite(moment, n);
    }
    kit_put(l->model, l->model->weights, good, n);
    trf_trainer_destroy(trainer);
}

static void test_adam_at_the_ends(void **state)
{
    static const double sizes[] = { 1e-38, 1e-30, 1e-23, 1e-20, 1e-10, 1, 1e10, 1e17, 1e19, 1e38 };
    static const double betas[][2] = {{0, 0},           {0.9, 0.98},   {0, 0.999},
                                      {0.9, 0},         {0.3, 0.6},    {1 - 1e-12, 1 - 1e-12},
                                      {0.9, 1 - 1e-12}, {1 - 1e-12, 0}};
    static const double epsilons[] = {1e-30, 1e-9, 1}, rates[] = {1e-30, 1e-3, 1e6},
                        decays[] = {0, 0.1, 1e6};
    static const double clips[] = { 1e-12, 1, TRF_NO_CLIPPING };
    static kit_pairs data;
    lab l = lab_of(&variants[9], 2, 1, 2, 1);
    trf_batch batch = kit_fill(&data, 2, 1, 3, VOCAB, 78);
    trf_train_options o = kit_small_training(0);
    int k, n = 10 * 8 * 3 * 3 * 3 * 3 * 3 * 2, stride = l.model->run.backend->on_host ? 7 : 77;
    (void)state;
    o.schedule = TRF_CONSTANT;
    o.warmup = 1;
    o.decay_all = 1;
    o.source_tokens = o.target_tokens = 16; o.sequences = 2; o.longest = 8;
    for (k = 0; k < n;
         k += stride) { /* every seventh of all combinations; fewer where each op is walled in */
        int at = k;
        double size = sizes[at % 10]; at /= 10;
        o.beta1 = betas[at % 8][0]; o.beta2 = betas[at % 8][1]; at /= 8;
        o.epsilon = epsilons[at % 3]; at /= 3;
        o.epsilon_rule = (trf_adam_epsilon)(at % 3); at /= 3;
        o.learning_rate = rates[at % 3]; at /= 3;
        o.weight_decay = decays[at % 3]; at /= 3;
        o.clip_norm = clips[at % 3]; at /= 3;
        o.optimizer = (trf_optimizer)at;
        adam_at_the_end(&l, &o, &batch, size, k % 3 ? 1 : 1e35);
    }
    lab_close(&l);
}

/* Bias correction counts the updates of the moments: a step that was skipped in front changes
   nothing of it, and neither does one that the caller ended. The number of the step counts both. */
static void test_skipped_in_front(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 2, 3, 5, VOCAB, 79);
    trf_step_report report;
    uint64_t want = 0;
    int kind, step;
    (void)state;
    for (kind = 0; kind < 3; kind++) {
        lab l = lab_of(&variants[0], 8, 2, 12, 2);
        l.trainer->options.schedule = TRF_CONSTANT;
        l.trainer->options.warmup = 1;
        l.trainer->options.learning_rate = 0.01;
        if (kind) assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
        if (kind == 1) {
            kit_set(trf_trainer_tensor(l.trainer, TRF_GRADIENT, 0), 0, HUGE_VAL);
            assert_int_equal(trf_trainer_update(l.trainer, &report, NULL), TRF_OK);
            assert_int_equal(report.skipped, 1);
        }
        if (kind == 2) trf_trainer_end_step(l.trainer);
        for (step = 1; step <= 3; step++)
            assert_int_equal(trf_trainer_step(l.trainer, &batch, &report, NULL), TRF_OK);
        assert_int_equal(report.step, 3 + (kind > 0));
        if (kind == 0) want = hash_weights(HASH_START, l.model);
        assert_true(hash_weights(HASH_START, l.model) == want);
        lab_close(&l);
    }
}

/* -----------------------------------------------------------------------------------------------
   Results that wait until they are asked for. */

/* Reports are all zero before they are filled in, so their bytes can be compared. */
static void same_reports(const trf_step_report *a, const trf_step_report *b)
{
    assert_memory_equal(a, b, sizeof *a);
}

/* A report that is asked for late is the one that the step would have given, whatever has happened
   since then, and asking changes nothing. */
static void test_late_reports(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 6, 1, 7, VOCAB, 81), half[2];
    lab now = lab_of(&variants[15], 8, 2, 12, 2), late = lab_of(&variants[15], 8, 2, 12, 2);
    trf_step_report asked, got, other, none;
    trf_error err;
    int step, i;
    (void)state;
    memset(&none, 0, sizeof none);
    half[0] = kit_slice(&batch, 0, 2);
    half[1] = kit_slice(&batch, 2, 4);
    for (i = 0; i < 2; i++) {           /* before the first update, with and without gradients */
        memset(&got, 0x55, sizeof got);
        assert_int_equal(trf_trainer_report(late.trainer, &got, &err), TRF_OK);
        assert_cleared(&err);
        same_reports(&got, &none);
        if (i) trf_trainer_end_step(late.trainer); /* an update of the caller's own is none */
        else assert_int_equal(trf_trainer_forward_backward(late.trainer, &half[1], NULL, NULL), TRF_OK);
    }
    none.step = 1;
    assert_int_equal(trf_trainer_report(late.trainer, &got, NULL), TRF_OK);
    same_reports(&got, &none);
    trf_trainer_end_step(now.trainer);
    for (step = 0; step < 6; step++) {
        if (step == 3) {                /* two micro-batches */
            for (i = 0; i < 2; i++) {
                assert_int_equal(trf_trainer_forward_backward(now.trainer, &half[i], &asked, NULL), TRF_OK);
                assert_int_equal(trf_trainer_forward_backward(late.trainer, &half[i], NULL, NULL), TRF_OK);
            }
            assert_int_equal(trf_trainer_update(now.trainer, &asked, NULL), TRF_OK);
            assert_int_equal(trf_trainer_update(late.trainer, NULL, NULL), TRF_OK);
        } else {
            assert_int_equal(trf_trainer_step(now.trainer, &batch, &asked, NULL), TRF_OK);
            assert_int_equal(trf_trainer_step(late.trainer, &batch, NULL, NULL), TRF_OK);
        }
        assert_int_equal(asked.step, step + 2);
        assert_true(asked.loss > 0 && asked.gradient_norm > 0 && asked.learning_rate > 0);
        if (step % 2) continue;         /* nobody asks */
        memset(&err, 0x55, sizeof err);
        assert_int_equal(trf_trainer_report(late.trainer, &got, &err), TRF_OK);
        assert_cleared(&err);
        same_reports(&asked, &got);
        assert_int_equal(trf_trainer_evaluate(late.trainer, &half[0], NULL, &other, NULL), TRF_OK);
        assert_int_equal(trf_trainer_forward_backward(late.trainer, &half[0], &other, NULL), TRF_OK);
        trf_trainer_discard_gradients(late.trainer);
        assert_true(other.loss != asked.loss);
        assert_int_equal(trf_trainer_report(late.trainer, &got, NULL), TRF_OK);
        same_reports(&asked, &got);
    }
    trf_trainer_end_step(late.trainer);         /* the report is that of update 7, and counts this one */
    asked.step++;
    assert_int_equal(trf_trainer_report(late.trainer, &got, NULL), TRF_OK);
    same_reports(&asked, &got);
    trf_trainer_end_step(now.trainer);
    assert_true(hash_state(now.trainer) == hash_state(late.trainer));
    assert_int_equal(trf_trainer_report(late.trainer, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "report");
    memset(&got, 0x55, sizeof got);
    assert_int_equal(trf_trainer_report(NULL, &got, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "trainer");
    assert_true(got.step == 0);
    lab_close(&now);
    lab_close(&late);
}

/* A skipped step names its tensor to whoever asks late, too, and the next one is clean again. */
static void test_late_reports_of_skipped_steps(void **state)
{
    static kit_pairs data;
    static trf_real numbers[MAX_WEIGHTS];
    trf_batch batch = kit_fill(&data, 3, 1, 5, VOCAB, 82);
    lab l = lab_of(&variants[0], 8, 2, 12, 1);
    trf_step_report report, again;
    int32_t i;
    (void)state;
    for (i = 0; i < trf_model_parameter_count(l.model); i++) {
        trf_tensor g = trf_trainer_tensor(l.trainer, TRF_GRADIENT, i);
        int64_t n = trf_tensor_count(&g), step = kit_updates(l.trainer);
        uint64_t before = hash_weights(HASH_START, l.model);
        assert_true(n <= MAX_WEIGHTS);
        assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
        assert_int_equal(trf_tensor_read(&g, numbers, n, NULL), TRF_OK);
        numbers[n - 1] = (trf_real)(i % 2 ? NAN : HUGE_VAL);
        assert_int_equal(trf_tensor_write(&g, numbers, n, NULL), TRF_OK);
        if (i % 3) assert_int_equal(trf_trainer_update(l.trainer, NULL, NULL), TRF_OK);
        else assert_int_equal(trf_trainer_update(l.trainer, &again, NULL), TRF_OK);
        assert_int_equal(trf_trainer_report(l.trainer, &report, NULL), TRF_OK);
        if (i % 3 == 0) same_reports(&report, &again);
        assert_int_equal(report.skipped, 1);
        assert_int_equal(report.step, step + 1);
        assert_string_equal(report.tensor, g.name);
        assert_true(hash_weights(HASH_START, l.model) == before);
        assert_int_equal(trf_trainer_step(l.trainer, &batch, NULL, NULL), TRF_OK);
        assert_int_equal(trf_trainer_report(l.trainer, &report, NULL), TRF_OK);
        assert_true(report.skipped == 0 && report.tensor[0] == 0 && report.step == step + 2);
        assert_true(hash_weights(HASH_START, l.model) != before);
    }
    lab_close(&l);
}

/* Where its numbers are is left to what stands in memory there, not to the functions that are
   tested. */
static void assert_stands(const trf_tensor *t, const trf_real *want)
{
    separate_enter();
    assert_memory_equal(t->data ? t->data : t->device_data, want,
                        (size_t)trf_tensor_count(t) * sizeof *want);
    separate_leave();
}

/* Reads a tensor, writes it back a little changed, and is refused where the count is wrong. */
static void read_and_write(const trf_tensor *t)
{
    static trf_real numbers[MAX_WEIGHTS + 1], old[MAX_WEIGHTS + 1];
    int64_t n = trf_tensor_count(t), i, wrong;
    trf_error err;
    assert_true(n > 0 && n <= MAX_WEIGHTS && (t->data || t->device));
    for (i = 0; i <= n; i++) numbers[i] = -77;
    memset(&err, 0x55, sizeof err);
    assert_int_equal(trf_tensor_read(t, numbers, n, &err), TRF_OK);
    assert_cleared(&err);
    assert_stands(t, numbers);
    assert_true(numbers[n] == -77);
    memcpy(old, numbers, sizeof old);
    for (i = 0; i < n; i++) numbers[i] = (trf_real)i + 1;
    for (wrong = n - 1; wrong <= n + 1; wrong += 2) {
        assert_int_equal(trf_tensor_write(t, numbers, wrong, &err), TRF_E_SHAPE);
        assert_string_equal(err.what, "count");
        assert_int_equal(trf_tensor_read(t, numbers, wrong, &err), TRF_E_SHAPE);
        assert_string_equal(err.what, "count");
    }
    assert_int_equal(trf_tensor_read(t, numbers, -1, NULL), TRF_E_SHAPE);
    assert_int_equal(trf_tensor_write(t, numbers, 0, NULL), TRF_E_SHAPE);
    assert_stands(t, old);
    for (i = 0; i < n; i++) assert_true(numbers[i] == (trf_real)i + 1);
    memset(&err, 0x55, sizeof err);
    assert_int_equal(trf_tensor_write(t, numbers, n, &err), TRF_OK);
    assert_cleared(&err);
    assert_stands(t, numbers);
    assert_int_equal(trf_tensor_write(t, old, n, NULL), TRF_OK);
    assert_int_equal(trf_tensor_read(t, NULL, n, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "numbers");
    assert_int_equal(trf_tensor_write(t, NULL, n, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "numbers");
    assert_stands(t, old);
}

/* Parameters, gradients and a caller's own tensors are read and written, neighbours stay as they
   are. */
static void test_reading_and_writing(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 3, 1, 5, VOCAB, 83);
    lab l = lab_of(&variants[6], 8, 2, 12, 1);
    trf_real own[24], numbers[128], number = 0;
    trf_tensor t;
    trf_error err;
    uint64_t weights, gradients;
    int64_t i;
    int32_t k;
    (void)state;
    for (k = 0; k < trf_model_parameter_count(l.model); k++) {        /* no gradients yet: zeros */
        t = trf_trainer_tensor(l.trainer, TRF_GRADIENT, k);
        if (trf_tensor_count(&t) > 128) continue;
        assert_int_equal(trf_tensor_read(&t, numbers, trf_tensor_count(&t), NULL), TRF_OK);
        for (i = 0; i < trf_tensor_count(&t); i++) assert_true(numbers[i] == 0);
    }
    assert_int_equal(trf_trainer_forward_backward(l.trainer, &batch, NULL, NULL), TRF_OK);
    weights = hash_weights(HASH_START, l.model);
    gradients = hash_gradients(HASH_START, l.trainer);
    for (k = 0; k < trf_model_parameter_count(l.model); k++) {
        t = trf_model_parameter(l.model, k);
        read_and_write(&t);
        t = trf_trainer_tensor(l.trainer, TRF_PARAMETER, k);
        read_and_write(&t);
        t = trf_trainer_tensor(l.trainer, TRF_GRADIENT, k);
        read_and_write(&t);
    }
    assert_true(hash_weights(HASH_START, l.model) == weights);
    assert_true(hash_gradients(HASH_START, l.trainer) == gradients);
    for (i = 0; i < 24; i++) own[i] = (trf_real)i;
    t = trf_tensor_of(own, 3, 2, 3, 4);
    read_and_write(&t);
    t.shape[1] = 0;                     /* no numbers: nothing to be read, from nowhere */
    assert_int_equal(trf_tensor_read(&t, NULL, 0, &err), TRF_OK);
    assert_int_equal(trf_tensor_write(&t, NULL, 0, &err), TRF_OK);
    for (k = -1; k < 2; k++) {          /* tensors that are none */
        t = k < 0    ? trf_model_parameter(l.model, -1)
            : k == 0 ? trf_trainer_tensor(l.trainer, TRF_GRADIENT, INT32_MAX)
                     : trf_tensor_of(NULL, 1, 1, 1, 1);
        assert_int_equal(trf_tensor_read(&t, &number, 1, &err), TRF_E_INVALID_ARG);
        assert_string_equal(err.what, "tensor");
        assert_int_equal(trf_tensor_write(&t, &number, 1, &err), TRF_E_INVALID_ARG);
        assert_string_equal(err.what, "tensor");
    }
    assert_int_equal(trf_tensor_read(NULL, &number, 1, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "tensor");
    assert_int_equal(trf_tensor_write(NULL, &number, 1, NULL), TRF_E_INVALID_ARG);
    lab_close(&l);
}

/* The first micro-batch of a step sets every gradient, also those that nothing in it touches: words
   it has not, an encoder that reads nothing. */
static void test_no_old_gradients(void **state)
{
    static kit_pairs old_data, new_data;
    trf_batch old = kit_fill(&old_data, 8, 2, 7, VOCAB, 84), next;
    size_t v;
    int empty;
    (void)state;
    for (v = 0; v < sizeof variants / sizeof *variants; v++)
        for (empty = 0; empty < 2; empty++) {
            variant used = variants[v];
            lab fresh, reused;
            int i;
            if (empty) used.source_eos = 0;
            fresh = lab_of(&used, 8, 2, 12, 2);
            reused = lab_of(&used, 8, 2, 12, 2);
            next = kit_fill(&new_data, 2, 1, 1, 5, 85);
            for (i = 0; empty && i < 2; i++) new_data.source_lengths[i] = 0;
            assert_int_equal(trf_trainer_forward_backward(reused.trainer, &old, NULL, NULL), TRF_OK);
            trf_trainer_discard_gradients(reused.trainer);
            assert_int_equal(trf_trainer_forward_backward(reused.trainer, &next, NULL, NULL), TRF_OK);
            assert_int_equal(trf_trainer_forward_backward(fresh.trainer, &next, NULL, NULL), TRF_OK);
            if (hash_gradients(HASH_START, reused.trainer) !=
                hash_gradients(HASH_START, fresh.trainer))
                fail_msg("%s: old gradients are left", used.name);
            lab_close(&fresh);
            lab_close(&reused);
        }
}

/* Weights written into models, and their mean, number by number: tied or not, beyond a chunk, in
   place. */
static void test_written_and_averaged(void **state)
{
    trf_config c = seeded_config();
    trf_model *models[3], *mean, *read_only;
    trf_error err;
    int tied, i;
    int32_t p;
    int64_t k;
    (void)state;
    c.d_model = 64; c.d_ff = 80;
    for (tied = 0; tied < 2; tied++) {
        c.tying = tied ? TRF_TIED_ALL : TRF_UNTIED;
        for (i = 0; i < 3; i++) {
            c.seed = (uint64_t)(10 * tied + i);
            assert_int_equal(trf_model_create(&models[i], &c, NULL, &err), TRF_OK);
        }
        assert_int_equal(trf_model_copy(&mean, models[1], &err), TRF_OK);
        assert_int_equal(trf_model_copy(&read_only, models[2], &err), TRF_OK);
        for (p = 0; p < trf_model_parameter_count(mean);
             p++) { /* a third that cannot be a mean of the others' */
            trf_tensor t = trf_model_parameter(models[2], p);
            trf_real *numbers = kit_numbers(t);
            assert_string_equal(t.name, trf_model_parameter(mean, p).name);
            for (k = 0; k < trf_tensor_count(&t); k++)
                numbers[k] = (trf_real)(p + 0.001 * (double)k);
            assert_int_equal(trf_tensor_write(&t, numbers, trf_tensor_count(&t), &err), TRF_OK);
            free(numbers);
        }
        assert_int_equal(trf_model_average(mean, models, 3, &err), TRF_OK);
        for (p = 0; p < trf_model_parameter_count(mean); p++) {
            trf_real *x[3], *y = kit_numbers(trf_model_parameter(mean, p));
            int64_t n = 1;
            for (i = 0; i < 3; i++) {
                trf_tensor t = trf_model_parameter(models[i], p);
                x[i] = kit_numbers(t);
                n = trf_tensor_count(&t);
            }
            for (k = 0; k < n; k++)
                assert_true(y[k] ==
                            (trf_real)(((double)x[0][k] + (double)x[1][k] + (double)x[2][k]) / 3));
            for (i = 0; i < 3; i++) free(x[i]);
            free(y);
        }
        assert_int_equal(trf_model_average(models[1], models, 3, &err),
                         TRF_OK); /* one of them itself */
        assert_true(hash_weights(HASH_START, models[1]) == hash_weights(HASH_START, mean));
        assert_int_equal(trf_model_average(models[1], &read_only, 1, &err), TRF_OK);
        assert_true(hash_weights(HASH_START, models[1]) == hash_weights(HASH_START, read_only));
        trf_model_destroy(mean);
        trf_model_destroy(read_only);
        for (i = 0; i < 3; i++) trf_model_destroy(models[i]);
    }
}

static void test_average_refused(void **state)
{
    trf_config c = seeded_config(), other = c;
    trf_model *models[3];
    trf_error err;
    uint64_t before;
    (void)state;
    assert_int_equal(trf_model_create(&models[0], &c, NULL, &err), TRF_OK);
    other.n_heads = 4;              /* the same shapes */
    assert_int_equal(trf_model_create(&models[1], &other, NULL, &err), TRF_OK);
    models[2] = NULL;
    before = hash_weights(HASH_START, models[0]);
    assert_int_equal(trf_model_average(models[0], models, 2, &err), TRF_E_SHAPE);
    assert_string_equal(err.what, "n_heads");
    assert_int_equal(err.where, 1);
    assert_int_equal(trf_model_average(models[0], models + 2, 1, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_model_average(models[0], models, 0, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_model_average(models[0], NULL, 1, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_model_average(NULL, models, 1, &err), TRF_E_INVALID_ARG);
    assert_true(hash_weights(HASH_START, models[0]) == before);
    assert_int_equal(trf_model_parameter(NULL, 0).rank, 1);
    assert_null(trf_model_parameter(models[0], 1000).data);
    trf_model_destroy(models[0]);
    trf_model_destroy(models[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adam_at_the_ends),
        cmocka_unit_test(test_skipped_in_front),
        cmocka_unit_test(test_late_reports),
        cmocka_unit_test(test_late_reports_of_skipped_steps),
        cmocka_unit_test(test_reading_and_writing),
        cmocka_unit_test(test_no_old_gradients),
        cmocka_unit_test(test_huge_gradient),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_gradients_wide), cmocka_unit_test(test_unread_positions),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_order_of_sentences),
        cmocka_unit_test(test_micro_batches),
        cmocka_unit_test(test_masks_differ),
        cmocka_unit_test(test_empty_sources),
        cmocka_unit_test(test_length_one),
        cmocka_unit_test(test_source_matters),
        cmocka_unit_test(test_causality),
        cmocka_unit_test(test_score),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_attention_weights), cmocka_unit_test(test_attention_of_one_side),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_translating),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_evaluate),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_reduce_hook),
        cmocka_unit_test(test_zeros), cmocka_unit_test(test_contract),
        cmocka_unit_test(test_success_clears),
        cmocka_unit_test(test_written_and_averaged), cmocka_unit_test(test_average_refused),
        cmocka_unit_test(test_bad_config),
        cmocka_unit_test(test_fields_of_a_kind), cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_sizes_in_pairs),
        cmocka_unit_test(test_too_many_rows), cmocka_unit_test(test_bad_batches),
        cmocka_unit_test(test_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

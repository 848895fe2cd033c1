/* residuals_encoder.c - do encoder layers lose the gradient without residual connections?

   residuals.c measures stacks of linear layers. This study measures encoder layers of a new model:
   post-norm, x = norm(x + block(x)); pre-norm, x = x + block(norm(x)); and without residual
   connections, x = norm(block(x)). No model of the library does the third, so all three are made of
   its blocks, with the same weights. The loss is a random projection of the last states.

   The table has the norm of the gradient that arrives at the first layer, as a geometric mean over
   seeds. The picture shows how it changes from layer to layer on its way back. */
#include "study.h"

enum { D = 64, F = 256, HEADS = 4, TOKENS = 10, SIZE = TOKENS * D, DEEPEST = 32 };
static const double STEP = 2e-3;        /* of the finite difference that checks the gradient */
enum wiring { POST_NORM, PRE_NORM, NO_RESIDUAL, WIRINGS };
static const char *const names[WIRINGS] = {"post-norm", "pre-norm", "no residuals"};
static const int32_t tokens = TOKENS;
static const trf_attention_shape shape = {.query_lengths = &tokens, .key_lengths = &tokens,
                                          .count = 1, .n_heads = HEADS};

/* A block, attention or feed-forward: its weights, what it has read and computed. */
struct block { trf_tensor w[4], x, in, out, sum, saved, norm_saved; };
struct encoder {
    struct study *s;
    trf_context *context;
    enum wiring wiring;
    struct block *blocks;               /* two a layer */
    int n;
    trf_tensor dw[2][4], gain, bias, dgain, dbias;
};

static void forward_block(struct encoder *e, int i)
{
    struct block *k = &e->blocks[i];
    trf_attention_params p = {k->w[0], k->w[1], k->w[2], k->w[3]};
    trf_feed_forward_params q = {k->w[0], k->w[1], k->w[2], k->w[3]};
    if (i % 2) STUDY_TRY(trf_feed_forward(e->context, &k->out, &k->in, &q, TRF_RELU, &k->saved,
                                          &err));
    else STUDY_TRY(trf_multi_head_attention(e->context, &k->out, &k->in, NULL, &p, &shape,
                                            NULL, &k->saved, &err));
}
static void backward_block(struct encoder *e, int i, trf_tensor *din, const trf_tensor *dout)
{
    struct block *k = &e->blocks[i];
    trf_tensor *g = e->dw[i % 2];
    trf_attention_params p = {k->w[0], k->w[1], k->w[2], k->w[3]}, dp = {g[0], g[1], g[2], g[3]};
    trf_feed_forward_params q = {k->w[0], k->w[1], k->w[2], k->w[3]}, dq = {g[0], g[1], g[2], g[3]};
    if (i % 2) STUDY_TRY(trf_feed_forward_backward(e->context, din, &dq, dout, &k->in, &q,
                                                   TRF_RELU, &k->saved, &err));
    else STUDY_TRY(trf_multi_head_attention_backward(e->context, din, NULL, &dp, NULL, dout,
                                                     &k->in, NULL, &p, &shape, &k->saved, &err));
}
static void forward_norm(struct encoder *e, struct block *k, trf_tensor *y, const trf_tensor *x)
{
    STUDY_TRY(trf_norm(e->context, y, x, &e->gain, &e->bias, TRF_NORM_STANDARD, 1e-5,
                       &k->norm_saved, &err));
}
static void backward_norm(struct encoder *e, struct block *k, trf_tensor *dx,
                          const trf_tensor *dy, const trf_tensor *x)
{
    STUDY_TRY(trf_norm_backward(e->context, dx, &e->dgain, &e->dbias, dy, x, &e->gain,
                                TRF_NORM_STANDARD, 1e-5, &k->norm_saved, &err));
}

/* The loss: a projection of the last states. */
static double forward(struct encoder *e, const trf_tensor *input, const trf_tensor *projection)
{
    trf_tensor x = *input;
    double loss = 0;
    int i, j;
    for (i = 0; i < e->n; i++) {
        struct block *k = &e->blocks[i];
        memcpy(k->x.data, x.data, SIZE * sizeof(trf_real));
        if (e->wiring == PRE_NORM) forward_norm(e, k, &k->in, &k->x);
        else memcpy(k->in.data, k->x.data, SIZE * sizeof(trf_real));
        forward_block(e, i);
        for (j = 0; j < SIZE; j++)
            k->sum.data[j] = k->out.data[j] + (e->wiring == NO_RESIDUAL ? 0 : k->x.data[j]);
        x = k->sum;
        if (e->wiring == PRE_NORM) continue;
        forward_norm(e, k, &k->out, &k->sum);
        x = k->out;
    }
    for (j = 0; j < SIZE; j++) loss += (double)x.data[j] * (double)projection->data[j];
    return loss;
}

/* dx: the gradient at the input; norms[layer]: its norm there. */
static void backward(struct encoder *e, trf_tensor *dx, const trf_tensor *projection, double *norms)
{
    trf_tensor dsum = study_tensor(e->s, TOKENS, D), din = study_tensor(e->s, TOKENS, D);
    trf_tensor dnorm = study_tensor(e->s, TOKENS, D);
    int i, j;
    memcpy(dx->data, projection->data, SIZE * sizeof(trf_real));
    for (i = e->n - 1; i >= 0; i--) {
        struct block *k = &e->blocks[i];
        double sum = 0;
        if (e->wiring == PRE_NORM) memcpy(dsum.data, dx->data, SIZE * sizeof(trf_real));
        else backward_norm(e, k, &dsum, dx, &k->sum);
        backward_block(e, i, &din, &dsum);
        if (e->wiring == PRE_NORM) backward_norm(e, k, &dnorm, &din, &k->x);
        for (j = 0; j < SIZE; j++) {
            trf_real through = e->wiring == PRE_NORM ? dnorm.data[j] : din.data[j];
            dx->data[j] = through + (e->wiring == NO_RESIDUAL ? 0 : dsum.data[j]);
            sum += (double)dx->data[j] * (double)dx->data[j];
        }
        norms[i / 2] = sqrt(sum);
    }
}

static struct encoder encoder_of(struct study *s, trf_context *context, const trf_model *model)
{
    static const char *const parts[2][4] = {
        {"self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
         "self_attn.out_proj.bias"},
        {"linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"}};
    struct encoder e;
    int i, j;
    memset(&e, 0, sizeof e);
    e.s = s;
    e.context = context;
    e.n = 2 * trf_model_config(model)->encoder_layers;
    e.blocks = (struct block *)study_memory(s, (size_t)e.n * sizeof *e.blocks);
    for (i = 0; i < e.n; i++) {
        struct block *k = &e.blocks[i];
        trf_attention_params heads;
        trf_feed_forward_params feed;
        for (j = 0; j < 4; j++) {
            char name[96];
            snprintf(name, sizeof name, "encoder.layers.%d.%s", i / 2, parts[i % 2][j]);
            k->w[j] = trf_model_parameter(model, trf_model_parameter_index(model, name));
            if (i < 2) e.dw[i][j] = study_tensor(s, k->w[j].shape[0],
                                                 k->w[j].rank > 1 ? k->w[j].shape[1] : 0);
        }
        heads = (trf_attention_params){k->w[0], k->w[1], k->w[2], k->w[3]};
        feed = (trf_feed_forward_params){k->w[0], k->w[1], k->w[2], k->w[3]};
        k->x = study_tensor(s, TOKENS, D);
        k->in = study_tensor(s, TOKENS, D);
        k->out = study_tensor(s, TOKENS, D);
        k->sum = study_tensor(s, TOKENS, D);
        k->norm_saved = study_tensor(s, 2 * TOKENS, 0);
        k->saved = study_tensor(s, i % 2 ? trf_feed_forward_saved(TOKENS, &feed)
                                         : trf_attention_saved(&shape, &heads), 0);
    }
    e.gain = study_tensor(s, D, 0);
    for (i = 0; i < D; i++) e.gain.data[i] = 1;
    e.bias = study_tensor(s, D, 0);
    e.dgain = study_tensor(s, D, 0);
    e.dbias = study_tensor(s, D, 0);
    return e;
}

/* The gradient's norm at each layer of a new encoder. */
static void measure(struct study *s, trf_context *context, int layers, enum wiring wiring, int seed,
                    double *norms)
{
    trf_tensor x = study_tensor(s, TOKENS, D), dx = study_tensor(s, TOKENS, D);
    trf_tensor projection = study_tensor(s, TOKENS, D);
    uint64_t random = (uint64_t)seed;
    trf_config c = trf_config_preset(TRF_TINY);
    trf_model *model = NULL;
    struct encoder e;
    double up, slope;
    int j;
    c.kind = TRF_ENCODER_ONLY;
    c.d_model = D;
    c.d_ff = F;
    c.n_heads = HEADS;
    c.encoder_layers = layers;
    c.decoder_layers = c.target_vocab = 0;
    c.source_vocab = 5;
    c.seed = (uint64_t)seed;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    e = encoder_of(s, context, model);
    e.wiring = wiring;
    study_fill_normal(&x, &random, 1);
    study_fill_normal(&projection, &random, sqrt(1.0 / D));
    forward(&e, &x, &projection);
    backward(&e, &dx, &projection, norms);
    /* Along the gradient the loss rises as the gradient says; deep stacks without residuals bend
       too much for finite differences in float. */
    for (j = 0; j < SIZE; j++) x.data[j] += (trf_real)(STEP / norms[0]) * dx.data[j];
    up = forward(&e, &x, &projection);
    for (j = 0; j < SIZE; j++) x.data[j] -= (trf_real)(2 * STEP / norms[0]) * dx.data[j];
    slope = (up - forward(&e, &x, &projection)) / (2 * STEP);
    study_must(s, layers > 4 || fabs(slope / norms[0] - 1) < 0.1,
               "%s, %d layers: gradient %g, slope %g", names[wiring], layers, norms[0], slope);
    trf_model_destroy(model);
}

int main(int argc, char **argv)
{
    static const int full[] = {1, 2, 4, 8, 16, DEEPEST}, quick[] = {1, 4};
    struct study s = study_begin(argc, argv, "residuals_encoder",
                                 "the gradient at the first of many encoder layers");
    const int *layers = s.quick ? quick : full;
    int n = s.quick ? STUDY_COUNT(quick) : STUDY_COUNT(full), i, k, l, seed;
    double first[WIRINGS][8], path[WIRINGS][DEEPEST], x[DEEPEST];
    trf_context *context = study_context(&s);
    struct curve curves[WIRINGS];
    struct panel panel;
    study_columns(&s, "layers | post-norm | pre-norm | no residuals");
    for (i = 0; i < n; i++) {
        for (k = 0; k < WIRINGS; k++) {
            for (l = 0; l < layers[i]; l++) path[k][l] = 0;
            for (seed = 0; seed < s.seeds; seed++) {
                double norms[DEEPEST];
                measure(&s, context, layers[i], (enum wiring)k, seed + 1, norms);
                for (l = 0; l < layers[i]; l++) path[k][l] += log(norms[l]) / s.seeds;
            }
            for (l = 0; l < layers[i]; l++) path[k][l] = exp(path[k][l]);
            first[k][i] = path[k][0];
        }
        study_row(&s, "%d | %.3g | %.3g | %.3g", layers[i], first[0][i], first[1][i], first[2][i]);
    }
    trf_context_destroy(context);
    for (l = 0; l < layers[n - 1]; l++) x[l] = l + 1;
    for (k = 0; k < WIRINGS; k++) curves[k] = study_curve(names[k], x, path[k], layers[n - 1]);
    panel = study_panel("gradient on its way back", "layer", "norm at its input", curves, WIRINGS);
    panel.log_y = 1;
    study_curves(&s, "", &panel, 1, 1);
    study_claim(&s, "gradients vanish without residuals, encoder layers",
                first[NO_RESIDUAL][n - 1] < first[NO_RESIDUAL][0] / 10 ? STUDY_YES : STUDY_NO,
                "without residuals %.3g with 1 layer, %.3g with %d; post-norm %.3g and %.3g; "
                "pre-norm %.3g and %.3g", first[2][0], first[2][n - 1], layers[n - 1], first[0][0],
                first[0][n - 1], first[1][0], first[1][n - 1]);
    return study_end(&s);
}

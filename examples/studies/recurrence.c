/* recurrence.c - an LSTM and a transformer of the same size: speed, and how far they remember.

   Tutorials open with what attention replaced. A recurrent network reads one token after another, so
   it cannot compute them at once, and what it read long ago has to survive every step between. They
   claim that a transformer trains more than ten times as fast, and reaches every token in one step.

   Both models have two layers of width 64, about 66,000 weights besides the embedding, and read the
   same sequences: a key, n other symbols, a question mark. The answer is the key. The LSTM answers
   from its last state. The transformer is an encoder that answers from its first row, so it reads
   the sequence from behind: the key is as far away. The LSTM's cell is written here (Hochreiter and
   Schmidhuber 1997, with the forget gate of Gers et al. 2000, whose bias begins at 1); its products
   and its optimizer are the header's. All products of a layer's inputs are one product over all
   steps, and so are those of its weights' gradients, as in cuDNN: only h W has to wait for the step
   before.

   The first table has real tokens a second of training, by length and threads; the second the right
   answers by distance. recurrence-signal.svg draws the way of a signal in new models: how large the
   gradient of the loss is at the key's embedding, as the key moves away. */
#include "study.h"

enum { KEYS = 8, OTHERS = 8, FIRST_KEY = 4, FIRST_OTHER = 12, ASK = 20, VOCAB = 21 };
enum { WIDTH = 64, GATES = 4 * WIDTH, LAYERS = 2, BATCH = 32, TESTS = 16 * BATCH, LONGEST = 202 };
enum { EMBEDDING = 0, OUTPUT = 1 + 3 * LAYERS, WEIGHTS };   /* between: inputs, states, bias a layer */
enum { SEEDS = 100, DISTANCES = 3, WAYS = 8 };

static const int distances[DISTANCES] = {10, 50, 200};
static const int ways[WAYS] = {1, 2, 5, 10, 20, 50, 100, 200};

/* A batch for both models. */
struct sample { int32_t ids[BATCH][LONGEST], backwards[BATCH * LONGEST], lengths[BATCH],
                labels[BATCH], ones[BATCH], n; };

static void draw(struct sample *x, int distance, uint64_t *random)
{
    int32_t i, t;
    x->n = distance + 2;
    for (i = 0; i < BATCH; i++) {
        x->labels[i] = study_below(random, KEYS);
        x->lengths[i] = x->n;
        x->ones[i] = 1;
        for (t = 0; t < x->n; t++) {
            int32_t id = t == 0 ? FIRST_KEY + x->labels[i] : t == x->n - 1 ? ASK
                       : FIRST_OTHER + study_below(random, OTHERS);
            x->ids[i][t] = x->backwards[i * x->n + x->n - 1 - t] = id;
        }
    }
}

// -----------------------------------------------------------------------------------------------
// LSTM
//
//   i, f, o = sigmoid, g = tanh of  x Wx^T + h[t-1] Wh^T + b       rows of a matrix: i, f, g, o
//   c[t] = f c[t-1] + i g        h[t] = o tanh(c[t])
//
// Row t * BATCH + k of a matrix is step t of sequence k.
// -----------------------------------------------------------------------------------------------

struct lstm {
    trf_context *context;
    trf_tensor weight[WEIGHTS], gradient[WEIGHTS];
    /* inputs of each layer, and the output of the last; cells; gates; their gradients */
    trf_real *x[LAYERS + 1], *c[LAYERS], *gates[LAYERS], *dgates, *dx, *zeros;
    trf_real *wait, *dh, *dc, *turned, *dlast;
};

static trf_tensor rows_of(trf_real *data, int64_t from, int64_t n, int64_t width)
{
    return trf_tensor_of(data + from * width, 2, n, width, 1);
}

/* A new model; in the memory of the one before, if there was one. */
static void create(struct study *s, struct lstm *m, uint64_t seed)
{
    size_t rows = (size_t)BATCH * LONGEST, bytes = sizeof(trf_real);
    uint64_t random = seed;
    int l, k;
    m->context = study_context(s);
    for (k = 0; k < WEIGHTS; k++) {
        int64_t height = k == EMBEDDING ? VOCAB : k == OUTPUT ? KEYS : GATES;
        int64_t width = k != EMBEDDING && k != OUTPUT && k % 3 == 0 ? 0 : WIDTH;
        trf_tensor *w = &m->weight[k];
        if (!w->data) *w = study_tensor(s, height, width);
        if (!m->gradient[k].data) m->gradient[k] = study_tensor(s, height, width);
        if (width) study_fill_normal(w, &random, k == EMBEDDING ? 1 : 1 / sqrt(WIDTH));
        for (l = 0; !width && l < GATES; l++) w->data[l] = l / WIDTH == 1;
    }
    if (m->x[0]) return;
    for (l = 0; l <= LAYERS; l++) m->x[l] = (trf_real *)study_memory(s, rows * WIDTH * bytes);
    for (l = 0; l < LAYERS; l++) {
        m->c[l] = (trf_real *)study_memory(s, rows * WIDTH * bytes);
        m->gates[l] = (trf_real *)study_memory(s, rows * GATES * bytes);
    }
    m->dgates = (trf_real *)study_memory(s, rows * GATES * bytes);
    m->dx = (trf_real *)study_memory(s, rows * WIDTH * bytes);
    m->zeros = (trf_real *)study_memory(s, (size_t)BATCH * WIDTH * bytes);
    m->wait = (trf_real *)study_memory(s, (size_t)BATCH * GATES * bytes);
    m->dh = (trf_real *)study_memory(s, (size_t)BATCH * WIDTH * bytes);
    m->dc = (trf_real *)study_memory(s, (size_t)BATCH * WIDTH * bytes);
    m->dlast = (trf_real *)study_memory(s, (size_t)BATCH * WIDTH * bytes);
    m->turned = (trf_real *)study_memory(s, (size_t)GATES * WIDTH * bytes);
}

#if defined(__GNUC__) && !defined(__clang__)
#define VECTORS __attribute__((optimize("O3")))     /* clang's -O2 has it anyway */
#else
#define VECTORS
#endif

/* A quotient of polynomials that a compiler turns into vector instructions; libm's call would cost
   the LSTM more than its products. Within 1e-6 of tanh. */
static inline trf_real fast_tanh(trf_real x)
{
    const trf_real z = x < -7.9f ? -7.9f : x > 7.9f ? 7.9f : x, q = z * z;
    const trf_real p = ((((((-2.76076847742355e-16f * q + 2.00018790482477e-13f) * q -
        8.60467152213735e-11f) * q + 5.12229709037114e-08f) * q + 1.48572235717979e-05f) * q +
        6.37261928875436e-04f) * q + 4.89352455891786e-03f) * z;
    return p / (((1.19825839466702e-06f * q + 1.18534705686654e-04f) * q +
                 2.26843463243900e-03f) * q + 4.89352518554385e-03f);
}

static inline trf_real fast_sigmoid(trf_real x)
{
    return (trf_real)0.5 + (trf_real)0.5 * fast_tanh((trf_real)0.5 * x);
}

/* One step of BATCH sequences. gates: x Wx^T + b, and afterwards i, f, g, o; wait: h[t-1] Wh^T. */
VECTORS static void cell(trf_real *gates, const trf_real *wait, const trf_real *before, trf_real *c,
                         trf_real *h)
{
    int k, j;
    for (k = 0; k < BATCH; k++, gates += GATES, wait += GATES) {
        trf_real *i = gates, *f = i + WIDTH, *g = f + WIDTH, *o = g + WIDTH;
        for (j = 0; j < GATES; j++) gates[j] += wait[j];
        for (j = 0; j < 2 * WIDTH; j++) gates[j] = fast_sigmoid(gates[j]);
        for (j = 0; j < WIDTH; j++) g[j] = fast_tanh(g[j]);
        for (j = 0; j < WIDTH; j++) o[j] = fast_sigmoid(o[j]);
        for (j = 0; j < WIDTH; j++) c[k * WIDTH + j] = f[j] * before[k * WIDTH + j] + i[j] * g[j];
        for (j = 0; j < WIDTH; j++) h[k * WIDTH + j] = o[j] * fast_tanh(c[k * WIDTH + j]);
    }
}

/* dh is the gradient of h[t], dc that of c[t] through later steps, and afterwards of c[t-1]. */
VECTORS static void cell_backward(trf_real *dgates, const trf_real *gates, const trf_real *before,
                                  const trf_real *c, const trf_real *dh, trf_real *dc)
{
    int k, j;
    for (k = 0; k < BATCH; k++, gates += GATES, dgates += GATES)
        for (j = 0; j < WIDTH; j++) {
            const trf_real i = gates[j], f = gates[WIDTH + j], g = gates[2 * WIDTH + j];
            const trf_real o = gates[3 * WIDTH + j], t = fast_tanh(c[k * WIDTH + j]);
            const trf_real d = dc[k * WIDTH + j] + dh[k * WIDTH + j] * o * (1 - t * t);
            dgates[j] = d * g * i * (1 - i);
            dgates[WIDTH + j] = d * before[k * WIDTH + j] * f * (1 - f);
            dgates[2 * WIDTH + j] = d * i * (1 - g * g);
            dgates[3 * WIDTH + j] = dh[k * WIDTH + j] * t * o * (1 - o);
            dc[k * WIDTH + j] = d * f;
        }
}

static void forward(struct lstm *m, const struct sample *x)
{
    const int64_t step = (int64_t)BATCH * WIDTH;
    int32_t l, t, k, n = x->n;
    for (t = 0; t < n; t++)
        for (k = 0; k < BATCH; k++)
            memcpy(m->x[0] + t * step + k * WIDTH,
                   m->weight[EMBEDDING].data + x->ids[k][t] * WIDTH, WIDTH * sizeof(trf_real));
    for (l = 0; l < LAYERS; l++) {
        const trf_tensor *w = m->weight + 1 + 3 * l;
        trf_tensor in = rows_of(m->x[l], 0, n * BATCH, WIDTH);
        trf_tensor gates = rows_of(m->gates[l], 0, n * BATCH, GATES);
        trf_tensor wait = rows_of(m->wait, 0, BATCH, GATES);
        STUDY_TRY(trf_linear(m->context, &gates, &in, &w[0], &w[2], &err));
        memset(m->wait, 0, (size_t)BATCH * GATES * sizeof(trf_real));
        for (t = 0; t < n; t++) {
            trf_tensor h = rows_of(m->x[l + 1], (int64_t)(t - 1) * BATCH, BATCH, WIDTH);
            if (t) STUDY_TRY(trf_linear(m->context, &wait, &h, &w[1], NULL, &err));
            cell(m->gates[l] + t * (int64_t)BATCH * GATES, m->wait,
                 t ? m->c[l] + (t - 1) * step : m->zeros, m->c[l] + t * step,
                 m->x[l + 1] + t * step);
        }
    }
}

/* Gradients of layer l. m->dx: those of its outputs, then those of its inputs. */
static void layer_backward(struct lstm *m, int32_t l, int32_t n)
{
    const int64_t step = (int64_t)BATCH * WIDTH, wide = (int64_t)BATCH * GATES;
    const trf_tensor *w = m->weight + 1 + 3 * l;
    trf_tensor *g = m->gradient + 1 + 3 * l, turned = rows_of(m->turned, 0, WIDTH, GATES);
    trf_tensor in = rows_of(m->x[l], 0, n * BATCH, WIDTH), dx = rows_of(m->dx, 0, n * BATCH, WIDTH);
    trf_tensor all = rows_of(m->dgates, 0, n * BATCH, GATES);
    trf_tensor later = rows_of(m->dgates, BATCH, (n - 1) * BATCH, GATES);
    trf_tensor states = rows_of(m->x[l + 1], 0, (n - 1) * BATCH, WIDTH);
    trf_tensor dh = rows_of(m->dh, 0, BATCH, WIDTH);
    int32_t t, i, j;
    for (i = 0; i < GATES; i++)
        for (j = 0; j < WIDTH; j++) m->turned[j * GATES + i] = w[1].data[i * WIDTH + j];
    memset(m->dh, 0, (size_t)step * sizeof(trf_real));
    memset(m->dc, 0, (size_t)step * sizeof(trf_real));
    for (t = n - 1; t >= 0; t--) {
        trf_tensor now = rows_of(m->dgates, (int64_t)t * BATCH, BATCH, GATES);
        for (i = 0; i < step; i++) m->dh[i] += m->dx[t * step + i];
        cell_backward(m->dgates + t * wide, m->gates[l] + t * wide,
                      t ? m->c[l] + (t - 1) * step : m->zeros, m->c[l] + t * step, m->dh, m->dc);
        if (t) STUDY_TRY(trf_linear(m->context, &dh, &now, &turned, NULL, &err));
    }
    STUDY_TRY(trf_linear_backward(m->context, &dx, &g[0], &g[2], &all, &in, &w[0], &err));
    STUDY_TRY(trf_linear_backward(m->context, NULL, &g[1], NULL, &later, &states, &w[1], &err));
}

/* Sets all gradients. Returns the loss, summed over the sequences. */
static double backward(struct lstm *m, const struct sample *x)
{
    const int64_t step = (int64_t)BATCH * WIDTH;
    const trf_cross_entropy_options plain = {0, TRF_SMOOTH_UNIFORM, 0};
    trf_tensor last = rows_of(m->x[LAYERS], (int64_t)(x->n - 1) * BATCH, BATCH, WIDTH);
    trf_tensor dlast = rows_of(m->dlast, 0, BATCH, WIDTH);
    double loss = 0;
    int32_t l, t, k, j;
    for (k = 0; k < WEIGHTS; k++)
        memset(m->gradient[k].data, 0,
               (size_t)trf_tensor_count(&m->gradient[k]) * sizeof(trf_real));
    STUDY_TRY(trf_cross_entropy(m->context, &loss, &dlast, &m->gradient[OUTPUT], NULL, &last,
                                &m->weight[OUTPUT], NULL, x->labels, &plain, &err));
    memset(m->dx, 0, (size_t)(x->n * step) * sizeof(trf_real));
    memcpy(m->dx + (x->n - 1) * step, m->dlast, (size_t)step * sizeof(trf_real));
    for (l = LAYERS; l-- > 0; ) layer_backward(m, l, x->n);
    for (t = 0; t < x->n; t++)
        for (k = 0; k < BATCH; k++)
            for (j = 0; j < WIDTH; j++)
                m->gradient[EMBEDDING].data[x->ids[k][t] * WIDTH + j] +=
                    m->dx[t * step + k * WIDTH + j];
    return loss;
}

/* The loss along a direction, by differences and by the gradient. */
static void check_gradients(struct study *s)
{
    static struct sample x;
    static struct lstm m;
    uint64_t random = 5;
    double along = 0, loss[2], difference;
    int side, k;
    int64_t i;
    create(s, &m, 3);
    draw(&x, 6, &random);
    forward(&m, &x);
    backward(&m, &x);
    for (side = 0; side < 2; side++) {
        const double epsilon = side ? -1e-2 : 5e-3;     /* from the first point to the second */
        random = 7;
        for (k = 0; k < WEIGHTS; k++)
            for (i = 0; i < trf_tensor_count(&m.weight[k]); i++) {
                double d = study_normal(&random) / 16;
                if (!side) along += d * (double)m.gradient[k].data[i];
                m.weight[k].data[i] += (trf_real)(epsilon * d);
            }
        forward(&m, &x);
        {
            trf_tensor last = rows_of(m.x[LAYERS], (int64_t)(x.n - 1) * BATCH, BATCH, WIDTH);
            const trf_cross_entropy_options plain = {0, TRF_SMOOTH_UNIFORM, 0};
            STUDY_TRY(trf_cross_entropy(m.context, &loss[side], NULL, NULL, NULL, &last,
                                        &m.weight[OUTPUT], NULL, x.labels, &plain, &err));
        }
    }
    difference = (loss[0] - loss[1]) / 1e-2;
    study_must(s, fabs(difference - along) < 0.01 * (fabs(along) + 1),
               "the LSTM's gradient along a direction: %.5g, by differences %.5g", along, difference);
    trf_context_destroy(m.context);
}

// -----------------------------------------------------------------------------------------------
// Both models
// -----------------------------------------------------------------------------------------------

static trf_train_options options_of(int updates)
{
    trf_train_options o = trf_train_defaults();
    o.schedule = TRF_COSINE;
    o.learning_rate = 3e-3;
    o.warmup = updates / 10 + 1;
    o.total_steps = updates + 2;
    o.clip_norm = 1;
    return o;
}

struct transformer { trf_model *model; trf_trainer *trainer; };

static struct transformer create_transformer(const struct study *s, uint64_t seed, int updates)
{
    struct transformer m = {NULL, NULL};
    trf_config c = study_config(s, TRF_ENCODER_ONLY, LAYERS, VOCAB, seed);
    trf_train_options o = options_of(updates);
    c.head = TRF_HEAD_FIRST;
    c.n_labels = KEYS;
    c.source_eos = 0;
    STUDY_TRY(trf_model_create(&m.model, &c, NULL, &err));
    STUDY_TRY(trf_trainer_create(&m.trainer, m.model, &o, &err));
    return m;
}

static trf_batch batch_of(const struct sample *x)
{
    trf_batch b = {{x->backwards, x->lengths, BATCH}, {x->labels, x->ones, BATCH}, 0, {0, 0, 0}};
    return b;
}

/* Percent of new sequences that are answered rightly. */
static double judge(struct lstm *lstm, struct transformer *transformer, int distance)
{
    static struct sample x;
    uint64_t random = 4242;
    double right = 0;
    int i, k, c;
    for (i = 0; i < TESTS / BATCH; i++) {
        draw(&x, distance, &random);
        if (transformer) {
            trf_batch b = batch_of(&x);
            trf_step_report report;
            STUDY_TRY(trf_trainer_evaluate(transformer->trainer, &b, NULL, &report, &err));
            right += report.accuracy * BATCH;
            continue;
        }
        forward(lstm, &x);
        for (k = 0; k < BATCH; k++) {
            const trf_real *h = lstm->x[LAYERS] + ((int64_t)(x.n - 1) * BATCH + k) * WIDTH;
            trf_real z[KEYS];
            for (c = 0; c < KEYS; c++) {
                const trf_real *w = lstm->weight[OUTPUT].data + c * WIDTH;
                int j;
                for (z[c] = 0, j = 0; j < WIDTH; j++) z[c] += w[j] * h[j];
            }
            right += study_best(z, 0, KEYS) == x.labels[k];
        }
    }
    return 100 * right / TESTS;
}

/* Trains one model for so many updates, at least 2. Returns the right answers in percent; *speed:
   tokens a second, the drawing of sequences and the first update left out. */
static double run(struct study *s, int is_transformer, int distance, uint64_t seed, int updates,
                  double *speed)
{
    static struct sample x;
    static struct lstm lstm;
    struct transformer transformer = {NULL, NULL};
    trf_updater *updater = NULL;
    trf_train_options o = options_of(updates);
    trf_device device = trf_device_default();
    uint64_t random = seed;
    double seconds = 0, begin, right;
    int i;
    device.threads = s->threads;
    lstm.context = NULL;
    if (is_transformer) transformer = create_transformer(s, seed, updates);
    else {
        create(s, &lstm, seed);
        STUDY_TRY(trf_updater_create(&updater, lstm.weight, WEIGHTS, WIDTH, &o, &device, &err));
    }
    for (i = 0; i < updates; i++) {
        draw(&x, distance, &random);
        begin = study_seconds();
        if (is_transformer) {
            trf_batch b = batch_of(&x);
            STUDY_TRY(trf_trainer_step(transformer.trainer, &b, NULL, &err));
        } else {
            forward(&lstm, &x);
            backward(&lstm, &x);
            STUDY_TRY(trf_updater_step(updater, lstm.weight, lstm.gradient, BATCH, NULL, &err));
        }
        if (i) seconds += study_seconds() - begin;
    }
    *speed = (double)(updates - 1) * BATCH * (distance + 2) / seconds;
    right = judge(&lstm, is_transformer ? &transformer : NULL, distance);
    trf_updater_destroy(updater);
    trf_context_destroy(lstm.context);
    trf_trainer_destroy(transformer.trainer);
    trf_model_destroy(transformer.model);
    return right;
}

/* The gradient of a new model's loss at the embeddings of the keys: its norm. */
static double signal_of(struct study *s, int is_transformer, int distance, uint64_t seed)
{
    static struct sample x;
    uint64_t random = seed;
    trf_tensor g;
    static struct lstm lstm;
    struct transformer m = {NULL, NULL};
    double sum = 0;
    int i;
    lstm.context = NULL;
    draw(&x, distance, &random);
    if (is_transformer) {
        trf_batch b = batch_of(&x);
        m = create_transformer(s, seed, 10);
        STUDY_TRY(trf_trainer_forward_backward(m.trainer, &b, NULL, &err));
        g = trf_trainer_tensor(m.trainer, TRF_GRADIENT, trf_model_parameter_index(m.model,
                                                                      "src_embed.weight"));
    } else {
        create(s, &lstm, seed);
        forward(&lstm, &x);
        backward(&lstm, &x);
        g = lstm.gradient[EMBEDDING];
    }
    for (i = FIRST_KEY * WIDTH; i < (FIRST_KEY + KEYS) * WIDTH; i++)
        sum += (double)g.data[i] * (double)g.data[i];
    trf_context_destroy(lstm.context);
    trf_trainer_destroy(m.trainer);
    trf_model_destroy(m.model);
    return sqrt(sum);
}

/* Returns, of both models, the signal from far as a part of that from the next place. */
static void measure_signal(struct study *s, double far_away[2][SEEDS])
{
    static double y[2][WAYS];
    double x[WAYS];
    int model, i, k, n = s->quick ? 5 : WAYS;
    struct curve curves[2];
    struct panel panel;
    memset(y, 0, sizeof y);
    for (model = 0; model < 2; model++)
        for (k = 0; k < s->seeds; k++) {
            double next = signal_of(s, model, ways[0], (uint64_t)k + 1);
            for (i = 0; i < n; i++) {
                double part = signal_of(s, model, ways[i], (uint64_t)k + 1) / next;
                y[model][i] += part / s->seeds;
                far_away[model][k] = part;
            }
        }
    study_table(s, "signal", "distance | signal, LSTM | signal, transformer");
    for (i = 0; i < n; i++) {
        x[i] = ways[i];
        study_row(s, "%d | %.3g | %.3g", ways[i], y[0][i], y[1][i]);
    }
    curves[0] = study_curve("LSTM", x, y[0], n);
    curves[1] = study_curve("transformer", x, y[1], n);
    panel = study_panel("the gradient at the key, new models", "tokens between key and answer",
                        "part of that at distance 1", curves, 2);
    panel.log_x = panel.log_y = 1;
    study_curves(s, "signal", &panel, 1, 1);
}

int main(int argc, char **argv)
{
    static double right[2][DISTANCES][SEEDS], far_away[2][SEEDS], times[SEEDS];
    struct study s = study_begin(argc, argv, "recurrence",
                                 "an LSTM and a transformer of the same size");
    int n = s.quick ? 1 : DISTANCES, updates = s.quick ? 40 : 300, all = s.threads, i, k, model;
    int seeds = s.seeds = s.quick ? 1 : s.seeds;
    check_gradients(&s);
    study_columns(&s, "length | threads | LSTM, tokens/s | transformer, tokens/s | times");
    for (i = 0; i < n; i++)
        for (s.threads = 1; s.threads <= all; s.threads += all > 1 ? all - 1 : 1) {
            double speed[2];
            for (k = 0; k < seeds; k++) {
                for (model = 0; model < 2; model++)
                    run(&s, model, distances[i], 1, s.quick ? 4 : 20, &speed[model]);
                times[k] = speed[1] / speed[0];
            }
            study_row(&s, "%d | %d | %.0f | %.0f | %s", distances[i] + 2, s.threads, speed[0],
                      speed[1], study_spread(times, seeds, 1));
        }
    s.threads = all;
    study_table(&s, "memory", "distance | LSTM right, % | transformer right, %");
    for (i = 0; i < n; i++) {
        for (model = 0; model < 2; model++)
            for (k = 0; k < seeds; k++) {
                double speed;
                right[model][i][k] = run(&s, model, distances[i], (uint64_t)k + 1, updates, &speed);
            }
        study_row(&s, "%d | %s | %s", distances[i], study_spread(right[0][i], seeds, 1),
                  study_spread(right[1][i], seeds, 1));
    }
    measure_signal(&s, far_away);
    study_claim(&s, "a transformer trains more than ten times as fast as an LSTM of its size",
                study_above(times, seeds, 10), "%s times at length %d, %d threads",
                study_spread(times, seeds, 1), distances[n - 1] + 2, all);
    study_claim(&s, "an LSTM forgets what is far, a transformer does not",
                study_larger(right[1][n - 1], seeds, right[0][n - 1], seeds),
                "right answers over %d tokens: LSTM %s %%, transformer %s %%", distances[n - 1],
                study_spread(right[0][n - 1], seeds, 1), study_spread(right[1][n - 1], seeds, 1));
    study_claim(&s, "a signal fades on its way through an LSTM, and does not in attention",
                study_larger(far_away[1], seeds, far_away[0], seeds),
                "gradient over %d tokens as a part of that over 1: LSTM %.2g, transformer %.2g",
                ways[(s.quick ? 5 : WAYS) - 1], study_mean(far_away[0], seeds),
                study_mean(far_away[1], seeds));
    return study_end(&s);
}

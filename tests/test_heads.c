/* build: shared double:shared separate:shared long:shared plain:shared */
/* Heads of encoder-only models: logits and losses against plain loops over the encoder's output, gradients against
   finite differences, labels that make no sense, and that training is what it is for other models: any split, any
   thread, any interruption. Built in float, with TRF_DOUBLE, on a separate device, and on the CUDA column. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"

#if defined(TRF_DOUBLE)
#define GRADIENT 1e-6           /* relative, a tensor against central differences */
#define CLOSE    1e-11          /* relative, the same sum in another order */
#define FORMULA  1e-11
#else
#define GRADIENT 5e-2
#define CLOSE    2e-5
#define FORMULA  1e-5
#endif

enum { VOCAB = 13, LABELS = 5, D = 8, MOST = 512, WEIGHTS = 1 << 14, HEADS = 4 };

/* -----------------------------------------------------------------------------------------------
   Models and batches. */

static int bert;        /* 1: models have what BERT has: segments, a layer in the head, a mask of its own */

static trf_label_kind kind;     /* of the labels of sequences; ANY with one label: yes or no */
static int32_t n_kind = LABELS;
static int32_t unasked;         /* so many first sequences have no labels */

static int two_heads;   /* 1: masked models have a second head, for sequences */

static trf_config config_of(trf_head head)
{
    trf_config c = kit_of_kind(kit_small(2, D, VOCAB, 20), TRF_ENCODER_ONLY);
    c.seed = 5;
    c.head = head;
    c.n_labels = head == TRF_HEAD_NONE || head == TRF_HEAD_MASKED ? 0 : LABELS;
    if (trf__pools(&c) && kind) { c.label_kind = kind; c.n_labels = n_kind; }
    if (!bert) return c;
    c.segments = 2;
    c.head_layer = head == TRF_HEAD_FIRST || head == TRF_HEAD_MASKED;
    if (head == TRF_HEAD_MASKED) c.mask = 6;
    if (head == TRF_HEAD_MASKED && two_heads) c.sequence_labels = LABELS;
    return c;
}

/* Only labels of which one holds can be smoothed. */
static trf_train_options training_of(void)
{
    trf_train_options o = kit_small_training(0);
    if (kind) o.label_smoothing = 0;
    return o;
}

static trf_model *model_of(const trf_config *c)
{
    trf_model *model = NULL;
    OK(trf_model_create(&model, c, NULL, &err));
    return model;
}

static trf_trainer *trainer_of(trf_model *model, const trf_train_options *o)
{
    trf_trainer *trainer = NULL;
    OK(trf_trainer_create(&trainer, model, o, &err));
    return trainer;
}

static trf_translator *translator_of(const trf_model *model)
{
    trf_translator *translator = NULL;
    trf_search search = trf_search_defaults();
    search.threads = 1;
    OK(trf_translator_create(&translator, model, &search, &err));
    return translator;
}

typedef struct data {
    int32_t ids[MOST], lengths[64], labels[MOST], n_labels[64];
    trf_batch batch;
} data;

static int32_t draw(uint64_t seed, uint64_t *at, int32_t n)
{
    return (int32_t)(trf__random64(seed, 5, (*at)++) % (uint64_t)n);
}

/* Numbers, or the labels that hold, of sequence i; of one in five none. Returns how many. */
static int32_t fill_numbers(int32_t *to, const trf_config *c, int32_t i, uint64_t seed, uint64_t *at)
{
    int32_t n = 0, k;
    if (i < unasked || draw(seed, at, 12) == 0) { *to = -1; return 1; }
    for (k = 0; k < c->n_labels; k++) {
        if (c->label_kind == TRF_LABELS_NUMBERS) to[n++] = trf_number_label((float)draw(seed, at, 4001) / 1000 - 2);
        else if (draw(seed, at, 2)) to[n++] = k;
    }
    return n;
}

/* Sequences of shortest to longest ids with random labels; one in five is not asked for. Of masked tokens one in
   three is a mask, and is asked for, with one or two more. With segments, one id in five ends one. A second head's
   label comes first. */
static trf_batch fill(data *d, const trf_config *c, int32_t count, int32_t shortest, int32_t longest, uint64_t seed)
{
    int32_t i, k, n = 0, m = 0;
    uint64_t at = 0;
    memset(d, 0, sizeof *d);
    for (i = 0; i < count; i++) {
        int32_t length = d->lengths[i] = shortest + draw(seed, &at, longest - shortest + 1);
        d->n_labels[i] = trf__pools(c) ? 1 : length + (c->sequence_labels > 0);
        if (c->sequence_labels) d->labels[m++] = draw(seed, &at, 5) ? draw(seed, &at, c->sequence_labels) : -1;
        for (k = 0; k < length; k++, n++) {
            d->ids[n] = 4 + draw(seed, &at, VOCAB - 4);
            if (c->segments && k % 5 == 2) d->ids[n] = c->eos;
            if (trf__pools(c)) continue;
            d->labels[m++] = draw(seed, &at, 5) ? draw(seed, &at, trf__n_logits(c)) : -1;
            if (c->head != TRF_HEAD_MASKED) continue;
            d->labels[m - 1] = d->ids[n];
            if (draw(seed, &at, 3) == 0) d->ids[n] = trf__mask_of(c);
            else if (draw(seed, &at, 5)) d->labels[m - 1] = -1;
        }
        if (c->label_kind) { d->n_labels[i] = fill_numbers(d->labels + m, c, i, seed, &at); m += d->n_labels[i]; }
        else if (trf__pools(c)) d->labels[m++] = draw(seed, &at, 5) ? draw(seed, &at, c->n_labels) : -1;
    }
    d->batch.source.ids = d->ids; d->batch.source.lengths = d->lengths; d->batch.source.count = count;
    d->batch.target.ids = d->labels; d->batch.target.lengths = d->n_labels; d->batch.target.count = count;
    return d->batch;
}

/* Moves every weight a little: biases start at 0, where mistakes can hide. */
static void shake(trf_model *model)
{
    int64_t i, n = model->layout.n_weights;
    trf_tensor w = kit_open(kit_there(model, model->weights, n));
    for (i = 0; i < n; i++) w.data[i] += (trf_real)(0.2 * (2 * trf__uniform(99, 5, (uint64_t)i) - 1));
    kit_close(&w);
}

static trf_real *parameter(const trf_model *model, const char *name)
{
    int32_t index = trf_model_parameter_index(model, name);
    assert_true(index >= 0);
    return kit_numbers(trf_model_parameter(model, index));
}

/* What the layer of a head makes of x (D), by a plain loop. `first`: of the second head. */
static void plain_layer(const trf_model *model, int first, double *x)
{
    const trf_config *c = trf_model_config(model);
    trf_real *w = parameter(model, first ? "sequence.layer.weight" : "head.layer.weight");
    trf_real *b = parameter(model, first ? "sequence.layer.bias" : "head.layer.bias");
    double y[D], mean = 0, variance = 0;
    int64_t i, j;
    for (i = 0; i < D; i++) {
        y[i] = (double)b[i];
        for (j = 0; j < D; j++) y[i] += x[j] * (double)w[i * D + j];
        y[i] = first || c->head == TRF_HEAD_FIRST ? tanh(y[i])
            : c->activation == TRF_RELU ? (y[i] > 0 ? y[i] : 0) : y[i] * 0.5 * (1 + erf(y[i] / sqrt(2.0)));
    }
    free(w);
    free(b);
    if (c->head == TRF_HEAD_MASKED && !first) {
        trf_real *gain = parameter(model, "head.norm.weight"), *bias = parameter(model, "head.norm.bias");
        for (i = 0; i < D; i++) mean += y[i] / D;
        for (i = 0; i < D; i++) variance += (y[i] - mean) * (y[i] - mean) / D;
        for (i = 0; i < D; i++)
            y[i] = (y[i] - mean) / sqrt(variance + c->norm_epsilon) * (double)gain[i] + (double)bias[i];
        free(gain);
        free(bias);
    }
    memcpy(x, y, sizeof y);
}

/* The plain loops: logits of all rows of the head, from the encoder's output; into z (rows, vocab). Returns rows. */
static int64_t plain_logits(trf_translator *t, const trf_sequences *x, double *z)
{
    static trf_real hidden[MOST * D];
    const trf_config *c = trf_model_config(t->reader.model);
    trf_real *w = parameter(t->reader.model, c->head == TRF_HEAD_MASKED ? "src_embed.weight" : "head.weight");
    trf_real *b = parameter(t->reader.model, "head.bias");
    int64_t rows = kit_source_rows(t->reader.model, x), row = 0, out = 0, vocab = trf__n_logits(c), k, j, v;
    trf_tensor h = trf_tensor_of(hidden, 2, rows, D, 1);
    int32_t i;
    OK(kit_encode(t, x, &h, &err));
    for (i = 0; i < x->count; i++) {
        int64_t n = x->lengths[i] + c->source_eos, m = c->head == TRF_HEAD_FIRST ? 1 : n;
        for (k = 0; k < (trf__pools(c) ? 1 : n); k++, out++) {
            double mean[D] = {0};
            int64_t r;
            for (j = 0; j < D; j++) {
                if (trf__pools(c)) for (r = 0; r < m; r++) mean[j] += (double)hidden[(row + r) * D + j] / (double)m;
                else mean[j] = (double)hidden[(row + k) * D + j];
            }
            if (c->head_layer) plain_layer(t->reader.model, 0, mean);
            for (v = 0; v < vocab; v++) {
                double sum = (double)b[v];
                for (j = 0; j < D; j++) sum += mean[j] * (double)w[v * D + j];
                z[out * vocab + v] = sum;
            }
        }
        row += n;
    }
    free(w);
    free(b);
    return out;
}

static double log_sum(const double *z, int64_t n)
{
    double sum = 0;
    int64_t i;
    for (i = 0; i < n; i++) sum += exp(z[i]);
    return log(sum);
}

static void near(const char *what, const trf_head head, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance)) fail_msg("%s of head %d: got %.12g, expected %.12g", what, (int)head, got,
                                                   want);
}

#define EVERY_HEAD for (head = two_heads ? TRF_HEAD_MASKED : TRF_HEAD_MEAN; \
                        head <= (kind ? TRF_HEAD_FIRST : TRF_HEAD_MASKED); head = (trf_head)(head + 1))

/* -----------------------------------------------------------------------------------------------
   What they compute. */

/* What trf_reader_classify gives for logit v of a row. */
static double plain_output(const double *z, int64_t n, int64_t v)
{
    if (kind == TRF_LABELS_NUMBERS) return z[v];
    return kind == TRF_LABELS_ANY ? 1 / (1 + exp(-z[v])) : exp(z[v] - log_sum(z, n));
}

/* Logits and probabilities, with EOS and without, in both norm places, with empty sequences where there may be. */
static void test_logits(void **state)
{
    static double want[MOST * VOCAB];
    static trf_real got[MOST * VOCAB];
    static data d;
    trf_head head;
    int eos, pre;
    (void)state;
    EVERY_HEAD for (eos = 0; eos < 2; eos++) for (pre = 0; pre < 2; pre++) {
        trf_config c = config_of(head);
        trf_model *model;
        trf_translator *t;
        trf_batch batch;
        int64_t vocab = trf__n_logits(&c), rows, i, v, row = 0, at = 0;
        trf_tensor out;
        c.source_eos = eos;
        c.norm_place = pre ? TRF_PRE_NORM : TRF_POST_NORM;
        c.final_norm = (trf_final_norm)pre;
        model = model_of(&c);
        shake(model);
        t = translator_of(model);
        batch = fill(&d, &c, 9, eos || !trf__pools(&c) ? 0 : 1, 7, 31);
        rows = plain_logits(t, &batch.source, want);
        assert_true(rows == (trf__pools(&c) ? 9 : kit_source_rows(model, &batch.source)));
        batch.target.count = -7;        /* nobody looks at it */
        batch.target.ids = batch.target.lengths = NULL;
        out = trf_tensor_of(got, 2, rows, vocab, 1);
        OK(kit_logits(t, &batch, &out, &err));
        for (i = 0; i < rows * vocab; i++) near("logit", head, (double)got[i], want[i], 20 * FORMULA);
        if (head != TRF_HEAD_MASKED) {
            int64_t n = trf__pools(&c) ? 9 : rows - 9 * eos;
            out = trf_tensor_of(got, 2, n, vocab, 1);
            OK(trf_reader_classify(trf_translator_reader(t), &batch.source, &out, &err));
            for (i = 0; i < 9; i++) {
                int64_t m = trf__pools(&c) ? 1 : d.lengths[i], k;
                for (k = 0; k < m; k++, at++, row++)
                    for (v = 0; v < vocab; v++)
                        near("probability", head, (double)got[at * vocab + v],
                             plain_output(want + row * vocab, vocab, v),
                             20 * FORMULA);
                row += !trf__pools(&c) && eos;
            }
            assert_true(at == n && row == rows);
        }
        trf_translator_destroy(t);
        trf_model_destroy(model);
    }
}

/* trf_trainer_evaluate against its formula, for each smoothing rule. */
static void test_loss(void **state)
{
    static double z[MOST * VOCAB];
    static data d;
    trf_head head;
    int rule;
    (void)state;
    EVERY_HEAD for (rule = 0; rule < 3; rule++) {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *model = model_of(&c);
        trf_trainer *trainer;
        trf_translator *t;
        trf_batch batch = fill(&d, &c, 9, 0, 9, 41);
        trf_step_report report;
        int64_t vocab = trf__n_logits(&c), at = 0, row = 0, i, k, v, n = 0;
        double e = 0.1, loss = 0, nll = 0, hits = 0;
        o.smoothing_rule = (trf_smoothing)rule;
        shake(model);
        trainer = trainer_of(model, &o);
        t = translator_of(model);
        plain_logits(t, &batch.source, z);
        for (i = 0; i < 9; i++) {
            at += c.sequence_labels > 0;
            for (k = c.sequence_labels > 0; k < d.n_labels[i]; k++, at++, row++) {
                const double *x = z + row * vocab;
                double all = log_sum(x, vocab), others = 0;
                int32_t label = d.labels[at];
                int best = 1;
                if (label < 0) continue;
                for (v = 0; v < vocab; v++) {
                    if (v != label) others -= x[v] - all;
                    best &= x[v] <= x[label];
                }
                n++;
                nll -= x[label] - all;
                hits += best;
                if (rule == TRF_SMOOTH_UNIFORM)
                    loss += (1 - e + e / (double)vocab) * (all - x[label]) + e / (double)vocab * others;
                else loss += (1 - e) * (all - x[label]) + e / (double)(vocab - 1) * others;
                if (rule == TRF_SMOOTH_OTHERS_KL)
                    loss += (1 - e) * log(1 - e) + e * log(e / (double)(vocab - 1));
            }
            row += !trf__pools(&c);
        }
        OK(trf_trainer_evaluate(trainer, &batch, NULL, &report, &err));
        assert_int_equal(report.target_tokens, n);
        assert_int_equal(report.source_tokens, kit_source_rows(model, &batch.source));
        near("loss", head, report.loss - report.sequence_loss, loss / (double)n, 10 * FORMULA);
        near("nll", head, report.nll, nll / (double)n, 10 * FORMULA);
        near("accuracy", head, report.accuracy, hits / (double)n, 1e-12);
        trf_translator_destroy(t);
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
    }
}

/* Binary cross-entropy and the squared error against their formulas, and what counts as right. */
static void test_number_loss(void **state)
{
    static double z[MOST * VOCAB];
    static data d;
    trf_head head;
    (void)state;
    EVERY_HEAD {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *model = model_of(&c);
        trf_trainer *trainer;
        trf_translator *t;
        trf_batch batch = (unasked = 2, fill(&d, &c, 19, 0, 9, 43));
        trf_step_report report, all;
        int32_t at = 0, i, v, k, n = 0, holding = 0;
        double loss = 0, hits = 0;
        unasked = 0;
        o.source_tokens = 40;
        shake(model);
        trainer = trainer_of(model, &o);
        t = translator_of(model);
        plain_logits(t, &batch.source, z);
        for (i = 0; i < 19; at += d.n_labels[i++]) {
            int right = kind == TRF_LABELS_ANY;
            double sum = 0;
            if (d.n_labels[i] == 1 && d.labels[at] == -1) continue;
            for (v = 0; v < c.n_labels; v++) {
                double x = z[i * c.n_labels + v], y = 0;
                for (k = 0; k < d.n_labels[i]; k++) if (d.labels[at + k] == v) y = 1;
                if (kind == TRF_LABELS_NUMBERS) sum += pow(x - (double)trf_label_number(d.labels[at + v]), 2);
                else sum -= y > 0 ? log(1 / (1 + exp(-x))) : log(1 / (1 + exp(x)));
                right &= (x >= 0) == (y > 0);
                holding += y > 0;
            }
            n++;
            loss += sum / c.n_labels;
            hits += right;
        }
        OK(kit_evaluate_whole(trainer, &batch, &report, &err));
        assert_true(n > 10 && n < 19 && (kind == TRF_LABELS_NUMBERS || (holding > 0 && holding < n * c.n_labels)));
        assert_int_equal(report.target_tokens, n);
        assert_int_equal(report.source_tokens, kit_source_rows(model, &batch.source));
        near("loss", head, report.loss, loss / n, 10 * FORMULA * (1 + loss / n));
        near("nll", head, report.nll, loss / n, 10 * FORMULA * (1 + loss / n));
        near("accuracy", head, report.accuracy, hits / n, 1e-12);
        OK(trf_trainer_evaluate(trainer, &batch, NULL, &all, &err));        /* in several batches */
        assert_true(batch.source.count > o.sequences || kit_source_rows(model, &batch.source) > o.source_tokens);
        assert_int_equal(all.target_tokens, n);
        near("loss of all", head, all.loss, report.loss, 10 * CLOSE * (1 + loss / n));
        near("accuracy of all", head, all.accuracy, hits / n, 1e-12);
        trf_translator_destroy(t);
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
    }
}

/* Labels that make no sense are refused, each at its index, and change nothing; logits, and so outputs and losses, of
   any size stay numbers. */
static void test_number_refusals(void **state)
{
    static const int32_t ids[] = {5, 6, 7, 8}, lengths[] = {2, 2};
    int32_t labels[2 * LABELS + 1], n_labels[2], i;
    trf_config c = config_of(TRF_HEAD_FIRST);
    trf_train_options o = training_of();
    trf_model *model = model_of(&c);
    trf_trainer *t = trainer_of(model, &o);
    trf_step_report report;
    trf_batch b;
    const float bad[] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
    const int numbers = kind == TRF_LABELS_NUMBERS;
    (void)state;
    memset(&b, 0, sizeof b);
    b.source.ids = ids; b.source.lengths = lengths; b.source.count = 2;
    b.target.ids = labels; b.target.lengths = n_labels; b.target.count = 2;
    for (i = 0; i < LABELS; i++) labels[i] = labels[LABELS + i] = numbers ? trf_number_label((float)i) : i;
    n_labels[0] = n_labels[1] = LABELS;
    OK(trf_trainer_evaluate(t, &b, NULL, &report, &err));
    for (i = 0; i < 3 && numbers; i++) {
        labels[LABELS + 2] = trf_number_label(bad[i]);
        FAILS(trf_trainer_step(t, &b, &report, &err), TRF_E_INVALID_ARG, "target", LABELS + 2);
    }
    labels[LABELS + 2] = -1;                    /* not alone */
    FAILS(trf_trainer_step(t, &b, &report, &err), TRF_E_INVALID_ARG, "target", LABELS + 2);
    if (numbers) labels[LABELS + 2] = trf_number_label(-0.0f);
    else {
        labels[LABELS + 2] = LABELS;
        FAILS(trf_trainer_step(t, &b, &report, &err), TRF_E_INVALID_ARG, "target", LABELS + 2);
        labels[LABELS + 2] = 1;                 /* twice */
        FAILS(trf_trainer_step(t, &b, &report, &err), TRF_E_INVALID_ARG, "target", LABELS + 2);
        labels[LABELS + 2] = 0;
        FAILS(trf_trainer_step(t, &b, &report, &err), TRF_E_INVALID_ARG, "target", LABELS + 2);
        labels[LABELS + 2] = 2;
    }
    n_labels[1] = LABELS + 1;
    FAILS(trf_trainer_step(t, &b, &report, &err), TRF_E_INVALID_ARG, "target", 1);
    n_labels[1] = -1;
    FAILS(trf_trainer_step(t, &b, &report, &err), TRF_E_INVALID_ARG, "target", 1);
    n_labels[1] = LABELS - 1;                   /* one number is missing; of labels any number may hold */
    if (numbers) FAILS(trf_trainer_step(t, &b, &report, &err), TRF_E_INVALID_ARG, "target", 1);
    else OK(trf_trainer_evaluate(t, &b, NULL, &report, &err));
    n_labels[0] = n_labels[1] = 0;
    b.target.ids = NULL;
    if (numbers) FAILS(trf_trainer_step(t, &b, &report, &err), TRF_E_INVALID_ARG, "target", 0);
    else OK(trf_trainer_evaluate(t, &b, NULL, &report, &err));        /* none holds */
    b.target.ids = labels;
    n_labels[0] = n_labels[1] = 1;
    labels[0] = labels[1] = -1;
    OK(trf_trainer_evaluate(t, &b, NULL, &report, &err));
    assert_true(report.target_tokens == 0 && report.loss == 0);
    FAILS(trf_trainer_step(t, &b, NULL, &err), TRF_E_STATE, "tokens", 0);
    assert_int_equal(kit_updates(t), 0);
    if (numbers) {                              /* a gradient that cannot be squared: the step is skipped */
        for (i = 0; i < LABELS; i++) labels[i] = trf_number_label(3e38f);
        n_labels[0] = LABELS;
        labels[LABELS] = -1;
        OK(trf_trainer_step(t, &b, &report, &err));
        assert_int_equal(report.skipped, sizeof(trf_real) == 4);
    }
    o.label_smoothing = 0.1;
    FAILS(trf_trainer_set_options(t, &o, &err), TRF_E_INVALID_ARG, "label_smoothing", -1);
    trf_trainer_destroy(t);
    trf_model_destroy(model);
}

/* Logits far from 0: losses, outputs and gradients stay what they are near it. */
static void test_number_extremes(void **state)
{
    static const int32_t ids[] = {5, 6}, lengths[] = {1, 1}, none[] = {0, LABELS};
    static const double sizes[] = {1, 30, 100, 1e4, 1e15};
    int32_t labels[LABELS], i;
    trf_config c = config_of(TRF_HEAD_MEAN);
    trf_train_options o = training_of();
    trf_model *model = model_of(&c);
    trf_trainer *t = trainer_of(model, &o);
    trf_translator *translator;
    trf_real got[2 * LABELS], *w;
    trf_tensor out = trf_tensor_of(got, 2, 2, LABELS, 1), bias, g;
    trf_step_report report;
    trf_batch b;
    size_t k;
    int sign;
    (void)state;
    memset(&b, 0, sizeof b);
    b.source.ids = ids; b.source.lengths = lengths; b.source.count = 2;
    b.target.ids = labels; b.target.lengths = none; b.target.count = 2;
    for (i = 0; i < LABELS; i++) labels[i] = i;
    out.data = got;
    for (i = 0; i < trf_model_parameter_count(model); i++) {    /* logits are the bias alone */
        trf_tensor p = trf_trainer_tensor(t, TRF_PARAMETER, i);
        w = (trf_real *)calloc((size_t)trf_tensor_count(&p), sizeof *w);
        if (strstr(p.name, "head.weight")) OK(trf_tensor_write(&p, w, trf_tensor_count(&p), &err));
        free(w);
    }
    for (k = 0; k < sizeof sizes / sizeof *sizes; k++) for (sign = -1; sign < 2; sign += 2) {
        double z = sign * sizes[k], s = 1 / (1 + exp(-z)), loss = (log1p(exp(-fabs(z))) * 2 + fabs(z)) / 2;
        trf_real values[LABELS];
        for (i = 0; i < LABELS; i++) values[i] = (trf_real)z;
        bias = trf_trainer_tensor(t, TRF_PARAMETER, trf_model_parameter_index(model, "head.bias"));
        OK(trf_tensor_write(&bias, values, LABELS, &err));
        OK(trf_trainer_forward_backward(t, &b, &report, &err));
        /* the first has no label, the second all: z >= 0 is right of one of them */
        near("loss", TRF_HEAD_MEAN, report.loss / loss, 1, 10 * FORMULA);
        near("accuracy", TRF_HEAD_MEAN, report.accuracy, 0.5, 1e-12);
        g = trf_trainer_tensor(t, TRF_GRADIENT, trf_model_parameter_index(model, "head.bias"));
        OK(trf_tensor_read(&g, values, LABELS, &err));
        for (i = 0; i < LABELS; i++) near("gradient", TRF_HEAD_MEAN, (double)values[i], (2 * s - 1) / LABELS,
                                          10 * FORMULA);
        trf_trainer_discard_gradients(t);
        translator = translator_of(model);
        OK(trf_reader_classify(trf_translator_reader(translator), &b.source, &out, &err));
        for (i = 0; i < 2 * LABELS; i++) near("output", TRF_HEAD_MEAN, (double)got[i], s, 10 * FORMULA);
        trf_translator_destroy(translator);
    }
    trf_trainer_destroy(t);
    trf_model_destroy(model);
}

/* Which configurations there are. */
static void test_kinds(void **state)
{
    trf_head head;
    int32_t k, n;
    (void)state;
    for (head = TRF_HEAD_NONE; head <= TRF_HEAD_MASKED; head = (trf_head)(head + 1)) for (k = -1; k < 4; k++)
        for (n = 0; n < 3; n++) {
            trf_config c = config_of(head);
            int pools = head == TRF_HEAD_MEAN || head == TRF_HEAD_FIRST;
            c.label_kind = (trf_label_kind)k;
            if (c.n_labels) c.n_labels = n;
            if (k < 0 || k > 2 || (k && !pools)) FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "label_kind", -1);
            else if (c.head && c.head != TRF_HEAD_MASKED && n < (k ? 1 : 2))
                FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "n_labels", -1);
            else OK(trf_config_check(&c, NULL, &err));
        }
    assert_true(trf_number_label(1) == 0x3F800000 && trf_label_number(trf_number_label(-2.5f)) == -2.5f);
    assert_true(trf_label_number(-1) != trf_label_number(-1));
}

/* The loss of the same step, dropout's masks included: it follows from the step and the seed. With a second head in
   two parts, each of which weighs the labels of its sequences by its own tokens. */
static double loss_sum(trf_trainer *t, const trf_batch *batch)
{
    trf_step_report report;
    double sum = 0;
    int32_t i, half = two_heads ? batch->source.count / 2 : batch->source.count;
    trf_trainer_discard_gradients(t);
    for (i = 0; i < batch->source.count; i += half, half = batch->source.count - i) {
        trf_batch part = kit_slice(batch, i, half);
        part.ordinal = 0;               /* counted by the trainer */
        OK(trf_trainer_forward_backward(t, &part, &report, &err));
        sum += report.loss * (double)report.target_tokens;
    }
    return sum;
}

static void test_gradients(void **state)
{
    static trf_real gradient[WEIGHTS], moved[WEIGHTS];
    static data d;
    trf_head head;
    int pre;
    (void)state;
    EVERY_HEAD for (pre = 0; pre < 2; pre++) {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *model;
        trf_trainer *t;
        trf_batch batch;
        int32_t index;
        c.norm_place = pre ? TRF_PRE_NORM : TRF_POST_NORM;
        c.final_norm = (trf_final_norm)!pre;
        c.activation = TRF_GELU;
        c.source_eos = pre;
        c.positions = pre ? TRF_POSITIONS_LEARNED : TRF_POSITIONS_INTERLEAVED;
        if (pre) trf_train_set_dropout(&o, 0.1);
        model = model_of(&c);
        shake(model);
        t = trainer_of(model, &o);
        batch = fill(&d, &c, 5, 1, 6, 51);
        for (index = 0; index < trf_model_parameter_count(model); index++) {
            trf_tensor w = trf_trainer_tensor(t, TRF_PARAMETER, index), g = trf_trainer_tensor(t, TRF_GRADIENT, index);
            int64_t n = trf_tensor_count(&w), i;
            trf_real *old = kit_numbers(w);
            double want = 0, difference = 0, h = 1e-5, slope;
            assert_true(n <= WEIGHTS);
            loss_sum(t, &batch);
            OK(trf_tensor_read(&g, gradient, n, &err));
            memcpy(moved, old, (size_t)n * sizeof *old);
#if defined(TRF_DOUBLE)
            for (i = 0; i < n; i += n > 50 ? 7 : 1) {
                moved[i] = old[i] + h;
                OK(trf_tensor_write(&w, moved, n, &err));
                slope = loss_sum(t, &batch);
                moved[i] = old[i] - h;
                OK(trf_tensor_write(&w, moved, n, &err));
                slope = (slope - loss_sum(t, &batch)) / (2 * h);
                moved[i] = old[i];
                want += slope * slope;
                difference += (slope - gradient[i]) * (slope - gradient[i]);
            }
#else
            {
                double length = 0;
                h = 1e-3;
                for (i = 0; i < n; i++) length += (double)gradient[i] * (double)gradient[i];
                length = sqrt(length);
                for (i = 0; i < n; i++) moved[i] = old[i] + (trf_real)(h * (double)gradient[i] / length);
                OK(trf_tensor_write(&w, moved, n, &err));
                slope = loss_sum(t, &batch);
                for (i = 0; i < n; i++) moved[i] = old[i] - (trf_real)(h * (double)gradient[i] / length);
                OK(trf_tensor_write(&w, moved, n, &err));
                slope = (slope - loss_sum(t, &batch)) / (2 * h);
                want = slope * slope;
                difference = (slope - length) * (slope - length);
            }
#endif
            OK(trf_tensor_write(&w, old, n, &err));
            free(old);
            assert_true(want > 1e-9);
            if (!(sqrt(difference / want) <= GRADIENT))
                fail_msg("head %d, pre %d: gradient of %s is %.2e off", (int)head, pre, w.name,
                         sqrt(difference / want));
        }
        trf_trainer_destroy(t);
        trf_model_destroy(model);
    }
}

/* -----------------------------------------------------------------------------------------------
   Training is what it is elsewhere. */

static double norm_distance(const trf_real *a, const trf_real *b, int64_t n)
{
    double difference = 0, size = 0;
    int64_t i;
    for (i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / size);
}

/* The gradients of a step, whole and in parts, are the same sum, dropout included. */
static void test_parts(void **state)
{
    static trf_real whole[WEIGHTS], sum[WEIGHTS];
    static data d;
    trf_head head;
    (void)state;
    EVERY_HEAD {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *model = model_of(&c);
        trf_trainer *t;
        trf_batch batch = fill(&d, &c, 9, 1, 9, 61), part;
        trf_step_report report;
        int64_t n = model->layout.n_weights;
        int32_t first;
        trf_train_set_dropout(&o, 0.2);
        t = trainer_of(model, &o);
        OK(trf_trainer_forward_backward(t, &batch, &report, &err));
        kit_get(model, whole, t->gradients, n);
        trf_trainer_discard_gradients(t);
        for (first = 0; first < 9; first += 3) {
            part = kit_slice(&batch, first, 3);
            part.ordinal = 0;           /* counted by the trainer */
            OK(trf_trainer_forward_backward(t, &part, NULL, &err));
        }
        kit_get(model, sum, t->gradients, n);
        near("difference of parts", head, norm_distance(sum, whole, n), 0, 10 * CLOSE);
        OK(trf_trainer_update(t, &report, &err));
        assert_int_equal(report.skipped, 0);
        assert_true(report.target_tokens > 0);
        trf_trainer_destroy(t);
        trf_model_destroy(model);
    }
}

#if !defined(KIT_ON_CUDA) && !defined(TRF__TEST_BACKEND)
typedef struct pair { trf_trainer *a, *b; } pair;
static int add_other(void *user, trf_real *gradients, size_t count, void *stream)
{
    const pair *p = (const pair *)user;
    const trf_real *other = p->b->gradients + (gradients - p->a->gradients);
    size_t i;
    (void)stream;
    for (i = 0; i < count; i++) gradients[i] += other[i];
    return 0;
}

/* Two ranks of which one has no label at all, against one trainer that sees everything. */
static void test_ranks(void **state)
{
    static data d;
    trf_head head;
    (void)state;
    EVERY_HEAD {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *models[3];
        trf_batch batch = (unasked = 4, fill(&d, &c, 8, 1, 9, 71)), part;
        trf_step_report reports[2];
        trf_trainer *alone;
        pair p;
        int64_t i, n = 0;
        unasked = 0;
        for (i = 0; i < 4; i++) n += d.n_labels[i];
        for (i = 0; i < n; i++) d.labels[i] = -1;
        for (i = 0; i < 3; i++) models[i] = model_of(&c);
        o.epsilon = 1e-3;               /* a gradient that is only rounding moves nothing */
        alone = trainer_of(models[0], &o);
        OK(trf_trainer_step(alone, &batch, &reports[0], &err));
        o.n_ranks = 2; o.all_reduce = add_other; o.user = &p;
        p.a = trainer_of(models[1], &o);
        o.rank = 1;
        p.b = trainer_of(models[2], &o);
        part = kit_slice(&batch, 4, 4);
        OK(trf_trainer_forward_backward(p.b, &part, NULL, &err));
        part = kit_slice(&batch, 0, 4);
        OK(trf_trainer_forward_backward(p.a, &part, NULL, &err));
        OK(trf_trainer_update(p.a, &reports[1], &err));
        assert_int_equal(reports[0].target_tokens, reports[1].target_tokens);
        assert_int_equal(reports[0].source_tokens, reports[1].source_tokens);
        near("loss of ranks", head, reports[1].loss, reports[0].loss, 10 * CLOSE);
        near("norm of ranks", head, reports[1].gradient_norm, reports[0].gradient_norm, 10 * CLOSE);
        near("weights of ranks", head, norm_distance(models[1]->weights, models[0]->weights,
                                                     models[0]->layout.n_weights), 0, 1e-3);
        trf_trainer_destroy(alone);
        trf_trainer_destroy(p.a);
        trf_trainer_destroy(p.b);
        for (i = 0; i < 3; i++) trf_model_destroy(models[i]);
    }
}
#endif

/* Batches of several sizes, some beyond the plan, which grows. */
static KIT_UNUSED uint64_t train(trf_trainer *t, int first, int last)
{
    static data d;
    int step;
    for (step = first; step < last; step++) {
        trf_batch batch = fill(&d, trf_model_config(t->model), 2 + 5 * (step % 4), 1, 6 + step % 9, (uint64_t)step);
        OK(trf_trainer_step(t, &batch, NULL, &err));
    }
    return hash_state(t);
}

static KIT_UNUSED void test_same_bits(void **state)
{
    static const int32_t threads[] = {2, 3, 8};
    trf_head head;
    size_t i;
    (void)state;
    EVERY_HEAD {
        uint64_t alone = 0;
        for (i = 0; i <= 3; i++) {
            trf_config c = config_of(head);
            trf_train_options o = training_of();
            trf_model *model = model_of(&c);
            trf_trainer *t;
            uint64_t got;
            trf_train_set_dropout(&o, 0.1);
            o.threads = i ? threads[i - 1] : 1;
            t = trainer_of(model, &o);
            got = train(t, 1, 5);
            if (i == 0) alone = got;
            if (got != alone) fail_msg("head %d: %d threads give other bits", (int)head, (int)o.threads);
            trf_trainer_destroy(t);
            trf_model_destroy(model);
        }
    }
}

/* A corpus with labels, -1 among them, within the limits of its batches; a run that is interrupted and goes on from
   a checkpoint is the same bits. */
static trf_corpus *corpus_of(const trf_config *c)
{
    static data d;
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *corpus = NULL;
    int32_t at = 0, label = 0, i;
    trf_batch batch = fill(&d, c, 40, 1, 9, 81);
    o.batch_tokens = 40;
    OK(trf_corpus_create(&corpus, &o, &err));
    for (i = 0; i < batch.source.count; i++) {
        OK(trf_corpus_add(corpus, d.ids + at, d.lengths[i], d.labels + label, d.n_labels[i], &err));
        at += d.lengths[i];
        label += d.n_labels[i];
    }
    return corpus;
}

static void steps(trf_trainer *t, trf_corpus *corpus, int n)
{
    trf_batch batch;
    for (; n > 0; n--) {
        int64_t rows;
        OK(trf_corpus_next(corpus, &batch, &err));
        rows = kit_source_rows(t->model, &batch.source);
        assert_true(rows <= 40);
        OK(trf_trainer_step(t, &batch, NULL, &err));
    }
}

static void test_resume(void **state)
{
    char path[64];
    trf_head head;
    (void)state;
    snprintf(path, sizeof path, "/tmp/test_heads_%ld", (long)getpid());
    EVERY_HEAD {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_load_options load = trf_load_defaults();
        trf_model *model = model_of(&c), *again = NULL;
        trf_corpus *corpus = corpus_of(&c), *other = corpus_of(&c);
        trf_trainer *t, *back = NULL;
        const trf_config *read;
        trf_train_set_dropout(&o, 0.1);
        load.device.threads = 1;
        t = trainer_of(model, &o);
        steps(t, corpus, 9);
        OK(trf_checkpoint_save(t, corpus, path, NULL, &err));
        OK(trf_checkpoint_load(&again, &back, other, path, &o, &load, &err));
        read = trf_model_config(again);
        assert_true(read->head == head && read->n_labels == c.n_labels && read->kind == TRF_ENCODER_ONLY);
        assert_true(hash_state(t) == hash_state(back));
        steps(t, corpus, 7);
        steps(back, other, 7);
        assert_true(hash_state(t) == hash_state(back));
        trf_trainer_destroy(t);
        trf_trainer_destroy(back);
        trf_model_destroy(model);
        trf_model_destroy(again);
        trf_corpus_destroy(corpus);
        trf_corpus_destroy(other);
    }
    unlink(path);
}

static int countdown;
static int cancel(void *user) { (void)user; return countdown > 0 && --countdown == 0; }

/* A step that is cancelled, wherever it is, has done nothing. */
static void test_cancel(void **state)
{
    static data d;
    trf_head head;
    (void)state;
    EVERY_HEAD {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *model = model_of(&c);
        trf_batch batch = fill(&d, &c, 5, 1, 9, 91);
        trf_trainer *t;
        uint64_t before;
        int at, cancelled = 0;
        o.hooks.cancel = cancel;
        t = trainer_of(model, &o);
        OK(trf_trainer_step(t, &batch, NULL, &err));
        before = hash_state(t);
        for (at = 1; at < 50; at++) {
            trf_status status;
            countdown = at;
            status = trf_trainer_forward_backward(t, &batch, NULL, &err);
            if (status == TRF_OK) break;
            assert_int_equal(status, TRF_E_CANCELLED);
            assert_true(hash_state(t) == before);
            assert_int_equal(trf_trainer_update(t, NULL, &err), TRF_E_STATE);
            cancelled++;
        }
        countdown = 0;
        assert_true(cancelled >= (KIT_ASKS_ONCE ? 1 : 5) && at < 50);
        trf_trainer_destroy(t);
        trf_model_destroy(model);
    }
}

/* -----------------------------------------------------------------------------------------------
   A second head beside the masked one. */

/* Its probabilities and its loss, against a plain loop over the encoder's output. */
static void test_second(void **state)
{
    enum { COUNT = 9 };
    static trf_real hidden[MOST * D], got[COUNT * LABELS];
    static data d;
    int layer;
    (void)state;
    for (layer = 0; layer < 2; layer++) {
        trf_config c = config_of(TRF_HEAD_MASKED);
        trf_train_options o = training_of();
        trf_model *model;
        trf_translator *t;
        trf_trainer *trainer;
        trf_step_report report, all;
        trf_batch batch;
        trf_tensor h, out;
        trf_real *w, *b;
        double loss = 0, hits = 0;
        int64_t row = 0, at = 0;
        int32_t i, k, v, n = 0;
        c.head_layer = layer;
        c.source_bos = 1;
        o.source_tokens = 20;
        model = model_of(&c);
        shake(model);
        t = translator_of(model);
        trainer = trainer_of(model, &o);
        batch = fill(&d, &c, COUNT, 0, 7, 35);
        w = parameter(model, "sequence.weight");
        b = parameter(model, "sequence.bias");
        h = trf_tensor_of(hidden, 2, kit_source_rows(model, &batch.source), D, 1);
        out = trf_tensor_of(got, 2, COUNT, LABELS, 1);
        OK(kit_encode(t, &batch.source, &h, &err));
        OK(trf_reader_classify(trf_translator_reader(t), &batch.source, &out, &err));
        for (i = 0; i < COUNT; row += 2 + d.lengths[i], at += d.n_labels[i], i++) {
            double x[D], z[LABELS], others = 0, total;
            int32_t label = d.labels[at];
            int best = 1;
            for (k = 0; k < D; k++) x[k] = (double)hidden[row * D + k];
            if (layer) plain_layer(model, 1, x);
            for (v = 0; v < LABELS; v++)
                for (z[v] = (double)b[v], k = 0; k < D; k++) z[v] += x[k] * (double)w[v * D + k];
            total = log_sum(z, LABELS);
            for (v = 0; v < LABELS; v++)
                near("class", TRF_HEAD_MASKED, (double)got[i * LABELS + v], exp(z[v] - total), 10 * FORMULA);
            if (label < 0) continue;
            for (v = 0; v < LABELS; v++) { others += total - z[v]; best &= z[v] <= z[label]; }
            loss += (1 - o.label_smoothing) * (total - z[label]) + o.label_smoothing / LABELS * others;
            hits += best;
            n++;
        }
        OK(kit_evaluate_whole(trainer, &batch, &report, &err));
        assert_true(n > 3 && n < COUNT && o.label_smoothing > 0);
        assert_int_equal(report.sequence_targets, n);
        near("loss of sequences", TRF_HEAD_MASKED, report.sequence_loss, loss / n, 10 * FORMULA);
        near("accuracy of sequences", TRF_HEAD_MASKED, report.sequence_accuracy, hits / n, 1e-12);
        OK(trf_trainer_evaluate(trainer, &batch, NULL, &all, &err));        /* in two batches */
        assert_true(kit_source_rows(model, &batch.source) > o.source_tokens);
        assert_int_equal(all.sequence_targets, n);
        assert_int_equal(all.target_tokens, report.target_tokens);
        near("loss of all", TRF_HEAD_MASKED, all.loss, report.loss, 10 * CLOSE);
        near("loss of all sequences", TRF_HEAD_MASKED, all.sequence_loss, loss / n, 10 * FORMULA);
        near("accuracy of all", TRF_HEAD_MASKED, all.sequence_accuracy, hits / n, 1e-12);
        free(w);
        free(b);
        trf_trainer_destroy(trainer);
        trf_translator_destroy(t);
        trf_model_destroy(model);
    }
}

/* The gradients of a batch in three parts are those of the whole batch, though the first part has no label of a token
   and the last one none of a sequence: both means are over the whole batch. */
static void test_second_parts(void **state)
{
    enum { COUNT = 9, PARTS = 3 };
    static trf_real whole[WEIGHTS], sum[WEIGHTS], part[WEIGHTS];
    static data d;
    trf_config c = config_of(TRF_HEAD_MASKED);
    trf_train_options o = training_of();
    trf_model *models[2];
    trf_trainer *t[2];
    trf_step_report reports[2];
    trf_batch batch = fill(&d, &c, COUNT, 5, 5, 61);
    int64_t n, k;
    int32_t i;
    (void)state;
    for (i = 0; i < COUNT; i++) {
        if (i < 3) for (k = 1; k < 6; k++) d.labels[6 * i + k] = -1;
        d.labels[6 * i] = i < 6 ? i % LABELS : -1;
    }
    trf_train_set_dropout(&o, 0.2);
    for (i = 0; i < 2; i++) {
        models[i] = model_of(&c);
        t[i] = trainer_of(models[i], &o);
        OK(trf_trainer_forward_backward(t[i], &batch, &reports[i], &err));
        o.parts = PARTS;
    }
    n = models[0]->layout.n_weights;
    kit_get(models[0], whole, t[0]->gradients, n);
    memset(sum, 0, sizeof sum);
    for (i = 0; i < PARTS; i++) {
        kit_get(models[1], part, trf__round_gradients(t[1], i), n);
        for (k = 0; k < n; k++) sum[k] += part[k];
    }
    near("gradients of parts", TRF_HEAD_MASKED, norm_distance(sum, whole, n), 0, 10 * CLOSE);
    assert_int_equal(reports[0].sequence_targets, 6);
    assert_int_equal(reports[1].sequence_targets, 6);
    near("loss of parts", TRF_HEAD_MASKED, reports[1].loss, reports[0].loss, 10 * CLOSE);
    near("loss of parts", TRF_HEAD_MASKED, reports[1].sequence_loss, reports[0].sequence_loss, 10 * CLOSE);
    near("accuracy", TRF_HEAD_MASKED, reports[1].sequence_accuracy, reports[0].sequence_accuracy, 1e-12);
    for (i = 0; i < 2; i++) OK(trf_trainer_update(t[i], &reports[i], &err));
    near("norm of parts", TRF_HEAD_MASKED, reports[1].gradient_norm, reports[0].gradient_norm, 10 * CLOSE);
    near("loss of the update", TRF_HEAD_MASKED, reports[1].sequence_loss, reports[0].sequence_loss, 10 * CLOSE);
    assert_int_equal(reports[1].sequence_targets, 6);
    for (i = 0; i < 2; i++) {
        trf_trainer_destroy(t[i]);
        trf_model_destroy(models[i]);
    }
}

/* What its labels may not be, and what its model may. */
static void test_second_refusals(void **state)
{
    static data d;
    static trf_real numbers[MOST * VOCAB];
    trf_config c = config_of(TRF_HEAD_MASKED);
    trf_train_options o = training_of();
    trf_model *model = model_of(&c);
    trf_trainer *t = trainer_of(model, &o);
    trf_translator *asked = translator_of(model);
    trf_batch batch = fill(&d, &c, 4, 2, 6, 101);
    trf_step_report report;
    trf_tensor out = trf_tensor_of(numbers, 2, 4, LABELS + 1, 1), w;
    int32_t second_label = d.n_labels[0], i, at;
    uint64_t before = hash_state(t);
    (void)state;
    d.labels[second_label] = LABELS;
    FAILS(trf_trainer_step(t, &batch, NULL, &err), TRF_E_INVALID_ARG, "target", second_label);
    assert_non_null(strstr(err.message, "sequence 1, position 0: a label must be -1 or 0 to 4, got 5"));
    d.labels[second_label] = -2;
    FAILS(trf_trainer_step(t, &batch, NULL, &err), TRF_E_INVALID_ARG, "target", second_label);
    d.labels[second_label] = 0;
    d.n_labels[2]--;
    FAILS(trf_trainer_step(t, &batch, NULL, &err), TRF_E_INVALID_ARG, "target", 2);
    d.n_labels[2]++;
    FAILS(trf_reader_classify(trf_translator_reader(asked), &batch.source, &out, &err), TRF_E_SHAPE, "probabilities", -1);
    FAILS(trf_reader_classify(trf_translator_reader(asked), NULL, &out, &err), TRF_E_INVALID_ARG, "sources", -1);
    assert_true(hash_state(t) == before);
    for (i = at = 0; i < 4; at += d.n_labels[i++]) d.labels[at] = -1;       /* no label of a sequence */
    OK(trf_trainer_step(t, &batch, &report, &err));
    assert_true(report.sequence_targets == 0 && report.sequence_loss == 0 && report.target_tokens > 0);
    for (i = 0; i < MOST; i++) d.labels[i] = -1;                            /* labels of sequences alone */
    for (i = at = 0; i < 4; at += d.n_labels[i++]) d.labels[at] = 1;
    FAILS(trf_trainer_step(t, &batch, NULL, &err), TRF_E_STATE, "tokens", kit_updates(t));
    d.labels[1] = 5;
    w = kit_open(trf_trainer_tensor(t, TRF_PARAMETER, trf_model_parameter_index(model, "sequence.bias")));
    w.data[0] = (trf_real)NAN;                                              /* its loss is looked at too */
    kit_close(&w);
    OK(trf_trainer_step(t, &batch, &report, &err));
    assert_true(report.skipped && report.nll - report.nll == 0 && report.sequence_loss != report.sequence_loss);
    trf_translator_destroy(asked);
    trf_trainer_destroy(t);
    trf_model_destroy(model);
    c.sequence_labels = 1;
    FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "sequence_labels", -1);
    c.sequence_labels = (1 << 24) + 1;
    FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "sequence_labels", -1);
    c.sequence_labels = -1;
    FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "sequence_labels", -1);
    c = config_of(TRF_HEAD_FIRST);
    c.sequence_labels = 2;
    FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "sequence_labels", -1);
    c = config_of(TRF_HEAD_MASKED);
    c.source_eos = 0;
    model = model_of(&c);
    t = trainer_of(model, &o);
    batch = fill(&d, &c, 2, 0, 0, 1);                                       /* no row that could be labelled */
    FAILS(trf_trainer_step(t, &batch, NULL, &err), TRF_E_INVALID_ARG, "source", 0);
    trf_trainer_destroy(t);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   They learn: whether a sequence has more large ids than small ones, its first id, how large each id is, and which id
   is missing in a row of successors. */

static KIT_UNUSED void test_learning(void **state)
{
    trf_head head;
    (void)state;
    EVERY_HEAD {
        static data d;
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *model;
        trf_trainer *t;
        trf_step_report report;
        int step, most = head == TRF_HEAD_MASKED ? 500 : 250;
        o.schedule = TRF_CONSTANT;
        o.learning_rate = 0.01;
        c.d_ff = 32;
        model = model_of(&c);
        t = trainer_of(model, &o);
        for (step = 0; step <= most; step++) {
            trf_batch batch = fill(&d, &c, 16, 3, 7, (uint64_t)step);
            int32_t i, k, at = 0, large;
            for (i = 0; i < 16; i++) {
                int32_t start = 4 + (int32_t)(trf__random64(7, 7, (uint64_t)(step * 16 + i)) % 9);
                for (k = large = 0; k < d.lengths[i]; k++, at++) {
                    if (head == TRF_HEAD_MASKED) {
                        d.labels[at] = d.ids[at] = 4 + (start - 4 + k) % 9;
                        if (k == d.lengths[i] / 2) d.ids[at] = c.pad; else d.labels[at] = -1;
                    } else if (head == TRF_HEAD_TOKENS) d.labels[at] = (d.ids[at] - 4) / 3;
                    large += d.ids[at] >= 8;
                }
                if (head == TRF_HEAD_MEAN) d.labels[i] = 2 * large > d.lengths[i];
                if (head == TRF_HEAD_FIRST) d.labels[i] = (d.ids[at - d.lengths[i]] - 4) % 4;
            }
            if (step < most) OK(trf_trainer_step(t, &batch, NULL, &err));
            else OK(trf_trainer_evaluate(t, &batch, NULL, &report, &err));
        }
        if (!(report.accuracy >= 0.9)) fail_msg("head %d: accuracy %g, loss %g", (int)head, report.accuracy,
                                                report.loss);
        trf_trainer_destroy(t);
        trf_model_destroy(model);
    }
}

/* -----------------------------------------------------------------------------------------------
   What a caller may do wrong. */

static void test_labels(void **state)
{
    static data d;
    trf_head head;
    (void)state;
    EVERY_HEAD {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *model = model_of(&c);
        trf_trainer *t = trainer_of(model, &o);
        trf_batch good = fill(&d, &c, 5, 2, 6, 101), bad;
        const int32_t wrong[] = {-2, INT32_MIN, trf__n_logits(&c), INT32_MAX};
        int32_t old, at = trf__pools(&c) ? 3 : d.lengths[0] + d.lengths[1] + 1;
        uint64_t before = hash_state(t);
        int i;
        for (i = 0; i < 4; i++) {
            old = d.labels[at];
            d.labels[at] = wrong[i];
            FAILS(trf_trainer_step(t, &good, NULL, &err), TRF_E_INVALID_ARG, "target", at);
            assert_true(strstr(err.message, "label") != NULL);
            FAILS(trf_trainer_evaluate(t, &good, NULL, NULL, &err), TRF_E_INVALID_ARG, "target", at);
            d.labels[at] = old;
        }
        for (i = -3; i < 4; i++) {          /* too few, too many, less than none */
            if (i == 0) continue;
            d.n_labels[2] += i;
            FAILS(trf_trainer_step(t, &good, NULL, &err), TRF_E_INVALID_ARG, "target", 2);
            d.n_labels[2] -= i;
        }
        bad = good; bad.target.count = 4;
        FAILS(trf_trainer_step(t, &bad, NULL, &err), TRF_E_INVALID_ARG, "target", -1);
        bad = good; bad.target.lengths = NULL;
        FAILS(trf_trainer_step(t, &bad, NULL, &err), TRF_E_INVALID_ARG, "target", -1);
        bad = good; bad.target.ids = NULL;
        FAILS(trf_trainer_step(t, &bad, NULL, &err), TRF_E_INVALID_ARG, "target", -1);
        bad = good; bad.target.count = -1;
        FAILS(trf_trainer_step(t, &bad, NULL, &err), TRF_E_INVALID_ARG, "target", -1);
        old = d.ids[1];                     /* the mask is a token of masked models alone */
        d.ids[1] = c.pad;
        if (head == TRF_HEAD_MASKED) OK(trf_trainer_evaluate(t, &good, NULL, NULL, &err));
        else FAILS(trf_trainer_step(t, &good, NULL, &err), TRF_E_INVALID_ARG, "source", 1);
        d.ids[1] = c.eos;
        FAILS(trf_trainer_step(t, &good, NULL, &err), TRF_E_INVALID_ARG, "source", 1);
        d.ids[1] = old;
        for (i = 0; i < MOST; i++) d.labels[i] = -1;        /* nothing is asked for */
        FAILS(trf_trainer_step(t, &good, NULL, &err), TRF_E_STATE, "tokens", kit_updates(t));
        bad = good; bad.source.count = bad.target.count = 0;
        FAILS(trf_trainer_step(t, &bad, NULL, &err), TRF_E_STATE, "tokens", kit_updates(t));
        assert_true(hash_state(t) == before);
        o.smoothing_rule = TRF_SMOOTH_NO_PAD_KL;
        FAILS(trf_trainer_set_options(t, &o, &err), TRF_E_INVALID_ARG, "smoothing_rule", -1);
        trf_trainer_destroy(t);
        trf_model_destroy(model);
    }
}

/* Without EOS an empty sequence has no row: nothing to label; a tagger passes over it. */
static void test_empty_sequences(void **state)
{
    static data d;
    static trf_real numbers[MOST * VOCAB];
    trf_head head;
    (void)state;
    EVERY_HEAD {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *model;
        trf_trainer *t;
        trf_translator *asked;
        trf_batch batch = fill(&d, &c, 4, 2, 6, 111);
        trf_sequences none = {NULL, NULL, 0};
        trf_tensor out;
        int32_t labels[MOST], n_labels[4], lengths[4], i;
        c.source_eos = 0;
        model = model_of(&c);
        t = trainer_of(model, &o);
        asked = translator_of(model);
        memcpy(labels, d.labels, sizeof labels);
        memcpy(n_labels, d.n_labels, sizeof n_labels);
        memcpy(lengths, d.lengths, sizeof lengths);
        lengths[3] = 0;
        if (!trf__pools(&c)) n_labels[3] = 0;
        batch.source.lengths = lengths; batch.target.ids = labels; batch.target.lengths = n_labels;
        labels[0] = 1;
        out = trf_tensor_of(numbers, 2, trf__pools(&c) ? 4 : lengths[0] + lengths[1] + lengths[2], trf__n_logits(&c),
                            1);
        if (trf__pools(&c)) {
            FAILS(trf_trainer_step(t, &batch, NULL, &err), TRF_E_INVALID_ARG, "source", 3);
            FAILS(trf_reader_classify(trf_translator_reader(asked), &batch.source, &out, &err), TRF_E_INVALID_ARG, "source", 3);
        } else {
            OK(trf_trainer_step(t, &batch, NULL, &err));
            if (head == TRF_HEAD_TOKENS) OK(trf_reader_classify(trf_translator_reader(asked), &batch.source, &out, &err));
            else OK(kit_logits(asked, &batch, &out, &err));
        }
        for (i = 0; i < 4; i++) lengths[i] = 0;             /* all of them */
        if (!trf__pools(&c)) {
            for (i = 0; i < 4; i++) n_labels[i] = 0;
            FAILS(trf_trainer_step(t, &batch, NULL, &err), TRF_E_STATE, "tokens", kit_updates(t));
        }
        out = trf_tensor_of(numbers, 2, 0, trf__n_logits(&c), 1);   /* no sequence at all */
        if (head != TRF_HEAD_MASKED) OK(trf_reader_classify(trf_translator_reader(asked), &none, &out, &err));
        trf_translator_destroy(asked);
        trf_trainer_destroy(t);
        trf_model_destroy(model);
    }
}

static void test_wrong_heads(void **state)
{
    static data d;
    static trf_real numbers[MOST * VOCAB];
    int head;
    (void)state;
    for (head = 0; head <= TRF_HEAD_MASKED; head++) {
        trf_config c = config_of((trf_head)head);
        trf_train_options o = training_of();
        trf_model *model = model_of(&c);
        trf_translator *t = translator_of(model);
        trf_trainer *trainer = NULL;
        trf_batch batch = fill(&d, &c, 3, 2, 5, 121);
        trf_tensor out = trf_tensor_of(numbers, 2, 2, 2, 1);
        int pools = trf__pools(&c), tokens = head == TRF_HEAD_TOKENS;
        double score[3];
        FAILS(trf_reader_classify(trf_translator_reader(t), &batch.source, &out, &err), pools || tokens ? TRF_E_SHAPE : TRF_E_STATE,
              pools || tokens ? "probabilities" : "head", -1);
        if (!head) FAILS(kit_logits(t, &batch, &out, &err), TRF_E_STATE, "kind", -1);
        FAILS(trf_reader_score(trf_translator_reader(t), &batch, NULL, score, &err), TRF_E_STATE, "kind", -1);
        if (pools) FAILS(trf_reader_classify(trf_translator_reader(t), NULL, &out, &err), TRF_E_INVALID_ARG, "sources", -1);
        if (pools) FAILS(trf_reader_classify(trf_translator_reader(t), &batch.source, NULL, &err), TRF_E_INVALID_ARG, "probabilities", -1);
        FAILS(trf_reader_classify(NULL, &batch.source, &out, &err), TRF_E_INVALID_ARG, "reader", -1);
        d.lengths[1] = 20;                  /* overlong: EOS has no place any more */
        FAILS(kit_logits(t, &batch, &out, &err), head ? TRF_E_LIMIT : TRF_E_STATE, head ? "source" : "kind", head ? 1 : -1);
        dirty();
        if (!head) check_fails(trf_trainer_create(&trainer, model, &o, &err), TRF_E_UNSUPPORTED, "kind", -1);
        trf_translator_destroy(t);
        trf_model_destroy(model);
    }
}

static void note_nothing(trf__text *notes, const void *of) { (void)of; trf__add_metadata(notes, "format", "pt"); }

/* Files: the head comes back; one that does not fit is told by the tensor. */
static void test_files(void **state)
{
    char path[64];
    static const char *const missing[] = {"head.weight", "head.weight", "head.weight", "head.weight", "head.bias"};
    int head, other;
    (void)state;
    snprintf(path, sizeof path, "/tmp/test_heads_%ld", (long)getpid());
    for (head = 0; head <= TRF_HEAD_MASKED; head++) {
        trf_config c = config_of((trf_head)head);
        trf_load_options load = trf_load_defaults();
        trf_model *model = model_of(&c), *again = NULL;
        trf_file *file = NULL;
        trf__destination to = {path, NULL, 0, NULL};
        load.device.threads = 1;
        OK(trf_model_save(model, path, NULL, &err));
        OK(trf_model_load(&again, path, &load, &err));
        assert_true(hash_weights(HASH_START, model) == hash_weights(HASH_START, again));
        assert_true(trf_model_config(again)->head == c.head && trf_model_config(again)->n_labels == c.n_labels);
        assert_true(trf_model_config(again)->label_kind == c.label_kind);
        OK(trf_file_open(&file, path, NULL, &err));     /* older versions refuse what they do not know */
        assert_string_equal(trf_file_metadata(file, "trf.format"), c.label_kind ? "12" : "9");
        assert_true(!trf_file_metadata(file, "trf.config.label_kind") == !c.label_kind);
        trf_file_close(file);
        trf_model_destroy(again);
        DONE(trf__write_model(model, model->weights, NULL, note_nothing, NULL, &to, TRF_WEIGHTS_FULL, &err));    /* somebody else's file */
        load.config = &c;
        OK(trf_model_load(&again, path, &load, &err));
        trf_model_destroy(again);
        for (other = 0; other <= TRF_HEAD_MASKED; other++) {
            trf_config wrong = config_of((trf_head)other);
            if (trf__has_labels(&wrong) == trf__has_labels(&c) && !!wrong.head == !!c.head) continue;
            load.config = &wrong;
            dirty();
            assert_int_equal(trf_model_load(&again, path, &load, &err), TRF_E_SHAPE);
            assert_string_equal(err.what, wrong.head && !(c.head && !trf__has_labels(&wrong)) ? missing[other]
                                          : wrong.head ? "head.bias" : trf__has_labels(&c) ? "head.weight" : "head.bias");
            assert_null(again);
        }
        if (trf__has_labels(&c)) {
            trf_config wrong = c;
            wrong.n_labels++;
            load.config = &wrong;
            dirty();
            assert_int_equal(trf_model_load(&again, path, &load, &err), TRF_E_SHAPE);
            assert_string_equal(err.what, "head.weight");
        }
        trf_model_destroy(model);
    }
    unlink(path);
}

/* Memory is as told, does not grow within the limits, and 2^24 labels are an error where there is none for them. */
static void test_memory(void **state)
{
    static data d;
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    trf_head head;
    (void)state;
    EVERY_HEAD {
        trf_config c = config_of(head);
        trf_train_options o = training_of();
        trf_model *model;
        trf_trainer *t;
        trf_batch batch;
        int64_t before, told;
        c.hooks = o.hooks = hooks;
        memory.limit = 0;
        model = model_of(&c);
        before = memory.live + kit_device_bytes();
        t = trainer_of(model, &o);
        told = (int64_t)trf_trainer_memory(&c, &o, NULL);
        assert_true(memory.live + kit_device_bytes() - before <= told + 4096 * (kit_device_bytes() > 0));
        assert_true(memory.live + kit_device_bytes() - before > told * 9 / 10);
        before = memory.live + kit_device_bytes();
        batch = fill(&d, &c, 16, 7, 7, 131);            /* 128 rows with EOS */
        OK(trf_trainer_step(t, &batch, NULL, &err));
        if (!kit_device_bytes()) assert_int_equal(memory.live, before);     /* a GPU records a list there */
        trf_trainer_destroy(t);
        trf_model_destroy(model);
        assert_int_equal(memory.live, 0);
#if !defined(KIT_ON_CUDA)       /* whose memory no hook refuses */
        if (head == TRF_HEAD_MASKED) continue;
        c.n_labels = 1 << 24;
        memory.limit = 2 << 20;
        model = NULL;
        assert_true(kit_model_memory(&c) > (size_t)D << 24);
        dirty();
        assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_E_NOMEM);
        assert_string_equal(err.what, "weights");
        assert_int_equal(memory.live, 0);
        c.n_labels = 25000;                             /* the weights have room, what they meet has none */
        model = model_of(&c);
        t = NULL;
        dirty();
        assert_int_equal(trf_trainer_create(&t, model, &o, &err), TRF_E_NOMEM);
        assert_null(t);
        trf_model_destroy(model);
        assert_int_equal(memory.live, 0);
#endif
    }
}

static void test_corpus(void **state)
{
    trf_corpus *corpus = NULL;
    int32_t ids[3] = {4, 5, 6}, labels[3] = {-1, 0, 1};
    (void)state;
    OK(trf_corpus_create(&corpus, NULL, &err));
    OK(trf_corpus_add(corpus, ids, 3, labels, 3, &err));
    FAILS(trf_corpus_add(corpus, labels, 3, ids, 3, &err), TRF_E_INVALID_ARG, "source", 0);
    labels[2] = trf_number_label(-2);       /* below -1 */
    OK(trf_corpus_add(corpus, ids, 3, labels, 3, &err));
    assert_int_equal(trf_corpus_facts(corpus)->pairs, 2);
    trf_corpus_destroy(corpus);
}

/* -----------------------------------------------------------------------------------------------
   Segments, pairs, and the layer of a head. */

/* The input of the first layer is embedding + position + segment; the segments are written down here. */
static void test_segments(void **state)
{
    enum { ROWS = 26, N = 4 };
    static const int32_t ids[] = {5, 2, 6, 7, 2, 2, 8, 2, 4, 5, 2, 9, 2, 10, 2, 11, 2, 12};
    static const int32_t lengths[N] = {4, 3, 0, 11};
    static const int32_t segments[2][ROWS] = {
        {0, 0, 0, 1, 1, 1, /**/ 0, 0, 1, 2, 2, /**/ 0, 0, /**/ 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2},
        {0}};
    static trf_real states[3 * ROWS * D];
    int few;
    (void)state;
    for (few = 0; few < 2; few++) {
        trf_config c = config_of(TRF_HEAD_NONE);
        trf_model *model;
        trf_translator *t;
        trf_reading seen;
        trf_batch batch;
        trf_real *embed, *segment, *position;
        int64_t row = 0, at = 0, i, k, j;
        c.segments = few ? 1 : 3;
        c.source_bos = 1;
        c.positions = TRF_POSITIONS_LEARNED;
        c.position_offset = 2;
        model = model_of(&c);
        t = translator_of(model);
        TRF__ZERO(batch);
        batch.source = (trf_sequences){ids, lengths, N};
        assert_int_equal(kit_source_rows(model, &batch.source), ROWS);
        OK(trf_reader_read(trf_translator_reader(t), &batch, TRF_READ_ENCODER_STATES, NULL, &seen, &err));
        assert_int_equal(trf_tensor_count(&seen.encoder_states), 3 * ROWS * D);
        memcpy(states, seen.encoder_states.data, sizeof states);
        embed = parameter(model, "src_embed.weight");
        segment = parameter(model, "src_segments.weight");
        position = parameter(model, "src_positions.weight");
        for (i = 0; i < N; i++) {
            for (k = 0; k < lengths[i] + 2; k++, row++) {
                int32_t id = k == 0 ? c.bos : k <= lengths[i] ? ids[at + k - 1] : c.eos;
                for (j = 0; j < D; j++)
                    near("state", c.head, (double)states[row * D + j],
                         sqrt((double)D) * (double)embed[id * D + j] + (double)position[(k + 2) * D + j] +
                         (double)segment[segments[few][row] * D + j], FORMULA);
            }
            at += lengths[i];
        }
        free(embed); free(segment); free(position);
        trf_translator_destroy(t);
        trf_model_destroy(model);
    }
}

/* What config and sources may not be. */
static void test_bert_refusals(void **state)
{
    static trf_real numbers[64];
    trf_head head;
    (void)state;
    for (head = TRF_HEAD_NONE; head <= TRF_HEAD_MASKED; head = (trf_head)(head + 1)) {
        trf_config c = config_of(head);
        int layered = head == TRF_HEAD_FIRST || head == TRF_HEAD_MASKED, masked = head == TRF_HEAD_MASKED;
        c.head_layer = 1;
        if (layered) OK(trf_config_check(&c, NULL, &err));
        else FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "head_layer", -1);
        c.head_layer = 2;
        FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "head_layer", -1);
        c.head_layer = 0;
        c.mask = VOCAB - 1;
        if (masked) OK(trf_config_check(&c, NULL, &err));
        else FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "mask", -1);
        for (c.mask = -2; c.mask <= VOCAB; c.mask++)
            if (c.mask != -1 && (c.mask < 3 || c.mask == VOCAB))
                FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "mask", -1);
    }
    {
        trf_config c = config_of(TRF_HEAD_MASKED);
        trf_model *model;
        trf_translator *t;
        int32_t ids[2] = {5, 0}, n = 2;
        trf_batch batch;
        trf_tensor out = trf_tensor_of(numbers, 2, 3, VOCAB, 1);
        TRF__ZERO(batch);
        batch.source = (trf_sequences){ids, &n, 1};
        c.mask = 7;
        model = model_of(&c);
        t = translator_of(model);
        FAILS(kit_logits(t, &batch, &out, &err), TRF_E_INVALID_ARG, "source", 1);      /* pad is not the mask */
        ids[1] = 7;
        OK(kit_logits(t, &batch, &out, &err));
        ids[1] = c.eos;                                     /* no segments */
        FAILS(kit_logits(t, &batch, &out, &err), TRF_E_INVALID_ARG, "source", 1);
        trf_translator_destroy(t);
        trf_model_destroy(model);
        c.segments = 2;
        model = model_of(&c);
        t = translator_of(model);
        OK(kit_logits(t, &batch, &out, &err));
        ids[1] = c.bos;
        FAILS(kit_logits(t, &batch, &out, &err), TRF_E_INVALID_ARG, "source", 1);
        trf_translator_destroy(t);
        trf_model_destroy(model);
    }
    {
        trf_config c = kit_of_kind(kit_small(2, D, VOCAB, 20), TRF_DECODER_ONLY);
        c.segments = 2;
        FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "segments", -1);
        c = config_of(TRF_HEAD_NONE);
        c.segments = 1025;
        FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "segments", -1);
        c.segments = -1;
        FAILS(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG, "segments", -1);
    }
}

static void test_join(void **state)
{
    trf_config c = config_of(TRF_HEAD_FIRST);
    const int32_t first[] = {5, 6, 7}, second[] = {8, 9};
    int32_t ids[8], in_place[8] = {5, 6, 7}, n = -1, a, b, room;
    trf_vocab *vocab = NULL;
    (void)state;
    FAILS(trf_join(&c, first, 3, second, 2, 0, ids, 8, &n, &err), TRF_E_STATE, "segments", -1);
    assert_int_equal(n, 0);
    c.segments = 2;
    OK(trf_join(&c, first, 3, second, 2, 0, ids, 6, &n, &err));
    assert_int_equal(n, 6);
    assert_memory_equal(ids, ((const int32_t[]){5, 6, 7, 2, 8, 9}), 6 * sizeof *ids);
    OK(trf_join(&c, in_place, 3, second, 2, 0, in_place, 8, &n, &err));
    assert_memory_equal(in_place, ids, 6 * sizeof *ids);
    OK(trf_join(&c, NULL, 0, NULL, 0, 0, ids, 8, &n, &err));
    assert_true(n == 1 && ids[0] == 2);
    ids[0] = -9;
    FAILS(trf_join(&c, first, 3, second, 2, 0, ids, 5, &n, &err), TRF_E_LIMIT, "capacity", -1);
    assert_true(n == 6 && ids[0] == -9);
    FAILS(trf_join(&c, first, 3, second, 2, 0, NULL, 0, &n, &err), TRF_E_LIMIT, "capacity", -1);
    assert_int_equal(n, 6);
    FAILS(trf_join(&c, first, 3, second, 2, 0, NULL, 9, &n, &err), TRF_E_INVALID_ARG, "ids", -1);
    FAILS(trf_join(&c, NULL, 3, second, 2, 0, ids, 8, &n, &err), TRF_E_INVALID_ARG, "first", -1);
    FAILS(trf_join(&c, first, 3, NULL, 2, 0, ids, 8, &n, &err), TRF_E_INVALID_ARG, "second", -1);
    FAILS(trf_join(&c, first, -1, second, 2, 0, ids, 8, &n, &err), TRF_E_INVALID_ARG, "n_first", -1);
    FAILS(trf_join(&c, first, 3, second, -1, 0, ids, 8, &n, &err), TRF_E_INVALID_ARG, "n_second", -1);
    FAILS(trf_join(&c, first, 3, second, 2, 0, ids, -1, &n, &err), TRF_E_INVALID_ARG, "capacity", -1);
    FAILS(trf_join(NULL, first, 3, second, 2, 0, ids, 8, &n, &err), TRF_E_INVALID_ARG, "config", -1);
    FAILS(trf_join(&c, first, 3, second, 2, 0, ids, 8, NULL, &err), TRF_E_INVALID_ARG, "n", -1);
    c.segments = 1;                                         /* RoBERTa */
    OK(trf_join(&c, first, 3, second, 2, 0, ids, 8, &n, &err));
    assert_int_equal(n, 7);
    assert_memory_equal(ids, ((const int32_t[]){5, 6, 7, 2, 2, 8, 9}), 7 * sizeof *ids);
    OK(trf_vocab_create(&vocab, TRF_WORDS, NULL, &err));
    OK(trf_vocab_learn(vocab, "a a a b b c", &err));
    OK(trf_vocab_finish(vocab, 100, 1, &err));
    c.segments = 2;
    for (room = 0; room < 5; room++) {
        FAILS(trf__join_texts(&c, vocab, "a b", "c x", ids, room, &n, &err), TRF_E_LIMIT, "capacity", -1);
        assert_int_equal(n, 5);
    }
    OK(trf__join_texts(&c, vocab, "a b", "c x", ids, 5, &n, &err));
    assert_int_equal(n, 5);
    assert_memory_equal(ids, ((const int32_t[]){4, 5, 2, 6, 3}), 5 * sizeof *ids);
    FAILS(trf__join_texts(&c, vocab, "a b", "\xff", ids, 5, &n, &err), TRF_E_FORMAT, "text", 0);
    FAILS(trf__join_texts(&c, vocab, NULL, "c", ids, 5, &n, &err), TRF_E_INVALID_ARG, "text", -1);
    FAILS(trf__join_texts(&c, NULL, "a", "c", ids, 5, &n, &err), TRF_E_INVALID_ARG, "vocab", -1);
    trf_vocab_destroy(vocab);
    /* BERT's rule, one token at a time */
    for (a = 0; a < 9; a++) for (b = 0; b < 9; b++) for (room = 0; room < 18; room++) {
        static const int32_t one[9] = {11, 12, 13, 14, 15, 16, 17, 18, 19},
                             other[9] = {21, 22, 23, 24, 25, 26, 27, 28, 29};
        int32_t x = a, y = b, p = a, q = b, pair[18];
        while (x + y > room) {
            if (x > y) x--;
            else y--;
        }
        trf__shorten_pair(&p, &q, room);
        assert_true(p == x && q == y);
        pair[room + 1 < 18 ? room + 1 : 17] = -9;
        if (room > 16) continue;
        OK(trf_join(&c, one, a, other, b, 1, pair, room + 1, &n, &err));
        assert_true(n == x + 1 + y && pair[x] == 2 && pair[room + 1] == -9);
        assert_memory_equal(pair, one, (size_t)x * sizeof *pair);
        assert_memory_equal(pair + x + 1, other, (size_t)y * sizeof *pair);
    }
    FAILS(trf_join(&c, first, 3, second, 2, 1, ids, 0, &n, &err), TRF_E_LIMIT, "capacity", -1);
    assert_int_equal(n, 1);                                 /* the separator alone */
    FAILS(trf_join(&c, first, 3, second, 2, 2, ids, 8, &n, &err), TRF_E_INVALID_ARG, "shorten", -1);
    a = b = INT32_MAX;
    trf__shorten_pair(&a, &b, 7);
    assert_true(a == 4 && b == 3);
    trf__shorten_pair(&a, &b, -5);
    assert_true(a == 0 && b == 0);
}

/* States that a pass begins with pass the layer, for more rows than any batch had. */
static void test_project(void **state)
{
    enum { MANY = 300 };
    static trf_real states[MANY * D], logits[MANY * VOCAB];
    trf_head head;
    (void)state;
    EVERY_HEAD {
        trf_config c = config_of(head);
        trf_model *model = model_of(&c);
        trf_translator *t;
        trf_real *w, *b;
        int64_t vocab = trf__n_logits(&c), r, v, j;
        trf_tensor from = trf_tensor_of(states, 2, MANY, D, 1), to = trf_tensor_of(logits, 2, MANY, vocab, 1);
        shake(model);
        t = translator_of(model);
        w = parameter(model, head == TRF_HEAD_MASKED ? "src_embed.weight" : "head.weight");
        b = parameter(model, "head.bias");
        for (r = 0; r < MANY * D; r++) states[r] = (trf_real)(2 * trf__uniform(3, 5, (uint64_t)r) - 1);
        OK(kit_project(t, &from, &to, &err));
        for (r = 0; r < MANY; r++) {
            double x[D];
            for (j = 0; j < D; j++) x[j] = (double)states[r * D + j];
            if (c.head_layer) plain_layer(model, 0, x);
            for (v = 0; v < vocab; v++) {
                double sum = (double)b[v];
                for (j = 0; j < D; j++) sum += x[j] * (double)w[v * D + j];
                near("projection", head, (double)logits[r * vocab + v], sum, 20 * FORMULA);
            }
        }
        free(w);
        free(b);
        trf_translator_destroy(t);
        trf_model_destroy(model);
    }
}

/* trf_reader_rank against trf_reader_classify of joined pairs, for more texts than one call takes, some of them equal, some too long;
   and what it refuses. */
static void test_rank(void **state)
{
    enum { N = 70 };
    static const char *const words[] = {"a", "b", "c", "d", "e", "f", "zzz"};
    static char bytes[N][200];
    const char *texts[N];
    double scores[N];
    int32_t order[N], ids[64], n, i, k, length, seen[N] = {0};
    trf_vocab *vocab = NULL;
    trf_config c = config_of(TRF_HEAD_FIRST);
    trf_model *model, *bare;
    trf_translator *t, *other;
    trf_real got;
    trf_tensor out = trf_tensor_of(&got, 2, 1, 1, 1);
    (void)state;
    OK(trf_vocab_create(&vocab, TRF_WORDS, NULL, &err));
    OK(trf_vocab_learn(vocab, "a b c d e f a b c d e a b c d a b c a b a", &err));
    OK(trf_vocab_finish(vocab, VOCAB, 1, &err));
    c.source_bos = 1;
    c.source_vocab = trf_vocab_size(vocab);
    model = model_of(&c);
    bare = model_of(&c);
    shake(model);
    OK(trf_model_set_vocabs(model, vocab, NULL, &err));
    t = translator_of(model);
    for (i = 0; i < N; i++) {
        uint64_t at = 0;
        if (i == 40) { texts[i] = texts[3]; continue; }
        *bytes[i] = 0;
        for (k = i % 9 ? i % 7 : 30; k > 0; k--)
            snprintf(bytes[i] + strlen(bytes[i]), 8, "%s ", words[draw((uint64_t)i, &at, 7)]);
        texts[i] = bytes[i];
    }
    OK(trf_reader_rank(trf_translator_reader(t), "b zzz c", texts, N, scores, order, &err));
    for (i = 0; i < N; i++) {
        trf_sequences one;
        OK(trf__join_texts(&c, vocab, "b zzz c", texts[i], ids, 64, &n, &err));
        length = n < 18 ? n : 18;               /* max_length 20, less BOS and EOS; the text is longer than the query */
        one.ids = ids; one.lengths = &length; one.count = 1;
        OK(trf_reader_classify(trf_translator_reader(t), &one, &out, &err));
        near("score", TRF_HEAD_FIRST, scores[i], (double)got, 10 * FORMULA);
        assert_true(order[i] >= 0 && order[i] < N && !seen[order[i]]++);
        if (i && scores[order[i - 1]] == scores[order[i]]) assert_true(order[i - 1] < order[i]);
        else if (i) assert_true(scores[order[i - 1]] > scores[order[i]]);
    }
    assert_true(scores[40] == scores[3]);
    OK(trf_reader_rank(trf_translator_reader(t), "", texts, 1, scores, NULL, &err));
    OK(trf_reader_rank(trf_translator_reader(t), "a", NULL, 0, NULL, NULL, &err));
    texts[33] = "\xff";
    FAILS(trf_reader_rank(trf_translator_reader(t), "a", texts, N, scores, order, &err), TRF_E_FORMAT, "text", 33);
    texts[33] = NULL;
    FAILS(trf_reader_rank(trf_translator_reader(t), "a", texts, N, scores, order, &err), TRF_E_INVALID_ARG, "texts", 33);
    FAILS(trf_reader_rank(trf_translator_reader(t), "\xff", texts, 1, scores, order, &err), TRF_E_FORMAT, "text", -1);
    FAILS(trf_reader_rank(trf_translator_reader(t), NULL, texts, 1, scores, order, &err), TRF_E_INVALID_ARG, "query", -1);
    FAILS(trf_reader_rank(trf_translator_reader(t), "a", NULL, 1, scores, order, &err), TRF_E_INVALID_ARG, "texts", -1);
    FAILS(trf_reader_rank(trf_translator_reader(t), "a", texts, 1, NULL, order, &err), TRF_E_INVALID_ARG, "scores", -1);
    FAILS(trf_reader_rank(trf_translator_reader(t), "a", texts, -1, scores, order, &err), TRF_E_INVALID_ARG, "n", -1);
    FAILS(trf_reader_rank(NULL, "a", texts, 1, scores, order, &err), TRF_E_INVALID_ARG, "reader", -1);
    other = translator_of(bare);
    FAILS(trf_reader_rank(trf_translator_reader(other), "a", texts, 1, scores, order, &err), TRF_E_STATE, "vocab", -1);
    trf_translator_destroy(other);
    trf_model_destroy(bare);
    for (k = 0; k < 3; k++) {
        trf_config wrong = c;
        if (k == 0) { wrong.label_kind = TRF_LABELS_ONE_OF; wrong.n_labels = 2; }
        if (k == 1) wrong.n_labels = 2;
        if (k == 2) wrong.segments = 0;
        bare = model_of(&wrong);
        other = translator_of(bare);
        FAILS(trf_reader_rank(trf_translator_reader(other), "a", texts, 1, scores, order, &err), TRF_E_STATE, k < 2 ? "label_kind" : "segments", -1);
        trf_translator_destroy(other);
        trf_model_destroy(bare);
    }
    trf_translator_destroy(t);
    trf_model_destroy(model);
    trf_vocab_destroy(vocab);
}

static int as_bert(void **state) { (void)state; bert = 1; return 0; }
static int as_pretraining(void **state) { (void)state; bert = two_heads = 1; return 0; }
static int as_any(void **state) { (void)state; kind = TRF_LABELS_ANY; return 0; }
static int as_yes_or_no(void **state) { (void)state; bert = 1; kind = TRF_LABELS_ANY; n_kind = 1; return 0; }
static int as_numbers(void **state) { (void)state; kind = TRF_LABELS_NUMBERS; return 0; }
static int as_one_number(void **state) { (void)state; bert = 1; kind = TRF_LABELS_NUMBERS; n_kind = 1; return 0; }
static int as_before(void **state)
{
    (void)state;
    bert = two_heads = 0;
    kind = TRF_LABELS_ONE_OF;
    n_kind = LABELS;
    return 0;
}
#define BERT(test) {"BERT: " #test, test, as_bert, as_before, NULL}
#define SECOND(test) {"second head: " #test, test, as_pretraining, as_before, NULL}
#define NUMBERED(name, test, as) {name ": " #test, test, as, as_before, NULL}
#define WITH(name, as) \
    NUMBERED(name, test_logits, as), NUMBERED(name, test_number_loss, as), NUMBERED(name, test_gradients, as), \
    NUMBERED(name, test_parts, as), NUMBERED(name, test_resume, as), NUMBERED(name, test_cancel, as), \
    NUMBERED(name, test_memory, as), NUMBERED(name, test_project, as)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_bert_refusals),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_project),
        BERT(test_project),
        BERT(test_logits),
        BERT(test_loss),
        BERT(test_gradients),
        BERT(test_parts),
#if !defined(KIT_ON_CUDA) && !defined(TRF__TEST_BACKEND)
        BERT(test_ranks),
#endif
#if !defined(KIT_ON_CUDA)
        BERT(test_same_bits),
#endif
        BERT(test_resume),
        BERT(test_memory),
        WITH("any", as_any),
        WITH("yes or no", as_yes_or_no),
        WITH("numbers", as_numbers),
        WITH("one number", as_one_number),
        NUMBERED("any", test_number_refusals, as_any),
        NUMBERED("numbers", test_number_refusals, as_numbers),
        NUMBERED("any", test_number_extremes, as_any),
        NUMBERED("one number", test_rank, as_one_number),
        NUMBERED("yes or no", test_rank, as_yes_or_no),
        cmocka_unit_test(test_kinds),
        NUMBERED("any", test_files, as_any),
        NUMBERED("numbers", test_files, as_numbers),
#if !defined(KIT_ON_CUDA) && !defined(TRF__TEST_BACKEND)
        NUMBERED("any", test_ranks, as_any),
        NUMBERED("numbers", test_ranks, as_numbers),
#endif
#if !defined(KIT_ON_CUDA)
        NUMBERED("any", test_same_bits, as_any),
        NUMBERED("numbers", test_same_bits, as_numbers),
#endif
        SECOND(test_second),
        SECOND(test_second_parts),
        SECOND(test_second_refusals),
        SECOND(test_loss),
        SECOND(test_gradients),
#if !defined(KIT_ON_CUDA) && !defined(TRF__TEST_BACKEND)
        SECOND(test_ranks),
#endif
#if !defined(KIT_ON_CUDA)
        SECOND(test_same_bits),
#endif
        SECOND(test_resume),
        SECOND(test_cancel),
        SECOND(test_files),
        SECOND(test_memory),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_parts),
#if !defined(KIT_ON_CUDA) && !defined(TRF__TEST_BACKEND)
        cmocka_unit_test(test_ranks),
#endif
#if !defined(KIT_ON_CUDA)       /* threads do not matter there; and it takes long */
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_learning),
#endif
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_empty_sequences),
        cmocka_unit_test(test_wrong_heads),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* build: O0 linked double:shared plain:shared */
/* The whole model against PyTorch: same weights file, same batch; encoder states, logits, loss,
   every gradient and ten updates, for the configurations of tests/golden (made by
   tools/parity/make_goldens.py). And the other way round: a convention that is set wrongly must be
   seen by these comparisons. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include "calls.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "golden/configs.h"

#if defined(TRF_DOUBLE)
static const double tolerance = 1e-10;
enum { KEY_BIAS_IS_NOISE = 0 };
#else
static const double tolerance = 2e-5;       /* 1.4e-5 by CBLAS, which adds in another order */
enum { KEY_BIAS_IS_NOISE = 1 };     /* see train() */
#endif

/* What became of one case: how the calls ended, and the comparison that came out worst. */
typedef struct outcome {
    trf_status status;
    double worst; /* largest difference over largest expected value, of the worst tensor */
    char tensor[96];            /* its name */
    int compared;               /* number of tensors */
    trf_error error;
} outcome;

static void note(outcome *o, const char *name, double relative)
{
    o->compared++;
    if (relative <= o->worst) return;       /* NaN goes on */
    o->worst = relative <= DBL_MAX ? relative : HUGE_VAL;
    snprintf(o->tensor, sizeof o->tensor, "%s", name);
}

/* Compares every `stride`-th number of got with the tensor of that name, each times `scale`. Where
   skip is not empty the numbers [skip, skip_end) of got are left out. */
static void compare(outcome *o, trf_file *expected, const char *name, const trf_real *got,
                    int64_t n, int64_t stride, double scale, int64_t skip, int64_t skip_end)
{
    int32_t index = trf_file_find(expected, name);
    int64_t i, count = (n + stride - 1) / stride, in_file = 1;
    double difference = 0, largest = 0;
    trf_file_entry entry;
    trf_real *want;
    if (index < 0) { note(o, name, HUGE_VAL); return; }
    entry = trf_file_at(expected, index);
    for (i = 0; i < entry.rank; i++) in_file *= entry.shape[i];
    if (in_file != count) { note(o, name, HUGE_VAL); return; }
    want = (trf_real *)malloc((size_t)count * sizeof *want);
    assert_non_null(want);
    assert_int_equal(trf_file_read(expected, index, 0, want, count, NULL), TRF_OK);
    for (i = 0; i < count; i++) {
        double d = fabs((double)got[i * stride] * scale - (double)want[i]);
        if (fabs((double)want[i]) > largest) largest = fabs((double)want[i]);
        if (i * stride >= skip && i * stride < skip_end) continue;
        if (!(d <= difference))
            difference = d <= DBL_MAX ? d : HUGE_VAL; /* NaN counts as infinite */
    }
    free(want);
    note(o, name, difference == 0 ? 0 : difference / largest);
}

static void compare_number(outcome *o, const char *name, double got, double want)
{
    note(o, name, fabs(got - want) <= 0 ? 0 : fabs(got - want) / fabs(want));
}

/* Encoder states and logits, through a translator. */
static void look_inside(outcome *o, trf_file *expected, const trf_model *model,
                        const trf_batch *batch)
{
    const trf_config *c = trf_model_config(model);
    trf_search search = trf_search_defaults();
    trf_translator *translator = NULL;
    int64_t source_rows = kit_source_rows(model, &batch->source);
    int64_t target_rows = kit_target_rows(model, &batch->target);
    trf_real *room = (trf_real *)calloc(4096, sizeof *room);
    trf_tensor out;
    assert_non_null(room);
    search.threads = 1;
    o->status = trf_translator_create(&translator, model, &search, &o->error);
    if (o->status == TRF_OK && c->kind != TRF_DECODER_ONLY) {
        assert_true(source_rows * c->d_model <= 4096);
        out = trf_tensor_of(room, 2, source_rows, c->d_model, 1);
        o->status = kit_encode(translator, &batch->source, &out, &o->error);
        if (o->status == TRF_OK)
            compare(o, expected, "encoder", room, source_rows * c->d_model, 1, 1.0, 0, 0);
    }
    if (o->status == TRF_OK && (c->head || c->kind != TRF_ENCODER_ONLY)) {
        int64_t rows = !c->head                     ? target_rows
                       : c->head >= TRF_HEAD_TOKENS ? source_rows
                                                    : batch->source.count;
        int64_t columns = !c->head                     ? c->target_vocab
                          : c->head == TRF_HEAD_MASKED ? c->source_vocab
                                                       : c->n_labels;
        assert_true(rows * columns <= 4096);
        out = trf_tensor_of(room, 2, rows, columns, 1);
        o->status = kit_logits(translator, batch, &out, &o->error);
        if (o->status == TRF_OK) compare(o, expected, "logits", room, rows * columns, 1, 1.0, 0, 0);
    }
    if (o->status == TRF_OK && c->sequence_labels) {
        out = trf_tensor_of(room, 2, batch->source.count, c->sequence_labels, 1);
        o->status = trf_reader_classify(trf_translator_reader(translator), &batch->source, &out, &o->error);
        if (o->status == TRF_OK)
            compare(o, expected, "classes", room, trf_tensor_count(&out), 1, 1.0, 0, 0);
    }
    trf_translator_destroy(translator);
    free(room);
}

/* The loss of the labels of sequences, if the model has them. */
static void compare_first(outcome *o, const trf_model *model, const trf_step_report *report,
                          trf_real want)
{
    if (trf_model_config(model)->sequence_labels)
        compare_number(o, "loss of sequences", report->sequence_loss, (double)want);
    else assert_true(report->sequence_loss == 0 && report->sequence_targets == 0);
}

/* Loss and gradients of one pass, then ten updates and what they made of the weights. */
static void train(outcome *o, trf_file *expected, trf_model *model,
                  const trf_train_options *training, const trf_batch *batch)
{
    trf_trainer *trainer = NULL;
    trf_step_report report;
    trf_real want[GOLDEN_STEPS * 4], first[GOLDEN_STEPS + 1];
    char name[128];
    int32_t i;
    int64_t d = trf_model_config(model)->d_model;
    o->status = trf_trainer_create(&trainer, model, training, &o->error);
    if (o->status) return;
    assert_int_equal(trf_file_read(expected, trf_file_find(expected, "report"), 0, want, 4, NULL),
                     TRF_OK);
    if (trf_model_config(model)->sequence_labels)
        assert_int_equal(trf_file_read(expected, trf_file_find(expected, "sequence"), 0, first,
                                       GOLDEN_STEPS + 1, NULL), TRF_OK);
    o->status = trf_trainer_forward_backward(trainer, batch, &report, &o->error);
    if (o->status == TRF_OK) {
        compare_first(o, model, &report, first[0]);
        compare_number(o, "loss", report.loss, (double)want[0]);
        compare_number(o, "nll", report.nll, (double)want[1]);
        compare_number(o, "accuracy", report.accuracy, (double)want[2]);
        for (i = 0; i < trf_model_parameter_count(model); i++) {
            trf_tensor g = trf_trainer_tensor(trainer, TRF_GRADIENT, i);
            snprintf(name, sizeof name, "gradient.%s", g.name);
            compare(o, expected, name, g.data, trf_tensor_count(&g), 1,
                    1.0 / (double)report.target_tokens, 0, 0);
        }
        trf_trainer_discard_gradients(trainer);
        o->status = trf_trainer_evaluate(trainer, batch, NULL, &report, &o->error);
        compare_number(o, "evaluated loss", report.loss, (double)want[0]);
        compare_number(o, "evaluated nll", report.nll, (double)want[1]);
        compare_first(o, model, &report, first[0]);
        assert_int_equal(trf_file_read(expected, trf_file_find(expected, "steps"), 0, want,
                                       GOLDEN_STEPS * 4, NULL),
                         TRF_OK);
        for (i = 0; i < GOLDEN_STEPS && o->status == TRF_OK; i++) {
            o->status = trf_trainer_step(trainer, batch, &report, &o->error);
            if (o->status) break;
            assert_int_equal(report.step, i + 1);
            assert_int_equal(report.skipped, 0);
            compare_number(o, "loss of an update", report.loss, (double)want[4 * i]);
            compare_number(o, "nll of an update", report.nll, (double)want[4 * i + 1]);
            compare_first(o, model, &report, first[i + 1]);
            compare_number(o, "gradient norm of an update", report.gradient_norm,
                           (double)want[4 * i + 2]);
            compare_number(o, "learning rate of an update", report.learning_rate,
                           (double)want[4 * i + 3]);
        }
    }
    for (i = 0; i < trf_model_parameter_count(model) && o->status == TRF_OK; i++) {
        trf_tensor p = trf_model_parameter(model, i);
        int skip_keys = KEY_BIAS_IS_NOISE && strstr(p.name, "in_proj_bias") != NULL;
        snprintf(name, sizeof name, "trained.%s", p.name);
        /* The bias of the keys adds the same to all scores of a query: its gradient is zero but for
           rounding, which Adam turns into steps of any size. */
        compare(o, expected, name, p.data, trf_tensor_count(&p), GOLDEN_STRIDE, 1.0,
                skip_keys ? d : 0, skip_keys ? 2 * d : 0);
    }
    trf_trainer_destroy(trainer);
}

static void options_of(int index, trf_config *config, trf_train_options *training, trf_batch *batch)
{
    *config = trf_config_preset(TRF_TINY);
    *training = trf_train_defaults();
    config->norm_place =
        TRF_POST_NORM; /* what the cases begin with: tools/parity/make_goldens.py */
    training->schedule = TRF_NOAM;
    training->learning_rate = 1;
    training->warmup = 4000;
    training->label_smoothing = 0.1;
    golden_case(index, config, training, batch);
    trf_train_set_dropout(training, 0.0);
    config->device.threads = training->threads = 1;
    training->source_tokens = training->target_tokens = 160;
    training->sequences = 8;
    training->longest = config->max_length;
}

/* Loads the weights of case `index` under `config` and compares everything. */
static outcome run_case(int index, const trf_config *config, const trf_train_options *training,
                        const trf_batch *batch)
{
    outcome o;
    char path[128];
    trf_load_options options = trf_load_defaults();
    trf_file *expected = NULL;
    trf_model *model = NULL;
    memset(&o, 0, sizeof o);
    snprintf(path, sizeof path, "tests/golden/%s.expected.safetensors", golden_names[index]);
    if (trf_file_open(&expected, path, NULL, &o.error)) fail_msg("%s: %s", path, o.error.message);
    snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", golden_names[index]);
    options.config = config;
    options.device = config->device;
    o.status = trf_model_load(&model, path, &options, &o.error);
    if (o.status == TRF_OK) look_inside(&o, expected, model, batch);
    if (o.status == TRF_OK && (config->head || config->kind != TRF_ENCODER_ONLY))
        train(&o, expected, model, training, batch);
    trf_model_destroy(model);
    trf_file_close(expected);
    return o;
}

static void test_every_golden(void **state)
{
    int index, failed = 0;
    (void)state;
    for (index = 0; index < GOLDEN_COUNT; index++) {
        trf_config config;
        trf_train_options training;
        trf_batch batch;
        outcome o;
        options_of(index, &config, &training, &batch);
        o = run_case(index, &config, &training, &batch);
        if (o.status) {
            print_error("%s: %s: %s\n", golden_names[index], trf_status_name(o.status),
                        o.error.message);
            failed++;
        } else {
            print_message("%-18s %3d comparisons, worst %.1e (%s)\n", golden_names[index],
                          o.compared, o.worst, o.tensor);
            if (!(o.worst < tolerance) || o.compared < 1) failed++;
        }
    }
    assert_int_equal(failed, 0);
}

/* One convention and the values it is flipped to. */
typedef enum field_type { INT32, INT64, DOUBLE } field_type;
typedef struct field {
    const char *name;
    int of_training;            /* 0: of the configuration */
    size_t offset;
    field_type type;
    int sees_shape;             /* 1: the file then does not fit: TRF_E_SHAPE is what we want */
    int n;
    double values[5];
} field;

#define CONFIG(f) #f, 0, offsetof(trf_config, f)
#define TRAINING(f) #f, 1, offsetof(trf_train_options, f)
static const field fields[] = {
    {CONFIG(n_heads), INT32, 0, 2, {1, 2}},
    {CONFIG(bos), INT32, 0, 1, {3}},
    {CONFIG(eos), INT32, 0, 1, {3}},
    {CONFIG(pad), INT32, 0, 1, {3}},
    {CONFIG(activation), INT32, 0, 4, {TRF_RELU, TRF_GELU, TRF_SILU, TRF_GELU_TANH}},
    {CONFIG(feed_forward_gate), INT32, 1, 2, {0, 1}},
    {CONFIG(embedding_norm), INT32, 1, 2, {0, 1}},
    {CONFIG(segments), INT32, 1, 3, {0, 1, 3}},
    {CONFIG(head_layer), INT32, 1, 2, {0, 1}},
    {CONFIG(sequence_labels), INT32, 1, 2, {0, 3}},
    {CONFIG(positions),
     INT32,
     0,
     4,
     {TRF_POSITIONS_INTERLEAVED, TRF_POSITIONS_HALVES_N1, TRF_POSITIONS_HALVES,
      TRF_POSITIONS_NONE}},
    {CONFIG(positions), INT32, 1, 2, {TRF_POSITIONS_LEARNED, TRF_POSITIONS_RELATIVE}},
    {CONFIG(positions), INT32, 0, 2, {TRF_POSITIONS_ALIBI, TRF_POSITIONS_ROTARY}},
    {CONFIG(kv_heads), INT32, 1, 3, {0, 1, 2}},
    {CONFIG(d_head), INT32, 1, 2, {0, 8}},
    {CONFIG(attention_scale), DOUBLE, 0, 2, {0, 1}},
    {CONFIG(relative_buckets), INT32, 1, 1, {4}},
    {CONFIG(relative_distance), INT32, 0, 1, {20}},
    {CONFIG(rotary_base), DOUBLE, 0, 2, {50, 10000}},
    {CONFIG(rotary_width), INT32, 0, 2, {0, 4}},
    {CONFIG(rotary_scale), DOUBLE, 0, 2, {1, 2}},
    {CONFIG(rotary_trained), INT32, 0, 2, {0, 60}},
    {CONFIG(rotary_low), DOUBLE, 0, 1, {0.5}},
    {CONFIG(rotary_high), DOUBLE, 0, 1, {8}},
    {CONFIG(rotary_pairs), INT32, 0, 2, {TRF_ROTARY_HALVES, TRF_ROTARY_INTERLEAVED}},
    {CONFIG(scale_logits), INT32, 0, 2, {0, 1}},
    {CONFIG(position_offset), INT32, 0, 3, {0, 1, 2}},
    {CONFIG(norm_place), INT32, 0, 2, {TRF_POST_NORM, TRF_PRE_NORM}},
    {CONFIG(norm_rule), INT32, 1, 3, {TRF_NORM_STANDARD, TRF_NORM_ANNOTATED, TRF_NORM_RMS}},
    {CONFIG(norm_epsilon), DOUBLE, 0, 3, {1e-5, 1e-6, 1e-12}},
    {CONFIG(final_norm), INT32, 1, 4, {0, 1, 2, 3}},
    {CONFIG(scale_embeddings), INT32, 0, 2, {0, 1}},
    {CONFIG(tying), INT32, 1, 4, {TRF_UNTIED, TRF_TIED_DECODER, TRF_TIED_ALL, TRF_TIED_EMBEDDINGS}},
    {CONFIG(generator_bias), INT32, 1, 2, {0, 1}},
    {CONFIG(qkv_bias), INT32, 1, 2, {0, 1}},
    {CONFIG(out_bias), INT32, 1, 2, {0, 1}},
    {CONFIG(feed_forward_bias), INT32, 1, 2, {0, 1}},
    {CONFIG(source_bos), INT32, 0, 2, {0, 1}},
    {CONFIG(source_eos), INT32, 0, 2, {0, 1}},
    {CONFIG(decoder_start),
     INT32,
     0,
     4,
     {TRF_START_BOS, TRF_START_EOS, TRF_START_PAD, TRF_START_ZERO}},
    {TRAINING(optimizer), INT32, 0, 2, {TRF_ADAM, TRF_ADAMW}},
    {TRAINING(beta1), DOUBLE, 0, 1, {0.8}},
    {TRAINING(beta2), DOUBLE, 0, 1, {0.999}},
    {TRAINING(epsilon), DOUBLE, 0, 1, {1e-9}},
    {TRAINING(epsilon_rule),
     INT32,
     0,
     3,
     {TRF_EPSILON_OUTSIDE, TRF_EPSILON_FAIRSEQ, TRF_EPSILON_INSIDE}},
    {TRAINING(weight_decay), DOUBLE, 0, 1, {0.0}},
    {TRAINING(decay_all), INT32, 0, 2, {0, 1}},
    {TRAINING(schedule), INT32, 0, 3, {TRF_NOAM, TRF_INVERSE_SQRT, TRF_CONSTANT}},
    {TRAINING(learning_rate), DOUBLE, 0, 1, {0.01}},
    {TRAINING(initial_rate), DOUBLE, 0, 1, {0.0}},
    {TRAINING(final_rate), DOUBLE, 0, 1, {0.0}},
    {TRAINING(warmup), INT64, 0, 1, {6}},
    {TRAINING(total_steps), INT64, 0, 1, {12}},
    {TRAINING(label_smoothing), DOUBLE, 0, 2, {0.0, 0.1}},
    {TRAINING(smoothing_rule),
     INT32,
     0,
     4,
     {TRF_SMOOTH_UNIFORM, TRF_SMOOTH_OTHERS, TRF_SMOOTH_OTHERS_KL, TRF_SMOOTH_NO_PAD_KL}},
    {TRAINING(clip_norm), DOUBLE, 0, 2, {0.05, TRF_NO_CLIPPING}},
};

/* Sets the field; 0 if it had that value. */
static int flip(const field *f, double value, trf_config *config, trf_train_options *training)
{
    char *at = (f->of_training ? (char *)training : (char *)config) + f->offset;
    int32_t narrow = (int32_t)(f->type == INT32 ? value : 0);
    int64_t wide = (int64_t)(f->type == INT64 ? value : 0);
    const void *from = f->type == INT32 ? (const void *)&narrow
                     : f->type == INT64 ? (const void *)&wide : (const void *)&value;
    size_t size = f->type == INT32 ? sizeof narrow : sizeof wide;
    if (memcmp(at, from, size) == 0) return 0;
    memcpy(at, from, size);
    return 1;
}

/* Flipping a special id may leave two that are equal: exchange them. */
static void keep_ids_apart(const trf_config *was, trf_config *config)
{
    int32_t *ids[4] = { NULL, NULL, NULL, NULL };
    const int32_t before[4] = { was->pad, was->bos, was->eos, was->unk };
    int i, j;
    ids[0] = &config->pad; ids[1] = &config->bos; ids[2] = &config->eos; ids[3] = &config->unk;
    for (i = 0; i < 4; i++)
        for (j = 0; j < 4; j++)
            if (i != j && *ids[i] != before[i] && *ids[j] == *ids[i]) *ids[j] = before[i];
}

static void test_every_convention_is_seen(void **state)
{
    size_t k;
    int failed = 0;
    (void)state;
    for (k = 0; k < sizeof fields / sizeof *fields; k++) {
        int v;
        for (v = 0; v < fields[k].n; v++) {
            double moved = 0;
            int index, seen_at = -1, tried = 0;
            for (index = 0; index < GOLDEN_COUNT; index++) {
                trf_config config, was;
                trf_train_options training;
                trf_batch batch;
                outcome o;
                options_of(index, &config, &training, &batch);
                was = config;
                if (!flip(&fields[k], fields[k].values[v], &config, &training)) continue;
                keep_ids_apart(&was, &config);
                o = run_case(index, &config, &training, &batch);
                if (o.status == TRF_E_SHAPE && fields[k].sees_shape) o.worst = HUGE_VAL;
                else if (o.status) continue; /* this value and this case do not go together */
                tried++;
                if (o.worst > moved) { moved = o.worst; seen_at = index; }
            }
            if (!(moved > 1e-4)) {
                print_error("%s = %g is not seen: %d cases, at most %.1e (%s)\n", fields[k].name,
                            fields[k].values[v], tried, moved,
                            seen_at < 0 ? "-" : golden_names[seen_at]);
                failed++;
            }
        }
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_golden),
        cmocka_unit_test(test_every_convention_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

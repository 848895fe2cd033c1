/* A model of any kind in training, and its gradients beside finite differences: for suites whose
   subject is the loss. */
#ifndef LAB_H
#define LAB_H

#include "answers.h"

#if defined(TRF_DOUBLE)
#define GRADIENT 1e-6
#define CLOSE    1e-11
#else
#define GRADIENT 5e-2
#define CLOSE    3e-5
#endif

enum { KINDS = 9 };
typedef struct lab { trf_config c; trf_train_options o; trf_model *model; trf_trainer *trainer; } lab;

/* Variants 0 to 7 of answers.h, and a head for tokens. */
static KIT_UNUSED lab lab_of(int kind, double dropout, double consistency)
{
    lab l;
    memset(&l, 0, sizeof l);
    l.c = config_of(kind < 8 ? kind : 6, 16);
    if (kind == 8) l.c.head = TRF_HEAD_TOKENS;
    l.c.device.threads = 1;
    l.o = kit_small_training(dropout);
    l.o.consistency = consistency;
    return l;
}

static KIT_UNUSED void lab_is_small(lab *l)
{
    l->c.encoder_layers = l->c.encoder_layers ? 1 : 0;
    l->c.decoder_layers = l->c.decoder_layers ? 1 : 0;
    l->c.d_ff = 12;
}

static KIT_UNUSED void lab_open(lab *l)
{
    OK(trf_model_create(&l->model, &l->c, NULL, &err));
    OK(trf_trainer_create(&l->trainer, l->model, &l->o, &err));
}

static KIT_UNUSED void lab_close(lab *l)
{
    trf_trainer_destroy(l->trainer);
    trf_model_destroy(l->model);
}

static KIT_UNUSED trf_batch batch_of(const lab *l, kit_pairs *p, int32_t count, uint64_t seed)
{
    trf_batch b = batch_for(&l->c, p, count, seed);
    int64_t k, n = 0;
    int32_t i;
    if (l->c.head != TRF_HEAD_TOKENS) return b;
    for (i = 0; i < count; i++) n += p->target_lengths[i] = p->source_lengths[i];
    for (k = 0; k < n; k++) p->target[k] = (int32_t)(k % (LABELS + 1)) - 1;
    return b;
}

/* The gradients of a batch of `count` pairs, `each` pairs at a time. */
static KIT_UNUSED void lab_adds(lab *l, const trf_batch *batch, int32_t count, int32_t each)
{
    int32_t first;
    for (first = 0; first < count; first += each) {
        trf_batch some = each < count ? kit_slice(batch, first, each) : *batch;
        some.ordinal = 0;
        OK(trf_trainer_forward_backward(l->trainer, &some, NULL, &err));
    }
}

/* What training makes small, times the number of tokens, of which the gradients are. */
static KIT_UNUSED double objective(lab *l, const trf_batch *batch)
{
    trf_step_report r;
    OK(trf_trainer_forward_backward(l->trainer, batch, &r, &err));
    trf_trainer_discard_gradients(l->trainer);
    return (r.loss + l->o.consistency * r.divergence) * (double)r.target_tokens;
}

/* A tensor's gradient beside central differences: in double number by number (of long tensors every
   seventh), in float along the gradient itself. */
static KIT_UNUSED double gradient_error(lab *l, const trf_batch *batch, int32_t index,
                                        const trf_real *gradient)
{
    trf_tensor w = trf_trainer_tensor(l->trainer, TRF_PARAMETER, index);
    int64_t i, n = trf_tensor_count(&w);
    double want = 0, difference = 0, h, slope;
    trf_real *old = kit_numbers(w), *moved = kit_numbers(w);
#if defined(TRF_DOUBLE)
    for (i = 0; i < n; i += n > 50 ? 7 : 1) {
        h = 1e-5;
        moved[i] = old[i] + h;
        kit_put(l->model, w.device_data, moved, n);
        slope = objective(l, batch);
        moved[i] = old[i] - h;
        kit_put(l->model, w.device_data, moved, n);
        slope = (slope - objective(l, batch)) / (2 * h);
        moved[i] = old[i];
        want += slope * slope;
        difference += (slope - gradient[i]) * (slope - gradient[i]);
    }
#else
    double length = 0;
    for (i = 0; i < n; i++) length += (double)gradient[i] * (double)gradient[i];
    length = sqrt(length);
    h = 1e-3;
    for (i = 0; i < n; i++) moved[i] = old[i] + (trf_real)(h * gradient[i] / length);
    kit_put(l->model, w.device_data, moved, n);
    slope = objective(l, batch);
    for (i = 0; i < n; i++) moved[i] = old[i] - (trf_real)(h * gradient[i] / length);
    kit_put(l->model, w.device_data, moved, n);
    slope = (slope - objective(l, batch)) / (2 * h);
    want = slope * slope;
    difference = (slope - length) * (slope - length);
#endif
    kit_put(l->model, w.device_data, old, n);
    free(old);
    free(moved);
    return want > 1e-8 ? sqrt(difference / want) : difference;
}

/* All gradients of a batch. */
static KIT_UNUSED void gradients_fit(lab *l, const trf_batch *batch, int kind)
{
    trf_real *gradients[128];
    int32_t i, n = trf_model_parameter_count(l->model);
    assert_true(n <= 128);
    OK(trf_trainer_forward_backward(l->trainer, batch, NULL, &err));
    for (i = 0; i < n; i++) gradients[i] = kit_numbers(trf_trainer_tensor(l->trainer, TRF_GRADIENT, i));
    trf_trainer_discard_gradients(l->trainer);
    for (i = 0; i < n; i++) {
        double error = gradient_error(l, batch, i, gradients[i]);
        if (!(error <= GRADIENT))
            fail_msg("kind %d: gradient of %s is %.2e off", kind,
                     trf_model_parameter(l->model, i).name, error);
        free(gradients[i]);
    }
}

#endif

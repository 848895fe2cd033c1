#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/train.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cpu/threads.h"
#include "device/backend.h"
#include "device/tensors.h"
#include "model/params.h"
#include "model/model.h"
#include "pass/packed.h"
#include "train/options.h"
#include "train/trainer.h"
#include "train/step.h"

// >>updater        the same step over the caller's tensors
//
// An updater is a trainer. Its model has no layers, only a vector for each of the caller's tensors.
// It never runs its pass, which only holds the numbers that change from step to step. A step copies
// weights and gradients into the arenas, stores the divisor as the number of tokens, and copies the
// weights back.

struct trf_updater { trf_model model; trf_trainer trainer; trf_update_state state; };

/* Not by trf_trainer_destroy: the trainer and its model are parts of the updater. Only their
   layout, weights and arena exist. */
TRF_API void trf_updater_destroy(trf_updater *updater)
{
    if (!updater) return;
    trf_model *m = &updater->model;
    trf_hooks hooks = m->config.hooks;
    trf__trainer_close(&updater->trainer);
    m->run.backend->release(&m->run, m->weights, trf__arena_bytes(&m->layout));
    TRF__FREE(&hooks, m->layout.params, m->layout.n_params);
    trf__free(&hooks, updater, sizeof *updater);
}

/* Tensor number i of a list of the caller's, which must have `count` numbers, or 0: one or more. */
TRF__FN trf_status trf__updater_check(const trf_tensor *t, int32_t i, const char *list,
                                      int64_t count, trf_error *err)
{
    int64_t n = trf_tensor_count(t);
    TRF__FAIL_IF(!t->data, TRF_E_INVALID_ARG, i, list,
                 "%s: tensor %d must have data in the host's memory", list, (int)i);
    if (count ? n == count : n >= 1 && n <= (int64_t)1 << 38) return TRF_OK;
    TRF__FAIL_IF(!count, TRF_E_SHAPE, i, list,
                 "%s: tensor %d must have 1 to 2^38 numbers, got %lld", list, (int)i, (long long)n);
    return trf__fail(err, TRF_E_SHAPE, i, list, "%s: tensor %d must have %lld numbers, got %lld",
                     list, (int)i, (long long)count, (long long)n);
}

/* Gives the trainer a layout of the caller's tensors instead of a model's. */
TRF__FN trf_status trf__updater_open(trf_updater *u, const trf_tensor *weights, int32_t n,
                                     trf_error *err)
{
    trf__layout *layout = &u->model.layout;
    trf_trainer *t = &u->trainer;
    trf__run run = u->model.run;
    char name[sizeof layout->params->name];
    layout->params = TRF__NEW_ZEROED(trf__param, &run.hooks, n);
    for (int32_t i = 0; layout->params && i < n; i++) {
        snprintf(name, sizeof name, "tensor %d", (int)i);
        if (weights[i].name) trf__copy_text(name, sizeof name, weights[i].name);
        trf__add_param(layout, NULL, 0, name, trf_tensor_count(&weights[i]), 0,
                       weights[i].rank > 1 ? TRF__START_MATRIX : TRF__START_ZERO);
    }
    layout->n_params = n;
    TRF__FAIL_IF(!layout->params, TRF_E_NOMEM, -1, "updater", "no memory for %d tensors", (int)n);
    TRF__TRY(trf__model_weights(&u->model, err));
    TRF__TRY(run.backend->open(&run, err));
    t->pass.run = run;
    t->pass.block.bytes = sizeof(trf__now);
    t->pass.block.device = (char *)run.backend->alloc(&run, sizeof(trf__now));
    TRF__FAIL_IF(!t->pass.block.device, TRF_E_NOMEM, -1, "updater", "no memory for an updater");
    return trf__trainer_arena(t, err);
}

/* Checks everything, then opens: a failure frees the shell whole. */
TRF_API trf_status trf_updater_create(trf_updater **updater, const trf_tensor *weights, int32_t n,
                                      int32_t d_model, const trf_train_options *options,
                                      const trf_device *device, trf_error *err)
{
    trf_train_options o = options ? *options : trf_train_defaults();
    trf_updater *u;
    TRF__BEGIN_NEW(updater);
    TRF__ZEROED(trf_config, c);
    c.d_model = d_model;
    c.hooks = o.hooks;
    c.device = device ? *device : trf_device_default();
    if (!weights) return trf__fail_null(err, "weights");
    TRF__TRY(trf__check_range("n", n, 1, 1 << 20, err));
    TRF__TRY(trf_train_check(&o, &c, err));
    TRF__TRY(trf__device_check(&c.device, err));
    c.device = trf__device_with(&c.device, o.threads);
    if (o.schedule == TRF_NOAM) TRF__TRY(trf__check_range("d_model", d_model, 1, 65536, err));
    for (int32_t i = 0; i < n; i++) TRF__TRY(trf__updater_check(&weights[i], i, "weights", 0, err));
    c.device.precision = TRF_PRECISION_FLOAT32;
    TRF__ALLOC_ZEROED(trf_updater, u, &o.hooks, 1, "updater", "for an updater");
    u->model.config = c;
    u->model.run = trf__run_on(&c.device, &o.hooks);
    u->trainer.model = &u->model;
    u->trainer.options = o;
    u->trainer.options.parts = 0;
    trf_status status = trf__updater_open(u, weights, n, err);
    if (status != TRF_OK) { trf_updater_destroy(u); return status; }
    *updater = u;
    return TRF_OK;
}

/* Uploads weights and gradients, makes the step of a trainer, downloads the weights. A skipped
   step changes none. */
TRF_API trf_status trf_updater_step(trf_updater *updater, const trf_tensor *weights,
                                    const trf_tensor *gradients, double divisor,
                                    trf_step_report *report, trf_error *err)
{
    trf_real slots[TRF__TALLIES] = {0};
    trf__clip_result made;
    trf__report_clear(report);
    TRF__TRY(trf__begin(updater, "updater", err));
    if (!weights || !gradients) return trf__fail_null(err, weights ? "gradients" : "weights");
    TRF__TRY(trf__check_range("divisor", divisor, divisor == 0 ? 0 : 1e-30, 1e12, err));
    trf_trainer *t = &updater->trainer;
    const trf__run *run = &t->pass.run;
    const trf__param *p = updater->model.layout.params, *end = p + updater->model.layout.n_params;
    for (int32_t i = 0; p + i < end; i++) {
        TRF__TRY(trf__updater_check(&weights[i], i, "weights", trf__param_size(p + i), err));
        TRF__TRY(trf__updater_check(&gradients[i], i, "gradients", trf__param_size(p + i), err));
    }
    TRF__TRY(trf__set_counters(t, updater->state.step, updater->state.updates, err));
    for (int32_t i = 0; p + i < end; i++) {
        size_t bytes = trf__bytes(trf__param_size(p + i), sizeof(trf_real));
        run->backend->upload(run, updater->model.weights + p[i].offset, weights[i].data, bytes);
        run->backend->upload(run, t->gradients + p[i].offset, gradients[i].data, bytes);
    }
    trf__tally_add(slots, TRF__TALLY_TOKENS, divisor);
    run->backend->upload(run, t->gradients + updater->model.layout.n_weights, slots, sizeof slots);
    t->pass.block.now.learning_rate = trf_learning_rate(&t->options, updater->model.config.d_model,
                                                  t->step + 1);
    run->backend->upload(run, t->pass.block.device, &t->pass.block.now, sizeof t->pass.block.now);
    t->micro = 1;
    t->target_rows = divisor > 0;
    TRF__TRY(trf_trainer_update(t, report, err));
    for (int32_t i = 0; p + i < end; i++)
        run->backend->download(run, weights[i].data, updater->model.weights + p[i].offset,
                               trf__bytes(trf__param_size(p + i), sizeof(trf_real)));
    TRF__TRY(trf__clip_result_of(t, &made, err));       /* waits for the weights too */
    updater->state.step = t->step;
    updater->state.updates = made.updates;
    return TRF_OK;
}

TRF_API trf_tensor trf_updater_moment(trf_updater *updater, int32_t index, int32_t second)
{
    trf_trainer *t = updater ? &updater->trainer : NULL;
    if (!t) return trf_model_parameter(NULL, index);
    return trf__param_view(t->model, &t->pass.run, second ? t->v : t->m, index);
}

TRF_API trf_update_state *trf_updater_state(trf_updater *updater)
{
    return updater ? &updater->state : NULL;
}

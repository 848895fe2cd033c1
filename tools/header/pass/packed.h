#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/train.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/int8.h"
#include "device/backend.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/params.h"
#include "model/model.h"
#include "model/copies.h"
#include "pass/stacks.h"
#include "pass/pass.h"

// >>pass-pack      weights as the device keeps them for products

/* Bytes of the packed weights of a layout's parameters. */
TRF__FN size_t trf__packed_size(const trf__layout *layout, const trf__run *run, int packs)
{
    if (packs == TRF__PACKS_16_BITS) return trf__bytes(layout->n_weights, run->element);
    return packs == TRF__PACKS_MATRICES ? layout->packed_bytes[run->format] : 0;
}

/* A matrix of products. If another format than float32 is packed, nothing reads the floats. */
TRF__FN trf__mat trf__weight(const trf__pass *pass, const trf__affine *a)
{
    const trf__pass_weights *from = &pass->weights;
    trf__mat w = { NULL, NULL, 0, pass->run.format };
    size_t at = from->packs == TRF__PACKS_16_BITS ? (size_t)a->w * pass->run.element
                                                  : a->packed[w.format];
    if (a->w >= 0 && (w.format == TRF__FLOAT32 || !from->packed || pass->training))
        w.plain = from->plain + a->w;
    if (from->packed) w.packed = (char *)from->packed + at;
    return w;
}

TRF__FN void trf__pack_matrix(const trf__pass *pass, const trf__affine *a)
{
    trf__mat w = trf__weight(pass, a);
    trf__pack pack = trf__pack_of((void *)(uintptr_t)w.packed, pass->weights.plain + a->w, a->out,
                                  a->in, w.format);
    if (a->w >= 0) pass->run.backend->pack(&pass->run, &pack);
}

/* Packs the weights as they are now. */
TRF__FN void trf__pack_weights(const trf__pass *pass)
{
    const trf__layout *layout = pass->layout;
    if (!pass->weights.packed) return;
    if (pass->weights.packs == TRF__PACKS_16_BITS) {
        for (int32_t i = 0; i < layout->n_params; i++) {
            const trf__param *p = &layout->params[i];
            char *to = (char *)pass->weights.packed + (size_t)p->offset * pass->run.element;
            trf__pack pack = trf__pack_of(to, pass->weights.plain + p->offset, p->shape[0],
                                          p->shape[1], TRF__FLOAT32);
            pass->run.backend->pack(&pass->run, &pack);
        }
        return;
    }
    for (int32_t i = 0; i < layout->n_parts; i++) {
        trf__pack_matrix(pass, &layout->specs[i].in);
        trf__pack_matrix(pass, &layout->specs[i].out);
    }
    trf__pack_matrix(pass, &layout->model.generator);
    trf__pack_matrix(pass, &layout->model.head_layer);
    trf__pack_matrix(pass, &layout->model.sequence_layer);
    trf__pack_matrix(pass, &layout->model.sequence_head);
    for (int32_t i = 0; i < 2 && pass->run.format != TRF__FLOAT32; i++) {
        const trf__affine *embed = &layout->model.embed[i];
        if (embed->w != layout->model.generator.w &&
            (i == 0 || embed->w != layout->model.embed[0].w))
            trf__pack_matrix(pass, embed);
    }
}

/* The model's device with this number of threads; 0: with its own. */
TRF__FN trf_device trf__device_with(const trf_device *device, int32_t threads)
{
    trf_device with = *device;
    if (threads > 0) with.threads = threads;
    return with;
}

/* Products have three of the formats of files. */
TRF__FN trf_status trf__check_product_weights(trf_weights weights, trf_error *err)
{
    return TRF__OK_IF(weights == TRF_WEIGHTS_FULL || weights == TRF_WEIGHTS_BF16 ||
                      weights == TRF_WEIGHTS_INT8, TRF_E_INVALID_ARG, -1, "weights",
                      "expected TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16 or TRF_WEIGHTS_INT8, got %d",
                      (int)weights);
}

/* Sums of 8-bit products must fit into 32 bits. */
TRF__FN trf_status trf__check_sums(const trf_config *c, trf_weights weights, trf_error *err)
{
    int64_t longest = trf__max64(trf__max64(c->d_model, c->d_ff), trf__q_width(c));
    return TRF__OK_IF(weights != TRF_WEIGHTS_INT8 || longest <= TRF__INT8_DEEPEST,
                      TRF_E_UNSUPPORTED, -1, "weights",
                      "TRF_WEIGHTS_INT8 has sums of up to %d products, but d_model, d_ff or "
                      "n_heads * d_head is %lld", (int)TRF__INT8_DEEPEST, (long long)longest);
}

/* Sets the format of packed weights, if the device has it for such a model. */
TRF__FN trf_status trf__run_weights(trf__run *run, const trf_config *c, trf_weights weights,
                                    trf_error *err)
{
    int format = weights == TRF_WEIGHTS_INT8 ? (int)TRF__INT8 : (int)TRF__BF16;
    if (weights == TRF_WEIGHTS_FULL) return TRF_OK;
    TRF__FAIL_IF(TRF__REAL_BYTES == 8 || run->backend->packed_bytes(format, 16, 16) == 0,
                 TRF_E_UNSUPPORTED, -1, "weights", "%s computes with TRF_WEIGHTS_FULL only",
                 TRF__REAL_BYTES == 8 ? "a build with TRF_DOUBLE" : run->backend->name);
    TRF__TRY(trf__check_sums(c, weights, err));
    run->format = format;
    return TRF_OK;
}

/* A packed model has one format. */
TRF__FN trf_status trf__check_packed(const trf_model *model, const trf__run *run, trf_error *err)
{
    static const char *const names[TRF__FORMATS] = {"FULL", "BF16", "INT8"};
    return TRF__OK_IF(!model->layout.packed || run->format == model->layout.format, TRF_E_STATE, -1,
                      "weights", "the model is packed with TRF_WEIGHTS_%s, and TRF_WEIGHTS_%s "
                      "cannot be made of that", names[model->layout.format], names[run->format]);
}

/* The sublayers of a pass on paper whose run is open, and room for a batch, which may grow later.
   What is there after a failure, trf__pass_free frees. */
TRF__FN trf_status trf__pass_alloc(trf__pass *pass, const trf__limits *limits,
                                     const trf_train_options *o, trf_error *err)
{
    int n = pass->encoder.n_sublayers + pass->decoder.n_sublayers;
    TRF__ALLOC_ZEROED(trf__sublayer, pass->plan.sublayers, &pass->run.hooks, n, "sublayers",
                      "for the list of %d sublayers", n);
    pass->encoder.sublayers = pass->plan.sublayers;
    pass->decoder.sublayers = pass->plan.sublayers + pass->encoder.n_sublayers;
    trf__stack_sublayers(pass, &pass->encoder);
    trf__stack_sublayers(pass, &pass->decoder);
    if (o) trf__follow_options(pass, o);
    return trf__pass_resize(pass, limits, err);
}

/* Sublayers, and packed weights if it does not train and the device uses them. What is there after
   a failure, trf__pass_leave frees. */
TRF__FN trf_status trf__pass_begin(trf__pass *pass, const trf_model *model,
                                   const trf__limits *limits, const trf_train_options *o,
                                   trf_error *err)
{
    const trf__run *run = &pass->run;
    pass->weights.plain = model->weights;
    pass->weights.packed = model->packed;
    TRF__TRY(trf__pass_alloc(pass, limits, o, err));
    size_t bytes = trf__packed_size(pass->layout, run, pass->weights.packs);
    if (o || model->packed || bytes == 0) return TRF_OK;
    pass->weights.packed = run->backend->alloc(run, bytes);
    TRF__FAIL_IF(!pass->weights.packed, TRF_E_NOMEM, -1, "weights",
                 "no memory for a copy of the weights");
    pass->weights.packed_bytes = bytes;
    trf__pack_weights(pass);
    return TRF_OK;
}

/* Opens a pass of another model that computes on this run, which is open. */
TRF__FN trf_status trf__pass_join(trf__pass *pass, const trf_model *model, const trf__run *run,
                                  trf__limits limits, trf_error *err)
{
    TRF__TRY(trf__check_whole(model, err));
    TRF__TRY(trf__check_sums(&model->config, run->format == TRF__INT8 ? TRF_WEIGHTS_INT8
                                                                      : TRF_WEIGHTS_FULL, err));
    TRF__TRY(trf__check_packed(model, run, err));
    limits.longest = trf__min64(limits.longest, model->config.max_length);
    *pass = trf__pass_of(&model->config, &model->layout, &limits, NULL, run);
    return trf__pass_begin(pass, model, &limits, NULL, err);
}

/* What lasts as long as the pass: state of the device, sublayers, packed weights. Only a trainer
   computes with a part of the layers. */
TRF__FN trf_status trf__pass_open(trf__pass *pass, const trf_model *model,
                                  const trf__limits *limits, const trf_train_options *o,
                                  trf_weights weights, const trf_device *device,
                                  const trf_hooks *hooks, trf_error *err)
{
    if (!o) TRF__TRY(trf__check_whole(model, err));
    trf__run run = trf__run_on(device, hooks);
    /* bits of answers must not depend on the batch, so AUTO never means CBLAS */
    if (!o && run.device.products == TRF_PRODUCTS_AUTO) run.device.products = TRF_PRODUCTS_BUILT_IN;
    TRF__TRY(trf__run_weights(&run, &model->config, weights, err));
    if (model->packed && weights == TRF_WEIGHTS_FULL) run.format = model->layout.format;
    TRF__TRY(trf__check_packed(model, &run, err));
    *pass = trf__pass_of(&model->config, &model->layout, limits, o, &run);
    trf_status status = run.backend->open(&pass->run, err);
    if (status != TRF_OK) { TRF__ZERO(*pass); return status; }
    if (trf__is_stage(model)) pass->plan.has = TRF__SCRATCH;    /* its slots have the rest */
    status = trf__pass_begin(pass, model, limits, o, err);
    if (status != TRF_OK) trf__pass_close(pass);
    return status;
}

// >>packed-models  models that have their matrices packed alone

/* Lays a model without weights out anew: matrices packed in a format, everything else as floats. */
TRF__FN void trf__lay_out_packed(trf_model *model, int format)
{
    trf__layout *layout = &model->layout;
    layout->packed = 1;
    layout->format = format;
    layout->generator = layout->model.generator.w < 0 ? -1 : layout->model.generator.param;
    trf__lay_out(layout, &model->config);
}

/* The matrix that a parameter is, in a packed model. */
TRF__FN const trf__affine *trf__affine_of(const trf__layout *layout, int32_t param)
{
    const trf__model_params *outer = &layout->model;
    const trf__affine *const others[5] = {&outer->generator, &outer->head_layer,
        &outer->sequence_layer, &outer->sequence_head, &outer->embed[0]};
    for (int32_t i = 0; i < layout->n_parts; i++) {
        if (layout->specs[i].in.param == param) return &layout->specs[i].in;
        if (layout->specs[i].out.param == param) return &layout->specs[i].out;
    }
    for (int i = 0; i < 5; i++)
        if (others[i]->out && others[i]->param == param) return others[i];
    return &outer->embed[1];
}

/* Memory of such a model. Packing writes every byte of a matrix, and nothing lies between them. */
TRF__FN trf_status trf__packed_weights(trf_model *model, const trf__run *run, trf_error *err)
{
    TRF__TRY(trf__model_weights(model, err));
    model->packed_bytes = model->layout.packed_bytes[model->layout.format];
    model->packed = run->backend->alloc(run, model->packed_bytes);
    TRF__FAIL_IF(!model->packed, TRF_E_NOMEM, -1, "weights", "no memory for the packed weights");
    return TRF_OK;
}

/* The model's new arenas from those of another. */
TRF__FN trf_status trf__pack_model(trf_model *to, const trf_model *from, const trf__run *run,
                                   trf_error *err)
{
    TRF__ZEROED(trf__limits, none);
    TRF__TRY(trf__packed_weights(to, run, err));
    trf__pass pass = trf__pass_of(&from->config, &from->layout, &none, NULL, run);
    pass.weights.plain = from->weights;
    pass.weights.packed = to->packed;
    trf__pack_weights(&pass);
    for (int32_t i = 0; i < to->layout.n_params; i++) {
        const trf__param *p = &to->layout.params[i];
        if (p->offset < 0) continue;
        run->backend->copy(run, to->weights + p->offset,
                           from->weights + from->layout.params[i].offset,
                           trf__bytes(trf__param_size(p), sizeof(trf_real)));
    }
    return run->backend->sync(run, err);
}

TRF__FN trf_status trf__check_packing(const trf__run *run, trf_error *err)
{
    return TRF__OK_IF(run->backend->packs(&run->device, 0) == TRF__PACKS_MATRICES,
                      TRF_E_UNSUPPORTED, -1, "device", "the device %s cannot pack matrices",
                      run->backend->name);
}

/* The new arenas are complete before the old ones go, so a failure leaves the model as it was. */
TRF_API trf_status trf_model_pack(trf_model *model, trf_weights weights, trf_error *err)
{
    trf_model *to;
    TRF__TRY(trf__begin(model, "model", err));
    TRF__TRY(trf__check_whole(model, err));
    TRF__TRY(trf__check_product_weights(weights, err));
    trf__run run = trf__run_on(&model->config.device, &model->config.hooks);
    TRF__TRY(trf__run_weights(&run, &model->config, weights, err));
    if (model->packed && weights == TRF_WEIGHTS_FULL) return TRF_OK;
    if (model->packed) return trf__check_packed(model, &run, err);
    TRF__TRY(trf__check_packing(&run, err));
    TRF__TRY(trf__stage_without_weights(&to, &model->config, 0, 0, err));
    trf__lay_out_packed(to, run.format);
    trf_status status = run.backend->open(&run, err);
    if (status == TRF_OK) {
        status = trf__pack_model(to, model, &run, err);
        run.backend->close(&run);
    }
    if (status == TRF_OK) {             /* the model keeps its texts, and gives up its floats */
        trf_model old = *model;
        model->layout = to->layout; model->weights = to->weights;
        model->packed = to->packed; model->packed_bytes = to->packed_bytes;
        to->layout = old.layout; to->weights = old.weights;
        to->packed = NULL;
    }
    trf_model_destroy(to);
    return status;
}

TRF_API size_t trf_packed_memory(const trf_config *config, trf_weights weights, size_t *shared,
                                 trf_error *err)
{
    trf_model *model;
    if (shared) *shared = 0;
    if (trf_config_check(config, NULL, err) || trf__check_product_weights(weights, err)) return 0;
    trf__run run = trf__run_on(&config->device, &config->hooks);
    if (trf__run_weights(&run, config, weights, err) || trf__check_packing(&run, err) ||
        trf__stage_without_weights(&model, config, 0, 0, err))
        return 0;
    trf__lay_out_packed(model, run.format);
    size_t packed = model->layout.packed_bytes[run.format];
    size_t bytes = trf__add_size(packed, trf__layout_memory(&model->layout));
    trf_model_destroy(model);
    if (shared) *shared = packed;
    return bytes;
}

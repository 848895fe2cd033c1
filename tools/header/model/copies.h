#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/params.h"
#include "model/model.h"
#include "model/texts.h"

// >>model-copies   copies, means, weights of other models

/* Refuses a model without float matrices, for calls that read or change them. */
TRF__FN trf_status trf__check_floats(const trf_model *model, trf_error *err)
{
    if (!model->packed) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "model",
                     "the model is packed (trf_model_pack, a packed file or 8-bit weights): it can "
                     "be used by translators and samplers, but not trained, copied or averaged");
}

TRF__FN int trf__is_stage(const trf_model *model) { return model->layout.end > 0; }

/* Refuses a stage, for calls that need all layers. */
TRF__FN trf_status trf__check_whole(const trf_model *model, trf_error *err)
{
    return TRF__OK_IF(!trf__is_stage(model), TRF_E_STATE, -1, "model",
                      "the model is a stage, with layers %d to %d of %d: a whole model is needed "
                      "(trf_model_copy_weights)", (int)model->layout.first,
                      (int)model->layout.end - 1,
                      (int)(model->config.encoder_layers + model->config.decoder_layers));
}

/* Makes everything but the weights anew from the configuration. Copies those on the device. */
TRF_API trf_status trf_model_copy(trf_model **copy, const trf_model *model, trf_error *err)
{
    if (copy) *copy = NULL;
    TRF__TRY(trf__begin(model, "model", err));
    if (!copy) return trf__fail_null(err, "copy");
    TRF__TRY(trf__check_floats(model, err));
    TRF__TRY(trf__stage_new(copy, &model->config, model->layout.first, model->layout.end, err));
    model->run.backend->copy(&model->run, (*copy)->weights, model->weights,
                             trf__arena_bytes(&model->layout));
    trf_status status = model->run.backend->sync(&model->run, err);
    if (!status) status = trf_model_set_vocabs(*copy, model->source, model->target, err);
    if (!status) status = trf__metadata_keep(*copy, model->metadata, model->n_metadata, err);
    return trf__model_or_destroy(copy, status);
}

/* Fields that say where a model comes from, not what it computes. */
TRF__FN int trf__is_origin(const char *field)
{
    return !strcmp(field, "seed") || !strncmp(field, "trained_", 8);
}

/* Checks that model `number` has the configuration `a`, but for its origin. */
TRF__FN trf_status trf__check_same_config(const trf_config *a, const trf_config *b, int32_t number,
                                          trf_error *err)
{
#define TRF__X(type, field, low, high, stored) \
    if (a->field != b->field && !trf__is_origin(#field)) \
        return trf__fail(err, TRF_E_SHAPE, number, #field, "%s is %.9g, but model %d has %.9g", \
                         #field, \
                         (double)a->field, (int)number, (double)b->field);
    TRF__CONFIG_FIELDS(TRF__X)
#undef TRF__X
    return TRF_OK;
}

/* Averages chunk by chunk in double: the order of the models changes the last bit at most, and no
   second arena is needed. */
TRF_API trf_status trf_model_average(trf_model *model, trf_model *const *models, int32_t count,
                                     trf_error *err)
{
    enum { CHUNK = 2048 };
    double sum[CHUNK];
    trf_real numbers[CHUNK];
    int64_t n;
    TRF__TRY(trf__begin(model, "model", err));
    if (count < 1) return trf__fail_below(err, "count", 1, count);
    if (!models) return trf__fail_null(err, "models");
    TRF__TRY(trf__check_floats(model, err));
    TRF__TRY(trf__check_whole(model, err));
    for (int32_t k = 0; k < count; k++) {
        TRF__FAIL_IF(!models[k], TRF_E_INVALID_ARG, k, "models", "model %d must not be NULL",
                     (int)k);
        TRF__TRY(trf__check_same_config(&model->config, &models[k]->config, k, err));
        TRF__TRY(trf__check_floats(models[k], err));
        TRF__TRY(trf__check_whole(models[k], err));
    }
    for (int32_t number = 0; number < model->layout.n_params; number++) {
        const trf__param *p = &model->layout.params[number];
        for (int64_t at = 0; at < trf__param_size(p); at += n) {
            n = trf__min64(trf__param_size(p) - at, CHUNK);
            for (int32_t k = 0; k < count; k++) {
                TRF__TRY(trf__arena_get(models[k], models[k]->weights, p->offset + at, numbers, n,
                                        err));
                for (int64_t i = 0; i < n; i++) sum[i] = k > 0 ? sum[i] + (double)numbers[i]
                    : (double)numbers[i];
            }
            for (int64_t i = 0; i < n; i++) numbers[i] = (trf_real)(sum[i] / count);
            trf__arena_put(model, model->weights, p->offset + at, numbers, n);
        }
    }
    return model->run.backend->sync(&model->run, err);
}

/* The parameter from which one of `model` starts, or -1. */
TRF__FN int32_t trf__copied_from(const trf_model *model, const trf_model *from, const char *name)
{
    static const char layer[] = "head.layer.";
    char other[64];
    int32_t k = -1;
    if (model->config.head == TRF_HEAD_FIRST && !strncmp(name, layer, sizeof layer - 1)) {
        snprintf(other, sizeof other, "sequence.layer.%s", name + sizeof layer - 1);
        k = trf_model_parameter_index(from, other);
    }
    return k < 0 ? trf_model_parameter_index(from, name) : k;
}

/* The first of two rounds compares all shapes, the second writes, so a mismatch changes nothing. */
TRF_API trf_status trf_model_copy_weights(trf_model *model, const trf_model *from, int32_t *copied,
                                          trf_error *err)
{
    trf_real numbers[2048];
    int32_t k, n_written = 0;
    if (copied) *copied = 0;
    TRF__TRY(trf__begin(model, "model", err));
    if (!from) return trf__fail_null(err, "from");
    TRF__TRY(trf__check_floats(model, err));
    TRF__TRY(trf__check_floats(from, err));
    for (int32_t write = 0; write < 2; write++)         /* first only a look */
        for (int32_t i = 0; i < model->layout.n_params; i++) {
            const trf__param *p = &model->layout.params[i];
            int64_t n;
            if ((k = trf__copied_from(model, from, p->name)) < 0) continue;
            if (p->offset == model->layout.model.head_b &&      /* a token's is no label's */
                trf__has_labels(&model->config) != trf__has_labels(&from->config)) continue;
            const trf__param *q = &from->layout.params[k];
            TRF__FAIL_IF(q->shape[1] != p->shape[1], TRF_E_SHAPE, -1, p->name,
                         "%s has %lld columns, but %lld in the other model", p->name,
                         (long long)p->shape[1], (long long)q->shape[1]);
            int64_t size = trf__min64(trf__param_size(p), trf__param_size(q));
            for (int64_t at = 0; write && at < size; at += n) {
                n = trf__min64(size - at, (int64_t)(sizeof numbers / sizeof *numbers));
                TRF__TRY(trf__arena_get(from, from->weights, q->offset + at, numbers, n, err));
                trf__arena_put(model, model->weights, p->offset + at, numbers, n);
            }
            n_written += write;
        }
    TRF__TRY(model->run.backend->sync(&model->run, err));
    if (copied) *copied = n_written;
    return TRF_OK;
}

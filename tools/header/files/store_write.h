#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "cpu/int8.h"
#include "system/text.h"
#include "text/vocab.h"
#include "text/vocab_use.h"
#include "model/config.h"
#include "model/params.h"
#include "model/model.h"
#include "model/copies.h"
#include "pass/packed.h"
#include "files/writing.h"
#include "files/store.h"
#include "files/store_packed.h"

// >>store-write    the parameters as a list of tensors, everything else as notes in the metadata
//
// The list points into the arenas, on whatever device they are: saving copies no weights.

/* Lists the parameters of an arena: BF16 and INT8 for matrices, F16 for all. Returns how many. */
TRF__FN int32_t trf__put_arena(trf__out *out, const trf_model *model, const char *prefix,
                               const trf_real *arena, trf_weights weights)
{
    static const char *const dtypes[TRF_WEIGHTS_COUNT] = {TRF__DTYPE, "BF16", "F16", "I8"};
    for (int32_t i = 0; i < model->layout.n_params; i++, out++) {
        const trf__param *p = &model->layout.params[i];
        int full = weights != TRF_WEIGHTS_F16 && !trf__is_matrix(p->start);
        *out = trf__out_of(prefix, p->name, dtypes[full ? TRF_WEIGHTS_FULL : weights], p->rank,
                           p->shape, arena + p->offset, &model->run);
    }
    return model->layout.n_params;
}

/* The scales of all rows of all matrices, in the order of parameters, for a file of 8 bits. */
typedef struct trf__row_scales {
    float *scales;              /* as a file has them: 1 for a row that is all 0 */
    trf_real *inverses;
    trf_real *row;              /* the longest row */
    int64_t n, longest;
} trf__row_scales;

TRF__FN void trf__row_scales_free(trf__row_scales *of, const trf_hooks *hooks)
{
    TRF__FREE(hooks, of->scales, of->n);
    TRF__FREE(hooks, of->inverses, of->n);
    TRF__FREE(hooks, of->row, of->longest);
}

/* Finds the scales. A row with a number that is not finite has none. */
TRF__FN trf_status trf__row_scales_find(trf__row_scales *of, const trf_model *model, trf_error *err)
{
    const trf__layout *layout = &model->layout;
    int64_t at = 0;
    for (int32_t i = 0; i < layout->n_params; i++) {
        const trf__param *p = &layout->params[i];
        const int64_t rows = trf__is_matrix(p->start) ? p->shape[0] : 0;
        for (int64_t row = 0; row < rows; row++, at++) {
            TRF__TRY(trf__arena_get(model, model->weights, p->offset + row * p->shape[1], of->row,
                                    p->shape[1], err));
            float scale = trf__int8_scale(of->row, p->shape[1], &of->inverses[at]);
            TRF__FAIL_IF(!trf__is_finite((double)scale), TRF_E_NONFINITE, row, p->name,
                         "tensor \"%.100s\": row %lld has a number that is infinite or not a "
                         "number, and 8 bits cannot hold it", p->name, (long long)row);
            of->scales[at] = of->inverses[at] != 0 ? scale : 1;
        }
    }
    return TRF_OK;
}

TRF__FN trf_status trf__row_scales_of(trf__row_scales *of, const trf_model *model, trf_error *err)
{
    const trf_hooks *hooks = &model->config.hooks;
    TRF__ZERO(*of);
    for (int32_t i = 0; i < model->layout.n_params; i++) {
        const trf__param *p = &model->layout.params[i];
        if (!trf__is_matrix(p->start)) continue;
        of->n += p->shape[0];
        of->longest = trf__max64(of->longest, p->shape[1]);
    }
    of->scales = TRF__NEW(float, hooks, of->n);
    of->inverses = TRF__NEW(trf_real, hooks, of->n);
    of->row = TRF__NEW(trf_real, hooks, of->longest);
    trf_status status = TRF__OK_IF(of->scales && of->inverses && of->row, TRF_E_NOMEM, -1, "scales",
                                   "no memory for the scales of %lld rows", (long long)of->n);
    if (!status) status = trf__row_scales_find(of, model, err);
    if (status != TRF_OK) trf__row_scales_free(of, hooks);
    return status;
}

/* Gives each listed matrix its scales, and appends them as tensors. Returns how many. */
TRF__FN int32_t trf__put_scales(trf__out *out, const trf_model *model, const trf__row_scales *of)
{
    int64_t at = 0;
    int32_t n = model->layout.n_params, all = n;
    for (int32_t i = 0; i < n; i++) {
        const trf__param *p = &model->layout.params[i];
        char name[sizeof p->name + sizeof TRF__SCALE];
        if (!trf__is_matrix(p->start)) continue;
        snprintf(name, sizeof name, "%s" TRF__SCALE, p->name);
        out[i].inverses = of->inverses + at;
        out[i].columns = p->shape[1];
        out[all++] = trf__out_of("", name, "F32", 1, p->shape, of->scales + at, NULL);
        at += p->shape[0];
    }
    return all - n;
}

/* Writes a model whose weights lie in `arena`, or with companions (for each an arena, or NULL) a
   checkpoint. */
TRF__FN trf_status trf__write_model(const trf_model *model, const trf_real *arena,
                                    const trf_real *const *companions, trf__notes notes,
                                    const void *of, const trf__destination *to,
                                    trf_weights weights, trf_error *err)
{
    const trf_hooks *hooks = &model->config.hooks;
    const int64_t most = (1 + TRF__COMPANIONS) * (int64_t)model->layout.n_params + 2;
    TRF__ZEROED(trf__row_scales, scales);
    TRF__TRY(trf__check_floats(model, err));
    if (!companions) TRF__TRY(trf__check_whole(model, err));
    TRF__TRY(trf__check_sums(&model->config, weights, err));
    if (weights == TRF_WEIGHTS_INT8) TRF__TRY(trf__row_scales_of(&scales, model, err));
    trf__out *out = TRF__NEW_ZEROED(trf__out, hooks, most);
    if (!out) {
        trf__row_scales_free(&scales, hooks);
        return trf__fail(err, TRF_E_NOMEM, -1, "tensors", "no memory for a list of tensors");
    }
    int32_t all = trf__put_arena(out, model, "", arena, weights);
    if (scales.scales) all += trf__put_scales(out, model, &scales);
    for (int i = 0; companions && i < TRF__COMPANIONS; i++)
        if (companions[i])
            all += trf__put_arena(out + all, model, trf__companions[i].prefix, companions[i],
                                  TRF_WEIGHTS_FULL);
    all += trf__put_vocabs(out + all, model);
    trf_status status = trf__file_write(hooks, to, out, all, notes, of, err);
    TRF__FREE(hooks, out, most);
    trf__row_scales_free(&scales, hooks);
    return status;
}

TRF__FN void trf__metadata_model(trf__text *notes, const void *model)
{
    trf__metadata_content(notes, (const trf_model *)model, "model", TRF__FORMAT);
}

TRF_API trf_status trf_model_save(const trf_model *model, const char *path,
                                  const trf_save_options *options, trf_error *err)
{
    const trf_weights weights = options ? options->weights : TRF_WEIGHTS_FULL;
    trf__destination to;
    trf__clear(err);
    TRF__TRY(trf__save_to(&to, path, options, err));
    if (!model) return trf__fail_null(err, "model");
    TRF__TRY(trf__check_range("weights", (double)weights, 0, TRF_WEIGHTS_COUNT - 1, err));
    TRF__FAIL_IF(weights == TRF_WEIGHTS_INT8 && TRF__REAL_BYTES != 4, TRF_E_UNSUPPORTED, -1,
                 "weights", "a build with TRF_DOUBLE has no weights of 8 bits");
    trf_status status = model->packed ? trf__write_packed(model, &to, weights, err)
                      : trf__write_model(model, model->weights, NULL, trf__metadata_model, model,
                                         &to, weights, err);
    return trf__name_file(status, path ? path : "memory", err);
}

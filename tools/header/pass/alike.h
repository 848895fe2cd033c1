#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/model.h"
#include "base/impl.h"
#include "base/errors.h"
#include "text/vocab.h"
#include "model/checks.h"
#include "model/params.h"
#include "model/model.h"
#include "model/texts.h"
#include "pass/stacks.h"

// >>alike          models that answer together, or teach one another

/* Whether two vocabularies have the same tokens with the same ids. Without one nothing differs. */
TRF__FN int trf__same_tokens(const trf_vocab *a, const trf_vocab *b)
{
    if (!a || !b || a == b) return 1;
    return a->kind == b->kind && a->n_tokens == b->n_tokens && a->n_bytes == b->n_bytes &&
        a->n_stored == b->n_stored && !memcmp(a->special, b->special, sizeof a->special) &&
        (!a->n_bytes || !memcmp(a->bytes, b->bytes, (size_t)a->n_bytes)) &&
        (!a->n_stored || !memcmp(a->stored, b->stored, (size_t)a->n_stored));
}

/* What errors call a model, the models, and the one that they are compared with. */
static const char *const trf__alike_names[2][3] = {
    {"model", "models", "the first one"}, {"teacher", "teachers", "the trained model"}
};

/* What must be alike: X(field, sides of a model that it is about). */
#define TRF__ENSEMBLE_FIELDS(X) \
    X(kind, TRF__TARGET | TRF__HEAD) X(target_vocab, TRF__TARGET) X(pad, TRF__TARGET) \
    X(bos, TRF__TARGET) X(eos, TRF__TARGET) X(unk, TRF__TARGET) X(decoder_start, TRF__TARGET) \
    X(target_eos, TRF__TARGET) X(bare_prompts, TRF__TARGET) X(head, TRF__HEAD) \
    X(n_labels, TRF__HEAD) X(label_kind, TRF__HEAD) X(sequence_labels, TRF__HEAD)

/* Whether configuration k goes with the first one. teaches: b is a teacher of a. */
TRF__FN trf_status trf__check_alike(const trf_config *a, const trf_config *b, int32_t k,
                                    int teaches, trf_error *err)
{
    const char *const *names = trf__alike_names[teaches];
    int sides = trf__has_target(a) ? TRF__TARGET : TRF__HEAD;
#define TRF__X(field, side) \
    if ((sides & (side)) && a->field != b->field) \
        return trf__fail(err, TRF_E_INVALID_ARG, k, names[1], \
                         "%s %d has " #field " %d, but %s has %d", names[0], (int)k, \
                         (int)b->field, names[2], (int)a->field);
    TRF__ENSEMBLE_FIELDS(TRF__X)
#undef TRF__X
    if (a->device.kind == b->device.kind && a->device.index == b->device.index) return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, k, names[1],
                     "%s %d is on another device than %s", names[0], (int)k, names[2]);
}

/* The same of models, with their texts. */
TRF__FN trf_status trf__check_models(const trf_model *a, const trf_model *b, int32_t k,
                                     int teaches, trf_error *err)
{
    const char *const *names = trf__alike_names[teaches];
    const char *of_a = trf_model_metadata(a, "labels"), *of_b = trf_model_metadata(b, "labels");
    TRF__TRY(trf__check_alike(&a->config, &b->config, k, teaches, err));
    TRF__FAIL_IF(!trf__same_tokens(a->target, b->target), TRF_E_INVALID_ARG, k, names[1],
                 "%s %d has other tokens in its target vocabulary than %s", names[0], (int)k,
                 names[2]);
    if (trf__has_target(&a->config) || !of_a || !of_b || !strcmp(of_a, of_b)) return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, k, names[1],
                     "%s %d has other labels than %s", names[0], (int)k, names[2]);
}

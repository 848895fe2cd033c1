#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/model.h"
#include "api/read.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "text/vocab.h"
#include "model/checks.h"
#include "model/model.h"
#include "model/texts.h"
#include "pass/stacks.h"
#include "pass/alike.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "pass/forward.h"

// -----------------------------------------------------------------------------------------------
// >>ensemble       several models, one decoder's list of rows
//
// Each model has a pass, a cache and its rows of the sources. They share the run, so their ops
// follow one another on one device, and the lists of the decoder's rows: which id a row reads, its
// position, its slots. So whatever reorders hypotheses does it for all. After the decoders the op
// `mix` adds the models' logits, one by one, and `top` reads the result instead of states. An
// object with one model has an ensemble of one, and does without `mix`.
// -----------------------------------------------------------------------------------------------

typedef struct trf__ensemble {
    int32_t n;
    const trf_model *models[TRF_MAX_MODELS];
    const trf_config *configs[TRF_MAX_MODELS];
    trf_config config;          /* the first one, with what all of them can read */
    double weights[TRF_MAX_MODELS];
    trf_ensemble_rule rule;
    int apart;                  /* 1: their sources have different vocabularies */
    trf__pass *passes[TRF_MAX_MODELS];
    trf__pass *others;          /* the memory of passes 1 .. n - 1; the first is the owner's */
    int64_t moves;              /* how often an arena of these has moved: recorded lists differ */
} trf__ensemble;

/* The configurations together. */
TRF__FN void trf__ensemble_configs(trf__ensemble *e, const trf_config *const *configs, int32_t n)
{
    e->n = n;
    e->config = *configs[0];
    for (int32_t k = 0; k < n; k++) {
        e->configs[k] = configs[k];
        if (configs[k]->max_length < e->config.max_length)
            e->config.max_length = configs[k]->max_length;
        if (configs[k]->source_vocab < e->config.source_vocab)
            e->config.source_vocab = configs[k]->source_vocab;
    }
}

TRF__FN trf_status trf__check_ensemble(const trf_ensemble *x, trf_error *err)
{
    TRF__TRY(trf__check_range("ensemble.n", x->n, 0, TRF_MAX_MODELS, err));
    if (x->n && !x->models) return trf__fail_null(err, "models");
    return trf__check_range("ensemble.rule", (double)x->rule, 0, TRF_ENSEMBLE_RULE_COUNT - 1, err);
}

/* Sets models and weights: the model alone, or those of `given`. Nothing is made yet. */
TRF__FN trf_status trf__ensemble_of(trf__ensemble *e, const trf_model *model,
                                    const trf_ensemble *given, trf_error *err)
{
    const trf_model *const *models = given->n > 0 ? given->models : &model;
    const trf_config *configs[TRF_MAX_MODELS];
    double sum = 0;
    int32_t n = given->n > 0 ? given->n : 1;
    TRF__ZERO(*e);
    TRF__TRY(trf__check_ensemble(given, err));
    TRF__FAIL_IF(model && model != models[0], TRF_E_INVALID_ARG, -1, "model",
                 "with an ensemble, model must be NULL or its first one");
    for (int32_t k = 0; k < n; k++) {
        if (!models[k]) return trf__fail_null(err, given->n > 0 ? "models" : "model");
        TRF__TRY(trf__check_models(models[0], models[k], k, 0, err));
        e->apart |= trf__has_source(&models[0]->config) &&
            !trf__same_tokens(models[0]->source, models[k]->source);
        e->models[k] = models[k];
        configs[k] = &models[k]->config;
        e->weights[k] = given->n > 0 && given->weights ? given->weights[k] : 1;
        TRF__FAIL_IF(!(e->weights[k] >= 1e-6 && e->weights[k] <= 1e6), TRF_E_INVALID_ARG, k,
                     "weights", "weight %d must be in 1e-6..1e6, got %g", (int)k, e->weights[k]);
        sum += e->weights[k];
    }
    trf__ensemble_configs(e, configs, n);
    e->rule = given->rule;
    for (int32_t k = 0; e->rule == TRF_ENSEMBLE_ARITHMETIC && k < n; k++) e->weights[k] /= sum;
    return TRF_OK;
}

// >>ensemble-pass  the passes of an ensemble

/* Opens the passes of all models but the first, whose pass is open. The owner closes them, after a
   failure too. */
TRF__FN trf_status trf__ensemble_open(trf__ensemble *e, trf__pass *first, trf_error *err)
{
    e->passes[0] = first;
    if (e->n == 1) return TRF_OK;
    TRF__ALLOC_ZEROED(trf__pass, e->others, &first->run.hooks, e->n - 1, "models", "for %d models",
                      (int)e->n);
    for (int32_t k = 1; k < e->n; k++) e->passes[k] = &e->others[k - 1];
    for (int32_t k = 1; k < e->n; k++)
        TRF__TRY(trf__pass_join(e->passes[k], e->models[k], &first->run, first->plan.limits, err));
    return TRF_OK;
}

TRF__FN void trf__ensemble_close(trf__ensemble *e, const trf__pass *first)
{
    if (!e->others) return;
    for (int32_t k = 1; k < e->n; k++) trf__pass_leave(e->passes[k]);
    TRF__FREE(&first->run.hooks, e->others, e->n - 1);
    e->others = NULL;
}

/* trf__pass_reserve for all. */
TRF__FN trf_status trf__ensemble_reserve(trf__ensemble *e, const trf__limits *need, trf_error *err)
{
    for (int32_t k = 0; k < e->n; k++) {
        const char *arena = e->passes[k]->plan.arena;
        TRF__TRY(trf__pass_reserve(e->passes[k], need, err));
        e->moves += k > 0 && e->passes[k]->plan.arena != arena;
    }
    return TRF_OK;
}

/* Cuts the caches of all models, with so many rows of each layer of a decoder, and of its memory.
   Areas are those of the first one. */
TRF__FN void trf__take_caches(trf__cursor *cursor, trf__cache *caches, const trf__ensemble *e,
                              const trf__run *run, int64_t self_rows, int64_t cross_rows)
{
    for (int32_t k = 0; k < e->n; k++) {
        trf__cache *cache = &caches[k];
        int64_t layers = e->configs[k]->decoder_layers, width = 2 * trf__k_width(e->configs[k]);
        cache->area = caches[0].area;
        cache->self_area = caches[0].self_area;
        cache->self_layer = self_rows * width;
        cache->cross_layer = cross_rows * width;
        cache->self = (trf__act *)trf__take(cursor, layers,
                                            trf__bytes(cache->self_layer, run->element));
        cache->cross = (trf__act *)trf__take(cursor, layers,
                                             trf__bytes(cache->cross_layer, run->element));
    }
}

/* Adds what model k's decoder has left in its rows. */
TRF__FN void trf__mix_rows(const trf__ensemble *e, int32_t k, trf_real *sum, trf_real *logits)
{
    const trf__pass *pass = e->passes[k];
    const trf__stack *stack = &pass->decoder;
    trf__mix j = trf__mix_of(pass, logits, k == 0);
    j.sum = sum; j.x = stack->out; j.rows = stack->rows;
    j.weight = e->weights[k]; j.rule = (int)e->rule;
    pass->run.backend->mix(&pass->run, &j);
}

/* Two models' log-probabilities of one token as one: l of model k, and those before. */
TRF__FN double trf__mixed(const trf__ensemble *e, int32_t k, double before, double l)
{
    double weight = e->weights[k];
    if (e->n == 1) return l;
    if (e->rule == TRF_ENSEMBLE_GEOMETRIC) return weight * l + (k ? before : 0);
    l += log(weight);
    double most = k && before > l ? before : l;
    return k && most > -HUGE_VAL ? most + log(exp(before - most) + exp(l - most)) : l;
}

/* Refuses an ensemble, for calls that need one model. */
TRF__FN trf_status trf__check_one_model(const trf__ensemble *e, trf_error *err)
{
    return TRF__OK_IF(e->n == 1, TRF_E_STATE, -1, "models",
                      "this call needs one model, but the ensemble has %d: use one alone",
                      (int)e->n);
}

/* The same ids for models that read different tokens would be nonsense for some. */
TRF__FN trf_status trf__check_same_sources(const trf__ensemble *e, trf_error *err)
{
    return TRF__OK_IF(!e->apart, TRF_E_STATE, -1, "models",
                      "the models have different source vocabularies: give each its own ids "
                      "(`each` of trf_translate_options and of trf_reader_score), or a text");
}

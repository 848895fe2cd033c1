#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/batch.h"
#include "api/train.h"
#include "api/translate.h"
#include "api/learn.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "model/model.h"
#include "train/trainer.h"
#include "train/step.h"
#include "data/corpus.h"
#include "data/corpus_calls.h"
#include "data/noise.h"
#include "search/translator.h"
#include "search/hypotheses.h"
#include "learn/recipe.h"
#include "learn/judge.h"

// -----------------------------------------------------------------------------------------------
// >>by-itself      trf_learn: updates until one of the ends
//
// Update, validate every now and then, remember the best weights, leave them in the model. The ends
// are updates, seconds, epochs, patience and the progress callback, whichever comes first.
// -----------------------------------------------------------------------------------------------

typedef struct trf__learner {
    trf_trainer *trainer;
    trf_corpus *corpus;
    const trf_batch *held_out;      /* or NULL */
    const trf_learn_options *o;
    trf_ema *ema;                   /* or NULL */
    trf_real *best;                 /* the weights of the best validation */
    int has_best;                   /* 1 after the first validation */
    int learnt;                     /* 1 after the first update that was not skipped */
    int stopped;                    /* the progress callback has ended the run */
    int64_t in_a_row;               /* number of updates skipped in a row */
    double passes;
    time_t began;
    trf_learn_report *report;
} trf__learner;

enum { TRF__MOST_SKIPPED = 100 };       /* this many in a row: training has failed */

/* Checks the options. A run needs at least one end, or it would never return. */
TRF__COLD
TRF__FN trf_status trf__learn_check(const trf__learner *l, trf_error *err)
{
    const trf_learn_options *o = l->o;
    TRF__RANGE(o, updates, 1, (double)INT64_MAX);
    TRF__RANGE(o, seconds, 0, 1e18);
    TRF__RANGE(o, valid_every, 1, (double)INT64_MAX);
    TRF__RANGE(o, patience, 0, INT32_MAX);
    TRF__RANGE(o, ema, 0, 0.5);
    TRF__RANGE(o, metric, 0, TRF_METRIC_COUNT - 1);
    TRF__RANGE(o, accumulate, 1, INT32_MAX);
    if (o->metric == TRF_METRIC_CUSTOM && !o->custom) return trf__fail_null(err, "custom");
    if (trf_corpus_size(l->corpus) == 0)
        return trf__fail(err, TRF_E_STATE, -1, "corpus",
                         "expected one pair or more to learn from, got none");
    if (o->updates != TRF_ENDLESS || o->seconds > 0 || (l->held_out && o->patience) ||
        o->progress ||
        l->corpus->options.epochs != TRF_ENDLESS) return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, -1, "updates",
                     "nothing says when training ends: set updates, seconds, patience (with pairs "
                     "to validate on), progress, or the corpus's epochs");
}

/* Calls the progress callback. Its result other than 0 ends the run. */
TRF__FN void trf__tell_progress(trf__learner *l, trf_learn_progress *p)
{
    p->update = &l->report->last;
    p->epoch = l->passes;
    p->stopping = &l->report->stopping;
    if (l->o->progress && l->o->progress(l->o->user, p)) l->stopped = 1;
}

/* The score of the metric. The error rate needs answers, hence a translator for the weights of this
   moment. */
TRF__FN trf_status trf__learn_score(trf__learner *l, const trf_step_report *held, double *score,
                                    trf_error *err)
{
    const trf_model *model = l->trainer->model;
    trf_search search = l->o->search;
    trf_translator *translator;
    trf_status status;
    *score = l->o->metric == TRF_METRIC_ACCURACY ? 100 * held->accuracy : held->loss;
    if (l->o->metric == TRF_METRIC_CUSTOM && l->o->custom(l->o->user, model, score))
        return trf__fail(err, TRF_E_CANCELLED, l->trainer->step, "custom",
                         "the metric `custom` stopped training");
    if (l->o->metric != TRF_METRIC_ERROR_RATE) return TRF_OK;
    trf_search_limit(&search, &model->config);
    search.hooks = l->trainer->options.hooks;
    /* a new translator: the weights change between two validations, and it may have packed them */
    TRF__TRY(trf_translator_create(&translator, model, &search, err));
    status = trf_error_rate(translator, l->held_out, score, err);
    trf_translator_destroy(translator);
    return status;
}

/* Validates the weights in the model, and keeps them if they are the best so far. The
   report changes only on success. */
TRF__COLD
TRF__FN trf_status trf__learn_judge(trf__learner *l, trf_error *err)
{
    trf_early_stopping stopping = l->report->stopping;
    trf_learn_progress p;
    trf_step_report held;
    int best;
    TRF__ZERO(p);
    TRF__TRY(trf_evaluate_all(l->trainer, l->held_out, l->o->held_out_noise, &held, err));
    TRF__TRY(trf__learn_score(l, &held, &p.score, err));
    best = trf_early_stopping_add(&stopping, l->o->metric, l->trainer->step, p.score, held.loss);
    if (best) TRF__TRY(trf__weights_read(l->trainer->model, l->best, err));
    if (best) l->has_best = 1;
    l->report->stopping = stopping;
    p.validated = 1;
    p.is_best = best > 0;
    p.loss = held.loss;
    p.nll = held.nll;
    p.accuracy = held.accuracy;
    trf__tell_progress(l, &p);
    return TRF_OK;
}

/* Validates the mean of the weights if there is one. The trainer's weights return to the model even
   after a failure. */
TRF__COLD
TRF__FN trf_status trf__learn_validate(trf__learner *l, trf_error *err)
{
    trf_status status, back;
    if (!l->held_out) {
        l->report->stopping.validated = l->trainer->step;
        return TRF_OK;
    }
    if (l->ema) TRF__TRY(trf_ema_apply(l->ema, err));
    status = trf__learn_judge(l, err);
    back = l->ema ? trf_ema_restore(l->ema, status == TRF_OK ? err : NULL) : TRF_OK;
    return status != TRF_OK ? status : back;
}

/* One update from `accumulate` batches, or from fewer at the end of the last epoch. TRF_E_END: no
   data are left. */
TRF__FN trf_status trf__learn_update(trf__learner *l, trf_error *err)
{
    trf_step_report *report = &l->report->last;
    trf_batch batch;
    trf_status status;
    int32_t i;
    for (i = 0; i < l->o->accumulate; i++) {
        status = trf_corpus_next(l->corpus, &batch, err);
        if (status == TRF_E_END && i > 0) break;
        if (status == TRF_OK && l->o->noise) status = trf_noise_apply(l->o->noise, &batch, &batch,
                                                                      err);
        if (status == TRF_OK) status = trf_forward_backward(l->trainer, &batch, report, err);
        if (status != TRF_OK) return status;
        /* a part of an epoch, for progress */
        l->passes += (double)batch.target.count / (double)trf_corpus_size(l->corpus);
    }
    TRF__TRY(trf_optimizer_step(l->trainer, report, err));
    l->report->updates++;
    l->report->skipped += report->skipped;
    l->in_a_row = report->skipped ? l->in_a_row + 1 : 0;
    if (!report->skipped) l->learnt = 1;
    if (l->in_a_row >= TRF__MOST_SKIPPED)
        return trf__fail(err, TRF_E_NONFINITE, report->step, report->tensor, "the last %d updates "
                         "were skipped: %s is not finite, so the rate is too high",
                         (int)TRF__MOST_SKIPPED, report->tensor);
    return l->ema ? trf_ema_update(l->ema, err) : TRF_OK;
}

/* Whether training ends before the next update, and why. */
TRF__FN int trf__learn_is_over(trf__learner *l)
{
    const trf_learn_options *o = l->o;
    if (l->stopped) l->report->end = TRF_END_PROGRESS;
    else if (l->trainer->step >= o->updates) l->report->end = TRF_END_UPDATES;
    else if (trf_early_stopping_left(&l->report->stopping, o->metric, o->patience) == 0)
        l->report->end = TRF_END_PATIENCE;
    else if (o->seconds > 0 && difftime(time(NULL), l->began) >= o->seconds)
        l->report->end = TRF_END_SECONDS;
    else return 0;
    return 1;
}

/* The loop. A resumed run may begin at a step that is due for validation. */
TRF__COLD
TRF__FN trf_status trf__learn_on(trf__learner *l, trf_error *err)
{
    trf_early_stopping *stopping = &l->report->stopping;
    trf_learn_progress p;
    trf_status status;
    TRF__ZERO(p);
    for (;;) {
        int64_t step = l->trainer->step;
        if (step && step % l->o->valid_every == 0 && stopping->validated != step && !l->stopped) {
            /* all updates were skipped: the weights have not changed, so only the wait grows */
            if (l->report->updates && !l->learnt) stopping->wait++;
            else TRF__TRY(trf__learn_validate(l, err));
        }
        if (trf__learn_is_over(l)) break;
        status = trf__learn_update(l, err);
        if (status == TRF_E_END) { l->report->end = TRF_END_EPOCHS; break; }
        if (status != TRF_OK) return status;
        trf__tell_progress(l, &p);
    }
    trf__clear(err);            /* the end of the data is no error */
    if (l->learnt && stopping->validated != l->trainer->step) return trf__learn_validate(l, err);
    return TRF_OK;
}

/* Leaves the best weights in the model, or without validations the last ones. */
TRF__FN trf_status trf__learn_leave(trf__learner *l, trf_error *err)
{
    if (l->has_best) return trf__weights_write(l->trainer, l->best, err);
    return l->ema ? trf_ema_apply(l->ema, err) : TRF_OK;
}

/* Held-out pairs, or NULL if there are none. */
TRF__FN const trf_batch *trf__some_pairs(const trf_batch *pairs)
{
    return pairs && (pairs->source.count > 0 || pairs->target.count > 0) ? pairs : NULL;
}

TRF__COLD
TRF_API trf_status trf_learn(trf_trainer *trainer, trf_corpus *corpus, const trf_batch *held_out,
                             const trf_learn_options *options, trf_learn_report *report,
                             trf_error *err)
{
    trf_learn_options defaults = trf_learn_defaults();
    const trf_hooks *hooks;
    trf_learn_report own;
    trf__learner l;
    trf_status status;
    int64_t n;
    if (!report) report = &own;
    memset(report, 0, sizeof *report);
    report->stopping.validated = -1;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (!corpus) return trf__fail_null(err, "corpus");
    TRF__ZERO(l);
    l.trainer = trainer;
    l.corpus = corpus;
    l.held_out = trf__some_pairs(held_out);
    l.o = options ? options : &defaults;
    l.report = report;
    l.began = time(NULL);
    report->last.step = trainer->step;
    hooks = &trainer->options.hooks;
    TRF__TRY(trf__learn_check(&l, err));
    trf__warn_of_plan(trainer, l.o->updates);
    if (l.o->ema > 0) TRF__TRY(trf_ema_create(&l.ema, trainer, l.o->ema, err));
    n = trf_model_parameter_total(trainer->model);
    l.best = l.held_out ? (trf_real *)trf__alloc(hooks, trf__bytes(n, sizeof *l.best)) : NULL;
    if (l.held_out && !l.best)
        status = trf__fail(err, TRF_E_NOMEM, -1, "best", "no memory for the best %lld weights",
                           (long long)n);
    else status = trf__learn_on(&l, err);
    if (status == TRF_OK) status = trf__learn_leave(&l, err);
    /* after an error, too, the model has the best weights; the error stays that of the run */
    else if (l.has_best) trf__learn_leave(&l, NULL);
    trf__free(hooks, l.best, trf__bytes(n, sizeof *l.best));
    trf_ema_destroy(l.ema);
    return status;
}

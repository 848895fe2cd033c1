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

TRF__FOR_SIZE

// -----------------------------------------------------------------------------------------------
// >>by-itself      trf_trainer_learn: updates until one of the ends
//
// Update, validate every now and then, remember the best weights, leave them in the model. The ends
// are updates, seconds, epochs, patience and the progress callback, whichever comes first. How far
// the run has come is in the trainer: a checkpoint of it has all that the next call needs.
//
// With several ranks all take the same decisions: before each update they agree on the largest of
// what each has to say (>>agree). Then rank 0 alone validates, and the others learn the result.
// -----------------------------------------------------------------------------------------------

typedef struct trf__learner {
    trf_trainer *trainer;
    trf_corpus *corpus;
    const trf_batch *held_out;      /* NULL: there are no pairs */
    const trf_learn_options *o;
    int averages;                   /* 1: with a moving average, on this rank */
    int first_rank;                 /* 1: validates, keeps an average and tells the time */
    int has_best;                   /* 1: trainer->best are the best weights */
    int stopped;                    /* the progress callback has ended the run */
    int cancelled;                  /* a rank was cancelled */
    int apart;                      /* 1: only this rank knows of the error: others wait for it */
    int delivered;                  /* 1: the batch could be read: an error is about the batch */
    int32_t batches;                /* of the last update */
    int64_t saved;                  /* the update of the last call of save, or -1 */
    int64_t in_a_row;               /* number of updates skipped in a row */
    double passes;
    double began;                   /* trf__seconds, less those of earlier calls */
    int64_t known;                  /* updates in all, or TRF_ENDLESS */
    double timed, update_seconds;   /* when timing began; seconds of an update */
    int plans;                      /* 1: planned here, and no validation has been timed yet */
    double said;                    /* trf__seconds at the last line for `say` */
    trf_learn_report *report;
} trf__learner;

enum { TRF__MOST_SKIPPED = 100 };       /* this many in a row: training has failed */

/* The time; only differences mean something. */
TRF__FN double trf__seconds(void)
{
#if defined(TIME_UTC)
    struct timespec t;
    if (timespec_get(&t, TIME_UTC)) return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
    return difftime(time(NULL), (time_t)0);
}

TRF_API trf_learn_state *trf_trainer_learn_state(trf_trainer *trainer)
{
    return trainer ? &trainer->learning : NULL;
}

/* Checks the options. A run needs at least one end, or it would never return. */
TRF__FN trf_status trf__learn_check(const trf__learner *l, trf_error *err)
{
    const trf_learn_options *o = l->o;
    TRF__RANGE(o, updates, 0, (double)INT64_MAX);
    TRF__RANGE(o, seconds, 0, 1e18);
    TRF__RANGE(o, valid_every, 1, (double)INT64_MAX);
    TRF__RANGE(o, patience, 0, INT32_MAX);
    TRF__RANGE(o, cooldown, 0, 10);
    TRF__RANGE(o, ema, 0, 0.5);
    TRF__RANGE(o, metric, 0, TRF_METRIC_COUNT - 1);
    TRF__RANGE(o, accumulate, 1, INT32_MAX);
    TRF__RANGE(o, fit, 0, TRF_FIT_ALL);
    TRF__RANGE(o, save_every, 0, (double)INT64_MAX);
    TRF__RANGE(o, resume, 0, 1);
    TRF__RANGE(o, discard_best, 0, 1);
    if (o->metric == TRF_METRIC_CUSTOM && !o->custom) return trf__fail_null(err, "custom");
    TRF__FAIL_IF(o->seconds > 0 && l->trainer->options.n_ranks > 1 && !o->agree, TRF_E_INVALID_ARG,
                 -1, "seconds",
                 "seconds must be 0 with several ranks that have no `agree`: their clocks differ, "
                 "and the first one to end would leave the others waiting");
    TRF__FAIL_IF(l->corpus->facts.pairs == 0, TRF_E_STATE, -1, "corpus",
                 "expected one pair or more to learn from, got none");
    return TRF__OK_IF(o->updates != TRF_ENDLESS || o->seconds > 0 || (l->held_out && o->patience) ||
                      o->progress || l->corpus->options.epochs != TRF_ENDLESS, TRF_E_INVALID_ARG,
                      -1, "updates",
                      "nothing says when training ends: set updates, seconds, patience (with pairs "
                      "to validate on), progress, or the corpus's epochs");
}

/* Gives `say` a line, at most one a second, and one at the end. */
TRF__FN void trf__learn_say(trf__learner *l, int at_end)
{
    static const char *const names[TRF_METRIC_COUNT] = {"loss", "error rate", "accuracy", "score"};
    const trf_early_stopping *s = &l->trainer->learning.stopping;
    char line[200], best[80] = "";
    if (!l->o->say || !l->first_rank || !l->report->updates) return;
    double now = trf__seconds();
    if (!at_end && now - l->said < 1) return;
    l->said = now;
    if (s->best_update)
        snprintf(best, sizeof best, ", best %s on held-out pairs %.4g%s after update %lld",
                 names[l->o->metric], s->best,
                 l->o->metric == TRF_METRIC_ERROR_RATE || l->o->metric == TRF_METRIC_ACCURACY
                 ? " %" : "", (long long)s->best_update);
    snprintf(line, sizeof line, "%s%lld update%s, %.0f s: loss %.4g%s", at_end ? "done: " : "",
             (long long)l->trainer->step, trf__plural(l->trainer->step), now - l->began,
             l->report->last.loss, best);
    l->o->say(l->o->user, line);
}

/* Calls the progress callback. Its result other than 0 ends the run. */
TRF__FN void trf__tell_progress(trf__learner *l, trf_learn_progress *p)
{
    p->update = &l->report->last;
    p->epoch = l->passes;
    p->stopping = &l->trainer->learning.stopping;
    p->batches = l->batches;
    if (l->o->progress && l->o->progress(l->o->user, p)) l->stopped = 1;
    trf__learn_say(l, 0);
}

/* Calls `save`, within the loop at most once for an update. */
TRF__FN void trf__learn_save(trf__learner *l)
{
    if (l->saved == l->trainer->step) return;
    l->saved = l->trainer->step;
    if (l->o->seconds > 0) l->trainer->learning.seconds = trf__seconds() - l->began;
    if (l->o->save) l->o->save(l->o->user, l->trainer, l->corpus);
}

// >>agree          what all ranks decide together

/* Replaces numbers by the largest of all ranks. */
TRF__FN void trf__agree(const trf__learner *l, double *numbers, int32_t n)
{
    if (l->o->agree) l->o->agree(l->o->user, numbers, n);
}

/* Whether the run is cancelled or stopped by the callback, and whether its time is up. */
TRF__FN int trf__learn_agree(trf__learner *l)
{
    const trf_learn_options *o = l->o;
    double numbers[3];
    numbers[0] = trf__cancelled(&l->trainer->options.hooks);
    numbers[1] = l->stopped;
    numbers[2] = l->first_rank && o->seconds > 0 && trf__seconds() - l->began >= o->seconds;
    trf__agree(l, numbers, 3);
    l->cancelled = numbers[0] > 0;
    l->stopped = numbers[1] > 0;
    return numbers[2] > 0;
}

/* Gives the status and the progress of rank 0 to all ranks. A NaN travels as a bit of a mask, since
   the largest of NaN and other numbers is undefined. */
TRF__FN trf_status trf__learn_share(const trf__learner *l, trf_learn_progress *p,
                                    trf_status status, trf_error *err)
{
    double *const fields[4] = {&p->loss, &p->nll, &p->accuracy, &p->score};
    double numbers[7];
    int i;
    if (!l->o->agree) return status;
    numbers[0] = -(double)status;           /* statuses are 0 or negative */
    numbers[1] = p->validated;
    for (numbers[2] = i = 0; i < 4; i++) {
        int is_number = *fields[i] == *fields[i];
        numbers[3 + i] = is_number ? *fields[i] : 0;
        if (!is_number) numbers[2] += 1 << i;
    }
    for (i = 0; i < 7 && !l->first_rank; i++) numbers[i] = -HUGE_VAL;
    trf__agree(l, numbers, 7);
    if (l->first_rank) return status;
    p->validated = (int32_t)numbers[1];
    for (i = 0; i < 4; i++)
        *fields[i] = (int)numbers[2] >> i & 1 ? (double)NAN : numbers[3 + i];
    status = (trf_status)-(int)numbers[0];
    return status == TRF_OK ? TRF_OK : trf__fail(err, status, l->trainer->step, "rank 0",
                                                 "rank 0 could not validate");
}

// >>learn-validate validating, and keeping the best weights

/* The score of the metric. The error rate needs answers, hence a translator. */
TRF__FN trf_status trf__learn_score(trf__learner *l, const trf_step_report *held,
                                    trf_learn_progress *p, trf_error *err)
{
    const trf_model *model = l->trainer->model;
    trf_search search = l->o->search;
    trf_translator *translator;
    p->score = l->o->metric == TRF_METRIC_ACCURACY ? 100 * held->accuracy : held->loss;
    TRF__FAIL_IF(l->o->custom && l->o->custom(l->o->user, model, &p->score), TRF_E_CANCELLED,
                 l->trainer->step, "custom", "the metric `custom` stopped training");
    if (l->o->custom || l->o->metric != TRF_METRIC_ERROR_RATE) return TRF_OK;
    search.hooks = l->trainer->options.hooks;
    /* a new translator: the weights change between two validations, and it may have packed them */
    TRF__TRY(trf_translator_create(&translator, model, &search, err));
    trf_status status = trf__error_rate(translator, l->held_out, &p->score, &p->cut, err);
    trf_translator_destroy(translator);
    return status;
}

/* Computes loss and score of the weights in the model, on rank 0. */
TRF__FN trf_status trf__learn_measure(trf__learner *l, trf_learn_progress *p,
                                      trf_step_report *held, trf_error *err)
{
    if (!l->held_out || !l->first_rank) return TRF_OK;
    TRF__TRY(trf_trainer_evaluate(l->trainer, l->held_out, l->o->held_out_noise, held, err));
    TRF__TRY(trf__learn_score(l, held, p, err));
    p->validated = 1;
    p->loss = held->loss;
    p->nll = held->nll;
    p->accuracy = held->accuracy;
    p->held = held;
    return TRF_OK;
}

/* Validates the weights in the model, and keeps them if they are the best so far. The state of the
   run changes only on success. */
TRF__FN trf_status trf__learn_judge(trf__learner *l, trf_error *err)
{
    trf_trainer *t = l->trainer;
    trf_early_stopping stopping = t->learning.stopping;
    trf_step_report held;
    TRF__ZEROED(trf_learn_progress, p);
    TRF__FAIL_IF(l->o->due && l->o->due(l->o->user, t->step), TRF_E_CANCELLED, t->step, "due",
                 "the hook `due` stopped training");
    trf_status status = trf__learn_measure(l, &p, &held, err);
    TRF__TRY(trf__learn_share(l, &p, status, err));
    if (p.validated)
        p.is_best = trf_early_stopping_add(&stopping, l->o->metric, t->step, p.score, p.loss);
    if (p.is_best && l->first_rank && !l->o->discard_best) {
        trf__weights_copy(t, t->best, t->model->weights);
        TRF__TRY(t->pass.run.backend->sync(&t->pass.run, err));
        l->has_best = 1;
    }
    stopping.validated = t->step;
    t->learning.stopping = stopping;
    if (p.validated) trf__tell_progress(l, &p);
    return TRF_OK;
}

/* Validates the mean of the weights if there is one. The weights return even after a failure. */
TRF__FN trf_status trf__learn_validate(trf__learner *l, trf_error *err)
{
    trf_status back = TRF_OK;
    if (l->averages) TRF__TRY(trf_trainer_use_average(l->trainer, 1, err));
    trf_status status = trf__learn_judge(l, err);
    if (l->averages) back = trf_trainer_use_average(l->trainer, 0, status == TRF_OK ? err : NULL);
    return status != TRF_OK ? status : back;
}

// >>learn-update   one update, or nothing

/* Reads a batch. If one rank cannot, no rank computes. */
TRF__FN trf_status trf__learn_batch(trf__learner *l, trf_batch *batch, trf_error *err)
{
    trf_status status = trf_corpus_next(l->corpus, batch, err);
    l->delivered = status == TRF_OK;
    if (status == TRF_OK && l->o->noise)
        status = trf_noise_apply(l->o->noise, batch, batch, err);
    double failed = status != TRF_OK && status != TRF_E_END;
    trf__agree(l, &failed, 1);
    if (failed > 0 && l->o->agree) l->delivered = 0;
    if (!(failed > 0) || (status != TRF_OK && status != TRF_E_END)) return status;
    return trf__fail(err, TRF_E_STATE, l->trainer->step, "batch",
                     "another rank could not read its batch");
}

/* One update from `accumulate` batches, fewer at the end of the data. TRF_E_END: none is left. */
TRF__FN trf_status trf__learn_batches(trf__learner *l, trf_error *err)
{
    trf_step_report *report = &l->report->last;
    trf_batch batch;
    trf_status status;
    for (int32_t i = l->batches = 0; i < l->o->accumulate; i++) {
        status = trf__learn_batch(l, &batch, err);
        if (status == TRF_E_END && i > 0) break;
        if (status != TRF_OK) return status;
        /* a part of an epoch, for progress */
        l->passes += (double)batch.target.count / (double)l->corpus->facts.pairs;
        l->batches = i + 1;
        l->apart = l->o->agree != NULL;
        /* with one batch the sums of ranks begin during the backward pass */
        if (l->o->accumulate == 1) status = trf_trainer_step(l->trainer, &batch, report, err);
        else status = trf_trainer_forward_backward(l->trainer, &batch, report, err);
        if (status != TRF_OK) return status;
        l->apart = 0;
    }
    if (l->o->accumulate == 1) return TRF_OK;
    l->apart = l->o->agree != NULL;
    status = trf_trainer_update(l->trainer, report, err);
    if (status == TRF_OK) l->apart = 0;
    return status;
}

/* A failed update leaves no gradients. After a cancel, an unreadable batch or a failed device or
   all_reduce the corpus moves back, and the next call repeats it. After other errors its batches
   count as used. With ranks nothing is cancelled within an update. */
TRF__FN trf_status trf__learn_update(trf__learner *l, trf_error *err)
{
    trf_step_report *report = &l->report->last;
    trf_place place = trf__corpus_place(l->corpus);
    l->trainer->pass.run.cancel_off = l->o->agree != NULL;
    trf_status status = trf__learn_batches(l, err);
    l->trainer->pass.run.cancel_off = 0;
    if (status != TRF_OK) {
        if (l->trainer->micro) trf_trainer_discard_gradients(l->trainer);
        if (status == TRF_E_END) return status;
        if (status == TRF_E_CANCELLED || status == TRF_E_BACKEND || !l->delivered)
            TRF__TRY(trf__corpus_seek(l->corpus, place.epoch, place.batch, NULL));
        else trf__drop_gradients(l->trainer, trf__corpus_place(l->corpus));
        return status;
    }
    l->report->updates++;
    l->report->skipped += report->skipped;
    l->in_a_row = report->skipped ? l->in_a_row + 1 : 0;
    if (!report->skipped) l->trainer->learning.learnt = 1;
    return l->averages ? trf_trainer_average(l->trainer, l->o->ema, err) : TRF_OK;
}

// >>learn-fit      warm-up, cosine and validations follow from how many updates there will be

/* Sets what follows from `planned` and `fits`. */
TRF__FN void trf__learn_fit(const trf__learner *l)
{
    trf_train_options *to = &l->trainer->options;
    const trf_learn_state *state = &l->trainer->learning;
    if (l->o->fit & TRF_FIT_WARMUP && to->schedule != TRF_NOAM)
        to->warmup = trf__max64(1, trf__min64(to->warmup, state->planned / 8));
    if (l->o->fit & TRF_FIT_COSINE && to->schedule == TRF_COSINE)
        to->total_steps = trf__max64(state->fits, to->warmup + 1);
}

/* Finds how many updates there will be, and plans a new run that has no limit of time. */
TRF__FN trf_status trf__learn_plan(trf__learner *l, trf_error *err)
{
    trf_learn_state *state = &l->trainer->learning;
    int64_t epochs = l->corpus->options.epochs, batches;
    l->known = l->o->updates;
    if (epochs != TRF_ENDLESS) {
        TRF__TRY(trf_corpus_batches(l->corpus, &batches, err));
        batches = trf__min64(epochs, INT32_MAX) * trf__min64(batches, INT32_MAX);
        l->known = trf__min64(l->known, batches / l->o->accumulate + 1);
    }
    if (l->o->resume || !l->o->fit || l->o->seconds > 0 || l->known == TRF_ENDLESS) return TRF_OK;
    state->planned = state->fits = trf__max64(1, l->known);
    return TRF_OK;
}

/* Measures how many updates fit into the time: after ten timed updates, or after a fiftieth of the
   time. The first update is slower than others. Rank 0 tells the number. */
TRF__FN void trf__learn_time(trf__learner *l)
{
    trf_learn_state *state = &l->trainer->learning;
    double fits[2] = {0, 0};
    int64_t n = l->report->updates - 1;
    if (l->o->seconds <= 0 || state->planned) return;
    double now = trf__seconds();
    if (n == 0) l->timed = now;
    if (l->first_rank && (n >= 10 || (n > 0 && now - l->timed > 0.02 * l->o->seconds))) {
        l->update_seconds = (now - l->timed) / (double)n;
        fits[0] = (double)l->trainer->step +
                  (l->o->seconds - (now - l->began)) / (l->update_seconds + 1e-9);
    }
    trf__agree(l, fits, 2);
    if (fits[0] <= 0) return;
    state->planned = state->fits =
        trf__max64(1, trf__min64(l->known, (int64_t)trf__clamp(fits[0], 1, 1e15)));
    state->valid_every = trf__min64(l->o->valid_every, trf__max64(1, state->planned / 10));
    if (!(l->o->fit & TRF_FIT_VALIDATION)) state->valid_every = 0;
    l->plans = 1;
    trf__learn_fit(l);
    trf__warn_of_plan(l->trainer, state->planned);
}

/* The first validation took so many seconds: later ones take a fifth of the time at most, and that
   much less is left for updates. */
TRF__FN void trf__learn_time_validation(trf__learner *l, double seconds)
{
    trf_learn_state *state = &l->trainer->learning;
    double every = (double)(state->valid_every ? state->valid_every : l->o->valid_every);
    double numbers[2] = {0, 0};
    if (!l->plans) return;
    l->plans = 0;
    if (l->first_rank) {
        double left = l->o->seconds - (trf__seconds() - l->began);
        double least = 4 * seconds / l->update_seconds + 1;
        if (state->valid_every && every < least) every = least;
        numbers[0] = every;
        numbers[1] = (double)l->trainer->step + left / (l->update_seconds + seconds / every);
    }
    trf__agree(l, numbers, 2);
    if (state->valid_every)
        state->valid_every = (int64_t)trf__clamp(numbers[0], 1, (double)l->o->valid_every);
    state->fits = (int64_t)trf__clamp(numbers[1], 1, (double)state->planned);
    trf__learn_fit(l);
}

// >>learn-loop     the loop, and what it leaves

/* The trainer's rate falls from `cooldown` to `ends`; cooldown 0: it does not. */
TRF__FN void trf__learn_cool(const trf__learner *l, int64_t cooldown, int64_t ends)
{
    trf_learn_state *state = &l->trainer->learning;
    state->cooldown = l->trainer->options.cooldown = cooldown;
    state->ends = l->trainer->options.total_steps = ends;
}

/* Out of patience: whether a cooldown starts or goes on. */
TRF__FN int trf__learn_cools(const trf__learner *l)
{
    trf_learn_state *state = &l->trainer->learning;
    const int64_t step = l->trainer->step;
    if (state->cooldown) return step < state->ends;
    if (!(l->o->cooldown > 0) || l->trainer->options.schedule == TRF_COSINE || step < 1 ||
        trf__is_perfect(l->o->metric, state->stopping.best)) return 0;
    trf__learn_cool(l, step, step + trf__max64(1, (int64_t)(l->o->cooldown * (double)step)));
    return 1;
}

/* Whether training ends before the next update, and why. */
TRF__FN int trf__learn_is_over(trf__learner *l, int time_is_up)
{
    const trf_learn_options *o = l->o;
    const trf_early_stopping *stopping = &l->trainer->learning.stopping;
    if (l->stopped) l->report->end = TRF_END_PROGRESS;
    else if (l->trainer->step >= o->updates) l->report->end = TRF_END_UPDATES;
    else if ((l->trainer->learning.cooldown ||
              trf_early_stopping_left(stopping, o->metric, o->patience) == 0) &&
             !trf__learn_cools(l))
        l->report->end = TRF_END_PATIENCE;
    else if (time_is_up) l->report->end = TRF_END_SECONDS;
    else return 0;
    return 1;
}

/* The loop. A resumed run may begin at a step that is due for validation. */
TRF__FN trf_status trf__learn_on(trf__learner *l, trf_error *err)
{
    trf_early_stopping *stopping = &l->trainer->learning.stopping;
    TRF__ZEROED(trf_learn_progress, p);
    for (;;) {
        const int64_t planned = l->trainer->learning.valid_every, step = l->trainer->step;
        const int64_t every = planned ? planned : l->o->valid_every;
        int time_is_up = trf__learn_agree(l);
        if (step && step % every == 0 && stopping->validated != step && !l->stopped &&
            !l->cancelled) {
            /* all updates so far were skipped: the weights have not changed, only the wait grows */
            if (l->report->updates && !l->trainer->learning.learnt) stopping->wait++;
            else {
                double began = trf__seconds();
                TRF__TRY(trf__learn_validate(l, err));
                trf__learn_time_validation(l, trf__seconds() - began);
            }
            time_is_up = trf__learn_agree(l);
        }
        if (l->cancelled) return trf__fail_cancelled(err);
        if (trf__learn_is_over(l, time_is_up)) break;
        if (l->report->updates && ((l->o->save_every && step % l->o->save_every == 0) ||
                                   (l->held_out && stopping->best_update == step)))
            trf__learn_save(l);
        trf_status status = trf__learn_update(l, err);
        if (status == TRF_E_END) { l->report->end = TRF_END_EPOCHS; break; }
        if (status != TRF_OK) return status;
        trf__learn_time(l);
        trf__tell_progress(l, &p);
        TRF__FAIL_IF(l->in_a_row >= TRF__MOST_SKIPPED, TRF_E_NONFINITE, l->report->last.step,
                     l->report->last.tensor, "the last %d updates were skipped: %s is not finite, "
                     "so the rate is too high", (int)TRF__MOST_SKIPPED, l->report->last.tensor);
    }
    trf__clear(err);            /* the end of the data is no error */
    if (!l->trainer->step || stopping->validated == l->trainer->step ||
        !l->trainer->learning.learnt) return TRF_OK;
    TRF__TRY(trf__learn_validate(l, err));
    (void)trf__learn_agree(l);
    return l->cancelled ? trf__fail_cancelled(err) : TRF_OK;
}

/* Leaves the best weights in the model, or without validations the last ones. Those of the last
   update stay in `raw`: the run goes on from them. */
TRF__FN trf_status trf__learn_leave(trf__learner *l, trf_error *err)
{
    trf_trainer *t = l->trainer;
    const trf_real *from = l->has_best ? t->best : l->averages ? t->average : NULL;
    return from ? trf__weights_show(t, from, err) : TRF_OK;
}

/* Begins a run, or goes on with the one of the trainer. */
TRF__FN trf_status trf__learn_begin(trf__learner *l, trf_error *err)
{
    trf_trainer *t = l->trainer;
    /* a rate that has fallen rises again in a run that does not end by patience */
    if (t->learning.cooldown && (!l->o->resume || !l->o->patience || !(l->o->cooldown > 0)))
        trf__learn_cool(l, 0, 0);
    else if (t->learning.cooldown) trf__learn_cool(l, t->learning.cooldown, t->learning.ends);
    if (!l->o->resume) {
        TRF__ZERO(t->learning);
        t->learning.stopping.validated = -1;
        trf__weights_release(t, &t->best);
        t->average_read = 0;
    } else {
        t->average_read = t->average != NULL;
        if (t->left) trf__weights_copy(t, t->model->weights, t->raw);
    }
    trf__weights_own(t);
    if (l->o->fit || l->o->seconds > 0) TRF__TRY(trf__learn_plan(l, err));
    if (l->o->fit && t->learning.planned) trf__learn_fit(l);
    l->began = trf__seconds() - t->learning.seconds;
    l->has_best = l->o->resume && t->best && t->learning.stopping.best_update;
    if (!l->first_rank) return TRF_OK;
    l->averages = l->o->ema > 0;
    if (l->averages) TRF__TRY(trf__average_begin(t, err));
    else trf__weights_release(t, &t->average);
    if (!l->held_out || l->o->discard_best) return TRF_OK;
    TRF__TRY(trf__weights_alloc(t, &t->raw, "best", err));
    return trf__weights_alloc(t, &t->best, "best", err);
}

TRF_API trf_status trf_trainer_learn(trf_trainer *trainer, trf_corpus *corpus,
                                     const trf_batch *held_out, const trf_learn_options *options,
                                     trf_learn_report *report, trf_error *err)
{
    trf_learn_options defaults = trf_learn_defaults();
    trf_learn_report own;
    trf_error said;
    if (!report) report = &own;
    memset(report, 0, sizeof *report);
    report->stopping.validated = -1;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (!corpus) return trf__fail_null(err, "corpus");
    TRF__ZEROED(trf__learner, l);
    l.trainer = trainer;
    l.corpus = corpus;
    if (held_out && (held_out->source.count > 0 || held_out->target.count > 0))
        l.held_out = held_out;
    l.o = options ? options : &defaults;
    l.first_rank = !l.o->agree || trainer->options.rank == 0;
    l.saved = -1;
    l.report = report;
    report->last.step = trainer->step;
    TRF__TRY(trf__learn_check(&l, err));
    trf_status status = trf__learn_begin(&l, err);
    if (!l.o->resume && status == TRF_OK) trf__warn_of_plan(trainer, l.o->updates);
    if (status == TRF_OK) status = trf__learn_on(&l, err);
    /* others do not come to save after an error of this rank alone; lost weights are not kept */
    if (status == TRF_OK || status == TRF_E_CANCELLED ||
        (report->updates && !l.apart && l.in_a_row < TRF__MOST_SKIPPED)) {
        if (err) said = *err;           /* `save` may use the same struct */
        l.saved = -1;
        trf__learn_save(&l);
        if (err) *err = said;
    }
    report->stopping = trainer->learning.stopping;
    trf__learn_say(&l, 1);
    if (status == TRF_OK) status = trf__learn_leave(&l, err);
    /* after an error, too, the model has the best weights; the error stays that of the run */
    else if (l.has_best) (void)trf__learn_leave(&l, NULL);
    return status;
}

TRF__FOR_SPEED

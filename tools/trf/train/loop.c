// trf train: updates, validations, checkpoints, and ending well.
//
// From the first validation on the model file holds the best model. See loop.h.
//
// Several processes make the same updates. The first one validates, tells the others the scores,
// and writes all files. Before each update all agree on whether training ends.

#include "loop.h"
#include "measure.h"
#include "mpi.h"
#include "signals.h"

#include <math.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>validation     scores, and what follows from them
// -----------------------------------------------------------------------------------------------

/* From the inside: validate computes scores; validate_interruptibly lets a signal abort it;
   validate_and_keep updates the best score, the kept models and the patience; validate_now does so
   with the average of --ema as weights; validate_or_save saves a checkpoint if a model could not be
   saved. */
static int validate_interruptibly(struct run *r, struct validation *v)
{
    int status = DONE;
    begin_validating();
    if (validates(&r->validator)) status = validate(&r->validator, v);
    end_validating();
    return status;
}

/* Validates the current weights, and keeps them. After a signal a resumed run begins with this
   validation. */
static int validate_and_keep(struct run *r, int64_t update)
{
    struct state *state = &r->state;
    struct validation v;
    trf_early_stopping stopping = state->stopping;
    int status = DONE, best;
    memset(&v, 0, sizeof v);
    prepare_notice("leaving the validation of update", update, r->checkpoint != NULL);
    if (is_first_rank()) status = validate_interruptibly(r, &v);
    status = status_of_first(status);
    share_first(&v, sizeof v);
    if (status || v.cancelled) return status;
    if (!validates(&r->validator)) {
        state->stopping.validated = update;
        status = keep_model(r, update, 0, 0);
        remove_unneeded(r, 1);
        return status;
    }
    best =
        trf_early_stopping_add(&stopping, library_metric(metric_of(r->s)), update, v.score, v.loss);
    show_validation(&r->validator, &r->log, update, &v,
                    !best ? "" : best > 1 ? "  best so far" : "  best so far, by its loss");
    begin_validating();
    show_samples(&r->validator);
    end_validating();
    if (keep_model(r, update, v.score, v.loss) || (best && save_model(r, r->s->model)))
        return FAILED;
    state->stopping = stopping;
    if (best) r->score = v.score;
    remove_unneeded(r, 1);      /* including the previous best */
    return DONE;
}

static int validate_now(struct run *r, int64_t update)
{
    int status = apply_ema(r);
    if (!status) status = validate_and_keep(r, update);
    return restore_ema(r) ? FAILED : status;
}

/* After an error a checkpoint keeps what was learned, if it can be saved. */
static int save_after_error(struct run *r, const struct progress *p)
{
    int status = save_checkpoint(r, seconds_of_run(p));
    if (!status && r->checkpoint && is_first_rank())
        say("%s is complete: the same command with --resume continues", r->checkpoint);
    return status;
}

/* Training ends if a model cannot be saved. */
static int validate_or_save(struct run *r, const struct progress *p, int64_t update)
{
    int status = validate_now(r, update);
    if (status) save_after_error(r, p);
    return status;
}

static int32_t validations_left(const struct run *r)
{
    return trf_early_stopping_left(&r->state.stopping, library_metric(metric_of(r->s)),
                                   r->s->patience);
}

// -----------------------------------------------------------------------------------------------
// >>updates        until training ends
// -----------------------------------------------------------------------------------------------

/* All processes take the same decisions: a signal that one of them got ends all, and the clock is
   that of the first one. */
static void agree_on_end(const struct run *r, struct progress *p)
{
    int signal_and_time[2];
    signal_and_time[0] = signal_here();
    signal_and_time[1] = is_first_rank() && seconds_in_all(p) >= r->s->minutes * 60;
    most_of_all(signal_and_time, 2);
    agree_on_signal(signal_and_time[0]);
    p->time_is_up = signal_and_time[1];
}

/* Reads a batch. Processes add up gradients together: if one of them cannot read its batch, *shared
   is 1 and all of them return an error. */
static trf_status next_batch(struct run *r, trf_batch *batch, int *shared, trf_error *err)
{
    trf_status status = trf_corpus_next(r->corpus, batch, err);
    if (!status && r->noise) status = trf_noise_apply(r->noise, batch, batch, err);
    *shared = any_failed(status && status != TRF_E_END);
    if (!*shared || status) return status;
    snprintf(err->message, sizeof err->message, "another process could not read the batch");
    return (trf_status)(err->status = TRF_E_STATE);
}

/* One update from `accumulate` batches, or fewer at the end of the last epoch. TRF_E_END: no data
   are left. *shared: as in next_batch. */
static trf_status one_update(struct run *r, struct progress *p, trf_step_report *report,
                             int *shared, trf_error *err)
{
    trf_batch batch;
    trf_status status;
    int32_t i;
    for (i = 0; i < r->s->accumulate; i++) {
        status = next_batch(r, &batch, shared, err);
        if (status == TRF_E_END && i > 0) break;
        if (status) return status;
        r->state.batches++;
        if (p->passes <= 0)
            p->first_pass =
                (double)batch.place.epoch + (double)batch.place.batch / (double)r->batches;
        if (r->s->accumulate == 1 && n_ranks() > 1) {   /* sums begin during the backward pass */
            p->passes += (double)batch.target.count / (double)trf_corpus_size(r->corpus);
            return trf_train_step(r->trainer, &batch, report, err);
        }
        if ((status = trf_forward_backward(r->trainer, &batch, report, err))) return status;
        p->passes += (double)batch.target.count / (double)trf_corpus_size(r->corpus);
    }
    return trf_optimizer_step(r->trainer, report, err);
}

/* All updates so far were skipped: there is nothing to validate or to keep. */
static int learnt_nothing(const struct run *r, const struct progress *p)
{
    return p->updates && !r->state.learnt;
}

static void say_left_out(const struct progress *p, const trf_step_report *report)
{
    enum { REPORTED = 5 };
    if (p->left_out > REPORTED) return;
    say("update %lld was left out: %s is not finite%s", (long long)report->step, report->tensor,
        p->left_out == REPORTED ? "; further ones are only counted" : "");
}

/* A skipped update changes nothing, so the next one is likely to be skipped too. After a hundred in
   a row training ends, without a checkpoint of weights that do not recover. */
static int is_lost(const struct progress *p, const trf_step_report *report)
{
    enum { IN_A_ROW = 100 };
    if (p->in_a_row < IN_A_ROW) return 0;
    say("the last %d updates were left out: the rate of %.3g is too high; start again with a "
        "smaller --learning-rate",
        IN_A_ROW, report->learning_rate);
    return 1;
}

/* The reason why training ends before the next update, or NULL. */
static const char *is_over(const struct run *r, const struct progress *p, int64_t step)
{
    const struct settings *s = r->s;
    if (step >= s->updates) return "updates";
    if (!validations_left(r)) return "patience";
    if (p->time_is_up) return "minutes";
    return NULL;
}

/* A new best model needs a checkpoint too: resuming from an older one would begin with a worse best
   score, and replace the better model. */
static int is_new_best(const struct run *r, int64_t step)
{
    return validates(&r->validator) && r->state.stopping.validated == step &&
           r->state.stopping.best_update == step;
}

/* Saves the updates before the one that failed; `batches` were read for those. The failed update
   has changed nothing. If only one process knows of the error, the others wait for its sums and
   cannot save: then all end at once. */
static int end_by_error(struct run *r, const struct progress *p, int64_t batches, int shared)
{
    if (n_ranks() > 1 && !shared) return FAILED;
    trf_trainer_discard_gradients(r->trainer);
    r->state.batches = batches;
    if (p->updates) (void)status_of_first(save_after_error(r, p));
    return FAILED;
}

/* Runs until training ends or a signal comes. A checkpoint that cannot be saved meanwhile is
   reported; only the last one has to be saved. */
static int train_on(struct run *r, struct progress *p, const char **why)
{
    struct settings *s = r->s;
    trf_step_report report;
    trf_error err;
    trf_status status = TRF_OK;
    int64_t step = trf_trainer_step(r->trainer), epoch, batches;
    int shared = 0;
    for (;;) {
        agree_on_end(r, p);
        if (step && step % s->valid_every == 0 && r->state.stopping.validated != step &&
            !stopped()) {
            if (learnt_nothing(r, p)) r->state.stopping.wait++;
            else if (validate_or_save(r, p, step)) return FAILED;
            agree_on_end(r, p);
        }
        if (stopped() || (*why = is_over(r, p, step))) break;
        if (p->updates &&
            ((s->checkpoint_every && step % s->checkpoint_every == 0) || is_new_best(r, step)))
            save_checkpoint(r, seconds_of_run(p));
        epoch = trf_corpus_epoch(r->corpus);    /* after the last batch it would be the next one */
        prepare_notice("finishing update", step + 1, r->checkpoint != NULL);
        batches = r->state.batches;
        status = one_update(r, p, &report, &shared, &err);
        if (status == TRF_E_END) { *why = "epochs"; break; }
        if (status) {
            say_error("training", &err);
            return end_by_error(r, p, batches, shared);
        }
        step = report.step;
        if (update_ema(r)) return FAILED;
        count_update(p, &report);
        if (report.skipped) say_left_out(p, &report); else r->state.learnt = 1;
        show_progress(p, epoch, &report,
                      validates(&r->validator) ? validations_left(r) : INT32_MAX);
        if (is_lost(p, &report)) return FAILED;
    }
    if (stopped() || !step || r->state.stopping.validated == step || learnt_nothing(r, p))
        return DONE;
    if (validate_or_save(r, p, step)) return FAILED;
    agree_on_end(r, p);
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>ends           the model file, the last checkpoint
// -----------------------------------------------------------------------------------------------

static int save_last(struct run *r)
{
    int status = apply_ema(r);
    if (!status) status = save_model(r, r->s->model);
    return restore_ema(r) ? FAILED : status;
}

/* The model file is the best model already, unless it was removed. */
static int leave_best(struct run *r, const char *instead)
{
    if (!access(r->s->model, F_OK) || copy_best(r)) return DONE;
    say("warning: '%s' no longer exists: %s written instead of the best model", r->s->model,
        instead);
    return save_last(r);
}

/* The mean of several models replaces the best one if it is better. *left: a signal aborted
   this. */
static int write_mean(struct run *r, int *left)
{
    struct validation v;
    int count, worse;
    memset(&v, 0, sizeof v);
    prepare_notice("leaving the validation of the mean after update", trf_trainer_step(r->trainer),
                   r->checkpoint != NULL);
    if (set_mean_weights(r, &count) || validate_interruptibly(r, &v)) return FAILED;
    if ((*left = v.cancelled)) return DONE;         /* a resumed run comes here again */
    end_line();
    if (validates(&r->validator)) {
        worse = !is_better(r, v.score, v.loss, r->state.stopping.best, r->state.stopping.best_loss);
        inform("mean of %d model%s: loss %.4f  nll %.4f", count, plural(count), v.loss, v.nll);
        if (metric_of(r->s) != METRIC_LOSS)
            inform("  %s %.4f", metric_name(metric_of(r->s)), v.score);
        inform("; the best model had %.4f%s\n", r->state.stopping.best,
               worse ? ", and is kept" : "");
        if (worse) return leave_best(r, "the mean is");
        r->score = v.score;
    } else inform("the model is the mean of %d\n", count);
    return save_model(r, r->s->model);
}

/* Completes the model file: the best model is there already; a mean, or a model without validation,
   comes now. */
static int write_result(struct run *r, int *left)
{
    if (r->s->average > 1 && r->state.n_kept) return write_mean(r, left);
    return r->state.stopping.best_update ? leave_best(r, "the last weights are") : save_last(r);
}

/* After a signal; the checkpoint is saved. */
static int end_by_signal(struct run *r)
{
    if (!r->checkpoint && r->state.stopping.best_update)
        remove_unneeded(r, 0); /* nobody can resume from them */
    say("stopped by signal %d after update %lld; %s%s", stopped(),
        (long long)trf_trainer_step(r->trainer),
        r->checkpoint ? r->checkpoint : "there is no checkpoint, ",
        r->checkpoint                   ? " is complete: the same command with --resume continues"
        : r->state.stopping.best_update ? "only the best model so far is kept"
        : r->state.n_kept               ? "only the models of the last validations are kept"
                                        : "nothing is kept");
    return SIGNALLED + stopped();
}

static int end_well(struct run *r, struct progress *p, const char *why)
{
    static const char *const ends[][2] = {
        {"updates", "--updates reached"},
        {"epochs", "--epochs reached"},
        {"minutes", "--minutes reached"},
        {"patience", "no better model in --patience validations"}};
    double seconds = seconds_of_run(p);
    size_t i;
    int kept = save_checkpoint(r, seconds), left = 0;
    end_line();
    if (learnt_nothing(r, p)) {
        say("%s left out: nothing was learned, and no model is written",
            p->updates == 1 ? "the only update was" : "all updates were");
        return FAILED;
    }
    if (write_result(r, &left)) return FAILED;
    if (left) agree_on_signal(signal_here());
    if (left) return end_by_signal(r);          /* a later signal comes after the end */
    remove_unneeded(r, r->checkpoint != NULL);      /* a resumed run may need them */
    for (i = 0; i < 3 && strcmp(ends[i][0], why); i++) { }
    if (!p->updates && r->s->resume)
        say("nothing to do: training has reached the end that the command or the checkpoint "
            "sets; a larger --%s continues it",
            why);
    inform("done: %lld update%s, %lld real token%s in %.1f s, %.0f tokens/s (%s); ",
           (long long)p->updates, plural(p->updates), (long long)p->tokens, plural(p->tokens),
           seconds, (double)p->tokens / fmax(seconds, 1e-9),
           i == 3 && trf_is_perfect(library_metric(metric_of(r->s)), r->state.stopping.best)
               ? "the score is perfect"
               : ends[i][1]);
    if (r->state.stopping.best_update && r->s->average <= 1)
        inform("best: update %lld, %s %.4f; ", (long long)r->state.stopping.best_update,
               metric_name(metric_of(r->s)), r->state.stopping.best);
    inform_line("model in %s", r->s->model);
    if (p->left_out) inform("left out: %lld of these updates\n", (long long)p->left_out);
    return kept;
}

/* If the earlier run ended with a mean, the model file becomes its best single model again. */
static void restore_best(struct run *r)
{
    if (!r->state.had_mean || access(r->s->model, F_OK) || !copy_best(r)) return;
    say("'%s' was the mean of several models; until this run ends, it is the best single model "
        "(update %lld)",
        r->s->model, (long long)r->state.stopping.best_update);
}

static void log_end(struct run *r, const struct progress *p, const char *why)
{
    FILE *log = r->log.file;
    if (!log) return;
    fprintf(log, "{\"event\":\"end\",\"why\":\"%s\",\"update\":%lld,\"tokens\":%lld", why,
            (long long)trf_trainer_step(r->trainer), (long long)p->tokens);
    print_json_field(log, "seconds", seconds_in_all(p));
    fprintf(log, ",\"best_update\":%lld,\"metric\":\"%s\"",
            (long long)r->state.stopping.best_update, metric_name(metric_of(r->s)));
    print_json_field(log, "score", r->score);
    fputs("}\n", log);
    flush_log(&r->log);
}

/* *why: the reason of the end, if training ends normally. */
static int learn_with_signals(struct run *r, struct progress *p, const char **why)
{
    int kept;
    if (!is_first_rank()) return train_on(r, p, why);   /* leave_ranks waits for the first one */
    if (!r->s->resume && (r->s->keep || r->s->average > 1)) warn_of_kept(r);
    log_start(&r->log, r->s, r->model, trf_trainer_step(r->trainer), trf_corpus_size(r->corpus),
              (int64_t)r->validator.pairs->ids[0].count);
    restore_best(r);
    if (!r->s->resume && r->checkpoint && !access(r->checkpoint, F_OK) && save_checkpoint(r, 0))
        return FAILED;                  /* else --resume would load that of an earlier training */
    if (train_on(r, p, why)) return FAILED;
    if (!stopped()) return end_well(r, p, *why);
    kept = save_checkpoint(r, seconds_of_run(p));
    end_line();
    return kept ? FAILED : end_by_signal(r);
}

int learn(struct run *r)
{
    struct progress p;
    const char *why = "";
    int status = check_translating(&r->validator);
    if (status) return status;
    start_progress(&p, r->s, &r->log, r->state.seconds);
    catch_signals(&p);
    status = learn_with_signals(r, &p, &why);
    log_end(r, &p, status == DONE ? why : stopped() ? "signal" : "error");
    release_signals();
    end_progress(&p);
    return status;
}

// trf train: updates, validations, checkpoints, and ending well.
//
// From the first validation on the model file holds the best model. See loop.h.
//
// trf_trainer_learn is the loop. Several processes make the same updates; the first one validates, and
// writes all files.

#include "loop.h"
#include "measure.h"
#include "mpi.h"
#include "signals.h"

#include <math.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>hooks          what trf_trainer_learn calls
//
// The library's loop makes the updates, validates, knows what is best and when training ends. What a
// terminal and a folder want is here: lines of progress, samples, kept models, checkpoints.
// -----------------------------------------------------------------------------------------------

struct learning {
    struct run *r;
    struct progress *p;
    int64_t epoch;              /* in which the next update begins */
    trf_early_stopping before;  /* the validations before the current one */
    int64_t fits, told;         /* updates that fit into the time; the number that was told last */
    int64_t cooldown;           /* the update behind which the rate falls, as it was told */
    int failed;                 /* 1: a model could not be saved or made; a message said so */
    int not_saved;              /* the status of the last checkpoint */
};

/* All updates so far were skipped: there is nothing to validate or to keep. */
static int learnt_nothing(const struct run *r, const struct progress *p)
{
    return p->updates && !r->learning->learnt;
}

static int32_t validations_left(const struct run *r)
{
    return trf_early_stopping_left(&r->learning->stopping, library_metric(metric_of(r->s)),
                                   r->s->train.patience);
}

static void say_left_out(const struct progress *p, const trf_step_report *report)
{
    enum { REPORTED = 5 };
    if (p->left_out > REPORTED) return;
    say("update %lld skipped: %s is not finite%s", (long long)report->step, report->tensor,
        p->left_out == REPORTED ? "; further ones are only counted" : "");
}

static void prepare_update(const struct run *r)
{
    prepare_notice("finishing update", updates_of(r->trainer) + 1, r->checkpoint != NULL);
}

/* Between processes all numbers are the largest; a signal that one of them got ends all. */
static void agree(void *user, double *numbers, int32_t n)
{
    int signal_number = signal_here();
    (void)user;
    if (n == 1) {               /* an update begins: whether a batch could not be read */
        end_validating();
        numbers[0] = any_failed(numbers[0] > 0);
        return;
    }
    most_numbers(numbers, n);
    most_of_all(&signal_number, 1);
    agree_on_signal(signal_number);
}

/* A validation begins. Without pairs to validate on this is all of it. */
static int due(void *user, int64_t update)
{
    struct learning *l = (struct learning *)user;
    struct run *r = l->r;
    prepare_notice("leaving the validation of update", update, r->checkpoint != NULL);
    begin_validating();
    l->before = r->learning->stopping;
    if (validates(&r->validator)) return 0;
    if (keep_model(r, update, 0, 0)) return l->failed = 1;
    remove_unneeded(r, 1);
    prepare_update(r);
    return 0;
}

static int custom(void *user, const trf_model *model, double *score)
{
    struct learning *l = (struct learning *)user;
    struct validation v;
    int status;
    (void)model;
    memset(&v, 0, sizeof v);
    status = score_held_out(&l->r->validator, &v);
    if (status) l->failed = 1;
    *score = v.score;
    return status || v.cancelled;
}

/* Keeps the model that was validated. If that fails, the validation does not count. */
static int keep_validated(struct learning *l, const trf_learn_progress *p, const struct validation *v)
{
    struct run *r = l->r;
    int64_t update = p->update->step;
    show_validation(&r->validator, &r->log, update, v,
                    !p->is_best ? "" : p->is_best > 1 ? "  best so far" : "  best so far, by its loss");
    show_samples(&r->validator);
    if (keep_model(r, update, p->score, p->loss) || (p->is_best && save_model(r, r->s->model)))
        return FAILED;
    if (p->is_best) r->score = p->score;
    remove_unneeded(r, 1);      /* including the previous best */
    return DONE;
}

static int validated(struct learning *l, const trf_learn_progress *p)
{
    struct run *r = l->r;
    struct validation v;
    if (is_first_rank()) {
        memset(&v, 0, sizeof v);
        if (measure_outputs(&r->validator, &v)) l->failed = 1;
        v.loss = p->loss; v.nll = p->nll; v.accuracy = p->accuracy; v.score = p->score;
        v.label_loss = p->held->sequence_loss;
        v.label_accuracy = p->held->sequence_accuracy;
        if (keep_validated(l, p, &v)) l->failed = 1;
    }
    prepare_update(r);
    return l->failed;
}

/* The run has measured how many updates fit into its minutes. The first validation corrects the
   number; only a change of more than a tenth is told. */
static void say_plan(struct learning *l)
{
    struct run *r = l->r;
    const trf_learn_state *state = r->learning;
    const trf_train_options *o = trf_trainer_options(r->trainer);
    l->fits = state->fits;
    if (!l->told || llabs(l->fits - l->told) > l->told / 10) {
        l->told = l->fits;
        end_line();
        inform("about %lld updates fit into %g minute%s: warm-up %lld, validated every %lld\n",
               (long long)l->fits, r->s->train.minutes, r->s->train.minutes == 1 ? "" : "s",
               (long long)o->warmup,
               (long long)(state->valid_every ? state->valid_every : r->s->train.valid_every));
    }
    if (!r->log.file) return;
    fprintf(r->log.file, "{\"event\":\"plan\",\"updates\":%lld,\"warmup\":%lld,\"total_steps\":%lld,"
            "\"valid_every\":%lld}\n", (long long)state->fits, (long long)o->warmup,
            (long long)o->total_steps, (long long)state->valid_every);
    flush_log(&r->log);
}

/* Patience is exhausted, and the rate falls. */
static void say_cooldown(struct learning *l)
{
    const trf_learn_state *state = l->r->learning;
    l->cooldown = state->cooldown;
    l->p->ends = state->ends;
    if (!is_first_rank()) return;
    end_line();
    inform("no better score in --patience validations: the rate falls until update %lld\n",
           (long long)state->ends);
}

/* After an update or a validation. */
static int progress(void *user, const trf_learn_progress *now)
{
    struct learning *l = (struct learning *)user;
    struct run *r = l->r;
    struct progress *p = l->p;
    const trf_step_report *report = now->update;
    if (now->validated) return validated(l, now);
    if (is_first_rank() && l->r->learning->fits != l->fits) say_plan(l);
    if (l->r->learning->cooldown != l->cooldown) say_cooldown(l);
    begin_validating();         /* until the next update begins */
    r->state.batches += now->batches;
    p->passes = now->epoch;
    count_update(p, report);
    if (report->skipped) say_left_out(p, report);
    show_progress(p, l->epoch, report, validates(&r->validator) && !p->ends ? validations_left(r)
                  : INT32_MAX);
    l->epoch = trf_corpus_facts(r->corpus)->epoch;     /* after the last batch it is the next one */
    prepare_update(r);
    return 0;
}

/* A checkpoint that cannot be saved meanwhile is reported; only the last one has to be saved. */
static void save(void *user, const trf_trainer *trainer, const trf_corpus *corpus)
{
    struct learning *l = (struct learning *)user;
    (void)trainer; (void)corpus;
    if (l->failed) l->r->learning->stopping = l->before;    /* what was not kept does not count */
    l->not_saved = save_checkpoint(l->r);
}

static trf_learn_options options_of(struct learning *l)
{
    const struct settings *s = l->r->s;
    trf_learn_options o = trf_learn_defaults();
    enum metric metric = metric_of(s);
    o.updates = s->train.updates;
    o.seconds = isfinite(s->train.minutes) ? s->train.minutes * 60 : 0;
    o.valid_every = s->train.valid_every;
    o.fit = l->r->state.fit;
    o.patience = s->train.patience;
    o.cooldown = s->train.cooldown;
    o.ema = s->train.ema;
    o.metric = library_metric(metric);
    o.accumulate = s->train.accumulate;
    o.noise = l->r->noise;
    o.held_out_noise = l->r->validator.noise;
    o.custom = metric == METRIC_LOSS || metric == METRIC_ACCURACY ? NULL : custom;
    o.progress = progress;
    o.due = due;
    o.save = save;
    o.save_every = s->train.checkpoint_every;
    o.resume = 1;
    o.discard_best = 1;
    o.agree = agree;
    o.user = l;
    return o;
}

/* After an error a checkpoint keeps what was learned, if it could be saved. */
static int end_by_error(const struct learning *l, trf_status status, double rate,
                        const trf_error *err)
{
    const struct run *r = l->r;
    end_line();
    if (status == TRF_E_NONFINITE)      /* of trf_trainer_learn: a hundred in a row */
        say("the last 100 updates were skipped: the rate of %.3g is too high; start again with a "
            "smaller --learning-rate", rate);
    else {
        if (!l->failed) say_error("training", err);
        if (l->p->updates && !l->not_saved && r->checkpoint && is_first_rank())
            say("%s is complete: the same command with --resume continues", r->checkpoint);
    }
    return FAILED;
}

/* Runs until training ends or a signal comes. */
static int train_on(struct learning *l, const char **why)
{
    static const char *const ends[TRF_LEARN_END_COUNT] = {"updates", "patience", "minutes",
                                                          "epochs", "error"};
    struct run *r = l->r;
    trf_learn_options o = options_of(l);
    trf_learn_report report;
    trf_error err;
    trf_status status;
    l->epoch = trf_corpus_facts(r->corpus)->epoch;
    l->fits = r->learning->fits;
    l->p->first_pass = (double)r->state.batches / (double)r->batches;
    prepare_update(r);
    begin_validating();
    status = trf_trainer_learn(r->trainer, r->corpus, &r->validator.held, &o, &report, &err);
    end_validating();
    *why = ends[report.end];
    if (status == TRF_E_CANCELLED && !l->failed) return DONE;
    return status || l->failed ? end_by_error(l, status, report.last.learning_rate, &err) : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>ends           the model file, the last checkpoint
// -----------------------------------------------------------------------------------------------

/* trf_trainer_learn leaves the average of the weights in the model, if there is one. */
static int save_last(struct run *r) { return save_model(r, r->s->model); }

/* The model file is the best model already, unless it was removed. */
static int leave_best(struct run *r, const char *instead)
{
    if (!access(r->s->model, F_OK) || copy_best(r)) return DONE;
    say("warning: '%s' no longer exists: %s written instead of the best model", r->s->model,
        instead);
    return save_last(r);
}

/* A signal aborts it. */
static int validate_interruptibly(struct run *r, struct validation *v)
{
    int status = DONE;
    begin_validating();
    if (validates(&r->validator)) status = validate(&r->validator, v);
    end_validating();
    return status;
}

/* The mean of several models replaces the best one if it is better. *left: a signal aborted
   this. */
static int write_mean(struct run *r, int *left)
{
    struct validation v;
    int count, worse;
    memset(&v, 0, sizeof v);
    prepare_notice("leaving the validation of the mean after update", updates_of(r->trainer),
                   r->checkpoint != NULL);
    if (set_mean_weights(r, &count) || validate_interruptibly(r, &v)) return FAILED;
    if ((*left = v.cancelled)) return DONE;         /* a resumed run comes here again */
    end_line();
    if (validates(&r->validator)) {
        worse = !is_better(r, v.score, v.loss, r->learning->stopping.best, r->learning->stopping.best_loss);
        inform("mean of %d model%s: loss %.4f  nll %.4f", count, plural(count), v.loss, v.nll);
        if (metric_of(r->s) != METRIC_LOSS)
            inform("  %s %.4f", metric_name(metric_of(r->s)), v.score);
        inform("; the best model had %.4f%s\n", r->learning->stopping.best,
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
    if (r->s->train.average > 1 && r->state.n_kept) return write_mean(r, left);
    return r->learning->stopping.best_update ? leave_best(r, "the last weights are") : save_last(r);
}

/* After a signal; the checkpoint is saved. */
static int end_by_signal(struct run *r)
{
    if (!r->checkpoint && r->learning->stopping.best_update)
        remove_unneeded(r, 0); /* nobody can resume from them */
    say("stopped by signal %d after update %lld; %s%s", stopped(),
        (long long)updates_of(r->trainer),
        r->checkpoint ? r->checkpoint : "there is no checkpoint, ",
        r->checkpoint                   ? " is complete: the same command with --resume continues"
        : r->learning->stopping.best_update ? "only the best model so far is kept"
        : r->state.n_kept               ? "only the models of the last validations are kept"
                                        : "nothing is kept");
    return SIGNALLED + stopped();
}

static int end_well(struct run *r, struct progress *p, const char *why, int kept)
{
    static const char *const ends[][2] = {
        {"updates", "--updates reached"},
        {"epochs", "--epochs reached"},
        {"minutes", "--minutes reached"},
        {"patience", "no better score in --patience validations"}};
    static const char *const uses[] = {"translate", "generate", "classify", "tag",
                                       "train --init-from", "train --init-from",
                                       "train --init-from"};
    double seconds = seconds_of_run(p);
    size_t i;
    int left = 0;
    end_line();
    if (learnt_nothing(r, p)) {
        say("%s skipped: nothing was learned, and no model is written",
            p->updates == 1 ? "the only update was" : "all updates were");
        return FAILED;
    }
    if (write_result(r, &left)) return FAILED;
    if (left) agree_on_signal(signal_here());
    if (left) return end_by_signal(r);          /* a later signal comes after the end */
    remove_unneeded(r, r->checkpoint != NULL);      /* a resumed run may need them */
    for (i = 0; i < 3 && strcmp(ends[i][0], why); i++) { }
    if (!p->updates && r->s->resume && i == 3 &&
        is_perfect(metric_of(r->s), r->learning->stopping.best))
        say("nothing to do: the best score is perfect; --patience 0 with --updates N trains on");
    else if (!p->updates && r->s->resume && r->learning->cooldown)
        say("nothing to do: the rate has fallen to its end; --cooldown 0 or --updates N trains on");
    else if (!p->updates && r->s->resume)
        say("nothing to do: training has reached the end that the command or the checkpoint "
            "sets; a larger --%s continues it",
            why);
    inform("%s: %lld update%s, %lld token%s in %.1f s, %.0f tokens/s (%s); ",
           kept || r->log.broken ? "ended, but not everything could be written" : "done",
           (long long)p->updates, plural(p->updates), (long long)p->tokens, plural(p->tokens),
           seconds, (double)p->tokens / fmax(seconds, 1e-9),
           i == 3 && is_perfect(metric_of(r->s), r->learning->stopping.best)
               ? "the score is perfect"
               : ends[i][1]);
    if (r->learning->stopping.best_update && r->s->train.average <= 1)
        inform("best: update %lld, %s %.4f%s; ", (long long)r->learning->stopping.best_update,
               metric_name(metric_of(r->s)), r->learning->stopping.best,
               metric_unit(metric_of(r->s)));
    inform_line("model in %s", r->s->model);
    inform_line("use it: trf %s %s%s", uses[r->s->objective], r->s->model,
                r->s->objective == OBJECTIVE_CAUSAL ? " 'a beginning'"
                : learns_labels(r->s) || r->s->objective == OBJECTIVE_TRANSLATE ? " FILE" : "");
    if (p->left_out) inform("skipped: %lld of these updates\n", (long long)p->left_out);
    return kept;
}

/* If the earlier run ended with a mean, the model file becomes its best single model again. */
static void restore_best(struct run *r)
{
    if (!r->state.had_mean || access(r->s->model, F_OK) || !copy_best(r)) return;
    say("'%s' was the mean of several models; until this run ends, it is the best single model "
        "(update %lld)",
        r->s->model, (long long)r->learning->stopping.best_update);
}

static void log_end(struct run *r, const struct progress *p, const char *why)
{
    FILE *log = r->log.file;
    if (!log) return;
    fprintf(log, "{\"event\":\"end\",\"why\":\"%s\",\"update\":%lld,\"tokens\":%lld", why,
            (long long)updates_of(r->trainer), (long long)p->tokens);
    print_json_field(log, "seconds", seconds_in_all(p));
    fprintf(log, ",\"best_update\":%lld,\"metric\":\"%s\"",
            (long long)r->learning->stopping.best_update, metric_name(metric_of(r->s)));
    print_json_field(log, "score", r->score);
    fputs("}\n", log);
    flush_log(&r->log);
}

/* *why: the reason of the end, if training ends normally. */
static int learn_with_signals(struct run *r, struct progress *p, const char **why)
{
    struct learning l;
    memset(&l, 0, sizeof l);
    l.r = r;
    l.p = p;
    if (!is_first_rank()) return train_on(&l, why);     /* leave_ranks waits for the first one */
    if (!r->s->resume && (r->s->train.keep_models || r->s->train.average > 1)) warn_of_kept(r);
    log_start(&r->log, r->s, r->model, updates_of(r->trainer), trf_corpus_facts(r->corpus)->pairs,
              r->validator.held.source.count);
    restore_best(r);
    if (!r->s->resume && r->checkpoint && !access(r->checkpoint, F_OK) && save_checkpoint(r))
        return FAILED;                  /* else --resume would load that of an earlier training */
    if (train_on(&l, why)) return FAILED;
    end_line();
    if (!stopped()) return end_well(r, p, *why, l.not_saved);
    return l.not_saved ? FAILED : end_by_signal(r);
}

int learn(struct run *r)
{
    struct progress p;
    const char *why = "";
    int status = check_translating(&r->validator);
    if (status) return status;
    start_progress(&p, r->s, &r->log, r->learning->seconds);
    catch_signals(&p);
    status = learn_with_signals(r, &p, &why);
    log_end(r, &p, status == DONE ? why : stopped() ? "signal" : "error");
    release_signals();
    end_progress(&p);
    return status;
}

// trf train: updates, validations, checkpoints, and ending well.
//
// The model file holds the best validated model from the first validation on. SIGINT, SIGTERM and SIGHUP only set a
// flag: the update that runs is finished (a validation is left), a checkpoint is written, and the exit status is
// 128 + the signal. A second one of the same kind ends the program at once, but not within a fifth of a second, in
// which timeout(1) sends one twice: to the program, and to its group.

#include "train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>signals        a handler may do next to nothing: it sets a flag, and writes a line that stands ready
// -----------------------------------------------------------------------------------------------

static volatile sig_atomic_t stopped_by, notice, validating;
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction inherited[N_SIGNALS];       /* what the parent has wanted, for when training is over */
static struct progress *watched;        /* of the training that runs, to tell of what takes long */
static int64_t watched_update;
static double watched_since;
static char notices[2][160];    /* one stands ready while the other is written */
static const char *line_end;    /* of a line of progress that may stand on a terminal */

int stopped(void) { return (int)stopped_by; }

static void stop_soon(int signal_number)
{
    static volatile double asked[N_SIGNALS];
    const char *text = notices[notice];
    double seconds = now();
    int kept = errno, i = 0;
    while (signals[i] != signal_number) i++;
    if (asked[i] > 0) {
        if (seconds - asked[i] < 0.2) return;
        signal(signal_number, SIG_DFL);
        raise(signal_number);           /* it comes when we return */
        return;
    }
    asked[i] = seconds;
    stopped_by = signal_number;
    if (write(STDERR_FILENO, text, strlen(text)) < 0) { }      /* nobody is there to hear it */
    errno = kept;
}

static void prepare_notice(const char *doing, int64_t update, int keeps)
{
    int other = !notice;
    watched_update = update;
    watched_since = now();
    snprintf(notices[other], sizeof notices[other], "%s%s: %s %lld, then %s; again: stop at once\n",
             line_end, program, doing, (long long)update, keeps ? "saving" : "ending");
    notice = other;
}

static void catch_signals(void)
{
    struct sigaction action;
    int i;
    line_end = isatty(STDERR_FILENO) ? "\n" : "";
    memset(&action, 0, sizeof action);
    action.sa_handler = stop_soon;
    action.sa_flags = SA_RESTART;
    for (i = 0; i < N_SIGNALS; i++)     /* one that the parent ignores stays ignored */
        if (!sigaction(signals[i], NULL, &inherited[i]) && inherited[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

static void release_signals(void)
{
    int i;
    for (i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &inherited[i], NULL);
}

/* The library asks this at every layer and token: only a validation is left in the middle. */
static int leave_validation(void *user)
{
    (void)user;
    if (watched) show_waiting(watched, validating ? "validating" : "computing", watched_update, watched_since);
    return validating && stopped_by;
}

// -----------------------------------------------------------------------------------------------
// >>average        --ema: trf_ema, applied to validate and to save
// -----------------------------------------------------------------------------------------------

/* All weights of a model that is like ours, one after another. */
static int read_weights(const trf_model *model, trf_real *to)
{
    trf_error err;
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor w = trf_model_parameter(model, i);
        int64_t n = trf_tensor_count(&w);
        if (trf_tensor_read(&w, to, n, &err)) { say_error("weights", &err); return FAILED; }
        to += n;
    }
    return DONE;
}

/* The trainer's weights become those of a model that is like ours. */
static int take_weights_of(struct training *t, const trf_model *model)
{
    trf_real *room = malloc((size_t)trf_model_parameter_total(model) * sizeof *room), *from = room;
    trf_error err;
    int32_t i;
    int status = DONE;
    if (!room) { say("out of memory: %lld weights", (long long)trf_model_parameter_total(model)); return FAILED; }
    status = read_weights(model, room);
    for (i = 0; i < trf_model_parameter_count(t->model) && !status; i++) {
        trf_tensor w = trf_trainer_parameter(t->trainer, i);
        int64_t n = trf_tensor_count(&w);
        if (trf_tensor_write(&w, from, n, &err)) { say_error("weights", &err); status = FAILED; }
        from += n;
    }
    free(room);
    return status;
}

int make_average_room(struct training *t)
{
    trf_error err;
    if (t->s->ema <= 0 || !trf_ema_create(&t->ema, t->trainer, t->s->ema, &err)) return DONE;
    say_error("average", &err);
    return FAILED;
}

static int done_with_ema(trf_status status, const trf_error *err)
{
    if (status) say_error("average", err);
    return status ? FAILED : DONE;
}

static int update_ema(struct training *t)
{
    trf_error err;
    return t->ema ? done_with_ema(trf_ema_update(t->ema, &err), &err) : DONE;
}

static int apply_ema(struct training *t)
{
    trf_error err;
    return t->ema ? done_with_ema(trf_ema_apply(t->ema, &err), &err) : DONE;
}

static int restore_ema(struct training *t)
{
    trf_error err;
    return t->ema ? done_with_ema(trf_ema_restore(t->ema, &err), &err) : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>state          what a checkpoint knows besides the library's: options, the best so far, what is kept
//
// It stands in the metadata of the checkpoint's model. The average is a model file beside the checkpoint, of the same
// update: written before it, and older ones are removed after it, so that whatever happens one pair is whole.
// -----------------------------------------------------------------------------------------------

static char *kept_path(const struct training *t, int64_t update)
{
    return format_text("%s.update-%lld", t->s->model, (long long)update);
}

static char *average_path(const struct training *t, int64_t update)
{
    return format_text("%s.average-%lld", t->checkpoint, (long long)update);
}

static int save_model(struct training *t, const char *path)
{
    trf_error err;
    if (!trf_model_save(t->model, path, &err)) return DONE;
    say_error(NULL, &err);
    return FAILED;
}

static int is_number(const char *text) { return *text && !text[strspn(text, "0123456789")]; }

static void remove_other(void *user, const char *path, const char *tail)
{
    if (is_number(tail) && strtoll(tail, NULL, 10) != *(const int64_t *)user) unlink(path);
}

/* Removes every average beside the checkpoint but that of one update. */
static void remove_averages(struct training *t, int64_t but)
{
    char *prefix = format_text("%s.average-", t->checkpoint);
    for_files(prefix, remove_other, &but);
    free(prefix);
}

static int note(struct training *t, const char *key, const char *value)
{
    trf_error err;
    if (!trf_model_set_metadata(t->model, key, value, &err)) return DONE;
    say_error("metadata", &err);
    return FAILED;
}

/* Whether an option is stored by us: not a file, not a preset, and nowhere in the library's own metadata. */
static int is_stored(const struct training *t, int i)
{
    const struct row *row = &rows[i];
    return (row->commands & TRAIN) && row->kind != HEADING && row->kind != TEXT && row->kind != TEXTS && !row->then &&
           row->offset != AT(resume) && row->offset != AT(recipe) && row->offset != AT(seeds) &&
           row->offset != AT(strict) && row->offset != AT(overwrite) &&
           row->offset != AT(quiet) &&
           !row_within(row, AT(config), sizeof t->s->config) &&
           !row_within(row, AT(training), sizeof t->s->training) && !row_within(row, AT(device), sizeof t->s->device);
}

/* Puts the state into the metadata of the model, or takes it out again. */
static int note_state(struct training *t, int there)
{
    const struct state *state = &t->state;
    char key[96], value[96], *kept = format_text("%s", "");
    size_t i;
    int k, status = DONE;
    for (k = 0; k < n_rows && !status; k++) {
        if (!is_stored(t, k)) continue;
        snprintf(key, sizeof key, "option.%s", rows[k].name);
        value_text(&rows[k], t->s, value, sizeof value);
        status = note(t, key, there && *value && strcmp(value, "no limit") ? value : NULL);
    }
    for (i = 0; i < state->n_kept; i++) {
        char *longer = format_text("%s%s%lld:%.17g:%.17g", kept, i ? " " : "", (long long)state->kept[i].update,
                                   state->kept[i].score, state->kept[i].loss);
        free(kept);
        kept = longer;
    }
    snprintf(value, sizeof value, "%lld %lld %.17g %.17g %d", (long long)state->stopping.validated,
             (long long)state->stopping.best_update, state->stopping.best, state->stopping.best_loss,
             (int)state->stopping.wait);
    if (!status) status = note(t, "training.validation", there ? value : NULL);
    snprintf(value, sizeof value, "%lld", (long long)state->batches);
    if (!status) status = note(t, "training.batches", there ? value : NULL);
    if (!status) status = note(t, "training.learnt", there && state->learnt ? "something" : NULL);
    if (!status) status = note(t, "training.cosine", there && state->cosine_follows ? "ends with it" : NULL);
    snprintf(value, sizeof value, "%.3f", state->seconds);
    if (!status) status = note(t, "training.seconds", there && isfinite(t->s->minutes) ? value : NULL);
    snprintf(value, sizeof value, "%llu", (unsigned long long)state->held_out);
    if (!status) status = note(t, "training.held_out", there ? value : NULL);
    if (!status) status = note(t, "training.picks", there && !state->combed ? "random" : NULL);
    if (!status)
        status = note(t, "training.model", there && was_given(t->s, "checkpoint") ? name_of(t->s->model) : NULL);
    if (!status) status = note(t, "training.kept", there && *kept ? kept : NULL);
    free(kept);
    return status;
}

static int save_checkpoint(struct training *t, double seconds)
{
    double before = t->state.seconds;
    int64_t update = trf_trainer_step(t->trainer);
    trf_error err;
    char *average;
    int status = DONE, known;
    if (!t->checkpoint) return DONE;
    average = average_path(t, update);
    known = !access(average, F_OK);
    if (t->s->ema > 0) {
        status = apply_ema(t);
        if (!status) status = save_model(t, average);
        if (restore_ema(t)) status = FAILED;
        if (status) { free(average); return status; }
    }
    t->state.seconds += seconds;
    status = note_state(t, 1);
    t->state.seconds = before;
    if (!status && trf_checkpoint_save(t->trainer, t->corpus, t->checkpoint, &err)) {
        say_error(NULL, &err);
        status = FAILED;
    }
    if (note_state(t, 0)) status = FAILED;
    if (!status) remove_averages(t, update);
    else if (t->s->ema > 0 && !known) unlink(average);      /* it belongs to no checkpoint */
    free(average);
    return status;
}

static int64_t stored_number(const struct training *t, const char *key, int64_t otherwise)
{
    const char *value = trf_model_metadata(t->model, key);
    return value ? strtoll(value, NULL, 10) : otherwise;
}

/* The vocabularies are there already. */
static int check_vocabulary_option(const struct training *t, const struct row *row)
{
    static const struct { const char *name, *of_both; } of[] = {
        {"source-vocab-size", "vocab-size"}, {"target-vocab-size", "vocab-size"}, {"source-tokens", "tokens"},
        {"target-tokens", "tokens"}, {"min-count", ""}, {"joint-vocabulary", ""}, {"normalise", ""}};
    char key[96], asked[64];
    const char *value;
    size_t i, n = sizeof of / sizeof *of;
    for (i = 0; i < n && strcmp(row->name, of[i].name); i++) { }
    if (i == n || !(row->commands & TRAIN)) return DONE;
    if (!was_given(t->s, row->name) && !was_given(t->s, of[i].of_both)) return DONE;
    snprintf(key, sizeof key, "option.%s", row->name);
    value = trf_model_metadata(t->model, key);
    value_text(row, t->s, asked, sizeof asked);
    if (!value || !strcmp(value, asked) || !strcmp(asked, "0")) return DONE;        /* 0: from the data */
    /* check_tokens has seen to words, characters and subwords: here two kinds of subwords differ */
    if (strstr(row->name, "tokens") && (strncmp(asked, "sentencepiece:", 14) || strncmp(value, "sentencepiece:", 14)))
        return DONE;
    say("the checkpoint was made with --%s %s, now it is %s: vocabularies cannot change while a model is trained",
        row->name, value, asked);
    return FAILED;
}

/* Whether what is given leaves it to the training, which knows by now what it has decided. */
static int leaves_open(const struct row *row, const char *given)
{
    return !strcmp(given, "auto") || (strstr(row->name, "-tokens") && !strcmp(given, "sentencepiece")) ||
           (strstr(row->name, "-vocab-size") && strspn(given, "0") == strlen(given));
}

/* Options of the checkpoint that this command line does not give; of those that say when to end, all or none. */
int restore_options(struct training *t)
{
    static const char *const ends[] = {"updates", "epochs", "minutes", "patience"};
    struct state *state = &t->state;
    char key[96];
    const char *value;
    size_t e;
    int32_t metric = t->s->metric;
    int i, end_given = 0;
    if ((value = trf_model_metadata(t->model, "option.ema"))) state->had_average = strtod(value, NULL) > 0;
    state->batches = stored_number(t, "training.batches",
                                   trf_trainer_step(t->trainer) * stored_number(t, "option.accumulate", 1));
    state->had_mean = stored_number(t, "option.average", 1) > 1;
    state->cosine_follows = trf_model_metadata(t->model, "training.cosine") != NULL;
    for (e = 0; e < 4; e++) end_given |= was_given(t->s, ends[e]);
    for (i = 0; i < n_rows; i++) {
        int is_end = 0;
        if (check_vocabulary_option(t, &rows[i])) return FAILED;
        if (!is_stored(t, i)) continue;
        for (e = 0; e < 4; e++) is_end |= !strcmp(rows[i].name, ends[e]);
        snprintf(key, sizeof key, "option.%s", rows[i].name);
        value = trf_model_metadata(t->model, key);
        if (value && rows[i].offset == AT(metric))
            state->same_metric = metric == METRIC_AUTO || !strcmp(value, metric_name((enum metric)metric));
        if ((t->s->given[i] && !leaves_open(&rows[i], t->s->given[i])) || (is_end && end_given) || !value) continue;
        if (!set_value(&rows[i], t->s, value)) continue;
        say("%s: the value is in its metadata '%s'", t->checkpoint, key);
        return FAILED;
    }
    return DONE;
}

static void restore_kept(struct training *t, const char *text, int comparable)
{
    struct state *state = &t->state;
    long long update;
    double score, loss;
    int n;
    for (; text && sscanf(text, "%lld:%lf:%lf%n", &update, &score, &loss, &n) == 3; text += n) {
        char *path = kept_path(t, update);
        if (access(path, R_OK)) say("warning: '%s' is not there any more, and has no part in what follows", path);
        else {
            state->kept = grow(state->kept, &state->kept_capacity, state->n_kept + 1, sizeof *state->kept);
            state->kept[state->n_kept].update = update;
            state->kept[state->n_kept].score = comparable ? score : NAN;
            state->kept[state->n_kept++].loss = comparable ? loss : NAN;
        }
        free(path);
    }
}

/* What was best by another metric, or of other pairs, says nothing now. */
int restore_state(struct training *t)
{
    struct state *state = &t->state;
    const char *text = trf_model_metadata(t->model, "training.held_out");
    long long validated, best_update;
    trf_early_stopping old;
    int wait, comparable;
    state->held_out = held_out_hash(t);
    comparable = state->same_metric && text && strtoull(text, NULL, 10) == state->held_out;
    text = trf_model_metadata(t->model, "training.validation");
    state->stopping.validated = -1;
    if (text && comparable &&
        sscanf(text, "%lld %lld %lf %lf %d", &validated, &best_update, &old.best, &old.best_loss, &wait) == 5) {
        old.validated = validated;
        old.best_update = best_update;
        old.wait = wait;
        state->stopping = old;
        if (best_update) state->learnt = 1;
        if (best_update) t->score = old.best;
    }
    if (trf_model_metadata(t->model, "training.learnt")) state->learnt = 1;
    if ((text = trf_model_metadata(t->model, "training.seconds"))) state->seconds = strtod(text, NULL);
    restore_kept(t, trf_model_metadata(t->model, "training.kept"), comparable);
    if (!comparable)
        say("warning: other pairs are held out than before, or they are judged otherwise: the best begins anew");
    return note_state(t, 0);
}

/* The average as it was at the checkpoint's update. */
int restore_average(struct training *t)
{
    trf_load_options load = load_options(t->s);
    trf_model *model = NULL;
    trf_error err;
    char *path = average_path(t, trf_trainer_step(t->trainer));
    int status = DONE;
    if (t->s->ema > 0 && t->state.had_average) {
        if (trf_model_load(&model, path, &load, &err)) {
            say_error(NULL, &err);
            say("it is the average of the weights, which belongs to the checkpoint; --ema 0 goes on without it");
            status = FAILED;
        } else if (trf_model_parameter_total(model) != trf_model_parameter_total(t->model)) {
            say("%s is of another model", path);
            status = FAILED;
        } else status = read_weights(model, trf_ema_weights(t->ema));
        trf_model_destroy(model);
    }
    if (!status && t->checkpoint) remove_averages(t, trf_trainer_step(t->trainer));
    free(path);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>kept           models of past validations, for --keep and --average
// -----------------------------------------------------------------------------------------------

static int is_better(const struct training *t, double score, double loss, double than, double than_loss)
{
    return trf_is_better(library_metric(metric_of(t)), score, loss, than, than_loss);
}

/* Whether entry i is among the last n, or among the n best (of equal ones the earlier). */
static int among_last(const struct state *state, size_t i, int32_t n) { return state->n_kept - i <= (size_t)n; }

static int among_best(const struct training *t, size_t i, int32_t n)
{
    const struct state *state = &t->state;
    size_t j;
    int32_t ahead = 0;
    for (j = 0; j < state->n_kept; j++)
        ahead += is_better(t, state->kept[j].score, state->kept[j].loss, state->kept[i].score, state->kept[i].loss) ||
                 (j < i && !is_better(t, state->kept[i].score, state->kept[i].loss, state->kept[j].score,
                                      state->kept[j].loss));
    return ahead < n;
}

static int averaged(const struct training *t, size_t i)
{
    if (t->s->average <= 1) return 0;
    return t->s->average_of == 0 && t->valid[0].count ? among_best(t, i, t->s->average)
                                                      : among_last(&t->state, i, t->s->average);
}

static int is_kept_best(const struct training *t, size_t i)
{
    return t->s->average > 1 && t->state.kept[i].update == t->state.stopping.best_update;
}

/* Removes the files that nothing needs any more. The best one stays beside those of a mean, which may be worse. */
static void remove_unneeded(struct training *t, int average_needed)
{
    struct state *state = &t->state;
    char *needed = zeroed(state->n_kept, 1);
    size_t i, n = 0;
    for (i = 0; i < state->n_kept; i++)
        needed[i] = (char)(among_last(state, i, t->s->keep) ||
                           (average_needed && (averaged(t, i) || is_kept_best(t, i))));
    for (i = 0; i < state->n_kept; i++) {
        char *path = kept_path(t, state->kept[i].update);
        if (needed[i]) state->kept[n++] = state->kept[i];
        else unlink(path);
        free(path);
    }
    state->n_kept = n;
    free(needed);
}

static int keep_model(struct training *t, int64_t update, double score, double loss)
{
    struct state *state = &t->state;
    char *path;
    int status;
    if (t->s->keep == 0 && t->s->average <= 1) return DONE;
    path = kept_path(t, update);
    status = save_model(t, path);
    free(path);
    if (status) return status;
    if (state->n_kept && state->kept[state->n_kept - 1].update == update) state->n_kept--;     /* made again */
    state->kept = grow(state->kept, &state->kept_capacity, state->n_kept + 1, sizeof *state->kept);
    state->kept[state->n_kept].update = update;
    state->kept[state->n_kept].loss = loss;
    state->kept[state->n_kept++].score = score;
    return DONE;
}

/* The mean of the kept models becomes the model's weights. The average of --ema has no part in what follows. */
static int become_mean(struct training *t, int *count)
{
    trf_load_options load = load_options(t->s);
    trf_model **models = zeroed(t->state.n_kept, sizeof *models);
    trf_error err;
    size_t i;
    int status = DONE, k;
    *count = 0;
    for (i = 0; i < t->state.n_kept && !status; i++) {
        char *path = kept_path(t, t->state.kept[i].update);
        if (averaged(t, i)) status = trf_model_load(&models[*count], path, &load, &err) ? FAILED : (++*count, DONE);
        free(path);
    }
    if (!status && trf_model_average(models[0], models, *count, &err)) status = FAILED;
    if (status) say_error("mean", &err);
    else status = take_weights_of(t, models[0]);
    for (k = 0; k < *count; k++) trf_model_destroy(models[k]);
    free(models);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>loop           updates until one of the ends
// -----------------------------------------------------------------------------------------------

/* One update from `accumulate` batches, fewer when the last epoch ends. TRF_E_END: no data are left. */
static trf_status one_update(struct training *t, struct progress *p, trf_step_report *report, trf_error *err)
{
    trf_batch batch;
    trf_status status;
    int32_t i;
    for (i = 0; i < t->s->accumulate; i++) {
        status = trf_corpus_next(t->corpus, &batch, err);
        if (status == TRF_E_END && i > 0) break;
        t->state.batches += status == TRF_OK;
        if (!status && p->passes <= 0)
            p->first_pass = (double)batch.place.epoch + (double)batch.place.batch / (double)t->batches;
        if (!status && t->noise) status = trf_noise_apply(t->noise, &batch, &batch, err);
        if (status) return status;
        if ((status = trf_forward_backward(t->trainer, &batch, report, err))) return status;
        p->passes += (double)batch.target.count / (double)trf_corpus_size(t->corpus);
    }
    return trf_optimizer_step(t->trainer, report, err);
}

/* From the inside: validate finds figures; validate_interruptibly can be left by a signal; validate_and_keep decides
   what follows, best, kept and patience; validate_now does so with the average of --ema in the place of the weights;
   validate_or_save saves a checkpoint if a model could not be written. */
static int validate_interruptibly(struct training *t, struct validation *v)
{
    int status = DONE;
    validating = 1;
    if (t->valid[0].count) status = validate(t, v);
    validating = 0;
    return status;
}

/* Validates what stands in the model now, and keeps it. A signal leaves it undone: going on begins with it. */
static int validate_and_keep(struct training *t, int64_t update)
{
    struct state *state = &t->state;
    struct validation v;
    trf_early_stopping stopping = state->stopping;
    int status = DONE, best;
    memset(&v, 0, sizeof v);
    prepare_notice("leaving the validation of update", update, t->checkpoint != NULL);
    status = validate_interruptibly(t, &v);
    if (status || v.cancelled) return status;
    if (t->valid[0].count == 0) {
        state->stopping.validated = update;
        status = keep_model(t, update, 0, 0);
        remove_unneeded(t, 1);
        return status;
    }
    best = trf_early_stopping_add(&stopping, library_metric(metric_of(t)), update, v.score, v.loss);
    show_validation(t, update, &v, !best ? "" : best > 1 ? "  best so far" : "  best so far, by its loss");
    validating = 1;
    show_samples(t);
    validating = 0;
    if (keep_model(t, update, v.score, v.loss) || (best && save_model(t, t->s->model))) return FAILED;
    state->stopping = stopping;
    if (best) t->score = v.score;
    remove_unneeded(t, 1);      /* the best of before too, now that there is another */
    return DONE;
}

static int validate_now(struct training *t, int64_t update)
{
    int status = apply_ema(t);
    if (!status) status = validate_and_keep(t, update);
    return restore_ema(t) ? FAILED : status;
}

/* A model that cannot be written ends training, but what was learned until then is kept if it can be. */
static int validate_or_save(struct training *t, const struct progress *p, int64_t update)
{
    int status = validate_now(t, update);
    if (status && t->checkpoint && !save_checkpoint(t, now() - p->began))
        say("%s is complete: the same command with --resume goes on", t->checkpoint);
    return status;
}

int32_t validations_left(const struct training *t)
{
    return trf_early_stopping_left(&t->state.stopping, library_metric(metric_of(t)), t->s->patience);
}

/* Every update so far was left out: there is nothing to validate or to keep. */
static int learnt_nothing(const struct training *t, const struct progress *p)
{
    return p->updates && !t->state.learnt;
}

static void say_left_out(const struct progress *p, const trf_step_report *report)
{
    enum { TOLD = 5 };
    if (p->left_out > TOLD) return;
    say("update %lld was left out: %s is not finite%s", (long long)report->step, report->tensor,
        p->left_out == TOLD ? "; more of them are counted, but not shown" : "");
}

/* Updates that are left out change nothing, so that the next one is no better: after a hundred in a row training ends,
   without a checkpoint of weights that do not recover. */
static int is_lost(const struct progress *p, const trf_step_report *report)
{
    enum { IN_A_ROW = 100 };
    if (p->in_a_row < IN_A_ROW) return 0;
    say("the last %d updates were left out: the rate of %.3g is too high; begin again with a smaller --learning-rate",
        IN_A_ROW, report->learning_rate);
    return 1;
}

/* Why training is over before the next update, or NULL. */
static const char *is_over(const struct training *t, const struct progress *p, int64_t step)
{
    const struct settings *s = t->s;
    if (step >= s->updates) return "updates";
    if (!validations_left(t)) return "patience";
    if (t->state.seconds + now() - p->began >= s->minutes * 60) return "minutes";
    return NULL;
}

/* What is worth a model file is worth a checkpoint: going on from an older one would begin with a worse best, and
   write it over the better one. */
static int is_new_best(const struct training *t, int64_t step)
{
    return t->valid[0].count && t->state.stopping.validated == step && t->state.stopping.best_update == step;
}

/* Runs until an end or a signal. A checkpoint that cannot be written on the way is told and tried again later; what
   counts is the last one. */
static int train_on(struct training *t, struct progress *p, const char **why)
{
    struct settings *s = t->s;
    trf_step_report report;
    trf_error err;
    trf_status status = TRF_OK;
    int64_t step = trf_trainer_step(t->trainer), epoch;
    for (;;) {
        if (step && step % s->valid_every == 0 && t->state.stopping.validated != step && !stopped()) {
            if (learnt_nothing(t, p)) t->state.stopping.wait++;
            else if (validate_or_save(t, p, step)) return FAILED;
        }
        if (stopped() || (*why = is_over(t, p, step))) break;
        if (p->updates && ((s->checkpoint_every && step % s->checkpoint_every == 0) || is_new_best(t, step)))
            save_checkpoint(t, now() - p->began);
        epoch = trf_corpus_epoch(t->corpus);    /* before the update: behind the last batch it is the next one */
        prepare_notice("finishing update", step + 1, t->checkpoint != NULL);
        status = one_update(t, p, &report, &err);
        if (status == TRF_E_END) { *why = "epochs"; break; }
        if (status) { say_error("training", &err); return FAILED; }
        step = report.step;
        if (update_ema(t)) return FAILED;
        count_update(p, &report);
        if (report.skipped) say_left_out(p, &report); else t->state.learnt = 1;
        show_progress(t, p, epoch, &report);
        if (is_lost(p, &report)) return FAILED;
    }
    if (stopped() || !step || t->state.stopping.validated == step || learnt_nothing(t, p)) return DONE;
    return validate_or_save(t, p, step);
}

static int save_last(struct training *t)
{
    int status = apply_ema(t);
    if (!status) status = save_model(t, t->s->model);
    return restore_ema(t) ? FAILED : status;
}

/* The best one, if it is among the models that are kept, into the model file. */
static int copy_best(struct training *t)
{
    const struct state *state = &t->state;
    char *path = kept_path(t, state->stopping.best_update);
    int there = 0;
    size_t i;
    for (i = 0; i < state->n_kept; i++) there |= state->kept[i].update == state->stopping.best_update;
    there = there && !access(path, F_OK) && !copy_model(t->s, path, t->s->model);
    free(path);
    return there;
}

/* The best one is in the model file already. */
static int leave_best(struct training *t, const char *instead)
{
    if (!access(t->s->model, F_OK) || copy_best(t)) return DONE;
    say("warning: '%s' is not there any more: %s written instead of the best", t->s->model, instead);
    return save_last(t);
}

/* The mean of several takes the place of the best one, unless it is no better. *left: a signal came before that. */
static int write_mean(struct training *t, int *left)
{
    struct validation v;
    int count, worse;
    memset(&v, 0, sizeof v);
    prepare_notice("leaving the validation of the mean behind update", trf_trainer_step(t->trainer),
                   t->checkpoint != NULL);
    if (become_mean(t, &count) || validate_interruptibly(t, &v)) return FAILED;
    if ((*left = v.cancelled)) return DONE;         /* going on comes here again */
    end_line();
    if (t->valid[0].count) {
        worse = !is_better(t, v.score, v.loss, t->state.stopping.best, t->state.stopping.best_loss);
        inform("mean of %d model%s: loss %.4f  nll %.4f", count, plural(count), v.loss, v.nll);
        if (metric_of(t) != METRIC_LOSS) inform("  %s %.4f", metric_name(metric_of(t)), v.score);
        inform("; the best one had %.4f%s\n", t->state.stopping.best, worse ? ", and stays" : "");
        if (worse) return leave_best(t, "the mean is");
        t->score = v.score;
    } else inform("the model is the mean of %d\n", count);
    return save_model(t, t->s->model);
}

/* The model file: the best one is there already; a mean, or a model without validation, comes now. */
static int write_result(struct training *t, int *left)
{
    if (t->s->average > 1 && t->state.n_kept) return write_mean(t, left);
    return t->state.stopping.best_update ? leave_best(t, "the last weights are") : save_last(t);
}

/* After a signal: the checkpoint is there. */
static int end_by_signal(struct training *t)
{
    if (!t->checkpoint && t->state.stopping.best_update) remove_unneeded(t, 0);     /* nothing will go on with them */
    say("stopped by signal %d after update %lld; %s%s", stopped(), (long long)trf_trainer_step(t->trainer),
        t->checkpoint ? t->checkpoint : "no checkpoint was wanted, ",
        t->checkpoint ? " is complete: the same command with --resume goes on"
                      : t->state.stopping.best_update ? "only the best model so far is kept"
                      : t->state.n_kept ? "only models of the last validations are there" : "nothing is kept");
    return SIGNALLED + stopped();
}

static int end_well(struct training *t, struct progress *p, const char *why)
{
    static const char *const ends[][2] = {
        {"updates", "--updates is reached"}, {"epochs", "--epochs are over"}, {"minutes", "--minutes are over"},
        {"patience", "nothing better in --patience validations"}};
    double seconds = now() - p->began;
    size_t i;
    int kept = save_checkpoint(t, seconds), left = 0;
    end_line();
    if (learnt_nothing(t, p)) {
        say("%s left out: nothing was learnt, and no model is written", p->updates == 1 ? "the only update was"
                                                                                        : "all updates were");
        return FAILED;
    }
    if (write_result(t, &left)) return FAILED;
    if (left) return end_by_signal(t);          /* one that comes later finds the training over */
    remove_unneeded(t, t->checkpoint != NULL);      /* going on with more updates needs what it would have needed */
    for (i = 0; i < 3 && strcmp(ends[i][0], why); i++) { }
    if (!p->updates && t->s->resume)
        say("nothing was left to do: an end that the command or the checkpoint gives is reached; another --%s goes "
            "on", why);
    inform("done: %lld update%s, %lld real token%s in %.1f s, %.0f tokens/s (%s); ", (long long)p->updates,
            plural(p->updates), (long long)p->tokens, plural(p->tokens), seconds,
            (double)p->tokens / fmax(seconds, 1e-9),
            i == 3 && trf_is_perfect(library_metric(metric_of(t)), t->state.stopping.best) ? "nothing can be better"
                                                                                           : ends[i][1]);
    if (t->state.stopping.best_update && t->s->average <= 1)
        inform("best: update %lld, %s %.4f; ", (long long)t->state.stopping.best_update, metric_name(metric_of(t)),
                t->state.stopping.best);
    tell("model in %s", t->s->model);
    if (p->left_out) inform("left out: %lld of these updates\n", (long long)p->left_out);
    return kept;
}

/* The run that goes on may have ended with a mean: the model file becomes the best one of before again. */
static void restore_best(struct training *t)
{
    if (!t->state.had_mean || access(t->s->model, F_OK) || !copy_best(t)) return;
    say("'%s' was a mean; until this training ends it is its best single model, of update %lld", t->s->model,
        (long long)t->state.stopping.best_update);
}

static void count_file(void *user, const char *path, const char *tail)
{
    (void)path;
    *(int *)user += is_number(tail);
}

/* *why: one of the ends, where it ends well. */
static int learn_watched(struct training *t, struct progress *p, const char **why)
{
    int kept;
    if (!t->s->resume && (t->s->keep || t->s->average > 1)) {
        int earlier = 0;
        char *prefix = format_text("%s.update-", t->s->model);
        for_files(prefix, count_file, &earlier);
        free(prefix);
        if (earlier)
            say("warning: %d file%s '%s.update-...' %s of an earlier training", earlier, plural(earlier), t->s->model,
                earlier == 1 ? "is" : "are");
    }
    log_start(t);
    restore_best(t);
    if (!t->s->resume && t->checkpoint && !access(t->checkpoint, F_OK) && save_checkpoint(t, 0))
        return FAILED;                  /* else --resume would go on from that of an earlier training */
    if (train_on(t, p, why)) return FAILED;
    if (!stopped()) return end_well(t, p, *why);
    kept = save_checkpoint(t, now() - p->began);
    end_line();
    return kept ? FAILED : end_by_signal(t);
}

int learn(struct training *t)
{
    struct progress p;
    const char *why = "";
    int status = check_translating(t);
    if (status) return status;
    catch_signals();
    start_progress(&p, t->s->log_every);
    watched = &p;
    status = learn_watched(t, &p, &why);
    watched = NULL;
    end_progress(&p);
    log_end(t, &p, status == DONE ? why : stopped() ? "signal" : "error");
    release_signals();
    return status;
}

void watch_signals(struct settings *s) { s->training.hooks.cancel = leave_validation; }

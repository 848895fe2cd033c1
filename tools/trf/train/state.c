// trf train: the state of a run, and its part of a checkpoint: options, the best score, kept
// models. See state.h.

#include "state.h"
#include "measure.h"
#include "mpi.h"

#include <math.h>
#include <unistd.h>

static int copy_tensor(trf_tensor to, trf_tensor from)
{
    int64_t n = trf_tensor_count(&from);
    trf_real *numbers = grow(NULL, &(size_t){0}, (size_t)n + 1, sizeof *numbers);
    trf_error err;
    int failed = trf_tensor_read(&from, numbers, n, &err) || trf_tensor_write(&to, numbers, n, &err);
    if (failed) say_error("weights", &err);
    free(numbers);
    return failed ? FAILED : DONE;
}

/* Copies the weights of a model of the same shape to the trainer. */
static int set_weights(struct run *r, const trf_model *model)
{
    int32_t i;
    int status = DONE;
    for (i = 0; i < trf_model_parameter_count(r->model) && !status; i++)
        status = copy_tensor(trf_trainer_tensor(r->trainer, TRF_PARAMETER, i), trf_model_parameter(model, i));
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>state          in the metadata of the checkpoint's model
// -----------------------------------------------------------------------------------------------

static char *kept_path(const struct run *r, int64_t update)
{
    return format_text("%s.update-%lld", r->s->model, (long long)update);
}

static char *average_path(const struct run *r, int64_t update)
{
    return format_text("%s.average-%lld", r->checkpoint, (long long)update);
}

/* Updates so far, skipped ones and those before a checkpoint included. */
int64_t updates_of(const trf_trainer *trainer)
{
    trf_step_report report;
    return trf_trainer_report(trainer, &report, NULL) == TRF_OK ? report.step : 0;
}

int save_model(const struct run *r, const char *path)
{
    trf_error err;
    if (!is_first_rank() || !trf_model_save(r->model, path, NULL, &err)) return DONE;
    say_error(NULL, &err);
    return FAILED;
}

static int is_number(const char *text) { return *text && !text[strspn(text, "0123456789")]; }

static void remove_numbered(void *user, const char *path, const char *tail)
{
    (void)user;
    if (is_number(tail)) unlink(path);
}

static void remove_averages(struct run *r)
{
    char *prefix = format_text("%s.average-", r->checkpoint);
    for_files(prefix, remove_numbered, NULL);
    free(prefix);
}

int note(trf_model *model, const char *key, const char *value)
{
    trf_error err;
    if (!trf_model_set_metadata(model, key, value, &err)) return DONE;
    say_error("metadata", &err);
    return FAILED;
}

/* Whether trf stores the option: it is no file, no preset, and not in the library's own
   metadata. */
static int is_stored(const struct row *row)
{
    const struct settings *s = NULL;     /* only for sizeof */
    return (row->commands & TRAIN) && row->kind != HEADING && row->kind != TEXT &&
           row->kind != TEXTS && !row->then && row->offset != AT(resume) &&
           row->offset != AT(train.recipe) && row->offset != AT(train.seeds) &&
               row->offset != AT(train.strict) &&
           row->offset != AT(overwrite) && row->offset != AT(max_line_bytes) &&
           row->offset != AT(quiet) &&
           !row_within(row, AT(config), sizeof s->config) &&
           !row_within(row, AT(training), sizeof s->training) &&
           !row_within(row, AT(device), sizeof s->device);
}

void stored_key(const struct row *row, char *key, size_t size)
{
    snprintf(key, size, "option.%s", row->offset == AT(train.normalization) ? "normalise"
                                     : row->offset == AT(train.keep_models) ? "keep" : row->name);
}

/* Writes the state to the metadata of the model, or removes it (there 0). */
static int note_state(struct run *r, int there)
{
    static const char *const picks[TRF_HOLD_OUT_RULE_COUNT] = {"random", NULL, "unseen"};
    const struct state *state = &r->state;
    char key[96], value[96], *kept = format_text("%s", "");
    size_t i;
    int k, status = DONE;
    for (k = 0; k < n_rows && !status; k++) {
        if (!is_stored(&rows[k])) continue;
        stored_key(&rows[k], key, sizeof key);
        value_text(&rows[k], r->s, value, sizeof value);
        status = note(r->model, key, there && *value && strcmp(value, "no limit") ? value : NULL);
    }
    for (i = 0; i < state->n_kept; i++) {
        char *longer = format_text("%s%s%lld:%.17g:%.17g", kept, i ? " " : "",
                                   (long long)state->kept[i].update, state->kept[i].score,
                                   state->kept[i].loss);
        free(kept);
        kept = longer;
    }
    snprintf(value, sizeof value, "%lld", (long long)state->batches);
    if (!status) status = note(r->model, "training.batches", there ? value : NULL);
    if (!status)
        status = note(r->model, "training.cosine",
                      there && state->cosine_follows ? "ends with it" : NULL);
    snprintf(value, sizeof value, "%d", (int)state->fit);
    if (!status) status = note(r->model, "training.fit", there && state->fit ? value : NULL);
    snprintf(value, sizeof value, "%d", r->s->train.teachers.n);
    if (!status)
        status = note(r->model, "training.teachers", there && *value != '0' ? value : NULL);
    snprintf(value, sizeof value, "%llu", (unsigned long long)state->held_out);
    if (!status) status = note(r->model, "training.held_out", there ? value : NULL);
    if (!status)
        status = note(r->model, "training.picks", there ? picks[state->picks] : NULL);
    if (!status)
        status = note(r->model, "training.model",
                      there && is_given(r->s, AT(train.checkpoint)) ? name_of(r->s->model) : NULL);
    if (!status)
        status = note(r->model, "training.precision",
                      there && r->s->device.precision == TRF_PRECISION_BF16 ? "bf16" : NULL);
    if (!status) status = note(r->model, "training.kept", there && *kept ? kept : NULL);
    free(kept);
    return status;
}

int save_checkpoint(struct run *r)
{
    trf_error err;
    int status = DONE;
    if (!r->checkpoint || !is_first_rank()) return DONE;
    status = note_state(r, 1);
    if (!status && trf_checkpoint_save(r->trainer, r->corpus, r->checkpoint, NULL, &err)) {
        say_error(NULL, &err);
        status = FAILED;
    }
    if (note_state(r, 0)) status = FAILED;
    if (!status && r->state.has_notes) remove_averages(r);      /* this one has it in itself */
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>restoring      from the metadata of the model
// -----------------------------------------------------------------------------------------------

/* A fingerprint of the held-out pairs and of the options of their validation: only equal ones have
   comparable scores. */
uint64_t held_out_hash(const struct settings *s, const struct data *data)
{
    static const size_t relevant[] = {
        AT(train.valid_beam), AT(noise.density), AT(noise.mean_span), AT(noise.masked),
        AT(noise.randomised), AT(noise.whole_words), AT(train.chunk), AT(training.label_smoothing),
        AT(training.smoothing_rule)};
    size_t n = sizeof relevant / sizeof *relevant - (metric_of(s) == METRIC_LOSS ? 0 : 2), i, j;
    uint64_t hash = 0;
    char value[64];
    int k;
    if (!data->n_held) return 0;
    for (k = 0; k < n_rows; k++)
        for (j = 0; j < n; j++) {
            if (!(rows[k].commands & TRAIN) || rows[k].offset != relevant[j]) continue;
            if (rows[k].offset == AT(train.chunk) && !learns_from_text(s)) continue;
            value_text(&rows[k], s, value, sizeof value);
            hash = hash * 1099511628211u ^ hash_line(value);
        }
    for (i = 0; i < (size_t)data->n_held; i++)
        hash = (hash ^ data->held_hashes[i]) * 1099511628211u;
    return hash;
}

static int64_t stored_number(const struct run *r, const char *key, int64_t otherwise)
{
    const char *value = trf_model_metadata(r->model, key);
    return value ? strtoll(value, NULL, 10) : otherwise;
}

static int is_tokens(const struct row *row)
{
    return row->offset == AT(train.source_tokens) || row->offset == AT(train.target_tokens);
}

/* Refuses an option that would have made another vocabulary than the checkpoint has. */
static int check_vocabulary_option(const struct run *r, const struct row *row)
{
    static const struct { size_t field, of_both; } of[] = {
        {AT(train.source_vocab_size), AT(train.vocab_size)},
            {AT(train.target_vocab_size), AT(train.vocab_size)},
        {AT(train.source_tokens), AT(train.tokens)}, {AT(train.target_tokens), AT(train.tokens)},
        {AT(train.min_count), AT(train.min_count)},
            {AT(train.joint_vocabulary), AT(train.joint_vocabulary)},
        {AT(train.normalization), AT(train.normalization)}};
    char key[96], requested[64];
    const char *value;
    size_t i, n = sizeof of / sizeof *of;
    for (i = 0; i < n && row->offset != of[i].field; i++) { }
    if (i == n || !(row->commands & TRAIN)) return DONE;
    if (!is_given(r->s, of[i].field) && !is_given(r->s, of[i].of_both)) return DONE;
    stored_key(row, key, sizeof key);
    value = trf_model_metadata(r->model, key);
    value_text(row, r->s, requested, sizeof requested);
    if (!value || !strcmp(value, requested) || !strcmp(requested, "0"))
        return DONE; /* 0: from the data */
    /* check_tokens compares words, characters and subwords; here remain the two kinds of
       subwords */
    if (is_tokens(row) &&
        (strncmp(requested, "sentencepiece:", 14) || strncmp(value, "sentencepiece:", 14)))
        return DONE;
    say("the checkpoint was made with --%s %s, now it is %s: vocabularies cannot change while a "
        "model is trained",
        row->name, value, requested);
    return FAILED;
}

/* Whether the given value lets the recipe choose: then the choice in the checkpoint stands. */
static int is_auto_value(const struct row *row, const char *given)
{
    int sizes = row->offset == AT(train.source_vocab_size) ||
        row->offset == AT(train.target_vocab_size);
    return !strcmp(given, "auto") || (is_tokens(row) && !strcmp(given, "sentencepiece")) ||
           (sizes && strspn(given, "0") == strlen(given));
}

/* A checkpoint has no teachers: without them another loss would go on. */
static int check_teachers(const struct run *r)
{
    const struct train_settings *t = &r->s->train;
    long long n = (long long)stored_number(r, "training.teachers", 0);
    if (n <= 0 || t->teachers.n || t->teacher_share <= 0) return DONE;
    say("%s was trained with %lld teacher%s: give --teacher again, or go on without: "
        "--teacher-share 0", r->checkpoint, n, plural(n));
    return FAILED;
}

/* Takes options from the checkpoint that the command line does not give. Options that end training:
   all or none. */
int restore_options(struct run *r)
{
    static const size_t ends[] =
        {AT(train.updates), AT(corpus.epochs), AT(train.minutes), AT(train.patience)};
    struct state *state = &r->state;
    char key[96];
    const char *value;
    size_t e;
    int32_t metric = r->s->train.metric;
    int i, end_given = 0;
    if ((value = trf_model_metadata(r->model, "option.ema")))
        state->had_average = strtod(value, NULL) > 0;
    state->batches =
        stored_number(r, "training.batches",
                      updates_of(r->trainer) * stored_number(r, "option.accumulate", 1));
    state->had_mean = stored_number(r, "option.average", 1) > 1;
    state->cosine_follows = trf_model_metadata(r->model, "training.cosine") != NULL;
    state->fit = (int32_t)stored_number(r, "training.fit", 0) & TRF_FIT_ALL;
    for (e = 0; e < 4; e++) end_given |= is_given(r->s, ends[e]);
    for (i = 0; i < n_rows; i++) {
        int is_end = 0;
        if (check_vocabulary_option(r, &rows[i])) return FAILED;
        if (!is_stored(&rows[i])) continue;
        for (e = 0; e < 4; e++) is_end |= rows[i].offset == ends[e];
        stored_key(&rows[i], key, sizeof key);
        value = trf_model_metadata(r->model, key);
        if (value && rows[i].offset == AT(train.metric))
            state->same_metric =
                metric == METRIC_AUTO || !strcmp(value, metric_name((enum metric)metric));
        if ((r->s->given[i] && !is_auto_value(&rows[i], r->s->given[i])) || (is_end && end_given) ||
            !value)
            continue;
        if (!set_value(&rows[i], r->s, value)) continue;
        say("%s: the value is in its metadata '%s'", r->checkpoint, key);
        return FAILED;
    }
    return check_teachers(r);
}

static void restore_kept(struct run *r, const char *text, int comparable)
{
    struct state *state = &r->state;
    long long update;
    double score, loss;
    int n;
    for (; text && sscanf(text, "%lld:%lf:%lf%n", &update, &score, &loss, &n) == 3; text += n) {
        char *path = kept_path(r, update);
        if (access(path, R_OK))
            say("warning: '%s' no longer exists and is left out from now on", path);
        else {
            state->kept =
                grow(state->kept, &state->kept_capacity, state->n_kept + 1, sizeof *state->kept);
            state->kept[state->n_kept].update = update;
            state->kept[state->n_kept].score = comparable ? score : NAN;
            state->kept[state->n_kept++].loss = comparable ? loss : NAN;
        }
        free(path);
    }
}

/* The validations of a checkpoint that has them in notes, which go. */
static void restore_old_state(struct run *r)
{
    static const char *const keys[] = {"training.validation", "training.learnt", "training.seconds"};
    trf_learn_state *learning = r->learning;
    const char *text = trf_model_metadata(r->model, keys[0]);
    long long validated, best_update;
    trf_early_stopping old;
    int wait, i;
    r->state.has_notes = text != NULL;
    if (text && sscanf(text, "%lld %lld %lf %lf %d", &validated, &best_update, &old.best,
                       &old.best_loss, &wait) == 5) {
        old.validated = validated;
        old.best_update = best_update;
        old.wait = wait;
        learning->stopping = old;
        if (best_update) learning->learnt = 1;
    }
    if (trf_model_metadata(r->model, keys[1])) learning->learnt = 1;
    if ((text = trf_model_metadata(r->model, keys[2]))) learning->seconds = strtod(text, NULL);
    for (i = 0; i < 3; i++) note(r->model, keys[i], NULL);
}

/* The best score by another metric or on other pairs is not comparable, and is dropped. */
int restore_state(struct run *r, const struct data *data)
{
    struct state *state = &r->state;
    trf_early_stopping none;
    const char *text = trf_model_metadata(r->model, "training.held_out");
    int comparable;
    state->held_out = held_out_hash(r->s, data);
    comparable = state->same_metric && text && strtoull(text, NULL, 10) == state->held_out;
    restore_old_state(r);
    if (!comparable) {
        memset(&none, 0, sizeof none);
        none.validated = -1;
        r->learning->stopping = none;
    }
    if (r->learning->stopping.best_update) r->score = r->learning->stopping.best;
    restore_kept(r, trf_model_metadata(r->model, "training.kept"), comparable);
    if (!comparable)
        say("warning: the validation pairs or their scoring have changed: the search for the "
            "best model starts again");
    return note_state(r, 0);
}

int restore_average(struct run *r)
{
    trf_load_options load = load_options(r->s);
    trf_model *model = NULL;
    trf_error err;
    char *path = average_path(r, updates_of(r->trainer));
    int32_t i;
    int status = DONE;
    if (is_first_rank() && r->s->train.ema > 0 && r->state.had_average && r->state.has_notes) {
        if (trf_model_load(&model, path, &load, &err)) {
            say_error(NULL, &err);
            say("this file holds the moving average (--ema) of the checkpoint; --ema 0 "
                "continues without it");
            status = FAILED;
        } else if (trf_model_parameter_total(model) != trf_model_parameter_total(r->model)) {
            say("%s belongs to another model", path);
            status = FAILED;
        } else if (trf_trainer_average(r->trainer, 1, &err)) {
            say_error("average", &err);
            status = FAILED;
        }
        for (i = 0; !status && i < trf_model_parameter_count(model); i++)
            status = copy_tensor(trf_trainer_tensor(r->trainer, TRF_AVERAGE, i), trf_model_parameter(model, i));
        trf_model_destroy(model);
    }
    free(path);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>kept           models of past validations, for --keep-models and --average
// -----------------------------------------------------------------------------------------------

int is_better(const struct run *r, double score, double loss, double than, double than_loss)
{
    return is_better_by(metric_of(r->s), score, loss, than, than_loss);
}

/* Whether entry i is among the last n, or among the n best (of equal ones the earlier). */
static int among_last(const struct state *state, size_t i, int32_t n)
{
    return state->n_kept - i <= (size_t)n;
}

static int among_best(const struct run *r, size_t i, int32_t n)
{
    const struct state *state = &r->state;
    size_t j;
    int32_t ahead = 0;
    for (j = 0; j < state->n_kept; j++)
        ahead += is_better(r, state->kept[j].score, state->kept[j].loss, state->kept[i].score,
                           state->kept[i].loss) ||
                 (j < i && !is_better(r, state->kept[i].score, state->kept[i].loss,
                                      state->kept[j].score, state->kept[j].loss));
    return ahead < n;
}

static int averaged(const struct run *r, size_t i)
{
    if (r->s->train.average <= 1) return 0;
    return r->s->train.average_of == 0 && validates(&r->validator)
        ? among_best(r, i, r->s->train.average)
                                                      : among_last(&r->state, i,
                                                                   r->s->train.average);
}

static int is_kept_best(const struct run *r, size_t i)
{
    return r->s->train.average > 1 && r->state.kept[i].update == r->learning->stopping.best_update;
}

void remove_unneeded(struct run *r, int average_needed)
{
    struct state *state = &r->state;
    char *needed = zeroed(state->n_kept, 1);
    size_t i, n = 0;
    if (!is_first_rank()) { free(needed); return; }
    for (i = 0; i < state->n_kept; i++)
        needed[i] = (char)(among_last(state, i, r->s->train.keep_models) ||
                           (average_needed && (averaged(r, i) || is_kept_best(r, i))));
    for (i = 0; i < state->n_kept; i++) {
        char *path = kept_path(r, state->kept[i].update);
        if (needed[i]) state->kept[n++] = state->kept[i];
        else unlink(path);
        free(path);
    }
    state->n_kept = n;
    free(needed);
}

int keep_model(struct run *r, int64_t update, double score, double loss)
{
    struct state *state = &r->state;
    char *path;
    int status;
    if (!is_first_rank() || (r->s->train.keep_models == 0 && r->s->train.average <= 1)) return DONE;
    path = kept_path(r, update);
    status = save_model(r, path);
    free(path);
    if (status) return status;
    if (state->n_kept && state->kept[state->n_kept - 1].update == update)
        state->n_kept--; /* saved again */
    state->kept = grow(state->kept, &state->kept_capacity, state->n_kept + 1, sizeof *state->kept);
    state->kept[state->n_kept].update = update;
    state->kept[state->n_kept].loss = loss;
    state->kept[state->n_kept++].score = score;
    return DONE;
}

int set_mean_weights(struct run *r, int *count)
{
    trf_load_options load = load_options(r->s);
    trf_model **models = zeroed(r->state.n_kept, sizeof *models);
    trf_error err;
    size_t i;
    int status = DONE, k;
    *count = 0;
    for (i = 0; i < r->state.n_kept && !status; i++) {
        char *path = kept_path(r, r->state.kept[i].update);
        if (averaged(r, i))
            status = trf_model_load(&models[*count], path, &load, &err) ? FAILED : (++*count, DONE);
        free(path);
    }
    if (!status && trf_model_average(models[0], models, *count, &err)) status = FAILED;
    if (status) say_error("mean", &err);
    else status = set_weights(r, models[0]);
    for (k = 0; k < *count; k++) trf_model_destroy(models[k]);
    free(models);
    return status;
}

int copy_best(const struct run *r)
{
    const struct state *state = &r->state;
    char *path = kept_path(r, r->learning->stopping.best_update);
    int there = 0;
    size_t i;
    for (i = 0; i < state->n_kept; i++)
        there |= state->kept[i].update == r->learning->stopping.best_update;
    there = there && !access(path, F_OK) && !copy_model(r->s, path, r->s->model);
    free(path);
    return there;
}

static void count_file(void *user, const char *path, const char *tail)
{
    (void)path;
    *(int *)user += is_number(tail);
}

void warn_of_kept(const struct run *r)
{
    int earlier = 0;
    char *prefix = format_text("%s.update-", r->s->model);
    for_files(prefix, count_file, &earlier);
    free(prefix);
    if (earlier)
        say("warning: %d file%s '%s.update-...' %s to an earlier training run", earlier,
            plural(earlier), r->s->model, earlier == 1 ? "belongs" : "belong");
}

void end_run(struct run *r)
{
    trf_trainer_destroy(r->trainer);
    trf_model_destroy(r->model);
    trf_noise_destroy(r->noise);
    trf_noise_destroy(r->validator.noise);
    free_samples(&r->validator);
    free(r->state.kept);
    free(r->checkpoint);
    close_log(&r->log);
}

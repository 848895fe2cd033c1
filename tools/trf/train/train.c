// trf train: the command; one training run, or several from different seeds.

#include "train.h"
#include "check.h"
#include "loop.h"
#include "measure.h"
#include "mpi.h"
#include "signals.h"
#include "training.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static void describe(const struct training *t)
{
    const trf_config *config = trf_model_config(t->run.model);
    const trf_train_options *o = &t->s->training;
    static const char *const tyings[] = {"untied", "decoder", "all", "embeddings"};
    int64_t n = trf_corpus_facts(t->run.corpus)->pairs;
    trf_model_size size;
    size_t bytes = trf_trainer_memory(config, o, NULL);
    if (!trf_config_check(config, &size, NULL)) bytes += size.memory;
    if (!t->plan.explained[REASON_MODEL])
        inform("model: %d encoder and %d decoder layer%s, d_model %d, d_ff %d, ",
               (int)config->encoder_layers, (int)config->decoder_layers,
               plural(config->decoder_layers > 0 ? config->decoder_layers : config->encoder_layers),
               (int)config->d_model, (int)config->d_ff);
    inform("%s%d head%s, %s, tying %s, %s; ema %g\n",
           t->plan.explained[REASON_MODEL] ? "with " : "", (int)config->n_heads,
           plural(config->n_heads), config->norm_place == TRF_PRE_NORM ? "pre-norm" : "post-norm",
           tyings[config->tying], config->generator_bias ? "generator bias" : "no generator bias",
           t->s->train.ema);
    if (!t->plan.explained[REASON_DROPOUT])
        inform("dropout: embedding %g, residual %g, attention %g, activation %g\n", o->dropout,
               o->residual_dropout, o->attention_dropout, o->activation_dropout);
    inform("%lld %s%s; ", (long long)n, t->s->objective == OBJECTIVE_TRANSLATE ? "pair"
            : learns_labels(t->s) ? "text" : "chunk", plural(n));
    if (t->s->objective == OBJECTIVE_TRANSLATE)
        inform("%d source and %d target tokens; ", (int)config->source_vocab,
               (int)config->target_vocab);
    else if (learns_labels(t->s))
        inform("%d tokens, %d labels; ", (int)config->source_vocab, (int)count_labels(config));
    else
        inform("%d tokens; ",
               (int)(leading_side(t->s) ? config->target_vocab : config->source_vocab));
    inform("%lld weights; %.0f MB of memory; %s from update %lld\n",
           (long long)trf_model_parameter_total(t->run.model), (double)bytes * 1e-6,
           t->s->resume ? "resumed" : "training", (long long)updates_of(t->run.trainer) + 1);
    if (!t->s->train.init_from && t->s->say_export) t->s->say_export(config);
    if (o->parts || n_ranks() > 1)
        inform("processes: %d, with %d thread%s here; batches in %d part%s, %s\n", n_ranks(),
               (int)t->s->device.threads, plural(t->s->device.threads), (int)o->parts,
               plural(o->parts), n_ranks() > 1 && t->s->train.reduce ? "added up in any order"
                                                               : "added up in their order");
    if (t->plan.new_words > 0)
        say("%.1f %% of the words are new in a tenth of the lines, so subwords would do better: "
            "this trf was built without libsentencepiece and uses words; install "
            "libsentencepiece-dev and make again, or give subwords with --sentencepiece FILE",
            t->plan.new_words);
}

static void free_training(struct training *t)
{
    int k;
    end_run(&t->run);
    for (k = 0; k < TRF_MAX_MODELS; k++) trf_model_destroy(t->teachers[k]);
    trf_model_destroy(t->from);
    free_labels(&t->labels);
    free_subwords(&t->vocabularies);
    end_data(&t->data);
}

/* Sets an option as the command line does; text NULL: it is not given. */
static void give(struct settings *s, size_t field, const char *text)
{
    int i;
    for (i = 0; i < n_rows; i++)
        if ((rows[i].commands & TRAIN) && row_writes(&rows[i], field)) s->given[i] = text;
}

/* --precision auto becomes one of the others: the same one in all processes. */
static void settle_precision(struct settings *s)
{
    int wide;
    if (!is_given(s, AT(device.precision))) s->device.precision = TRF_PRECISION_AUTO;
    wide = trf_device_precision(&s->device) == TRF_PRECISION_FLOAT32;
    most_of_all(&wide, 1);
    if (s->device.precision != TRF_PRECISION_AUTO) return;
    give(s, AT(device.precision), NULL);        /* it is decided */
    s->device.precision = wide ? TRF_PRECISION_FLOAT32 : TRF_PRECISION_BF16;
    s->config.device = s->device;
}

/* What computes in 16 bits, why, and whether that is a gain. */
static void tell_precision(const struct settings *s)
{
    char kernel[32];
    if (s->device.precision != TRF_PRECISION_BF16 ||
        !kernel_of(&s->device, "in 16 bits: ", kernel, sizeof kernel)) return;
    inform("precision: bf16, by %s%s%s\n", kernel,
           !strcmp(kernel, "AMX") || s->device.kind != TRF_DEVICE_CPU ? ""
           : !strcmp(kernel, "vectors") ? ", no faster than float32"
                                        : ", no faster than float32 where it was measured",
           is_given(s, AT(device.precision)) ? ""
           : s->resume ? ", as before (--precision float32 changes it)"
                       : ", which is faster (--precision float32: the same bits on all machines)");
}

/* Prepares t->run from the data, and frees what it does not need. */
static int prepare(struct training *t)
{
    struct settings *s = t->s;
    int status = s->resume ? resume_training(t) : begin_training(t);
    busy_with(NULL);
    if (!status)
        status = say_skips(&t->data, trf_corpus_facts(t->run.corpus)->pairs +
                               trf_dataset_results(t->data.set)->held_out_facts.pairs, !s->resume);
    if (!status) tell_precision(s);
    if (!status) status = open_log(&t->run.log, s);
    if (status) return status;
    free_subwords(&t->vocabularies);
    describe(t);
    return DONE;
}

/* All processes must have read the same data and weights: each may be on another machine. */
static int check_equal(const struct training *t)
{
    uint64_t hash = t->plan.fingerprint;
    trf_real *weights;
    trf_error err;
    int32_t i;
    int rank;
    if (n_ranks() == 1) return DONE;
    for (i = 0; i < trf_model_parameter_count(t->run.model); i++) {
        trf_tensor w = trf_model_parameter(t->run.model, i);
        int64_t n = trf_tensor_count(&w);
        weights = zeroed((size_t)n, sizeof *weights);
        if (trf_tensor_read(&w, weights, n, &err)) { say_error("weights", &err); return FAILED; }
        hash = hash_bytes(hash, weights, (size_t)n * sizeof *weights);
        free(weights);
    }
    rank = differing_rank(hash);
    if (rank && is_first_rank())
        say("process %d has read other data, or begins with other weights, than process 0: all "
            "need the same files and processors", rank);
    return rank ? status_of_first(FAILED) : DONE;
}

/* Whether all processes need the same value. On another machine files may have other names, and
   there may be more or fewer processors. */
static int must_agree(const struct row *row)
{
    return (row->commands & TRAIN) && row->kind != HEADING &&
           !row_writes(row, AT(device.threads)) &&
           !(row->argument && !strcmp(row->argument, "FILE"));
}

static uint64_t hash_value(uint64_t hash, const struct row *row, const struct settings *s)
{
    const void *field = (const char *)s + row->offset;
    const char *text;
    char value[64];
    int i;
    hash = hash_bytes(hash, row->name, strlen(row->name) + 1);
    if (row->kind == TEXTS) {
        const struct texts *list = (const struct texts *)field;
        for (i = 0; i < list->n; i++)
            hash = hash_bytes(hash, list->item[i], strlen(list->item[i]) + 1);
    } else if (row->kind == TEXT) {         /* it may be of any length */
        memcpy(&text, field, sizeof text);
        if (text) hash = hash_bytes(hash, text, strlen(text) + 1);
    } else {
        value_text(row, s, value, sizeof value);
        hash = hash_bytes(hash, value, strlen(value) + 1);
    }
    return hash;
}

/* Processes with other options would train another model, or wait for one another for ever. If they
   differ, the options are compared one by one, and the first that differs is named. */
static int check_options(const struct settings *s)
{
    uint64_t all = 0;
    int i, rank;
    if (n_ranks() == 1) return DONE;
    for (i = 0; i < n_rows; i++) if (must_agree(&rows[i])) all = hash_value(all, &rows[i], s);
    if (!differing_rank(all)) return DONE;
    for (i = 0; i < n_rows; i++) {
        if (!must_agree(&rows[i]) || !(rank = differing_rank(hash_value(0, &rows[i], s)))) continue;
        if (is_first_rank())
            say("process %d has another --%s than process 0: all need the same options", rank,
                rows[i].name);
        break;
    }
    return status_of_first(USAGE);
}

/* Two trainings must not write the same files. */
static int lock_outputs(const struct settings *s, struct lock locks[2])
{
    char *usual = format_text("%s.checkpoint", s->model ? s->model : "");
    const char *checkpoint = s->train.checkpoint ? s->train.checkpoint : usual;
    int status = DONE;
    memset(locks, 0, 2 * sizeof *locks);
    if (s->model && is_first_rank() &&
        (lock_name(&locks[0], s->model) || lock_name(&locks[1], checkpoint)))
        status = FAILED;
    free(usual);
    return status;
}

static int train_once(struct settings *s, double *score)
{
    struct training t;
    struct lock locks[2];
    int status;
    memset(&t, 0, sizeof t);
    t.s = t.run.s = s;
    t.run.validator.s = s;
    t.data.s = s;
    t.data.user = &t;
    t.run.score = NAN;
    watch_signals(s);
    status = lock_outputs(s, locks);
    status = agree_status(status ? status : check_training(s, &t.run.checkpoint));
    if (!status) status = check_options(s);
    if (!status) settle_precision(s);
    if (!status) status = agree_status(prepare(&t));
    if (!status) status = check_equal(&t);
    if (!status) status = learn(&t.run);
    *score = t.run.score;
    if (t.run.log.broken && !status) status = FAILED;
    free_training(&t);
    unlock_name(&locks[1]);
    unlock_name(&locks[0]);
    return status;
}

enum { BEST_MODELS = 3 };

/* Whether --effort trains models that teach the one of --model. */
static int has_teachers_made(const struct settings *s)
{
    return s->train.effort == TRF_EFFORT_BEST && !s->config.label_kind;
}

/* The seeds of several models. Behind the teachers of --effort best comes a model with --seed. */
static uint64_t nth_seed(const struct settings *s, int32_t i)
{
    return s->seed + (uint64_t)(i + has_teachers_made(s));
}

/* The part of --minutes that a model gets: the last one, whose teachers compute too, takes half as
   long again. Returns the text, which `one` keeps. */
static char *give_minutes(const struct settings *s, struct settings *one, double models)
{
    char *text;
    if (!has_teachers_made(s) || !isfinite(s->train.minutes)) return NULL;
    text = format_text("%.6g", s->train.minutes * models / (s->train.seeds + 1.5));
    give(one, AT(train.minutes), text);
    return text;
}

static char *seed_path(const char *path, uint64_t seed)
{
    return format_text("%s.seed-%llu", path, (unsigned long long)seed);
}

/* One of several training runs; its files have the seed in their names. */
static int train_seed(struct settings *s, uint64_t number, double *score, char **model)
{
    struct settings one = *s;
    struct stat there;
    char *seed = format_text("%llu", (unsigned long long)number),
         *log = seed_path(s->train.log ? s->train.log : "", number);
    char *checkpoint, *minutes = give_minutes(s, &one, 1);
    int status;
    *model = seed_path(s->model, number);
    checkpoint = format_text("%s.checkpoint", *model);
    give(&one, AT(seed), seed);
    give(&one, AT(model), *model);
    if (s->train.log && !is_device(s->train.log)) give(&one, AT(train.log), log);
    inform("seed %s:\n", seed);
    status = apply_given(&one);
    one.resume = s->resume && !stat(checkpoint, &there);
    if (!status) status = train_once(&one, score);
    s->train.metric = one.train.metric;         /* that of the recipe */
    free(minutes);
    free(checkpoint);
    free(seed);
    free(log);
    return status;
}

/* Whether one of several training runs has begun. --resume begins the others. */
static int any_checkpoint(const struct settings *s)
{
    int32_t i, found = 0;
    if (s->train.checkpoint) { say("--resume needs checkpoints"); return 0; }
    for (i = 0; i < s->train.seeds && !found; i++) {
        char *model = seed_path(s->model, nth_seed(s, i)),
             *path = format_text("%s.checkpoint", model);
        found = !access(path, F_OK);
        free(model);
        free(path);
    }
    if (!found)
        say("no training to continue: there is no %s.seed-%llu.checkpoint, nor a checkpoint of "
            "another seed",
            s->model, (unsigned long long)nth_seed(s, 0));
    return found;
}

/* Checks the files of all training runs before the first one begins. */
static int check_seeds(const struct settings *s)
{
    int32_t i;
    int status = DONE;
    for (i = 0; i < s->train.seeds && !status; i++) {
        uint64_t seed = nth_seed(s, i);
        char *model = seed_path(s->model, seed),
             *checkpoint = s->train.checkpoint ? NULL : format_text("%s.checkpoint", model),
             *log = s->train.log && !is_device(s->train.log) ? seed_path(s->train.log, seed) : NULL;
        status = check_own_names(s, model, checkpoint, log);
        if (!status && (check_written(s, "model", model) ||
                        check_written(s, "checkpoint", checkpoint) || check_written(s, "log", log)))
            status = FAILED;
        if (!status && !s->overwrite && !(s->resume && checkpoint && !access(checkpoint, F_OK)))
            status = check_replaced(s, model, checkpoint, log);
        if (!status) status = check_saved(s, model, checkpoint);
        free(model);
        free(checkpoint);
        free(log);
    }
    return status;
}

/* The model of --effort best, after its teachers. */
static int train_taught(struct settings *s)
{
    struct settings one = *s;
    struct texts *teachers = &one.train.teachers;
    char *minutes = give_minutes(s, &one, 1.5);
    char *checkpoint = format_text("%s.checkpoint", s->model);
    double score;
    int32_t i, given = teachers->n;
    int status = apply_given(&one);
    for (i = 0; i < s->train.seeds; i++)
        teachers->item[teachers->n++] = seed_path(s->model, nth_seed(s, i));
    inform("the model that learns from them:\n");
    one.resume = s->resume && !access(checkpoint, F_OK);
    if (!status) status = train_once(&one, &score);
    while (teachers->n > given) free((char *)teachers->item[--teachers->n]);
    free(checkpoint);
    free(minutes);
    return status;
}

/* How long the rest of --effort best will take, when `done` models are trained. */
static void say_rest(const struct settings *s, double begun, int32_t done)
{
    char took[32], rest[32];
    double each = (now() - begun) / done;
    time_text(each * done, took);
    time_text(each * (s->train.seeds - done + 1.5), rest);
    inform("%d of %d models took %s: about %s more\n", (int)done, (int)s->train.seeds + 1, took,
           rest);
}

/* The model of --effort best writes the usual files; that of --seeds is a copy. */
static int check_all_seeds(struct settings *s)
{
    int taught = has_teachers_made(s), status;
    char *checkpoint;
    if (!s->model) { say("give --model FILE, the file to write the model to"); return USAGE; }
    if (s->train.checkpoint && *s->train.checkpoint) {
        say("--checkpoint names one file, but --seeds needs several");
        return USAGE;
    }
    if (check_rereading(s)) return USAGE;
    if (check_written(s, "model", s->model) || check_replaceable(s->model)) return FAILED;
    if ((status = check_seeds(s))) return status;
    checkpoint = taught ? format_text("%s.checkpoint", s->model) : NULL;
    status = !s->overwrite && !s->resume &&
             check_replaced(s, s->model, checkpoint, taught ? s->train.log : NULL);
    free(checkpoint);
    if (status) return FAILED;
    if (check_read(s) || (s->resume && !any_checkpoint(s))) return FAILED;
    return DONE;
}

/* The same training from several seeds shows how much of a result is chance. */
static int train_all_seeds(struct settings *s)
{
    double score = 0, sum = 0, squares = 0, best = 0, n = (double)s->train.seeds;
    char *best_model = NULL, *model;
    int32_t i, taught = has_teachers_made(s);
    double begun = now();
    int status = check_all_seeds(s);
    if (!status && taught)
        inform("effort: %d models, then one that learns from them: about ten times as long as normal\n",
               (int)s->train.seeds);
    for (i = 0; i < s->train.seeds && !status; i++) {
        int32_t requested = s->train.metric;
        status = train_seed(s, nth_seed(s, i), &score, &model);
        sum += score;
        squares += score * score;
        if (!status &&
            (!best_model || is_better_by(metric_of(s), score, 0, best, 0))) {
            free(best_model);
            best_model = model;
            best = score;
        } else free(model);
        if (i + 1 < s->train.seeds) s->train.metric = requested;
        if (!status && stopped())
            status = SIGNALLED + stopped(); /* the signal came at the end of this one */
        if (!status && taught) say_rest(s, begun, i + 1);
    }
    if (taught || status) {
        free(best_model);
        return status;
    }
    status = copy_model(s, best_model, s->model);
    if (!status && !isfinite(sum))
        inform_line("%d seeds, but no validation to compare them by", (int)s->train.seeds);
    else if (!status)
        inform_line("%d seeds: %s mean %.4f, deviation %.4f, best %.4f; %s is in %s",
                    (int)s->train.seeds,
             metric_name(metric_of(s)), sum / n, sqrt(fmax(0, squares - sum * sum / n) / (n - 1)),
             best, best_model, s->model);
    free(best_model);
    return status;
}

static int train_seeds(struct settings *s)
{
    struct lock lock;
    int status = lock_name(&lock, s->model) ? FAILED : train_all_seeds(s);
    unlock_name(&lock);
    return status || !has_teachers_made(s) ? status : train_taught(s);
}

int command_train(struct settings *s, int argc, char **argv)
{
    double score;
    (void)argc;
    (void)argv;
    if (has_teachers_made(s) && !is_given(s, AT(train.seeds))) s->train.seeds = BEST_MODELS;
    if (has_teachers_made(s) && s->train.seeds + s->train.teachers.n > TRF_MAX_MODELS) {
        say("--effort best: at most %d models can teach one, --seeds and --teacher together",
            TRF_MAX_MODELS);
        return USAGE;
    }
    if ((s->train.seeds > 1 || has_teachers_made(s)) && n_ranks() > 1) {
        say("--%s trains models one after another in one process: it does not work with mpirun",
            has_teachers_made(s) ? "effort best" : "seeds");
        return USAGE;
    }
    return s->train.seeds > 1 || has_teachers_made(s) ? train_seeds(s) : train_once(s, &score);
}

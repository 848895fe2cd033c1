// trf train: checks the command line before any data are read. See check.h.

#include "check.h"
#include "measure.h"
#include "mpi.h"
#include "recipe.h"
#include "subwords.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>written        names of files that training writes
// -----------------------------------------------------------------------------------------------

int is_device(const char *path)
{
    struct stat there;
    return !stat(path, &there) && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

/* Whether a file that an option names is one of those. */
static int has_own_name(const char *option, const char *path, const char *model,
                        const char *checkpoint)
{
    if (!path ||
        (!is_own_name(path, model, ".update-") && !is_own_name(path, checkpoint, ".average-")))
        return 0;
    say("--%s '%s' is a name that training with --model '%s' uses for a file of its own, which it "
        "replaces or removes: choose another name", option, path, model);
    return 1;
}

/* No other file may have a name that saving `model` or `checkpoint` (or NULL) replaces or
   removes. */
int check_own_names(const struct settings *s, const char *model, const char *checkpoint,
                    const char *log)
{
    const struct { const char *option, *path;
    } named[] = {{"init-from", s->train.init_from},
                 {"vocab-from", s->train.vocab_from},
                 {"token-file", s->train.token_file},
                 {"source", s->source},
                 {"target", s->target},
                 {"tsv", s->tsv},
                 {"next-sentences", s->train.next_sentences},
                 {"text", s->train.text},
                 {"valid-source", s->train.valid_source},
                 {"valid-target", s->train.valid_target},
                 {"valid-tsv", s->train.valid_tsv},
                 {"valid-text", s->train.valid_text},
                 {"sentencepiece", s->train.sentencepiece},
                 {"log", log},
                 {"model", model},
                 {"source-sentencepiece", s->train.source_sentencepiece},
                 {"target-sentencepiece", s->train.target_sentencepiece},
                 {"checkpoint", checkpoint}};
    int own = 0;
    size_t i;
    int k;
    for (i = 0; i < sizeof named / sizeof *named && !own; i++)
        own = has_own_name(named[i].option, named[i].path, model, checkpoint);
    for (k = 0; k < s->train.more_tsv.n && !own; k++)
        own = has_own_name("tsv", s->train.more_tsv.item[k], model, checkpoint);
    for (k = 0; k < s->train.more_source.n && !own; k++)
        own = has_own_name("source", s->train.more_source.item[k], model, checkpoint);
    for (k = 0; k < s->train.more_target.n && !own; k++)
        own = has_own_name("target", s->train.more_target.item[k], model, checkpoint);
    for (k = 0; k < s->train.teachers.n && !own; k++)
        own = has_own_name("teacher", s->train.teachers.item[k], model, checkpoint);
    for (k = 0; k < s->train.more_text.n && !own; k++)
        own = has_own_name("text", s->train.more_text.item[k], model, checkpoint);
    return own ? USAGE : DONE;
}

/* Saving needs longer names in the same folder: of the unfinished file, and of an update
   (`numbered`, or ""). */
static int check_saving(const char *path, const char *numbered)
{
    static const char unfinished[] = ".tmp-12345678", update[] = "1234567890";
    const char *name = name_of(path);
    char *folder = folder_of(path);
    long most = pathconf(folder, _PC_NAME_MAX);
    size_t longest =
        strlen(name) + strlen(unfinished) + (*numbered ? strlen(numbered) + strlen(update) : 0);
    free(folder);
    if (most < 0 || longest <= (size_t)most) return check_replaceable(path);
    say("'%s': training writes files beside it with names of up to %zu bytes, but the folder takes "
        "%ld",
        path, longest, most);
    return FAILED;
}

int check_saved(const struct settings *s, const char *model, const char *checkpoint)
{
    int averaged = !s->resume && !(is_given(s, AT(train.ema)) && s->train.ema <= 0);
    int kept = !s->resume && (s->train.keep_models || s->train.average > 1);
    return check_saving(model, kept ? ".update-" : "") ||
           (checkpoint && check_saving(checkpoint, averaged ? ".average-" : "")) ? FAILED : DONE;
}

/* An existing log needs no new file in its folder. A log to be continued is read too: its last line
   may be cut off. */
static int check_log(const char *path, int resumes)
{
    struct stat there;
    if (!path || is_device(path)) return DONE;
    if (stat(path, &there) || S_ISDIR(there.st_mode)) return check_writable(path);
    if (!access(path, W_OK | (resumes ? R_OK : 0))) return DONE;
    say("cannot write '%s': %s", path, strerror(errno));
    return FAILED;
}

struct found { char *names; int n; };

static void add_found(struct found *f, const char *path)
{
    char *longer = format_text("%s%s'%s'", f->n ? f->names : "", f->n ? ", " : "", path);
    free(f->names);
    f->names = longer;
    f->n++;
}

static void add_numbered(void *user, const char *path, const char *tail)
{
    if (*tail && !tail[strspn(tail, "0123456789")] && is_taken(path))
        add_found((struct found *)user, path);
}

/* Only --overwrite replaces files of an earlier training run. */
int check_replaced(const struct settings *s, const char *model, const char *checkpoint,
                   const char *log)
{
    struct found f = {NULL, 0};
    char *averages = format_text("%s.average-", checkpoint ? checkpoint : ""),
         *kept = format_text("%s.update-", model);
    if (is_taken(model)) add_found(&f, model);
    if (s->train.keep_models || s->train.average > 1) for_files(kept, add_numbered, &f);
    if (is_taken(checkpoint)) add_found(&f, checkpoint);
    if (checkpoint) for_files(averages, add_numbered, &f);
    if (is_taken(log)) add_found(&f, log);
    if (f.n && is_taken(checkpoint))
        say("%s exist%s: --resume continues that training run, --overwrite starts a new one "
            "and replaces %s",
            f.names, f.n > 1 ? "" : "s", f.n > 1 ? "them" : "it");
    else if (f.n && checkpoint)
        say("%s exist%s: --overwrite replaces %s (--resume needs the checkpoint '%s', which does "
            "not exist)",
            f.names, f.n > 1 ? "" : "s", f.n > 1 ? "them" : "it", checkpoint);
    else if (f.n)
        say("%s exist%s: --overwrite replaces %s (--resume needs a checkpoint, and there is none)",
            f.names, f.n > 1 ? "" : "s", f.n > 1 ? "them" : "it");
    free(averages);
    free(kept);
    free(f.names);
    return f.n ? FAILED : DONE;
}

/* A run that resumes from --checkpoint FILE may write to its own model, or to a new file. */
static int check_other_model(const struct settings *s, const char *checkpoint)
{
    trf_load_options load = load_options(s);
    size_t n = strlen(checkpoint), tail = strlen(".checkpoint");
    trf_file *file = NULL;
    trf_error err;
    const char *stored;
    char *own;
    int other;
    if (!s->train.checkpoint || !is_taken(s->model)) return DONE;
    if (trf_file_open(&file, checkpoint, &load, &err)) { say_error(NULL, &err); return FAILED; }
    stored = trf_file_metadata(file, "training.model");
    own = format_text("%s", stored ? stored : name_of(checkpoint));
    if (!stored && n > tail && !strcmp(checkpoint + n - tail, ".checkpoint"))
        own[strlen(own) - tail] = 0;
    else if (!stored) *own = 0;
    trf_file_close(file);
    other = *own && strcmp(own, name_of(s->model));
    if (other)
        say("'%s' exists, but '%s' belongs to the model '%s': --overwrite replaces '%s', "
            "--resume with --model %s continues that training run",
            s->model, checkpoint, own, s->model, own);
    free(own);
    return other ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>read           files that training reads
// -----------------------------------------------------------------------------------------------

enum { N_TEXTS = 4 * (1 + MAX_TEXTS), N_DATA = N_TEXTS + 9 };

/* All files of the data; NULL: none. The first N_TEXTS may be folders. */
static void data_files(const struct settings *s, const char *files[N_DATA])
{
    const struct train_settings *t = &s->train;
    const char *const others[N_DATA - N_TEXTS] = {t->next_sentences, t->valid_source,
                                                  t->valid_target,   t->valid_tsv,
                                                  t->valid_text,     t->test_source,
                                                  t->test_target,    t->test_tsv,
                                                  t->test_text};
    const char *const first[4] = {s->tsv, t->text, s->source, s->target};
    const struct texts *const more[4] = {&t->more_tsv, &t->more_text, &t->more_source,
                                         &t->more_target};
    int i, k;
    for (k = 0; k < 4; k++, files += 1 + MAX_TEXTS) {
        files[0] = first[k];
        for (i = 0; i < MAX_TEXTS; i++) files[1 + i] = i < more[k]->n ? more[k]->item[i] : NULL;
    }
    memcpy(files, others, sizeof others);
}

int check_read(const struct settings *s)
{
    const char *files[N_DATA];
    int i;
    data_files(s, files);
    for (i = 0; i < N_DATA; i++)
        if (i < N_TEXTS ? check_texts(s, files[i]) : check_readable(files[i])) return FAILED;
    for (i = 0; i < s->train.teachers.n; i++)
        if (check_model_file(s->train.teachers.item[i])) return FAILED;
    return check_model_file(s->resume ? NULL : s->train.init_from) ||
                   check_readable(s->train.token_file) ||
                   check_model_file(s->resume ? NULL : s->train.vocab_from) ||
                   check_readable(s->train.source_sentencepiece) ||
                   check_readable(s->train.target_sentencepiece)
               ? FAILED
               : DONE;
}

/* Fails now, not after reading the data, if a model or SentencePiece file is none. */
static int check_model_files(const struct settings *s, const char *checkpoint)
{
    const char *path = s->resume ? checkpoint : s->train.init_from;
    trf_load_options load = load_options(s);
    trf_file *file = NULL;
    trf_error err;
    if (path && trf_file_open(&file, path, &load, &err)) {
        load_refused(path, &err);
        return FAILED;
    }
    trf_file_close(file);
    /* a model may have the vocabularies: see check_inherited */
    if (s->train.init_from || s->train.vocab_from) return DONE;
    return check_subwords(s->train.source_sentencepiece) ||
                   (!same_file(s->train.source_sentencepiece, s->train.target_sentencepiece) &&
                    check_subwords(s->train.target_sentencepiece))
               ? FAILED
               : DONE;
}

/* What training will write, by the process that writes. */
static int check_outputs(const struct settings *s, char *own)
{
    if (!is_first_rank()) return DONE;
    if (check_written(s, "model", s->model) || check_written(s, "checkpoint", own) ||
        check_written(s, "log", s->train.log)) return FAILED;
    if (!s->overwrite &&
        (s->resume ? check_other_model(s, own) : check_replaced(s, s->model, own, s->train.log)))
        return FAILED;
    return check_saved(s, s->model, own) || check_log(s->train.log, s->resume) ? FAILED : DONE;
}

static int check_files(const struct settings *s, char **own)
{
    const char *name = s->train.checkpoint ? s->train.checkpoint : s->model;
    struct stat there;
    if (!s->model) { say("give --model FILE, the file to write the model to"); return USAGE; }
    if (!s->train.checkpoint || *s->train.checkpoint)
        *own = format_text("%s%s", name, s->train.checkpoint ? "" : ".checkpoint");
    if (s->resume && !*own) { say("--resume needs a checkpoint"); return USAGE; }
    if (s->resume && stat(*own, &there)) {
        say("there is no '%s' to continue from: training writes it when a validation finds a "
            "better model, after --checkpoint-every updates, and at the end",
            *own);
        return FAILED;
    }
    if (*own && same_file(*own, s->model)) {
        say("--model and --checkpoint name the same file");
        return USAGE;
    }
    if (s->train.log && (same_file(s->train.log, s->model) || same_file(s->train.log, *own))) {
        say("--log names a file of --model or --checkpoint");
        return USAGE;
    }
    if (check_own_names(s, s->model, *own, s->train.log)) return USAGE;
    if (check_outputs(s, *own) || check_read(s) || check_model_files(s, *own)) return FAILED;
    if (is_first_rank()) remove_all_unfinished(s->model);
    if (*own && is_first_rank()) remove_all_unfinished(*own);
    return DONE;
}

static int standard_inputs(const struct settings *s)
{
    const char *files[N_DATA];
    int i, n = 0;
    data_files(s, files);
    for (i = 0; i < N_DATA; i++) n += files[i] && !strcmp(files[i], "-");
    return n;
}

/* The first of the data files that can be read only once, such as a pipe; or NULL. */
static const char *read_once(const struct settings *s)
{
    const char *files[N_DATA];
    int i;
    data_files(s, files);
    for (i = 0; i < N_DATA; i++)
        if (files[i] && (!strcmp(files[i], "-") || is_device(files[i]))) return files[i];
    return NULL;
}

int check_rereading(const struct settings *s)
{
    const char *file = read_once(s);
    if (file) say("--seeds reads the data several times, so '%s' cannot be used", file);
    return file ? USAGE : DONE;
}

static int check_processes(const struct settings *s)
{
    const char *file = n_ranks() > 1 ? read_once(s) : NULL;
    if (file)
        say("each of the %d processes reads the data, so '%s' cannot be used: give a file",
            n_ranks(), file);
    return file ? USAGE : DONE;
}

/* Token ids instead of text. */
static int check_token_file(const struct settings *s)
{
    int valid = s->train.valid_source || s->train.valid_tsv || s->train.valid_text;
    if (s->source || s->target || s->tsv || s->train.text || s->train.next_sentences) {
        say("--token-file has the data: --source, --target, --tsv, --text and --next-sentences do "
            "not work with it");
        return USAGE;
    }
    if (learns_labels(s) || s->train.subword_samples > 1 || s->train.extend_vocabulary) {
        say("%s needs the text: --token-file has none",
            learns_labels(s) ? "this --objective"
                             : s->train.extend_vocabulary ? "--extend-vocabulary"
                                 : "--subword-samples");
        return USAGE;
    }
    if (!s->train.init_from && !s->train.vocab_from && !s->resume) {
        say("--token-file needs the vocabularies of its tokens: give --vocab-from FILE, the "
            "--model of trf prepare, or start from its weights too: --init-from FILE");
        return USAGE;
    }
    if (valid || (is_given(s, AT(train.valid_size)) && s->train.valid_size == 0)) return DONE;
    say("nothing is held out of --token-file: give %s to validate on, or --valid-size 0",
        learns_from_text(s) ? "--valid-text" : "--valid-tsv, or --valid-source and --valid-target");
    return USAGE;
}

static int check_data(const struct settings *s)
{
    const struct train_settings *t = &s->train;
    int tests = t->test_source || t->test_target || t->test_tsv,
        pairs = s->source || s->target || s->tsv || t->valid_source || t->valid_target ||
                t->valid_tsv || tests;
    if ((is_translating((enum metric)s->train.metric) && s->objective != OBJECTIVE_TRANSLATE) ||
        (s->train.metric >= METRIC_ACCURACY && !is_scored_by_labels(s))) {
        say("--metric %s does not work with this --objective",
            metric_name((enum metric)s->train.metric));
        return USAGE;
    }
    if (s->train.token_file && check_token_file(s)) return USAGE;
    if (s->train.init_from && s->train.vocab_from) {
        say("--init-from takes the vocabularies too: --vocab-from does not work with it");
        return USAGE;
    }
    if (learns_from_text(s)) {
        if ((s->train.text || s->train.token_file) && !pairs) return DONE;
        say(s->train.text ? "this --objective learns only from --text, not from pairs"
                    : pairs ? "this --objective reads --text FILE, not pairs" : "give --text FILE");
        return USAGE;
    }
    if (t->text || t->valid_text || t->test_text) {
        say("--%s is for --objective causal, mask and span", t->text ? "text"
            : t->valid_text ? "valid-text" : "test-text");
        return USAGE;
    }
    if (tests && check_pairs_given("test-", t->test_source, t->test_target, t->test_tsv))
        return USAGE;
    if (s->train.next_sentences && (s->source || s->target || s->tsv)) {
        say("--next-sentences makes the pairs: --source, --target and --tsv do not work with it");
        return USAGE;
    }
    if (!s->train.next_sentences && !s->train.token_file &&
        check_pairs_given("", s->source, s->target, s->tsv)) return USAGE;
    if (!s->train.valid_tsv && !s->train.valid_source && !s->train.valid_target) return DONE;
    return check_pairs_given("valid-", s->train.valid_source, s->train.valid_target,
                             s->train.valid_tsv) ? USAGE
                                                                                       : DONE;
}

void for_same_files(const struct settings *s, void (*each)(void *user, char *text), void *user)
{
    const struct { const char *path[2], *option[2];
    } twice[] = {{{s->source, s->target}, {"source", "target"}},
                 {{s->train.valid_source, s->train.valid_target}, {"valid-source", "valid-target"}},
                 {{s->tsv, s->train.valid_tsv}, {"tsv", "valid-tsv"}},
                 {{s->train.text, s->train.valid_text}, {"text", "valid-text"}},
                 {{s->source, s->train.valid_source}, {"source", "valid-source"}},
                 {{s->target, s->train.valid_target}, {"target", "valid-target"}}};
    size_t i;
    for (i = 0; i < sizeof twice / sizeof *twice; i++)
        if (same_file(twice[i].path[0], twice[i].path[1]))
            each(user, format_text("--%s and --%s are the same file", twice[i].option[0],
                                   twice[i].option[1]));
}

static void warn(void *user, char *text)
{
    (void)user;
    say("warning: %s", text);
    free(text);
}

// -----------------------------------------------------------------------------------------------
// >>values         of options
// -----------------------------------------------------------------------------------------------

/* Refuses what the library will refuse before the data are read, which may take minutes. Widths and
   layers count if they are given; the recipe chooses the others. */
static int check_values(const struct settings *s)
{
    trf_config config = trf_config_preset(TRF_TINY);
    trf_train_options training = s->training;
    trf_search search = s->search;
    trf_error err;
    config.source_vocab = config.target_vocab = 8;
    if (is_given(s, AT(config.d_ff))) config.d_ff = s->config.d_ff;
    if (is_given(s, AT(config.d_model))) config.d_model = s->config.d_model;
    config.n_heads =
        is_given(s, AT(config.d_model)) && is_given(s, AT(config.n_heads)) ? s->config.n_heads : 1;
    if (is_given(s, AT(config.encoder_layers))) config.encoder_layers = s->config.encoder_layers;
    if (is_given(s, AT(config.decoder_layers))) config.decoder_layers = s->config.decoder_layers;
    config.max_length = s->config.max_length;
    config.position_offset = s->config.position_offset;
    config.norm_epsilon = s->config.norm_epsilon;
    training.source_tokens = training.target_tokens = training.sequences = training.longest = 2;
    if (!is_given(s, AT(training.warmup))) training.warmup = 1;
    if (training.schedule == TRF_COSINE && !ends_cosine(s))
        training.total_steps = training.warmup < INT64_MAX ? training.warmup + 1 : INT64_MAX;
    search.beam = s->train.valid_beam;
    if (trf_config_check(&config, NULL, &err)) return refused("model", &err);
    if (trf_train_check(&training, &config, &err)) return refused("trainer", &err);
    return trf_search_check(&search, NULL, &err) ? refused("validation", &err) : DONE;
}

/* What check_values does not see: heads if the recipe chooses the width, and the size of
   batches. */
static int check_sizes(const struct settings *s)
{
    enum { MOST_TOKENS = 1 << 24, WIDEST = 65536 };
    if (is_given(s, AT(config.n_heads)) && s->config.n_heads > WIDEST) {
        say("--n-heads must divide --d-model, which is at most %d, got %d", (int)WIDEST,
            (int)s->config.n_heads);
        return USAGE;
    }
    if (is_given(s, AT(corpus.batch_tokens)) && s->corpus.batch_tokens > MOST_TOKENS) {
        say("--batch-tokens takes 1 to %d, got %d", (int)MOST_TOKENS, (int)s->corpus.batch_tokens);
        return USAGE;
    }
    return DONE;
}

/* The smallest size of a vocabulary; for subwords it is larger. */
static int check_vocabulary_sizes(const struct settings *s)
{
    int side;
    for (side = 0; side < 2; side++) {
        int32_t size = side ? s->train.target_vocab_size : s->train.source_vocab_size;
        size_t own = side ? AT(train.target_vocab_size) : AT(train.source_vocab_size);
        if (size == 0 || size >= 5) continue;
        say("--%s must be 5 or more, four special tokens included, got %d",
            option_name(is_given(s, own) ? own : AT(train.vocab_size)), (int)size);
        return USAGE;
    }
    return DONE;
}

int check_data_options(const struct settings *s)
{
    int status;
    if ((status = check_data(s)) || (status = check_effects(s))) return status;
    if (standard_inputs(s) > 1) {
        say("only one of the files can be standard input");
        return USAGE;
    }
    if (s->columns && !s->tsv && !s->train.valid_tsv && !s->train.test_tsv) {
        say("--columns is for pairs in one file");
        return USAGE;
    }
    return check_columns(s->columns) ? USAGE : DONE;
}

int check_training(struct settings *s, char **checkpoint)
{
    int status;
    if (s->train.teachers.n && !s->train.init_from && !s->train.vocab_from && !s->resume)
        s->train.vocab_from = s->train.teachers.item[0];        /* ids must mean the same */
    if ((status = check_data_options(s)) || (status = check_processes(s)) ||
        (status = settle_parts(s, 0)))
        return status;
    if (is_given(s, AT(train.dropout)) && !(s->train.dropout >= 0 && s->train.dropout < 1)) {
        say("--dropout must be 0 or more and below 1, got %g", s->train.dropout);
        return USAGE;
    }
    if (!(s->train.ema >= 0 && s->train.ema <= 0.5)) {
        say("--ema takes the fraction that an update adds, from 0 to 0.5, got %g (a decay of "
            "0.999 is a fraction of 0.001)",
            s->train.ema);
        return USAGE;
    }
    if (!(s->train.cooldown >= 0 && s->train.cooldown <= 10)) {
        say("--cooldown takes a number from 0 to 10, got %g", s->train.cooldown);
        return USAGE;
    }
    if (s->train.teachers.n > TRF_MAX_MODELS) {
        say("--teacher can be given up to %d times, got %d", TRF_MAX_MODELS, s->train.teachers.n);
        return USAGE;
    }
    if (!(s->train.teacher_share >= 0 && s->train.teacher_share <= 1)) {
        say("--teacher-share takes a number from 0 to 1, got %g", s->train.teacher_share);
        return USAGE;
    }
    if (!(s->train.subword_alpha >= 0 && s->train.subword_alpha <= 1)) {
        say("--subword-alpha takes a number from 0 to 1, got %g", s->train.subword_alpha);
        return USAGE;
    }
    if (hides_words(s) && s->noise.masked + s->noise.randomised > 1) {
        say("--masked-share and --random-share must have a sum of at most 1, got %g and %g",
            s->noise.masked, s->noise.randomised);
        return USAGE;
    }
    if (!(s->train.minutes > 0)) {
        say("--minutes takes a time above 0, got %g", s->train.minutes);
        return USAGE;
    }
    if ((status = check_vocabulary_sizes(s)) || (status = check_sizes(s)) ||
        (status = check_values(s)) || (status = check_noise(s)) ||
        (!s->train.init_from && !s->resume && (status = check_chunk(s))) ||
        (status = check_files(s, checkpoint)))
        return status;
    for_same_files(s, warn, NULL);
    return DONE;
}

// trf train --resume: loads a checkpoint, and reads its data again. See training.h.
//
// Vocabularies and settings come from the checkpoint; the options of the command line are compared
// with it.

#include "training.h"
#include "mpi.h"

#include <math.h>

/* Fails if --sentencepiece names another SentencePiece model than the checkpoint has. */
static int check_pieces(struct training *t, int side)
{
    const char *file = side ? t->s->train.target_sentencepiece : t->s->train.source_sentencepiece;
    struct vocabularies *v = &t->vocabularies;
    trf_vocab *vocab = NULL;
    char *stored;
    size_t n;
    int status;
    if (!file || !reads_side(t->s, side)) return DONE;
    if (stored_subwords(t->s, v, side, t->run.checkpoint)) return FAILED;
    stored = v->pieces[side];
    n = v->pieces_bytes[side];
    status = read_subwords(v, side, side, file, &vocab);
    if (!status && (n != v->pieces_bytes[side] || memcmp(stored, v->pieces[side], n))) {
        say("%s was made with a SentencePiece model other than '%s': vocabularies cannot change "
            "while a model is trained",
            t->run.checkpoint, file);
        status = FAILED;
    }
    trf_vocab_destroy(vocab);
    free(stored);
    if (v->pieces[side] != stored) free(v->pieces[side]);
    v->pieces[side] = NULL;
    return status;
}

/* Fails if the checkpoint is of another objective; loads its labels. */
static int check_objective(struct training *t)
{
    struct settings requested = *t->s;
    const trf_config *c = trf_model_config(t->run.model);
    requested.config = *c;
    if (!is_given(t->s, AT(pooling))) requested.pooling = c->head == TRF_HEAD_FIRST;
    set_kind(&requested);
    if (requested.config.kind == c->kind && requested.config.head == c->head &&
        (t->s->objective == OBJECTIVE_PRETRAIN) == (c->sequence_labels > 0))
        return learns_labels(t->s) && c->label_kind != TRF_LABELS_NUMBERS
                   ? load_labels(t->run.model, t->run.checkpoint, &t->labels)
                   : DONE;
    say("%s has another --objective%s", t->run.checkpoint,
        is_given(t->s, AT(pooling)) ? " or --pooling" : "");
    return FAILED;
}

/* Options of this command line override those of the checkpoint, but not those of the model. */
static int merge_settings(struct training *t, const trf_model *model, const trf_trainer *trainer)
{
    struct settings *s = t->s, stored = *s, merged;
    char old[64], new[64];
    int i;
    stored.config = *trf_model_config(model);
    stored.training = *trf_trainer_options(trainer);
    stored.training.hooks = s->training.hooks;
    merged = stored;
    if (apply_given(&merged)) return USAGE;
    if (s->train.init_from) { /* presets did not apply to the model: see take_architecture */
        merged.config = stored.config;
        if (set_given_architecture(&merged)) return USAGE;
    }
    set_kind(&merged);
    for (i = 0; i < n_rows; i++) {
        if (!row_within(&rows[i], AT(config), sizeof s->config)) continue;
        value_text(&rows[i], &stored, old, sizeof old);
        value_text(&rows[i], &merged, new, sizeof new);
        if (!strcmp(old, new)) continue;
        say("the checkpoint was made with --%s %s, now it is %s: a model cannot change while it is "
            "trained",
            rows[i].name, old, new);
        return FAILED;
    }
    *s = merged;
    s->config = stored.config;
    if (!is_given(s, AT(seed)))
        s->corpus.seed = s->seed = stored.config.seed; /* one seed for all, as in then_seed */
    return settle_chunk(s);
}

/* The limits of the checkpoint's batches, to plan memory. */
static int stored_batches(struct settings *s, const trf_file *file)
{
    char key[96];
    const char *value;
    int i, status = DONE;
    for (i = 0; i < n_rows && !status; i++) {
        size_t field = rows[i].offset;
        if (field != AT(corpus.batch_tokens) && field != AT(corpus.batch_sentences)) continue;
        stored_key(&rows[i], key, sizeof key);
        value = trf_file_metadata(file, key);
        if (value && !is_given(s, field)) status = set_value(&rows[i], s, value);
        if (status) say("the value is in the checkpoint's metadata '%s'", key);
    }
    return status ? FAILED : DONE;
}

/* Reads the training options from the checkpoint's header: loading a trainer needs them. */
static int read_stored(struct settings *s, const char *path, const trf_load_options *load)
{
    trf_file *file = NULL;
    trf_error err;
    const char *content;
    int status;
    if (trf_file_open(&file, path, load, &err)) { say_error(NULL, &err); return FAILED; }
    content = trf_file_metadata(file, "trf.content");       /* loading reports if it is neither */
    status = content && !strcmp(content, "checkpoint") ? stored_training(s, file) : DONE;
    if (content && !strcmp(content, "model")) {
        say("%s is a model, not the checkpoint of a training run: --init-from starts from it",
            path);
        status = FAILED;
    }
    if (!is_given(s, AT(device.precision)))     /* whatever this machine would choose */
        s->device.precision = trf_file_metadata(file, "training.precision") ? TRF_PRECISION_BF16
                                                                            : TRF_PRECISION_FLOAT32;
    if (!status) status = stored_batches(s, file);
    trf_file_close(file);
    return status;
}

/* The values in the checkpoint of the options given now: texts, or NULL if it has none. */
static void note_before(const struct training *t, const trf_train_options *training,
                        char *before[MAX_OPTIONS])
{
    struct settings old = *t->s;
    char key[96], value[64];
    int i;
    old.training = *training;
    old.seed = trf_model_config(t->run.model)->seed;
    for (i = 0; i < n_rows; i++) {
        const char *stored;
        before[i] = NULL;
        if (!(rows[i].commands & TRAIN) || !t->s->given[i]) continue;
        stored_key(&rows[i], key, sizeof key);
        stored = trf_model_metadata(t->run.model, key);
        value_text(&rows[i], &old, value, sizeof value);
        if (row_within(&rows[i], AT(training), sizeof old.training) || rows[i].offset == AT(seed))
            stored = value;
        if (stored) before[i] = format_text("%s", stored);
    }
}

/* Prints which of them changed. Returns the changes that concern the data and their order, or "";
   malloc'd. */
static char *say_changes(const struct training *t, char *before[MAX_OPTIONS])
{
    static const size_t of_data[] = {
        AT(corpus.batch_tokens), AT(corpus.batch_sentences), AT(corpus.padded_budget),
        AT(corpus.shuffle), AT(corpus.buckets), AT(corpus.pool), AT(train.valid_size),
            AT(train.keep_empty),
        AT(train.documents), AT(train.pack), AT(train.chunk), AT(train.subword_samples),
            AT(train.subword_alpha), AT(seed)};
    char value[64], *all = format_text("%s", ""), *change, *longer;
    int i;
    size_t k, n = sizeof of_data / sizeof *of_data;
    for (i = 0; i < n_rows; i++) {
        if (!before[i]) continue;
        value_text(&rows[i], t->s, value, sizeof value);
        for (k = 0; k < n && rows[i].offset != of_data[k]; k++) { }
        change = format_text("--%s was %s, now it is %s", rows[i].name, before[i], value);
        if (strcmp(value, before[i])) inform_line("%s", change);
        if (strcmp(value, before[i]) && k < n) {
            longer = format_text("%s%s%s", all, *all ? "; " : "", change);
            free(all);
            all = longer;
        }
        free(change);
        free(before[i]);
    }
    return all;
}

/* Moves the corpus to the checkpoint's position. changed: what say_changes returned. */
static int seek_corpus(struct training *t, const char *changed)
{
    trf_error err;
    if (!trf_corpus_resume(t->run.corpus, t->run.trainer, &err)) return DONE;
    if (err.status != TRF_E_STATE) {
        say_error(t->run.checkpoint, &err);
        return FAILED;
    }
    if (*changed)
        say("%s: --resume needs the data options of the original training: %s", t->run.checkpoint,
            changed);
    else
        say("%s: --resume needs the same data: the data or --columns have changed since the checkpoint, "
            "or all passes of --epochs are done", t->run.checkpoint);
    return FAILED;
}

/* The training options for loading the trainer: the stored ones, overridden by this command
   line. */
static int merge_training(const struct training *t, const trf_load_options *load,
                          struct settings *merged, trf_train_options *stored)
{
    int status;
    *merged = *t->s;
    if ((status = read_stored(merged, t->run.checkpoint, load))) return status;
    *stored = merged->training;
    if (stored->schedule != TRF_COSINE) stored->total_steps = 0;
    if (apply_given(merged) || settle_parts(merged, stored->parts) || check_parts(merged)) return USAGE;
    if (merged->training.parts != stored->parts && !is_given(t->s, AT(training.parts)))
        inform_line("batches were not divided before; now they have %d parts",
                    (int)merged->training.parts);
    if ((merged->training.schedule == TRF_NOAM) != (stored->schedule == TRF_NOAM) &&
        !is_given(t->s, AT(training.learning_rate))) {
        say("a --schedule other than the checkpoint's needs --learning-rate, which is a factor for "
            "noam and the highest rate for the others");
        return USAGE;
    }
    if (merged->training.schedule == TRF_COSINE &&
        merged->training.total_steps <= merged->training.warmup && !ends_cosine(t->s))
        merged->training.total_steps = merged->training.warmup + 1;
    /* plan memory as before, within limits; the limits of the data follow when they have been
       read */
    set_limits(merged,
               (int32_t)fmax(1, fmin(merged->training.longest, merged->corpus.batch_tokens) - 1),
               &merged->training);
    return DONE;
}

static int check_stored_vocabularies(const struct training *t, const trf_vocab *const vocab[2])
{
    int side;
    for (side = 0; side < 2; side++)
        if (reads_side(t->s, side) && !vocab[side]) {
            say_no_vocabulary(t->run.checkpoint, trf_model_config(t->run.model), vocab[0],
                              vocab[1]);
            return FAILED;
        }
    return DONE;
}

/* Languages cannot change while a model is trained. */
static int check_languages(struct training *t)
{
    const char *const given[2] = {t->s->source_language, t->s->target_language};
    int k;
    for (k = 0; k < 2; k++) {
        const char *before = trf_model_metadata(t->run.model, language_keys[k]);
        if (!given[k] || (before && !strcmp(given[k], before))) continue;
        say("the checkpoint was made %s%s, now --%s-language is %s: a model cannot change while it "
            "is trained", before ? "for the language " : "without a language", before ? before : "",
            k ? "target" : "source", given[k]);
        return FAILED;
    }
    return take_languages(t, t->run.model);
}

/* Nothing is made: the vocabularies are those of the checkpoint. */
static int make(void *user, const trf_data_lines *lines, trf_vocab *vocab[2])
{
    (void)user;
    (void)lines;
    (void)vocab;
    return DONE;
}

/* Encodes the data with the vocabularies and labels of the checkpoint, and holds out the same
   pairs. A checkpoint without a note about them held out every n-th one, one of the first versions
   0.3 some at random. */
static int encode(struct training *t, const trf_vocab *const vocab[2])
{
    struct settings *s = t->s;
    struct vocabularies *v = &t->vocabularies;
    struct run *r = &t->run;
    trf_dataset_options o = data_options(&t->data);
    const char *held, *picks = trf_model_metadata(r->model, "training.picks");
    int status;
    if (s->train.subword_samples > 1 &&
        (check_samples(s, vocab) || stored_subwords(s, v, 0, r->checkpoint) ||
         stored_subwords(s, v, 1, r->checkpoint)))
        return FAILED;
    r->state.picks = o.hold_out_rule = !picks ? TRF_HOLD_OUT_EVERY_KTH :
                                       strcmp(picks, "random") ? TRF_HOLD_OUT_UNSEEN :
                                                                 TRF_HOLD_OUT_RANDOM;
    o.bare_chunks = o.hold_out_rule != TRF_HOLD_OUT_UNSEEN;     /* one change came with the other */
    o.source_vocab = vocab[0];
    o.target_vocab = vocab[1];
    o.labels = learns_labels(s) ? trf_model_metadata(r->model, "labels") : NULL;
    t->data.make = make;
    /* 0 also stands for a file of its own, whose pairs may be gone now */
    held = trf_model_metadata(r->model, "training.held_out");
    t->data.knows_size = trf_model_metadata(r->model, "option.valid-size") &&
                         (s->train.valid_size > 0 || (held && !strcmp(held, "0")));
    if ((status = read_data(&t->data, &o))) return status;
    if (s->train.subword_samples > 1 && add_samples(&t->data, v, vocab)) return FAILED;
    note_data(t, vocab);
    if (restore_state(r, &t->data) || set_corpus(s, &t->data, vocab, &t->plan)) return FAILED;
    r->corpus = trf_dataset_results(t->data.set)->corpus;
    t->plan.drawn = r->state.batches;
    t->plan.updates = updates_of(r->trainer);
    t->plan.cosine_follows = r->state.cosine_follows;
    t->plan.fit = r->state.fit;
    return DONE;
}

/* Each step needs the one before: options for the trainer; model and trainer; objective and
   architecture, which cannot change; trf's own options and the best score; the data; limits and
   schedule, which depend on the longest pair and on the number of batches; at last the corpus moves
   to the checkpoint's position. */
int resume_training(struct training *t)
{
    struct settings *s = t->s, merged;
    struct run *r = &t->run;
    trf_load_options load = load_options(s);
    const trf_vocab *vocab[2];
    trf_error err;
    trf_train_options stored;
    char *before[MAX_OPTIONS], *changed;
    int status = merge_training(t, &load, &merged, &stored);
    if (status) return status;
    s->device.precision = load.device.precision = merged.device.precision;
    if (trf_checkpoint_load(&r->model, &r->trainer, NULL, r->checkpoint, &merged.training, &load,
                            &err)) {
        say_error(NULL, &err);
        return FAILED;
    }
    r->learning = trf_trainer_learn_state(r->trainer);
    if (check_objective(t)) return FAILED;
    if ((status = merge_settings(t, r->model, r->trainer))) return status;
    vocab[0] = trf_model_vocab(r->model, TRF_SOURCE); vocab[1] = trf_model_vocab(r->model, TRF_TARGET);
    if (check_stored_vocabularies(t, vocab)) return FAILED;
    if ((status = check_languages(t))) return status;
    note_before(t, &stored, before);
    if (check_tokens(s, vocab, r->checkpoint) || restore_options(r) || check_pieces(t, 0) ||
        check_pieces(t, 1))
        return FAILED;
    if (check_combinations(s)) return USAGE;
    if ((status = encode(t, vocab))) return status;
    if ((status = make_noise(s, vocab[0], &r->noise, &r->validator.noise))) return status;
    settle_validation(s, &t->plan);
    if (check_ends(s, &t->plan) || settle_cosine(s, &t->plan, &stored)) return USAGE;
    changed = say_changes(t, before);
    if (s->train.init_from)
        inform_line("--init-from has no effect with --resume: the weights come from %s",
                    r->checkpoint);
    say_schedule(s, &t->plan);
    set_limits(s, t->data.longest, &s->training);
    if (trf_trainer_set_options(r->trainer, &s->training, &err)) {
        say_error("trainer", &err);
        return FAILED;
    }
    status = seek_corpus(t, changed);
    free(changed);
    if (status) return FAILED;
    if ((status = make_run(t))) return status;
    return restore_average(r);
}

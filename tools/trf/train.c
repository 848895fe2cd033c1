// trf train: from files to a corpus, a model and a trainer.
//
// The text is read once into memory (so pipes will do), pairs are held out of it, vocabularies are learned from the
// rest, then it becomes ids and is freed. With --resume the vocabularies and all settings come from the checkpoint,
// and options that were given are compared with it.

#include "train.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>text           lines in memory
// -----------------------------------------------------------------------------------------------

static void add_line(struct text *text, const char *line, int64_t number)
{
    size_t bytes = strlen(line) + 1;
    text->bytes = grow(text->bytes, &text->capacity, text->used + bytes, 1);
    text->starts = grow(text->starts, &text->starts_capacity, text->count + 1, sizeof *text->starts);
    text->numbers = grow(text->numbers, &text->numbers_capacity, text->count + 1, sizeof *text->numbers);
    memcpy(text->bytes + text->used, line, bytes);
    text->starts[text->count] = text->used;
    text->numbers[text->count++] = number;
    text->used += bytes;
}

const char *line_of(const struct text *text, size_t index) { return text->bytes + text->starts[index]; }

static void free_text(struct text *text)
{
    free(text->bytes);
    free(text->starts);
    free(text->numbers);
    memset(text, 0, sizeof *text);
}

static const char *training_file(const struct settings *s, int side)
{
    return s->text ? s->text : s->tsv ? s->tsv : side ? s->target : s->source;
}

// -----------------------------------------------------------------------------------------------
// >>skips          what cannot be trained on: left out and counted, the first five told; --strict: the end
// -----------------------------------------------------------------------------------------------

int skip(struct training *t, enum skip why, const char *file, int64_t line, const char *reason)
{
    int64_t before = 0;
    int i;
    for (i = 0; i < N_SKIPS; i++) before += t->skips[i];
    t->skips[why]++;
    if (t->s->strict) {
        say("%s:%lld: %s (--strict)", file, (long long)line, reason);
        return FAILED;
    }
    if (before < 5) say("left out: %s:%lld: %s", file, (long long)line, reason);
    return DONE;
}

static void say_skips(const struct training *t)
{
    static const char *const names[N_SKIPS] = {"unreadable", "too long", "empty", "empty on one side",
                                               "without their labels"};
    char list[256] = "";
    int64_t all = 0;
    int i;
    for (i = 0; i < N_SKIPS; i++) {
        all += t->skips[i];
        if (t->skips[i]) snprintf(list + strlen(list), sizeof list - strlen(list), "%s%lld %s", *list ? ", " : "",
                                  (long long)t->skips[i], names[i]);
    }
    if (!all) return;
    inform("left out: %lld %s%s (%s)\n", (long long)all,
            t->s->objective == OBJECTIVE_TRANSLATE ? "pair" : "line", plural(all), list);
    if (all > trf_corpus_size(t->corpus) / 9)
        say("warning: that is more than a tenth of the data; are they what the options say, and in UTF-8?");
}

// -----------------------------------------------------------------------------------------------
// >>reading        pairs for training and for validation
// -----------------------------------------------------------------------------------------------

/* Lines without a tab in front of all that have one: no line may have any. */
struct tabless { const char *fault; int64_t number[5], n; };

static int skip_tabless(struct training *t, struct tabless *lines, const char *file)
{
    int64_t i, n = lines->n;
    for (i = lines->n = 0; i < n; i++)
        if (skip(t, SKIP_UNREADABLE, file, i < 5 ? lines->number[i] : 0, lines->fault)) return FAILED;
    return DONE;
}

static void say_tabless(const struct training *t, const struct pair_reader *pairs)
{
    const char *const want[] = {"a source, a tab and a target", "", "a text, a tab and its label",
                                "words, a tab and their labels", "", ""};
    say("%s: no line has a tab; --tsv takes %s in each line%s", pairs->side[0].name, want[t->s->objective],
        t->s->objective == OBJECTIVE_TRANSLATE ? ". Two files with a line for a line are --source and --target; text "
        "alone is --text, with --objective causal, mask or span" : "; two files with a line for a line are --source "
        "and --target");
}

static int read_pairs(struct training *t, struct text text[2], const char *source, const char *target,
                      const char *tsv)
{
    const char *what = text == t->held ? "validate" : "train";
    struct tabless tabless = {NULL, {0}, 0};
    struct pair_reader pairs;
    int got = -1, status = open_pairs(&pairs, source, target, tsv, tsv ? t->s->columns : NULL);
    if (!status) {
        while ((got = next_pair(&pairs)) > 0) {
            if (pairs.lacks_tab && tabless.n == pairs.at->number - 1 && !t->s->strict) {
                if (tabless.n < 5) tabless.number[tabless.n] = pairs.at->number;
                tabless.n++;
                tabless.fault = pairs.fault;
                continue;
            }
            if (tabless.n && skip_tabless(t, &tabless, pairs.at->name)) { got = -1; break; }
            if (pairs.fault) {
                if (!skip(t, SKIP_UNREADABLE, pairs.at->name, pairs.at->number, pairs.fault)) continue;
                got = -1;
                break;
            }
            add_line(&text[0], pairs.source, pairs.side[0].number);
            add_line(&text[1], pairs.target, pairs.side[0].number);
        }
        if (got == 0 && pairs.side[0].number == 0) {
            say("%s is empty: nothing to %s on", pairs.side[0].name, what);
            got = -1;
        }
        if (got == 0 && tabless.n) {
            say_tabless(t, &pairs);
            got = -1;
        }
    }
    close_pairs(&pairs);
    return status ? status : got ? FAILED : DONE;
}

/* Lines of text alone; the other side's are empty. Where the file is one document they keep their ends. */
static int read_documents(struct training *t, struct text text[2], const char *path)
{
    struct reader r;
    int lead = leading_side(t->s), got = -1, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) {
        char *line = format_text("%s%s", r.line, t->s->documents == DOCUMENTS_FILE ? "\n" : "");
        if (r.fault) got = skip(t, SKIP_UNREADABLE, r.name, r.number, r.fault) ? -1 : got;
        else {
            add_line(&text[lead], line, r.number);
            add_line(&text[!lead], "", r.number);
        }
        free(line);
        if (got < 0) break;
    }
    if (!status && got == 0 && r.number == 0) {
        say("%s is empty: nothing to %s", r.name, text == t->held ? "validate on" : "learn from");
        got = -1;
    }
    close_reader(&r);
    return status ? status : got ? FAILED : DONE;
}

/* FNV-1a */
uint64_t hash_line(const char *line)
{
    uint64_t hash = 1469598103934665603u;
    for (; *line; line++) hash = (hash ^ (unsigned char)*line) * 1099511628211u;
    return hash ^ hash >> 32;
}

int by_hash(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

const char **lines_of(const struct text *text)
{
    const char **lines = zeroed(text->count, sizeof *lines);
    size_t i;
    for (i = 0; i < text->count; i++) lines[i] = line_of(text, i);
    return lines;
}

/* Marks the pairs to hold out, about `size`; *count: how many. A checkpoint of before has held them out with a comb. */
static int choose_held_out(const struct training *t, const struct text *source, int64_t size, char *held,
                           int64_t *count)
{
    const char **lines = lines_of(source);
    trf_hold_out_rule rule = t->state.combed ? TRF_HOLD_OUT_EVERY_KTH : TRF_HOLD_OUT_RANDOM;
    trf_error err;
    int status = trf_hold_out(lines, (int64_t)source->count, size, rule, held, count, NULL, &err) ? FAILED : DONE;
    if (status) say_error("held out", &err);
    free((void *)lines);
    return status;
}

/* About a twentieth of the pairs or lines, a thousand or so at most, goes from the training text to that of
   validation. */
static int hold_out(struct training *t)
{
    struct settings *s = t->s;
    int64_t n = (int64_t)t->text[0].count, size = s->valid_size, count;
    struct text kept[2];
    char *held;
    size_t i;
    int side;
    if (!was_given(s, "valid-size")) size = n / 20 < 1000 ? n / 20 : 1000;
    if (size == 0) return DONE;
    if (size >= n) {
        say("--valid-size %lld leaves none of %lld pair%s to train on", (long long)size, (long long)n,
            plural(n));
        return FAILED;
    }
    held = zeroed((size_t)n, 1);
    if (learns_from_text(s) && s->documents == DOCUMENTS_FILE) {
        memset(held + (n - size), 1, (size_t)size);     /* the end of it */
        count = size;
    } else if (choose_held_out(t, &t->text[learns_from_text(s) && leading_side(s)], size, held, &count)) {
        free(held);
        return FAILED;
    }
    if (learns_labels(s)) count -= keep_labels(t, held);
    if (count == n) {
        say("holding out %lld pair%s leaves none to train on; give --valid-size 0", (long long)size, plural(size));
        free(held);
        return FAILED;
    }
    for (side = 0; side < 2; side++) {
        memset(&kept[side], 0, sizeof kept[side]);
        for (i = 0; i < (size_t)n; i++)
            add_line(held[i] ? &t->held[side] : &kept[side], line_of(&t->text[side], i), t->text[side].numbers[i]);
        free_text(&t->text[side]);
        t->text[side] = kept[side];
    }
    free(held);
    s->valid_size = size;
    inform("held out: %lld of %lld %s, to validate on (--valid-size 0 trains on all)\n", (long long)count,
            (long long)n, s->objective == OBJECTIVE_TRANSLATE ? "pairs" : "lines");
    return DONE;
}

/* A training that goes on keeps the pairs that it held out. A checkpoint without a note drew them with a comb. */
static int read_notes(struct training *t)
{
    trf_load_options load = load_options(t->s);
    trf_file *file;
    trf_error err;
    if (trf_file_open(&file, t->checkpoint, &load, &err)) { say_error(NULL, &err); return FAILED; }
    t->state.combed = trf_file_metadata(file, "training.picks") == NULL;
    trf_file_close(file);
    return DONE;
}

static int read_text(struct training *t)
{
    struct settings *s = t->s;
    int status = s->text ? read_documents(t, t->text, s->text)
                         : read_pairs(t, t->text, s->source, s->target, s->tsv);
    if (!status && s->resume) status = read_notes(t);
    if (status) return status;
    if (!s->valid_tsv && !s->valid_source && !s->valid_text) return hold_out(t);
    if (s->valid_text) return read_documents(t, t->held, s->valid_text);
    if ((status = read_pairs(t, t->held, s->valid_source, s->valid_target, s->valid_tsv))) return status;
    if (t->held[0].count) return DONE;
    say("%s: no pair to validate on", s->valid_tsv ? s->valid_tsv : s->valid_source);
    return FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>vocabularies   learned from the training text, or read
// -----------------------------------------------------------------------------------------------

/* Counts the tokens of one side. A line with one that is too large for a vocabulary is left out later. */
static int learn_side(struct training *t, trf_vocab *vocab, int side)
{
    trf_error err;
    size_t i;
    for (i = 0; i < t->text[side].count; i++)
        if (trf_vocab_learn(vocab, line_of(&t->text[side], i), &err) && err.status != TRF_E_LIMIT) {
            say("%s:%lld: %s", training_file(t->s, side), (long long)t->text[side].numbers[i], err.message);
            return FAILED;
        }
    return DONE;
}

static int learn_tokens(struct training *t, int first_side, int last_side, trf_token_kind kind, trf_vocab **vocab)
{
    const struct settings *s = t->s;
    trf_error err;
    int side;
    trf_status status = trf_vocab_create(vocab, kind, NULL, &err);
    for (side = first_side; side <= last_side && !status; side++) if (learn_side(t, *vocab, side)) return FAILED;
    if (!status)
        status = trf_vocab_finish(*vocab, first_side ? s->target_vocab_size : s->source_vocab_size, s->min_count,
                                  &err);
    if (status) return refused("vocabulary", &err);
    if (trf_vocab_size(*vocab) > 4 || t->text[0].count == 0) return DONE;
    if (s->min_count == 1) {
        say("there is no token to learn in %s", training_file(s, first_side));
        return FAILED;
    }
    say("--min-count %lld leaves no token: none in %s is seen so often", (long long)s->min_count,
        training_file(s, first_side));
    return USAGE;
}

static int make_vocabulary(struct training *t, int first_side, int last_side)
{
    const struct settings *s = t->s;
    const char *file = first_side ? s->target_sentencepiece : s->source_sentencepiece;
    int tokens = first_side ? s->target_tokens : s->source_tokens;
    if (file) return read_subwords(t, first_side, last_side, file, &t->vocab[first_side]);
    if (tokens == TOKENS_UNIGRAM || tokens == TOKENS_BPE)
        return learn_subwords(t, first_side, last_side, &t->vocab[first_side]);
    return learn_tokens(t, first_side, last_side, tokens == TOKENS_CHARACTERS ? TRF_CHARACTERS : TRF_WORDS,
                        &t->vocab[first_side]);
}

/* Whether the vocabularies are what this command line asks for, as far as it does. */
static int check_tokens(const struct settings *s, const trf_vocab *const vocab[2], const char *path)
{
    static const trf_token_kind kinds[] = {TRF_WORDS,         TRF_WORDS,         TRF_CHARACTERS,
                                           TRF_SENTENCEPIECE, TRF_SENTENCEPIECE, TRF_SENTENCEPIECE};
    int side;
    for (side = 0; side < 2; side++) {
        const char *file = side ? s->target_sentencepiece : s->source_sentencepiece;
        int tokens = side ? s->target_tokens : s->source_tokens;
        if (!vocab[side]) continue;
        if ((!was_given(s, "tokens") && !was_given(s, side ? "target-tokens" : "source-tokens") && !file) ||
            tokens == TOKENS_AUTO)
            continue;
        if (trf_vocab_kind(vocab[side]) == (file ? TRF_SENTENCEPIECE : kinds[tokens])) continue;
        say("%s was made with other --%s-tokens", path, side ? "target" : "source");
        return FAILED;
    }
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>init-from      the vocabularies and the architecture of another model; its weights, once there is one
// -----------------------------------------------------------------------------------------------

/* Tokens of one or both sides of the text that the vocabulary lacks, the most frequent first. */
static int extend_vocabulary(struct training *t, int first_side, int last_side, trf_vocab *vocab)
{
    trf_vocab *seen = NULL;
    trf_error err;
    int32_t most = first_side ? t->s->target_vocab_size : t->s->source_vocab_size, i, added = 0;
    int side;
    trf_status status;
    if (trf_vocab_kind(vocab) == TRF_SENTENCEPIECE) {
        say("--extend-vocabulary: a vocabulary of subwords cannot grow");
        return FAILED;
    }
    status = trf_vocab_create(&seen, trf_vocab_kind(vocab), NULL, &err);
    for (side = first_side; side <= last_side && !status; side++)
        if (learn_side(t, seen, side)) { trf_vocab_destroy(seen); return FAILED; }
    if (!status) status = trf_vocab_finish(seen, most ? most : 32000, t->s->min_count, &err);
    for (i = 4; !status && i < trf_vocab_size(seen); i++)
        if (trf_vocab_id(vocab, trf_vocab_token(seen, i)) == 3) {
            status = trf_vocab_add(vocab, trf_vocab_token(seen, i), &err);
            added++;
        }
    trf_vocab_destroy(seen);
    if (status) { say_error("vocabulary", &err); return FAILED; }
    inform("%s: %d token%s %s new\n", first_side ? "target" : last_side ? "both sides" : "source",
           (int)added, plural(added), added == 1 ? "is" : "are");
    return DONE;
}

/* A vocabulary of our own that is like one of the model's; joint: it is that of both sides. */
static int inherit_vocabulary(struct training *t, int side, int joint)
{
    const trf_vocab *old = side ? trf_model_target_vocab(t->from) : trf_model_source_vocab(t->from);
    trf_error err;
    if (!old) return DONE;
    if (trf_vocab_copy(&t->vocab[side], old, NULL, &err)) { say_error("vocabulary", &err); return FAILED; }
    if (trf_vocab_kind(old) == TRF_SENTENCEPIECE && t->s->subword_samples > 1 &&
        stored_subwords(t, side, t->s->init_from)) return FAILED;
    if (joint) {
        t->vocab[1] = t->vocab[0];
        t->pieces[1] = t->pieces[0];
        t->pieces_bytes[1] = t->pieces_bytes[0];
    }
    return t->s->extend_vocabulary ? extend_vocabulary(t, side, side || joint, t->vocab[side]) : DONE;
}

int set_given_architecture(struct settings *s)
{
    int i;
    for (i = 0; i < n_rows; i++)
        if (s->given[i] && row_within(&rows[i], AT(config), sizeof s->config) && set_value(&rows[i], s, s->given[i]))
            return USAGE;
    return DONE;
}

/* The architecture is that of the model. What it has no options for, as it lacks an encoder or a decoder or its
   documents end by themselves, is like the other half, or as it would be without it. */
static int take_architecture(struct training *t)
{
    struct settings *s = t->s;
    const trf_config *old = trf_model_config(t->from);
    trf_config own = s->config;
    s->config = *old;
    s->config.seed = own.seed;
    s->config.hooks = own.hooks;
    if (old->encoder_layers == 0) s->config.encoder_layers = old->decoder_layers;
    if (old->decoder_layers == 0) s->config.decoder_layers = old->encoder_layers;
    if (old->kind == TRF_DECODER_ONLY) s->config.target_eos = own.target_eos;
    if (!was_given(s, "pooling")) s->pooling = old->head == TRF_HEAD_FIRST;
    return set_given_architecture(s);
}

static int begin_from(struct training *t)
{
    struct settings *s = t->s;
    trf_load_options load = load_options(s);
    trf_error err;
    int side, joint, status;
    if (trf_model_load(&t->from, s->init_from, &load, &err)) { load_refused(s->init_from, &err); return FAILED; }
    if ((status = take_architecture(t))) return status;
    joint = shares_embedding(&s->config) && s->objective == OBJECTIVE_TRANSLATE;
    if (joint && trf_model_target_vocab(t->from) &&
        !same_tokens(trf_model_source_vocab(t->from), trf_model_target_vocab(t->from))) {
        say("--tying %s needs one vocabulary for both sides, but %s has %s",
            s->config.tying == TRF_TIED_ALL ? "all" : "embeddings", s->init_from,
            trf_model_source_vocab(t->from) ? "two" : "only that of the target");
        return FAILED;
    }
    for (side = 0; side < 2 - joint; side++)
        if (reads_side(s, side) && inherit_vocabulary(t, side, joint)) return FAILED;
    if (check_inherited(t)) return USAGE;
    if (check_tokens(s, (const trf_vocab *const *)t->vocab, s->init_from)) return FAILED;
    s->joint_vocabulary = joint;
    return DONE;
}

/* Whether the rows of a parameter are about the same things in both models, in the same order: labels, tokens. */
static int rows_agree(const struct training *t, const char *name)
{
    const trf_vocab *old[2] = {trf_model_source_vocab(t->from), trf_model_target_vocab(t->from)};
    const char *labels[2] = {trf_model_metadata(t->from, "labels"), trf_model_metadata(t->model, "labels")};
    if (!strncmp(name, "head.", 5)) return !labels[0] || !labels[1] || !strcmp(labels[0], labels[1]);
    if (strncmp(name, "tgt_embed.", 10) && strncmp(name, "generator.", 10)) return 1;
    return t->s->objective != OBJECTIVE_SPAN || !old[1] || same_tokens(old[0], old[1]);
}

/* Rows of labels that the other model has too are that model's. */
static int copy_rows_of_labels(const struct training *t, const struct labels *old, trf_tensor w, trf_real *to)
{
    trf_tensor theirs = trf_model_parameter(t->from, trf_model_parameter_index(t->from, w.name));
    size_t n = (size_t)trf_tensor_count(&theirs), each = (size_t)trf_tensor_count(&w) / (size_t)t->labels.n;
    trf_real *numbers = malloc(n * sizeof *numbers);
    trf_error err;
    int32_t i, k;
    if (!numbers || trf_tensor_read(&theirs, numbers, (int64_t)n, &err)) { free(numbers); return FAILED; }
    for (i = 0; i < t->labels.n && each * (size_t)old->n == n; i++)
        if ((k = label_number(old, t->labels.name[i], strlen(t->labels.name[i]))) >= 0)
            memcpy(to + (size_t)i * each, numbers + (size_t)k * each, each * sizeof *to);
    free(numbers);
    return DONE;
}

/* Parameters whose rows do not agree are new, but for labels that both have. *copied: those of the other model. */
static int copy_weights(struct training *t, int32_t *copied)
{
    int32_t i, n = trf_model_parameter_count(t->model);
    trf_real **fresh = calloc((size_t)n, sizeof *fresh);
    struct labels old = {NULL, 0, 0};
    trf_error err;
    int status = !fresh || (t->labels.n && load_labels(t->from, t->s->init_from, &old)) ? FAILED : DONE;
    for (i = 0; i < n && !status; i++) {
        trf_tensor w = trf_model_parameter(t->model, i);
        size_t count = (size_t)trf_tensor_count(&w);
        if (rows_agree(t, w.name)) continue;
        fresh[i] = malloc(count * sizeof **fresh);
        status = !fresh[i] || trf_tensor_read(&w, fresh[i], (int64_t)count, &err) ||
                 (!strncmp(w.name, "head.", 5) && copy_rows_of_labels(t, &old, w, fresh[i])) ? FAILED : DONE;
    }
    free_labels(&old);
    if (status) say("%s: weights cannot be read", t->s->init_from);
    if (!status && trf_model_copy_weights(t->model, t->from, copied, &err)) {
        say_error(t->s->init_from, &err);
        status = FAILED;
    }
    for (i = 0; i < n && fresh; i++) {
        trf_tensor w = trf_model_parameter(t->model, i);
        if (!fresh[i]) continue;
        if (!status && trf_tensor_write(&w, fresh[i], trf_tensor_count(&w), &err)) {
            say_error("weights", &err);
            status = FAILED;
        }
        if (trf_model_parameter_index(t->from, w.name) >= 0) --*copied;
        free(fresh[i]);
    }
    free(fresh);
    return status;
}

static int take_weights(struct training *t)
{
    int32_t copied = 0;
    if (copy_weights(t, &copied)) return FAILED;
    if (copied == 0) {
        say("nothing of %s fits: an encoder alone and a decoder alone have no parameter in common", t->s->init_from);
        return FAILED;
    }
    tell("%d of %d parameters %s of %s", (int)copied, (int)trf_model_parameter_count(t->model),
         copied == 1 ? "is that" : "are those", t->s->init_from);
    trf_model_destroy(t->from);
    t->from = NULL;
    return DONE;
}

static int32_t count_frozen(const struct training *t)
{
    int32_t i, frozen = 0;
    for (i = 0; i < trf_model_parameter_count(t->model); i++) frozen += trf_trainer_is_frozen(t->trainer, i);
    return frozen;
}

/* The patterns of this command line count, and those of an earlier one no more; '' fits nothing. Without any, what the
   checkpoint has frozen stays so. */
static int freeze(struct training *t)
{
    const struct texts *patterns = &t->s->freeze;
    int32_t frozen = count_frozen(t), n = trf_model_parameter_count(t->model);
    trf_error err;
    int k;
    if (!patterns->n && frozen)
        inform("frozen: %d of %d parameters, as in the checkpoint (--freeze '' freezes none)\n", (int)frozen,
               (int)n);
    if (!patterns->n) return DONE;
    if (frozen && trf_trainer_freeze(t->trainer, "*", 0, NULL, &err)) return refused("--freeze", &err);
    for (k = 0; k < patterns->n; k++)
        if (*patterns->item[k] && trf_trainer_freeze(t->trainer, patterns->item[k], 1, NULL, &err))
            return refused("--freeze", &err);
    frozen = count_frozen(t);
    if (frozen == n) say("warning: --freeze fits all %d parameters: nothing will be learned", (int)n);
    else inform("frozen: %d of %d parameters\n", (int)frozen, (int)n);
    return DONE;
}

/* That of the only side there is. Missing spans are written with the tokens of the text. */
static int make_one_vocabulary(struct training *t)
{
    int status, side = reads_side(t->s, 1);
    if (!t->vocab[side] && (status = make_vocabulary(t, side, side))) return status;
    if (t->s->objective != OBJECTIVE_SPAN) return DONE;
    t->vocab[1] = t->vocab[0];
    return add_sentinels(t);
}

/* Whether the vocabulary of a side is made here, of subwords or of the words or characters that are seen. */
static int makes_vocabulary(const struct training *t, int side, int subwords)
{
    const struct settings *s = t->s;
    return reads_side(s, side) && !t->vocab[side] && !(side ? s->target_sentencepiece : s->source_sentencepiece) &&
           subwords == ((side ? s->target_tokens : s->source_tokens) >= TOKENS_UNIGRAM);
}

/* Options of vocabularies that are not made. */
static int check_made(const struct training *t)
{
    const struct settings *s = t->s;
    const char *normalise = given_text(s, "normalise");
    int inherited = t->vocab[0] || t->vocab[1];
    if (was_given(s, "min-count") && !inherited && !makes_vocabulary(t, 0, 0) && !makes_vocabulary(t, 1, 0)) {
        say("--min-count is not for subwords, which are learned by a rule of their own");
        return USAGE;
    }
    if (normalise && strcmp(normalise, "auto") && !makes_vocabulary(t, 0, 1) && !makes_vocabulary(t, 1, 1)) {
        say("--normalise is for subwords that are learned here: words and characters stay as they are");
        return USAGE;
    }
    return DONE;
}

static int make_vocabularies(struct training *t)
{
    struct settings *s = t->s;
    int status, one_file = same_file(s->source_sentencepiece, s->target_sentencepiece);
    int inherited = t->vocab[0] || t->vocab[1];
    if ((!t->vocab[0] && reads_side(s, 0)) || (!t->vocab[1] && reads_side(s, 1)))
        if ((status = decide_tokens(t))) return status;
    if ((status = check_made(t))) return status;
    if (s->objective != OBJECTIVE_TRANSLATE) return make_one_vocabulary(t);
    if (inherited) {
        status = t->vocab[0] ? DONE : make_vocabulary(t, 0, 0);
        return status || t->vocab[1] ? status : make_vocabulary(t, 1, 1);
    }
    if (s->joint_vocabulary &&
        (s->source_tokens != s->target_tokens || (s->source_sentencepiece || s->target_sentencepiece) != one_file)) {
        say("one vocabulary for both sides needs the same --source-tokens and --target-tokens, or one "
            "--sentencepiece");
        return USAGE;
    }
    if (s->joint_vocabulary && s->source_vocab_size != s->target_vocab_size) {
        say("one vocabulary for both sides has one size: give --vocab-size");
        return USAGE;
    }
    if ((status = make_vocabulary(t, 0, s->joint_vocabulary))) return status;
    if (s->joint_vocabulary) t->vocab[1] = t->vocab[0];
    return s->joint_vocabulary ? DONE : make_vocabulary(t, 1, 1);
}

static void free_vocabularies(struct training *t)
{
    if (t->vocab[1] != t->vocab[0]) trf_vocab_destroy(t->vocab[1]);
    trf_vocab_destroy(t->vocab[0]);
    t->vocab[0] = t->vocab[1] = NULL;
}

// -----------------------------------------------------------------------------------------------
// >>ids            lines become ids; what cannot be trained on is left out
// -----------------------------------------------------------------------------------------------

/* Appends text i with its label or labels, or says why not. */
static int add_example(struct training *t, const trf_vocab *vocab, const struct text text[2], size_t i,
                       struct side ids[2], const char *file, int *taken)
{
    size_t before = ids[0].count;
    enum skip kind;
    char why[300];
    const char *fault = add_labelled(t, vocab, line_of(&text[0], i), line_of(&text[1], i), ids, &kind, why);
    *taken = ids[0].count > before;
    if (*taken) return DONE;
    return skip(t, fault ? kind : SKIP_EMPTY, file, text[0].numbers[i], fault ? fault : "empty");
}

/* Appends pair i of the text, or says why not. *taken: whether it was appended. */
static int add_pair(struct training *t, const trf_vocab *const vocab[2], const struct text text[2], size_t i,
                    struct side ids[2], const char *const files[2], int *taken)
{
    int64_t line = text[0].numbers[i];
    int32_t limit = t->s->corpus.max_length, n[2] = {0, 0};
    char why[300];
    int side;
    if (learns_labels(t->s)) return add_example(t, vocab[0], text, i, ids, files[0], taken);
    *taken = 0;
    for (side = 0; side < 2; side++) {
        const char *fault = unlearnable(vocab[side], line_of(&text[side], i));
        if (fault && side) drop_last(&ids[0]);
        if (fault) return skip(t, SKIP_LONG, files[side], line, fault);
        if (!add_text(&ids[side], vocab[side], line_of(&text[side], i), limit, &n[side], why)) continue;
        if (side) drop_last(&ids[0]);
        return skip(t, n[side] ? SKIP_LONG : SKIP_UNREADABLE, files[side], line, why);
    }
    *taken = n[0] && n[1] ? 1 : n[0] || n[1] ? t->s->keep_empty : 0;
    if (*taken) return DONE;
    drop_last(&ids[0]);
    drop_last(&ids[1]);
    return n[0] || n[1] ? skip(t, SKIP_HALF, files[n[0] != 0], line, "empty, but its other side is not")
                        : skip(t, SKIP_EMPTY, files[0], line, "empty on both sides");
}

/* --subword-samples: more copies of the pairs in use, each side cut at random; one that has become too long is left
   out. The amounts are those of the data, not of the copies. */
static int add_samples(struct training *t, const trf_vocab *const vocab[2], const char *in_use)
{
    struct side cut[2];
    int32_t copy;
    size_t i;
    int side, status = DONE;
    memset(cut, 0, sizeof cut);
    for (copy = 1; copy < t->s->subword_samples && !status; copy++) {
        size_t at[2] = {0, 0};
        for (side = 0; side < 2 && !status; side++) {
            uint64_t seed = t->s->seed * 1000003 + (uint64_t)copy * 2 + (uint64_t)side;
            status = sample_subwords(t, side, vocab[side], (uint32_t)seed, &cut[side]);
        }
        for (i = 0; i < t->text[0].count && !status; i++) {
            int32_t n[2] = {cut[0].lengths[i], cut[1].lengths[i]}, longest = n[0] > n[1] ? n[0] : n[1];
            if (in_use[i] && longest <= t->s->corpus.max_length) {
                for (side = 0; side < 2; side++) add_ids(&t->ids[side], cut[side].ids + at[side], n[side]);
                if (longest > t->amounts.longest) t->amounts.longest = longest;
            }
            at[0] += (size_t)n[0];
            at[1] += (size_t)n[1];
        }
    }
    free_side(&cut[0]);
    free_side(&cut[1]);
    return status;
}

static void count_amounts(struct training *t, size_t number)
{
    int side;
    for (side = 0; side < 2; side++) {
        int32_t n = t->ids[side].lengths[number];
        t->amounts.tokens[side] += n + 1;
        if (n > t->amounts.longest) t->amounts.longest = n;
    }
    t->amounts.pairs++;
}

static int check_amounts(const struct training *t)
{
    const char *what = t->s->objective == OBJECTIVE_TRANSLATE ? "pair" : "text";
    if (t->amounts.pairs == 0) { say("no %s is left to train on", what); return FAILED; }
    if (t->held[0].count == 0 || t->valid[0].count) return DONE;
    say("no %s is left to validate on", what);
    return FAILED;
}

static int encode_documents(struct training *t, const trf_vocab *const vocab[2], const char *training,
                            const char *validation)
{
    int lead = leading_side(t->s);
    size_t i;
    if (add_documents(t, vocab[lead], &t->text[lead], training, t->ids) ||
        add_documents(t, vocab[lead], &t->held[lead], validation, t->valid)) return FAILED;
    for (i = 0; i < t->ids[0].count; i++) count_amounts(t, i);
    return check_amounts(t);
}

static int encode_all(struct training *t, const trf_vocab *const vocab[2])
{
    const struct settings *s = t->s;
    const char *const training[2] = {training_file(s, 0), training_file(s, 1)};
    const char *validation[2] = {s->valid_text ? s->valid_text : s->valid_tsv ? s->valid_tsv : s->valid_source,
                                 s->valid_tsv ? s->valid_tsv : s->valid_target};
    char *in_use;       /* lines of the text that are trained on */
    int taken, status = DONE;
    size_t i;
    if (!validation[0]) validation[0] = training[0], validation[1] = training[1];
    busy_with("tokenizing the data ...\n");
    if (learns_from_text(s)) return encode_documents(t, vocab, training[0], validation[0]);
    in_use = zeroed(t->text[0].count, 1);
    for (i = 0; i < t->text[0].count && !status; i++) {
        status = add_pair(t, vocab, t->text, i, t->ids, training, &taken);
        if (taken) count_amounts(t, t->ids[0].count - 1);
        in_use[i] = (char)taken;
    }
    if (!status && s->subword_samples > 1) status = add_samples(t, vocab, in_use);
    free(in_use);
    if (status) return status;
    for (i = 0; i < t->held[0].count; i++) {
        if (add_pair(t, vocab, t->held, i, t->valid, validation, &taken)) return FAILED;
        if (!taken) continue;
        t->valid_line = grow(t->valid_line, &t->valid_line_capacity, t->valid[0].count, sizeof *t->valid_line);
        t->valid_line[t->valid[0].count - 1] = i;
    }
    return check_amounts(t);
}

/* A fingerprint of the pairs held out, and of the options by which they are judged: what their figures are about. */
uint64_t held_out_hash(const struct training *t)
{
    static const char *const judging[] = {"valid-beam", "noise-density", "mean-span", "masked-share", "random-share",
                                          "whole-words", "chunk", "label-smoothing", "smoothing-rule"};
    size_t n = sizeof judging / sizeof *judging - (metric_of(t) == METRIC_LOSS ? 0 : 2), i, j;
    uint64_t hash = 0;
    char value[64];
    int k;
    if (!t->held[0].count) return 0;
    for (k = 0; k < n_rows; k++)
        for (j = 0; j < n; j++) {
            if (!(rows[k].commands & TRAIN) || strcmp(rows[k].name, judging[j])) continue;
            if (rows[k].offset == AT(chunk) && !learns_from_text(t->s)) continue;
            value_text(&rows[k], t->s, value, sizeof value);
            hash = hash * 1099511628211u ^ hash_line(value);
        }
    for (i = 0; i < t->held[0].count; i++)
        hash = (hash ^ hash_line(line_of(&t->held[0], i)) ^ hash_line(line_of(&t->held[1], i)) << 1) * 1099511628211u;
    return hash;
}

/* The corpus, and how many updates as many pairs take as the data have, about: batches of later passes are cut
   elsewhere. */
static int fill_corpus(struct training *t)
{
    size_t i, used[2] = {0, 0};
    int64_t batches = 0;
    trf_batch batch;
    trf_error err;
    if (trf_corpus_create(&t->corpus, &t->s->corpus, &err)) goto failed;
    for (i = 0; i < t->ids[0].count; i++) {
        if (trf_corpus_add(t->corpus, t->ids[0].ids + used[0], t->ids[0].lengths[i], t->ids[1].ids + used[1],
                           t->ids[1].lengths[i], &err)) goto failed;
        used[0] += (size_t)t->ids[0].lengths[i];
        used[1] += (size_t)t->ids[1].lengths[i];
    }
    free_side(&t->ids[0]);
    free_side(&t->ids[1]);
    for (; trf_corpus_epoch(t->corpus) == 0; batches++) if (trf_corpus_next(t->corpus, &batch, &err)) goto failed;
    t->batches = batches;
    t->per_epoch = (int64_t)fmax(1, (double)(batches + t->s->accumulate / 2) / t->s->accumulate);
    trf_corpus_rewind(t->corpus);
    return DONE;
failed:
    say_error("corpus", &err);
    return FAILED;
}

static int64_t count_unknown(const struct side *ids)
{
    int64_t unknown = 0;
    size_t i;
    for (i = 0; i < ids->used; i++) unknown += ids->ids[i] == 3;
    return unknown;
}

/* A vocabulary of another text may know little of this one; and that of the training little of the validation. */
static void warn_of_unknown(const struct training *t)
{
    int side;
    for (side = 0; side < 2; side++) {
        double learned, held;
        if (!reads_side(t->s, side)) continue;
        learned = (double)count_unknown(&t->ids[side]) / fmax(1, (double)t->ids[side].used);
        held = (double)count_unknown(&t->valid[side]) / fmax(1, (double)t->valid[side].used);
        if (learned > 0.05)
            say("warning: %.1f %% of the %s's tokens are unknown to the vocabulary, and will be neither read nor "
                "written%s", 100 * learned, side ? "target" : "source",
                t->s->init_from && !t->s->extend_vocabulary && trf_vocab_kind(t->vocab[side]) != TRF_SENTENCEPIECE
                ? "; --extend-vocabulary adds them" : "");
        if (held > 0.05)
            say("warning: %.1f %% of the %s's tokens in the pairs held out are unknown to the vocabulary", 100 * held,
                side ? "target" : "source");
    }
}

/* How many unknown tokens the model learns to write. */
static int64_t count_unknown_targets(const struct training *t)
{
    return count_unknown(&t->ids[reads_side(t->s, 1) && t->s->objective != OBJECTIVE_SPAN]);
}

/* A model that has never seen one among its targets need not write any: see trf translate --ban-unk. */
static int store_unknown(struct training *t, int64_t unknown)
{
    const char *before = t->from ? trf_model_metadata(t->from, "target.unknown") : "0";
    char text[24];
    trf_error err;
    if (!before || learns_labels(t->s) || t->s->objective == OBJECTIVE_MASK) return DONE;
    snprintf(text, sizeof text, "%lld", (long long)unknown + strtoll(before, NULL, 10));
    if (!trf_model_set_metadata(t->model, "target.unknown", text, &err)) return DONE;
    say_error("metadata", &err);
    return FAILED;
}

static int check_samples(const struct training *t, const trf_vocab *const vocab[2])
{
    if (trf_vocab_kind(vocab[0]) == TRF_SENTENCEPIECE && trf_vocab_kind(vocab[1]) == TRF_SENTENCEPIECE) return DONE;
    say("--subword-samples %d needs subwords on both sides: --tokens sentencepiece, or --sentencepiece",
        (int)t->s->subword_samples);
    return USAGE;
}

// -----------------------------------------------------------------------------------------------
// >>beginning      a new model
// -----------------------------------------------------------------------------------------------

/* The limits of a batch follow from the corpus; what the plan of memory would not hold it grows by. */
static void set_limits(const struct settings *s, int32_t longest, trf_train_options *training)
{
    int32_t tokens = s->corpus.batch_tokens > longest + 1 ? s->corpus.batch_tokens : longest + 1;
    training->source_tokens = training->target_tokens = tokens;
    training->sequences = s->corpus.batch_sentences < tokens ? s->corpus.batch_sentences : tokens;
    training->longest = longest + 1;
}

/* Whether a chunk fits the model. */
static int check_chunk(const struct settings *s)
{
    int32_t most = s->config.max_length - 1;            /* the library adds a begin or an end mark */
    if (!learns_from_text(s) || (most >= 2 && !was_given(s, "chunk"))) return DONE;
    if (s->chunk >= 2 && s->chunk <= most) return DONE;
    if (most < 2) {
        say("--max-length %d leaves no room for a text: 3 or more", (int)s->config.max_length);
        return USAGE;
    }
    say("--chunk takes 2 to %d tokens (--max-length less one), got %d", (int)most, (int)s->chunk);
    return USAGE;
}

/* The longest sequence may be that of a file. */
static int settle_chunk(struct settings *s)
{
    s->corpus.max_length = s->config.max_length - 1;
    if (!was_given(s, "chunk")) s->chunk = s->corpus.max_length;        /* a checkpoint brings its own afterwards */
    return check_chunk(s);
}

/* How many tokens the longest text of the training had: the model knows nothing about positions beyond. */
static int store_longest(struct training *t)
{
    const char *before = t->from ? trf_model_metadata(t->from, "trained.longest") : NULL;
    char text[24];
    trf_error err;
    long long longest = before ? strtoll(before, NULL, 10) : 0;
    if (t->from && !before) return DONE;        /* nobody knows how far it was trained */
    if (longest < t->amounts.longest) longest = t->amounts.longest;
    snprintf(text, sizeof text, "%lld", longest);
    if (!trf_model_set_metadata(t->model, "trained.longest", text, &err)) return DONE;
    say_error("metadata", &err);
    return FAILED;
}

static int start_training(struct training *t)
{
    struct settings *s = t->s;
    const trf_vocab *vocab[2];
    int64_t unknown;
    trf_error err;
    int status = s->init_from ? begin_from(t) : DONE;
    if (!status) status = settle_chunk(s);
    if (!status) status = make_vocabularies(t);
    if (!status && learns_labels(s)) status = learn_labels(t);
    if (status) return status;
    vocab[0] = t->vocab[0]; vocab[1] = t->vocab[1];
    if (s->subword_samples > 1 && check_samples(t, vocab)) return USAGE;
    if (encode_all(t, vocab)) return FAILED;
    if (learns_from_text(s)) warn_of_line_ends(t, vocab[leading_side(s)]);
    warn_of_unknown(t);
    unknown = count_unknown_targets(t);
    if ((status = decide_model(t))) return status;
    set_kind(s);
    if ((status = decide_batches(t))) return status;
    if (fill_corpus(t)) return FAILED;
    if ((status = decide_schedule(t))) return status;
    s->config.source_vocab = t->vocab[0] ? trf_vocab_size(t->vocab[0]) : 0;
    s->config.target_vocab = t->vocab[1] ? trf_vocab_size(t->vocab[1]) : 0;
    s->config.n_labels = t->labels.n;
    if (trf_model_create(&t->model, &s->config, &err) ||
        trf_model_set_vocabs(t->model, t->vocab[0], t->vocab[1], &err))
        return refused("model", &err);
    if (store_labels(t) || store_longest(t) || store_unknown(t, unknown) || (s->init_from && take_weights(t)))
        return FAILED;
    s->search.ban_unk = never_writes_unk(t->model);
    if ((status = make_noise(t, trf_model_source_vocab(t->model)))) return status;
    set_limits(s, t->amounts.longest, &s->training);
    if (trf_trainer_create(&t->trainer, t->model, &s->training, &err)) return refused("trainer", &err);
    if ((status = freeze(t))) return status;
    t->state.stopping.validated = -1;
    t->state.held_out = held_out_hash(t);
    return make_average_room(t);
}

// -----------------------------------------------------------------------------------------------
// >>resume         a checkpoint, and the data that belong to it
// -----------------------------------------------------------------------------------------------

/* --sentencepiece FILE is the model that the checkpoint has. */
static int check_pieces(struct training *t, int side)
{
    const char *file = side ? t->s->target_sentencepiece : t->s->source_sentencepiece;
    trf_vocab *vocab = NULL;
    char *stored;
    size_t n;
    int status;
    if (!file || !reads_side(t->s, side)) return DONE;
    if (stored_subwords(t, side, t->checkpoint)) return FAILED;
    stored = t->pieces[side];
    n = t->pieces_bytes[side];
    status = read_subwords(t, side, side, file, &vocab);
    if (!status && (n != t->pieces_bytes[side] || memcmp(stored, t->pieces[side], n))) {
        say("%s was made with another SentencePiece model than '%s': vocabularies cannot change while a model is "
            "trained", t->checkpoint, file);
        status = FAILED;
    }
    trf_vocab_destroy(vocab);
    free(stored);
    if (t->pieces[side] != stored) free(t->pieces[side]);
    t->pieces[side] = NULL;
    return status;
}

/* A checkpoint is of one objective, and brings its labels. */
static int check_objective(struct training *t)
{
    struct settings asked = *t->s;
    const trf_config *c = trf_model_config(t->model);
    asked.config = *c;
    if (!was_given(t->s, "pooling")) asked.pooling = c->head == TRF_HEAD_FIRST;
    set_kind(&asked);
    if (asked.config.kind == c->kind && asked.config.head == c->head)
        return learns_labels(t->s) ? load_labels(t->model, t->checkpoint, &t->labels) : DONE;
    say("%s is of another --objective%s", t->checkpoint, was_given(t->s, "pooling") ? " or --pooling" : "");
    return FAILED;
}

/* Options of this command line on top of those in the checkpoint. The model cannot change any more. */
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
    if (s->init_from) {                 /* no preset said anything of the model: see take_architecture */
        merged.config = stored.config;
        if (set_given_architecture(&merged)) return USAGE;
    }
    set_kind(&merged);
    for (i = 0; i < n_rows; i++) {
        if (!row_within(&rows[i], AT(config), sizeof s->config)) continue;
        value_text(&rows[i], &stored, old, sizeof old);
        value_text(&rows[i], &merged, new, sizeof new);
        if (!strcmp(old, new)) continue;
        say("the checkpoint was made with --%s %s, now it is %s: a model cannot change while it is trained",
            rows[i].name, old, new);
        return FAILED;
    }
    *s = merged;
    s->config = stored.config;
    if (!was_given(s, "seed"))
        s->corpus.seed = s->seed = stored.config.seed; /* one seed for all, as then_seed has it */
    return settle_chunk(s);
}

/* The limits of the checkpoint's batches, for which memory is planned. */
static int stored_batches(struct settings *s, const trf_file *file)
{
    char key[96];
    const char *value;
    int i, status = DONE;
    for (i = 0; i < n_rows && !status; i++) {
        if (strcmp(rows[i].name, "batch-tokens") && strcmp(rows[i].name, "batch-sentences")) continue;
        snprintf(key, sizeof key, "option.%s", rows[i].name);
        value = trf_file_metadata(file, key);
        if (value && !was_given(s, rows[i].name)) status = set_value(&rows[i], s, value);
        if (status) say("the value is in the checkpoint's metadata '%s'", key);
    }
    return status ? FAILED : DONE;
}

/* The training options of a checkpoint, from its header: a trainer gets its options when it is loaded. */
static int read_stored(struct settings *s, const char *path, const trf_load_options *load)
{
    trf_file *file = NULL;
    trf_error err;
    const char *content;
    int status;
    if (trf_file_open(&file, path, load, &err)) { say_error(NULL, &err); return FAILED; }
    content = trf_file_metadata(file, "trf.content");       /* if it is neither, loading will say so */
    status = content && !strcmp(content, "checkpoint") ? stored_training(s, file, path) : DONE;
    if (content && !strcmp(content, "model")) {
        say("%s is a model, not the checkpoint of a training: --init-from begins with it", path);
        status = FAILED;
    }
    if (!status) status = stored_batches(s, file);
    trf_file_close(file);
    return status;
}

/* What the options of this command line were in the checkpoint: their texts, or NULL where it does not know. */
static void note_before(const struct training *t, const trf_train_options *training, char *before[MAX_OPTIONS])
{
    struct settings old = *t->s;
    char key[96], value[64];
    int i;
    old.training = *training;
    old.seed = trf_model_config(t->model)->seed;
    for (i = 0; i < n_rows; i++) {
        const char *stored;
        before[i] = NULL;
        if (!(rows[i].commands & TRAIN) || !t->s->given[i]) continue;
        snprintf(key, sizeof key, "option.%s", rows[i].name);
        stored = trf_model_metadata(t->model, key);
        value_text(&rows[i], &old, value, sizeof value);
        if (row_within(&rows[i], AT(training), sizeof old.training) || rows[i].offset == AT(seed)) stored = value;
        if (stored) before[i] = format_text("%s", stored);
    }
}

/* Says which of them are others now. Returns those that are about the data and their order, or ""; malloc'd. */
static char *say_changes(const struct training *t, char *before[MAX_OPTIONS])
{
    static const char *const of_data[] = {
        "batch-tokens", "batch-sentences", "padded-budget", "shuffle", "buckets", "valid-size", "keep-empty",
        "documents", "pack", "chunk", "subword-samples", "subword-alpha", "seed"};
    char value[64], *all = format_text("%s", ""), *change, *longer;
    int i;
    size_t k, n = sizeof of_data / sizeof *of_data;
    for (i = 0; i < n_rows; i++) {
        if (!before[i]) continue;
        value_text(&rows[i], t->s, value, sizeof value);
        for (k = 0; k < n && strcmp(rows[i].name, of_data[k]); k++) { }
        change = format_text("--%s was %s, now it is %s", rows[i].name, before[i], value);
        if (strcmp(value, before[i])) tell("%s", change);
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

/* To where the checkpoint was in the data. changed: the options about these that have changed. */
static int find_place(struct training *t, const char *changed)
{
    trf_error err;
    if (!trf_corpus_resume(t->corpus, t->trainer, &err)) return DONE;
    say_error(t->checkpoint, &err);
    if (err.status != TRF_E_STATE) return FAILED;
    if (*changed) say("going on needs the options of the data that the training began with: %s", changed);
    else say("the options about the data are those that the training began with, so the data are others, or "
             "--columns, or the passes of --epochs are over");
    return FAILED;
}

/* The vocabularies of the checkpoint make the corpus, which is then moved to its place in the data. In this order, as
   each step needs the one before: the stored training options (a trainer gets them when it is loaded), this command
   line on top of them; model and trainer; objective and architecture, which cannot change; our own options and what
   was best so far; the data, whose longest pair and number of batches the limits and the schedule are then set by. */
static int load_training(struct training *t)
{
    trf_load_options load = load_options(t->s);
    struct settings merged = *t->s;
    const trf_vocab *vocab[2];
    trf_error err;
    trf_train_options stored;
    char *before[MAX_OPTIONS];
    char *changed;
    int side, status = read_stored(&merged, t->checkpoint, &load);
    if (status) return status;
    stored = merged.training;
    if (stored.schedule != TRF_COSINE) stored.total_steps = 0;
    if (apply_given(&merged)) return USAGE;
    if ((merged.training.schedule == TRF_NOAM) != (stored.schedule == TRF_NOAM) &&
        !was_given(t->s, "learning-rate")) {
        say("another --schedule than the checkpoint's needs --learning-rate, which is a factor for noam and the "
            "highest rate for the others");
        return USAGE;
    }
    if (merged.training.schedule == TRF_COSINE && merged.training.total_steps <= merged.training.warmup &&
        !ends_cosine(t->s))
        merged.training.total_steps = merged.training.warmup + 1;
    /* memory is planned as it was, within reason: what the data want is set when they have been read, below */
    set_limits(&merged, (int32_t)fmax(1, fmin(merged.training.longest, merged.corpus.batch_tokens) - 1),
               &merged.training);
    if (trf_checkpoint_load(&t->model, &t->trainer, NULL, t->checkpoint, &merged.training, &load, &err)) {
        say_error(NULL, &err);
        return FAILED;
    }
    if (check_objective(t)) return FAILED;
    if ((status = merge_settings(t, t->model, t->trainer))) return status;
    vocab[0] = trf_model_source_vocab(t->model); vocab[1] = trf_model_target_vocab(t->model);
    for (side = 0; side < 2; side++)
        if (reads_side(t->s, side) && !vocab[side]) {
            say_no_vocabulary(t->checkpoint, trf_model_config(t->model), vocab[0], vocab[1]);
            return FAILED;
        }
    note_before(t, &stored, before);
    if (check_tokens(t->s, vocab, t->checkpoint) || restore_options(t) || check_pieces(t, 0) || check_pieces(t, 1))
        return FAILED;
    if (check_company(t->s)) return USAGE;
    if (t->s->subword_samples > 1 && (check_samples(t, vocab) || stored_subwords(t, 0, t->checkpoint) ||
                                      stored_subwords(t, 1, t->checkpoint)))
        return FAILED;
    if (encode_all(t, vocab) || restore_state(t) || fill_corpus(t)) return FAILED;
    if ((status = make_noise(t, vocab[0]))) return status;
    settle_validation(t);
    if (check_ends(t) || settle_cosine(t, &stored)) return USAGE;
    changed = say_changes(t, before);
    if (t->s->init_from) tell("--init-from has no effect with --resume: the weights are those of %s", t->checkpoint);
    say_schedule(t);
    set_limits(t->s, t->amounts.longest, &t->s->training);
    if (trf_trainer_set_options(t->trainer, &t->s->training, &err)) { say_error("trainer", &err); return FAILED; }
    status = find_place(t, changed);
    free(changed);
    if (status) return FAILED;
    t->s->search.ban_unk = never_writes_unk(t->model);
    if ((status = freeze(t))) return status;
    return make_average_room(t) || restore_average(t) ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>train          the command
// -----------------------------------------------------------------------------------------------

static void free_training(struct training *t)
{
    int side;
    trf_ema_destroy(t->ema);
    trf_trainer_destroy(t->trainer);
    trf_model_destroy(t->model);
    trf_corpus_destroy(t->corpus);
    trf_noise_destroy(t->noise);
    trf_noise_destroy(t->valid_noise);
    trf_model_destroy(t->from);
    free_labels(&t->labels);
    free_vocabularies(t);
    free_subwords(t);
    for (side = 0; side < 2; side++) {
        free_text(&t->text[side]);
        free_text(&t->held[side]);
        free_side(&t->ids[side]);
        free_side(&t->valid[side]);
    }
    for (side = 0; side < N_SAMPLES; side++) free(t->samples[side]);
    free(t->valid_line);
    free(t->state.kept);
    free(t->checkpoint);
    if (t->log) fclose(t->log);
}

/* A pipe, a terminal, /dev/null: written as it is, never replaced. */
static int is_device(const char *path)
{
    struct stat there;
    return !stat(path, &there) && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

enum { N_DATA = 8 };

static void data_files(const struct settings *s, const char *files[N_DATA])
{
    const char *const all[N_DATA] = {s->source, s->target, s->tsv, s->text,
                                     s->valid_source, s->valid_target, s->valid_tsv, s->valid_text};
    memcpy(files, all, sizeof all);
}

/* What is read or written besides must outlive the training to `model` and `checkpoint` (or NULL). */
static int check_own_names(const struct settings *s, const char *model, const char *checkpoint, const char *log)
{
    const struct { const char *option, *path; } named[] = {
        {"init-from", s->init_from}, {"source", s->source}, {"target", s->target}, {"tsv", s->tsv}, {"text", s->text},
        {"valid-source", s->valid_source}, {"valid-target", s->valid_target}, {"valid-tsv", s->valid_tsv},
        {"valid-text", s->valid_text}, {"sentencepiece", s->sentencepiece}, {"log", log}, {"model", model},
        {"source-sentencepiece", s->source_sentencepiece}, {"target-sentencepiece", s->target_sentencepiece},
        {"checkpoint", checkpoint}
    };
    size_t i;
    for (i = 0; i < sizeof named / sizeof *named; i++) {
        const char *path = named[i].path;
        if (!path || (!is_own_name(path, model, ".update-") && !is_own_name(path, checkpoint, ".average-"))) continue;
        say("--%s '%s' is a name that training to --model '%s' gives to a file of its own, which it replaces or "
            "removes: give it or --model another name", named[i].option, path, model);
        return USAGE;
    }
    return DONE;
}

/* A file that is saved has longer names beside it: of what is not whole yet, and of an update (`numbered`, or ""). */
static int check_saving(const char *path, const char *numbered)
{
    static const char unfinished[] = ".tmp-12345678", update[] = "1234567890";
    const char *name = name_of(path);
    char *folder = folder_of(path);
    long most = pathconf(folder, _PC_NAME_MAX);
    size_t longest = strlen(name) + strlen(unfinished) + (*numbered ? strlen(numbered) + strlen(update) : 0);
    free(folder);
    if (most < 0 || longest <= (size_t)most) return check_replaceable(path);
    say("'%s': the names of files beside it would have up to %zu bytes, the folder takes %ld", path, longest, most);
    return FAILED;
}

/* Of a model and its checkpoint, or NULL. One that is there already has the names that it needs. */
static int check_saved(const struct settings *s, const char *model, const char *checkpoint)
{
    int averaged = !s->resume && !(was_given(s, "ema") && s->ema <= 0);
    return check_saving(model, !s->resume && (s->keep || s->average > 1) ? ".update-" : "") ||
           (checkpoint && check_saving(checkpoint, averaged ? ".average-" : "")) ? FAILED : DONE;
}

/* A log is written on, not replaced: a folder in which nothing can be made will do where it is there already. One
   that goes on is read too, for whether its last line is whole. */
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
    if (*tail && !tail[strspn(tail, "0123456789")] && is_taken(path)) add_found((struct found *)user, path);
}

/* Files that an earlier training has left under these names are replaced only by --overwrite. */
static int check_replaced(const struct settings *s, const char *model, const char *checkpoint, const char *log)
{
    struct found f = {NULL, 0};
    char *averages = format_text("%s.average-", checkpoint ? checkpoint : ""), *kept = format_text("%s.update-", model);
    if (is_taken(model)) add_found(&f, model);
    if (s->keep || s->average > 1) for_files(kept, add_numbered, &f);
    if (is_taken(checkpoint)) add_found(&f, checkpoint);
    if (checkpoint) for_files(averages, add_numbered, &f);
    if (is_taken(log)) add_found(&f, log);
    if (f.n && is_taken(checkpoint))
        say("%s exist%s: --resume goes on with that training, --overwrite begins a new one and replaces %s", f.names,
            f.n > 1 ? "" : "s", f.n > 1 ? "them" : "it");
    else if (f.n && checkpoint)
        say("%s exist%s: --overwrite replaces %s (--resume needs the checkpoint '%s', which does not exist)", f.names,
            f.n > 1 ? "" : "s", f.n > 1 ? "them" : "it", checkpoint);
    else if (f.n)
        say("%s exist%s: --overwrite replaces %s (--resume needs a checkpoint, and there is none)", f.names,
            f.n > 1 ? "" : "s", f.n > 1 ? "them" : "it");
    free(averages);
    free(kept);
    free(f.names);
    return f.n ? FAILED : DONE;
}

/* A training that goes on from a --checkpoint that was named writes to its own model, or to a new file. */
static int check_other_model(struct training *t)
{
    trf_load_options load = load_options(t->s);
    size_t n = strlen(t->checkpoint), tail = strlen(".checkpoint");
    trf_file *file = NULL;
    trf_error err;
    const char *stored;
    char *own;
    int other;
    if (!t->s->checkpoint || !is_taken(t->s->model)) return DONE;
    if (trf_file_open(&file, t->checkpoint, &load, &err)) { say_error(NULL, &err); return FAILED; }
    stored = trf_file_metadata(file, "training.model");
    own = format_text("%s", stored ? stored : name_of(t->checkpoint));
    if (!stored && n > tail && !strcmp(t->checkpoint + n - tail, ".checkpoint")) own[strlen(own) - tail] = 0;
    else if (!stored) *own = 0;
    trf_file_close(file);
    other = *own && strcmp(own, name_of(t->s->model));
    if (other)
        say("'%s' exists, but '%s' belongs to the model '%s': --overwrite replaces '%s', --resume with --model %s goes "
            "on with that training", t->s->model, t->checkpoint, own, t->s->model, own);
    free(own);
    return other ? FAILED : DONE;
}

/* Everything that will be read can be. */
static int check_read(const struct settings *s)
{
    const char *files[N_DATA];
    int i;
    data_files(s, files);
    for (i = 0; i < N_DATA; i++) if (check_readable(files[i])) return FAILED;
    return check_readable(s->resume ? NULL : s->init_from) || check_readable(s->source_sentencepiece) ||
           check_readable(s->target_sentencepiece) ? FAILED : DONE;
}

/* Models and subwords that training begins with are such: of models their headers, before the data are read. */
static int check_beginnings(const struct training *t)
{
    const struct settings *s = t->s;
    const char *path = s->resume ? t->checkpoint : s->init_from;
    trf_load_options load = load_options(s);
    trf_file *file = NULL;
    trf_error err;
    if (path && trf_file_open(&file, path, &load, &err)) { load_refused(path, &err); return FAILED; }
    trf_file_close(file);
    if (s->init_from) return DONE;          /* its vocabularies may be there already: see check_inherited */
    return check_subwords(s->source_sentencepiece) ||
           (!same_file(s->source_sentencepiece, s->target_sentencepiece) && check_subwords(s->target_sentencepiece))
           ? FAILED : DONE;
}

static int check_files(struct training *t)
{
    struct settings *s = t->s;
    const char *name = s->checkpoint ? s->checkpoint : s->model;
    struct stat there;
    if (!s->model) { say("give --model FILE, the file to write the model to"); return USAGE; }
    if (!s->checkpoint || *s->checkpoint)
        t->checkpoint = format_text("%s%s", name, s->checkpoint ? "" : ".checkpoint");
    if (s->resume && !t->checkpoint) { say("--resume needs a checkpoint"); return USAGE; }
    if (s->resume && stat(t->checkpoint, &there)) {
        say("there is no '%s' to go on from: training writes it when a validation finds a better model, after "
            "--checkpoint-every updates, and when it ends", t->checkpoint);
        return FAILED;
    }
    if (t->checkpoint && same_file(t->checkpoint, s->model)) {
        say("--model and --checkpoint name the same file");
        return USAGE;
    }
    if (s->log && (same_file(s->log, s->model) || same_file(s->log, t->checkpoint))) {
        say("--log names a file of --model or --checkpoint");
        return USAGE;
    }
    if (check_own_names(s, s->model, t->checkpoint, s->log)) return USAGE;
    if (check_written(s, "model", s->model) || check_written(s, "checkpoint", t->checkpoint) ||
        check_written(s, "log", s->log)) return FAILED;
    if (!s->overwrite && (s->resume ? check_other_model(t) : check_replaced(s, s->model, t->checkpoint, s->log)))
        return FAILED;
    if (check_saved(s, s->model, t->checkpoint) || check_log(s->log, s->resume) || check_read(s) ||
        check_beginnings(t)) return FAILED;
    sweep(s->model);
    if (t->checkpoint) sweep(t->checkpoint);
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

/* What is read once is gone: a pipe. */
static int check_rereading(const struct settings *s)
{
    const char *files[N_DATA];
    int i;
    data_files(s, files);
    for (i = 0; i < N_DATA; i++) {
        if (!files[i] || (strcmp(files[i], "-") && !is_device(files[i]))) continue;
        say("--seeds reads the data several times: '%s' will not do", files[i]);
        return USAGE;
    }
    return DONE;
}

/* Whether the files are those that the objective wants, and what is compared can be. */
static int check_data(const struct settings *s)
{
    int pairs = s->source || s->target || s->tsv || s->valid_source || s->valid_target || s->valid_tsv;
    if ((is_translating((enum metric)s->metric) && s->objective != OBJECTIVE_TRANSLATE) ||
        (s->metric >= METRIC_ACCURACY && !learns_labels(s))) {
        say("--metric %s does not go with this --objective", metric_name((enum metric)s->metric));
        return USAGE;
    }
    if (learns_from_text(s)) {
        if (s->text && !pairs) return DONE;
        say(s->text ? "this --objective learns from --text alone, not from pairs" : "give --text FILE");
        return USAGE;
    }
    if (s->text || s->valid_text) {
        say("--%s is for --objective causal, mask and span", s->text ? "text" : "valid-text");
        return USAGE;
    }
    if (check_pairs_given("", s->source, s->target, s->tsv)) return USAGE;
    if (!s->valid_tsv && !s->valid_source && !s->valid_target) return DONE;
    return check_pairs_given("valid-", s->valid_source, s->valid_target, s->valid_tsv) ? USAGE : DONE;
}

/* A file beside itself is a slip of the command line. */
static void warn_of_same_files(const struct settings *s)
{
    const struct { const char *path[2], *option[2]; } twice[] = {
        {{s->source, s->target}, {"source", "target"}},
        {{s->valid_source, s->valid_target}, {"valid-source", "valid-target"}},
        {{s->tsv, s->valid_tsv}, {"tsv", "valid-tsv"}}, {{s->text, s->valid_text}, {"text", "valid-text"}},
        {{s->source, s->valid_source}, {"source", "valid-source"}},
        {{s->target, s->valid_target}, {"target", "valid-target"}}
    };
    size_t i;
    for (i = 0; i < sizeof twice / sizeof *twice; i++)
        if (same_file(twice[i].path[0], twice[i].path[1]))
            say("warning: --%s and --%s are the same file", twice[i].option[0], twice[i].option[1]);
}

static uint64_t hash_pair(const struct text text[2], size_t i)
{
    return hash_line(line_of(&text[0], i)) * 1099511628211u ^ hash_line(line_of(&text[1], i));
}

/* Validation is for data that training has not seen. */
static void warn_of_overlap(const struct training *t)
{
    size_t n = t->text[0].count, held = t->held[0].count, i, both = 0;
    uint64_t *hashes = zeroed(n, sizeof *hashes);
    for (i = 0; i < n; i++) hashes[i] = hash_pair(t->text, i);
    qsort(hashes, n, sizeof *hashes, by_hash);
    for (i = 0; i < held; i++) {
        uint64_t hash = hash_pair(t->held, i);
        both += bsearch(&hash, hashes, n, sizeof hash, by_hash) != NULL;
    }
    free(hashes);
    if (2 * both > held)
        say("warning: %zu of %zu validation %s%s %s among the training data: the figures show what the model has "
            "memorised, not what it does with new data", both, held,
            t->s->objective == OBJECTIVE_TRANSLATE ? "pair" : "line", plural((int64_t)held), both == 1 ? "is" : "are");
}

/* What the library would refuse of the options is told before the data are read, which may take minutes: it is asked
   of the smallest model. Widths and layers count as far as they are given and do not follow from the data. */
static int check_values(const struct settings *s)
{
    trf_config config = trf_config_tiny();
    trf_train_options training = s->training;
    trf_search search = s->search;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *translator = NULL;
    trf_error err;
    int status = DONE;
    config.source_vocab = config.target_vocab = 8;
    if (was_given(s, "d-ff")) config.d_ff = s->config.d_ff;
    if (was_given(s, "d-model")) config.d_model = s->config.d_model;
    config.n_heads = was_given(s, "d-model") && was_given(s, "n-heads") ? s->config.n_heads : 1;
    if (was_given(s, "encoder-layers")) config.encoder_layers = s->config.encoder_layers;
    if (was_given(s, "decoder-layers")) config.decoder_layers = s->config.decoder_layers;
    if (!trf_model_memory(&config) && trf_model_create(&model, &config, &err)) return refused("model", &err);
    config.d_model = config.d_ff = config.n_heads = config.encoder_layers = config.decoder_layers = 1;
    config.max_length = s->config.max_length;
    config.position_offset = s->config.position_offset;
    config.norm_epsilon = s->config.norm_epsilon;
    training.source_tokens = training.target_tokens = training.sequences = training.longest = 2;
    if (!was_given(s, "warmup")) training.warmup = 1;
    if (training.schedule == TRF_COSINE && !ends_cosine(s))
        training.total_steps = training.warmup < INT64_MAX ? training.warmup + 1 : INT64_MAX;
    search.beam = s->valid_beam;
    search.max_sentences = 1;
    if (trf_model_create(&model, &config, &err)) status = refused("model", &err);
    else if (trf_trainer_create(&trainer, model, &training, &err)) status = refused("trainer", &err);
    else if (trf_translator_create(&translator, model, &search, &err)) status = refused("validation", &err);
    trf_translator_destroy(translator);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return status;
}

/* What check_values cannot ask for, as the width follows from the data and the memory is that of the batches. */
static int check_sizes(const struct settings *s)
{
    enum { MOST_TOKENS = 1 << 24, WIDEST = 65536 };
    if (was_given(s, "n-heads") && s->config.n_heads > WIDEST) {
        say("--n-heads must divide --d-model, which is at most %d, got %d", (int)WIDEST, (int)s->config.n_heads);
        return USAGE;
    }
    if (was_given(s, "batch-tokens") && s->corpus.batch_tokens > MOST_TOKENS) {
        say("--batch-tokens takes 1 to %d, got %d", (int)MOST_TOKENS, (int)s->corpus.batch_tokens);
        return USAGE;
    }
    return DONE;
}

/* Of words and characters, which is not known yet: the least that a vocabulary may have. */
static int check_vocabulary_sizes(const struct settings *s)
{
    int side;
    for (side = 0; side < 2; side++) {
        int32_t size = side ? s->target_vocab_size : s->source_vocab_size;
        const char *own = side ? "target-vocab-size" : "source-vocab-size";
        if (size == 0 || size >= 5) continue;
        say("--%s must be 5 or more, four special tokens included, got %d", was_given(s, own) ? own : "vocab-size",
            (int)size);
        return USAGE;
    }
    return DONE;
}

static int check_training(struct training *t)
{
    struct settings *s = t->s;
    int status;
    if ((status = check_data(s)) || (status = check_effects(s))) return status;
    if (standard_inputs(s) > 1) { say("only one of the files can be standard input"); return USAGE; }
    if (s->columns && !s->tsv && !s->valid_tsv) { say("--columns is for pairs in one file"); return USAGE; }
    if (check_columns(s->columns)) return USAGE;
    if (was_given(s, "dropout") && !(s->dropout >= 0 && s->dropout < 1)) {
        say("--dropout must be 0 or more and below 1, got %g", s->dropout);
        return USAGE;
    }
    if (!(s->ema >= 0 && s->ema <= 0.5)) {
        say("--ema takes the share that an update adds, from 0 to 0.5, got %g (a decay of 0.999 is a share of 0.001)",
            s->ema);
        return USAGE;
    }
    if (!(s->subword_alpha >= 0 && s->subword_alpha <= 1)) {
        say("--subword-alpha takes a number from 0 to 1, got %g", s->subword_alpha);
        return USAGE;
    }
    if (s->objective == OBJECTIVE_MASK && s->noise.masked + s->noise.randomised > 1) {
        say("--masked-share and --random-share are shares of the same tokens, at most 1 together, got %g and %g",
            s->noise.masked, s->noise.randomised);
        return USAGE;
    }
    if (!(s->minutes > 0)) { say("--minutes takes a time above 0, got %g", s->minutes); return USAGE; }
    if ((status = check_vocabulary_sizes(s)) || (status = check_sizes(s)) || (status = check_values(s)) ||
        (status = check_noise(s)) || (!s->init_from && !s->resume && (status = check_chunk(s))) ||
        (status = check_files(t))) return status;
    warn_of_same_files(s);
    return DONE;
}

/* A run that goes on appends; a line that was cut off by a kill is ended first. */
static int open_log(struct training *t)
{
    int last;
    if (!t->s->log) return DONE;
    t->log = fopen(t->s->log, t->s->resume ? "a+" : "w");
    if (!t->log) { say("cannot write '%s': %s", t->s->log, strerror(errno)); return FAILED; }
    if (t->s->resume && !fseek(t->log, -1, SEEK_END)) {
        last = getc(t->log);
        if (!fseek(t->log, 0, SEEK_END) && last != '\n' && last != EOF) fputc('\n', t->log);
    }
    return DONE;
}

static void describe(const struct training *t)
{
    const trf_config *config = trf_model_config(t->model);
    const trf_train_options *o = &t->s->training;
    static const char *const tyings[] = {"untied", "decoder", "all", "embeddings"};
    size_t bytes = trf_model_memory(config) + trf_trainer_memory(config, o);
    int64_t n = trf_corpus_size(t->corpus);
    say_skips(t);
    if (!t->explained[REASON_MODEL])
        inform("model: %d encoder and %d decoder layer%s, d-model %d, d-ff %d, ", (int)config->encoder_layers,
               (int)config->decoder_layers,
               plural(config->decoder_layers > 0 ? config->decoder_layers : config->encoder_layers),
               (int)config->d_model, (int)config->d_ff);
    inform("%s%d head%s, %s, tying %s, %s; dropout: embedding %g, residual %g, attention %g, activation %g; ema %g\n",
           t->explained[REASON_MODEL] ? "with " : "", (int)config->n_heads, plural(config->n_heads),
           config->norm_place == TRF_PRE_NORM ? "pre-norm" : "post-norm", tyings[config->tying],
           config->generator_bias ? "generator bias" : "no generator bias", o->dropout, o->residual_dropout,
           o->attention_dropout, o->activation_dropout, t->s->ema);
    inform("%lld %s%s; ", (long long)n, t->s->objective == OBJECTIVE_TRANSLATE ? "pair"
            : learns_labels(t->s) ? "text" : "chunk", plural(n));
    if (t->s->objective == OBJECTIVE_TRANSLATE)
        inform("%d source and %d target tokens; ", (int)config->source_vocab, (int)config->target_vocab);
    else if (learns_labels(t->s))
        inform("%d tokens, %d labels; ", (int)config->source_vocab, (int)config->n_labels);
    else inform("%d tokens; ", (int)(leading_side(t->s) ? config->target_vocab : config->source_vocab));
    inform("%lld weights; %.0f MB of memory; %s from update %lld\n",
            (long long)trf_model_parameter_total(t->model), (double)bytes * 1e-6, t->s->resume ? "resumed" : "training",
            (long long)trf_trainer_step(t->trainer) + 1);
    if (t->new_words > 0)
        say("%.1f %% of the words are new in a tenth of the lines, so subwords would do better: this trf was built "
            "without libsentencepiece and uses words; install libsentencepiece-dev and make again, or give subwords "
            "with --sentencepiece FILE", t->new_words);
}

static int train_once(struct settings *s, double *score)
{
    struct training t;
    int status;
    memset(&t, 0, sizeof t);
    t.s = s;
    t.score = NAN;
    watch_signals(s);
    status = check_training(&t);
    busy_with("reading the data ...\n");
    if (!status) status = read_text(&t);
    if (!status && (s->valid_tsv || s->valid_source || s->valid_text)) warn_of_overlap(&t);
    if (!status) status = s->resume ? load_training(&t) : start_training(&t);
    busy_with(NULL);
    if (!status) status = open_log(&t);
    if (!status) {
        free_text(&t.text[0]);
        free_text(&t.text[1]);
        free_vocabularies(&t);      /* the model has copies */
        free_subwords(&t);
        describe(&t);
        status = learn(&t);
    }
    *score = t.score;
    if (t.log_broken && !status) status = FAILED;
    free_training(&t);
    return status;
}

int copy_model(struct settings *s, const char *from, const char *to)
{
    trf_load_options load = load_options(s);
    trf_model *model = NULL;
    trf_error err;
    int status = trf_model_load(&model, from, &load, &err) || trf_model_save(model, to, &err) ? FAILED : DONE;
    if (status) say_error(NULL, &err);
    trf_model_destroy(model);
    return status;
}

/* As if the option had stood on the command line. */
static void give(struct settings *s, const char *name, const char *text)
{
    int i;
    for (i = 0; i < n_rows; i++) if ((rows[i].commands & TRAIN) && !strcmp(rows[i].name, name)) s->given[i] = text;
}

static char *seed_path(const char *path, uint64_t seed)
{
    return format_text("%s.seed-%llu", path, (unsigned long long)seed);
}

/* One of several trainings: its number is that of the seed. */
static int train_seed(struct settings *s, uint64_t number, double *score, char **model)
{
    struct settings one = *s;
    struct stat there;
    char *seed = format_text("%llu", (unsigned long long)number), *log = seed_path(s->log ? s->log : "", number);
    char *checkpoint;
    int status;
    *model = seed_path(s->model, number);
    checkpoint = format_text("%s.checkpoint", *model);
    give(&one, "seed", seed);
    give(&one, "model", *model);
    if (s->log && !is_device(s->log)) give(&one, "log", log);
    inform("seed %s:\n", seed);
    status = apply_given(&one);
    one.resume = s->resume && !stat(checkpoint, &there);
    if (!status) status = train_once(&one, score);
    s->metric = one.metric;         /* as it was decided */
    free(checkpoint);
    free(seed);
    free(log);
    return status;
}

/* Whether one of several trainings has begun; the others begin now. */
static int any_checkpoint(const struct settings *s)
{
    int32_t i, found = 0;
    if (s->checkpoint) { say("--resume needs checkpoints"); return 0; }
    for (i = 0; i < s->seeds && !found; i++) {
        char *model = seed_path(s->model, s->seed + (uint64_t)i), *path = format_text("%s.checkpoint", model);
        found = !access(path, F_OK);
        free(model);
        free(path);
    }
    if (!found)
        say("no training to go on with: there is no %s.seed-%llu.checkpoint, nor that of another seed", s->model,
            (unsigned long long)s->seed);
    return found;
}

/* The files of every training, before the first one begins. */
static int check_seeds(const struct settings *s)
{
    int32_t i;
    int status = DONE;
    for (i = 0; i < s->seeds && !status; i++) {
        uint64_t seed = s->seed + (uint64_t)i;
        char *model = seed_path(s->model, seed),
             *checkpoint = s->checkpoint ? NULL : format_text("%s.checkpoint", model),
             *log = s->log && !is_device(s->log) ? seed_path(s->log, seed) : NULL;
        status = check_own_names(s, model, checkpoint, log);
        if (!status && (check_written(s, "model", model) || check_written(s, "checkpoint", checkpoint) ||
                        check_written(s, "log", log))) status = FAILED;
        if (!status && !s->overwrite && !(s->resume && checkpoint && !access(checkpoint, F_OK)))
            status = check_replaced(s, model, checkpoint, log);
        if (!status) status = check_saved(s, model, checkpoint);
        free(model);
        free(checkpoint);
        free(log);
    }
    return status;
}

/* The same training from several seeds: how much of a result is luck. */
static int train_seeds(struct settings *s)
{
    double score = 0, sum = 0, squares = 0, best = 0, n = (double)s->seeds;
    char *best_model = NULL, *model;
    int32_t i;
    int status = DONE;
    if (!s->model) { say("give --model FILE, the file to write the model to"); return USAGE; }
    if (s->checkpoint && *s->checkpoint) { say("--checkpoint names one file, --seeds needs several"); return USAGE; }
    if (check_rereading(s)) return USAGE;
    if (check_written(s, "model", s->model) || check_replaceable(s->model)) return FAILED;
    if ((status = check_seeds(s))) return status;
    if (!s->overwrite && !s->resume && check_replaced(s, s->model, NULL, NULL)) return FAILED;
    if (check_read(s) || (s->resume && !any_checkpoint(s))) return FAILED;
    for (i = 0; i < s->seeds && !status; i++) {
        int32_t asked = s->metric;
        status = train_seed(s, s->seed + (uint64_t)i, &score, &model);
        sum += score;
        squares += score * score;
        if (!status && (!best_model || trf_is_better(library_metric((enum metric)s->metric), score, 0, best, 0))) {
            free(best_model);
            best_model = model;
            best = score;
        } else free(model);
        if (i + 1 < s->seeds) s->metric = asked;
        if (!status && stopped()) status = SIGNALLED + stopped();       /* it came when this one was over */
    }
    if (!status) status = copy_model(s, best_model, s->model);
    if (!status && !isfinite(sum))
        tell("%d seeds; nothing was validated to compare them by", (int)s->seeds);
    else if (!status)
        tell("%d seeds: %s mean %.4f, deviation %.4f, best %.4f; %s is in %s", (int)s->seeds,
             metric_name((enum metric)s->metric), sum / n, sqrt(fmax(0, squares - sum * sum / n) / (n - 1)), best,
             best_model, s->model);
    free(best_model);
    return status;
}

int command_train(struct settings *s, int argc, char **argv)
{
    double score;
    (void)argc;
    (void)argv;
    return s->seeds > 1 ? train_seeds(s) : train_once(s, &score);
}

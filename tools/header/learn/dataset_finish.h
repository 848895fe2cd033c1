#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/batch.h"
#include "api/learn.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/vocab_use.h"
#include "model/batches.h"
#include "model/model.h"
#include "model/texts.h"
#include "data/corpus.h"
#include "data/corpus_calls.h"
#include "learn/recipe.h"
#include "learn/learn.h"
#include "learn/choose.h"
#include "learn/dataset.h"
#include "learn/dataset_ids.h"

// >>hold-out       which pairs are for validation
//
// And what is learned from the others: labels and vocabularies. Validation must not know more than
// training, so held-out lines add no tokens.

/* Chooses the pairs to hold out by the lines in s->lines[0]. Of files of text it is the end. */
TRF__FN trf_status trf__dataset_choose(const trf_dataset *d, trf__split *s, int64_t *count,
                                       trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    int64_t size = o->held_out > s->n ? s->n : o->held_out;
    /* fewer than 20 pairs are too few to hold out one by default */
    if (size < 0 || (size == 0 && s->n < 20)) return TRF_OK;
    if (trf__is_alone(o) && o->files) {
        *count = size ? size : trf__min64(s->n / 20, 1000);
        memset(s->held + (s->n - *count), 1, (size_t)*count);
        return TRF_OK;
    }
    /* how often a text occurs is what a language model learns: its copies are on both sides */
    return trf__hold_out(s->lines[0], s->n, size,
                         trf__is_alone(o) && o->hold_out_rule == TRF_HOLD_OUT_UNSEEN
                             ? TRF_HOLD_OUT_RANDOM : o->hold_out_rule,
                         s->held, count, &o->hooks, err);
}

/* Marks the held-out pairs in s->held: those of the caller, or some. Pairs with the same source
   belong together; of texts alone the texts are compared. */
TRF__FN trf_status trf__dataset_hold_out(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf__texts *lead = &d->texts[trf__lead_of(o)];
    int64_t count = 0;
    for (int64_t i = 0; i < s->n; i++) {
        s->lines[0][i] = lead->bytes + lead->starts[i];
        count += s->held[i] = d->origins[i].held_out;
    }
    int given = count > 0;
    if (!given) TRF__TRY(trf__dataset_choose(d, s, &count, err));
    if (trf__is_labelled(o) && !trf__is_numbered(o))
        TRF__TRY(trf__labels_keep(d, s, given, &count, err));
    if (o->labels) TRF__TRY(trf__labels_take(&s->labels, o->labels, &o->hooks, err));
    return TRF__OK_IF(count < s->n || o->token_file, TRF_E_STATE, -1, "held_out",
                      "holding out %lld pair%s leaves none of %lld to learn from",
                      (long long)o->held_out, trf__plural(o->held_out), (long long)s->n);
}

/* Splits the data set, and sorts the lines by it. */
TRF__FN trf_status trf__dataset_split(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    int64_t at = 0;
    s->n = d->texts[0].count;
    if (s->n == 0 && d->options.token_file) return TRF_OK;
    TRF__FAIL_IF(s->n == 0, TRF_E_STATE, -1, "data", "expected one pair or more, got none");
    for (int side = 0; side < 2; side++)
        s->lines[side] = TRF__NEW(const char *, hooks, s->n);
    s->held = TRF__NEW(char, hooks, (size_t)s->n);
    s->used = TRF__NEW_ZEROED(char, hooks, (size_t)s->n);
    TRF__FAIL_IF(!s->lines[0] || !s->lines[1] || !s->held || !s->used, TRF_E_NOMEM, -1, "data",
                 "no memory for %lld lines", (long long)s->n);
    TRF__TRY(trf__dataset_hold_out(d, s, err));
    for (int held = 0; held < 2; held++) {
        for (int64_t i = 0; i < s->n; i++) {
            if (s->held[i] != held) continue;
            for (int side = 0; side < 2; side++)
                s->lines[side][at] = d->texts[side].bytes + d->texts[side].starts[i];
            at++;
        }
        if (!held) s->train = at;
    }
    return TRF_OK;
}

/* How many numbers each pair has: those of the first pair to learn from that has nothing else. */
TRF__FN trf_status trf__dataset_numbers(trf__split *s, trf_error *err)
{
    trf__label word;
    int32_t label;
    int64_t i;
    int got = -1;
    for (i = 0; i < s->train && (got < 0 || !s->numbers); i++) {
        const char *line = s->lines[1][i];
        for (s->numbers = 0; (got = trf__next_number(&word, &line, &label)) > 0; s->numbers++) {}
    }
    if (got == 0 && s->numbers > 0 && s->numbers <= TRF__MOST_LABELS) return TRF_OK;
    TRF__FAIL_IF(got == 0 && s->numbers > 0, TRF_E_LIMIT, i - 1, "labels",
                 "a text has %lld numbers, at most %d", (long long)s->numbers,
                 (int)TRF__MOST_LABELS);
    return trf__fail(err, TRF_E_STATE, -1, "labels", "expected numbers, but no text has any");
}

/* Joins the labels to a text, which the model stores. */
TRF__FN trf_status trf__dataset_labels(trf_dataset *d, const trf__labels *l, trf_error *err)
{
    if (!trf__is_labelled(&d->options)) return TRF_OK;
    if (trf__is_numbered(&d->options)) return trf__dataset_numbers(&d->split, err);
    TRF__FAIL_IF(l->n < 2 - (d->options.label_kind == TRF_LABELS_ANY), TRF_E_STATE, -1, "labels",
                 "expected %s or more, got %d", d->options.label_kind ? "a label" : "two labels",
                 (int)l->n);
    d->labels_bytes = 0;
    for (int64_t i = 0; i < l->n; i++) d->labels_bytes += l->items[i].n + 1;
    char *to = d->labels = TRF__NEW(char, &d->options.hooks, d->labels_bytes);
    TRF__FAIL_IF(!to, TRF_E_NOMEM, -1, "labels", "no memory for %d labels", (int)l->n);
    for (int64_t i = 0; i < l->n; to += l->items[i++].n + 1) {
        memcpy(to, l->items[i].text, l->items[i].n);
        to[l->items[i].n] = i + 1 < l->n ? '\n' : 0;
    }
    return TRF_OK;
}

/* Learns the vocabulary of the lines of one side, or of both. */
TRF__FN trf_status trf__learn_vocab(trf_dataset *d, const trf__split *s, int first, int last,
                                    trf_tokens tokens, int32_t size, trf_error *err)
{
    trf_vocab **vocab = &d->vocab[first];
    TRF__TRY(trf_vocab_create(vocab, tokens == TRF_TOKENS_CHARACTERS ? TRF_CHARACTERS : TRF_WORDS,
                              &d->options.hooks, err));
    for (int side = first; side <= last; side++)
        for (int64_t i = 0; i < s->train; i++) {
            trf_status status = trf_vocab_learn(*vocab, s->lines[side][i], err);
            /* TRF_E_LIMIT: a word too long for a vocabulary stays unknown */
            if (status != TRF_OK && status != TRF_E_LIMIT) return status;
        }
    /* max_vocab bounds the size that trf_tokens_choose proposes */
    if (size > d->options.max_vocab) size = d->options.max_vocab;
    return trf_vocab_finish(*vocab, size, d->options.min_count, err);
}

/* The kind of tokens of a vocabulary, or without one the caller's choice. */
TRF__FN trf_tokens trf__tokens_of(const trf_vocab *vocab, trf_tokens otherwise)
{
    if (!vocab) return otherwise;
    return trf_vocab_kind(vocab) == TRF_WORDS ? TRF_TOKENS_WORDS
         : trf_vocab_kind(vocab) == TRF_CHARACTERS ? TRF_TOKENS_CHARACTERS : TRF_TOKENS_SUBWORDS;
}

/* Appends a line to the recipe's reasons; a full text drops it. */
TRF__FN void trf__put_reason(trf_recipe *r, const char *line)
{
    size_t n = strlen(r->reasons);
    if (n < sizeof r->reasons) snprintf(r->reasons + n, sizeof r->reasons - n, "%s\n", line);
}

/* Appends the reason for the tokens of one side. */
TRF__FN void trf__tokens_reason(trf_dataset *d, const trf_token_choice *choice, int side)
{
    static const char *const names[4] = {"", "words", "characters", "subwords"};
    char line[320], why[200] = "as given";
    if (!d->chosen[side]) { }
    else if (choice->unknown[side] != choice->unknown[side]) snprintf(why, sizeof why,
                                                                      "too few lines to tell");
    else snprintf(why, sizeof why, "%.1f %% of the words in a tenth of the lines are new%s",
                  choice->unknown[side], choice->would_be_subwords[side]
                  ? ": subwords would do better (trf_vocab_load)" : "");
    snprintf(line, sizeof line, "%s: %s, %d tokens (%s)", side ? "target" : "source",
             names[choice->tokens[side]], (int)trf_vocab_size(d->vocab[side]), why);
    trf__put_reason(&d->recipe, line);
}

/* All lines, as callers see them. */
TRF__FN trf_data_lines trf__lines_of(const trf__split *s)
{
    const trf_data_lines lines = {s->lines[0], s->lines[1], s->train, s->n - s->train, s->used};
    return lines;
}

/* Copies the given vocabularies, and asks the caller for others. */
TRF__FN trf_status trf__dataset_given_vocabs(trf_dataset *d, const trf__split *s, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf_vocab *const given[2] = {o->source_vocab, o->target_vocab};
    trf_data_lines lines = trf__lines_of(s);
    for (int side = 0; side < 2; side++) {
        if (!trf__dataset_reads(o, side) || !given[side]) continue;
        if (side && d->vocab[0] && given[0] == given[1]) d->vocab[1] = d->vocab[0];
        else TRF__TRY(trf_vocab_copy(&d->vocab[side], given[side], &o->hooks, err));
    }
    if (!o->make_vocabs) return TRF_OK;
    lines.used = NULL;
    TRF__TRY(o->make_vocabs(o->user, &lines, d->vocab, err));
    if (!o->config) TRF__TRY(trf__check_usual_ids(d->vocab[0], "source_vocab", err));
    return o->config ? TRF_OK : trf__check_usual_ids(d->vocab[1], "target_vocab", err);
}

/* Makes the vocabularies: those of the caller, others from the lines to learn from. */
TRF__FN trf_status trf__dataset_vocabs(trf_dataset *d, const trf__split *s,
                                       trf_token_choice *choice, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const int first = !trf__dataset_reads(o, 0), last = trf__dataset_reads(o, 1);
    TRF__TRY(trf__dataset_given_vocabs(d, s, err));
    memset(choice, 0, sizeof *choice);
    choice->tokens[0] = trf__tokens_of(d->vocab[0], o->source_tokens);
    choice->tokens[1] = trf__tokens_of(d->vocab[1], o->target_tokens);
    for (int side = 0; side < 2; side++) d->chosen[side] = choice->tokens[side] == TRF_TOKENS_AUTO;
    if ((first || d->vocab[0]) && (!last || d->vocab[1])) return TRF_OK;
    choice->vocabularies = d->vocab[0] || d->vocab[1] ? 2 : 0;
    choice->no_subwords = 1;
    TRF__TRY(trf_tokens_choose(choice, first ? NULL : s->lines[0], last ? s->lines[1] : NULL,
                               s->train, &o->hooks, err));
    int one = first < last && choice->vocabularies == 1;
    for (int side = first; side <= last; side++) {
        if (side && one) d->vocab[1] = d->vocab[0];
        else if (!d->vocab[side]) TRF__TRY(trf__learn_vocab(d, s, side, side || one,
                                                            choice->tokens[side],
                                                            choice->vocab_size[side], err));
    }
    return TRF_OK;
}

// >>dataset-lines  all lines as ids

/* Encodes all lines, those to learn from and those held out. */
TRF__FN trf_status trf__encode_lines(trf_dataset *d, const trf__split *s, trf_error *err)
{
    int64_t at = 0;
    for (int held = 0; held < 2; held++) {
        for (int64_t i = 0; i < s->n; i++) {
            if (s->held[i] != held) continue;
            const char *const text[2] = {s->lines[0][at], s->lines[1][at]};
            TRF__TRY(trf__encode_line(d, text, &d->origins[i], held, &s->used[at++], err));
        }
        TRF__TRY(trf__end_stream(d, held, err));
    }
    return TRF_OK;
}

// >>dataset-finish recipe, corpus and model
//
// The recipe is computed twice: it needs the number of updates an epoch, which needs a corpus,
// whose batches the recipe decides. They do not depend on that number: the second time is final.

/* Statistics of the pairs to learn from. */
TRF__FN void trf__dataset_stats(trf_dataset *d, const trf__split *s)
{
    const trf_token_facts *f = &d->told.facts;
    trf_data_stats *a = &d->stats;
    trf_data_kind kind = d->options.kind;
    a->kind = trf__is_labelled(&d->options) || kind == TRF_DATA_SOURCES ? TRF_ENCODER_ONLY
            : kind == TRF_DATA_TEXTS ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER;
    if (trf__is_labelled(&d->options)) a->head =
        kind == TRF_DATA_TAGGED ? TRF_HEAD_TOKENS : TRF_HEAD_MEAN;
    if (kind == TRF_DATA_SOURCES) a->head = TRF_HEAD_MASKED;
    a->n_labels = (int32_t)(trf__is_numbered(&d->options) ? s->numbers : s->labels.n);
    a->label_kind = d->options.label_kind;
    a->pairs = f->pairs;
    a->different = f->different < f->pairs ? f->different : f->pairs;
    a->source_tokens = f->source_ids + f->pairs;    /* + 1 mark each, empty sides too */
    a->target_tokens = f->target_ids + f->pairs;
    a->longest = f->longest;
    a->longest_source = f->longest_source;
    a->longest_target = f->longest_target;
    a->source_vocab = trf__dataset_reads(&d->options, 0) ? trf_vocab_size(d->vocab[0]) : 0;
    a->target_vocab = trf__dataset_reads(&d->options, 1) ? trf_vocab_size(d->vocab[1]) : 0;
    a->one_vocabulary = d->vocab[0] == d->vocab[1];
    a->updates = d->options.updates;
    a->effort = d->options.effort;
}

TRF__FN trf_status trf__dataset_recipe(trf_dataset *d, trf_error *err)
{
    trf_recipe *r = &d->recipe;
    const trf_hooks *hooks = &d->options.hooks;
    TRF__TRY(trf_recipe_find(r, &d->stats, err));
    r->config.seed = r->training.seed = r->corpus.seed = d->options.seed;
    r->config.device = d->options.device;
    r->config.hooks = r->training.hooks = r->corpus.hooks = *hooks;
    r->learning.say = d->options.say;
    r->learning.user = d->options.user;
    if (d->options.kind == TRF_DATA_TEXTS) r->config.target_eos = 0;    /* their ids contain EOS */
    return TRF_OK;
}

/* Makes the corpus, empty or with the pairs of the token file. */
TRF__FN trf_status trf__dataset_open_corpus(trf_dataset *d, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    trf_corpus_options any = trf_corpus_defaults();
    any.max_length = o->max_length;
    any.hooks = o->hooks;
    any.path = o->token_file;
    any.source_vocab = d->vocab[0];
    any.target_vocab = d->vocab[1];
    TRF__TRY(trf_corpus_create(&d->corpus, &any, err));
    if (any.path) d->told.facts = *trf_corpus_facts(d->corpus);
    return TRF_OK;
}

/* Appends the reasons that concern the data. */
TRF__FN void trf__dataset_reasons(trf_dataset *d, const trf_token_choice *choice)
{
    char line[200];
    for (int side = 0; side < 2; side++) if (d->vocab[side]) trf__tokens_reason(d, choice, side);
    snprintf(line, sizeof line,
             "data: %lld to learn from, %lld to validate on, %lld left out (empty, without "
             "matching labels, or longer than %d tokens)", (long long)d->stats.pairs,
             (long long)d->held[1].count, (long long)(d->left_out + d->unreadable),
             (int)d->options.max_length);
    trf__put_reason(&d->recipe, line);
}

/* Sets told.stream if a tenth of about 1,000 chunks ends without EOS: their text goes on. */
TRF__FN trf_status trf__dataset_find_stream(trf_dataset *d, trf_error *err)
{
    const int32_t eos = trf__end_of_texts(d);
    int64_t n = 0, open = 0;
    trf_status status = TRF_OK;
    trf_batch batch;
    if (d->options.kind != TRF_DATA_TEXTS) return TRF_OK;
    while (n < 1000 && (status = trf_corpus_next(d->corpus, &batch, err)) == TRF_OK) {
        const int32_t *end = batch.target.ids;
        for (int32_t i = 0; i < batch.target.count; i++, n++) {
            end += batch.target.lengths[i];
            open += batch.target.lengths[i] > 0 && end[-1] != eos;
        }
    }
    trf__corpus_rewind(d->corpus);
    d->told.stream = n > 0 && 10 * open >= n;
    if (status != TRF_E_END) return status;
    trf__clear(err);
    return TRF_OK;
}

/* All steps of finishing. */
TRF__FN trf_status trf__dataset_build(trf_dataset *d, trf__split *s, trf_error *err)
{
    trf_token_choice choice;
    TRF__TRY(trf__dataset_split(d, s, err));
    TRF__TRY(trf__dataset_labels(d, &s->labels, err));
    TRF__TRY(trf__dataset_vocabs(d, s, &choice, err));
    TRF__TRY(trf__dataset_open_corpus(d, err));
    TRF__TRY(trf__encode_lines(d, s, err));
    TRF__TRY(trf__count_different(s->lines[0], s->lines[1], s->train, &d->told.facts.different,
                                  &d->options.hooks, err));
    TRF__FAIL_IF(d->told.facts.longest == 0, TRF_E_STATE, -1, "data",
                 "none of %lld pairs can be learned from: all are empty, do not match their "
                 "labels, or are longer than %d ids",
                 (long long)(d->options.token_file ? d->told.facts.pairs : s->train),
                 (int)d->options.max_length);
    trf__dataset_stats(d, s);
    TRF__TRY(trf__dataset_recipe(d, err));
    TRF__TRY(trf_corpus_set_options(d->corpus, &d->recipe.corpus, err));
    /* with the pools of a token file it takes long to count batches: they are estimated */
    if (!d->options.token_file) {
        TRF__TRY(trf_corpus_batches(d->corpus, &d->stats.updates_per_epoch, err));
        TRF__TRY(trf__dataset_recipe(d, err));
    }
    TRF__TRY(trf__dataset_find_stream(d, err));
    trf_sequences *const to[2] = {&d->held_out.source, &d->held_out.target};
    for (int side = 0; side < 2; side++) {
        to[side]->ids = d->held[side].ids;
        to[side]->lengths = d->held[side].lengths;
        to[side]->count = (int32_t)d->held[side].count;
    }
    trf__dataset_reasons(d, &choice);
    d->finished = 1;
    return TRF_OK;
}

TRF_API trf_status trf_dataset_finish(trf_dataset *data, trf_error *err)
{
    TRF__TRY(trf__dataset_open(data, err));
    if (data->options.pair) {           /* a stream may still hold the end of a text */
        TRF__TRY(trf__end_stream(data, 0, err));
        data->finished = 1;
        return TRF_OK;
    }
    trf_hooks hooks = data->options.hooks;
    trf_status status = trf__dataset_build(data, &data->split, err);
    trf__encoding_free(&data->encoding, &hooks);
    /* after a failure the data set is as before: the caller may add pairs and finish again */
    if (status != TRF_OK) { trf__dataset_clear(data); return status; }
    if (!data->options.keep_texts) {
        trf__split_free(&data->split, &hooks);
        trf__dataset_forget(data);
    }
    data->told.recipe = &data->recipe;
    data->told.corpus = data->corpus;
    if (data->held[1].count) data->told.held_out = &data->held_out;
    data->told.labels = data->labels;
    data->told.lines = trf__lines_of(&data->split);
    return TRF_OK;
}

// >>dataset-given  what a finished data set has

/* Compiled for size, so that GCC 12 does not inline it and warn of printing a NULL string. */
TRF_API const trf_data_results *trf_dataset_results(const trf_dataset *data)
{
    return data && data->finished ? &data->told : NULL;
}

TRF_API const char *trf_dataset_held_out_text(const trf_dataset *data, int32_t pair, trf_side side)
{
    if (!data || (side != TRF_SOURCE && side != TRF_TARGET)) return NULL;
    const trf__texts *t = &data->held_texts[side];
    return pair >= 0 && pair < t->count ? t->bytes + t->starts[pair] : NULL;
}

TRF__FN trf_status trf__dataset_note(trf_model *model, const char *key, int64_t number,
                                     trf_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return trf_model_set_metadata(model, key, text, err);
}

/* The model gets vocabularies, labels and what trf reports about the data as metadata. */
TRF__FN trf_status trf__dataset_tell(const trf_dataset *data, trf_model *model, trf_error *err)
{
    const trf_token_facts *f = &data->told.facts;
    const int labelled = trf__is_labelled(&data->options);
    TRF__TRY(trf_model_set_vocabs(model, data->vocab[0], data->vocab[1], err));
    TRF__TRY(trf__dataset_note(model, "trained.longest", data->stats.longest, err));
    if (data->told.stream) TRF__TRY(trf_model_set_metadata(model, "trained.stream", "1", err));
    if (!labelled) TRF__TRY(trf__dataset_note(model, "target.unknown", f->target_unknown, err));
    if (!labelled && f->source_ids)
        TRF__TRY(trf__dataset_note(model, "trained.ratio",
                                   (int64_t)(1000.0 * (double)f->target_ids /
                                             (double)f->source_ids), err));
    TRF__TRY(trf_model_set_metadata(model, "source.outer_blanks", f->outer_blanks ? "some" : "none",
                                    err));
    return data->labels ? trf_model_set_metadata(model, "labels", data->labels, err) : TRF_OK;
}

TRF_API trf_status trf_dataset_create_model(const trf_dataset *data, trf_model **model,
                                            trf_error *err)
{
    TRF__BEGIN_NEW(model);
    TRF__TRY(trf__begin(data, "data", err));
    TRF__FAIL_IF(!data->finished, TRF_E_STATE, -1, "data",
                 "expected a finished data set, got one that is not finished");
    TRF__TRY(trf_model_create(model, &data->recipe.config, NULL, err));
    return trf__model_or_destroy(model, trf__dataset_tell(data, *model, err));
}

/* One model, whose seeds are those of the recipe plus `more`. */
TRF__FN trf_status trf__dataset_train_one(trf_dataset *data, trf_model **model, uint64_t more,
                                          trf_model *const *teachers, int32_t n_teachers,
                                          trf_learn_report *report, trf_error *err)
{
    trf_recipe *r = &data->recipe;
    trf_train_options training = r->training;
    trf_trainer *trainer = NULL;
    trf__corpus_rewind(data->corpus);
    training.seed += more;
    r->config.seed += more;
    trf_status status = trf_dataset_create_model(data, model, err);
    r->config.seed -= more;
    if (status == TRF_OK) status = trf_trainer_create(&trainer, *model, &training, err);
    if (status == TRF_OK && n_teachers)
        status = trf_trainer_set_teachers(trainer, (const trf_model *const *)teachers, n_teachers,
                                          r->teacher_share, err);
    if (status == TRF_OK)
        status = trf_trainer_learn(trainer, data->corpus, data->told.held_out,
                                   &r->learning, report, err);
    trf_trainer_destroy(trainer);
    return trf__model_or_destroy(model, status);
}

TRF_API trf_status trf_dataset_train(trf_dataset *data, trf_model **model, trf_learn_report *report,
                                     trf_error *err)
{
    trf_model *teachers[TRF_MAX_MODELS];
    trf_status status = TRF_OK;
    if (report) memset(report, 0, sizeof *report);
    TRF__BEGIN_NEW(model);
    TRF__TRY(trf__begin(data, "data", err));
    if (!data->finished) TRF__TRY(trf_dataset_finish(data, err));
    TRF__FAIL_IF(!data->corpus, TRF_E_STATE, -1, "data",
                 "a data set with the callback `pair` keeps nothing to learn from");
    TRF__FAIL_IF(data->options.kind == TRF_DATA_SOURCES && !data->recipe.learning.noise,
                 TRF_E_STATE, -1, "noise",
                 "an encoder learns hidden ids: call trf_dataset_finish, then set "
                 "recipe->learning.noise");
    int32_t n = data->recipe.teachers;
    TRF__TRY(trf__check_range("teachers", n, 0, TRF_MAX_MODELS, err));
    TRF__ZERO(teachers);
    for (int32_t k = 0; k < n && status == TRF_OK; k++)
        status = trf__dataset_train_one(data, &teachers[k], (uint64_t)(k + 1), NULL, 0, NULL, err);
    if (status == TRF_OK)
        status = trf__dataset_train_one(data, model, 0, teachers, n, report, err);
    for (int32_t k = 0; k < n; k++) trf_model_destroy(teachers[k]);
    return status;
}

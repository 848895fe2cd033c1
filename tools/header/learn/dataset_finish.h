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
#include "model/model.h"
#include "model/texts.h"
#include "data/corpus.h"
#include "data/corpus_calls.h"
#include "learn/recipe.h"
#include "learn/choose.h"
#include "learn/dataset.h"

// >>hold-out       which pairs are for validation
//
// And what is learned from the others: labels and vocabularies. Validation must not know more than
// training, so held-out lines add no tokens.

/* Marks the held-out pairs in s->held. Sources are compared, of texts alone the texts. */
TRF__FN trf_status trf__dataset_hold_out(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf__texts *lead = &d->texts[o->kind == TRF_DATA_TEXTS];
    int64_t size = o->held_out > s->n ? s->n : o->held_out, count = 0, i;
    memset(s->held, 0, (size_t)s->n);
    for (i = 0; i < s->n; i++) s->lines[0][i] = lead->bytes + lead->starts[i];
    /* fewer than 20 pairs are too few to hold out one by default */
    if (size >= 0 && (size > 0 || s->n >= 20))
        TRF__TRY(trf_hold_out(s->lines[0], s->n, size, TRF_HOLD_OUT_RANDOM, s->held, &count,
                              &o->hooks, err));
    if (o->kind >= TRF_DATA_LABELLED) TRF__TRY(trf__labels_keep(d, s, &count, err));
    if (count < s->n) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "held_out",
                     "holding out %lld pair%s leaves none of %lld to learn from",
                     (long long)o->held_out, trf__plural(o->held_out), (long long)s->n);
}

/* Splits the data set, and sorts the lines by it. */
TRF__FN trf_status trf__dataset_split(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    int64_t i, at;
    int side, held;
    s->n = d->texts[0].count;
    if (s->n == 0) return trf__fail(err, TRF_E_STATE, -1, "data",
                                    "expected one pair or more, got none");
    for (side = 0; side < 2; side++)
        s->lines[side] = (const char **)trf__alloc(hooks, trf__bytes(s->n, sizeof *s->lines[side]));
    s->held = (char *)trf__alloc(hooks, (size_t)s->n);
    if (!s->lines[0] || !s->lines[1] || !s->held)
        return trf__fail(err, TRF_E_NOMEM, -1, "data", "no memory for %lld lines", (long long)s->n);
    TRF__TRY(trf__dataset_hold_out(d, s, err));
    for (side = 0; side < 2; side++)
        for (held = 0, at = 0; held < 2; held++) {
            for (i = 0; i < s->n; i++)
                if (s->held[i] == held)
                    s->lines[side][at++] = d->texts[side].bytes + d->texts[side].starts[i];
            if (!held) s->train = at;
        }
    return TRF_OK;
}

/* Joins the labels to a text, which the model stores. */
TRF__FN trf_status trf__dataset_labels(trf_dataset *d, const trf__split *s, trf_error *err)
{
    int64_t i;
    char *to;
    if (d->options.kind < TRF_DATA_LABELLED) return TRF_OK;
    if (s->n_labels < 2)
        return trf__fail(err, TRF_E_STATE, -1, "labels", "expected two labels or more, got %d",
                         (int)s->n_labels);
    d->labels_bytes = 0;
    for (i = 0; i < s->n_labels; i++) d->labels_bytes += s->labels[i].n + 1;
    to = d->labels = (char *)trf__alloc(&d->options.hooks, d->labels_bytes);
    if (!to) return trf__fail(err, TRF_E_NOMEM, -1, "labels", "no memory for %d labels",
                              (int)s->n_labels);
    for (i = 0; i < s->n_labels; to += s->labels[i++].n + 1) {
        memcpy(to, s->labels[i].text, s->labels[i].n);
        to[s->labels[i].n] = i + 1 < s->n_labels ? '\n' : 0;
    }
    return TRF_OK;
}

/* Learns the vocabulary of the lines of one side, or of both. */
TRF__FN trf_status trf__learn_vocab(trf_dataset *d, const trf__split *s, int first, int last,
                                    trf_tokens tokens, int32_t size, trf_error *err)
{
    trf_vocab **vocab = &d->vocab[first];
    int side;
    int64_t i;
    TRF__TRY(trf_vocab_create(vocab, tokens == TRF_TOKENS_CHARACTERS ? TRF_CHARACTERS : TRF_WORDS,
                              &d->options.hooks, err));
    for (side = first; side <= last; side++)
        for (i = 0; i < s->train; i++) {
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

/* Whether the caller left the kind of tokens of a side open. */
TRF__FN int trf__asks(const trf_dataset *d, int side)
{
    const trf_dataset_options *o = &d->options;
    return side ? !o->target_vocab && o->target_tokens == TRF_TOKENS_AUTO
                : !o->source_vocab && o->source_tokens == TRF_TOKENS_AUTO;
}

/* Appends the reason for the tokens of one side. */
TRF__COLD
TRF__FN void trf__tokens_reason(trf_dataset *d, const trf_token_choice *choice, int side)
{
    static const char *const names[4] = {"", "words", "characters", "subwords"};
    char line[200], why[120] = "as given";
    if (!trf__asks(d, side)) { }
    else if (choice->unknown[side] != choice->unknown[side]) snprintf(why, sizeof why,
                                                                      "too few lines to tell");
    else snprintf(why, sizeof why, "%.1f %% of the words in a tenth of the lines are new%s",
                  choice->unknown[side],
                  choice->would_be_subwords[side]
                  ? ": subwords would do better (trf_vocab_load_sentencepiece)" : "");
    snprintf(line, sizeof line, "%s: %s, %d tokens (%s)", side ? "target" : "source",
             names[choice->tokens[side]], (int)trf_vocab_size(d->vocab[side]), why);
    trf__put_reason(&d->recipe, line);
}

/* Makes the vocabularies: copies of the given ones, others from the lines to learn from. */
TRF__COLD
TRF__FN trf_status trf__dataset_vocabs(trf_dataset *d, const trf__split *s,
                                       trf_token_choice *choice, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf_vocab *const given[2] = {o->source_vocab, o->target_vocab};
    const int first = o->kind == TRF_DATA_TEXTS, last = o->kind <= TRF_DATA_TEXTS;
    int side, one;
    /* labels have no vocabulary, texts alone have no source */
    memset(choice, 0, sizeof *choice);
    choice->tokens[0] = trf__tokens_of(given[0], o->source_tokens);
    choice->tokens[1] = trf__tokens_of(given[1], o->target_tokens);
    choice->vocabularies = given[0] || given[1] ? (given[0] == given[1] ? 1 : 2) : 0;
    choice->no_subwords = 1;
    TRF__TRY(trf_tokens_choose(choice, first ? NULL : s->lines[0], last ? s->lines[1] : NULL,
                               s->train, &o->hooks, err));
    one = first < last && choice->vocabularies == 1;
    for (side = first; side <= last; side++) {
        if (side && one) d->vocab[1] = d->vocab[0];
        else if (given[side]) TRF__TRY(trf_vocab_copy(&d->vocab[side], given[side], &o->hooks,
                                                      err));
        else TRF__TRY(trf__learn_vocab(d, s, side, side || one, choice->tokens[side],
                                       choice->vocab_size[side], err));
    }
    return TRF_OK;
}

// >>dataset-ids    texts as ids
//
// A line that cannot be learned from is left out and counted. Only memory and invalid text are
// errors.

TRF__FN trf_status trf__ids_add(trf__text_ids *to, const int32_t *ids, int32_t n,
                                const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(int32_t, to->ids, to->capacity, to->n + n, hooks);
    memcpy(to->ids + to->n, ids, (size_t)n * sizeof *ids);
    to->n += n;
    return TRF_OK;
}

/* Adds the number of the label of line i. An unknown label adds nothing, so the line is left out.
   */
TRF__FN trf_status trf__encode_label(const trf_dataset *d, const trf__split *s, int64_t i,
                                     trf__text_ids *ids, trf_error *err)
{
    const char *line = s->lines[1][i];
    trf__label label;
    int32_t number = trf__next_label(&label, &line, 0) ? trf__label_number(s, &label) : -1;
    return number < 0 ? TRF_OK : trf__ids_add(ids, &number, 1, &d->options.hooks, err);
}

/* Encodes a tagged line. Words are encoded one by one, because the first token of each word has its
   label; the others have -1, which has no loss. Among characters a blank precedes each word but the
   first, and then the label belongs to the token after it. A word of invisible characters may have
   no subword: it becomes one unknown token. No ids result if words and labels differ in number, or
   a label is unknown. */
TRF__FN trf_status trf__encode_tagged(const trf_dataset *d, const trf__split *s, int64_t i,
                                      trf__text_ids ids[2], trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    const char *text = s->lines[0][i], *tags = s->lines[1][i];
    int spaced = trf_vocab_kind(d->vocab[0]) == TRF_CHARACTERS, more[2];
    trf__text_ids piece;
    trf__texts word;
    trf__label x, tag;
    trf_status status = TRF_OK;
    TRF__ZERO(piece);
    TRF__ZERO(word);
    ids[0].n = ids[1].n = 0;
    for (;;) {
        int32_t number, k, blank = spaced && ids[0].n > 0;
        more[0] = trf__next_label(&x, &text, 1);
        more[1] = trf__next_label(&tag, &tags, 1);
        number = more[0] && more[1] ? trf__label_number(s, &tag) : -1;
        if (number < 0) break;
        word.used = word.count = 0;
        /* the byte before the word may be any blank, or a tab: the copy gets a space */
        status = trf__texts_add(&word, x.text - blank, x.n + (size_t)blank, hooks, err);
        if (status == TRF_OK && blank) *word.bytes = ' ';
        if (status == TRF_OK) status = trf__encode_all(d->vocab[0], word.bytes, &piece, hooks, err);
        if (status == TRF_OK && piece.n == 0)
            piece.ids[piece.n++] = trf_vocab_special(d->vocab[0], TRF_SPECIAL_UNK);
        if (status == TRF_OK) status = trf__ids_add(&ids[0], piece.ids, piece.n, hooks, err);
        for (k = 0; k < piece.n; k++) piece.ids[k] = k == blank ? number : -1;
        if (status == TRF_OK) status = trf__ids_add(&ids[1], piece.ids, piece.n, hooks, err);
        if (status != TRF_OK) break;
    }
    if (more[0] || more[1]) ids[0].n = ids[1].n = 0;
    trf__texts_free(&word, hooks);
    trf__free(hooks, piece.ids, trf__bytes(piece.capacity, sizeof *piece.ids));
    return status;
}

/* Encodes one side of line i. Texts alone end with EOS. */
TRF__FN trf_status trf__encode_line(const trf_dataset *d, const trf__split *s, int side, int64_t i,
                                    trf__text_ids *ids, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    const int32_t eos = 2;      /* the same in every vocabulary */
    ids->n = 0;
    if (!d->vocab[side]) return d->labels && side ? trf__encode_label(d, s, i, ids, err) : TRF_OK;
    TRF__TRY(trf__encode_all(d->vocab[side], s->lines[side][i], ids, hooks, err));
    if (d->options.kind != TRF_DATA_TEXTS || ids->n == 0) return TRF_OK;
    return trf__ids_add(ids, &eos, 1, hooks, err);
}

TRF__FN trf_status trf__side_add(trf__side *to, const int32_t *ids, int32_t n,
                                 const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(int32_t, to->ids, to->capacity, to->used + n, hooks);
    TRF__GROW(int32_t, to->lengths, to->lengths_capacity, to->count + 1, hooks);
    if (n) memcpy(to->ids + to->used, ids, (size_t)n * sizeof *ids);
    to->used += n;
    to->lengths[to->count++] = n;
    return TRF_OK;
}

enum { TRF__LONGEST_TEXT = 511 };       /* max_length of the presets, without BOS or EOS */

/* Adds the sequences of line i if it can be learned from: a pair, or the parts of a text. */
TRF__FN trf_status trf__encode_pair(trf_dataset *d, const trf__split *s, int64_t i,
                                    trf__text_ids ids[2], trf__side to[2], trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    int texts = d->options.kind == TRF_DATA_TEXTS, side;
    int32_t at;
    if (d->options.kind == TRF_DATA_TAGGED) TRF__TRY(trf__encode_tagged(d, s, i, ids, err));
    else for (side = 0; side < 2; side++) TRF__TRY(trf__encode_line(d, s, side, i, &ids[side],
                                                                    err));
    if (!ids[1].n || (!texts && (!ids[0].n || ids[0].n > TRF__LONGEST_TEXT ||
                                 ids[1].n > TRF__LONGEST_TEXT))) {
        d->left_out++;
        return TRF_OK;
    }
    if (!texts) {
        for (side = 0; side < 2; side++) TRF__TRY(trf__side_add(&to[side], ids[side].ids,
                                                                ids[side].n, hooks, err));
        return TRF_OK;
    }
    for (at = 0; at < ids[1].n; at += TRF__LONGEST_TEXT) {
        int32_t n = ids[1].n - at < TRF__LONGEST_TEXT ? ids[1].n - at : TRF__LONGEST_TEXT;
        TRF__TRY(trf__side_add(&to[1], ids[1].ids + at, n, hooks, err));
    }
    return TRF_OK;
}

/* Encodes all lines, those to learn from and those held out. */
TRF__FN trf_status trf__encode_lines(trf_dataset *d, const trf__split *s, trf__side learn[2],
                                     trf_error *err)
{
    trf__text_ids ids[2];
    trf_status status = TRF_OK;
    int64_t i;
    int side;
    TRF__ZERO(ids);
    for (i = 0; i < s->n && status == TRF_OK; i++)
        status = trf__encode_pair(d, s, i, ids, i < s->train ? learn : d->held, err);
    for (side = 0; side < 2; side++)
        trf__free(&d->options.hooks, ids[side].ids,
                  trf__bytes(ids[side].capacity, sizeof *ids[side].ids));
    return status;
}

// >>dataset-finish recipe, corpus and model
//
// The recipe is computed twice: it needs the number of updates an epoch, which needs a corpus,
// whose batches the recipe decides. Batches do not depend on that number, so the second time is
// final.

/* Statistics of the pairs to learn from. */
TRF__FN void trf__dataset_stats(trf_dataset *d, const trf__split *s, const trf__side learn[2])
{
    trf_data_stats *a = &d->stats;
    int64_t i;
    int side;
    a->kind = d->labels ? TRF_ENCODER_ONLY : d->options.kind == TRF_DATA_TEXTS ? TRF_DECODER_ONLY
            : TRF_ENCODER_DECODER;
    if (d->labels) a->head = d->options.kind == TRF_DATA_TAGGED ? TRF_HEAD_TOKENS : TRF_HEAD_MEAN;
    a->n_labels = (int32_t)s->n_labels;
    a->pairs = learn[1].count;
    a->source_tokens = learn[0].used + learn[1].count;      /* + 1 mark each, empty sides too */
    a->target_tokens = learn[1].used + learn[1].count;
    for (side = 0; side < 2; side++)
        for (i = 0; i < learn[side].count; i++)
            if (learn[side].lengths[i] > a->longest) a->longest = learn[side].lengths[i];
    for (i = 0; d->vocab[1] && i < learn[1].used; i++)
        d->unknown += learn[1].ids[i] == trf_vocab_special(d->vocab[1], TRF_SPECIAL_UNK);
    a->source_vocab = d->vocab[0] ? trf_vocab_size(d->vocab[0]) : 0;
    a->target_vocab = d->vocab[1] ? trf_vocab_size(d->vocab[1]) : 0;
    a->one_vocabulary = d->vocab[0] == d->vocab[1];
    a->updates = d->options.updates;
}

TRF__FN trf_status trf__dataset_recipe(trf_dataset *d, trf_error *err)
{
    trf_recipe *r = &d->recipe;
    const trf_hooks *hooks = &d->options.hooks;
    TRF__TRY(trf_recipe_find(r, &d->stats, err));
    r->config.seed = r->training.seed = r->corpus.seed = d->options.seed;
    r->config.hooks = r->training.hooks = r->corpus.hooks = *hooks;
    if (d->options.kind == TRF_DATA_TEXTS) r->config.target_eos = 0;    /* their ids contain EOS */
    return TRF_OK;
}

/* Makes the corpus, counts the updates of an epoch by running through it, and computes the recipe
   again. */
TRF__FN trf_status trf__dataset_corpus(trf_dataset *d, const trf__side learn[2], trf_error *err)
{
    int64_t i, used[2] = {0, 0}, pass = 0;
    trf_batch batch;
    TRF__TRY(trf__dataset_recipe(d, err));
    TRF__TRY(trf_corpus_create(&d->corpus, &d->recipe.corpus, err));
    for (i = 0; i < learn[1].count; i++) {
        int32_t n = learn[0].count ? learn[0].lengths[i] : 0, k = learn[1].lengths[i];
        TRF__TRY(trf_corpus_add(d->corpus, learn[0].ids + (n ? used[0] : 0), n,
                                learn[1].ids + used[1], k, err));
        used[0] += n;
        used[1] += k;
    }
    for (; trf_corpus_epoch(d->corpus) == 0; pass++) TRF__TRY(trf_corpus_next(d->corpus, &batch,
                                                                              err));
    trf_corpus_rewind(d->corpus);
    d->stats.updates_per_epoch = pass;
    return trf__dataset_recipe(d, err);
}

/* Appends the reasons that concern the data. */
TRF__COLD
TRF__FN void trf__dataset_reasons(trf_dataset *d, const trf_token_choice *choice)
{
    char line[200];
    int side;
    for (side = 0; side < 2; side++) if (d->vocab[side]) trf__tokens_reason(d, choice, side);
    snprintf(line, sizeof line,
             "data: %lld to learn from, %lld to validate on, %lld left out (empty, without "
             "matching labels, or longer than %d tokens)", (long long)d->stats.pairs,
             (long long)d->held[1].count, (long long)d->left_out,
             (int)TRF__LONGEST_TEXT);
    trf__put_reason(&d->recipe, line);
}

/* Makes the held-out pairs a batch. */
TRF__FN void trf__dataset_hold(trf_dataset *d)
{
    trf_sequences *to[2];
    int side;
    to[0] = &d->held_out.source;
    to[1] = &d->held_out.target;
    for (side = 0; side < 2; side++) {
        to[side]->ids = d->held[side].ids;
        to[side]->lengths = d->held[side].lengths;
        to[side]->count = (int32_t)d->held[side].count;
    }
}

/* All steps of finishing. learn is scratch: the corpus copies it. */
TRF__COLD
TRF__FN trf_status trf__dataset_build(trf_dataset *d, trf__split *s, trf__side learn[2],
                                      trf_error *err)
{
    trf_token_choice choice;
    TRF__TRY(trf__dataset_split(d, s, err));
    TRF__TRY(trf__dataset_labels(d, s, err));
    TRF__TRY(trf__dataset_vocabs(d, s, &choice, err));
    TRF__TRY(trf__encode_lines(d, s, learn, err));
    if (learn[1].count == 0)
        return trf__fail(err, TRF_E_STATE, -1, "data",
                         "none of %lld pairs can be learned from: all are empty, do not match "
                         "their labels, or are longer than %d ids", (long long)s->train,
                         (int)TRF__LONGEST_TEXT);
    trf__dataset_stats(d, s, learn);
    TRF__TRY(trf__dataset_corpus(d, learn, err));
    trf__dataset_hold(d);
    trf__dataset_reasons(d, &choice);
    d->finished = 1;
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_dataset_finish(trf_dataset *data, trf_error *err)
{
    trf__split split;
    trf__side learn[2];
    trf_hooks hooks;
    trf_status status;
    TRF__TRY(trf__dataset_open(data, err));
    TRF__ZERO(split);
    TRF__ZERO(learn);
    hooks = data->options.hooks;
    status = trf__dataset_build(data, &split, learn, err);
    trf__side_free(&learn[0], &hooks);
    trf__side_free(&learn[1], &hooks);
    trf__split_free(&split, &hooks);
    /* after a failure the data set is as before: the caller may add pairs and finish again */
    if (status != TRF_OK) { trf__dataset_clear(data); return status; }
    trf__texts_free(&data->texts[0], &hooks);
    trf__texts_free(&data->texts[1], &hooks);
    return TRF_OK;
}

TRF_API trf_recipe *trf_dataset_recipe(trf_dataset *data)
{
    return data && data->finished ? &data->recipe : NULL;
}

TRF_API trf_corpus *trf_dataset_corpus(trf_dataset *data)
{
    return data && data->finished ? data->corpus : NULL;
}

TRF_API const trf_batch *trf_dataset_held_out(const trf_dataset *data)
{
    return data && data->finished && data->held[1].count ? &data->held_out : NULL;
}

/* The model gets vocabularies, labels and what trf reports about the data as metadata. */
TRF__COLD
TRF_API trf_status trf_dataset_create_model(const trf_dataset *data, trf_model **model,
                                            trf_error *err)
{
    char longest[24], unknown[24];
    trf_status status;
    TRF__TRY(trf__begin(model, "model", err));
    *model = NULL;
    TRF__TRY(trf__begin(data, "data", err));
    if (!data->finished)
        return trf__fail(err, TRF_E_STATE, -1, "data",
                         "expected a finished data set, got one that is not finished");
    TRF__TRY(trf_model_create(model, &data->recipe.config, err));
    snprintf(longest, sizeof longest, "%d", (int)data->stats.longest);
    status = trf_model_set_vocabs(*model, data->vocab[0], data->vocab[1], err);
    snprintf(unknown, sizeof unknown, "%lld", (long long)data->unknown);
    if (status == TRF_OK) status = trf_model_set_metadata(*model, "trained.longest", longest, err);
    if (status == TRF_OK && !data->labels)
        status = trf_model_set_metadata(*model, "target.unknown", unknown, err);
    if (status == TRF_OK && data->labels) status = trf_model_set_metadata(*model, "labels",
                                                                          data->labels, err);
    if (status == TRF_OK) return TRF_OK;
    trf_model_destroy(*model);
    *model = NULL;
    return status;
}

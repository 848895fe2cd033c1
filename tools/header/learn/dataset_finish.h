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

/* Chooses the pairs to hold out; the end of a text that is a file. Sources are compared, of texts
   alone the texts. */
TRF__FN trf_status trf__dataset_choose(const trf_dataset *d, trf__split *s, int64_t *count,
                                       trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf__texts *lead = &d->texts[trf__lead_of(o)];
    int64_t size = o->held_out > s->n ? s->n : o->held_out, i;
    /* fewer than 20 pairs are too few to hold out one by default */
    if (size < 0 || (size == 0 && s->n < 20)) return TRF_OK;
    if (trf__is_alone(o) && o->files) {
        *count = size ? size : trf__min64(s->n / 20, 1000);
        memset(s->held + (s->n - *count), 1, (size_t)*count);
        return TRF_OK;
    }
    for (i = 0; i < s->n; i++) s->lines[0][i] = lead->bytes + lead->starts[i];
    return trf_hold_out(s->lines[0], s->n, size, o->hold_out_rule, s->held, count, &o->hooks, err);
}

/* Marks the held-out pairs in s->held: those of the caller, or some. */
TRF__FN trf_status trf__dataset_hold_out(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    int64_t count = 0, i;
    int given;
    for (i = 0; i < s->n; i++) count += s->held[i] = d->origins[i].held_out != 0;
    given = count > 0;
    if (!given) TRF__TRY(trf__dataset_choose(d, s, &count, err));
    for (i = 0; i < s->n; i++) s->lines[0][i] = d->texts[0].bytes + d->texts[0].starts[i];
    if (trf__is_labelled(o)) TRF__TRY(trf__labels_keep(d, s, given, &count, err));
    if (o->labels) TRF__TRY(trf__labels_take(&s->labels, o->labels, &o->hooks, err));
    if (count < s->n || o->token_file) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "held_out",
                     "holding out %lld pair%s leaves none of %lld to learn from",
                     (long long)o->held_out, trf__plural(o->held_out), (long long)s->n);
}

/* Splits the data set, and sorts the lines by it. */
TRF__FN trf_status trf__dataset_split(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    int64_t i, at = 0;
    int side, held;
    s->n = d->texts[0].count;
    if (s->n == 0 && d->options.token_file) return TRF_OK;
    if (s->n == 0) return trf__fail(err, TRF_E_STATE, -1, "data",
                                    "expected one pair or more, got none");
    for (side = 0; side < 2; side++)
        s->lines[side] = (const char **)trf__alloc(hooks, trf__bytes(s->n, sizeof *s->lines[side]));
    s->origins = (trf__line_from *)trf__alloc(hooks, trf__bytes(s->n, sizeof *s->origins));
    s->held = (char *)trf__alloc(hooks, (size_t)s->n);
    s->used = (char *)trf__alloc_zeroed(hooks, (size_t)s->n);
    if (!s->lines[0] || !s->lines[1] || !s->origins || !s->held || !s->used)
        return trf__fail(err, TRF_E_NOMEM, -1, "data", "no memory for %lld lines", (long long)s->n);
    TRF__TRY(trf__dataset_hold_out(d, s, err));
    for (held = 0; held < 2; held++) {
        for (i = 0; i < s->n; i++) {
            if (s->held[i] != held) continue;
            for (side = 0; side < 2; side++)
                s->lines[side][at] = d->texts[side].bytes + d->texts[side].starts[i];
            s->origins[at++] = d->origins[i];
        }
        if (!held) s->train = at;
    }
    return TRF_OK;
}

/* Joins the labels to a text, which the model stores. */
TRF__FN trf_status trf__dataset_labels(trf_dataset *d, const trf__labels *l, trf_error *err)
{
    int64_t i;
    char *to;
    if (!trf__is_labelled(&d->options)) return TRF_OK;
    if (l->n < 2)
        return trf__fail(err, TRF_E_STATE, -1, "labels", "expected two labels or more, got %d",
                         (int)l->n);
    d->labels_bytes = 0;
    for (i = 0; i < l->n; i++) d->labels_bytes += l->items[i].n + 1;
    to = d->labels = (char *)trf__alloc(&d->options.hooks, d->labels_bytes);
    if (!to) return trf__fail(err, TRF_E_NOMEM, -1, "labels", "no memory for %d labels", (int)l->n);
    for (i = 0; i < l->n; to += l->items[i++].n + 1) {
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

/* Appends the reason for the tokens of one side. */
TRF__COLD
TRF__FN void trf__tokens_reason(trf_dataset *d, const trf_token_choice *choice, int side)
{
    static const char *const names[4] = {"", "words", "characters", "subwords"};
    char line[200], why[120] = "as given";
    if (!d->chosen[side]) { }
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

/* All lines, as callers see them. */
TRF__FN trf_data_lines trf__lines_of(const trf__split *s)
{
    trf_data_lines lines;
    lines.source = s->lines[0];
    lines.target = s->lines[1];
    lines.n = s->train;
    lines.n_held_out = s->n - s->train;
    lines.used = s->used;
    return lines;
}

/* Copies the given vocabularies, and asks the caller for others. */
TRF__FN trf_status trf__dataset_given_vocabs(trf_dataset *d, const trf__split *s, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf_vocab *const given[2] = {o->source_vocab, o->target_vocab};
    trf_data_lines lines = trf__lines_of(s);
    int side;
    for (side = 0; side < 2; side++) {
        if (!trf__dataset_reads(o, side) || !given[side]) continue;
        if (side && d->vocab[0] && given[0] == given[1]) d->vocab[1] = d->vocab[0];
        else TRF__TRY(trf_vocab_copy(&d->vocab[side], given[side], &o->hooks, err));
    }
    if (!o->make_vocabs) return TRF_OK;
    lines.used = NULL;
    TRF__TRY(o->make_vocabs(o->user, &lines, d->vocab, err));
    if (!o->config) TRF__TRY(trf__usual_ids(d->vocab[0], "source_vocab", err));
    return o->config ? TRF_OK : trf__usual_ids(d->vocab[1], "target_vocab", err);
}

/* Makes the vocabularies: those of the caller, others from the lines to learn from. */
TRF__COLD
TRF__FN trf_status trf__dataset_vocabs(trf_dataset *d, const trf__split *s,
                                       trf_token_choice *choice, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const int first = !trf__dataset_reads(o, 0), last = trf__dataset_reads(o, 1);
    int side, one;
    TRF__TRY(trf__dataset_given_vocabs(d, s, err));
    memset(choice, 0, sizeof *choice);
    choice->tokens[0] = trf__tokens_of(d->vocab[0], o->source_tokens);
    choice->tokens[1] = trf__tokens_of(d->vocab[1], o->target_tokens);
    for (side = 0; side < 2; side++) d->chosen[side] = choice->tokens[side] == TRF_TOKENS_AUTO;
    if ((first || d->vocab[0]) && (!last || d->vocab[1])) return TRF_OK;
    choice->vocabularies = d->vocab[0] || d->vocab[1] ? 2 : 0;
    choice->no_subwords = 1;
    TRF__TRY(trf_tokens_choose(choice, first ? NULL : s->lines[0], last ? s->lines[1] : NULL,
                               s->train, &o->hooks, err));
    one = first < last && choice->vocabularies == 1;
    for (side = first; side <= last; side++) {
        if (side && one) d->vocab[1] = d->vocab[0];
        else if (!d->vocab[side]) TRF__TRY(trf__learn_vocab(d, s, side, side || one,
                                                            choice->tokens[side],
                                                            choice->vocab_size[side], err));
    }
    return TRF_OK;
}

// >>dataset-ids    texts as ids
//
// A line that cannot be learned from is left out and counted, unless bad_line objects. Only memory
// and invalid text are errors.

/* What is wrong with a line; why is empty if nothing is. */
typedef struct trf__misfit { trf_fault fault; int side; char why[200]; } trf__misfit;

TRF__FN void trf__unfit(trf__misfit *bad, trf_fault fault, int side, const char *why)
{
    bad->fault = fault;
    bad->side = side;
    trf__copy_text(bad->why, sizeof bad->why, why);
}

/* Whether so many ids fit; tags take a part of the places. */
TRF__FN int trf__ids_fit(const trf_dataset *d, int side, int32_t n, int32_t tags, trf__misfit *bad)
{
    int32_t most = d->options.max_length, room = most > tags ? most - tags : 0;
    char beside[80] = "", why[160];
    if (n <= room) return 1;
    if (tags) snprintf(beside, sizeof beside, ", because tags take %d of %d places", (int)tags,
                       (int)most);
    snprintf(why, sizeof why, "%d tokens, at most %d%s", (int)n, (int)room, beside);
    trf__unfit(bad, TRF_FAULT_LONG, side, why);
    return 0;
}

/* Whether a vocabulary of words can take all words of a text. */
TRF__FN int trf__words_fit(const trf_vocab *vocab, const char *text, int side, trf__misfit *bad)
{
    const char *word;
    size_t n;
    if (!vocab || trf_vocab_kind(vocab) != TRF_WORDS) return 1;
    while ((n = trf__next_token(TRF_WORDS, &text, &word)) > 0) {
        if (n <= TRF__MAX_TOKEN_BYTES) continue;
        trf__unfit(bad, TRF_FAULT_LONG, side,
                   "a word of more than 1 MiB, the most that a vocabulary takes");
        return 0;
    }
    return 1;
}

TRF__FN trf_status trf__ids_add(trf__text_ids *to, const int32_t *ids, int32_t n,
                                const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(int32_t, to->ids, to->capacity, (int64_t)to->n + n + 1, hooks);
    if (n) memcpy(to->ids + to->n, ids, (size_t)n * sizeof *ids);
    to->n += n;
    return TRF_OK;
}

/* Encodes one side of a pair, with the ids around it. *n: without these. */
TRF__FN trf_status trf__encode_side(trf_dataset *d, int side, const char *text, int32_t *n,
                                    trf__misfit *bad, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    trf__text_ids *word = &d->encoding.word, *to = &d->encoding.ids[side];
    int32_t first = side ? o->target_first : o->source_first, last = side ? -1 : o->source_last;
    if (!trf__words_fit(d->vocab[side], text, side, bad)) return TRF_OK;
    TRF__TRY(trf__encode_all(d->vocab[side], text, word, &o->hooks, err));
    *n = word->n;
    if (!trf__ids_fit(d, side, *n, (first >= 0) + (last >= 0), bad)) return TRF_OK;
    if (first >= 0) TRF__TRY(trf__ids_add(to, &first, 1, &o->hooks, err));
    TRF__TRY(trf__ids_add(to, word->ids, word->n, &o->hooks, err));
    return last >= 0 ? trf__ids_add(to, &last, 1, &o->hooks, err) : TRF_OK;
}

TRF__FN trf_status trf__encode_pair(trf_dataset *d, const char *const text[2], trf__misfit *bad,
                                    trf_error *err)
{
    int32_t n[2] = {0, 0};
    int side;
    for (side = 0; side < 2 && !*bad->why; side++)
        TRF__TRY(trf__encode_side(d, side, text[side], &n[side], bad, err));
    if (*bad->why || (n[0] && n[1]) || ((n[0] || n[1]) && d->options.keep_empty)) return TRF_OK;
    if (!n[0] && !n[1]) trf__unfit(bad, TRF_FAULT_EMPTY, 0, "empty on both sides");
    else trf__unfit(bad, TRF_FAULT_HALF, n[0] != 0, "empty, but its other side is not");
    return TRF_OK;
}

/* Encodes a text with a label; with segments, two texts that a tab separates. */
TRF__FN trf_status trf__encode_texts(trf_dataset *d, const char *text, trf__text_ids *to,
                                     trf_error *err)
{
    const trf_config *c = d->options.config;
    const trf_hooks *hooks = &d->options.hooks;
    const char *tab = c && c->segments ? strchr(text, '\t') : NULL;
    trf__texts *part = &d->encoding.part;
    trf_status status;
    int32_t between = 0;
    if (!tab) return trf__encode_all(d->vocab[0], text, to, hooks, err);
    part->used = part->count = 0;
    TRF__TRY(trf__texts_add(part, text, (size_t)(tab - text), hooks, err));
    (void)trf_join(c, NULL, 0, NULL, 0, NULL, 0, &between, NULL);
    TRF__GROW(int32_t, to->ids, to->capacity, 1, hooks);
    status = trf_join_texts(c, d->vocab[0], part->bytes, tab + 1, to->ids,
                            (int32_t)trf__min64(to->capacity, INT32_MAX), &to->n, err);
    if (status == TRF_E_LIMIT && to->n > to->capacity) {
        TRF__GROW(int32_t, to->ids, to->capacity, to->n, hooks);
        status = trf_join_texts(c, d->vocab[0], part->bytes, tab + 1, to->ids,
                                (int32_t)trf__min64(to->capacity, INT32_MAX), &to->n, err);
    }
    if (to->n == between) to->n = 0;            /* both are empty */
    return status;
}

/* The number of a line's label, or -1. Labels of a caller may have blanks around them. */
TRF__FN int32_t trf__line_label(const trf_dataset *d, const char *line, trf__misfit *bad)
{
    trf__label label;
    int32_t number;
    char why[200];
    label.text = line;
    label.n = strlen(line);
    number = trf__label_number(&d->split.labels, &label);
    if (number >= 0) return number;
    if (!trf__next_label(&label, &line, 0)) {
        trf__unfit(bad, TRF_FAULT_LABEL, 1, "no label");
        return -1;
    }
    number = trf__label_number(&d->split.labels, &label);
    if (label.n > TRF__LONGEST_LABEL)
        snprintf(why, sizeof why, "a label of %llu bytes, at most %d", (unsigned long long)label.n,
                 (int)TRF__LONGEST_LABEL);
    else snprintf(why, sizeof why, "the training data do not have the label '%.*s'",
                  (int)(label.n < 140 ? label.n : 140), label.text);
    if (number < 0) trf__unfit(bad, TRF_FAULT_LABEL, 1, why);
    return number;
}

TRF__FN trf_status trf__encode_labelled(trf_dataset *d, const char *const text[2],
                                        trf__misfit *bad, trf_error *err)
{
    trf__text_ids *ids = d->encoding.ids;
    int32_t number;
    if (!trf__words_fit(d->vocab[0], text[0], 0, bad)) return TRF_OK;
    number = trf__line_label(d, text[1], bad);
    if (number < 0) return TRF_OK;
    TRF__TRY(trf__encode_texts(d, text[0], &ids[0], err));
    if (!ids[0].n) trf__unfit(bad, TRF_FAULT_EMPTY, 0, "empty");
    else if (trf__ids_fit(d, 0, ids[0].n, 0, bad))
        return trf__ids_add(&ids[1], &number, 1, &d->options.hooks, err);
    return TRF_OK;
}

/* Encodes one word, with its label at its first token; the others have -1, which has no loss. Among
   characters a blank precedes each word but the first, and the label belongs to the token after it;
   with byte-level BPE the blank is a part of the word. A word of invisible characters may have no
   subword: it becomes one unknown token. */
TRF__FN trf_status trf__encode_word(trf_dataset *d, const trf__label *word, int32_t number,
                                    trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    trf__encoding *e = &d->encoding;
    trf_token_kind kind = trf_vocab_kind(d->vocab[0]);
    int blank = (kind == TRF_CHARACTERS || kind == TRF_BYTE_BPE) && e->ids[0].n > 0;
    int32_t k;
    e->part.used = e->part.count = 0;
    /* the byte before the word may be any blank, or a tab: the copy gets a space */
    TRF__TRY(trf__texts_add(&e->part, word->text - blank, word->n + (size_t)blank, hooks, err));
    if (blank) *e->part.bytes = ' ';
    TRF__TRY(trf__encode_all(d->vocab[0], e->part.bytes, &e->word, hooks, err));
    if (e->word.n == 0)
        e->word.ids[e->word.n++] = trf_vocab_special(d->vocab[0], TRF_SPECIAL_UNK);
    TRF__TRY(trf__ids_add(&e->ids[0], e->word.ids, e->word.n, hooks, err));
    for (k = 0; k < e->word.n; k++)
        e->word.ids[k] = k == (blank && kind == TRF_CHARACTERS) ? number : -1;
    return trf__ids_add(&e->ids[1], e->word.ids, e->word.n, hooks, err);
}

TRF__FN trf_status trf__encode_tagged(trf_dataset *d, const char *const text[2], trf__misfit *bad,
                                      trf_error *err)
{
    const char *words = text[0], *tags = text[1];
    long n_words = 0, n_tags = 0, unknown = 0;
    trf__label word, tag;
    char why[120];
    if (!trf__words_fit(d->vocab[0], text[0], 0, bad)) return TRF_OK;
    for (; trf__next_label(&word, &words, 1); n_words++) {
        int more = trf__next_label(&tag, &tags, 1);
        int32_t number = more ? trf__label_number(&d->split.labels, &tag) : -1;
        n_tags += more;
        unknown += more && number < 0;
        TRF__TRY(trf__encode_word(d, &word, number, err));
    }
    while (trf__next_label(&tag, &tags, 1)) n_tags++;
    if (n_words != n_tags) {
        snprintf(why, sizeof why, "%ld word%s, but %ld label%s", n_words, trf__plural(n_words),
                 n_tags, trf__plural(n_tags));
        trf__unfit(bad, TRF_FAULT_LABEL, 0, why);
    } else if (!n_words) trf__unfit(bad, TRF_FAULT_EMPTY, 0, "empty");
    else if (trf__ids_fit(d, 0, d->encoding.ids[0].n, 0, bad) && unknown) {
        snprintf(why, sizeof why,
                 "%ld label%s that the training data do not have, or of more than %d bytes",
                 unknown, trf__plural(unknown), (int)TRF__LONGEST_LABEL);
        trf__unfit(bad, TRF_FAULT_LABEL, 1, why);
    }
    return TRF_OK;
}

// >>dataset-give   where ids go
//
// Pairs to learn from go straight to the corpus, or to the caller. Texts alone are a stream of ids,
// from which chunks are cut.

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

/* The number of ids that are unk. */
TRF__FN int64_t trf__count_unk(const trf_vocab *vocab, const int32_t *ids, int32_t n)
{
    int32_t unk = vocab ? trf_vocab_special(vocab, TRF_SPECIAL_UNK) : -1, i;
    int64_t count = 0;
    for (i = 0; i < n && vocab; i++) count += ids[i] == unk;
    return count;
}

TRF__FN trf_status trf__dataset_give(trf_dataset *d, int held, const int32_t *source, int32_t n,
                                     const int32_t *target, int32_t k, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    trf_token_facts *f = &d->facts[held];
    f->pairs++;
    f->source_ids += n;
    f->target_ids += k;
    f->source_unknown += trf__count_unk(d->vocab[0], source, n);
    f->target_unknown += trf__count_unk(d->vocab[1], target, k);
    f->longest = (int32_t)trf__max64(f->longest, trf__max64(n, k));
    if (o->pair) return o->pair(o->user, source, n, target, k, err);
    if (!held) return trf_corpus_add(d->corpus, source, n, target, k, err);
    TRF__TRY(trf__side_add(&d->held[0], source, n, &o->hooks, err));
    return trf__side_add(&d->held[1], target, k, &o->hooks, err);
}

/* Cuts chunks off the stream; all: also what is shorter than a chunk. */
TRF__FN trf_status trf__cut_chunks(trf_dataset *d, int held, int all, trf_error *err)
{
    trf__text_ids *stream = &d->encoding.stream;
    int32_t chunk = d->options.chunk ? d->options.chunk : d->options.max_length, at, n;
    for (at = 0; at < stream->n && (all || stream->n - at >= chunk); at += n) {
        const int32_t *ids = stream->ids + at;
        n = stream->n - at < chunk ? stream->n - at : chunk;
        TRF__TRY(trf__lead_of(&d->options) ? trf__dataset_give(d, held, NULL, 0, ids, n, err)
                                           : trf__dataset_give(d, held, ids, n, NULL, 0, err));
    }
    if (at) memmove(stream->ids, stream->ids + at, (size_t)(stream->n - at) * sizeof *stream->ids);
    stream->n -= at;
    return TRF_OK;
}

/* Ends a document: EOS follows a text of a language model. */
TRF__FN trf_status trf__end_document(trf_dataset *d, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const int32_t eos = o->config ? o->config->eos : 2;
    int ends = d->encoding.document && o->kind == TRF_DATA_TEXTS;
    d->encoding.document = 0;
    return ends ? trf__ids_add(&d->encoding.stream, &eos, 1, &o->hooks, err) : TRF_OK;
}

/* Ends the last document, and gives what is left of the stream. */
TRF__FN trf_status trf__end_stream(trf_dataset *d, int held, trf_error *err)
{
    if (!trf__is_alone(&d->options)) return TRF_OK;
    TRF__TRY(trf__end_document(d, err));
    return trf__cut_chunks(d, held, 1, err);
}

/* A text alone: a document, or a line of one. */
TRF__FN trf_status trf__stream_text(trf_dataset *d, const char *text, const trf__line_from *from,
                                    int held, trf__misfit *bad, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    trf__encoding *e = &d->encoding;
    int lead = trf__lead_of(o);
    e->word.n = 0;
    if (trf__words_fit(d->vocab[lead], text, lead, bad))
        TRF__TRY(trf__encode_all(d->vocab[lead], text, &e->word, &o->hooks, err));
    TRF__TRY(trf__ids_add(&e->stream, e->word.ids, e->word.n, &o->hooks, err));
    e->document |= e->word.n > 0;
    if (o->files) return from->ends_document ? trf__end_stream(d, held, err)
                                             : trf__cut_chunks(d, held, 0, err);
    if (!e->word.n && !*bad->why) trf__unfit(bad, TRF_FAULT_EMPTY, lead, "empty");
    TRF__TRY(trf__end_document(d, err));
    return trf__cut_chunks(d, held, !o->pack, err);
}

/* Keeps the texts of a held-out pair. */
TRF__FN trf_status trf__keep_held(trf_dataset *d, const char *const text[2], trf_error *err)
{
    int side;
    for (side = 0; side < 2; side++)
        TRF__TRY(trf__texts_add(&d->held_texts[side], text[side], strlen(text[side]),
                                &d->options.hooks, err));
    return TRF_OK;
}

/* Encodes a line, and gives its pair away. *used: whether it has one. */
TRF__FN trf_status trf__encode_line(trf_dataset *d, const char *const text[2],
                                    const trf__line_from *from, int held, char *used, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    trf__text_ids *ids = d->encoding.ids;
    trf__misfit bad;
    *bad.why = 0;
    ids[0].n = ids[1].n = 0;
    switch (o->kind) {
    case TRF_DATA_PAIRS: TRF__TRY(trf__encode_pair(d, text, &bad, err)); break;
    case TRF_DATA_LABELLED: TRF__TRY(trf__encode_labelled(d, text, &bad, err)); break;
    case TRF_DATA_TAGGED: TRF__TRY(trf__encode_tagged(d, text, &bad, err)); break;
    default: TRF__TRY(trf__stream_text(d, text[trf__lead_of(o)], from, held, &bad, err)); break;
    }
    *used = !*bad.why;
    if (*bad.why)
        return trf__bad_line(d, bad.fault, bad.side, from->path < 0 ? NULL
                             : d->paths.bytes + d->paths.starts[from->path], from->number, bad.why,
                             err);
    if (trf__is_alone(o)) return TRF_OK;
    TRF__TRY(trf__dataset_give(d, held, ids[0].ids, ids[0].n, ids[1].ids, ids[1].n, err));
    return held ? trf__keep_held(d, text, err) : TRF_OK;
}

TRF__FN trf_status trf__dataset_pass(trf_dataset *d, trf_error *err)
{
    const char *text[2];
    trf__line_from from = d->origins[0];
    trf_status status;
    char used;
    text[0] = d->texts[0].bytes;
    text[1] = d->texts[1].bytes;
    status = trf__encode_line(d, text, &from, 0, &used, err);
    d->texts[0].used = d->texts[0].count = d->texts[1].used = d->texts[1].count = 0;
    return status;
}

/* Encodes all lines, those to learn from and those held out. */
TRF__FN trf_status trf__encode_lines(trf_dataset *d, const trf__split *s, trf_error *err)
{
    int64_t i;
    for (i = 0; i < s->n; i++) {
        const char *text[2];
        text[0] = s->lines[0][i];
        text[1] = s->lines[1][i];
        if (i == s->train) TRF__TRY(trf__end_stream(d, 0, err));
        TRF__TRY(trf__encode_line(d, text, &s->origins[i], i >= s->train, &s->used[i], err));
    }
    return trf__end_stream(d, s->n > s->train, err);
}

// >>dataset-finish recipe, corpus and model
//
// The recipe is computed twice: it needs the number of updates an epoch, which needs a corpus,
// whose batches the recipe decides. Batches do not depend on that number, so the second time is
// final.

/* Statistics of the pairs to learn from. */
TRF__FN void trf__dataset_stats(trf_dataset *d, const trf__split *s)
{
    const trf_token_facts *f = &d->facts[0];
    trf_data_stats *a = &d->stats;
    trf_data_kind kind = d->options.kind;
    a->kind = d->labels || kind == TRF_DATA_SOURCES ? TRF_ENCODER_ONLY
            : kind == TRF_DATA_TEXTS ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER;
    if (d->labels) a->head = kind == TRF_DATA_TAGGED ? TRF_HEAD_TOKENS : TRF_HEAD_MEAN;
    if (kind == TRF_DATA_SOURCES) a->head = TRF_HEAD_MASKED;
    a->n_labels = (int32_t)s->labels.n;
    a->pairs = f->pairs;
    a->source_tokens = f->source_ids + f->pairs;    /* + 1 mark each, empty sides too */
    a->target_tokens = f->target_ids + f->pairs;
    a->longest = f->longest;
    a->source_vocab = trf__dataset_reads(&d->options, 0) ? trf_vocab_size(d->vocab[0]) : 0;
    a->target_vocab = trf__dataset_reads(&d->options, 1) ? trf_vocab_size(d->vocab[1]) : 0;
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

/* Makes the corpus, empty or with the pairs of the token file. */
TRF__FN trf_status trf__dataset_open_corpus(trf_dataset *d, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    trf_corpus_options any = trf_corpus_defaults();
    any.max_length = o->max_length;
    any.hooks = o->hooks;
    if (!o->token_file) return trf_corpus_create(&d->corpus, &any, err);
    TRF__TRY(trf_corpus_open(&d->corpus, o->token_file, d->vocab[0], d->vocab[1], &any, err));
    d->facts[0] = *trf_corpus_facts(d->corpus);
    return TRF_OK;
}

/* Counts the updates of an epoch, and computes the recipe again. Of a token file they are
   estimated, because with pools it takes long to count them. */
TRF__FN trf_status trf__dataset_plan(trf_dataset *d, trf_error *err)
{
    TRF__TRY(trf__dataset_recipe(d, err));
    TRF__TRY(trf_corpus_set_options(d->corpus, &d->recipe.corpus, err));
    if (d->options.token_file) return TRF_OK;
    TRF__TRY(trf_corpus_batches(d->corpus, &d->stats.updates_per_epoch, err));
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
             (long long)d->held[1].count, (long long)(d->left_out + d->unreadable),
             (int)d->options.max_length);
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

/* All steps of finishing. */
TRF__COLD
TRF__FN trf_status trf__dataset_build(trf_dataset *d, trf__split *s, trf_error *err)
{
    trf_token_choice choice;
    TRF__TRY(trf__dataset_split(d, s, err));
    TRF__TRY(trf__dataset_labels(d, &s->labels, err));
    TRF__TRY(trf__dataset_vocabs(d, s, &choice, err));
    TRF__TRY(trf__dataset_open_corpus(d, err));
    TRF__TRY(trf__encode_lines(d, s, err));
    if (d->facts[0].longest == 0)
        return trf__fail(err, TRF_E_STATE, -1, "data",
                         "none of %lld pairs can be learned from: all are empty, do not match "
                         "their labels, or are longer than %d ids",
                         (long long)(d->options.token_file ? d->facts[0].pairs : s->train),
                         (int)d->options.max_length);
    trf__dataset_stats(d, s);
    TRF__TRY(trf__dataset_plan(d, err));
    trf__dataset_hold(d);
    trf__dataset_reasons(d, &choice);
    d->finished = 1;
    return TRF_OK;
}

/* Gives the caller the end of a text that a stream still holds. */
TRF__FN trf_status trf__dataset_flush(trf_dataset *d, trf_error *err)
{
    TRF__TRY(trf__end_stream(d, 0, err));
    d->finished = 1;
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_dataset_finish(trf_dataset *data, trf_error *err)
{
    trf_hooks hooks;
    trf_status status;
    TRF__TRY(trf__dataset_open(data, err));
    if (data->options.pair) return trf__dataset_flush(data, err);
    hooks = data->options.hooks;
    status = trf__dataset_build(data, &data->split, err);
    trf__encoding_free(&data->encoding, &hooks);
    /* after a failure the data set is as before: the caller may add pairs and finish again */
    if (status != TRF_OK) { trf__dataset_clear(data); return status; }
    if (data->options.keep_texts) return TRF_OK;
    trf__split_free(&data->split, &hooks);
    trf__dataset_forget(data);
    return TRF_OK;
}

TRF_API trf_corpus *trf_dataset_corpus(trf_dataset *data)
{
    return data && data->finished ? data->corpus : NULL;
}

TRF_API trf_recipe *trf_dataset_recipe(trf_dataset *data)
{
    return trf_dataset_corpus(data) ? &data->recipe : NULL;
}

TRF_API const trf_batch *trf_dataset_held_out(const trf_dataset *data)
{
    return data && data->finished && data->held[1].count ? &data->held_out : NULL;
}

TRF_API const char *trf_dataset_held_out_text(const trf_dataset *data, int32_t pair, int side)
{
    const trf__texts *t = data && side >= 0 && side < 2 ? &data->held_texts[side] : NULL;
    return t && pair >= 0 && pair < t->count ? t->bytes + t->starts[pair] : NULL;
}

TRF_API const trf_token_facts *trf_dataset_facts(const trf_dataset *data, int held_out)
{
    return data && data->finished ? &data->facts[held_out != 0] : NULL;
}

TRF_API const char *trf_dataset_labels(const trf_dataset *data)
{
    return data && data->finished ? data->labels : NULL;
}

TRF_API trf_data_lines trf_dataset_lines(const trf_dataset *data)
{
    trf_data_lines none;
    TRF__ZERO(none);
    return data && data->finished ? trf__lines_of(&data->split) : none;
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
    snprintf(unknown, sizeof unknown, "%lld", (long long)data->facts[0].target_unknown);
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

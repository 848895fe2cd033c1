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
#include "base/vector.h"
#include "text/vocab.h"
#include "text/vocab_use.h"
#include "model/batches.h"
#include "data/corpus.h"
#include "data/token_files.h"
#include "data/corpus_calls.h"
#include "learn/dataset.h"

// >>dataset-ids    texts as ids
//
// A line that cannot be learned from is left out and counted, unless bad_line objects. Only memory
// and invalid text are errors.

/* The fault of a line. `why` is empty if the line has none. */
typedef struct trf__misfit { trf_fault fault; int side; char why[200]; } trf__misfit;

TRF__FN TRF__PRINTF(4, 5) void trf__unfit(trf__misfit *bad, trf_fault fault, int side,
                                          const char *format, ...)
{
    char why[sizeof bad->why];
    va_list arguments;
    bad->fault = fault;
    bad->side = side;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    trf__copy_text(bad->why, sizeof bad->why, why);
}

/* Whether so many ids fit; tags take a part of the places. */
TRF__FN int trf__ids_fit(const trf_dataset *d, int side, int32_t n, int32_t tags, trf__misfit *bad)
{
    int32_t most = d->options.max_length, room = most > tags ? most - tags : 0;
    char beside[80] = "";
    if (n <= room) return 1;
    if (tags) snprintf(beside, sizeof beside, ", because tags take %d of %d places", (int)tags,
                       (int)most);
    trf__unfit(bad, TRF_FAULT_LONG, side, "%d tokens, at most %d%s", (int)n, (int)room, beside);
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
    for (int side = 0; side < 2 && !*bad->why; side++)
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
    int32_t between = 0;
    if (!tab) return trf__encode_all(d->vocab[0], text, to, hooks, err);
    part->used = part->count = 0;
    TRF__TRY(trf__texts_add(part, text, (size_t)(tab - text), hooks, err));
    (void)trf_join(c, NULL, 0, NULL, 0, 0, NULL, 0, &between, NULL);
    trf_status status;
    to->n = 1;
    do {
        TRF__GROW(int32_t, to->ids, to->capacity, to->n, hooks);
        status = trf__join_texts(c, d->vocab[0], part->bytes, tab + 1, to->ids,
                                 (int32_t)trf__min64(to->capacity, INT32_MAX), &to->n, err);
    } while (status == TRF_E_LIMIT && to->n > to->capacity);
    if (to->n == between) to->n = 0;            /* both are empty */
    return status;
}

// >>dataset-labels labels as ids: one, several, numbers; those of words

/* The data have no such label. */
TRF__FN void trf__unknown_label(const trf__label *label, trf__misfit *bad)
{
    if (label->n > TRF__LONGEST_LABEL)
        trf__unfit(bad, TRF_FAULT_LABEL, 1, "a label of %llu bytes, at most %d",
                   (unsigned long long)label->n, (int)TRF__LONGEST_LABEL);
    else
        trf__unfit(bad, TRF_FAULT_LABEL, 1, "the training data do not have the label '%.*s'",
                   (int)(label->n < 140 ? label->n : 140), label->text);
}

/* The number of a line's label, or -1. Labels of a caller may have blanks around them. */
TRF__FN int32_t trf__line_label(const trf_dataset *d, const char *line, trf__misfit *bad)
{
    trf__label label;
    label.text = line;
    label.n = strlen(line);
    int32_t number = trf__label_number(&d->split.labels, &label);
    if (number >= 0) return number;
    if (!trf__next_label(&label, &line, TRF__AT_THE_END)) {
        trf__unfit(bad, TRF_FAULT_LABEL, 1, "no label");
        return -1;
    }
    number = trf__label_number(&d->split.labels, &label);
    if (number < 0) trf__unknown_label(&label, bad);
    return number;
}

/* The labels of a line that hold, as ascending numbers. */
TRF__FN trf_status trf__encode_any(trf_dataset *d, const char *line, trf__misfit *bad,
                                   trf_error *err)
{
    trf__text_ids *to = &d->encoding.ids[1];
    trf__label label;
    while (trf__next_label(&label, &line, TRF__AT_COMMAS)) {
        int32_t number = trf__label_number(&d->split.labels, &label), i = to->n;
        if (number < 0) { trf__unknown_label(&label, bad); return TRF_OK; }
        TRF__TRY(trf__ids_add(to, &number, 1, &d->options.hooks, err));
        for (; i > 0 && to->ids[i - 1] > number; i--) to->ids[i] = to->ids[i - 1];
        to->ids[i] = number;
        if (i == 0 || to->ids[i - 1] < number) continue;
        trf__unfit(bad, TRF_FAULT_LABEL, 1, "the label '%.*s' occurs twice",
                   (int)(label.n < 140 ? label.n : 140), label.text);
        return TRF_OK;
    }
    return TRF_OK;
}

/* Reads the next number of a line. Returns 1, 0 at the end of the line, or -1: *word is none. */
TRF__FN int trf__next_number(trf__label *word, const char **line, int32_t *label)
{
    char text[96];
    double x;
    word->n = trf__next_token(TRF_WORDS, line, &word->text);
    if (!word->n) return 0;
    if (word->n >= sizeof text) return -1;
    memcpy(text, word->text, word->n);
    text[word->n] = 0;
    if (!trf__parse_real(text, &x) || !(fabs(x) <= FLT_MAX)) return -1;
    *label = trf_number_label((float)x);
    return 1;
}

/* The numbers of a line, as labels. */
TRF__FN trf_status trf__encode_numbers(trf_dataset *d, const char *line, trf__misfit *bad,
                                       trf_error *err)
{
    trf__text_ids *to = &d->encoding.ids[1];
    const char *at = line;
    trf__label word;
    int32_t label;
    int got;
    while ((got = trf__next_number(&word, &at, &label)) > 0)
        TRF__TRY(trf__ids_add(to, &label, 1, &d->options.hooks, err));
    if (got == 0 && to->n && to->n == d->split.numbers) return TRF_OK;
    if (got < 0)
        trf__unfit(bad, TRF_FAULT_LABEL, 1, "byte %lld of the label: expected a number, got '%.*s'",
                   (long long)(word.text - line) + 1, (int)(word.n < 100 ? word.n : 100),
                   word.text);
    else if (!to->n) trf__unfit(bad, TRF_FAULT_LABEL, 1, "no number");
    else
        trf__unfit(bad, TRF_FAULT_LABEL, 1, "%d number%s, but the first text has %lld", (int)to->n,
                   trf__plural(to->n), (long long)d->split.numbers);
    return TRF_OK;
}

TRF__FN trf_status trf__encode_labelled(trf_dataset *d, const char *const text[2],
                                        trf__misfit *bad, trf_error *err)
{
    trf__text_ids *ids = d->encoding.ids;
    if (!trf__words_fit(d->vocab[0], text[0], 0, bad)) return TRF_OK;
    if (d->options.label_kind == TRF_LABELS_ANY) TRF__TRY(trf__encode_any(d, text[1], bad, err));
    else if (trf__is_numbered(&d->options)) TRF__TRY(trf__encode_numbers(d, text[1], bad, err));
    else {
        int32_t number = trf__line_label(d, text[1], bad);
        if (number >= 0) TRF__TRY(trf__ids_add(&ids[1], &number, 1, &d->options.hooks, err));
    }
    if (*bad->why) return TRF_OK;
    TRF__TRY(trf__encode_texts(d, text[0], &ids[0], err));
    if (!ids[0].n) trf__unfit(bad, TRF_FAULT_EMPTY, 0, "empty");
    else if (trf__ids_fit(d, 0, ids[0].n, 0, bad)) (void)trf__ids_fit(d, 1, ids[1].n, 0, bad);
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
    e->part.used = e->part.count = 0;
    /* the byte before the word may be any blank, or a tab: the copy gets a space */
    TRF__TRY(trf__texts_add(&e->part, word->text - blank, word->n + (size_t)blank, hooks, err));
    if (blank) *e->part.bytes = ' ';
    TRF__TRY(trf__encode_all(d->vocab[0], e->part.bytes, &e->word, hooks, err));
    if (e->word.n == 0)
        e->word.ids[e->word.n++] = trf_vocab_special(d->vocab[0], TRF_SPECIAL_UNK);
    TRF__TRY(trf__ids_add(&e->ids[0], e->word.ids, e->word.n, hooks, err));
    for (int32_t k = 0; k < e->word.n; k++)
        e->word.ids[k] = k == (blank && kind == TRF_CHARACTERS) ? number : -1;
    return trf__ids_add(&e->ids[1], e->word.ids, e->word.n, hooks, err);
}

TRF__FN trf_status trf__encode_tagged(trf_dataset *d, const char *const text[2], trf__misfit *bad,
                                      trf_error *err)
{
    const char *words = text[0], *tags = text[1];
    long n_words = 0, n_tags = 0, unknown = 0;
    trf__label word, tag;
    if (!trf__words_fit(d->vocab[0], text[0], 0, bad)) return TRF_OK;
    for (; trf__next_label(&word, &words, TRF__AT_BLANKS); n_words++) {
        int more = trf__next_label(&tag, &tags, TRF__AT_BLANKS);
        int32_t number = more ? trf__label_number(&d->split.labels, &tag) : -1;
        n_tags += more;
        unknown += more && number < 0;
        TRF__TRY(trf__encode_word(d, &word, number, err));
    }
    while (trf__next_label(&tag, &tags, TRF__AT_BLANKS)) n_tags++;
    if (n_words != n_tags)
        trf__unfit(bad, TRF_FAULT_LABEL, 0, "%ld word%s, but %ld label%s", n_words,
                   trf__plural(n_words), n_tags, trf__plural(n_tags));
    else if (!n_words) trf__unfit(bad, TRF_FAULT_EMPTY, 0, "empty");
    else if (trf__ids_fit(d, 0, d->encoding.ids[0].n, 0, bad) && unknown)
        trf__unfit(bad, TRF_FAULT_LABEL, 1,
                   "%ld label%s that the training data do not have, or of more than %d bytes",
                   unknown, trf__plural(unknown), (int)TRF__LONGEST_LABEL);
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
    int32_t unk = vocab ? trf_vocab_special(vocab, TRF_SPECIAL_UNK) : -1;
    int64_t count = 0;
    for (int32_t i = 0; i < n && vocab; i++) count += ids[i] == unk;
    return count;
}

TRF__FN trf_status trf__dataset_give(trf_dataset *d, int held, const int32_t *source, int32_t n,
                                     const int32_t *target, int32_t k, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    trf_token_facts *f = trf__facts_of(d, held);
    trf__token_add(f, n, k);
    f->source_unknown += trf__count_unk(d->vocab[0], source, n);
    f->target_unknown += trf__count_unk(d->vocab[1], target, k);
    if (o->pair) return o->pair(o->user, source, n, target, k, err);
    if (!held) return trf_corpus_add(d->corpus, source, n, target, k, err);
    TRF__TRY(trf__side_add(&d->held[0], source, n, &o->hooks, err));
    return trf__side_add(&d->held[1], target, k, &o->hooks, err);
}

/* The id that ends texts alone. */
TRF__FN int32_t trf__end_of_texts(const trf_dataset *d)
{
    return d->options.config ? d->options.config->eos : 2;
}

/* Cuts chunks off the stream; all: also what is shorter than a chunk. A language model's text that
   does not fit in one begins with EOS: nothing but EOS tells its beginning, since chunks that go on
   with a text are read behind BOS too. Packed texts follow the EOS of the text before them. */
TRF__FN trf_status trf__cut_chunks(trf_dataset *d, int held, int all, trf_error *err)
{
    trf__text_ids *stream = &d->encoding.stream;
    int32_t chunk = d->options.chunk ? d->options.chunk : d->options.max_length, at, n;
    const int32_t eos = trf__end_of_texts(d);
    int leads = d->options.kind == TRF_DATA_TEXTS && !d->options.pack && chunk > 1 &&
                !d->options.bare_chunks;
    for (at = 0; at < stream->n && (all || stream->n - at >= chunk); at += n) {
        if (leads && !d->encoding.begun && (!all || stream->n - at > chunk)) {
            TRF__TRY(trf__ids_add(stream, &eos, 1, &d->options.hooks, err));
            memmove(stream->ids + at + 1, stream->ids + at,
                    (size_t)(stream->n - 1 - at) * sizeof *stream->ids);
            stream->ids[at] = eos;
        }
        const int32_t *ids = stream->ids + at;
        n = stream->n - at < chunk ? stream->n - at : chunk;
        d->encoding.begun = ids[n - 1] != eos;
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
    const int32_t eos = trf__end_of_texts(d);
    int ends = d->encoding.document && d->options.kind == TRF_DATA_TEXTS;
    d->encoding.document = 0;
    return ends ? trf__ids_add(&d->encoding.stream, &eos, 1, &d->options.hooks, err) : TRF_OK;
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

/* Counts a target text whose ids decode to another text: vocabularies may lose runs of blanks, case
   and more. Texts with unknown tokens are counted elsewhere. */
TRF__FN trf_status trf__check_written(trf_dataset *d, int held, const char *text,
                                      const trf__line_from *from, trf_error *err)
{
    const trf_vocab *vocab = d->vocab[1];
    const trf__text_ids *ids = &d->encoding.word;
    trf__texts *back = &d->encoding.part;
    size_t n = strlen(text), bytes;
    if (!ids->n || trf__count_unk(vocab, ids->ids, ids->n)) return TRF_OK;
    TRF__GROW(char, back->bytes, back->capacity, (int64_t)n + 1, &d->options.hooks);
    if (!trf_vocab_decode(vocab, ids->ids, ids->n, back->bytes, n + 1, &bytes, NULL) &&
        bytes == n && !memcmp(text, back->bytes, n)) return TRF_OK;
    if (!trf__facts_of(d, held)->changed++) trf__facts_of(d, held)->changed_line = from->number;
    return TRF_OK;
}

/* Encodes a line, and gives its pair away. *used: whether it has one. */
TRF__FN trf_status trf__encode_line(trf_dataset *d, const char *const text[2],
                                    const trf__line_from *from, int held, char *used,
                                    trf_error *err)
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
    if (*used && *text[0])
        trf__facts_of(d, held)->outer_blanks += *text[0] == ' ' ||
                                                text[0][strlen(text[0]) - 1] == ' ';
    if (*bad.why)
        return trf__bad_line(d, bad.fault, bad.side, from->path < 0 ? NULL
                             : d->paths.bytes + d->paths.starts[from->path], from->number, bad.why,
                             err);
    if (o->kind == TRF_DATA_PAIRS || (o->kind == TRF_DATA_TEXTS && !o->files))
        TRF__TRY(trf__check_written(d, held, text[1], from, err));
    if (trf__is_alone(o)) return TRF_OK;
    TRF__TRY(trf__dataset_give(d, held, ids[0].ids, ids[0].n, ids[1].ids, ids[1].n, err));
    for (int side = 0; held && side < 2; side++)
        TRF__TRY(trf__texts_add(&d->held_texts[side], text[side], strlen(text[side]), &o->hooks,
                                err));
    return TRF_OK;
}

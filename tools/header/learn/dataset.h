#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/vocab.h"
#include "api/batch.h"
#include "api/learn.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "device/backend.h"
#include "system/text.h"
#include "system/files.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/vocab_use.h"
#include "data/corpus.h"
#include "data/corpus_calls.h"

// -----------------------------------------------------------------------------------------------
// >>dataset        texts, and all that follows from them
//
// Adding and reading only store texts. trf_dataset_finish does the rest once: it splits, chooses
// tokens, learns vocabularies, encodes, and fills recipe and corpus. Then the texts are freed. Side
// 0 is the source and side 1 the target; texts alone are targets, or with noise sources.
// -----------------------------------------------------------------------------------------------

/* Texts one after another, each with its NUL. Offsets, not pointers, because bytes may move. */
typedef struct trf__texts {
    char *bytes;
    int64_t *starts;
    int64_t used, capacity, count, starts_capacity;
} trf__texts;

/* Sequences of one side; both arrays grow. */
typedef struct trf__side {
    int32_t *ids, *lengths;
    int64_t used, capacity, count, lengths_capacity;
} trf__side;

/* Where a pair comes from, and what the caller said of it. */
typedef struct trf__line_from {
    int64_t number;             /* of its line */
    int32_t path;               /* index in paths, or -1 */
    char held_out, ends_document;
} trf__line_from;

/* A label: a part of a line, without a NUL. */
typedef struct trf__label { const char *text; size_t n; } trf__label;

/* Labels in the order of their bytes. */
typedef struct trf__labels {
    trf__label *items;
    int64_t n, capacity;
} trf__labels;

/* The lines of each side, first those to learn from, then those held out. */
typedef struct trf__split {
    const char **lines[2];
    char *held;                 /* of the lines as they were added */
    char *used;
    int64_t n, train;
    trf__labels labels;         /* those to learn from */
    int64_t numbers;            /* how many numbers a pair has, if labels are numbers */
} trf__split;

/* Ids that a pair, or a part of a text, is made of. */
typedef struct trf__encoding {
    trf__text_ids ids[2], word; /* of the current line; of a word of it */
    trf__text_ids stream;       /* ids of texts alone that are not in a chunk yet */
    int document;               /* 1: the current document has ids */
    int begun;                  /* 1: the stream goes on with a document that a chunk has begun */
    trf__texts part;            /* a word, or the first of two texts */
} trf__encoding;

struct trf_dataset {
    trf_dataset_options options;
    trf__texts texts[2], paths;
    trf__line_from *origins;
    int64_t origins_capacity;
    trf_vocab *vocab[2];            /* the same pointer if both sides share one */
    int chosen[2];                  /* 1: what a token is was chosen from the texts */
    trf__split split;
    trf__encoding encoding;
    trf__side held[2];
    trf__texts held_texts[2];
    trf_batch held_out;             /* a view of held */
    trf_data_stats stats;
    trf_recipe recipe;
    trf_corpus *corpus;
    int64_t unreadable, left_out;   /* lines, and pairs with another fault */
    char *labels;                   /* one a line, or NULL */
    size_t labels_bytes;
    trf_data_results told;          /* what trf_dataset_results returns: its pointers, `labels` and
                                       `lines` since it is finished */
    int finished;
};

/* Numbers of the pairs to learn from, or of those held out. */
TRF__FN trf_token_facts *trf__facts_of(trf_dataset *d, int held)
{
    return held ? &d->told.held_out_facts : &d->told.facts;
}

enum { TRF__LONGEST_TEXT = 511 };       /* max_length of the presets, without BOS or EOS */

TRF_API trf_dataset_options trf_dataset_defaults(void)
{
    TRF__ZEROED(trf_dataset_options, o);
    o.max_vocab = 32000;
    o.min_count = 1;
    o.max_length = TRF__LONGEST_TEXT;
    o.max_line_bytes = 1 << 20;
    o.source_first = o.source_last = o.target_first = -1;
    o.seed = 1;
    o.hold_out_rule = TRF_HOLD_OUT_UNSEEN;
    o.device = trf_device_default();
    return o;
}

// >>dataset-store  options

/* The recipe's special ids are the usual ones, and texts alone end with id 2. */
TRF__FN trf_status trf__check_usual_ids(const trf_vocab *vocab, const char *field, trf_error *err)
{
    for (int i = 0; vocab && i < TRF__SPECIALS; i++)
        TRF__FAIL_IF(trf_vocab_special(vocab, (trf_special)i) != i, TRF_E_UNSUPPORTED, i, field,
                     "a data set needs a vocabulary whose pad, bos, eos and unk are 0, 1, 2 and 3; "
                     "this one has ids of its own");
    return TRF_OK;
}

/* Whether a side has texts with a vocabulary. Labels have none. */
TRF__FN int trf__dataset_reads(const trf_dataset_options *o, int side)
{
    return side ? o->kind <= TRF_DATA_TEXTS : o->kind != TRF_DATA_TEXTS;
}

/* Texts alone, and the side that has them. */
TRF__FN int trf__is_alone(const trf_dataset_options *o)
{
    return o->kind == TRF_DATA_TEXTS || o->kind == TRF_DATA_SOURCES;
}
TRF__FN int trf__lead_of(const trf_dataset_options *o) { return o->kind == TRF_DATA_TEXTS; }

TRF__FN int trf__is_labelled(const trf_dataset_options *o)
{
    return o->kind == TRF_DATA_LABELLED || o->kind == TRF_DATA_TAGGED;
}

/* Labels are numbers. */
TRF__FN int trf__is_numbered(const trf_dataset_options *o)
{
    return o->label_kind == TRF_LABELS_NUMBERS;
}

/* Pairs that go to the caller, or lie in a file, are encoded by vocabularies that are there. */
TRF__FN trf_status trf__dataset_given(const trf_dataset_options *o, trf_error *err)
{
    const char *const what = o->pair ? "pair" : "token_file";
    if (!o->pair && !o->token_file) return TRF_OK;
    TRF__FAIL_IF(trf__is_labelled(o), TRF_E_UNSUPPORTED, -1, what,
                 "%s: pairs with labels must be kept in memory", what);
    for (int side = 0; side < 2 && (o->pair || !o->make_vocabs); side++)
        TRF__FAIL_IF(trf__dataset_reads(o, side) && !(side ? o->target_vocab : o->source_vocab),
                     TRF_E_INVALID_ARG, -1, side ? "target_vocab" : "source_vocab",
                     "%s needs finished vocabularies", what);
    return TRF_OK;
}

TRF__COLD
TRF__FN trf_status trf__dataset_check(const trf_dataset_options *o, trf_error *err)
{
    TRF__RANGE(o, kind, 0, TRF_DATA_KIND_COUNT - 1);
    TRF__RANGE(o, source_tokens, 0, 2);
    TRF__RANGE(o, target_tokens, 0, 2);
    TRF__RANGE(o, max_vocab, 5, 1 << 24);
    TRF__RANGE(o, min_count, 1, (double)INT64_MAX);
    TRF__RANGE(o, max_length, 1, 1 << 24);
    TRF__RANGE(o, max_line_bytes, 1, (double)INT64_MAX);
    TRF__RANGE(o, chunk, 0, o->max_length);
    TRF__RANGE(o, pack, 0, 1);
    TRF__RANGE(o, files, 0, 1);
    TRF__RANGE(o, keep_empty, 0, 1);
    TRF__RANGE(o, keep_texts, 0, 1);
    TRF__RANGE(o, source_first, -1, 1 << 24);
    TRF__RANGE(o, source_last, -1, 1 << 24);
    TRF__RANGE(o, target_first, -1, 1 << 24);
    TRF__RANGE(o, held_out, -1, (double)INT64_MAX);
    TRF__RANGE(o, bare_chunks, 0, 1);
    TRF__RANGE(o, hold_out_rule, 0, TRF_HOLD_OUT_RULE_COUNT - 1);
    TRF__RANGE(o, label_kind, 0, o->kind == TRF_DATA_LABELLED ? TRF_LABEL_KIND_COUNT - 1 : 0);
    TRF__RANGE(o, updates, 0, (double)INT64_MAX);
    TRF__RANGE(o, effort, 0, TRF_EFFORT_COUNT - 1);
    if (!o->config) TRF__TRY(trf__check_usual_ids(o->source_vocab, "source_vocab", err));
    if (!o->config) TRF__TRY(trf__check_usual_ids(o->target_vocab, "target_vocab", err));
    TRF__TRY(trf__dataset_given(o, err));
    TRF__TRY(trf__device_check(&o->device, err));
    return trf__hooks_check(&o->hooks, err);
}

TRF__COLD
TRF_API trf_status trf_dataset_create(trf_dataset **data, const trf_dataset_options *options,
                                      trf_error *err)
{
    trf_dataset_options o = options ? *options : trf_dataset_defaults();
    TRF__BEGIN_NEW(data);
    TRF__TRY(trf__dataset_check(&o, err));
    TRF__ALLOC_ZEROED(trf_dataset, *data, &o.hooks, 1, "data", "for a data set");
    (*data)->options = o;
    if (o.pair) {
        (*data)->vocab[0] = (trf_vocab *)(uintptr_t)o.source_vocab;
        (*data)->vocab[1] = (trf_vocab *)(uintptr_t)o.target_vocab;
    }
    return TRF_OK;
}

// >>dataset-texts  texts, and the places where they come from

TRF__FN void trf__texts_free(trf__texts *t, const trf_hooks *hooks)
{
    trf__free(hooks, t->bytes, (size_t)t->capacity);
    TRF__FREE(hooks, t->starts, t->starts_capacity);
    memset(t, 0, sizeof *t);
}

TRF__COLD
TRF__FN void trf__split_free(trf__split *s, const trf_hooks *hooks)
{
    trf__free(hooks, (void *)s->lines[0], trf__bytes(s->n, sizeof *s->lines[0]));
    trf__free(hooks, (void *)s->lines[1], trf__bytes(s->n, sizeof *s->lines[1]));
    trf__free(hooks, s->held, (size_t)s->n);
    trf__free(hooks, s->used, (size_t)s->n);
    TRF__FREE(hooks, s->labels.items, s->labels.capacity);
    memset(s, 0, sizeof *s);
}

TRF__FN void trf__ids_free(trf__text_ids *ids, const trf_hooks *hooks)
{
    TRF__FREE(hooks, ids->ids, ids->capacity);
    memset(ids, 0, sizeof *ids);
}

TRF__COLD
TRF__FN void trf__encoding_free(trf__encoding *e, const trf_hooks *hooks)
{
    trf__ids_free(&e->ids[0], hooks);
    trf__ids_free(&e->ids[1], hooks);
    trf__ids_free(&e->word, hooks);
    trf__ids_free(&e->stream, hooks);
    trf__texts_free(&e->part, hooks);
}

/* Frees the results of finishing, whether complete or not. The texts stay. */
TRF__COLD
TRF__FN void trf__dataset_clear(trf_dataset *d)
{
    const trf_hooks *hooks = &d->options.hooks;
    if (d->vocab[1] != d->vocab[0] && !d->options.pair) trf_vocab_destroy(d->vocab[1]);
    if (!d->options.pair) trf_vocab_destroy(d->vocab[0]);      /* else they are the caller's */
    d->vocab[0] = d->vocab[1] = NULL;
    for (int side = 0; side < 2; side++) {
        TRF__FREE(hooks, d->held[side].ids, d->held[side].capacity);
        TRF__FREE(hooks, d->held[side].lengths, d->held[side].lengths_capacity);
        trf__texts_free(&d->held_texts[side], hooks);
    }
    TRF__ZERO(d->held);
    trf__split_free(&d->split, hooks);
    trf__encoding_free(&d->encoding, hooks);
    trf_corpus_destroy(d->corpus);
    d->corpus = NULL;
    trf__free(hooks, d->labels, d->labels_bytes);
    d->labels = NULL;
    d->left_out = 0;
    TRF__ZERO(d->told);
    TRF__ZERO(d->stats);
}

TRF__COLD
TRF__FN void trf__dataset_forget(trf_dataset *d)
{
    const trf_hooks *hooks = &d->options.hooks;
    trf__texts_free(&d->texts[0], hooks);
    trf__texts_free(&d->texts[1], hooks);
    TRF__FREE(hooks, d->origins, d->origins_capacity);
    d->origins = NULL;
    d->origins_capacity = 0;
}

TRF__COLD
TRF_API void trf_dataset_destroy(trf_dataset *data)
{
    if (!data) return;
    trf_hooks hooks = data->options.hooks;
    trf__dataset_clear(data);
    trf__dataset_forget(data);
    trf__texts_free(&data->paths, &hooks);
    trf__free(&hooks, data, sizeof *data);
}

TRF__FN trf_status trf__texts_add(trf__texts *t, const char *text, size_t n,
                                  const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(char, t->bytes, t->capacity, t->used + (int64_t)n + 1, hooks);
    TRF__GROW(int64_t, t->starts, t->starts_capacity, t->count + 1, hooks);
    /* both arrays have grown before anything changes */
    if (n) memcpy(t->bytes + t->used, text, n);
    t->bytes[t->used + (int64_t)n] = 0;
    t->starts[t->count++] = t->used;
    t->used += (int64_t)n + 1;
    return TRF_OK;
}

/* Adds both sides of a pair or neither. */
TRF__FN trf_status trf__dataset_append(trf_dataset *d, const trf_line *line, size_t n, size_t k,
                                       trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    trf__texts *paths = &d->paths;
    int32_t path = line->path ? (int32_t)paths->count - 1 : -1;
    TRF__GROW(trf__line_from, d->origins, d->origins_capacity, d->texts[0].count + 1, hooks);
    /* lines of one file follow one another, so the last path is tried */
    if (line->path && (path < 0 || strcmp(line->path, paths->bytes + paths->starts[path]))) {
        TRF__TRY(trf__texts_add(paths, line->path, strlen(line->path), hooks, err));
        path++;
    }
    TRF__TRY(trf__texts_add(&d->texts[0], line->source, n, hooks, err));
    if (trf__texts_add(&d->texts[1], line->target, k, hooks, err) != TRF_OK) {
        d->texts[0].used = d->texts[0].starts[--d->texts[0].count];
        return TRF_E_NOMEM;
    }
    const trf__line_from from = {line->number, path, line->held_out != 0, line->ends_document != 0};
    d->origins[d->texts[0].count - 1] = from;
    return TRF_OK;
}

/* Fails if the data set is finished: its texts are gone by then. */
TRF__FN trf_status trf__dataset_open(const trf_dataset *d, trf_error *err)
{
    TRF__TRY(trf__begin(d, "data", err));
    return TRF__OK_IF(!d->finished, TRF_E_STATE, -1, "data",
                      "expected a data set that is not finished, got a finished one");
}

/* Leaves a line out, or fails. */
TRF__FN trf_status trf__bad_line(trf_dataset *d, trf_fault fault, int side, const char *path,
                                 int64_t number, const char *why, trf_error *err)
{
    trf_bad_line line = {fault, why, path, number, side ? TRF_TARGET : TRF_SOURCE};
    const trf_dataset_options *o = &d->options;
    int unreadable = fault == TRF_FAULT_UNREADABLE || fault == TRF_FAULT_LINE ||
                     fault == TRF_FAULT_ENCODING;
    ++*(unreadable ? &d->unreadable : &d->left_out);
    if (o->bad_line ? !o->bad_line(o->user, &line) : !unreadable) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, number, "line", "line %lld: %s", (long long)number, why);
}

// >>labels         texts of labels as numbers
//
// A label's number is its rank among all by their bytes: the same data give the same numbers.

/* labels that a model may have, bytes that one may have */
enum { TRF__MOST_LABELS = 65536, TRF__LONGEST_LABEL = 1000 };

/* What ends a label: whitespace; a comma; nothing, as the whole line is one label. */
typedef enum trf__label_end { TRF__AT_BLANKS, TRF__AT_COMMAS, TRF__AT_THE_END } trf__label_end;

TRF__FN trf__label_end trf__label_end_of(const trf_dataset_options *o)
{
    return o->kind == TRF_DATA_TAGGED ? TRF__AT_BLANKS
         : o->label_kind == TRF_LABELS_ANY ? TRF__AT_COMMAS : TRF__AT_THE_END;
}

/* Reads the next label of a line, or the next word; *text moves past it. It may contain blanks,
   unless they end it. An empty one between commas is none. Returns 0 at the end. */
TRF__FN int trf__next_label(trf__label *label, const char **text, trf__label_end end)
{
    while (end == TRF__AT_COMMAS && (**text == ',' || trf__is_blank(**text))) ++*text;
    label->n = trf__next_token(TRF_WORDS, text, &label->text);
    if (end == TRF__AT_BLANKS || !label->n) return label->n > 0;
    label->n = end == TRF__AT_COMMAS ? strcspn(label->text, ",") : strlen(label->text);
    *text = label->text + label->n;
    while (trf__is_blank(label->text[label->n - 1])) label->n--;
    return 1;
}

TRF__FN int trf__by_label(const void *context, const void *a, const void *b)
{
    (void)context;
    const trf__label *x = (const trf__label *)a, *y = (const trf__label *)b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : x->n < y->n ? -1 : x->n > y->n;
}

/* Index of a label in the sorted list, or where it would be inserted. */
TRF__FN int64_t trf__label_at(const trf__labels *l, const trf__label *label)
{
    int64_t at = 0;
    TRF__BISECT(at, l->n, trf__by_label(NULL, &l->items[middle], label) < 0);
    return at;
}

/* Number of a label, or -1. */
TRF__FN int32_t trf__label_number(const trf__labels *l, const trf__label *label)
{
    int64_t at = trf__label_at(l, label);
    return at < l->n && !trf__by_label(NULL, &l->items[at], label) ? (int32_t)at : -1;
}

/* Sorts the labels, and keeps one of each. */
TRF__FN void trf__labels_settle(trf__labels *l)
{
    int64_t n = 0;
    trf__sort_items(l->items, (size_t)l->n, sizeof *l->items, trf__by_label);
    for (int64_t i = 0; i < l->n; i++)
        if (n == 0 || trf__by_label(NULL, &l->items[n - 1], &l->items[i]))
            l->items[n++] = l->items[i];
    l->n = n;
}

TRF__FN trf_status trf__labels_check(const trf__labels *l, int64_t most, trf_error *err)
{
    return TRF__OK_IF(l->n <= most, TRF_E_LIMIT, -1, "labels",
                      "expected at most %d labels, got more", (int)TRF__MOST_LABELS);
}

/* Adds the labels of a line. Now and then duplicates go: memory does not grow with the lines. */
TRF__FN trf_status trf__labels_add(trf__labels *l, const trf_dataset *d, const char *line,
                                   trf_error *err)
{
    trf__label label;
    while (trf__next_label(&label, &line, trf__label_end_of(&d->options))) {
        if (label.n > TRF__LONGEST_LABEL) continue;
        TRF__GROW(trf__label, l->items, l->capacity, l->n + 1, &d->options.hooks);
        l->items[l->n++] = label;
    }
    if (l->n > 4 * TRF__MOST_LABELS) trf__labels_settle(l);
    return trf__labels_check(l, 4 * TRF__MOST_LABELS, err);
}

/* Inserts the labels of a line that the sorted list lacks. *added is their number. */
TRF__FN trf_status trf__labels_insert(trf__labels *l, const trf_dataset *d, const char *line,
                                      int64_t *added, trf_error *err)
{
    trf__label label;
    int64_t before = l->n;
    while (trf__next_label(&label, &line, trf__label_end_of(&d->options))) {
        int64_t at = trf__label_at(l, &label);
        if (label.n > TRF__LONGEST_LABEL || trf__label_number(l, &label) >= 0) continue;
        TRF__GROW(trf__label, l->items, l->capacity, l->n + 1, &d->options.hooks);
        memmove(l->items + at + 1, l->items + at, (size_t)(l->n - at) * sizeof label);
        l->items[at] = label;
        l->n++;
        TRF__TRY(trf__labels_check(l, TRF__MOST_LABELS, err));
    }
    *added = l->n - before;
    return TRF_OK;
}

/* Collects the labels to learn from. A label must not occur in held-out pairs only: such a pair is
   learned from, with all pairs of its source, unless the caller holds it out. Lines are not yet
   sorted, so their texts are read from d. */
TRF__COLD
TRF__FN trf_status trf__labels_keep(const trf_dataset *d, trf__split *s, int given, int64_t *count,
                                    trf_error *err)
{
    const trf__texts *labels = &d->texts[1];
    int64_t added;
    for (int64_t i = 0; i < s->n; i++)
        if (!s->held[i]) TRF__TRY(trf__labels_add(&s->labels, d, labels->bytes + labels->starts[i],
                                                  err));
    trf__labels_settle(&s->labels);
    TRF__TRY(trf__labels_check(&s->labels, TRF__MOST_LABELS, err));
    for (int64_t i = 0; i < s->n && !given; i++) {
        if (!s->held[i]) continue;
        TRF__TRY(trf__labels_insert(&s->labels, d, labels->bytes + labels->starts[i], &added, err));
        if (!added) continue;
        for (int64_t k = 0; k < s->n; k++) {
            if (s->held[k] != 1 || strcmp(s->lines[0][k], s->lines[0][i])) continue;
            s->held[k] = 2;         /* its own labels are known, or follow when i reaches it */
            --*count;
        }
    }
    for (int64_t i = 0; i < s->n; i++) s->held[i] = s->held[i] == 1;
    return TRF_OK;
}

/* Takes the labels of the caller instead, one per line. */
TRF__FN trf_status trf__labels_take(trf__labels *l, const char *text, const trf_hooks *hooks,
                                    trf_error *err)
{
    for (l->n = 0; *text; text += text[strcspn(text, "\n")] ? strcspn(text, "\n") + 1
                                                           : strlen(text)) {
        TRF__GROW(trf__label, l->items, l->capacity, l->n + 1, hooks);
        l->items[l->n].text = text;
        l->items[l->n++].n = strcspn(text, "\n");
        TRF__FAIL_IF(l->n > 1 && trf__by_label(NULL, &l->items[l->n - 2], &l->items[l->n - 1]) >= 0,
                     TRF_E_INVALID_ARG, l->n - 1, "labels",
                     "expected different labels in the order of their bytes");
    }
    return TRF_OK;
}

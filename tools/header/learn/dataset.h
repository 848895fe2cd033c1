#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/vocab.h"
#include "api/batch.h"
#include "api/learn.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
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
// 0 is the source and side 1 the target; texts alone are targets.
// -----------------------------------------------------------------------------------------------

/* Texts one after another, each followed by a NUL. Offsets, not pointers, because bytes may move.
   */
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

struct trf_dataset {
    trf_dataset_options options;
    trf__texts texts[2];
    trf_vocab *vocab[2];            /* the same pointer if both sides share one */
    trf__side held[2];
    trf_batch held_out;             /* a view of held */
    trf_data_stats stats;
    trf_recipe recipe;
    trf_corpus *corpus;
    int64_t left_out;               /* pairs that are empty or too long */
    int64_t unknown;                /* number of unk among the target ids to learn from */
    char *labels;                   /* one a line, or NULL */
    size_t labels_bytes;
    int finished;
};

TRF_API trf_dataset_options trf_dataset_defaults(void)
{
    trf_dataset_options o;
    TRF__ZERO(o);
    o.max_vocab = 32000;
    o.min_count = 1;
    o.seed = 1;
    return o;
}

/* The recipe's special ids are the usual ones, and texts alone end with id 2. */
TRF__FN trf_status trf__usual_ids(const trf_vocab *vocab, const char *field, trf_error *err)
{
    int i;
    for (i = 0; vocab && i < TRF__SPECIALS; i++)
        if (trf_vocab_special(vocab, (trf_special)i) != i)
            return trf__fail(err, TRF_E_UNSUPPORTED, i, field,
                             "a data set needs a vocabulary whose pad, bos, eos and unk are 0, 1, "
                             "2 and 3; this one has ids of its own");
    return TRF_OK;
}

TRF__FN trf_status trf__dataset_check(const trf_dataset_options *o, trf_error *err)
{
    TRF__RANGE(o, kind, 0, TRF_DATA_KIND_COUNT - 1);
    TRF__RANGE(o, source_tokens, 0, 2);
    TRF__RANGE(o, target_tokens, 0, 2);
    TRF__RANGE(o, max_vocab, 5, 1 << 24);
    TRF__RANGE(o, min_count, 1, (double)INT64_MAX);
    TRF__RANGE(o, held_out, -1, (double)INT64_MAX);
    TRF__RANGE(o, updates, 0, (double)INT64_MAX);
    TRF__TRY(trf__usual_ids(o->source_vocab, "source_vocab", err));
    TRF__TRY(trf__usual_ids(o->target_vocab, "target_vocab", err));
    return trf__hooks_check(&o->hooks, err);
}

TRF__COLD
TRF_API trf_status trf_dataset_create(trf_dataset **data, const trf_dataset_options *options,
                                      trf_error *err)
{
    trf_dataset_options o = options ? *options : trf_dataset_defaults();
    TRF__TRY(trf__begin(data, "data", err));
    *data = NULL;
    TRF__TRY(trf__dataset_check(&o, err));
    *data = (trf_dataset *)trf__alloc_zeroed(&o.hooks, sizeof **data);
    if (!*data) return trf__fail(err, TRF_E_NOMEM, -1, "data", "no memory for a data set");
    (*data)->options = o;
    return TRF_OK;
}

TRF__FN void trf__texts_free(trf__texts *t, const trf_hooks *hooks)
{
    trf__free(hooks, t->bytes, (size_t)t->capacity);
    trf__free(hooks, t->starts, trf__bytes(t->starts_capacity, sizeof *t->starts));
    memset(t, 0, sizeof *t);
}

TRF__FN void trf__side_free(trf__side *s, const trf_hooks *hooks)
{
    trf__free(hooks, s->ids, trf__bytes(s->capacity, sizeof *s->ids));
    trf__free(hooks, s->lengths, trf__bytes(s->lengths_capacity, sizeof *s->lengths));
    memset(s, 0, sizeof *s);
}

/* Frees the results of finishing, whether complete or not. The texts stay. */
TRF__FN void trf__dataset_clear(trf_dataset *d)
{
    int side;
    if (d->vocab[1] != d->vocab[0]) trf_vocab_destroy(d->vocab[1]);
    trf_vocab_destroy(d->vocab[0]);
    d->vocab[0] = d->vocab[1] = NULL;
    for (side = 0; side < 2; side++) trf__side_free(&d->held[side], &d->options.hooks);
    trf_corpus_destroy(d->corpus);
    d->corpus = NULL;
    trf__free(&d->options.hooks, d->labels, d->labels_bytes);
    d->labels = NULL;
    d->left_out = d->unknown = 0;
    TRF__ZERO(d->stats);
}

TRF__COLD
TRF_API void trf_dataset_destroy(trf_dataset *data)
{
    trf_hooks hooks;
    if (!data) return;
    hooks = data->options.hooks;
    trf__dataset_clear(data);
    trf__texts_free(&data->texts[0], &hooks);
    trf__texts_free(&data->texts[1], &hooks);
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
TRF__FN trf_status trf__dataset_append(trf_dataset *d, const char *source, size_t n,
                                       const char *target, size_t k, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    TRF__TRY(trf__texts_add(&d->texts[0], source, n, hooks, err));
    if (trf__texts_add(&d->texts[1], target, k, hooks, err) == TRF_OK) return TRF_OK;
    d->texts[0].used = d->texts[0].starts[--d->texts[0].count];
    return TRF_E_NOMEM;
}

/* Fails if the data set is finished: its texts are gone by then. */
TRF__FN trf_status trf__dataset_open(const trf_dataset *d, trf_error *err)
{
    TRF__TRY(trf__begin(d, "data", err));
    if (!d->finished) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "data",
                     "expected a data set that is not finished, got a finished one");
}

TRF_API trf_status trf_dataset_add(trf_dataset *data, const char *source, const char *target,
                                   trf_error *err)
{
    TRF__TRY(trf__dataset_open(data, err));
    if (!target) return trf__fail_null(err, "target");
    if (data->options.kind != TRF_DATA_TEXTS && !source) return trf__fail_null(err, "source");
    /* texts alone have an empty source, so that both sides always have as many lines */
    if (data->options.kind == TRF_DATA_TEXTS) source = "";
    TRF__TRY(trf__check_utf8(source, "source", err));
    TRF__TRY(trf__check_utf8(target, "target", err));
    if (data->options.kind == TRF_DATA_LABELLED && strchr(target, '\n'))
        return trf__fail(err, TRF_E_FORMAT, (int64_t)strcspn(target, "\n"), "target",
                         "expected a label of one line");
    return trf__dataset_append(data, source, strlen(source), target, strlen(target), err);
}

// >>dataset-read   lines of files
//
// A file is read as a whole, then cut into lines. An error in any line removes all lines of that
// call, so a corrected file can be read again.

/* A text that is read line by line. number: of the last line read, from 1. */
typedef struct trf__lines {
    const char *path;
    char *text;
    size_t n, bytes, at;
    int64_t number;
} trf__lines;

/* Returns the next line and its length *n, or NULL at the end. A CR before the LF is dropped. */
TRF__FN const char *trf__next_line(trf__lines *l, size_t *n)
{
    const char *line = l->text + l->at, *end;
    if (l->at >= l->n) return NULL;
    end = (const char *)memchr(line, '\n', l->n - l->at);
    *n = end ? (size_t)(end - line) : l->n - l->at;
    l->at += *n + (end != NULL);
    if (*n && line[*n - 1] == '\r') --*n;
    l->number++;
    return line;
}

/* Checks one line; the error has its number. */
TRF__FN trf_status trf__line_fault(const trf__lines *l, const char *line, size_t n, trf_error *err)
{
    int64_t fault = trf_find_invalid_utf8(line, n);
    if (memchr(line, 0, n))
        return trf__fail(err, TRF_E_FORMAT, l->number, "line",
                         "line %lld: expected text, got a NUL byte", (long long)l->number);
    if (fault < 0) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, l->number, "line",
                     "line %lld: expected UTF-8, got the byte 0x%02X at offset %lld",
                     (long long)l->number, (unsigned)(unsigned char)line[fault], (long long)fault);
}

/* Reads the pairs of one file or two, or texts alone. */
TRF__FN trf_status trf__read_pairs(trf_dataset *d, trf__lines *l, int two, trf_error *err)
{
    const char *line[2], *tab;
    size_t n[2] = {0, 0};
    for (;;) {
        line[0] = trf__next_line(&l[0], &n[0]);
        line[1] = two ? trf__next_line(&l[1], &n[1]) : "";
        if (!line[0] || !line[1]) break;
        TRF__TRY(trf__line_fault(&l[0], line[0], n[0], err));
        if (two) TRF__TRY(trf__name_file(trf__line_fault(&l[1], line[1], n[1], err), l[1].path,
                                         err));
        else if (d->options.kind != TRF_DATA_TEXTS) {
            tab = (const char *)memchr(line[0], '\t', n[0]);
            if (!tab || memchr(tab + 1, '\t', n[0] - (size_t)(tab - line[0]) - 1))
                return trf__fail(err, TRF_E_FORMAT, l[0].number, "line",
                                 "line %lld: expected %s", (long long)l[0].number,
                                 d->options.kind == TRF_DATA_PAIRS ? "source, one tab, target"
                                 : d->options.kind == TRF_DATA_TAGGED
                                 ? "words, one tab, their labels"
                                 : "text, one tab, label");
            line[1] = tab + 1;
            n[1] = n[0] - (size_t)(tab - line[0]) - 1;
            n[0] = (size_t)(tab - line[0]);
        } else {
            line[1] = line[0];
            n[1] = n[0];
            n[0] = 0;
        }
        TRF__TRY(trf__dataset_append(d, line[0], n[0], line[1], n[1], err));
    }
    if (!two || (!line[0] && !line[1])) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, -1, "line", "line n of one file must belong to line n of "
                     "the other, but one ends after %lld line%s",
                     (long long)(line[0] ? l[1].number : l[0].number),
                     trf__plural(line[0] ? l[1].number : l[0].number));
}

TRF_API trf_status trf_dataset_read(trf_dataset *data, const char *source, const char *target,
                                    trf_error *err)
{
    const char *const paths[2] = {source, target};
    trf__texts before[2];
    trf__lines l[2];
    trf_status status = TRF_OK;
    int i, two = target != NULL;
    TRF__TRY(trf__dataset_open(data, err));
    if (!source) return trf__fail_null(err, "source");
    if (two && data->options.kind == TRF_DATA_TEXTS)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "target",
                         "texts without labels come from one file: target must be NULL");
    TRF__ZERO(l);
    for (i = 0; i <= two && status == TRF_OK; i++) {
        l[i].path = paths[i];
        status = trf__read_text(paths[i], &l[i].text, &l[i].n, &data->options.hooks, err);
        status = trf__name_file(status, paths[i], err);
        l[i].bytes = l[i].n + 1;
    }
    memcpy(before, data->texts, sizeof before);
    if (status == TRF_OK) status = trf__name_file(trf__read_pairs(data, l, two, err), source, err);
    for (i = 0; i < 2 && status != TRF_OK; i++) {       /* forget the lines of this call */
        data->texts[i].count = before[i].count;
        data->texts[i].used = before[i].used;
    }
    for (i = 0; i < 2; i++) trf__free(&data->options.hooks, l[i].text, l[i].bytes);
    return status;
}

// >>labels         texts of labels as numbers
//
// A label's number is its rank among all labels by their bytes: the same data give the same
// numbers.

/* A label: a part of a line, without a NUL. */
typedef struct trf__label { const char *text; size_t n; } trf__label;

/* Pointers to the lines of each side, first those to learn from, then those held out. labels: the
   labels to learn from in the order of their bytes. */
typedef struct trf__split {
    const char **lines[2];
    char *held;
    int64_t n, train;
    trf__label *labels;
    int64_t n_labels, capacity;
} trf__split;

TRF__FN void trf__split_free(trf__split *s, const trf_hooks *hooks)
{
    trf__free(hooks, (void *)s->lines[0], trf__bytes(s->n, sizeof *s->lines[0]));
    trf__free(hooks, (void *)s->lines[1], trf__bytes(s->n, sizeof *s->lines[1]));
    trf__free(hooks, s->held, (size_t)s->n);
    trf__free(hooks, s->labels, trf__bytes(s->capacity, sizeof *s->labels));
}

/* labels that a model may have, bytes that one may have */
enum { TRF__MOST_LABELS = 65536, TRF__LONGEST_LABEL = 1000 };

/* Reads the next label of a line, or the next word; *text moves past it. Without `tagged` the whole
   line is one label, which may contain blanks. Returns 0 at the end. */
TRF__FN int trf__next_label(trf__label *label, const char **text, int tagged)
{
    label->n = trf__next_token(TRF_WORDS, text, &label->text);
    if (tagged || !label->n) return label->n > 0;
    label->n = strlen(label->text);
    *text = label->text + label->n;
    while (trf__is_blank(label->text[label->n - 1])) label->n--;
    return 1;
}

TRF__FN int trf__by_label(const void *a, const void *b)
{
    const trf__label *x = (const trf__label *)a, *y = (const trf__label *)b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : x->n < y->n ? -1 : x->n > y->n;
}

/* Index of a label in the sorted list, or where it would be inserted. */
TRF__FN int64_t trf__label_at(const trf__split *s, const trf__label *label)
{
    int64_t low = 0, high = s->n_labels;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (trf__by_label(&s->labels[middle], label) < 0) low = middle + 1; else high = middle;
    }
    return low;
}

/* Number of a label, or -1. */
TRF__FN int32_t trf__label_number(const trf__split *s, const trf__label *label)
{
    int64_t at = trf__label_at(s, label);
    return at < s->n_labels && !trf__by_label(&s->labels[at], label) ? (int32_t)at : -1;
}

/* Sorts the labels, and keeps one of each. */
TRF__FN void trf__labels_settle(trf__split *s)
{
    int64_t i, n = 0;
    trf__sort_items(s->labels, (size_t)s->n_labels, sizeof *s->labels, trf__by_label);
    for (i = 0; i < s->n_labels; i++)
        if (n == 0 || trf__by_label(&s->labels[n - 1], &s->labels[i]))
            s->labels[n++] = s->labels[i];
    s->n_labels = n;
}

TRF__FN trf_status trf__labels_check(const trf__split *s, int64_t most, trf_error *err)
{
    if (s->n_labels <= most) return TRF_OK;
    return trf__fail(err, TRF_E_LIMIT, -1, "labels", "expected at most %d labels, got more",
                     (int)TRF__MOST_LABELS);
}

/* Adds the labels of a line. From time to time duplicates are removed, so that memory does not grow
   with the lines. */
TRF__FN trf_status trf__labels_add(trf__split *s, const trf_dataset *d, const char *line,
                                   trf_error *err)
{
    trf__label label;
    while (trf__next_label(&label, &line, d->options.kind == TRF_DATA_TAGGED)) {
        if (label.n > TRF__LONGEST_LABEL) continue;
        TRF__GROW(trf__label, s->labels, s->capacity, s->n_labels + 1, &d->options.hooks);
        s->labels[s->n_labels++] = label;
    }
    if (s->n_labels > 4 * TRF__MOST_LABELS) trf__labels_settle(s);
    return trf__labels_check(s, 4 * TRF__MOST_LABELS, err);
}

/* Inserts the labels of a line that the sorted list lacks, each at its position. *added is their
   number. */
TRF__FN trf_status trf__labels_insert(trf__split *s, const trf_dataset *d, const char *line,
                                      int64_t *added, trf_error *err)
{
    trf__label label;
    int64_t before = s->n_labels;
    while (trf__next_label(&label, &line, d->options.kind == TRF_DATA_TAGGED)) {
        int64_t at = trf__label_at(s, &label);
        if (label.n > TRF__LONGEST_LABEL || trf__label_number(s, &label) >= 0) continue;
        TRF__GROW(trf__label, s->labels, s->capacity, s->n_labels + 1, &d->options.hooks);
        memmove(s->labels + at + 1, s->labels + at, (size_t)(s->n_labels - at) * sizeof label);
        s->labels[at] = label;
        s->n_labels++;
        TRF__TRY(trf__labels_check(s, TRF__MOST_LABELS, err));
    }
    *added = s->n_labels - before;
    return TRF_OK;
}

/* Collects the labels to learn from. A label must not occur in held-out pairs only: such a pair is
   learned from, with all pairs of its source. Lines are not yet sorted, so their texts are read
   from d. */
TRF__FN trf_status trf__labels_keep(const trf_dataset *d, trf__split *s, int64_t *count,
                                    trf_error *err)
{
    const trf__texts *labels = &d->texts[1];
    int64_t i, k, added;
    for (i = 0; i < s->n; i++)
        if (!s->held[i]) TRF__TRY(trf__labels_add(s, d, labels->bytes + labels->starts[i], err));
    trf__labels_settle(s);
    TRF__TRY(trf__labels_check(s, TRF__MOST_LABELS, err));
    for (i = 0; i < s->n; i++) {
        if (!s->held[i]) continue;
        TRF__TRY(trf__labels_insert(s, d, labels->bytes + labels->starts[i], &added, err));
        if (!added) continue;
        for (k = 0; k < s->n; k++) {
            if (s->held[k] != 1 || strcmp(s->lines[0][k], s->lines[0][i])) continue;
            s->held[k] = 2;         /* its own labels are known, or follow when i reaches it */
            --*count;
        }
    }
    for (i = 0; i < s->n; i++) s->held[i] = s->held[i] == 1;
    return TRF_OK;
}

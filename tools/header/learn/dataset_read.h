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
#include "system/text.h"
#include "system/files.h"
#include "learn/dataset.h"
#include "learn/dataset_ids.h"

// >>dataset-add    pairs of the caller
//
// A pair is stored until the data set is finished, or encoded at once if it goes to the caller.

/* Encodes the only line, and gives it to the caller. */
TRF__FN trf_status trf__dataset_pass(trf_dataset *d, trf_error *err)
{
    const char *const text[2] = {d->texts[0].bytes, d->texts[1].bytes};
    trf__line_from from = d->origins[0];
    char used;
    trf_status status = trf__encode_line(d, text, &from, 0, &used, err);
    d->texts[0].used = d->texts[0].count = d->texts[1].used = d->texts[1].count = 0;
    return status;
}

/* A line that is checked: stores it, or passes it on. */
TRF__COLD
TRF__FN trf_status trf__dataset_take(trf_dataset *d, const trf_line *line, size_t n, size_t k,
                                     trf_error *err)
{
    TRF__FAIL_IF(d->options.token_file && !line->held_out, TRF_E_STATE, -1, "token_file",
                 "the pairs to learn from are those of the token file");
    TRF__TRY(trf__dataset_append(d, line, n, k, err));
    return d->options.pair ? trf__dataset_pass(d, err) : TRF_OK;
}

/* Ends a file that is one text: marks its last line, or gives what is left of it to the caller.
   count: of the lines before it. */
TRF__FN trf_status trf__dataset_end_file(trf_dataset *d, int64_t count, trf_error *err)
{
    int64_t n = d->texts[0].count;
    if (d->options.pair) return trf__end_stream(d, 0, err);
    if (n > count) d->origins[n - 1].ends_document = 1;
    return TRF_OK;
}

TRF_API trf_status trf_dataset_add_line(trf_dataset *data, const trf_line *line, trf_error *err)
{
    TRF__TRY(trf__dataset_open(data, err));
    if (!line) return trf__fail_null(err, "line");
    TRF__RANGE(line, held_out, 0, 1);
    TRF__RANGE(line, ends_document, 0, 1);
    const trf_dataset_options *o = &data->options;
    trf_line pair = *line;
    if (!pair.target && !pair.ends_document) return trf__fail_null(err, "target");
    if (!trf__is_alone(o) && !pair.source) return trf__fail_null(err, "source");
    if (!pair.target) return trf__dataset_end_file(data, 0, err);
    /* texts alone have an empty side, so that both sides always have as many lines */
    pair.source = trf__is_alone(o) ? "" : pair.source;
    if (o->kind == TRF_DATA_SOURCES) { pair.source = pair.target; pair.target = ""; }
    TRF__TRY(trf__check_utf8(pair.source, trf__lead_of(o) ? "target" : "source", err));
    TRF__TRY(trf__check_utf8(pair.target, "target", err));
    TRF__FAIL_IF(o->kind == TRF_DATA_LABELLED && strchr(pair.target, '\n'), TRF_E_FORMAT,
                 (int64_t)strcspn(pair.target, "\n"), "target", "expected a label of one line");
    return trf__dataset_take(data, &pair, strlen(pair.source), strlen(pair.target), err);
}

TRF_API trf_status trf_dataset_add(trf_dataset *data, const char *source, const char *target,
                                   trf_error *err)
{
    trf_line line = {source, target, NULL, 0, 0, 0};
    return trf_dataset_add_line(data, &line, err);
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

/* Returns the next line and its length *n, or NULL at the end. A CR before the LF is dropped, and a
   byte order mark at the beginning. */
TRF__FN const char *trf__next_line(trf__lines *l, size_t *n)
{
    const char *line = l->text + l->at;
    if (l->at >= l->n) return NULL;
    const char *end = (const char *)memchr(line, '\n', l->n - l->at);
    *n = end ? (size_t)(end - line) : l->n - l->at;
    l->at += *n + (end != NULL);
    if (*n && line[*n - 1] == '\r') --*n;
    if (l->number++ || *n < 3 || memcmp(line, "\xEF\xBB\xBF", 3)) return line;
    *n -= 3;
    return line + 3;
}

/* Why a line is not text, or is too long, or NULL. */
TRF__FN const char *trf__line_fault(const char *line, size_t n, int64_t most, trf_fault *kind,
                                    char why[80])
{
    *kind = (uint64_t)n > (uint64_t)most ? TRF_FAULT_LINE : TRF_FAULT_UNREADABLE;
    if (*kind == TRF_FAULT_LINE) {
        snprintf(why, 80, "%llu bytes, at most %lld (max_line_bytes)", (unsigned long long)n,
                 (long long)most);
        return why;
    }
    int64_t fault = trf_find_invalid_utf8(line, n);
    if (memchr(line, 0, n)) return "expected text, got a NUL byte";
    if (fault < 0) return NULL;
    *kind = TRF_FAULT_ENCODING;
    snprintf(why, 80, "expected UTF-8, got the byte 0x%02X at offset %lld",
             (unsigned)(unsigned char)line[fault], (long long)fault);
    return why;
}

/* Cuts a line at its only tab. Returns the fault, or NULL. */
TRF__FN const char *trf__cut_line(const trf_dataset_options *o, trf_line *pair, size_t n[2])
{
    const char *tab = (const char *)memchr(pair->source, '\t', n[0]);
    if (!tab || memchr(tab + 1, '\t', n[0] - (size_t)(tab - pair->source) - 1))
        return o->kind == TRF_DATA_PAIRS ? "expected source, one tab, target"
             : o->kind == TRF_DATA_TAGGED ? "expected words, one tab, their labels"
             : "expected text, one tab, label";
    pair->target = tab + 1;
    n[1] = n[0] - (size_t)(tab - pair->source) - 1;
    n[0] = (size_t)(tab - pair->source);
    return NULL;
}

/* Reads the pairs of one file or two, or texts alone. Lines of a file that is one text keep LF. */
TRF__FN trf_status trf__read_pairs(trf_dataset *d, trf__lines *l, trf_line *pair, int two,
                                   trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    int alone = trf__is_alone(o), lead = trf__lead_of(o);
    const char *line[2] = {NULL, NULL};
    char why[80];
    for (;;) {
        trf_fault kind;
        size_t n[2] = {0, 0};
        line[0] = trf__next_line(&l[0], &n[0]);
        line[1] = two ? trf__next_line(&l[1], &n[1]) : "";
        if (!line[0] || !line[1]) break;
        const char *fault = trf__line_fault(line[0], n[0], o->max_line_bytes, &kind, why);
        int side = !fault && two;
        if (side) fault = trf__line_fault(line[1], n[1], o->max_line_bytes, &kind, why);
        pair->source = line[0];
        pair->target = line[1];
        pair->number = l[0].number;
        if (!fault && !two && !alone) fault = trf__cut_line(o, pair, n);
        if (fault) {
            TRF__TRY(trf__name_file(trf__bad_line(d, kind, side, l[side].path, pair->number, fault,
                                                  err), l[side].path, err));
            continue;
        }
        if (alone && o->files) n[0] = (size_t)(l[0].text + l[0].at - line[0]);
        if (alone && lead) {
            pair->source = "";
            pair->target = line[0];
            n[1] = n[0];
            n[0] = 0;
        }
        TRF__TRY(trf__name_file(trf__dataset_take(d, pair, n[0], n[1], err), l[0].path, err));
    }
    return TRF__OK_IF(!two || (!line[0] && !line[1]), TRF_E_FORMAT, -1, "line",
                      "line n of one file must belong to line n of the other, but one ends after "
                      "%lld line%s", (long long)(line[0] ? l[1].number : l[0].number),
                      trf__plural(line[0] ? l[1].number : l[0].number));
}

TRF__COLD
TRF_API trf_status trf_dataset_read(trf_dataset *data, const char *source, const char *target,
                                    int32_t held_out, trf_error *err)
{
    const char *const paths[2] = {source, target};
    trf_line pair = {NULL, NULL, source, 0, 0, 0};
    int64_t used[2];
    trf__lines l[2];
    trf_status status = TRF_OK;
    int two = target != NULL;
    TRF__TRY(trf__dataset_open(data, err));
    if (!source) return trf__fail_null(err, "source");
    TRF__TRY(trf__check_range("held_out", held_out, 0, 1, err));
    TRF__FAIL_IF(two && trf__is_alone(&data->options), TRF_E_INVALID_ARG, -1, "target",
                 "texts without labels come from one file: target must be NULL");
    TRF__ZERO(l);
    int64_t count = data->texts[0].count, unreadable = data->unreadable;
    pair.held_out = held_out;
    for (int i = 0; i < 2; i++) used[i] = data->texts[i].used;
    for (int i = 0; i <= two && status == TRF_OK; i++) {
        l[i].path = paths[i];
        status = trf__read_text(paths[i], &l[i].text, &l[i].n, &data->options.hooks, err);
        status = trf__name_file(status, paths[i], err);
        l[i].bytes = l[i].n + 1;
    }
    if (status == TRF_OK) status = trf__read_pairs(data, l, &pair, two, err);
    if (status == TRF_OK && data->options.files && trf__is_alone(&data->options))
        status = trf__dataset_end_file(data, count, err);
    if (status != TRF_OK) data->unreadable = unreadable;
    for (int i = 0; i < 2; i++) {
        trf__free(&data->options.hooks, l[i].text, l[i].bytes);
        if (status == TRF_OK) continue;
        data->texts[i].count = count;           /* the lines of this call go */
        data->texts[i].used = used[i];
    }
    return status;
}

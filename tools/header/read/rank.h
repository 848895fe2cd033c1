#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/model.h"
#include "api/read.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "text/vocab_use.h"
#include "model/checks.h"
#include "model/batches.h"
#include "model/model.h"
#include "read/reader.h"
#include "read/labels.h"

// >>rank           texts in the order in which they answer a query

enum { TRF__RANKED = 32 };          /* pairs of one call of trf_reader_classify */

/* The ids of the query, of a text, and of some pairs one after another. */
typedef struct trf__ranking {
    trf__text_ids query, text, pairs;
    int32_t lengths[TRF__RANKED];
} trf__ranking;

/* The order of places of the scores: larger ones first, NaN last, equal ones as they come. */
TRF__FN int trf__by_score(const void *context, const void *a, const void *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    int nan_x = *x != *x, nan_y = *y != *y;
    (void)context;
    if (nan_x != nan_y) return nan_x - nan_y;
    if (*x != *y && !nan_x) return *x > *y ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Whether the model scores pairs. *room: for a joined pair. */
TRF__FN trf_status trf__rank_check(const trf_model *model, int32_t *room, trf_error *err)
{
    const trf_config *c = &model->config;
    int32_t between;
    TRF__FAIL_IF(!c->label_kind || c->n_labels != 1, TRF_E_STATE, -1, "label_kind",
                 "ranking needs a model with one output (label_kind 1 or 2 and n_labels 1), got "
                 "label_kind %d and n_labels %d", (int)c->label_kind, c->n_labels);
    TRF__TRY(trf__separators(c, &between, err));
    *room = c->max_length - trf__source_added(c);
    TRF__FAIL_IF(*room < between, TRF_E_STATE, -1, "max_length",
                 "max_length %d has no room for a pair", c->max_length);
    if (model->source) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "vocab", "the model has no source vocabulary");
}

/* Appends the pair of the query and a text as pair i. */
TRF__FN trf_status trf__rank_add(const trf_reader *t, trf__ranking *r, const char *text,
                                 int32_t room, int32_t i, trf_error *err)
{
    const trf_config *c = &t->model->config;
    const trf_hooks *hooks = &t->pass.run.hooks;
    TRF__TRY(trf__encode_all(t->model->source, text, &r->text, hooks, err));
    int64_t most = trf__min64((int64_t)r->query.n + r->text.n + 2, room);
    TRF__GROW(int32_t, r->pairs.ids, r->pairs.capacity, r->pairs.n + most, hooks);
    TRF__TRY(trf_join(c, r->query.ids, r->query.n, r->text.ids, r->text.n, 1,
                      r->pairs.ids + r->pairs.n, (int32_t)most, &r->lengths[i], err));
    r->pairs.n += r->lengths[i];
    return TRF_OK;
}

/* Scores n texts, at most TRF__RANKED. first: the number of the first, for errors. */
TRF__COLD
TRF__FN trf_status trf__rank_some(trf_reader *t, trf__ranking *r, const char *const *texts,
                                  int32_t n, int32_t room, int32_t first, double *scores,
                                  trf_error *err)
{
    trf_real outputs[TRF__RANKED];
    trf_tensor out = trf_tensor_of(outputs, 2, n, 1, 1);
    trf_sequences pairs;
    r->pairs.n = 0;
    for (int32_t i = 0; i < n; i++) {
        trf_status status = texts[i] ? trf__rank_add(t, r, texts[i], room, i, err)
                                     : trf__fail_null(err, "texts");
        if (status != TRF_OK && err) err->where = first + i;
        TRF__TRY(status);
    }
    pairs.ids = r->pairs.ids; pairs.lengths = r->lengths; pairs.count = n;
    TRF__TRY(trf_reader_classify(t, &pairs, &out, err));
    for (int32_t i = 0; i < n; i++) scores[i] = (double)outputs[i];
    return TRF_OK;
}

TRF__FN trf_status trf__rank_order(const double *scores, int32_t n, int32_t *order,
                                   const trf_hooks *hooks, trf_error *err)
{
    const size_t bytes = trf__bytes(n, sizeof(const void *));
    const void **items = (const void **)trf__alloc(hooks, bytes);
    TRF__FAIL_IF(!items, TRF_E_NOMEM, -1, "order", "no memory to sort %d texts", n);
    for (int32_t i = 0; i < n; i++) items[i] = &scores[i];
    trf__sort(items, (size_t)n, trf__by_score, NULL);
    for (int32_t i = 0; i < n; i++) order[i] = (int32_t)((const double *)items[i] - scores);
    trf__free(hooks, items, bytes);
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_reader_rank(trf_reader *reader, const char *query, const char *const *texts,
                                   int32_t n, double *scores, int32_t *order, trf_error *err)
{
    int32_t room = 0, some;
    TRF__TRY(trf__begin(reader, "reader", err));
    const trf_hooks *hooks = &reader->pass.run.hooks;
    if (!query) return trf__fail_null(err, "query");
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    if (!texts && n) return trf__fail_null(err, "texts");
    if (!scores && n) return trf__fail_null(err, "scores");
    TRF__TRY(trf__rank_check(reader->model, &room, err));
    TRF__ZEROED(trf__ranking, r);
    trf_status status = trf__encode_all(reader->model->source, query, &r.query, hooks, err);
    if (status != TRF_OK && err) err->where = -1;
    for (int32_t i = 0; i < n && status == TRF_OK; i += some) {
        some = n - i < TRF__RANKED ? n - i : TRF__RANKED;
        status = trf__rank_some(reader, &r, texts + i, some, room, i, scores + i, err);
    }
    if (status == TRF_OK && order && n) status = trf__rank_order(scores, n, order, hooks, err);
    TRF__FREE(hooks, r.query.ids, r.query.capacity);
    TRF__FREE(hooks, r.text.ids, r.text.capacity);
    TRF__FREE(hooks, r.pairs.ids, r.pairs.capacity);
    return status;
}

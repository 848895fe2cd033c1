#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/blocks.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "device/backend.h"
#include "device/tensors.h"
#include "pass/sublayers.h"
#include "pass/pass.h"
#include "pass/rows.h"

// -----------------------------------------------------------------------------------------------
// >>blocks         the ops as public functions on the caller's tensors
//
// Each function checks every argument before the first op, because an op trusts its pointers and
// sizes and cannot fail. One line for each tensor (TRF__TENSOR) checks it, and notes how the op
// uses it and which pointer of the op's job it is. Then trf__upload_args copies all of them to the
// device, and trf__end copies outputs back. If the device's memory is the host's, nothing is
// copied. The context keeps what an op needs besides its tensors: spans, positions and scratch
// memory, which grow and are reused. Forward and backward share their checks.
//
// Gradients of activations are set and gradients of parameters are added to, as everywhere. The
// letter of a tensor says which: 'o' for set, 'a' for added to, 'i' for only read. If it is a
// capital, the tensor may be NULL.
// -----------------------------------------------------------------------------------------------

/* Memory of the host, its copy on the device, and the pointer of the op's job to that copy. */
typedef struct trf__staged { void *host, *device, *field; size_t bytes; char use; } trf__staged;
enum {
    TRF__STAGED = 24,                   /* more than any block has: the backward of multi-head
                                           attention has 19 */
    TRF__CONTEXT_ROOM = 1 << 16         /* numbers of a weight that a context packs at a time */
};

struct trf_context {
    trf__run run;
    trf__staged staged[TRF__STAGED]; int n_staged;       /* of the running call */
    trf__span *spans; int64_t spans_capacity;
    int32_t *ints; int64_t ints_capacity;   /* positions or targets of rows, then their groups */
    trf_real *table; int64_t table_capacity;    /* sinusoidal positions */
    trf_real *turns; int64_t turns_capacity;    /* table of rotary positions */
    int64_t n_turns;                            /* its rows so far, */
    double turned[6];                           /* and the fields rotary_... that they are of */
    int64_t *pairs; int64_t pairs_capacity;     /* see trf__bias */
    trf_real *scores; int64_t scores_capacity;  /* gradients of scores */
    trf__now now;                               /* of the running call's dropout */
    trf__workspace work;                         /* scratch memory besides the arguments */
};

TRF_API void trf_context_destroy(trf_context *context)
{
    if (!context) return;
    trf_hooks hooks = context->run.hooks;
    context->run.backend->release(&context->run, context->work.memory, context->work.bytes);
    context->run.backend->close(&context->run);
    TRF__FREE(&hooks, context->spans, context->spans_capacity);
    TRF__FREE(&hooks, context->ints, context->ints_capacity);
    TRF__FREE(&hooks, context->table, context->table_capacity);
    TRF__FREE(&hooks, context->turns, context->turns_capacity);
    TRF__FREE(&hooks, context->pairs, context->pairs_capacity);
    TRF__FREE(&hooks, context->scores, context->scores_capacity);
    trf__free(&hooks, context, sizeof *context);
}

TRF_API trf_status trf_context_create(trf_context **context, const trf_device *device,
                                      const trf_hooks *hooks, trf_error *err)
{
    trf_device on = device ? *device : trf_device_default();
    trf_context *c;
    TRF__BEGIN_NEW(context);
    TRF__ZEROED(trf_hooks, none);
    if (!hooks) hooks = &none;
    TRF__TRY(trf__device_check(&on, err));
    TRF__TRY(trf__hooks_check(hooks, err));
    TRF__ALLOC_ZEROED(trf_context, c, hooks, 1, "context", "for a context");
    on.precision = TRF_PRECISION_FLOAT32;       /* the caller's tensors are trf_real */
    c->run = trf__run_on(&on, hooks);
    trf_status status = c->run.backend->open(&c->run, err);
    if (status != TRF_OK) { trf__free(hooks, c, sizeof *c); return status; }
    status = c->run.backend->reserve(&c->run, 0, 1, TRF__CONTEXT_ROOM, 0, err);
    if (status != TRF_OK) { trf_context_destroy(c); return status; }
    *context = c;
    return TRF_OK;
}

/* Begins a call with an empty job. What a call that failed a check has left goes now. */
TRF__FN trf_status trf__block_begin(trf_context *c, void *job, size_t bytes, trf_error *err)
{
    TRF__TRY(trf__begin(c, "context", err));
    memset(job, 0, bytes);
    c->n_staged = 0;
    c->run.now = NULL;
    return TRF_OK;
}

/* Notes memory that an op uses; without const, but 'i' keeps the promise. field: the address of a
   pointer, of any type. It gets the host's address now, and the copy's in trf__upload_args. */
TRF__FN void trf__add_arg(trf_context *c, char use, const void *host, size_t bytes, void *field)
{
    trf__staged entry = {(void *)(uintptr_t)host, NULL, field, bytes, use};
    memcpy(field, &host, sizeof host);
    if (host && !c->run.backend->on_host) c->staged[c->n_staged++] = entry;
}

/* Ids, positions or targets. */
TRF__FN void trf__list(trf_context *c, const int32_t *list, int64_t n, void *field)
{
    trf__add_arg(c, 'i', list, trf__bytes(n, sizeof *list), field);
}

/* The numbers of a tensor that has been checked, or NULL. */
TRF__FN void trf__numbers(trf_context *c, char use, const trf_tensor *tensor, void *field)
{
    trf__add_arg(c, use, tensor ? tensor->data : NULL,
                 trf__bytes(trf_tensor_count(tensor), sizeof(trf_real)), field);
}

/* Checks a tensor, which must have this shape (columns -1: a vector), and notes it. */
TRF__FN trf_status trf__tensor(trf_context *c, char use, const trf_tensor *tensor, const char *name,
                               int64_t rows, int64_t columns, void *field, trf_error *err)
{
    if (tensor || use >= 'a') TRF__TRY(trf__shape_check(tensor, name, rows, columns, err));
    trf__numbers(c, use < 'a' ? (char)(use - 'A' + 'a') : use, tensor, field);
    return TRF_OK;
}

/* Checks a tensor that sets rows and columns. least: the fewest rows; 1 for a weight: without rows
   its output would have no columns, which no function accepts. */
TRF__FN trf_status trf__matrix(const trf_tensor *x, const char *name, int least, int64_t *rows,
                               int64_t *columns, trf_error *err)
{
    TRF__FAIL_IF(!x || !x->data, TRF_E_INVALID_ARG, -1, name, "%s must be a tensor with data",
                 name);
    TRF__FAIL_IF(x->rank != 2, TRF_E_SHAPE, -1, name, "%s must have rank 2, got %d", name, x->rank);
    *rows = x->shape[0];
    *columns = x->shape[1];
    TRF__FAIL_IF(*rows < 0 || *columns < 1, TRF_E_SHAPE, -1, name,
                 "%s must have rows >= 0 and columns >= 1, got (%lld, %lld)", name,
                 (long long)*rows, (long long)*columns);
    if (*rows > INT32_MAX || *columns > INT32_MAX)      /* CBLAS counts with int */
        return trf__fail(err, TRF_E_LIMIT, -1, name,
                         "%s has shape (%lld, %lld); the limit of both extents is %d", name,
                         (long long)*rows, (long long)*columns, (int)INT32_MAX);
    TRF__FAIL_IF(*rows < least, TRF_E_SHAPE, -1, name, "%s must have one row or more, got none",
                 name);
    return TRF_OK;
}

/* The dropout of one op. */
TRF__FN trf_status trf__dropout_arg(trf_context *c, const trf_dropout *dropout, trf__drop *drop,
                                    trf_error *err)
{
    TRF__ZERO(c->now);
    *drop = trf__drop_of(0, 0);
    if (!dropout) return TRF_OK;
    TRF__TRY(trf__check_range("p", dropout->p, 0, TRF__BELOW_ONE, err));
    c->now.key0 = (uint32_t)dropout->seed;
    c->now.key1 = (uint32_t)(dropout->seed >> 32);
    c->now.step = (uint32_t)dropout->step;
    trf__add_arg(c, 'i', &c->now, sizeof c->now, &c->run.now);
    *drop = trf__drop_of(dropout->p, (uint32_t)dropout->site);
    return TRF_OK;
}

/* The arguments of a block, one a line: the parameter's name, its shape, the field of the job. LEAD
   is a matrix that decides rows and columns. A weight's field is `plain`: with the rest of the job
   zero it is never packed, because the caller may change it. */
#define TRF__TENSOR(use, tensor, rows, columns, field) \
    TRF__TRY(trf__tensor(context, use, tensor, #tensor, rows, columns, &(field), err))
#define TRF__LEAD(use, tensor, rows, columns, field) \
    do { \
        TRF__TRY(trf__matrix(tensor, #tensor, 0, &(rows), &(columns), err)); \
        TRF__TENSOR(use, tensor, rows, columns, field); \
    } while (0)

/* Ends a call: copies outputs back if all went well, and frees all copies. */
TRF__FN trf_status trf__end(trf_context *c, trf_status status, trf_error *err)
{
    const trf__run *run = &c->run;
    for (int i = 0; status == TRF_OK && i < c->n_staged; i++)
        if (c->staged[i].use != 'i')
            run->backend->download(run, c->staged[i].host, c->staged[i].device, c->staged[i].bytes);
    if (status == TRF_OK) status = run->backend->sync(run, err);
    for (int i = 0; i < c->n_staged; i++)
        run->backend->release(run, c->staged[i].device, c->staged[i].bytes);
    c->n_staged = 0;
    c->run.now = NULL;
    return status;
}

/* Copies everything to the device. It follows the last check, so nothing must be freed before. */
TRF__FN trf_status trf__upload_args(trf_context *c, trf_error *err)
{
    const trf__run *run = &c->run;
    int n = c->n_staged;
    for (int i = 0; i < n; i++) {
        trf__staged *entry = &c->staged[i];
        entry->device = run->backend->alloc(run, entry->bytes);
        if (!entry->device) {
            c->n_staged = i;
            return trf__end(c, trf__fail(err, TRF_E_NOMEM, -1, "tensors",
                                         "no memory on the device for the tensors"), err);
        }
        if (entry->use != 'o') run->backend->upload(run, entry->device, entry->host, entry->bytes);
        memcpy(entry->field, &entry->device, sizeof entry->device);
    }
    return TRF_OK;
}

/* Most blocks end so: with one op on what was staged. */
#define TRF__ISSUE(op, job) \
    do { \
        TRF__TRY(trf__upload_args(context, err)); \
        context->run.backend->op(&context->run, &(job)); \
        return trf__end(context, TRF_OK, err); \
    } while (0)

// >>blocks-embedding
//
// Token embedding with positions, its backward, and the table of sinusoidal positions.

/* Checks options, ids and learned positions, counts rows, and lists the position of each row.
   `ints` has parts for positions, rows by groups, and beginnings of groups. */
TRF__FN trf_status trf__embedding_rows(trf_context *context, const trf_sequences *x,
                                       const trf_embedding_options *options, int64_t vocab,
                                       int64_t d, int64_t *rows, int64_t *longest, trf_error *err)
{
    int64_t at = 0, k;
    int32_t i;
    *longest = *rows = 0;
    TRF__TRY(trf__check_range("positions", (double)options->positions, 0, TRF_POSITIONS_NONE, err));
    TRF__TRY(trf__check_range("position_offset", options->position_offset, 0, 1 << 20, err));
    TRF__TRY(trf__check_range("scale", options->scale, -FLT_MAX, FLT_MAX, err));
    if (x->count < 0) return trf__fail_below(err, "x", 0, x->count);
    if (x->count > 0 && !x->lengths) return trf__fail_null(err, "x");
    for (i = 0; i < x->count; i++) {
        TRF__FAIL_IF(x->lengths[i] < 0, TRF_E_INVALID_ARG, i, "x",
                     "length of sequence %d must not be negative, got %d", i, x->lengths[i]);
        TRF__FAIL_IF(x->lengths[i] > INT32_MAX - *rows, TRF_E_LIMIT, i, "x",
                     "x may have at most %d ids in all; sequence %d exceeds that", INT32_MAX, i);
        *rows += x->lengths[i];
        *longest = trf__max64(*longest, x->lengths[i]);
    }
    if (*rows > 0 && !x->ids) return trf__fail_null(err, "x");
    for (at = 0; at < *rows; at++)
        TRF__FAIL_IF(x->ids[at] < 0 || x->ids[at] >= vocab, TRF_E_INVALID_ARG, at, "x",
                     "id number %lld must be 0 or more and below %lld, got %d", (long long)at,
                     (long long)vocab, x->ids[at]);
    if (options->positions == TRF_POSITIONS_LEARNED) {
        TRF__TRY(trf__matrix(options->learned, "learned", 0, &at, &k, err));
        TRF__FAIL_IF(k != d || *longest + options->position_offset > at, TRF_E_SHAPE, -1, "learned",
                     "learned positions must have shape (%lld or more, %lld)",
                     (long long)*longest + options->position_offset, (long long)d);
    }
    TRF__GROW(int32_t, context->ints, context->ints_capacity, 3 * *rows + 1, &context->run.hooks);
    for (i = 0, at = 0; i < x->count; i++) for (k = 0; k < x->lengths[i]; k++)
        context->ints[at++] = (int32_t)k;
    return TRF_OK;
}

TRF_API trf_status trf_embedding(trf_context *context, trf_tensor *y, const trf_sequences *x,
                                 const trf_tensor *weight, const trf_embedding_options *options,
                                 trf_error *err)
{
    trf__embed e;
    int64_t vocab, longest;
    TRF__TRY(trf__block_begin(context, &e, sizeof e, err));
    if (!x || !options) return trf__fail_null(err, x ? "options" : "x");
    TRF__LEAD('i', weight, vocab, e.d, e.weight.plain);
    TRF__TRY(trf__embedding_rows(context, x, options, vocab, e.d, &e.rows, &longest, err));
    TRF__TENSOR('o', y, e.rows, e.d, e.y);
    trf__list(context, x->ids, e.rows, &e.ids);
    trf__list(context, context->ints, e.rows, &e.at.position);
    e.scale = (trf_real)options->scale;
    if (options->positions == TRF_POSITIONS_LEARNED)
        trf__numbers(context, 'i', options->learned, &e.table);
    else if (options->positions != TRF_POSITIONS_NONE) {
        TRF__GROW(trf_real, context->table, context->table_capacity, longest * e.d,
                  &context->run.hooks);
        for (int64_t p = 0; p < longest; p++)
            trf__position_row(context->table + p * e.d, p + options->position_offset, e.d,
                              (int)options->positions);
        trf__add_arg(context, 'i', context->table, trf__bytes(longest * e.d, sizeof(trf_real)),
                     &e.table);
    }
    TRF__TRY(trf__upload_args(context, err));
    /* the whole table is staged; the op sees it from the offset on */
    if (options->positions == TRF_POSITIONS_LEARNED) e.table += options->position_offset * e.d;
    context->run.backend->embed(&context->run, &e);
    return trf__end(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_embedding_backward(trf_context *context, trf_tensor *dweight,
                                          trf_tensor *dlearned, const trf_tensor *dy,
                                          const trf_sequences *x,
                                          const trf_embedding_options *options, trf_error *err)
{
    int64_t longest;
    trf__embed_gradient e;
    TRF__TRY(trf__block_begin(context, &e, sizeof e, err));
    if (!x || !options) return trf__fail_null(err, x ? "options" : "x");
    TRF__FAIL_IF(dlearned && options->positions != TRF_POSITIONS_LEARNED, TRF_E_INVALID_ARG, -1,
                 "dlearned", "only learned positions have a gradient");
    TRF__LEAD('a', dweight, e.vocab, e.d, e.dweight);
    TRF__FAIL_IF(e.vocab > 1 << 24, TRF_E_LIMIT, -1, "dweight",
                 "dweight has %lld rows, the limit is %d", (long long)e.vocab, 1 << 24);
    trf_embedding_options plain = *options;
    plain.learned = dlearned;
    if (!dlearned) plain.positions = TRF_POSITIONS_NONE;
    TRF__TRY(trf__embedding_rows(context, x, &plain, e.vocab, e.d, &e.rows, &longest, err));
    TRF__TENSOR('i', dy, e.rows, e.d, e.dy);
    trf__numbers(context, 'a', dlearned, &e.dtable);
    trf__list(context, x->ids, e.rows, &e.ids);
    trf__list(context, context->ints, e.rows, &e.at.position);
    /* rows grouped by id: the sum for each row of dweight has a fixed order */
    e.groups.n = trf__group_rows(context->ints + e.rows, context->ints + 2 * e.rows, x->ids,
                                 e.rows);
    trf__list(context, context->ints + e.rows, e.rows, &e.groups.rows);
    trf__list(context, context->ints + 2 * e.rows, e.rows + 1, &e.groups.first);
    e.scale = (trf_real)options->scale;
    TRF__TRY(trf__upload_args(context, err));
    if (dlearned) {
        e.dtable += options->position_offset * e.d;
        e.positions = dlearned->shape[0] - options->position_offset;
    }
    context->run.backend->embed_gradient(&context->run, &e);
    return trf__end(context, TRF_OK, err);
}
#endif

TRF_API trf_status trf_position_table(trf_positions rule, int32_t first, trf_tensor *out,
                                      trf_error *err)
{
    int64_t p, rows, d;
    TRF__TRY(trf__begin(out, "out", err));
    TRF__TRY(trf__check_range("rule", (double)rule, 0, TRF_POSITIONS_HALVES, err));
    TRF__TRY(trf__check_range("first", first, 0, 1 << 20, err));
    TRF__TRY(trf__matrix(out, "out", 0, &rows, &d, err));
    TRF__TRY(trf__check_range("rows", (double)rows, 0, 1 << 24, err));
    for (p = 0; p < rows; p++) trf__position_row(out->data + p * d, first + p, d, (int)rule);
    return TRF_OK;
}

// >>blocks-linear
//
// y = x w^T + b and its backward; x: (rows, in), w: (out, in), b: (out) or NULL.

TRF_API trf_status trf_linear(trf_context *context, trf_tensor *y, const trf_tensor *x,
                              const trf_tensor *weight, const trf_tensor *bias, trf_error *err)
{
    trf__linear l;
    int64_t k;
    TRF__TRY(trf__block_begin(context, &l, sizeof l, err));
    TRF__LEAD('i', x, l.rows, l.in, l.x);
    TRF__TRY(trf__matrix(weight, "weight", 1, &l.out, &k, err));
    TRF__TENSOR('i', weight, l.out, l.in, l.w.plain);
    TRF__TENSOR('o', y, l.rows, l.out, l.y);
    TRF__TENSOR('I', bias, l.out, -1, l.b);
    TRF__ISSUE(linear, l);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_linear_backward(trf_context *context, trf_tensor *dx, trf_tensor *dweight,
                                       trf_tensor *dbias, const trf_tensor *dy, const trf_tensor *x,
                                       const trf_tensor *weight, trf_error *err)
{
    trf__linear_dw dw;
    trf__linear_dx l;       /* add = 0: dx is set. dw and db are added to */
    int64_t k;
    TRF__TRY(trf__block_begin(context, &l, sizeof l, err));
    TRF__LEAD('i', x, l.rows, l.in, dw.x);
    TRF__TRY(trf__matrix(dy, "dy", 0, &k, &l.out, err));
    TRF__TENSOR('i', dy, l.rows, l.out, l.dy);
    TRF__TENSOR('i', weight, l.out, l.in, l.w.plain);
    TRF__TENSOR('a', dweight, l.out, l.in, dw.dw);
    TRF__TENSOR('O', dx, l.rows, l.in, l.dx);
    TRF__TENSOR('A', dbias, l.out, -1, dw.db);
    TRF__TRY(trf__upload_args(context, err));
    dw = trf__dw_of(dw.dw, dw.db, l.dy, dw.x, l.rows, l.out, l.in, 0);
    context->run.backend->linear_dw(&context->run, &dw, 1);
    if (dx) context->run.backend->linear_dx(&context->run, &l);
    return trf__end(context, TRF_OK, err);
}
#endif

// >>blocks-norm
//
// A norm alone: the op add_norm without a residual connection. saved holds two numbers a row.

TRF_API trf_status trf_norm(trf_context *context, trf_tensor *y, const trf_tensor *x,
                            const trf_tensor *gain, const trf_tensor *bias, trf_norm_rule rule,
                            double epsilon, trf_tensor *saved, trf_error *err)
{
    trf__norm n;
    TRF__TRY(trf__block_begin(context, &n, sizeof n, err));
    n.epsilon = epsilon;
    n.rule = (int)rule;
    /* without n.s and n.sub the op adds nothing: it only normalises x */
    TRF__LEAD('i', x, n.rows, n.d, n.x);
    TRF__TENSOR('o', y, n.rows, n.d, n.y);
    TRF__TENSOR('i', gain, n.d, -1, n.gain);
    TRF__TENSOR('I', bias, n.d, -1, n.bias);
    TRF__TRY(trf__check_range("rule", (double)rule, 0, TRF_NORM_RULE_COUNT - 1, err));
    TRF__TRY(trf__check_range("epsilon", epsilon, 1e-30, 1, err));
    TRF__TENSOR('O', saved, trf__mul_counts(2, n.rows), -1, n.stats);
    TRF__ISSUE(add_norm, n);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_norm_backward(trf_context *context, trf_tensor *dx, trf_tensor *dgain,
                                     trf_tensor *dbias, const trf_tensor *dy, const trf_tensor *x,
                                     const trf_tensor *gain, trf_norm_rule rule, double epsilon,
                                     const trf_tensor *saved, trf_error *err)
{
    trf__norm_gradient n;
    TRF__TRY(trf__block_begin(context, &n, sizeof n, err));
    n.epsilon = epsilon;
    n.rule = (int)rule;
    TRF__LEAD('i', x, n.rows, n.d, n.s);        /* s is the input of the norm, here x itself */
    TRF__TENSOR('o', dx, n.rows, n.d, n.ds);
    TRF__TENSOR('i', dy, n.rows, n.d, n.dy);
    TRF__TENSOR('i', gain, n.d, -1, n.gain);
    TRF__TENSOR('a', dgain, n.d, -1, n.dgain);
    TRF__TENSOR('A', dbias, n.d, -1, n.dbias);
    TRF__TRY(trf__check_range("rule", (double)rule, 0, TRF_NORM_RULE_COUNT - 1, err));
    TRF__TRY(trf__check_range("epsilon", epsilon, 1e-30, 1, err));
    TRF__TENSOR('i', saved, trf__mul_counts(2, n.rows), -1, n.stats);
    TRF__ISSUE(norm_gradient, n);
}
#endif

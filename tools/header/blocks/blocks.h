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

TRF__FOR_SIZE

// -----------------------------------------------------------------------------------------------
// >>blocks         the ops as public functions on the caller's tensors
//
// Each function checks every argument before the first op, because an op trusts its pointers and
// sizes and cannot fail. Then it copies its tensors to the device (trf__staged), issues the op, and
// copies the outputs back. If the device's memory is the host's, nothing is copied. The context
// keeps what an op needs besides its tensors: spans, positions and scratch memory, which grow and
// are reused. Forward and backward share their checks.
//
// Gradients of activations are set and gradients of parameters are added to, as everywhere. The
// letter that stages a tensor says which: 'o' for set, 'a' for added to, 'i' for only read.
// -----------------------------------------------------------------------------------------------

/* The caller's memory and its copy on the device. back: the copy returns to the host after the op.
   */
typedef struct trf__staged { void *host, *device; size_t bytes; int back; } trf__staged;
enum {
    TRF__GUESTS = 18,                   /* more than any block stages: the backward of multi-head
                                           attention stages 15 */
    TRF__CONTEXT_ROOM = 1 << 16         /* numbers of a weight that a context packs at a time */
};

struct trf_context {
    trf__run run;
    trf__staged guests[TRF__GUESTS];
    int n_guests, no_memory;                  /* no_room: one of them found no memory */
    trf__span *spans; int64_t spans_capacity;
    int32_t *ints; int64_t ints_capacity;   /* positions or targets of rows, then their groups */
    trf_real *table; int64_t table_capacity;    /* sinusoidal positions */
    trf__workspace work;                         /* scratch memory besides the arguments */
};

TRF_API void trf_context_destroy(trf_context *context)
{
    trf_hooks hooks;
    if (!context) return;
    hooks = context->run.hooks;
    context->run.backend->release(&context->run, context->work.memory, context->work.bytes);
    context->run.backend->close(&context->run);
    TRF__FREE(&hooks, context->spans, context->spans_capacity);
    TRF__FREE(&hooks, context->ints, context->ints_capacity);
    TRF__FREE(&hooks, context->table, context->table_capacity);
    trf__free(&hooks, context, sizeof *context);
}

TRF_API trf_status trf_context_create(trf_context **context, const trf_device *device,
                                      const trf_hooks *hooks, trf_error *err)
{
    trf_device on = device ? *device : trf_device_default();
    trf_hooks none;
    trf_context *c;
    trf_status status;
    TRF__TRY(trf__begin(context, "context", err));
    *context = NULL;
    TRF__ZERO(none);
    if (!hooks) hooks = &none;
    TRF__TRY(trf__device_check(&on, err));
    TRF__TRY(trf__hooks_check(hooks, err));
    c = (trf_context *)trf__alloc_zeroed(hooks, sizeof *c);
    if (!c) return trf__fail(err, TRF_E_NOMEM, -1, "context", "no memory for a context");
    on.precision = TRF_PRECISION_FLOAT32;       /* the caller's tensors are trf_real */
    c->run = trf__run_on(&on, hooks);
    status = c->run.backend->open(&c->run, err);
    if (status != TRF_OK) { trf__free(hooks, c, sizeof *c); return status; }
    status = c->run.backend->reserve(&c->run, 0, 1, TRF__CONTEXT_ROOM, 0, err);
    if (status != TRF_OK) { trf_context_destroy(c); return status; }
    *context = c;
    return TRF_OK;
}

/* Copies the host's memory to the device for one op. use: 'i' if the op reads it, 'o' if it sets
   it, 'a' if it adds to it. A failure is noted in no_room, so that callers check once. */
TRF__FN void *trf__bring(trf_context *c, void *host, size_t bytes, char use)
{
    const trf__run *run = &c->run;
    trf__staged *guest = &c->guests[c->n_guests];
    if (!host || trf__shared_address(run, host)) return host;
    if (c->n_guests == TRF__GUESTS) { c->no_memory = 1; return NULL; }
    guest->host = host;
    guest->bytes = bytes;
    guest->back = use != 'i';
    guest->device = run->backend->alloc(run, bytes);
    if (!guest->device) { c->no_memory = 1; return NULL; }
    c->n_guests++;
    if (use != 'o') run->backend->upload(run, guest->device, host, bytes);
    return guest->device;
}

/* A tensor on the device, as numbers, or (trf__act_staged) as activations. */
TRF__FN trf_real *trf__stage(trf_context *c, const trf_tensor *tensor, char use)
{
    size_t bytes = tensor ? trf__bytes(trf_tensor_count(tensor), sizeof(trf_real)) : 0;
    return (trf_real *)trf__bring(c, tensor ? tensor->data : NULL, bytes, use);
}

TRF__FN trf__act *trf__act_staged(trf_context *c, const trf_tensor *tensor, char use)
{
    return (trf__act *)(void *)trf__stage(c, tensor, use);
}

/* Ids, lengths or targets on the device. The cast drops const, and 'i' keeps the promise. */
TRF__FN const int32_t *trf__list_staged(trf_context *c, const int32_t *list, int64_t n)
{
    return (const int32_t *)trf__bring(c, (void *)(uintptr_t)list, trf__bytes(n, sizeof *list),
                                       'i');
}

/* Ends an op: copies outputs back if all went well, and frees all copies. */
TRF__FN trf_status trf__staged_back(trf_context *c, trf_status status, trf_error *err)
{
    const trf__run *run = &c->run;
    int i;
    for (i = 0; status == TRF_OK && i < c->n_guests; i++)
        if (c->guests[i].back)
            run->backend->download(run, c->guests[i].host, c->guests[i].device, c->guests[i].bytes);
    if (status == TRF_OK) status = run->backend->sync(run, err);
    for (i = 0; i < c->n_guests; i++) run->backend->release(run, c->guests[i].device,
                                                            c->guests[i].bytes);
    c->n_guests = c->no_memory = 0;
    c->run.now = NULL;
    return status;
}

/* Whether everything is staged, checked before the op. If not, frees what is. */
TRF__FN trf_status trf__staged_ready(trf_context *c, trf_error *err)
{
    if (!c->no_memory) return TRF_OK;
    return trf__staged_back(c, trf__fail(err, TRF_E_NOMEM, -1, "tensors",
                                          "no memory on the device for the tensors"),
                             err);
}

/* Checks a (rows, columns) tensor and returns its columns. rows = -1 allows any number. */
TRF__FN trf_status trf__matrix(const trf_tensor *x, const char *name, int64_t rows,
                               int64_t *columns, trf_error *err)
{
    *columns = 0;
    if (!x || !x->data)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, name, "%s must be a tensor with data", name);
    if (x->rank != 2)
        return trf__fail(err, TRF_E_SHAPE, -1, name, "%s must have rank 2, got %d", name, x->rank);
    if (x->shape[0] < 0 || x->shape[1] < 1)
        return trf__fail(err, TRF_E_SHAPE, -1, name,
                         "%s must have rows >= 0 and columns >= 1, got (%lld, %lld)",
                         name, (long long)x->shape[0], (long long)x->shape[1]);
    if (x->shape[0] > INT32_MAX || x->shape[1] > INT32_MAX)      /* CBLAS counts with int */
        return trf__fail(err, TRF_E_LIMIT, -1, name,
                         "%s has shape (%lld, %lld); the limit of both extents is %d", name,
                         (long long)x->shape[0], (long long)x->shape[1], (int)INT32_MAX);
    *columns = x->shape[1];
    return trf__shape_check(x, name, rows < 0 ? x->shape[0] : rows, *columns, err);
}

/* Checks a weight (*out, in). Without outputs it would give a tensor without columns, which no
   function accepts. */
TRF__FN trf_status trf__weight_check(const trf_tensor *w, const char *name, int64_t *out,
                                     int64_t in, trf_error *err)
{
    int64_t k;
    TRF__TRY(trf__matrix(w, name, -1, &k, err));
    *out = w->shape[0];
    if (*out < 1)
        return trf__fail(err, TRF_E_SHAPE, -1, name, "%s must have one row or more, got none",
                         name);
    return trf__shape_check(w, name, *out, in, err);
}

/* A caller's weight as an op's matrix: never packed, because the caller may change it. */
TRF__FN trf__mat trf__mat_of(trf_context *c, const trf_tensor *w)
{
    trf__mat m;
    m.plain = trf__stage(c, w, 'i');
    m.packed = NULL;
    m.format = TRF__FLOAT32;
    m.row = 0;
    return m;
}

// >>blocks-embedding
//
// Token embedding with positions, its backward, and the table of sinusoidal positions.

/* Checks ids and learned positions, counts rows, and lists the position of each row. `ints` has
   parts for positions, rows by groups, and beginnings of groups. */
TRF__FN trf_status trf__embedding_rows(trf_context *context, const trf_sequences *x,
                                       const trf_embedding_options *options, int64_t vocab,
                                       int64_t d, int64_t *rows, int64_t *longest, trf_error *err)
{
    int64_t at = 0, k;
    int32_t i;
    *longest = 0;
    *rows = 0;
    if (x->count < 0) return trf__fail_below(err, "x", 0, x->count);
    if (x->count > 0 && !x->lengths) return trf__fail_null(err, "x");
    for (i = 0; i < x->count; i++) {
        if (x->lengths[i] < 0)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "x",
                             "length of sequence %d must not be negative, got %d",
                             i, x->lengths[i]);
        if (x->lengths[i] > INT32_MAX - *rows)
            return trf__fail(err, TRF_E_LIMIT, i, "x",
                             "x may have at most %d ids in all; sequence %d exceeds that",
                             INT32_MAX, i);
        *rows += x->lengths[i];
        *longest = trf__max64(*longest, x->lengths[i]);
    }
    if (*rows > 0 && !x->ids) return trf__fail_null(err, "x");
    for (at = 0; at < *rows; at++)
        if (x->ids[at] < 0 || x->ids[at] >= vocab)
            return trf__fail(err, TRF_E_INVALID_ARG, at, "x",
                             "id number %lld must be 0 or more and below %lld, got %d",
                             (long long)at, (long long)vocab, x->ids[at]);
    if (options->positions == TRF_POSITIONS_LEARNED) {
        TRF__TRY(trf__matrix(options->learned, "learned", -1, &k, err));
        if (k != d || *longest + options->position_offset > options->learned->shape[0])
            return trf__fail(err, TRF_E_SHAPE, -1, "learned",
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
    int64_t d, rows, longest, p;
    TRF__TRY(trf__begin(context, "context", err));
    if (!x || !options) return trf__fail_null(err, x ? "options" : "x");
    TRF__TRY(trf__check_range("positions", (double)options->positions, 0, TRF_POSITIONS_NONE, err));
    TRF__TRY(trf__check_range("position_offset", options->position_offset, 0, 1 << 20, err));
    TRF__TRY(trf__matrix(weight, "weight", -1, &d, err));
    TRF__TRY(trf__embedding_rows(context, x, options, weight->shape[0], d, &rows, &longest, err));
    TRF__TRY(trf__shape_check(y, "y", rows, d, err));
    TRF__ZERO(e);
    if (options->positions == TRF_POSITIONS_LEARNED)
        e.table = trf__stage(context, options->learned, 'i');
    else if (options->positions != TRF_POSITIONS_NONE) {
        TRF__GROW(trf_real, context->table, context->table_capacity, longest * d,
                  &context->run.hooks);
        for (p = 0; p < longest; p++)
            trf__position_row(context->table + p * d, p + options->position_offset, d,
                              (int)options->positions);
        e.table = (trf_real *)trf__bring(context, context->table,
                                         trf__bytes(longest * d, sizeof(trf_real)), 'i');
    }
    e.y = trf__act_staged(context, y, 'o');
    e.weight = trf__mat_of(context, weight);
    e.ids = trf__list_staged(context, x->ids, rows);
    e.at.position = trf__list_staged(context, context->ints, rows);
    e.rows = rows; e.d = d; e.scale = (trf_real)options->scale;
    TRF__TRY(trf__staged_ready(context, err));
    /* the whole table is staged; the op sees it from the offset on */
    if (options->positions == TRF_POSITIONS_LEARNED) e.table += options->position_offset * d;
    context->run.backend->embed(&context->run, &e);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_embedding_backward(trf_context *context, trf_tensor *dweight,
                                          trf_tensor *dlearned,
                                          const trf_tensor *dy, const trf_sequences *x,
                                          const trf_embedding_options *options, trf_error *err)
{
    int64_t d, rows, longest;
    trf_embedding_options plain;
    trf__embed_gradient e;
    TRF__TRY(trf__begin(context, "context", err));
    if (!x || !options) return trf__fail_null(err, x ? "options" : "x");
    TRF__TRY(trf__check_range("position_offset", options->position_offset, 0, 1 << 20, err));
    if (dlearned && options->positions != TRF_POSITIONS_LEARNED)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "dlearned",
                         "only learned positions have a gradient");
    TRF__TRY(trf__matrix(dweight, "dweight", -1, &d, err));
    if (dweight->shape[0] > 1 << 24)
        return trf__fail(err, TRF_E_LIMIT, -1, "dweight", "dweight has %lld rows, the limit is %d",
                         (long long)dweight->shape[0], 1 << 24);
    plain = *options;
    plain.learned = dlearned;
    if (!dlearned) plain.positions = TRF_POSITIONS_NONE;
    TRF__TRY(trf__embedding_rows(context, x, &plain, dweight->shape[0], d, &rows, &longest, err));
    TRF__TRY(trf__shape_check(dy, "dy", rows, d, err));
    TRF__ZERO(e);
    /* rows grouped by id: the sum for each row of dweight has a fixed order */
    e.groups.n = trf__group_rows(context->ints + rows, context->ints + 2 * rows, x->ids, rows);
    e.groups.rows = trf__list_staged(context, context->ints + rows, rows);
    e.groups.first = trf__list_staged(context, context->ints + 2 * rows, rows + 1);
    e.dweight = trf__stage(context, dweight, 'a');
    e.dtable = trf__stage(context, dlearned, 'a');
    e.dy = trf__act_staged(context, dy, 'i');
    e.ids = trf__list_staged(context, x->ids, rows);
    e.at.position = trf__list_staged(context, context->ints, rows);
    e.rows = rows; e.d = d; e.vocab = dweight->shape[0]; e.scale = (trf_real)options->scale;
    TRF__TRY(trf__staged_ready(context, err));
    if (dlearned) {
        e.dtable += options->position_offset * d;
        e.positions = dlearned->shape[0] - options->position_offset;
    }
    context->run.backend->embed_gradient(&context->run, &e);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

TRF_API trf_status trf_position_table(trf_positions rule, int32_t first, trf_tensor *out,
                                      trf_error *err)
{
    int64_t p, d;
    TRF__TRY(trf__begin(out, "out", err));
    TRF__TRY(trf__check_range("rule", (double)rule, 0, TRF_POSITIONS_HALVES, err));
    TRF__TRY(trf__check_range("first", first, 0, 1 << 20, err));
    TRF__TRY(trf__matrix(out, "out", -1, &d, err));
    TRF__TRY(trf__check_range("rows", (double)out->shape[0], 0, 1 << 24, err));
    for (p = 0; p < out->shape[0]; p++) trf__position_row(out->data + p * d, first + p, d,
                                                          (int)rule);
    return TRF_OK;
}

// >>blocks-linear
//
// y = x w^T + b and its backward; x: (rows, in), w: (out, in), b: (out) or NULL.

TRF_API trf_status trf_linear(trf_context *context, trf_tensor *y, const trf_tensor *x,
                              const trf_tensor *weight, const trf_tensor *bias, trf_error *err)
{
    trf__linear l;
    int64_t in, out;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__matrix(x, "x", -1, &in, err));
    TRF__TRY(trf__weight_check(weight, "weight", &out, in, err));
    TRF__TRY(trf__shape_check(y, "y", x->shape[0], out, err));
    if (bias) TRF__TRY(trf__shape_check(bias, "bias", out, -1, err));
    /* staging comes after the last check that can fail, so nothing has to be freed before */
    l.y = trf__act_staged(context, y, 'o');
    l.x = trf__act_staged(context, x, 'i');
    l.w = trf__mat_of(context, weight);
    l.b = trf__stage(context, bias, 'i');
    l.rows = x->shape[0]; l.out = out; l.in = in;
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->linear(&context->run, &l);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_linear_backward(trf_context *context, trf_tensor *dx, trf_tensor *dweight,
                                       trf_tensor *dbias, const trf_tensor *dy, const trf_tensor *x,
                                       const trf_tensor *weight, trf_error *err)
{
    int64_t in, out, rows;
    trf__linear_dw dw;
    trf__linear_dx l;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__matrix(x, "x", -1, &in, err));
    rows = x->shape[0];
    TRF__TRY(trf__matrix(dy, "dy", rows, &out, err));
    TRF__TRY(trf__shape_check(weight, "weight", out, in, err));
    TRF__TRY(trf__shape_check(dweight, "dweight", out, in, err));
    if (dx) TRF__TRY(trf__shape_check(dx, "dx", rows, in, err));
    if (dbias) TRF__TRY(trf__shape_check(dbias, "dbias", out, -1, err));
    l.dx = trf__act_staged(context, dx, 'o');
    l.dy = trf__act_staged(context, dy, 'i');
    l.w = trf__mat_of(context, weight);
    /* add = 0: dx is set. dw and db are added to */
    l.rows = rows; l.out = out; l.in = in; l.add = 0;
    dw = trf__dw_of(trf__stage(context, dweight, 'a'), trf__stage(context, dbias, 'a'), l.dy,
                    trf__act_staged(context, x, 'i'), rows, out, in, 0);
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->linear_dw(&context->run, &dw, 1);
    if (dx) context->run.backend->linear_dx(&context->run, &l);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

// >>blocks-norm
//
// Layer norm alone: the op add_norm without a residual connection. saved holds two numbers a row.

TRF_API int64_t trf_layer_norm_saved(int64_t rows) { return trf__times(2, rows); }

TRF_API trf_status trf_layer_norm(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                  const trf_tensor *gain,
                                  const trf_tensor *bias, double epsilon, trf_tensor *saved,
                                  trf_error *err)
{
    trf__norm n;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__matrix(x, "x", -1, &n.d, err));
    n.rows = x->shape[0];
    TRF__TRY(trf__shape_check(y, "y", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(gain, "gain", n.d, -1, err));
    TRF__TRY(trf__shape_check(bias, "bias", n.d, -1, err));
    TRF__TRY(trf__check_range("epsilon", epsilon, 1e-30, 1, err));
    if (saved) TRF__TRY(trf__shape_check(saved, "saved", trf_layer_norm_saved(n.rows), -1, err));
    /* without n.s and n.sub the op adds nothing: it only normalises x */
    n.x = trf__act_staged(context, x, 'i'); n.y = trf__act_staged(context, y, 'o');
    n.gain = trf__stage(context, gain, 'i'); n.bias = trf__stage(context, bias, 'i');
    n.stats = trf__stage(context, saved, 'o');
    n.epsilon = epsilon;
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->add_norm(&context->run, &n);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_layer_norm_backward(trf_context *context, trf_tensor *dx, trf_tensor *dgain,
                                           trf_tensor *dbias,
                                           const trf_tensor *dy, const trf_tensor *x,
                                           const trf_tensor *gain,
                                           double epsilon, const trf_tensor *saved, trf_error *err)
{
    trf__norm_gradient n;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__matrix(x, "x", -1, &n.d, err));
    n.rows = x->shape[0];
    TRF__TRY(trf__shape_check(dx, "dx", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(dy, "dy", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(gain, "gain", n.d, -1, err));
    TRF__TRY(trf__shape_check(dgain, "dgain", n.d, -1, err));
    TRF__TRY(trf__shape_check(dbias, "dbias", n.d, -1, err));
    TRF__TRY(trf__shape_check(saved, "saved", trf_layer_norm_saved(n.rows), -1, err));
    /* s is the input of the norm, here x itself */
    n.s = trf__act_staged(context, x, 'i'); n.stats = trf__stage(context, saved, 'i');
    n.gain = trf__stage(context, gain, 'i'); n.epsilon = epsilon;
    n.dy = trf__act_staged(context, dy, 'i'); n.ds = trf__act_staged(context, dx, 'o');
    n.dgain = trf__stage(context, dgain, 'a'); n.dbias = trf__stage(context, dbias, 'a');
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->norm_gradient(&context->run, &n);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

TRF__FOR_SPEED

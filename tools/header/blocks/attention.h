#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/blocks.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "device/backend.h"
#include "device/tensors.h"
#include "pass/sublayers.h"
#include "blocks/blocks.h"

TRF__FOR_SIZE

// >>blocks-attention
//
// Attention alone, without projections. Sequences lie one after another in q, k and v; shape gives
// their lengths. saved holds two numbers for each row and head, from which backward computes the
// weights again.

TRF_API int64_t trf_attention_saved(int64_t query_rows, int32_t n_heads)
{
    return trf__times(trf__times(2, query_rows), n_heads);
}

/* Checks lengths and turns them into spans. Sets all of `a`, which is zero, but its tensors. */
TRF__FN trf_status trf__attention_prepare(trf_context *context, const trf_attention_shape *shape,
                                          int64_t d, trf__attention_in *a, int64_t *queries,
                                          int64_t *keys, trf_error *err)
{
    int32_t i;
    *queries = *keys = 0;
    if (!shape) return trf__fail_null(err, "shape");
    if (shape->count < 0) return trf__fail_below(err, "count", 0, shape->count);
    TRF__TRY(trf__check_range("mask", (double)shape->mask, 0, TRF_MASK_COUNT - 1, err));
    if (shape->count > 0 && (!shape->query_lengths || !shape->key_lengths))
        return trf__fail_null(err, "lengths");
    if (shape->n_heads < 1 || d % shape->n_heads)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "n_heads",
                         "n_heads must divide the width %lld, got %d",
                         (long long)d, shape->n_heads);
    TRF__GROW(trf__span, context->spans, context->spans_capacity, shape->count,
              &context->run.hooks);
    for (i = 0; i < shape->count; i++) {
        int32_t n_query = shape->query_lengths[i], n_key = shape->key_lengths[i];
        trf__span *span = &context->spans[i];
        if (n_query < 0 || n_key < 0)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "lengths",
                             "lengths of sequence %d must not be negative", i);
        /* position i sees keys up to i, so queries and keys must be the same positions */
        if (shape->mask == TRF_CAUSAL && n_query != n_key)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "lengths",
                             "causal attention needs as many keys as queries; sequence %d has %d "
                             "keys and %d queries", i, n_key, n_query);
        if (*queries + n_query > INT32_MAX || *keys + n_key > INT32_MAX)
            return trf__fail(err, TRF_E_LIMIT, i, "lengths",
                             "all lengths together must stay below 2^31");
        span->query = (int32_t)*queries; span->n_query = n_query;
        span->key = (int32_t)*keys; span->n_key = n_key;
        span->sentence = i;
        *queries += n_query;
        *keys += n_key;
        a->max_queries = trf__max64(a->max_queries, n_query);
        a->max_keys = trf__max64(a->max_keys, n_key);
    }
    a->n_spans = shape->count;
    a->heads = a->kv_heads = shape->n_heads;
    a->d_head = (int)(d / shape->n_heads);
    a->scale = trf__default_scale(a->d_head);
    a->causal = shape->mask == TRF_CAUSAL;
    trf__guest_of(context, 'i', context->spans, trf__bytes(a->n_spans, sizeof *context->spans),
                  &a->spans);
    return TRF_OK;
}

/* The arguments that forward, backward and the weights share. */
TRF__FN trf_status trf__attention_args(trf_context *context, trf__attention_in *a,
                                       const trf_tensor *q, const trf_tensor *k,
                                       const trf_tensor *v, const trf_attention_shape *shape,
                                       const trf_tensor *saved, char use, void *stats,
                                       trf_error *err)
{
    int64_t d, queries, keys;
    TRF__TRY(trf__matrix(q, "q", 0, &queries, &d, err));
    TRF__TRY(trf__attention_prepare(context, shape, d, a, &queries, &keys, err));
    a->ldq = a->ldk = d;
    TRF__TENSOR('i', q, queries, d, a->q);
    TRF__TENSOR('i', k, keys, d, a->k);
    TRF__TENSOR('i', v, keys, d, a->v);
    TRF__TRY(trf__tensor(context, use, saved, "saved",
                         trf_attention_saved(queries, shape->n_heads), -1, stats, err));
    return context->run.backend->reserve(&context->run, a->max_keys, a->d_head, 0, 0, err);
}

TRF_API trf_status trf_attention(trf_context *context, trf_tensor *out, const trf_tensor *q,
                                 const trf_tensor *k, const trf_tensor *v,
                                 const trf_attention_shape *shape, trf_tensor *saved,
                                 trf_error *err)
{
    trf__attention a;
    TRF__TRY(trf__block_begin(context, &a, sizeof a, err));
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, 'O', &a.stats, err));
    TRF__TENSOR('o', out, q->shape[0], q->shape[1], a.out);
    TRF__ISSUE(attention, a);
}

/* The weights of all heads: all in one row, or for one sequence (heads, queries, keys). */
TRF__FN trf_status trf__probabilities_arg(trf_context *context, const trf__attention_in *in,
                                          const trf_tensor *out, const char *name,
                                          trf_real **maps, trf_error *err)
{
    const trf__span *spans = context->spans;
    int64_t i, n = 0;
    for (i = 0; i < in->n_spans; i++)
        n = trf__add_counts(n, trf__times((int64_t)spans[i].n_query * spans[i].n_key, in->heads));
    trf__numbers(context, 'o', out, maps);
    if (out && out->data && out->rank == 3 && in->n_spans == 1 && out->shape[0] == in->heads &&
        out->shape[1] == spans[0].n_query && out->shape[2] == spans[0].n_key) return TRF_OK;
    return trf__shape_check(out, name, n, -1, err);
}

/* Computes the weights of all heads and spans. */
TRF__FN void trf__probabilities_of(const trf_context *context, trf__attention_in in, trf_real *maps)
{
    int64_t i;
    for (i = 0; i < in.n_spans; i++) {
        const trf__span *span = &context->spans[i];
        trf__attention_maps(&context->run, &in, i, span, maps);
        maps += (int64_t)in.heads * span->n_query * span->n_key;
    }
}

TRF_API trf_status trf_attention_probabilities(trf_context *context, trf_tensor *out,
                                               const trf_tensor *q, const trf_tensor *k,
                                               const trf_attention_shape *shape, trf_error *err)
{
    trf__attention_in in;
    trf_real *maps;
    TRF__TRY(trf__block_begin(context, &in, sizeof in, err));
    /* weights need no values: k takes the argument of v */
    TRF__TRY(trf__attention_args(context, &in, q, k, k, shape, NULL, 'O', &maps, err));
    TRF__TRY(trf__probabilities_arg(context, &in, out, "out", &maps, err));
    TRF__TRY(trf__stage(context, err));
    trf__probabilities_of(context, in, maps);
    return trf__end(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_attention_backward(trf_context *context, trf_tensor *dq, trf_tensor *dk,
                                          trf_tensor *dv, const trf_tensor *dout,
                                          const trf_tensor *out, const trf_tensor *q,
                                          const trf_tensor *k, const trf_tensor *v,
                                          const trf_attention_shape *shape, const trf_tensor *saved,
                                          trf_error *err)
{
    trf__attention_gradient a;
    TRF__TRY(trf__block_begin(context, &a, sizeof a, err));
    if (!saved)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "saved",
                         "saved must be the tensor that the forward pass filled");
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, 'i', &a.stats, err));
    TRF__TENSOR('o', dq, q->shape[0], q->shape[1], a.dq);
    TRF__TENSOR('o', dk, k->shape[0], k->shape[1], a.dk);
    TRF__TENSOR('o', dv, k->shape[0], k->shape[1], a.dv);
    TRF__TENSOR('i', dout, q->shape[0], q->shape[1], a.dout);
    /* out spares a sum: P dP summed over a row is dout . out (>>attention) */
    TRF__TENSOR('i', out, q->shape[0], q->shape[1], a.out);
    TRF__ISSUE(attention_gradient, a);
}
#endif

// >>blocks-multi-head attention with its four projections
//
// The sublayer of >>sublayers on the caller's tensors. Self-attention projects x to q, k and v at
// once; with a memory, q comes from x, k and v from the memory.

/* Size of saved: projected, hidden, stats and memory, in this order (>>sublayers). It has 3d
   columns for projected and also the memory, though no attention needs both: one formula serves
   all. */
TRF_API int64_t trf_multi_head_attention_saved(int64_t query_rows, int64_t key_rows,
                                               int64_t d_model, int32_t n_heads)
{
    int64_t queries = trf__times(trf__times(4, query_rows), d_model);
    int64_t keys = trf__times(trf__times(2, key_rows), d_model);
    return trf__add_counts(trf__add_counts(queries, keys), trf_attention_saved(query_rows,
            n_heads));
}

/* A call of a sublayer, here or in >>blocks-feed-forward. m: the memory, or NULL. names, wide and
   inner: of its params. */
typedef struct trf__call {
    trf__operands sub;
    const trf__act *x, *m, *dy;
    trf__act *y, *dx, *dm;
    const char *const *names;
    int64_t wide, inner;
} trf__call;

/* The four tensors of the caller's struct, in its order: weights, or with use 'a' their gradients.
   The first matrix is (wide, d), the second (d, inner). */
TRF__FN trf_status trf__params(trf_context *context, trf__call *call, const void *params, char use,
                               trf_error *err)
{
    trf__operands *sub = &call->sub;
    void *const weights[] = {&sub->in_w.plain, &sub->in_b, &sub->out_w.plain, &sub->out_b};
    void *const sums[] = {&sub->d_in_w, &sub->d_in_b, &sub->d_out_w, &sub->d_out_b};
    const int64_t rows[] = {call->wide, call->wide, sub->d, sub->d};
    const int64_t columns[] = {sub->d, -1, call->inner, -1};
    trf_tensor four[4];
    int i;
    if (!params) return trf__fail_null(err, "params");
    memcpy(four, params, sizeof four);
    for (i = 0; i < 4; i++)
        TRF__TRY(trf__tensor(context, use, &four[i], call->names[i], rows[i], columns[i],
                             use == 'a' ? sums[i] : weights[i], err));
    return TRF_OK;
}

/* What forward keeps for backward, which begins with `projected`. If nobody saves it, the context's
   scratch memory takes it. */
TRF__FN trf_status trf__saved(trf_context *context, trf__operands *sub, const trf_tensor *saved,
                              int64_t numbers, char use, trf_error *err)
{
    TRF__TENSOR(use, saved, numbers, -1, sub->projected);
    if (saved) return TRF_OK;
    TRF__TRY(trf__workspace_reserve(&context->run, &context->work,
                           trf__add_size(trf__bytes(numbers, sizeof(trf_real)), 64), err));
    sub->projected = (trf__act *)context->work.memory;
    return TRF_OK;
}

/* Stages a call, and lays out what is kept behind `projected`; feed-forward has only `hidden`. */
TRF__FN trf_status trf__call_stage(trf_context *context, trf__call *call, trf_error *err)
{
    const trf__run *run = &context->run;
    trf__operands *sub = &call->sub;
    int64_t n = sub->rows * call->inner;
    TRF__TRY(trf__stage(context, err));
    sub->hidden = trf__act_at(run, sub->projected, sub->rows * call->wide);
    sub->stats = (trf_real *)(void *)trf__act_at(run, sub->hidden, n);
    n += trf_attention_saved(sub->rows, sub->attention.heads);
    if (call->m) sub->memory = sub->fresh = trf__act_at(run, sub->hidden, n);
    return TRF_OK;
}

/* Begins a call, with everything that forward and backward share. use: of saved. */
TRF__FN trf_status trf__multi_head_args(trf_context *context, trf__call *call, const trf_tensor *x,
                                        const trf_tensor *memory,
                                        const trf_attention_params *params,
                                        const trf_attention_shape *shape, const trf_tensor *saved,
                                        char use, trf_error *err)
{
    static const char *const names[] = {"in_weight", "in_bias", "out_weight", "out_bias"};
    trf__operands *sub = &call->sub;
    trf__attention_in *a = &sub->attention;
    int64_t rows, d;
    TRF__TRY(trf__block_begin(context, call, sizeof *call, err));
    TRF__TRY(trf__matrix(x, "x", 0, &rows, &d, err));
    call->names = names;
    call->inner = sub->d = sub->q_width = sub->k_width = d;
    call->wide = 3 * d;
    TRF__TRY(trf__params(context, call, params, 'i', err));
    TRF__TRY(trf__attention_prepare(context, shape, d, a, &sub->rows, &sub->memory_rows, err));
    TRF__TENSOR('i', x, sub->rows, d, call->x);
    /* self-attention may be given with memory = x */
    if (memory && memory->data == x->data && memory->shape[0] == rows) memory = NULL;
    if (!memory) TRF__TRY(trf__shape_check(x, "memory", sub->memory_rows, d, err));
    TRF__TENSOR('I', memory, sub->memory_rows, d, call->m);
    TRF__TRY(trf__saved(context, sub, saved,
                        trf_multi_head_attention_saved(sub->rows, sub->memory_rows, d, a->heads),
                        use, err));
    return context->run.backend->reserve(&context->run, a->max_keys, a->d_head, 0, 0, err);
}

TRF_API trf_status trf_multi_head_attention(trf_context *context, trf_tensor *y,
                                            const trf_tensor *x, const trf_tensor *memory,
                                            const trf_attention_params *params,
                                            const trf_attention_shape *shape,
                                            trf_tensor *probabilities, trf_tensor *saved,
                                            trf_error *err)
{
    trf__call call;
    trf_real *maps;
    TRF__TRY(trf__multi_head_args(context, &call, x, memory, params, shape, saved, 'O', err));
    TRF__TENSOR('o', y, call.sub.rows, call.sub.d, call.y);
    if (probabilities)
        TRF__TRY(trf__probabilities_arg(context, &call.sub.attention, probabilities,
                                        "probabilities", &maps, err));
    TRF__TRY(trf__call_stage(context, &call, err));
    trf__attention_forward(&context->run, &call.sub, call.y, call.x, call.m);
    if (probabilities)
        trf__probabilities_of(context, trf__attention_of(&context->run, &call.sub), maps);
    return trf__end(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
/* Adds what backward has besides and stages the call. Scratch memory takes the gradients of
   projected, hidden, and a memory's keys and values. */
TRF__FN trf_status trf__call_gradients(trf_context *context, trf__call *call, const void *dparams,
                                       const trf_tensor *dx, const trf_tensor *dy, trf_error *err)
{
    trf__operands *sub = &call->sub;
    int64_t wide = sub->rows * call->wide, inner = sub->rows * call->inner;
    int64_t memory = call->m ? 2 * sub->memory_rows * sub->d : 0;
    TRF__TRY(trf__params(context, call, dparams, 'a', err));
    TRF__TENSOR('o', dx, sub->rows, sub->d, call->dx);
    TRF__TENSOR('i', dy, sub->rows, sub->d, call->dy);
    TRF__TRY(trf__workspace_reserve(&context->run, &context->work,
                           trf__bytes(wide + inner + memory, context->run.element), err));
    sub->dprojected = (trf__act *)context->work.memory;
    sub->dhidden = trf__act_at(&context->run, sub->dprojected, wide);
    sub->dmemory = trf__act_at(&context->run, sub->dhidden, inner);
    return trf__call_stage(context, call, err);
}

TRF_API trf_status trf_multi_head_attention_backward(trf_context *context, trf_tensor *dx,
                                                     trf_tensor *dmemory,
                                                     trf_attention_params *dparams,
                                                     const trf_tensor *dy, const trf_tensor *x,
                                                     const trf_tensor *memory,
                                                     const trf_attention_params *params,
                                                     const trf_attention_shape *shape,
                                                     const trf_tensor *saved, trf_error *err)
{
    trf__call call;
    TRF__TRY(trf__multi_head_args(context, &call, x, memory, params, shape, saved, 'i', err));
    if (call.m && (dmemory || call.sub.memory_rows > 0))
        TRF__TENSOR('o', dmemory, call.sub.memory_rows, call.sub.d, call.dm);
    TRF__TRY(trf__call_gradients(context, &call, dparams, dx, dy, err));
    trf__attention_backward(&context->run, &call.sub, call.dx, call.dm, 0, call.dy, call.x, call.m);
    return trf__end(context, TRF_OK, err);
}
#endif

TRF__FOR_SPEED

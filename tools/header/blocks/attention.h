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

/* Checks lengths and turns them into spans. Sets all of `a` but its tensors. */
TRF__FN trf_status trf__attention_prepare(trf_context *context, const trf_attention_shape *shape,
                                          int64_t d,
                                          trf__attention_in *a, int64_t *queries, int64_t *keys,
                                          trf_error *err)
{
    int32_t i;
    TRF__ZERO(*a);
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
    return TRF_OK;
}

TRF__FN const trf__span *trf__spans_staged(trf_context *c, int64_t n)
{
    return (const trf__span *)trf__bring(c, c->spans, trf__bytes(n, sizeof *c->spans), 'i');
}

/* Checks the arguments that forward, backward and the weights share, and reserves scratch memory
   for the longest sequence. */
TRF__FN trf_status trf__attention_args(trf_context *context, trf__attention_in *a,
                                       const trf_tensor *q,
                                       const trf_tensor *k, const trf_tensor *v,
                                       const trf_attention_shape *shape,
                                       const trf_tensor *saved, trf_error *err)
{
    int64_t d, queries, keys;
    TRF__TRY(trf__matrix(q, "q", -1, &d, err));
    TRF__TRY(trf__attention_prepare(context, shape, d, a, &queries, &keys, err));
    TRF__TRY(trf__shape_check(q, "q", queries, d, err));
    TRF__TRY(trf__shape_check(k, "k", keys, d, err));
    TRF__TRY(trf__shape_check(v, "v", keys, d, err));
    a->ldq = a->ldk = d;
    if (saved)
        TRF__TRY(trf__shape_check(saved, "saved", trf_attention_saved(queries, shape->n_heads), -1,
                                  err));
    return context->run.backend->reserve(&context->run, a->max_keys, a->d_head, 0, 0, err);
}

/* Checks `saved`. In a forward pass it may be NULL: the context's scratch memory then takes the
   numbers. */
TRF__FN trf_status trf__saved_check(trf_context *context, const trf_tensor *saved, int64_t numbers,
                                    int forward, trf_error *err)
{
    if (saved || !forward) return trf__shape_check(saved, "saved", numbers, -1, err);
    return trf__workspace_reserve(&context->run, &context->work,
                         trf__add_size(trf__bytes(numbers, sizeof(trf_real)), 64), err);
}
TRF__FN trf_real *trf__saved_staged(trf_context *context, const trf_tensor *saved, char use)
{
    return saved ? trf__stage(context, saved, use) : (trf_real *)context->work.memory;
}

TRF__FN void trf__attention_staged(trf_context *c, trf__attention_in *a, const trf_tensor *q,
                                   const trf_tensor *k, const trf_tensor *v)
{
    a->q = trf__act_staged(c, q, 'i');
    a->k = trf__act_staged(c, k, 'i');
    a->v = trf__act_staged(c, v, 'i');
    a->spans = trf__spans_staged(c, a->n_spans);
}

TRF_API trf_status trf_attention(trf_context *context, trf_tensor *out, const trf_tensor *q,
                                 const trf_tensor *k,
                                 const trf_tensor *v, const trf_attention_shape *shape,
                                 trf_tensor *saved, trf_error *err)
{
    trf__attention a;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, err));
    TRF__TRY(trf__shape_check(out, "out", q->shape[0], q->shape[1], err));
    trf__attention_staged(context, &a.in, q, k, v);
    a.out = trf__act_staged(context, out, 'o');
    a.stats = trf__stage(context, saved, 'o');
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->attention(&context->run, &a);
    return trf__staged_back(context, TRF_OK, err);
}

/* Checks out: all weights in one row, or for one sequence (heads, queries, keys). */
TRF__FN trf_status trf__probabilities_check(const trf_context *context, const trf__attention_in *in,
                                            const trf_tensor *out, trf_error *err)
{
    const trf__span *spans = context->spans;
    int64_t i, n = 0;
    for (i = 0; i < in->n_spans; i++)
        n = trf__add_counts(n, trf__times((int64_t)spans[i].n_query * spans[i].n_key, in->heads));
    if (out && out->data && out->rank == 3 && in->n_spans == 1 && out->shape[0] == in->heads &&
        out->shape[1] == spans[0].n_query && out->shape[2] == spans[0].n_key) return TRF_OK;
    return trf__shape_check(out, "out", n, -1, err);
}

/* Computes the weights of all heads and spans. */
TRF__FN void trf__probabilities_of(const trf_context *context, const trf__attention_in *in,
                                   trf_real *maps)
{
    int64_t i;
    for (i = 0; i < in->n_spans; i++) {
        const trf__span *span = &context->spans[i];
        trf__attention_maps(&context->run, in, i, span, maps);
        maps += (int64_t)in->heads * span->n_query * span->n_key;
    }
}

TRF_API trf_status trf_attention_probabilities(trf_context *context, trf_tensor *out,
                                               const trf_tensor *q, const trf_tensor *k,
                                               const trf_attention_shape *shape, trf_error *err)
{
    trf__attention_in in;
    trf_real *maps;
    TRF__TRY(trf__begin(context, "context", err));
    /* weights need no values: k takes the argument of v */
    TRF__TRY(trf__attention_args(context, &in, q, k, k, shape, NULL, err));
    TRF__TRY(trf__probabilities_check(context, &in, out, err));
    trf__attention_staged(context, &in, q, k, k);
    maps = trf__stage(context, out, 'o');
    TRF__TRY(trf__staged_ready(context, err));
    trf__probabilities_of(context, &in, maps);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_attention_backward(trf_context *context, trf_tensor *dq, trf_tensor *dk,
                                          trf_tensor *dv,
                                          const trf_tensor *dout, const trf_tensor *out,
                                          const trf_tensor *q,
                                          const trf_tensor *k, const trf_tensor *v,
                                          const trf_attention_shape *shape, const trf_tensor *saved,
                                          trf_error *err)
{
    trf__attention_gradient a;
    int64_t queries, keys, d;
    TRF__TRY(trf__begin(context, "context", err));
    if (!saved)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "saved",
                         "saved must be the tensor that the forward pass filled");
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, err));
    queries = q->shape[0]; keys = k->shape[0]; d = q->shape[1];
    TRF__TRY(trf__shape_check(dq, "dq", queries, d, err));
    TRF__TRY(trf__shape_check(dk, "dk", keys, d, err));
    TRF__TRY(trf__shape_check(dv, "dv", keys, d, err));
    TRF__TRY(trf__shape_check(dout, "dout", queries, d, err));
    TRF__TRY(trf__shape_check(out, "out", queries, d, err));
    /* out spares a sum: P dP summed over a row is dout . out (>>attention) */
    trf__attention_staged(context, &a.in, q, k, v);
    a.dq = trf__act_staged(context, dq, 'o');
    a.dk = trf__act_staged(context, dk, 'o');
    a.dv = trf__act_staged(context, dv, 'o');
    a.dout = trf__act_staged(context, dout, 'i');
    a.out = trf__act_staged(context, out, 'i');
    a.dbias = a.partial = NULL;
    a.first_bias = 0;
    a.stats = trf__stage(context, saved, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->attention_gradient(&context->run, &a);
    return trf__staged_back(context, TRF_OK, err);
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

/* Checks the shapes of the four matrices; q, k and v share in_weight. */
TRF__FN trf_status trf__params_check(const trf_attention_params *p, int64_t d, trf_error *err)
{
    if (!p) return trf__fail_null(err, "params");
    TRF__TRY(trf__shape_check(&p->in_weight, "in_weight", 3 * d, d, err));
    TRF__TRY(trf__shape_check(&p->in_bias, "in_bias", 3 * d, -1, err));
    TRF__TRY(trf__shape_check(&p->out_weight, "out_weight", d, d, err));
    return trf__shape_check(&p->out_bias, "out_bias", d, -1, err);
}

/* Checks everything that forward and backward share. */
TRF__FN trf_status trf__multi_head_check(trf_context *context, trf__operands *sub,
                                         const trf_tensor *x, const trf_tensor *memory,
                                         const trf_attention_params *params,
                                         const trf_attention_shape *shape, const trf_tensor *saved,
                                         int forward, trf_error *err)
{
    int64_t d, saved_numbers;
    TRF__ZERO(*sub);
    TRF__TRY(trf__matrix(x, "x", -1, &d, err));
    TRF__TRY(trf__params_check(params, d, err));
    TRF__TRY(trf__attention_prepare(context, shape, d, &sub->attention, &sub->rows,
                                    &sub->memory_rows, err));
    TRF__TRY(trf__shape_check(x, "x", sub->rows, d, err));
    TRF__TRY(trf__shape_check(memory ? memory : x, "memory", sub->memory_rows, d, err));
    sub->d = sub->q_width = sub->k_width = d;
    saved_numbers = trf_multi_head_attention_saved(sub->rows, sub->memory_rows, d, shape->n_heads);
    TRF__TRY(trf__saved_check(context, saved, saved_numbers, forward, err));
    return context->run.backend->reserve(&context->run, sub->attention.max_keys,
                                         sub->attention.d_head, 0, 0, err);
}

/* Stages weights and spans, and lays out saved. */
TRF__FN void trf__multi_head_staged(trf_context *context, trf__operands *sub, int self,
                                    const trf_attention_params *params, const trf_tensor *saved,
                                    char use)
{
    int64_t numbers = sub->rows * sub->d;
    trf_real *kept = trf__saved_staged(context, saved, use);
    sub->in_w = trf__mat_of(context, &params->in_weight);
    sub->out_w = trf__mat_of(context, &params->out_weight);
    sub->in_b = trf__stage(context, &params->in_bias, 'i');
    sub->out_b = trf__stage(context, &params->out_bias, 'i');
    sub->attention.spans = trf__spans_staged(context, sub->attention.n_spans);
    if (!kept) return;
    sub->stats = kept + 4 * numbers;
    sub->projected = (trf__act *)(void *)kept;
    sub->hidden = (trf__act *)(void *)(kept + 3 * numbers);
    if (!self)
        sub->memory = (trf__act *)(void *)(sub->stats + trf_attention_saved(sub->rows,
        sub->attention.heads));
    sub->fresh = sub->memory;
}

/* Self-attention may be given with memory = x. Returns NULL for it, else the memory. */
TRF__FN const trf_tensor *trf__other_memory(const trf_tensor *x, const trf_tensor *memory)
{
    return memory && x && memory->data == x->data && memory->shape[0] == x->shape[0] ? NULL
        : memory;
}

TRF_API trf_status trf_multi_head_attention(trf_context *context, trf_tensor *y,
                                            const trf_tensor *x, const trf_tensor *memory,
                                            const trf_attention_params *params,
                                            const trf_attention_shape *shape, trf_tensor *saved,
                                            trf_error *err)
{
    trf__operands sub;
    trf__act *out;
    const trf__act *in, *m;
    TRF__TRY(trf__begin(context, "context", err));
    memory = trf__other_memory(x, memory);
    TRF__TRY(trf__multi_head_check(context, &sub, x, memory, params, shape, saved, 1, err));
    TRF__TRY(trf__shape_check(y, "y", sub.rows, sub.d, err));
    /* saved is set: backward reads projections from it instead of computing them again */
    trf__multi_head_staged(context, &sub, !memory, params, saved, 'o');
    out = trf__act_staged(context, y, 'o');
    in = trf__act_staged(context, x, 'i');
    m = trf__act_staged(context, memory, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    trf__attention_forward(&context->run, &sub, out, in, m);
    return trf__staged_back(context, TRF_OK, err);
}

TRF_API trf_status trf_multi_head_attention_probabilities(trf_context *context, trf_tensor *out,
                                                          const trf_tensor *x,
                                                          const trf_tensor *memory,
                                                          const trf_attention_params *params,
                                                          const trf_attention_shape *shape,
                                                          trf_error *err)
{
    trf__operands sub;
    trf__attention_in attention;
    const trf__act *in, *m;
    trf_real *maps;
    TRF__TRY(trf__begin(context, "context", err));
    memory = trf__other_memory(x, memory);
    TRF__TRY(trf__multi_head_check(context, &sub, x, memory, params, shape, NULL, 1, err));
    TRF__TRY(trf__probabilities_check(context, &sub.attention, out, err));
    trf__multi_head_staged(context, &sub, !memory, params, NULL, 'o');
    in = trf__act_staged(context, x, 'i');
    m = trf__act_staged(context, memory, 'i');
    maps = trf__stage(context, out, 'o');
    TRF__TRY(trf__staged_ready(context, err));
    /* projections only; the weighted sum and the output projection are not needed */
    trf__attention_project(&context->run, &sub, in, m);
    attention = trf__attention_of(&context->run, &sub);
    trf__probabilities_of(context, &attention, maps);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
/* Scratch for the gradients of projected, hidden and memory. */
TRF__FN trf_status trf__take_gradients(trf_context *context, trf__operands *sub, int64_t wide,
                                       int64_t inner, int64_t memory,
                                 trf_error *err)
{
    TRF__TRY(trf__workspace_reserve(&context->run, &context->work,
                           trf__bytes(wide + inner + memory, context->run.element), err));
    sub->dprojected = (trf__act *)context->work.memory;
    sub->dhidden = trf__act_at(&context->run, sub->dprojected, wide);
    sub->dmemory = trf__act_at(&context->run, sub->dhidden, inner);
    return TRF_OK;
}

TRF_API trf_status trf_multi_head_attention_backward(trf_context *context, trf_tensor *dx,
                                                     trf_tensor *dmemory,
                                                     trf_attention_params *dparams,
                                                     const trf_tensor *dy,
                                                     const trf_tensor *x, const trf_tensor *memory,
                                                     const trf_attention_params *params,
                                                     const trf_attention_shape *shape,
                                                     const trf_tensor *saved, trf_error *err)
{
    trf__operands sub;
    trf__act *out, *dm;
    const trf__act *in, *m, *dout;
    TRF__TRY(trf__begin(context, "context", err));
    memory = trf__other_memory(x, memory);
    TRF__TRY(trf__multi_head_check(context, &sub, x, memory, params, shape, saved, 0, err));
    TRF__TRY(trf__params_check(dparams, sub.d, err));
    TRF__TRY(trf__shape_check(dx, "dx", sub.rows, sub.d, err));
    TRF__TRY(trf__shape_check(dy, "dy", sub.rows, sub.d, err));
    if (memory && (dmemory || sub.memory_rows > 0))
        TRF__TRY(trf__shape_check(dmemory, "dmemory", sub.memory_rows, sub.d, err));
    TRF__TRY(trf__take_gradients(context, &sub, 3 * sub.rows * sub.d, sub.rows * sub.d,
                           memory ? 2 * sub.memory_rows * sub.d : 0, err));
    /* with a memory its keys and values have a gradient, (memory_rows, 2d) */
    trf__multi_head_staged(context, &sub, !memory, params, saved, 'i');
    sub.d_in_w = trf__stage(context, &dparams->in_weight, 'a');
    sub.d_in_b = trf__stage(context, &dparams->in_bias, 'a');
    sub.d_out_w = trf__stage(context, &dparams->out_weight, 'a');
    sub.d_out_b = trf__stage(context, &dparams->out_bias, 'a');
    out = trf__act_staged(context, dx, 'o');
    dm = trf__act_staged(context, memory ? dmemory : NULL, 'o');
    dout = trf__act_staged(context, dy, 'i');
    in = trf__act_staged(context, x, 'i');
    m = trf__act_staged(context, memory, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    trf__attention_backward(&context->run, &sub, out, dm, 0, dout, in, m);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

TRF__FOR_SPEED

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
#include "model/config.h"
#include "pass/sublayers.h"
#include "blocks/blocks.h"

// >>blocks-shape   what all blocks of attention check
//
// Sequences lie one after another in q, k and v; trf_attention_shape gives their lengths.

/* The lengths of all sequences together; those below 0 are refused later. */
TRF__FN int64_t trf__length_sum(const int32_t *lengths, int32_t count)
{
    int64_t n = 0;
    for (int32_t i = 0; lengths && i < count; i++) n += lengths[i] > 0 ? lengths[i] : 0;
    return n;
}

/* Size of `saved`: statistics. With params (multi-head): projected and hidden, statistics, keys and
   values of a memory. As self-attention has as many keys as queries, one formula serves both. */
TRF_API int64_t trf_attention_saved(const trf_attention_shape *shape,
                                    const trf_attention_params *params)
{
    if (!shape) return 0;
    int64_t queries = trf__length_sum(shape->query_lengths, shape->count);
    int64_t keys = trf__length_sum(shape->key_lengths, shape->count);
    int64_t n = trf__mul_counts(trf__mul_counts(2, queries), shape->n_heads);
    if (!params) return n;
    int64_t wide = params->in_weight.shape[0], q_width = params->out_weight.shape[1];
    n = trf__add_counts(n, trf__mul_counts(trf__mul_counts(2, queries), q_width));
    return q_width < 0 || wide < q_width
        ? n : trf__add_counts(n, trf__mul_counts(keys, wide - q_width));
}

/* Checks lengths and heads, and turns lengths into spans. `width` is q_times the width of all query
   heads plus k_times that of all key heads. The caller has cleared `a`. */
TRF__FN trf_status trf__attention_prepare(trf_context *context, const trf_attention_shape *shape,
                                          int64_t width, int q_times, int k_times,
                                          trf__attention_in *a, int64_t *queries, int64_t *keys,
                                          trf_error *err)
{
    *queries = *keys = 0;
    if (!shape) return trf__fail_null(err, "shape");
    if (shape->count < 0) return trf__fail_below(err, "count", 0, shape->count);
    TRF__TRY(trf__check_range("mask", (double)shape->mask, 0, TRF_MASK_COUNT - 1, err));
    if (shape->count > 0 && (!shape->query_lengths || !shape->key_lengths))
        return trf__fail_null(err, "lengths");
    if (shape->n_heads < 1) return trf__fail_below(err, "n_heads", 1, shape->n_heads);
    a->heads = shape->n_heads;
    a->kv_heads = shape->kv_heads ? shape->kv_heads : shape->n_heads;
    TRF__FAIL_IF(a->kv_heads < 0 || a->heads % a->kv_heads, TRF_E_INVALID_ARG, -1, "kv_heads",
                 "kv_heads must divide n_heads = %d, got %d", a->heads, a->kv_heads);
    int64_t heads = (int64_t)q_times * a->heads + (int64_t)k_times * a->kv_heads;
    TRF__FAIL_IF(width % heads, TRF_E_INVALID_ARG, -1, "n_heads",
                 "%lld heads must divide the width %lld", (long long)heads, (long long)width);
    TRF__GROW(trf__span, context->spans, context->spans_capacity, shape->count,
              &context->run.hooks);
    for (int32_t i = 0; i < shape->count; i++) {
        int32_t n_query = shape->query_lengths[i], n_key = shape->key_lengths[i];
        trf__span *span = &context->spans[i];
        TRF__FAIL_IF(n_query < 0 || n_key < 0, TRF_E_INVALID_ARG, i, "lengths",
                     "lengths of sequence %d must not be negative", i);
        /* position i sees keys up to i, so queries and keys must be the same positions */
        TRF__FAIL_IF(shape->mask == TRF_CAUSAL && n_query != n_key, TRF_E_INVALID_ARG, i, "lengths",
                     "causal attention needs as many keys as queries; sequence %d has %d keys and "
                     "%d queries", i, n_key, n_query);
        TRF__FAIL_IF(*queries + n_query > INT32_MAX || *keys + n_key > INT32_MAX, TRF_E_LIMIT, i,
                     "lengths", "all lengths together must stay below 2^31");
        span->query = (int32_t)*queries; span->n_query = n_query;
        span->key = (int32_t)*keys; span->n_key = n_key;
        span->sentence = i;
        *queries += n_query;
        *keys += n_key;
        a->max_queries = trf__max64(a->max_queries, n_query);
        a->max_keys = trf__max64(a->max_keys, n_key);
    }
    a->n_spans = shape->count;
    a->d_head = (int)(width / heads);
    a->causal = shape->mask == TRF_CAUSAL;
    return TRF_OK;
}

/* Checks the numbers of score_bias that attention reads, and counts the pairs of a query and a key
   that come before each sequence. */
TRF__FN trf_status trf__score_bias_arg(trf_context *context, const trf_tensor *t,
                                       trf__attention_in *a, trf_error *err)
{
    trf__bias *bias = &a->bias;
    int64_t j, h, n = 0, rows = a->max_queries, columns = a->max_keys, heads = 1;
    TRF__GROW(int64_t, context->pairs, context->pairs_capacity, a->n_spans, &context->run.hooks);
    for (int64_t i = 0; i < a->n_spans; i++) {
        context->pairs[i] = n;
        n += (int64_t)context->spans[i].n_query * context->spans[i].n_key;
    }
    if (!t->data) return trf__fail_null(err, "score_bias");
    if (t->rank == 1 && (t->shape[0] == n || t->shape[0] == trf__mul_counts(n, a->heads))) {
        bias->per_head = t->shape[0] != n;
        rows = 1;
        columns = t->shape[0];
    } else if ((t->rank == 2 || (t->rank == 3 && t->shape[0] == a->heads)) &&
               t->shape[t->rank - 2] >= rows && t->shape[t->rank - 1] >= columns &&
               trf_tensor_count(t) < INT64_MAX) {
        bias->per_head = t->rank == 3;
        bias->queries = t->shape[t->rank - 2];
        bias->keys = t->shape[t->rank - 1];
        heads = t->rank == 3 ? a->heads : 1;
    } else
        return trf__fail(err, TRF_E_SHAPE, -1, "score_bias",
                         "score_bias must have the shape (%lld), (%lld), (Q, K) or (%d, Q, K) with "
                         "Q >= %lld and K >= %lld", (long long)n,
                         (long long)trf__mul_counts(n, a->heads), a->heads, (long long)rows,
                         (long long)columns);
    for (h = 0; h < heads; h++) for (int64_t i = 0; i < rows; i++) for (j = 0; j < columns; j++) {
        int64_t at = (h * bias->queries + i) * bias->keys + j;
        TRF__FAIL_IF(!(t->data[at] < (trf_real)HUGE_VAL), TRF_E_INVALID_ARG, at, "score_bias",
                     "number %lld of score_bias is neither finite nor -infinity", (long long)at);
    }
    trf__numbers(context, 'i', t, &bias->numbers);
    trf__add_arg(context, 'i', context->pairs, trf__bytes(a->n_spans, sizeof *context->pairs),
                 &bias->pairs);
    return TRF_OK;
}

/* What attention needs besides, once heads and lengths are known. */
TRF__FN trf_status trf__attention_more(trf_context *context, const trf_attention_shape *shape,
                                       trf__attention_in *a, trf_error *err)
{
    TRF__TRY(trf__check_range("scale", shape->scale, 0, 1e6, err));
    a->scale = shape->scale > 0 ? shape->scale : trf__default_scale(a->d_head);
    TRF__TRY(trf__dropout_arg(context, shape->dropout, &a->drop, err));
    if (shape->score_bias) TRF__TRY(trf__score_bias_arg(context, shape->score_bias, a, err));
    trf__add_arg(context, 'i', context->spans, trf__bytes(a->n_spans, sizeof *context->spans),
                 &a->spans);
    return context->run.backend->reserve(&context->run, a->max_keys, a->d_head, 0, 0, err);
}

// >>blocks-attention
//
// Attention alone, without projections. saved holds two numbers for each row and head, from which
// backward computes the weights again.

/* The arguments that forward and backward share. uses: of v and of saved. */
TRF__FN trf_status trf__attention_args(trf_context *context, trf__attention_in *a,
                                       const trf_tensor *q, const trf_tensor *k,
                                       const trf_tensor *v, const trf_attention_shape *shape,
                                       const trf_tensor *saved, const char *uses, void *stats,
                                       trf_error *err)
{
    int64_t width, queries, keys;
    TRF__TRY(trf__matrix(q, "q", 0, &queries, &width, err));
    TRF__TRY(trf__attention_prepare(context, shape, width, 1, 0, a, &queries, &keys, err));
    a->ldq = width;
    a->ldk = (int64_t)a->kv_heads * a->d_head;
    TRF__TENSOR('i', q, queries, a->ldq, a->q);
    TRF__TENSOR('i', k, keys, a->ldk, a->k);
    TRF__TENSOR(uses[0], v, keys, a->ldk, a->v);
    TRF__TRY(trf__tensor(context, uses[1], saved, "saved", trf_attention_saved(shape, NULL), -1,
                         stats, err));
    return trf__attention_more(context, shape, a, err);
}

/* The weights of all heads: all in one row, or for one sequence (heads, queries, keys). */
TRF__FN trf_status trf__probabilities_arg(trf_context *context, const trf__attention_in *in,
                                          const trf_tensor *out, trf_real **maps, trf_error *err)
{
    const trf__span *spans = context->spans;
    int64_t n = 0;
    for (int64_t i = 0; i < in->n_spans; i++)
        n = trf__add_counts(n, trf__mul_counts((int64_t)spans[i].n_query * spans[i].n_key,
                                               in->heads));
    trf__numbers(context, 'o', out, maps);
    if (!out || (out->data && out->rank == 3 && in->n_spans == 1 && out->shape[0] == in->heads &&
                 out->shape[1] == spans[0].n_query && out->shape[2] == spans[0].n_key))
        return TRF_OK;
    return trf__shape_check(out, "probabilities", n, -1, err);
}

/* Computes the weights of all heads and spans, if somebody asks for them. */
TRF__FN void trf__probabilities_of(const trf_context *context, trf__attention_in in, trf_real *maps)
{
    for (int64_t i = 0; maps && i < in.n_spans; i++) {
        const trf__span *span = &context->spans[i];
        trf__attention_maps(&context->run, &in, i, span, maps);
        maps += (int64_t)in.heads * span->n_query * span->n_key;
    }
}

TRF_API trf_status trf_attention(trf_context *context, trf_tensor *out, const trf_tensor *q,
                                 const trf_tensor *k, const trf_tensor *v,
                                 const trf_attention_shape *shape, trf_tensor *probabilities,
                                 trf_tensor *saved, trf_error *err)
{
    trf__attention a;
    trf_real *maps;
    const char *uses = !out && probabilities && !saved ? "IO" : "iO";       /* weights alone */
    TRF__TRY(trf__block_begin(context, &a, sizeof a, err));
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, uses, &a.stats, err));
    TRF__TENSOR(uses[0] == 'I' ? 'O' : 'o', out, q->shape[0], q->shape[1], a.out);
    TRF__TRY(trf__probabilities_arg(context, &a.in, probabilities, &maps, err));
    TRF__TRY(trf__upload_args(context, err));
    if (out) context->run.backend->attention(&context->run, &a);
    trf__probabilities_of(context, a.in, maps);
    return trf__end(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)

/* Room for the gradients of the scores of all pairs, if those of score_bias are asked for. */
TRF__FN trf_status trf__scores_arg(trf_context *context, const trf_tensor *dscore_bias,
                                   const trf_attention_shape *shape, const trf__attention_in *in,
                                   trf_real **partial, trf_error *err)
{
    const trf_tensor *like = shape->score_bias;
    int64_t n = 0;
    if (!dscore_bias) return TRF_OK;
    TRF__FAIL_IF(!like || !dscore_bias->data, TRF_E_INVALID_ARG, -1, "dscore_bias",
                 like ? "dscore_bias must be a tensor with data"
                      : "there is no score_bias that could have a gradient");
    for (int64_t i = 0; i < like->rank; i++)
        TRF__FAIL_IF(dscore_bias->rank != like->rank || dscore_bias->shape[i] != like->shape[i],
                     TRF_E_SHAPE, -1, "dscore_bias",
                     "dscore_bias must have the shape of score_bias");
    for (int64_t i = 0; i < in->n_spans; i++)
        n += (int64_t)context->spans[i].n_query * context->spans[i].n_key;
    n = trf__mul_counts(n, in->heads);
    TRF__GROW(trf_real, context->scores, context->scores_capacity, n, &context->run.hooks);
    trf__add_arg(context, 'o', context->scores, trf__bytes(n, sizeof(trf_real)), partial);
    return TRF_OK;
}

/* Ends a backward call, and adds the gradients of scores to those of score_bias, in the order of
   sequences and heads. So the bits depend neither on threads nor on the device's order. */
TRF__FN trf_status trf__scores_end(trf_context *context, trf__attention_in in,
                                   const trf_tensor *dscore_bias, trf_error *err)
{
    TRF__TRY(trf__end(context, TRF_OK, err));
    in.spans = context->spans;
    in.bias.pairs = context->pairs;
    for (int64_t tile = 0; dscore_bias && tile < in.n_spans * in.heads; tile++) {
        trf__head h = trf__head_of(&in, tile);
        for (int64_t i = 0; i < h.span->n_query; i++) {
            const trf_real *from = context->scores + trf__pairs_of(&h, i, 1);
            trf_real *to = dscore_bias->data + trf__numbers_at(&h, i);
            for (int64_t j = 0; j < trf__keys_seen(&h, i); j++) to[j] += from[j];
        }
    }
    return TRF_OK;
}

TRF_API trf_status trf_attention_backward(trf_context *context, trf_tensor *dq, trf_tensor *dk,
                                          trf_tensor *dv, trf_tensor *dscore_bias,
                                          const trf_tensor *dout, const trf_tensor *out,
                                          const trf_tensor *q, const trf_tensor *k,
                                          const trf_tensor *v, const trf_attention_shape *shape,
                                          const trf_tensor *saved, trf_error *err)
{
    trf__attention_gradient a;
    TRF__TRY(trf__block_begin(context, &a, sizeof a, err));
    TRF__FAIL_IF(!saved, TRF_E_INVALID_ARG, -1, "saved",
                 "saved must be the tensor that the forward pass filled");
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, "ii", &a.stats, err));
    TRF__TENSOR('o', dq, q->shape[0], q->shape[1], a.dq);
    TRF__TENSOR('o', dk, k->shape[0], k->shape[1], a.dk);
    TRF__TENSOR('o', dv, k->shape[0], k->shape[1], a.dv);
    TRF__TENSOR('i', dout, q->shape[0], q->shape[1], a.dout);
    /* out spares a sum: P dP summed over a row is dout . out (>>attention) */
    TRF__TENSOR('i', out, q->shape[0], q->shape[1], a.out);
    TRF__TRY(trf__scores_arg(context, dscore_bias, shape, &a.in, &a.partial, err));
    TRF__TRY(trf__upload_args(context, err));
    context->run.backend->attention_gradient(&context->run, &a);
    return trf__scores_end(context, a.in, dscore_bias, err);
}
#endif

// >>blocks-rotary  queries and keys turned by their positions (>>rotary)
//
// The context keeps the table, because every layer and every step asks for the same rows.

/* Sets the rotation of heads of this width: the rows of the table up to the last key, and as
   positions those of all queries, then those of all keys. ahead: the most keys before a query. */
TRF__FN trf_status trf__rotary_args(trf_context *context, const trf_config *rotary,
                                    const trf__attention_in *a, int64_t queries, int64_t keys,
                                    int32_t ahead, trf__rotation *r, trf_error *err)
{
    trf_config c = trf_config_preset(TRF_TINY);
    double says[6];
    int64_t n = queries;
    c.source_vocab = c.target_vocab = 5;
    c.positions = TRF_POSITIONS_ROTARY;
    c.n_heads = 1;
    c.d_head = a->d_head;
    c.rotary_base = rotary->rotary_base; c.rotary_width = rotary->rotary_width;
    c.rotary_scale = rotary->rotary_scale; c.rotary_trained = rotary->rotary_trained;
    c.rotary_low = rotary->rotary_low; c.rotary_high = rotary->rotary_high;
    c.rotary_pairs = rotary->rotary_pairs;
    TRF__TRY(trf__config_check(&c, err));
    TRF__FAIL_IF(a->max_keys > 1 << 24, TRF_E_LIMIT, -1, "lengths",
                 "with rotary positions a sequence has at most %d keys", 1 << 24);
    r->width = trf__rotary_width(&c);
    r->d_head = a->d_head;
    r->pairs = (int)c.rotary_pairs;
    says[0] = r->width; says[1] = c.rotary_base; says[2] = c.rotary_scale;
    says[3] = c.rotary_trained; says[4] = c.rotary_low; says[5] = c.rotary_high;
    if (memcmp(says, context->turned, sizeof says)) context->n_turns = 0;
    memcpy(context->turned, says, sizeof says);
    TRF__GROW(trf_real, context->turns, context->turns_capacity, a->max_keys * r->width,
              &context->run.hooks);
    for (int64_t i = context->n_turns; i < a->max_keys; context->n_turns = ++i)
        trf__rotary_row(context->turns + i * r->width, i, &c);
    TRF__GROW(int32_t, context->ints, context->ints_capacity, queries + keys, &context->run.hooks);
    for (int64_t i = 0; i < a->n_spans; i++) {
        const trf__span *span = &context->spans[i];
        TRF__FAIL_IF(queries > 0 && (span->n_query > span->n_key ||
                     span->n_key - span->n_query > ahead), TRF_E_INVALID_ARG, i, "lengths",
                     "queries are the last positions of keys: sequence %lld has %d queries and "
                     "%d keys", (long long)i, span->n_query, span->n_key);
        for (int64_t k = 0; k < span->n_query && queries > 0; k++)
            context->ints[span->query + k] = (int32_t)(span->n_key - span->n_query + k);
        for (int64_t k = 0; k < span->n_key; k++) context->ints[n++] = (int32_t)k;
    }
    trf__add_arg(context, 'i', context->turns,
                 trf__bytes(a->max_keys * r->width, sizeof(trf_real)), &r->table);
    trf__list(context, context->ints, n, &r->position);
    return TRF_OK;
}

TRF_API trf_status trf_rotary(trf_context *context, trf_tensor *q, trf_tensor *k,
                              const trf_attention_shape *shape, int32_t back, trf_error *err)
{
    trf__attention_in a;
    trf__act *turned[2];
    int64_t width, queries, keys;
    TRF__ZEROED(trf__rotation, r);
    TRF__TRY(trf__block_begin(context, &a, sizeof a, err));
    if (!q && !k) return trf__fail_null(err, "q");
    TRF__TRY(trf__check_range("back", back, 0, 1, err));
    TRF__TRY(trf__matrix(q ? q : k, q ? "q" : "k", 0, &queries, &width, err));
    TRF__TRY(trf__attention_prepare(context, shape, width, q != NULL, q == NULL, &a, &queries,
                                    &keys, err));
    if (!shape->rotary) return trf__fail_null(err, "rotary");
    if (!q) queries = 0;
    TRF__TENSOR('A', q, queries, (int64_t)a.heads * a.d_head, turned[0]);
    TRF__TENSOR('A', k, keys, (int64_t)a.kv_heads * a.d_head, turned[1]);
    TRF__TRY(trf__rotary_args(context, shape->rotary, &a, queries, keys, INT32_MAX, &r, err));
    TRF__TRY(trf__upload_args(context, err));
    r.back = back;
    for (int64_t i = 0; i < 2; i++) {
        r.x = turned[i];
        r.rows = i ? keys : queries;
        r.heads = i ? a.kv_heads : a.heads;
        r.ld = (int64_t)r.heads * r.d_head;
        if (r.x) context->run.backend->rotate(&context->run, &r);
        r.position += queries;
    }
    return trf__end(context, TRF_OK, err);
}

// >>blocks-multi-head attention with its four projections
//
// The sublayer of >>sublayers on the caller's tensors. Self-attention projects x to q, k and v at
// once; with a memory, q comes from x, k and v from the memory.

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
   The first matrix is (wide, d), the second (d, inner). A bias that is an empty struct: none. */
TRF__FN trf_status trf__params(trf_context *context, trf__call *call, const void *params, char use,
                               trf_error *err)
{
    trf__operands *sub = &call->sub;
    void *const weights[] = {&sub->in_w.plain, &sub->in_b, &sub->out_w.plain, &sub->out_b};
    void *const sums[] = {&sub->d_in_w, &sub->d_in_b, &sub->d_out_w, &sub->d_out_b};
    const int64_t rows[] = {call->wide, call->wide, sub->d, sub->d};
    const int64_t columns[] = {sub->d, -1, call->inner, -1};
    trf_tensor four[4];
    if (!params) return trf__fail_null(err, "params");
    memcpy(four, params, sizeof four);
    for (int i = 0; i < 4; i++)
        if (i % 2 == 0 || four[i].data || four[i].rank)
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

/* The width of `projected`. With a memory it holds the queries alone. */
TRF__FN int64_t trf__call_wide(const trf__call *call)
{
    return call->m ? call->sub.q_width : call->wide;
}

/* Stages a call, and lays out what is kept behind `projected`; feed-forward has only `hidden`. */
TRF__FN trf_status trf__call_stage(trf_context *context, trf__call *call, trf_error *err)
{
    const trf__run *run = &context->run;
    trf__operands *sub = &call->sub;
    int64_t n = sub->rows * call->inner;
    TRF__TRY(trf__upload_args(context, err));
    sub->hidden = trf__act_at(run, sub->projected, sub->rows * trf__call_wide(call));
    sub->stats = (trf_real *)(void *)trf__act_at(run, sub->hidden, n);
    n += 2 * sub->rows * sub->attention.heads;
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
    int64_t rows, d, k;
    TRF__TRY(trf__block_begin(context, call, sizeof *call, err));
    TRF__TRY(trf__matrix(x, "x", 0, &rows, &d, err));
    if (!params) return trf__fail_null(err, "params");
    TRF__TRY(trf__matrix(&params->in_weight, "in_weight", 1, &call->wide, &k, err));
    TRF__TRY(trf__attention_prepare(context, shape, call->wide, 1, 2, a, &sub->rows,
                                    &sub->memory_rows, err));
    call->names = names;
    sub->d = d;
    call->inner = sub->q_width = (int64_t)a->heads * a->d_head;
    sub->k_width = (int64_t)a->kv_heads * a->d_head;
    TRF__TRY(trf__params(context, call, params, 'i', err));
    TRF__TENSOR('i', x, sub->rows, d, call->x);
    /* self-attention may be given with memory = x */
    if (memory && memory->data == x->data && memory->shape[0] == rows) memory = NULL;
    if (!memory) TRF__TRY(trf__shape_check(x, "memory", sub->memory_rows, d, err));
    TRF__TENSOR('I', memory, sub->memory_rows, d, call->m);
    TRF__FAIL_IF(memory && shape->rotary, TRF_E_INVALID_ARG, -1, "rotary",
                 "rotary positions are those of self-attention, but there is a memory");
    if (shape->rotary)
        TRF__TRY(trf__rotary_args(context, shape->rotary, a, sub->rows, sub->memory_rows, 0,
                                  &sub->rotation, err));
    TRF__TRY(trf__attention_more(context, shape, a, err));
    sub->drop = a->drop;
    return trf__saved(context, sub, saved, trf_attention_saved(shape, params), use, err);
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
    TRF__TRY(trf__probabilities_arg(context, &call.sub.attention, probabilities, &maps, err));
    TRF__TRY(trf__call_stage(context, &call, err));
    trf__attention_forward(&context->run, &call.sub, call.y, call.x, call.m);
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
    int64_t wide = sub->rows * trf__call_wide(call), inner = sub->rows * call->inner;
    int64_t memory = call->m ? 2 * sub->memory_rows * sub->k_width : 0;
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
                                                     trf_tensor *dscore_bias, const trf_tensor *dy,
                                                     const trf_tensor *x, const trf_tensor *memory,
                                                     const trf_attention_params *params,
                                                     const trf_attention_shape *shape,
                                                     const trf_tensor *saved, trf_error *err)
{
    trf__call call;
    TRF__TRY(trf__multi_head_args(context, &call, x, memory, params, shape, saved, 'i', err));
    if (call.m && (dmemory || call.sub.memory_rows > 0))
        TRF__TENSOR('o', dmemory, call.sub.memory_rows, call.sub.d, call.dm);
    TRF__TRY(trf__scores_arg(context, dscore_bias, shape, &call.sub.attention, &call.sub.partial,
                             err));
    TRF__TRY(trf__call_gradients(context, &call, dparams, dx, dy, err));
    trf__attention_backward(&context->run, &call.sub, call.dx, call.dm, 0, call.dy, call.x, call.m);
    return trf__scores_end(context, call.sub.attention, dscore_bias, err);
}
#endif

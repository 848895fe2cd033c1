#pragma once
#include "base/impl.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cuda/launches.h"
#include "cuda/layers.h"
#include "cuda/attention.h"

#if TRF__CUDA

#if !defined(TRF_NO_TRAIN)

// >>cuda-attention-gradient  its gradients, a block a tile
//
// Two kernels, so that each owns the rows it writes and no sum needs atomics: one for dq, with
// queries as rows, and one for dk and dv, with keys as rows. Both compute the weights again.

/* The weight P of a key for query i of the span, from s = q k^T and the query's statistics. */
TRF__DEVICE float trf__gpu_weight(const trf__gpu_head *h, const float *stats, int64_t i,
                                  int64_t key, float s)
{
    const float *known = stats + ((h->span->query + i) * h->in->heads + h->head) * 2;
    return expf((trf__gpu_score(h, s, i, key) - known[0]) * h->scores) * known[1];
}

/* dq: a warp has a query, and the others are keys. */
template <class A>
TRF__KERNEL void trf__gpu_attention_dq(trf__attention_gradient a, const trf__now *now,
                                       int64_t groups)
{
    TRF__SHARED(float, keys, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, values, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, weights, TRF__CUDA_WARPS * TRF__OTHERS);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__CUDA_WARPS, 0);
        int64_t i = h.begin + warp, query = h.span->query + i, d = a.in.d_head,
            ldo = a.in.heads * d;
        int64_t most = trf__gpu_last_seen(&h), seen = trf__gpu_seen(&h, i);
        int64_t at = query * ldo + h.first;
        float delta = 0;
        for (int64_t c = lane; i < h.n && c < d; c += 32)
            delta = fmaf(trf__get<A>(a.dout, at + c), trf__get<A>(a.out, at + c), delta);
        /* delta = dout . out, over all columns of the head */
        delta = trf__warp_sum(delta);
        for (int64_t c0 = 0; h.begin < h.n && c0 < d; c0 += 32 * TRF__OWN) {
            float dq[TRF__OWN] = {0, 0, 0, 0};
            for (int64_t key = 0; key < most; key += TRF__OTHERS) {
                /* lane l computes s and dP of key + l, and then all lanes add up columns of dq */
                float s = 0, dp = 0;
                for (int64_t c = 0; c < d; c += TRF__COLUMNS) {
                    __syncthreads();
                    trf__gpu_tile<A>(keys, a.in.k, &h, a.in.ldk, 1, key, c);
                    trf__gpu_tile<A>(values, a.in.v, &h, a.in.ldk, 1, key, c);
                    __syncthreads();
                    if (key + lane >= seen) continue;
                    s = trf__gpu_dot<A>(s, a.in.q, query * a.in.ldq + h.first + c, keys, d - c);
                    dp = trf__gpu_dot<A>(dp, a.dout, at + c, values, d - c);
                }
                if (key + lane < seen) {
                    dp *= trf__gpu_weight_factor(&h, now, i, key + lane);
                    s = trf__gpu_weight(&h, a.stats, i, key + lane, s) * (dp - delta) * h.scale;
                }
                weights[warp * TRF__OTHERS + lane] = s;
                __syncwarp();
                trf__gpu_gather<A>(dq, weights + warp * TRF__OTHERS, a.in.k, &h, a.in.ldk, 1, key,
                                   seen, c0 + lane);
                __syncwarp();
            }
            for (int o = 0; o < TRF__OWN; o++)
                if (i < h.n && c0 + lane + 32 * o < d)
                    trf__put<A>(a.dq, query * a.in.ldq + h.first + c0 + lane + 32 * o, dq[o]);
        }
    }
}

/* Adds what one head of queries contributes to dk and dv: a warp has a key, and the others are
   queries. */
template <class A>
TRF__DEVICE void trf__gpu_dkv_of(const trf__attention_gradient &a, const trf__now *now,
                                 const trf__gpu_head &h, float *queries, float *douts,
                                 float *weights, int64_t c0, float dk[TRF__OWN],
                                 float dv[TRF__OWN])
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float *to_k = weights + warp * TRF__OTHERS, *to_v = to_k + TRF__CUDA_WARPS * TRF__OTHERS;
    int64_t key = h.begin + warp, d = a.in.d_head, ldo = a.in.heads * d, n = h.span->n_query;
    int64_t at = (h.span->key + key) * a.in.ldk + h.key_first;
    for (int64_t first = 0; first < n; first += TRF__OTHERS) {
        int64_t i = first + lane, query = h.span->query + i;
        /* lane l has query first + l; its delta comes with the same pass over columns */
        float s = 0, dp = 0, delta = 0, p = 0, factor = 0;
        for (int64_t c = 0; c < d; c += TRF__COLUMNS) {
            __syncthreads();
            trf__gpu_tile<A>(queries, a.in.q, &h, a.in.ldq, 0, first, c);
            trf__gpu_tile<A>(douts, a.dout, &h, ldo, 0, first, c);
            __syncthreads();
            if (i >= n || key >= h.n || key >= trf__keys_seen(&h, i)) continue;
            delta = trf__gpu_dot<A>(delta, a.out, query * ldo + h.first + c, douts, d - c);
            s = trf__gpu_dot<A>(s, a.in.k, at + c, queries, d - c);
            dp = trf__gpu_dot<A>(dp, a.in.v, at + c, douts, d - c);
        }
        if (i < n && key < h.n && key < trf__keys_seen(&h, i)) {
            factor = trf__gpu_weight_factor(&h, now, i, key);
            p = trf__gpu_weight(&h, a.stats, i, key, s);
        }
        to_k[lane] = p * (dp * factor - delta) * h.scale;
        to_v[lane] = p * factor;
        __syncwarp();
        trf__gpu_gather<A>(dk, to_k, a.in.q, &h, a.in.ldq, 0, first, n, c0 + lane);
        trf__gpu_gather<A>(dv, to_v, a.dout, &h, ldo, 0, first, n, c0 + lane);
        __syncwarp();
    }
}

/* dk and dv. If several heads of queries read the same keys, their gradients add up one after
   another. */
template <class A>
TRF__KERNEL void trf__gpu_attention_dkv(trf__attention_gradient a, const trf__now *now,
                                        int64_t groups)
{
    TRF__SHARED(float, queries, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, douts, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, weights, 2 * TRF__CUDA_WARPS * TRF__OTHERS);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int64_t together = a.in.heads / a.in.kv_heads, d = a.in.d_head;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.kv_heads * groups;
         tile += gridDim.x) {
        int64_t head = tile / groups * together, group = tile % groups;
        trf__gpu_head h = trf__gpu_head_of(&a.in, head * groups + group, groups, TRF__CUDA_WARPS,
                                           1);
        int64_t key = h.begin + warp, at = (h.span->key + key) * a.in.ldk + h.key_first;
        for (int64_t c0 = 0; h.begin < h.n && c0 < d; c0 += 32 * TRF__OWN) {
            float dk[TRF__OWN] = {0, 0, 0, 0}, dv[TRF__OWN] = {0, 0, 0, 0};
            for (int64_t k = 0; k < together; k++) {
                h = trf__gpu_head_of(&a.in, (head + k) * groups + group, groups, TRF__CUDA_WARPS,
                                     1);
                trf__gpu_dkv_of<A>(a, now, h, queries, douts, weights, c0, dk, dv);
            }
            for (int o = 0; o < TRF__OWN; o++) {
                int64_t c = c0 + lane + 32 * o;
                if (key >= h.n || c >= d) continue;
                trf__put<A>(a.dk, at + c, dk[o]);
                trf__put<A>(a.dv, at + c, dv[o]);
            }
        }
    }
}

/* The gradient of the numbers for distances, of each head of each span: a warp takes a row of the
   table, and its lanes take the queries. The distances of a row follow one another. */
template <class A>
TRF__KERNEL void trf__gpu_bias_partial(trf__attention_gradient a, const trf__now *now)
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int64_t rows = a.in.bias.rows, d = a.in.d_head, ldo = a.in.heads * d;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, 1, INT32_MAX / 2, 0);
        int64_t n = h.span->n_query, m = h.span->n_key;
        for (int64_t row = warp; row < rows; row += TRF__CUDA_WARPS) {
            float sum = 0;
            for (int64_t t = 1 - m; t < n; t++) {
                if (trf__bias_row(&a.in.bias, t) != row) continue;
                for (int64_t i = lane; i < n; i += 32) {
                    int64_t key = t + i + m - n, query = h.span->query + i;
                    int64_t at = query * ldo + h.first;
                    float s = 0, dp = 0, delta = 0;
                    if (key < 0 || key >= trf__keys_seen(&h, i)) continue;
                    for (int64_t c = 0; c < d; c++) {
                        int64_t k = (h.span->key + key) * a.in.ldk + h.key_first + c;
                        float dout = trf__get<A>(a.dout, at + c);
                        s = fmaf(trf__get<A>(a.in.q, query * a.in.ldq + h.first + c),
                                 trf__get<A>(a.in.k, k), s);
                        dp = fmaf(dout, trf__get<A>(a.in.v, k), dp);
                        delta = fmaf(dout, trf__get<A>(a.out, at + c), delta);
                    }
                    dp *= trf__gpu_weight_factor(&h, now, i, key);
                    sum += trf__gpu_weight(&h, a.stats, i, key, s) * (dp - delta);
                }
            }
            sum = trf__warp_sum(sum);
            if (lane == 0) a.partial[tile * rows + row] = sum;
        }
    }
}

/* A thread for each number of the table: adds the spans in order. */
TRF__KERNEL void trf__gpu_bias_sum(trf__attention_gradient a)
{
    int64_t heads = a.in.heads, rows = a.in.bias.rows, at;
    for (at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < rows * heads;
         at += (int64_t)gridDim.x * blockDim.x) {
        float sum = a.first_bias ? 0 : a.dbias[at];
        for (int64_t s = 0; s < a.in.n_spans; s++)
            sum += a.partial[(s * heads + at % heads) * rows + at / heads];
        a.dbias[at] = sum;
    }
}

// >>cuda-mma-gradient  the same with tensor cores
//
// Tiles of 32 instead of 64 others: the gradient has more results to hold in registers.

template <int D>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, 3)
trf__gpu_mma_dq(trf__attention_gradient a, const trf__now *now, int64_t groups)
{
    enum { KEYS = 32 };
    TRF__SHARED(trf__bf16, tiles, 2 * KEYS * (D + 8));
    TRF__SHARED(uint8_t, kept, TRF__MMA_ROWS * KEYS / 8);
    trf__bf16 *keys = tiles, *values = tiles + KEYS * (D + 8);
    int row = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__MMA_ROWS, 0);
        int most = trf__gpu_last_seen(&h), ldo = a.in.heads * (int)a.in.d_head;
        int seen[2] = { trf__gpu_seen(&h, h.begin + row), trf__gpu_seen(&h, h.begin + row + 8) };
        float dq[D / 8][4] = {}, delta[2] = { 0, 0 }, ones[2] = { 1, 1 };
        uint32_t q[D / 16][4], dout[D / 16][4];
        if (h.begin >= h.n) continue;
        trf__mma_own<D>(dout, tiles, a.dout, &h, ldo, 0);
        /* q holds out for a moment, for delta = dout . out */
        trf__mma_own<D>(q, tiles, a.out, &h, ldo, 0);
        for (int c = 0; c < D / 16; c++)
            for (int i = 0; i < 4; i++) {
                /* two bf16 in each word; fragment i belongs to row i % 2 of the lane */
                uint32_t x = q[c][i], y = dout[c][i], high = 0xFFFF0000u;
                delta[i % 2] = fmaf(trf__float_of(x << 16), trf__float_of(y << 16), delta[i % 2]);
                delta[i % 2] = fmaf(trf__float_of(x & high), trf__float_of(y & high), delta[i % 2]);
            }
        delta[0] = trf__quad_sum(delta[0]);
        delta[1] = trf__quad_sum(delta[1]);
        trf__mma_own<D>(q, tiles, a.in.q, &h, a.in.ldq, 0);
        for (int key = 0; key < most; key += KEYS) {
            float s[KEYS / 8][4], dp[KEYS / 8][4];
            __syncthreads();
            trf__mma_tile<D, KEYS>(keys, a.in.k, &h, a.in.ldk, 1, key);
            trf__mma_tile<D, KEYS>(values, a.in.v, &h, a.in.ldk, 1, key);
            trf__mma_kept<TRF__MMA_ROWS, KEYS>(kept, &h, now, h.begin, key);
            __syncthreads();
            if (h.begin + row / 16 * 16 >= h.n) continue;
            trf__mma_rows<D, KEYS / 8>(s, q, keys, most - key);
            trf__mma_rows<D, KEYS / 8>(dp, dout, values, most - key);
            for (int j = 0; j < KEYS / 8; j++)
                for (int e = 0; e < 4; e++) {
                    int column = t * 2 + e % 2, r = row + e / 2 * 8;
                    float p = 0, factor = 0;
                    if (key + j * 8 + column < seen[e / 2])
                        p = trf__gpu_weight(&h, a.stats, h.begin + r, key + j * 8 + column,
                                            s[j][e]);
                    if (kept[r * (KEYS / 8) + j] >> column & 1)
                        factor = trf__gpu_scale(now, &a.in.drop);
                    s[j][e] = p * (dp[j][e] * factor - delta[e / 2]) * h.scale;
                }
            trf__mma_columns<D, KEYS / 8>(dq, s, keys, most - key);
        }
        trf__mma_store<D>(a.dq, dq, ones, &h, a.in.ldq, 0);
    }
}

/* The numbers of a query that dk and dv need: its statistics, delta = dout . out, and the number of
   keys it sees. */
typedef struct trf__known { float maximum, factor, delta; int seen; } trf__known;

/* Fills these for 32 queries, with four threads for each. */
TRF__DEVICE void trf__mma_known(trf__known *known, const trf__attention_gradient *a,
                                const trf__gpu_head *h, int first)
{
    int64_t i = first + (int)threadIdx.x / 4, at = (h->span->query + i) * a->in.heads + h->head, c;
    int here = i < h->span->n_query;
    trf__known q = { 0, 0, 0, 0 };
    for (c = threadIdx.x % 4; here && c < a->in.d_head; c += 4)
        q.delta = fmaf(trf__get<trf__bf16>(a->dout, at * a->in.d_head + c),
                       trf__get<trf__bf16>(a->out, at * a->in.d_head + c), q.delta);
    q.delta = trf__quad_sum(q.delta);
    if (here) {
        q.maximum = a->stats[at * 2];
        q.factor = a->stats[at * 2 + 1];
        q.seen = (int)trf__keys_seen(h, i);
    }
    if (threadIdx.x % 4 == 0) known[threadIdx.x / 4] = q;
}

/* A warp's sixteen keys and values, and their gradients. */
template <int D> struct trf__mma_keys {
    uint32_t k[D / 16][4], v[D / 16][4];
    float dk[D / 8][4], dv[D / 8][4];
};

/* Adds what one head of queries, from query `begin` on, contributes to dk and dv. */
template <int D>
TRF__DEVICE void trf__mma_dkv_of(trf__mma_keys<D> &own, const trf__attention_gradient &a,
                                 const trf__now *now, const trf__gpu_head &h, int begin,
                                 trf__bf16 *tiles, uint8_t *kept, trf__known *known)
{
    enum { QUERIES = 32, KEYS = TRF__MMA_ROWS };
    trf__bf16 *queries = tiles, *douts = tiles + QUERIES * (D + 8);
    int row = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    int n = h.span->n_query;
    for (int first = begin; first < n; first += QUERIES) {
        float s[QUERIES / 8][4], ds[QUERIES / 8][4];
        __syncthreads();
        trf__mma_tile<D, QUERIES>(queries, a.in.q, &h, a.in.ldq, 0, first);
        trf__mma_tile<D, QUERIES>(douts, a.dout, &h, a.in.heads * (int)a.in.d_head, 0, first);
        trf__mma_kept<QUERIES, KEYS>(kept, &h, now, first, h.begin);
        trf__mma_known(known, &a, &h, first);
        __syncthreads();
        if (h.begin + row / 16 * 16 >= h.n) continue;
        trf__mma_rows<D, QUERIES / 8>(s, own.k, queries, n - first);
        trf__mma_rows<D, QUERIES / 8>(ds, own.v, douts, n - first);
        for (int j = 0; j < QUERIES / 8; j++)
            for (int e = 0; e < 4; e++) {
                int column = j * 8 + t * 2 + e % 2, r = row + e / 2 * 8;
                const trf__known *q = &known[column];
                float p = 0, factor = 0;
                if (h.begin + r < q->seen) p = trf__quick_exp((s[j][e] - q->maximum) * h.scale)
                    * q->factor;
                if (kept[column * (KEYS / 8) + r / 8] >> r % 8 & 1)
                    factor = trf__gpu_scale(now, &a.in.drop);
                s[j][e] = p * factor;
                ds[j][e] = p * (ds[j][e] * factor - q->delta) * h.scale;
            }
        trf__mma_columns<D, QUERIES / 8>(own.dv, s, douts, n - first);
        trf__mma_columns<D, QUERIES / 8>(own.dk, ds, queries, n - first);
    }
}

/* dk and dv: rows of a result are keys, and its columns are queries. */
template <int D>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, 2)
trf__gpu_mma_dkv(trf__attention_gradient a, const trf__now *now, int64_t groups)
{
    enum { QUERIES = 32, KEYS = TRF__MMA_ROWS };
    TRF__SHARED(trf__bf16, tiles, 2 * QUERIES * (D + 8));
    TRF__SHARED(uint8_t, kept, QUERIES * KEYS / 8);
    TRF__SHARED(trf__known, known, QUERIES);
    int64_t together = a.in.heads / a.in.kv_heads;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.kv_heads * groups;
         tile += gridDim.x) {
        int64_t head = tile / groups * together, group = tile % groups;
        trf__gpu_head h = trf__gpu_head_of(&a.in, head * groups + group, groups, KEYS, 1);
        int n = h.span->n_query, begin = 0;
        float ones[2] = { 1, 1 };
        trf__mma_keys<D> own = {};
        if (h.begin >= h.n) continue;
        /* the first query that sees one of these keys */
        if (a.in.causal && h.begin > h.n - n) begin = h.begin - (h.n - n);
        trf__mma_own<D>(own.k, tiles, a.in.k, &h, a.in.ldk, 1);
        trf__mma_own<D>(own.v, tiles, a.in.v, &h, a.in.ldk, 1);
        for (int64_t which = 0; which < together; which++) {
            h = trf__gpu_head_of(&a.in, (head + which) * groups + group, groups, KEYS, 1);
            trf__mma_dkv_of<D>(own, a, now, h, begin, tiles, kept, known);
        }
        trf__mma_store<D>(a.dk, own.dk, ones, &h, a.in.ldk, 1);
        trf__mma_store<D>(a.dv, own.dv, ones, &h, a.in.ldk, 1);
    }
}

TRF__FN void trf__cuda_attention_gradient(const trf__run *run, const trf__attention_gradient *a)
{
    trf__launch_heads(run, "attention_gradient", a, a->in.heads, a->in.max_queries,
                      TRF__OF_WIDTH(a, trf__gpu_mma_dq), TRF__OF_ACT(run, trf__gpu_attention_dq));
    trf__launch_heads(run, "attention_gradient", a, a->in.kv_heads, a->in.max_keys,
                      TRF__OF_WIDTH(a, trf__gpu_mma_dkv), TRF__OF_ACT(run, trf__gpu_attention_dkv));
    if (!a->dbias) return;
    trf__launch(run, "bias_partial", a->in.n_spans * a->in.heads,
                TRF__OF_ACT(run, trf__gpu_bias_partial), *a, run->now);
    trf__launch(run, "bias_sum", trf__ceil_div(a->in.bias.rows * a->in.heads, TRF__CUDA_THREADS),
                trf__gpu_bias_sum, *a);
}

#endif

#endif /* TRF__CUDA */

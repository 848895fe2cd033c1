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
                    s = trf__gpu_weight(&h, a.stats, i, key + lane, s) * (dp - delta);
                    if (a.in.bias.numbers && a.partial)
                        a.partial[trf__pairs_of(&h, i, 1) + key + lane] = s;
                    s *= h.scale;
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

/* Adds what one head of queries contributes to dk and dv: a warp has a key, others are queries. */
template <class A>
TRF__DEVICE void trf__gpu_dkv_of(const trf__attention_gradient &a, const trf__now *now,
                                 const trf__gpu_head &h, float *queries, float *douts,
                                 float *weights, int64_t c0, float dk[TRF__OWN], float dv[TRF__OWN])
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

/* dk and dv. Gradients of heads of queries that read the same keys add up in order. */
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
    int64_t heads = a.in.heads, rows = a.in.bias.rows;
    trf__each(rows * heads, [&](int64_t at) {
        float sum = a.first_bias ? 0 : a.dbias[at];
        for (int64_t s = 0; s < a.in.n_spans; s++)
            sum += a.partial[(s * heads + at % heads) * rows + at / heads];
        a.dbias[at] = sum;
    });
}

// >>cuda-mma-gradient  the same with tensor cores
//
// Heads that share a block and no keys have both gradients from one kernel: it reads each operand
// once, and each weight is computed once. Other heads have the two kernels (>>mma-long-gradient).

/* What is known of a query: its statistics, delta = dout . out, and the number of keys it sees. */
typedef struct trf__known { float maximum, factor, delta; int seen; } trf__known;

TRF__DEVICE trf__known trf__mma_known(const trf__attention_gradient &a, const trf__gpu_head &h,
                                      int i)
{
    int64_t at = (((int64_t)h.span->query + i) * a.in.heads + h.head) * 2;
    trf__known q = { 0, 0, 0, 0 };
    if (i >= h.sides[0]) return q;
    q.maximum = a.stats[at];
    q.factor = a.stats[at + 1];
    q.seen = (int)trf__keys_seen(&h, i);
    return q;
}

/* The dot product of two rows in shared memory, for the four lanes that share them. */
template <int D>
TRF__DEVICE float trf__mma_delta(const trf__bf16 *dout, const trf__bf16 *out)
{
    float sum = 0;
    for (int c = (int)threadIdx.x % 4 * 8; c < D; c += 32) {
        uint4 x = *(const uint4 *)(const void *)(dout + c);
        uint4 y = *(const uint4 *)(const void *)(out + c);
        const uint32_t left[4] = { x.x, x.y, x.z, x.w }, right[4] = { y.x, y.y, y.z, y.w };
        TRF__UNROLLED for (int k = 0; k < 8; k++) {
            /* the lower half of a word comes first */
            uint32_t u = k % 2 ? left[k / 2] & 0xFFFF0000u : left[k / 2] << 16;
            uint32_t v = k % 2 ? right[k / 2] & 0xFFFF0000u : right[k / 2] << 16;
            sum = fmaf(trf__float_of(u), trf__float_of(v), sum);
        }
    }
    return trf__quad_sum(sum);
}

/* s = q k^T and dp = dout v^T of a tile (16, 16) become weights after dropout and the gradient of
   s. known: of this lane's two rows; TURNED: of the 16 columns, as rows are keys. */
template <int TURNED>
TRF__DEVICE void trf__mma_weights(float s[2][4], float dp[2][4], const trf__known *known,
                                  const trf__gpu_head &h, const trf__now *now, int query, int key)
{
    uint32_t kept = trf__mma_kept<TURNED>(&h, now, query, key);
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    float drop = trf__gpu_scale(now, &h.in->drop), scale = h.scale * TRF__LOG2_E;
    TRF__UNROLLED for (int e = 0; e < 8; e++) {
        int column = e / 4 * 8 + t * 2 + e % 2, i = e / 2 % 2;
        float *w = &s[e / 4][e % 4], *d = &dp[e / 4][e % 4], factor = kept >> e & 1 ? drop : 0;
        const trf__known &q = known[TURNED ? column : i];
        *w = key + (TURNED ? g + i * 8 : column) < q.seen
            ? trf__quick_exp2((*w - q.maximum) * scale) * q.factor : 0;
        *d = *w * (*d * factor - q.delta) * h.scale;
        *w *= factor;
    }
}

/* dq of a strip of 16 queries from `first` on. The weights and the gradients of scores of all its
   keys, n of which matter, stay in registers. rows: of queries, then, `tile` numbers further each
   time, of dout and out. */
template <int D, int STRIPS>
TRF__DEVICE void trf__mma_strip_of(uint32_t weights[STRIPS][4], uint32_t gradients[STRIPS][4],
                                   const trf__attention_gradient &a, const trf__gpu_head &h,
                                   const trf__now *now, int first, const trf__bf16 *rows, int tile,
                                   const trf__bf16 *keys, const trf__bf16 *values)
{
    uint32_t q[1][D / 16][4], dout[1][D / 16][4];
    float dq[1][D / 8][4] = {}, ones[2] = { 1, 1 };
    int g = (int)threadIdx.x % 32 / 4, n = trf__gpu_reach(&h, first, 16);
    trf__known known[2];
    TRF__UNROLLED for (int i = 0; i < 2; i++) {
        const trf__bf16 *row = rows + (first + g + i * 8) * (D + 8);
        known[i] = trf__mma_known(a, h, first + g + i * 8);
        known[i].delta = trf__mma_delta<D>(row + tile, row + 2 * tile);
    }
    trf__mma_left<D, 1>(q, rows + first * (D + 8));
    trf__mma_left<D, 1>(dout, rows + tile + first * (D + 8));
    TRF__UNROLLED for (int j = 0; j < STRIPS; j++) {
        float s[1][2][4] = {}, dp[1][2][4] = {};
        if (j * 16 < n) {
            trf__mma_rows<D, 1, 1>(s, q, keys + j * 16 * (D + 8), 16);
            trf__mma_rows<D, 1, 1>(dp, dout, values + j * 16 * (D + 8), 16);
            trf__mma_weights<0>(s[0], dp[0], known, h, now, first, j * 16);
        }
        trf__mma_pack(weights[j], s[0]);
        trf__mma_pack(gradients[j], dp[0]);
        if (j * 16 < n) trf__mma_columns<D, 1>(dq, &gradients[j], keys + j * 16 * (D + 8));
    }
    trf__mma_store<D>(a.dq, dq[0], ones, &h, a.in.ldq, 0, first);
}

/* Lays a strip's left factors into a matrix in shared memory, with 16 STRIPS + 8 numbers a row. */
template <int STRIPS>
TRF__DEVICE void trf__mma_lay(trf__bf16 *to, const uint32_t a[STRIPS][4])
{
    to += (int)threadIdx.x % 32 / 4 * (16 * STRIPS + 8) + (int)threadIdx.x % 4 * 2;
    TRF__UNROLLED for (int e = 0; e < 4 * STRIPS; e++)
        *(uint32_t *)(void *)(to + e % 2 * 8 * (16 * STRIPS + 8) + e / 4 * 16 + e / 2 % 2 * 8) =
            a[e / 4][e % 4];
}

/* dq, dk and dv of heads of up to 64 queries and keys, HEADS of which share a block, each with keys
   of its own. Weights lie in place of the keys, and gradients of scores in place of the values,
   once these have been read. */
template <int D, int HEADS>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, HEADS > 2 ? 3 : 2)
trf__gpu_mma_gradient(trf__attention_gradient a, const trf__now *now, int64_t)
{
    enum { STRIPS = TRF__MMA_WARPS / HEADS, ROWS = 16 * STRIPS, PITCH = ROWS + 8,
           TILE = ROWS * (D + 8), LARGER = ROWS * (D > ROWS ? D + 8 : PITCH),
           ROOM = 3 * TILE + 2 * LARGER };
    TRF__SHARED(trf__bf16, tiles, HEADS * ROOM);
    int warp = (int)threadIdx.x / 32, part = warp / STRIPS, strip = warp % STRIPS * 16;
    trf__bf16 *queries = tiles + part * ROOM, *keys = queries + 3 * TILE, *values = keys + LARGER;
    int64_t heads = a.in.n_spans * a.in.heads, ldo = (int64_t)a.in.heads * a.in.d_head;
    for (int64_t tile = blockIdx.x; tile * HEADS < heads; tile += gridDim.x) {
        trf__gpu_head h = trf__mma_head(&a.in, tile * HEADS + part);
        float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {}, ones[2] = { 1, 1 };
        uint32_t weights[STRIPS][4], gradients[STRIPS][4], turned[1][4];
        __syncthreads();                /* all have read the tiles before */
        trf__mma_tile<D, ROWS, 32 * STRIPS>(queries, a.in.q, &h, a.in.ldq, 0, 0);
        trf__mma_two<D, ROWS, 32 * STRIPS>(queries + TILE, a.dout, a.out, &h, ldo, 0, 0);
        trf__mma_tile<D, ROWS, 32 * STRIPS>(keys, a.in.k, &h, a.in.ldk, 1, 0);
        trf__mma_tile<D, ROWS, 32 * STRIPS>(values, a.in.v, &h, a.in.ldk, 1, 0);
        trf__copies_end();
        __syncthreads();
        trf__mma_strip_of<D, STRIPS>(weights, gradients, a, h, now, strip, queries, TILE, keys,
                                     values);
        __syncthreads();
        trf__mma_lay<STRIPS>(keys + strip * PITCH, weights);
        trf__mma_lay<STRIPS>(values + strip * PITCH, gradients);
        __syncthreads();
        for (int i = 0; i < h.sides[0] && strip < h.sides[1]; i += 16) {
            int at = i * PITCH + strip + trf__mma_across(PITCH);
            trf__load_transposed(turned[0], keys + at);
            trf__mma_columns<D, 1>(dv, turned, queries + TILE + i * (D + 8));
            trf__load_transposed(turned[0], values + at);
            trf__mma_columns<D, 1>(dk, turned, queries + i * (D + 8));
        }
        trf__mma_store<D>(a.dk, dk[0], ones, &h, a.in.ldk, 1, strip);
        trf__mma_store<D>(a.dv, dv[0], ones, &h, a.in.ldk, 1, strip);
    }
}

// >>mma-long-gradient  of heads of any length
//
// 32 others at a time are in shared memory. Heads wider than 64 leave registers for 16 queries.

/* Loads the block's own 64 rows of x, 16 for each warp, as left factors, through shared memory. */
template <int D>
TRF__DEVICE void trf__mma_own(uint32_t a[1][D / 16][4], trf__bf16 *tile, const trf__act *x,
                              const trf__gpu_head &h, int64_t ld, int of_keys)
{
    __syncthreads();
    trf__mma_tile<D, TRF__MMA_ROWS, TRF__MMA_THREADS>(tile, x, &h, ld, of_keys, h.begin);
    trf__copies_end();
    __syncthreads();
    trf__mma_left<D, 1>(a, tile + (int)threadIdx.x / 32 * 16 * (D + 8));
}

/* Adds to dq what N times 16 keys contribute, n of which matter. values: behind the keys. */
template <int D, int N>
TRF__DEVICE void trf__mma_dq_of(float dq[1][D / 8][4], const uint32_t q[1][D / 16][4],
                                const uint32_t dout[1][D / 16][4], const trf__bf16 *keys,
                                const trf__known *known, const trf__gpu_head &h,
                                const trf__now *now, int first, int key, int n)
{
    float s[1][2 * N][4], dp[1][2 * N][4];
    trf__mma_rows<D, N, 1>(s, q, keys, n);
    trf__mma_rows<D, N, 1>(dp, dout, keys + N * 16 * (D + 8), n);
    TRF__UNROLLED for (int j = 0; j < N; j++) {
        uint32_t a[1][4];
        if (j * 16 >= n) continue;
        trf__mma_weights<0>(&s[0][2 * j], &dp[0][2 * j], known, h, now, first, key + j * 16);
        trf__mma_pack(a[0], &dp[0][2 * j]);
        trf__mma_columns<D, 1>(dq, a, keys + j * 16 * (D + 8));
    }
}

template <int D>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, D > 64 ? 2 : 3)
trf__gpu_mma_dq(trf__attention_gradient a, const trf__now *now, int64_t groups)
{
    enum { KEYS = 32, TWO = 2 * KEYS * (D + 8), OWN = TRF__MMA_ROWS * (D + 8) };
    TRF__SHARED(trf__bf16, tiles, 2 * TWO);
    int strip = (int)threadIdx.x / 32 * 16, g = (int)threadIdx.x % 32 / 4;
    int64_t n_tiles = a.in.n_spans * a.in.heads * groups, ldo = (int64_t)a.in.heads * a.in.d_head;
    for (int64_t tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__MMA_ROWS, 0);
        int most = trf__gpu_last_seen(&h), first = h.begin + strip, place = 0;
        int reach = trf__gpu_reach(&h, first, 16);
        float dq[1][D / 8][4] = {}, ones[2] = { 1, 1 };
        uint32_t q[1][D / 16][4], dout[1][D / 16][4];
        trf__known known[2];
        if (h.begin >= h.n) continue;
        __syncthreads();
        trf__mma_two<D, TRF__MMA_ROWS, TRF__MMA_THREADS>(tiles, a.dout, a.out, &h, ldo, 0, h.begin);
        trf__copies_end();
        __syncthreads();
        TRF__UNROLLED for (int i = 0; i < 2; i++) {
            const trf__bf16 *row = tiles + (strip + g + i * 8) * (D + 8);
            known[i] = trf__mma_known(a, h, first + g + i * 8);
            known[i].delta = trf__mma_delta<D>(row, row + OWN);
        }
        trf__mma_left<D, 1>(dout, tiles + strip * (D + 8));
        trf__mma_own<D>(q, tiles, a.in.q, h, a.in.ldq, 0);
        __syncthreads();
        if (most > 0)
            trf__mma_two<D, KEYS, TRF__MMA_THREADS>(tiles, a.in.k, a.in.v, &h, a.in.ldk, 1, 0);
        for (int key = 0; key < most; key += KEYS, place = TWO - place) {
            trf__copies_end();
            __syncthreads();            /* and all have read the other place */
            if (key + KEYS < most)
                trf__mma_two<D, KEYS, TRF__MMA_THREADS>(tiles + TWO - place, a.in.k, a.in.v, &h,
                                                        a.in.ldk, 1, key + KEYS);
            if (key < reach)
                trf__mma_dq_of<D, KEYS / 16>(dq, q, dout, tiles + place, known, h, now, first, key,
                                             reach - key);
        }
        trf__mma_store<D>(a.dq, dq[0], ones, &h, a.in.ldq, 0, first);
    }
}

/* A warp's sixteen keys and values, and their gradients. Values of wide heads, for which there are
   no registers, stay in shared memory. */
template <int D> struct trf__mma_keys {
    const trf__bf16 *values;
    uint32_t k[1][D / 16][4], v[1][D / 16][4];
    float dk[1][D / 8][4], dv[1][D / 8][4];
};

/* s (16, 16) = rows (16, D) tile^T, both in shared memory. */
template <int D>
TRF__DEVICE void trf__mma_shared(float s[2][4], const trf__bf16 *rows, const trf__bf16 *tile)
{
    TRF__UNROLLED for (int e = 0; e < 8; e++) s[e / 4][e % 4] = 0;
    TRF__UNROLLED for (int c = 0; c < D; c += 16) {
        uint32_t a[4], b[4];
        trf__load_matrices(a, rows + trf__mma_down(D + 8) + c);
        trf__load_matrices(b, tile + trf__mma_across(D + 8) + c);
        trf__mma(s[0], a, b);
        trf__mma(s[1], a, b + 2);
    }
}

/* Adds to dk and dv of the keys from `key` on what N times 16 queries contribute, n of which are
   there, from query `first` on. tiles: rows of q, then of dout. */
template <int D, int N>
TRF__DEVICE void trf__mma_dkv_of(trf__mma_keys<D> &own, const trf__bf16 *tiles,
                                 const trf__known *known, const trf__gpu_head &h,
                                 const trf__now *now, int first, int key, int n)
{
    const trf__bf16 *douts = tiles + N * 16 * (D + 8);
    float s[1][2 * N][4], ds[1][2 * N][4];
    trf__mma_rows<D, N, 1>(s, own.k, tiles, n);
    if (D > 64) trf__mma_shared<D>(ds[0], own.values, douts);
    else trf__mma_rows<D, N, 1>(ds, own.v, douts, n);
    TRF__UNROLLED for (int j = 0; j < N; j++) {
        uint32_t a[1][4];
        if (j * 16 >= n) continue;
        trf__mma_weights<1>(&s[0][2 * j], &ds[0][2 * j], known + j * 16, h, now, first + j * 16,
                            key);
        trf__mma_pack(a[0], &s[0][2 * j]);
        trf__mma_columns<D, 1>(own.dv, a, douts + j * 16 * (D + 8));
        trf__mma_pack(a[0], &ds[0][2 * j]);
        trf__mma_columns<D, 1>(own.dk, a, tiles + j * 16 * (D + 8));
    }
}

/* Begins to load rows of q, dout and out, from query `first` on. */
template <int D, int ROWS>
TRF__DEVICE void trf__mma_three(trf__bf16 *to, const trf__attention_gradient &a,
                                const trf__gpu_head &h, int first)
{
    trf__mma_tile<D, ROWS, TRF__MMA_THREADS>(to, a.in.q, &h, a.in.ldq, 0, first);
    trf__mma_two<D, ROWS, TRF__MMA_THREADS>(to + ROWS * (D + 8), a.dout, a.out, &h,
                                            (int64_t)a.in.heads * a.in.d_head, 0, first);
}

/* The same for all queries of one head, from query `begin` on. Four lanes look up each query: its
   statistics while the tile is under way, and delta once it is there. */
template <int D, int N>
TRF__DEVICE void trf__mma_dkv_head(trf__mma_keys<D> &own, const trf__attention_gradient &a,
                                   const trf__now *now, const trf__gpu_head &h, int begin,
                                   trf__bf16 *tiles, trf__known *known)
{
    enum { QUERIES = 16 * N, TILE = QUERIES * (D + 8), THREE = 3 * TILE };
    int key = h.begin + (int)threadIdx.x / 32 * 16, n = h.sides[0], place = 0;
    int mine = (int)threadIdx.x / 4 % QUERIES;
    if (begin >= n) return;
    __syncthreads();
    trf__mma_three<D, QUERIES>(tiles, a, h, begin);
    for (int first = begin; first < n; first += QUERIES, place = THREE - place) {
        trf__known q = trf__mma_known(a, h, first + mine);
        const trf__bf16 *row = tiles + place + TILE + mine * (D + 8);
        trf__copies_end();
        __syncthreads();                /* and all have read the other place and `known` */
        q.delta = trf__mma_delta<D>(row, row + TILE);
        if (threadIdx.x % 4 == 0 && threadIdx.x < 4 * QUERIES) known[mine] = q;
        if (first + QUERIES < n)
            trf__mma_three<D, QUERIES>(tiles + THREE - place, a, h, first + QUERIES);
        __syncthreads();
        if (key < h.n)
            trf__mma_dkv_of<D, N>(own, tiles + place, known, h, now, first, key, n - first);
    }
}

/* dk and dv: rows of a result are keys, and its columns are queries. */
template <int D>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, 2)
trf__gpu_mma_dkv(trf__attention_gradient a, const trf__now *now, int64_t groups)
{
    enum { N = D > 64 ? 1 : 2, KEYS = TRF__MMA_ROWS, TILES = 6 * 16 * N * (D + 8),
           VALUES = D > 64 ? TILES : 0 };
    TRF__SHARED(trf__bf16, tiles, TILES + (D > 64 ? KEYS * (D + 8) : 0));
    TRF__SHARED(trf__known, known, 16 * N);
    int64_t together = a.in.heads / a.in.kv_heads, n_tiles = a.in.n_spans * a.in.kv_heads * groups;
    for (int64_t tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        int64_t head = tile / groups * together, group = tile % groups;
        trf__gpu_head h = trf__gpu_head_of(&a.in, head * groups + group, groups, KEYS, 1);
        int first = h.begin + (int)threadIdx.x / 32 * 16, begin = 0;
        float ones[2] = { 1, 1 };
        trf__mma_keys<D> own = {};
        if (h.begin >= h.n) continue;
        /* the first query that sees one of these keys */
        if (a.in.causal && h.begin > h.n - h.sides[0]) begin = h.begin - (h.n - h.sides[0]);
        trf__mma_own<D>(own.k, tiles, a.in.k, h, a.in.ldk, 1);
        trf__mma_own<D>(own.v, tiles + VALUES, a.in.v, h, a.in.ldk, 1);
        own.values = tiles + VALUES + (int)threadIdx.x / 32 * 16 * (D + 8);
        for (int64_t which = 0; which < together; which++) {
            h = trf__gpu_head_of(&a.in, (head + which) * groups + group, groups, KEYS, 1);
            trf__mma_dkv_head<D, N>(own, a, now, h, begin, tiles, known);
        }
        trf__mma_store<D>(a.dk, own.dk[0], ones, &h, a.in.ldk, 1, first);
        trf__mma_store<D>(a.dv, own.dv[0], ones, &h, a.in.ldk, 1, first);
    }
}

TRF__FN void trf__cuda_attention_gradient(const trf__run *run, const trf__attention_gradient *a)
{
    int share = a->in.heads == a->in.kv_heads ? trf__mma_share(&a->in) : 0;
    int64_t most[2] = { a->in.max_queries, a->in.max_keys };
    if (!trf__mma_can(run, &a->in)) {
        trf__launch_heads<TRF__CUDA_THREADS>(run, "attention_gradient", a, a->in.heads, most[0],
                                             TRF__CUDA_WARPS,
                                             TRF__OF_ACT(run, trf__gpu_attention_dq));
        trf__launch_heads<TRF__CUDA_THREADS>(run, "attention_gradient", a, a->in.kv_heads, most[1],
                                             TRF__CUDA_WARPS,
                                             TRF__OF_ACT(run, trf__gpu_attention_dkv));
    } else if (share)
        TRF__LAUNCH_SHARED(run, "attention_gradient", a, share, trf__gpu_mma_gradient);
    else {
        trf__launch_heads<TRF__MMA_THREADS>(run, "attention_gradient", a, a->in.heads, most[0],
                                            TRF__MMA_ROWS, TRF__OF_WIDTH(a, trf__gpu_mma_dq));
        trf__launch_heads<TRF__MMA_THREADS>(run, "attention_gradient", a, a->in.kv_heads, most[1],
                                            TRF__MMA_ROWS, TRF__OF_WIDTH(a, trf__gpu_mma_dkv));
    }
    if (!a->dbias) return;
    trf__launch(run, "bias_partial", a->in.n_spans * a->in.heads,
                TRF__OF_ACT(run, trf__gpu_bias_partial), *a, run->now);
    trf__launch(run, "bias_sum", trf__tiles_of(a->in.bias.rows * a->in.heads), trf__gpu_bias_sum,
                *a);
}

#endif

#endif /* TRF__CUDA */

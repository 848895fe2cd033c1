#pragma once
#include "base/impl.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cuda/launches.h"
#include "cuda/layers.h"

#if TRF__CUDA

// >>cuda-attention
//
// A tile is eight neighbouring rows of one head of one span, a warp for each: queries, or keys for
// dk and dv. The block takes the other side (keys, or queries) 32 rows at a time, a lane for each.
// They lie in shared memory, 64 columns at a time. So only (8, 32) weights exist at a time. For the
// result each lane of a warp has columns, 128 a warp at a time; only wider heads compute the
// products more than once.
//
// A row of S never exists as a whole, so the softmax is computed online: `maximum` and `sum` are
// those of the keys so far, and a higher maximum rescales the sum and the result by
// exp((old - new) * scale).

/* The pitch is odd so that 32 lanes reading a column meet 32 banks. OWN: columns of a lane. */
enum { TRF__OTHERS = 32, TRF__COLUMNS = 64, TRF__PITCH = TRF__COLUMNS + 1, TRF__OWN = 4 };

/* One head of one span, and the rows of a tile: begin .. end - 1 of its n queries or keys. scores:
   what differences of scores are multiplied by before exp. */
struct trf__gpu_head : trf__head { int begin, end, n; float scores, slope; };

TRF__DEVICE trf__gpu_head trf__gpu_head_of(const trf__attention_in *in, int64_t tile,
                                           int64_t groups, int rows, int of_keys)
{
    trf__gpu_head h;
    (trf__head &)h = trf__head_of(in, tile / groups);
    h.n = of_keys ? h.span->n_key : h.span->n_query;
    h.begin = (int)(tile % groups) * rows;
    h.end = h.begin + rows < h.n ? h.begin + rows : h.n;
    h.scores = trf__biased(in) ? 1 : h.scale;
    h.slope = in->bias.alibi ? (float)trf__alibi_slope(h.head, in->heads) : 0;
    return h;
}

/* The column where this head begins in keys and values, or in queries and results. */
TRF__DEVICE int64_t trf__gpu_first(const trf__gpu_head *h, int of_keys)
{
    return of_keys ? h->key_first : h->first;
}

/* The score of a key for query i of the span: s = q k^T, or with numbers for distances the scaled
   sum. */
TRF__DEVICE float trf__gpu_score(const trf__gpu_head *h, float s, int64_t i, int64_t key)
{
    if (!trf__biased(h->in)) return s;
    return fmaf(s, h->scale,
                trf__bias_at(h, h->slope, key - i - h->span->n_key + h->span->n_query));
}

/* The keys that query i sees, and those that the last query of the tile sees (the most of all); 0
   beyond the end. */
TRF__DEVICE int trf__gpu_seen(const trf__gpu_head *h, int64_t i)
{
    return i < h->n ? (int)trf__keys_seen(h, i) : 0;
}
TRF__DEVICE int trf__gpu_last_seen(const trf__gpu_head *h)
{
    return h->begin < h->n ? (int)trf__keys_seen(h, h->end - 1) : 0;
}

/* The block loads rows i .. i + 31, columns c .. c + 63 of this head of x (keys or queries) into
   shared memory; 0 beyond the ends. */
template <class A>
TRF__DEVICE void trf__gpu_tile(float *to, const trf__act *x, const trf__gpu_head *h, int64_t ld,
                               int of_keys, int64_t i, int64_t c)
{
    int64_t n = of_keys ? h->span->n_key : h->span->n_query;
    for (int e = (int)threadIdx.x; e < TRF__OTHERS * TRF__COLUMNS; e += TRF__CUDA_THREADS) {
        int64_t row = i + e / TRF__COLUMNS, column = c + e % TRF__COLUMNS;
        int there = row < n && column < h->in->d_head;
        if (there) row = of_keys ? trf__key_row(h, row) : h->span->query + row;
        to[e / TRF__COLUMNS * TRF__PITCH + e % TRF__COLUMNS] =
            there ? trf__get<A>(x, row * ld + trf__gpu_first(h, of_keys) + column) : 0;
    }
}

/* Returns sum + the dot product of the row of x at `at` with this lane's row of the tile. */
template <class A>
TRF__DEVICE float trf__gpu_dot(float sum, const trf__act *x, int64_t at, const float *tile,
                               int64_t columns)
{
    tile += threadIdx.x % 32 * TRF__PITCH;
    for (int c = 0; c < TRF__COLUMNS && c < columns; c++)
        sum = fmaf(trf__get<A>(x, at + c), tile[c], sum);
    return sum;
}

/* Bit k is 1 if one query keeps key 8 * eight + k. */
TRF__DEVICE uint32_t trf__gpu_kept(const trf__gpu_head *h, const trf__now *now, int64_t query,
                                   int64_t eight)
{
    uint32_t counter[2];
    trf__weight_counter(counter, (uint32_t)h->head, query, eight);
    return trf__gpu_kept_of(now, &h->in->drop, counter[0], counter[1], (uint32_t)h->span->sentence);
}

/* The factor of dropout for the weight of one key and one query: scale or 0. */
TRF__DEVICE float trf__gpu_weight_factor(const trf__gpu_head *h, const trf__now *now, int64_t query,
                                         int64_t key)
{
    return trf__gpu_kept(h, now, query, key / 8) >> key % 8 & 1 ? trf__gpu_scale(now, &h->in->drop)
        : 0;
}

/* own[i] += the sum over the others from `other` on: their weights times their columns `column` +
   32 i. */
template <class A>
TRF__DEVICE void trf__gpu_gather(float own[TRF__OWN], const float *weights, const trf__act *x,
                                 const trf__gpu_head *h,
                                 int64_t ld, int of_keys, int64_t other, int64_t end,
                                 int64_t column)
{
    for (int k = 0; k < TRF__OTHERS && other + k < end; k++) {
        int64_t row = of_keys ? trf__key_row(h, other + k) : h->span->query + other + k;
        for (int i = 0; i < TRF__OWN; i++)
            if (column + 32 * i < h->in->d_head)
                own[i] = fmaf(weights[k], trf__get<A>(x, row * ld + trf__gpu_first(h, of_keys) +
                                                             column + 32 * i), own[i]);
    }
}

/* Warp w has query begin + w. __syncthreads is reached by all warps, even those beyond the last
   query: loops depend on the tile, not on the warp. */
template <class A> TRF__KERNEL void trf__gpu_attention(trf__attention a, const trf__now *now,
                                                       int64_t groups)
{
    TRF__SHARED(float, keys, TRF__OTHERS * TRF__PITCH);
    TRF__SHARED(float, weights, TRF__CUDA_WARPS * TRF__OTHERS);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__CUDA_WARPS, 0);
        int64_t i = h.begin + warp, query = h.span->query + i, d = a.in.d_head,
            ldo = a.in.heads * d;
        int64_t most = trf__gpu_last_seen(&h), seen = trf__gpu_seen(&h, i);
        for (int64_t c0 = 0; h.begin < h.n && c0 < d; c0 += 32 * TRF__OWN) {
            float maximum = -FLT_MAX, sum = 0, out[TRF__OWN] = {0, 0, 0, 0};
            for (int64_t key = 0; key < most; key += TRF__OTHERS) {
                float s = 0, higher, shrink, e;
                for (int64_t c = 0; c < d; c += TRF__COLUMNS) {
                    __syncthreads();
                    trf__gpu_tile<A>(keys, a.in.k, &h, a.in.ldk, 1, key, c);
                    __syncthreads();
                    if (key + lane < seen)
                        s = trf__gpu_dot<A>(s, a.in.q, query * a.in.ldq + h.first + c, keys, d - c);
                }
                if (key + lane < seen) s = trf__gpu_score(&h, s, i, key + lane);
                /* online softmax: the new maximum, and the factor of what has been summed so far */
                higher = fmaxf(maximum, trf__warp_max(key + lane < seen ? s : -FLT_MAX));
                shrink = expf((maximum - higher) * h.scores);
                e = key + lane < seen ? expf((s - higher) * h.scores) : 0;
                maximum = higher;
                sum = sum * shrink + trf__warp_sum(e);
                /* after the sum: dropout applies to normalized weights */
                if (key + lane < seen) e *= trf__gpu_weight_factor(&h, now, i, key + lane);
                weights[warp * TRF__OTHERS + lane] = e;
                __syncwarp();
                for (int o = 0; o < TRF__OWN; o++) out[o] *= shrink;
                trf__gpu_gather<A>(out, weights + warp * TRF__OTHERS, a.in.v, &h, a.in.ldk, 1, key,
                                   seen, c0 + lane);
                __syncwarp();
            }
            if (i >= h.n) continue;
            for (int o = 0; o < TRF__OWN; o++)
                if (c0 + lane + 32 * o < d)
                    trf__put<A>(a.out, query * ldo + h.first + c0 + lane + 32 * o,
                                seen > 0 ? out[o] / sum : 0);
            if (a.stats && lane == 0) {
                a.stats[(query * a.in.heads + h.head) * 2] = maximum;
                a.stats[(query * a.in.heads + h.head) * 2 + 1] = 1 / sum;
            }
        }
    }
}

/* With 16 bits tensor cores compute the products, 16 rows at a time, for heads up to 64 wide (wider
   ones leave too few registers). A tile is 64 rows of one head, 16 for each of four warps. The rows
   of the other side pass through shared memory, 64 or 32 at a time. Of every result (16, 8) lane 4
   g + t holds rows g and g + 8, columns 2 t and 2 t + 1. Two such results side by side already have
   the layout of the left factor (16, 16) of the next product. D: d_head rounded up; the columns
   beyond it are zeros. */

#if !defined(TRF__GPU_ON_CPU)           /* the tests on the CPU define these three themselves */

// >>cuda-mma       attention in tiles of tensor cores

/* d (16, 8) += a (16, 16) b (16, 8) */
TRF__DEVICE void trf__mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Loads four matrices (8, 8) transposed: lanes 8 i .. 8 i + 7 point at the rows of matrix i. */
TRF__DEVICE void trf__load_transposed(uint32_t r[4], const trf__bf16 *row)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

TRF__DEVICE float trf__quick_exp(float x) { return __expf(x); }
#endif

/* Two numbers as tensor cores read them. */
TRF__DEVICE uint32_t trf__bf16_pair(float low, float high)
{
    trf__bf16 l, h;
    trf__put_as(&l, low);
    trf__put_as(&h, high);
    return (uint32_t)l.bits | (uint32_t)h.bits << 16;
}

/* Loads ROWS rows of this head of x from row `first` on into shared memory, eight columns at a
   time; 0 beyond the ends. Rows there are eight numbers longer, so that neighbouring rows lie in
   different banks. */
template <int D, int ROWS>
TRF__DEVICE void trf__mma_tile(trf__bf16 *to, const trf__act *x, const trf__gpu_head *h, int64_t ld,
                               int of_keys, int first)
{
    int n = of_keys ? h->span->n_key : h->span->n_query, d = (int)h->in->d_head;
    const trf__bf16 *from = (const trf__bf16 *)(const void *)x + trf__gpu_first(h, of_keys);
    /* whether eight numbers may be loaded at once, as 16 aligned bytes */
    int whole = d % 8 == 0 && ld % 8 == 0 && (uintptr_t)x % 16 == 0;
    from += (of_keys ? h->span->key : h->span->query) * ld;
    for (int e = (int)threadIdx.x; e < ROWS * D / 8; e += TRF__MMA_THREADS) {
        int row = first + e / (D / 8), c = e % (D / 8) * 8;
        uint4 eight = {0, 0, 0, 0};
        if (whole && row < n && c < d) eight = *(const uint4 *)(const void *)(from + row * ld + c);
        else for (int k = 0; k < 8; k++)
            if (row < n && c + k < d) ((trf__bf16 *)&eight)[k] = from[row * ld + c + k];
        *(uint4 *)(void *)(to + e / (D / 8) * (D + 8) + c) = eight;
    }
}

/* Draws which weights of a tile are kept: (QUERIES, KEYS / 8), a bit for each key. */
template <int QUERIES, int KEYS>
TRF__DEVICE void trf__mma_kept(uint8_t *kept, const trf__gpu_head *h, const trf__now *now,
                               int query, int key)
{
    for (int e = (int)threadIdx.x; e < QUERIES * KEYS / 8; e += TRF__MMA_THREADS)
        kept[e] = (uint8_t)trf__gpu_kept(h, now, query + e / (KEYS / 8), key / 8 + e % (KEYS / 8));
}

/* Loads the tile's own 64 rows of x, 16 for each warp, as left factors of products. They pass
   through `shared` in shared memory. */
template <int D>
TRF__DEVICE void trf__mma_own(uint32_t a[D / 16][4], trf__bf16 *shared, const trf__act *x,
                              const trf__gpu_head *h, int64_t ld, int of_keys)
{
    int lane = (int)threadIdx.x % 32;
    /* the layout of mma.m16n8k16: word i of a lane is row lane / 4 + 8 (i % 2), columns from 8 (i /
       2) on */
    const trf__bf16 *from = shared + ((int)threadIdx.x / 32 * 16 + lane / 4) * (D + 8) +
                            lane % 4 * 2;
    __syncthreads();
    trf__mma_tile<D, TRF__MMA_ROWS>(shared, x, h, ld, of_keys, h->begin);
    __syncthreads();
    for (int c = 0; c < D / 16; c++)
        for (int i = 0; i < 4; i++)
            a[c][i] = *(const uint32_t *)(const void *)(from + i % 2 * 8 * (D + 8) + c * 16 +
                                                        i / 2 * 8);
}

/* s (16, 8 N) = a (16, D) tile^T. Only the first n rows of the tile matter. */
template <int D, int N>
TRF__DEVICE void trf__mma_rows(float s[N][4], const uint32_t a[D / 16][4], const trf__bf16 *tile,
                               int n)
{
    int lane = (int)threadIdx.x % 32;
    tile += lane / 4 * (D + 8) + lane % 4 * 2;
    for (int j = 0; j < N; j++) {
        s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
        for (int c = 0; c < D / 16 && j * 8 < n; c++) {
            const trf__bf16 *from = tile + j * 8 * (D + 8) + c * 16;
            uint32_t b[2] = { *(const uint32_t *)(const void *)from,
                             *(const uint32_t *)(const void *)(from + 8) };
            trf__mma(s[j], a[c], b);
        }
    }
}

/* out (16, D) += s (16, 8 N) tile. s is rounded to bf16 on the way. */
template <int D, int N>
TRF__DEVICE void trf__mma_columns(float out[D / 8][4], const float s[N][4], const trf__bf16 *tile,
                                  int n)
{
    int lane = (int)threadIdx.x % 32;
    /* each lane points at the row that it contributes to ldmatrix */
    tile += lane % 16 * (D + 8) + lane / 16 * 8;
    for (int j = 0; j < N / 2; j++) {
        const float *left = s[2 * j], *right = s[2 * j + 1];
        uint32_t a[4] = { trf__bf16_pair(left[0], left[1]), trf__bf16_pair(left[2], left[3]),
                          trf__bf16_pair(right[0], right[1]), trf__bf16_pair(right[2], right[3]) };
        for (int c = 0; c < D / 16 && j * 16 < n; c++) {
            uint32_t b[4];
            trf__load_transposed(b, tile + j * 16 * (D + 8) + c * 16);
            trf__mma(out[2 * c], a, b);
            trf__mma(out[2 * c + 1], a, b + 2);
        }
    }
}

/* Stores this lane's part of a result into the tile's rows of x, times a factor for each of its two
   rows. */
template <int D>
TRF__DEVICE void trf__mma_store(trf__act *x, const float out[D / 8][4], const float factor[2],
                                const trf__gpu_head *h, int64_t ld, int of_keys)
{
    for (int e = 0; e < D / 2; e++) {
        int row = h->begin + (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4 + e / 2 % 2 * 8;
        int column = e / 4 * 8 + (int)threadIdx.x % 4 * 2 + e % 2;
        int64_t at = ((of_keys ? h->span->key : h->span->query) + row) * ld
            + trf__gpu_first(h, of_keys) + column;
        if (row < h->n && column < h->in->d_head)
            trf__put<trf__bf16>(x, at, out[e / 4][e % 4] * factor[e / 2 % 2]);
    }
}

/* The sum and the maximum over the four lanes that share a row. */
TRF__DEVICE float trf__quad_sum(float x) { return trf__of_warp<2>(x, trf__plus()); }
TRF__DEVICE float trf__quad_max(float x) { return trf__of_warp<2>(x, trf__larger()); }

// >>mma-attention  the forward kernel
//
// The same online softmax as trf__gpu_attention. A lane has two rows (i = 0, 1), and each row is
// shared by four lanes, so its maximum and sum are combined over four lanes. A lane has 2 of the 8
// columns of each result, which are 16 of the 64 keys of a row.

template <int D>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, 3)
trf__gpu_mma_attention(trf__attention a, const trf__now *now, int64_t groups)
{
    enum { KEYS = 64 };
    TRF__SHARED(trf__bf16, keys, KEYS * (D + 8));
    TRF__SHARED(trf__bf16, values, KEYS * (D + 8));
    TRF__SHARED(uint8_t, kept, TRF__MMA_ROWS * KEYS / 8);
    int row = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    for (int64_t tile = blockIdx.x; tile < a.in.n_spans * a.in.heads * groups; tile += gridDim.x) {
        trf__gpu_head h = trf__gpu_head_of(&a.in, tile, groups, TRF__MMA_ROWS, 0);
        int most = trf__gpu_last_seen(&h);
        int seen[2] = { trf__gpu_seen(&h, h.begin + row), trf__gpu_seen(&h, h.begin + row + 8) };
        float out[D / 8][4] = {}, maximum[2] = { -FLT_MAX, -FLT_MAX }, sum[2] = { 0, 0 };
        uint32_t q[D / 16][4];
        if (h.begin >= h.n) continue;
        trf__mma_own<D>(q, keys, a.in.q, &h, a.in.ldq, 0);
        for (int key = 0; key < most; key += KEYS) {
            float s[KEYS / 8][4];
            __syncthreads();
            trf__mma_tile<D, KEYS>(keys, a.in.k, &h, a.in.ldk, 1, key);
            trf__mma_tile<D, KEYS>(values, a.in.v, &h, a.in.ldk, 1, key);
            trf__mma_kept<TRF__MMA_ROWS, KEYS>(kept, &h, now, h.begin, key);
            __syncthreads();
            if (h.begin + row / 16 * 16 >= h.n) continue;       /* this warp has no queries */
            trf__mma_rows<D, KEYS / 8>(s, q, keys, most - key);
            for (int i = 0; i < 2; i++) {
                float higher = maximum[i], shrink;
                for (int j = 0; j < KEYS / 4; j++)
                    if (key + j / 2 * 8 + t * 2 + j % 2 < seen[i])
                        higher = fmaxf(higher, s[j / 2][i * 2 + j % 2]);
                higher = trf__quad_max(higher);
                shrink = trf__quick_exp((maximum[i] - higher) * h.scale);
                maximum[i] = higher;
                sum[i] *= shrink;
                for (int c = 0; c < D / 4; c++) out[c / 2][i * 2 + c % 2] *= shrink;
                for (int j = 0; j < KEYS / 4; j++) {
                    float *e = &s[j / 2][i * 2 + j % 2];
                    int column = t * 2 + j % 2,
                        bit = kept[(row + i * 8) * (KEYS / 8) + j / 2] >> column & 1;
                    *e = key + j / 2 * 8 + column < seen[i]
                        ? trf__quick_exp((*e - higher) * h.scale) : 0;
                    sum[i] += *e;
                    *e *= bit ? trf__gpu_scale(now, &a.in.drop) : 0;
                }
            }
            trf__mma_columns<D, KEYS / 8>(out, s, values, most - key);
        }
        for (int i = 0; i < 2; i++) {
            int64_t query = h.span->query + h.begin + row + i * 8;
            float all = trf__quad_sum(sum[i]);
            /* a query without keys has the result 0 */
            sum[i] = all > 0 ? 1 / all : 0;
            if (h.begin + row + i * 8 >= h.n || !a.stats || t > 0) continue;
            a.stats[(query * a.in.heads + h.head) * 2] = maximum[i];
            a.stats[(query * a.in.heads + h.head) * 2 + 1] = 1 / all;
        }
        trf__mma_store<D>(a.out, out, sum, &h, a.in.heads * a.in.d_head, 0);
    }
}

/* Whether the kernels for tensor cores apply: 16 bits, keys that are not scattered over a cache, no
   numbers for distances, and heads up to 64 wide. */
TRF__FN int trf__mma_can(const trf__run *run, const trf__attention_in *in)
{
    return run->element != sizeof(float) && !in->key_rows && in->d_head <= 64 && !trf__biased(in);
}
#define TRF__OF_WIDTH(j, kernel) \
    ((j)->in.d_head <= 16 ? kernel<16> : (j)->in.d_head <= 32 ? kernel<32> : kernel<64>)

/* Starts one of two kernels with a tile for each group of rows of each of `heads` heads. `most` is
   the largest number of rows of a span; tiles beyond the end of a shorter one do nothing. */
template <class J>
TRF__FN void trf__launch_heads(const trf__run *run, const char *what, const J *j, int heads,
                               int64_t most,
                               void (*mma)(J, const trf__now *, int64_t),
                               void (*plain)(J, const trf__now *, int64_t))
{
    int can = trf__mma_can(run, &j->in);
    int64_t groups = trf__ceil_div(most, can ? TRF__MMA_ROWS : TRF__CUDA_WARPS),
        tiles = j->in.n_spans * heads * groups;
    if (can) trf__launch<TRF__MMA_THREADS>(run, what, tiles, mma, *j, run->now, groups);
    else trf__launch(run, what, tiles, plain, *j, run->now, groups);
}

TRF__FN void trf__cuda_attention(const trf__run *run, const trf__attention *a)
{
    trf__launch_heads(run, "attention", a, a->in.heads, a->in.max_queries,
                      TRF__OF_WIDTH(a, trf__gpu_mma_attention),
                      TRF__OF_ACT(run, trf__gpu_attention));
}

/* A block for each query; a thread takes every 256th key. */
template <class A> TRF__KERNEL void trf__gpu_attention_weights(trf__attention_weights a)
{
    TRF__SHARED(float, shared, TRF__CUDA_WARPS);
    trf__gpu_head h = trf__gpu_head_of(&a.in, a.head, 1, 1, 0);
    for (int64_t i = blockIdx.x; i < h.n; i += gridDim.x) {
        float *w = a.weights + i * h.span->n_key, maximum = -FLT_MAX, sum = 0;
        int64_t seen = trf__keys_seen(&h, i), q = (h.span->query + i) * a.in.ldq + h.first, k;
        for (k = threadIdx.x; k < seen; k += TRF__CUDA_THREADS) {
            float s = 0;
            int64_t key = trf__key_row(&h, k) * a.in.ldk + h.key_first;
            for (int64_t c = 0; c < a.in.d_head; c++)
                s = fmaf(trf__get<A>(a.in.q, q + c), trf__get<A>(a.in.k, key + c), s);
            w[k] = s = trf__gpu_score(&h, s, i, k);
            maximum = fmaxf(maximum, s);
        }
        maximum = trf__block_max(maximum, shared);
        for (k = threadIdx.x; k < seen; k += TRF__CUDA_THREADS)
            sum += w[k] = expf((w[k] - maximum) * h.scores);
        sum = trf__block_sum(sum, shared);
        for (k = threadIdx.x; k < h.span->n_key; k += TRF__CUDA_THREADS)
            w[k] = k < seen ? w[k] / sum : 0;
    }
}

TRF__FN void trf__cuda_attention_weights(const trf__run *run, const trf__attention_weights *a)
{
    trf__launch(run, "attention_weights", a->in.max_queries,
                TRF__OF_ACT(run, trf__gpu_attention_weights), *a);
}

#endif /* TRF__CUDA */

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

/* One head of one span, and the rows of a tile: begin .. end - 1 of its n queries or keys. sides:
   the numbers of its queries and keys. scores: the factor of differences of scores. */
struct trf__gpu_head : trf__head { int begin, end, n, sides[2]; float scores, slope; };

TRF__DEVICE trf__gpu_head trf__gpu_head_of(const trf__attention_in *in, int64_t tile,
                                           int64_t groups, int rows, int of_keys)
{
    trf__gpu_head h;
    (trf__head &)h = trf__head_of(in, tile / groups);
    h.sides[0] = h.span->n_query;
    h.sides[1] = h.span->n_key;
    h.n = h.sides[of_keys];
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

/* The score of a key for query i of the span: s = q k^T, or its scaled sum with the bias. */
TRF__DEVICE float trf__gpu_score(const trf__gpu_head *h, float s, int64_t i, int64_t key)
{
    if (!trf__biased(h->in)) return s;
    if (h->in->bias.numbers)
        return fmaf(s, h->scale, h->in->bias.numbers[trf__numbers_at(h, i) + key]);
    return fmaf(s, h->scale,
                trf__bias_at(h, h->slope, key - i - h->span->n_key + h->span->n_query));
}

/* The number of keys that query i sees, that the last of `queries` queries sees (the maximum), or
   the last of the tile; 0 beyond the end. */
TRF__DEVICE int trf__gpu_seen(const trf__gpu_head *h, int64_t i)
{
    return i < h->n ? (int)trf__keys_seen(h, i) : 0;
}
TRF__DEVICE int trf__gpu_reach(const trf__gpu_head *h, int first, int queries)
{
    int end = first + queries < h->n ? first + queries : h->n;
    return first < h->n ? (int)trf__keys_seen(h, end - 1) : 0;
}
TRF__DEVICE int trf__gpu_last_seen(const trf__gpu_head *h)
{
    return trf__gpu_reach(h, h->begin, h->end - h->begin);
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

/* own[i] += the sum over others from `other` on of their weights times columns `column` + 32 i. */
template <class A>
TRF__DEVICE void trf__gpu_gather(float own[TRF__OWN], const float *weights, const trf__act *x,
                                 const trf__gpu_head *h, int64_t ld, int of_keys, int64_t other,
                                 int64_t end, int64_t column)
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
                float s = 0;
                for (int64_t c = 0; c < d; c += TRF__COLUMNS) {
                    __syncthreads();
                    trf__gpu_tile<A>(keys, a.in.k, &h, a.in.ldk, 1, key, c);
                    __syncthreads();
                    if (key + lane < seen)
                        s = trf__gpu_dot<A>(s, a.in.q, query * a.in.ldq + h.first + c, keys, d - c);
                }
                if (key + lane < seen) s = trf__gpu_score(&h, s, i, key + lane);
                /* online softmax: the new maximum, and the factor of what has been summed so far */
                float higher = fmaxf(maximum, trf__warp_max(key + lane < seen ? s : -FLT_MAX));
                float shrink = expf((maximum - higher) * h.scores);
                float e = key + lane < seen ? expf((s - higher) * h.scores) : 0;
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
                                sum == 0 ? 0 : out[o] / sum);     /* no key is seen */
            if (a.stats && lane == 0) {
                a.stats[(query * a.in.heads + h.head) * 2] = maximum;
                a.stats[(query * a.in.heads + h.head) * 2 + 1] = sum == 0 ? 0 : 1 / sum;
            }
        }
    }
}

/* With 16 bits tensor cores compute the products, for heads up to 128 wide. A block is four warps.
   Each has a strip of 16 rows, or of M times 16: queries, or keys for dk and dv. Heads of up to 16,
   32 or 64 rows on both sides share a block, four, two or one of them, so the work follows the
   lengths of sentences rounded to 16. A longer head has several blocks; its other side passes
   through shared memory in two places by turns: one is filled while the other is read. Of every
   result (16, 8) lane 4 g + t holds rows g and g + 8, columns 2 t and 2 t + 1. Two such results
   side by side already have the layout of the left factor (16, 16) of the next product. D: d_head
   rounded up; the columns beyond it are zeros. Rows in shared memory are D + 8 numbers apart, so
   the eight that are read at once lie in different banks. */

#if !defined(TRF__GPU_ON_CPU)           /* the tests on the CPU define these themselves */

// >>cuda-mma       attention in tiles of tensor cores

/* d (16, 8) += a (16, 16) b (16, 8) */
TRF__DEVICE void trf__mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Loads four matrices (8, 8): lanes 8 i .. 8 i + 7 point at the rows of matrix i. */
TRF__DEVICE void trf__load_matrices(uint32_t r[4], const trf__bf16 *row)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

/* The same, transposed. */
TRF__DEVICE void trf__load_transposed(uint32_t r[4], const trf__bf16 *row)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

/* Begins to copy 16 bytes into shared memory, or 16 zeros if they are not there. */
TRF__DEVICE void trf__copy_begin(trf__bf16 *to, const trf__bf16 *from, int there)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(address), "l"(from), "r"(there ? 16 : 0) : "memory");
}

/* Waits for all copies that this thread has begun. */
TRF__DEVICE void trf__copies_end(void) { asm volatile("cp.async.wait_all;" : : : "memory"); }

TRF__DEVICE float trf__quick_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

enum { TRF__MMA_WARPS = TRF__MMA_THREADS / 32 };
#define TRF__LOG2_E 1.44269504f

/* The head with number `index` of all, as one of those that share a block. Beyond the last one
   there are no rows. */
TRF__DEVICE trf__gpu_head trf__mma_head(const trf__attention_in *in, int64_t index)
{
    int64_t all = in->n_spans * in->heads;
    trf__gpu_head h = trf__gpu_head_of(in, index < all ? index : all - 1, 1, TRF__MMA_ROWS, 0);
    if (index >= all) h.n = h.end = h.sides[0] = h.sides[1] = 0;
    return h;
}

/* Two numbers as tensor cores read them. */
TRF__DEVICE uint32_t trf__bf16_pair(float low, float high)
{
    trf__bf16 l, h;
    trf__put_as(&l, low);
    trf__put_as(&h, high);
    return (uint32_t)l.bits | (uint32_t)h.bits << 16;
}

/* Two results (16, 8) side by side as a left factor (16, 16). */
TRF__DEVICE void trf__mma_pack(uint32_t a[4], const float s[2][4])
{
    TRF__UNROLLED for (int i = 0; i < 4; i++)
        a[i] = trf__bf16_pair(s[i / 2][i % 2 * 2], s[i / 2][i % 2 * 2 + 1]);
}

/* THREADS neighbouring threads begin to load ROWS rows of this head of x from row `first` on into
   shared memory, eight columns at a time; 0 beyond the ends. */
template <int D, int ROWS, int THREADS>
TRF__DEVICE void trf__mma_tile(trf__bf16 *to, const trf__act *x, const trf__gpu_head *h, int64_t ld,
                               int of_keys, int first)
{
    int n = h->sides[of_keys], d = (int)h->in->d_head;
    const trf__bf16 *from = (const trf__bf16 *)(const void *)x + trf__gpu_first(h, of_keys);
    /* whether eight numbers may be copied at once, as 16 aligned bytes */
    int whole = d % 8 == 0 && ld % 8 == 0 && (uintptr_t)x % 16 == 0;
    from += (of_keys ? h->span->key : h->span->query) * ld;
    for (int e = (int)threadIdx.x % THREADS; e < ROWS * D / 8; e += THREADS) {
        int row = first + e / (D / 8), c = e % (D / 8) * 8, there = row < n && c < d;
        trf__bf16 *at = to + e / (D / 8) * (D + 8) + c, none = {0};
        if (whole) trf__copy_begin(at, there ? from + row * ld + c : from, there);
        else for (int k = 0; k < 8; k++)
            at[k] = row < n && c + k < d ? from[row * ld + c + k] : none;
    }
}

/* The same for two matrices, one behind the other. */
template <int D, int ROWS, int THREADS>
TRF__DEVICE void trf__mma_two(trf__bf16 *to, const trf__act *x, const trf__act *y,
                              const trf__gpu_head *h, int64_t ld, int of_keys, int first)
{
    trf__mma_tile<D, ROWS, THREADS>(to, x, h, ld, of_keys, first);
    trf__mma_tile<D, ROWS, THREADS>(to + ROWS * (D + 8), y, h, ld, of_keys, first);
}

/* Where this lane points for four matrices that are a tile (16, 16): below one another first, or
   beside one another first. */
TRF__DEVICE int trf__mma_down(int pitch)
{
    return (int)threadIdx.x % 16 * pitch + (int)threadIdx.x % 32 / 16 * 8;
}
TRF__DEVICE int trf__mma_across(int pitch)
{
    return ((int)threadIdx.x % 8 + (int)threadIdx.x % 32 / 16 * 8) * pitch +
           (int)threadIdx.x / 8 % 2 * 8;
}

/* Loads M times 16 rows of shared memory as left factors of products. */
template <int D, int M>
TRF__DEVICE void trf__mma_left(uint32_t a[M][D / 16][4], const trf__bf16 *rows)
{
    rows += trf__mma_down(D + 8);
    TRF__UNROLLED for (int m = 0; m < M; m++)
        TRF__UNROLLED for (int c = 0; c < D / 16; c++)
            trf__load_matrices(a[m][c], rows + m * 16 * (D + 8) + c * 16);
}

/* s (16 M, 16 N) = a (16 M, D) tile^T. Only the first n rows of the tile matter. */
template <int D, int N, int M>
TRF__DEVICE void trf__mma_rows(float s[M][2 * N][4], const uint32_t a[M][D / 16][4],
                               const trf__bf16 *tile, int n)
{
    tile += trf__mma_across(D + 8);
    TRF__UNROLLED for (int j = 0; j < N; j++) {
        TRF__UNROLLED for (int e = 0; e < 8 * M; e++) s[e / 8][2 * j + e / 4 % 2][e % 4] = 0;
        if (j * 16 >= n) continue;
        TRF__UNROLLED for (int c = 0; c < D / 16; c++) {
            uint32_t b[4];
            trf__load_matrices(b, tile + j * 16 * (D + 8) + c * 16);
            TRF__UNROLLED for (int m = 0; m < M; m++) {
                trf__mma(s[m][2 * j], a[m][c], b);
                trf__mma(s[m][2 * j + 1], a[m][c], b + 2);
            }
        }
    }
}

/* out (16 M, D) += a (16 M, 16) tile (16, D) */
template <int D, int M>
TRF__DEVICE void trf__mma_columns(float out[M][D / 8][4], const uint32_t a[M][4],
                                  const trf__bf16 *tile)
{
    tile += trf__mma_down(D + 8);
    TRF__UNROLLED for (int c = 0; c < D / 16; c++) {
        uint32_t b[4];
        trf__load_transposed(b, tile + c * 16);
        TRF__UNROLLED for (int m = 0; m < M; m++) {
            trf__mma(out[m][2 * c], a[m], b);
            trf__mma(out[m][2 * c + 1], a[m], b + 2);
        }
    }
}

/* Stores this lane's part of a result (16, D) from row `first` on into x, times a factor for each
   of its two rows. */
template <int D>
TRF__DEVICE void trf__mma_store(trf__act *x, const float out[D / 8][4], const float factor[2],
                                const trf__gpu_head *h, int64_t ld, int of_keys, int first)
{
    int d = (int)h->in->d_head, even = d % 2 == 0 && ld % 2 == 0 && (uintptr_t)x % 4 == 0;
    TRF__UNROLLED for (int e = 0; e < D / 4; e++) {
        int i = e % 2, row = first + (int)threadIdx.x % 32 / 4 + i * 8;
        int column = e / 2 * 8 + (int)threadIdx.x % 4 * 2;
        int64_t at = ((of_keys ? h->span->key : h->span->query) + row) * ld
            + trf__gpu_first(h, of_keys) + column;
        float left = out[e / 2][i * 2] * factor[i], right = out[e / 2][i * 2 + 1] * factor[i];
        if (row >= h->sides[of_keys] || column >= d) continue;
        if (even) ((uint32_t *)(void *)x)[at / 2] = trf__bf16_pair(left, right);
        else {
            trf__put<trf__bf16>(x, at, left);
            if (column + 1 < d) trf__put<trf__bf16>(x, at + 1, right);
        }
    }
}

/* Which weights of a tile (16, 16) are kept, from this query and this key on: bit 4 j + e is for
   number e of result j. TURNED: its rows are keys. The 32 lanes draw for 16 queries and two times
   eight keys. */
template <int TURNED>
TRF__DEVICE uint32_t trf__mma_kept(const trf__gpu_head *h, const trf__now *now, int query, int key)
{
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t bits = 0;
    if (!now || !h->in->drop.threshold) return 0xFF;
    uint32_t drawn = trf__gpu_kept(h, now, query + lane / 2, key / 8 + lane % 2);
    TRF__UNROLLED for (int k = 0; k < (TURNED ? 8 : 4); k++) {
        int j = k / 2 % 2, i = k % 2, e = k / 4;
        uint32_t of = __shfl_sync(0xFFFFFFFFu, drawn,
                                  TURNED ? (j * 8 + t * 2 + e) * 2 + i : (g + i * 8) * 2 + j);
        bits |= TURNED ? (of >> g & 1) << (j * 4 + i * 2 + e)
            : (of >> t * 2 & 3) << (j * 4 + i * 2);
    }
    return bits;
}

/* The sum and the maximum over the four lanes that share a row. */
TRF__DEVICE float trf__quad_sum(float x) { return trf__of_warp<2>(x, trf__plus()); }
TRF__DEVICE float trf__quad_max(float x) { return trf__of_warp<2>(x, trf__larger()); }

// >>mma-attention  the forward kernel
//
// The same online softmax as trf__gpu_attention. A lane has two rows of a strip (i = 0, 1), and
// each row is shared by four lanes, so its maximum and sum are combined over four lanes. A lane has
// 2 of the 8 columns of each result.

/* What a lane knows of its two rows of a strip: the statistics so far, and the keys they see. */
struct trf__mma_strip { float maximum[2], sum[2]; int seen[2]; };

/* The scores of keys from `key` on become weights, before the division by their sum. A higher
   maximum rescales what has been summed so far. scale: for powers of 2. */
template <int D, int N>
TRF__DEVICE void trf__mma_softmax(float s[2 * N][4], float out[D / 8][4], trf__mma_strip *rows,
                                  int key, float scale)
{
    int t = (int)threadIdx.x % 4;
    TRF__UNROLLED for (int i = 0; i < 2; i++) {
        float higher = rows->maximum[i];
        int seen = rows->seen[i] - key - t * 2;
        TRF__UNROLLED for (int j = 0; j < 4 * N; j++)
            if (j / 2 * 8 + j % 2 < seen) higher = fmaxf(higher, s[j / 2][i * 2 + j % 2]);
        higher = trf__quad_max(higher);
        float shrink = trf__quick_exp2((rows->maximum[i] - higher) * scale);
        rows->maximum[i] = higher;
        rows->sum[i] *= shrink;
        TRF__UNROLLED for (int c = 0; c < D / 4; c++) out[c / 2][i * 2 + c % 2] *= shrink;
        TRF__UNROLLED for (int j = 0; j < 4 * N; j++) {
            float *e = &s[j / 2][i * 2 + j % 2];
            *e = j / 2 * 8 + j % 2 < seen ? trf__quick_exp2((*e - higher) * scale) : 0;
            rows->sum[i] += *e;
        }
    }
}

/* Divides by the sums, and stores a strip's results and statistics. Without keys: 0. */
template <int D>
TRF__DEVICE void trf__mma_finish(const trf__attention &a, const trf__gpu_head &h,
                                 const float out[D / 8][4], trf__mma_strip *rows, int first)
{
    TRF__UNROLLED for (int i = 0; i < 2; i++) {
        int row = first + (int)threadIdx.x % 32 / 4 + i * 8;
        int64_t at = (((int64_t)h.span->query + row) * a.in.heads + h.head) * 2;
        float all = trf__quad_sum(rows->sum[i]);
        rows->sum[i] = all > 0 ? 1 / all : 0;
        if (row >= h.n || !a.stats || threadIdx.x % 4 > 0) continue;
        a.stats[at] = rows->maximum[i];
        a.stats[at + 1] = 1 / all;
    }
    trf__mma_store<D>(a.out, out, rows->sum, &h, a.in.heads * a.in.d_head, 0, first);
}

/* A warp's strips, from query `first` on, and N times 16 keys in shared memory from `key` on, of
   which n matter. */
template <int D, int N, int M>
TRF__DEVICE void trf__mma_attend(float out[M][D / 8][4], trf__mma_strip rows[M],
                                 const uint32_t q[M][D / 16][4], const trf__bf16 *keys,
                                 const trf__bf16 *values, const trf__gpu_head &h,
                                 const trf__now *now, int first, int key, int n)
{
    float s[M][2 * N][4], scale = trf__gpu_scale(now, &h.in->drop);
    trf__mma_rows<D, N, M>(s, q, keys, n);
    TRF__UNROLLED for (int m = 0; m < M; m++)
        trf__mma_softmax<D, N>(s[m], out[m], &rows[m], key, h.scale * TRF__LOG2_E);
    TRF__UNROLLED for (int j = 0; j < N; j++) {
        uint32_t a[M][4];
        if (j * 16 >= n) continue;
        TRF__UNROLLED for (int m = 0; m < M; m++) {
            /* after the sum: dropout applies to normalized weights */
            uint32_t kept = trf__mma_kept<0>(&h, now, first + m * 16, key + j * 16);
            TRF__UNROLLED for (int e = 0; e < 8; e++)
                s[m][2 * j + e / 4][e % 4] *= kept >> e & 1 ? scale : 0;
            trf__mma_pack(a[m], &s[m][2 * j]);
        }
        trf__mma_columns<D, M>(out, a, values + j * 16 * (D + 8));
    }
}

/* HEADS heads share a block; 0: a block has M strips for each warp, of one head. */
template <int D, int HEADS>
TRF__KERNEL void __launch_bounds__(TRF__MMA_THREADS, HEADS ? 3 : 2)
trf__gpu_mma_attention(trf__attention a, const trf__now *now, int64_t groups)
{
    enum { M = HEADS || D > 64 ? 1 : 2, WARPS = HEADS ? TRF__MMA_WARPS / HEADS : TRF__MMA_WARPS,
           ROWS = 16 * M * WARPS, KEYS = HEADS ? ROWS : ROWS / 2, TILE = KEYS * (D + 8),
           PARTS = HEADS ? HEADS : 1, ROOM = HEADS ? 3 * TILE : 4 * TILE };
    TRF__SHARED(trf__bf16, tiles, PARTS * ROOM);
    int warp = (int)threadIdx.x / 32, part = warp / WARPS, strip = warp % WARPS * 16 * M;
    trf__bf16 *mine = tiles + part * ROOM;
    int64_t n_tiles = a.in.n_spans * a.in.heads * groups;
    for (int64_t tile = blockIdx.x; tile * PARTS < n_tiles; tile += gridDim.x) {
        trf__gpu_head h = HEADS ? trf__mma_head(&a.in, tile * PARTS + part)
            : trf__gpu_head_of(&a.in, tile, groups, ROWS, 0);
        int most = trf__gpu_last_seen(&h), first = h.begin + strip, place = 0;
        float out[M][D / 8][4] = {};
        trf__mma_strip rows[M] = {};
        int reach = trf__gpu_reach(&h, first, 16 * M);
        uint32_t q[M][D / 16][4];
        if (!HEADS && h.begin >= h.n) continue;
        TRF__UNROLLED for (int m = 0; m < 2 * M; m++) {
            rows[m / 2].seen[m % 2] = trf__gpu_seen(&h, first + (int)threadIdx.x % 32 / 4 + m * 8);
            rows[m / 2].maximum[m % 2] = -FLT_MAX;
        }
        __syncthreads();                /* all have read the tiles before */
        trf__mma_tile<D, ROWS, 32 * WARPS>(mine + 2 * TILE, a.in.q, &h, a.in.ldq, 0, h.begin);
        trf__mma_two<D, KEYS, 32 * WARPS>(mine, a.in.k, a.in.v, &h, a.in.ldk, 1, 0);
        trf__copies_end();
        __syncthreads();
        trf__mma_left<D, M>(q, mine + 2 * TILE + strip * (D + 8));
        if (!HEADS) __syncthreads();    /* the second place of keys is that of queries */
        for (int key = 0; key < most; key += KEYS, place = 2 * TILE - place) {
            if (!HEADS && key + KEYS < most)
                trf__mma_two<D, KEYS, 32 * WARPS>(tiles + 2 * TILE - place, a.in.k, a.in.v, &h,
                                                  a.in.ldk, 1, key + KEYS);
            if (key < reach)
                trf__mma_attend<D, KEYS / 16, M>(out, rows, q, mine + place, mine + place + TILE, h,
                                                 now, first, key, reach - key);
            if (HEADS) continue;
            trf__copies_end();
            __syncthreads();
        }
        TRF__UNROLLED for (int m = 0; m < M; m++)
            trf__mma_finish<D>(a, h, out[m], &rows[m], first + m * 16);
    }
}

/* Whether the kernels for tensor cores apply: 16 bits, keys that are not scattered over a cache, no
   bias, and heads up to 128 wide. */
TRF__FN int trf__mma_can(const trf__run *run, const trf__attention_in *in)
{
    return run->element != sizeof(float) && !in->key_rows && in->d_head <= 128 && !trf__biased(in);
}

/* How many heads share a block of tensor cores; 0: a head may have more than its 64 rows. Three
   tiles of heads wider than 64 do not fit into shared memory. A recorded list is always of the same
   choice: its shape has the longest sequence, or the cache's area, which is a multiple of 16. */
TRF__FN int trf__mma_share(const trf__attention_in *in)
{
    int64_t most = trf__max64(in->max_queries, in->max_keys);
    return most > TRF__MMA_ROWS || in->d_head > 64 ? 0 : most <= 16 ? 4 : most <= 32 ? 2 : 1;
}
#define TRF__OF_SHARE(share, kernel, width) \
    ((share) == 4 ? kernel<width, 4> : (share) == 2 ? kernel<width, 2> : kernel<width, 1>)
/* Starts a kernel with a block for each `share` heads. */
#define TRF__LAUNCH_SHARED(run, what, j, share, kernel) \
    trf__launch<TRF__MMA_THREADS>(run, what, \
                                  trf__ceil_div((j)->in.n_spans * (j)->in.heads, share), \
                                  (j)->in.d_head <= 32 ? TRF__OF_SHARE(share, kernel, 32) \
                                                       : TRF__OF_SHARE(share, kernel, 64), \
                                  *(j), (run)->now, 1)
#define TRF__OF_WIDTH(j, kernel) \
    ((j)->in.d_head <= 32 ? kernel<32> : (j)->in.d_head <= 64 ? kernel<64> : kernel<128>)

/* Starts a kernel with a tile for each group of `rows` rows of each of `heads` heads. `most` is the
   largest number of rows of a span; tiles beyond the end of a shorter one do nothing. */
template <int THREADS, class J>
TRF__FN void trf__launch_heads(const trf__run *run, const char *what, const J *j, int heads,
                               int64_t most, int rows, void (*kernel)(J, const trf__now *, int64_t))
{
    int64_t groups = trf__ceil_div(most, rows);
    trf__launch<THREADS>(run, what, j->in.n_spans * heads * groups, kernel, *j, run->now, groups);
}

TRF__FN void trf__cuda_attention(const trf__run *run, const trf__attention *a)
{
    int share = trf__mma_share(&a->in), wide = a->in.d_head > 64;
    if (!trf__mma_can(run, &a->in))
        trf__launch_heads<TRF__CUDA_THREADS>(run, "attention", a, a->in.heads, a->in.max_queries,
                                             TRF__CUDA_WARPS, TRF__OF_ACT(run, trf__gpu_attention));
    else if (share) TRF__LAUNCH_SHARED(run, "attention", a, share, trf__gpu_mma_attention);
    else
        trf__launch_heads<TRF__MMA_THREADS>(run, "attention", a, a->in.heads, a->in.max_queries,
                                            wide ? TRF__MMA_ROWS : 2 * TRF__MMA_ROWS,
                                            a->in.d_head <= 32 ? trf__gpu_mma_attention<32, 0>
                                            : wide ? trf__gpu_mma_attention<128, 0>
                                                   : trf__gpu_mma_attention<64, 0>);
}

/* A block for each query; a thread takes every 256th key. */
template <class A> TRF__KERNEL void trf__gpu_attention_weights(trf__attention_weights a)
{
    TRF__SHARED(float, shared, TRF__CUDA_WARPS);
    trf__gpu_head h = trf__gpu_head_of(&a.in, a.head, 1, 1, 0);
    for (int64_t i = blockIdx.x; i < h.n; i += gridDim.x) {
        float *w = a.weights + i * h.span->n_key, maximum = -FLT_MAX, sum = 0;
        int64_t seen = trf__keys_seen(&h, i), q = (h.span->query + i) * a.in.ldq + h.first;
        for (int64_t k = threadIdx.x; k < seen; k += TRF__CUDA_THREADS) {
            float s = 0;
            int64_t key = trf__key_row(&h, k) * a.in.ldk + h.key_first;
            for (int64_t c = 0; c < a.in.d_head; c++)
                s = fmaf(trf__get<A>(a.in.q, q + c), trf__get<A>(a.in.k, key + c), s);
            w[k] = s = trf__gpu_score(&h, s, i, k);
            maximum = fmaxf(maximum, s);
        }
        maximum = trf__block_max(maximum, shared);
        for (int64_t k = threadIdx.x; k < seen; k += TRF__CUDA_THREADS)
            sum += w[k] = expf((w[k] - maximum) * h.scores);
        sum = trf__block_sum(sum, shared);
        for (int64_t k = threadIdx.x; k < h.span->n_key; k += TRF__CUDA_THREADS)
            w[k] = k < seen && sum != 0 ? w[k] / sum : 0;
    }
}

TRF__ACT_OP(attention_weights, trf__attention_weights, TRF__CUDA_THREADS, j->in.max_queries, *j)

#endif /* TRF__CUDA */

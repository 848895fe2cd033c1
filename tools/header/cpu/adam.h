#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cpu/threads.h"
#include "cpu/attention.h"

#if !defined(TRF_NO_TRAIN)

// >>clip           the global norm, and the decision to skip a step
//
//   norm = sqrt(sum of squares) / tokens     scale = min(1, clip_norm / (norm + 1e-6)) / tokens
//   as torch.nn.utils.clip_grad_norm_
//   skipped: the loss or a gradient is not finite, or too large to be squared
//
// A tile is a piece of one parameter. Squares are summed in double, the tiles' sums in order.

/* Eight sums side by side: the compiler may vectorize them without reordering one sum. */
TRF__TILE(trf__clip_tile)
{
    const trf__clip *j = (const trf__clip *)job;
    const trf_real *x = j->gradients + j->tiles[tile].begin;
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int64_t i, n = j->tiles[tile].n;
    for (i = 0; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; lane++) sum[lane] += (double)x[i + lane] * (double)x[i + lane];
    for (; i < n; i++) sum[0] += (double)x[i] * (double)x[i];
    j->partial[tile] = ((sum[0] + sum[4]) + (sum[2] + sum[6])) +
        ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/* The first tile with a number that is not finite, or -1. A partial sum may be infinite although
   all numbers are finite, so the numbers are checked. */
TRF__FN int64_t trf__bad_tile(const trf__clip *j)
{
    for (int64_t t = 0; t < j->n_tiles; t++)
        for (int64_t i = 0; !trf__is_finite(j->partial[t]) && i < j->tiles[t].n; i++)
            if (!trf__is_finite((double)j->gradients[j->tiles[t].begin + i])) return t;
    return -1;
}

TRF__FN void trf__cpu_clip(const trf__run *run, const trf__clip *j)
{
    double sum = 0;
    trf__tiles(run, j->n_tiles, trf__clip_tile, j);
    for (int64_t i = 0; i < j->n_tiles; i++) sum += j->partial[i];
    trf__decide_clipping(j, sum, trf__is_finite(sum) ? -1 : trf__bad_tile(j));
}

// >>accumulate     gradients of parts
//
//   to = to + from

TRF__TILE(trf__accumulate_tile)
{
    const trf__accumulate *a = (const trf__accumulate *)job;
    if (a->from) TRF__ROWS_OF_TILE(i, a->n, 1) a->to[i] += a->from[i];
    else TRF__ROWS_OF_TILE(i, a->n, 1) a->to[i] = (trf_real)-0.0;
}

TRF__TILED_OP(trf__cpu_accumulate, trf__accumulate, trf__accumulate_tile, trf__row_tiles(j->n, 1))

// >>average        of the weights of all updates, the newest first
//
//   to = to + share * (from - to)

TRF__TILE(trf__average_tile)
{
    const trf__average *a = (const trf__average *)job;
    trf__v16 share = trf__set(a->share);
    TRF__ROWS_OF_TILE(row, trf__ceil_div(a->n, 16), 16) {
        int64_t i = 16 * row, n = a->n - i;
        trf__v16 to = trf__load_n(a->to + i, n), from = trf__load_n(a->from + i, n);
        trf__store_n(a->to + i, trf__fma(share, trf__sub(from, to), to), n);
    }
}

TRF__TILED_OP(trf__cpu_average, trf__average, trf__average_tile,
              trf__row_tiles(trf__ceil_div(j->n, 16), 16))

// >>adam           Kingma and Ba 2015; the position of epsilon: trf_adam_epsilon
//
//   g = scale * gradient (+ l2 p)     m = beta1 m + (1 - beta1) g     v = beta2 v + (1 - beta2) g^2
//   p = p - shrink p - rate * m / (max(sqrt(v_scale v + epsilon_in), least_root) + epsilon_out)
//
// A running mean starts from the term with the larger weight and adds the difference, which is
// exact for beta 0 and 1. No number becomes infinite: l2 p is limited so that its square is finite,
// and a weight keeps its value if the new one would be infinite or NaN.

/* beta * old + (1 - beta) * x */
TRF__INLINE trf__v16 trf__running_mean(trf__v16 old, trf__v16 x, double beta)
{
    if (beta < 0.5) return trf__fma(trf__set((trf_real)beta), trf__sub(old, x), x);
    return trf__fma(trf__set((trf_real)(1 - beta)), trf__sub(x, old), old);
}

/* One pass over a tile. Adam waits for memory, so every weight and both moments are read and
   written only once. A skipped step changes neither. */
TRF__TILE(trf__adam_tile)
{
    const trf__adam *a = (const trf__adam *)job;
    if (a->clip_result->skipped) return;
    const trf__adam_job j = trf__adam_job_of(a, a->tiles[tile].missed, run->now->learning_rate);
    int64_t begin = a->tiles[tile].begin, n = a->tiles[tile].n;
    int decay = a->tiles[tile].decay;
    trf__v16 scale1 = trf__set((trf_real)j.scale1), scale2 = trf__set((trf_real)j.scale2);
    trf__v16 one = trf__set(1), rate = trf__set((trf_real)-j.rate);
    trf__v16 v_scale = trf__set((trf_real)j.v_scale), least_root = trf__set((trf_real)j.least_root);
    trf__v16 most = trf__set((trf_real)TRF__MAX_GRADIENT), square = trf__mul(most, most);
    trf__v16 least = trf__set((trf_real)-TRF__MAX_GRADIENT);
    trf__v16 inside = trf__set((trf_real)j.epsilon_in), outside = trf__set((trf_real)j.epsilon_out);
    trf__v16 l2 = trf__set((trf_real)(decay ? j.l2 : 0));
    trf__v16 shrink = trf__set((trf_real)(decay ? -j.shrink : 0));
    for (int64_t i = begin; i < begin + n; i += 16) {
        int64_t left = begin + n - i;
        trf__v16 p = trf__load_n(a->p + i, left), m = trf__load_n(a->m + i, left),
            v = trf__load_n(a->v + i, left);
        trf__v16 pull = trf__min(trf__max(trf__mul(l2, p), least), most), moved;
        trf__v16 g = trf__fma(trf__mul(trf__load_n(a->g + i, left), scale1), scale2, pull);
        m = trf__running_mean(m, g, a->beta1);
        /* the minimum prevents fusing the product with the sum (see trf__fma) */
        v = trf__running_mean(v, trf__min(trf__mul(g, g), square), a->beta2);
        trf__v16 root = trf__max(trf__sqrt(trf__fma(v, v_scale, inside)), least_root);
        moved = trf__fma(rate, trf__div(m, trf__add(root, outside)), trf__fma(shrink, p, p));
        /* moved - moved is NaN if moved is infinite or NaN, and NaN is not less than 1 */
        p = trf__if_less(trf__sub(moved, moved), one, moved, p);
        trf__store_n(a->p + i, p, left);
        trf__store_n(a->m + i, m, left);
        trf__store_n(a->v + i, v, left);
    }
}

TRF__TILED_OP(trf__cpu_adam, trf__adam, trf__adam_tile, j->n_tiles)

#endif

#pragma once
#include "api/config.h"
#include "base/impl.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cuda/launches.h"
#include "cuda/layers.h"

#if TRF__CUDA

// >>cuda-norm
//
// The formulas and the order of passes are in >>add_norm. A warp has a row: no shared memory.

/* Calls feature(column) for a lane's part of a row, every 32nd unit. It is the same part in all
   passes, so a lane reads only what it wrote itself. */
template <class Do> TRF__DEVICE void trf__lane_features(int64_t d, Do feature)
{
    for (int64_t unit = threadIdx.x % 32; unit < trf__units(d); unit += 32)
        for (int k = 0; k < TRF__UNIT && trf__feature(unit, k) < d; k++)
            feature(trf__feature(unit, k));
}

/* A warp for each row. */
template <class A> TRF__KERNEL void trf__gpu_add_norm(trf__norm j, const trf__now *now)
{
    int lane = (int)threadIdx.x % 32;
    int64_t d = j.d, warps = (int64_t)gridDim.x * TRF__CUDA_WARPS;
    for (int64_t row = (int64_t)blockIdx.x * TRF__CUDA_WARPS + threadIdx.x / 32; row < j.rows;
         row += warps) {
        const trf__act *s = j.sub ? j.s : j.x;
        float sum = 0, squares = 0;
        for (int64_t unit = lane; j.sub && unit < trf__units(d); unit += 32) {
            float factor[TRF__UNIT];
            trf__gpu_mask(factor, now, &j.drop, &j.at, row, unit);
            for (int k = 0; k < TRF__UNIT && trf__feature(unit, k) < d; k++) {
                int64_t at = row * d + trf__feature(unit, k);
                trf__put<A>(j.s, at, fmaf(trf__get<A>(j.sub, at), factor[k], trf__get<A>(j.x, at)));
            }
        }
        if (!j.y) continue;
        /* sums differences from the first element: see trf__norm_row */
        float begin = __shfl_sync(0xFFFFFFFFu, lane == 0 ? trf__get<A>(s, row * d) : 0.0f, 0);
        trf__lane_features(d, [&](int64_t c) { sum += trf__get<A>(s, row * d + c) - begin; });
        float mean = j.rule == TRF_NORM_RMS ? 0 : begin + trf__warp_sum(sum) / (float)d;
        trf__lane_features(d, [&](int64_t c) {
            float centered = trf__get<A>(s, row * d + c) - mean;
            squares = fmaf(centered, centered, squares);
        });
        squares = trf__warp_sum(squares);
        float r = (float)trf__norm_factor(j.rule, (double)squares, d, j.epsilon);
        trf__lane_features(d, [&](int64_t c) {
            float n = (trf__get<A>(s, row * d + c) - mean) * r;
            trf__put<A>(j.y, row * d + c, fmaf(n, j.gain[c], j.bias ? j.bias[c] : 0));
        });
        if (j.stats && lane == 0) { j.stats[2 * row] = mean; j.stats[2 * row + 1] = r; }
    }
}

TRF__ACT_OP(add_norm, trf__norm, TRF__CUDA_THREADS, trf__ceil_div(j->rows, TRF__CUDA_WARPS), *j,
            run->now)

#if !defined(TRF_NO_TRAIN)

template <class A> TRF__DEVICE float trf__gpu_norm_dy(const trf__norm_gradient *j, int64_t at)
{
    return trf__get<A>(j->dy, at) + (j->dy2 ? trf__get<A>(j->dy2, at) : 0);
}

/* A warp for each row. ds may overwrite dy, dy2 or ds_in: a lane has read its own elements of them
   before it writes. */
template <class A> TRF__KERNEL void trf__gpu_norm_gradient(trf__norm_gradient j,
                                                           const trf__now *now)
{
    int lane = (int)threadIdx.x % 32;
    int64_t d = j.d, warps = (int64_t)gridDim.x * TRF__CUDA_WARPS;
    for (int64_t row = (int64_t)blockIdx.x * TRF__CUDA_WARPS + threadIdx.x / 32; row < j.rows;
         row += warps) {
        float mean = 0, r = 1, average = 0, pull = 0, sum = 0, dot = 0;
        if (j.gain) {
            mean = j.stats[2 * row];
            r = j.stats[2 * row + 1];
            trf__lane_features(d, [&](int64_t c) {
                float g = trf__gpu_norm_dy<A>(&j, row * d + c);
                sum = fmaf(g, j.gain[c], sum);
                dot = fmaf(g * (trf__get<A>(j.s, row * d + c) - mean), j.gain[c], dot);
            });
            sum = trf__warp_sum(sum);
            dot = trf__warp_sum(dot);
            /* in double, as in trf__norm_row_gradient */
            double slope = (double)r * (double)r / (double)d;
            if (j.rule == TRF_NORM_ANNOTATED) {
                double deviation = 1 / (double)r - j.epsilon;
                slope = deviation > 0 && d > 1 ? (double)r / ((double)(d - 1) * deviation) : 0;
            }
            average = j.rule == TRF_NORM_RMS ? 0 : (float)(-(double)sum / (double)d);
            pull = (float)(-slope * (double)dot);
        }
        for (int64_t unit = lane; unit < trf__units(d); unit += 32) {
            float factor[TRF__UNIT];
            if (j.dsub) trf__gpu_mask(factor, now, &j.drop, &j.at, row, unit);
            for (int k = 0; k < TRF__UNIT && trf__feature(unit, k) < d; k++) {
                int64_t c = trf__feature(unit, k), at = row * d + c;
                float ds = trf__gpu_norm_dy<A>(&j, at);
                if (j.gain) {
                    ds = fmaf(trf__get<A>(j.s, at) - mean, pull, fmaf(ds, j.gain[c], average));
                    ds = fmaf(ds, r, j.ds_in ? trf__get<A>(j.ds_in, at) : 0);
                }
                trf__put<A>(j.ds, at, ds);
                if (j.dsub) trf__put<A>(j.dsub, at, ds * factor[k]);
            }
        }
    }
}

/* Slices of dgain (sums[0]) and dbias (sums[1]). */
template <class A> TRF__KERNEL void trf__gpu_norm_sums(trf__norm_gradient n, trf__column_sums_job j)
{
    TRF__SHARED(float, shared, TRF__CUDA_THREADS);
    trf__sum_slices<2>(&j, shared, [&](int64_t r, int64_t c, float *sums) {
        float g = trf__gpu_norm_dy<A>(&n, r * j.ld + c);
        sums[0] = fmaf(g, (trf__get<A>(n.s, r * j.ld + c) - n.stats[2 * r]) * n.stats[2 * r + 1],
                       sums[0]);
        sums[1] += g;
    });
}

/* dgain and dbias come first, as ds may overwrite dy. More than cuda->sums holds: in pieces. */
TRF__FN void trf__cuda_norm_gradient(const trf__run *run, const trf__norm_gradient *n)
{
    int64_t most = TRF__CUDA_SUMS / 2;
    for (int64_t c = 0; n->gain && c < n->d; c += most) {
        trf__column_sums_job j = trf__sums_job(run, 2, n->rows, trf__min64(most, n->d - c),
                                               n->first);
        trf__norm_gradient piece = *n;
        piece.dy = trf__act_at(run, (trf__act *)(uintptr_t)n->dy, c);
        piece.dy2 = trf__act_at(run, (trf__act *)(uintptr_t)n->dy2, c);
        piece.s = trf__act_at(run, (trf__act *)(uintptr_t)n->s, c);
        j.ld = n->d;
        j.sums[0] = n->dgain + c; j.sums[1] = n->dbias ? n->dbias + c : NULL;
        trf__launch(run, "norm_gradient", trf__sum_tiles(&j), TRF__OF_ACT(run, trf__gpu_norm_sums),
                    piece, j);
        trf__launch(run, "norm_gradient", trf__tiles_of(j.columns * j.outputs), trf__gpu_add_slices,
                    j);
    }
    trf__launch(run, "norm_gradient", trf__ceil_div(n->rows, TRF__CUDA_WARPS),
                TRF__OF_ACT(run, trf__gpu_norm_gradient), *n, run->now);
}

#endif

// >>cuda-pool      a block for each sequence, a thread for each column
//
// The formulas are in >>pool.

template <class A> TRF__KERNEL void trf__gpu_pool(trf__pool j)
{
    for (int64_t s = blockIdx.x; s < j.n_spans; s += gridDim.x) {
        const trf__span *span = &j.spans[s];
        int64_t n = trf__pooled(span, j.most);
        for (int64_t c = threadIdx.x; c < j.d; c += blockDim.x) {
            float sum = 0;
            for (int64_t r = 0; r < n; r++) sum += trf__get<A>(j.from, (span->query + r) * j.d + c);
            trf__put<A>(j.to, s * j.d + c, n > 0 ? sum * (1 / (float)n) : 0);
        }
    }
}

TRF__ACT_OP(pool, trf__pool, 128, j->n_spans, *j)

#if !defined(TRF_NO_TRAIN)

template <class A> TRF__KERNEL void trf__gpu_pool_gradient(trf__pool j)
{
    for (int64_t s = blockIdx.x; s < j.n_spans; s += gridDim.x) {
        const trf__span *span = &j.spans[s];
        int64_t n = trf__pooled(span, j.most);
        for (int64_t c = threadIdx.x; c < j.d; c += blockDim.x) {
            float share = n > 0 ? trf__get<A>(j.from, s * j.d + c) * (1 / (float)n) : 0;
            for (int64_t r = 0; r < span->n_query; r++)
                trf__put<A>(j.to, (span->query + r) * j.d + c, r < n ? share : 0);
        }
    }
}

TRF__ACT_OP(pool_gradient, trf__pool, 128, j->n_spans, *j)

#endif

#endif /* TRF__CUDA */

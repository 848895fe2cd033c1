#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cuda/launches.h"
#include "cuda/products.h"
#include "cuda/layers.h"

#if TRF__CUDA

// >>cuda-loss      the vocabulary projection and its loss, in chunks of rows
//
// The formulas are in >>cross_entropy. Logits exist for one chunk of rows at a time, and their
// gradient replaces them.

/* Rows of a chunk. Every chunk reads and writes the whole (vocab, d) gradient; with 8 d rows that
   is less than a tenth of the memory traffic of its logits. A chunk has at most 2^28 logits, but at
   least 256 rows. */
TRF__FN int64_t trf__cuda_chunk(int64_t rows, int64_t vocab, int64_t d)
{
    int64_t most = trf__mul_counts(8, d);
    most = trf__max64(256, trf__min64(most, ((int64_t)1 << 28) / trf__max64(1, vocab)));
    most -= most % 2;                   /* both rows of a pair are in one chunk */
    return trf__max64(1, trf__min64(rows, most));
}

/* The scratch of a loss: see trf__loss_job. */
typedef struct trf__cuda_loss {
    trf__act *logits, *pair_x, *pair_dx;
    int32_t *hit;
    double *divergence;
} trf__cuda_loss;

TRF__FN size_t trf__cuda_loss_scratch_layout(void *work, const trf_device *device, int64_t rows,
                                             int64_t vocab, int64_t d, int paired,
                                             trf__cuda_loss *to)
{
    trf__cursor cursor = trf__cursor_at(work);
    int64_t chunk = trf__cuda_chunk(rows, vocab, d);
    size_t bytes = trf__bytes(d, trf__cuda_element(device));
    TRF__ZERO(*to);
    to->logits = (trf__act *)trf__take(&cursor, chunk,
                                       trf__bytes(vocab, trf__cuda_element(device)));
    to->hit = TRF__TAKE(int32_t, &cursor, rows);
    if (!paired) return cursor.used;
    to->divergence = TRF__TAKE(double, &cursor, rows / 2);
    to->pair_x = (trf__act *)trf__take(&cursor, chunk, bytes);
    to->pair_dx = (trf__act *)trf__take(&cursor, chunk, bytes);
    return cursor.used;
}

TRF__FN size_t trf__cuda_loss_scratch(const trf_device *device, int64_t rows, int64_t vocab,
                                      int64_t d, int, int paired)
{
    trf__cuda_loss scratch;
    return trf__cuda_loss_scratch_layout(NULL, device, rows, vocab, d, paired, &scratch);
}

/* z - maximum; what is below -1e30 counts as -1e30: infinity - infinity would be NaN. */
template <class A> TRF__DEVICE float trf__gpu_below(A z, float maximum)
{
    float x = trf__as_float(z) - maximum;
    return x < -1e30f ? -1e30f : x;     /* NaN stays */
}

/* The loss of a row with logits z: *most is their largest, *sum that of exp(z - *most). A block
   computes it, and a thread takes every 256th logit. */
template <class A>
TRF__DEVICE void trf__gpu_row_loss(const trf__loss &l, const A *z, int64_t row, float *shared,
                                   int32_t *hit, float *most, float *sum)
{
    const int32_t target = l.targets[row];
    const float *t = l.teachers && target >= 0 ? trf__teachers_row(&l, row) : NULL;
    float maximum = -FLT_MAX, all = 0, total = 0, taught = 0;
    for (int64_t c = threadIdx.x; target >= 0 && c < l.vocab; c += TRF__CUDA_THREADS)
        maximum = fmaxf(maximum, trf__as_float(z[c]));
    maximum = *most = trf__block_max(maximum, shared);
    for (int64_t c = threadIdx.x; target >= 0 && c < l.vocab; c += TRF__CUDA_THREADS) {
        all += expf(trf__as_float(z[c]) - maximum);
        total += fmaf(trf__as_float(z[c]), (float)TRF__SMALL, -maximum * (float)TRF__SMALL);
        if (t) taught = fmaf(expf(t[c]), trf__gpu_below(z[c], maximum), taught);
    }
    *sum = trf__block_sum(all, shared);
    if (t) taught = trf__block_sum(taught, shared);
    total = trf__block_sum(total, shared);
    float at_target = target >= 0 ? trf__as_float(z[target]) : 0;
    float at_zero = target >= 0 && l.zero_column >= 0 ? trf__as_float(z[l.zero_column]) : 0;
    /* all threads have read z[target] and z[zero_column]: now z may become dz */
    __syncthreads();
    if (threadIdx.x == 0) {
        double log_sum = log((double)*sum);
        trf__loss_of_row(&l, row, (double)maximum, (double)at_target, (double)at_zero,
                         (double)total / TRF__SMALL - (double)l.vocab * log_sum, log_sum);
        if (t) l.row_loss[row] += l.share * (log_sum - (double)taught);
        if (target < 0) l.row_nll[row] = l.row_loss[row] = 0;
        *hit = target >= 0 && at_target >= maximum;
    }
}

/* A block for each row. */
template <class A>
TRF__KERNEL void trf__gpu_loss_rows(trf__loss l, const trf__now *now, trf__act *logits,
                                    int32_t *hit, int64_t row0, int64_t rows)
{
    TRF__SHARED(float, shared, TRF__CUDA_WARPS);
    float weight = l.of_sequences && now ? (float)now->sequence_weight : 1, maximum, sum;
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        A *z = (A *)(void *)logits + r * l.vocab;
        int32_t target = l.targets[row0 + r];
        const float *t = l.teachers && target >= 0 ? trf__teachers_row(&l, row0 + r) : NULL;
        trf__gpu_row_loss(l, z, row0 + r, shared, &hit[row0 + r], &maximum, &sum);
        /* exp is computed again, as z may have only 16 bits */
        for (int64_t c = threadIdx.x; l.dx && c < l.vocab; c += TRF__CUDA_THREADS) {
            float dz = target < 0 ? 0 : fmaf(expf(trf__as_float(z[c]) - maximum), 1 / sum,
                                             (float)-l.off);
            if (c == target) dz -= (float)(l.on - l.off);
            if (target >= 0 && c == l.zero_column) dz += (float)l.off;
            if (t) dz = fmaf((float)-l.share, expf(t[c]), dz);
            trf__put_as(&z[c], dz * weight);
        }
    }
}

// >>cuda-pairs     the same for two passes over a token, and for labels that are numbers

/* A block for each pair (>>divergence), whose rows of logits are neighbours. */
template <class A>
TRF__KERNEL void trf__gpu_loss_pairs(trf__loss l, const trf__now *now, trf__cuda_loss at,
                                     int64_t pair0, int64_t pairs)
{
    TRF__SHARED(float, shared, TRF__CUDA_WARPS);
    const float half_weight = (l.of_sequences && now ? (float)now->sequence_weight : 1) / 2;
    for (int64_t r = blockIdx.x; r < pairs; r += gridDim.x) {
        A *z[2] = { (A *)(void *)at.logits + 2 * r * l.vocab, NULL };
        float most[2], sum[2], mean[2] = { 0, 0 };
        int64_t pair = pair0 + r;
        int32_t target = l.targets[pair];
        const float *t = l.teachers && target >= 0 ? trf__teachers_row(&l, pair) : NULL;
        z[1] = z[0] + l.vocab;
        for (int k = 0; k < 2; k++)
            trf__gpu_row_loss(l, z[k], pair + k * l.pairs, shared, &at.hit[2 * pair + k], &most[k],
                              &sum[k]);
        for (int64_t c = threadIdx.x; target >= 0 && c < l.vocab; c += TRF__CUDA_THREADS) {
            float x[2] = { trf__gpu_below(z[0][c], most[0]), trf__gpu_below(z[1][c], most[1]) };
            for (int k = 0; k < 2; k++) mean[k] = fmaf(expf(x[k]), x[0] - x[1], mean[k]);
        }
        for (int k = 0; k < 2; k++) mean[k] = trf__block_sum(mean[k], shared) / sum[k];
        if (threadIdx.x == 0)
            at.divergence[pair] = target < 0 ? 0 : ((double)mean[0] - (double)mean[1]) / 2;
        for (int64_t c = threadIdx.x; l.dx && c < l.vocab; c += TRF__CUDA_THREADS) {
            float x[2] = { trf__gpu_below(z[0][c], most[0]), trf__gpu_below(z[1][c], most[1]) };
            float own[2] = { expf(x[0]) / sum[0], expf(x[1]) / sum[1] };
            for (int k = 0; k < 2; k++) {
                float u = k ? x[1] - x[0] + mean[1] : x[0] - x[1] - mean[0];
                float dz = own[k] - (float)(c == target ? l.on : c == l.zero_column ? 0 : l.off);
                dz = fmaf((float)l.consistency, own[k] - own[1 - k] + own[k] * u, dz);
                if (t) dz = fmaf((float)-l.share, expf(t[c]), dz);
                trf__put_as(&z[k][c], target < 0 ? 0 : dz * half_weight);
            }
        }
    }
}

/* Rows of x to their places in a chunk of pairs, or (back) those of dx to their own. */
template <class A>
TRF__KERNEL void trf__gpu_pair_rows(trf__loss l, trf__act *to, const trf__act *from, int64_t place0,
                                    int64_t rows, int back)
{
    trf__each(rows * l.d, [&](int64_t i) {
        int64_t there = trf__loss_place(&l, place0 + i / l.d) * l.d + i % l.d;
        trf__put<A>(to, back ? there : i, trf__get<A>(from, back ? i : there));
    });
}

/* The same of rows whose labels are numbers (>>number-loss). */
template <class A>
TRF__KERNEL void trf__gpu_number_rows(trf__loss l, const trf__now *now, trf__act *logits,
                                      int32_t *hit, int64_t row0, int64_t rows)
{
    TRF__SHARED(double, shared, TRF__CUDA_WARPS);
    double each = (l.of_sequences && now ? now->sequence_weight : 1) / (double)l.vocab;
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        A *z = (A *)(void *)logits + r * l.vocab;
        int64_t row = row0 + r;
        const float *y = l.numbers + row * l.vocab;
        double loss = 0, wrong = l.labels == TRF_LABELS_ANY ? 0 : 1, dz = 0;
        for (int64_t c = threadIdx.x; c < l.vocab; c += TRF__CUDA_THREADS) {
            double x = (double)trf__as_float(z[c]), less = exp(x < 0 ? x : -x);
            if (l.targets[row] >= 0) {
                loss += trf__number_loss(l.labels, x, (double)y[c], less, log(1 + less), &dz);
                wrong += (x >= 0) != (y[c] >= 0.5f);
            }
            trf__put_as(&z[c], (float)(dz * each));
        }
        loss = trf__block_sum(loss, shared);
        wrong = trf__block_sum(wrong, shared);
        if (threadIdx.x != 0) continue;
        l.row_loss[row] = l.row_nll[row] = loss / (double)l.vocab;
        hit[row] = l.targets[row] >= 0 && wrong == 0;
    }
}

/* One block, so that the sums have one order. */
TRF__KERNEL void trf__gpu_loss_sums(trf__loss l, const trf__now *now, trf__cuda_loss at)
{
    TRF__SHARED(double, shared, TRF__CUDA_WARPS);
    trf__sums sums = {0, 0, 0, 0, 0};
    for (int64_t i = threadIdx.x; i < l.rows; i += TRF__CUDA_THREADS) {
        sums.loss += l.row_loss[i];
        sums.nll += l.row_nll[i];
        sums.correct += at.hit[i];
        if (i < l.pairs) sums.divergence += at.divergence[i];
        sums.tokens += l.targets[i] >= 0;
    }
    sums.loss = trf__block_sum(sums.loss, shared);
    sums.nll = trf__block_sum(sums.nll, shared);
    sums.correct = trf__block_sum(sums.correct, shared);
    sums.tokens = trf__block_sum(sums.tokens, shared);
    sums.divergence = trf__block_sum(sums.divergence, shared);
    if (threadIdx.x == 0) trf__store_loss(&l, now, &sums);
}

TRF__FN void trf__cuda_cross_entropy(const trf__run *run, const trf__loss *l)
{
    int64_t chunk = trf__cuda_chunk(l->rows, l->vocab, l->d), rows;
    const int paired = l->pairs > 0;
    trf__cuda_loss at;
    trf__linear z;
    z.w = l->w; z.b = l->bias; z.out = l->vocab; z.in = l->d;
    trf__cuda_loss_scratch_layout(l->work, &run->device, l->rows, l->vocab, l->d, paired, &at);
    z.y = at.logits;
    /* runs once even without rows, as `first` must set the gradients of the weight */
    for (int64_t row0 = 0; row0 < l->rows || row0 == 0; row0 += chunk) {
        z.x = paired ? at.pair_x : trf__act_at(run, (trf__act *)(uintptr_t)l->x, row0 * l->d);
        z.rows = rows = trf__min64(chunk, l->rows - row0);
        if (paired)
            trf__launch(run, "cross_entropy", trf__tiles_of(rows * l->d),
                        TRF__OF_ACT(run, trf__gpu_pair_rows), *l, at.pair_x, l->x, row0, rows, 0);
        trf__cuda_project(run, "cross_entropy", &z, 0);
        if (paired)
            trf__launch(run, "cross_entropy", rows / 2, TRF__OF_ACT(run, trf__gpu_loss_pairs), *l,
                        run->now, at, row0 / 2, rows / 2);
        else
            trf__launch(run, "cross_entropy", rows,
                        l->labels ? TRF__OF_ACT(run, trf__gpu_number_rows)
                                  : TRF__OF_ACT(run, trf__gpu_loss_rows),
                        *l, run->now, z.y, at.hit, row0, rows);
#if !defined(TRF_NO_TRAIN)
        if (l->dx) {
            TRF__ZEROED(trf__linear_dx, dx);
            dx.dx = paired ? at.pair_dx : trf__act_at(run, l->dx, row0 * l->d);
            dx.dy = z.y; dx.w = l->w;
            dx.rows = rows; dx.out = l->vocab; dx.in = l->d;
            trf__cuda_linear_dx(run, &dx);
            if (paired)
                trf__launch(run, "cross_entropy", trf__tiles_of(rows * l->d),
                            TRF__OF_ACT(run, trf__gpu_pair_rows), *l, l->dx, at.pair_dx, row0,
                            rows, 1);
            TRF__ZEROED(trf__linear_dw, dw);
            dw.dw = l->dw; dw.dy = z.y; dw.x = z.x;
            dw.rows = rows; dw.out = l->vocab; dw.in = l->d;
            dw.first = l->first && row0 == 0;
            if (l->dw) trf__cuda_linear_dw(run, &dw, 1);
            if (l->db)
                trf__cuda_column_sums(run, "cross_entropy", l->db, z.y, rows, l->vocab, dw.first);
        }
#endif
    }
    trf__launch(run, "cross_entropy", 1, trf__gpu_loss_sums, *l, run->now, at);
}

#if !defined(TRF_NO_TRAIN)

// >>cuda-adam      clip and adam
//
// The formulas are in >>clip and >>adam. The host reads nothing between them: the decision to skip
// a step is made and obeyed on the device.

/* A block for each tile: its sum of squares, in double. */
TRF__KERNEL void trf__gpu_squares(trf__clip j)
{
    TRF__SHARED(double, shared, TRF__CUDA_WARPS);
    for (int64_t t = blockIdx.x; t < j.n_tiles; t += gridDim.x) {
        const float *x = j.gradients + j.tiles[t].begin;
        double sum = 0;
        for (int64_t i = threadIdx.x; i < j.tiles[t].n; i += TRF__CUDA_THREADS)
            sum += (double)x[i] * (double)x[i];
        sum = trf__block_sum(sum, shared);
        if (threadIdx.x == 0) j.partial[t] = sum;
    }
}

/* The first tile with a number that is not finite, or -1, for the whole block. */
TRF__DEVICE int64_t trf__gpu_bad_tile(const trf__clip *j, double *shared)
{
    for (int64_t t = 0; t < j->n_tiles; t++) {
        double bad = 0;
        if (trf__is_finite(j->partial[t])) continue;
        for (int64_t i = threadIdx.x; i < j->tiles[t].n; i += TRF__CUDA_THREADS)
            bad += !trf__is_finite((double)j->gradients[j->tiles[t].begin + i]);
        if (trf__block_sum(bad, shared) > 0) return t;
    }
    return -1;
}

/* One block: it adds the tiles' sums and fills the clip_result. */
TRF__KERNEL void trf__gpu_decide_clipping(trf__clip j)
{
    TRF__SHARED(double, shared, TRF__CUDA_WARPS);
    double sum = 0;
    int64_t bad = -1;
    for (int64_t t = threadIdx.x; t < j.n_tiles; t += TRF__CUDA_THREADS) sum += j.partial[t];
    sum = trf__block_sum(sum, shared);
    if (!trf__is_finite(sum)) bad = trf__gpu_bad_tile(&j, shared);
    if (threadIdx.x == 0) trf__decide_clipping(&j, sum, bad);
}

TRF__FN void trf__cuda_clip(const trf__run *run, const trf__clip *j)
{
    trf__launch(run, "clip", j->n_tiles, trf__gpu_squares, *j);
    trf__launch(run, "clip", 1, trf__gpu_decide_clipping, *j);
}

/* beta * old + (1 - beta) * x */
TRF__DEVICE float trf__gpu_mean(float old, float x, double beta)
{
    return beta < 0.5 ? fmaf((float)beta, old - x, x) : fmaf((float)(1 - beta), x - old, old);
}

/* A block for each tile. One thread computes the coefficients, which need pow in double. */
TRF__KERNEL void trf__gpu_adam(trf__adam a, const trf__now *now)
{
    TRF__SHARED(trf__adam_job, job, 1);
    const float most = (float)TRF__MAX_GRADIENT;
    float v_scale, outside, scale2;
    if (a.clip_result->skipped) return;
    for (int64_t t = blockIdx.x; t < a.n_tiles; t += gridDim.x) {
        int decay = a.tiles[t].decay;
        float shrink;
        if (threadIdx.x == 0) job[0] = trf__adam_job_of(&a, a.tiles[t].missed, now->learning_rate);
        __syncthreads();
        float rate = (float)-job->rate; v_scale = (float)job->v_scale;
        float inside = (float)job->epsilon_in; outside = (float)job->epsilon_out;
        float scale1 = (float)job->scale1; scale2 = (float)job->scale2;
        float least_root = (float)job->least_root;
        float l2 = (float)(decay ? job->l2 : 0); shrink = (float)(decay ? -job->shrink : 0);
        for (int64_t k = threadIdx.x; k < a.tiles[t].n; k += TRF__CUDA_THREADS) {
            int64_t i = a.tiles[t].begin + k;
            float p = a.p[i], g = fmaf(a.g[i] * scale1, scale2, fminf(fmaxf(l2 * p, -most), most)),
                moved;
            float m = trf__gpu_mean(a.m[i], g, a.beta1);
            float v = trf__gpu_mean(a.v[i], fminf(g * g, most * most), a.beta2);
            moved = fmaxf(sqrtf(fmaf(v, v_scale, inside)), least_root) + outside;
            moved = fmaf(rate, m / moved, fmaf(shrink, p, p));
            /* infinity - infinity is NaN, which is not less */
            if (!(moved - moved < 1)) moved = p;
            a.p[i] = moved;
            if (a.packed) trf__put_as((trf__bf16 *)a.packed + i, moved);
            a.m[i] = m; a.v[i] = v;
        }
        /* all have read job, so the next tile may overwrite it */
        __syncthreads();
    }
}

TRF__KERNEL void trf__gpu_accumulate(trf__accumulate a)
{
    trf__each(a.n, [&](int64_t i) { a.to[i] = a.from ? a.to[i] + a.from[i] : -0.0f; });
}

TRF__LAUNCHED_OP(accumulate, trf__accumulate, TRF__CUDA_THREADS, trf__tiles_of(j->n),
                 trf__gpu_accumulate, *j)

TRF__KERNEL void trf__gpu_average(trf__average a)
{
    trf__each(a.n, [&](int64_t i) { a.to[i] = fmaf(a.share, a.from[i] - a.to[i], a.to[i]); });
}

TRF__LAUNCHED_OP(average, trf__average, TRF__CUDA_THREADS, trf__tiles_of(j->n), trf__gpu_average,
                 *j)

TRF__LAUNCHED_OP(adam, trf__adam, TRF__CUDA_THREADS, j->n_tiles, trf__gpu_adam, *j, run->now)

#endif

#endif /* TRF__CUDA */

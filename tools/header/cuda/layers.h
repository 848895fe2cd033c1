#pragma once
#include "api/config.h"
#include "base/impl.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cuda/launches.h"
#include "cuda/products.h"

#if TRF__CUDA

// >>cuda-dropout
//
// One Philox block serves eight features of a row: lane, lane + 16 .. lane + 112 of a group of 128
// (see >>dropout). These eight are a unit, the work of one thread in every op that may drop.
// Neighbouring threads have neighbouring features, so they read contiguous memory.

enum { TRF__UNIT = 8 };

TRF__BOTH int64_t trf__units(int64_t width) { return (width + 127) / 128 * 16; }
/* The column of feature k of a unit. */
TRF__DEVICE int64_t trf__feature(int64_t unit, int k)
{
    return unit / 16 * 128 + k * 16 + unit % 16;
}

/* The factor of kept elements; 1 without dropout (`now` is NULL). */
TRF__DEVICE float trf__gpu_scale(const trf__now *now, const trf__drop *drop)
{
    return now && drop->threshold ? drop->scale : 1;
}

/* Draws a Philox block for eight elements: bit k is 1 if element k is kept. */
TRF__DEVICE uint32_t trf__gpu_kept_of(const trf__now *now, const trf__drop *drop, uint32_t c0,
                                      uint32_t c1, uint32_t c2)
{
    uint32_t counter[4] = { c0, c1, c2, now ? now->step : 0 }, words[4], kept = 0;
    if (!now || !drop->threshold) return 0xFF;
    trf__philox(counter, now->key0, trf__site_key(now, drop), words);
    for (int k = 0; k < 8; k++)
        kept |= (uint32_t)((words[k / 2] >> k % 2 * 16 & 0xFFFF) >= drop->threshold) << k;
    return kept;
}

/* The factors of a unit's eight features. */
TRF__DEVICE void trf__gpu_mask(float factor[TRF__UNIT], const trf__now *now, const trf__drop *drop,
                               const trf__rows *at, int64_t row, int64_t unit)
{
    uint32_t kept = trf__gpu_kept_of(now, drop, (uint32_t)unit,
                                     (uint32_t)(at->position ? at->position[row] : row),
                                     at->sentence ? (uint32_t)at->sentence[row] : 0);
    for (int k = 0; k < TRF__UNIT; k++) factor[k] = kept >> k & 1 ? trf__gpu_scale(now, drop) : 0;
}

/* Calls feature(row, column, factor) for all of (rows, width), a unit a thread. */
template <class Do>
TRF__DEVICE void trf__each_feature(const trf__now *now, const trf__drop *drop, const trf__rows *at,
                                   int64_t rows, int64_t width, Do feature)
{
    int64_t units = trf__units(width);
    trf__each(rows * units, [&](int64_t u) {
        float factor[TRF__UNIT];
        trf__gpu_mask(factor, now, drop, at, u / units, u % units);
        for (int k = 0; k < TRF__UNIT && trf__feature(u % units, k) < width; k++)
            feature(u / units, trf__feature(u % units, k), factor[k]);
    });
}

TRF__FN int64_t trf__unit_tiles(int64_t rows, int64_t width)
{
    return trf__tiles_of(rows * trf__units(width));
}

// >>cuda-embed
//
// The formulas are in >>embed. Gradients of the weight are summed by id, those of positions by
// position, those of segments by segment, so that no two blocks write the same numbers.

template <class A> TRF__KERNEL void trf__gpu_embed(trf__embed j, const trf__now *now)
{
    trf__each_feature(now, &j.drop, &j.at, j.rows, j.d, [&](int64_t row, int64_t c, float factor) {
        float value = j.table ? j.table[(j.at.position ? j.at.position[row] : row) * j.d + c] : 0;
        if (j.segments) value += j.segments[j.segment[row] * j.d + c];
        if (j.ids[row] >= 0) value = fmaf(j.weight.plain[j.ids[row] * j.d + c], j.scale, value);
        trf__put<A>(j.y, row * j.d + c, value * factor);
    });
}

TRF__ACT_OP(embed, trf__embed, TRF__CUDA_THREADS, trf__unit_tiles(j->rows, j->d), *j, run->now)

#if !defined(TRF_NO_TRAIN)

/* dy = drop(dy), in place. */
template <class A> TRF__KERNEL void trf__gpu_embed_drop(trf__embed_gradient j, const trf__now *now)
{
    trf__each_feature(now, &j.drop, &j.at, j.rows, j.d, [&](int64_t row, int64_t c, float factor) {
        trf__put<A>(j.dy, row * j.d + c, trf__get<A>(j.dy, row * j.d + c) * factor);
    });
}

/* A block for each list of equal ids, a thread for each column: it adds the rows in order. */
template <class A> TRF__KERNEL void trf__gpu_embed_gradient(trf__embed_gradient j)
{
    for (int64_t k = blockIdx.x; k < j.groups.n; k += gridDim.x) {
        const int32_t *rows = j.groups.rows;
        if (j.groups.first[k] == j.groups.first[k + 1]) break;
        float *dw = j.dweight + j.ids[rows[j.groups.first[k]]] * j.d;
        for (int64_t c = threadIdx.x; c < j.d; c += blockDim.x) {
            float sum = dw[c];
            for (int32_t i = j.groups.first[k]; i < j.groups.first[k + 1]; i++)
                sum = fmaf(trf__get<A>(j.dy, rows[i] * j.d + c), j.scale, sum);
            dw[c] = sum;
        }
    }
}

/* The gradient of a table of `size` rows, where `place` (NULL: the number of the row) is what each
   row of dy reads. A block has one row of the table and as many columns as threads: a thread adds
   the rows of dy that read it, in order. Every block reads the places of all rows, which are few
   bytes beside the rows themselves. */
template <class A> TRF__KERNEL void trf__gpu_table_gradient(trf__embed_gradient j, float *table,
                                                            int64_t size, const int32_t *place)
{
    int64_t parts = (j.d + blockDim.x - 1) / blockDim.x;
    for (int64_t k = blockIdx.x; k < size * parts; k += gridDim.x) {
        int64_t p = k / parts, c = k % parts * blockDim.x + threadIdx.x;
        if (c >= j.d) continue;
        float sum = j.first_table ? 0 : table[p * j.d + c];
        for (int64_t row = 0; row < j.rows; row++)
            if ((place ? place[row] : row) == p) sum += trf__get<A>(j.dy, row * j.d + c);
        table[p * j.d + c] = sum;
    }
}

/* The tables need no zeroing: each of their rows has blocks, which begin with 0. */
TRF__FN void trf__cuda_embed_gradient(const trf__run *run, const trf__embed_gradient *j)
{
    if (j->first)
        trf__cuda_zero(run, j->dweight, trf__bytes(j->vocab, trf__bytes(j->d, sizeof(float))));
    if (run->now && j->drop.threshold)
        trf__launch(run, "embed_gradient", trf__unit_tiles(j->rows, j->d),
                    TRF__OF_ACT(run, trf__gpu_embed_drop), *j, run->now);
    trf__launch<128>(run, "embed_gradient", j->groups.n, TRF__OF_ACT(run, trf__gpu_embed_gradient),
                     *j);
    if (j->dtable)
        trf__launch<128>(run, "embed_gradient", j->positions * trf__ceil_div(j->d, 128),
                         TRF__OF_ACT(run, trf__gpu_table_gradient), *j, j->dtable, j->positions,
                         j->at.position);
    if (j->dsegments)
        trf__launch<128>(run, "embed_gradient", j->n_segments * trf__ceil_div(j->d, 128),
                         TRF__OF_ACT(run, trf__gpu_table_gradient), *j, j->dsegments,
                         j->n_segments, j->segment);
}

#endif

// >>cuda-linear
//
// A row-major y (rows, out) is column-major (out, rows) to cuBLASLt: y = x w^T becomes D = A B with
// D = y, A = w (transposed, turn_a) and B = x.

/* The weights in the form that products read, `further` numbers after the beginning of w: floats,
   or the arena of 16 bits, which has the same layout. */
TRF__FN const void *trf__weights_at(const trf__run *run, const trf__mat *w, int64_t further)
{
    if (run->element == sizeof(float)) return w->plain + further;
    return (const trf__bf16 *)w->packed + further;
}

/* y = x w^T + b. The result is in floats with `wide`, else like activations; a bias for a result in
   16 bits comes from the arena of 16 bits. */
TRF__FN void trf__cuda_project(const trf__run *run, const char *what, const trf__linear *j,
                               int wide)
{
    int narrow = run->element != sizeof(float);
    TRF__ZEROED(trf__lt, p);
    p.d = j->y; p.a = trf__weights_at(run, &j->w, j->w.row * j->in); p.b = j->x; p.bias = j->b;
    if (j->b && !wide) p.bias = trf__weights_at(run, &j->w, j->b - j->w.plain);
    p.m = j->out; p.n = j->rows; p.k = j->in; p.lda = p.ldb = j->in; p.ldd = j->out; p.turn_a = 1;
    p.narrow = narrow; p.narrow_d = narrow && !wide;
    trf__cuda_product(run, what, &p);
}

TRF__FN void trf__cuda_linear(const trf__run *run, const trf__linear *j)
{
    trf__cuda_project(run, "linear", j, 0);
}

#if !defined(TRF_NO_TRAIN)

TRF__FN void trf__cuda_linear_dx(const trf__run *run, const trf__linear_dx *j)
{
    TRF__ZEROED(trf__lt, p);
    p.d = j->dx; p.a = trf__weights_at(run, &j->w, j->w.row * j->in); p.b = j->dy;
    p.m = j->in; p.n = j->rows; p.k = j->out; p.lda = p.ldd = j->in; p.ldb = j->out; p.add = j->add;
    p.narrow = p.narrow_d = run->element != sizeof(float);
    trf__cuda_product(run, "linear_dx", &p);
}

/* Sums of columns in two stages: first of slices of rows, then of the slices in order. One stage
   would leave most of the device idle, as there are few columns. */
typedef struct trf__column_sums_job {
    float *sums[2], *partial;           /* (columns) each; (slices, outputs, columns) */
    const trf__act *x;
    int64_t rows, columns, ld, slices;
    int outputs, first;
} trf__column_sums_job;

enum { TRF__SUM_COLUMNS = 32, TRF__SUM_ROWS = TRF__CUDA_THREADS / TRF__SUM_COLUMNS };

TRF__FN int64_t trf__sum_tiles(const trf__column_sums_job *j)
{
    return j->slices * trf__ceil_div(j->columns, TRF__SUM_COLUMNS);
}

/* A job with as many slices as partial sums fit into cuda->sums: at most 64, of 64 rows or more. */
TRF__FN trf__column_sums_job trf__sums_job(const trf__run *run, int outputs, int64_t rows,
                                           int64_t columns, int first)
{
    TRF__ZEROED(trf__column_sums_job, j);
    j.partial = trf__cuda_of(run)->sums;
    j.rows = rows; j.columns = columns; j.ld = columns;
    j.slices = trf__min64(trf__min64(64, trf__ceil_div(rows, 64)), TRF__CUDA_SUMS / trf__max64(1,
            columns * outputs));
    j.outputs = outputs; j.first = first;
    return j;
}

/* First stage. each(row, column, sums) adds to N sums of its column. A block has 32 columns of one
   slice, a warp every eighth row of it; the warps' sums are added in their order. */
template <int N, class Each>
TRF__DEVICE void trf__sum_slices(const trf__column_sums_job *j, float *shared, Each each)
{
    int64_t across = (j->columns + TRF__SUM_COLUMNS - 1) / TRF__SUM_COLUMNS;
    int64_t rows = (j->rows + j->slices - 1) / j->slices;
    for (int64_t tile = blockIdx.x; tile < across * j->slices; tile += gridDim.x) {
        int64_t slice = tile / across;
        int64_t c = tile % across * TRF__SUM_COLUMNS + threadIdx.x % TRF__SUM_COLUMNS;
        int64_t end = (slice + 1) * rows < j->rows ? (slice + 1) * rows : j->rows;
        /* every warp sums its rows of the slice; lanes of a warp read neighbouring columns */
        float sums[N] = {};
        for (int64_t r = slice * rows + threadIdx.x / TRF__SUM_COLUMNS; c < j->columns && r < end;
             r += TRF__SUM_ROWS)
            each(r, c, sums);
        for (int n = 0; n < N; n++) {
            float sum = 0;
            /* then the first warp adds the warps' sums, in their order */
            shared[threadIdx.x] = sums[n];
            __syncthreads();
            for (unsigned w = threadIdx.x % TRF__SUM_COLUMNS; w < TRF__CUDA_THREADS;
                 w += TRF__SUM_COLUMNS)
                sum += shared[w];
            if (threadIdx.x < TRF__SUM_COLUMNS && c < j->columns)
                j->partial[(slice * N + n) * j->columns + c] = sum;
            __syncthreads();
        }
    }
}

template <class A> TRF__KERNEL void trf__gpu_column_sums(trf__column_sums_job j)
{
    TRF__SHARED(float, shared, TRF__CUDA_THREADS);
    trf__sum_slices<1>(&j, shared, [&](int64_t r, int64_t c, float *sum) { *sum += trf__get<A>(j.x,
            r * j.ld + c); });
}

/* Second stage: a thread for each column and output adds the slices. */
TRF__KERNEL void trf__gpu_add_slices(trf__column_sums_job j)
{
    trf__each(j.columns * j.outputs, [&](int64_t i) {
        int64_t output = i / j.columns, c = i % j.columns;
        if (!j.sums[output]) return;
        float sum = j.first ? 0 : j.sums[output][c];
        for (int64_t s = 0; s < j.slices; s++)
            sum += j.partial[(s * j.outputs + output) * j.columns + c];
        j.sums[output][c] = sum;
    });
}

/* sum (=, +=) the columns of x (rows, columns). More than cuda->sums holds: in pieces. */
TRF__FN void trf__cuda_column_sums(const trf__run *run, const char *what, float *sum,
                                   const trf__act *x, int64_t rows, int64_t columns, int first)
{
    for (int64_t c = 0; c < columns; c += TRF__CUDA_SUMS) {
        trf__column_sums_job j = trf__sums_job(run, 1, rows,
                                               trf__min64(TRF__CUDA_SUMS, columns - c), first);
        j.sums[0] = sum + c;
        j.x = trf__act_at(run, (trf__act *)(uintptr_t)x, c); j.ld = columns;
        trf__launch(run, what, trf__sum_tiles(&j), TRF__OF_ACT(run, trf__gpu_column_sums), j);
        trf__launch(run, what, trf__tiles_of(j.columns * j.outputs), trf__gpu_add_slices, j);
    }
}

/* dw = dy^T x is, column-major, D (in, out) = x dy^T. Sums are floats, whatever activations are. */
TRF__FN void trf__cuda_linear_dw(const trf__run *run, const trf__linear_dw *products, int n)
{
    for (int i = 0; i < n; i++) {
        const trf__linear_dw *j = &products[i];
        TRF__ZEROED(trf__lt, p);
        p.d = j->dw; p.a = j->x; p.b = j->dy;
        p.m = j->in; p.n = j->out; p.k = j->rows; p.lda = p.ldd = j->in; p.ldb = j->out;
        p.turn_b = 1; p.narrow = run->element != sizeof(float); p.add = !j->first;
        trf__cuda_product(run, "linear_dw", &p);
        if (j->db) trf__cuda_column_sums(run, "linear_dw", j->db, j->dy, j->rows, j->out, j->first);
    }
}

#endif

// >>cuda-activate
//
// The formulas are in >>activate. A thread has a unit of eight features, because of dropout.

TRF__DEVICE float trf__gpu_sigmoid(float h) { return 1 / (1 + expf(-h)); }
TRF__DEVICE float trf__gpu_normal(float h)
{
    return fmaf(erff(h * 0.70710678118654752f), 0.5f, 0.5f);
}

TRF__DEVICE float trf__gpu_gelu_tanh_sigmoid(float h)
{
    return trf__gpu_sigmoid(1.5957691216057308f * h * fmaf(h * h, 0.044715f, 1.0f));
}

TRF__DEVICE float trf__gpu_act(int kind, float h)
{
    if (kind == TRF_RELU) return h < 0 ? 0 : h;         /* not h > 0 ? h : 0: NaN stays */
    if (kind == TRF__IDENTITY) return h;
    if (kind == TRF__TANH) return fmaf(trf__gpu_sigmoid(h + h), 2.0f, -1.0f);
    return h * (kind == TRF_GELU ? trf__gpu_normal(h)
                : kind == TRF_SILU ? trf__gpu_sigmoid(h) : trf__gpu_gelu_tanh_sigmoid(h));
}

TRF__DEVICE float trf__gpu_slope(int kind, float h)
{
    float s;
    if (kind == TRF_RELU) return h > 0 ? 1.0f : 0.0f;
    if (kind == TRF__IDENTITY) return 1;
    if (kind == TRF__TANH) {
        s = trf__gpu_sigmoid(h + h);
        return 4 * s * (1 - s);
    }
    if (kind == TRF_GELU)
        return fmaf(h, 0.39894228040143268f * expf(h * h * -0.5f), trf__gpu_normal(h));
    if (kind == TRF_SILU) {
        s = trf__gpu_sigmoid(h);
        return s * fmaf(h, 1 - s, 1.0f);
    }
    h = h < -10 ? -10 : h > 10 ? 10 : h;        /* h^3 must not overflow; NaN stays NaN */
    s = trf__gpu_gelu_tanh_sigmoid(h);
    return s * fmaf(1.5957691216057308f * h * fmaf(h * h, 3 * 0.044715f, 1.0f), 1 - s, 1.0f);
}

template <class A> TRF__KERNEL void trf__gpu_activate(trf__activate j, const trf__now *now)
{
    trf__each_feature(now, &j.drop, &j.at, j.rows, j.width,
                      [&](int64_t row, int64_t c, float factor) {
        int64_t at = (row << j.gate) * j.width + c;
        float a = trf__gpu_act(j.kind, trf__get<A>(j.h, at));
        if (j.gate) a *= trf__get<A>(j.h, at + j.width);
        trf__put<A>(j.a, row * j.width + c, a * factor);
    });
}

TRF__ACT_OP(activate, trf__activate, TRF__CUDA_THREADS, trf__unit_tiles(j->rows, j->width), *j,
            run->now)

#if !defined(TRF_NO_TRAIN)

template <class A> TRF__KERNEL void trf__gpu_activate_gradient(trf__activate_gradient j,
                                                               const trf__now *now)
{
    trf__each_feature(now, &j.drop, &j.at, j.rows, j.width,
                      [&](int64_t row, int64_t c, float factor) {
        int64_t at = (row << j.gate) * j.width + c;
        float u = trf__get<A>(j.h, at), da = trf__get<A>(j.da, row * j.width + c);
        float du = da * trf__gpu_slope(j.kind, u) * factor;
        if (j.gate) {
            du *= trf__get<A>(j.h, at + j.width);
            trf__put<A>(j.dh, at + j.width, da * factor * trf__gpu_act(j.kind, u));
        }
        trf__put<A>(j.dh, at, du);
    });
}

TRF__ACT_OP(activate_gradient, trf__activate_gradient, TRF__CUDA_THREADS,
            trf__unit_tiles(j->rows, j->width), *j, run->now)

#endif

// >>cuda-rotary    rotary positions, and x * factor

/* A block for each row; a thread turns every 256th pair. */
template <class A> TRF__KERNEL void trf__gpu_rotate(trf__rotation r)
{
    int64_t half = r.width / 2;
    for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
        const float *table = r.table + (int64_t)r.position[row] * r.width;
        for (int64_t e = threadIdx.x; e < r.heads * half; e += TRF__CUDA_THREADS) {
            int64_t pair = e % half, at = row * r.ld + e / half * r.d_head;
            int64_t i = at + (r.pairs == TRF_ROTARY_HALVES ? pair : 2 * pair);
            int64_t j = r.pairs == TRF_ROTARY_HALVES ? i + half : i + 1;
            float x = trf__get<A>(r.x, i), y = trf__get<A>(r.x, j), cosine = table[pair];
            float sine = table[half + pair] * (r.back ? -1.0f : 1.0f);
            trf__put<A>(r.x, i, fmaf(x, cosine, -(y * sine)));
            trf__put<A>(r.x, j, fmaf(y, cosine, x * sine));
        }
    }
}

TRF__ACT_OP(rotate, trf__rotation, TRF__CUDA_THREADS, j->rows, *j)

template <class A> TRF__KERNEL void trf__gpu_scale_all(trf__scale s)
{
    trf__each(s.n, [&](int64_t i) { trf__put<A>(s.x, i, trf__get<A>(s.x, i) * s.factor); });
}

TRF__LAUNCHED_OP(scale, trf__scale, TRF__CUDA_THREADS, trf__tiles_of(j->n),
                 TRF__OF_ACT(run, trf__gpu_scale_all), *j)

#endif /* TRF__CUDA */

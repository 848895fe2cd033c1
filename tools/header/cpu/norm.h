#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cpu/threads.h"
#include "cpu/gemm.h"
#include "cpu/products.h"
#include "cpu/embed.h"

// >>add_norm       paper 3.1, 5.4: dropout, residual connection, layer norm (Ba et al. 2016)
//
//   s = x + drop(sub)     y = gain * (s - mean) * r + bias
//   r = 1 / sqrt(var + epsilon), var biased
//   TRF_NORM_ANNOTATED: r = 1 / (deviation + epsilon), deviation unbiased
//   TRF_NORM_RMS: mean = 0, and so var is the mean of squares; bias NULL: 0
//   x, sub, s, y: (rows, d)   gain, bias: (d)   kept for backward: s, and per row mean and r
//
//   with n = (s - mean) r, g = dy + dy2, dn = gain * g, averages over d:
//   ds = r (dn - avg(dn) - (s - mean) c sum(dn (s - mean))) + ds_in
//   c = r^2 / d, annotated: r / ((d-1) deviation); RMS: without avg(dn)
//   dsub = drop(ds)     dx = ds     dgain += g * n     dbias += g
//   Without a norm (y NULL in forward, gain NULL in backward): ds = dy + dy2.

/* The norm of one row, in three passes: mean, variance, result. One pass for sum and sum of squares
   would lose digits if the mean is large. `nothing` with step 0 stands for a bias of zeros. */
TRF__FN void trf__norm_row(const trf__norm *j, const trf_real *s, trf_real *y, trf_real stats[2])
{
    static const trf_real nothing[TRF__WIDE] = {0};
    const trf_real *bias = j->bias ? j->bias : nothing;
    int64_t bias_step = j->bias != NULL;
    trf__v16 sum = trf__set(0), squares = trf__set(0);
    int64_t d = j->d;
    /* sums differences from s[0], so that a row of equal numbers has exactly their mean */
    for (int64_t c = 0; c < d && j->rule != TRF_NORM_RMS; c += 16)
        sum = trf__fma(trf__sub(trf__load_n(s + c, d - c), trf__set(s[0])), trf__first(d - c), sum);
    stats[0] = j->rule == TRF_NORM_RMS ? 0 : s[0] + trf__sum(sum) / (trf_real)d;
    trf__v16 mean = trf__set(stats[0]);
    for (int64_t c = 0; c < d; c += 16) {
        trf__v16 centered = trf__mul(trf__sub(trf__load_n(s + c, d - c), mean), trf__first(d - c));
        squares = trf__fma(centered, centered, squares);
    }
    stats[1] = (trf_real)trf__norm_factor(j->rule, (double)trf__sum(squares), d, j->epsilon);
    trf__v16 factor = trf__set(stats[1]);
    for (int64_t c = 0; c < d; c += 16) {
        trf__v16 n = trf__mul(trf__sub(trf__load_n(s + c, d - c), mean), factor);
        trf__store_n(y + c, trf__fma(n, trf__load_n(j->gain + c, d - c),
                                     trf__load_n(bias + c * bias_step, d - c)), d - c);
    }
}

/* s may be x: each element is read before it is written. */
TRF__TILE(trf__add_norm_tile)
{
    const trf__norm *j = (const trf__norm *)job;
    int64_t d = j->d;
    int dropping = trf__dropping(run, &j->drop);
    TRF__ROWS_OF_TILE(row, j->rows, d) {
        const trf_real *x = trf__from(j->x) + row * d, *s = x;
        if (j->sub) {
            const trf_real *sub = trf__from(j->sub) + row * d;
            trf_real *sum = trf__to(j->s) + row * d;
            trf__mask mask;
            if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
            for (int64_t c = 0; c < d; c += 16) {
                trf__v16 a = trf__load_n(x + c, d - c), b = trf__load_n(sub + c, d - c);
                a = dropping ? trf__fma(b, trf__mask_chunk(&mask, c / 16), a) : trf__add(a, b);
                trf__store_n(sum + c, a, d - c);
            }
            s = sum;
        }
        if (j->y) {
            trf_real local[2];
            trf_real *y = trf__to(j->y) + row * d;
            trf__norm_row(j, s, y, j->stats ? j->stats + 2 * row : local);
            if (j->converted)
                trf__formats[run->format].convert(trf__converted_at(run, j->converted, row, d), y,
                                                  d);
        }
    }
}

TRF__TILED_OP(trf__cpu_add_norm, trf__norm, trf__add_norm_tile, trf__row_tiles(j->rows, j->d))

#if !defined(TRF_NO_TRAIN)

/* dy + dy2: y may have two uses, the next sublayer and its residual connection. */
TRF__INLINE trf__v16 trf__norm_dy(const trf__norm_gradient *j, int64_t at, int64_t n)
{
    trf__v16 dy = trf__load_n(trf__from(j->dy) + at, n);
    return j->dy2 ? trf__add(dy, trf__load_n(trf__from(j->dy2) + at, n)) : dy;
}

/* ds of one row, in two passes: the sums over the row, then the row. Scalars are computed in
   double, as a row with a tiny variance has a huge r. */
TRF__FN void trf__norm_row_gradient(const trf__norm_gradient *j, int64_t row)
{
    static const trf_real nothing[TRF__WIDE] = {0};
    const trf_real *s = trf__from(j->s);
    int64_t d = j->d, at = row * d;
    double mean = (double)j->stats[2 * row], r = (double)j->stats[2 * row + 1], slope;
    trf__v16 center = trf__set((trf_real)mean), factor = trf__set((trf_real)r);
    trf__v16 sum = trf__set(0), dot = trf__set(0);
    for (int64_t c = 0; c < d; c += 16) {
        trf__v16 g = trf__norm_dy(j, at + c, d - c), gain = trf__load_n(j->gain + c, d - c);
        trf__v16 centered = trf__sub(trf__load_n(s + at + c, d - c), center);
        sum = trf__fma(g, gain, sum);
        /* beyond the end of a row the product is 0, as gain is loaded as 0 there */
        dot = trf__fma(trf__mul(g, centered), gain, dot);
    }
    if (j->rule == TRF_NORM_ANNOTATED) {
        double deviation = 1 / r - j->epsilon;
        slope = deviation > 0 && d > 1 ? r / ((double)(d - 1) * deviation) : 0;
    } else slope = r * r / (double)d;
    /* Without ds_in zeros are added. A branch would let compilers share the product between both
       cases, and then they do not fuse it. */
    const trf_real *more = j->ds_in ? trf__from(j->ds_in) + at : nothing;
    int64_t more_step = j->ds_in != NULL;
    trf__v16 average = trf__set(j->rule == TRF_NORM_RMS ? 0
                                : (trf_real)(-(double)trf__sum(sum) / (double)d));
    trf__v16 pull = trf__set((trf_real)(-slope * (double)trf__sum(dot)));
    for (int64_t c = 0; c < d; c += 16) {
        trf__v16 g = trf__norm_dy(j, at + c, d - c), gain = trf__load_n(j->gain + c, d - c);
        trf__v16 centered = trf__sub(trf__load_n(s + at + c, d - c), center);
        trf__v16 ds = trf__fma(centered, pull, trf__fma(g, gain, average));
        ds = trf__fma(trf__opaque(ds), factor,
                      trf__opaque(trf__load_n(more + c * more_step, d - c)));
        trf__store_n(trf__to(j->ds) + at + c, ds, d - c);
    }
}

/* ds of the row, then dsub = drop(ds) from the row just written. gain NULL: ds = dy + dy2. */
TRF__TILE(trf__norm_gradient_tile)
{
    const trf__norm_gradient *j = (const trf__norm_gradient *)job;
    int64_t c, d = j->d;
    int dropping = trf__dropping(run, &j->drop);
    TRF__ROWS_OF_TILE(row, j->rows, d) {
        trf_real *ds = trf__to(j->ds) + row * d;
        trf__mask mask;
        if (j->gain) trf__norm_row_gradient(j, row);
        else if (j->ds != j->dy || j->dy2)
            for (c = 0; c < d; c += 16) trf__store_n(ds + c, trf__norm_dy(j, row * d + c, d - c),
                                                     d - c);
        if (!j->dsub) continue;
        if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        for (c = 0; c < d; c += 16) {
            trf__v16 dsub = trf__load_n(ds + c, d - c);
            if (dropping) dsub = trf__mul(dsub, trf__mask_chunk(&mask, c / 16));
            trf__store_n(trf__to(j->dsub) + row * d + c, dsub, d - c);
        }
    }
}

/* dgain and dbias of sixteen columns: partial sums of 64 rows, added in order (see
   trf__column_sums). */
TRF__TILE(trf__norm_gain_tile)
{
    const trf__norm_gradient *j = (const trf__norm_gradient *)job;
    int64_t d = j->d, c = tile * 16, n = d - c;
    trf__v16 all_gain = j->first ? trf__set(0) : trf__load_n(j->dgain + c, n);
    trf__v16 all_bias = j->first || !j->dbias ? trf__set(0) : trf__load_n(j->dbias + c, n);
    for (int64_t r0 = 0; r0 < j->rows; r0 += 64) {
        trf__v16 dgain = trf__set(0), dbias = trf__set(0);
        for (int64_t row = r0; row < trf__min64(j->rows, r0 + 64); row++) {
            trf__v16 g = trf__norm_dy(j, row * d + c, n), mean = trf__set(j->stats[2 * row]);
            trf__v16 normal = trf__mul(trf__sub(trf__load_n(trf__from(j->s) + row * d + c, n),
                                                mean),
                                       trf__set(j->stats[2 * row + 1]));
            dgain = trf__fma(g, normal, dgain);
            dbias = trf__add(dbias, g);
        }
        all_gain = trf__add(all_gain, dgain);
        all_bias = trf__add(all_bias, dbias);
    }
    trf__store_n(j->dgain + c, all_gain, n);
    if (j->dbias) trf__store_n(j->dbias + c, all_bias, n);
}

/* dgain and dbias come first, as ds may overwrite dy and dy2. */
TRF__FN void trf__cpu_norm_gradient(const trf__run *run, const trf__norm_gradient *j)
{
    if (j->gain) trf__tiles(run, trf__ceil_div(j->d, 16), trf__norm_gain_tile, j);
    trf__tiles(run, trf__row_tiles(j->rows, j->d), trf__norm_gradient_tile, j);
}

#endif

// >>pool           one row for each sequence
//
//   y[s] = sum of x[r] / n    over the first n = min(most, n_s) of its n_s rows; 0 if it has none
//   dx[r] = dy[s] / n for these rows, 0 for the others
//
// most = 1: the first row (Devlin et al. 2019); without a limit the mean. A tile is one sequence.

/* One sequence: columns of its first n rows are added in order. */
TRF__TILE(trf__pool_tile)
{
    const trf__pool *j = (const trf__pool *)job;
    const trf__span *span = &j->spans[tile];
    const trf_real *x = trf__from(j->from) + span->query * j->d;
    int64_t n = trf__pooled(span, j->most), r, c;
    trf__v16 share = trf__set(n > 0 ? 1 / (trf_real)n : 0);
    for (c = 0; c < j->d; c += 16) {
        trf__v16 sum = trf__set(0);
        for (r = 0; r < n; r++) sum = trf__add(sum, trf__load_n(x + r * j->d + c, j->d - c));
        trf__store_n(trf__to(j->to) + tile * j->d + c, trf__mul(sum, share), j->d - c);
    }
}

TRF__TILED_OP(trf__cpu_pool, trf__pool, trf__pool_tile, j->n_spans)

#if !defined(TRF_NO_TRAIN)

/* `from` and `to` change roles: dy has one row a sequence, dx all of them. */
TRF__TILE(trf__pool_gradient_tile)
{
    const trf__pool *j = (const trf__pool *)job;
    const trf__span *span = &j->spans[tile];
    const trf_real *dy = trf__from(j->from) + tile * j->d;
    trf_real *dx = trf__to(j->to) + span->query * j->d;
    int64_t n = trf__pooled(span, j->most);
    trf__v16 share = trf__set(n > 0 ? 1 / (trf_real)n : 0);
    for (int64_t r = 0; r < span->n_query; r++)
        for (int64_t c = 0; c < j->d; c += 16)
            trf__store_n(dx + r * j->d + c,
                         r < n ? trf__mul(trf__load_n(dy + c, j->d - c), share) : trf__set(0),
                         j->d - c);
}

TRF__TILED_OP(trf__cpu_pool_gradient, trf__pool, trf__pool_gradient_tile, j->n_spans)

#endif

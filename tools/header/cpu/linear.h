#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "cpu/gemm.h"
#include "cpu/products.h"
#include "cpu/embed.h"

// >>linear         paper 3.2.2, 3.3, 3.4: every projection
//
//   y = x w^T + b      x: (rows, in)   w: (out, in)   b: (out) or NULL   y: (rows, out)
//   dx = dy w [+ dx]      dw += dy^T x      db += sum over rows of dy
//
// Bias gradients add partial sums of 64 rows, in order.

/* All rows of x are one matrix, since batches have no padding. */
TRF__FN void trf__cpu_linear(const trf__run *run, const trf__linear *j)
{
    trf__product p = trf__product_of(trf__to(j->y), j->out, j->rows, j->out, j->in,
                                     trf__view_of(trf__from(j->x), j->in, 1),
                                     trf__weight_view(&j->w, j->in), 0);
    const trf__mat *packed = trf__reads_packed(&j->w) ? &j->w : NULL;
    p.bias = j->b;
    if (j->converted) {
        p.left = (const char *)(const void *)j->x;
        p.left_step = trf__formats[run->format].row_bytes(j->in);
    } else trf__convert(run, packed, &p);
    trf__product_all(run, trf__use_blas(run, j->rows, &j->w), packed, &p);
}

#if !defined(TRF_NO_TRAIN)

TRF__FN void trf__cpu_linear_dx(const trf__run *run, const trf__linear_dx *j)
{
    trf__product p = trf__product_of(trf__to(j->dx), j->in, j->rows, j->in, j->out,
                                     trf__view_of(trf__from(j->dy), j->out, 1),
                                     trf__view_of(j->w.plain + j->w.row * j->in, j->in, 1), j->add);
    trf__product_all(run, trf__use_blas(run, j->rows, NULL), NULL, &p);
}

/* sum[c] += (or = with `first`) the sum over rows of x[r][c]. Partial sums of 64 rows are added in
   order: their rounding errors are smaller than those of one long sum. */
TRF__FN void trf__column_sums(trf_real *sum, const trf_real *x, int64_t rows, int64_t columns,
                              int64_t ld, int first)
{
    if (first) memset(sum, 0, (size_t)columns * sizeof *sum);
    for (int64_t r0 = 0; r0 < rows; r0 += 64)
        for (int64_t c = 0; c < columns; c += 16) {
            trf__v16 partial = trf__set(0);
            for (int64_t r = r0; r < trf__min64(rows, r0 + 64); r++)
                partial = trf__add(partial, trf__load_n(x + r * ld + c, columns - c));
            trf__store_n(sum + c, trf__add(trf__load_n(sum + c, columns - c), partial),
                         columns - c);
        }
}

/* Gradients of a weight (out, in) and its bias; ld: the distance between rows of dy. */
typedef struct trf__dw_job {
    trf_real *dw, *db;
    const trf_real *dy, *x;
    int64_t rows, out, in, ld;
    int first;
} trf__dw_job;

enum { TRF__SUMS_TILE = 64 };

TRF__TILE(trf__sums_tile)
{
    const trf__dw_job *j = (const trf__dw_job *)job;
    int64_t c = tile * TRF__SUMS_TILE;
    trf__column_sums(j->db + c, j->dy + c, j->rows, trf__min64(TRF__SUMS_TILE, j->out - c), j->ld,
                     j->first);
}

/* dw = dy^T x as one product with a transposed A; db by columns. Either may be NULL (frozen). */
TRF__FN void trf__dw_all(const trf__run *run, const trf__dw_job *j)
{
    trf__product p = trf__product_of(j->dw, j->in, j->out, j->in, j->rows,
                                     trf__view_of(j->dy, 1, j->ld),
                                     trf__view_of(j->x, j->in, 1), !j->first);
    if (j->dw) trf__product_all(run, trf__use_blas(run, j->rows, NULL), NULL, &p);
    if (j->db) trf__tiles(run, trf__ceil_div(j->out, TRF__SUMS_TILE), trf__sums_tile, j);
}

TRF__FN void trf__cpu_linear_dw(const trf__run *run, const trf__linear_dw *products, int n)
{
    for (int i = 0; i < n; i++) {
        const trf__linear_dw *p = &products[i];
        trf__dw_job j = { p->dw, p->db, trf__from(p->dy), trf__from(p->x), p->rows, p->out, p->in,
                         p->out, p->first };
        trf__dw_all(run, &j);
    }
}

#endif

// >>activate       paper 3.3 (ReLU); Hendrycks and Gimpel 2016 (GELU); SiLU; gates (Shazeer 2020)
//
//   a = drop(act(h))          dh = act'(h) * drop(da)
//   with a gate, h = [u v]:
//   a = drop(act(u) * v)      du = act'(u) * v * drop(da)     dv = act(u) * drop(da)
//
//   relu' = [h > 0]     gelu = h P(h)     gelu' = P(h) + h p(h)
//   P, p: the normal distribution and its density
//   silu = h s, silu' = s (1 + h (1 - s)), s = 1 / (1 + exp(-h))
//   gelu by tanh = h s, its slope s (1 + h (1 - s) w'), s = 1 / (1 + exp(-w)):
//   w = c (h + b h^3), w' = c (1 + 3 b h^2), c = 2 sqrt(2 / pi), b = 0.044715, as
//   (1 + tanh(w / 2)) / 2 = s
//   tanh = 2 s - 1, tanh' = 4 s (1 - s), s = 1 / (1 + exp(-2 h))
//
// Where s is 0 or 1 in float, h s and the slopes are computed from the nearest such h: at larger
// ones h^3 overflows, and a clamped exp would not make s small enough.

TRF__INLINE trf__v16 trf__sigmoid(trf__v16 h)
{
    return trf__div(trf__set(1), trf__add(trf__set(1), trf__exp(trf__sub(trf__set(0), h))));
}

/* P(h) = (1 + erf(h / sqrt(2))) / 2 */
TRF__INLINE trf__v16 trf__normal_distribution(trf__v16 h)
{
    return trf__fma(trf__erf(trf__mul(h, trf__set((trf_real)0.70710678118654752))),
                    trf__set((trf_real)0.5), trf__set((trf_real)0.5));
}

/* 1 + b h^2, with b or 3 b. */
TRF__INLINE trf__v16 trf__gelu_tanh_part(trf__v16 h, trf_real b)
{
    return trf__fma(trf__mul(h, h), trf__set(b), trf__set(1));
}
/* s of the mark */
TRF__INLINE trf__v16 trf__gelu_tanh_sigmoid(trf__v16 h)
{
    return trf__sigmoid(trf__mul(trf__mul(h, trf__set((trf_real)1.5957691216057308)),
                                 trf__gelu_tanh_part(h, (trf_real)0.044715)));
}

/* From here on s is 1, and from minus this on below 1e-37, for SiLU and GELU by tanh. */
TRF__INLINE trf__v16 trf__act_far(int kind)
{
    return trf__set((trf_real)(kind == TRF_SILU ? 88 : 10));
}

TRF__INLINE trf__v16 trf__act_of(int kind, trf__v16 h)
{
    if (kind == TRF_RELU) return trf__max(h, trf__set(0));
    if (kind == TRF_GELU) return trf__mul(h, trf__normal_distribution(h));
    if (kind == TRF__IDENTITY) return h;
    if (kind == TRF__TANH)
        return trf__fma(trf__sigmoid(trf__add(h, h)), trf__set(2), trf__set(-1));
    h = trf__max(h, trf__sub(trf__set(0), trf__act_far(kind)));
    return trf__mul(h, kind == TRF_SILU ? trf__sigmoid(h) : trf__gelu_tanh_sigmoid(h));
}

/* act'(h). It is computed from h, which the forward pass keeps. */
TRF__INLINE trf__v16 trf__act_slope(int kind, trf__v16 h)
{
    if (kind == TRF_RELU) return trf__if_less(trf__set(0), h, trf__set(1), trf__set(0));
    if (kind == TRF__IDENTITY) return trf__set(1);
    if (kind == TRF__TANH) {
        trf__v16 s = trf__sigmoid(trf__add(h, h));
        return trf__mul(trf__mul(trf__set(4), s), trf__sub(trf__set(1), s));
    }
    if (kind == TRF_GELU) {
        trf__v16 density = trf__mul(trf__set((trf_real)0.39894228040143268),
                                    trf__exp(trf__mul(trf__mul(h, h), trf__set((trf_real)-0.5))));
        return trf__fma(h, density, trf__normal_distribution(h));
    } else {
        trf__v16 end = trf__act_far(kind);
        h = trf__min(trf__max(h, trf__sub(trf__set(0), end)), end);
        trf__v16 s = kind == TRF_SILU ? trf__sigmoid(h) : trf__gelu_tanh_sigmoid(h);
        trf__v16 steep = kind == TRF_SILU ? h
                     : trf__mul(trf__mul(h, trf__set((trf_real)1.5957691216057308)),
                                trf__gelu_tanh_part(h, (trf_real)(3 * 0.044715)));
        return trf__mul(s, trf__fma(steep, trf__sub(trf__set(1), s), trf__set(1)));
    }
}

TRF__TILE(trf__activate_tile)
{
    const trf__activate *j = (const trf__activate *)job;
    int dropping = trf__dropping(run, &j->drop);
    TRF__ROWS_OF_TILE(row, j->rows, j->width) {
        const trf_real *h = trf__from(j->h) + (row << j->gate) * j->width;
        trf_real *to = j->converted ? (trf_real *)(uintptr_t)h : trf__to(j->a) + row * j->width;
        trf__mask mask;
        if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        for (int64_t c = 0; c < j->width; c += 16) {
            int64_t n = j->width - c;
            trf__v16 a = trf__act_of(j->kind, trf__load_n(h + c, n));
            if (j->gate) a = trf__mul(a, trf__load_n(h + j->width + c, n));
            if (dropping) a = trf__mul(a, trf__mask_chunk(&mask, c / 16));
            trf__store_n(to + c, a, n);
        }
        if (j->converted)
            trf__formats[run->format].convert(trf__converted_at(run, j->a, row, j->width), to,
                                              j->width);
    }
}

TRF__TILED_OP(trf__cpu_activate, trf__activate, trf__activate_tile,
              trf__row_tiles(j->rows, j->width))

#if !defined(TRF_NO_TRAIN)

TRF__TILE(trf__activate_gradient_tile)
{
    const trf__activate_gradient *j = (const trf__activate_gradient *)job;
    int dropping = trf__dropping(run, &j->drop);
    TRF__ROWS_OF_TILE(row, j->rows, j->width) {
        trf__mask mask;
        if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        for (int64_t c = 0; c < j->width; c += 16) {
            int64_t at = (row << j->gate) * j->width + c, n = j->width - c;
            const trf_real *h = trf__from(j->h) + at;
            trf_real *dh = trf__to(j->dh) + at;
            trf__v16 u = trf__load_n(h, n);
            trf__v16 da = trf__load_n(trf__from(j->da) + row * j->width + c, n);
            trf__v16 du = trf__mul(da, trf__act_slope(j->kind, u)), factor = trf__set(1);
            if (dropping) du = trf__mul(du, factor = trf__mask_chunk(&mask, c / 16));
            if (j->gate) {
                trf__store_n(dh + j->width, trf__mul(trf__mul(da, factor), trf__act_of(j->kind, u)),
                             n);
                du = trf__mul(du, trf__load_n(h + j->width, n));
            }
            trf__store_n(dh, du, n);
        }
    }
}

TRF__TILED_OP(trf__cpu_activate_gradient, trf__activate_gradient, trf__activate_gradient_tile,
              trf__row_tiles(j->rows, j->width))

#endif

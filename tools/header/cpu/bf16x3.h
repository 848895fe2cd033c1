#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "cpu/gemm.h"
#include "cpu/amx.h"
#include "cpu/bf16.h"

// >>bf16x3         products of floats by instructions for bf16
//
//   x = x0 + x1 + x2     x0 = bf16(x)     x1 = bf16(x - x0)     x2 = x - x0 - x1
//   x w = x2 w0 + x0 w0 + x0 w2 + x0 w1 + x1 w1 + x1 w0
//
// A float has 24 significant bits and a bf16 has 8, so the sum of three is the float itself. (Below
// 2^-103 x2 is too small for tiles.) The products left out, x1 w2, x2 w1 and x2 w2, are at most
// 2^-23 |x w| together: no more than two roundings of a float take away. oneMKL calls this mode
// float_to_bf16x3, XLA calls it BF16_BF16_F32_X6. AMX adds sixteen times as many products of bf16
// as AVX-512 adds products of floats, so six of them take less time.
//
// Every element of C is one chain of additions over k in order, as in >>bf16. A and B are floats in
// memory. Up to TRF__BF16X3_TALL rows of A are split into blocks, which stay in a level-2 cache.
// Then two panels of B at a time are split and multiplied with all these blocks.
//
//   block    up to 32 rows of A: for each 32 numbers x0 of all rows, then x1, then x2
//   word     numbers p and p + 16 of 32, not neighbours as in >>bf16. So two vectors become words
//            without moving numbers from lane to lane

#if !defined(TRF__LEVEL)
enum {
    TRF__BF16X3_LEAST = 48,         /* from so many rows on the products pay for the splitting */
    TRF__BF16X3_TALL = 256,         /* rows of A that are split at a time, and of a tile of C, */
    TRF__BF16X3_DEEP = 384,         /* and numbers of each */
    TRF__BF16X3_TOGETHER = 1024,    /* rows of a pass without a backward pass */
    TRF__BF16X3_WORDS = 48,         /* for 32 numbers in three parts */
    TRF__BF16X3_PANELS = TRF__BF16X3_DEEP * TRF__BF16X3_WORDS,      /* words of two panels */
    TRF__BF16X3_ROOM = TRF__BF16X3_PANELS +
                       TRF__BF16X3_TALL * TRF__BF16X3_DEEP / 32 * TRF__BF16X3_WORDS
};
#endif

#undef TRF__BF16X3
#if TRF__BF16_TILES
#define TRF__BF16X3 1

/* The upper half of each number, after `half` was added to the lower one. 0x8000u rounds to the
   nearest bf16, and away from 0 if two are as near. 0 only cuts. */
TRF__INLINE trf__v16 trf__bf16x3_upper(trf__v16 x, uint32_t half)
{
    TRF__UNROLL for (int i = 0; i < TRF__PARTS; i++)
        x.part[i] = (trf__vec)(((trf__uvec)x.part[i] + half) & 0xFFFF0000u);
    return x;
}

/* Sixteen words of each part, `apart` words from one part to the next. Rounding may turn a NaN into
   a number, but its rest is a NaN. The third part needs no rounding: its lower half is 0, except
   below 2^-126, where it would change the word's other number. */
TRF__INLINE void trf__bf16x3_split(uint32_t *to, int64_t apart, trf__v16 lower, trf__v16 upper)
{
    TRF__UNROLL for (int part = 0; part < 2; part++, to += apart) {
        trf__v16 x = trf__bf16x3_upper(lower, 0x8000u), y = trf__bf16x3_upper(upper, 0x8000u);
        trf__bf16_join(to, x, y);
        lower = trf__sub(lower, x);
        upper = trf__sub(upper, y);
    }
    trf__bf16_join(to, lower, trf__bf16x3_upper(upper, 0));
}

/* A block. Rows are contiguous, or are packed first. */
TRF__FN void trf__bf16x3_block(trf_real *block, trf__view a, int64_t rows, int64_t deep)
{
    const int64_t part = 16 * trf__round_up(rows, 16);
    uint32_t *to = (uint32_t *)(void *)block;
    trf_real packed[2][16 * 32];
    for (int64_t t = 0; t < deep; t += 32, to += 3 * part, a.at += 32 * a.column) {
        const int whole = a.column == 1 && deep - t >= 32;
        const trf_real *lower = whole ? a.at : packed[0], *upper = whole ? a.at + 16 : packed[1];
        const int64_t row = whole ? a.row : 16;
        if (!whole) {
            trf__pack_panel(packed[0], a, rows, deep - t);
            trf__pack_panel(packed[1], trf__view_of(a.at + 16 * a.column, a.row, a.column), rows,
                            deep - t - 16);
        }
        for (int64_t i = 0; i < rows; i++)
            trf__bf16x3_split(to + 16 * i, part, trf__load(lower + i * row),
                              trf__load(upper + i * row));
    }
}

/* `deep` rows of one panel of B or two, `step` numbers apart. */
TRF__FN void trf__bf16x3_panels(uint32_t *to, const trf_real *panels, int64_t step, int64_t n,
                                int64_t deep)
{
    for (int64_t q = 0; q < n; q++)
        for (int64_t t = 0; t < deep; t += 32, to += 3 * 256)
            for (int64_t i = 0; i < 16; i++) {
                const trf_real *row = panels + q * step + 16 * (t + i);
                trf__bf16x3_split(to + 16 * i, 256,
                                  t + i < deep ? trf__load(row) : trf__set(0),
                                  t + i + 16 < deep ? trf__load(row + 16 * 16) : trf__set(0));
            }
}

/* A loads part i of A into tiles 4 and 5. B loads part j of B into tiles 6 and 7. ADD adds their
   products to tiles 0 to 3, and prefetches a sixth of the next 32 numbers of A. */
#define TRF__BF16X3_A(i) \
    TRF__AMX_LOAD(4, a + (i) * part, 64); \
    if (tall) TRF__AMX_LOAD(5, a + (i) * part + 1024, 64);
#define TRF__BF16X3_B(j) \
    TRF__AMX_LOAD(6, b + (j) * 1024, 64); \
    if (wide) TRF__AMX_LOAD(7, b + b_panel + (j) * 1024, 64);
#define TRF__BF16X3_ADD(n) \
    { TRF__UNROLL for (i = 0; i < 16; i++) TRF__PREFETCH(a + 3 * part + 1024 * (n) + 64 * i); } \
    TRF__AMX_BF16(0, 4, 6); \
    if (tall) TRF__AMX_BF16(2, 5, 6); \
    if (wide) TRF__AMX_BF16(1, 4, 7); \
    if (tall && wide) TRF__AMX_BF16(3, 5, 7);

/* One or two times sixteen rows, one or two panels. From one product to the next, one side only is
   loaded. Meanwhile the panels that will be split next come into the level-2 cache. */
TRF__AMX static TRF__UNUSED
void trf__bf16x3_tiles(const trf__bf16_call *x, int64_t rows, int64_t panels)
{
    const int tall = rows > 16, wide = panels > 1;
    const char *a = (const char *)(const void *)x->a, *b = (const char *)(const void *)x->w;
    const char *first = (const char *)(const void *)x->first;
    const size_t part = tall ? 2048 : 1024, b_panel = (size_t)x->w_step * 4;
    const size_t first_row = (size_t)x->first_row * 4, c_row = (size_t)x->ldc * 4;
    const trf_real *next = x->next;
    char *c = (char *)(void *)x->c;
    int i;
    __asm__ volatile("" : : : "memory");    /* as in trf__amx_begin */
    TRF__AMX_LOAD(0, first, first_row);
    if (wide) TRF__AMX_LOAD(1, first + 64, first_row);
    if (tall) TRF__AMX_LOAD(2, first + 16 * first_row, first_row);
    if (tall && wide) TRF__AMX_LOAD(3, first + 16 * first_row + 64, first_row);
    for (int64_t t = 0; t < x->k; t += 32, a += 3 * part, b += 3 * 1024) {
        for (int64_t r = 0; r < x->next_rows; r++, next += 16) {
            TRF__PREFETCH_L2(next);
            TRF__PREFETCH_L2(next + x->next_panel);
        }
        TRF__BF16X3_A(2) TRF__BF16X3_B(0) TRF__BF16X3_ADD(0)
        TRF__BF16X3_A(0) TRF__BF16X3_ADD(1)
        TRF__BF16X3_B(2) TRF__BF16X3_ADD(2)
        TRF__BF16X3_B(1) TRF__BF16X3_ADD(3)
        TRF__BF16X3_A(1) TRF__BF16X3_ADD(4)
        TRF__BF16X3_B(0) TRF__BF16X3_ADD(5)
    }
    TRF__AMX_STORE(0, c, c_row);
    if (wide) TRF__AMX_STORE(1, c + 64, c_row);
    if (tall) TRF__AMX_STORE(2, c + 16 * c_row, c_row);
    if (tall && wide) TRF__AMX_STORE(3, c + 16 * c_row + 64, c_row);
}

static const trf__bf16_kernel trf__bf16x3_kernel = {
    "AMX", trf__has_amx, 1, TRF__BF16_TILE_ROWS, 2, TRF__BF16_TILE_ROWS, TRF__BF16X3_DEEP,
    TRF__BF16X3_WORDS, trf__bf16x3_block, trf__bf16x3_tiles
};

/* Rows row .. row + rows - 1 of C, and numbers t .. t + deep - 1 of A. */
TRF__FN void trf__bf16x3_part(trf_real *scratch, const trf__product *p, const trf_real *panels,
                              int64_t row, int64_t rows, int64_t t, int64_t deep)
{
    const trf__bf16_kernel *kernel = &trf__bf16x3_kernel;
    const int64_t line = trf__bf16_line(kernel, deep), step = 16 * p->k;
    const int64_t fetched = trf__ceil_div(32, trf__ceil_div(rows, kernel->rows));
    uint32_t *b = (uint32_t *)(void *)scratch;
    trf_real *blocks = scratch + TRF__BF16X3_PANELS;
    TRF__ZEROED(trf__bf16_call, call);
    call.k = deep;
    call.w = b;
    call.w_step = 16 * line;
    call.next_rows = fetched;
    for (int64_t i = 0; i < rows; i += kernel->rows)
        kernel->block(blocks + i * line,
                      trf__view_of(p->a.at + (row + i) * p->a.row + t * p->a.column, p->a.row,
                                   p->a.column), trf__min64(kernel->rows, rows - i), deep);
    for (int64_t j = 0; j < p->n; j += 32) {
        const trf_real *now = panels + j * p->k + 16 * t;
        const int64_t n = p->n - j > 16 ? 2 : 1;
        trf__bf16x3_panels(b, now, step, n, deep);
        call.next_panel = p->n - j > 48 ? step : 0;
        call.next = p->n - j > 32 ? now + 2 * step : now;
        for (int64_t i = 0; i < rows; i += kernel->rows) {
            call.a = blocks + i * line;
            trf__bf16_tile(p, kernel, &call, row + i, trf__min64(kernel->rows, rows - i), j, n,
                           t == 0 && !p->add);
            call.next += 16 * fetched * trf__ceil_div(deep, 32);
        }
    }
}

TRF__FN void trf__bf16x3_product(trf_real *scratch, const trf__product *p, const trf_real *panels)
{
    trf__amx_begin();
    for (int64_t t = 0; t < p->k; t += TRF__BF16X3_DEEP)
        for (int64_t i = 0; i < p->m; i += TRF__BF16X3_TALL)
            trf__bf16x3_part(scratch, p, panels, i, trf__min64(TRF__BF16X3_TALL, p->m - i), t,
                             trf__min64(TRF__BF16X3_DEEP, p->k - t));
    trf__amx_end();
}
#else
#define TRF__BF16X3 0
#endif

/* The product with rows of packed float weights as B^T. */
TRF__FN void trf__floats_product(trf_real *scratch, trf__product p, const void *packed, int64_t row)
{
#if TRF__BF16X3
    if (p.bf16x3 && p.k > 0 && row % 16 == 0) {
        trf__bf16x3_product(scratch, &p, (const trf_real *)packed + row * p.k);
        return;
    }
#endif
    trf__panels_product(scratch, p, packed, row);
}

/* Whether products of floats with many rows are split on a device. */
TRF__FN int trf__wants_bf16x3(const trf_device *device, int format)
{
    return TRF__BF16X3 && device->products == TRF_PRODUCTS_BF16X3 && format == TRF__FLOAT32 &&
           trf__may_have_amx();
}

/* Whether a product with so many rows is. These are the rows of the whole op, so that its cut
   into tiles changes no bit. */
TRF__FN int trf__use_bf16x3(const trf__run *run, int64_t rows)
{
    return trf__cpu_of(run)->bf16x3 && rows >= TRF__BF16X3_LEAST;
}

#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "cpu/cblas.h"
#include "cpu/gemm.h"
#include "cpu/int8.h"
#include "cpu/bf16.h"
#include "cpu/bf16x3.h"

// >>format-table   each format, and the conversion of activations
//
/* A format: the bytes of a packed matrix; sixteen numbers of a row; and a product with the rows
   from `row` on as B^T. Matrices are packed panel by panel, so that products can pack their own B:
   a panel of k rows has round_up(k, deep) * 16 numbers of `number` bytes. A format whose rows have
   scales packs whole rows first .. first + rows - 1 instead. stored packs rows that have the
   format's numbers already (trf__pack). If the format's products read converted rows: the bytes of
   a row of k numbers, and its conversion. before: 1 if a product converts all of A before it
   begins. With 0 it converts A block by block, unless the op before has written converted rows;
   convert can then make a part of a row. Nothing else knows the layout of packed weights. */
typedef struct trf__format {
    const char *name;
    size_t (*bytes)(int64_t out, int64_t in);
    trf__v16 (*read)(const void *packed, int64_t row, int64_t c, int64_t in);
    void (*product)(trf_real *scratch, trf__product p, const void *packed, int64_t row);
    void (*panel)(void *packed, int64_t k, int64_t row, int64_t column, trf__view b, int64_t deep,
                  int64_t columns);
    int number, deep;
    void (*rows)(void *packed, const trf_real *w, int64_t first, int64_t rows, int64_t in);
    void (*stored)(void *packed, const void *numbers, int64_t first, int64_t rows, int64_t in,
                   const trf_real *scales);
    size_t (*row_bytes)(int64_t k);
    void (*convert)(void *row, const trf_real *x, int64_t k);
    int before;
} trf__format;

static const trf__format trf__formats[TRF__FORMATS] = {
    { "float32", trf__panels_bytes, trf__panels_read, trf__floats_product, trf__panels_panel,
      (int)sizeof(trf_real), 1, NULL, NULL, NULL, NULL, 0 },
    { "bf16", trf__bf16_bytes, trf__bf16_read, trf__bf16_product, trf__bf16_panel, 2,
      TRF__BF16_DEEP, NULL, trf__bf16_stored, trf__bf16_row_bytes, trf__bf16_row, 0 },
    { "int8", trf__int8_bytes, trf__int8_read, trf__int8_product, NULL, 0, 0, trf__int8_pack,
      trf__int8_stored, trf__int8_row_bytes, trf__int8_convert, 1 }
};

typedef struct trf__conversion {
    const trf__format *format;
    const trf__product *p;
    int64_t rows;               /* of a tile */
} trf__conversion;

TRF__TILE(trf__convert_tile)
{
    const trf__conversion *j = (const trf__conversion *)job;
    const trf__product *p = j->p;
    for (int64_t i = tile * j->rows; i < trf__min64(p->m, (tile + 1) * j->rows); i++)
        j->format->convert((char *)(void *)trf__cpu_of(run)->work + (size_t)i * p->left_step,
                           p->a.at + i * p->a.row, p->k);
}

/* Converts A, whose rows are contiguous, for a product with a packed weight. All tiles of the op
   read it in cpu->work. */
TRF__FN void trf__convert(const trf__run *run, const trf__mat *packed, trf__product *p)
{
    trf__conversion j = { packed ? &trf__formats[packed->format] : NULL, p, 0 };
    if (!packed || !j.format->before) return;
    p->left = (const char *)(const void *)trf__cpu_of(run)->work;
    p->left_step = j.format->row_bytes(p->k);
    j.rows = trf__tile_rows(p->k);
    trf__tiles(run, trf__row_tiles(p->m, p->k), trf__convert_tile, &j);
}

/* Where a converted row begins. */
TRF__FN char *trf__converted_at(const trf__run *run, void *rows, int64_t row, int64_t k)
{
    return (char *)rows + (size_t)row * trf__formats[run->format].row_bytes(k);
}

/* Whether a product reads the packed form of a weight. Rows that begin inside a panel are slow, so
   they use the plain form if there is one. */
TRF__FN int trf__reads_packed(const trf__mat *w)
{
    return w->packed && (!w->plain || w->row % 16 == 0);
}

/* The format that a device's products use for weights that are not packed. */
TRF__FN int trf__format_of(const trf_device *device)
{
    return device->precision == TRF_PRECISION_BF16 ? (int)TRF__BF16 : (int)TRF__FLOAT32;
}

// >>product-tiles  one product: CBLAS or ours, and its tiles
//
// trf__product_all is the product of every op of >>linear. It packs B if that pays, cuts C into
// tiles and runs them. trf__multiply is one tile, and also the product inside other ops' tiles.

/* CBLAS has no bias: it is added afterwards. */
TRF__FN void trf__add_bias(trf_real *y, const trf_real *b, int64_t rows, int64_t columns,
                           int64_t ld)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += 16) {
            trf_real *at = y + r * ld + c;
            int64_t n = columns - c;
            trf__store_n(at, trf__add(trf__load_n(at, n), trf__load_n(b + c, n)), n);
        }
}

/* One product inside a tile: by CBLAS if `blas`, for which one stride of A and of B must be 1. Else
   the built-in one, with B^T as rows of the packed weight w from `row` on, or, if w is NULL, with B
   packed into the worker's scratch. */
TRF__FN void trf__multiply(const trf__run *run, int worker, int blas, const trf__mat *w,
                           int64_t row, trf__product p)
{
#if !defined(TRF_NO_CBLAS)
    if (blas) {
        int by_rows = p.a.column == 1, b_by_rows = p.b.column == 1;
        trf__add_lopenblas_or_define_TRF_NO_CBLAS(
            by_rows, b_by_rows, (int)p.m, (int)p.n, (int)p.k,
            p.a.at, (int)(by_rows ? trf__max64(p.a.row, p.k) : p.a.column),
            p.b.at, (int)(b_by_rows ? trf__max64(p.b.row, p.n) : p.b.column),
            (trf_real)(p.add != 0), p.c, (int)p.ldc);
        if (p.bias) trf__add_bias(p.c, p.bias, p.m, p.n, p.ldc);
        return;
    }
#endif
    (void)blas;
    p.tiles = trf__cpu_of(run)->tiles;
    p.scratch = (int64_t)(trf__cpu_of(run)->scratch_each / sizeof(trf_real));
    if (w) trf__formats[w->format].product(trf__scratch(run, worker), p, w->packed, w->row + row);
    else trf__mm_packing(trf__scratch(run, worker), &p, 0);
}

/* The view of a weight as B = w^T. at is NULL if there are only packed numbers. */
TRF__FN trf__view trf__weight_view(const trf__mat *w, int64_t in)
{
    return trf__view_of(w->plain ? w->plain + w->row * in : NULL, 1, in);
}

/* Whether CBLAS computes a product. Only the number of rows and packed weights decide, so threads
   change no bit. w NULL: nothing is packed. Packed weights with few rows never use CBLAS, even with
   a plain form: so a model with packed weights alone gives the same bits. */
TRF__FN int trf__use_blas(const trf__run *run, int64_t rows, const trf__mat *w)
{
    if (run->format == TRF__BF16) return 0;
    if (w && w->packed && (rows <= TRF__PACKED_ROWS || !w->plain)) return 0;
    return trf__cpu_of(run)->blas && rows > TRF__SKINNY;
}

/* The part of an op's product for which B's panels fit into cpu->work, and its tiles' size. */
typedef struct trf__product_job {
    trf__product p;
    const trf__mat *packed;     /* packed B^T, or NULL */
    int64_t rows, columns;      /* of a tile */
    int blas;
} trf__product_job;

/* Columns of a tile of C (m, n) that has `rows` of its rows. If tiles are fewer than two for each
   thread, they become narrower. They keep at least 64 columns, which pay for starting a tile. */
TRF__FN int64_t trf__columns_each(int64_t m, int64_t n, int64_t rows, int threads)
{
    int64_t most = m <= 256 ? 512 : trf__round_up(trf__max64(1, n), 16),
        across = trf__ceil_div(2 * threads, trf__max64(1, trf__ceil_div(m, rows)));
    if (m <= TRF__SKINNY) return 128;
    if (threads < 2 || across < 2) return most;
    return trf__min64(most, trf__max64(64, trf__round_up(trf__ceil_div(n, across), 32)));
}

/* With >>bf16x3 every tile splits its parts of A and B, so tiles are large: one for each thread, if
   it has at most TRF__BF16X3_TALL rows. */
TRF__FN void trf__bf16x3_divide(trf__product_job *j, int threads)
{
    const int64_t down = trf__ceil_div(j->p.m, TRF__BF16X3_TALL);
    const int64_t across = trf__ceil_div(threads, down);
    j->rows = trf__round_up(trf__ceil_div(j->p.m, down), 32);
    j->columns = trf__max64(64, trf__round_up(trf__ceil_div(j->p.n, across), 32));
}

/* The tiles of CBLAS depend on the product alone, as its bits depend on them. They are large,
   because CBLAS packs its operands anew for each tile. A product has four tiles at least, unless
   they would have fewer than 64 rows and columns. */
TRF__FN void trf__blas_divide(trf__product_job *j)
{
    j->rows = trf__transposed(&j->p) ? 256 : 1024;
    j->columns = trf__transposed(&j->p) ? 256 : trf__max64(1, j->p.n);
    while (trf__ceil_div(j->p.m, j->rows) * trf__ceil_div(j->p.n, j->columns) < 4) {
        int64_t *longer = j->rows >= j->columns ? &j->rows : &j->columns;
        if (*longer <= 64) break;
        *longer = trf__round_up(trf__ceil_div(*longer, 2), 16);
    }
}

/* Sets the size of tiles. Of the built-in product there are two for each thread. Those of a
   transposed A have whole strips or, in 16 bits, blocks, and at most the rows packed at once. */
TRF__FN void trf__product_divide(trf__product_job *j, int threads)
{
    const int bf16 = j->p.bf16x3 || (j->packed && j->packed->format == TRF__BF16);
    const int64_t most = bf16 ? 256 : TRF__TALL;
    const int64_t unit = bf16 ? (int64_t)TRF__BF16_TILE_ROWS : (int64_t)TRF__STRIP;
    const int64_t tiles = trf__ceil_div(j->p.m, most);
    if (j->blas) { trf__blas_divide(j); return; }
    if (!trf__transposed(&j->p) && j->p.bf16x3) { trf__bf16x3_divide(j, threads); return; }
    j->rows = trf__rows_each(j->p.m, threads);
    if (bf16) {
        j->rows = trf__round_up(j->rows, unit);
        if (2 * j->p.n * j->p.k <= TRF__BF16_NEAR) j->rows = trf__min64(j->rows, 64);
    }
    j->columns = trf__columns_each(j->p.m, j->p.n, j->rows, threads);
    if (!trf__transposed(&j->p)) return;
    j->rows = trf__round_up(trf__max64(1, trf__ceil_div(j->p.m, trf__round_up(tiles, 2 * threads))),
                            unit);
    j->columns = trf__round_up(j->p.n, 16);
}

/* One tile of C: the pointers of the whole product, moved to the tile. */
TRF__TILE(trf__product_tile)
{
    const trf__product_job *j = (const trf__product_job *)job;
    int64_t across = trf__ceil_div(j->p.n, j->columns);
    int64_t row = tile / across * j->rows, column = tile % across * j->columns;
    trf__product p = j->p;
    p.c += row * p.ldc + column;
    trf__product_rows(&p, row, trf__min64(j->rows, p.m - row));
    p.n = trf__min64(j->columns, p.n - column);
    if (p.b.at) p.b.at += column * p.b.column;
    if (p.bias) p.bias += column;
    trf__multiply(run, worker, j->blas, j->packed, column, p);
}

/* Rows or columns of B that one tile packs. */
TRF__FN int64_t trf__pack_each(const trf__format *format)
{
    return trf__max64(TRF__PACK, format->deep);
}

/* Packs a part of B into cpu->work: all rows of one panel, or, if B is row-major, some rows of all
   panels, so that memory is read in order. */
TRF__TILE(trf__work_tile)
{
    const trf__product_job *j = (const trf__product_job *)job;
    const trf__product *p = &j->p;
    const trf__format *format = &trf__formats[j->packed->format];
    int64_t by_rows = p->b.column == 1, each = trf__pack_each(format);
    int64_t row = by_rows ? tile * each : 0, column = by_rows ? 0 : tile * each;
    int64_t deep = by_rows ? trf__min64(each, p->k - row) : p->k;
    int64_t end = by_rows ? p->n : trf__min64(p->n, column + each);
    for (; column < end; column += 16)
        format->panel(trf__cpu_of(run)->work, p->k, row, column,
                      trf__view_of(p->b.at + row * p->b.row + column * p->b.column, p->b.row,
                                   p->b.column), deep, p->n - column);
}

/* An op's whole product on all threads. packed: B^T in a format. If it is NULL and CBLAS does not
   compute the product, all threads pack B into cpu->work, as much of it at a time as fits, and then
   multiply. */
TRF__FN void trf__product_all(const trf__run *run, int blas, const trf__mat *packed,
                              const trf__product *whole)
{
    const trf__cpu *cpu = trf__cpu_of(run);
    const trf__format *format = &trf__formats[run->format];
    const trf__mat panels = { NULL, cpu->work, 0, run->format };
    int64_t work = format->panel ? (int64_t)cpu->work_bytes / format->number : 0, deep = whole->k,
        wide = whole->n, t, j;
    int packs = !blas && !packed && work >= TRF__DEEP * 32 && deep > 0 && wide > 0;
    trf__product_job part;
    if (packs) {
        /* all of k if it fits with up to 512 columns, else a multiple of TRF__DEEP; then as many
           columns as fit */
        int64_t fits = work / trf__min64(trf__round_up(wide, 32), 512) / TRF__DEEP * TRF__DEEP;
        deep = trf__min64(deep, trf__max64(TRF__DEEP, fits));
        wide = trf__min64(wide, work / trf__round_up(deep, format->deep) / 32 * 32);
    }
    for (j = 0; j < whole->n; j += wide)
        for (t = 0; t == 0 || t < whole->k; t += deep) {
            part.p = *whole;
            part.p.c += j;
            part.p.n = trf__min64(wide, whole->n - j);
            part.p.k = trf__min64(deep, whole->k - t);
            part.p.a.at += t * whole->a.column;
            if (whole->b.at) part.p.b.at += t * whole->b.row + j * whole->b.column;
            part.p.bias = t == 0 && whole->bias ? whole->bias + j : NULL;
            part.p.add = whole->add || t > 0;
            part.packed = packs ? &panels : packed;
            part.blas = blas;
            part.p.bf16x3 = part.packed && trf__use_bf16x3(run, whole->m);
            trf__product_divide(&part, cpu->threads);
            if (packs)
                trf__tiles(run, trf__ceil_div(part.p.b.column == 1 ? part.p.k : part.p.n,
                                              trf__pack_each(format)), trf__work_tile, &part);
            trf__product_tiles(run, blas, trf__ceil_div(part.p.m, part.rows) *
                               trf__ceil_div(part.p.n, part.columns), trf__product_tile, &part);
            if (deep == 0) break;
        }
}

TRF__INLINE const trf_real *trf__from(const trf__act *a)
{
    return (const trf_real *)(const void *)a;
}
TRF__INLINE trf_real *trf__to(trf__act *a) { return (trf_real *)(void *)a; }

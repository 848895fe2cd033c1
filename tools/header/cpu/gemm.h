#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"

// -----------------------------------------------------------------------------------------------
// >>cpu            the backend that every machine has: the ops in the paper's order
//
// Each op is a tile function (trf__NAME_tile: the work of one worker on one piece) and the op
// itself (trf__cpu_NAME), which cuts the work into tiles. An op's struct is the argument of its
// tiles. Activations are trf_real here: trf__from and trf__to convert the contract's pointers.
// -----------------------------------------------------------------------------------------------

// >>gemm           matrix products: our own, or CBLAS's
//
//   C (m, n) = A (m, k) B (k, n) [+ b of n] [+ C]     A and B with any strides
//
// Every element of C is one chain of multiply-adds over k in order, wherever the matrix is cut. So
// the built-in product gives a row the same bits whatever its neighbours, tiles and threads are. It
// reads B in panels: sixteen columns, row by row (k, 16). A weight (out, in) serves as B = w^T, so
// its panel is sixteen rows of w transposed.
//
// A translator packs its weights once. A trainer's weights change, so it packs them for each
// product into memory that all threads read (cpu->work). An A with contiguous columns is packed
// into a worker's scratch during the product.
//
// trf_products selects the product. CBLAS has one thread: threads are ours (>>tiles).

#if TRF__GNU
#define TRF__PREFETCH(p) __builtin_prefetch(p)
#define TRF__PREFETCH_L2(p) __builtin_prefetch(p, 0, 2)        /* not into the level-1 cache */
#else
#define TRF__PREFETCH(p) (void)(p)
#define TRF__PREFETCH_L2(p) (void)(p)
#endif
#if TRF__GNU && defined(__SSE2__)
/* keeps a vector in a register; without this, compilers load it again at each use */
#define TRF__HOLD(vector) __asm__("" : "+v"(vector))
#else
#define TRF__HOLD(vector) (void)(vector)
#endif

/* The same numbers, opaque to compilers. For arguments of trf__fma that a branch or a mask selects:
   gcc would multiply in each branch, or add under a mask, and then not fuse. */
TRF__INLINE trf__v16 trf__opaque(trf__v16 a)
{
    TRF__UNROLL for (int i = 0; i < TRF__PARTS; i++) TRF__HOLD(a.part[i]);
    return a;
}

enum {
    TRF__MM_ROWS = 6,               /* rows of C at a time: their sums fit into registers */
    /* up to so many rows take two panels at a time */
    TRF__MM_PAIRED = TRF__PARTS == 1 ? INT32_MAX : TRF__PARTS == 2 ? 2 : 0,
    TRF__DEEP = 256,                /* rows of B at a time: a panel is half a level-1 cache */
    TRF__FAR = 64,                  /* rows of B that are prefetched if C has few rows */
    TRF__SHARES = 4,                /* calls of a kernel that prefetch the next panel together */
    TRF__STRIP = 2 * TRF__MM_ROWS,  /* rows of A in a packed strip, of C in 32 registers */
    TRF__TALL = 10 * TRF__STRIP,    /* rows of C at a time if A has contiguous columns */
    TRF__ROOM = 1 << 20,            /* the most numbers of a weight that are packed at a time */
    TRF__PACK = 16,                 /* rows or columns of a weight that one tile packs */
    TRF__SKINNY = 16,               /* up to so many rows CBLAS is never called, */
    TRF__PACKED_ROWS = 512          /* nor up to so many if there are packed weights */
};

/* Element (i, j) of a matrix is at[i * row + j * column]. */
typedef struct trf__view { const trf_real *at; int64_t row, column; } trf__view;

TRF__FN trf__view trf__view_of(const trf_real *at, int64_t row, int64_t column)
{
    trf__view view = { at, row, column };
    return view;
}

/* C (m, n) = A (m, k) B (k, n), or += with `add`. Without `add` each row of C begins with `bias`,
   if there is one. If B is in panels its view is that of whole panels: row t, columns 16 p .. 16 p
   + 15 are at at + t * row + p * column, and 16 of them may be read. */
typedef struct trf__product {
    trf_real *c;
    int64_t ldc, m, n, k;
    trf__view a, b;
    int64_t strip;              /* 0, or how far apart strips of A are (>>panels) */
    const trf_real *bias;
    int add;
    const char *left;           /* A as a format's products read it (>>formats), or NULL, and */
    size_t left_step;           /* the bytes between its rows */
    int tiles;                  /* trf__cpu.tiles */
    int bf16x3;                 /* 1: floats are multiplied in three parts (>>bf16x3) */
    int64_t scratch;            /* numbers of scratch for a format's product */
} trf__product;

TRF__FN trf__product trf__product_of(trf_real *c, int64_t ldc, int64_t m, int64_t n, int64_t k,
                                     trf__view a, trf__view b, int add)
{
    trf__product p = { c, ldc, m, n, k, a, b, 0, NULL, add, NULL, 0, 0, 0, 0 };
    return p;
}

/* Only rows row .. row + rows - 1 of A, in both of its forms. */
TRF__FN void trf__product_rows(trf__product *p, int64_t row, int64_t rows)
{
    p->m = rows;
    p->a.at += row * p->a.row;
    if (p->left) p->left += (size_t)row * p->left_step;
}

// >>gemm-kernels   a few rows of C, whose sums are in registers
//
// The loop over panels and rows around the kernels is trf__mm.

/* R rows and P panels of C in registers: c[r][q] (+)= sum over t of a[r][t] * b[t][q]. The last
   panel has n_last columns. The kernel prefetches meanwhile. With 2 to 5 rows: B, `ahead` rows
   early, at the end `next`, the panels that follow. With 1 or 6 rows: `next`, `ahead` numbers
   further with each step. */
#define TRF__MM_KERNEL(R, P) \
TRF__FN \
void TRF__NAMED(trf__mm_##R##_##P)(const trf__product *x, const trf_real *a, const trf_real *b, \
                                   const trf_real *next, int64_t ahead, const trf_real *bias, \
                                   trf_real *c, int64_t n_last) \
{ \
    trf__v16 sum[R][P]; \
    int64_t t, k = x->k, a_row = x->a.row, a_step = x->a.column, b_step = x->b.row, \
        b_panel = x->b.column; \
    int64_t ldc = x->ldc; \
    int r, p, add = x->add; \
    TRF__UNROLL for (r = 0; r < R; r++) TRF__UNROLL for (p = 0; p < P; p++) { \
        const trf_real *first = add ? c + r * ldc : bias; \
        sum[r][p] = first ? trf__load_n(first + 16 * p, p == P - 1 ? n_last : 16) : trf__set(0); \
    } \
    for (t = 0; t < k; t++) { \
        trf__v16 column[P]; \
        const trf_real *later = R == 1 || R == TRF__MM_ROWS ? next + t * ahead \
                              : t + ahead < k ? b + (t + ahead) * b_step \
                                  : next + (t + ahead - k) * b_step; \
        TRF__UNROLL for (p = 0; p < P; p++) { \
            column[p] = trf__load(b + p * b_panel + t * b_step); \
            TRF__UNROLL for (r = 0; r < TRF__PARTS; r++) TRF__HOLD(column[p].part[r]); \
        } \
        TRF__UNROLL for (p = 0; p < P; p++) TRF__PREFETCH(later + p * b_panel); \
        TRF__UNROLL for (r = 0; r < R; r++) { \
            trf__v16 value = trf__set(a[r * a_row + t * a_step]); \
            TRF__UNROLL for (p = 0; p < P; p++) sum[r][p] = trf__fma(value, column[p], sum[r][p]); \
        } \
    } \
    TRF__UNROLL for (r = 0; r < R; r++) TRF__UNROLL for (p = 0; p < P; p++) \
        trf__store_n(c + r * ldc + 16 * p, sum[r][p], p == P - 1 ? n_last : 16); \
}
/* X for each number of rows that a kernel may have. */
#define TRF__EACH_ROWS(X, P) X(1, P) X(2, P) X(3, P) X(4, P) X(5, P) X(6, P)
TRF__EACH_ROWS(TRF__MM_KERNEL, 1)
TRF__EACH_ROWS(TRF__MM_KERNEL, 2)

#if TRF__PARTS == 1
/* The same for twelve rows (TRF__STRIP) and two panels, whose sums fill 24 of 32 registers: a load
   serves more multiply-adds. Rows of B are 16 numbers apart. Four steps of the loop share the
   additions to addresses. A(r, q) is the number of A in row r, q columns further. Columns are
   `step` numbers apart. a, a3, a6 and a9 begin three rows each: an address can have one or two
   distances between rows added to it. */
#define TRF__MM_STEP(q, A) \
    left = trf__load(b + 16 * (q)); \
    right = trf__load(b + b_panel + 16 * (q)); \
    TRF__HOLD(left.part[0]); \
    TRF__HOLD(right.part[0]); \
    TRF__PREFETCH(next); \
    TRF__PREFETCH(next + b_panel); \
    next += ahead; \
    TRF__UNROLL for (r = 0; r < TRF__STRIP; r++) { \
        trf__v16 value = trf__set(A(r, q)); \
        sum[r][0] = trf__fma(value, left, sum[r][0]); \
        sum[r][1] = trf__fma(value, right, sum[r][1]); \
    }
#define TRF__MM_TWELVE(name, A, step) \
TRF__FN void name(const trf__product *x, const trf_real *a, const trf_real *b, \
                  const trf_real *next, int64_t ahead, const trf_real *bias, trf_real *c, \
                  int64_t n_last) \
{ \
    trf__v16 sum[TRF__STRIP][2], left, right; \
    int64_t t, k = x->k, a_row = x->a.row, b_panel = x->b.column, ldc = x->ldc; \
    const trf_real *a3 = a + 3 * a_row, *a6 = a + 6 * a_row, *a9 = a + 9 * a_row; \
    int r, p, add = x->add; \
    TRF__UNROLL for (r = 0; r < TRF__STRIP; r++) TRF__UNROLL for (p = 0; p < 2; p++) { \
        const trf_real *first = add ? c + r * ldc : bias; \
        sum[r][p] = first ? trf__load_n(first + 16 * p, p ? n_last : 16) : trf__set(0); \
    } \
    for (t = 0; t + 4 <= k; t += 4) { \
        TRF__MM_STEP(0, A) TRF__MM_STEP(1, A) \
        TRF__MM_STEP(2, A) TRF__MM_STEP(3, A) \
        a += 4 * (step); a3 += 4 * (step); a6 += 4 * (step); a9 += 4 * (step); b += 64; \
    } \
    for (; t < k; t++) { \
        TRF__MM_STEP(0, A) \
        a += step; a3 += step; a6 += step; a9 += step; b += 16; \
    } \
    (void)a3; (void)a6; (void)a9; \
    TRF__UNROLL for (r = 0; r < TRF__STRIP; r++) TRF__UNROLL for (p = 0; p < 2; p++) \
        trf__store_n(c + r * ldc + 16 * p, sum[r][p], p ? n_last : 16); \
}
#define TRF__OF_ROWS(r, q) (r < 3 ? a : r < 6 ? a3 : r < 9 ? a6 : a9)[r % 3 * a_row + (q)]
#define TRF__OF_STRIP(r, q) a[r + TRF__STRIP * (q)]
TRF__MM_TWELVE(trf__mm_rows, TRF__OF_ROWS, 1)
TRF__MM_TWELVE(trf__mm_strip, TRF__OF_STRIP, TRF__STRIP)
#endif

/* The offset of row i of A. */
TRF__INLINE int64_t trf__strip_row(const trf__product *p, int64_t i)
{
    return p->strip ? i / TRF__STRIP * p->strip + i % TRF__STRIP : i * p->a.row;
}

/* How many rows of C a kernel takes, if so many are left and there are two panels. */
TRF__INLINE int64_t trf__group_of(const trf__product *p)
{
    int twelve = TRF__PARTS == 1 && p->m >= TRF__STRIP && p->b.row == 16 &&
                 (p->strip ? p->a.row == 1 && p->a.column == TRF__STRIP : p->a.column == 1);
    return twelve ? TRF__STRIP : TRF__MM_ROWS;
}

/* The product with B in panels. A level-1 cache holds TRF__DEEP rows of a panel while all rows of A
   are multiplied with them. If A has few rows, each panel is read once, in order. */
TRF__FN void trf__mm(trf__product p)
{
    int64_t k = p.k, deep = trf__max64(p.m > TRF__MM_ROWS ? (int64_t)TRF__DEEP : k, 1);
    int64_t group = trf__group_of(&p), rows;        /* rows of a call */
    int64_t shares = p.m < TRF__SHARES * group ? 1 : TRF__SHARES;
    for (int64_t done = 0; done == 0 || done < k; done += deep) {
        p.k = trf__min64(deep, k - done);
        for (int64_t j = 0; j < p.n; ) {
            /* two panels at a time use more registers for sums, which pays with few rows */
            int two = p.m <= TRF__MM_PAIRED && p.n - j > 16;
            int64_t width = two ? trf__min64(32, p.n - j) : trf__min64(16, p.n - j);
            int64_t last = two ? width - 16 : width;
            const trf_real *b = p.b.at + j / 16 * p.b.column + done * p.b.row;
            const trf_real *bias = p.bias ? p.bias + j : NULL;
            for (int64_t i = 0; i < p.m; i += rows) {
                const trf_real *a = p.a.at + trf__strip_row(&p, i) + done * p.a.column;
                /* Calls for the first `shares` groups of rows each prefetch a part of the next
                   panels; others fetch what is in the cache already. */
                const trf_real *next = j + width == p.n || i >= shares * group ? b
                    : b + trf__ceil_div(width, 16) * p.b.column + i / group *
                    (p.k / shares) * p.b.row;
                trf_real *c = p.c + i * p.ldc + j;
                int64_t ahead;
                rows = two && p.m - i >= group ? group : trf__min64(TRF__MM_ROWS, p.m - i);
                ahead = rows > 1 && rows < TRF__MM_ROWS ? trf__min64(TRF__FAR, p.k)
                    : p.b.row / shares;
#if TRF__PARTS == 1
                if (rows == TRF__STRIP) {
                    (p.strip ? trf__mm_strip : trf__mm_rows)(&p, a, b, next, ahead, bias, c, last);
                    continue;
                }
#endif
                /* a kernel for each number of rows, so that its sums are registers */
                switch (rows + 8 * two) {
#define TRF__CASE(R, P) case R + 8 * (P - 1): \
                    TRF__NAMED(trf__mm_##R##_##P)(&p, a, b, next, ahead, bias, c, last); break;
                TRF__EACH_ROWS(TRF__CASE, 1) TRF__EACH_ROWS(TRF__CASE, 2)
#undef TRF__CASE
                default: break;
                }
            }
            j += width;
        }
        p.add = 1;
    }
}

// >>panels         sixteen columns side by side; strips of rows
//
// Packing: the kernels of >>gemm load sixteen neighbours of a row of B and six numbers of a column
// of A, so matrices of other layouts are rearranged before the product.

/* Packs `deep` rows of one panel of B into (deep, 16); missing columns become 0. If columns of B
   are contiguous, blocks of four by four are transposed. */
TRF__FN void trf__pack_panel(trf_real *panel, trf__view b, int64_t deep, int64_t columns)
{
    int64_t t = 0;
    /* columns are contiguous: four rows of four at a time */
    for (; columns >= 16 && b.row == 1 && t + 4 <= deep; t += 4)
        for (int64_t j = 0; j < 16; j += 4) {
            const trf_real *at = b.at + t + j * b.column;
            const trf_real *from[4] = { at, at + b.column, at + 2 * b.column, at + 3 * b.column };
            trf__transpose4(panel + 16 * t + j, 16, from);
        }
    for (; t < deep; t++) {
        const trf_real *from = b.at + t * b.row;
        if (columns >= 16 && b.column == 1) {
            trf__store(panel + 16 * t, trf__load(from)); continue;
        }
        for (int64_t j = 0; j < 16; j++) panel[16 * t + j] = j < columns ? from[j * b.column] : 0;
    }
}

/* Packs rows of `bytes` bytes into a panel of words of four bytes: `deep` words of each of sixteen
   rows. Words and rows that are missing become 0. Numbers of one and two bytes move as they are. */
TRF__FN void trf__pack_words(void *panel, const char *rows, int64_t bytes, int64_t n, int64_t deep)
{
    int64_t t = 0;
#if TRF__SHUFFLES && TRF__REAL_BYTES == 4       /* vectors move any bits as floats */
    for (; n >= 16 && 4 * (t + 4) <= bytes; t += 4)
        for (int64_t r = 0; r < 16; r += 4) {
            const trf_real *from[4];
            TRF__UNROLL for (int k = 0; k < 4; k++)
                from[k] = (const trf_real *)(const void *)(rows + (r + k) * bytes + 4 * t);
            trf__transpose4((trf_real *)panel + 16 * t + r, 16, from);
        }
#endif
    for (; t < deep; t++)
        for (int64_t r = 0; r < 16; r++) {
            const int64_t left = r < n ? trf__min64(4, bytes - 4 * t) : 0;
            char *to = (char *)panel + 4 * (16 * t + r);
            memset(to, 0, 4);
            if (left > 0) memcpy(to, rows + r * bytes + 4 * t, (size_t)left);
        }
}

/* Numbers of scratch that a worker's product needs: for two panels of B, and for strips of A. 16
   numbers lie between strips, since writing one may overrun its end. */
enum { TRF__STRIPS = (TRF__TALL + TRF__STRIP - 1) / TRF__STRIP,
       TRF__GEMM_SCRATCH = TRF__DEEP * (32 + TRF__STRIPS * TRF__STRIP) + 16 * TRF__STRIPS };

/* Whether A is the transpose of a row-major matrix: its rows are strided, and TRF__TALL of them at
   most are packed. */
TRF__FN int trf__transposed(const trf__product *p) { return p->a.row == 1 && p->a.column != 1; }

/* Packs a transposed A into strips: TRF__STRIP numbers of each of `deep` columns, one column after
   another. Whole vectors are read and written: the numbers beyond a strip are overwritten by its
   next column. last: A ends after these columns, so nothing beyond the last one may be read. */
TRF__FN void trf__pack_strips(trf_real *to, const trf__product *p, trf__view a, int64_t deep,
                              int last)
{
    int64_t i, further = TRF__STRIP * deep + 16, careful = a.column < 16 ? deep : last;
    for (int64_t t = 0; t < deep; t++, a.at += a.column, to += TRF__STRIP) {
        trf_real *strip = to;
        for (i = 0; t < deep - careful && i < p->m; i += TRF__STRIP, strip += further)
            trf__store(strip, trf__load(a.at + i));
        for (; i < p->m; i += TRF__STRIP, strip += further)
            trf__store(strip, trf__load_n(a.at + i, p->m - i));
    }
}

/* The built-in product with packing into scratch during the product: of A if it is transposed, and
   of B unless it is in panels already. */
TRF__FN void trf__mm_packing(trf_real *scratch, const trf__product *p, int in_panels)
{
    int64_t columns, wide = in_panels ? p->n : TRF__PARTS == 1 ? 32 : 16;
    trf_real *tall = scratch + TRF__DEEP * 32;
    for (int64_t t = 0; t == 0 || t < p->k; t += TRF__DEEP) {
        int64_t deep = trf__min64(TRF__DEEP, p->k - t);
        trf__view a = trf__view_of(p->a.at + t * p->a.column, p->a.row, p->a.column);
        trf__view b = trf__view_of(p->b.at + t * p->b.row, p->b.row, p->b.column);
        if (trf__transposed(p)) {
            trf__pack_strips(tall, p, a, deep, t + deep == p->k);
            a = trf__view_of(tall, 1, TRF__STRIP);
        }
        for (int64_t j = 0; j < p->n; j += columns) {
            trf__product part = trf__product_of(p->c + j, p->ldc, p->m, wide, deep, a, b, p->add ||
                                                t > 0);
            part.n = columns = trf__min64(wide, p->n - j);
            part.strip = trf__transposed(p) ? TRF__STRIP * deep + 16 : 0;
            part.bias = p->bias ? p->bias + j : NULL;
            if (!in_panels) {
                for (int64_t q = 0; q < columns; q += 16, b.at += 16 * b.column)
                    trf__pack_panel(scratch + q * deep, b, deep, columns - q);
                part.b = trf__view_of(scratch, 16, 16 * deep);
            }
            trf__mm(part);
        }
    }
}

// >>formats        the layout of packed weights
//
// A format's functions are in the table trf__formats (>>format-table). Ops use packed weights
// through that table only.

/* float32: panels of w^T, one after another, the last one padded with zeros. */
TRF__FN size_t trf__panels_bytes(int64_t out, int64_t in)
{
    return trf__bytes(trf__mul_counts(trf__round_up(out, 16), in), sizeof(trf_real));
}

/* Packs rows row .. row + deep - 1 of the panel that begins at `column`. b: these rows of B from
   that column on; B has k rows. */
TRF__FN void trf__panels_panel(void *packed, int64_t k, int64_t row, int64_t column, trf__view b,
                               int64_t deep, int64_t columns)
{
    trf__pack_panel((trf_real *)packed + column * k + 16 * row, b, deep, columns);
}

/* Columns c .. c + 15 of row `row` of w; 0 beyond its end. For the embedding, which reads single
   rows of a packed weight. */
TRF__FN trf__v16 trf__panels_read(const void *packed, int64_t row, int64_t c, int64_t in)
{
    const trf_real *from = (const trf_real *)packed + row / 16 * 16 * in + c * 16 + row % 16;
    trf_real x[TRF__WIDE];
    for (int64_t i = 0; i < TRF__WIDE; i++) x[i] = i < in - c ? from[16 * i] : 0;
    return trf__load(x);
}

/* A product whose rows begin inside a panel: it collects sixteen rows from two panels. */
TRF__FN void trf__panels_across(trf_real *scratch, const trf__product *p, const trf_real *packed,
                                int64_t row)
{
    for (int64_t t = 0; t == 0 || t < p->k; t += TRF__DEEP)
        for (int64_t j = 0; j < p->n; j += 16) {
            int64_t deep = trf__min64(TRF__DEEP, p->k - t);
            trf__view a = trf__view_of(p->a.at + t * p->a.column, p->a.row, p->a.column);
            trf__view b = trf__view_of(scratch, 16, 16 * deep);
            trf__product part = trf__product_of(p->c + j, p->ldc, p->m, trf__min64(16, p->n - j),
                                                deep, a, b, p->add || t > 0);
            for (int64_t i = 0; i < 16; i++) {
                int64_t at = row + j + (i < part.n ? i : 0);
                const trf_real *from = packed + at / 16 * 16 * p->k + t * 16 + at % 16;
                for (int64_t k = 0; k < deep; k++) scratch[16 * k + i] = from[16 * k];
            }
            part.bias = p->bias ? p->bias + j : NULL;
            trf__mm(part);
        }
}

TRF__FN void trf__panels_product(trf_real *scratch, trf__product p, const void *packed, int64_t row)
{
    const trf_real *panels = (const trf_real *)packed;
    p.b = trf__view_of(panels + row / 16 * 16 * p.k, 16, 16 * p.k);
    if (row % 16) trf__panels_across(scratch, &p, panels, row);
    else if (trf__transposed(&p)) trf__mm_packing(scratch, &p, 1);
    else trf__mm(p);
}

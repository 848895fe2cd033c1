#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cpu/threads.h"
#include "cpu/products.h"

// >>dropout        paper 5.4: masks
//
//   y = x * scale where bits >= threshold, else 0      the backward is the same with dy
//
// Feature f of a row takes 16 of the 128 * 16 bits that sixteen Philox blocks give: blocks are
// counted by (group of 128 features * 16 + lane, position, sentence, step) under the key (seed,
// site); inside a group, features 16 c .. 16 c + 15 take one half of one word of the sixteen lanes.
// So a mask depends only on the position of its feature: not on the batch, the threads, or the
// machine. (Attention weights have other counters: see >>attention.)

#if !defined(TRF__LEVEL)
/* Whether a dropout applies: run->now is NULL outside training. */
TRF__INLINE int trf__dropping(const trf__run *run, const trf__drop *drop)
{
    return run->now && drop->threshold;
}

/* The masks of one row, sixteen features at a time. The words of one group of 128 features are
   kept, as they serve eight calls. */
typedef struct trf__mask {
    const trf__now *now;
    const trf__drop *drop;
    uint32_t position, sentence;
    int64_t group;              /* the group of 128 features of these words; -1: none */
    uint32_t words[4][TRF__WIDE];
} trf__mask;

TRF__INLINE int64_t trf__position(const trf__rows *at, int64_t row)
{
    return at->position ? at->position[row] : row;
}

TRF__FN trf__mask trf__mask_of_row(const trf__run *run, const trf__drop *drop, const trf__rows *at,
                                   int64_t row)
{
    trf__mask mask;
    mask.now = run->now;
    mask.drop = drop;
    mask.position = (uint32_t)trf__position(at, row);
    mask.sentence = at->sentence ? (uint32_t)at->sentence[row] : 0;
    mask.group = -1;
    return mask;
}
#endif

/* The factors of features 16 * chunk .. + 15: scale or 0. Chunks in ascending order compute each
   group of words once. */
TRF__INLINE trf__v16 trf__mask_chunk(trf__mask *mask, int64_t chunk)
{
    uint16_t bits[TRF__WIDE];
    uint32_t shift = chunk & 1 ? 16 : 0;
    if (chunk >> 3 != mask->group) {
        uint32_t counter[2][TRF__WIDE];
        mask->group = chunk >> 3;
        for (int i = 0; i < TRF__WIDE; i++) {
            counter[0][i] = (uint32_t)mask->group * 16 + (uint32_t)i;
            counter[1][i] = mask->position;
        }
        trf__philox16(counter[0], counter[1], mask->sentence, mask->now->step, mask->now->key0,
                      trf__site_key(mask->now, mask->drop), mask->words);
    }
    const uint32_t *words = mask->words[chunk >> 1 & 3];
    for (int i = 0; i < TRF__WIDE; i++) bits[i] = (uint16_t)(words[i] >> shift & 0xFFFF);
    return trf__kept(bits, mask->drop->threshold, mask->drop->scale);
}

// >>embed          paper 3.4, 3.5
//
//   y[r] = scale * weight[id[r]] + table[position[r]] + segments[segment[r]], then dropout
//   id < 0: the zero vector instead of a weight
//   weight: (vocab, d)   table: (max_length, d) or NULL   segments: (segments, d) or NULL
//   y: (rows, d)
//
//   with g = drop(dy):   dweight[id[r]] += scale * g[r]     dtable[position[r]] += g[r]
//                        dsegments[segment[r]] += g[r]
//   A tile of the gradient has 16 columns. It takes the ids in groups of equal ones, and the rows
//   of a group in order, so that every sum has one order. Positions and segments follow, in the
//   order of rows.

/* The weight may be only packed: then a row is read through its format. */
TRF__TILE(trf__embed_tile)
{
    const trf__embed *j = (const trf__embed *)job;
    const trf__format *format = &trf__formats[j->weight.format];
    int dropping = trf__dropping(run, &j->drop);
    TRF__ROWS_OF_TILE(row, j->rows, j->d) {
        const trf_real *w = j->ids[row] < 0 || !j->weight.plain ? NULL : j->weight.plain +
            j->ids[row] * j->d;
        const trf_real *p = j->table ? j->table + trf__position(&j->at, row) * j->d : NULL;
        const trf_real *s = j->segments ? j->segments + j->segment[row] * j->d : NULL;
        trf__mask mask;
        if (dropping) mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        for (int64_t c = 0; c < j->d; c += 16) {
            int64_t n = j->d - c;
            trf__v16 value = p ? trf__load_n(p + c, n) : trf__set(0);
            if (s) value = trf__add(value, trf__load_n(s + c, n));
            if (w) value = trf__fma(trf__load_n(w + c, n), trf__set(j->scale), value);
            else if (j->ids[row] >= 0)
                value = trf__fma(format->read(j->weight.packed, j->ids[row], c, j->d),
                                 trf__set(j->scale), value);
            if (dropping) value = trf__mul(value, trf__mask_chunk(&mask, c / 16));
            trf__store_n(trf__to(j->y) + row * j->d + c, value, n);
        }
    }
}

TRF__TILED_OP(trf__cpu_embed, trf__embed, trf__embed_tile, trf__row_tiles(j->rows, j->d))

#if !defined(TRF_NO_TRAIN)

/* dy = drop(dy), in place. */
TRF__TILE(trf__embed_drop_tile)
{
    const trf__embed_gradient *j = (const trf__embed_gradient *)job;
    TRF__ROWS_OF_TILE(row, j->rows, j->d) {
        trf__mask mask = trf__mask_of_row(run, &j->drop, &j->at, row);
        trf_real *dy = trf__to(j->dy) + row * j->d;
        for (int64_t c = 0; c < j->d; c += 16)
            trf__store_n(dy + c, trf__mul(trf__load_n(dy + c, j->d - c),
                                          trf__mask_chunk(&mask, c / 16)), j->d - c);
    }
}

/* Columns c to c + 15 of a table of gradients become zero, before the first micro-batch adds. */
TRF__FN void trf__zero_columns(trf_real *table, int64_t rows, int64_t d, int64_t c)
{
    for (int64_t row = 0; row < rows; row++)
        memset(table + row * d + c, 0, (size_t)trf__min64(16, d - c) * sizeof *table);
}

/* Columns c to c + 15 of the gradient of a table whose row `place` (NULL: the row's position) is
   added to each row. */
TRF__FN void trf__table_gradient(const trf__embed_gradient *j, trf_real *table, int64_t size,
                                 const int32_t *place, int64_t c)
{
    const trf_real *dy = trf__from(j->dy);
    int64_t n = j->d - c;
    if (j->first_table) trf__zero_columns(table, size, j->d, c);
    for (int64_t row = 0; row < j->rows; row++) {
        trf_real *to = table + (place ? place[row] : trf__position(&j->at, row)) * j->d + c;
        trf__store_n(to, trf__add(trf__load_n(dy + row * j->d + c, n), trf__load_n(to, n)), n);
    }
}

/* A tile writes only its own columns, so two rows with the same id never meet in two threads. */
TRF__TILE(trf__embed_gradient_tile)
{
    const trf__embed_gradient *j = (const trf__embed_gradient *)job;
    const trf_real *dy = trf__from(j->dy);
    int64_t c = tile * 16, n = j->d - c;
    if (j->first) trf__zero_columns(j->dweight, j->vocab, j->d, c);
    for (int64_t k = 0; k < j->groups.n; k++) {
        const int32_t *rows = j->groups.rows;
        /* only lists at the end are empty */
        if (j->groups.first[k] == j->groups.first[k + 1]) break;
        trf_real *dw = j->dweight + j->ids[rows[j->groups.first[k]]] * j->d + c;
        trf__v16 sum = trf__load_n(dw, n);
        for (int64_t i = j->groups.first[k]; i < j->groups.first[k + 1]; i++)
            sum = trf__fma(trf__load_n(dy + rows[i] * j->d + c, n), trf__set(j->scale), sum);
        trf__store_n(dw, sum, n);
    }
    if (j->dtable) trf__table_gradient(j, j->dtable, j->positions, NULL, c);
    if (j->dsegments) trf__table_gradient(j, j->dsegments, j->n_segments, j->segment, c);
}

/* Dropout first: dy is read once for ids, for positions and for segments. */
TRF__FN void trf__cpu_embed_gradient(const trf__run *run, const trf__embed_gradient *j)
{
    if (trf__dropping(run, &j->drop))
        trf__tiles(run, trf__row_tiles(j->rows, j->d), trf__embed_drop_tile, j);
    trf__tiles(run, trf__ceil_div(j->d, 16), trf__embed_gradient_tile, j);
}

#endif

#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "ops/beam_step.h"
#include "ops/rules.h"
#include "cpu/threads.h"
#include "cpu/gemm.h"
#include "cpu/bf16x3.h"
#include "cpu/products.h"
#include "cpu/linear.h"
#include "cpu/attention.h"

// >>top            the best next tokens of a row of logits
//
//   z = x w^T + b; log-softmax of each row; its n best tokens, best first, equal ones by lowest id
//
// Logits exist for TRF__TOP_ROWS rows and a slice of TRF__TOP_COLUMNS tokens at a time, and stay in
// a cache. The result of a slice is its maximum, its sum of exponentials and its n best tokens. A
// second pass merges the slices of each row in order.

enum {
    TRF__TOP_ROWS = 64, TRF__TOP_COLUMNS = 1024,
    TRF__TOP_GROUP = 16,                        /* tokens of a group, */
    TRF__TOP_BLOCK = TRF__WIDE * TRF__TOP_GROUP /* and of sixteen groups */
};

typedef struct trf__top_job {
    const trf__top *t;
    int64_t slices, rows, columns;      /* rows, columns: of the logits that exist at a time */
    trf_real *z;                        /* (threads, rows, columns) */
    trf_real *sums;                     /* (rows, slices, 2) maximum, and sum of exp(z - maximum) */
    /* (threads, rows) a logit that n tokens of the row reach, as far as this worker knows: no token
       below it is among the n best */
    trf_real *floor;
    trf_real *best;                     /* (rows, slices, n) best first, and their ids; -1: none */
    int32_t *ids;
    int blas;
    trf__product all;                   /* all rows and tokens; tiles set where their logits go */
} trf__top_job;

/* Cuts the scratch of top. Logits and floors exist for each thread, results for each row. */
TRF__FN size_t trf__top_scratch_layout(void *work, const trf_device *device, int64_t rows,
                                       int64_t vocab, int64_t n, trf__top_job *j)
{
    trf__cursor cursor = trf__cursor_at(work);
    j->slices = trf__ceil_div(vocab, TRF__TOP_COLUMNS);
    j->rows = trf__min64(rows, TRF__TOP_ROWS);
    j->columns = trf__min64(trf__round_up(vocab, 16), TRF__TOP_COLUMNS);
    j->z = trf__take_reals(&cursor, device->threads * j->rows, j->columns);
    j->sums = trf__take_reals(&cursor, rows, 2 * j->slices);
    j->floor = trf__take_reals(&cursor, device->threads, rows);
    j->best = trf__take_reals(&cursor, rows, j->slices * n);
    j->ids = (int32_t *)trf__take(&cursor, rows,
                                  trf__bytes(j->slices, trf__bytes(n, sizeof(int32_t))));
    return cursor.used;
}

TRF__FN size_t trf__cpu_top_scratch(const trf_device *device, int64_t rows, int64_t vocab,
                                    int64_t n)
{
    trf__top_job job;
    return trf__top_scratch_layout(NULL, device, rows, vocab, n, &job);
}

/* Inserts a token into a sorted list of at most n with `found` entries, and returns the new number.
   A token is better if its logit is larger, or equal and its id lower. */
TRF__INLINE int64_t trf__top_insert(trf_real *best, int32_t *ids, int64_t n, int64_t found,
                                    trf_real value, int32_t id)
{
#define TRF__BETTER(k) (value > best[k] || (value == best[k] && id < ids[k]))
    int64_t i = found < n ? found : n - 1;
    if (found == n && !TRF__BETTER(i)) return found;
    for (; i > 0 && TRF__BETTER(i - 1); i--) { best[i] = best[i - 1]; ids[i] = ids[i - 1]; }
#undef TRF__BETTER
    best[i] = value;
    ids[i] = id;
    return found < n ? found + 1 : n;
}

/* The sum of exp(z - maximum) over whole vectors of logits. */
TRF__FN trf_real trf__exp_sum(const trf_real *z, int64_t n, trf_real maximum)
{
    trf__v16 sum = trf__set(0), m = trf__set(maximum);
    for (int64_t c = 0; c < n; c += 16)
        sum = trf__add(sum, trf__exp(trf__sub(trf__load(z + c), m)));
    return trf__sum(sum);
}

/* The maxima of the sixteen groups of a block of at most TRF__TOP_BLOCK logits, in whole vectors.
   Group g has logits g, g + 16, g + 32, ...: so no lane of a vector meets another. */
TRF__FN void trf__top_groups(trf_real most[TRF__WIDE], const trf_real *z, int64_t n)
{
    trf__v16 top = trf__set(-(trf_real)FLT_MAX);
    for (int64_t c = 0; c < n; c += 16) top = trf__max(top, trf__load(z + c));
    trf__store(most, top);
}

/* Takes penalized and banned ids out of a slice after its softmax. Saves the logit of a penalized
   id once. An id that only continues a phrase stays in. */
TRF__FN void trf__top_rule(const trf__rules *r, int64_t row, trf_real *z, int64_t column,
                           int64_t columns)
{
    int64_t k = 0;
    TRF__BISECT(k, r->n_alone, r->alone[middle] < column);
    for (; k < r->n_alone && r->alone[k] < column + columns; k++)
        z[r->alone[k] - column] = -(trf_real)HUGE_VAL;
    for (int32_t i = 0; r->ids && i < r->counts[2 * row + 1]; i++) {
        int32_t banned = r->ids[row * r->stride + r->history + i];
        if (banned >= column && banned < column + columns)
            z[banned - column] = -(trf_real)HUGE_VAL;
    }
    for (k = row * r->n_phrase_next; k < (row + 1) * r->n_phrase_next; k++)
        if (r->phrase_next[k] >= column && r->phrase_next[k] < column + columns)
            r->phrase_next_scores[k] = z[r->phrase_next[k] - column];
    if (!r->ids) return;
    const int32_t *ids = r->ids + row * r->stride;
    trf_real *kept = r->kept + row * (r->stride + r->n_alone);
    for (int32_t i = 0; i < r->counts[2 * row]; i++) {
        if (ids[i] < column || ids[i] >= column + columns) continue;
        kept[i] = z[ids[i] - column];
        z[ids[i] - column] = -(trf_real)HUGE_VAL;
    }
}

/* One slice of a row: z are the logits from id `column` on, with room for whole vectors. Groups
   with a maximum below the floor are skipped. After n tokens have been found the floor rises to the
   last of them. The floors of workers differ, but each excludes only tokens that are not among the
   n best. */
TRF__FN void trf__top_slice(const trf__top_job *j, int64_t row, trf_real *z, int64_t column,
                            int64_t columns, trf_real *floor)
{
    const trf__top *t = j->t;
    int64_t at = row * j->slices + column / TRF__TOP_COLUMNS, c, i, found = 0;
    int64_t n_groups = trf__ceil_div(columns, TRF__TOP_BLOCK) * TRF__WIDE;
    int32_t only = t->only ? t->only[row] : TRF__ANY;
    int32_t *ids = j->ids + at * t->n;
    trf_real *best = j->best + at * t->n, most[TRF__TOP_COLUMNS / TRF__TOP_GROUP];
    /* forbidden ends also leave the softmax */
    for (int32_t e = -1; only == TRF__NOT_EOS && e < t->ends.n; e++) {
        int32_t end = e < 0 ? t->eos : t->ends.ids[e];
        if (end < column || end >= column + columns) continue;
        if (t->rest) t->rest[(e + 1) * t->rows + row] = (double)z[end - column];
        z[end - column] = -(trf_real)FLT_MAX;
    }
    for (c = columns; c % 16 != 0; c++) z[c] = -(trf_real)FLT_MAX;      /* exp makes 0 of it */
    for (c = 0; c < columns; c += TRF__TOP_BLOCK)
        trf__top_groups(most + c / TRF__TOP_GROUP, z + c, trf__min64(columns - c, TRF__TOP_BLOCK));
    j->sums[2 * at] = trf__max_of(most, n_groups);
    j->sums[2 * at + 1] = trf__exp_sum(z, columns, j->sums[2 * at]);
    if (only < 0 && (t->rules.n_alone || t->rules.ids || t->rules.phrase_next))
        trf__top_rule(&t->rules, row, z, column, columns);
    for (i = 0; i < t->n; i++) ids[i] = -1;
    if (only >= column && only < column + columns) { ids[0] = only; best[0] = z[only - column]; }
    for (int64_t g = 0; only < 0 && g < n_groups; g++) {
        if (most[g] < *floor) continue;
        c = g / TRF__WIDE * TRF__TOP_BLOCK;
        for (i = c + g % TRF__WIDE; i < trf__min64(columns, c + TRF__TOP_BLOCK); i += TRF__WIDE) {
            int32_t id = (int32_t)(column + i);
            if (z[i] < *floor) continue;
            if (trf__may_be(t, id) && z[i] > -(trf_real)HUGE_VAL &&
                !(only == TRF__NOT_EOS && trf__is_end(t->eos, &t->ends, id)))
                found = trf__top_insert(best, ids, t->n, found, z[i], id);
        }
        if (found == t->n && best[t->n - 1] > *floor) *floor = best[t->n - 1];
    }
}

/* Project some rows onto one slice. Tiles of one slice follow each other, as they read the same
   weights. */
TRF__TILE(trf__top_slice_tile)
{
    const trf__top_job *j = (const trf__top_job *)job;
    const trf__top *t = j->t;
    int64_t blocks = trf__ceil_div(t->rows, j->rows), row = tile % blocks * j->rows;
    int64_t column = tile / blocks * TRF__TOP_COLUMNS;
    int64_t columns = trf__min64(TRF__TOP_COLUMNS, t->vocab - column);
    trf_real *z = j->z + worker * j->rows * j->columns;
    trf__product p = j->all;
    trf__product_rows(&p, row, trf__min64(j->rows, t->rows - row));
    p.c = z;
    p.n = columns;
    if (p.b.at) p.b.at += column * t->d;
    if (p.bias) p.bias += column;
    if (!t->mixed)
        trf__multiply(run, worker, j->blas, trf__reads_packed(&t->w) ? &t->w : NULL, column, p);
    for (int64_t r = 0; t->mixed && r < p.m; r++)
        memcpy(z + r * j->columns, t->mixed + (row + r) * t->vocab + column,
               (size_t)columns * sizeof *z);
    for (int64_t r = 0; r < p.m; r++)
        trf__top_slice(j, row + r, z + r * j->columns, column, columns,
                       &j->floor[worker * t->rows + row + r]);
}

// >>top-merge      the slices of a row together

/* The logarithm of the sum of the exponentials of EOS and the ends, whose logits are in t->rest. */
TRF__FN double trf__ends_together(const trf__top *t, int64_t row)
{
    trf_real each[TRF__WIDE];
    double most = t->rest[row], sum = 0;
    if (!t->ends.n) return most;
    for (int32_t k = 1; k <= t->ends.n; k++)
        if (t->rest[k * t->rows + row] > most) most = t->rest[k * t->rows + row];
    for (int32_t k = 0; k <= t->ends.n; k++) {
        trf__store(each, trf__exp(trf__set((trf_real)(t->rest[k * t->rows + row] - most))));
        sum += (double)each[0];
    }
    return most + trf__ln(sum);
}

/* Merges the slices of a row: the logarithm of all exponentials' sum, and the best tokens. */
TRF__TILE(trf__top_tile)
{
    const trf__top_job *j = (const trf__top_job *)job;
    const trf__top *t = j->t;
    const int64_t row = tile;
    const trf_real *sums = j->sums + row * j->slices * 2;
    trf_real *best = j->best + row * j->slices * t->n;
    int32_t *ids = j->ids + row * j->slices * t->n;
    int64_t at = row * (t->n + t->rules.n_phrase_next);
    double *to = t->log_probabilities + at, sum = 0;
    trf_real most = sums[0], e[TRF__WIDE];
    int64_t found = 0;
    for (int64_t s = 1; s < j->slices; s++) if (most < sums[2 * s]) most = sums[2 * s];
    for (int64_t s = 0; s < j->slices; s++) {
        trf__store(e, trf__exp(trf__set(sums[2 * s] - most)));
        /* a product of two floats is exact in double, so an fma gives the same bits */
        sum += (double)e[0] * (double)sums[2 * s + 1];
    }
    double lse = (double)most + trf__ln(sum);
    /* the other slices' tokens are inserted into the list of the first */
    while (found < t->n && ids[found] >= 0) found++;
    for (int64_t k = t->n; k < j->slices * t->n; k++)
        if (ids[k] >= 0) found = trf__top_insert(best, ids, t->n, found, best[k], ids[k]);
    if (t->scores) lse = 0;
    for (int64_t i = 0; i < t->n; i++) {
        t->ids[at + i] = i < found ? ids[i] : -1;
        to[i] = i < found ? (double)best[i] - lse : -HUGE_VAL;
        if (t->ruled) t->ruled[at + i] = t->rules.greedy && i < found ? (double)best[i] : to[i];
    }
    if (t->rest) {          /* -ln(1 + exp(x)) for the x of EOS and the ends, without an overflow */
        double x = t->only && t->only[row] == TRF__NOT_EOS ? trf__ends_together(t, row) - lse
                 : -HUGE_VAL;
        trf__store(e, trf__exp(trf__set((trf_real)-fabs(x))));
        t->rest[row] = -(x > 0 ? x : 0) - trf__ln(1 + (double)e[0]);
    }
    if (t->ruled) trf__top_penalize(t, row, lse);
    if (t->rules.phrase_next) trf__top_phrase_next(t, row, lse);
}

TRF__FN void trf__cpu_top(const trf__run *run, const trf__top *t)
{
    trf__top_job job;
    trf__top_scratch_layout(t->work, &run->device, t->rows, t->vocab, t->n, &job);
    job.t = t;
    for (int64_t i = 0; i < run->device.threads * t->rows; i++) job.floor[i] = -(trf_real)HUGE_VAL;
    job.blas = trf__use_blas(run, t->rows, &t->w);
    if (t->rows == 0) return;
    job.all = trf__product_of(NULL, job.columns, t->rows, t->vocab, t->d,
                              trf__view_of(trf__from(t->x), t->d, 1),
                              trf__weight_view(&t->w, t->d), 0);
    job.all.bias = t->bias;
    job.all.bf16x3 = trf__use_bf16x3(run, t->rows);
    if (!t->mixed) trf__convert(run, trf__reads_packed(&t->w) ? &t->w : NULL, &job.all);
    trf__product_tiles(run, job.blas, trf__ceil_div(t->rows, job.rows) * job.slices,
                       trf__top_slice_tile, &job);
    trf__tiles(run, t->rows, trf__top_tile, &job);
}

// >>mix            what several models say of the next token, as one

/* log of a + b, of which both have the logarithms: m + log(1 + e^-|x - y|), where m is the larger.
   Two that are minus infinity give it again; a NaN stays one. */
TRF__INLINE trf__v16 trf__log_sum(trf__v16 x, trf__v16 y)
{
    trf__v16 most = trf__max(x, y), d = trf__sub(y, x);
    trf__v16 e = trf__exp(trf__min(d, trf__sub(trf__set(0), d)));
    return trf__if_less(most, trf__set(-(trf_real)FLT_MAX), most,
                        trf__add(most, trf__log_1_plus(e)));
}

/* z - most is exact for all likely tokens, so what is rounded is small. */
TRF__TILE(trf__mix_tile)
{
    const trf__mix *j = (const trf__mix *)job;
    trf_real *sum = j->sum + tile * j->vocab;
    const trf_real *z = j->first ? sum : j->logits + tile * j->vocab;
    trf__v16 most = trf__set(trf__max_of(z, j->vocab)), all = trf__set(0), zero = all;
    int64_t c, n = j->vocab;
    for (c = 0; c < n; c += 16) {       /* the minimum: the zeros beyond the end may be above */
        trf__v16 e = trf__exp(trf__min(trf__sub(trf__load_n(z + c, n - c), most), zero));
        all = trf__fma(e, trf__first(n - c), all);
    }
    double log_all = trf__ln((double)trf__sum(all));
    if (j->rule == TRF_ENSEMBLE_ARITHMETIC) log_all -= trf__ln(j->weight);
    trf__v16 off = trf__set((trf_real)log_all), factor = trf__set((trf_real)j->weight);
    for (c = 0; c < n; c += 16) {
        trf__v16 l = trf__sub(trf__sub(trf__load_n(z + c, n - c), most), off);
        trf__v16 before = j->first ? zero : trf__load_n(sum + c, n - c);
        if (j->rule == TRF_ENSEMBLE_GEOMETRIC) l = trf__fma(factor, l, before);
        else if (!j->first) l = trf__log_sum(before, l);
        trf__store_n(sum + c, l, n - c);
    }
}

TRF__FN void trf__cpu_mix(const trf__run *run, const trf__mix *j)
{
    TRF__ZEROED(trf__linear, z);
    z.y = (trf__act *)(void *)(j->first ? j->sum : j->logits);
    z.x = j->x; z.w = j->w; z.b = j->bias;
    z.rows = j->rows; z.out = j->vocab; z.in = j->d;
    if (j->rows == 0) return;
    trf__cpu_linear(run, &z);
    trf__tiles(run, j->rows, trf__mix_tile, j);
}

// >>backpointers   the history of a row in the cache, and new keys and values
//
// After a search has chosen, a row's keys belong to its new parent. Only lists of slots are
// copied, never keys and values themselves.

TRF__FN void trf__cpu_backpointers(TRF__UNUSED const trf__run *run, const trf__backpointers *j)
{
    for (int64_t r = 0; r < j->rows; r++) {
        int32_t *to = j->to + r * j->stride, at = j->position[r];
        if (at > 0) memcpy(to, j->from + j->parents[r] * j->stride, (size_t)at * sizeof *to);
        to[at] = j->slots[r];
    }
}

/* An area holds its keys transposed, as attention multiplies by them, and then its values: (width /
   2, area), then (area, width / 2). */
TRF__FN void trf__cpu_append_kv(TRF__UNUSED const trf__run *run, const trf__append_kv *j)
{
    int64_t half = j->width / 2;
    for (int64_t r = 0; r < j->rows; r++) {
        const trf_real *from = trf__from(j->fresh) + r * j->width;
        int64_t slot = j->slots[r], i = j->area ? slot % j->area : 0;
        if (slot < 0) continue;
        trf_real *to = trf__to(j->cache) + (slot - i) * j->width;
        if (!j->area) { memcpy(to, from, (size_t)j->width * sizeof *to); continue; }
        for (int64_t c = 0; c < half; c++) {
            /* attention reads keys by sixteen: those that are not there yet must not overflow */
            if (i % 16 == 0) trf__store(to + c * j->area + i, trf__set(0));
            to[c * j->area + i] = from[c];
        }
        memcpy(to + half * (j->area + i), from + half, (size_t)half * sizeof *to);
    }
}

// >>reorder        the rows of the next token
//
// The CPU's loop over sentences; the work for one sentence is shared with the GPU (>>next-rows).

/* In place: sentence k is written at or before its old index, so nothing unread is overwritten. */
TRF__FN void trf__cpu_reorder(TRF__UNUSED const trf__run *run, const trf__reorder *a)
{
    trf__progress now = trf__reorder_from(a);
    int32_t k = now.n_live, end = a->progress->n_live + a->begin;
    for (; k < end; k++) {
        int32_t before = a->begin ? 0 : a->starts[k], place = trf__reorder_sentence(a, k);
        const trf__beam *beam = &a->beams[place];
        if (beam->live == 0) continue;
        now.wanted = (int32_t)trf__max64(now.wanted, trf__beam_wanted(beam).count);
        trf__reorder_rows(a, place, now.n_live++, now.rows, before, now.at);
        now.rows += beam->live;
    }
    for (int64_t r = now.rows; r < a->rows; r++) trf__reorder_padding(a, r);
    for (int64_t r = now.n_live; r < a->n_cross; r++) trf__reorder_ended(a, r);
    *a->progress = now;
}

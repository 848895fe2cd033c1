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

// >>rotary         positions as rotations of queries and keys (Su et al. 2021)
//
//   pair i of w/2 at position p has the angle a = p / base^(2i/w) / scale
//   x' = x cos(a) - y sin(a)     y' = y cos(a) + x sin(a)
//
// The product of a rotated query and a rotated key depends on the distance of their positions only.
// The gradient is rotated back, by -a. The cache holds rotated keys.

/* Up to sixteen pairs. sign: 1, or -1 to turn back. */
TRF__FN void trf__turn(trf__v16 *x, trf__v16 *y, trf__v16 cosine, trf__v16 sine, trf_real sign)
{
    trf__v16 a = *x, b = *y;
    *x = trf__fma(a, cosine, trf__mul(b, trf__mul(sine, trf__set(-sign))));
    *y = trf__fma(b, cosine, trf__mul(a, trf__mul(sine, trf__set(sign))));
}

/* One head. table: cosines of `half` pairs, then their sines. */
TRF__FN void trf__rotate_halves(trf_real *head, const trf_real *table, int64_t half, trf_real sign)
{
    for (int64_t c = 0; c < half; c += 16) {
        int64_t n = half - c;
        trf__v16 x = trf__load_n(head + c, n), y = trf__load_n(head + half + c, n);
        trf__turn(&x, &y, trf__load_n(table + c, n), trf__load_n(table + half + c, n), sign);
        trf__store_n(head + c, x, n);
        trf__store_n(head + half + c, y, n);
    }
}

TRF__FN void trf__rotate_interleaved(trf_real *head, const trf_real *table, int64_t half,
                                     trf_real sign)
{
    for (int64_t c = 0; c < half; c += 16) {
        int64_t n = trf__min64(16, half - c);
        trf_real pairs[2][16];
        for (int64_t i = 0; i < 16; i++) {
            pairs[0][i] = i < n ? head[2 * (c + i)] : 0;
            pairs[1][i] = i < n ? head[2 * (c + i) + 1] : 0;
        }
        trf__v16 x = trf__load(pairs[0]), y = trf__load(pairs[1]);
        trf__turn(&x, &y, trf__load_n(table + c, n), trf__load_n(table + half + c, n), sign);
        trf__store(pairs[0], x);
        trf__store(pairs[1], y);
        for (int64_t i = 0; i < n; i++) {
            head[2 * (c + i)] = pairs[0][i];
            head[2 * (c + i) + 1] = pairs[1][i];
        }
    }
}

TRF__TILE(trf__rotate_tile)
{
    const trf__rotation *r = (const trf__rotation *)job;
    trf_real sign = r->back ? (trf_real)-1 : 1;
    TRF__ROWS_OF_TILE(row, r->rows, r->heads * r->d_head) {
        const trf_real *table = r->table + (int64_t)r->position[row] * r->width;
        for (int h = 0; h < r->heads; h++) {
            trf_real *x = trf__to(r->x) + row * r->ld + (int64_t)h * r->d_head;
            if (r->pairs == TRF_ROTARY_HALVES) trf__rotate_halves(x, table, r->width / 2, sign);
            else trf__rotate_interleaved(x, table, r->width / 2, sign);
        }
    }
}

TRF__TILED_OP(trf__cpu_rotate, trf__rotation, trf__rotate_tile,
              trf__row_tiles(j->rows, j->heads * j->d_head))

TRF__TILE(trf__scale_tile)
{
    const trf__scale *s = (const trf__scale *)job;
    trf_real *x = trf__to(s->x);
    TRF__ROWS_OF_TILE(i, s->n, 1) x[i] *= s->factor;
}

TRF__TILED_OP(trf__cpu_scale, trf__scale, trf__scale_tile, trf__row_tiles(j->n, 1))

// >>attention      paper 3.2.1
//
//   S = q k^T / sqrt(d_head)     P = softmax of each row of S     D = drop(P)     out = D v
//   one head of one sequence: q: (n, d_head)   k, v: (m, d_head)   S, P: (n, m)   no keys: out = 0
//   kept for backward: each row's maximum of q k^T and 1 / (sum of exp), which give P again
//   with a bias: S = q k^T scale + bias, and the maximum is that of S. All keys hidden: P = 0
//
//   dD = dout v^T     dP = drop(dD)     dS = P * (dP - sum over the row of P dP)
//   the sum over a row of P dP is dout . out
//   dv = D^T dout     dq = dS k / sqrt(d_head)     dk = dS^T q / sqrt(d_head)
//   dbias of a distance: the sum of dS over all queries and keys that are so far apart
//
// A tile is one head of one sequence. It takes TRF__QUERIES queries at a time, so S and P need only
// (TRF__QUERIES, m) numbers, not (n, m). Rows of S are padded to m16, a multiple of sixteen;
// padding has weight 0.
//
// Dropout: one Philox block of 128 bits serves eight neighbouring keys of one query. Its counter is
// (block, query, sentence, step); the head's lower 12 bits lie above the query's 20 bits, the
// others above the block's 17. Key 8 b + i takes half i % 2 of word i / 2. So neither padding nor
// tiles change a mask.

#if !defined(TRF__LEVEL)
enum { TRF__QUERIES = 32 };         /* of a block */

typedef struct trf__attention_scratch {
    trf_real *kt, *vt;      /* (d_head, m16): k and v transposed */
    trf_real *k, *v;        /* (m, d16): k and v with padded rows, if d_head % 16 */
    trf_real *s, *ds;       /* (TRF__QUERIES, m16) */
    trf_real *q, *dout;     /* (TRF__QUERIES, d16) */
    uint16_t *bits;         /* (TRF__QUERIES, m16) random bits of dropout */
    trf_real *bias, *dbias; /* (2 * m16) by distance: number t is that of key - query = t - m + 1 */
    int64_t m16, d16;
} trf__attention_scratch;

/* Cuts a worker's scratch for attention over m keys, and returns its bytes. NULL: only counts. */
TRF__FN size_t trf__attention_layout(trf__attention_scratch *work, void *scratch, int64_t m,
                                  int64_t d_head)
{
    trf__cursor cursor = trf__cursor_at(scratch);
    work->m16 = trf__round_up(m, 16);
    work->d16 = trf__round_up(d_head, 16);
    work->kt = trf__take_reals(&cursor, d_head, work->m16);
    work->vt = trf__take_reals(&cursor, d_head, work->m16);
    work->k = trf__take_reals(&cursor, work->m16, work->d16);
    work->v = trf__take_reals(&cursor, work->m16, work->d16);
    work->s = trf__take_reals(&cursor, TRF__QUERIES, work->m16);
    work->ds = trf__take_reals(&cursor, TRF__QUERIES, work->m16);
    work->q = trf__take_reals(&cursor, TRF__QUERIES, work->d16);
    work->dout = trf__take_reals(&cursor, TRF__QUERIES, work->d16);
    work->bits = (uint16_t *)trf__take(&cursor, TRF__QUERIES, (size_t)work->m16 * sizeof(uint16_t));
    work->bias = trf__take_reals(&cursor, 2, work->m16);
    work->dbias = trf__take_reals(&cursor, 2, work->m16);
    return cursor.used;
}

/* Scratch of one worker: the larger of what attention and `product` numbers of a product need. */
TRF__FN size_t trf__scratch_bytes(int64_t longest, int64_t d_head, int64_t product)
{
    trf__attention_scratch work;
    size_t bytes = trf__attention_layout(&work, NULL, longest, d_head);
    size_t least = (size_t)product * sizeof(trf_real);
    return bytes > least ? bytes : least;
}
#endif

/* to[c][i] = x[row of key i][c] of this head; columns m .. m16 - 1 are 0. S = q k^T reads k
   transposed as B, in panels. */
TRF__FN trf__view trf__keys_transposed(trf_real *to, const trf__act *x, const trf__head *h,
                                       int64_t m16)
{
    int64_t c, d = h->in->d_head, k;
    for (int64_t i = 0; i < m16; i += 4) {
        const trf_real *from[4] = { NULL, NULL, NULL, NULL };
        for (k = 0; k < 4 && i + k < h->span->n_key; k++)
            from[k] = trf__from(x) + trf__key_row(h, i + k) * h->in->ldk + h->key_first;
        for (c = 0; k == 4 && c + 4 <= d; c += 4) {
            const trf_real *at[4] = { from[0] + c, from[1] + c, from[2] + c, from[3] + c };
            trf__transpose4(to + c * m16 + i, m16, at);
        }
        for (; c < d; c++) for (k = 0; k < 4; k++) to[c * m16 + i + k] = from[k] ? from[k][c] : 0;
    }
    return trf__view_of(to, m16, 16);
}

/* Copies n rows of one head (d columns) and pads them with zeros to d16. */
TRF__FN void trf__rows_padded(trf_real *to, const trf_real *x, int64_t ld, int64_t n, int64_t d,
                              int64_t d16)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d16; c += 16)
            trf__store(to + i * d16 + c, trf__load_n(x + i * ld + c, d - c));
}

/* n rows of one head as B in panels: in place if d is a multiple of 16, else padded in `work`. */
TRF__FN trf__view trf__rows_as_panels(trf_real *work, const trf_real *x, int64_t ld, int64_t n,
                                      int64_t d, int64_t d16)
{
    if (d == d16) return trf__view_of(x, ld, 16);
    trf__rows_padded(work, x, ld, n, d, d16);
    return trf__view_of(work, d16, 16);
}

/* The same for the rows of a span's keys, which key_rows may scatter over the cache. */
TRF__FN trf__view trf__keys_as_panels(trf_real *work, const trf__act *x, const trf__head *h,
                                      int64_t d16)
{
    int64_t d = h->in->d_head;
    const trf_real *from = trf__from(x) + h->key_first;
    if (!h->key_rows)
        return trf__rows_as_panels(work, from + h->span->key * h->in->ldk, h->in->ldk,
                                   h->span->n_key, d, d16);
    for (int64_t i = 0; i < h->span->n_key; i++)
        trf__rows_padded(work + i * d16, from + h->key_rows[i] * h->in->ldk, 0, 1, d, d16);
    return trf__view_of(work, d16, 16);
}

// >>attention-rows one head: rows of weights and of results
//
// trf__attention_rows computes P for a block of queries. Forward, gradient and the op that returns
// weights all call it, so they have the same P.

TRF__FN void trf__zero_rows(trf_real *x, int64_t ld, int64_t n, int64_t d)
{
    for (int64_t i = 0; i < n; i++) memset(x + i * ld, 0, (size_t)d * sizeof *x);
}

/* The maximum of a row, from -FLT_MAX: -infinity - -infinity would be NaN in a softmax. */
TRF__FN trf_real trf__max_of(const trf_real *z, int64_t n)
{
    trf__v16 top = trf__set(-(trf_real)FLT_MAX);
    int64_t c;
    for (c = 0; c + 16 <= n; c += 16) top = trf__max(top, trf__load(z + c));
    trf_real most = trf__max_lane(top);
    for (; c < n; c++) if (most < z[c]) most = z[c];
    return most;
}

/* The numbers for distances that these queries and keys have: bias for query i begins at
   trf__bias_of. */
TRF__FN void trf__bias_fill(const trf__head *h, const trf__attention_scratch *work)
{
    int64_t t, n = h->span->n_key + h->span->n_query - 1;
    trf_real slope = 0;
    if (!trf__biased(h->in) || h->in->bias.numbers) return;
    if (h->in->bias.alibi) slope = (trf_real)trf__alibi_slope(h->head, h->in->heads);
    for (t = 0; t < n; t++)
        work->bias[t] = trf__bias_at(h, slope, t - h->span->n_key + 1);
    for (; t < 2 * work->m16; t++) work->bias[t] = 0;
}

/* Where the numbers of query i begin, one for each key. The queries are the last positions. */
TRF__FN trf_real *trf__bias_of(const trf__head *h, trf_real *bias, int64_t i)
{
    return bias + h->span->n_query - 1 - i;
}

/* Scales a row of q k^T and adds n numbers to it. */
TRF__FN void trf__add_numbers(trf_real *s, const trf_real *numbers, int64_t n, trf_real scale)
{
    trf__v16 factor = trf__set(scale);
    for (int64_t c = 0; c < n; c += 16)
        trf__store(s + c, trf__fma(trf__load(s + c), factor, trf__load_n(numbers + c, n - c)));
}

/* Turns a row of q k^T into its softmax. Only its first `seen` numbers count; the others get weight
   0. stats = {maximum, 1 / sum}: known, or computed here. The maximum is subtracted before scaling,
   so that exp cannot overflow. */
TRF__FN void trf__softmax_row(trf_real *s, int64_t seen, int64_t m16, trf_real scale,
                              const trf_real *known, trf_real stats[2])
{
    const int64_t least = trf__max64(0, seen), whole = least / 16 * 16;
    const int64_t end = trf__round_up(least, 16);
    trf__v16 sum = trf__set(0);
    int64_t c;
    /* exp makes 0 of -infinity. A whole vector is stored: its next load would wait for numbers that
       were stored one by one */
    if (whole < end)
        trf__store(s + whole, trf__if_less(trf__set(0), trf__first(seen - whole),
                                           trf__load(s + whole), trf__set(-(trf_real)HUGE_VAL)));
    stats[0] = known ? known[0] : trf__max_of(s, end);
    trf__v16 maximum = trf__set(stats[0]), factor = trf__set(scale);
    for (c = 0; c < end; c += 16) {
        trf__v16 e = trf__exp(trf__mul(trf__sub(trf__load(s + c), maximum), factor));
        sum = trf__add(sum, e);
        trf__store(s + c, e);
    }
    if (known) stats[1] = known[1];
    else {
        stats[1] = trf__sum(sum);
        /* a sum of 0: the caller hides all keys */
        if (stats[1] != 0) stats[1] = 1 / stats[1];
    }
    factor = trf__set(stats[1]);
    for (c = 0; c < end; c += 16) trf__store(s + c, trf__mul(trf__load(s + c), factor));
    for (; c < m16; c += 16) trf__store(s + c, trf__set(0));
}

/* The softmax of row i of q k^T, with what is added to it. */
TRF__FN void trf__weights_row(const trf__head *h, const trf__attention_scratch *work, trf_real *s,
                              int64_t i, const trf_real *known, trf_real stats[2])
{
    trf_real scale = h->scale;
    if (trf__biased(h->in)) {
        const trf_real *numbers = h->in->bias.numbers;
        if (numbers) trf__add_numbers(s, numbers + trf__numbers_at(h, i), h->span->n_key, scale);
        else trf__add_numbers(s, trf__bias_of(h, work->bias, i), work->m16, scale);
        scale = 1;
    }
    trf__softmax_row(s, trf__keys_seen(h, i), work->m16, scale, known, stats);
}

/* How many keys the queries before `end` see, rounded up to whole vectors: at most m16. */
TRF__FN int64_t trf__seen16(const trf__head *h, int64_t end)
{
    return trf__round_up(trf__max64(0, trf__keys_seen(h, end - 1)), 16);
}

/* Rows i0 .. i0 + n - 1 of P into work->s. keys: transposed, in panels. known: the op's statistics
   to use; kept: where to store them; either may be NULL. */
TRF__FN void trf__attention_rows(const trf__head *h, const trf__attention_scratch *work,
                                 trf__view keys, const trf_real *known, trf_real *kept, int64_t i0,
                                 int64_t n)
{
    int64_t query = h->span->query + i0;
    const trf_real *q = trf__from(h->in->q) + query * h->in->ldq + h->first;
    trf__mm(trf__product_of(work->s, work->m16, n, trf__seen16(h, i0 + n), h->in->d_head,
                            trf__view_of(q, h->in->ldq, 1), keys, 0));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = ((query + i) * h->in->heads + h->head) * 2;
        trf_real local[2];
        trf__weights_row(h, work, work->s + i * work->m16, i0 + i, known ? known + at : NULL,
                         kept ? kept + at : local);
    }
}

/* The random bits of queries i0 .. i0 + n - 1 for the keys of the first `blocks` groups of eight:
   (n, 8 * blocks). Sixteen Philox blocks at a time, across queries. */
TRF__FN void trf__attention_bits(const trf__run *run, const trf__head *h, uint16_t *bits,
                                 int64_t i0, int64_t n, int64_t blocks)
{
    uint32_t counter[2][TRF__WIDE], words[4][TRF__WIDE], head = (uint32_t)h->head;
    int64_t b = 0, i = i0;
    for (int64_t at = 0; at < n * blocks; at += TRF__WIDE) {
        int lanes = (int)trf__min64(TRF__WIDE, n * blocks - at);
        for (int lane = 0; lane < TRF__WIDE; lane++) {
            uint32_t block[2];
            trf__weight_counter(block, head, i, b);
            counter[0][lane] = block[0];
            counter[1][lane] = block[1];
            if (++b == blocks) { b = 0; i++; }
        }
        trf__philox16(counter[0], counter[1], (uint32_t)h->span->sentence, run->now->step,
                      run->now->key0, trf__site_key(run->now, &h->in->drop), words);
        for (int lane = 0; lane < lanes; lane++)
            for (int w = 0; w < 4; w++) {
                bits[(at + lane) * 8 + 2 * w] = (uint16_t)(words[w][lane] & 0xFFFF);
                bits[(at + lane) * 8 + 2 * w + 1] = (uint16_t)(words[w][lane] >> 16);
            }
    }
}

/* Multiplies one row of weights (or of their gradient) by its mask. */
TRF__FN void trf__drop_weights(const trf__drop *drop, const uint16_t *bits, trf_real *row,
                               int64_t n)
{
    for (int64_t c = 0; c < n; c += 16)
        trf__store(row + c, trf__mul(trf__load(row + c), trf__kept(bits + c, drop->threshold,
                                                                   drop->scale)));
}

TRF__FN trf_real trf__dot(const trf_real *a, const trf_real *b, int64_t n)
{
    trf__v16 sum = trf__set(0);
    int64_t c;
    for (c = 0; c < n; c += 16) sum = trf__fma(trf__load_n(a + c, n - c), trf__load_n(b + c, n - c),
                                               sum);
    return trf__sum(sum);
}

// >>attention-tile forward: one head of one sequence

/* One query of a search step: transposing keys would cost more than the product, so they are read
   where they are. */
TRF__FN void trf__attention_of_one(const trf__head *h, const trf__attention_scratch *work,
                                   trf_real *out)
{
    const trf_real *q = trf__from(h->in->q) + h->span->query * h->in->ldq + h->first;
    const trf_real *k = trf__from(h->in->k) + h->key_first, *v = trf__from(h->in->v) + h->key_first;
    int64_t d = h->in->d_head, ld = h->in->ldk;
    trf_real stats[2], *s = work->s;
    for (int64_t i = 0; i < h->span->n_key; i++) s[i] = trf__dot(q, k + h->key_rows[i] * ld, d);
    trf__weights_row(h, work, s, 0, NULL, stats);
    for (int64_t c = 0; c < d; c += 16) {
        trf__v16 sum = trf__set(0);
        for (int64_t i = 0; i < h->span->n_key; i++)
            sum = trf__fma(trf__set(s[i]), trf__load_n(v + h->key_rows[i] * ld + c, d - c), sum);
        trf__store_n(out + c, sum, d - c);
    }
}

/* Rows i0 .. i0 + n - 1 of a head's result become their part of converted rows. */
TRF__FN void trf__attention_convert(const trf__run *run, const trf__attention *a,
                                    const trf__head *h, const trf_real *rows, int64_t i0, int64_t n)
{
    const trf__format *format = &trf__formats[run->format];
    int64_t d = a->in.d_head;
    for (int64_t i = 0; i < n; i++)
        format->convert(trf__converted_at(run, a->out, h->span->query + i0 + i, a->in.heads * d) +
                        h->first * format->number, rows + i * d, d);
}

/* Whether both products of a head are computed in 16 bits, by tiles. Each span decides for itself,
   so no answer depends on its batch. Fewer queries would leave most of a tile empty. */
TRF__FN int trf__attention_in_tiles(const trf__run *run, const trf__attention *a,
                                    const trf__head *h)
{
    return a->converted && h->span->n_query >= 8 && !h->key_rows && !a->in.area &&
           trf__bf16_chosen(trf__cpu_of(run)->tiles)->tiles;
}

/* One head with q, k, v and P rounded to 16 bits. Queries and rows of P lie in `work` as converted
   rows, keys and values as panels. A panel has 16 keys, or 16 columns of v. */
TRF__FN void trf__attention_tiles(const trf__run *run, const trf__attention *a, const trf__head *h,
                                  const trf__attention_scratch *work)
{
    const int64_t d = a->in.d_head, m = h->span->n_key, n = h->span->n_query, m16 = work->m16;
    const int64_t ldk = a->in.ldk, at = h->span->key * ldk + h->key_first;
    const trf_real *k = trf__from(a->in.k) + at, *v = trf__from(a->in.v) + at;
    const trf_real *q = trf__from(a->in.q) + h->span->query * a->in.ldq + h->first;
    char *queries = (char *)(void *)work->q, *weights = (char *)(void *)work->ds;
    const size_t q_step = trf__bf16_row_bytes(d), w_step = trf__bf16_row_bytes(m + 31);
    trf__product s = trf__product_of(work->s, m16, 0, m16, d, trf__view_of(NULL, 0, 1),
                                     trf__view_of(NULL, 1, d), 0);
    trf__product out = trf__product_of(work->dout, d, 0, d, m, trf__view_of(NULL, 0, 1),
                                       trf__view_of(NULL, 1, m), 0);
    s.left = queries;
    s.left_step = q_step;
    out.left = weights;
    out.left_step = w_step;
    s.tiles = out.tiles = 1;
    for (int64_t c = 0; c < m; c += 16)
        trf__bf16_panel(work->kt, d, 0, c, trf__view_of(k + c * ldk, 1, ldk), d, m - c);
    for (int64_t c = 0; c < d; c += 16)
        trf__bf16_panel(work->vt, m, 0, c, trf__view_of(v + c, ldk, 1), m, 16);
    memset(queries, 0, TRF__QUERIES * q_step);
    memset(weights, 0, TRF__QUERIES * w_step);
    for (int64_t i0 = 0; i0 < n; i0 += TRF__QUERIES) {
        int64_t rows = trf__min64(TRF__QUERIES, n - i0);
        trf_real stats[2];
        s.m = out.m = trf__round_up(rows, 16);
        s.n = trf__seen16(h, i0 + rows);
        for (int64_t i = 0; i < rows; i++)
            trf__bf16_row(queries + (size_t)i * q_step, q + (i0 + i) * a->in.ldq, d);
        trf__bf16_product(NULL, s, work->kt, 0);
        for (int64_t i = 0; i < rows; i++) {
            trf__weights_row(h, work, work->s + i * m16, i0 + i, NULL, stats);
            trf__bf16_row(weights + (size_t)i * w_step, work->s + i * m16, m16);
        }
        trf__bf16_product(NULL, out, work->vt, 0);
        trf__attention_convert(run, a, h, work->dout, i0, rows);
    }
}

/* No keys: out = 0. One query of a search: trf__attention_of_one. An area: append_kv has stored the
   keys transposed. Else keys and values are packed. A causal block multiplies only the keys that
   its last query sees. */
TRF__TILE(trf__attention_tile)
{
    const trf__attention *a = (const trf__attention *)job;
    trf__head h = trf__head_of(&a->in, tile);
    int64_t i0, i, d = a->in.d_head, ldo = a->converted ? d : a->in.heads * d,
        ldv = a->in.kv_heads * d;
    trf_real *out = trf__to(a->out) + h.span->query * ldo + h.first;
    const trf_real *stored = trf__from(a->in.k) + h.span->key * a->in.ldk;
    trf__attention_scratch work;
    trf__view keys, values;
    trf__attention_layout(&work, trf__scratch(run, worker), h.span->n_key, d);
    if (a->converted) out = work.dout;
    if (h.span->n_key == 0) {
        trf__zero_rows(out, ldo, a->converted ? 1 : h.span->n_query, d);
        for (i0 = 0; a->converted && i0 < h.span->n_query; i0++)
            trf__attention_convert(run, a, &h, out, i0, 1);
        return;
    }
    trf__bias_fill(&h, &work);
    if (h.key_rows && h.span->n_query == 1 && !a->stats && !trf__dropping(run, &a->in.drop)) {
        trf__attention_of_one(&h, &work, out);
        if (a->converted) trf__attention_convert(run, a, &h, out, 0, 1);
        return;
    }
    if (trf__attention_in_tiles(run, a, &h)) { trf__attention_tiles(run, a, &h, &work); return; }
    if (a->in.area) {
        keys = trf__view_of(stored + h.key_first * a->in.area, a->in.area, 16);
        values = trf__rows_as_panels(work.v, stored + ldv * a->in.area + h.key_first, ldv,
                                     h.span->n_key, d, work.d16);
    } else {
        keys = trf__keys_transposed(work.kt, a->in.k, &h, work.m16);
        values = trf__keys_as_panels(work.v, a->in.v, &h, work.d16);
    }
    for (i0 = 0; i0 < h.span->n_query; i0 += TRF__QUERIES) {
        int64_t n = trf__min64(TRF__QUERIES, h.span->n_query - i0),
            seen = trf__keys_seen(&h, i0 + n - 1);
        const int64_t seen16 = trf__seen16(&h, i0 + n);
        trf__attention_rows(&h, &work, keys, NULL, a->stats, i0, n);
        if (trf__dropping(run, &a->in.drop)) {
            trf__attention_bits(run, &h, work.bits, i0, n, seen16 / 8);
            for (i = 0; i < n; i++)
                trf__drop_weights(&a->in.drop, work.bits + i * seen16, work.s + i * work.m16,
                                  seen16);
        }
        trf__mm(trf__product_of(a->converted ? out : out + i0 * ldo, ldo, n, d, seen,
                                trf__view_of(work.s, work.m16, 1), values, 0));
        if (a->converted) trf__attention_convert(run, a, &h, out, i0, n);
    }
}

TRF__TILED_OP(trf__cpu_attention, trf__attention, trf__attention_tile, j->in.n_spans * j->in.heads)

/* P of one head for the caller, without dropout. */
TRF__TILE(trf__attention_weights_tile)
{
    const trf__attention_weights *a = (const trf__attention_weights *)job;
    trf__head h = trf__head_of(&a->in, a->head);
    int64_t i0 = tile * TRF__QUERIES, i, m = h.span->n_key,
        n = trf__min64(TRF__QUERIES, h.span->n_query - i0);
    trf__attention_scratch work;
    trf__attention_layout(&work, trf__scratch(run, worker), m, a->in.d_head);
    trf__bias_fill(&h, &work);
    trf__attention_rows(&h, &work, trf__keys_transposed(work.kt, a->in.k, &h, work.m16), NULL, NULL,
                        i0, n);
    for (i = 0; i < n; i++)
        memcpy(a->weights + (i0 + i) * m, work.s + i * work.m16, (size_t)m * sizeof *a->weights);
}

TRF__TILED_OP(trf__cpu_attention_weights, trf__attention_weights, trf__attention_weights_tile,
              j->in.spans->n_key > 0 ? trf__ceil_div(j->in.spans->n_query, TRF__QUERIES) : 0)

// >>attention-gradient its gradients, with the weights computed again
//
// P is (queries, keys), too large to keep for every layer, so a tile computes it again from the
// statistics of the forward pass. A tile owns one head of keys of one span, and all heads of
// queries that read it: it alone adds to its dk and dv.

#if !defined(TRF_NO_TRAIN)

/* ds holds a row of dP and becomes the row of dS = s * (dP - delta) * scale. s: the row of P.
   delta: the sum of P dP over the row. */
TRF__FN void trf__attention_row_gradient(const trf_real *s, trf_real *ds, int64_t m16,
                                         trf_real delta, trf_real scale)
{
    trf__v16 mean = trf__set(delta), factor = trf__set(scale);
    for (int64_t c = 0; c < m16; c += 16)
        trf__store(ds + c, trf__mul(trf__mul(trf__load(s + c), trf__sub(trf__load(ds + c), mean)),
                                    factor));
}

/* The same with numbers for distances: dS is also their gradient, before it is scaled. */
TRF__FN void trf__bias_row_gradient(trf_real *dbias, const trf_real *s, trf_real *ds, int64_t m16,
                                    trf_real delta, trf_real scale)
{
    trf__v16 factor = trf__set(scale);
    trf__attention_row_gradient(s, ds, m16, delta, 1);
    for (int64_t c = 0; c < m16; c += 16) {
        trf__store(dbias + c, trf__add(trf__load(dbias + c), trf__load(ds + c)));
        trf__store(ds + c, trf__mul(trf__load(ds + c), factor));
    }
}

/* The same with the caller's numbers: dS of the n keys goes to `to`. */
TRF__FN void trf__numbers_row_gradient(trf_real *to, const trf_real *s, trf_real *ds, int64_t n,
                                       trf_real delta, trf_real scale)
{
    trf__v16 factor = trf__set(scale);
    trf__attention_row_gradient(s, ds, trf__round_up(n, 16), delta, 1);
    for (int64_t c = 0; c < n; c += 16) {
        trf__store_n(to + c, trf__load(ds + c), n - c);
        trf__store(ds + c, trf__mul(trf__load(ds + c), factor));
    }
}

/* For queries i0 .. i0 + n - 1, work->ds becomes dS and work->s becomes D. delta is dout . out,
   which needs no row of dP. */
TRF__FN void trf__attention_rows_gradient(const trf__run *run, const trf__attention_gradient *a,
                                          const trf__head *h,
                                          const trf__attention_scratch *work, int64_t i0, int64_t n)
{
    const trf__drop *drop = &a->in.drop;
    int dropping = trf__dropping(run, drop);
    int64_t d = a->in.d_head, ldo = a->in.heads * d, at = (h->span->query + i0) * ldo + h->first;
    const int64_t seen16 = trf__seen16(h, i0 + n);
    const trf_real *dout = trf__from(a->dout) + at, *out = trf__from(a->out) + at;
    trf__attention_rows(h, work, trf__view_of(work->kt, work->m16, 16), a->stats, NULL, i0, n);
    /* dD = dout v^T */
    trf__mm(trf__product_of(work->ds, work->m16, n, seen16, d, trf__view_of(dout, ldo, 1),
                            trf__view_of(work->vt, work->m16, 16), 0));
    if (dropping) trf__attention_bits(run, h, work->bits, i0, n, seen16 / 8);
    for (int64_t i = 0; i < n; i++) {
        trf_real *s = work->s + i * work->m16, *ds = work->ds + i * work->m16;
        if (dropping) trf__drop_weights(drop, work->bits + i * seen16, ds, seen16);
        trf_real delta = trf__dot(dout + i * ldo, out + i * ldo, d);
        if (a->dbias)
            trf__bias_row_gradient(trf__bias_of(h, work->dbias, i0 + i), s, ds, seen16, delta,
                                   h->scale);
        else if (a->in.bias.numbers && a->partial)
            trf__numbers_row_gradient(a->partial + trf__pairs_of(h, i0 + i, 1), s, ds,
                                      trf__min64(seen16, h->span->n_key), delta, h->scale);
        else trf__attention_row_gradient(s, ds, seen16, delta, h->scale);
        if (dropping) trf__drop_weights(drop, work->bits + i * seen16, s, seen16);
    }
}

/* One head of queries. keys: as panels. dk and dv add up over heads and over blocks of queries; dq
   is complete after one block. */
TRF__FN void trf__attention_head_gradient(const trf__run *run, const trf__attention_gradient *a,
                                          const trf__head *h, const trf__attention_scratch *work,
                                          trf__view keys)
{
    const trf__span *span = h->span;
    int64_t d = a->in.d_head, ldq = a->in.ldq, ldk = a->in.ldk, ldo = a->in.heads * d;
    trf_real *dq = trf__to(a->dq) + span->query * ldq + h->first;
    trf_real *dk = trf__to(a->dk) + span->key * ldk + h->key_first;
    trf_real *dv = trf__to(a->dv) + span->key * ldk + h->key_first;
    for (int64_t i0 = 0; i0 < span->n_query; i0 += TRF__QUERIES) {
        int64_t n = trf__min64(TRF__QUERIES, span->n_query - i0), query = span->query + i0;
        int64_t seen = trf__keys_seen(h, i0 + n - 1);
        trf__view queries = trf__rows_as_panels(work->q,
                                                trf__from(a->in.q) + query * ldq + h->first, ldq, n,
                                                d, work->d16);
        trf__view douts = trf__rows_as_panels(work->dout,
                                              trf__from(a->dout) + query * ldo + h->first, ldo, n,
                                              d, work->d16);
        trf__attention_rows_gradient(run, a, h, work, i0, n);
        /* dq = dS k */
        trf__mm(trf__product_of(dq + i0 * ldq, ldq, n, d, seen,
                                trf__view_of(work->ds, work->m16, 1), keys, 0));
        /* dk += dS^T q, dv += D^T dout: the views with row 1 are transposed */
        trf__mm(trf__product_of(dk, ldk, seen, d, n, trf__view_of(work->ds, 1, work->m16), queries,
                                1));
        trf__mm(trf__product_of(dv, ldk, seen, d, n, trf__view_of(work->s, 1, work->m16), douts,
                                1));
    }
}

/* The gradient of the numbers for distances, of one head of one span: those of a row of the table
   add up in the order of distances. */
TRF__FN void trf__bias_partial(const trf__attention_gradient *a, const trf__head *h, int64_t tile,
                               const trf_real *dbias)
{
    const trf__bias *bias = &a->in.bias;
    trf_real *partial = a->partial + tile * bias->rows;
    memset(partial, 0, (size_t)bias->rows * sizeof *partial);
    for (int64_t t = 0; t < h->span->n_key + h->span->n_query - 1; t++)
        partial[trf__bias_row(bias, t - h->span->n_key + 1)] += dbias[t];
}

TRF__TILE(trf__attention_gradient_tile)
{
    const trf__attention_gradient *a = (const trf__attention_gradient *)job;
    int64_t d = a->in.d_head, ldk = a->in.ldk, group = a->in.heads / a->in.kv_heads;
    trf__head h = trf__head_of(&a->in, tile * group);
    int64_t at = h.span->key * ldk + h.key_first;
    trf__attention_scratch work;
    trf__attention_layout(&work, trf__scratch(run, worker), h.span->n_key, d);
    /* keys that no query sees have gradient 0 */
    trf__zero_rows(trf__to(a->dk) + at, ldk, h.span->n_key, d);
    trf__zero_rows(trf__to(a->dv) + at, ldk, h.span->n_key, d);
    trf__keys_transposed(work.kt, a->in.k, &h, work.m16);
    trf__keys_transposed(work.vt, a->in.v, &h, work.m16);
    trf__view keys = trf__keys_as_panels(work.k, a->in.k, &h, work.d16);
    for (int64_t i = tile * group; i < (tile + 1) * group; i++) {
        h = trf__head_of(&a->in, i);
        trf__bias_fill(&h, &work);
        if (a->dbias) memset(work.dbias, 0, (size_t)(2 * work.m16) * sizeof *work.dbias);
        trf__attention_head_gradient(run, a, &h, &work, keys);
        if (a->dbias) trf__bias_partial(a, &h, i, work.dbias);
    }
}

TRF__FN void trf__cpu_attention_gradient(const trf__run *run, const trf__attention_gradient *a)
{
    int64_t heads = a->in.heads, rows = a->in.bias.rows;
    trf__tiles(run, a->in.n_spans * a->in.kv_heads, trf__attention_gradient_tile, a);
    if (!a->dbias) return;
    if (a->first_bias) memset(a->dbias, 0, (size_t)(rows * heads) * sizeof *a->dbias);
    for (int64_t i = 0; i < a->in.n_spans * heads; i++)
        for (int64_t row = 0; row < rows; row++)
            a->dbias[row * heads + i % heads] += a->partial[i * rows + row];
}

#endif

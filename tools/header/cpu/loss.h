#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "cpu/threads.h"
#include "cpu/gemm.h"
#include "cpu/bf16x3.h"
#include "cpu/products.h"
#include "cpu/verbs.h"
#include "cpu/linear.h"
#include "cpu/attention.h"

// >>cross_entropy  paper 3.4 and 5.4: vocabulary projection, softmax, label smoothing, all in one
//
//   z = x w^T + b     loss = - sum over v of q[v] (z[v] - log sum exp z) - entropy
//   q: `on` at the target, `off` elsewhere, 0 at zero_column; it sums to 1      dz = softmax(z) - q
//   dx = dz w     dw += dz^T x     db += sum of dz
//
// With `pairs`, y and z are the logits of one token in two passes (trf_train_options.consistency),
// p = softmax(y), p' = softmax(z), a the consistency, and Q the mean of their losses as above:
//
//   loss = Q + a D     D = (KL(p || p') + KL(p' || p)) / 2 = (m - m') / 2     u = y - z
//   m = sum of p u     m' = sum of p' u
//   dy = dQ/dy + a/2 (p - p' + p (u - m))     dz = dQ/dz + a/2 (p' - p + p' (m' - u))
//
// Both rows must be in one tile: rows of x are gathered, so that pairs are neighbours, and those of
// dx go back to their places.
//
// With teachers (trf_trainer_set_teachers), t their distribution and w their share:
//
//   loss = (1 - w) Q + w (log sum exp z - sum of t z)     dz = softmax(z) - (1 - w) q - w t
//
// Logits exist for one group of 512 rows at a time, as all of them may be the largest array of a
// step. Their gradient replaces them in place. Tiles of the first phase are rows (project, softmax,
// dx), those of the second are tokens of the vocabulary (dw, db).

enum { TRF__LOSS_GROUP = 512 };

/* One group: places row0 .. row0 + rows - 1 (trf__loss_place). ld: between rows of logits. */
typedef struct trf__loss_job {
    const trf__loss *l;
    trf__mat w;
    int64_t row0, rows, ld;
    int64_t each;               /* rows of a tile */
    int blas;
    trf_real *logits;           /* of the group */
    int32_t *hit;               /* of every place: whether its target was the most likely token */
    double *divergence;         /* of every pair */
    trf_real *pair_x, *pair_dx; /* with pairs, room for x and dx, and a row for each worker */
    trf_real *apart;
    void *panels;               /* of the weight, for the built-in product; or NULL */
    const trf_real *x;          /* rows of the group */
    trf_real *dx;
    trf__product all;           /* all rows of the group */
} trf__loss_job;

/* Cuts the scratch of a loss. A weight that is packed already (copied) needs no panels. */
TRF__FN size_t trf__loss_scratch_layout(void *work, const trf_device *device, int64_t rows,
                                        int64_t vocab, int64_t d, int copied, int paired,
                                        trf__loss_job *j)
{
    trf__cursor cursor = trf__cursor_at(work);
    int64_t group = trf__min64(rows, TRF__LOSS_GROUP);
    j->logits = trf__take_reals(&cursor, group, trf__round_up(vocab, 16));
    j->hit = TRF__TAKE(int32_t, &cursor, rows);
    j->panels = NULL;
    if (!copied && (trf__cpu_prefers_own(device) || trf__format_of(device) != TRF__FLOAT32))
        j->panels = trf__take(&cursor, 1, trf__formats[trf__format_of(device)].bytes(vocab, d));
    if (!paired) return cursor.used;
    j->divergence = TRF__TAKE(double, &cursor, rows / 2);
    j->pair_x = trf__take_reals(&cursor, group, d);
    j->pair_dx = trf__take_reals(&cursor, group, d);
    j->apart = trf__take_reals(&cursor, device->threads, trf__round_up(vocab, 16));
    return cursor.used;
}

TRF__FN size_t trf__cpu_loss_scratch(const trf_device *device, int64_t rows, int64_t vocab,
                                     int64_t d, int copied, int paired)
{
    trf__loss_job job;
    return trf__loss_scratch_layout(NULL, device, rows, vocab, d, copied, paired, &job);
}

/* z - maximum of sixteen logits. Below -1e30 it counts as that: infinity - infinity is NaN. */
TRF__INLINE trf__v16 trf__below(const trf_real *z, int64_t n, trf_real maximum)
{
    trf__v16 x = trf__min(trf__sub(trf__load_n(z, n), trf__set(maximum)), trf__set(0));
    return trf__max(x, trf__set((trf_real)-1e30));
}

/* The sum over all tokens of t (z - maximum), where t is what the teachers say of this row. */
TRF__FN double trf__taught(const trf__loss *l, int64_t row, const trf_real *z, trf_real maximum)
{
    const trf_real *t = trf__teachers_row(l, row);
    trf__v16 sum = trf__set(0);
    int64_t n = l->vocab;
    for (int64_t c = 0; c < n; c += 16) {
        trf__v16 q = trf__mul(trf__exp(trf__load_n(t + c, n - c)), trf__first(n - c));
        sum = trf__fma(q, trf__below(z + c, n - c, maximum), sum);
    }
    return (double)trf__sum(sum);
}

/* Subtracts the teachers' share from the gradient of a row. */
TRF__FN void trf__teach_row(const trf__loss *l, int64_t row, double weight, trf_real *dz)
{
    const trf_real *t = trf__teachers_row(l, row);
    const trf__v16 share = trf__set((trf_real)(-weight * l->share));
    int64_t n = l->vocab;
    for (int64_t c = 0; c < n; c += 16)
        trf__store_n(dz + c, trf__fma(trf__exp(trf__load_n(t + c, n - c)), share,
                                      trf__load_n(dz + c, n - c)), n - c);
}

/* The loss of a row with logits z, which become exp(z - the largest). Returns their sum. A row
   without a target (< 0) has no loss, and its z become 0. */
TRF__FN trf_real trf__row_loss(const trf__loss *l, int64_t row, trf_real *z, int32_t *hit)
{
    int32_t target = l->targets[row];
    int64_t n = l->vocab;
    trf_real at_zero = l->zero_column >= 0 ? z[l->zero_column] : 0;
    trf__v16 sum = trf__set(0), total = trf__set(0);
    double taught = 0;
    if (target < 0) {
        l->row_loss[row] = l->row_nll[row] = 0;
        *hit = 0;
        memset(z, 0, (size_t)n * sizeof *z);
        return 0;
    }
    trf_real maximum = trf__max_of(z, n), at_target = z[target];
    trf__v16 m = trf__set(maximum), factor = trf__set((trf_real)TRF__SMALL);
    trf__v16 off = trf__set(-maximum * (trf_real)TRF__SMALL);
    if (l->teachers) taught = trf__taught(l, row, z, maximum);
    /* total: the sum of z - maximum, scaled */
    for (int64_t c = 0; c < n; c += 16) {
        trf__v16 x = trf__load_n(z + c, n - c), valid = trf__first(n - c);
        /* the minimum: the zeros beyond the end may be far above m */
        trf__v16 e = trf__exp(trf__min(trf__sub(x, m), trf__set(0)));
        total = trf__fma(trf__fma(x, factor, off), valid, total);
        sum = trf__fma(e, valid, sum);
        trf__store_n(z + c, e, n - c);
    }
    double log_sum = trf__ln((double)trf__sum(sum));
    /* the sum of all log-probabilities, for label smoothing */
    double all = (double)trf__sum(total) / TRF__SMALL - (double)n * log_sum;
    trf__loss_of_row(l, row, (double)maximum, (double)at_target, (double)at_zero, all, log_sum);
    if (l->teachers) l->row_loss[row] += l->share * (log_sum - taught);
    *hit = at_target >= maximum;
    return trf__sum(sum);
}

/* The same. If gradients are wanted z becomes dz, times `weight`. */
TRF__FN void trf__loss_row(const trf__loss *l, int64_t row, double weight, trf_real *z,
                           int32_t *hit)
{
    int32_t target = l->targets[row];
    int64_t n = l->vocab;
    trf__v16 scale = trf__set(1 / trf__row_loss(l, row, z, hit)), off = trf__set((trf_real)-l->off);
    if (!l->dx || target < 0) return;
    for (int64_t c = 0; c < n; c += 16)
        trf__store_n(z + c, trf__fma(trf__load_n(z + c, n - c), scale, off), n - c);
    /* dz = softmax - q: `off` has been subtracted everywhere, here follow target and zero_column */
    z[target] -= (trf_real)(l->on - l->off);
    if (l->zero_column >= 0) z[l->zero_column] += (trf_real)l->off;
    for (int64_t c = 0; weight != 1 && c < n; c++) z[c] *= (trf_real)weight;
    if (l->teachers) trf__teach_row(l, row, weight, z);
}

// >>number-loss    labels that are numbers: a mean over the logits of a row (trf_label_kind)

/* The same, with numbers for labels. *hit: each z is >= 0 exactly where its number is >= 1/2. */
TRF__FN void trf__number_row(const trf__loss *l, int64_t row, double weight, trf_real *z,
                             int32_t *hit)
{
    const int64_t n = l->vocab;
    const float *y = l->numbers + row * n;
    double loss = 0, each = weight / (double)n, dz;
    trf_real less[TRF__WIDE];
    *hit = l->targets[row] >= 0 && l->labels == TRF_LABELS_ANY;
    for (int64_t c = 0; c < n && l->targets[row] >= 0; c += TRF__WIDE) {
        trf__v16 x = trf__load_n(z + c, n - c), minus = trf__sub(trf__set(0), x);
        trf__store(less, trf__exp(trf__min(x, minus)));
        for (int64_t k = c; k < n && k < c + TRF__WIDE; k++) {
            double e = (double)less[k - c];
            loss += trf__number_loss(l->labels, (double)z[k], (double)y[k], e, trf__ln(1 + e), &dz);
            *hit &= (z[k] >= 0) == (y[k] >= 0.5f);
            z[k] = (trf_real)(dz * each);
        }
    }
    l->row_loss[row] = l->row_nll[row] = loss / (double)n;
    if (l->targets[row] < 0) memset(z, 0, (size_t)n * sizeof *z);
}

#if !defined(TRF_NO_TRAIN)

// >>divergence     the loss of two rows that are two passes over one token

/* Two rows of logits, which become exp(z - maximum), and their u. Of each row: 1 / the sum of
   exp(z - maximum), and the mean of u. */
typedef struct trf__twin {
    trf_real *z[2], *u, scale[2], mean[2];
} trf__twin;

/* The losses of both rows and their divergence. */
TRF__FN void trf__pair_loss(const trf__loss_job *j, trf__twin *p, int64_t pair, int32_t *hit)
{
    const trf__loss *l = j->l;
    const trf_real most[2] = { trf__max_of(p->z[0], l->vocab), trf__max_of(p->z[1], l->vocab) };
    int64_t n = l->vocab;
    double mean[2];
    for (int64_t c = 0; c < n; c += 16)
        trf__store_n(p->u + c, trf__sub(trf__below(p->z[0] + c, n - c, most[0]),
                                        trf__below(p->z[1] + c, n - c, most[1])), n - c);
    for (int k = 0; k < 2; k++) {
        const trf_real sum = trf__row_loss(l, pair + k * l->pairs, p->z[k], &hit[k]);
        trf__v16 apart = trf__set(0);
        for (int64_t c = 0; c < n; c += 16)
            apart = trf__fma(trf__load_n(p->z[k] + c, n - c), trf__load_n(p->u + c, n - c), apart);
        p->scale[k] = 1 / sum;
        mean[k] = (double)trf__sum(apart) / (double)sum;
        p->mean[k] = (trf_real)mean[k];
    }
    j->divergence[pair] = (mean[0] - mean[1]) / 2;
}

/* Both rows become their gradients, times `weight`. */
TRF__FN void trf__pair_gradient(const trf__loss *l, const trf__twin *p, int64_t pair, double weight)
{
    const int32_t target = l->targets[pair];
    const trf__v16 part = trf__set((trf_real)(weight / 2)),
                   off = trf__set((trf_real)(-weight / 2 * l->off)),
                   a = trf__set((trf_real)(weight / 2 * l->consistency));
    int64_t n = l->vocab;
    for (int64_t c = 0; c < n; c += 16) {
        const trf__v16 between = trf__load_n(p->u + c, n - c);
        trf__v16 own[2];
        for (int k = 0; k < 2; k++)
            own[k] = trf__mul(trf__load_n(p->z[k] + c, n - c), trf__set(p->scale[k]));
        for (int k = 0; k < 2; k++) {
            trf__v16 u = k ? trf__sub(trf__set(p->mean[1]), between)
                         : trf__sub(between, trf__set(p->mean[0]));
            trf__store_n(p->z[k] + c, trf__fma(own[k], trf__fma(u, a, part),
                                               trf__fma(trf__sub(own[k], own[1 - k]), a, off)),
                         n - c);
        }
    }
    for (int k = 0; k < 2; k++) {
        p->z[k][target] -= (trf_real)(weight / 2 * (l->on - l->off));
        if (l->zero_column >= 0) p->z[k][l->zero_column] += (trf_real)(weight / 2 * l->off);
        if (l->teachers) trf__teach_row(l, pair, weight / 2, p->z[k]);
    }
}

/* trf__loss_row for both rows of a pair, whose logits are neighbours. */
TRF__FN void trf__loss_pair(const trf__loss_job *j, int64_t pair, double weight, trf_real *z,
                            int32_t *hit, int worker)
{
    const trf__loss *l = j->l;
    trf__twin p;
    p.z[0] = z;
    p.z[1] = z + j->ld;
    p.u = j->apart + worker * j->ld;
    if (l->targets[pair] >= 0) {
        trf__pair_loss(j, &p, pair, hit);
        if (l->dx) trf__pair_gradient(l, &p, pair, weight);
        return;
    }
    j->divergence[pair] = 0;
    (void)trf__row_loss(l, pair, p.z[0], &hit[0]);
    (void)trf__row_loss(l, pair + l->pairs, p.z[1], &hit[1]);
}

/* dx = dz w of some rows of the group */
TRF__FN trf__product trf__loss_dx(const trf__loss_job *j, int64_t first, int64_t rows)
{
    const trf__loss *l = j->l;
    return trf__product_of(j->dx + first * l->d, l->d, rows, l->d, l->vocab,
                           trf__view_of(j->logits + first * j->ld, j->ld, 1),
                           trf__view_of(j->w.plain + j->w.row * l->d, l->d, 1), 0);
}

/* Whether dx is computed for all rows of a group at a time, with the weight packed once. In 16
   bits, packing costs more than reading the logits again. And only packed weights are split. */
TRF__FN int trf__loss_dx_later(const trf__run *run, const trf__product *logits)
{
    return run->format != TRF__FLOAT32 || logits->bf16x3;
}
#endif

/* Phase one for some rows of the group. The products run inside the tile: its logits are still in
   the cache when dx reads them. */
TRF__TILE(trf__loss_rows_tile)
{
    const trf__loss_job *j = (const trf__loss_job *)job;
    const trf__loss *l = j->l;
    int64_t first = tile * j->each, row = j->row0 + first, r;
    int64_t rows = trf__min64(j->each, j->rows - first);
    trf_real *z = j->logits + first * j->ld;
    trf__product p = j->all;
    double weight = l->of_sequences && run->now ? run->now->sequence_weight : 1;
    trf__product_rows(&p, first, rows);
    p.c = z;
    trf__multiply(run, worker, j->blas, trf__reads_packed(&j->w) ? &j->w : NULL, 0, p);
    for (r = 0; !l->pairs && r < rows; r++)
        (l->labels ? trf__number_row : trf__loss_row)(l, row + r, weight, z + r * j->ld,
                                                      &j->hit[row + r]);
#if !defined(TRF_NO_TRAIN)
    for (; l->pairs && r < rows; r += 2)
        trf__loss_pair(j, (row + r) / 2, weight, z + r * j->ld, &j->hit[row + r], worker);
    if (l->dx && !trf__loss_dx_later(run, &j->all))
        trf__multiply(run, worker, j->blas, NULL, 0, trf__loss_dx(j, first, rows));
#endif
}

/* The sums over all rows, in their order, so that tiles change no bit. */
TRF__FN void trf__loss_sums(const trf__loss_job *j, const trf__now *now)
{
    const trf__loss *l = j->l;
    TRF__ZEROED(trf__sums, sums);
    for (int64_t i = 0; i < l->rows; i++) {
        sums.loss += l->row_loss[i];
        sums.nll += l->row_nll[i];
        sums.correct += j->hit[i];
        sums.tokens += l->targets[i] >= 0;
    }
    for (int64_t i = 0; i < l->pairs; i++) sums.divergence += j->divergence[i];
    trf__store_loss(l, now, &sums);
}

/* Where the rows of x and dx of the group are. With pairs those of x are gathered. */
TRF__FN void trf__loss_gather(trf__loss_job *j)
{
    const trf__loss *l = j->l;
    int64_t d = l->d;
    j->x = l->pairs ? j->pair_x : trf__from(l->x) + j->row0 * d;
    j->dx = !l->dx ? NULL : l->pairs ? j->pair_dx : trf__to(l->dx) + j->row0 * d;
    for (int64_t i = 0; l->pairs && i < j->rows; i++)
        memcpy(j->pair_x + i * d, trf__from(l->x) + trf__loss_place(l, j->row0 + i) * d,
               (size_t)d * sizeof(trf_real));
}

TRF__FN void trf__cpu_cross_entropy(const trf__run *run, const trf__loss *l)
{
    trf__loss_job job;
    const int64_t threads = trf__cpu_of(run)->threads;
    job.l = l;
    job.w = l->w;
    job.ld = trf__round_up(l->vocab, 16);
    job.blas = trf__use_blas(run, l->rows, &l->w);
    /* CBLAS: a quarter of a group. Built-in product: two tiles for each thread, as no bit depends
       on the cut; or only one, if every tile splits the weight */
    int64_t tiles = job.blas ? 4 : trf__cpu_of(run)->bf16x3 ? threads : trf__max64(4, 2 * threads);
    job.each = trf__round_up(trf__ceil_div(TRF__LOSS_GROUP, tiles), 32);
    trf__loss_scratch_layout(l->work, &run->device, l->rows, l->vocab, l->d, l->w.packed != NULL,
                  l->pairs > 0, &job);
    /* the weight changes in every step, so its panels are made here, once for all groups */
    if (!job.blas && !job.w.packed && job.panels) {
        trf__pack pack = trf__pack_of(job.panels, l->w.plain + l->w.row * l->d, l->vocab, l->d,
                                      run->format);
        trf__cpu_pack(run, &pack);
        job.w.plain = pack.weights;
        job.w.packed = job.panels;
        job.w.row = 0;
        job.w.format = pack.format;
    }
    /* runs once even without rows, as `first` must set the gradients of the weight */
    for (job.row0 = 0; job.row0 < l->rows || job.row0 == 0; job.row0 += TRF__LOSS_GROUP) {
        job.rows = trf__min64(TRF__LOSS_GROUP, l->rows - job.row0);
        trf__loss_gather(&job);
        job.all = trf__product_of(job.logits, job.ld, job.rows, l->vocab, l->d,
                                  trf__view_of(job.x, l->d, 1),
                                  trf__weight_view(&job.w, l->d), 0);
        job.all.bias = l->bias;
        job.all.bf16x3 = trf__use_bf16x3(run, job.rows);
        trf__convert(run, trf__reads_packed(&job.w) ? &job.w : NULL, &job.all);
        trf__product_tiles(run, job.blas, trf__ceil_div(job.rows, job.each), trf__loss_rows_tile,
                           &job);
#if !defined(TRF_NO_TRAIN)
        if (l->dx && trf__loss_dx_later(run, &job.all)) {
            trf__product dx = trf__loss_dx(&job, 0, job.rows);
            trf__product_all(run, 0, NULL, &dx);
        }
        if (l->dx) {
            trf__dw_job dw = { l->dw, l->db, job.logits, job.x, job.rows, l->vocab, l->d,
                               job.ld, l->first && job.row0 == 0 };
            trf__dw_all(run, &dw);
        }
#endif
        for (int64_t i = 0; l->pairs && l->dx && i < job.rows; i++)
            memcpy(trf__to(l->dx) + trf__loss_place(l, job.row0 + i) * l->d, job.dx + i * l->d,
                   (size_t)l->d * sizeof(trf_real));
    }
    trf__loss_sums(&job, run->now);
}

#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "cuda/launches.h"
#include "cuda/layers.h"
#include "cuda/attention.h"

#if TRF__CUDA

// >>cuda-top       the best next tokens of a row of logits
//
// The formulas are in >>top. All logits of the live rows exist here: there are few rows.

/* logits of a thread, and of a block */
enum { TRF__TOP_EACH = 8, TRF__TOP_SLICE = TRF__TOP_EACH * TRF__CUDA_THREADS };

/* Rows are cut into slices, so that even few rows give work to many blocks. */
typedef struct trf__top_parts {
    int64_t slices;
    float *sums;                /* (rows, slices, 2) maximum, and sum of exp(z - maximum) */
    uint64_t *keys;             /* (rows, slices, n) the best of a slice, best first; 0: no more */
    float *logits;              /* (rows, vocab) */
} trf__top_parts;

TRF__FN size_t trf__cuda_top_scratch_layout(void *work, int64_t rows, int64_t vocab, int64_t n,
                                 trf__top_parts *p)
{
    trf__cursor cursor = trf__cursor_at(work);
    p->slices = trf__ceil_div(vocab, TRF__TOP_SLICE);
    p->sums = (float *)trf__take(&cursor, rows, trf__bytes(p->slices, 2 * sizeof(float)));
    p->keys = (uint64_t *)trf__take(&cursor, rows,
                                    trf__bytes(p->slices, trf__bytes(n, sizeof(uint64_t))));
    p->logits = (float *)trf__take(&cursor, rows, trf__bytes(vocab, sizeof(float)));
    return cursor.used;
}

TRF__FN size_t trf__cuda_top_scratch(const trf_device *, int64_t rows, int64_t vocab, int64_t n)
{
    trf__top_parts parts;
    return trf__cuda_top_scratch_layout(NULL, rows, vocab, n, &parts);
}

/* A logit and its id as one number: a better logit gives a larger number, and so does a lower id of
   equal logits. Bits of floats are ordered like the floats after negative ones are inverted and the
   sign of the others is set. Adding 0 makes -0 equal to 0. */
TRF__DEVICE uint64_t trf__top_key(float z, int64_t id)
{
    uint32_t u = trf__float_bits(z + 0.0f);
    return (uint64_t)(u >> 31 ? ~u : u | 0x80000000u) << 32 | (uint32_t)~id;
}

/* A block for each row takes the ids that have a rule out of its logits and keeps them: the softmax
   still counts them. Of an id that occurs twice the first is kept, and -infinity for the others. */
TRF__KERNEL void trf__gpu_top_rules(trf__top t, trf__top_parts p)
{
    const trf__rules r = t.rules;
    for (int64_t row = blockIdx.x; row < t.rows; row += gridDim.x) {
        float *z = p.logits + row * t.vocab;
        trf_real *kept = r.kept + row * (r.stride + r.n_alone);
        const int32_t *ids = r.ids + row * r.stride;
        if (t.only && t.only[row] >= 0) continue;
        for (int32_t i = (int32_t)threadIdx.x; i < r.n_alone; i += TRF__CUDA_THREADS) {
            kept[r.stride + i] = z[r.alone[i]];
            z[r.alone[i]] = -INFINITY;
        }
        __syncthreads();
        for (int32_t i = (int32_t)threadIdx.x; r.ids && i < r.counts[2 * row + 1];
             i += TRF__CUDA_THREADS) {
            int32_t id = ids[r.history + i];
            kept[r.history + i] = id < 0 ? -INFINITY : z[id];
            if (id >= 0) z[id] = -INFINITY;
        }
        __syncthreads();
        for (int64_t k = row * r.n_phrase_next + threadIdx.x; k < (row + 1) * r.n_phrase_next;
             k += TRF__CUDA_THREADS)
            r.phrase_next_scores[k] = r.phrase_next[k] < 0 ? -INFINITY : z[r.phrase_next[k]];
        __syncthreads();
        for (int32_t i = (int32_t)threadIdx.x; r.ids && i < r.counts[2 * row];
             i += TRF__CUDA_THREADS) {
            bool again = ids[i] < 0;
            for (int32_t k = 0; k < i && !again; k++) again = ids[k] == ids[i];
            kept[i] = again ? -INFINITY : z[ids[i]];
            if (!again) z[ids[i]] = -INFINITY;
        }
    }
}

/* Number k of the logits that the rules have kept of a row; there are trf__gpu_saved_count. */
TRF__DEVICE int32_t trf__gpu_saved_count(const trf__rules *r, int64_t row)
{
    return r->n_alone + (r->ids ? r->counts[2 * row] + r->counts[2 * row + 1] : 0);
}

TRF__DEVICE float trf__gpu_saved_logit(const trf__rules *r, int64_t row, int32_t k)
{
    const trf_real *kept = r->kept + row * (r->stride + r->n_alone);
    int32_t n = r->ids ? r->counts[2 * row] : 0;
    if (k < r->n_alone) return kept[r->stride + k];
    k -= r->n_alone;
    return k < n ? kept[k] : kept[r->history + k - n];
}

/* A block for each slice; a thread takes every 256th logit. The block finds the best one, removes
   it, finds the next, and so on n times. */
TRF__KERNEL void trf__gpu_top_slices(trf__top t, trf__top_parts p)
{
    TRF__SHARED(float, shared, TRF__CUDA_WARPS);
    TRF__SHARED(uint64_t, best, TRF__CUDA_WARPS);
    for (int64_t tile = blockIdx.x; tile < t.rows * p.slices; tile += gridDim.x) {
        int64_t row = tile / p.slices, begin = tile % p.slices * TRF__TOP_SLICE + threadIdx.x;
        int32_t only = t.only ? t.only[row] : TRF__ANY;
        /* each thread keeps its logits in registers */
        float z[TRF__TOP_EACH], maximum = -FLT_MAX, sum = 0;
        uint64_t keys[TRF__TOP_EACH];
        for (int i = 0; i < TRF__TOP_EACH; i++) {
            int64_t c = begin + i * TRF__CUDA_THREADS;
            bool out = only == TRF__NOT_EOS && trf__is_end(t.eos, &t.ends, (int32_t)c);
            z[i] = c < t.vocab && !out ? p.logits[row * t.vocab + c] : -INFINITY;
            bool banned = c == t.banned[0] || c == t.banned[1] || c == t.banned[2];
            keys[i] = z[i] > -INFINITY && !banned ? trf__top_key(z[i], c) : 0;
            maximum = fmaxf(maximum, z[i]);
        }
        maximum = trf__block_max(maximum, shared);
        for (int i = 0; i < TRF__TOP_EACH; i++) sum += expf(z[i] - maximum);
        sum = trf__block_sum(sum, shared);
        if (threadIdx.x == 0) { p.sums[2 * tile] = maximum; p.sums[2 * tile + 1] = sum; }
        for (int64_t k = 0; only < 0 && k < t.n; k++) {
            uint64_t next = 0;
            for (int i = 0; i < TRF__TOP_EACH; i++) if (keys[i] > next) next = keys[i];
            next = trf__block_max(next, best);
            /* keys contain the id, so at most one thread has this one */
            for (int i = 0; i < TRF__TOP_EACH; i++) if (keys[i] == next) keys[i] = 0;
            if (threadIdx.x == 0) p.keys[tile * t.n + k] = next;
        }
    }
}

/* A block for each row: it merges the slices. Keys are unique, so the next best is the largest key
   below the last one. */
TRF__KERNEL void trf__gpu_top(trf__top t, trf__top_parts p)
{
    TRF__SHARED(float, shared, TRF__CUDA_WARPS);
    TRF__SHARED(uint64_t, best, TRF__CUDA_WARPS);
    for (int64_t row = blockIdx.x; row < t.rows; row += gridDim.x) {
        const float *sums = p.sums + 2 * row * p.slices;
        const uint64_t *keys = p.keys + row * p.slices * t.n;
        int32_t only = t.only ? t.only[row] : TRF__ANY;
        float maximum = -FLT_MAX, sum = 0;
        uint64_t last = UINT64_MAX;
        int32_t n_kept = only >= 0 ? 0 : trf__gpu_saved_count(&t.rules, row);
        for (int64_t s = threadIdx.x; s < p.slices; s += TRF__CUDA_THREADS)
            maximum = fmaxf(maximum, sums[2 * s]);
        for (int32_t k = (int32_t)threadIdx.x; k < n_kept; k += TRF__CUDA_THREADS)
            maximum = fmaxf(maximum, trf__gpu_saved_logit(&t.rules, row, k));
        maximum = trf__block_max(maximum, shared);
        for (int64_t s = threadIdx.x; s < p.slices; s += TRF__CUDA_THREADS)
            sum += sums[2 * s + 1] * expf(sums[2 * s] - maximum);
        for (int32_t k = (int32_t)threadIdx.x; k < n_kept; k += TRF__CUDA_THREADS)
            sum += expf(trf__gpu_saved_logit(&t.rules, row, k) - maximum);
        double lse = (double)maximum + log((double)trf__block_sum(sum, shared));
        if (t.rest && threadIdx.x == 0) {
            double x = -HUGE_VAL;           /* of EOS and the ends together */
            for (int32_t k = -1; only == TRF__NOT_EOS && k < t.ends.n; k++) {
                int32_t id = k < 0 ? t.eos : t.ends.ids[k], i = -1;
                while (i < k && (i < 0 ? t.eos : t.ends.ids[i]) != id) i++;
                if (i < k) continue;        /* a second time */
                double y = (double)p.logits[row * t.vocab + id] - lse;
                x = k < 0 ? y : fmax(x, y) + log1p(exp(-fabs(x - y)));
            }
            t.rest[row] = -fmax(x, 0.0) - log1p(exp(-fabs(x)));
        }
        if (t.scores) lse = 0;
        for (int64_t i = 0; i < t.n; i++) {
            uint64_t next = 0;
            for (int64_t k = threadIdx.x; only < 0 && k < p.slices * t.n; k += TRF__CUDA_THREADS)
                if (keys[k] > next && keys[k] < last) next = keys[k];
            last = trf__block_max(next, best);
            int32_t id = only >= 0 && i == 0 ? only : last ? (int32_t)~(uint32_t)last : -1;
            if (threadIdx.x != 0) continue;
            int64_t at = row * (t.n + t.rules.n_phrase_next) + i;
            t.ids[at] = id;
            double z = id < 0 ? -HUGE_VAL : (double)p.logits[row * t.vocab + id];
            t.log_probabilities[at] = z - lse;
            if (t.ruled) t.ruled[at] = t.rules.greedy ? z : z - lse;
        }
        if (t.ruled && threadIdx.x == 0) trf__top_penalize(&t, row, lse);
        if (t.rules.phrase_next && threadIdx.x == 0) trf__top_phrase_next(&t, row, lse);
    }
}

TRF__FN void trf__cuda_top(const trf__run *run, const trf__top *t)
{
    trf__top_parts parts;
    trf__linear z;
    trf__cuda_top_scratch_layout(t->work, t->rows, t->vocab, t->n, &parts);
    if (t->mixed) parts.logits = t->mixed;
    /* logits in floats even if activations have 16 bits: their order decides */
    z.y = (trf__act *)(void *)parts.logits; z.x = t->x; z.w = t->w; z.b = t->bias;
    z.rows = t->rows; z.out = t->vocab; z.in = t->d;
    if (!t->mixed) trf__cuda_project(run, "top", &z, 1);
    if (t->rules.n_alone || t->rules.ids || t->rules.phrase_next)
        trf__launch(run, "top", t->rows, trf__gpu_top_rules, *t, parts);
    trf__launch(run, "top", t->rows * parts.slices, trf__gpu_top_slices, *t, parts);
    trf__launch(run, "top", t->rows, trf__gpu_top, *t, parts);
}

// >>cuda-mix       several models as one; histories of rows, the cache

/* A block for each row: it adds a model's log-probabilities (>>mix). */
TRF__KERNEL void trf__gpu_mix(trf__mix j)
{
    TRF__SHARED(float, shared, TRF__CUDA_WARPS);
    for (int64_t row = blockIdx.x; row < j.rows; row += gridDim.x) {
        float *sum = j.sum + row * j.vocab, most = -FLT_MAX, all = 0;
        const float *z = j.first ? sum : j.logits + row * j.vocab;
        for (int64_t c = threadIdx.x; c < j.vocab; c += TRF__CUDA_THREADS) most = fmaxf(most, z[c]);
        most = trf__block_max(most, shared);
        for (int64_t c = threadIdx.x; c < j.vocab; c += TRF__CUDA_THREADS) all += expf(z[c] - most);
        bool mean = j.rule == TRF_ENSEMBLE_ARITHMETIC;
        float off = (float)(log((double)trf__block_sum(all, shared)) - (mean ? log(j.weight) : 0));
        for (int64_t c = threadIdx.x; c < j.vocab; c += TRF__CUDA_THREADS) {
            float l = z[c] - most - off, before = sum[c];
            if (!mean) sum[c] = (float)j.weight * l + (j.first ? 0 : before);
            else if (j.first) sum[c] = l;
            else {
                float larger = fmaxf(before, l);
                sum[c] = larger < -FLT_MAX ? larger : larger + log1pf(expf(-fabsf(before - l)));
            }
        }
    }
}

TRF__FN void trf__cuda_mix(const trf__run *run, const trf__mix *j)
{
    trf__linear z;
    z.y = (trf__act *)(void *)(j->first ? j->sum : j->logits);
    z.x = j->x; z.w = j->w; z.b = j->bias;
    z.rows = j->rows; z.out = j->vocab; z.in = j->d;
    trf__cuda_project(run, "mix", &z, 1);
    trf__launch(run, "mix", j->rows, trf__gpu_mix, *j);
}

/* A block for each row, a thread for each token of its history. */
TRF__KERNEL void trf__gpu_backpointers(trf__backpointers j)
{
    for (int64_t r = blockIdx.x; r < j.rows; r += gridDim.x)
        for (int32_t i = (int32_t)threadIdx.x; i <= j.position[r]; i += (int32_t)blockDim.x)
            j.to[r * j.stride + i] = i < j.position[r] ? j.from[j.parents[r] * j.stride + i]
            : j.slots[r];
}

TRF__LAUNCHED_OP(backpointers, trf__backpointers, 128, j->rows, trf__gpu_backpointers, *j)

/* A block for each row. Areas have no layout of their own here: attention reads rows. */
template <class A> TRF__KERNEL void trf__gpu_append_kv(trf__append_kv j)
{
    for (int64_t r = blockIdx.x; r < j.rows; r += gridDim.x)
        for (int64_t c = threadIdx.x; c < j.width && j.slots[r] >= 0; c += blockDim.x)
            ((A *)(void *)j.cache)[j.slots[r] * j.width + c] =
            ((const A *)(const void *)j.fresh)[r * j.width + c];
}

TRF__ACT_OP(append_kv, trf__append_kv, 128, j->rows, *j)

// >>cuda-reorder   beam search on the device
//
// The host sees only tokens some steps later: sentences choose here, and the next token's rows are
// listed without it.

/* One block, a thread for each sentence: it runs the sentence's step of search. Its rows follow
   those of lower threads, as on the CPU. */
TRF__KERNEL void trf__gpu_reorder(trf__reorder a)
{
    TRF__SHARED(int32_t, rows, TRF__CUDA_THREADS);
    trf__progress now = trf__reorder_from(&a);
    int32_t end = a.progress->n_live + a.begin;
    for (int32_t k0 = now.n_live; k0 < end; k0 += TRF__CUDA_THREADS) {
        int32_t k = k0 + (int32_t)threadIdx.x, live = 0, place = 0, before = 0, number = now.n_live,
            row = now.rows;
        if (k < end) {
            before = a.begin ? 0 : a.starts[k];
            place = trf__reorder_sentence(&a, k);
            live = a.beams[place].live;
        }
        rows[threadIdx.x] = live;
        __syncthreads();
        /* every thread adds up the rows of all, so that all know the totals */
        for (int32_t t = 0; t < TRF__CUDA_THREADS; t++) {
            if (t == (int32_t)threadIdx.x) { number = now.n_live; row = now.rows; }
            now.n_live += rows[t] > 0;
            now.rows += rows[t];
        }
        /* all have read their slot of `live` before one of them is overwritten */
        __syncthreads();
        if (live > 0) trf__reorder_rows(&a, place, number, row, before, now.at);
    }
    for (int64_t r = now.rows + threadIdx.x; r < a.rows; r += TRF__CUDA_THREADS)
        trf__reorder_padding(&a, r);
    for (int64_t k = now.n_live + threadIdx.x; k < a.n_cross; k += TRF__CUDA_THREADS)
        trf__reorder_ended(&a, k);
    __syncthreads();                    /* all have read a.progress before it changes */
    if (threadIdx.x == 0) *a.progress = now;
}

TRF__LAUNCHED_OP(reorder, trf__reorder, TRF__CUDA_THREADS, 1, trf__gpu_reorder, *j)

#endif /* TRF__CUDA */

#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/train.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"

// -----------------------------------------------------------------------------------------------
// >>shared         what the CPU and a GPU compute by the same text
//
// The scalars that rules consist of: the keys that a query sees, counters of random numbers, a
// norm's factor, the loss of a row, the decision of clipping, Adam's coefficients. Each backend has
// its own loops, and both call these functions, so their rules cannot differ.
// -----------------------------------------------------------------------------------------------

/* ---- attention (paper 3.2.1) ---- */

/* One head of one span: the work of one tile. */
typedef struct trf__head {
    const trf__attention_in *in;
    const trf__span *span;
    const int32_t *key_rows;    /* this span's key rows, or NULL */
    int head;
    int64_t first, key_first;   /* this head's column in q and out, and in k and v */
    trf_real scale;
} trf__head;

TRF__BOTH double trf__default_scale(int d_head) { return 1 / sqrt((double)d_head); }

TRF__BOTH trf__head trf__head_of(const trf__attention_in *in, int64_t tile)
{
    trf__head h;
    int64_t s = tile / in->heads;
    h.in = in;
    h.span = &in->spans[s];
    h.key_rows = in->key_rows ? in->key_rows + s * in->key_stride : NULL;
    h.head = (int)(tile % in->heads);
    h.first = (int64_t)h.head * in->d_head;
    h.key_first = (int64_t)(h.head / (in->heads / in->kv_heads)) * in->d_head;
    h.scale = (trf_real)in->scale;
    return h;
}

/* The slope of ALiBi for head 0, 1, ... of n. For n = 2^k it is 2^(-8 (head + 1) / n). For other n
   the first 2^k heads, 2^k < n, have those of 2^k, and the others every second one of 2^(k+1)
   (Press et al.'s program). */
TRF__BOTH double trf__alibi_slope(int head, int n)
{
    int power = 1;
    while (2 * power <= n) power *= 2;
    return pow(2.0, head < power ? -8.0 * (head + 1) / power
                               : -4.0 * (2 * (head - power) + 1) / power);
}

TRF__BOTH int trf__biased(const trf__attention_in *in)
{
    return in->bias.alibi || in->bias.table || in->bias.numbers;
}

/* Where query i of the span begins in a list with a block for each span, (heads, n_query, n_key) or
   without heads. */
TRF__BOTH int64_t trf__pairs_of(const trf__head *h, int64_t i, int per_head)
{
    const trf__span *span = h->span;
    int64_t before = h->in->bias.pairs[span - h->in->spans];
    if (per_head) before = before * h->in->heads + (int64_t)h->head * span->n_query * span->n_key;
    return before + i * span->n_key;
}

/* Where the caller's numbers for query i of the span begin, one for each key. */
TRF__BOTH int64_t trf__numbers_at(const trf__head *h, int64_t i)
{
    const trf__bias *bias = &h->in->bias;
    if (!bias->keys) return trf__pairs_of(h, i, bias->per_head);
    return ((bias->per_head ? h->head : 0) * bias->queries + i) * bias->keys;
}

/* The row of the table for a distance, key minus query. */
TRF__BOTH int64_t trf__bias_row(const trf__bias *bias, int64_t distance)
{
    int64_t reach = bias->reach;
    return bias->row_of[reach + (distance < -reach ? -reach : distance > reach ? reach : distance)];
}

/* What is added for a distance. slope: of ALiBi, for this head. */
TRF__BOTH trf_real trf__bias_at(const trf__head *h, trf_real slope, int64_t distance)
{
    const trf__bias *bias = &h->in->bias;
    if (bias->table) return bias->table[trf__bias_row(bias, distance) * h->in->heads + h->head];
    return -slope * (trf_real)(distance < 0 ? -distance : distance);
}

TRF__BOTH int64_t trf__key_row(const trf__head *h, int64_t i)
{
    return h->key_rows ? h->key_rows[i] : h->span->key + i;
}

/* The number of keys that query i of the span sees. If there are more keys than queries (a cache),
   the queries are the last ones. */
TRF__BOTH int64_t trf__keys_seen(const trf__head *h, int64_t i)
{
    return h->in->causal ? (int64_t)h->span->n_key - h->span->n_query + i + 1 : h->span->n_key;
}

/* Counter of the Philox block for keys 8 * block .. + 7 of one query (>>attention: its bits). */
TRF__BOTH void trf__weight_counter(uint32_t counter[2], uint32_t head, int64_t query, int64_t block)
{
    /* up to 2^17 blocks, 2^20 queries and 2^27 heads have different counters */
    counter[0] = (uint32_t)block | head >> 12 << 17;
    counter[1] = (uint32_t)query | (head & 0xFFF) << 20;
}

/* ---- dropout (paper 5.4) ---- */

/* The key's second word: it differs for every site, so sites draw independent masks. (The constant
   is 2^32 divided by the golden ratio.) */
TRF__BOTH uint32_t trf__site_key(const trf__now *now, const trf__drop *drop)
{
    return now->key1 ^ drop->site * 0x9E3779B9u;
}

/* ---- layer norm (Ba et al. 2016) and pooling ---- */

/* The factor of a row of d numbers. squares: sum of squared distances from the mean (RMS: 0). */
TRF__BOTH double trf__norm_factor(int rule, double squares, int64_t d, double epsilon)
{
    if (rule == TRF_NORM_ANNOTATED)
        return 1 / (sqrt(squares / (double)(d > 1 ? d - 1 : 1)) + epsilon);
    return 1 / sqrt(squares / (double)d + epsilon);
}

/* The number of rows that a span contributes. */
TRF__BOTH int64_t trf__pooled(const trf__span *span, int64_t most)
{
    return span->n_query < most ? span->n_query : most;
}

// >>shared-loss    the loss (paper 5.4), its sums, clipping, Adam

/* 2^-25: sums of logits near the largest float, scaled by it, do not overflow; a power of two adds
   no rounding */
#define TRF__SMALL (1.0 / 33554432)

/* The loss of a row from sums over its logits z. all: the sum of the log-probabilities of all
   tokens. log_sum: the logarithm of the sum of exp(z - maximum). */
TRF__BOTH void trf__loss_of_row(const trf__loss *l, int64_t row, double maximum, double at_target,
                                double at_zero, double all, double log_sum)
{
    double zero = l->zero_column >= 0 ? at_zero - maximum - log_sum : 0;
    /* in this order, as maximum may be huge and log_sum small */
    double nll = maximum - at_target + log_sum, loss = (l->on - l->off) * nll;
    if (l->off != 0) loss -= l->off * (all - zero);     /* 0 * infinity must not be NaN */
    l->row_nll[row] = nll;
    l->row_loss[row] = loss - l->entropy;
}

/* What teachers say of a row. Both rows of a pair are one token. */
TRF__BOTH const trf_real *trf__teachers_row(const trf__loss *l, int64_t row)
{
    return l->teachers + (row < l->pairs ? row : row - l->pairs) * l->vocab;
}

/* The row that stands at place i of a loss: with pairs both rows of a token are neighbours. */
TRF__BOTH int64_t trf__loss_place(const trf__loss *l, int64_t i)
{
    return l->pairs ? i / 2 + i % 2 * l->pairs : i;
}

/* The sigmoid of z, in its range for any z. less: exp(-|z|). */
TRF__BOTH double trf__sigmoid_of(double z, double less) { return (z < 0 ? less : 1) / (1 + less); }

/* What one logit z adds to the loss of a row whose labels are numbers, and the loss's derivative.
   less: exp(-|z|); log_more: ln(1 + less). Both stay in their ranges for any z, as those of
   PyTorch's BCEWithLogitsLoss:
     ANY      max(z, 0) - z y + ln(1 + e^-|z|)     sigmoid(z) - y
     NUMBERS  (z - y)^2                            2 (z - y) */
TRF__BOTH double trf__number_loss(int labels, double z, double y, double less, double log_more,
                                  double *dz)
{
    double gap = z - y;
    if (labels == TRF_LABELS_NUMBERS) {
        *dz = 2 * gap;
        return gap * gap;
    }
    *dz = trf__sigmoid_of(z, less) - y;
    return (z > 0 ? z * (1 - y) : -z * y) + log_more;
}

#if !defined(TRF_NO_TRAIN)

/* Adds to a double that is stored as two numbers of the arena's type, so that sums over ranks keep
   its precision. */
TRF__BOTH void trf__tally_add(trf_real *slots, int slot, double x)
{
    double sum = (double)slots[slot] + (double)slots[slot + 1] + x;
    slots[slot] = (trf_real)sum;
    slots[slot + 1] = (trf_real)(sum - (double)slots[slot]);
}

TRF__BOTH double trf__tally(const trf_real *slots, int slot)
{
    return (double)slots[slot] + (double)slots[slot + 1];
}

#endif

/* Stores the sums of a loss, and adds them to the step's tallies. now NULL: no training. */
TRF__BOTH void trf__store_loss(const trf__loss *l, const trf__now *now, trf__sums *sums)
{
    (void)now;
    if (l->pairs) {                 /* halves of doubles are exact */
        sums->loss /= 2; sums->nll /= 2; sums->correct /= 2; sums->tokens /= 2;
    }
    if (l->sums) *l->sums = *sums;
#if !defined(TRF_NO_TRAIN)
    if (!l->slots) return;
    if (l->first && !l->of_sequences) memset(l->slots, 0, TRF__TALLIES * sizeof *l->slots);
#define TRF__X(second, field, tally) \
    if (l->of_sequences == second && (l->pairs || TRF__TALLY_##tally < TRF__TALLY_DIVERGENCE)) \
        trf__tally_add(l->slots, TRF__TALLY_##tally, sums->field);
    TRF__TALLIED(TRF__X)
#undef TRF__X
    if (l->of_sequences) return;    /* the loss of tokens has begun the tallies */
    trf__tally_add(l->slots, TRF__TALLY_SOURCE, now ? now->source_tokens : 0);
#endif
}

#if !defined(TRF_NO_TRAIN)

/* ---- clipping, Adam (Kingma and Ba 2015): see >>clip and >>adam ---- */

/* From the sum of all squares: norm, scale, and whether to skip the step. Comparisons are written
   so that NaN leads to skipping. */
TRF__BOTH void trf__decide_clipping(const trf__clip *j, double sum, int64_t bad_tile)
{
    trf__clip_result *v = j->clip_result;
    trf__sums *sums = v->sums;
    TRF__ZERO(sums[1]);
#define TRF__X(second, field, tally) \
    sums[second].field = trf__tally(j->slots, TRF__TALLY_##tally);
    TRF__TALLIED(TRF__X)
#undef TRF__X
    v->source_tokens = trf__tally(j->slots, TRF__TALLY_SOURCE);
    v->bad_tile = bad_tile;
    v->norm = sqrt(sum) / sums[0].tokens;
    v->scale = j->clip_norm / (v->norm + 1e-6);
    if (!(v->scale < 1)) v->scale = 1;
    v->skipped = !(v->norm * v->scale < TRF__MAX_GRADIENT) ||
        !trf__is_finite(sums[0].loss + sums[1].loss);
    v->scale /= sums[0].tokens;
    if (!v->skipped) v->updates++;
}

typedef struct trf__adam_job {
    /* see >>adam for the formula */
    double rate, v_scale, epsilon_in, epsilon_out, least_root, l2, shrink;
    /* the clip_result's scale as two factors, since one could underflow in float */
    double scale1, scale2;
} trf__adam_job;

/* The coefficients after so many updates of the moments. Bias correction (1 - beta^n) is part of
   rate and v_scale. In float v holds nothing below 1e-45, and below 1e-43 fewer than two digits: v
   counts as at least 1e-43, or the m of a gradient of 1e-23 would be divided by epsilon alone. (The
   root is compared instead of v, as denormal sums cost a processor hundreds of cycles.) */
TRF__BOTH trf__adam_job trf__adam_job_of(const trf__adam *a, int64_t missed, double learning_rate)
{
    double n = (double)(a->clip_result->updates - missed), c1 = 1 - pow(a->beta1, n),
        c2 = 1 - pow(a->beta2, n);
    double scale = a->clip_result->scale, first = scale < 1e-20 ? 1e-20 : 1;
    TRF__ZEROED(trf__adam_job, j);
    j.scale1 = first;
    j.scale2 = scale / first;
    j.rate = learning_rate / c1;
    j.v_scale = 1 / c2;
    if (a->epsilon_rule == TRF_EPSILON_FAIRSEQ) {
        j.rate = learning_rate * sqrt(c2) / c1; j.v_scale = 1;
    }
    if (a->epsilon_rule == TRF_EPSILON_INSIDE) j.epsilon_in = a->epsilon;
    else j.epsilon_out = a->epsilon;
    if (TRF__REAL_BYTES == 4) j.least_root = 3.2e-22 * sqrt(j.v_scale);
    if (a->optimizer == TRF_ADAM) j.l2 = a->weight_decay;
    else j.shrink = learning_rate * a->weight_decay;
    return j;
}

#endif

#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "cpu/search.h"

// >>draw           a token from its logits z
//
//   s = z; for ids so far z / penalty (z > 0) or z * penalty; -infinity for banned ids
//   w = exp((s - max s) / temperature)
//
// Each w is a float of trf__exp2_apart, so it has the same bits on all machines. The w of 256 ids,
// a chunk, are added in sixteen lanes of floats. The sums of the chunks are added in order, as
// doubles. One worker draws for one sequence: neither threads nor other sequences change a bit.
//
// Without filters the token is the first one at which the running sum of w exceeds u, uniform
// between 0 and the sum of all. The filters are in >>draw-filters.

enum { TRF__DRAW_FEW = 256 };

/* Copies n logits and fills the last vector with -infinity. Returns the largest, or NaN if one is
   not below infinity. largest: of each chunk. */
TRF__FN trf_real trf__draw_copy(trf_real *s, const trf_real *z, int64_t n, trf_real *largest)
{
    const trf__v16 limit = trf__set((trf_real)HUGE_VAL), zero = trf__set(0), one = trf__set(1);
    const int64_t whole = n / TRF__WIDE * TRF__WIDE;
    trf__v16 bad = zero;
    trf_real most = -(trf_real)HUGE_VAL;
    memcpy(s + whole, z + whole, (size_t)(n - whole) * sizeof *s);
    for (int64_t c = n; c % TRF__WIDE; c++) s[c] = -(trf_real)HUGE_VAL;
    for (int64_t chunk = 0; chunk < n; chunk += TRF__DRAW_CHUNK, largest++) {
        trf__v16 top = trf__set(-(trf_real)HUGE_VAL);
        for (int64_t c = chunk; c < trf__min64(n, chunk + TRF__DRAW_CHUNK); c += TRF__WIDE) {
            trf__v16 x = trf__load(c < whole ? z + c : s + c);
            bad = trf__max(trf__if_less(x, limit, zero, one), bad);
            top = trf__max(top, x);
            trf__store(s + c, x);
        }
        *largest = trf__max_lane(top);
        if (*largest > most) most = *largest;
    }
    return trf__max_lane(bad) > 0 ? (trf_real)NAN : most;
}

/* The sum of exp(z - most): of the logits before all rules. */
TRF__FN double trf__draw_own(const trf_real *z, int64_t n, trf_real most)
{
    const int64_t whole = n / TRF__WIDE * TRF__WIDE;
    double total = 0;
    trf_real last[TRF__WIDE];
    for (int64_t c = 0; c < whole; c += TRF__DRAW_CHUNK)
        total += (double)trf__exp_sum(z + c, trf__min64(whole - c, TRF__DRAW_CHUNK), most);
    for (int64_t c = whole; c < whole + TRF__WIDE; c++)
        last[c - whole] = c < n ? z[c] : -(trf_real)HUGE_VAL;
    return total + (double)trf__exp_sum(last, TRF__WIDE, most);
}

/* The largest of the logits s that the rules have made of z; none is NaN. largest: of each chunk,
   as trf__draw_copy and the rules have left it. *changed: the sum of exp(z - most) - exp(s - most)
   over those that the rules have changed, if none exceeds most. */
TRF__FN trf_real trf__draw_changed(const trf_real *s, const trf_real *z, int64_t n, trf_real most,
                                   trf_real *largest, double *changed)
{
    const trf__v16 from = trf__set(most);
    trf_real best = -(trf_real)HUGE_VAL;
    *changed = 0;
    for (int64_t chunk = 0; chunk < n; chunk += TRF__DRAW_CHUNK, largest++) {
        const int64_t end = trf__min64(n, chunk + TRF__DRAW_CHUNK);
        if (*largest == (trf_real)HUGE_VAL) {
            trf__v16 top = trf__set(-(trf_real)HUGE_VAL);
            for (int64_t c = chunk; c < end; c += TRF__WIDE) {
                trf__v16 x = trf__load(s + c), first = trf__first(end - c);
                trf__v16 before = trf__exp(trf__sub(trf__load_n(z + c, end - c), from));
                trf__v16 after = trf__exp(trf__min(trf__sub(x, from), trf__set(0)));
                *changed += (double)trf__sum(trf__mul(first, trf__sub(before, after)));
                top = trf__max(top, x);
            }
            *largest = trf__max_lane(top);
        }
        if (*largest > best) best = *largest;
    }
    return best;
}

/* Replaces s by w = exp((s - base) * factor). Returns the sum; sums, largest: of each chunk. */
TRF__FN double trf__weigh(trf_real *s, int64_t n, trf_real base, trf_real factor, double *sums,
                          trf_real *largest)
{
    const trf_real in_twos = factor * (trf_real)1.44269504088896341;
    const trf__v16 from = trf__set(base), by = trf__set(in_twos), low = trf__set(-126 / in_twos);
    double total = 0;
    for (int64_t chunk = 0; chunk < n; chunk += TRF__DRAW_CHUNK, sums++, largest++) {
        trf__v16 sum = trf__set(0), top = sum;
        for (int64_t c = chunk; c < trf__min64(n, chunk + TRF__DRAW_CHUNK); c += TRF__WIDE) {
            trf__v16 below = trf__max(trf__sub(trf__load(s + c), from), low);
            trf__v16 e = trf__exp2_apart(trf__apart(below, by, trf__set(0)));
            sum = trf__add(sum, e);
            top = trf__max(top, e);
            trf__store(s + c, e);
        }
        *sums = (double)trf__sum(sum);
        *largest = trf__max_lane(top);
        total += *sums;
    }
    return total;
}

/* The first id with the largest number, which is `most`. */
TRF__FN int32_t trf__draw_first(const trf_real *s, int64_t n, trf_real most,
                                const trf_real *largest)
{
    int64_t i = 0;
    while (largest[i / TRF__DRAW_CHUNK] < most) i += TRF__DRAW_CHUNK;
    while (i < n && s[i] < most) i++;
    return (int32_t)i;
}

/* The first id at which the running sum of the weights exceeds u. */
TRF__FN int32_t trf__draw_any(const trf_real *w, int64_t n, const double *sums, double u)
{
    int64_t chunks = trf__ceil_div(n, TRF__DRAW_CHUNK), k, last = 0, i;
    double before = 0, sum;
    int32_t id = -1;
    for (k = 0; k < chunks; before += sums[k++]) {
        if (!(sums[k] > 0)) continue;
        last = k;
        if (before + sums[k] > u) break;
    }
    if (k == chunks) before -= sums[last];              /* rounding: u is the sum of all */
    for (sum = before, i = last * TRF__DRAW_CHUNK;
         i < trf__min64(n, (last + 1) * TRF__DRAW_CHUNK) && sum <= u; i++)
        if (w[i] > 0) { sum += (double)w[i]; id = (int32_t)i; }
    return id;
}

// >>draw-filters   which ids may be drawn
//
// A filter is a bound that w must reach, so ids as likely as the last one stay:
//
//   top_k    the w of number k in falling order
//   top_p    the largest bound whose w have that share of the sum; with top_k, of the sum of those
//   min_p    min_p itself, because the best w is 1
//
// A pass or two finds a bound that is low enough. Halving then finds the right one among the few
// ids that reach the first. The running sum takes the ids that stay in the order of falling w, and
// equal ones in rising order. Nothing is sorted: halving finds the w at which the sum exceeds u.

/* The number and the sum of the weights that reach a bound. largest: of each chunk, or NULL. */
TRF__FN void trf__draw_above(const trf_real *w, int64_t n, trf_real bound, const trf_real *largest,
                             double *count, double *mass)
{
    const trf__v16 zero = trf__set(0), one = trf__set(1), limit = trf__set(bound);
    *count = *mass = 0;
    for (int64_t chunk = 0; chunk < n; chunk += TRF__DRAW_CHUNK) {
        trf__v16 many = zero, sum = zero;
        if (largest && largest[chunk / TRF__DRAW_CHUNK] < bound) continue;
        for (int64_t c = chunk; c < trf__min64(n, chunk + TRF__DRAW_CHUNK); c += TRF__WIDE) {
            trf__v16 x = trf__load(w + c);
            many = trf__add(many, trf__if_less(x, limit, zero, one));
            sum = trf__add(sum, trf__if_less(x, limit, zero, x));
        }
        *count += (double)trf__sum(many);
        *mass += (double)trf__sum(sum);
    }
}

/* Copies the weights that reach low but not high, at most TRF__DRAW_FEW, and zeros up to a whole
   vector. Returns how many numbers it has written. */
TRF__FN int64_t trf__draw_between(const trf_real *w, int64_t n, trf_real low, trf_real high,
                                  trf_real *few)
{
    int64_t m = 0;
    for (int64_t c = 0; c < n; c += TRF__WIDE) {
        if (trf__max_lane(trf__load(w + c)) < low) continue;
        for (int64_t i = c; i < c + TRF__WIDE; i++) {
            few[m] = w[i];                      /* there is room for one more than may stay */
            m += (w[i] >= low) & (w[i] < high);
        }
    }
    for (; m % TRF__WIDE; m++) few[m] = 0;
    return m;
}

/* The largest bound that `count` weights, or weights of sum `mass`, reach. `low` > 0 is one such
   bound. Bits of floats >= 0 sort like the floats. Once few weights lie between the bounds, only
   these are looked at. above: the number of those that reach `high`. */
TRF__FN trf_real trf__draw_bound(const trf_real *w, int64_t n, trf_real low, double count,
                                 double mass)
{
    trf_real high = 2, middle = 0, few[TRF__DRAW_FEW + TRF__WIDE];  /* no weight reaches 2 */
    double many, sum, at_low = (double)n, above = 0, above_sum = 0, left = 0, left_sum = 0;
    while (low < high) {
#if TRF__REAL_BYTES == 4
        const uint32_t a = trf__float_bits(low), b = trf__float_bits(high);
        if (b - a < 2) break;
        middle = trf__float_of(a + (b - a) / 2);
#else
        middle = low + (high - low) / 2;
        if (!(middle > low && middle < high)) break;
#endif
        if (w != few && at_low - above <= (double)TRF__DRAW_FEW) {
            n = trf__draw_between(w, n, low, high, few);
            left = above;
            left_sum = above_sum;
            w = few;
        }
        trf__draw_above(w, n, middle, NULL, &many, &sum);
        many += left;
        sum += left_sum;
        if (many > 0 && (count > 0 ? many >= count : sum >= mass)) { low = middle; at_low = many; }
        else { high = middle; above = many; above_sum = sum; }
    }
    return low;
}

/* Leaves the ids that the filters keep, in rising order, and their weights. Returns how many there
   are. w: n weights in whole vectors; total: their sum; x: room for as many. */
TRF__FN int64_t trf__filter(const trf__drawing *d, const trf_real *w, int64_t n, double total,
                            const trf_real *largest, int32_t *order, trf_real *x)
{
    trf_real bound = 1;
    double count, mass, share = d->top_p * total;
    int64_t m = 0, kept = 0, i;
    for (;;) {                                  /* a bound that is low enough */
        bound = bound / 16 > (trf_real)FLT_MIN ? bound / 16 : (trf_real)FLT_MIN;
        if (bound == (trf_real)FLT_MIN) break;
        trf__draw_above(w, n, bound, largest, &count, &mass);
        if (d->top_k > 0 ? count >= d->top_k : d->top_p < 1 ? mass >= share : bound <= d->min_p)
            break;
    }
    for (int64_t c = 0; c < n; c += TRF__WIDE) {
        if (largest[c / TRF__DRAW_CHUNK] < bound || trf__max_lane(trf__load(w + c)) < bound)
            continue;
        for (i = c; i < c + TRF__WIDE; i++) {   /* no branch: it would be unpredictable */
            x[m] = w[i];
            order[m] = (int32_t)i;
            m += w[i] >= bound;
        }
    }
    for (i = m; i % TRF__WIDE; i++) x[i] = 0;
    n = trf__round_up(m, TRF__WIDE);
    if (d->top_k > 0 && d->top_k < m) bound = trf__draw_bound(x, n, bound, d->top_k, 0);
    if (d->top_k > 0) {
        trf__draw_above(x, n, bound, NULL, &count, &mass);
        share = d->top_p * mass;
    }
    if (d->top_p < 1) bound = trf__draw_bound(x, n, bound, 0, share);
    if ((double)bound < d->min_p) bound = (trf_real)d->min_p;
    for (i = 0; i < m; i++) {
        const int keep = x[i] >= bound;
        x[kept] = x[i];
        order[kept] = order[i];
        kept += keep;
    }
    for (i = kept; i % TRF__WIDE; i++) x[i] = 0;
    return kept;
}

/* Which of the weights that a filter has left makes the running sum exceed u. */
TRF__FN int64_t trf__draw_falling(const trf_real *x, int64_t kept, double u)
{
    const int64_t n = trf__round_up(kept, TRF__WIDE);
    const trf_real bound = trf__draw_bound(x, n, (trf_real)FLT_MIN, 0, u);
    const trf__v16 limit = trf__set(bound), none = trf__set(-2);
    trf__v16 least = none;              /* negative: of the weights that reach the bound */
    double sum = 0;
    int64_t last = 0;
    /* where u is a sum of weights but for rounding, the bound may lie between two of them */
    for (int64_t i = 0; i < n; i += TRF__WIDE) {
        trf__v16 w = trf__load(x + i);
        least = trf__max(least, trf__if_less(w, limit, none, trf__sub(trf__set(0), w)));
    }
    trf_real at = -trf__max_lane(least);
    for (int64_t i = 0; i < kept; i++) if (x[i] > at) sum += (double)x[i];
    for (int64_t i = 0; i < kept && sum <= u; i++) if (x[i] == at) { sum += (double)at; last = i; }
    return last;
}

/* Draws the id of one row. */
TRF__TILE(trf__draw_row)
{
    const trf__drawing *d = (const trf__drawing *)job;
    const int64_t row = tile;
    const int64_t n = trf__round_up(d->vocab, TRF__WIDE);
    const int64_t chunks = trf__ceil_div(n, TRF__DRAW_CHUNK);
    /* a temperature below 1e-30 separates all floats, as 1e-30 does */
    const trf_real factor = (trf_real)(1 / (d->temperature > 1e-30 ? d->temperature : 1e-30));
    const trf_real *z = d->logits + row * d->vocab;
    const int64_t room = d->by_row ? row : worker;
    trf_real *w = d->weights + room * n, *x = d->few + room * n;
    trf_real *largest = d->largest + room * chunks;
    double *sums = d->sums + room * chunks, own;
    int32_t *order = d->order + room * n, *id = d->ids + row;
    int64_t i;
    *id = -1;
    d->log_probabilities[row] = 0;
    trf_real most = trf__draw_copy(w, z, d->vocab, largest);
    if (!(most > -(trf_real)HUGE_VAL)) return;
    d->rule(d->user, row, w, largest);
    trf_real best = trf__draw_changed(w, z, d->vocab, most, largest, &own);
    if (!(best > -(trf_real)HUGE_VAL)) return;
    /* At temperature 1 the sum of the weights also gives that of the logits. own >= 0: a difference
       of large sums would lose digits. */
    const int shared = d->temperature == 1 && best <= most && own >= 0;
    if (!shared) own = trf__draw_own(z, d->vocab, most);
    if (d->temperature == 0) *id = trf__draw_first(w, n, best, largest);
    else {
        double mass = trf__weigh(w, n, best, factor, sums, largest);
        if (shared) own += mass * exp((double)best - (double)most);
        if (d->top_k == 0 && !(d->top_p < 1) && !(d->min_p > 0))
            *id = trf__draw_any(w, n, sums, d->uniform[row] * mass);
        else {
            int64_t kept = trf__filter(d, w, n, mass, largest, order, x);
            for (mass = 0, i = 0; i < kept; i++) mass += (double)x[i];
            *id = order[trf__draw_falling(x, kept, d->uniform[row] * mass)];
        }
    }
    if (*id >= 0) d->log_probabilities[row] = (double)z[*id] - (double)most - trf__ln(own);
}

TRF__TILED_OP(trf__cpu_draw, trf__drawing, trf__draw_row, j->rows)

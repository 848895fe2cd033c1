#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "text/vocab.h"
#include "text/vocab_use.h"
#include "model/checks.h"

// -----------------------------------------------------------------------------------------------
// >>padded         parts of a batch; joined pairs; from padded arrays and to them
//
// Sources of two texts, and two functions for callers with (count, width) arrays, as other systems
// use. Padding in the middle of a row is an error: to drop it would shift the ids after it without
// notice.
// -----------------------------------------------------------------------------------------------

TRF__FN void trf__shorten_pair(int32_t *n_first, int32_t *n_second, int32_t room)
{
    const int64_t most = room > 0 ? room : 0;
    /* the first one keeps what the second one leaves of its half, and the other way round */
    *n_first = (int32_t)trf__min64(*n_first, most - trf__min64(*n_second, most / 2));
    *n_second = (int32_t)trf__min64(*n_second, most - *n_first);
}

/* Ids of pair i, and one more for each of its sequences. */
TRF__FN int64_t trf__pair_tokens(const trf_batch *batch, int32_t i)
{
    int64_t n = 0;
    if (i < batch->source.count) n += (int64_t)batch->source.lengths[i] + 1;
    if (i < batch->target.count) n += (int64_t)batch->target.lengths[i] + 1;
    return n;
}

/* The length of sequence i, or 0 if there are no sequences. */
TRF__FN int32_t trf__length_of(const trf_sequences *x, int32_t i)
{
    return x && x->count ? x->lengths[i] : 0;
}

/* The pairs first .. first + n - 1 of one side. `skipped` is the number of ids before them. */
TRF__FN trf_sequences trf__some_sequences(const trf_sequences *x, int32_t first, int32_t n,
                                          int64_t skipped)
{
    trf_sequences some = *x;
    if (x->count == 0) return some;
    if (some.ids) some.ids += skipped;
    some.lengths += first;
    some.count = n;
    return some;
}

TRF_API trf_status trf_batch_part(const trf_batch *batch, int32_t part, int32_t parts,
                                  trf_batch *piece, trf_error *err)
{
    int64_t all = 0, before = 0, skipped[2] = {0, 0}, rows, longest = 0;
    int32_t first = 0, n = 0;
    TRF__ZEROED(trf_batch, whole);
    if (batch) whole = *batch;          /* *piece may be *batch */
    if (piece) TRF__ZERO(*piece);
    trf__clear(err);
    if (!batch || !piece) return trf__fail_null(err, batch ? "piece" : "batch");
    TRF__TRY(trf__check_range("parts", parts, 1, 1 << 20, err));
    TRF__TRY(trf__check_range("part", part, 0, parts - 1, err));
    TRF__TRY(trf__check_lengths(&whole.source, 0, INT32_MAX, "source", &rows, &longest, err));
    TRF__TRY(trf__check_lengths(&whole.target, 0, INT32_MAX, "target", &rows, &longest, err));
    TRF__FAIL_IF(whole.source.count && whole.target.count &&
                 whole.source.count != whole.target.count, TRF_E_INVALID_ARG, -1, "target",
                 "source has %d sequences, but target has %d", whole.source.count,
                 whole.target.count);
    int32_t pairs = whole.source.count ? whole.source.count : whole.target.count;
    TRF__FAIL_IF(whole.ordinal < 0 || whole.ordinal > INT64_MAX - pairs, TRF_E_INVALID_ARG,
                 whole.ordinal, "ordinal", "ordinal must be between 0 and %lld, got %lld",
                 (long long)(INT64_MAX - pairs), (long long)whole.ordinal);
    for (int32_t i = 0; i < pairs; i++) all += trf__pair_tokens(&whole, i);
    for (int32_t i = 0; i < pairs; i++) {
        int64_t own = trf__pair_tokens(&whole, i), number = parts * (2 * before + own) / (2 * all);
        before += own;
        if (number > part) break;
        if (number == part) { n++; continue; }
        first++;
        if (whole.source.count) skipped[0] += whole.source.lengths[i];
        if (whole.target.count) skipped[1] += whole.target.lengths[i];
    }
    *piece = whole;
    piece->source = trf__some_sequences(&whole.source, first, n, skipped[0]);
    piece->target = trf__some_sequences(&whole.target, first, n, skipped[1]);
    piece->ordinal = whole.ordinal + first;
    return TRF_OK;
}

/* How many EOS stand between the sequences of a pair. */
TRF__FN trf_status trf__separators(const trf_config *config, int32_t *n, trf_error *err)
{
    *n = 0;
    if (!config) return trf__fail_null(err, "config");
    TRF__FAIL_IF(config->segments < 1, TRF_E_STATE, -1, "segments",
                 "only a model with segments reads pairs, segments is %d", config->segments);
    *n = config->segments == 1 ? 2 : 1;
    return TRF_OK;
}

TRF__FN trf_status trf__check_room(int64_t needed, int32_t capacity, int32_t *n, trf_error *err)
{
    *n = (int32_t)trf__min64(needed, INT32_MAX);
    return TRF__OK_IF(needed <= capacity, TRF_E_LIMIT, -1, "capacity",
                      "the pair needs room for %lld ids, capacity is %d", (long long)needed,
                      capacity);
}

TRF_API int32_t trf_number_label(float number)
{
    int32_t label;
    memcpy(&label, &number, sizeof label);
    return label;
}

TRF_API float trf_label_number(int32_t label)
{
    float number;
    memcpy(&number, &label, sizeof number);
    return number;
}

/* The second sequence moves first: `ids` may be `first`. */
TRF_API trf_status trf_join(const trf_config *config, const int32_t *first, int32_t n_first,
                            const int32_t *second, int32_t n_second, int32_t shorten,
                            int32_t *ids, int32_t capacity, int32_t *n, trf_error *err)
{
    int32_t between;
    TRF__TRY(trf__begin(n, "n", err));
    *n = 0;
    TRF__TRY(trf__separators(config, &between, err));
    if (n_first < 0) return trf__fail_below(err, "n_first", 0, n_first);
    if (n_second < 0) return trf__fail_below(err, "n_second", 0, n_second);
    if (capacity < 0) return trf__fail_below(err, "capacity", 0, capacity);
    if (!first && n_first) return trf__fail_null(err, "first");
    if (!second && n_second) return trf__fail_null(err, "second");
    TRF__TRY(trf__check_range("shorten", shorten, 0, 1, err));
    if (shorten) trf__shorten_pair(&n_first, &n_second, capacity - between);
    TRF__TRY(trf__check_room((int64_t)n_first + between + n_second, capacity, n, err));
    if (!ids) { *n = 0; return trf__fail_null(err, "ids"); }
    if (n_second) memmove(ids + n_first + between, second, (size_t)n_second * sizeof *ids);
    if (n_first) memmove(ids, first, (size_t)n_first * sizeof *ids);
    for (int32_t i = 0; i < between; i++) ids[n_first + i] = config->eos;
    return TRF_OK;
}

/* Encodes two texts with the source's vocabulary, and joins them (trf_join). Fails as
   trf_vocab_encode does; after TRF_E_LIMIT `ids` may be partly written. */
TRF__FN trf_status trf__join_texts(const trf_config *config, const trf_vocab *vocab,
                                   const char *first, const char *second, int32_t *ids,
                                   int32_t capacity, int32_t *n, trf_error *err)
{
    int32_t n_first = 0, n_second = 0, between;
    trf_status other;
    TRF__TRY(trf__begin(n, "n", err));
    *n = 0;
    TRF__TRY(trf__separators(config, &between, err));
    if (capacity < 0) return trf__fail_below(err, "capacity", 0, capacity);
    trf_status one = trf_vocab_encode(vocab, first, 0, ids, capacity, &n_first, err);
    if (one != TRF_OK && one != TRF_E_LIMIT) return one;
    int32_t i = (int32_t)trf__min64((int64_t)n_first + between, capacity);
    other = trf_vocab_encode(vocab, second, 0, ids ? ids + i : NULL, capacity - i, &n_second, err);
    if (other != TRF_OK && other != TRF_E_LIMIT) return other;
    TRF__TRY(trf__check_room((int64_t)n_first + between + n_second, capacity, n, err));
    for (i = 0; i < between; i++) ids[n_first + i] = config->eos;
    return TRF_OK;
}

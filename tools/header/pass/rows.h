#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "model/checks.h"
#include "model/batches.h"
#include "pass/stacks.h"
#include "pass/pass.h"

// >>rows           from a batch to rows: BOS, EOS and the shift
//
//   batch       source  5 9 7       target  8 4
//   source      ids     BOS 5 9 7 EOS                   (if source_bos, if source_eos)
//   target      ids     BOS 8 4     targets 8 4 EOS     row t reads what comes before its target
//                       BOS 8               8 4         (without target_eos)
//
// The rows of all sequences follow one another; a span says where each begins. Callers' data are
// checked here.
//
// In training with consistency all rows, padding included, stand there twice: row r of the first
// copy is row rows / 2 + r of the second one. A sequence's number in the step is 2^31 higher there,
// so that its dropout masks are others, and those of the first copy are the usual ones.

/* The number of labels that a label lies below: of a token, or of a sequence (k -1). */
TRF__FN int32_t trf__labels_of(const trf_config *c, int32_t k)
{
    return k < 0 ? c->sequence_labels : trf__n_logits(c);
}

/* Checks label k of a sequence with label_kind ANY or NUMBERS; `at` is its index in the batch. */
TRF__FN trf_status trf__check_number(const trf_config *c, const int32_t *ids, int32_t k,
                                     int32_t sequence, int64_t at, trf_error *err)
{
    if (c->label_kind == TRF_LABELS_NUMBERS) {
        if (trf__is_finite((double)trf_label_number(ids[k]))) return TRF_OK;
        return trf__fail(err, TRF_E_INVALID_ARG, at, "target",
                         "target sequence %d, position %d: a label must be a finite number, or -1 "
                         "alone", sequence, k);
    }
    TRF__FAIL_IF(ids[k] < 0 || ids[k] >= c->n_labels, TRF_E_INVALID_ARG, at, "target",
                 "target sequence %d, position %d: a label must be 0 to %d, or -1 alone, got %d",
                 sequence, k, c->n_labels - 1, ids[k]);
    return TRF__OK_IF(k == 0 || ids[k - 1] < ids[k], TRF_E_INVALID_ARG, at, "target",
                      "target sequence %d, position %d: labels must be ascending, each once, but "
                      "%d follows %d", sequence, k, ids[k], ids[k - 1]);
}

/* Checks the labels of each sequence by label_kind ANY or NUMBERS. *wanted: how many have them. */
TRF__FN trf_status trf__check_numbers(const trf_config *c, const trf_sequences *x, int64_t *wanted,
                                      trf_error *err)
{
    const int numbers = c->label_kind == TRF_LABELS_NUMBERS;
    int64_t at = 0;
    for (int32_t i = 0; i < x->count; at += x->lengths[i++]) {
        int32_t n = x->lengths[i];
        if (n > 0 && !x->ids) return trf__fail_null(err, "target");
        if (n == 1 && x->ids[at] == -1) continue;
        TRF__FAIL_IF(n < 0 || n > c->n_labels || (numbers && n < c->n_labels), TRF_E_INVALID_ARG, i,
                     "target", "target sequence %d must have %s%d label%s, or -1 alone, got %d", i,
                     numbers ? "" : "at most ", c->n_labels, trf__plural(c->n_labels), n);
        for (int32_t k = 0; k < n; k++)
            TRF__TRY(trf__check_number(c, x->ids + at, k, i, at + k, err));
        ++*wanted;
    }
    return TRF_OK;
}

/* Counts the rows of a head; with `labels` checks these too: *wanted is how many are not -1,
   without those of sequences that lie before labels of tokens. */
TRF__FN trf_status trf__check_head(const trf_config *c, const trf_batch *batch, int labels,
                                   int64_t *rows, int64_t *wanted, trf_error *err)
{
    const trf_sequences *x = &batch->target;
    int32_t count = batch->source.count, before = c->sequence_labels > 0;
    int64_t at = 0;
    *wanted = 0;
    if (trf__pools(c)) *rows = count;
    for (int32_t i = 0; (trf__pools(c) || before) && i < count; i++)
        TRF__FAIL_IF(batch->source.lengths[i] + trf__source_added(c) == 0, TRF_E_INVALID_ARG, i,
                     "source", "source sequence %d is empty: nothing to label", i);
    if (!labels) return TRF_OK;
    TRF__FAIL_IF(x->count != count, TRF_E_INVALID_ARG, -1, "target",
                 "source has %d sequence%s, but target has labels for %d", count,
                 trf__plural(count), x->count);
    if (count > 0 && !x->lengths) return trf__fail_null(err, "target");
    if (c->label_kind) return trf__check_numbers(c, x, wanted, err);
    for (int32_t i = 0; i < count; i++) {
        int32_t n = trf__pools(c) ? 1 : batch->source.lengths[i] + before;
        TRF__FAIL_IF(x->lengths[i] != n, TRF_E_INVALID_ARG, i, "target",
                     "target sequence %d must have %d label%s, got %d", i, n, trf__plural(n),
                     x->lengths[i]);
        if (n > 0 && !x->ids) return trf__fail_null(err, "target");
        for (int32_t k = -before; k < n - before; k++, at++) {
            TRF__FAIL_IF(x->ids[at] < -1 || x->ids[at] >= trf__labels_of(c, k), TRF_E_INVALID_ARG,
                         at, "target",
                         "target sequence %d, position %d: a label must be -1 or 0 to %d, got %d",
                         i, k + before, trf__labels_of(c, k) - 1, x->ids[at]);
            *wanted += k >= 0 && x->ids[at] >= 0;
        }
    }
    return TRF_OK;
}

// >>row-lists      ids, positions and spans of a batch, in one block

TRF__FN int32_t trf__start_id(const trf_config *c)
{
    switch (c->decoder_start) {
    case TRF_START_EOS: return c->eos;
    case TRF_START_PAD: return c->pad;
    case TRF_START_ZERO: return -1;
    default: return c->bos;
    }
}

/* Groups rows by id, for ids below 2^24: a stable sort by the lower 12 bits, then by the upper
   ones. Rows without an id are left out. first has n + 1 elements. Returns the number of groups. */
TRF__FN int64_t trf__group_rows(int32_t *rows, int32_t *first, const int32_t *ids, int64_t n)
{
    int32_t places[4097];
    int64_t k, m = 0;
    for (int64_t i = 0; i < n; i++) if (ids[i] >= 0) rows[m++] = (int32_t)i;
    for (int pass = 0; pass < 2; pass++) {
        const int32_t *from = pass ? first : rows;
        int32_t *to = pass ? rows : first;
        memset(places, 0, sizeof places);
        for (int64_t i = 0; i < m; i++) places[(ids[from[i]] >> 12 * pass & 4095) + 1]++;
        for (int64_t i = 1; i < 4096; i++) places[i] += places[i - 1];
        for (int64_t i = 0; i < m; i++) to[places[ids[from[i]] >> 12 * pass & 4095]++] = from[i];
    }
    for (int64_t i = k = 0; i < m; i++) if (i == 0 || ids[rows[i]] != ids[rows[i - 1]])
        first[k++] = (int32_t)i;
    first[k] = (int32_t)m;
    return k;
}

/* Pads a copy of a batch with sequences without ids and targets, none longer than `longest`. Their
   gradients are zero, so they change no weight and no sum. */
TRF__FN void trf__pad_rows(const trf__pass *pass, trf__stack *stack, int64_t row, int32_t sequence,
                           int64_t longest)
{
    const trf__lists *l = &stack->host;
    const int64_t rows = stack->rows / pass->copies;
    const int padded = pass->training && row < rows;
    int64_t most;
    for (; sequence < stack->n_self / pass->copies; sequence++) {
        trf__span *span = &l->self[sequence];
        TRF__ZERO(*span);
        span->query = span->key = (int32_t)row;
        span->n_query = span->n_key = (int32_t)trf__min64(longest, rows - row);
        stack->max_keys = trf__max64(stack->max_keys, span->n_key);
        for (int64_t k = 0; k < span->n_query; k++, row++) {
            l->ids[row] = l->targets[row] = -1;
            l->position[row] = (int32_t)k;
            l->sentence[row] = 0;
            if (stack->segments >= 0) l->segment[row] = 0;
        }
    }
    for (most = 8; padded && most < stack->max_keys; most *= 2) {}
    if (padded) stack->max_queries = stack->max_keys = most;   /* a power of two: few shapes */
}

/* Writes the second copy behind the first one. */
TRF__FN void trf__copy_rows(trf__stack *stack)
{
    const trf__lists *l = &stack->host;
    const int64_t rows = stack->rows / 2, n = stack->n_self / 2;
    const size_t bytes = (size_t)rows * sizeof(int32_t);
    memcpy(l->ids + rows, l->ids, bytes);
    memcpy(l->targets + rows, l->targets, bytes);
    memcpy(l->position + rows, l->position, bytes);
    if (stack->segments >= 0) memcpy(l->segment + rows, l->segment, bytes);
    /* as an unsigned number, 2^31 more */
    for (int64_t i = 0; i < rows; i++) l->sentence[rows + i] = l->sentence[i] - INT32_MAX - 1;
    for (int64_t i = 0; i < n; i++) {
        trf__span *span = &l->self[n + i];
        *span = l->self[i];
        span->query += (int32_t)rows;
        span->key += (int32_t)rows;
        span->sentence += -INT32_MAX - 1;
    }
}

/* Groups all rows by id. With padding there are as many groups as rows: few shapes to record. */
TRF__FN void trf__fill_groups(trf__stack *stack, int padded)
{
    const trf__lists *l = &stack->host;
    stack->n_groups = trf__group_rows(l->group_rows, l->group_first, l->ids, stack->rows);
    if (!padded) return;
    for (int64_t k = stack->n_groups + 1; k <= stack->rows; k++)
        l->group_first[k] = l->group_first[stack->n_groups];
    stack->n_groups = stack->rows;
}

/* Segments of the rows from `row` to `end` of one sequence: an EOS is the last row of its segment.
   All that follow the last segment belong to it. */
TRF__FN void trf__fill_segments(const trf_config *c, const trf__lists *l, int64_t row, int64_t end)
{
    int32_t segment = 0;
    for (; row < end; row++) {
        l->segment[row] = segment;
        segment += l->ids[row] == c->eos && segment < c->segments - 1;
    }
}

/* Writes one stack's rows. The source has BOS, the ids and EOS, as configured. The target reads the
   start id and then the ids; its targets are the ids and EOS, if configured. */
TRF__FN void trf__fill_rows(const trf__pass *pass, trf__stack *stack, const trf_sequences *x,
                            int64_t ordinal, int64_t longest)
{
    const trf_config *c = pass->config;
    const trf__lists *l = &stack->host;
    int64_t row = 0, at = 0;
    stack->max_queries = stack->max_keys = 0;
    for (int32_t i = 0; i < x->count; i++) {
        int32_t n = x->lengths[i] + stack->begins + stack->ends;
        trf__span *span = &l->self[i];
        span->query = span->key = (int32_t)row;
        span->n_query = span->n_key = n;
        span->sentence = (int32_t)(ordinal + i);
        stack->max_queries = stack->max_keys = trf__max64(stack->max_keys, n);
        for (int32_t k = 0; k < n; k++, row++) {
            int32_t id = k - (stack->decoder ? 1 : stack->begins);
            /* EOS and the last id change places */
            if (stack->tagged && stack->ends && id >= x->lengths[i] - 1)
                id = 2 * x->lengths[i] - 1 - id;
            l->ids[row] = id < 0 ? (stack->decoder ? trf__start_id(c) : c->bos)
                        : id < x->lengths[i] ? x->ids[at + id] : c->eos;
            l->targets[row] = k < x->lengths[i] ? x->ids[at + k] : c->eos;
            l->position[row] = k;
            l->sentence[row] = span->sentence;
        }
        if (stack->segments >= 0) trf__fill_segments(c, l, span->query, row);
        at += x->lengths[i];
    }
    trf__pad_rows(pass, stack, row, x->count, longest);
    if (pass->copies > 1) trf__copy_rows(stack);
    if (pass->training) trf__fill_groups(stack, row * pass->copies < stack->rows);
}

/* The numbers of a head's rows (trf__loss): those of the labels, or 1 for a label that holds and 0
   for the others. A target is 0, or -1 for a row that has no loss. */
TRF__FN void trf__fill_numbers(const trf__pass *pass, const trf_sequences *x)
{
    const trf_config *c = pass->config;
    float *numbers = pass->numbers[0];
    int32_t *targets = pass->decoder.host.targets, i;
    const int32_t *ids = x->ids;
    memset(numbers, 0, trf__bytes(pass->decoder.rows, trf__bytes(c->n_labels, sizeof *numbers)));
    for (i = 0; i < x->count; ids += x->lengths[i++], numbers += c->n_labels) {
        targets[i] = x->lengths[i] == 1 && *ids == -1 ? -1 : 0;
        for (int32_t k = 0; k < x->lengths[i] && targets[i] == 0; k++)
            if (c->label_kind == TRF_LABELS_ANY) numbers[ids[k]] = 1;
            else numbers[k] = trf_label_number(ids[k]);
    }
    for (; i < pass->decoder.rows; i++) targets[i] = -1;
}

/* The targets of a head's rows: the labels, and -1 for BOS, EOS and padding. */
TRF__FN void trf__fill_labels(const trf__pass *pass, const trf_sequences *x)
{
    const trf__lists *source = &pass->encoder.host;
    const int pools = trf__pools(pass->config), before = pass->config->sequence_labels > 0;
    int32_t *targets = pass->decoder.host.targets, *labels = pass->sequence.host, i;
    int32_t begins = pools ? 0 : pass->encoder.begins;
    const int64_t rows = pass->decoder.rows / pass->copies;
    const int64_t all = pass->encoder.n_self / pass->copies;
    int64_t row = 0, at = 0;
    for (i = 0; i < x->count; i++) {
        int32_t n = pools ? 1 : source->self[i].n_query;
        if (before) labels[i] = x->ids[at++];
        for (int32_t k = -begins; k < n - begins; k++)
            targets[row++] = k >= 0 && k < x->lengths[i] - before ? x->ids[at++] : -1;
    }
    while (row < rows) targets[row++] = -1;
    for (; before && i < all; i++) labels[i] = -1;
    if (pass->copies == 1) return;
    memcpy(targets + rows, targets, (size_t)rows * sizeof *targets);
    if (before) memcpy(labels + all, labels, (size_t)all * sizeof *labels);
}

// >>row-batch      a batch in a pass: room, checks, rows, upload

/* Limits that are enough: where one was not, larger by a quarter at least, so that batches which
   become longer little by little do not each move everything. */
TRF__FN trf__limits trf__limits_grown(const trf__limits *have, const trf__limits *need,
                                      int64_t max_length)
{
    trf__limits grown = *have;
    if (need->source_rows > have->source_rows)
        grown.source_rows = trf__max64(need->source_rows, have->source_rows * 5 / 4);
    if (need->target_rows > have->target_rows)
        grown.target_rows = trf__max64(need->target_rows, have->target_rows * 5 / 4);
    if (need->sentences > have->sentences)
        grown.sentences = trf__max64(need->sentences, have->sentences * 5 / 4);
    if (need->longest > have->longest)
        grown.longest = trf__min64(trf__max64(need->longest, have->longest * 5 / 4), max_length);
    return grown;
}

/* Grows the arena if a limit is too small. On failure nothing has changed. */
TRF__FN trf_status trf__pass_reserve(trf__pass *pass, const trf__limits *need, trf_error *err)
{
    trf__limits grown = trf__limits_grown(&pass->plan.limits, need, pass->config->max_length);
    if (memcmp(&grown, &pass->plan.limits, sizeof grown) == 0) return TRF_OK;
    TRF__TRY(trf__pass_resize(pass, &grown, err));
    if (pass->training)
        trf__log(&pass->run.hooks, TRF_LOG_INFO,
                 "a batch is larger than those before it: memory has grown");
    return TRF_OK;
}

/* The block, as far as it is used, goes to the device. */
TRF__FN void trf__block_upload(trf__pass *pass, size_t bytes)
{
    memcpy(pass->block.host, &pass->block.now, sizeof pass->block.now);
    pass->run.backend->upload(&pass->run, pass->block.device, pass->block.host, bytes);
}

/* The rows and sequences of a pass for this batch: in training padded as the backend says, times
   the copies; else unchanged. They depend on the batch alone, not on memory, and so do the bits. */
TRF__FN trf__limits trf__pass_filled(const trf__pass *pass, const trf__limits *need)
{
    const trf__run *run = &pass->run;
    trf__limits full = *need;
    int64_t more;
    if (!pass->training || need->sentences == 0) return full;
    full.source_rows = run->backend->padded(run, need->source_rows);
    full.target_rows = run->backend->padded(run, need->target_rows);
    more = trf__max64(full.source_rows - need->source_rows, full.target_rows - need->target_rows);
    full.sentences = run->backend->padded(run, need->sentences + trf__ceil_div(more,
            trf__max64(1, need->longest)));
    if (trf__pools(pass->config)) full.target_rows = full.sentences;
    full.source_rows *= pass->copies;
    full.target_rows *= pass->copies;
    full.sentences *= pass->copies;
    return full;
}

/* Number of sequences of a batch of which a pass reads these sides. */
TRF__FN int32_t trf__sequences_of(const trf_batch *batch, int sides)
{
    return sides & TRF__SOURCE ? batch->source.count : batch->target.count;
}

/* Checks a batch. `need` becomes what it takes, and *wanted its number of target rows. */
TRF__FN trf_status trf__batch_needs(const trf__pass *pass, const trf_batch *batch, int sides,
                                    trf__limits *need, int64_t *wanted, trf_error *err)
{
    const trf_config *c = pass->config;
    int source = sides & TRF__SOURCE, target = sides & TRF__TARGET;
    if (!batch) return trf__fail_null(err, "batch");
    TRF__ZERO(*need);
    need->longest = 1;
    if (source)
        TRF__TRY(trf__check_sources(c, &batch->source, 0, &need->source_rows, &need->longest, err));
    if (target)
        TRF__TRY(trf__check_targets(c, &batch->target, 0, "target", &need->target_rows,
                                    &need->longest, err));
    *wanted = need->target_rows;
    if (sides & TRF__HEAD) {
        need->target_rows = need->source_rows;
        TRF__TRY(trf__check_head(c, batch, pass->training, &need->target_rows, wanted, err));
    }
    for (int32_t i = 0; source && pass->encoder.tagged && i < batch->source.count; i++)
        TRF__FAIL_IF(batch->source.lengths[i] == 0, TRF_E_INVALID_ARG, i, "source",
                     "source sequence %d is empty, but source_tagged needs its tag", i);
    need->sentences = trf__sequences_of(batch, sides);
    TRF__FAIL_IF(trf__max64(need->source_rows, need->target_rows) > INT32_MAX / pass->copies,
                 TRF_E_LIMIT, -1, "consistency",
                 "with consistency a batch may have at most %d tokens", INT32_MAX / pass->copies);
    return TRF__OK_IF(!source || !target || batch->source.count == batch->target.count,
                      TRF_E_INVALID_ARG, -1, "target",
                      "source has %d sequence%s, but target has %d", batch->source.count,
                      trf__plural(batch->source.count), batch->target.count);
}

/* Checks a batch, turns the sides it should have into rows and uploads them, growing the arena if
   need be. On failure the rows of the batch before stay. */
TRF__FN trf_status trf__pass_sides(trf__pass *pass, const trf_batch *batch, int sides,
                                   int64_t ordinal, trf_error *err)
{
    int source = sides & TRF__SOURCE, target = sides & TRF__TARGET, head = sides & TRF__HEAD;
    trf__limits need;
    int64_t wanted = 0;
    TRF__TRY(trf__batch_needs(pass, batch, sides, &need, &wanted, err));
    trf__limits full = trf__pass_filled(pass, &need);
    TRF__TRY(trf__pass_reserve(pass, &full, err));
    pass->n_sentences = need.sentences;
    pass->target_rows = wanted;
    pass->block.now.source_tokens = (double)need.source_rows;
    pass->encoder.rows = full.source_rows;
    pass->decoder.rows = full.target_rows;
    pass->encoder.n_self = source ? full.sentences : 0;
    pass->decoder.n_self = target ? full.sentences : 0;
    pass->decoder.n_cross = source && target ? full.sentences : 0;
    TRF__FAIL_IF(trf__block_layout(pass, pass->block.host, 0) > pass->block.bytes, TRF_E_INTERNAL,
                 -1, "block", "the block of a batch is larger than planned");
    if (source) trf__fill_rows(pass, &pass->encoder, &batch->source, ordinal, need.longest);
    if (target) trf__fill_rows(pass, &pass->decoder, &batch->target, ordinal, need.longest);
    if (head && pass->training)
        (pass->config->label_kind ? trf__fill_numbers : trf__fill_labels)(pass, &batch->target);
    for (int64_t i = 0; i < pass->decoder.n_cross; i++) {
        trf__span *span = &pass->decoder.host.cross[i];
        *span = pass->decoder.host.self[i];
        span->key = pass->encoder.host.self[i].query;
        span->n_key = pass->encoder.host.self[i].n_query;
    }
    pass->decoder.max_memory = pass->encoder.max_keys;
    trf__block_upload(pass, trf__block_layout(pass, pass->block.device, 1));
    return TRF_OK;
}

#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/read.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "device/tensors.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/model.h"
#include "pass/sublayers.h"
#include "pass/stacks.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "pass/forward.h"
#include "read/ensemble.h"
#include "read/reader.h"
#include "read/labels.h"

// >>read           rows, states, logits and attention of a pass, and a pass that begins half-way
//
// While a part of the batch runs, its pass copies the attention of each sublayer and the state of
// each layer to the host (>>forward): on the device there is memory for one map at a time. The
// numbers of all parts lie in one block of the reader.

/* Numbers of queries and keys of one sequence. */
TRF__FN void trf__attention_extent(const trf_config *c, const trf_batch *batch,
                                   trf_attention_kind kind, int32_t i,
                                   int64_t *queries, int64_t *keys)
{
    int64_t source = trf__has_source(c)
        ? (int64_t)batch->source.lengths[i] + trf__source_added(c) : 0;
    int64_t target = kind != TRF_ENCODER_SELF ? (int64_t)batch->target.lengths[i] + c->target_eos
        : 0;
    *queries = kind == TRF_ENCODER_SELF ? source : target;
    *keys = kind == TRF_DECODER_SELF ? target : source;
}

/* Ends a call that copies to the host. No copy may be under way when it returns, even after a
   failure: the memory may be freed then. */
TRF__FN trf_status trf__view_end(const trf__run *run, trf_status status, trf_error *err)
{
    if (status == TRF_OK) return run->backend->sync(run, err);
    (void)run->backend->sync(run, NULL);
    return status;
}

/* Runs the forward pass of these sides with views. The scratch memory holds the largest map.
   memory: NULL, or the rows that the decoder reads in place of the encoder's. */
TRF__FN trf_status trf__view_forward(trf_reader *reader, trf__views *views, int sides,
                                     const trf_real *memory, trf_error *err)
{
    trf__pass *pass = &reader->pass;
    int64_t most = 0;
    trf_status status;
    for (int64_t i = 0; i < pass->n_sentences; i++) {
        const trf__span *self = pass->encoder.host.self, *own = pass->decoder.host.self;
        int64_t source = pass->encoder.n_self ? self[i].n_query : 0;
        int64_t target = pass->decoder.n_self ? own[i].n_query : 0;
        if (views->attention[TRF_ENCODER_SELF]) most = trf__max64(most, source * source);
        if (views->attention[TRF_DECODER_SELF]) most = trf__max64(most, target * target);
        if (views->attention[TRF_DECODER_CROSS]) most = trf__max64(most, target * source);
    }
    TRF__TRY(trf__workspace_reserve(&pass->run, &reader->work,
                           trf__bytes(most, trf__bytes(pass->config->n_heads,
                                                       sizeof(trf_real))), err));
    views->map = (trf_real *)reader->work.memory;
    pass->views = views;
    if (memory) {       /* it takes the buffer of the embedding, as the encoder does not run */
        pass->encoder.out = pass->encoder.embedded;
        pass->run.backend->feed(&pass->run, pass->encoder.out, memory,
                                pass->encoder.rows * pass->config->d_model);
        status = trf__stack_forward(pass, &pass->decoder, err);
    } else status = trf__pass_forward(pass, sides, err);
    /* the next call must not see these views, even after a failure */
    pass->views = NULL;
    return status == TRF_OK ? TRF_OK : trf__view_end(&pass->run, status, err);
}

// >>read-pass      trf_reader_read: what is asked for, its memory, and the parts of the batch

enum {
    TRF__READ_ENCODER = TRF_READ_ENCODED | TRF_READ_ENCODER_STATES | TRF_READ_ENCODER_SELF,
    TRF__READ_DECODER = TRF_READ_DECODED | TRF_READ_DECODER_STATES | TRF_READ_DECODER_SELF |
                        TRF_READ_CROSS,
    TRF__READ_ALL = TRF__READ_ENCODER | TRF__READ_DECODER | TRF_READ_LOGITS
};

/* Whether the model has what is asked for. */
TRF__FN trf_status trf__read_check(const trf_config *c, int32_t what, const trf_read_from *from,
                                   trf_error *err)
{
    int memory = from && from->memory, states = from && from->states;
    TRF__FAIL_IF(what < 1 || what > TRF__READ_ALL, TRF_E_INVALID_ARG, -1, "what",
                 "what must be a sum of TRF_READ_..., got %d", (int)what);
    TRF__FAIL_IF(memory + states > 1 || (memory && what & TRF__READ_ENCODER) || (states &&
                 what != TRF_READ_LOGITS), TRF_E_INVALID_ARG, -1, "from",
                 "set either memory or states, and ask only for what follows it");
    TRF__FAIL_IF(what & TRF__READ_ENCODER && !trf__has_source(c), TRF_E_STATE, -1, "kind",
                 "a decoder-only model has no encoder");
    if (memory || what & TRF_READ_CROSS)
        TRF__FAIL_IF(!trf__has_source(c) || !trf__has_target(c), TRF_E_STATE, -1, "kind",
                     "only an encoder-decoder model has a decoder that reads a memory");
    if (what & TRF__READ_DECODER || (what & TRF_READ_LOGITS && !c->head))
        TRF__TRY(trf__check_has_target(c, err));
    return TRF_OK;
}

/* Cuts memory for what is asked for; without memory, counts it. */
TRF__FN trf_tensor trf__take_tensor(trf__cursor *cursor, int wanted, int64_t layers, int64_t rows,
                                    int64_t columns)
{
    TRF__ZEROED(trf_tensor, x);
    if (!wanted) return x;
    x = trf_tensor_of(NULL, layers ? 3 : 2, layers ? layers : rows, layers ? rows : columns,
                      columns);
    x.data = trf__take_reals(cursor, trf__mul_counts(layers ? layers : 1, rows), columns);
    return x;
}

TRF__FN void trf__reading_layout(trf_reading *x, trf_tensor *maps, trf__cursor *cursor,
                                 const trf_config *c, const trf_batch *batch, int32_t what,
                                 const trf__limits *need)
{
    static const int32_t kinds[TRF_ATTENTION_KIND_COUNT] = {
        TRF_READ_ENCODER_SELF, TRF_READ_DECODER_SELF, TRF_READ_CROSS
    };
    const int64_t d = c->d_model, source = need->source_rows, target = need->target_rows;
    x->encoded = trf__take_tensor(cursor, what & TRF_READ_ENCODED, 0, source, d);
    x->decoded = trf__take_tensor(cursor, what & TRF_READ_DECODED, 0, target, d);
    x->encoder_states = trf__take_tensor(cursor, what & TRF_READ_ENCODER_STATES,
                                         1 + (int64_t)c->encoder_layers, source, d);
    x->decoder_states = trf__take_tensor(cursor, what & TRF_READ_DECODER_STATES,
                                         1 + (int64_t)c->decoder_layers, target, d);
    x->logits = trf__take_tensor(cursor, what & TRF_READ_LOGITS, 0, target, trf__n_logits(c));
    x->count = (int32_t)need->sentences;
    for (int k = 0; k < TRF_ATTENTION_KIND_COUNT; k++) {
        x->attention[k] = what & kinds[k] ? maps : NULL;
        for (int32_t i = 0; what & kinds[k] && i < x->count; i++, maps++) {
            *maps = trf_tensor_of(NULL, 1, 0, 1, 1);
            maps->rank = 4;
            maps->shape[0] = k == TRF_ENCODER_SELF ? c->encoder_layers : c->decoder_layers;
            maps->shape[1] = c->n_heads;
            trf__attention_extent(c, batch, (trf_attention_kind)k, i, &maps->shape[2],
                                  &maps->shape[3]);
            maps->data = trf__take_reals(cursor, trf__mul_counts(maps->shape[0], maps->shape[1]),
                                         trf__mul_counts(maps->shape[2], maps->shape[3]));
        }
    }
}

/* Gives the results memory. That of the call before goes first, because both might not fit. */
TRF__FN trf_status trf__reading_reserve(trf_reader *r, trf_reading *x, const trf_batch *batch,
                                        int32_t what, const trf__limits *need, trf_error *err)
{
    const trf_hooks *hooks = &r->pass.run.hooks;
    trf__cursor cursor = trf__cursor_at(NULL);
    TRF__GROW(trf_tensor, r->maps, r->maps_capacity,
              trf__mul_counts(TRF_ATTENTION_KIND_COUNT, need->sentences), hooks);
    trf__reading_layout(x, r->maps, &cursor, r->pass.config, batch, what, need);
    if (cursor.used > r->results_bytes) {
        trf__free(hooks, r->results, r->results_bytes);
        r->results = trf__alloc(hooks, cursor.used);
        r->results_bytes = r->results ? cursor.used : 0;
    }
    TRF__FAIL_IF(cursor.used && !r->results, TRF_E_NOMEM, -1, "reading",
                 "no memory for the %llu bytes of the results", (unsigned long long)cursor.used);
    cursor = trf__cursor_at(r->results);
    trf__reading_layout(x, r->maps, &cursor, r->pass.config, batch, what, need);
    return TRF_OK;
}

/* Copies rows from `at` on, if they are asked for. */
TRF__FN void trf__copy_out(const trf__run *run, const trf_tensor *to, int64_t at,
                            const trf__act *rows, int64_t n)
{
    if (to->data && n > 0)
        run->backend->fetch(run, to->data + at * to->shape[1], rows, n * to->shape[1]);
}

/* Reads a batch part by part. memory: NULL, or the rows in place of the encoder's. */
TRF__FN trf_status trf__read_parts(trf_reader *r, const trf_batch *batch, int sides,
                                   const trf_real *memory, trf_reading *x, trf_error *err)
{
    trf__pass *pass = &r->pass;
    const int64_t d = pass->config->d_model;
    int64_t source = 0, target = 0, sequence = 0;
    trf_batch rest = *batch;
    TRF__ZEROED(trf__views, views);
    views.rows[0] = x->encoder_states.shape[1];
    views.rows[1] = x->decoder_states.shape[1];
    while (trf__sequences_of(&rest, sides) > 0) {
        TRF__TRY(trf__pass_part(pass, sides, &rest, err));
        for (int k = 0; k < TRF_ATTENTION_KIND_COUNT; k++)
            views.attention[k] = x->attention[k] ? x->attention[k] + sequence : NULL;
        views.states[0] = x->encoder_states.data ? x->encoder_states.data + source * d : NULL;
        views.states[1] = x->decoder_states.data ? x->decoder_states.data + target * d : NULL;
        TRF__TRY(trf__view_forward(r, &views, sides, memory ? memory + source * d : NULL, err));
        trf__copy_out(&pass->run, &x->encoded, source, pass->encoder.out, pass->encoder.rows);
        trf__copy_out(&pass->run, &x->decoded, target, pass->decoder.out, pass->decoder.rows);
        trf_status status = x->logits.data ? trf__logits_in_work(r, pass, 0, err) : TRF_OK;
        if (status == TRF_OK)
            trf__copy_out(&pass->run, &x->logits, target, (trf__act *)r->work.memory,
                           pass->decoder.rows);
        TRF__TRY(trf__view_end(&pass->run, status, err));
        source += pass->encoder.rows;
        target += pass->decoder.rows;
        sequence += pass->n_sentences;
    }
    return TRF_OK;
}

/* Reads a batch, whose sources may be stand-ins for a memory. */
TRF__FN trf_status trf__read_batch(trf_reader *r, const trf_batch *batch, int32_t what,
                                   const trf_tensor *memory, trf_reading *x, trf_error *err)
{
    trf__pass *pass = &r->pass;
    /* the decoder runs only if something needs it */
    int sides = what & ~TRF__READ_ENCODER || !trf__has_source(pass->config)
        ? pass->sides : pass->sides & TRF__SOURCE;
    trf__limits need;
    int64_t wanted;
    TRF__TRY(trf__batch_needs(pass, batch, sides, &need, &wanted, err));
    if (memory)
        TRF__TRY(trf__shape_check(memory, "memory", need.source_rows, pass->config->d_model, err));
    TRF__TRY(trf__reading_reserve(r, x, batch, what, &need, err));
    return trf__read_parts(r, batch, sides, memory ? memory->data : NULL, x, err);
}

// >>read-from      a pass that begins with a memory, or with states

/* Checks the rows of each memory. An empty one would leave cross-attention without keys; a source
   may have BOS and EOS. */
TRF__FN trf_status trf__memory_check(const trf_config *c, const trf_sequences *targets,
                                     const int32_t *rows, int64_t *total, trf_error *err)
{
    const int32_t least = trf__source_added(c) > 1 ? 2 : 1;
    int32_t i;
    if (targets->count < 0) return trf__fail_below(err, "targets", 0, targets->count);
    if (targets->count > 0 && !rows) return trf__fail_null(err, "memory_lengths");
    for (*total = i = 0; i < targets->count; *total += rows[i++])
        TRF__FAIL_IF(rows[i] < least || rows[i] > c->max_length, TRF_E_INVALID_ARG, i,
                     "memory_lengths", "the memory of sequence %d must have %d to %d rows, got %d",
                     i, least, c->max_length, rows[i]);
    return TRF_OK;
}

/* Makes sources of one ordinary token with the lengths of the memories: the pass takes the extents
   of a memory from sources. */
TRF__FN trf_status trf__memory_sources(trf_reader *reader, const int32_t *rows, int32_t count,
                                       int64_t total, trf_sequences *sources, trf_error *err)
{
    const trf_config *c = reader->pass.config;
    int32_t token = 0;          /* a vocabulary has 5 tokens or more */
    while (token == c->pad || token == c->bos || token == c->eos) token++;
    TRF__GROW(int32_t, reader->stand_in.ids, reader->stand_in.capacity, total + count,
              &reader->pass.run.hooks);
    sources->lengths = reader->stand_in.ids;
    sources->ids = reader->stand_in.ids + count;
    sources->count = count;
    for (int64_t i = 0; i < count; i++) reader->stand_in.ids[i] = rows[i] - trf__source_added(c);
    for (int64_t i = 0; i < total; i++) reader->stand_in.ids[count + i] = token;
    return TRF_OK;
}

/* Reads a batch from a memory on: the decoder, and what follows. */
TRF__FN trf_status trf__read_memory(trf_reader *r, const trf_batch *batch, int32_t what,
                                    const trf_read_from *from, trf_reading *x, trf_error *err)
{
    trf__pass *pass = &r->pass;
    int32_t tagged = pass->encoder.tagged;
    trf_batch own = *batch;
    int64_t rows = 0;
    TRF__TRY(trf__memory_check(pass->config, &batch->target, from->memory_lengths, &rows, err));
    TRF__TRY(trf__memory_sources(r, from->memory_lengths, batch->target.count, rows, &own.source,
                                 err));
    /* the ids of the sources are not read: a row has no tag */
    pass->encoder.tagged = 0;
    trf_status status = trf__read_batch(r, &own, what, from->memory, x, err);
    pass->encoder.tagged = tagged;
    return status;
}

/* The logits of states: the output projection, or the head, alone. */
TRF__FN trf_status trf__read_states(trf_reader *r, const trf_tensor *states, trf_reading *x,
                                    trf_error *err)
{
    trf__pass *pass = &r->pass;
    const trf_config *c = pass->config;
    const trf__run *run = &pass->run;
    int64_t vocab = trf__n_logits(c);
    TRF__ZEROED(trf_batch, none);
    TRF__ZEROED(trf__limits, need);
    int64_t rows = states->shape[0];
    TRF__TRY(trf__shape_check(states, "states", rows, c->d_model, err));
    TRF__TRY(trf__check_range("states", (double)rows, 0, INT32_MAX, err));
    need.target_rows = rows;
    TRF__TRY(trf__reading_reserve(r, x, &none, TRF_READ_LOGITS, &need, err));
    if (rows == 0) return TRF_OK;
    /* scratch memory: the states, the activations of the head's layer, then the logits */
    size_t bytes = trf__bytes(rows, trf__bytes(trf__round_up(c->d_model, 16), run->element));
    TRF__TRY(trf__workspace_reserve(run, &r->work,
                           trf__add_size(trf__bytes(1 + c->head_layer, bytes),
                                         trf__bytes(rows, trf__bytes(vocab, run->element))),
                           err));
    /* more rows than the pass has planned may be converted */
    TRF__TRY(run->backend->reserve(&pass->run, 0, 1, 0,
                                   run->backend->converted(run->format, rows, c->d_model), err));
    trf__act *h = (trf__act *)r->work.memory;
    trf__act *y = (trf__act *)(void *)((char *)r->work.memory +
                                       (size_t)(1 + c->head_layer) * bytes);
    run->backend->feed(run, h, states->data, rows * c->d_model);
    if (c->head_layer) {
        trf__head_acts layer = pass->head;
        layer.h = layer.a = layer.y = (trf__act *)(void *)((char *)r->work.memory + bytes);
        layer.stats = NULL;
        trf__head_layer(pass, &layer, h, rows);
        h = layer.y;
    }
    trf__project_states(pass, y, h, rows);
    trf__copy_out(run, &x->logits, 0, y, rows);
    return run->backend->sync(run, err);
}

TRF_API trf_status trf_reader_read(trf_reader *reader, const trf_batch *batch, int32_t what,
                                   const trf_read_from *from, trf_reading *reading, trf_error *err)
{
    trf_status status = trf__begin(reader, "reader", err);
    if (reading) TRF__ZERO(*reading);
    TRF__TRY(status);
    TRF__TRY(trf__check_one_model(&reader->ensemble, err));
    if (!reading) return trf__fail_null(err, "reading");
    if (!batch && !(from && from->states)) return trf__fail_null(err, "batch");
    TRF__TRY(trf__read_check(reader->pass.config, what, from, err));
    status = from && from->states ? trf__read_states(reader, from->states, reading, err)
        : from && from->memory ? trf__read_memory(reader, batch, what, from, reading, err)
        : trf__read_batch(reader, batch, what, NULL, reading, err);
    if (status != TRF_OK) TRF__ZERO(*reading);
    return status;
}

#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "device/tensors.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/model.h"
#include "pass/stacks.h"
#include "pass/rows.h"
#include "pass/forward.h"
#include "search/translator.h"
#include "search/calls.h"
#include "search/look_inside.h"

TRF__FOR_SIZE

// >>views          attention maps and states of every layer; the decoder and the projection alone
//
// The same pass. While it runs, it copies the maps of each sublayer and the state of each layer to
// the host (>>forward): on the device there is memory for one map at a time.

/* Number of layers with attention of this kind; 0: the model has none. */
TRF__FN int32_t trf__attention_layers(const trf_config *c, trf_attention_kind kind)
{
    if (kind == TRF_ENCODER_SELF) return c->encoder_layers;
    if (kind == TRF_DECODER_CROSS) return trf__has_source(c) ? c->decoder_layers : 0;
    return kind == TRF_DECODER_SELF ? c->decoder_layers : 0;
}

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

/* Number of sequences of a batch, or 0 if the sides that this kind of attention reads have no valid
   lengths. */
TRF__FN int32_t trf__attention_sequences(const trf_model *model, const trf_batch *batch,
                                         trf_attention_kind kind)
{
    const trf_sequences *sides[2];
    int32_t i, side, n;
    if (!model || !batch || trf__attention_layers(&model->config, kind) == 0) return 0;
    sides[0] = kind == TRF_DECODER_SELF && !trf__has_source(&model->config) ? &batch->target
        : &batch->source;
    sides[1] = kind == TRF_ENCODER_SELF ? &batch->source : &batch->target;
    n = sides[0]->count;
    if (n < 0 || n != sides[1]->count) return 0;
    for (side = 0; side < 2; side++)
        for (i = 0; i < n; i++) if (!sides[side]->lengths || sides[side]->lengths[i] < 0) return 0;
    return n;
}

/* Number of attention weights of sequences first to end - 1. */
TRF__FN int64_t trf__attention_count(const trf_config *c, const trf_batch *batch,
                                     trf_attention_kind kind, int32_t first, int32_t end)
{
    int64_t maps = (int64_t)trf__attention_layers(c, kind) * c->n_heads, queries, keys, n = 0;
    for (; first < end; first++) {
        trf__attention_extent(c, batch, kind, first, &queries, &keys);
        n = trf__add_counts(n, trf__times(trf__times(queries, keys), maps));
    }
    return n;
}

TRF_API int64_t trf_attention_count(const trf_model *model, const trf_batch *batch,
                                    trf_attention_kind kind)
{
    int32_t n = trf__attention_sequences(model, batch, kind);
    return n > 0 ? trf__attention_count(&model->config, batch, kind, 0, n) : 0;
}

TRF_API trf_tensor trf_attention_at(const trf_model *model, const trf_batch *batch,
                                    trf_attention_kind kind,
                                    const trf_tensor *attention, int32_t sequence)
{
    trf_tensor one = trf_tensor_of(NULL, 1, 0, 1, 1);
    int32_t n = trf__attention_sequences(model, batch, kind);
    if (!attention || !attention->data || sequence < 0 || sequence >= n ||
        trf_tensor_count(attention) != trf_attention_count(model, batch, kind)) return one;
    /* the maps of all sequences before this one come first */
    one.rank = 4;
    one.shape[0] = trf__attention_layers(&model->config, kind);
    one.shape[1] = model->config.n_heads;
    trf__attention_extent(&model->config, batch, kind, sequence, &one.shape[2], &one.shape[3]);
    one.data = attention->data + trf__attention_count(&model->config, batch, kind, 0, sequence);
    return one;
}

/* Ends a call that copies to the caller's tensors. No copy may be under way when it returns, even
   after a failure: the caller may free the tensors then. */
TRF__FN trf_status trf__view_end(const trf__run *run, trf_status status, trf_error *err)
{
    if (status == TRF_OK) return run->backend->sync(run, err);
    (void)run->backend->sync(run, NULL);
    return status;
}

/* Runs the forward pass of these sides with views. The scratch memory holds the largest map. */
TRF__FN trf_status trf__view_forward(trf_translator *translator, trf__views *views, int sides,
                                     trf_error *err)
{
    trf__pass *pass = &translator->pass;
    int64_t most = 0, i;
    trf_status status;
    for (i = 0; i < pass->n_sentences; i++) {
        const trf__span *self = pass->encoder.host.self, *own = pass->decoder.host.self;
        int64_t source = pass->encoder.n_self ? self[i].n_query : 0;
        int64_t target = pass->decoder.n_self ? own[i].n_query : 0;
        if (views->attention[TRF_ENCODER_SELF]) most = trf__max64(most, source * source);
        if (views->attention[TRF_DECODER_SELF]) most = trf__max64(most, target * target);
        if (views->attention[TRF_DECODER_CROSS]) most = trf__max64(most, target * source);
    }
    TRF__TRY(trf__workspace_reserve(&pass->run, &translator->work,
                           trf__bytes(most, trf__bytes(pass->config->n_heads,
                                                       sizeof(trf_real))), err));
    views->map = (trf_real *)translator->work.memory;
    pass->views = views;
    status = trf__pass_forward(pass, sides, err);
    /* the next call must not see these views, even after a failure */
    pass->views = NULL;
    return status == TRF_OK ? TRF_OK : trf__view_end(&pass->run, status, err);
}

// >>view-calls     attention, states and logits of every layer at once
//
// trf_look_inside checks all tensors before it runs the pass once. trf_decode and trf_project run a
// part of the model on the caller's states.

/* Checks a tensor for attention: one row of all weights of its kind, or for one sequence (layers,
   heads, queries, keys). */
TRF__FN trf_status trf__view_attention_check(const trf_model *model, const trf_batch *batch,
                                             trf_attention_kind kind,
                                             const trf_tensor *view, const char *name,
                                             trf_error *err)
{
    int64_t numbers;
    trf_tensor one;
    if (!view) return TRF_OK;
    if (!trf__attention_layers(&model->config, kind))
        return trf__fail(err, TRF_E_INVALID_ARG, -1, name,
                         "this model has no attention of kind %d (%s)", (int)kind, name);
    if (!view->data)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, name, "%s must be a tensor with data", name);
    numbers = trf_attention_count(model, batch, kind);
    if (view->rank == 1 && view->shape[0] == numbers) return TRF_OK;
    one = trf_attention_at(model, batch, kind, view, 0);
    if (view->rank == 4 && one.data && trf__attention_sequences(model, batch, kind) == 1 &&
        memcmp(view->shape, one.shape, sizeof one.shape) == 0) return TRF_OK;
    return trf__fail(err, TRF_E_SHAPE, -1, name,
                     "%s must have shape (%lld) or, if there is only one sequence, (layers, heads, "
                     "queries, keys); got rank %d with first extent %lld",
                     name, (long long)numbers, view->rank, (long long)view->shape[0]);
}

/* Checks a tensor for states: (layers + 1, rows, d_model). The first state is the embedding. */
TRF__FN trf_status trf__view_states_check(const trf__pass *pass, const trf__stack *stack,
                                          const trf_tensor *view, const char *name, trf_error *err)
{
    int64_t layers = stack->n_sublayers / stack->per_layer;
    if (!view) return TRF_OK;
    if (layers == 0)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, name, "this model has no stack for %s", name);
    if (!view->data)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, name, "%s must be a tensor with data", name);
    if (view->rank == 3 && view->shape[0] == layers + 1 && view->shape[1] == stack->rows &&
        view->shape[2] == pass->config->d_model) return TRF_OK;
    return trf__fail(err, TRF_E_SHAPE, -1, name,
                     "%s must have shape (%lld, %lld, %d), got rank %d with first extents %lld, "
                     "%lld and %lld", name,
                     (long long)layers + 1, (long long)stack->rows, pass->config->d_model,
                     view->rank, (long long)view->shape[0], (long long)view->shape[1],
                     (long long)view->shape[2]);
}

/* Checks all tensors of a batch with known rows, and notes their data. */
TRF__FN trf_status trf__views_of(const trf_translator *translator, const trf_batch *batch,
                                 const trf_views *wanted, trf__views *views, trf_error *err)
{
    const trf__pass *pass = &translator->pass;
    const trf_model *model = translator->model;
    const trf_tensor *maps[3], *states[2];
    static const char *const map_names[3] = {"encoder_self", "decoder_self", "cross"};
    static const char *const state_names[2] = {"encoder_states", "decoder_states"};
    int i;
    maps[TRF_ENCODER_SELF] = wanted->encoder_self;
    maps[TRF_DECODER_SELF] = wanted->decoder_self;
    maps[TRF_DECODER_CROSS] = wanted->cross;
    states[0] = wanted->encoder_states;
    states[1] = wanted->decoder_states;
    TRF__ZERO(*views);
    for (i = 0; i < 3; i++) {
        TRF__TRY(trf__view_attention_check(model, batch, (trf_attention_kind)i, maps[i],
                                           map_names[i], err));
        views->attention[i] = maps[i] ? maps[i]->data : NULL;
    }
    for (i = 0; i < 2; i++) {
        TRF__TRY(trf__view_states_check(pass, i ? &pass->decoder : &pass->encoder, states[i],
                                        state_names[i], err));
        views->states[i] = states[i] ? states[i]->data : NULL;
    }
    return TRF_OK;
}

TRF_API trf_status trf_look_inside(trf_translator *translator, const trf_batch *batch,
                                   const trf_views *views, trf_error *err)
{
    trf__pass *pass;
    const trf_config *c;
    trf__views inside;
    trf_status status;
    int sides;
    TRF__TRY(trf__begin(translator, "translator", err));
    TRF__TRY(trf__one_model(&translator->ensemble, err));
    pass = &translator->pass;
    c = pass->config;
    trf__forget_answers(translator);
    if (!batch || !views) return trf__fail_null(err, batch ? "views" : "batch");
    if (views->logits && !c->head) TRF__TRY(trf__needs_target(c, err));
    /* the decoder runs only if a view needs it */
    sides = pass->sides & TRF__SOURCE;
    if (views->logits || views->decoder_self || views->cross || views->decoder_states ||
        !trf__has_source(c))
        sides = pass->sides;
    TRF__TRY(trf__pass_sides(pass, batch, sides, 0, err));
    TRF__TRY(trf__views_of(translator, batch, views, &inside, err));
    if (views->logits)
        TRF__TRY(trf__shape_check(views->logits, "logits", pass->decoder.rows, trf__n_logits(c),
                                  err));
    TRF__TRY(trf__view_forward(translator, &inside, sides, err));
    status = views->logits ? trf__logits_in_work(translator, pass, err) : TRF_OK;
    if (views->logits && status == TRF_OK)
        pass->run.backend->fetch(&pass->run, views->logits->data,
                                 (trf__act *)translator->work.memory,
                                 trf_tensor_count(views->logits));
    return trf__view_end(&pass->run, status, err);
}

/* Makes sources of one ordinary token with the lengths of the memories: the pass takes the extents
   of a memory from sources. */
TRF__FN trf_status trf__memory_sources(trf_translator *translator, const int32_t *rows,
                                       int32_t count, int64_t total,
                                       trf_sequences *sources, trf_error *err)
{
    const trf_config *c = translator->pass.config;
    int32_t token = 0;          /* a vocabulary has 5 tokens or more */
    int64_t i;
    while (token == c->pad || token == c->bos || token == c->eos) token++;
    TRF__GROW(int32_t, translator->text[0].ids, translator->text[0].capacity, total + count,
              &translator->pass.run.hooks);
    sources->lengths = translator->text[0].ids;
    sources->ids = translator->text[0].ids + count;
    sources->count = count;
    for (i = 0; i < count; i++) translator->text[0].ids[i] = rows[i] - trf__source_added(c);
    for (i = 0; i < total; i++) translator->text[0].ids[count + i] = token;
    return TRF_OK;
}

TRF_API trf_status trf_decode(trf_translator *translator, const trf_tensor *memory,
                              const int32_t *memory_lengths,
                              const trf_sequences *targets, trf_tensor *out, trf_error *err)
{
    trf__pass *pass;
    const trf_config *c;
    trf_batch batch;
    trf_status status;
    int32_t i, least, tagged;
    int64_t rows = 0;
    TRF__TRY(trf__begin(translator, "translator", err));
    TRF__TRY(trf__one_model(&translator->ensemble, err));
    pass = &translator->pass;
    c = pass->config;
    trf__forget_answers(translator);
    if (!trf__has_source(c) || !trf__has_target(c))
        return trf__fail(err, TRF_E_STATE, -1, "kind",
                         "only an encoder-decoder model has a decoder with a memory");
    if (!targets) return trf__fail_null(err, "targets");
    if (targets->count < 0) return trf__fail_below(err, "targets", 0, targets->count);
    if (targets->count > 0 && !memory_lengths) return trf__fail_null(err, "memory_lengths");
    /* an empty memory would leave cross-attention without keys; a source may have BOS and EOS */
    least = trf__source_added(c) > 1 ? 2 : 1;
    for (i = 0; i < targets->count; rows += memory_lengths[i++])
        if (memory_lengths[i] < least || memory_lengths[i] > c->max_length)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "memory_lengths",
                             "the memory of sequence %d must have %d to %d rows, got %d", i, least,
                             c->max_length, memory_lengths[i]);
    TRF__TRY(trf__shape_check(memory, "memory", rows, c->d_model, err));
    TRF__TRY(trf__memory_sources(translator, memory_lengths, targets->count, rows, &batch.source,
                                 err));
    TRF__ZERO(batch.place);
    batch.ordinal = 0;
    batch.target = *targets;
    /* the ids of the sources are not read: a row has no tag */
    tagged = pass->encoder.tagged;
    pass->encoder.tagged = 0;
    status = trf__pass_sides(pass, &batch, pass->sides, 0, err);
    pass->encoder.tagged = tagged;
    TRF__TRY(status);
    TRF__TRY(trf__shape_check(out, "out", pass->decoder.rows, c->d_model, err));
    /* the encoder does not run: the caller's memory takes the buffer of its embedding */
    pass->encoder.out = pass->encoder.embedded;
    pass->run.backend->feed(&pass->run, pass->encoder.out, memory->data, rows * c->d_model);
    TRF__TRY(trf__stack_forward(pass, &pass->decoder, err));
    pass->run.backend->fetch(&pass->run, out->data, pass->decoder.out,
                             pass->decoder.rows * c->d_model);
    return pass->run.backend->sync(&pass->run, err);
}

TRF_API trf_status trf_project(trf_translator *translator, const trf_tensor *states,
                               trf_tensor *logits, trf_error *err)
{
    trf__pass *pass;
    const trf_config *c;
    const trf__run *run;
    int64_t rows, vocab;
    size_t bytes;
    trf__head_acts layer;
    trf__act *x, *y;
    TRF__TRY(trf__begin(translator, "translator", err));
    TRF__TRY(trf__one_model(&translator->ensemble, err));
    pass = &translator->pass;
    c = pass->config;
    trf__forget_answers(translator);
    if (!trf__has_target(c) && !c->head)
        return trf__fail(err, TRF_E_STATE, -1, "kind",
                         "this model has neither an output projection nor a head");
    rows = states ? states->shape[0] : 0;
    TRF__TRY(trf__shape_check(states, "states", rows, c->d_model, err));
    TRF__TRY(trf__check_range("states", (double)rows, 0, INT32_MAX, err));
    run = &pass->run;
    vocab = trf__n_logits(c);
    TRF__TRY(trf__shape_check(logits, "logits", rows, vocab, err));
    if (rows == 0) return TRF_OK;
    /* scratch memory: the states, the activations of the head's layer, then the logits */
    bytes = trf__bytes(rows, trf__bytes(trf__round_up(c->d_model, 16), run->element));
    TRF__TRY(trf__workspace_reserve(run, &translator->work,
                           trf__add_size(trf__bytes(1 + c->head_layer, bytes),
                                         trf__bytes(rows, trf__bytes(vocab, run->element))),
                           err));
    /* more rows than the pass has planned may be converted */
    TRF__TRY(run->backend->reserve(&pass->run, 0, 1, 0,
                                   run->backend->converted(run->format, rows, c->d_model), err));
    x = (trf__act *)translator->work.memory;
    y = (trf__act *)(void *)((char *)translator->work.memory +
                             (size_t)(1 + c->head_layer) * bytes);
    run->backend->feed(run, x, states->data, rows * c->d_model);
    if (c->head_layer) {
        layer = pass->head;
        layer.h = layer.a = layer.y = (trf__act *)(void *)((char *)translator->work.memory + bytes);
        layer.stats = NULL;
        trf__head_layer(pass, &layer, x, rows);
        x = layer.y;
    }
    trf__project_states(pass, y, x, rows);
    run->backend->fetch(run, logits->data, y, rows * vocab);
    return run->backend->sync(run, err);
}

TRF__FOR_SPEED

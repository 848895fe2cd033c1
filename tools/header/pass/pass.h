#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/train.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "model/checks.h"
#include "model/params.h"
#include "pass/stacks.h"

// >>pass-open      a pass over one model: its stacks and what they share

/* Frees what trf__pass_alloc has made. */
TRF__FN void trf__pass_free(trf__pass *pass)
{
    const trf__run *run = &pass->run;
    int n = pass->encoder.n_sublayers + pass->decoder.n_sublayers;
    run->backend->release(run, pass->plan.arena, pass->plan.arena_bytes);
    run->backend->release(run, pass->block.device, pass->block.bytes);
    trf__free(&run->hooks, pass->block.host, pass->block.bytes);
    trf__free(&run->hooks, pass->plan.sublayers, trf__bytes(n, sizeof(trf__sublayer)));
}

/* Closes a pass, but not its run. One that was never opened has no backend: it is left as it is. */
TRF__FN void trf__pass_leave(trf__pass *pass)
{
    const trf__run *run = &pass->run;
    if (!run->backend) return;
    trf__pass_free(pass);
    if (pass->weights.packed_bytes)
        run->backend->release(run, pass->weights.packed, pass->weights.packed_bytes);
    TRF__ZERO(*pass);
}

TRF__FN void trf__pass_close(trf__pass *pass)
{
    trf__run run = pass->run;
    trf__pass_leave(pass);
    if (run.backend) run.backend->close(&run);
}

/* A dropout of probability p at a site: p becomes a multiple of 1/65536, at most 65535 of them. */
TRF__FN trf__drop trf__drop_of(double p, uint32_t site)
{
    trf__drop drop;
    drop.threshold = (uint32_t)(p < 65535.0 / 65536 ? p * 65536 + 0.5 : 65535);
    drop.site = site;
    drop.scale = (trf_real)(65536.0 / (65536.0 - drop.threshold));
    return drop;
}

/* The dropouts of a stack, each at a site of its own: 0 and 1 are the embeddings'; from 16 on a
   sublayer has four: +0 attention weights, +1 inner layer, +2 residual. No stack has 4096. */
TRF__FN void trf__stack_drops(trf__stack *stack, const trf_train_options *o)
{
    stack->drop = trf__drop_of(o->dropout, (uint32_t)stack->decoder);
    for (int i = 0; i < stack->n_sublayers; i++) {
        trf__sublayer *sub = &stack->sublayers[i];
        int number = stack->first_layer * stack->per_layer + i;
        uint32_t site = (uint32_t)(16 + 4 * (number + 4096 * stack->decoder));
        sub->hidden_drop = sub->is.kind == TRF__FEED_FORWARD
                         ? trf__drop_of(o->activation_dropout, site + 1)
                         : trf__drop_of(o->attention_dropout, site);
        sub->residual_drop = trf__drop_of(o->residual_dropout, site + 2);
    }
}

/* What a pass takes from the options of its trainer. */
TRF__FN void trf__follow_options(trf__pass *pass, const trf_train_options *o)
{
    trf__stack_drops(&pass->encoder, o);
    trf__stack_drops(&pass->decoder, o);
    pass->encoder.tagged = o->source_tagged;
}

/* Copies the description of each sublayer, and adds the norm that follows it. */
TRF__FN void trf__stack_sublayers(const trf__pass *pass, trf__stack *stack)
{
    const trf_config *c = pass->config;
    const trf__sublayer_spec *parts = pass->layout->specs +
        (stack->decoder ? pass->encoder.n_sublayers : 0);
    int pre = c->norm_place == TRF_PRE_NORM, last = stack->n_sublayers - 1;
    for (int i = 0; i <= last; i++) {
        trf__sublayer *sub = &stack->sublayers[i];
        sub->is = parts[i];
        sub->next_norm = !pre ? parts[i].norm : i < last ? parts[i + 1].norm : stack->final_norm;
    }
    if (!pre || last < 0) return;
    stack->first_norm = parts[0].norm;
    stack->final_norm.gain = stack->final_norm.bias = -1;
}

/* A stack before its sublayers exist. An embedding whose matrix has other gradients in this pass
   adds to them. */
TRF__FN trf__stack trf__stack_new(const trf_config *c, const trf__layout *layout,
                                  const trf__layer_range *range, int decoder)
{
    int generator = range->projects && (c->tying == TRF_TIED_ALL || c->head == TRF_HEAD_MASKED);
    TRF__ZEROED(trf__stack, stack);
    stack.decoder = decoder;
    stack.embeds = range->embeds[decoder];
    stack.first_layer = range->first[decoder];
    stack.per_layer = trf__per_layer(c, decoder);
    stack.n_sublayers = stack.per_layer * range->n[decoder];
    stack.segments = -1;
    stack.first_norm.gain = stack.first_norm.bias = -1;
    stack.embed_norm = stack.first_norm;
    stack.embed_shared = generator ||
        (decoder ? range->projects && c->tying == TRF_TIED_DECODER
                 : range->embeds[1] && trf__shares_embedding(c));
    stack.begins = decoder ? 0 : c->source_bos;
    stack.ends = decoder ? c->target_eos : c->source_eos;
    if (!layout) return stack;
    stack.positions = layout->model.positions[decoder];
    if (!decoder) stack.segments = layout->model.segments;
    stack.embed_norm = layout->model.embed_norm[decoder];
    stack.final_norm = layout->model.final_norm[decoder];
    return stack;
}

/* How a run keeps weights: TRF__PACKS_... A format other than float32 exists packed alone. */
TRF__FN int trf__packs(const trf__run *run, int training)
{
    return run->format != TRF__FLOAT32 && !training ? TRF__PACKS_MATRICES
                                                    : run->backend->packs(&run->device, training);
}

/* A pass without memory; layout NULL: only to count. o NULL: it does not train. */
TRF__FN trf__pass trf__pass_of(const trf_config *c, const trf__layout *layout,
                               const trf__limits *limits,
                               const trf_train_options *o, const trf__run *run)
{
    trf__layer_range range = layout ? layout->range : trf__layer_range_of(c, 0, 0);
    TRF__ZEROED(trf__pass, pass);
    pass.plan.has = TRF__KEPT | TRF__SCRATCH;
    pass.projects = range.projects;
    pass.run = *run;
    pass.config = c;
    pass.layout = layout;
    pass.plan.limits = *limits;
    pass.training = o != NULL;
    pass.copies = 1;
    pass.weights.packs = trf__packs(run, pass.training);
    pass.sides = (trf__has_source(c) ? TRF__SOURCE : 0) | (range.n[1] ? TRF__TARGET : 0) |
                 (c->head && range.projects ? TRF__HEAD : 0);
    pass.encoder = trf__stack_new(c, layout, &range, 0);
    pass.decoder = trf__stack_new(c, layout, &range, 1);
    return pass;
}

/* The largest second factor of a product in training, in numbers: a weight, or its input.
   *converted: the bytes of the largest first factor in the pass's format. */
TRF__FN int64_t trf__pass_widest(const trf__pass *pass, const trf__limits *limits,
                                 size_t *converted)
{
    int64_t deep = trf__max64(limits->source_rows, limits->target_rows), wide = 0, rows = deep;
    for (int stack = 0; stack < 2; stack++)
        for (int i = 0; i < (stack ? pass->decoder : pass->encoder).n_sublayers; i++) {
            trf__sublayer_spec is = trf__sublayer_spec_of(pass->config, stack, i);
            deep = trf__max64(deep, trf__max64(is.in.out, is.out.out));
            wide = trf__max64(wide, trf__max64(is.in.in, is.out.in));
        }
    wide = trf__max64(wide, pass->config->d_model);
    if (pass->config->sequence_labels) rows = trf__max64(rows, limits->sentences);
    *converted = pass->run.backend->converted(pass->run.format, rows, wide);
    return pass->training ? trf__mul_counts(deep, wide) : 0;
}

/* Bytes of the state of the pass's run. */
TRF__FN size_t trf__pass_state(const trf__pass *pass, const trf__limits *limits)
{
    size_t converted;
    int64_t widest = trf__pass_widest(pass, limits, &converted);
    return pass->run.backend->state_bytes(&pass->run, limits->longest, trf__d_head(pass->config),
                                          widest, converted);
}

/* Bytes that trf__pass_alloc takes, on the host and on the device. */
TRF__FN size_t trf__pass_bytes(trf__pass *pass)
{
    size_t bytes = trf__add_size(trf__pass_layout(pass, NULL),
                                 trf__bytes(2, trf__block_most(pass)));
    return trf__add_size(bytes, trf__bytes(pass->encoder.n_sublayers + pass->decoder.n_sublayers,
                                    sizeof(trf__sublayer)));
}

/* Bytes that trf__pass_open takes without copies of the weights. */
TRF__FN size_t trf__pass_memory(const trf_config *c, const trf__limits *limits,
                                const trf_train_options *o, const trf__run *run)
{
    trf__pass pass = trf__pass_of(c, NULL, limits, o, run);
    return trf__add_size(trf__pass_bytes(&pass), trf__pass_state(&pass, limits));
}

// >>pass-grow      position tables, larger batches, packed weights

/* Row p of the sinusoidal table (trf_positions). */
TRF__FN void trf__position_row(trf_real *row, int64_t p, int64_t d, int rule)
{
    int64_t n_half = d / 2;
    for (int64_t i = 0; i < d; i++) row[i] = 0;
    for (int64_t i = 0; i < n_half + d % 2; i++) {
        double exponent = rule == TRF_POSITIONS_HALVES_N1
            ? (double)i / (double)trf__max64(n_half - 1, 1)
                                                          : 2 * (double)i / (double)d;
        double angle = (double)p * pow(10000.0, -exponent);
        if (rule == TRF_POSITIONS_INTERLEAVED) {
            row[2 * i] = (trf_real)sin(angle);
            if (2 * i + 1 < d) row[2 * i + 1] = (trf_real)cos(angle);
        } else if (i < n_half) {
            row[i] = (trf_real)sin(angle);
            row[n_half + i] = (trf_real)cos(angle);
        }
    }
}

/* The part of a pair's angle that rotary_scale does not divide, 0 to 1. frequency: its angle at
   position 1. */
TRF__FN double trf__rotary_kept(const trf_config *c, double frequency)
{
    double turns = c->rotary_trained * frequency / 6.283185307179586;
    if (!c->rotary_trained || turns <= c->rotary_low) return 0;
    if (turns >= c->rotary_high) return 1;
    return (turns - c->rotary_low) / (c->rotary_high - c->rotary_low);
}

/* Row p of the rotations: cosines of the angles of all pairs, then their sines (>>rotary). */
TRF__FN void trf__rotary_row(trf_real *row, int64_t p, const trf_config *c)
{
    int64_t pairs = trf__rotary_width(c) / 2;
    for (int64_t i = 0; i < pairs; i++) {
        double frequency = pow(c->rotary_base, -(double)i / (double)pairs);
        double kept = trf__rotary_kept(c, frequency), at = (double)p;
        double angle = (at / c->rotary_scale * (1 - kept) + at * kept) * frequency;
        row[i] = (trf_real)cos(angle);
        row[pairs + i] = (trf_real)sin(angle);
    }
}

/* The bucket of each distance, key minus query. T5 computes in float. So does this, so that every
   distance falls into the same bucket. */
TRF__FN void trf__distance_row(int32_t *row, const trf_config *c, int decoder)
{
    int32_t n = decoder ? c->relative_buckets : c->relative_buckets / 2, exact = n / 2;
    int64_t reach = c->relative_distance;
    float log_range = (float)log((double)reach / exact);
    for (int64_t i = -reach; i <= reach; i++) {
        int64_t away = i < 0 ? -i : decoder ? 0 : i;        /* a decoder sees no later keys */
        int32_t ranged = exact;
        if (away > exact)
            ranged += (int32_t)((float)log((double)((float)away / (float)exact)) / log_range
                                * (float)(n - exact));
        row[reach + i] = (!decoder && i > 0 ? n : 0)
            + (away < exact ? (int32_t)away : ranged < n ? ranged : n - 1);
    }
}

/* Tables of positions, made on the host row by row, or of distances, one for each stack. */
TRF__FN trf_status trf__pass_table(const trf__pass *pass, trf_error *err)
{
    const trf_config *c = pass->config;
    const trf__backend *on = pass->run.backend;
    int64_t width = trf__is_sinusoidal(c) ? c->d_model : trf__rotary_width(c);
    size_t bytes = pass->buckets ? trf__bytes(trf__distances(c), sizeof(int32_t))
        : trf__bytes(width, sizeof(trf_real));
    if (!pass->table && !pass->buckets) return TRF_OK;
    void *row = trf__alloc(&pass->run.hooks, bytes);
    TRF__FAIL_IF(!row, TRF_E_NOMEM, -1, "positions", "no memory for one row of positions");
    for (int64_t p = 0; pass->table && p < pass->plan.limits.longest; p++) {
        if (trf__rotary_width(c)) trf__rotary_row((trf_real *)row, p, c);
        else trf__position_row((trf_real *)row, p + c->position_offset, width, (int)c->positions);
        on->upload(&pass->run, pass->table + p * width, row, bytes);
    }
    for (int64_t p = 0; pass->buckets && p < 2; p++) {
        trf__distance_row((int32_t *)row, c, (int)p);
        on->upload(&pass->run, pass->buckets + p * trf__distances(c), row, bytes);
    }
    trf__free(&pass->run.hooks, row, bytes);
    return TRF_OK;
}

/* Gives the pass an arena and a block for the given limits. On failure the old ones stay. */
TRF__FN trf_status trf__pass_resize(trf__pass *pass, const trf__limits *limits, trf_error *err)
{
    const trf__backend *on = pass->run.backend;
    const trf__run *run = &pass->run;
    size_t converted;
    trf_status status;
    trf__pass bigger = *pass;
    bigger.plan.limits = *limits;
    trf__pass size = bigger;
    size.encoder.sublayers = size.decoder.sublayers = NULL;     /* counting must not move them */
    bigger.plan.arena_bytes = trf__pass_layout(&size, NULL);
    bigger.block.bytes = trf__block_most(&bigger);
    bigger.plan.arena = (char *)on->alloc(run, bigger.plan.arena_bytes);
    bigger.block.device = (char *)on->alloc(run, bigger.block.bytes);
    bigger.block.host = TRF__NEW(char, &run->hooks, bigger.block.bytes);
    status = bigger.plan.arena && bigger.block.device && bigger.block.host ? TRF_OK :
        trf__fail(err, TRF_E_NOMEM, -1, "activations",
                  "no memory for the %llu bytes that %lld source and %lld target tokens need",
                  (unsigned long long)bigger.plan.arena_bytes, (long long)limits->source_rows,
                  (long long)limits->target_rows);
    size = bigger;
    size.encoder.sublayers = size.decoder.sublayers = NULL;
    if (status == TRF_OK) trf__pass_layout(&size, bigger.plan.arena);
    if (status == TRF_OK && (size.plan.has & TRF__SCRATCH)) status = trf__pass_table(&size, err);
    int64_t widest = trf__pass_widest(pass, limits, &converted);
    if (status == TRF_OK)
        status = on->reserve(&bigger.run, limits->longest, trf__d_head(pass->config), widest,
                             converted, err);
    size = status == TRF_OK ? *pass : bigger;       /* the one to be given up */
    on->release(run, size.plan.arena, size.plan.arena_bytes);
    on->release(run, size.block.device, size.block.bytes);
    trf__free(&run->hooks, size.block.host, size.block.bytes);
    if (status != TRF_OK) return status;
    trf__pass_layout(&bigger, bigger.plan.arena);
    /* recorded lists of the slots of a stage have the old scratch */
    bigger.back.options_set += (bigger.plan.has & TRF__SCRATCH) != 0;
    *pass = bigger;
    return TRF_OK;
}

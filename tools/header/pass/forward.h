#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/train.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "model/checks.h"
#include "model/params.h"
#include "pass/sublayers.h"
#include "pass/stacks.h"
#include "pass/pass.h"
#include "pass/packed.h"

// >>forward        embed, then the list of sublayers, for the encoder and for the decoder
//
// Training, evaluating, looking inside and decoding token by token all use this code. They differ
// in dropout (run.now), in the activations that they keep, and in where keys and values come from
// (trf__operands_of).

/* A parameter of an arena; -1: NULL. */
TRF__FN trf_real *trf__at(trf_real *arena, int64_t offset)
{
    return offset < 0 ? NULL : arena + offset;
}
TRF__FN const trf_real *trf__plain(const trf__pass *pass, int64_t offset)
{
    return offset < 0 ? NULL : pass->weights.plain + offset;
}

TRF__FN trf__rows trf__stack_rows(const trf__stack *stack)
{
    trf__rows at;
    at.sentence = stack->device.sentence;
    at.position = stack->device.position;
    return at;
}

/* How self-attention knows positions. */
TRF__FN void trf__operands_positions(const trf__pass *pass, const trf__stack *stack,
                                     trf__operands *sub)
{
    const trf_config *c = pass->config;
    if (c->positions == TRF_POSITIONS_ALIBI) sub->attention.bias.alibi = 1;
    if (c->positions == TRF_POSITIONS_RELATIVE) {
        trf__bias *bias = &sub->attention.bias;
        bias->table = pass->weights.plain + pass->layout->model.distances[stack->decoder];
        bias->row_of = pass->buckets + stack->decoder * trf__distances(c);
        bias->reach = c->relative_distance;
        bias->rows = c->relative_buckets;
    }
    if (c->positions == TRF_POSITIONS_ROTARY) {
        sub->rotation.table = pass->table;
        sub->rotation.d_head = trf__d_head(c);
        sub->rotation.width = trf__rotary_width(c);
        sub->rotation.pairs = (int)c->rotary_pairs;
        sub->rotation.position = stack->device.position;
    }
}

/* All inputs, outputs and weights of a sublayer. It stores its activations in the arena. During
   decoding, keys and values are in the cache, and the encoder's are there already. */
TRF__FN trf__operands trf__operands_of(const trf__pass *pass, const trf__stack *stack,
                                       const trf__sublayer *layer)
{
    const trf_config *c = pass->config;
    const trf__cache *cache = stack->cache;
    const trf__sublayer_spec *is = &layer->is;
    int cross = is->kind == TRF__CROSS, self = is->kind == TRF__SELF;
    TRF__ZEROED(trf__operands, sub);
    sub.rows = stack->rows;
    sub.memory_rows = !cross ? stack->rows : cache ? 0 : pass->encoder.rows;
    sub.d = c->d_model; sub.f = is->hidden;
    sub.q_width = is->q_width; sub.k_width = is->k_width;
    sub.at = trf__stack_rows(stack);
    sub.in_w = trf__weight(pass, &is->in); sub.out_w = trf__weight(pass, &is->out);
    sub.in_b = trf__plain(pass, is->in.b); sub.out_b = trf__plain(pass, is->out.b);
    sub.activation = is->activation; sub.gate = is->gate;
    sub.attention.heads = is->heads;
    sub.attention.kv_heads = is->kv_heads;
    sub.attention.d_head = is->d_head;
    sub.attention.scale = c->attention_scale > 0 ? c->attention_scale
                                                 : trf__default_scale(trf__d_head(c));
    sub.attention.causal = is->causal;
    if (self) trf__operands_positions(pass, stack, &sub);
    sub.attention.spans = cross ? stack->device.cross : stack->device.self;
    sub.attention.n_spans = cross ? stack->n_cross : stack->n_self;
    sub.attention.max_queries = stack->max_queries;
    sub.attention.max_keys = cross ? stack->max_memory : stack->max_keys;
    sub.drop = layer->hidden_drop;
    sub.hidden_converted = trf__converted_bytes(pass, is->hidden,
                                                is->heads ? is->d_head : is->hidden) > 0;
    sub.projected = layer->projected; sub.hidden = layer->hidden; sub.stats = layer->stats;
    sub.memory = sub.fresh = layer->memory;
    if (cache && cross) {
        sub.memory = trf__act_at(&pass->run, cache->cross, is->layer * cache->cross_layer);
        sub.attention.area = cache->area;
    }
    if (cache && self) {
        sub.memory = trf__act_at(&pass->run, cache->self, is->layer * cache->self_layer);
        /* after the queries */
        sub.fresh = trf__act_at(&pass->run, sub.projected, stack->rows * sub.q_width);
        sub.slots = stack->device.slots;
        sub.attention.key_rows = cache->backpointers;
        sub.attention.key_stride = cache->stride;
        sub.attention.area = cache->self_area;
    }
    return sub;
}

// >>forward-sublayer  one sublayer, the norm behind it, and what looks inside

/* The norm after a sublayer. */
TRF__FN trf__norm trf__norm_of(const trf__pass *pass, const trf__stack *stack,
                               trf__norm_params norm)
{
    TRF__ZEROED(trf__norm, n);
    n.rows = stack->rows;
    n.d = pass->config->d_model;
    n.epsilon = pass->config->norm_epsilon;
    n.rule = (int)pass->config->norm_rule;
    n.at = trf__stack_rows(stack);
    n.gain = trf__plain(pass, norm.gain);
    n.bias = trf__plain(pass, norm.bias);
    return n;
}

TRF__FN void trf__norm_alone(const trf__pass *pass, const trf__stack *stack, trf__act *y,
                             void *converted, trf_real *stats, const trf__act *x,
                             trf__norm_params norm)
{
    trf__norm n = trf__norm_of(pass, stack, norm);
    n.x = x;
    n.y = y;
    n.converted = converted;
    n.stats = stats;
    pass->run.backend->add_norm(&pass->run, &n);
}

/* Copies the attention weights of a sublayer to the host, if a view asks for this layer. */
TRF__FN void trf__view_attention(const trf__pass *pass, const trf__stack *stack,
                                 const trf__sublayer *layer, const trf__operands *sub)
{
    const trf__views *views = pass->views;
    int cross = layer->is.kind == TRF__CROSS;
    int kind = cross ? TRF_DECODER_CROSS : stack->decoder ? TRF_DECODER_SELF : TRF_ENCODER_SELF;
    trf__attention_in in = trf__attention_of(&pass->run, sub);
    if (!views->attention[kind]) return;
    for (int64_t s = 0; s < in.n_spans; s++) {
        const trf__span *span = cross ? &stack->host.cross[s] : &stack->host.self[s];
        int64_t numbers = (int64_t)span->n_query * span->n_key * in.heads;
        if (numbers == 0) continue;
        trf__attention_maps(&pass->run, &in, s, span, views->map);
        pass->run.backend->download(&pass->run,
                                    views->attention[kind][s].data + layer->is.layer * numbers,
                                    views->map, trf__bytes(numbers, sizeof(trf_real)));
    }
}

/* State number i of a stack goes to the host. */
TRF__FN void trf__view_state(const trf__pass *pass, const trf__stack *stack, int i,
                             const trf__act *state)
{
    trf_real *to = pass->views ? pass->views->states[stack->decoder] : NULL;
    int64_t numbers = stack->rows * pass->config->d_model;
    if (!to || numbers == 0) return;
    to += i * pass->views->rows[stack->decoder] * pass->config->d_model;
    pass->run.backend->fetch(&pass->run, to, state, numbers);
}

/* The two streams (>>pass) before sublayer i: its input, and what is added to its result. */
TRF__FN trf__act *trf__stream_in(const trf__stack *stack, int i)
{
    const trf__sublayer *before = &stack->sublayers[i > 0 ? i - 1 : 0];
    if (i == 0) return stack->first_norm.gain >= 0 ? stack->first_y : stack->embedded;
    return before->next_norm.gain >= 0 ? before->y : before->s;
}
TRF__FN trf__act *trf__stream_res(const trf__pass *pass, const trf__stack *stack, int i)
{
    if (pass->config->norm_place != TRF_PRE_NORM) return trf__stream_in(stack, i);
    return i > 0 ? stack->sublayers[i - 1].s : stack->embedded;
}

/* Whether the norm in front of sublayer i has left its result in pass->converted too. */
TRF__FN int trf__stream_converted(const trf__pass *pass, const trf__stack *stack, int i)
{
    return pass->converted && (i > 0 || stack->first_norm.gain >= 0 ||
                               (stack->embeds && stack->embed_norm.gain >= 0));
}

/* Sublayer i: y and s from the streams. */
TRF__FN void trf__sublayer_forward(const trf__pass *pass, const trf__stack *stack, int i)
{
    const trf__sublayer *layer = &stack->sublayers[i];
    const trf__act *in = trf__stream_in(stack, i);
    trf__operands sub = trf__operands_of(pass, stack, layer);
    trf__norm n = trf__norm_of(pass, stack, layer->next_norm);
    sub.converted = trf__stream_converted(pass, stack, i);
    if (sub.converted) in = pass->converted;
    if (layer->is.kind == TRF__FEED_FORWARD) trf__feed_forward(&pass->run, &sub, pass->proj, in);
    else {
        trf__attention_forward(&pass->run, &sub, pass->proj, in,
                               layer->is.kind == TRF__CROSS ? pass->encoder.out : in);
        if (pass->views) trf__view_attention(pass, stack, layer, &sub);
    }
    n.s = layer->s;
    n.y = layer->next_norm.gain >= 0 ? layer->y : NULL;
    n.converted = n.y && i + 1 < stack->n_sublayers ? pass->converted : NULL;
    n.stats = layer->norm_stats;
    n.x = trf__stream_res(pass, stack, i);
    n.sub = pass->proj;
    n.drop = layer->residual_drop;
    pass->run.backend->add_norm(&pass->run, &n);
}

TRF__FN trf_real trf__embedding_scale(const trf_config *c)
{
    return c->scale_embeddings ? (trf_real)sqrt((double)c->d_model) : 1;
}

/* Tokens and positions to the stack's first activations (paper 3.4, 3.5), with a norm of their own
   if the model has one: then dropout follows the norm. */
TRF__FN void trf__stack_embed(const trf__pass *pass, const trf__stack *stack)
{
    int normalises = stack->embed_norm.gain >= 0;
    trf__embed e;
    e.d = pass->config->d_model;
    e.y = normalises ? stack->sum : stack->embedded;
    e.weight = trf__weight(pass, &pass->layout->model.embed[stack->decoder]);
    e.table = trf__is_sinusoidal(pass->config) ? pass->table : NULL;
    if (stack->positions >= 0)
        e.table = pass->weights.plain + stack->positions + pass->config->position_offset * e.d;
    e.segments = trf__plain(pass, stack->segments);
    e.ids = stack->device.ids;
    e.segment = stack->device.segment;
    e.at = trf__stack_rows(stack);
    e.rows = stack->rows;
    e.scale = trf__embedding_scale(pass->config);
    e.drop = normalises ? trf__drop_of(0, 0) : stack->drop;
    pass->run.backend->embed(&pass->run, &e);
    if (!normalises) return;
    trf__norm_alone(pass, stack, stack->embedded,
                    stack->first_norm.gain >= 0 ? NULL : pass->converted, stack->embed_stats,
                    stack->sum, stack->embed_norm);
    if (pass->run.now && stack->drop.threshold) {
        TRF__ZEROED(trf__activate, a);
        a.a = stack->embedded; a.h = stack->embedded; a.rows = stack->rows; a.width = e.d;
        a.kind = TRF__IDENTITY;
        a.at = e.at; a.drop = stack->drop;
        pass->run.backend->activate(&pass->run, &a);
    }
}

/* Embedding and sublayers of one stack: leaves stack->out. */
TRF__FN trf_status trf__stack_forward(trf__pass *pass, trf__stack *stack, trf_error *err)
{
    int i;
    if (stack->embeds) trf__stack_embed(pass, stack);
    if (stack->first_norm.gain >= 0)
        trf__norm_alone(pass, stack, stack->first_y, pass->converted, stack->first_stats,
                        stack->embedded, stack->first_norm);
    trf__view_state(pass, stack, 0, stack->embedded);
    for (i = 0; i < stack->n_sublayers; i++) {
        TRF__TRY(trf__run_cancelled(&pass->run, err));
        trf__sublayer_forward(pass, stack, i);
        if ((i + 1) % stack->per_layer == 0 && i < stack->n_sublayers - 1)
            trf__view_state(pass, stack, (i + 1) / stack->per_layer,
                            trf__stream_res(pass, stack, i + 1));
    }
    trf__act *last = stack->out = trf__stream_in(stack, i);
    if (stack->final_norm.gain >= 0) {
        stack->out = stack->final_y;
        trf__norm_alone(pass, stack, stack->out, NULL, stack->final_stats, last, stack->final_norm);
    }
    trf__view_state(pass, stack, i / stack->per_layer, stack->out);
    return TRF_OK;
}

// >>forward-head   the rows that a head projects

TRF__FN trf__pool trf__pool_of(const trf__pass *pass, trf__act *to, const trf__act *from,
                               int second)
{
    trf__pool p;
    p.to = to; p.from = from;
    p.spans = pass->encoder.device.self; p.n_spans = pass->encoder.n_self;
    p.d = pass->config->d_model;
    p.most = second || pass->config->head == TRF_HEAD_FIRST ? 1 : INT32_MAX;
    return p;
}

/* y (rows, a->out) = x times a matrix of the model, and its bias. */
TRF__FN void trf__project_by(const trf__pass *pass, const trf__affine *a, trf__act *y,
                             const trf__act *x, int64_t rows)
{
    trf__project_rows(&pass->run, y, x, 0, trf__weight(pass, a), trf__plain(pass, a->b), rows,
                      a->out, a->in);
}

/* The layer of a head, from x (rows, d). All of `to` may be one. */
TRF__FN void trf__head_layer(const trf__pass *pass, const trf__head_acts *to, const trf__act *x,
                             int64_t rows)
{
    const trf__affine *layer = to->layer;
    trf__norm n = trf__norm_of(pass, &pass->decoder, to->norm);
    trf__project_by(pass, layer, to->h, x, rows);
    TRF__ZEROED(trf__activate, a);
    a.a = to->a; a.h = to->h; a.rows = rows; a.width = layer->out;
    a.kind = to->activation;
    pass->run.backend->activate(&pass->run, &a);
    if (to->norm.gain < 0) return;
    n.x = to->a; n.y = to->y; n.stats = to->stats; n.rows = rows;
    pass->run.backend->add_norm(&pass->run, &n);
}

/* What the matrix of a head multiplies: the encoder's rows or a pooled row of each sequence, after
   the head's layer if it has one. */
TRF__FN trf__act *trf__head_forward(const trf__pass *pass, int second)
{
    const trf__head_acts *head = second ? &pass->sequence.layer : &pass->head;
    trf__act *pooled = second ? pass->sequence.pooled : pass->decoder.embedded;
    trf__pool p = trf__pool_of(pass, pooled, pass->encoder.out, second);
    int pools = second || trf__pools(pass->config);
    trf__act *x = pools ? pooled : pass->encoder.out;
    if (pools) pass->run.backend->pool(&pass->run, &p);
    if (!pass->config->head_layer) return x;
    trf__head_layer(pass, head, x, second ? p.n_spans : pass->decoder.rows);
    return head->y;
}

/* Runs the stacks of these sides, which trf__pass_sides has prepared. An encoder without sublayers
   has been fed. */
TRF__FN trf_status trf__pass_forward(trf__pass *pass, int sides, trf_error *err)
{
    if (sides & TRF__SOURCE) {
        if (pass->encoder.n_sublayers == 0) pass->encoder.out = pass->encoder.embedded;
        else TRF__TRY(trf__stack_forward(pass, &pass->encoder, err));
    }
    if (sides & TRF__HEAD) pass->decoder.out = trf__head_forward(pass, 0);
    if (sides & TRF__HEAD && pass->config->sequence_labels)
        pass->sequence.x = trf__head_forward(pass, 1);
    return sides & TRF__TARGET ? trf__stack_forward(pass, &pass->decoder, err) : TRF_OK;
}

// >>projection     from states to logits and the loss

/* The target distribution of label smoothing (trf_smoothing), as fields of trf__loss. */
TRF__FN void trf__smooth(trf__loss *l, double e, int rule, int64_t vocab, int64_t pad)
{
    double n = (double)vocab;
    l->vocab = vocab;
    l->zero_column = -1;
    l->entropy = 0;
    if (rule == TRF_SMOOTH_UNIFORM) { l->on = 1 - e + e / n; l->off = e / n; return; }
    l->on = 1 - e;
    if (rule == TRF_SMOOTH_NO_PAD_KL) { l->off = e / (n - 2); l->zero_column = e > 0 ? pad : -1; }
    else l->off = e / (n - 1);
    if (rule == TRF_SMOOTH_OTHERS || l->off <= 0) return;
    l->entropy = -(1 - e) * log(1 - e) - e * log(l->off);
}

/* With scale_logits, divides states, or their gradient, by sqrt(d_model) where they are: nothing
   else reads them after the last norm. */
TRF__FN void trf__scale_states(const trf__pass *pass, trf__act *x, int64_t rows)
{
    trf__scale s;
    if (!pass->config->scale_logits) return;
    s.x = x;
    s.n = rows * pass->config->d_model;
    s.factor = (trf_real)(1 / sqrt((double)pass->config->d_model));
    pass->run.backend->scale(&pass->run, &s);
}

/* y (rows, logits): the projection of the generator or of the head. Scales x. */
TRF__FN void trf__project_states(const trf__pass *pass, trf__act *y, trf__act *x, int64_t rows)
{
    trf__scale_states(pass, x, rows);
    trf__project_by(pass, &pass->layout->model.generator, y, x, rows);
}

/* The op that adds the logits of the decoder's rows to those of other models. Scales the states.
   The caller sets the rows, and how the model counts. */
TRF__FN trf__mix trf__mix_of(const trf__pass *pass, trf_real *logits, int first)
{
    const trf__affine *head = &pass->layout->model.generator;
    TRF__ZEROED(trf__mix, j);
    trf__scale_states(pass, pass->decoder.out, pass->decoder.rows);
    j.logits = logits;
    j.w = trf__weight(pass, head);
    j.bias = trf__plain(pass, head->b);
    j.vocab = head->out; j.d = head->in;
    j.first = first;
    return j;
}

/* The loss of the batch, row by row, without gradients, with the smoothing of these options (NULL:
   none). second: of the labels of sequences; else scales the decoder's states. */
TRF__FN trf__loss trf__pass_loss(const trf__pass *pass, const trf_train_options *o, int second)
{
    const trf_config *c = pass->config;
    const trf__affine *head = second ? &pass->layout->model.sequence_head
                                     : &pass->layout->model.generator;
    TRF__ZEROED(trf__loss, l);
    trf__smooth(&l, o ? o->label_smoothing : 0, o ? (int)o->smoothing_rule : 0, head->out, c->pad);
    l.row_loss = pass->loss.row_loss[second];
    l.row_nll = pass->loss.row_nll[second];
    l.sums = pass->loss.sums + second;
    l.work = pass->loss.scratch;
    l.x = second ? pass->sequence.x : pass->decoder.out;
    l.w = trf__weight(pass, head);
    l.bias = trf__plain(pass, head->b);
    l.targets = second ? pass->sequence.device : pass->decoder.device.targets;
    l.numbers = pass->numbers[1];
    l.labels = (int)c->label_kind;
    l.rows = second ? pass->encoder.n_self : pass->decoder.rows;
    l.d = c->d_model;
    l.of_sequences = second;
    if (!second) trf__scale_states(pass, pass->decoder.out, l.rows);
    return l;
}

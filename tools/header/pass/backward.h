#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/train.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "model/checks.h"
#include "model/params.h"
#include "pass/sublayers.h"
#include "pass/stacks.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/forward.h"

#if !defined(TRF_NO_TRAIN)

// >>backward       the mirror of >>forward
//
// With the two streams of >>pass, for sublayers i from the last to the first:
//
//   post-norm   ds[i] = norm'(din[i+1] + ds[i+1])    dsub = drop(ds[i])    din[i] = sublayer'(dsub)
//   pre-norm    ds[i] = norm'(din[i+1]) + ds[i+1]    dsub = drop(ds[i])    din[i] = sublayer'(dsub)
//
// ds is the gradient of s, so also of the residual `res`, which goes past the sublayer; din is that
// of the sublayer's input. All sublayers share one buffer for each. The decoder comes first: its
// cross-attentions add up dencoded, the gradient of the encoder's output.
//
// If the layers of a stack share memory (>>acts), the forward pass leaves the activations of the
// last layer there. The others are computed again when they are needed, by the same ops with the
// same random numbers, which are counted (>>dropout), so they have the same bits (Chen et al. 2016,
// "Training deep nets with sublinear memory cost").

/* Gradients of one sublayer: into din for its input, into dencoded for the memory, into the arena
   for its parameters. */
TRF__FN void trf__sublayer_backward(const trf__pass *pass, const trf__stack *stack,
                                    const trf__sublayer *layer, const trf__act *in, int add_memory)
{
    trf__operands sub = trf__operands_of(pass, stack, layer);
    trf_real *g = pass->back.gradients;
    sub.d_in_w = g + layer->is.in.w; sub.d_in_b = trf__at(g, layer->is.in.b);
    sub.d_out_w = g + layer->is.out.w; sub.d_out_b = trf__at(g, layer->is.out.b);
    sub.first = pass->back.first;
    if (sub.attention.bias.table) {
        sub.dbias = g + pass->layout->model.distances[stack->decoder];
        sub.partial = pass->back.partial;
        /* all layers share the numbers, and the last layer comes first */
        sub.first_bias = sub.first && layer->is.layer == stack->n_sublayers / stack->per_layer - 1;
    }
    sub.dprojected = pass->back.dprojected;
    sub.dmemory = pass->back.dmemory;
    sub.dhidden = pass->back.dhidden;
    if (layer->is.kind == TRF__FEED_FORWARD)
        trf__feed_forward_backward(&pass->run, &sub, pass->back.din, pass->back.dsub, in);
    else
        trf__attention_backward(&pass->run, &sub, pass->back.din, pass->back.dencoded, add_memory,
                                pass->back.dsub, in, pass->encoder.out);
}

/* The backward pass of a norm with input s, if there is one: sets ds. The caller fills in the
   incoming gradients. */
TRF__FN trf__norm_gradient trf__norm_gradient_of(const trf__pass *pass, const trf__stack *stack,
                                                 trf__norm_params norm,
                                                 const trf__act *s, const trf_real *stats)
{
    TRF__ZEROED(trf__norm_gradient, n);
    n.ds = pass->back.ds;
    n.s = s;
    n.stats = stats;
    n.rows = stack->rows;
    n.d = pass->config->d_model;
    n.epsilon = pass->config->norm_epsilon;
    n.rule = (int)pass->config->norm_rule;
    n.first = pass->back.first;
    n.at = trf__stack_rows(stack);
    if (norm.gain < 0) return n;
    n.gain = pass->weights.plain + norm.gain;
    n.dgain = pass->back.gradients + norm.gain;
    n.dbias = trf__at(pass->back.gradients, norm.bias);
    return n;
}

/* Back through the embedding's norm and the dropout behind it: ds becomes the sum's gradient. */
TRF__FN void trf__embed_norm_backward(const trf__pass *pass, const trf__stack *stack)
{
    trf__norm_gradient n = trf__norm_gradient_of(pass, stack, stack->embed_norm, stack->sum,
                                                 stack->embed_stats);
    TRF__ZEROED(trf__activate_gradient, a);
    a.dh = pass->back.din; a.da = pass->back.ds; a.h = stack->embedded;
    a.rows = stack->rows; a.width = pass->config->d_model;
    a.kind = TRF__IDENTITY;
    a.at = n.at; a.drop = stack->drop;
    pass->run.backend->activate_gradient(&pass->run, &a);
    n.dy = pass->back.din;
    pass->run.backend->norm_gradient(&pass->run, &n);
}

/* From ds, the gradient of the embedding, to the gradients of its weights. If the matrix is tied,
   the projection or the other stack has set its gradient, and this adds to it. */
TRF__FN void trf__stack_embed_backward(const trf__pass *pass, const trf__stack *stack)
{
    const trf_config *c = pass->config;
    const trf__affine *embed = &pass->layout->model.embed[stack->decoder];
    trf__embed_gradient e;
    e.d = c->d_model;
    e.vocab = embed->out;
    e.positions = c->max_length;
    e.dweight = pass->back.gradients + embed->w;
    e.dtable = NULL;
    if (stack->positions >= 0) {
        trf_real *table = pass->back.gradients + stack->positions;
        e.dtable = table + c->position_offset * e.d;
        if (pass->back.first && c->position_offset > 0)      /* rows that no token reads */
            pass->run.backend->zero(&pass->run, table, trf__bytes(c->position_offset * e.d,
                                                                  sizeof(trf_real)));
    }
    e.dsegments = trf__at(pass->back.gradients, stack->segments);
    e.n_segments = c->segments;
    e.segment = stack->device.segment;
    e.dy = pass->back.ds;
    e.ids = stack->device.ids;
    e.groups.rows = stack->device.group_rows;
    e.groups.first = stack->device.group_first;
    e.groups.n = stack->n_groups;
    e.at = trf__stack_rows(stack);
    e.rows = stack->rows;
    e.scale = trf__embedding_scale(c);
    e.drop = stack->embed_norm.gain >= 0 ? trf__drop_of(0, 0) : stack->drop;
    e.first = pass->back.first && !stack->embed_shared;
    e.first_table = pass->back.first;
    pass->run.backend->embed_gradient(&pass->run, &e);
}

// >>backward-stack  a whole stack, and the head

/* Computes again what the layer that ends with sublayer `last` had stored, as the layers above it
   have overwritten it. Its last s and the statistics of the norm after it are still there, so the
   last product is left out. */
TRF__FN void trf__recompute_layer(const trf__pass *pass, const trf__stack *stack, int last)
{
    trf__operands sub = trf__operands_of(pass, stack, &stack->sublayers[last]);
    int i = last + 1 - stack->per_layer;
    const trf__sublayer *below = &stack->sublayers[i > 0 ? i - 1 : 0];
    if (i > 0) trf__norm_alone(pass, stack, below->y, NULL, NULL, below->s, below->next_norm);
    for (; i < last; i++) trf__sublayer_forward(pass, stack, i);
    trf__feed_forward(&pass->run, &sub, NULL, trf__stream_in(stack, last));
}

/* The gradients of the layer that begins with sublayer i will not change any more. */
TRF__FN void trf__layer_finished(const trf__pass *pass, const trf__stack *stack, int i)
{
    if (pass->back.finished && i < stack->n_sublayers && i % stack->per_layer == 0)
        pass->back.finished(pass->back.who, stack->sublayers[i].is.in.w);
}

/* From the gradient of the stack's output, dout + more (NULL: dout), to the gradients of all its
   parameters. `more` may be ds. may_cancel is 0 if the gradients already hold other micro-batches:
   half of this one could not be removed. The norm before a sublayer comes with the one below it,
   so only then is a layer finished. */
TRF__FN trf_status trf__stack_backward(trf__pass *pass, const trf__stack *stack,
                                       const trf__act *dout, const trf__act *more, int may_cancel,
                                       trf_error *err)
{
    const trf__backend *on = pass->run.backend;
    const trf__act *dy = dout, *dy2 = more, *ds_in = NULL;
    trf__norm_gradient n;
    int pre = pass->config->norm_place == TRF_PRE_NORM;
    int memory_seen = !pass->projects;  /* 1: dencoded has the gradients of later stages */
    if (stack->final_norm.gain >= 0) {
        n = trf__norm_gradient_of(pass, stack, stack->final_norm,
                                  stack->sublayers[stack->n_sublayers - 1].y, stack->final_stats);
        n.dy = dy; n.dy2 = dy2;
        on->norm_gradient(&pass->run, &n);
        dy = pass->back.ds;
        dy2 = NULL;
    }
    for (int i = stack->n_sublayers - 1; i >= 0; i--) {
        const trf__sublayer *layer = &stack->sublayers[i];
        if (may_cancel) TRF__TRY(trf__run_cancelled(&pass->run, err));
        if (pass->plan.limits.recompute && (i + 1) % stack->per_layer == 0 &&
            i + 1 < stack->n_sublayers)
            trf__recompute_layer(pass, stack, i);
        n = trf__norm_gradient_of(pass, stack, layer->next_norm, layer->s, layer->norm_stats);
        n.dy = dy; n.dy2 = dy2; n.ds_in = ds_in;
        n.dsub = pass->back.dsub;
        n.drop = layer->residual_drop;
        on->norm_gradient(&pass->run, &n);
        trf__layer_finished(pass, stack, i + 1);
        trf__sublayer_backward(pass, stack, layer, trf__stream_in(stack, i), memory_seen);
        if (layer->is.kind == TRF__CROSS) memory_seen = 1;
        dy = pass->back.din;
        dy2 = pre ? NULL : pass->back.ds;
        ds_in = pre ? pass->back.ds : NULL;
    }
    n = trf__norm_gradient_of(pass, stack, stack->first_norm, stack->embedded, stack->first_stats);
    n.dy = dy; n.dy2 = dy2; n.ds_in = ds_in;
    on->norm_gradient(&pass->run, &n);
    trf__layer_finished(pass, stack, 0);
    if (stack->embed_norm.gain >= 0) trf__embed_norm_backward(pass, stack);
    if (stack->embeds) trf__stack_embed_backward(pass, stack);
    return TRF_OK;
}

/* The backward pass of a head's layer, whose input is x (rows, d): dy becomes the gradient of x. ds
   and dsub are scratch. */
TRF__FN void trf__head_layer_backward(const trf__pass *pass, const trf__head_acts *head,
                                      trf__act *dy, const trf__act *x, int64_t rows)
{
    const trf__affine *layer = head->layer;
    int64_t d = pass->config->d_model;
    trf_real *g = pass->back.gradients;
    trf__norm_gradient n = trf__norm_gradient_of(pass, &pass->decoder, head->norm, head->a,
                                                 head->stats);
    trf__linear_dw dw = trf__dw_of(g + layer->w, g + layer->b, pass->back.dsub, x, rows, d, d,
                                   pass->back.first);
    n.dy = dy;
    if (head->norm.gain >= 0) pass->run.backend->norm_gradient(&pass->run, &n);
    TRF__ZEROED(trf__activate_gradient, a);
    a.dh = pass->back.dsub; a.da = head->norm.gain >= 0 ? pass->back.ds : dy;
    a.h = head->h; a.rows = rows; a.width = d;
    a.kind = head->activation;
    pass->run.backend->activate_gradient(&pass->run, &a);
    pass->run.backend->linear_dw(&pass->run, &dw, 1);
    trf__project_dx(&pass->run, dy, pass->back.dsub, trf__weight(pass, layer), rows, d, d, 0);
}

/* From the gradient of what a head's matrix multiplies, in din or dencoded, to that of the
   encoder's result, wherever that is. */
TRF__FN trf__act *trf__head_backward(const trf__pass *pass, int second)
{
    trf__act *from = second ? pass->back.dencoded : pass->back.din;
    trf__act *to = second ? pass->back.ds : pass->back.dencoded;
    trf__pool p = trf__pool_of(pass, to, from, second);
    const int pools = second || trf__pools(pass->config);
    const trf__act *x = second ? pass->sequence.pooled : pools ? pass->decoder.embedded
                      : pass->encoder.out;
    if (pass->config->head_layer)
        trf__head_layer_backward(pass, second ? &pass->sequence.layer : &pass->head, from, x,
                                 second ? p.n_spans : pass->decoder.rows);
    if (!pools) return from;
    pass->run.backend->pool_gradient(&pass->run, &p);
    return to;
}

/* What teachers have said of the rows: the usual loss shrinks by their share (>>teachers). */
TRF__FN void trf__loss_teachers(const trf__pass *pass, trf__loss *l)
{
    l->teachers = pass->back.teachers;
    if (!l->teachers) return;
    l->share = pass->back.share;
    l->on *= 1 - l->share;
    l->off *= 1 - l->share;
    l->entropy *= 1 - l->share;
}

/* The loss of a head (trf__pass_loss) and its gradients; dx is that of what its matrix multiplies.
   The sums of the loss are stored after the gradients. */
TRF__FN void trf__head_loss(const trf__pass *pass, const trf_train_options *o, int second,
                            trf__act *dx)
{
    const trf__affine *head = second ? &pass->layout->model.sequence_head
                                     : &pass->layout->model.generator;
    trf__loss loss = trf__pass_loss(pass, o, second);
    loss.slots = pass->back.gradients + pass->layout->n_weights;
    loss.dx = dx;
    loss.dw = pass->back.gradients + head->w;
    loss.db = trf__at(pass->back.gradients, head->b);
    loss.first = pass->back.first;
    /* the rows of both copies of a batch are pairs */
    loss.pairs = pass->copies > 1 ? loss.rows / 2 : 0;
    loss.consistency = o->consistency;
    if (!second) trf__loss_teachers(pass, &loss);
    pass->run.backend->cross_entropy(&pass->run, &loss);
}

/* The loss of the batch, and the gradients of projection and head. Without a head, din becomes the
   gradient of the decoder's result, and dencoded is returned, to which the decoder will add. With a
   head, the gradient of the encoder's result is returned, without the part of a second head: *more
   becomes that part. */
TRF__FN const trf__act *trf__loss_backward(const trf__pass *pass, const trf_train_options *o,
                                           const trf__act **more)
{
    trf__head_loss(pass, o, 0, pass->back.din);
    trf__scale_states(pass, pass->back.din, pass->decoder.rows);
    if (!(pass->sides & TRF__HEAD)) return pass->back.dencoded;
    const trf__act *dout = trf__head_backward(pass, 0);
    if (pass->config->sequence_labels) {
        trf__head_loss(pass, o, 1, pass->back.dencoded);
        *more = trf__head_backward(pass, 1);
    }
    return dout;
}

/* All gradients of the batch. A tied matrix gets its gradients from the projection, the target and
   the source, in this order. A stage without the last layer has got two gradients from the next
   one: in din that of the decoder's states, in dencoded that of the encoder's states or output. */
TRF__FN trf_status trf__pass_backward(trf__pass *pass, const trf_train_options *o, int may_cancel,
                                      trf_error *err)
{
    const trf__act *dencoded = pass->back.dencoded, *more = NULL;
    if (pass->projects) dencoded = trf__loss_backward(pass, o, &more);
    if (pass->decoder.n_sublayers > 0)
        TRF__TRY(trf__stack_backward(pass, &pass->decoder, pass->back.din, NULL, may_cancel, err));
    if (pass->encoder.n_sublayers == 0) return TRF_OK;
    return trf__stack_backward(pass, &pass->encoder, dencoded, more, may_cancel, err);
}

/* A batch's forward and backward pass, or one of them, as a list of ops. */
enum { TRF__BOTH_PASSES, TRF__FORWARD_PASS, TRF__BACKWARD_PASS, TRF__PASSES };
typedef struct trf__training {
    trf__pass *pass;
    const trf_train_options *options;
    int which;
} trf__training;

TRF__FN trf_status trf__issue_training(void *job, trf_error *err)
{
    const trf__training *t = (const trf__training *)job;
    int may_cancel = t->which == TRF__BOTH_PASSES && t->pass->back.first && !t->pass->back.finished;
    if (t->which != TRF__BACKWARD_PASS) TRF__TRY(trf__pass_forward(t->pass, t->pass->sides, err));
    if (t->which == TRF__FORWARD_PASS) return TRF_OK;
    return trf__pass_backward(t->pass, t->options, may_cancel, err);
}

/* Both passes of a batch, or one, with the random numbers of its step. The shape names everything
   that decides which ops follow: a device plays its recording again only for the same numbers. */
TRF__FN trf_status trf__pass_train(trf__pass *pass, const trf_train_options *o, int which,
                                   trf_error *err)
{
    const trf__stack *from = &pass->encoder;
    trf__training job = { pass, o, which };
    int64_t variant = pass->back.first + 2 * (int64_t)pass->back.options_set;
    trf__shape shape = trf__shape_of(pass->plan.arena, &pass->plan.limits, pass->block.device,
                                     TRF__PASSES * variant + which);
    shape.gradients = (int64_t)(intptr_t)pass->back.gradients;
    shape.teachers = (int64_t)(intptr_t)pass->back.teachers;
    shape.encoder_rows = from->rows;
    shape.encoder_spans = from->n_self;
    shape.encoder_groups = from->n_groups;
    shape.encoder_longest = from->max_queries;
    shape.decoder_rows = pass->decoder.rows;
    shape.decoder_spans = pass->decoder.n_self;
    shape.decoder_groups = pass->decoder.n_groups;
    shape.decoder_longest = pass->decoder.max_queries;
    pass->run.now = (const trf__now *)(const void *)pass->block.device;
    trf_status status = trf__run_list(&pass->run, &shape, trf__issue_training, &job, err);
    pass->run.now = NULL;
    return status;
}

#endif

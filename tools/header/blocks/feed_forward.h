#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/train.h"
#include "api/blocks.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "device/tensors.h"
#include "pass/sublayers.h"
#include "pass/pass.h"
#include "pass/forward.h"
#include "blocks/blocks.h"
#include "blocks/attention.h"

TRF__FOR_SIZE

// >>blocks-feed-forward
//
// Two linear maps with an activation between: (rows, d) -> (rows, f) -> (rows, d).

/* Size of saved: projected, then hidden, each (rows, f). */
TRF_API int64_t trf_feed_forward_saved(int64_t rows, int64_t d_ff)
{
    return trf__times(trf__times(2, rows), d_ff);
}

/* Checks the arguments of forward and backward; sets f from w1. */
TRF__FN trf_status trf__feed_forward_check(trf_context *context, trf__operands *sub,
                                           const trf_tensor *x, const trf_feed_forward_params *p,
                                           trf_activation activation,
                                           const trf_tensor *saved, int forward, trf_error *err)
{
    TRF__ZERO(*sub);
    TRF__TRY(trf__matrix(x, "x", -1, &sub->d, err));
    sub->rows = x->shape[0];
    sub->activation = (int)activation;
    if (!p) return trf__fail_null(err, "params");
    TRF__TRY(trf__check_range("activation", (double)activation, 0, TRF_ACTIVATION_COUNT - 1, err));
    TRF__TRY(trf__weight_check(&p->w1, "w1", &sub->f, sub->d, err));
    TRF__TRY(trf__shape_check(&p->b1, "b1", sub->f, -1, err));
    TRF__TRY(trf__shape_check(&p->w2, "w2", sub->d, sub->f, err));
    TRF__TRY(trf__shape_check(&p->b2, "b2", sub->d, -1, err));
    return trf__saved_check(context, saved, trf_feed_forward_saved(sub->rows, sub->f), forward,
                            err);
}

TRF__FN void trf__feed_forward_staged(trf_context *context, trf__operands *sub,
                                      const trf_feed_forward_params *p,
                                      const trf_tensor *saved, char use)
{
    sub->projected = (trf__act *)(void *)trf__saved_staged(context, saved, use);
    sub->hidden = trf__act_at(&context->run, sub->projected, sub->rows * sub->f);
    sub->in_w = trf__mat_of(context, &p->w1); sub->in_b = trf__stage(context, &p->b1, 'i');
    sub->out_w = trf__mat_of(context, &p->w2); sub->out_b = trf__stage(context, &p->b2, 'i');
}

TRF_API trf_status trf_feed_forward(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                    const trf_feed_forward_params *params,
                                    trf_activation activation, trf_tensor *saved, trf_error *err)
{
    trf__operands sub;
    trf__act *out;
    const trf__act *in;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__feed_forward_check(context, &sub, x, params, activation, saved, 1, err));
    TRF__TRY(trf__shape_check(y, "y", sub.rows, sub.d, err));
    /* saved is set: the activation's input and output, which backward needs */
    trf__feed_forward_staged(context, &sub, params, saved, 'o');
    out = trf__act_staged(context, y, 'o');
    in = trf__act_staged(context, x, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    trf__feed_forward(&context->run, &sub, out, in);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_feed_forward_backward(trf_context *context, trf_tensor *dx,
                                             trf_feed_forward_params *dparams,
                                             const trf_tensor *dy, const trf_tensor *x,
                                             const trf_feed_forward_params *params,
                                             trf_activation activation,
                                             const trf_tensor *saved, trf_error *err)
{
    trf__operands sub, same;
    trf__act *out;
    const trf__act *in, *dout;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__feed_forward_check(context, &sub, x, params, activation, saved, 0, err));
    TRF__TRY(trf__shape_check(dx, "dx", sub.rows, sub.d, err));
    TRF__TRY(trf__shape_check(dy, "dy", sub.rows, sub.d, err));
    /* gradients have the shapes of their parameters, so the same check serves */
    TRF__TRY(trf__feed_forward_check(context, &same, x, dparams, activation, saved, 0, err));
    TRF__TRY(trf__take_gradients(context, &sub, sub.rows * sub.f, sub.rows * sub.f, 0, err));
    trf__feed_forward_staged(context, &sub, params, saved, 'i');
    sub.d_in_w = trf__stage(context, &dparams->w1, 'a');
    sub.d_in_b = trf__stage(context, &dparams->b1, 'a');
    sub.d_out_w = trf__stage(context, &dparams->w2, 'a');
    sub.d_out_b = trf__stage(context, &dparams->b2, 'a');
    out = trf__act_staged(context, dx, 'o');
    dout = trf__act_staged(context, dy, 'i');
    in = trf__act_staged(context, x, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    trf__feed_forward_backward(&context->run, &sub, out, dout, in);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

// >>blocks-residual
//
// y = x + dropout(sub). Backward needs no saved mask: seed, step and site give the same mask again.

TRF__FN trf_status trf__dropout_check(const trf_dropout *dropout, trf_error *err)
{
    return dropout ? trf__check_range("p", dropout->p, 0, TRF__BELOW_ONE, err) : TRF_OK;
}

/* The dropout of one op. *now is the caller's variable and must live until the op has ended. */
TRF__FN trf__drop trf__dropout_staged(trf_context *c, const trf_dropout *dropout, trf__now *now)
{
    TRF__ZERO(*now);
    if (!dropout) return trf__drop_of(0, 0);
    now->key0 = (uint32_t)dropout->seed;
    now->key1 = (uint32_t)(dropout->seed >> 32);
    now->step = (uint32_t)dropout->step;
    c->run.now = (const trf__now *)trf__bring(c, now, sizeof *now, 'i');
    return trf__drop_of(dropout->p, (uint32_t)dropout->site);
}

TRF_API trf_status trf_residual(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                const trf_tensor *sub, const trf_dropout *dropout, trf_error *err)
{
    trf__norm n;
    trf__now now;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__dropout_check(dropout, err));
    TRF__TRY(trf__matrix(x, "x", -1, &n.d, err));
    n.rows = x->shape[0];
    TRF__TRY(trf__shape_check(sub, "sub", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(y, "y", n.rows, n.d, err));
    /* the op add_norm without n.y: the sum is the result, nothing is normalised */
    n.s = trf__act_staged(context, y, 'o');
    n.x = trf__act_staged(context, x, 'i');
    n.sub = trf__act_staged(context, sub, 'i');
    n.drop = trf__dropout_staged(context, dropout, &now);
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->add_norm(&context->run, &n);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_residual_backward(trf_context *context, trf_tensor *dx, trf_tensor *dsub,
                                         const trf_tensor *dy,
                                         const trf_dropout *dropout, trf_error *err)
{
    trf__norm_gradient n;
    trf__now now;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__dropout_check(dropout, err));
    TRF__TRY(trf__matrix(dy, "dy", -1, &n.d, err));
    n.rows = dy->shape[0];
    TRF__TRY(trf__shape_check(dx, "dx", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(dsub, "dsub", n.rows, n.d, err));
    /* no norm, so dx is dy, and dsub is dy times the mask and its factor */
    n.ds = trf__act_staged(context, dx, 'o');
    n.dsub = trf__act_staged(context, dsub, 'o');
    n.dy = trf__act_staged(context, dy, 'i');
    n.drop = trf__dropout_staged(context, dropout, &now);
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->norm_gradient(&context->run, &n);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

// >>blocks-cross-entropy
//
// Projection to the vocabulary, softmax, smoothed loss and all gradients in one op, so that the
// (rows, vocab) logits never exist as a whole.

/* Checks the targets; -1 marks rows without loss. */
TRF__FN trf_status trf__targets_check(const int32_t *targets, int64_t rows, int64_t vocab,
                                      trf_error *err)
{
    int64_t i;
    if (rows > 0 && !targets) return trf__fail_null(err, "targets");
    for (i = 0; i < rows; i++)
        if (targets[i] < -1 || targets[i] >= vocab)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "targets",
                             "target number %lld must be -1 or 0 to %lld, got %d", (long long)i,
                             (long long)vocab - 1, targets[i]);
    return TRF_OK;
}

/* Lays out what a loss needs besides its tensors: in the context's scratch memory, or with cut = 0
   nowhere. Returns the size. */
TRF__FN size_t trf__loss_layout(const trf_context *c, trf__loss *l, int cut)
{
    trf__cursor cursor = trf__cursor_at(cut ? c->work.memory : NULL);
    l->row_loss = (double *)trf__take(&cursor, l->rows, sizeof(double));
    l->row_nll = (double *)trf__take(&cursor, l->rows, sizeof(double));
    l->sums = (trf__sums *)trf__take(&cursor, 1, sizeof(trf__sums));
    l->work = trf__take(&cursor, 1, c->run.backend->loss_scratch(&c->run.device, l->rows, l->vocab,
                                                                 l->d, 0, 0));
    return cursor.used;
}

TRF_API trf_status trf_cross_entropy(trf_context *context, double *loss, trf_tensor *dx,
                                     trf_tensor *dweight, trf_tensor *dbias, const trf_tensor *x,
                                     const trf_tensor *weight,
                                     const trf_tensor *bias, const int32_t *targets,
                                     const trf_cross_entropy_options *options, trf_error *err)
{
    trf__loss l;
    trf__sums sums;
    int64_t vocab, d, k;
    if (loss) *loss = 0;
    TRF__TRY(trf__begin(context, "context", err));
    if (!loss || !options) return trf__fail_null(err, loss ? "options" : "loss");
    TRF__ZERO(l);
    TRF__TRY(trf__matrix(x, "x", -1, &d, err));
    TRF__TRY(trf__matrix(weight, "weight", -1, &k, err));
    vocab = weight->shape[0];
    l.rows = x->shape[0];
    l.d = d;
    TRF__TRY(trf__shape_check(weight, "weight", vocab, d, err));
    TRF__TRY(trf__check_range("label_smoothing", options->label_smoothing, 0, TRF__BELOW_ONE, err));
    TRF__TRY(trf__check_range("rule", (double)options->rule, 0, TRF_SMOOTHING_COUNT - 1, err));
    TRF__TRY(trf__check_range("vocab", (double)vocab, options->rule == TRF_SMOOTH_NO_PAD_KL ? 3 : 2,
                              1 << 24, err));
    if (options->rule == TRF_SMOOTH_NO_PAD_KL)
        TRF__TRY(trf__check_range("smoothing_pad", options->smoothing_pad, 0, (double)vocab - 1,
                                  err));
    if (bias) TRF__TRY(trf__shape_check(bias, "bias", vocab, -1, err));
    if (dx) TRF__TRY(trf__shape_check(dx, "dx", l.rows, d, err));
    if (dweight) TRF__TRY(trf__shape_check(dweight, "dweight", vocab, d, err));
    if (dbias) TRF__TRY(trf__shape_check(dbias, "dbias", vocab, -1, err));
#if defined(TRF_NO_TRAIN)
    if (dx)
        return trf__fail(err, TRF_E_UNSUPPORTED, -1, "dx",
                         "this build has no gradients (TRF_NO_TRAIN)");
#endif
    if ((dweight || dbias) && !dx)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "dx",
                         "gradients of weight or bias are only computed together with dx");
    TRF__TRY(trf__targets_check(targets, l.rows, vocab, err));
    trf__smooth(&l, options->label_smoothing, (int)options->rule, vocab, options->smoothing_pad);
    TRF__TRY(trf__workspace_reserve(&context->run, &context->work, trf__loss_layout(context, &l, 0),
                                    err));
    trf__loss_layout(context, &l, 1);
    l.targets = trf__list_staged(context, targets, l.rows);
    l.dx = trf__act_staged(context, dx, 'o');
    l.dw = trf__stage(context, dweight, 'a'); l.db = trf__stage(context, dbias, 'a');
    l.x = trf__act_staged(context, x, 'i');
    l.w = trf__mat_of(context, weight); l.bias = trf__stage(context, bias, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->cross_entropy(&context->run, &l);
    /* the sync in trf__staged_back waits for this download too */
    context->run.backend->download(&context->run, &sums, l.sums, sizeof sums);
    TRF__TRY(trf__staged_back(context, TRF_OK, err));
    *loss = sums.loss;
    return TRF_OK;
}

TRF__FOR_SPEED

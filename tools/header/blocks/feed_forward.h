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

// >>blocks-feed-forward
//
// Two linear maps with an activation between: (rows, d) -> (rows, f) -> (rows, d).

/* Size of saved: projected (rows, f or 2f), then hidden (rows, f). */
TRF_API int64_t trf_feed_forward_saved(int64_t rows, const trf_feed_forward_params *params)
{
    if (!params) return 0;
    return trf__add_counts(trf__mul_counts(rows, params->w1.shape[0]),
                           trf__mul_counts(rows, params->w2.shape[1]));
}

/* Begins a call, with everything that forward and backward share. w1 decides f; it has a gate if w2
   has half as many columns. */
TRF__FN trf_status trf__feed_forward_args(trf_context *context, trf__call *call,
                                          const trf_tensor *x,
                                          const trf_feed_forward_params *params,
                                          trf_activation activation, const trf_tensor *saved,
                                          char use, trf_error *err)
{
    static const char *const names[] = {"w1", "b1", "w2", "b2"};
    trf__operands *sub = &call->sub;
    int64_t k;
    TRF__TRY(trf__block_begin(context, call, sizeof *call, err));
    TRF__LEAD('i', x, sub->rows, sub->d, call->x);
    if (!params) return trf__fail_null(err, "params");
    TRF__TRY(trf__check_range("activation", (double)activation, 0, TRF_ACTIVATION_COUNT - 1, err));
    TRF__TRY(trf__matrix(&params->w1, "w1", 1, &call->wide, &k, err));
    sub->gate = call->wide % 2 == 0 && params->w2.rank == 2 &&
        params->w2.shape[1] == call->wide / 2;
    sub->activation = (int)activation;
    call->names = names;
    call->inner = sub->f = call->wide >> sub->gate;
    TRF__TRY(trf__params(context, call, params, 'i', err));
    return trf__saved(context, sub, saved, trf_feed_forward_saved(sub->rows, params), use, err);
}

TRF_API trf_status trf_feed_forward(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                    const trf_feed_forward_params *params,
                                    trf_activation activation, trf_tensor *saved, trf_error *err)
{
    trf__call call;
    TRF__TRY(trf__feed_forward_args(context, &call, x, params, activation, saved, 'O', err));
    TRF__TENSOR('o', y, call.sub.rows, call.sub.d, call.y);
    TRF__TRY(trf__call_stage(context, &call, err));
    trf__feed_forward(&context->run, &call.sub, call.y, call.x);
    return trf__end(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_feed_forward_backward(trf_context *context, trf_tensor *dx,
                                             trf_feed_forward_params *dparams,
                                             const trf_tensor *dy, const trf_tensor *x,
                                             const trf_feed_forward_params *params,
                                             trf_activation activation, const trf_tensor *saved,
                                             trf_error *err)
{
    trf__call call;
    TRF__TRY(trf__feed_forward_args(context, &call, x, params, activation, saved, 'i', err));
    TRF__TRY(trf__call_gradients(context, &call, dparams, dx, dy, err));
    trf__feed_forward_backward(&context->run, &call.sub, call.dx, call.dy, call.x);
    return trf__end(context, TRF_OK, err);
}
#endif

// >>blocks-residual
//
// y = x + dropout(sub). Backward needs no saved mask: seed, step and site give the same mask again.

TRF_API trf_status trf_residual(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                const trf_tensor *sub, const trf_dropout *dropout, trf_error *err)
{
    trf__norm n;
    TRF__TRY(trf__block_begin(context, &n, sizeof n, err));
    /* the op add_norm without n.y: the sum is the result, nothing is normalised */
    TRF__LEAD('i', x, n.rows, n.d, n.x);
    TRF__TENSOR('i', sub, n.rows, n.d, n.sub);
    TRF__TENSOR('o', y, n.rows, n.d, n.s);
    TRF__TRY(trf__dropout_arg(context, dropout, &n.drop, err));
    TRF__ISSUE(add_norm, n);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_residual_backward(trf_context *context, trf_tensor *dx, trf_tensor *dsub,
                                         const trf_tensor *dy, const trf_dropout *dropout,
                                         trf_error *err)
{
    trf__norm_gradient n;
    TRF__TRY(trf__block_begin(context, &n, sizeof n, err));
    /* no norm, so dx is dy, and dsub is dy times the mask and its factor */
    TRF__LEAD('i', dy, n.rows, n.d, n.dy);
    TRF__TENSOR('o', dx, n.rows, n.d, n.ds);
    TRF__TENSOR('o', dsub, n.rows, n.d, n.dsub);
    TRF__TRY(trf__dropout_arg(context, dropout, &n.drop, err));
    TRF__ISSUE(norm_gradient, n);
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
    if (rows > 0 && !targets) return trf__fail_null(err, "targets");
    for (int64_t i = 0; i < rows; i++)
        TRF__FAIL_IF(targets[i] < -1 || targets[i] >= vocab, TRF_E_INVALID_ARG, i, "targets",
                     "target number %lld must be -1 or 0 to %lld, got %d", (long long)i,
                     (long long)vocab - 1, targets[i]);
    return TRF_OK;
}

/* Lays out what a loss needs besides its tensors: in the context's scratch memory, or with cut = 0
   nowhere. Returns the size. */
TRF__FN size_t trf__loss_layout(const trf_context *c, trf__loss *l, int cut)
{
    trf__cursor cursor = trf__cursor_at(cut ? c->work.memory : NULL);
    l->row_loss = TRF__TAKE(double, &cursor, l->rows);
    l->row_nll = TRF__TAKE(double, &cursor, l->rows);
    l->sums = TRF__TAKE(trf__sums, &cursor, 1);
    l->work = trf__take(&cursor, 1, c->run.backend->loss_scratch(&c->run.device, l->rows, l->vocab,
                                                                 l->d, 0, 0));
    return cursor.used;
}

TRF_API trf_status trf_cross_entropy(trf_context *context, double *loss, trf_tensor *dx,
                                     trf_tensor *dweight, trf_tensor *dbias, const trf_tensor *x,
                                     const trf_tensor *weight, const trf_tensor *bias,
                                     const int32_t *targets,
                                     const trf_cross_entropy_options *options, trf_error *err)
{
    trf__loss l;
    trf__sums sums;
    int64_t vocab, k;
    if (loss) *loss = 0;
    TRF__TRY(trf__block_begin(context, &l, sizeof l, err));
    if (!loss || !options) return trf__fail_null(err, loss ? "options" : "loss");
    int no_pad = options->rule == TRF_SMOOTH_NO_PAD_KL;
    TRF__LEAD('i', x, l.rows, l.d, l.x);
    TRF__TRY(trf__matrix(weight, "weight", 0, &vocab, &k, err));
    TRF__TENSOR('i', weight, vocab, l.d, l.w.plain);
    TRF__TRY(trf__check_range("label_smoothing", options->label_smoothing, 0, TRF__BELOW_ONE, err));
    TRF__TRY(trf__check_range("rule", (double)options->rule, 0, TRF_SMOOTHING_COUNT - 1, err));
    TRF__TRY(trf__check_range("vocab", (double)vocab, no_pad ? 3 : 2, 1 << 24, err));
    if (no_pad) TRF__TRY(trf__check_range("smoothing_pad", options->smoothing_pad, 0,
                                          (double)vocab - 1, err));
    TRF__TENSOR('I', bias, vocab, -1, l.bias);
    TRF__TENSOR('O', dx, l.rows, l.d, l.dx);
    TRF__TENSOR('A', dweight, vocab, l.d, l.dw);
    TRF__TENSOR('A', dbias, vocab, -1, l.db);
#if defined(TRF_NO_TRAIN)
    TRF__FAIL_IF(dx, TRF_E_UNSUPPORTED, -1, "dx", "this build has no gradients (TRF_NO_TRAIN)");
#endif
    TRF__FAIL_IF((dweight || dbias) && !dx, TRF_E_INVALID_ARG, -1, "dx",
                 "gradients of weight or bias are only computed together with dx");
    TRF__TRY(trf__targets_check(targets, l.rows, vocab, err));
    trf__list(context, targets, l.rows, &l.targets);
    trf__smooth(&l, options->label_smoothing, (int)options->rule, vocab, options->smoothing_pad);
    TRF__TRY(trf__workspace_reserve(&context->run, &context->work, trf__loss_layout(context, &l, 0),
                                    err));
    trf__loss_layout(context, &l, 1);
    TRF__TRY(trf__upload_args(context, err));
    context->run.backend->cross_entropy(&context->run, &l);
    /* the sync in trf__end waits for this download too */
    context->run.backend->download(&context->run, &sums, l.sums, sizeof sums);
    TRF__TRY(trf__end(context, TRF_OK, err));
    *loss = sums.loss;
    return TRF_OK;
}

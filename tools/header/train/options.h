#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/train.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/vector.h"
#include "cpu/threads.h"
#include "model/checks.h"
#include "model/config.h"

// -----------------------------------------------------------------------------------------------
// >>train          Adam, schedules (paper 5.3, 5.4)
//
// A step is: for every micro-batch forward, loss, backward, which add gradients that are sums over
// tokens; then one optimizer step, which divides by the tokens, clips the global norm and updates.
// The gradient arena ends with a few slots (see >>ops): loss, tokens and hits travel with the
// gradients, so that one all-reduce carries everything and every rank takes the same decision.
// -----------------------------------------------------------------------------------------------

/* A batch of usual size: a checkpoint plans for no more, and validation without limits has it. */
enum { TRF__USUAL_TOKENS = 4096, TRF__USUAL_SEQUENCES = 256, TRF__USUAL_LONGEST = 128 };

/* What small data sets bear: a short warm-up, no dropout, no smoothing. */
TRF_API trf_train_options trf_train_defaults(void)
{
    TRF__ZEROED(trf_train_options, o);
    o.optimizer = TRF_ADAM;
    o.beta1 = 0.9; o.beta2 = 0.98; o.epsilon = 1e-9;
    o.epsilon_rule = TRF_EPSILON_OUTSIDE;
    o.schedule = TRF_INVERSE_SQRT;
    o.learning_rate = 1e-3;
    o.warmup = 100;
    o.smoothing_rule = TRF_SMOOTH_UNIFORM;
    o.clip_norm = 1;
    o.seed = 1;
    o.n_ranks = 1;
    return o;
}

/* Only the fields in which systems differ, as the table at the declaration has them. */
TRF_API void trf_set_conventions(trf_config *config, trf_train_options *training,
                                 trf_conventions conventions)
{
    int paper = conventions == TRF_CONVENTIONS_PAPER;
    if (config) trf__config_conventions(config, paper);
    if (!training) return;
    training->optimizer = TRF_ADAM;
    training->beta1 = 0.9;
    training->beta2 = paper ? 0.98 : 0.999;
    training->epsilon = paper ? 1e-9 : 1e-8;
    training->epsilon_rule = paper ? TRF_EPSILON_FAIRSEQ : TRF_EPSILON_OUTSIDE;
    training->schedule = paper ? TRF_NOAM : TRF_CONSTANT;
    training->learning_rate = paper ? 1 : 1e-3;
    training->warmup = paper ? 4000 : 1;
    training->label_smoothing = paper ? 0.1 : 0;
    training->smoothing_rule = paper ? TRF_SMOOTH_OTHERS_KL : TRF_SMOOTH_UNIFORM;
    trf_train_set_dropout(training, 0.1);
    /* section 5.4 names the other two */
    if (paper) training->attention_dropout = training->activation_dropout = 0;
}

TRF_API void trf_train_set_dropout(trf_train_options *options, double p)
{
    if (!options) return;
    options->dropout = options->attention_dropout = options->activation_dropout =
        options->residual_dropout = p;
}

/* The formulas stand at trf_schedule. Computed from the step alone: resuming needs no state. */
TRF__FN double trf__scheduled_rate(const trf_train_options *options, int32_t d_model, int64_t step)
{
    double s = (double)step, w = (double)options->warmup;
    if (step < 1) return options->schedule == TRF_NOAM ? 0 : options->initial_rate;
    if (options->schedule == TRF_NOAM) {
        double rising = s * pow(w, -1.5), falling = 1 / sqrt(s);
        return options->learning_rate / sqrt((double)d_model) *
            (rising < falling ? rising : falling);
    }
    if (s < w)
        return options->initial_rate + s * (options->learning_rate - options->initial_rate) / w;
    if (options->schedule == TRF_INVERSE_SQRT) return options->learning_rate * sqrt(w / s);
    if (options->schedule == TRF_CONSTANT) return options->learning_rate;
    double progress = (s - w) / ((double)options->total_steps - w);
    if (progress > 1) progress = 1;
    return options->final_rate + (options->learning_rate - options->final_rate) * 0.5 *
        (1 + cos(3.141592653589793 * progress));
}

TRF_API double trf_learning_rate(const trf_train_options *options, int32_t d_model, int64_t step)
{
    if (!options) return 0;
    if (!options->cooldown || step <= options->cooldown || options->schedule == TRF_COSINE)
        return trf__scheduled_rate(options, d_model, step);
    double rate = trf__scheduled_rate(options, d_model, options->cooldown);
    double done = ((double)step - (double)options->cooldown) /
        ((double)options->total_steps - (double)options->cooldown);
    return rate + (options->final_rate - rate) * sqrt(done < 1 ? done : 1);
}

#if !defined(TRF_NO_TRAIN)

/* cosine: see trf_train_check. */
#define TRF__TRAIN_FIELDS(X) \
    X(trf_optimizer,    optimizer,          0, TRF_OPTIMIZER_COUNT - 1, 2) \
    X(double,           beta1,              0, 1 - 1e-12, 2) \
    X(double,           beta2,              0, 1 - 1e-12, 2) \
    X(double,           epsilon,            1e-30, 1, 2) \
    X(trf_adam_epsilon, epsilon_rule,       0, TRF_ADAM_EPSILON_COUNT - 1, 2) \
    X(double,           weight_decay,       0, 1e6, 2) \
    X(int32_t,          decay_all,          0, 1, 2) \
    X(trf_schedule,     schedule,           0, TRF_SCHEDULE_COUNT - 1, 2) \
    X(double,           learning_rate,      1e-30, 1e6, 2) \
    X(double,           initial_rate,       0, 1e6, 2) \
    X(double,           final_rate,         0, 1e6, 2) \
    X(int64_t,          warmup,             1, 1e15, 2) \
    X(int64_t,          total_steps,        cosine ? (double)o->warmup + 1 : o->cooldown \
      ? (double)o->cooldown + 1 : -1e19, cosine || o->cooldown ? 1e15 : 1e19, 2) \
    X(int64_t,          cooldown,           0, 1e15, 12) \
    X(double,           label_smoothing,    0, TRF__BELOW_ONE, 2) \
    X(trf_smoothing,    smoothing_rule,     0, TRF_SMOOTHING_COUNT - 1, 2) \
    X(double,           dropout,            0, TRF__BELOW_ONE, 2) \
    X(double,           attention_dropout,  0, TRF__BELOW_ONE, 2) \
    X(double,           activation_dropout, 0, TRF__BELOW_ONE, 2) \
    X(double,           residual_dropout,   0, TRF__BELOW_ONE, 2) \
    X(double,           consistency,        0, 1e6, 12) \
    X(double,           clip_norm,          1e-12, TRF_NO_CLIPPING, 2) \
    X(uint64_t,         seed,               0, 2e19, 2) \
    X(int32_t,          source_tagged,      0, 1, 8) \
    X(int32_t,          recompute,          0, 1, 3) \
    X(int32_t,          source_tokens,      0, 1 << 24, 2) \
    X(int32_t,          target_tokens,      0, 1 << 24, 2) \
    X(int32_t,          sequences,          0, 1 << 24, 2) \
    X(int32_t,          longest,            0, 1 << 20, 2) \
    X(int32_t,          threads,            0, TRF__MAX_THREADS, 0) \
    X(int32_t,          n_ranks,            1, 1 << 20, 0) \
    X(int32_t,          rank,               0, o->n_ranks - 1, 0) \
    X(int32_t,          parts,              o->parts ? o->n_ranks : 0, 1 << 20, 7)

/* Ranges by the table of fields, then the fields that must agree: ranks need their hook, a loss
   needs a head. */
TRF_API trf_status trf_train_check(const trf_train_options *o, const trf_config *c, trf_error *err)
{
    TRF__TRY(trf__begin(o, "options", err));
    int cosine = o->schedule == TRF_COSINE;
#define TRF__X(type, field, low, high, stored) TRF__RANGE(o, field, low, high);
    TRF__TRAIN_FIELDS(TRF__X)
#undef TRF__X
    TRF__FAIL_IF(o->n_ranks > 1 && !o->all_reduce, TRF_E_INVALID_ARG, -1, "all_reduce",
                 "%d ranks need the all_reduce hook, got NULL", o->n_ranks);
    if (c) TRF__TRY(trf__check_tagged(c, o->source_tagged, err));
    TRF__FAIL_IF(c && c->kind == TRF_ENCODER_ONLY && !c->head, TRF_E_UNSUPPORTED, -1, "kind",
                 "an encoder-only model without a head has no loss: give it a head, or read it "
                 "(trf_reader_read)");
    TRF__FAIL_IF(c && c->pad < 0 && o->smoothing_rule == TRF_SMOOTH_NO_PAD_KL, TRF_E_INVALID_ARG,
                 -1, "smoothing_rule",
                 "smoothing_rule must be 0 to 2 in a model without pad (pad is -1), got %d",
                 (int)o->smoothing_rule);
    TRF__FAIL_IF(c && c->head && o->smoothing_rule == TRF_SMOOTH_NO_PAD_KL, TRF_E_INVALID_ARG, -1,
                 "smoothing_rule",
                 "with a head, whose labels have no padding, smoothing_rule must be 0 to 2, got %d",
                 (int)o->smoothing_rule);
    TRF__FAIL_IF(c && c->label_kind && o->consistency > 0, TRF_E_INVALID_ARG, -1, "consistency",
                 "consistency must be 0 with label_kind %d, whose labels are no distribution, got "
                 "%.9g", (int)c->label_kind, o->consistency);
    TRF__FAIL_IF(c && c->label_kind && o->label_smoothing > 0, TRF_E_INVALID_ARG, -1,
                 "label_smoothing", "label_smoothing must be 0 with label_kind %d, got %.9g",
                 (int)c->label_kind, o->label_smoothing);
    return trf__hooks_check(&o->hooks, err);
}

#endif

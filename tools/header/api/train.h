#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/files.h"

// -----------------------------------------------------------------------------------------------
// >>api-train      gradients, Adam, schedules, checkpoints
//
// trf_trainer_step makes one update. Its two halves are public too: use them to accumulate
// gradients, to look at gradients, or to write your own optimizer. A step with numbers that are not
// finite is skipped. That is not an error; the report says why.
// -----------------------------------------------------------------------------------------------

/* Label smoothing (paper 5.4): how the target distribution over V tokens spreads the smoothing e.
                            target       other tokens   pad       entropy subtracted
       UNIFORM              1-e+e/V      e/V            e/V       no
       OTHERS               1-e          e/(V-1)        e/(V-1)   no
       OTHERS_KL            1-e          e/(V-1)        e/(V-1)   yes
       NO_PAD_KL            1-e          e/(V-2)        0         yes
   yes: the entropy of the target distribution is subtracted from the cross-entropy. The loss is
   then the Kullback-Leibler divergence, which is 0 for a perfect prediction. */
typedef enum trf_smoothing {
    TRF_SMOOTH_UNIFORM   = 0,   /* PyTorch, Marian */
    TRF_SMOOTH_OTHERS    = 1,   /* fairseq */
    TRF_SMOOTH_OTHERS_KL = 2,   /* tensor2tensor */
    TRF_SMOOTH_NO_PAD_KL = 3,   /* The Annotated Transformer, JoeyNMT */
    TRF_SMOOTHING_COUNT
} trf_smoothing;

typedef enum trf_optimizer { TRF_ADAM = 0, TRF_ADAMW = 1, TRF_OPTIMIZER_COUNT } trf_optimizer;

/* Where Adam adds epsilon. m and v are the moments, m' and v' the bias-corrected ones; c1 is
   1-beta1^t and c2 is 1-beta2^t. t counts the updates of the moments. A skipped update advances the
   schedule and the dropout masks, but not t, as in PyTorch. */
typedef enum trf_adam_epsilon {
    TRF_EPSILON_OUTSIDE = 0,    /* m' / (sqrt(v') + epsilon): PyTorch, Marian, Kingma and Ba */
    TRF_EPSILON_FAIRSEQ = 1,    /* sqrt(c2)/c1 * m / (sqrt(v) + epsilon): fairseq, tensor2tensor */
    TRF_EPSILON_INSIDE  = 2,    /* m' / sqrt(v' + epsilon) */
    TRF_ADAM_EPSILON_COUNT
} trf_adam_epsilon;

/* Learning rate of update s = 1, 2, ...; w is warmup. */
typedef enum trf_schedule {
    TRF_NOAM         = 0,   /* learning_rate * d_model^-0.5 * min(s^-0.5, s * w^-1.5): paper 5.3 */
    TRF_INVERSE_SQRT = 1,   /* linear from initial_rate to learning_rate in w updates, then
                               learning_rate * sqrt(w/s): fairseq */
    TRF_COSINE       = 2,   /* the same warm-up, then half a cosine down to final_rate at
                               total_steps */
    TRF_CONSTANT     = 3,   /* the same warm-up, then learning_rate */
    TRF_SCHEDULE_COUNT
} trf_schedule;

#define TRF_NO_CLIPPING 1e300   /* a clip_norm that no gradient reaches */

typedef struct trf_train_options {
    trf_optimizer optimizer;            /* default TRF_ADAM */
    double beta1, beta2, epsilon;       /* betas 0..1 - 1e-12, epsilon 1e-30..1; default 0.9, 0.98,
                                           1e-9, as in paper 5.3 */
    trf_adam_epsilon epsilon_rule;      /* default TRF_EPSILON_OUTSIDE */
    double weight_decay;                /* 0..1e6. ADAMW: decoupled. ADAM: L2, added to the
                                           gradient. default 0 */
    int32_t decay_all;                  /* 1: also decays biases, norms, learned positions, and
                                           embeddings with what is tied to them; default 0 */
    trf_schedule schedule;              /* default TRF_INVERSE_SQRT */
    double learning_rate;               /* 1e-30..1e6; the peak. With TRF_NOAM a factor, about 1.
                                           default 1e-3 */
    double initial_rate, final_rate;    /* 0..1e6; default 0 */
    int64_t warmup;                     /* number of updates, >= 1; default 100 */
    int64_t total_steps;                /* TRF_COSINE: > warmup. default 0 */
    int64_t cooldown;                   /* 0, or an update behind which the rate r of any schedule
                                           but TRF_COSINE falls to final_rate at total_steps, which
                                           must be larger: r + (final_rate - r) * sqrt(the part of
                                           these updates that is done) (Hägele et al. 2024).
                                           0..1e15; default 0 */
    double label_smoothing;             /* 0 <= e < 1; default 0. Paper 5.4: 0.1, for translation.
                                           0 with label_kind ANY and NUMBERS */
    trf_smoothing smoothing_rule;       /* default TRF_SMOOTH_UNIFORM. NO_PAD_KL needs pad,
                                           and does not work with a head: labels have no pad */
    double dropout;                     /* on the sum of embedding and position; default 0 */
    double attention_dropout;           /* on attention weights; default 0 */
    double activation_dropout;          /* on the inner layer of feed-forward; default 0 */
    double residual_dropout;            /* on the output of every sublayer; default 0. All four:
                                           0 <= p < 1, rounded to a multiple of 1/65536, at most
                                           65535/65536 */
    /* R-Drop (Liang et al. 2021): answers that depend less on what dropout drops. 0: off; 0..1e6;
       0 with label_kind ANY and NUMBERS; default 0. With an a above 0 a training batch is computed
       twice in one pass, with two masks: one sequence in two places of a batch twice as large. Of a
       target token, p and q are the two distributions, and what training makes small is

           (loss of p + loss of q) / 2  +  a (KL(p || q) + KL(q || p)) / 2

       That is the formula on the first page of the authors' program. In the paper, and in their
       program for translation, both losses are added up instead: their a of 5 is 2.5 here. Both
       losses are smoothed. With sequence_labels their divergence counts too, averaged as their loss
       is. Masks: the first pass has the usual ones; in the second pass the number of each sequence
       in the step is 2^31 larger. Evaluating computes once. Without any dropout it changes nothing,
       which a warning says. An update takes twice the time and twice the memory for activations */
    double consistency;
    double clip_norm;                   /* gradients are multiplied by min(1, clip_norm / (norm +
                                           1e-6)), as in PyTorch; >= 1e-12; default 1 */
    uint64_t seed;                      /* of dropout; default 1 */
    int32_t source_tagged;              /* 1: the last id of each source is a tag, which belongs
                                           behind EOS if the model has source_eos: where source_last
                                           of a search puts it (mBART-25, older NLLB). No source may
                                           be empty. Only in an encoder-decoder; default 0 */
    int32_t recompute;                  /* 1: only the output of each layer is stored; backward
                                           computes the rest again (Chen et al. 2016). This takes
                                           less memory and more time; results are bit-identical. No
                                           effect on a stack of one layer. default 0 */

    /* Limits of one batch, for which the trainer allocates its memory when it is created. A
       sequence counts its ids and one more (BOS or EOS). 0: what the first batches need. A larger
       batch makes the trainer grow, or fails with TRF_E_NOMEM before anything has changed. If the
       model has a head, target_tokens has no effect: a head computes one row per sequence or per
       source token, and no target rows exist. With `parts` they are the limits of a part. Ranges:
       tokens and sequences 0..2^24, longest 0..2^20. Default 0 */
    int32_t source_tokens, target_tokens, sequences, longest;
    int32_t threads;                    /* 1..4096; 0: config.device.threads; default 0 */
    int32_t rank, n_ranks;              /* number of this trainer, 0..n_ranks - 1, and number of
                                           trainers that train together, 1..2^20; default 0 of 1 */

    /* Who divides a batch among the ranks.
       0: you do. Every batch is this rank's own.
       P: the library does. All ranks pass the same batches. Each batch is cut into P parts
          (trf_batch_part). Rank r computes parts r, r + n_ranks, ..., each into gradients of its
          own, and the sum is taken in the order of the parts. So the weights depend on P and not on
          the number of ranks: a single trainer with `parts` P gets, bit for bit, the weights of P
          ranks whose all_reduce adds in the order of the ranks.
       0, or n_ranks..2^20. A trainer with n parts has n times the memory for gradients.
       default 0 */
    int32_t parts;

    /* Sums `count` values over all ranks, in place, in the memory of the model's device. The calls
       come with slices in a fixed order, last layer first. trf_trainer_step on the CPU calls it
       with a layer's slice as soon as backward has finished it; else trf_trainer_update or
       trf_updater_step calls it. It may return before the sum is done if all_reduce_end waits for
       it. Return non-zero to fail: TRF_E_BACKEND, and the gradients are discarded. stream: on a
       GPU, the cudaStream_t on which to queue the sum; you need not wait until it is done. On the
       CPU it is NULL. If a call fails on one rank, make the others stop: they wait for its sums.
       After the first sum of an update a training call does not ask hooks.cancel any more.
       examples/ranks.c has one for threads, one for NCCL. default NULL, allowed only if n_ranks is
       1 */
    int (*all_reduce)(void *user, trf_real *gradients, size_t count, void *stream);
    int (*all_reduce_end)(void *user);  /* waits until all sums that all_reduce has begun are done.
                                           Called after the slices of each part. Non-zero: failed.
                                           default NULL: all_reduce finishes them itself */
    void *user;                         /* first argument of both (hooks.user is the hooks') */
    trf_hooks hooks;                    /* default none */
} trf_train_options;

/* Defaults for small tasks. Large data sets and large models need more warm-up, dropout and
   smoothing: trf_recipe_find chooses them. */
TRF_API trf_train_options trf_train_defaults(void);
/* Sets the fields in which systems differ, and no others: those of a configuration, as
   trf_conventions has them, and those of training. NULL: none of these.

                           PYTORCH                  PAPER
       optimizer, betas    Adam, 0.9, 0.999         Adam, 0.9, 0.98
       epsilon, its rule   1e-8, OUTSIDE            1e-9, FAIRSEQ
       schedule            TRF_CONSTANT             TRF_NOAM
       learning_rate       1e-3                     1: a factor
       warmup              1                        4000
       label_smoothing     0, UNIFORM               0.1, OTHERS_KL
       dropouts            0.1: all four            0.1: embedding and residual; attention and
                                                    activation 0

   PYTORCH: torch.optim.Adam, nn.CrossEntropyLoss and nn.Transformer. */
TRF_API void trf_set_conventions(trf_config *config, trf_train_options *training,
                                 trf_conventions conventions);
TRF_API void trf_train_set_dropout(trf_train_options *options, double p);   /* sets all four */
/* Learning rate of update `step`, from 1 on. d_model is read with TRF_NOAM alone. */
TRF_API double trf_learning_rate(const trf_train_options *options, int32_t d_model, int64_t step);

/* What a step did. A report pointer may be NULL, except in trf_trainer_report. A trainer's step
   without a report does not wait for the device, unless there is an all_reduce. A call sets the
   fields for which it has no value to 0. With a head, target tokens are its labels without those
   that are -1; with label_kind ANY and NUMBERS its sequences that have labels. */
typedef struct trf_step_report {
    int64_t step;               /* number of the update, 1 for the first. trf_trainer_report and
                                   trf_trainer_evaluate: updates so far, skipped ones included */
    double loss;                /* mean smoothed loss per target token, EOS included, in nats; with
                                   sequence_labels, plus sequence_loss */
    double nll;                 /* mean negative log-likelihood per target token, unsmoothed; with
                                   NUMBERS the loss */
    double accuracy;            /* share of target tokens that the model found most likely,
                                   teacher-forced. ANY: share of sequences of which exactly the
                                   labels that hold have outputs of 1/2 or more. NUMBERS: 0 */
    int64_t source_tokens, target_tokens;       /* ids, and the BOS and EOS that the library adds.
                                   Target tokens are those that are predicted */
    double gradient_norm;       /* global norm for the mean loss, before clipping */
    double learning_rate;
    int32_t skipped;            /* 1: parameters and Adam's moments are unchanged, because the loss
                                   or a gradient was not finite, or because the gradient's norm
                                   after clipping was too large to square (1e18; in double 1e150).
                                   If only the new value of a weight would be infinite, that weight
                                   keeps its old value, and the step is not skipped */
    char tensor[64];            /* if skipped: the first tensor whose gradient was not finite,
                                   "loss" or "gradient_norm" */
    double sequence_loss;       /* with sequence_labels: mean smoothed loss per sequence whose label
                                   is not -1. nll, accuracy, target_tokens are of tokens alone */
    double sequence_accuracy;   /* share of these whose label the model found most likely */
    int64_t sequence_targets;   /* number of these sequences */
    double divergence;          /* in training with consistency: mean of (KL(p || q) + KL(q || p)) /
                                   2 per target token; with sequence_labels, plus that of sequences.
                                   loss, nll and accuracies are means of both passes without it, so
                                   they compare with those of other runs */
} trf_step_report;

#if !defined(TRF_NO_TRAIN)
typedef struct trf_trainer trf_trainer;

/* Makes a trainer: gradients, Adam's moments, activations, random numbers. The model must outlive
   it. NULL options: the defaults. TRF_E_UNSUPPORTED: an encoder-only model without a head. */
TRF_API trf_status trf_trainer_create(trf_trainer **trainer, trf_model *model,
                                      const trf_train_options *options, trf_error *err);
TRF_API void trf_trainer_destroy(trf_trainer *trainer);
/* Checks options and makes nothing: fails if and as trf_trainer_create would, except for lack of
   memory. A NULL config leaves out the checks that depend on the model's kind and head. */
TRF_API trf_status trf_train_check(const trf_train_options *options, const trf_config *config,
                                   trf_error *err);
/* Bytes that trf_trainer_create takes, exactly, host and device together. Steps within the limits
   take no more; options without limits tell what it takes before the first batch. 0: the
   configuration or an option is not valid. */
TRF_API size_t trf_trainer_memory(const trf_config *config, const trf_train_options *options,
                                  trf_error *err);

/* Makes one update: trf_trainer_forward_backward, then trf_trainer_update. */
TRF_API trf_status trf_trainer_step(trf_trainer *trainer, const trf_batch *batch,
                                    trf_step_report *report, trf_error *err);
/* Adds the gradients of one micro-batch. They are sums over tokens; trf_trainer_update takes the
   mean. So a batch that is divided into micro-batches gives the same update as the whole, except
   for rounding (but see trf_batch on trf_config.sequence_labels). The report is about this
   micro-batch alone; if the options have `parts`, about the parts of it that this rank computes. */
TRF_API trf_status trf_trainer_forward_backward(trf_trainer *trainer, const trf_batch *batch,
                                                trf_step_report *report, trf_error *err);
/* Fills the report of the last update, as trf_trainer_update does. `step` is the number of updates
   so far, those of trf_trainer_end_step included. Before the first update, also after a checkpoint
   was loaded, everything else is 0. */
TRF_API trf_status trf_trainer_report(const trf_trainer *trainer, trf_step_report *report,
                                      trf_error *err);
/* Divides the gradients by the number of tokens, clips them, and updates the weights. The report is
   about the whole update. TRF_E_STATE: there are no gradients, or no rank has a target token. In
   the second case, and if all_reduce fails, the gradients are discarded; batches without a target
   token then count as used (trf_place). */
TRF_API trf_status trf_trainer_update(trf_trainer *trainer, trf_step_report *report,
                                      trf_error *err);
/* Forgets what has been accumulated since the last update: the next trf_trainer_forward_backward
   starts from zero. A checkpoint that is saved afterwards counts the discarded batches as unused:
   the corpus delivers them again after loading. */
TRF_API void trf_trainer_discard_gradients(trf_trainer *trainer);
/* Ends an update that you have made yourself, instead of trf_trainer_update. Discards the gradients
   and increases the step number, which schedule and dropout masks follow. Adam's moments stay. */
TRF_API void trf_trainer_end_step(trf_trainer *trainer);
/* Computes the loss of any number of pairs, cut into batches within the trainer's limits, without
   dropout and without gradients. `noise` is applied to each batch; NULL: none. Changes neither
   parameters nor moments nor the step number. TRF_E_INVALID_ARG: there are no pairs. */
TRF_API trf_status trf_trainer_evaluate(trf_trainer *trainer, const trf_batch *pairs,
                                        trf_noise *noise, trf_step_report *report, trf_error *err);

/* The options in use. NULL: trainer is NULL. */
TRF_API const trf_train_options *trf_trainer_options(const trf_trainer *trainer);
/* Changes options from the next step on. The effect is bit-identical to saving a checkpoint and
   loading it with the new options. Larger limits take more memory, smaller ones give none back.
   TRF_E_INVALID_ARG: the number of threads would change, or the number of parts that this rank
   computes, or hooks.alloc or free, or hooks.user if alloc is set. TRF_E_NOMEM: no memory for the
   new limits. TRF_E_STATE: gradients have been accumulated. */
TRF_API trf_status trf_trainer_set_options(trf_trainer *trainer, const trf_train_options *options,
                                           trf_error *err);
/* Freezes parameters (frozen 1), lets them learn again (0), or counts the frozen ones (-1). The
   pattern must match a parameter's whole name (trf_model_parameter); '*' matches any characters:
   "encoder.*", "*.bias", "tgt_embed.weight".
     - A frozen parameter and its moments do not change, not even by weight decay. Updates that it
       misses do not count for its moments (t in trf_adam_epsilon).
     - Its gradient is computed, but ignored by the norm, by clipping and by the test for skipping.
     - Checkpoints store what is frozen. All ranks must freeze the same.
   *matched (may be NULL) is the number of parameters that match, with -1 of those that are frozen.
   TRF_E_INVALID_ARG: none matches. TRF_E_STATE: gradients have been accumulated (not with -1). */
TRF_API trf_status trf_trainer_freeze(trf_trainer *trainer, const char *pattern, int32_t frozen,
                                      int32_t *matched, trf_error *err);
/* Gives a trainer teachers (Hinton et al. 2015; token by token: Kim and Rush 2016): n trained
   models, 0..TRF_MAX_MODELS, whose answers its model learns beside the targets. Of a target token,
   p is the model's distribution and q the mean of the teachers', and the loss becomes

       (1 - share) (loss of p)  +  share (- sum over all tokens v of q(v) log p(v))

   The first half is the usual loss, smoothed; share is in 0..1. Teachers read the ids of the same
   batch, without dropout. Sources without targets teach too, if the targets are answers of the
   teachers. They must have what the models of an ensemble have alike (>>api-read), the trained
   model's source vocabulary, and max_length at least as large. They may be packed (trf_model_pack).
   They must outlive the trainer, or the next call of this function, and their weights must not
   change.
     - n 0 takes the teachers away.
     - An update also takes the time of their forward passes, and memory for (target rows,
       target_vocab) numbers and for the teachers' activations. trf_trainer_memory leaves it out.
     - report.loss is this loss, and nll is as always. trf_trainer_evaluate and validation have no
       teachers. Labels of sequences (sequence_labels) keep their loss.
     - Checkpoints store no teachers: set them again after loading. All ranks must set the same.
   TRF_E_INVALID_ARG, `what` teachers: teacher number `where` does not fit, as the message says.
   TRF_E_UNSUPPORTED: label_kind ANY or NUMBERS. TRF_E_STATE: gradients have been accumulated, or
   the model is divided into stages. Whatever fails leaves the teachers as they were. */
TRF_API trf_status trf_trainer_set_teachers(trf_trainer *trainer, const trf_model *const *teachers,
                                            int32_t n, double share, trf_error *err);
/* What a trainer has for each parameter. */
typedef enum trf_trained {
    TRF_PARAMETER = 0,          /* the weights. You may write them between updates */
    TRF_GRADIENT = 1,           /* sums over the tokens of the micro-batches so far, valid from
                                   trf_trainer_forward_backward until trf_trainer_update; you may
                                   change them before it. With `parts` of the options: those of this
                                   rank's first part */
    TRF_AVERAGE = 2,            /* the moving average (trf_trainer_average). You may write it */
    TRF_TRAINED_COUNT
} trf_trained;
/* A view of what the trainer has for parameter `index` of trf_model_parameter: trf_tensor_read
   reads it. It has neither data nor elements if there is no such thing. */
TRF_API trf_tensor trf_trainer_tensor(trf_trainer *trainer, trf_trained which, int32_t index);

/* Saves the model with its vocabularies, Adam's moments, schedule, random numbers, what is frozen,
   the moving average, the state and best weights of trf_trainer_learn, and the position in the
   corpus: that of the first batch after the last complete update. NULL corpus: no position.
   TRF_E_STATE: gradients have been accumulated. */
TRF_API trf_status trf_checkpoint_save(const trf_trainer *trainer, const trf_corpus *corpus,
                                       const char *path, const trf_save_options *options,
                                       trf_error *err);
/* Makes a model and a trainer that continue, bit for bit as if training had not stopped. A corpus
   (may be NULL) is moved by trf_corpus_resume, with the same errors. TRF_E_STATE: the file is not a
   checkpoint. NULL training: the stored options, except that
     - limits are at most 4,096 tokens a side, 256 sequences and longest 128 (0 stays 0),
     - hooks and device are those of the load options, and threads is 0,
     - there are no ranks and no all_reduce. */
TRF_API trf_status trf_checkpoint_load(trf_model **model, trf_trainer **trainer, trf_corpus *corpus,
                                       const char *path, const trf_train_options *training,
                                       const trf_load_options *options, trf_error *err);
/* Reads the options that an open checkpoint stores. threads, ranks, all_reduce and hooks are those
   of trf_train_defaults. TRF_E_FORMAT: the file has no training options. */
TRF_API trf_status trf_file_training(const trf_file *file, trf_train_options *options,
                                     trf_error *err);
/* Moves a corpus to the batch that the trainer's next update begins with. Use it for a corpus that
   you create after loading the checkpoint, or for one that has delivered batches which the trainer
   has not used (discard the gradients first). NULL trainer: to the first batch of the first epoch;
   the same batches follow again, in the same order. TRF_E_STATE: the pairs or the options differ
   from those of the stored position (epochs and max_length are allowed to differ), or the trainer
   has no position. */
TRF_API trf_status trf_corpus_resume(trf_corpus *corpus, const trf_trainer *trainer,
                                     trf_error *err);

/* The optimizer alone, for architectures of your own (>>api-blocks). It updates `n` tensors by the
   code that updates a model's weights. The tensors are in the host's memory; each step copies
   weights and gradients to the device, and the weights back. Every call must bring tensors of the
   same sizes, otherwise TRF_E_SHAPE.
   n is 1..2^20. d_model (1..65536) is for TRF_NOAM alone. Only the options of these parts are used:
   the optimizer, weight_decay (for tensors with two or more dimensions; with decay_all for all),
   the schedule, clipping, threads, ranks and hooks. NULL device: trf_device_default(). */
typedef struct trf_updater trf_updater;
TRF_API trf_status trf_updater_create(trf_updater **updater, const trf_tensor *weights, int32_t n,
                                      int32_t d_model, const trf_train_options *options,
                                      const trf_device *device, trf_error *err);
TRF_API void trf_updater_destroy(trf_updater *updater);
/* Makes one update: divides the gradients by `divisor` (their number of tokens, for example), clips
   them and updates the weights. divisor is 1e-30..1e12, or 0 on a rank without tokens if another
   rank's is not 0. Ranks sum their gradients and divisors before the division. The report has no
   losses. TRF_E_STATE: the sum of the divisors is not above 0. */
TRF_API trf_status trf_updater_step(trf_updater *updater, const trf_tensor *weights,
                                    const trf_tensor *gradients, double divisor,
                                    trf_step_report *report, trf_error *err);
/* State for checkpoints of your own, which you may read and write: Adam's first (second 0) or
   second (second 1) moments of tensor `index`, as a vector; and the steps so far. The next step
   refuses numbers that do not fit (TRF_E_STATE). NULL: updater is NULL. */
typedef struct trf_update_state {
    int64_t step;               /* number of steps, which the schedule follows */
    int64_t updates;            /* steps that were not skipped: updates of the moments; 0..step */
} trf_update_state;
TRF_API trf_tensor trf_updater_moment(trf_updater *updater, int32_t index, int32_t second);
TRF_API trf_update_state *trf_updater_state(trf_updater *updater);
#endif

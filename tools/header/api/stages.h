#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/train.h"

// -----------------------------------------------------------------------------------------------
// >>api-stages     a model split by layers over several processes or devices
//
// A stage has some layers of a model. It stores the weights, gradients, moments and activations of
// these layers alone. Stages form a chain: each computes its layers for a batch and passes the
// result on.
// Tutorials call this model parallelism, and with several micro-batches in flight pipeline
// parallelism. The library computes; your program carries numbers from stage to stage.
// examples/pipeline.c does so between threads and, with MPI, between processes.
//
// The layers are numbered along the chain: first those of the encoder, then those of the decoder.
// What is not in a layer goes with one:
//
//   embedding, learned positions, segments     with the first layer of their side
//   final norm of the encoder                  with the encoder's last layer
//   final norm of the decoder, generator or head, loss      with the last layer of all
//   a tied matrix                              with each stage that uses it
//   numbers for relative distances             with each stage that has a layer of their side
//
// An update of S stages and M micro-batches, on each stage:
//
//   for each micro-batch     receive its rows, trf_stage_forward, send the rows that it gives
//   for each micro-batch     receive their gradient, trf_stage_backward, send the gradient of what
//                            came in
//   trf_trainer_update       on all stages
//
// Between its passes a micro-batch waits in a slot: the order of calls is yours. Two are common:
//
//   GPipe    each stage has M slots and makes all forward passes first (Huang et al. 2019)
//   1F1B     stage s = 0..S-1 has S - s slots. It makes S - s forward passes, then one backward and
//            one forward pass in turn. This needs less memory (Narayanan et al. 2019)
//
// In both, each stage waits for the others during (S - 1) / (M + S - 1) of an update, if all stages
// take the same time.
//
// Bits. On the CPU the weights are bit-identical to those of one process that calls
// trf_trainer_forward_backward for the same micro-batches, if two conditions hold: every stage
// makes its forward passes in the order of the micro-batches, and its backward passes too; and no
// parameter is in several stages. The gradients of a parameter in several stages are added up in
// the order of the stages. Then the weights equal those of one process up to rounding, and are
// bit-identical for all orders of the calls.
//
// trf_model_options.first_layer and end_layer make a model of some layers. Its weights have the
// names and initial values of the whole model's. trf_model_parameter numbers those of the stage
// alone.
//   - trf_trainer_create, trf_model_copy and trf_trainer_average accept a stage.
//     trf_checkpoint_save writes a file with its layers alone, from which trf_checkpoint_load makes
//     its model and its trainer again; then call trf_stage_create.
//   - trf_model_copy_weights copies between stages and whole models, in both directions. So it
//     gives a stage the weights of a loaded model, and makes one model of all stages.
//   - Everything else needs a whole model (TRF_E_STATE): readers, translators, samplers,
//     trf_model_save, trf_model_average, trf_model_pack, and of the calls with a trainer
//     trf_trainer_step, trf_trainer_forward_backward and trf_trainer_evaluate.
// -----------------------------------------------------------------------------------------------

#if !defined(TRF_NO_TRAIN)
/* Forward and backward passes of the layers of a trainer's model. */
typedef struct trf_stage trf_stage;

/* Makes a stage with `in_flight` slots, 1..65536. A slot has the activations of one micro-batch;
   memory that is needed only during a call exists once. Limits, dropout, recompute and hooks are
   those of the trainer's options. parts must be 0. If n_ranks is not 1, the ranks are copies of
   this stage, which compute other pairs. A trainer has at most one stage, which must be destroyed
   before it. TRF_E_STATE: it has one already, or teachers, or gradients. A whole model may have one
   too: then its two passes are separate calls.

   sum adds up `count` numbers over all stages, in place, in the memory of the model's device; it is
   a function like trf_train_options.all_reduce, and may be the same one. trf_trainer_update calls
   it, on all stages equally often and with equal counts. With it, all stages
     - clip by the norm of all gradients, skip the same updates and give the same report,
     - sum the gradients of parameters that several stages have, in the order of the stages if it
       keeps one. So all stages must freeze the same: call trf_trainer_freeze on each. It returns
       TRF_E_INVALID_ARG on a stage without a matching parameter, and changes nothing there.
   It returns non-zero to fail: then trf_trainer_update returns TRF_E_BACKEND, and the gradients are
   discarded. stream is NULL on the CPU. sum may be NULL only for a whole model, which does not call
   it. */
TRF_API trf_status trf_stage_create(trf_stage **stage, trf_trainer *trainer, int32_t in_flight,
                                    int (*sum)(void *user, trf_real *numbers, size_t count,
                                               void *stream),
                                    void *user, trf_error *err);
/* Discards gradients and micro-batches that still wait for an update. */
TRF_API void trf_stage_destroy(trf_stage *stage);
/* Bytes of the model, the trainer and the stage for layers first_layer..end_layer-1, exactly, host
   and device together. 0: the configuration, an option, a layer or in_flight is not valid. */
TRF_API size_t trf_stage_memory(const trf_config *config, const trf_train_options *options,
                                int32_t first_layer, int32_t end_layer, int32_t in_flight,
                                trf_error *err);
/* Rows that come in from the stage before, and rows that go out to the next one, for this batch.
   Each row has d_model numbers. 0: there is no stage on that side, or the batch has no rows. The
   rows of a pair of stages are the same both ways; with consistency there are twice as many. */
TRF_API trf_status trf_stage_rows(const trf_stage *stage, const trf_batch *batch, int64_t *in,
                                  int64_t *out, trf_error *err);
/* Computes the layers of the stage for a micro-batch, which then waits in `slot`, 0..in_flight-1.
   All stages get the same batch, with source and target, and check it alike.
     in     what the stage before has put out. The first stage ignores it (NULL)
     out    set to what the next stage reads. The last stage ignores it (NULL)
   Both have the shape (rows, d_model) (trf_stage_rows) and are in the host's memory. They contain
   the rows of the encoder, then those of the decoder. With consistency both have the rows of the
   first pass, then those of the second. TRF_E_STATE: the slot waits for trf_stage_backward. */
TRF_API trf_status trf_stage_forward(trf_stage *stage, int32_t slot, const trf_batch *batch,
                                     const trf_tensor *in, trf_tensor *out, trf_error *err);
/* Adds the gradients of the micro-batch in a slot, which is then empty.
     dout    the gradient of `out`. The last stage ignores it (NULL)
     din     set to the gradient of `in`. The first stage ignores it (NULL)
   The report of the last stage is that of trf_trainer_forward_backward; in other stages all but
   step is 0. hooks.cancel is not called. TRF_E_STATE: the slot is empty. If the device fails, the
   gradients are discarded. */
TRF_API trf_status trf_stage_backward(trf_stage *stage, int32_t slot, const trf_tensor *dout,
                                      trf_tensor *din, trf_step_report *report, trf_error *err);
#endif

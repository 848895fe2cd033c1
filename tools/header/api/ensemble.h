#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/translate.h"
#include "api/sampling.h"

// -----------------------------------------------------------------------------------------------
// >>api-ensemble   several models that answer as one
//
// An ensemble is a translator or a sampler of several models. In every step each model computes its
// probabilities of the next token, and the search sees one number for each token, which is made of
// all (trf_ensemble_rule in >>api-translate). Two or more models of different seeds usually
// translate better than each of them, for as many times the work and memory.
//
// All options act on these numbers. Where a comment speaks of logits (repetition_penalty with beam
// 1, temperature), an ensemble has these numbers instead. trf_hypothesis contains them.
//
// The models may differ in width, depth, positions, tying, max_length (the smallest counts) and in
// the tokens of their sources. Alike must be their kind, and
//   - what their decoders write: target_vocab, pad, bos, eos, unk, decoder_start, target_eos,
//     bare_prompts, and the tokens of target vocabularies;
//   - what their heads tell: head, label_kind, n_labels, sequence_labels, and the labels' texts;
//   - the device (its kind and index) and the format of packed weights (trf_model_pack).
// The first model decides the rest: texts, metadata, threads, precision, trained_source and
// trained_target.
// -----------------------------------------------------------------------------------------------

/* Make a translator or a sampler of models[0..n-1], n: 1..TRF_MAX_MODELS. One model gives what
   trf_translator_create gives. The same model may be there several times.
   weights: n numbers in 1e-6..1e6, or NULL: 1 for each. With TRF_ENSEMBLE_ARITHMETIC they are
   divided by their sum.
   TRF_E_INVALID_ARG, `what` weights: a weight is out of range; `where` is its index. `what` models:
   model number `where` does not go with the first one; the message says in what. */
TRF_API trf_status trf_translator_create_ensemble(trf_translator **translator,
                                                  const trf_model *const *models,
                                                  const double *weights, int32_t n,
                                                  const trf_search *search, trf_error *err);
/* The encoders of a sampler's models must also have the same source_bos and source_eos, and their
   sources one vocabulary. */
TRF_API trf_status trf_sampler_create_ensemble(trf_sampler **sampler,
                                               const trf_model *const *models,
                                               const double *weights, int32_t n,
                                               const trf_sampling *sampling, trf_error *err);
/* With an ensemble
     - trf_translate_text gives each model the text in its own tokens;
     - trf_translate, trf_score and trf_classify give the same ids to all. TRF_E_STATE: the
       vocabularies of the sources differ;
     - with trf_translate_options.each, and in trf_score_each, sources are in the tokens of each
       model: sources[k] are those of model k. All have the same count. The length limit of an
       answer follows from sources[0]. source_first and source_last are the same ids for all.
       TRF_E_STATE: the models are not encoder-decoders;
     - trf_classify gives probabilities: those of TRF_ENSEMBLE_GEOMETRIC are divided by their sum,
       and so are those that a sampler draws from. Of labels that are numbers it gives the weighted
       mean; with label_kind ANY that of probabilities, or of logits (GEOMETRIC);
     - trf_encode, trf_embed, trf_logits, trf_decode, trf_project and trf_look_inside, and a
       sampler's sessions, fail with TRF_E_STATE: they show one model. */
TRF_API trf_status trf_score_each(trf_translator *translator, const trf_sequences *sources,
                                  const trf_sequences *targets, double *log_probabilities,
                                  trf_error *err);
/* An upper bound of what trf_translator_memory tells of one model, for models of these n
   configurations. For n = 1 it is the same number. */
TRF_API size_t trf_ensemble_memory(const trf_config *const *configs, int32_t n,
                                   const trf_search *search, int32_t sentences,
                                   int32_t source_tokens, trf_error *err);

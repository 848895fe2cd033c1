#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/batch.h"

// -----------------------------------------------------------------------------------------------
// >>api-read       what a model computes: labels, vectors, scores, logits, states, attention
//
// A reader makes forward passes, teacher-forced, with one model or with several. What writes text
// is a translator (>>api-translate) or a sampler (>>api-sampling).
//
// Several models that answer as one are an ensemble. In every step each of them computes its
// probabilities of the next token. A search or a sampler then sees one number for each token, which
// is made of all (trf_ensemble_rule). Two or more models of different seeds usually answer better
// than each of them, for as many times the work and memory. All options act on these numbers. Where
// a comment speaks of logits (repetition_penalty with beam 1, temperature), an ensemble has these
// numbers instead. trf_hypothesis contains them.
//
// The models may differ in width, depth, positions, tying, max_length (the smallest counts) and in
// the tokens of their sources. Alike must be their kind, and
//   - what their decoders write: target_vocab, pad, bos, eos, unk, decoder_start, target_eos,
//     bare_prompts, and the tokens of target vocabularies;
//   - what their heads tell: head, label_kind, n_labels, sequence_labels, and the labels' texts;
//   - the device (its kind and index) and the format of packed weights (trf_model_pack);
//   - in a sampler also source_bos, source_eos and the source vocabularies.
// The first decides the rest: texts, metadata, threads, precision, trained_source, trained_target.
// -----------------------------------------------------------------------------------------------

/* What an ensemble says of a token, of which model k says the probability p_k. */
typedef enum trf_ensemble_rule {
    TRF_ENSEMBLE_ARITHMETIC = 0,        /* the logarithm of the sum of w_k p_k, where the weights
                                           sum to 1: fairseq, Sockeye, OpenNMT */
    TRF_ENSEMBLE_GEOMETRIC  = 1,        /* the sum of w_k log p_k, as it is: Marian. It is no
                                           log-probability unless the weights sum to 1 and all
                                           models agree */
    TRF_ENSEMBLE_RULE_COUNT
} trf_ensemble_rule;

/* The models of a reader, translator or sampler, instead of one. Zeros: no ensemble. They must
   outlive it; the arrays are read while it is created. The same model may be there several times.
   One model gives what it gives alone. TRF_E_INVALID_ARG, `what` models: model number `where` does
   not go with the first one; the message says in what. */
enum { TRF_MAX_MODELS = 16 };
typedef struct trf_ensemble {
    const trf_model *const *models;     /* (n) */
    const double *weights;              /* (n) each in 1e-6..1e6, or NULL: 1 for each. With
                                           ARITHMETIC they are divided by their sum */
    int32_t n;                          /* 0..TRF_MAX_MODELS; default 0: no ensemble */
    trf_ensemble_rule rule;             /* default TRF_ENSEMBLE_ARITHMETIC */
} trf_ensemble;

/* Zeros are the defaults. */
typedef struct trf_reader_options {
    trf_weights weights;        /* how weights of products are kept (trf_weights): FULL, BF16 or
                                   INT8; default TRF_WEIGHTS_FULL: as the model has them */
    int32_t source_tagged;      /* 1: the last id of each source is a tag, which belongs behind EOS
                                   (trf_search.source_tagged); default 0 */
    int32_t threads;            /* 1..4096; 0: config.device.threads of the model; default 0 */
    trf_ensemble ensemble;      /* several models that answer as one; default: none */
    trf_hooks hooks;            /* default none */
} trf_reader_options;

/* Weights and scratch memory for forward passes; memory grows as calls need it. One thread at a
   time may use it. The model must outlive it. It takes a snapshot of the weights: create a new one
   after more training. */
typedef struct trf_reader trf_reader;

/* NULL options: the defaults. With an ensemble, model is NULL or its first one. */
TRF_API trf_status trf_reader_create(trf_reader **reader, const trf_model *model,
                                     const trf_reader_options *options, trf_error *err);
/* The reader of a translator ends with that alone (trf_translator_reader). */
TRF_API void trf_reader_destroy(trf_reader *reader);

/* The probabilities of labels: softmax of a head's logits, in the caller's tensor. With
   config.label_kind ANY each is that of its own label, the sigmoid of its logit; with NUMBERS they
   are the numbers, which are the logits. TRF_E_STATE: the model has another head. TRF_E_SHAPE: the
   tensor has another shape.

       heads MEAN and FIRST            (sequences, n_labels)
       head TOKENS                     (ids, n_labels); there is no row for EOS
       MASKED with sequence_labels     (sequences, sequence_labels)

   Of an ensemble these are its probabilities; those of GEOMETRIC are divided by their sum. Of
   labels that are numbers it gives the weighted mean; with label_kind ANY that of probabilities, or
   of logits (GEOMETRIC). All models read the same ids. TRF_E_STATE: the vocabularies of their
   sources differ.
   Unless CBLAS multiplies, the CPU computes some hundred rows at a time. After TRF_E_CANCELLED or
   TRF_E_NOMEM the result may have its first rows. The same holds for trf_reader_score and
   trf_reader_embed. */
TRF_API trf_status trf_reader_classify(trf_reader *reader, const trf_sequences *sources,
                                       trf_tensor *probabilities, trf_error *err);
/* How trf_reader_embed makes one vector of a text's rows: sentence-transformers' Pooling. */
typedef enum trf_pooling {
    TRF_POOL_MEAN  = 0,         /* the mean of each column */
    TRF_POOL_FIRST = 1,         /* the first row: of [CLS], if the model has source_bos */
    TRF_POOL_MAX   = 2,         /* the largest number of each column */
    TRF_POOL_MODEL = 3,         /* what the model's metadata "pooling" says, where `trf import`
                                   keeps a sentence encoder's pooling: "mean", "first" or "max". No
                                   such entry: MEAN */
    TRF_POOLING_COUNT
} trf_pooling;
/* Vectors of texts: one for each sequence, made of the encoder's rows for it, those of BOS and EOS
   included. unit 1: each vector is divided by its length, so that a sum of products is a cosine.
   vectors is (sequences, d_model). Sums are in double, in the order of the rows. A sequence without
   rows gets zeros, and a vector of length 0 stays.
   TRF_E_INVALID_ARG: no such pooling. TRF_E_STATE: there is no encoder, or there are several.
   TRF_E_SHAPE: `vectors` has another shape. */
TRF_API trf_status trf_reader_embed(trf_reader *reader, const trf_sequences *sources,
                                    trf_pooling pooling, int32_t unit, trf_tensor *vectors,
                                    trf_error *err);
/* Computes the log-probability of each pair's target in nats, with EOS if target_eos is 1.
   log_probabilities has room for one number per pair. each: NULL; or the sources in the tokens of
   each model of an ensemble, one trf_sequences a model, all of the same count: batch->source is not
   read then. TRF_E_STATE: an encoder-only model; or source vocabularies differ without `each`. */
TRF_API trf_status trf_reader_score(trf_reader *reader, const trf_batch *batch,
                                    const trf_sequences *each, double *log_probabilities,
                                    trf_error *err);
/* Ranks texts by how well they answer a query, with a model that has one output for a pair of texts
   (label_kind ANY or NUMBERS, n_labels 1): a cross-encoder (Nogueira and Cho 2019). The model reads
   the query, EOS and the text, as trf_join puts them together; a pair that is too long is
   shortened. scores[i] is the output for texts[i]. order (may be NULL) gets the numbers
   0..n - 1 of the texts, the best first; of equal ones the first is first, and NaN is last.
   TRF_E_STATE: the model has other outputs, no segments, or no source vocabulary. TRF_E_FORMAT: a
   text is not UTF-8; `where` is its number, or -1 for the query. After a failure scores may be
   partly written. */
TRF_API trf_status trf_reader_rank(trf_reader *reader, const char *query, const char *const *texts,
                                   int32_t n, double *scores, int32_t *order, trf_error *err);

typedef enum trf_attention_kind {
    TRF_ENCODER_SELF = 0, TRF_DECODER_SELF = 1, TRF_DECODER_CROSS = 2,
    TRF_ATTENTION_KIND_COUNT
} trf_attention_kind;       /* layers and heads count from 0 */

/* What trf_reader_read gives: a sum of these. The encoder's need no targets in the batch.

   Rows        Each id of the batch has a row, and so has each EOS that the library adds. Row t of a
               target (t = 0, 1, ...) is computed from the start id and ids 0..t-1, and predicts id
               t. If target_eos is 1, the last row predicts EOS.
   States      Like Hugging Face's hidden_states. State 0 is the input of the first layer: embedding
               plus position. State i + 1 is the output of layer i. The last state has passed the
               final norm, if there is one; it equals ENCODED or DECODED.
   Attention   The weights of a query sum to 1. Keys that causal attention hides have weight 0. */
enum {
    TRF_READ_ENCODED        = 1,        /* the encoder's output: (source rows, d_model) */
    TRF_READ_ENCODER_STATES = 2,        /* (encoder_layers + 1, source rows, d_model) */
    TRF_READ_ENCODER_SELF   = 4,        /* attention of trf_attention_kind ENCODER_SELF */
    TRF_READ_DECODED        = 8,        /* the decoder's output: (target rows, d_model) */
    TRF_READ_DECODER_STATES = 16,       /* (decoder_layers + 1, target rows, d_model) */
    TRF_READ_DECODER_SELF   = 32,
    TRF_READ_CROSS          = 64,       /* DECODER_CROSS */
    TRF_READ_LOGITS         = 128       /* before the softmax: (target rows, target_vocab);
                                           with head MEAN or FIRST   (sequences, n_labels)
                                           with head TOKENS          (source rows, n_labels)
                                           with head MASKED          (source rows, source_vocab) */
};
/* Where a pass begins, if not with the ids of the batch. Give one of the two. */
typedef struct trf_read_from {
    const trf_tensor *memory;           /* what cross-attention reads, instead of the encoder's
                                           output: (sum of memory_lengths, d_model). Only in an
                                           encoder-decoder; batch->source is not read */
    const int32_t *memory_lengths;      /* rows of each sequence: 1..max_length, and at least 2 if
                                           both source_bos and source_eos are 1 */
    const trf_tensor *states;           /* (rows, d_model), of which the output projection or the
                                           head makes logits. The batch is not read, and LOGITS is
                                           all that can be asked for */
} trf_read_from;
/* What one pass has given. The numbers belong to the reader, until it reads again or is destroyed.
   What was not asked for has neither data nor elements. */
typedef struct trf_reading {
    trf_tensor encoded, decoded, encoder_states, decoder_states, logits;
    const trf_tensor *attention[TRF_ATTENTION_KIND_COUNT];      /* of each sequence: (layers, heads,
                                                                   queries, keys); or NULL */
    int32_t count;                      /* number of sequences */
} trf_reading;
/* Makes one forward pass over a batch, teacher-forced, and keeps what `what` asks for. from: NULL,
   or where the pass begins.
   TRF_E_STATE: the model lacks a stack, a kind of attention or logits that `what` asks for, or
   there are several models. TRF_E_SHAPE: `memory` or `states` has another shape. */
TRF_API trf_status trf_reader_read(trf_reader *reader, const trf_batch *batch, int32_t what,
                                   const trf_read_from *from, trf_reading *reading, trf_error *err);

#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"

// -----------------------------------------------------------------------------------------------
// >>api-model      a configuration and its weights
//
// A model is data. A trainer changes its weights; readers, translators and samplers read them.
// -----------------------------------------------------------------------------------------------

/* Only its trainer and the calls in >>manual, THREADS (2), change a model. Any number of threads
   may read one. Do not translate with a model while its trainer makes a step, which would be a data
   race; translate with a trf_model_copy. */
typedef struct trf_model trf_model;

/* How a model is made. NULL, or a struct of zeros: the defaults. */
typedef struct trf_model_options {
    int32_t zeros;              /* 1: every weight is 0, for a program that sets them all. init,
                                   embedding_init and seed stay in the configuration. 0: first
                                   values are drawn; default 0 */
    int32_t first_layer, end_layer;     /* the model is a stage, which has only the layers
                                   first_layer..end_layer - 1 (>>api-stages): 0 <= first_layer <
                                   end_layer <= encoder_layers + decoder_layers. Both 0, or all
                                   layers: a whole model; default 0 */
} trf_model_options;
TRF_API trf_status trf_model_create(trf_model **model, const trf_config *config,
                                    const trf_model_options *options, trf_error *err);
/* Copies a model, its vocabularies and its texts, on the same device. */
TRF_API trf_status trf_model_copy(trf_model **copy, const trf_model *model, trf_error *err);
/* Destroy the model's trainers, readers, translators and samplers first. */
TRF_API void trf_model_destroy(trf_model *model);
/* Its configuration. NULL: model is NULL. */
TRF_API const trf_config *trf_model_config(const trf_model *model);

/* How large a model is: the number of weights in each of its parts, and its bytes. A tied matrix
   counts once, in the first of these parts that uses it. */
typedef struct trf_model_size {
    int64_t source_embedding, target_embedding;
    int64_t positions;                  /* learned positions of both sides, and segments */
    int64_t encoder_attention, encoder_feed_forward;        /* of all layers */
    int64_t encoder_norms;                                  /* with the final norm */
    int64_t decoder_attention, cross_attention, decoder_feed_forward, decoder_norms;
    int64_t generator;                  /* output projection, or heads, with their biases */
    int64_t total;                      /* trf_model_parameter_total of the model */
    size_t memory;                      /* bytes that trf_model_create takes */
} trf_model_size;
/* Checks a configuration and makes nothing: fails if and as trf_model_create would, except for lack
   of memory. size: NULL, or gets the size of its model. */
TRF_API trf_status trf_config_check(const trf_config *config, trf_model_size *size,
                                    trf_error *err);

/* Floating-point operations of the matrix products in one forward pass over one pair. A
   multiplication and an addition are two operations. source_rows and target_rows are the pair's
   ids, plus EOS where the model adds it: 0..max_length, and 0 for a side that the model does not
   have. In causal attention only the keys that a query sees are counted. A backward pass takes
   twice as many operations, with trf_train_options.recompute about three times as many. */
typedef struct trf_flop_counts {
    double encoder_projections, encoder_attention, encoder_feed_forward;    /* projections: q, k, v
                                                                               and the output's */
    double decoder_projections, decoder_attention, cross_projections, cross_attention;
    double decoder_feed_forward;
    double generator;
    double total;
} trf_flop_counts;
TRF_API trf_status trf_count_flops(const trf_config *config, int64_t source_rows,
                                   int64_t target_rows, trf_flop_counts *counts, trf_error *err);

/* Gives the model copies of finished vocabularies, which its files will contain. NULL: no
   vocabulary on that side. Call it before threads share the model. TRF_E_SHAPE: the size of a
   vocabulary, or one of its special ids, is not the configuration's. A vocabulary without bos or
   eos has cls or sep in its place. */
TRF_API trf_status trf_model_set_vocabs(trf_model *model, const trf_vocab *source,
                                        const trf_vocab *target, trf_error *err);
typedef enum trf_side { TRF_SOURCE = 0, TRF_TARGET = 1, TRF_SIDE_COUNT } trf_side;
/* NULL: the model has no vocabulary on that side. */
TRF_API const trf_vocab *trf_model_vocab(const trf_model *model, trf_side side);

/* Sets a text of your own under a key of your own; value NULL removes it. The texts are kept in
   copies of the model, in model files and in checkpoints (as safetensors metadata with the same
   keys), and return when these are loaded. Metadata that other programs have written are kept too.
     - A key has 1 to 255 bytes. "format" and keys that begin with "trf." belong to the library
       (TRF_E_INVALID_ARG).
     - Key and value are UTF-8 (TRF_E_FORMAT with the offset).
     - You can set texts until a model has 65,000 of them, or 1 MiB in all, keys included. A file
       may contain at most 120,000 texts, 8 MiB in all. More is TRF_E_LIMIT.
   Call it before threads share the model. The model may have a trainer, readers, translators and
   samplers. Each call copies all texts once. */
TRF_API trf_status trf_model_set_metadata(trf_model *model, const char *key,
                                          const char *value /* or NULL */, trf_error *err);
/* Text `index`, from 0 on, in byte order of the keys. 1: there is one; 0: both are NULL. Pointers
   are valid until the next change. */
TRF_API int trf_model_metadata_at(const trf_model *model, int32_t index, const char **key,
                                  const char **value);
/* The text of a key, or NULL. */
TRF_API const char *trf_model_metadata(const trf_model *model, const char *key);
/* Writes label i, which is line i of the metadata "labels" (trf_dataset_create_model), and a NUL.
   *bytes (may be NULL) is the length of the whole label without its NUL, even if `size` is too
   small: then whole characters are written and the call fails with TRF_E_LIMIT. text may be NULL if
   size is 0. TRF_E_STATE: there is no such line. */
TRF_API trf_status trf_model_label(const trf_model *model, int32_t i, char *text, size_t size,
                                   size_t *bytes, trf_error *err);
/* Parameters by index, with the names and shapes of PyTorch's nn.Transformer. A tied matrix appears
   once. Write through the view only while the model has no trainer, reader, translator or sampler:
   these keep copies of the weights and would not see the change. If the model has a trainer, write
   through trf_trainer_tensor. With an index out of range the view has neither data nor elements. */
TRF_API int32_t trf_model_parameter_count(const trf_model *model);
TRF_API int64_t trf_model_parameter_total(const trf_model *model);      /* number of weights */
TRF_API trf_tensor trf_model_parameter(const trf_model *model, int32_t index);
/* Index of the parameter with this name, or -1. */
TRF_API int32_t trf_model_parameter_index(const trf_model *model, const char *name);
/* How weights are stored.

   In files (trf_save_options.weights): all four.
   BF16, F16  half the bytes of F32. Each weight is rounded to the nearest number of that format,
              ties to even. BF16 keeps biases, norms and learned positions in F32. Loading widens
              the weights again, or packs them (trf_load_options.weights).
   INT8       a quarter of the bytes. It keeps in F32 what BF16 does, and a scale for each row.
              Loading packs it: the model answers with the bits of INT8 below, and cannot be
              trained. TRF_E_UNSUPPORTED: a TRF_DOUBLE build, or d_model or d_ff above 131,072.
   A model that was loaded from BF16 or F16 and is saved in that format again has the same weights,
   bit for bit. TRF_E_NONFINITE: a weight would become infinite (from 65,520 on in F16, from about
   3.396e38 on in BF16); `what` is the tensor and `where` the index of the weight. In INT8: a weight
   is infinite or NaN; `where` is the index of its row.

   In readers, translators and samplers (`weights` of their options): FULL, BF16 and INT8. BF16 and
   INT8 keep the weights of matrix products in 16 or 8 bits, and embeddings too. Everything else
   stays FULL. Answers differ slightly from those of FULL.
   BF16  weights, and activations that products read, are rounded to the nearest number, ties to
         even. The products inside attention stay FULL, but for one case: with AMX, if d_head is a
         multiple of 32 and a pass without a cache reads 8 tokens of a sequence or more, their
         operands are rounded too. Packed weights take about half the memory. One sentence is
         translated faster than with FULL; with AMX a large batch is too (tools/bench/bench.md).
   INT8  each row of a weight has a scale: its largest absolute value / 127. Activations are rounded
         in the same way, row by row, when a product reads them.
         - Packed weights take about a quarter of the memory, and products are faster.
         - Sums are exact. So answers are bit-identical for any number of threads, with GCC and
           Clang, and on all CPUs, in all builds that fuse multiply-add. A build fuses with -O2 and
           an instruction set that has it, such as AVX2. All other builds agree among themselves.
         - A row of activations with an infinity or a NaN gives NaN.
   TRF_E_UNSUPPORTED: a CUDA device, a TRF_DOUBLE build, or INT8 with d_model or d_ff above 131,072.
   TRF_E_STATE: the model is packed in another format (trf_model_pack). */
typedef enum trf_weights {
    TRF_WEIGHTS_FULL = 0,       /* F32, or F64 in a TRF_DOUBLE build: trf_model_save's default */
    TRF_WEIGHTS_BF16 = 1,       /* 8 significant bits and the range of F32 */
    TRF_WEIGHTS_F16  = 2,       /* 11 significant bits, down to 6e-8 */
    TRF_WEIGHTS_INT8 = 3,       /* integers -127 to 127, times the scale of a row */
    TRF_WEIGHTS_COUNT
} trf_weights;

/* Packs the weights of all matrix products into the form that readers, translators and samplers
   compute with, and frees the unpacked ones. These objects then share the packed weights instead of
   making copies, so each of them is smaller by the weights. Answers are bit-identical to those of
   objects that were created with these weights, with one exception: TRF_PRODUCTS_CBLAS needs the
   unpacked weights. So with it and FULL, calls with more than 512 rows (trf_products) may differ in
   the last bits. weights: FULL, BF16 or INT8 (trf_weights).
     - Call it before the model has a reader, translator or sampler.
     - They then take TRF_WEIGHTS_FULL, the default, or the same format.
     - Afterwards the model cannot be trained, copied or averaged (TRF_E_STATE), and views of packed
       weights have no data. Saving writes a packed file (trf_model_save).
     - A second call with the same weights or with FULL does nothing; others fail with TRF_E_STATE.
   TRF_E_UNSUPPORTED: a CUDA device, or a format that the build or the model cannot have. */
TRF_API trf_status trf_model_pack(trf_model *model, trf_weights weights, trf_error *err);
/* Bytes of a model that is packed with these weights: its packed matrices, and everything else as
   floats (biases, norms, learned positions). *shared (may be NULL) is the packed matrices' part:
   trf_translator_memory counts them too, but a translator of such a model uses the model's. 0: the
   configuration is not valid, trf_model_pack would fail, or there is no memory for names. */
TRF_API size_t trf_packed_memory(const trf_config *config, trf_weights weights, size_t *shared,
                                 trf_error *err);
/* Sets the model's weights to the mean of the weights of `count` (>= 1) models, summed in double.
   The model may be one of them. It must not have a trainer, reader, translator or sampler.
   TRF_E_SHAPE: a configuration differs in more than seed, trained_source, trained_target, device
   and hooks: field `what` of model `where`. */
TRF_API trf_status trf_model_average(trf_model *model, trf_model *const *models, int32_t count,
                                     trf_error *err);
/* Starts a model from the weights of another one: parameters with the same name are copied (a tied
   matrix has one name). If their numbers of rows differ, as after a vocabulary or max_length has
   grown, the rows that both have are copied. Everything else stays as it is:
     - rows and parameters that only one of the two has,
     - head.bias, if it has an element per label in one model and per token in the other.
   The layer of a FIRST head starts from that of a second head, if `from` has one (BERT's pooler).
   *copied (may be NULL) is the number of parameters written. The models may differ in everything
   else, also in device. `model` must not have a trainer, reader, translator or sampler.
   TRF_E_SHAPE: two parameters of one name differ in columns; nothing was copied. */
TRF_API trf_status trf_model_copy_weights(trf_model *model, const trf_model *from, int32_t *copied,
                                          trf_error *err);

#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/train.h"

// -----------------------------------------------------------------------------------------------
// >>api-blocks     the parts alone, for other architectures
//
// Rules of all blocks:
//   - x and y are input and output; dx and dy are the gradients of the loss with respect to them.
//   - Shapes are (rows, features). Rows are the tokens of all sequences, one after another. There
//     may be zero rows, but zero features or outputs are TRF_E_SHAPE. 2^31 or more of anything is
//     TRF_E_LIMIT.
//   - Backward sets gradients of activations (=) and adds to gradients of parameters (+=). A
//     TRF_NO_TRAIN build has no backward.
//   - Outputs must not overlap inputs.
//   - `saved` is a tensor of rank 1 that forward writes and backward reads. trf_..._saved returns
//     its length, which may change between versions. NULL: no backward follows.
//   - All tensors are in the host's memory. For a device with its own memory, every call copies
//     them there and back.
// -----------------------------------------------------------------------------------------------

/* Where blocks run: device, threads, scratch memory. One thread at a time may use it. NULL device:
   trf_device_default(). NULL hooks: none. */
typedef struct trf_context trf_context;

TRF_API trf_status trf_context_create(trf_context **context, const trf_device *device,
                                      const trf_hooks *hooks, trf_error *err);
TRF_API void trf_context_destroy(trf_context *context);

/* y = scale * weight[id] + position (paper 3.4, 3.5). y: (rows, d). weight: (vocab, d); for
   backward at most 2^24 rows (TRF_E_LIMIT). Positions start again in every sequence. */
typedef struct trf_embedding_options {
    trf_positions positions;    /* LEARNED: position p is row position_offset + p of `learned` */
    int32_t position_offset;    /* 0..2^20 */
    double scale;
    const trf_tensor *learned;  /* LEARNED only: (longest sequence + position_offset or more, d) */
} trf_embedding_options;
TRF_API trf_status trf_embedding(trf_context *context, trf_tensor *y, const trf_sequences *x,
                                 const trf_tensor *weight, const trf_embedding_options *options,
                                 trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_embedding_backward(trf_context *context, trf_tensor *dweight,
                                          trf_tensor *dlearned /* or NULL */, const trf_tensor *dy,
                                          const trf_sequences *x,
                                          const trf_embedding_options *options, trf_error *err);
#endif

/* Positions as numbers: row p of out (rows, d) is what the rule adds to a token at position
   first + p. rule: neither LEARNED nor NONE. first: 0..2^20. At most 2^24 rows. */
TRF_API trf_status trf_position_table(trf_positions rule, int32_t first, trf_tensor *out,
                                      trf_error *err);

/* y = x weight^T + bias. x: (rows, in), y: (rows, out). weight: (out, in), as in PyTorch. bias:
   (out) or NULL. */
TRF_API trf_status trf_linear(trf_context *context, trf_tensor *y, const trf_tensor *x,
                              const trf_tensor *weight, const trf_tensor *bias, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_linear_backward(trf_context *context, trf_tensor *dx /* or NULL */,
                                       trf_tensor *dweight, trf_tensor *dbias /* or NULL */,
                                       const trf_tensor *dy, const trf_tensor *x,
                                       const trf_tensor *weight, trf_error *err);
#endif

/* y = gain * (x - mean) / sqrt(var + epsilon) + bias, row by row (Ba et al. 2016). x, y: (rows, d).
   gain, bias: (d). epsilon: 1e-30..1. */
TRF_API int64_t trf_layer_norm_saved(int64_t rows);
TRF_API trf_status trf_layer_norm(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                  const trf_tensor *gain, const trf_tensor *bias, double epsilon,
                                  trf_tensor *saved, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_layer_norm_backward(trf_context *context, trf_tensor *dx, trf_tensor *dgain,
                                           trf_tensor *dbias, const trf_tensor *dy,
                                           const trf_tensor *x, const trf_tensor *gain,
                                           double epsilon, const trf_tensor *saved, trf_error *err);
#endif

/* out = softmax(q k^T / sqrt(d_head)) v, per sequence and head (paper 3.2). q, out: (query rows,
   d). k, v: (key rows, d). d = n_heads * d_head. Sequence i of `count` has query_lengths[i]
   queries and key_lengths[i] keys. A sequence without keys gets zeros. Backward also reads
   forward's `out`. CAUSAL: query i sees the keys 0..i; both lengths must be equal. */
typedef enum trf_mask { TRF_FULL = 0, TRF_CAUSAL = 1, TRF_MASK_COUNT } trf_mask;
typedef struct trf_attention_shape {
    const int32_t *query_lengths, *key_lengths;
    int32_t count, n_heads;
    trf_mask mask;
} trf_attention_shape;
TRF_API int64_t trf_attention_saved(int64_t query_rows, int32_t n_heads);
TRF_API trf_status trf_attention(trf_context *context, trf_tensor *out, const trf_tensor *q,
                                 const trf_tensor *k, const trf_tensor *v,
                                 const trf_attention_shape *shape, trf_tensor *saved,
                                 trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_attention_backward(trf_context *context, trf_tensor *dq, trf_tensor *dk,
                                          trf_tensor *dv, const trf_tensor *dout,
                                          const trf_tensor *out, const trf_tensor *q,
                                          const trf_tensor *k, const trf_tensor *v,
                                          const trf_attention_shape *shape,
                                          const trf_tensor *saved, trf_error *err);
#endif

/* The softmax alone, which attention multiplies by v. Each sequence has a block (heads, queries,
   keys); the blocks follow one another. out has rank 1 and n_heads times the sum of queries * keys
   elements. For one sequence it may have rank 3 and the block's shape. */
TRF_API trf_status trf_attention_probabilities(trf_context *context, trf_tensor *out,
                                               const trf_tensor *q, const trf_tensor *k,
                                               const trf_attention_shape *shape, trf_error *err);

/* Attention with its four projections. Parameters are those of nn.MultiheadAttention: in_weight
   (3d, d) has the rows of q, then k, then v; in_bias (3d); out_weight (d, d); out_bias (d). The
   same struct holds weights or their gradients. x, y: (query rows, d). memory: (key rows, d); for
   self-attention it is x or NULL. probabilities: the weights of each head, in the layout of
   trf_attention_probabilities; the second result of nn.MultiheadAttention with
   average_attn_weights=False. */
typedef struct trf_attention_params {
    trf_tensor in_weight, in_bias, out_weight, out_bias;
} trf_attention_params;
TRF_API int64_t trf_multi_head_attention_saved(int64_t query_rows, int64_t key_rows,
                                               int64_t d_model, int32_t n_heads);
TRF_API trf_status trf_multi_head_attention(trf_context *context, trf_tensor *y,
                                            const trf_tensor *x, const trf_tensor *memory,
                                            const trf_attention_params *params,
                                            const trf_attention_shape *shape,
                                            trf_tensor *probabilities /* or NULL */,
                                            trf_tensor *saved, trf_error *err);
/* Sets dmemory. For self-attention dmemory is NULL, and dx has the whole gradient. */
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_multi_head_attention_backward(trf_context *context, trf_tensor *dx,
                                                     trf_tensor *dmemory,
                                                     trf_attention_params *dparams,
                                                     const trf_tensor *dy, const trf_tensor *x,
                                                     const trf_tensor *memory,
                                                     const trf_attention_params *params,
                                                     const trf_attention_shape *shape,
                                                     const trf_tensor *saved, trf_error *err);
#endif

/* y = act(x w1^T + b1) w2^T + b2 (paper 3.3). w1: (d_ff, d), b1: (d_ff), w2: (d, d_ff), b2: (d).
   x, y: (rows, d). */
typedef struct trf_feed_forward_params { trf_tensor w1, b1, w2, b2; } trf_feed_forward_params;
TRF_API int64_t trf_feed_forward_saved(int64_t rows, int64_t d_ff);
TRF_API trf_status trf_feed_forward(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                    const trf_feed_forward_params *params,
                                    trf_activation activation, trf_tensor *saved, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_feed_forward_backward(trf_context *context, trf_tensor *dx,
                                             trf_feed_forward_params *dparams,
                                             const trf_tensor *dy, const trf_tensor *x,
                                             const trf_feed_forward_params *params,
                                             trf_activation activation, const trf_tensor *saved,
                                             trf_error *err);
#endif

/* y = x + dropout(sub), all of shape (rows, d). With probability p an element of sub becomes zero;
   the others are multiplied by 1/(1-p). 0 <= p < 1, rounded to a multiple of 1/65536, at most
   65535/65536. The mask depends on seed, the lower 32 bits of step, and site; backward computes it
   again from these three. NULL dropout: none. */
typedef struct trf_dropout { double p; uint64_t seed; int64_t step; int32_t site; } trf_dropout;
TRF_API trf_status trf_residual(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                const trf_tensor *sub, const trf_dropout *dropout, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_residual_backward(trf_context *context, trf_tensor *dx, trf_tensor *dsub,
                                         const trf_tensor *dy, const trf_dropout *dropout,
                                         trf_error *err);
#endif

typedef struct trf_cross_entropy_options {
    double label_smoothing;     /* 0 <= e < 1 */
    trf_smoothing rule;
    int32_t smoothing_pad;      /* NO_PAD_KL: the token that gets no share, 0..V-1. Other rules
                                   ignore it */
} trf_cross_entropy_options;
/* The loss of logits = x weight^T + bias against targets[rows], summed over rows into *loss. The
   logits of all rows are never stored. x: (rows, d). weight: (V, d), V 2..2^24, with NO_PAD_KL from
   3. bias: (V) or NULL. targets: 0..V-1, or -1, which the loss ignores as in trf_batch.
   If dx is not NULL, computes the gradients of that sum too: dx, and dweight and dbias unless they
   are NULL. TRF_E_INVALID_ARG: dweight or dbias without dx. TRF_E_UNSUPPORTED: dx in a TRF_NO_TRAIN
   build. */
TRF_API trf_status trf_cross_entropy(trf_context *context, double *loss, trf_tensor *dx,
                                     trf_tensor *dweight, trf_tensor *dbias, const trf_tensor *x,
                                     const trf_tensor *weight, const trf_tensor *bias,
                                     const int32_t *targets,
                                     const trf_cross_entropy_options *options, trf_error *err);

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
//   - Outputs must not overlap inputs. trf_rotary works in place.
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
    trf_positions positions;    /* INTERLEAVED to NONE; others: TRF_E_INVALID_ARG. LEARNED: position
                                   p is row position_offset + p of `learned` */
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
   first + p. rule: INTERLEAVED, HALVES_N1 or HALVES. first: 0..2^20. At most 2^24 rows. */
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

/* y = gain * (x - mean) * r + bias, row by row; rule says what mean and r are. x, y: (rows, d).
   gain, bias: (d). epsilon: 1e-30..1. saved: 2 * rows numbers, mean (RMS: 0) and r of each row. */
TRF_API trf_status trf_norm(trf_context *context, trf_tensor *y, const trf_tensor *x,
                            const trf_tensor *gain, const trf_tensor *bias /* or NULL */,
                            trf_norm_rule rule, double epsilon, trf_tensor *saved, trf_error *err);
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_norm_backward(trf_context *context, trf_tensor *dx, trf_tensor *dgain,
                                     trf_tensor *dbias /* or NULL */, const trf_tensor *dy,
                                     const trf_tensor *x, const trf_tensor *gain,
                                     trf_norm_rule rule, double epsilon, const trf_tensor *saved,
                                     trf_error *err);
#endif

/* A dropout: with probability p an element becomes zero; the others are multiplied by 1/(1-p). 0 <=
   p < 1, rounded to a multiple of 1/65536, at most 65535/65536. The mask depends on seed, the lower
   32 bits of step, and site; backward computes it again from these three. */
typedef struct trf_dropout { double p; uint64_t seed; int64_t step; int32_t site; } trf_dropout;

/* The sequences and heads of attention, and what its scores depend on. Fields from kv_heads on may
   be 0 or NULL. Sequence i of `count` has query_lengths[i] queries and key_lengths[i] keys. CAUSAL:
   query i sees the keys 0..i; both lengths must be equal. score_bias holds numbers that are added
   to the scores, with CAUSAL too: a mask (PyTorch's attn_mask of floats), or numbers for positions
   (ALiBi, T5). Its shape is one of these, n being the sum of queries * keys over all sequences:

     (Q, K)            for all sequences and heads: row i, column j is for query i and key j
     (n_heads, Q, K)   for each head. Q and K are at least the most queries and keys
     (n)               for each sequence: blocks (queries, keys) that follow one another
     (n_heads * n)     for both: blocks (n_heads, queries, keys)

   -infinity hides a key. NaN and +infinity are TRF_E_INVALID_ARG. */
typedef enum trf_mask { TRF_FULL = 0, TRF_CAUSAL = 1, TRF_MASK_COUNT } trf_mask;
typedef struct trf_attention_shape {
    const int32_t *query_lengths, *key_lengths;
    int32_t count, n_heads;
    trf_mask mask;
    int32_t kv_heads;                   /* as in trf_config; divides n_heads; 0: n_heads */
    double scale;                       /* of q k^T; 0..1e6; 0: 1/sqrt(d_head) */
    const trf_tensor *score_bias;       /* NULL: nothing is added */
    const trf_dropout *dropout;         /* of the weights; NULL: none */
    const trf_config *rotary;           /* its fields rotary_..., which presets set, turn queries
                                           and keys (trf_rotary); others are not read. NULL: nothing
                                           turns */
} trf_attention_shape;

/* Turns q: (query rows, n_heads * d_head) and k: (key rows, kv_heads * d_head) in place by their
   positions, as shape->rotary says (Su et al. 2021); with back 1 by the negative angles, which is
   the gradient. Keys have the positions 0, 1, ... of their sequence. Queries have its last ones, so
   a sequence may not have more queries than keys, nor more than 2^24 keys. q or k may be NULL. A
   cache holds turned keys: new ones are turned as q. */
TRF_API trf_status trf_rotary(trf_context *context, trf_tensor *q, trf_tensor *k,
                              const trf_attention_shape *shape, int32_t back, trf_error *err);

/* out = softmax(scale * q k^T + score_bias) v, per sequence and head (paper 3.2). q, out: (query
   rows, n_heads * d_head). k, v: (key rows, kv_heads * d_head). trf_rotary has turned q and k, if
   anything has: here shape->rotary is not read. A query that sees no key gets zeros.
   probabilities gets the softmax, before dropout: for each sequence a block (n_heads, queries,
   keys), the blocks following one another. Its rank is 1; for one sequence it may have rank 3 and
   the block's shape. With probabilities and without saved, out may be NULL: then v is not read. */
TRF_API trf_status trf_attention(trf_context *context, trf_tensor *out, const trf_tensor *q,
                                 const trf_tensor *k, const trf_tensor *v,
                                 const trf_attention_shape *shape,
                                 trf_tensor *probabilities /* or NULL */, trf_tensor *saved,
                                 trf_error *err);
/* Also reads forward's `out`. Adds to dscore_bias, which has the shape of score_bias; with it, the
   context keeps memory for the gradients of all scores. */
#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_attention_backward(trf_context *context, trf_tensor *dq, trf_tensor *dk,
                                          trf_tensor *dv, trf_tensor *dscore_bias /* or NULL */,
                                          const trf_tensor *dout, const trf_tensor *out,
                                          const trf_tensor *q, const trf_tensor *k,
                                          const trf_tensor *v, const trf_attention_shape *shape,
                                          const trf_tensor *saved, trf_error *err);
#endif

/* Attention with its four projections. in_weight ((n_heads + 2 kv_heads) * d_head, d) has the rows
   of q, then k, then v; it determines d_head. in_bias has as many elements. out_weight (d, n_heads
   * d_head); out_bias (d). A bias of rank 0 without data: none. With d = n_heads * d_head these are
   the parameters of nn.MultiheadAttention. The same struct holds weights or their gradients. x, y:
   (query rows, d). memory: (key rows, d); for self-attention it is x or NULL. Queries and keys of
   self-attention are turned as by trf_rotary; rotary with a memory is TRF_E_INVALID_ARG.
   probabilities: as in trf_attention; the second result of nn.MultiheadAttention with
   average_attn_weights=False. */
typedef struct trf_attention_params {
    trf_tensor in_weight, in_bias, out_weight, out_bias;
} trf_attention_params;
/* Of trf_multi_head_attention, or with params NULL of trf_attention. Only reads the shapes. */
TRF_API int64_t trf_attention_saved(const trf_attention_shape *shape,
                                    const trf_attention_params *params);
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
                                                     trf_tensor *dscore_bias /* or NULL */,
                                                     const trf_tensor *dy, const trf_tensor *x,
                                                     const trf_tensor *memory,
                                                     const trf_attention_params *params,
                                                     const trf_attention_shape *shape,
                                                     const trf_tensor *saved, trf_error *err);
#endif

/* y = act(x w1^T + b1) w2^T + b2 (paper 3.3). w1: (d_ff, d), b1: (d_ff), w2: (d, d_ff), b2: (d).
   x, y: (rows, d). If w1 has 2 d_ff rows, there is a gate (trf_config.feed_forward_gate): w1 = [U;
   V], b1 = [b; c], y = (act(x U^T + b) * (x V^T + c)) w2^T + b2. A bias of rank 0 without data:
   none. */
typedef struct trf_feed_forward_params { trf_tensor w1, b1, w2, b2; } trf_feed_forward_params;
TRF_API int64_t trf_feed_forward_saved(int64_t rows, const trf_feed_forward_params *params);
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

/* y = x + dropout(sub), all of shape (rows, d). NULL dropout: none. */
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

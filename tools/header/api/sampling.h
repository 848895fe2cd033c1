#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/read.h"
#include "api/translate.h"

// -----------------------------------------------------------------------------------------------
// >>api-sampling   sampling, token by token
//
// A sampler continues sequences by drawing one token after another: begin, step as often as you
// like, look at the answers. The same seed gives the same answers. On the CPU an answer and its
// log-probabilities are the same to the last bit, whatever
//   - the number of threads is,
//   - the budgets of the calls are, even if the session is saved and loaded between them,
//   - the other sequences of the batch are; for an encoder-decoder not with TRF_PRODUCTS_CBLAS.
// -----------------------------------------------------------------------------------------------

/* How a token is drawn from its logits. The rules apply in this order, which is Hugging Face's:
   repetition_penalty, no_repeat_ngram, banned, min_tokens, temperature, top_k, top_p, min_p. pad is
   never drawn, unk only with allow_unk, and bos not with decoder_start BOS; but eos and `ends` are.
   Weights are floats with the same bits on all machines (>>draw). "So far" means as in trf_search
   all that the decoder has read, older than the window too: its start id (trf_decoder_start), the
   prompt and the answer; never the source. A first token that shall be forced (forced_bos_token_id)
   is a prompt. */
typedef struct trf_sampling {
    double temperature;         /* divides the logits; 0..1e6. 0 takes the most likely token, of
                                   equal ones the lowest id, like beam 1. default 1 */
    int32_t top_k;              /* keeps the k most likely tokens, and those as likely as the last
                                   of them (Fan et al. 2018); 0: all; default 0 */
    double top_p;               /* keeps the smallest set of most likely tokens whose probabilities
                                   sum to at least this, and those as likely as the last of them
                                   (Holtzman et al. 2020); 0..1; 1: all; default 1 */
    double min_p;               /* keeps tokens with at least this part of the largest probability
                                   (Nguyen et al. 2024); 0..1; 0: all; default 0 */
    double repetition_penalty;  /* for each id so far: divides a positive logit and multiplies a
                                   negative one (Keskar et al. 2019); 1e-6..1e6; 1: no effect;
                                   default 1 */
    int32_t no_repeat_ngram;    /* n: no n tokens that follow one another so far occur again
                                   (no_repeat_ngram_size); >= 0; 0: off; default 0 */
    trf_sequences banned;       /* sequences of ids: a token that would complete one is never drawn
                                   (bad_words_ids, suppress_tokens). A sequence may begin in the
                                   prompt. Limits as in trf_search. Creating a sampler copies them.
                                   default: none */
    trf_ends ends;              /* ids that end an answer as EOS does (eos_token_id, if that is a
                                   list): as in trf_search, and trf_model_ends reads them.
                                   default: none */
    int32_t max_tokens;         /* limit of an answer's tokens, without EOS; >= 1; default 256.
                                   In an encoder-decoder, prompt and answer together have at most
                                   config.max_length - 1 ids */
    int32_t window;             /* decoder-only: W, the most ids that the model reads at a time,
                                   never more than config.max_length - 1. When a sequence would have
                                   W + 1 ids, the older half is dropped, and the remaining
                                   (W + 1) / 2 ids are read again as a new prompt: on average, one
                                   more row is computed per drawn token. 0: no window; a sequence
                                   ends at config.max_length - 1 ids. default INT32_MAX */
    int32_t min_tokens;         /* EOS and `ends` are drawn only after this many tokens; >= 0;
                                   default 0 */
    int32_t allow_unk;          /* 1: unk may be drawn; needs a model with unk; default 0 */
    trf_ensemble ensemble;      /* several models that answer as one; default: none. Sessions are of
                                   one model (TRF_E_STATE) */
    uint64_t seed;              /* token t of sequence i uses random number (seed, i, t); t counts
                                   the prompt's ids too; default 0 */
    trf_weights weights;        /* how weights of products are kept (trf_weights): FULL, BF16 or
                                   INT8; default TRF_WEIGHTS_FULL: as the model has them */
    int32_t threads;            /* 1..4096; 0: config.device.threads of the model; default 0 */
    /* Called for every token in order, EOS or the end in its place included; default NULL: not
       called. text: the `bytes` by which the answer's text grows, whole characters followed by a
       NUL; "" if the model has no target vocabulary. Bytes that may begin a character wait for the
       rest of it, or for the end. Other bytes that are not UTF-8 become U+FFFD at once.
       trf_vocab_decode tells when a NUL may be among the bytes. */
    void (*token)(void *user, int32_t sequence, int32_t id, const char *text, size_t bytes);
    void *user;                 /* token's first argument */
    trf_hooks hooks;            /* default none */
} trf_sampling;

TRF_API trf_sampling trf_sampling_defaults(void);
/* The model must outlive the sampler. Like a translator, a sampler takes a snapshot of the weights.
   NULL sampling: the defaults. With an ensemble, model is NULL or its first one. TRF_E_STATE: an
   encoder-only model. */
typedef struct trf_sampler trf_sampler;

TRF_API trf_status trf_sampler_create(trf_sampler **sampler, const trf_model *model,
                                      const trf_sampling *sampling, trf_error *err);
TRF_API void trf_sampler_destroy(trf_sampler *sampler);
/* Starts new sequences. The old ones are forgotten, even if the call fails.
     - beginnings.target contains the prompt of each sequence; a prompt may be empty. The model
       reads many of its ids at a time, or only its end if it is longer than the window. A
       decoder-only model's may have any ids, pad, bos and eos too: they end nothing.
     - An encoder-decoder also encodes beginnings.source. Its target may have no sequences; then all
       prompts are empty.
     - Sequence k of the call draws with the random numbers of sequence beginnings.ordinal + k
       (trf_sampling.seed). */
TRF_API trf_status trf_sampler_begin(trf_sampler *sampler, const trf_batch *beginnings,
                                     trf_error *err);
/* Draws up to `budget` (>= 0) tokens for every sequence that has not ended. *live (may be NULL) is
   the number of sequences that still have not ended, also where the call has failed half-way. The
   tokens drawn so far stay, and the next call continues.
   TRF_E_NONFINITE: a logit is +infinity or NaN, or no token may be drawn, in sequence `where`.
   TRF_E_STATE: none has begun, and *live is 0. */
TRF_API trf_status trf_sampler_step(trf_sampler *sampler, int32_t budget, int32_t *live,
                                    trf_error *err);
/* The answer of a sequence so far, or NULL if out of range. The pointer is valid until the next
   begin, load or destroy. Its contents and arrays change with each step. log_probability is that of
   the model itself, before the rules above; score is the same number. */
TRF_API const trf_hypothesis *trf_sampler_answer(const trf_sampler *sampler, int32_t sequence);
/* Saves the session as a safetensors file: ids, log-probabilities and rules, but not `banned` and
   `ends`. The path gets the whole file or nothing, as with trf_model_save. TRF_E_STATE: nothing has
   begun. */
TRF_API trf_status trf_sampler_save(const trf_sampler *sampler, const char *path, trf_error *err);
/* Loads a session into a sampler of the same model: its sequences and its rules. banned, ends,
   threads, callback and hooks remain the sampler's. Keys and values are computed again from the
   ids. TRF_E_STATE: the model has other weights. The sampler has no sequences afterwards if the ids
   do not fit the model or memory, or after TRF_E_CANCELLED. Other failures change nothing. */
TRF_API trf_status trf_sampler_load(trf_sampler *sampler, const char *path, trf_error *err);

#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"

// -----------------------------------------------------------------------------------------------
// >>checks         what a configuration implies; ids and lengths of sequences
//
// The first functions name what the fields of a configuration mean, so that no other chapter
// compares enums. The rest checks the caller's sequences before anything is computed.
// -----------------------------------------------------------------------------------------------

TRF__FN int trf__has_source(const trf_config *c) { return c->kind != TRF_DECODER_ONLY; }
TRF__FN int trf__has_target(const trf_config *c) { return c->kind != TRF_ENCODER_ONLY; }
/* The head projects onto labels; it projects one row a sequence. */
TRF__FN int trf__has_labels(const trf_config *c) { return c->head && c->head != TRF_HEAD_MASKED; }
TRF__FN int trf__pools(const trf_config *c)
{
    return c->head == TRF_HEAD_MEAN || c->head == TRF_HEAD_FIRST;
}
/* How many numbers a row of the loss is compared with; 0: with a label. */
TRF__FN int64_t trf__wanted_numbers(const trf_config *c) { return c->label_kind ? c->n_labels : 0; }
/* The id that hides a token from a masked head. */
TRF__FN int32_t trf__mask_of(const trf_config *c) { return c->mask >= 0 ? c->mask : c->pad; }
/* Both sides share one embedding; a stack ends with a norm. */
TRF__FN int trf__shares_embedding(const trf_config *c)
{
    return c->tying == TRF_TIED_ALL || c->tying == TRF_TIED_EMBEDDINGS;
}
TRF__FN int trf__has_final_norm(const trf_config *c, int decoder)
{
    static const trf_final_norm alone[2] = {TRF_FINAL_NORM_ENCODER, TRF_FINAL_NORM_DECODER};
    return c->final_norm == TRF_FINAL_NORM_BOTH || c->final_norm == alone[decoder];
}
/* Rows of a source that the library adds. */
TRF__FN int trf__source_added(const trf_config *c) { return c->source_bos + c->source_eos; }

/* BOS if the decoder reads it first, else -1. A decoder that begins with another id may read and
   write BOS later: BART's targets are <s> ids </s>, and it begins with </s>. */
TRF__FN int32_t trf__bos_read_first(const trf_config *c)
{
    return c->decoder_start == TRF_START_BOS ? c->bos : -1;
}
TRF__FN int trf__norm_has_bias(const trf_config *c) { return c->norm_rule != TRF_NORM_RMS; }
/* The width of a head, and those of all queries and of all keys (or values) of a token. */
TRF__FN int32_t trf__d_head(const trf_config *c)
{
    return c->d_head ? c->d_head : c->d_model / c->n_heads;
}
TRF__FN int32_t trf__kv_heads(const trf_config *c)
{
    return c->kv_heads ? c->kv_heads : c->n_heads;
}
TRF__FN int64_t trf__q_width(const trf_config *c) { return (int64_t)c->n_heads * trf__d_head(c); }
TRF__FN int64_t trf__k_width(const trf_config *c)
{
    return (int64_t)trf__kv_heads(c) * trf__d_head(c);
}
/* The features of a head that positions turn. */
TRF__FN int32_t trf__rotary_width(const trf_config *c)
{
    if (c->positions != TRF_POSITIONS_ROTARY) return 0;
    return c->rotary_width ? c->rotary_width : trf__d_head(c);
}
/* How many distances RELATIVE tells apart: -relative_distance .. relative_distance. */
TRF__FN int64_t trf__distances(const trf_config *c)
{
    return 2 * (int64_t)c->relative_distance + 1;
}
/* Sines and cosines are added to embeddings. */
TRF__FN int trf__is_sinusoidal(const trf_config *c)
{
    return c->positions == TRF_POSITIONS_INTERLEAVED || c->positions == TRF_POSITIONS_HALVES ||
        c->positions == TRF_POSITIONS_HALVES_N1;
}
/* The number of logits of a row. */
TRF__FN int32_t trf__n_logits(const trf_config *c)
{
    return trf__has_target(c) ? c->target_vocab : trf__has_labels(c) ? c->n_labels
        : c->source_vocab;
}

/* Checks the lengths of one side's sequences. The library adds `extra` tokens (BOS, EOS) to each.
   Adds up rows and the longest sequence. */
TRF__FN trf_status trf__check_lengths(const trf_sequences *x, int extra, int32_t max_length,
                                      const char *side,
                                      int64_t *rows, int64_t *longest, trf_error *err)
{
    TRF__FAIL_IF(x->count < 0 || (x->count > 0 && !x->lengths), TRF_E_INVALID_ARG, -1, side,
                 "%s needs a count and lengths, got count %d", side, x->count);
    *rows = (int64_t)extra * x->count;
    for (int32_t i = 0; i < x->count; i++) {
        TRF__FAIL_IF(x->lengths[i] < 0, TRF_E_INVALID_ARG, i, side,
                     "length of %s sequence %d must not be negative, got %d", side, i,
                     x->lengths[i]);
        TRF__FAIL_IF((int64_t)x->lengths[i] + extra > max_length, TRF_E_LIMIT, i, side,
                     "%s sequence %d: %d token%s plus %d added exceed max_length = %d", side, i,
                     x->lengths[i], trf__plural(x->lengths[i]), extra, max_length);
        if (x->lengths[i] > 0 && !x->ids) return trf__fail_null(err, side);
        *longest = trf__max64(*longest, (int64_t)x->lengths[i] + extra);
        *rows += x->lengths[i];
    }
    TRF__FAIL_IF(*rows > INT32_MAX, TRF_E_LIMIT, *rows, side,
                 "a batch may have at most %d %s tokens, got %lld", INT32_MAX, side,
                 (long long)*rows);
    return TRF_OK;
}

/* Checks one side: lengths (see above) and ids. The caller's ids hold no PAD, `bos` or EOS, since
   the library adds those. UNK is allowed, EOS with `eos`, all ids with `eos` 2, PAD as the mask. */
TRF__FN trf_status trf__check_side(const trf_config *c, const trf_sequences *x, int32_t vocab,
                                   int32_t bos, int eos, int extra, const char *side, int64_t *rows,
                                   int64_t *longest, trf_error *err)
{
    int64_t at = 0;
    TRF__TRY(trf__check_lengths(x, extra, c->max_length, side, rows, longest, err));
    for (int32_t i = 0; i < x->count; i++)
        for (int32_t k = 0; k < x->lengths[i]; k++, at++) {
            int32_t id = x->ids[at];
            if (eos && id == c->eos) continue;
            TRF__FAIL_IF(id < 0 || id >= vocab, TRF_E_INVALID_ARG, at, side,
                         "%s sequence %d, position %d: id must be 0 or more and below %d, got %d",
                         side, i, k, vocab, id);
            TRF__FAIL_IF(eos < 2 && ((id == c->pad && !(c->head == TRF_HEAD_MASKED &&
                         trf__mask_of(c) == id)) || id == bos || id == c->eos), TRF_E_INVALID_ARG,
                         at, side,
                         "%s sequence %d, position %d: the id must not be special, got %d; the "
                         "library adds BOS and EOS itself", side, i, k, id);
        }
    return TRF_OK;
}

/* Checks sources, which get `tags` ids besides BOS and EOS. With segments a source may have EOS,
   which ends one. */
TRF__FN trf_status trf__check_sources(const trf_config *c, const trf_sequences *x, int tags,
                                      int64_t *rows, int64_t *longest, trf_error *err)
{
    return trf__check_side(c, x, c->source_vocab, c->bos, c->segments > 0,
                           trf__source_added(c) + tags, "source", rows, longest, err);
}

/* Checks targets, or (begins 1) beginnings of targets; `side` is their name. A decoder-only model
   reads whatever ids a prompt has. */
TRF__FN trf_status trf__check_targets(const trf_config *c, const trf_sequences *x, int begins,
                                      const char *side, int64_t *rows, int64_t *longest,
                                      trf_error *err)
{
    int eos = begins && c->kind == TRF_DECODER_ONLY ? 2 : !c->target_eos;
    return trf__check_side(c, x, c->target_vocab, trf__bos_read_first(c), eos,
                           begins || c->target_eos, side, rows, longest, err);
}

/* Checks an option source_tagged. */
TRF__FN trf_status trf__check_tagged(const trf_config *c, int tagged, trf_error *err)
{
    return TRF__OK_IF(!tagged || c->kind == TRF_ENCODER_DECODER, TRF_E_INVALID_ARG, -1,
                      "source_tagged", "source_tagged needs an encoder-decoder model");
}

#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/vector.h"
#include "ops/beam.h"
#include "cpu/threads.h"
#include "model/checks.h"
#include "pass/packed.h"
#include "read/ensemble.h"

// -----------------------------------------------------------------------------------------------
// >>search         the options of a search, and the rules of other systems
//
// Systems differ in how they score, stop and cut a search. trf_search_set_rule sets those options
// as one of them does; all others are the caller's.
// -----------------------------------------------------------------------------------------------

enum { TRF__MAX_BANNED = 1 << 24 };

/* Checks sequences that a search must know: lengths, at most `most` ids together, and ids that are
   not negative. what: what one is called. */
TRF__FN trf_status trf__check_listed(const trf_sequences *x, const char *field, const char *what,
                                     int32_t most, trf_error *err)
{
    int64_t at = 0;
    int32_t k;
    if (x->count < 0) return trf__fail_below(err, field, 0, x->count);
    if (x->count > 0 && !x->lengths) return trf__fail_null(err, field);
    for (int32_t i = 0; i < x->count; i++, at += k) {
        TRF__FAIL_IF(x->lengths[i] < 1, TRF_E_INVALID_ARG, i, field,
                     "%s %d must have at least one id, got %d", what, (int)i, (int)x->lengths[i]);
        TRF__FAIL_IF(at + x->lengths[i] > most, TRF_E_LIMIT, i, field,
                     "%ss must have at most %d ids together", what, (int)most);
        if (!x->ids) return trf__fail_null(err, field);
        for (k = 0; k < x->lengths[i]; k++)
            TRF__FAIL_IF(x->ids[at + k] < 0, TRF_E_INVALID_ARG, at + k, field,
                         "%s %d, position %d: id must be 0 or more, got %d", what, (int)i, (int)k,
                         (int)x->ids[at + k]);
    }
    return TRF_OK;
}

/* Checks the ends of answers: their number, and ids that are not negative. */
TRF__FN trf_status trf__check_ends(const trf_ends *ends, trf_error *err)
{
    TRF__FAIL_IF(ends->n < 0 || ends->n > TRF_MAX_ENDS, TRF_E_INVALID_ARG, -1, "ends",
                 "ends.n must be in 0..%d, got %d", (int)TRF_MAX_ENDS, (int)ends->n);
    for (int32_t i = 0; i < ends->n; i++)
        if (ends->ids[i] < 0) return trf__fail_below(err, "ends", 0, ends->ids[i]);
    return TRF_OK;
}

TRF__FN trf_status trf__check_search(const trf_search *search, trf_error *err)
{
    TRF__TRY(trf__begin(search, "search", err));
    TRF__RANGE(search, beam, 1, TRF__MAX_BEAM);
    TRF__RANGE(search, n_best, 1, search->beam);
    TRF__RANGE(search, length_rule, 0, TRF_LENGTH_RULE_COUNT - 1);
    TRF__RANGE(search, alpha, 0, 10);
    TRF__RANGE(search, count_eos, 0, 1);
    TRF__RANGE(search, score_prefix, 0, 1);
    TRF__RANGE(search, count_prefix, 0, 1);
    TRF__RANGE(search, word_penalty, -1e6, 1e6);
    TRF__RANGE(search, candidates, 1, TRF__MAX_CANDIDATES);
    TRF__RANGE(search, eos_in_top_beam, 0, 1);
    TRF__RANGE(search, shrink, 0, 1);
    TRF__RANGE(search, stop, 0, TRF_BEAM_STOP_COUNT - 1);
    TRF__RANGE(search, at_limit, 0, TRF_AT_LIMIT_COUNT - 1);
    TRF__RANGE(search, min_length, 0, INT32_MAX);
    TRF__RANGE(search, renormalize_logits, 0, 1);
    TRF__RANGE(search, ban_unk, 0, 1);
    TRF__RANGE(search, max_length_a, 0, 1e6);
    TRF__RANGE(search, max_length_b, -1, INT32_MAX);
    TRF__RANGE(search, start, -1, INT32_MAX);
    TRF__RANGE(search, forced_first, -1, INT32_MAX);
    TRF__RANGE(search, source_first, -1, INT32_MAX);
    TRF__RANGE(search, source_last, -1, INT32_MAX);
    TRF__RANGE(search, source_tagged, 0, 1);
    TRF__RANGE(search, no_repeat_ngram, 0, INT32_MAX);
    TRF__RANGE(search, repetition_penalty, 1e-6, 1e6);
    TRF__RANGE(search, max_sentences, 0, INT32_MAX);
    TRF__RANGE(search, max_tokens, 1, INT32_MAX);
    TRF__RANGE(search, threads, 0, TRF__MAX_THREADS);
    if (search->max_length_a <= 0 && search->max_length_b == 0)      /* no answer had a token */
        return trf__fail_below(err, "max_length_b", 1, 0);
    TRF__TRY(trf__check_listed(&search->banned, "banned", "banned sequence", TRF__MAX_BANNED, err));
    TRF__TRY(trf__check_listed(&search->phrases, "phrases", "phrase", TRF__MAX_PHRASE_IDS, err));
    TRF__TRY(trf__check_ends(&search->ends, err));
    TRF__TRY(trf__check_ensemble(&search->ensemble, err));
    TRF__TRY(trf__check_product_weights(search->weights, err));
    return trf__hooks_check(&search->hooks, err);
}

// >>search-fits    what a search asks of the model

/* Checks one of the ids that begin or end sequences: an id of a vocabulary of `size` tokens. Except
   for forced_first it must not be special. */
TRF__FN trf_status trf__check_tag(const trf_config *c, const char *field, int32_t id, int32_t size,
                                  trf_error *err)
{
    int forced = !strcmp(field, "forced_first");
    if (id < 0) return TRF_OK;
    TRF__FAIL_IF(c->kind != TRF_ENCODER_DECODER, TRF_E_INVALID_ARG, -1, field,
                 "%s needs an encoder-decoder model; begin the prompt of a decoder-only model with "
                 "id %d instead", field, (int)id);
    TRF__FAIL_IF(id >= size, TRF_E_INVALID_ARG, -1, field,
                 "%s must be below the vocabulary's %d, got %d", field, (int)size, (int)id);
    TRF__FAIL_IF(id == c->eos || (!forced && (id == c->pad || id == c->bos)), TRF_E_INVALID_ARG, -1,
                 field, "%s must not be %s, got %d", field, forced ? "EOS" : "a special id",
                 (int)id);
    return TRF_OK;
}

/* An option that is about unk needs a model with one. */
TRF__FN trf_status trf__check_has_unk(const trf_config *c, int32_t value, const char *option,
                                      trf_error *err)
{
    return TRF__OK_IF(!value || c->unk >= 0, TRF_E_INVALID_ARG, -1, option,
                      "%s must be 0, because the model has no unk (unk is -1)", option);
}

/* Compares the ids of sequences with the vocabulary. trf__check_listed has accepted them. */
TRF__FN trf_status trf__check_listed_ids(const trf_config *c, const trf_sequences *x,
                                         const char *field, const char *what, trf_error *err)
{
    int64_t at = 0;
    for (int32_t i = 0; i < x->count; i++)
        for (int32_t k = 0; k < x->lengths[i]; k++, at++)
            TRF__FAIL_IF(x->ids[at] >= c->target_vocab, TRF_E_INVALID_ARG, at, field,
                         "%s %d, position %d: id must be below the vocabulary's %d, got %d", what,
                         (int)i, (int)k, (int)c->target_vocab, (int)x->ids[at]);
    return TRF_OK;
}

/* Checks banned ids, and the ends that may not be among them, against the model. */
TRF__FN trf_status trf__check_banned_ids(const trf_config *c, const trf_sequences *x,
                                         const trf_ends *ends, trf_error *err)
{
    int64_t at = 0;
    for (int32_t i = 0; i < ends->n; i++)
        TRF__FAIL_IF(ends->ids[i] >= c->target_vocab, TRF_E_INVALID_ARG, i, "ends",
                     "end %d must be below the vocabulary's %d, got %d", (int)i,
                     (int)c->target_vocab, (int)ends->ids[i]);
    TRF__TRY(trf__check_listed_ids(c, x, "banned", "banned sequence", err));
    for (int32_t i = 0; i < x->count; at += x->lengths[i++])
        TRF__FAIL_IF(x->lengths[i] == 1 && trf__is_end(c->eos, ends, x->ids[at]), TRF_E_INVALID_ARG,
                     at, "banned",
                     "banned sequence %d is %s alone: no answer could end; use min_length", (int)i,
                     x->ids[at] == c->eos ? "EOS" : "an end");
    return TRF_OK;
}

/* Checks phrases against the model: no id that a search never chooses, nor EOS. */
TRF__FN trf_status trf__check_phrases(const trf_config *c, const trf_search *s, trf_error *err)
{
    const trf_sequences *x = &s->phrases;
    int64_t at = 0;
    TRF__TRY(trf__check_listed_ids(c, x, "phrases", "phrase", err));
    for (int32_t i = 0; i < x->count; i++)
        for (int32_t k = 0; k < x->lengths[i]; k++, at++) {
            int32_t id = x->ids[at];
            TRF__FAIL_IF(id == c->pad || id == c->bos || trf__is_end(c->eos, &s->ends, id),
                         TRF_E_INVALID_ARG, at, "phrases",
                         "phrase %d, position %d: id must not be a special id, got %d", (int)i,
                         (int)k, (int)id);
            TRF__FAIL_IF(s->ban_unk && id == c->unk, TRF_E_INVALID_ARG, at, "phrases",
                         "phrase %d, position %d: ban_unk forbids unk, id %d", (int)i, (int)k,
                         (int)id);
        }
    return TRF_OK;
}

TRF_API trf_status trf_search_check(const trf_search *s, const trf_config *c, trf_error *err)
{
    TRF__TRY(trf__check_search(s, err));
    if (!c) return TRF_OK;
    TRF__TRY(trf__check_has_unk(c, s->ban_unk, "ban_unk", err));
    TRF__FAIL_IF(s->start >= c->target_vocab, TRF_E_INVALID_ARG, -1, "start",
                 "start must be below the vocabulary's %d, got %d", (int)c->target_vocab,
                 (int)s->start);
    TRF__TRY(trf__check_tag(c, "forced_first", s->forced_first, c->target_vocab, err));
    TRF__TRY(trf__check_tag(c, "source_first", s->source_first, c->source_vocab, err));
    TRF__TRY(trf__check_tag(c, "source_last", s->source_last, c->source_vocab, err));
    TRF__TRY(trf__check_tagged(c, s->source_tagged, err));
    TRF__TRY(trf__check_banned_ids(c, &s->banned, &s->ends, err));
    TRF__FAIL_IF(s->forced_first >= 0 && trf__is_listed(s->ends.ids, s->ends.n, s->forced_first),
                 TRF_E_INVALID_ARG, -1, "forced_first",
                 "forced_first must not be one of the ends, got %d", (int)s->forced_first);
    return trf__check_phrases(c, s, err);
}

/* The tests compare each rule with a plain program of its own. Differences that remain:
   - tensor2tensor stops for the batch as a whole; TRF_STOP_BOUND stops each sentence by itself.
   - fairseq drops answers that finish beyond `beam`. Its best answer is ours; further ranks may be
     better here.
   - CTranslate2 with alpha 0 stops when its best continuation is an EOS: set stop = TRF_STOP_BOUND
     for the same answer. In the step after a forced prefix it takes an EOS only if that is the best
     continuation; here min_length decides.
   - A prefix is what decoder_input_ids are in Hugging Face, which count neither in S nor in L. To
     count them, as prefix_allowed_tokens_fn does, set score_prefix and count_prefix. Its
     forced_eos_token_id is TRF_LIMIT_FREE_EOS. If rules ban all tokens of a row, it goes on with
     probability 0; here the row dies.
   - Marian never produces UNK: set ban_unk, which no rule sets. */
TRF_API void trf_search_set_rule(trf_search *search, trf_search_rule rule)
{
    int fairseq = rule == TRF_SEARCH_FAIRSEQ, ctranslate2 = rule == TRF_SEARCH_CTRANSLATE2;
    int marian = rule == TRF_SEARCH_MARIAN, raw = rule == TRF_SEARCH_RAW;
    int hugging_face = rule == TRF_SEARCH_HUGGING_FACE;
    int paper = !fairseq && !ctranslate2 && !marian && !raw && !hugging_face;
    if (!search) return;
    search->length_rule = paper ? TRF_LENGTH_GNMT : raw ? TRF_LENGTH_RAW : TRF_LENGTH_POWER;
    search->alpha = paper ? 0.6 : raw ? 0.0 : 1.0;
    search->count_eos = 1;
    search->score_prefix = !paper && !ctranslate2 && !hugging_face;
    search->count_prefix = !hugging_face;
    search->word_penalty = 0;
    search->candidates = marian || raw ? 1 : 2;
    search->eos_in_top_beam = !paper;
    search->shrink = marian;
    search->stop = paper ? TRF_STOP_BOUND : marian ? TRF_STOP_NONE_ALIVE
                 : hugging_face ? TRF_STOP_HEURISTIC : TRF_STOP_FINISHED;
    search->at_limit = fairseq ? TRF_LIMIT_FORCE_EOS : paper || raw ? TRF_LIMIT_FALL_BACK
        : TRF_LIMIT_KEEP_LIVE;
    search->min_length = fairseq || ctranslate2;
    search->renormalize_logits = ctranslate2;
    search->ensemble.rule = marian ? TRF_ENSEMBLE_GEOMETRIC : TRF_ENSEMBLE_ARITHMETIC;
}

TRF_API trf_search trf_search_defaults(void)
{
    TRF__ZEROED(trf_search, search);
    search.beam = 4;
    search.n_best = 1;
    trf_search_set_rule(&search, TRF_SEARCH_PAPER);
    search.max_length_a = 2.0;
    search.max_length_b = -1;
    search.start = search.forced_first = search.source_first = search.source_last = -1;
    search.repetition_penalty = 1;
    search.max_sentences = 32;
    search.max_tokens = 4096;
    return search;
}

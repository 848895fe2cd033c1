#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/model.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "system/text.h"
#include "model/texts.h"

// >>languages      the tokens that stand for languages
//
// A model of many languages is told them by tokens: the first or last of the source, the first of
// the answer, or another start. Its metadata say which, so that a code is enough.

TRF__FN trf_status trf__fail_language(const char *side, const char *code, const char *codes,
                                      trf_error *err)
{
    TRF__FAIL_IF(code, TRF_E_INVALID_ARG, -1, side,
                 "unknown language '%.40s': the model has %.150s", code, codes);
    return trf__fail(err, TRF_E_INVALID_ARG, -1, side, "expected one of the languages %.150s",
                     codes);
}

/* Sets the field of one side. A start token that answers begin with anyway may be no text, and then
   has no id of its own. */
TRF__FN trf_status trf__search_language(trf_search *search, const trf_model *model, int target,
                                        const char *given, trf_error *err)
{
    const char *side = target ? "target" : "source", *code = given;
    const char *rule = trf_model_metadata(model, target ? "target.tag" : "source.tag");
    const char *codes = trf_model_metadata(model, "languages");
    int32_t *const fields[] = {&search->source_first, &search->source_last, &search->forced_first,
                               &search->start};
    static const char *const names[] = {"source-first ", "source-last ", "forced-first ", "start "};
    int32_t *field = NULL;
    for (int i = 0; rule && i < 4; i++)
        if (!strncmp(rule, names[i], strlen(names[i]))) field = fields[i];
    int answers = field == &search->forced_first || field == &search->start;
    const trf_vocab *vocab = trf_model_vocab(model, answers ? TRF_TARGET : TRF_SOURCE);
    char text[128];
    const char *token = rule ? strchr(rule, ' ') : NULL;
    const char *star = token ? strchr(token, '*') : NULL;
    if (!field || !codes || !star || !vocab) {
        return TRF__OK_IF(!given, TRF_E_UNSUPPORTED, -1, side,
                          "the model has no tokens for the languages of its %ss", side);
    }
    if (*field >= 0) return TRF_OK;
    if (!code && !(target && field == &search->source_first))
        code = trf_model_metadata(model, target ? "target.language" : "source.language");
    if (!code && target && field != &search->forced_first) return TRF_OK;
    if (!code) return trf__fail_language(side, NULL, codes, err);
    snprintf(text, sizeof text, "%.*s%.60s%s", (int)trf__min64(star - token - 1, 30), token + 1,
             code, star + 1);
    if (field == &search->start && trf_vocab_special(vocab, TRF_SPECIAL_BOS) >= 0 &&
        !strcmp(trf_vocab_token(vocab, trf_vocab_special(vocab, TRF_SPECIAL_BOS)), text))
        return TRF_OK;
    if (trf_vocab_id(vocab, text) == trf_vocab_special(vocab, TRF_SPECIAL_UNK))
        return trf__fail_language(side, code, codes, err);
    *field = trf_vocab_id(vocab, text);
    return TRF_OK;
}

TRF_API trf_status trf_model_ends(const trf_model *model, trf_ends *ends, trf_error *err)
{
    const char *text;
    TRF__TRY(trf__begin(ends, "ends", err));
    TRF__ZERO(*ends);
    if (!model) return trf__fail_null(err, "model");
    TRF__ZEROED(trf_ends, found);
    for (text = trf_model_metadata(model, "target.ends"); text; text = strchr(text, ' ')) {
        size_t n = strcspn(text += *text == ' ', " ");
        int64_t id = -1;
        char number[16];
        snprintf(number, sizeof number, "%.*s", (int)(n < 15 ? n : 15), text);
        TRF__FAIL_IF(!trf__parse_int(number, &id) || id < 0 ||
                     id >= trf_model_config(model)->target_vocab || found.n == TRF_MAX_ENDS,
                     TRF_E_FORMAT, found.n, "target.ends",
                     "expected 1 to %d ids in the metadata \"target.ends\", got \"%.60s\"",
                     (int)TRF_MAX_ENDS, trf_model_metadata(model, "target.ends"));
        found.ids[found.n++] = (int32_t)id;
    }
    *ends = found;
    return TRF_OK;
}

TRF_API trf_status trf_search_languages(trf_search *search, const trf_model *model,
                                        const char *source, const char *target, trf_error *err)
{
    TRF__TRY(trf__begin(search, "search", err));
    if (!model) return trf__fail_null(err, "model");
    trf_search found = *search;
    TRF__TRY(trf__search_language(&found, model, 0, source, err));
    TRF__TRY(trf__search_language(&found, model, 1, target, err));
    const char *first = trf_model_metadata(model, "target.first");
    if (first && found.forced_first < 0 && trf_model_config(model)->kind == TRF_ENCODER_DECODER) {
        int64_t id = -1;
        TRF__FAIL_IF(!trf__parse_int(first, &id) || id < 0 ||
                     id >= trf_model_config(model)->target_vocab, TRF_E_FORMAT, -1, "target.first",
                     "expected an id in the metadata \"target.first\", got \"%.60s\"", first);
        found.forced_first = (int32_t)id;
    }
    if (found.ends.n == 0) TRF__TRY(trf_model_ends(model, &found.ends, err));
    found.source_tagged = found.source_last >= 0;
    *search = found;
    return TRF_OK;
}

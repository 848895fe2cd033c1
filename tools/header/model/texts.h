#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/model.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/vocab_use.h"
#include "model/checks.h"
#include "model/model.h"

// >>model-texts    vocabularies and metadata

TRF__FN trf_status trf__check_vocab_size(const trf_vocab *vocab, int32_t size, const char *field,
                                         trf_error *err)
{
    return TRF__OK_IF(!vocab || trf_vocab_size(vocab) == size, TRF_E_SHAPE, -1, field,
                      "the configuration has %s = %d, but the vocabulary has %d tokens", field,
                      size, trf_vocab_size(vocab));
}

/* A model with a vocabulary has its special ids. cls may be bos, and sep may be eos. */
TRF__FN trf_status trf__vocab_ids(const trf_config *c, const trf_vocab *v, trf_error *err)
{
    static const char *const names[4] = {"pad", "bos", "eos", "unk"};
    static const trf_special others[4] = {TRF_SPECIAL_PAD, TRF_SPECIAL_CLS, TRF_SPECIAL_SEP,
                                          TRF_SPECIAL_UNK};
    const int32_t ids[4] = {c->pad, c->bos, c->eos, c->unk};
    int32_t has[4];
    for (int i = 0; v && i < 4; i++) {
        has[i] = trf_vocab_special(v, (trf_special)i);
        if (has[i] < 0) has[i] = trf_vocab_special(v, others[i]);
    }
    for (int i = 0; v && i < 4; i++)
        TRF__FAIL_IF(has[i] != ids[i], TRF_E_SHAPE, -1, names[i],
                     "the vocabulary has pad, bos, eos, unk at %d, %d, %d, %d; the configuration "
                     "has %d, %d, %d, %d", has[0], has[1], has[2], has[3], ids[0], ids[1], ids[2],
                     ids[3]);
    return TRF_OK;
}

/* Makes the new copies before it frees the old ones, so a failure changes nothing. */
TRF_API trf_status trf_model_set_vocabs(trf_model *model, const trf_vocab *source,
                                        const trf_vocab *target, trf_error *err)
{
    trf_vocab *new_source = NULL, *new_target = NULL;
    trf_status status;
    TRF__TRY(trf__begin(model, "model", err));
    const trf_config *c = &model->config;
    if (source && trf__has_source(c))
        TRF__TRY(trf__check_vocab_size(source, c->source_vocab, "source_vocab", err));
    if (target && trf__has_target(c))
        TRF__TRY(trf__check_vocab_size(target, c->target_vocab, "target_vocab", err));
    TRF__TRY(trf__vocab_ids(c, source, err));
    TRF__TRY(trf__vocab_ids(c, target, err));
    if (source && (status = trf_vocab_copy(&new_source, source, &c->hooks, err)) != TRF_OK)
        return status;
    if (target && (status = trf_vocab_copy(&new_target, target, &c->hooks, err)) != TRF_OK) {
        trf_vocab_destroy(new_source);
        return status;
    }
    trf_vocab_destroy(model->source);
    trf_vocab_destroy(model->target);
    model->source = new_source;
    model->target = new_target;
    return TRF_OK;
}

/* Copies of a sorted list of texts become the model's. */
TRF__FN trf_status trf__metadata_keep(trf_model *model, const trf__meta *list, int32_t n,
                                      trf_error *err)
{
    size_t bytes = trf__bytes(n, sizeof *list);
    trf__meta *own = NULL;
    for (int32_t i = 0; i < n; i++) bytes += strlen(list[i].key) + strlen(list[i].value) + 2;
    if (n > 0) own = (trf__meta *)trf__alloc(&model->config.hooks, bytes);
    TRF__FAIL_IF(n > 0 && !own, TRF_E_NOMEM, -1, "metadata", "no memory for %d metadata entries",
                 (int)n);
    char *to = own ? (char *)(own + n) : NULL;
    for (int32_t i = 0; i < n; i++) {
        size_t key = strlen(list[i].key) + 1, value = strlen(list[i].value) + 1;
        own[i].key = (char *)memcpy(to, list[i].key, key);
        own[i].value = (char *)memcpy(to + key, list[i].value, value);
        to += key + value;
    }
    trf__free(&model->config.hooks, model->metadata, model->metadata_bytes);
    model->metadata = own;
    model->metadata_bytes = bytes;
    model->n_metadata = n;
    return TRF_OK;
}

/* Keys that the library writes itself. Programs for PyTorch look for "format": "pt". */
TRF__FN int trf__our_key(const char *key)
{
    return !strncmp(key, "trf.", 4) || !strcmp(key, "format");
}

/* Accepts what a safetensors header can hold, but no key of the library. */
TRF__FN trf_status trf__metadata_check(const char *key, const char *value, trf_error *err)
{
    if (!key) return trf__fail_null(err, "key");
    TRF__TRY(trf__check_utf8(key, "key", err));
    TRF__FAIL_IF(!*key || strlen(key) > TRF__META_KEY, TRF_E_INVALID_ARG, -1, "key",
                 "a key must have 1 to %d bytes, got %llu", (int)TRF__META_KEY,
                 (unsigned long long)strlen(key));
    TRF__FAIL_IF(trf__our_key(key), TRF_E_INVALID_ARG, -1, "key",
                 "the key %s is reserved for the library", key);
    return value ? trf__check_utf8(value, "value", err) : TRF_OK;
}

/* The texts are one block in the order of their keys; a change makes a new block, so a failure
   changes nothing. */
TRF_API trf_status trf_model_set_metadata(trf_model *model, const char *key, const char *value,
                                          trf_error *err)
{
    trf__meta *list;
    size_t texts = 0;
    int32_t i, n = 0;
    trf_status status;
    TRF__TRY(trf__begin(model, "model", err));
    TRF__TRY(trf__metadata_check(key, value, err));
    size_t bytes = trf__bytes((int64_t)model->n_metadata + 1, sizeof *list);
    list = (trf__meta *)trf__alloc(&model->config.hooks, bytes);
    TRF__FAIL_IF(!list, TRF_E_NOMEM, -1, "metadata", "no memory for one more metadata entry");
    for (i = 0; i < model->n_metadata && strcmp(model->metadata[i].key, key) < 0; i++)
        list[n++] = model->metadata[i];
    int32_t had = i < model->n_metadata && !strcmp(model->metadata[i].key, key);
    if (value) {
        list[n].key = key;
        list[n++].value = value;
    }
    for (i += had; i < model->n_metadata; i++) list[n++] = model->metadata[i];
    for (i = 0; i < n; i++) texts += strlen(list[i].key) + strlen(list[i].value);
    if (value && (texts > TRF__META_BYTES || n > TRF__META_MOST))
        status = trf__fail(err, TRF_E_LIMIT, -1, "metadata",
                           "the metadata would be %d entries with %llu bytes in all; the limits "
                           "are %d and %d", (int)n, (unsigned long long)texts, (int)TRF__META_MOST,
                           (int)TRF__META_BYTES);
    else status = trf__metadata_keep(model, list, n, err);
    trf__free(&model->config.hooks, list, bytes);
    return status;
}

TRF_API int trf_model_metadata_at(const trf_model *model, int32_t index, const char **key,
                                  const char **value)
{
    int inside = model && index >= 0 && index < model->n_metadata;
    if (key) *key = inside ? model->metadata[index].key : NULL;
    if (value) *value = inside ? model->metadata[index].value : NULL;
    return inside;
}

TRF_API const char *trf_model_metadata(const trf_model *model, const char *key)
{
    for (int32_t i = 0; model && key && i < model->n_metadata; i++)
        if (!strcmp(model->metadata[i].key, key)) return model->metadata[i].value;
    return NULL;
}

/* Labels are lines of the metadata, so that a file needs no other format for them. */
TRF_API trf_status trf_model_label(const trf_model *model, int32_t i, char *text, size_t size,
                                   size_t *bytes, trf_error *err)
{
    size_t written;
    if (bytes) *bytes = 0;
    if (text && size > 0) *text = 0;
    TRF__TRY(trf__begin(model, "model", err));
    if (!text && size > 0) return trf__fail_null(err, "text");
    const char *line = trf_model_metadata(model, "labels");
    for (int32_t k = 0; line && k < i; k++) {
        line = strchr(line, '\n');
        if (line) line++;
    }
    TRF__FAIL_IF(!line || !*line || i < 0, TRF_E_STATE, i, "labels", "there is no label %d",
                 (int)i);
    size_t n = strcspn(line, "\n");
    if (bytes) *bytes = n;
    if (n < size) {
        memcpy(text, line, n);
        text[n] = 0;
        return TRF_OK;
    }
    /* no character is cut in two */
    for (written = size > 0 ? size - 1 : 0; written > 0 && (line[written] & 0xC0) == 0x80; )
        written--;
    if (size > 0) { memcpy(text, line, written); text[written] = 0; }
    return trf__fail(err, TRF_E_LIMIT, (int64_t)size, "size",
                     "expected room for %llu bytes, got %llu", (unsigned long long)n + 1,
                     (unsigned long long)size);
}

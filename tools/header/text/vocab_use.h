#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/vocab.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/pieces.h"
#include "text/pieces_cut.h"
#include "text/bpe.h"
#include "text/pieces_text.h"
#include "text/wordpiece.h"
#include "text/byte_bpe.h"
#include "text/byte_bpe_text.h"

// -----------------------------------------------------------------------------------------------
// >>vocab-use      tokens, ids and texts: what serves vocabularies of every kind
//
// The public functions. trf__encode_text and trf_vocab_decode serve tokens and pieces alike. Token
// i of the array has the id i + trf__first_id, unless a map says otherwise.
// -----------------------------------------------------------------------------------------------

TRF__FN int32_t trf__first_id(const trf_vocab *v)
{
    return v->wordpiece || v->byte_bpe ? 0 : (int32_t)TRF__SPECIALS;
}

/* Whether a token is special although the library does not number it. */
TRF__FN int trf__special_token(const trf_vocab *v, int32_t number)
{
    if (v->byte_bpe) return v->tokens[number].count == TRF_BPE_SPECIAL;
    return v->wordpiece && trf__wordpiece_special(v, number);
}

/* Whether the ids are those of a map (>>pieces-map). */
TRF__FN int trf__is_mapped(const trf_vocab *v) { return v->pieces && v->pieces->tokens; }

TRF_API int32_t trf_vocab_special(const trf_vocab *vocab, trf_special which)
{
    if (!vocab || (uint32_t)which >= TRF_SPECIAL_COUNT) return -1;
    return vocab->special[which];
}

TRF_API int32_t trf_vocab_size(const trf_vocab *vocab)
{
    if (!vocab) return 0;
    if (trf__is_mapped(vocab)) return vocab->pieces->size;
    return vocab->finished ? (int32_t)vocab->n_tokens + trf__first_id(vocab)
                           : (int32_t)TRF__SPECIALS;
}

TRF_API trf_token_kind trf_vocab_kind(const trf_vocab *vocab)
{
    return vocab ? vocab->kind : TRF_WORDS;
}

TRF_API const char *trf_vocab_token(const trf_vocab *vocab, int32_t id)
{
    if (id < 0 || id >= trf_vocab_size(vocab)) return NULL;
    if (trf__is_mapped(vocab)) {
        int32_t token = vocab->pieces->tokens[id];
        return token < 0 ? "" : vocab->bytes + vocab->tokens[token].begin;
    }
    return id < trf__first_id(vocab) ? trf__special_text(id) : vocab->bytes +
        vocab->tokens[id - trf__first_id(vocab)].begin;
}

TRF_API int32_t trf_vocab_id(const trf_vocab *vocab, const char *token)
{
    int32_t number = -1;
    size_t length = token ? strlen(token) : 0;
    if (vocab && trf__is_mapped(vocab)) {
        number = trf__id_of_text(vocab, token, length, trf__hash_bytes(token, length));
        return number < 0 ? vocab->special[TRF_SPECIAL_UNK] : number;
    }
    if (vocab && vocab->finished)
        number = trf__vocab_find(vocab, token, length, trf__hash_bytes(token, length));
    if (number < 0 || trf__special_token(vocab, number))
        return vocab ? trf_vocab_special(vocab, TRF_SPECIAL_UNK) : (int32_t)TRF__UNK;
    return number + trf__first_id(vocab);
}

/* The longest symbol with which a text of characters begins, or -1; *length: its bytes. */
TRF__FN int32_t trf__symbol_at(const trf_vocab *v, const char *text, size_t *length)
{
    uint64_t hash = TRF__HASH_START;
    int32_t best = -1, found;
    size_t n;
    for (n = 1; n <= (size_t)v->longest_symbol && text[n - 1]; n++) {
        hash = trf__hash_more(hash, text + n - 1, 1);
        found = trf__vocab_find(v, text, n, trf__hash_end(hash));
        if (found >= 0) { best = found; *length = n; }
    }
    return best;
}

/* Gives the ids of a text: all are counted, as many as fit are stored. */
TRF__FN trf_status trf__encode_text(const trf_vocab *vocab, const char *text, trf__ids *to,
                                    trf_error *err)
{
    const char *at = text, *token;
    size_t length;
    if (!text) return trf__fail_null(err, "text");
    if (!vocab->finished) return trf__fail_learning(err);
    if (vocab->pieces) return trf__pieces_encode(vocab, text, to, err);
    if (vocab->wordpiece) return trf__wordpiece_encode(vocab, text, to, err);
    if (vocab->byte_bpe) return trf__byte_bpe_encode(vocab, text, to, err);
    TRF__TRY(trf__check_utf8(text, "text", err));
    while ((length = trf__next_token(vocab->kind, &at, &token)) > 0) {
        int32_t number = vocab->longest_symbol ? trf__symbol_at(vocab, token, &length) : -1;
        if (number < 0)
            number = trf__vocab_find(vocab, token, length, trf__hash_bytes(token, length));
        at = token + length;
        trf__give_id(to, number < 0 ? (int32_t)TRF__UNK : number + TRF__SPECIALS, number < 0);
    }
    return TRF_OK;
}

/* *n stops at INT32_MAX if a text has more tokens. */
TRF__FN trf_status trf__vocab_encode(const trf_vocab *vocab, const char *text, int special,
                                  int32_t *ids, int32_t capacity, int32_t *n, trf_error *err)
{
    trf__ids to;
    TRF__ZERO(to);
    if (n) *n = 0;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!text) return trf__fail_null(err, "text");
    if (capacity < 0) return trf__fail_below(err, "capacity", 0, capacity);
    if (!ids && capacity > 0) return trf__fail_null(err, "ids");
    if (!n) return trf__fail_null(err, "n");
    to.ids = ids;
    to.capacity = capacity;
    if (special && vocab->kind != TRF_BYTE_BPE)
        return trf__fail(err, TRF_E_UNSUPPORTED, -1, "vocab",
                         "only byte-level BPE reads texts of special tokens as these tokens");
    TRF__TRY(special ? trf__byte_bpe_special(vocab, text, &to, err)
                     : trf__encode_text(vocab, text, &to, err));
    *n = (int32_t)trf__min64(to.n, INT32_MAX);
    if (to.n > capacity)
        return trf__fail(err, TRF_E_LIMIT, capacity, "capacity",
                         "expected room for %d ids, got room for %d", (int)*n, (int)capacity);
    return TRF_OK;
}

TRF_API trf_status trf_vocab_encode(const trf_vocab *vocab, const char *text, int32_t *ids,
                                    int32_t capacity, int32_t *n, trf_error *err)
{
    return trf__vocab_encode(vocab, text, 0, ids, capacity, n, err);
}

TRF_API trf_status trf_vocab_encode_special(const trf_vocab *vocab, const char *text, int32_t *ids,
                                            int32_t capacity, int32_t *n, trf_error *err)
{
    return trf__vocab_encode(vocab, text, 1, ids, capacity, n, err);
}

TRF_API trf_status trf_vocab_count_unknown(const trf_vocab *vocab, const char *text,
                                           int32_t *unknown, int32_t *n, trf_error *err)
{
    trf__ids to;
    TRF__ZERO(to);
    if (n) *n = 0;
    if (unknown) *unknown = 0;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!unknown) return trf__fail_null(err, "unknown");
    TRF__TRY(trf__encode_text(vocab, text, &to, err));
    *unknown = (int32_t)trf__min64(to.n_unknown, INT32_MAX);
    if (n) *n = (int32_t)trf__min64(to.n, INT32_MAX);
    return TRF_OK;
}

/* An array of ids that grows to the length of a text. */
typedef struct trf__text_ids { int32_t *ids; int64_t capacity; int32_t n; } trf__text_ids;

TRF__FN trf_status trf__encode_all(const trf_vocab *vocab, const char *text, trf__text_ids *to,
                                   const trf_hooks *hooks, trf_error *err)
{
    trf_status status;
    TRF__GROW(int32_t, to->ids, to->capacity, 1, hooks);
    status = trf_vocab_encode(vocab, text, to->ids, (int32_t)trf__min64(to->capacity, INT32_MAX),
                              &to->n, err);
    /* too small: the call has set n to the number needed */
    if (status != TRF_E_LIMIT || to->n <= to->capacity) return status;
    TRF__GROW(int32_t, to->ids, to->capacity, to->n, hooks);
    return trf_vocab_encode(vocab, text, to->ids, (int32_t)trf__min64(to->capacity, INT32_MAX),
                            &to->n, err);
}

TRF_API trf_status trf_vocab_decode(const trf_vocab *vocab, const int32_t *ids, int32_t n,
                                    char *text, size_t size, size_t *bytes, trf_error *err)
{
    trf__answer to;
    int32_t i;
    if (text && size > 0) text[0] = 0;
    if (bytes) *bytes = 0;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    if (!ids && n > 0) return trf__fail_null(err, "ids");
    if (!text && size > 0) return trf__fail_null(err, "text");
    if (!vocab->finished) return trf__fail_learning(err);
    /* ids are checked before anything is written */
    for (i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= trf_vocab_size(vocab))
            return trf__fail(err, TRF_E_INVALID_ARG, i, "ids",
                             "expected ids from 0 to %d, got %d at position %d",
                             (int)trf_vocab_size(vocab) - 1, (int)ids[i], (int)i);
    TRF__ZERO(to);
    to.text = text;
    to.size = size;
    to.cut = -1;
    if (vocab->pieces) trf__pieces_decode(vocab, ids, n, &to);
    if (vocab->wordpiece) trf__wordpiece_decode(vocab, ids, n, &to);
    if (vocab->byte_bpe) trf__byte_bpe_decode(vocab, ids, n, &to);
    for (i = 0; !trf__is_subwords(vocab->kind) && i < n; i++) {
        const char *token = trf_vocab_token(vocab, ids[i]);
        if (ids[i] < TRF__UNK) continue;
        trf__answer_add(&to, i, vocab->kind == TRF_WORDS && to.whole > 0, token, strlen(token), 0);
    }
    /* whole tokens up to the limit, and always a NUL */
    if (size > 0) text[to.written] = 0;
    if (bytes) *bytes = to.whole;
    if (to.whole >= size)
        return trf__fail(err, TRF_E_LIMIT, to.cut < 0 ? 0 : to.cut, "size",
                         "expected room for %llu bytes, got %llu",
                         (unsigned long long)trf__add_size(to.whole, 1), (unsigned long long)size);
    return TRF_OK;
}

/* What an id writes behind others, before bytes join into characters: the length is returned, and
   the text is written to `to`, unless that is NULL. */
TRF__FN size_t trf__token_text(const trf_vocab *v, int32_t id, char *to)
{
    const char *token = trf_vocab_token(v, id);
    int32_t type = v->pieces ? trf__type_of(v->pieces, trf__token_of(v, id)) : 0;
    int unknown = id == v->special[TRF_SPECIAL_UNK] || type == TRF__PIECE_UNKNOWN, blank = 0, n;
    trf__answer text;
    TRF__ZERO(text);
    text.text = to;
    text.size = to ? SIZE_MAX : 0;
    text.cut = -1;
    if (v->pieces && unknown) trf__answer_add(&text, 0, 0, v->pieces->unknown,
                                              v->pieces->n_unknown, 0);
    else if (type >= TRF__PIECE_BYTE) {
        if (to) *to = (char)(unsigned char)(type - TRF__PIECE_BYTE);
        return 1;
    } else if (v->pieces) {
        if (type != TRF__PIECE_CONTROL) trf__answer_add(&text, 0, 0, token, strlen(token), 1);
    } else if (v->byte_bpe) {
        int spelled = trf__is_spelling(token);
        for (; *token && v->tokens[id].count != TRF_BPE_SPECIAL; token += n) {
            n = 1;
            if (to) to[text.whole] = spelled ? (char)(unsigned char)trf__spelled_byte(token, &n)
                : *token;
            else if (spelled) (void)trf__spelled_byte(token, &n);
            text.whole++;
        }
    } else if (v->wordpiece ? unknown || !trf__wordpiece_special(v, id) : id >= TRF__UNK) {
        int goes_on = v->wordpiece && !strncmp(token, "##", 2);
        if (v->wordpiece) blank = !(v->wordpiece->cleanup && trf__word_joins(token));
        else blank = v->kind == TRF_WORDS;
        trf__answer_add(&text, 0, blank && !goes_on, token + 2 * goes_on,
                        strlen(token) - 2 * (size_t)goes_on, 0);
    }
    return text.whole;
}

// >>vocab-bytes    tokens added later; the stored bytes
//
// Bytes from a file may be hostile. Every token passes the checks of trf_vocab_add.
/* The reason why a token from a file or a caller cannot be added, or NULL. */
TRF__FN const char *trf__token_fault(const trf_vocab *v, const char *token, size_t length)
{
    size_t i;
    if (!length) return "expected a token, got an empty one";
    if (length > TRF__MAX_TOKEN_BYTES) return "expected a token of at most 1 MiB, got a longer one";
    if (trf_find_invalid_utf8(token, length) >= 0) return "expected UTF-8, got something else";
    if (v->kind == TRF_CHARACTERS && length > TRF__MAX_SYMBOL_BYTES)
        return "expected a character, or a symbol of at most 256 bytes, got a longer one";
    for (i = 0; v->kind == TRF_WORDS && i < length; i++)
        if (trf__is_blank(token[i])) return "expected a word, got a token with a blank";
    if (trf__is_special(token, length)) return "expected a token, got the text of a special one";
    if (trf__vocab_find(v, token, length, trf__hash_bytes(token, length)) >= 0)
        return "expected every token once, got one twice";
    return NULL;
}

/* Appends a token without a fault. One of several characters is a symbol of their vocabulary. */
TRF__FN trf_status trf__vocab_append(trf_vocab *v, const char *token, size_t length, trf_error *err)
{
    TRF__TRY(trf__vocab_insert(v, token, length, trf__hash_bytes(token, length), 0, err));
    if (v->kind == TRF_CHARACTERS && (size_t)trf__utf8_at(token, length) != length &&
        (int32_t)length > v->longest_symbol) v->longest_symbol = (int32_t)length;
    return TRF_OK;
}

TRF_API trf_status trf_vocab_add(trf_vocab *vocab, const char *token, trf_error *err)
{
    const char *fault;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!token) return trf__fail_null(err, "token");
    if (!vocab->finished) return trf__fail_learning(err);
    if (trf__is_subwords(vocab->kind))
        return trf__fail(err, TRF_E_UNSUPPORTED, -1, "vocab",
                         "tokens cannot be added to a vocabulary of subwords");
    fault = trf__token_fault(vocab, token, strlen(token));
    if (fault) return trf__fail(err, TRF_E_INVALID_ARG, -1, "token", "%s", fault);
    return trf__vocab_append(vocab, token, strlen(token), err);
}

/* The bytes that files store of a finished vocabulary. */
TRF__FN const char *trf__vocab_bytes(const trf_vocab *v)
{
    return v->stored ? v->stored : v->bytes;
}
TRF__FN int64_t trf__vocab_n_bytes(const trf_vocab *v)
{
    return v->stored ? v->n_stored : v->n_bytes;
}

/* Inserts the tokens that end within n bytes, which begin at offset `at` of the stored bytes. *used
   counts the bytes of these tokens. The rest begins a token that the next bytes complete. */
TRF__FN trf_status trf__vocab_insert_stored(trf_vocab *v, const char *bytes, int64_t n, int64_t at,
                                            int64_t *used, trf_error *err)
{
    const char *token, *end, *fault;
    for (*used = 0; *used < n; *used += end - token + 1) {
        token = bytes + *used;
        end = (const char *)memchr(token, 0, (size_t)(n - *used));
        if (!end && *used) return TRF_OK;
        fault = end ? trf__token_fault(v, token, (size_t)(end - token))
                    : "expected a NUL after the token, got the end or more than 1 MiB";
        if (fault)
            return trf__fail(err, TRF_E_FORMAT, at + *used, "vocabulary",
                             "id %lld of the vocabulary, byte %lld: %s",
                             (long long)v->n_tokens + TRF__SPECIALS, (long long)(at + *used),
                             fault);
        TRF__TRY(trf__vocab_append(v, token, (size_t)(end - token), err));
    }
    return TRF_OK;
}

/* A finished vocabulary from its stored bytes. */
TRF__FN trf_status trf__vocab_from_bytes(trf_vocab **v, trf_token_kind kind, const char *bytes,
                                         int64_t n, const trf_hooks *hooks, trf_error *err)
{
    trf_vocab *made = NULL;
    int64_t at, used = 0;
    trf_status status;
    *v = NULL;
    if (kind == TRF_SENTENCEPIECE)
        return trf__vocab_from_sentencepiece(v, bytes, (size_t)n, hooks, err);
    if (kind == TRF_WORDPIECE) return trf__vocab_from_wordpiece(v, bytes, (size_t)n, hooks, err);
    if (kind == TRF_BYTE_BPE) return trf__vocab_from_byte_bpe(v, bytes, (size_t)n, hooks, err);
    status = trf_vocab_create(&made, kind, hooks, err);
    for (at = 0; !status && at < n; at += used)
        status = trf__vocab_insert_stored(made, bytes + at, n - at, at, &used, err);
    return trf__vocab_finished(v, made, status);
}

TRF__COLD
TRF_API trf_status trf_vocab_from_bytes(trf_vocab **vocab, const void *file, size_t bytes,
                                        const trf_piece_ids *ids, const trf_hooks *hooks,
                                        trf_error *err)
{
    const int tells = file && bytes >= 8;
    const int words = tells && !memcmp(file, "TRFWP\0\0", 7);
    if (!words && !(tells && !memcmp(file, "TRFBP\0\0", 7)))
        return ids ? trf__vocab_from_pieces(vocab, file, bytes, ids, hooks, err)
                   : trf__vocab_from_sentencepiece(vocab, file, bytes, hooks, err);
    TRF__TRY(trf__begin(vocab, "vocab", err));
    *vocab = NULL;
    if (ids)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "ids",
                         "ids belong to a file of SentencePiece, and this file has its own");
    return words ? trf__vocab_from_wordpiece(vocab, file, bytes, hooks, err)
                 : trf__vocab_from_byte_bpe(vocab, file, bytes, hooks, err);
}

TRF__COLD
TRF_API trf_status trf_vocab_load(trf_vocab **vocab, const char *path, const trf_piece_ids *ids,
                                  const trf_hooks *hooks, trf_error *err)
{
    trf_hooks none;
    trf_status status;
    char *bytes;
    size_t n;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    *vocab = NULL;
    if (!path) return trf__fail_null(err, "path");
    TRF__ZERO(none);
    if (!hooks) hooks = &none;
    TRF__TRY(trf__hooks_check(hooks, err));
    status = trf__read_text(path, &bytes, &n, hooks, err);
    if (status == TRF_OK) {
        status = trf_vocab_from_bytes(vocab, bytes, n, ids, hooks, err);
        trf__free(hooks, bytes, n + 1);
    }
    return trf__name_file(status, path, err);
}

TRF__COLD
TRF_API trf_status trf_vocab_copy(trf_vocab **copy, const trf_vocab *vocab, const trf_hooks *hooks,
                                  trf_error *err)
{
    TRF__TRY(trf__begin(copy, "copy", err));
    *copy = NULL;
    if (!vocab) return trf__fail_null(err, "vocab");
    if (!vocab->finished) return trf__fail_learning(err);
    return trf__vocab_from_bytes(copy, vocab->kind, trf__vocab_bytes(vocab),
                                 trf__vocab_n_bytes(vocab), hooks, err);
}

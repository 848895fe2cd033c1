#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/vocab.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "system/files.h"
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
// The public functions, which choose among the kinds by the table trf__kinds. Token i of the array
// has the id i + trf__first_id, unless a map says otherwise.
// -----------------------------------------------------------------------------------------------

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
    int32_t number = trf__token_of(vocab, id);
    if (number >= 0) return vocab->bytes + vocab->tokens[number].begin;
    return trf__is_mapped(vocab) ? "" : trf__special_texts[id];
}

TRF_API int32_t trf_vocab_id(const trf_vocab *vocab, const char *token)
{
    size_t length = token ? strlen(token) : 0;
    int32_t id = -1;
    if (!vocab) return -1;
    if (vocab->pieces) id = trf__id_of_text(vocab, token, length);
    else if (vocab->finished) {
        id = trf__vocab_number(vocab, token, length);
        if (id >= 0) id = trf__special_token(vocab, id) ? -1 : id + trf__first_id(vocab);
    }
    return id < 0 ? vocab->special[TRF_SPECIAL_UNK] : id;
}

/* Gives the ids of words or characters. Of symbols that begin at one place the longest counts. */
TRF__FN trf_status trf__words_encode(const trf_vocab *v, const char *text, trf__ids *to,
                                     trf_error *err)
{
    const char *at = text, *token;
    size_t length, symbol;
    TRF__TRY(trf__check_utf8(text, "text", err));
    while ((length = trf__next_token(v->kind, &at, &token)) > 0) {
        int32_t number = trf__longest_token(v, token, 0, (size_t)v->longest_symbol, &symbol);
        if (number >= 0) at = token + symbol;
        else number = trf__vocab_number(v, token, length);
        trf__emit_id(to, number < 0 ? (int32_t)TRF__UNK : number + TRF__SPECIALS, number < 0);
    }
    return TRF_OK;
}

/* Appends the text of id number i. */
TRF__FN void trf__words_add(const trf_vocab *v, trf__answer *to, int32_t i, int32_t id, int first)
{
    const char *token = trf_vocab_token(v, id);
    if (id >= TRF__UNK)
        trf__answer_add(to, i, v->kind == TRF_WORDS && !first, token, strlen(token), 0);
}

/* What each kind of vocabulary does by itself. Words and characters have no file to read. A kind
   without `decode` adds each id by itself; the text of the others depends on their neighbours. */
typedef struct trf__kind {
    trf__reader *read;
    trf_status (*encode)(const trf_vocab *v, const char *text, trf__ids *to, trf_error *err);
    void (*decode)(const trf_vocab *v, const int32_t *ids, int32_t n, trf__answer *to);
    void (*add)(const trf_vocab *v, trf__answer *to, int32_t i, int32_t id, int first);
} trf__kind;
static const trf__kind trf__kinds[TRF_TOKEN_KIND_COUNT] = {
    {NULL, trf__words_encode, NULL, trf__words_add},
    {NULL, trf__words_encode, NULL, trf__words_add},
    {trf__read_sentencepiece, trf__pieces_encode, trf__pieces_decode, NULL},
    {trf__read_wordpiece, trf__wordpiece_encode, NULL, trf__wordpiece_add},
    {trf__read_byte_bpe, trf__byte_bpe_encode, trf__byte_bpe_decode, NULL}};

/* Gives the ids of a text: all are counted, as many as fit are stored. */
TRF__FN trf_status trf__encode_text(const trf_vocab *vocab, const char *text, trf__ids *to,
                                    trf_error *err)
{
    if (!text) return trf__fail_null(err, "text");
    if (!vocab->finished) return trf__fail_learning(err);
    return trf__kinds[vocab->kind].encode(vocab, text, to, err);
}

/* *n stops at INT32_MAX if a text has more tokens. */
TRF_API trf_status trf_vocab_encode(const trf_vocab *vocab, const char *text, int32_t special,
                                    int32_t *ids, int32_t capacity, int32_t *n, trf_error *err)
{
    TRF__ZEROED(trf__ids, to);
    if (n) *n = 0;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!text) return trf__fail_null(err, "text");
    if (capacity < 0) return trf__fail_below(err, "capacity", 0, capacity);
    if (!ids && capacity > 0) return trf__fail_null(err, "ids");
    if (!n) return trf__fail_null(err, "n");
    to.ids = ids;
    to.capacity = capacity;
    TRF__TRY(trf__check_range("special", special, 0, 1, err));
    TRF__FAIL_IF(special && vocab->kind != TRF_BYTE_BPE, TRF_E_UNSUPPORTED, -1, "vocab",
                 "only byte-level BPE can read special tokens in text as tokens");
    TRF__TRY(special ? trf__byte_bpe_special(vocab, text, &to, err)
                     : trf__encode_text(vocab, text, &to, err));
    *n = (int32_t)trf__min64(to.n, INT32_MAX);
    TRF__FAIL_IF(to.n > capacity, TRF_E_LIMIT, capacity, "capacity",
                 "expected room for %d ids, got room for %d", (int)*n, (int)capacity);
    return TRF_OK;
}

TRF_API trf_status trf_vocab_count_unknown(const trf_vocab *vocab, const char *text,
                                           int32_t *unknown, int32_t *n, trf_error *err)
{
    TRF__ZEROED(trf__ids, to);
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
    int32_t needed = 1;
    do {
        TRF__GROW(int32_t, to->ids, to->capacity, needed, hooks);
        status = trf_vocab_encode(vocab, text, 0, to->ids,
                                  (int32_t)trf__min64(to->capacity, INT32_MAX), &to->n, err);
        needed = to->n;
    } while (status == TRF_E_LIMIT && needed > to->capacity);
    return status;
}

TRF_API trf_status trf_vocab_decode(const trf_vocab *vocab, const int32_t *ids, int32_t n,
                                    char *text, size_t size, size_t *bytes, trf_error *err)
{
    trf__answer to = {text, size, 0, 0, -1};
    if (text && size > 0) text[0] = 0;
    if (bytes) *bytes = 0;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    if (!ids && n > 0) return trf__fail_null(err, "ids");
    if (!text && size > 0) return trf__fail_null(err, "text");
    if (!vocab->finished) return trf__fail_learning(err);
    const trf__kind *kind = &trf__kinds[vocab->kind];
    /* ids are checked before anything is written */
    for (int32_t i = 0; i < n; i++)
        TRF__FAIL_IF(ids[i] < 0 || ids[i] >= trf_vocab_size(vocab), TRF_E_INVALID_ARG, i, "ids",
                     "expected ids from 0 to %d, got %d at position %d",
                     (int)trf_vocab_size(vocab) - 1, (int)ids[i], (int)i);
    if (kind->decode) kind->decode(vocab, ids, n, &to);
    else for (int32_t i = 0; i < n; i++) kind->add(vocab, &to, i, ids[i], to.whole == 0);
    /* whole tokens up to the limit, and always a NUL */
    if (size > 0) text[to.written] = 0;
    if (bytes) *bytes = to.whole;
    TRF__FAIL_IF(to.whole >= size, TRF_E_LIMIT, to.cut < 0 ? 0 : to.cut, "size",
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
    trf__answer text = {to, to ? SIZE_MAX : 0, 0, 0, -1};
    if (v->pieces && (id == v->special[TRF_SPECIAL_UNK] || type == TRF__PIECE_UNKNOWN))
        trf__answer_add(&text, 0, 0, v->pieces->unknown, v->pieces->n_unknown, 0);
    else if (type >= TRF__PIECE_BYTE) {
        if (to) *to = (char)(unsigned char)(type - TRF__PIECE_BYTE);
        return 1;
    } else if (v->pieces) {
        if (type != TRF__PIECE_CONTROL) trf__answer_add(&text, 0, 0, token, strlen(token), 1);
    } else if (v->byte_bpe) {
        int spelled = trf__is_spelling(token);
        while (*token && v->tokens[id].count != TRF__BPE_SPECIAL) {
            char byte = trf__next_byte(&token, spelled);
            if (to) to[text.whole] = byte;
            text.whole++;
        }
    } else trf__kinds[v->kind].add(v, &text, 0, id, 0);
    return text.whole;
}

// >>vocab-bytes    tokens added later; the stored bytes
//
// Bytes from a file may be hostile. Every token passes the checks of trf_vocab_add.

/* Appends a token without a fault. One of several characters is a symbol of their vocabulary. */
TRF__FN trf_status trf__vocab_append(trf_vocab *v, const char *token, size_t length, trf_error *err)
{
    TRF__TRY(trf__vocab_insert(v, token, length, 0, err));
    if (v->kind == TRF_CHARACTERS && (size_t)trf__utf8_at(token, length) != length &&
        (int32_t)length > v->longest_symbol) v->longest_symbol = (int32_t)length;
    return TRF_OK;
}

TRF_API trf_status trf_vocab_add(trf_vocab *vocab, const char *token, trf_error *err)
{
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!token) return trf__fail_null(err, "token");
    if (!vocab->finished) return trf__fail_learning(err);
    TRF__FAIL_IF(trf__is_subwords(vocab->kind), TRF_E_UNSUPPORTED, -1, "vocab",
                 "tokens cannot be added to a vocabulary of subwords");
    const char *fault = trf__token_fault(vocab, token, strlen(token));
    TRF__FAIL_IF(fault, TRF_E_INVALID_ARG, -1, "token", "%s", fault);
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
    const char *token, *end;
    for (*used = 0; *used < n; *used += end - token + 1) {
        token = bytes + *used;
        end = (const char *)memchr(token, 0, (size_t)(n - *used));
        if (!end && *used) return TRF_OK;
        const char *fault = end ? trf__token_fault(v, token, (size_t)(end - token))
                                : "expected a NUL after the token, got the end or more than 1 MiB";
        TRF__FAIL_IF(fault, TRF_E_FORMAT, at + *used, "vocabulary",
                     "id %lld of the vocabulary, byte %lld: %s",
                     (long long)v->n_tokens + TRF__SPECIALS, (long long)(at + *used), fault);
        TRF__TRY(trf__vocab_append(v, token, (size_t)(end - token), err));
    }
    return TRF_OK;
}

/* A finished vocabulary from its stored bytes. */
TRF__FN trf_status trf__vocab_from_bytes(trf_vocab **v, trf_token_kind kind, const void *file,
                                         int64_t n, const trf_hooks *hooks, trf_error *err)
{
    const char *bytes = (const char *)file;
    trf_vocab *made = NULL;
    int64_t used = 0;
    if (trf__kinds[kind].read)
        return trf__subwords_from(v, kind, trf__kinds[kind].read, file, (size_t)n, hooks, err);
    *v = NULL;
    trf_status status = trf_vocab_create(&made, kind, hooks, err);
    for (int64_t at = 0; !status && at < n; at += used)
        status = trf__vocab_insert_stored(made, bytes + at, n - at, at, &used, err);
    return trf__vocab_or_destroy(v, made, status);
}

/* The bytes of a file of subwords tell which kind they are. */
TRF__FN trf_status trf__vocab_of_file(trf_vocab **vocab, const void *file, size_t bytes,
                                      const trf_piece_ids *ids, const trf_hooks *hooks,
                                      trf_error *err)
{
    trf_token_kind kind = TRF_SENTENCEPIECE;
    if (bytes >= 8 && !memcmp(file, "TRFWP\0\0", 7)) kind = TRF_WORDPIECE;
    if (bytes >= 8 && !memcmp(file, "TRFBP\0\0", 7)) kind = TRF_BYTE_BPE;
    if (ids && kind == TRF_SENTENCEPIECE)
        return trf__vocab_from_pieces(vocab, file, bytes, ids, hooks, err);
    TRF__FAIL_IF(ids, TRF_E_INVALID_ARG, -1, "ids",
                 "ids belong to a file of SentencePiece, and this file has its own");
    return trf__subwords_from(vocab, kind, trf__kinds[kind].read, file, bytes, hooks, err);
}

TRF__COLD
TRF_API trf_status trf_vocab_load(trf_vocab **vocab, const char *path,
                                  const trf_vocab_options *options, trf_error *err)
{
    char *bytes;
    size_t n;
    TRF__ZEROED(trf_vocab_options, o);
    if (options) o = *options;
    TRF__BEGIN_NEW(vocab);
    if (!path && !o.memory) return trf__fail_null(err, "path");
    TRF__FAIL_IF(path && o.memory, TRF_E_INVALID_ARG, -1, "memory",
                 "expected a path or memory, got both");
    TRF__TRY(trf__hooks_check(&o.hooks, err));
    if (!path)
        return trf__vocab_of_file(vocab, o.memory, o.memory_bytes, o.ids, &o.hooks, err);
    trf_status status = trf__read_text(path, &bytes, &n, &o.hooks, err);
    if (status == TRF_OK) {
        status = trf__vocab_of_file(vocab, bytes, n, o.ids, &o.hooks, err);
        trf__free(&o.hooks, bytes, n + 1);
    }
    return trf__name_file(status, path, err);
}

TRF__COLD
TRF_API trf_status trf_vocab_copy(trf_vocab **copy, const trf_vocab *vocab, const trf_hooks *hooks,
                                  trf_error *err)
{
    TRF__BEGIN_NEW(copy);
    if (!vocab) return trf__fail_null(err, "vocab");
    if (!vocab->finished) return trf__fail_learning(err);
    return trf__vocab_from_bytes(copy, vocab->kind, trf__vocab_bytes(vocab),
                                 trf__vocab_n_bytes(vocab), hooks, err);
}

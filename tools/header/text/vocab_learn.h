#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/vocab.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "text/vocab.h"

// >>vocab-learn    counting tokens and keeping the most frequent
//
// A learning vocabulary may hold millions of tokens, most of them seen once. Finishing copies the
// tokens that stay to a new vocabulary, which replaces the old one.

TRF__FN void trf__vocab_init(trf_vocab *v, trf_token_kind kind, const trf_hooks *hooks)
{
    int i;
    memset(v, 0, sizeof *v);
    if (hooks) v->hooks = *hooks;
    v->kind = kind;
    for (i = 0; i < TRF_SPECIAL_COUNT; i++) v->special[i] = i < TRF__SPECIALS ? i : -1;
}

TRF__FN void trf__pieces_release(trf_vocab *v)
{
    trf__pieces *p = v->pieces;
    if (!p) return;
    TRF__FREE(&v->hooks, p->tokens, p->size);
    TRF__FREE(&v->hooks, p->pieces, p->capacity);
    TRF__FREE(&v->hooks, p->cells, p->n_cells);
    trf__free(&v->hooks, p, sizeof *p);
}

TRF__FN void trf__wordpiece_release(trf_vocab *v)
{
    trf__wordpiece *w = v->wordpiece;
    if (!w) return;
    TRF__FREE(&v->hooks, w->rules, w->n_rules);
    trf__free(&v->hooks, w, sizeof *w);
    v->wordpiece = NULL;
}

TRF__FN void trf__byte_bpe_release(trf_vocab *v)
{
    trf__byte_bpe *b = v->byte_bpe;
    if (!b) return;
    TRF__FREE(&v->hooks, b->ranges, b->n_ranges);
    TRF__FREE(&v->hooks, b->merges, b->n_merges);
    TRF__FREE(&v->hooks, b->slots, b->n_slots);
    trf__free(&v->hooks, b, sizeof *b);
    v->byte_bpe = NULL;
}

TRF__FN void trf__vocab_release(trf_vocab *v)
{
    TRF__FREE(&v->hooks, v->tokens, v->token_capacity);
    trf__free(&v->hooks, v->bytes, (size_t)v->byte_capacity);
    TRF__FREE(&v->hooks, v->slots, v->n_slots);
    trf__free(&v->hooks, v->stored, (size_t)v->n_stored);
    trf__pieces_release(v);
    trf__wordpiece_release(v);
    trf__byte_bpe_release(v);
}

TRF_API void trf_vocab_destroy(trf_vocab *vocab)
{
    trf_hooks hooks;
    if (!vocab) return;
    hooks = vocab->hooks;
    trf__vocab_release(vocab);
    trf__free(&hooks, vocab, sizeof *vocab);
}

TRF__COLD
TRF_API trf_status trf_vocab_create(trf_vocab **vocab, trf_token_kind kind, const trf_hooks *hooks,
                                    trf_error *err)
{
    trf_hooks none;
    trf_vocab *v;
    TRF__ZERO(none);
    TRF__TRY(trf__begin(vocab, "vocab", err));
    *vocab = NULL;
    if (kind != TRF_WORDS && kind != TRF_CHARACTERS)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "kind",
                         "kind must be words or characters, got %d", (int)kind);
    if (hooks) TRF__TRY(trf__hooks_check(hooks, err));
    v = (trf_vocab *)trf__alloc(hooks ? hooks : &none, sizeof *v);
    if (!v) return trf__fail(err, TRF_E_NOMEM, -1, "vocab", "no memory for a vocabulary");
    trf__vocab_init(v, kind, hooks);
    *vocab = v;
    return TRF_OK;
}

/* Two runs, so that a line counts as a whole or not at all. The first adds the missing tokens with
   a count of 0: finishing drops such tokens. The second counts, and cannot fail. */
TRF_API trf_status trf_vocab_learn(trf_vocab *vocab, const char *line, trf_error *err)
{
    const char *at = line, *token;
    size_t length;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (!line) return trf__fail_null(err, "line");
    if (vocab->finished) return trf__fail_finished(err);
    TRF__TRY(trf__check_utf8(line, "line", err));
    while ((length = trf__next_token(vocab->kind, &at, &token)) > 0) {
        uint64_t hash = trf__hash_bytes(token, length);
        if (length > TRF__MAX_TOKEN_BYTES)
            return trf__fail(err, TRF_E_LIMIT, token - line, "line",
                             "expected a word of at most %d bytes, got %llu",
                             (int)TRF__MAX_TOKEN_BYTES, (unsigned long long)length);
        if (trf__is_special(token, length) || trf__vocab_find(vocab, token, length, hash) >= 0)
            continue;
        TRF__TRY(trf__vocab_insert(vocab, token, length, hash, 0, err));
    }
    at = line;
    while ((length = trf__next_token(vocab->kind, &at, &token)) > 0) {
        int32_t i = trf__vocab_find(vocab, token, length, trf__hash_bytes(token, length));
        if (i >= 0) vocab->tokens[i].count++;
    }
    return TRF_OK;
}

/* Order of ids: higher counts first, equal counts by their bytes, a prefix before its
   continuation. */
TRF__FN int trf__by_count(const void *vocab, const void *a, const void *b)
{
    const char *bytes = ((const trf_vocab *)vocab)->bytes;
    const trf__token *x = (const trf__token *)a, *y = (const trf__token *)b;
    int order;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    order = memcmp(bytes + x->begin, bytes + y->begin, (size_t)trf__min64(x->length, y->length));
    return order ? order : x->length - y->length;
}

TRF_API trf_status trf_vocab_finish(trf_vocab *vocab, int32_t max_size, int64_t min_count,
                                    trf_error *err)
{
    trf_vocab kept;
    const void **order;
    int64_t n = 0, i;
    size_t order_bytes;
    trf_status status = TRF_OK;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (max_size <= TRF__SPECIALS)
        return trf__fail_below(err, "max_size", TRF__SPECIALS + 1, max_size);
    if (min_count < 1) return trf__fail_below(err, "min_count", 1, min_count);
    if (vocab->finished) return trf__fail_finished(err);
    for (i = 0; i < vocab->n_tokens; i++) n += vocab->tokens[i].count >= min_count;
    order_bytes = trf__bytes(n, sizeof *order);
    order = (const void **)trf__alloc(&vocab->hooks, order_bytes);
    if (!order)
        return trf__fail(err, TRF_E_NOMEM, -1, "vocab", "no memory to sort %lld tokens",
                         (long long)n);
    for (n = i = 0; i < vocab->n_tokens; i++)
        if (vocab->tokens[i].count >= min_count) order[n++] = &vocab->tokens[i];
    trf__sort(order, (size_t)n, trf__by_count, vocab);

    /* the old vocabulary stays until the new one is complete */
    trf__vocab_init(&kept, vocab->kind, &vocab->hooks);
    kept.finished = 1;
    for (i = 0; !status && i < trf__min64(n, max_size - TRF__SPECIALS); i++) {
        const trf__token *t = (const trf__token *)order[i];
        status = trf__vocab_insert(&kept, vocab->bytes + t->begin, (size_t)t->length, t->hash,
                                   t->count, err);
    }
    trf__free(&vocab->hooks, order, order_bytes);
    if (status) { trf__vocab_release(&kept); return status; }
    trf__vocab_release(vocab);
    *vocab = kept;
    return TRF_OK;
}

// >>subwords       what the vocabularies of files have in common
//
// Another program made the file. The vocabulary keeps the bytes, and model files store them. All
// numbers are little-endian and have 32 bits.

/* Begins the vocabulary of a file, whose bytes are copied. `name` is the caller's name of them. */
TRF__FN trf_status trf__subwords_begin(trf_vocab **vocab, trf_token_kind kind, const char *name,
                                       const void *file, size_t bytes, const trf_hooks *hooks,
                                       trf_error *err)
{
    trf_vocab *v;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    *vocab = NULL;
    if (!file) return trf__fail_null(err, name);
    if (bytes > INT32_MAX)
        return trf__fail(err, TRF_E_LIMIT, -1, "bytes",
                         "expected a %s of less than 2 GiB, got a larger one", name);
    TRF__TRY(trf_vocab_create(&v, TRF_WORDS, hooks, err));
    v->kind = kind;
    v->stored = (char *)trf__alloc(&v->hooks, bytes);
    if (!v->stored) {
        trf_vocab_destroy(v);
        return trf__fail(err, TRF_E_NOMEM, -1, "vocab", "no memory for a file of %llu bytes",
                         (unsigned long long)bytes);
    }
    memcpy(v->stored, file, bytes);
    v->n_stored = (int64_t)bytes;
    *vocab = v;
    return TRF_OK;
}

/* Ends the making of a vocabulary: *v gets it, or an error destroys it. */
TRF__FN trf_status trf__vocab_finished(trf_vocab **v, trf_vocab *made, trf_status status)
{
    if (status) { trf_vocab_destroy(made); made = NULL; }
    else made->finished = 1;
    *v = made;
    return status;
}

/* Bytes of a file as they are written. `to` NULL: they are counted only. */
typedef struct trf__written {
    char *to;
    size_t n;
    const char *missing;                /* the name of an array that is NULL */
} trf__written;

TRF__FN void trf__write_bytes(trf__written *w, const char *name, const void *bytes, int64_t n)
{
    if (n <= 0) return;
    if (!bytes) { w->missing = name; return; }
    if (w->to) memcpy(w->to + w->n, bytes, (size_t)n);
    w->n = trf__add_size(w->n, (size_t)n);
}

TRF__FN void trf__write_numbers(trf__written *w, const char *name, const int32_t *numbers,
                                int64_t n)
{
    unsigned char bytes[4];
    int64_t i;
    if (n > 0 && !numbers) w->missing = name;
    for (i = 0; i < n && !w->missing; i++) {
        trf__to_little(bytes, (uint32_t)numbers[i], 4);
        trf__write_bytes(w, name, bytes, 4);
    }
}

/* Texts, each with its NUL; in front of text i stands kinds[i], unless `kinds` is NULL. */
TRF__FN void trf__write_texts(trf__written *w, const char *name, const char *const *texts,
                              const unsigned char *kinds, int32_t n)
{
    int32_t i;
    if (n > 0 && !texts) w->missing = name;
    for (i = 0; i < n && !w->missing; i++) {
        if (kinds) trf__write_bytes(w, name, kinds + i, 1);
        trf__write_bytes(w, name, texts[i], texts[i] ? (int64_t)strlen(texts[i]) + 1 : 1);
    }
}

/* Writes a file by `write`, which takes `file`, and makes its vocabulary by `from`. */
TRF__FN trf_status trf__subwords_make(trf_vocab **vocab, const void *file,
                                      void (*write)(trf__written *to, const void *file),
                                      trf_status (*from)(trf_vocab **, const void *, size_t,
                                                         const trf_hooks *, trf_error *),
                                      const trf_hooks *hooks, trf_error *err)
{
    trf__written w = {NULL, 0, NULL};
    trf_hooks none;
    trf_status status;
    size_t bytes;
    TRF__ZERO(none);
    TRF__TRY(trf__begin(vocab, "vocab", err));
    *vocab = NULL;
    if (!file) return trf__fail_null(err, "file");
    if (hooks) TRF__TRY(trf__hooks_check(hooks, err));
    else hooks = &none;
    write(&w, file);
    if (w.missing) return trf__fail_null(err, w.missing);
    bytes = w.n;
    w.to = bytes > INT32_MAX ? NULL : (char *)trf__alloc(hooks, bytes);
    if (!w.to)
        return trf__fail(err, bytes > INT32_MAX ? TRF_E_LIMIT : TRF_E_NOMEM, -1, "bytes",
                         "no memory for a file of %llu bytes", (unsigned long long)bytes);
    w.n = 0;
    write(&w, file);
    status = from(vocab, w.to, bytes, hooks, err);
    trf__free(hooks, w.to, bytes);
    return status;
}

/* The number at an offset of the stored bytes. */
TRF__FN uint32_t trf__stored_number(const trf_vocab *v, int64_t at)
{
    return (uint32_t)trf__from_little((const unsigned char *)v->stored + at, 4);
}

/* A signed number: two's complement. */
TRF__FN int32_t trf__stored_signed(const trf_vocab *v, int64_t at)
{
    uint32_t u = trf__stored_number(v, at);
    return u <= INT32_MAX ? (int32_t)u : -(int32_t)(UINT32_MAX - u) - 1;
}

/* Reads the special ids at an offset of the stored bytes. `least`: 0 if unk must exist, else -1. */
TRF__FN trf_status trf__stored_specials(trf_vocab *v, int64_t at, int64_t n_tokens, int32_t least,
                                        trf_error *err)
{
    int i;
    for (i = 0; i < TRF_SPECIAL_COUNT; i++, at += 4) {
        int32_t id = trf__stored_signed(v, at), first = i == TRF_SPECIAL_UNK ? least : -1;
        if (id < first || id >= n_tokens)
            return trf__fail(err, TRF_E_FORMAT, at, trf__kind_names[v->kind],
                             "byte %lld: expected an id from %d to %lld, got %d", (long long)at,
                             (int)first, (long long)n_tokens - 1, (int)id);
        v->special[i] = id;
    }
    return TRF_OK;
}

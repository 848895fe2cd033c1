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

static const trf_hooks trf__no_hooks = {NULL, NULL, NULL, NULL, NULL};

TRF__FN void trf__vocab_init(trf_vocab *v, trf_token_kind kind, const trf_hooks *hooks)
{
    memset(v, 0, sizeof *v);
    if (hooks) v->hooks = *hooks;
    v->kind = kind;
    for (int i = 0; i < TRF_SPECIAL_COUNT; i++) v->special[i] = i < TRF__SPECIALS ? i : -1;
}

TRF__COLD
TRF__FN void trf__vocab_release(trf_vocab *v)
{
    const trf_hooks *hooks = &v->hooks;
    trf__pieces *p = v->pieces;
    trf__wordpiece *w = v->wordpiece;
    trf__byte_bpe *b = v->byte_bpe;
    TRF__FREE(hooks, v->tokens, v->token_capacity);
    trf__free(hooks, v->bytes, (size_t)v->byte_capacity);
    TRF__FREE(hooks, v->entries, v->n_entries);
    trf__free(hooks, v->stored, (size_t)v->n_stored);
    if (p) {
        TRF__FREE(hooks, p->tokens, p->size);
        TRF__FREE(hooks, p->pieces, p->capacity);
        TRF__FREE(hooks, p->cells, p->n_cells);
    }
    if (w) TRF__FREE(hooks, w->rules.items, w->rules.n);
    if (b) {
        TRF__FREE(hooks, b->ranges.items, b->ranges.n);
        TRF__FREE(hooks, b->merges, b->n_merges);
        TRF__FREE(hooks, b->entries, b->n_entries);
    }
    TRF__FREE(hooks, p, 1);
    TRF__FREE(hooks, w, 1);
    TRF__FREE(hooks, b, 1);
}

TRF_API void trf_vocab_destroy(trf_vocab *vocab)
{
    if (!vocab) return;
    trf_hooks hooks = vocab->hooks;
    trf__vocab_release(vocab);
    trf__free(&hooks, vocab, sizeof *vocab);
}

TRF__COLD
TRF_API trf_status trf_vocab_create(trf_vocab **vocab, trf_token_kind kind, const trf_hooks *hooks,
                                    trf_error *err)
{
    trf_vocab *v;
    TRF__BEGIN_NEW(vocab);
    TRF__FAIL_IF(kind != TRF_WORDS && kind != TRF_CHARACTERS, TRF_E_INVALID_ARG, -1, "kind",
                 "kind must be words or characters, got %d", (int)kind);
    if (hooks) TRF__TRY(trf__hooks_check(hooks, err));
    TRF__ALLOC(trf_vocab, v, hooks ? hooks : &trf__no_hooks, 1, "vocab", "for a vocabulary");
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
    for (int run = 0; run < 2; run++, at = line)
        while ((length = trf__next_token(vocab->kind, &at, &token)) > 0) {
            TRF__FAIL_IF(length > TRF__MAX_TOKEN_BYTES, TRF_E_LIMIT, token - line, "line",
                         "expected a word of at most %d bytes, got %llu", (int)TRF__MAX_TOKEN_BYTES,
                         (unsigned long long)length);
            int32_t i = trf__vocab_number(vocab, token, length);
            if (i >= 0) vocab->tokens[i].count += run;
            else if (!trf__is_special(token, length))
                TRF__TRY(trf__vocab_insert(vocab, token, length, 0, err));
        }
    return TRF_OK;
}

/* Order of ids: higher counts first, equal ones by their bytes, a prefix before a longer one. */
TRF__FN int trf__by_count(const void *vocab, const void *a, const void *b)
{
    const char *bytes = ((const trf_vocab *)vocab)->bytes;
    const trf__token *x = (const trf__token *)a, *y = (const trf__token *)b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    int n = memcmp(bytes + x->begin, bytes + y->begin, (size_t)trf__min64(x->length, y->length));
    return n ? n : x->length - y->length;
}

TRF_API trf_status trf_vocab_finish(trf_vocab *vocab, int32_t max_size, int64_t min_count,
                                    trf_error *err)
{
    trf_vocab kept;
    const void **order;
    int64_t n = 0, i;
    trf_status status = TRF_OK;
    TRF__TRY(trf__begin(vocab, "vocab", err));
    if (max_size <= TRF__SPECIALS)
        return trf__fail_below(err, "max_size", TRF__SPECIALS + 1, max_size);
    if (min_count < 1) return trf__fail_below(err, "min_count", 1, min_count);
    if (vocab->finished) return trf__fail_finished(err);
    for (i = 0; i < vocab->n_tokens; i++) n += vocab->tokens[i].count >= min_count;
    TRF__ALLOC(const void *, order, &vocab->hooks, n, "vocab", "to sort %lld tokens", (long long)n);
    for (n = i = 0; i < vocab->n_tokens; i++)
        if (vocab->tokens[i].count >= min_count) order[n++] = &vocab->tokens[i];
    trf__sort(order, (size_t)n, trf__by_count, vocab);

    /* the old vocabulary stays until the new one is complete */
    trf__vocab_init(&kept, vocab->kind, &vocab->hooks);
    kept.finished = 1;
    for (i = 0; !status && i < trf__min64(n, max_size - TRF__SPECIALS); i++) {
        const trf__token *t = (const trf__token *)order[i];
        status = trf__vocab_insert(&kept, vocab->bytes + t->begin, (size_t)t->length, t->count,
                                   err);
    }
    TRF__FREE(&vocab->hooks, order, n);
    if (status) { trf__vocab_release(&kept); return status; }
    trf__vocab_release(vocab);
    *vocab = kept;
    return TRF_OK;
}

// >>subwords       what the vocabularies of files have in common
//
// Another program made the file. The vocabulary keeps the bytes, and model files store them. All
// numbers are little-endian and have 32 bits.

/* Ends the making of a vocabulary: *v gets it, or an error destroys it. */
TRF__FN trf_status trf__vocab_or_destroy(trf_vocab **v, trf_vocab *made, trf_status status)
{
    if (status) { trf_vocab_destroy(made); made = NULL; }
    else made->finished = 1;
    *v = made;
    return status;
}

/* Fills a new vocabulary from its stored bytes. */
typedef trf_status trf__reader(trf_vocab *v, trf_error *err);

/* A vocabulary of subwords from the bytes of its file, which are copied. */
TRF__COLD
TRF__FN trf_status trf__subwords_from(trf_vocab **vocab, trf_token_kind kind, trf__reader *read,
                                      const void *file, size_t bytes, const trf_hooks *hooks,
                                      trf_error *err)
{
    const char *name = kind == TRF_SENTENCEPIECE ? "model" : "file";
    trf_vocab *v;
    TRF__BEGIN_NEW(vocab);
    if (!file) return trf__fail_null(err, name);
    TRF__FAIL_IF(bytes > INT32_MAX, TRF_E_LIMIT, -1, "bytes",
                 "expected a %s of less than 2 GiB, got a larger one", name);
    TRF__TRY(trf_vocab_create(&v, TRF_WORDS, hooks, err));
    v->kind = kind;
    v->stored = TRF__NEW(char, &v->hooks, bytes);
    if (!v->stored) {
        trf_vocab_destroy(v);
        return trf__fail(err, TRF_E_NOMEM, -1, "vocab", "no memory for a file of %llu bytes",
                         (unsigned long long)bytes);
    }
    memcpy(v->stored, file, bytes);
    v->n_stored = (int64_t)bytes;
    return trf__vocab_or_destroy(vocab, v, read(v, err));
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

/* Reports a fault at an offset of the stored bytes. */
TRF__FN trf_status trf__stored_fail(const trf_vocab *v, int64_t at, const char *fault,
                                    trf_error *err)
{
    return trf__fail(err, TRF_E_FORMAT, at, trf__kind_names[v->kind], "byte %lld: %s",
                     (long long)at, fault);
}
#define TRF__STORED_FAIL_IF(condition, at, fault) \
    do { if (condition) return trf__stored_fail(v, at, fault, err); } while (0)

/* Checks the number x of an offset. The message has its range between `before` and `after`. */
TRF__FN trf_status trf__stored_range(const trf_vocab *v, int64_t at, const char *before, int64_t x,
                                     int64_t least, int64_t most, const char *after, trf_error *err)
{
    return TRF__OK_IF(x >= least && x <= most, TRF_E_FORMAT, at, trf__kind_names[v->kind],
                      "byte %lld: expected %s%lld to %lld%s, got %lld", (long long)at, before,
                      (long long)least, (long long)most, after, (long long)x);
}

/* Reads how many rows of `each` bytes a table has, and takes them off the rest of the bytes. Below
   2 GiB, their number fits. */
TRF__FN trf_status trf__stored_rows(const trf_vocab *v, int64_t at, const char *name, int each,
                                    int64_t *rest, int32_t *n, trf_error *err)
{
    int64_t rows = trf__stored_number(v, at);
    TRF__FAIL_IF(rows > *rest / each, TRF_E_FORMAT, at, trf__kind_names[v->kind],
                 "byte %lld: expected at most %lld %s in the bytes that follow, got %lld",
                 (long long)at, (long long)*rest / each, name, (long long)rows);
    *rest -= each * rows;
    *n = (int32_t)rows;
    return TRF_OK;
}

/* Reads the special ids at an offset of the stored bytes. `least`: 0 if unk must exist, else -1. */
TRF__FN trf_status trf__stored_specials(trf_vocab *v, int64_t at, int64_t n_tokens, int32_t least,
                                        trf_error *err)
{
    for (int i = 0; i < TRF_SPECIAL_COUNT; i++, at += 4) {
        int32_t id = trf__stored_signed(v, at), first = i == TRF_SPECIAL_UNK ? least : -1;
        TRF__TRY(trf__stored_range(v, at, "an id from ", id, first, n_tokens - 1, "", err));
        v->special[i] = id;
    }
    return TRF_OK;
}

/* Reads to->n rules of `each` bytes: first, last, kind, and an argument if there is room for it.
   `fault_of` tells what is wrong with one, and moves the offset to the number that is. */
TRF__COLD
TRF__FN trf_status trf__stored_rules(trf_vocab *v, int64_t at, const char *name, int each,
                                     const char *(*fault_of)(const trf_vocab *v,
                                                             const trf__word_rule *r, int64_t *at),
                                     trf__word_rules *to, trf_error *err)
{
    const char *fault;
    TRF__ALLOC_ZEROED(trf__word_rule, to->items, &v->hooks, to->n, trf__kind_names[v->kind],
                      "for %d %s", (int)to->n, name);
    for (int32_t i = 0; i < 128; i++) to->ascii[i] = -1;
    for (int32_t i = 0; i < to->n; i++, at += each) {
        trf__word_rule *r = to->items + i;
        r->first = trf__stored_number(v, at);
        r->last = trf__stored_number(v, at + 4);
        r->kind = trf__stored_signed(v, at + 8);
        if (each > 12) r->argument = trf__stored_signed(v, at + 12);
        TRF__STORED_FAIL_IF((fault = fault_of(v, r, &at)) != NULL, at, fault);
        TRF__FAIL_IF(i > 0 && r->first <= r[-1].last, TRF_E_FORMAT, at, trf__kind_names[v->kind],
                     "byte %lld: expected %s in ascending order, without overlap",
                     (long long)at, name);
        for (uint32_t c = r->first; c < 128 && c <= r->last; c++) to->ascii[c] = i;
    }
    return TRF_OK;
}

TRF__FN const trf__word_rule *trf__search_rule(const trf__word_rules *rules, uint32_t c)
{
    int64_t at = 0;
    TRF__BISECT(at, rules->n, rules->items[middle].last < c);
    return at < rules->n && rules->items[at].first <= c ? rules->items + at : NULL;
}

/* The rule of a code point, or NULL. Most are ASCII, in every text that is cut. */
TRF__INLINE const trf__word_rule *trf__find_rule(const trf__word_rules *rules, uint32_t c)
{
    if (c >= 128) return trf__search_rule(rules, c);
    return rules->ascii[c] < 0 ? NULL : rules->items + rules->ascii[c];
}

/* Inserts the tokens, which begin at an offset of the stored bytes and end with them. In front of
   one of byte-level BPE stands its kind. *longest becomes the length of the longest one. */
TRF__FN trf_status trf__stored_tokens(trf_vocab *v, int64_t at, int64_t n_tokens, size_t *longest,
                                      trf_error *err)
{
    const int kinds = v->kind == TRF_BYTE_BPE;
    const int64_t rest = trf__max64(0, v->n_stored - at);       /* two bytes a token at least */
    TRF__TRY(trf__vocab_reserve(v, trf__min64(n_tokens, rest / 2), rest, err));
    while (v->n_tokens < n_tokens) {
        const char *begin = v->stored + at, *token = at < v->n_stored ? begin + kinds : begin;
        const char *end = (const char *)memchr(token, 0, (size_t)(v->stored + v->n_stored - token));
        const char *fault = kinds ? "expected a token and its NUL, got the end"
                                  : "expected a NUL after the token, got the end";
        size_t length = end ? (size_t)(end - token) : 0;
        if (end) fault = trf__token_fault(v, token, length);
        if (!fault && kinds && (unsigned char)*begin > TRF__BPE_SPECIAL)
            fault = "expected a kind of token from 0 to 2, got another number";
        TRF__FAIL_IF(fault, TRF_E_FORMAT, at, trf__kind_names[v->kind], "id %lld, byte %lld: %s",
                     (long long)v->n_tokens, (long long)at, fault);
        TRF__TRY(trf__vocab_insert(v, token, length, kinds ? *begin : 0, err));
        if (length > *longest) *longest = length;
        at += kinds + (int64_t)length + 1;
    }
    if (at == v->n_stored) return TRF_OK;
    return trf__stored_fail(v, at, "expected the end after the last token, got more bytes", err);
}

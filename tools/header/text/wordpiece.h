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
#include "text/pieces_cut.h"
#include "text/pieces_text.h"

// -----------------------------------------------------------------------------------------------
// >>wordpiece      BERT's subwords: raw text to WordPiece tokens and back
//
// The ids are those of Hugging Face's tokenizers 0.23.3 (BertNormalizer, BertPreTokenizer,
// WordPiece) without [CLS] and [SEP] around them. There are three steps (Wu et al. 2016; Devlin et
// al. 2019):
//
//   text -> characters     a rule may drop a code point, replace it, or make it a space
//        -> words          spaces end words; punctuation and CJK characters are words of their own
//        -> ids            the longest token that begins the word, then the longest "##..." that
//                          goes on, and so forth; a word that cannot be cut is one unk
//
// A text cannot contain a special token: "[CLS]" in a text is three ordinary words, as it is in
// tokenizers with encode_special_tokens. A special token without punctuation, such as "pad", is not
// found in a text either; there tokenizers would find it.
//
// The library has no tables of Unicode. The rules lie in the stored bytes, which a tool writes when
// it imports a vocabulary (tools/trf). A rule sees one code point, never its neighbours. Stripping
// accents leaves some marks, such as Balinese and musical ones. tokenizers puts several of them
// after each other in canonical order; here they keep the order of the text.
//
// The stored bytes; all numbers are little-endian and have 32 bits:
//
//   "TRFWP" 0 0 1                      8 bytes
//   flags                              bits of TRF_WORDPIECE_CLEANUP and the others
//   longest word                       in characters after their replacement; longer words are unk
//   pad bos eos unk mask cls sep       ids, -1 for none; unk must exist
//   number of tokens, number of rules
//   rules                              first, last, kind, argument; ascending, without overlap
//   size of the replacements           in bytes
//   replacements                       UTF-8, each followed by a NUL
//   tokens                             UTF-8, each followed by a NUL; the first one's id is 0
//
// A code point without a rule stays as it is. The kinds:
//
//   0  drop                            argument 0
//   1  space                           argument 0
//   2  shift                           argument is added to the code point
//   3  text                            argument is the offset of a replacement
//   4  Hangul                          a syllable becomes its letters; argument 0
//   10, 11                             as 2 and 3, and the result is a word of its own
//
// Ids are those of the file, special tokens included: token i has the id i.
// -----------------------------------------------------------------------------------------------

enum { TRF__WORD_DROP, TRF__WORD_SPACE, TRF__WORD_SHIFT, TRF__WORD_TEXT, TRF__WORD_HANGUL,
       TRF__WORD_ALONE = 8 };           /* is added to a kind */
enum { TRF__WORD_HEADER = 52, TRF__WORD_RULE = 16, TRF__WORD_FLAGS = 63,
       TRF__WORD_CHARS = 1000 };        /* no file may allow longer words */

/* Whether an id is one of the special ones. */
TRF__FN int trf__wordpiece_special(const trf_vocab *v, int32_t id)
{
    int i;
    for (i = 0; i < TRF_SPECIAL_COUNT; i++) if (v->special[i] == id) return 1;
    return 0;
}

/* The one of n rules that has the code point, or NULL. */
TRF__FN const trf__word_rule *trf__find_rule(const trf__word_rule *rules, int32_t n, uint32_t c)
{
    int32_t low = 0, high = n;
    /* rules before `low` end below c, rules from `high` on begin above c */
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (rules[middle].last < c) low = middle + 1;
        else if (rules[middle].first > c) high = middle;
        else return rules + middle;
    }
    return NULL;
}

/* The rule of a code point, or NULL. */
TRF__FN const trf__word_rule *trf__word_rule_of(const trf__wordpiece *w, uint32_t c)
{
    if (c < 128) return w->ascii[c] < 0 ? NULL : w->rules + w->ascii[c];
    return trf__find_rule(w->rules, w->n_rules, c);
}

// >>wordpiece-file  reading the stored bytes
//
// They may be hostile. Every error gives the offset of the fault.

TRF__FN trf_status trf__wordpiece_fail(int64_t at, const char *fault, trf_error *err)
{
    return trf__fail(err, TRF_E_FORMAT, at, "wordpiece", "byte %lld: %s", (long long)at, fault);
}

/* Reads everything before the rules. */
TRF__FN trf_status trf__read_word_header(trf_vocab *v, int64_t *n_tokens, trf_error *err)
{
    trf__wordpiece *w = v->wordpiece;
    uint32_t flags, longest;
    if (v->n_stored < 8 || memcmp(v->stored, "TRFWP\0\0\1", 8))
        return trf__wordpiece_fail(0, "expected a WordPiece file, got something else", err);
    if (v->n_stored < TRF__WORD_HEADER + 4)
        return trf__wordpiece_fail(v->n_stored, "expected a header of 56 bytes, got the end", err);
    flags = trf__stored_number(v, 8);
    if (flags > TRF__WORD_FLAGS || (flags > TRF_WORDPIECE_CLEANUP &&
                                    !(flags & TRF_WORDPIECE_SETTINGS)))
        return trf__fail(err, TRF_E_FORMAT, 8, "wordpiece",
                         "byte 8: expected flags of a WordPiece file, got %lu",
                         (unsigned long)flags);
    longest = trf__stored_number(v, 12);
    if (longest < 1 || longest > TRF__WORD_CHARS)
        return trf__fail(err, TRF_E_FORMAT, 12, "wordpiece",
                         "byte 12: expected a longest word of 1 to %d characters, got %lu",
                         (int)TRF__WORD_CHARS, (unsigned long)longest);
    w->cleanup = flags & TRF_WORDPIECE_CLEANUP;
    w->longest_word = (int32_t)longest;
    *n_tokens = trf__stored_number(v, 44);
    if (*n_tokens < 1 || *n_tokens > TRF__MAX_TOKENS)
        return trf__fail(err, TRF_E_FORMAT, 44, "wordpiece",
                         "byte 44: expected 1 to %lld tokens, got %lld",
                         (long long)TRF__MAX_TOKENS, (long long)*n_tokens);
    return trf__stored_specials(v, 16, *n_tokens, 0, err);
}

/* The reason why a rule cannot be used, or NULL. n_replaced: bytes of the replacements. */
TRF__FN const char *trf__word_rule_fault(const trf__wordpiece *w, const trf__word_rule *r,
                                         int64_t n_replaced)
{
    int64_t first = (int64_t)r->first + r->argument, last = (int64_t)r->last + r->argument;
    if (r->first > r->last) return "expected first <= last, got a rule of no code point";
    if (r->last > 0x10FFFF) return "expected code points up to U+10FFFF, got a larger one";
    switch (r->kind) {
    case TRF__WORD_DROP: case TRF__WORD_SPACE: case TRF__WORD_HANGUL:
        if (r->kind == TRF__WORD_HANGUL && (r->first < 0xAC00 || r->last > 0xD7A3))
            return "expected Hangul syllables, got other code points";
        return r->argument ? "expected the argument 0, got another one" : NULL;
    case TRF__WORD_SHIFT: case TRF__WORD_SHIFT + TRF__WORD_ALONE:
        if (first < 1 || last > 0x10FFFF || (first < 0xE000 && last >= 0xD800))
            return "expected a shift to code points, got one to something else";
        return NULL;
    case TRF__WORD_TEXT: case TRF__WORD_TEXT + TRF__WORD_ALONE:
        if (r->argument < 0 || r->argument >= n_replaced || !w->replaced[r->argument]
            || (r->argument && w->replaced[r->argument - 1]))
            return "expected the offset of a replacement, got another one";
        return NULL;
    default: return "expected a kind of rule, got an unknown one";
    }
}

/* Reads the rules and the replacements behind them. *at becomes the offset of the tokens. */
TRF__FN trf_status trf__read_word_rules(trf_vocab *v, int64_t *at, trf_error *err)
{
    trf__wordpiece *w = v->wordpiece;
    int64_t n = trf__stored_number(v, 48), rest = v->n_stored - TRF__WORD_HEADER - 4;
    int64_t size, bad;
    uint32_t c;
    int32_t i;
    for (i = 0; i < 128; i++) w->ascii[i] = -1;
    if (n > rest / TRF__WORD_RULE)
        return trf__fail(err, TRF_E_FORMAT, 48, "wordpiece",
                         "byte 48: expected at most %lld rules in the bytes that follow, got %lld",
                         (long long)rest / TRF__WORD_RULE, (long long)n);
    rest -= TRF__WORD_RULE * n;
    *at = v->n_stored - rest;
    size = trf__stored_number(v, *at - 4);
    w->replaced = v->stored + *at;
    if (size > rest || (size > 0 && w->replaced[size - 1]))
        return trf__wordpiece_fail(*at - 4, "expected the size of the replacements, which end with "
                                   "a NUL; got another number", err);
    bad = trf_find_invalid_utf8(w->replaced, (size_t)size);
    if (bad >= 0) return trf__wordpiece_fail(*at + bad, "expected UTF-8, got something else", err);
    *at += size;
    w->rules = (trf__word_rule *)trf__alloc(&v->hooks, trf__bytes(n, sizeof *w->rules));
    if (!w->rules)
        return trf__fail(err, TRF_E_NOMEM, -1, "wordpiece", "no memory for %lld rules",
                         (long long)n);
    w->n_rules = (int32_t)n;            /* below 2^27: each has 16 bytes of less than 2 GiB */
    for (i = 0; i < n; i++) {
        trf__word_rule *r = w->rules + i;
        int64_t here = TRF__WORD_HEADER + TRF__WORD_RULE * (int64_t)i;
        const char *fault;
        r->first = trf__stored_number(v, here);
        r->last = trf__stored_number(v, here + 4);
        r->kind = trf__stored_signed(v, here + 8);
        r->argument = trf__stored_signed(v, here + 12);
        fault = trf__word_rule_fault(w, r, size);
        if (!fault && i > 0 && r->first <= r[-1].last)
            fault = "expected rules in ascending order, got code points of earlier ones";
        if (fault) return trf__wordpiece_fail(here, fault, err);
        for (c = r->first; c < 128 && c <= r->last; c++) w->ascii[c] = i;
    }
    return TRF_OK;
}

/* The reason why a token of the file cannot be added, or NULL. */
TRF__FN const char *trf__word_token_fault(const trf_vocab *v, const char *token, size_t length)
{
    size_t i;
    if (!length) return "expected a token, got an empty one";
    if (length > TRF__MAX_TOKEN_BYTES) return "expected a token of at most 1 MiB, got a longer one";
    if (trf_find_invalid_utf8(token, length) >= 0) return "expected UTF-8, got something else";
    /* words never contain blanks, and decoding relies on that */
    for (i = 0; i < length; i++)
        if (trf__is_blank(token[i])) return "expected a token, got one with a blank";
    if (trf__vocab_find(v, token, length, trf__hash_bytes(token, length)) >= 0)
        return "expected every token once, got one twice";
    return NULL;
}

/* Inserts the tokens, which begin at an offset of the stored bytes and end with them. */
TRF__FN trf_status trf__read_word_tokens(trf_vocab *v, int64_t at, int64_t n_tokens, trf_error *err)
{
    trf__wordpiece *w = v->wordpiece;
    while (v->n_tokens < n_tokens) {
        const char *token = v->stored + at, *fault = "expected a NUL after the token, got the end";
        const char *end = (const char *)memchr(token, 0, (size_t)(v->n_stored - at));
        size_t length = end ? (size_t)(end - token) : 0;
        if (end) fault = trf__word_token_fault(v, token, length);
        if (fault)
            return trf__fail(err, TRF_E_FORMAT, at, "wordpiece", "id %lld, byte %lld: %s",
                             (long long)v->n_tokens, (long long)at, fault);
        TRF__TRY(trf__vocab_insert(v, token, length, trf__hash_bytes(token, length), 0, err));
        if (length > w->longest_token) w->longest_token = length;
        at += (int64_t)length + 1;
    }
    if (at == v->n_stored) return TRF_OK;
    return trf__wordpiece_fail(at, "expected the end after the last token, got more bytes", err);
}

/* Fills a new vocabulary from its stored bytes. */
TRF__FN trf_status trf__read_wordpiece(trf_vocab *v, trf_error *err)
{
    int64_t n_tokens = 0, at = 0;
    v->wordpiece = (trf__wordpiece *)trf__alloc_zeroed(&v->hooks, sizeof *v->wordpiece);
    if (!v->wordpiece)
        return trf__fail(err, TRF_E_NOMEM, -1, "wordpiece", "no memory for a vocabulary");
    TRF__TRY(trf__read_word_header(v, &n_tokens, err));
    TRF__TRY(trf__read_word_rules(v, &at, err));
    return trf__read_word_tokens(v, at, n_tokens, err);
}

// >>wordpiece-cut  from text to ids
//
// A word is collected character by character. What ends it also cuts it into tokens.

/* The word begins at text + 2: in front of it is room for "##". n is the offset of its end. `chars`
   counts all characters, also those beyond the longest word, which are not stored. */
typedef struct trf__word { char text[2 + 4 * TRF__WORD_CHARS]; size_t n; int64_t chars; } trf__word;

TRF__FN void trf__word_clear(trf__word *word) { word->n = 2; word->chars = 0; }

/* Appends one character. */
TRF__FN void trf__word_add(const trf__wordpiece *w, trf__word *word, const char *text, int bytes)
{
    if (word->chars++ >= w->longest_word) return;
    memcpy(word->text + word->n, text, (size_t)bytes);
    word->n += (size_t)bytes;
}

TRF__FN void trf__word_add_code_point(const trf__wordpiece *w, trf__word *word, uint32_t c)
{
    char text[4];
    trf__word_add(w, word, text, trf__put_code_point(text, c));
}

/* The id of the longest token that begins with the `from` bytes at text and at least one character
   more, or -1. *length is the token's, or 0. Special tokens are not found. */
TRF__FN int32_t trf__longest_token(const trf_vocab *v, const char *text, size_t from, size_t n,
                                   size_t *length)
{
    uint64_t hash = trf__hash_more(TRF__HASH_START, text, from);
    int32_t id, longest = -1;
    if (n > v->wordpiece->longest_token) n = v->wordpiece->longest_token;
    *length = 0;
    while (from < n) {
        int bytes = (int)trf__char_bytes(text + from, 4);
        hash = trf__hash_more(hash, text + from, (size_t)bytes);
        from += (size_t)bytes;
        id = trf__vocab_find(v, text, from, trf__hash_end(hash));
        if (id < 0 || trf__wordpiece_special(v, id)) continue;
        longest = id;
        *length = from;
    }
    return longest;
}

/* Gives the ids of a word and empties it. */
TRF__FN void trf__word_end(const trf_vocab *v, trf__word *word, trf__ids *to)
{
    int64_t before = to->n;
    int good = word->chars <= v->wordpiece->longest_word;
    size_t at = 2, length;
    while (good && at < word->n) {
        size_t prefix = at > 2 ? 2 : 0;
        char *text = word->text + at - prefix;
        int32_t id;
        if (prefix) text[0] = text[1] = '#';            /* over bytes that are done */
        id = trf__longest_token(v, text, prefix, word->n - at + prefix, &length);
        good = id >= 0;
        if (good) { trf__give_id(to, id, 0); at += length - prefix; }
    }
    if (!good) {
        to->n = before;
        trf__give_id(to, v->special[TRF_SPECIAL_UNK], 1);
    }
    trf__word_clear(word);
}

/* Appends the letters of a Hangul syllable (Unicode, 3.12). */
TRF__FN void trf__word_add_hangul(const trf__wordpiece *w, trf__word *word, uint32_t c)
{
    c -= 0xAC00;
    trf__word_add_code_point(w, word, 0x1100 + c / 588);
    trf__word_add_code_point(w, word, 0x1161 + c % 588 / 28);
    if (c % 28) trf__word_add_code_point(w, word, 0x11A7 + c % 28);
}

/* Appends what a rule makes of the code point c, or ends words. */
TRF__FN void trf__word_apply(const trf_vocab *v, const trf__word_rule *r, uint32_t c,
                             trf__word *word, trf__ids *to)
{
    const trf__wordpiece *w = v->wordpiece;
    int alone = r->kind & TRF__WORD_ALONE;
    const char *text;
    int bytes;
    if (word->chars && (alone || r->kind == TRF__WORD_SPACE)) trf__word_end(v, word, to);
    switch (r->kind & ~TRF__WORD_ALONE) {
    case TRF__WORD_SHIFT:
        trf__word_add_code_point(w, word, (uint32_t)((int32_t)c + r->argument));
        break;
    case TRF__WORD_HANGUL: trf__word_add_hangul(w, word, c); break;
    case TRF__WORD_TEXT:
        for (text = w->replaced + r->argument; *text; text += bytes) {
            bytes = (int)trf__char_bytes(text, 4);
            trf__word_add(w, word, text, bytes);
        }
        break;
    default: break;                     /* dropped characters and spaces add nothing */
    }
    if (alone) trf__word_end(v, word, to);
}

/* Gives the ids of a text, as trf__encode_text does. */
TRF__FN trf_status trf__wordpiece_encode(const trf_vocab *v, const char *text, trf__ids *to,
                                         trf_error *err)
{
    trf__word word;
    int bytes;
    TRF__TRY(trf__check_utf8(text, "text", err));
    trf__word_clear(&word);
    for (; *text; text += bytes) {
        uint32_t c = trf__code_point(text, &bytes);
        const trf__word_rule *r = trf__word_rule_of(v->wordpiece, c);
        if (r) trf__word_apply(v, r, c, &word, to);
        else trf__word_add(v->wordpiece, &word, text, bytes);
    }
    if (word.chars) trf__word_end(v, &word, to);
    return TRF_OK;
}

// >>wordpiece-text  from ids to text

/* Whether tokenizers' clean-up removes the blank before a token. */
TRF__FN int trf__word_joins(const char *token)
{
    static const char *const beginnings[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    size_t i;
    for (i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (!strncmp(token, beginnings[i], strlen(beginnings[i]))) return 1;
    return 0;
}

/* Ids to text: one blank between words, none before "##...", which loses its "##". The first token
   stays as it is. Special tokens are skipped, except unk. */
TRF__FN void trf__wordpiece_decode(const trf_vocab *v, const int32_t *ids, int32_t n,
                                   trf__answer *to)
{
    const trf__wordpiece *w = v->wordpiece;
    int32_t i;
    for (i = 0; i < n; i++) {
        const trf__token *t = v->tokens + ids[i];
        const char *token = v->bytes + t->begin;
        int first = to->whole == 0, goes_on = !first && !strncmp(token, "##", 2);
        int blank = !first && !goes_on && !(w->cleanup && trf__word_joins(token));
        if (ids[i] != v->special[TRF_SPECIAL_UNK] && trf__wordpiece_special(v, ids[i])) continue;
        trf__answer_add(to, i, blank, token + 2 * goes_on, (size_t)t->length - 2 * (size_t)goes_on,
                        0);
    }
}

TRF__FN void trf__write_wordpiece(trf__written *to, const void *file)
{
    const trf_wordpiece_file *f = (const trf_wordpiece_file *)file;
    trf__write_bytes(to, "", "TRFWP\0\0\1", 8);
    trf__write_numbers(to, "", &f->flags, 1);
    trf__write_numbers(to, "", &f->longest_word, 1);
    trf__write_numbers(to, "", f->special, TRF_SPECIAL_COUNT);
    trf__write_numbers(to, "", &f->n_tokens, 1);
    trf__write_numbers(to, "", &f->n_rules, 1);
    trf__write_numbers(to, "rules", f->rules, 4 * (int64_t)f->n_rules);
    trf__write_numbers(to, "", &f->n_replaced, 1);
    trf__write_bytes(to, "replaced", f->replaced, f->n_replaced);
    trf__write_texts(to, "tokens", f->tokens, NULL, f->n_tokens);
}

TRF__COLD
TRF__FN trf_status trf__vocab_from_wordpiece(trf_vocab **vocab, const void *file, size_t bytes,
                                            const trf_hooks *hooks, trf_error *err)
{
    TRF__TRY(trf__subwords_begin(vocab, TRF_WORDPIECE, "file", file, bytes, hooks, err));
    return trf__vocab_finished(vocab, *vocab, trf__read_wordpiece(*vocab, err));
}

TRF__COLD
TRF_API trf_status trf_vocab_make_wordpiece(trf_vocab **vocab, const trf_wordpiece_file *file,
                                            const trf_hooks *hooks, trf_error *err)
{
    return trf__subwords_make(vocab, file, trf__write_wordpiece, trf__vocab_from_wordpiece, hooks,
                              err);
}


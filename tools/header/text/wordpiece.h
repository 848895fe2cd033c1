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
// WordPiece) without [CLS] and [SEP] around them. Three steps (Wu et al. 2016; Devlin et al. 2019):
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
//   flags                              a sum: 1 decoding omits blanks before punctuation; 2 the
//                                      flags 4, 8, 16, 32 hold settings of BERT's tokenizer
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
       TRF__WORDPIECE_CLEANUP = 1, TRF__WORDPIECE_SETTINGS = 2,
       TRF__WORD_CHARS = 1000 };        /* no file may allow longer words */

// >>wordpiece-file  reading the stored bytes
//
// They may be hostile. Every error gives the offset of the fault.

/* Reads everything before the rules. */
TRF__FN trf_status trf__read_word_header(trf_vocab *v, int64_t *n_tokens, trf_error *err)
{
    trf__wordpiece *w = v->wordpiece;
    TRF__STORED_FAIL_IF(v->n_stored < 8 || memcmp(v->stored, "TRFWP\0\0\1", 8), 0,
                        "expected a WordPiece file, got something else");
    TRF__STORED_FAIL_IF(v->n_stored < TRF__WORD_HEADER + 4, v->n_stored,
                        "expected a header of 56 bytes, got the end");
    uint32_t flags = trf__stored_number(v, 8);
    TRF__FAIL_IF(flags > TRF__WORD_FLAGS || (flags > TRF__WORDPIECE_CLEANUP &&
                 !(flags & TRF__WORDPIECE_SETTINGS)), TRF_E_FORMAT, 8, "wordpiece",
                 "byte 8: expected flags of a WordPiece file, got %lu", (unsigned long)flags);
    uint32_t longest = trf__stored_number(v, 12);
    TRF__TRY(trf__stored_range(v, 12, "a longest word of ", longest, 1, TRF__WORD_CHARS,
                               " characters", err));
    w->cleanup = flags & TRF__WORDPIECE_CLEANUP;
    w->longest_word = (int32_t)longest;
    *n_tokens = trf__stored_number(v, 44);
    TRF__TRY(trf__stored_range(v, 44, "", *n_tokens, 1, TRF__MAX_TOKENS, " tokens", err));
    return trf__stored_specials(v, 16, *n_tokens, 0, err);
}

/* The reason why a rule cannot be used, or NULL. */
TRF__FN const char *trf__word_rule_fault(const trf_vocab *v, const trf__word_rule *r, int64_t *at)
{
    const trf__wordpiece *w = v->wordpiece;
    int64_t first = (int64_t)r->first + r->argument, last = (int64_t)r->last + r->argument;
    (void)at;
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
        if (r->argument < 0 || r->argument >= w->n_replaced || !w->replaced[r->argument]
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
    int64_t rest = v->n_stored - TRF__WORD_HEADER - 4;
    TRF__TRY(trf__stored_rows(v, 48, "rules", TRF__WORD_RULE, &rest, &w->rules.n, err));
    *at = v->n_stored - rest;
    w->n_replaced = trf__stored_number(v, *at - 4);
    w->replaced = v->stored + *at;
    if (w->n_replaced > rest || (w->n_replaced > 0 && w->replaced[w->n_replaced - 1]))
        return trf__stored_fail(v, *at - 4, "expected the size of the replacements, which end with "
                                "a NUL; got another number", err);
    int64_t bad = trf_find_invalid_utf8(w->replaced, (size_t)w->n_replaced);
    TRF__STORED_FAIL_IF(bad >= 0, *at + bad, "expected UTF-8, got something else");
    *at += w->n_replaced;
    return trf__stored_rules(v, TRF__WORD_HEADER, "rules", TRF__WORD_RULE, trf__word_rule_fault,
                             &w->rules, err);
}

/* Fills a new vocabulary from its stored bytes. */
TRF__COLD
TRF__FN trf_status trf__read_wordpiece(trf_vocab *v, trf_error *err)
{
    int64_t n_tokens = 0, at = 0;
    TRF__ALLOC_ZEROED(trf__wordpiece, v->wordpiece, &v->hooks, 1, "wordpiece", "for a vocabulary");
    TRF__TRY(trf__read_word_header(v, &n_tokens, err));
    TRF__TRY(trf__read_word_rules(v, &at, err));
    return trf__stored_tokens(v, at, n_tokens, &v->wordpiece->longest_token, err);
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

/* The longest token that begins with the `from` bytes at text and goes on within n bytes, or -1.
   *length is the token's, or 0. Special tokens are not found. */
TRF__FN int32_t trf__longest_token(const trf_vocab *v, const char *text, size_t from, size_t n,
                                   size_t *length)
{
    uint64_t hash = trf__hash_more(TRF__HASH_START, text, from);
    int32_t longest = -1;
    *length = 0;
    while (from < n && text[from]) {
        int bytes = (int)trf__char_bytes(text + from, 4);
        hash = trf__hash_more(hash, text + from, (size_t)bytes);
        from += (size_t)bytes;
        int32_t number = trf__vocab_find(v, text, from, trf__hash_end(hash));
        if (number < 0 || trf__special_token(v, number)) continue;
        longest = number;
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
        size_t prefix = at > 2 ? 2 : 0, n = word->n - at + prefix;
        char *text = word->text + at - prefix;
        if (prefix) text[0] = text[1] = '#';            /* over bytes that are done */
        if (n > v->wordpiece->longest_token) n = v->wordpiece->longest_token;
        int32_t id = trf__longest_token(v, text, prefix, n, &length);
        good = id >= 0;
        if (good) { trf__emit_id(to, id, 0); at += length - prefix; }
    }
    if (!good) {
        to->n = before;
        trf__emit_id(to, v->special[TRF_SPECIAL_UNK], 1);
    }
    trf__word_clear(word);
}

/* Letters of Hangul: 19 first ones, 21 vowels, 27 last ones or none. */
enum { TRF__HANGUL = 0xAC00, TRF__HANGUL_L = 0x1100, TRF__HANGUL_V = 0x1161, TRF__HANGUL_T = 0x11A7,
       TRF__HANGUL_N = 19 * 21 * 28 };

/* Writes the two or three letters of a syllable (Unicode, 3.12) to `to`, unless that is NULL.
   Returns their number. */
TRF__FN int trf__hangul_letters(uint32_t c, uint32_t *to)
{
    uint32_t s = c - TRF__HANGUL;
    if (to) {
        to[0] = TRF__HANGUL_L + s / (21 * 28);
        to[1] = TRF__HANGUL_V + s / 28 % 21;
        if (s % 28) to[2] = TRF__HANGUL_T + s % 28;
    }
    return 2 + (s % 28 > 0);
}

/* Appends what a rule makes of the code point c, or ends words. */
TRF__FN void trf__word_apply(const trf_vocab *v, const trf__word_rule *r, uint32_t c,
                             trf__word *word, trf__ids *to)
{
    const trf__wordpiece *w = v->wordpiece;
    int alone = r->kind & TRF__WORD_ALONE, bytes, n = 0;
    uint32_t letters[3];
    char utf8[4];
    if (word->chars && (alone || r->kind == TRF__WORD_SPACE)) trf__word_end(v, word, to);
    switch (r->kind & ~TRF__WORD_ALONE) {
    case TRF__WORD_SHIFT: letters[n++] = (uint32_t)((int32_t)c + r->argument); break;
    case TRF__WORD_HANGUL: n = trf__hangul_letters(c, letters); break;
    case TRF__WORD_TEXT:
        for (const char *text = w->replaced + r->argument; *text; text += bytes) {
            bytes = (int)trf__char_bytes(text, 4);
            trf__word_add(w, word, text, bytes);
        }
        break;
    default: break;                     /* dropped characters and spaces add nothing */
    }
    for (int i = 0; i < n; i++) trf__word_add(w, word, utf8, trf__put_code_point(utf8, letters[i]));
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
        const trf__word_rule *r = trf__find_rule(&v->wordpiece->rules, c);
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
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (!strncmp(token, beginnings[i], strlen(beginnings[i]))) return 1;
    return 0;
}

/* Appends the text of id number i: a blank before a word, none before "##...", which loses its
   "##". The first token stays as it is. Special tokens are skipped, except unk. */
TRF__FN void trf__wordpiece_add(const trf_vocab *v, trf__answer *to, int32_t i, int32_t id,
                                int first)
{
    const trf__token *t = v->tokens + id;
    const char *token = v->bytes + t->begin;
    int goes_on = !first && !strncmp(token, "##", 2);
    int blank = !first && !goes_on && !(v->wordpiece->cleanup && trf__word_joins(token));
    if (id != v->special[TRF_SPECIAL_UNK] && trf__special_token(v, id)) return;
    trf__answer_add(to, i, blank, token + 2 * goes_on, (size_t)t->length - 2 * (size_t)goes_on, 0);
}

#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"

// -----------------------------------------------------------------------------------------------
// >>byte-bpe       byte-level BPE, the subwords of GPT-2: raw text to tokens and back
//
// The ids are those of Hugging Face's tokenizers 0.23.3 (ByteLevel, BPE) without the special tokens
// that a template adds. There are four steps (Sennrich et al. 2016; Radford et al. 2019):
//
//   text -> normalised     Qwen's: composed characters (>>byte-bpe-normal)
//        -> words          by one of two rules
//        -> bytes          each is a token
//        -> ids            the pair of neighbours with the lowest rank merges, again and again
//
// The rules are regular expressions; the first alternative that matches ends a word. GPT-2's is
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// and Llama 3's, which has no line break here:
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
//   |\s*[\r\n]+|\s+(?!\S)|\s+
//
// Qwen 2's is Llama 3's with \p{N} instead of \p{N}{1,3}. SmolLM's is GPT-2's for each run between
// two numbers; each number is a word.
//
// The library has no tables of Unicode: which code points are letters (\p{L}), numbers (\p{N}) and
// white space (\s), and how characters are composed, lies in the stored bytes, which a tool writes
// when it imports a vocabulary (tools/trf).
//
// Tokens are spelled with one character for each byte, as in the files that they come from. The
// bytes 0x21 to 0x7E, 0xA1 to 0xAC and 0xAE to 0xFF are the code points of the same number; the
// others are U+0100 to U+0143 in their order. So " the" reads U+0120 "the", and no spelling has a
// blank or a NUL. A token with any other character stands for its own bytes.
//
// A text cannot contain a special token: "<s>" in a text is three ordinary characters, as it is in
// tokenizers with encode_special_tokens. Other tokens that were added to a vocabulary are not found
// in a text either; there tokenizers would find them. trf_vocab_encode with special 1 finds both.
//
// The stored bytes; all numbers are little-endian and have 32 bits:
//
//   "TRFBP" 0 0 1                      8 bytes
//   flags                              a sum: 1 Llama 3's rule; 2 a text gets a blank in front, if
//                                      it has none; 4 a word that is a token stays whole; 8 texts
//                                      are composed (NFC); 16 each number is a word
//   pad bos eos unk mask cls sep       ids, -1 for none
//   number of tokens, number of ranges, number of merges
//   ranges of code points              first, last, class; ascending, without overlap
//   merges                             two ids; the first merge has the lowest rank
//   with flag 8: number of decompositions, of compositions, of ranges with a combining class;
//   decompositions                     code point, the two that it consists of; 0 for no second
//   compositions                       two code points, and the one that they become
//   ranges with a combining class      first, last, class
//   tokens                             kind (1 byte), UTF-8, NUL; the first one's id is 0
//
// Classes are 1 letter, 2 number, 3 white space. Kinds are 0 ordinary, 1 added (no text has it), 2
// special. Every byte must be an ordinary token, and so must every result of a merge.
// Decompositions ascend by their code point, compositions by their two, ranges as above.
// Decomposing goes on with the first part; the second one does not decompose.
// -----------------------------------------------------------------------------------------------

enum { TRF__BYTE_OTHER, TRF__BYTE_LETTER, TRF__BYTE_NUMBER, TRF__BYTE_WHITE, TRF__BYTE_END };
enum { TRF__BYTE_FLAGS = 31, TRF__BYTE_HEADER = 52, TRF__BYTE_RANGE = 12, TRF__BYTE_MERGE = 8 };
#define TRF__BYTE_SPACE "\xC4\xA0"              /* U+0120, the spelling of a blank */

/* Writes the spelling of a byte, at most two bytes. Returns their number. */
TRF__FN int trf__spell_byte(unsigned char byte, char *to)
{
    uint32_t c = byte;
    if (c < 0x21) c += 0x100;
    else if (c >= 0x7F && c < 0xA1) c += 0x121 - 0x7F;
    else if (c == 0xAD) c = 0x143;
    return trf__put_code_point(to, c);
}

/* The byte that a character spells, or -1. *n is the character's length. */
TRF__FN int trf__spelled_byte(const char *text, int *n)
{
    uint32_t c = trf__code_point(text, n);
    if (c >= 0x100 && c < 0x121) return (int)c - 0x100;
    if (c >= 0x121 && c < 0x143) return (int)c - 0x121 + 0x7F;
    if (c == 0x143) return 0xAD;
    return c < 0x21 || (c >= 0x7F && c < 0xA1) || c == 0xAD || c > 0xFF ? -1 : (int)c;
}

/* The rank of a merge, or -1. *at is its entry, or an empty one. Both ids decide the entry. */
TRF__FN int32_t trf__merge_rank(const trf__byte_bpe *b, int32_t left, int32_t right, uint64_t *at)
{
    uint64_t mask = (uint64_t)b->n_entries - 1;
    uint64_t hash = trf__hash_end((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    for (*at = hash & mask; b->entries[*at]; *at = (*at + trf__entry_step(hash)) & mask) {
        const trf__byte_merge *m = &b->merges[b->entries[*at] - 1];
        if (m->left == left && m->right == right) return b->entries[*at] - 1;
    }
    return -1;
}

// >>byte-bpe-file  reading the stored bytes
//
// They may be hostile. Every error gives the offset of the fault.

/* Reads everything before the ranges. */
TRF__COLD
TRF__FN trf_status trf__read_byte_header(trf_vocab *v, int64_t *n_tokens, trf_error *err)
{
    trf__byte_bpe *b = v->byte_bpe;
    int64_t rest = v->n_stored - TRF__BYTE_HEADER;
    TRF__STORED_FAIL_IF(v->n_stored < 8 || memcmp(v->stored, "TRFBP\0\0\1", 8), 0,
                        "expected a file of byte-level BPE, got something else");
    TRF__STORED_FAIL_IF(rest < 0, v->n_stored, "expected a header of 52 bytes, got the end");
    b->flags = trf__stored_number(v, 8);
    *n_tokens = trf__stored_number(v, 40);
    TRF__TRY(trf__stored_range(v, 8, "flags from ", b->flags, 0, TRF__BYTE_FLAGS, "", err));
    TRF__TRY(trf__stored_range(v, 40, "", *n_tokens, 256, TRF__MAX_TOKENS, " tokens", err));
    TRF__TRY(trf__stored_rows(v, 44, "ranges", TRF__BYTE_RANGE, &rest, &b->ranges.n, err));
    TRF__TRY(trf__stored_rows(v, 48, "merges", TRF__BYTE_MERGE, &rest, &b->n_merges, err));
    b->tokens_at = v->n_stored - rest;
    return trf__stored_specials(v, 12, *n_tokens, -1, err);
}

/* The reason why a range of code points cannot be used, or NULL. */
TRF__FN const char *trf__byte_range_fault(const trf_vocab *v, const trf__word_rule *r, int64_t *at)
{
    (void)v;
    if (r->first > r->last || r->last > 0x10FFFF)
        return "expected a range of code points, got other numbers";
    if (r->kind >= TRF__BYTE_LETTER && r->kind <= TRF__BYTE_WHITE) return NULL;
    *at += 8;
    return "expected a class from 1 to 3, got another number";
}

// >>byte-bpe-tables  the tables for composing, checked

/* Number `index` of a row of a table for composing. */
TRF__FN uint32_t trf__nfc_number(const trf_vocab *v, int table, int64_t row, int index)
{
    return trf__stored_number(v, v->byte_bpe->nfc[table] + TRF__NFC_ROW * row + 4 * index);
}

/* What the rows of a table ascend by: a code point, two, or the last one of a range. */
TRF__FN uint64_t trf__nfc_key(const trf_vocab *v, int table, int64_t row)
{
    return (uint64_t)trf__nfc_number(v, table, row, table == TRF__NFC_CLASSES) << 32 |
           (table == TRF__NFC_PAIRS ? trf__nfc_number(v, table, row, 1) : 0);
}

/* The row of a code point, of two, or of a range that has it; or -1. */
TRF__FN int64_t trf__nfc_row(const trf_vocab *v, int table, uint32_t c, uint32_t second)
{
    int64_t row = 0, n = v->byte_bpe->n_nfc[table];
    uint64_t key = (uint64_t)c << 32 | second;
    TRF__BISECT(row, n, trf__nfc_key(v, table, middle) < key);
    return row < n && (table == TRF__NFC_CLASSES ? trf__nfc_number(v, table, row, 0) <= c
                                                 : trf__nfc_key(v, table, row) == key) ? row : -1;
}

/* A code point beyond ASCII that a table may have: Hangul is computed. */
TRF__FN int trf__is_nfc_point(uint32_t c)
{
    return c >= 128 && c <= 0x10FFFF && (c < 0xAC00 || c > 0xDFFF);
}

/* A code point that stands first in a pair, ASCII too. */
TRF__FN int trf__is_nfc_first(uint32_t c)
{
    return c >= 1 && (c < 128 || trf__is_nfc_point(c));
}

/* The fault of a row of a table, or NULL. Rows before it are sound. */
TRF__FN const char *trf__nfc_fault(const trf_vocab *v, int table, int64_t row)
{
    static const char *const wanted[TRF__NFC_TABLES] = {
        "expected a code point and its parts, got others",
        "expected three code points, got others",
        "expected a range of code points and a class from 1 to 254, got others"};
    uint32_t a = trf__nfc_number(v, table, row, 0), b = trf__nfc_number(v, table, row, 1);
    uint32_t c = trf__nfc_number(v, table, row, 2);
    uint64_t begin = (uint64_t)a << 32 | (table == TRF__NFC_PAIRS ? b : 0);
    int good;
    if (row > 0 && begin <= trf__nfc_key(v, table, row - 1))
        return "expected rows in ascending order, got one that is not";
    if (table == TRF__NFC_PARTS)
        good = trf__is_nfc_point(a) && trf__is_nfc_first(b) && (!c || trf__is_nfc_point(c));
    else if (table == TRF__NFC_PAIRS)
        good = trf__is_nfc_first(a) && trf__is_nfc_point(b) && trf__is_nfc_point(c);
    else good = a <= b && b <= 0x10FFFF && c >= 1 && c <= 254;
    return good ? NULL : wanted[table];
}

/* The second parts of a character and of its first parts, the last one first. Returns their number,
   or -1: they are too many. *c becomes the character that does not decompose. */
TRF__FN int trf__nfc_parts(const trf_vocab *v, uint32_t *c, uint32_t parts[TRF__NFC_DEPTH])
{
    int64_t row;
    int n = 0, steps = 0;
    while ((row = trf__nfc_row(v, TRF__NFC_PARTS, *c, 0)) >= 0) {
        if (steps++ == TRF__NFC_DEPTH) return -1;
        *c = trf__nfc_number(v, TRF__NFC_PARTS, row, 1);
        uint32_t second = trf__nfc_number(v, TRF__NFC_PARTS, row, 2);
        if (second) parts[n++] = second;
    }
    return n;
}

/* Finds and checks the tables for composing, between merges and tokens. */
TRF__COLD
TRF__FN trf_status trf__read_nfc(trf_vocab *v, trf_error *err)
{
    trf__byte_bpe *b = v->byte_bpe;
    int64_t at = b->tokens_at, rest = v->n_stored - at - 12;
    const char *fault;
    uint32_t parts[TRF__NFC_DEPTH];
    TRF__STORED_FAIL_IF(rest < 0, at, "expected sizes of three tables, got the end");
    b->tokens_at += 12;
    for (int k = 0; k < TRF__NFC_TABLES; k++) {
        b->nfc[k] = b->tokens_at;
        b->n_nfc[k] = trf__stored_number(v, at + 4 * k);
        TRF__STORED_FAIL_IF(b->n_nfc[k] > rest / TRF__NFC_ROW, at + 4 * k,
                            "the rest of the file is too short for so many rows");
        rest -= TRF__NFC_ROW * b->n_nfc[k];
        b->tokens_at += TRF__NFC_ROW * b->n_nfc[k];
    }
    for (int k = 0; k < TRF__NFC_TABLES; k++)
        for (int64_t row = 0; row < b->n_nfc[k]; row++)
            TRF__STORED_FAIL_IF((fault = trf__nfc_fault(v, k, row)) != NULL,
                                b->nfc[k] + TRF__NFC_ROW * row, fault);
    for (int64_t row = 0; row < b->n_nfc[TRF__NFC_PARTS]; row++) {
        int64_t where = b->nfc[TRF__NFC_PARTS] + TRF__NFC_ROW * row;
        uint32_t c = trf__nfc_number(v, TRF__NFC_PARTS, row, 2);
        TRF__STORED_FAIL_IF(c && trf__nfc_row(v, TRF__NFC_PARTS, c, 0) >= 0, where + 8,
                            "expected a part that does not decompose, got one that does");
        c = trf__nfc_number(v, TRF__NFC_PARTS, row, 0);
        TRF__STORED_FAIL_IF(trf__nfc_parts(v, &c, parts) < 0, where,
                            "expected at most eight steps of decomposing, got more");
    }
    return TRF_OK;
}

// >>byte-bpe-merges  tokens and merges

/* Finds the token of each byte. */
TRF__FN trf_status trf__find_byte_tokens(trf_vocab *v, trf_error *err)
{
    trf__byte_bpe *b = v->byte_bpe;
    char spelling[4];
    for (int i = 0; i < 256; i++) {
        int n = trf__spell_byte((unsigned char)i, spelling);
        b->token[i] = trf__vocab_number(v, spelling, (size_t)n);
        TRF__FAIL_IF(b->token[i] < 0 || v->tokens[b->token[i]].count != TRF__BPE_ORDINARY,
                     TRF_E_FORMAT, v->n_stored, "byte_bpe",
                     "expected an ordinary token for each byte, got none for 0x%02X", (unsigned)i);
    }
    return TRF_OK;
}

/* Enters merge number i, which is read, into the table of pairs. Returns its fault, or NULL. `work`
   has room for the longest token. */
TRF__FN const char *trf__enter_merge(trf_vocab *v, int32_t i, char *work)
{
    trf__byte_bpe *b = v->byte_bpe;
    trf__byte_merge *m = b->merges + i;
    uint64_t entry;
    if (m->left < 0 || m->left >= v->n_tokens || m->right < 0 || m->right >= v->n_tokens)
        return "expected two ids of tokens, got another number";
    const trf__token *l = v->tokens + m->left, *r = v->tokens + m->right;
    size_t n = (size_t)l->length + (size_t)r->length;
    m->token = -1;
    if (n <= b->longest_token) {
        memcpy(work, v->bytes + l->begin, (size_t)l->length);
        memcpy(work + l->length, v->bytes + r->begin, (size_t)r->length);
        m->token = trf__vocab_number(v, work, n);
    }
    if (m->token < 0) return "expected tokens that form a third one, got others";
    if (v->tokens[m->token].count != TRF__BPE_ORDINARY)
        return "expected a merge to an ordinary token, got an added or a special one";
    if (trf__merge_rank(b, m->left, m->right, &entry) >= 0)
        return "expected every merge once, got one twice";
    b->entries[entry] = i + 1;
    return NULL;
}

TRF__COLD
TRF__FN trf_status trf__read_merges(trf_vocab *v, trf_error *err)
{
    trf__byte_bpe *b = v->byte_bpe;
    int64_t at = TRF__BYTE_HEADER + TRF__BYTE_RANGE * (int64_t)b->ranges.n;
    const char *fault = NULL;
    char *work = TRF__NEW(char, &v->hooks, b->longest_token);
    int32_t i;
    b->n_entries = 2;
    while (b->n_entries <= 2 * (int64_t)b->n_merges) b->n_entries *= 2;
    b->merges = TRF__NEW(trf__byte_merge, &v->hooks, b->n_merges);
    b->entries = TRF__NEW_ZEROED(int32_t, &v->hooks, b->n_entries);
    for (i = 0; work && b->merges && b->entries && !fault && i < b->n_merges; i++) {
        b->merges[i].left = trf__stored_signed(v, at + TRF__BYTE_MERGE * (int64_t)i);
        b->merges[i].right = trf__stored_signed(v, at + TRF__BYTE_MERGE * (int64_t)i + 4);
        fault = trf__enter_merge(v, i, work);
    }
    trf__free(&v->hooks, work, b->longest_token);
    TRF__FAIL_IF(!work || !b->merges || !b->entries, TRF_E_NOMEM, -1, "byte_bpe",
                 "no memory for %d merges", (int)b->n_merges);
    if (!fault) return TRF_OK;
    at += TRF__BYTE_MERGE * (int64_t)(i - 1);
    return trf__fail(err, TRF_E_FORMAT, at, "byte_bpe", "merge %d, byte %lld: %s", (int)i - 1,
                     (long long)at, fault);
}

/* Fills a new vocabulary from its stored bytes. */
TRF__COLD
TRF__FN trf_status trf__read_byte_bpe(trf_vocab *v, trf_error *err)
{
    int64_t n_tokens = 0;
    TRF__ALLOC_ZEROED(trf__byte_bpe, v->byte_bpe, &v->hooks, 1, "byte_bpe", "for a vocabulary");
    trf__byte_bpe *b = v->byte_bpe;
    TRF__TRY(trf__read_byte_header(v, &n_tokens, err));
    TRF__TRY(trf__stored_rules(v, TRF__BYTE_HEADER, "ranges", TRF__BYTE_RANGE,
                               trf__byte_range_fault, &b->ranges, err));
    if (b->flags & TRF__BPE_NFC) TRF__TRY(trf__read_nfc(v, err));
    TRF__TRY(trf__stored_tokens(v, b->tokens_at, n_tokens, &b->longest_token, err));
    TRF__TRY(trf__find_byte_tokens(v, err));
    return trf__read_merges(v, err);
}

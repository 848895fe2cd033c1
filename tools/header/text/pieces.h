#pragma once
#include "api/basics.h"
#include "api/vocab.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"

// -----------------------------------------------------------------------------------------------
// >>pieces         SentencePiece models: raw text to subwords and back
//
// A reader of the files that SentencePiece trains (Kudo and Richardson 2018): unigram (Kudo 2018)
// and BPE (Sennrich et al. 2016). Its results equal those of libsentencepiece 0.2.3, so its steps,
// its rounding and its limits are the same.
//
//   text -> normalised     the longest matching rule of the model's map replaces a part; blanks
//                          become U+2581
//        -> pieces         unigram: the path with the highest sum of scores; BPE: the best pair
//                          is merged, again and again
//        -> ids            4 + number of the piece among the pieces of text, or what a map says
//                          (>>pieces-map); a run of unknown pieces is one unk, or bytes
//
// The file is a protocol buffer. Only a dozen of its fields matter, so trf__wire_next reads them: a
// library would be larger than this chapter. The file may be hostile, and errors give the offset.
// Pieces are tokens of the vocabulary. A double array (Aoe 1989) finds them by their first bytes:
// the child of node s for byte c is cell base(s) + c, if the parent of that cell is s.
// -----------------------------------------------------------------------------------------------

/* types of pieces, by their numbers in the file; 0: a token of a map that is no piece */
enum { TRF__PIECE_MORE = 0, TRF__PIECE_NORMAL = 1, TRF__PIECE_UNKNOWN, TRF__PIECE_CONTROL,
       TRF__PIECE_USER, TRF__PIECE_UNUSED, TRF__PIECE_BYTE };
#define TRF__SPACE "\xE2\x96\x81"               /* U+2581 */
#define TRF__REPLACEMENT "\xEF\xBF\xBD"         /* U+FFFD */

// >>pieces-map     ids of a published model, which are not those of its SentencePiece file
//
// With a map, every piece is a token, control and unknown pieces too, and so are the further
// tokens. A map stands before the SentencePiece file, whose first byte is never 'T'. All numbers
// are little-endian and have 32 bits:
//
//   "TRFPM" 0 0 1                      8 bytes
//   flags                              bit 0: a text may begin with a code, as in ">>fr<< Hello"
//   number of ids
//   pad bos eos unk mask cls sep       ids, -1 for none
//   number of pieces of the file, number of further tokens, bytes of their texts
//   id of each piece                   -1: the model lacks it
//   id of each further token
//   texts of the further tokens        UTF-8, each followed by a NUL
//   the SentencePiece file
//
// Faults name an array of trf_piece_ids and the index in it.

enum { TRF__MAP_HEADER = 56, TRF__MAP_SIZE = 1 << 24 };

/* A signed number of the map. */
TRF__FN int32_t trf__map_number(const trf_vocab *v, int64_t index)
{
    return trf__stored_signed(v, 8 + 4 * index);
}
/* Index of the id of piece 0. The further tokens' ids follow. */
enum { TRF__MAP_IDS = (TRF__MAP_HEADER - 8) / 4 };

TRF__FN trf_status trf__map_fail(const char *array, int64_t at, const char *fault, int32_t got,
                                 trf_error *err)
{
    TRF__FAIL_IF(at < 0, TRF_E_FORMAT, at, array, "%s: expected %s, got %d", array, fault,
                 (int)got);
    return trf__fail(err, TRF_E_FORMAT, at, array, "%s[%lld]: expected %s, got %d", array,
                     (long long)at, fault, (int)got);
}
#define TRF__MAP_FAIL_IF(condition, array, at, fault, got) \
    do { if (condition) return trf__map_fail(array, at, fault, got, err); } while (0)

/* Checks an id of a map, or -1. */
TRF__FN trf_status trf__map_range(const trf__pieces *p, const char *array, int64_t at, int32_t id,
                                  int32_t least, trf_error *err)
{
    if (id >= least && id < p->size) return TRF_OK;
    return trf__map_fail(array, at, least < 0 ? "-1 or an id below size" : "an id below size", id,
                         err);
}

/* Reads a number of the header, which has a range; `wanted` says what it is. */
TRF__FN trf_status trf__map_read(const trf_vocab *v, int64_t index, const char *array,
                                 const char *wanted, int64_t least, int64_t most, int32_t *to,
                                 trf_error *err)
{
    int32_t x = trf__map_number(v, index);
    TRF__MAP_FAIL_IF(x < least || x > most, array, -1, wanted, x);
    *to = x;
    return TRF_OK;
}

/* Reads the map's header, if there is a map, and finds the file behind it. */
TRF__COLD
TRF__FN trf_status trf__read_map(trf_vocab *v, trf_error *err)
{
    trf__pieces *p = v->pieces;
    int64_t rest = v->n_stored - TRF__MAP_HEADER;
    int32_t texts = 0;
    if (v->n_stored < 8 || memcmp(v->stored, "TRFPM\0\0\1", 8)) return TRF_OK;
    TRF__MAP_FAIL_IF(rest < 0, "pieces", -1, "a map of 56 bytes or more", (int32_t)v->n_stored);
    TRF__TRY(trf__map_read(v, 0, "codes", "0 or 1", 0, 1, &p->codes, err));
    TRF__TRY(trf__map_read(v, 1, "size", "1 to 16777216 ids", 1, TRF__MAP_SIZE, &p->size, err));
    for (int32_t i = 0; i < TRF_SPECIAL_COUNT; i++) {
        v->special[i] = trf__map_number(v, 2 + i);
        TRF__TRY(trf__map_range(p, "special", i, v->special[i], -1, err));
    }
    TRF__TRY(trf__map_read(v, 9, "pieces", "the number of the file's pieces", 1, rest / 4,
                           &p->n_mapped, err));
    rest -= 4 * (int64_t)p->n_mapped;
    TRF__TRY(trf__map_read(v, 10, "more", "the number of the further tokens", 0, rest / 4,
                           &p->n_more, err));
    rest -= 4 * (int64_t)p->n_more;
    TRF__TRY(trf__map_read(v, 11, "more", "the bytes of the further tokens", 0, rest, &texts, err));
    p->model_bytes = rest - texts;
    p->model = v->stored + (v->n_stored - p->model_bytes);
    return TRF_OK;
}

/* Whether text can contain a piece: bytes, control and unknown pieces stand for something else. */
TRF__FN int trf__is_text_piece(int32_t type)
{
    return type == TRF__PIECE_NORMAL || type == TRF__PIECE_USER || type == TRF__PIECE_UNUSED;
}

/* Whether a text can be a token: UTF-8 without NUL. */
TRF__FN int trf__is_line(const char *text, size_t n)
{
    return trf_find_invalid_utf8(text, n) < 0 && !memchr(text, 0, n);
}

/* Enters the piece that was read last as a token. Without a map its id is 4 and its number. */
TRF__FN trf_status trf__enter_piece(trf_vocab *v, const char *text, size_t length, trf__piece piece,
                                    trf_error *err)
{
    trf__pieces *p = v->pieces;
    TRF__TRY(trf__vocab_insert(v, text, length, 0, err));
    TRF__GROW(trf__piece, p->pieces, p->capacity, v->n_tokens, &v->hooks);
    if (!p->n_mapped) piece.id = (int32_t)v->n_tokens - 1 + TRF__SPECIALS;
    p->pieces[v->n_tokens - 1] = piece;
    return TRF_OK;
}

/* Enters the further tokens. Their texts end where the file begins. */
TRF__FN trf_status trf__enter_more(trf_vocab *v, trf_error *err)
{
    trf__pieces *p = v->pieces;
    int64_t first = TRF__MAP_IDS + (int64_t)p->n_mapped;
    const char *text = v->stored + 8 + 4 * (first + p->n_more);
    for (int32_t i = 0; i < p->n_more; i++) {
        const char *end = (const char *)memchr(text, 0, (size_t)(p->model - text));
        size_t n = end ? (size_t)(end - text) : 0;
        trf__piece piece = {0, TRF__PIECE_MORE, trf__map_number(v, first + i)};
        TRF__TRY(trf__map_range(p, "more_ids", i, piece.id, 0, err));
        TRF__MAP_FAIL_IF(n < 1 || n > TRF__MAX_TOKEN_BYTES || !trf__is_line(text, n), "more", i,
                         "a text of UTF-8, of 1 byte to 1 MiB, and its NUL",
                         (int32_t)trf__min64((int64_t)n, INT32_MAX));
        TRF__MAP_FAIL_IF(trf__vocab_number(v, text, n) >= 0, "more", i, "every token once", 2);
        TRF__TRY(trf__enter_piece(v, text, n, piece, err));
        text = end + 1;
    }
    if (text == p->model) return TRF_OK;
    return trf__map_fail("more", p->n_more, "the SentencePiece file after the last token",
                         *text, err);
}

/* Special ids belong to tokens that no text contains. One of `more` becomes a control piece. */
TRF__FN trf_status trf__check_special(const trf_vocab *v, int which, trf_error *err)
{
    const trf__pieces *p = v->pieces;
    int32_t id = v->special[which], token = id < 0 ? -1 : p->tokens[id];
    if (id < 0) return TRF_OK;
    TRF__MAP_FAIL_IF(token < 0, "special", which, "the id of a token", id);
    int32_t type = p->pieces[token].type;
    if (type == TRF__PIECE_MORE) p->pieces[token].type = TRF__PIECE_CONTROL;
    else if (type != TRF__PIECE_CONTROL && type != TRF__PIECE_UNKNOWN)
        return trf__map_fail("special", which, "the id of no piece of text", id, err);
    return TRF_OK;
}

/* Finishes a vocabulary with a map: the token of each id, and what special ids need. */
TRF__COLD
TRF__FN trf_status trf__apply_map(trf_vocab *v, trf_error *err)
{
    trf__pieces *p = v->pieces;
    TRF__MAP_FAIL_IF(p->n_read < p->n_mapped, "pieces", p->n_read,
                     "as many ids as the file has pieces", p->n_mapped);
    TRF__TRY(trf__enter_more(v, err));
    TRF__ALLOC(int32_t, p->tokens, &v->hooks, p->size, "size", "for %d ids", (int)p->size);
    for (int32_t i = 0; i < p->size; i++) p->tokens[i] = -1;
    for (int32_t i = 0; i < v->n_tokens; i++) {
        int32_t id = p->pieces[i].id, more = i >= p->n_mapped;
        TRF__MAP_FAIL_IF(id >= 0 && p->tokens[id] >= 0, more ? "more_ids" : "pieces",
                         more ? i - p->n_mapped : i, "every id once", id);
        if (id >= 0) p->tokens[id] = i;
        else if (v->special[TRF_SPECIAL_UNK] < 0 && (trf__is_text_piece(p->pieces[i].type) ||
                                                     p->pieces[i].type >= TRF__PIECE_BYTE))
            return trf__map_fail("pieces", i, "an id, as there is no unk", id, err);
    }
    TRF__MAP_FAIL_IF(v->special[TRF_SPECIAL_UNK] < 0 && !p->byte_fallback, "special",
                     TRF_SPECIAL_UNK, "unk, as there is no byte fallback", -1);
    for (int32_t i = 0; i < TRF_SPECIAL_COUNT; i++) TRF__TRY(trf__check_special(v, i, err));
    return TRF_OK;
}

/* The token of an id, or -1: a special id without a token, or an id that nothing has. */
TRF__FN int32_t trf__token_of(const trf_vocab *v, int32_t id)
{
    if (trf__is_mapped(v)) return v->pieces->tokens[id];
    return id < trf__first_id(v) ? -1 : id - trf__first_id(v);
}

/* The type of a token; -1 counts as control: neither appears in text. */
TRF__FN int32_t trf__type_of(const trf__pieces *p, int32_t token)
{
    return token < 0 ? (int32_t)TRF__PIECE_CONTROL : p->pieces[token].type;
}

/* The id of the token with this text, or -1. Control and unknown pieces are not found. */
TRF__FN int32_t trf__id_of_text(const trf_vocab *v, const char *text, size_t n)
{
    int32_t token = trf__vocab_number(v, text, n), type = trf__type_of(v->pieces, token);
    if (type == TRF__PIECE_CONTROL || type == TRF__PIECE_UNKNOWN) return -1;
    return v->pieces->pieces[token].id;
}

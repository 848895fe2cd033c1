#pragma once
#include "api/basics.h"
#include "api/vocab.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/pieces.h"
#include "text/pieces_file.h"

// >>pieces-text    bytes, blanks, unknown pieces
//
// The text of an id is written whole or not at all: too small a buffer ends within no character.

/* The text of an answer. `written` bytes are in `text`, `whole` is the length of all of it, and
   `cut` is the index of the first id that did not fit, or -1. */
typedef struct trf__answer { char *text; size_t size, whole, written; int32_t cut; } trf__answer;

/* Counts the length of the text of id number i. Returns whether it is written: all of it fits. */
TRF__FN int trf__answer_room(trf__answer *to, int32_t i, size_t length)
{
    to->whole = trf__add_size(to->whole, length);
    if (to->whole >= to->size && to->cut < 0) to->cut = i;
    return to->cut < 0;
}

/* Appends the text of id number i: after a blank if `blank` is set, with a blank for every U+2581
   if `spaces` is set. */
TRF__FN void trf__answer_add(trf__answer *to, int32_t i, int blank, const char *text, size_t n,
                             int spaces)
{
    size_t at, length = n + (size_t)blank;
    for (at = 0; spaces && at + 3 <= n; at++) if (!memcmp(text + at, TRF__SPACE, 3)) length -= 2;
    if (!trf__answer_room(to, i, length)) return;
    if (blank) to->text[to->written++] = ' ';
    for (at = 0; at < n; at++) {
        int space = spaces && at + 3 <= n && !memcmp(text + at, TRF__SPACE, 3);
        to->text[to->written++] = space ? ' ' : text[at];
        if (space) at += 2;
    }
}

/* Copies the bytes of the first byte pieces, at most four: a character. Returns their number. */
TRF__FN int trf__piece_bytes(const trf_vocab *v, const int32_t *ids, int32_t n, char bytes[4])
{
    int m = 0;
    for (; m < 4 && m < n; m++) {
        int32_t type = trf__type_of(v->pieces, trf__token_of(v, ids[m]));
        if (type < TRF__PIECE_BYTE) break;
        bytes[m] = (char)(unsigned char)(type - TRF__PIECE_BYTE);
    }
    return m;
}

/* Pieces to text. Blanks at the beginning that normalising has added are dropped. Bytes join into
   characters; a byte outside any character becomes U+FFFD. */
TRF__FN void trf__pieces_decode(const trf_vocab *v, const int32_t *ids, int32_t n, trf__answer *to)
{
    const trf__pieces *p = v->pieces;
    int first = 1, dropped = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t token = trf__token_of(v, ids[i]), type = trf__type_of(p, token);
        int unknown = ids[i] == v->special[TRF_SPECIAL_UNK] || type == TRF__PIECE_UNKNOWN;
        char bytes[4];
        size_t m, k = 0;
        if (type == TRF__PIECE_CONTROL && !unknown) continue;
        if ((m = (size_t)trf__piece_bytes(v, ids + i, n - i, bytes)) > 0) {
            k = (size_t)trf__utf8_at(bytes, m);
            trf__answer_add(to, i, 0, k ? bytes : TRF__REPLACEMENT, k ? k : 3, 0);
            if (k > 1) i += (int32_t)k - 1;
            continue;
        }
        /* without remove_extra, normalising adds one blank at most: only that one is dropped */
        if (dropped || to->whole > 0) first = 0;
        dropped = 0;
        if (unknown) { trf__answer_add(to, i, 0, p->unknown, p->n_unknown, 0); continue; }
        const trf__token *t = v->tokens + token;
        if (first && (p->dummy_prefix || p->remove_extra) && !strncmp(v->bytes + t->begin,
                                                                      TRF__SPACE, 3)) k = 3;
        dropped = k > 0 && !p->remove_extra;
        trf__answer_add(to, i, 0, v->bytes + t->begin + k, (size_t)t->length - k, 1);
    }
}

/* Fills a new vocabulary from its stored bytes. */
TRF__COLD
TRF__FN trf_status trf__read_sentencepiece(trf_vocab *v, trf_error *err)
{
    TRF__ALLOC_ZEROED(trf__pieces, v->pieces, &v->hooks, 1, "vocab", "for a SentencePiece model");
    trf__pieces *p = v->pieces;
    p->model = v->stored;
    p->model_bytes = v->n_stored;
    /* the defaults of fields that the file omits; unk reads U+2047 between blanks */
    p->unigram = p->dummy_prefix = p->remove_extra = p->escape = 1;
    p->unknown = " \xE2\x81\x87 ";
    p->n_unknown = 5;
    p->least = FLT_MAX;
    for (int i = 0; i < 256; i++) p->bytes[i] = -1;
    TRF__TRY(trf__read_map(v, err));
    TRF__TRY(trf__read_pieces(v, err));
    TRF__TRY(trf__pieces_index(v, err));
    return p->n_mapped ? trf__apply_map(v, err) : TRF_OK;
}

/* Counts the pieces of a SentencePiece file. */
TRF__FN trf_status trf__count_pieces(const void *model, size_t bytes, int32_t *n, trf_error *err)
{
    const unsigned char *begin = (const unsigned char *)model;
    trf__wire w = {begin, begin, begin + bytes, begin, 0, 0};
    int more;
    for (*n = 0; ; *n += w.key == 8 * 1 + 2) {
        TRF__TRY(trf__wire_next(&w, &more, err));
        if (!more) return TRF_OK;
    }
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
    if (n > 0 && !numbers) w->missing = name;
    for (int64_t i = 0; i < n && !w->missing; i++) {
        trf__to_little(bytes, (uint32_t)numbers[i], 4);
        trf__write_bytes(w, name, bytes, 4);
    }
}

/* Texts, each with its NUL. */
TRF__FN void trf__write_texts(trf__written *w, const char *name, const char *const *texts,
                              int32_t n)
{
    if (n > 0 && !texts) w->missing = name;
    for (int32_t i = 0; i < n && !w->missing; i++)
        trf__write_bytes(w, name, texts[i], texts[i] ? (int64_t)strlen(texts[i]) + 1 : 1);
}

/* A SentencePiece file of n pieces, and their ids. */
typedef struct trf__mapped_file {
    const trf_piece_ids *ids;
    const void *model;
    int64_t bytes;
    int32_t n;
} trf__mapped_file;

/* The map (>>pieces-map) and the file. */
TRF__COLD
TRF__FN void trf__write_mapped(trf__written *to, const trf__mapped_file *f)
{
    const trf_piece_ids *ids = f->ids;
    trf__written texts = {NULL, 0, NULL};
    trf__write_texts(&texts, "more", ids->more, ids->n_more);
    const int32_t sizes[3] = {f->n, ids->n_more, (int32_t)texts.n};
    trf__write_bytes(to, "", "TRFPM\0\0\1", 8);
    trf__write_numbers(to, "", &ids->codes, 1);
    trf__write_numbers(to, "", &ids->size, 1);
    trf__write_numbers(to, "", ids->special, TRF_SPECIAL_COUNT);
    trf__write_numbers(to, "", sizes, 3);
    if (ids->pieces) trf__write_numbers(to, "", ids->pieces, f->n);
    else for (int32_t i = 0; i < f->n; i++) trf__write_numbers(to, "", &i, 1);
    trf__write_numbers(to, "more_ids", ids->more_ids, ids->n_more);
    trf__write_texts(to, "more", ids->more, ids->n_more);
    trf__write_bytes(to, "", f->model, f->bytes);
}

/* Map and file as model files store them: one reader checks both. */
TRF__COLD
TRF__FN trf_status trf__vocab_from_pieces(trf_vocab **vocab, const void *model, size_t bytes,
                                         const trf_piece_ids *ids, const trf_hooks *hooks,
                                         trf_error *err)
{
    trf__mapped_file file = {ids, model, (int64_t)bytes, 0};
    trf__written w = {NULL, 0, NULL};
    TRF__BEGIN_NEW(vocab);
    if (!model) return trf__fail_null(err, "model");
    if (!ids) return trf__fail_null(err, "ids");
    TRF__TRY(trf__check_range("n_more", ids->n_more, 0, TRF__MAP_SIZE, err));
    TRF__TRY(trf__count_pieces(model, bytes, &file.n, err));
    TRF__FAIL_IF(ids->pieces && ids->n_pieces != file.n, TRF_E_FORMAT, -1, "n_pieces",
                 "the SentencePiece file has %d pieces, and n_pieces is %d", (int)file.n,
                 (int)ids->n_pieces);
    if (!hooks) hooks = &trf__no_hooks;
    trf__write_mapped(&w, &file);
    if (w.missing) return trf__fail_null(err, w.missing);
    w.to = w.n > INT32_MAX ? NULL : TRF__NEW(char, hooks, w.n);
    TRF__FAIL_IF(!w.to, w.n > INT32_MAX ? TRF_E_LIMIT : TRF_E_NOMEM, -1, "bytes",
                 "no memory for a file of %llu bytes", (unsigned long long)w.n);
    w.n = 0;
    trf__write_mapped(&w, &file);
    trf_status status = trf__subwords_from(vocab, TRF_SENTENCEPIECE, trf__read_sentencepiece, w.to,
                                           w.n, hooks, err);
    trf__free(hooks, w.to, w.n);
    return status;
}

#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/pieces.h"

// >>pieces-file    reading the protocol buffers of a SentencePiece model
//
// trf__read_pieces walks over the file for trf_vocab_from_sentencepiece. Fields with unknown
// numbers are skipped, as protocol buffers intend: later versions of SentencePiece may add some.

/* A cursor over the fields of one message. key is 8 * number + wire type. value is the field's
   number, or the count of its bytes at `bytes`. */
typedef struct trf__wire {
    const unsigned char *begin, *at, *end, *bytes;
    uint64_t value, key;
} trf__wire;

/* A number in groups of 7 bits, lowest first. Returns 0 if it does not end within 64 bits. */
TRF__FN int trf__wire_number(trf__wire *w, uint64_t *value)
{
    int shift;
    for (*value = 0, shift = 0; w->at < w->end && shift < 64; shift += 7) {
        *value |= (uint64_t)(*w->at & 127) << shift;
        if (!(*w->at++ & 128)) return 1;
    }
    return 0;
}

/* Reports a fault of the bytes at w->bytes. */
TRF__FN trf_status trf__wire_fail(const trf__wire *w, trf_status status, const char *fault,
                                  trf_error *err)
{
    long long at = (long long)(w->bytes - w->begin);
    return trf__fail(err, status, at, "sentencepiece", "byte %lld: %s", at, fault);
}

/* Moves to the next field; *more = 0 at the end of the message. Wire types: 0 is a number, 1 eight
   bytes, 2 counted bytes, 5 four bytes. */
TRF__FN trf_status trf__wire_next(trf__wire *w, int *more, trf_error *err)
{
    int type, good;
    if (!(*more = w->at < w->end)) return TRF_OK;
    w->bytes = w->at;
    good = trf__wire_number(w, &w->key) && w->key >= 8 && w->key >> 32 == 0;
    type = (int)(w->key & 7);
    if (type == 0 || type == 2) good = good && trf__wire_number(w, &w->value);
    else { w->value = type == 5 ? 4 : 8; good = good && (type == 1 || type == 5); }
    good = good && (type == 0 || w->value <= (uint64_t)(w->end - w->at));
    if (!good)
        return trf__wire_fail(w, TRF_E_FORMAT,
                              "expected a field of a SentencePiece model, got something else", err);
    w->bytes = w->at;
    if (type != 0) w->at += w->value;
    if (type == 5) w->value = trf__from_little(w->bytes, 4);
    return TRF_OK;
}

/* Value of the byte that "<0x0A>" names, or -1. */
TRF__FN int trf__byte_of(const char *text, size_t length)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high, *low;
    if (length != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    high = (const char *)memchr(digits, text[3], 16);
    low = (const char *)memchr(digits, text[4], 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

/* Adds one piece: field 1 is its text, 2 its score, 3 its type. w is the caller's cursor by value,
   so this function may move it. Unknown and control pieces have no text, hence no token unless
   there is a map. */
TRF__FN trf_status trf__read_piece(trf_vocab *v, trf__wire w, int *unknowns, trf_error *err)
{
    trf__pieces *p = v->pieces;
    const char *text = (const char *)w.at, *fault = NULL;
    size_t length = 0;
    const trf__wire whole = w;
    trf__piece piece = {0, TRF__PIECE_NORMAL, -1};
    int type = TRF__PIECE_NORMAL, more, byte, nul;
    for (;;) {
        TRF__TRY(trf__wire_next(&w, &more, err));
        if (!more) break;
        if (w.key == 8 * 1 + 2) { text = (const char *)w.bytes; length = (size_t)w.value; }
        if (w.key == 8 * 2 + 5) piece.score = (float)trf__from_float((uint32_t)w.value);
        if (w.key == 8 * 3 + 0 && w.value >= 1 && w.value <= TRF__PIECE_BYTE) type = (int)w.value;
    }
    /* a model with byte fallback may have the piece NUL; it is never used */
    if ((nul = length == 1 && !*text && type != TRF__PIECE_UNKNOWN)) {
        type = TRF__PIECE_UNUSED; p->nuls = 1;
    }
    byte = type == TRF__PIECE_BYTE ? trf__byte_of(text, length) : 0;
    *unknowns += type == TRF__PIECE_UNKNOWN;
    if (length == 0) fault = "expected a piece, got an empty one";
    else if (length > 7999) fault = "expected a piece of at most 7999 bytes, got a longer one";
    else if (!nul && !trf__is_line(text, length)) fault = "expected UTF-8 without NUL";
    else if (!trf__is_finite((double)piece.score)) fault =
        "expected a finite score, got one that is infinite or not a number";
    else if (byte < 0) fault = "expected a byte written as in <0x0A>";
    else if (*unknowns > 1) fault = "expected one unknown piece, got a second one";
    else if (trf__vocab_find(v, text, length, trf__hash_bytes(text, length)) >= 0) fault =
        "expected every piece once, got one twice";
    if (fault) return trf__wire_fail(&whole, TRF_E_FORMAT, fault, err);
    if (p->n_mapped) TRF__TRY(trf__mapped_id(v, &piece.id, err));
    else if (type == TRF__PIECE_UNKNOWN || type == TRF__PIECE_CONTROL) return TRF_OK;
    piece.type = type + byte;
    TRF__TRY(trf__enter_piece(v, text, length, piece, err));
    p->types |= 1 << type;
    if (type == TRF__PIECE_BYTE) p->bytes[byte] = (int32_t)v->n_tokens - 1;
    if (type == TRF__PIECE_NORMAL && piece.score < p->least) p->least = piece.score;
    return TRF_OK;
}

/* The map is a double array of another kind (darts-clone). A cell with its highest bit set is a
   value: its other bits are an offset in `replaced`. Any other cell has its label in bits 0 to 7.
   Bit 8 tells whether one child is a value. The rest is an offset: the child for byte c is cell
   (own index ^ offset ^ c), the value is cell (own index ^ offset). */
TRF__FN uint64_t trf__rule_cell(const trf__pieces *p, uint64_t at)
{
    return trf__from_little(p->rules + 4 * at, 4);
}
/* the offset; bit 9 scales it by 256 */
TRF__FN uint64_t trf__rule_edge(uint64_t cell) { return cell >> 10 << ((cell & 1u << 9) >> 6); }

/* Whether the first cell is a root, every offset leads to 256 cells within the array, and every
   value to a text. After this check trf__rule needs none. */
TRF__FN int trf__rules_sound(const trf__pieces *p)
{
    uint64_t at, cell = trf__rule_cell(p, 0), to;
    int sound = !(cell & (1u << 31 | 511)) && cell >> 10 > 0;
    for (at = 0; sound && at < p->n_rules; at++) {
        cell = trf__rule_cell(p, at);
        to = at ^ trf__rule_edge(cell);
        if (cell >> 31) sound = (cell & INT32_MAX) < p->n_replaced;
        else sound = (to | 255) < p->n_rules && (!(cell >> 8 & 1) || trf__rule_cell(p, to) >> 31);
    }
    return sound;
}

/* The map: the size of its double array (4 bytes), the array, and the replacements, each followed
   by a NUL. darts-clone fills blocks of 256 cells, which are 1024 bytes. */
TRF__FN trf_status trf__read_rules(trf__pieces *p, const trf__wire *w, trf_error *err)
{
    uint64_t bytes = w->value > 4 ? trf__from_little(w->bytes, 4) : 0;
    if (bytes >= 1024 && bytes % 1024 == 0 && bytes < w->value - 4 && !w->bytes[w->value - 1]) {
        /* replacements must end with a NUL, so that none runs past the file */
        p->rules = w->bytes + 4;
        p->n_rules = (uint32_t)(bytes / 4);
        p->replaced = (const char *)w->bytes + 4 + bytes;
        p->n_replaced = (size_t)(w->value - 4 - bytes);
        if (trf__rules_sound(p)) return TRF_OK;
    }
    return trf__wire_fail(w, TRF_E_FORMAT, "the character map is damaged", err);
}

/* Reads message number `of` of the file: 2 is how the model was trained, 3 how text is normalised,
   5 how answers are. */
TRF__FN trf_status trf__read_spec(trf__pieces *p, trf__wire w, uint64_t of, trf_error *err)
{
    int more;
    for (;;) {
        TRF__TRY(trf__wire_next(&w, &more, err));
        if (!more) return TRF_OK;
        if (of == 2 && w.key == 8 * 3 + 0 && w.value != 1 && w.value != 2)
            return trf__wire_fail(&w, TRF_E_UNSUPPORTED, "expected a model of type unigram or BPE",
                                  err);
        if (of == 5 && w.key == 8 * 2 + 2 && w.value > 0)
            return trf__wire_fail(&w, TRF_E_UNSUPPORTED,
                                  "models that change the decoded text (a denormalizer) are not "
                                  "supported", err);
        if (of == 2 && w.key == 8 * 44 + 2 && !trf__is_line((const char *)w.bytes, (size_t)w.value))
            return trf__wire_fail(&w, TRF_E_FORMAT, "expected UTF-8 without NUL", err);
        if (of == 2 && w.key == 8 * 3 + 0) p->unigram = w.value == 1;
        if (of == 2 && w.key == 8 * 24 + 0) p->suffix = w.value != 0;
        if (of == 2 && w.key == 8 * 35 + 0) p->byte_fallback = w.value != 0;
        if (of == 2 && w.key == 8 * 44 + 2) {
            p->unknown = (const char *)w.bytes; p->n_unknown = (size_t)w.value;
        }
        /* an empty map replaces an earlier one */
        if (of == 3 && w.key == 8 * 2 + 2 && w.value == 0) p->n_rules = 0;
        if (of == 3 && w.key == 8 * 2 + 2 && w.value > 0) TRF__TRY(trf__read_rules(p, &w, err));
        if (of == 3 && w.key == 8 * 3 + 0) p->dummy_prefix = w.value != 0;
        if (of == 3 && w.key == 8 * 4 + 0) p->remove_extra = w.value != 0;
        if (of == 3 && w.key == 8 * 5 + 0) p->escape = w.value != 0;
    }
}

/* Walks over the whole file: field 1 is a piece, fields 2, 3 and 5 are options. */
TRF__FN trf_status trf__read_pieces(trf_vocab *v, trf_error *err)
{
    trf__pieces *p = v->pieces;
    int more, unknowns = 0, i, n = 0;
    const unsigned char *begin = (const unsigned char *)p->model;
    trf__wire w = {begin, begin, begin + p->model_bytes, begin, 0, 0};
    for (;;) {
        trf__wire inner;
        TRF__TRY(trf__wire_next(&w, &more, err));
        if (!more) break;
        inner = w;
        inner.at = w.bytes;
        inner.end = w.at;
        if (w.key == 8 * 1 + 2) TRF__TRY(trf__read_piece(v, inner, &unknowns, err));
        if (w.key == 8 * 2 + 2 || w.key == 8 * 3 + 2 || w.key == 8 * 5 + 2)
            TRF__TRY(trf__read_spec(p, inner, w.key / 8, err));
    }
    /* a character without a piece becomes unk or bytes, so the model needs the one or the others */
    for (i = 0; i < 256; i++) n += p->bytes[i] >= 0;
    if (p->nuls && !p->byte_fallback)
        return trf__wire_fail(&w, TRF_E_FORMAT, "a piece that is NUL needs byte fallback", err);
    if (v->n_tokens > 0 && (unknowns || p->byte_fallback) && n == (p->byte_fallback ? 256 : 0))
        return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, p->model_bytes, "sentencepiece",
                     "expected pieces, one of them the unknown piece and %d of them byte pieces; "
                     "got %lld pieces, %d of them unknown and %d byte pieces",
                     p->byte_fallback ? 256 : 0, (long long)v->n_tokens, unknowns, n);
}

// >>pieces-index   a tree of bytes in which pieces are found
//
// The double array is built once for each model, breadth first over the sorted pieces.

/* Child of a node for a byte, or -1. Every base has 256 cells behind it: no bound to check. */
TRF__FN int32_t trf__child(const trf__pieces *p, int32_t node, char byte)
{
    int32_t cell = p->cells[node].base + (int32_t)(unsigned char)byte;
    return p->cells[cell].parent == node ? cell : -1;
}

/* Makes the number of cells at least `needed`. New cells are free. */
TRF__FN trf_status trf__more_cells(trf_vocab *v, int64_t needed, trf_error *err)
{
    trf__pieces *p = v->pieces;
    int64_t i = p->n_cells;
    if (needed > INT32_MAX)
        return trf__fail(err, TRF_E_LIMIT, -1, "sentencepiece",
                         "the pieces have too many bytes for their index");
    TRF__GROW(trf__cell, p->cells, p->n_cells, needed, &v->hooks);
    for (; i < p->n_cells; i++) {
        p->cells[i].base = 0; p->cells[i].parent = p->cells[i].token = -1;
    }
    return TRF_OK;
}

/* Tokens lo..hi-1 of the sorted list share their first `depth` bytes, which lead to `node`. */
typedef struct trf__branch { int32_t node, lo, hi, depth; } trf__branch;

/* Chooses the base of one branch: the first where the cells of all next bytes are free, searched
   from *from on. Each child becomes a branch. */
TRF__FN trf_status trf__plant(trf_vocab *v, const void **sorted, trf__branch at,
                              trf__branch *branches, int64_t *n, int64_t *from, trf_error *err)
{
    trf__pieces *p = v->pieces;
    const trf__token *t = at.lo < at.hi ? (const trf__token *)sorted[at.lo] : NULL;
    int32_t letters = 0, letter[256], begin[257], i;
    int64_t cell, busy = 0;
    /* the piece that ends here is a prefix of the others, so it sorts first */
    if (t && t->length == at.depth) { p->cells[at.node].token = (int32_t)(t - v->tokens); at.lo++; }
    for (i = at.lo; i < at.hi; i++) {
        t = (const trf__token *)sorted[i];
        cell = (unsigned char)v->bytes[t->begin + at.depth];
        if (letters == 0 || letter[letters - 1] != cell) {
            letter[letters] = (int32_t)cell; begin[letters++] = i;
        }
    }
    if (letters == 0) return TRF_OK;
    begin[letters] = at.hi;
    for (cell = trf__max64(*from, letter[0] + 1); ; cell++) {
        TRF__TRY(trf__more_cells(v, cell + 257, err));
        if (p->cells[cell].parent >= 0) { busy++; continue; }
        for (i = 1; i < letters && p->cells[cell - letter[0] + letter[i]].parent < 0; i++) { }
        if (i == letters) break;
    }
    /* nearly all cells up to here are taken, or the search was long: the next one begins here */
    if (busy * 20 >= (cell - *from + 1) * 19 || cell - *from > 4096) *from = cell;
    p->cells[at.node].base = (int32_t)(cell - letter[0]);
    for (i = 0; i < letters; i++) {
        trf__branch next = {p->cells[at.node].base + letter[i], begin[i], begin[i + 1],
                            at.depth + 1};
        branches[(*n)++] = next;
        p->cells[next.node].parent = at.node;
    }
    return TRF_OK;
}

/* Builds the double array of all pieces that text can contain. A branch stands for one prefix of a
   token, so n_bytes + 1 branches suffice. */
TRF__FN trf_status trf__pieces_index(trf_vocab *v, trf_error *err)
{
    size_t bytes = trf__bytes(v->n_tokens, sizeof(void *));
    size_t more = trf__bytes(v->n_bytes + 1, sizeof(trf__branch));
    const void **sorted = (const void **)trf__alloc(&v->hooks, bytes);
    trf__branch *branches = (trf__branch *)trf__alloc_zeroed(&v->hooks, more);
    int64_t done, planted = 1, from = 1;
    trf_status status = TRF_E_NOMEM;
    int32_t i, n = 0;
    if (!sorted || !branches)
        trf__fail(err, status, -1, "sentencepiece", "no memory to sort the pieces");
    else {
        for (i = 0; i < v->n_tokens; i++)
            if (trf__is_text_piece(v->pieces->pieces[i].type)) sorted[n++] = v->tokens + i;
        trf__sort(sorted, (size_t)n, trf__by_count, v);         /* counts are 0: by bytes */
        branches[0].hi = n;
        status = trf__more_cells(v, 512, err);
        /* the root is its own parent, so that no node takes its cell */
        if (!status) v->pieces->cells[0].parent = 0;
        for (done = 0; !status && done < planted; done++)
            status = trf__plant(v, sorted, branches[done], branches, &planted, &from, err);
    }
    trf__free(&v->hooks, branches, more);
    trf__free(&v->hooks, sorted, bytes);
    return status;
}

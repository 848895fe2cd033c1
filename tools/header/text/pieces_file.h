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
// trf__read_pieces walks over the file for trf__read_sentencepiece. Fields with unknown numbers are
// skipped, as protocol buffers intend: later versions of SentencePiece may add some.

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
    if (!(*more = w->at < w->end)) return TRF_OK;
    w->bytes = w->at;
    int good = trf__wire_number(w, &w->key) && w->key >= 8 && w->key >> 32 == 0;
    int type = (int)(w->key & 7);
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
    if (length != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    const char *high = (const char *)memchr(digits, text[3], 16);
    const char *low = (const char *)memchr(digits, text[4], 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

/* Adds one piece: field 1 is its text, 2 its score, 3 its type. w is a copy of the caller's cursor.
   Unknown and control pieces have no text, hence no token unless there is a map. */
TRF__FN trf_status trf__read_piece(trf_vocab *v, trf__wire w, int *unknowns, trf_error *err)
{
    trf__pieces *p = v->pieces;
    const char *text = (const char *)w.at, *fault = NULL;
    size_t length = 0;
    const trf__wire whole = w;
    trf__piece piece = {0, TRF__PIECE_NORMAL, -1};
    int type = TRF__PIECE_NORMAL, more, nul;
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
    int byte = type == TRF__PIECE_BYTE ? trf__byte_of(text, length) : 0;
    *unknowns += type == TRF__PIECE_UNKNOWN;
    if (length == 0) fault = "expected a piece, got an empty one";
    else if (length > 7999) fault = "expected a piece of at most 7999 bytes, got a longer one";
    else if (!nul && !trf__is_line(text, length)) fault = "expected UTF-8 without NUL";
    else if (!trf__is_finite((double)piece.score)) fault =
        "expected a finite score, got one that is infinite or not a number";
    else if (byte < 0) fault = "expected a byte written as in <0x0A>";
    else if (*unknowns > 1) fault = "expected one unknown piece, got a second one";
    else if (trf__vocab_number(v, text, length) >= 0) fault =
        "expected every piece once, got one twice";
    if (fault) return trf__wire_fail(&whole, TRF_E_FORMAT, fault, err);
    if (p->n_mapped) {
        TRF__MAP_FAIL_IF(p->n_read == p->n_mapped, "pieces", p->n_read,
                         "as many ids as the file has pieces", p->n_mapped);
        piece.id = trf__map_number(v, TRF__MAP_IDS + p->n_read);
        TRF__TRY(trf__map_range(p, "pieces", p->n_read++, piece.id, -1, err));
    } else if (type == TRF__PIECE_UNKNOWN || type == TRF__PIECE_CONTROL) return TRF_OK;
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
    uint64_t cell = trf__rule_cell(p, 0);
    int sound = !(cell & (1u << 31 | 511)) && cell >> 10 > 0;
    for (uint64_t at = 0; sound && at < p->n_rules; at++) {
        cell = trf__rule_cell(p, at);
        uint64_t to = at ^ trf__rule_edge(cell);
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

/* Reads message number `of` of the file. 2 is about training, 3 normalising, 5 decoding. */
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
TRF__COLD
TRF__FN trf_status trf__read_pieces(trf_vocab *v, trf_error *err)
{
    trf__pieces *p = v->pieces;
    int more, unknowns = 0, n = 0;
    const unsigned char *begin = (const unsigned char *)p->model;
    trf__wire w = {begin, begin, begin + p->model_bytes, begin, 0, 0};
    /* a usual piece takes twenty bytes of the file, half of them text */
    TRF__TRY(trf__vocab_reserve(v, p->model_bytes / 20, p->model_bytes / 2, err));
    for (;;) {
        TRF__TRY(trf__wire_next(&w, &more, err));
        if (!more) break;
        trf__wire inner = w;
        inner.at = w.bytes;
        inner.end = w.at;
        if (w.key == 8 * 1 + 2) TRF__TRY(trf__read_piece(v, inner, &unknowns, err));
        if (w.key == 8 * 2 + 2 || w.key == 8 * 3 + 2 || w.key == 8 * 5 + 2)
            TRF__TRY(trf__read_spec(p, inner, w.key / 8, err));
    }
    /* a character without a piece becomes unk or bytes, so the model needs the one or the others */
    for (int i = 0; i < 256; i++) n += p->bytes[i] >= 0;
    if (p->nuls && !p->byte_fallback)
        return trf__wire_fail(&w, TRF_E_FORMAT, "a piece that is NUL needs byte fallback", err);
    return TRF__OK_IF(v->n_tokens > 0 && (unknowns || p->byte_fallback) &&
                      n == (p->byte_fallback ? 256 : 0), TRF_E_FORMAT, p->model_bytes,
                      "sentencepiece",
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
    const trf__cell none = {0, -1, -1};
    int64_t i = p->n_cells;
    TRF__FAIL_IF(needed > INT32_MAX, TRF_E_LIMIT, -1, "sentencepiece",
                 "the pieces have too many bytes for their index");
    TRF__GROW(trf__cell, p->cells, p->n_cells, needed, &v->hooks);
    for (; i < p->n_cells; i++) p->cells[i] = none;
    return TRF_OK;
}

/* A token, and its first eight bytes as a number: such numbers have the order of the bytes. */
typedef struct trf__keyed { uint64_t key; int32_t token; } trf__keyed;

/* Sorts by the keys, from the lowest byte of all to the highest. */
TRF__FN void trf__sort_keys(trf__keyed *items, trf__keyed *work, int32_t n)
{
    trf__keyed *from = items, *to = work;
    int32_t at[257];
    for (int shift = 0; shift < 64; shift += 8) {
        TRF__ZERO(at);
        for (int32_t i = 0; i < n; i++) at[(from[i].key >> shift & 255) + 1]++;
        if (n > 0 && at[(from[0].key >> shift & 255) + 1] == n) continue;       /* all alike */
        for (int32_t i = 0; i < 255; i++) at[i + 1] += at[i];
        for (int32_t i = 0; i < n; i++) to[at[from[i].key >> shift & 255]++] = from[i];
        trf__keyed *other = from; from = to; to = other;
    }
    if (from != items) memcpy(items, from, trf__bytes(n, sizeof *items));
}

/* Lists the n pieces that text can contain, in the order of their bytes. work has room for 2 n. */
TRF__FN void trf__sort_pieces(const trf_vocab *v, trf__keyed *work, int32_t n, const void **sorted)
{
    int32_t i, k, found = 0;
    for (i = 0; i < v->n_tokens; i++) {
        const trf__token *t = v->tokens + i;
        if (!trf__is_text_piece(v->pieces->pieces[i].type)) continue;
        work[found].token = i;
        work[found].key = 0;
        for (k = 0; k < 8 && k < t->length; k++)
            work[found].key |= (uint64_t)(unsigned char)v->bytes[t->begin + k] << (56 - 8 * k);
        found++;
    }
    trf__sort_keys(work, work + n, n);
    for (i = 0; i < n; i++) sorted[i] = v->tokens + work[i].token;
    for (i = 0; i < n; i = k) {                 /* by all bytes where the first eight are alike */
        for (k = i + 1; k < n && work[k].key == work[i].key; k++) { }
        if (k - i > 1) trf__sort(sorted + i, (size_t)(k - i), trf__by_count, v);  /* counts are 0 */
    }
}

/* The sorted pieces as the index reads them: piece i is text[at[i]] .. text[at[i + 1] - 1]. */
typedef struct trf__sorted { char *text; int64_t *at; int32_t *token, n; } trf__sorted;

/* Copies the pieces behind one another, and counts the nodes of their tree: the root, and one for
   each byte that a piece does not share with the one before it. */
TRF__FN int64_t trf__line_up(const trf_vocab *v, const void *const *sorted, trf__sorted *to)
{
    int64_t nodes = 1, at = 0, before = 0, k;
    int32_t i;
    for (i = 0; i < to->n; before = to->at[i++]) {
        const trf__token *t = (const trf__token *)sorted[i];
        to->at[i] = at;
        to->token[i] = (int32_t)(t - v->tokens);
        memcpy(to->text + at, v->bytes + t->begin, (size_t)t->length);
        for (k = 0; k < t->length && k < at - before && to->text[at + k] == to->text[before + k];
             k++) { }
        nodes += t->length - k;
        at += t->length;
    }
    to->at[i] = at;
    return nodes;
}

/* Pieces lo..hi-1 share their first `depth` bytes, which lead to `node`. */
typedef struct trf__branch { int32_t node, lo, hi, depth; } trf__branch;

/* The first cells that may be free: for a single child, which fits everywhere, and for several. */
typedef struct trf__free_cells { int64_t one, several; } trf__free_cells;
enum { TRF__CELLS_TRIED = 128 };

/* Chooses the base of a node: the first where the cells of all next bytes are free. */
TRF__FN trf_status trf__free_base(trf_vocab *v, const int32_t *letter, int32_t n,
                                  trf__free_cells *from, int32_t *base, trf_error *err)
{
    trf__pieces *p = v->pieces;
    const int64_t first = n > 1 ? from->several : from->one;
    int64_t cell;
    int32_t i;
    for (cell = first; ; cell++) {
        if (cell + 257 > p->n_cells) TRF__TRY(trf__more_cells(v, cell + 257, err));
        if (p->cells[cell].parent >= 0) continue;
        for (i = 1; i < n && p->cells[cell - letter[0] + letter[i]].parent < 0; i++) { }
        if (i == n) break;
    }
    /* single children fill what a search for several leaves */
    if (n == 1) from->one = cell + 1;
    else if (cell - first > TRF__CELLS_TRIED) from->several = cell;
    *base = (int32_t)(cell - letter[0]);
    return TRF_OK;
}

/* Places the children of one branch, and makes each a branch. */
TRF__FN trf_status trf__place_children(trf_vocab *v, const trf__sorted *s, trf__branch at,
                                       trf__branch *branches, int64_t *n, trf__free_cells *from,
                                       trf_error *err)
{
    trf__pieces *p = v->pieces;
    int32_t letters = 0, letter[256], begin[257], base;
    /* the piece that ends here is a prefix of the others, so it sorts first */
    if (at.lo < at.hi && s->at[at.lo + 1] - s->at[at.lo] == at.depth)
        p->cells[at.node].token = s->token[at.lo++];
    for (int32_t i = at.lo; i < at.hi; i++) {
        int32_t byte = (unsigned char)s->text[s->at[i] + at.depth];
        if (letters && letter[letters - 1] == byte) continue;
        letter[letters] = byte;
        begin[letters++] = i;
    }
    if (letters == 0) return TRF_OK;
    begin[letters] = at.hi;
    TRF__TRY(trf__free_base(v, letter, letters, from, &base, err));
    p->cells[at.node].base = base;
    for (int32_t i = 0; i < letters; i++) {
        trf__branch next = {base + letter[i], begin[i], begin[i + 1], at.depth + 1};
        branches[(*n)++] = next;
        p->cells[next.node].parent = at.node;
    }
    return TRF_OK;
}

/* Builds the double array of a tree of so many nodes. */
TRF__FN trf_status trf__place_tree(trf_vocab *v, const trf__sorted *s, int64_t nodes,
                                   trf_error *err)
{
    trf__branch *branches = TRF__NEW(trf__branch, &v->hooks, nodes);
    trf__free_cells from = {257, 257};          /* a base is above 0 whatever the byte */
    int64_t placed = 1;
    TRF__FAIL_IF(!branches, TRF_E_NOMEM, -1, "sentencepiece", "no memory to index the pieces");
    TRF__ZERO(branches[0]);
    branches[0].hi = s->n;
    trf_status status = trf__more_cells(v, nodes + 512, err);
    /* the root is its own parent, so that no node takes its cell */
    if (!status) v->pieces->cells[0].parent = 0;
    for (int64_t done = 0; !status && done < placed; done++)
        status = trf__place_children(v, s, branches[done], branches, &placed, &from, err);
    TRF__FREE(&v->hooks, branches, nodes);
    return status;
}

/* Builds the index of all pieces that text can contain. */
TRF__COLD
TRF__FN trf_status trf__pieces_index(trf_vocab *v, trf_error *err)
{
    trf__pieces *p = v->pieces;
    trf__keyed *work;
    const void **sorted;
    char *block = NULL;
    trf_status status = TRF_E_NOMEM;
    size_t bytes = 0;
    TRF__ZEROED(trf__sorted, to);
    for (int32_t i = 0; i < v->n_tokens; i++) to.n += trf__is_text_piece(p->pieces[i].type);
    for (int pass = 0; pass < 2; pass++) {
        trf__cursor cut = trf__cursor_at(block);
        work = TRF__TAKE(trf__keyed, &cut, 2 * (int64_t)to.n);
        sorted = TRF__TAKE(const void *, &cut, to.n);
        to.text = TRF__TAKE(char, &cut, v->n_bytes);
        to.at = TRF__TAKE(int64_t, &cut, (int64_t)to.n + 1);
        to.token = TRF__TAKE(int32_t, &cut, to.n);
        TRF__FAIL_IF(pass == 0 && (block = TRF__NEW(char, &v->hooks, bytes = cut.used)) == NULL,
                     status, -1, "sentencepiece", "no memory to sort the pieces");
    }
    trf__sort_pieces(v, work, to.n, sorted);
    status = trf__place_tree(v, &to, trf__line_up(v, sorted, &to), err);
    trf__free(&v->hooks, block, bytes);
    return status;
}

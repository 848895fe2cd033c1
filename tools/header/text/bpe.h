#pragma once
#include "api/basics.h"
#include "api/vocab.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "text/vocab.h"
#include "text/pieces.h"
#include "text/pieces_file.h"
#include "text/pieces_cut.h"

// >>bpe            byte-pair encoding: the best pair of neighbours merges first
/* Symbols form a chain; at first they are characters and user-defined pieces, or bytes. The heap
   holds the pairs of neighbours that merge: the best score first, equal ones from the left. A
   symbol's node is where its bytes lead in the tree of pieces, or -1; of bytes, it is its token. */
typedef struct trf__symbol { int32_t begin, length, before, next, node, frozen; } trf__symbol;
/* score: the bits of a float, so mapped that integers have its order. node: of both together */
typedef struct trf__merge { int32_t score, left, right, length, node; } trf__merge;
typedef struct trf__bpe trf__bpe;
struct trf__bpe {
    const trf_vocab *v;
    /* Whether two neighbours merge; then it sets the score and the node of the pair. */
    int (*merges)(const trf__bpe *b, const trf__symbol *l, const trf__symbol *r, trf__merge *pair);
    const char *text;
    trf__symbol *symbols;
    trf__merge *heap;
    int32_t *split;         /* of each unused token: length of the left symbol of the last pair
                               that formed it, else 0 */
    int32_t n_symbols, n_pairs;
};

TRF__FN int trf__merge_before(const trf__merge *a, const trf__merge *b)
{
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

TRF__FN int32_t trf__walk(const trf__pieces *p, int32_t node, const char *text, int32_t n)
{
    for (int32_t i = 0; node >= 0 && i < n; i++) node = trf__child(p, node, text[i]);
    return node;
}

/* The piece that ends at a node, or -1. */
TRF__FN int32_t trf__token_at(const trf__pieces *p, int32_t node)
{
    return node >= 0 ? p->cells[node].token : -1;
}

/* Neighbours merge if they form a piece: trf__bpe's `merges` for SentencePiece. */
TRF__FN int trf__pieces_merge(const trf__bpe *b, const trf__symbol *l, const trf__symbol *r,
                              trf__merge *pair)
{
    const trf__pieces *p = b->v->pieces;
    if (l->frozen || r->frozen) return 0;
    pair->node = trf__walk(p, l->node, b->text + r->begin, r->length);
    int32_t token = trf__token_at(p, pair->node);
    if (token < 0) return 0;
    if (p->pieces[token].type == TRF__PIECE_UNUSED) b->split[token] = l->length;
    memcpy(&pair->score, &p->pieces[token].score, sizeof pair->score);
    if (pair->score < 0) pair->score ^= INT32_MAX;          /* more negative is lower; -0 < 0 */
    return 1;
}

/* Pushes a pair if it merges. Pairs whose symbols merge later stay in the heap, and trf__bpe_merge
   skips them: at most n pairs at the start and two for each merge, below 3 n. */
TRF__FN void trf__bpe_add(trf__bpe *b, int32_t left, int32_t right)
{
    trf__merge pair = {0, left, right, 0, -1};
    if (left < 0 || right < 0) return;
    if (!b->merges(b, b->symbols + left, b->symbols + right, &pair)) return;
    pair.length = b->symbols[left].length + b->symbols[right].length;
    int32_t at = b->n_pairs++;
    for (; at > 0 && trf__merge_before(&pair, b->heap + (at - 1) / 2); at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = pair;
}

/* Pops the best pair. */
TRF__FN trf__merge trf__bpe_best(trf__bpe *b)
{
    trf__merge best = b->heap[0], last = b->heap[--b->n_pairs];
    int32_t at = 0, child;
    for (; (child = 2 * at + 1) < b->n_pairs; at = child) {
        if (child + 1 < b->n_pairs && trf__merge_before(b->heap + child + 1, b->heap + child))
            child++;
        if (!trf__merge_before(b->heap + child, &last)) break;
        b->heap[at] = b->heap[child];
    }
    b->heap[at] = last;
    return best;
}

/* Gives the pieces of a symbol. An unused piece splits into the pair that formed it, and so do its
   parts, to a depth of 101. The empty heap is the stack; `score` is the depth left less one. */
TRF__FN void trf__bpe_give(const trf__bpe *b, trf__ids *to, const trf__symbol *symbol)
{
    const trf__pieces *p = b->v->pieces;
    trf__merge whole = {100, symbol->begin, 0, symbol->length, -1};
    int32_t n = 1;
    b->heap[0] = whole;
    while (n > 0) {
        trf__merge part = b->heap[--n];
        int32_t token = trf__token_at(p, trf__walk(p, 0, b->text + part.left, part.length));
        int unused = part.score-- >= 0 && token >= 0 && p->pieces[token].type == TRF__PIECE_UNUSED;
        if (unused && b->split[token] > 0) {
            b->heap[n] = b->heap[n + 1] = part;
            b->heap[n + 1].length = b->split[token];
            b->heap[n].left += b->split[token];
            b->heap[n].length -= b->split[token];
            n += 2;
        } else trf__emit_piece(b->v, to, unused ? -1 : token, b->text + part.left, part.length);
    }
}

/* Merges the best pair until none is left. Symbol 0 begins the chain of what remains. */
TRF__FN void trf__bpe_merge(trf__bpe *b)
{
    for (int32_t i = 1; i < b->n_symbols; i++) trf__bpe_add(b, i - 1, i);
    while (b->n_pairs > 0) {
        trf__merge best = trf__bpe_best(b);
        trf__symbol *l = b->symbols + best.left, *r = b->symbols + best.right;
        /* a pair is stale if one of its symbols has merged since: the lengths differ */
        if (!l->length || !r->length || l->length + r->length != best.length) continue;
        l->node = best.node;
        l->length = best.length;
        l->next = r->next;
        if (r->next >= 0) b->symbols[r->next].before = best.left;
        r->length = 0;
        trf__bpe_add(b, l->before, best.left);
        trf__bpe_add(b, best.left, l->next);
    }
}

/* Gives the pieces of a normalised text of n bytes from left to right. */
TRF__FN void trf__bpe_run(trf__bpe *b, int32_t n, trf__ids *to)
{
    const trf__pieces *p = b->v->pieces;
    int32_t step;
    for (int32_t at = 0; at < n; at += step) {
        int32_t frozen = (int32_t)trf__user_defined(b->v, b->text + at, (size_t)(n - at));
        trf__symbol s = {at, 0, b->n_symbols - 1, -1, 0, frozen};
        s.length = step = frozen ? frozen : trf__char_bytes(b->text + at, n - at);
        s.node = trf__walk(p, 0, b->text + at, step);
        if (at + step < n) s.next = b->n_symbols + 1;
        b->symbols[b->n_symbols++] = s;
    }
    trf__bpe_merge(b);
    for (int32_t i = 0; i >= 0; i = b->symbols[i].next) trf__bpe_give(b, to, &b->symbols[i]);
}

/* Gives the ids of a normalised text. The scratch memory is one block: paths for unigram; symbols,
   heap and splits for BPE. */
TRF__FN trf_status trf__pieces_cut(const trf_vocab *v, const char *text, int32_t n, trf__ids *to,
                                   trf_error *err)
{
    const trf__pieces *p = v->pieces;
    int64_t splits = !p->unigram && p->types & 1 << TRF__PIECE_UNUSED ? v->n_tokens : 0;
    size_t each = p->unigram ? sizeof(trf__path) : sizeof(trf__symbol) + 3 * sizeof(trf__merge);
    size_t bytes = trf__add_size(trf__bytes((int64_t)n + 1, each),
                                 trf__bytes(splits, sizeof(int32_t)));
    void *work = trf__alloc(&v->hooks, bytes);
    trf__bpe b = {v, trf__pieces_merge, text, NULL, NULL, NULL, 0, 0};
    TRF__FAIL_IF(!work, TRF_E_NOMEM, -1, "text", "no memory to cut a text of %d bytes", (int)n);
    if (p->unigram) trf__unigram(v, text, n, (trf__path *)work, to);
    else {
        b.symbols = (trf__symbol *)work;
        b.heap = (trf__merge *)(void *)(b.symbols + n);
        b.split = (int32_t *)(void *)(b.heap + 3 * (int64_t)n);
        memset(b.split, 0, trf__bytes(splits, sizeof *b.split));
        trf__bpe_run(&b, n, to);
    }
    trf__free(&v->hooks, work, bytes);
    return TRF_OK;
}

/* Gives the token of a code that begins a text, as in ">>fr<< Hello". Returns its length, or 0. */
TRF__FN size_t trf__emit_code(const trf_vocab *v, const char *text, trf__ids *to)
{
    const char *end = strncmp(text, ">>", 2) ? NULL : strstr(text, "<<");
    size_t n = end ? (size_t)(end + 2 - text) : 0;
    int32_t id = n ? trf__id_of_text(v, text, n) : -1;
    if (n) trf__emit_id(to, id < 0 ? v->special[TRF_SPECIAL_UNK] : id, id < 0);
    return n;
}

TRF__FN trf_status trf__pieces_encode(const trf_vocab *v, const char *text, trf__ids *to,
                                      trf_error *err)
{
    trf__growing normal = {NULL, 0, 0};
    if (v->pieces->codes) text += trf__emit_code(v, text, to);
    trf_status status = trf__normalise(v, text, strlen(text), &normal, err);
    if (!status && normal.n > 0)
        status = trf__pieces_cut(v, normal.bytes, (int32_t)normal.n, to, err);
    trf__free(&v->hooks, normal.bytes, (size_t)normal.capacity);
    return status;
}

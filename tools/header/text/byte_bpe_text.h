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
#include "text/pieces.h"
#include "text/pieces_cut.h"
#include "text/bpe.h"
#include "text/pieces_text.h"
#include "text/wordpiece.h"
#include "text/byte_bpe.h"

// >>byte-bpe-normal  composed characters: Unicode's form NFC
//
// Three steps (Unicode, 3.11 and annex 15), on code points whose class is in the upper eight bits:
//
//   decompose     every character becomes its parts, and these become theirs
//   order         marks, whose class is above 0, ascend by class behind their character; equal ones
//                 stay in their order
//   compose       a character and a mark become one, unless a mark between them has the mark's
//                 class or a higher one; so do two neighbours of class 0
//
// Syllables of Hangul need no table.

#define TRF__CODE_POINT 0xFFFFFFu           /* the bits below the class */

/* A code point with its class. */
TRF__FN uint32_t trf__with_class(const trf_vocab *v, uint32_t c)
{
    int64_t row = c < 128 ? -1 : trf__nfc_row(v, TRF__NFC_CLASSES, c, 0);
    return row < 0 ? c : c | trf__nfc_number(v, TRF__NFC_CLASSES, row, 2) << 24;
}

/* Writes the parts of a character to `to`, unless that is NULL. Returns their number. */
TRF__FN int trf__decompose(const trf_vocab *v, uint32_t c, uint32_t *to)
{
    uint32_t parts[TRF__NFC_DEPTH];
    int n = 0;
    if (c - TRF__HANGUL < TRF__HANGUL_N) return trf__hangul_letters(c, to);
    if (c >= 128) n = trf__nfc_parts(v, &c, parts);
    if (!to) return n + 1;
    to[0] = trf__with_class(v, c);
    for (int i = 0; i < n; i++) to[i + 1] = trf__with_class(v, parts[n - 1 - i]);
    return n + 1;
}

/* Sorts the marks of each character by class, with as much room in `spare`. */
TRF__FN void trf__order_marks(uint32_t *items, int64_t n, uint32_t *spare)
{
    int64_t end, i, places[256];
    for (int64_t begin = 0; begin < n; begin = end) {
        int sorted = 1;
        for (end = begin + 1; items[begin] >> 24 && end < n && items[end] >> 24; end++)
            sorted &= items[end] >> 24 >= items[end - 1] >> 24;
        if (sorted) continue;
        memset(places, 0, sizeof places);
        for (i = begin; i < end; i++) places[(items[i] >> 24) + 1]++;
        for (i = 1; i < 256; i++) places[i] += places[i - 1];
        memcpy(spare, items + begin, (size_t)(end - begin) * sizeof *items);
        for (i = 0; i < end - begin; i++) items[begin + places[spare[i] >> 24]++] = spare[i];
    }
}

/* What two code points become together, or 0. */
TRF__FN uint32_t trf__composed(const trf_vocab *v, uint32_t a, uint32_t b)
{
    if (a - TRF__HANGUL_L < 19 && b - TRF__HANGUL_V < 21)
        return TRF__HANGUL + ((a - TRF__HANGUL_L) * 21 + b - TRF__HANGUL_V) * 28;
    if (a - TRF__HANGUL < TRF__HANGUL_N && (a - TRF__HANGUL) % 28 == 0 &&
        b - TRF__HANGUL_T - 1 < 27) return a + (b - TRF__HANGUL_T);
    int64_t row = b < 128 ? -1 : trf__nfc_row(v, TRF__NFC_PAIRS, a, b);
    return row < 0 ? 0 : trf__nfc_number(v, TRF__NFC_PAIRS, row, 2);
}

/* Composes in place. Returns the number of items left. */
TRF__FN int64_t trf__compose(const trf_vocab *v, uint32_t *items, int64_t n)
{
    int64_t m = 0, base = -1;           /* base: the last item of class 0 */
    uint32_t last = 0;                  /* the class of item m - 1 */
    for (int64_t i = 0; i < n; i++) {
        uint32_t mark = items[i] >> 24, both = 0;
        if (base >= 0 && (base == m - 1 || last < mark))
            both = trf__composed(v, items[base], items[i] & TRF__CODE_POINT);
        if (both) { items[base] = both; continue; }
        if (!mark) base = m;
        last = mark;
        items[m++] = items[i];
    }
    return m;
}

/* The composed text, in memory of `room` numbers that the caller frees. *n: its bytes. *to stays
   NULL: the text is ASCII, which needs no composing. */
TRF__FN trf_status trf__compose_text(const trf_vocab *v, const char *text, size_t *n, uint32_t **to,
                                     int64_t *room, trf_error *err)
{
    const char *at = text, *end = text + *n;
    uint32_t *items;
    int64_t count = 0, i;
    int bytes;
    while (at < end && (unsigned char)*at < 128) at++;
    if (at == end) return TRF_OK;
    for (at = text; at < end; at += bytes)
        count += trf__decompose(v, trf__code_point(at, &bytes), NULL);
    *room = 2 * count + 1;
    *to = items = TRF__NEW(uint32_t, &v->hooks, *room);
    TRF__FAIL_IF(!items, TRF_E_NOMEM, -1, "text", "no memory to compose a text of %llu bytes",
                 (unsigned long long)*n);
    for (at = text, i = 0; at < end; at += bytes)
        i += trf__decompose(v, trf__code_point(at, &bytes), items + i);
    trf__order_marks(items, count, items + count);
    /* the text is written behind the items, then moved to the front */
    char *out = (char *)(items + trf__compose(v, items, count));
    *n = 0;
    for (i = 0; (char *)(items + i) < out; i++)
        *n += (size_t)trf__put_code_point(out + *n, items[i] & TRF__CODE_POINT);
    memmove(items, out, *n);
    ((char *)items)[*n] = 0;
    return TRF_OK;
}

// >>byte-bpe-cut   from text to ids
//
// The rules are followed without a search: a character and the one after it decide which
// alternative matches. Merging takes n log n steps for a word of n bytes.

/* The class of the character at `at`, and its length. */
TRF__FN int trf__byte_class(const trf__byte_bpe *b, const char *at, const char *end, int *bytes)
{
    *bytes = 0;
    if (at == end) return TRF__BYTE_END;
    const trf__word_rule *r = trf__find_rule(&b->ranges, trf__code_point(at, bytes));
    return r ? r->kind : TRF__BYTE_OTHER;
}

TRF__FN int trf__is_line_break(const char *at, const char *end)
{
    return at < end && (*at == '\r' || *at == '\n');
}

/* The length of "'s", "'t", "'re", "'ve", "'m", "'ll" or "'d", or 0. Llama 3's rule ignores case,
   so U+017F, the long s, is an s. */
TRF__FN int trf__contraction(const char *at, const char *end, int any_case)
{
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    int k;
    if (at == end || *at != '\'') return 0;
    at++;
    if (any_case && end - at >= 2 && !memcmp(at, "\xC5\xBF", 2)) return 3;
    for (int i = 0; i < 7; i++) {
        for (k = 0; endings[i][k] && at + k < end; k++)
            if ((any_case ? at[k] | 32 : at[k]) != endings[i][k]) break;
        if (!endings[i][k]) return k + 1;
    }
    return 0;
}

/* The end of a word of white space. Behind it comes the end of the text, or white space that begins
   or is the next word. Llama 3's rule ends it after its last line break. */
TRF__FN const char *trf__byte_blanks(const trf__byte_bpe *b, const char *at, const char *end)
{
    const char *last = at, *next = at, *line = NULL;
    int bytes;
    while (trf__byte_class(b, next, end, &bytes) == TRF__BYTE_WHITE) {
        last = next;
        next += bytes;
        if (b->flags & TRF__BPE_LLAMA && trf__is_line_break(last, end)) line = next;
    }
    if (line) return line;
    return next == end || last == at ? next : last;
}

/* The end of the word that begins at `at`, before `end`. */
TRF__FN const char *trf__byte_word(const trf__byte_bpe *b, const char *at, const char *end)
{
    int llama = b->flags & TRF__BPE_LLAMA, blank = *at == ' ', bytes, more;
    int contraction = trf__contraction(at, end, llama);
    if (contraction) return at + contraction;
    int kind = trf__byte_class(b, at, end, &bytes);
    int next = trf__byte_class(b, at + bytes, end, &more);
    /* one character may precede a run of another class */
    int joins = blank && (next == TRF__BYTE_LETTER || next == TRF__BYTE_OTHER ||
                          (next == TRF__BYTE_NUMBER && !llama));
    if (llama && next == TRF__BYTE_LETTER)
        joins = kind != TRF__BYTE_NUMBER && !trf__is_line_break(at, end);
    if (joins) { at += bytes; kind = next; }
    if (kind == TRF__BYTE_WHITE) return trf__byte_blanks(b, at, end);
    /* a run of characters of one class */
    int64_t most = kind != TRF__BYTE_NUMBER || !llama ? INT64_MAX
                 : b->flags & TRF__BPE_ONE_NUMBER ? 1 : 3;
    for (; most > 0 && trf__byte_class(b, at, end, &bytes) == kind; most--) at += bytes;
    while (llama && kind == TRF__BYTE_OTHER && trf__is_line_break(at, end)) at++;
    return at;
}

/* The end of the run that is cut by itself: by SmolLM's rule a number, or what is between two. */
TRF__FN const char *trf__byte_apart(const trf__byte_bpe *b, const char *at, const char *end)
{
    int bytes;
    if (!(b->flags & TRF__BPE_ONE_NUMBER) || b->flags & TRF__BPE_LLAMA) return end;
    if (trf__byte_class(b, at, end, &bytes) == TRF__BYTE_NUMBER) return at + bytes;
    while (at < end && trf__byte_class(b, at, end, &bytes) != TRF__BYTE_NUMBER) at += bytes;
    return at;
}

/* Two tokens merge if a merge says so, the one of the lowest rank first: trf__bpe's `merges`. */
TRF__FN int trf__bytes_merge(const trf__bpe *b, const trf__symbol *l, const trf__symbol *r,
                             trf__merge *pair)
{
    uint64_t entry;
    int32_t rank = trf__merge_rank(b->v->byte_bpe, l->node, r->node, &entry);
    if (rank < 0) return 0;
    pair->score = -rank;
    pair->node = b->v->byte_bpe->merges[rank].token;
    return 1;
}

/* Scratch memory, which grows to that of the longest word: one place of room for each byte. */
typedef struct trf__byte_room { trf__symbol symbol; trf__merge heap[3]; } trf__byte_room;
typedef struct trf__byte_work {
    trf__byte_room *room;
    char *text;                 /* a word in the spelling of tokens */
    int64_t capacity, text_capacity;
} trf__byte_work;

/* Gives the ids of a word of n bytes. */
TRF__FN trf_status trf__byte_word_ids(const trf_vocab *v, const char *word, int32_t n,
                                      trf__byte_work *work, trf__ids *to, trf_error *err)
{
    const trf__byte_bpe *b = v->byte_bpe;
    trf__bpe bpe = {v, trf__bytes_merge, word, NULL, NULL, NULL, n, 0};
    if (b->flags & TRF__BPE_WHOLE && (size_t)n <= b->longest_token) {
        size_t length = 0;
        TRF__GROW(char, work->text, work->text_capacity, 2 * (int64_t)n, &v->hooks);
        for (int32_t i = 0; i < n; i++)
            length += (size_t)trf__spell_byte((unsigned char)word[i], work->text + length);
        int32_t id = trf__vocab_number(v, work->text, length);
        if (id >= 0 && v->tokens[id].count == TRF__BPE_ORDINARY) {
            trf__emit_id(to, id, 0);
            return TRF_OK;
        }
    }
    TRF__GROW(trf__byte_room, work->room, work->capacity, n, &v->hooks);
    bpe.symbols = (trf__symbol *)(void *)work->room;
    bpe.heap = (trf__merge *)(void *)(bpe.symbols + n);
    for (int32_t i = 0; i < n; i++) {
        int32_t next = i + 1 < n ? i + 1 : -1;
        trf__symbol s = {i, 1, i - 1, next, b->token[(unsigned char)word[i]], 0};
        bpe.symbols[i] = s;
    }
    trf__bpe_merge(&bpe);
    for (int32_t i = 0; i >= 0; i = bpe.symbols[i].next) trf__emit_id(to, bpe.symbols[i].node, 0);
    return TRF_OK;
}

/* Gives the ids of a text, as trf__encode_text does. */
TRF__FN trf_status trf__byte_bpe_encode(const trf_vocab *v, const char *text, trf__ids *to,
                                        trf_error *err)
{
    const trf__byte_bpe *b = v->byte_bpe;
    size_t n = strlen(text);
    char *copy = NULL;
    uint32_t *composed = NULL;
    int64_t room = 0;
    trf__byte_work work = {NULL, NULL, 0, 0};
    trf_status status = TRF_OK;
    TRF__TRY(trf__check_utf8(text, "text", err));
    TRF__TRY(trf__normal_limit(1, n, err));
    if (b->flags & TRF__BPE_NFC) {
        TRF__TRY(trf__compose_text(v, text, &n, &composed, &room, err));
        if (composed) text = (const char *)composed;
        status = trf__normal_limit(1, n, err);
    }
    const char *end = text + n;
    if (!status && b->flags & TRF__BPE_BLANK && n > 0 && *text != ' ') {
        copy = TRF__NEW(char, &v->hooks, n + 1);
        if (!copy)
            status = trf__fail(err, TRF_E_NOMEM, -1, "text", "no memory for a copy of the text");
        else {
            copy[0] = ' ';
            memcpy(copy + 1, text, n);
            text = copy;
            end = copy + n + 1;
        }
    }
    for (const char *apart = text; !status && text < end; ) {
        if (text == apart) apart = trf__byte_apart(b, text, end);
        const char *next = trf__byte_word(b, text, apart);
        status = trf__byte_word_ids(v, text, (int32_t)(next - text), &work, to, err);
        text = next;
    }
    trf__free(&v->hooks, copy, n + 1);
    TRF__FREE(&v->hooks, composed, room);
    TRF__FREE(&v->hooks, work.room, work.capacity);
    trf__free(&v->hooks, work.text, (size_t)work.text_capacity);
    return status;
}

// >>byte-bpe-special  texts of special tokens as these tokens

/* The end of the longest of n tokens with which the text at `at` begins, and its id; or NULL. */
TRF__FN const char *trf__special_at(const trf_vocab *v, const int32_t *tokens, int32_t n,
                                  const char *at, int32_t *id)
{
    const char *end = NULL;
    for (int32_t i = 0; i < n; i++) {
        const char *token = v->bytes + v->tokens[tokens[i]].begin;
        size_t length = *token == *at ? strlen(token) : 0;
        if (length == 0 || strncmp(token, at, length) || (end && at + length <= end)) continue;
        end = at + length;
        *id = tokens[i];
    }
    return end;
}

/* The same, but the texts of special and added tokens are these tokens. */
TRF__FN trf_status trf__byte_bpe_special(const trf_vocab *v, const char *text, trf__ids *to,
                                         trf_error *err)
{
    size_t n = strlen(text);
    int32_t n_tokens = 0, id = 0;
    char *begin;
    int64_t i;
    TRF__TRY(trf__check_utf8(text, "text", err));
    for (i = 0; i < v->n_tokens; i++) n_tokens += v->tokens[i].count != TRF__BPE_ORDINARY;
    int32_t *tokens = TRF__NEW(int32_t, &v->hooks, n_tokens);
    char *copy = begin = TRF__NEW(char, &v->hooks, n + 1);
    trf_status status = tokens && copy ? TRF_OK
                   : trf__fail(err, TRF_E_NOMEM, -1, "text", "no memory for a copy of the text");
    if (status == TRF_OK) {
        memcpy(copy, text, n + 1);
        for (n_tokens = 0, i = 0; i < v->n_tokens; i++)
            if (v->tokens[i].count != TRF__BPE_ORDINARY) tokens[n_tokens++] = (int32_t)i;
    }
    for (char *at = copy; status == TRF_OK && *begin; at++) {
        const char *end = *at ? trf__special_at(v, tokens, n_tokens, at, &id) : at;
        if (!end) continue;
        *at = 0;                                /* what is before the token is a text */
        status = trf__byte_bpe_encode(v, begin, to, err);
        if (end > at) trf__emit_id(to, id, 0);
        begin = copy + (end - copy);
        at = begin - 1;
    }
    trf__free(&v->hooks, copy, n + 1);
    TRF__FREE(&v->hooks, tokens, n_tokens);
    return status;
}

// >>byte-bpe-text  from ids to text
//
// A character's bytes may lie in several tokens; it belongs to the last of them. Bytes that are not
// UTF-8 become U+FFFD, one for the longest beginning of a character (Unicode, 3.9).

/* Bytes that may become a character: none to three. */
typedef struct trf__byte_held { char bytes[4]; int n; } trf__byte_held;

/* Takes one more byte. Returns how many bytes of text it completes, at most 6, which are at `to`.
   *broke: the held bytes have become U+FFFD, because this one does not go on with them. */
TRF__FN int trf__hold_byte(trf__byte_held *held, char byte, char to[6], int *broke)
{
    int n = 0;
    *broke = 0;
    for (;;) {
        held->bytes[held->n++] = byte;
        int length = trf__utf8_at(held->bytes, (size_t)held->n);
        if (length == held->n) {
            memcpy(to + n, held->bytes, (size_t)length);
            held->n = 0;
            return n + length;
        }
        if (trf__utf8_begins(held->bytes, held->n)) return n;
        memcpy(to + n, TRF__REPLACEMENT, 3);
        n += 3;
        *broke |= held->n > 1;
        if (held->n == 1) { held->n = 0; return n; }
        held->n = 0;                    /* the byte may begin a character of its own */
    }
}

/* Whether every character of a token spells a byte; else the token stands for its own bytes. */
TRF__FN int trf__is_spelling(const char *token)
{
    int n;
    for (; *token; token += n) if (trf__spelled_byte(token, &n) < 0) return 0;
    return 1;
}

/* The next byte of a token. *token moves past its spelling. */
TRF__FN char trf__next_byte(const char **token, int spelled)
{
    int n = 1;
    char byte = spelled ? (char)(unsigned char)trf__spelled_byte(*token, &n) : **token;
    *token += n;
    return byte;
}

/* The text that a token adds: its length is returned, and it is written to `to`, unless that is
   NULL. `ends`: no token follows. */
TRF__FN size_t trf__byte_token_text(const char *token, int ends, trf__byte_held *held, char *to)
{
    int spelled = trf__is_spelling(token), broke;
    size_t length = 0;
    char text[6];
    while (*token) {
        int m = trf__hold_byte(held, trf__next_byte(&token, spelled), text, &broke);
        if (to) memcpy(to + length, text, (size_t)m);
        length += (size_t)m;
    }
    if (!ends || held->n == 0) return length;
    if (to) memcpy(to + length, TRF__REPLACEMENT, 3);
    return length + 3;
}

/* Ids to text. Special tokens are skipped. */
TRF__FN void trf__byte_bpe_decode(const trf_vocab *v, const int32_t *ids, int32_t n,
                                  trf__answer *to)
{
    trf__byte_held held = {"", 0};
    while (n > 0 && v->tokens[ids[n - 1]].count == TRF__BPE_SPECIAL) n--;
    for (int32_t i = 0; i < n; i++) {
        const trf__token *t = v->tokens + ids[i];
        const char *token = v->bytes + t->begin;
        if (t->count == TRF__BPE_SPECIAL) continue;
        trf__byte_held before = held;
        size_t length = trf__byte_token_text(token, i + 1 == n, &held, NULL);
        if (!trf__answer_room(to, i, length)) continue;
        (void)trf__byte_token_text(token, i + 1 == n, &before, to->text + to->written);
        to->written += length;
    }
}

/* How many of n ids, from `told` on, have text that the next ids do not change: they end with a
   character, or the bytes that follow do not go on with theirs. */
TRF__FN int32_t trf__byte_bpe_whole(const trf_vocab *v, const int32_t *ids, int32_t told, int32_t n)
{
    trf__byte_held held = {"", 0};
    char text[6];
    for (int32_t i = told; i < n; i++) {
        const trf__token *t = v->tokens + ids[i];
        const char *token = v->bytes + t->begin;
        int first = 1, spelled = trf__is_spelling(token), broke;
        for (; *token && t->count != TRF__BPE_SPECIAL; first = 0) {
            (void)trf__hold_byte(&held, trf__next_byte(&token, spelled), text, &broke);
            if (first && broke) told = i;
        }
        if (held.n == 0) told = i + 1;
    }
    return told;
}

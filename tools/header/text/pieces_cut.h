#pragma once
#include "api/basics.h"
#include "api/vocab.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "text/vocab.h"
#include "text/pieces.h"
#include "text/pieces_file.h"

// >>pieces-normal  the model's character map, blanks, user-defined pieces
//
// The steps of libsentencepiece's normalizer. A user-defined piece stays as it is. Else the longest
// matching rule replaces its text. Else one character is copied, and a byte that is not UTF-8
// becomes U+FFFD.

/* Length of the longest user-defined piece that begins the text, or 0. Only 64 matches count. */
TRF__FN size_t trf__user_defined(const trf_vocab *v, const char *text, size_t n)
{
    const trf__pieces *p = v->pieces;
    int32_t node = 0, found = 0;
    size_t longest = 0;
    if (!(p->types & 1 << TRF__PIECE_USER)) return 0;
    for (size_t i = 0; i < n && found < 64 && (node = trf__child(p, node, text[i])) >= 0; i++) {
        int32_t token = p->cells[node].token;
        if (token >= 0 && p->pieces[token].type == TRF__PIECE_USER) { longest = i + 1; found++; }
    }
    return longest;
}

/* Length of the longest rule that matches the beginning of the text, or 0. *to is its replacement.
   Only the 32 shortest matches count. A hostile map may contain a cycle, hence the limit of a
   thousand bytes: no real rule is longer. */
TRF__FN size_t trf__rule(const trf__pieces *p, const char *text, size_t n, const char **to)
{
    uint64_t at = 0, cell = p->n_rules ? trf__rule_cell(p, 0) : 0;
    size_t longest = 0, found = 0;
    for (size_t i = 0; p->n_rules && i < n && i < 1000 && found < 32; i++) {
        at ^= trf__rule_edge(cell) ^ (unsigned char)text[i];
        cell = trf__rule_cell(p, at);
        if ((cell & (1u << 31 | 255)) != (unsigned char)text[i]) break;
        if (!(cell >> 8 & 1)) continue;
        *to = p->replaced + (trf__rule_cell(p, at ^ trf__rule_edge(cell)) & INT32_MAX);
        longest = i + 1;
        found++;
    }
    return longest;
}

/* Normalises the beginning of the text to *length bytes at *to. Returns how many bytes it read. */
TRF__FN size_t trf__normal_prefix(const trf_vocab *v, const char *text, size_t n, const char **to,
                                  size_t *length)
{
    size_t taken;
    *to = text;
    if ((*length = trf__user_defined(v, text, n)) > 0) return *length;
    if ((taken = trf__rule(v->pieces, text, n, to)) > 0) { *length = strlen(*to); return taken; }
    if ((*length = (size_t)trf__utf8_at(text, n)) > 0) return *length;
    *to = TRF__REPLACEMENT;
    *length = 3;
    return 1;
}

/* A text that grows. */
typedef struct trf__growing { char *bytes; int64_t n, capacity; } trf__growing;

/* Positions in a normalised text are int32_t, and BPE has three heap entries for each byte. */
TRF__FN trf_status trf__normal_limit(int64_t n, size_t more, trf_error *err)
{
    return TRF__OK_IF(more <= INT32_MAX / 4 && n <= INT32_MAX / 4 - (int64_t)more, TRF_E_LIMIT, -1,
                      "text", "expected a text of at most 512 MiB, got a longer one");
}

/* Appends n bytes. A blank may become the three bytes of U+2581. */
TRF__FN trf_status trf__normal_add(const trf_vocab *v, trf__growing *to, const char *text, size_t n,
                                   trf_error *err)
{
    TRF__TRY(trf__normal_limit(to->n, n, err));
    TRF__GROW(char, to->bytes, to->capacity, to->n + 3 * (int64_t)n, &v->hooks);
    for (size_t i = 0; i < n; i++)
        if (text[i] != ' ' || !v->pieces->escape) to->bytes[to->n++] = text[i];
        else { memcpy(to->bytes + to->n, TRF__SPACE, 3); to->n += 3; }
    return TRF_OK;
}

/* Appends the normalised text. remove_extra drops blanks at both ends and repeated ones.
   dummy_prefix adds a blank in front, or with `suffix` at the end, except to a text of blanks. */
TRF__FN trf_status trf__normalise(const trf_vocab *v, const char *text, size_t n, trf__growing *to,
                                  trf_error *err)
{
    const trf__pieces *p = v->pieces;
    const char *space = p->escape ? TRF__SPACE : " ", *part;
    int64_t wide = p->escape ? 3 : 1;
    int after_space = p->remove_extra, blank = p->remove_extra;
    size_t length, taken;
    if (n == 0) return TRF_OK;
    if (p->dummy_prefix && !p->suffix) TRF__TRY(trf__normal_add(v, to, " ", 1, err));
    for (; n > 0; text += taken, n -= taken) {
        taken = trf__normal_prefix(v, text, n, &part, &length);
        blank = blank && length == 1 && *part == ' ';
        for (; after_space && length > 0 && *part == ' '; part++) length--;
        if (length == 0) continue;
        TRF__TRY(trf__normal_add(v, to, part, length, err));
        after_space = p->remove_extra && part[length - 1] == ' ';
    }
    while (p->remove_extra && to->n >= wide && !memcmp(to->bytes + to->n - wide, space,
                                                       (size_t)wide)) to->n -= wide;
    if (p->dummy_prefix && p->suffix && !blank) TRF__TRY(trf__normal_add(v, to, " ", 1, err));
    return trf__normal_limit(to->n, 0, err);
}

/* Bytes of a character by its first byte, at most `left`. */
TRF__FN int32_t trf__char_bytes(const char *at, int64_t left)
{
    static const char bytes[] = "\1\1\1\1\1\1\1\1\1\1\1\1\2\2\3\4";
    return (int32_t)trf__min64(bytes[(unsigned char)*at >> 4], left);
}

// >>pieces-cut     unigram (Viterbi)
//
// Both algorithms read a normalised text and give its pieces in order to trf__emit_piece. Their
// scratch memory is proportional to the text.

/* Ids beyond the capacity are only counted. n_unknown: how many of the n are unk. unknown: 1 after
   an unknown piece. Then `run` is the beginning of the run of such pieces, with its hash. */
typedef struct trf__ids {
    int32_t *ids;
    int32_t capacity, unknown;
    int64_t n, n_unknown;
    const char *run;
    size_t n_run;
    uint64_t hash;
    int known;                  /* 1: the run is a token of the map */
} trf__ids;

TRF__FN void trf__emit_id(trf__ids *to, int32_t id, int unknown)
{
    if (to->n++ < to->capacity) to->ids[to->n - 1] = id;
    to->n_unknown += unknown;
}

/* Appends the id of a token, or unk for one that a map leaves out. */
TRF__FN void trf__emit_token(const trf_vocab *v, trf__ids *to, int32_t token)
{
    int32_t id = v->pieces->pieces[token].id;
    trf__emit_id(to, id < 0 ? v->special[TRF_SPECIAL_UNK] : id, id < 0);
}

/* Extends a run of unknown characters: one unk, or the map's token with the run's text. */
TRF__FN void trf__emit_run(const trf_vocab *v, trf__ids *to, const char *text, size_t n)
{
    const trf__pieces *p = v->pieces;
    if (!to->unknown) {
        trf__emit_id(to, v->special[TRF_SPECIAL_UNK], 1);
        to->run = text;
        to->n_run = 0;
        to->known = 0;
        to->hash = TRF__HASH_START;
    }
    if (!p->tokens) return;
    to->n_run += n;
    to->hash = trf__hash_more(to->hash, text, n);
    int32_t token = trf__vocab_find(v, to->run, to->n_run, trf__hash_end(to->hash));
    to->n--;
    to->n_unknown -= !to->known;
    to->known = trf__type_of(p, token) == TRF__PIECE_MORE;
    trf__emit_id(to, to->known ? p->pieces[token].id : v->special[TRF_SPECIAL_UNK], !to->known);
}

/* Appends a piece. Token -1: bytes without a piece, which become byte pieces, or one unk a run. */
TRF__FN void trf__emit_piece(const trf_vocab *v, trf__ids *to, int32_t token, const char *text,
                             int32_t n)
{
    int32_t i;
    if (token >= 0) trf__emit_token(v, to, token);
    else if (v->pieces->byte_fallback)
        for (i = 0; i < n; i++) trf__emit_token(v, to, v->pieces->bytes[(unsigned char)text[i]]);
    else trf__emit_run(v, to, text, (size_t)n);
    to->unknown = token < 0;
}

/* Unigram (Kudo 2018, 3.2): the best path from the beginning to every byte. A character that is no
   piece itself can be unknown, 10 below the lowest score. A user-defined piece scores 0.1 for every
   byte but the first. from -1: there is no path yet. */
typedef struct trf__path { float score; int32_t from, token; } trf__path;

/* Keeps the better of two paths, and the first of equal ones. */
TRF__FN void trf__path_to(trf__path *to, float score, int32_t from, int32_t token)
{
    const trf__path path = {score, from, token};
    if (to->from < 0 || score > to->score) *to = path;
}

TRF__FN void trf__unigram(const trf_vocab *v, const char *text, int32_t n, trf__path *lattice,
                          trf__ids *to)
{
    const trf__pieces *p = v->pieces;
    const float unknown = p->least - 10.0f;
    const trf__path none = {0, -1, -1};
    int32_t at, end, node, token, step, reached = 0;
    for (at = 0; at <= n; at++) lattice[at] = none;
    for (at = 0; at < n; at += step) {
        float till = lattice[at].score;
        int single = 0;
        if (till < -100000.0f || till > 100000.0f) {            /* small sums keep their digits */
            for (end = at; end <= reached; end++) lattice[end].score -= till;
            till = 0;
        }
        step = trf__char_bytes(text + at, n - at);
        for (node = 0, end = at; end < n && (node = trf__child(p, node, text[end++])) >= 0; ) {
            token = p->cells[node].token;
            if (token < 0 || p->pieces[token].type == TRF__PIECE_UNUSED) continue;
            trf__path_to(&lattice[end], till + (p->pieces[token].type == TRF__PIECE_USER
                ? (float)(0.1 * (end - at - 1)) : p->pieces[token].score), at, token);
            single |= end - at == step;
        }
        if (!single) trf__path_to(&lattice[at + step], unknown + till, at, -1);
        reached = (int32_t)trf__max64(reached, trf__max64(end, at + step));
    }
    /* reverse the path: now from is where a piece ends, and token is that piece */
    for (end = n, at = lattice[n].from, token = lattice[n].token; end > 0; ) {
        int32_t before = lattice[at].from, its = lattice[at].token;
        lattice[at].from = end;
        lattice[at].token = token;
        end = at; at = before; token = its;
    }
    for (at = 0; at < n; at = lattice[at].from)
        trf__emit_piece(v, to, lattice[at].token, text + at, lattice[at].from - at);
}

/* build: shared */
/* SentencePiece models made here, piece by piece: their answers beside libsentencepiece's (0.2.3,
   written down), beside plain loops, through model files; every byte of a model damaged, every
   allocation failing once. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"
#include "made_pieces.h"

/* ---- beside libsentencepiece ---- */

/* For each of all_options and texts: the ids and, behind a bar, the text they give. Made by
   tools/parity/pieces.py golden. */
static const char *const golden[OPTIONS][TEXTS] = {
#include "golden/pieces.h"
};

static void goldens(void **state)
{
    int o, t;
    (void)state;
    for (o = 0; o < OPTIONS; o++) {
        trf_vocab *v;
        make_model(&model, all_options[o]);
        v = vocab_of(&model, NULL);
        if (!v) fail_msg("options %d: %s", o, err.message);
        for (t = 0; t < TEXTS; t++) {
            int32_t ids[256], n, i;
            char found[2048], back[512];
            size_t at = 0;
            OK(trf_vocab_encode(v, texts[t], 0, ids, 256, &n, &err));
            for (i = 0; i < n; i++)
                at += (size_t)snprintf(found + at, sizeof found - at, "%d ", (int)ids[i]);
            OK(trf_vocab_decode(v, ids, n, back, sizeof back, NULL, &err));
            snprintf(found + at, sizeof found - at, "|%s", back);
            if (strcmp(found, golden[o][t]))
                fail_msg("options %d, text %d: %s, expected %s", o, t, found, golden[o][t]);
        }
        trf_vocab_destroy(v);
    }
}

/* What the map replaces is cut as what it stands for would be: the longest rule, an empty answer,
   blanks in answers. */
static void maps(void **state)
{
    static const char *const same[][2] = {{"\xEF\xAC\x81\xEF\xBC\xA1", "fiA"},
                                          {"\xEF\xBC\xA1\xCC\x88\xEF\xBC\xA1", "\xC3\x84"
                                                                               "A"},
                                          {"a\tb\xC2\xA0 c", "a b c"},
                                          {"\xE2\x80\xA6"
                                           "a \xE2\x80\xA6",
                                           ". . a . ."},
                                          {"\xE2\x80\x8B \xE2\x80\x8B"
                                           "a\xE2\x80\x8B",
                                           "a"},
                                          {"\xE2\x80\x8B", ""},
                                          {"{u}\xEF\xBC\xA1{u", "{u}A{u"},
                                          {"\xEF\xBC", "\xEF\xBF\xBD\xEF\xBF\xBD"},
                                          {"a\xE2\x80\xA6\xE2\x80\xA6"
                                           "b",
                                           "a. . . . b"}};
    int o;
    size_t i;
    (void)state;
    for (o = 0; o < 2; o++) {
        options with = all_options[o];
        trf_vocab *v;
        with.map = 1;
        make_model(&model, with);
        v = vocab_of(&model, NULL);
        assert_non_null(v);
        for (i = 0; i < sizeof same / sizeof *same; i++) {
            int32_t ids[64], wanted[64], n, m;
            OK(trf_vocab_encode(v, same[i][0], 0, ids, 64, &n, &err));
            OK(trf_vocab_encode(v, same[i][1], 0, wanted, 64, &m, &err));
            if (n != m || memcmp(ids, wanted, (size_t)n * sizeof *ids))
                fail_msg("type %d, text %d", with.type, (int)i);
        }
        trf_vocab_destroy(v);
    }
}

static void refused(const message *m, trf_status status, const char *words)
{
    if (vocab_of(m, NULL)) fail_msg("taken; expected \"%s\"", words);
    if (err.status != status || !strstr(err.message, words))
        fail_msg("status %d, \"%s\"; expected \"%s\"", err.status, err.message, words);
    assert_string_equal(err.what, "sentencepiece");
}

/* A map that would lead out of itself is refused, as libsentencepiece refuses it, wherever that is
   in it. */
static void damaged_maps(void **state)
{
    static const rule one = {
        "a", "b"}; /* the root's cells are 256 .. 511, that of "a" is 353, its value 512 */
    static const struct {
        uint32_t cell, value;
    } damages[] = {{0, 0},
                   {0, 256 << 10 | 1 << 8},
                   {0, 256 << 10 | 'a'},
                   {0, 1024 << 10},
                   {0, 1u << 31},
                   {353, 1024 << 10 | 1 << 8 | 'a'},
                   {353, 4 << 10 | 1 << 9 | 1 << 8 | 'a'},
                   {700, 1024 << 10},
                   {512, 0},
                   {512, 1u << 31 | 2},
                   {701, 1u << 31 | 2}};
    enum { DAMAGES = sizeof damages / sizeof *damages };
    static unsigned char map[8192], changed[8192];
    size_t n = put_map(map, &one, 1), i, k;
    (void)state;
    for (i = 0; i < DAMAGES + 3; i++) {
        static message inner;
        trf_vocab *v;
        memcpy(changed, map, n);
        for (k = 0; i < DAMAGES && k < 4; k++)
            changed[4 + 4 * damages[i].cell + k] = (unsigned char)(damages[i].value >> 8 * k);
        if (i == DAMAGES) changed[n - 1] = 'b';         /* no NUL behind the texts */
        if (i == DAMAGES + 1) changed[1]--;             /* not whole blocks */
        make_model(&model, all_options[0]);
        inner.n = 0;
        put_bytes(&inner, 2, changed, n);
        put_bytes(&model, 3, inner.bytes, inner.n);
        if (i < DAMAGES + 2) { refused(&model, TRF_E_FORMAT, "map"); continue; }
        v = vocab_of(&model, NULL);             /* and not damaged it is none of these */
        assert_non_null(v);
        trf_vocab_destroy(v);
    }
}

/* ---- beside plain loops ---- */

static uint64_t draws;
static int32_t pick(int32_t n) { return (int32_t)(trf__random64(12, 5, draws++) % (uint64_t)n); }

static int32_t token_of(const trf_vocab *v, const char *text, int length)
{
    int32_t i;
    for (i = 0; i < v->n_tokens; i++)
        if (v->tokens[i].length == length &&
            !memcmp(v->bytes + v->tokens[i].begin, text, (size_t)length) &&
            v->pieces->pieces[i].type < BYTE)
            return i;
    return -1;
}

/* The score of the best way to cut text[0..n) into pieces, characters that are none being unknown.
 */
static double best_score(const trf_vocab *v, const char *text, int n, double *memory, double least)
{
    double best = -1e30;
    int length, step;
    if (n == 0) return 0;
    if (memory[n] > -1e29) return memory[n];
    for (step = 1; step < n && ((unsigned char)text[n - step] & 0xC0) == 0x80; step++) { }
    for (length = 1; length <= n; length++) {
        int32_t token = token_of(v, text + n - length, length);
        double score;
        if (((unsigned char)text[n - length] & 0xC0) == 0x80) continue;
        if (token >= 0 && v->pieces->pieces[token].type == UNUSED) token = -1;
        if (token < 0 && length != step) continue;
        score = best_score(v, text, n - length, memory, least) +
                (token >= 0 ? (double)v->pieces->pieces[token].score : least - 10);
        if (score > best) best = score;
    }
    return memory[n] = best;
}

/* Pieces in no order, half of them alike in their first eight bytes: each is found. */
static void many_pieces(void **state)
{
    enum { MANY = 3000, PLACES = 6, LETTERS = 5, WAYS = 15625 };        /* 5^6 */
    options o = {1, 0, 0, 0, 0, 1, 0, 0};
    trf_vocab *v;
    int i, k, pass;
    (void)state;
    make_model(&model, o);
    for (v = NULL, pass = 0; pass < 2; pass++) {
        for (i = 0; i < MANY; i++) {
            char text[32];
            int32_t ids[32], n, number = i * 7919 % WAYS, at = i % 2 ? snprintf(text, 32, "PREFIXED") : 0;
            for (k = 0; k < PLACES; k++, number /= LETTERS) text[at++] = (char)('Q' + number % LETTERS);
            text[at] = 0;
            if (pass == 0) { put_piece(&model, text, -1, NORMAL); continue; }
            OK(trf_vocab_encode(v, text, 0, ids, 32, &n, &err));
            assert_true(n >= 1 && n <= 2 && ids[n - 1] == trf_vocab_id(v, text) && ids[n - 1] > 3);
        }
        if (pass == 0) assert_non_null(v = vocab_of(&model, NULL));
    }
    trf_vocab_destroy(v);
}

/* Random words without user-defined pieces: the score of what comes out is the best there is. */
static void unigram_is_best(void **state)
{
    options o = {1, 0, 0, 0, 0, 1, 0, 0};
    trf_vocab *v;
    double memory[256], least = 0;
    int again, i;
    (void)state;
    make_model(&model, o);
    v = vocab_of(&model, NULL);
    assert_non_null(v);
    for (i = 0; i < v->n_tokens; i++)
        if (v->pieces->pieces[i].type == NORMAL && (double)v->pieces->pieces[i].score < least)
            least = (double)v->pieces->pieces[i].score;
    for (again = 0; again < 3000; again++) {
        char text[128] = "", *at = text;
        int32_t ids[128], n;
        double score = 0;
        int parts_in_it = pick(12), unknown = 0;
        for (i = 0; i < parts_in_it; i++)
            at += sprintf(at, "%s", pick(9) == 0 ? "z" : parts[pick(PARTS - 3)]);
        OK(trf_vocab_encode(v, text, 0, ids, 128, &n, &err));
        for (i = 0; text[i]; i++) unknown += text[i] == 'z';
        for (i = 0; i < n; i++)
            if (ids[i] != TRF__UNK) score += (double)v->pieces->pieces[ids[i] - 4].score;
        score += unknown * (least - 10);
        for (i = 0; i < 256; i++) memory[i] = -1e30;
        assert_true(fabs(score - best_score(v, text, (int)strlen(text), memory, least)) < 1e-3);
    }
    trf_vocab_destroy(v);
}

/* BPE by the book: of all neighbours that are a piece together, those of the best score, from the
   left. */
static void bpe_by_the_book(void **state)
{
    options o = {2, 0, 0, 0, 0, 1, 0, 0};
    trf_vocab *v;
    int again, i, k;
    (void)state;
    make_model(&model, o);
    v = vocab_of(&model, NULL);
    assert_non_null(v);
    for (again = 0; again < 3000; again++) {
        char text[128] = "", *at = text, part[64][64];
        int32_t ids[128], n;
        int parts_in_it = pick(12), symbols = 0, given = 0, unknown = 0;
        for (i = 0; i < parts_in_it; i++)
            at += sprintf(at, "%s", pick(9) == 0 ? "z" : parts[pick(14)]);
        for (i = 0; text[i]; symbols++) {
            k = trf__char_bytes(text + i, (int64_t)strlen(text + i));
            sprintf(part[symbols], "%.*s", k, text + i);
            i += k;
        }
        for (;;) {
            int best = -1;
            float score = 0;
            for (i = 0; i + 1 < symbols; i++) {
                char both[128];
                int32_t token = (sprintf(both, "%s%s", part[i], part[i + 1]),
                                 token_of(v, both, (int)strlen(both)));
                if (token < 0 || (best >= 0 && v->pieces->pieces[token].score <= score)) continue;
                best = i;
                score = v->pieces->pieces[token].score;
            }
            if (best < 0) break;
            strcat(part[best], part[best + 1]);
            for (i = best + 1; i + 1 < symbols; i++) strcpy(part[i], part[i + 1]);
            symbols--;
        }
        OK(trf_vocab_encode(v, text, 0, ids, 128, &n, &err));
        for (i = 0; i < symbols; i++) {
            int32_t token = token_of(v, part[i], (int)strlen(part[i]));
            if (token >= 0 && v->pieces->pieces[token].type == UNUSED) {
                given = -1;
                break;
            } /* they come apart: goldens */
            if (token < 0 && unknown) continue;
            unknown = token < 0;
            assert_int_equal(ids[given++], token < 0 ? (int32_t)TRF__UNK : token + 4);
        }
        if (given >= 0) assert_int_equal(given, n);
    }
    trf_vocab_destroy(v);
}

/* ---- models that are not what they should be ---- */

static void refusals(void **state)
{
    options o = all_options[0];
    trf_vocab *v;
    size_t n;
    (void)state;
    make_model(&model, o);
    n = model.n;
    put_piece(&model, "abc", -1, NORMAL);
    refused(&model, TRF_E_FORMAT, "once");
    assert_true(err.where > (int64_t)n && err.where < (int64_t)model.n);
    model.n = n; put_piece(&model, "", -1, NORMAL); refused(&model, TRF_E_FORMAT, "empty");
    model.n = n; put_piece(&model, "\xC3", -1, NORMAL); refused(&model, TRF_E_FORMAT, "UTF-8");
    model.n = n;
    put_piece(&model, "q", (float)HUGE_VAL, NORMAL);
    refused(&model, TRF_E_FORMAT, "score");
    model.n = n;
    put_piece(&model, "<unknown>", 0, UNKNOWN);
    refused(&model, TRF_E_FORMAT, "unknown");
    model.n = n; put_piece(&model, "<0x1>", 0, BYTE); refused(&model, TRF_E_FORMAT, "<0x0A>");
    model.n = n;
    put_piece(&model, "<0x1F>", 0, BYTE);
    refused(&model, TRF_E_FORMAT, "1 byte pieces");
    model.n = n;
    o.type = 3;
    put_options(&model, o);
    refused(&model, TRF_E_UNSUPPORTED, "unigram or BPE");
    model.n = n;
    put_bytes(&model, 5, "\x12\1a", 3);
    refused(&model, TRF_E_UNSUPPORTED, "denormalizer");
    model.n = n; put_bytes(&model, 3, "\x12\5abcde", 7); refused(&model, TRF_E_FORMAT, "map");
    model.n = n;
    put_bytes(&model, 2, "\xE2\2\2a\0", 5);
    refused(&model, TRF_E_FORMAT, "NUL"); /* the text of unk */
    model.n = n; put_bytes(&model, 2, "\xE2\2\2a\xFF", 5); refused(&model, TRF_E_FORMAT, "UTF-8");
    model.n = 0; refused(&model, TRF_E_FORMAT, "expected pieces");
    put_flag(&model, 0, 1); refused(&model, TRF_E_FORMAT, "byte 0");
    assert_int_equal(trf__vocab_from_bytes(NULL, TRF_SENTENCEPIECE, "", 0, NULL, &err),
                     TRF_E_INVALID_ARG);
    assert_int_equal(trf__vocab_from_bytes(&v, TRF_SENTENCEPIECE, NULL, 0, NULL, &err),
                     TRF_E_INVALID_ARG);
    make_model(&model, all_options[0]);
    put_flag(&model, 77, 5);                        /* what nobody knows is passed over */
    put_bytes(&model, 4, "self test", 9);
    v = vocab_of(&model, NULL);
    assert_non_null(v);
    assert_int_equal(trf_vocab_kind(v), TRF_SENTENCEPIECE);
    assert_int_equal(trf_vocab_size(v), PARTS + 4);
    assert_string_equal(trf_vocab_token(v, 4 + 6), "abc");
    assert_int_equal(trf_vocab_id(v, "abc"), 4 + 6);
    assert_int_equal(trf_vocab_id(v, "<s>"), TRF__UNK);
    assert_int_equal(trf_vocab_learn(v, "abc", &err), TRF_E_STATE);
    trf_vocab_destroy(v);
}

/* What libsentencepiece 0.2.3 does: a piece has less than 8,000 bytes; one that is a NUL is taken
   beside byte fallback, whatever its type, and not used; the last of several maps counts, also if
   there is none in it. */
static void pieces_at_the_limits(void **state)
{
    static const int types[] = {NORMAL, USER, CONTROL, UNUSED};
    static char longest[8001];
    static const rule one = {"a", "b"};
    static unsigned char map[8192];
    static message inner;
    trf_vocab *v;
    int32_t ids[8], n;
    char text[16];
    size_t whole, i, bytes;
    (void)state;
    memset(longest, 'a', 8000);
    make_model(&model, all_options[0]);
    whole = model.n;
    put_piece_of(&model, longest, 8000, -1, NORMAL);
    refused(&model, TRF_E_FORMAT, "7999 bytes");
    model.n = whole; put_piece_of(&model, longest, 8000, 0, CONTROL);
    refused(&model, TRF_E_FORMAT, "7999 bytes");
    model.n = whole; put_piece_of(&model, longest, 7999, -1, NORMAL);
    v = vocab_of(&model, NULL);
    assert_non_null(v);
    OK(trf_vocab_encode(v, longest + 1, 0, ids, 8, &n,
                        &err)); /* 7,999 of them, and the blank before */
    assert_int_equal(n, 2);
    assert_int_equal(ids[1], 4 + PARTS);
    trf_vocab_destroy(v);
    for (i = 0; i < sizeof types / sizeof *types; i++) {
        make_model(&model, all_options[0]);
        put_piece_of(&model, "", 1, -1, types[i]);
        refused(&model, TRF_E_FORMAT, "NUL");
        make_model(&model, all_options[2]);
        put_piece_of(&model, "", 1, -1, types[i]);
        put_piece(&model, "w", -1, NORMAL);
        v = vocab_of(&model, NULL);
        assert_non_null(v);
        n = trf_vocab_size(v);
        assert_int_equal(trf_vocab_id(v, "w"), n - 1);          /* its number is there */
        ids[0] = n - 2; ids[1] = n - 1;
        OK(trf_vocab_decode(v, ids, 2, text, sizeof text, &bytes, &err));
        assert_int_equal(bytes, 2);
        assert_memory_equal(text, "\0w", 3);
        trf_vocab_destroy(v);
    }
    make_model(&model, all_options[2]);
    put_piece_of(&model, "a\0", 2, -1, NORMAL);
    refused(&model, TRF_E_FORMAT, "NUL");
    make_model(&model, all_options[0]);
    inner.n = 0;
    put_bytes(&inner, 2, map, put_map(map, &one, 1));
    put_bytes(&model, 3, inner.bytes, inner.n);
    whole = model.n;
    for (i = 0; i < 2; i++) {
        v = vocab_of(&model, NULL);
        assert_non_null(v);
        OK(trf_vocab_encode(v, "a", 0, ids, 8, &n, &err));
        OK(trf_vocab_decode(v, ids, n, text, sizeof text, NULL, &err));
        assert_string_equal(text, i ? "a" : "b");
        trf_vocab_destroy(v);
        model.n = whole;
        put_bytes(&model, 3, "\x12", 2);                        /* the map of no bytes */
    }
}

/* A map that leads into a circle: every character would be followed to the end of the text. */
static void maps_without_end(void **state)
{
    enum { LONG = 200000 };
    static const rule one = {"a", "b"};
    static unsigned char map[8192];
    static message inner;
    const uint32_t circle =
        (353 ^ 256) << 10 | 'a'; /* the children of "a" are its own block: "a" is its own child */
    char *text = (char *)malloc(LONG + 1);
    size_t n = put_map(map, &one, 1), k;
    int32_t tokens;
    clock_t began;
    trf_vocab *v;
    (void)state;
    assert_non_null(text);
    memset(text, 'a', LONG);
    text[LONG] = 0;
    for (k = 0; k < 4; k++) map[4 + 4 * 353 + k] = (unsigned char)(circle >> 8 * k);
    make_model(&model, all_options[0]);
    inner.n = 0;
    put_bytes(&inner, 2, map, n);
    put_bytes(&model, 3, inner.bytes, inner.n);
    v = vocab_of(&model, NULL);
    assert_non_null(v);
    began = clock();
    assert_int_equal(trf_vocab_encode(v, text, 0, NULL, 0, &tokens, &err), TRF_E_LIMIT);
    assert_true(tokens > LONG / 3);
    assert_true((double)(clock() - began) <
                20.0 * CLOCKS_PER_SEC); /* two minutes and more, if it went on */
    trf_vocab_destroy(v);
    free(text);
}

/* Every byte changed, every length: refused with a place, or a model that works. */
static void hostile(void **state)
{
    static message bad;
    int o;
    size_t at;
    (void)state;
    for (o = 0; o < 2; o++) {
        options with = all_options[o];
        with.map = 1;
        make_model(&model, with);
        for (at = 0; at < 2 * model.n; at += at < 1500 || at > model.n ? 1 : 37) {
            trf_vocab *v;
            int32_t ids[64], n;
            char text[256];
            bad = model;
            if (at < model.n) bad.bytes[at] ^= (unsigned char)(1 << pick(8));
            else bad.n = at - model.n;
            if (at >= model.n + 1500 && pick(16)) continue;
            v = vocab_of(&bad, NULL);
            if (!v) { assert_true(err.status < 0 && err.message[0] && err.where >= 0); continue; }
            OK(trf_vocab_encode(v, "abc \xEF\xAC\x81\xE2\x80\xA6 {u}cab\xFFz \xEF\xBC\xA1\xCC\x88",
                                0, ids, 64, &n, &err));
            OK(trf_vocab_decode(v, ids, n, text, sizeof text, NULL, &err));
            trf_vocab_destroy(v);
        }
    }
}

/* Pieces of which every node has the children a, b and d, whose cells leave holes that no other
   node fits in: to look for room is no search through all cells each time. */
static void holes(void **state)
{
    enum { LENGTH = 11, PIECES = 177147, EACH = LENGTH + 4 };
    unsigned char *bytes = (unsigned char *)malloc((size_t)PIECES * EACH), *to = bytes;
    static const unsigned char unknown[] = {10, 9, 10, 5, '<', 'u', 'n', 'k', '>', 24, 2};
    trf_vocab *v = NULL;
    clock_t begin = clock();
    int i, k, rest;
    (void)state;
    assert_non_null(bytes);
    memcpy(to, unknown, sizeof unknown);
    for (to += sizeof unknown, i = 0; i < PIECES - 1; i++) {
        *to++ = 10; *to++ = LENGTH + 2; *to++ = 10; *to++ = LENGTH;
        for (k = 0, rest = i; k < LENGTH; k++, rest /= 3) *to++ = (unsigned char)"abd"[rest % 3];
    }
    OK(trf__vocab_from_bytes(&v, TRF_SENTENCEPIECE, bytes, (size_t)(to - bytes), NULL, &err));
    assert_int_equal(trf_vocab_size(v), PIECES - 1 + 4);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 20);
    for (i = 0; i < PIECES - 1; i += 997) {
        int32_t ids[2], n;
        OK(trf_vocab_encode(v, trf_vocab_token(v, i + 4), 0, ids, 2, &n, &err));
        assert_true(n >= 1 && trf_vocab_id(v, trf_vocab_token(v, i + 4)) == i + 4);
    }
    trf_vocab_destroy(v);
    free(bytes);
}

/* A text that becomes too long is told before there is memory for it. */
static void texts_that_grow(void **state)
{
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    trf__growing normal = {NULL, INT32_MAX / 4 - 3, 0};
    trf_vocab *v;
    (void)state;
    make_model(&model, all_options[0]);
    v = vocab_of(&model, &hooks);
    assert_non_null(v);
    memory.limit = 1000;
    assert_int_equal(trf__normal_add(v, &normal, "abc", 3, &err), TRF_E_NOMEM);
    assert_int_equal(trf__normal_add(v, &normal, "abcd", 4, &err), TRF_E_LIMIT);
    trf_vocab_destroy(v);
}

static void no_memory(void **state)
{
    kit_memory memory;
    trf_hooks hooks;
    trf_vocab *v = NULL;
    int32_t ids[64], n;
    int64_t k;
    int o, done;
    (void)state;
    for (o = 0; o < 2; o++)
        for (make_model(&model, all_options[o]), k = 1, done = 0; !done; k++) {
            hooks = kit_hooks(&memory);
            memory.fail_at = k;
            v = vocab_of(&model, &hooks);
            if (!v) assert_int_equal(err.status, TRF_E_NOMEM);
            else {
                done = trf_vocab_encode(v, "abc cab", 0, ids, 64, &n, &err) == TRF_OK;
                if (!done) assert_int_equal(err.status, TRF_E_NOMEM);
                if (!done) {
                    assert_int_equal(n, 0);
                    OK(trf_vocab_encode(v, "abc cab", 0, ids, 64, &n, &err));
                } /* and goes on */
            }
            trf_vocab_destroy(v);
            assert_int_equal(memory.live, 0);
        }
    assert_true(k > 8);
}

/* ---- in a model, in a file ---- */

static void travels(void **state)
{
    char path[] = "/tmp/trf-pieces-XXXXXX", answer[4096];
    trf_config config = kit_config();
    trf_search search = trf_search_defaults();
    trf_model *m, *back;
    trf_translator *t;
    trf_vocab *v;
    const trf_vocab *kept;
    int32_t ids[64], n;
    (void)state;
    make_model(&model, all_options[0]);
    v = vocab_of(&model, NULL);
    config.d_model = 16;
    config.n_heads = 2;
    config.d_ff = 16;
    config.encoder_layers = config.decoder_layers = 1;
    config.source_vocab = config.target_vocab = trf_vocab_size(v);
    OK(trf_model_create(&m, &config, NULL, &err));
    OK(trf_model_set_vocabs(m, v, v, &err));
    assert_int_equal(close(mkstemp(path)), 0);
    OK(trf_model_save(m, path, NULL, &err));
    OK(trf_model_load(&back, path, NULL, &err));
    assert_int_equal(unlink(path), 0);
    kept = trf_model_vocab(back, TRF_SOURCE);
    assert_int_equal(trf_vocab_kind(kept), TRF_SENTENCEPIECE);
    assert_true(kept->pieces->model_bytes == (int64_t)model.n &&
                !memcmp(kept->pieces->model, model.bytes, model.n));
    OK(trf_vocab_encode(kept, texts[3], 0, ids, 64, &n, &err));
    assert_int_equal(n, 4);
    assert_int_equal(trf_vocab_encode(kept, texts[3], 0, ids, 1, &n, &err), TRF_E_LIMIT);
    assert_int_equal(n, 4);
    OK(trf_translator_create(&t, back, &search, &err));
    OK(trf_translate_text(t, "abc cab", answer, sizeof answer, &err));
    assert_null(strstr(answer, TRF__SPACE));
    trf_translator_destroy(t);
    trf_model_destroy(back);
    trf_model_destroy(m);
    trf_vocab_destroy(v);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(goldens),
                                       cmocka_unit_test(maps),
                                       cmocka_unit_test(damaged_maps),
                                       cmocka_unit_test(many_pieces),
                                       cmocka_unit_test(unigram_is_best),
                                       cmocka_unit_test(bpe_by_the_book),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(pieces_at_the_limits),
                                       cmocka_unit_test(maps_without_end),
                                       cmocka_unit_test(hostile),
                                       cmocka_unit_test(holes),
                                       cmocka_unit_test(texts_that_grow),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(travels)};
    if (argc == 2) { /* writes model number o to the file, and the texts with a NUL behind each to
                        standard output */
        FILE *f = fopen(argv[1], "wb");
        int t, o = atoi(strrchr(argv[1], '.') + 1);
        make_model(&model, all_options[o]);
        if (!f || fwrite(model.bytes, 1, model.n, f) != model.n || fclose(f)) return 1;
        for (t = 0; t < TEXTS; t++) fwrite(texts[t], 1, strlen(texts[t]) + 1, stdout);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

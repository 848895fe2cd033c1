/* build: shared */
/* The vocabulary: counting and order, text to ids and back at every capacity, strict UTF-8 against
   an oracle, the stored form with hostile variants, and every allocation failing once. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"

/* A vocabulary from n stored bytes, in memory of just that size. */
static trf_status from_bytes(trf_vocab **v, trf_token_kind kind, const char *bytes, size_t n,
                             const trf_hooks *hooks)
{
    char *exact = (char *)malloc(n ? n : 1);
    trf_status status;
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    status = trf__vocab_from_bytes(v, kind, exact, (int64_t)n, hooks, &err);
    free(exact);
    return status;
}

static int same_bytes(const trf_vocab *v, const char *bytes, size_t n)
{
    return (size_t)v->n_bytes == n && (n == 0 || !memcmp(v->bytes, bytes, n));
}

static trf_vocab *learned(trf_token_kind kind, const char *line, int32_t max_size,
                          int64_t min_count)
{
    trf_vocab *v;
    OK(trf_vocab_create(&v, kind, NULL, &err));
    OK(trf_vocab_learn(v, line, &err));
    OK(trf_vocab_finish(v, max_size, min_count, &err));
    return v;
}

static void check_tokens(const trf_vocab *v, int32_t n, const char *const *tokens)
{
    int32_t i;
    assert_int_equal(trf_vocab_size(v), n + 4);
    for (i = 0; i < n; i++) {
        assert_string_equal(trf_vocab_token(v, i + 4), tokens[i]);
        assert_int_equal(trf_vocab_id(v, tokens[i]), i + 4);
    }
    assert_null(trf_vocab_token(v, n + 4));
    assert_null(trf_vocab_token(v, -1));
}
#define TOKENS(v, ...) do { const char *const t_[] = { __VA_ARGS__ }; \
    check_tokens(v, (int32_t)(sizeof t_ / sizeof *t_), t_); } while (0)

static uint64_t draws;
static int32_t pick(int32_t n) { return (int32_t)(trf__random64(11, 3, draws++) % (uint64_t)n); }

/* -----------------------------------------------------------------------------------------------
 */
static void creating(void **state)
{
    trf_vocab *v = (trf_vocab *)&err;
    kit_memory h;
    trf_hooks hooks = kit_hooks(&h);
    (void)state;
    FAILS(trf_vocab_create(NULL, TRF_WORDS, NULL, &err), TRF_E_INVALID_ARG, "vocab", -1);
    FAILS(trf_vocab_create(&v, (trf_token_kind)2, NULL, &err), TRF_E_INVALID_ARG, "kind", -1);
    assert_null(v);
    h.fail_at = 1;
    v = (trf_vocab *)&err;
    FAILS(trf_vocab_create(&v, TRF_WORDS, &hooks, &err), TRF_E_NOMEM, "vocab", -1);
    assert_null(v);
    OK(trf_vocab_create(&v, TRF_CHARACTERS, &hooks, &err));
    assert_int_equal(trf_vocab_kind(v), TRF_CHARACTERS);
    trf_vocab_destroy(v);
    assert_int_equal(h.blocks, 0);
    assert_int_equal(trf_vocab_create(&v, TRF_WORDS, NULL, NULL), TRF_OK);
    assert_int_equal(trf_vocab_kind(v), TRF_WORDS);
    trf_vocab_destroy(v);
    trf_vocab_destroy(NULL);
    assert_int_equal(trf_vocab_size(NULL), 0);
    assert_null(trf_vocab_token(NULL, 0));
    assert_int_equal(trf_vocab_id(NULL, "a"), -1);
}

static void order_of_ids(void **state)
{
    trf_vocab *v = learned(TRF_WORDS, "b ab b z \xC3\xA9 a abc a b", INT32_MAX, 1);
    (void)state;
    TOKENS(v, "b", "a", "ab", "abc", "z",
           "\xC3\xA9"); /* bytes compare unsigned, a beginning stands first */
    trf_vocab_destroy(v);

    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));        /* counts add up over lines */
    OK(trf_vocab_learn(v, "x y", &err));
    OK(trf_vocab_learn(v, "", &err));
    OK(trf_vocab_learn(v, " y  y z ", &err));
    OK(trf_vocab_learn(v, "z z z w", &err));
    OK(trf_vocab_finish(v, 7, 1, &err));
    TOKENS(v, "z", "y", "w");                               /* w before x, and no room for x */
    trf_vocab_destroy(v);

    v = learned(TRF_WORDS, "a a a b b c", 100, 2);
    TOKENS(v, "a", "b");
    assert_int_equal(trf_vocab_id(v, "c"), 3);
    trf_vocab_destroy(v);
    v = learned(TRF_WORDS, "a a a b b c", 5, 1);
    TOKENS(v, "a");
    trf_vocab_destroy(v);
    v = learned(TRF_WORDS, "a b", 5, 2);
    assert_int_equal(trf_vocab_size(v), 4);
    assert_int_equal(trf_vocab_id(v, "a"), 3);
    trf_vocab_destroy(v);
    v = learned(TRF_CHARACTERS, "", 5, 1);
    assert_int_equal(trf_vocab_size(v), 4);
    trf_vocab_destroy(v);
}

static void blanks_and_characters(void **state)
{
    trf_vocab *v =
        learned(TRF_WORDS, "\t\r\n one\ttwo\rthree\nfour  five\vsix\xC2\xA0seven\f ", 100, 1);
    (void)state;
    TOKENS(v, "five\vsix\xC2\xA0seven\f", "four", "one", "three", "two");
    trf_vocab_destroy(v);
    v = learned(TRF_CHARACTERS, "  \n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x90\x95\xC3\xA9\xC3\xA9 <s>", 100,
                1);
    TOKENS(v, " ", "\xC3\xA9", "\n", "<", ">", "s", "\xE2\x82\xAC", "\xF0\x9F\x90\x95");
    trf_vocab_destroy(v);
}

static void special_texts(void **state)
{
    trf_vocab *v = learned(TRF_WORDS, "<s> <s> <pad> </s> <unk> <S> <s><s>", 100, 1);
    const char *const texts[4] = { "<pad>", "<s>", "</s>", "<unk>" };
    int32_t ids[8], n, i;
    char text[64];
    (void)state;
    TOKENS(v, "<S>", "<s><s>");
    for (i = 0; i < 4; i++) {
        assert_string_equal(trf_vocab_token(v, i), texts[i]);
        assert_int_equal(trf_vocab_id(v, texts[i]), 3);
        OK(trf_vocab_encode(v, texts[i], 0, ids, 8, &n, &err));
        assert_int_equal(n, 1);
        assert_int_equal(ids[0], 3);
    }
    assert_int_equal(trf_vocab_id(v, NULL), 3);
    assert_int_equal(trf_vocab_id(v, ""), 3);
    for (i = 0; i < 6; i++) ids[i] = i;
    OK(trf_vocab_decode(v, ids, 6, text, sizeof text, NULL, &err));
    assert_string_equal(text, "<unk> <S> <s><s>");
    OK(trf_vocab_decode(v, ids, 3, text, sizeof text, NULL, &err));
    assert_string_equal(text, "");
    trf_vocab_destroy(v);
}

static void states(void **state)
{
    trf_vocab *v;
    int32_t id = 3, n = 77;
    char text[8] = "kept";
    size_t bytes = 77;
    (void)state;
    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
    OK(trf_vocab_learn(v, "a", &err));
    assert_int_equal(trf_vocab_size(v), 4);
    assert_string_equal(trf_vocab_token(v, 3), "<unk>");
    assert_null(trf_vocab_token(v, 4));
    assert_int_equal(trf_vocab_id(v, "a"), 3);
    FAILS(trf_vocab_encode(v, "a", 0, &id, 1, &n, &err), TRF_E_STATE, "vocab", -1);
    FAILS(trf_vocab_decode(v, &id, 1, text, 8, &bytes, &err), TRF_E_STATE, "vocab", -1);
    assert_true(id == 3 && n == 0 && bytes == 0);
    assert_string_equal(text, "");
    FAILS(trf_vocab_finish(v, 4, 1, &err), TRF_E_INVALID_ARG, "max_size", -1);
    FAILS(trf_vocab_finish(v, -1, 1, &err), TRF_E_INVALID_ARG, "max_size", -1);
    FAILS(trf_vocab_finish(v, 5, 0, &err), TRF_E_INVALID_ARG, "min_count", -1);
    FAILS(trf_vocab_finish(NULL, 5, 1, &err), TRF_E_INVALID_ARG, "vocab", -1);
    FAILS(trf_vocab_learn(NULL, "a", &err), TRF_E_INVALID_ARG, "vocab", -1);
    FAILS(trf_vocab_learn(v, NULL, &err), TRF_E_INVALID_ARG, "line", -1);
    assert_int_equal(trf_vocab_learn(v, "a \xFF", NULL), TRF_E_FORMAT);
    OK(trf_vocab_finish(v, 5, 1, &err));
    FAILS(trf_vocab_finish(v, 5, 1, &err), TRF_E_STATE, "vocab", -1);
    FAILS(trf_vocab_learn(v, "b", &err), TRF_E_STATE, "vocab", -1);
    TOKENS(v, "a");
    trf_vocab_destroy(v);
}

static void encoding(void **state)
{
    trf_vocab *v = learned(TRF_WORDS, "the the the dog dog runs", 100, 1);
    const int32_t wanted[5] = { 4, 5, 3, 6, 4 };
    int32_t ids[8], capacity, n, i;
    const char *text = " the dog\tnever runs\nthe ";
    (void)state;
    for (capacity = 0; capacity <= 7; capacity++) {
        for (i = 0; i < 8; i++) ids[i] = -9;
        n = -1;
        if (capacity >= 5) OK(trf_vocab_encode(v, text, 0, ids, capacity, &n, &err));
        else FAILS(trf_vocab_encode(v, text, 0, capacity ? ids : NULL, capacity, &n, &err),
                   TRF_E_LIMIT, "capacity", capacity);
        assert_int_equal(n, 5);
        for (i = 0; i < 8; i++) assert_int_equal(ids[i], i < capacity && i < 5 ? wanted[i] : -9);
    }
    OK(trf_vocab_encode(v, " \n", 0, NULL, 0, &n, &err));
    assert_int_equal(n, 0);
    n = 77;
    FAILS(trf_vocab_encode(NULL, text, 0, ids, 8, &n, &err), TRF_E_INVALID_ARG, "vocab", -1);
    FAILS(trf_vocab_encode(v, NULL, 0, ids, 8, &n, &err), TRF_E_INVALID_ARG, "text", -1);
    FAILS(trf_vocab_encode(v, text, 0, NULL, 8, &n, &err), TRF_E_INVALID_ARG, "ids", -1);
    FAILS(trf_vocab_encode(v, text, 0, ids, -1, &n, &err), TRF_E_INVALID_ARG, "capacity", -1);
    FAILS(trf_vocab_encode(v, text, 0, ids, 8, NULL, &err), TRF_E_INVALID_ARG, "n", -1);
    ids[0] = -9;
    FAILS(trf_vocab_encode(v, "the \xC0", 0, ids, 8, &n, &err), TRF_E_FORMAT, "text", 4);
    assert_true(n == 0 && ids[0] == -9);
    trf_vocab_destroy(v);

    v = learned(TRF_CHARACTERS, "aab\xC3\xA9 ", 100, 1);
    OK(trf_vocab_encode(v, "\xC3\xA9 x\na", 0, ids, 8, &n, &err));
    assert_int_equal(n, 5);
    assert_true(ids[0] == 7 && ids[1] == 5 && ids[2] == 3 && ids[3] == 3 && ids[4] == 4);
    trf_vocab_destroy(v);
}

/* The number of unknown tokens is that of the unks that encoding gives. */
static void unknown_tokens(void **state)
{
    trf_vocab *v = learned(TRF_WORDS, "the the the dog dog runs <unk>", 6, 1), *young;
    int32_t unknown = -1, n = -1;
    (void)state;
    OK(trf_vocab_count_unknown(v, "the cat runs\tto the <unk> ", &unknown, &n, &err));
    assert_true(unknown == 4 && n == 6);
    OK(trf_vocab_count_unknown(v, "the dog", &unknown, NULL, &err));
    assert_int_equal(unknown, 0);
    OK(trf_vocab_count_unknown(v, "", &unknown, &n, &err));
    assert_true(unknown == 0 && n == 0);
    unknown = n = 77;
    FAILS(trf_vocab_count_unknown(v, "the cat \xC0", &unknown, &n, &err), TRF_E_FORMAT, "text", 8);
    assert_true(unknown == 0 && n == 0);
    FAILS(trf_vocab_count_unknown(NULL, "a", &unknown, &n, &err), TRF_E_INVALID_ARG, "vocab", -1);
    FAILS(trf_vocab_count_unknown(v, NULL, &unknown, &n, &err), TRF_E_INVALID_ARG, "text", -1);
    FAILS(trf_vocab_count_unknown(v, "a", NULL, &n, &err), TRF_E_INVALID_ARG, "unknown", -1);
    trf_vocab_destroy(v);
    OK(trf_vocab_create(&young, TRF_WORDS, NULL, &err));
    FAILS(trf_vocab_count_unknown(young, "a", &unknown, &n, &err), TRF_E_STATE, "vocab", -1);
    trf_vocab_destroy(young);

    v = learned(TRF_CHARACTERS, "the quick brown fox", 100, 1);
    OK(trf_vocab_count_unknown(v, "The Caf\xC3\xA9: fox", &unknown, &n, &err));
    assert_true(unknown == 5 && n == 13);
    trf_vocab_destroy(v);
}

/* Decodes at every size and compares with the longest beginning of whole tokens that fits. */
static void check_decode(const trf_vocab *v, const int32_t *ids, int32_t n, const char *whole,
                         const size_t *ends, int32_t pieces)
{
    size_t size, bytes, kept, i;
    char text[64];
    for (size = 0; size < strlen(whole) + 4; size++) {
        int32_t k;
        for (kept = 0, k = 0; k < pieces; k++) if (ends[k] < size) kept = ends[k];
        memset(text, '#', sizeof text);
        bytes = 77;
        dirty();
        if (size > strlen(whole)) check_ok(trf_vocab_decode(v, ids, n, text, size, &bytes, &err));
        else {
            assert_int_equal(trf_vocab_decode(v, ids, n, size ? text : NULL, size, &bytes, &err),
                             TRF_E_LIMIT);
            assert_string_equal(err.what, "size");
            assert_true(err.where >= 0 && err.where < n && ids[err.where] >= 3);
        }
        assert_int_equal(bytes, strlen(whole));
        if (size) assert_int_equal(text[kept], 0);
        for (i = 0; i < kept; i++) assert_int_equal(text[i], whole[i]);
        for (i = size ? kept + 1 : 0; i < sizeof text; i++) assert_int_equal(text[i], '#');
    }
}

static void decoding(void **state)
{
    trf_vocab *v = learned(TRF_WORDS, "the the the dog dog \xC3\xA9t\xC3\xA9", 100, 1);
    const int32_t ids[8] = { 1, 4, 3, 0, 6, 5, 2, 4 };
    const size_t ends[5] = { 3, 9, 15, 19, 23 }, character_ends[4] = { 3, 5, 6, 7 };
    const int32_t characters[6] = { 1, 7, 6, 4, 5, 2 };
    int32_t bad[3] = { 4, 5, 7 };
    char text[16] = "kept";
    size_t bytes = 77;
    (void)state;
    check_decode(v, ids, 8, "the <unk> \xC3\xA9t\xC3\xA9 dog the", ends, 5);
    FAILS(trf_vocab_decode(v, bad, 3, text, 16, &bytes, &err), TRF_E_INVALID_ARG, "ids", 2);
    bad[1] = -1;
    FAILS(trf_vocab_decode(v, bad, 3, text, 16, &bytes, &err), TRF_E_INVALID_ARG, "ids", 1);
    FAILS(trf_vocab_decode(NULL, ids, 1, text, 16, &bytes, &err), TRF_E_INVALID_ARG, "vocab", -1);
    FAILS(trf_vocab_decode(v, NULL, 1, text, 16, &bytes, &err), TRF_E_INVALID_ARG, "ids", -1);
    FAILS(trf_vocab_decode(v, ids, -1, text, 16, &bytes, &err), TRF_E_INVALID_ARG, "n", -1);
    FAILS(trf_vocab_decode(v, ids, 1, NULL, 16, &bytes, &err), TRF_E_INVALID_ARG, "text", -1);
    assert_string_equal(text, "");
    assert_int_equal(bytes, 0);
    OK(trf_vocab_decode(v, NULL, 0, text, 16, &bytes, &err));
    assert_string_equal(text, "");
    assert_int_equal(bytes, 0);
    FAILS(trf_vocab_decode(v, NULL, 0, NULL, 0, NULL, &err), TRF_E_LIMIT, "size", 0);
    trf_vocab_destroy(v);

    v = learned(TRF_CHARACTERS, "aaa  \xC3\xA9\xC3\xA9\xE2\x82\xAC", 100, 1);
    TOKENS(v, "a", " ", "\xC3\xA9", "\xE2\x82\xAC");
    check_decode(v, characters, 6, "\xE2\x82\xAC\xC3\xA9" "a ", character_ends, 4);
    trf_vocab_destroy(v);
}

/* -----------------------------------------------------------------------------------------------
   UTF-8: the oracle computes the number, then looks at it. */
static size_t oracle_utf8(const unsigned char *s)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = s[0] < 0x80       ? 1
               : s[0] >> 5 == 6  ? 2
               : s[0] >> 4 == 14 ? 3
               : s[0] >> 3 == 30 ? 4
                                 : 0,
           i;
    uint32_t number = n ? s[0] & (0xFFu >> (n == 1 ? 1 : n + 1)) : 0;
    for (i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
        number = number << 6 | (s[i] & 0x3Fu);
    }
    return number < least[n] || number > 0x10FFFF || (number >= 0xD800 && number <= 0xDFFF) ? 0 : n;
}

static void strict_utf8(void **state)
{
    static const unsigned char third[8] = { 0, 0x41, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC0 };
    unsigned char s[5] = { 0 };
    int a, b, c, d, valid = 0;
    (void)state;
    for (a = 0; a < 256; a++) for (b = 0; b < 256; b++) for (c = 0; c < 256; c++) {
        s[0] = (unsigned char)a; s[1] = (unsigned char)b; s[2] = (unsigned char)c; s[3] = 0;
        if ((size_t)trf__utf8_at((char *)s, 4) != oracle_utf8(s))
            fail_msg("%02X %02X %02X", a, b, c);
    }
    for (a = 0xE0; a < 256; a++)
        for (b = 0; b < 256; b++)
            for (c = 0; c < 8; c++)
                for (d = 0; d < 256; d++) {
                    s[0] = (unsigned char)a;
                    s[1] = (unsigned char)b;
                    s[2] = third[c];
                    s[3] = (unsigned char)d;
                    if ((size_t)trf__utf8_at((char *)s, 4) != oracle_utf8(s))
                        fail_msg("%02X %02X %02X %02X", a, b, third[c], d);
                    valid += oracle_utf8(s) == 4;
                }
    assert_true(valid > 10000);
}

static void utf8_offsets(void **state)
{
    static const struct { const char *text; int offset;
    } bad[] = {{"\x80", 0},
               {"ab \xC0\x80", 3},
               {"a\xC1\xBF", 1},
               {"\xE0\x9F\xBF", 0},
               {"\xC3\xA9 \xED\xA0\x80", 3},
               {"x\xF0\x8F\xBF\xBF", 1},
               {"\xF4\x90\x80\x80", 0},
               {"\xF5\x80\x80\x80", 0},
               {"ok \xC3", 3},
               {"ok \xE2\x82", 3},
               {"ok\xF0\x9F\x90", 2},
               {"\xFE", 0},
               {"\xFF", 0},
               {"\xC3\xC3\xA9", 0},
               {"\xE2\x82 ", 0}};
    trf_vocab *v, *finished = learned(TRF_WORDS, "a", 5, 1), *read;
    int32_t n, ids[4];
    size_t i;
    (void)state;
    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        char stored[32];
        FAILS(trf_vocab_learn(v, bad[i].text, &err), TRF_E_FORMAT, "line", bad[i].offset);
        FAILS(trf_vocab_encode(finished, bad[i].text, 0, ids, 4, &n, &err), TRF_E_FORMAT, "text",
              bad[i].offset);
        memcpy(stored, "ok", 3);
        strcpy(stored + 3, bad[i].text);
        read = (trf_vocab *)&err;
        FAILS(from_bytes(&read, TRF_WORDS, stored, strlen(bad[i].text) + 4, NULL), TRF_E_FORMAT,
              "vocabulary", 3);
        assert_null(read);
    }
    OK(trf_vocab_finish(v, 100, 1, &err));
    assert_int_equal(trf_vocab_size(v), 4);         /* nothing of a bad line was counted */
    trf_vocab_destroy(v);
    trf_vocab_destroy(finished);
}

static void limits(void **state)
{
    const size_t most = (size_t)1 << 20;
    char *line = (char *)malloc(most + 16);
    trf_vocab *v, *copy;
    int64_t n_tokens;
    (void)state;
    assert_non_null(line);
    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
    memset(line, 'x', most + 16);
    memcpy(line, "ab cd ", 6);
    line[6 + most + 1] = 0;
    FAILS(trf_vocab_learn(v, line, &err), TRF_E_LIMIT, "line", 6);
    OK(trf_vocab_learn(v, "cd", &err));
    line[6 + most] = 0;
    OK(trf_vocab_learn(v, line + 6, &err));

    n_tokens = v->n_tokens;                         /* as if 2^31 - 5 tokens had been learned */
    v->n_tokens = TRF__MAX_TOKENS;
    FAILS(trf_vocab_learn(v, "cd new", &err), TRF_E_LIMIT, "vocab", -1);
    v->n_tokens = n_tokens;

    OK(trf_vocab_finish(v, 100, 1, &err));
    TOKENS(v, "cd", line + 6);                      /* ab was in the refused line only */
    OK(from_bytes(&copy, TRF_WORDS, v->bytes, (size_t)v->n_bytes, NULL));
    TOKENS(copy, "cd", line + 6);
    trf_vocab_destroy(copy);
    trf_vocab_destroy(v);
    free(line);
}

/* -----------------------------------------------------------------------------------------------
   Many words against plain counting. */
typedef struct counted { char word[8]; int count; } counted;
static int by_count(const void *a, const void *b)
{
    const counted *x = (const counted *)a, *y = (const counted *)b;
    return x->count != y->count ? y->count - x->count : strcmp(x->word, y->word);
}

static void many_words(void **state)
{
    enum { LINES = 2000, WORDS = 8 };
    static counted all[5000];
    static const int64_t mins[3] = { 1, 2, 5 };
    static const int32_t sizes[3] = { INT32_MAX, 50, 5 };
    int n_all = 0, i, j, k, m;
    trf_vocab *v[3];
    (void)state;
    for (m = 0; m < 3; m++) OK(trf_vocab_create(&v[m], TRF_WORDS, NULL, &err));
    for (i = 0; i < LINES; i++) {
        char line[WORDS * 8] = "";
        for (j = 0; j < WORDS; j++) {
            char word[8] = { 0 };
            int length = 1 + pick(3) + pick(3);
            for (k = 0; k < length; k++) word[k] = (char)('a' + pick(k ? 4 : 6));
            for (k = 0; k < n_all && strcmp(all[k].word, word); k++) {}
            if (k == n_all) { assert_true(n_all < 5000); memcpy(all[n_all++].word, word, 8); }
            all[k].count++;
            strcat(line, word);
            strcat(line, " ");
        }
        for (m = 0; m < 3; m++) OK(trf_vocab_learn(v[m], line, &err));
    }
    qsort(all, (size_t)n_all, sizeof *all, by_count);
    assert_true(n_all > 500);
    for (m = 0; m < 3; m++) {
        int32_t kept = 0;
        OK(trf_vocab_finish(v[m], sizes[m], mins[m], &err));
        while (kept < n_all && all[kept].count >= mins[m] && kept + 4 < sizes[m]) kept++;
        assert_int_equal(trf_vocab_size(v[m]), kept + 4);
        assert_true(v[m]->n_entries >= 2 * v[m]->n_tokens);   /* what keeps look-ups short */
        for (i = 0; i < n_all; i++)
            assert_int_equal(trf_vocab_id(v[m], all[i].word), i < kept ? i + 4 : 3);
        for (i = 0; i < kept; i++) assert_string_equal(trf_vocab_token(v[m], i + 4), all[i].word);
        trf_vocab_destroy(v[m]);
    }
}

/* Words chosen to begin in the same two hundred and fifty-sixth of the table: each is still found
   soon. */
static void words_of_an_enemy(void **state)
{
    enum { WORDS = 60000, ENTRIES = 1 << 17 };
    char *line = (char *)malloc(WORDS * 7 + 1), *to = line;
    trf_vocab *v, *copy;
    clock_t begin;
    int64_t number, rest;
    int n, k;
    (void)state;
    assert_non_null(line);
    for (n = 0, number = 0; n < WORDS; number++) {
        for (k = 0, rest = number; k < 6; k++, rest /= 40) to[k] = (char)('0' + rest % 40);
        if ((trf__hash_bytes(to, 6) & (ENTRIES - 1)) >= ENTRIES / 256) continue;
        to[6] = ' ';
        to += 7;
        n++;
    }
    *to = 0;
    begin = clock();
    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
    OK(trf_vocab_learn(v, line, &err));
    OK(trf_vocab_finish(v, INT32_MAX, 1, &err));
    OK(trf_vocab_copy(&copy, v, NULL, &err));
    assert_int_equal(copy->n_entries, ENTRIES);
    assert_int_equal(trf_vocab_size(copy), WORDS + 4);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 2);
    for (k = 4; k < WORDS + 4; k++) assert_int_equal(trf_vocab_id(copy, trf_vocab_token(v, k)), k);
    trf_vocab_destroy(copy);
    trf_vocab_destroy(v);
    free(line);
}

static void there_and_back(void **state)
{
    trf_vocab *words = learned(TRF_WORDS, "zwei kleine H\xC3\xBCnde spielen im Schnee .", 100, 1);
    trf_vocab *characters =
        learned(TRF_CHARACTERS, "zwei kleine H\xC3\xBCnde,\n\t\r spielen", 100, 1);
    int32_t ids[64], n;
    char text[64];
    size_t bytes;
    (void)state;
    OK(trf_vocab_encode(words, "  im  Schnee spielen\nH\xC3\xBCnde .", 0, ids, 64, &n, &err));
    OK(trf_vocab_decode(words, ids, n, text, 64, &bytes, &err));
    assert_string_equal(text, "im Schnee spielen H\xC3\xBCnde .");
    OK(trf_vocab_encode(characters, "  \r\nz\xC3\xBC\tHein ", 0, ids, 64, &n, &err));
    assert_int_equal(n, 12);
    OK(trf_vocab_decode(characters, ids, n, text, 64, &bytes, &err));
    assert_string_equal(text, "  \r\nz\xC3\xBC\tHein ");
    assert_int_equal(bytes, 13);
    trf_vocab_destroy(words);
    trf_vocab_destroy(characters);
}

/* -----------------------------------------------------------------------------------------------
 */
static void check_stored(const trf_vocab *v, const char *wanted, size_t n)
{
    trf_vocab *read;
    int32_t i;
    assert_true(same_bytes(v, wanted, n));
    OK(from_bytes(&read, trf_vocab_kind(v), wanted, n, NULL));
    assert_true(same_bytes(read, wanted, n));
    assert_int_equal(trf_vocab_kind(read), trf_vocab_kind(v));
    assert_int_equal(trf_vocab_size(read), trf_vocab_size(v));
    for (i = 0; i < trf_vocab_size(v); i++) {
        assert_string_equal(trf_vocab_token(read, i), trf_vocab_token(v, i));
        if (i >= 4) assert_int_equal(trf_vocab_id(read, trf_vocab_token(v, i)), i);
    }
    FAILS(trf_vocab_learn(read, "a", &err), TRF_E_STATE, "vocab", -1);
    trf_vocab_destroy(read);
}

static void stored_form(void **state)
{
    static const char words[] = "the\0a\\b\0<S>\0\\\0n\0",
                      characters[] = "\n\0\r\0\\\0 \0\xE2\x82\xAC\0";
    trf_vocab *v = learned(TRF_WORDS, "the the the a\\b a\\b \\ n <S>", 100, 1);
    (void)state;
    check_stored(v, words, sizeof words - 1);
    trf_vocab_destroy(v);
    v = learned(TRF_CHARACTERS, "\n\n\n\n\r\r\r\\\\ \xE2\x82\xAC", 100, 1);
    check_stored(v, characters, sizeof characters - 1);
    trf_vocab_destroy(v);
    v = learned(TRF_WORDS, "", 100, 1);
    check_stored(v, "", 0);
    trf_vocab_destroy(v);
}

static void hostile_form(void **state)
{
#define W(text) TRF_WORDS, text, sizeof text - 1
#define C(text) TRF_CHARACTERS, text, sizeof text - 1
    static const struct {
        trf_token_kind kind;
        const char *bytes;
        size_t n;
        int offset;
        const char *says;
    } bad[] = {{W("a"), 0, "NUL"},
               {W("a\0bc"), 2, "NUL"},
               {W("\0"), 0, "empty"},
               {W("a\0\0b\0"), 2, "empty"},
               {W("a\0b\0a\0"), 4, "once"},
               {W("a\0b\0a\0"), 4, "id 6 "},
               {W("<s>\0"), 0, "special"},
               {W("a\0<unk>\0"), 2, "special"},
               {W("a b\0"), 0, "blank"},
               {W("a\tb\0"), 0, "blank"},
               {W("a\0 \0"), 2, "blank"},
               {W("a\nb\0"), 0, "blank"},
               {W("\r\0"), 0, "blank"},
               {W("a\0\xC3\0"), 2, "UTF-8"},
               {C("a\0\xC3\xA9"), 2, "NUL"},
               {C("\0"), 0, "empty"},
               {C("\n\0\n\0"), 2, "once"},
               {C("<s>\0"), 0, "special"},
               {C("\xA9\0"), 0, "UTF-8"}};
#undef W
#undef C
    const size_t sizes[2] = { ((size_t)1 << 20) + 1, (size_t)10 << 20 };
    trf_vocab *v;
    kit_memory h;
    trf_hooks hooks = kit_hooks(&h);
    size_t i;
    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        v = (trf_vocab *)&err;
        FAILS(from_bytes(&v, bad[i].kind, bad[i].bytes, bad[i].n, &hooks), TRF_E_FORMAT,
              "vocabulary", bad[i].offset);
        assert_null(v);
        if (!strstr(err.message, bad[i].says))
            fail_msg("case %d: \"%s\" does not say \"%s\"", (int)i, err.message, bad[i].says);
        assert_int_equal(h.blocks, 0);
    }
    for (i = 256; i < 258; i++) {                   /* a symbol of characters */
        char bytes[258];
        memset(bytes, 'y', i);
        bytes[i] = 0;
        if (i == 256) OK(from_bytes(&v, TRF_CHARACTERS, bytes, i + 1, &hooks));
        else FAILS(from_bytes(&v, TRF_CHARACTERS, bytes, i + 1, &hooks), TRF_E_FORMAT, "vocabulary", 0);
        trf_vocab_destroy(v);
    }
    for (i = 0; i < 2; i++) {                       /* a token of more than 1 MiB */
        char *bytes = (char *)malloc(sizes[i] + 4);
        assert_non_null(bytes);
        memset(bytes, 'y', sizes[i] + 4);
        memcpy(bytes, "ok", 3);
        bytes[3 + sizes[i]] = 0;
        FAILS(from_bytes(&v, TRF_WORDS, bytes, sizes[i] + 4, &hooks), TRF_E_FORMAT, "vocabulary",
              3);
        assert_null(v);
        assert_int_equal(h.blocks, 0);
        free(bytes);
    }
}

/* Bytes that are taken must be the only way to write that vocabulary. */
static void mutants(void **state)
{
    static const char seeds[2][24] = {"the\0a\\b\0<S>\0\xC3\xA9t\xC3\xA9",
                                      "\n\0\r\0\\\0 \0\xE2\x82\xAC\0a"};
    static const size_t lengths[2] = { 18, 14 };
    static const char letters[] = "\0\0nr\n\r \tab<s>\xC3\xA9\xE2";
    int i, k, taken = 0;
    (void)state;
    for (i = 0; i < 40000; i++) {
        trf_token_kind kind = i % 2 ? TRF_CHARACTERS : TRF_WORDS;
        char bytes[32];
        size_t n = lengths[i % 2];
        trf_vocab *v;
        memcpy(bytes, seeds[i % 2], n);
        for (k = 0; k <= i % 3; k++) {
            size_t at = (size_t)pick((int32_t)n);
            int what = pick(3);                     /* replace a byte, add one, leave one out */
            if (what == 1) { memmove(bytes + at + 1, bytes + at, n - at); n++; }
            if (what == 2) { memmove(bytes + at, bytes + at + 1, n - at - 1); n--; }
            else bytes[at] = letters[pick((int32_t)sizeof letters - 1)];
        }
        dirty();
        if (from_bytes(&v, kind, bytes, n, NULL)) {
            assert_null(v);
            assert_int_equal(err.status, TRF_E_FORMAT);
            assert_true(err.where >= 0 && err.where < (int64_t)n);
            continue;
        }
        taken++;
        assert_true(same_bytes(v, bytes, n));
        trf_vocab_destroy(v);
    }
    assert_true(taken > 1000 && taken < 39000);
}

static void copying(void **state)
{
    trf_vocab *v, *copy = (trf_vocab *)&err;
    kit_memory h;
    trf_hooks hooks = kit_hooks(&h);
    (void)state;
    OK(trf_vocab_create(&v, TRF_CHARACTERS, NULL, &err));
    OK(trf_vocab_learn(v, "aab", &err));
    FAILS(trf_vocab_copy(&copy, v, &hooks, &err), TRF_E_STATE, "vocab", -1);
    assert_null(copy);
    assert_int_equal(h.calls, 0);
    OK(trf_vocab_finish(v, 100, 1, &err));
    OK(trf_vocab_copy(&copy, v, &hooks, &err));
    trf_vocab_destroy(v);
    TOKENS(copy, "a", "b");
    assert_int_equal(trf_vocab_kind(copy), TRF_CHARACTERS);
    assert_true(h.blocks > 0);
    trf_vocab_destroy(copy);
    assert_int_equal(h.blocks, 0);
}

/* Tokens behind those of a finished vocabulary: found, encoded, stored and read again; copies do
   not know them. */
static void growing(void **state)
{
    trf_vocab *v, *copy, *read;
    kit_memory h;
    trf_hooks hooks = kit_hooks(&h);
    int32_t ids[8], n, i;
    char token[24];
    (void)state;
    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
    OK(trf_vocab_learn(v, "a a b", &err));
    FAILS(trf_vocab_add(v, "c", &err), TRF_E_STATE, "vocab", -1);
    OK(trf_vocab_finish(v, 5, 1, &err));                /* max_size is of what is learned */
    OK(trf_vocab_copy(&copy, v, NULL, &err));
    FAILS(trf_vocab_add(NULL, "c", &err), TRF_E_INVALID_ARG, "vocab", -1);
    FAILS(trf_vocab_add(v, NULL, &err), TRF_E_INVALID_ARG, "token", -1);
    FAILS(trf_vocab_add(v, "", &err), TRF_E_INVALID_ARG, "token", -1);
    FAILS(trf_vocab_add(v, "a", &err), TRF_E_INVALID_ARG, "token", -1);
    FAILS(trf_vocab_add(v, "a b", &err), TRF_E_INVALID_ARG, "token", -1);
    FAILS(trf_vocab_add(v, "</s>", &err), TRF_E_INVALID_ARG, "token", -1);
    FAILS(trf_vocab_add(v, "\xC3", &err), TRF_E_INVALID_ARG, "token", -1);
    TOKENS(v, "a");
    OK(trf_vocab_add(v, "b", &err));
    OK(trf_vocab_add(v, "<x>", &err));
    FAILS(trf_vocab_add(v, "<x>", &err), TRF_E_INVALID_ARG, "token", -1);
    TOKENS(v, "a", "b", "<x>");
    TOKENS(copy, "a");
    OK(trf_vocab_encode(v, "<x> a c b", 0, ids, 8, &n, &err));
    assert_true(n == 4 && ids[0] == 6 && ids[1] == 4 && ids[2] == 3 && ids[3] == 5);
    OK(from_bytes(&read, TRF_WORDS, v->bytes, (size_t)v->n_bytes, NULL));
    TOKENS(read, "a", "b", "<x>");
    for (i = 0; i < 1000; i++) {
        snprintf(token, sizeof token, "<extra_id_%d>", (int)i);
        OK(trf_vocab_add(v, token, &err));
        assert_int_equal(trf_vocab_id(v, token), 7 + i);
    }
    assert_int_equal(trf_vocab_size(v), 1007);
    trf_vocab_destroy(v); trf_vocab_destroy(copy); trf_vocab_destroy(read);

    OK(trf_vocab_create(&v, TRF_WORDS, &hooks,
                        &err)); /* parts of a token, from the vocabulary's own memory */
    OK(trf_vocab_learn(v, "abcdefghijklmnopqrstuvwx", &err));
    OK(trf_vocab_finish(v, 5, 1, &err));
    for (i = 1; i < 24; i++) {
        snprintf(token, sizeof token, "%s", trf_vocab_token(v, 4) + i);
        OK(trf_vocab_add(v, trf_vocab_token(v, 4) + i, &err));
        assert_string_equal(trf_vocab_token(v, 4 + i), token);
        assert_int_equal(trf_vocab_id(v, token), 4 + i);
    }
    trf_vocab_destroy(v);
    assert_int_equal(h.blocks, 0);

    OK(trf_vocab_create(&v, TRF_CHARACTERS, NULL, &err));
    OK(trf_vocab_finish(v, 100, 1, &err));
    FAILS(trf_vocab_add(v, "<s>", &err), TRF_E_INVALID_ARG, "token", -1);
    OK(trf_vocab_add(v, "\xEE\x80\x80", &err));        /* U+E000 */
    OK(trf_vocab_add(v, " ", &err));
    TOKENS(v, "\xEE\x80\x80", " ");
    trf_vocab_destroy(v);
    v = kit_pieces(NULL);
    FAILS(trf_vocab_add(v, "b", &err), TRF_E_UNSUPPORTED, "vocab", -1);
    OK(trf_vocab_copy(&copy, v, NULL, &err));
    assert_int_equal(trf_vocab_size(copy), trf_vocab_size(v));
    FAILS(trf_vocab_copy(NULL, v, NULL, &err), TRF_E_INVALID_ARG, "copy", -1);
    FAILS(trf_vocab_copy(&read, NULL, NULL, &err), TRF_E_INVALID_ARG, "vocab", -1);
    assert_null(read);
    trf_vocab_destroy(v); trf_vocab_destroy(copy);
}

/* -----------------------------------------------------------------------------------------------
   Every allocation fails once, alone or with all that follow; the same call again then succeeds. */
static trf_status retry(kit_memory *h, trf_status status, int *failures)
{
    if (status) {
        assert_int_equal(status, TRF_E_NOMEM);
        assert_int_equal(err.status, TRF_E_NOMEM);
        h->fail_at = 0;
        ++*failures;
    }
    return status;
}

static int run_short_of_memory(int64_t fail_at, int for_ever)
{
    kit_memory h;
    trf_hooks hooks = kit_hooks(&h);
    trf_vocab *v = NULL, *copy = NULL, *read = NULL;
    char line[8 * 120] = "";
    int failures = 0, i;
    for (i = 0; i < 100; i++) snprintf(line + strlen(line), 9, "w%02d ", i % 80);
    h.fail_at = fail_at;
    h.for_ever = for_ever;
    if (retry(&h, trf_vocab_create(&v, TRF_WORDS, &hooks, &err), &failures)) {
        assert_null(v);
        OK(trf_vocab_create(&v, TRF_WORDS, &hooks, &err));
    }
    if (retry(&h, trf_vocab_learn(v, "w79 w79 w79 q", &err), &failures))
        OK(trf_vocab_learn(v, "w79 w79 w79 q", &err));
    if (retry(&h, trf_vocab_learn(v, line, &err), &failures)) {
        int64_t count = 0;                          /* nothing of the line has been counted */
        for (i = 0; i < v->n_tokens; i++) count += v->tokens[i].count;
        assert_int_equal(count, 4);
        OK(trf_vocab_learn(v, line, &err));
    }
    if (retry(&h, trf_vocab_finish(v, 1000, 1, &err), &failures)) {
        OK(trf_vocab_learn(v, "", &err));           /* still learning */
        OK(trf_vocab_finish(v, 1000, 1, &err));
    }
    assert_int_equal(trf_vocab_size(v), 85);
    assert_string_equal(trf_vocab_token(v, 4), "w79");      /* 4 times */
    assert_string_equal(trf_vocab_token(v, 5), "w00");      /* twice */
    assert_string_equal(trf_vocab_token(v, 84), "w78");
    if (retry(&h, trf_vocab_copy(&copy, v, &hooks, &err), &failures)) {
        assert_null(copy);
        OK(trf_vocab_copy(&copy, v, &hooks, &err));
    }
    assert_true(same_bytes(copy, v->bytes, (size_t)v->n_bytes));
    if (retry(&h, from_bytes(&read, TRF_WORDS, copy->bytes, (size_t)copy->n_bytes, &hooks),
              &failures)) {
        assert_null(read);
        OK(from_bytes(&read, TRF_WORDS, copy->bytes, (size_t)copy->n_bytes, &hooks));
    }
    assert_true(same_bytes(read, v->bytes, (size_t)v->n_bytes));
    for (i = 0; i < 100; i++) {
        snprintf(line, sizeof line, "new%d", i);
        if (!retry(&h, trf_vocab_add(read, line, &err), &failures)) continue;
        assert_int_equal(trf_vocab_size(read), 85 + i);
        assert_int_equal(trf_vocab_id(read, line), 3);
        OK(trf_vocab_add(read, line, &err));
    }
    assert_int_equal(trf_vocab_id(read, "new99"), 184);
    trf_vocab_destroy(v);
    trf_vocab_destroy(copy);
    trf_vocab_destroy(read);
    assert_int_equal(h.blocks, 0);
    return failures;
}

static void out_of_memory(void **state)
{
    int for_ever, k;
    (void)state;
    for (for_ever = 0; for_ever < 2; for_ever++) {
        for (k = 1; run_short_of_memory(k, for_ever); k++) {}
        assert_true(k > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creating),
        cmocka_unit_test(order_of_ids),
        cmocka_unit_test(blanks_and_characters),
        cmocka_unit_test(special_texts),
        cmocka_unit_test(states),
        cmocka_unit_test(encoding),
        cmocka_unit_test(unknown_tokens),
        cmocka_unit_test(decoding),
        cmocka_unit_test(strict_utf8),
        cmocka_unit_test(utf8_offsets),
        cmocka_unit_test(limits),
        cmocka_unit_test(many_words),
        cmocka_unit_test(words_of_an_enemy),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(stored_form),
        cmocka_unit_test(hostile_form),
        cmocka_unit_test(mutants),
        cmocka_unit_test(copying),
        cmocka_unit_test(growing),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

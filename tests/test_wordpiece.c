/* build: shared */
/* WordPiece vocabularies made here, token by token: their answers beside Hugging Face's tokenizers
   (0.23.3, written down), beside plain loops; every byte of a file damaged, every allocation
   failing once. */
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
#include "../tools/trf/publish/import_files.c"

/* ---- files ---- */

enum { DROP, SPACE, SHIFT, TEXT, HANGUL, ALONE = 8 };
typedef struct rule { uint32_t first, last; int32_t kind, argument; } rule;

/* The first rules are ASCII's, the others those of the code points below.
   The answers are those of tokenizers. */
static const char *const vocabulary[] = {
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "pad", "un", "##aff", "##able", "the", "##The",
    "The", "a", "b", "c", "##a", "##b", "##c", "ab", "##ab", "abc", "s", "##s", "n", "##'", "t",
    "don", "'", ",", ".", "?", "!", "[", "]", "#", "cl", "##s]", "n't", "'s", "'more", "##ing",
    "i", "##i", "I", "##I", "is", "\xC4\xB0", "##\xCC\x87", "ss", "\xC3\x9F", "stra",
    "##\xC3\x9F" "e", "\xC3\xA4", "\xC3\x84", "##\xC3\xA4", "e", "##e", "\xC3\xA9", "\xE4\xB8\xAD",
    "\xE6\x96\x87", "\xE8\xB1\x88", "\xCF\x83", "\xCF\x82", "\xCE\xB1", "##\xCF\x83", "##\xCF\x82",
    "\xE1\x84\x92", "##\xE1\x85\xA1", "##\xE1\x86\xAB", "\xED\x95\x9C", "\xEF\xAC\x81",
    "\xF0\x9F\x98\x80", "##\xE2\x80\x8D", ";", "<", "=", "\xC2\xA1", "mask", "##k", "do", "not",
    "x", "##x", "\xD9\x85", "##\xD9\x84", "##y", "z", "\xE0\xA5\x98", "\xE0\xA4\x95",
    "##\xE0\xA4\xBC", "\xE0\xA7\x87", "##\xE0\xA6\xBE", "'m", "'ve", "'re"};
enum { TOKENS = sizeof vocabulary / sizeof *vocabulary };

static const rule uncased[] = {
    {0x1, 0x8, 0, 0}, {0x9, 0xA, 1, 0}, {0xB, 0xC, 0, 0}, {0xD, 0xD, 1, 0}, {0xE, 0x1F, 0, 0},
    {0x20, 0x20, 1, 0}, {0x21, 0x2F, 10, 0}, {0x3A, 0x40, 10, 0}, {0x41, 0x5A, 2, 32},
    {0x5B, 0x60, 10, 0}, {0x7B, 0x7E, 10, 0}, {0x7F, 0x7F, 0, 0}, {0xA0, 0xA0, 1, 0},
    {0xA1, 0xA1, 10, 0}, {0xAD, 0xAD, 0, 0}, {0xC4, 0xC4, 2, -99}, {0xE4, 0xE4, 2, -131},
    {0xE9, 0xE9, 2, -132}, {0x130, 0x130, 2, -199}, {0x301, 0x301, 0, 0}, {0x308, 0x308, 0, 0},
    {0x37E, 0x37E, 10, -835}, {0x3A3, 0x3A3, 2, 32}, {0x64E, 0x64E, 0, 0}, {0x93C, 0x93C, 0, 0},
    {0x958, 0x958, 2, -67}, {0x9CB, 0x9CB, 3, 0}, {0x1E9E, 0x1E9E, 2, -7615},
    {0x200D, 0x200D, 0, 0}, {0x2028, 0x2028, 1, 0}, {0x2160, 0x2160, 2, 16},
    {0x2260, 0x2260, 10, -8739}, {0x226E, 0x226E, 10, -8754}, {0x24B6, 0x24B6, 2, 26},
    {0x3000, 0x3000, 1, 0}, {0x4E2D, 0x4E2D, 10, 0}, {0x6587, 0x6587, 10, 0},
    {0xD558, 0xD558, 4, 0}, {0xD55C, 0xD55C, 4, 0}, {0xE000, 0xE000, 0, 0},
    {0xF900, 0xF900, 10, -27832}, {0xFFFD, 0xFFFD, 0, 0}, {0xE0001, 0xE0001, 0, 0}};
static const char replaced[] = "\xE0\xA7\x87\xE0\xA6\xBE\0";
static const rule cased[] = {
    {0x1, 0x8, 0, 0}, {0x9, 0xA, 1, 0}, {0xB, 0xC, 0, 0}, {0xD, 0xD, 1, 0}, {0xE, 0x1F, 0, 0},
    {0x20, 0x20, 1, 0}, {0x21, 0x2F, 10, 0}, {0x3A, 0x40, 10, 0}, {0x5B, 0x60, 10, 0},
    {0x7B, 0x7E, 10, 0}, {0x7F, 0x7F, 0, 0}, {0xA0, 0xA0, 1, 0}, {0xA1, 0xA1, 10, 0},
    {0xAD, 0xAD, 0, 0}, {0x37E, 0x37E, 10, 0}, {0x200D, 0x200D, 0, 0}, {0x2028, 0x2028, 1, 0},
    {0x3000, 0x3000, 1, 0}, {0x4E2D, 0x4E2D, 10, 0}, {0x6587, 0x6587, 10, 0},
    {0xE000, 0xE000, 0, 0}, {0xF900, 0xF900, 10, 0}, {0xFFFD, 0xFFFD, 0, 0},
    {0xE0001, 0xE0001, 0, 0}};
static const struct { const char *text, *uncased, *cased, *decoded; } goldens[] = {
    {"",
     "", "",
     ""},
    {"  \x09\x0D\x0A ",
     "", "",
     ""},
    {"the  The",
     "9 9", "9 11",
     "the the"},
    {"unaffable",
     "6 7 8", "6 7 8",
     "unaffable"},
    {"unaffablex",
     "6 7 8 82", "6 7 8 82",
     "unaffablex"},
    {"abcab",
     "20 19", "20 19",
     "abcab"},
    {"don't, a!?",
     "26 27 25 28 12 31 30", "26 27 25 28 12 31 30",
     "don ' t, a!?"},
    {"[CLS] [MASK]",
     "32 35 22 33 32 77 33", "32 1 33 32 1 33",
     "[ cls ] [ mask ]"},
    {"[PAD]pad",
     "32 5 33 5", "32 1 33 5",
     "[ pad ] pad"},
    {"##ing",
     "34 34 1", "34 34 1",
     "# # [UNK]"},
    {"abc.abc...",
     "20 29 20 29 29 29", "20 29 20 29 29 29",
     "abc. abc..."},
    {"\xC4\xB0s I i \xC4\xB1",
     "45 41 41 1", "46 22 43 41 1",
     "is i i [UNK]"},
    {"stra\xC3\x9F" "e \xE1\xBA\x9E",
     "50 51 49", "50 51 1",
     "stra\xC3\x9F" "e \xC3\x9F"},
    {"\xC3\x84\xC3\xA4 a\xCC\x88",
     "12 15 12", "53 54 1",
     "aa a"},
    {"\xC3\xA9" "e\xCC\x81",
     "55 56", "1",
     "ee"},
    {"\xE4\xB8\xAD\xE6\x96\x87" "abc\xE4\xB8\xAD",
     "58 59 20 58", "58 59 20 58",
     "\xE4\xB8\xAD \xE6\x96\x87 abc \xE4\xB8\xAD"},
    {"\xEF\xA4\x80",
     "60", "1",
     "\xE8\xB1\x88"},
    {"\xCF\x83\xCE\xB1\xCE\xA3 \xCE\xB1\xCF\x82",
     "1 63 65", "1 63 65",
     "[UNK] \xCE\xB1\xCF\x82"},
    {"\xED\x95\x9C\xED\x95\x98",
     "1", "1",
     "[UNK]"},
    {"\xED\x95\x9C",
     "66 67 68", "69",
     "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"},
    {"\xED\x95\x98",
     "66 67", "1",
     "\xE1\x84\x92\xE1\x85\xA1"},
    {"\xE0\xA7\x8B",
     "90 91", "1",
     "\xE0\xA7\x87\xE0\xA6\xBE"},
    {"\xEF\xAC\x81",
     "70", "70",
     "\xEF\xAC\x81"},
    {"\xF0\x9F\x98\x80 \xF0\x9F\x98\x80\xF0\x9F\x98\x80",
     "71 1", "71 1",
     "\xF0\x9F\x98\x80 [UNK]"},
    {"a\xE2\x80\x8D" "b",
     "18", "18",
     "ab"},
    {"a\x01\x7F" "b\xEF\xBF\xBD" "c",
     "20", "20",
     "abc"},
    {"a\xC2\xA0" "b\xE3\x80\x80" "c\xE2\x80\xA8" "a\x0B" "b",
     "12 13 14 18", "12 13 14 18",
     "a b c ab"},
    {"\xCD\xBE \xE2\x89\xAE \xE2\x89\xA0 \xC2\xA1" "a",
     "73 74 75 76 12", "1 1 1 76 12",
     "; < = \xC2\xA1 a"},
    {"\xD9\x85\xD9\x84\xD9\x8E",
     "83 84", "1",
     "\xD9\x85\xD9\x84"},
    {"\xE0\xA5\x98\xE0\xA4\x95\xE0\xA4\xBC",
     "1", "1",
     "[UNK]"},
    {"\xEE\x80\x80" "a\xF3\xA0\x80\x81" "b",
     "18", "18",
     "ab"},
    {"abcabcabcab abcabcabcabc",
     "20 19 17 19 17 19 1", "20 19 17 19 17 19 1",
     "abcabcabcab [UNK]"},
    {"a\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81" "b",
     "18", "1",
     "ab"},
    {"ABC",
     "20", "1",
     "abc"},
    {"\xE2\x92\xB6 \xE2\x85\xA0",
     "1 1", "1 1",
     "[UNK] [UNK]"},
    {"a\xC2\xAD" "b",
     "18", "18",
     "ab"},
};
static const struct { const char *ids, *cleaned, *plain; } decodings[] = {
    {"40 9", "##ing the", "##ing the"},
    {"9 40", "theing", "theing"},
    {"9 29 30 31 28 12", "the.?!, a", "the . ? ! , a"},
    {"26 27 25", "don ' t", "don ' t"},
    {"79 37", "don't", "do n't"},
    {"12 38 39", "a's'more", "a 's 'more"},
    {"79 80 12", "do not a", "do not a"},
    {"41 92", "i'm", "i 'm"},
    {"41 93 12", "i've a", "i 've a"},
    {"12 94", "a're", "a 're"},
    {"2 12 3 13 0", "a b", "a b"},
    {"1 12 1", "[UNK] a [UNK]", "[UNK] a [UNK]"},
    {"29 12", ". a", ". a"},
    {"12 36 24 21", "as]' s", "as]' s"},
    {"2 40", "##ing", "##ing"},
    {"12 32 12 33", "a [ a ]", "a [ a ]"},
};

typedef struct file { unsigned char bytes[1 << 14]; size_t n; } file;

static void put(file *f, const void *bytes, size_t n)
{
    assert_true(f->n + n < sizeof f->bytes);
    memcpy(f->bytes + f->n, bytes, n);
    f->n += n;
}
static void put_number(file *f, uint32_t x)
{
    unsigned char bytes[4];
    int i;
    for (i = 0; i < 4; i++) bytes[i] = (unsigned char)(x >> 8 * i);
    put(f, bytes, 4);
}
static void change(file *f, size_t at, uint32_t x)
{
    int i;
    for (i = 0; i < 4; i++) f->bytes[at + (size_t)i] = (unsigned char)(x >> 8 * i);
}
static const int32_t specials[7] = {0, -1, -1, 1, 4, 2, 3};
static void begin(file *f, int cleanup, int longest, int tokens, int rules)
{
    int i;
    f->n = 0;
    put(f, "TRFWP\0\0\1", 8);
    put_number(f, (uint32_t)cleanup);
    put_number(f, (uint32_t)longest);
    for (i = 0; i < 7; i++) put_number(f, (uint32_t)specials[i]);
    put_number(f, (uint32_t)tokens);
    put_number(f, (uint32_t)rules);
}
static void put_rule(file *f, uint32_t first, uint32_t last, int kind, int argument)
{
    put_number(f, first);
    put_number(f, last);
    put_number(f, (uint32_t)kind);
    put_number(f, (uint32_t)argument);
}
static void put_replaced(file *f, const char *texts, size_t n)
{
    put_number(f, (uint32_t)n);
    put(f, texts, n);
}
static void put_token(file *f, const char *token) { put(f, token, strlen(token) + 1); }

enum { UNCASED, CASED };
static void make(file *f, int which, int cleanup)
{
    const rule *rules = which == UNCASED ? uncased : cased;
    int n = which == UNCASED ? (int)(sizeof uncased / sizeof *uncased)
                             : (int)(sizeof cased / sizeof *cased), i;
    begin(f, cleanup, 11, TOKENS, n);
    for (i = 0; i < n; i++)
        put_rule(f, rules[i].first, rules[i].last, rules[i].kind, rules[i].argument);
    put_replaced(f, replaced, which == UNCASED ? sizeof replaced - 1 : 0);
    for (i = 0; i < TOKENS; i++) put_token(f, vocabulary[i]);
}

static file made;
static trf_status status;

/* The vocabulary of a file, or NULL with its error. */
static trf_vocab *vocab_of(const file *f, const trf_hooks *hooks)
{
    trf_vocab *v = NULL;
    char *exact = (char *)malloc(f->n ? f->n : 1);      /* reading behind it is seen */
    assert_non_null(exact);
    memcpy(exact, f->bytes, f->n);
    status = trf__vocab_from_bytes(&v, TRF_WORDPIECE, exact, f->n, hooks, &err);
    free(exact);
    if (status) assert_null(v);
    return v;
}
static trf_vocab *vocab_made(int which, int cleanup)
{
    trf_vocab *v;
    make(&made, which, cleanup);
    v = vocab_of(&made, NULL);
    if (!v) fail_msg("%s", err.message);
    return v;
}

static int32_t ids[4096];
static trf__ids given;
static int32_t encode(const trf_vocab *v, const char *text)
{
    TRF__ZERO(given);
    given.ids = ids;
    given.capacity = 4096;
    DONE(trf__wordpiece_encode(v, text, &given, &err));
    return (int32_t)given.n;
}
static const char *listed(int32_t n)
{
    static char text[8192];
    size_t at = 0;
    int32_t i;
    text[0] = 0;
    for (i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, i ? " %d" : "%d", (int)ids[i]);
    return text;
}
static int32_t unlisted(const char *text)
{
    int32_t n = 0;
    char *end;
    for (; *text; text = end) ids[n++] = (int32_t)strtol(text, &end, 10);
    return n;
}
/* Decodes into a block of `size` bytes that ends where it ends. */
static const char *decode(const trf_vocab *v, int32_t n, size_t size, trf__answer *to)
{
    static char text[4096];
    char *exact = (char *)malloc(size ? size : 1);
    int32_t i;
    assert_non_null(exact);
    TRF__ZERO(*to);
    to->text = exact;
    to->size = size;
    to->cut = -1;
    for (i = 0; i < n; i++) trf__wordpiece_add(v, to, i, ids[i], to->whole == 0);
    assert_true(to->written < sizeof text);
    memcpy(text, exact, to->written);
    text[to->written] = 0;
    free(exact);
    return text;
}

/* ---- beside tokenizers ---- */

static void encodings(void **state)
{
    int which;
    size_t i;
    (void)state;
    for (which = UNCASED; which <= CASED; which++) {
        trf_vocab *v = vocab_made(which, 1);
        for (i = 0; i < sizeof goldens / sizeof *goldens; i++) {
            const char *wanted = which == UNCASED ? goldens[i].uncased : goldens[i].cased;
            int32_t n = encode(v, goldens[i].text), k, unknown = 0;
            trf__answer to;
            if (strcmp(listed(n), wanted))
                fail_msg("text %d: %s, expected %s", (int)i, listed(n), wanted);
            for (k = 0; k < n; k++) unknown += ids[k] == 1;
            assert_int_equal(given.n_unknown, unknown);
            if (which == UNCASED)
                assert_string_equal(decode(v, n, 512, &to), goldens[i].decoded);
        }
        trf_vocab_destroy(v);
    }
}

static void decoded(void **state)
{
    trf_vocab *cleaned = vocab_made(UNCASED, 1), *plain = vocab_made(UNCASED, 62);
    trf__answer to;
    size_t i;
    (void)state;
    for (i = 0; i < sizeof decodings / sizeof *decodings; i++) {
        int32_t n = unlisted(decodings[i].ids);
        assert_string_equal(decode(cleaned, n, 512, &to), decodings[i].cleaned);
        assert_int_equal(to.whole, strlen(decodings[i].cleaned));
        assert_string_equal(decode(plain, n, 512, &to), decodings[i].plain);
    }
    trf_vocab_destroy(cleaned);
    trf_vocab_destroy(plain);
}

/* ---- limits ---- */

/* Ids beyond the capacity are counted. A word that turns out to be unknown takes its ids back. */
static void capacities(void **state)
{
    trf_vocab *v = vocab_made(UNCASED, 1);
    int32_t room[3] = {-7, -7, -7};
    trf_error e;
    (void)state;
    TRF__ZERO(given);
    given.ids = room;
    given.capacity = 2;
    DONE(trf__wordpiece_encode(v, "a b c abcz", &given, &e));
    assert_int_equal(given.n, 4);
    assert_int_equal(given.n_unknown, 1);
    assert_int_equal(room[0], 12);
    assert_int_equal(room[1], 13);
    assert_int_equal(room[2], -7);
    FAILS(trf__wordpiece_encode(v, "a b\xFF", &given, &err), TRF_E_FORMAT, "text", 3);
    FAILS(trf__wordpiece_encode(v, "\xED\xA0\x80", &given, &err), TRF_E_FORMAT, "text", 0);
    trf_vocab_destroy(v);
}

/* Whatever the size, the text consists of whole tokens, and `cut` is the first that did not fit. */
static void cut(void **state)
{
    trf_vocab *v = vocab_made(UNCASED, 1);
    int32_t n = unlisted("2 9 40 29 12 58 1 3 8"), k;
    size_t ends[10], size;
    trf__answer to;
    (void)state;
    for (k = 0; k <= n; k++) { (void)decode(v, k, 512, &to); ends[k] = to.whole; }
    assert_int_equal(ends[n], 23);      /* "theing. a <3 bytes> [UNK]able" */
    for (size = 0; size <= 25; size++) {
        const char *text = decode(v, n, size, &to);
        int32_t whole = 0;
        assert_int_equal(to.whole, 23);
        for (k = 0; k <= n && ends[k] < (size ? size : 1); k++) whole = k;
        assert_int_equal(to.written, ends[whole]);
        assert_int_equal(strlen(text), ends[whole]);
        /* special tokens have no text, so they always fit */
        assert_int_equal(to.cut, size > 23 ? -1 : whole);
    }
    trf_vocab_destroy(v);
}

/* Texts never contain special tokens, also if their spelling has no punctuation. Such a token is
   passed over, and shorter ones are found. */
static void smuggling(void **state)
{
    trf_vocab *v;
    (void)state;
    begin(&made, 1, 100, 8, 1);
    put_rule(&made, 32, 32, SPACE, 0);
    put_replaced(&made, "", 0);
    put_token(&made, "pad");
    put_token(&made, "unk");
    put_token(&made, "[CLS]");
    put_token(&made, "##d");            /* the separator */
    put_token(&made, "mask");
    put_token(&made, "pa");
    put_token(&made, "##");
    put_token(&made, "p");
    v = vocab_of(&made, NULL);
    assert_non_null(v);
    assert_string_equal(listed(encode(v, "pad")), "1");
    assert_int_equal(given.n_unknown, 1);
    assert_string_equal(listed(encode(v, "pa unk [CLS] mask ##d ## p")), "5 1 1 1 1 6 7");
    trf_vocab_destroy(v);
}

/* Words of `longest` characters are cut, longer ones are unknown, however long they are. */
static void long_words(void **state)
{
    static const int lengths[] = {1, 100, 999, 1000};
    static char text[4 * 5000 + 1];
    int i, k, wide;
    (void)state;
    for (wide = 0; wide < 2; wide++)
        for (i = 0; i < 4; i++) {
            const char *letter = wide ? "\xF0\x9F\x98\x80" : "a";
            size_t bytes = strlen(letter);
            trf_vocab *v;
            begin(&made, 1, lengths[i], 7, 1);
            put_rule(&made, 32, 32, SPACE, 0);
            put_replaced(&made, "", 0);
            for (k = 0; k < 5; k++) put_token(&made, vocabulary[k]);
            put_token(&made, letter);
            put_token(&made, wide ? "##\xF0\x9F\x98\x80" : "##a");
            v = vocab_of(&made, NULL);
            assert_non_null(v);
            for (k = 0; k < 5000; k++) memcpy(text + (size_t)k * bytes, letter, bytes);
            text[5000 * bytes] = 0;
            assert_int_equal(encode(v, text), 1);
            assert_int_equal(ids[0], 1);
            text[(size_t)lengths[i] * bytes + bytes] = 0;
            assert_int_equal(encode(v, text), 1);
            assert_int_equal(ids[0], 1);
            text[(size_t)lengths[i] * bytes] = 0;
            assert_int_equal(encode(v, text), lengths[i]);
            assert_int_equal(ids[0], 5);
            if (lengths[i] > 1) assert_int_equal(ids[lengths[i] - 1], 6);
            trf_vocab_destroy(v);
        }
}

/* A replacement of several characters that is a word of its own. Shifts to the last code point and
   the first. Rules beside each other. */
static void rules(void **state)
{
    trf_vocab *v;
    int i;
    (void)state;
    begin(&made, 1, 3, 12, 6);
    put_rule(&made, 32, 32, SPACE, 0);
    put_rule(&made, 'A', 'A', TEXT + ALONE, 0);
    put_rule(&made, 'B', 'B', TEXT, 3);
    put_rule(&made, 'C', 'C', SHIFT + ALONE, 0x10FFFF - 'C');
    put_rule(&made, 'D', 'D', TEXT, 8);
    put_rule(&made, 0x10FFFE, 0x10FFFF, SHIFT, -0x10FFFD);
    put_replaced(&made, "xy\0\xC3\xA4xy\0abcd\0", 13);
    for (i = 0; i < 5; i++) put_token(&made, vocabulary[i]);
    put_token(&made, "x");
    put_token(&made, "##y");
    put_token(&made, "\xC3\xA4");
    put_token(&made, "##xy");
    put_token(&made, "\xF4\x8F\xBF\xBF");
    put_token(&made, "\x01\x02");
    put_token(&made, "##x");
    v = vocab_of(&made, NULL);
    if (!v) fail_msg("%s", err.message);
    assert_string_equal(listed(encode(v, "xAx")), "5 5 6 5");
    assert_string_equal(listed(encode(v, "B xB")), "7 8 1");
    assert_string_equal(listed(encode(v, "xCCx")), "5 9 9 5");
    assert_string_equal(listed(encode(v, "D")), "1");           /* four characters */
    assert_string_equal(listed(encode(v, "\xF4\x8F\xBF\xBE\xF4\x8F\xBF\xBF")), "10");
    trf_vocab_destroy(v);
}

/* ---- beside plain loops ---- */

static uint64_t draws;
static int32_t pick(int32_t n) { return (int32_t)(trf__random64(12, 6, draws++) % (uint64_t)n); }

static int32_t token_of(const char *text, size_t n)
{
    int32_t i;
    for (i = 0; i < TOKENS; i++)
        if (strlen(vocabulary[i]) == n && !memcmp(vocabulary[i], text, n)) return i;
    return -1;
}
/* One word of ASCII, the longest token first. */
static int32_t plain_word(const char *word, int32_t *to)
{
    size_t n = strlen(word), at = 0, length;
    int32_t count = 0, id;
    while (at < n) {
        char text[64];
        for (length = n - at; length > 0; length--) {
            snprintf(text, sizeof text, "%s%.*s", at ? "##" : "", (int)length, word + at);
            if ((id = token_of(text, strlen(text))) >= 0) break;
        }
        if (length == 0) { to[0] = 1; return 1; }
        to[count++] = id;
        at += length;
    }
    if (n > 11) { to[0] = 1; return 1; }
    return count;
}
static void by_the_book(void **state)
{
    static const char *const parts[] = {"a", "b", "c", "ab", "abc", "ing", "the", "aff", "s", "un"};
    trf_vocab *v = vocab_made(CASED, 1);
    int round;
    (void)state;
    for (round = 0; round < 20000; round++) {
        char word[64] = "";
        int32_t wanted[64], n, k;
        for (k = pick(8); k >= 0; k--) strcat(word, parts[pick(10)]);
        n = plain_word(word, wanted);
        if (encode(v, word) != n || memcmp(ids, wanted, (size_t)n * sizeof *ids))
            fail_msg("%s: %s", word, listed((int32_t)given.n));
    }
    trf_vocab_destroy(v);
}

/* ---- hostile files ---- */

static void refused(const file *f, int64_t where, const char *words)
{
    if (vocab_of(f, NULL)) fail_msg("taken; expected \"%s\"", words);
    if (status != TRF_E_FORMAT || err.where != where || !strstr(err.message, words))
        fail_msg("status %d, byte %lld, \"%s\"; expected byte %lld, \"%s\"", (int)status,
                 (long long)err.where, err.message, (long long)where, words);
    assert_string_equal(err.what, "wordpiece");
}

/* A file of five tokens and two rules, with another number at an offset. */
static void changed(size_t at, uint32_t x, int64_t where, const char *words)
{
    int i;
    begin(&made, 1, 100, 5, 2);
    put_rule(&made, 32, 40, SPACE, 0);                  /* at 52 */
    put_rule(&made, 50, 60, TEXT, 2);                   /* at 68 */
    put_replaced(&made, "a\0b\0", 4);                   /* at 84, texts at 88 */
    for (i = 0; i < 5; i++) put_token(&made, vocabulary[i]);    /* at 92 */
    if (at) change(&made, at, x);
    if (words) refused(&made, where, words);
}

static void headers(void **state)
{
    static const uint32_t ends[] = {5, 6, 0x7FFFFFFF, 0x80000000u, 0xFFFFFFFEu};
    int i, k;
    (void)state;
    changed(0, 0, 0, NULL);
    made.bytes[7] = 2;
    refused(&made, 0, "WordPiece");
    changed(8, 64 + 2, 8, "flags");
    changed(8, 0x80000001u, 8, "flags");
    for (k = WORDPIECE_CLEAN; k <= WORDPIECE_LOWER; k *= 2)
        changed(8, (uint32_t)k, 8, "flags");            /* of settings that it does not tell */
    changed(12, 0, 12, "longest word");
    changed(12, 1001, 12, "longest word");
    changed(12, 0xFFFFFFFFu, 12, "longest word");
    for (i = 0; i < 7; i++)
        for (k = 0; k < 5; k++) changed(16 + 4 * (size_t)i, ends[k], 16 + 4 * i, "an id");
    changed(28, 0xFFFFFFFFu, 28, "an id from 0");       /* unk must exist */
    changed(44, 0, 44, "tokens");
    changed(44, 0xFFFFFFFFu, 44, "tokens");
    changed(44, 6, 123, "NUL");
    changed(44, 0x7FFFFFFB, 123, "NUL");
    changed(44, 4, 28 + 4, NULL);
    refused(&made, 32, "an id from -1 to 3");           /* mask is 4 */
    changed(48, 5, 48, "at most 4 rules");
    changed(48, 0xFFFFFFFFu, 48, "rules");
    changed(48, 0x10000001u, 48, "rules");
}

static void bad_rules(void **state)
{
    trf_vocab *v;
    (void)state;
    changed(52, 41, 52, "first <= last");
    changed(56, 50, 68, "ascending");
    changed(56, 0xFFFFFFFFu, 52, "U+10FFFF");
    changed(72, 0x110000, 68, "U+10FFFF");
    changed(68, 40, 68, "ascending");
    changed(68, 10, 68, "ascending");
    changed(60, 5, 52, "kind");
    changed(60, 8, 52, "kind");
    changed(60, 9, 52, "kind");
    changed(60, 12, 52, "kind");
    changed(60, 0xFFFFFFFFu, 52, "kind");
    changed(60, HANGUL, 52, "Hangul");
    changed(64, 1, 52, "argument 0");
    changed(80, 1, 68, "offset of a replacement");      /* its NUL */
    changed(80, 3, 68, "offset of a replacement");
    changed(80, 4, 68, "offset of a replacement");      /* behind all of them */
    changed(80, 0xFFFFFFFFu, 68, "offset of a replacement");
    changed(80, 0x80000000u, 68, "offset of a replacement");
    changed(88, 0x00006261, 0, NULL);                   /* "ab", then nothing: 2 is its NUL */
    refused(&made, 68, "offset of a replacement");
    changed(88, 0x00626261, 68, "offset of a replacement");     /* "abb": 2 is inside */
    changed(68, 0xAC00, 0, NULL);
    change(&made, 72, 0xD7A3);
    change(&made, 76, HANGUL);
    refused(&made, 68, "argument 0");
    change(&made, 80, 0);
    v = vocab_of(&made, NULL);
    assert_non_null(v);
    trf_vocab_destroy(v);
    change(&made, 72, 0xD7A4);
    refused(&made, 68, "Hangul");
    changed(68, 0xABFF, 0, NULL);
    change(&made, 72, 0xD7A3);
    change(&made, 76, HANGUL);
    change(&made, 80, 0);
    refused(&made, 68, "Hangul");
    changed(60, SHIFT, 52, NULL);
    change(&made, 64, (uint32_t)-32);                   /* to U+0000 */
    refused(&made, 52, "shift");
    change(&made, 64, 0xD800 - 40);                     /* to a surrogate */
    refused(&made, 52, "shift");
    change(&made, 64, 0xDFFF - 32);
    refused(&made, 52, "shift");
    change(&made, 64, 0x10FFFF - 39);
    refused(&made, 52, "shift");
    change(&made, 64, 0x7FFFFFFF);
    refused(&made, 52, "shift");
    change(&made, 64, 0x80000000u);
    refused(&made, 52, "shift");
    change(&made, 60, SHIFT + ALONE);
    refused(&made, 52, "shift");
}

static void bad_texts(void **state)
{
    int i;
    (void)state;
    changed(84, 3, 84, "replacements");                 /* they do not end with a NUL */
    changed(84, 36, 84, "replacements");                /* 35 bytes follow */
    changed(84, 0x7FFFFFFF, 84, "replacements");
    changed(84, 0xFFFFFFFFu, 84, "replacements");
    changed(84, 123 - 88, 84, NULL);                    /* all tokens are replacements */
    refused(&made, 123, "NUL");
    changed(84, 0, 68, "offset of a replacement");
    changed(88, 0x00620080, 88, "UTF-8");
    changed(0, 0, 0, NULL);
    put_token(&made, "more");
    refused(&made, 123, "the end");
    for (i = 0; i < 6; i++) {
        static const char *const tokens[] = {"", "a b", "a\t", "\xC3", "[CLS]", "[MASK"};
        static const char *const words[] = {"empty", "blank", "blank", "UTF-8", "twice", "NUL"};
        changed(0, 0, 0, NULL);
        made.n -= 7;                                    /* "[MASK]" and its NUL */
        put(&made, tokens[i], strlen(tokens[i]) + (i < 5));
        refused(&made, 116, words[i]);
        assert_non_null(strstr(err.message, "id 4"));
    }
}

/* Every beginning of a file is refused, and every byte of it may be anything. */
static void damages(void **state)
{
    static file damaged;
    size_t n, i;
    int bit, taken = 0;
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    (void)state;
    make(&made, UNCASED, 1);
    n = made.n;
    for (i = 0; i < n; i++) {
        made.n = i;
        if (vocab_of(&made, &hooks)) fail_msg("%d of %d bytes are taken", (int)i, (int)n);
        assert_int_equal(status, TRF_E_FORMAT);
        assert_true(err.where >= 0 && err.where <= (int64_t)i);
    }
    made.n = n;
    for (i = 0; i < n; i++)
        for (bit = 0; bit < 8; bit++) {
            trf_vocab *v;
            trf__answer to;
            memcpy(&damaged, &made, sizeof made);
            damaged.bytes[i] = (unsigned char)(damaged.bytes[i] ^ 1 << bit);
            v = vocab_of(&damaged, &hooks);
            if (!v) {
                assert_int_equal(status, TRF_E_FORMAT);
                assert_true(err.where >= 0 && err.where <= (int64_t)n);
                continue;
            }
            taken++;
            if (i % 3 == 0) {
                (void)decode(v, encode(v, "The \xED\x95\x9C unaffable \xEF\xA4\x80'"), 256, &to);
                assert_true(to.whole < 256);
            }
            trf_vocab_destroy(v);
        }
    assert_true(taken > 0);
    assert_int_equal(memory.live, 0);
}

static void no_memory(void **state)
{
    int64_t fail_at;
    (void)state;
    make(&made, UNCASED, 1);
    for (fail_at = 1; ; fail_at++) {
        kit_memory memory;
        trf_hooks hooks = kit_hooks(&memory);
        trf_vocab *v;
        memory.fail_at = fail_at;
        v = vocab_of(&made, &hooks);
        if (v) {
            assert_true(memory.calls < fail_at);
            assert_int_equal(v->n_stored, made.n);
            assert_memory_equal(v->stored, made.bytes, made.n);
        }
        else assert_int_equal(status, TRF_E_NOMEM);
        trf_vocab_destroy(v);
        assert_int_equal(memory.live, 0);
        if (v) break;
    }
    assert_true(fail_at > 5);
}

/* A hash may be computed in parts. */
static void hashes(void **state)
{
    size_t i;
    (void)state;
    for (i = 0; i <= 7; i++)
        assert_true(trf__hash_end(trf__hash_more(trf__hash_more(TRF__HASH_START, "##affab", i),
                                                 &"##affab"[i], 7 - i))
                    == trf__hash_bytes("##affab", 7));
}

/* trf import writes the bytes that are put together above. */
static void written(void **state)
{
    enum { RULES = sizeof uncased / sizeof *uncased };
    static int32_t numbers[RULES][4];
    static unsigned char bytes[sizeof made.bytes];
    struct wordpiece_file f = {63, 11, {0}, NULL, RULES, sizeof replaced - 1, replaced, vocabulary,
                            TOKENS};
    int32_t i;
    (void)state;
    make(&made, UNCASED, f.flags);
    memcpy(f.special, specials, sizeof specials);
    for (i = 0; i < RULES; i++) {
        numbers[i][0] = (int32_t)uncased[i].first;
        numbers[i][1] = (int32_t)uncased[i].last;
        numbers[i][2] = uncased[i].kind;
        numbers[i][3] = uncased[i].argument;
    }
    f.rules = numbers[0];
    assert_int_equal(bytes_of_wordpiece(&f, NULL), made.n);
    assert_int_equal(bytes_of_wordpiece(&f, bytes), made.n);
    assert_memory_equal(bytes, made.bytes, made.n);
}

/* The public calls give what the calls above give. */
static void public_calls(void **state)
{
    static const trf_special all[] = {TRF_SPECIAL_PAD, TRF_SPECIAL_BOS, TRF_SPECIAL_EOS,
                                      TRF_SPECIAL_UNK, TRF_SPECIAL_MASK, TRF_SPECIAL_CLS,
                                      TRF_SPECIAL_SEP};
    trf_vocab *vocab = NULL, *copy = NULL, *words = NULL;
    int32_t some[64], n, unknown;
    char text[64];
    size_t bytes;
    int i;
    (void)state;
    make(&made, 0, 1);
    OK(trf__vocab_from_bytes(&vocab, TRF_WORDPIECE, made.bytes, made.n, NULL, &err));
    OK(trf_vocab_copy(&copy, vocab, NULL, &err));
    OK(trf_vocab_create(&words, TRF_WORDS, NULL, &err));
    assert_int_equal(trf_vocab_kind(copy), TRF_WORDPIECE);
    assert_int_equal(trf_vocab_size(copy), sizeof vocabulary / sizeof *vocabulary);
    for (i = 0; i < trf_vocab_size(copy); i++)
        assert_string_equal(trf_vocab_token(copy, i), vocabulary[i]);
    assert_null(trf_vocab_token(copy, trf_vocab_size(copy)));
    for (i = 0; i < 7; i++) {
        assert_int_equal(trf_vocab_special(copy, all[i]), specials[i]);
        assert_int_equal(trf_vocab_special(words, all[i]), i < 4 ? i : -1);
    }
    assert_int_equal(trf_vocab_special(copy, TRF_SPECIAL_COUNT), -1);
    assert_int_equal(trf_vocab_special(NULL, TRF_SPECIAL_PAD), -1);
    assert_int_equal(trf_vocab_id(copy, "##able"), 8);
    assert_int_equal(trf_vocab_id(copy, "[CLS]"), 1);
    assert_int_equal(trf_vocab_id(copy, "nowhere"), 1);
    /* "un" begins a word, "##aff" does not, for masks of whole words */
    assert_true(trf__begins_word(copy, 9, 6));
    assert_false(trf__begins_word(copy, 6, 7));
    OK(trf_vocab_encode(copy, "Unaffable \xC4\xB1 the", 0, some, 64, &n, &err));
    assert_int_equal(n, 5);
    assert_true(some[0] == 6 && some[1] == 7 && some[2] == 8 && some[3] == 1 && some[4] == 9);
    OK(trf_vocab_count_unknown(copy, "Unaffable \xC4\xB1 the", &unknown, &n, &err));
    assert_true(unknown == 1 && n == 5);
    assert_int_equal(trf_vocab_encode(copy, "Unaffable", 0, some, 2, &n, &err), TRF_E_LIMIT);
    assert_int_equal(n, 3);
    some[0] = 2; some[1] = 6; some[2] = 7; some[3] = 8; some[4] = 3;
    OK(trf_vocab_decode(copy, some, 5, text, sizeof text, &bytes, &err));
    assert_string_equal(text, "unaffable");
    assert_int_equal(trf_vocab_encode(copy, "a\xFF", 0, some, 64, &n, &err), TRF_E_FORMAT);
    assert_int_equal(err.where, 1);
    assert_int_equal(trf_vocab_add(copy, "new", &err), TRF_E_UNSUPPORTED);
    assert_int_equal(trf__vocab_from_bytes(NULL, TRF_WORDPIECE, made.bytes, made.n, NULL, &err),
                     TRF_E_INVALID_ARG);
    assert_int_equal(trf__vocab_from_bytes(&vocab, TRF_WORDPIECE, NULL, 9, NULL, &err),
                     TRF_E_INVALID_ARG);
    assert_null(vocab);
    trf_vocab_destroy(words);
    trf_vocab_destroy(copy);
}

/* trf_vocab_load: a path or memory, not both, and its failures leave nothing. */
static void loaded(void **state)
{
    char path[64];
    trf_vocab_options options;
    trf_piece_ids ids;
    kit_memory memory;
    trf_vocab *vocab;
    FILE *file;
    (void)state;
    make(&made, 1, 0);
    memset(&memory, 0, sizeof memory);
    memset(&options, 0, sizeof options);
    memset(&ids, 0, sizeof ids);
    snprintf(path, sizeof path, "/tmp/trf_test_wordpiece_%d", (int)getpid());
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(made.bytes, 1, made.n, file), made.n);
    fclose(file);
    OK(trf_vocab_load(&vocab, path, NULL, &err));
    assert_int_equal(trf_vocab_kind(vocab), TRF_WORDPIECE);
    trf_vocab_destroy(vocab);
    OK(trf_vocab_load(&vocab, path, &options, &err));           /* zeros are the defaults */
    trf_vocab_destroy(vocab);
    options.memory = made.bytes;
    options.memory_bytes = made.n;
    OK(trf_vocab_load(&vocab, NULL, &options, &err));
    assert_int_equal(trf_vocab_id(vocab, "##able"), 8);
    trf_vocab_destroy(vocab);
#define NOTHING(call, wanted, name) \
    do { vocab = (trf_vocab *)&err; assert_int_equal(call, wanted); assert_null(vocab); \
         if (name) assert_string_equal(err.what, name); } while (0)
    NOTHING(trf_vocab_load(&vocab, path, &options, &err), TRF_E_INVALID_ARG, "memory");
    NOTHING(trf_vocab_load(&vocab, NULL, NULL, &err), TRF_E_INVALID_ARG, "path");
    options.memory_bytes = 0;
    NOTHING(trf_vocab_load(&vocab, NULL, &options, &err), TRF_E_FORMAT, NULL);
    options.memory_bytes = made.n;
    options.ids = &ids;
    NOTHING(trf_vocab_load(&vocab, NULL, &options, &err), TRF_E_INVALID_ARG, "ids");
    options.memory = NULL;
    NOTHING(trf_vocab_load(&vocab, NULL, &options, &err), TRF_E_INVALID_ARG, "path");
    NOTHING(trf_vocab_load(&vocab, path, &options, &err), TRF_E_INVALID_ARG, "ids");
    options.ids = NULL;
    options.hooks = kit_hooks(&memory);
    options.hooks.free = NULL;                                  /* alloc alone */
    NOTHING(trf_vocab_load(&vocab, path, &options, &err), TRF_E_INVALID_ARG, NULL);
    remove(path);
    NOTHING(trf_vocab_load(&vocab, path, NULL, &err), TRF_E_IO, NULL);
    assert_int_equal(trf_vocab_load(NULL, path, NULL, &err), TRF_E_INVALID_ARG);
}

/* A model keeps the vocabulary, in files too, and has its special ids. */
static void in_models(void **state)
{
    static char saved[1 << 16];
    trf_config c = kit_of_kind(kit_small(1, 16, 97, 32), TRF_ENCODER_ONLY);
    trf_model *model = NULL, *again = NULL;
    trf_vocab *vocab = NULL;
    int32_t some[64], n;
    size_t bytes, i;
    (void)state;
    make(&made, 1, 0);
    OK(trf__vocab_from_bytes(&vocab, TRF_WORDPIECE, made.bytes, made.n, NULL, &err));
    c.source_vocab = trf_vocab_size(vocab);
    c.source_bos = c.source_eos = 1;
    c.pad = 0; c.unk = 1; c.bos = 2; c.eos = 3;
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_model_set_vocabs(model, vocab, NULL, &err));
    OK(kit_save_memory(model, TRF_WEIGHTS_FULL, saved, sizeof saved, &bytes, &err));
    OK(kit_load_memory(&again, saved, bytes, NULL, &err));
    OK(trf_vocab_encode(trf_model_vocab(again, TRF_SOURCE), "The unaffable", 0, some, 64, &n, &err));
    assert_true(n == 4 && some[0] == 11 && some[1] == 6 && some[2] == 7 && some[3] == 8);
    assert_int_equal(trf_model_vocab(again, TRF_SOURCE)->n_stored, made.n);
    assert_memory_equal(trf_model_vocab(again, TRF_SOURCE)->stored, made.bytes, made.n);
    trf_model_destroy(again);
    /* a file whose vocabulary is damaged: nothing is loaded */
    for (i = 0; i + 8 < bytes && memcmp(saved + i, "TRFWP", 5); i++) { }
    assert_true(i + 8 < bytes);
    saved[i + 8] = 9;
    again = model;
    assert_true(kit_load_memory(&again, saved, bytes, NULL, &err) != TRF_OK);
    assert_null(again);
    trf_model_destroy(model);
    c.bos = 1; c.unk = 2;
    OK(trf_model_create(&model, &c, NULL, &err));
    assert_int_equal(trf_model_set_vocabs(model, vocab, NULL, &err), TRF_E_SHAPE);
    assert_string_equal(err.what, "bos");
    assert_null(trf_model_vocab(model, TRF_SOURCE));
    trf_model_destroy(model);
    trf_vocab_destroy(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(encodings),
                                       cmocka_unit_test(decoded),
                                       cmocka_unit_test(capacities),
                                       cmocka_unit_test(cut),
                                       cmocka_unit_test(smuggling),
                                       cmocka_unit_test(long_words),
                                       cmocka_unit_test(rules),
                                       cmocka_unit_test(by_the_book),
                                       cmocka_unit_test(headers),
                                       cmocka_unit_test(bad_rules),
                                       cmocka_unit_test(bad_texts),
                                       cmocka_unit_test(damages),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(hashes),
                                       cmocka_unit_test(written),
                                       cmocka_unit_test(public_calls),
                                       cmocka_unit_test(loaded), cmocka_unit_test(in_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

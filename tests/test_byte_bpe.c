/* build: shared */
/* Byte-level BPE: a small vocabulary's answers beside Hugging Face's tokenizers
   (golden/byte_bpe.h), both rules beside a matcher of regular expressions, merging beside a plain
   loop; every byte of a file damaged, every allocation failing once. */
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
#include "golden/byte_bpe.h"
#include "golden/composed.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))
enum { LLAMA = 1, BLANK = 2, WHOLE = 4, NFC = 8, ONE_NUMBER = 16,
       TOKENS = COUNT(vocabulary), MERGES = COUNT(merged), CLASSES = COUNT(classes) };
enum { HEADER = 52, AT_MERGES = HEADER + 12 * CLASSES, AT_TOKENS = AT_MERGES + 8 * MERGES };

/* ---- files ---- */

typedef struct file { unsigned char bytes[1 << 15]; size_t n; } file;

static void put(file *f, const void *bytes, size_t n)
{
    assert_true(f->n + n < sizeof f->bytes);
    memcpy(f->bytes + f->n, bytes, n);
    f->n += n;
}
static void change(file *f, size_t at, uint32_t x)
{
    int i;
    for (i = 0; i < 4; i++) f->bytes[at + (size_t)i] = (unsigned char)(x >> 8 * i);
}
static void put_number(file *f, uint32_t x)
{
    f->n += 4;
    change(f, f->n - 4, x);
}
/* The id of a token, which must exist. */
static int32_t id_of(const char *token)
{
    int i;
    for (i = 0; i < TOKENS; i++) if (!strcmp(vocabulary[i].text, token)) return i;
    fail_msg("no token \"%s\"", token);
    return -1;
}
/* bos and cls are the same; mask is missing. */
static int32_t special(int which)
{
    static const char *const names[] = {"<pad>", "<s>", "</s>", "<unk>", NULL, "<s>", "</s>"};
    return names[which] ? id_of(names[which]) : -1;
}
static void put_token(file *f, int kind, const char *token)
{
    unsigned char byte = (unsigned char)kind;
    put(f, &byte, 1);
    put(f, token, strlen(token) + 1);
}
/* The three tables for composing. */
enum { PARTS = COUNT(composed_parts), PAIRS = COUNT(composed_pairs),
       MARKS = COUNT(composed_marks) };
enum { AT_PARTS = AT_TOKENS + 12, AT_PAIRS = AT_PARTS + 12 * PARTS,
       AT_MARKS = AT_PAIRS + 12 * PAIRS };
static void put_rows(file *f, const uint32_t (*row)[3], int n)
{
    int i, k;
    for (i = 0; i < n; i++) for (k = 0; k < 3; k++) put_number(f, row[i][k]);
}
static void put_composing(file *f)
{
    put_number(f, PARTS);
    put_number(f, PAIRS);
    put_number(f, MARKS);
    put_rows(f, composed_parts, PARTS);
    put_rows(f, composed_pairs, PAIRS);
    put_rows(f, composed_marks, MARKS);
}
static void make(file *f, uint32_t flags)
{
    int i, k;
    f->n = 0;
    put(f, "TRFBP\0\0\1", 8);
    put_number(f, flags);
    for (i = 0; i < 7; i++) put_number(f, (uint32_t)special(i));
    put_number(f, TOKENS);
    put_number(f, CLASSES);
    put_number(f, MERGES);
    for (i = 0; i < CLASSES; i++) for (k = 0; k < 3; k++) put_number(f, classes[i][k]);
    for (i = 0; i < MERGES; i++) for (k = 0; k < 2; k++) put_number(f, (uint32_t)merged[i][k]);
    if (flags & NFC) put_composing(f);
    for (i = 0; i < TOKENS; i++) put_token(f, vocabulary[i].kind, vocabulary[i].text);
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
    status = trf__vocab_from_bytes(&v, TRF_BYTE_BPE, exact, f->n, hooks, &err);
    free(exact);
    if (status) assert_null(v);
    return v;
}
static trf_vocab *vocab_made(uint32_t flags)
{
    trf_vocab *v;
    make(&made, flags);
    v = vocab_of(&made, NULL);
    if (!v) fail_msg("%s", err.message);
    return v;
}

static int32_t ids[1 << 16];
static int32_t encode(const trf_vocab *v, const char *text)
{
    int32_t n;
    char *exact = (char *)malloc(strlen(text) + 1);
    assert_non_null(exact);
    strcpy(exact, text);
    OK(trf_vocab_encode(v, exact, 0, ids, COUNT(ids), &n, &err));
    free(exact);
    return n;
}
static const char *listed(int32_t n)
{
    static char text[8192];
    size_t at = 0;
    int32_t i;
    text[0] = 0;
    for (i = 0; i < n && at + 16 < sizeof text; i++)
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
/* Decodes n ids from `from` on into a block of `size` bytes that ends where it ends. */
static const char *decode(const trf_vocab *v, const int32_t *from, int32_t n, size_t size,
                          size_t *whole)
{
    static char text[1 << 15];
    char *exact = (char *)malloc(size ? size : 1);
    assert_non_null(exact);
    assert_true(size <= sizeof text);
    status = trf_vocab_decode(v, from, n, exact, size, whole, &err);
    text[0] = 0;
    if (size) memcpy(text, exact, size);
    free(exact);
    return text;
}

/* ---- beside tokenizers ---- */

static const uint32_t settings[] = {0, BLANK, LLAMA, LLAMA | WHOLE, ONE_NUMBER};

static void encodings(void **state)
{
    int which, i;
    (void)state;
    for (which = 0; which < COUNT(settings); which++) {
        trf_vocab *v = vocab_made(settings[which]);
        for (i = 0; i < COUNT(goldens); i++) {
            int32_t n = encode(v, goldens[i].text), unknown, all;
            size_t bytes;
            const char *text;
            if (strcmp(listed(n), goldens[i].ids[which]))
                fail_msg("setting %d, text %d: %s, expected %s", which, i, listed(n),
                         goldens[i].ids[which]);
            OK(trf_vocab_count_unknown(v, goldens[i].text, &unknown, &all, &err));
            assert_true(unknown == 0 && all == n);
            text = decode(v, ids, n, 4096, &bytes);
            /* a blank in front stays */
            assert_string_equal(text + (which == 1 && n && *goldens[i].text != ' '),
                                goldens[i].decoded);
            assert_int_equal(bytes, strlen(text));
        }
        trf_vocab_destroy(v);
    }
}

static void decoded(void **state)
{
    trf_vocab *v = vocab_made(0);
    size_t bytes;
    int i;
    (void)state;
    for (i = 0; i < COUNT(decodings); i++) {
        const char *text = decode(v, ids, unlisted(decodings[i].ids), 512, &bytes);
        if (strcmp(text, decodings[i].decoded))
            fail_msg("ids %s: \"%s\", expected \"%s\"", decodings[i].ids, text,
                     decodings[i].decoded);
        assert_int_equal(bytes, strlen(text));
    }
    /* a NUL is a character like any other */
    ids[0] = 'a'; ids[1] = 0; ids[2] = 'b';
    assert_memory_equal(decode(v, ids, 3, 4, &bytes), "a\0b", 4);
    assert_int_equal(bytes, 3);
    trf_vocab_destroy(v);
}

/* The 256 bytes and their spellings; other characters spell none. */
static void spellings(void **state)
{
    static const char *const others[] = {" ", "\t", "\x7F", "\xC2\xA0", "\xC2\xAD", "\xC2\x80",
                                         "\xC5\x84", "\xE2\x96\x81"};
    char text[4];
    int i, n;
    (void)state;
    for (i = 0; i < 256; i++) {
        int length = trf__spell_byte((unsigned char)i, text);
        assert_int_equal(length, strlen(vocabulary[i].text));
        assert_memory_equal(text, vocabulary[i].text, (size_t)length);
        assert_int_equal(trf__spelled_byte(vocabulary[i].text, &n), i);
        assert_int_equal(n, length);
    }
    for (i = 0; i < COUNT(others); i++) assert_int_equal(trf__spelled_byte(others[i], &n), -1);
}

/* ---- limits ---- */

static void capacities(void **state)
{
    trf_vocab *v = vocab_made(BLANK);
    int32_t room[3] = {-7, -7, -7}, n;
    (void)state;
    FAILS(trf_vocab_encode(v, "the the", 0, room, 1, &n, &err), TRF_E_LIMIT, "capacity", 1);
    assert_int_equal(n, 2);
    assert_int_equal(room[0], id_of("\xC4\xA0the"));
    assert_int_equal(room[1], -7);
    FAILS(trf_vocab_encode(v, "a b\xFF", 0, room, 3, &n, &err), TRF_E_FORMAT, "text", 3);
    FAILS(trf_vocab_encode(v, "\xED\xA0\x80", 0, room, 3, &n, &err), TRF_E_FORMAT, "text", 0);
    trf_vocab_destroy(v);
}

/* Whatever the size, the text consists of whole tokens, and `where` is the first that did not fit.
   A token's text is what it completes. */
static void cut(void **state)
{
    trf_vocab *v = vocab_made(0);
    const int32_t list[] = {id_of("the"), id_of("<s>"), 0xE4, id_of("\xC3\xA4\xC2\xB8\xC5\x83"),
                            0xE4, 0xC3, 0xA9, id_of("<s>")};
    size_t size, bytes;
    int32_t n, all = COUNT(list);
    (void)state;
    /* "the", U+FFFD and U+4E2D in one token, U+FFFD for E4, then U+00E9 */
    for (n = 0; n <= all; n++) {
        size_t whole;
        (void)decode(v, list, n, 512, &whole);
        for (size = 0; size <= whole + 1; size++) {
            const char *text = decode(v, list, n, size, &bytes);
            int32_t fits, k;
            size_t length = 0, last = 0;
            assert_int_equal(bytes, whole);
            if (size > whole) { DONE(status); continue; }
            assert_int_equal(status, TRF_E_LIMIT);
            assert_string_equal(err.what, "size");
            /* what is there are the first `where` tokens, with what they may still become */
            fits = (int32_t)err.where;
            length = size ? strlen(text) : 0;
            for (k = 0; k <= fits && k <= n; k++) {
                trf__byte_held held;
                int32_t i;
                TRF__ZERO(held);
                for (i = 0, last = 0; i < k; i++)
                    if (list[i] != id_of("<s>"))
                        last += trf__byte_token_text(vocabulary[list[i]].text, 0, &held, NULL);
            }
            assert_int_equal(length, last);
            assert_true(trf_find_invalid_utf8(text, length) < 0);
        }
    }
    assert_int_equal(decode(v, list, all, 512, &bytes)[0], 't');
    assert_int_equal(bytes, 3 + 3 + 3 + 3 + 2);
    assert_string_equal(decode(v, list, all, 512, &bytes),
                        "the\xEF\xBF\xBD\xE4\xB8\xAD\xEF\xBF\xBD\xC3\xA9");
    trf_vocab_destroy(v);
}

/* A word of a megabyte: its merges take n log n steps. */
static void long_word(void **state)
{
    const int32_t LENGTH = kit_all() ? 1 << 20 : 1 << 17;
    char *text = (char *)malloc((size_t)(2 * LENGTH + 2));
    int32_t *some = (int32_t *)malloc((size_t)(LENGTH + 1) * sizeof *some), n, i;
    static const char *const words[] = {"aa", "ab", "bcab", "  ", "\n ", "12", "''"};
    int which, k;
    (void)state;
    assert_true(text && some);
    for (which = 0; which < COUNT(settings); which++) {
        trf_vocab *v = vocab_made(settings[which]);
        for (k = 0; k < COUNT(words); k++) {
            size_t bytes, length = strlen(words[k]);
            for (i = 0; i < LENGTH; i++) text[i] = words[k][(size_t)i % length];
            text[LENGTH] = 0;
            OK(trf_vocab_encode(v, text, 0, some, LENGTH + 1, &n, &err));
            OK(trf_vocab_decode(v, some, n, text, LENGTH + 2, &bytes, &err));
            assert_int_equal(bytes, LENGTH + (which == 1 && *words[k] != ' '));
            if (k == 0 && which != 1) {
                assert_int_equal(n, LENGTH / 4);
                for (i = 0; i < n; i++) assert_int_equal(some[i], id_of("aaaa"));
            }
        }
        trf_vocab_destroy(v);
    }
    free(text);
    free(some);
}

/* Texts never contain special or added tokens, also if whole words are looked up. */
static void smuggling(void **state)
{
    trf_vocab *v = vocab_made(LLAMA | WHOLE);
    static const char *const texts[] = {"<s>", "pad", "added", "a b", "<mask>", "</s>", "wholepad"};
    int i;
    (void)state;
    for (i = 0; i < COUNT(texts); i++) {
        int32_t n = encode(v, texts[i]), k;
        for (k = 0; k < n; k++) assert_int_equal(vocabulary[ids[k]].kind, 0);
        assert_true(n > 1);
    }
    assert_int_equal(encode(v, "whole whole"), 2);
    assert_int_equal(ids[0], id_of("whole"));
    assert_int_equal(ids[1], id_of("\xC4\xA0whole"));
    trf_vocab_destroy(v);
    v = vocab_made(LLAMA);
    assert_true(encode(v, "whole") > 1);
    trf_vocab_destroy(v);
}

/* ---- beside a matcher of regular expressions ---- */

static uint64_t draws;
static int32_t pick(int32_t n) { return (int32_t)(trf__random64(12, 7, draws++) % (uint64_t)n); }

/* The letters of random texts: classes by their kinds, L N S O; quotes, blanks, line breaks. */
static const char *const letters[] = {"a", "s", "t", "l", "S", "L", "1", "\xD9\xA1", " ", " ", "\n",
                                      "\r", "\t", "\xC2\xA0", "'", "'", "!", "(", "\xC5\xBF",
                                      "\xE4\xB8\xAD", "\xC2\xBD"};
static int class_of(uint32_t c)
{
    int i;
    for (i = 0; i < CLASSES; i++)
        if (c >= classes[i][0] && c <= classes[i][1]) return (int)classes[i][2];
    return 0;
}
/* Whether characters from..to-1 are all of a kind: L, N, S, O (other), B (line break). */
static int all_of(const uint32_t *c, int from, int to, char kind)
{
    for (; from < to; from++) {
        int line = c[from] == '\r' || c[from] == '\n', of = class_of(c[from]);
        if (kind == 'B' ? !line : of != (kind == 'L' ? 1 : kind == 'N' ? 2 : kind == 'S' ? 3 : 0))
            return 0;
    }
    return 1;
}
static int is_contraction(const uint32_t *c, int n, int any_case)
{
    static const char *const all[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    int i, k;
    for (i = 0; i < 7; i++) {
        for (k = 0; k < n && all[i][k]; k++) {
            uint32_t x = c[k];
            if (any_case && x >= 'A' && x <= 'Z') x += 32;
            if (any_case && x == 0x17F) x = 's';
            if (x != (uint32_t)all[i][k]) break;
        }
        if (k == n && !all[i][k]) return 1;
    }
    return 0;
}
/* Whether the n first of `left` characters match alternative number i of a rule. */
static int matches(int llama, int i, const uint32_t *c, int n, int left)
{
    int lead = c[0] == ' ', k;
    int ahead = n == left || class_of(c[n]) == 3;       /* (?!\S) */
    if (i == 0) return is_contraction(c, n, llama);
    if (i == 5) return all_of(c, 0, n, 'S') && ahead;
    if (i == 6) return all_of(c, 0, n, 'S');
    if (!llama) {
        if (i == 4) return 0;
        for (k = 0; k <= lead && k < n; k++) if (all_of(c, k, n, "LNO"[i - 1])) return 1;
        return 0;
    }
    if (i == 1)
        return all_of(c, 0, n, 'L') || (n > 1 && all_of(c, 1, n, 'L') && !all_of(c, 0, 1, 'B') &&
                                        !all_of(c, 0, 1, 'N'));
    if (i == 2) return n <= 3 && all_of(c, 0, n, 'N');
    if (i == 3) {
        int end = n;
        while (end > 0 && all_of(c, end - 1, end, 'B')) end--;
        for (k = 0; k <= lead && k < end; k++) if (all_of(c, k, end, 'O')) return 1;
        return 0;
    }
    return all_of(c, 0, n, 'S') && all_of(c, n - 1, n, 'B');    /* \s*[\r\n]+ */
}
static void by_the_rules(void **state)
{
    int round, llama;
    (void)state;
    for (llama = 0; llama < 2; llama++) {
        trf_vocab *v = vocab_made(llama ? LLAMA : 0);
        for (round = 0; round < 60000; round++) {
            char text[128] = "";
            uint32_t c[32];
            int n = 1 + pick(12), i, at, length, bytes;
            const char *word = text, *end;
            for (i = 0; i < n; i++) strcat(text, letters[pick(COUNT(letters))]);
            for (i = 0, at = 0; i < n; i++, at += bytes) c[i] = trf__code_point(text + at, &bytes);
            end = text + strlen(text);
            for (at = 0; at < n; at += length) {
                const char *next = trf__byte_word(v->byte_bpe, word, end), *wanted = word;
                for (i = 0, length = 0; i < 7 && !length; i++)
                    for (length = n - at; length > 0; length--)
                        if (matches(llama, i, c + at, length, n - at)) break;
                assert_true(length > 0);
                for (i = 0; i < length; i++) {
                    (void)trf__code_point(wanted, &bytes);
                    wanted += bytes;
                }
                if (next != wanted)
                    fail_msg("rule %d, \"%s\", byte %d: a word of %d bytes, expected %d", llama,
                             text, (int)(word - text), (int)(next - word), (int)(wanted - word));
                word = next;
            }
        }
        trf_vocab_destroy(v);
    }
}

/* The lowest rank merges first, the leftmost of the same rank. */
static int32_t plain_word(const char *word, int32_t *to)
{
    int32_t n = (int32_t)strlen(word), i, k;
    for (i = 0; i < n; i++) to[i] = (unsigned char)word[i];
    for (;;) {
        int32_t best = MERGES, at = -1;
        char joined[256];
        for (i = 0; i + 1 < n; i++)
            for (k = 0; k < best; k++)
                if (merged[k][0] == to[i] && merged[k][1] == to[i + 1]) { best = k; at = i; }
        if (at < 0) return n;
        snprintf(joined, sizeof joined, "%s%s", vocabulary[to[at]].text,
                 vocabulary[to[at + 1]].text);
        to[at] = id_of(joined);
        for (i = at + 1; i + 1 < n; i++) to[i] = to[i + 1];
        n--;
    }
}
static void by_the_book(void **state)
{
    static const char *const parts[] = {"a", "b", "c", "aa", "bc", "ing", "the", "th", "er", "l"};
    trf_vocab *v = vocab_made(0);
    int round;
    (void)state;
    for (round = 0; round < 20000; round++) {
        char word[128] = "";
        int32_t wanted[128], n, k;
        for (k = pick(10); k >= 0; k--) strcat(word, parts[pick(10)]);
        n = plain_word(word, wanted);
        if (encode(v, word) != n || memcmp(ids, wanted, (size_t)n * sizeof *ids))
            fail_msg("%s: %s", word, listed(encode(v, word)));
    }
    trf_vocab_destroy(v);
}

/* ---- an answer that grows ---- */

/* Parts that are told once do not change, and together they are the whole text. What a character
   completes is told at once. */
static void growing(void **state)
{
    trf_vocab *v = vocab_made(0);
    int round;
    (void)state;
    for (round = 0; round < 20000; round++) {
        int32_t list[24], n = 1 + pick(24), i, told = 0;
        char text[512] = "";
        size_t bytes;
        for (i = 0; i < n; i++)
            list[i] = pick(3) ? 0x80 + pick(128) : 1 + pick(TOKENS - 1);
        for (i = 1; i <= n; i++) {
            int32_t end = i < n ? trf__complete_ids(v, list, told, i) : n;
            assert_true(end >= told && end <= i);
            /* at most the last three ids wait, unless one of them ends and begins characters */
            if (vocabulary[list[i - 1]].kind == 0 && list[i - 1] < 128) assert_int_equal(end, i);
            strcat(text, decode(v, list + told, end - told, 512, &bytes));
            told = end;
        }
        if (strcmp(text, decode(v, list, n, 512, &bytes)))
            fail_msg("round %d: \"%s\", expected \"%s\"", round, text,
                     decode(v, list, n, 512, &bytes));
    }
    /* a beginning that never ends does not wait for ever */
    { const int32_t list[] = {0xE2, 0xE2, 0xE2, 0xE2};
      assert_int_equal(trf__complete_ids(v, list, 0, 4), 3); }
    { const int32_t list[] = {'a', 0xE4, id_of("<s>"), 0xB8};
      assert_int_equal(trf__complete_ids(v, list, 0, 1), 1);
      assert_int_equal(trf__complete_ids(v, list, 0, 4), 1); }
    trf_vocab_destroy(v);
}

/* ---- composed characters ---- */

/* By Unicode's rules: a mark between two letters that compose, a syllable that has a last letter and
   one that gets it. */
static const struct { const char *text, *composed; } more_composed[] = {
    {"\xE0\xAD\x87\xCC\x81\xE0\xAC\xBE", "\xE0\xAD\x87\xCC\x81\xE0\xAC\xBE"},
    {"\xEA\xB0\x81\xE1\x86\xA8", "\xEA\xB0\x81\xE1\x86\xA8"},
    {"\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81"},
};

/* What tokenizers composes; a composed text is cut as it is; marks in a long run. */
static void composing(void **state)
{
    trf_vocab *plain = vocab_made(LLAMA), *v = vocab_made(LLAMA | NFC);
    static char text[90001];
    int32_t other[256];
    int i;
    (void)state;
    for (i = 0; i < COUNT(composed_texts) + COUNT(more_composed); i++) {
        const int more = i - COUNT(composed_texts);
        const char *from = more < 0 ? composed_texts[i].text : more_composed[more].text;
        const char *want = more < 0 ? composed_texts[i].composed : more_composed[more].composed;
        uint32_t *got = NULL;
        int64_t room;
        size_t n = strlen(from);
        int32_t count, again;
        DONE(trf__compose_text(v, from, &n, &got, &room, &err));
        if (got ? n != strlen(want) || strcmp((char *)got, want) != 0 : strcmp(from, want) != 0)
            fail_msg("text %d: \"%s\", expected \"%s\"", i, got ? (char *)got : from, want);
        trf__free(&v->hooks, got, trf__bytes(room, sizeof *got));
        count = encode(plain, want);
        assert_true(count < COUNT(other));
        memcpy(other, ids, (size_t)count * sizeof *ids);
        again = encode(v, from);
        assert_int_equal(again, count);
        assert_memory_equal(ids, other, (size_t)count * sizeof *ids);
    }
    /* marks of two classes in turn: those of the lower one come first */
    text[0] = 'a';
    for (i = 0; i < 10000; i++) memcpy(text + 1 + 4 * i, "\xCC\x81\xCC\xA3", 5);
    assert_int_equal(encode(v, text), 3 + 2 * 19999);
    assert_true(ids[0] == 0xE1 && ids[1] == 0xBA && ids[2] == 0xA1);    /* U+1EA1 */
    assert_true(ids[3] == 0xCC && ids[4] == 0xA3 && ids[40000] == 0x81);
    trf_vocab_destroy(v);
    trf_vocab_destroy(plain);
}

/* Qwen's rule: each number is a word, of any script. */
static void one_number(void **state)
{
    trf_vocab *three = vocab_made(LLAMA), *one = vocab_made(LLAMA | ONE_NUMBER);
    (void)state;
    assert_int_equal(encode(three, "123"), 1);
    assert_int_equal(encode(one, "123"), 3);
    assert_int_equal(encode(one, "\xD9\xA1\xD9\xA2"), 4);
    trf_vocab_destroy(three);
    trf_vocab_destroy(one);
}

/* ---- hostile files ---- */

static void refused(const file *f, int64_t where, const char *words)
{
    if (vocab_of(f, NULL)) fail_msg("taken; expected \"%s\"", words);
    if (status != TRF_E_FORMAT || err.where != where || !strstr(err.message, words))
        fail_msg("status %d, byte %lld, \"%s\"; expected byte %lld, \"%s\"", (int)status,
                 (long long)err.where, err.message, (long long)where, words);
    assert_string_equal(err.what, "byte_bpe");
}
static void changed(size_t at, uint32_t x, int64_t where, const char *words)
{
    make(&made, 0);
    change(&made, at, x);
    refused(&made, where, words);
}
/* The offset of a token in the file. */
static size_t at_token(int32_t id)
{
    size_t at = AT_TOKENS;
    int32_t i;
    for (i = 0; i < id; i++) at += strlen(vocabulary[i].text) + 2;
    return at;
}

static void headers(void **state)
{
    static const uint32_t ends[] = {TOKENS, 0x7FFFFFFF, 0x80000000u, 0xFFFFFFFEu};
    int i, k;
    (void)state;
    make(&made, 31);
    trf_vocab_destroy(vocab_of(&made, NULL));
    DONE(status);
    made.bytes[7] = 2;
    refused(&made, 0, "byte-level BPE");
    changed(8, 32, 8, "flags");
    changed(8, 8, AT_TOKENS, "so many rows");
    changed(8, 0x80000001u, 8, "flags");
    for (i = 0; i < 7; i++)
        for (k = 0; k < 4; k++) changed(12 + 4 * (size_t)i, ends[k], 12 + 4 * i, "an id from -1");
    changed(40, 255, 40, "256 to");
    changed(40, 0xFFFFFFFFu, 40, "tokens");
    changed(40, TOKENS + 1, (int64_t)made.n, "the end");
    changed(40, TOKENS - 1, (int64_t)at_token(TOKENS - 1), "after the last token");
    changed(44, 0xFFFFFFFFu, 44, "at most");
    changed(48, 0xFFFFFFFFu, 48, "at most");
    changed(48, 0x20000001u, 48, "at most");
    for (i = 0; i < 7; i++) {
        trf_vocab *v;
        make(&made, 0);
        change(&made, 12 + 4 * (size_t)i, 0xFFFFFFFFu);
        v = vocab_of(&made, NULL);
        assert_non_null(v);
        assert_int_equal(trf_vocab_special(v, (trf_special)i), -1);
        trf_vocab_destroy(v);
    }
}

static void bad_ranges(void **state)
{
    size_t second = HEADER + 12;
    (void)state;
    changed(HEADER, classes[0][1] + 1, HEADER, "a range");
    changed(second + 4, 0x110000, (int64_t)second, "a range");
    changed(second + 8, 0, (int64_t)second + 8, "class");
    changed(second + 8, 4, (int64_t)second + 8, "class");
    changed(second + 8, 0xFFFFFFFFu, (int64_t)second + 8, "class");
    changed(second, classes[0][1], (int64_t)second, "ascending");
    changed(HEADER + 4, classes[1][0], (int64_t)second, "ascending");
}

static void bad_merges(void **state)
{
    const size_t at = AT_MERGES + 8 * 5;
    (void)state;
    changed(at, TOKENS, (int64_t)at, "merge 5");
    changed(at + 4, 0xFFFFFFFFu, (int64_t)at, "two ids");
    changed(at, 0x80000000u, (int64_t)at, "two ids");
    changed(at, 'q', (int64_t)at, "form a third one");
}

/* The tables for composing: sizes, order, and what they may say. */
static void bad_tables(void **state)
{
    static const struct { int at; uint32_t x; int where; const char *words; } cases[] = {
        {AT_TOKENS, 0xFFFFFFFFu, AT_TOKENS, "so many rows"},
        {AT_TOKENS + 4, 0x10000000u, AT_TOKENS + 4, "so many rows"},
        {AT_TOKENS + 8, 0x10000000u, AT_TOKENS + 8, "so many rows"},
        {AT_PARTS, 0x7F, AT_PARTS, "its parts"},
        {AT_PARTS + 4, 0, AT_PARTS, "its parts"}, {AT_PARTS + 4, 0xAC00, AT_PARTS, "its parts"},
        {AT_PARTS + 8, 0x7F, AT_PARTS, "its parts"},
        {AT_PARTS + 8, 0x110000, AT_PARTS, "its parts"},
        {AT_PARTS + 12, 0xC0, AT_PARTS + 12, "ascending"},
        {AT_PARTS + 12, 0xA0, AT_PARTS + 12, "ascending"},
        {AT_PARTS + 8, 0xC1, AT_PARTS + 8, "does not decompose"},
        {AT_PARTS + 4, 0xC0, AT_PARTS, "eight steps"},
        {AT_PAIRS, 0, AT_PAIRS, "three code points"}, {AT_PAIRS + 4, 0x7F, AT_PAIRS, "three code"},
        {AT_PAIRS + 8, 0xD800, AT_PAIRS, "three code points"},
        {AT_PAIRS + 12 + 4, 0x300, AT_PAIRS + 12, "ascending"},
        {AT_PAIRS + 12, 0x40, AT_PAIRS + 12, "ascending"},
        {AT_MARKS, 0xFFFF, AT_MARKS, "a class from"}, {AT_MARKS + 8, 0, AT_MARKS, "a class from"},
        {AT_MARKS + 8, 255, AT_MARKS, "a class from"},
        {AT_MARKS + 12, 0x300, AT_MARKS + 12, "ascending"},
        {AT_MARKS + 12, 0x2FF, AT_MARKS + 12, "ascending"}};
    int i;
    (void)state;
    for (i = 0; i < COUNT(cases); i++) {
        make(&made, NFC);
        change(&made, (size_t)cases[i].at, cases[i].x);
        refused(&made, cases[i].where, cases[i].words);
    }
    make(&made, NFC);
    made.n = AT_TOKENS + 11;
    refused(&made, AT_TOKENS, "three tables");
    /* a chain of nine */
    make(&made, NFC);
    for (i = 0; i < 9; i++) {
        change(&made, AT_PARTS + 12 * (size_t)i + 4, composed_parts[i + 1][0]);
        change(&made, AT_PARTS + 12 * (size_t)i + 8, 0);
    }
    refused(&made, AT_PARTS, "eight steps");
}

/* Every kind of wrong merge and token, each at its place. */
static void bad_tokens(void **state)
{
    static const struct { int32_t id; const char *becomes; int length; const char *words; } cases[] =
        {{256, "\0\0", 2, "an empty one"}, {300, "\0" "ad\xFF" "ed\0", 7, "UTF-8"},
         {300, "\0<unk>\0", 7, "twice"}, {300, "\3added\0", 7, "kind of token"},
         {300, "\xFF" "added\0", 7, "kind of token"}};
    int i;
    (void)state;
    for (i = 0; i < COUNT(cases); i++) {
        size_t at = at_token(cases[i].id);
        make(&made, 0);
        memcpy(made.bytes + at, cases[i].becomes, (size_t)cases[i].length);
        refused(&made, (int64_t)at, cases[i].words);
        assert_non_null(strstr(err.message, "id "));
    }
    /* a byte that is special, or no token at all */
    make(&made, 0);
    made.bytes[at_token('q')] = 2;
    refused(&made, (int64_t)made.n, "0x71");
    make(&made, 0);
    memcpy(made.bytes + at_token('q'), "\0\x01", 2);
    refused(&made, (int64_t)made.n, "0x71");
    /* a merge to a special token */
    make(&made, 0);
    made.bytes[at_token(id_of("ab"))] = 1;
    refused(&made, AT_MERGES + 8 * 20, "ordinary token");
    assert_non_null(strstr(err.message, "merge 20"));
    /* a merge twice */
    make(&made, 0);
    memcpy(made.bytes + AT_MERGES + 8 * 30, made.bytes + AT_MERGES + 8 * 2, 8);
    refused(&made, AT_MERGES + 8 * 30, "once");
    make(&made, 0);
    put(&made, "more", 4);
    refused(&made, (int64_t)made.n - 4, "the end");
}

/* Every beginning of a file is refused, and every byte of it may be anything. */
static void damage(uint32_t flags)
{
    static file damaged;
    size_t n, i;
    int bit, taken = 0;
    kit_memory memory;
    trf_hooks hooks = kit_hooks(&memory);
    make(&made, flags);
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
            size_t bytes;
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
                const char *text = "The 's \xE4\xB8\xAD 12345 whole\n\n  (abcabc)\xC2\xA0"
                    "\xC3\xA9\xCC\xA3\xCC\x81 \xE1\xBE\x82 "
                    "a\xCC\x81\xCC\xA3 \xEA\xB0\x80\xE1\x86\xA8";
                int32_t found = encode(v, text);
                assert_true(found > 0);
                (void)decode(v, ids, found, 512, &bytes);
            }
            trf_vocab_destroy(v);
        }
    assert_true(taken > 0);
    assert_int_equal(memory.live, 0);
}
static void damages(void **state)
{
    (void)state;
    damage(LLAMA | WHOLE);
    damage(LLAMA | NFC | ONE_NUMBER);
}

static void no_memory(void **state)
{
    int64_t fail_at;
    int32_t some[64], n;
    (void)state;
    make(&made, BLANK | WHOLE | NFC);
    for (fail_at = 1; ; fail_at++) {
        kit_memory memory;
        trf_hooks hooks = kit_hooks(&memory);
        trf_vocab *v;
        int done = 0;
        memory.fail_at = fail_at;
        v = vocab_of(&made, &hooks);
        if (!v) assert_int_equal(status, TRF_E_NOMEM);
        else {
            status = trf_vocab_encode(v, "the whole (abc) th\xC3\xADng", 0, some, 64, &n, &err);
            done = status == TRF_OK;
            if (done) assert_true(memory.calls < fail_at);
            else assert_int_equal(status, TRF_E_NOMEM);
        }
        trf_vocab_destroy(v);
        assert_int_equal(memory.live, 0);
        if (done) break;
    }
    assert_true(fail_at > 9);
}

/* trf import writes the bytes that are put together above. */
static void written(void **state)
{
    static int32_t ranges[CLASSES][3], merges[MERGES][2], parts[PARTS][3], pairs[PAIRS][3],
        marks[MARKS][3];
    static const char *texts[TOKENS];
    static unsigned char kinds[TOKENS];
    static unsigned char bytes[sizeof made.bytes];
    struct byte_bpe_file f;
    int i;
    (void)state;
    TRF__ZERO(f);
    memcpy(ranges, classes, sizeof ranges);
    memcpy(merges, merged, sizeof merges);
    memcpy(parts, composed_parts, sizeof parts);
    memcpy(pairs, composed_pairs, sizeof pairs);
    memcpy(marks, composed_marks, sizeof marks);
    for (i = 0; i < TOKENS; i++) {
        texts[i] = vocabulary[i].text;
        kinds[i] = (unsigned char)vocabulary[i].kind;
    }
    for (i = 0; i < 7; i++) f.special[i] = special(i);
    f.n_ranges = CLASSES;
    f.n_merges = MERGES;
    f.n_composing[0] = PARTS;
    f.n_composing[1] = PAIRS;
    f.n_composing[2] = MARKS;
    f.n_tokens = TOKENS;
    f.ranges = ranges[0];
    f.merges = merges[0];
    f.composing[0] = parts[0];
    f.composing[1] = pairs[0];
    f.composing[2] = marks[0];
    f.tokens = texts;
    f.kinds = kinds;
    for (i = 0; i < 2; i++) {
        f.flags = i ? BLANK | NFC : LLAMA;
        make(&made, (uint32_t)f.flags);
        assert_int_equal(bytes_of_byte_bpe(&f, NULL), made.n);
        assert_int_equal(bytes_of_byte_bpe(&f, bytes), made.n);
        assert_memory_equal(bytes, made.bytes, made.n);
    }
}

/* The id of a special or added token, -1 for a text. "added" has become "pad a". */
static int32_t named_token(const char *text)
{
    int32_t i;
    if (!strcmp(text, "pad a")) return id_of("added");
    for (i = 0; i < TOKENS; i++) if (vocabulary[i].kind && !strcmp(vocabulary[i].text, text)) return i;
    return -1;
}

/* trf_vocab_encode with special 1: tokens that are named, and between them texts, each cut by itself. Of two
   tokens at a place the longer one counts, and the first place. */
static void special_texts(void **state)
{
    static const char *const parts[] = {"<s>", "", " the", "pad", "pad a", "a b", "x y", "caf\xC3\xA9 12", "",
                                        "<mask>", "!", "</s>", "<", "e\xCC\x81"};
    static int32_t expected[4096];
    int which, round, i, k;
    size_t at;
    (void)state;
    for (which = 0; which < COUNT(settings); which++) {
        trf_vocab *v;
        int32_t n, m, named = 0;
        char text[512] = "";
        make(&made, settings[which]);
        for (at = 0; memcmp(made.bytes + at, "added", 6); at++) { }
        memcpy(made.bytes + at, "pad a", 5);
        v = vocab_of(&made, NULL);
        assert_non_null(v);
        for (round = 0; round < 200; round++) {
            char between[512] = "";
            for (*text = 0, i = 0, m = 0; i < 12; i++) {
                uint64_t r = trf__random64(9, (uint64_t)round, (uint64_t)i);
                const char *part = parts[r % COUNT(parts)];
                int32_t id = named_token(part);
                strcat(text, part);
                if (id < 0) { strcat(between, part); continue; }
                n = encode(v, between);
                memcpy(expected + m, ids, (size_t)n * sizeof *ids);
                m += n;
                expected[m++] = id;
                *between = 0;
                named++;
            }
            n = encode(v, between);
            memcpy(expected + m, ids, (size_t)n * sizeof *ids);
            m += n;
            OK(trf_vocab_encode(v, text, 1, ids, COUNT(ids), &n, &err));
            assert_int_equal(n, m);
            assert_memory_equal(ids, expected, (size_t)n * sizeof *ids);
        }
        assert_true(named > 200);
        OK(trf_vocab_encode(v, "pad ab", 1, ids, 8, &n, &err));
        k = n;
        assert_int_equal(ids[0], id_of("added"));
        assert_int_equal(encode(v, "b") + 1, k);
        FAILS(trf_vocab_encode(v, "<s> b", 1, ids, 1, &n, &err), TRF_E_LIMIT, "capacity", 1);
        FAILS(trf_vocab_encode(v, "<s>b\xFF", 1, ids, 8, &n, &err), TRF_E_FORMAT, "text", 4);
        FAILS(trf_vocab_encode(v, NULL, 1, ids, 8, &n, &err), TRF_E_INVALID_ARG, "text", -1);
        trf_vocab_destroy(v);
    }
}

/* ---- the public calls ---- */

static void public_calls(void **state)
{
    trf_vocab *v = vocab_made(0), *copy = NULL, *none = v;
    int32_t i, n;
    size_t bytes;
    (void)state;
    OK(trf_vocab_copy(&copy, v, NULL, &err));
    trf_vocab_destroy(v);
    assert_int_equal(trf_vocab_kind(copy), TRF_BYTE_BPE);
    assert_int_equal(trf_vocab_size(copy), TOKENS);
    for (i = 0; i < TOKENS; i++) {
        assert_string_equal(trf_vocab_token(copy, i), vocabulary[i].text);
        assert_int_equal(trf_vocab_id(copy, vocabulary[i].text),
                         vocabulary[i].kind == 2 ? special(TRF_SPECIAL_UNK) : i);
    }
    assert_null(trf_vocab_token(copy, TOKENS));
    for (i = 0; i < 7; i++) assert_int_equal(trf_vocab_special(copy, (trf_special)i), special(i));
    assert_int_equal(trf_vocab_special(copy, TRF_SPECIAL_COUNT), -1);
    assert_int_equal(trf_vocab_id(copy, "nowhere"), special(TRF_SPECIAL_UNK));
    /* id 3 is a byte here, not the unknown token */
    OK(trf_vocab_encode(copy, "\x03", 0, ids, 8, &n, &err));
    assert_true(n == 1 && ids[0] == 3);
    OK(trf_vocab_count_unknown(copy, "\x03", &i, &n, &err));
    assert_true(n == 1 && i == 0);
    ids[0] = TOKENS;
    (void)decode(copy, ids, 1, 8, &bytes);
    assert_int_equal(status, TRF_E_INVALID_ARG);
    assert_int_equal(trf_vocab_add(copy, "new", &err), TRF_E_UNSUPPORTED);
    assert_int_equal(trf__vocab_from_bytes(NULL, TRF_BYTE_BPE, made.bytes, made.n, NULL, &err),
                     TRF_E_INVALID_ARG);
    assert_int_equal(trf__vocab_from_bytes(&none, TRF_BYTE_BPE, NULL, 9, NULL, &err),
                     TRF_E_INVALID_ARG);
    assert_null(none);
    /* words begin with a blank, for masks of whole words */
    assert_true(trf__begins_word(copy, 'a', id_of("\xC4\xA0the")));
    assert_false(trf__begins_word(copy, 'a', id_of("the")));
    assert_true(trf__begins_word(copy, -1, id_of("the")));
    trf_vocab_destroy(copy);
    make(&made, 0);
    change(&made, 24, 0xFFFFFFFFu);                     /* no unk */
    v = vocab_of(&made, NULL);
    assert_non_null(v);
    assert_int_equal(trf_vocab_id(v, "<s>"), -1);
    trf_vocab_destroy(v);
}

/* A model keeps the vocabulary, in files too, and has its special ids. */
static void in_models(void **state)
{
    static char saved[1 << 17];
    trf_config c = kit_of_kind(kit_small(1, 16, 97, 32), TRF_ENCODER_ONLY);
    trf_model *model = NULL, *again = NULL;
    trf_vocab *v = vocab_made(LLAMA);
    size_t bytes, i;
    int32_t n;
    (void)state;
    c.source_vocab = TOKENS;
    c.source_bos = c.source_eos = 1;
    c.pad = special(0); c.bos = special(1); c.eos = special(2); c.unk = special(3);
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_model_set_vocabs(model, v, NULL, &err));
    OK(kit_save_memory(model, TRF_WEIGHTS_FULL, saved, sizeof saved, &bytes, &err));
    OK(kit_load_memory(&again, saved, bytes, NULL, &err));
    OK(trf_vocab_encode(trf_model_vocab(again, TRF_SOURCE), "the the", 0, ids, 64, &n, &err));
    assert_true(n == 2 && ids[0] == id_of("the") && ids[1] == id_of("\xC4\xA0the"));
    assert_int_equal(trf_model_vocab(again, TRF_SOURCE)->n_stored, made.n);
    assert_memory_equal(trf_model_vocab(again, TRF_SOURCE)->stored, made.bytes, made.n);
    trf_model_destroy(again);
    /* a file whose vocabulary is damaged: nothing is loaded */
    for (i = 0; i + 8 < bytes && memcmp(saved + i, "TRFBP", 5); i++) { }
    assert_true(i + 8 < bytes);
    saved[i + 8] = 9;
    again = model;
    assert_true(kit_load_memory(&again, saved, bytes, NULL, &err) != TRF_OK);
    assert_null(again);
    trf_model_destroy(model);
    c.bos = 5;
    OK(trf_model_create(&model, &c, NULL, &err));
    assert_int_equal(trf_model_set_vocabs(model, v, NULL, &err), TRF_E_SHAPE);
    assert_string_equal(err.what, "bos");
    trf_model_destroy(model);
    trf_vocab_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(encodings),
                                       cmocka_unit_test(decoded),
                                       cmocka_unit_test(spellings),
                                       cmocka_unit_test(capacities),
                                       cmocka_unit_test(cut),
                                       cmocka_unit_test(long_word),
                                       cmocka_unit_test(smuggling),
                                       cmocka_unit_test(special_texts),
                                       cmocka_unit_test(by_the_rules),
                                       cmocka_unit_test(by_the_book),
                                       cmocka_unit_test(growing),
                                       cmocka_unit_test(composing),
                                       cmocka_unit_test(one_number),
                                       cmocka_unit_test(headers),
                                       cmocka_unit_test(bad_ranges),
                                       cmocka_unit_test(bad_tables),
                                       cmocka_unit_test(bad_merges),
                                       cmocka_unit_test(bad_tokens),
                                       cmocka_unit_test(damages),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(written),
                                       cmocka_unit_test(public_calls),
                                       cmocka_unit_test(in_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

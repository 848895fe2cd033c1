/* build: O0 linked */
/* The map that trf gives to the subwords it learns (tools/trf/base/compose.c): what Unicode's
   composition writes otherwise is written so, and nothing else is, as the header's reader of
   SentencePiece models has it. */
#include "../tools/trf/base/compose.c"
#include "../tools/trf/base/text.c"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "calls.h"

/* ---- a model of bytes alone, with a map ---- */

enum { ROOM = 1 << 20, MOST = 64,
       WAYS = 2647, REPLACED = 1120 };  /* of Unicode 14; of these, single characters */
static unsigned char model[ROOM];
static size_t used;
static char *map;
static trf_vocab *vocab;
static trf_error err;

static void put_number(uint64_t n)
{
    for (; n >= 128; n >>= 7) model[used++] = (unsigned char)(n | 128);
    model[used++] = (unsigned char)n;
}

static void put_field(int number, int type) { put_number((uint64_t)(8 * number + type)); }

static void put_piece(const char *text, int type)
{
    size_t n = strlen(text);
    put_field(1, 2);
    put_number(n + 4);
    put_field(1, 2);
    put_number(n);
    memcpy(model + used, text, n);
    used += n;
    put_field(3, 0);
    put_number((uint64_t)type);
}

static void begin(int hangul)
{
    static const unsigned char bytes_of_bpe[] = {8 * 2 + 2,   5, 8 * 3, 2, (8 * 35 & 127) | 128,
                                                 8 * 35 >> 7, 1};
    char byte[8];
    size_t n;
    int i;
    used = 0;
    put_piece("<unk>", 2);
    for (i = 0; i < 256; i++) {
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)i);
        put_piece(byte, 6);
    }
    memcpy(model + used, bytes_of_bpe, sizeof bytes_of_bpe);
    used += sizeof bytes_of_bpe;
    map = composing_map(hangul, &n);
    assert_true(used + n + 64 < ROOM);
    put_field(3, 2);
    put_number(n + 11);
    put_field(2, 2);
    model[used++] = (unsigned char)(n & 127) | 128;     /* four bytes whatever the number is */
    model[used++] = (unsigned char)(n >> 7 & 127) | 128;
    model[used++] = (unsigned char)(n >> 14 & 127) | 128;
    model[used++] = (unsigned char)(n >> 21);
    memcpy(model + used, map, n);
    used += n;
    for (i = 3; i < 6; i++) {
        put_field(i, 0);
        put_number(0);
    } /* no blank before, none taken away or renamed */
    if (kit_vocab_of(&vocab, model, used, NULL, NULL, &err)) fail_msg("%s", err.message);
}

static void end(void)
{
    trf_vocab_destroy(vocab);
    free(map);
}

/* The text is read as `wanted`, byte by byte, and is known to be composed if that is itself. */
static void reads_as(const char *text, const char *wanted)
{
    int32_t ids[MOST], n, i;
    if (trf_vocab_encode(vocab, text, 0, ids, MOST, &n, &err)) fail_msg("%s", err.message);
    if (n != (int32_t)strlen(wanted))
        fail_msg("'%s': expected '%s', got %d bytes", text, wanted, (int)n);
    for (i = 0; i < n; i++)
        if (ids[i] != 4 + (int32_t)(unsigned char)wanted[i])
            fail_msg("'%s': expected '%s'", text, wanted);
    assert_int_equal(is_composed(map, text), !strcmp(text, wanted));
}

static void written_otherwise(void **state)
{
    static const struct { const char *text, *wanted;
    } of[] = {{"e\xCC\x81t\xC3\xA9 n\xCC\x83", "\xC3\xA9t\xC3\xA9 \xC3\xB1"},
              {"\xE2\x84\xAB", "\xC3\x85"},
              {"e\xCC\x82\xCC\x81|e\xCC\xA3\xCC\x82|e\xCC\x82\xCC\xA3|\xC3\xAA\xCC\xA3|"
               "\xE1\xBA\xB9\xCC\x82",
               "\xE1\xBA\xBF|\xE1\xBB\x87|\xE1\xBB\x87|\xE1\xBB\x87|\xE1\xBB\x87"},
              {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"},
              {"\xEF\xA4\x80", "\xE8\xB1\x88"},
              {"a\tb\r\n", "a b  "},
              {"\xE3\x81\x8B\xE3\x82\x99", "\xE3\x81\x8C"},
              {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB\xE1\x84\x80\xE1\x85\xB3\xE1\x86\xAF",
               "\xED\x95\x9C\xEA\xB8\x80"},
              {"\xED\x95\x98\xE1\x86\xAB", "\xED\x95\x9C"}};
    size_t i;
    (void)state;
    begin(1);
    for (i = 0; i < sizeof of / sizeof *of; i++) reads_as(of[i].text, of[i].wanted);
    end();
}

static void all_of_the_tables(void **state)
{
    char text[MOST], wanted[MOST];
    struct ways ways;
    size_t i;
    (void)state;
    begin(0);
    list_ways(&ways);
    assert_int_equal(ways.n, WAYS);
    for (i = 0; i < ways.n; i++) {
        write_characters(text, ways.item[i].other, MOST_CHARACTERS);
        write_characters(wanted, ways.item[i].usual, MOST_CHARACTERS);
        reads_as(text, wanted);
        if (ways.item[i].other[1]) reads_as(wanted, wanted);
    }
    free_ways(&ways);
    end();
}

static void all_of_hangul(void **state)
{
    uint32_t i;
    char text[MOST], wanted[MOST];
    (void)state;
    begin(1);
    for (i = 0; i < SYLLABLES; i++) {
        uint32_t syllable = 0xAC00 + i, two[2] = {syllable - i % 28, 0x11A7 + i % 28};
        uint32_t letters[3] = {0x1100 + i / 588, 0x1161 + i % 588 / 28,
                               i % 28 ? 0x11A7 + i % 28 : 0};
        write_characters(wanted, &syllable, 1);
        write_characters(text, letters, 3);
        reads_as(text, wanted);
        write_characters(text, two, i % 28 ? 2 : 1);
        reads_as(text, wanted);
        assert_true(has_hangul(text) && has_hangul(wanted));
    }
    end();
    begin(0);
    reads_as("\xE1\x84\x92\xE1\x85\xA1", "\xE1\x84\x92\xE1\x85\xA1");
    end();
    assert_false(has_hangul(
        "text \xE4\xB8\xAD\xE6\x96\x87 \xE1\x88\x80 \xEE\x80\x80 \xEA\x80\x80 \xED\x9F\xBF"));
}

/* Every other character stays, and so do these. */
static void nothing_else(void **state)
{
    static const char *const kept[] = {
        "m\xC2\xB2 \xC2\xBD \xE2\x80\xA6 \xEF\xBC\x8C\xEF\xBC\xA1\xC2\xA0\xE3\x80\x80",
        "\xD9\x85\xDB\x8C\xE2\x80\x8C\xD8\xAE",
        "\xEF\xAC\x81 \xE2\x84\xA2 \xC2\xAD\xE2\x80\x8B\xEF\xBB\xBF", "x\xCC\x81", "  a  b  "};
    uint32_t c;
    size_t i;
    char text[MOST];
    int changed = 0;
    (void)state;
    begin(0);
    for (i = 0; i < sizeof kept / sizeof *kept; i++) reads_as(kept[i], kept[i]);
    for (c = 1; c < 0x110000; c++) {
        if (c >= 0xD800 && c < 0xE000) continue;
        write_characters(text, &c, 1);
        if (!is_composed(map, text)) changed++;
        else reads_as(text, text);
    }
    assert_int_equal(changed, REPLACED + 5);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(written_otherwise),
                                       cmocka_unit_test(all_of_the_tables),
                                       cmocka_unit_test(all_of_hangul),
                                       cmocka_unit_test(nothing_else)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

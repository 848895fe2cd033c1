// trf train, prepare, doctor: a guess at the encoding of text that is not UTF-8. See encodings.h.
//
// Accents of Latin text stand alone among ASCII letters. Other alphabets have runs of high bytes: a
// byte for each letter (Cyrillic), or two for each character (Chinese, Japanese, Korean). In
// Windows-1251 small letters are 0xE0..0xFF, in KOI8-R 0xC0..0xDF. Japanese is mostly kana, which
// begin with few bytes.

#include "encodings.h"

#include <string.h>

static void note_run(struct bytes_seen *b, const unsigned char *run, size_t n)
{
    size_t i;
    b->runs++;
    b->odd += (int64_t)(n % 2);
    b->high += (int64_t)n;
    for (i = 0; i < n; i++) {
        b->lower += run[i] >= 0xC0 && run[i] < 0xE0;
        b->upper += run[i] >= 0xE0;
        b->kana[0] += run[i] == 0x82 || run[i] == 0x83;
        b->kana[1] += i % 2 == 0 && (run[i] == 0xA4 || run[i] == 0xA5);
        b->late += i % 2 == 0 && run[i] > 0xC8;
    }
}

void note_bytes(struct bytes_seen *b, const char *line, size_t n)
{
    const unsigned char *at = (const unsigned char *)line, *end = at + n, *run;
    for (; at < end; at++) {
        b->letters += (*at | 32) >= 'a' && (*at | 32) <= 'z';
        for (run = at; at < end && *at >= 0x80; at++) { }
        if (at > run) note_run(b, run, (size_t)(at-- - run));
    }
}

const struct encoding *encoding_of(const struct bytes_seen *b)
{
    static const struct encoding latin = {"Latin-1 or Windows-1252", "windows-1252"},
        cyrillic = {"Windows-1251", "windows-1251"}, koi8 = {"KOI8-R", "koi8-r"},
        sjis = {"Shift-JIS", "shift-jis"}, euc_jp = {"EUC-JP", "euc-jp"},
        euc_kr = {"EUC-KR", "euc-kr"}, chinese = {"GB 18030", "gb18030"};
    if (5 * b->kana[0] > b->high && b->high > b->letters) return &sjis;
    if (2 * b->high <= 3 * b->runs || b->high <= b->letters) return &latin;
    if (10 * b->odd > b->runs) return b->upper > b->lower ? &cyrillic : &koi8;
    if (5 * b->kana[1] > b->high / 2) return &euc_jp;
    return 50 * b->late > b->high / 2 ? &chinese : &euc_kr;
}

// trf train, prepare, doctor: what text that is not UTF-8 probably is (encodings.c).

#ifndef TRF_ENCODINGS_H
#define TRF_ENCODINGS_H

#include <stddef.h>
#include <stdint.h>

/* Counts of the lines that are not UTF-8. */
struct bytes_seen {
    int64_t letters;            /* of ASCII */
    int64_t high, runs;         /* bytes above 0x7F, and how often some follow one another */
    int64_t odd;                /* of the runs: those of an odd number of bytes */
    int64_t lower, upper;       /* bytes 0xC0..0xDF and 0xE0..0xFF */
    int64_t kana[2];            /* 0x82 and 0x83 (Shift-JIS), 0xA4 and 0xA5 (EUC-JP) */
    int64_t late;               /* pairs that begin with 0xC9..0xFE: no Hangul of EUC-KR */
};
struct encoding { const char *name, *iconv; };

void note_bytes(struct bytes_seen *b, const char *line, size_t n);
const struct encoding *encoding_of(const struct bytes_seen *b);

#endif

/* pieces.c - ids and texts of a vocabulary of subwords, for pieces.py and byte_bpe.py.

   build   cc -O2 -I. tools/parity/pieces.c -o build/pieces -lopenblas -lm
   run     build/pieces MODEL <LINES           prints the ids of each line and, behind a tab, the text they give
           build/pieces MODEL times <LINES     prints the seconds that cutting all lines takes, the least of five
           build/pieces MODEL records <TEXTS   as the first, with a NUL for each newline
           build/pieces MODEL decode <IDS      prints the text of each list of ids in hexadecimal, with a NUL for each
           newline
   MODEL is a file of SentencePiece, or the stored bytes of byte-level BPE. */
#define _POSIX_C_SOURCE 200809L
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <time.h>

enum { MOST = 1 << 20 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* All of a stream, with a NUL behind it. */
static char *whole(FILE *f, size_t *n)
{
    size_t room = 1 << 20, got;
    char *bytes = (char *)malloc(room + 1);
    for (*n = 0; bytes && (got = fread(bytes + *n, 1, room - *n, f)) > 0; *n += got)
        if (*n + got == room) bytes = (char *)realloc(bytes, (room *= 2) + 1);
    if (bytes) bytes[*n] = 0;
    return bytes;
}

static int32_t ids[MOST];
static char text[4 * MOST];

/* Answers records that end with a NUL: texts, or lists of ids. */
static int records(trf_vocab *vocab, char *from, size_t n, int decode)
{
    char *record, *at, *end;
    trf_error err;
    int32_t count, i;
    size_t bytes, k;
    for (record = from; record < from + n; record += strlen(record) + 1) {
        trf_status status = TRF_OK;
        if (decode) for (count = 0, at = record; *at; at = end) ids[count++] = (int32_t)strtol(at, &end, 10);
        else status = trf_vocab_encode(vocab, record, 0, ids, MOST, &count, &err);
        if (status || trf_vocab_decode(vocab, ids, count, text, sizeof text, &bytes, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        for (i = 0; !decode && i < count; i++) printf(i ? " %d" : "%d", (int)ids[i]);
        if (!decode) printf("\t%s", text);
        for (k = 0; decode && k < bytes; k++) printf("%02x", (unsigned)(unsigned char)text[k]);
        putchar(0);
    }
    trf_vocab_destroy(vocab);
    free(from);
    return 0;
}

int main(int argc, char **argv)
{
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    size_t bytes = 0, n;
    char *model = f ? whole(f, &bytes) : NULL, *lines = whole(stdin, &n), *line, *end;
    trf_vocab_options options;
    trf_vocab *vocab;
    trf_error err;
    double best = HUGE_VAL;
    int32_t count, i;
    int again;
    if (!model || !lines) { fprintf(stderr, "usage: pieces MODEL [times] <LINES\n"); return 1; }
    memset(&options, 0, sizeof options);
    options.memory = model;
    options.memory_bytes = bytes;
    if (trf_vocab_load(&vocab, NULL, &options, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (argc > 2 && strcmp(argv[2], "times")) return records(vocab, lines, n, strcmp(argv[2], "decode") == 0);
    for (end = lines; end < lines + n; end++) if (*end == '\n') *end = 0;
    for (again = 0; argc > 2 && again < 5; again++) {
        double start = seconds();
        for (line = lines; line < lines + n; line += strlen(line) + 1)
            if (trf_vocab_encode(vocab, line, 0, ids, MOST, &count, &err)) { fprintf(stderr, "%s\n",
                                                                                  err.message); return 1; }
        if (seconds() - start < best) best = seconds() - start;
    }
    if (argc > 2) printf("%.6f\n", best);
    for (line = lines; argc == 2 && line < lines + n; line += strlen(line) + 1) {
        if (trf_vocab_encode(vocab, line, 0, ids, MOST, &count, &err) ||
            trf_vocab_decode(vocab, ids, count, text, sizeof text, NULL, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        for (i = 0; i < count; i++) printf(i ? " %d" : "%d", (int)ids[i]);
        printf("\t%s\n", text);
    }
    trf_vocab_destroy(vocab);
    free(model);
    free(lines);
    return 0;
}

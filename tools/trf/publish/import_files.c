// trf import: the bytes of vocabularies of WordPiece and of byte-level BPE. See import_files.h.
// SPDX-License-Identifier: MIT

#include "import_files.h"

#include <string.h>

struct written { unsigned char *to; size_t n; };

static void write_bytes(struct written *w, const void *bytes, size_t n)
{
    if (w->to && n > 0) memcpy(w->to + w->n, bytes, n);
    w->n += n;
}

static void write_numbers(struct written *w, const int32_t *numbers, size_t n)
{
    unsigned char bytes[4];
    size_t i;
    int k;
    for (i = 0; i < n; i++) {
        for (k = 0; k < 4; k++) bytes[k] = (unsigned char)((uint32_t)numbers[i] >> 8 * k);
        write_bytes(w, bytes, 4);
    }
}

/* Texts, each with its NUL; in front of text i stands kinds[i], unless `kinds` is NULL. */
static void write_texts(struct written *w, const char *const *texts, const unsigned char *kinds,
                        int32_t n)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        if (kinds) write_bytes(w, kinds + i, 1);
        write_bytes(w, texts[i], strlen(texts[i]) + 1);
    }
}

size_t bytes_of_wordpiece(const struct wordpiece_file *f, unsigned char *to)
{
    struct written w = {to, 0};
    write_bytes(&w, "TRFWP\0\0\1", 8);
    write_numbers(&w, &f->flags, 1);
    write_numbers(&w, &f->longest_word, 1);
    write_numbers(&w, f->special, TRF_SPECIAL_COUNT);
    write_numbers(&w, &f->n_tokens, 1);
    write_numbers(&w, &f->n_rules, 1);
    write_numbers(&w, f->rules, 4 * (size_t)f->n_rules);
    write_numbers(&w, &f->n_replaced, 1);
    write_bytes(&w, f->replaced, (size_t)f->n_replaced);
    write_texts(&w, f->tokens, NULL, f->n_tokens);
    return w.n;
}

size_t bytes_of_byte_bpe(const struct byte_bpe_file *f, unsigned char *to)
{
    struct written w = {to, 0};
    int k;
    write_bytes(&w, "TRFBP\0\0\1", 8);
    write_numbers(&w, &f->flags, 1);
    write_numbers(&w, f->special, TRF_SPECIAL_COUNT);
    write_numbers(&w, &f->n_tokens, 1);
    write_numbers(&w, &f->n_ranges, 1);
    write_numbers(&w, &f->n_merges, 1);
    write_numbers(&w, f->ranges, 3 * (size_t)f->n_ranges);
    write_numbers(&w, f->merges, 2 * (size_t)f->n_merges);
    if (f->flags & BPE_NFC) {
        write_numbers(&w, f->n_composing, 3);
        for (k = 0; k < 3; k++) write_numbers(&w, f->composing[k], 3 * (size_t)f->n_composing[k]);
    }
    write_texts(&w, f->tokens, f->kinds, f->n_tokens);
    return w.n;
}

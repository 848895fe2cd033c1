// What files of WordPiece and of byte-level BPE say, which import writes and the library reads. Their format is in
// transformer.h: >>wordpiece, >>byte-bpe.
// SPDX-License-Identifier: MIT

#ifndef TRF_IMPORT_FILES_H
#define TRF_IMPORT_FILES_H

#include "transformer.h"

/* Flags of a WordPiece file. The first one is for decoding. The others tell the settings of BERT's
   tokenizer that the rules follow from; without WORDPIECE_SETTINGS the file does not tell. */
enum { WORDPIECE_CLEANUP = 1,                   /* decoding omits blanks before punctuation */
       WORDPIECE_SETTINGS = 2, WORDPIECE_CLEAN = 4, WORDPIECE_CHINESE = 8, WORDPIECE_STRIP = 16,
       WORDPIECE_LOWER = 32 };
struct wordpiece_file {
    int32_t flags;
    int32_t longest_word;               /* in characters: 1..1000; longer ones are unk */
    int32_t special[TRF_SPECIAL_COUNT]; /* ids, or -1 for none; unk must exist */
    const int32_t *rules;               /* (n_rules, 4) first, last, kind, argument */
    int32_t n_rules;
    int32_t n_replaced;
    const char *replaced;               /* (n_replaced) bytes: texts, a NUL after each */
    const char *const *tokens;          /* (n_tokens) UTF-8 */
    int32_t n_tokens;
};

/* Flags of a file of byte-level BPE, and kinds of its tokens. */
enum { BPE_LLAMA = 1,           /* Llama 3's rule */
       BPE_BLANK = 2,           /* a text gets a blank in front, if it has none */
       BPE_WHOLE = 4,           /* a word that is a token stays whole */
       BPE_NFC = 8,             /* texts are composed */
       BPE_ONE_NUMBER = 16 };   /* each number is a word */
enum { BPE_ORDINARY, BPE_ADDED, BPE_SPECIAL };
struct byte_bpe_file {
    int32_t flags;
    int32_t special[TRF_SPECIAL_COUNT]; /* ids, or -1 for none */
    const int32_t *ranges;              /* (n_ranges, 3) first, last, class */
    const int32_t *merges;              /* (n_merges, 2) ids; the first has the lowest rank */
    int32_t n_ranges, n_merges;
    /* with BPE_NFC: decompositions, compositions, ranges with a combining class */
    const int32_t *composing[3];        /* (n_composing of each, 3) */
    int32_t n_composing[3];
    const char *const *tokens;          /* (n_tokens) UTF-8 */
    const unsigned char *kinds;         /* (n_tokens) */
    int32_t n_tokens;
};

/* Write the bytes of a file and return their number. `to` NULL: they are counted only. */
size_t bytes_of_wordpiece(const struct wordpiece_file *f, unsigned char *to);
size_t bytes_of_byte_bpe(const struct byte_bpe_file *f, unsigned char *to);

#endif

// What the files of trf import share that read SentencePiece tokenizers.
// SPDX-License-Identifier: MIT

#ifndef TRF_IMPORT_SENTENCEPIECE_H
#define TRF_IMPORT_SENTENCEPIECE_H

#include "import.h"

/* Classes of tokenizers. */
enum { MARIAN, T5, LLAMA, M2M100, NLLB, MBART, MBART50, XLM_ROBERTA, CLASSES,
       OTHER = CLASSES,     /* of tokenizer.json alone */
       NO_CLASS };

/* A SentencePiece file and the texts of its pieces. */
struct pieces { char *path, *bytes, **text; size_t n_bytes, n, capacity; };

enum { NORMAL = 1, UNKNOWN = 2, USER = 4, UNUSED = 5, BYTE = 6 };       /* SentencePiece's types */
#define BLANK "\xE2\x96\x81"                /* U+2581 */
size_t first_bytes(const char *text);       /* of its first character */

/* import_pieces.c: the name of a class in tokenizer_config.json. */
const char *class_name_of(int is);
/* The class of a folder's files of SentencePiece, or NO_CLASS: there are none. */
int class_of_files(const struct published *p);
/* Moves to the next field of a message of protocol buffers. Returns its key, or 0 at the end and at
   a fault. *field and *length are the bytes of a field that has some; *length is the value of a
   number. */
uint64_t next_field(const unsigned char **at, const unsigned char *end,
                    const unsigned char **field, size_t *length);
/* Lists the tokens of fairseq that are no pieces, with the ids that they have beside n pieces: <s>
   <pad> </s> <unk>, then behind the pieces the languages of p->is, and <mask>. */
void list_fairseq(struct published *p, size_t n, struct table *more);

/* import_metaspace.c: whether tokenizer.json is of SentencePiece's kind. */
int is_metaspace(const cJSON *json);
/* Makes a SentencePiece file from it. more: the tokens that are no pieces. Their texts live as long
   as p->json. */
int read_metaspace(const struct published *p, struct pieces *pieces, int32_t **ids,
                   struct table *more);

/* import_languages.c: the codes of a class, with blanks between them. named: "language_codes" of
   tokenizer_config.json, which M2M-100 may have; or NULL. */
const char *codes_of(int is, const char *named);
char *next_code(const char **codes);        /* malloc'd; NULL after the last one */
char *tag_of(int class_of, const char *code);           /* the token of a code; malloc'd */
/* mBART's answers begin with the tag of their language instead of <s>: its id if the model has a
   fixed one, or -1. */
int32_t starts_with_tag(const struct published *p, const struct table *all);
/* Where a class has its tags, in the words of struct tags. */
struct tag_rule {
    int is;                     /* NO_CLASS: the end */
    int legacy;                 /* "legacy_behaviour" of NLLB's tokenizer_config.json */
    const char *source, *target;
};
extern const struct tag_rule tag_rules[];
/* The languages that are among the tokens, and the tags of the class. */
void find_languages(const struct published *p, const struct table *all, struct tags *tags);

#endif

// What trf import's files share.
// SPDX-License-Identifier: MIT

#ifndef TRF_IMPORT_H
#define TRF_IMPORT_H

#include "trf.h"

#if defined(TRF_WITH_CJSON)
#include <cjson/cJSON.h>

/* A parameter of ours, and the tensors of the other system that it consists of: their n_ids one
   below the other, with blanks between the names. A name that begins with '+' is a matrix whose
   first row is added to every row. "%d" stands for the number of a layer, in both. */
struct piece { const char *ours, *theirs; };

enum { MOST_PREFIXES = 3 };

/* A model_type of Hugging Face. */
struct recipe {
    const char *type;
    const char *prefixes[MOST_PREFIXES];        /* in front of all names or of none; or NULL */
    /* Sets the configuration from config.json and the special ids. Returns DONE, or FAILED after a
       message. */
    int (*configure)(const cJSON *json, const char *path, trf_config *config);
    const struct piece *pieces;                 /* ours NULL: the end */
    /* beginnings of names that are no weights, and of parts that trf does not build; then NULL */
    const char *const *buffers, *const *left_out;
};

extern const struct recipe recipes[];           /* type NULL: the end */

/* import_words.c: the vocabularies of a folder. vocab[1] stays NULL if one serves both sides. n_ids:
   how many the model has on each side; 0 for a side that it lacks. special: pad, bos, eos, unk,
   mask, cls, sep; -1 for none. */
enum { SPECIAL_PAD, SPECIAL_BOS, SPECIAL_EOS, SPECIAL_UNK, SPECIAL_MASK, SPECIAL_CLS, SPECIAL_SEP,
       SPECIALS };
int read_tokenizer(const char *folder, const int32_t n_ids[2], trf_vocab *vocab[2],
                   int32_t special[SPECIALS]);

/* import_pieces.c: the same for SentencePiece. *found 0: the folder has another tokenizer. */
int read_pieces(const char *folder, const int32_t n_ids[2], trf_vocab *vocab[2],
                int32_t special[SPECIALS], int *found);

/* import_json.c */
int is_file(const char *path);                          /* not a folder */
char *read_whole(const char *path, size_t *bytes);      /* ends with a NUL; NULL after a message */
cJSON *read_json_file(const char *path);                /* NULL after a message */
/* A whole number, or `missing`. INT32_MIN: none is allowed to be missing. Returns FAILED after a
   message. */
int json_int(const cJSON *json, const char *path, const char *name, int32_t missing, int32_t *to);
const char *json_text(const cJSON *json, const char *name);     /* or NULL */
int json_true(const cJSON *json, const char *name, int missing);
#endif

#endif

// What trf export's files share.
// SPDX-License-Identifier: MIT

#ifndef TRF_EXPORT_H
#define TRF_EXPORT_H

#include "import.h"


/* A model as a recipe has it. */
struct fit {
    const struct recipe *recipe;
    const struct headed *head;      /* class_name NULL: none */
    cJSON *json;                    /* its config.json */
    trf_config config;              /* as read from that */
    int faults;                     /* fields of the model that the recipe cannot have */
    char needs[160];                /* options of trf train that would make them fit */
};

/* export_config.c: writes the recipe's config.json for a configuration, and reads it as trf import
   does. fit->faults counts the fields that then differ; loud: a message for each. FAILED: trf
   import refuses that config.json. The caller frees it in either case: cJSON_Delete(fit->json). */
int fit_recipe(const struct recipe *recipe, const trf_config *c, struct fit *fit, int loud);

/* export_weights.c: a model with the fields of the fit that computes the same. */
int convert_model(const trf_model *from, const trf_config *to, trf_model **made);
/* Writes its tensors under the recipe's names. */
int write_weights(const struct fit *fit, const trf_model *model, const char *path);

/* export_files.c: files in a new folder, which becomes FOLDER when all are written. */
struct folder { const char *path; char *unfinished; };
int begin_folder(struct folder *f, const char *path, const char *model, int overwrite);
char *path_in(const struct folder *f, const char *name);        /* malloc'd */
int write_bytes(const struct folder *f, const char *name, const void *bytes, size_t n);
int write_json(const struct folder *f, const char *name, const cJSON *json);
int write_text(const struct folder *f, const char *name, const made_file *text);
int finish_folder(struct folder *f);
void drop_folder(struct folder *f);

/* export_languages.c: the languages of a model whose tokenizer puts their tags around texts. */
struct languages {
    const char *codes;              /* with blanks between them; NULL: it has no such tokenizer */
    int is;                         /* a class of import_sentencepiece.h */
    int legacy;                     /* NLLB: the tag of a source stands behind it */
    const char *named;              /* M2M-100: which list of codes */
    const char *source, *target;    /* --source-language, --target-language; or NULL */
    int32_t forced_first, start;    /* the tag of the target, where the class has it; or -1. Without
                                       languages forced_first is what all answers begin with */
    trf_ends ends;                  /* what answers end with, if there is more than EOS */
    int32_t bos;                    /* <s>, where the model's BOS is a tag; or -1 */
};
/* FAILED or USAGE after a message. */
int find_model_languages(const struct settings *s, const char *path, const trf_model *model,
                         struct languages *l);

/* The files of a tokenizer. */
struct vocabulary {
    const trf_vocab *vocab;
    unsigned char *bytes;           /* as model files store them */
    size_t n;
};
struct tokenizer {
    struct folder *folder;
    const trf_config *config;
    const struct recipe *recipe;
    const struct languages *languages;
    int32_t longest;                /* "model_max_length" */
    struct vocabulary side[2];      /* of source and target; vocab NULL: the model has no such side,
                                       or one vocabulary serves both */
};
/* export_tokenizer.c: `in` is "", or a folder within the folder with a slash. */
int write_tokenizer(const struct tokenizer *t);
/* export_levels.c, export_bpe.c, export_pieces.c */
int write_levels(const struct tokenizer *t, int side, const char *in);
int write_word_piece(const struct tokenizer *t, int side, const char *in);
int write_byte_bpe(const struct tokenizer *t, int side, const char *in);
int write_pieces(const struct tokenizer *t, int side, const char *in);
/* The map of ids that such a vocabulary stores (transformer.h, >>pieces-map). */
enum { SIZE_AT = 12, PIECES_AT = 44, MORE_AT = 48, TEXTS_AT = 52, IDS_AT = 56 };
struct map {
    int is;                     /* 0: the ids are those of transformer.h, 4 and on */
    int codes, numbered;        /* numbered: piece i has the id i */
    uint32_t pieces, more;
    const char *texts;          /* of the further tokens */
    const unsigned char *file;  /* of SentencePiece */
    size_t n_file;
};
struct map read_map(const struct vocabulary *v);
/* Tokens and their ids below `end`; the SentencePiece file; one token of
   "added_tokens_decoder". */
int write_ids(const struct tokenizer *t, const trf_vocab *vocab, const char *in, const char *name,
              int32_t end);
int write_spm(const struct tokenizer *t, const struct map *m, const char *in, const char *name);
cJSON *add_special_id(cJSON *all, int32_t id, const char *text);
/* export_languages.c: the tokenizer of a model with languages. export_metaspace.c: the same as
   tokenizer.json, for ids that have a token each; takes the settings. */
int write_languages(const struct tokenizer *t);
/* The same for XLM-R, which has no languages. *done 0: the ids are not its own. */
int write_xlm_roberta(const struct tokenizer *t, int *done);
void describe_mask(const struct tokenizer *t, cJSON *token);    /* as these classes have <mask> */
int write_metaspace(const struct tokenizer *t, const struct map *m, cJSON *settings);
/* export_parts.c: what the files of all kinds have. tokenizer.json with its special tokens; its
   template; tokenizer_config.json. */
cJSON *new_tokenizer(const trf_vocab *vocab);
cJSON *empty_tokenizer(void);               /* without the special tokens */
cJSON *add_token(cJSON *json, int32_t id, const char *text, int special);
void add_template(const struct tokenizer *t, int side, cJSON *json);
/* An object with a "type". It replaces a member of this name. */
cJSON *new_part(cJSON *json, const char *name, const char *type);
/* A model of BPE. unknown: the unknown token or NULL; fuse: a run of them is one; bytes: characters
   without tokens are bytes; whole: words that are tokens stay. */
cJSON *new_bpe(cJSON *json, const char *unknown, int fuse, int bytes, int whole);
cJSON *new_settings(const struct tokenizer *t, int side, const char *class_name);
/* Takes both; json may be NULL. */
int write_both(const struct tokenizer *t, const char *in, cJSON *json, cJSON *settings);
uint32_t u32_at(const struct vocabulary *v, size_t at);

#endif

// What trf import's files share.
// SPDX-License-Identifier: MIT

#ifndef TRF_IMPORT_H
#define TRF_IMPORT_H

#include "import_files.h"
#include "base/base.h"

#include <cjson/cJSON.h>

/* A parameter of ours, and the tensors of the other system that it consists of: their rows one
   below the other, with blanks between the names. "%d" stands for the number of a layer, in both.
   '|' separates ways to write it: import takes the first one that is there, export writes the first
   one or the last one (way_to_write). A piece that begins with '?' may be missing: then the
   parameter is 0. In front of a name '^' means transposed, '-' a matrix of one row, and '/' that it
   has no prefix. */
struct piece { const char *ours, *theirs; };
#define WEIGHT_AND_BIAS(ours, theirs) \
    {ours ".weight", theirs ".weight"}, {ours ".bias", theirs ".bias"}
/* In place of a parameter: the table of sines of TRF_POSITIONS_HALVES, which import computes.
   Marian and Pegasus have it in their files. */
#define PIECE_OF_SINES "sines"

/* A member of config.json that is a field of trf_config: import reads it, export writes it. */
enum member_kind {
    MEMBER_INT, MEMBER_AGAIN,       /* AGAIN: must be the number of the member before it */
    MEMBER_REAL, MEMBER_BOOL, MEMBER_ACTIVATION
};
struct member {
    const char *name;               /* NULL: the end */
    enum member_kind kind;
    size_t field;                   /* offset in trf_config */
    double missing;                 /* the value of a member that is not there; or NEEDED */
};
#define NEEDED (-1e300)
#define FIELD(name) offsetof(trf_config, name)

enum { MOST_PREFIXES = 3, MOST_NAME = 512 };

/* A model of a type by its class (the first of "architectures"), and the pieces of its head. */
struct headed {
    const char *class_name;     /* NULL: the end; such a model has no head */
    trf_head head;
    int layer;                  /* head_layer */
    int sequence_labels;
    const struct piece *pieces;
    int gelu;                   /* 1: its layer has the exact GELU, whatever "hidden_act" says */
};

/* A model_type of Hugging Face. */
struct recipe {
    /* class_name: of a model without a head; NULL: transformers has none, so it is not exported */
    const char *type, *class_name;
    const char *usual;                          /* an object of JSON: what transformers
                                                   takes for missing members */
    trf_kind kind;
    const char *prefixes[MOST_PREFIXES];        /* in front of all names or of none; or NULL */
    const struct member *members;
    /* Sets what the kind and the members do not say: constants, and fields that follow from several
       members. Returns DONE, or FAILED after a message. */
    int (*configure)(const cJSON *json, const char *path, trf_config *config);
    /* The way back: members of config.json beside `members`. They need not fit: export reads its
       config.json again and compares. NULL: there are none. */
    void (*describe)(const trf_config *config, cJSON *json);
    const struct piece *pieces;                 /* ours NULL: the end */
    const struct headed *heads;
    /* beginnings of names that are no weights, and of parts that trf does not build; then NULL.
       "%d" stands for a number, '/' for a name without prefix */
    const char *const *buffers, *const *left_out;
    /* names of tensors that repeat an embedding */
    const char *const *copies;
};

extern const struct recipe recipes[];           /* type NULL: the end */
/* The fields of a configuration: kind, members, what the recipe sets. FAILED after a message. */
int read_config(const struct recipe *recipe, const cJSON *json, const char *path, trf_config *c);
/* Adds the members that are missing, and tells them. */
void add_usual(const struct recipe *recipe, cJSON *json, const char *path);
/* config.json of a configuration, as far as the recipe says it. */
void write_config(const struct recipe *recipe, const trf_config *c, cJSON *json);
/* Sets a member, which may be there. */
void set_number(cJSON *json, const char *name, double x);
void set_bool(cJSON *json, const char *name, int is);
void set_text(cJSON *json, const char *name, const char *text);     /* NULL: null */
/* import.c: how many of the rows part `index` of n has: queries, keys and values, or halves of a
   gate. */
int64_t rows_of_part(const trf_config *c, int64_t whole, int index, int n);
/* A name with every "%d" replaced by the number of a layer. */
void name_layer(char to[], const char *from, int layer);

/* import_seq2seq.c, import_decoders.c */
#define RECIPE_OF(name) \
    int configure_##name(const cJSON *json, const char *path, trf_config *c); \
    void describe_##name(const trf_config *c, cJSON *json)
RECIPE_OF(marian);
RECIPE_OF(t5);
RECIPE_OF(gpt2);
RECIPE_OF(llama);
RECIPE_OF(mistral);
RECIPE_OF(qwen2);
int configure_marian_nmt(const cJSON *json, const char *path, trf_config *c);
int configure_pegasus(const cJSON *json, const char *path, trf_config *c);
int configure_bart(const cJSON *json, const char *path, trf_config *c);
int configure_mbart(const cJSON *json, const char *path, trf_config *c);
int configure_m2m(const cJSON *json, const char *path, trf_config *c);
extern const struct member bart_members[], t5_members[], gpt2_members[], llama_members[];
extern const struct piece bart_pieces[], t5_pieces[], gpt2_pieces[], llama_pieces[];

/* import_words.c: the vocabularies of a folder. vocab[1] stays NULL if one serves both sides.
   n_ids: how many the model has on each side; 0 for a side that it lacks. special: pad, bos, eos,
   unk, mask, cls, sep; -1 for none. */
enum { SPECIAL_PAD, SPECIAL_BOS, SPECIAL_EOS, SPECIAL_UNK, SPECIAL_MASK, SPECIAL_CLS, SPECIAL_SEP,
       SPECIALS };
enum { AROUND_NONE = -1, AROUND_USUAL = -2 };
/* What the options --source-language and --target-language mean, and what stands around a text. */
struct tags {
    int32_t start;                  /* "decoder_start_token_id" of config.json, or -1 */
    int32_t bos;                    /* "bos_token_id" of a decoder without encoder, or -1 */
    int32_t first, forced;          /* the same for `generate`, and "forced_bos_token_id", or -1 */
    int no_bos;                     /* 1: Marian's tokenizer, which begins no text with BOS */
    int prompts;                    /* 1: the model is a decoder without encoder */
    int32_t around[2];              /* the ids that the tokenizer puts before and behind a text,
                                       AROUND_NONE, or AROUND_USUAL: those of the recipe */
    char *languages;                /* malloc'd: codes with blanks between them; NULL: no tags */
    size_t n, capacity;             /* their bytes */
    const char *source, *target;    /* an option and a token, with '*' for the code; or NULL */
    char *code[2];                  /* malloc'd: the languages that the folder names; or NULL */
};
/* type, class_name: "model_type" and "tokenizer_class" of config.json, or NULL */
int read_tokenizer(const char *folder, const char *type, const char *class_name,
                   const int32_t n_ids[2], trf_vocab *vocab[2], int32_t special[SPECIALS],
                   struct tags *tags);
/* Their names in tokenizer_config.json. */
extern const char *const special_names[SPECIALS];

/* A folder whose tokenizer is read. */
struct published {
    const char *folder, *type;  /* as above */
    const int32_t *n_ids;
    struct tags *tags;
    cJSON *config;              /* tokenizer_config.json with special_tokens_map.json, or NULL */
    cJSON *whole, *json;        /* tokenizer.json, or NULL. json: unless SentencePiece's files go
                                   before it */
    const char *class_name;     /* of the tokenizer, without "Fast"; "": it has no own rules */
    char *config_path, *json_path;
    int is;                     /* one of the classes of import_sentencepiece.h */
    char **made;                /* texts of tokens that no file has */
    size_t n_made, made_capacity;
};

/* import_class.c: finds the class of the tokenizer; of_model: "tokenizer_class" of config.json, or
   NULL. */
void name_class(struct published *p, const char *of_model);
int has_class(const struct published *p, const char *names);    /* with blanks between them */
int take_special_map(struct published *p);
/* A setting of the class in tokenizer_config.json. Tells it if tokenizer.json has another one,
   which is `other`, or -1: do not tell; where: its name there. */
int config_true(const struct published *p, const char *name, int missing, const char *where,
                int other);
/* Sets tags->around by tokenizer.json; without it, that of prompts by the flags of
   tokenizer_config.json. pieces: the tokens are those of SentencePiece, whose prompts begin with
   BOS unless a flag says otherwise, as in transformers 4. */
int find_around(struct published *p);
void find_flagged(const struct published *p, int pieces, const int32_t special[SPECIALS]);

/* import_json.c: keeps a text until the end. */
const char *made_text(struct published *p, char *text);
void free_made(struct published *p);
/* Tells that n tokens are left out; that n added tokens are not special, and what they are here. */
void tell_rowless(const char *path, const char *first, size_t n);
void tell_ordinary(const char *path, size_t n, const char *what);
/* The part that a Sequence of one part has in a list, NULL for one of none; other parts as they
   are. */
const cJSON *only_part(const cJSON *part, const char *list);

/* import_json.c: texts with their ids. Sorted, it is looked up. */
struct entry { const char *text; int32_t id; int used; };
struct table { struct entry *entry; size_t n, capacity; };
void enter_text(struct table *t, const char *text, int32_t id);
void sort_texts(struct table *t);
int sort_unique(struct table *t, const char *path);     /* FAILED after a message: a text twice */
struct entry *find_text(const struct table *t, const char *text);      /* NULL: there is none */

/* Texts by their ids; NULL: no token has the id. */
struct places { const char **text; size_t n, capacity; };
/* FAILED after a message: it is no id, or that of another text. */
int place_text(struct places *t, const char *path, double id, const char *text);
int check_places(const struct places *t, const char *path);     /* the same: an id without a text */


/* import_wordpiece.c: makes a vocabulary; its rules follow from the flags, which tell BERT's
   settings. */
trf_status make_word_piece(trf_vocab **vocab, struct wordpiece_file *file, trf_error *err);
/* The flags of a vocabulary's stored bytes. Bytes without WORDPIECE_SETTINGS are older: the
   settings are found that have the same rules. FAILED: none have. */
int find_word_piece(const unsigned char *bytes, int32_t *flags);

/* import_levels.c: the same as read_tokenizer for WordLevel with the tokens of trf: words between
   these blanks, or characters. */
#define LEVEL_BLANKS "[ \\t\\r\\n]+"
#define LEVEL_CHARACTER "[\\s\\S]"
/* The folder, within a model's folder, of a second tokenizer. */
#define TARGET_FOLDER "target_tokenizer"
int read_levels(const struct published *p, trf_vocab *vocab[2], int32_t special[SPECIALS]);

/* import_pieces.c: the same for SentencePiece. */
int read_pieces(struct published *p, trf_vocab *vocab[2], int32_t special[SPECIALS]);

/* import_languages.c: stores the tags in the model's metadata. */
int set_tags(trf_model *model, const struct tags *tags);
void free_tags(struct tags *tags);

/* How GPT-2 and Llama 3 cut texts (import_bpe.c). */
extern const char gpt2_rule[], llama_rule[], qwen_rule[];
/* import_bpe.c: the same for byte-level BPE, from tokenizer.json or the two files. */
int has_bpe_files(const struct published *p);
int read_byte_bpe(struct published *p, trf_vocab **vocab, int32_t special[SPECIALS]);

/* import_weights.c: the tensors of one or several files. Calls that return an int print a message
   when they return FAILED. */
struct tensors {
    trf_file *safetensors;          /* or */
    struct pytorch *pytorch;
    char *path, *used;              /* used: 1 for each tensor that a recipe knows */
    struct table names;             /* of safetensors, sorted */
    int32_t n;                      /* number of tensors */
};
struct weights { struct tensors *file; size_t n, capacity; };
/* file NULL: those of the folder. */
int open_weights(struct weights *w, const char *folder, const char *file);
void close_weights(struct weights *w);
trf_file_entry tensor_at(const struct tensors *file, int32_t index);   /* without its place */
/* The first `count` numbers. */
int read_tensor(struct tensors *file, int32_t index, trf_real *to, int64_t count);
/* The file and the index of a tensor, or NULL. Old models of BERT call the numbers of a norm gamma
   and beta. */
struct tensors *find_tensor(const struct weights *w, const char *prefix, const char *name,
                            int32_t *index);

/* import_pytorch.c: the tensors of a file of torch.save. Close it after a failure too. */
int open_pytorch(struct pytorch **out, const char *path);
void close_pytorch(struct pytorch *f);
int32_t count_pytorch(const struct pytorch *f);
trf_file_entry pytorch_at(const struct pytorch *f, int32_t index);
int32_t find_pytorch(const struct pytorch *f, const char *name);        /* or -1 */
int read_pytorch(struct pytorch *f, int32_t index, trf_real *to, int64_t count);

/* import_pickle.c: a machine for pickles that runs nothing, and what is left on its stack. Calls
   that return an int, but not pickle_is_..., print a message when they return FAILED. */
enum { TORCH_RANK = 8 };
struct torch_tensor {
    char *name, *key;               /* key: of its storage */
    const char *dtype;              /* as in safetensors: "F32", ... */
    int bytes, rank;                /* bytes: of a number */
    int64_t shape[TORCH_RANK], stride[TORCH_RANK];
    int64_t count;                  /* numbers of the tensor */
    int64_t offset, last;           /* its first and last number, counted in the storage */
    int64_t numbers;                /* of the storage */
    uint64_t place;                 /* where the storage is; for the reader of the file */
    uint32_t key_at, key_bytes;     /* bytes of the pickle */
};
struct torch_storage { char *key; int bytes; int64_t numbers; uint64_t place; };
struct pickle {
    const char *where;              /* for messages: they go on with ", byte 12: ..." */
    int64_t (*more)(void *from, void *to, size_t n);    /* bytes; 0: the end; -1: after a message */
    void *from;
    unsigned char *bytes;           /* n of them so far; `at` is the next one */
    size_t n, capacity, at;
    size_t opcode_at;
    const char *opcode;
    struct value *values;
    size_t n_values, values_capacity;
    struct cell *cells;             /* items of containers */
    size_t n_cells, cells_capacity;
    uint32_t *stack, *memo;         /* numbers of values */
    size_t n_stack, stack_capacity, n_memo, memo_capacity;
    size_t *marks;                  /* heights of the stack */
    size_t n_marks, marks_capacity;
    struct torch_tensor *built;
    size_t n_built, built_capacity;
    int stopped;
};
int run_pickle(struct pickle *p);   /* one pickle; the next call runs the one after it */
void free_pickle(struct pickle *p);
/* The value of the pickle that was run last. */
int pickle_is_number(const struct pickle *p, int64_t x);
int pickle_is_large(const struct pickle *p, const void *bytes, size_t n);
/* Their names and keys are malloc'd, also after a failure. */
int pickle_tensors(struct pickle *p, struct torch_tensor **tensors, size_t *n);
int pickle_texts(struct pickle *p, char ***texts, size_t *n);   /* of a list; malloc'd */
/* The storages of all pickles so far, as often as they are named. */
int pickle_storages(struct pickle *p, struct torch_storage **storages, size_t *n);
/* import_generation.c: tells with which options trf answers as `generate` does by these rules, and
   what is left out. generation: generation_config.json; NULL: config.json has the rules. vocab:
   that of answers. */
void tell_generation(const cJSON *generation, const cJSON *json, const trf_config *config,
                     const trf_vocab *vocab);

/* import_labels.c: the labels of "id2label", sorted as ours are (numbers keep their order); order[i]
   is the number that label i has there. Both are the caller's to free. FAILED after a message. */
int read_labels(const cJSON *json, const char *path, trf_label_kind kind, struct labels *labels,
                int32_t **order);
int32_t count_their_labels(const cJSON *json);
/* The rows of a head in the order of the labels, and the labels in the model's metadata. */
int set_labels(trf_model *model, const struct labels *labels, const int32_t *order);

/* import_sentences.c: what the folder of a sentence encoder says. */
#define POOLING_FOLDER "1_Pooling"
/* A pooling: its flag and its word in the configuration there, and its name here. */
struct pooling { const char *flag, *word, *name; };
enum { POOLINGS = 3 };
extern const struct pooling poolings[POOLINGS];
struct sentences {
    const char *pooling;        /* "mean", "first" or "max"; NULL: the folder names none of them */
    int raw;                    /* 1: vectors keep their lengths */
    int32_t longest;            /* ids of a text, BOS and EOS included; 0: as many as positions */
    char *prompt;               /* malloc'd: stands before every text; or NULL */
};
/* model: the folder of the transformer, in `folder` or the same. */
int read_sentences(const char *folder, const char *model, struct sentences *to);
int set_sentences(trf_model *model, const struct sentences *s);

/* Says why, and fails. */
#define refuse(...) (say(__VA_ARGS__), FAILED)
#define refuse_error(doing, err) (say_error(doing, err), FAILED)

/* import_json.c */
int is_file(const char *path);                          /* not a folder */
char *read_whole(const char *path, size_t *bytes);      /* ends with a NUL; NULL after a message */
/* Refuses the text that git-lfs puts in place of a large file. */
int check_pointer(const char *path, const void *begin, size_t n);
cJSON *read_json_file(const char *path);                /* an object; NULL after a message */
cJSON *read_json_list(const char *path);                /* the same for a list */
/* An object, if the file is there; FAILED after a message. */
int read_if_there(const char *folder, const char *name, cJSON **json);
int has_file(const char *folder, const char *name);
char *cut_line(char **text);           /* ends it with a NUL; NULL after the last one */
/* The text of a token: a text, or an object with its "content"; or NULL. */
const char *token_text(const cJSON *value);
/* A whole number, or `missing`. INT32_MIN: none is allowed to be missing. Returns FAILED after a
   message. */
int json_int(const cJSON *json, const char *path, const char *name, int32_t missing, int32_t *to);
const char *json_text(const cJSON *json, const char *name);     /* or NULL */
/* The same for a number; `missing` NAN: none is allowed to be missing. */
int json_real(const cJSON *json, const char *path, const char *name, double missing, double *to);
int json_true(const cJSON *json, const char *name, int missing);
int has_type(const cJSON *part, const char *type);      /* whether that is its "type" */
enum { MOST_IDS = 1 << 24 };
/* Fails with a message unless the id of a token is a whole number from 0 to MOST_IDS - 1. */
int check_id(const char *path, const char *token, double id);
int same_id(const char *path, const char *a, const char *b, size_t id);     /* reports it: FAILED */

/* import_json.c: a file that is made in memory, from which the library makes a vocabulary */
typedef struct made_file { unsigned char *bytes; size_t n, capacity; } made_file;
void put_bytes(made_file *to, const void *from, size_t n);
void put_u32(made_file *to, uint32_t x);             /* little-endian */
uint32_t get_u32(const unsigned char *from);
/* An activation by its name in Hugging Face; FAILED without a message. */
int activation_of(const char *name, trf_activation *to);
const char *activation_name(trf_activation activation);
/* The same of a member of config.json; FAILED after a message. */
int find_activation(const cJSON *json, const char *path, const char *member, trf_activation *to);

#endif

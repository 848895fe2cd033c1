// trf: the command line of transformer.h. What its files share.
// SPDX-License-Identifier: MIT
// The rooms and their files: tools/trf/README.md.
// BLEU, chrF and error rates are a library of their own: tools/metrics.

#ifndef TRF_TOOL_H
#define TRF_TOOL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE     /* getline, getopt_long, strchrnul, fileno, clock_gettime, sigaction */
#endif
#include <sys/types.h>

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library's implementation does the same. */
#if !defined(TRF_NO_CBLAS) && !defined(TRF_CBLAS_HEADER) && defined(__has_include)
#if !__has_include(<cblas.h>)
#define TRF_NO_CBLAS
#endif
#endif
/* OpenBLAS is loaded at the first large product: openblas.c has what the library calls.
   TRF_LINKED_CBLAS: the program is linked with OpenBLAS or another CBLAS library instead. */
#if !defined(TRF_NO_CBLAS) && !defined(TRF_CBLAS_HEADER) && !defined(TRF_LINKED_CBLAS) && \
    !defined(TRF_NO_THREADS) && !defined(TRF_DOUBLE) && !defined(__APPLE__)
#define LOADS_OPENBLAS 1
/* 0: it cannot be loaded, and `reason` says why; else it stays loaded, and reason is NULL. */
int loads_openblas(const char **reason);
#endif

#include "transformer.h"

// -----------------------------------------------------------------------------------------------
// Messages, memory, text (text.c)
//
// Every message begins with the command: "trf train: corpus.de:17: ...". A message about a line of
// input has its file and number. Standard output has results only.
// -----------------------------------------------------------------------------------------------

enum { DONE = 0, FAILED = 1, USAGE = 2, SIGNALLED = 128 };      /* exit statuses */

extern const char *program;     /* "trf train" once the command is known */
extern int unfinished_line;     /* 1: the terminal shows a line of progress without its end */
extern int quiet;               /* 1: standard error gets warnings and errors only */
extern FILE *message_file;      /* where warnings and errors go; NULL: standard error */

/* A warning or an error. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A notice: without the name of the command; --quiet suppresses it. */
void inform_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A part of a notice. It may contain nothing of the user's but numbers. */
void inform(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The message of a failed library call. doing NULL: the message begins with the path of a file. */
void say_error(const char *doing, const trf_error *err);
/* The log hook of the library: prints its warnings. The same warning twice in a row is printed
   once. */
void log_warning(void *user, int level, const char *message);

/* Room for `needed` items. Ends the program if there is no memory: files are renamed when they are
   complete, so none is left half written. */
void *grow(void *items, size_t *capacity, size_t needed, size_t item_bytes);
void *zeroed(size_t count, size_t item_bytes);  /* a fixed number of items, all zero */

char *folder_of(const char *path);              /* "a/b" -> "a/", "b" -> "."; malloc'd */
const char *name_of(const char *path);          /* "a/b" -> "b" */
int ends_with(const char *text, const char *end);
const char *plural(int64_t n);                  /* "s", or "" if n is 1 */
char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* malloc'd */
double now(void);
double megabytes(void);                         /* most memory that the process had so far */
void time_text(double seconds, char text[32]);  /* "2h05m", "3m09s", "12s" */

/* The bytes of the UTF-8 character at text, and its code point. 0: there is none. */
size_t character_of(const char *text, size_t left, uint32_t *c);
size_t write_character(char *to, uint32_t c);   /* its bytes, at most 4, without a NUL */
/* At most `limit` bytes of a text of unknown origin, without anything that controls a terminal. */
void print_clean(FILE *file, const char *text, size_t limit);
void print_json_text(FILE *file, const char *text, size_t bytes);   /* quoted; bad UTF-8: U+FFFD */
void print_json_member(FILE *file, const char *name, const char *text);    /* ,"name":"text" */
void print_json_number(FILE *file, double x);                       /* not finite: null */
void print_json_field(FILE *file, const char *name, double x);      /* ,"name":x */
void print_json_list(FILE *file, const char *name, const double *x, int32_t n);  /* ,"name":[x] */

// -----------------------------------------------------------------------------------------------
// Settings: everything that can be set (settings.c, options.c)
//
// The structs of the library are in here as they are; options write straight into their fields.
// -----------------------------------------------------------------------------------------------

enum { MAX_OPTIONS = 384, MAX_TEXTS = 64 };

/* What a token is. TOKENS_AUTO is decided from the text (recipe.c). */
enum tokens {
    TOKENS_AUTO = 0, TOKENS_WORDS, TOKENS_CHARACTERS, TOKENS_UNIGRAM, TOKENS_BPE,
    TOKENS_SENTENCEPIECE
};

/* What subwords that are learned do to the text first (subwords.c). */
enum normalization { NORMALIZE_AUTO = 0, NORMALIZE_IDENTITY, NORMALIZE_NFC, NORMALIZE_NFKC };

enum metric {
    METRIC_AUTO = 0, METRIC_LOSS, METRIC_BLEU, METRIC_CHRF, METRIC_EXACT, METRIC_WER, METRIC_CER,
    METRIC_ACCURACY, METRIC_F1, METRIC_PEARSON, METRIC_SPEARMAN
};

/* What a model learns (objective.c). */
enum objective {
    OBJECTIVE_TRANSLATE = 0, OBJECTIVE_CAUSAL, OBJECTIVE_CLASSIFY, OBJECTIVE_TAG, OBJECTIVE_MASK,
    OBJECTIVE_SPAN, OBJECTIVE_PRETRAIN
};
enum { DOCUMENTS_LINES = 0, DOCUMENTS_FILE };

/* Of an option --attention: alone, it is the mean of the heads of the last layer. */
enum { NO_ATTENTION = 0, ATTENTION_MEAN, ATTENTION_ALL };
enum map_kind { MAP_AUTO = 0, MAP_CROSS, MAP_ENCODER, MAP_DECODER };
enum on_unknown { UNKNOWN_COUNT = 0, UNKNOWN_REPORT, UNKNOWN_COPY, UNKNOWN_DROP };
enum { RECIPE_AUTO = 0, RECIPE_PAPER };
enum { SIZE_AUTO = 0, SIZE_TINY, SIZE_SMALL, SIZE_BASE, SIZE_BIG };

/* The values of an option that may be given several times. */
struct texts { const char *item[MAX_TEXTS]; int n; };

/* The options of trf train and trf prepare, and of what trf inspect plans: the data, their tokens,
   how long to learn. */
struct train_settings {
    const char *next_sentences;     /* a text to make pairs of; or NULL */
    const char *valid_source, *valid_target, *valid_tsv;
    const char *text, *valid_text;                              /* data that are no pairs */
    const char *test_source, *test_target, *test_tsv, *test_text;       /* of trf doctor */
    struct texts more_tsv, more_text, more_source, more_target; /* --tsv and so on given again */
    const char *token_file;         /* what trf prepare wrote, instead of text; or NULL */
    int64_t valid_size;
    int64_t hold_out;               /* trf prepare: of so many pairs one; 0: none */
    int32_t strict, allow_left_out, keep_empty, documents, pack, chunk;
    const char *init_from, *vocab_from, *checkpoint, *log;
    int32_t extend_vocabulary;
    struct texts freeze, teachers;
    double teacher_share;

    int32_t tokens, source_tokens, target_tokens;               /* enum tokens */
    const char *sentencepiece, *source_sentencepiece, *target_sentencepiece;
    int32_t vocab_size, source_vocab_size, target_vocab_size, joint_vocabulary;
    int64_t min_count;
    int32_t normalization;                                      /* enum normalization */
    int32_t subword_samples;
    double subword_alpha;

    int32_t recipe, effort, size, conventions;                          /* presets: numbers of choices */
    double dropout;
    int64_t updates, checkpoint_every, valid_every, log_every;
    double minutes, ema, cooldown;
    int32_t patience, metric, valid_beam, keep_models, average, average_of, seeds;
    int32_t accumulate, reduce;                                 /* reduce: 1: fast */
};

/* What several of the commands have that answer lines: translate, generate, classify, tag, embed,
   score. */
struct answer_settings {
    int32_t unknown;                                            /* enum on_unknown */
    int32_t search_rule;                                        /* a preset */
    int32_t ids, side;              /* of tokenize and detokenize */
    int32_t interactive, scores, token_scores, alignments, attention, truncate, split,
        conll;
    int64_t labels_shown;           /* or lines, of trf rerank */
    const char *prefixes, *sentences, *queries;
};

/* Tokens that a search must, or must not, write (rules.c). */
struct rule_settings {
    const char *start, *forced_first, *source_first, *source_last, *ban_file;
    const char *phrase_file, *glossary;
    struct texts bans, phrases, ends, keeps;
};

struct generate_settings {
    const char *prompt;
    int32_t count, special, batch_sentences;
    struct texts stops;
};
struct embed_settings { int32_t unit_vectors, top; const char *query, *index; };

struct eval_settings {
    const char *metrics;
    int32_t tokenize, lowercase, alternatives, worst, by_length;
    struct texts references;
};

/* trf average, quantize, import, export. */
struct publish_settings {
    int32_t weights;                /* a trf_weights */
    int32_t packed;                 /* 1: a packed file */
    const char *as;                 /* a model_type, or NULL */
    int32_t max_length;             /* 0: as config.json says */
};

struct inspect_settings {
    int32_t shape, source_length, target_length, labels, trace, translate_batch;
};

struct attend_settings {
    const char *source_text, *target_text, *layer, *head;
    int32_t map_kind;               /* enum map_kind */
};

struct plot_settings { const char *only; int32_t csv; };
struct report_settings { const char *data; int32_t worst; };

/* The options of a command: those of the library, those that several commands have, and its own. */
struct settings {
    trf_config config;
    trf_train_options training;
    trf_corpus_options corpus;
    trf_search search;
    trf_noise_options noise;
    trf_sampling sampling;
    trf_device device;

    const char *source, *target, *tsv, *columns;                /* pairs */
    const char *source_language, *target_language;
    const char *model, *input, *output;
    int model_is_argument;          /* no option --model named it */
    struct texts with;              /* models that answer together with it */
    const char *ensemble_weights;   /* "2,1", or NULL */
    uint64_t seed;
    int64_t max_line_bytes;
    int32_t objective, pooling, buffer, json, resume, overwrite, quiet;
    int32_t kept;               /* how weights of products are kept: as they are, bf16, int8 */

    struct train_settings train;
    struct answer_settings answer;
    struct rule_settings rules;
    struct generate_settings generate;
    struct embed_settings embed;
    struct eval_settings eval;
    struct publish_settings publish;
    struct inspect_settings inspect;
    struct attend_settings attend;
    struct plot_settings plot;
    struct report_settings report;

    void (*say_export)(const trf_config *);     /* main.c lends it from publish/ to train/ */
    const char *given[MAX_OPTIONS];     /* by row of the table: the text that was given, or NULL */
};

enum {
    TRAIN = 1, TRANSLATE = 2, SCORE = 4, EVAL = 8, INSPECT = 16, AVERAGE = 32, PLOT = 64,
    GENERATE = 128, CLASSIFY = 256, TAG = 512, ATTENTION = 1024, REPORT = 2048,
    QUANTIZE = 4096, EMBED = 8192, IMPORT = 16384, EXPORT = 32768, PREPARE = 65536,
    RERANK = 1 << 21,
    RUN = TRAIN | TRANSLATE | SCORE | GENERATE | CLASSIFY | TAG | REPORT | EMBED | RERANK,
    TOKENIZE = 1 << 18, DETOKENIZE = 1 << 19, DOCTOR = 1 << 20,
    FROM_DATA = 1 << 17         /* without the option the value follows from the data */
};

enum kind {
    HEADING,        /* no option: a title in the help text */
    TEXT,           /* const char * */
    TEXTS,          /* struct texts */
    FLAG,           /* int32_t; given: 1 */
    MAYBE,          /* int32_t; given alone: 1; an argument lists the values 1, 2, ... */
    SWITCH,         /* int32_t; no or yes */
    CHOICE,         /* int32_t or an enum; the argument lists the values 0, 1, ... */
    NUMBER,         /* int32_t, not negative */
    COUNT,          /* int32_t, at least 1 */
    LONG_NUMBER,    /* int64_t, not negative */
    LONG_COUNT,     /* int64_t, at least 1 */
    SEED,           /* uint64_t */
    DEVICE,         /* trf_device: its kind and index */
    REAL            /* double */
};

struct row {
    int commands;
    enum kind kind;
    const char *name;
    size_t offset;
    const char *argument;
    const char *help;
    void (*then)(struct settings *s);
};

#define AT(field) offsetof(struct settings, field)

extern const struct row rows[];
extern const int n_rows;

struct command {
    int bit;
    const char *name, *summary, *usage, *text, *after;
    const char *often;      /* options that --help shows, between blanks; NULL: it shows all */
};

extern const struct command commands[];         /* commands.c */
extern const int n_commands;

void set_defaults(struct settings *s);
void default_text(const struct row *row, char *text, size_t size);     /* " (default 128)", or "" */
/* Writes the current value of a row as a user would type it. Empty: it is not set. */
void value_text(const struct row *row, const struct settings *s, char *text, size_t size);
/* The number of the choice `text` in "a|b|c", or -1. */
int choice_number(const char *choices, const char *text);
#define VECTORS_OF "mean|first|max"         /* trf_pooling */
int set_value(const struct row *row, struct settings *s, const char *text);
int apply_given(struct settings *s);    /* applies the given options in the order of the table */
/* An option is known by the field that it writes: is_given(s, AT(config.d_model)). A misspelt field
   does not compile; one that no option writes ends the program (tests/test_trf_options.sh finds it
   in the source). */
int is_given(const struct settings *s, size_t field);
const char *text_given(const struct settings *s, size_t field);      /* as it was typed, or NULL */
const char *option_name(size_t field);                              /* without its dashes */
int row_writes(const struct row *row, size_t field);
int set_given_architecture(struct settings *s);     /* applies the given options of s->config */
int shares_embedding(const trf_config *config);     /* both sides have one embedding */
/* Whether the row writes a field of that member of the settings. */
int row_within(const struct row *row, size_t member, size_t bytes);
/* The options of trf train in that member: numbers and choices, one a line; as a JSON object also
   files of data and switches. */
void print_options(FILE *file, const struct settings *s, size_t member, size_t bytes);
void print_json_options(FILE *file, const struct settings *s, size_t member, size_t bytes);
int distance(const char *a, const char *b);     /* Levenshtein's, for "did you mean" */
/* Fills s from argv. Returns -1 to run the command, or the exit status. */
int parse_command_line(const struct command *command, struct settings *s, int argc, char **argv);

// -----------------------------------------------------------------------------------------------
// Text that must survive a translation (keep.c)
// -----------------------------------------------------------------------------------------------

/* A regular expression, and its next match in the text at hand. */
struct pattern { regex_t regex; size_t begin, end; };
struct patterns { struct pattern *item; size_t capacity; int n; };

extern const char keep_key[], symbols_key[];    /* metadata of models: a pattern, a text a line */
/* Adds a regular expression or a name (printf, html, ...). where: the option, or a file's name. */
int add_pattern(struct patterns *p, const char *where, const char *text);
int add_patterns(struct patterns *p, const char *where, const char *lines);     /* NULL: none */
/* The first match of any pattern in a text from `from` on, the longest if several begin there.
   Returns 0 if there is none. A text is begun with from 0; then from does not become smaller. */
int next_match(struct patterns *p, const char *text, size_t from, size_t *begin, size_t *end);
void free_patterns(struct patterns *p);
char *joined_texts(const char *const *item, int n);     /* one a line; malloc'd */

// -----------------------------------------------------------------------------------------------
// Lines, pairs of lines (lines.c)
//
// A line ends with LF or CR LF; the last one may lack it. A line that is no sentence or no pair (a
// NUL byte, not UTF-8, no tab) comes with a `fault`.
// -----------------------------------------------------------------------------------------------

#define BLANKS " \t\r\n"     /* the library's separators of words */

struct reader {
    FILE *file;
    const char *name;
    char *line;
    size_t capacity, length;
    int64_t number;         /* of the current line, from 1 */
    int crlf;               /* 1: it ended with CR LF */
    const char *fault;      /* NULL, or why the line is no sentence, and how data sets call that */
    trf_fault kind;
    char not_utf8[64];      /* a fault that names the byte */
    char too_long[64];
};

enum { MAX_LINE_BYTES = 1 << 20 };
extern size_t max_line_bytes;   /* --max-line-bytes */

/* NULL or "-": standard input. The content of a file whose name ends in ".gz" is unpacked. */
int open_reader(struct reader *r, const char *path);
FILE *open_packed(const char *path);        /* packed.c; NULL: errno has the reason */
void close_reader(struct reader *r);
int next_line(struct reader *r);    /* 1: r->line is the next line; 0: end; -1: error, reported */

/* Two files line by line, or one file with tabs in each line. */
struct pair_reader {
    struct reader side[2];          /* source, target; side[0] is the TSV */
    int tsv;
    int column[2];                  /* of a TSV, from 1 */
    int exactly_two;                /* 1: a TSV with other columns is an error, except that with */
    int two_texts;                  /* 1 a source may have two columns, and so a tab */
    int lacks_tab;                  /* 1: the line of the TSV has no tab */
    int keep_unpaired;              /* 1: a line without a partner is a pair with a fault; 2: and
                                       the caller tells that there are such lines */
    int unpaired;                   /* 1: there was one */
    const struct reader *at;        /* its name and number are the position of the pair, or fault */
    const char *source, *target;    /* the current pair */
    const char *fault;
};

int open_pairs(struct pair_reader *p, const char *source, const char *target, const char *tsv,
               const char *columns);
void close_pairs(struct pair_reader *p);
int next_pair(struct pair_reader *p);       /* as next_line */
void cut_pair(struct pair_reader *p);       /* splits the current line of the TSV at its tabs */
int check_columns(const char *columns);     /* fails unless NULL or two column numbers */
/* Fails unless the options name one TSV, or a source and a target. */
int check_pairs_given(const char *prefix, const char *source, const char *target, const char *tsv);
/* Whether both are the same pipe or terminal, so that each would get a part. */
int same_stream(FILE *a, FILE *b);
void say_unequal(const struct reader *a, const struct reader *b);   /* their numbers of lines */
char *unequal_text(const struct reader *a, const struct reader *b); /* the same; malloc'd */
/* Takes the one file of the command line as --input. */
int take_input(struct settings *s, int argc, char **argv);

/* The words of a line, or its characters but blanks. Lines are classed by how many they have: 0, 1,
   2 to 3, 4 to 7, ... */
enum { LENGTH_CLASSES = 33 };
int64_t count_units(const char *text, int characters);
int32_t length_class(int64_t units);

/* Lines in memory, each with a NUL, and their numbers in the file. */
struct text {
    char *bytes;
    size_t *starts;
    int64_t *numbers;
    size_t used, capacity, count, starts_capacity, numbers_capacity;
};

void store_line(struct text *text, const char *line, int64_t number);
const char *line_of(const struct text *text, size_t index);
void free_text(struct text *text);
uint64_t hash_line(const char *line);
uint64_t hash_bytes(uint64_t before, const void *bytes, size_t n);  /* goes on from a hash */
int by_hash(const void *a, const void *b);          /* for qsort and bsearch */

/* A set of hashes; all zero at first. */
struct hashes { uint64_t *slot; size_t n, slots; };     /* slots: 0 or a power of two */
int note_hash(struct hashes *h, uint64_t hash);         /* 1: it is new, and now in the set */
int has_hash(const struct hashes *h, uint64_t hash);
void free_hashes(struct hashes *h);

// -----------------------------------------------------------------------------------------------
// JSON (json.c; printing: text.c)
// -----------------------------------------------------------------------------------------------

/* The texts and numbers of an object, by name. */
struct field { char *name, *value; };
struct fields { struct field *item; size_t n, capacity; };

/* Whether the line is one complete object. The fields of an object within it go to `inner`. Both
   must be empty. */
int read_json_object(const char *line, struct fields *f, struct fields *inner);
void add_field(struct fields *f, char *name, char *value);          /* takes both strings */
void free_fields(struct fields *f);                                 /* f is empty again */
const char *field_text(const struct fields *f, const char *name);   /* NULL: no such field */
double field_number(const struct fields *f, const char *name);      /* NAN: no finite number */

// -----------------------------------------------------------------------------------------------
// Token ids (tokens.c)
// -----------------------------------------------------------------------------------------------

/* A vocabulary of the bytes of its file; `ids` may be NULL. */
trf_status vocab_of_bytes(trf_vocab **vocab, const void *bytes, size_t n, const trf_piece_ids *ids,
                          trf_error *err);
enum { UNK = 3 };       /* the unknown token of vocabularies of words and characters */
int32_t unknown_id(const trf_vocab *vocab);     /* the unknown token; -1 without a vocabulary */
/* The id of a token, also of a special one, which trf_vocab_id does not find; or -1. */
int32_t id_of(const trf_vocab *vocab, const char *text);
extern const char *const kinds_of_tokens[];     /* by trf_token_kind: "words", ... */

/* Sequences of token ids, one after another, as the library takes them. */
struct side {
    int32_t *ids, *lengths;
    size_t used, ids_capacity, count, lengths_capacity;
};

void free_side(struct side *side);
void clear_side(struct side *side);
trf_sequences sequences_of(const struct side *side);
/* Encodes a text as one more sequence of at most `limit` tokens; *n: its tokens. On failure nothing
   is appended, `why` has the reason, and *n is 0 if the text is not UTF-8. */
int add_text(struct side *side, const trf_vocab *vocab, const char *text, int32_t limit, int32_t *n,
             char why[300]);
/* The same; texts of special tokens are these tokens. */
int add_special_text(struct side *side, const trf_vocab *vocab, const char *text, int32_t limit,
                     int32_t *n, char why[300]);
void add_ids(struct side *side, const int32_t *ids, int32_t n);     /* one more sequence */
void append_id(struct side *side, int32_t id);          /* one more token of the last sequence */
/* The tags of the languages of one side, as read_rules or read_fixed_tags has
   set them; -1: none. n: how many. */
struct around { int32_t first, last, n; };
struct around tags_of(const struct settings *s, int side);
/* Puts them around the last sequence. */
void add_tags(struct side *to, struct around tags);
/* The index of the id that row i reads. A side has n ids, index n is EOS, and BOS is no row here.
   A tag behind EOS changes places with it. */
int64_t id_of_row(const struct settings *s, const trf_config *config, int side, int64_t n,
                  int64_t i);
/* How many of `limit` tokens the tags leave to a text. */
int32_t room_beside_tags(const struct settings *s, int side, int32_t limit);
/* Adds a text and its tags. `limit` counts the tags, *n does not. */
int add_tagged_text(const struct settings *s, int side, struct side *to, const trf_vocab *vocab,
                    const char *text, int32_t limit, int32_t *n, char why[300]);
void drop_last(struct side *side);
/* As add_text, but a text without tokens adds nothing. cut not NULL: a longer text adds its first
   `limit` tokens, and *cut counts it. Returns the reason if the text cannot be added, or NULL. */
const char *add_words(struct side *side, const trf_vocab *vocab, const char *text, int32_t limit,
                      int64_t *cut, int32_t *n, char why[300]);

/* The same for a source. If the model has segments and the text a tab, it is a pair of texts, which
   are joined; a longer pair loses the ends of its longer text. */
const char *add_source(struct side *side, const trf_vocab *vocab, const trf_config *config,
                       const char *text, int32_t limit, int64_t *cut, int32_t *n, char why[300]);

/* The text of a token. A SentencePiece model may have the piece NUL: one byte. */
const char *token_of(const trf_vocab *vocab, int32_t id, size_t *bytes);
void print_json_tokens(FILE *out, const char *name, const trf_vocab *vocab, const int32_t *ids,
                       int32_t n);
int same_tokens(const trf_vocab *a, const trf_vocab *b);    /* whether ids have the same meaning */

/* Decodes ids into *text, which grows, and which may contain NULs. NULL: an error, reported. */
const char *bytes_of(const trf_vocab *vocab, const int32_t *ids, int32_t n, char **text,
                     size_t *capacity, size_t *bytes);
/* The same on one line: line ends and NULs, which byte fallback may write, become blanks. */
const char *text_of(const trf_vocab *vocab, const int32_t *ids, int32_t n, char **text,
                    size_t *capacity);

/* Counts tokens, and those that the model does not know. first: line of the first one, or 0. */
struct unknown { int64_t tokens, unknown, first; };

void note_unknown(struct unknown *u, const trf_vocab *vocab, const char *text, int64_t line);
/* One message at the end if the share of unknown tokens is larger. what: "the input". */
void say_unknown_share(const struct unknown *u, const char *what, double share);

// -----------------------------------------------------------------------------------------------
// Tokens that options of a search name (rules.c)
// -----------------------------------------------------------------------------------------------

/* Metadata of a model of many languages: the codes for which no option is needed. */
extern const char *const language_keys[2];
/* Metadata: the id of the token with which all answers begin, if it is no language; those with which
   they end; and the model_type from which a model was imported. */
extern const char first_key[], ends_key[], origin_key[];
extern const char stream_key[];     /* metadata: "1": texts begin behind EOS (trf_data_results.stream) */
/* Metadata of imported encoders: the values of --pooling and --normalize of trf embed, unless these
   options are given; how many ids a text may have, BOS and EOS included; what stands before every
   text. */
extern const char pooling_key[], normalize_key[], longest_key[], prompt_key[];
/* Sets forced_first and ends to the tokens with which all answers begin and end, unless options set
   them: for commands without languages. */
int read_first(struct settings *s, const trf_model *model);
/* Sets the tags of sources and answers for commands that read given targets. These commands cannot
   replace the start token. A model, or an objective, that does not translate has no tags. */
int read_fixed_tags(struct settings *s, const trf_model *model, const trf_vocab *const vocab[2]);
/* Stores the tags of `from`, and the languages of this training, in the model that learns. */
int store_languages(trf_model *model, const trf_model *from, const struct settings *s);
/* What s->search and s point into, once read_rules has set it; all 0 at first. */
struct rules { struct side banned, phrases; };
int read_rules(struct settings *s, const trf_model *model, const trf_vocab *source,
               const trf_vocab *target, struct rules *rules);
void free_rules(struct rules *rules);

// -----------------------------------------------------------------------------------------------
// Unknown words in a line (unknown.c)
// -----------------------------------------------------------------------------------------------

/* An unknown word or a run of unknown characters, and its tokens from .. end - 1. */
struct span { const char *text; size_t bytes; int32_t from, end; };
struct spans { struct span *item; size_t n, capacity; };

/* ids: the tokens of the line, which must live as long as the spans. */
void find_unknown(const trf_vocab *vocab, const char *line, const int32_t *ids, int32_t n,
                  struct spans *to);
void report_unknown(const struct spans *spans, const char *file, int64_t line);
/* The text of an answer, malloc'd; copies[i]: the text for unknown token i, or NULL: it stays.
   copies NULL: drops all unknown tokens. Returns NULL after an error, reported. */
char *text_without_unknown(const trf_vocab *vocab, const int32_t *ids, int32_t n,
                           const struct span *const *copies);

// -----------------------------------------------------------------------------------------------
// Labels, and the words of a line (labels.c)
// -----------------------------------------------------------------------------------------------

/* Sorted names: label i of a model is name[i]. */
struct labels { char **name; int32_t n; size_t capacity; };

int classifies(const trf_config *config);       /* whether it labels sequences */
int32_t count_labels(const trf_config *config);
void split_labels(struct labels *labels, const char *text);      /* one a line; NULL: none */
int load_labels(const trf_model *model, const char *path, struct labels *labels);
int32_t label_number(const struct labels *labels, const char *text, size_t bytes);  /* or -1 */
void append_label(struct labels *labels, const char *text, size_t bytes);
void settle_labels(struct labels *labels);      /* sorts, and removes repeated names */
void free_labels(struct labels *labels);
int store_labels(trf_model *model, const struct labels *labels);    /* in its metadata */
int32_t best_of(const trf_real *numbers, int32_t n);    /* the index of the first maximum */

/* The tokens of a line of words, and the first token of each word. */
struct word_tokens {
    int32_t *ids, *first, n, n_words;
    size_t ids_capacity, first_capacity;
    char why[300];              /* the reason if encode_words fails */
};

int encode_words(const trf_vocab *vocab, const char *line, struct word_tokens *to);
void free_word_tokens(struct word_tokens *words);
/* Calls each (may be NULL) for every word of a line, and returns their number. */
int32_t for_words(const char *line, void (*each)(void *user, const char *word, size_t bytes),
                  void *user);
/* Appends the ids of a text to n ids. *ids grows: a character may become many tokens. */
int encode_after(const trf_vocab *vocab, const char *text, int32_t **ids, size_t n,
                 size_t *capacity, int32_t *added, trf_error *err);

// -----------------------------------------------------------------------------------------------
// Files that are written (output.c)
// -----------------------------------------------------------------------------------------------

/* Whether two names are the same file, which need not exist. */
int same_file(const char *a, const char *b);
int is_taken(const char *path);             /* whether it is a file that is not empty */
/* Each check prints a message and returns FAILED unless: */
int check_written(const struct settings *s, const char *option, const char *path);  /* not read */
int check_writable(const char *path);       /* now rather than after a night of training */
int check_not_output(const char *path);     /* it is not standard output */
int check_replaceable(const char *path);    /* saving may replace it: no symbolic link */
int check_readable(const char *path);       /* readable; NULL or "-": nothing to check */
int check_output_name(const struct settings *s);    /* --output is new, or there is --overwrite */
/* Calls each for every file whose path begins with prefix; tail: the rest of its name. */
void for_files(const char *prefix, void (*each)(void *user, const char *path, const char *tail),
               void *user);
/* Whether saving to `base` (or NULL) makes a file of this name, which it replaces or removes: base
   or base with `numbered` (".update-") and a number; unfinished, with ".tmp-0123abcd". */
int is_own_name(const char *path, const char *base, const char *numbered);
/* Removes unfinished files that killed processes left beside path. */
void remove_all_unfinished(const char *path);
/* A file that has another name until it is complete. It then replaces what is at path. name NULL:
   standard output or a device, which is written to directly. */
struct unfinished { FILE *file; const char *path; char *name; };
int begin_file(struct unfinished *u, const char *path);
int end_file(struct unfinished *u, int complete);       /* not complete: removes it */
int write_file(const char *path, const void *bytes, size_t n);      /* the same in one call */
int cannot_write(const char *path);         /* says so, with errno's reason; returns FAILED */
/* Locks a file until this process closes it (any descriptor of it) or ends. Fails with the number
   of the process that has locked it. A file system without locks: does nothing. */
int lock_file(int fd, const char *path);
/* The same for a name that a process writes again and again, by a file NAME.lock: empty, removed by
   unlock_name, and without effect if a killed process left it. Where none can be made: no lock. */
struct lock { int fd; char *name; };
int lock_name(struct lock *l, const char *path);        /* NULL or "": nothing to lock */
void unlock_name(struct lock *l);
/* --output, or standard output. A regular file has its name when it is complete. */
int open_output(const struct settings *s, struct unfinished *u);
/* The same for a file whose beginning is of use: OUTPUT.part, which --resume continues. */
int open_answers(const struct settings *s, struct unfinished *u);
int close_output(struct unfinished *u, int complete);   /* file NULL: nothing was opened */
int check_output(FILE *file, const char *path);     /* fails for a full disk or a closed pipe */

// -----------------------------------------------------------------------------------------------
// Devices, models (models.c)
// -----------------------------------------------------------------------------------------------

/* The message of a failed library call, in terms of options, and the exit status: USAGE if the
   library refuses a value. */
int refused(const char *doing, const trf_error *err);
/* The name that trf_device_text has behind `what`: "in 16 bits: ". 0: it has none. */
int kernel_of(const trf_device *device, const char *what, char *name, size_t size);
int check_device(const struct settings *s);     /* that --device and related options work here */
trf_load_options load_options(const struct settings *s);
/* Whether products can read packed weights; those of CBLAS need floats. */
int products_are_own(const struct settings *s);
int load_model(struct settings *s, trf_model **model, const trf_vocab **source,
               const trf_vocab **target);
int is_folder(const char *path);
int check_model_file(const char *path);          /* as check_readable; a folder has a hint */
int load_refused(const char *path, const trf_error *err);   /* reports it; the exit status */
int model_refused(const struct settings *s, const trf_error *err);      /* the same of s->model */
int copy_model(struct settings *s, const char *from, const char *to);
/* Reports which vocabulary the file lacks. */
void say_no_vocabulary(const char *path, const trf_config *config, const trf_vocab *source,
                       const trf_vocab *target);
int check_floats(const char *path, const trf_model *model);     /* that no weight has 8 bits */
int check_decoder(const struct settings *s, const trf_model *model);    /* that it has a decoder */
/* Whether more than one of a hundred lines has blanks at an end, or runs of them. */
int have_blanks(const char *const *lines, int64_t n);
int32_t longest_trained(const trf_model *model);    /* tokens of the longest text in training */
int never_writes_unk(const trf_model *model);       /* whether no target had an unknown token */
int32_t source_added(const trf_config *config);     /* BOS and EOS that the library adds */
int32_t source_limit(const trf_config *config);     /* tokens beside these */
/* Ids of the longest text, with them: what longest_key says, else max_length. */
int32_t longest_source(const trf_model *model);
/* Takes the training options that a checkpoint stores. */
int stored_training(struct settings *s, const trf_file *file);

// -----------------------------------------------------------------------------------------------
// Unicode's composition, NFC, as a map of a SentencePiece model (compose.c)
// -----------------------------------------------------------------------------------------------

char *composing_map(int hangul, size_t *bytes);         /* malloc'd; hangul: with its syllables */
int is_composed(const char *map, const char *text);     /* whether the map does not change it */
int has_hangul(const char *text);

#include "objective.h"

#endif

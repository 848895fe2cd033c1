// trf, the door of answer/: commands that read lines and print what a model makes of them.

#ifndef TRF_ANSWER_ANSWER_H
#define TRF_ANSWER_ANSWER_H

#include "base/base.h"

int command_translate(struct settings *s, int argc, char **argv);
int command_generate(struct settings *s, int argc, char **argv);
int command_classify(struct settings *s, int argc, char **argv);      /* trf tag too */
int command_rerank(struct settings *s, int argc, char **argv);
int command_tokenize(struct settings *s, int argc, char **argv);      /* trf detokenize too */
int command_embed(struct settings *s, int argc, char **argv);
int command_score(struct settings *s, int argc, char **argv);
int command_eval(struct settings *s, int argc, char **argv);

// -----------------------------------------------------------------------------------------------
// Lines in batches (batches.c)
//
// A batch of lines is read, answered and written. On a terminal, or with --interactive, a batch is
// one line, whose answer is written at once.
// -----------------------------------------------------------------------------------------------

struct batch_line {
    char *text;                     /* NULL with `next` */
    int64_t number;                 /* in its file */
    int32_t first, n;               /* its sequences in `side`; n 0: empty, or */
    int unusable;                   /* 1: add() has returned a fault */
};

/* What an answer is in the output: a line; lines that begin with the number of the input's line;
   lines that end with an empty one; a row of an .npy; or there are none before the end of the
   input. */
enum answer_form { ANSWER_LINE = 0, ANSWER_NUMBERED, ANSWER_BLOCK, ANSWER_ROW, ANSWERS_AT_END };
enum { HEAD = 128 };                /* bytes of an .npy before its rows */

struct batches {
    struct settings *s;
    void *user;                     /* of the calls */
    /* Appends sequences of the line that was read, or none if it is empty. Returns NULL, or why the
       line cannot be answered. */
    const char *(*add)(void *user, char why[300]);
    int (*answer)(void *user);      /* computes and writes the answers to all lines of a batch */
    int (*next)(void *user);        /* as next_line; NULL: reads the next line of `in` */
    const char *instead;            /* what an unusable line gets: "answered with an empty line" */
    int64_t most_messages;          /* about such lines: any number; more are only counted */
    struct reader in;
    const struct reader *at;        /* its name and number are the position for messages */
    struct unfinished output;
    FILE *out;                      /* its file */
    enum answer_form form;
    void (*head)(void *user, int64_t rows, char bytes[HEAD]);       /* of an .npy */
    int64_t row_bytes;
    struct side side, partners;     /* sequences of the batch; and others that belong to them */
    struct batch_line *line;
    int32_t n;                      /* lines of the batch */
    int64_t lines, unusable;        /* read so far */
    int64_t answered, skipped;      /* of these: in the output; there already before (--resume) */
    int32_t trained;                /* tokens of the longest source of the training; 0: no watch */
    int watches_tabs;               /* 1: a tab does not separate two texts */
    int watches_blanks;             /* 1: no source of the training begins or ends with a blank */
    int64_t beyond, spaced, tab;    /* lines that are longer, those with such blanks; the number of
                                       the first one with a tab */
    int broken;                     /* 1: the input could not be read to its end */
    int complete;                   /* 1: all lines are answered */
};

/* An item for each line of a batch, all zero. NULL: no memory, reported. */
void *zeroed_batch(int32_t batch, size_t item_bytes);
/* The caller then sets what is not as it begins: NULL, 0, or as in the comments. */
void begin_batches(struct batches *b, struct settings *s, void *user,
                   const char *(*add)(void *user, char why[300]), int (*answer)(void *user));
/* Until the end, or a failure. Opens the output if it is not open; --resume passes over the lines
   that it has answers to. */
int answer_lines(struct batches *b, FILE *in);
/* Completes the output, or says that its beginning is kept. Returns `status`, or FAILED. */
int end_answers(struct batches *b, int status);
int say_batch_failed(const struct batches *b, const trf_error *err);    /* returns FAILED */
void say_unusable(const struct batches *b, const char *lines, const char *answered);
/* Counts lines that are unlike all sources of the training, and tells their number at the end. */
void watch_lines(struct batches *b, const trf_model *model);
void say_watched(const struct batches *b);
void free_batches(struct batches *b);

// -----------------------------------------------------------------------------------------------
// Several models that answer as one (ensemble.c)
// -----------------------------------------------------------------------------------------------

struct ensemble {
    int32_t n;                      /* 1: --model alone */
    const trf_model *models[TRF_MAX_MODELS];
    const char *names[TRF_MAX_MODELS];
    const trf_vocab *source[TRF_MAX_MODELS];
    double weights[TRF_MAX_MODELS];
    trf_model *others[TRF_MAX_MODELS];      /* from 1 on: those of --with */
    struct side sides[TRF_MAX_MODELS];      /* from 1 on: the sources of a batch in their tokens */
};

/* Loads the models of --with beside --model, reads their weights, and gives both to the search and
   to the sampler. */
int load_ensemble(struct settings *s, trf_model *first, const trf_vocab *source,
                  struct ensemble *e);
/* Opens what labels, scores and embeds; with e NULL a model alone. doing: for messages. */
int open_model(const struct settings *s, const struct ensemble *e, const trf_model *model,
               const char *doing, trf_reader **reader);
/* As refused(); names the model that does not fit. */
int ensemble_refused(const struct ensemble *e, const char *doing, const trf_error *err);
/* The least of what the models' configurations allow: source_limit, or longest_rows, max_length. */
int32_t least_of(const struct ensemble *e, int32_t (*of)(const trf_config *));
int32_t longest_rows(const trf_config *config);
/* Whether models beside the first read sources of their own. If so, add_each adds one more source to
   theirs when the first model's has got it, with the tags of languages if `tagged`; drop_each takes
   it away again. */
int reads_each(const struct ensemble *e);
int add_each(const struct settings *s, struct ensemble *e, const struct side *first,
             const char *text, int tagged, char why[300]);
void drop_each(struct ensemble *e);
void all_sources(const struct ensemble *e, const struct side *first, trf_sequences *sources);
int shows_one(const struct ensemble *e, const char *options);       /* fails with --with */
void free_ensemble(struct ensemble *e);

// -----------------------------------------------------------------------------------------------
// Sentences of a line (sentences.c)
// -----------------------------------------------------------------------------------------------

struct sentences {
    struct {
        size_t begin, end;          /* bytes of the line, without blanks around them */
        int32_t line, number;       /* of its batch; of the sources, or -1: it has no tokens */
    } *item;
    size_t capacity, n;
};
struct cutter;

int open_cutter(struct cutter **cutter, const char *locale);
void cut_sentences(struct cutter *c, const char *text, int32_t line, struct sentences *to);
void close_cutter(struct cutter *c);

// -----------------------------------------------------------------------------------------------
// Texts that answers must contain (required.c), and terms that have a translation (glossary.c)
// -----------------------------------------------------------------------------------------------

struct glossary { struct term *term; size_t capacity; int32_t n; };

int read_glossary(struct glossary *g, const char *path);
/* The translation of the longest term at `at` that is whole words of a text that ends at `end`, and
   its bytes; or NULL. */
const char *find_term(const struct glossary *g, const char *text, size_t at, size_t end, size_t *n);
void free_glossary(struct glossary *g);

struct required {
    const struct settings *s;
    int any;                        /* 0: no answer must contain anything */
    struct patterns patterns;       /* those of the model, and --keep */
    int own;                        /* 1: those of the model are among them */
    int32_t *symbols, n_symbols;
    struct reader phrases;          /* --phrase-file */
    const char *fault;              /* of its line */
    struct glossary glossary;
    trf_required *item;             /* of the sentences of a batch */
    size_t capacity, n, checked;
    int64_t asked, wrong;           /* answers that must contain texts; those that do not */
};

int open_required(struct required *r, const struct settings *s, const trf_model *model,
                  const trf_vocab *target);
const char *next_phrases(struct required *r);   /* the next line of --phrase-file, or "" */
void require_line(struct required *r, const char *line, const char *phrases, int32_t sentence);
trf_requirements requirements_of(const struct required *r);
/* Tells what the best answer to a sentence lacks. Sentences come in their order. */
void check_answer(struct required *r, const char *name, int64_t line, int32_t sentence,
                  const char *answer);
void clear_required(struct required *r);        /* after a batch */
int say_required(const struct required *r);     /* FAILED with --strict */
void close_required(struct required *r);

// -----------------------------------------------------------------------------------------------
// The attention of one kind over one pair (attention_weights.c)
// -----------------------------------------------------------------------------------------------

struct attention {
    trf_real *weights;              /* (layers, heads, queries, keys) */
    size_t capacity;
    int64_t extent[4];
};

int read_attention(trf_reader *reader, const trf_model *model, trf_attention_kind kind,
                   const trf_sequences *source, const trf_sequences *target, struct attention *to);
void free_attention(struct attention *of);
const trf_real *head_of(const struct attention *of, int64_t layer, int64_t head);
void mean_attention(const struct attention *of, int64_t layer, trf_real *to);  /* (queries, keys) */
/* ,"attention":... all: ATTENTION_MEAN or ATTENTION_ALL. */
void print_json_attention(FILE *file, const struct attention *of, int all);

#endif

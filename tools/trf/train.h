// trf train: what its files share. See trf.h for which file has what.

#ifndef TRF_TRAIN_H
#define TRF_TRAIN_H

#include "trf.h"

/* Lines in memory, each ended by NUL, and the numbers they have in their file. */
struct text {
    char *bytes;
    size_t *starts;
    int64_t *numbers;
    size_t used, capacity, count, starts_capacity, numbers_capacity;
};

const char *line_of(const struct text *text, size_t index);

/* What was not taken: the first five with their lines, all of them by number. */
enum skip { SKIP_UNREADABLE, SKIP_LONG, SKIP_EMPTY, SKIP_HALF, SKIP_LABEL, N_SKIPS };

/* What the data are, for the recipe. */
struct amounts {
    int64_t pairs, tokens[2];       /* tokens with one mark for each sentence */
    int32_t longest;                /* tokens of the longest side of a pair */
};

/* A validation: the share of the loss, and of what was translated. */
struct validation {
    double loss, nll, accuracy, score;
    int cancelled;
};

/* A model of a past validation, as a file: model's name, ".update-", number. */
struct kept { int64_t update; double score, loss; };

/* What must be known besides the checkpoint's weights to go on exactly; it travels in the checkpoint's metadata. */
struct state {
    trf_early_stopping stopping;        /* what validations have found */
    int64_t batches;                    /* drawn so far */
    int cosine_follows;                 /* it ends with the training, which is no number of the command line */
    double seconds;                     /* spent in earlier runs */
    int combed;                         /* every n-th pair is held out, as in checkpoints of before 0.3 */
    uint64_t held_out;                  /* fingerprint of the pairs it is about, and of how they are judged */
    int learnt;                         /* an update was applied: there is something to validate and to keep */
    int had_average, had_mean, same_metric;     /* the checkpoint had --ema; had --average; was judged as now */
    struct kept *kept;
    size_t n_kept, kept_capacity;
};

/* What the recipe gives reasons for, as its lines begin. */
enum reason { REASON_MODEL, REASON_BATCHES, REASON_RATE, REASON_DROPOUT, REASON_SMOOTHING, REASON_END, N_REASONS };

enum { N_SAMPLES = 3 };

struct training {
    struct settings *s;
    char *checkpoint;                   /* path, or NULL: none is kept */
    struct text text[2], held[2];       /* lines to train on, lines to validate on */
    trf_vocab *vocab[2];                /* ours, while learning; both are one when joint */
    char *pieces[2];                    /* bytes of the SentencePiece models, likewise */
    size_t pieces_bytes[2];
    struct labels labels;               /* of texts or words, where these are learned */
    trf_noise *noise, *valid_noise;     /* where something is hidden from the model; else NULL */
    trf_model *from;                    /* --init-from, while beginning */
    struct side ids[2], valid[2];
    size_t *valid_line;                 /* of each validation pair: its line in held */
    size_t valid_line_capacity;
    int64_t skips[N_SKIPS];
    struct amounts amounts;
    double new_words;                   /* percent that are new in other lines: subwords would do better than the words
                                           that this trf uses; 0: it uses what is best */
    int64_t batches, per_epoch;         /* of a pass: batches, and updates, about */
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus;
    struct state state;
    trf_ema *ema;                       /* --ema; or NULL */
    FILE *log;
    int log_broken;                     /* 1: it could not be written, which has been told */
    int explained[N_REASONS];           /* which of the recipe's reasons were told: their settings are known */
    char *samples[N_SAMPLES];           /* answers of the validation to three sources, or NULL */
    double score;                       /* of the model file; NAN: nothing was validated */
};

/* train.c */
uint64_t hash_line(const char *line);
int by_hash(const void *a, const void *b);      /* for qsort and bsearch */
const char **lines_of(const struct text *text);     /* pointers to all of them, to be freed */
/* A pair that is left out: told and counted; or, with --strict, the end (FAILED). */
int skip(struct training *t, enum skip why, const char *file, int64_t line, const char *reason);
uint64_t held_out_hash(const struct training *t);
int set_given_architecture(struct settings *s);     /* what the command line itself says of it stands */
int copy_model(struct settings *s, const char *from, const char *to);

/* recipe.c: each decides what is marked 'from the data' and was not given, and says what it decided. */
int decide_tokens(struct training *t);
int decide_model(struct training *t);
int decide_batches(struct training *t);
int decide_schedule(struct training *t);
int ends_cosine(const struct settings *s);      /* whether the command line says where */
/* Where it ends, after --resume; total_steps 0: it was none before. */
int settle_cosine(struct training *t, const trf_train_options *stored);
void say_schedule(const struct training *t);    /* how many updates, and the rate's way; of one that goes on too */
int check_ends(const struct training *t);       /* something must say when training ends */
void settle_validation(struct training *t);     /* --valid-every 0 and what else has another name for a number */

/* compose.c: Unicode's composition (NFC), as a map of a SentencePiece model */
char *composing_map(int hangul, size_t *bytes);         /* malloc'd; hangul: with the syllables of Korean */
int is_composed(const char *map, const char *text);     /* whether the map changes nothing of it */
int has_hangul(const char *text);

/* spm.cc, or a sentence that it is not there */
int learn_subwords(struct training *t, int first_side, int last_side, trf_vocab **vocab);
int read_subwords(struct training *t, int first_side, int last_side, const char *path, trf_vocab **vocab);
int check_subwords(const char *path);           /* that the file is a SentencePiece model; NULL: there is none */
int stored_subwords(struct training *t, int side, const char *path);
int subwords_can_be_learned(void);
/* All lines of a side, cut at random: one sequence a line, whatever it is. */
int sample_subwords(struct training *t, int side, const trf_vocab *vocab, uint32_t seed, struct side *ids);
void free_subwords(struct training *t);

/* objective.c */
int learns_from_text(const struct settings *s);
int learns_labels(const struct settings *s);
int check_effects(const struct settings *s);        /* that the options given are some to this objective, */
int check_company(const struct settings *s);        /* beside one another, */
int check_inherited(const struct training *t);      /* and beside --init-from */
int reads_side(const struct settings *s, int side);     /* has a vocabulary of its own */
int leading_side(const struct settings *s);             /* that the recipe looks at */
void set_kind(struct settings *s);                      /* of the model */
int learn_labels(struct training *t);
/* Lines held out though no other has their label go back to those to learn from, with all of their source. Returns
   how many. */
int64_t keep_labels(const struct training *t, char *held);
int store_labels(struct training *t);                   /* in the model */
/* Appends a line with its label, or with those of its words. Returns why not, and what kind of fault it is, or NULL;
   an empty line appends nothing. */
const char *add_labelled(struct training *t, const trf_vocab *vocab, const char *line, const char *labels,
                         struct side ids[2], enum skip *kind, char why[300]);
/* Why a line cannot be learned from, whatever its length in tokens, or NULL. */
const char *unlearnable(const trf_vocab *vocab, const char *line);
void warn_of_line_ends(const struct training *t, const trf_vocab *vocab);
int add_documents(struct training *t, const trf_vocab *vocab, const struct text *text, const char *file,
                  struct side ids[2]);
int add_sentinels(struct training *t);
int32_t n_sentinels(const struct settings *s);          /* that are learned with subwords */
int check_noise(const struct settings *s);
int make_noise(struct training *t, const trf_vocab *vocab);     /* which must outlive the training */

/* learn.c */
int learn(struct training *t);
int stopped(void);                      /* the signal that asks to end, or 0 */
int32_t validations_left(const struct training *t);     /* until --patience ends it; INT32_MAX: it does not */
int restore_options(struct training *t);    /* from the metadata of the model, */
int restore_state(struct training *t);      /* which lose both */
int restore_average(struct training *t);
int make_average_room(struct training *t);
void watch_signals(struct settings *s);  /* the hook that leaves a validation */

/* validate.c */
int validate(struct training *t, struct validation *v);
int check_translating(struct training *t);      /* better now than at the first validation */
enum metric metric_of(const struct training *t);
const char *metric_name(enum metric metric);
int bleu_tells(const struct training *t, int *nothing);     /* whether it is a measure for these references */
int is_translating(enum metric metric);         /* needs answers */
trf_metric library_metric(enum metric metric);  /* the library's, which says what is better */

/* progress.c */
struct progress {
    double began, drawn, told, waited;          /* times: training began; the last line was drawn; was kept; was one
                                                   of waiting */
    double window_began;                        /* the last finished line */
    int64_t window_tokens;                      /* since then */
    struct { double loss, right; int64_t target; } *recent;     /* of the last `span` updates: a ring */
    size_t recent_capacity;
    int64_t span;                               /* --log-every, MOST_RECENT at most */
    int64_t tokens, updates, left_out;          /* of this run; left_out: of these updates */
    int64_t in_a_row;                           /* left out without one between them that was not */
    double passes, first_pass;                  /* over the data, in this run; where that began */
    int terminal, warned;
};

enum { MOST_RECENT = 65536 };

void start_progress(struct progress *p, int64_t log_every);
void end_progress(struct progress *p);
void count_update(struct progress *p, const trf_step_report *report);
void show_progress(struct training *t, struct progress *p, int64_t epoch, const trf_step_report *report);
/* A line for an update or a validation that takes long, if the last one is old. */
void show_waiting(struct progress *p, const char *doing, int64_t update, double since);
/* Before the first update: a line, with its end, that comes every 30 seconds until the next call; NULL: none. */
void busy_with(const char *line);
/* Three of the pairs held out, as the model answers them now. */
void show_samples(struct training *t);
void show_validation(struct training *t, int64_t update, const struct validation *v, const char *remark);
void end_line(void);                            /* of progress, if one stands unfinished */
void log_start(struct training *t);
void log_end(struct training *t, const struct progress *p, const char *why);
void flush_log(struct training *t);             /* tells once that it cannot be written */

#endif

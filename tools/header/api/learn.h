#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/train.h"
#include "api/translate.h"

// -----------------------------------------------------------------------------------------------
// >>api-learn      from texts to a trained model: a data set, the recipe, automatic training
//
// All steps from texts to a model, in a program's order. With TRF_PRODUCTS_BUILT_IN in
// trf_dataset_options.device they train the same model as `trf train`, bit for bit, unless that
// chooses BLEU or chrF as its metric, or learns subwords:
//
//     trf_dataset_create(&data, NULL, &err);       pairs of texts, texts alone, texts with labels
//     trf_dataset_read(data, "pairs.tsv", NULL, 0, &err);      or trf_dataset_add, pair by pair
//     trf_dataset_train(data, &model, NULL, &err);
//     trf_model_save(model, "model", NULL, &err);
//
// trf_dataset_train takes these steps, each of which you may take yourself:
//     trf_dataset_finish(data, &err);              vocabularies, pairs to validate on, the recipe
//     results = trf_dataset_results(data);         puts(results->recipe->reasons): the choices
//     trf_dataset_create_model(data, &model, &err);       new weights, with the vocabularies
//     trf_trainer_create(&trainer, model, &results->recipe->training, &err);
//     trf_trainer_learn(trainer, results->corpus, results->held_out, &results->recipe->learning,
//                       &report, &err);
//
// Each part also works alone:
//     trf_recipe_find      the recipe for your own data
//     trf_tokens_choose    what a token is
//     trf_trainer_learn    training with any trainer and corpus
//     trf_trainer_average, trf_early_stopping    for your own loop around trf_trainer_step
//
// C declares types before their use, so a program's first calls come last: see trf_data_kind.
// -----------------------------------------------------------------------------------------------

/* How a model is scored on pairs that it does not learn from. */
typedef enum trf_metric {
    TRF_METRIC_LOSS       = 0,  /* trf_step_report.loss; smaller is better */
    TRF_METRIC_ERROR_RATE = 1,  /* trf_translator_error_rate; smaller is better. 0 is
                                   perfect; 100 or more is no better than empty answers */
    TRF_METRIC_ACCURACY   = 2,  /* percentage of target tokens, or labels, that are right: 100 times
                                   trf_step_report.accuracy. Larger is better. 100 is perfect; 0
                                   counts as no better than empty answers */
    TRF_METRIC_CUSTOM     = 3,  /* the score that `custom` computes. Larger is better. 100 counts as
                                   perfect; 0 or less counts as no better than empty answers */
    TRF_METRIC_COUNT
} trf_metric;

/* The state of early stopping: plain numbers, which a checkpoint of your own can store. Start with
   validated = -1 and everything else 0. */
typedef struct trf_early_stopping {
    int64_t validated;          /* update of the last validation; -1: none */
    int64_t best_update;        /* update of the best validation; 0: none */
    double best, best_loss;     /* its score; its loss, which decides between equal scores */
    int32_t wait;               /* validations since the score improved */
} trf_early_stopping;

typedef struct trf_learn_progress {
    const trf_step_report *update;      /* of the last update; before the first, only `step` is
                                           set */
    double epoch;                       /* passes over the corpus in this call */
    int32_t validated;                  /* 1: called after a validation; 0: after an update */
    int32_t batches;                    /* of the last update */
    int32_t is_best;                    /* after a validation what trf_early_stopping_add returned:
                                           1 or 2 for the best one so far, else 0 */
    double loss, nll, accuracy, score;  /* of a validation; score: by `metric` */
    int64_t cut;                        /* answers of a validation by TRF_METRIC_ERROR_RATE that
                                           reached the length limit without EOS */
    const trf_step_report *held;        /* all numbers of a validation; else NULL */
    const trf_early_stopping *stopping;
} trf_learn_progress;

/* How far trf_trainer_learn has come with a trainer. Checkpoints of the trainer have it. */
typedef struct trf_learn_state {
    trf_early_stopping stopping;        /* the validations so far; `validated` is -1 before the
                                           first */
    double seconds;                     /* of this run, earlier calls included; 0 if its option
                                           `seconds` is 0, so that runs have the same checkpoints */
    int32_t learnt;                     /* 1: an update was not skipped */
    /* The plan of a run with `seconds` or `fit`; 0: there is none. A run that goes on keeps it. */
    int64_t planned, fits;              /* updates in all, without the time of validations and
                                           with it */
    int64_t valid_every;                /* replaces the option; 0: it does not */
    int64_t cooldown, ends;             /* 0, or the update behind which the rate falls, and the
                                           last one */
} trf_learn_state;
/* The state of the trainer's run. You may write it: another call with `resume` goes on from it.
   NULL: trainer is NULL. */
TRF_API trf_learn_state *trf_trainer_learn_state(trf_trainer *trainer);

/* What trf_trainer_learn adapts to the length of a run. `updates` or the corpus's epochs give
   the length. With `seconds` trf_trainer_learn times the first updates and the first validation. It
   changes the trainer's options. It never makes the warm-up or the time between validations longer.
   TRF_NOAM keeps its warm-up, because its peak depends on it. */
enum {
    TRF_FIT_WARMUP = 1,         /* at most an eighth of the updates */
    TRF_FIT_COSINE = 2,         /* total_steps is the number of updates */
    TRF_FIT_VALIDATION = 4,     /* with `seconds`: ten validations, which take at most a fifth of
                                   the time */
    TRF_FIT_ALL = 7
};

typedef struct trf_learn_options {
    int64_t updates;            /* training ends at this update of the trainer; >= 0;
                                   default TRF_ENDLESS */
    double seconds;             /* training ends after this time; 0: never; default 0 */
    int64_t valid_every;        /* updates between two validations; >= 1; default 1000 */
    int32_t patience;           /* training ends after this many validations without a better
                                   score; once the score is perfect, after 3 of them at most.
                                   0: never, not even then; default 10 */
    double cooldown;            /* where patience would end training, it goes on for this share of
                                   the updates so far while the rate falls to final_rate, by
                                   trf_train_options.cooldown. Not with TRF_COSINE, nor when the
                                   score is perfect. 0..10; 0: training ends; default 0 */
    double ema;                 /* share of the moving average, 0..0.5; 0: no average;
                                   default 0.002 */
    trf_metric metric;          /* default TRF_METRIC_LOSS */
    int32_t accumulate;         /* batches per update; >= 1; default 1 */
    trf_noise *noise, *held_out_noise;  /* applied to batches, and to held-out ones; default NULL */
    trf_search search;          /* for TRF_METRIC_ERROR_RATE, with the trainer's hooks instead of
                                   its own; default trf_search_defaults with beam 1 and
                                   max_sentences 0 */
    /* Computes the score, for TRF_METRIC_CUSTOM or instead of another metric. The other metric then
       says only which scores are better. `model` is valid during this call only. Return non-zero to
       end with TRF_E_CANCELLED. default NULL */
    int (*custom)(void *user, const trf_model *model, double *score);
    /* Called after each update and each validation. Return non-zero to end training here, as after
       the last update. default NULL: not called */
    int (*progress)(void *user, const trf_learn_progress *progress);
    /* Gets a line of text about the run, without a line break: one a second at most while it
       trains, and one at the end. default NULL: not called */
    void (*say)(void *user, const char *line);
    /* Called before each validation, and without held-out pairs where one would be. The model has
       the weights that are validated. Return non-zero to end with TRF_E_CANCELLED.
       default NULL: not called */
    int (*due)(void *user, int64_t update);
    /* Called between two updates, where a run can go on from: at each multiple of save_every, after
       a validation that is the best so far, at the end, after TRF_E_CANCELLED, and after another
       failure if there were updates, except TRF_E_NONFINITE: its weights do not recover. Save a
       checkpoint here: it has the validations, the moving average and the best weights too.
       default NULL: not called */
    void (*save)(void *user, const trf_trainer *trainer, const trf_corpus *corpus);
    int32_t fit;                /* a sum of TRF_FIT_...; default 0. A recipe has TRF_FIT_ALL */
    int64_t save_every;         /* updates between two calls of save; 0: none of these; default 0 */
    int32_t resume;             /* 1: goes on with the run that ended, or whose checkpoint was
                                   loaded: its validations, its time, its moving average, its best
                                   weights. 0: begins another run. default 0 */
    int32_t discard_best;       /* 1: keeps no copy of the best weights, and leaves the last ones in
                                   the model: `progress` has saved the best ones. default 0 */
    /* With several ranks: replaces each number by the largest of all ranks. All ranks call it at
       the same points. Rank 0 alone then validates, keeps an average and tells the time, and a
       cancel hook, `progress` or an unreadable batch of one rank ends all of them at the same
       update. default NULL: every rank does all of it, so `seconds` must be 0 */
    void (*agree)(void *user, double *numbers, int32_t n);
    void *user;                 /* first argument of these functions */
} trf_learn_options;

/* Why trf_trainer_learn ended. */
typedef enum trf_learn_end {
    TRF_END_UPDATES = 0, TRF_END_PATIENCE = 1, TRF_END_SECONDS = 2, TRF_END_EPOCHS = 3,
    TRF_END_PROGRESS = 4, TRF_LEARN_END_COUNT
} trf_learn_end;

typedef struct trf_learn_report {
    trf_learn_end end;
    int64_t updates;            /* of this call, skipped ones included */
    int64_t skipped;            /* updates that were skipped (trf_step_report.skipped) */
    trf_early_stopping stopping;
    trf_step_report last;       /* of the last update */
} trf_learn_report;

TRF_API trf_learn_options trf_learn_defaults(void);
/* Trains until an end is reached, then leaves the best weights in the model: those of the best
   validation, or the last ones if held_out is NULL or empty. It validates at every multiple of
   valid_every and at the end. If `ema` is above 0, the weights that are validated, and finally left
   in the model, are the moving average (trf_trainer_average). held_out may have any size: it is
   divided into batches within the trainer's limits. The report may be NULL. Another call continues
   from the weights in the model, with Adam's last moments.

   It takes memory beside the trainer's: twice that of the weights for `ema`, once or twice for the
   best ones.

   To interrupt a run and to go on with the same bits: save a checkpoint in `save`, load it with
   trf_checkpoint_load, and call trf_trainer_learn again with `resume` (examples/learn.c).
     TRF_E_INVALID_ARG   no end is set: updates, seconds, patience with held-out pairs, progress,
                         or the epochs of the corpus; ranks have `seconds`, but no `agree`; or
                         TRF_METRIC_CUSTOM has no `custom`
     TRF_E_STATE         the corpus has no pairs
     TRF_E_NONFINITE     a hundred updates in a row were skipped
   After any failure, TRF_E_CANCELLED included, the report is filled, gradients of an incomplete
   update are discarded, and the model has the best validated weights if there are any. A checkpoint
   that is saved now, and another call with `resume`, go on from the weights of the last update.
   They repeat the update that was cancelled, for which a batch could not be read, or whose device
   or all_reduce failed (TRF_E_BACKEND). After other errors its batches count as used. */
TRF_API trf_status trf_trainer_learn(trf_trainer *trainer, trf_corpus *corpus,
                                     const trf_batch *held_out, const trf_learn_options *options,
                                     trf_learn_report *report, trf_error *err);

/* Records a validation; update is >= 1. Returns 2 for a new best score, 1 for an equal score with a
   smaller loss, else 0. Error rates above 100 count as 100. A better score sets `wait` to 0. So
   does a smaller loss, but only while the score is no better than that of empty answers. */
TRF_API int trf_early_stopping_add(trf_early_stopping *stopping, trf_metric metric, int64_t update,
                                   double score, double loss);
/* Number of further validations without a better score until training ends; 0: now. patience 0:
   INT32_MAX. Once the best score is perfect, it counts down from 3, or from a smaller patience. */
TRF_API int32_t trf_early_stopping_left(const trf_early_stopping *stopping, trf_metric metric,
                                        int32_t patience);

/* An exponential moving average e of the weights w. After each update e += share * (w - e); the
   share is 1 - decay. Early updates use 9 / (10 + update) while that is larger than the given
   share, so that the random initial weights fade soon. This is TensorFlow's rule for num_updates;
   Polyak and Juditsky 1992 take the uniform mean.
   The average lies on the trainer's device and belongs to the trainer, whose checkpoints have it.

       trf_trainer_average         share 1 begins the average with the weights: call it so before
                                   the first update, but not after loading a checkpoint with an
                                   average. Call it after each update with a share above 0, at most
                                   0.5
       trf_trainer_use_average     1: the model gets the average, so that you can validate or save
                                   it; 0: it gets the weights back, to the bit. An update between
                                   the two goes on from the average, and 0 then changes nothing

   trf_trainer_tensor shows the average.
   TRF_E_STATE: no average has begun, or trf_trainer_average while the model has it. */
TRF_API trf_status trf_trainer_average(trf_trainer *trainer, double share, trf_error *err);
TRF_API trf_status trf_trainer_use_average(trf_trainer *trainer, int32_t use, trf_error *err);

/* Translates the sources and counts the edits from each answer to its target, per 100 target ids:
   insertions, deletions and substitutions (Levenshtein 1966). For words this is WER, for characters
   CER.
     - unk never matches.
     - A repeated source is translated once, and compared with its nearest target.
     - An empty source has an empty answer. */
TRF_API trf_status trf_translator_error_rate(trf_translator *translator, const trf_batch *pairs,
                                             double *percent, trf_error *err);

/* How much time a good model may cost. */
typedef enum trf_effort {
    TRF_EFFORT_NORMAL = 0,
    TRF_EFFORT_QUICK  = 1,      /* a quarter of the patience, then a short cooldown to rate 0 */
    TRF_EFFORT_BEST   = 2,      /* three models with consistency, and one that learns from them:
                                   about ten times as long. The model is as large and as fast as
                                   that of NORMAL. With ANY and NUMBERS: one model */
    TRF_EFFORT_COUNT
} trf_effort;

/* What the recipe needs to know about the data. */
typedef struct trf_data_stats {
    trf_kind kind;                          /* of the model; 0 is TRF_ENCODER_DECODER */
    trf_head head;                          /* of an encoder-only model, not NONE; else NONE */
    int32_t n_labels;                       /* as in trf_config */
    trf_label_kind label_kind;              /* the same */
    int64_t pairs;                          /* number of pairs to learn from; >= 1 */
    int64_t different;                      /* how many of them differ: copies are no more to learn
                                               from; 0: all; at most pairs */
    int64_t source_tokens, target_tokens;   /* of all pairs; a sequence counts its ids plus one */
    int32_t longest;                        /* ids of the longest sequence; 0..2^20 - 1 */
    int32_t longest_source, longest_target; /* of each side; 0: unknown; at most `longest` */
    int32_t source_vocab, target_vocab;     /* sizes, 5..2^24; 0 for a side that is not there */
    int32_t one_vocabulary;                 /* 1: both sides share one */
    int32_t d_model;                        /* width of the model, 1..65536; 0: chosen */
    int64_t updates_per_epoch;              /* 0: estimated */
    int64_t updates;                        /* how long to train; 0: until nothing improves */
    trf_effort effort;                      /* 0: NORMAL */
} trf_data_stats;

/* All options that follow from the data. You may change them before use. */
typedef struct trf_recipe {
    trf_config config;
    trf_train_options training;
    trf_corpus_options corpus;
    trf_learn_options learning;
    int32_t teachers;                       /* BEST: number of models that are trained first, each
                                               from another seed, to teach the last one; else 0 */
    double teacher_share;                   /* `share` of trf_trainer_set_teachers.
                                               trf_dataset_train trains them all. Others: 0 */
    char reasons[1024];                     /* what was chosen and why, one line each */
} trf_recipe;

/* Finds the recipe for data. The rules come from measurements: tools/data/defaults.md.
   TRF_E_INVALID_ARG: a field is out of range; `what` is its name. */
TRF_API trf_status trf_recipe_find(trf_recipe *recipe, const trf_data_stats *stats, trf_error *err);

/* What a token is. AUTO: chosen from the text. */
typedef enum trf_tokens {
    TRF_TOKENS_AUTO = 0, TRF_TOKENS_WORDS = 1, TRF_TOKENS_CHARACTERS = 2, TRF_TOKENS_SUBWORDS = 3,
    TRF_TOKENS_COUNT
} trf_tokens;

typedef struct trf_token_choice {
    trf_tokens tokens[2];       /* in and out, of source and target: AUTO is replaced */
    int32_t vocab_size[2];      /* in and out, limit of ids. 0 becomes 32000; for subwords it
                                   becomes 500 to 8000 (only_read: 16000), more for more text */
    int32_t vocabularies;       /* in and out. 1: shared; 2: one per side; 0 becomes 1 or 2 */
    int32_t no_subwords;        /* in. 1: you have no subwords; words are chosen instead */
    int32_t only_read;          /* in. 1: no model predicts these tokens: labels are learnt */
    double unknown[2];          /* out: percentage of the words in a random tenth of the lines
                                   (below) that are in no other line; NAN: too few lines */
    int32_t would_be_subwords[2];       /* out. 1: words, because of no_subwords. (Targets whose
                                           blanks words lose are characters then) */
} trf_token_choice;
/* Draws a tenth of the lines at random, and chooses for each side that is AUTO:
       words       if the tenth has no words, or if at most 2 % of its words occur in none of the
                   other lines, unless words lose blanks of more than 1 % of the targets
       characters  else, if lines have on average fewer than two words, or fewer than 24 characters:
                   names, dates, glossaries
       subwords    else
   If one side has subwords and words were chosen for the other, the other gets subwords too if it
   has more than 1,000 different words.
   vocabularies 0: the sides share a vocabulary if their tokens and vocab_size are the same, and if
   they have subwords or at least a quarter of the target's different words are words of the source.
   vocabularies 1: two AUTO sides that would differ both get subwords if one of them has subwords,
   else characters.
   Lines are UTF-8. source or target may be NULL: that side is not there. NULL hooks: none. */
TRF_API trf_status trf_tokens_choose(trf_token_choice *choice, const char *const *source,
                                     const char *const *target,
                                     int64_t n, const trf_hooks *hooks, trf_error *err);

/* Which pairs are held out for validation. */
typedef enum trf_hold_out_rule {
    TRF_HOLD_OUT_RANDOM    = 0, /* by a hash of each pair's index; the same in every run. The first
                                   versions 0.3 of `trf` had this rule */
    TRF_HOLD_OUT_EVERY_KTH = 1, /* every k-th pair, as `trf` did in version 0.2 */
    TRF_HOLD_OUT_UNSEEN    = 2, /* as RANDOM, but repeated data are held out with all copies */
    TRF_HOLD_OUT_RULE_COUNT
} trf_hold_out_rule;

typedef enum trf_data_kind {
    TRF_DATA_PAIRS    = 0,      /* a source and a target, for an encoder-decoder */
    TRF_DATA_TEXTS    = 1,      /* texts alone, for a language model; EOS ends each */
    TRF_DATA_LABELLED = 2,      /* a text and its label, for an encoder with trf_reader_classify */
    TRF_DATA_TAGGED   = 3,      /* words and a label for each, for the same */
    TRF_DATA_SOURCES  = 4,      /* texts alone, for an encoder: trf_noise hides some of the ids */
    TRF_DATA_KIND_COUNT
} trf_data_kind;

/* A pair, and where it comes from. */
typedef struct trf_line {
    const char *source, *target;    /* as in trf_dataset_add */
    const char *path;           /* its file, for messages; NULL: none */
    int64_t number;             /* its line there, from 1; 0: none */
    int32_t held_out;           /* 1: for validation; 0: to learn from */
    int32_t ends_document;      /* 1: this line is the last one of its file (`files`). With target
                                   NULL there is no line: the line before was the last one */
} trf_line;

/* Why a pair is left out. */
typedef enum trf_fault {
    TRF_FAULT_UNREADABLE = 0,   /* a NUL, or not exactly one tab */
    TRF_FAULT_LONG       = 1,   /* more than max_length ids, or a word of more than 1 MiB */
    TRF_FAULT_EMPTY      = 2,   /* no ids */
    TRF_FAULT_HALF       = 3,   /* no ids on one side */
    TRF_FAULT_LABEL      = 4,   /* no label, an unknown one, one that occurs twice or has more than
                                   1,000 bytes, not one for each word; no number, or not as many as
                                   in the first pair */
    TRF_FAULT_LINE       = 5,   /* a line of more than max_line_bytes */
    TRF_FAULT_ENCODING   = 6,   /* no UTF-8 */
    TRF_FAULT_COUNT
} trf_fault;
typedef struct trf_bad_line {
    trf_fault fault;
    const char *why;            /* in words */
    const char *path;           /* as in trf_line: the file of its source */
    int64_t number;
    trf_side side;              /* TRF_SOURCE: the source has the fault, or both have */
} trf_bad_line;

/* The lines of a data set: first those to learn from, then those held out. */
typedef struct trf_data_lines {
    const char *const *source, *const *target;      /* (n + n_held_out) */
    int64_t n, n_held_out;
    const char *used;           /* (n) 1: the pair is learned from; NULL before
                                   trf_dataset_finish */
} trf_data_lines;

typedef struct trf_dataset_options {
    trf_data_kind kind;         /* default TRF_DATA_PAIRS */
    trf_tokens source_tokens, target_tokens;    /* WORDS, CHARACTERS or AUTO. Texts alone are
                                   targets, texts with labels sources. default TRF_TOKENS_AUTO */
    const trf_vocab *source_vocab, *target_vocab;   /* finished vocabularies to use instead of
                                   learned ones, as for subwords (trf_vocab_load). Without `config`
                                   their pad, bos, eos and unk are 0 to 3 (TRF_E_UNSUPPORTED).
                                   Borrowed until trf_dataset_finish. default NULL */
    const trf_config *config;   /* of the model that will read the ids: its eos ends texts alone.
                                   If it has segments, a tab in a text with a label separates two
                                   texts (trf_join). Borrowed until trf_dataset_finish.
                                   default NULL: eos is 2, and a tab is whitespace */
    int32_t max_vocab;          /* limit of a learned vocabulary's ids, 5..2^24; default 32000 */
    int64_t min_count;          /* tokens that occur less often are unknown; >= 1; default 1 */
    int32_t max_length;         /* ids of a side, 1..2^24. Longer pairs are left out, longer texts
                                   alone are cut; default 511 */
    int64_t max_line_bytes;     /* of a line of a file, without its end, >= 1; default 1048576 */
    int32_t chunk;              /* texts alone are cut after so many ids, 1..max_length; 0:
                                   max_length; default 0 */
    int32_t pack;               /* 1: a chunk may hold several texts; default 0 */
    int32_t files;              /* texts alone. 1: a file is one text and keeps its line ends; the
                                   last lines of all are held out. 0: each line is one; default 0 */
    int32_t keep_empty;         /* 1: pairs with one empty side stay; default 0 */
    int32_t source_first, source_last, target_first;    /* ids around each pair, as the tags of
                                   languages (trf_search has the same); default -1: none */
    int64_t held_out;           /* about how many pairs to hold out; 0: a twentieth of 20 or more,
                                   at most 1,000; -1: none; not read if you add some; default 0 */
    int32_t bare_chunks;        /* TEXTS. 1: a text that is cut does not begin with EOS. Set it to
                                   go on with a run of 0.2 or the first versions 0.3; default 0 */
    trf_hold_out_rule hold_out_rule;        /* default TRF_HOLD_OUT_UNSEEN */
    trf_label_kind label_kind;  /* LABELLED: what stands in the place of a label; default
                                   TRF_LABELS_ONE_OF.
                                     ANY      the labels that hold, a comma between two; there may
                                              be none
                                     NUMBERS  as many numbers as in the first pair that has some,
                                              whitespace between two: 0.5, -2, 1e3 */
    const char *labels;         /* labels, one per line, in byte order, for a model that has them;
                                   borrowed until trf_dataset_finish; default NULL: those of the
                                   data */
    const char *token_file;     /* path of a token file with the pairs to learn from. The data set
                                   then takes only pairs to hold out, and needs vocabularies, given
                                   or by make_vocabs. TRF_E_UNSUPPORTED: data with labels.
                                   Borrowed until trf_dataset_finish. default NULL */
    uint64_t seed;              /* of weights, dropout and order; default 1 */
    trf_device device;          /* of the recipe's configuration: threads, products, precision, a
                                   GPU; default trf_device_default() */
    int64_t updates;            /* as in trf_data_stats; default 0 */
    trf_effort effort;          /* default TRF_EFFORT_NORMAL */
    int32_t keep_texts;         /* 1: trf_data_results.lines after trf_dataset_finish; default 0 */
    /* Called for each line that has a fault. Return 0 to leave the line out, or another number to
       end the call with TRF_E_FORMAT. default NULL: trf_dataset_read fails, trf_dataset_finish
       leaves the line out */
    int (*bad_line)(void *user, const trf_bad_line *line);
    /* learning.say of the recipe, whose learning.user is `user`. default NULL */
    void (*say)(void *user, const char *line);
    /* Called once, after the pairs to hold out are known. Make vocabularies from the texts, for
       example of subwords, and set vocab[0] and vocab[1] to them, or both to the same one. The data
       set destroys them. Leave a vocabulary that is there already. The data set learns one that
       stays NULL. If the call fails, trf_dataset_finish fails with its status. default NULL */
    trf_status (*make_vocabs)(void *user, const trf_data_lines *lines, trf_vocab *vocab[2],
                              trf_error *err);
    /* Gets the ids of each pair instead of the corpus. A program may write them to a token file.
       The data set encodes a pair when it is added, and does not keep it. So it needs vocabularies,
       holds nothing out, and takes no labels (TRF_E_UNSUPPORTED). trf_dataset_finish then makes
       neither recipe nor corpus. default NULL */
    trf_status (*pair)(void *user, const int32_t *source, int32_t n_source, const int32_t *target,
                       int32_t n_target, trf_error *err);
    void *user;                 /* of these calls */
    trf_hooks hooks;            /* default none */
} trf_dataset_options;

typedef struct trf_dataset trf_dataset;
TRF_API trf_dataset_options trf_dataset_defaults(void);
TRF_API trf_status trf_dataset_create(trf_dataset **data, const trf_dataset_options *options,
                                      trf_error *err);
TRF_API void trf_dataset_destroy(trf_dataset *data);
/* Copies one pair. For texts alone, source is NULL, and the text is the target. A label is the
   target; whitespace around it is removed. The labels of words are separated by whitespace.
   TRF_E_FORMAT: a text or label is not UTF-8, or the label of a text has a line break. */
TRF_API trf_status trf_dataset_add(trf_dataset *data, const char *source, const char *target,
                                   trf_error *err);
/* The same with a line's place, for messages, and for pairs to hold out. */
TRF_API trf_status trf_dataset_add_line(trf_dataset *data, const trf_line *line, trf_error *err);
/* Adds all lines of a file, or of two. `source` and `target` are paths. LF or CR LF ends a line.
   held_out 1: they are for validation; 0: to learn from.
       pairs and labels    line n of file `source` belongs to line n of file `target`. If target is
                           NULL, each line of file `source` is a source, a tab and a target
       texts alone         each line of file `source` is a text; target is NULL
   A file may begin with a byte order mark (EF BB BF), which is no text. Call it again for more
   files. TRF_E_FORMAT: a line is not UTF-8, has a NUL or more than max_line_bytes, or does not have
   exactly one tab (`where` is its number), unless bad_line leaves it out; or one file has more
   lines than the other. Then nothing is added; with `pair`, nothing behind the bad line. */
TRF_API trf_status trf_dataset_read(trf_dataset *data, const char *source, const char *target,
                                    int32_t held_out, trf_error *err);
/* Builds the vocabularies, chooses the held-out pairs and finds the recipe. It leaves out pairs
   with a trf_fault, after bad_line has been asked; recipe.reasons has their number. A text alone
   with more than max_length ids is cut into chunks and stays; a language model's then begins with
   EOS, unless it is packed.
   A pair is not held out if one of its labels would otherwise be missing from the pairs to learn
   from. TRF_E_STATE: nothing is left to learn from, or there are fewer than two labels (with ANY or
   NUMBERS: none), or the data set is finished already. TRF_E_LIMIT: more than 65,536 labels. */
TRF_API trf_status trf_dataset_finish(trf_dataset *data, trf_error *err);
/* What a finished data set has. */
typedef struct trf_data_results {
    /* You may change the recipe before the call that reads it:
           config      trf_dataset_create_model
           training    trf_trainer_create
           learning    trf_trainer_learn
           corpus      has been read by trf_dataset_finish; trf_corpus_set_options changes it
       With `pair` of the options recipe and corpus are NULL */
    trf_recipe *recipe;
    trf_corpus *corpus;         /* the pairs to learn from */
    const trf_batch *held_out;  /* the pairs that are held out; NULL: none */
    trf_token_facts facts, held_out_facts;      /* numbers of both */
    int32_t stream;             /* 1: texts alone of a language model, of which a tenth or more of
                                   the chunks go on in the next one: long texts, files, packed
                                   texts. The model reads all chunks behind BOS. So a sampler
                                   without a prompt begins in the middle of a text. To begin a text,
                                   give it EOS as the prompt */
    const char *labels;         /* all labels in byte order, one per line; NULL: none, or numbers */
    trf_data_lines lines;       /* all lines, with keep_texts; else n is 0 */
} trf_data_results;
/* The results belong to the data set. NULL before trf_dataset_finish. */
TRF_API const trf_data_results *trf_dataset_results(const trf_dataset *data);
/* The text of held-out pair 0..count - 1, as it was added. NULL: none, or texts alone were cut. */
TRF_API const char *trf_dataset_held_out_text(const trf_dataset *data, int32_t pair, trf_side side);
/* Makes a model with the recipe's configuration and copies of the vocabularies. It belongs to the
   caller. Its metadata describe the data:
       "trained.longest"   ids of the longest sequence
       "source.outer_blanks"   "some" sources begin or end with a blank, or "none"
       "trained.ratio"     target ids for a thousand source ids; not if targets are labels
       "trained.stream"    "1" if trf_data_results.stream is 1
       "target.unknown"    number of target ids that are unk; not if targets are labels
       "labels"            only if targets are labels: all labels in byte order, one per line; line
                           i is column i of trf_reader_classify */
TRF_API trf_status trf_dataset_create_model(const trf_dataset *data, trf_model **model,
                                            trf_error *err);
/* Texts in, a trained model out. It calls trf_dataset_finish, unless you have done so to change the
   recipe. It makes the model, trains it by the recipe until an end, and leaves the best weights in
   it. Before that it trains the recipe's teachers, with the seeds that follow. The model belongs to
   the caller; it is NULL after a failure, TRF_E_CANCELLED included. The report may be NULL.
   TRF_E_STATE: data with `pair`, or of TRF_DATA_SOURCES whose recipe has no learning.noise. */
TRF_API trf_status trf_dataset_train(trf_dataset *data, trf_model **model, trf_learn_report *report,
                                     trf_error *err);

// trf train: chooses from the data what no option sets (recipe.c).

#ifndef TRF_RECIPE_H
#define TRF_RECIPE_H

#include "data.h"

/* The subjects of the recipe's reasons. */
enum reason {
    REASON_MODEL,
    REASON_BATCHES,
    REASON_RATE,
    REASON_DROPOUT,
    REASON_SMOOTHING,
    N_REASONS
};

/* What the recipe needs to know of the data and the training, and what it decides besides the
   settings. */
struct plan {
    trf_token_facts facts;          /* of the pairs to train on */
    int32_t longest;                /* tokens of their longest side, also of random segmentations */
    int32_t vocab_size[2], n_labels;
    int validates;                  /* 1: there are pairs to validate on */
    int64_t batches, per_epoch;     /* of one pass: batches, and updates, approximately */
    int64_t drawn, updates;         /* so far: batches, updates */
    uint64_t fingerprint;           /* of the batches of a pass, if other processes read them too */
    int cosine_follows; /* 1: the cosine ends with the training, not at a number that the user
                           gave */
    int32_t fit;                    /* what a run of --minutes plans itself: trf_learn_options */
    int explained[N_REASONS];       /* 1: the reason was printed, with its settings */
    double new_words; /* percentage of new words, for which subwords would be better, but this trf
                         cannot learn them; else 0 */
};

/* Each chooses a part of the settings that no option sets, and prints its choice. */
int decide_tokens(struct settings *s, const trf_data_lines *lines, const trf_vocab *const vocab[2],
                  struct plan *plan);
int decide_model(struct settings *s, const struct plan *plan);
int decide_batches(struct settings *s, const struct plan *plan);
int decide_schedule(struct settings *s, struct plan *plan);
int ends_cosine(const struct settings *s);      /* whether the user said at which update */
/* The end of a cosine after --resume. stored->total_steps 0: the schedule was no cosine. */
int settle_cosine(struct settings *s, struct plan *plan, const trf_train_options *stored);
/* Prints the number of updates and the schedule, also of a resumed run. */
void say_schedule(const struct settings *s, const struct plan *plan);
int check_ends(const struct settings *s,
               const struct plan *plan); /* fails if nothing ends training */
/* --valid-every 0 becomes the updates of a pass. */
void settle_validation(struct settings *s, const struct plan *plan);

#endif

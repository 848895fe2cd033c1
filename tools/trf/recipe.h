// trf train: what follows from the data where no option says otherwise (recipe.c).

#ifndef TRF_RECIPE_H
#define TRF_RECIPE_H

#include "data.h"

/* What the recipe gives reasons for, as its lines begin. */
enum reason { REASON_MODEL, REASON_BATCHES, REASON_RATE, REASON_DROPOUT, REASON_SMOOTHING, REASON_END, N_REASONS };

/* What is known of the data and of the training so far, and what was decided besides settings. */
struct plan {
    struct amounts amounts;
    int32_t vocab_size[2], n_labels;
    int validates;                  /* there are pairs to validate on */
    int64_t batches, per_epoch;     /* of a pass: batches, and updates, about */
    int64_t drawn, updates;         /* so far: batches, updates */
    int cosine_follows;             /* it ends with the training, which is no number of the command line */
    int explained[N_REASONS];       /* which of the recipe's reasons were told: their settings are known */
    double new_words;               /* percent that are new in other lines: subwords would do better than the words
                                       that this trf uses; 0: it uses what is best */
};

/* Each decides what is marked 'from the data' and was not given, and says what it decided. */
int decide_tokens(struct settings *s, const struct text text[2], const trf_vocab *const vocab[2], struct plan *plan);
int decide_model(struct settings *s, const struct plan *plan);
int decide_batches(struct settings *s, const struct plan *plan);
int decide_schedule(struct settings *s, struct plan *plan);
int ends_cosine(const struct settings *s);      /* whether the command line says where */
/* Where it ends, after --resume; total_steps 0: it was none before. */
int settle_cosine(struct settings *s, struct plan *plan, const trf_train_options *stored);
/* How many updates, and the rate's way; of a training that goes on too. */
void say_schedule(const struct settings *s, const struct plan *plan);
int check_ends(const struct settings *s, const struct plan *plan);      /* something must say when training ends */
/* --valid-every 0 and what else has another name for a number. */
void settle_validation(struct settings *s, const struct plan *plan);

#endif

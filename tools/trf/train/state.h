// trf train: the state of a training run, and its part of a checkpoint (state.c).

#ifndef TRF_STATE_H
#define TRF_STATE_H

#include "progress.h"
#include "validate.h"

/* The model of a past validation, in the file MODEL.update-NUMBER. */
struct kept { int64_t update; double score, loss; };

/* What an exact continuation needs besides what the library stores (trf_learn_state). It is stored
   in the checkpoint's metadata. */
struct state {
    int64_t batches;                    /* drawn so far */
    int cosine_follows;                 /* see struct plan */
    int32_t fit;                        /* of trf_learn_options */
    int has_notes;                      /* 1: of a checkpoint whose validations are notes, and whose
                                           average is a file beside it */
    trf_hold_out_rule picks;            /* which pairs are held out */
    uint64_t held_out;                  /* see held_out_hash */
    int had_average, had_mean,
        same_metric; /* of the checkpoint: --ema, --average, the same --metric */
    struct kept *kept;
    size_t n_kept, kept_capacity;
};

/* A training run in progress: what updates, validations and checkpoints need. */
struct run {
    struct settings *s;
    char *checkpoint;                   /* its path, or NULL */
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus;
    trf_noise *noise;                   /* hides tokens from the model; or NULL */
    trf_learn_state *learning;          /* of the trainer: validations, time */
    int64_t batches;                    /* of a pass over the corpus */
    struct validator validator;
    struct state state;
    struct log log;
    double score;                       /* of the model file; NAN: no validation yet */
};

int note(trf_model *model, const char *key,
         const char *value); /* in the model's metadata; value NULL: removes it */
int64_t updates_of(const trf_trainer *trainer);
int save_model(const struct run *r, const char *path);
int save_checkpoint(struct run *r);
uint64_t held_out_hash(const struct settings *s, const struct data *data);

/* "option.NAME", under which a checkpoint has the value of an option: NAME is that of trf 0.3. */
void stored_key(const struct row *row, char *key, size_t size);

/* After loading a checkpoint: read the state from the metadata of the model, and remove it
   there. */
int restore_options(struct run *r);
int restore_state(struct run *r, const struct data *data);
/* The moving average of a checkpoint that has it in a file beside it. */
int restore_average(struct run *r);

/* --keep-models and --average. */
int is_better(const struct run *r, double score, double loss, double than, double than_loss);
int keep_model(struct run *r, int64_t update, double score, double loss);
/* Removes the files that are not needed any more. The best one is kept with those of a mean, which
   may be worse. */
void remove_unneeded(struct run *r, int average_needed);
/* Replaces the weights by the mean of the kept models. --ema is not used after that. */
int set_mean_weights(struct run *r, int *count);
/* Copies the best model to the model file if it is among the kept ones. Returns whether it did. */
int copy_best(const struct run *r);
void warn_of_kept(const struct run *r);     /* kept files of an earlier training */
void end_run(struct run *r);

#endif

// trf train: the state of a training, and its part of a checkpoint (state.c).

#ifndef TRF_STATE_H
#define TRF_STATE_H

#include "progress.h"
#include "validate.h"

/* A model of a past validation, as a file: model's name, ".update-", number. */
struct kept { int64_t update; double score, loss; };

/* What must be known besides the checkpoint's weights to go on exactly; it travels in the checkpoint's metadata. */
struct state {
    trf_early_stopping stopping;        /* what validations have found */
    int64_t batches;                    /* drawn so far */
    int cosine_follows;                 /* see struct plan */
    double seconds;                     /* spent in earlier runs */
    int combed;                         /* every n-th pair is held out, as in checkpoints of before 0.3 */
    uint64_t held_out;                  /* fingerprint of the pairs it is about, and of how they are judged */
    int learnt;                         /* an update was applied: there is something to validate and to keep */
    int had_average, had_mean, same_metric;     /* the checkpoint had --ema; had --average; was judged as now */
    struct kept *kept;
    size_t n_kept, kept_capacity;
};

/* A training that runs: what updates, validations and checkpoints work on. */
struct run {
    struct settings *s;
    char *checkpoint;                   /* path, or NULL: none is kept */
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus;
    trf_noise *noise;                   /* where something is hidden from the model; else NULL */
    trf_ema *ema;                       /* --ema; or NULL */
    int64_t batches;                    /* of a pass over the corpus */
    struct validator validator;
    struct state state;
    struct log log;
    double score;                       /* of the model file; NAN: nothing was validated */
};

int note(trf_model *model, const char *key, const char *value);    /* in the model's metadata; NULL: none any more */
int save_model(const struct run *r, const char *path);
int save_checkpoint(struct run *r, double seconds);
uint64_t held_out_hash(const struct settings *s, const struct text held[2]);

/* After loading a checkpoint: from the metadata of the model, which loses them. */
int restore_options(struct run *r);
int restore_state(struct run *r);
int restore_average(struct run *r);

/* --ema: the average in the place of the weights, and back. */
int make_average_room(struct run *r);
int update_ema(struct run *r);
int apply_ema(struct run *r);
int restore_ema(struct run *r);

/* --keep and --average: models of past validations. */
int is_better(const struct run *r, double score, double loss, double than, double than_loss);
int keep_model(struct run *r, int64_t update, double score, double loss);
/* Removes the files that nothing needs any more. The best one stays beside those of a mean, which may be worse. */
void remove_unneeded(struct run *r, int average_needed);
/* The mean of the kept models becomes the model's weights. The average of --ema has no part in what follows. */
int become_mean(struct run *r, int *count);
/* The best one, if it is among the models that are kept, into the model file; whether that was done. */
int copy_best(const struct run *r);
void warn_of_kept(const struct run *r);     /* files of an earlier training */
void end_run(struct run *r);

#endif

// trf train: how good the model is on pairs that it is not trained on (validate.c).

#ifndef TRF_VALIDATE_H
#define TRF_VALIDATE_H

#include "data.h"
#include "progress.h"

/* The result of a validation. */
struct validation {
    double loss, nll, accuracy, score;
    double label_loss, label_accuracy;  /* of --objective pretrain; loss has the former */
    double f1, pearson, spearman;       /* of outputs (outputs.h), if labels are several or numbers */
    int cancelled;                  /* 1: a signal aborted it */
};

enum { N_SAMPLES = 3 };

/* The model, and the pairs to validate it on. */
struct validator {
    const struct settings *s;
    const trf_dataset *set;         /* has the texts of the pairs */
    trf_batch held;                 /* the pairs; none: empty */
    trf_model *model;
    trf_trainer *trainer;
    trf_noise *noise;               /* or NULL */
    int32_t n_labels;
    int64_t cut;                    /* its answers that reached the length limit without EOS */
    char *samples[N_SAMPLES];       /* answers of the last validation to three sources, or NULL */
};

int validates(const struct validator *v);       /* whether there are pairs */
int validate(struct validator *v, struct validation *result);
int score_held_out(struct validator *v, struct validation *result);     /* other metrics than loss and accuracy */
/* The figures of outputs, if the model has such labels; score by the metric. */
int measure_outputs(struct validator *v, struct validation *result);
int check_translating(
    struct validator *v); /* that it can translate: before training rather than after */
/* Prints the current answers to three of the pairs. */
void show_samples(struct validator *v);
void show_validation(const struct validator *v, struct log *log, int64_t update,
                     const struct validation *result, const char *remark);
void free_samples(struct validator *v);

#endif

// trf train: how good the model is on pairs that it does not learn from (validate.c).

#ifndef TRF_VALIDATE_H
#define TRF_VALIDATE_H

#include "data.h"
#include "progress.h"

/* A validation: the share of the loss, and of what was translated. */
struct validation {
    double loss, nll, accuracy, score;
    int cancelled;
};

enum { N_SAMPLES = 3 };

/* What is validated, and on what. */
struct validator {
    const struct settings *s;
    const struct pairs *pairs;
    trf_model *model;
    trf_trainer *trainer;
    trf_noise *noise;               /* or NULL */
    int32_t n_labels;
    char *samples[N_SAMPLES];       /* answers of the last validation to three sources, or NULL */
};

int validates(const struct validator *v);       /* whether there are pairs */
int validate(struct validator *v, struct validation *result);
int check_translating(struct validator *v);     /* better now than at the first validation */
/* Three of the pairs, as the model answers them now. */
void show_samples(struct validator *v);
void show_validation(const struct validator *v, struct log *log, int64_t update, const struct validation *result,
                     const char *remark);
void free_samples(struct validator *v);

#endif

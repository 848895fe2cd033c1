// trf train: all parts of a training, and how it comes to run.

#ifndef TRF_TRAINING_H
#define TRF_TRAINING_H

#include "encode.h"
#include "state.h"
#include "vocabulary.h"

/* Only what prepares a training knows all of it. What runs knows `run`. */
struct training {
    struct settings *s;
    struct examples data;
    struct vocabularies vocabularies;
    trf_model *from;                    /* --init-from, while beginning */
    struct labels labels;               /* of texts or words, where these are learned */
    struct plan plan;
    struct run run;
};

/* begin.c: a new model; resume.c: a checkpoint, and the data that belong to it. */
int begin_training(struct training *t);
int resume_training(struct training *t);
int read_picks(struct training *t);     /* how the checkpoint has held out pairs */

/* inherit.c: what a model to begin with, --init-from, brings. */
int begin_from(struct training *t);     /* the vocabularies and the architecture; */
int take_weights(struct training *t);   /* the weights */

/* setup.c: what both have in common. */
void set_limits(const struct settings *s, int32_t longest, trf_train_options *training);
void note_data(struct training *t, const trf_vocab *const vocab[2]);    /* in the plan */
int make_run(struct training *t);       /* what remains, once there are a model and a trainer */

#endif

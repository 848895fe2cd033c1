// trf train: all parts of a training run, and how it is prepared.

#ifndef TRF_TRAINING_H
#define TRF_TRAINING_H

#include "data.h"
#include "corpus.h"
#include "state.h"
#include "vocabulary.h"

/* Only the files that prepare a training run use this struct. The others use its parts. */
struct training {
    struct settings *s;
    struct data data;
    struct vocabularies vocabularies;
    trf_model *from;                    /* --init-from, until its weights are copied; --vocab-from,
                                           until its vocabularies are */
    int joint;                          /* 1: its vocabulary is one for both sides */
    struct labels labels;               /* for --objective classify and tag */
    trf_model *teachers[TRF_MAX_MODELS];
    struct plan plan;
    struct run run;
};

/* begin.c: a new model; resume.c: a checkpoint and its data. */
int begin_training(struct training *t);
int resume_training(struct training *t);

/* inherit.c: --init-from, --vocab-from: before the data are read, when their lines are there, and
   when there is a model. */
int load_from(struct training *t);      /* architecture, or special ids */
int inherit_vocabularies(struct training *t, const trf_data_lines *lines);
int take_weights(struct training *t);

/* setup.c: what both have in common. take_languages: the tags that `model` gives the pairs. */
int take_languages(struct training *t, const trf_model *model);
void set_limits(const struct settings *s, int32_t longest, trf_train_options *training);
void note_data(struct training *t, const trf_vocab *const vocab[2]);    /* in the plan */
int make_run(struct training *t);       /* the rest of `run`, after model and trainer */

/* teachers.c: the models of --teacher, when there is a trainer. */
int set_teachers(struct training *t);

#endif

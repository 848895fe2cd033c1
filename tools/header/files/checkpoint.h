#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/files.h"
#include "api/train.h"
#include "api/learn.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "system/text.h"
#include "model/params.h"
#include "model/model.h"
#include "train/options.h"
#include "train/trainer.h"
#include "train/step.h"
#include "data/corpus.h"
#include "files/container.h"
#include "files/reading.h"
#include "files/writing.h"
#include "files/store.h"
#include "files/store_read.h"
#include "files/store_write.h"

// >>checkpoint     a model, and everything needed to continue with the same bits
//
// Besides the weights a checkpoint contains Adam's moments, the numbers of steps and of updates of
// the moments, the training options, the frozen parameters, a place in the corpus, and what
// trf_trainer_learn needs: its validations, the moving average, the best weights. The place is
// the beginning of the step that is not complete: its batches are delivered again. Random numbers
// need no state. They follow from the seed, the step and the position in the batch (>>dropout).

#if !defined(TRF_NO_TRAIN)

/* Where a resumed run begins. With other data: at the corpus's own position. If the trainer is
   ahead of the corpus, the program has moved the corpus back: at the position that it was moved to.
   Else: at the trainer's position. */
TRF__FN trf_place trf__resume_place(const trf_trainer *trainer, const trf_corpus *corpus)
{
    trf_place next = trf__corpus_place(corpus), begin = trainer->begin;
    int behind = begin.epoch > next.epoch ||
        (begin.epoch == next.epoch && begin.batch > next.batch);
    if (begin.corpus != next.corpus) return next;
    if (behind) { begin.epoch = corpus->put_epoch; begin.batch = corpus->put_batch; }
    return begin;
}

enum { TRF__KEY_SIZE = 160 };
#define TRF__MISSED "trf.missed.%s"

/* The fields of trf_learn_state. A file has all of them or none. */
#define TRF__LEARN_FIELDS(X) \
    X(int64_t, stopping.validated) X(int64_t, stopping.best_update) X(double, stopping.best) \
    X(double, stopping.best_loss) X(int32_t, stopping.wait) X(double, seconds) X(int32_t, learnt)
/* Those that it has only with a plan, or with a cooldown. */
#define TRF__PLAN_FIELDS(X) X(int64_t, planned) X(int64_t, fits) X(int64_t, valid_every)
#define TRF__COOLDOWN_FIELDS(X) X(int64_t, cooldown) X(int64_t, ends)

/* What trf__metadata_checkpoint needs. */
typedef struct trf__resume {
    const trf_trainer *trainer;
    const trf_corpus *corpus;
    int64_t updates;
} trf__resume;

/* The notes of a checkpoint. trf__file_write writes them twice and expects the same bytes. */
TRF__FN void trf__metadata_checkpoint(trf__text *notes, const void *of)
{
    const trf__resume *resume = (const trf__resume *)of;
    const trf_trainer *trainer = resume->trainer;
    const trf__layout *layout = &trainer->model->layout;
    char key[TRF__KEY_SIZE];
    const int more = trainer->options.consistency > 0 || trainer->options.cooldown;
    const int learn = trainer->average || trainer->best;
    trf__metadata_content(notes, trainer->model, "checkpoint",
                          more ? TRF__FORMAT_MORE : learn ? TRF__FORMAT_LEARN : TRF__FORMAT);
    trf__metadata_int(notes, "trf.step", trainer->step);
    trf__metadata_int(notes, "trf.updates", resume->updates);
    if (strchr(trainer->frozen, '1')) trf__add_metadata(notes, "trf.frozen", trainer->frozen);
    for (int32_t i = 0; i < layout->n_params; i++)
        if (trainer->missed[i] != 0 || trainer->frozen[i] == '1') {
            snprintf(key, sizeof key, TRF__MISSED, layout->params[i].name);
            trf__metadata_int(notes, key, trainer->missed[i]);
        }
    if (resume->corpus) {
        trf_place place = trf__resume_place(trainer, resume->corpus);
        trf__metadata_int(notes, "trf.corpus.fingerprint", (int64_t)place.corpus);
        trf__metadata_int(notes, "trf.corpus.epoch", place.epoch);
        trf__metadata_int(notes, "trf.corpus.batch", place.batch);
    }
#define TRF__X(type, field, low, high, stored) \
    TRF__NOTE_FIELD("trf.train.", &trainer->options, type, field, stored)
    TRF__TRAIN_FIELDS(TRF__X)
#undef TRF__X
    const trf_learn_state *l = &trainer->learning;
    if (!l->learnt && l->stopping.validated < 0) return;
#define TRF__X(type, field) TRF__NOTE_FIELD("trf.learn.", l, type, field, 1)
    TRF__LEARN_FIELDS(TRF__X)
    if (l->cooldown) { TRF__COOLDOWN_FIELDS(TRF__X) }
    if (l->planned) { TRF__PLAN_FIELDS(TRF__X) }
#undef TRF__X
}

/* Gradients of a step in progress are not stored, so there must be none. */
TRF_API trf_status trf_checkpoint_save(const trf_trainer *trainer, const trf_corpus *corpus,
                                       const char *path, const trf_save_options *options,
                                       trf_error *err)
{
    trf__destination to;
    trf__clip_result clip_result;
    trf__clear(err);
    TRF__TRY(trf__save_to(&to, path, options, err));
    if (!trainer) return trf__fail_null(err, "trainer");
    TRF__FAIL_IF(options && options->weights != TRF_WEIGHTS_FULL, TRF_E_INVALID_ARG, -1, "weights",
                 "a checkpoint has full weights: expected TRF_WEIGHTS_FULL");
    TRF__TRY(trf__check_no_gradients(trainer, err));
    TRF__TRY(trf__clip_result_of(trainer, &clip_result, err));
    const trf_real *const companions[TRF__COMPANIONS] = { trainer->m, trainer->v, trainer->average,
                                                          trainer->best };
    const trf__resume of = { trainer, corpus, clip_result.updates };
    const trf_real *weights = trainer->left ? trainer->raw : trainer->model->weights;
    trf_status status = trf__write_model(trainer->model, weights, companions,
                                         trf__metadata_checkpoint, &of, &to, TRF_WEIGHTS_FULL, err);
    return trf__name_file(status, path ? path : "memory", err);
}

// >>checkpoint-load the mirror of saving
//
// trf_checkpoint_load reads the model as any model, then the trainer, then moves the corpus. The
// caller gets all of it or nothing.

/* The training options in a file. Fields that an older format lacks get their defaults. */
TRF__FN trf_status trf__stored_training(const trf_file *file, trf_train_options *o, trf_error *err)
{
    int64_t format;
    *o = trf_train_defaults();
    TRF__TRY(trf__read_int(file, "trf.format", &format, err));
#define TRF__X(type, field, low, high, stored) TRF__READ_FIELD("trf.train.", o, type, field, stored)
    TRF__TRAIN_FIELDS(TRF__X)
#undef TRF__X
    return TRF_OK;
}

TRF_API trf_status trf_file_training(const trf_file *file, trf_train_options *options,
                                     trf_error *err)
{
    trf_train_options stored;
    if (options) TRF__ZERO(*options);
    TRF__TRY(trf__begin(file, "file", err));
    if (!options) return trf__fail_null(err, "options");
    TRF__TRY(trf__name_file(trf__stored_training(file, &stored, err), file->path, err));
    *options = stored;
    return TRF_OK;
}

/* The training options of a checkpoint, checked against its model. */
TRF__FN trf_status trf__read_training(const trf_file *file, const trf_config *c,
                                      trf_train_options *o, trf_error *err)
{
    TRF__TRY(trf__stored_training(file, o, err));
    o->hooks = c->hooks;
    TRF__TRY(trf__file_fault(trf_train_check(o, c, err), err));
    /* these sizes are a plan, which grows if needed: a file cannot make us plan for much */
    o->source_tokens = (int32_t)trf__min64(o->source_tokens, TRF__USUAL_TOKENS);
    o->target_tokens = (int32_t)trf__min64(o->target_tokens, TRF__USUAL_TOKENS);
    o->sequences = (int32_t)trf__min64(o->sequences, TRF__USUAL_SEQUENCES);
    o->longest = (int32_t)trf__min64(o->longest, TRF__USUAL_LONGEST);
    return TRF_OK;
}

/* The place in the corpus, if the file has one. It is compared only when a corpus resumes. */
TRF__FN trf_status trf__read_place(const trf_file *file, trf_place *place, trf_error *err)
{
    int64_t fingerprint;
    if (!trf_file_metadata(file, "trf.corpus.fingerprint")) return TRF_OK;
    TRF__TRY(trf__read_int(file, "trf.corpus.fingerprint", &fingerprint, err));
    TRF__TRY(trf__read_int(file, "trf.corpus.epoch", &place->epoch, err));
    TRF__TRY(trf__read_int(file, "trf.corpus.batch", &place->batch, err));
    place->corpus = (uint64_t)fingerprint;
    return TRF__OK_IF(place->epoch >= 0 && place->batch >= 0, TRF_E_STATE, -1, "corpus",
                      "the data have no batch %lld of epoch %lld", (long long)place->batch,
                      (long long)place->epoch);
}

TRF_API trf_status trf_corpus_resume(trf_corpus *corpus, const trf_trainer *trainer, trf_error *err)
{
    TRF__TRY(trf__begin(corpus, "corpus", err));
    if (!trainer) { trf__corpus_rewind(corpus); return TRF_OK; }
    TRF__TRY(trf__check_no_gradients(trainer, err));
    uint64_t fingerprint = trf__corpus_fingerprint(corpus);
    TRF__FAIL_IF(trainer->begin.corpus == 0, TRF_E_STATE, -1, "corpus",
                 "the trainer does not record which batch of the corpus comes next");
    TRF__FAIL_IF(trainer->begin.corpus != fingerprint, TRF_E_STATE, -1, "corpus",
                 "the corpus is not the one that the trainer learned from: fingerprint %016llx, "
                 "expected %016llx", (unsigned long long)fingerprint,
                 (unsigned long long)trainer->begin.corpus);
    /* batches of a step that was not complete are delivered again */
    return trf__corpus_seek(corpus, trainer->begin.epoch, trainer->begin.batch, err);
}

/* Reads which parameters are frozen, and how many of `updates` updates each has missed. */
TRF__FN trf_status trf__read_frozen(const trf_file *file, trf_trainer *t, int64_t updates,
                                    trf_error *err)
{
    const char *frozen = trf_file_metadata(file, "trf.frozen");
    const trf__layout *layout = &t->model->layout;
    size_t n = (size_t)layout->n_params;
    char key[TRF__KEY_SIZE];
    TRF__FAIL_IF(frozen && (strlen(frozen) != n || strspn(frozen, "01") != n), TRF_E_FORMAT, -1,
                 "trf.frozen", "expected a 0 or a 1 for each of %d parameters, got \"%.40s\"",
                 (int)n, frozen);
    if (frozen) memcpy(t->frozen, frozen, n);
    for (int32_t i = 0; i < layout->n_params; i++) {
        int64_t least = t->frozen[i] == '1' ? -updates : 0;
        snprintf(key, sizeof key, TRF__MISSED, layout->params[i].name);
        t->missed[i] = least;           /* a file without the key: frozen from the beginning, or
                                           never */
        if (!trf_file_metadata(file, key)) continue;
        TRF__TRY(trf__read_int(file, key, &t->missed[i], err));
        TRF__FAIL_IF(t->missed[i] < least || t->missed[i] > least + updates, TRF_E_FORMAT,
                     t->missed[i], "trf.missed", "%s: expected %lld to %lld updates, got %lld", key,
                     (long long)least, (long long)(least + updates), (long long)t->missed[i]);
    }
    trf__split_params(t, t->options.decay_all);
    return TRF_OK;
}

/* Reads what trf_trainer_learn needs, as far as the file has it. */
TRF__FN trf_status trf__read_learning(trf_file *file, trf_trainer *t, trf_error *err)
{
    const trf_model *model = t->model;
    trf_real **const arenas[2] = {&t->average, &t->best};
    static const char *const names[2] = {"averaged", "best"};
    const int64_t format = TRF__FORMAT_LEARN;
    for (int i = 0; i < 2; i++) {
        const trf__companion *c = &trf__companions[2 + i];
        if (!trf__has_companion(file, model, c)) continue;
        TRF__TRY(trf__weights_alloc(t, arenas[i], names[i], err));
        TRF__TRY(trf__read_arena(file, model, c, *arenas[i], err));
    }
    t->average_read = t->average != NULL;
    if (!trf_file_metadata(file, "trf.learn.learnt")) return TRF_OK;
    trf_learn_state *l = &t->learning;
#define TRF__X(type, field) TRF__READ_FIELD("trf.learn.", l, type, field, 1)
    TRF__LEARN_FIELDS(TRF__X)
    if (trf_file_metadata(file, "trf.learn.planned")) { TRF__PLAN_FIELDS(TRF__X) }
    if (trf_file_metadata(file, "trf.learn.cooldown")) { TRF__COOLDOWN_FIELDS(TRF__X) }
#undef TRF__X
    return TRF__OK_IF(l->stopping.wait >= 0 && l->seconds >= 0 && l->planned >= 0 && l->fits >= 0 &&
                      l->valid_every >= 0 && l->cooldown >= 0 &&
                      (!l->cooldown || l->ends > l->cooldown), TRF_E_FORMAT, -1, "trf.learn",
                      "trf.learn.stopping.wait, seconds, planned, fits, valid_every and cooldown "
                      "must not be negative, and ends must be larger than cooldown");
}

/* Makes the trainer of a checkpoint. `training` replaces the stored options unless it is NULL. */
TRF__FN trf_status trf__trainer_read(trf_trainer **out, trf_model *model, trf_file *file,
                                     const trf_train_options *training, trf_error *err)
{
    trf_train_options stored;
    trf_trainer *t;
    int64_t step, updates;
    TRF__ZEROED(trf_place, place);
    TRF__TRY(trf__read_int(file, "trf.step", &step, err));
    TRF__TRY(trf__read_int(file, "trf.updates", &updates, err));
    TRF__TRY(trf__read_place(file, &place, err));
    if (!training) {
        TRF__TRY(trf__read_training(file, &model->config, &stored, err));
        training = &stored;
    }
    TRF__TRY(trf_trainer_create(&t, model, training, err));
    /* no batch has been seen since the place, so all three marks are equal */
    t->begin = t->before = t->behind = place;
    trf_status status = trf__set_counters(t, step, updates, err);
    if (status == TRF_OK) status = trf__read_frozen(file, t, updates, err);
    if (status == TRF_OK) status = trf__read_arena(file, model, &trf__companions[0], t->m, err);
    if (status == TRF_OK) status = trf__read_arena(file, model, &trf__companions[1], t->v, err);
    if (status == TRF_OK) status = trf__read_learning(file, t, err);
    if (status != TRF_OK) { trf_trainer_destroy(t); return status; }
    *out = t;
    return TRF_OK;
}

TRF_API trf_status trf_checkpoint_load(trf_model **model, trf_trainer **trainer, trf_corpus *corpus,
                                       const char *path, const trf_train_options *training,
                                       const trf_load_options *options, trf_error *err)
{
    trf_error own;
    trf_load_options defaults = trf_load_defaults();
    trf_file *file;
    trf_model *m = NULL;
    trf_trainer *t = NULL;
    if (!err) err = &own;       /* trf__file_fault reads it */
    trf__clear(err);
    if (model) *model = NULL;
    if (trainer) *trainer = NULL;
    if (!model || !trainer) return trf__fail_null(err, model ? "trainer" : "model");
    if (!options) options = &defaults;
    TRF__TRY(trf__device_check(&options->device, err));
    TRF__TRY(trf_file_open(&file, path, options, err));
    const char *content = trf_file_metadata(file, "trf.content");
    trf_status status = TRF__OK_IF(trf__has_content(file, "checkpoint"), TRF_E_STATE, -1,
                                   "trf.content", "the file is not a checkpoint, its trf.content "
                                   "is \"%.20s\": load a model with trf_model_load",
                                   content ? content : "");
    if (status == TRF_OK) status = trf__model_read(&m, file, options, err);
    if (status == TRF_OK) status = trf__trainer_read(&t, m, file, training, err);
    if (status == TRF_OK && corpus) status = trf_corpus_resume(corpus, t, err);
    trf_file_close(file);
    if (status != TRF_OK) {
        trf_trainer_destroy(t);
        trf_model_destroy(m);
        return trf__name_file(status, path ? path : "memory", err);
    }
    *model = m;
    *trainer = t;
    return TRF_OK;
}

#endif

#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/train.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "model/checks.h"
#include "model/params.h"
#include "model/model.h"
#include "pass/stacks.h"
#include "pass/alike.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "pass/forward.h"
#include "train/trainer.h"

// >>teachers       trained models whose answers a trainer's model learns
//
// Before a part's own forward pass each teacher computes the part without dropout, and the op `mix`
// adds its distribution to those of the teachers before it. The loss reads the logarithms of their
// mean (>>cross_entropy): (rows, vocab), without the rows that only fill up the trainer's.

enum { TRF__TEACHER_ROWS = 512 };       /* so many rows have logits of one teacher at a time */

/* Room for a batch. */
TRF__FN trf_status trf__teachers_reserve(trf_trainer *t, const trf__limits *need, trf_error *err)
{
    trf__teachers *teachers = &t->teachers;
    const trf__run *run = &t->pass.run;
    size_t row = trf__bytes(trf__n_logits(t->pass.config), sizeof(trf_real));
    int64_t rows = need->target_rows;
    if (!teachers->n) return TRF_OK;
    for (int32_t k = 0; k < teachers->n; k++)
        TRF__TRY(trf__pass_reserve(&teachers->passes[k], need, err));
    TRF__TRY(trf__workspace_reserve(run, &teachers->said, trf__bytes(rows, row), err));
    if (teachers->n == 1) return TRF_OK;
    return trf__workspace_reserve(run, &teachers->logits,
                                  trf__bytes(trf__min64(rows, TRF__TEACHER_ROWS), row), err);
}

/* Adds what teacher k has left in its rows. */
TRF__FN void trf__teacher_says(const trf__teachers *teachers, int32_t k)
{
    const trf__pass *pass = &teachers->passes[k];
    const int64_t rows = pass->decoder.rows;
    trf_real *said = (trf_real *)teachers->said.memory;
    trf__mix j = trf__mix_of(pass, (trf_real *)teachers->logits.memory, k == 0);
    j.weight = 1.0 / teachers->n; j.rule = TRF_ENSEMBLE_ARITHMETIC;
    for (int64_t row = 0; row < rows; row += j.rows) {
        j.rows = trf__min64(rows - row, TRF__TEACHER_ROWS);
        j.sum = said + row * j.vocab;
        j.x = trf__act_at(&pass->run, pass->decoder.out, row * j.d);
        pass->run.backend->mix(&pass->run, &j);
    }
}

/* What the teachers say of a part that the trainer's pass has. */
TRF__FN trf_status trf__teach(trf_trainer *t, const trf_batch *part, trf_error *err)
{
    trf__teachers *teachers = &t->teachers;
    trf__pass *pass = &t->pass;
    trf__limits need;
    int64_t wanted;
    if (!teachers->n) return TRF_OK;
    TRF__TRY(trf__batch_needs(pass, part, pass->sides, &need, &wanted, err));
    TRF__TRY(trf__teachers_reserve(t, &need, err));
    for (int32_t k = 0; k < teachers->n; k++) {
        trf__pass *teacher = &teachers->passes[k];
        teacher->run.hooks = pass->run.hooks;
        teacher->encoder.tagged = pass->encoder.tagged;
        TRF__TRY(trf__pass_sides(teacher, part, teacher->sides, 0, err));
        TRF__TRY(trf__pass_forward(teacher, teacher->sides, err));
        trf__teacher_says(teachers, k);
    }
    pass->back.teachers = (const trf_real *)teachers->said.memory;
    return TRF_OK;
}

/* Whether a model can teach the trainer's model. */
TRF__FN trf_status trf__check_teacher(const trf_trainer *t, const trf_model *teacher, int32_t k,
                                      trf_error *err)
{
    const trf_model *model = t->model;
    if (!teacher) return trf__fail_null(err, "teachers");
    TRF__FAIL_IF(teacher == model, TRF_E_INVALID_ARG, k, "teachers",
                 "teacher %d is the trained model itself", (int)k);
    TRF__TRY(trf__check_models(model, teacher, k, 1, err));
    TRF__FAIL_IF(trf__has_source(&model->config) &&
                 (teacher->config.source_vocab != model->config.source_vocab ||
                 !trf__same_tokens(model->source, teacher->source)), TRF_E_INVALID_ARG, k,
                 "teachers", "teacher %d has another source vocabulary than the trained model",
                 (int)k);
    return TRF__OK_IF(teacher->config.max_length >= model->config.max_length, TRF_E_INVALID_ARG, k,
                      "teachers", "teacher %d reads at most %d tokens, but the trained model %d",
                      (int)k, (int)teacher->config.max_length, (int)model->config.max_length);
}

TRF_API trf_status trf_trainer_set_teachers(trf_trainer *trainer, const trf_model *const *teachers,
                                            int32_t n, double share, trf_error *err)
{
    trf_status status = TRF_OK;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    TRF__TRY(trf__check_range("n", n, 0, TRF_MAX_MODELS, err));
    TRF__TRY(trf__check_range("share", share, 0, 1, err));
    if (n > 0 && !teachers) return trf__fail_null(err, "teachers");
    TRF__TRY(trf__check_no_gradients(trainer, err));
    TRF__TRY(trf__check_whole(trainer->model, err));
    TRF__FAIL_IF(n > 0 && trainer->stage, TRF_E_STATE, -1, "trainer",
                 "a trainer with a stage has no teachers");
    TRF__FAIL_IF(n > 0 && trainer->pass.config->label_kind, TRF_E_UNSUPPORTED, -1, "label_kind",
                 "labels that are numbers are no distribution that teachers could give");
    for (int32_t k = 0; k < n; k++) TRF__TRY(trf__check_teacher(trainer, teachers[k], k, err));
    TRF__ZEROED(trf__teachers, made);
    TRF__ZEROED(trf__limits, limits);
    limits.longest = limits.copies = 1;
    made.share = share;
    if (n > 0) made.passes = TRF__NEW_ZEROED(trf__pass, &trainer->options.hooks, n);
    TRF__FAIL_IF(n > 0 && !made.passes, TRF_E_NOMEM, -1, "teachers", "no memory for %d teachers",
                 (int)n);
    made.n = n;
    for (int32_t k = 0; k < n && status == TRF_OK; k++) {
        trf__run run = trainer->pass.run;
        if (teachers[k]->packed) run.format = teachers[k]->layout.format;
        status = trf__pass_join(&made.passes[k], teachers[k], &run, limits, err);
    }
    if (status != TRF_OK) {
        trf__teachers_close(trainer, &made);
        return status;
    }
    trf__teachers_close(trainer, &trainer->teachers);
    trainer->teachers = made;
    trainer->pass.back.teachers = NULL;
    trainer->pass.back.share = share;
    trainer->pass.back.options_set++;
    return TRF_OK;
}

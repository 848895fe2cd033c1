#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/train.h"
#include "api/stages.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/tensors.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/params.h"
#include "model/model.h"
#include "model/copies.h"
#include "pass/stacks.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "pass/backward.h"
#include "train/options.h"
#include "train/trainer.h"
#include "train/step.h"

// >>stages         a model split by layers
//
// A stage runs the passes of >>forward and >>backward over the layers that it has. A seam is the
// place between two layers where one stage ends and the next one begins. Rows cross it, first those
// of the encoder, then those of the decoder:
//
//   layers             forward                            backward
//   encoder | encoder  the encoder's states               their gradient
//   encoder | decoder  the encoder's output               its gradient, of all later layers
//   decoder | decoder  the encoder's output, states       the same, and the states' gradient
//
// The states are s of the last sublayer with pre-norm, y with post-norm. Both streams of the next
// stage (>>pass) begin with them. The encoder's output goes through all stages behind the encoder.
// Its gradient comes back through them, added up from the last layer to the first.

enum { TRF__MOST_SLOTS = 1 << 16 };

TRF_API void trf_stage_destroy(trf_stage *stage)
{
    if (!stage) return;
    trf_trainer *t = stage->trainer;
    if (t->stage == stage) trf_trainer_discard_gradients(t);
    for (int32_t i = 0; stage->slots && i < stage->n_slots; i++)
        if (stage->slots[i].pass.run.backend) trf__pass_free(&stage->slots[i].pass);
    t->pass.run.backend->release(&t->pass.run, stage->device_numbers,
                                 trf__bytes(stage->n_device, sizeof(trf_real)));
    trf__free(&t->options.hooks, stage->memory, stage->bytes);
    t->stage = NULL;
    trf__free(&t->options.hooks, stage, sizeof *stage);
}

/* Counts the parameters of all stages, and the numbers of an exchange. */
TRF__FN void trf__stage_count(trf_stage *stage, const trf_config *c)
{
    stage->whole.params = NULL;
    trf__lay_out(&stage->whole, c);
    stage->n_numbers = TRF__TALLIES + TRF__EXACT * stage->whole.n_tiles;
    stage->n_device = trf__max64(stage->n_numbers, TRF__SHARED_CHUNK);
}

/* Cuts the host's memory of a stage; base NULL: only counts. */
TRF__FN size_t trf__stage_layout(trf_stage *stage, int64_t n_tiles, char *base)
{
    trf__cursor cursor = trf__cursor_at(base);
    stage->slots = TRF__TAKE(trf__slot, &cursor, stage->n_slots);
    stage->whole.params = TRF__TAKE(trf__param, &cursor, stage->whole.n_params);
    stage->partial = TRF__TAKE(double, &cursor, n_tiles);
    stage->numbers = trf__take_reals(&cursor, stage->n_numbers, 1);
    return cursor.used;
}

/* The slots, whose activations are those of the stage's layers alone, and what the exchange takes.
   What is there after a failure, trf_stage_destroy frees. */
TRF__FN trf_status trf__stage_open(trf_stage *stage, trf_error *err)
{
    const trf_trainer *t = stage->trainer;
    const trf__run *run = &t->pass.run;
    const trf_config *c = &t->model->config;
    trf__stage_count(stage, c);
    stage->bytes = trf__stage_layout(stage, t->n_tiles, NULL);
    stage->memory = TRF__NEW_ZEROED(char, &t->options.hooks, stage->bytes);
    stage->slots = NULL;
    stage->whole.params = NULL;
    TRF__FAIL_IF(!stage->memory, TRF_E_NOMEM, -1, "stage", "no memory for a stage");
    trf__stage_layout(stage, t->n_tiles, stage->memory);
    trf__lay_out(&stage->whole, c);
    stage->device_numbers = (trf_real *)run->backend->alloc(run, trf__bytes(stage->n_device,
                                                                            sizeof(trf_real)));
    TRF__FAIL_IF(!stage->device_numbers, TRF_E_NOMEM, -1, "stage", "no memory for a stage");
    for (int32_t i = 0; i < stage->n_slots; i++) {
        trf__pass *pass = &stage->slots[i].pass;
        *pass = trf__pass_of(c, &t->model->layout, &t->pass.plan.limits, &t->options, run);
        pass->plan.has = TRF__KEPT;
        TRF__TRY(trf__pass_alloc(pass, &t->pass.plan.limits, &t->options, err));
    }
    return TRF_OK;
}

TRF_API trf_status trf_stage_create(trf_stage **stage, trf_trainer *trainer, int32_t in_flight,
                                    int (*sum)(void *user, trf_real *numbers, size_t count,
                                               void *stream),
                                    void *user, trf_error *err)
{
    trf_stage *made;
    TRF__BEGIN_NEW(stage);
    if (!trainer) return trf__fail_null(err, "trainer");
    TRF__TRY(trf__check_range("in_flight", in_flight, 1, TRF__MOST_SLOTS, err));
    if (!sum && trf__is_stage(trainer->model)) return trf__fail_null(err, "sum");
    TRF__FAIL_IF(trainer->stage, TRF_E_STATE, -1, "trainer", "the trainer has a stage already");
    TRF__FAIL_IF(trainer->teachers.n, TRF_E_STATE, -1, "trainer",
                 "a trainer with teachers has no stages");
    TRF__TRY(trf__check_no_gradients(trainer, err));
    TRF__ALLOC_ZEROED(trf_stage, made, &trainer->options.hooks, 1, "stage", "for a stage");
    made->trainer = trainer;
    made->n_slots = in_flight;
    made->sum = sum;
    made->user = user;
    trf_status status = trf__stage_open(made, err);
    if (status != TRF_OK) { trf_stage_destroy(made); return status; }
    *stage = trainer->stage = made;
    return TRF_OK;
}

TRF_API size_t trf_stage_memory(const trf_config *config, const trf_train_options *options,
                                int32_t first_layer, int32_t end_layer, int32_t in_flight,
                                trf_error *err)
{
    trf_train_options defaults = trf_train_defaults();
    size_t slot;
    if (!options) options = &defaults;
    if (trf_config_check(config, NULL, err) || trf_train_check(options, config, err) ||
        trf__check_layers(config, first_layer, end_layer, err) ||
        trf__check_range("in_flight", in_flight, 1, TRF__MOST_SLOTS, err)) return 0;
    TRF__ZEROED(trf__layout, layout);
    TRF__ZEROED(trf_stage, count);
    layout.first = first_layer;
    if (end_layer - first_layer < config->encoder_layers + config->decoder_layers)
        layout.end = end_layer;
    trf__lay_out(&layout, config);
    trf__stage_count(&count, config);
    count.n_slots = in_flight;
    size_t bytes = trf__add_size(trf__layout_memory(&layout),
                                 trf__trainer_bytes(config, options, &layout, &slot));
    bytes = trf__add_size(bytes, trf__stage_layout(&count, layout.n_tiles, NULL));
    bytes = trf__add_size(bytes, trf__add_size(trf__bytes(count.n_device, sizeof(trf_real)),
                                              sizeof count));
    return trf__add_size(bytes, trf__bytes(in_flight, slot));
}

// >>stage-seams    rows that come in and go out

/* Of a batch with these rows of source and target: at[0] rows of the encoder and at[1] rows of the
   decoder come in from the stage before (`out` 0) or go out to the next one (1). Returns whether
   there is a stage on that side. */
TRF__FN int trf__seam_rows(const trf__pass *pass, const int64_t rows[2], int out, int64_t at[2])
{
    const trf__stack *encoder = &pass->encoder, *decoder = &pass->decoder;
    int states = decoder->n_sublayers > 0 && (out ? !pass->projects : !decoder->embeds);
    int source = (pass->sides & TRF__SOURCE) && (out ? !pass->projects : !encoder->embeds);
    at[0] = source ? rows[0] : 0;
    at[1] = states ? rows[1] : 0;
    return source || states;
}

/* Checks the caller's tensor for the rows that come in or go out. */
TRF__FN trf_status trf__check_seam(const trf__pass *pass, const int64_t rows[2], int out,
                                   const char *name, const trf_tensor *x, trf_error *err)
{
    int64_t at[2];
    if (!trf__seam_rows(pass, rows, out, at)) return TRF_OK;
    if (!x) return trf__fail_null(err, name);
    if (!x->data && at[0] + at[1] == 0) return TRF_OK;
    return trf__shape_check(x, name, at[0] + at[1], pass->config->d_model, err);
}

/* Copies rows between the host and an activation, which is padded to so many: with `fetch` to the
   host, else from there, and its other rows become zero. Returns what follows the host's rows. Each
   copy of a batch is padded. */
TRF__FN trf_real *trf__move_rows(const trf__pass *pass, trf__act *act, trf_real *rows, int64_t n,
                                 int64_t padded, int fetch)
{
    const trf__run *run = &pass->run;
    int64_t d = pass->config->d_model, numbers = n / pass->copies * d;
    if (n == 0) return rows;
    if (!fetch && n < padded) run->backend->zero(run, act, trf__bytes(padded * d, run->element));
    for (int k = 0; k < pass->copies; k++, rows += numbers) {
        trf__act *at = trf__act_at(run, act, k * (padded / pass->copies) * d);
        if (fetch) run->backend->fetch(run, rows, at, numbers);
        else run->backend->feed(run, at, rows, numbers);
    }
    return rows;
}

/* Copies rows of another stage from the host: those of the encoder, then those of the decoder. With
   `fetch` copies rows for another stage to the host, where they are after the next sync. */
TRF__FN void trf__seam_move(const trf__slot *slot, int out, const trf_tensor *x, trf__act *encoder,
                            trf__act *decoder, int fetch)
{
    const trf__pass *pass = &slot->pass;
    int64_t at[2];
    if (!trf__seam_rows(pass, slot->rows, out, at)) return;
    trf_real *rows = trf__move_rows(pass, encoder, x->data, at[0], pass->encoder.rows, fetch);
    trf__move_rows(pass, decoder, rows, at[1], pass->decoder.rows, fetch);
}

// >>stage-calls    forward and backward of one micro-batch

/* Checks a batch as the whole model would: all stages refuse the same batches. `need` becomes what
   it takes here, rows its rows of the source and of the target, and *wanted the number of its
   target rows or labels in the whole model. */
TRF__FN trf_status trf__stage_needs(const trf_stage *stage, const trf_batch *batch,
                                    trf__limits *need, int64_t rows[2], int64_t *wanted,
                                    trf_error *err)
{
    const trf_trainer *t = stage->trainer;
    const trf__pass *pass = &stage->slots[0].pass;
    const trf_config *c = &t->model->config;
    int whole = (trf__has_source(c) ? TRF__SOURCE : 0) | (trf__has_target(c) ? TRF__TARGET : 0) |
        (c->head ? TRF__HEAD : 0);
    int64_t here;
    TRF__TRY(trf__batch_needs(pass, batch, whole, need, wanted, err));
    TRF__TRY(trf__check_ordinal(t, batch, err));
    TRF__FAIL_IF(t->options.parts, TRF_E_STATE, -1, "parts",
                 "a stage computes the batches that it gets: parts must be 0, got %d",
                 (int)t->options.parts);
    TRF__TRY(trf__batch_needs(pass, batch, pass->sides, need, &here, err));
    rows[0] = need->source_rows * trf__copies(&t->options);
    rows[1] = need->target_rows * trf__copies(&t->options);
    return TRF_OK;
}

TRF_API trf_status trf_stage_rows(const trf_stage *stage, const trf_batch *batch, int64_t *in,
                                  int64_t *out, trf_error *err)
{
    trf__limits need;
    int64_t rows[2], at[2], wanted;
    if (in) *in = 0;
    if (out) *out = 0;
    TRF__TRY(trf__begin(stage, "stage", err));
    TRF__TRY(trf__stage_needs(stage, batch, &need, rows, &wanted, err));
    trf__seam_rows(&stage->slots[0].pass, rows, 0, at);
    if (in) *in = at[0] + at[1];
    trf__seam_rows(&stage->slots[0].pass, rows, 1, at);
    if (out) *out = at[0] + at[1];
    return TRF_OK;
}

/* A slot that waits for its backward pass, or does not. */
TRF__FN trf_status trf__slot_at(const trf_stage *stage, int32_t number, int waits, trf__slot **slot,
                                trf_error *err)
{
    TRF__TRY(trf__begin(stage, "stage", err));
    TRF__TRY(trf__check_range("slot", number, 0, stage->n_slots - 1, err));
    *slot = &stage->slots[number];
    return TRF__OK_IF((*slot)->waits == waits, TRF_E_STATE, number, "slot",
                      waits ? "slot %d has no micro-batch: call trf_stage_forward first"
                            : "slot %d still waits for trf_stage_backward", (int)number);
}

/* What a slot uses of the trainer's pass, which may have grown since. */
TRF__FN void trf__slot_borrow(const trf_trainer *t, trf__pass *pass)
{
    pass->run = t->pass.run;
    pass->weights = t->pass.weights;
    pass->loss = t->pass.loss;
    pass->back = t->pass.back;
    pass->table = t->pass.table;
    pass->buckets = t->pass.buckets;
    pass->proj = t->pass.proj;
    pass->back.gradients = trf__round_gradients(t, 0);
    pass->back.first = t->micro == 0;
}

/* Memory for a batch: that of the slot, then the scratch of the trainer. On failure nothing has
   changed but the size of the slot. */
TRF__FN trf_status trf__slot_reserve(trf_trainer *t, trf__pass *pass, const trf__limits *need,
                                     trf_error *err)
{
    trf__limits full = trf__pass_filled(pass, need);
    trf__limits grown = trf__limits_grown(&pass->plan.limits, &full, pass->config->max_length);
    grown.recompute = t->options.recompute;
    grown.copies = trf__copies(&t->options);
    if (memcmp(&grown, &pass->plan.limits, sizeof grown) != 0)
        TRF__TRY(trf__pass_resize(pass, &grown, err));
    return trf__pass_reserve(&t->pass, &full, err);
}

/* trf_stage_forward in a free slot, without the position in the data. */
TRF__FN trf_status trf__stage_forward(trf_stage *stage, trf__slot *at, const trf_batch *batch,
                                      const trf_tensor *in, trf_tensor *out, trf_error *err)
{
    trf_trainer *t = stage->trainer;
    trf__pass *pass = &at->pass;
    trf__limits need;
    int64_t rows[2], wanted;
    pass->copies = trf__copies(&t->options);
    TRF__TRY(trf__stage_needs(stage, batch, &need, rows, &wanted, err));
    TRF__TRY(trf__check_seam(pass, rows, 0, "in", in, err));
    TRF__TRY(trf__check_seam(pass, rows, 1, "out", out, err));
    trf__slot_borrow(t, pass);
    TRF__TRY(trf__slot_reserve(t, pass, &need, err));
    trf__set_now(t);
    trf__block_upload(&t->pass, sizeof t->pass.block.now);
    if (t->micro == 0 && stage->waiting == 0 && t->written) trf__pack_weights(&t->pass);
    trf__slot_borrow(t, pass);
    trf__follow_options(pass, &t->options);
    pass->block.now = t->pass.block.now;
    if (pass->config->sequence_labels)
        pass->block.now.sequence_weight = trf__sequence_weight(&batch->target, wanted);
    TRF__TRY(trf__pass_sides(pass, batch, pass->sides, batch->ordinal + t->sentences, err));
    memcpy(at->rows, rows, sizeof rows);
    trf__seam_move(at, 0, in, pass->encoder.embedded, pass->decoder.embedded, 0);
    TRF__TRY(trf__pass_train(pass, &t->options, TRF__FORWARD_PASS, err));
    trf__seam_move(at, 1, out, pass->encoder.out, pass->decoder.out, 1);
    return pass->run.backend->sync(&pass->run, err);
}

TRF_API trf_status trf_stage_forward(trf_stage *stage, int32_t slot, const trf_batch *batch,
                                     const trf_tensor *in, trf_tensor *out, trf_error *err)
{
    trf__slot *at;
    TRF__TRY(trf__slot_at(stage, slot, 0, &at, err));
    if (!batch) return trf__fail_null(err, "batch");
    trf_trainer *t = stage->trainer;
    trf_status status = trf__stage_forward(stage, at, batch, in, out, err);
    trf__advance_position(t, batch->place, t->micro == 0 && stage->waiting == 0, status);
    TRF__TRY(status);
    at->waits = 1;
    stage->waiting++;
    t->sentences += trf__max64(batch->source.count, batch->target.count);
    return TRF_OK;
}

/* The gradient of the encoder's output is in dencoded where the stage has no encoder layers.
   hooks.cancel is not called: what half of a micro-batch has added could not be taken back. */
TRF_API trf_status trf_stage_backward(trf_stage *stage, int32_t slot, const trf_tensor *dout,
                                      trf_tensor *din, trf_step_report *report, trf_error *err)
{
    trf__slot *at;
    trf__sums sums[2];
    double source_tokens = 0;
    trf__report_clear(report);
    TRF__TRY(trf__slot_at(stage, slot, 1, &at, err));
    trf_trainer *t = stage->trainer;
    trf__pass *pass = &at->pass;
    TRF__TRY(trf__check_seam(pass, at->rows, 1, "dout", dout, err));
    TRF__TRY(trf__check_seam(pass, at->rows, 0, "din", din, err));
    trf__slot_borrow(t, pass);
    pass->run.hooks.cancel = NULL;
    trf__seam_move(at, 1, dout, pass->back.dencoded, pass->back.din, 0);
    TRF__ZERO(sums);
    trf_status status = trf__pass_train(pass, &t->options, TRF__BACKWARD_PASS, err);
    if (status == TRF_OK) {
        trf__act *first = pass->encoder.n_sublayers > 0 ? pass->back.ds : pass->back.dencoded;
        trf__seam_move(at, 0, din, first, pass->back.ds, 1);
        status = pass->run.backend->sync(&pass->run, err);
    }
    if (status == TRF_OK && report && pass->projects)
        status = trf__add_sums(pass, sums, &source_tokens, err);
    if (status != TRF_OK) { trf_trainer_discard_gradients(t); return status; }
    at->waits = 0;
    stage->waiting--;
    t->micro++;
    t->target_rows += pass->target_rows;
    if (!report) return TRF_OK;
    report->step = t->step + 1;
    if (!pass->projects) return TRF_OK;
    trf__report_means(report, sums, source_tokens);
    return TRF_OK;
}

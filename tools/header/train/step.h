#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/train.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "model/checks.h"
#include "model/batches.h"
#include "model/params.h"
#include "model/copies.h"
#include "pass/stacks.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "pass/forward.h"
#include "pass/backward.h"
#include "train/options.h"
#include "train/trainer.h"
#include "train/teachers.h"

// >>reduce         sums of gradients over parts and ranks
//
// In round k rank r computes part r + k * n_ranks. all_reduce adds up the gradients of a round, in
// the order of the ranks if it keeps one. Before round k rank 0 adds the sum of the rounds before
// to its own gradients. So all parts are added in their order:
//
//   ((part 0 + part 1 + ... + part R-1) + part R) + ...
//
// A rank that has no part in a round brings -0, and a part without pairs is -0: it changes no bit
// of the sum.

TRF__FN void trf__accumulate_gradients(const trf_trainer *t, trf_real *to, const trf_real *from,
                                       int64_t n)
{
    trf__accumulate a;
    a.to = to;
    a.from = from;
    a.n = n;
    t->pass.run.backend->accumulate(&t->pass.run, &a);
}

/* Sums the gradients of a round that begin at `begin` and are not summed yet. The backward pass
   calls this too (back.finished). */
TRF__FN void trf__sum_from(void *trainer, int64_t begin)
{
    trf_trainer *t = (trf_trainer *)trainer;
    const trf_train_options *o = &t->options;
    const trf__run *run = &t->pass.run;
    trf_real *g = trf__round_gradients(t, t->round) + begin;
    int64_t n = t->unsummed - begin;
    if (n <= 0) return;
    if (t->round > 0 && o->rank == 0) trf__accumulate_gradients(t, g, g - t->n_gradients, n);
    if (o->all_reduce && !t->reduce_failed)
        t->reduce_failed = o->all_reduce(o->user, g, (size_t)n, run->backend->stream(run)) != 0;
    t->unsummed = begin;
}

/* Ends the sums of a round: first the last layer and the loss, at last the embeddings. */
TRF__FN void trf__sum_round(trf_trainer *t)
{
    const trf__layout *layout = &t->model->layout;
    const trf_train_options *o = &t->options;
    int32_t i = layout->n_parts;
    while (t->unsummed > 0) {
        do i--; while (i >= 0 && layout->specs[i].number > 0);     /* to a layer's first sublayer */
        trf__sum_from(t, i >= 0 ? layout->specs[i].in.w : 0);
    }
    if (o->all_reduce && o->all_reduce_end && !t->reduce_failed)
        t->reduce_failed = o->all_reduce_end(o->user) != 0;
    t->round++;
    t->unsummed = t->n_gradients;
}

/* The gradients after the last round: the sum of all parts. */
TRF__FN trf_real *trf__summed_gradients(const trf_trainer *t)
{
    return trf__round_gradients(t, trf__rounds(&t->options) - 1);
}

/* Ends all sums. The number of tokens is then read from them. */
TRF__FN trf_status trf__reduce(trf_trainer *t, double *tokens, trf_error *err)
{
    const trf__run *run = &t->pass.run;
    trf_real slots[TRF__TALLIES];
    *tokens = (double)t->target_rows;
    while (t->round < trf__rounds(&t->options)) trf__sum_round(t);
    TRF__FAIL_IF(t->reduce_failed, TRF_E_BACKEND, -1, "all_reduce",
                 "the all_reduce hook failed; the gradients were discarded, and nothing was "
                 "updated");
    if (!t->options.all_reduce) return TRF_OK;
    run->backend->download(run, slots, trf__summed_gradients(t) + t->model->layout.n_weights,
                           sizeof slots);
    TRF__TRY(run->backend->sync(run, err));
    *tokens = trf__tally(slots, TRF__TALLY_TOKENS);
    return TRF_OK;
}

// >>step           one update, in two halves
//
// A step waits for the device only to fill in a report.

TRF__FN void trf__report_clear(trf_step_report *report)
{
    if (report) memset(report, 0, sizeof *report);
}

/* sums: of tokens, and of the labels of sequences. */
TRF__FN void trf__report_means(trf_step_report *report, const trf__sums sums[2],
                               double source_tokens)
{
    double n = sums->tokens > 0 ? sums->tokens : 1, labels = sums[1].tokens;
    report->sequence_loss = sums[1].loss / (labels > 0 ? labels : 1);
    report->sequence_accuracy = sums[1].correct / (labels > 0 ? labels : 1);
    report->sequence_targets = (int64_t)(labels + 0.5);
    report->loss = sums->loss / n + report->sequence_loss;
    report->divergence = sums->divergence / n + sums[1].divergence / (labels > 0 ? labels : 1);
    report->nll = sums->nll / n;
    report->accuracy = sums->correct / n;
    report->target_tokens = (int64_t)(sums->tokens + 0.5);
    report->source_tokens = (int64_t)(source_tokens + 0.5);
}

/* Adds the sums that the loss of a batch has left. */
TRF__FN trf_status trf__add_sums(const trf__pass *pass, trf__sums *sums, double *source_tokens,
                                 trf_error *err)
{
    trf__sums batch[2];
    int n = pass->config->sequence_labels ? 2 : 1;
    TRF__ZERO(batch);
    pass->run.backend->download(&pass->run, batch, pass->loss.sums, trf__bytes(n, sizeof *batch));
    TRF__TRY(pass->run.backend->sync(&pass->run, err));
#define TRF__X(second, field, tally) sums[second].field += batch[second].field;
    TRF__TALLIED(TRF__X)
#undef TRF__X
    *source_tokens += pass->block.now.source_tokens;
    return TRF_OK;
}

TRF_API void trf_trainer_discard_gradients(trf_trainer *trainer)
{
    if (!trainer) return;
    trf_stage *stage = trainer->stage;
    for (int32_t i = 0; stage && i < stage->n_slots; i++) stage->slots[i].waits = 0;
    if (stage) stage->waiting = 0;
    trainer->micro = trainer->sentences = trainer->target_rows = 0;
    trainer->round = trainer->reduce_failed = 0;
    trainer->unsummed = trainer->n_gradients;
    if (trainer->before.corpus == trainer->begin.corpus) trainer->begin = trainer->before;
    trainer->behind = trainer->begin;           /* their batches are still to come */
}

/* Forgets gradients whose batches count as used: what comes next is at `next`. */
TRF__FN void trf__drop_gradients(trf_trainer *t, trf_place next)
{
    trf_trainer_discard_gradients(t);
    t->begin = t->before = t->behind = next;
}

TRF_API void trf_trainer_end_step(trf_trainer *trainer)
{
    if (!trainer) return;
    trf__drop_gradients(trainer, trainer->behind);
    trainer->step++;
}

// >>step-batch     one batch: its parts, its gradients, its place in the data

/* One forward and backward pass that adds to the gradients of a round. Sequences of later
   micro-batches are numbered on, so that a split batch has the dropout masks of the whole. */
TRF__FN trf_status trf__part_backward(trf_trainer *t, const trf_batch *part, int32_t round,
                                      trf_error *err)
{
    trf__pass *pass = &t->pass;
    pass->back.first = t->micro == 0;
    pass->back.gradients = trf__round_gradients(t, round);
    TRF__TRY(trf__pass_sides(pass, part, pass->sides, part->ordinal + t->sentences, err));
    TRF__TRY(trf__teach(t, part, err));
    return trf__pass_train(pass, &t->options, TRF__BOTH_PASSES, err);
}

/* The gradients of a part without pairs. Also uploads the step's numbers, which otherwise travel
   with a batch. */
TRF__FN void trf__empty_part(trf_trainer *t, int32_t round)
{
    if (t->micro == 0)
        trf__accumulate_gradients(t, trf__round_gradients(t, round), NULL, t->n_gradients);
    trf__block_upload(&t->pass, sizeof t->pass.block.now);
}

/* The numbers of the step that begins. */
TRF__FN void trf__set_now(trf_trainer *t)
{
    const trf_train_options *o = &t->options;
    trf__now *now = &t->pass.block.now;
    now->key0 = (uint32_t)o->seed;
    now->key1 = (uint32_t)(o->seed >> 32);
    now->step = (uint32_t)(t->step + 1);
    now->learning_rate = trf_learning_rate(o, t->pass.config->d_model, t->step + 1);
}

/* The part of a batch that this rank computes in a round. It may be empty. */
TRF__FN trf_status trf__round_part(const trf_trainer *t, const trf_batch *batch, int32_t round,
                                   trf_batch *part, trf_error *err)
{
    const trf_train_options *o = &t->options;
    int64_t number = o->rank + (int64_t)round * o->n_ranks;
    *part = *batch;
    if (!o->parts) return TRF_OK;
    if (number < o->parts) return trf_batch_part(batch, (int32_t)number, o->parts, part, err);
    part->source.count = part->target.count = 0;
    return TRF_OK;
}

/* The weight of a sequence's label, if that of a token weighs 1: tokens / labelled sequences. The
   sum of both losses is divided by `tokens`, the number of labelled tokens. With this weight the
   result is the mean loss of the tokens plus the mean loss of the sequences. */
TRF__FN double trf__sequence_weight(const trf_sequences *target, int64_t tokens)
{
    int64_t labelled = 0, at = 0;
    int32_t i;
    for (i = 0; i < target->count; at += target->lengths[i++]) labelled += target->ids[at] >= 0;
    return labelled ? (double)tokens / (double)labelled : 0;
}

TRF__FN trf_status trf__check_ordinal(const trf_trainer *t, const trf_batch *batch, trf_error *err)
{
    int64_t most = INT32_MAX - t->sentences - trf__max64(batch->source.count, batch->target.count);
    return TRF__OK_IF(batch->ordinal >= 0 && batch->ordinal <= most, TRF_E_INVALID_ARG,
                      batch->ordinal, "ordinal", "ordinal must be between 0 and %lld (pairs of a "
                      "step are numbered in 31 bits), got %lld", (long long)most,
                      (long long)batch->ordinal);
}

/* Whatever can be wrong with a batch is found before the first of its parts is computed, on all
   ranks alike, and then the memory for the largest part is there. */
TRF__FN trf_status trf__check_parts(trf_trainer *t, const trf_batch *batch, trf_error *err)
{
    trf__pass *pass = &t->pass;
    int64_t wanted;
    trf__limits need;
    trf_batch part;
    TRF__TRY(trf__check_ordinal(t, batch, err));
    if (!t->options.parts && !pass->config->sequence_labels) return TRF_OK;
    TRF__TRY(trf__batch_needs(pass, batch, pass->sides, &need, &wanted, err));
    if (pass->config->sequence_labels)
        pass->block.now.sequence_weight = trf__sequence_weight(&batch->target, wanted);
    for (int32_t round = 0; round < trf__rounds(&t->options); round++) {
        TRF__TRY(trf__round_part(t, batch, round, &part, err));
        TRF__TRY(trf__batch_needs(pass, &part, pass->sides, &need, &wanted, err));
        TRF__TRY(trf__teachers_reserve(t, &need, err));
        need = trf__pass_filled(pass, &need);
        TRF__TRY(trf__pass_reserve(pass, &need, err));
    }
    return TRF_OK;
}

/* Adds the gradients of a batch, and the sums of its loss to `sums` and *source_tokens if `sums` is
   not NULL. at_once 1: each layer's gradients are summed over the ranks as soon as they are final.
   After the first part nothing is cancelled: half of a batch could not be removed. */
TRF__FN trf_status trf__micro_batch(trf_trainer *t, const trf_batch *batch, int at_once,
                                    trf__sums *sums, double *source_tokens, trf_error *err)
{
    trf__pass *pass = &t->pass;
    int (*cancel)(void *user) = pass->run.hooks.cancel;
    int64_t rows = 0;
    trf_batch part;
    pass->copies = trf__copies(&t->options);
    trf_status status = trf__check_parts(t, batch, err);
    trf__set_now(t);
    if (t->micro == 0 && t->written) trf__pack_weights(pass);
    for (int32_t round = 0; status == TRF_OK && round < trf__rounds(&t->options); round++) {
        status = trf__round_part(t, batch, round, &part, err);
        if (status == TRF_OK && t->options.parts && !part.source.count && !part.target.count) {
            trf__empty_part(t, round);
        } else if (status == TRF_OK) {
            pass->back.finished = at_once ? trf__sum_from : NULL;
            status = trf__part_backward(t, &part, round, err);
            pass->back.finished = NULL;
            if (status == TRF_OK && sums) status = trf__add_sums(pass, sums, source_tokens, err);
            rows += pass->target_rows;
        }
        if (status == TRF_OK && at_once) trf__sum_round(t);
        pass->run.hooks.cancel = NULL;
    }
    pass->run.hooks.cancel = cancel;
    TRF__TRY(status);
    t->micro++;
    t->sentences += trf__max64(batch->source.count, batch->target.count);
    t->target_rows += rows;
    return TRF_OK;
}

/* Moves the trainer's positions in the data after a batch. A batch that has no position moves
   nothing. A rejected batch of the same data counts as used; a cancelled one does not. */
TRF__FN void trf__advance_position(trf_trainer *t, trf_place place, int first, trf_status status)
{
    int refused = status != TRF_OK && status != TRF_E_CANCELLED;
    if (first) t->before = t->behind;
    if (place.corpus == 0) return;
    if (refused && t->behind.corpus != 0 && t->behind.corpus != place.corpus) return;
    if (first || t->begin.corpus != place.corpus) t->begin = place;
    t->behind = place;
    if (status != TRF_E_CANCELLED && place.batch < INT64_MAX) t->behind.batch++;
    if (first && refused) t->begin = t->before = t->behind;
}

/* A batch that is refused counts as used: training goes on with the next one. */
TRF__FN trf_status trf__add_batch(trf_trainer *t, const trf_batch *batch, int at_once,
                                  trf_step_report *report, trf_error *err)
{
    trf_status status;
    trf__sums sums[2];
    double source_tokens = 0;
    trf__report_clear(report);
    TRF__TRY(trf__begin(t, "trainer", err));
    if (!batch) return trf__fail_null(err, "batch");
    TRF__TRY(trf__check_whole(t->model, err));
    TRF__TRY(trf__check_none_in_flight(t, err));
    TRF__ZERO(sums);
    int first = t->micro == 0;
    status = trf__micro_batch(t, batch, at_once, report ? sums : NULL, &source_tokens, err);
    trf__advance_position(t, batch->place, first, status);
    TRF__TRY(status);
    if (report) trf__report_means(report, sums, source_tokens);
    if (report) report->step = t->step + 1;
    return TRF_OK;
}

TRF_API trf_status trf_trainer_forward_backward(trf_trainer *trainer, const trf_batch *batch,
                                                trf_step_report *report, trf_error *err)
{
    return trf__add_batch(trainer, batch, 0, report, err);
}

// >>stage-sums     what all stages of a model must know to make the same update
//
// A stage has the gradients of its own layers alone, but clips by the norm of all, and skips an
// update if a gradient of another stage is not finite. So all stages exchange, by their hook,
//
//   1. the gradients of parameters that several stages have: a tied matrix, the numbers for
//      distances. A stage without the parameter brings -0, which changes no bit
//   2. the sums of the loss, and for each tile of the whole model its sum of squares, in order of
//      the whole model's parameters. One stage brings it, the others bring 0
//
// Then every stage adds up the same sums of squares, in the order in which one process adds them,
// and decides alike. So the bits are those of one process, if no parameter is in two stages.

enum {
    TRF__EXACT = 4,                 /* numbers for a sum of squares */
    TRF__TOO_LARGE = 4000, TRF__NOT_FINITE = 5000,      /* of infinite sums, of infinite numbers */
    TRF__SHARED_CHUNK = 16 * TRF__PARAM_TILE
};

TRF__FN trf__clip trf__clip_of(const trf_trainer *t)
{
    trf__clip clip;
    clip.clip_result = t->clip_result;
    clip.partial = t->partial;
    clip.gradients = trf__summed_gradients(t);
    clip.slots = clip.gradients + t->model->layout.n_weights;
    clip.tiles = t->tiles; clip.n_tiles = t->n_tiles;
    clip.clip_norm = t->options.clip_norm;
    return clip;
}

/* x >= 0 as numbers that add to zeros without rounding, in float too: an exponent, and 54 bits in
   three pieces. */
TRF__FN void trf__exact_put(trf_real *to, double x, int bad)
{
    int exponent = bad ? TRF__NOT_FINITE : TRF__TOO_LARGE;
    double rest = trf__is_finite(x) ? frexp(x, &exponent) : 0;
    to[0] = (trf_real)exponent;
    for (int k = 1; k < TRF__EXACT; k++) {
        rest *= 262144;
        to[k] = (trf_real)(int32_t)rest;
        rest -= (double)(int32_t)rest;
    }
}
TRF__FN double trf__exact_get(const trf_real *from)
{
    double bits = ((double)from[1] * 262144 + (double)from[2]) * 262144 + (double)from[3];
    return (int)from[0] >= TRF__TOO_LARGE ? HUGE_VAL : ldexp(bits, (int)from[0] - 54);
}

/* 0: only one stage can have the parameter. Else 1 + s: of the stages that have it, the one with
   layer 0 of stack s reports its squares. */
TRF__FN int trf__shared_by(const trf_config *c, const trf__layout *whole, const trf__param *p)
{
    const trf__model_params *at = &whole->model;
    if (p->offset == at->embed[0].w && trf__has_source(c))
        return trf__shares_embedding(c) || c->head == TRF_HEAD_MASKED ? 1 : 0;
    if (p->offset == at->embed[1].w) return c->tying == TRF_TIED_DECODER ? 2 : 0;
    if (p->offset == at->distances[0]) return c->encoder_layers > 1 ? 1 : 0;
    return p->offset == at->distances[1] && c->decoder_layers > 1 ? 2 : 0;
}

/* One call of the hook. */
TRF__FN trf_status trf__stage_sum(const trf_stage *stage, trf_real *numbers, int64_t n,
                                  trf_error *err)
{
    const trf__run *run = &stage->trainer->pass.run;
    if (stage->sum(stage->user, numbers, (size_t)n, run->backend->stream(run)) == 0) return TRF_OK;
    return trf__fail(err, TRF_E_BACKEND, -1, "sum",
                     "the sum hook of a stage failed; the gradients were discarded, and nothing "
                     "was updated");
}

/* Sums the gradients of parameters that several stages have. */
TRF__FN trf_status trf__sum_shared(const trf_trainer *t, trf_error *err)
{
    const trf_stage *stage = t->stage;
    const trf__layout *own = &t->model->layout;
    int64_t n;
    int32_t k = 0;
    for (int32_t i = 0; i < stage->whole.n_params; i++) {
        int has = k < own->n_params && own->params[k].number == i;
        trf_real *g = has ? trf__summed_gradients(t) + own->params[k].offset : NULL;
        k += has;
        int64_t size = trf__param_size(&stage->whole.params[i]);
        if (!trf__shared_by(&t->model->config, &stage->whole, &stage->whole.params[i])) continue;
        for (int64_t at = 0; at < size; at += n) {
            n = trf__min64(size - at, TRF__SHARED_CHUNK);
            if (!has) trf__accumulate_gradients(t, stage->device_numbers, NULL, n);
            TRF__TRY(trf__stage_sum(stage, has ? g + at : stage->device_numbers, n, err));
        }
    }
    return TRF_OK;
}

/* Writes the squares of this stage's tiles, which trf__clip has left in `partial`, and 0 for all
   others. */
TRF__FN void trf__put_squares(const trf_trainer *t, int64_t bad_tile)
{
    const trf_stage *stage = t->stage;
    const trf__layout *own = &t->model->layout;
    trf_real *to = stage->numbers + TRF__TALLIES;
    int64_t tile = 0;
    int32_t k = 0;
    for (int32_t i = 0; i < stage->whole.n_params; i++) {
        const trf__param *p = &stage->whole.params[i];
        int brings = k < own->n_params && own->params[k].number == i;
        k += brings;
        int by = trf__shared_by(&t->model->config, &stage->whole, p);
        int64_t n = trf__ceil_div(trf__param_size(p), TRF__PARAM_TILE);
        if (brings && by && !own->range.embeds[by - 1]) { tile += n; brings = 0; }
        for (; n > 0; n--, to += TRF__EXACT) {
            if (brings) trf__exact_put(to, stage->partial[tile], tile == bad_tile);
            else memset(to, 0, TRF__EXACT * sizeof *to);
            tile += brings;
        }
    }
}

/* The norm of all stages' gradients, and whether the update is made. */
TRF__FN trf__clip_result trf__decide_of_stages(const trf_trainer *t, trf__clip_result before)
{
    const trf_stage *stage = t->stage;
    const trf_real *squares = stage->numbers + TRF__TALLIES;
    int64_t bad = -1;
    double sum = 0;
    TRF__ZEROED(trf__clip, clip);
    clip.clip_result = &before;
    clip.slots = stage->numbers;
    clip.clip_norm = t->options.clip_norm;
    for (int64_t i = 0; i < stage->whole.n_tiles; i++, squares += TRF__EXACT) {
        sum += trf__exact_get(squares);
        if (bad < 0 && (int)squares[0] >= TRF__NOT_FINITE) bad = i;
    }
    trf__decide_clipping(&clip, sum, bad);
    return before;
}

/* The exchanges, and the decision in the place where trf__clip leaves it. */
TRF__FN trf_status trf__exchange(const trf_trainer *t, double *tokens, trf_error *err)
{
    const trf_stage *stage = t->stage;
    const trf__run *run = &t->pass.run;
    trf__clip clip = trf__clip_of(t);
    trf__clip_result before, own;
    size_t bytes = trf__bytes(stage->n_numbers, sizeof(trf_real));
    TRF__TRY(trf__sum_shared(t, err));
    TRF__TRY(trf__clip_result_of(t, &before, err));
    run->backend->clip(run, &clip);
    run->backend->download(run, &own, t->clip_result, sizeof own);
    run->backend->upload(run, t->clip_result, &before, sizeof before);
    run->backend->download(run, stage->partial, t->partial, trf__bytes(t->n_tiles, sizeof(double)));
    /* sums of the loss: without the last layer they are 0 */
    run->backend->download(run, stage->numbers, clip.slots, TRF__TALLIES * sizeof(trf_real));
    TRF__TRY(run->backend->sync(run, err));
    trf__put_squares(t, own.bad_tile);
    run->backend->upload(run, stage->device_numbers, stage->numbers, bytes);
    TRF__TRY(trf__stage_sum(stage, stage->device_numbers, stage->n_numbers, err));
    run->backend->download(run, stage->numbers, stage->device_numbers, bytes);
    TRF__TRY(run->backend->sync(run, err));
    *tokens = trf__tally(stage->numbers, TRF__TALLY_TOKENS);
    if (!(*tokens > 0)) return TRF_OK;
    own = trf__decide_of_stages(t, before);
    run->backend->upload(run, t->clip_result, &own, sizeof own);
    return TRF_OK;
}

// >>update         clipping, and one step of Adam

/* Decides over the step, unless all stages have done so, and moves the weights. */
TRF__FN void trf__update(const trf_trainer *t)
{
    const trf_train_options *o = &t->options;
    trf__run run = t->pass.run;
    trf__clip clip = trf__clip_of(t);
    trf__adam adam;
    run.now = (const trf__now *)(const void *)t->pass.block.device;
    adam.p = t->model->weights; adam.m = t->m; adam.v = t->v; adam.g = clip.gradients;
    adam.packed = t->pass.weights.packed;
    adam.tiles = t->tiles; adam.n_tiles = t->n_tiles;
    adam.clip_result = t->clip_result;
    adam.beta1 = o->beta1; adam.beta2 = o->beta2; adam.epsilon = o->epsilon;
    adam.weight_decay = o->weight_decay;
    adam.optimizer = (int)o->optimizer; adam.epsilon_rule = (int)o->epsilon_rule;
    if (!trf__is_stage(t->model)) run.backend->clip(&run, &clip);
    run.backend->adam(&run, &adam);
}

/* Sums over ranks, then clipping and Adam in one go on the device; the host reads the result only
   for a report. */
TRF_API trf_status trf_trainer_update(trf_trainer *trainer, trf_step_report *report, trf_error *err)
{
    double tokens;
    trf__report_clear(report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    TRF__FAIL_IF(trainer->micro == 0, TRF_E_STATE, trainer->step, "gradients",
                 "there are no gradients: call trf_trainer_forward_backward first");
    TRF__TRY(trf__check_none_in_flight(trainer, err));
    trf_status status = trf__reduce(trainer, &tokens, err);
    if (!status && trf__is_stage(trainer->model)) status = trf__exchange(trainer, &tokens, err);
    if (status != TRF_OK) { trf_trainer_discard_gradients(trainer); return status; }
    if (!(tokens > 0)) {
        trf__drop_gradients(trainer, trainer->behind);
        return trf__fail(err, TRF_E_STATE, trainer->step, "tokens",
                         "the step has no target tokens: nothing to learn from");
    }
    trf__update(trainer);
    trf_trainer_end_step(trainer);
    trf__weights_own(trainer);
    trainer->rate = trainer->pass.block.now.learning_rate;
    return report ? trf_trainer_report(trainer, report, err) : TRF_OK;
}

/* Name of the parameter that a tile is a piece of. */
TRF__FN const char *trf__tile_name(const trf__layout *layout, int64_t tile)
{
    int32_t i = 0;
    while (i + 1 < layout->n_params && tile >= trf__ceil_div(trf__param_size(&layout->params[i]),
                                                             TRF__PARAM_TILE))
        tile -= trf__ceil_div(trf__param_size(&layout->params[i++]), TRF__PARAM_TILE);
    return layout->params[i].name;
}

/* The last result stays on the device until a report needs it. This call waits for it. */
TRF_API trf_status trf_trainer_report(const trf_trainer *trainer, trf_step_report *report,
                                      trf_error *err)
{
    trf__clip_result v;
    const char *blame;
    trf__report_clear(report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (!report) return trf__fail_null(err, "report");
    TRF__TRY(trf__clip_result_of(trainer, &v, err));
    trf__report_means(report, v.sums, v.source_tokens);
    report->step = trainer->step;
    report->gradient_norm = v.norm;
    report->learning_rate = trainer->rate;
    report->skipped = v.skipped;
    if (!v.skipped) return TRF_OK;
    blame = v.bad_tile >= 0 ? trf__tile_name(trf__is_stage(trainer->model) && trainer->stage
                                             ? &trainer->stage->whole : &trainer->model->layout,
                                             v.bad_tile)
                            : trf__is_finite(report->loss) ? "gradient_norm" : "loss";
    trf__copy_text(report->tensor, sizeof report->tensor, blame);
    return TRF_OK;
}

TRF_API trf_status trf_trainer_step(trf_trainer *trainer, const trf_batch *batch,
                                    trf_step_report *report, trf_error *err)
{
    trf__report_clear(report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    /* sums can begin while backward still computes, unless a device plays recorded lists of ops */
    int at_once = trainer->options.all_reduce && trainer->pass.run.backend->on_host;
    trf_status status = trf__add_batch(trainer, batch, at_once, NULL, err);
    if (status != TRF_OK && (trainer->round > 0 || trainer->unsummed < trainer->n_gradients))
        trf_trainer_discard_gradients(trainer);
    TRF__TRY(status);
    return trf_trainer_update(trainer, report, err);
}

/* Forward only, without dropout, as run.now stays NULL. Gradients are not touched. `sums`, unless
   it is NULL, and source_tokens grow. */
TRF__FN trf_status trf__evaluate(trf_trainer *t, const trf_batch *batch, trf__sums *sums,
                                 double *source_tokens, trf_error *err)
{
    const trf__run *run = &t->pass.run;
    t->pass.copies = 1;
    TRF__TRY(trf__pass_sides(&t->pass, batch, t->pass.sides, 0, err));
    if (t->written) trf__pack_weights(&t->pass);
    TRF__TRY(trf__pass_forward(&t->pass, t->pass.sides, err));
    for (int second = 0; second <= (t->pass.config->sequence_labels > 0); second++) {
        trf__loss loss = trf__pass_loss(&t->pass, &t->options, second);
        run->backend->cross_entropy(run, &loss);
    }
    return sums ? trf__add_sums(&t->pass, sums, source_tokens, err) : TRF_OK;
}

/* Sets a trainer's counters: `updates` of its steps were not skipped. */
TRF__FN trf_status trf__set_counters(trf_trainer *t, int64_t step, int64_t updates, trf_error *err)
{
    TRF__FAIL_IF(step < 0 || step > INT64_MAX / 2, TRF_E_STATE, step, "trf.step",
                 "the step must be 0 or more and below 2^62, got %lld", (long long)step);
    TRF__FAIL_IF(updates < 0 || updates > step, TRF_E_STATE, updates, "trf.updates",
                 "expected 0 to %lld updates, got %lld", (long long)step, (long long)updates);
    TRF__ZEROED(trf__clip_result, clip_result);
    clip_result.updates = updates;
    t->step = step;
    t->pass.run.backend->upload(&t->pass.run, t->clip_result, &clip_result, sizeof clip_result);
    return TRF_OK;
}

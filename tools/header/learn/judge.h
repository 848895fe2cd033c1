#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/train.h"
#include "api/translate.h"
#include "api/learn.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "device/tensors.h"
#include "model/checks.h"
#include "model/model.h"
#include "train/trainer.h"
#include "train/step.h"
#include "data/noise.h"
#include "search/translator.h"
#include "search/calls.h"
#include "learn/recipe.h"

// -----------------------------------------------------------------------------------------------
// >>judge          the mean of the weights, validation, and what is best
//
// The running mean of the weights (EMA) smooths out the noise of single updates. It is validated
// and kept in their stead; training goes on with the weights themselves.
// -----------------------------------------------------------------------------------------------

/* Begins the average with the weights, or goes on with that of a checkpoint. */
TRF__COLD
TRF__FN trf_status trf__average_begin(trf_trainer *trainer, trf_error *err)
{
    TRF__TRY(trf__weights_alloc(trainer, &trainer->average, "averaged", err));
    TRF__TRY(trf__weights_alloc(trainer, &trainer->raw, "averaged", err));
    if (!trainer->average_read)
        trf__weights_copy(trainer, trainer->average, trainer->model->weights);
    trainer->average_read = 0;
    return trainer->pass.run.backend->sync(&trainer->pass.run, err);
}

/* Refuses a trainer without an average. */
TRF__FN trf_status trf__check_average(trf_trainer *trainer, trf_error *err)
{
    if (trainer->average)
        return trainer->average_read ? trf__average_begin(trainer, err) : TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "average",
                     "no average has begun: call trf_trainer_average with share 1");
}

TRF_API trf_status trf_trainer_average(trf_trainer *trainer, double share, trf_error *err)
{
    trf__average job;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    TRF__FAIL_IF(trainer->averaged, TRF_E_STATE, -1, "average",
                 "expected the trainer's own weights, but the average is in use");
    if (share == 1) {
        trainer->average_read = 0;
        return trf__average_begin(trainer, err);
    }
    TRF__TRY(trf__check_average(trainer, err));
    TRF__TRY(trf__check_range("share", share, 1e-300, 0.5, err));
    /* early weights are poor, so the average forgets them faster at first */
    double first = 9.0 / (10.0 + (double)trainer->step);
    const trf__run *run = &trainer->pass.run;
    job.to = trainer->average;
    job.from = trainer->model->weights;
    job.n = trainer->model->layout.n_weights;
    job.share = (trf_real)(first > share ? first : share);
    run->backend->average(run, &job);
    return TRF_OK;
}

TRF_API trf_status trf_trainer_use_average(trf_trainer *trainer, int32_t use, trf_error *err)
{
    TRF__TRY(trf__begin(trainer, "trainer", err));
    TRF__TRY(trf__check_range("use", use, 0, 1, err));
    TRF__TRY(trf__check_average(trainer, err));
    if (!use == !trainer->averaged) return TRF_OK;
    trainer->averaged = !trainer->averaged;
    if (use) {
        trainer->beneath = trainer->left;
        return trf__weights_show(trainer, trainer->average, err);
    }
    trf__weights_copy(trainer, trainer->model->weights, trainer->beneath ? trainer->beneath
                                                                         : trainer->raw);
    trainer->left = trainer->beneath;
    return trainer->pass.run.backend->sync(&trainer->pass.run, err);
}

// >>early-stopping what is better, and when to stop
//
// A validation is better by its score, or with equal scores by its loss. Only a better score resets
// the count of validations to wait for.

/* Turns a score so that larger is better. Above 100 % of errors answers are no worse than none. */
TRF__FN double trf__oriented_score(trf_metric metric, double score)
{
    return metric >= TRF_METRIC_ACCURACY ? score
         : metric == TRF_METRIC_ERROR_RATE && score > 100 ? -100 : -score;
}

/* A NaN is worse than any number. */
TRF__FN int trf__improves(trf_metric metric, double a, double b)
{
    return b != b ? a == a : trf__oriented_score(metric, a) > trf__oriented_score(metric, b);
}

/* Whether score a with loss a_loss is better than score b with loss b_loss. */
TRF__FN int trf__is_better(trf_metric metric, double a, double a_loss, double b, double b_loss)
{
    return trf__improves(metric, a, b) ||
           (trf__oriented_score(metric, a) == trf__oriented_score(metric, b) &&
            (a_loss < b_loss || (b_loss != b_loss && a_loss == a_loss)));
}

TRF__FN int trf__is_perfect(trf_metric metric, double score)
{
    return metric != TRF_METRIC_LOSS &&
           fabs(score - (metric == TRF_METRIC_ERROR_RATE ? 0 : 100)) < 1e-9;
}

TRF_API int trf_early_stopping_add(trf_early_stopping *stopping, trf_metric metric, int64_t update,
                                   double score, double loss)
{
    int hopeless = metric == TRF_METRIC_ERROR_RATE ? score >= 100
                 : metric != TRF_METRIC_LOSS && score <= 0;
    if (!stopping) return 0;
    int first = stopping->best_update == 0;
    int improves = first || trf__improves(metric, score, stopping->best);
    int best = first || trf__is_better(metric, score, loss, stopping->best, stopping->best_loss);
    stopping->validated = update;
    /* at the worst possible score, only the loss can show progress */
    stopping->wait = improves || (best && hopeless)
        ? 0 : stopping->wait + (stopping->wait < INT32_MAX);
    if (best) {
        stopping->best = score;
        stopping->best_loss = loss;
        stopping->best_update = update;
    }
    return best ? 1 + improves : 0;
}

TRF_API int32_t trf_early_stopping_left(const trf_early_stopping *stopping, trf_metric metric,
                                        int32_t patience)
{
    if (!stopping) return 0;
    if (patience <= 0) return INT32_MAX;
    /* a perfect score cannot improve: three more validations confirm it */
    if (patience > 3 && stopping->best_update && trf__is_perfect(metric, stopping->best))
        patience = 3;
    if (stopping->wait <= 0) return patience;
    return patience > stopping->wait ? patience - stopping->wait : 0;
}

// >>validate       the loss of held-out pairs, and their error rate
//
// Held-out pairs are one large batch. It is cut to sizes that memory, and an impatient user, allow.

/* The pairs from `first` on that fit into one batch; at least one. used: ids before them. */
TRF__FN trf_batch trf__cut_pairs(const trf_batch *pairs, int32_t first, const int64_t used[2],
                                 const trf_train_options *limits, const trf_config *c)
{
    const double rows = trf__rows_at_a_time(c);
    const double most[2] = {trf__clamp(limits->source_tokens, 0, rows),
                            trf__clamp(limits->target_tokens, 0, rows)};
    const trf_sequences *from[2] = {&pairs->source, &pairs->target};
    int64_t tokens[2] = {0, 0};
    int32_t n = 0, all = from[0]->count > from[1]->count ? from[0]->count : from[1]->count;
    trf_sequences to[2];
    for (; first + n < all && n < limits->sequences; n++) {
        for (int side = 0; side < 2; side++)
            /* + 1: each sequence has EOS or BOS besides its ids */
            if (first + n < from[side]->count) tokens[side] += from[side]->lengths[first + n] + 1;
        if (n > 0 && ((double)tokens[0] > most[0] || (double)tokens[1] > most[1])) break;
    }
    for (int side = 0; side < 2; side++) {
        TRF__ZERO(to[side]);
        if (!from[side]->count) continue;
        if (from[side]->ids) to[side].ids = from[side]->ids + used[side];
        to[side].lengths = from[side]->lengths + first;
        to[side].count = n;
    }
    TRF__ZEROED(trf_batch, batch);
    batch.source = to[0];
    batch.target = to[1];
    return batch;
}

/* Lengths and pointers of the caller's pairs; trainers and translators check the ids. */
TRF__FN trf_status trf__check_held_out(const trf_batch *pairs, trf_error *err)
{
    int64_t rows, longest = 0;
    TRF__TRY(trf__check_lengths(&pairs->source, 0, INT32_MAX, "source", &rows, &longest, err));
    TRF__TRY(trf__check_lengths(&pairs->target, 0, INT32_MAX, "target", &rows, &longest, err));
    return TRF__OK_IF(!pairs->source.count || !pairs->target.count ||
                      pairs->source.count == pairs->target.count, TRF_E_INVALID_ARG, -1, "pairs",
                      "expected as many targets as sources, got %d targets and %d sources",
                      (int)pairs->target.count, (int)pairs->source.count);
}

TRF__COLD
TRF_API trf_status trf_trainer_evaluate(trf_trainer *trainer, const trf_batch *pairs,
                                        trf_noise *noise, trf_step_report *report, trf_error *err)
{
    trf__sums sums[2];
    double source_tokens = 0;
    int64_t used[2] = {0, 0}, number = 0;
    int32_t first = 0, all, n;
    trf__report_clear(report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    TRF__TRY(trf__check_whole(trainer->model, err));
    trf_train_options limits = trainer->options;
    if (!limits.source_tokens) limits.source_tokens = TRF__USUAL_TOKENS;
    if (!limits.target_tokens) limits.target_tokens = TRF__USUAL_TOKENS;
    if (!limits.sequences) limits.sequences = TRF__USUAL_SEQUENCES;
    if (!pairs) return trf__fail_null(err, "pairs");
    all = pairs->source.count > pairs->target.count ? pairs->source.count : pairs->target.count;
    TRF__FAIL_IF(all < 1, TRF_E_INVALID_ARG, -1, "pairs", "expected one pair or more, got none");
    TRF__TRY(trf__check_held_out(pairs, err));
    TRF__ZERO(sums);
    for (; first < all; first += n) {
        trf_batch batch = trf__cut_pairs(pairs, first, used, &limits, &trainer->model->config);
        n = batch.source.count > batch.target.count ? batch.source.count : batch.target.count;
        for (int32_t i = 0; i < batch.source.count; i++) used[0] += batch.source.lengths[i];
        for (int32_t i = 0; i < batch.target.count; i++) used[1] += batch.target.lengths[i];
        /* noise depends on the place: the same at every validation */
        batch.place.batch = number++;
        if (noise) TRF__TRY(trf_noise_apply(noise, &batch, &batch, err));
        TRF__TRY(trf__evaluate(trainer, &batch, report ? sums : NULL, &source_tokens, err));
    }
    if (!report) return TRF_OK;
    trf__report_means(report, sums, source_tokens);
    report->step = trainer->step;
    return TRF_OK;
}

// >>error-rate     answers to held-out sources, compared with their targets

/* Pairs sorted by source: a source with several targets has several right answers. */
typedef struct trf__sources {
    const trf_batch *pairs;
    int64_t *at[2];             /* index of each sequence's first id, source and target */
    const void **order;
    int32_t *row;               /* a row of the table of edits */
    int64_t cut;                /* answers that reached the length limit without EOS */
} trf__sources;

/* Order by source, then by number. Items point into lengths, which gives their number. */
TRF__FN int trf__by_source(const void *context, const void *a, const void *b)
{
    const trf__sources *s = (const trf__sources *)context;
    const trf_sequences *from = &s->pairs->source;
    int64_t i = (const int32_t *)a - from->lengths, k = (const int32_t *)b - from->lengths;
    int32_t n = from->lengths[i], m = from->lengths[k];
    int order = n != m ? (n < m ? -1 : 1) : n == 0 ? 0
              : memcmp(from->ids + s->at[0][i], from->ids + s->at[0][k],
                       (size_t)n * sizeof *from->ids);
    return order ? order : i < k ? -1 : i > k;
}

/* Edit distance: d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [a_i != b_j]). Only row
   i - 1 is kept. unk in the target equals nothing, because it stands for another word each time. */
TRF__FN int32_t trf__edits(const int32_t *a, int32_t n, const int32_t *b, int32_t k, int32_t *row,
                           int32_t unk)
{
    for (int32_t j = 0; j <= k; j++) row[j] = j;
    for (int32_t i = 0; i < n; i++) {
        int32_t diagonal = row[0], left = ++row[0];
        for (int32_t j = 1; j <= k; j++) {
            int32_t above = row[j], least = diagonal + (a[i] != b[j - 1] || a[i] == unk);
            if (above + 1 < least) least = above + 1;
            if (left + 1 < least) least = left + 1;
            diagonal = above;
            row[j] = left = least;
        }
    }
    return row[k];
}

/* Compares an answer with all targets of its source, and adds the fewest edits and the length of
   that target. Of several such targets the longest counts. */
TRF__FN void trf__add_edits(const trf__sources *s, int32_t first, int32_t last,
                            const int32_t *answer, int32_t n, int32_t unk, int64_t sums[2])
{
    const trf_sequences *targets = &s->pairs->target;
    int64_t fewest = INT64_MAX, longest = 0;
    for (int32_t i = first; i < last; i++) {
        int64_t pair = (const int32_t *)s->order[i] - s->pairs->source.lengths;
        int32_t length = targets->lengths[pair];
        const int32_t *target = length ? targets->ids + s->at[1][pair] : NULL;
        int64_t edits = trf__edits(target, length, answer, n, s->row, unk);
        if (edits > fewest || (edits == fewest && length <= longest)) continue;
        fewest = edits;
        longest = length;
    }
    sums[0] += fewest;
    sums[1] += longest;
}

enum { TRF__ANSWERS = 64 };         /* sources that one call of the translator answers */

/* Answers up to TRF__ANSWERS sources from group *at on. begins has the first pair of each group. An
   empty source has an empty answer. */
TRF__COLD
TRF__FN trf_status trf__answer_some(trf_translator *t, trf__sources *s, int32_t *at,
                                    int32_t *ids, int64_t sums[2], trf_error *err)
{
    const trf_sequences *from = &s->pairs->source;
    int32_t begins[TRF__ANSWERS + 1], lengths[TRF__ANSWERS], n = 0, i = *at;
    const int32_t unk = t->reader.model->config.unk;
    int64_t used = 0;
    trf_sequences some;
    while (i < from->count && n < TRF__ANSWERS) {
        const int64_t pair = (const int32_t *)s->order[i] - from->lengths;
        int32_t length = from->lengths[pair], first = i++;
        /* pairs of one source are neighbours in `order` */
        while (i < from->count) {
            int64_t other = (const int32_t *)s->order[i] - from->lengths;
            if (from->lengths[other] != length ||
                (length && memcmp(from->ids + s->at[0][other], from->ids + s->at[0][pair],
                                  (size_t)length * sizeof *ids))) break;
            i++;
        }
        if (length == 0) { trf__add_edits(s, first, i, ids, 0, unk, sums); continue; }
        memcpy(ids + used, from->ids + s->at[0][pair], (size_t)length * sizeof *ids);
        used += length;
        begins[n] = first;
        lengths[n++] = length;
        begins[n] = i;
    }
    *at = i;
    some.ids = ids; some.lengths = lengths; some.count = n;
    if (n) TRF__TRY(trf_translate(t, &some, NULL, err));
    for (int32_t k = 0; k < n; k++) {
        const trf_hypothesis *h = trf_translator_answer(t, k, 0);
        s->cut += h->ended == TRF_ENDED_MAX_LENGTH;
        trf__add_edits(s, begins[k], begins[k + 1], h->ids, h->n, unk, sums);
    }
    return TRF_OK;
}

/* trf_translator_error_rate, which also counts the answers that were cut at the length limit. */
TRF__COLD
TRF__FN trf_status trf__error_rate(trf_translator *translator, const trf_batch *pairs,
                                   double *percent, int64_t *cut, trf_error *err)
{
    trf__sources s;
    int64_t i, most = 1, used = 0, sums[2] = {0, 0};
    int32_t at = 0;
    trf_status status = TRF_OK;
    if (percent) *percent = 0;
    *cut = s.cut = 0;
    TRF__TRY(trf__begin(translator, "translator", err));
    if (!pairs) return trf__fail_null(err, "pairs");
    if (!percent) return trf__fail_null(err, "percent");
    int64_t n = pairs->source.count;
    TRF__FAIL_IF(n < 1 || pairs->target.count != n, TRF_E_INVALID_ARG, -1, "pairs",
                 "expected one pair or more, with as many targets as sources, got %d targets and "
                 "%d sources", (int)pairs->target.count, (int)n);
    TRF__TRY(trf__check_held_out(pairs, err));
    const trf_hooks *hooks = &translator->search.hooks;
    s.pairs = pairs;
    s.at[0] = TRF__NEW(int64_t, hooks, 2 * n);
    s.order = TRF__NEW(const void *, hooks, n);
    for (i = 0; i < n; i++) if (pairs->source.lengths[i] > most) most = pairs->source.lengths[i];
    int32_t *ids = TRF__NEW(int32_t, hooks, most * TRF__ANSWERS);
    s.row = TRF__NEW(int32_t, hooks, translator->reader.model->config.max_length + 1);
    if (!s.at[0] || !s.order || !ids || !s.row)
        status = trf__fail(err, TRF_E_NOMEM, -1, "pairs", "no memory for %lld pairs", (long long)n);
    else {
        s.at[1] = s.at[0] + n;
        for (i = 0; i < n; used += pairs->source.lengths[i++]) s.at[0][i] = used;
        for (i = used = 0; i < n; used += pairs->target.lengths[i++]) s.at[1][i] = used;
        for (i = 0; i < n; i++) s.order[i] = pairs->source.lengths + i;
        trf__sort(s.order, (size_t)n, trf__by_source, &s);
        /* edits of all sources over tokens of all targets, not a mean of rates */
        while (at < n && status == TRF_OK) status = trf__answer_some(translator, &s, &at, ids,
                                                                     sums, err);
    }
    if (status == TRF_OK) *percent = 100 * (double)sums[0] / (double)(sums[1] > 0 ? sums[1] : 1);
    *cut = s.cut;
    TRF__FREE(hooks, s.row, translator->reader.model->config.max_length + 1);
    TRF__FREE(hooks, ids, most * TRF__ANSWERS);
    trf__free(hooks, (void *)s.order, trf__bytes(n, sizeof *s.order));
    TRF__FREE(hooks, s.at[0], 2 * n);
    return status;
}

TRF_API trf_status trf_translator_error_rate(trf_translator *translator, const trf_batch *pairs,
                                             double *percent, trf_error *err)
{
    int64_t cut;
    return trf__error_rate(translator, pairs, percent, &cut, err);
}

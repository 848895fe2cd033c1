#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/model.h"
#include "api/train.h"
#include "api/read.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "device/tensors.h"
#include "system/text.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/params.h"
#include "model/model.h"
#include "model/texts.h"
#include "pass/sublayers.h"
#include "pass/stacks.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "pass/forward.h"
#include "read/ensemble.h"
#include "read/reader.h"

// >>scores         log-probabilities of targets, and vectors of texts

/* The log-probabilities of all targets, row by row, in reader->numbers: those of models 0 to k, if
   it has those of 0 to k - 1. Scratch for the rows of one part follows. */
TRF__FN trf_status trf__score_rows(trf_reader *reader, const trf_batch *batch, int32_t k,
                                   int64_t rows, trf_error *err)
{
    trf__pass *pass = reader->ensemble.passes[k];
    const trf__backend *on = pass->run.backend;
    double *to = reader->numbers, *fresh = to + rows;
    trf_batch rest = *batch;
    while (rest.target.count > 0) {
        TRF__TRY(trf__pass_part(pass, pass->sides, &rest, err));
        TRF__TRY(trf__pass_forward(pass, pass->sides, err));
        /* no label smoothing: the loss of a row is its negative log-probability */
        trf__loss loss = trf__pass_loss(pass, NULL, 0);
        on->cross_entropy(&pass->run, &loss);
        on->download(&pass->run, fresh, pass->loss.row_nll[0],
                     trf__bytes(pass->decoder.rows, sizeof(double)));
        TRF__TRY(on->sync(&pass->run, err));
        for (int64_t r = 0; r < pass->decoder.rows; r++, to++)
            *to = trf__mixed(&reader->ensemble, k, *to, -fresh[r]);
    }
    return TRF_OK;
}

/* each: 1 if model k has the sources number k. */
TRF__FN trf_status trf__score_each(trf_reader *reader, const trf_sequences *sources,
                                   int32_t each, const trf_sequences *targets,
                                   double *log_probabilities, trf_error *err)
{
    const trf__ensemble *e = &reader->ensemble;
    trf__limits need;
    int64_t at = 0, wanted;
    TRF__TRY(trf__check_has_target(&e->config, err));
    if (!log_probabilities) return trf__fail_null(err, "log_probabilities");
    TRF__ZEROED(trf_batch, batch);
    batch.target = *targets;
    for (int32_t k = 0; k < e->n; k++) {
        const trf__pass *pass = e->passes[k];
        batch.source = sources[k * each];
        TRF__TRY(trf__batch_needs(pass, &batch, pass->sides, &need, &wanted, err));
    }
    TRF__GROW(double, reader->numbers, reader->numbers_capacity, 2 * wanted,
              &reader->pass.run.hooks);
    for (int32_t k = 0; k < e->n; k++) {
        batch.source = sources[k * each];
        TRF__TRY(trf__score_rows(reader, &batch, k, wanted, err));
    }
    for (int32_t i = 0; i < targets->count; i++) {
        double sum = 0;
        for (int64_t end = at + targets->lengths[i] + e->config.target_eos; at < end; at++)
            sum += reader->numbers[at];
        log_probabilities[i] = sum;
    }
    return TRF_OK;
}

TRF_API trf_status trf_reader_score(trf_reader *reader, const trf_batch *batch,
                                    const trf_sequences *each, double *log_probabilities,
                                    trf_error *err)
{
    TRF__TRY(trf__begin(reader, "reader", err));
    if (!batch) return trf__fail_null(err, "batch");
    if (!each) TRF__TRY(trf__check_same_sources(&reader->ensemble, err));
    return trf__score_each(reader, each ? each : &batch->source, each && reader->ensemble.n > 1,
                           &batch->target, log_probabilities, err);
}

/* Begins a call that reads the encoder's rows: checks the sources, and counts what they need. */
TRF__FN trf_status trf__encode_check(trf_reader *reader, const trf_sequences *sources,
                                     trf_batch *batch, trf__limits *need, trf_error *err)
{
    int64_t rows;
    TRF__TRY(trf__begin(reader, "reader", err));
    TRF__TRY(trf__check_one_model(&reader->ensemble, err));
    TRF__FAIL_IF(!trf__has_source(&reader->model->config), TRF_E_STATE, -1, "kind",
                 "a decoder-only model has no encoder: read its logits");
    if (!sources) return trf__fail_null(err, "sources");
    TRF__ZERO(*batch);
    batch->source = *sources;
    return trf__batch_needs(&reader->pass, batch, TRF__SOURCE, need, &rows, err);
}

/* The pooling that the model's metadata name. */
TRF__FN trf_status trf__model_pooling(const trf_model *model, trf_pooling *pooling, trf_error *err)
{
    static const char *const names[TRF_POOL_MODEL] = {"mean", "first", "max"};
    const char *name = trf_model_metadata(model, "pooling");
    int i = 0;
    while (name && i < TRF_POOL_MODEL && strcmp(name, names[i])) i++;
    *pooling = (trf_pooling)i;
    return i < TRF_POOL_MODEL ? TRF_OK
        : trf__fail(err, TRF_E_INVALID_ARG, -1, "pooling",
                    "the model's metadata \"pooling\" must be mean, first or max, got %s", name);
}

/* One vector of n rows. v: (d) for sums in the order of the rows. */
TRF__FN void trf__pool_rows(trf_real *to, double *v, const trf_real *rows, int64_t n, int64_t d,
                            trf_pooling pooling, int32_t unit)
{
    double length = 0;
    for (int64_t i = 0; i < d; i++) v[i] = n > 0 ? (double)rows[i] : 0;
    for (int64_t r = 1; r < n && pooling != TRF_POOL_FIRST; r++)
        for (int64_t i = 0; i < d; i++) {
            double x = (double)rows[r * d + i];
            if (pooling == TRF_POOL_MEAN) v[i] += x;
            else if (x > v[i]) v[i] = x;
        }
    for (int64_t i = 0; i < d && n > 0 && pooling == TRF_POOL_MEAN; i++) v[i] /= (double)n;
    for (int64_t i = 0; i < d && unit; i++) length += v[i] * v[i];
    length = length != 0 ? sqrt(length) : 1;
    for (int64_t i = 0; i < d; i++) to[i] = (trf_real)(v[i] / length);
}

TRF_API trf_status trf_reader_embed(trf_reader *reader, const trf_sequences *sources,
                                    trf_pooling pooling, int32_t unit, trf_tensor *vectors,
                                    trf_error *err)
{
    trf__limits need;
    trf_batch batch;
    int64_t at = 0;
    TRF__TRY(trf__encode_check(reader, sources, &batch, &need, err));
    trf__pass *pass = &reader->pass;
    int64_t d = pass->config->d_model;
    TRF__TRY(trf__check_range("pooling", (double)pooling, 0, TRF_POOLING_COUNT - 1, err));
    TRF__TRY(trf__check_range("unit", unit, 0, 1, err));
    if (pooling == TRF_POOL_MODEL) TRF__TRY(trf__model_pooling(reader->model, &pooling, err));
    TRF__TRY(trf__shape_check(vectors, "vectors", need.sentences, d, err));
    TRF__GROW(double, reader->numbers, reader->numbers_capacity, d, &pass->run.hooks);
    while (batch.source.count > 0) {
        const trf_real *rows;
        int32_t i;
        TRF__TRY(trf__pass_part(pass, TRF__SOURCE, &batch, err));
        TRF__GROW(trf_real, reader->rows, reader->rows_capacity,
                  pass->encoder.rows * d, &pass->run.hooks);
        TRF__TRY(trf__stack_forward(pass, &pass->encoder, err));
        pass->run.backend->fetch(&pass->run, reader->rows, pass->encoder.out,
                                 pass->encoder.rows * d);
        TRF__TRY(pass->run.backend->sync(&pass->run, err));
        for (rows = reader->rows, i = 0; i < pass->n_sentences; i++) {
            int64_t n = pass->encoder.host.self[i].n_query;
            trf__pool_rows(vectors->data + at++ * d, reader->numbers, rows, n, d, pooling, unit);
            rows += n * d;
        }
    }
    return TRF_OK;
}

// >>labels-read    logits, and the probabilities of labels

/* Computes the logits of the pass's rows in the reader's scratch memory. second: those of the
   second head, which has a row for each sequence. */
TRF__FN trf_status trf__logits_in_work(trf_reader *reader, trf__pass *pass, int second,
                                       trf_error *err)
{
    const trf__affine *head = second ? &pass->layout->model.sequence_head
                                     : &pass->layout->model.generator;
    int64_t rows = second ? pass->n_sentences : pass->decoder.rows;
    TRF__TRY(trf__workspace_reserve(&pass->run, &reader->work,
                                    trf__bytes(rows, trf__bytes(head->out, pass->run.element)),
                                    err));
    if (!second) trf__scale_states(pass, pass->decoder.out, rows);
    trf__project_by(pass, head, (trf__act *)reader->work.memory,
                    second ? pass->sequence.x : pass->decoder.out, rows);
    return TRF_OK;
}

/* z becomes exp(z - m) / (sum of these), where m is the largest. */
TRF__FN void trf__softmax(trf_real *z, int64_t n)
{
    double most = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < n; i++) most = (double)z[i] > most ? (double)z[i] : most;
    for (int64_t i = 0; i < n; i++) sum += exp((double)z[i] - most);
    for (int64_t i = 0; i < n; i++) z[i] = (trf_real)(exp((double)z[i] - most) / sum);
}

/* The output of a label that holds or not, for its logit. */
TRF__FN double trf__yes(double z) { return trf__sigmoid_of(z, exp(z < 0 ? z : -z)); }

/* What trf_reader_classify gives for the logits of a row. */
TRF__FN void trf__outputs(const trf_config *c, trf_real *z, int64_t n)
{
    if (c->label_kind == TRF_LABELS_ONE_OF) trf__softmax(z, n);
    for (int64_t i = 0; i < n && c->label_kind == TRF_LABELS_ANY; i++)
        z[i] = (trf_real)trf__yes((double)z[i]);
}

/* Adds model k's logits z of a row to `to`, which has those before it; to may be z. One of several
   labels: a sum of probabilities or of their logarithms. Else a weighted mean of numbers, of
   probabilities, or of their logits. */
TRF__FN void trf__mix_labels(const trf__ensemble *e, int32_t k, trf_real *to, const trf_real *z,
                             int64_t n)
{
    const trf_label_kind kind = e->config.label_kind;
    const int mean = e->rule == TRF_ENSEMBLE_ARITHMETIC;
    double most = -HUGE_VAL, sum = 0, total = 0, weight = e->weights[k];
    for (int64_t i = 0; i < n; i++) most = (double)z[i] > most ? (double)z[i] : most;
    for (int64_t i = 0; i < n; i++) sum += exp((double)z[i] - most);
    double log_sum = log(sum);
    for (int64_t i = 0; i < e->n; i++) total += e->weights[i];
    if (kind) weight /= total;
    for (int64_t i = 0; i < n; i++) {
        double x = kind ? (double)z[i] : (double)z[i] - most - log_sum;
        if (mean && !kind) x = exp(x);
        if (mean && kind == TRF_LABELS_ANY) x = trf__yes(x);
        to[i] = (trf_real)((k ? (double)to[i] : 0) + weight * x);
    }
}

/* The logits of model k's head: a row for each sequence, or with ids 1 for each id; with ids -1
   those of the second head. */
TRF__FN trf_status trf__label_logits(trf_reader *r, int32_t k, const trf_sequences *sources,
                                     trf_real *to, int ids, trf_error *err)
{
    trf__pass *pass = r->ensemble.passes[k];
    const trf_config *c = pass->config;
    int64_t i, labels = ids < 0 ? c->sequence_labels : c->n_labels;
    /* rows of BOS and EOS lie between those of ids, so each sequence is copied by itself */
    int apart = ids > 0 && trf__source_added(c);
    TRF__ZEROED(trf_batch, batch);
    batch.source = *sources;
    while (batch.source.count > 0) {
        const int32_t *lengths = batch.source.lengths;
        TRF__TRY(trf__pass_part(pass, pass->sides, &batch, err));
        TRF__TRY(trf__pass_forward(pass, pass->sides, err));
        TRF__TRY(trf__logits_in_work(r, pass, ids < 0, err));
        for (int64_t row = i = 0; i < (apart ? pass->n_sentences : 1); i++) {
            int64_t n = apart ? lengths[i] : ids < 0 ? pass->n_sentences : pass->decoder.rows;
            row += apart ? c->source_bos : 0;
            if (n > 0)
                pass->run.backend->fetch(&pass->run, to,
                                         trf__act_at(&pass->run, (trf__act *)r->work.memory,
                                                     row * labels), n * labels);
            to += n * labels;
            row += n + c->source_eos;
        }
        TRF__TRY(pass->run.backend->sync(&pass->run, err));
    }
    return TRF_OK;
}

/* Probabilities of labels, all models together; ids -1: of the second head. */
TRF__FN trf_status trf__probabilities(trf_reader *r, const trf_sequences *sources,
                                      trf_tensor *out, int ids, trf_error *err)
{
    const trf__ensemble *e = &r->ensemble;
    trf__limits need;
    int64_t rows = 0, n = ids < 0 ? r->pass.config->sequence_labels : r->pass.config->n_labels;
    if (!sources) return trf__fail_null(err, "sources");
    TRF__TRY(trf__check_same_sources(e, err));
    TRF__ZEROED(trf_batch, batch);
    batch.source = *sources;
    for (int32_t k = 0; k < e->n; k++) {
        const trf__pass *pass = e->passes[k];
        TRF__TRY(trf__batch_needs(pass, &batch, pass->sides, &need, &rows, err));
        rows = ids < 0 ? need.sentences
             : need.target_rows - (ids ? trf__source_added(pass->config) * need.sentences : 0);
    }
    TRF__TRY(trf__shape_check(out, "probabilities", rows, n, err));
    if (e->n > 1) TRF__GROW(trf_real, r->rows, r->rows_capacity, rows * n, &r->pass.run.hooks);
    for (int32_t k = 0; k < e->n; k++) {
        trf_real *z = k ? r->rows : out->data;
        TRF__TRY(trf__label_logits(r, k, sources, z, ids, err));
        for (int64_t i = 0; e->n > 1 && i < rows; i++)
            trf__mix_labels(e, k, out->data + i * n, z + i * n, n);
    }
    for (int64_t i = 0; i < rows && (e->n == 1 || e->rule == TRF_ENSEMBLE_GEOMETRIC); i++)
        trf__outputs(r->pass.config, out->data + i * n, n);
    return TRF_OK;
}

TRF_API trf_status trf_reader_classify(trf_reader *reader, const trf_sequences *sources,
                                       trf_tensor *probabilities, trf_error *err)
{
    TRF__TRY(trf__begin(reader, "reader", err));
    const trf_config *c = reader->pass.config;
    if (c->sequence_labels) return trf__probabilities(reader, sources, probabilities, -1, err);
    TRF__FAIL_IF(c->head != TRF_HEAD_TOKENS && !trf__pools(c), TRF_E_STATE, -1, "head",
                 "the model labels neither texts nor words: its head is %d, needed is 1, 2 or 3",
                 (int)c->head);
    return trf__probabilities(reader, sources, probabilities, c->head == TRF_HEAD_TOKENS, err);
}

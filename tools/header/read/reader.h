#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/model.h"
#include "api/read.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "text/vocab_use.h"
#include "model/checks.h"
#include "model/batches.h"
#include "model/model.h"
#include "pass/stacks.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "read/ensemble.h"

// -----------------------------------------------------------------------------------------------
// >>reader         the passes of models that answer as one, and memory for what they give
//
// A pass computes a whole batch as in training, but without dropout. A batch that is larger than
// what is computed fastest together goes through it in parts. Everything that a call needs of a
// model is here; a translator has a reader, and adds a search.
// -----------------------------------------------------------------------------------------------

struct trf_reader {
    int inside;                                 /* 1: a part of a translator */
    const trf_model *model;                     /* the first one, and its pass */
    trf__pass pass;
    trf__ensemble ensemble;
    double *numbers; int64_t numbers_capacity;  /* copied from the device */
    trf__workspace work;                        /* scratch on the device: logits, maps */
    trf_real *rows; int64_t rows_capacity;      /* of the encoder, or of another model's labels */
    trf__text_ids stand_in;                     /* lengths and ids in place of sources (>>read) */
    /* what trf_reader_read has given */
    void *results; size_t results_bytes;
    trf_tensor *maps; int64_t maps_capacity;    /* of each kind and sequence */
};

/* Opens the passes. The owner closes the reader, after a failure too. */
TRF__FN trf_status trf__reader_open(trf_reader *r, const trf__ensemble *ensemble,
                                    const trf__limits *limits, trf_weights weights, int32_t threads,
                                    int32_t tagged, const trf_hooks *hooks, trf_error *err)
{
    trf_device device = trf__device_with(&ensemble->models[0]->config.device, threads);
    r->model = ensemble->models[0];
    r->ensemble = *ensemble;
    TRF__TRY(trf__pass_open(&r->pass, r->model, limits, NULL, weights, &device, hooks, err));
    TRF__TRY(trf__ensemble_open(&r->ensemble, &r->pass, err));
    for (int32_t k = 0; k < r->ensemble.n; k++) r->ensemble.passes[k]->encoder.tagged = tagged;
    return TRF_OK;
}

TRF__FN void trf__reader_close(trf_reader *r, const trf_hooks *hooks)
{
    const trf__run *run = &r->pass.run;
    /* no backend: opening it has failed before the pass was open */
    if (run->backend) {
        run->backend->release(run, r->work.memory, r->work.bytes);
        trf__ensemble_close(&r->ensemble, &r->pass);
    }
    trf__pass_close(&r->pass);
    TRF__FREE(hooks, r->numbers, r->numbers_capacity);
    TRF__FREE(hooks, r->rows, r->rows_capacity);
    TRF__FREE(hooks, r->stand_in.ids, r->stand_in.capacity);
    trf__free(hooks, r->results, r->results_bytes);
    TRF__FREE(hooks, r->maps, r->maps_capacity);
}

/* The sizes of a new reader: a few short sentences. It grows when a call needs more. */
TRF__FN trf__limits trf__reader_limits(const trf_config *c, int64_t source_rows, int64_t rows)
{
    trf__limits limits;
    limits.source_rows = trf__has_source(c) ? trf__min64(source_rows, 256) : 0;
    limits.target_rows = limits.sentences = rows;
    limits.longest = trf__min64(c->max_length, 256);
    limits.recompute = 0;
    limits.copies = 1;
    return limits;
}

TRF__COLD
TRF_API void trf_reader_destroy(trf_reader *reader)
{
    if (!reader || reader->inside) return;
    trf_hooks hooks = reader->pass.run.hooks;
    trf__reader_close(reader, &hooks);
    trf__free(&hooks, reader, sizeof *reader);
}

TRF__COLD
TRF_API trf_status trf_reader_create(trf_reader **reader, const trf_model *model,
                                     const trf_reader_options *options, trf_error *err)
{
    trf__ensemble ensemble;
    trf_reader *r;
    trf_status status;
    TRF__BEGIN_NEW(reader);
    TRF__ZEROED(trf_reader_options, o);
    if (options) o = *options;
    TRF__TRY(trf__check_product_weights(o.weights, err));
    TRF__TRY(trf__check_range("threads", o.threads, 0, TRF__MAX_THREADS, err));
    TRF__TRY(trf__check_range("source_tagged", o.source_tagged, 0, 1, err));
    TRF__TRY(trf__hooks_check(&o.hooks, err));
    TRF__TRY(trf__ensemble_of(&ensemble, model, &o.ensemble, err));
    for (int32_t k = 0; k < ensemble.n; k++)
        TRF__TRY(trf__check_tagged(ensemble.configs[k], o.source_tagged, err));
    TRF__ALLOC_ZEROED(trf_reader, r, &o.hooks, 1, "reader", "for a reader");
    trf__limits limits = trf__reader_limits(&ensemble.config, 256, 4);
    status = trf__reader_open(r, &ensemble, &limits, o.weights, o.threads, o.source_tagged,
                              &o.hooks, err);
    if (status != TRF_OK) {
        trf__reader_close(r, &o.hooks);
        trf__free(&o.hooks, r, sizeof *r);
        return status;
    }
    *reader = r;
    return TRF_OK;
}

/* Prepares the pass for the first sequences of *rest, and takes them from it: as many as are
   computed fastest together, at least one if there is one. The caller has checked the batch. */
TRF__FN trf_status trf__pass_part(trf__pass *pass, int sides, trf_batch *rest, trf_error *err)
{
    int64_t most = pass->run.backend->together(&pass->run), rows = 0, source = 0, target = 0;
    int32_t count = trf__sequences_of(rest, sides), n;
    if (!(sides & TRF__SOURCE)) rest->source.count = 0;
    if (!(sides & TRF__TARGET)) rest->target.count = 0;
    for (n = 0; n < count; n++) {
        int64_t own = trf__pair_tokens(rest, n);
        if (n > 0 && own > most - rows) break;
        rows += own;
        source += trf__length_of(&rest->source, n);
        target += trf__length_of(&rest->target, n);
    }
    trf_batch part = *rest;
    part.source = trf__some_sequences(&rest->source, 0, n, 0);
    part.target = trf__some_sequences(&rest->target, 0, n, 0);
    rest->source = trf__some_sequences(&rest->source, n, count - n, source);
    rest->target = trf__some_sequences(&rest->target, n, count - n, target);
    return trf__pass_sides(pass, &part, sides, 0, err);
}

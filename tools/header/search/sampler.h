#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/translate.h"
#include "api/sampling.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "cpu/gemm.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/model.h"
#include "pass/stacks.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "pass/forward.h"
#include "search/options.h"
#include "read/ensemble.h"
#include "search/translator.h"
#include "search/rounds.h"
#include "search/sampling.h"

// >>window         which ids a sequence reads, and when older ones leave
//
// Also the step itself: rows of all live sequences are collected in a list, read by one pass of the
// decoder, and one id each is drawn and appended.

/* The most ids that are read at a time; 0: there is no window. */
TRF__FN int32_t trf__window(const trf_sampler *g)
{
    const trf_config *c = &g->ensemble.config;
    if (c->kind != TRF_DECODER_ONLY) return 0;
    return (int32_t)trf__min64(g->sampling.window, (int64_t)c->max_length - 1);
}

/* Number of the first of n ids that a window reads. It moves by half a window at a time: each move
   costs reading the other half again. */
TRF__FN int32_t trf__window_first(int32_t n, int32_t window)
{
    int32_t leave = window + 1 - (window + 1) / 2;
    if (window == 0 || n <= window) return 0;
    return (int32_t)(trf__ceil_div((int64_t)n - window, leave) * leave);
}

/* Sets the capacity of ids for each sequence. On failure nothing has changed. */
TRF__FN trf_status trf__sampled_grow(trf_sampler *g, int64_t capacity, trf_error *err)
{
    const trf_hooks *hooks = &g->sampling.hooks;
    size_t n_ids = trf__bytes(g->count, trf__bytes(capacity + 1, sizeof *g->ids));
    size_t n_each = trf__bytes(g->count, trf__bytes(capacity + 1, sizeof *g->each));
    int32_t *ids = (int32_t *)trf__alloc(hooks, n_ids);
    double *each = (double *)trf__alloc(hooks, n_each);
    if (!ids || !each) {
        trf__free(hooks, ids, n_ids);
        trf__free(hooks, each, n_each);
        return trf__fail(err, TRF_E_NOMEM, -1, "ids",
                         "no memory for %lld ids of each of %d sequences",
                         (long long)capacity, (int)g->count);
    }
    for (int32_t i = 0; i < g->count; i++) {
        trf__sampled *s = &g->sampled[i];
        int32_t *to = ids + i * (capacity + 1) + 1;
        to[-1] = s->start;
        if (s->n > 0) memcpy(to, s->ids, (size_t)s->n * sizeof *ids);
        if (s->each)
            memcpy(each + i * (capacity + 1), s->each, ((size_t)s->answer.n + 1) * sizeof *each);
        s->ids = to;
        s->each = each + i * (capacity + 1);
        s->answer.ids = s->ids + s->n_begin;
        if (s->answer.log_probabilities) s->answer.log_probabilities = s->each;
    }
    TRF__FREE(hooks, g->ids, g->count * (g->capacity + 1));
    TRF__FREE(hooks, g->each, g->count * (g->capacity + 1));
    g->ids = ids;
    g->each = each;
    g->capacity = capacity;
    return TRF_OK;
}

/* Appends an id or ends the sequence, then calls the callback. On failure nothing has changed. */
TRF__FN trf_status trf__append_drawn(trf_sampler *g, trf__sampled *s, int32_t id,
                                     double log_probability, trf_error *err)
{
    int eos = trf__is_end(g->ensemble.config.eos, &g->sampling.ends, id);
    const char *text = "";
    size_t bytes = 0;
    trf_ended ended = eos ? TRF_ENDED_EOS : s->n + 1 == s->limit ? TRF_ENDED_MAX_LENGTH
        : TRF_ENDED_NOT_YET;
    trf_status status = TRF_OK;
    if (s->n >= g->capacity)
        TRF__TRY(trf__sampled_grow(g, trf__min64(s->limit, g->capacity + g->capacity / 2 + 16),
                                   err));
    if (!eos) s->ids[s->n++] = id;
    if (g->sampling.token)
        status = trf__new_text(g, s, ended != TRF_ENDED_NOT_YET, &text, &bytes, err);
    if (status != TRF_OK) { s->n -= !eos; return status; }
    s->each[s->answer.n] = log_probability;
    s->answer.n = s->n - s->n_begin;
    s->answer.ended = ended;
    s->answer.score = s->answer.log_probability += log_probability;
    s->first = trf__window_first(s->n, trf__window(g));
    if (g->sampling.token)
        g->sampling.token(g->sampling.user, (int32_t)(s - g->sampled), id, text, bytes);
    return TRF_OK;
}

/* Lists up to `most` unread rows of live sequences, from sequence *next on; the last row of each
   only if `last` is set. Returns the number of sequences. The spans note which they are. */
TRF__FN int64_t trf__list_unread_rows(trf_sampler *g, int32_t *next, int last, int64_t most)
{
    const trf__lists *l = &g->here;
    int64_t rows = 0, n = 0, todo = 0, longest = 1;
    for (; *next < g->count && rows < most; ++*next) {
        const trf__sampled *s = &g->sampled[*next];
        trf__span *span = &l->self[n], *cross = &l->cross[n];
        if (s->answer.ended != TRF_ENDED_NOT_YET || (todo = s->n - s->first + last - s->read) <= 0)
            continue;
        span->sentence = *next;
        span->query = (int32_t)rows;
        span->n_query = (int32_t)trf__min64(todo, most - rows);
        span->key = (int32_t)(*next * g->caches[0].self_area);
        span->n_key = s->read + span->n_query;
        for (int64_t k = s->read; k < span->n_key; k++, rows++) {
            l->ids[rows] = k == 0 ? s->start : s->ids[s->first + k - 1];
            l->position[rows] = (int32_t)k;
            l->slots[rows] = (int32_t)(span->key + k);
        }
        *cross = *span;
        cross->key = (int32_t)(*next * g->caches[0].area);
        cross->n_key = s->n_source;
        longest = trf__max64(longest, span->n_query);
        n++;
        if (span->n_query < todo) break;                /* its other rows come next */
    }
    for (int64_t k = 0; k < g->ensemble.n; k++) {
        trf__stack *stack = &g->ensemble.passes[k]->decoder;
        stack->rows = rows;
        stack->n_self = n;
        stack->n_cross = g->pass.sides & TRF__SOURCE ? n : 0;
        stack->max_queries = longest;
        stack->max_keys = g->caches[k].self_area;
        stack->max_memory = g->caches[k].area;
        stack->device = g->there;
        stack->cache = &g->caches[k];
    }
    return n;
}

/* The ops of the rows of the list; with `last` also those of their logits. */
TRF__FN trf_status trf__issue_sampled(trf_sampler *g, int last, trf_error *err)
{
    for (int32_t k = 0; k < g->ensemble.n; k++) {
        trf__pass *pass = g->ensemble.passes[k];
        trf__stack *stack = &pass->decoder;
        TRF__TRY(trf__stack_forward(pass, stack, err));
        if (last && g->scores) trf__project_states(pass, g->scores, stack->out, stack->rows);
        else if (last) trf__mix_rows(&g->ensemble, k, g->mixed, g->mixing);
    }
    return TRF_OK;
}

TRF__FN trf_status trf__issue_logits(void *job, trf_error *err)
{
    return trf__issue_sampled((trf_sampler *)job, 1, err);
}

/* The logits of the last rows: one row for each sequence, so the ops are the same from token to
   token, and a device repeats its recorded list. */
TRF__FN trf_status trf__last_rows(trf_sampler *g, trf_error *err)
{
    trf__shape shape = trf__shape_of(g->pass.plan.arena, &g->pass.plan.limits, g->device_arena,
                                     g->count + (g->ensemble.moves << 32));
    shape.decoder_rows = g->pass.decoder.rows;
    shape.cache_rows = g->rows;
    shape.cache_length = g->rows_per_step;
    shape.cache_area = g->caches[0].area;
    shape.cache_self_area = g->caches[0].self_area;
    return trf__run_list(&g->pass.run, &shape, trf__issue_logits, g, err);
}

/* Reads the unread rows of live sequences except the last ones. With `last`, reads those and draws
   an id for each. */
TRF__FN trf_status trf__read_sampled(trf_sampler *g, int last, trf_error *err)
{
    trf__pass *pass = &g->pass;
    const trf__run *run = &pass->run;
    trf__stack *stack = &pass->decoder;
    int64_t vocab = pass->config->target_vocab, n;
    int32_t next = 0;
    /* few enough rows for our own products, never CBLAS */
    while ((n = trf__list_unread_rows(g, &next, last, last ? g->rows_per_step
                                     : (int64_t)TRF__PACKED_ROWS)) > 0) {
        run->backend->upload(run, g->there.ids, g->here.ids,
                             (size_t)((char *)(void *)(g->here.cross + n) -
                                      (char *)(void *)g->here.ids));
        if (!last) TRF__TRY(trf__cancel_status(&run->hooks, err));
        TRF__TRY(last ? trf__last_rows(g, err) : trf__issue_sampled(g, 0, err));
        if (last && g->scores) run->backend->fetch(run, g->logits, g->scores, stack->rows * vocab);
        else if (last)
            run->backend->download(run, g->logits, g->mixed,
                                   trf__bytes(stack->rows, trf__bytes(vocab, sizeof(trf_real))));
        TRF__TRY(run->backend->sync(run, err));
        if (last) trf__draw_ids(g, n);
        for (int64_t i = 0; i < n; i++) {
            trf__sampled *s = &g->sampled[g->here.self[i].sentence];
            double log_probability = last ? g->drawing.log_probabilities[i] : 0;
            int32_t first = s->first, id = last ? g->drawing.ids[i] : 0;
            TRF__FAIL_IF(id < 0, TRF_E_NONFINITE, s - g->sampled, "logits",
                         "sequence %lld, token %d of the answer: a logit is infinite or not a "
                         "number, or no token may be drawn", (long long)(s - g->sampled),
                         (int)s->answer.n);
            if (last) TRF__TRY(trf__append_drawn(g, s, id, log_probability, err));
            s->read = s->first == first ? g->here.self[i].n_key : 0;    /* 0: the window has moved,
                                                                           and all positions */
        }
    }
    return TRF_OK;
}

// >>sampler        the object, and its calls
//
// Two arenas, one on the device and one on the host, belong to the sequences of one begin or load.
// The next one frees them first.

/* Frees the sequences and their arenas. The pass stays open for the next ones. */
TRF__FN void trf__sampler_free(trf_sampler *g)
{
    if (g->pass.run.backend)
        g->pass.run.backend->release(&g->pass.run, g->device_arena, g->device_bytes);
    TRF__FREE(&g->sampling.hooks, g->ids, g->count * (g->capacity + 1));
    TRF__FREE(&g->sampling.hooks, g->each, g->count * (g->capacity + 1));
    trf__free(&g->sampling.hooks, g->arena, g->bytes);
    g->arena = g->device_arena = NULL;
    g->ids = NULL;
    g->each = NULL;
    g->capacity = 0;
    g->count = 0;
}

/* Lays out both arenas, and sets their sizes. Called twice: without memory, then with it. */
TRF__FN void trf__sampler_layout(trf_sampler *g)
{
    const trf__pass *pass = &g->pass;
    int64_t vocab = pass->config->target_vocab, wide = trf__round_up(vocab, 16);
    int64_t threads = g->host.backend ? 1 : pass->run.device.threads;
    int64_t chunks = trf__ceil_div(wide, TRF__DRAW_CHUNK);
    int64_t room = trf__min64(threads, g->rows_per_step);
    trf__drawing *d = &g->drawing;
    trf__cursor device = trf__cursor_at(g->device_arena), host = trf__cursor_at(g->arena);
    trf__take_lists(&device, &g->there, pass, g->rows, g->rows, g->rows);
    trf__take_lists(&host, &g->here, pass, g->rows, g->rows, g->rows);
    /* sampling has no targets: their lists serve as slots */
    g->there.slots = g->there.targets;
    g->here.slots = g->here.targets;
    trf__take_caches(&device, g->caches, &g->ensemble, &pass->run,
                     g->count * g->caches[0].self_area, g->count * g->caches[0].area);
    if (g->ensemble.n == 1) g->scores = trf__take_acts(&device, pass, g->rows_per_step, vocab);
    else {
        g->mixed = trf__take_reals(&device, g->rows_per_step, vocab);
        g->mixing = trf__take_reals(&device, g->rows_per_step, vocab);
    }
    g->sampled = TRF__TAKE(trf__sampled, &host, g->count);
    g->sources = TRF__TAKE(int32_t, &host, g->n_source);
    g->source_lengths = TRF__TAKE(int32_t, &host, g->count);
    g->logits = trf__take_reals(&host, g->rows_per_step, vocab);
    d->by_row = room < threads;     /* a worker of any number may take a row */
    d->weights = trf__take_reals(&host, room, wide);
    d->few = trf__take_reals(&host, room, wide);
    d->largest = trf__take_reals(&host, room, chunks);
    d->sums = TRF__TAKE(double, &host, room * chunks);
    d->order = TRF__TAKE(int32_t, &host, room * wide);
    d->ids = TRF__TAKE(int32_t, &host, g->rows_per_step);
    d->log_probabilities = TRF__TAKE(double, &host, g->rows_per_step);
    g->uniform = TRF__TAKE(double, &host, g->rows_per_step);
    d->logits = g->logits;
    d->uniform = g->uniform;
    d->vocab = vocab;
    d->rule = trf__draw_rules;
    d->user = g;
    g->bytes = host.used;
    g->device_bytes = device.used;
}

TRF_API void trf_sampler_destroy(trf_sampler *sampler)
{
    if (!sampler) return;
    trf_hooks hooks = sampler->sampling.hooks;
    trf__sampler_free(sampler);
    trf__ensemble_close(&sampler->ensemble, &sampler->pass);
    trf__pass_close(&sampler->pass);
    if (sampler->host.state) sampler->host.backend->close(&sampler->host);
    trf__free(&hooks, sampler->text, (size_t)sampler->text_capacity);
    trf__free(&hooks, sampler->banned, sampler->banned_bytes);
    trf__free(&hooks, sampler, sizeof *sampler);
}

/* Copies banned sequences. */
TRF__FN trf_status trf__ban_drawn(trf_sampler *g, const trf_sequences *x, trf_error *err)
{
    int64_t n = trf__total_ids(x);
    if (n == 0) return TRF_OK;
    trf__count_banned(&g->rules, x);
    g->banned_bytes = trf__banned_bytes(&g->rules, n);
    g->banned = (int32_t *)trf__alloc(&g->sampling.hooks, g->banned_bytes);
    TRF__FAIL_IF(!g->banned, TRF_E_NOMEM, -1, "banned", "no memory for %lld banned ids",
                 (long long)n);
    trf__list_banned(&g->rules, x, g->banned, g->banned);
    return TRF_OK;
}

TRF_API trf_status trf_sampler_create(trf_sampler **sampler, const trf_model *model,
                                      const trf_sampling *sampling, trf_error *err)
{
    trf_sampling defaults = trf_sampling_defaults();
    trf__limits limits = {0, 1, 1, 1, 0, 1};
    trf__ensemble ensemble;
    trf_sampler *g;
    TRF__BEGIN_NEW(sampler);
    if (!sampling) sampling = &defaults;
    TRF__TRY(trf__ensemble_of(&ensemble, model, &sampling->ensemble, err));
    model = ensemble.models[0];
    TRF__TRY(trf__sampling_check(sampling, &model->config, err));
    TRF__TRY(trf__check_same_sources(&ensemble, err));
    /* the lists of a sampler have one span for each source */
    const trf_config *first = &ensemble.config;
    for (int32_t k = 1; k < ensemble.n && trf__has_source(first); k++)
        TRF__FAIL_IF(ensemble.configs[k]->source_bos != first->source_bos ||
                     ensemble.configs[k]->source_eos != first->source_eos, TRF_E_INVALID_ARG, k,
                     "models", "model %d must add the same BOS and EOS to sources as the first one",
                     (int)k);
    TRF__ALLOC_ZEROED(trf_sampler, g, &sampling->hooks, 1, "sampler", "for a sampler");
    g->model = model;
    g->ensemble = ensemble;
    g->sampling = *sampling;
    TRF__ZERO(g->sampling.banned);
    trf_device device = trf__device_with(&model->config.device, sampling->threads);
    /* the bits of a row must not depend on how many are read together */
    if (device.products == TRF_PRODUCTS_BF16X3) device.products = TRF_PRODUCTS_BUILT_IN;
    trf_status status = trf__pass_open(&g->pass, model, &limits, NULL, sampling->weights, &device,
                                       &sampling->hooks, err);
    if (status == TRF_OK) status = trf__ensemble_open(&g->ensemble, &g->pass, err);
    if (status == TRF_OK && !g->pass.run.backend->draw) {
        device.kind = TRF_DEVICE_CPU;
        device.threads = 1;
        device.precision = TRF_PRECISION_FLOAT32;
        device.products = TRF_PRODUCTS_BUILT_IN;
        g->host = trf__run_on(&device, &sampling->hooks);
        g->host.backend = trf__host_backend(device.vector_bytes);
        status = g->host.backend->open(&g->host, err);
    }
    if (status == TRF_OK) status = trf__ban_drawn(g, &sampling->banned, err);
    if (status != TRF_OK) { trf_sampler_destroy(g); return status; }
    *sampler = g;
    return TRF_OK;
}

/* The most ids of a sequence with a beginning of n. */
TRF__FN int32_t trf__sampled_limit(const trf_sampler *g, int32_t n)
{
    int64_t most = trf__window(g) ? INT32_MAX : (int64_t)g->ensemble.config.max_length - 1;
    return (int32_t)trf__min64(most, (int64_t)n + g->sampling.max_tokens);
}

// >>sampler-begin  sequences that a sampler continues
//
// trf_sampler_begin and the load of a session end in trf__sampler_start. A failure leaves none.

/* Checks the targets, and computes what they need: rows that are read together, capacity for ids,
   and slots for keys and values. begins: the ids of each beginning, or NULL: all ids. */
TRF__FN trf_status trf__sampled_check(trf_sampler *g, const trf_sequences *target,
                                      const int32_t *begins, int32_t n,
                                      trf__limits *need, int64_t *capacity, trf_error *err)
{
    trf_config c = g->ensemble.config;
    int64_t rows = 0, longest = 0, most = 1, window = trf__window(g);
    if (window) c.max_length = INT32_MAX;
    TRF__TRY(trf__check_targets(&c, target, 1, "target", &rows, &longest, err));
    TRF__FAIL_IF(target->count != n && target->count > 0, TRF_E_INVALID_ARG, -1, "target",
                 "source has %d sequence%s, but target has %d", (int)n, trf__plural(n),
                 (int)target->count);
    for (int32_t i = 0; i < n; i++)
        most = trf__max64(most, trf__sampled_limit(g, begins ? begins[i] : trf__length_of(target,
        i)));
    *capacity = trf__max64(trf__min64(most, window + 1), longest);
    if (!window) *capacity = most;
    if (window && most > window) {                      /* rows that are read again */
        rows = trf__max64(rows, n * ((window + 1) / 2));
        most = window + 1;
    }
    g->caches[0].self_area = trf__round_up(most, 16);
    need->target_rows = trf__min64(rows, TRF__PACKED_ROWS);
    need->longest = trf__max64(need->longest, most);
    return TRF_OK;
}

/* Checks a batch, and reserves memory for it. */
TRF__FN trf_status trf__sampled_reserve(trf_sampler *g, const trf_sequences *source,
                                        const trf_sequences *target,
                                        const int32_t *begins, trf_error *err)
{
    const trf_config *c = &g->ensemble.config;
    int64_t capacity = 0, together = TRF__PACKED_ROWS;
    int32_t n = source ? source->count : target->count;
    TRF__ZEROED(trf__limits, need);
    if (source)
        TRF__TRY(trf__check_sources(c, source, 0, &need.source_rows, &need.longest, err));
    g->caches[0].area = trf__round_up(need.longest, 16);
    TRF__TRY(trf__sampled_check(g, target, begins, n, &need, &capacity, err));
    int64_t most = trf__max64(g->caches[0].self_area, g->caches[0].area);
    TRF__FAIL_IF(trf__mul_counts(n, most) > INT32_MAX, TRF_E_LIMIT, n, "beginnings",
                 "%d sequences of up to %lld tokens are too many", (int)n, (long long)most);
    g->rows_per_step = trf__min64(trf__min64(n, together),
                                  trf__max64(1, TRF__DRAW_NUMBERS / c->target_vocab));
    need.target_rows = trf__max64(g->rows_per_step, need.target_rows);
    need.sentences = n;
    TRF__TRY(trf__ensemble_reserve(&g->ensemble, &need, err));
    g->rows = trf__max64(need.source_rows, need.target_rows);
    g->n_source = need.source_rows - (int64_t)n * (source ? trf__source_added(c) : 0);
    g->count = n;
    trf__sampler_layout(g);
    g->arena = TRF__NEW(char, &g->sampling.hooks, g->bytes);
    g->device_arena = (char *)g->pass.run.backend->alloc(&g->pass.run, g->device_bytes);
    TRF__FAIL_IF(!g->arena || !g->device_arena, TRF_E_NOMEM, -1, "cache",
                 "no memory for the %llu bytes that %d sequences of %lld tokens need",
                 (unsigned long long)trf__add_size(g->bytes, g->device_bytes), (int)n,
                 (long long)most);
    trf__sampler_layout(g);
    if (n > 0) memset(g->sampled, 0, (size_t)n * sizeof *g->sampled);
    return trf__sampled_grow(g, capacity, err);
}

/* Stores the batch in the sampler. Returns the rows of the sources; their slots are listed. */
TRF__FN int64_t trf__sampled_write(trf_sampler *g, const trf_sequences *source,
                                   const trf_sequences *target, const int32_t *begins)
{
    const trf_config *c = &g->ensemble.config;
    int64_t row = 0, at = 0;
    int32_t length;
    for (int32_t i = 0; i < g->count; at += length, i++) {
        trf__sampled *s = &g->sampled[i];
        TRF__ZERO(*s);
        length = trf__length_of(target, i);
        s->n_begin = begins ? begins[i] : length;
        s->takes_start = trf__takes_start(c, s->n_begin);
        s->start = s->takes_start ? target->ids[at] : trf__start_id(c);
        s->limit = trf__sampled_limit(g, s->n_begin) - s->takes_start;
        s->n_begin -= s->takes_start;
        s->n = length - s->takes_start;
        s->first = trf__window_first(s->n, trf__window(g));
        s->ids = g->ids + i * (g->capacity + 1) + 1;
        s->each = g->each + i * (g->capacity + 1);
        s->ids[-1] = s->start;
        if (s->n > 0)
            memcpy(s->ids, target->ids + at + s->takes_start, (size_t)s->n * sizeof *s->ids);
        s->answer.ids = s->ids + s->n_begin;
        s->answer.log_probabilities = s->each;
        s->answer.n = s->n - s->n_begin;
        s->answer.ended = s->n < s->limit ? TRF_ENDED_NOT_YET : TRF_ENDED_MAX_LENGTH;
        s->emitted = trf__complete_ids(g->model->target, s->answer.ids, 0, s->answer.n);
        g->source_lengths[i] = trf__length_of(source, i);
        s->n_source = source ? source->lengths[i] + trf__source_added(c) : 0;
        for (int64_t k = 0; k < s->n_source; k++)
            g->here.slots[row++] = (int32_t)(i * g->caches[0].area + k);
    }
    if (g->n_source > 0) memcpy(g->sources, source->ids, (size_t)g->n_source * sizeof *g->sources);
    return row;
}

/* The common part of begin and load: check, reserve, store, encode, read the beginnings. */
TRF__FN trf_status trf__sampler_start(trf_sampler *g, const trf_batch *batch, const int32_t *begins,
                                        trf_error *err)
{
    const trf_sequences *source = g->pass.sides & TRF__SOURCE ? &batch->source : NULL;
    trf__sampler_free(g);
    g->ordinal = batch->ordinal;
    trf_status status = trf__sampled_reserve(g, source, &batch->target, begins, err);
    if (status == TRF_OK) {
        int64_t rows = trf__sampled_write(g, source, &batch->target, begins);
        g->pass.run.backend->upload(&g->pass.run, g->there.slots, g->here.slots,
                                    (size_t)rows * sizeof(int32_t));
    }
    for (int32_t k = 0; status == TRF_OK && k < g->ensemble.n; k++) {
        trf__pass *pass = g->ensemble.passes[k];
        if (source) status = trf__encode_into(pass, &g->caches[k], g->there.slots, g->sources,
                                              g->source_lengths, g->count, 0, err);
        pass->encoder.rows = pass->encoder.n_self = 0;
    }
    if (status == TRF_OK) status = trf__read_sampled(g, 0, err);
    if (status != TRF_OK) trf__sampler_free(g);
    return status;
}

TRF_API trf_status trf_sampler_begin(trf_sampler *sampler, const trf_batch *beginnings,
                                     trf_error *err)
{
    TRF__TRY(trf__begin(sampler, "sampler", err));
    trf__sampler_free(sampler);
    return beginnings ? trf__sampler_start(sampler, beginnings, NULL, err) : trf__fail_null(err,
            "beginnings");
}

TRF__FN trf_status trf__check_begun(const trf_sampler *g, trf_error *err)
{
    return g->arena ? TRF_OK : trf__fail(err, TRF_E_STATE, -1, "sampler",
                                         "nothing has begun: call trf_sampler_begin first");
}

/* The number of sequences that have not ended. */
TRF__FN int32_t trf__n_live(const trf_sampler *g)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->count; i++) n += g->sampled[i].answer.ended == TRF_ENDED_NOT_YET;
    return n;
}

TRF_API trf_status trf_sampler_step(trf_sampler *sampler, int32_t budget, int32_t *live,
                                    trf_error *err)
{
    trf_status status = TRF_OK;
    int32_t n;
    if (live) *live = 0;
    TRF__TRY(trf__begin(sampler, "sampler", err));
    if (budget < 0) return trf__fail_below(err, "budget", 0, budget);
    TRF__TRY(trf__check_begun(sampler, err));
    for (n = trf__n_live(sampler); budget > 0 && n > 0 && status == TRF_OK; budget--) {
        status = trf__read_sampled(sampler, 0, err);        /* sequences whose window has moved */
        if (status == TRF_OK) status = trf__read_sampled(sampler, 1, err);
        n = trf__n_live(sampler);
    }
    if (live) *live = n;
    return status;
}

TRF_API const trf_hypothesis *trf_sampler_answer(const trf_sampler *sampler, int32_t sequence)
{
    return sampler && sequence >= 0 && sequence < sampler->count
        ? &sampler->sampled[sequence].answer : NULL;
}

#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "ops/ops.h"
#include "ops/beam.h"
#include "device/backend.h"
#include "model/checks.h"
#include "model/model.h"
#include "pass/stacks.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/forward.h"
#include "search/options.h"
#include "read/ensemble.h"
#include "read/reader.h"
#include "search/translator.h"
#include "search/required.h"

// >>hypotheses     what a translator keeps of its searches
//
// trf__hypotheses_layout computes sizes and, with arenas, pointers, so that both always agree. A
// round calls trf__hypotheses_reserve; memory is kept between rounds and calls.

/* The most candidates of a row: more than the beam takes, for ends that may not come yet. */
TRF__FN int64_t trf__max_candidates(const trf_config *c, const trf_search *s)
{
    int32_t never[3];
    int64_t choices = c->target_vocab - trf__never(c, s->ban_unk, &s->ends, never);
    return trf__max64(1, trf__min64((int64_t)s->beam * s->candidates + 1 + s->ends.n, choices));
}

TRF__COLD
TRF__FN void trf__take_searches(trf__cursor *cursor, trf__searches *x, const trf__hypotheses *h,
                                int32_t models)
{
    x->live = TRF__TAKE(int32_t, cursor, h->n_places);
    x->progress = TRF__TAKE(trf__progress, cursor, 1);
    x->arrivals = TRF__TAKE(trf__arrival, cursor, h->n_places);
    x->slots = TRF__TAKE(int32_t, cursor, models * h->n_places * h->area);
    x->prefixes = TRF__TAKE(int32_t, cursor, h->n_places * h->length);
}

/* Sets bytes and device_bytes, and cuts the arenas if there are any. Sizes are rounded up, so that
   shapes recur (>>ops), unless slot numbers would exceed int32_t. */
TRF__COLD
TRF__FN void trf__hypotheses_layout(trf__hypotheses *h, const trf__ensemble *e, const trf_search *s,
                                    const trf__rules *rules, const trf__run *run)
{
    const trf_config *c = &e->config;
    int64_t n = run->backend->padded(run, h->n_places) * s->beam;
    int64_t length = run->backend->padded(run, h->length);
    trf__cursor device = trf__cursor_at(h->device_arena), host = trf__cursor_at(h->arena);
    size_t found = trf__bytes(trf__max_candidates(c, s) + rules->n_phrase_next,
                              (rules->penalty != 1 ? 2 : 1) * sizeof(double) + sizeof(int32_t));
    trf__lists *l = &h->lists;
    trf__beam beam;
    /* rounded sizes must not exceed the numbers of slots */
    if (n > INT32_MAX / length) { n = h->n_places * s->beam; length = h->length; }
    h->n_rows = n;
    h->n_places = n / s->beam;
    h->length = length;
    h->area = trf__round_up(h->area, 16);
    h->caches[0].area = h->area;
    trf__take_caches(&device, h->caches, e, run, h->length * n, h->n_places * h->area);
    h->mixed = trf__take_reals(&device, e->n > 1 ? n : 0, c->target_vocab);
    h->logits = trf__take_reals(&device, e->n > 1 ? n : 0, c->target_vocab);
    /* one list is read while the other is written */
    for (int i = 0; i < 2; i++) h->backpointers[i] = TRF__TAKE(int32_t, &device, n * h->length);
    l->ids = TRF__TAKE(int32_t, &device, n);
    l->position = TRF__TAKE(int32_t, &device, n);
    l->only = TRF__TAKE(int32_t, &device, n);
    l->parents = TRF__TAKE(int32_t, &device, n);
    l->slots = TRF__TAKE(int32_t, &device, n);
    l->self = TRF__TAKE(trf__span, &device, n);
    l->cross = TRF__TAKE(trf__span, &device, e->n * h->n_places);
    h->top_scratch = trf__take(&device, 1,
                               run->backend->top_scratch(&run->device, n, c->target_vocab,
                                                         trf__max_candidates(c, s)));
    h->found = (char *)trf__take(&device, n, found);
    h->rest = s->renormalize_logits
            ? TRF__TAKE(double, &device, (1 + s->ends.n) * n) : NULL;
    h->rules = trf__take_rules(&device, rules, n, h->length, c->target_vocab);
    h->beam_bytes = trf__beam_layout(&beam, s, &rules->phrases, (int32_t)h->length, NULL);
    h->beams = TRF__TAKE(trf__beam, &device, h->n_places);
    h->beam_memory = (char *)trf__take(&device, h->n_places, h->beam_bytes);
    h->sources = TRF__TAKE(trf__span, &device, e->n * h->n_places);
    h->starts = TRF__TAKE(int32_t, &device, h->n_places);
    trf__take_searches(&device, &h->there, h, e->n);
    trf__take_searches(&host, &h->here, h, e->n);
    h->beams_read = (trf__beam *)trf__take_host_copy(&host, run, h->beams, h->n_places,
                                                     sizeof(trf__beam));
    h->memory_read = (char *)trf__take_host_copy(&host, run, h->beam_memory, h->n_places,
                                                 h->beam_bytes);
    h->sentence = TRF__TAKE(int32_t, &host, h->n_places);
    h->alive = TRF__TAKE(int32_t, &host, h->n_places);
    h->ids = TRF__TAKE(int32_t, &host, e->n * h->n_places * h->area);
    h->lengths = TRF__TAKE(int32_t, &host, e->n * h->n_places);
    h->bytes = host.used;
    h->device_bytes = device.used;
}

TRF__FN void trf__hypotheses_free(trf_translator *t)
{
    const trf__run *run = &t->reader.pass.run;
    run->backend->release(run, t->hypotheses.device_arena, t->hypotheses.device_bytes);
    trf__free(&run->hooks, t->hypotheses.arena, t->hypotheses.bytes);
    TRF__ZERO(t->hypotheses);
}

/* Lays everything out for a round: `places` sentences, answers of `length` tokens, sources of up to
   `area` rows. Nothing in it outlives a round, so the arenas are cut anew each time. They are
   replaced only if they are too small. The old ones go first, because both might not fit. After a
   failure there are none until the next call. */
TRF__COLD
TRF__FN trf_status trf__hypotheses_reserve(trf_translator *t, int64_t places, int64_t length,
                                           int64_t area, trf_error *err)
{
    const trf__run *run = &t->reader.pass.run;
    trf__hypotheses old = t->hypotheses;
    TRF__ZEROED(trf__hypotheses, h);
    h.n_places = places;
    h.length = length;
    h.area = area;
    trf__hypotheses_layout(&h, &t->reader.ensemble, &t->search, &t->rules, run);
    if (h.bytes > old.bytes || h.device_bytes > old.device_bytes) {
        trf__hypotheses_free(t);
        h.arena = TRF__NEW(char, &run->hooks, h.bytes);
        h.device_arena = (char *)run->backend->alloc(run, h.device_bytes);
        t->hypotheses = old = h;
        if (!h.arena || !h.device_arena) {
            trf__hypotheses_free(t);
            return trf__fail(err, TRF_E_NOMEM, -1, "cache",
                             "no memory for the %llu bytes that %lld hypotheses of %lld tokens "
                             "need", (unsigned long long)trf__add_size(h.bytes, h.device_bytes),
                             (long long)h.n_rows, (long long)length);
        }
    }
    h.arena = old.arena;
    h.device_arena = old.device_arena;
    trf__hypotheses_layout(&h, &t->reader.ensemble, &t->search, &t->rules, run);
    h.bytes = old.bytes;
    h.device_bytes = old.device_bytes;
    t->hypotheses = h;
    return TRF_OK;
}

// >>translators    making and freeing a translator

TRF__COLD
TRF_API void trf_translator_destroy(trf_translator *translator)
{
    if (!translator) return;
    trf_hooks hooks = translator->search.hooks;
    const trf__run *run = &translator->reader.pass.run;
    /* no backend: creating it has failed before the pass was open */
    if (run->backend) {
        trf__hypotheses_free(translator);
        run->backend->release(run, translator->banned, trf__banned_bytes(&translator->rules,
                                                                         translator->n_banned));
        trf__required_free(translator);
    }
    trf__reader_close(&translator->reader, &hooks);
    TRF__FREE(&hooks, translator->answers, translator->answers_capacity);
    TRF__FREE(&hooks, translator->n_answers, translator->n_answers_capacity);
    TRF__FREE(&hooks, translator->ids, translator->ids_capacity);
    TRF__FREE(&hooks, translator->own, translator->own_capacity);
    TRF__FREE(&hooks, translator->first_id, translator->first_id_capacity);
    for (int32_t k = 0; k < TRF_MAX_MODELS; k++)
        TRF__FREE(&hooks, translator->text[k].ids, translator->text[k].capacity);
    TRF__FREE(&hooks, translator->source_at, translator->source_capacity);
    TRF__FREE(&hooks, translator->pending, translator->pending_capacity);
    TRF__FREE(&hooks, translator->order, translator->order_capacity);
    trf__free(&hooks, translator, sizeof *translator);
}

TRF__COLD
TRF_API trf_status trf_translator_create(trf_translator **translator, const trf_model *model,
                                         const trf_search *search, trf_error *err)
{
    trf_search defaults = trf_search_defaults();
    trf_translator *t;
    trf__ensemble ensemble;
    int64_t ratio = 0;
    TRF__BEGIN_NEW(translator);
    if (!search) search = &defaults;
    TRF__TRY(trf__ensemble_of(&ensemble, model, &search->ensemble, err));
    for (int32_t k = 0; k < ensemble.n; k++)
        TRF__TRY(trf_search_check(search, ensemble.configs[k], err));
    TRF__ALLOC_ZEROED(trf_translator, t, &search->hooks, 1, "translator", "for a translator");
    t->reader.inside = 1;
    const char *text = trf_model_metadata(ensemble.models[0], "trained.ratio");
    if (text && trf__parse_int(text, &ratio)) t->ratio = 0.001 * (double)ratio;
    t->search = trf__running(&ensemble.config, search, ensemble.n);
    TRF__ZERO(t->search.banned);
    TRF__ZERO(t->search.phrases);
    t->rules = trf__rules_of(search);
    trf__limits limits = trf__reader_limits(&ensemble.config, search->max_tokens, search->beam);
    trf_status status = trf__reader_open(&t->reader, &ensemble, &limits, search->weights,
                                         search->threads, search->source_tagged, &search->hooks,
                                         err);
    if (status == TRF_OK) status = trf__ban(t, &search->banned, err);
    const trf_sequences *x = &search->phrases;
    t->required.n_ids = x->count;
    if (x->count > 0) {
        memcpy(t->required.ids, x->ids, (size_t)trf__total_ids(x) * sizeof *x->ids);
        memcpy(t->required.lengths, x->lengths, (size_t)x->count * sizeof *x->lengths);
    }
    if (status != TRF_OK) { trf_translator_destroy(t); return status; }
    *translator = t;
    return TRF_OK;
}

TRF_API trf_reader *trf_translator_reader(trf_translator *translator)
{
    return translator ? &translator->reader : NULL;
}

// >>decode         one token for all live rows
//
// Each row is a sequence of one query. Its backpointers name its keys. All rows of a sentence
// attend to the rows of its source. The host writes nothing between two tokens, so a device can run
// the same list of ops again (trf__run_list).

/* The op by which all sentences choose, or `begin` of them begin. */
TRF__FN trf__reorder trf__reorder_of(const trf_translator *t, int64_t wanted, int32_t begin)
{
    const trf__hypotheses *h = &t->hypotheses;
    const trf__stack *stack = &t->reader.pass.decoder;
    trf__reorder a;
    wanted += h->rules.n_phrase_next;
    a.beams = h->beams; a.sources = h->sources; a.live = h->there.live; a.starts = h->starts;
    a.progress = h->there.progress; a.arrivals = h->there.arrivals;
    a.log_probabilities = (const double *)(const void *)h->found;
    a.ruled = h->rules.penalty != 1 ? a.log_probabilities + stack->rows * wanted : NULL;
    a.found = (const int32_t *)(const void *)(a.log_probabilities + (a.ruled ? 2 : 1) *
                                              stack->rows * wanted);
    a.rest = h->rest;
    a.rules = h->rules;
    a.ids = h->lists.ids; a.parents = h->lists.parents; a.position = h->lists.position;
    a.only = h->lists.only; a.slots = h->lists.slots; a.self = h->lists.self;
    a.cross = t->reader.pass.sides & TRF__SOURCE ? h->lists.cross : NULL;
    a.models = t->reader.ensemble.n; a.places = h->n_places;
    a.wanted = wanted; a.rows = stack->rows; a.n_cross = stack->n_cross; a.n_rows = h->n_rows;
    a.columns = h->length; a.begin = begin;
    return a;
}

/* The job of one token: its number in the round, and how many candidates each row needs. */
typedef struct trf__next_tokens { trf_translator *t; int64_t at, wanted; } trf__next_tokens;

/* Issues the ops of one token: the `wanted` best continuations of all rows, then the choices. */
TRF__FN trf_status trf__issue_token(void *job, trf_error *err)
{
    const trf__next_tokens *token = (const trf__next_tokens *)job;
    trf_translator *t = token->t;
    int64_t at = token->at, wanted = token->wanted;
    trf__hypotheses *h = &t->hypotheses;
    const trf__ensemble *e = &t->reader.ensemble;
    const trf_config *c = t->reader.pass.config;
    const trf__run *run = &t->reader.pass.run;
    const trf__stack *stack = &t->reader.pass.decoder;
    trf__reorder next = trf__reorder_of(t, wanted, 0);
    trf__backpointers a;
    trf__top top;
    /* two buffers alternate: a row copies its parent's list, which other rows may need too */
    a.to = h->backpointers[at & 1]; a.from = h->backpointers[~at & 1];
    a.parents = h->lists.parents; a.position = h->lists.position; a.slots = h->lists.slots;
    a.rows = stack->rows; a.stride = h->length;
    run->backend->backpointers(run, &a);
    for (int32_t k = 0; k < e->n; k++) {
        h->caches[k].backpointers = a.to;
        h->caches[k].stride = h->length;
        TRF__TRY(trf__stack_forward(e->passes[k], &e->passes[k]->decoder, err));
        if (e->n > 1) trf__mix_rows(e, k, h->mixed, h->logits);
    }
    if (e->n == 1) trf__scale_states(&t->reader.pass, stack->out, stack->rows);
    top.mixed = e->n > 1 ? h->mixed : NULL;
    top.scores = e->n > 1 && e->rule == TRF_ENSEMBLE_GEOMETRIC;
    top.log_probabilities = (double *)(uintptr_t)next.log_probabilities;
    top.ruled = (double *)(uintptr_t)next.ruled;
    top.rest = h->rest;
    top.rules = h->rules;
    top.ids = (int32_t *)(uintptr_t)next.found;
    top.work = h->top_scratch;
    top.x = stack->out;
    top.w = trf__weight(&t->reader.pass, &t->reader.pass.layout->model.generator);
    top.bias = trf__plain(&t->reader.pass, t->reader.pass.layout->model.generator.b);
    top.rows = stack->rows; top.vocab = c->target_vocab; top.d = c->d_model; top.n = wanted;
    (void)trf__never(c, t->search.ban_unk, &t->search.ends, top.banned);
    top.only = h->lists.only; top.eos = c->eos; top.ends = t->search.ends;
    run->backend->top(run, &top);
    run->backend->reorder(run, &next);
    return TRF_OK;
}

/* One token for all live rows. Whatever changes the ops or their pointers is in `shape`; for equal
   shapes a device repeats a recorded list. */
TRF__FN trf_status trf__decode(trf_translator *t, int64_t at, int64_t wanted, trf_error *err)
{
    const trf__hypotheses *h = &t->hypotheses;
    trf__next_tokens job = { t, at, wanted };
    const trf__pass_plan *plan = &t->reader.pass.plan;
    trf__shape shape = trf__shape_of(plan->arena, &plan->limits, h->device_arena,
                                     (at & 1) + 2 * t->reader.ensemble.moves);
    shape.decoder_rows = t->reader.pass.decoder.rows;
    shape.decoder_spans = t->reader.pass.decoder.n_cross;
    shape.cache_rows = h->n_rows;
    shape.cache_length = h->length;
    shape.cache_area = h->area;
    shape.wanted = wanted;
    shape.phrase_next = h->rules.n_phrase_next;
    shape.beam_bytes = (int64_t)h->beam_bytes;
    return trf__run_list(&t->reader.pass.run, &shape, trf__issue_token, &job, err);
}

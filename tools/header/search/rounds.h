#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/beam.h"
#include "ops/beam_step.h"
#include "device/backend.h"
#include "model/checks.h"
#include "model/batches.h"
#include "model/params.h"
#include "pass/sublayers.h"
#include "pass/stacks.h"
#include "pass/rows.h"
#include "pass/forward.h"
#include "read/ensemble.h"
#include "read/reader.h"
#include "search/translator.h"
#include "search/required.h"
#include "search/hypotheses.h"

// >>rounds         sentences searched together
//
// The sentences of a call are searched in rounds, longest first. A round searches as many at a time
// as max_sentences and max_tokens allow for its longest one. The cache's slots have int32_t
// numbers, which is another bound. (One sentence alone stays below it: 1,024 rows of 2^20 tokens.)
// A round repeats three steps until no sentence is live and none waits:
//   1. admit waiting sentences to free places and encode their sources;
//   2. decode a token for all rows (>>decode), let every beam choose (>>beam), reorder the rows;
//   3. store the answers of finished sentences.
// The next round begins with the first sentence so short that twice as many fit.

/* A round: sentences first .. end - 1 of the sorted order. */
typedef struct trf__round {
    const trf_sequences *sources, *prefixes;        /* of the call, or NULL */
    int32_t each;                                   /* 1: each model has sources of its own */
    int32_t first, end, next;                       /* next: the first that still waits */
    int32_t n, taken;                               /* number of places; number of those in use */
    int64_t longest_source, longest;    /* rows of a source; tokens of an answer, at least 1 */
} trf__round;

/* Number of ids that a search adds to a source. */
TRF__FN int32_t trf__tags(const trf_search *s)
{
    return (s->source_first >= 0) + (s->source_last >= 0);
}

/* Whether the first id of a prompt takes the place of the start id. */
TRF__FN int32_t trf__takes_start(const trf_config *c, int32_t n_prompt)
{
    return c->bare_prompts && n_prompt > 0;
}

/* The same in a search, whose own start id is read before a prompt. */
TRF__FN int32_t trf__prompt_starts(const trf_config *c, const trf_search *s, int32_t n_prefix)
{
    return s->start < 0 && trf__takes_start(c, n_prefix);
}

/* Number of forced tokens with which an answer begins. */
TRF__FN int32_t trf__forced_tokens(const trf_config *c, const trf_search *s, int32_t n_prefix)
{
    if (n_prefix == 0) return s->forced_first >= 0;
    return n_prefix - trf__prompt_starts(c, s, n_prefix);
}

/* Number of those that the answer does not show: forced_first, a decoder-only model's prompt. */
TRF__FN int32_t trf__hidden_tokens(const trf_config *c, const trf_search *s, int32_t n_prefix)
{
    return !trf__has_source(c) || n_prefix == 0 ? trf__forced_tokens(c, s, n_prefix) : 0;
}

/* The most tokens of an answer without EOS. The limit depends on the source, or for a decoder-only
   model on the prefix, which is then part of the answer. A length is 0 if there is no such
   sequence. Without a max_length_b of its own a search cuts no answer that training has taught: the
   longest target and a quarter more is allowed, and more in proportion behind sources that are
   longer than all of training. + 1: only a shorter answer than the limit can end by EOS. */
TRF__FN int64_t trf__answer_limit(const trf_config *c, const trf_search *s, int32_t n_source,
                                  int32_t n_prefix)
{
    int32_t forced = trf__forced_tokens(c, s, n_prefix);
    int32_t most = c->max_length - 1 - trf__prompt_starts(c, s, n_prefix);
    double b = s->max_length_b < 0 ? 20 : s->max_length_b;
    double limit = s->max_length_a * (trf__has_source(c) ? n_source : n_prefix) + b +
                   (trf__has_source(c) ? 0 : forced);
    double longer = c->trained_source ? (double)n_source / c->trained_source : 1;
    double trained = 1.25 * c->trained_target * (longer > 1 ? longer : 1) + 1;
    if (s->max_length_b < 0 && c->trained_target && limit < trained) limit = trained;
    return trf__max64(forced, limit < most ? (int64_t)limit : most);
}

/* The sizes that the pass needs for a round. */
TRF__FN trf__limits trf__round_limits(const trf__round *round, const trf_search *s)
{
    trf__limits need;
    need.source_rows = round->n * round->longest_source;
    need.target_rows = need.sentences = (int64_t)round->n * s->beam;
    need.longest = trf__max64(round->longest + 1, round->longest_source);
    need.recompute = 0;
    need.copies = 1;
    return need;
}

/* The source of a sentence for model m: ids and slots. It is number k of the new ones and its rows
   begin at `row`. Returns the row after them. */
TRF__FN int64_t trf__round_source(trf_translator *t, const trf__round *round, const trf__pending *w,
                                  int32_t place, int32_t k, int32_t m, int64_t row)
{
    const trf_search *s = &t->search;
    trf__hypotheses *h = &t->hypotheses;
    trf__span *span = &h->here.arrivals[k].source[m];
    const trf_sequences *from = &round->sources[m * round->each];
    int64_t count = round->sources->count, begin = m * h->n_places * h->area;
    int32_t n_source = trf__length_of(from, w->sentence);
    int32_t added = trf__source_added(t->reader.ensemble.configs[m]);
    /* ids have no BOS and EOS: k sources before this one have so many fewer ids than rows */
    int32_t *ids = h->ids + begin + row - k * added;
    span->key = (int32_t)(place * h->area);
    span->n_key = n_source + trf__tags(s) + added;
    if (s->source_first >= 0) *ids++ = s->source_first;
    if (n_source)
        memcpy(ids, from->ids + t->source_at[m * round->each * count + w->sentence],
               (size_t)n_source * sizeof(int32_t));
    if (s->source_last >= 0) ids[n_source] = s->source_last;
    h->lengths[m * h->n_places + k] = n_source + trf__tags(s);
    for (int32_t i = 0; i < span->n_key; i++) h->here.slots[begin + row + i] = span->key + i;
    return row + span->n_key;
}

/* Puts a sentence in a free place: its beam and its prefix. It is number k of the new ones. */
TRF__FN void trf__round_arrival(trf_translator *t, const trf__round *round,
                                const trf__pending *w, int32_t place, int32_t k)
{
    const trf_config *c = &t->reader.ensemble.config;
    trf__hypotheses *h = &t->hypotheses;
    trf__arrival *arrival = &h->here.arrivals[k];
    const trf__required *r = &t->required;
    const trf_search *s = &t->search;
    int32_t n_source = trf__length_of(round->sources, w->sentence);
    int32_t n_prefix = trf__length_of(round->prefixes, w->sentence);
    int32_t forced = trf__forced_tokens(c, s, n_prefix);
    const int32_t *prefix = n_prefix ? round->prefixes->ids + w->prefix : &s->forced_first;
    int64_t at = place * h->length;
    TRF__ZERO(*arrival);
    arrival->place = place;
    trf__beam_layout(&arrival->beam, s, r->n_of ? &r->of[r->n_of > 1 ? w->sentence : 0] : NULL,
                     (int32_t)h->length, h->beam_memory + (size_t)place * h->beam_bytes);
    trf__beam_sentence(&arrival->beam, (int32_t)trf__answer_limit(c, s, n_source, n_prefix),
                       h->there.prefixes + at, forced, c->eos, t->n_choices);
    arrival->beam.start = trf__prompt_starts(c, s, n_prefix) ? *prefix++
        : s->start >= 0 ? s->start : trf__start_id(c);
    /* decoder-only: min_length does not count the prefix, which the beam counts */
    if (!trf__has_source(c))
        arrival->beam.least = (int32_t)trf__min64((int64_t)arrival->beam.least + forced, INT32_MAX);
    arrival->beam.hidden = trf__hidden_tokens(c, s, n_prefix);
    memcpy(h->here.prefixes + at, prefix, (size_t)forced * sizeof(int32_t));
    if (n_prefix == 0 && forced) {      /* forced_first */
        arrival->beam.unscored = 1;
        arrival->beam.uncounted = 0;
    }
    h->sentence[place] = w->sentence;
}

/* Encodes sources, and stores in the cache's slots the keys and values that every token reads.
   tagged: each source's last id belongs behind its EOS. */
TRF__FN trf_status trf__encode_into(trf__pass *pass, const trf__cache *cache, const int32_t *slots,
                                    const int32_t *ids, const int32_t *lengths, int32_t n,
                                    int tagged, trf_error *err)
{
    const int before = pass->encoder.tagged;
    TRF__ZEROED(trf_batch, batch);
    batch.source.ids = ids;
    batch.source.lengths = lengths;
    batch.source.count = n;
    pass->decoder.cache = NULL;
    for (; batch.source.count > 0; slots += pass->encoder.rows) {
        pass->encoder.tagged = tagged;
        trf_status status = trf__pass_part(pass, TRF__SOURCE, &batch, err);
        pass->encoder.tagged = before;
        TRF__TRY(status);
        TRF__TRY(trf__stack_forward(pass, &pass->encoder, err));
        for (int32_t i = 0; i < pass->decoder.n_sublayers; i++) {
            const trf__sublayer *layer = &pass->decoder.sublayers[i];
            trf__append_kv r;
            /* only cross-attention reads the source */
            if (layer->is.kind != TRF__CROSS) continue;
            trf__operands sub = trf__operands_of(pass, &pass->decoder, layer);
            trf__project_memory(&pass->run, &sub, pass->encoder.out, 0);
            r.cache = trf__act_at(&pass->run, cache->cross, layer->is.layer * cache->cross_layer);
            r.fresh = sub.fresh; r.slots = slots;
            r.rows = sub.memory_rows; r.width = layer->is.memory; r.area = cache->area;
            pass->run.backend->append_kv(&pass->run, &r);
        }
    }
    return TRF_OK;
}

// >>round-steps    taking sentences in, and storing answers
//
// On a device the host learns only from trf__round_poll how searches stand. Between two looks it
// issues several tokens, so rows and candidates must suffice for the worst case.

/* The most rows that the lists and the activations of all models can hold. */
TRF__FN int64_t trf__round_places(const trf_translator *t)
{
    int64_t most = t->hypotheses.n_rows;
    for (int32_t k = 0; k < t->reader.ensemble.n; k++)
        most = trf__min64(most, t->reader.ensemble.passes[k]->plan.limits.target_rows);
    return most;
}

/* Encodes the n new sources for model k, and prepares its decoder. `rows`: of all lists. */
TRF__FN trf_status trf__round_encode(trf_translator *t, const trf__round *round, int32_t k,
                                     int32_t n, int64_t rows, trf_error *err)
{
    trf__hypotheses *h = &t->hypotheses;
    trf__pass *pass = t->reader.ensemble.passes[k];
    trf__stack *stack = &pass->decoder;
    int64_t begin = k * h->n_places * h->area;
    if (round->sources)
        TRF__TRY(trf__encode_into(pass, &h->caches[k], h->there.slots + begin, h->ids + begin,
                                  h->lengths + k * h->n_places, n, t->search.source_last >= 0,
                                  err));
    pass->encoder.rows = pass->encoder.n_self = 0;
    stack->cache = &h->caches[k];
    stack->rows = rows;
    stack->n_cross = round->sources ? h->n_places : 0;
    stack->max_queries = t->search.beam;
    stack->max_keys = h->length;
    stack->max_memory = round->longest_source;
    stack->device = h->lists;
    stack->device.cross += k * h->n_places;
    return TRF_OK;
}

/* Puts waiting sentences in all free places, and begins their searches. */
TRF__FN trf_status trf__round_admit(trf_translator *t, trf__round *round, trf_error *err)
{
    const trf__run *run = &t->reader.pass.run;
    trf__hypotheses *h = &t->hypotheses;
    trf__searches *x = &h->here;
    char *first = (char *)(void *)x->live, *from = (char *)(void *)x->arrivals,
        *end = (char *)(void *)x->prefixes;
    int32_t n = 0;
    int64_t rows[TRF_MAX_MODELS] = {0};
    for (int32_t place = 0; place < round->n && round->next < round->end; place++) {
        const trf__pending *w = (const trf__pending *)t->order[round->next];
        if (h->sentence[place] >= 0) continue;
        trf__round_arrival(t, round, w, place, n);
        for (int32_t k = 0; round->sources && k < t->reader.ensemble.n; k++)
            rows[k] = trf__round_source(t, round, w, place, n, k, rows[k]);
        round->next++;
        n++;
    }
    /* One upload from arrivals on; the first also resets progress. Prefixes are last, and left out
       if there are none. The pointers rely on the order in trf__take_searches. */
    if (round->next - n == round->first) from = (char *)(void *)x->progress;
    if (round->prefixes || t->search.forced_first >= 0)
        end = (char *)(void *)(x->prefixes + h->n_places * h->length);
    round->taken += n;
    run->backend->upload(run, (char *)(void *)h->there.live + (from - first), from,
                         (size_t)(end - from));
    for (int32_t k = 0; k < t->reader.ensemble.n; k++)
        TRF__TRY(trf__round_encode(t, round, k, n, trf__round_places(t), err));
    trf__reorder begin = trf__reorder_of(t, 1, n);
    run->backend->reorder(run, &begin);
    return TRF_OK;
}

/* Stores the answers of the sentence at a place, and frees the place. */
TRF__FN trf_status trf__round_store(trf_translator *t, trf__round *round, int32_t place,
                                    trf_error *err)
{
    trf__hypotheses *h = &t->hypotheses;
    trf__beam *beam = &h->beams_read[place];
    int32_t sentence = h->sentence[place];
    /* a beam that came from a device still points to the device's memory */
    trf__beam_set_pointers(beam, (int32_t)h->length,
                           h->memory_read + (size_t)place * h->beam_bytes);
    int64_t n_ids = trf__beam_ids(beam);
    TRF__GROW(int32_t, t->ids, t->ids_capacity, t->n_ids + n_ids, &t->search.hooks);
    TRF__GROW(double, t->own, t->own_capacity, t->n_ids + n_ids, &t->search.hooks);
    t->first_id[sentence] = t->n_ids;
    t->n_answers[sentence] = trf__beam_finish(beam, t->answers + (int64_t)sentence *
                                              t->search.n_best,
                                              t->ids + t->n_ids, t->own + t->n_ids);
    t->n_ids += n_ids;
    h->sentence[place] = -1;
    round->taken--;
    return TRF_OK;
}

/* Stores the answers of all sentences that are no longer live. One sync serves all downloads. */
TRF__FN trf_status trf__round_collect(trf_translator *t, trf__round *round, trf_error *err)
{
    trf__hypotheses *h = &t->hypotheses;
    const trf__run *run = &t->reader.pass.run;
    for (int32_t place = 0; place < round->n; place++) h->alive[place] = h->sentence[place] < 0;
    for (int32_t k = 0; k < h->here.progress->n_live; k++) h->alive[h->here.live[k]] = 1;
    for (int32_t place = 0; place < round->n; place++) {
        if (h->alive[place]) continue;
        trf__read_host_copy(run, &h->beams_read[place], &h->beams[place], sizeof(trf__beam));
        trf__read_host_copy(run, h->memory_read + (size_t)place * h->beam_bytes,
                            h->beam_memory + (size_t)place * h->beam_bytes, h->beam_bytes);
    }
    TRF__TRY(run->backend->sync(run, err));
    for (int32_t place = 0; place < round->n; place++)
        if (!h->alive[place]) TRF__TRY(trf__round_store(t, round, place, err));
    return TRF_OK;
}

/* Reads how the searches stand, stores finished answers, and sets the numbers of rows, sentences
   and candidates of the next tokens, or bounds of these if several are issued before a look. */
TRF__FN trf_status trf__round_poll(trf_translator *t, trf__round *round, int64_t *wanted,
                                   trf_error *err)
{
    const trf__hypotheses *h = &t->hypotheses;
    const trf__run *run = &t->reader.pass.run;
    trf__progress *now = h->here.progress;
    run->backend->download(run, h->here.live, h->there.live,
                           (size_t)((char *)(now + 1) - (char *)(void *)h->here.live));
    TRF__TRY(run->backend->sync(run, err));
    if (now->n_live < round->taken) TRF__TRY(trf__round_collect(t, round, err));
    int64_t rows = now->rows, n_cross = now->n_live;
    *wanted = now->wanted;
    if (run->backend->lookahead > 1) {
        rows = trf__min64(run->backend->padded(run, n_cross * t->search.beam),
                          trf__round_places(t));
        n_cross = trf__min64(run->backend->padded(run, n_cross), h->n_places);
        *wanted = trf__max_candidates(&t->reader.ensemble.config, &t->search);
    }
    for (int32_t k = 0; k < t->reader.ensemble.n; k++) {
        trf__stack *stack = &t->reader.ensemble.passes[k]->decoder;
        stack->rows = stack->n_self = rows;
        stack->n_cross = round->sources ? n_cross : 0;
    }
    return TRF_OK;
}

/* Whether to admit sentences now. A few cost as much to encode as many, so an eighth of the places
   must be free. */
TRF__FN int trf__round_admits(const trf__round *round)
{
    return round->next < round->end && 8 * (int64_t)(round->n - round->taken) >= round->n;
}

/* Reserves memory for a round, and searches all its sentences. */
TRF__FN trf_status trf__round_search(trf_translator *t, trf__round *round, trf_error *err)
{
    const trf__run *run = &t->reader.pass.run;
    const trf__progress nothing = { 0, 0, 0, 1 };
    trf__limits need = trf__round_limits(round, &t->search);
    trf_status status = TRF_OK;
    int64_t wanted = 1;
    int32_t k;
    TRF__TRY(trf__ensemble_reserve(&t->reader.ensemble, &need, err));
    TRF__TRY(trf__hypotheses_reserve(t, round->n, round->longest + 1, round->longest_source, err));
    *t->hypotheses.here.progress = nothing;
    for (k = 0; k < round->n; k++) t->hypotheses.sentence[k] = -1;      /* all places are free */
    for (int64_t at = 0; status == TRF_OK; at++) {
        int look = at % run->backend->lookahead == 0;
        /* a sentence may end at once (a full prefix): then its place is free again */
        while (look && status == TRF_OK) {
            if (trf__round_admits(round)) status = trf__round_admit(t, round, err);
            if (status == TRF_OK) status = trf__round_poll(t, round, &wanted, err);
            look = trf__round_admits(round);
        }
        if (status != TRF_OK || round->taken == 0) break;
        status = trf__decode(t, at, wanted, err);
    }
    for (k = 0; k < t->reader.ensemble.n; k++) t->reader.ensemble.passes[k]->decoder.cache = NULL;
    return status;
}

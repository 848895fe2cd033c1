#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "text/vocab.h"
#include "text/vocab_use.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/params.h"
#include "model/model.h"
#include "pass/stacks.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "search/options.h"
#include "read/ensemble.h"
#include "read/reader.h"
#include "search/translator.h"
#include "search/hypotheses.h"
#include "search/rounds.h"

// >>search-calls   a call, cut into rounds
//
// Every public search ends in trf__search_rounds. Answers point into arrays of the translator, and
// are valid until its next call.

TRF__FN void trf__forget_answers(trf_translator *t) { t->n_sentences = 0; t->n_ids = 0; }

/* Order of a call's sentences: the longest first, equal ones as they came. */
TRF__FN int trf__by_length(const void *context, const void *a, const void *b)
{
    const trf__pending *x = (const trf__pending *)a, *y = (const trf__pending *)b;
    (void)context;
    return x->length != y->length ? (x->length > y->length ? -1 : 1) : x->sentence < y->sentence
        ? -1 : 1;
}

/* Checks the sources of a call for every model. each: 1 if each has its own. */
TRF__FN trf_status trf__check_each(const trf__ensemble *e, const trf_sequences *sources,
                                   int32_t each, int tags, trf_error *err)
{
    for (int32_t k = 0; k < e->n; k++) {
        const trf_sequences *x = &sources[k * each];
        int64_t rows = 0, most = 0;
        TRF__TRY(trf__check_sources(e->configs[k], x, tags, &rows, &most, err));
        TRF__FAIL_IF(x->count != sources->count, TRF_E_INVALID_ARG, k, "sources",
                     "model %d has %d source%s, but the first one has %d", (int)k, x->count,
                     trf__plural(x->count), sources->count);
    }
    return TRF_OK;
}

/* Checks a call, reserves memory for its answers, and sorts its sentences. */
TRF__FN trf_status trf__search_prepare(trf_translator *t, const trf_sequences *sources,
                                       int32_t each, const trf_sequences *prefixes, trf_error *err)
{
    const trf_config *c = &t->reader.ensemble.config;
    int64_t kinds = each ? t->reader.ensemble.n : sources != NULL;
    int64_t rows = 0, most = 0, source, prefix = 0;
    int32_t n = sources ? sources->count : prefixes->count, i;
    if (sources)
        TRF__TRY(trf__check_each(&t->reader.ensemble, sources, each, trf__tags(&t->search), err));
    if (prefixes)
        TRF__TRY(trf__check_targets(c, prefixes, 1, sources ? "prefix" : "source", &rows, &most,
                                    err));
    TRF__FAIL_IF(prefixes && prefixes->count != n, TRF_E_INVALID_ARG, -1, "prefixes",
                 "expected a prefix for each of %d source%s, got %d", n, trf__plural(n),
                 prefixes->count);
    TRF__GROW(trf_hypothesis, t->answers, t->answers_capacity, (int64_t)n * t->search.n_best,
              &t->search.hooks);
    TRF__GROW(int32_t, t->n_answers, t->n_answers_capacity, n, &t->search.hooks);
    TRF__GROW(int64_t, t->first_id, t->first_id_capacity, n, &t->search.hooks);
    TRF__GROW(trf__pending, t->pending, t->pending_capacity, n, &t->search.hooks);
    TRF__GROW(const void *, t->order, t->order_capacity, n, &t->search.hooks);
    if (kinds) TRF__GROW(int64_t, t->source_at, t->source_capacity, kinds * n, &t->search.hooks);
    for (i = 0; i < n; i++) {
        trf__pending *w = &t->pending[i];
        w->prefix = prefix;
        w->sentence = i;
        w->length = sources ? 0 : prefixes->lengths[i];
        prefix += trf__length_of(prefixes, i);
        t->order[i] = w;
    }
    for (int32_t k = 0; k < kinds; k++)
        for (source = 0, i = 0; i < n; source += sources[k].lengths[i++]) {
            t->source_at[k * (int64_t)n + i] = source;
            if (t->pending[i].length < sources[k].lengths[i])
                t->pending[i].length = sources[k].lengths[i];
        }
    trf__sort(t->order, (size_t)n, trf__by_length, NULL);
    return TRF_OK;
}

/* How many sentences of `tokens` source tokens, with answers up to `longest`, are searched
   together: as the options allow, and within the numbers of slots and areas. */
TRF__FN int32_t trf__round_capacity(const trf_search *s, int64_t tokens, int64_t longest)
{
    /* + 1: EOS; + 16: an area is rounded up */
    int64_t wanted = trf__min64(s->max_sentences, s->max_tokens / (tokens + 1));
    int64_t most = trf__min64(INT32_MAX / (s->beam * (longest + 1)), INT32_MAX / (tokens + 16));
    return (int32_t)trf__max64(1, trf__min64(wanted, most));
}

/* Determines the sentences of a round from round->first on, how many at a time, and how long. */
TRF__FN void trf__round_size(const trf_translator *t, int32_t count, trf__round *round)
{
    const trf_config *c = &t->reader.ensemble.config;
    int32_t tokens = ((const trf__pending *)t->order[round->first])->length;
    round->longest = 1;
    round->taken = 0;
    round->next = round->end = round->first;
    for (; round->end < count; round->end++) {
        const trf__pending *w = (const trf__pending *)t->order[round->end];
        int32_t n_source = trf__length_of(round->sources, w->sentence);
        int32_t n_prefix = trf__length_of(round->prefixes, w->sentence);
        int64_t longest = trf__max64(round->longest, trf__answer_limit(c, &t->search, n_source,
                n_prefix));
        int32_t n = trf__round_capacity(&t->search, tokens, longest);
        /* so short that twice as many fit: the next round takes it */
        if (round->end > round->first &&
            trf__round_capacity(&t->search, w->length, longest) / 2 >= n) break;
        round->longest = longest;
        round->n = n;
    }
    round->n = (int32_t)trf__min64(round->n, round->end - round->first);
    round->longest_source = 0;
    for (int32_t k = 0; round->sources && k < t->reader.ensemble.n; k++)
        round->longest_source = trf__max64(round->longest_source, (int64_t)tokens +
                                           trf__tags(&t->search) +
                                           trf__source_added(t->reader.ensemble.configs[k]));
}

/* Leaves out the first n ids of an answer. */
TRF__FN void trf__hide_first(trf_hypothesis *h, int32_t n)
{
    for (int32_t i = 0; i < n; i++) h->prompt_log_probability += h->log_probabilities[i];
    h->ids += n;
    h->log_probabilities += n;
    h->n -= n;
}

// >>doubts         signs of a bad answer

/* Whether up to 64 ids occur four times or more in a row, in 12 tokens or more. */
TRF__FN int trf__repeats(const int32_t *ids, int32_t n)
{
    for (int32_t period = 1; period <= 64 && 4 * period <= n; period++)
        for (int32_t i = period, equal = 0; i < n; i++) {
            equal = ids[i] == ids[i - period] ? equal + 1 : 0;
            if (equal >= 3 * period && equal + period >= 12) return 1;
        }
    return 0;
}

/* Signs of a bad answer. A source without ids is not compared. */
TRF__FN int32_t trf__doubts(const trf_hypothesis *h, const int32_t *source, int32_t n_source,
                            double ratio)
{
    double expected = ratio * n_source, n = h->n;
    int32_t doubts = 0;
    if (trf__repeats(h->ids, h->n) && !trf__repeats(source, n_source)) doubts |= TRF_DOUBT_REPEATS;
    if (expected <= 0) return doubts;
    if (n == 0 || (3 * n < expected && expected - n >= 8)) doubts |= TRF_DOUBT_SHORT;
    if (n > 3 * expected && n - expected >= 12) doubts |= TRF_DOUBT_LONG;
    return doubts;
}

// >>search-rounds  all sentences of a call, round by round

/* Runs all rounds of a call. sources is NULL for a decoder-only model; for others, prefixes may be
   NULL. each: 1 if each model has its own sources. required: NULL, or texts of answers. */
TRF__FN trf_status trf__search_rounds(trf_translator *t, const trf_sequences *sources,
                                      int32_t each, const trf_sequences *prefixes,
                                      const trf_requirements *required, trf_error *err)
{
    const trf_sequences *leading = sources ? sources : prefixes;
    int64_t id;
    int32_t k;
    trf__forget_answers(t);
    TRF__TRY(trf__search_prepare(t, sources, each, prefixes, err));
    TRF__TRY(trf__require(t, required, leading->count, err));
    TRF__ZEROED(trf__round, round);
    round.sources = sources;
    round.each = each;
    round.prefixes = prefixes;
    for (; round.first < leading->count; round.first = round.end) {
        trf__round_size(t, leading->count, &round);
        TRF__TRY(trf__round_search(t, &round, err));
    }
    for (int32_t i = 0; i < leading->count; i++)        /* the ids have stopped moving */
        for (id = t->first_id[i], k = 0; k < t->n_answers[i]; k++) {
            trf_hypothesis *h = &t->answers[(int64_t)i * t->search.n_best + k];
            h->ids = t->ids + id;
            h->log_probabilities = t->own + id;
            id += (int64_t)h->n + 1;
            trf__hide_first(h, trf__hidden_tokens(&t->reader.ensemble.config, &t->search,
                                                  trf__length_of(prefixes, i)));
            int64_t at = sources ? t->source_at[i] : t->pending[i].prefix;
            h->doubts = trf__doubts(h, leading->lengths[i] ? leading->ids + at : NULL,
                                    leading->lengths[i], sources ? t->ratio : 0);
        }
    t->n_sentences = leading->count;
    return TRF_OK;
}

TRF_API trf_status trf_translate(trf_translator *translator, const trf_sequences *sources,
                                 const trf_translate_options *options, trf_error *err)
{
    TRF__TRY(trf__begin(translator, "translator", err));
    TRF__ZEROED(trf_translate_options, o);
    if (options) o = *options;
    trf_kind kind = translator->reader.model->config.kind;
    if (!sources) return trf__fail_null(err, "sources");
    TRF__FAIL_IF(kind == TRF_ENCODER_ONLY, TRF_E_STATE, -1, "kind",
                 "an encoder-only model has no decoder: read it (trf_reader_read)");
    TRF__TRY(trf__check_range("each", o.each, 0, 1, err));
    TRF__FAIL_IF(o.each && kind != TRF_ENCODER_DECODER, TRF_E_STATE, -1, "kind",
                 "sources for each model need encoder-decoder models");
    TRF__FAIL_IF(o.prefixes && kind != TRF_ENCODER_DECODER, TRF_E_STATE, -1, "kind",
                 "forced prefixes need an encoder-decoder model; a decoder-only model continues "
                 "its sources");
    if (kind == TRF_DECODER_ONLY)
        return trf__search_rounds(translator, NULL, 0, sources, o.required, err);
    if (!o.each) TRF__TRY(trf__check_same_sources(&translator->reader.ensemble, err));
    return trf__search_rounds(translator, sources, o.each && translator->reader.ensemble.n > 1,
                              o.prefixes, o.required, err);
}

/* The most ids that a search adds to a source or a prompt of any of n models; -1: they do not go
   together or cannot read so many. */
TRF__FN int64_t trf__ids_added(const trf_config *const *configs, int32_t n, const trf_search *s,
                               int32_t source_tokens, trf_error *err)
{
    int64_t added = 0;
    if (trf__check_range("source_tokens", source_tokens, 0, INT32_MAX, err)) return -1;
    for (int32_t k = 0; k < n; k++) {
        const trf_config *c = configs[k];
        if (trf_config_check(c, NULL, err) || trf__check_has_target(c, err) ||
            trf_search_check(s, c, err) || trf__check_alike(configs[0], c, k, 0, err)) return -1;
        int64_t adds = trf__has_source(c) ? trf__source_added(c) + trf__tags(s) : 1;
        added = trf__max64(added, adds);
        if (source_tokens + adds <= c->max_length) continue;
        (void)trf__fail(err, TRF_E_LIMIT, k, "source_tokens",
                        "%d tokens and %lld more are too many for max_length %d",
                        (int)source_tokens, (long long)adds, (int)c->max_length);
        return -1;
    }
    return added;
}

/* Bytes of the packed weights of all models. */
TRF__FN size_t trf__ensemble_packed(const trf__ensemble *e, const trf__run *run)
{
    trf__layout layout;
    size_t bytes = 0;
    for (int32_t k = 0; k < e->n; k++) {
        TRF__ZERO(layout);
        trf__lay_out(&layout, e->configs[k]);
        bytes = trf__add_size(bytes, trf__packed_size(&layout, run, trf__packs(run, 0)));
    }
    return bytes;
}

/* Bytes of the passes of all but the first, with the run's state once for each: an upper bound. */
TRF__FN size_t trf__others_memory(const trf__ensemble *e, const trf__limits *limits,
                                  const trf__run *run)
{
    size_t bytes = trf__bytes(e->n - 1, sizeof(trf__pass));
    for (int32_t k = 1; k < e->n; k++)
        bytes = trf__add_size(bytes, trf__pass_memory(e->configs[k], limits, NULL, run));
    return bytes;
}

/* The configurations of the models of an ensemble, or the one; how many there are. 0: none. */
TRF__FN int32_t trf__configs_of(const trf_config **configs, const trf_config *config,
                                const trf_ensemble *ensemble, trf_error *err)
{
    configs[0] = config;
    if (trf__check_ensemble(ensemble, err)) return 0;
    for (int32_t k = 0; k < ensemble->n; k++) {
        if (!ensemble->models[k]) return (void)trf__fail_null(err, "models"), 0;
        configs[k] = &ensemble->models[k]->config;
    }
    if (!configs[0]) return (void)trf__fail_null(err, "config"), 0;
    return ensemble->n > 0 ? ensemble->n : 1;
}

/* Memory peaks at two moments: while the pass grows, and at the end of the last round, when the ids
   move for the last time. The estimate follows the calls above step by step. */
TRF_API size_t trf_translator_memory(const trf_config *config, const trf_search *search,
                                     int32_t sentences, int32_t source_tokens, trf_error *err)
{
    trf_search own = trf_search_defaults();
    const trf_config *configs[TRF_MAX_MODELS];
    size_t growing = 0, cache, ids;
    if (!search) search = &own;
    trf__clear(err);
    int32_t n = trf__configs_of(configs, config, &search->ensemble, err);
    if (!n) return 0;
    int64_t added = trf__ids_added(configs, n, search, source_tokens, err);
    if (added < 0 || trf__check_range("sentences", sentences, 1, INT32_MAX, err)) return 0;
    TRF__ZEROED(trf__ensemble, ensemble);
    trf__ensemble_configs(&ensemble, configs, n);
    config = &ensemble.config;
    own = trf__running(config, search, n);
    search = &own;
    trf_device device = trf__device_with(&config->device, search->threads);
    trf__run run = trf__run_on(&device, &search->hooks);
    for (int32_t k = 0; k < n; k++)
        if (trf__run_weights(&run, configs[k], search->weights, err)) return 0;
    TRF__ZEROED(trf__round, round);
    /* an empty prompt has a limit of its own (trf__prompt_starts) */
    round.longest = trf__max64(1, trf__answer_limit(config, search, source_tokens, 0));
    if (!trf__has_source(config))
        round.longest = trf__max64(round.longest, trf__answer_limit(config, search, source_tokens,
                                                                    source_tokens));
    round.n = (int32_t)trf__min64(sentences, trf__round_capacity(search, source_tokens,
                                                                 round.longest));
    round.longest_source = trf__has_source(config) ? source_tokens + added : 0;
    trf__limits have = trf__reader_limits(config, search->max_tokens, search->beam);
    trf__limits need = trf__round_limits(&round, search);
    trf__limits grown = trf__limits_grown(&have, &need, config->max_length);
    if (memcmp(&have, &grown, sizeof have)) {       /* old and new exist for a moment; two states
                                                       only if the state grows */
        trf__pass pass = trf__pass_of(config, NULL, &have, NULL, &run);
        size_t state = trf__pass_state(&pass, &have);
        growing = trf__pass_memory(config, &have, NULL, &run);
        if (state == trf__pass_state(&pass, &grown)) growing -= state;
        growing = trf__add_size(growing, trf__others_memory(&ensemble, &have, &run));
    }
    TRF__ZEROED(trf__hypotheses, h);
    h.n_places = round.n;
    h.length = round.longest + 1;
    h.area = round.longest_source;
    trf__rules rules = trf__rules_of(search);
    trf__hypotheses_layout(&h, &ensemble, search, &rules, &run);
    int64_t answers = (int64_t)sentences * search->n_best;
    /* while an array grows, the old one exists too: half the size of the new one */
    ids = trf__bytes(trf__capacity(16, answers * (round.longest + 1)),
                     sizeof(int32_t) + sizeof(double));
    cache = trf__add_size(trf__add_size(h.bytes, h.device_bytes), trf__add_size(ids, ids / 2));
    size_t fixed = trf__add_size(sizeof(trf_translator), trf__ensemble_packed(&ensemble, &run));
    fixed = trf__add_size(fixed, trf__others_memory(&ensemble, &grown, &run));
    fixed = trf__add_size(fixed, trf__bytes(trf__capacity(16, answers), sizeof(trf_hypothesis)));
    fixed = trf__add_size(fixed, trf__bytes(trf__capacity(16, sentences),
                                            sizeof(int32_t) + sizeof(int64_t) +
                                            sizeof(trf__pending) + sizeof(void *)));
    if (trf__has_source(config))
        fixed = trf__add_size(fixed, trf__bytes(trf__capacity(16, (int64_t)n * sentences),
                                                sizeof(int64_t)));
    fixed = trf__add_size(fixed, trf__banned_bytes(&rules, trf__total_ids(&search->banned)));
    fixed = trf__add_size(fixed, trf__phrases_memory(search));
    fixed = trf__add_size(fixed, trf__pass_memory(config, &grown, NULL, &run));
    return trf__add_size(fixed, growing > cache ? growing : cache);
}

// >>answers        hypotheses as ids and as text
//
// Results of the last call, by sentence and rank, and the calls that translate one text.

TRF_API const trf_hypothesis *trf_translator_answer(const trf_translator *translator,
                                                    int32_t sentence, int32_t rank)
{
    if (!translator || sentence < 0 || sentence >= translator->n_sentences || rank < 0 ||
        rank >= translator->n_answers[sentence]) return NULL;
    return &translator->answers[(int64_t)sentence * translator->search.n_best + rank];
}

/* A decoder-only model has no source: its text continues the target. Models whose sources have
   different vocabularies get each its own ids. */
TRF__FN trf_status trf__encode_source(trf_translator *translator, const char *text,
                                      trf_sequences *sources, trf_error *err)
{
    const trf__ensemble *e = &translator->reader.ensemble;
    for (int32_t k = 0; k < (e->apart ? e->n : 1); k++) {
        const trf_model *model = e->models[k];
        const trf_vocab *from = trf__has_source(&model->config) ? model->source : model->target;
        trf__text_ids *to = &translator->text[k];
        if (!from || !translator->reader.model->target) return trf__fail_no_vocabs(err);
        TRF__TRY(trf__encode_all(from, text, to, &translator->search.hooks, err));
        sources[k].ids = to->ids;
        sources[k].lengths = &to->n;
        sources[k].count = 1;
    }
    return TRF_OK;
}

TRF_API trf_status trf_translate_text(trf_translator *translator, const char *text, char *answer,
                                      size_t size, trf_error *err)
{
    trf_sequences sources[TRF_MAX_MODELS];
    trf_status status = trf__begin(translator, "translator", err);
    if (!status) trf__forget_answers(translator);
    if (!status && !text) status = trf__fail_null(err, "text");
    if (!status && !answer && size > 0) status = trf__fail_null(err, "answer");
    if (!status) status = trf__encode_source(translator, text, sources, err);
    if (answer && size > 0) answer[0] = 0;      /* only now: it may be the same memory as text */
    TRF__TRY(status);
    TRF__ZEROED(trf_translate_options, options);
    options.each = translator->reader.ensemble.apart;
    TRF__TRY(trf_translate(translator, sources, &options, err));
    const trf_hypothesis *best = trf_translator_answer(translator, 0, 0);
    return trf_vocab_decode(translator->reader.model->target, best->ids, best->n, answer, size,
                            NULL, err);
}

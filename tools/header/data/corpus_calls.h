#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/batch.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "system/text.h"
#include "text/vocab.h"
#include "text/vocab_use.h"
#include "data/token_files.h"
#include "data/corpus.h"

// >>corpus-calls   filling a corpus, and drawing from it
//
// The public functions. Pairs are added before the first batch: a plan needs all of them.

TRF_API trf_corpus_options trf_corpus_defaults(void)
{
    TRF__ZEROED(trf_corpus_options, o);
    o.batch_tokens = 4096;
    o.batch_sentences = 1024;
    o.shuffle = 1;
    o.buckets = 1;
    o.max_length = 511;
    o.epochs = TRF_ENDLESS;
    return o;
}

TRF__COLD
TRF__FN trf_status trf__corpus_check(const trf_corpus_options *o, trf_error *err)
{
    TRF__TRY(trf__begin(o, "options", err));
    TRF__RANGE(o, batch_tokens, 1, INT32_MAX);
    TRF__RANGE(o, batch_sentences, 1, INT32_MAX);
    TRF__RANGE(o, padded_budget, 0, 1);
    TRF__RANGE(o, shuffle, 0, 1);
    TRF__RANGE(o, buckets, 0, 1);
    TRF__RANGE(o, pool, 0, 1 << 20);
    TRF__RANGE(o, max_length, 1, INT32_MAX);
    TRF__RANGE(o, epochs, 1, (double)INT64_MAX);
    return trf__hooks_check(&o->hooks, err);
}

// >>corpus-open    making one; with a path its pairs lie in a token file

/* Stores the options, without what only creating reads. */
TRF__FN void trf__corpus_take(trf_corpus *c, const trf_corpus_options *o)
{
    c->options = *o;
    c->options.path = NULL;
    c->options.source_vocab = c->options.target_vocab = NULL;
}

TRF__FN trf_status trf__corpus_attach(trf_corpus *c, const trf_corpus_options *o, trf_error *err)
{
    TRF__TRY(trf__token_open(&c->file, o->path, &o->hooks, err));
    trf__token_reader *r = c->file;
    TRF__TRY(trf__token_vocab(r, 0, o->source_vocab, err));
    TRF__TRY(trf__token_vocab(r, 1, o->target_vocab, err));
    TRF__TRY(trf__token_index(r, err));
    const trf_token_facts *facts = &r->form.facts;
    TRF__FAIL_IF(facts->longest > o->max_length, TRF_E_LIMIT, o->max_length, "max_length",
                 "the longest pair must have at most max_length = %d ids on a side, got %d",
                 (int)o->max_length, (int)facts->longest);
    c->facts = *facts;
    c->n_ids = facts->source_ids + facts->target_ids;
    c->hash = r->form.hash;
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_corpus_create(trf_corpus **corpus, const trf_corpus_options *options,
                                     trf_error *err)
{
    trf_corpus_options o = options ? *options : trf_corpus_defaults();
    trf_status status = TRF_OK;
    TRF__BEGIN_NEW(corpus);
    TRF__TRY(trf__corpus_check(&o, err));
    TRF__ALLOC_ZEROED(trf_corpus, *corpus, &o.hooks, 1, "corpus", "for a corpus");
    trf__corpus_take(*corpus, &o);
    (*corpus)->planned = (*corpus)->counted = -1;
    if (o.path) status = trf__corpus_attach(*corpus, &o, err);
    if (status == TRF_OK) return TRF_OK;
    trf_corpus_destroy(*corpus);
    *corpus = NULL;
    return trf__name_file(status, o.path, err);
}

TRF_API const trf_token_facts *trf_corpus_facts(const trf_corpus *corpus)
{
    return corpus ? &corpus->facts : NULL;
}

TRF__COLD
TRF_API void trf_corpus_destroy(trf_corpus *corpus)
{
    if (!corpus) return;
    trf_hooks hooks = corpus->options.hooks;
    trf__token_close(corpus->file);
    trf__corpus_unreserve(corpus);
    TRF__FREE(&hooks, corpus->texts[0].ids, corpus->texts[0].capacity);
    TRF__FREE(&hooks, corpus->texts[1].ids, corpus->texts[1].capacity);
    TRF__FREE(&hooks, corpus->pairs, corpus->pair_capacity);
    TRF__FREE(&hooks, corpus->ids, corpus->id_capacity);
    trf__free(&hooks, corpus, sizeof *corpus);
}

TRF_API trf_status trf_corpus_add(trf_corpus *corpus, const int32_t *source, int32_t n_source,
                                  const int32_t *target, int32_t n_target, trf_error *err)
{
    TRF__TRY(trf__begin(corpus, "corpus", err));
    TRF__FAIL_IF(corpus->file, TRF_E_STATE, -1, "corpus",
                 "expected a corpus in memory, got one that reads a token file");
    TRF__FAIL_IF(corpus->memory, TRF_E_STATE, -1, "corpus",
                 "pairs must be added before the first batch, got one after it");
    TRF__TRY(trf__check_pair(corpus->options.max_length, corpus->facts.pairs, source, n_source,
                             target, n_target, INT32_MIN, err));
    /* both arrays grow before anything changes, so a failure adds nothing */
    int64_t n_ids = corpus->n_ids + n_source + n_target;
    TRF__GROW(trf__pair, corpus->pairs, corpus->pair_capacity, corpus->facts.pairs + 1,
              &corpus->options.hooks);
    TRF__GROW(int32_t, corpus->ids, corpus->id_capacity, n_ids, &corpus->options.hooks);
    trf__pair *pair = &corpus->pairs[corpus->facts.pairs];
    pair->begin = corpus->n_ids;
    pair->n_source = n_source;
    pair->n_target = n_target;
    if (n_source) memcpy(corpus->ids + pair->begin, source, (size_t)n_source * sizeof *source);
    if (n_target)
        memcpy(corpus->ids + pair->begin + n_source, target, (size_t)n_target * sizeof *target);
    corpus->n_ids = n_ids;
    trf__token_add(&corpus->facts, n_source, n_target);
    corpus->hash = trf__hash_pair(corpus->hash, source, n_source, target, n_target);
    return TRF_OK;
}

/* Encodes one side of a new pair from its text. Pieces replace bytes that are not UTF-8 by U+FFFD,
   so only other vocabularies need the check. */
TRF__FN trf_status trf__corpus_encode(trf_corpus *c, int side, const trf_vocab *vocab,
                                      const char *text, const char *what, trf_error *err)
{
    c->texts[side].n = 0;
    if (!vocab) return TRF_OK;
    if (!text) return trf__fail_null(err, what);
    if (!vocab->pieces) TRF__TRY(trf__check_utf8(text, what, err));
    return trf__encode_all(vocab, text, &c->texts[side], &c->options.hooks, err);
}

TRF_API trf_status trf_corpus_add_text(trf_corpus *corpus, const trf_vocab *source_vocab,
                                       const char *source, const trf_vocab *target_vocab,
                                       const char *target, trf_error *err)
{
    TRF__TRY(trf__begin(corpus, "corpus", err));
    TRF__FAIL_IF(!source_vocab && !target_vocab, TRF_E_INVALID_ARG, -1, "source_vocab",
                 "at least one of the vocabularies must be given: both are NULL");
    const trf__text_ids *texts = corpus->texts;
    TRF__TRY(trf__corpus_encode(corpus, 0, source_vocab, source, "source", err));
    TRF__TRY(trf__corpus_encode(corpus, 1, target_vocab, target, "target", err));
    return trf_corpus_add(corpus, texts[0].ids, texts[0].n, texts[1].ids, texts[1].n, err);
}

TRF__COLD
TRF_API trf_status trf_corpus_set_options(trf_corpus *corpus, const trf_corpus_options *options,
                                          trf_error *err)
{
    TRF__TRY(trf__begin(corpus, "corpus", err));
    TRF__TRY(trf__corpus_check(options, err));
    trf_hooks hooks = corpus->options.hooks;
    TRF__FAIL_IF(corpus->facts.epoch || corpus->batch, TRF_E_STATE, -1, "corpus",
                 "expected a corpus at its first batch, got one that has delivered some");
    TRF__FAIL_IF(corpus->facts.longest > options->max_length, TRF_E_LIMIT, options->max_length,
                 "max_length", "the longest pair has %lld ids on a side, more than max_length = %d",
                 (long long)corpus->facts.longest, (int)options->max_length);
    trf__corpus_unreserve(corpus);
    trf__corpus_take(corpus, options);
    corpus->options.hooks = hooks;      /* its memory came from them */
    return TRF_OK;
}

// >>corpus-next    batch after batch

/* Plans the pool to which the next batch belongs. */
TRF__FN trf_status trf__corpus_ready(trf_corpus *c, trf_error *err)
{
    TRF__FAIL_IF(c->facts.pairs == 0, TRF_E_STATE, -1, "corpus",
                 "expected one pair or more, got none");
    TRF__TRY(trf__corpus_reserve(c, err));
    trf__corpus_plan(c, c->facts.epoch, c->batch);
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_corpus_batches(trf_corpus *corpus, int64_t *batches, trf_error *err)
{
    if (batches) *batches = 0;
    TRF__TRY(trf__begin(corpus, "corpus", err));
    if (!batches) return trf__fail_null(err, "batches");
    TRF__TRY(trf__corpus_ready(corpus, err));
    if (corpus->counted != corpus->facts.epoch) {
        trf__corpus_plan(corpus, corpus->facts.epoch, INT64_MAX);         /* plans every pool */
        corpus->n_counted = trf__corpus_planned(corpus);
        corpus->counted = corpus->facts.epoch;
    }
    *batches = corpus->n_counted;
    return TRF_OK;
}

TRF_API trf_status trf_corpus_next(trf_corpus *corpus, trf_batch *batch, trf_error *err)
{
    if (batch) TRF__ZERO(*batch);
    TRF__TRY(trf__begin(corpus, "corpus", err));
    if (!batch) return trf__fail_null(err, "batch");
    TRF__FAIL_IF(corpus->facts.pairs > 0 && corpus->facts.epoch >= corpus->options.epochs,
                 TRF_E_END, -1, "epochs",
                 "expected at most %lld epochs, but one more was requested",
                 (long long)corpus->options.epochs);
    TRF__TRY(trf__corpus_ready(corpus, err));
    TRF__TRY(trf__corpus_gather(corpus, corpus->batch, batch, err));
    /* the place is the batch's own: the position before it is delivered */
    batch->place = trf__corpus_place(corpus);
    if (++corpus->batch == trf__corpus_planned(corpus) && corpus->pool + 1 == corpus->n_pools) {
        corpus->facts.epoch++;
        corpus->batch = 0;
    }
    return TRF_OK;
}

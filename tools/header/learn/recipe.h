#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/train.h"
#include "api/learn.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "model/config.h"
#include "train/options.h"
#include "data/corpus_calls.h"
#include "search/options.h"

TRF__FOR_SIZE

// -----------------------------------------------------------------------------------------------
// >>learn          from texts to a trained model
//
// The numbers of this chapter are measured; tools/data/defaults.md has the experiments. `trf train`
// calls these functions, and options of the command line override their results.
// -----------------------------------------------------------------------------------------------

// -----------------------------------------------------------------------------------------------
// >>recipe         statistics of data in, options out
//
// Size decides most: little data need a small model and much dropout. trf_recipe_find fills model,
// corpus, training and learning in this order, because each depends on those before. `reasons`
// explains the choice to the user.
// -----------------------------------------------------------------------------------------------

/* tokens of both sides */
enum { TRF__FEW_TOKENS = 100000, TRF__SMALL_DATA = 1000000, TRF__LARGE_DATA = 20000000 };

TRF_API trf_learn_options trf_learn_defaults(void)
{
    TRF__ZEROED(trf_learn_options, o);
    o.updates = TRF_ENDLESS;
    o.valid_every = 1000;
    o.patience = 10;
    o.ema = 0.002;
    o.accumulate = 1;
    o.search = trf_search_defaults();
    o.search.beam = 1;
    o.search.max_sentences = 0;
    return o;
}

/* Whether the target has what is learned. With labels, or hidden ids, the source leads. */
TRF__FN int trf__leads_by_target(const trf_data_stats *a)
{
    return a->kind == TRF_DECODER_ONLY ||
           (a->kind == TRF_ENCODER_DECODER && a->target_tokens > a->pairs);
}

/* Sentences of a language, or sequences of few symbols (letters, phones, digits, commands). Few
   symbols mean rules to find and little to remember: small models and batches, little dropout. */
TRF__FN int trf__is_language(const trf_data_stats *a)
{
    return (trf__leads_by_target(a) ? a->target_vocab : a->source_vocab) > 500;
}

/* Tokens of both sides, without those of copies. */
TRF__FN int64_t trf__new_tokens(const trf_data_stats *a)
{
    int64_t tokens = a->source_tokens + a->target_tokens;
    if (!a->different || a->different == a->pairs) return tokens;
    return (int64_t)((double)tokens * (double)a->different / (double)a->pairs);
}

/* A label of a whole text. Much of it shows in which words occur: two layers learn it in half the
   time, and as well (tools/data/defaults.md). */
TRF__FN int trf__labels_texts(const trf_data_stats *a)
{
    return a->n_labels && (a->head == TRF_HEAD_MEAN || a->head == TRF_HEAD_FIRST);
}

/* Little text of few symbols: two layers learn it as well as four, in half the time, and often
   within a few hundred updates. */
TRF__FN int trf__learns_soon(const trf_data_stats *a)
{
    return a->kind == TRF_ENCODER_DECODER && !trf__is_language(a) &&
           trf__new_tokens(a) < TRF__FEW_TOKENS;
}

/* Chooses the model: base for much data, tiny for little, and a size between. */
TRF__FN void trf__recipe_model(trf_recipe *r, const trf_data_stats *a)
{
    int64_t tokens = trf__new_tokens(a);
    int middling = tokens >= TRF__SMALL_DATA && tokens < TRF__LARGE_DATA;
    int symbols = middling && !trf__is_language(a);
    trf_config *c = &r->config;
    *c = trf_config_preset(tokens >= TRF__LARGE_DATA ? TRF_BASE : TRF_TINY);
    if (middling && !symbols) {
        c->encoder_layers = c->decoder_layers = 3;
        c->d_model = 256;
        c->d_ff = 512;
    }
    if (symbols) c->d_ff = 512;
    if (trf__labels_texts(a)) c->encoder_layers = 2;
    if (trf__learns_soon(a)) c->encoder_layers = c->decoder_layers = 2;
    /* the caller may require a width; n_heads must divide it */
    if (a->d_model) c->d_model = a->d_model;
    while (c->d_model % c->n_heads) c->n_heads--;
    /* BOS or EOS takes one position */
    if (a->longest >= c->max_length) c->max_length = a->longest + 1;
    c->trained_source = a->longest_source;
    c->trained_target = a->longest_target;
    c->kind = a->kind;
    c->head = a->head;
    c->n_labels = a->n_labels;
    c->label_kind = a->label_kind;
    c->source_vocab = a->source_vocab;
    c->target_vocab = a->target_vocab;
    if (c->kind == TRF_DECODER_ONLY) c->encoder_layers = 0;
    if (c->kind == TRF_ENCODER_ONLY) c->decoder_layers = 0;
    c->norm_place = TRF_PRE_NORM;
    c->tying = c->kind == TRF_ENCODER_ONLY ? TRF_UNTIED
             : c->kind == TRF_ENCODER_DECODER && a->one_vocabulary ? TRF_TIED_ALL
             : TRF_TIED_DECODER;
    c->generator_bias = 0;
}

// >>recipe-training  rates, effort, the reasons, and all together

/* The peak rate falls with sqrt(d_model), as in the paper's schedule. Label smoothing helps search
   and distorts probabilities, so only models that search get it. */
TRF__FN void trf__recipe_training(trf_recipe *r, const trf_data_stats *a)
{
    trf_train_options *o = &r->training;
    int64_t tokens = trf__new_tokens(a);
    int language = trf__is_language(a), longest = a->longest + 1;
    *o = trf_train_defaults();
    o->schedule = TRF_INVERSE_SQRT;
    o->learning_rate = 0.025 / sqrt((double)r->config.d_model);
    /* a run that is planned short must not spend all of it on warm-up */
    o->warmup = (int64_t)trf__clamp(a->updates ? (double)a->updates / 8 : 1000, 1, 1000);
    o->dropout = tokens >= TRF__LARGE_DATA || !language ? 0.1
               : tokens < TRF__SMALL_DATA ? 0.3 : 0.2;
    o->residual_dropout = o->dropout;
    o->label_smoothing = a->kind == TRF_ENCODER_DECODER ? 0.1 : 0;
    o->source_tokens = r->corpus.batch_tokens > longest ? r->corpus.batch_tokens : longest;
    o->target_tokens = o->source_tokens;
    o->sequences = (int32_t)trf__min64(r->corpus.batch_sentences, o->source_tokens);
    o->longest = longest;
}

/* A run whose end is known ends better with a rate that falls to it. Consistency and teachers need
   labels that are a distribution. */
TRF__FN void trf__recipe_effort(trf_recipe *r, const trf_data_stats *a)
{
    trf_learn_options *l = &r->learning;
    int best = a->effort == TRF_EFFORT_BEST;
    if (a->effort == TRF_EFFORT_NORMAL) return;
    if (a->updates) {
        r->training.schedule = TRF_COSINE;
        r->training.total_steps = trf__max64(a->updates, r->training.warmup + 1);
    } else {
        l->cooldown = best ? 0.5 : 0.25;
        if (!best) l->patience = (l->patience + 3) / 4;
    }
    if (!best || a->label_kind) return;
    r->training.consistency = 1;
    r->teachers = 3;
    r->teacher_share = 0.5;
}

/* Explains the choice in one line each. */
TRF__FN void trf__recipe_reasons(trf_recipe *r, const trf_data_stats *a)
{
    const trf_config *c = &r->config;
    long long tokens = (long long)trf__new_tokens(a);
    const char *what = trf__is_language(a) ? "of natural language" : "of few symbols";
    char end[80];
    if (a->updates) snprintf(end, sizeof end, "after the %lld planned update%s",
                             (long long)a->updates, trf__plural(a->updates));
    else snprintf(end, sizeof end, "after %d validations in a row without a better score",
                  (int)r->learning.patience);
    snprintf(r->reasons, sizeof r->reasons,
             "model: %d encoder and %d decoder layer%s, d_model %d, d_ff %d (%lld tokens %s)\n"
             "batches: at most %d tokens a side in an update\n"
             "rate: rises to %.3g in %lld update%s, then falls %s\n"
             "dropout: %g on embeddings and sublayers\n"
             "label smoothing: %g, because %s\n"
             "end: %s; a validation every %lld update%s\n",
             (int)c->encoder_layers, (int)c->decoder_layers,
             trf__plural(c->decoder_layers ? c->decoder_layers : c->encoder_layers),
             (int)c->d_model, (int)c->d_ff, tokens, what, (int)r->training.source_tokens,
             r->training.learning_rate, (long long)r->training.warmup,
             trf__plural(r->training.warmup), r->training.schedule == TRF_COSINE
             ? "to 0 at the end" : "as 1 / sqrt(number of updates)", r->training.dropout,
             r->training.label_smoothing,
             a->kind == TRF_ENCODER_DECODER ? "the best answer counts" : "probabilities count",
             end, (long long)r->learning.valid_every, trf__plural(r->learning.valid_every));
    if (r->teachers)
        snprintf(r->reasons + strlen(r->reasons), sizeof r->reasons - strlen(r->reasons),
                 "effort: %d models with consistency %g, then one that learns from them\n",
                 (int)r->teachers, r->training.consistency);
}

/* Limits that keep sums and products of the recipe within their types. */
TRF__FN trf_status trf__stats_check(const trf_data_stats *s, trf_error *err)
{
    const double most = 9e18, vocab = 1 << 24;
    int encodes = s->kind != TRF_DECODER_ONLY, decodes = s->kind != TRF_ENCODER_ONLY;
    int labels = s->head != TRF_HEAD_NONE && s->head != TRF_HEAD_MASKED;
    TRF__RANGE(s, kind, 0, TRF_KIND_COUNT - 1);
    TRF__RANGE(s, head, decodes ? 0 : TRF_HEAD_MEAN, decodes ? 0 : TRF_HEAD_MASKED);
    int texts = s->head == TRF_HEAD_MEAN || s->head == TRF_HEAD_FIRST;
    TRF__RANGE(s, label_kind, 0, texts ? TRF_LABEL_KIND_COUNT - 1 : 0);
    TRF__RANGE(s, n_labels, !labels ? 0 : s->label_kind ? 1 : 2, labels ? vocab : 0);
    TRF__RANGE(s, pairs, 1, most);
    TRF__RANGE(s, different, 0, (double)s->pairs);
    TRF__RANGE(s, source_tokens, 0, most / 4);
    TRF__RANGE(s, target_tokens, 0, most / 4);
    TRF__RANGE(s, longest, 0, (1 << 20) - 1);
    TRF__RANGE(s, longest_source, 0, s->longest);
    TRF__RANGE(s, longest_target, 0, s->longest);
    TRF__RANGE(s, source_vocab, encodes ? 5 : 0, encodes ? vocab : 0);
    TRF__RANGE(s, target_vocab, decodes ? 5 : 0, decodes ? vocab : 0);
    TRF__RANGE(s, one_vocabulary, 0, 1);
    if (s->one_vocabulary && encodes && decodes)
        TRF__TRY(trf__check_range("target_vocab", s->target_vocab, s->source_vocab,
                                  s->source_vocab, err));
    TRF__RANGE(s, d_model, 0, 65536);
    TRF__RANGE(s, updates_per_epoch, 0, most);
    TRF__RANGE(s, updates, 0, most);
    TRF__RANGE(s, effort, 0, TRF_EFFORT_COUNT - 1);
    return TRF_OK;
}

TRF_API trf_status trf_recipe_find(trf_recipe *recipe, const trf_data_stats *stats, trf_error *err)
{
    TRF__TRY(trf__begin(recipe, "recipe", err));
    memset(recipe, 0, sizeof *recipe);
    if (!stats) return trf__fail_null(err, "stats");
    TRF__TRY(trf__stats_check(stats, err));
    trf__recipe_model(recipe, stats);
    const double leading = (double)(trf__leads_by_target(stats) ? stats->target_tokens
                                                                : stats->source_tokens);
    /* an epoch has about 100 updates for language, 800 for symbols and for labels of texts */
    int few = trf__is_language(stats) && !trf__labels_texts(stats);
    recipe->corpus = trf_corpus_defaults();
    recipe->corpus.batch_tokens = (int32_t)trf__clamp(leading / (few ? 100 : 800), 512, 4096);
    recipe->corpus.max_length = recipe->config.max_length - 1;
    recipe->corpus.seed = recipe->config.seed;
    trf__recipe_training(recipe, stats);
    double pass = trf__clamp(stats->updates_per_epoch ? (double)stats->updates_per_epoch
                             : leading / recipe->corpus.batch_tokens, 100, 1000);
    recipe->learning = trf_learn_defaults();
    recipe->learning.valid_every = (int64_t)pass;
    if (trf__learns_soon(stats)) {              /* patience lasts as many updates */
        recipe->learning.valid_every = (int64_t)trf__clamp(pass / 4, 50, 1000);
        recipe->learning.patience = (int32_t)(pass * recipe->learning.patience /
                                              (double)recipe->learning.valid_every);
    }
    recipe->learning.fit = TRF_FIT_ALL;
    if (stats->updates) {
        recipe->learning.updates = stats->updates;
        recipe->learning.patience = 0;
    }
    /* what users want to know: right labels, right answers, or else likely texts. Whole sets of
       labels are seldom right, and numbers never */
    recipe->learning.metric = stats->n_labels && !stats->label_kind ? TRF_METRIC_ACCURACY
        : stats->kind == TRF_ENCODER_DECODER && stats->target_tokens > stats->pairs
        ? TRF_METRIC_ERROR_RATE
        : TRF_METRIC_LOSS;
    trf__recipe_effort(recipe, stats);
    trf__recipe_reasons(recipe, stats);
    return TRF_OK;
}

TRF__FOR_SPEED

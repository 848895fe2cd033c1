#include "manual/first_page.h"
#include "manual/manual.h"

#ifndef TRANSFORMER_H
#define TRANSFORMER_H

#include "api/version.h"

#if defined(__cplusplus)
extern "C" {
#endif

#include "api/basics.h"
#include "api/config.h"
#include "api/vocab.h"
#include "api/model.h"
#include "api/batch.h"
#include "api/files.h"
#include "api/train.h"
#include "api/stages.h"
#include "api/translate.h"
#include "api/sampling.h"

#if !defined(TRF_NO_TRAIN)
#include "api/learn.h"

#endif

#include "api/blocks.h"

#if defined(__cplusplus)
}
#endif

#endif /* TRANSFORMER_H */

// ===============================================================================================
//  Stop here if you only want to use the library. What follows is how it works.
// ===============================================================================================

#if (defined(TRF_IMPLEMENTATION) || defined(TRF_COLUMN)) && !defined(TRF__IMPLEMENTED)
#define TRF__IMPLEMENTED

#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"

#include "ops/ops.h"
#include "ops/shared.h"
#include "ops/beam.h"
#include "ops/beam_step.h"
#include "ops/rules.h"

#if !TRF__CUDA || defined(TRF_IMPLEMENTATION)      /* a column `cuda` has none of these */

#include "cpu/threads.h"
#include "cpu/gemm.h"
#include "cpu/amx.h"
#include "cpu/int8.h"
#include "cpu/bf16.h"
#include "cpu/bf16x3.h"
#include "cpu/products.h"
#include "cpu/verbs.h"
#include "cpu/embed.h"
#include "cpu/linear.h"
#include "cpu/attention.h"
#include "cpu/norm.h"
#include "cpu/loss.h"
#include "cpu/adam.h"
#include "cpu/search.h"
#include "cpu/state.h"

#endif

#include "cuda/launches.h"
#include "cuda/products.h"
#include "cuda/layers.h"
#include "cuda/attention.h"
#include "cuda/attention_gradient.h"
#include "cuda/norm.h"
#include "cuda/loss.h"
#include "cuda/search.h"
#include "cuda/state.h"

#if defined(TRF_IMPLEMENTATION)                    /* a column ends here */

#include "device/backend.h"
#include "device/tensors.h"

#include "system/text.h"
#include "system/files.h"
#include "system/json.h"

#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/pieces.h"
#include "text/pieces_file.h"
#include "text/pieces_cut.h"
#include "text/bpe.h"
#include "text/pieces_text.h"
#include "text/wordpiece.h"
#include "text/byte_bpe.h"
#include "text/byte_bpe_text.h"
#include "text/vocab_use.h"

#include "model/checks.h"
#include "model/config.h"
#include "model/batches.h"
#include "model/params.h"
#include "model/model.h"
#include "model/texts.h"
#include "model/copies.h"

#include "pass/sublayers.h"
#include "pass/stacks.h"
#include "pass/pass.h"
#include "pass/packed.h"
#include "pass/rows.h"
#include "pass/forward.h"
#include "pass/backward.h"

#include "train/options.h"

#if !defined(TRF_NO_TRAIN)

#include "train/trainer.h"
#include "train/step.h"
#include "train/stages.h"
#include "train/updater.h"

#endif

#include "data/token_files.h"
#include "data/token_writing.h"
#include "data/corpus.h"
#include "data/corpus_calls.h"
#include "data/noise.h"

#include "search/options.h"
#include "search/translator.h"
#include "search/hypotheses.h"
#include "search/rounds.h"
#include "search/calls.h"
#include "search/sampling.h"
#include "search/sampler.h"
#include "search/look_inside.h"
#include "search/views.h"

#include "files/container.h"
#include "files/reading.h"
#include "files/writing.h"
#include "files/store.h"
#include "files/store_read.h"
#include "files/store_write.h"
#include "files/checkpoint.h"
#include "files/session.h"

#if !defined(TRF_NO_TRAIN)

// -----------------------------------------------------------------------------------------------
// >>learn          from texts to a trained model
//
// The numbers of this chapter are measured; tools/data/defaults.md has the experiments. `trf train`
// decides nothing itself. It calls these functions, and options of the command line override their
// results.
// -----------------------------------------------------------------------------------------------

// -----------------------------------------------------------------------------------------------
// >>recipe         statistics of data in, options out
//
// Size decides most: little data need a small model and much dropout. trf_recipe_find fills model,
// corpus, training and learning in this order, because each depends on those before. `reasons`
// explains the choice to the user.
// -----------------------------------------------------------------------------------------------

enum { TRF__SMALL_DATA = 1000000, TRF__LARGE_DATA = 20000000 };     /* tokens of both sides */

TRF_API trf_learn_options trf_learn_defaults(void)
{
    trf_learn_options o;
    TRF__ZERO(o);
    o.updates = TRF_ENDLESS;
    o.valid_every = 1000;
    o.patience = 10;
    o.ema = 0.002;
    o.accumulate = 1;
    o.search = trf_search_defaults();
    o.search.beam = 1;
    return o;
}

/* Whether the target is what a model has to learn. If it is labels, or hidden in the source, the
   source is. */
TRF__FN int trf__leads_by_target(const trf_data_stats *a)
{
    return a->kind == TRF_DECODER_ONLY ||
           (a->kind == TRF_ENCODER_DECODER && a->target_tokens > a->pairs);
}

/* Sentences of a language, or sequences of few symbols (letters, phones, digits, commands). Few
   symbols mean less to remember and rules to find: smaller models, small batches and little dropout
   are better. */
TRF__FN int trf__is_language(const trf_data_stats *a)
{
    return (trf__leads_by_target(a) ? a->target_vocab : a->source_vocab) > 500;
}

TRF__FN double trf__clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Chooses the model: base for much data, tiny for little, and a size between. */
TRF__COLD
TRF__FN void trf__recipe_model(trf_recipe *r, const trf_data_stats *a)
{
    int64_t tokens = a->source_tokens + a->target_tokens;
    int middling = tokens >= TRF__SMALL_DATA && tokens < TRF__LARGE_DATA;
    int symbols = middling && !trf__is_language(a);
    trf_config *c = &r->config;
    *c = tokens >= TRF__LARGE_DATA ? trf_config_base() : trf_config_tiny();
    if (middling && !symbols) {
        c->encoder_layers = c->decoder_layers = 3;
        c->d_model = 256;
        c->d_ff = 512;
    }
    if (symbols) c->d_ff = 512;
    /* the caller may require a width; n_heads must divide it */
    if (a->d_model) c->d_model = a->d_model;
    while (c->d_model % c->n_heads) c->n_heads--;
    /* BOS or EOS takes one position */
    if (a->longest >= c->max_length) c->max_length = a->longest + 1;
    c->kind = a->kind;
    c->head = a->head;
    c->n_labels = a->n_labels;
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

/* The peak rate falls with sqrt(d_model), as in the paper's schedule. Label smoothing helps search
   and distorts probabilities, so only models that search get it. */
TRF__FN void trf__recipe_training(trf_recipe *r, const trf_data_stats *a)
{
    trf_train_options *o = &r->training;
    int64_t tokens = a->source_tokens + a->target_tokens;
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

/* Explains the choice in one line each. */
TRF__COLD
TRF__FN void trf__recipe_reasons(trf_recipe *r, const trf_data_stats *a)
{
    const trf_config *c = &r->config;
    long long tokens = (long long)(a->source_tokens + a->target_tokens);
    const char *what = trf__is_language(a) ? "of natural language" : "of few symbols";
    char end[80];
    if (a->updates) snprintf(end, sizeof end, "after the %lld planned update%s",
                             (long long)a->updates, trf__plural(a->updates));
    else snprintf(end, sizeof end, "after %d validations in a row without improvement",
                  (int)r->learning.patience);
    snprintf(r->reasons, sizeof r->reasons,
             "model: %d encoder and %d decoder layer%s, d_model %d, d_ff %d, for %lld tokens %s\n"
             "batches: at most %d tokens a side in an update\n"
             "rate: rises to %.3g in %lld update%s, then falls as 1 / sqrt(number of updates)\n"
             "dropout: %g on embeddings and sublayers, for %lld tokens %s\n"
             "label smoothing: %g, because %s wanted\n"
             "end: %s; a validation every %lld update%s\n",
             (int)c->encoder_layers, (int)c->decoder_layers,
             trf__plural(c->decoder_layers ? c->decoder_layers : c->encoder_layers),
             (int)c->d_model, (int)c->d_ff, tokens, what, (int)r->training.source_tokens,
             r->training.learning_rate, (long long)r->training.warmup,
             trf__plural(r->training.warmup), r->training.dropout, tokens, what,
             r->training.label_smoothing,
             a->kind == TRF_ENCODER_DECODER ? "the best answer is" : "probabilities are",
             end, (long long)r->learning.valid_every, trf__plural(r->learning.valid_every));
}

/* Limits that keep sums and products of the recipe within their types. */
TRF__COLD
TRF__FN trf_status trf__stats_check(const trf_data_stats *s, trf_error *err)
{
    const double most = 9e18, vocab = 1 << 24;
    int encodes = s->kind != TRF_DECODER_ONLY, decodes = s->kind != TRF_ENCODER_ONLY;
    int labels = s->head != TRF_HEAD_NONE && s->head != TRF_HEAD_MASKED;
    TRF__RANGE(s, kind, 0, TRF_KIND_COUNT - 1);
    TRF__RANGE(s, head, decodes ? 0 : TRF_HEAD_MEAN, decodes ? 0 : TRF_HEAD_MASKED);
    TRF__RANGE(s, n_labels, labels ? 2 : 0, labels ? vocab : 0);
    TRF__RANGE(s, pairs, 1, most);
    TRF__RANGE(s, source_tokens, 0, most / 4);
    TRF__RANGE(s, target_tokens, 0, most / 4);
    TRF__RANGE(s, longest, 0, (1 << 20) - 1);
    TRF__RANGE(s, source_vocab, encodes ? 5 : 0, encodes ? vocab : 0);
    TRF__RANGE(s, target_vocab, decodes ? 5 : 0, decodes ? vocab : 0);
    TRF__RANGE(s, one_vocabulary, 0, 1);
    if (s->one_vocabulary && encodes && decodes)
        TRF__TRY(trf__check_range("target_vocab", s->target_vocab, s->source_vocab,
                                  s->source_vocab, err));
    TRF__RANGE(s, d_model, 0, 65536);
    TRF__RANGE(s, updates_per_epoch, 0, most);
    TRF__RANGE(s, updates, 0, most);
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_recipe_find(trf_recipe *recipe, const trf_data_stats *stats, trf_error *err)
{
    double leading, pass;
    TRF__TRY(trf__begin(recipe, "recipe", err));
    if (!stats) return trf__fail_null(err, "stats");
    TRF__TRY(trf__stats_check(stats, err));
    memset(recipe, 0, sizeof *recipe);
    trf__recipe_model(recipe, stats);
    leading = (double)(trf__leads_by_target(stats) ? stats->target_tokens : stats->source_tokens);
    /* an epoch has about 100 updates for language, 800 for symbols */
    recipe->corpus = trf_corpus_defaults();
    recipe->corpus.batch_tokens =
        (int32_t)trf__clamp(leading / (trf__is_language(stats) ? 100 : 800), 512, 4096);
    recipe->corpus.max_length = recipe->config.max_length - 1;
    recipe->corpus.seed = recipe->config.seed;
    trf__recipe_training(recipe, stats);
    pass = stats->updates_per_epoch ? (double)stats->updates_per_epoch
         : leading / recipe->corpus.batch_tokens;
    recipe->learning = trf_learn_defaults();
    recipe->learning.valid_every = (int64_t)trf__clamp(pass, 100, 1000);
    if (stats->updates) {
        recipe->learning.updates = stats->updates;
        recipe->learning.patience = 0;
    }
    /* what users want to know: right labels, right answers, or else likely texts */
    recipe->learning.metric = stats->n_labels ? TRF_METRIC_ACCURACY
        : stats->kind == TRF_ENCODER_DECODER && stats->target_tokens > stats->pairs
        ? TRF_METRIC_ERROR_RATE
        : TRF_METRIC_LOSS;
    trf__recipe_reasons(recipe, stats);
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>choose         words, characters or subwords; which pairs are held out
//
// A tenth of the lines stand for new text: how many of their words do the other lines lack? If few,
// words will do. Otherwise long lines need subwords and short ones characters.
// -----------------------------------------------------------------------------------------------

/* A random number of an index, the same at every call (splitmix64). */
TRF__FN uint64_t trf__random_of(uint64_t index)
{
    uint64_t z = (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Whether a line is in the tenth that stands for new text. A hash of its number decides, so that
   data with a period of five or ten lines are sampled evenly. */
TRF__FN int trf__is_sample(int64_t line) { return trf__random_of((uint64_t)line) % 10 == 5; }

typedef struct trf__words {
    int64_t tokens, unknown;            /* of the tenth; unknown: not in the other lines */
    int64_t all;                        /* words of all lines, about */
    int64_t characters;                 /* of all lines */
    int32_t distinct;                   /* different words of the other lines */
} trf__words;

/* Counts the words of one side. The vocabulary of the nine tenths is the caller's to destroy. */
TRF__FN trf_status trf__count_words(trf__words *w, trf_vocab **vocab, const char *const *lines,
                                    int64_t n, const trf_hooks *hooks, trf_error *err)
{
    trf__text_ids ids;
    trf_status status = trf_vocab_create(vocab, TRF_WORDS, hooks, err);
    int64_t line;
    int32_t i;
    TRF__ZERO(ids);
    memset(w, 0, sizeof *w);
    for (line = 0; line < n && status == TRF_OK; line++) {
        const char *c = lines[line];
        /* every byte that is not a continuation of UTF-8 begins a character */
        for (; *c; c++) w->characters += ((unsigned char)*c & 0xC0) != 0x80;
        if (trf__is_sample(line)) continue;
        status = trf_vocab_learn(*vocab, lines[line], err);
        if (status == TRF_E_LIMIT) status = TRF_OK;         /* a word too long for a vocabulary */
    }
    if (status == TRF_OK) status = trf_vocab_finish(*vocab, INT32_MAX, 1, err);
    for (line = 0; line < n && status == TRF_OK; line++) {
        if (!trf__is_sample(line)) continue;
        status = trf__encode_all(*vocab, lines[line], &ids, &(*vocab)->hooks, err);
        if (status == TRF_E_LIMIT || status == TRF_E_FORMAT) { status = TRF_OK; continue; }
        w->tokens += ids.n;
        for (i = 0; i < ids.n && status == TRF_OK; i++) w->unknown += ids.ids[i] == TRF__UNK;
    }
    if (*vocab) trf__free(&(*vocab)->hooks, ids.ids, trf__bytes(ids.capacity, sizeof *ids.ids));
    if (status != TRF_OK) return status;
    w->distinct = trf_vocab_size(*vocab) - TRF__SPECIALS;
    w->all = w->tokens * 10;
    return TRF_OK;
}

/* The kind of tokens for one side. Words are the choice if there is too little text to tell. */
TRF__FN trf_tokens trf__tokens_for(const trf__words *w, int64_t lines)
{
    if (w->tokens == 0 || (double)w->unknown <= 0.02 * (double)w->tokens) return TRF_TOKENS_WORDS;
    if ((double)w->all < 2 * (double)lines || (double)w->characters < 24 * (double)lines)
        return TRF_TOKENS_CHARACTERS;
    return TRF_TOKENS_SUBWORDS;
}

/* Decides the sides that the caller left open, so that both fit together. */
TRF__FN void trf__choose_kinds(trf_token_choice *choice, const trf__words w[2], const int there[2],
                               int64_t lines)
{
    trf_tokens *t = choice->tokens;
    int side, decided[2];
    for (side = 0; side < 2; side++) {
        decided[side] = t[side] == TRF_TOKENS_AUTO && there[side];
        if (decided[side]) t[side] = trf__tokens_for(&w[side], lines);
    }
    for (side = 0; side < 2; side++)    /* a language of many words, beside one of subwords */
        if (decided[side] && there[!side] && t[side] == TRF_TOKENS_WORDS &&
            t[!side] == TRF_TOKENS_SUBWORDS && w[side].distinct > 1000)
            t[side] = TRF_TOKENS_SUBWORDS;
    if (decided[0] && decided[1] && t[0] != t[1] && choice->vocabularies == 1)      /* must agree */
        t[0] = t[1] = t[0] == TRF_TOKENS_SUBWORDS || t[1] == TRF_TOKENS_SUBWORDS
                    ? TRF_TOKENS_SUBWORDS : TRF_TOKENS_CHARACTERS;
    for (side = 0; side < 2; side++) {
        choice->would_be_subwords[side] = decided[side] && t[side] == TRF_TOKENS_SUBWORDS &&
                                          choice->no_subwords;
        if (choice->would_be_subwords[side]) t[side] = TRF_TOKENS_WORDS;
        choice->unknown[side] = w[side].tokens == 0 ? NAN
                              : 100.0 * (double)w[side].unknown / (double)w[side].tokens;
    }
}

/* Number of subwords: one for 25 words of text, so that each is seen often enough. */
TRF__FN int32_t trf__subwords_for(int64_t words)
{
    return (int32_t)trf__clamp((double)words / 25, 500, 8000);
}

/* One vocabulary or two, and their sizes. Sides with many words in common share one: names and
   numbers are then the same ids. */
TRF__FN void trf__choose_sizes(trf_token_choice *choice, const trf__words w[2], int32_t shared)
{
    int side, one;
    if (!choice->vocabularies) {
        one = choice->tokens[0] == choice->tokens[1] &&
              choice->vocab_size[0] == choice->vocab_size[1] &&
              (choice->tokens[0] == TRF_TOKENS_SUBWORDS ||
               (w[1].distinct > 0 && shared >= 0.25 * w[1].distinct));
        choice->vocabularies = one ? 1 : 2;
    }
    for (side = 0; side < 2; side++)
        if (!choice->vocab_size[side])
            choice->vocab_size[side] = choice->tokens[side] != TRF_TOKENS_SUBWORDS ? 32000
                : trf__subwords_for(choice->vocabularies == 1 ? w[0].all + w[1].all : w[side].all);
}

/* The words of both sides are counted even if only one is open: each decides about the other. */
TRF_API trf_status trf_tokens_choose(trf_token_choice *choice, const char *const *source,
                                     const char *const *target,
                                     int64_t n, const trf_hooks *hooks, trf_error *err)
{
    const char *const *const lines[2] = {source, target};
    const int there[2] = {source != NULL, target != NULL};
    trf_vocab *vocab[2] = {NULL, NULL};
    trf__words w[2];
    trf_status status = TRF_OK;
    int32_t i, shared = 0;
    int side;
    TRF__TRY(trf__begin(choice, "choice", err));
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    TRF__ZERO(w);
    for (side = 0; side < 2 && status == TRF_OK; side++)
        if (there[side]) status = trf__count_words(&w[side], &vocab[side], lines[side], n, hooks,
                                                   err);
    if (status == TRF_OK) {
        for (i = TRF__SPECIALS; there[0] && there[1] && i < trf_vocab_size(vocab[1]); i++)
            shared += trf_vocab_id(vocab[0], trf_vocab_token(vocab[1], i)) != TRF__UNK;
        trf__choose_kinds(choice, w, there, n);
        trf__choose_sizes(choice, w, shared);
    }
    trf_vocab_destroy(vocab[0]);
    trf_vocab_destroy(vocab[1]);
    return status;
}

// >>picking        which pairs are held out
//
// A source should not be on both sides of the split. Hashes of sources find the pairs that share
// one.

/* Comparisons for qsort. trf__by_random sorts by a hash of the number, which is a fixed shuffle. */
TRF__FN int trf__by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

TRF__FN int trf__by_random(const void *a, const void *b)
{
    uint64_t x = trf__random_of(*(const uint64_t *)a), y = trf__random_of(*(const uint64_t *)b);
    return x < y ? -1 : x > y;
}

/* FNV-1a, with its upper bits mixed into the lower ones. */
TRF__FN uint64_t trf__hash_text(const char *text)
{
    uint64_t hash = 1469598103934665603u;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* Counts a hash in a sorted array. */
TRF__FN int64_t trf__count_equal(const uint64_t *sorted, int64_t n, uint64_t hash)
{
    int64_t low = 0, high = n, count = 0;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sorted[middle] < hash) low = middle + 1; else high = middle;
    }
    while (low + count < n && sorted[low + count] == hash) count++;
    return count;
}

/* Sources as hashes, and scratch. order: pairs in the order of picking; NULL: every k-th pair. */
typedef struct trf__picking { uint64_t *hashes, *sorted, *chosen, *order; int64_t n; } trf__picking;

/* Holds out the first `picks` pairs, and all pairs with the same sources: else validation would
   meet sources from training. A source that occurs more than four times is a frequent sentence, so
   only the picked pair of it is held out. Returns the number of pairs held out. */
TRF__FN int64_t trf__pick(const trf__picking *p, int64_t picks, char *held)
{
    int64_t k, count = 0;
    size_t n_chosen = 0;
    memset(held, 0, (size_t)p->n);
    for (k = 0; k < picks; k++) {
        size_t i = p->order ? (size_t)p->order[k]
                 : (size_t)(((double)k + 0.5) * (double)p->n / (double)picks);
        if (held[i]) continue;
        held[i] = 1;
        if (trf__count_equal(p->sorted, p->n, p->hashes[i]) <= 4)
            p->chosen[n_chosen++] = p->hashes[i];
    }
    qsort(p->chosen, n_chosen, sizeof *p->chosen, trf__by_number);
    for (k = 0; k < p->n; k++) {
        if (!held[k] &&
            bsearch(&p->hashes[k], p->chosen, n_chosen, sizeof *p->chosen, trf__by_number))
            held[k] = 1;
        count += held[k];
    }
    return count;
}

/* Chooses the number of picks. If each source has three lines, 1,000 picks hold out 3,000 pairs, so
   a third of the picks is tried next. While nothing is left to learn from, picks shrink by a tenth.
   */
TRF__FN int64_t trf__pick_some(const trf__picking *p, int64_t size, char *held)
{
    int64_t picks = size, count = trf__pick(p, size, held);
    while (picks > 1 && size < p->n && (count == p->n || (picks == size && count > size))) {
        double fewer = (double)picks * (double)size / (double)count;
        if (picks < size && fewer > 0.9 * (double)picks) fewer = 0.9 * (double)picks;
        picks = fewer < 1 ? 1 : (int64_t)fewer;
        count = trf__pick(p, picks, held);
    }
    return count;
}

TRF_API trf_status trf_hold_out(const char *const *sources, int64_t n, int64_t size,
                                trf_hold_out_rule rule, char *held,
                                int64_t *count, const trf_hooks *hooks, trf_error *err)
{
    trf_hooks none;
    trf__picking p;
    uint64_t *work;
    int64_t i;
    TRF__TRY(trf__begin(sources, "sources", err));
    if (!held) return trf__fail_null(err, "held");
    if (!count) return trf__fail_null(err, "count");
    *count = 0;
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    if (size < 0 || size > n)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "size",
                         "size must be 0 to n = %lld, got %lld", (long long)n, (long long)size);
    TRF__TRY(trf__check_range("rule", (double)rule, 0, TRF_HOLD_OUT_EVERY_KTH, err));
    TRF__ZERO(none);
    if (!hooks) hooks = &none;
    if (size == 0) size = n / 20 < 1000 ? n / 20 : 1000;
    work = (uint64_t *)trf__alloc(hooks, trf__bytes(4 * n, sizeof *work));
    if (!work) return trf__fail(err, TRF_E_NOMEM, -1, "held", "no memory to order %lld pairs",
                                (long long)n);
    p.hashes = work; p.sorted = work + n; p.chosen = work + 2 * n; p.order = work + 3 * n;
    p.n = n;
    /* one block for four arrays: hashes in the order of pairs, sorted, chosen, and the order */
    for (i = 0; i < n; i++) {
        p.sorted[i] = p.hashes[i] = trf__hash_text(sources[i]);
        p.order[i] = (uint64_t)i;
    }
    qsort(p.sorted, (size_t)n, sizeof *p.sorted, trf__by_number);
    qsort(p.order, (size_t)n, sizeof *p.order, trf__by_random);
    if (rule == TRF_HOLD_OUT_EVERY_KTH) p.order = NULL;
    *count = trf__pick_some(&p, size, held);
    trf__free(hooks, work, trf__bytes(4 * n, sizeof *work));
    return TRF_OK;
}

// -----------------------------------------------------------------------------------------------
// >>judge          the mean of the weights, validation, and what is best
//
// The running mean of the weights (EMA) smooths out the noise of single updates. It is validated
// and kept in their stead; training goes on with the weights themselves.
// -----------------------------------------------------------------------------------------------

struct trf_ema {
    trf_trainer *trainer;
    double share;
    trf_hooks hooks;            /* a copy: the trainer may be destroyed before the average */
    int64_t n;                  /* number of weights */
    trf_real *average, *raw;    /* one block; raw: the trainer's weights while the mean is in
                                   their stead */
    int applied;
};

/* Reads all weights, parameter by parameter. */
TRF__FN trf_status trf__weights_read(const trf_model *model, trf_real *to, trf_error *err)
{
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor w = trf_model_parameter(model, i);
        int64_t n = trf_tensor_count(&w);
        TRF__TRY(trf_tensor_read(&w, to, n, err));
        to += n;
    }
    return TRF_OK;
}

/* Writes all weights, in the same order. */
TRF__FN trf_status trf__weights_write(trf_trainer *trainer, const trf_real *from, trf_error *err)
{
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(trainer->model); i++) {
        trf_tensor w = trf_trainer_parameter(trainer, i);
        int64_t n = trf_tensor_count(&w);
        TRF__TRY(trf_tensor_write(&w, from, n, err));
        from += n;
    }
    return TRF_OK;
}

TRF_API void trf_ema_destroy(trf_ema *ema)
{
    trf_hooks hooks;
    if (!ema) return;
    hooks = ema->hooks;
    trf__free(&hooks, ema->average, trf__bytes(2 * ema->n, sizeof *ema->average));
    trf__free(&hooks, ema, sizeof *ema);
}

TRF__COLD
TRF_API trf_status trf_ema_create(trf_ema **ema, trf_trainer *trainer, double share, trf_error *err)
{
    const trf_hooks *hooks;
    trf_ema *e;
    trf_status status;
    TRF__TRY(trf__begin(ema, "ema", err));
    *ema = NULL;
    if (!trainer) return trf__fail_null(err, "trainer");
    TRF__TRY(trf__check_range("share", share, 1e-300, 0.5, err));
    hooks = &trainer->options.hooks;
    e = (trf_ema *)trf__alloc_zeroed(hooks, sizeof *e);
    if (!e) return trf__fail(err, TRF_E_NOMEM, -1, "ema", "no memory for an average");
    e->trainer = trainer;
    e->hooks = *hooks;
    e->share = share;
    e->n = trf_model_parameter_total(trainer->model);
    /* one block: the mean, which starts as the weights, and the weights while it is applied */
    e->average = (trf_real *)trf__alloc(hooks, trf__bytes(2 * e->n, sizeof *e->average));
    status = e->average ? trf__weights_read(trainer->model, e->average, err)
           : trf__fail(err, TRF_E_NOMEM, -1, "ema", "no memory for the average of %lld weights",
                       (long long)e->n);
    if (status != TRF_OK) { trf_ema_destroy(e); return status; }
    e->raw = e->average + e->n;
    *ema = e;
    return TRF_OK;
}

TRF_API trf_status trf_ema_update(trf_ema *ema, trf_error *err)
{
    double first;
    trf_real share;
    int64_t i;
    TRF__TRY(trf__begin(ema, "ema", err));
    if (ema->applied)
        return trf__fail(err, TRF_E_STATE, -1, "ema",
                         "expected the trainer's own weights, but the average is applied");
    /* early weights are poor, so the mean forgets them faster at first */
    first = 9.0 / (10.0 + (double)trf_trainer_step(ema->trainer));
    share = (trf_real)(first > ema->share ? first : ema->share);
    /* mean += share * (weights - mean), on the host: `raw` is scratch here */
    TRF__TRY(trf__weights_read(ema->trainer->model, ema->raw, err));
    for (i = 0; i < ema->n; i++) ema->average[i] += share * (ema->raw[i] - ema->average[i]);
    return TRF_OK;
}

/* The trainer's own weights are in `raw` until trf_ema_restore. */
TRF_API trf_status trf_ema_apply(trf_ema *ema, trf_error *err)
{
    TRF__TRY(trf__begin(ema, "ema", err));
    if (ema->applied) return TRF_OK;
    TRF__TRY(trf__weights_read(ema->trainer->model, ema->raw, err));
    ema->applied = 1;
    return trf__weights_write(ema->trainer, ema->average, err);
}

TRF_API trf_status trf_ema_restore(trf_ema *ema, trf_error *err)
{
    TRF__TRY(trf__begin(ema, "ema", err));
    if (!ema->applied) return TRF_OK;
    TRF__TRY(trf__weights_write(ema->trainer, ema->raw, err));
    ema->applied = 0;
    return TRF_OK;
}

TRF_API trf_real *trf_ema_weights(trf_ema *ema) { return ema ? ema->average : NULL; }

// >>early-stopping what is better, and when to stop
//
// A validation is better by its score, or with equal scores by its loss. Only a better score resets
// the count of validations to wait for.

/* Turns a score so that larger is better. An error rate above 100 % counts as 100 %: such answers
   are no worse than none. */
TRF__FN double trf__worth(trf_metric metric, double score)
{
    return metric >= TRF_METRIC_ACCURACY ? score
         : metric == TRF_METRIC_ERROR_RATE && score > 100 ? -100 : -score;
}

/* A NaN is worse than any number. */
TRF__FN int trf__improves(trf_metric metric, double a, double b)
{
    return b != b ? a == a : trf__worth(metric, a) > trf__worth(metric, b);
}

TRF_API int trf_is_better(trf_metric metric, double a, double a_loss, double b, double b_loss)
{
    return trf__improves(metric, a, b) ||
           (trf__worth(metric, a) == trf__worth(metric, b) &&
            (a_loss < b_loss || (b_loss != b_loss && a_loss == a_loss)));
}

TRF_API int trf_is_perfect(trf_metric metric, double score)
{
    return metric != TRF_METRIC_LOSS &&
           fabs(score - (metric == TRF_METRIC_ERROR_RATE ? 0 : 100)) < 1e-9;
}

TRF_API int trf_early_stopping_add(trf_early_stopping *stopping, trf_metric metric, int64_t update,
                                   double score, double loss)
{
    int first = stopping->best_update == 0;
    int improves = first || trf__improves(metric, score, stopping->best);
    int best = first || trf_is_better(metric, score, loss, stopping->best, stopping->best_loss);
    int hopeless = metric == TRF_METRIC_ERROR_RATE ? score >= 100
                 : metric != TRF_METRIC_LOSS && score <= 0;
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
    if (patience <= 0) return INT32_MAX;
    /* a perfect score cannot improve: three more validations confirm it */
    if (patience > 3 && stopping->best_update && trf_is_perfect(metric, stopping->best))
        patience = 3;
    if (stopping->wait <= 0) return patience;
    return patience > stopping->wait ? patience - stopping->wait : 0;
}

// >>validate       the loss of held-out pairs, and their error rate
//
// Held-out pairs are one large batch. It is cut to sizes that memory, and an impatient user, allow.

/* Rows for which the largest product, that with the vocabulary's matrix, takes about half a second.
   The cancel hook is called between products, so this bounds its delay. A GPU is fast enough for
   any number. */
TRF__FN double trf__rows_at_a_time(const trf_config *c)
{
    double vocab = c->source_vocab;
    if (c->target_vocab > vocab) vocab = c->target_vocab;
    if (c->n_labels > vocab) vocab = c->n_labels;
    return c->device.kind == TRF_DEVICE_CPU ? 5e9 / (vocab * c->d_model) : 1e18;
}

TRF_API void trf_search_limit(trf_search *search, const trf_config *config)
{
    double most = trf__clamp(trf__rows_at_a_time(config), 1, 512) / search->beam;
    /* each sentence has `beam` rows in a product with the vocabulary's matrix */
    if (most < search->max_sentences) search->max_sentences = most < 1 ? 1 : (int32_t)most;
}

/* The pairs from `first` on that fit into one batch; at least one. used: ids before them. */
TRF__FN trf_batch trf__cut_pairs(const trf_batch *pairs, int32_t first, const int64_t used[2],
                                 const trf_train_options *limits, const trf_config *c)
{
    const double rows = trf__rows_at_a_time(c);
    const double most[2] = {limits->source_tokens < rows ? limits->source_tokens : rows,
                            limits->target_tokens < rows ? limits->target_tokens : rows};
    const trf_sequences *from[2] = {&pairs->source, &pairs->target};
    int64_t tokens[2] = {0, 0};
    int32_t n = 0, all = from[0]->count > from[1]->count ? from[0]->count : from[1]->count;
    trf_sequences to[2];
    trf_batch batch;
    int side;
    for (; first + n < all && n < limits->sequences; n++) {
        for (side = 0; side < 2; side++)
            /* + 1: each sequence has EOS or BOS besides its ids */
            if (first + n < from[side]->count) tokens[side] += from[side]->lengths[first + n] + 1;
        if (n > 0 && ((double)tokens[0] > most[0] || (double)tokens[1] > most[1])) break;
    }
    for (side = 0; side < 2; side++) {
        TRF__ZERO(to[side]);
        if (!from[side]->count) continue;
        to[side].ids = from[side]->ids + used[side];
        to[side].lengths = from[side]->lengths + first;
        to[side].count = n;
    }
    TRF__ZERO(batch);
    batch.source = to[0];
    batch.target = to[1];
    return batch;
}

/* Adds a report. Means are weighted with their tokens or sequences; the caller divides by the
   sums. */
TRF__FN void trf__sum_report(trf_step_report *sum, const trf_step_report *r)
{
    double n = (double)r->target_tokens, m = (double)r->sequence_targets;
    sum->step = r->step;
    sum->loss += (r->loss - r->sequence_loss) * n;
    sum->nll += r->nll * n;
    sum->accuracy += r->accuracy * n;
    sum->source_tokens += r->source_tokens;
    sum->target_tokens += r->target_tokens;
    sum->sequence_loss += r->sequence_loss * m;
    sum->sequence_accuracy += r->sequence_accuracy * m;
    sum->sequence_targets += r->sequence_targets;
}

TRF__COLD
TRF_API trf_status trf_evaluate_all(trf_trainer *trainer, const trf_batch *pairs, trf_noise *noise,
                                    trf_step_report *report, trf_error *err)
{
    trf_step_report sum, one;
    int64_t used[2] = {0, 0}, number = 0;
    int32_t first = 0, all, i, n;
    trf_batch batch;
    if (report) TRF__ZERO(*report);
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (!pairs) return trf__fail_null(err, "pairs");
    all = pairs->source.count > pairs->target.count ? pairs->source.count : pairs->target.count;
    if (all < 1) return trf__fail(err, TRF_E_INVALID_ARG, -1, "pairs",
                                  "expected one pair or more, got none");
    TRF__ZERO(sum);
    for (; first < all; first += n) {
        batch = trf__cut_pairs(pairs, first, used, &trainer->options, &trainer->model->config);
        n = batch.source.count > batch.target.count ? batch.source.count : batch.target.count;
        for (i = 0; i < batch.source.count; i++) used[0] += batch.source.lengths[i];
        for (i = 0; i < batch.target.count; i++) used[1] += batch.target.lengths[i];
        /* noise depends on the place: the same at every validation */
        batch.place.batch = number++;
        if (noise) TRF__TRY(trf_noise_apply(noise, &batch, &batch, err));
        TRF__TRY(trf_evaluate(trainer, &batch, &one, err));
        trf__sum_report(&sum, &one);
    }
    if (sum.sequence_targets) {
        sum.sequence_loss /= (double)sum.sequence_targets;
        sum.sequence_accuracy /= (double)sum.sequence_targets;
    }
    if (sum.target_tokens) {
        sum.loss /= (double)sum.target_tokens;
        sum.nll /= (double)sum.target_tokens;
        sum.accuracy /= (double)sum.target_tokens;
    }
    sum.loss += sum.sequence_loss;
    if (report) *report = sum;
    return TRF_OK;
}

// >>error-rate     answers to held-out sources, compared with their targets

/* Pairs sorted by source: a source with several targets has several right answers. */
typedef struct trf__sources {
    const trf_batch *pairs;
    int64_t *at[2];             /* index of each sequence's first id, source and target */
    const void **order;
    int32_t *row;               /* a row of the table of edits */
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
    int32_t i, j;
    for (j = 0; j <= k; j++) row[j] = j;
    for (i = 0; i < n; i++) {
        int32_t diagonal = row[0], left = ++row[0];
        for (j = 1; j <= k; j++) {
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
    int32_t i;
    for (i = first; i < last; i++) {
        int64_t pair = (const int32_t *)s->order[i] - s->pairs->source.lengths;
        int32_t length = targets->lengths[pair];
        int64_t edits = trf__edits(targets->ids + s->at[1][pair], length, answer, n, s->row, unk);
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
TRF__FN trf_status trf__answer_some(trf_translator *t, const trf__sources *s, int32_t *at,
                                    int32_t *ids, int64_t sums[2], trf_error *err)
{
    const trf_sequences *from = &s->pairs->source;
    int32_t begins[TRF__ANSWERS + 1], lengths[TRF__ANSWERS], n = 0, i = *at, k;
    const int32_t unk = t->model->config.unk;
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
    if (n) TRF__TRY(trf_translate_batch(t, &some, err));
    for (k = 0; k < n; k++) {
        const trf_hypothesis *h = trf_hypothesis_at(t, k, 0);
        trf__add_edits(s, begins[k], begins[k + 1], h->ids, h->n, unk, sums);
    }
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_error_rate(trf_translator *translator, const trf_batch *pairs,
                                  double *percent, trf_error *err)
{
    const trf_hooks *hooks;
    trf__sources s;
    int64_t n, i, most = 1, used = 0, sums[2] = {0, 0};
    int32_t *ids, at = 0;
    trf_status status = TRF_OK;
    if (percent) *percent = 0;
    TRF__TRY(trf__begin(translator, "translator", err));
    if (!pairs) return trf__fail_null(err, "pairs");
    if (!percent) return trf__fail_null(err, "percent");
    n = pairs->source.count;
    if (n < 1 || pairs->target.count != n)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "pairs",
                         "expected one pair or more, with as many targets as sources, got %d "
                         "targets and %d sources", (int)pairs->target.count, (int)n);
    hooks = &translator->search.hooks;
    s.pairs = pairs;
    s.at[0] = (int64_t *)trf__alloc(hooks, trf__bytes(2 * n, sizeof *s.at[0]));
    s.order = (const void **)trf__alloc(hooks, trf__bytes(n, sizeof *s.order));
    for (i = 0; i < n; i++) if (pairs->source.lengths[i] > most) most = pairs->source.lengths[i];
    ids = (int32_t *)trf__alloc(hooks, trf__bytes(most * TRF__ANSWERS, sizeof *ids));
    s.row = (int32_t *)trf__alloc(hooks,
                                  trf__bytes(translator->model->config.max_length + 1,
                                             sizeof *s.row));
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
    trf__free(hooks, s.row, trf__bytes(translator->model->config.max_length + 1, sizeof *s.row));
    trf__free(hooks, ids, trf__bytes(most * TRF__ANSWERS, sizeof *ids));
    trf__free(hooks, (void *)s.order, trf__bytes(n, sizeof *s.order));
    trf__free(hooks, s.at[0], trf__bytes(2 * n, sizeof *s.at[0]));
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>by-itself      trf_learn: updates until one of the ends
//
// Update, validate every now and then, remember the best weights, leave them in the model. The ends
// are updates, seconds, epochs, patience and the progress callback, whichever comes first.
// -----------------------------------------------------------------------------------------------

typedef struct trf__learner {
    trf_trainer *trainer;
    trf_corpus *corpus;
    const trf_batch *held_out;      /* or NULL */
    const trf_learn_options *o;
    trf_ema *ema;                   /* or NULL */
    trf_real *best;                 /* the weights of the best validation */
    int has_best;                   /* 1 after the first validation */
    int learnt;                     /* 1 after the first update that was not skipped */
    int stopped;                    /* the progress callback has ended the run */
    int64_t in_a_row;               /* number of updates skipped in a row */
    double passes;
    time_t began;
    trf_learn_report *report;
} trf__learner;

enum { TRF__MOST_SKIPPED = 100 };       /* this many in a row: training has failed */

/* Checks the options. A run needs at least one end, or it would never return. */
TRF__COLD
TRF__FN trf_status trf__learn_check(const trf__learner *l, trf_error *err)
{
    const trf_learn_options *o = l->o;
    TRF__RANGE(o, updates, 1, (double)INT64_MAX);
    TRF__RANGE(o, seconds, 0, 1e18);
    TRF__RANGE(o, valid_every, 1, (double)INT64_MAX);
    TRF__RANGE(o, patience, 0, INT32_MAX);
    TRF__RANGE(o, ema, 0, 0.5);
    TRF__RANGE(o, metric, 0, TRF_METRIC_COUNT - 1);
    TRF__RANGE(o, accumulate, 1, INT32_MAX);
    if (o->metric == TRF_METRIC_CUSTOM && !o->custom) return trf__fail_null(err, "custom");
    if (trf_corpus_size(l->corpus) == 0)
        return trf__fail(err, TRF_E_STATE, -1, "corpus",
                         "expected one pair or more to learn from, got none");
    if (o->updates != TRF_ENDLESS || o->seconds > 0 || (l->held_out && o->patience) ||
        o->progress ||
        l->corpus->options.epochs != TRF_ENDLESS) return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, -1, "updates",
                     "nothing says when training ends: set updates, seconds, patience (with pairs "
                     "to validate on), progress, or the corpus's epochs");
}

/* Calls the progress callback. Its result other than 0 ends the run. */
TRF__FN void trf__tell_progress(trf__learner *l, trf_learn_progress *p)
{
    p->update = &l->report->last;
    p->epoch = l->passes;
    p->stopping = &l->report->stopping;
    if (l->o->progress && l->o->progress(l->o->user, p)) l->stopped = 1;
}

/* The score of the metric. The error rate needs answers, hence a translator for the weights of this
   moment. */
TRF__FN trf_status trf__learn_score(trf__learner *l, const trf_step_report *held, double *score,
                                    trf_error *err)
{
    const trf_model *model = l->trainer->model;
    trf_search search = l->o->search;
    trf_translator *translator;
    trf_status status;
    *score = l->o->metric == TRF_METRIC_ACCURACY ? 100 * held->accuracy : held->loss;
    if (l->o->metric == TRF_METRIC_CUSTOM && l->o->custom(l->o->user, model, score))
        return trf__fail(err, TRF_E_CANCELLED, l->trainer->step, "custom",
                         "the metric `custom` stopped training");
    if (l->o->metric != TRF_METRIC_ERROR_RATE) return TRF_OK;
    trf_search_limit(&search, &model->config);
    search.hooks = l->trainer->options.hooks;
    /* a new translator: the weights change between two validations, and it may have packed them */
    TRF__TRY(trf_translator_create(&translator, model, &search, err));
    status = trf_error_rate(translator, l->held_out, score, err);
    trf_translator_destroy(translator);
    return status;
}

/* Validates the weights in the model, and keeps them if they are the best so far. The
   report changes only on success. */
TRF__COLD
TRF__FN trf_status trf__learn_judge(trf__learner *l, trf_error *err)
{
    trf_early_stopping stopping = l->report->stopping;
    trf_learn_progress p;
    trf_step_report held;
    int best;
    TRF__ZERO(p);
    TRF__TRY(trf_evaluate_all(l->trainer, l->held_out, l->o->held_out_noise, &held, err));
    TRF__TRY(trf__learn_score(l, &held, &p.score, err));
    best = trf_early_stopping_add(&stopping, l->o->metric, l->trainer->step, p.score, held.loss);
    if (best) TRF__TRY(trf__weights_read(l->trainer->model, l->best, err));
    if (best) l->has_best = 1;
    l->report->stopping = stopping;
    p.validated = 1;
    p.is_best = best > 0;
    p.loss = held.loss;
    p.nll = held.nll;
    p.accuracy = held.accuracy;
    trf__tell_progress(l, &p);
    return TRF_OK;
}

/* Validates the mean of the weights if there is one. The trainer's weights return to the model even
   after a failure. */
TRF__COLD
TRF__FN trf_status trf__learn_validate(trf__learner *l, trf_error *err)
{
    trf_status status, back;
    if (!l->held_out) {
        l->report->stopping.validated = l->trainer->step;
        return TRF_OK;
    }
    if (l->ema) TRF__TRY(trf_ema_apply(l->ema, err));
    status = trf__learn_judge(l, err);
    back = l->ema ? trf_ema_restore(l->ema, status == TRF_OK ? err : NULL) : TRF_OK;
    return status != TRF_OK ? status : back;
}

/* One update from `accumulate` batches, or from fewer at the end of the last epoch. TRF_E_END: no
   data are left. */
TRF__FN trf_status trf__learn_update(trf__learner *l, trf_error *err)
{
    trf_step_report *report = &l->report->last;
    trf_batch batch;
    trf_status status;
    int32_t i;
    for (i = 0; i < l->o->accumulate; i++) {
        status = trf_corpus_next(l->corpus, &batch, err);
        if (status == TRF_E_END && i > 0) break;
        if (status == TRF_OK && l->o->noise) status = trf_noise_apply(l->o->noise, &batch, &batch,
                                                                      err);
        if (status == TRF_OK) status = trf_forward_backward(l->trainer, &batch, report, err);
        if (status != TRF_OK) return status;
        /* a part of an epoch, for progress */
        l->passes += (double)batch.target.count / (double)trf_corpus_size(l->corpus);
    }
    TRF__TRY(trf_optimizer_step(l->trainer, report, err));
    l->report->updates++;
    l->report->skipped += report->skipped;
    l->in_a_row = report->skipped ? l->in_a_row + 1 : 0;
    if (!report->skipped) l->learnt = 1;
    if (l->in_a_row >= TRF__MOST_SKIPPED)
        return trf__fail(err, TRF_E_NONFINITE, report->step, report->tensor, "the last %d updates "
                         "were skipped: %s is not finite, so the rate is too high",
                         (int)TRF__MOST_SKIPPED, report->tensor);
    return l->ema ? trf_ema_update(l->ema, err) : TRF_OK;
}

/* Whether training ends before the next update, and why. */
TRF__FN int trf__learn_is_over(trf__learner *l)
{
    const trf_learn_options *o = l->o;
    if (l->stopped) l->report->end = TRF_END_PROGRESS;
    else if (l->trainer->step >= o->updates) l->report->end = TRF_END_UPDATES;
    else if (trf_early_stopping_left(&l->report->stopping, o->metric, o->patience) == 0)
        l->report->end = TRF_END_PATIENCE;
    else if (o->seconds > 0 && difftime(time(NULL), l->began) >= o->seconds)
        l->report->end = TRF_END_SECONDS;
    else return 0;
    return 1;
}

/* The loop. A resumed run may begin at a step that is due for validation. */
TRF__COLD
TRF__FN trf_status trf__learn_on(trf__learner *l, trf_error *err)
{
    trf_early_stopping *stopping = &l->report->stopping;
    trf_learn_progress p;
    trf_status status;
    TRF__ZERO(p);
    for (;;) {
        int64_t step = l->trainer->step;
        if (step && step % l->o->valid_every == 0 && stopping->validated != step && !l->stopped) {
            /* all updates were skipped: the weights have not changed, so only the wait grows */
            if (l->report->updates && !l->learnt) stopping->wait++;
            else TRF__TRY(trf__learn_validate(l, err));
        }
        if (trf__learn_is_over(l)) break;
        status = trf__learn_update(l, err);
        if (status == TRF_E_END) { l->report->end = TRF_END_EPOCHS; break; }
        if (status != TRF_OK) return status;
        trf__tell_progress(l, &p);
    }
    trf__clear(err);            /* the end of the data is no error */
    if (l->learnt && stopping->validated != l->trainer->step) return trf__learn_validate(l, err);
    return TRF_OK;
}

/* Leaves the best weights in the model, or without validations the last ones. */
TRF__FN trf_status trf__learn_leave(trf__learner *l, trf_error *err)
{
    if (l->has_best) return trf__weights_write(l->trainer, l->best, err);
    return l->ema ? trf_ema_apply(l->ema, err) : TRF_OK;
}

/* Held-out pairs, or NULL if there are none. */
TRF__FN const trf_batch *trf__some_pairs(const trf_batch *pairs)
{
    return pairs && (pairs->source.count > 0 || pairs->target.count > 0) ? pairs : NULL;
}

TRF__COLD
TRF_API trf_status trf_learn(trf_trainer *trainer, trf_corpus *corpus, const trf_batch *held_out,
                             const trf_learn_options *options, trf_learn_report *report,
                             trf_error *err)
{
    trf_learn_options defaults = trf_learn_defaults();
    const trf_hooks *hooks;
    trf_learn_report own;
    trf__learner l;
    trf_status status;
    int64_t n;
    if (!report) report = &own;
    memset(report, 0, sizeof *report);
    report->stopping.validated = -1;
    TRF__TRY(trf__begin(trainer, "trainer", err));
    if (!corpus) return trf__fail_null(err, "corpus");
    TRF__ZERO(l);
    l.trainer = trainer;
    l.corpus = corpus;
    l.held_out = trf__some_pairs(held_out);
    l.o = options ? options : &defaults;
    l.report = report;
    l.began = time(NULL);
    report->last.step = trainer->step;
    hooks = &trainer->options.hooks;
    TRF__TRY(trf__learn_check(&l, err));
    trf__warn_of_plan(trainer, l.o->updates);
    if (l.o->ema > 0) TRF__TRY(trf_ema_create(&l.ema, trainer, l.o->ema, err));
    n = trf_model_parameter_total(trainer->model);
    l.best = l.held_out ? (trf_real *)trf__alloc(hooks, trf__bytes(n, sizeof *l.best)) : NULL;
    if (l.held_out && !l.best)
        status = trf__fail(err, TRF_E_NOMEM, -1, "best", "no memory for the best %lld weights",
                           (long long)n);
    else status = trf__learn_on(&l, err);
    if (status == TRF_OK) status = trf__learn_leave(&l, err);
    /* after an error, too, the model has the best weights; the error stays that of the run */
    else if (l.has_best) trf__learn_leave(&l, NULL);
    trf__free(hooks, l.best, trf__bytes(n, sizeof *l.best));
    trf_ema_destroy(l.ema);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>dataset        texts, and all that follows from them
//
// Adding and reading only store texts. trf_dataset_finish does the rest once: it splits, chooses
// tokens, learns vocabularies, encodes, and fills recipe and corpus. Then the texts are freed. Side
// 0 is the source and side 1 the target; texts alone are targets.
// -----------------------------------------------------------------------------------------------

/* Texts one after another, each followed by a NUL. Offsets, not pointers, because bytes may move.
   */
typedef struct trf__texts {
    char *bytes;
    int64_t *starts;
    int64_t used, capacity, count, starts_capacity;
} trf__texts;

/* Sequences of one side; both arrays grow. */
typedef struct trf__side {
    int32_t *ids, *lengths;
    int64_t used, capacity, count, lengths_capacity;
} trf__side;

struct trf_dataset {
    trf_dataset_options options;
    trf__texts texts[2];
    trf_vocab *vocab[2];            /* the same pointer if both sides share one */
    trf__side held[2];
    trf_batch held_out;             /* a view of held */
    trf_data_stats stats;
    trf_recipe recipe;
    trf_corpus *corpus;
    int64_t left_out;               /* pairs that are empty or too long */
    int64_t unknown;                /* number of unk among the target ids to learn from */
    char *labels;                   /* one a line, or NULL */
    size_t labels_bytes;
    int finished;
};

TRF_API trf_dataset_options trf_dataset_defaults(void)
{
    trf_dataset_options o;
    TRF__ZERO(o);
    o.max_vocab = 32000;
    o.min_count = 1;
    o.seed = 1;
    return o;
}

/* The recipe's special ids are the usual ones, and texts alone end with id 2. */
TRF__FN trf_status trf__usual_ids(const trf_vocab *vocab, const char *field, trf_error *err)
{
    int i;
    for (i = 0; vocab && i < TRF__SPECIALS; i++)
        if (trf_vocab_special(vocab, (trf_special)i) != i)
            return trf__fail(err, TRF_E_UNSUPPORTED, i, field,
                             "a data set needs a vocabulary whose pad, bos, eos and unk are 0, 1, "
                             "2 and 3; this one has ids of its own");
    return TRF_OK;
}

TRF__FN trf_status trf__dataset_check(const trf_dataset_options *o, trf_error *err)
{
    TRF__RANGE(o, kind, 0, TRF_DATA_KIND_COUNT - 1);
    TRF__RANGE(o, source_tokens, 0, 2);
    TRF__RANGE(o, target_tokens, 0, 2);
    TRF__RANGE(o, max_vocab, 5, 1 << 24);
    TRF__RANGE(o, min_count, 1, (double)INT64_MAX);
    TRF__RANGE(o, held_out, -1, (double)INT64_MAX);
    TRF__RANGE(o, updates, 0, (double)INT64_MAX);
    TRF__TRY(trf__usual_ids(o->source_vocab, "source_vocab", err));
    TRF__TRY(trf__usual_ids(o->target_vocab, "target_vocab", err));
    return trf__hooks_check(&o->hooks, err);
}

TRF__COLD
TRF_API trf_status trf_dataset_create(trf_dataset **data, const trf_dataset_options *options,
                                      trf_error *err)
{
    trf_dataset_options o = options ? *options : trf_dataset_defaults();
    TRF__TRY(trf__begin(data, "data", err));
    *data = NULL;
    TRF__TRY(trf__dataset_check(&o, err));
    *data = (trf_dataset *)trf__alloc_zeroed(&o.hooks, sizeof **data);
    if (!*data) return trf__fail(err, TRF_E_NOMEM, -1, "data", "no memory for a data set");
    (*data)->options = o;
    return TRF_OK;
}

TRF__FN void trf__texts_free(trf__texts *t, const trf_hooks *hooks)
{
    trf__free(hooks, t->bytes, (size_t)t->capacity);
    trf__free(hooks, t->starts, trf__bytes(t->starts_capacity, sizeof *t->starts));
    memset(t, 0, sizeof *t);
}

TRF__FN void trf__side_free(trf__side *s, const trf_hooks *hooks)
{
    trf__free(hooks, s->ids, trf__bytes(s->capacity, sizeof *s->ids));
    trf__free(hooks, s->lengths, trf__bytes(s->lengths_capacity, sizeof *s->lengths));
    memset(s, 0, sizeof *s);
}

/* Frees the results of finishing, whether complete or not. The texts stay. */
TRF__FN void trf__dataset_clear(trf_dataset *d)
{
    int side;
    if (d->vocab[1] != d->vocab[0]) trf_vocab_destroy(d->vocab[1]);
    trf_vocab_destroy(d->vocab[0]);
    d->vocab[0] = d->vocab[1] = NULL;
    for (side = 0; side < 2; side++) trf__side_free(&d->held[side], &d->options.hooks);
    trf_corpus_destroy(d->corpus);
    d->corpus = NULL;
    trf__free(&d->options.hooks, d->labels, d->labels_bytes);
    d->labels = NULL;
    d->left_out = d->unknown = 0;
    TRF__ZERO(d->stats);
}

TRF__COLD
TRF_API void trf_dataset_destroy(trf_dataset *data)
{
    trf_hooks hooks;
    if (!data) return;
    hooks = data->options.hooks;
    trf__dataset_clear(data);
    trf__texts_free(&data->texts[0], &hooks);
    trf__texts_free(&data->texts[1], &hooks);
    trf__free(&hooks, data, sizeof *data);
}

TRF__FN trf_status trf__texts_add(trf__texts *t, const char *text, size_t n,
                                  const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(char, t->bytes, t->capacity, t->used + (int64_t)n + 1, hooks);
    TRF__GROW(int64_t, t->starts, t->starts_capacity, t->count + 1, hooks);
    /* both arrays have grown before anything changes */
    if (n) memcpy(t->bytes + t->used, text, n);
    t->bytes[t->used + (int64_t)n] = 0;
    t->starts[t->count++] = t->used;
    t->used += (int64_t)n + 1;
    return TRF_OK;
}

/* Adds both sides of a pair or neither. */
TRF__FN trf_status trf__dataset_append(trf_dataset *d, const char *source, size_t n,
                                       const char *target, size_t k, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    TRF__TRY(trf__texts_add(&d->texts[0], source, n, hooks, err));
    if (trf__texts_add(&d->texts[1], target, k, hooks, err) == TRF_OK) return TRF_OK;
    d->texts[0].used = d->texts[0].starts[--d->texts[0].count];
    return TRF_E_NOMEM;
}

/* Fails if the data set is finished: its texts are gone by then. */
TRF__FN trf_status trf__dataset_open(const trf_dataset *d, trf_error *err)
{
    TRF__TRY(trf__begin(d, "data", err));
    if (!d->finished) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "data",
                     "expected a data set that is not finished, got a finished one");
}

TRF_API trf_status trf_dataset_add(trf_dataset *data, const char *source, const char *target,
                                   trf_error *err)
{
    TRF__TRY(trf__dataset_open(data, err));
    if (!target) return trf__fail_null(err, "target");
    if (data->options.kind != TRF_DATA_TEXTS && !source) return trf__fail_null(err, "source");
    /* texts alone have an empty source, so that both sides always have as many lines */
    if (data->options.kind == TRF_DATA_TEXTS) source = "";
    TRF__TRY(trf__check_utf8(source, "source", err));
    TRF__TRY(trf__check_utf8(target, "target", err));
    if (data->options.kind == TRF_DATA_LABELLED && strchr(target, '\n'))
        return trf__fail(err, TRF_E_FORMAT, (int64_t)strcspn(target, "\n"), "target",
                         "expected a label of one line");
    return trf__dataset_append(data, source, strlen(source), target, strlen(target), err);
}

// >>dataset-read   lines of files
//
// A file is read as a whole, then cut into lines. An error in any line removes all lines of that
// call, so a corrected file can be read again.

/* A text that is read line by line. number: of the last line read, from 1. */
typedef struct trf__lines {
    const char *path;
    char *text;
    size_t n, bytes, at;
    int64_t number;
} trf__lines;

/* Returns the next line and its length *n, or NULL at the end. A CR before the LF is dropped. */
TRF__FN const char *trf__next_line(trf__lines *l, size_t *n)
{
    const char *line = l->text + l->at, *end;
    if (l->at >= l->n) return NULL;
    end = (const char *)memchr(line, '\n', l->n - l->at);
    *n = end ? (size_t)(end - line) : l->n - l->at;
    l->at += *n + (end != NULL);
    if (*n && line[*n - 1] == '\r') --*n;
    l->number++;
    return line;
}

/* Checks one line; the error has its number. */
TRF__FN trf_status trf__line_fault(const trf__lines *l, const char *line, size_t n, trf_error *err)
{
    int64_t fault = trf_find_invalid_utf8(line, n);
    if (memchr(line, 0, n))
        return trf__fail(err, TRF_E_FORMAT, l->number, "line",
                         "line %lld: expected text, got a NUL byte", (long long)l->number);
    if (fault < 0) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, l->number, "line",
                     "line %lld: expected UTF-8, got the byte 0x%02X at offset %lld",
                     (long long)l->number, (unsigned)(unsigned char)line[fault], (long long)fault);
}

/* Reads the pairs of one file or two, or texts alone. */
TRF__FN trf_status trf__read_pairs(trf_dataset *d, trf__lines *l, int two, trf_error *err)
{
    const char *line[2], *tab;
    size_t n[2] = {0, 0};
    for (;;) {
        line[0] = trf__next_line(&l[0], &n[0]);
        line[1] = two ? trf__next_line(&l[1], &n[1]) : "";
        if (!line[0] || !line[1]) break;
        TRF__TRY(trf__line_fault(&l[0], line[0], n[0], err));
        if (two) TRF__TRY(trf__name_file(trf__line_fault(&l[1], line[1], n[1], err), l[1].path,
                                         err));
        else if (d->options.kind != TRF_DATA_TEXTS) {
            tab = (const char *)memchr(line[0], '\t', n[0]);
            if (!tab || memchr(tab + 1, '\t', n[0] - (size_t)(tab - line[0]) - 1))
                return trf__fail(err, TRF_E_FORMAT, l[0].number, "line",
                                 "line %lld: expected %s", (long long)l[0].number,
                                 d->options.kind == TRF_DATA_PAIRS ? "source, one tab, target"
                                 : d->options.kind == TRF_DATA_TAGGED
                                 ? "words, one tab, their labels"
                                 : "text, one tab, label");
            line[1] = tab + 1;
            n[1] = n[0] - (size_t)(tab - line[0]) - 1;
            n[0] = (size_t)(tab - line[0]);
        } else {
            line[1] = line[0];
            n[1] = n[0];
            n[0] = 0;
        }
        TRF__TRY(trf__dataset_append(d, line[0], n[0], line[1], n[1], err));
    }
    if (!two || (!line[0] && !line[1])) return TRF_OK;
    return trf__fail(err, TRF_E_FORMAT, -1, "line", "line n of one file must belong to line n of "
                     "the other, but one ends after %lld line%s",
                     (long long)(line[0] ? l[1].number : l[0].number),
                     trf__plural(line[0] ? l[1].number : l[0].number));
}

TRF_API trf_status trf_dataset_read(trf_dataset *data, const char *source, const char *target,
                                    trf_error *err)
{
    const char *const paths[2] = {source, target};
    trf__texts before[2];
    trf__lines l[2];
    trf_status status = TRF_OK;
    int i, two = target != NULL;
    TRF__TRY(trf__dataset_open(data, err));
    if (!source) return trf__fail_null(err, "source");
    if (two && data->options.kind == TRF_DATA_TEXTS)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "target",
                         "texts without labels come from one file: target must be NULL");
    TRF__ZERO(l);
    for (i = 0; i <= two && status == TRF_OK; i++) {
        l[i].path = paths[i];
        status = trf__read_text(paths[i], &l[i].text, &l[i].n, &data->options.hooks, err);
        status = trf__name_file(status, paths[i], err);
        l[i].bytes = l[i].n + 1;
    }
    memcpy(before, data->texts, sizeof before);
    if (status == TRF_OK) status = trf__name_file(trf__read_pairs(data, l, two, err), source, err);
    for (i = 0; i < 2 && status != TRF_OK; i++) {       /* forget the lines of this call */
        data->texts[i].count = before[i].count;
        data->texts[i].used = before[i].used;
    }
    for (i = 0; i < 2; i++) trf__free(&data->options.hooks, l[i].text, l[i].bytes);
    return status;
}

// >>labels         texts of labels as numbers
//
// A label's number is its rank among all labels by their bytes: the same data give the same
// numbers.

/* A label: a part of a line, without a NUL. */
typedef struct trf__label { const char *text; size_t n; } trf__label;

/* Pointers to the lines of each side, first those to learn from, then those held out. labels: the
   labels to learn from in the order of their bytes. */
typedef struct trf__split {
    const char **lines[2];
    char *held;
    int64_t n, train;
    trf__label *labels;
    int64_t n_labels, capacity;
} trf__split;

TRF__FN void trf__split_free(trf__split *s, const trf_hooks *hooks)
{
    trf__free(hooks, (void *)s->lines[0], trf__bytes(s->n, sizeof *s->lines[0]));
    trf__free(hooks, (void *)s->lines[1], trf__bytes(s->n, sizeof *s->lines[1]));
    trf__free(hooks, s->held, (size_t)s->n);
    trf__free(hooks, s->labels, trf__bytes(s->capacity, sizeof *s->labels));
}

/* labels that a model may have, bytes that one may have */
enum { TRF__MOST_LABELS = 65536, TRF__LONGEST_LABEL = 1000 };

/* Reads the next label of a line, or the next word; *text moves past it. Without `tagged` the whole
   line is one label, which may contain blanks. Returns 0 at the end. */
TRF__FN int trf__next_label(trf__label *label, const char **text, int tagged)
{
    label->n = trf__next_token(TRF_WORDS, text, &label->text);
    if (tagged || !label->n) return label->n > 0;
    label->n = strlen(label->text);
    *text = label->text + label->n;
    while (trf__is_blank(label->text[label->n - 1])) label->n--;
    return 1;
}

TRF__FN int trf__by_label(const void *a, const void *b)
{
    const trf__label *x = (const trf__label *)a, *y = (const trf__label *)b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : x->n < y->n ? -1 : x->n > y->n;
}

/* Index of a label in the sorted list, or where it would be inserted. */
TRF__FN int64_t trf__label_at(const trf__split *s, const trf__label *label)
{
    int64_t low = 0, high = s->n_labels;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (trf__by_label(&s->labels[middle], label) < 0) low = middle + 1; else high = middle;
    }
    return low;
}

/* Number of a label, or -1. */
TRF__FN int32_t trf__label_number(const trf__split *s, const trf__label *label)
{
    int64_t at = trf__label_at(s, label);
    return at < s->n_labels && !trf__by_label(&s->labels[at], label) ? (int32_t)at : -1;
}

/* Sorts the labels, and keeps one of each. */
TRF__FN void trf__labels_settle(trf__split *s)
{
    int64_t i, n = 0;
    if (s->n_labels) qsort(s->labels, (size_t)s->n_labels, sizeof *s->labels, trf__by_label);
    for (i = 0; i < s->n_labels; i++)
        if (n == 0 || trf__by_label(&s->labels[n - 1], &s->labels[i]))
            s->labels[n++] = s->labels[i];
    s->n_labels = n;
}

TRF__FN trf_status trf__labels_check(const trf__split *s, int64_t most, trf_error *err)
{
    if (s->n_labels <= most) return TRF_OK;
    return trf__fail(err, TRF_E_LIMIT, -1, "labels", "expected at most %d labels, got more",
                     (int)TRF__MOST_LABELS);
}

/* Adds the labels of a line. From time to time duplicates are removed, so that memory does not grow
   with the lines. */
TRF__FN trf_status trf__labels_add(trf__split *s, const trf_dataset *d, const char *line,
                                   trf_error *err)
{
    trf__label label;
    while (trf__next_label(&label, &line, d->options.kind == TRF_DATA_TAGGED)) {
        if (label.n > TRF__LONGEST_LABEL) continue;
        TRF__GROW(trf__label, s->labels, s->capacity, s->n_labels + 1, &d->options.hooks);
        s->labels[s->n_labels++] = label;
    }
    if (s->n_labels > 4 * TRF__MOST_LABELS) trf__labels_settle(s);
    return trf__labels_check(s, 4 * TRF__MOST_LABELS, err);
}

/* Inserts the labels of a line that the sorted list lacks, each at its position. *added is their
   number. */
TRF__FN trf_status trf__labels_insert(trf__split *s, const trf_dataset *d, const char *line,
                                      int64_t *added, trf_error *err)
{
    trf__label label;
    int64_t before = s->n_labels;
    while (trf__next_label(&label, &line, d->options.kind == TRF_DATA_TAGGED)) {
        int64_t at = trf__label_at(s, &label);
        if (label.n > TRF__LONGEST_LABEL || trf__label_number(s, &label) >= 0) continue;
        TRF__GROW(trf__label, s->labels, s->capacity, s->n_labels + 1, &d->options.hooks);
        memmove(s->labels + at + 1, s->labels + at, (size_t)(s->n_labels - at) * sizeof label);
        s->labels[at] = label;
        s->n_labels++;
        TRF__TRY(trf__labels_check(s, TRF__MOST_LABELS, err));
    }
    *added = s->n_labels - before;
    return TRF_OK;
}

/* Collects the labels to learn from. A label must not occur in held-out pairs only: such a pair is
   learned from, with all pairs of its source. Lines are not yet sorted, so their texts are read
   from d. */
TRF__FN trf_status trf__labels_keep(const trf_dataset *d, trf__split *s, int64_t *count,
                                    trf_error *err)
{
    const trf__texts *labels = &d->texts[1];
    int64_t i, k, added;
    for (i = 0; i < s->n; i++)
        if (!s->held[i]) TRF__TRY(trf__labels_add(s, d, labels->bytes + labels->starts[i], err));
    trf__labels_settle(s);
    TRF__TRY(trf__labels_check(s, TRF__MOST_LABELS, err));
    for (i = 0; i < s->n; i++) {
        if (!s->held[i]) continue;
        TRF__TRY(trf__labels_insert(s, d, labels->bytes + labels->starts[i], &added, err));
        if (!added) continue;
        for (k = 0; k < s->n; k++) {
            if (s->held[k] != 1 || strcmp(s->lines[0][k], s->lines[0][i])) continue;
            s->held[k] = 2;         /* its own labels are known, or follow when i reaches it */
            --*count;
        }
    }
    for (i = 0; i < s->n; i++) s->held[i] = s->held[i] == 1;
    return TRF_OK;
}

// >>hold-out       which pairs are for validation
//
// And what is learned from the others: labels and vocabularies. Validation must not know more than
// training, so held-out lines add no tokens.

/* Marks the held-out pairs in s->held. Sources are compared, of texts alone the texts. */
TRF__FN trf_status trf__dataset_hold_out(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf__texts *lead = &d->texts[o->kind == TRF_DATA_TEXTS];
    int64_t size = o->held_out > s->n ? s->n : o->held_out, count = 0, i;
    memset(s->held, 0, (size_t)s->n);
    for (i = 0; i < s->n; i++) s->lines[0][i] = lead->bytes + lead->starts[i];
    /* fewer than 20 pairs are too few to hold out one by default */
    if (size >= 0 && (size > 0 || s->n >= 20))
        TRF__TRY(trf_hold_out(s->lines[0], s->n, size, TRF_HOLD_OUT_RANDOM, s->held, &count,
                              &o->hooks, err));
    if (o->kind >= TRF_DATA_LABELLED) TRF__TRY(trf__labels_keep(d, s, &count, err));
    if (count < s->n) return TRF_OK;
    return trf__fail(err, TRF_E_STATE, -1, "held_out",
                     "holding out %lld pair%s leaves none of %lld to learn from",
                     (long long)o->held_out, trf__plural(o->held_out), (long long)s->n);
}

/* Splits the data set, and sorts the lines by it. */
TRF__FN trf_status trf__dataset_split(const trf_dataset *d, trf__split *s, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    int64_t i, at;
    int side, held;
    s->n = d->texts[0].count;
    if (s->n == 0) return trf__fail(err, TRF_E_STATE, -1, "data",
                                    "expected one pair or more, got none");
    for (side = 0; side < 2; side++)
        s->lines[side] = (const char **)trf__alloc(hooks, trf__bytes(s->n, sizeof *s->lines[side]));
    s->held = (char *)trf__alloc(hooks, (size_t)s->n);
    if (!s->lines[0] || !s->lines[1] || !s->held)
        return trf__fail(err, TRF_E_NOMEM, -1, "data", "no memory for %lld lines", (long long)s->n);
    TRF__TRY(trf__dataset_hold_out(d, s, err));
    for (side = 0; side < 2; side++)
        for (held = 0, at = 0; held < 2; held++) {
            for (i = 0; i < s->n; i++)
                if (s->held[i] == held)
                    s->lines[side][at++] = d->texts[side].bytes + d->texts[side].starts[i];
            if (!held) s->train = at;
        }
    return TRF_OK;
}

/* Joins the labels to a text, which the model stores. */
TRF__FN trf_status trf__dataset_labels(trf_dataset *d, const trf__split *s, trf_error *err)
{
    int64_t i;
    char *to;
    if (d->options.kind < TRF_DATA_LABELLED) return TRF_OK;
    if (s->n_labels < 2)
        return trf__fail(err, TRF_E_STATE, -1, "labels", "expected two labels or more, got %d",
                         (int)s->n_labels);
    d->labels_bytes = 0;
    for (i = 0; i < s->n_labels; i++) d->labels_bytes += s->labels[i].n + 1;
    to = d->labels = (char *)trf__alloc(&d->options.hooks, d->labels_bytes);
    if (!to) return trf__fail(err, TRF_E_NOMEM, -1, "labels", "no memory for %d labels",
                              (int)s->n_labels);
    for (i = 0; i < s->n_labels; to += s->labels[i++].n + 1) {
        memcpy(to, s->labels[i].text, s->labels[i].n);
        to[s->labels[i].n] = i + 1 < s->n_labels ? '\n' : 0;
    }
    return TRF_OK;
}

/* Learns the vocabulary of the lines of one side, or of both. */
TRF__FN trf_status trf__learn_vocab(trf_dataset *d, const trf__split *s, int first, int last,
                                    trf_tokens tokens, int32_t size, trf_error *err)
{
    trf_vocab **vocab = &d->vocab[first];
    int side;
    int64_t i;
    TRF__TRY(trf_vocab_create(vocab, tokens == TRF_TOKENS_CHARACTERS ? TRF_CHARACTERS : TRF_WORDS,
                              &d->options.hooks, err));
    for (side = first; side <= last; side++)
        for (i = 0; i < s->train; i++) {
            trf_status status = trf_vocab_learn(*vocab, s->lines[side][i], err);
            /* TRF_E_LIMIT: a word too long for a vocabulary stays unknown */
            if (status != TRF_OK && status != TRF_E_LIMIT) return status;
        }
    /* max_vocab bounds the size that trf_tokens_choose proposes */
    if (size > d->options.max_vocab) size = d->options.max_vocab;
    return trf_vocab_finish(*vocab, size, d->options.min_count, err);
}

/* The kind of tokens of a vocabulary, or without one the caller's choice. */
TRF__FN trf_tokens trf__tokens_of(const trf_vocab *vocab, trf_tokens otherwise)
{
    if (!vocab) return otherwise;
    return trf_vocab_kind(vocab) == TRF_WORDS ? TRF_TOKENS_WORDS
         : trf_vocab_kind(vocab) == TRF_CHARACTERS ? TRF_TOKENS_CHARACTERS : TRF_TOKENS_SUBWORDS;
}

/* Appends a line to the recipe's reasons; a full text drops it. */
TRF__FN void trf__put_reason(trf_recipe *r, const char *line)
{
    size_t n = strlen(r->reasons);
    if (n < sizeof r->reasons) snprintf(r->reasons + n, sizeof r->reasons - n, "%s\n", line);
}

/* Whether the caller left the kind of tokens of a side open. */
TRF__FN int trf__asks(const trf_dataset *d, int side)
{
    const trf_dataset_options *o = &d->options;
    return side ? !o->target_vocab && o->target_tokens == TRF_TOKENS_AUTO
                : !o->source_vocab && o->source_tokens == TRF_TOKENS_AUTO;
}

/* Appends the reason for the tokens of one side. */
TRF__COLD
TRF__FN void trf__tokens_reason(trf_dataset *d, const trf_token_choice *choice, int side)
{
    static const char *const names[4] = {"", "words", "characters", "subwords"};
    char line[200], why[120] = "as given";
    if (!trf__asks(d, side)) { }
    else if (choice->unknown[side] != choice->unknown[side]) snprintf(why, sizeof why,
                                                                      "too few lines to tell");
    else snprintf(why, sizeof why, "%.1f %% of the words in a tenth of the lines are new%s",
                  choice->unknown[side],
                  choice->would_be_subwords[side]
                  ? ": subwords would do better (trf_vocab_load_sentencepiece)" : "");
    snprintf(line, sizeof line, "%s: %s, %d tokens (%s)", side ? "target" : "source",
             names[choice->tokens[side]], (int)trf_vocab_size(d->vocab[side]), why);
    trf__put_reason(&d->recipe, line);
}

/* Makes the vocabularies: copies of the given ones, others from the lines to learn from. */
TRF__COLD
TRF__FN trf_status trf__dataset_vocabs(trf_dataset *d, const trf__split *s,
                                       trf_token_choice *choice, trf_error *err)
{
    const trf_dataset_options *o = &d->options;
    const trf_vocab *const given[2] = {o->source_vocab, o->target_vocab};
    const int first = o->kind == TRF_DATA_TEXTS, last = o->kind <= TRF_DATA_TEXTS;
    int side, one;
    /* labels have no vocabulary, texts alone have no source */
    memset(choice, 0, sizeof *choice);
    choice->tokens[0] = trf__tokens_of(given[0], o->source_tokens);
    choice->tokens[1] = trf__tokens_of(given[1], o->target_tokens);
    choice->vocabularies = given[0] || given[1] ? (given[0] == given[1] ? 1 : 2) : 0;
    choice->no_subwords = 1;
    TRF__TRY(trf_tokens_choose(choice, first ? NULL : s->lines[0], last ? s->lines[1] : NULL,
                               s->train, &o->hooks, err));
    one = first < last && choice->vocabularies == 1;
    for (side = first; side <= last; side++) {
        if (side && one) d->vocab[1] = d->vocab[0];
        else if (given[side]) TRF__TRY(trf_vocab_copy(&d->vocab[side], given[side], &o->hooks,
                                                      err));
        else TRF__TRY(trf__learn_vocab(d, s, side, side || one, choice->tokens[side],
                                       choice->vocab_size[side], err));
    }
    return TRF_OK;
}

// >>dataset-ids    texts as ids
//
// A line that cannot be learned from is left out and counted. Only memory and invalid text are
// errors.

TRF__FN trf_status trf__ids_add(trf__text_ids *to, const int32_t *ids, int32_t n,
                                const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(int32_t, to->ids, to->capacity, to->n + n, hooks);
    memcpy(to->ids + to->n, ids, (size_t)n * sizeof *ids);
    to->n += n;
    return TRF_OK;
}

/* Adds the number of the label of line i. An unknown label adds nothing, so the line is left out.
   */
TRF__FN trf_status trf__encode_label(const trf_dataset *d, const trf__split *s, int64_t i,
                                     trf__text_ids *ids, trf_error *err)
{
    const char *line = s->lines[1][i];
    trf__label label;
    int32_t number = trf__next_label(&label, &line, 0) ? trf__label_number(s, &label) : -1;
    return number < 0 ? TRF_OK : trf__ids_add(ids, &number, 1, &d->options.hooks, err);
}

/* Encodes a tagged line. Words are encoded one by one, because the first token of each word has its
   label; the others have -1, which has no loss. Among characters a blank precedes each word but the
   first, and then the label belongs to the token after it. A word of invisible characters may have
   no subword: it becomes one unknown token. No ids result if words and labels differ in number, or
   a label is unknown. */
TRF__FN trf_status trf__encode_tagged(const trf_dataset *d, const trf__split *s, int64_t i,
                                      trf__text_ids ids[2], trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    const char *text = s->lines[0][i], *tags = s->lines[1][i];
    int spaced = trf_vocab_kind(d->vocab[0]) == TRF_CHARACTERS, more[2];
    trf__text_ids piece;
    trf__texts word;
    trf__label x, tag;
    trf_status status = TRF_OK;
    TRF__ZERO(piece);
    TRF__ZERO(word);
    ids[0].n = ids[1].n = 0;
    for (;;) {
        int32_t number, k, blank = spaced && ids[0].n > 0;
        more[0] = trf__next_label(&x, &text, 1);
        more[1] = trf__next_label(&tag, &tags, 1);
        number = more[0] && more[1] ? trf__label_number(s, &tag) : -1;
        if (number < 0) break;
        word.used = word.count = 0;
        /* the byte before the word may be any blank, or a tab: the copy gets a space */
        status = trf__texts_add(&word, x.text - blank, x.n + (size_t)blank, hooks, err);
        if (status == TRF_OK && blank) *word.bytes = ' ';
        if (status == TRF_OK) status = trf__encode_all(d->vocab[0], word.bytes, &piece, hooks, err);
        if (status == TRF_OK && piece.n == 0)
            piece.ids[piece.n++] = trf_vocab_special(d->vocab[0], TRF_SPECIAL_UNK);
        if (status == TRF_OK) status = trf__ids_add(&ids[0], piece.ids, piece.n, hooks, err);
        for (k = 0; k < piece.n; k++) piece.ids[k] = k == blank ? number : -1;
        if (status == TRF_OK) status = trf__ids_add(&ids[1], piece.ids, piece.n, hooks, err);
        if (status != TRF_OK) break;
    }
    if (more[0] || more[1]) ids[0].n = ids[1].n = 0;
    trf__texts_free(&word, hooks);
    trf__free(hooks, piece.ids, trf__bytes(piece.capacity, sizeof *piece.ids));
    return status;
}

/* Encodes one side of line i. Texts alone end with EOS. */
TRF__FN trf_status trf__encode_line(const trf_dataset *d, const trf__split *s, int side, int64_t i,
                                    trf__text_ids *ids, trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    const int32_t eos = 2;      /* the same in every vocabulary */
    ids->n = 0;
    if (!d->vocab[side]) return d->labels && side ? trf__encode_label(d, s, i, ids, err) : TRF_OK;
    TRF__TRY(trf__encode_all(d->vocab[side], s->lines[side][i], ids, hooks, err));
    if (d->options.kind != TRF_DATA_TEXTS || ids->n == 0) return TRF_OK;
    return trf__ids_add(ids, &eos, 1, hooks, err);
}

TRF__FN trf_status trf__side_add(trf__side *to, const int32_t *ids, int32_t n,
                                 const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(int32_t, to->ids, to->capacity, to->used + n, hooks);
    TRF__GROW(int32_t, to->lengths, to->lengths_capacity, to->count + 1, hooks);
    if (n) memcpy(to->ids + to->used, ids, (size_t)n * sizeof *ids);
    to->used += n;
    to->lengths[to->count++] = n;
    return TRF_OK;
}

enum { TRF__LONGEST_TEXT = 511 };       /* max_length of the presets, without BOS or EOS */

/* Adds the sequences of line i if it can be learned from: a pair, or the parts of a text. */
TRF__FN trf_status trf__encode_pair(trf_dataset *d, const trf__split *s, int64_t i,
                                    trf__text_ids ids[2], trf__side to[2], trf_error *err)
{
    const trf_hooks *hooks = &d->options.hooks;
    int texts = d->options.kind == TRF_DATA_TEXTS, side;
    int32_t at;
    if (d->options.kind == TRF_DATA_TAGGED) TRF__TRY(trf__encode_tagged(d, s, i, ids, err));
    else for (side = 0; side < 2; side++) TRF__TRY(trf__encode_line(d, s, side, i, &ids[side],
                                                                    err));
    if (!ids[1].n || (!texts && (!ids[0].n || ids[0].n > TRF__LONGEST_TEXT ||
                                 ids[1].n > TRF__LONGEST_TEXT))) {
        d->left_out++;
        return TRF_OK;
    }
    if (!texts) {
        for (side = 0; side < 2; side++) TRF__TRY(trf__side_add(&to[side], ids[side].ids,
                                                                ids[side].n, hooks, err));
        return TRF_OK;
    }
    for (at = 0; at < ids[1].n; at += TRF__LONGEST_TEXT) {
        int32_t n = ids[1].n - at < TRF__LONGEST_TEXT ? ids[1].n - at : TRF__LONGEST_TEXT;
        TRF__TRY(trf__side_add(&to[1], ids[1].ids + at, n, hooks, err));
    }
    return TRF_OK;
}

/* Encodes all lines, those to learn from and those held out. */
TRF__FN trf_status trf__encode_lines(trf_dataset *d, const trf__split *s, trf__side learn[2],
                                     trf_error *err)
{
    trf__text_ids ids[2];
    trf_status status = TRF_OK;
    int64_t i;
    int side;
    TRF__ZERO(ids);
    for (i = 0; i < s->n && status == TRF_OK; i++)
        status = trf__encode_pair(d, s, i, ids, i < s->train ? learn : d->held, err);
    for (side = 0; side < 2; side++)
        trf__free(&d->options.hooks, ids[side].ids,
                  trf__bytes(ids[side].capacity, sizeof *ids[side].ids));
    return status;
}

// >>dataset-finish recipe, corpus and model
//
// The recipe is computed twice: it needs the number of updates an epoch, which needs a corpus,
// whose batches the recipe decides. Batches do not depend on that number, so the second time is
// final.

/* Statistics of the pairs to learn from. */
TRF__FN void trf__dataset_stats(trf_dataset *d, const trf__split *s, const trf__side learn[2])
{
    trf_data_stats *a = &d->stats;
    int64_t i;
    int side;
    a->kind = d->labels ? TRF_ENCODER_ONLY : d->options.kind == TRF_DATA_TEXTS ? TRF_DECODER_ONLY
            : TRF_ENCODER_DECODER;
    if (d->labels) a->head = d->options.kind == TRF_DATA_TAGGED ? TRF_HEAD_TOKENS : TRF_HEAD_MEAN;
    a->n_labels = (int32_t)s->n_labels;
    a->pairs = learn[1].count;
    a->source_tokens = learn[0].used + learn[1].count;      /* + 1 mark each, empty sides too */
    a->target_tokens = learn[1].used + learn[1].count;
    for (side = 0; side < 2; side++)
        for (i = 0; i < learn[side].count; i++)
            if (learn[side].lengths[i] > a->longest) a->longest = learn[side].lengths[i];
    for (i = 0; d->vocab[1] && i < learn[1].used; i++)
        d->unknown += learn[1].ids[i] == trf_vocab_special(d->vocab[1], TRF_SPECIAL_UNK);
    a->source_vocab = d->vocab[0] ? trf_vocab_size(d->vocab[0]) : 0;
    a->target_vocab = d->vocab[1] ? trf_vocab_size(d->vocab[1]) : 0;
    a->one_vocabulary = d->vocab[0] == d->vocab[1];
    a->updates = d->options.updates;
}

TRF__FN trf_status trf__dataset_recipe(trf_dataset *d, trf_error *err)
{
    trf_recipe *r = &d->recipe;
    const trf_hooks *hooks = &d->options.hooks;
    TRF__TRY(trf_recipe_find(r, &d->stats, err));
    r->config.seed = r->training.seed = r->corpus.seed = d->options.seed;
    r->config.hooks = r->training.hooks = r->corpus.hooks = *hooks;
    if (d->options.kind == TRF_DATA_TEXTS) r->config.target_eos = 0;    /* their ids contain EOS */
    return TRF_OK;
}

/* Makes the corpus, counts the updates of an epoch by running through it, and computes the recipe
   again. */
TRF__FN trf_status trf__dataset_corpus(trf_dataset *d, const trf__side learn[2], trf_error *err)
{
    int64_t i, used[2] = {0, 0}, pass = 0;
    trf_batch batch;
    TRF__TRY(trf__dataset_recipe(d, err));
    TRF__TRY(trf_corpus_create(&d->corpus, &d->recipe.corpus, err));
    for (i = 0; i < learn[1].count; i++) {
        int32_t n = learn[0].count ? learn[0].lengths[i] : 0, k = learn[1].lengths[i];
        TRF__TRY(trf_corpus_add(d->corpus, learn[0].ids + (n ? used[0] : 0), n,
                                learn[1].ids + used[1], k, err));
        used[0] += n;
        used[1] += k;
    }
    for (; trf_corpus_epoch(d->corpus) == 0; pass++) TRF__TRY(trf_corpus_next(d->corpus, &batch,
                                                                              err));
    trf_corpus_rewind(d->corpus);
    d->stats.updates_per_epoch = pass;
    return trf__dataset_recipe(d, err);
}

/* Appends the reasons that concern the data. */
TRF__COLD
TRF__FN void trf__dataset_reasons(trf_dataset *d, const trf_token_choice *choice)
{
    char line[200];
    int side;
    for (side = 0; side < 2; side++) if (d->vocab[side]) trf__tokens_reason(d, choice, side);
    snprintf(line, sizeof line,
             "data: %lld to learn from, %lld to validate on, %lld left out (empty, without "
             "matching labels, or longer than %d tokens)", (long long)d->stats.pairs,
             (long long)d->held[1].count, (long long)d->left_out,
             (int)TRF__LONGEST_TEXT);
    trf__put_reason(&d->recipe, line);
}

/* Makes the held-out pairs a batch. */
TRF__FN void trf__dataset_hold(trf_dataset *d)
{
    trf_sequences *to[2];
    int side;
    to[0] = &d->held_out.source;
    to[1] = &d->held_out.target;
    for (side = 0; side < 2; side++) {
        to[side]->ids = d->held[side].ids;
        to[side]->lengths = d->held[side].lengths;
        to[side]->count = (int32_t)d->held[side].count;
    }
}

/* All steps of finishing. learn is scratch: the corpus copies it. */
TRF__COLD
TRF__FN trf_status trf__dataset_build(trf_dataset *d, trf__split *s, trf__side learn[2],
                                      trf_error *err)
{
    trf_token_choice choice;
    TRF__TRY(trf__dataset_split(d, s, err));
    TRF__TRY(trf__dataset_labels(d, s, err));
    TRF__TRY(trf__dataset_vocabs(d, s, &choice, err));
    TRF__TRY(trf__encode_lines(d, s, learn, err));
    if (learn[1].count == 0)
        return trf__fail(err, TRF_E_STATE, -1, "data",
                         "none of %lld pairs can be learned from: all are empty, do not match "
                         "their labels, or are longer than %d ids", (long long)s->train,
                         (int)TRF__LONGEST_TEXT);
    trf__dataset_stats(d, s, learn);
    TRF__TRY(trf__dataset_corpus(d, learn, err));
    trf__dataset_hold(d);
    trf__dataset_reasons(d, &choice);
    d->finished = 1;
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_dataset_finish(trf_dataset *data, trf_error *err)
{
    trf__split split;
    trf__side learn[2];
    trf_hooks hooks;
    trf_status status;
    TRF__TRY(trf__dataset_open(data, err));
    TRF__ZERO(split);
    TRF__ZERO(learn);
    hooks = data->options.hooks;
    status = trf__dataset_build(data, &split, learn, err);
    trf__side_free(&learn[0], &hooks);
    trf__side_free(&learn[1], &hooks);
    trf__split_free(&split, &hooks);
    /* after a failure the data set is as before: the caller may add pairs and finish again */
    if (status != TRF_OK) { trf__dataset_clear(data); return status; }
    trf__texts_free(&data->texts[0], &hooks);
    trf__texts_free(&data->texts[1], &hooks);
    return TRF_OK;
}

TRF_API trf_recipe *trf_dataset_recipe(trf_dataset *data)
{
    return data && data->finished ? &data->recipe : NULL;
}

TRF_API trf_corpus *trf_dataset_corpus(trf_dataset *data)
{
    return data && data->finished ? data->corpus : NULL;
}

TRF_API const trf_batch *trf_dataset_held_out(const trf_dataset *data)
{
    return data && data->finished && data->held[1].count ? &data->held_out : NULL;
}

/* The model gets vocabularies, labels and what trf reports about the data as metadata. */
TRF__COLD
TRF_API trf_status trf_dataset_create_model(const trf_dataset *data, trf_model **model,
                                            trf_error *err)
{
    char longest[24], unknown[24];
    trf_status status;
    TRF__TRY(trf__begin(model, "model", err));
    *model = NULL;
    TRF__TRY(trf__begin(data, "data", err));
    if (!data->finished)
        return trf__fail(err, TRF_E_STATE, -1, "data",
                         "expected a finished data set, got one that is not finished");
    TRF__TRY(trf_model_create(model, &data->recipe.config, err));
    snprintf(longest, sizeof longest, "%d", (int)data->stats.longest);
    status = trf_model_set_vocabs(*model, data->vocab[0], data->vocab[1], err);
    snprintf(unknown, sizeof unknown, "%lld", (long long)data->unknown);
    if (status == TRF_OK) status = trf_model_set_metadata(*model, "trained.longest", longest, err);
    if (status == TRF_OK && !data->labels)
        status = trf_model_set_metadata(*model, "target.unknown", unknown, err);
    if (status == TRF_OK && data->labels) status = trf_model_set_metadata(*model, "labels",
                                                                          data->labels, err);
    if (status == TRF_OK) return TRF_OK;
    trf_model_destroy(*model);
    *model = NULL;
    return status;
}

#endif

// -----------------------------------------------------------------------------------------------
// >>blocks         the ops as public functions on the caller's tensors
//
// Each function checks every argument before the first op, because an op trusts its pointers and
// sizes and cannot fail. Then it copies its tensors to the device (trf__staged), issues the op, and
// copies the outputs back. If the device's memory is the host's, nothing is copied. The context
// keeps what an op needs besides its tensors: spans, positions and scratch memory, which grow and
// are reused. Forward and backward share their checks.
//
// Gradients of activations are set and gradients of parameters are added to, as everywhere. The
// letter that stages a tensor says which: 'o' for set, 'a' for added to, 'i' for only read.
// -----------------------------------------------------------------------------------------------

/* The caller's memory and its copy on the device. back: the copy returns to the host after the op.
   */
typedef struct trf__staged { void *host, *device; size_t bytes; int back; } trf__staged;
enum {
    TRF__GUESTS = 18,                   /* more than any block stages: the backward of multi-head
                                           attention stages 15 */
    TRF__CONTEXT_ROOM = 1 << 16         /* numbers of a weight that a context packs at a time */
};

struct trf_context {
    trf__run run;
    trf__staged guests[TRF__GUESTS];
    int n_guests, no_memory;                  /* no_room: one of them found no memory */
    trf__span *spans; int64_t spans_capacity;
    int32_t *ints; int64_t ints_capacity;   /* positions or targets of rows, then their groups */
    trf_real *table; int64_t table_capacity;    /* sinusoidal positions */
    trf__workspace work;                         /* scratch memory besides the arguments */
};

TRF__COLD
TRF_API void trf_context_destroy(trf_context *context)
{
    trf_hooks hooks;
    if (!context) return;
    hooks = context->run.hooks;
    context->run.backend->release(&context->run, context->work.memory, context->work.bytes);
    context->run.backend->close(&context->run);
    trf__free(&hooks, context->spans, trf__bytes(context->spans_capacity, sizeof *context->spans));
    trf__free(&hooks, context->ints, trf__bytes(context->ints_capacity, sizeof *context->ints));
    trf__free(&hooks, context->table, trf__bytes(context->table_capacity, sizeof *context->table));
    trf__free(&hooks, context, sizeof *context);
}

TRF__COLD
TRF_API trf_status trf_context_create(trf_context **context, const trf_device *device,
                                      const trf_hooks *hooks, trf_error *err)
{
    trf_device on = device ? *device : trf_device_default();
    trf_hooks none;
    trf_context *c;
    trf_status status;
    TRF__TRY(trf__begin(context, "context", err));
    *context = NULL;
    TRF__ZERO(none);
    if (!hooks) hooks = &none;
    TRF__TRY(trf__device_check(&on, err));
    TRF__TRY(trf__hooks_check(hooks, err));
    c = (trf_context *)trf__alloc_zeroed(hooks, sizeof *c);
    if (!c) return trf__fail(err, TRF_E_NOMEM, -1, "context", "no memory for a context");
    on.precision = TRF_PRECISION_FLOAT32;       /* the caller's tensors are trf_real */
    c->run = trf__run_on(&on, hooks);
    status = c->run.backend->open(&c->run, err);
    if (status != TRF_OK) { trf__free(hooks, c, sizeof *c); return status; }
    status = c->run.backend->reserve(&c->run, 0, 1, TRF__CONTEXT_ROOM, 0, err);
    if (status != TRF_OK) { trf_context_destroy(c); return status; }
    *context = c;
    return TRF_OK;
}

/* Copies the host's memory to the device for one op. use: 'i' if the op reads it, 'o' if it sets
   it, 'a' if it adds to it. A failure is noted in no_room, so that callers check once. */
TRF__FN void *trf__bring(trf_context *c, void *host, size_t bytes, char use)
{
    const trf__run *run = &c->run;
    trf__staged *guest = &c->guests[c->n_guests];
    if (!host || trf__shared_address(run, host)) return host;
    if (c->n_guests == TRF__GUESTS) { c->no_memory = 1; return NULL; }
    guest->host = host;
    guest->bytes = bytes;
    guest->back = use != 'i';
    guest->device = run->backend->alloc(run, bytes);
    if (!guest->device) { c->no_memory = 1; return NULL; }
    c->n_guests++;
    if (use != 'o') run->backend->upload(run, guest->device, host, bytes);
    return guest->device;
}

/* A tensor on the device, as numbers, or (trf__act_staged) as activations. */
TRF__FN trf_real *trf__stage(trf_context *c, const trf_tensor *tensor, char use)
{
    size_t bytes = tensor ? trf__bytes(trf_tensor_count(tensor), sizeof(trf_real)) : 0;
    return (trf_real *)trf__bring(c, tensor ? tensor->data : NULL, bytes, use);
}

TRF__FN trf__act *trf__act_staged(trf_context *c, const trf_tensor *tensor, char use)
{
    return (trf__act *)(void *)trf__stage(c, tensor, use);
}

/* Ids, lengths or targets on the device. The cast drops const, and 'i' keeps the promise. */
TRF__FN const int32_t *trf__list_staged(trf_context *c, const int32_t *list, int64_t n)
{
    return (const int32_t *)trf__bring(c, (void *)(uintptr_t)list, trf__bytes(n, sizeof *list),
                                       'i');
}

/* Ends an op: copies outputs back if all went well, and frees all copies. */
TRF__FN trf_status trf__staged_back(trf_context *c, trf_status status, trf_error *err)
{
    const trf__run *run = &c->run;
    int i;
    for (i = 0; status == TRF_OK && i < c->n_guests; i++)
        if (c->guests[i].back)
            run->backend->download(run, c->guests[i].host, c->guests[i].device, c->guests[i].bytes);
    if (status == TRF_OK) status = run->backend->sync(run, err);
    for (i = 0; i < c->n_guests; i++) run->backend->release(run, c->guests[i].device,
                                                            c->guests[i].bytes);
    c->n_guests = c->no_memory = 0;
    c->run.now = NULL;
    return status;
}

/* Whether everything is staged, checked before the op. If not, frees what is. */
TRF__FN trf_status trf__staged_ready(trf_context *c, trf_error *err)
{
    if (!c->no_memory) return TRF_OK;
    return trf__staged_back(c, trf__fail(err, TRF_E_NOMEM, -1, "tensors",
                                          "no memory on the device for the tensors"),
                             err);
}

/* Checks a (rows, columns) tensor and returns its columns. rows = -1 allows any number. */
TRF__FN trf_status trf__matrix(const trf_tensor *x, const char *name, int64_t rows,
                               int64_t *columns, trf_error *err)
{
    *columns = 0;
    if (!x || !x->data)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, name, "%s must be a tensor with data", name);
    if (x->rank != 2)
        return trf__fail(err, TRF_E_SHAPE, -1, name, "%s must have rank 2, got %d", name, x->rank);
    if (x->shape[0] < 0 || x->shape[1] < 1)
        return trf__fail(err, TRF_E_SHAPE, -1, name,
                         "%s must have rows >= 0 and columns >= 1, got (%lld, %lld)",
                         name, (long long)x->shape[0], (long long)x->shape[1]);
    if (x->shape[0] > INT32_MAX || x->shape[1] > INT32_MAX)      /* CBLAS counts with int */
        return trf__fail(err, TRF_E_LIMIT, -1, name,
                         "%s has shape (%lld, %lld); the limit of both extents is %d", name,
                         (long long)x->shape[0], (long long)x->shape[1], (int)INT32_MAX);
    *columns = x->shape[1];
    return trf__shape_check(x, name, rows < 0 ? x->shape[0] : rows, *columns, err);
}

/* Checks a weight (*out, in). Without outputs it would give a tensor without columns, which no
   function accepts. */
TRF__FN trf_status trf__weight_check(const trf_tensor *w, const char *name, int64_t *out,
                                     int64_t in, trf_error *err)
{
    int64_t k;
    TRF__TRY(trf__matrix(w, name, -1, &k, err));
    *out = w->shape[0];
    if (*out < 1)
        return trf__fail(err, TRF_E_SHAPE, -1, name, "%s must have one row or more, got none",
                         name);
    return trf__shape_check(w, name, *out, in, err);
}

/* A caller's weight as an op's matrix: never packed, because the caller may change it. */
TRF__FN trf__mat trf__mat_of(trf_context *c, const trf_tensor *w)
{
    trf__mat m;
    m.plain = trf__stage(c, w, 'i');
    m.packed = NULL;
    m.format = TRF__FLOAT32;
    m.row = 0;
    return m;
}

// >>blocks-embedding
//
// Token embedding with positions, its backward, and the table of sinusoidal positions.

/* Checks ids and learned positions, counts rows, and lists the position of each row. `ints` has
   parts for positions, rows by groups, and beginnings of groups. */
TRF__FN trf_status trf__embedding_rows(trf_context *context, const trf_sequences *x,
                                       const trf_embedding_options *options, int64_t vocab,
                                       int64_t d, int64_t *rows, int64_t *longest, trf_error *err)
{
    int64_t at = 0, k;
    int32_t i;
    *longest = 0;
    *rows = 0;
    if (x->count < 0) return trf__fail_below(err, "x", 0, x->count);
    if (x->count > 0 && !x->lengths) return trf__fail_null(err, "x");
    for (i = 0; i < x->count; i++) {
        if (x->lengths[i] < 0)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "x",
                             "length of sequence %d must not be negative, got %d",
                             i, x->lengths[i]);
        if (x->lengths[i] > INT32_MAX - *rows)
            return trf__fail(err, TRF_E_LIMIT, i, "x",
                             "x may have at most %d ids in all; sequence %d exceeds that",
                             INT32_MAX, i);
        *rows += x->lengths[i];
        *longest = trf__max64(*longest, x->lengths[i]);
    }
    if (*rows > 0 && !x->ids) return trf__fail_null(err, "x");
    for (at = 0; at < *rows; at++)
        if (x->ids[at] < 0 || x->ids[at] >= vocab)
            return trf__fail(err, TRF_E_INVALID_ARG, at, "x",
                             "id number %lld must be 0 or more and below %lld, got %d",
                             (long long)at, (long long)vocab, x->ids[at]);
    if (options->positions == TRF_POSITIONS_LEARNED) {
        TRF__TRY(trf__matrix(options->learned, "learned", -1, &k, err));
        if (k != d || *longest + options->position_offset > options->learned->shape[0])
            return trf__fail(err, TRF_E_SHAPE, -1, "learned",
                             "learned positions must have shape (%lld or more, %lld)",
                             (long long)*longest + options->position_offset, (long long)d);
    }
    TRF__GROW(int32_t, context->ints, context->ints_capacity, 3 * *rows + 1, &context->run.hooks);
    for (i = 0, at = 0; i < x->count; i++) for (k = 0; k < x->lengths[i]; k++)
        context->ints[at++] = (int32_t)k;
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_embedding(trf_context *context, trf_tensor *y, const trf_sequences *x,
                                 const trf_tensor *weight, const trf_embedding_options *options,
                                 trf_error *err)
{
    trf__embed e;
    int64_t d, rows, longest, p;
    TRF__TRY(trf__begin(context, "context", err));
    if (!x || !options) return trf__fail_null(err, x ? "options" : "x");
    TRF__TRY(trf__check_range("positions", (double)options->positions, 0, TRF_POSITIONS_NONE, err));
    TRF__TRY(trf__check_range("position_offset", options->position_offset, 0, 1 << 20, err));
    TRF__TRY(trf__matrix(weight, "weight", -1, &d, err));
    TRF__TRY(trf__embedding_rows(context, x, options, weight->shape[0], d, &rows, &longest, err));
    TRF__TRY(trf__shape_check(y, "y", rows, d, err));
    TRF__ZERO(e);
    if (options->positions == TRF_POSITIONS_LEARNED)
        e.table = trf__stage(context, options->learned, 'i');
    else if (options->positions != TRF_POSITIONS_NONE) {
        TRF__GROW(trf_real, context->table, context->table_capacity, longest * d,
                  &context->run.hooks);
        for (p = 0; p < longest; p++)
            trf__position_row(context->table + p * d, p + options->position_offset, d,
                              (int)options->positions);
        e.table = (trf_real *)trf__bring(context, context->table,
                                         trf__bytes(longest * d, sizeof(trf_real)), 'i');
    }
    e.y = trf__act_staged(context, y, 'o');
    e.weight = trf__mat_of(context, weight);
    e.ids = trf__list_staged(context, x->ids, rows);
    e.at.position = trf__list_staged(context, context->ints, rows);
    e.rows = rows; e.d = d; e.scale = (trf_real)options->scale;
    TRF__TRY(trf__staged_ready(context, err));
    /* the whole table is staged; the op sees it from the offset on */
    if (options->positions == TRF_POSITIONS_LEARNED) e.table += options->position_offset * d;
    context->run.backend->embed(&context->run, &e);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF__COLD
TRF_API trf_status trf_embedding_backward(trf_context *context, trf_tensor *dweight,
                                          trf_tensor *dlearned,
                                          const trf_tensor *dy, const trf_sequences *x,
                                          const trf_embedding_options *options, trf_error *err)
{
    int64_t d, rows, longest;
    trf_embedding_options plain;
    trf__embed_gradient e;
    TRF__TRY(trf__begin(context, "context", err));
    if (!x || !options) return trf__fail_null(err, x ? "options" : "x");
    TRF__TRY(trf__check_range("position_offset", options->position_offset, 0, 1 << 20, err));
    if (dlearned && options->positions != TRF_POSITIONS_LEARNED)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "dlearned",
                         "only learned positions have a gradient");
    TRF__TRY(trf__matrix(dweight, "dweight", -1, &d, err));
    if (dweight->shape[0] > 1 << 24)
        return trf__fail(err, TRF_E_LIMIT, -1, "dweight", "dweight has %lld rows, the limit is %d",
                         (long long)dweight->shape[0], 1 << 24);
    plain = *options;
    plain.learned = dlearned;
    if (!dlearned) plain.positions = TRF_POSITIONS_NONE;
    TRF__TRY(trf__embedding_rows(context, x, &plain, dweight->shape[0], d, &rows, &longest, err));
    TRF__TRY(trf__shape_check(dy, "dy", rows, d, err));
    TRF__ZERO(e);
    /* rows grouped by id: the sum for each row of dweight has a fixed order */
    e.groups.n = trf__group_rows(context->ints + rows, context->ints + 2 * rows, x->ids, rows);
    e.groups.rows = trf__list_staged(context, context->ints + rows, rows);
    e.groups.first = trf__list_staged(context, context->ints + 2 * rows, rows + 1);
    e.dweight = trf__stage(context, dweight, 'a');
    e.dtable = trf__stage(context, dlearned, 'a');
    e.dy = trf__act_staged(context, dy, 'i');
    e.ids = trf__list_staged(context, x->ids, rows);
    e.at.position = trf__list_staged(context, context->ints, rows);
    e.rows = rows; e.d = d; e.vocab = dweight->shape[0]; e.scale = (trf_real)options->scale;
    TRF__TRY(trf__staged_ready(context, err));
    if (dlearned) {
        e.dtable += options->position_offset * d;
        e.positions = dlearned->shape[0] - options->position_offset;
    }
    context->run.backend->embed_gradient(&context->run, &e);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

TRF__COLD
TRF_API trf_status trf_position_table(trf_positions rule, int32_t first, trf_tensor *out,
                                      trf_error *err)
{
    int64_t p, d;
    TRF__TRY(trf__begin(out, "out", err));
    TRF__TRY(trf__check_range("rule", (double)rule, 0, TRF_POSITIONS_HALVES, err));
    TRF__TRY(trf__check_range("first", first, 0, 1 << 20, err));
    TRF__TRY(trf__matrix(out, "out", -1, &d, err));
    TRF__TRY(trf__check_range("rows", (double)out->shape[0], 0, 1 << 24, err));
    for (p = 0; p < out->shape[0]; p++) trf__position_row(out->data + p * d, first + p, d,
                                                          (int)rule);
    return TRF_OK;
}

// >>blocks-linear
//
// y = x w^T + b and its backward; x: (rows, in), w: (out, in), b: (out) or NULL.

TRF_API trf_status trf_linear(trf_context *context, trf_tensor *y, const trf_tensor *x,
                              const trf_tensor *weight, const trf_tensor *bias, trf_error *err)
{
    trf__linear l;
    int64_t in, out;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__matrix(x, "x", -1, &in, err));
    TRF__TRY(trf__weight_check(weight, "weight", &out, in, err));
    TRF__TRY(trf__shape_check(y, "y", x->shape[0], out, err));
    if (bias) TRF__TRY(trf__shape_check(bias, "bias", out, -1, err));
    /* staging comes after the last check that can fail, so nothing has to be freed before */
    l.y = trf__act_staged(context, y, 'o');
    l.x = trf__act_staged(context, x, 'i');
    l.w = trf__mat_of(context, weight);
    l.b = trf__stage(context, bias, 'i');
    l.rows = x->shape[0]; l.out = out; l.in = in;
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->linear(&context->run, &l);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF_API trf_status trf_linear_backward(trf_context *context, trf_tensor *dx, trf_tensor *dweight,
                                       trf_tensor *dbias, const trf_tensor *dy, const trf_tensor *x,
                                       const trf_tensor *weight, trf_error *err)
{
    int64_t in, out, rows;
    trf__linear_dw dw;
    trf__linear_dx l;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__matrix(x, "x", -1, &in, err));
    rows = x->shape[0];
    TRF__TRY(trf__matrix(dy, "dy", rows, &out, err));
    TRF__TRY(trf__shape_check(weight, "weight", out, in, err));
    TRF__TRY(trf__shape_check(dweight, "dweight", out, in, err));
    if (dx) TRF__TRY(trf__shape_check(dx, "dx", rows, in, err));
    if (dbias) TRF__TRY(trf__shape_check(dbias, "dbias", out, -1, err));
    l.dx = trf__act_staged(context, dx, 'o');
    l.dy = trf__act_staged(context, dy, 'i');
    l.w = trf__mat_of(context, weight);
    /* add = 0: dx is set. dw and db are added to */
    l.rows = rows; l.out = out; l.in = in; l.add = 0;
    dw = trf__dw_of(trf__stage(context, dweight, 'a'), trf__stage(context, dbias, 'a'), l.dy,
                    trf__act_staged(context, x, 'i'), rows, out, in, 0);
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->linear_dw(&context->run, &dw, 1);
    if (dx) context->run.backend->linear_dx(&context->run, &l);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

// >>blocks-norm
//
// Layer norm alone: the op add_norm without a residual connection. saved holds two numbers a row.

TRF_API int64_t trf_layer_norm_saved(int64_t rows) { return trf__times(2, rows); }

TRF__COLD
TRF_API trf_status trf_layer_norm(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                  const trf_tensor *gain,
                                  const trf_tensor *bias, double epsilon, trf_tensor *saved,
                                  trf_error *err)
{
    trf__norm n;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__matrix(x, "x", -1, &n.d, err));
    n.rows = x->shape[0];
    TRF__TRY(trf__shape_check(y, "y", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(gain, "gain", n.d, -1, err));
    TRF__TRY(trf__shape_check(bias, "bias", n.d, -1, err));
    TRF__TRY(trf__check_range("epsilon", epsilon, 1e-30, 1, err));
    if (saved) TRF__TRY(trf__shape_check(saved, "saved", trf_layer_norm_saved(n.rows), -1, err));
    /* without n.s and n.sub the op adds nothing: it only normalises x */
    n.x = trf__act_staged(context, x, 'i'); n.y = trf__act_staged(context, y, 'o');
    n.gain = trf__stage(context, gain, 'i'); n.bias = trf__stage(context, bias, 'i');
    n.stats = trf__stage(context, saved, 'o');
    n.epsilon = epsilon;
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->add_norm(&context->run, &n);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF__COLD
TRF_API trf_status trf_layer_norm_backward(trf_context *context, trf_tensor *dx, trf_tensor *dgain,
                                           trf_tensor *dbias,
                                           const trf_tensor *dy, const trf_tensor *x,
                                           const trf_tensor *gain,
                                           double epsilon, const trf_tensor *saved, trf_error *err)
{
    trf__norm_gradient n;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__matrix(x, "x", -1, &n.d, err));
    n.rows = x->shape[0];
    TRF__TRY(trf__shape_check(dx, "dx", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(dy, "dy", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(gain, "gain", n.d, -1, err));
    TRF__TRY(trf__shape_check(dgain, "dgain", n.d, -1, err));
    TRF__TRY(trf__shape_check(dbias, "dbias", n.d, -1, err));
    TRF__TRY(trf__shape_check(saved, "saved", trf_layer_norm_saved(n.rows), -1, err));
    /* s is the input of the norm, here x itself */
    n.s = trf__act_staged(context, x, 'i'); n.stats = trf__stage(context, saved, 'i');
    n.gain = trf__stage(context, gain, 'i'); n.epsilon = epsilon;
    n.dy = trf__act_staged(context, dy, 'i'); n.ds = trf__act_staged(context, dx, 'o');
    n.dgain = trf__stage(context, dgain, 'a'); n.dbias = trf__stage(context, dbias, 'a');
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->norm_gradient(&context->run, &n);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

// >>blocks-attention
//
// Attention alone, without projections. Sequences lie one after another in q, k and v; shape gives
// their lengths. saved holds two numbers for each row and head, from which backward computes the
// weights again.

TRF_API int64_t trf_attention_saved(int64_t query_rows, int32_t n_heads)
{
    return trf__times(trf__times(2, query_rows), n_heads);
}

/* Checks lengths and turns them into spans. Sets all of `a` but its tensors. */
TRF__COLD
TRF__FN trf_status trf__attention_prepare(trf_context *context, const trf_attention_shape *shape,
                                          int64_t d,
                                          trf__attention_in *a, int64_t *queries, int64_t *keys,
                                          trf_error *err)
{
    int32_t i;
    TRF__ZERO(*a);
    *queries = *keys = 0;
    if (!shape) return trf__fail_null(err, "shape");
    if (shape->count < 0) return trf__fail_below(err, "count", 0, shape->count);
    TRF__TRY(trf__check_range("mask", (double)shape->mask, 0, TRF_MASK_COUNT - 1, err));
    if (shape->count > 0 && (!shape->query_lengths || !shape->key_lengths))
        return trf__fail_null(err, "lengths");
    if (shape->n_heads < 1 || d % shape->n_heads)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "n_heads",
                         "n_heads must divide the width %lld, got %d",
                         (long long)d, shape->n_heads);
    TRF__GROW(trf__span, context->spans, context->spans_capacity, shape->count,
              &context->run.hooks);
    for (i = 0; i < shape->count; i++) {
        int32_t n_query = shape->query_lengths[i], n_key = shape->key_lengths[i];
        trf__span *span = &context->spans[i];
        if (n_query < 0 || n_key < 0)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "lengths",
                             "lengths of sequence %d must not be negative", i);
        /* position i sees keys up to i, so queries and keys must be the same positions */
        if (shape->mask == TRF_CAUSAL && n_query != n_key)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "lengths",
                             "causal attention needs as many keys as queries; sequence %d has %d "
                             "keys and %d queries", i, n_key, n_query);
        if (*queries + n_query > INT32_MAX || *keys + n_key > INT32_MAX)
            return trf__fail(err, TRF_E_LIMIT, i, "lengths",
                             "all lengths together must stay below 2^31");
        span->query = (int32_t)*queries; span->n_query = n_query;
        span->key = (int32_t)*keys; span->n_key = n_key;
        span->sentence = i;
        *queries += n_query;
        *keys += n_key;
        a->max_queries = trf__max64(a->max_queries, n_query);
        a->max_keys = trf__max64(a->max_keys, n_key);
    }
    a->n_spans = shape->count;
    a->heads = a->kv_heads = shape->n_heads;
    a->d_head = (int)(d / shape->n_heads);
    a->scale = trf__default_scale(a->d_head);
    a->causal = shape->mask == TRF_CAUSAL;
    return TRF_OK;
}

TRF__FN const trf__span *trf__spans_staged(trf_context *c, int64_t n)
{
    return (const trf__span *)trf__bring(c, c->spans, trf__bytes(n, sizeof *c->spans), 'i');
}

/* Checks the arguments that forward, backward and the weights share, and reserves scratch memory
   for the longest sequence. */
TRF__FN trf_status trf__attention_args(trf_context *context, trf__attention_in *a,
                                       const trf_tensor *q,
                                       const trf_tensor *k, const trf_tensor *v,
                                       const trf_attention_shape *shape,
                                       const trf_tensor *saved, trf_error *err)
{
    int64_t d, queries, keys;
    TRF__TRY(trf__matrix(q, "q", -1, &d, err));
    TRF__TRY(trf__attention_prepare(context, shape, d, a, &queries, &keys, err));
    TRF__TRY(trf__shape_check(q, "q", queries, d, err));
    TRF__TRY(trf__shape_check(k, "k", keys, d, err));
    TRF__TRY(trf__shape_check(v, "v", keys, d, err));
    a->ldq = a->ldk = d;
    if (saved)
        TRF__TRY(trf__shape_check(saved, "saved", trf_attention_saved(queries, shape->n_heads), -1,
                                  err));
    return context->run.backend->reserve(&context->run, a->max_keys, a->d_head, 0, 0, err);
}

/* Checks `saved`. In a forward pass it may be NULL: the context's scratch memory then takes the
   numbers. */
TRF__FN trf_status trf__saved_check(trf_context *context, const trf_tensor *saved, int64_t numbers,
                                    int forward, trf_error *err)
{
    if (saved || !forward) return trf__shape_check(saved, "saved", numbers, -1, err);
    return trf__workspace_reserve(&context->run, &context->work,
                         trf__add_size(trf__bytes(numbers, sizeof(trf_real)), 64), err);
}
TRF__FN trf_real *trf__saved_staged(trf_context *context, const trf_tensor *saved, char use)
{
    return saved ? trf__stage(context, saved, use) : (trf_real *)context->work.memory;
}

TRF__FN void trf__attention_staged(trf_context *c, trf__attention_in *a, const trf_tensor *q,
                                   const trf_tensor *k, const trf_tensor *v)
{
    a->q = trf__act_staged(c, q, 'i');
    a->k = trf__act_staged(c, k, 'i');
    a->v = trf__act_staged(c, v, 'i');
    a->spans = trf__spans_staged(c, a->n_spans);
}

TRF__COLD
TRF_API trf_status trf_attention(trf_context *context, trf_tensor *out, const trf_tensor *q,
                                 const trf_tensor *k,
                                 const trf_tensor *v, const trf_attention_shape *shape,
                                 trf_tensor *saved, trf_error *err)
{
    trf__attention a;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, err));
    TRF__TRY(trf__shape_check(out, "out", q->shape[0], q->shape[1], err));
    trf__attention_staged(context, &a.in, q, k, v);
    a.out = trf__act_staged(context, out, 'o');
    a.stats = trf__stage(context, saved, 'o');
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->attention(&context->run, &a);
    return trf__staged_back(context, TRF_OK, err);
}

/* Checks out: all weights in one row, or for one sequence (heads, queries, keys). */
TRF__FN trf_status trf__probabilities_check(const trf_context *context, const trf__attention_in *in,
                                            const trf_tensor *out, trf_error *err)
{
    const trf__span *spans = context->spans;
    int64_t i, n = 0;
    for (i = 0; i < in->n_spans; i++)
        n = trf__add_counts(n, trf__times((int64_t)spans[i].n_query * spans[i].n_key, in->heads));
    if (out && out->data && out->rank == 3 && in->n_spans == 1 && out->shape[0] == in->heads &&
        out->shape[1] == spans[0].n_query && out->shape[2] == spans[0].n_key) return TRF_OK;
    return trf__shape_check(out, "out", n, -1, err);
}

/* Computes the weights of all heads and spans. */
TRF__FN void trf__probabilities_of(const trf_context *context, const trf__attention_in *in,
                                   trf_real *maps)
{
    int64_t i;
    for (i = 0; i < in->n_spans; i++) {
        const trf__span *span = &context->spans[i];
        trf__attention_maps(&context->run, in, i, span, -1, maps);
        maps += (int64_t)in->heads * span->n_query * span->n_key;
    }
}

TRF__COLD
TRF_API trf_status trf_attention_probabilities(trf_context *context, trf_tensor *out,
                                               const trf_tensor *q, const trf_tensor *k,
                                               const trf_attention_shape *shape, trf_error *err)
{
    trf__attention_in in;
    trf_real *maps;
    TRF__TRY(trf__begin(context, "context", err));
    /* weights need no values: k takes the argument of v */
    TRF__TRY(trf__attention_args(context, &in, q, k, k, shape, NULL, err));
    TRF__TRY(trf__probabilities_check(context, &in, out, err));
    trf__attention_staged(context, &in, q, k, k);
    maps = trf__stage(context, out, 'o');
    TRF__TRY(trf__staged_ready(context, err));
    trf__probabilities_of(context, &in, maps);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF__COLD
TRF_API trf_status trf_attention_backward(trf_context *context, trf_tensor *dq, trf_tensor *dk,
                                          trf_tensor *dv,
                                          const trf_tensor *dout, const trf_tensor *out,
                                          const trf_tensor *q,
                                          const trf_tensor *k, const trf_tensor *v,
                                          const trf_attention_shape *shape, const trf_tensor *saved,
                                          trf_error *err)
{
    trf__attention_gradient a;
    int64_t queries, keys, d;
    TRF__TRY(trf__begin(context, "context", err));
    if (!saved)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "saved",
                         "saved must be the tensor that the forward pass filled");
    TRF__TRY(trf__attention_args(context, &a.in, q, k, v, shape, saved, err));
    queries = q->shape[0]; keys = k->shape[0]; d = q->shape[1];
    TRF__TRY(trf__shape_check(dq, "dq", queries, d, err));
    TRF__TRY(trf__shape_check(dk, "dk", keys, d, err));
    TRF__TRY(trf__shape_check(dv, "dv", keys, d, err));
    TRF__TRY(trf__shape_check(dout, "dout", queries, d, err));
    TRF__TRY(trf__shape_check(out, "out", queries, d, err));
    /* out spares a sum: P dP summed over a row is dout . out (>>attention) */
    trf__attention_staged(context, &a.in, q, k, v);
    a.dq = trf__act_staged(context, dq, 'o');
    a.dk = trf__act_staged(context, dk, 'o');
    a.dv = trf__act_staged(context, dv, 'o');
    a.dout = trf__act_staged(context, dout, 'i');
    a.out = trf__act_staged(context, out, 'i');
    a.dbias = a.partial = NULL;
    a.first_bias = 0;
    a.stats = trf__stage(context, saved, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->attention_gradient(&context->run, &a);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

// >>blocks-multi-head attention with its four projections
//
// The sublayer of >>sublayers on the caller's tensors. Self-attention projects x to q, k and v at
// once; with a memory, q comes from x, k and v from the memory.

/* Size of saved: projected, hidden, stats and memory, in this order (>>sublayers). It has 3d
   columns for projected and also the memory, though no attention needs both: one formula serves
   all. */
TRF_API int64_t trf_multi_head_attention_saved(int64_t query_rows, int64_t key_rows,
                                               int64_t d_model, int32_t n_heads)
{
    int64_t queries = trf__times(trf__times(4, query_rows), d_model);
    int64_t keys = trf__times(trf__times(2, key_rows), d_model);
    return trf__add_counts(trf__add_counts(queries, keys), trf_attention_saved(query_rows,
            n_heads));
}

/* Checks the shapes of the four matrices; q, k and v share in_weight. */
TRF__FN trf_status trf__params_check(const trf_attention_params *p, int64_t d, trf_error *err)
{
    if (!p) return trf__fail_null(err, "params");
    TRF__TRY(trf__shape_check(&p->in_weight, "in_weight", 3 * d, d, err));
    TRF__TRY(trf__shape_check(&p->in_bias, "in_bias", 3 * d, -1, err));
    TRF__TRY(trf__shape_check(&p->out_weight, "out_weight", d, d, err));
    return trf__shape_check(&p->out_bias, "out_bias", d, -1, err);
}

/* Checks everything that forward and backward share. */
TRF__FN trf_status trf__multi_head_check(trf_context *context, trf__operands *sub,
                                         const trf_tensor *x, const trf_tensor *memory,
                                         const trf_attention_params *params,
                                         const trf_attention_shape *shape, const trf_tensor *saved,
                                         int forward, trf_error *err)
{
    int64_t d, saved_numbers;
    TRF__ZERO(*sub);
    TRF__TRY(trf__matrix(x, "x", -1, &d, err));
    TRF__TRY(trf__params_check(params, d, err));
    TRF__TRY(trf__attention_prepare(context, shape, d, &sub->attention, &sub->rows,
                                    &sub->memory_rows, err));
    TRF__TRY(trf__shape_check(x, "x", sub->rows, d, err));
    TRF__TRY(trf__shape_check(memory ? memory : x, "memory", sub->memory_rows, d, err));
    sub->d = sub->q_width = sub->k_width = d;
    saved_numbers = trf_multi_head_attention_saved(sub->rows, sub->memory_rows, d, shape->n_heads);
    TRF__TRY(trf__saved_check(context, saved, saved_numbers, forward, err));
    return context->run.backend->reserve(&context->run, sub->attention.max_keys,
                                         sub->attention.d_head, 0, 0, err);
}

/* Stages weights and spans, and lays out saved. */
TRF__COLD
TRF__FN void trf__multi_head_staged(trf_context *context, trf__operands *sub, int self,
                                    const trf_attention_params *params, const trf_tensor *saved,
                                    char use)
{
    int64_t numbers = sub->rows * sub->d;
    trf_real *kept = trf__saved_staged(context, saved, use);
    sub->in_w = trf__mat_of(context, &params->in_weight);
    sub->out_w = trf__mat_of(context, &params->out_weight);
    sub->in_b = trf__stage(context, &params->in_bias, 'i');
    sub->out_b = trf__stage(context, &params->out_bias, 'i');
    sub->attention.spans = trf__spans_staged(context, sub->attention.n_spans);
    if (!kept) return;
    sub->stats = kept + 4 * numbers;
    sub->projected = (trf__act *)(void *)kept;
    sub->hidden = (trf__act *)(void *)(kept + 3 * numbers);
    if (!self)
        sub->memory = (trf__act *)(void *)(sub->stats + trf_attention_saved(sub->rows,
        sub->attention.heads));
    sub->fresh = sub->memory;
}

/* Self-attention may be given with memory = x. Returns NULL for it, else the memory. */
TRF__FN const trf_tensor *trf__other_memory(const trf_tensor *x, const trf_tensor *memory)
{
    return memory && x && memory->data == x->data && memory->shape[0] == x->shape[0] ? NULL
        : memory;
}

TRF__COLD
TRF_API trf_status trf_multi_head_attention(trf_context *context, trf_tensor *y,
                                            const trf_tensor *x, const trf_tensor *memory,
                                            const trf_attention_params *params,
                                            const trf_attention_shape *shape, trf_tensor *saved,
                                            trf_error *err)
{
    trf__operands sub;
    trf__act *out;
    const trf__act *in, *m;
    TRF__TRY(trf__begin(context, "context", err));
    memory = trf__other_memory(x, memory);
    TRF__TRY(trf__multi_head_check(context, &sub, x, memory, params, shape, saved, 1, err));
    TRF__TRY(trf__shape_check(y, "y", sub.rows, sub.d, err));
    /* saved is set: backward reads projections from it instead of computing them again */
    trf__multi_head_staged(context, &sub, !memory, params, saved, 'o');
    out = trf__act_staged(context, y, 'o');
    in = trf__act_staged(context, x, 'i');
    m = trf__act_staged(context, memory, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    trf__attention_forward(&context->run, &sub, out, in, m);
    return trf__staged_back(context, TRF_OK, err);
}

TRF__COLD
TRF_API trf_status trf_multi_head_attention_probabilities(trf_context *context, trf_tensor *out,
                                                          const trf_tensor *x,
                                                          const trf_tensor *memory,
                                                          const trf_attention_params *params,
                                                          const trf_attention_shape *shape,
                                                          trf_error *err)
{
    trf__operands sub;
    trf__attention_in attention;
    const trf__act *in, *m;
    trf_real *maps;
    TRF__TRY(trf__begin(context, "context", err));
    memory = trf__other_memory(x, memory);
    TRF__TRY(trf__multi_head_check(context, &sub, x, memory, params, shape, NULL, 1, err));
    TRF__TRY(trf__probabilities_check(context, &sub.attention, out, err));
    trf__multi_head_staged(context, &sub, !memory, params, NULL, 'o');
    in = trf__act_staged(context, x, 'i');
    m = trf__act_staged(context, memory, 'i');
    maps = trf__stage(context, out, 'o');
    TRF__TRY(trf__staged_ready(context, err));
    /* projections only; the weighted sum and the output projection are not needed */
    trf__attention_project(&context->run, &sub, in, m);
    attention = trf__attention_of(&context->run, &sub);
    trf__probabilities_of(context, &attention, maps);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
/* Scratch for the gradients of projected, hidden and memory. */
TRF__FN trf_status trf__take_gradients(trf_context *context, trf__operands *sub, int64_t wide,
                                       int64_t inner, int64_t memory,
                                 trf_error *err)
{
    TRF__TRY(trf__workspace_reserve(&context->run, &context->work,
                           trf__bytes(wide + inner + memory, context->run.element), err));
    sub->dprojected = (trf__act *)context->work.memory;
    sub->dhidden = trf__act_at(&context->run, sub->dprojected, wide);
    sub->dmemory = trf__act_at(&context->run, sub->dhidden, inner);
    return TRF_OK;
}

TRF__COLD
TRF_API trf_status trf_multi_head_attention_backward(trf_context *context, trf_tensor *dx,
                                                     trf_tensor *dmemory,
                                                     trf_attention_params *dparams,
                                                     const trf_tensor *dy,
                                                     const trf_tensor *x, const trf_tensor *memory,
                                                     const trf_attention_params *params,
                                                     const trf_attention_shape *shape,
                                                     const trf_tensor *saved, trf_error *err)
{
    trf__operands sub;
    trf__act *out, *dm;
    const trf__act *in, *m, *dout;
    TRF__TRY(trf__begin(context, "context", err));
    memory = trf__other_memory(x, memory);
    TRF__TRY(trf__multi_head_check(context, &sub, x, memory, params, shape, saved, 0, err));
    TRF__TRY(trf__params_check(dparams, sub.d, err));
    TRF__TRY(trf__shape_check(dx, "dx", sub.rows, sub.d, err));
    TRF__TRY(trf__shape_check(dy, "dy", sub.rows, sub.d, err));
    if (memory && (dmemory || sub.memory_rows > 0))
        TRF__TRY(trf__shape_check(dmemory, "dmemory", sub.memory_rows, sub.d, err));
    TRF__TRY(trf__take_gradients(context, &sub, 3 * sub.rows * sub.d, sub.rows * sub.d,
                           memory ? 2 * sub.memory_rows * sub.d : 0, err));
    /* with a memory its keys and values have a gradient, (memory_rows, 2d) */
    trf__multi_head_staged(context, &sub, !memory, params, saved, 'i');
    sub.d_in_w = trf__stage(context, &dparams->in_weight, 'a');
    sub.d_in_b = trf__stage(context, &dparams->in_bias, 'a');
    sub.d_out_w = trf__stage(context, &dparams->out_weight, 'a');
    sub.d_out_b = trf__stage(context, &dparams->out_bias, 'a');
    out = trf__act_staged(context, dx, 'o');
    dm = trf__act_staged(context, memory ? dmemory : NULL, 'o');
    dout = trf__act_staged(context, dy, 'i');
    in = trf__act_staged(context, x, 'i');
    m = trf__act_staged(context, memory, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    trf__attention_backward(&context->run, &sub, out, dm, 0, dout, in, m);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

// >>blocks-feed-forward
//
// Two linear maps with an activation between: (rows, d) -> (rows, f) -> (rows, d).

/* Size of saved: projected, then hidden, each (rows, f). */
TRF_API int64_t trf_feed_forward_saved(int64_t rows, int64_t d_ff)
{
    return trf__times(trf__times(2, rows), d_ff);
}

/* Checks the arguments of forward and backward; sets f from w1. */
TRF__COLD
TRF__FN trf_status trf__feed_forward_check(trf_context *context, trf__operands *sub,
                                           const trf_tensor *x, const trf_feed_forward_params *p,
                                           trf_activation activation,
                                           const trf_tensor *saved, int forward, trf_error *err)
{
    TRF__ZERO(*sub);
    TRF__TRY(trf__matrix(x, "x", -1, &sub->d, err));
    sub->rows = x->shape[0];
    sub->activation = (int)activation;
    if (!p) return trf__fail_null(err, "params");
    TRF__TRY(trf__check_range("activation", (double)activation, 0, TRF_ACTIVATION_COUNT - 1, err));
    TRF__TRY(trf__weight_check(&p->w1, "w1", &sub->f, sub->d, err));
    TRF__TRY(trf__shape_check(&p->b1, "b1", sub->f, -1, err));
    TRF__TRY(trf__shape_check(&p->w2, "w2", sub->d, sub->f, err));
    TRF__TRY(trf__shape_check(&p->b2, "b2", sub->d, -1, err));
    return trf__saved_check(context, saved, trf_feed_forward_saved(sub->rows, sub->f), forward,
                            err);
}

TRF__FN void trf__feed_forward_staged(trf_context *context, trf__operands *sub,
                                      const trf_feed_forward_params *p,
                                      const trf_tensor *saved, char use)
{
    sub->projected = (trf__act *)(void *)trf__saved_staged(context, saved, use);
    sub->hidden = trf__act_at(&context->run, sub->projected, sub->rows * sub->f);
    sub->in_w = trf__mat_of(context, &p->w1); sub->in_b = trf__stage(context, &p->b1, 'i');
    sub->out_w = trf__mat_of(context, &p->w2); sub->out_b = trf__stage(context, &p->b2, 'i');
}

TRF__COLD
TRF_API trf_status trf_feed_forward(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                    const trf_feed_forward_params *params,
                                    trf_activation activation, trf_tensor *saved, trf_error *err)
{
    trf__operands sub;
    trf__act *out;
    const trf__act *in;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__feed_forward_check(context, &sub, x, params, activation, saved, 1, err));
    TRF__TRY(trf__shape_check(y, "y", sub.rows, sub.d, err));
    /* saved is set: the activation's input and output, which backward needs */
    trf__feed_forward_staged(context, &sub, params, saved, 'o');
    out = trf__act_staged(context, y, 'o');
    in = trf__act_staged(context, x, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    trf__feed_forward(&context->run, &sub, out, in);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF__COLD
TRF_API trf_status trf_feed_forward_backward(trf_context *context, trf_tensor *dx,
                                             trf_feed_forward_params *dparams,
                                             const trf_tensor *dy, const trf_tensor *x,
                                             const trf_feed_forward_params *params,
                                             trf_activation activation,
                                             const trf_tensor *saved, trf_error *err)
{
    trf__operands sub, same;
    trf__act *out;
    const trf__act *in, *dout;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__TRY(trf__feed_forward_check(context, &sub, x, params, activation, saved, 0, err));
    TRF__TRY(trf__shape_check(dx, "dx", sub.rows, sub.d, err));
    TRF__TRY(trf__shape_check(dy, "dy", sub.rows, sub.d, err));
    /* gradients have the shapes of their parameters, so the same check serves */
    TRF__TRY(trf__feed_forward_check(context, &same, x, dparams, activation, saved, 0, err));
    TRF__TRY(trf__take_gradients(context, &sub, sub.rows * sub.f, sub.rows * sub.f, 0, err));
    trf__feed_forward_staged(context, &sub, params, saved, 'i');
    sub.d_in_w = trf__stage(context, &dparams->w1, 'a');
    sub.d_in_b = trf__stage(context, &dparams->b1, 'a');
    sub.d_out_w = trf__stage(context, &dparams->w2, 'a');
    sub.d_out_b = trf__stage(context, &dparams->b2, 'a');
    out = trf__act_staged(context, dx, 'o');
    dout = trf__act_staged(context, dy, 'i');
    in = trf__act_staged(context, x, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    trf__feed_forward_backward(&context->run, &sub, out, dout, in);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

// >>blocks-residual
//
// y = x + dropout(sub). Backward needs no saved mask: seed, step and site give the same mask again.

TRF__FN trf_status trf__dropout_check(const trf_dropout *dropout, trf_error *err)
{
    return dropout ? trf__check_range("p", dropout->p, 0, TRF__BELOW_ONE, err) : TRF_OK;
}

/* The dropout of one op. *now is the caller's variable and must live until the op has ended. */
TRF__FN trf__drop trf__dropout_staged(trf_context *c, const trf_dropout *dropout, trf__now *now)
{
    TRF__ZERO(*now);
    if (!dropout) return trf__drop_of(0, 0);
    now->key0 = (uint32_t)dropout->seed;
    now->key1 = (uint32_t)(dropout->seed >> 32);
    now->step = (uint32_t)dropout->step;
    c->run.now = (const trf__now *)trf__bring(c, now, sizeof *now, 'i');
    return trf__drop_of(dropout->p, (uint32_t)dropout->site);
}

TRF__COLD
TRF_API trf_status trf_residual(trf_context *context, trf_tensor *y, const trf_tensor *x,
                                const trf_tensor *sub, const trf_dropout *dropout, trf_error *err)
{
    trf__norm n;
    trf__now now;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__dropout_check(dropout, err));
    TRF__TRY(trf__matrix(x, "x", -1, &n.d, err));
    n.rows = x->shape[0];
    TRF__TRY(trf__shape_check(sub, "sub", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(y, "y", n.rows, n.d, err));
    /* the op add_norm without n.y: the sum is the result, nothing is normalised */
    n.s = trf__act_staged(context, y, 'o');
    n.x = trf__act_staged(context, x, 'i');
    n.sub = trf__act_staged(context, sub, 'i');
    n.drop = trf__dropout_staged(context, dropout, &now);
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->add_norm(&context->run, &n);
    return trf__staged_back(context, TRF_OK, err);
}

#if !defined(TRF_NO_TRAIN)
TRF__COLD
TRF_API trf_status trf_residual_backward(trf_context *context, trf_tensor *dx, trf_tensor *dsub,
                                         const trf_tensor *dy,
                                         const trf_dropout *dropout, trf_error *err)
{
    trf__norm_gradient n;
    trf__now now;
    TRF__TRY(trf__begin(context, "context", err));
    TRF__ZERO(n);
    TRF__TRY(trf__dropout_check(dropout, err));
    TRF__TRY(trf__matrix(dy, "dy", -1, &n.d, err));
    n.rows = dy->shape[0];
    TRF__TRY(trf__shape_check(dx, "dx", n.rows, n.d, err));
    TRF__TRY(trf__shape_check(dsub, "dsub", n.rows, n.d, err));
    /* no norm, so dx is dy, and dsub is dy times the mask and its factor */
    n.ds = trf__act_staged(context, dx, 'o');
    n.dsub = trf__act_staged(context, dsub, 'o');
    n.dy = trf__act_staged(context, dy, 'i');
    n.drop = trf__dropout_staged(context, dropout, &now);
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->norm_gradient(&context->run, &n);
    return trf__staged_back(context, TRF_OK, err);
}
#endif

// >>blocks-cross-entropy
//
// Projection to the vocabulary, softmax, smoothed loss and all gradients in one op, so that the
// (rows, vocab) logits never exist as a whole.

/* Checks the targets; -1 marks rows without loss. */
TRF__FN trf_status trf__targets_check(const int32_t *targets, int64_t rows, int64_t vocab,
                                      trf_error *err)
{
    int64_t i;
    if (rows > 0 && !targets) return trf__fail_null(err, "targets");
    for (i = 0; i < rows; i++)
        if (targets[i] < -1 || targets[i] >= vocab)
            return trf__fail(err, TRF_E_INVALID_ARG, i, "targets",
                             "target number %lld must be -1 or 0 to %lld, got %d", (long long)i,
                             (long long)vocab - 1, targets[i]);
    return TRF_OK;
}

/* Lays out what a loss needs besides its tensors: in the context's scratch memory, or with cut = 0
   nowhere. Returns the size. */
TRF__FN size_t trf__loss_layout(const trf_context *c, trf__loss *l, int cut)
{
    trf__cursor cursor = trf__cursor_at(cut ? c->work.memory : NULL);
    l->row_loss = (double *)trf__take(&cursor, l->rows, sizeof(double));
    l->row_nll = (double *)trf__take(&cursor, l->rows, sizeof(double));
    l->sums = (trf__sums *)trf__take(&cursor, 1, sizeof(trf__sums));
    l->work = trf__take(&cursor, 1, c->run.backend->loss_scratch(&c->run.device, l->rows, l->vocab,
                                                                 l->d, 0));
    return cursor.used;
}

TRF__COLD
TRF_API trf_status trf_cross_entropy(trf_context *context, double *loss, trf_tensor *dx,
                                     trf_tensor *dweight, trf_tensor *dbias, const trf_tensor *x,
                                     const trf_tensor *weight,
                                     const trf_tensor *bias, const int32_t *targets,
                                     const trf_cross_entropy_options *options, trf_error *err)
{
    trf__loss l;
    trf__sums sums;
    int64_t vocab, d, k;
    if (loss) *loss = 0;
    TRF__TRY(trf__begin(context, "context", err));
    if (!loss || !options) return trf__fail_null(err, loss ? "options" : "loss");
    TRF__ZERO(l);
    TRF__TRY(trf__matrix(x, "x", -1, &d, err));
    TRF__TRY(trf__matrix(weight, "weight", -1, &k, err));
    vocab = weight->shape[0];
    l.rows = x->shape[0];
    l.d = d;
    TRF__TRY(trf__shape_check(weight, "weight", vocab, d, err));
    TRF__TRY(trf__check_range("label_smoothing", options->label_smoothing, 0, TRF__BELOW_ONE, err));
    TRF__TRY(trf__check_range("rule", (double)options->rule, 0, TRF_SMOOTHING_COUNT - 1, err));
    TRF__TRY(trf__check_range("vocab", (double)vocab, options->rule == TRF_SMOOTH_NO_PAD_KL ? 3 : 2,
                              1 << 24, err));
    if (options->rule == TRF_SMOOTH_NO_PAD_KL)
        TRF__TRY(trf__check_range("smoothing_pad", options->smoothing_pad, 0, (double)vocab - 1,
                                  err));
    if (bias) TRF__TRY(trf__shape_check(bias, "bias", vocab, -1, err));
    if (dx) TRF__TRY(trf__shape_check(dx, "dx", l.rows, d, err));
    if (dweight) TRF__TRY(trf__shape_check(dweight, "dweight", vocab, d, err));
    if (dbias) TRF__TRY(trf__shape_check(dbias, "dbias", vocab, -1, err));
#if defined(TRF_NO_TRAIN)
    if (dx)
        return trf__fail(err, TRF_E_UNSUPPORTED, -1, "dx",
                         "this build has no gradients (TRF_NO_TRAIN)");
#endif
    if ((dweight || dbias) && !dx)
        return trf__fail(err, TRF_E_INVALID_ARG, -1, "dx",
                         "gradients of weight or bias are only computed together with dx");
    TRF__TRY(trf__targets_check(targets, l.rows, vocab, err));
    trf__smooth(&l, options->label_smoothing, (int)options->rule, vocab, options->smoothing_pad);
    TRF__TRY(trf__workspace_reserve(&context->run, &context->work, trf__loss_layout(context, &l, 0),
                                    err));
    trf__loss_layout(context, &l, 1);
    l.targets = trf__list_staged(context, targets, l.rows);
    l.dx = trf__act_staged(context, dx, 'o');
    l.dw = trf__stage(context, dweight, 'a'); l.db = trf__stage(context, dbias, 'a');
    l.x = trf__act_staged(context, x, 'i');
    l.w = trf__mat_of(context, weight); l.bias = trf__stage(context, bias, 'i');
    TRF__TRY(trf__staged_ready(context, err));
    context->run.backend->cross_entropy(&context->run, &l);
    /* the sync in trf__staged_back waits for this download too */
    context->run.backend->download(&context->run, &sums, l.sums, sizeof sums);
    TRF__TRY(trf__staged_back(context, TRF_OK, err));
    *loss = sums.loss;
    return TRF_OK;
}

#endif /* TRF_IMPLEMENTATION */

#endif /* implementation or column */

// MIT License
//
// Copyright (c) 2026 the transformer.h authors
//
// Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
// associated documentation files (the "Software"), to deal in the Software without restriction,
// including without limitation the rights to use, copy, modify, merge, publish, distribute,
// sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
// furnished to do so, subject to the following conditions:
//
// The above copyright notice and this permission notice shall be included in all copies or
// substantial portions of the Software.
//
// THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
// NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
// NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
// DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
// OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

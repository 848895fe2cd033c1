#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/translate.h"
#include "api/sampling.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "cpu/threads.h"
#include "text/vocab.h"
#include "text/pieces_text.h"
#include "text/byte_bpe_text.h"
#include "text/vocab_use.h"
#include "model/checks.h"
#include "model/params.h"
#include "model/model.h"
#include "pass/stacks.h"
#include "pass/packed.h"
#include "search/options.h"
#include "read/ensemble.h"
#include "search/translator.h"

// -----------------------------------------------------------------------------------------------
// >>sampling       one token at a time, drawn on the host
//
// Row p of a sequence reads its start token (p = 0) or its id p - 1. The logits of the last row
// choose the next id. Every sequence has its own area of keys and values, which append_kv fills:
// sampling needs no backpointers. All rows of a beginning but the last are read many at a time. A
// step reads the last row of every live sequence, and draws on the host by its logits (>>draw).
//
// On the CPU the bits of a row depend on its sequence alone. So few rows never go to CBLAS. A
// sampler never uses >>bf16x3. Our own product sums every element in one chain over k whatever its
// neighbours are (>>gemm), and softmax and norm work row by row. Keys and values are therefore the
// same, computed one by one or together, and a session file needs only ids (>>session). (Sources
// are encoded together: more than 512 rows may go to CBLAS.)
//
// A decoder-only model reads the ids of a sequence from number `first` on. `first` is 0 while there
// are W ids or fewer (W is the window). After that, the older half of the window leaves at once.
// The other half is read again, because its positions have changed. `first` follows from the number
// of ids alone, so it does not matter where the beginning ended.
// -----------------------------------------------------------------------------------------------

/* The columns are those of >>config. Files store the fields. */
#define TRF__SAMPLING_FIELDS(X) \
    X(double,   temperature,        0, 1e6, 1) \
    X(int32_t,  top_k,              0, INT32_MAX, 1) \
    X(double,   top_p,              0, 1, 1) \
    X(double,   min_p,              0, 1, 1) \
    X(double,   repetition_penalty, 1e-6, 1e6, 1) \
    X(int32_t,  max_tokens,         1, INT32_MAX, 1) \
    X(int32_t,  min_tokens,         0, INT32_MAX, 1) \
    X(int32_t,  allow_unk,          0, 1, 2) \
    X(int32_t,  window,             0, INT32_MAX, 2) \
    X(uint64_t, seed,               0, 2e19, 1) \
    X(int32_t,  no_repeat_ngram,    0, INT32_MAX, 3) \
    X(trf_weights, weights,         0, TRF_WEIGHTS_INT8, 0) \
    X(int32_t,  threads,            0, TRF__MAX_THREADS, 0)

enum { TRF__DRAW_NUMBERS = 1 << 22 };           /* logits in memory at a time */

/* A sequence: the beginning, then the answer; at most `limit` ids. */
typedef struct trf__sampled {
    trf_hypothesis answer;
    int32_t *ids;                               /* start, if it is an id, is before them */
    double *each;                               /* log-probabilities of the answer's ids and EOS */
    int32_t n, n_begin, limit, n_source;        /* n_source: rows */
    int32_t start;                              /* the id that row 0 reads, or -1: zeros */
    int32_t takes_start;                        /* 1: it is the first id of the prompt, and not one
                                                   of n */
    int32_t first;                              /* number of the first id that is read */
    int32_t read;                               /* rows with keys and values in the cache */
    int32_t emitted;            /* the callback has had the text of this many ids of the answer */
    int32_t from;               /* decoding of new text begins at this id (>>new-text) */
} trf__sampled;

struct trf_sampler {
    const trf_model *model;                     /* the first one, and its pass */
    trf_sampling sampling;
    trf__pass pass;
    trf__ensemble ensemble;
    size_t bytes, device_bytes;
    int32_t count;
    int64_t ordinal;                            /* of the batch */
    int64_t n_source;                           /* ids of all sources */
    int64_t rows;                               /* length of the lists */
    int64_t rows_per_step;                           /* the most sequences drawn at a time */
    char *arena, *device_arena, *text;
    int64_t text_capacity;
    trf__lists there, here;
    trf__cache caches[TRF_MAX_MODELS];          /* on the device */
    trf__act *scores;                           /* (rows_per_step, vocab); NULL: several models */
    trf_real *mixed, *mixing;                   /* then this, and its scratch (>>ensemble) */
    trf__sampled *sampled;                        /* on the host */
    int32_t *sources, *source_lengths;          /* of the batch, kept for files */
    int32_t *ids; double *each;                 /* (count, capacity + 1) each; not in the arenas,
                                                   because they grow */
    int64_t capacity;
    trf_real *logits;                           /* (rows_per_step, vocab) */
    trf__drawing drawing;                       /* its scratch and results, on the host */
    double *uniform;                            /* (rows_per_step), its random numbers */
    trf__run host;                              /* draws, where the device does not; else zeros */
    trf__rules rules;                           /* banned sequences, which lie in `banned` */
    int32_t *banned; size_t banned_bytes;
};

TRF__FN trf_status trf__sampling_check(const trf_sampling *s, const trf_config *c, trf_error *err)
{
    TRF__TRY(trf__begin(s, "sampling", err));
#define TRF__X(type, field, low, high, stored) TRF__RANGE(s, field, low, high);
    TRF__SAMPLING_FIELDS(TRF__X)
#undef TRF__X
    TRF__TRY(trf__check_listed(&s->banned, "banned", "banned sequence", TRF__MAX_BANNED, err));
    TRF__TRY(trf__check_ends(&s->ends, err));
    TRF__TRY(trf__check_ensemble(&s->ensemble, err));
    TRF__TRY(trf__check_product_weights(s->weights, err));
    TRF__TRY(trf__hooks_check(&s->hooks, err));
    if (!c) return TRF_OK;
    TRF__TRY(trf__check_has_target(c, err));
    TRF__TRY(trf__check_has_unk(c, s->allow_unk, "allow_unk", err));
    return trf__check_banned_ids(c, &s->banned, &s->ends, err);
}

TRF_API trf_sampling trf_sampling_defaults(void)
{
    TRF__ZEROED(trf_sampling, s);
    s.temperature = s.top_p = s.repetition_penalty = 1;
    s.max_tokens = 256;
    s.window = INT32_MAX;
    return s;
}

// >>draw-rules     what the rules make of the logits, before a token is drawn (>>draw)

/* What the rules about the tokens so far make of the logits z: w is a copy of them. */
TRF__FN void trf__rule_logits(const trf_sampler *g, const trf__sampled *s, const trf_real *z,
                              trf_real *w, trf_real *largest)
{
    const trf_sampling *o = &g->sampling;
    const trf__rules *r = &g->rules;
    int32_t starts = s->start >= 0, n = s->n + starts, begin = 0, m = o->no_repeat_ngram;
    const int32_t *ids = s->ids - starts;
    const trf_real never = -(trf_real)HUGE_VAL;
    for (int32_t i = 0; o->repetition_penalty != 1 && i < n; i++)       /* of z: once an id */
        trf__rule_logit(w, largest, ids[i], (trf_real)trf__penalize((double)z[ids[i]],
                                                                    o->repetition_penalty));
    for (int32_t i = 0; m > 0 && i <= n - m; i++)
        if (trf__ends_with(ids, n, ids + i, m - 1))
            trf__rule_logit(w, largest, ids[i + m - 1], never);
    for (int32_t i = 0; i < r->n_alone; i++) trf__rule_logit(w, largest, r->alone[i], never);
    for (int32_t i = 0; i < r->n_sequences; begin = r->ends[i++])
        if (trf__ends_with(ids, n, r->sequences + begin, r->ends[i] - 1 - begin))
            trf__rule_logit(w, largest, r->sequences[r->ends[i] - 1], never);
}

/* All that changes the logits s of a row of the list. */
TRF__FN void trf__draw_rules(const void *user, int64_t row, trf_real *s, trf_real *largest)
{
    const trf_sampler *g = (const trf_sampler *)user;
    const trf_config *c = &g->ensemble.config;
    const trf_sampling *o = &g->sampling;
    const trf__sampled *of = &g->sampled[g->here.self[row].sentence];
    int32_t never[3];
    trf__rule_logits(g, of, g->logits + row * c->target_vocab, s, largest);
    (void)trf__never(c, !o->allow_unk, &o->ends, never);
    for (int32_t i = 0; i < 3; i++)
        if (never[i] >= 0) trf__rule_logit(s, largest, never[i], -(trf_real)HUGE_VAL);
    for (int32_t i = -1; of->answer.n < o->min_tokens && i < o->ends.n; i++)
        trf__rule_logit(s, largest, i < 0 ? c->eos : o->ends.ids[i], -(trf_real)HUGE_VAL);
}

/* Draws an id for each of n sequences of the list: on the threads of the sampler's device if that
   is the CPU, else by the host. */
TRF__FN void trf__draw_ids(trf_sampler *g, int64_t n)
{
    const trf_sampling *o = &g->sampling;
    const trf__run *run = g->host.backend ? &g->host : &g->pass.run;
    trf__drawing *d = &g->drawing;
    d->rows = n;
    d->temperature = o->temperature;
    d->top_p = o->top_p;
    d->min_p = o->min_p;
    d->top_k = o->top_k;
    for (int64_t row = 0; row < n; row++) {
        int32_t sequence = g->here.self[row].sentence;
        g->uniform[row] = trf__uniform(o->seed, 0x80000000u | (uint32_t)g->sampled[sequence].n,
                                       (uint64_t)g->ordinal + (uint64_t)sequence);
    }
    run->backend->draw(run, d);
}

// >>new-text         the text of an answer that grows
//
// A token's text depends on the tokens before it: a blank joins words, and a subword loses its own
// at the beginning of an answer. So a few ids before the new ones, from `from` on, are decoded with
// them and without them. The part by which the longer text exceeds the other is new. `from` then
// advances past ids whose text is not empty even at the beginning.

/* How many of n ids end with a whole character, counted from `told` on. Bytes at the end may be the
   beginning of a character that the next ids complete. */
TRF__FN int32_t trf__complete_ids(const trf_vocab *v, const int32_t *ids, int32_t told, int32_t n)
{
    if (v && v->byte_bpe) return trf__byte_bpe_whole(v, ids, told, n);
    while (v && v->pieces && told < n) {
        char bytes[4];
        int m = trf__piece_bytes(v, ids + told, n - told, bytes),
            k = m ? trf__utf8_at(bytes, (size_t)m) : 1;
        if (!k && told + m == n && trf__utf8_begins(bytes, m)) return told;
        told += k ? k : 1;
    }
    return n;
}

/* The text by which the answer has grown; at its end all that is left. Failures change nothing. */
TRF__FN trf_status trf__new_text(trf_sampler *g, trf__sampled *s, int ended, const char **text,
                                 size_t *bytes, trf_error *err)
{
    const trf_vocab *v = g->model->target;
    const int32_t *ids = s->answer.ids;
    int32_t n = s->n - s->n_begin, end = ended ? n : trf__complete_ids(v, ids, s->emitted, n);
    size_t before, all, alone;
    *text = "";
    if (!v || end == s->emitted) return TRF_OK;
    (void)trf_vocab_decode(v, ids + s->from, s->emitted - s->from, NULL, 0, &before, NULL);
    (void)trf_vocab_decode(v, ids + s->emitted, end - s->emitted, NULL, 0, &alone, NULL);
    (void)trf_vocab_decode(v, ids + s->from, end - s->from, NULL, 0, &all, NULL);
    TRF__GROW(char, g->text, g->text_capacity, (int64_t)all + 1, &g->sampling.hooks);
    TRF__TRY(trf_vocab_decode(v, ids + s->from, end - s->from, g->text, all + 1, NULL, err));
    if (alone > 0) s->from = s->emitted;
    s->emitted = end;
    *text = g->text + before;
    *bytes = all - before;
    return TRF_OK;
}

#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "api/batch.h"
#include "api/translate.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/phrases.h"
#include "ops/beam.h"
#include "ops/rules.h"
#include "device/backend.h"
#include "text/vocab_use.h"
#include "model/checks.h"
#include "model/model.h"
#include "pass/stacks.h"
#include "read/ensemble.h"
#include "read/reader.h"

// -----------------------------------------------------------------------------------------------
// >>translate      encode once, then one token a step for all live hypotheses
//
//   rows          the live hypotheses of all sentences that are still searched, sentence after
//                 sentence
//   cache         per decoder layer: keys and values of every token read so far, (slot, 2d). The
//                 rows of step t are at slots t * n_rows + row. After `length` steps they replace
//                 the oldest ones
//   backpointers  per row: the slots of its own history, one per position. When search reorders
//                 hypotheses, these lists move and the cache stays:
//
//                 step 0    step 1    step 2            row 0 of step 3 reads slots 0, 4, 9
//                 [0 . . .] [4 5 . .] [8 9 . .]         row 1 of step 3 reads slots 0, 4, 8
//
//   memory        per decoder layer: keys and values of the encoded sources, an area of (rows, 2d)
//                 for each sentence searched at the same time. They are computed once and shared by
//                 all hypotheses of the sentence
//
// A token is the decoder's half of >>forward over the live rows, one new token each, with this
// cache. Then the beam of every sentence chooses (>>beam), and the rows are put in order again
// (>>next-rows). All of this is on the device: the host only starts tokens, and reads from time to
// time which sentences still live. The beam of a finished sentence comes to the host, which reads
// its answers. A waiting one takes its area of memory and its rows. Memory fits the largest call.
// -----------------------------------------------------------------------------------------------

/* What host and device exchange about a round of searches. Each has one, in the same layout: live
   and progress go to the host, the rest to the device. */
typedef struct trf__searches {
    int32_t *live;                              /* place indices of sentences still searched */
    trf__progress *progress;
    trf__arrival *arrivals;
    int32_t *slots;                             /* (models, places * area) slot in memory of each
                                                   row of new sources */
    int32_t *prefixes;                          /* (places, length) */
} trf__searches;

/* A sentence of a call: its number, where its prefix begins, its length for sorting. */
typedef struct trf__pending { int64_t prefix; int32_t sentence, length; } trf__pending;

/* The phrases of a call (>>required): of each sentence, and the memory into which they point. */
typedef struct trf__required {
    int32_t ids[TRF__MAX_PHRASE_IDS], lengths[TRF__MAX_PHRASE_IDS], n_ids;  /* trf_search.phrases */
    trf__phrases *of; int64_t of_capacity, n_of;        /* of each sentence of the call, or one of
                                                           all, or none */
    trf__phrase *each; int64_t each_capacity, n_each;
    trf__unit *units; int64_t units_capacity, n_units;
    int32_t *symbols; int64_t symbols_capacity;
    char *text; int64_t text_capacity;          /* a phrase behind a blank, and its NUL */
    trf__text_ids cut;                          /* its tokens */
    void *device; int64_t device_bytes;         /* a copy of each, units and symbols */
    int32_t *entries; int64_t n_entries;        /* what target ids write: a hash table of ids + 1 or
                                                   0, in whose block are */
    int32_t *ends; char *texts;                 /* where each text ends, and all texts */
    int32_t longest;
    void *writes; size_t writes_bytes;          /* ends and texts on the device */
} trf__required;

/* The two arenas of a search, besides the activations of its pass. Three sizes determine both. */
typedef struct trf__hypotheses {
    int64_t n_places, length, area;     /* of this round: sentences at a time; most tokens read;
                                   rows of a source */
    int64_t n_rows;             /* n_places * beam */
    char *arena, *device_arena;
    size_t bytes, device_bytes;
    /* on the device */
    trf__cache caches[TRF_MAX_MODELS];  /* (layers, length * n_rows, 2d) and (layers, n_places *
                                   area, 2d) */
    trf_real *mixed, *logits;   /* (n_rows, vocab) of several models (>>ensemble) */
    int32_t *backpointers[2];   /* (n_rows, length), of this token and of the next */
    trf__lists lists;           /* (n_rows) what the next token reads */
    void *top_scratch;
    double *rest;               /* (rows) trf__top, or NULL */
    char *found;                /* log-probabilities, if there is a penalty those after it, and ids
                                   of the candidates of all rows */
    trf__rules rules;           /* the translator's, with lists for all rows */
    trf__searches there;
    trf__beam *beams;           /* per place, like their memory and sources */
    char *beam_memory;          /* beam_bytes each */
    size_t beam_bytes;
    trf__span *sources;         /* (models, places) */
    int32_t *starts;            /* first row of each live sentence */
    /* on the host */
    trf__searches here;
    trf__beam *beams_read;      /* beams and beam_memory of finished sentences, from a device */
    char *memory_read;
    int32_t *sentence, *alive;  /* per place: its sentence or -1; whether that is still searched */
    int32_t *ids, *lengths;     /* of new sources: (models, places * area) and (models, places) */
} trf__hypotheses;

struct trf_translator {
    trf_reader reader;
    trf_search search;
    double ratio;                               /* "trained.ratio" of the model, or 0 */
    trf__rules rules;                           /* without lists for rows */
    void *banned; int64_t n_banned;             /* ids on the device, into which they point */
    trf__required required;
    int32_t n_choices;                          /* tokens that no rule bans in every row */
    trf__hypotheses hypotheses;
    /* results of the last call */
    trf_hypothesis *answers; int64_t answers_capacity;  /* n_best for each sentence */
    int32_t *n_answers; int64_t n_answers_capacity;
    int32_t *ids; int64_t ids_capacity, n_ids;          /* n ids and one more for each answer; */
    double *own; int64_t own_capacity;                  /* their log-probabilities likewise */
    int64_t *first_id; int64_t first_id_capacity;       /* index of a sentence's first id */
    trf__text_ids text[TRF_MAX_MODELS];                 /* the source of trf_translate_text */
    trf__pending *pending; int64_t pending_capacity;    /* the sentences of the call */
    int64_t *source_at; int64_t source_capacity;        /* (models, sentences) where their ids
                                                           begin; of one, if all have the same */
    const void **order; int64_t order_capacity;         /* the same, longest first */
    int32_t n_sentences;
};

// >>search-rules   the rules about tokens, as a translator and a sampler hold them
//
// Banned sequences are copied when a translator or a sampler is created, a translator's to the
// device. The lists of rows come from >>hypotheses.

/* Number of ids of sequences of known lengths. */
TRF__FN int64_t trf__total_ids(const trf_sequences *x)
{
    int64_t total = 0;
    for (int32_t i = 0; i < x->count; i++) total += x->lengths[i];
    return total;
}

/* Counts banned sequences. Those of one id are alone. */
TRF__FN void trf__count_banned(trf__rules *r, const trf_sequences *banned)
{
    int32_t i;
    for (r->n_alone = i = 0; i < banned->count; i++) r->n_alone += banned->lengths[i] == 1;
    r->n_sequences = banned->count - r->n_alone;
}

/* Tokens of the phrases of a search, at most: one that lies in others occurs there too. */
TRF__FN int32_t trf__phrase_tokens_most(const trf_sequences *x)
{
    int64_t total = 0, k = 0, j;
    int32_t b;
    for (int32_t a = 0; a < x->count; k += x->lengths[a++])
        for (b = 0, j = 0; b < x->count; j += x->lengths[b++])
            for (int32_t i = 0; i + x->lengths[a] <= x->lengths[b]; i++)
                if (!memcmp(x->ids + k, x->ids + j + i, (size_t)x->lengths[a] * sizeof *x->ids))
                    total += x->lengths[a];
    return (int32_t)total;
}

/* The rules of a search about the next token, without their lists. */
TRF__FN trf__rules trf__rules_of(const trf_search *s)
{
    TRF__ZEROED(trf__rules, r);
    trf__count_banned(&r, &s->banned);
    r.phrases.n = s->phrases.count;
    r.n_phrase_next = (int32_t)trf__min64(2 * (int64_t)r.phrases.n, TRF__MAX_PHRASE_NEXT);
    r.phrases.total = trf__phrase_tokens_most(&s->phrases);
    r.ngram = s->no_repeat_ngram;
    r.penalty = s->repetition_penalty;
    r.greedy = s->beam == 1;
    return r;
}

/* The same with lists for n rows, whose histories have up to `length` ids. None is banned twice. */
TRF__FN trf__rules trf__take_rules(trf__cursor *cursor, const trf__rules *rules, int64_t n,
                                   int64_t length, int64_t vocab)
{
    trf__rules r = *rules;
    int64_t banned = (r.ngram > 0 ? length : 0) + r.n_sequences;
    r.history = banned > 0 || r.penalty != 1 ? (int32_t)length : 0;
    r.stride = (int32_t)(r.history + trf__min64(banned, vocab));
    if (r.stride) {
        r.ids = (int32_t *)trf__take(cursor, n, trf__bytes(r.stride, sizeof(int32_t)));
        r.counts = TRF__TAKE(int32_t, cursor, 2 * n);
    }
    if (r.stride + r.n_alone)
        r.kept = trf__take_reals(cursor, n, (int64_t)r.stride + r.n_alone);
    if (r.n_phrase_next) {
        r.phrase_next = TRF__TAKE(int32_t, cursor, n * r.n_phrase_next);
        r.phrase_next_scores = trf__take_reals(cursor, n, r.n_phrase_next);
    }
    return r;
}

TRF__FN int trf__by_id(const void *context, const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    (void)context;
    return x < y ? -1 : x > y;
}

/* Bytes of n banned ids and of the ends of their sequences. */
TRF__FN size_t trf__banned_bytes(const trf__rules *r, int64_t n)
{
    return trf__bytes(n + r->n_sequences, sizeof(int32_t));
}

/* The ids that are never chosen, -1 for none: pad; bos if the decoder reads it first; and unk if it
   is banned; but none that ends answers. Returns how many there are. */
TRF__FN int32_t trf__never(const trf_config *c, int ban_unk, const trf_ends *ends, int32_t ids[3])
{
    int32_t n = 0;
    ids[0] = c->pad;
    ids[1] = trf__bos_read_first(c);
    ids[2] = ban_unk ? c->unk : -1;
    for (int32_t i = 0; i < 3; i++) {
        if (trf__is_end(c->eos, ends, ids[i])) ids[i] = -1;
        n += ids[i] >= 0;
    }
    return n;
}

/* Rows for which the largest product, that with the vocabulary's matrix, takes about half a second.
   The cancel hook is called between products, so this bounds its delay. GPUs are fast enough. */
TRF__FN double trf__rows_at_a_time(const trf_config *c)
{
    double vocab = c->source_vocab;
    if (c->target_vocab > vocab) vocab = c->target_vocab;
    if (c->n_labels > vocab) vocab = c->n_labels;
    return c->device.kind == TRF_DEVICE_CPU ? 5e9 / (vocab * c->d_model) : 1e18;
}

/* The options as a search runs: with candidates for every end of each row and `beam` others. */
TRF__FN trf_search trf__running(const trf_config *c, const trf_search *search, int32_t models)
{
    trf_search s = *search;
    TRF__ZERO(s.ends);                  /* the different ones without EOS */
    for (int32_t i = 0; i < search->ends.n; i++)
        if (search->ends.ids[i] != c->eos)
            s.ends.n = trf__add_once(s.ends.ids, s.ends.n, search->ends.ids[i]);
    if (models > 1 && s.ensemble.rule == TRF_ENSEMBLE_GEOMETRIC) s.renormalize_logits = 0;
    if (s.candidates > 1) s.candidates = (int32_t)trf__max64(s.candidates, 2 + s.ends.n);
    /* each sentence has `beam` rows in a product with the vocabulary's matrix */
    if (!s.max_sentences)
        s.max_sentences = (int32_t)trf__clamp(trf__clamp(trf__rows_at_a_time(c), 1, 512) / s.beam,
                                              1, 32);
    return s;
}

/* Lists banned sequences: the ids that stand alone, sorted and each once, then sequences, then
   their ends. `there` is where the list will be. */
TRF__FN void trf__list_banned(trf__rules *r, const trf_sequences *x, int32_t *ids,
                              const int32_t *there)
{
    int64_t n = trf__total_ids(x), at = 0, to = r->n_alone;
    int32_t n_alone = 0, n_sequences = 0, i;
    for (i = 0; i < x->count; at += x->lengths[i++]) {
        if (x->lengths[i] == 1) { ids[n_alone++] = x->ids[at]; continue; }
        memcpy(ids + to, x->ids + at, (size_t)x->lengths[i] * sizeof *ids);
        to += x->lengths[i];
        ids[n + n_sequences++] = (int32_t)(to - r->n_alone);
    }
    trf__sort_items(ids, (size_t)n_alone, sizeof *ids, trf__by_id);
    r->alone = there;
    r->sequences = there + r->n_alone;
    r->ends = there + n;
    for (r->n_alone = i = 0; i < n_alone; i++)
        if (i == 0 || ids[i] != ids[r->n_alone - 1]) ids[r->n_alone++] = ids[i];
}

/* Copies banned sequences to the device. */
TRF__FN trf_status trf__ban(trf_translator *t, const trf_sequences *x, trf_error *err)
{
    const trf_config *c = &t->reader.ensemble.config;
    const trf__run *run = &t->reader.pass.run;
    trf__rules *r = &t->rules;
    int64_t n = trf__total_ids(x);
    size_t bytes = trf__banned_bytes(r, n);
    int32_t never[3];
    t->n_choices = c->target_vocab - trf__never(c, t->search.ban_unk, &t->search.ends, never);
    if (n == 0) return TRF_OK;
    t->n_banned = n;
    t->banned = run->backend->alloc(run, bytes);
    int32_t *ids = (int32_t *)trf__alloc(&run->hooks, bytes);
    trf_status status = TRF__OK_IF(t->banned && ids, TRF_E_NOMEM, -1, "banned",
                                   "no memory for %lld banned ids", (long long)n);
    if (status == TRF_OK) {
        trf__list_banned(r, x, ids, (const int32_t *)t->banned);
        for (int32_t i = 0; i < r->n_alone; i++)
            t->n_choices -= ids[i] != never[0] && ids[i] != never[1] && ids[i] != never[2];
        run->backend->upload(run, t->banned, ids, bytes);
        status = run->backend->sync(run, err);
    }
    trf__free(&run->hooks, ids, bytes);
    return status;
}

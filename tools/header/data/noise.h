#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/vocab.h"
#include "api/batch.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "text/vocab.h"
#include "text/pieces.h"
#include "text/byte_bpe.h"
#include "text/vocab_use.h"
#include "model/checks.h"
#include "model/params.h"
#include "data/corpus.h"

// -----------------------------------------------------------------------------------------------
// >>noise          batches for self-supervised training: masks, spans, prefixes
//
// trf_noise_kind defines the rules. A sequence draws its numbers in order under a key of its own,
// made from seed, place and ordinal: noise does not depend on how a batch is split. Neither side
// of the result has more ids than the sequence, so one block serves the whole batch:
//
//   source ids (n), target ids (n), their lengths (count each), scratch for one sequence (longest)
// -----------------------------------------------------------------------------------------------

enum { TRF__NOISE_EPOCH = 0x7D000000, TRF__NOISE_BATCH, TRF__NOISE_SEQUENCE, TRF__NOISE_ORDER,
      TRF__NOISE_DRAW };

struct trf_noise {
    trf_noise_options options;
    int32_t *numbers;
    int64_t capacity;
};

/* A sequence, its two sides with noise, and its random numbers. work is scratch. */
typedef struct trf__noisy {
    const int32_t *ids;
    int32_t *source, *target, *work;
    int32_t n, n_source, n_target;
    trf__draws draws;
} trf__noisy;

/* Whether `id` begins a word when it follows `last`; last = -1: nothing precedes it. */
TRF__FN int trf__begins_word(const trf_vocab *v, int32_t last, int32_t id)
{
    const char *token = trf_vocab_token(v, id), *before = trf_vocab_token(v, last);
    size_t blank = strlen(TRF__SPACE);
    if (!token || !before || v->kind == TRF_WORDS) return 1;
    if (v->kind == TRF_CHARACTERS) return trf__is_blank(*token) || trf__is_blank(*before);
    if (v->wordpiece) return strncmp(token, "##", 2) != 0;
    if (v->byte_bpe) return !strncmp(token, TRF__BYTE_SPACE, strlen(TRF__BYTE_SPACE));
    if (!v->pieces->suffix) return *token == ' ' || !strncmp(token, TRF__SPACE, blank);
    size_t n = strlen(before);
    if (n == 0) return 1;               /* no token has this id */
    return before[n - 1] == ' ' || (n >= blank && !strcmp(before + n - blank, TRF__SPACE));
}

/* A random id that a text may contain, or `own` if the draw is a special id. */
TRF__FN int32_t trf__noise_random(const trf_noise_options *o, trf__noisy *x, int32_t own)
{
    int32_t id = 4 + (int32_t)trf__draw_below(&x->draws, (uint64_t)o->vocab - 4);
    if (id == o->pad || id == o->bos || id == o->eos) return own;
    for (int which = 0; which < TRF_SPECIAL_COUNT; which++)
        if (trf_vocab_special(o->words, (trf_special)which) == id) return own;
    return id;
}

/* Whether id i of a sequence begins a word: EOS is one by itself. */
TRF__FN int trf__noise_word(const trf_noise_options *o, const trf__noisy *x, int32_t i)
{
    return i == 0 || x->ids[i] == o->eos || x->ids[i - 1] == o->eos ||
        trf__begins_word(o->whole_words ? o->words : NULL, x->ids[i - 1], x->ids[i]);
}

/* Masked tokens: whole words are chosen in random order until `wanted` tokens are. A word longer
   than the rest is skipped, except that one word at least is chosen. Targets of -1 have no loss. */
TRF__FN void trf__noise_masks(const trf_noise_options *o, trf__noisy *x)
{
    int32_t wanted = (int32_t)trf__max64(1, (int64_t)rint(o->density * x->n)), n_words = 0, n = 0,
        w, i;
    for (i = 0; i < x->n; i++) {
        x->source[i] = x->ids[i];
        x->target[i] = -1;
        if (x->ids[i] != o->eos && trf__noise_word(o, x, i)) x->work[n_words++] = i;
    }
    trf__shuffle(x->work, n_words, x->draws.key, TRF__NOISE_ORDER);
    /* work has the first positions of all words */
    for (w = 0; w < n_words && n < wanted; w++) {
        int32_t end = x->work[w] + 1;
        while (end < x->n && !trf__noise_word(o, x, end)) end++;
        if (end - x->work[w] > wanted - n && (n > 0 || w + 1 < n_words)) continue;
        for (i = x->work[w]; i < end; i++, n++) {
            /* one draw decides: below `masked` a mask, then a random token, else the id itself */
            double chance = trf__uniform(x->draws.key, x->draws.stream, x->draws.next++) -
                o->masked;
            x->target[i] = x->ids[i];
            if (chance < 0) x->source[i] = o->mask;
            else if (chance < o->randomised) x->source[i] = trf__noise_random(o, x, x->ids[i]);
        }
    }
    x->n_source = x->n_target = x->n;
}

/* Cuts `items` into `pieces` parts of one item or more. At each possible cut, the chance is the
   number of cuts left over that of possible ones (Knuth's algorithm S): all are as likely. */
TRF__FN void trf__noise_cut(trf__draws *draws, int32_t *lengths, int64_t items, int64_t pieces)
{
    uint64_t cuts = (uint64_t)pieces - 1;
    int32_t length = 1;
    for (uint64_t left = (uint64_t)items - 1; left > 0; left--, length++)
        if (trf__draw_below(draws, left) < cuts) { *lengths++ = length; length = 0; cuts--; }
    *lengths = length;
}

/* Spans of noise and plain text alternate, plain text first. A sentinel replaces each span in the
   source and precedes its ids in the target. As many spans as plain parts: none is empty. */
TRF__FN void trf__noise_spans(const trf_noise_options *o, trf__noisy *x)
{
    int64_t k = trf__min64(trf__max64(1, (int64_t)rint(o->density * x->n)), x->n - 1),
        plain = x->n - k;
    int64_t spans = trf__max64(1, (int64_t)rint((double)k / o->mean_span));
    const int32_t *from = x->ids;
    spans = trf__min64(spans, trf__min64(trf__min64(k, plain), o->n_sentinels));
    trf__noise_cut(&x->draws, x->work, k, spans);
    trf__noise_cut(&x->draws, x->work + spans, plain, spans);
    for (int64_t s = 0; s < spans; s++) {
        for (int64_t i = x->work[spans + s]; i > 0; i--) x->source[x->n_source++] = *from++;
        x->source[x->n_source++] = x->target[x->n_target++] = o->first_sentinel + (int32_t)s;
        for (int64_t i = x->work[s]; i > 0; i--) x->target[x->n_target++] = *from++;
    }
}

/* The first `cut` ids are the source, the others the target. */
TRF__FN void trf__noise_prefix(trf__noisy *x, int32_t cut)
{
    for (; x->n_source < cut; x->n_source++) x->source[x->n_source] = x->ids[x->n_source];
    for (; cut + x->n_target < x->n; x->n_target++)
        x->target[x->n_target] = x->ids[cut + x->n_target];
}

// >>noise-batches  options, checks, and the batches that are made

TRF_API trf_noise_options trf_noise_defaults(void)
{
    TRF__ZEROED(trf_noise_options, o);
    o.density = 0.15;
    o.masked = 0.8;
    o.randomised = 0.1;
    o.mean_span = 3;
    o.bos = 1;
    o.eos = 2;
    return o;
}

TRF__COLD
TRF__FN trf_status trf__noise_check(const trf_noise_options *o, trf_error *err)
{
    TRF__TRY(trf__begin(o, "options", err));
    /* bounds may depend on the kind */
    int masks = o->kind == TRF_NOISE_MASKS, spans = o->kind == TRF_NOISE_SPANS;
    TRF__RANGE(o, kind, 0, TRF_NOISE_COUNT - 1);
    TRF__RANGE(o, density, 0, 1);
    TRF__RANGE(o, masked, 0, 1);
    TRF__RANGE(o, randomised, 0, 1);
    TRF__RANGE(o, keep_label, 0, masks);
    TRF__RANGE(o, whole_words, 0, masks);
    TRF__RANGE(o, mean_span, 1, 1e6);
    TRF__RANGE(o, vocab, masks ? 5 : 0, 1 << 24);
    TRF__RANGE(o, mask, 0, masks ? o->vocab - 1 : 1 << 24);
    TRF__RANGE(o, pad, -1, 1 << 24);
    TRF__RANGE(o, bos, -1, 1 << 24);
    TRF__RANGE(o, eos, 0, 1 << 24);
    TRF__RANGE(o, first_sentinel, spans ? TRF__SPECIALS : 0, 1 << 24);
    TRF__RANGE(o, n_sentinels, spans, 1 << 24);
    TRF__TRY(trf__check_range("masked + randomised", o->masked + o->randomised, 0, 1, err));
    if (o->words && !o->words->finished) return trf__fail_learning(err);
    return trf__hooks_check(&o->hooks, err);
}

TRF__COLD
TRF_API trf_status trf_noise_create(trf_noise **noise, const trf_noise_options *options,
                                    trf_error *err)
{
    trf_noise_options o = options ? *options : trf_noise_defaults();
    TRF__BEGIN_NEW(noise);
    TRF__TRY(trf__noise_check(&o, err));
    TRF__ALLOC_ZEROED(trf_noise, *noise, &o.hooks, 1, "noise", "for a noise generator");
    (*noise)->options = o;
    return TRF_OK;
}

TRF_API void trf_noise_destroy(trf_noise *noise)
{
    if (!noise) return;
    trf_hooks hooks = noise->options.hooks;
    TRF__FREE(&hooks, noise->numbers, noise->capacity);
    trf__free(&hooks, noise, sizeof *noise);
}

/* Checks the ids of sequence number i, which begins at index `at` of the batch's ids. */
TRF__FN trf_status trf__noise_check_ids(const trf_noise_options *o, const trf__noisy *x, int64_t at,
                                        int64_t i, trf_error *err)
{
    int32_t below = o->kind == TRF_NOISE_MASKS ? o->vocab : INT32_MAX;
    int32_t first = o->first_sentinel, sentinels = o->kind == TRF_NOISE_SPANS ? o->n_sentinels : 0;
    for (int32_t k = 0; k < x->n; k++) {
        int32_t id = x->ids[k], sentinel = id >= first && id - first < sentinels;
        TRF__FAIL_IF(id < 0 || id >= below || sentinel, TRF_E_INVALID_ARG, at + k, "source",
                     "source sequence %lld, position %d: expected an id of 0 or more, below %d%s, "
                     "got %d", (long long)i, k, below, sentinel ? ", and not a sentinel" : "", id);
    }
    return TRF_OK;
}

TRF__FN void trf__noise_add(const trf_noise_options *o, trf__noisy *x)
{
    if (o->kind == TRF_NOISE_MASKS) trf__noise_masks(o, x);
    /* a sequence of one id has nothing to predict: it stays whole as the source */
    else if (x->n < 2) trf__noise_prefix(x, x->n);
    else if (o->kind == TRF_NOISE_SPANS) trf__noise_spans(o, x);
    else trf__noise_prefix(x, 1 + (int32_t)trf__draw_below(&x->draws, (uint64_t)x->n - 1));
}

/* With keep_label each plain target must be one label. */
TRF__FN trf_status trf__noise_check_labels(const trf_noise_options *o, const trf_batch *batch,
                                           trf_error *err)
{
    const trf_sequences *x = &batch->target;
    int32_t count = batch->source.count;
    if (!o->keep_label) return TRF_OK;
    TRF__FAIL_IF(x->count != count, TRF_E_INVALID_ARG, -1, "target",
                 "source has %d sequence%s, but target has labels for %d", count,
                 trf__plural(count), x->count);
    if (count > 0 && (!x->lengths || !x->ids)) return trf__fail_null(err, "target");
    for (int32_t i = 0; i < count; i++)
        TRF__FAIL_IF(x->lengths[i] != 1, TRF_E_INVALID_ARG, i, "target",
                     "target sequence %d must have 1 label, got %d", i, x->lengths[i]);
    return TRF_OK;
}

TRF_API trf_status trf_noise_apply(trf_noise *noise, const trf_batch *plain, trf_batch *made,
                                   trf_error *err)
{
    int32_t i;
    int64_t n = 0, longest = 0;
    TRF__ZEROED(trf_batch, batch);
    TRF__ZEROED(trf__noisy, x);
    if (plain) batch = *plain;
    if (made) TRF__ZERO(*made);
    TRF__TRY(trf__begin(noise, "noise", err));
    if (!plain) return trf__fail_null(err, "plain");
    if (!made) return trf__fail_null(err, "made");
    const trf_noise_options *o = &noise->options;
    TRF__TRY(trf__check_lengths(&batch.source, 0, INT32_MAX - o->keep_label, "source", &n, &longest,
                                err));
    TRF__TRY(trf__noise_check_labels(o, &batch, err));
    int64_t labels = o->keep_label ? batch.source.count : 0;
    TRF__GROW(int32_t, noise->numbers, noise->capacity, 2 * n + labels +
              2 * (int64_t)batch.source.count + longest, &o->hooks);
    int32_t *lengths = noise->numbers + 2 * n + labels;
    x.source = noise->numbers;
    x.target = noise->numbers + n;
    x.work = lengths + 2 * (int64_t)batch.source.count;
    uint64_t key = trf__random64(o->seed, TRF__NOISE_EPOCH, (uint64_t)batch.place.epoch);
    key = trf__random64(key, TRF__NOISE_BATCH, (uint64_t)batch.place.batch);
    for (int64_t at = i = 0; i < batch.source.count; i++, at += x.n) {
        x.n = batch.source.lengths[i];
        x.ids = x.n ? batch.source.ids + at : NULL;
        x.n_source = x.n_target = 0;
        x.draws.key = trf__random64(key, TRF__NOISE_SEQUENCE, (uint64_t)batch.ordinal +
                                    (uint64_t)i);
        x.draws.next = 0;
        x.draws.stream = TRF__NOISE_DRAW;
        TRF__TRY(trf__noise_check_ids(o, &x, at, i, err));
        if (o->keep_label) *x.target++ = batch.target.ids[i];
        trf__noise_add(o, &x);
        lengths[i] = x.n_source;
        lengths[batch.source.count + i] = x.n_target + o->keep_label;
        x.source += x.n_source;
        x.target += x.n_target;
    }
    /* ids of both sides are packed from the beginnings of their halves */
    batch.target.count = batch.source.count;
    batch.source.ids = noise->numbers;
    batch.target.ids = noise->numbers + n;
    batch.source.lengths = lengths;
    batch.target.lengths = lengths + batch.source.count;
    *made = batch;
    return TRF_OK;
}

#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/vocab.h"
#include "api/learn.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "text/vocab_use.h"
#include "learn/recipe.h"

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

/* FNV-1a's basis without its last digit, by mistake. It must stay: the hashes decide which pairs
   are held out, in resumed runs too. */
#define TRF__HASH_BASIS 1469598103934665603u

/* FNV-1a but for its basis, with the upper bits mixed into the lower ones. */
TRF__FN uint64_t trf__hash_text(const char *text)
{
    uint64_t hash = TRF__HASH_BASIS;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* Whether a text is in the tenth that stands for new text. Its hash decides: all copies of a text
   are on one side, and data with a period of five or ten lines are sampled evenly. */
TRF__FN int trf__is_tenth(uint64_t hash) { return trf__random_of(hash) % 10 == 5; }

TRF__FN int trf__by_number(const void *context, const void *a, const void *b)
{
    (void)context;
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The different texts of the tenth. */
typedef struct trf__tenth_line { uint64_t hash; int64_t line; } trf__tenth_line;
typedef struct trf__tenth {
    trf__tenth_line *items;
    int64_t n, capacity, copies;        /* copies: texts of the tenth, equal ones included */
} trf__tenth;

TRF__FN trf_status trf__tenth_add(trf__tenth *s, uint64_t hash, int64_t line,
                                   const trf_hooks *hooks, trf_error *err)
{
    TRF__GROW(trf__tenth_line, s->items, s->capacity, s->n + 1, hooks);
    s->items[s->n].hash = hash;
    s->items[s->n++].line = line;
    return TRF_OK;
}

/* Leaves one of equal texts. */
TRF__FN void trf__tenth_finish(trf__tenth *s)
{
    int64_t n = 0;
    s->copies = s->n;
    trf__sort_items(s->items, (size_t)s->n, sizeof *s->items, trf__by_number);
    for (int64_t i = 0; i < s->n; i++)
        if (i == 0 || s->items[i].hash != s->items[i - 1].hash) s->items[n++] = s->items[i];
    s->n = n;
}

typedef struct trf__words {
    int64_t tokens, unknown;            /* of the tenth; unknown: not in the other lines */
    int64_t all;                        /* words of all lines, about */
    int64_t characters;                 /* of all lines */
    int64_t spaced;                     /* lines whose blanks words do not keep */
    int32_t distinct;                   /* different words of the other lines */
} trf__words;

/* Whether a line is more than words with one blank between them: code with indentation, a table. */
TRF__FN int trf__is_spaced(const char *line)
{
    for (const char *c = line; *c; c++)
        if (*c == '\t' || (*c == ' ' && (c == line || c[-1] == ' ' || !c[1]))) return 1;
    return 0;
}

/* Learns the words of nine tenths of the lines, and finds the lines of the tenth. */
TRF__FN trf_status trf__learn_words(trf__words *w, trf_vocab *vocab, trf__tenth *sample,
                                    const char *const *lines, int64_t n, trf_error *err)
{
    for (int64_t line = 0; line < n; line++) {
        uint64_t hash = trf__hash_text(lines[line]);
        const char *c = lines[line];
        /* every byte that is not a continuation of UTF-8 begins a character */
        for (; *c; c++) w->characters += ((unsigned char)*c & 0xC0) != 0x80;
        w->spaced += trf__is_spaced(lines[line]);
        trf_status status = !trf__is_tenth(hash) ? trf_vocab_learn(vocab, lines[line], err)
                          : trf__tenth_add(sample, hash, line, &vocab->hooks, err);
        /* TRF_E_LIMIT: a word too long for a vocabulary */
        if (status != TRF_OK && status != TRF_E_LIMIT) return status;
    }
    trf__tenth_finish(sample);
    return trf_vocab_finish(vocab, INT32_MAX, 1, err);
}

/* Counts the words of one side. Copies of a line say nothing about new text: they count once. The
   vocabulary of the nine tenths is the caller's to destroy. */
TRF__COLD
TRF__FN trf_status trf__count_words(trf__words *w, trf_vocab **vocab, const char *const *lines,
                                    int64_t n, const trf_hooks *hooks, trf_error *err)
{
    TRF__TRY(trf_vocab_create(vocab, TRF_WORDS, hooks, err));
    TRF__ZEROED(trf__text_ids, ids);
    TRF__ZEROED(trf__tenth, sample);
    memset(w, 0, sizeof *w);
    trf_status status = trf__learn_words(w, *vocab, &sample, lines, n, err);
    for (int64_t k = 0; k < sample.n && status == TRF_OK; k++) {
        status = trf__encode_all(*vocab, lines[sample.items[k].line], &ids, &(*vocab)->hooks, err);
        if (status == TRF_E_LIMIT || status == TRF_E_FORMAT) { status = TRF_OK; continue; }
        w->tokens += ids.n;
        for (int32_t i = 0; !status && i < ids.n; i++) w->unknown += ids.ids[i] == TRF__UNK;
    }
    TRF__FREE(&(*vocab)->hooks, sample.items, sample.capacity);
    TRF__FREE(&(*vocab)->hooks, ids.ids, ids.capacity);
    if (status != TRF_OK) return status;
    w->distinct = trf_vocab_size(*vocab) - TRF__SPECIALS;
    w->all = w->tokens * 10;
    return TRF_OK;
}

/* About how many of n pairs differ: those of the tenth are compared. */
TRF__COLD
TRF__FN trf_status trf__count_different(const char *const *source, const char *const *target,
                                        int64_t n, int64_t *different, const trf_hooks *hooks,
                                        trf_error *err)
{
    trf_status status = TRF_OK;
    TRF__ZEROED(trf__tenth, sample);
    for (int64_t i = 0; i < n && status == TRF_OK; i++) {
        uint64_t hash = trf__hash_text(source[i]) * 3 + trf__hash_text(target[i]);
        if (trf__is_tenth(hash)) status = trf__tenth_add(&sample, hash, i, hooks, err);
    }
    trf__tenth_finish(&sample);
    *different = sample.n == sample.copies ? n
               : (int64_t)((double)n * (double)sample.n / (double)sample.copies);
    TRF__FREE(hooks, sample.items, sample.capacity);
    return status;
}

// >>token-kinds    words, characters or subwords, one vocabulary or two

/* Whether the model must write blanks that words lose: in over a hundredth of the targets. */
TRF__FN int trf__writes_blanks(const trf__words *w, int64_t lines, int side)
{
    return side && (double)w->spaced > 0.01 * (double)lines;
}

/* The kind of tokens for one side. Words are the choice if there is too little text to tell. */
TRF__FN trf_tokens trf__tokens_for(const trf__words *w, int64_t lines, int side)
{
    int known = w->tokens == 0 || (double)w->unknown <= 0.02 * (double)w->tokens;
    if (known && !trf__writes_blanks(w, lines, side)) return TRF_TOKENS_WORDS;
    if ((double)w->all < 2 * (double)lines || (double)w->characters < 24 * (double)lines)
        return TRF_TOKENS_CHARACTERS;
    return TRF_TOKENS_SUBWORDS;
}

/* Decides the sides that the caller left open, so that both fit together. */
TRF__COLD
TRF__FN void trf__choose_kinds(trf_token_choice *choice, const trf__words w[2], const int there[2],
                               int64_t lines)
{
    trf_tokens *t = choice->tokens;
    int decided[2];
    for (int side = 0; side < 2; side++) {
        decided[side] = t[side] == TRF_TOKENS_AUTO && there[side];
        if (decided[side]) t[side] = trf__tokens_for(&w[side], lines, side);
    }
    for (int side = 0; side < 2; side++)    /* a language of many words, beside one of subwords */
        if (decided[side] && there[!side] && t[side] == TRF_TOKENS_WORDS &&
            t[!side] == TRF_TOKENS_SUBWORDS && w[side].distinct > 1000)
            t[side] = TRF_TOKENS_SUBWORDS;
    if (decided[0] && decided[1] && t[0] != t[1] && choice->vocabularies == 1)      /* must agree */
        t[0] = t[1] = t[0] == TRF_TOKENS_SUBWORDS || t[1] == TRF_TOKENS_SUBWORDS
                    ? TRF_TOKENS_SUBWORDS : TRF_TOKENS_CHARACTERS;
    for (int side = 0; side < 2; side++) {
        choice->would_be_subwords[side] = 0;
        if (decided[side] && t[side] == TRF_TOKENS_SUBWORDS && choice->no_subwords) {
            int spaced = trf__writes_blanks(&w[side], lines, side);
            t[side] = spaced ? TRF_TOKENS_CHARACTERS : TRF_TOKENS_WORDS;
            choice->would_be_subwords[side] = !spaced;
        }
        choice->unknown[side] = w[side].tokens == 0 ? NAN
                              : 100.0 * (double)w[side].unknown / (double)w[side].tokens;
    }
}

/* One vocabulary or two, and their sizes. Sides with many words in common share one: names and
   numbers are then the same ids. There is a subword for 25 words of text, so that each is seen
   often enough. What is only read may have more: nothing chooses among them. */
TRF__FN void trf__choose_sizes(trf_token_choice *choice, const trf__words w[2], int32_t shared)
{
    if (!choice->vocabularies) {
        int one = choice->tokens[0] == choice->tokens[1] &&
                  choice->vocab_size[0] == choice->vocab_size[1] &&
                  (choice->tokens[0] == TRF_TOKENS_SUBWORDS ||
                   (w[1].distinct > 0 && shared >= 0.25 * w[1].distinct));
        choice->vocabularies = one ? 1 : 2;
    }
    for (int side = 0; side < 2; side++) {
        int64_t words = choice->vocabularies == 1 ? w[0].all + w[1].all : w[side].all;
        if (!choice->vocab_size[side])
            choice->vocab_size[side] = choice->tokens[side] != TRF_TOKENS_SUBWORDS ? 32000
                : (int32_t)trf__clamp((double)words / 25, 500, choice->only_read ? 16000 : 8000);
    }
}

/* No line may be NULL. lines NULL: there are none. */
TRF__FN trf_status trf__check_lines(const char *const *lines, int64_t n, const char *what,
                                    trf_error *err)
{
    for (int64_t i = 0; lines && i < n; i++)
        TRF__FAIL_IF(!lines[i], TRF_E_INVALID_ARG, i, what, "line %lld of %s must not be NULL",
                     (long long)i, what);
    return TRF_OK;
}

/* The words of both sides are counted even if only one is open: each decides about the other. */
TRF__COLD
TRF_API trf_status trf_tokens_choose(trf_token_choice *choice, const char *const *source,
                                     const char *const *target,
                                     int64_t n, const trf_hooks *hooks, trf_error *err)
{
    const char *const *const lines[2] = {source, target};
    const int there[2] = {source != NULL, target != NULL};
    trf_vocab *vocab[2] = {NULL, NULL};
    trf__words w[2];
    trf_status status = TRF_OK;
    int32_t shared = 0;
    TRF__TRY(trf__begin(choice, "choice", err));
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    TRF__TRY(trf__check_lines(source, n, "source", err));
    TRF__TRY(trf__check_lines(target, n, "target", err));
    TRF__ZERO(w);
    for (int side = 0; side < 2 && status == TRF_OK; side++)
        if (there[side]) status = trf__count_words(&w[side], &vocab[side], lines[side], n, hooks,
                                                   err);
    if (status == TRF_OK) {
        for (int32_t i = TRF__SPECIALS; there[0] && there[1] && i < trf_vocab_size(vocab[1]); i++)
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
// A source should not be on both sides of the split. Hashes find the pairs that share a source.

/* Sorts by a hash of the number, which is a fixed shuffle. */
TRF__FN int trf__by_random(const void *context, const void *a, const void *b)
{
    (void)context;
    uint64_t x = trf__random_of(*(const uint64_t *)a), y = trf__random_of(*(const uint64_t *)b);
    return x < y ? -1 : x > y;
}

/* Counts a hash in a sorted array. */
TRF__FN int64_t trf__count_equal(const uint64_t *sorted, int64_t n, uint64_t hash)
{
    int64_t low = 0, count = 0;
    TRF__BISECT(low, n, sorted[middle] < hash);
    while (low + count < n && sorted[low + count] == hash) count++;
    return count;
}

/* Sources as hashes, and scratch. order: pairs in the order of picking; NULL: every k-th pair. */
typedef struct trf__picking {
    uint64_t *hashes, *sorted, *chosen, *order;
    int64_t n, frequent;
} trf__picking;

/* A source of five pairs or more is a frequent sentence, unless most pairs have such sources: then
   the data are repeated, and copies on both sides would only show what was memorised. Of fewer than
   twenty sources none can be spared. */
TRF__FN int64_t trf__frequent_from(const trf__picking *p)
{
    int64_t k, frequent = 0, sources = 0;
    for (int64_t i = 0; i < p->n; i += k, sources++) {
        for (k = 1; i + k < p->n && p->sorted[i + k] == p->sorted[i]; k++) { }
        if (k > 4) frequent += k;
    }
    return 2 * frequent > p->n && sources >= 20 ? INT64_MAX : 5;
}

/* Holds out the first `picks` pairs, and all pairs with the same sources: else validation would
   meet sources from training. Of a frequent source only the picked pair is held out. Returns the
   number of pairs held out. */
TRF__FN int64_t trf__pick(const trf__picking *p, int64_t picks, char *held)
{
    int64_t count = 0;
    size_t n_chosen = 0;
    memset(held, 0, (size_t)p->n);
    for (int64_t k = 0; k < picks; k++) {
        size_t i = p->order ? (size_t)p->order[k]
                 : (size_t)(((double)k + 0.5) * (double)p->n / (double)picks);
        if (held[i]) continue;
        held[i] = 1;
        if (trf__count_equal(p->sorted, p->n, p->hashes[i]) < p->frequent)
            p->chosen[n_chosen++] = p->hashes[i];
    }
    trf__sort_items(p->chosen, n_chosen, sizeof *p->chosen, trf__by_number);
    for (int64_t k = 0; k < p->n; k++) {
        if (!held[k])
            held[k] = trf__count_equal(p->chosen, (int64_t)n_chosen, p->hashes[k]) > 0;
        count += held[k];
    }
    return count;
}

/* Chooses the number of picks. If each source has three lines, 1,000 picks hold out 3,000 pairs, so
   a third of them is tried next. While nothing is left to learn from, picks shrink by a tenth. */
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

/* Sets held[i] to 1 for about `size` (0..n) of the n pairs, and to 0 for the others. size 0: a
   twentieth, at most 1,000. *count is the number of ones. If it is n, all pairs are held out and
   none is left to learn from.
   If a chosen pair shares its source with one to three others, all of them are held out, since a
   dictionary has several lines for a word. If five or more pairs share a source, only the chosen
   pair is held out. UNSEEN makes an exception where most pairs have such sources, of which there
   are at least twenty: it then holds out all pairs of a source. A data set of texts alone uses
   RANDOM instead, because a language model learns how often each line occurs. */
TRF__COLD
TRF__FN trf_status trf__hold_out(const char *const *sources, int64_t n, int64_t size,
                                 trf_hold_out_rule rule, char *held,
                                 int64_t *count, const trf_hooks *hooks, trf_error *err)
{
    trf__picking p;
    uint64_t *work;
    TRF__TRY(trf__begin(sources, "sources", err));
    if (!held) return trf__fail_null(err, "held");
    if (!count) return trf__fail_null(err, "count");
    *count = 0;
    if (n < 0) return trf__fail_below(err, "n", 0, n);
    TRF__FAIL_IF(size < 0 || size > n, TRF_E_INVALID_ARG, -1, "size",
                 "size must be 0 to n = %lld, got %lld", (long long)n, (long long)size);
    TRF__TRY(trf__check_range("rule", (double)rule, 0, TRF_HOLD_OUT_RULE_COUNT - 1, err));
    TRF__ZEROED(trf_hooks, none);
    if (!hooks) hooks = &none;
    TRF__TRY(trf__check_lines(sources, n, "sources", err));
    if (size == 0) size = n / 20 < 1000 ? n / 20 : 1000;
    TRF__ALLOC(uint64_t, work, hooks, 4 * n, "held", "to order %lld pairs", (long long)n);
    p.hashes = work; p.sorted = work + n; p.chosen = work + 2 * n; p.order = work + 3 * n;
    p.n = n;
    /* one block for four arrays: hashes in the order of pairs, sorted, chosen, and the order */
    for (int64_t i = 0; i < n; i++) {
        p.sorted[i] = p.hashes[i] = trf__hash_text(sources[i]);
        p.order[i] = (uint64_t)i;
    }
    trf__sort_items(p.sorted, (size_t)n, sizeof *p.sorted, trf__by_number);
    trf__sort_items(p.order, (size_t)n, sizeof *p.order, trf__by_random);
    if (rule == TRF_HOLD_OUT_EVERY_KTH) p.order = NULL;
    p.frequent = rule == TRF_HOLD_OUT_UNSEEN ? trf__frequent_from(&p) : 5;
    *count = trf__pick_some(&p, size, held);
    TRF__FREE(hooks, work, 4 * n);
    return TRF_OK;
}

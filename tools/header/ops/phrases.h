#pragma once
#include "base/impl.h"
#include "ops/ops.h"

// -----------------------------------------------------------------------------------------------
// >>phrases        what an answer has of the texts that it must contain
//
// A phrase is counted on the text of an answer, whatever the tokens that write it: each token feeds
// its bytes to an automaton (Knuth, Morris and Pratt 1977). Without texts a phrase is a sequence of
// ids, and a token is one unit.
//
//     phrase a b a c    back 0 0 1 0    units of x a b: 2, x a b a: 3, x a b a b: 2, x a b a c: 4
//
//   - Occurrences do not overlap: after one has ended, the next begins from nothing.
//   - Digits stand together: "10" does not occur in "100" or in "210". So an occurrence whose last
//     byte is a digit counts only if the next byte is none, and a phrase that begins with a digit
//     has a state -1: a digit was just read, and it cannot begin here.
//   - A symbol is a token that may stand only inside phrases: elsewhere it counts as one too many.
//
// trf__unit.next and rest say how a copy goes on from each byte of a phrase: a hypothesis that has
// written a part of it with tokens of its own can be continued too. They count no blank that digits
// may need before them.
// -----------------------------------------------------------------------------------------------

enum { TRF__MAX_PHRASE_IDS = 64, TRF__MAX_STAGES = 64, TRF__MAX_PHRASE_NEXT = 64 };

TRF__BOTH int trf__has_phrases(const trf__phrases *p) { return p->n > 0 || p->n_symbols > 0; }

/* Number of groups of a beam with such phrases (>>beam-groups). */
TRF__BOTH int32_t trf__n_groups(const trf__phrases *p)
{
    if (!trf__has_phrases(p)) return 1;
    return 3 + (p->total < TRF__MAX_STAGES ? p->total : (int32_t)TRF__MAX_STAGES);
}

TRF__BOTH int trf__is_digit(int32_t unit) { return unit >= '0' && unit <= '9'; }

/* How many units are met after one more, if `met` were before it, and not all: -1 behind a digit if
   the phrase begins with one. */
TRF__BOTH int32_t trf__phrase_after(const trf__unit *units, int bytes, int32_t met, int32_t unit)
{
    while (met > 0 && units[met].unit != unit) met = units[met - 1].back;
    if (met >= 0 && units[met].unit == unit) return met + 1;
    return bytes && trf__is_digit(unit) && trf__is_digit(units[0].unit) ? -1 : 0;
}

/* Reads one more unit. */
TRF__BOTH void trf__phrase_unit(const trf__phrases *p, const trf__phrase *f, trf__met *met,
                                int32_t unit)
{
    const trf__unit *units = p->units + f->begin, *last = units + f->n - 1;
    if (met->units == f->n) {
        int goes_on = f->bytes && trf__is_digit(last->unit) && trf__is_digit(unit);
        met->units = goes_on ? last->back : 0;
        met->times += !goes_on;
    }
    met->units = trf__phrase_after(units, f->bytes, met->units, unit);
}

/* Reads one more token; first: it begins the answer. Returns its number of units, without a blank
   before them. */
TRF__BOTH int32_t trf__phrase_token(const trf__phrases *p, const trf__phrase *f, trf__met *met,
                                    int32_t id, int first)
{
    if (!f->bytes) { trf__phrase_unit(p, f, met, id); return 1; }
    int32_t begin = id > 0 ? p->ends[id - 1] : 0;
    int32_t end = p->ends[id];
    if (first && p->drops_blank && begin < end && p->texts[begin] == ' ') begin++;
    for (int32_t i = begin; i < end; i++)
        trf__phrase_unit(p, f, met, (int32_t)(unsigned char)p->texts[i]);
    return end - begin - (begin < end && p->texts[begin] == ' ');
}

/* How often a phrase occurs. */
TRF__BOTH int32_t trf__phrase_count(const trf__phrase *f, trf__met met)
{
    return met.times + (met.units == f->n);
}

/* How many tokens of its copies are met. */
TRF__BOTH int32_t trf__phrase_tokens(const trf__phrases *p, const trf__phrase *f, trf__met met)
{
    int32_t count = trf__phrase_count(f, met), part = 0;
    if (count >= f->times) return f->times * f->cost;
    if (met.units > 0 && met.units < f->n) part = f->cost - p->units[f->begin + met.units].rest;
    return count * f->cost + (part > 0 ? part : 0);
}

TRF__BOTH int trf__is_symbol(const trf__phrases *p, int32_t id)
{
    int64_t at = 0;
    TRF__BISECT(at, p->n_symbols, p->symbols[middle] < id);
    return at < p->n_symbols && p->symbols[at] == id;
}

/* How many tokens of all phrases are matched; < 0: minus the excess. before: a state for each
   phrase, then the number of excess symbols. id >= 0: after this token; `after` (or NULL): new
   states. */
TRF__BOTH int32_t trf__phrases_met(const trf__phrases *p, const trf__met *before, int32_t id,
                                   int first, trf__met *after)
{
    int32_t sum = 0, much = before[p->n].times, stray = id >= 0 && trf__is_symbol(p, id);
    for (int32_t k = 0; k < p->n; k++) {
        const trf__phrase *f = &p->each[k];
        trf__met met = before[k];
        int32_t units = id >= 0 ? trf__phrase_token(p, f, &met, id, first) : 0;
        if (met.units >= units) stray = 0;
        if (f->exactly && trf__phrase_count(f, met) > f->times) much++;
        sum += trf__phrase_tokens(p, f, met);
        if (after) after[k] = met;
    }
    if (after) { after[p->n].times = before[p->n].times + stray; after[p->n].units = 0; }
    return much + stray > 0 ? -(much + stray) : sum;
}

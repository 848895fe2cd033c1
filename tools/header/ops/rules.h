#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "ops/ops.h"
#include "ops/beam.h"
#include "ops/beam_step.h"

// >>rules          tokens that are banned or penalized in a row
//
// The rules are Hugging Face's (logits_process.py). Those that depend on the tokens so far are
// evaluated when a row has got its last token, on the device: trf__rules_row lists the ids that
// have a rule. The op `top` then takes their logits out after the softmax has counted them, and
// puts the penalized ones back in.
//
//     history   start a b c a b     no_repeat_ngram 3: "a b" was followed by c, so c is banned
//                                   banned b d: the history ends with b, so d is banned

/* The effect of a repetition penalty on a logit, or on a log-probability (Keskar et al. 2019). */
TRF__BOTH double trf__penalize(double x, double penalty)
{
    return x < 0 ? x * penalty : x / penalty;
}

/* Writes all that row `row` of a beam has read, in order; returns how many ids. */
TRF__BOTH int32_t trf__history(const trf__beam *beam, int32_t row, int32_t *ids)
{
    int32_t first = beam->start >= 0;
    if (first) ids[0] = beam->start;
    for (int32_t t = beam->n; t > 0; t--) {
        size_t node = (size_t)(t - 1) * (size_t)beam->search.beam + (size_t)row;
        ids[first + t - 1] = beam->token[node];
        row = beam->parent[node];
    }
    return first + beam->n;
}

/* Whether the history of n ids ends with the m ids before the last one of a sequence. */
TRF__BOTH int trf__ends_with(const int32_t *ids, int32_t n, const int32_t *sequence, int32_t m)
{
    for (int32_t i = 0; i < m && m <= n; i++) if (ids[n - m + i] != sequence[i]) return 0;
    return m <= n;
}

/* Appends an id to a list of n that has it at most once; returns the new number. */
TRF__BOTH int32_t trf__add_once(int32_t *list, int32_t n, int32_t id)
{
    if (trf__is_listed(list, n, id)) return n;
    list[n] = id;
    return n + 1;
}

/* Lists the ids that have a rule in row `row` of a beam; they go to row `to` of the rules. A row
   with a forced token has none. Ends that are out of the softmax already are left out: id -1. */
TRF__BOTH void trf__rules_row(const trf__rules *rules, const trf__beam *beam, int32_t row,
                              int64_t to)
{
    int32_t *ids = rules->ids + to * rules->stride, *banned = ids + rules->history;
    int32_t forced = trf__beam_wanted(beam).forced, n_banned = 0, m = rules->ngram, i, begin = 0;
    rules->counts[2 * to] = rules->counts[2 * to + 1] = 0;
    if (forced >= 0) return;
    int32_t n = trf__history(beam, row, ids);
    for (i = 0; m > 0 && i + m <= n; i++)
        if (trf__ends_with(ids, n, ids + i, m - 1))
            n_banned = trf__add_once(banned, n_banned, ids[i + m - 1]);
    for (i = 0; i < rules->n_sequences; begin = rules->ends[i++])
        if (trf__ends_with(ids, n, rules->sequences + begin, rules->ends[i] - 1 - begin))
            n_banned = trf__add_once(banned, n_banned, rules->sequences[rules->ends[i] - 1]);
    for (i = 0; forced == TRF__NOT_EOS && i < n; i++) if (trf__beam_ends(beam, ids[i])) ids[i] = -1;
    for (i = 0; forced == TRF__NOT_EOS && i < n_banned; i++)
        if (trf__beam_ends(beam, banned[i])) banned[i] = -1;
    rules->counts[2 * to] = rules->penalty != 1 ? n : 0;
    rules->counts[2 * to + 1] = n_banned;
}

/* Lists the ids that would go on with a phrase in row `row` of a beam, for row `to` of phrase_next.
   A row with a forced token has none. */
TRF__BOTH void trf__phrase_next_row(const trf__rules *rules, const trf__beam *beam, int32_t row,
                               int64_t to)
{
    const trf__phrases *p = &beam->phrases;
    const trf__met *met = trf__has_phrases(p) ? trf__beam_met_at(beam, beam->n, row) : NULL;
    int32_t *phrase_next = rules->phrase_next + to * rules->n_phrase_next, n = 0;
    for (int32_t k = 0; k < rules->n_phrase_next; k++) phrase_next[k] = -1;
    if (trf__beam_wanted(beam).forced >= 0) return;
    for (int32_t k = 0; k < p->n; k++) {
        const trf__phrase *f = &p->each[k];
        int inside = met[k].units > 0 && met[k].units < f->n;
        if (trf__phrase_count(f, met[k]) >= f->times) continue;
        for (int32_t i = inside ? -1 : 0; i < 3 && n < rules->n_phrase_next; i++) {
            int32_t id = i < 0 ? p->units[f->begin + met[k].units].next : f->first[i];
            if (id >= 0) n = trf__add_once(phrase_next, n, id);
        }
    }
}

/* Whether an id may be part of an answer. */
TRF__BOTH int trf__may_be(const trf__top *t, int32_t id)
{
    return id != t->banned[0] && id != t->banned[1] && id != t->banned[2];
}

/* Puts the penalized ids of a row among its best ones, which are sorted. Equal ones: the lower id
   first. The logits that the slices have kept are -infinity for an id that was kept before. */
TRF__BOTH void trf__top_penalize(const trf__top *t, int64_t row, double lse)
{
    const trf__rules *r = &t->rules;
    const trf_real *kept = r->kept + row * (r->stride + r->n_alone);
    int64_t at = row * (t->n + r->n_phrase_next);
    double *own = t->log_probabilities + at, *ruled = t->ruled + at;
    int32_t *ids = t->ids + at;
    for (int32_t k = 0; k < r->counts[2 * row]; k++) {
        int32_t id = r->ids[row * r->stride + k];
        double z = id < 0 || !trf__may_be(t, id) ? -HUGE_VAL : (double)kept[k];
        double value = trf__penalize(r->greedy ? z : z - lse, r->penalty);
        int64_t i = t->n;
        if (!(z > -HUGE_VAL)) continue;
        while (i > 0 && (ids[i - 1] < 0 || value > ruled[i - 1] ||
                         (value == ruled[i - 1] && id < ids[i - 1]))) {
            i--;
            if (i + 1 == t->n) continue;        /* the last one is pushed out */
            own[i + 1] = own[i]; ruled[i + 1] = ruled[i]; ids[i + 1] = ids[i];
        }
        if (i < t->n) { own[i] = z - lse; ruled[i] = value; ids[i] = id; }
    }
}

/* Appends the sorted phrase_next ids of a row to its best tokens. An id may occur in both: a
   sentence may read fewer best tokens than others. */
TRF__BOTH void trf__top_phrase_next(const trf__top *t, int64_t row, double lse)
{
    const trf__rules *r = &t->rules;
    int64_t at = row * (t->n + r->n_phrase_next), end = t->n, last = t->n + r->n_phrase_next, i;
    double *own = t->log_probabilities + at, *ruled = t->ruled ? t->ruled + at : NULL, *key;
    int32_t *ids = t->ids + at, k;
    for (k = 0, key = ruled ? ruled : own; k < r->n_phrase_next; k++) {
        int32_t id = r->phrase_next[row * r->n_phrase_next + k];
        double z = id < 0 || !trf__may_be(t, id) ? -HUGE_VAL
            : (double)r->phrase_next_scores[row * r->n_phrase_next + k];
        double value = ruled && r->greedy ? z : z - lse;
        if (!(z > -HUGE_VAL)) continue;
        for (int32_t j = 0; ruled && j < r->counts[2 * row]; j++)
            if (r->ids[row * r->stride + j] == id) {
                value = trf__penalize(value, r->penalty);
                break;
            }
        for (i = end++; i > t->n && (value > key[i - 1] || (value == key[i - 1] &&
                                                            id < ids[i - 1])); i--) {
            own[i] = own[i - 1];
            key[i] = key[i - 1];
            ids[i] = ids[i - 1];
        }
        own[i] = z - lse;
        key[i] = value;
        ids[i] = id;
    }
    for (; end < last; end++) {
        own[end] = key[end] = -HUGE_VAL;
        ids[end] = -1;
    }
}

// >>next-rows        what each row reads next, after every sentence has chosen
//
// The parts of the op `reorder` (>>translate issues it). Live sentences and their rows are compact:
// sentence k has rows starts[k] .. , and the next sentence's follow. A slot belongs to a sentence
// from its arrival to its end.

/* Live sentence k chooses its tokens, or sentence k begins. Returns its slot. */
TRF__BOTH int32_t trf__reorder_sentence(const trf__reorder *a, int32_t k)
{
    const trf__arrival *arrival = a->begin ? &a->arrivals[k - a->progress->n_live] : NULL;
    int32_t place = arrival ? arrival->place : a->live[k];
    trf__beam *beam = &a->beams[place];
    if (arrival) {
        int64_t m;
        *beam = arrival->beam;
        for (m = 0; m < a->models; m++) a->sources[m * a->places + place] = arrival->source[m];
        trf__beam_open(beam);
    } else {
        int64_t at = a->starts[k] * a->wanted;
        trf__beam_advance(beam, a->log_probabilities + at, a->ruled ? a->ruled + at : NULL,
                          a->rest ? a->rest + a->starts[k] : NULL, a->found + at, a->wanted,
                          trf__beam_wanted(beam).count, a->rules.n_phrase_next);
    }
    return place;
}

/* The sentence in slot `place` becomes live sentence k. Its rows begin at `row`; before they began
   at `before`. Their next token goes into column `at` of the cache. */
TRF__BOTH void trf__reorder_rows(const trf__reorder *a, int32_t place, int32_t k, int32_t row,
                                 int32_t before, int32_t at)
{
    const trf__beam *beam = &a->beams[place];
    int32_t forced = trf__beam_wanted(beam).forced;
    a->live[k] = place;
    a->starts[k] = row;
    for (int64_t m = 0; a->cross && m < a->models; m++) {
        trf__span *cross = &a->cross[m * a->places + k];
        *cross = a->sources[m * a->places + place];
        cross->query = row;
        cross->n_query = beam->live;
    }
    for (int32_t j = 0; j < beam->live; j++) {
        trf__span span = { row + j, 1, 0, beam->n + 1, 0 };
        a->self[row + j] = span;
        a->ids[row + j] = a->begin ? beam->start : trf__beam_tokens(beam)[j];
        a->parents[row + j] = a->begin ? 0 : before + trf__beam_parents(beam)[j];
        a->position[row + j] = beam->n;
        a->only[row + j] = forced;
        a->slots[row + j] = (int32_t)(at * a->n_rows + row + j);
        if (a->rules.ids) trf__rules_row(&a->rules, beam, j, row + j);
        if (a->rules.phrase_next) trf__phrase_next_row(&a->rules, beam, j, row + j);
    }
}

/* The progress with which a reorder begins: arriving sentences come after the live ones; a choice
   lists all rows anew and takes the next column of the cache. */
TRF__BOTH trf__progress trf__reorder_from(const trf__reorder *a)
{
    trf__progress now = *a->progress;
    if (a->begin) return now;
    now.rows = now.n_live = 0;
    now.wanted = 1;
    now.at = now.at + 1 < a->columns ? now.at + 1 : 0;
    return now;
}

/* There is no live sentence k. */
TRF__BOTH void trf__reorder_ended(const trf__reorder *a, int64_t k)
{
    for (int64_t m = 0; m < a->models; m++) a->cross[m * a->places + k].n_query = 0;
}

/* Row r is unused: it reads no id, sees no key and its keys are not stored. */
TRF__BOTH void trf__reorder_padding(const trf__reorder *a, int64_t r)
{
    trf__span span = { (int32_t)r, 1, 0, 0, 0 };
    a->self[r] = span;
    a->ids[r] = a->slots[r] = -1;
    a->parents[r] = a->position[r] = 0;
    a->only[r] = TRF__ANY;
    if (a->rules.ids) a->rules.counts[2 * r] = a->rules.counts[2 * r + 1] = 0;
    for (int32_t k = 0; k < a->rules.n_phrase_next; k++)
        a->rules.phrase_next[r * a->rules.n_phrase_next + k] = -1;
}

#pragma once
#include "api/translate.h"
#include "base/impl.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "ops/phrases.h"

// -----------------------------------------------------------------------------------------------
// >>beam           beam search over one sentence, driven from outside
//
// A beam knows no model. Its driver (the translator) calls trf__beam_wanted for the request,
// computes the best next tokens of every live row with their log-probabilities, and passes them to
// trf__beam_advance. The result is the rows that live on: new row r continues old row parent[r]
// with token[r]. Rows are never moved, only named. They are sorted best first, and all have the
// same number n of tokens. When `done` is set, trf__beam_finish writes the answers.
//
// History is a trellis, 1 + limit columns of at most `beam` nodes; a hypothesis is one node, (n,
// row):
//
//     n = 0   row 0: start
//     n = 1   row 0: c, parent 0        row 1: a, parent 0          answers "c" and "a" so far
//     n = 2   row 0: c, parent 0        row 1: b, parent 0          "cc", "cb": "a" has died out
//             token[n-1][row], parent[n-1][row]: both arrays are (limit, beam)
//
// Nothing is allocated here: trf__beam_layout cuts the arrays out of the caller's memory, once. The
// memory may be a device's. Then trf__beam_open and the functions after it run there, and at the
// end trf__beam_set_pointers sets the pointers to a host's copy of the memory.
//
// A token has two numbers: its log-probability (`own`), and what it adds to S. They differ for
// forced tokens and for penalized ones.
//
// Proof: `dropped` is the best score that anything given up could have reached: tokens that the
// driver did not show (no more likely than the last one shown), continuations beyond the width of
// the beam, live hypotheses left at the end. An answer is proven if its score is not lower.
//
// Order among equals: continuations by row, then lowest id; answers by the step they ended in, then
// lowest ids. Tokens of probability 0 or NaN are never taken; the driver shows id -1 for them. The
// tokens that such a row does not show have unknown scores, so nothing is proven then. If no token
// can be taken at all and there is no answer yet, the best row ends there with TRF_ENDED_NO_TOKEN
// and log-probability minus infinity. With TRF_LENGTH_POWER, alpha > 0 and count_eos = 0 the empty
// answer has length 0; its score is minus infinity.
// -----------------------------------------------------------------------------------------------

#define TRF__IMPOSSIBLE (-HUGE_VAL)     /* log-probability and score of what cannot be */

enum { TRF__MAX_BEAM = 1024, TRF__MAX_CANDIDATES = 16 };

TRF__BOTH int trf__is_listed(const int32_t *list, int32_t n, int32_t id)
{
    for (int32_t i = 0; i < n; i++) if (list[i] == id) return 1;
    return 0;
}

TRF__BOTH int trf__is_end(int32_t eos, const trf_ends *ends, int32_t id)
{
    return id == eos || trf__is_listed(ends->ids, ends->n, id);
}

/* Whether an id would end the answer: in the prefix none does. */
TRF__BOTH int trf__beam_ends(const trf__beam *beam, int32_t id)
{
    return beam->n >= beam->n_prefix && trf__is_end(beam->eos, &beam->search.ends, id);
}

/* The request for the next step: the `count` most likely tokens of every live row. forced >= 0:
   this token alone. TRF__NOT_EOS: EOS is not among them and is left out of the softmax. */
typedef struct trf__beam_request { int32_t count, forced; } trf__beam_request;

/* Sets the pointers of a beam's arrays in memory; returns the bytes they take. */
TRF__COLD
TRF__FN size_t trf__beam_set_pointers(trf__beam *beam, int32_t longest, void *memory)
{
    trf__cursor cursor = trf__cursor_at(memory);
    int64_t width = beam->search.beam, nodes = longest * width;
    int64_t groups = trf__n_groups(&beam->phrases), has = trf__has_phrases(&beam->phrases);
    beam->sum    = TRF__TAKE(double, &cursor, width);
    beam->token  = TRF__TAKE(int32_t, &cursor, nodes);
    beam->parent = TRF__TAKE(int32_t, &cursor, nodes);
    beam->own    = TRF__TAKE(double, &cursor, nodes);
    beam->met    = TRF__TAKE(trf__met, &cursor, has * 2 * width * (beam->phrases.n + 1));
    beam->chosen = TRF__TAKE(trf__chosen, &cursor, groups * width * beam->search.candidates);
    beam->n_chosen = TRF__TAKE(int32_t, &cursor, groups);
    beam->share  = TRF__TAKE(int32_t, &cursor, groups);
    beam->taken  = TRF__TAKE(int32_t, &cursor, groups);
    beam->best   = TRF__TAKE(trf__finished, &cursor, beam->keep);
    return cursor.used;
}

/* Lays out a beam in memory for answers of up to `longest` tokens, and returns its bytes. memory is
   aligned to TRF__ALIGN, or NULL to compute only the size. trf_search_check has accepted the
   options. phrases: NULL, or those of the search, where the beam runs. */
TRF__FN size_t trf__beam_layout(trf__beam *beam, const trf_search *search,
                                const trf__phrases *phrases, int32_t longest, void *memory)
{
    TRF__ZERO(*beam);
    beam->search = *search;
    if (phrases) beam->phrases = *phrases;
    /* greedy search: the most likely token of each step, until EOS */
    if (search->beam == 1) beam->search.candidates = 1;
    beam->done = 1;
    beam->keep = search->stop == TRF_STOP_HEURISTIC ? search->beam : search->n_best;
    return trf__beam_set_pointers(beam, longest, memory);
}

// >>beam-groups    continuations that have met more or fewer tokens of phrases
//
// A step sorts continuations into groups, of which each keeps its best ones:
//     0     those that have too much of a phrase, or a symbol outside phrases
//     1     those that do not go on with a phrase, though there is room for all, and though the
//           row's likeliest token is an end, which may not come before all phrases are met
//     2..   the others, by the tokens of phrases that they have met; the last one: all
// Without phrases there is one group.

/* The phrase states of live row `row` when all have n tokens. */
TRF__BOTH trf__met *trf__beam_met_at(const trf__beam *beam, int32_t n, int32_t row)
{
    return beam->met + (size_t)((n & 1) * beam->search.beam + row) *
        (size_t)(beam->phrases.n + 1);
}

/* How many tokens of phrases a live row has met; with id >= 0, after this token, whose states go to
   `after` if that is not NULL. Negative: it has too many. */
TRF__BOTH int32_t trf__beam_met(const trf__beam *beam, int32_t row, int32_t id, trf__met *after)
{
    if (!trf__has_phrases(&beam->phrases)) return 0;
    return trf__phrases_met(&beam->phrases, trf__beam_met_at(beam, beam->n, row),
                            beam->n < beam->hidden ? -1 : id, beam->n == beam->hidden, after);
}

/* The group of continuations that have met so many tokens. */
TRF__BOTH int32_t trf__beam_group_of(const trf__phrases *p, int32_t met)
{
    if (!trf__has_phrases(p) || met < 0) return 0;
    return 2 + (p->total <= TRF__MAX_STAGES ? met
                : (int32_t)((int64_t)met * TRF__MAX_STAGES / p->total));
}

/* The fewest tokens that continuations of a group have met. */
TRF__BOTH int32_t trf__beam_least_met(const trf__phrases *p, int32_t group)
{
    int64_t stage = group - 2;
    return (int32_t)(p->total <= TRF__MAX_STAGES ? stage
                     : (stage * p->total + TRF__MAX_STAGES - 1) / TRF__MAX_STAGES);
}

/* The order of continuations: the larger sum, then the earlier row, then the lower id. */
TRF__BOTH int trf__chosen_before(const trf__chosen *a, const trf__chosen *b)
{
    if (a->sum != b->sum) return a->sum > b->sum;
    return a->row != b->row ? a->row < b->row : a->id < b->id;
}

TRF__BOTH trf__chosen *trf__beam_group(const trf__beam *beam, int32_t group)
{
    return beam->chosen + (size_t)group * (size_t)beam->search.candidates *
        (size_t)beam->search.beam;
}

/* Whether number k of a group's continuations may live on. At the last step of TRF_LIMIT_KEEP_LIVE
   one that ended with EOS frees no place (CTranslate2, Marian). */
TRF__BOTH int trf__beam_may_live(const trf__beam *beam, int32_t group, int32_t k)
{
    int last = beam->n + 1 == beam->limit && beam->search.at_limit == TRF_LIMIT_KEEP_LIVE;
    return !trf__beam_ends(beam, trf__beam_group(beam, group)[k].id) &&
        !(last && k >= beam->width);
}

/* When a group gets places: 0 first; 2: its continuations have no room for what they lack; 3: only
   if no other group has a continuation. */
TRF__BOTH int trf__beam_class(const trf__beam *beam, int32_t group)
{
    const trf__phrases *p = &beam->phrases;
    if (!trf__has_phrases(p)) return 0;
    if (group < 2) return group ? 1 : 3;
    return beam->limit - beam->n - 1 < p->total - trf__beam_least_met(p, group) ? 2 : 0;
}

/* Whether group a gets the next place before group b; `taken` is the best continuation of each that
   has none. */
TRF__BOTH int trf__beam_first(const trf__beam *beam, int32_t a, int32_t b)
{
    int class_a = trf__beam_class(beam, a), class_b = trf__beam_class(beam, b);
    int has_a = beam->share[a] > 0, has_b = beam->share[b] > 0;
    if (class_a != class_b) return class_a < class_b;
    if (has_a != has_b) return has_b;
    if (class_a == 2) return a > b;
    return trf__chosen_before(trf__beam_group(beam, a) + beam->taken[a],
                              trf__beam_group(beam, b) + beam->taken[b]);
}

/* Gives the groups `places`: of a class one to each, in the order of their best continuations, and
   the others to the best that are left. */
TRF__BOTH void trf__beam_share(trf__beam *beam, int32_t places)
{
    int32_t n = trf__n_groups(&beam->phrases), best, g;
    for (g = 0; g < n; g++) beam->share[g] = 0;
    for (int32_t given = 0; given < places; given++) {
        for (best = -1, g = 0; g < n; g++) {
            int32_t *k = &beam->taken[g];
            for (*k = beam->share[g]; *k < beam->n_chosen[g]; ++*k)
                if (trf__beam_may_live(beam, g, *k)) break;
            if (*k < beam->n_chosen[g] && (best < 0 || trf__beam_first(beam, g, best))) best = g;
        }
        if (best < 0) break;
        /* those with too much live only if no others do */
        if (given > 0 && trf__beam_class(beam, best) == 3 && !beam->share[best]) break;
        beam->share[best] = beam->taken[best] + 1;
    }
    for (g = 0; g < n; g++) beam->taken[g] = 0;
}

/* Takes the best continuation that has a place and is not taken yet. NULL: there is none. */
TRF__BOTH const trf__chosen *trf__beam_next(trf__beam *beam)
{
    const trf__chosen *best = NULL;
    int32_t from = 0;
    for (int32_t g = 0; g < trf__n_groups(&beam->phrases); g++) {
        int32_t *k = &beam->taken[g];
        while (*k < beam->share[g] && !trf__beam_may_live(beam, g, *k)) ++*k;
        if (*k == beam->share[g]) continue;
        const trf__chosen *head = trf__beam_group(beam, g) + *k;
        if (!best || trf__chosen_before(head, best)) { best = head; from = g; }
    }
    if (best) beam->taken[from]++;
    return best;
}

// >>beam-answers   scores, bounds, and when a search may stop
//
// These functions run on the device too, so that the host need not read scores after every token.

/* Score of a hypothesis with log-probability S and length L:

       s = S - word_penalty * L
       raw: s     power: s / L^alpha     GNMT: s / ((5 + L) / 6)^alpha */
TRF__BOTH double trf__search_score(const trf_search *search, double sum, int32_t length)
{
    double s = sum - search->word_penalty * (double)length;
    switch (search->length_rule) {
    case TRF_LENGTH_POWER:
        if (length == 0 && search->alpha > 0) return TRF__IMPOSSIBLE;
        return s / pow((double)length, search->alpha);
    case TRF_LENGTH_GNMT:
        return s / pow((5.0 + (double)length) / 6.0, search->alpha);
    default:
        return s;
    }
}

/* Whether live hypotheses at the limit get one more step, for EOS alone. */
TRF__BOTH int trf__forces_eos(const trf_search *search)
{
    return search->at_limit == TRF_LIMIT_FORCE_EOS || search->at_limit == TRF_LIMIT_FREE_EOS;
}

/* The score of a hypothesis of the beam with log-probability `sum` and `length` tokens. */
TRF__BOTH double trf__beam_score(const trf__beam *beam, double sum, int32_t length)
{
    int32_t counted = length - beam->uncounted;
    return trf__search_score(&beam->search, sum, counted > 0 ? counted : 0);
}

/* The best score that a hypothesis of n tokens can still reach. More tokens never raise its sum,
   and it may end at any length up to the longest. Without a word penalty the longest is best, since
   sums are not above zero and the divisor grows: sum / penalty(longest), the bound of Wu et al. and
   tensor2tensor. With a word penalty every length is tried. */
TRF__BOTH double trf__beam_bound(const trf__beam *beam, double sum, int32_t n)
{
    const trf_search *search = &beam->search;
    int32_t longest = beam->limit + (trf__forces_eos(search) ? search->count_eos : 0);
    double best = trf__beam_score(beam, sum, longest);
    if (search->word_penalty == 0) return best;
    for (int32_t length = n + search->count_eos; length < longest; length++) {
        double score = trf__beam_score(beam, sum, length);
        if (score > best) best = score;
    }
    return best;
}

/* Negative if the tokens of a come before those of b in dictionary order. Both are followed back to
   their first common node. The difference seen last is the first one in reading order. */
TRF__BOTH int32_t trf__beam_compare_ids(const trf__beam *beam, const trf__finished *a,
                                        const trf__finished *b)
{
    int32_t width = beam->search.beam, row_a = a->row, row_b = b->row, order = a->n - b->n;
    for (int32_t t = a->n > b->n ? a->n : b->n; t > 0; t--) {
        size_t at_a = (size_t)(t - 1) * (size_t)width + (size_t)row_a;
        size_t at_b = (size_t)(t - 1) * (size_t)width + (size_t)row_b;
        if (t <= a->n && t <= b->n) {
            if (row_a == row_b) break;
            if (beam->token[at_a] != beam->token[at_b])
                order = beam->token[at_a] < beam->token[at_b] ? -1 : 1;
        }
        if (t <= a->n) row_a = beam->parent[at_a];
        if (t <= b->n) row_b = beam->parent[at_b];
    }
    return order;
}

/* The order of answers: tokens of phrases, score, then the step in which they ended, then ids. So
   equal scores have one order on every backend. */
TRF__BOTH int trf__beam_ranks_before(const trf__beam *beam, const trf__finished *a,
                                     const trf__finished *b)
{
    int32_t step_a = a->n + (a->ended == TRF_ENDED_EOS),
        step_b = b->n + (b->ended == TRF_ENDED_EOS);
    if (a->met != b->met) return a->met > b->met;
    if (a->score > b->score) return 1;
    if (a->score < b->score) return 0;
    if (step_a != step_b) return step_a < step_b;
    return trf__beam_compare_ids(beam, a, b) < 0;
}

/* Node (n, row) is an answer. The list is sorted and holds the best `keep`: more are never
   returned, and no stop rule looks at more. */
TRF__BOTH void trf__beam_end(trf__beam *beam, double sum, double own, int32_t row, trf_ended ended)
{
    trf__finished answer;
    int32_t i = beam->n_kept;
    int32_t length = beam->n + (ended == TRF_ENDED_EOS ? beam->search.count_eos : 0);
    answer.sum = sum;
    answer.own = own;
    answer.n = beam->n;
    answer.row = row;
    answer.ended = ended;
    answer.met = trf__beam_met(beam, row, -1, NULL);
    answer.score = trf__beam_score(beam, sum, length);
    beam->n_finished++;
    if (beam->n_kept < beam->keep) beam->n_kept++;
    else if (trf__beam_ranks_before(beam, &answer, &beam->best[i - 1])) i--;
    else return;
    for (; i > 0 && trf__beam_ranks_before(beam, &answer, &beam->best[i - 1]); i--)
        beam->best[i] = beam->best[i - 1];
    beam->best[i] = answer;
}

/* Ends the search. Live hypotheses at the limit become answers unless the rules demand an EOS;
   other live ones are given up. Under TRF_LIMIT_FALL_BACK a live one at the limit is an answer only
   if none ended with EOS. */
TRF__BOTH void trf__beam_close(trf__beam *beam)
{
    int at_limit = beam->n == beam->limit && !trf__forces_eos(&beam->search);
    int count_live = beam->search.at_limit == TRF_LIMIT_KEEP_LIVE || beam->n_finished == 0;
    for (int32_t row = 0; row < beam->live; row++) {
        double bound = at_limit ? TRF__IMPOSSIBLE : trf__beam_bound(beam, beam->sum[row], beam->n);
        if (at_limit && count_live)
            trf__beam_end(beam, beam->sum[row], 0, row, TRF_ENDED_MAX_LENGTH);
        if (bound > beam->dropped) beam->dropped = bound;
        if (!at_limit && beam->sum[row] > TRF__IMPOSSIBLE) beam->gave_up = 1;
    }
    if (beam->n_kept > beam->search.n_best) beam->n_kept = beam->search.n_best;
    beam->live = 0;
    beam->done = 1;
}

/* Whether the search ends after this step. All live hypotheses have the same length, so number 0
   has the best score. */
TRF__BOTH int trf__beam_stops(const trf__beam *beam)
{
    const trf_search *search = &beam->search;
    if (beam->live == 0) return 1;
    if (beam->n == beam->limit && !trf__forces_eos(search)) return 1;
    if (search->stop == TRF_STOP_FINISHED) return beam->n_finished >= search->beam;
    if (search->stop == TRF_STOP_NONE_ALIVE || beam->n_kept < beam->keep) return 0;
    /* the worst kept answer must beat what live hypotheses can reach (bound), or have now */
    double hope = search->stop == TRF_STOP_BOUND ? trf__beam_bound(beam, beam->sum[0], beam->n)
                                                 : trf__beam_score(beam, beam->sum[0], beam->n);
    return beam->best[beam->n_kept - 1].score > hope;
}

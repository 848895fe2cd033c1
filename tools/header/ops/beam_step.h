#pragma once
#include "api/translate.h"
#include "base/impl.h"
#include "ops/ops.h"
#include "ops/beam.h"

// >>beam-step      from the best next tokens to the rows that live on
//
// trf__beam_advance is one step: trf__beam_gather sorts the continuations of all rows,
// trf__beam_select turns them into answers and live rows, and trf__beam_settle updates the proof.

/* Sets the sentence of a beam: 0 <= n_prefix <= limit <= longest. The prefix is the caller's and
   must live until the search is done. */
TRF__FN void trf__beam_sentence(trf__beam *beam, int32_t limit, const int32_t *prefix,
                                int32_t n_prefix, int32_t eos, int32_t vocab)
{
    beam->limit = limit;
    beam->prefix = prefix;
    beam->n_prefix = n_prefix;
    beam->unscored = beam->search.score_prefix ? 0 : n_prefix;
    beam->uncounted = beam->search.count_prefix ? 0 : n_prefix;
    beam->least = beam->search.min_length;
    beam->eos = eos;
    beam->vocab = vocab;
}

/* Begins the search with one live row without tokens. If no token is allowed, it is done. */
TRF__BOTH void trf__beam_open(trf__beam *beam)
{
    beam->n = beam->n_finished = beam->n_kept = beam->done = beam->gave_up = 0;
    beam->live = 1;
    beam->width = beam->search.beam;
    beam->dropped = TRF__IMPOSSIBLE;
    beam->sum[0] = 0;
    for (int32_t k = 0; trf__has_phrases(&beam->phrases) && k <= beam->phrases.n; k++)
        beam->met[k].times = beam->met[k].units = 0;
    if (trf__beam_stops(beam)) trf__beam_close(beam);
}

/* In this order: a token of the prefix, EOS at the limit, the search's own choice. */
TRF__BOTH trf__beam_request trf__beam_wanted(const trf__beam *beam)
{
    trf__beam_request request;
    int32_t eos_forbidden = beam->n < beam->least;
    int32_t eos_out = eos_forbidden && beam->search.renormalize_logits;
    int32_t n_ends = 1 + beam->search.ends.n, most = beam->vocab - (eos_out ? n_ends : 0);
    request.forced = beam->n < beam->n_prefix ? beam->prefix[beam->n] : beam->n == beam->limit
        ? beam->eos
                   : eos_out ? TRF__NOT_EOS : TRF__ANY;
    /* more, as EOS and the other ends may be among them and cannot be taken */
    request.count = beam->search.candidates * beam->width +
        ((eos_forbidden || beam->phrases.total > 0) && !eos_out ? n_ends : 0);
    if (request.count > most) request.count = most;
    if (request.forced >= 0) request.count = 1;
    return request;
}

/* Records that a continuation was given up. Only the largest sums count: trf__beam_settle turns
   them into scores once a step. */
TRF__BOTH void trf__beam_lose(trf__beam *beam, double sum, int32_t id)
{
    double *lost = trf__beam_ends(beam, id) ? &beam->lost_eos : &beam->lost_token;
    if (sum > *lost) { *lost = sum; beam->gave_up = 1; }
}

/* An ending given up had the score of its length; a continuation could have reached its bound. */
TRF__BOTH void trf__beam_settle(trf__beam *beam)
{
    double ending = trf__beam_score(beam, beam->lost_eos, beam->n + beam->search.count_eos);
    double going_on = trf__beam_bound(beam, beam->lost_token, beam->n + 1);
    if (ending > beam->dropped) beam->dropped = ending;
    if (going_on > beam->dropped) beam->dropped = going_on;
}

/* Inserts a continuation into the sorted list of its group, which has the best `take`. ordered:
   those of a row arrive in their order, whatever their sums are. */
TRF__BOTH void trf__beam_choose(trf__beam *beam, int32_t group, int32_t take, int ordered,
                                double sum, double own, int32_t row, int32_t id)
{
    trf__chosen *list = trf__beam_group(beam, group), *last = list + take - 1, chosen;
    int32_t i = beam->n_chosen[group];
    chosen.sum = sum;
    chosen.own = own;
    chosen.row = row;
    chosen.id = id;
    if (i == take && (ordered || !trf__chosen_before(&chosen, last))) {
        trf__beam_lose(beam, sum, id);
        return;
    }
    if (i < take) beam->n_chosen[group]++;
    else { trf__beam_lose(beam, last->sum, last->id); i--; }
    for (; i > 0 && trf__chosen_before(&chosen, &list[i - 1]); i--) list[i] = list[i - 1];
    list[i] = chosen;
}

/* The group of a continuation. most: of a row that should end but may not, the tokens of phrases
   that it has met; else -1. */
TRF__BOTH int32_t trf__beam_group_for(const trf__beam *beam, int32_t row, int32_t id, int32_t most)
{
    int32_t met = trf__beam_met(beam, row, trf__beam_ends(beam, id) ? -1 : id, NULL);
    int room = beam->limit - beam->n - 1 >= beam->phrases.total - met;
    return met >= 0 && met <= most && room ? 1 : trf__beam_group_of(&beam->phrases, met);
}

/* First half of a step: the best continuations of all rows. Tokens that a row has not shown are at
   most as likely as the least likely of the `count` shown. If one shown was unknown, they may have
   any probability; so they may in greedy search with a penalty, which takes the first one shown
   that is allowed. A forced token is taken whatever its probability; during the prefix there is
   only one row. A log-probability above zero is a rounding error and counts as 0. */
TRF__BOTH void trf__beam_gather(trf__beam *beam, const double *log_probabilities,
                                const double *ruled, const double *rest, const int32_t *ids,
                                int64_t stride, int32_t count, int32_t phrase_next)
{
    int32_t forced = trf__beam_wanted(beam).forced, take = beam->search.candidates * beam->width,
        more = forced < 0 ? phrase_next : 0, any = 0, row, j;
    int greedy = beam->search.beam == 1;
    int free = beam->n < beam->unscored ||
        (beam->n == beam->limit && beam->search.at_limit == TRF_LIMIT_FREE_EOS);
    beam->lost_token = beam->lost_eos = TRF__IMPOSSIBLE;
    for (j = 0; j < trf__n_groups(&beam->phrases); j++) beam->n_chosen[j] = 0;
    for (row = 0; row < beam->live; row++) {
        /* 1: some tokens are not shown; 2: some are unknown */
        int hides = forced < 0 &&
            count < beam->vocab - (forced == TRF__NOT_EOS ? 1 + beam->search.ends.n : 0);
        int32_t met = trf__beam_met(beam, row, -1, NULL), most;
        int disordered = hides && ruled && greedy, lacks = met >= 0 && met < beam->phrases.total;
        int late = beam->n >= beam->least, eos_allowed = forced >= 0 || (late && !lacks);
        double least = 0;
        most = lacks && late && forced < 0 && trf__beam_ends(beam, ids[row * stride]) ? met : -1;
        for (j = 0; j < count + more; j++) {    /* the phrase_next come last */
            int64_t at = row * stride + (j < count ? j : stride - more + j - count);
            int32_t id = forced >= 0 ? forced : ids[at];
            double p = log_probabilities[at];
            if (j >= count && trf__is_listed(ids + row * stride, count, id)) continue;
            if (id < 0 || !(p < HUGE_VAL)) { p = TRF__IMPOSSIBLE; if (j < count) hides = 2; }
            if (p > 0) p = 0;
            double own = rest ? p + rest[row] : p;
            if (ruled && !greedy && forced < 0 && p > TRF__IMPOSSIBLE) {
                p = ruled[at];
                if (p > 0) p = 0;
            }
            if (j < count && p < least) least = p;
            if (free) p = 0;
            if (forced < 0 && (p == TRF__IMPOSSIBLE || (!eos_allowed && trf__beam_ends(beam, id))))
                continue;
            trf__beam_choose(beam, trf__beam_group_for(beam, row, id, most), take, ruled && greedy,
                             beam->sum[row] + p, own, row, id);
            any = 1;
        }
        if (!hides) continue;
        /* the best sum that a hidden token could have: unknown ones may have probability 1 */
        double hidden = beam->sum[row] + (hides == 2 || disordered ? 0 : least);
        trf__beam_lose(beam, hidden, -1);
        if (eos_allowed) trf__beam_lose(beam, hidden, beam->eos);
    }
    /* no continuation and no answer: a search always returns one */
    if (!any && beam->n_kept == 0)
        trf__beam_end(beam, TRF__IMPOSSIBLE, TRF__IMPOSSIBLE, 0, TRF_ENDED_NO_TOKEN);
}

/* The endings among the best continuations. One counts only if it is among the best `width` of its
   group, if eos_in_top_beam is set. Returns how many there are. */
TRF__BOTH int32_t trf__beam_endings(trf__beam *beam)
{
    int32_t n = 0;
    for (int32_t g = 0; g < trf__n_groups(&beam->phrases); g++)
        for (int32_t k = 0; k < beam->n_chosen[g]; k++) {
            const trf__chosen *chosen = trf__beam_group(beam, g) + k;
            if (!trf__beam_ends(beam, chosen->id)) continue;
            if (beam->search.eos_in_top_beam && k >= beam->width) {
                trf__beam_lose(beam, chosen->sum, chosen->id);
                continue;
            }
            trf__beam_end(beam, chosen->sum, chosen->own, chosen->row, TRF_ENDED_EOS);
            n++;
        }
    return n;
}

/* Second half: endings first, then the rows that live on. */
TRF__BOTH void trf__beam_select(trf__beam *beam)
{
    int32_t ended = trf__beam_endings(beam), places = beam->width;
    size_t node = (size_t)beam->n * (size_t)beam->search.beam;
    const trf__chosen *chosen;
    if (beam->search.shrink) places = ended < places ? places - ended : 0;
    trf__beam_share(beam, places);
    for (int32_t g = 0; g < trf__n_groups(&beam->phrases); g++)
        for (int32_t k = 0; k < beam->n_chosen[g]; k++) {
            chosen = trf__beam_group(beam, g) + k;
            if (!trf__beam_ends(beam, chosen->id) &&
                (k >= beam->share[g] || !trf__beam_may_live(beam, g, k)))
                trf__beam_lose(beam, chosen->sum, chosen->id);
        }
    for (beam->live = 0; (chosen = trf__beam_next(beam)) != NULL; beam->live++) {
        (void)trf__beam_met(beam, chosen->row, chosen->id,
                            trf__beam_met_at(beam, beam->n + 1, beam->live));
        beam->sum[beam->live] = chosen->sum;
        beam->token[node + (size_t)beam->live] = chosen->id;
        beam->parent[node + (size_t)beam->live] = chosen->row;
        beam->own[node + (size_t)beam->live] = chosen->own;
    }
    beam->width = places;
}

/* One step. The `count` candidates of row r begin at r * stride, as trf__beam_wanted requested
   them, and its `phrase_next` end there with the row; none of either occurs twice. ruled: their
   log-probabilities after a penalty, or NULL. rest: of each row what to add to them for the model's
   own (trf__top), or NULL. Returns the number of rows that live on, 0 when the
   search is done. Row r continues row trf__beam_parents()[r] with token trf__beam_tokens()[r]. */
TRF__BOTH int32_t trf__beam_advance(trf__beam *beam, const double *log_probabilities,
                                    const double *ruled, const double *rest, const int32_t *ids,
                                    int64_t stride, int32_t count, int32_t phrase_next)
{
    trf__beam_gather(beam, log_probabilities, ruled, rest, ids, stride, count, phrase_next);
    trf__beam_select(beam);
    trf__beam_settle(beam);
    if (beam->live > 0) beam->n++;
    if (trf__beam_stops(beam)) trf__beam_close(beam);
    return beam->live;
}

// >>beam-results   what a step leaves behind: tokens and parents, and in the end answers

/* After a step with live rows: their last tokens, and the rows before that they continue. */
TRF__BOTH const int32_t *trf__beam_tokens(const trf__beam *beam)
{
    return beam->token + (size_t)(beam->n - 1) * (size_t)beam->search.beam;
}

TRF__BOTH const int32_t *trf__beam_parents(const trf__beam *beam)
{
    return beam->parent + (size_t)(beam->n - 1) * (size_t)beam->search.beam;
}

/* Tokens of all answers together, with EOS: the size of the arrays for trf__beam_finish. */
TRF__FN int64_t trf__beam_ids(const trf__beam *beam)
{
    int64_t total = 0;
    for (int32_t k = 0; k < beam->n_kept; k++) total += (int64_t)beam->best[k].n + 1;
    return total;
}

/* Writes the answers, best first, into answers[n_best], their tokens into ids and the tokens'
   log-probabilities into own: n + 1 of each for an answer of n tokens. Returns the number of
   answers. An unfinished answer that replaces finished ones (TRF_LIMIT_FALL_BACK), or one without
   all phrases, is proven only if nothing at all was given up, since any better one of these would
   have replaced it. */
TRF__FN int32_t trf__beam_finish(const trf__beam *beam, trf_hypothesis *answers, int32_t *ids,
                                 double *own)
{
    for (int32_t k = 0; k < beam->n_kept; k++) {
        const trf__finished *best = &beam->best[k];
        trf_hypothesis *answer = &answers[k];
        int stands_in = best->ended == TRF_ENDED_MAX_LENGTH &&
            beam->search.at_limit == TRF_LIMIT_FALL_BACK;
        int32_t row = best->row;
        for (int32_t t = best->n; t > 0; t--) {
            size_t node = (size_t)(t - 1) * (size_t)beam->search.beam + (size_t)row;
            /* from the last token back to the first */
            ids[t - 1] = beam->token[node];
            own[t - 1] = beam->own[node];
            row = beam->parent[node];
        }
        own[best->n] = best->own;
        answer->ids = ids;
        answer->n = best->n;
        answer->log_probabilities = own;
        answer->log_probability = answer->prompt_log_probability = 0;
        for (int32_t t = 0; t < best->n + (best->ended != TRF_ENDED_MAX_LENGTH); t++)
            answer->log_probability += own[t];
        answer->score = best->score;
        answer->ended = best->ended;
        answer->proven = stands_in || best->met < beam->phrases.total ? !beam->gave_up
            : best->score >= beam->dropped;
        ids += best->n + 1;
        own += best->n + 1;
    }
    return beam->n_kept;
}

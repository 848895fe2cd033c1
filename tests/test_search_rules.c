/* build: shared double:shared separate:shared long:shared plain:shared */
/* The rules of trf_search about single tokens: forced first tokens, tags of sources, banned ids and
   sequences, n-grams that do not repeat, the repetition penalty, a free EOS at the limit, phrases
   that must occur, several ends. The oracle is a search in plain loops over teacher-forced logits, in which every rule
   looks at whole sequences. tools/parity/search_rules.py compares the same rules with Hugging Face. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "kit.h"

enum { PAD = 0, BOS = 1, EOS = 2, FIRST = 4, VOCAB = 20, WIDE = 2100, MAX_IDS = 40, MAX_BEAM = 4,
       MAX_PHRASES = 4 };

#define OK(call) check_ok((call), &err, #call, __LINE__)

static void check_ok(trf_status status, const trf_error *err, const char *call, int line)
{
    if (status != TRF_OK)
        fail_msg("line %d: %s: %s: %s", line, call, trf_status_name(status), err->message);
}

static uint64_t draws;
static int32_t pick(int32_t n) { return (int32_t)(trf__random64(77, 3, draws++) % (uint64_t)n); }
/* An id that is not special in the model, nor in its twin. */
static int32_t word(int32_t vocab) { return FIRST + pick(vocab - FIRST - 3); }

/* -----------------------------------------------------------------------------------------------
   Models whose next tokens differ much, and an oracle of their next tokens. The twin of an
   encoder-decoder reads sources as they are: it adds nothing, and other ids are special. */

typedef struct pair_of_models { trf_model *model, *twin; trf_translator *t, *reads; } pair_of_models;

static void sharpen(trf_model *model, int32_t vocab)
{
    trf_tensor w = kit_open(trf_model_parameter(model, trf_model_parameter_index(model, "generator.weight")));
    int64_t n = trf_tensor_count(&w), i;
    for (i = 0; i < n; i++) w.data[i] *= 3;
    kit_close(&w);
    w = kit_open(trf_model_parameter(model, trf_model_parameter_index(model, "generator.bias")));
    for (i = 0; i < vocab; i++) w.data[i] = (trf_real)(i < FIRST ? -2 : 0.1 * pick(10));
    w.data[EOS] = 1;
    kit_close(&w);
}

static pair_of_models models_of(trf_kind kind, int32_t vocab, int source_bos, int source_eos)
{
    pair_of_models m;
    trf_config c = kit_of_kind(kit_small(1, 16, vocab, 64), kind);
    trf_error err;
    memset(&m, 0, sizeof m);
    c.generator_bias = 1;
    c.seed = 11;
    c.decoder_start = kind == TRF_DECODER_ONLY ? TRF_START_BOS : TRF_START_EOS;
    if (kind == TRF_ENCODER_DECODER) { c.source_bos = source_bos; c.source_eos = source_eos; }
    OK(trf_model_create(&m.model, &c, NULL, &err));
    sharpen(m.model, vocab);
    OK(trf_translator_create(&m.t, m.model, NULL, &err));
    c.source_bos = c.source_eos = 0;
    c.pad = vocab - 3; c.bos = vocab - 2; c.eos = vocab - 1;
    if (kind == TRF_ENCODER_DECODER) {
        OK(trf_model_create(&m.twin, &c, NULL, &err));
        OK(trf_translator_create(&m.reads, m.twin, NULL, &err));
    }
    return m;
}

static void free_models(pair_of_models *m)
{
    trf_translator_destroy(m->t);
    trf_translator_destroy(m->reads);
    trf_model_destroy(m->model);
    trf_model_destroy(m->twin);
}

typedef struct sequence { int32_t n, met, ids[MAX_IDS]; double sum, own[MAX_IDS], score; trf_ended ended; } sequence;

/* A case: what is asked of a search. */
typedef struct asked {
    trf_search search;
    int32_t ids[MAX_IDS], lengths[MAX_IDS];      /* banned */
    int32_t phrases[MAX_IDS], n_phrases[MAX_PHRASES], hidden;   /* hidden: tokens that are not of the answer */
    int32_t source[MAX_IDS], n_source, prefix[MAX_IDS], n_prefix;
} asked;

static trf_sequences one(const int32_t *ids, const int32_t *n)
{
    trf_sequences x;
    x.ids = ids; x.lengths = n; x.count = 1;
    return x;
}

/* Logits of the token after s: the encoder reads what the search should have made of the source. */
static void next_logits(const pair_of_models *m, const asked *a, const sequence *s, double *z)
{
    const trf_config *c = trf_model_config(m->model);
    static trf_real rows[MAX_IDS * WIDE];
    trf_real memory[MAX_IDS * 16], states[MAX_IDS * 16];
    trf_sequences target = one(s->ids, &s->n);
    trf_tensor logits = trf_tensor_of(rows, 2, s->n + 1, c->target_vocab, 1);
    trf_error err;
    int32_t w;
    if (c->kind == TRF_DECODER_ONLY) {
        trf_batch batch;
        memset(&batch, 0, sizeof batch);
        batch.target = target;
        OK(kit_logits(m->t, &batch, &logits, &err));
    } else {
        int32_t source[MAX_IDS], n = 0, i;
        trf_sequences read = one(source, &n);
        trf_tensor encoded, hidden = trf_tensor_of(states, 2, s->n + 1, 16, 1);
        if (c->source_bos) source[n++] = BOS;
        if (a->search.source_first >= 0) source[n++] = a->search.source_first;
        for (i = 0; i < a->n_source; i++) source[n++] = a->source[i];
        if (c->source_eos) source[n++] = EOS;
        if (a->search.source_last >= 0) source[n++] = a->search.source_last;
        encoded = trf_tensor_of(memory, 2, n, 16, 1);
        OK(kit_encode(m->reads, &read, &encoded, &err));
        OK(kit_decode(m->t, &encoded, &n, &target, &hidden, &err));
        OK(kit_project(m->t, &hidden, &logits, &err));
    }
    for (w = 0; w < c->target_vocab; w++) z[w] = (double)rows[s->n * c->target_vocab + w];
}

/* -----------------------------------------------------------------------------------------------
   The rules, each by looking at the start id, the tokens so far and one more. */

static int has_twice(const int32_t *h, int32_t n, int32_t gram)
{
    int32_t i, k;
    for (i = 0; i + gram < n; i++) {
        for (k = 0; k < gram && h[i + k] == h[n - gram + k]; k++) { }
        if (k == gram) return 1;
    }
    return 0;
}

static int is_banned(const asked *a, const int32_t *h, int32_t n)
{
    int32_t i, k, at = 0;
    for (i = 0; i < a->search.banned.count; at += a->lengths[i++]) {
        int32_t m = a->lengths[i];
        if (m > n) continue;
        for (k = 0; k < m && h[n - m + k] == a->ids[at + k]; k++) { }
        if (k == m) return 1;
    }
    return a->search.no_repeat_ngram > 0 && has_twice(h, n, a->search.no_repeat_ngram);
}

/* Whether an id ends an answer, by its config or as one of the search's ends. */
static int is_end(const asked *a, int32_t w)
{
    int32_t i;
    for (i = 0; i < a->search.ends.n; i++) if (a->search.ends.ids[i] == w) return 1;
    return w == EOS;
}
/* How many times `beam` continuations compete: Hugging Face's beams_to_keep. */
static int32_t competing(const asked *a)
{
    int32_t different = 1, i, k;
    for (i = 0; i < a->search.ends.n; i++) {
        for (k = 0; k < i && a->search.ends.ids[k] != a->search.ends.ids[i]; k++) { }
        different += k == i && a->search.ends.ids[i] != EOS;
    }
    return 1 + different;
}

/* Number of forced tokens at the beginning, and those of them that count 0 in S. */
static int32_t forced_of(const asked *a)
{
    return a->n_prefix ? a->n_prefix : a->search.forced_first >= 0;
}
static int32_t free_of(const asked *a)
{
    return a->n_prefix && a->search.score_prefix ? 0 : forced_of(a);
}

/* pure: log-probabilities of all tokens after s. own: the same without ends that may not come yet, if
   the search renormalizes. ruled: what they add to S (greedy: the penalized
   logits), -infinity for what may not come. */
static void rules_of(const pair_of_models *m, const asked *a, const sequence *s, int32_t least,
                     double *own, double *ruled, double *pure)
{
    const trf_config *c = trf_model_config(m->model);
    int32_t h[MAX_IDS + 1], w, i, n = s->n + 1;
    double most = -HUGE_VAL, sum = 0, all = 0, x = a->search.repetition_penalty;
    next_logits(m, a, s, own);
    for (w = 0; w < c->target_vocab; w++) if (own[w] > most) most = own[w];
    for (w = 0; w < c->target_vocab; w++) all += exp(own[w] - most);
    for (w = 0; w < c->target_vocab; w++)       /* forbidden ends may leave the softmax */
        if (!(a->search.renormalize_logits && s->n >= forced_of(a) && s->n < least &&
              is_end(a, w))) sum += exp(own[w] - most);
    h[0] = c->decoder_start == TRF_START_EOS ? EOS : BOS;
    for (i = 0; i < s->n; i++) h[i + 1] = s->ids[i];
    for (w = 0; w < c->target_vocab; w++) {
        double z = own[w];
        int seen = 0;
        own[w] = z - most - log(sum);
        pure[w] = z - most - log(all);
        for (i = 0; i < n; i++) seen |= h[i] == w;
        ruled[w] = a->search.beam == 1 ? z : own[w];
        if (seen && ruled[w] < 0) ruled[w] *= x;
        else if (seen) ruled[w] /= x;
        h[n] = w;
        if (((w == PAD || (w == BOS && h[0] == BOS)) && !is_end(a, w)) || is_banned(a, h, n + 1) ||
            (is_end(a, w) && s->n < least)) ruled[w] = -HUGE_VAL;
    }
}

/* How often a phrase of m ids is in n others, one occurrence behind the other. *left: the ids of its longest beginning
   that ends what is behind the last one. */
static int32_t count_of_phrase(const int32_t *phrase, int32_t m, const int32_t *ids, int32_t n, int32_t *left)
{
    int32_t i = 0, from = 0, count = 0;
    while (i + m <= n)
        if (memcmp(ids + i, phrase, (size_t)m * sizeof *ids)) i++;
        else { count++; i += m; from = i; }
    for (i = m - 1; i > 0; i--) if (i <= n - from && !memcmp(ids + n - i, phrase, (size_t)i * sizeof *ids)) break;
    *left = i > 0 ? i : 0;
    return count;
}

/* Number k of the phrases, and how often it must occur: once for each time that it is listed, and where it lies in
   longer ones. 0: an equal one has come before. */
static const int32_t *phrase_of(const asked *a, int32_t k, int32_t *times)
{
    int32_t i, j, at[MAX_PHRASES + 1] = {0}, left;
    for (i = 0; i < a->search.phrases.count; i++) at[i + 1] = at[i] + a->n_phrases[i];
    for (*times = 0, j = 0; j < a->search.phrases.count; j++) {
        int equal = a->n_phrases[j] == a->n_phrases[k] &&
            !memcmp(a->phrases + at[j], a->phrases + at[k], (size_t)a->n_phrases[k] * sizeof *a->phrases);
        if (equal && j < k) { *times = 0; break; }
        *times += count_of_phrase(a->phrases + at[k], a->n_phrases[k], a->phrases + at[j], a->n_phrases[j], &left);
    }
    return a->phrases + at[k];
}

static int32_t met_of(const asked *a, const int32_t *ids, int32_t n)
{
    int32_t k, sum = 0, from = a->hidden < n ? a->hidden : n, times, left;
    for (k = 0; k < a->search.phrases.count; k++) {
        const int32_t *phrase = phrase_of(a, k, &times);
        int32_t m = a->n_phrases[k], count = count_of_phrase(phrase, m, ids + from, n - from, &left);
        sum += count < times ? count * m + left : times * m;
    }
    return sum;
}

static int32_t tokens_of_phrases(const asked *a)
{
    int32_t k, sum = 0, times;
    for (k = 0; k < a->search.phrases.count; k++) { (void)phrase_of(a, k, &times); sum += times * a->n_phrases[k]; }
    return sum;
}

/* Whether a token is the next one of a phrase, or its first one. */
static int is_wished(const asked *a, const sequence *s, int32_t id)
{
    int32_t k, from = a->hidden < s->n ? a->hidden : s->n, times, left;
    for (k = 0; k < a->search.phrases.count; k++) {
        const int32_t *phrase = phrase_of(a, k, &times);
        if (count_of_phrase(phrase, a->n_phrases[k], s->ids + from, s->n - from, &left) < times &&
            (phrase[left] == id || phrase[0] == id)) return 1;
    }
    return 0;
}

/* -----------------------------------------------------------------------------------------------
   Beam search as Hugging Face does it, for one sentence. */

static double score_of(const trf_search *s, double sum, int32_t length)
{
    return sum / pow((double)length, s->alpha);
}

static void finish(const trf_search *s, int32_t uncounted, sequence *done, int32_t *n_done, sequence x, trf_ended ended)
{
    int32_t i = *n_done;
    x.ended = ended;
    x.score = score_of(s, x.sum, x.n + (ended == TRF_ENDED_EOS) - uncounted);
    for (; i > 0 &&
        (done[i - 1].met < x.met ||
         (done[i - 1].met == x.met && done[i - 1].score < x.score)); i--) if (i < s->beam) done[i] = done[i - 1];
    if (i < s->beam) done[i] = x;
    if (*n_done < s->beam) ++*n_done;
}

typedef struct option { double sum, own, pure; int32_t row, id, met, group, number, ends; } option;
enum { MAX_OPTIONS = MAX_BEAM * (6 * MAX_BEAM + 5 + 2 * MAX_PHRASES) };

/* The continuations of all rows, best first: of each row as many tokens as compete and as there are ends
   (greedy: one more than ends), and the next ones of phrases. number: which of its group one is. forced: an id, or -1.
   */
static int32_t best_options(const pair_of_models *m, const asked *a, const sequence *live, int32_t n_live,
                            int32_t limit, int32_t least, int32_t forced, int free_token, option *best)
{
    static double own[WIDE], ruled[WIDE], pure[WIDE];
    static char shown[WIDE];
    int32_t vocab = trf_model_config(m->model)->target_vocab, n = 0, r, w, i, k, in_group[MAX_IDS + 3] = {0};
    int32_t total = tokens_of_phrases(a), late, ends = competing(a) - 1, most = (a->search.beam == 1 ? 1 : competing(a) * a->search.beam) + ends;
    for (r = 0; r < n_live; r++) {
        rules_of(m, a, &live[r], least, own, ruled, pure);
        for (w = 0; w < vocab; w++) shown[w] = (char)(forced >= 0 ? w == forced : is_wished(a, &live[r], w));
        late = 0;
        for (k = 0; k < most && forced < 0; k++) {
            int32_t top = -1;
            for (w = 0; w < vocab; w++) if (shown[w] < 2 && (top < 0 || ruled[w] > ruled[top])) top = w;
            if (k == 0) late = is_end(a, top) && live[r].n >= least && ruled[top] > -HUGE_VAL && live[r].met < total;
            if (top >= 0) shown[top] = 2;
        }
        for (w = 0; w < vocab; w++) {
            double value = free_token ? 0 : forced >= 0 ? own[w] : ruled[w];
            sequence x = live[r];
            option new;
            if (!shown[w] || (forced < 0 && ruled[w] == -HUGE_VAL)) continue;
            if (is_end(a, w) && forced < 0 && x.met < total) continue;
            x.ids[x.n++] = w;
            new.ends = is_end(a, w) && x.n > forced_of(a);
            new.met = new.ends ? live[r].met : met_of(a, x.ids, x.n);
            new.group = !a->search.phrases.count ? 0 : late && new.met <= live[r].met &&
                limit - live[r].n - 1 >= total - new.met ? 1 : 2 + new.met;
            new.sum = live[r].sum + value; new.own = own[w]; new.pure = pure[w]; new.row = r; new.id = w; new.number = 0;
            for (i = n++; i > 0 && best[i - 1].sum < new.sum; i--) best[i] = best[i - 1];
            best[i] = new;
        }
    }
    for (i = 0; i < n; i++) best[i].number = in_group[best[i].group]++;
    for (i = 0; i < n && a->search.beam == 1; i++)      /* S of greedy search is not penalized */
        if (!free_token) best[i].sum = live[best[i].row].sum + best[i].own;
    return n;
}

/* 0: its places come first; 1: it should end; 2: the limit leaves no room for the phrases that it lacks. */
static int class_of(const asked *a, const option *x, int32_t room)
{
    if (!a->search.phrases.count) return 0;
    return x->group == 1 ? 1 : 2 * (room < tokens_of_phrases(a) - x->met);
}

/* Whether a continuation is among those that may live: of a class one of each group, the best first, and then the best
   that are left. */
static void give_places(const asked *a, const option *best, int32_t n, int32_t room, int last, char *lives)
{
    int32_t places, kept = a->search.beam == 1 ? 1 : competing(a) * a->search.beam, i, k;
    char had[MAX_IDS + 3] = {0};
    memset(lives, 0, (size_t)n);
    for (places = a->search.beam; places > 0; places--) {
        int32_t next = -1;
        for (i = 0; i < n; i++) {
            int class_i, class_next;
            if (lives[i] || best[i].ends || best[i].number >= kept ||
                (last && best[i].number >= a->search.beam)) continue;
            for (k = 0; k < i; k++)         /* only the best of a group that is left */
                if (best[k].group == best[i].group && !lives[k] && !best[k].ends && best[k].number < kept) break;
            if (k < i) continue;
            if (next < 0) { next = i; continue; }
            class_i = class_of(a, &best[i], room);
            class_next = class_of(a, &best[next], room);
            if (class_i != class_next ? class_i < class_next
                : had[best[i].group] != had[best[next].group] ? had[best[next].group]
                : class_i == 2 ? best[i].group > best[next].group : best[i].sum > best[next].sum) next = i;
        }
        if (next < 0) return;
        lives[next] = 1;
        had[best[next].group] = 1;
    }
}

static int32_t plain_search(const pair_of_models *m, const asked *a, int32_t limit, int32_t least,
                            sequence *done)
{
    const trf_search *s = &a->search;
    int more = s->at_limit == TRF_LIMIT_FORCE_EOS || s->at_limit == TRF_LIMIT_FREE_EOS;
    sequence live[MAX_BEAM], next[MAX_BEAM];
    option best[MAX_OPTIONS];
    char lives[MAX_OPTIONS];
    int32_t n_live = 1, n_done = 0, t, k, uncounted = s->count_prefix ? 0 : a->n_prefix;
    memset(live, 0, sizeof live);
    for (t = 0; n_live > 0 && t < limit + more; t++) {
        int32_t forced = t == limit ? EOS : t >= forced_of(a) ? -1
                       : a->n_prefix ? a->prefix[t] : s->forced_first, n_next = 0;
        int free_token = t < free_of(a) || (t == limit && s->at_limit == TRF_LIMIT_FREE_EOS);
        int32_t n = best_options(m, a, live, n_live, limit, least, forced, free_token, best);
        give_places(a, best, n, limit - t - 1, t + 1 == limit && !more, lives);
        for (k = 0; k < n; k++) {
            sequence x = live[best[k].row];
            x.sum = best[k].sum;
            x.own[x.n] = best[k].pure;
            x.met = best[k].met;
            if (best[k].ends && best[k].number < s->beam) finish(s, uncounted, done, &n_done, x, TRF_ENDED_EOS);
            if (!lives[k]) continue;
            x.ids[x.n++] = best[k].id;
            next[n_next++] = x;
        }
        memcpy(live, next, sizeof live);
        n_live = n_next;
        if (n_done == s->beam && n_live > 0 &&
            done[n_done - 1].score > score_of(s, live[0].sum, t + 1 - uncounted)) n_live = 0;
    }
    for (k = 0; k < n_live && !more; k++) finish(s, uncounted, done, &n_done, live[k], TRF_ENDED_MAX_LENGTH);
    return n_done < s->n_best ? n_done : s->n_best;
}

/* -----------------------------------------------------------------------------------------------
   Random cases. */

/* Each rule in half of the cases. rules: a bit for each rule that may be on. */
enum { FORCE = 1, TAG_FIRST = 2, TAG_LAST = 4, BAN = 8, GRAM = 16, PENALTY = 32, FREE = 64, PREFIX = 128,
       PHRASES = 256, ENDS = 512, ALL = 1023, N_RULES = 10 };

static int random_case(asked *a, trf_kind kind, int32_t vocab, int rules)
{
    int32_t i, at = 0, words = vocab < 40 ? vocab : 40;         /* few, so that they meet */
    int on = rules & pick(ALL + 1);
    trf_search *s = &a->search;
    memset(a, 0, sizeof *a);
    *s = trf_search_defaults();
    trf_search_set_rule(s, TRF_SEARCH_HUGGING_FACE);
    s->beam = 1 + pick(MAX_BEAM);
    s->n_best = 1 + pick(s->beam);
    s->min_length = pick(3);
    s->score_prefix = pick(2);
    s->count_prefix = pick(2);
    s->max_length_a = 0;
    s->max_length_b = 5 + pick(8);
    if (kind == TRF_DECODER_ONLY) on &= ~(FORCE | TAG_FIRST | TAG_LAST | PREFIX);
    if (on & FORCE) s->forced_first = word(words);
    if (on & TAG_FIRST) s->source_first = word(words);
    if (on & TAG_LAST) s->source_last = word(words);
    if (on & GRAM) s->no_repeat_ngram = 1 + pick(3);
    if (on & PENALTY) s->repetition_penalty = pick(2) ? 1.6 : 0.7;
    s->at_limit = on & FREE ? TRF_LIMIT_FREE_EOS : pick(2) ? TRF_LIMIT_FORCE_EOS : TRF_LIMIT_KEEP_LIVE;
    for (i = 0; on & BAN && i < 14; i++) {
        int32_t k;
        a->lengths[i] = 1 + (i > 4) + (i > 11);
        for (k = 0; k < a->lengths[i]; k++) a->ids[at++] = word(words);
        s->banned.count = i + 1;
    }
    s->banned.ids = a->ids;
    s->banned.lengths = a->lengths;
    for (i = at = 0; on & PHRASES && i < 1 + pick(MAX_PHRASES); i++) {
        int32_t k;
        a->n_phrases[i] = 1 + pick(3);
        for (k = 0; k < a->n_phrases[i]; k++, at++)     /* some begin like others, or repeat themselves */
            a->phrases[at] = at > 0 && pick(3) == 0 ? a->phrases[pick(at)] : word(words);
        s->phrases.count = i + 1;
    }
    s->phrases.ids = a->phrases;
    s->phrases.lengths = a->n_phrases;
    while (on & ENDS && s->ends.n < 3) {                /* some occur twice, or are special */
        int32_t end = pick(4) ? word(words) : pick(3);
        for (i = 0; i < 5 && a->ids[i] != end; i++) { }             /* banned alone */
        for (at = 0; at < MAX_IDS && a->phrases[at] != end; at++) { }
        if ((i == 5 && at == MAX_IDS && end != s->forced_first) || end == 0) s->ends.ids[s->ends.n++] = end;
    }
    if (on & ENDS) s->renormalize_logits = pick(2);
    a->n_source = 1 + pick(6);
    for (i = 0; i < a->n_source; i++) a->source[i] = word(words);
    if (on & PREFIX) for (a->n_prefix = 1 + pick(2), i = 0; i < a->n_prefix; i++) a->prefix[i] = word(words);
    return on;
}

/* A decoder-only model's prompt is its source: as the oracle sees it, a prefix that is not part of
   the answer. */
static int32_t expected(const pair_of_models *m, const asked *a, sequence *done)
{
    asked b = *a;
    int32_t limit = a->search.max_length_b, least = a->search.min_length;
    b.search.banned.ids = b.ids;
    b.search.banned.lengths = b.lengths;
    b.hidden = !a->n_prefix && a->search.forced_first >= 0;
    if (trf_model_config(m->model)->kind == TRF_DECODER_ONLY) {
        b.hidden = a->n_source;
        memcpy(b.prefix, a->source, sizeof b.prefix);
        b.n_prefix = a->n_source;
        limit += a->n_source;
        least += a->n_source;
    }
    return plain_search(m, &b, limit, least, done);
}

static void search_once(const pair_of_models *m, const asked *a, trf_translator **t)
{
    trf_sequences source = one(a->source, &a->n_source), prefix = one(a->prefix, &a->n_prefix);
    trf_error err;
    OK(trf_translator_create(t, m->model, &a->search, &err));
    if (trf_model_config(m->model)->kind == TRF_DECODER_ONLY) OK(trf_translate(*t, &source, NULL, &err));
    else OK(kit_translate_with(*t, &source, &prefix, NULL, 0, &err));
}

static int differs(double x, double y) { return !(fabs(x - y) < 1e-4 * (1 + fabs(y))); }

/* Compares one case; returns whether the first answer is the one of `without`, too. */
static int same_as_plain(const pair_of_models *m, const asked *a, int number, const asked *without)
{
    sequence done[MAX_BEAM + 1], other[MAX_BEAM + 1];
    int32_t n = expected(m, a, done), hidden, k, i;
    trf_translator *t = NULL;
    hidden = trf_model_config(m->model)->kind == TRF_DECODER_ONLY ? a->n_source
           : !a->n_prefix && a->search.forced_first >= 0;
    search_once(m, a, &t);
    if (kit_count(t, 0) != n)
        fail_msg("case %d: expected %d answers, got %d", number, n, kit_count(t, 0));
    for (k = 0; k < n; k++) {
        const trf_hypothesis *h = trf_translator_answer(t, 0, k);
        double own = 0, before = 0;
        if (h->n + hidden != done[k].n || h->ended != done[k].ended || differs(h->score, done[k].score))
            fail_msg("case %d, rank %d: expected %d ids, score %g, got %d, %g", number, k, done[k].n - hidden,
                     done[k].score, h->n, h->score);
        for (i = 0; i < h->n; i++) assert_int_equal(h->ids[i], done[k].ids[hidden + i]);
        for (i = 0; i < done[k].n + (h->ended == TRF_ENDED_EOS); i++) {
            own += done[k].own[i];
            if (i < hidden) before += done[k].own[i];
            else assert_false(differs(h->log_probabilities[i - hidden], done[k].own[i]));
        }
        assert_false(differs(h->log_probability, own));
        assert_false(differs(h->prompt_log_probability, before));
    }
    trf_translator_destroy(t);
    return without && expected(m, without, other) > 0 && other[0].n == done[0].n &&
        !memcmp(other[0].ids, done[0].ids, (size_t)done[0].n * sizeof(int32_t));
}

/* The same case without one rule. */
static asked without(const asked *a, int rule)
{
    asked b = *a;
    b.search.banned.ids = b.ids;
    b.search.banned.lengths = b.lengths;
    if (rule == FORCE) b.search.forced_first = -1;
    if (rule == TAG_FIRST) b.search.source_first = -1;
    if (rule == TAG_LAST) b.search.source_last = -1;
    if (rule == BAN) b.search.banned.count = 0;
    if (rule == GRAM) b.search.no_repeat_ngram = 0;
    if (rule == PENALTY) b.search.repetition_penalty = 1;
    if (rule == FREE) b.search.at_limit = TRF_LIMIT_FORCE_EOS;
    if (rule == PREFIX) b.n_prefix = 0;
    if (rule == PHRASES) b.search.phrases.count = 0;
    if (rule == ENDS) b.search.ends.n = 0;
    return b;
}

static void compare(const pair_of_models *m, int cases, int rules, int first)
{
    const trf_config *c = trf_model_config(m->model);
    int number, rule, changed[N_RULES] = {0}, seen[N_RULES] = {0};
    for (number = 0; number < cases; number++) {
        static asked a, b;
        int on = random_case(&a, c->kind, c->target_vocab, rules);
        rule = number % N_RULES;
        b = without(&a, 1 << rule);
        if (!same_as_plain(m, &a, first + number, &b) && on >> rule & 1) changed[rule]++;
        seen[rule] += on >> rule & 1;
    }
    /* a rule that changes no answer would not be tested */
    for (rule = 0; rule < N_RULES; rule++)
        if (seen[rule] >= 5 && changed[rule] == 0 && 1 << rule != FREE) fail_msg("rule %d changed nothing", rule);
}

static void test_rules_equal_plain_loops(void **state)
{
    int k;
    (void)state;
    for (k = 0; k < 3; k++) {
        pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, k == 1, k != 2);
        draws = 1000 * (uint64_t)k;
        compare(&m, 200, ALL, 1000 * k);
        free_models(&m);
    }
}

static void test_rules_of_a_language_model(void **state)
{
    pair_of_models m = models_of(TRF_DECODER_ONLY, VOCAB, 0, 0);
    (void)state;
    draws = 5000;
    compare(&m, 160, ALL, 5000);
    free_models(&m);
}

/* Logits are cut into slices of a thousand tokens. */
static void test_rules_over_slices(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, WIDE, 0, 1);
    trf_tensor bias = kit_open(trf_model_parameter(m.model, trf_model_parameter_index(m.model, "generator.bias")));
    asked a;
    int32_t k, i;
    (void)state;
    for (i = 0; i < WIDE; i++) bias.data[i] = (trf_real)(i % 300 < 6 ? 3 + 0.3 * (i % 7) : i == EOS ? 2 : -4);
    bias.data[PAD] = bias.data[BOS] = -4;
    bias.data[1024] = bias.data[2048] = 5;      /* the first ones of slices */
    kit_close(&bias);
    draws = 9000;
    trf_translator_destroy(m.t);
    m.t = NULL;
    { trf_error err; OK(trf_translator_create(&m.t, m.model, NULL, &err)); }
    for (k = 0; k < 24; k++) {
        random_case(&a, TRF_ENCODER_DECODER, WIDE, ALL);
        a.search.no_repeat_ngram = 1 + k % 2;
        a.search.repetition_penalty = k % 3 ? 1.8 : 0.5;
        for (i = 0; i < MAX_IDS; i++) a.ids[i] = 300 * pick(7) + pick(6) + FIRST * (i % 2);
        for (i = 0; i < MAX_IDS; i++) if (a.ids[i] < FIRST) a.ids[i] = FIRST;
        a.ids[0] = 1024 * (1 + k % 2);
        for (i = 0; i < MAX_IDS; i++) a.phrases[i] = 7 + 1024 * pick(3) + pick(6);
        for (i = 0; i < 2; i++) a.n_phrases[i] = 1 + i;
        a.search.phrases.count = k % 3;
        a.search.ends.n = 2;
        a.search.ends.ids[0] = 1024 * (2 - k % 2);
        a.search.ends.ids[1] = 1510;
        a.search.renormalize_logits = k / 2 % 2;
        same_as_plain(&m, &a, 9000 + k, NULL);
    }
    free_models(&m);
}

/* -----------------------------------------------------------------------------------------------
   What callers may rely on. */

/* Sentences that come and go in rounds have the answers that they have alone. */
static void same_in_batches(const pair_of_models *m, asked *a)
{
    int32_t ids[40 * 7], lengths[40], total = 0, i, k;
    trf_sequences x;
    trf_translator *t = NULL, *alone = NULL;
    trf_error err;
    for (i = 0; i < 40; total += lengths[i++]) lengths[i] = 1 + i % 7;
    for (i = 0; i < total; i++) ids[i] = word(VOCAB);
    x.ids = ids; x.lengths = lengths; x.count = 40;
    OK(trf_translator_create(&t, m->model, &a->search, &err));
    OK(trf_translator_create(&alone, m->model, &a->search, &err));
    memset(a->ids, 0x7F, sizeof a->ids);        /* banned sequences have been copied */
    memset(a->lengths, 0x7F, sizeof a->lengths);
    memset(a->phrases, 0x7F, sizeof a->phrases);
    memset(a->n_phrases, 0x7F, sizeof a->n_phrases);
    OK(trf_translate(t, &x, NULL, &err));
    for (i = total = 0; i < 40; total += lengths[i++]) {
        trf_sequences single = one(ids + total, lengths + i);
        OK(trf_translate(alone, &single, NULL, &err));
        assert_int_equal(kit_count(alone, 0), kit_count(t, i));
        for (k = 0; k < kit_count(t, i); k++) {
            const trf_hypothesis *h = trf_translator_answer(t, i, k), *g = trf_translator_answer(alone, 0, k);
            assert_int_equal(h->n, g->n);
            assert_memory_equal(h->ids, g->ids, (size_t)h->n * sizeof *h->ids);
            assert_false(differs(h->score, g->score));
        }
    }
    trf_translator_destroy(t);
    trf_translator_destroy(alone);
}

static void two_phrases(asked *a)
{
    a->search.phrases.count = 2;
    a->n_phrases[0] = 1; a->n_phrases[1] = 2;
    a->phrases[0] = 11; a->phrases[1] = 12; a->phrases[2] = 4;
}

static void test_rules_in_batches(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, 0, 1);
    asked a;
    (void)state;
    draws = 12000;
    random_case(&a, TRF_ENCODER_DECODER, VOCAB, 0);
    a.search.beam = 4; a.search.n_best = 2; a.search.min_length = 2;
    a.search.forced_first = 7; a.search.source_first = 9; a.search.source_last = 10;
    a.search.no_repeat_ngram = 2; a.search.repetition_penalty = 1.3;
    a.search.banned.count = 2; a.lengths[0] = 1; a.lengths[1] = 2; a.ids[0] = 5; a.ids[1] = 8; a.ids[2] = 6;
    two_phrases(&a);
    a.search.ends.n = 2; a.search.ends.ids[0] = 13; a.search.ends.ids[1] = 14;
    a.search.max_sentences = 7;
    same_in_batches(&m, &a);
    free_models(&m);
}

/* Beams that want different numbers of tokens in the same step: they shrink, or some may not end
   yet. */
static void test_phrases_in_batches(void **state)
{
    int kind, round, beam, i;
    (void)state;
    draws = 13000;
    for (kind = 0; kind < 2; kind++) {
        trf_kind is = kind ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER;
        pair_of_models m = models_of(is, VOCAB, 0, 1);
        for (round = 0; round < 5; round++)
            for (beam = 1; beam <= 8; beam *= 2) {
                asked a;
                random_case(&a, is, VOCAB, 0);
                a.search.phrases.ids = a.phrases;
                a.search.phrases.lengths = a.n_phrases;
                two_phrases(&a);
                a.search.beam = a.search.n_best = beam;
                a.search.shrink = beam > 1;
                a.search.min_length = beam > 4 ? 0 : 4;
                a.search.renormalize_logits = beam <= 4;
                a.search.forced_first = -1;
                a.search.ends.n = round;
                for (i = 0; i < round; i++) a.search.ends.ids[i] = 13 + i;
                a.search.max_sentences = 8;
                same_in_batches(&m, &a);
            }
        free_models(&m);
    }
}

/* All sequences of up to `limit` tokens after `at`, each ended by EOS: the best `keep` by tokens of phrases, then
   score. */
static void enumerate(const pair_of_models *m, const asked *a, const sequence *at, int32_t limit, sequence *best)
{
    double own[VOCAB], ruled[VOCAB], pure[VOCAB];
    int32_t w, vocab = trf_model_config(m->model)->target_vocab, i;
    rules_of(m, a, at, 0, own, ruled, pure);
    for (w = 0; w < vocab; w++) {
        sequence x = *at;
        if (ruled[w] == -HUGE_VAL && !(w == EOS && at->n == limit)) continue;     /* there it is forced */
        x.sum += own[w];
        x.own[x.n] = own[w];
        if (w != EOS) {
            if (x.n == limit) continue;
            x.ids[x.n++] = w;
            enumerate(m, a, &x, limit, best);
            continue;
        }
        x.met = met_of(a, x.ids, x.n);
        if (x.met < tokens_of_phrases(a) && x.n < limit) continue;
        x.score = score_of(&a->search, x.sum, x.n + 1);
        for (i = 2; i > 0 &&
             (best[i - 1].met < x.met || (best[i - 1].met == x.met && best[i - 1].score < x.score)); i--)
            if (i < 2) best[i] = best[i - 1];
        if (i < 2) best[i] = x;
    }
}

/* A beam as wide as all continuations finds the best answers of all that contain the phrases; if there is
   no room for these, those that have met the most tokens. */
static void test_phrases_exhaustively(void **state)
{
    enum { SMALL = 10, LIMIT = 3 };
    pair_of_models m = models_of(TRF_ENCODER_DECODER, SMALL, 0, 1);
    int k, i, rank, missing = 0, complete = 0, proven = 0;
    (void)state;
    draws = 20000;
    for (k = 0; k < (KIT_AGAIN ? 6 : 40); k++) {
        asked a;
        sequence nothing, best[2];
        trf_translator *t = NULL;
        memset(&nothing, 0, sizeof nothing);
        for (i = 0; i < 2; i++) { best[i] = nothing; best[i].met = -1; best[i].score = -HUGE_VAL; }
        random_case(&a, TRF_ENCODER_DECODER, SMALL, BAN | GRAM);
        a.search.beam = 520; a.search.n_best = 2;        /* 8^3 and more */ a.search.min_length = 0;
        a.search.stop = TRF_STOP_BOUND;
        a.search.at_limit = TRF_LIMIT_FORCE_EOS;
        a.search.max_length_b = LIMIT;
        if (k % 2) a.search.banned.count = 0;
        a.search.phrases.count = 1 + k % 2;
        for (i = 0; i < 4; i++) a.phrases[i] = i > 0 && pick(2) ? a.phrases[0] : FIRST - 1 + pick(SMALL - FIRST);
        a.n_phrases[0] = 1 + pick(2);
        a.n_phrases[1] = 1 + pick(2);
        enumerate(&m, &a, &nothing, LIMIT, best);
        search_once(&m, &a, &t);
        assert_int_equal(kit_count(t, 0), 2);
        for (rank = 0; rank < 2; rank++) {
            const trf_hypothesis *h = trf_translator_answer(t, 0, rank);
            assert_int_equal(h->n, best[rank].n);
            assert_memory_equal(h->ids, best[rank].ids, (size_t)h->n * sizeof *h->ids);
            assert_false(differs(h->score, best[rank].score));
            assert_int_equal(h->ended, TRF_ENDED_EOS);
            if (best[rank].met == tokens_of_phrases(&a)) complete++;
            else missing++;
            /* of tokens that a rule bans in a row the proof knows nothing */
            if (!a.search.no_repeat_ngram && !a.search.banned.count)
                { assert_int_equal(h->proven, 1); proven++; }
        }
        trf_translator_destroy(t);
    }
    if (!KIT_AGAIN) assert_true(complete > 20 && missing > 3 && proven > 8);
    free_models(&m);
}

/* With beam 1 phrases come when the model would end, or when the limit leaves room for nothing else. If it leaves less,
   the answer begins with them. */
static void test_phrases_of_greedy_search(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, 0, 1);
    static const int32_t phrases[] = {9, 10, 11, 12, 5, 5}, n_phrases[] = {4, 2};
    int32_t limit;
    (void)state;
    draws = 21000;
    for (limit = 3; limit < 9; limit++) {
        trf_translator *t = NULL;
        const trf_hypothesis *h;
        asked a;
        random_case(&a, TRF_ENCODER_DECODER, VOCAB, 0);
        a.search.beam = a.search.n_best = 1;
        a.search.at_limit = TRF_LIMIT_KEEP_LIVE;
        a.search.max_length_b = limit;
        a.search.phrases.ids = phrases; a.search.phrases.lengths = n_phrases; a.search.phrases.count = 2;
        search_once(&m, &a, &t);
        h = trf_translator_answer(t, 0, 0);
        assert_true(h->n == limit || (h->n >= 6 && h->n < limit));
        {
            int32_t left;
            if (limit >= 6) assert_int_equal(count_of_phrase(phrases, 4, h->ids, h->n, &left), 1);
            if (limit >= 6) assert_int_equal(count_of_phrase(phrases + 4, 2, h->ids, h->n, &left), 1);
            if (limit < 6) assert_true(!memcmp(h->ids, phrases, 12) || !memcmp(h->ids, phrases + 4, 8));
        }
        assert_int_equal(h->proven, 0);
        trf_translator_destroy(t);
    }
    free_models(&m);
}

/* BOS may be forced (BART): with the row of another token it is as if that one were. */
static void test_forced_bos(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, 0, 1);
    trf_tensor table = kit_open(trf_model_parameter(m.model, trf_model_parameter_index(m.model, "tgt_embed.weight")));
    trf_translator *t[2] = {NULL, NULL};
    asked a;
    int i;
    (void)state;
    draws = 13000;
    memcpy(table.data + BOS * 16, table.data + 7 * 16, 16 * sizeof *table.data);
    kit_close(&table);
    random_case(&a, TRF_ENCODER_DECODER, VOCAB, 0);
    for (i = 0; i < 2; i++) {
        a.search.forced_first = i ? BOS : 7;
        search_once(&m, &a, &t[i]);
    }
    assert_true(trf_translator_answer(t[0], 0, 0)->n > 0);
    assert_int_equal(trf_translator_answer(t[0], 0, 0)->n, trf_translator_answer(t[1], 0, 0)->n);
    assert_memory_equal(trf_translator_answer(t[0], 0, 0)->ids, trf_translator_answer(t[1], 0, 0)->ids,
                        (size_t)trf_translator_answer(t[0], 0, 0)->n * sizeof(int32_t));
    assert_true(trf_translator_answer(t[0], 0, 0)->score == trf_translator_answer(t[1], 0, 0)->score);
    trf_translator_destroy(t[0]);
    trf_translator_destroy(t[1]);
    free_models(&m);
}

/* Another start id: the answers of the model that starts with it, whatever the rules. */
static void test_start(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, 0, 1);
    trf_config c = *trf_model_config(m.model);
    trf_model *other = NULL;
    trf_error err;
    int kind, k, i, starts_matter = 0;
    (void)state;
    c.decoder_start = TRF_START_PAD;
    OK(kit_create_zeros(&other, &c, &err));
    for (i = 0; i < trf_model_parameter_count(other); i++) {
        trf_tensor from = kit_open(trf_model_parameter(m.model, i)), to = kit_open(trf_model_parameter(other, i));
        memcpy(to.data, from.data, (size_t)trf_tensor_count(&to) * sizeof *to.data);
        kit_close(&to);
        kit_close(&from);
    }
    for (k = 0; k < 20; k++) {
        trf_translator *t[3] = {NULL, NULL, NULL};
        asked a;
        draws = 16000 + (uint64_t)k;
        random_case(&a, TRF_ENCODER_DECODER, VOCAB, ALL & ~PHRASES);
        for (kind = 0; kind < 3; kind++) {
            pair_of_models x = m;
            if (kind) x.model = other;
            a.search.start = kind == 1 ? EOS : -1;
            search_once(&x, &a, &t[kind]);
        }
        assert_int_equal(trf_translator_answer(t[0], 0, 0)->n, trf_translator_answer(t[1], 0, 0)->n);
        assert_memory_equal(trf_translator_answer(t[0], 0, 0)->ids, trf_translator_answer(t[1], 0, 0)->ids,
                            (size_t)trf_translator_answer(t[0], 0, 0)->n * sizeof(int32_t));
        assert_true(trf_translator_answer(t[0], 0, 0)->score == trf_translator_answer(t[1], 0, 0)->score);
        starts_matter += trf_translator_answer(t[0], 0, 0)->score != trf_translator_answer(t[2], 0, 0)->score;
        for (kind = 0; kind < 3; kind++) trf_translator_destroy(t[kind]);
    }
    assert_true(starts_matter > 15);
    trf_model_destroy(other);
    free_models(&m);
}

/* Tokens that are banned are not among those that a search has not seen. */
static void test_banned_tokens_hide_nothing(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, 0, 1);
    trf_translator *t = NULL;
    asked a;
    int32_t i;
    (void)state;
    draws = 15000;
    random_case(&a, TRF_ENCODER_DECODER, VOCAB, 0);
    a.search.beam = 4; a.search.n_best = 1; a.search.min_length = 0;
    a.search.at_limit = TRF_LIMIT_KEEP_LIVE;
    a.search.max_length_b = 1;
    /* EOS, unk and two words are left, fewer than the beam asks for; one id is banned twice */
    for (i = 0; i < VOCAB - 6; i++) { a.ids[i] = VOCAB - 1 - i; a.lengths[i] = 1; }
    a.ids[i] = VOCAB - 1;
    a.lengths[i] = 1;
    a.search.banned.count = i + 1;
    search_once(&m, &a, &t);
    assert_int_equal(trf_translator_answer(t, 0, 0)->proven, 1);
    trf_translator_destroy(t);
    free_models(&m);
}

/* If every token is banned, the search still ends, with an answer of probability 0. */
static void test_everything_banned(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, 0, 1);
    trf_translator *t = NULL;
    asked a;
    int32_t i;
    (void)state;
    draws = 14000;
    random_case(&a, TRF_ENCODER_DECODER, VOCAB, 0);
    a.search.at_limit = TRF_LIMIT_KEEP_LIVE;
    a.search.min_length = a.search.max_length_b + 1;
    a.search.banned.count = VOCAB - 2;
    for (i = 0; i < VOCAB - 2; i++) { a.ids[i] = i ? 2 + i : BOS; a.lengths[i] = 1; }
    search_once(&m, &a, &t);
    assert_int_equal(kit_count(t, 0), 1);
    assert_int_equal(trf_translator_answer(t, 0, 0)->n, 0);
    assert_true(trf_translator_answer(t, 0, 0)->log_probability == -HUGE_VAL);
    trf_translator_destroy(t);
    free_models(&m);
}

/* -----------------------------------------------------------------------------------------------
   Errors. */

static void refused(const trf_model *model, const trf_search *s, trf_status status, const char *field,
                    const char *message)
{
    trf_translator *t = NULL;
    trf_error err;
    assert_int_equal(trf_translator_create(&t, model, s, &err), status);
    assert_null(t);
    assert_string_equal(err.what, field);
    if (!strstr(err.message, message)) fail_msg("'%s' does not say '%s'", err.message, message);
    if (model) assert_int_equal(trf_translator_memory(trf_model_config(model), s, 1, 1, NULL), 0);
}

#define REFUSE(model, field, value, message) \
    do { \
        trf_search changed = trf_search_defaults(); \
        changed.field = value; \
        refused(model, &changed, TRF_E_INVALID_ARG, strcmp(#field, "ends.n") ? #field : "ends", message); \
    } while (0)

static void test_refusals(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, 0, 1), lm = models_of(TRF_DECODER_ONLY, VOCAB, 0, 0);
    int32_t ids[3] = {5, 6, 7}, lengths[2] = {1, 2};
    trf_search s = trf_search_defaults();
    trf_translator *none = NULL;
    trf_error err;
    (void)state;
    REFUSE(m.model, start, -2, "-1"); REFUSE(m.model, start, VOCAB, "start must be below the vocabulary's 20, got 20");
    REFUSE(lm.model, start, VOCAB, "below the vocabulary's 20");
    REFUSE(m.model, forced_first, -2, "-1"); REFUSE(m.model, forced_first, VOCAB, "below the vocabulary's 20, got 20");
    REFUSE(m.model, forced_first, EOS, "must not be EOS"); REFUSE(lm.model, forced_first, 5, "encoder-decoder");
    REFUSE(m.model, source_first, VOCAB, "below"); REFUSE(m.model, source_first, BOS, "must not be a special id");
    REFUSE(m.model, source_last, EOS, "must not be a special id"); REFUSE(m.model, source_last, PAD, "special");
    REFUSE(lm.model, source_last, 5, "prompt"); REFUSE(lm.model, source_first, 5, "prompt");
    REFUSE(m.model, no_repeat_ngram, -1, "0"); REFUSE(m.model, repetition_penalty, 0, "1e-06");
    REFUSE(m.model, repetition_penalty, NAN, "1e-06");
    s.banned.count = -1;
    refused(m.model, &s, TRF_E_INVALID_ARG, "banned", "0");
    s.banned.count = 2;
    refused(m.model, &s, TRF_E_INVALID_ARG, "banned", "NULL");
    s.banned.lengths = lengths;
    refused(m.model, &s, TRF_E_INVALID_ARG, "banned", "NULL");
    s.banned.ids = ids;
    assert_int_equal(trf_search_check(&s, NULL, &err), TRF_OK);
    ids[2] = -1;
    refused(m.model, &s, TRF_E_INVALID_ARG, "banned", "sequence 1, position 1: id must be 0 or more, got -1");
    ids[2] = VOCAB;
    refused(m.model, &s, TRF_E_INVALID_ARG, "banned", "sequence 1, position 1: id must be below");
    ids[2] = 7;
    ids[0] = EOS;
    refused(m.model, &s, TRF_E_INVALID_ARG, "banned", "EOS alone");
    ids[0] = s.ends.ids[0] = 5;
    s.ends.n = 1;
    refused(m.model, &s, TRF_E_INVALID_ARG, "banned", "sequence 0 is an end alone");
    s.ends.n = 0;
    lengths[1] = 0;
    refused(m.model, &s, TRF_E_INVALID_ARG, "banned", "at least one id, got 0");
    lengths[1] = INT32_MAX;
    refused(m.model, &s, TRF_E_LIMIT, "banned", "16777216");
    s = trf_search_defaults();
    s.phrases.count = -1;
    refused(m.model, &s, TRF_E_INVALID_ARG, "phrases", "0");
    s.phrases.count = 2;
    refused(m.model, &s, TRF_E_INVALID_ARG, "phrases", "NULL");
    s.phrases.lengths = lengths;
    lengths[1] = 2;
    refused(m.model, &s, TRF_E_INVALID_ARG, "phrases", "NULL");
    s.phrases.ids = ids;
    assert_int_equal(trf_search_check(&s, NULL, &err), TRF_OK);
    ids[2] = -1;
    refused(m.model, &s, TRF_E_INVALID_ARG, "phrases", "phrase 1, position 1: id must be 0 or more, got -1");
    ids[2] = VOCAB;
    refused(m.model, &s, TRF_E_INVALID_ARG, "phrases",
            "phrase 1, position 1: id must be below the vocabulary's 20, got 20");
    for (ids[2] = PAD; ids[2] <= EOS; ids[2]++) {
        refused(m.model, &s, TRF_E_INVALID_ARG, "phrases", "phrase 1, position 1: id must not be a special id");
        assert_int_equal(trf_translator_create(&none, m.model, &s, &err), TRF_E_INVALID_ARG);
        assert_int_equal(err.where, 2);
    }
    s.ends.n = 2; s.ends.ids[0] = 8; s.ends.ids[1] = 5;
    refused(m.model, &s, TRF_E_INVALID_ARG, "phrases", "phrase 0, position 0: id must not be a special id, got 5");
    s.phrases.count = 0;
    s.forced_first = 8;
    refused(m.model, &s, TRF_E_INVALID_ARG, "forced_first", "must not be one of the ends, got 8");
    s.forced_first = -1;
    s.ends.ids[1] = -1;
    refused(m.model, &s, TRF_E_INVALID_ARG, "ends", "must be 0 or more, got -1");
    s.ends.ids[1] = VOCAB;
    refused(m.model, &s, TRF_E_INVALID_ARG, "ends", "end 1 must be below the vocabulary's 20, got 20");
    REFUSE(m.model, ends.n, -1, "ends.n must be in 0..16, got -1"); REFUSE(m.model, ends.n, 17, "got 17");
    s.ends.n = 0;
    s.phrases.count = 2;
    s.ban_unk = 1;
    refused(m.model, &s, TRF_E_INVALID_ARG, "phrases", "ban_unk forbids unk");
    s.ban_unk = 0;
    assert_int_equal(trf_translator_create(&none, m.model, &s, &err), TRF_OK);
    trf_translator_destroy(none);
    lengths[1] = 0;
    refused(m.model, &s, TRF_E_INVALID_ARG, "phrases", "phrase 1 must have at least one id, got 0");
    lengths[1] = 64;
    refused(m.model, &s, TRF_E_LIMIT, "phrases", "phrases must have at most 64 ids together");
    free_models(&m);
    free_models(&lm);
}

/* Tags take room in the longest source. */
static void test_tags_count_in_max_length(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, 0, 1);
    int32_t ids[66], n, i, lengths[3] = {1, 1, 0};
    trf_sequences x = one(ids, &n);
    trf_search s = trf_search_defaults();
    trf_translator *t = NULL;
    trf_error err;
    (void)state;
    for (i = 0; i < 66; i++) ids[i] = 5;
    s.source_first = 6; s.source_last = 7;
    s.max_length_a = 0; s.max_length_b = 3;
    OK(trf_translator_create(&t, m.model, &s, &err));
    n = 64 - 3;                         /* EOS and two tags */
    OK(trf_translate(t, &x, NULL, &err));
    assert_true(trf_translator_memory(trf_model_config(m.model), &s, 1, n, NULL) > 0);
    n++;
    lengths[2] = n;
    x.lengths = lengths; x.count = 3;
    assert_int_equal(trf_translate(t, &x, NULL, &err), TRF_E_LIMIT);
    assert_int_equal(err.where, 2);             /* of the call, before anything is sorted */
    assert_int_equal(trf_translator_memory(trf_model_config(m.model), &s, 1, n, NULL), 0);
    trf_translator_destroy(t);
    free_models(&m);
}

/* Tagged sources are those that a search makes: the score of its answers, the loss of a trainer, and the encoder's
   rows of a model that reads EOS as an id. */
static void test_tagged_sources(void **state)
{
    pair_of_models m = models_of(TRF_ENCODER_DECODER, VOCAB, 0, 1);
    trf_config encoder = kit_of_kind(kit_small(1, 16, VOCAB, 64), TRF_ENCODER_ONLY);
    trf_model *alone;
    static const int32_t plain[] = {5, 6, 11, 8}, tagged[] = {9, 5, 6, 11, 10, 9, 8, 10},
        explicit[] = {9, 5, 6, 11, EOS, 10, 9, 8, EOS, 10}, n[3][2] = {{3, 1}, {5, 3}, {6, 4}},
        empty[2] = {8, 0};
    const trf_sequences sources = {plain, n[0], 2}, reads = {explicit, n[2], 2};
    trf_search s = trf_search_defaults();
    trf_train_options o = trf_train_defaults();
    int32_t targets[64], lengths[2], i, k, all = 0;
    double score[2], other[2], sum = 0, wanted[2];
    trf_translator *t = NULL, *scores = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    trf_batch batch;
    trf_real *rows[2];
    trf_error err;
    (void)state;
    s.source_first = 9; s.source_last = 10;
    s.beam = 1; s.max_length_a = 0; s.max_length_b = 6; s.at_limit = TRF_LIMIT_FORCE_EOS;
    OK(trf_translator_create(&t, m.model, &s, &err));
    OK(trf_translate(t, &sources, NULL, &err));
    for (i = 0; i < 2; i++) {
        const trf_hypothesis *h = trf_translator_answer(t, i, 0);
        assert_int_equal(h->ended, TRF_ENDED_EOS);
        for (k = 0; k < h->n; k++) targets[all++] = h->ids[k];
        lengths[i] = h->n;
        sum += wanted[i] = h->log_probability;
    }
    memset(&batch, 0, sizeof batch);
    batch.source.ids = tagged; batch.source.lengths = n[1]; batch.source.count = 2;
    batch.target.ids = targets; batch.target.lengths = lengths; batch.target.count = 2;
    OK(trf_reader_score(trf_translator_reader(t), &batch, NULL, other, &err));
    s.source_tagged = 1;
    OK(trf_translator_create(&scores, m.model, &s, &err));
    OK(trf_translate(scores, &sources, NULL, &err));
    OK(trf_reader_score(trf_translator_reader(scores), &batch, NULL, score, &err));
    for (i = 0; i < 2; i++) {
        assert_true(fabs(score[i] - wanted[i]) < 1e-4);
        assert_true(fabs(other[i] - wanted[i]) > 1e-3);         /* the tag in front of EOS is another source */
    }
    o.dropout = 0; o.label_smoothing = 0; o.source_tagged = 1;
    OK(trf_trainer_create(&trainer, m.model, &o, &err));
    OK(trf_trainer_evaluate(trainer, &batch, NULL, &report, &err));
    assert_true(fabs(report.nll * (double)report.target_tokens + sum) < 1e-3);
    o.source_tagged = 0;
    OK(trf_trainer_set_options(trainer, &o, &err));
    OK(trf_trainer_evaluate(trainer, &batch, NULL, &report, &err));
    assert_true(fabs(report.nll * (double)report.target_tokens + sum) > 1e-3);
    for (i = 0; i < 2; i++) {
        const trf_batch explained = {reads, {NULL, NULL, 0}, 0, {0, 0, 0}};
        const trf_batch *x = i ? &explained : &batch;
        trf_reading seen;
        rows[i] = (trf_real *)calloc(2 * 10 * 16, sizeof **rows);
        OK(trf_reader_read(trf_translator_reader(i ? m.reads : scores), x, TRF_READ_ENCODER_STATES, NULL, &seen, &err));
        assert_int_equal(trf_tensor_count(&seen.encoder_states), 2 * 10 * 16);
        memcpy(rows[i], seen.encoder_states.data, 2 * 10 * 16 * sizeof **rows);
    }
    for (i = 0; i < 320; i++) assert_true(fabs((double)(rows[0][i] - rows[1][i])) < 1e-5);

    batch.source.lengths = empty;
    assert_int_equal(trf_reader_score(trf_translator_reader(scores), &batch, NULL, score, &err), TRF_E_INVALID_ARG);
    assert_int_equal(err.where, 1);
    o.source_tagged = 2;
    assert_int_equal(trf_train_check(&o, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "source_tagged");
    o.source_tagged = 1;
    encoder.head = TRF_HEAD_FIRST; encoder.n_labels = 2;
    OK(trf_model_create(&alone, &encoder, NULL, &err));
    assert_int_equal(trf_train_check(&o, &encoder, &err), TRF_E_INVALID_ARG);
    s.source_first = s.source_last = -1;
    trf_translator_destroy(t);
    assert_int_equal(trf_translator_create(&t, alone, &s, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "source_tagged");
    free(rows[0]); free(rows[1]);
    trf_trainer_destroy(trainer);
    trf_translator_destroy(scores);
    trf_model_destroy(alone);
    free_models(&m);
}

/* -----------------------------------------------------------------------------------------------
   Languages by their codes. */

static trf_model *model_of_languages(const char *const *metadata, size_t n)
{
    static const char *const tokens[] = {"__en__", "__de__", ">>fr<<", "x"};
    trf_config config = trf_config_preset(TRF_TINY);
    trf_vocab *vocab[2];
    trf_model *model;
    trf_error err;
    size_t i;
    int side;
    for (side = 0; side < 2; side++) {
        OK(trf_vocab_create(&vocab[side], TRF_WORDS, NULL, &err));
        OK(trf_vocab_finish(vocab[side], 5, 1, &err));
        for (i = 0; i < 4; i++)         /* 4 to 7; among targets 7 to 4 */
            OK(trf_vocab_add(vocab[side], tokens[side ? 3 - i : i], &err));
    }
    config.source_vocab = config.target_vocab = trf_vocab_size(vocab[0]);
    config.d_model = config.d_ff = 8;
    config.n_heads = 1;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_model_set_vocabs(model, vocab[0], vocab[1], &err));
    for (i = 0; i + 1 < n; i += 2) OK(trf_model_set_metadata(model, metadata[i], metadata[i + 1], &err));
    trf_vocab_destroy(vocab[0]);
    trf_vocab_destroy(vocab[1]);
    return model;
}

/* The fields as text, "first last forced start tagged", or the error's argument. */
static const char *languages_are(const char *const *metadata, size_t n, const char *source,
                                 const char *target, int32_t forced_first)
{
    static char text[64];
    trf_model *model = model_of_languages(metadata, n);
    trf_search s = trf_search_defaults();
    trf_error err;
    s.forced_first = forced_first;
    if (trf_search_languages(&s, model, source, target, &err)) {
        trf_search before = trf_search_defaults();
        before.forced_first = forced_first;
        assert_true(s.source_first == -1 && s.source_last == -1 && s.start == before.start &&
                    s.forced_first == forced_first);
        snprintf(text, sizeof text, "%s %s", trf_status_name(err.status), err.what);
    } else
        snprintf(text, sizeof text, "%d %d %d %d %d", (int)s.source_first, (int)s.source_last,
                 (int)s.forced_first, (int)s.start, (int)s.source_tagged);
    trf_model_destroy(model);
    return text;
}

static void test_languages(void **state)
{
    static const char *const m2m[] = {"languages", "en de", "source.tag", "source-first __*__",
                                      "target.tag", "forced-first __*__"};
    static const char *const remembers[] = {"languages", "en de", "source.tag", "source-last __*__",
                                            "target.tag", "start __*__", "source.language", "en",
                                            "target.language", "de"};
    static const char *const marian[] = {"languages", "fr", "target.tag", "source-first >>*<<",
                                         "target.language", "fr"};
    static const char *const starts[] = {"languages", "bos en", "target.tag", "start <*>"};
    static const char *const first[] = {"target.first", "7"};
    static const char *const wrong[] = {"target.first", "7x"};
    static const char *const high[] = {"target.first", "8"};
    trf_search s = trf_search_defaults();
    trf_error err;
    (void)state;
#define ARE(of, source, target, forced, wanted) \
    assert_string_equal(languages_are(of, sizeof of / sizeof *of, source, target, forced), wanted)
    ARE(m2m, "en", "de", -1, "4 -1 6 -1 0");
    ARE(m2m, "de", "en", -1, "5 -1 7 -1 0");
    ARE(m2m, "en", "de", 7, "4 -1 7 -1 0");             /* what is set stays */
    ARE(m2m, NULL, "de", -1, "TRF_E_INVALID_ARG source");
    ARE(m2m, "en", NULL, -1, "TRF_E_INVALID_ARG target");
    ARE(m2m, "en", "fr", -1, "TRF_E_INVALID_ARG target");
    ARE(m2m, "en", "a code of more than sixty bytes, which no vocabulary could have anyway, and on", -1,
        "TRF_E_INVALID_ARG target");
    ARE(remembers, NULL, NULL, -1, "-1 4 -1 6 1");
    ARE(remembers, "de", "en", -1, "-1 5 -1 7 1");
    ARE(marian, NULL, NULL, -1, "-1 -1 -1 -1 0");       /* the text may have its tag */
    ARE(marian, NULL, "fr", -1, "6 -1 -1 -1 0");
    ARE(marian, "fr", "fr", -1, "TRF_E_UNSUPPORTED source");
    ARE(starts, NULL, NULL, -1, "-1 -1 -1 -1 0");
    ARE(starts, NULL, "en", -1, "TRF_E_INVALID_ARG target");
    ARE(first, NULL, NULL, -1, "-1 -1 7 -1 0");
    ARE(first, NULL, NULL, 5, "-1 -1 5 -1 0");
    ARE(wrong, NULL, NULL, -1, "TRF_E_FORMAT target.first");
    ARE(high, NULL, NULL, -1, "TRF_E_FORMAT target.first");
    ARE(first, "en", NULL, -1, "TRF_E_UNSUPPORTED source");
    assert_int_equal(trf_search_languages(NULL, NULL, NULL, NULL, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_search_languages(&s, NULL, NULL, NULL, &err), TRF_E_INVALID_ARG);
}

/* The list that trf import has stored, which trf_search_languages takes if there is none yet. */
static void test_model_ends(void **state)
{
    static const struct { const char *text; int32_t n, ids[2]; } all[] = {
        {NULL, 0, {0, 0}}, {"7", 1, {7, 0}}, {"2 7", 2, {2, 7}}, {"", -1, {0, 0}}, {"7x", -1, {0, 0}},
        {"8", -1, {0, 0}}, {"-1", -1, {0, 0}}, {"2  7", -1, {0, 0}}, {"2 ", -1, {0, 0}},
        {"99999999999999999999", -1, {0, 0}}, {"1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", -1, {0, 0}}};
    trf_ends ends;
    trf_error err;
    size_t i;
    (void)state;
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        const char *metadata[2] = {"target.ends", all[i].text};
        trf_model *model = model_of_languages(metadata, all[i].text ? 2 : 0);
        trf_search s = trf_search_defaults(), given = s;
        int bad = all[i].n < 0;
        ends.n = 5;
        given.ends.n = 1;
        given.ends.ids[0] = 6;
        assert_int_equal(trf_model_ends(model, &ends, &err), bad ? TRF_E_FORMAT : TRF_OK);
        if (bad) assert_string_equal(err.what, "target.ends");
        assert_int_equal(trf_search_languages(&s, model, NULL, NULL, &err), bad ? TRF_E_FORMAT : TRF_OK);
        assert_int_equal(trf_search_languages(&given, model, NULL, NULL, &err), TRF_OK);
        assert_true(given.ends.n == 1 && given.ends.ids[0] == 6);
        assert_int_equal(ends.n, bad ? 0 : all[i].n);
        assert_int_equal(s.ends.n, ends.n);
        if (!bad) assert_memory_equal(ends.ids, all[i].ids, (size_t)ends.n * sizeof *ends.ids);
        if (!bad) assert_memory_equal(s.ends.ids, ends.ids, (size_t)ends.n * sizeof *ends.ids);
        trf_model_destroy(model);
    }
    assert_int_equal(trf_model_ends(NULL, &ends, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_model_ends(NULL, NULL, &err), TRF_E_INVALID_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_equal_plain_loops),
        cmocka_unit_test(test_tagged_sources),
        cmocka_unit_test(test_rules_of_a_language_model),
        cmocka_unit_test(test_rules_over_slices),
        cmocka_unit_test(test_rules_in_batches),
        cmocka_unit_test(test_phrases_in_batches),
        cmocka_unit_test(test_phrases_exhaustively),
        cmocka_unit_test(test_phrases_of_greedy_search),
        cmocka_unit_test(test_forced_bos),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_banned_tokens_hide_nothing),
        cmocka_unit_test(test_everything_banned),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_languages),
        cmocka_unit_test(test_model_ends),
        cmocka_unit_test(test_tags_count_in_max_length)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

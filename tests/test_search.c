/* build: shared separate:shared cuda:shared plain:shared */
/* Beam search on toy language models: the goldens of six rules, plain programs of those rules, what
   CTranslate2 itself has answered, and exhaustive search as oracles; then the corners: limits,
   prefixes, ties, NaN, beams wider than the vocabulary. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "kit.h"

enum { MAX_VOCAB = 12, MAX_TOKENS = 12, MAX_WIDE = 256, MAX_RANKS = 16, MAX_ALL = 8192, EOS = 0 };

/* -----------------------------------------------------------------------------------------------
   A first-order language model: log-probability of each token after each token; row `vocab` is the
   start. Random ones drift: at position n all numbers are multiplied by 1 + drift * n, else many
   answers would have the same sum. */
typedef struct toy { int32_t vocab, first; double drift, p[MAX_VOCAB + 1][MAX_VOCAB]; } toy;

static uint64_t draws;
static double uniform(void) { return (double)(trf__random64(2024, 7, draws++) >> 11) * 0x1p-53; }
static int32_t pick(int32_t n) { return (int32_t)(uniform() * n); }

static toy random_toy(int32_t vocab, double sharpness)
{
    toy lm;
    int32_t r, w;
    memset(&lm, 0, sizeof lm);
    lm.vocab = vocab;
    lm.drift = 0.03;
    for (r = 0; r <= vocab; r++) {
        double sum = 0;
        for (w = 0; w < vocab; w++) sum += lm.p[r][w] = exp(sharpness * uniform());
        for (w = 0; w < vocab; w++) lm.p[r][w] = log(lm.p[r][w] / sum);
    }
    return lm;
}

/* The golden of definitions: tokens EOS a b c, probabilities k/97. */
static toy golden_toy(void)
{
    static const int k[5][4] = {
        {0, 0, 0, 0}, {5, 18, 20, 54}, {37, 19, 21, 20}, {22, 14, 29, 32}, {16, 4, 7, 70}};
    toy lm;
    int r, w;
    memset(&lm, 0, sizeof lm);
    lm.vocab = 4;
    for (r = 0; r < 5; r++)
        for (w = 0; w < 4; w++)
            lm.p[r][w] = r ? log(k[r][w] / 97.0) : -1e9; /* nothing may follow EOS */
    return lm;
}

typedef struct sequence { int32_t n, ids[MAX_TOKENS]; } sequence;

static int32_t last_of(const toy *lm, const sequence *s)
{
    return s->n ? s->ids[s->n - 1] : lm->vocab;
}
static double next_p(const toy *lm, const sequence *s, int32_t w)
{
    return lm->p[last_of(lm, s)][w] * (1 + lm->drift * (lm->first + s->n));
}
/* What the search is told, if w is not forced: before min_length EOS may leave the softmax. */
static double said_p(const toy *lm, const sequence *s, int32_t w, int without_eos)
{
    double sum = 0, p;
    int32_t v;
    for (v = 0; without_eos && v < lm->vocab; v++)
        if (v != EOS && (p = next_p(lm, s, v)) < 1) sum += exp(p);
    return next_p(lm, s, w) - (without_eos ? log(sum) : 0);
}
static int without_eos(const trf_search *search, const sequence *s)
{
    return search->renormalize_logits && s->n < search->min_length;
}
static sequence with(sequence s, int32_t w) { s.ids[s.n++] = w; return s; }
static int same(const sequence *a, const int32_t *ids, int32_t n)
{
    return a->n == n && (n == 0 || memcmp(a->ids, ids, (size_t)n * sizeof *ids) == 0);
}

/* -----------------------------------------------------------------------------------------------
   The driver: what the translator does, with a copy of every row's tokens as its "cache". */
typedef struct answers {
    int32_t n, steps, rows, rows_at[2 * MAX_TOKENS];
    trf_hypothesis h[MAX_RANKS];
    int32_t ids[MAX_RANKS * (MAX_TOKENS + 1)];
    double own[MAX_RANKS * (MAX_TOKENS + 1)];
} answers;

static unsigned char arena[4 << 20];
typedef struct candidate { double log_probability; int32_t id; } candidate;
static candidate shown[MAX_WIDE * MAX_VOCAB];
static sequence cache[MAX_WIDE], moved[MAX_WIDE];

static void *place_for(size_t bytes)
{
    unsigned char *memory = arena + (TRF__ALIGN - (uintptr_t)arena % TRF__ALIGN) % TRF__ALIGN;
    assert_true(bytes + 2 * TRF__ALIGN < sizeof arena);
    memset(memory, 0xA5, bytes + TRF__ALIGN);
    return memory;
}

static void beam_start(trf__beam *beam, int32_t limit, const int32_t *prefix, int32_t n_prefix,
                       int32_t eos, int32_t vocab)
{
    trf__beam_sentence(beam, limit, prefix, n_prefix, eos, vocab);
    trf__beam_open(beam);
}

/* One step with candidates as pairs; the beam takes them as two arrays. */
static int32_t advance(trf__beam *beam, const candidate *candidates, int64_t stride, int32_t count)
{
    static double log_probabilities[MAX_WIDE * MAX_VOCAB];
    static int32_t ids[MAX_WIDE * MAX_VOCAB];
    int64_t n = beam->live * stride, i;
    for (i = 0; i < n; i++) {
        log_probabilities[i] = candidates[i].log_probability;
        ids[i] = candidates[i].id;
    }
    return trf__beam_advance(beam, log_probabilities, NULL, NULL, ids, stride, count, 0);
}

static double rank_of(double p) { return p < 1 ? p : -HUGE_VAL; }

/* The best `count` tokens after s, best first, ties: lowest id first; what is no probability comes
   last. */
static void show(const toy *lm, const sequence *s, trf__beam_request request, candidate *out)
{
    int32_t n = 0, count = request.count, w, i;
    for (w = request.forced == TRF__NOT_EOS; w < lm->vocab; w++) {
        double p = said_p(lm, s, w, request.forced == TRF__NOT_EOS);
        for (i = n; i > 0 && rank_of(p) > rank_of(out[i - 1].log_probability); i--)
            if (i < count) out[i] = out[i - 1];
        if (i >= count) continue;
        out[i].id = w;
        out[i].log_probability = p;
        if (n < count) n++;
    }
}

/* One step of one sentence; returns the rows it computed. */
static int32_t drive(const toy *lm, trf__beam *beam, sequence *rows, sequence *spare)
{
    trf__beam_request request = trf__beam_wanted(beam);
    int32_t r, live = beam->live, now;
    for (r = 0; r < live; r++) {
        assert_int_equal(rows[r].n, beam->n);
        assert_true(rows[r].n == 0 || rows[r].ids[rows[r].n - 1] != EOS);
        if (request.forced < 0) {
            show(lm, &rows[r], request, shown + r * request.count);
            continue;
        }
        shown[r].id = request.forced;
        shown[r].log_probability = next_p(lm, &rows[r], request.forced);
    }
    now = advance(beam, shown, request.count, request.count);
    assert_int_equal(now, beam->done ? 0 : beam->live);
    assert_true(now <= beam->search.beam);
    for (r = 0; r < now; r++) {
        assert_in_range(trf__beam_parents(beam)[r], 0, live - 1);
        spare[r] = with(rows[trf__beam_parents(beam)[r]], trf__beam_tokens(beam)[r]);
    }
    for (r = 0; r < now; r++) rows[r] = spare[r];
    return live;
}

static void check_answers(const toy *lm, const trf_search *search, const answers *a)
{
    int32_t k, j, t;
    for (k = 0; k < a->n; k++) {
        const trf_hypothesis *h = &a->h[k];
        sequence s;
        double sum = 0, added = 0;
        s.n = 0;
        for (t = 0; t < h->n; t++) {
            double p = said_p(lm, &s, h->ids[t], without_eos(search, &s));
            assert_int_not_equal(h->ids[t], EOS);
            assert_true(h->log_probabilities[t] == p || fabs(h->log_probabilities[t] - p) < 1e-12);
            sum += p;
            added += h->log_probabilities[t];
            s = with(s, h->ids[t]);
        }
        if (h->ended == TRF_ENDED_EOS) {
            double p = next_p(lm, &s, EOS);
            if (isfinite(sum))
                assert_true(fabs(h->log_probabilities[h->n] - p) < 1e-12 * (1 + fabs(p)) ||
                            h->log_probability == -HUGE_VAL);
            sum += p;
            added += h->log_probabilities[h->n];
        }
        assert_true(h->prompt_log_probability == 0 && added == h->log_probability);      /* to the last bit */
        if (isfinite(sum)) assert_true(fabs(sum - h->log_probability) < 1e-12 * (1 + fabs(sum)));
        assert_true(h->score ==
                    trf__search_score(search, h->log_probability,
                                      h->n + (h->ended == TRF_ENDED_EOS ? search->count_eos : 0)));
        if (k == 0) continue;
        assert_true(h->score <= h[-1].score);
        assert_true(h->proven <= h[-1].proven);
        for (j = 0; j < k; j++) assert_false(same(&s, a->h[j].ids, a->h[j].n));
    }
}

static answers run(const toy *lm, const trf_search *search, int32_t limit, const int32_t *prefix,
                   int32_t n_prefix)
{
    trf__beam beam;
    trf_error err;
    answers a;
    size_t bytes = trf__beam_layout(&beam, search, NULL, limit + 1, NULL), i;
    unsigned char *memory = (unsigned char *)place_for(bytes);
    assert_int_equal(trf_search_check(search, NULL, &err), TRF_OK);
    assert_int_equal(trf__beam_layout(&beam, search, NULL, limit + 1, memory), bytes);
    memset(&a, 0, sizeof a);
    beam_start(&beam, limit, prefix, n_prefix, EOS, lm->vocab);
    cache[0].n = 0;
    while (!beam.done) {
        assert_true(a.steps <= limit);
        a.rows_at[a.steps] = drive(lm, &beam, cache, moved);
        a.rows += a.rows_at[a.steps++];
    }
    assert_true(trf__beam_ids(&beam) <= (int64_t)(sizeof a.ids / sizeof a.ids[0]));
    a.n = trf__beam_finish(&beam, a.h, a.ids, a.own);
    assert_true(a.n >= 1 && a.n <= search->n_best);
    for (i = 0; i < TRF__ALIGN; i++) assert_int_equal(memory[bytes + i], 0xA5);
    return a;
}

/* A struct that holds pointers into itself must not be copied: answers are looked at through this.
 */
static const int32_t *ids_of(const answers *a, int32_t rank)
{
    const int32_t *ids = a->ids;
    int32_t k;
    for (k = 0; k < rank; k++) ids += a->h[k].n + 1;
    return ids;
}

static void run_into(answers *a, const toy *lm, const trf_search *search, int32_t limit)
{
    int32_t k;
    *a = run(lm, search, limit, NULL, 0);
    for (k = 0; k < a->n; k++) {
        a->h[k].ids = ids_of(a, k);
        a->h[k].log_probabilities = a->own + (a->h[k].ids - a->ids);
    }
    check_answers(lm, search, a);
}

static trf_search rule(trf_search_rule whose, int32_t beam, double alpha)
{
    trf_search search = trf_search_defaults();
    trf_search_set_rule(&search, whose);
    search.beam = beam;
    search.threads = 1;
    if (whose != TRF_SEARCH_RAW) search.alpha = alpha;
    return search;
}

/* -----------------------------------------------------------------------------------------------
   Oracle 1: six published searches, each a plain program after its description; they return the
   best answer. */
typedef struct item { double s; sequence seq; int32_t w; } item;
typedef struct found { double score; sequence seq; int any; } found;

static item continuations[MAX_WIDE * MAX_VOCAB];

/* All continuations of the active hypotheses, sorted by sum, cut to `keep`. no_eos 2: it leaves the
   softmax. */
static int32_t expand(const toy *lm, const item *active, int32_t n_active, int no_eos, int only_eos,
                      int32_t keep)
{
    int32_t n = 0, a, w, i;
    for (a = 0; a < n_active; a++)
        for (w = 0; w < lm->vocab; w++) {
            double s = active[a].s + said_p(lm, &active[a].seq, w, no_eos == 2);
            if ((no_eos && w == EOS) || (only_eos && w != EOS)) continue;
            for (i = n++; i > 0 && s > continuations[i - 1].s; i--)
                continuations[i] = continuations[i - 1];
            continuations[i].s = s;
            continuations[i].seq = active[a].seq;
            continuations[i].w = w;
        }
    return n < keep ? n : keep;
}

static void keep_best(found *best, double score, sequence seq)
{
    if (best->any && best->score >= score) return;
    best->any = 1;
    best->score = score;
    best->seq = seq;
}

/* Continuations without EOS become active. */
static int32_t go_on(item *active, int32_t n, int32_t most)
{
    int32_t live = 0, k;
    for (k = 0; k < n && live < most; k++) {
        if (continuations[k].w == EOS) continue;
        active[live].s = continuations[k].s;
        active[live++].seq = with(continuations[k].seq, continuations[k].w);
    }
    return live;
}

static found fairseq(const toy *lm, int32_t B, int32_t limit, double alpha)
{
    item active[MAX_RANKS];
    found best;
    int32_t n_active = 1, finished = 0, step, n, k;
    memset(&best, 0, sizeof best);
    memset(active, 0, sizeof active);
    for (step = 0; step <= limit; step++) {
        n = expand(lm, active, n_active, step == 0, step == limit, 2 * B);
        for (k = 0; k < n && k < B; k++)
            if (continuations[k].w == EOS && finished < B) {
                finished++;
                keep_best(&best, continuations[k].s / pow(step + 1, alpha), continuations[k].seq);
            }
        if (finished >= B) break;
        n_active = go_on(active, n, B);
    }
    return best;
}

static found ctranslate2(const toy *lm, int32_t B, int32_t limit, double alpha)
{
    item active[MAX_RANKS], next[MAX_RANKS];
    found best;
    int32_t n_active = 1, finished = 0, step, n, k, j;
    memset(&best, 0, sizeof best);
    memset(active, 0, sizeof active);
    for (step = 0; step < limit; step++) {
        int last = step == limit - 1, top = 0;
        int32_t second = B, n_next = 0;
        n = expand(lm, active, n_active, step == 0 ? 2 : 0, 0, 2 * B);
        for (k = 0; k < n && k < B; k++) {
            int32_t at = k;
            if (continuations[k].w == EOS || last) {
                sequence h = continuations[k].seq;
                if (continuations[k].w != EOS) h = with(h, continuations[k].w);
                keep_best(&best, continuations[k].s / pow(step + 1, alpha), h);
                finished++;
                if (k == 0) top = 1;
                for (j = second; j < n; j++)
                    if (continuations[j].w != EOS) { at = j; second = j + 1; break; }
            }
            if (continuations[at].w == EOS) continue;
            next[n_next].s = continuations[at].s;
            next[n_next++].seq = with(continuations[at].seq, continuations[at].w);
        }
        if (alpha == 0 ? top : finished >= B) break;
        memcpy(active, next, sizeof next);
        n_active = n_next;
    }
    return best;
}

static found gnmt(const toy *lm, int32_t B, int32_t limit, double alpha)
{
    item active[MAX_RANKS];
    found best;
    int32_t n_active = 1, i, n, k;
    memset(&best, 0, sizeof best);
    memset(active, 0, sizeof active);
    for (i = 0; i < limit; i++) {
        n = expand(lm, active, n_active, 0, 0, 2 * B);
        for (k = 0; k < n; k++)
            if (continuations[k].w == EOS)
                keep_best(&best, continuations[k].s / pow((5.0 + i + 1) / 6, alpha),
                          continuations[k].seq);
        n_active = go_on(active, n, B);
        if (n_active == 0) break;
        if (best.any && best.score > active[0].s / pow((5.0 + limit) / 6, alpha)) break;
    }
    if (!best.any)
        for (k = 0; k < n_active; k++)
            keep_best(&best, active[k].s / pow((5.0 + limit) / 6, alpha), active[k].seq);
    return best;
}

static found marian(const toy *lm, int32_t B, int32_t limit, double alpha)
{
    item active[MAX_RANKS];
    found best;
    int32_t n_active = 1, width = B, step, n, k;
    memset(&best, 0, sizeof best);
    memset(active, 0, sizeof active);
    for (step = 1; step <= limit && n_active > 0; step++) {
        n = expand(lm, active, n_active, 0, 0, width);
        for (k = 0; k < n; k++) {
            int eos = continuations[k].w == EOS;
            sequence h =
                eos ? continuations[k].seq : with(continuations[k].seq, continuations[k].w);
            if (eos || step == limit) keep_best(&best, continuations[k].s / pow(step, alpha), h);
        }
        n_active = width = go_on(active, n, n);
    }
    return best;
}

/* Hugging Face's generate, early_stopping False: the finished ones are a sorted list of B. */
static found hugging_face(const toy *lm, int32_t B, int32_t limit, double alpha)
{
    item active[MAX_RANKS];
    double worst[MAX_RANKS];
    found best;
    int32_t n_active = 1, finished = 0, step, n, k, i;
    memset(&best, 0, sizeof best);
    memset(active, 0, sizeof active);
    for (step = 1; step <= limit; step++) {
        n = expand(lm, active, n_active, 0, 0, 2 * B);
        for (k = 0; k < n && k < B; k++) {
            int eos = continuations[k].w == EOS;
            double score = continuations[k].s / pow(step, alpha);
            if (!eos && step < limit) continue;
            keep_best(&best, score,
                      eos ? continuations[k].seq : with(continuations[k].seq, continuations[k].w));
            for (i = finished < B ? finished++ : B; i > 0 && score > worst[i - 1]; i--)
                if (i < B) worst[i] = worst[i - 1];
            if (i < B) worst[i] = score;
        }
        if (step == limit) break;
        n_active = go_on(active, n, B);
        if (finished == B && !(active[0].s / pow(step, alpha) > worst[B - 1])) break;
    }
    return best;
}

static found raw_sum(const toy *lm, int32_t B, int32_t limit)
{
    item active[MAX_RANKS];
    found best;
    int32_t n_active = 1, finished = 0, step, n, k;
    memset(&best, 0, sizeof best);
    memset(active, 0, sizeof active);
    for (step = 0; step < limit && finished < B && n_active > 0; step++) {
        n = expand(lm, active, n_active, 0, 0, B);
        for (k = 0; k < n; k++)
            if (continuations[k].w == EOS) {
                finished++;
                keep_best(&best, continuations[k].s, continuations[k].seq);
            }
        n_active = go_on(active, n, B);
    }
    if (!best.any) keep_best(&best, active[0].s, active[0].seq);
    return best;
}

static found published(trf_search_rule whose, const toy *lm, int32_t B, int32_t limit, double alpha)
{
    switch (whose) {
    case TRF_SEARCH_FAIRSEQ:     return fairseq(lm, B, limit, alpha);
    case TRF_SEARCH_CTRANSLATE2: return ctranslate2(lm, B, limit, alpha);
    case TRF_SEARCH_MARIAN:      return marian(lm, B, limit, alpha);
    case TRF_SEARCH_RAW:         return raw_sum(lm, B, limit);
    case TRF_SEARCH_HUGGING_FACE: return hugging_face(lm, B, limit, alpha);
    default:                     return gnmt(lm, B, limit, alpha);
    }
}

static const trf_search_rule all_rules[] = {TRF_SEARCH_PAPER,       TRF_SEARCH_FAIRSEQ,
                                            TRF_SEARCH_CTRANSLATE2, TRF_SEARCH_MARIAN,
                                            TRF_SEARCH_RAW,         TRF_SEARCH_HUGGING_FACE};
enum { N_RULES = sizeof all_rules / sizeof all_rules[0] };

/* -----------------------------------------------------------------------------------------------
   Oracle 2: every answer that the limits allow, by counting; scores sorted, best first. */
typedef struct everything { int32_t n; found best; double scores[MAX_ALL]; } everything;
static everything all;

static int by_score(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int near(double a, double b)
{
    return a == b || fabs(a - b) < 1e-12;
} /* also for two infinities */

static void count_all(const toy *lm, const trf_search *search, int32_t limit)
{
    int forced = search->at_limit == TRF_LIMIT_FORCE_EOS, no_eos = search->min_length >= limit;
    int keep = search->at_limit == TRF_LIMIT_KEEP_LIVE ||
               (search->at_limit == TRF_LIMIT_FALL_BACK && no_eos);
    int32_t n, i;
    all.n = 0;
    memset(&all.best, 0, sizeof all.best);
    for (n = 0; n <= limit; n++) {
        sequence s;
        s.n = n;
        for (i = 0; i < n; i++) s.ids[i] = 1;
        for (;;) {
            sequence head;
            double sum = 0, score;
            head.n = 0;
            for (i = 0; i < n; i++) {
                sum += said_p(lm, &head, s.ids[i], without_eos(search, &head));
                head = with(head, s.ids[i]);
            }
            if (n == limit ? forced : n >= search->min_length) {
                score =
                    trf__search_score(search, sum + next_p(lm, &head, EOS), n + search->count_eos);
                assert_true(all.n < MAX_ALL);
                all.scores[all.n++] = score;
                keep_best(&all.best, score, head);
            }
            if (n == limit && keep) {
                score = trf__search_score(search, sum, n);
                assert_true(all.n < MAX_ALL);
                all.scores[all.n++] = score;
                keep_best(&all.best, score, head);
            }
            for (i = n - 1; i >= 0 && ++s.ids[i] == lm->vocab; i--) s.ids[i] = 1;
            if (i < 0) break;
        }
    }
    qsort(all.scores, (size_t)all.n, sizeof all.scores[0], by_score);
}

/* -----------------------------------------------------------------------------------------------
 */

typedef struct golden {
    trf_search_rule whose;
    double alpha;
    const char *text;
    double score;
} golden;
static const golden goldens[] = {
    { TRF_SEARCH_FAIRSEQ,     1.0, "cb",     -0.832475 },
    { TRF_SEARCH_CTRANSLATE2, 1.0, "cb",     -0.772388 },
    { TRF_SEARCH_PAPER,       0.6, "c",      -1.649995 },
    { TRF_SEARCH_MARIAN,      1.0, "cccccc", -0.978515 },
    { TRF_SEARCH_RAW,         0.0, "",       -1.802122 },
    { TRF_SEARCH_HUGGING_FACE, 1.0, "cb",    -0.832475 }
};
enum { N_GOLDENS = sizeof goldens / sizeof goldens[0] };

static int is_text(const answers *a, const char *text)
{
    int32_t n = (int32_t)strlen(text), i;
    if (a->h[0].n != n) return 0;
    for (i = 0; i < n; i++) if (a->ids[i] != text[i] - 'a' + 1) return 0;
    return 1;
}

static void test_goldens_of_the_rules(void **state)
{
    toy lm = golden_toy();
    int g;
    (void)state;
    for (g = 0; g < N_GOLDENS; g++) {
        trf_search search = rule(goldens[g].whose, 2, goldens[g].alpha);
        found oracle = published(goldens[g].whose, &lm, 2, 6, goldens[g].alpha);
        answers a;
        run_into(&a, &lm, &search, 6);
        assert_true(is_text(&a, goldens[g].text));
        assert_true(fabs(a.h[0].score - goldens[g].score) < 1e-6);
        assert_true(same(&oracle.seq, a.h[0].ids, a.h[0].n));   /* the oracle is right, too */
        assert_true(fabs(oracle.score - goldens[g].score) < 1e-6);
        assert_int_equal(a.h[0].ended, goldens[g].whose == TRF_SEARCH_MARIAN ? TRF_ENDED_MAX_LENGTH
                                                                             : TRF_ENDED_EOS);
    }
}

/* What CTranslate2 4.8.5 itself has answered: a model of one-hot embeddings whose logits are those
   of the toy (python3 tools/parity/parity.py toy prints this table). */
static void test_goldens_of_ctranslate2(void **state)
{
    static const struct {
        int32_t beam, least, limit;
        double alpha;
        struct { const char *text; double score; } best[4];
    } cases[] = {
        { 1, 2, 6, 1.0, { { "cccccc", -0.905600 } } },
        { 2, 0, 6, 1.0, { { "cb", -0.832475 }, { "", -1.802122 } } },
        { 2, 1, 6, 1.0, { { "cb", -0.772387 }, { "ccb", -0.856534 } } },
        { 2, 2, 6, 1.0, { { "cb", -0.686646 }, { "ccb", -0.792228 } } },
        { 2, 6, 6, 1.0, { { "cccccc", -0.734118 }, { "cccccb", -0.750525 } } },
        { 3, 1, 6, 1.0, { { "cb", -0.772387 }, { "c", -0.814811 }, { "ccb", -0.856534 } } },
        { 3, 3, 6, 0.6, { { "ccb", -1.267386 }, { "cccb", -1.530790 }, { "ccccb", -1.750636 } } },
        { 4, 2, 4, 2.0, { { "ccb", -0.198057 }, { "cccc", -0.200978 }, { "cccb", -0.207131 },
                          { "cacc", -0.219943 } } }
    };
    toy lm = golden_toy();
    size_t c;
    int32_t k, i;
    (void)state;
    for (c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        trf_search search = rule(TRF_SEARCH_CTRANSLATE2, cases[c].beam, cases[c].alpha);
        answers a;
        search.n_best = cases[c].beam;
        search.min_length = cases[c].least;
        run_into(&a, &lm, &search, cases[c].limit);
        assert_int_equal(a.n, cases[c].beam);
        for (k = 0; k < a.n; k++) {
            const char *text = cases[c].best[k].text;
            assert_int_equal(a.h[k].n, strlen(text));
            for (i = 0; i < a.h[k].n; i++) assert_int_equal(a.h[k].ids[i], text[i] - 'a' + 1);
            assert_true(fabs(a.h[k].score - cases[c].best[k].score) < 3e-6);
        }
    }
}

/* The best of all answers of up to six tokens, found by counting them. Where EOS does not count in
   the length, two lines miss it. */
static void test_goldens_of_all_answers(void **state)
{
    static const struct { golden g; int32_t count_eos, least; } best[] = {
        { { TRF_SEARCH_RAW,     0.0, "",       -1.802122 }, 1, 0 },
        { { TRF_SEARCH_FAIRSEQ, 1.0, "cb",     -0.832475 }, 1, 0 },
        { { TRF_SEARCH_PAPER,   0.6, "c",      -1.649995 }, 1, 0 },
        { { TRF_SEARCH_FAIRSEQ, 1.0, "cccccb", -1.155554 }, 0, 1 }
    };
    toy lm = golden_toy();
    trf_search search;
    answers a;
    size_t i;
    (void)state;
    for (i = 0; i < sizeof best / sizeof *best; i++) {
        search = rule(best[i].g.whose, 2, best[i].g.alpha);
        search.count_eos = best[i].count_eos;
        search.min_length = best[i].least;
        count_all(&lm, &search, 6);
        a.h[0].n = all.best.seq.n;
        memcpy(a.ids, all.best.seq.ids, sizeof all.best.seq.ids);
        assert_true(is_text(&a, best[i].g.text));
        assert_true(fabs(all.best.score - best[i].g.score) < 1e-6);
    }
    run_into(&a, &lm, &search, 6);
    assert_true(is_text(&a, "ccb"));
    assert_true(fabs(a.h[0].score - -1.202133) < 1e-6);
}

static void test_goldens_are_stable(void **state)
{
    int g, draw, r, w;
    (void)state;
    for (draw = 0; draw < 200; draw++) {
        toy lm = golden_toy();
        for (r = 1; r < 5; r++) for (w = 0; w < 4; w++) lm.p[r][w] += 1e-4 * (2 * uniform() - 1);
        for (g = 0; g < N_GOLDENS; g++) {
            trf_search search = rule(goldens[g].whose, 2, goldens[g].alpha);
            answers a;
            run_into(&a, &lm, &search, 6);
            assert_true(is_text(&a, goldens[g].text));
            assert_true(fabs(a.h[0].score - goldens[g].score) < 1e-3);
        }
    }
}

/* The presets, and no hand-set field, are each system's search; alpha 0 of CTranslate2 is
   TRF_STOP_BOUND. */
static void test_rules_equal_published_programs(void **state)
{
    static const double alphas[] = { 0, 0.6, 1, 2 };
    int draw, r;
    (void)state;
    for (draw = 0; draw < 3000; draw++) {
        toy lm = random_toy(4 + pick(5), 1 + 4 * uniform());
        int32_t beam = 2 + pick(3), limit = 2 + pick(6);
        double alpha = alphas[pick(4)];
        for (r = 0; r < N_RULES; r++) {
            trf_search search = rule(all_rules[r], beam, alpha);
            found best = published(all_rules[r], &lm, beam, limit, alpha);
            answers a;
            if (all_rules[r] == TRF_SEARCH_CTRANSLATE2 && alpha == 0) search.stop = TRF_STOP_BOUND;
            run_into(&a, &lm, &search, limit);
            assert_true(best.any);
            assert_true(fabs(a.h[0].score - best.score) < 1e-12);
            assert_true(same(&best.seq, a.h[0].ids, a.h[0].n));
        }
    }
}

static void test_length_convention_flip(void **state)
{
    trf_search search = rule(TRF_SEARCH_FAIRSEQ, 2, 1);
    (void)state;
    assert_true(fabs(trf__search_score(&search, -1.0, 1 + search.count_eos) - -0.500) < 1e-12);
    assert_true(fabs(trf__search_score(&search, -2.2, 3 + search.count_eos) - -0.550) < 1e-12);
    search.count_eos = 0;
    assert_true(fabs(trf__search_score(&search, -1.0, 1) - -1.000) < 1e-12);
    assert_true(fabs(trf__search_score(&search, -2.2, 3) - -2.2 / 3) < 1e-12);
    search.length_rule = TRF_LENGTH_GNMT;
    search.alpha = 0.6;
    assert_true(fabs(trf__search_score(&search, -2.2, 3) - -2.2 / pow(8 / 6.0, 0.6)) < 1e-12);
    search.word_penalty = 0.1;
    assert_true(fabs(trf__search_score(&search, -2.2, 3) - -2.5 / pow(8 / 6.0, 0.6)) < 1e-12);
    search.length_rule = TRF_LENGTH_RAW;
    assert_true(fabs(trf__search_score(&search, -2.2, 3) - -2.5) < 1e-12);
    search = rule(TRF_SEARCH_CTRANSLATE2, 2, 1); /* no length: not even certainty is a score */
    search.count_eos = 0;
    assert_true(trf__search_score(&search, 0.0, 0) == -HUGE_VAL);
    assert_true(trf__search_score(&search, -1.0, 0) == -HUGE_VAL);
    search.alpha = 0;
    assert_true(trf__search_score(&search, -1.0, 0) == -1.0);
}

/* The bound is the best score over all lengths that are still possible. */
static void test_bound(void **state)
{
    int draw;
    (void)state;
    for (draw = 0; draw < 2000; draw++) {
        trf_search search = rule(TRF_SEARCH_PAPER, 2, 1.5 * uniform());
        double sum = -10 * uniform(), best = -HUGE_VAL;
        trf__beam beam;
        int32_t n, length, longest;
        search.length_rule = (trf_length_rule)pick(3);
        search.count_eos = pick(2);
        search.at_limit = (trf_at_limit)pick(3);
        search.word_penalty = pick(2) ? 0 : 2 * uniform() - 1;
        trf__beam_layout(&beam, &search, NULL, 20, place_for(trf__beam_layout(&beam, &search, NULL, 20, NULL)));
        beam_start(&beam, 1 + pick(20), NULL, 0, EOS, 9);
        n = pick(beam.limit + 1);
        longest = beam.limit + (search.at_limit == TRF_LIMIT_FORCE_EOS && search.count_eos);
        for (length = n < longest ? n + search.count_eos : n; length <= longest; length++)
            if (trf__search_score(&search, sum, length) > best)
                best = trf__search_score(&search, sum, length);
        assert_true(fabs(trf__beam_bound(&beam, sum, n) - best) < 1e-12);
    }
}

/* The same flip as a search: a model whose only likely answers are n = 1 with sum -1 and n = 3 with
   sum -2.2. */
static void test_length_convention_flips_the_answer(void **state)
{
    toy lm;
    trf_search search = rule(TRF_SEARCH_FAIRSEQ, 4, 1);
    answers a;
    int r, w;
    (void)state;
    lm.vocab = 5;
    lm.first = 0;
    lm.drift = 0;
    for (r = 0; r <= 5; r++) for (w = 0; w < 5; w++) lm.p[r][w] = -50;
    lm.p[5][1] = -0.5;  lm.p[1][EOS] = -0.5;
    lm.p[5][2] = -0.5;  lm.p[2][3] = -0.5;  lm.p[3][4] = -0.6;  lm.p[4][EOS] = -0.6;
    search.stop = TRF_STOP_NONE_ALIVE;
    run_into(&a, &lm, &search, 6);
    assert_int_equal(a.h[0].n, 1);
    assert_true(fabs(a.h[0].score - -0.5) < 1e-12);
    search.count_eos = 0;
    run_into(&a, &lm, &search, 6);
    assert_int_equal(a.h[0].n, 3);
    assert_true(fabs(a.h[0].score - -2.2 / 3) < 1e-12);
}

static void test_greedy_is_an_argmax_loop(void **state)
{
    int draw, r, at;
    (void)state;
    for (draw = 0; draw < 500; draw++) {
        toy lm = random_toy(3 + pick(8), 3);
        int32_t limit = 1 + pick(10), min_length = pick(3);
        sequence s;
        s.n = 0;
        while (s.n < limit) {
            int32_t best = s.n < min_length, w;
            for (w = best + 1; w < lm.vocab; w++)
                if (next_p(&lm, &s, w) > next_p(&lm, &s, best)) best = w;
            if (best == EOS) break;
            s = with(s, best);
        }
        for (r = 0; r < N_RULES; r++) for (at = 0; at < 3; at++) {
            trf_search search = rule(all_rules[r], 1, 0.7);
            answers a;
            search.min_length = min_length;
            search.at_limit = (trf_at_limit)at;
            run_into(&a, &lm, &search, limit);
            assert_int_equal(a.n, 1);
            assert_true(same(&s, a.h[0].ids, a.h[0].n));
            assert_int_equal(a.h[0].ended == TRF_ENDED_EOS,
                             s.n < limit || at == TRF_LIMIT_FORCE_EOS);
            assert_int_equal(a.steps, s.n + (a.h[0].ended == TRF_ENDED_EOS));
            assert_int_equal(a.rows, a.steps);
        }
    }
}

/* A beam with room for everything is exhaustive search, under every stop rule, and knows it. */
static void test_wide_beam_is_exhaustive_search(void **state)
{
    static const double penalties[] = { 0, 0, 0.3, -0.3 };
    int draw, cases = 0, greedy_wrong = 0;
    (void)state;
    for (draw = 0; draw < 600; draw++) {
        toy lm = random_toy(4, 4);
        int32_t limit = 2 + pick(3);
        trf_search search = rule(TRF_SEARCH_PAPER, 128, 0);
        answers a, greedy;
        search.length_rule = (trf_length_rule)(draw % 3);
        search.alpha = 1.2 * uniform();
        search.count_eos = pick(2);
        search.word_penalty = penalties[pick(4)];
        search.eos_in_top_beam = pick(2);
        search.shrink = pick(2);
        search.candidates = 1 + pick(2);
        search.stop = (trf_beam_stop)pick(4);
        search.at_limit = (trf_at_limit)pick(3);
        search.min_length = pick(2);
        search.renormalize_logits = pick(2);
        search.n_best = 3;
        count_all(&lm, &search, limit);
        run_into(&a, &lm, &search, limit);
        assert_true(fabs(a.h[0].score - all.scores[0]) < 1e-12);
        assert_true(same(&all.best.seq, a.h[0].ids, a.h[0].n));
        assert_int_equal(a.h[0].proven, 1);
        assert_int_equal(a.n, 3);
        assert_true(fabs(a.h[1].score - all.scores[1]) < 1e-12 && a.h[1].proven);
        assert_true(fabs(a.h[2].score - all.scores[2]) < 1e-12 && a.h[2].proven);
        search.beam = search.n_best = 1;
        run_into(&greedy, &lm, &search, limit);
        cases++;
        if (greedy.h[0].score < all.scores[0] - 1e-9) {
            greedy_wrong++;
            assert_int_equal(greedy.h[0].proven, 0);
        }
    }
    assert_true(greedy_wrong * 5 >= cases);
}

/* Whatever the rules: an answer of rank k that calls itself proven is the k-th best of all there
   are. */
static void test_proven_answers_are_optimal(void **state)
{
    static const double penalties[] = { 0, 0, 0, 0.4, -0.4 };
    int draw, k, proven = 0, proven_second = 0, not_optimal = 0, cases = 0;
    (void)state;
    for (draw = 0; draw < 6000; draw++) {
        toy lm = random_toy(4 + pick(5), 2 + 6 * uniform());
        int32_t limit = 1 + pick(4);
        trf_search search = rule(all_rules[draw % N_RULES], 1 + pick(4), 1.2 * uniform());
        answers a;
        search.word_penalty = penalties[pick(5)];
        search.n_best = 1 + pick(search.beam);
        if (draw % 2) {
            search.length_rule = (trf_length_rule)pick(3);
            search.count_eos = pick(2);
            search.candidates = 1 + pick(2);
            search.eos_in_top_beam = pick(2);
            search.shrink = pick(2);
            search.stop = (trf_beam_stop)pick(4);
            search.at_limit = (trf_at_limit)pick(3);
            search.min_length = pick(3);
            search.renormalize_logits = pick(2);
        }
        count_all(&lm, &search, limit);
        run_into(&a, &lm, &search, limit);
        cases++;
        for (k = 0; k < a.n; k++) {
            if (!a.h[k].proven) continue;
            if (k == 0) proven++; else proven_second++;
            if (a.h[k].ended == TRF_ENDED_MAX_LENGTH && search.at_limit == TRF_LIMIT_FALL_BACK)
                continue;
            assert_true(near(a.h[k].score, all.scores[k]));
        }
        if (a.h[0].score < all.scores[0] - 1e-12) {
            not_optimal++;
            assert_int_equal(a.h[0].proven, 0);
        }
    }
    assert_true(proven * 5 >= cases);           /* the claim is not empty, */
    assert_true(proven_second * 50 >= cases);
    assert_true(not_optimal * 50 >= cases);     /* nor is its denial */
}

/* Continuations among equals: first row first, then lowest id. Answers: earlier end first, then
   lowest ids. */
static void test_ties(void **state)
{
    toy lm;
    trf_search search = rule(TRF_SEARCH_PAPER, 3, 0);
    answers a;
    int r, w;
    (void)state;
    memset(&lm, 0, sizeof lm);
    lm.vocab = 6;
    for (r = 0; r <= 6; r++) for (w = 0; w < 6; w++) lm.p[r][w] = -2;
    lm.p[6][EOS] = -9;
    search.stop = TRF_STOP_NONE_ALIVE;
    search.n_best = 3;
    run_into(&a, &lm, &search, 4); /* in step 2, row 0 alone fills the 6 candidates */
    for (r = 0; r < 3; r++) {
        assert_int_equal(a.h[r].n, r + 1);
        for (w = 0; w <= r; w++) assert_int_equal(a.h[r].ids[w], 1);
    }
    search.candidates = 6; /* all 18 are candidates: "1", "2", "3" end together */
    run_into(&a, &lm, &search, 4);
    for (r = 0; r < 3; r++) {
        assert_int_equal(a.h[r].n, 1);
        assert_int_equal(a.h[r].ids[0], r + 1);
        assert_true(a.h[r].score == -4);
    }
    lm.p[6][4] = lm.p[6][5] = -9;
    lm.p[6][1] = -2.5; /* "1" is row 2, and still the first among equals */
    lm.p[1][EOS] = -1.5;
    run_into(&a, &lm, &search, 4);
    for (r = 0; r < 3; r++) assert_int_equal(a.h[r].ids[0], r + 1);
    lm.p[6][EOS] = -4; /* "" ends a step earlier with the same score */
    run_into(&a, &lm, &search, 4);
    assert_int_equal(a.h[0].n, 0);
    assert_int_equal(a.h[1].ids[0], 1);
    assert_int_equal(a.h[2].ids[0], 2);
    for (r = 0; r <= 6; r++) for (w = 0; w < 6; w++) lm.p[r][w] = w < 3 ? -1 : -99;
    search.beam = search.n_best = 4;
    search.min_length = 2; /* "11", "12", "21", "22": the first difference decides */
    run_into(&a, &lm, &search, 3);
    for (r = 0; r < 4; r++)
        assert_true(a.h[r].n == 2 && a.h[r].ids[0] == 1 + r / 2 && a.h[r].ids[1] == 1 + r % 2);
    lm.p[2][EOS] = -2; /* "2" ends before "11", with the same score */
    lm.p[6][1] = lm.p[1][1] = lm.p[1][EOS] = -1;
    search.min_length = 1;
    run_into(&a, &lm, &search, 3);
    assert_true(a.h[0].n == 1 && a.h[0].ids[0] == 1 && a.h[0].score == -2);
    assert_true(a.h[1].n == 1 && a.h[1].ids[0] == 2 && a.h[1].score == -3);
    assert_true(a.h[2].n == 2 && a.h[2].ids[0] == 1 && a.h[2].ids[1] == 1 && a.h[2].score == -3);
    search.min_length = 0;
    search.beam = search.n_best = 1;
    for (w = 0; w < 6; w++) lm.p[6][w] = w == 2 || w == 4 || w == 5 ? -1 : -2;
    run_into(&a, &lm, &search, 1);
    assert_int_equal(a.h[0].ids[0], 2);
}

/* Equal candidates come in any order; NaN stands anywhere. */
static void test_candidates_in_any_order(void **state)
{
    trf_search search = rule(TRF_SEARCH_PAPER, 2, 0.6);
    candidate unsorted[4];
    trf__beam beam;
    size_t bytes = trf__beam_layout(&beam, &search, NULL, 4, NULL);
    (void)state;
    trf__beam_layout(&beam, &search, NULL, 4, place_for(bytes));
    beam_start(&beam, 4, NULL, 0, EOS, 9);
    unsorted[0].id = 7; unsorted[0].log_probability = NAN;
    unsorted[1].id = 5; unsorted[1].log_probability = -1;
    unsorted[2].id = 3; unsorted[2].log_probability = -1;
    unsorted[3].id = 4; unsorted[3].log_probability = -0.5;
    assert_int_equal(trf__beam_wanted(&beam).count, 4);
    assert_int_equal(trf__beam_wanted(&beam).forced, -1);
    assert_int_equal(advance(&beam, unsorted, 4, 4), 2);
    assert_int_equal(trf__beam_tokens(&beam)[0], 4);
    assert_int_equal(trf__beam_tokens(&beam)[1], 3);
    assert_int_equal(trf__beam_parents(&beam)[0], 0);
    assert_int_equal(trf__beam_parents(&beam)[1], 0);
    search.candidates = 1; /* three are shown, as EOS may be among them; two are taken */
    search.min_length = 1;
    trf__beam_layout(&beam, &search, NULL, 4, place_for(bytes));
    beam_start(&beam, 4, NULL, 0, EOS, 9);
    assert_int_equal(trf__beam_wanted(&beam).count, 3);
    unsorted[0] = unsorted[3]; /* 4, 5, 3: the last one pushes its equal out */
    assert_int_equal(advance(&beam, unsorted, 4, 3), 2);
    assert_int_equal(trf__beam_tokens(&beam)[0], 4);
    assert_int_equal(trf__beam_tokens(&beam)[1], 3);
}

static void test_nan_never_wins(void **state)
{
    int draw, r, w, k;
    (void)state;
    for (draw = 0; draw < 1000; draw++) {
        toy lm = random_toy(4 + pick(4), 3);
        trf_search search = rule(all_rules[draw % N_RULES], 1 + pick(4), 0.6);
        answers a;
        int32_t bad = pick(lm.vocab), limit = 1 + pick(5);
        double what = draw % 3 == 0 ? NAN : draw % 3 == 1 ? HUGE_VAL : -HUGE_VAL;
        search.n_best = search.beam;
        for (r = 0; r <= lm.vocab; r++) lm.p[r][bad] = what;
        a = run(&lm, &search, limit, NULL, 0);
        for (k = 0; k < a.n; k++) {
            assert_true(a.h[k].score == a.h[k].score && a.h[k].score <= 0);
            assert_true(a.h[k].log_probability <= 0);
            if (a.h[k].log_probability == -HUGE_VAL)    /* only where nothing else was allowed */
                assert_true(bad == EOS && search.at_limit == TRF_LIMIT_FORCE_EOS);
            for (w = 0; w < a.h[k].n; w++) assert_int_not_equal(ids_of(&a, k)[w], bad);
        }
        for (r = 0; r <= lm.vocab; r++) for (w = 0; w < lm.vocab; w++) lm.p[r][w] = what;
        a = run(&lm, &search, limit, NULL,
                0); /* nothing is possible: still one answer, and an end */
        assert_true(a.h[0].log_probability == -HUGE_VAL);
        if (draw % 3 != 2) assert_int_equal(a.h[0].proven, 0);
    }
}

/* Rows may have fewer candidates than were asked for, or none: id -1. It never becomes a token. */
static void test_no_more_candidates(void **state)
{
    trf_search search = rule(TRF_SEARCH_PAPER, 2, 0.6);
    candidate row[8];
    trf__beam beam;
    trf_hypothesis h, two[2];
    int32_t ids[8], i;
    double own[8];
    (void)state;
    trf__beam_layout(&beam, &search, NULL, 4, place_for(trf__beam_layout(&beam, &search, NULL, 4, NULL)));
    beam_start(&beam, 4, NULL, 0, EOS, 9);
    for (i = 0; i < 8; i++) { row[i].id = -1; row[i].log_probability = -HUGE_VAL; }
    row[0].id = 5;
    row[0].log_probability = -1;
    assert_int_equal(advance(&beam, row, 4, 4), 1);
    assert_int_equal(trf__beam_tokens(&beam)[0], 5);
    row[0].id = -1;                                     /* with a number that would win */
    assert_int_equal(advance(&beam, row, 4, 4), 0);
    assert_int_equal(trf__beam_finish(&beam, &h, ids, own), 1);
    assert_true(h.n == 1 && h.ids[0] == 5 && h.ended == TRF_ENDED_NO_TOKEN);
    assert_true(h.log_probability == -HUGE_VAL && h.proven == 0);
    search.n_best = 2;
    trf__beam_layout(&beam, &search, NULL, 4, place_for(trf__beam_layout(&beam, &search, NULL, 4, NULL)));
    beam_start(&beam, 4, NULL, 0, EOS, 9); /* where something has ended, that is the only answer */
    row[0].id = EOS;
    row[1].id = 6;
    row[1].log_probability = -1.1;
    assert_int_equal(advance(&beam, row, 4, 4), 1);
    row[0].id = row[1].id = -1;
    assert_int_equal(advance(&beam, row, 4, 4), 0);
    assert_int_equal(trf__beam_finish(&beam, two, ids, own), 1);
    assert_true(two[0].n == 0 && two[0].log_probability == -1 && two[0].proven == 0);
}

/* A forced token is taken, however impossible the model finds it. */
static void test_impossible_prefix(void **state)
{
    int draw;
    (void)state;
    for (draw = 0; draw < 3 * N_RULES; draw++) {
        toy lm = random_toy(5, 1);
        trf_search search = rule(all_rules[draw % N_RULES], 1 + draw / N_RULES, 0.6);
        int32_t prefix[2];
        answers a;
        prefix[0] = 3; prefix[1] = 4;
        lm.p[3][4] = draw % 2 ? -HUGE_VAL : NAN;
        a = run(&lm, &search, 4, prefix, 2);
        assert_true(a.h[0].n >= 2 && a.ids[0] == 3 && a.ids[1] == 4);
        assert_true(a.h[0].log_probability == -HUGE_VAL);
    }
}

static void test_above_zero_is_rounding(void **state)
{
    toy lm = random_toy(5, 3);
    trf_search search = rule(TRF_SEARCH_PAPER, 2, 0.6);
    answers a;
    int r;
    (void)state;
    for (r = 0; r <= 5; r++) lm.p[r][1] = 1e-7;
    search.at_limit = TRF_LIMIT_KEEP_LIVE;
    a = run(&lm, &search, 5, NULL, 0);
    assert_true(a.h[0].n == 5 && a.h[0].log_probability == 0);
}

static void test_beam_wider_than_vocabulary(void **state)
{
    int draw;
    (void)state;
    for (draw = 0; draw < 1000; draw++) {
        toy lm = random_toy(2 + pick(3), 3);
        int32_t limit = 1 + pick(4), k;
        trf_search search = rule(all_rules[draw % N_RULES], lm.vocab + 1 + pick(8), 0.6);
        answers a;
        search.n_best = 5;
        if (search.n_best > search.beam) search.n_best = search.beam;
        count_all(&lm, &search, limit);
        run_into(&a, &lm, &search, limit);
        assert_int_equal(a.rows_at[0], 1);
        for (k = 0; k < a.n; k++)
            if (a.h[k].proven && a.h[k].ended == TRF_ENDED_EOS)
                assert_true(near(a.h[k].score, all.scores[k]));
    }
}

static void test_n_best_is_ordered_and_distinct(void **state)
{
    int draw, full = 0;
    (void)state;
    for (draw = 0; draw < 1000; draw++) {
        toy lm = random_toy(6, 3);
        trf_search search = rule(all_rules[draw % N_RULES], 8, 1.0);
        trf_search one = search;
        answers a, b;
        search.n_best = 8;
        run_into(&a, &lm, &search, 6); /* order and distinctness are checked there */
        full += a.n == 8;
        if (search.stop == TRF_STOP_BOUND) continue;    /* n_best changes when it stops */
        run_into(&b, &lm, &one, 6);
        assert_true(a.h[0].score == b.h[0].score);
        assert_int_equal(a.h[0].n, b.h[0].n);
        assert_memory_equal(a.ids, b.ids, (size_t)b.h[0].n * sizeof b.ids[0]);
    }
    assert_true(full > 500);
}

static void test_min_length(void **state)
{
    int draw, k;
    (void)state;
    for (draw = 0; draw < 500; draw++) {
        toy lm = random_toy(5, 3);
        trf_search search = rule(all_rules[draw % N_RULES], 1 + pick(4), 0);
        answers a;
        int r, w;
        for (r = 0; r <= 5; r++)                        /* it would rather end at once */
            for (w = 0; w < 5; w++) lm.p[r][w] = w == EOS ? -0.01 : lm.p[r][w] - 1;
        search.min_length = pick(7);
        search.n_best = search.beam;
        run_into(&a, &lm, &search, 5);
        for (k = 0; k < a.n; k++)
            assert_true(a.h[k].n >= (search.min_length < 5 ? search.min_length : 5));
        if (search.min_length > 4) continue;
        assert_int_equal(a.h[0].ended, TRF_ENDED_EOS);
        assert_int_equal(a.h[0].n, search.min_length);
    }
}

static void test_limits(void **state)
{
    toy lm = random_toy(5, 1);
    trf_search search = rule(TRF_SEARCH_PAPER, 3, 1.0);
    answers a;
    int r, k;
    (void)state;
    for (r = 0; r <= 5; r++) lm.p[r][EOS] = -30;        /* it never wants to end */
    search.length_rule = TRF_LENGTH_POWER;
    search.n_best = 3;
    search.eos_in_top_beam = 1;
    search.at_limit = TRF_LIMIT_KEEP_LIVE;
    run_into(&a, &lm, &search, 4);
    assert_int_equal(a.n, 3);
    assert_int_equal(a.steps, 4);
    for (k = 0; k < 3; k++) {
        assert_int_equal(a.h[k].ended, TRF_ENDED_MAX_LENGTH);
        assert_int_equal(a.h[k].n, 4);
        assert_true(fabs(a.h[k].score - a.h[k].log_probability / 4) < 1e-12);
    }
    search.at_limit = TRF_LIMIT_FORCE_EOS;
    run_into(&a, &lm, &search, 4);
    assert_int_equal(a.steps, 5);
    for (k = 0; k < 3; k++) {
        assert_int_equal(a.h[k].ended, TRF_ENDED_EOS);
        assert_int_equal(a.h[k].n, 4);
        assert_true(a.h[k].log_probability < -30);
        assert_true(fabs(a.h[k].score - a.h[k].log_probability / 5) < 1e-12);
    }
    search.at_limit = TRF_LIMIT_FALL_BACK;
    run_into(&a, &lm, &search, 4);
    assert_int_equal(a.n, 3);
    assert_int_equal(a.h[0].ended, TRF_ENDED_MAX_LENGTH);
    assert_int_equal(a.h[0].proven, 0);                 /* something that ends was given up */
    search.eos_in_top_beam = 0;
    search.candidates = 5; /* now the poor endings are seen, and replace the live ones */
    run_into(&a, &lm, &search, 4);
    assert_int_equal(a.h[0].ended, TRF_ENDED_EOS);
    assert_true(a.h[0].log_probability < -30);
}

/* Proof: equal is not higher; and an answer that stands in for finished ones yields to a worse one
   that has ended. */
static void test_proof_at_the_edges(void **state)
{
    toy lm;
    trf_search search = rule(TRF_SEARCH_RAW, 1, 0);
    answers a;
    (void)state;
    memset(&lm, 0, sizeof lm);
    lm.vocab = 3;
    lm.p[3][EOS] = -30;
    lm.p[3][1] = lm.p[3][2] = -0.7;
    search.at_limit = TRF_LIMIT_KEEP_LIVE;
    run_into(&a, &lm, &search, 1);
    assert_int_equal(a.h[0].ids[0], 1);
    assert_int_equal(a.h[0].proven, 1);
    lm.p[3][1] = -0.6;
    lm.p[3][2] = -0.5;
    run_into(&a, &lm, &search, 1);
    assert_int_equal(a.h[0].ids[0], 2);
    assert_int_equal(a.h[0].proven, 1);
    search.beam = 2;
    search.at_limit = TRF_LIMIT_FALL_BACK;
    run_into(&a, &lm, &search, 1);
    assert_int_equal(a.h[0].ended, TRF_ENDED_MAX_LENGTH);
    assert_int_equal(a.h[0].proven, 0);
    search.length_rule = TRF_LENGTH_POWER; /* so it does to an empty one, of score -inf */
    search.alpha = 1;
    search.count_eos = 0;
    search.candidates = 2; /* it is shown, and nothing else is given up */
    run_into(&a, &lm, &search, 1);
    assert_int_equal(a.h[0].ended, TRF_ENDED_MAX_LENGTH);
    assert_int_equal(a.h[0].proven, 0);
    lm.p[3][EOS] = -HUGE_VAL;                           /* but not to one that cannot be */
    run_into(&a, &lm, &search, 1);
    assert_int_equal(a.h[0].proven, 1);
}

/* No token allowed at all: the empty answer, or nothing but EOS. */
static void test_limit_zero(void **state)
{
    toy lm = random_toy(5, 1);
    int at, beam;
    (void)state;
    for (beam = 1; beam < 4; beam++) for (at = 0; at < 3; at++) {
        trf_search search = rule(TRF_SEARCH_PAPER, beam, 0.6);
        answers a;
        search.at_limit = (trf_at_limit)at;
        run_into(&a, &lm, &search, 0);
        assert_int_equal(a.n, 1);
        assert_int_equal(a.h[0].n, 0);
        assert_int_equal(a.steps, at == TRF_LIMIT_FORCE_EOS);
        assert_int_equal(a.h[0].ended,
                         at == TRF_LIMIT_FORCE_EOS ? TRF_ENDED_EOS : TRF_ENDED_MAX_LENGTH);
        assert_true(a.h[0].log_probability == (at == TRF_LIMIT_FORCE_EOS ? lm.p[5][EOS] : 0));
    }
}

static void test_empty_answer_without_length(void **state)
{
    toy lm = random_toy(5, 1);
    trf_search search = rule(TRF_SEARCH_CTRANSLATE2, 3, 1.0);
    answers a;
    (void)state;
    assert_int_equal(search.min_length, 1);
    search.min_length = search.count_eos = 0; /* now nothing but its score is against it */
    search.n_best = 3;
    lm.p[5][EOS] = -0.001;
    run_into(&a, &lm, &search, 3);
    assert_true(a.h[0].n > 0 && isfinite(a.h[0].score));
    search.alpha = 0; /* without a divisor it is an answer like any other */
    run_into(&a, &lm, &search, 3);
    assert_true(a.h[0].n == 0 && a.h[0].score == -0.001);
}

static void test_forced_prefix(void **state)
{
    int draw, i, k;
    (void)state;
    for (draw = 0; draw < 1000; draw++) {
        toy lm = random_toy(6, 3), shifted;
        trf_search search = rule(all_rules[draw % N_RULES], 1 + pick(4), 0);
        answers a, b;
        sequence head;
        int32_t prefix[MAX_TOKENS], n = 1 + pick(4), limit = n + pick(4);
        double sum = 0;
        search.n_best = search.beam;
        search.min_length = 0;
        search.score_prefix = pick(2);
        head.n = 0;
        for (i = 0; i < n; i++) {
            prefix[i] = 1 + pick(5);
            sum += next_p(&lm, &head, prefix[i]);
            head = with(head, prefix[i]);
        }
        a = run(&lm, &search, limit, prefix, n);
        for (i = 0; i < n; i++) assert_int_equal(a.rows_at[i], 1);
        shifted = lm; /* the same search, begun behind the prefix */
        shifted.first = n;
        memcpy(shifted.p[6], lm.p[prefix[n - 1]], sizeof shifted.p[6]);
        b = run(&shifted, &search, limit - n, NULL, 0);
        assert_int_equal(a.n, b.n);
        assert_int_equal(a.steps, n + b.steps);
        for (k = 0; k < a.n; k++) {
            const int32_t *ids = ids_of(&a, k);
            assert_int_equal(a.h[k].n, n + b.h[k].n);
            assert_memory_equal(ids, prefix, (size_t)n * sizeof *ids);
            assert_memory_equal(ids + n, ids_of(&b, k), (size_t)b.h[k].n * sizeof *ids);
            assert_true(fabs(a.h[k].log_probability - sum - b.h[k].log_probability) < 1e-12);
            assert_int_equal(a.h[k].ended, b.h[k].ended);
        }
    }
}

/* Forced tokens count in the sum that ranks, or not; in the length too. */
static void test_free_prefix(void **state)
{
    int draw, k, moved = 0;
    (void)state;
    for (draw = 0; draw < 500; draw++) {
        toy lm = random_toy(6, 3);
        trf_search search = rule(all_rules[draw % N_RULES], 2 + pick(3), 1.0);
        int uncounted = draw / N_RULES % 2;
        int32_t prefix[2], best[MAX_TOKENS], n_best = 0, free;
        sequence head;
        double given;
        head.n = 0;
        prefix[0] = 3; prefix[1] = 1;
        given = next_p(&lm, &head, 3);
        head = with(head, 3);
        given += next_p(&lm, &head, 1);
        search.n_best = search.beam;
        for (free = 0; free < 2; free++) {
            answers a;
            search.score_prefix = !free;
            search.count_prefix = !uncounted;
            a = run(&lm, &search, 7, prefix, 2);
            for (k = 0; k < a.n; k++) {
                int32_t length = a.h[k].n + (a.h[k].ended == TRF_ENDED_EOS ? search.count_eos : 0);
                double sum = a.h[k].log_probability - (free ? given : 0);
                if (!search.count_prefix) length -= 2;
                assert_true(fabs(a.h[k].score - trf__search_score(&search, sum, length)) < 1e-12);
                assert_true(k == 0 || a.h[k].score <= a.h[k - 1].score);
            }
            if (!free) { n_best = a.h[0].n; memcpy(best, a.ids, sizeof best); }
            else moved += n_best != a.h[0].n || memcmp(best, a.ids, (size_t)n_best * sizeof *best);
        }
    }
    assert_true(moved > 0);
    for (k = 0; k < N_RULES; k++)
        assert_int_equal(rule(all_rules[k], 2, 1).score_prefix,
                         all_rules[k] != TRF_SEARCH_PAPER &&
                             all_rules[k] != TRF_SEARCH_CTRANSLATE2 &&
                             all_rules[k] != TRF_SEARCH_HUGGING_FACE);
    for (k = 0; k < N_RULES; k++)
        assert_int_equal(rule(all_rules[k], 2, 1).count_prefix,
                         all_rules[k] != TRF_SEARCH_HUGGING_FACE);
}

/* A prefix is no choice: what it excludes does not count against the proof. */
static void test_prefix_is_not_dropped(void **state)
{
    toy lm = random_toy(4, 1);
    trf_search search = rule(TRF_SEARCH_PAPER, 64, 0.6);
    int32_t prefix[2];
    answers a;
    (void)state;
    prefix[0] = 3; prefix[1] = 1;
    lm.p[4][3] = -20;
    a = run(&lm, &search, 5, prefix, 2);
    assert_int_equal(a.h[0].proven, 1);
}

/* Tutorials decode until all rows have ended, and keep beam_size rows while beams finish. Here a
   sentence that is done has no rows, and a beam that shrinks has fewer: lengths 1 and 9 side by
   side; next, Marian's beam. */
static void test_finished_rows_cost_nothing(void **state)
{
    trf_search search = rule(TRF_SEARCH_RAW, 1, 0);
    trf__beam beam[2];
    sequence rows[2][MAX_RANKS], spare[MAX_RANKS];
    toy lm[2];
    size_t bytes = trf__beam_layout(&beam[0], &search, NULL, 12, NULL);
    unsigned char *memory = (unsigned char *)place_for(2 * bytes);
    int i, w, total = 0, steps = 0;
    (void)state;
    for (i = 0; i < 2; i++) { /* token t is followed by t + 1; from 2 or 10 on by EOS */
        int length = i ? 9 : 1, r;
        memset(&lm[i], 0, sizeof lm[i]);
        lm[i].vocab = 12;
        for (r = 0; r <= 12; r++) for (w = 0; w < 12; w++) lm[i].p[r][w] = -9;
        for (r = 1; r < 11; r++) lm[i].p[r][r >= length ? EOS : r + 1] = -0.1;
        lm[i].p[12][1] = -0.1;
        trf__beam_layout(&beam[i], &search, NULL, 12, memory + (size_t)i * bytes);
        beam_start(&beam[i], 11, NULL, 0, EOS, 12);
        rows[i][0].n = 0;
    }
    for (; !beam[0].done || !beam[1].done; steps++)
        for (i = 0; i < 2; i++) if (!beam[i].done) total += drive(&lm[i], &beam[i], rows[i], spare);
    assert_int_equal(steps, 10);
    assert_int_equal(total, 2 + 10);
    for (i = 0; i < 2; i++) {
        trf_hypothesis h;
        int32_t ids[MAX_TOKENS + 1];
        double own[MAX_TOKENS + 1];
        assert_int_equal(trf__beam_finish(&beam[i], &h, ids, own), 1);
        assert_int_equal(h.n, i ? 9 : 1);
        for (w = 0; w < h.n; w++) assert_int_equal(ids[w], w + 1);
    }
}

static void test_beam_shrinks(void **state)
{
    toy lm = random_toy(6, 0.1);
    trf_search search = rule(TRF_SEARCH_MARIAN, 4, 1.0);
    answers a;
    int r;
    (void)state;
    search.n_best = 4;
    for (r = 1; r <= 5; r++) lm.p[r][EOS] = r == 1 ? -0.01 : -40;
    lm.p[6][1] = -0.5; /* "1" ends in the second step and takes its place with it */
    lm.p[6][EOS] = -40;
    for (r = 1; r <= 5; r++) lm.p[r][1] = -40;
    run_into(&a, &lm, &search, 6);
    assert_int_equal(a.rows_at[0], 1);
    assert_int_equal(a.rows_at[1], 4);
    for (r = 2; r < 6; r++) assert_int_equal(a.rows_at[r], 3);
    assert_int_equal(a.n, 4);
    assert_int_equal(a.steps, 6);
    search.n_best = 1; /* it goes on although nothing can win any more */
    run_into(&a, &lm, &search, 6);
    assert_int_equal(a.steps, 6);
    trf_search_set_rule(&search, TRF_SEARCH_FAIRSEQ);   /* here the place is filled again */
    run_into(&a, &lm, &search, 6);
    for (r = 1; r < 6; r++) assert_int_equal(a.rows_at[r], 4);
}

/* Memory laid out once serves any sentence that fits, whatever stood in it. */
static void test_memory_is_reused(void **state)
{
    trf_search search = rule(TRF_SEARCH_PAPER, 3, 0.6);
    trf__beam beam;
    size_t bytes = trf__beam_layout(&beam, &search, NULL, MAX_TOKENS, NULL);
    int draw;
    (void)state;
    for (draw = 0; draw < 50; draw++) {
        toy lm = random_toy(7, 3);
        int32_t limit = 1 + pick(10), ids[MAX_TOKENS + 1];
        double own[MAX_TOKENS + 1];
        trf_hypothesis h;
        answers fresh;
        run_into(&fresh, &lm, &search, limit);
        trf__beam_layout(&beam, &search, NULL, MAX_TOKENS, place_for(bytes));
        for (h.n = 0; h.n < 2; h.n++) {                 /* twice in the same memory */
            beam_start(&beam, limit, NULL, 0, EOS, 7);
            cache[0].n = 0;
            while (!beam.done) drive(&lm, &beam, cache, moved);
        }
        assert_int_equal(trf__beam_finish(&beam, &h, ids, own), 1);
        assert_true(h.score == fresh.h[0].score && h.n == fresh.h[0].n);
        assert_memory_equal(ids, fresh.ids, (size_t)h.n * sizeof *ids);
    }
}

/* The whole way, from a model: before min_length EOS is out of the softmax, while pad and BOS,
   which are never said, keep their share; or all keep it. */
static void test_eos_leaves_the_softmax(void **state)
{
    enum { V = 11, LEAST = 3, LIMIT = 6 };
    trf_config config = kit_config();
    trf_search search = rule(TRF_SEARCH_CTRANSLATE2, 3, 1.0);
    trf_model *model;
    trf_translator *translator;
    trf_sequences x;
    trf_batch pair;
    trf_error err;
    trf_hypothesis h[2][3];
    int32_t ids[2][3][LIMIT], source[4] = { 5, 8, 4, 10 }, n = 4, k, renormalize_logits, t, v;
    trf_real logits[(LIMIT + 1) * V];
    (void)state;
    config.d_model = 16; config.d_ff = 32; config.source_vocab = config.target_vocab = V;
    config.device.threads = 1;
    assert_int_equal(trf_model_create(&model, &config, NULL, &err), TRF_OK);
    search.n_best = 3;
    search.min_length = LEAST;
    search.max_length_a = 0;
    search.max_length_b = LIMIT;
    x.ids = source; x.lengths = &n; x.count = 1;
    for (renormalize_logits = 0; renormalize_logits < 2; renormalize_logits++) {
        search.renormalize_logits = renormalize_logits;
        assert_int_equal(trf_translator_create(&translator, model, &search, &err), TRF_OK);
        assert_int_equal(trf_translate(translator, &x, NULL, &err), TRF_OK);
        assert_int_equal(kit_count(translator, 0), 3);
        for (k = 0; k < 3; k++) {
            h[renormalize_logits][k] = *trf_translator_answer(translator, 0, k);
            memcpy(ids[renormalize_logits][k], h[renormalize_logits][k].ids,
                   (size_t)h[renormalize_logits][k].n * sizeof(int32_t));
        }
        for (k = 0; k < 3; k++) {
            const trf_hypothesis *got = &h[renormalize_logits][k];
            trf_tensor out = trf_tensor_of(logits, 2, got->n + 1, V, 1);
            double want = 0, own = 0;
            memset(&pair, 0, sizeof pair);
            pair.source = x;
            pair.target.ids = ids[renormalize_logits][k];
            pair.target.lengths = &got->n;
            pair.target.count = 1;
            assert_int_equal(kit_logits(translator, &pair, &out, &err), TRF_OK);
            assert_true(got->n >= LEAST);
            for (t = 0; t < got->n + (got->ended == TRF_ENDED_EOS); t++) {
                const trf_real *z = logits + t * V;
                int32_t id = t < got->n ? ids[renormalize_logits][k][t] : config.eos;
                double sum = 0, all = 0;
                for (v = 0; v < V; v++) {
                    all += exp((double)z[v]);
                    if (!(renormalize_logits && t < LEAST && v == config.eos))
                        sum += exp((double)z[v]);
                }
                want += (double)z[id] - log(sum);
                own += (double)z[id] - log(all);
            }
            /* the search adds up the one, and tells the other, which is the model's own */
            assert_true(fabs(got->log_probability - own) < 1e-5);
            assert_true(fabs(got->score * (got->n + (got->ended == TRF_ENDED_EOS)) - want) < 1e-5);
        }
        trf_translator_destroy(translator);
    }
    assert_true(h[1][0].score > h[0][0].score + 0.001);
    trf_model_destroy(model);
}

/* Every token of every answer has the log-probability that the model's logits give it, forced ones
   too; beginning and tokens add up to that of the answer, to the last bit. */
static void test_token_probabilities(void **state)
{
    enum { V = 11, LIMIT = 6, N = 3 };
    static const int32_t sources[] = { 5, 8, 4, 10, 7, 7, 9 }, lengths[N] = { 4, 1, 2 };
    static const int32_t prefixes[] = { 6, 3, 9 }, prefix_lengths[N] = { 2, 0, 1 };
    int whose, kind, forced, beam;
    (void)state;
    for (kind = 0; kind < 2; kind++)
        for (whose = 0; whose < N_RULES; whose++)
            for (forced = 0; forced < 2 - kind; forced++)
                for (beam = 1; beam < 5; beam += 3) {
                    trf_config config = trf_config_preset(TRF_TINY);
                    trf_search search = rule(all_rules[whose], beam, 1.0);
                    trf_model *model;
                    trf_translator *t, *look;
                    trf_sequences x, y;
                    trf_batch pair;
                    trf_error err;
                    trf_real logits[16 * V];
                    int32_t i, k, v, at = 0, whole[16], begin = 0;
                    config.d_model = 16;
                    config.d_ff = 32;
                    config.source_vocab = kind ? 0 : V;
                    config.target_vocab = V;
                    config.device.threads = 1; config.embedding_init = TRF_EMBEDDING_NORMAL_1;
                    if (kind) { config.kind = TRF_DECODER_ONLY; config.encoder_layers = 0; }
                    assert_int_equal(trf_model_create(&model, &config, NULL, &err), TRF_OK);
                    search.n_best = beam;
                    search.max_length_a = 0;
                    search.max_length_b = LIMIT;
                    search.renormalize_logits = 0;
                    assert_int_equal(trf_translator_create(&t, model, &search, &err), TRF_OK);
                    assert_int_equal(trf_translator_create(&look, model, &search, &err), TRF_OK);
                    x.ids = sources; x.lengths = lengths; x.count = N;
                    y.ids = prefixes; y.lengths = prefix_lengths; y.count = N;
                    if (forced) assert_int_equal(kit_translate_with(t, &x, &y, NULL, 0, &err), TRF_OK);
                    else assert_int_equal(trf_translate(t, &x, NULL, &err), TRF_OK);
                    for (i = 0; i < N; at += lengths[i++])
                        for (k = 0; k < kit_count(t, i); k++) {
                            const trf_hypothesis *h = trf_translator_answer(t, i, k);
                            int32_t n, j, ends = h->ended == TRF_ENDED_EOS;
                            double sum = h->prompt_log_probability;
                            trf_tensor out;
                            begin = kind ? lengths[i] : 0;
                            if (kind) memcpy(whole, sources + at, (size_t)begin * sizeof *whole);
                            memcpy(whole + begin, h->ids, (size_t)h->n * sizeof *whole);
                            n = begin + h->n;
                            memset(&pair, 0, sizeof pair);
                            pair.source.ids = sources + at;
                            pair.source.lengths = lengths + i;
                            pair.source.count = 1;
                            pair.target.ids = whole;
                            pair.target.lengths = &n;
                            pair.target.count = 1;
                            out = trf_tensor_of(logits, 2, n + 1, V, 1);
                            assert_int_equal(kit_logits(look, &pair, &out, &err), TRF_OK);
                            for (j = begin; j < n + ends; j++) {
                                const trf_real *z = logits + j * V;
                                double all = 0;
                                for (v = 0; v < V; v++) all += exp((double)z[v]);
                                assert_true(fabs((double)z[j < n ? whole[j] : config.eos] -
                                                 log(all) - h->log_probabilities[j - begin]) <
                                            1e-4);
                                sum += h->log_probabilities[j - begin];
                            }
                            assert_true(sum == h->log_probability);
                            assert_true(kind ? h->prompt_log_probability < 0 : h->prompt_log_probability == 0);
                        }
                    trf_translator_destroy(t);
                    trf_translator_destroy(look);
                    trf_model_destroy(model);
                }
}

static void expect_refused(trf_search search, const char *field)
{
    trf_error err;
    assert_int_equal(trf_search_check(&search, NULL, &err), TRF_E_INVALID_ARG);
    assert_int_equal(err.status, TRF_E_INVALID_ARG);
    assert_string_equal(err.what, field);
    assert_non_null(strstr(err.message, field));
    assert_int_equal(trf_search_check(&search, NULL, NULL), TRF_E_INVALID_ARG);
}

#define REFUSE(field, type, value) do { \
        trf_search bad = trf_search_defaults(); \
        bad.field = (type)(value); \
        expect_refused(bad, #field); \
    } while (0)

/* Each field of the rules changes some answer when it alone is changed, on small random models. */
static void test_every_field_matters(void **state)
{
    static const char *const names[11] = {
        "length_rule", "alpha", "count_eos", "word_penalty", "candidates",        "eos_in_top_beam",
        "shrink",      "stop",  "at_limit",  "min_length",   "renormalize_logits"};
    int moved[11] = {0}, whose, k, round;
    (void)state;
    for (round = 0; round < 400; round++) {
        toy lm = random_toy(3 + pick(4), 1 + uniform() * 3);
        for (whose = 0; whose < N_RULES; whose++) {
            trf_search search = rule((trf_search_rule)whose, 3, 0.7);
            answers a, b;
            search.n_best = 3;
            run_into(&a, &lm, &search, 5);
            for (k = 0; k < 11; k++) {
                trf_search other = search;
                if (k == 0) other.length_rule = (trf_length_rule)((search.length_rule + 1) % 3);
                if (k == 1) other.alpha = 2;
                if (k == 2) other.count_eos = !search.count_eos;
                if (k == 3) other.word_penalty = 0.5;
                if (k == 4) other.candidates = 3 - search.candidates;
                if (k == 5) other.eos_in_top_beam = !search.eos_in_top_beam;
                if (k == 6) other.shrink = !search.shrink;
                if (k == 7) other.stop = (trf_beam_stop)((search.stop + 1) % 4);
                if (k == 8) other.at_limit = (trf_at_limit)((search.at_limit + 1) % 3);
                if (k == 9) other.min_length = 2;
                if (k == 10) other.renormalize_logits = !search.renormalize_logits;
                run_into(&b, &lm, &other, 5);
                moved[k] += a.n != b.n || a.h[0].n != b.h[0].n ||
                            fabs(a.h[0].log_probability - b.h[0].log_probability) > 1e-9;
            }
        }
    }
    for (k = 0; k < 11; k++) {
        if (!moved[k]) print_error("%s changes no answer\n", names[k]);
        assert_true(moved[k] > 0);
    }
}

static void test_options_are_checked(void **state)
{
    trf_search search = trf_search_defaults();
    trf_error err;
    (void)state;
    assert_int_equal(trf_search_check(&search, NULL, &err), TRF_OK);
    REFUSE(beam, int32_t, 0);               REFUSE(beam, int32_t, TRF__MAX_BEAM + 1);
    REFUSE(n_best, int32_t, 0);             REFUSE(n_best, int32_t, 5);
    REFUSE(length_rule, trf_length_rule, 3);
    REFUSE(alpha, double, -0.1);
    REFUSE(alpha, double, NAN);
    REFUSE(alpha, double, HUGE_VAL);
    REFUSE(count_eos, int32_t, 2);          REFUSE(count_eos, int32_t, -1);
    REFUSE(word_penalty, double, NAN);      REFUSE(word_penalty, double, -HUGE_VAL);
    REFUSE(candidates, int32_t, 0);         REFUSE(candidates, int32_t, TRF__MAX_CANDIDATES + 1);
    REFUSE(eos_in_top_beam, int32_t, 2);    REFUSE(shrink, int32_t, -1);
    REFUSE(count_prefix, int32_t, 2); REFUSE(score_prefix, int32_t, 2);       REFUSE(renormalize_logits, int32_t, -1);
    REFUSE(ban_unk, int32_t, 2);            REFUSE(ban_unk, int32_t, -1);
    REFUSE(stop, trf_beam_stop, 4);         REFUSE(at_limit, trf_at_limit, 4);
    REFUSE(min_length, int32_t, -1);
    REFUSE(max_length_a, double, -1);       REFUSE(max_length_a, double, NAN);
    REFUSE(max_length_b, int32_t, -2);
    REFUSE(max_sentences, int32_t, -1);     REFUSE(max_tokens, int32_t, 0);
    REFUSE(threads, int32_t, -1);
    search.max_length_a = search.max_length_b = 0;      /* then no answer could have a token */
    expect_refused(search, "max_length_b");
    search.max_length_b = 7;
    assert_int_equal(trf_search_check(&search, NULL, &err), TRF_OK);
}

/* A preset sets what it says and leaves the rest, and leaves nothing of the preset before. */
static void test_presets_set_their_fields_only(void **state)
{
    int i, j;
    (void)state;
    for (i = 0; i < N_RULES; i++) for (j = 0; j < N_RULES; j++) {
        trf_search once = trf_search_defaults(), twice;
        trf_error err;
        once.beam = 7; once.n_best = 3; once.max_length_a = 1.5; once.max_length_b = 9;
        once.max_sentences = 5; once.max_tokens = 77; once.threads = 3;
        once.word_penalty = 0.5; once.ban_unk = 1;
        memcpy(&twice, &once, sizeof once);
        trf_search_set_rule(&once, all_rules[i]);
        trf_search_set_rule(&twice, all_rules[j]);
        trf_search_set_rule(&twice, all_rules[i]);
        assert_memory_equal(&once, &twice, sizeof once);
        assert_true(once.beam == 7 && once.n_best == 3 && once.max_length_a == 1.5 &&
                    once.max_length_b == 9);
        assert_true(once.max_sentences == 5 && once.max_tokens == 77);
        assert_true(once.threads == 3 && once.word_penalty == 0 && once.ban_unk == 1);
        assert_int_equal(trf_search_check(&once, NULL, &err), TRF_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens_of_the_rules),
        cmocka_unit_test(test_goldens_of_ctranslate2),
        cmocka_unit_test(test_goldens_of_all_answers),
        cmocka_unit_test(test_goldens_are_stable),
        cmocka_unit_test(test_rules_equal_published_programs),
        cmocka_unit_test(test_length_convention_flip),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_length_convention_flips_the_answer),
        cmocka_unit_test(test_greedy_is_an_argmax_loop),
        cmocka_unit_test(test_wide_beam_is_exhaustive_search),
        cmocka_unit_test(test_proven_answers_are_optimal),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_candidates_in_any_order),
        cmocka_unit_test(test_nan_never_wins),
        cmocka_unit_test(test_no_more_candidates),
        cmocka_unit_test(test_above_zero_is_rounding),
        cmocka_unit_test(test_beam_wider_than_vocabulary),
        cmocka_unit_test(test_n_best_is_ordered_and_distinct),
        cmocka_unit_test(test_min_length),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_proof_at_the_edges),
        cmocka_unit_test(test_limit_zero),
        cmocka_unit_test(test_empty_answer_without_length),
        cmocka_unit_test(test_forced_prefix),
        cmocka_unit_test(test_free_prefix),
        cmocka_unit_test(test_impossible_prefix),
        cmocka_unit_test(test_prefix_is_not_dropped),
        cmocka_unit_test(test_finished_rows_cost_nothing),
        cmocka_unit_test(test_beam_shrinks),
        cmocka_unit_test(test_memory_is_reused),
        cmocka_unit_test(test_eos_leaves_the_softmax),
        cmocka_unit_test(test_token_probabilities),
        cmocka_unit_test(test_every_field_matters),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_presets_set_their_fields_only)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

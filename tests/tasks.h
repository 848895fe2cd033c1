/* Small models and the tasks that they learn: the suites of programs and of decoding begin with
   learn(). A suite includes nothing else: the implementation, cmocka and kit.h come with it. */
#ifndef TASKS_H
#define TASKS_H

#if !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700               /* threads, barriers and mkdtemp under -std=c99 too */
#endif
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__cplusplus)
extern "C" {
#endif
#include <cmocka.h>
#if defined(__cplusplus)
}
#endif
#include "kit.h"
#include "folder.h"

#define OK(call) check_ok((call), &err, #call, __LINE__)
#define FAILS(status, call) check_fails((status), (call), &err, #call, __LINE__)

static void check_ok(trf_status status, const trf_error *err, const char *call, int line)
{
    if (status != TRF_OK)
        fail_msg("line %d: %s: %s: %s", line, call, trf_status_name(status), err->message);
}

static void check_fails(trf_status wanted, trf_status status, const trf_error *err,
                        const char *call, int line)
{
    if (status != wanted || err->status != wanted || !err->message[0])
        fail_msg("line %d: %s: expected %s, got %s with %s \"%s\"", line, call,
                 trf_status_name(wanted), trf_status_name(status),
                 trf_status_name((trf_status)err->status), err->message);
}

/* -----------------------------------------------------------------------------------------------
   Small models, and the tasks they learn. */

enum { SYMBOLS = 8, FIRST = 4, VOCAB = FIRST + SYMBOLS, SHORT = 1, LONG = 7, PAIRS = 24 };

/* Wide enough to learn the tasks below in seconds. */
static trf_config task_config(void)
{
    trf_config config = kit_small(2, 32, VOCAB, 48);
    config.n_heads = 4;
    config.d_ff = 64;
    return config;
}

static trf_train_options task_training(void)
{
    trf_train_options o = kit_small_training(0);
    o.schedule = TRF_INVERSE_SQRT;
    o.learning_rate = 3e-3;
    o.warmup = 60;
    o.source_tokens = o.target_tokens = 512;
    o.sequences = 64;
    o.longest = 48;
    return o;
}

static trf_search search_of(int32_t beam, int32_t n_best)
{
    trf_search search = trf_search_defaults();
    search.beam = beam;
    search.n_best = n_best;
    search.threads = 1;
    return search;
}

static trf_translator *translator_of(const trf_model *model, const trf_search *search)
{
    trf_error err;
    trf_translator *t = NULL;
    trf_search greedy = search_of(1, 1);
    OK(trf_translator_create(&t, model, search ? search : &greedy, &err));
    assert_non_null(t);
    return t;
}

static uint64_t draws;
static int32_t pick(int32_t n) { return (int32_t)(trf__random64(31, 9, draws++) % (uint64_t)n); }

/* Pairs whose target is the source backwards. */
typedef struct pairs {
    int32_t source[PAIRS * LONG], target[PAIRS * LONG], lengths[PAIRS];
    trf_batch batch;
} pairs;

static const trf_batch *backwards(pairs *p)
{
    int32_t i, k, at = 0;
    memset(p, 0, sizeof *p);
    for (i = 0; i < PAIRS; i++) {
        int32_t n = p->lengths[i] = SHORT + pick(LONG - SHORT + 1);
        for (k = 0; k < n; k++)
            p->source[at + k] = p->target[at + n - 1 - k] = FIRST + pick(SYMBOLS);
        at += n;
    }
    p->batch.source.ids = p->source;
    p->batch.target.ids = p->target;
    p->batch.source.lengths = p->batch.target.lengths = p->lengths;
    p->batch.source.count = p->batch.target.count = PAIRS;
    return &p->batch;
}

/* The model that most tests look at: it has learnt the task in part, so that alternatives are
   close. */
static trf_model *learnt;

static int learn(void **state)
{
    trf_error err;
    trf_config config = task_config();
    trf_train_options training = task_training();
    trf_trainer *trainer = NULL;
    trf_step_report report;
    pairs p;
    int step;
    (void)state;
    if (folder_make("usage", 0)) return -1;
    if (trf_model_create(&learnt, &config, NULL, &err) ||
        trf_trainer_create(&trainer, learnt, &training, &err))
        return -1;
    for (step = 0; step < 250; step++)
        if (trf_trainer_step(trainer, backwards(&p), &report, &err)) return -1;
    trf_trainer_destroy(trainer);
    return report.nll > 0.02 && report.nll < 1.5 ? 0 : -1;
}

static int forget(void **state)
{
    (void)state;
    trf_model_destroy(learnt);
    return folder_remove();
}

static trf_sequences sequences_of(const int32_t *ids, const int32_t *lengths, int32_t count)
{
    trf_sequences x;
    x.ids = ids;
    x.lengths = lengths;
    x.count = count;
    return x;
}

static trf_batch pair_of(const int32_t *source, const int32_t *n_source, const int32_t *target,
    const int32_t *n_target)
{
    trf_batch batch;
    batch.source = sequences_of(source, n_source, 1);
    batch.target = sequences_of(target, n_target, 1);
    batch.ordinal = 0;
    memset(&batch.place, 0, sizeof batch.place);
    return batch;
}

/* Log-softmax in double of every row of a pair's logits. */
static void log_probabilities(trf_translator *t, const int32_t *source, int32_t n_source,
                              const int32_t *target, int32_t n_target, int32_t vocab, double *out)
{
    trf_error err;
    trf_real logits[64 * VOCAB];
    trf_batch batch = pair_of(source, &n_source, target, &n_target);
    trf_tensor view = trf_tensor_of(logits, 2, n_target + 1, vocab, 1);
    int32_t r, w;
    assert_true((n_target + 1) * vocab <= 64 * VOCAB);
    OK(kit_logits(t, &batch, &view, &err));
    for (r = 0; r <= n_target; r++) {
        double most = -HUGE_VAL, sum = 0;
        for (w = 0; w < vocab; w++)
            if ((double)logits[r * vocab + w] > most) most = (double)logits[r * vocab + w];
        for (w = 0; w < vocab; w++) sum += exp((double)logits[r * vocab + w] - most);
        for (w = 0; w < vocab; w++)
            out[r * vocab + w] = (double)logits[r * vocab + w] - most - log(sum);
    }
}

static double close_enough(void) { return sizeof(trf_real) == 8 ? 1e-10 : 2e-5; }

/* -----------------------------------------------------------------------------------------------
   2. Strings in, strings out, from one file: an article, a noun and a verb, answered in another
   order */

static const char *const german[3][4] = {{"ein", "der", "kein", "unser"},
                                         {"Hund", "B\xC3\xA4r", "Vogel", "Fu\xC3\x9Fg\xC3\xA4nger"},
                                         {"schl\xC3\xA4"
                                          "ft",
                                          "l\xC3\xA4uft", "tr\xC3\xA4umt", "singt"}};
static const char *const french[3][4] = { { "un", "le", "aucun", "notre" },
    { "chien", "ours", "oiseau", "pi\xC3\xA9ton" },
                                          { "dort", "court", "r\xC3\xAAve", "chante" } };

static KIT_UNUSED void sentence(int number, char *from, char *to, size_t size)
{
    int a = number % 4, b = number / 4 % 4, c = number / 16;
    snprintf(from, size, "%s %s %s", german[0][a], german[1][b], german[2][c]);
    snprintf(to, size, "%s %s %s", french[2][c], french[1][b], french[0][a]); /* the verb first */
}

/* -----------------------------------------------------------------------------------------------
   3. Many sentences, with everything known about each answer */

/* Everything that can be said of an answer is what it should be: sums, scores, order, endings. */
static void check_hypotheses(trf_translator *translator, const trf_search *search,
                             const trf_sequences *sources)
{
    int32_t i, k, j, at = 0;
    trf_translator *look = translator_of(translator->reader.model, NULL);
    double p[64 * VOCAB];
    for (i = 0; i < sources->count; at += sources->lengths[i], i++) {
        assert_in_range(kit_count(translator, i), 1, search->n_best);
        assert_null(trf_translator_answer(translator, i, kit_count(translator, i)));
        for (k = 0; k < kit_count(translator, i); k++) {
            const trf_hypothesis *h = trf_translator_answer(translator, i, k);
            double sum = 0, length = h->n + (h->ended == TRF_ENDED_EOS ? search->count_eos : 0);
            log_probabilities(look, sources->ids + at, sources->lengths[i], h->ids, h->n, VOCAB, p);
            for (j = 0; j < h->n; j++) {
                /* nothing after EOS, no BOS, no pad */
                assert_true(h->ids[j] == 3 || (h->ids[j] >= FIRST && h->ids[j] < VOCAB));
                sum += p[j * VOCAB + h->ids[j]];
            }
            if (h->ended == TRF_ENDED_EOS) sum += p[h->n * VOCAB + 2];
            assert_true(fabs(sum - h->log_probability) < close_enough() * (1 + h->n));
            assert_true(fabs(h->log_probability / pow((5 + length) / 6, search->alpha) - h->score)
                        < 1e-12 * (1 - h->score));
            assert_true(h->proven == 0 || h->proven == 1);
            if (k > 0) {
                const trf_hypothesis *before = trf_translator_answer(translator, i, k - 1);
                assert_true(h->score <= before->score && h->proven <= before->proven);
                assert_false(h->n == before->n &&
                             memcmp(h->ids, before->ids, (size_t)h->n * sizeof *h->ids) == 0);
            }
        }
    }
    trf_translator_destroy(look);
}

/* -----------------------------------------------------------------------------------------------
   4. Inside somebody's program: hooks, and threads on one const model */

typedef struct game {
    pthread_mutex_t lock;
    int64_t bytes, blocks, largest, logged, asked, quit_at;
} game;

static void *game_alloc(void *user, size_t align, size_t bytes)
{
    game *g = (game *)user;
    void *memory = NULL;
    assert_true(align <= 64 && (align & (align - 1)) == 0 && bytes > 0);
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, bytes))
        return NULL;
    memset(memory, 0xA5, bytes);
    pthread_mutex_lock(&g->lock);
    g->bytes += (int64_t)bytes;
    g->blocks++;
    if ((int64_t)bytes > g->largest) g->largest = (int64_t)bytes;
    pthread_mutex_unlock(&g->lock);
    return memory;
}

static void game_free(void *user, void *memory, size_t bytes)
{
    game *g = (game *)user;
    pthread_mutex_lock(&g->lock);
    g->bytes -= (int64_t)bytes;
    g->blocks--;
    pthread_mutex_unlock(&g->lock);
    free(memory);
}

static void game_log(void *user, int level, const char *message)
{
    game *g = (game *)user;
    assert_true(level == TRF_LOG_INFO || level == TRF_LOG_WARNING);
    assert_non_null(message);
    g->logged++;
}

static int player_quits(void *user) { game *g = (game *)user; return ++g->asked == g->quit_at; }

static trf_hooks game_hooks(game *g)
{
    trf_hooks hooks = {NULL, game_alloc, game_free, game_log, player_quits};
    memset(g, 0, sizeof *g);
    pthread_mutex_init(&g->lock, NULL);
    hooks.user = g;
    return hooks;
}

/* -----------------------------------------------------------------------------------------------
   What a caller of search may rely on */

static const int32_t question[5] = {4, 9, 6, 11, 5};

#endif

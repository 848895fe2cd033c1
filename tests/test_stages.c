/* build: shared double:shared separate:shared long:shared plain:shared */
/* A model split by layers: every division of every kind of model beside one process, bit for bit;
   micro-batches in flight; what all stages decide together; what is refused. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>
#include "answers.h"
#include "team.h"

enum { MOST_STAGES = 6, MOST_COPIES = 2, UPDATES = 3, MICROS = 4 };

/* -----------------------------------------------------------------------------------------------
   Rows on their way from one thread to another: first in, first out. */

typedef struct lane {
    pthread_mutex_t lock;
    pthread_cond_t change;
    trf_real *items[UPDATES * MICROS];
    int put, taken;
} lane;

static void lane_open(lane *l)
{
    memset(l, 0, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->change, NULL);
}

static void lane_close(lane *l)
{
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->change);
}

static void lane_put(lane *l, trf_real *rows)
{
    pthread_mutex_lock(&l->lock);
    l->items[l->put++] = rows;
    pthread_cond_broadcast(&l->change);
    pthread_mutex_unlock(&l->lock);
}

static trf_real *lane_take(lane *l)
{
    trf_real *rows;
    pthread_mutex_lock(&l->lock);
    while (l->taken == l->put) pthread_cond_wait(&l->change, &l->lock);
    rows = l->items[l->taken++];
    pthread_mutex_unlock(&l->lock);
    return rows;
}

/* -----------------------------------------------------------------------------------------------
   Stages as threads. */

/* all forward passes first; as few micro-batches in flight as possible */
typedef enum { GPIPE, ONE_BY_ONE } order;

typedef struct chain {
    team sums;                          /* of its stages */
    lane forward[MOST_STAGES], backward[MOST_STAGES];       /* behind stage s */
} chain;

typedef struct stage_job {
    chain *all;
    team *copies;                       /* copies of the same stage in other chains, or NULL */
    trf_config c;
    trf_train_options o;
    order how;
    int number, n;                      /* of n stages */
    int32_t first, end;
    int rank;                           /* of the copy */
    const char *frozen, *planted;       /* a pattern; a parameter whose gradient in update 1 has */
    double bad;                         /* this number */
    int fail_at, calls;
    int saved;                          /* 1: goes on from a checkpoint before the last update */
    trf_model *model;
    trf_trainer *trainer;
    trf_stage *stage;
    int failures;
    trf_step_report reports[UPDATES], micros[UPDATES * MICROS];
} stage_job;

/* Pairs of micro-batch m of an update, the same in all stages; rank r has others. One has none. */
static trf_batch micro_batch(const stage_job *j, kit_pairs *p, int update, int m)
{
    static const int32_t counts[MICROS] = {4, 7, 0, 3};
    int32_t count = counts[(m + update) % MICROS];
    trf_batch b = batch_for(&j->c, p, count,
                            (uint64_t)(900 + 100 * j->rank + MICROS * update + m));
    b.ordinal = 20 * j->rank;
    if (j->c.segments) kit_cut(p, j->c.eos);
    return b;
}

static int sum_stages(void *user, trf_real *numbers, size_t count, void *stream)
{
    stage_job *j = (stage_job *)user;
    (void)stream;
    if (++j->calls == j->fail_at) return 1;
    team_sum(&j->all->sums, j->number, numbers, count);
    return 0;
}

static int sum_copies(void *user, trf_real *numbers, size_t count, void *stream)
{
    stage_job *j = (stage_job *)user;
    (void)stream;
    team_sum(j->copies, j->rank, numbers, count);
    return 0;
}

static void stage_make(stage_job *j, int32_t in_flight)
{
    trf_status status = kit_create_stage(&j->model, &j->c, j->first, j->end, NULL);
    if (status == TRF_OK) status = trf_trainer_create(&j->trainer, j->model, &j->o, NULL);
    if (status == TRF_OK)
        status = trf_stage_create(&j->stage, j->trainer, in_flight, sum_stages, j, NULL);
    if (status == TRF_OK && j->frozen) trf_trainer_freeze(j->trainer, j->frozen, 1, NULL, NULL);
    j->failures += status != TRF_OK;
}

/* Saves everything, destroys it, and loads it again. */
static void stage_reload(stage_job *j)
{
    int32_t in_flight = j->stage->n_slots;
    size_t n = 0;
    char *bytes;
    kit_checkpoint_save_memory(j->trainer, NULL, NULL, 0, &n, NULL);
    bytes = (char *)malloc(n);
    j->failures += kit_checkpoint_save_memory(j->trainer, NULL, bytes, n, &n, NULL) != TRF_OK;
    trf_stage_destroy(j->stage);
    trf_trainer_destroy(j->trainer);
    trf_model_destroy(j->model);
    j->stage = NULL; j->trainer = NULL; j->model = NULL;
    j->failures += kit_checkpoint_load_memory(&j->model, &j->trainer, NULL, bytes, n, &j->o, NULL,
                                              NULL) != TRF_OK;
    free(bytes);
    if (j->failures) return;
    j->failures += trf_stage_create(&j->stage, j->trainer, in_flight, sum_stages, j, NULL) != TRF_OK;
}

/* The forward or the backward pass of a micro-batch. Rows come from one neighbour, and others go to
   the other one. */
static void stage_pass(stage_job *j, kit_pairs *p, int update, int m, int back)
{
    trf_batch b = micro_batch(j, p, update, m);
    lane *lanes = back ? j->all->backward : j->all->forward;
    int first = j->number == 0, last = j->number == j->n - 1, slot = m % j->stage->n_slots;
    int takes = back ? !last : !first, gives = back ? !first : !last;
    int64_t rows[2], d = j->c.d_model;
    trf_real *taken = NULL, *given = NULL;
    trf_tensor in, out;
    j->failures += trf_stage_rows(j->stage, &b, &rows[back], &rows[!back], NULL) != TRF_OK;
    if (takes) taken = lane_take(&lanes[j->number - !back]);
    if (gives) given = (trf_real *)malloc((size_t)(rows[1] * d) * sizeof *given + 1);
    in = trf_tensor_of(taken, 2, rows[0], d, 1);
    out = trf_tensor_of(given, 2, rows[1], d, 1);
    if (back)
        j->failures += trf_stage_backward(j->stage, slot, takes ? &in : NULL, gives ? &out : NULL,
                                          &j->micros[MICROS * update + m], NULL) != TRF_OK;
    else
        j->failures += trf_stage_forward(j->stage, slot, &b, takes ? &in : NULL,
                                         gives ? &out : NULL, NULL) != TRF_OK;
    free(taken);
    if (gives) lane_put(&lanes[j->number - back], given);
}

/* A number in a gradient, on the stage that has the parameter. */
static void plant(stage_job *j, int update)
{
    trf_tensor g;
    int32_t i = j->planted ? trf_model_parameter_index(j->model, j->planted) : -1;
    if (i < 0 || update != 1) return;
    g = trf_trainer_tensor(j->trainer, TRF_GRADIENT, i);
    kit_set(g, trf_tensor_count(&g) - 1, j->bad);
}

/* Nothing here may call cmocka: it is another thread. */
static void *stage_main(void *argument)
{
    stage_job *j = (stage_job *)argument;
    kit_pairs *p = (kit_pairs *)malloc(sizeof *p);
    int ahead = j->how == GPIPE || j->n - j->number > MICROS ? MICROS : j->n - j->number;
    int update, m;
    stage_make(j, ahead);
    for (update = 0; update < UPDATES && !j->failures; update++) {
        if (j->saved && update == UPDATES - 1) stage_reload(j);
        for (m = 0; m < MICROS + ahead; m++) {
            /* in turn: a slot is filled again after it has become empty */
            if (m >= ahead) stage_pass(j, p, update, m - ahead, 1);
            if (m < MICROS) stage_pass(j, p, update, m, 0);
        }
        plant(j, update);
        j->failures += trf_trainer_update(j->trainer, &j->reports[update], NULL) != TRF_OK;
    }
    free(p);
    return NULL;
}

/* Stage s has those from ends[s-1] to ends[s] - 1. */
static int run_stages(stage_job *jobs, const stage_job *like, int n, const int32_t *ends, int copies)
{
    chain all[MOST_COPIES];
    team same[MOST_STAGES];
    pthread_t threads[MOST_STAGES * MOST_COPIES];
    int s, r, failures = 0;
    for (s = 0; s < n; s++) team_open(&same[s], copies);
    for (r = 0; r < copies; r++) {
        team_open(&all[r].sums, n);
        for (s = 0; s < n; s++) { lane_open(&all[r].forward[s]); lane_open(&all[r].backward[s]); }
    }
    for (r = 0; r < copies; r++)
        for (s = 0; s < n; s++) {
            stage_job *j = &jobs[n * r + s];
            *j = *like;
            j->all = &all[r];
            j->copies = &same[s];
            j->number = s; j->n = n; j->rank = r;
            j->first = s ? ends[s - 1] : 0;
            j->end = ends[s];
            if (copies > 1) {
                j->o.rank = r; j->o.n_ranks = copies;
                j->o.all_reduce = sum_copies;
                j->o.user = j;
            }
        }
    for (s = 0; s < n * copies; s++)
        assert_int_equal(pthread_create(&threads[s], NULL, stage_main, &jobs[s]), 0);
    for (s = 0; s < n * copies; s++) assert_int_equal(pthread_join(threads[s], NULL), 0);
    for (s = 0; s < n * copies; s++) failures += jobs[s].failures;
    for (s = 0; s < n; s++) team_close(&same[s]);
    for (r = 0; r < copies; r++) {
        team_close(&all[r].sums);
        for (s = 0; s < n; s++) { lane_close(&all[r].forward[s]); lane_close(&all[r].backward[s]); }
    }
    return failures;
}

static void stages_close(stage_job *jobs, int n)
{
    int s;
    for (s = 0; s < n; s++) {
        trf_stage_destroy(jobs[s].stage);
        trf_trainer_destroy(jobs[s].trainer);
        trf_model_destroy(jobs[s].model);
    }
}

/* The same micro-batches in one process; of several, one for each rank. */
static void *whole_main(void *argument)
{
    stage_job *j = (stage_job *)argument;
    kit_pairs *p = (kit_pairs *)malloc(sizeof *p);
    int update, m;
    j->failures += trf_model_create(&j->model, &j->c, NULL, NULL) != TRF_OK;
    j->failures += trf_trainer_create(&j->trainer, j->model, &j->o, NULL) != TRF_OK;
    if (j->frozen) trf_trainer_freeze(j->trainer, j->frozen, 1, NULL, NULL);
    for (update = 0; update < UPDATES && !j->failures; update++) {
        for (m = 0; m < MICROS; m++) {
            trf_batch b = micro_batch(j, p, update, m);
            j->failures += trf_trainer_forward_backward(j->trainer, &b, &j->micros[MICROS * update + m],
                                                        NULL) != TRF_OK;
        }
        plant(j, update);
        j->failures += trf_trainer_update(j->trainer, &j->reports[update], NULL) != TRF_OK;
    }
    free(p);
    return NULL;
}

static void run_whole(stage_job *jobs, const stage_job *like, int copies)
{
    team same;
    pthread_t threads[MOST_COPIES];
    int r;
    team_open(&same, copies);
    for (r = 0; r < copies; r++) {
        jobs[r] = *like;
        jobs[r].rank = r;
        jobs[r].copies = &same;
        if (copies > 1) {
            jobs[r].o.rank = r; jobs[r].o.n_ranks = copies;
            jobs[r].o.all_reduce = sum_copies;
            jobs[r].o.user = &jobs[r];
        }
        assert_int_equal(pthread_create(&threads[r], NULL, whole_main, &jobs[r]), 0);
    }
    for (r = 0; r < copies; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
    for (r = 0; r < copies; r++) assert_int_equal(jobs[r].failures, 0);
    team_close(&same);
}

/* -----------------------------------------------------------------------------------------------
   Comparisons. */

/* Of gradients, as a part of the norm of all: three updates have had other roundings. */
static double tolerance(void) { return sizeof(trf_real) == 8 ? 1e-12 : 1e-4; }

/* The largest difference between the numbers of a parameter in two arenas; 0 only if all bits are
   the same. */
static double apart(const trf_model *a, const trf_real *in_a, int32_t i, const trf_model *b,
                    const trf_real *in_b, int32_t k)
{
    int64_t n = trf__param_size(&a->layout.params[i]), at;
    trf_real *x = (trf_real *)malloc((size_t)n * sizeof *x), *y = (trf_real *)malloc((size_t)n * sizeof *y);
    double most;
    kit_get(a, x, in_a + a->layout.params[i].offset, n);
    kit_get(b, y, in_b + b->layout.params[k].offset, n);
    most = memcmp(x, y, (size_t)n * sizeof *x) ? 1e-300 : 0;
    for (at = 0; at < n; at++) {
        double d = fabs((double)x[at] - (double)y[at]);
        if (!(d <= most)) most = d;
    }
    free(x);
    free(y);
    return most;
}

/* How many stages have the most shared parameter. Every parameter is in one at least. */
static int most_holders(const trf_model *whole, const stage_job *jobs, int n)
{
    int32_t i;
    int s, most = 0;
    for (i = 0; i < trf_model_parameter_count(whole); i++) {
        int holders = 0;
        for (s = 0; s < n; s++)
            holders += trf_model_parameter_index(jobs[s].model, whole->layout.params[i].name) >= 0;
        assert_true(holders >= 1);
        if (holders > most) most = holders;
    }
    return most;
}

/* Whether two runs did the same. Exact: all bits, on the CPU. A GPU adds up the norm in another
   order than stages do. */
static void compare(const stage_job *whole, const stage_job *jobs, int n, int exact_on_cpu)
{
    const trf_trainer *x = whole->trainer;
    const int exact = exact_on_cpu && !KIT_HAS_STREAM;
    const trf_step_report *last = &whole->reports[UPDATES - 1];
    double norm = last->gradient_norm * (double)last->target_tokens;
    int s, u;
    for (s = 0; s < n; s++) {
        const trf_trainer *y = jobs[s].trainer;
        int32_t k, i;
        for (k = 0; k < trf_model_parameter_count(y->model); k++) {
            const char *name = y->model->layout.params[k].name;
            double d = 0;
            i = trf_model_parameter_index(x->model, name);
            assert_true(i >= 0 && i == y->model->layout.params[k].number);
            if (exact) {
                d += apart(x->model, x->model->weights, i, y->model, y->model->weights, k);
                d += apart(x->model, x->m, i, y->model, y->m, k);
                d += apart(x->model, x->v, i, y->model, y->v, k);
            } else d = apart(x->model, x->gradients, i, y->model, y->gradients, k) / norm;
            if (!(d <= (exact ? 0 : tolerance())))
                fail_msg("stage %d of %d, %s: %g", s, n, name, d);
        }
        for (u = 0; u < UPDATES; u++) {
            const trf_step_report *a = &whole->reports[u], *b = &jobs[s].reports[u];
            if (exact) assert_memory_equal(a, b, sizeof *a);
            assert_memory_equal(b, &jobs[0].reports[u], sizeof *b);
            if (exact) continue;
            assert_true(fabs(a->loss - b->loss) <= tolerance() * a->loss);
            assert_true(a->gradient_norm == b->gradient_norm ||
                        fabs(a->gradient_norm - b->gradient_norm) <= tolerance() * a->gradient_norm);
            assert_true(a->skipped == b->skipped && !strcmp(a->tensor, b->tensor));
            assert_true(a->target_tokens == b->target_tokens && a->source_tokens == b->source_tokens);
        }
    }
    for (u = 0; exact && u < UPDATES * MICROS; u++) {
        assert_memory_equal(&whole->micros[u], &jobs[n - 1].micros[u], sizeof *whole->micros);
        for (s = 0; s < n - 1; s++) {
            assert_int_equal(jobs[s].micros[u].step, whole->micros[u].step);
            assert_true(jobs[s].micros[u].loss == 0 && jobs[s].micros[u].target_tokens == 0);
        }
    }
}

/* All shared parameters are the same on all stages, and a whole model can be made of them. */
static void join(const stage_job *whole, const stage_job *jobs, int n, int exact)
{
    trf_model *all = NULL;
    int32_t i, copied;
    int s;
    OK(kit_create_zeros(&all, &whole->c, &err));
    for (s = n - 1; s >= 0; s--) {
        OK(trf_model_copy_weights(all, jobs[s].model, &copied, &err));
        assert_int_equal(copied, trf_model_parameter_count(jobs[s].model));
    }
    for (s = 0; s < n; s++)
        for (i = 0; i < copied && i < trf_model_parameter_count(jobs[s].model); i++)
            assert_true(apart(jobs[s].model, jobs[s].model->weights, i, all, all->weights,
                              jobs[s].model->layout.params[i].number) == 0);
    if (exact && !KIT_HAS_STREAM)
        assert_true(hash_weights(HASH_START, all) == hash_weights(HASH_START, whole->model));
    trf_model_destroy(all);
}

static uint64_t hash_stages(const stage_job *jobs, int n)
{
    uint64_t hash = HASH_START;
    int s;
    for (s = 0; s < n; s++) hash = hash_weights(hash, jobs[s].model);
    return hash;
}

/* -----------------------------------------------------------------------------------------------
   Divisions. */

static stage_job base_job(int variant, int untied)
{
    stage_job j;
    memset(&j, 0, sizeof j);
    j.c = config_of(variant, 16);
    if (untied) j.c.tying = TRF_UNTIED;
    j.c.device.threads = 1;
    j.o = kit_small_training(0.2);
    j.o.clip_norm = 0.05;               /* so that all steps are clipped */
    j.o.weight_decay = 0.01;
    j.o.consistency = variant % 3 == 1 ? 2 : 0;
    return j;
}

/* Division number k of a chain of `layers` layers: bit i of k, a new stage begins with layer i + 1.
   Returns the number of stages. */
static int divide(int layers, int k, int32_t *ends)
{
    int i, n = 0;
    for (i = 0; i < layers; i++) if (i == layers - 1 || k >> i & 1) ends[n++] = i + 1;
    return n;
}

static void every_division(void **state)
{
    stage_job whole[1], jobs[MOST_STAGES];
    int variant, untied, k, exact_runs = 0, near_runs = 0;
    (void)state;
    for (variant = 0; variant < 8; variant++)
        for (untied = 0; untied < 2; untied++) {
            stage_job j = base_job(variant, untied);
            int layers;
            if (untied && (variant == 0 || variant >= 5)) continue;     /* they are */
            if (untied && KIT_HAS_STREAM) continue;
            if (j.c.kind != TRF_DECODER_ONLY) j.c.encoder_layers = 3;
            else j.c.decoder_layers = 3;
            layers = j.c.encoder_layers + j.c.decoder_layers;
            run_whole(whole, &j, 1);
            for (k = 1; k < 1 << (layers - 1); k += KIT_HAS_STREAM ? 11 : KIT_AGAIN && !kit_all() ? 3 : 1) {
                int32_t ends[MOST_STAGES];
                int n = divide(layers, k, ends), exact;
                uint64_t hash;
                j.how = GPIPE;
                j.o.recompute = k & 1;
                assert_int_equal(run_stages(jobs, &j, n, ends, 1), 0);
                exact = most_holders(whole->model, jobs, n) == 1;
                exact_runs += exact;
                near_runs += !exact;
                compare(whole, jobs, n, exact);
                join(whole, jobs, n, exact);
                hash = hash_stages(jobs, n);
                stages_close(jobs, n);
                j.how = ONE_BY_ONE;
                j.o.recompute = ~k & 1;
                assert_int_equal(run_stages(jobs, &j, n, ends, 1), 0);
                assert_true(hash_stages(jobs, n) == hash);
                stages_close(jobs, n);
            }
            stages_close(whole, 1);
        }
    assert_true(exact_runs >= 3 && near_runs >= 3);
}

/* One run in one process, and one by two stages and one by all layers apart. */
static void compare_runs(const stage_job *like, int exact)
{
    stage_job whole[1], jobs[MOST_STAGES];
    int32_t ends[MOST_STAGES];
    int layers = like->c.encoder_layers + like->c.decoder_layers, n, k;
    run_whole(whole, like, 1);
    for (k = 0; k < (KIT_HAS_STREAM ? 1 : 2); k++) {
        n = divide(layers, k ? (1 << (layers - 1)) - 1 : 2, ends);
        assert_int_equal(run_stages(jobs, like, n, ends, 1), 0);
        compare(whole, jobs, n, exact);
        stages_close(jobs, n);
    }
    stages_close(whole, 1);
}

/* A micro-batch in a slot keeps the other passes of a whole model out, which would lose its place. */
static void busy_trainer(stage_job *job)
{
    kit_pairs *p = (kit_pairs *)malloc(sizeof *p);
    trf_batch b;
    assert_non_null(p);
    b = micro_batch(job, p, 0, 0);
    OK(trf_stage_forward(job->stage, 0, &b, NULL, NULL, &err));
    FAILS(TRF_E_STATE, trf_trainer_forward_backward(job->trainer, &b, NULL, &err));
    assert_string_equal(err.what, "slots");
    OK(trf_stage_backward(job->stage, 0, NULL, NULL, NULL, &err));
    OK(trf_trainer_forward_backward(job->trainer, &b, NULL, &err));
    free(p);
}

/* With all layers it is a whole model, and sums nothing. */
static void one_stage(void **state)
{
    stage_job whole[1], job[1];
    int32_t end;
    int variant;
    (void)state;
    for (variant = 0; variant < 8; variant++) {
        stage_job j = base_job(variant, 0);
        end = j.c.encoder_layers + j.c.decoder_layers;
        run_whole(whole, &j, 1);
        assert_int_equal(run_stages(job, &j, 1, &end, 1), 0);
        compare(whole, job, 1, 1);
        assert_int_equal(job->calls, 0);
        assert_true(!trf__is_stage(job->model));
        busy_trainer(job);
        stages_close(job, 1);
        stages_close(whole, 1);
    }
}

/* Limits that no batch fits, so that slots and scratch grow while others are in flight; numbers of
   16 bits; threads; other conventions. */
static void other_options(void **state)
{
    stage_job j = base_job(0, 0);
    int k;
    (void)state;
    for (k = 0; k < 2; k++) {
        j.how = k ? GPIPE : ONE_BY_ONE;
        j.o.source_tokens = j.o.target_tokens = j.o.sequences = 1;
        j.o.longest = 2;
        j.o.recompute = k;
        compare_runs(&j, 1);
    }
    j = base_job(0, 0);
    j.o.threads = 3;
    j.c.final_norm = TRF_FINAL_NORM_DECODER;
    compare_runs(&j, 1);
    j.c.norm_place = TRF_PRE_NORM;
    j.c.final_norm = TRF_FINAL_NORM_ENCODER;
    j.c.positions = TRF_POSITIONS_ALIBI;
    compare_runs(&j, 1);
    j.c.embedding_norm = 1;
    j.c.source_bos = 1;
    j.c.target_eos = 0;
    compare_runs(&j, 1);
    /* CUDA rounds the activations too, and other ones where a stage ends */
    if (sizeof(trf_real) == 8 || KIT_HAS_STREAM) return;
    j.c.device.precision = TRF_PRECISION_BF16;
    compare_runs(&j, 1);
}

/* Two copies of each stage, which share the pairs as ranks do. */
static void copies_of_stages(void **state)
{
    stage_job j = base_job(0, 0), whole[2], jobs[2 * MOST_STAGES];
    static const int32_t ends[2] = {1, 4};
    (void)state;
    run_whole(whole, &j, 2);
    assert_int_equal(run_stages(jobs, &j, 2, ends, 2), 0);
    compare(&whole[0], jobs, 2, 1);
    compare(&whole[1], jobs + 2, 2, 1);
    stages_close(jobs, 4);
    stages_close(whole, 2);
}

static void frozen_parameters(void **state)
{
    static const char *const patterns[] = {"encoder.layers.0.*", "*.bias", "*_embed.weight"};
    int k;
    (void)state;
    for (k = 0; k < 3; k++) {
        stage_job j = base_job(0, 0);
        j.frozen = patterns[k];
        compare_runs(&j, 1);
    }
}

/* All stages skip the same update and name the same tensor. */
static void skipped_updates(void **state)
{
    static const char *const names[] = {"src_embed.weight", "encoder.layers.1.linear1.weight",
                                        "decoder.layers.1.norm3.bias", "generator.bias"};
    const double numbers[] = {HUGE_VAL, sizeof(trf_real) == 8 ? 1e200 : 3e38};
    int k, i;
    (void)state;
    for (k = 0; k < 4; k++)
        for (i = 0; i < 2; i++) {
            stage_job j = base_job(0, 0), one[1];
            j.planted = names[k];
            j.bad = numbers[i];
            if (i) j.o.clip_norm = TRF_NO_CLIPPING;
            compare_runs(&j, 1);
            run_whole(one, &j, 1);
            assert_true(one->reports[1].skipped == 1 && one->reports[2].skipped == 0);
            assert_string_equal(one->reports[1].tensor, i ? "gradient_norm" : names[k]);
            stages_close(one, 1);
        }
}

/* -----------------------------------------------------------------------------------------------
   What is refused, and what fails. */

static int fail_at, calls, cancel_after;
static int sum_alone(void *user, trf_real *numbers, size_t count, void *stream)
{
    (void)user; (void)numbers; (void)count; (void)stream;
    return ++calls == fail_at;
}
static int cancel(void *user)
{
    (void)user;
    return cancel_after-- <= 0;
}

/* The last of two stages alone, whose rows come from anywhere. */
typedef struct alone {
    stage_job j;
    trf_batch batch;
    trf_tensor in, din;
    trf_real numbers[2][4096];
} alone;

static void alone_open(alone *a, int variant, int32_t in_flight)
{
    static kit_pairs p;
    int64_t rows, i;
    a->j = base_job(variant, 0);
    a->j.first = 3; a->j.end = 4;
    a->j.o.hooks.cancel = cancel;
    cancel_after = 1 << 20;
    fail_at = calls = 0;
    a->batch = batch_for(&a->j.c, &p, 5, 7);
    OK(kit_create_stage(&a->j.model, &a->j.c, a->j.first, a->j.end, &err));
    OK(trf_trainer_create(&a->j.trainer, a->j.model, &a->j.o, &err));
    OK(trf_stage_create(&a->j.stage, a->j.trainer, in_flight, sum_alone, NULL, &err));
    OK(trf_stage_rows(a->j.stage, &a->batch, &rows, NULL, &err));
    assert_true(rows > 0 && rows * 16 <= 4096);
    for (i = 0; i < 4096; i++) a->numbers[0][i] = (trf_real)((double)(i * 37 % 101) / 50 - 1);
    a->in = trf_tensor_of(a->numbers[0], 2, rows, 16, 1);
    a->din = trf_tensor_of(a->numbers[1], 2, rows, 16, 1);
}

static void alone_close(alone *a) { stages_close(&a->j, 1); }

static void seams_are_checked(void **state)
{
    static alone a;
    trf_tensor bad;
    trf_batch wrong;
    int64_t rows, out;
    int32_t long_ago = 3;
    (void)state;
    alone_open(&a, 0, 2);
    rows = a.in.shape[0];
    OK(trf_stage_rows(a.j.stage, &a.batch, NULL, &out, &err));
    assert_int_equal(out, 0);
    FAILS(TRF_E_INVALID_ARG, trf_stage_forward(a.j.stage, 0, &a.batch, NULL, NULL, &err));
    assert_string_equal(err.what, "in");
    bad = trf_tensor_of(a.numbers[0], 2, rows - 1, 16, 1);
    FAILS(TRF_E_SHAPE, trf_stage_forward(a.j.stage, 0, &a.batch, &bad, NULL, &err));
    assert_string_equal(err.what, "in");
    bad = trf_tensor_of(a.numbers[0], 2, rows, 15, 1);
    FAILS(TRF_E_SHAPE, trf_stage_forward(a.j.stage, 0, &a.batch, &bad, NULL, &err));
    bad = trf_tensor_of(a.numbers[0], 3, rows, 16, 1);
    FAILS(TRF_E_SHAPE, trf_stage_forward(a.j.stage, 0, &a.batch, &bad, NULL, &err));
    bad = trf_tensor_of(NULL, 2, rows, 16, 1);
    FAILS(TRF_E_INVALID_ARG, trf_stage_forward(a.j.stage, 0, &a.batch, &bad, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_stage_forward(a.j.stage, -1, &a.batch, &a.in, NULL, &err));
    assert_string_equal(err.what, "slot");
    FAILS(TRF_E_INVALID_ARG, trf_stage_forward(a.j.stage, 2, &a.batch, &a.in, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_stage_forward(a.j.stage, 0, NULL, &a.in, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_stage_forward(NULL, 0, &a.batch, &a.in, NULL, &err));
    FAILS(TRF_E_STATE, trf_stage_backward(a.j.stage, 0, NULL, &a.din, NULL, &err));
    assert_non_null(strstr(err.message, "trf_stage_forward"));
    wrong = a.batch;
    wrong.ordinal = -1;
    FAILS(TRF_E_INVALID_ARG, trf_stage_forward(a.j.stage, 0, &wrong, &a.in, NULL, &err));
    assert_string_equal(err.what, "ordinal");
    FAILS(TRF_E_STATE, trf_trainer_update(a.j.trainer, NULL, &err));
    OK(trf_stage_forward(a.j.stage, 0, &a.batch, &a.in, NULL, &err));
    FAILS(TRF_E_STATE, trf_stage_forward(a.j.stage, 0, &a.batch, &a.in, NULL, &err));
    assert_non_null(strstr(err.message, "trf_stage_backward"));
    FAILS(TRF_E_STATE, trf_stage_backward(a.j.stage, 1, NULL, &a.din, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_stage_backward(a.j.stage, 0, NULL, NULL, NULL, &err));
    assert_string_equal(err.what, "din");
    FAILS(TRF_E_STATE, trf_trainer_set_options(a.j.trainer, &a.j.o, &err));
    FAILS(TRF_E_STATE, trf_trainer_freeze(a.j.trainer, "*", 1, NULL, &err));
    OK(trf_stage_forward(a.j.stage, 1, &a.batch, &a.in, NULL, &err));
    OK(trf_stage_backward(a.j.stage, 0, NULL, &a.din, NULL, &err));
    FAILS(TRF_E_STATE, trf_trainer_update(a.j.trainer, NULL, &err));
    assert_string_equal(err.what, "slots");
    OK(trf_stage_backward(a.j.stage, 1, NULL, &a.din, NULL, &err));
    OK(trf_trainer_update(a.j.trainer, NULL, &err));
    a.j.o.parts = 1;
    OK(trf_trainer_set_options(a.j.trainer, &a.j.o, &err));
    FAILS(TRF_E_STATE, trf_stage_forward(a.j.stage, 0, &a.batch, &a.in, NULL, &err));
    assert_string_equal(err.what, "parts");
    a.j.o.parts = 0;
    OK(trf_trainer_set_options(a.j.trainer, &a.j.o, &err));
    /* what only other stages would use is checked all the same */
    wrong = a.batch;
    wrong.source.lengths = &long_ago;
    wrong.source.count = 1;
    FAILS(TRF_E_INVALID_ARG, trf_stage_forward(a.j.stage, 0, &wrong, &a.in, NULL, &err));
    alone_close(&a);
}

/* The first stage refuses targets that it does not read. */
static void batches_are_checked_alike(void **state)
{
    static kit_pairs p;
    stage_job j = base_job(0, 0);
    trf_model *model;
    trf_trainer *trainer;
    trf_stage *stage;
    trf_batch b = batch_for(&j.c, &p, 4, 1);
    int64_t in, out;
    (void)state;
    OK(kit_create_stage(&model, &j.c, 0, 1, &err));
    OK(trf_trainer_create(&trainer, model, &j.o, &err));
    OK(trf_stage_create(&stage, trainer, 1, sum_alone, NULL, &err));
    OK(trf_stage_rows(stage, &b, &in, &out, &err));
    assert_int_equal(in, 0);
    assert_int_equal(out, kit_source_rows(model, &b.source));
    p.target[3] = VOCAB;
    FAILS(TRF_E_INVALID_ARG, trf_stage_rows(stage, &b, &in, &out, &err));
    assert_string_equal(err.what, "target");
    assert_int_equal(err.where, 3);
    assert_true(in == 0 && out == 0);
    trf_stage_destroy(stage);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* A cancelled forward pass leaves its slot empty; a backward pass is not cancelled. What is
   discarded leaves no trace. */
static void nothing_half_done(void **state)
{
    static alone a, b;
    int i, k;
    uint64_t before;
    (void)state;
    alone_open(&a, 0, 2);
    alone_open(&b, 0, 2);
    for (i = 0;; i++) {
        trf_status status;
        cancel_after = i;
        status = trf_stage_forward(a.j.stage, 1, &a.batch, &a.in, NULL, &err);
        if (status == TRF_OK) break;
        assert_int_equal(status, TRF_E_CANCELLED);
        FAILS(TRF_E_STATE, trf_stage_backward(a.j.stage, 1, NULL, &a.din, NULL, &err));
    }
    assert_true(i >= (KIT_ASKS_ONCE ? 1 : 3));
    cancel_after = 0;
    OK(trf_stage_backward(a.j.stage, 1, NULL, &a.din, NULL, &err));
    trf_trainer_discard_gradients(a.j.trainer);
    cancel_after = 1 << 20;
    OK(trf_stage_forward(a.j.stage, 0, &a.batch, &a.in, NULL, &err));
    trf_trainer_discard_gradients(a.j.trainer);
    FAILS(TRF_E_STATE, trf_stage_backward(a.j.stage, 0, NULL, &a.din, NULL, &err));
    for (k = 0; k < 2; k++) {
        stage_job *j = k ? &b.j : &a.j;
        OK(trf_stage_forward(j->stage, k, &a.batch, &a.in, NULL, &err));
        OK(trf_stage_backward(j->stage, k, NULL, k ? &b.din : &a.din, NULL, &err));
    }
    assert_memory_equal(a.din.data, b.din.data, (size_t)trf_tensor_count(&a.din) * sizeof(trf_real));
    /* a hook that fails */
    before = hash_state(a.j.trainer);
    fail_at = calls + 1;
    FAILS(TRF_E_BACKEND, trf_trainer_update(a.j.trainer, NULL, &err));
    assert_string_equal(err.what, "sum");
    assert_true(hash_state(a.j.trainer) == before);
    FAILS(TRF_E_STATE, trf_trainer_update(a.j.trainer, NULL, &err));
    OK(trf_stage_forward(a.j.stage, 0, &a.batch, &a.in, NULL, &err));
    OK(trf_stage_backward(a.j.stage, 0, NULL, &a.din, NULL, &err));
    OK(trf_trainer_update(a.j.trainer, NULL, &err));
    OK(trf_trainer_update(b.j.trainer, NULL, &err));
    assert_true(hash_state(a.j.trainer) == hash_state(b.j.trainer));
    alone_close(&a);
    alone_close(&b);
}

/* A chain whose last stage brings no targets has nothing to learn from. */
static void no_targets(void **state)
{
    static kit_pairs p;
    stage_job j = base_job(0, 0);
    static trf_real rows[4096];
    trf_tensor out;
    trf_batch b = batch_for(&j.c, &p, 4, 1);
    uint64_t before;
    (void)state;
    j.end = 1;
    OK(kit_create_stage(&j.model, &j.c, 0, 1, &err));
    OK(trf_trainer_create(&j.trainer, j.model, &j.o, &err));
    OK(trf_stage_create(&j.stage, j.trainer, 1, sum_alone, NULL, &err));
    out = trf_tensor_of(rows, 2, kit_source_rows(j.model, &b.source), 16, 1);
    OK(trf_stage_forward(j.stage, 0, &b, NULL, &out, &err));
    OK(trf_stage_backward(j.stage, 0, &out, NULL, NULL, &err));
    before = hash_state(j.trainer);
    FAILS(TRF_E_STATE, trf_trainer_update(j.trainer, NULL, &err));
    assert_string_equal(err.what, "tokens");
    assert_true(hash_state(j.trainer) == before);
    stages_close(&j, 1);
}

/* The slots of a whole model share the scratch of its trainer's own pass, which may grow between
   two of their micro-batches: what a device has recorded with the old one is not played again. */
static void scratch_grows_between(void **state)
{
    stage_job j = base_job(0, 0);
    kit_pairs *few = (kit_pairs *)malloc(sizeof *few), *many = (kit_pairs *)malloc(sizeof *many);
    trf_batch b, more;
    uint64_t first = 0, now;
    int i;
    (void)state;
    assert_true(few && many);
    b = kit_fill(few, 2, 3, 6, 11, 5);
    more = kit_fill(many, 40, 12, 16, 11, 6);
    j.c.max_length = 20;
    j.o.source_tokens = j.o.target_tokens = j.o.sequences = 1;
    j.o.longest = 2;
    OK(trf_model_create(&j.model, &j.c, NULL, &err));
    OK(trf_trainer_create(&j.trainer, j.model, &j.o, &err));
    OK(trf_stage_create(&j.stage, j.trainer, 1, sum_alone, NULL, &err));
    for (i = 0; i < 6; i++) {
        if (i == 3) {
            OK(trf_trainer_forward_backward(j.trainer, &more, NULL, &err));
            trf_trainer_discard_gradients(j.trainer);
        }
        OK(trf_stage_forward(j.stage, 0, &b, NULL, NULL, &err));
        OK(trf_stage_backward(j.stage, 0, NULL, NULL, NULL, &err));
        now = hash_gradients(HASH_START, j.trainer);
        if (i == 0) first = now;
        assert_true(now == first);
        trf_trainer_discard_gradients(j.trainer);
    }
    stages_close(&j, 1);
    free(few);
    free(many);
}

/* Calls for whole models. */
static void whole_models_alone(void **state)
{
    static alone a;
    trf_model *model = NULL, *other;
    trf_translator *translator;
    trf_sampler *sampler;
    trf_stage *stage;
    size_t n;
    int32_t i;
    (void)state;
    alone_open(&a, 0, 1);
    model = a.j.model;
    FAILS(TRF_E_STATE, trf_trainer_step(a.j.trainer, &a.batch, NULL, &err));
    assert_string_equal(err.what, "model");
    FAILS(TRF_E_STATE, trf_trainer_forward_backward(a.j.trainer, &a.batch, NULL, &err));
    FAILS(TRF_E_STATE, trf_trainer_evaluate(a.j.trainer, &a.batch, NULL, NULL, &err));
    FAILS(TRF_E_STATE, trf_translator_create(&translator, model, NULL, &err));
    FAILS(TRF_E_STATE, trf_sampler_create(&sampler, model, NULL, &err));
    FAILS(TRF_E_STATE, trf_model_pack(model, TRF_WEIGHTS_FULL, &err));
    FAILS(TRF_E_STATE, trf_model_average(model, &model, 1, &err));
    FAILS(TRF_E_STATE, kit_save_memory(model, TRF_WEIGHTS_FULL, NULL, 0, &n, &err));
    FAILS(TRF_E_STATE, trf_stage_create(&stage, a.j.trainer, 1, sum_alone, NULL, &err));
    assert_null(stage);
    OK(trf_model_copy(&other, model, &err));
    assert_int_equal(trf_model_parameter_count(other), trf_model_parameter_count(model));
    for (i = 0; i < trf_model_parameter_count(model); i++)
        assert_string_equal(trf_model_parameter(other, i).name, trf_model_parameter(model, i).name);
    assert_true(hash_weights(HASH_START, other) == hash_weights(HASH_START, model));
    OK(trf_trainer_average(a.j.trainer, 1, &err));
    OK(trf_trainer_average(a.j.trainer, 0.1, &err));
    trf_model_destroy(other);
    alone_close(&a);
}

/* Each stage has a checkpoint of its own. */
static void checkpoints_of_stages(void **state)
{
    static alone a;
    char *bytes, *at;
    size_t n = 0;
    trf_model *model;
    trf_trainer *trainer;
    trf_load_options loading = trf_load_defaults();
    int variant;
    (void)state;
    for (variant = 0; variant < 8; variant += KIT_HAS_STREAM ? 5 : 1) {
        stage_job j = base_job(variant, variant == 1 || variant == 2);
        j.c.device = trf_device_default();      /* that of the loaded one */
        j.o.threads = 1;
        j.saved = 1;
        if (variant == 0) j.frozen = "*.bias";
        if (variant == 3 || variant == 4 || variant == 7) continue;     /* have shared parameters */
        compare_runs(&j, 1);
    }
    alone_open(&a, 0, 1);
    FAILS(TRF_E_LIMIT, kit_checkpoint_save_memory(a.j.trainer, NULL, NULL, 0, &n, &err));
    bytes = (char *)malloc(n);
    OK(kit_checkpoint_save_memory(a.j.trainer, NULL, bytes, n, &n, &err));
    OK(kit_load_memory(&model, bytes, n, NULL, &err));
    assert_true(hash_weights(HASH_START, model) == hash_weights(HASH_START, a.j.model));
    assert_true(model->layout.first == 3 && model->layout.end == 4);
    trf_model_destroy(model);
    loading.weights = TRF_WEIGHTS_BF16;
    FAILS(TRF_E_STATE, kit_load_memory(&model, bytes, n, &loading, &err));
    kit_unchecked(bytes, n);
    for (at = bytes; memcmp(at, "trf.stage.end\":\"4", 17); at++) { }
    at[16] = '5';                       /* there are four layers */
    FAILS(TRF_E_FORMAT, kit_checkpoint_load_memory(&model, &trainer, NULL, bytes, n, NULL, NULL,
                                                   &err));
    at[16] = '3';                       /* and one is too few */
    FAILS(TRF_E_FORMAT, kit_checkpoint_load_memory(&model, &trainer, NULL, bytes, n, NULL, NULL,
                                                   &err));
    at[16] = '4';
    for (at = bytes; memcmp(at, "trf.stage.first\":\"3", 19); at++) { }
    at[18] = '2';                       /* a layer that the file does not have */
    FAILS(TRF_E_SHAPE, kit_checkpoint_load_memory(&model, &trainer, NULL, bytes, n, NULL, NULL,
                                                  &err));
    at[18] = '0';
    FAILS(TRF_E_FORMAT, kit_checkpoint_load_memory(&model, &trainer, NULL, bytes, n, NULL, NULL,
                                                   &err));
    free(bytes);
    alone_close(&a);
}

static void bad_stages(void **state)
{
    stage_job j = base_job(0, 0);
    trf_model *model;
    trf_trainer *trainer;
    trf_stage *stage;
    (void)state;
    FAILS(TRF_E_INVALID_ARG, kit_create_stage(&model, &j.c, -1, 2, &err));
    assert_string_equal(err.what, "first_layer");
    assert_null(model);
    FAILS(TRF_E_INVALID_ARG, kit_create_stage(&model, &j.c, 4, 5, &err));
    FAILS(TRF_E_INVALID_ARG, kit_create_stage(&model, &j.c, 2, 2, &err));
    assert_string_equal(err.what, "end_layer");
    FAILS(TRF_E_INVALID_ARG, kit_create_stage(&model, &j.c, 2, 5, &err));
    FAILS(TRF_E_INVALID_ARG, kit_create_stage(&model, &j.c, 1, 0, &err));
    assert_string_equal(err.what, "end_layer");
    FAILS(TRF_E_INVALID_ARG, kit_create_stage(&model, NULL, 0, 1, &err));
    FAILS(TRF_E_INVALID_ARG, kit_create_stage(NULL, &j.c, 0, 1, &err));
    j.c.d_model = 0;
    FAILS(TRF_E_INVALID_ARG, kit_create_stage(&model, &j.c, 0, 1, &err));
    j = base_job(0, 0);
    OK(kit_create_stage(&model, &j.c, 0, 1, &err));
    OK(trf_trainer_create(&trainer, model, &j.o, &err));
    FAILS(TRF_E_INVALID_ARG, trf_stage_create(&stage, trainer, 0, sum_alone, NULL, &err));
    assert_string_equal(err.what, "in_flight");
    FAILS(TRF_E_INVALID_ARG, trf_stage_create(&stage, trainer, 65537, sum_alone, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_stage_create(&stage, trainer, 1, NULL, NULL, &err));
    assert_string_equal(err.what, "sum");
    FAILS(TRF_E_INVALID_ARG, trf_stage_create(&stage, NULL, 1, sum_alone, NULL, &err));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    OK(trf_model_create(&model, &j.c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &j.o, &err));
    OK(trf_stage_create(&stage, trainer, 1, NULL, NULL, &err));
    trf_stage_destroy(stage);
    trf_stage_destroy(NULL);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* Stages divide the weights of a model, and start from its values; memory fails cleanly; slots have
   nothing but activations. */
static void memory_of_stages(void **state)
{
    stage_job j = base_job(0, 0);
    kit_memory memory;
    trf_hooks hooks;
    trf_model *whole, *model;
    trf_trainer *trainer;
    trf_stage *stage;
    int64_t weights = 0, whole_bytes, before;
    int k;
    (void)state;
    memset(&memory, 0, sizeof memory);
    hooks = kit_hooks(&memory);
    j.o.hooks = j.c.hooks = hooks;
    OK(trf_model_create(&whole, &j.c, NULL, &err));
    OK(trf_trainer_create(&trainer, whole, &j.o, &err));
    whole_bytes = memory.live;
    OK(trf_stage_create(&stage, trainer, 2, NULL, NULL, &err));
    if (!KIT_HAS_STREAM)
        assert_int_equal(memory.live, trf_stage_memory(&j.c, &j.o, 0, 4, 2, NULL));
    trf_stage_destroy(stage);
    trf_trainer_destroy(trainer);
    for (k = 0; k < 4; k++) {
        int32_t i, slots;
        int64_t others = memory.live;
        ALLOCATIONS_FAIL(memory, 2, kit_create_stage(&model, &j.c, k, k + 1, &err), 1);
        weights += trf_model_parameter_total(model);
        for (i = 0; i < trf_model_parameter_count(model); i++)
            assert_true(apart(model, model->weights, i, whole, whole->weights,
                              model->layout.params[i].number) == 0);
        OK(trf_trainer_create(&trainer, model, &j.o, &err));
        before = memory.live;
        if (!KIT_HAS_STREAM) assert_true(before - others < whole_bytes / 2);
        ALLOCATIONS_FAIL(memory, 4, trf_stage_create(&stage, trainer, 1, sum_alone, NULL, &err),
                         trainer->stage == NULL);
        trf_stage_destroy(stage);
        assert_int_equal(memory.live, before);
        for (slots = 1; slots < 8; slots += 3) {
            OK(trf_stage_create(&stage, trainer, slots, sum_alone, NULL, &err));
            if (!KIT_HAS_STREAM)
                assert_int_equal(memory.live - others,
                                 trf_stage_memory(&j.c, &j.o, k, k + 1, slots, NULL));
            trf_stage_destroy(stage);
        }
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
    }
    assert_int_equal(weights, trf_model_parameter_total(whole));
    assert_int_equal(trf_stage_memory(&j.c, &j.o, 4, 5, 1, NULL), 0);
    assert_int_equal(trf_stage_memory(&j.c, &j.o, 2, 2, 1, NULL), 0);
    assert_int_equal(trf_stage_memory(&j.c, &j.o, 0, 1, 0, NULL), 0);
    assert_int_equal(trf_stage_memory(NULL, NULL, 0, 1, 1, NULL), 0);
    trf_model_destroy(whole);
    assert_int_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_division),
        cmocka_unit_test(one_stage),
        cmocka_unit_test(scratch_grows_between),
        cmocka_unit_test(other_options),
        cmocka_unit_test(copies_of_stages),
        cmocka_unit_test(frozen_parameters),
        cmocka_unit_test(skipped_updates),
        cmocka_unit_test(seams_are_checked),
        cmocka_unit_test(batches_are_checked_alike),
        cmocka_unit_test(nothing_half_done),
        cmocka_unit_test(no_targets),
        cmocka_unit_test(whole_models_alone),
        cmocka_unit_test(checkpoints_of_stages),
        cmocka_unit_test(bad_stages),
        cmocka_unit_test(memory_of_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* build: shared separate:shared long:shared plain:shared */
/* Batches in parts, and ranks: trf_batch_part beside a plain loop; the same bits for any number of
   ranks; gradients that are final when all_reduce gets them; what fails, fails on all ranks. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>
#include "answers.h"
#include "team.h"

/* -----------------------------------------------------------------------------------------------
   Parts of a batch. */

static trf_batch random_batch(kit_pairs *p, int32_t count, int32_t longest, uint64_t seed)
{
    return kit_fill(p, count, 0, longest, VOCAB, seed);
}

/* The part of pair i by the formula, in numbers that cannot overflow here. */
static int32_t part_of(const trf_batch *b, int32_t i, int32_t parts)
{
    int64_t before = 0, all = 0, own = 0;
    int32_t k, n = b->source.count ? b->source.count : b->target.count;
    for (k = 0; k < n; k++) {
        int64_t tokens = (b->source.count ? b->source.lengths[k] + 1 : 0) +
            (b->target.count ? b->target.lengths[k] + 1 : 0);
        if (k < i) before += tokens;
        if (k == i) own = tokens;
        all += tokens;
    }
    return (int32_t)(parts * (2 * before + own) / (2 * all));
}

static int same_sequence(const trf_sequences *a, int32_t i, const trf_sequences *b, int32_t k)
{
    trf_sequences x = kit_part(a, i, 1), y = kit_part(b, k, 1);
    return x.lengths[0] == y.lengths[0] &&
        !memcmp(x.ids, y.ids, (size_t)x.lengths[0] * sizeof *x.ids);
}

static void parts_are_the_batch(void **state)
{
    static kit_pairs p;
    static const int32_t counts[] = {0, 1, 2, 3, 8, 33, 200};
    static const int32_t divisions[] = {1, 2, 3, 4, 7, 16, 300};
    size_t a, d;
    int sides;
    (void)state;
    for (a = 0; a < sizeof counts / sizeof *counts; a++)
        for (d = 0; d < sizeof divisions / sizeof *divisions; d++)
            for (sides = 1; sides <= 3; sides++) {
                int32_t parts = divisions[d], part, at = 0, n = counts[a];
                trf_batch whole = random_batch(&p, n, 9, 3 * a + d), piece;
                whole.ordinal = 100;
                whole.place.corpus = 7; whole.place.epoch = 2; whole.place.batch = 5;
                if (!(sides & 1)) whole.source.count = 0;
                if (!(sides & 2)) whole.target.count = 0;
                for (part = 0; part < parts; part++) {
                    int32_t i, got;
                    OK(trf_batch_part(&whole, part, parts, &piece, &err));
                    got = sides & 1 ? piece.source.count : piece.target.count;
                    assert_int_equal(piece.source.count, sides & 1 ? got : 0);
                    assert_int_equal(piece.target.count, sides & 2 ? got : 0);
                    assert_int_equal(piece.ordinal, 100 + at);
                    assert_true(!memcmp(&piece.place, &whole.place, sizeof whole.place));
                    for (i = 0; i < got; i++, at++) {
                        assert_true(at < n);
                        assert_int_equal(part_of(&whole, at, parts), part);
                        if (sides & 1)
                            assert_true(same_sequence(&piece.source, i, &whole.source, at));
                        if (sides & 2)
                            assert_true(same_sequence(&piece.target, i, &whole.target, at));
                    }
                }
                assert_int_equal(at, n);
            }
}

static void parts_are_refused(void **state)
{
    static kit_pairs p;
    trf_batch whole = random_batch(&p, 4, 5, 1), piece, bad;
    int32_t huge[3] = {INT32_MAX, INT32_MAX, 1};
    (void)state;
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(NULL, 0, 1, &piece, &err));
    assert_string_equal(err.what, "batch");
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&whole, 0, 1, NULL, &err));
    assert_string_equal(err.what, "piece");
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&whole, 0, 0, &piece, &err));
    assert_string_equal(err.what, "parts");
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&whole, 0, (1 << 20) + 1, &piece, &err));
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&whole, 3, 3, &piece, &err));
    assert_string_equal(err.what, "part");
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&whole, -1, 3, &piece, &err));
    bad = whole;
    bad.target.count = 3;
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&bad, 0, 1, &piece, &err));
    assert_string_equal(err.what, "target");
    bad = whole;
    bad.source.count = -1;
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&bad, 0, 1, &piece, &err));
    p.source_lengths[2] = -1;
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&whole, 0, 1, &piece, &err));
    assert_string_equal(err.what, "source");
    assert_int_equal(err.where, 2);
    bad = random_batch(&p, 4, 5, 1);
    bad.ordinal = -1;
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&bad, 0, 1, &piece, &err));
    assert_string_equal(err.what, "ordinal");
    bad.ordinal = INT64_MAX - bad.source.count + 1;
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&bad, 0, 1, &piece, &err));
    bad.ordinal--;
    OK(trf_batch_part(&bad, 0, 1, &piece, &err));
    bad = whole;
    bad.source.count = 0;
    bad.target.lengths = huge; bad.target.count = 3;
    FAILS(TRF_E_LIMIT, trf_batch_part(&bad, 0, 1, &piece, &err));
}

/* The largest batch that there can be: no product overflows. */
static void largest_parts(void **state)
{
    static const int32_t lengths[2] = {INT32_MAX - 1, 1};
    static const int32_t id = 5;
    trf_batch whole = {{&id, lengths, 2}, {&id, lengths, 2}, 0, {0, 0, 0}}, piece;
    (void)state;
    OK(trf_batch_part(&whole, (1 << 19) - 1, 1 << 20, &piece, &err));
    assert_int_equal(piece.source.count, 1);
    assert_int_equal(piece.source.lengths[0], INT32_MAX - 1);
    OK(trf_batch_part(&whole, (1 << 20) - 1, 1 << 20, &piece, &err));
    assert_int_equal(piece.source.count, 1);
    assert_int_equal(piece.ordinal, 1);
}

/* A batch without pairs has no queries: nothing of the batch before stays. */
static void an_empty_batch_has_no_queries(void **state)
{
    static kit_pairs p;
    trf_config c = kit_small(1, 16, VOCAB, 12);
    trf_train_options o = kit_small_training(0);
    trf_trainer *trainer = NULL;
    trf_model *model = NULL;
    trf_batch batch = random_batch(&p, 3, 9, 1);
    (void)state;
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &o, &err));
    OK(trf_trainer_forward_backward(trainer, &batch, NULL, &err));
    batch.source.count = batch.target.count = 0;
    OK(trf_trainer_forward_backward(trainer, &batch, NULL, &err));
    assert_int_equal(trainer->pass.encoder.max_queries, trainer->pass.encoder.max_keys);
    assert_int_equal(trainer->pass.decoder.max_queries, trainer->pass.decoder.max_keys);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Ranks as threads. */

enum { MOST_RANKS = 7, UPDATES = 3, PAIRS = 11, MOST_SLICES = 64 };

/* how a rank sums: at once, or in the end hook */
typedef enum { BLOCKING, LATER } manner;

typedef struct rank_job {
    team *all;
    trf_config c;
    trf_train_options o;
    manner how;
    int split;                          /* 1: forward_backward and optimizer_step, twice a step */
    int failures;
    int fail_at, calls, ends;
    int64_t bytes;
    uint64_t hash;
    trf_step_report reports[UPDATES];
    /* slices whose sum is to come, and what they were when they came */
    int n_begun;
    trf_real *begun[MOST_SLICES], *copies[MOST_SLICES];
    size_t counts[MOST_SLICES];
    int changed;                        /* a gradient changed after it was given away */
} rank_job;

static int reduce(void *user, trf_real *gradients, size_t count, void *stream)
{
    rank_job *j = (rank_job *)user;
    (void)stream;
    if (++j->calls == j->fail_at) return 1;
    j->bytes += (int64_t)(count * sizeof *gradients);
    if (j->how == BLOCKING) { team_sum(j->all, j->o.rank, gradients, count); return 0; }
    if (j->n_begun == MOST_SLICES) return 1;
    j->begun[j->n_begun] = gradients;
    j->counts[j->n_begun] = count;
    separate_enter();
    j->copies[j->n_begun] = (trf_real *)malloc(count * sizeof *gradients);
    memcpy(j->copies[j->n_begun++], gradients, count * sizeof *gradients);
    separate_leave();
    return 0;
}

static int reduce_end(void *user)
{
    rank_job *j = (rank_job *)user;
    int i;
    if (++j->ends == -j->fail_at) return 1;
    for (i = 0; i < j->n_begun; i++) {
        separate_enter();
        j->changed |= memcmp(j->begun[i], j->copies[i], j->counts[i] * sizeof(trf_real)) != 0;
        separate_leave();
        free(j->copies[i]);
        team_sum(j->all, j->o.rank, j->begun[i], j->counts[i]);
    }
    j->n_begun = 0;
    return 0;
}

/* Nothing here may call cmocka: it is another thread. */
static void *rank_main(void *argument)
{
    rank_job *j = (rank_job *)argument;
    kit_pairs *p = (kit_pairs *)malloc(sizeof *p);
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    int step;
    j->failures += trf_model_create(&model, &j->c, NULL, NULL) != TRF_OK;
    j->failures += trf_trainer_create(&trainer, model, &j->o, NULL) != TRF_OK;
    for (step = 0; step < UPDATES && !j->failures; step++) {
        trf_batch b = batch_for(&j->c, p, PAIRS - 4 * step, 50 + (uint64_t)step);
        if (j->split) {
            j->failures += trf_trainer_forward_backward(trainer, &b, NULL, NULL) != TRF_OK;
            if (step == 1) {
                b = batch_for(&j->c, p, 2, 60);     /* some parts are empty */
                j->failures += trf_trainer_forward_backward(trainer, &b, NULL, NULL) != TRF_OK;
            }
            j->failures += trf_trainer_update(trainer, &j->reports[step], NULL) != TRF_OK;
            continue;
        }
        if (step == 1) {
            j->failures += trf_trainer_forward_backward(trainer, &b, NULL, NULL) != TRF_OK;
            b = batch_for(&j->c, p, 2, 60);     /* some parts are empty */
        }
        j->failures += trf_trainer_step(trainer, &b, &j->reports[step], NULL) != TRF_OK;
    }
    j->hash = j->failures ? 0 : hash_state(trainer);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    free(p);
    return NULL;
}

static rank_job base_job(int variant, int32_t parts)
{
    rank_job j;
    memset(&j, 0, sizeof j);
    j.c = config_of(variant, 16);
    j.c.device.threads = 1;
    j.o = kit_small_training(0.2);
    j.o.parts = parts;
    return j;
}

/* R ranks; jobs[0] says how. The hash of all, or 0 if one failed or they differ. */
static uint64_t run_ranks(const rank_job *like, int n, rank_job *jobs)
{
    team all;
    pthread_t threads[MOST_RANKS];
    uint64_t hash;
    int r;
    team_open(&all, n);
    for (r = 0; r < n; r++) {
        jobs[r] = *like;
        jobs[r].all = &all;
        jobs[r].o.rank = r;
        jobs[r].o.n_ranks = n;
        jobs[r].o.all_reduce = n > 1 || like->how == LATER ? reduce : NULL;
        jobs[r].o.all_reduce_end = like->how == LATER ? reduce_end : NULL;
        jobs[r].o.user = &jobs[r];
    }
    for (r = 0; r < n; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &jobs[r]), 0);
    for (r = 0; r < n; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
    team_close(&all);
    hash = jobs[0].hash;
    for (r = 0; r < n; r++) {
        assert_int_equal(jobs[r].failures, 0);
        assert_int_equal(jobs[r].changed, 0);
        assert_true(jobs[r].hash == hash);
        assert_memory_equal(jobs[r].reports, jobs[0].reports, sizeof jobs[0].reports);
    }
    assert_true(hash != 0);
    return hash;
}

/* One process with P parts, and P parts on any number of ranks. */
static void the_same_bits(void **state)
{
    static const int32_t all_parts[] = {1, 2, 3, 4, 7};
    rank_job jobs[MOST_RANKS], one[1];
    uint64_t hashes[5];
    size_t k, i;
    (void)state;
    for (k = 0; k < 5; k++) {
        int32_t parts = all_parts[k];
        rank_job j = base_job(0, parts);
        int n, r;
        j.o.consistency = parts == 3 ? 2 : 0;
        hashes[k] = run_ranks(&j, 1, one);
        for (n = 1; n <= parts; n++) {
            j.how = n % 2 ? LATER : BLOCKING;
            j.c.device.threads = 1 + n % 2;
            j.o.threads = 0;
            j.split = n == 3;
            assert_true(run_ranks(&j, n, jobs) == hashes[k]);
            for (r = 0; r < n; r++)
                assert_memory_equal(jobs[r].reports, one[0].reports, sizeof one[0].reports);
        }
        for (i = 0; i < k; i++) assert_true(hashes[i] != hashes[k]);
    }
    {
        rank_job whole = base_job(0, 0);
        assert_true(run_ranks(&whole, 1, one) == hashes[0]);
    }
}

/* Parts have the dropout masks and the tokens of the whole: only rounding differs. */
static void parts_compute_the_whole(void **state)
{
    rank_job whole = base_job(0, 0), parts = base_job(0, 4), a[1], b[1];
    int step;
    (void)state;
    run_ranks(&whole, 1, a);
    run_ranks(&parts, 1, b);
    for (step = 0; step < UPDATES; step++) {
        const trf_step_report *x = &a->reports[step], *y = &b->reports[step];
        double tol = (sizeof(trf_real) == 8 ? 1e-10 : 2e-4);
        assert_true(fabs(x->loss - y->loss) < tol * x->loss);
        assert_true(fabs(x->gradient_norm - y->gradient_norm) < 10 * tol * x->gradient_norm);
        assert_int_equal(x->target_tokens, y->target_tokens);
        assert_int_equal(x->source_tokens, y->source_tokens);
    }
}

/* Every kind of model: what all_reduce gets does not change any more, and the bits are those of
   sums after the whole backward pass. */
static void slices_are_final(void **state)
{
    rank_job jobs[MOST_RANKS];
    int variant, recompute;
    (void)state;
    for (variant = 0; variant < 8; variant++)
        for (recompute = 0; recompute < 2; recompute++) {
            rank_job j = base_job(variant, 3);
            uint64_t at_once, after;
            if (j.c.kind != TRF_DECODER_ONLY) j.c.encoder_layers = 3;
            j.o.recompute = recompute;
            j.how = LATER;
            at_once = run_ranks(&j, 2, jobs);
            assert_true(jobs[0].ends == 2 * UPDATES);
            j.split = 1;
            after = run_ranks(&j, 2, jobs);
            assert_true(at_once == after);
            j.how = BLOCKING;
            assert_true(run_ranks(&j, 1, jobs) == after);
        }
}

/* The hook sees every gradient of a part once. */
static void bytes_of_an_update(void **state)
{
    rank_job j = base_job(0, 2), jobs[MOST_RANKS];
    trf_model *model;
    (void)state;
    run_ranks(&j, 2, jobs);
    OK(trf_model_create(&model, &j.c, NULL, &err));
    assert_int_equal(jobs[0].bytes, UPDATES * (model->layout.n_weights + TRF__TALLIES) *
                                        (int64_t)sizeof(trf_real));
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   What fails. */

static int cancel_after;
static int cancel(void *user)
{
    (void)user;
    return cancel_after-- <= 0;
}

static void failures_lose_nothing(void **state)
{
    static kit_pairs p;
    rank_job j = base_job(1, 3);
    team all;
    trf_model *model;
    trf_trainer *trainer;
    trf_step_report report;
    uint64_t before;
    int k, calls, wanted;
    trf_batch b = batch_for(&j.c, &p, PAIRS, 50);
    (void)state;
    memset(&all, 0, sizeof all);
    all.n = 1;
    j.all = &all;
    j.how = LATER;
    j.o.all_reduce = reduce;
    j.o.all_reduce_end = reduce_end;
    j.o.user = &j;
    OK(trf_model_create(&model, &j.c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &j.o, &err));
    before = hash_state(trainer);
    j.fail_at = 1 << 20;
    FAILS(TRF_E_STATE, trf_trainer_update(trainer, NULL, &err));
    for (k = 1;; k++) {                         /* each call of the hook fails in turn */
        trf_status status;
        j.calls = j.ends = 0;
        j.fail_at = k;
        status = trf_trainer_step(trainer, &b, &report, &err);
        if (status == TRF_OK) break;
        assert_int_equal(status, TRF_E_BACKEND);
        assert_string_equal(err.what, "all_reduce");
        assert_int_equal(j.calls, k);           /* and is not called again */
        assert_true(hash_state(trainer) == before);
        FAILS(TRF_E_STATE, trf_trainer_update(trainer, NULL, &err));
        while (j.n_begun > 0) free(j.copies[--j.n_begun]);
    }
    calls = k - 1;
    assert_true(calls >= 9);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    OK(trf_model_create(&model, &j.c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &j.o, &err));
    for (k = 1; k <= 3; k++) {                  /* so does each end of a round */
        j.calls = j.ends = 0;
        j.fail_at = -k;
        FAILS(TRF_E_BACKEND, trf_trainer_step(trainer, &b, &report, &err));
        assert_int_equal(j.ends, k);
        assert_true(hash_state(trainer) == before);
        while (j.n_begun > 0) free(j.copies[--j.n_begun]);
    }
    j.fail_at = 0;
    /* a batch that is wrong in a part of another rank is refused before the first sum */
    j.calls = 0;
    wanted = p.target[20];
    p.target[20] = VOCAB;
    FAILS(TRF_E_INVALID_ARG, trf_trainer_step(trainer, &b, &report, &err));
    assert_int_equal(err.where, 20);
    assert_int_equal(j.calls, 0);
    p.target[20] = wanted;
    /* threads cannot change, nor can the number of parts here */
    j.o.parts = 4;
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_options(trainer, &j.o, &err));
    assert_string_equal(err.what, "parts");
    j.o.parts = 5; j.o.n_ranks = 2;             /* three rounds as before */
    OK(trf_trainer_set_options(trainer, &j.o, &err));
    j.o.parts = 1;
    FAILS(TRF_E_INVALID_ARG, trf_train_check(&j.o, NULL, &err));
    assert_string_equal(err.what, "parts");
    j.o.parts = 3; j.o.n_ranks = 1;
    OK(trf_trainer_set_options(trainer, &j.o, &err));
    /* cancelling: until the first sum begins; then the update is made */
    for (k = 0;; k++) {
        trf_status status;
        trf_train_options o = j.o;
        j.calls = 0;
        o.hooks.cancel = cancel;
        cancel_after = 1 << 20;
        OK(trf_trainer_set_options(trainer, &o, &err));
        cancel_after = k;
        status = trf_trainer_step(trainer, &b, &report, &err);
        if (status == TRF_OK) break;
        assert_int_equal(status, TRF_E_CANCELLED);
        assert_int_equal(j.calls, 0);
        assert_true(hash_state(trainer) == before);
    }
    assert_true(k >= 2);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* Without a hook several parts are cancelled, or refused, as a whole: gradients of batches before
   stay. */
static void parts_are_whole(void **state)
{
    static kit_pairs p, q;
    rank_job j = base_job(0, 4);
    trf_model *model;
    trf_trainer *trainer;
    trf_step_report report, sum;
    trf_train_options o = j.o;
    trf_batch b = batch_for(&j.c, &p, PAIRS, 50), second = batch_for(&j.c, &q, PAIRS, 51);
    uint64_t wanted;
    int k;
    (void)state;
    OK(trf_model_create(&model, &j.c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &j.o, &err));
    OK(trf_trainer_forward_backward(trainer, &b, &report, &err));
    assert_int_equal(report.target_tokens, kit_target_rows(model, &b.target));
    OK(trf_trainer_forward_backward(trainer, &second, NULL, &err));
    OK(trf_trainer_update(trainer, &sum, &err));
    wanted = hash_state(trainer);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    o.hooks.cancel = cancel;
    cancel_after = 1 << 20;
    OK(trf_model_create(&model, &j.c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &o, &err));
    cancel_after = 1 << 20;
    OK(trf_trainer_forward_backward(trainer, &b, NULL, &err));
    for (k = 0;; k++) {
        trf_status status;
        cancel_after = k;
        status = trf_trainer_forward_backward(trainer, &second, NULL, &err);
        if (status == TRF_OK) break;
        assert_int_equal(status, TRF_E_CANCELLED);
    }
    assert_true(k >= 2);
    cancel_after = 1 << 20;
    q.source[30] = -3;
    FAILS(TRF_E_INVALID_ARG, trf_trainer_forward_backward(trainer, &second, NULL, &err));
    assert_int_equal(err.where, 30);
    OK(trf_trainer_update(trainer, &report, &err));
    assert_memory_equal(&report, &sum, sizeof sum);
    assert_true(hash_state(trainer) == wanted);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* A checkpoint of P parts continues with any number of ranks. */
static void checkpoints_keep_parts(void **state)
{
    static kit_pairs p;
    rank_job j = base_job(0, 4);
    trf_model *model;
    trf_trainer *trainer;
    trf_batch b = batch_for(&j.c, &p, PAIRS, 50);
    trf_load_options load = trf_load_defaults();
    trf_train_options stored;
    trf_file *file;
    char *bytes;
    size_t n = 0;
    uint64_t wanted;
    (void)state;
    OK(trf_model_create(&model, &j.c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &j.o, &err));
    OK(trf_trainer_step(trainer, &b, NULL, &err));
    FAILS(TRF_E_LIMIT, kit_checkpoint_save_memory(trainer, NULL, NULL, 0, &n, &err));
    bytes = (char *)malloc(n);
    OK(kit_checkpoint_save_memory(trainer, NULL, bytes, n, &n, &err));
    OK(trf_trainer_step(trainer, &b, NULL, &err));
    wanted = hash_state(trainer);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    OK(kit_open_memory(&file, bytes, n, NULL, &err));
    OK(trf_file_training(file, &stored, &err));
    assert_true(stored.parts == 4 && stored.n_ranks == 1);
    trf_file_close(file);
    load.device = j.c.device;           /* bits depend on who multiplies */
    OK(kit_checkpoint_load_memory(&model, &trainer, NULL, bytes, n, NULL, &load, &err));
    OK(trf_trainer_step(trainer, &b, NULL, &err));
    assert_true(hash_state(trainer) == wanted);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    free(bytes);
}

/* Memory is counted for the gradients of each part. */
static void memory_of_parts(void **state)
{
    int32_t parts;
    size_t one = 0;
    (void)state;
    for (parts = 1; parts <= 5; parts++) {
        rank_job j = base_job(0, parts);
        trf_model *model;
        trf_trainer *trainer;
        kit_memory memory;
        trf_hooks hooks;
        size_t counted;
        memset(&memory, 0, sizeof memory);
        hooks = kit_hooks(&memory);
        j.o.hooks = hooks;
        OK(trf_model_create(&model, &j.c, NULL, &err));
        counted = trf_trainer_memory(&j.c, &j.o, NULL);
        OK(trf_trainer_create(&trainer, model, &j.o, &err));
        if (!KIT_HAS_STREAM) assert_int_equal(memory.live, counted);
        if (parts == 1) one = counted;
        assert_int_equal(counted - one, (size_t)(parts - 1) * sizeof(trf_real) *
                                            (size_t)(model->layout.n_weights + TRF__TALLIES));
        trf_trainer_destroy(trainer);
        assert_int_equal(memory.live, 0);
        trf_model_destroy(model);
    }
}

/* -----------------------------------------------------------------------------------------------
   trf_trainer_learn on ranks: all end at the same update, whatever one of them meets. */

typedef enum { NOTHING, CANCELS, STOPS, TIME } event;

typedef struct learner {
    team *all;
    trf_train_options o;
    event what;
    int who, at;                        /* the rank that it happens to, and at which update */
    int updates, validations, dues, cancel_now;     /* dues: as many as validations */
    double **shared;                    /* what the ranks agree on */
    trf_status status;
    trf_learn_report report;
} learner;

static int learner_reduce(void *user, trf_real *gradients, size_t count, void *stream)
{
    learner *l = (learner *)user;
    (void)stream;
    team_sum(l->all, l->o.rank, gradients, count);
    return 0;
}

static void learner_agree(void *user, double *numbers, int32_t n)
{
    learner *l = (learner *)user;
    int32_t i;
    int r;
    l->shared[l->o.rank] = numbers;
    meet(l->all);
    if (l->o.rank == 0)
        for (i = 0; i < n; i++) {
            double most = l->shared[0][i];
            for (r = 1; r < l->all->n; r++) if (l->shared[r][i] > most) most = l->shared[r][i];
            for (r = 0; r < l->all->n; r++) l->shared[r][i] = most;
        }
    meet(l->all);
}

static int learner_cancels(void *user) { return ((learner *)user)->cancel_now; }

static int learner_due(void *user, int64_t update)
{
    (void)update;
    ((learner *)user)->dues++;
    return 0;
}

static int learner_progress(void *user, const trf_learn_progress *p)
{
    learner *l = (learner *)user;
    int now;
    if (p->validated) { l->validations++; return 0; }
    l->updates++;
    now = l->o.rank == l->who && l->updates == l->at;
    if (now && l->what == CANCELS) l->cancel_now = 1;
    return now && l->what == STOPS;
}

static void *learner_main(void *argument)
{
    learner *l = (learner *)argument;
    kit_pairs *p = (kit_pairs *)malloc(sizeof *p);
    trf_config c = config_of(0, 16);
    trf_corpus_options k = trf_corpus_defaults();
    trf_learn_options o = trf_learn_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_corpus *corpus = NULL;
    trf_batch held;
    int32_t i, at[2] = {0, 0};
    c.device.threads = 1;
    held = batch_for(&c, p, PAIRS, 70);
    k.batch_sentences = 3;
    o.agree = learner_agree;
    o.progress = learner_progress;
    o.due = learner_due;
    o.user = l;
    o.updates = l->what == TIME ? TRF_ENDLESS : 12;
    o.seconds = l->what == TIME ? 0.3 : 0;
    o.patience = 0;
    o.valid_every = 5;
    l->status = trf_model_create(&model, &c, NULL, NULL);
    if (!l->status) l->status = trf_trainer_create(&trainer, model, &l->o, NULL);
    if (!l->status) l->status = trf_corpus_create(&corpus, &k, NULL);
    for (i = 0; i < PAIRS && !l->status; i++) {
        l->status = trf_corpus_add(corpus, held.source.ids + at[0], held.source.lengths[i],
                                   held.target.ids + at[1], held.target.lengths[i], NULL);
        at[0] += held.source.lengths[i];
        at[1] += held.target.lengths[i];
    }
    if (!l->status) l->status = trf_trainer_learn(trainer, corpus, &held, &o, &l->report, NULL);
    trf_corpus_destroy(corpus);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    free(p);
    return NULL;
}

static void ranks_learn(void **state)
{
    static const event events[] = {NOTHING, CANCELS, STOPS, TIME};
    learner l[3];
    double *shared[MOST_RANKS];
    pthread_t threads[3];
    team all;
    size_t e;
    int n, r;
    (void)state;
    for (e = 0; e < sizeof events / sizeof *events; e++)
        for (n = 1; n <= 3; n++) {
            team_open(&all, n);
            for (r = 0; r < n; r++) {
                memset(&l[r], 0, sizeof l[r]);
                l[r].all = &all;
                l[r].shared = shared;
                l[r].what = events[e];
                l[r].who = n - 1;
                l[r].at = 7;
                l[r].o = kit_small_training(0.2);
                l[r].o.parts = 3;
                l[r].o.rank = r;
                l[r].o.n_ranks = n;
                l[r].o.all_reduce = n > 1 ? learner_reduce : NULL;
                l[r].o.hooks.cancel = learner_cancels;
                l[r].o.hooks.user = &l[r];
                l[r].o.user = &l[r];
                assert_int_equal(pthread_create(&threads[r], NULL, learner_main, &l[r]), 0);
            }
            for (r = 0; r < n; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
            team_close(&all);
            for (r = 0; r < n; r++) {
                assert_int_equal(l[r].status, events[e] == CANCELS ? TRF_E_CANCELLED : TRF_OK);
                assert_int_equal(l[r].updates, l[0].updates);
                assert_int_equal(l[r].validations, l[0].validations);
                assert_int_equal(l[r].dues, l[r].validations);
                assert_memory_equal(&l[r].report.stopping, &l[0].report.stopping,
                                    sizeof l[0].report.stopping);
                if (events[e] == NOTHING) assert_true(l[r].updates == 12 && l[r].validations == 3);
                if (events[e] == CANCELS || events[e] == STOPS)
                    assert_int_equal(l[r].updates, 7);
                if (events[e] == TIME) assert_int_equal(l[r].report.end, TRF_END_SECONDS);
            }
        }
}

/* Clocks of ranks differ: seconds need ranks that agree. */
static void clocks_are_refused(void **state)
{
    trf_config c = config_of(0, 16);
    trf_train_options o = kit_small_training(0.2);
    trf_learn_options learning = trf_learn_defaults();
    trf_corpus *corpus;
    trf_model *model;
    trf_trainer *trainer;
    int32_t id = 5;
    (void)state;
    o.n_ranks = o.parts = 2;
    o.all_reduce = reduce;
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &o, &err));
    OK(trf_corpus_create(&corpus, NULL, &err));
    OK(trf_corpus_add(corpus, &id, 1, &id, 1, &err));
    learning.seconds = 1;
    FAILS(TRF_E_INVALID_ARG, trf_trainer_learn(trainer, corpus, NULL, &learning, NULL, &err));
    assert_string_equal(err.what, "seconds");
    trf_corpus_destroy(corpus);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_batch),
        cmocka_unit_test(parts_are_refused),
        cmocka_unit_test(largest_parts),
        cmocka_unit_test(an_empty_batch_has_no_queries),
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(parts_compute_the_whole),
        cmocka_unit_test(slices_are_final),
        cmocka_unit_test(bytes_of_an_update),
        cmocka_unit_test(failures_lose_nothing),
        cmocka_unit_test(parts_are_whole),
        cmocka_unit_test(checkpoints_keep_parts),
        cmocka_unit_test(memory_of_parts),
        cmocka_unit_test(ranks_learn),
        cmocka_unit_test(clocks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

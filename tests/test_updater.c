/* build: shared double:shared separate:shared cuda:shared plain:shared */
/* The optimizer over a caller's tensors, and files of them. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"

enum { VOCAB = 23, MOST = 80 };

static kit_memory memory;
static char path[64];

static trf_config counted_config(void)
{
    trf_config c = kit_small(1, 16, VOCAB, 40);
    c.target_vocab = 1100;      /* more than a tile */
    c.hooks = kit_hooks(&memory);
    return c;
}

static trf_train_options counted_training(void)
{
    trf_train_options o = kit_small_training(0.1);
    o.warmup = 3;
    o.hooks = kit_hooks(&memory);
    return o;
}

/* Copies of a model's weights or a trainer's gradients, in the host's memory. */
typedef struct copies { trf_tensor list[MOST]; int32_t n; } copies;

static copies copies_of(const trf_model *model, trf_trainer *trainer)
{
    copies c;
    for (c.n = 0; c.n < trf_model_parameter_count(model); c.n++) {
        trf_tensor from =
            trainer ? trf_trainer_tensor(trainer, TRF_GRADIENT, c.n) : trf_model_parameter(model, c.n);
        assert_true(c.n < MOST);
        c.list[c.n] = trf_tensor_of(kit_numbers(from), from.rank, from.shape[0], from.shape[1], 1);
        c.list[c.n].name = from.name;
    }
    return c;
}
static void copies_end(copies *c) { while (c->n > 0) free(c->list[--c->n].data); }

static uint64_t hash_copies(const copies *c)
{
    uint64_t hash = HASH_START;
    int32_t i;
    for (i = 0; i < c->n; i++) hash = hash_tensor(hash, c->list[i]);
    return hash;
}

static uint64_t hash_moments(trf_updater *u, int32_t n)
{
    uint64_t hash = HASH_START;
    int32_t i;
    for (i = 0; i < n; i++) {
        hash = hash_tensor(hash, trf_updater_moment(u, i, 0));
        hash = hash_tensor(hash, trf_updater_moment(u, i, 1));
    }
    return hash;
}

/* The same weights, gradients and tokens: the same bits as a trainer's, weights, moments and
   reports, through skipped steps and clipped ones. */
static void same_as_the_trainer(trf_train_options o)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_model *model;
    trf_trainer *trainer;
    trf_updater *u;
    copies w;
    int step;
    int32_t i;
    o.hooks = kit_hooks(&memory);
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &o, &err));
    w = copies_of(model, NULL);
    OK(trf_updater_create(&u, w.list, w.n, c.d_model, &o, NULL, &err));
    for (step = 1; step <= 5; step++) {
        trf_step_report report, own;
        copies g;
        OK(trf_trainer_forward_backward(trainer, &batch, &report, &err));
        if (step == 2) kit_set(trf_trainer_tensor(trainer, TRF_GRADIENT, 7), 1, NAN);
        g = copies_of(model, trainer);
        OK(trf_trainer_update(trainer, &report, &err));
        OK(trf_updater_step(u, w.list, g.list, (double)report.target_tokens,
                            step == 3 ? NULL : &own, &err));
        if (step != 3) {
            assert_int_equal(own.step, step);
            assert_true(own.gradient_norm == report.gradient_norm || step == 2);
            assert_true(own.learning_rate == report.learning_rate);
            assert_int_equal(own.skipped, step == 2);
            assert_int_equal(own.skipped, report.skipped);
            assert_string_equal(own.tensor, report.tensor);
            assert_int_equal(own.target_tokens, report.target_tokens);
            assert_true(own.loss == 0 && own.nll == 0 && own.accuracy == 0);
        }
        assert_true(hash_copies(&w) == hash_weights(HASH_START, model));
        for (i = 0; i < w.n; i++) {
            const trf__param *p = &model->layout.params[i];
            trf_tensor m = trf_updater_moment(u, i, 0), v = trf_updater_moment(u, i, 1);
            assert_int_equal(m.rank, 1);
            assert_int_equal(m.shape[0], trf_tensor_count(&w.list[i]));
            assert_true(hash_tensor(1, m) == hash_tensor(1, kit_there(model, trainer->m + p->offset,
                                                                      trf__param_size(p))));
            assert_true(hash_tensor(1, v) == hash_tensor(1, kit_there(model, trainer->v + p->offset,
                                                                      trf__param_size(p))));
        }
        copies_end(&g);
    }
    copies_end(&w);
    trf_updater_destroy(u);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

static void the_trainers_bits(void **state)
{
    trf_train_options o = counted_training();
    (void)state;
    same_as_the_trainer(o);
    o.threads = 3;
    o.clip_norm = 0.01;
    o.epsilon_rule = TRF_EPSILON_FAIRSEQ;
    same_as_the_trainer(o);
    o.optimizer = TRF_ADAMW;
    o.weight_decay = 0.1;
    o.decay_all = 1;
    o.schedule = TRF_COSINE;
    o.total_steps = 9;
    o.learning_rate = 1e-2;
    same_as_the_trainer(o);
}

static trf_tensor *two_of(trf_real *numbers, trf_tensor *list)
{
    list[0] = trf_tensor_of(numbers, 2, 3, 2, 1);
    list[1] = trf_tensor_of(numbers + 6, 1, 2, 1, 1);
    return list;
}

/* What has two dimensions decays, or everything; a rank of 3 too. */
static void what_decays(void **state)
{
    int all;
    (void)state;
    for (all = 0; all < 2; all++) {
        trf_real w[24], g[24] = {0};
        trf_tensor weights[3], gradients[3];
        trf_train_options o = counted_training();
        trf_updater *u;
        int i;
        for (i = 0; i < 24; i++) w[i] = 1;
        two_of(w, weights);
        weights[2] = trf_tensor_of(w + 8, 3, 2, 4, 2);
        two_of(g, gradients);
        gradients[2] = trf_tensor_of(g + 8, 3, 2, 4, 2);
        o.optimizer = TRF_ADAMW;
        o.weight_decay = 0.5;
        o.decay_all = all;
        o.schedule = TRF_CONSTANT;
        o.warmup = 1;
        o.learning_rate = 0.5;
        OK(trf_updater_create(&u, weights, 3, 0, &o, NULL,
                              &err)); /* d_model is for TRF_NOAM alone */
        OK(trf_updater_step(u, weights, gradients, 1, NULL, &err));
        for (i = 0; i < 24; i++) assert_true(w[i] == (trf_real)(all || i < 6 || i > 7 ? 0.75 : 1));
        trf_updater_destroy(u);
    }
}

/* A program's own checkpoint: moments and numbers in a file, and on with the same bits. */
static void own_checkpoint(void **state)
{
    trf_real w[8], g[8], first[8], again[8];
    trf_tensor weights[2], gradients[2], others[2], stored[6];
    trf_train_options o = counted_training();
    trf_load_options load = trf_load_defaults();
    trf_updater *u, *resumed;
    trf_file *file;
    const char *texts[5] = { "step", "2", "a key", "line\nline \"\\ \xC3\xA9", NULL };
    char names[6][20];
    trf_update_state then;
    int i, k;
    (void)state;
    for (i = 0; i < 8; i++) { w[i] = (trf_real)(i - 3); g[i] = (trf_real)(i * i) - 20; }
    two_of(w, weights); two_of(g, gradients); two_of(again, others);
    OK(trf_updater_create(&u, weights, 2, 64, &o, NULL, &err));
    for (i = 0; i < 3; i++) {
        g[3] = i == 1 ? (trf_real)HUGE_VAL : -11;
        OK(trf_updater_step(u, weights, gradients, 4, NULL, &err));
    }
    then = *trf_updater_state(u);
    assert_true(then.step == 3 && then.updates == 2);
    for (i = 0; i < 6; i++) {
        stored[i] = i < 2 ? weights[i] : trf_updater_moment(u, i % 2, i / 4);
        snprintf(names[i], sizeof names[i], "%s %d", i < 2 ? "weight" : i < 4 ? "m" : "v", i % 2);
        stored[i].name = names[i];
    }
    OK(trf_file_save(path, stored, 6, texts, &o.hooks, &err));
    memcpy(first, w, sizeof first);
    OK(trf_updater_step(u, weights, gradients, 4, NULL, &err));

    OK(trf_updater_create(&resumed, weights, 2, 64, &o, NULL, &err));
    OK(trf_file_open(&file, path, &load, &err));
    assert_int_equal(kit_file_tensors(file), 6);
    assert_int_equal(kit_file_texts(file), 4);         /* and two checksums */
    assert_string_equal(trf_file_metadata(file, "step"), "2");
    assert_string_equal(trf_file_metadata(file, "a key"), texts[3]);
    for (i = 0; i < 6; i++) {
        trf_file_entry e = trf_file_at(file, i);
        trf_real numbers[6];
        assert_string_equal(e.name, names[i]);
        assert_string_equal(e.dtype, sizeof(trf_real) == 8 ? "F64" : "F32");
        assert_int_equal(e.rank, i == 0 ? 2 : 1);
        assert_int_equal(e.shape[0], i == 0 ? 3 : i % 2 ? 2 : 6);
        OK(trf_file_read(file, i, 0, numbers, i % 2 ? 2 : 6, &err));
        if (i < 2) memcpy(others[i].data, numbers, (i % 2 ? 2 : 6) * sizeof *numbers);
        else {
            trf_tensor moment = trf_updater_moment(resumed, i % 2, i / 4);
            OK(trf_tensor_write(&moment, numbers, i % 2 ? 2 : 6, &err));
        }
    }
    assert_int_equal(trf__file_check_crc(file, NULL), TRF_OK);
    trf_file_close(file);
    assert_memory_equal(again, first, sizeof first);
    *trf_updater_state(resumed) = then;
    OK(trf_updater_step(resumed, others, gradients, 4, NULL, &err));
    assert_memory_equal(again, w, sizeof w);
    assert_true(hash_moments(u, 2) == hash_moments(resumed, 2));
    then = *trf_updater_state(u);
    assert_true(then.step == 4 && then.updates == 3);
    for (k = 0; k < 4; k++) {           /* a step from a state that cannot be changes nothing */
        static const struct { int64_t step, updates, where; const char *what; } bad[] = {
            {-1, 0, -1, "trf.step"}, {INT64_MAX, 0, INT64_MAX, "trf.step"}, {3, 4, 4, "trf.updates"},
            {3, -1, -1, "trf.updates"}};
        uint64_t before = hash_moments(u, 2);
        memcpy(first, w, sizeof first);
        trf_updater_state(u)->step = bad[k].step;
        trf_updater_state(u)->updates = bad[k].updates;
        FAILS(trf_updater_step(u, weights, gradients, 4, NULL, &err), TRF_E_STATE, bad[k].what, bad[k].where);
        assert_true(hash_moments(u, 2) == before);
        assert_memory_equal(first, w, sizeof first);
    }
    *trf_updater_state(u) = then;
    OK(trf_updater_step(u, weights, gradients, 4, NULL, &err));
    assert_true(trf_updater_state(u)->step == 5 && trf_updater_state(u)->updates == 4);
    assert_null(trf_updater_state(NULL));
    trf_updater_destroy(u);
    trf_updater_destroy(resumed);
    assert_int_equal(memory.live, 0);
}

static int fail_to_add(void *user, trf_real *gradients, size_t count, void *stream)
{
    (void)user; (void)gradients; (void)count; (void)stream;
    return 1;
}
/* As if another rank had the same gradients and as many tokens. */
static int twice(void *user, trf_real *gradients, size_t count, void *stream)
{
    size_t i;
    (void)stream;
    separate_enter();
    for (i = 0; i < count; i++) gradients[i] *= 2;
    separate_leave();
    *(size_t *)user += count;
    return 0;
}

/* Ranks: gradients and divisors are summed by the hook. One that fails changes nothing. */
static void over_ranks(void **state)
{
    trf_real w[8] = {1, 2, 3, 4, 5, 6, 7, 8}, g[8] = {1, -1, 2, -2, 3, -3, 4, -4}, alone[8],
             kept[8];
    trf_tensor weights[2], gradients[2], others[2];
    trf_train_options o = counted_training();
    trf_step_report report;
    trf_updater *u;
    size_t count = 0;
    (void)state;
    memcpy(alone, w, sizeof w);
    memcpy(kept, w, sizeof w);
    two_of(w, weights); two_of(g, gradients); two_of(alone, others);
    OK(trf_updater_create(&u, others, 2, 64, &o, NULL, &err));
    OK(trf_updater_step(u, others, gradients, 4, &report, &err));
    assert_int_equal(report.target_tokens, 4);
    trf_updater_destroy(u);
    o.n_ranks = 2;
    FAILS(trf_updater_create(&u, others, 2, 64, &o, NULL, &err), TRF_E_INVALID_ARG, "all_reduce",
          -1);
    o.all_reduce = twice;
    o.user = &count;
    OK(trf_updater_create(&u, weights, 2, 64, &o, NULL, &err));
    OK(trf_updater_step(u, weights, gradients, 4, &report, &err));
    assert_int_equal(report.target_tokens, 8);
    assert_true(count >= 8 + TRF__TALLIES);
    assert_memory_equal(w, alone, sizeof w);
    FAILS(trf_updater_step(u, weights, gradients, 0, &report, &err), TRF_E_STATE, "tokens", 1);
    assert_memory_equal(w, alone, sizeof w);
    trf_updater_destroy(u);
    o.all_reduce = fail_to_add;
    memcpy(w, kept, sizeof w);
    OK(trf_updater_create(&u, weights, 2, 64, &o, NULL, &err));
    FAILS(trf_updater_step(u, weights, gradients, 4, &report, &err), TRF_E_BACKEND, "all_reduce",
          -1);
    assert_memory_equal(w, kept, sizeof w);
    assert_true(g[0] == 1 && g[7] == -4);
    trf_updater_destroy(u);
    assert_int_equal(memory.live, 0);
}

static void updaters_refused(void **state)
{
    trf_real w[8] = {0}, g[8] = {0};
    trf_tensor weights[2], gradients[2], bad[2], none;
    trf_train_options o = counted_training(), wrong = o;
    trf_step_report report;
    trf_device device = trf_device_default();
    trf_updater *u = NULL;
    (void)state;
    two_of(w, weights); two_of(g, gradients);
    FAILS(trf_updater_create(NULL, weights, 2, 64, &o, NULL, &err), TRF_E_INVALID_ARG, "updater",
          -1);
    FAILS(trf_updater_create(&u, NULL, 2, 64, &o, NULL, &err), TRF_E_INVALID_ARG, "weights", -1);
    FAILS(trf_updater_create(&u, weights, 0, 64, &o, NULL, &err), TRF_E_INVALID_ARG, "n", -1);
    FAILS(trf_updater_create(&u, weights, -3, 64, &o, NULL, &err), TRF_E_INVALID_ARG, "n", -1);
    FAILS(trf_updater_create(&u, weights, 2, 0, &o, NULL, &err), TRF_E_INVALID_ARG, "d_model", -1);
    wrong.beta1 = 1;
    FAILS(trf_updater_create(&u, weights, 2, 64, &wrong, NULL, &err), TRF_E_INVALID_ARG, "beta1",
          -1);
    device.index = -1;
    FAILS(trf_updater_create(&u, weights, 2, 64, &o, &device, &err), TRF_E_INVALID_ARG,
          "device.index", -1);
    memcpy(bad, weights, sizeof bad);
    bad[1].data = NULL;
    FAILS(trf_updater_create(&u, bad, 2, 64, &o, NULL, &err), TRF_E_INVALID_ARG, "weights", 1);
    bad[1] = trf_tensor_of(w, 1, 0, 1, 1);
    FAILS(trf_updater_create(&u, bad, 2, 64, &o, NULL, &err), TRF_E_SHAPE, "weights", 1);
    bad[1] = trf_tensor_of(w, 2, -2, -4, 1);
    FAILS(trf_updater_create(&u, bad, 2, 64, &o, NULL, &err), TRF_E_SHAPE, "weights", 1);
    bad[1] = trf_tensor_of(w, 3, INT32_MAX, INT32_MAX, INT32_MAX);
    FAILS(trf_updater_create(&u, bad, 2, 64, &o, NULL, &err), TRF_E_SHAPE, "weights", 1);
    bad[1].rank = 5;
    FAILS(trf_updater_create(&u, bad, 2, 64, &o, NULL, &err), TRF_E_SHAPE, "weights", 1);
    assert_null(u);
    OK(trf_updater_create(&u, weights, 2, 64, &o, NULL, &err));
    FAILS(trf_updater_step(NULL, weights, gradients, 1, &report, &err), TRF_E_INVALID_ARG,
          "updater", -1);
    FAILS(trf_updater_step(u, NULL, gradients, 1, &report, &err), TRF_E_INVALID_ARG, "weights", -1);
    FAILS(trf_updater_step(u, weights, NULL, 1, &report, &err), TRF_E_INVALID_ARG, "gradients", -1);
    FAILS(trf_updater_step(u, weights, gradients, -1, &report, &err), TRF_E_INVALID_ARG, "divisor",
          -1);
    FAILS(trf_updater_step(u, weights, gradients, NAN, &report, &err), TRF_E_INVALID_ARG, "divisor",
          -1);
    FAILS(trf_updater_step(u, weights, gradients, 1e13, &report, &err), TRF_E_INVALID_ARG,
          "divisor", -1);
    FAILS(trf_updater_step(u, weights, gradients, 1e-31, &report, &err), TRF_E_INVALID_ARG,
          "divisor", -1);
    FAILS(trf_updater_step(u, weights, gradients, 5e-324, &report, &err), TRF_E_INVALID_ARG,
          "divisor", -1);
    OK(trf_updater_step(u, weights, gradients, 1e12, &report, &err));
    assert_int_equal(report.target_tokens, (int64_t)1e12);
    OK(trf_updater_step(u, weights, gradients, 1e-30, &report, &err));
    assert_true(!report.skipped && kit_number(trf_updater_moment(u, 0, 0), 0) == 0);
    trf_updater_state(u)->step = trf_updater_state(u)->updates = 0;
    FAILS(trf_updater_step(u, weights, gradients, 0, &report, &err), TRF_E_STATE, "tokens", 0);
    memcpy(bad, gradients, sizeof bad);
    bad[0] = gradients[1];
    FAILS(trf_updater_step(u, weights, bad, 1, &report, &err), TRF_E_SHAPE, "gradients", 0);
    bad[0] = gradients[0];
    bad[1].data = NULL;
    FAILS(trf_updater_step(u, bad, gradients, 1, &report, &err), TRF_E_INVALID_ARG, "weights", 1);
    none = trf_updater_moment(u, 2, 0);
    assert_null(none.data);
    assert_int_equal(trf_tensor_count(&none), 0);
    none = trf_updater_moment(u, -1, 1);
    assert_int_equal(trf_tensor_count(&none), 0);
    none = trf_updater_moment(NULL, 0, 1);
    assert_int_equal(trf_tensor_count(&none), 0);
    assert_true(trf_updater_state(u)->step == 0 && trf_updater_state(u)->updates == 0);     /* none was made */
    OK(trf_updater_step(u, weights, gradients, 1, &report, &err)); /* zeros: no step is a step */
    assert_true(report.gradient_norm == 0 && !report.skipped);
    trf_updater_destroy(u);
    trf_updater_destroy(NULL);
    assert_int_equal(memory.live, 0);
}

/* Every allocation fails, once. */
static void no_memory(void **state)
{
    trf_real w[8] = {0};
    trf_tensor weights[2];
    trf_train_options o = counted_training();
    trf_updater *u = NULL;
    const char *texts[3] = { "k", "v", NULL };
    int64_t k;
    int what;
    (void)state;
    two_of(w, weights);
    weights[0].name = "a";
    weights[1].name = "b";
    unlink(path);
    for (what = 0; what < 2; what++) {
        for (k = 1; k < 50; k++) {
            trf_status status;
            int64_t before = memory.calls;
            memory.fail_at = before + k;
            dirty();
            status = what ? trf_file_save(path, weights, 2, texts, &o.hooks, &err)
                          : trf_updater_create(&u, weights, 2, 64, &o, NULL, &err);
            memory.fail_at = 0;
            if (status == TRF_OK) { assert_true(memory.calls < before + k); break; }
            assert_int_equal(status, TRF_E_NOMEM);
            assert_int_equal(err.status, TRF_E_NOMEM);
            assert_null(u);
            assert_int_equal(memory.live, 0);
            assert_int_equal(access(path, F_OK), -1);
        }
        assert_true(k > 3 && k < 50);
        trf_updater_destroy(u);
        u = NULL;
        assert_int_equal(memory.live, 0);
    }
    unlink(path);
}

/* -----------------------------------------------------------------------------------------------
   Files. */

/* Parameters and gradients from wherever they are, a scalar, something empty, rank 4, what is not
   finite. */
static void files_of_tensors(void **state)
{
    static trf_real numbers[24];
    trf_config c = counted_config();
    trf_model *model;
    trf_tensor list[6];
    trf_load_options load = trf_load_defaults();
    trf_file *file;
    trf_real back[24];
    trf_real *want;
    int i;
    (void)state;
    for (i = 0; i < 24; i++) numbers[i] = (trf_real)i / 7;
    numbers[5] = (trf_real)HUGE_VAL;
    OK(trf_model_create(&model, &c, NULL, &err));
    list[0] = trf_tensor_of(numbers, 0, 1, 1, 1);
    list[0].name = "scalar";
    list[1] = trf_tensor_of(NULL, 2, 0, 4, 1);
    list[1].name = "nothing";
    list[2] = trf_tensor_of(numbers, 4, 2, 3, 2);
    list[2].shape[3] = 2;
    list[2].name = "four \"dimensions\" \xE4\xB8\xAD";
    list[3] = trf_model_parameter(model, 2);
    list[4] = trf_model_parameter(model, 5);
    list[5] = trf_tensor_of(numbers + 1, 1, 3, 1, 1);
    list[5].name = "mixed";
    OK(trf_file_save(path, list, 6, NULL, NULL, &err));
    load.allow_nonfinite = 1;
    OK(trf_file_open(&file, path, &load, &err));
    assert_int_equal(kit_file_tensors(file), 6);
    assert_int_equal(trf_file_at(file, 0).rank, 0);
    assert_int_equal(trf_file_at(file, 1).bytes, 0);
    assert_int_equal(trf_file_at(file, 1).shape[1], 4);
    assert_string_equal(trf_file_at(file, 2).name, list[2].name);
    assert_int_equal(trf_file_at(file, 2).shape[3], 2);
    OK(trf_file_read(file, 2, 0, back, 24, &err));
    assert_memory_equal(back, numbers, sizeof back);
    for (i = 3; i < 5; i++) {
        int64_t n = trf_tensor_count(&list[i]);
        trf_real *got = (trf_real *)malloc((size_t)n * sizeof *got);
        want = kit_numbers(list[i]);
        OK(trf_file_read(file, i, 0, got, n, &err));
        assert_memory_equal(got, want, (size_t)n * sizeof *got);
        free(got);
        free(want);
    }
    assert_int_equal(trf__file_check_crc(file, NULL), TRF_OK);
    trf_file_close(file);
    load.allow_nonfinite = 0;
    OK(trf_file_open(&file, path, &load, &err));
    assert_int_equal(trf_file_read(file, 2, 0, back, 24, &err), TRF_E_NONFINITE);
    trf_file_close(file);
    OK(trf_file_save(path, NULL, 0, NULL, NULL, &err));         /* a file of nothing */
    OK(trf_file_open(&file, path, &load, &err));
    assert_int_equal(kit_file_tensors(file), 0);
    trf_file_close(file);
    unlink(path);
    trf_model_destroy(model);
}

static void files_refused(void **state)
{
    static char letters[400];
    static const char *many[2 * 65001 + 1];
    static char keys[65001][8];
    trf_real numbers[4] = {1, 2, 3, 4};
    trf_tensor list[2];
    const char *texts[5] = { "a", "b", "a", "c", NULL };
    trf_hooks half = kit_hooks(&memory);
    char other[80];
    int i;
    (void)state;
    list[0] = trf_tensor_of(numbers, 1, 4, 1, 1);
    list[1] = trf_tensor_of(numbers, 2, 2, 2, 1);
    list[0].name = "x";
    unlink(path);
#define REFUSED(status, what, where) \
    FAILS(trf_file_save(path, list, 2, NULL, NULL, &err), status, what, where)
    REFUSED(TRF_E_INVALID_ARG, "name", 1);                      /* none */
    list[1].name = "";
    REFUSED(TRF_E_FORMAT, "header", 1);
    list[1].name = "x";
    REFUSED(TRF_E_FORMAT, "x", 1);                              /* twice */
    assert_true(strstr(err.message, path) == err.message);
    list[1].name = "__metadata__";
    REFUSED(TRF_E_INVALID_ARG, "__metadata__", 1);
    list[1].name = "line\nline";
    REFUSED(TRF_E_FORMAT, "line?line", 1);
    list[1].name = "\xC3";
    REFUSED(TRF_E_FORMAT, "name", 0);
    memset(letters, 'n', 256);
    list[1].name = letters;
    dirty();
    assert_int_equal(trf_file_save(path, list, 2, NULL, NULL, &err), TRF_E_LIMIT);
    letters[255] = 0;
    OK(trf_file_save(path, list, 2, NULL, NULL, &err));
    unlink(path);
    list[1].name = "y";
    list[1].data = NULL;
    REFUSED(TRF_E_INVALID_ARG, "y", 1);
    list[1].shape[0] = 0; /* no numbers, but what no reader would take */
    list[1].shape[1] = INT64_MAX;
    REFUSED(TRF_E_SHAPE, "y", 1);
    list[1].rank = 3;
    list[1].shape[1] = list[1].shape[2] = (int64_t)1 << 40;
    REFUSED(TRF_E_SHAPE, "y", 1);
    list[1].rank = 2;
    list[1].shape[0] = list[1].shape[1] = 2;
    list[1].data = numbers;
    list[1].rank = -1;
    REFUSED(TRF_E_INVALID_ARG, "y", 1);
    list[1].rank = 5;
    REFUSED(TRF_E_INVALID_ARG, "y", 1);
    list[1] = trf_tensor_of(numbers, 2, -2, -2, 1);
    list[1].name = "y";
    REFUSED(TRF_E_SHAPE, "y", 1);
    list[1] = trf_tensor_of(numbers, 3, (int64_t)1 << 31, (int64_t)1 << 31, 1 << 20);
    list[1].name = "y";
    REFUSED(TRF_E_SHAPE, "y", 1);
    list[1] = trf_tensor_of(numbers, 2, 2, 2, 1);
    list[1].name = "y";
    FAILS(trf_file_save(NULL, list, 2, NULL, NULL, &err), TRF_E_INVALID_ARG, "path", -1);
    FAILS(trf_file_save("", list, 2, NULL, NULL, &err), TRF_E_INVALID_ARG, "path", -1);
    FAILS(trf_file_save(path, NULL, 2, NULL, NULL, &err), TRF_E_INVALID_ARG, "tensors", -1);
    FAILS(trf_file_save(path, list, -1, NULL, NULL, &err), TRF_E_INVALID_ARG, "n", -1);
    assert_true(strstr(err.message, path) == err.message);
    FAILS(trf_file_save(path, list, 65537, NULL, NULL, &err), TRF_E_INVALID_ARG, "n", -1);
    FAILS(trf_file_save(path, list, 2, texts, NULL, &err), TRF_E_FORMAT, "a", 1); /* a key twice */
    assert_true(strstr(err.message, path) == err.message);
    texts[2] = "trf.step";
    FAILS(trf_file_save(path, list, 2, texts, NULL, &err), TRF_E_INVALID_ARG, "metadata", 1);
    assert_true(strstr(err.message, path) == err.message);
    texts[2] = "d";
    texts[3] = NULL;
    FAILS(trf_file_save(path, list, 2, texts, NULL, &err), TRF_E_INVALID_ARG, "metadata", 1);
    texts[3] = "\xFF";
    FAILS(trf_file_save(path, list, 2, texts, NULL, &err), TRF_E_FORMAT, "metadata", 0);
    for (i = 0; i < 65001; i++) {
        snprintf(keys[i], sizeof keys[i], "%d", i);
        many[2 * i] = keys[i];
        many[2 * i + 1] = "";
    }
    FAILS(trf_file_save(path, list, 2, many, NULL, &err), TRF_E_LIMIT, "metadata", 65000);
    half.free = NULL;
    FAILS(trf_file_save(path, list, 2, NULL, &half, &err), TRF_E_INVALID_ARG, "hooks", -1);
    assert_int_equal(access(path, F_OK), -1);
    many[2 * 65000] = NULL;
    OK(trf_file_save(path, list, 2, many, NULL, &err));
    snprintf(other, sizeof other, "%s/no/such", path);
    dirty();
    assert_int_equal(trf_file_save(other, list, 2, NULL, NULL, &err), TRF_E_IO);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_trainers_bits),
        cmocka_unit_test(what_decays),
        cmocka_unit_test(own_checkpoint),
        cmocka_unit_test(over_ranks),
        cmocka_unit_test(updaters_refused),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(files_of_tensors),
        cmocka_unit_test(files_refused),
    };
    int failed;
    snprintf(path, sizeof path, "/tmp/trf_test_updater_%d", (int)getpid());
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}

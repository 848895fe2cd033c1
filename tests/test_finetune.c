/* build: O0 double:shared separate:shared long:shared plain:shared:all */
/* Beginning from another model's weights, freezing, recomputing activations, and what a slow build
   says. */
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

enum { VOCAB = 23 };

static kit_memory memory;
static char path[64];

static trf_config counted_config(void)
{
    trf_config c = kit_small(3, 16, VOCAB, 40);
    c.hooks = kit_hooks(&memory);
    return c;
}

static trf_train_options counted_training(void)
{
    trf_train_options o = kit_small_training(0.2);
    o.hooks = kit_hooks(&memory);
    return o;
}

typedef struct lab { trf_model *model; trf_trainer *trainer; } lab;

static lab lab_open(const trf_config *c, const trf_train_options *o)
{
    lab l = {NULL, NULL};
    OK(trf_model_create(&l.model, c, NULL, &err));
    OK(trf_trainer_create(&l.trainer, l.model, o, &err));
    return l;
}
static void lab_close(lab *l)
{
    trf_trainer_destroy(l->trainer);
    trf_model_destroy(l->model);
}

static trf_step_report step(lab *l, const trf_batch *batch)
{
    trf_step_report report;
    OK(trf_trainer_step(l->trainer, batch, &report, &err));
    return report;
}

/* -----------------------------------------------------------------------------------------------
   Recomputing. */

/* Three steps, the second in two micro-batches, an evaluation between them: gradients, reports,
   weights, moments. */
static uint64_t hash_of_steps(const trf_config *c, const trf_train_options *o,
                              const trf_batch *batch)
{
    trf_step_report report;
    lab l = lab_open(c, o);
    uint64_t hash = HASH_START;
    int i;
    for (i = 0; i < 3; i++) {
        int part, parts = i == 1 ? 2 : 1;
        for (part = 0; part < parts; part++) {
            trf_batch some = parts == 1
                                 ? *batch
                                 : kit_slice(batch, part * 3, part ? batch->target.count - 3 : 3);
            some.ordinal = 0;
            OK(trf_trainer_forward_backward(l.trainer, &some, &report, &err));
            hash = hash_bytes(hash, &report, sizeof report);
        }
        hash = hash_gradients(hash, l.trainer);
        OK(trf_trainer_update(l.trainer, &report, &err));
        assert_int_equal(report.skipped, 0);
        hash = hash_bytes(hash, &report, sizeof report);
        OK(trf_trainer_evaluate(l.trainer, batch, NULL, &report, &err));
        hash = hash_bytes(hash, &report, sizeof report);
    }
    hash ^= hash_state(l.trainer);
    lab_close(&l);
    return hash;
}

static void same_recomputed(const trf_config *c, trf_train_options o, const trf_batch *batch)
{
    uint64_t kept, again;
    o.recompute = 0;
    kept = hash_of_steps(c, &o, batch);
    o.recompute = 1;
    again = hash_of_steps(c, &o, batch);
    if (kept != again)
        print_error("kind %d, layers %d + %d, norm place %d, final norm %d\n", (int)c->kind,
                    c->encoder_layers, c->decoder_layers, (int)c->norm_place, c->final_norm);
    assert_true(kept == again);
    o.threads = 3;
    assert_true(!KIT_SAME_ROWS || hash_of_steps(c, &o, batch) == kept);
}

static void recomputing_is_the_same(void **state)
{
    static kit_pairs data;
    static const trf_kind kinds[] = { TRF_ENCODER_DECODER, TRF_DECODER_ONLY, TRF_ENCODER_ONLY };
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3), now;
    int kind, layers, norm;
    (void)state;
    for (kind = 0; kind < 3; kind++)
        for (layers = 1; layers <= 4; layers++)
            for (norm = 0; norm < 4; norm++) {
                trf_config c = counted_config();
                trf_train_options o = counted_training();
                c.kind = kinds[kind];
                now = batch;
                if (c.kind == TRF_ENCODER_ONLY) {           /* the label of a token is its id */
                    c.head = norm == 1 ? TRF_HEAD_TOKENS : TRF_HEAD_MASKED;
                    c.n_labels = norm == 1 ? VOCAB : 0;
                    now.target = now.source;
                }
                c.encoder_layers = c.kind == TRF_DECODER_ONLY ? 0 : layers;
                c.decoder_layers = c.kind == TRF_ENCODER_ONLY   ? 0
                                   : c.kind == TRF_DECODER_ONLY ? layers
                                                                : 5 - layers;
                c.norm_place = norm & 1 ? TRF_PRE_NORM : TRF_POST_NORM;
                c.final_norm = (trf_final_norm)(norm / 2);
                c.norm_rule = layers == 3   ? TRF_NORM_ANNOTATED
                              : layers == 4 ? TRF_NORM_RMS
                                            : TRF_NORM_STANDARD;
                c.qkv_bias = c.feed_forward_bias = layers != 4;
                c.activation = (trf_activation)(layers % 3);
                if (layers == 2) {
                    c.positions = TRF_POSITIONS_LEARNED;
                    c.tying = c.kind == TRF_ENCODER_DECODER ? TRF_TIED_ALL :
                        c.kind == TRF_DECODER_ONLY ? TRF_TIED_DECODER : TRF_UNTIED;
                }
                if (layers == 4) trf_train_set_dropout(&o, 0);
                same_recomputed(&c, o, &now);
            }
    assert_int_equal(memory.live, 0);
}

/* What is planned is what is taken, with and without; and deep models take much less. */
static void recomputing_takes_less(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    int64_t taken[2][2], more[2];
    int again, deep,
        fixed = 0; /* fixed: a GPU's column has room that does not depend on the model */
    (void)state;
    for (deep = 0; deep < 2; deep++)
        for (again = 0; again < 2; again++) {
            trf_config c = counted_config();
            trf_train_options o = counted_training();
            int64_t before;
            lab l;
            c.encoder_layers = c.decoder_layers = deep ? 24 : 1;
            o.recompute = again;
            o.source_tokens = o.target_tokens = 2000;
            OK(trf_model_create(&l.model, &c, NULL, &err));
            before = memory.live + kit_device_bytes();
            OK(trf_trainer_create(&l.trainer, l.model, &o, &err));
            step(&l, &batch);
            taken[deep][again] = memory.live + kit_device_bytes() - before;
            fixed |= kit_device_bytes() > 0;
            /* tiles are planned as if every parameter ended in the middle of one */
            more[again] = (int64_t)trf_trainer_memory(&c, &o, NULL) - taken[deep][again];
            assert_true(kit_device_bytes() ||
                        (more[again] >= 0 && more[again] * 1000 < taken[deep][again] + 64000));
            assert_true(kit_device_bytes() || memory.live == memory.peak);
            assert_true(kit_device_bytes() || more[again] == more[0]);
            lab_close(&l);
        }
    assert_true(taken[0][1] == taken[0][0]);
    assert_true(taken[1][1] * (fixed ? 2 : 4) < taken[1][0]);
    assert_int_equal(memory.live, 0);
}

/* Switched on and off between steps, after a larger batch, and through checkpoints: the same bits.
 */
static void recomputing_half_way(void **state)
{
    static kit_pairs data, large;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3),
              larger = kit_fill(&large, 30, 5, 30, VOCAB, 4);
    trf_config c = counted_config();
    trf_train_options o = counted_training(), wrong;
    trf_load_options load = trf_load_defaults();
    lab plain = lab_open(&c, &o), l = lab_open(&c, &o), loaded;
    int64_t live;
    int i;
    (void)state;
    load.device.threads = 1;
    load.hooks = c.hooks;
    for (i = 0; i < 6; i++) {
        const trf_batch *now = i == 2 ? &larger : &batch;
        o.recompute = i % 2;
        OK(trf_trainer_set_options(l.trainer, &o, &err));
        step(&l, now);
        step(&plain, now);
        assert_true(hash_state(l.trainer) == hash_state(plain.trainer));
    }
    OK(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err));
    OK(trf_checkpoint_load(&loaded.model, &loaded.trainer, NULL, path, NULL, &load, &err));
    assert_int_equal(trf_trainer_options(loaded.trainer)->recompute, 1);
    assert_int_equal(loaded.trainer->pass.plan.limits.recompute, 1);
    for (i = 0; i < 2; i++) {
        step(&loaded, &batch);
        step(&plain, &batch);
    }
    assert_true(hash_state(loaded.trainer) == hash_state(plain.trainer));
    lab_close(&loaded);
    wrong = o;
    wrong.recompute = 2;
    FAILS(trf_trainer_set_options(l.trainer, &wrong, &err), TRF_E_INVALID_ARG, "recompute", -1);
    assert_int_equal(trf_trainer_memory(&c, &wrong, NULL), 0);
    live = memory.live;
    o.recompute = 0;
    memory.limit = 20000;                           /* no room for the larger plan: as it was */
    FAILS(trf_trainer_set_options(l.trainer, &o, &err), TRF_E_NOMEM, "activations", -1);
    memory.limit = 0;
    assert_int_equal(memory.live, live);
    assert_int_equal(trf_trainer_options(l.trainer)->recompute, 1);
    step(&l, &batch);
    lab_close(&plain);
    plain = lab_open(&c, &o);
    lab_close(&plain);
    lab_close(&l);
    assert_int_equal(memory.live, 0);
}

/* -----------------------------------------------------------------------------------------------
   Freezing. */

static void patterns(void **state)
{
    static const struct { const char *pattern, *name; int fits;
    } cases[] = {
        {"", "", 1},
        {"", "a", 0},
        {"*", "", 1},
        {"*", "abc", 1},
        {"**", "abc", 1},
        {"abc", "abc", 1},
        {"abc", "abcd", 0},
        {"abcd", "abc", 0},
        {"a*", "abc", 1},
        {"*c", "abc", 1},
        {"*b", "abc", 0},
        {"a*c", "abc", 1},
        {"a*c", "ac", 1},
        {"a*c", "abcc", 1},
        {"a*b*c", "axbybzc", 1},
        {"a*b*c", "acb", 0},
        {"*.bias", "a.bias", 1},
        {"*.bias", "a.bias.b", 0},
        {"*ab*ab", "abab", 1},
        {"*ab*ab", "xabxaab", 1},
        {"*ab*ab", "aba", 0},
        {"?", "a", 0},
        {"A", "a", 0},
        {"encoder.layers.1.*", "encoder.layers.1.norm1.bias", 1},
        {"encoder.layers.1.*", "encoder.layers.10.norm1.bias", 0},
        {"*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         0},
    };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (trf__glob_match(cases[i].pattern, cases[i].name) != cases[i].fits)
            print_error("%s, %s\n", cases[i].pattern, cases[i].name);
        assert_int_equal(trf__glob_match(cases[i].pattern, cases[i].name), cases[i].fits);
    }
}

/* Hashes of weights and moments, parameter by parameter. */
enum { PARAMS = 200 };
static void hash_each(uint64_t *hash, const lab *l)
{
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(l->model); i++) {
        const trf__param *p = &l->model->layout.params[i];
        assert_true(i < PARAMS);
        hash[i] = hash_tensor(HASH_START, trf_model_parameter(l->model, i));
        hash[i] = hash_tensor(hash[i],
                              kit_there(l->model, l->trainer->m + p->offset, trf__param_size(p)));
        hash[i] = hash_tensor(hash[i],
                              kit_there(l->model, l->trainer->v + p->offset, trf__param_size(p)));
    }
}

/* After a step exactly what fits no pattern has changed; the norm is that of the rest. */
static void frozen_stay(const char *first, const char *second, double decay, int decay_all)
{
    static kit_pairs data;
    static uint64_t before[PARAMS], after[PARAMS];
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    double sum = 0;
    trf_step_report report;
    int32_t i, n = 0, m = 0, count = 0;
    int64_t k;
    lab l;
    o.optimizer = decay_all ? TRF_ADAMW : TRF_ADAM;
    o.weight_decay = decay;
    o.decay_all = decay_all;
    o.clip_norm = 0.01;
    l = lab_open(&c, &o);
    step(&l, &batch);
    OK(trf_trainer_freeze(l.trainer, first, 1, &n, &err));
    if (second) OK(trf_trainer_freeze(l.trainer, second, 1, &m, &err));
    for (i = 0; i < trf_model_parameter_count(l.model); i++) {
        trf_tensor t = trf_model_parameter(l.model, i);
        count += trf__glob_match(first, t.name);
    }
    assert_int_equal(count, n);
    hash_each(before, &l);
    OK(trf_trainer_forward_backward(l.trainer, &batch, NULL, &err));
    for (i = 0; i < trf_model_parameter_count(l.model); i++) {
        trf_tensor g = trf_trainer_tensor(l.trainer, TRF_GRADIENT, i);
        trf_real *numbers = kit_numbers(g);
        for (k = 0; !trf__glob_match(first, g.name) && !(second && trf__glob_match(second, g.name)) &&
                    k < trf_tensor_count(&g);
             k++)
            sum += (double)numbers[k] * (double)numbers[k];
        free(numbers);
    }
    OK(trf_trainer_update(l.trainer, &report, &err));
    assert_int_equal(report.skipped, 0);
    assert_true(fabs(report.gradient_norm - sqrt(sum) / (double)report.target_tokens) <=
                1e-5 * report.gradient_norm);
    hash_each(after, &l);
    for (i = 0; i < trf_model_parameter_count(l.model); i++) {
        trf_tensor t = trf_model_parameter(l.model, i);
        int frozen = trf__glob_match(first, t.name) || (second && trf__glob_match(second, t.name));
        if (frozen != (before[i] == after[i])) print_error("%s\n", t.name);
        assert_int_equal(frozen, before[i] == after[i]);
    }
    lab_close(&l);
    assert_int_equal(memory.live, 0);
}

static void frozen_parameters(void **state)
{
    (void)state;
    frozen_stay("encoder.*", NULL, 0, 0);
    frozen_stay("*.bias", "*norm*", 0.1, 0);
    frozen_stay("decoder.layers.0.*", "encoder.layers.2.linear1.weight", 0.1, 1);
    frozen_stay("*", NULL, 0.1, 1);
    frozen_stay("*embed*", "*embed*", 0.1, 1);
}

/* A frozen matrix that is tied moves nowhere: neither as embedding nor as projection. */
static void frozen_and_tied(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    int32_t n = -1;
    uint64_t hash;
    lab l;
    (void)state;
    c.tying = TRF_TIED_ALL;
    l = lab_open(&c, &o);
    FAILS(trf_trainer_freeze(l.trainer, "generator.weight", 1, &n, &err), TRF_E_INVALID_ARG,
          "pattern", -1);
    FAILS(trf_trainer_freeze(l.trainer, "tgt_embed.*", 1, &n, &err), TRF_E_INVALID_ARG, "pattern",
          -1);
    assert_int_equal(n, 0);
    OK(trf_trainer_freeze(l.trainer, "src_embed.weight", 1, &n, &err));
    assert_int_equal(n, 1);
    OK(trf_trainer_freeze(l.trainer, "src_embed.weight", -1, &n, &err));
    assert_int_equal(n, 1);
    OK(trf_trainer_freeze(l.trainer, "encoder.*", -1, &n, &err));
    assert_int_equal(n, 0);
    FAILS(trf_trainer_freeze(l.trainer, "tgt_embed.*", -1, &n, &err), TRF_E_INVALID_ARG, "pattern", -1);
    OK(trf_trainer_freeze(l.trainer, "*", -1, &n, &err));
    assert_int_equal(n, 1);
    hash = hash_tensor(HASH_START, trf_model_parameter(l.model, 0));
    assert_string_equal(trf_model_parameter(l.model, 0).name, "src_embed.weight");
    step(&l, &batch);
    step(&l, &batch);
    assert_true(hash_tensor(HASH_START, trf_model_parameter(l.model, 0)) == hash);
    lab_close(&l);
}

/* What is not finite in a frozen gradient stops nothing; what is in another is told by its own
   name, also after something else has been frozen. */
static void frozen_and_skipped(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    lab l = lab_open(&c, &o);
    int32_t frozen = trf_model_parameter_index(l.model, "encoder.layers.1.linear1.weight");
    int32_t other = trf_model_parameter_index(l.model, "decoder.layers.0.linear2.weight");
    trf_step_report report;
    uint64_t hash;
    (void)state;
    OK(trf_trainer_freeze(l.trainer, "encoder.*", 1, NULL, &err));
    OK(trf_trainer_forward_backward(l.trainer, &batch, NULL, &err));
    kit_set(trf_trainer_tensor(l.trainer, TRF_GRADIENT, frozen), 3, HUGE_VAL);
    OK(trf_trainer_update(l.trainer, &report, &err));
    assert_int_equal(report.skipped, 0);
    assert_true(report.gradient_norm < 100);
    OK(trf_trainer_forward_backward(l.trainer, &batch, NULL, &err));
    kit_set(trf_trainer_tensor(l.trainer, TRF_GRADIENT, frozen), 3, HUGE_VAL);
    kit_set(trf_trainer_tensor(l.trainer, TRF_GRADIENT, other), 5, -HUGE_VAL);
    hash = hash_weights(HASH_START, l.model);
    OK(trf_trainer_update(l.trainer, NULL, &err));
    OK(trf_trainer_freeze(l.trainer, "*embed*", 1, NULL, &err));
    OK(trf_trainer_report(l.trainer, &report, &err));
    assert_int_equal(report.skipped, 1);
    assert_string_equal(report.tensor, "decoder.layers.0.linear2.weight");
    assert_true(hash_weights(HASH_START, l.model) == hash);
    lab_close(&l);
}

/* Freezing nothing, and freezing and thawing at once, change no bit. What has been thawed learns
   on. */
static void frozen_and_thawed(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    lab plain = lab_open(&c, &o), l = lab_open(&c, &o);
    int32_t n, all = trf_model_parameter_count(l.model);
    uint64_t hash;
    (void)state;
    step(&plain, &batch);
    step(&l, &batch);
    OK(trf_trainer_freeze(l.trainer, "*", 1, &n, &err));
    assert_int_equal(n, all);
    OK(trf_trainer_freeze(l.trainer, "*", 0, &n, &err));
    assert_int_equal(n, all);
    step(&plain, &batch);
    step(&l, &batch);
    assert_true(hash_state(l.trainer) == hash_state(plain.trainer));
    OK(trf_trainer_freeze(l.trainer, "*", 1, &n, &err));
    hash = hash_weights(HASH_START, l.model);
    assert_true(step(&l, &batch).gradient_norm == 0);
    assert_int_equal(kit_updates(l.trainer), 3);
    assert_true(hash_weights(HASH_START, l.model) == hash);
    OK(trf_trainer_freeze(l.trainer, "*", 0, &n, &err));
    assert_true(step(&l, &batch).gradient_norm > 0);
    assert_true(hash_weights(HASH_START, l.model) != hash);
    lab_close(&l);
    lab_close(&plain);
}

/* The first update after a thaw is Adam's first: by the rate, for any beta2, with or without a
   checkpoint between. A second freeze, of moments that have had one: the next is the second, as in
   a trainer that never had the others. */
static void thawed_as_new(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    trf_load_options load = trf_load_defaults();
    int again, i;
    int32_t k;
    (void)state;
    load.device.threads = 1;
    load.hooks = c.hooks;
    o.schedule = TRF_CONSTANT;
    o.warmup = 1;
    o.learning_rate = 1e-3;
    o.beta2 = 0.999;
    o.epsilon = 1e-30;
    trf_train_set_dropout(&o, 0);
    for (again = 0; again < 2; again++) {
        lab l = lab_open(&c, &o);
        int64_t moved = 0, n = 0, j;
        OK(trf_trainer_freeze(l.trainer, "encoder.*", 1, NULL, &err));
        for (i = 0; i < 20; i++) step(&l, &batch);
        if (again) {
            OK(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err));
            lab_close(&l);
            OK(trf_checkpoint_load(&l.model, &l.trainer, NULL, path, NULL, &load, &err));
        }
        OK(trf_trainer_freeze(l.trainer, "encoder.*", 0, NULL, &err));
        for (k = 0; k < trf_model_parameter_count(l.model); k++) {
            trf_tensor p = trf_model_parameter(l.model, k);
            trf_real *before, *after;
            lab one;
            if (strncmp(p.name, "encoder.layers.0.", 17) || !strstr(p.name, "weight")) continue;
            OK(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err));
            OK(trf_checkpoint_load(&one.model, &one.trainer, NULL, path, NULL, &load, &err));
            before = kit_numbers(trf_model_parameter(one.model, k));
            step(&one, &batch);
            after = kit_numbers(trf_model_parameter(one.model, k));
            for (j = 0; j < trf_tensor_count(&p); j++, n++) {
                double by = fabs((double)after[j] - (double)before[j]);
                assert_true(!(by > 1.001e-3));
                moved += by > 0.999e-3;
            }
            free(before); free(after);
            lab_close(&one);
        }
        assert_true(n > 1000 && moved * 100 > n * 95);
        lab_close(&l);
    }
    assert_int_equal(memory.live, 0);
}

/* Moments that stand still while others move on: afterwards the same bits as if the others' updates
   had not been. */
static void thawed_where_it_was(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    lab plain, l;
    uint64_t want;
    int i;
    (void)state;
    o.schedule = TRF_CONSTANT; o.warmup = 1; o.learning_rate = 1e-3; o.beta2 = 0.999;
    trf_train_set_dropout(&o, 0);
    plain = lab_open(&c, &o);
    l = lab_open(&c, &o);
    for (i = 0; i < 6; i++) step(&plain, &batch);
    want = hash_weights(HASH_START, plain.model);
    for (i = 0; i < 6; i++) {
        step(&l, &batch);
        OK(trf_trainer_freeze(l.trainer, "*", 1, NULL, &err));
        step(&l, &batch);
        if (i % 2) step(&l, &batch);
        OK(trf_trainer_freeze(l.trainer, "*", 0, NULL, &err));
    }
    assert_true(hash_weights(HASH_START, l.model) == want);
    lab_close(&l);
    lab_close(&plain);
}

static void freezing_refused(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    lab l = lab_open(&c, &o), same = lab_open(&c, &o);
    int32_t n = 5;
    (void)state;
    FAILS(trf_trainer_freeze(NULL, "*", 1, &n, &err), TRF_E_INVALID_ARG, "trainer", -1);
    assert_int_equal(n, 0);
    FAILS(trf_trainer_freeze(l.trainer, NULL, 1, NULL, &err), TRF_E_INVALID_ARG, "pattern", -1);
    FAILS(trf_trainer_freeze(l.trainer, "encoder", 1, NULL, &err), TRF_E_INVALID_ARG, "pattern",
          -1);
    FAILS(trf_trainer_freeze(l.trainer, "", 1, NULL, &err), TRF_E_INVALID_ARG, "pattern", -1);
    FAILS(trf_trainer_freeze(l.trainer, "*", 2, NULL, &err), TRF_E_INVALID_ARG, "frozen", -1);
    FAILS(trf_trainer_freeze(l.trainer, "*", -2, NULL, &err), TRF_E_INVALID_ARG, "frozen", -1);
    OK(trf_trainer_forward_backward(l.trainer, &batch, NULL, &err));
    n = 5;
    FAILS(trf_trainer_freeze(l.trainer, "*", 1, &n, &err), TRF_E_STATE, "gradients", 0);
    assert_int_equal(n, 0);
    OK(trf_trainer_freeze(l.trainer, "*", -1, NULL, &err));     /* this changes nothing */
    OK(trf_trainer_update(l.trainer, NULL, &err));
    step(&same, &batch);
    assert_true(hash_state(l.trainer) == hash_state(same.trainer));     /* nothing was frozen */
    lab_close(&l);
    lab_close(&same);
}

/* Another rank with the same gradients and as many tokens: the same bits as alone, what is frozen
   included. */
static int twice(void *user, trf_real *gradients, size_t count, void *stream)
{
    size_t i;
    (void)user; (void)stream;
    separate_enter();
    for (i = 0; i < count; i++) gradients[i] *= 2;
    separate_leave();
    return 0;
}

static void frozen_on_two_ranks(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    uint64_t hash[2];
    int ranks, i;
    (void)state;
    for (ranks = 1; ranks <= 2; ranks++) {
        trf_step_report report;
        lab l;
        o.n_ranks = ranks;
        o.all_reduce = ranks == 2 ? twice : NULL;
        l = lab_open(&c, &o);
        OK(trf_trainer_freeze(l.trainer, "*self_attn*", 1, NULL, &err));
        OK(trf_trainer_freeze(l.trainer, "decoder.layers.2.*", 1, NULL, &err));
        for (i = 0; i < 3; i++) report = step(&l, &batch);
        hash[ranks - 1] =
            hash_bytes(hash_state(l.trainer), &report.gradient_norm, sizeof report.gradient_norm);
        lab_close(&l);
    }
    assert_true(hash[0] == hash[1]);
}

/* Options that cut new tiles, a larger batch, checkpoints with and without options of one's own. */
static void frozen_for_good(void **state)
{
    static kit_pairs data, large;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3),
              larger = kit_fill(&large, 30, 5, 30, VOCAB, 4);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    trf_load_options load = trf_load_defaults();
    lab l = lab_open(&c, &o), loaded;
    uint64_t before[PARAMS], after[PARAMS], hash;
    int32_t i, which, still = 0;
    (void)state;
    load.device.threads = 1;
    load.hooks = c.hooks;
    step(&l, &batch);
    OK(trf_trainer_freeze(l.trainer, "*.layers.1.*", 1, NULL, &err));
    o.weight_decay = 0.1;
    o.decay_all = 1;
    o.recompute = 1;
    OK(trf_trainer_set_options(l.trainer, &o, &err));
    hash_each(before, &l);
    step(&l, &larger);
    OK(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err));
    step(&l, &batch);
    hash_each(after, &l);
    for (i = 0; i < trf_model_parameter_count(l.model); i++) {
        assert_int_equal(before[i] == after[i],
                         strstr(trf_model_parameter(l.model, i).name, ".layers.1.") != NULL);
        still += before[i] == after[i];
    }
    assert_true(still > 20);
    hash = hash_state(l.trainer);
    for (which = 0; which < 2; which++) {
        OK(trf_checkpoint_load(&loaded.model, &loaded.trainer, NULL, path, which ? &o : NULL, &load,
                               &err));
        step(&loaded, &batch);
        assert_true(hash_state(loaded.trainer) == hash);
        lab_close(&loaded);
    }
    OK(trf_model_load(&loaded.model, path, &load, &err));       /* a model knows nothing of it */
    trf_model_destroy(loaded.model);
    OK(trf_trainer_freeze(l.trainer, "*", 0, NULL, &err));
    OK(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err));
    {
        trf_file *file;
        OK(trf_file_open(&file, path, &load, &err));
        assert_null(trf_file_metadata(file, "trf.frozen"));
        trf_file_close(file);
    }
    lab_close(&l);
    assert_int_equal(memory.live, 0);
}

/* Files that say nonsense of what is frozen. The text of one is written over in place: as long as
   before. */
static void frozen_nonsense(void **state)
{
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    trf_load_options load = trf_load_defaults();
    lab l = lab_open(&c, &o), loaded = {NULL, NULL};
    char *bytes, *at;
    size_t n;
    int which;
    (void)state;
    load.device.threads = 1;
    load.hooks = c.hooks;
    OK(trf_trainer_freeze(l.trainer, "encoder.*", 1, NULL, &err));
    for (which = 0; which < 3; which++) {
        OK(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err));
        bytes = kit_read_file(path, &n);
        assert_non_null(bytes);
        kit_unchecked(bytes, n);
        at = strstr(bytes + 8, "\"trf.frozen\":\"");
        assert_non_null(at);
        at += strlen("\"trf.frozen\":\"");
        if (which == 0) at[2] = '2';
        else if (which == 1) {
            at = strchr(at, '"');
            at[-1] = '"';
            at[0] = ' ';
        } /* one too few */
        else
            at[0] = '-';
        assert_true(kit_write_file(path, bytes, n));
        free(bytes);
        FAILS(trf_checkpoint_load(&loaded.model, &loaded.trainer, NULL, path, NULL, &load, &err),
              TRF_E_FORMAT, "trf.frozen", -1);
        assert_null(loaded.model);
        assert_null(loaded.trainer);
    }
    lab_close(&l);
    assert_int_equal(memory.live, 0);
}

/* The same of updates that were missed: at most as many as there were. */
static void missed_nonsense(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 7, 1, 12, VOCAB, 3);
    trf_config c = counted_config();
    trf_train_options o = counted_training();
    trf_load_options load = trf_load_defaults();
    int thawed, which;
    (void)state;
    load.device.threads = 1;
    load.hooks = c.hooks;
    for (thawed = 0; thawed < 2; thawed++) for (which = 0; which < 4; which++) {
        lab l = lab_open(&c, &o), loaded = {NULL, NULL};
        char *bytes, *at;
        size_t n;
        step(&l, &batch);
        step(&l, &batch);
        OK(trf_trainer_freeze(l.trainer, "encoder.*", 1, NULL, &err));
        step(&l, &batch);
        if (thawed) OK(trf_trainer_freeze(l.trainer, "encoder.*", 0, NULL, &err));
        OK(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err));
        bytes = kit_read_file(path, &n);
        assert_non_null(bytes);
        kit_unchecked(bytes, n);
        at = strstr(bytes + 8, "\"trf.missed.encoder.");
        assert_non_null(at);
        at = strstr(at, "\":\"") + 3;
        assert_int_equal(strncmp(at, thawed ? "1\"" : "-2\"", thawed ? 2 : 3), 0);
        if (which < 3) at[thawed ? 0 : 1] = which == 0 ? '4' : which == 1 ? 'x' : '3';
        else
            for (at = bytes + 8; (at = strstr(at, "\"trf.missed.")) != NULL;)
                at[1] = 'x'; /* nothing is said of it */
        assert_true(kit_write_file(path, bytes, n));
        free(bytes);
        if (which >= 2) {
            int64_t missed;
            OK(trf_checkpoint_load(&loaded.model, &loaded.trainer, NULL, path, NULL, &load, &err));
            missed = loaded.trainer->missed[trf_model_parameter_index(
                loaded.model, "encoder.layers.0.linear1.weight")];
            if (which == 3)
                assert_int_equal(missed, thawed ? 0 : -3); /* frozen just now, and never before */
        }
        else {
            trf_status status =
                trf_checkpoint_load(&loaded.model, &loaded.trainer, NULL, path, NULL, &load, &err);
            assert_int_equal(status, TRF_E_FORMAT);
            assert_non_null(strstr(err.message, "trf.missed.encoder."));
            assert_null(loaded.model);
            assert_null(loaded.trainer);
        }
        lab_close(&loaded);
        lab_close(&l);
    }
    assert_int_equal(memory.live, 0);
}

/* -----------------------------------------------------------------------------------------------
   Weights of another model. */

static void expect_rows(const trf_model *model, const char *name, const trf_model *from,
                        int64_t rows, const trf_model *rest)
{
    trf_tensor a = trf_model_parameter(model, trf_model_parameter_index(model, name));
    int64_t n = trf_tensor_count(&a), columns = n / a.shape[0], i;
    trf_real *got = kit_numbers(a),
             *want = kit_numbers(trf_model_parameter(from, trf_model_parameter_index(from, name)));
    trf_real *old = kit_numbers(trf_model_parameter(rest, trf_model_parameter_index(rest, name)));
    for (i = 0; i < n; i++) assert_true(got[i] == (i < rows * columns ? want[i] : old[i]));
    free(got); free(want); free(old);
}

/* Every parameter of a model that has taken another's weights: what both have is the other's, the
   rest as before. */
static void expect_taken(const trf_model *model, const trf_model *from, const trf_model *before)
{
    int32_t i, k;
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        const char *name = trf_model_parameter(model, i).name;
        if ((k = trf_model_parameter_index(from, name)) < 0)
            expect_rows(model, name, before, 0, before);
        else expect_rows(model, name, from, trf_model_parameter(from, k).shape[0], before);
    }
}

static void weights_of_another(void **state)
{
    trf_config c = counted_config(), larger = c;
    trf_model *small, *large, *fresh, *small_fresh;
    int32_t n = -1;
    uint64_t hash;
    (void)state;
    c.positions = larger.positions = TRF_POSITIONS_LEARNED;
    larger.seed = 9;
    larger.source_vocab += 10; larger.target_vocab += 1000;
    larger.max_length += 7;
    larger.encoder_layers++;
    larger.decoder_layers--;
    larger.norm_place = TRF_PRE_NORM;
    OK(trf_model_create(&small, &c, NULL, &err));
    OK(trf_model_create(&large, &larger, NULL, &err));
    OK(trf_model_copy(&fresh, large, &err));
    OK(trf_model_copy(&small_fresh, small, &err));
    OK(trf_model_copy_weights(large, small, &n, &err));
    assert_int_equal(n, trf_model_parameter_count(small) - 18); /* but the last decoder layer's */
    expect_taken(large, small, fresh);
    expect_rows(large, "tgt_embed.weight", small, VOCAB, fresh);
    expect_rows(large, "src_positions.weight", small, 40, fresh);
    expect_rows(large, "encoder.layers.3.norm1.weight", fresh, 16, fresh);
    assert_true(hash_weights(HASH_START, small) == hash_weights(HASH_START, small_fresh));
    OK(trf_model_copy_weights(small, fresh, NULL, &err));       /* and to a smaller one */
    expect_taken(small, fresh, small_fresh);
    expect_rows(small, "src_embed.weight", fresh, VOCAB, fresh);
    expect_rows(small, "decoder.layers.2.linear1.weight", small_fresh, 24, small_fresh);
    trf_model_destroy(large);
    trf_model_destroy(small);
    larger.positions =
        TRF_POSITIONS_INTERLEAVED; /* only the smaller one has what follows its words */
    OK(trf_model_create(&large, &larger, NULL, &err));
    OK(trf_model_copy(&small, small_fresh, &err));
    OK(trf_model_copy_weights(small, large, NULL, &err));
    expect_taken(small, large, small_fresh);
    expect_rows(small, "src_positions.weight", small_fresh, 40, small_fresh);
    hash = hash_weights(HASH_START, small);
    OK(trf_model_copy_weights(small, small, &n, &err));
    assert_int_equal(n, trf_model_parameter_count(small));
    assert_true(hash_weights(HASH_START, small) == hash);
    trf_model_destroy(small);
    trf_model_destroy(large);
    trf_model_destroy(fresh);
    trf_model_destroy(small_fresh);
    assert_int_equal(memory.live, 0);
}

/* Matrices that are copied in several parts. */
static void weights_of_a_larger_one(void **state)
{
    trf_config c = counted_config(), deeper;
    trf_model *from, *to, *fresh;
    int32_t n;
    (void)state;
    c.d_model = 64;
    c.d_ff = 200;
    deeper = c;
    deeper.seed = 9;
    deeper.encoder_layers++;
    OK(trf_model_create(&from, &c, NULL, &err));
    OK(trf_model_create(&to, &deeper, NULL, &err));
    OK(trf_model_copy(&fresh, to, &err));
    OK(trf_model_copy_weights(to, from, &n, &err));
    assert_int_equal(n, trf_model_parameter_count(from));
    expect_taken(to, from, fresh);
    trf_model_destroy(from); trf_model_destroy(to); trf_model_destroy(fresh);
    assert_int_equal(memory.live, 0);
}

/* From hidden words to labels: a word's bias is no label's, though both are head.bias; labels' go
   on to labels. */
static void weights_of_another_head(void **state)
{
    trf_config c = counted_config();
    trf_model *masked, *mean, *tokens;
    int32_t n, at;
    (void)state;
    c.kind = TRF_ENCODER_ONLY;
    c.decoder_layers = c.target_vocab = 0;
    c.head = TRF_HEAD_MASKED;
    OK(trf_model_create(&masked, &c, NULL, &err));
    c.head = TRF_HEAD_MEAN;
    c.n_labels = 5;
    OK(trf_model_create(&mean, &c, NULL, &err));
    c.head = TRF_HEAD_TOKENS;
    c.n_labels = 3;
    OK(trf_model_create(&tokens, &c, NULL, &err));
    at = trf_model_parameter_index(mean, "head.bias");
    kit_set(trf_model_parameter(masked, trf_model_parameter_index(masked, "head.bias")), 1, 9);
    OK(trf_model_copy_weights(mean, masked, &n, &err));
    assert_int_equal(n, trf_model_parameter_count(mean) - 2);
    assert_true(kit_number(trf_model_parameter(mean, at), 1) == 0);
    kit_set(trf_model_parameter(mean, at), 1, 7);
    OK(trf_model_copy_weights(masked, mean, &n, &err));
    assert_int_equal(n, trf_model_parameter_count(masked) - 1);
    OK(trf_model_copy_weights(tokens, mean, &n, &err));
    assert_int_equal(n, trf_model_parameter_count(tokens));
    assert_true(kit_number(trf_model_parameter(tokens, at), 1) == 7);
    trf_model_destroy(masked); trf_model_destroy(mean); trf_model_destroy(tokens);
    assert_int_equal(memory.live, 0);
}

/* BERT's pooler: from the second head of its pretraining, not from the layer of the masked head,
   which has the same name. Without a second head that one is copied. */
static void weights_of_a_second_head(void **state)
{
    int second;
    (void)state;
    for (second = 0; second < 2; second++) {
        trf_config c = counted_config();
        trf_model *masked, *first;
        const char *layer = second ? "sequence.layer.weight" : "head.layer.weight";
        int32_t n;
        c.kind = TRF_ENCODER_ONLY;
        c.decoder_layers = c.target_vocab = 0;
        c.head = TRF_HEAD_MASKED;
        c.head_layer = 1;
        c.sequence_labels = second ? 2 : 0;
        OK(trf_model_create(&masked, &c, NULL, &err));
        c.head = TRF_HEAD_FIRST;
        c.sequence_labels = 0;
        c.n_labels = 5;
        OK(trf_model_create(&first, &c, NULL, &err));
        kit_set(trf_model_parameter(masked, trf_model_parameter_index(masked, layer)), 1, 9);
        OK(trf_model_copy_weights(first, masked, &n, &err));
        assert_int_equal(n, trf_model_parameter_count(first) - 2);
        assert_true(kit_number(trf_model_parameter(first, trf_model_parameter_index(first,
                                                   "head.layer.weight")), 1) == 9);
        trf_model_destroy(masked); trf_model_destroy(first);
    }
    assert_int_equal(memory.live, 0);
}

/* Another width is an error before anything is copied, also where the first tensors fit: here only
   d_ff differs. */
static void weights_refused(void **state)
{
    trf_config c = counted_config(), other = c;
    trf_model *a, *b;
    uint64_t hash;
    int32_t n = 7;
    (void)state;
    other.seed = 2;
    other.d_ff += 8;
    OK(trf_model_create(&a, &c, NULL, &err));
    OK(trf_model_create(&b, &other, NULL, &err));
    hash = hash_weights(HASH_START, a);
    FAILS(trf_model_copy_weights(a, b, &n, &err), TRF_E_SHAPE, "encoder.layers.0.linear2.weight",
          -1);
    assert_non_null(strstr(err.message, "24"));
    assert_non_null(strstr(err.message, "32"));
    assert_int_equal(n, 0);
    assert_true(hash_weights(HASH_START, a) == hash);
    FAILS(trf_model_copy_weights(NULL, b, &n, &err), TRF_E_INVALID_ARG, "model", -1);
    FAILS(trf_model_copy_weights(a, NULL, &n, &err), TRF_E_INVALID_ARG, "from", -1);
    trf_model_destroy(b);
    other = c;
    other.kind = TRF_DECODER_ONLY;                  /* another kind: what has the same name */
    other.encoder_layers = 0;
    OK(trf_model_create(&b, &other, NULL, &err));
    OK(trf_model_copy_weights(b, a, &n, &err));
    assert_int_equal(n, trf_model_parameter_count(b));
    trf_model_destroy(b);
    other = c;
    other.kind = TRF_ENCODER_ONLY;
    other.decoder_layers = 0;
    other.d_model = 8;
    OK(trf_model_create(&b, &other, NULL, &err));
    FAILS(trf_model_copy_weights(b, a, &n, &err), TRF_E_SHAPE, "src_embed.weight", -1);
    trf_model_destroy(a); trf_model_destroy(b);
    assert_int_equal(memory.live, 0);
}

/* -----------------------------------------------------------------------------------------------
   Slow builds. */

static int slow_lines;
static void count_slow(void *user, int level, const char *message)
{
    (void)user;
    assert_int_equal(level, TRF_LOG_WARNING);
    assert_non_null(strstr(message, "optimisation"));
    slow_lines++;
}

/* Code that was not optimised says so: once for a model that is created or loaded, not for a copy,
   a step, a search. `make test` does not optimise this suite. */
static void slow_builds_say_so(void **state)
{
    static kit_pairs data;
#if defined(__OPTIMIZE__) || defined(TRF__TEST_BACKEND)
    const int slow = 0;
#elif defined(KIT_LINKED)               /* the implementation is another file's */
    const int slow = strstr(trf__build_info(), ", not optimised") != NULL;
#else
    const int slow = 1;
#endif
    trf_config config = kit_small(1, 4, 9, 12);
    trf_load_options options = trf_load_defaults();
    trf_train_options training = kit_training();
    trf_batch batch = kit_fill(&data, 3, 1, 5, 9, 1);
    trf_model *other = NULL;
    lab l;
    (void)state;
#if defined(__OPTIMIZE__)
    assert_null(strstr(trf__build_info(), "optimised"));
#elif !defined(KIT_LINKED)
    assert_non_null(strstr(trf__build_info(), ", not optimised"));
#endif
    config.hooks.log = options.hooks.log = training.hooks.log = count_slow;
    options.device.threads = training.threads = 1;
    slow_lines = 0;
    l = lab_open(&config, &training);
    assert_int_equal(slow_lines, slow);
    OK(trf_model_copy(&other, l.model, &err));
    trf_model_destroy(other);
    step(&l, &batch);
    OK(trf_checkpoint_save(l.trainer, NULL, path, NULL, &err));
    assert_int_equal(slow_lines, slow);
    lab_close(&l);
    OK(trf_checkpoint_load(&l.model, &l.trainer, NULL, path, &training, &options, &err));
    assert_int_equal(slow_lines, 2 * slow);
    OK(trf_model_save(l.model, path, NULL, &err));
    lab_close(&l);
    OK(trf_model_load(&other, path, &options, &err));
    trf_model_destroy(other);
    assert_int_equal(slow_lines, 3 * slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputing_is_the_same),
        cmocka_unit_test(recomputing_takes_less),
        cmocka_unit_test(recomputing_half_way),
        cmocka_unit_test(patterns),
        cmocka_unit_test(frozen_parameters),
        cmocka_unit_test(frozen_and_tied),
        cmocka_unit_test(frozen_and_skipped),
        cmocka_unit_test(frozen_and_thawed),
        cmocka_unit_test(thawed_as_new),
        cmocka_unit_test(thawed_where_it_was),
        cmocka_unit_test(freezing_refused),
        cmocka_unit_test(frozen_on_two_ranks),
        cmocka_unit_test(frozen_for_good),
        cmocka_unit_test(frozen_nonsense),
        cmocka_unit_test(missed_nonsense),
        cmocka_unit_test(weights_of_another),
        cmocka_unit_test(weights_of_a_larger_one),
        cmocka_unit_test(weights_of_another_head),
        cmocka_unit_test(weights_of_a_second_head),
        cmocka_unit_test(weights_refused),
        cmocka_unit_test(slow_builds_say_so),
    };
    int failed;
    snprintf(path, sizeof path, "/tmp/trf_test_finetune_%d", (int)getpid());
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}

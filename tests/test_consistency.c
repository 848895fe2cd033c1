/* build: shared double:shared separate:shared long:shared plain:shared */
/* Training with consistency (R-Drop): gradients of every kind of model against finite differences,
   the masks of both passes, PyTorch's numbers, equal passes without dropout, and what must not
   change a bit: threads, recomputing, validation in between, checkpoints. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>
#include "lab.h"

static void gradients_are_right(void **state)
{
    static kit_pairs p;
    int kind;
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        lab l = lab_of(kind, 0.2, 3);
        trf_batch b;
        trf_step_report r;
        if (KIT_HAS_STREAM && kind % 4) continue;
        lab_is_small(&l);
        lab_open(&l);
        b = batch_of(&l, &p, 4, 11);
        if (l.c.segments) kit_cut(&p, l.c.eos);
        OK(trf_trainer_forward_backward(l.trainer, &b, &r, &err));
        assert_true(r.divergence > 1e-4);
        trf_trainer_discard_gradients(l.trainer);
        gradients_fit(&l, &b, kind);
        lab_close(&l);
    }
}

/* -----------------------------------------------------------------------------------------------
   The two passes. */

static void row_losses(const lab *l, double *to, int64_t n)
{
    const trf__run *run = &l->trainer->pass.run;
    run->backend->download(run, to, l->trainer->pass.loss.row_loss[0], (size_t)n * sizeof *to);
    OK(run->backend->sync(run, &err));
}

/* The losses of a batch's rows in one pass whose sequences are numbered from `ordinal` on. */
static void one_pass(const lab *l, const trf_batch *batch, int64_t ordinal, double *to, int64_t n)
{
    trf__pass *pass = &l->trainer->pass;
    trf__loss loss;
    pass->copies = 1;
    OK(trf__pass_sides(pass, batch, pass->sides, ordinal, &err));
    pass->run.now = (const trf__now *)(const void *)pass->block.device;
    OK(trf__pass_forward(pass, pass->sides, &err));
    pass->run.now = NULL;
    loss = trf__pass_loss(pass, &l->o, 0);
    pass->run.backend->cross_entropy(&pass->run, &loss);
    row_losses(l, to, n);
}

/* The first pass has the usual masks, the second those of a sequence numbered 2^31 higher, as the
   manual says: row by row the same losses. */
static void masks_are_those_told(void **state)
{
    enum { MOST_ROWS = 512 };
    static double got[MOST_ROWS], first[MOST_ROWS], second[MOST_ROWS];
    static kit_pairs p;
    int kind;
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        lab l = lab_of(kind, 0.3, 1);
        trf_step_report r;
        trf_batch b;
        double mean = 0;
        int64_t n, i, differ = 0;
        lab_open(&l);
        b = batch_of(&l, &p, 6, 21);
        b.ordinal = 77;
        OK(trf_trainer_forward_backward(l.trainer, &b, &r, &err));
        n = l.trainer->pass.decoder.rows / 2;
        assert_true(n > 0 && 2 * n <= MOST_ROWS);
        row_losses(&l, got, 2 * n);
        trf_trainer_discard_gradients(l.trainer);
        one_pass(&l, &b, 77, first, n);
        one_pass(&l, &b, 77 + ((int64_t)1 << 31), second, n);
        if (KIT_SAME_ROWS && l.c.device.products == TRF_PRODUCTS_BUILT_IN) {
            assert_memory_equal(got, first, (size_t)n * sizeof *got);
            assert_memory_equal(got + n, second, (size_t)n * sizeof *got);
        }
        for (i = 0; i < n; i++) {
            assert_true(fabs(got[i] - first[i]) <= 1e-4 * (1 + first[i]));
            assert_true(fabs(got[n + i] - second[i]) <= 1e-4 * (1 + second[i]));
            differ += first[i] != second[i];
            mean += (got[i] + got[n + i]) / 2;
        }
        assert_true(differ > r.target_tokens / 2);
        mean /= (double)r.target_tokens;
        assert_true(fabs(r.loss - r.sequence_loss - mean) <= 1e-12 * mean);
        lab_close(&l);
    }
}

static int warnings;
static void count_warnings(void *user, int level, const char *message)
{
    (void)user;
    if (level == TRF_LOG_WARNING && strstr(message, "consistency")) warnings++;
}

/* Without dropout both passes are equal: no divergence, the usual loss and the usual gradients. A
   warning says so; one dropout of the four is enough to be without it. */
static void equal_passes(void **state)
{
    static kit_pairs p;
    int kind, one;
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        lab plain = lab_of(kind, 0, 0), twice = lab_of(kind, 0, 4);
        trf_step_report a, b;
        trf_batch batch;
        int32_t i;
        warnings = 0;
        plain.o.hooks.log = twice.o.hooks.log = count_warnings;
        lab_open(&plain);
        assert_int_equal(warnings, 0);
        lab_open(&twice);
        assert_int_equal(warnings, 1);
        batch = batch_of(&plain, &p, 5, 31);
        OK(trf_trainer_forward_backward(plain.trainer, &batch, &a, &err));
        OK(trf_trainer_forward_backward(twice.trainer, &batch, &b, &err));
        assert_true(b.divergence == 0 && a.divergence == 0);
        assert_true(fabs(a.loss - b.loss) <= 1e-12 * a.loss);
        assert_true(fabs(a.nll - b.nll) <= 1e-12 * a.nll && a.accuracy == b.accuracy);
        assert_true(a.target_tokens == b.target_tokens && a.source_tokens == b.source_tokens);
        assert_true(a.sequence_targets == b.sequence_targets &&
                    a.sequence_accuracy == b.sequence_accuracy);
        for (i = 0; i < trf_model_parameter_count(plain.model); i++) {
            trf_tensor g = trf_trainer_tensor(plain.trainer, TRF_GRADIENT, i);
            trf_real *x = kit_numbers(g), *y = kit_numbers(trf_trainer_tensor(twice.trainer, TRF_GRADIENT, i));
            double size = 0, apart = 0;
            int64_t k;
            for (k = 0; k < trf_tensor_count(&g); k++) {
                size += (double)x[k] * (double)x[k];
                apart += ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
            }
            if (!(sqrt(apart) <= CLOSE * (sqrt(size) + 1e-3)))
                fail_msg("kind %d, %s: %g of %g", kind, g.name, sqrt(apart), sqrt(size));
            free(x);
            free(y);
        }
        lab_close(&plain);
        lab_close(&twice);
    }
    for (one = 0; one < 4; one++) {
        lab l = lab_of(0, 0, 4);
        double *const dropouts[4] = {&l.o.dropout, &l.o.attention_dropout, &l.o.activation_dropout,
                                     &l.o.residual_dropout};
        *dropouts[one] = 0.1;
        l.o.hooks.log = count_warnings;
        warnings = 0;
        lab_open(&l);
        assert_int_equal(warnings, 0);
        lab_close(&l);
    }
}

/* -----------------------------------------------------------------------------------------------
   What changes no bit. */

static uint64_t state_after(lab *l, int updates)
{
    static kit_pairs p;
    trf_step_report r;
    int i;
    for (i = 0; i < updates; i++) {
        trf_batch b = batch_of(l, &p, 7, 41 + (uint64_t)kit_updates(l->trainer));
        OK(trf_trainer_step(l->trainer, &b, &r, &err));
        assert_true(!r.skipped && (r.divergence > 0) == (l->o.consistency > 0));
    }
    return hash_state(l->trainer);
}

static void the_same_bits(void **state)
{
    int kind, k;
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        uint64_t want = 0;
        for (k = 0; k < 5; k++) {
            lab l = lab_of(kind, 0.2, 2);
            uint64_t got;
            if (KIT_HAS_STREAM && kind % 3) continue;
            if (k == 1) l.o.threads = 3;
            if (k == 2) l.o.recompute = 1;
            if (k == 3) l.o.source_tokens = l.o.target_tokens = l.o.sequences = l.o.longest = 2;
            if (k == 4) l.o.parts = 1;
            lab_open(&l);
            got = state_after(&l, 4);
            if (k == 0) want = got;
            if (got != want) fail_msg("kind %d: variation %d has other bits", kind, k);
            lab_close(&l);
        }
    }
}

/* A batch in micro-batches, and in parts: the same masks and tokens, so only rounding differs. */
static void divided_batches(void **state)
{
    static kit_pairs p;
    int kind, k;
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        trf_step_report whole, r;
        for (k = 0; k < 3; k++) {
            lab l = lab_of(kind, 0.2, 2);
            trf_batch b;
            /* two losses with means of their own: only `parts` divides a batch of them */
            if (k == 1 && l.c.sequence_labels) continue;
            if (k == 2) l.o.parts = 3;
            lab_open(&l);
            b = batch_of(&l, &p, 9, 51);
            lab_adds(&l, &b, 9, k == 1 ? 3 : 9);
            OK(trf_trainer_update(l.trainer, k ? &r : &whole, &err));
            lab_close(&l);
            if (k == 0) continue;
            assert_true(fabs(r.loss - whole.loss) <= CLOSE * whole.loss);
            assert_true(fabs(r.divergence - whole.divergence) <= 10 * CLOSE * whole.divergence);
            assert_true(fabs(r.gradient_norm - whole.gradient_norm) <=
                        100 * CLOSE * whole.gradient_norm);
            assert_true(r.target_tokens == whole.target_tokens);
        }
    }
}

/* Validation in between, switching off and on, and a checkpoint: as if nothing had been. What
   validation finds is what it finds without consistency. */
static void half_way(void **state)
{
    static kit_pairs p;
    static const char path[] = "/tmp/trf_test_consistency";
    char file[64];
    int kind;
    (void)state;
    snprintf(file, sizeof file, "%s_%ld", path, (long)getpid());
    for (kind = 0; kind < KINDS; kind++) {
        lab one = lab_of(kind, 0.2, 2), two = lab_of(kind, 0.2, 2), plain = lab_of(kind, 0.2, 0);
        trf_load_options load = trf_load_defaults();
        trf_step_report a, b;
        trf_batch batch;
        uint64_t want;
        lab_open(&one);
        lab_open(&two);
        lab_open(&plain);
        state_after(&one, 2);
        want = state_after(&one, 2);
        state_after(&two, 2);
        batch = batch_of(&two, &p, 15, 61);
        OK(trf_model_copy_weights(plain.model, two.model, NULL, &err));
        trf__pack_weights(&plain.trainer->pass);
        OK(trf_trainer_evaluate(plain.trainer, &batch, NULL, &a, &err));
        OK(trf_trainer_evaluate(two.trainer, &batch, NULL, &b, &err));
        a.step = b.step;
        assert_memory_equal(&a, &b, sizeof a);
        two.o.consistency = 0;
        OK(trf_trainer_set_options(two.trainer, &two.o, &err));
        two.o.consistency = 2;
        OK(trf_trainer_set_options(two.trainer, &two.o, &err));
        OK(trf_checkpoint_save(two.trainer, NULL, file, NULL, &err));
        lab_close(&two);
        load.device.threads = 1;
        load.device.products = TRF_PRODUCTS_BUILT_IN;
        OK(trf_checkpoint_load(&two.model, &two.trainer, NULL, file, NULL, &load, &err));
        assert_true(trf_trainer_options(two.trainer)->consistency == 2);
        assert_true(state_after(&two, 2) == want);
        lab_close(&one);
        lab_close(&two);
        lab_close(&plain);
        remove(file);
    }
}

/* A checkpoint with consistency has a format that older versions refuse, instead of training on
   without it. Others have the old one. */
static void formats(void **state)
{
    int with;
    (void)state;
    for (with = 0; with < 2; with++) {
        lab l = lab_of(0, 0.1, with);
        trf_file *file = NULL;
        trf_train_options stored;
        size_t n = 0;
        char *bytes;
        lab_open(&l);
        kit_checkpoint_save_memory(l.trainer, NULL, NULL, 0, &n, &err);
        bytes = (char *)malloc(n);
        OK(kit_checkpoint_save_memory(l.trainer, NULL, bytes, n, &n, &err));
        OK(kit_open_memory(&file, bytes, n, NULL, &err));
        assert_string_equal(trf_file_metadata(file, "trf.format"), with ? "12" : "9");
        OK(trf_file_training(file, &stored, &err));
        assert_true(stored.consistency == with);
        trf_file_close(file);
        free(bytes);
        lab_close(&l);
    }
}

/* -----------------------------------------------------------------------------------------------
   Memory and errors. */

static void memory_is_told(void **state)
{
    static kit_pairs p;
    int kind;
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        kit_memory memory;
        lab l = lab_of(kind, 0.1, 1);
        trf_train_options once = l.o;
        trf_batch b;
        int64_t told;
        once.consistency = 0;
        l.o.hooks = kit_hooks(&memory);
        told = (int64_t)trf_trainer_memory(&l.c, &l.o, NULL);
        assert_true(told > (int64_t)trf_trainer_memory(&l.c, &once, NULL));
        lab_open(&l);
        if (!KIT_HAS_STREAM) assert_int_equal(memory.live, told);
        b = batch_of(&l, &p, 12, 71);
        OK(trf_trainer_step(l.trainer, &b, NULL, &err));      /* within the limits */
        if (!KIT_HAS_STREAM) assert_int_equal(memory.peak, told);
        lab_close(&l);
        assert_int_equal(memory.live, 0);
    }
}

static void refused(void **state)
{
    static const double wrong[] = {-1e-9, 1.1e6, -HUGE_VAL, HUGE_VAL, NAN};
    kit_memory memory;
    lab l = lab_of(0, 0.1, 0);
    int64_t live;
    size_t i;
    (void)state;
    l.o.hooks = kit_hooks(&memory);
    lab_open(&l);
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        trf_train_options o = l.o;
        o.consistency = wrong[i];
        FAILS(TRF_E_INVALID_ARG, trf_train_check(&o, &l.c, &err));
        assert_string_equal(err.what, "consistency");
        assert_int_equal(trf_trainer_memory(&l.c, &o, NULL), 0);
        FAILS(TRF_E_INVALID_ARG, trf_trainer_set_options(l.trainer, &o, &err));
    }
    /* no room for a second copy: as it was */
    live = memory.live;
    memory.limit = 4096;
    l.o.consistency = 1;
    FAILS(TRF_E_NOMEM, trf_trainer_set_options(l.trainer, &l.o, &err));
    assert_true(memory.live == live && trf_trainer_options(l.trainer)->consistency == 0);
    memory.limit = 0;
    l.o.consistency = 0;
    state_after(&l, 1);
    l.o.consistency = 1e6;
    OK(trf_trainer_set_options(l.trainer, &l.o, &err));
    state_after(&l, 1);
    lab_close(&l);
    assert_int_equal(memory.live, 0);
}

/* Batches of every odd size, and empty ones. */
static void sizes(void **state)
{
    static kit_pairs p;
    int kind, count;
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        lab l = lab_of(kind, 0.1, 1);
        lab_open(&l);
        for (count = 0; count < 40; count += count < 3 ? 1 : 18) {
            trf_batch b = batch_of(&l, &p, count, 81 + (uint64_t)count);
            trf_step_report r;
            OK(trf_trainer_forward_backward(l.trainer, &b, &r, &err));
            assert_true(trf__is_finite(r.loss) && (r.divergence > 0 || count < 3));
            trf_trainer_discard_gradients(l.trainer);
        }
        lab_close(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(masks_are_those_told),
        cmocka_unit_test(equal_passes),
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(divided_batches),
        cmocka_unit_test(half_way),
        cmocka_unit_test(formats),
        cmocka_unit_test(memory_is_told),
        cmocka_unit_test(refused),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

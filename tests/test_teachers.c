/* build: shared double:shared separate:O0 long:O0 cblas:shared */
/* Training with teachers: the loss by a plain loop over logits, gradients of every kind of model
   against finite differences, packed teachers, what must not change a bit, and what is refused. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>
#include "lab.h"

/* Two models that are not the trained one: wider and deeper, or of another seed. */
typedef struct school { trf_model *models[2]; } school;

static const trf_model *const *all(const school *s) { return (const trf_model *const *)s->models; }

static school school_of(const lab *l)
{
    school s;
    int k;
    for (k = 0; k < 2; k++) {
        trf_config c = l->c;
        c.seed = 70 + (uint64_t)k;
        if (k) c.d_ff += 5;
        OK(trf_model_create(&s.models[k], &c, NULL, &err));
    }
    return s;
}

static void school_ends(school *s)
{
    trf_model_destroy(s->models[0]);
    trf_model_destroy(s->models[1]);
}

/* ----------------------------------------------------------------------------------------------- */

/* The probabilities of a batch's rows, in double, from the logits. */
static double *softmax_of(const trf_model *model, const trf_batch *batch, int64_t rows, int32_t n)
{
    trf_search search = trf_search_defaults();
    trf_translator *t = NULL;
    double *p = (double *)calloc((size_t)(rows * n), sizeof *p);
    trf_real *z = (trf_real *)calloc((size_t)(rows * n), sizeof *z);
    trf_tensor out = trf_tensor_of(z, 2, rows, n, 1);
    int64_t r;
    int32_t v;
    assert_true(p && z);
    search.max_length_b = 5;
    OK(trf_translator_create(&t, model, &search, &err));
    OK(kit_logits(t, batch, &out, &err));
    for (r = 0; r < rows; r++) {
        double most = -HUGE_VAL, sum = 0;
        for (v = 0; v < n; v++) if (z[r * n + v] > most) most = z[r * n + v];
        for (v = 0; v < n; v++) sum += p[r * n + v] = exp((double)z[r * n + v] - most);
        for (v = 0; v < n; v++) p[r * n + v] /= sum;
    }
    trf_translator_destroy(t);
    free(z);
    return p;
}

/* The mean loss of a batch by the formula in the manual, with uniform smoothing or that of NO_PAD_KL. */
static double plain_loss(const lab *l, const trf_model *const *teachers, int32_t n_teachers,
                         double share, const trf_batch *batch)
{
    const trf__pass *pass = &l->trainer->pass;
    const int32_t n = (int32_t)trf__n_logits(&l->c);
    const int64_t rows = trf__pools(&l->c) ? batch->source.count
                       : l->c.kind == TRF_ENCODER_ONLY ? kit_source_rows(l->model, &batch->source)
                       : kit_target_rows(l->model, &batch->target);
    double *p = softmax_of(l->model, batch, rows, n), *q[2] = {NULL, NULL}, sum = 0, counted = 0;
    const int kl = l->o.smoothing_rule == TRF_SMOOTH_NO_PAD_KL;
    double e = l->o.label_smoothing, off = kl ? e / (n - 2) : e / n, on = kl ? 1 - e : 1 - e + e / n;
    double entropy = kl ? -(1 - e) * log(1 - e) - e * log(off) : 0;
    int64_t r;
    int32_t k, v;
    for (k = 0; k < n_teachers; k++) q[k] = softmax_of(teachers[k], batch, rows, n);
    for (r = 0; r < rows; r++) {
        int32_t target = pass->decoder.host.targets[r];
        double usual = 0, taught = 0;
        if (target < 0) continue;
        counted++;
        for (v = 0; v < n; v++) {
            double mean = q[1] ? (q[0][r * n + v] + q[1][r * n + v]) / 2 : q[0][r * n + v];
            double l_p = log(p[r * n + v]);
            usual -= (v == target ? on : kl && v == l->c.pad ? 0 : off) * l_p;
            taught -= mean * l_p;
        }
        sum += (1 - share) * (usual - entropy) + share * taught;
    }
    free(p);
    free(q[0]);
    free(q[1]);
    return sum / counted;
}

/* One teacher, two, packed ones; every kind. The loss alone changes. */
static void the_loss(void **state)
{
    static const double shares[] = {0, 0.3, 1};
    static kit_pairs p;
    int kind, i, form;
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        lab l = lab_of(kind, 0, 0);
        trf_step_report usual, r;
        trf_batch b;
        school s;
        if (KIT_HAS_STREAM && kind % 3) continue;
        l.o.label_smoothing = 0.1;
        l.o.smoothing_rule = l.c.head ? TRF_SMOOTH_UNIFORM : TRF_SMOOTH_NO_PAD_KL;
        lab_open(&l);
        s = school_of(&l);
        b = batch_of(&l, &p, 7, 3);
        OK(trf_trainer_forward_backward(l.trainer, &b, &usual, &err));
        trf_trainer_discard_gradients(l.trainer);
        for (form = 0; form < 3; form++) {
            const trf_weights weights[] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_INT8, TRF_WEIGHTS_BF16};
            trf_model *packed = NULL;
            const trf_model *teachers[2];
            if (form) {
                trf_status status;
                OK(trf_model_create(&packed, trf_model_config(s.models[1]), NULL, &err));
                OK(trf_model_copy_weights(packed, s.models[1], NULL, &err));
                status = trf_model_pack(packed, weights[form], &err);
                if (status != TRF_OK) {
                    assert_int_equal(status, TRF_E_UNSUPPORTED);
                    trf_model_destroy(packed);
                    continue;
                }
            }
            teachers[0] = s.models[0];
            teachers[1] = packed ? packed : s.models[1];
            for (i = 0; i < 6; i++) {
                const int32_t n = 1 + i % 2;
                double want, share = shares[i / 2];
                OK(trf_trainer_set_teachers(l.trainer, teachers + (2 - n), n, share, &err));
                OK(trf_trainer_forward_backward(l.trainer, &b, &r, &err));
                trf_trainer_discard_gradients(l.trainer);
                want = plain_loss(&l, teachers + (2 - n), n, share, &b);
                if (!(fabs(r.loss - r.sequence_loss - want) <= 20 * CLOSE * want))
                    fail_msg("kind %d, form %d, share %g, %d teachers: %.9g, not %.9g", kind, form,
                             share, n, r.loss - r.sequence_loss, want);
                assert_true(r.nll == usual.nll && r.accuracy == usual.accuracy &&
                            r.sequence_loss == usual.sequence_loss &&
                            r.target_tokens == usual.target_tokens);
            }
            OK(trf_trainer_set_teachers(l.trainer, NULL, 0, 0, &err));
            trf_model_destroy(packed);
        }
        OK(trf_trainer_forward_backward(l.trainer, &b, &r, &err));
        assert_memory_equal(&r, &usual, sizeof r);
        lab_close(&l);
        school_ends(&s);
    }
}

/* With dropout and label smoothing, alone and with consistency. */
static void gradients_are_right(void **state)
{
    static kit_pairs p;
    int kind, twice;
    (void)state;
    for (kind = 0; kind < KINDS; kind++)
        for (twice = 0; twice < 2; twice++) {
            lab l = lab_of(kind, 0.2, twice ? 2 : 0);
            trf_batch b;
            school s;
            if (KIT_HAS_STREAM ? kind % 4 != 0 : !kit_all() && kind % 2 != twice) continue;
            l.o.label_smoothing = 0.1;
            l.o.smoothing_rule = l.c.head ? TRF_SMOOTH_UNIFORM : TRF_SMOOTH_NO_PAD_KL;
            lab_is_small(&l);
            lab_open(&l);
            s = school_of(&l);
            b = batch_of(&l, &p, 4, 11);
            if (l.c.segments) kit_cut(&p, l.c.eos);
            OK(trf_trainer_set_teachers(l.trainer, all(&s), 2, 0.6, &err));
            gradients_fit(&l, &b, kind);
            lab_close(&l);
            school_ends(&s);
        }
}

/* A copy of the model teaches it nothing, if nobody else does. */
static void a_copy_teaches_nothing(void **state)
{
    static kit_pairs p;
    int kind;
    (void)state;
    for (kind = 0; kind < 7; kind++) {
        lab l = lab_of(kind, 0, 0);
        trf_model *copy = NULL;
        const trf_model *teacher;
        trf_batch b;
        int32_t i;
        int64_t k;
        lab_open(&l);
        OK(trf_model_create(&copy, &l.c, NULL, &err));
        OK(trf_model_copy_weights(copy, l.model, NULL, &err));
        teacher = copy;
        b = batch_of(&l, &p, 5, 31);
        OK(trf_trainer_set_teachers(l.trainer, &teacher, 1, 1, &err));
        OK(trf_trainer_forward_backward(l.trainer, &b, NULL, &err));
        for (i = 0; i < trf_model_parameter_count(l.model); i++) {
            trf_tensor t = trf_trainer_tensor(l.trainer, TRF_GRADIENT, i);
            trf_real *g = kit_numbers(t);
            for (k = 0; k < trf_tensor_count(&t); k++)
                if (!(fabs((double)g[k]) <= 20 * CLOSE)) fail_msg("kind %d, %s: %g", kind, t.name,
                                                                (double)g[k]);
            free(g);
        }
        lab_close(&l);
        trf_model_destroy(copy);
    }
}

/* ----------------------------------------------------------------------------------------------- */

static uint64_t state_after(lab *l, int updates)
{
    static kit_pairs p;
    int i;
    for (i = 0; i < updates; i++) {
        trf_batch b = batch_of(l, &p, 7, 41 + (uint64_t)kit_updates(l->trainer));
        OK(trf_trainer_step(l->trainer, &b, NULL, &err));
    }
    return hash_state(l->trainer);
}

/* Threads, recomputing, memory that grows, one part; validation in between; a checkpoint. */
static void the_same_bits(void **state)
{
    static kit_pairs p;
    char file[64];
    int kind, k;
    (void)state;
    snprintf(file, sizeof file, "/tmp/trf_test_teachers_%ld", (long)getpid());
    for (kind = 0; kind < KINDS; kind++) {
        uint64_t want = 0;
        for (k = 0; k < 7; k++) {
            lab l = lab_of(kind, 0.2, kind % 2);
            trf_load_options load = trf_load_defaults();
            school s;
            uint64_t got;
            if (KIT_HAS_STREAM && kind % 3) continue;
            if (k == 1) l.o.threads = 3;
            if (k == 2) l.o.recompute = 1;
            if (k == 3) l.o.source_tokens = l.o.target_tokens = l.o.sequences = l.o.longest = 2;
            if (k == 4) l.o.parts = 1;
            lab_open(&l);
            s = school_of(&l);
            OK(trf_trainer_set_teachers(l.trainer, all(&s), 2, 0.5, &err));
            state_after(&l, 2);
            if (k == 5) {
                trf_batch b = batch_of(&l, &p, 15, 61);
                OK(trf_trainer_evaluate(l.trainer, &b, NULL, NULL, &err));
                OK(trf_trainer_set_options(l.trainer, &l.o, &err));
                OK(trf_trainer_set_teachers(l.trainer, NULL, 0, 0, &err));
                OK(trf_trainer_set_teachers(l.trainer, all(&s), 2, 0.5, &err));
            }
            if (k == 6) {
                OK(trf_checkpoint_save(l.trainer, NULL, file, NULL, &err));
                lab_close(&l);
                load.device.threads = 1;
                load.device.products = TRF_PRODUCTS_BUILT_IN;
                OK(trf_checkpoint_load(&l.model, &l.trainer, NULL, file, NULL, &load, &err));
                OK(trf_trainer_set_teachers(l.trainer, all(&s), 2, 0.5, &err));
                remove(file);
            }
            got = state_after(&l, 2);
            if (k == 0) want = got;
            if (got != want) fail_msg("kind %d: variation %d has other bits", kind, k);
            lab_close(&l);
            school_ends(&s);
        }
    }
}

/* A batch in micro-batches and in parts: only rounding differs. More rows than a chunk has. */
static void divided_batches(void **state)
{
    static kit_pairs p;
    int kind, k;
    (void)state;
    for (kind = 0; kind < KINDS; kind++) {
        trf_step_report whole, r;
        for (k = 0; k < 3; k++) {
            lab l = lab_of(kind, 0.2, 0);
            const int32_t count = KIT_HAS_STREAM ? 9 : 180;
            trf_batch b;
            school s;
            if (k == 1 && l.c.sequence_labels) continue;
            if (k == 2) l.o.parts = 3;
            lab_open(&l);
            s = school_of(&l);
            OK(trf_trainer_set_teachers(l.trainer, all(&s), 2, 0.5, &err));
            b = batch_of(&l, &p, count, 51);
            lab_adds(&l, &b, count, k == 1 ? count / 3 : count);
            if (!trf__pools(&l.c) && !KIT_HAS_STREAM && k == 0)
                assert_true(l.trainer->pass.decoder.rows > TRF__TEACHER_ROWS);
            OK(trf_trainer_update(l.trainer, k ? &r : &whole, &err));
            lab_close(&l);
            school_ends(&s);
            if (k == 0) continue;
            assert_true(fabs(r.loss - whole.loss) <= CLOSE * whole.loss);
            assert_true(fabs(r.gradient_norm - whole.gradient_norm) <=
                        100 * CLOSE * whole.gradient_norm);
        }
    }
}

/* Empty batches, and targets alone of teachers that answer better than the labels do. */
static void sizes_and_learning(void **state)
{
    static kit_pairs p;
    lab l = lab_of(0, 0, 0);
    trf_step_report first, r;
    trf_batch b;
    school s;
    int i;
    (void)state;
    memset(&first, 0, sizeof first);
    lab_open(&l);
    s = school_of(&l);
    OK(trf_trainer_set_teachers(l.trainer, all(&s), 1, 1, &err));
    for (i = 0; i < 3; i++) {
        b = batch_of(&l, &p, i, 81);
        OK(trf_trainer_forward_backward(l.trainer, &b, &r, &err));
        assert_true(trf__is_finite(r.loss));
        trf_trainer_discard_gradients(l.trainer);
    }
    b = batch_of(&l, &p, 9, 82);
    for (i = 0; i < 40; i++) OK(trf_trainer_step(l.trainer, &b, i ? &r : &first, &err));
    assert_true(r.loss < first.loss - 0.01);
    lab_close(&l);
    school_ends(&s);
}

/* ----------------------------------------------------------------------------------------------- */

static void refusals(lab *l, const school *good, trf_config c, const char *word)
{
    trf_model *other = NULL;
    const trf_model *teachers[2];
    OK(trf_model_create(&other, &c, NULL, &err));
    teachers[0] = good->models[0];
    teachers[1] = other;
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_teachers(l->trainer, teachers, 2, 0.5, &err));
    assert_string_equal(err.what, "teachers");
    assert_int_equal(err.where, 1);
    if (!strstr(err.message, word)) fail_msg("'%s' lacks '%s'", err.message, word);
    trf_model_destroy(other);
}

static void refused(void **state)
{
    static kit_pairs p;
    lab l = lab_of(0, 0, 0), one = lab_of(6, 0, 0);
    const trf_model *self;
    kit_memory memory;
    trf_stage *stage = NULL;
    trf_config c = l.c;
    school s;
    uint64_t want;
    (void)state;
    memset(&memory, 0, sizeof memory);
    l.o.hooks = kit_hooks(&memory);
    lab_open(&l);
    s = school_of(&l);
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_teachers(NULL, all(&s), 2, 0.5, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_teachers(l.trainer, NULL, 2, 0.5, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_teachers(l.trainer, all(&s), -1, 0.5, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_teachers(l.trainer, all(&s), TRF_MAX_MODELS + 1, 0.5, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_teachers(l.trainer, all(&s), 2, 1.01, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_teachers(l.trainer, all(&s), 2, NAN, &err));
    self = l.model;
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_teachers(l.trainer, &self, 1, 0.5, &err));
    self = NULL;
    FAILS(TRF_E_INVALID_ARG, trf_trainer_set_teachers(l.trainer, &self, 1, 0.5, &err));
    c.target_vocab++;
    refusals(&l, &s, c, "teacher 1 has target_vocab 38, but the trained model has 37");
    c = l.c; c.source_vocab++;
    refusals(&l, &s, c, "another source vocabulary");
    c = l.c; c.max_length--;
    refusals(&l, &s, c, "reads at most 39 tokens");
    refusals(&l, &s, lab_of(4, 0, 0).c, "has kind");
    /* gradients wait; a stage; numbers as labels */
    {
        trf_batch b = batch_of(&l, &p, 3, 5);
        OK(trf_trainer_forward_backward(l.trainer, &b, NULL, &err));
        FAILS(TRF_E_STATE, trf_trainer_set_teachers(l.trainer, all(&s), 2, 0.5, &err));
        trf_trainer_discard_gradients(l.trainer);
    }
    /* whatever fails leaves the teachers that are there */
    OK(trf_trainer_set_teachers(l.trainer, all(&s), 1, 0.5, &err));
    ALLOCATIONS_FAIL(memory, 3, trf_trainer_set_teachers(l.trainer, all(&s), 2, 1, &err),
                     l.trainer->teachers.n == 1 && l.trainer->pass.back.share == 0.5);
    OK(trf_trainer_set_teachers(l.trainer, all(&s), 2, 0.5, &err));
    FAILS(TRF_E_STATE, trf_stage_create(&stage, l.trainer, 1, NULL, NULL, &err));
    assert_null(stage);
    /* no memory for what teachers say: nothing has happened */
    want = hash_state(l.trainer);
    {
        trf_batch b = batch_of(&l, &p, 60, 6);
        OK(trf_trainer_evaluate(l.trainer, &b, NULL, NULL, &err));
        memory.limit = 4096;
        FAILS(TRF_E_NOMEM, trf_trainer_step(l.trainer, &b, NULL, &err));
        assert_true(hash_state(l.trainer) == want);
        memory.limit = 0;
        OK(trf_trainer_step(l.trainer, &b, NULL, &err));
    }
    OK(trf_trainer_set_teachers(l.trainer, NULL, 0, 0, &err));
    OK(trf_stage_create(&stage, l.trainer, 1, NULL, NULL, &err));
    FAILS(TRF_E_STATE, trf_trainer_set_teachers(l.trainer, all(&s), 2, 0.5, &err));
    trf_stage_destroy(stage);
    lab_close(&l);
    assert_int_equal(memory.live, 0);
    one.c.label_kind = TRF_LABELS_NUMBERS;
    one.o.label_smoothing = 0;
    lab_open(&one);
    FAILS(TRF_E_UNSUPPORTED, trf_trainer_set_teachers(one.trainer, all(&s), 2, 0.5, &err));
    lab_close(&one);
    school_ends(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss),
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(a_copy_teaches_nothing),
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(divided_batches),
        cmocka_unit_test(sizes_and_learning),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* build: O1 slow */
/* Products of floats by the tiles of AMX (TRF_PRODUCTS_BF16X3): the split into three parts, every
   layout, the accuracy of floats, and models that train and answer with them. */
#include "tiles.h"
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "answers.h"
#include "products.h"

enum { MANY = 60 };                     /* sentences: more than 48 rows */

#if TRF__BF16X3 && OWN_LEVEL
static double part_of(const uint32_t *words, int i)
{
    return (double)trf__float_of(i < 16 ? words[i] << 16 : words[i - 16] & 0xFFFF0000u);
}

/* Three parts are the float itself, and are as far below each other as the header says. */
static void parts_are_the_float(void **state)
{
    static const uint32_t special[] = {0x7F800000u, 0xFF800000u, 0x7F800001u, 0x7FFFFFFFu,
                                       0xFFFFFFFFu, 0xFF808000u, 0x7F7FFFFFu, 0xFF7FFFFFu};
    int round, i;
    (void)state;
    for (round = 0; round < 4000; round++) {
        trf_real x[32];
        uint32_t words[3 * 16];
        for (i = 0; i < 32; i++) {
            x[i] = (trf_real)ldexp(drawn(), (int)(100 * drawn() + 24));
            if (round == 0) x[i] = (trf_real)(i - 16);
            if (round == 1) x[i] = trf__float_of(special[i % 8]);
            if (round == 2) x[i] = trf__float_of(0x3F7FFFFFu + (uint32_t)i * 0x4000u);
        }
        trf__bf16x3_split(words, 16, trf__load(x), trf__load(x + 16));
        for (i = 0; i < 32; i++) {
            double a = part_of(words, i), b = part_of(words + 16, i), c = part_of(words + 32, i);
            double whole = (double)x[i];
            if (round == 1) {
                assert_true(!isfinite(a + b + c));
                continue;
            }
            if (!(a + b + c == whole) || !(fabs(b) <= ldexp(fabs(whole), -8)) ||
                !(fabs(c) <= ldexp(fabs(whole), -16)))
                fail_msg("%.9g becomes %.9g, %.9g and %.9g", whole, a, b, c);
        }
    }
}

/* Numbers whose third part is too small for bf16 leave their neighbours in a word alone. */
static void tiny_numbers(void **state)
{
    int e, i;
    (void)state;
    for (e = -149; e < -90; e++) {
        trf_real x[32];
        uint32_t words[3 * 16];
        for (i = 0; i < 32; i++) x[i] = i < 16 ? 0 : (trf_real)ldexp(1 + drawn() / 3, e);
        trf__bf16x3_split(words, 16, trf__load(x), trf__load(x + 16));
        for (i = 0; i < 32; i++) {
            double a = part_of(words, i), b = part_of(words + 16, i), c = part_of(words + 32, i);
            double most = ldexp(1, -133);       /* the smallest bf16 */
            if (!(fabs(a + b + c - (double)x[i]) <= (i < 16 ? 0 : most)))
                fail_msg("%.9g becomes %.9g, %.9g and %.9g", (double)x[i], a, b, c);
        }
    }
}

/* What x (32) and w (32) give in three parts. Tiles, also emulated ones, add products of the first
   half and of the second half apart. */
static trf_real thirty_two(trf_real sum, const trf_real *x, const trf_real *w)
{
    static const int pairs[6][2] = {{2, 0}, {0, 0}, {0, 2}, {0, 1}, {1, 1}, {1, 0}};
    uint32_t a[3 * 16], b[3 * 16];
    int p, i;
    trf__bf16x3_split(a, 16, trf__load(x), trf__load(x + 16));
    trf__bf16x3_split(b, 16, trf__load(w), trf__load(w + 16));
    for (p = 0; p < 6; p++) {
        trf_real both[2] = {0, 0};
        for (i = 0; i < 16; i++) {
            both[0] += (trf_real)(part_of(a + 16 * pairs[p][0], i) * part_of(b + 16 * pairs[p][1], i));
            both[1] += (trf_real)(part_of(a + 16 * pairs[p][0], i + 16) *
                                  part_of(b + 16 * pairs[p][1], i + 16));
        }
        sum += both[0] + both[1];
    }
    return sum;
}

/* One result: of tiles its bits if `tiles`, else it must be near. */
static void assert_result(trf_real got, trf_real sum, const trf_real *a, int64_t a_step,
                          const trf_real *b, int64_t b_step, int64_t k, int tiles, const char *what)
{
    double exact = (double)sum, size = fabs(exact);
    int64_t t, i;
    for (t = 0; t < k; t += 32) {
        trf_real x[32] = {0}, w[32] = {0};
        for (i = t; i < t + 32 && i < k; i++) {
            x[i - t] = a[i * a_step];
            w[i - t] = b[i * b_step];
            exact += (double)x[i - t] * (double)w[i - t];
            size += fabs((double)x[i - t] * (double)w[i - t]);
        }
        sum = thirty_two(sum, x, w);
    }
    if (!(fabs((double)got - exact) <= 6e-8 * size * (double)(k + 2)))
        fail_msg("%s of %d numbers: %.9g instead of %.9g", what, (int)k, (double)got, exact);
    if (tiles && got != sum)
        fail_msg("%s of %d numbers: %.9g, not the bits of %.9g", what, (int)k, (double)got,
                 (double)sum);
}

/* y = x w^T + b with packed rows, and what training computes with plain ones. */
static void products_by_one(int rounds)
{
    int round;
    for (round = 0; round < rounds; round++) {
        int64_t rows = 1 + (int64_t)((round % 3 ? 45 : 170) * (drawn() + 1)), i, c;
        /* two parts of A's numbers, or most often one */
        int64_t in = round % 8 == 3 ? TRF__BF16X3_DEEP + 37 : 1 + (int64_t)(60 * (drawn() + 1));
        int64_t out = 1 + (int64_t)((round % 4 ? 40 : 120) * (drawn() + 1));
        int64_t above = round % 3 ? 0 : 16 * (round % 5), packs = round % 2;
        trf_real *x = numbers(rows * in), *w = numbers(trf__round_up(above + out, 16) * in);
        trf_real *y = numbers(rows * out + 1), *dx = numbers(rows * in), *dw = numbers(out * in);
        trf_real *b = numbers(out), *dx0 = numbers(rows * in), *dw0 = numbers(out * in), *of;
        void *packed = malloc(trf__panels_bytes(above + out, in));
        trf__run run = run_by(TRF_PRODUCTS_BF16X3, TRF__FLOAT32, 1 + round % 3,
                              round % 4 ? (above + out) * in : 1, 0);
        trf__pack pack = trf__pack_of(packed, w, above + out, in, TRF__FLOAT32);
        trf__linear j;
        trf__linear_dx back;
        trf__linear_dw gradient;
        int work = trf__cpu_of(&run)->work_bytes >= sizeof(trf_real) * TRF__DEEP * 32;
        long begun = tiles_begun;
        assert_non_null(packed);
        run.backend->pack(&run, &pack);
        memcpy(dx0, dx, (size_t)(rows * in) * sizeof *dx);
        memcpy(dw0, dw, (size_t)(out * in) * sizeof *dw);
        TRF__ZERO(j); TRF__ZERO(back); TRF__ZERO(gradient);
        j.x = (const trf__act *)(const void *)x; j.y = (trf__act *)(void *)y;
        if (packs) j.w.packed = packed;
        else j.w.plain = w;
        j.w.row = above; j.w.format = TRF__FLOAT32;
        j.b = round % 5 ? b : NULL;
        j.rows = rows; j.in = in; j.out = out;
        y[rows * out] = 7;
        run.backend->linear(&run, &j);
        assert_true(y[rows * out] == 7);
        if (!real_instructions && (packs || work))
            assert_int_equal(tiles_begun > begun, rows >= TRF__BF16X3_LEAST);
        of = w + above * in;
        for (i = 0; i < rows; i++)
            for (c = 0; c < out; c++)
                assert_result(y[i * out + c], round % 5 ? b[c] : 0, x + i * in, 1, of + c * in, 1, in,
                              rows >= TRF__BF16X3_LEAST && (packs || work), "y");
        back.dx = (trf__act *)(void *)dx; back.dy = (const trf__act *)(const void *)y;
        back.w.plain = w; back.w.row = above; back.w.format = TRF__FLOAT32;
        back.rows = rows; back.in = in; back.out = out; back.add = round % 2;
        run.backend->linear_dx(&run, &back);
        gradient.dw = dw; gradient.db = b; gradient.dy = back.dy; gradient.x = j.x;
        gradient.rows = rows; gradient.in = in; gradient.out = out; gradient.first = round % 2;
        run.backend->linear_dw(&run, &gradient, 1);
        for (i = 0; i < rows; i++)
            for (c = 0; c < in; c++)
                assert_result(dx[i * in + c], round % 2 ? dx0[i * in + c] : 0, y + i * out, 1, of + c,
                              in, out, rows >= TRF__BF16X3_LEAST && work, "dx");
        for (i = 0; i < out; i++)
            for (c = 0; c < in; c++)
                assert_result(dw[i * in + c], round % 2 ? 0 : dw0[i * in + c], y + i, out, x + c, in,
                              rows, out >= TRF__BF16X3_LEAST && work, "dw");
        run.backend->close(&run);
        free(x); free(w); free(y); free(dx); free(dw); free(b); free(dx0); free(dw0); free(packed);
    }
}

static void products(void **state)
{
    (void)state;
    real_instructions = 0;
    products_by_one(kit_all() ? 60 : 16);
    real_instructions = 1;
    if (trf__has_amx()) products_by_one(kit_all() ? 400 : 80);
    real_instructions = 0;
}

/* The root mean square of errors is at most that of the product of floats. Sums with one product
   less are at least ten times as far away. */
static void as_accurate_as_floats(void **state)
{
    enum { ROWS = 64, IN = 384, OUT = 48 };
    trf_real *x = numbers(ROWS * IN), *w = numbers(OUT * IN), *y = numbers(ROWS * OUT);
    double errors[2] = {0, 0};
    int by, i, c, t;
    (void)state;
    for (by = 0; by < 2; by++) {
        trf__run run = run_by(by ? TRF_PRODUCTS_BF16X3 : TRF_PRODUCTS_BUILT_IN, TRF__FLOAT32, 1, 0, 0);
        multiply_packed(&run, TRF__FLOAT32, y, x, w, ROWS, IN, OUT);
        for (i = 0; i < ROWS; i++)
            for (c = 0; c < OUT; c++) {
                double exact = 0;
                for (t = 0; t < IN; t++) exact += (double)x[i * IN + t] * (double)w[c * IN + t];
                errors[by] += ((double)y[i * OUT + c] - exact) * ((double)y[i * OUT + c] - exact);
            }
        run.backend->close(&run);
    }
    if (!(errors[1] <= errors[0]))
        fail_msg("errors %.3g, of floats %.3g", sqrt(errors[1] / ROWS / OUT),
                 sqrt(errors[0] / ROWS / OUT));
    free(x); free(w); free(y);
}

/* An infinity or a NaN reaches the results of its own row or column alone. */
static void rows_that_are_not_finite(void **state)
{
    enum { ROWS = 50, IN = 37, OUT = 21 };
    trf_real *x = numbers(ROWS * IN), *w = numbers(OUT * IN), *y = numbers(ROWS * OUT);
    trf__run run = run_by(TRF_PRODUCTS_BF16X3, TRF__FLOAT32, 1, 0, 0);
    int i, c;
    (void)state;
    x[0 * IN + 3] = (trf_real)HUGE_VAL;
    x[2 * IN + 36] = (trf_real)NAN;
    x[40 * IN + 20] = (trf_real)3.4e38;
    w[17 * IN + 20] = (trf_real)NAN;            /* where padding of the panel before would be read */
    multiply_packed(&run, TRF__FLOAT32, y, x, w, ROWS, IN, OUT);
    for (i = 0; i < ROWS; i++)
        for (c = 0; c < OUT; c++)
            assert_int_equal(trf__is_finite((double)y[i * OUT + c]),
                             i != 0 && i != 2 && i != 40 && c != 17);
    run.backend->close(&run);
    free(x); free(w); free(y);
}

/* Gradients of floats, and the same bits with other threads and when activations are computed
   again. */
static void gradients_of_floats(void **state)
{
    int variant;
    (void)state;
    for (variant = 0; variant < 6; variant++) {
        trf_config config = config_of(variant, 64);
        gradients full = gradients_of(&config, MANY, 1, 0), one, two;
        long begun = tiles_begun;
        config.device.products = TRF_PRODUCTS_BF16X3;
        one = gradients_of(&config, MANY, 1, 0);
        two = gradients_of(&config, MANY, 5, 1);
        assert_true(tiles_begun > begun);
        assert_memory_equal(one.all, two.all, (size_t)one.n * sizeof *one.all);
        assert_true(memcmp(one.all, full.all, (size_t)one.n * sizeof *one.all) != 0);
        assert_gradients_near(&one, &full, 2e-6, 1e-6, variant);
        free(full.all); free(one.all); free(two.all);
    }
}

/* The hidden states and translations of a batch, and whether memory is as planned. */
static uint64_t translated(const trf_model *model, int32_t threads, trf_real *states, int64_t n)
{
    const trf_config *config = trf_model_config(model);
    trf_batch batch = kit_fill(&data, MANY, 1, 9, VOCAB, 5);
    trf_search search = trf_search_defaults();
    trf_tensor out = trf_tensor_of(states, 2, kit_source_rows(model, &batch.source), config->d_model,
                                   1);
    trf_translator *t = NULL;
    kit_memory memory;
    uint64_t hash;
    double told;
    memset(&memory, 0, sizeof memory);
    assert_true(trf_tensor_count(&out) <= n);
    search.threads = threads;
    search.max_length_a = 0;
    search.max_length_b = 12;
    search.max_tokens = MANY * 11;
    search.hooks = kit_hooks(&memory);
    OK(trf_translator_create(&t, model, &search, &err));
    OK(trf_translate(t, &batch.source, NULL, &err));
    told = (double)trf_translator_memory(config, &search, MANY, 11, NULL);
    assert_true(told >= (double)memory.peak && told <= 1.25 * (double)memory.peak);
    hash = hash_answers(HASH_START, t, MANY);
    OK(kit_encode(t, &batch.source, &out, &err));
    trf_translator_destroy(t);
    assert_int_equal(memory.live, 0);
    return hash_bytes(hash, states, (size_t)trf_tensor_count(&out) * sizeof *states);
}

static void answers_of_floats(void **state)
{
    enum { MOST_STATES = MANY * 11 * 64 };
    static trf_real full[MOST_STATES], one[MOST_STATES], two[MOST_STATES];
    int variant;
    (void)state;
    for (variant = 0; variant < 4; variant++) {
        trf_config config = config_of(variant, 64);
        trf_model *model = NULL;
        double most = 0;
        long begun = tiles_begun;
        uint64_t hash;
        int i;
        OK(trf_model_create(&model, &config, NULL, &err));
        translated(model, 1, full, MOST_STATES);
        trf_model_destroy(model);
        assert_int_equal(tiles_begun, begun);
        config.device.products = TRF_PRODUCTS_BF16X3;
        OK(trf_model_create(&model, &config, NULL, &err));
        hash = translated(model, 1, one, MOST_STATES);
        assert_true(tiles_begun > begun);
        assert_true(hash == translated(model, 3, two, MOST_STATES));
        assert_true(memcmp(one, full, sizeof one) != 0);
        for (i = 0; i < MOST_STATES; i++) most = fmax(most, fabs((double)one[i] - (double)full[i]));
        if (!(most < 1e-5)) fail_msg("variant %d: states differ by %g", variant, most);
        trf_model_destroy(model);
    }
}

/* A batch of 1,027 rows, of which 1,014 are computed together and 13 alone. Threads do not change
   that. */
static void the_same_for_threads(void **state)
{
    enum { EACH = 13, COUNT = 79, STATES = EACH * COUNT * 64 };
    static trf_real y[3][STATES];
    static int32_t ids[EACH * COUNT], lengths[COUNT];
    trf_config config = config_of(8, 64);
    trf_sequences sources;
    trf_model *model = NULL;
    int by, i;
    (void)state;
    for (i = 0; i < COUNT; i++) lengths[i] = EACH - config.source_bos - config.source_eos;
    for (i = 0; i < EACH * COUNT; i++) ids[i] = 4 + i * 7 % (VOCAB - 4);
    sources.ids = ids;
    sources.lengths = lengths;
    sources.count = COUNT;
    config.device.products = TRF_PRODUCTS_BF16X3;
    OK(trf_model_create(&model, &config, NULL, &err));
    for (by = 0; by < 3; by++) {
        trf_search search = trf_search_defaults();
        trf_tensor out = trf_tensor_of(y[by], 2, kit_source_rows(model, &sources), 64, 1);
        trf_translator *t = NULL;
        search.threads = 1 + 2 * by;
        assert_int_equal(trf_tensor_count(&out), STATES);
        OK(trf_translator_create(&t, model, &search, &err));
        OK(kit_encode(t, &sources, &out, &err));
        trf_translator_destroy(t);
        assert_memory_equal(y[by], y[0], sizeof y[0]);
    }
    trf_model_destroy(model);
}

/* A sampler's promise: the bits of an answer do not depend on the other sequences. */
static void samplers_are_built_in(void **state)
{
    trf_config config = config_of(4, 64);
    trf_batch batch = kit_fill(&data, MANY, 1, 9, VOCAB, 5);
    double found[2];
    int by;
    (void)state;
    batch.source.count = 0;
    for (by = 0; by < 2; by++) {
        trf_sampling sampling = trf_sampling_defaults();
        trf_sampler *sampler = NULL;
        trf_model *model = NULL;
        long begun = tiles_begun;
        config.device.products = by ? TRF_PRODUCTS_BF16X3 : TRF_PRODUCTS_BUILT_IN;
        sampling.max_tokens = 10;
        OK(trf_model_create(&model, &config, NULL, &err));
        OK(trf_sampler_create(&sampler, model, &sampling, &err));
        OK(trf_sampler_begin(sampler, &batch, &err));
        OK(trf_sampler_step(sampler, 20, NULL, &err));
        found[by] = trf_sampler_answer(sampler, MANY - 1)->log_probability;
        assert_int_equal(tiles_begun, begun);
        trf_sampler_destroy(sampler);
        trf_model_destroy(model);
    }
    assert_true(found[0] == found[1]);
}

/* Weights in 8 or 16 bits, and 16-bit training, are what they are without it. */
static void formats_are_the_same(void **state)
{
    int variant;
    (void)state;
    for (variant = 0; variant < VARIANTS; variant++) {
        trf_config config = config_of(variant, 64);
        uint64_t wanted[2];
        trf_model *model = NULL;
        int by;
        for (by = 0; by < 2; by++) {
            config.device.products = by ? TRF_PRODUCTS_BF16X3 : TRF_PRODUCTS_BUILT_IN;
            OK(trf_model_create(&model, &config, NULL, &err));
            if (!by) {
                wanted[0] = answers(model, TRF_WEIGHTS_BF16, 1, NULL, NULL);
                wanted[1] = answers(model, TRF_WEIGHTS_INT8, 1, NULL, NULL);
            } else {
                assert_true(wanted[0] == answers(model, TRF_WEIGHTS_BF16, 1, NULL, NULL));
                assert_true(wanted[1] == answers(model, TRF_WEIGHTS_INT8, 1, NULL, NULL));
            }
            trf_model_destroy(model);
        }
    }
}
#endif

/* What a program may show. */
static void the_kernel_has_a_name(void **state)
{
    trf_device device = trf_device_default();
    (void)state;
    device.products = TRF_PRODUCTS_BF16X3;
    assert_string_equal(trf__product_kernel(&device, TRF_WEIGHTS_FULL),
                        TRF__BF16X3 && OWN_LEVEL ? "AMX" : "built-in");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#if TRF__BF16X3 && OWN_LEVEL
        cmocka_unit_test(parts_are_the_float),      cmocka_unit_test(tiny_numbers),
        cmocka_unit_test(products),                 cmocka_unit_test(the_same_for_threads),
        cmocka_unit_test(samplers_are_built_in),
        cmocka_unit_test(as_accurate_as_floats),    cmocka_unit_test(rows_that_are_not_finite),
        cmocka_unit_test(gradients_of_floats),      cmocka_unit_test(answers_of_floats),
        cmocka_unit_test(formats_are_the_same),
#endif
        cmocka_unit_test(the_kernel_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

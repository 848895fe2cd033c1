/* build: O1 slow separate:O1:all */
/* Products of eight-bit integers: every kernel that the processor has beside plain loops, rows that
   cannot be rounded, and the same answers, bit for bit, with all kernels and numbers of threads. */
#define TRF__INT8_KERNEL first_kernel
static int first_kernel;
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

enum { KERNELS = sizeof trf__int8_kernels / sizeof *trf__int8_kernels };

/* Chooses a kernel, or kernel 0 with its real instructions. Returns whether the processor has it. */
static int choose(int kernel)
{
    real_instructions = kernel == KERNELS;
    first_kernel = kernel < KERNELS ? kernel : 0;
    return trf__int8_kernels[first_kernel].supported();
}

/* Runs the block once with each kernel that the processor has. */
#define EACH_KERNEL(k) \
    for (k = 0; k <= KERNELS || (choose(0), 0); k++) \
        if (choose(k))

/* Integers -127 .. 127, of which 127 occurs in each row: the scale is 1, and rounding changes
   nothing. */
static trf_real *integers(int64_t rows, int64_t k)
{
    trf_real *x = numbers(rows * k);
    int64_t i;
    for (i = 0; i < rows * k; i++) x[i] = (trf_real)floor(127.99 * (double)x[i]);
    for (i = 0; i < rows * k; i++) if (x[i] < -127) x[i] = -127;
    for (i = 0; i < rows; i++) x[i * k + i % k] = i % 3 ? 127 : -127;
    return x;
}

/* One call of the chosen kernel. */
static void run_kernel(int32_t *sums, const char *left, int64_t rows, const char *packed,
                       int64_t n_panels, int64_t k)
{
    const trf__int8_kernel *kernel = trf__int8_chosen(1);
    if (kernel->tiles) trf__amx_begin();
    kernel->function(sums, left, trf__int8_row_bytes(k), rows, packed, trf__int8_panel_bytes(k),
                     n_panels, trf__round_up(k, 4));
    if (kernel->tiles) trf__amx_end();
}

static void kernels_are_exact(void **state)
{
    static const int64_t lengths[] = {1, 2, 3, 4, 5, 8, 13, 16, 63, 64, 65, 100, 512, 2047};
    size_t l;
    int kernel;
    (void)state;
    EACH_KERNEL(kernel)
        for (l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            int64_t k = lengths[l], n, rows, p, i, j, t;
            for (n = 1; n <= TRF__INT8_PANELS; n++)
                for (rows = 1; rows <= trf__int8_chosen(1)->rows; rows += 1 + rows / 4) {
                    trf_real *w = integers(16 * n, k), *x = integers(rows, k);
                    /* of x: all signs; no negative number; negative ones at the end alone */
                    int64_t signs = (k + n + rows) % 3, positive = signs == 2 ? k - 1 : k;
                    size_t step = trf__int8_row_bytes(k);
                    char *packed = (char *)malloc(trf__int8_bytes(16 * n, k));
                    char *left = (char *)calloc(1, trf__cpu_converted(TRF__INT8, rows, k));
                    int32_t sums[TRF__INT8_TILE_ROWS * TRF__INT8_PANELS * 16];
                    assert_true(packed && left);
                    for (i = 0; signs && i < rows * k; i++)
                        if (x[i] < 0 && i % k < positive) x[i] = -x[i];
                    trf__int8_pack(packed, w, 0, 16 * n, k);
                    for (i = 0; i < rows; i++)
                        trf__int8_convert(left + (size_t)i * step, x + i * k, k);
                    run_kernel(sums, left, rows, packed, n, k);
                    for (i = 0; i < rows; i++)
                        for (p = 0; p < n; p++)
                            for (j = 0; j < 16; j++) {
                                double sum = 0;
                                for (t = 0; t < k; t++)
                                    sum += (double)x[i * k + t] * (double)w[(16 * p + j) * k + t];
                                if (sums[(i * n + p) * 16 + j] != (int32_t)sum)
                                    fail_msg("%s, k %d: %d instead of %.0f",
                                             trf__int8_chosen(1)->name, (int)k,
                                             (int)sums[(i * n + p) * 16 + j], sum);
                            }
                    free(w); free(x); free(packed); free(left);
                }
        }
}

/* The longest row with the largest numbers, of all signs: the sum must fit. */
static void longest_sum(void **state)
{
    const int64_t k = TRF__INT8_DEEPEST;
    int kernel, signs;
    (void)state;
    EACH_KERNEL(kernel)
        for (signs = 0; signs < 4; signs++) {
            const int of_w = signs & 1 ? -1 : 1, of_x = signs & 2 ? -1 : 1;
            trf_real *w = numbers(16 * k), *x = numbers(k);
            char *packed = (char *)malloc(trf__int8_bytes(16, k));
            char *left = (char *)calloc(1, trf__cpu_converted(TRF__INT8, 1, k));
            int32_t sums[16 * 16];
            int64_t i;
            assert_true(packed && left);
            for (i = 0; i < 16 * k; i++) w[i] = (trf_real)of_w;
            for (i = 0; i < k; i++) x[i] = (trf_real)of_x;
            trf__int8_pack(packed, w, 0, 16, k);
            trf__int8_convert(left, x, k);
            run_kernel(sums, left, 1, packed, 1, k);
            for (i = 0; i < 16; i++)
                assert_true(sums[i] == (int64_t)of_w * of_x * 127 * 127 * k);
            free(w); free(x); free(packed); free(left);
        }
}

/* The nearest integer to x * inverse, which is rounded first; of equally near ones the even one. */
static double rounded(trf_real x, trf_real inverse)
{
    volatile trf_real product = x * inverse;
    return nearbyint((double)product);
}

/* y = x w^T + b by the formula of >>int8, for one result. */
static trf_real by_formula(const trf_real *x, const trf_real *w, const trf_real *b, int64_t k)
{
    trf_real most[2] = {0, 0}, y[16];
    float scale[2];
    double sum = 0;
    int64_t t;
    for (t = 0; t < k; t++) {
        if (most[0] < (trf_real)fabs((double)x[t])) most[0] = (trf_real)fabs((double)x[t]);
        if (most[1] < (trf_real)fabs((double)w[t])) most[1] = (trf_real)fabs((double)w[t]);
    }
    for (t = 0; t < k; t++) sum += rounded(x[t], 127 / most[0]) * rounded(w[t], 127 / most[1]);
    scale[0] = (float)most[0] / 127;
    scale[1] = (float)most[1] / 127;
    trf__store(y, trf__fma(trf__set((trf_real)sum),
                           trf__mul(trf__set((trf_real)scale[0]), trf__set((trf_real)scale[1])),
                           trf__set(b ? *b : 0)));
    return y[0];
}

static KIT_UNUSED void products_by_the_formula(void **state)
{
    int kernel, round;
    (void)state;
    EACH_KERNEL(kernel)
        for (round = 0; round < (kit_all() ? 400 : 60); round++) {
            int64_t rows = 1 + (int64_t)(35.5 * (drawn() + 1)), in = 1 + (int64_t)(75 * (drawn() + 1));
            int64_t out = 1 + (int64_t)(50 * (drawn() + 1)), above = round % 3 ? 0 : round % 40;
            trf_real *x = numbers(rows * in), *w = numbers((above + out) * in), *b = numbers(out);
            trf_real *y = numbers(rows * out + 1);
            void *packed = malloc(trf__int8_bytes(above + out, in));
            trf__run run = run_of(TRF__INT8, 1 + round % 3, 0,
                                  trf__cpu_converted(TRF__INT8, rows, in));
            trf__linear j;
            trf__pack pack = trf__pack_of(packed, w, above + out, in, TRF__INT8);
            int64_t i, c;
            assert_non_null(packed);
            run.backend->pack(&run, &pack);
            TRF__ZERO(j);
            j.x = (const trf__act *)(const void *)x; j.y = (trf__act *)(void *)y;
            j.w.packed = packed; j.w.row = above; j.w.format = TRF__INT8;
            j.b = round % 2 ? b : NULL;
            j.rows = rows; j.in = in; j.out = out;
            y[rows * out] = 7;
            run.backend->linear(&run, &j);
            for (i = 0; i < rows; i++)
                for (c = 0; c < out; c++) {
                    trf_real want = by_formula(x + i * in, w + (above + c) * in,
                                               round % 2 ? b + c : NULL, in);
                    if (y[i * out + c] != want)
                        fail_msg("%s, (%d, %d) x (%d, %d): %.9g instead of %.9g",
                                 trf__int8_chosen(1)->name, (int)rows, (int)in, (int)out,
                                 (int)in, (double)y[i * out + c], (double)want);
                }
            assert_true(y[rows * out] == 7);
            run.backend->close(&run);
            free(x); free(w); free(b); free(y); free(packed);
        }
}

static void rounding(void **state)
{
    static const trf_real halves[] = {127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -127, 126.4999, 3};
    static const int want[] = {127, 0, 2, 2, 0, -2, -2, -127, 126, 3};
    enum { N = sizeof want / sizeof *want };
    char row[128 + 64];
    float scale;
    trf__v16 back;
    trf_real sixteen[16];
    char packed[16 * TRF__INT8_DEEP + TRF__INT8_SCALES];
    int i, flip;
    (void)state;
    trf__int8_convert(row, halves, N);
    flip = trf__int8_chosen(1)->flip;
    for (i = 0; i < N; i++) assert_int_equal((signed char)(row[i] ^ flip), want[i]);
    for (; i < 64; i++) assert_int_equal((signed char)(row[i] ^ flip), 0);
    memcpy(&scale, row + 64, sizeof scale);
    assert_true(scale == 1);
    trf__int8_pack(packed, halves, 0, 1, N);            /* one row of a panel: the others are 0 */
    back = trf__int8_read(packed, 0, 0, N);
    trf__store(sixteen, back);
    for (i = 0; i < 16; i++) assert_true(sixteen[i] == (i < N ? want[i] : 0));
    trf__store(sixteen, trf__int8_read(packed, 9, 0, N));
    for (i = 0; i < 16; i++) assert_true(sixteen[i] == 0);
}

/* Rows of x and of w that cannot be rounded change their own results alone. */
static KIT_UNUSED void rows_that_are_not_finite(void **state)
{
    enum { ROWS = 8, IN = 20, OUT = 21 };
    const trf_real inf = (trf_real)HUGE_VAL, nan = (trf_real)NAN;
    int kernel;
    (void)state;
    EACH_KERNEL(kernel) {
        trf_real *x = numbers(ROWS * IN), *w = numbers(OUT * IN), *y = numbers(ROWS * OUT);
        void *packed = malloc(trf__int8_bytes(OUT, IN));
        trf__run run = run_of(TRF__INT8, 1, 0, trf__cpu_converted(TRF__INT8, ROWS, IN));
        trf__linear j;
        int i, c;
        assert_non_null(packed);
        x[0 * IN + 3] = inf;
        x[1 * IN + 3] = -inf;
        x[2 * IN + 19] = nan;
        for (i = 0; i < IN; i++) x[3 * IN + i] = 0;
        for (i = 0; i < IN; i++) x[4 * IN + i] = (trf_real)1e-36;
        for (i = 0; i < IN; i++) x[5 * IN + i] = i == 7 ? (trf_real)3e38 : 1;
        for (c = 0; c < OUT; c++) w[c * IN + 7] = (trf_real)0.5;    /* which does not round to 0 */
        w[2 * IN] = nan;
        w[17 * IN + 5] = inf;
        for (i = 0; i < IN; i++) w[4 * IN + i] = 0;
        trf__int8_pack(packed, w, 0, OUT, IN);
        TRF__ZERO(j);
        j.x = (const trf__act *)(const void *)x; j.y = (trf__act *)(void *)y;
        j.w.packed = packed; j.w.format = TRF__INT8;
        j.rows = ROWS; j.in = IN; j.out = OUT;
        run.backend->linear(&run, &j);
        for (i = 0; i < ROWS; i++)
            for (c = 0; c < OUT; c++) {
                trf_real got = y[i * OUT + c];
                if (i < 3 || c == 2 || c == 17) assert_true(got != got);
                else if (i == 3 || i == 4 || c == 4) assert_true(got == 0);
                else assert_true(trf__is_finite((double)got) && got != 0);
            }
        run.backend->close(&run);
        free(x); free(w); free(y); free(packed);
    }
}

static void same_bits(void **state)
{
    int n, kernel;
    (void)state;
    for (n = 0; n < MODELS; n++) {
        trf_config config = nth_config(n);
        trf_model *model = NULL;
        uint64_t wanted;
        OK(trf_model_create(&model, &config, NULL, &err));
        wanted = answers(model, TRF_WEIGHTS_INT8, 1, NULL, NULL);
        assert_true(wanted != answers(model, TRF_WEIGHTS_FULL, 1, NULL, NULL));
        EACH_KERNEL(kernel) {
            long begun = tiles_begun;
            if (answers(model, TRF_WEIGHTS_INT8, 1 + kernel, NULL, NULL) != wanted)
                fail_msg("variant %d, d_model %d: %s gives other answers", n / 3,
                         (int)config.d_model, trf__int8_chosen(1)->name);
            if (kernel < KERNELS)
                assert_int_equal(tiles_begun > begun, trf__int8_chosen(1)->tiles);
        }
        trf_model_destroy(model);
    }
}

static void near_the_floats(void **state) { (void)state; assert_near(TRF_WEIGHTS_INT8, 0.999); }

/* Three bytes of four, but for scales, sums and converted activations. */
static void memory_is_as_planned(void **state)
{
    (void)state;
    assert_planned(TRF_WEIGHTS_INT8, 2.5);
}

/* More states at once than any batch has rows: each row as if it were alone. */
static void many_states(void **state)
{
    enum { ROWS = 3000 };
    trf_config config = config_of(0, 64);
    trf_search search = trf_search_defaults();
    trf_real *x = numbers(ROWS * 64), *all = numbers(ROWS * VOCAB), one[VOCAB];
    trf_tensor states = trf_tensor_of(x, 2, ROWS, 64, 1), logits = trf_tensor_of(all, 2, ROWS, VOCAB, 1);
    trf_model *model = NULL;
    trf_translator *t = NULL;
    int i;
    (void)state;
    search.weights = TRF_WEIGHTS_INT8;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_translator_create(&t, model, &search, &err));
    OK(kit_project(t, &states, &logits, &err));
    logits = trf_tensor_of(one, 2, 1, VOCAB, 1);
    for (i = 0; i < ROWS; i += 7) {
        states = trf_tensor_of(x + i * 64, 2, 1, 64, 1);
        OK(kit_project(t, &states, &logits, &err));
        assert_memory_equal(one, all + i * VOCAB, sizeof one);
    }
    trf_translator_destroy(t);
    trf_model_destroy(model);
    free(x);
    free(all);
}

/* A tied embedding reads the rounded numbers: a model whose embedding was rounded before gives the
   same states. */
static void tied_embeddings_are_rounded(void **state)
{
    static trf_real states[2][MOST];
    trf_config config = config_of(2, 64);
    trf_batch batch = kit_fill(&data, SENTENCES, 9, 9, VOCAB, 5);
    trf_search search = trf_search_defaults();
    trf_model *model = NULL;
    trf_translator *t = NULL;
    trf_tensor out, embedding;
    double most = 0;
    int64_t n, i, c;
    int rounded;
    (void)state;
    search.weights = TRF_WEIGHTS_INT8;
    OK(trf_model_create(&model, &config, NULL, &err));
    n = kit_source_rows(model, &batch.source) * 64;
    for (rounded = 0; rounded < 2; rounded++) {
        if (rounded) {
            trf_real *floats;
            void *packed = malloc(trf__int8_bytes(VOCAB, 64));
            assert_non_null(packed);
            embedding = kit_open(trf_model_parameter(model, 0));
            assert_true(embedding.shape[0] == VOCAB && embedding.shape[1] == 64);
            floats = embedding.data;
            trf__int8_pack(packed, floats, 0, VOCAB, 64);
            for (i = 0; i < VOCAB; i++)
                for (c = 0; c < 64; c += 16)
                    trf__store(floats + i * 64 + c, trf__int8_read(packed, i, c, 64));
            kit_close(&embedding);
            free(packed);
        }
        out = trf_tensor_of(states[rounded], 2, n / 64, 64, 1);
        OK(trf_translator_create(&t, model, &search, &err));
        OK(kit_encode(t, &batch.source, &out, &err));
        trf_translator_destroy(t);
    }
    for (i = 0; i < n; i++) {
        double d = fabs((double)states[0][i] - (double)states[1][i]);
        if (d > most) most = d;
    }
    if (!(most < 1e-4)) fail_msg("states differ by %g", most);
    trf_model_destroy(model);
}

/* Rows of the largest planned batch fit, converted, into the scratch that all threads share. */
static void converted_rows_fit(void **state)
{
    trf_config config = config_of(0, 64);
    trf_search search = trf_search_defaults();
    trf_model *model = NULL;
    trf_translator *t = NULL;
    (void)state;
    search.weights = TRF_WEIGHTS_INT8;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_translator_create(&t, model, &search, &err));
    assert_true(trf__cpu_of(&t->reader.pass.run)->work_bytes >=
                trf__cpu_converted(TRF__INT8, trf__max64(t->reader.pass.plan.limits.source_rows,
                                                         t->reader.pass.plan.limits.target_rows),
                                   config.d_ff));
    trf_translator_destroy(t);
    trf_model_destroy(model);
}

static void memory_ends(void **state)
{
    trf_config config = config_of(2, 20);
    trf_search search = trf_search_defaults();
    kit_memory memory;
    trf_model *model = NULL;
    trf_translator *t = NULL;
    (void)state;
    memset(&memory, 0, sizeof memory);
    search.hooks = kit_hooks(&memory);
    search.weights = TRF_WEIGHTS_INT8;
    OK(trf_model_create(&model, &config, NULL, &err));
    ALLOCATIONS_FAIL(memory, 5, trf_translator_create(&t, model, &search, &err), !t);
    trf_translator_destroy(t);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

static void refusals(void **state)
{
    size_t bytes;
    trf_config config = config_of(1, 16), wide = config_of(0, 8);
    trf_search search = trf_search_defaults();
    trf_sampling sampling = trf_sampling_defaults();
    trf_model *model = NULL;
    trf_translator *t = NULL;
    trf_sampler *sampler = NULL;
    int i;
    (void)state;
    for (i = -1; i <= 4; i++) {
        int good = i == TRF_WEIGHTS_FULL || i == TRF_WEIGHTS_BF16 || i == TRF_WEIGHTS_INT8;
        search.weights = sampling.weights = (trf_weights)i;
        FAILS(good ? TRF_OK : TRF_E_INVALID_ARG, trf_search_check(&search, NULL, &err));
        FAILS(good ? TRF_OK : TRF_E_INVALID_ARG, trf__sampling_check(&sampling, NULL, &err));
        if (!good) assert_true(err.message[0] && !strcmp(err.what, "weights"));
    }
    search.weights = sampling.weights = TRF_WEIGHTS_INT8;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_model_pack(model, TRF_WEIGHTS_FULL, &err));
    FAILS(TRF_E_STATE, trf_translator_create(&t, model, &search, &err));
    FAILS(TRF_E_STATE, trf_sampler_create(&sampler, model, &sampling, &err));
    assert_true(!t && !sampler);
    trf_model_destroy(model);
    wide.encoder_layers = wide.decoder_layers = 1;
    for (i = 0; i < 2; i++) {
        wide.d_ff = i ? 8 : TRF__INT8_DEEPEST + 1;
        if (i) wide.d_head = TRF__INT8_DEEPEST / wide.n_heads + 16;
        OK(trf_model_create(&model, &wide, NULL, &err));
        FAILS(TRF_E_UNSUPPORTED, trf_translator_create(&t, model, &search, &err));
        FAILS(TRF_E_UNSUPPORTED,
              kit_save_memory(model, TRF_WEIGHTS_INT8, NULL, 0, &bytes, &err));
        trf_model_destroy(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_exact),        cmocka_unit_test(longest_sum),
#if !defined(TRF__TEST_BACKEND)             /* these call an op with memory of the host */
        cmocka_unit_test(products_by_the_formula),  cmocka_unit_test(rows_that_are_not_finite),
#endif
        cmocka_unit_test(rounding),                 cmocka_unit_test(same_bits),
        cmocka_unit_test(near_the_floats),          cmocka_unit_test(memory_is_as_planned),
        cmocka_unit_test(many_states),              cmocka_unit_test(memory_ends),
        cmocka_unit_test(refusals),                 cmocka_unit_test(converted_rows_fit),
        cmocka_unit_test(tied_embeddings_are_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

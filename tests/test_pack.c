/* build: shared double:shared separate:shared plain:shared */
/* A packed model: the same answers, bit for bit, from half the memory or less; refused where floats
   are needed; whole or unchanged when memory ends. */
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

/* The formats of products; a double build has the first. */
enum { KINDS = sizeof(trf_real) == 8 ? 1 : 3 };
static const trf_weights kinds[] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};

static void same_answers(void **state)
{
    int n, kind;
    (void)state;
    for (n = 0; n < MODELS; n++)
        for (kind = 0; kind < KINDS; kind++) {
            const trf_weights weights = kinds[kind];
            trf_config config = nth_config(n);
            trf_model *model = NULL;
            uint64_t before;
            int32_t i, matrices = 0;
            OK(trf_model_create(&model, &config, NULL, &err));
            before = answers(model, weights, 0, NULL, NULL);
            OK(trf_model_pack(model, weights, &err));
            OK(trf_model_pack(model, weights, &err));
            if (answers(model, weights, 0, NULL, NULL) != before ||
                answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL) != before)
                fail_msg("weights %d, variant %d, d_model %d: other answers", (int)weights,
                         n / 3, (int)config.d_model);
            if (KINDS > 1) FAILS(TRF_E_STATE, trf_model_pack(model, kinds[kind == 1 ? 2 : 1], &err));
            for (i = 0; i < trf_model_parameter_count(model); i++) {
                trf_tensor p = trf_model_parameter(model, i);
                trf_real one;
                matrices += !p.data && !p.device;
                if (p.data || p.device) continue;
                assert_int_equal(p.rank, 2);
                assert_true(trf_tensor_count(&p) > 0);
                FAILS(TRF_E_INVALID_ARG, trf_tensor_read(&p, &one, trf_tensor_count(&p), &err));
            }
            assert_true(matrices >= 8);
            trf_model_destroy(model);
        }
}

/* More rows than packed weights are read for where CBLAS is there: floats would be read, and there
   are none. */
static void many_rows(void **state)
{
    enum { LONG = 38, COUNT = 20 };
    static const int32_t variants[] = {0, 1, 2, 4, 5};
    size_t v;
    (void)state;
    for (v = 0; v < sizeof variants / sizeof *variants; v++) {
        trf_config config = config_of(variants[v], 32);
        trf_batch batch = kit_fill(&data, COUNT, LONG, LONG, VOCAB, 5);
        trf_model *model = NULL;
        trf_real *numbers[2];
        int64_t rows, i;
        int packed;
        config.device.products = kit_cblas_serves() ? TRF_PRODUCTS_CBLAS : TRF_PRODUCTS_BUILT_IN;
        OK(trf_model_create(&model, &config, NULL, &err));
        if (config.kind == TRF_DECODER_ONLY) batch.source.count = 0;
        rows = kit_target_rows(model, &batch.target);
        assert_true(rows > 512);
        for (packed = 0; packed < 2; packed++) {
            trf_translator *t = NULL;
            trf_tensor out;
            numbers[packed] = (trf_real *)malloc((size_t)(rows * VOCAB) * sizeof(trf_real));
            assert_non_null(numbers[packed]);
            out = trf_tensor_of(numbers[packed], 2, rows, VOCAB, 1);
            if (packed) OK(trf_model_pack(model, TRF_WEIGHTS_FULL, &err));
            OK(trf_translator_create(&t, model, NULL, &err));
            OK(kit_logits(t, &batch, &out, &err));
            trf_translator_destroy(t);
        }
        for (i = 0; i < rows * VOCAB; i++)
            assert_true(fabs((double)numbers[0][i] - (double)numbers[1][i]) < 1e-3);
        free(numbers[0]);
        free(numbers[1]);
        trf_model_destroy(model);
    }
}

/* Model and translator together, by the bytes that the hooks have given: the floats of matrices are
   gone, and small formats have a half or a quarter of their bytes. */
static void less_memory(void **state)
{
    static const double left[] = {1, 0.51, 0.27};
    int k;
    (void)state;
    for (k = 0; k < KINDS; k++) {
        trf_config config = config_of(0, 64);
        kit_memory memory;
        trf_search search = trf_search_defaults();
        trf_model *model = NULL;
        trf_translator *t = NULL;
        int64_t floats, packed, matrices = 0;
        int32_t i;
        memset(&memory, 0, sizeof memory);
        config.d_ff = 2048;
        config.hooks = kit_hooks(&memory);
        search.hooks = config.hooks;
        search.max_tokens = search.max_sentences = 8;       /* little else than weights */
        OK(trf_model_create(&model, &config, NULL, &err));
        for (i = 0; i < trf_model_parameter_count(model); i++) {
            trf_tensor p = trf_model_parameter(model, i);
            if (p.rank == 2 && !strstr(p.name, "embed")) matrices += trf_tensor_count(&p);
        }
        OK(trf_translator_create(&t, model, &search, &err));
        floats = memory.live;
        trf_translator_destroy(t);
        OK(trf_model_pack(model, kinds[k], &err));
        OK(trf_translator_create(&t, model, &search, &err));
        packed = memory.live;
        if (!((double)(floats - packed) >= (2 - left[k]) * (double)matrices * sizeof(trf_real)))
            fail_msg("weights %d: %d bytes, then %d", (int)kinds[k], (int)floats, (int)packed);
        trf_translator_destroy(t);
        trf_model_destroy(model);
        assert_int_equal(memory.live, 0);
    }
}

static void refusals(void **state)
{
    trf_config config = config_of(1, 16);
    trf_model *model = NULL, *plain = NULL, *copy = NULL, *both[2];
    trf_train_options training = kit_training();
    trf_search search = trf_search_defaults();
    trf_translator *t = NULL;
    trf_trainer *trainer = NULL;
    int32_t copied;
    (void)state;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_model_create(&plain, &config, NULL, &err));
    search.weights = TRF_WEIGHTS_INT8;              /* floats alone are rounded to 8 bits */
    FAILS(sizeof(trf_real) == 8 ? TRF_E_UNSUPPORTED : TRF_OK,
          trf_translator_create(&t, plain, &search, &err));
    trf_translator_destroy(t);
    OK(trf_model_pack(model, TRF_WEIGHTS_FULL, &err));
    both[0] = plain; both[1] = model;
    FAILS(TRF_E_STATE, trf_model_copy(&copy, model, &err));
    assert_null(copy);
    FAILS(TRF_E_STATE, trf_model_average(plain, both, 2, &err));
    FAILS(TRF_E_STATE, trf_model_average(model, both, 1, &err));
    FAILS(TRF_E_STATE, trf_model_copy_weights(plain, model, &copied, &err));
    FAILS(TRF_E_STATE, trf_model_copy_weights(model, plain, &copied, &err));
    FAILS(TRF_E_STATE, trf_trainer_create(&trainer, model, &training, &err));
    assert_null(trainer);
    FAILS(TRF_E_INVALID_ARG, trf_model_pack(NULL, TRF_WEIGHTS_FULL, &err));
    trf_model_destroy(model);
    trf_model_destroy(plain);
}

/* Each allocation fails in turn: the model answers as before, and nothing is lost. */
static void memory_ends(void **state)
{
    trf_config config = config_of(2, 20);
    kit_memory memory;
    trf_model *model = NULL;
    uint64_t before;
    (void)state;
    memset(&memory, 0, sizeof memory);
    config.hooks = kit_hooks(&memory);
    OK(trf_model_create(&model, &config, NULL, &err));
    before = answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL);
    ALLOCATIONS_FAIL(memory, 5, trf_model_pack(model, TRF_WEIGHTS_FULL, &err),
                     answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL) == before);
    assert_true(answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL) == before);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_answers),    cmocka_unit_test(many_rows),
        cmocka_unit_test(less_memory), cmocka_unit_test(refusals),
        cmocka_unit_test(memory_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A packed model: the same answers, bit for bit, from half the memory; refused where floats are
   needed; whole or unchanged when memory ends. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kit.h"

enum { VOCAB = 37, LABELS = 5, SENTENCES = 9 };

static trf_error err;
#define OK(call) \
    do { \
        if ((call) != TRF_OK) fail_msg("line %d: %s", __LINE__, err.message); \
    } while (0)
#define FAILS(status, call) assert_int_equal((call), (status))

static trf_config config_of(int variant, int32_t d_model)
{
    trf_config c = kit_config();
    c.d_model = d_model;
    c.d_ff = 2 * d_model + 3;
    c.n_heads = 4;
    c.encoder_layers = c.decoder_layers = 2;
    c.source_vocab = c.target_vocab = VOCAB;
    c.max_length = 40;
    switch (variant) {
    case 0: c.tying = TRF_UNTIED; break;
    case 1: c.tying = TRF_TIED_DECODER; c.norm_place = TRF_PRE_NORM; break;
    case 2: c.tying = TRF_TIED_ALL; c.positions = TRF_POSITIONS_LEARNED; break;
    case 3: c.tying = TRF_TIED_EMBEDDINGS; c.generator_bias = 0; c.norm_rule = TRF_NORM_RMS; break;
    case 4: c.kind = TRF_DECODER_ONLY; c.encoder_layers = 0; c.tying = TRF_TIED_DECODER; break;
    case 5: c.kind = TRF_DECODER_ONLY; c.encoder_layers = 0; c.tying = TRF_UNTIED; break;
    case 6:
        c.kind = TRF_ENCODER_ONLY;
        c.decoder_layers = 0;
        c.tying = TRF_UNTIED;
        c.head = TRF_HEAD_MEAN;
        break;
    case 7:
        c.kind = TRF_ENCODER_ONLY;
        c.decoder_layers = 0;
        c.tying = TRF_UNTIED;
        c.head = TRF_HEAD_MASKED;
        break;
    default: c.kind = TRF_ENCODER_ONLY; c.decoder_layers = 0; c.tying = TRF_UNTIED; break;
    }
    if (c.head == TRF_HEAD_MEAN) c.n_labels = LABELS;
    return c;
}
enum { VARIANTS = 9 };

static kit_pairs data;

/* A hash of all that a model answers. */
static uint64_t answers(const trf_model *model)
{
    const trf_config *c = &model->config;
    trf_batch batch = kit_fill(&data, SENTENCES, 1, 9, VOCAB, 5);
    trf_search search = trf_search_defaults();
    trf_sampling sampling = trf_sampling_defaults();
    trf_translator *t = NULL;
    trf_sampler *sampler = NULL;
    double scores[SENTENCES];
    uint64_t hash = HASH_START;
    int64_t rows = trf_source_rows(model, &batch.source);
    trf_real *room = (trf_real *)calloc(4096 * VOCAB, sizeof *room);
    trf_tensor out;
    int32_t i;
    assert_non_null(room);
    search.max_length_b = 12;
    search.beam = 3;
    sampling.max_tokens = 10;
    OK(trf_translator_create(&t, model, &search, &err));
    if (c->kind != TRF_DECODER_ONLY) {
        out = trf_tensor_of(room, 2, rows, c->d_model, 1);
        OK(trf_encode(t, &batch.source, &out, &err));
        hash = hash_bytes(hash, room, (size_t)(rows * c->d_model) * sizeof *room);
    }
    if (c->head == TRF_HEAD_MEAN) {
        out = trf_tensor_of(room, 2, SENTENCES, LABELS, 1);
        OK(trf_classify(t, &batch.source, &out, &err));
        hash = hash_bytes(hash, room, SENTENCES * LABELS * sizeof *room);
    }
    if (c->head == TRF_HEAD_MASKED) {
        out = trf_tensor_of(room, 2, rows, VOCAB, 1);
        OK(trf_logits(t, &batch, &out, &err));
        hash = hash_bytes(hash, room, (size_t)trf_tensor_count(&out) * sizeof *room);
    }
    if (c->kind != TRF_ENCODER_ONLY) {
        OK(trf_translate_batch(t, c->kind == TRF_DECODER_ONLY ? &batch.target : &batch.source,
                               &err));
        hash = hash_answers(hash, t, SENTENCES);
        if (c->kind == TRF_DECODER_ONLY) batch.source.count = 0;
        OK(trf_score(t, &batch, scores, &err));
        hash = hash_bytes(hash, scores, sizeof scores);
        OK(trf_sampler_create(&sampler, model, &sampling, &err));
        OK(trf_sampler_begin(sampler, &batch, &err));
        OK(trf_sampler_step(sampler, 20, NULL, &err));
        for (i = 0; i < SENTENCES; i++) {
            const trf_hypothesis *h = trf_sampler_at(sampler, i);
            hash = hash_bytes(hash, h->ids, (size_t)h->n * sizeof *h->ids);
            hash = hash_bytes(hash, &h->log_probability, sizeof h->log_probability);
        }
    }
    trf_sampler_destroy(sampler);
    trf_translator_destroy(t);
    free(room);
    return hash;
}

static void same_answers(void **state)
{
    static const int32_t widths[] = {16, 20, 64};       /* 20: keys begin inside a panel */
    int variant, w;
    (void)state;
    for (variant = 0; variant < VARIANTS; variant++)
        for (w = 0; w < 3; w++) {
            trf_config config = config_of(variant, widths[w]);
            trf_model *model = NULL;
            uint64_t before;
            int32_t i, matrices = 0;
            config.device.products = TRF_PRODUCTS_BUILT_IN;
            OK(trf_model_create(&model, &config, &err));
            before = answers(model);
            OK(trf_model_pack(model, &err));
            OK(trf_model_pack(model, &err));
            if (answers(model) != before)
                fail_msg("variant %d, d_model %d: other answers", variant, (int)widths[w]);
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
        OK(trf_model_create(&model, &config, &err));
        if (config.kind == TRF_DECODER_ONLY) batch.source.count = 0;
        rows = trf_target_rows(model, &batch.target);
        assert_true(rows > 512);
        for (packed = 0; packed < 2; packed++) {
            trf_translator *t = NULL;
            trf_tensor out;
            numbers[packed] = (trf_real *)malloc((size_t)(rows * VOCAB) * sizeof(trf_real));
            assert_non_null(numbers[packed]);
            out = trf_tensor_of(numbers[packed], 2, rows, VOCAB, 1);
            if (packed) OK(trf_model_pack(model, &err));
            OK(trf_translator_create(&t, model, NULL, &err));
            OK(trf_logits(t, &batch, &out, &err));
            trf_translator_destroy(t);
        }
        for (i = 0; i < rows * VOCAB; i++)
            assert_true(fabs((double)numbers[0][i] - (double)numbers[1][i]) < 1e-3);
        free(numbers[0]);
        free(numbers[1]);
        trf_model_destroy(model);
    }
}

/* Model and translator together, by the bytes that the hooks have given. */
static void half_the_memory(void **state)
{
    trf_config config = config_of(0, 64);
    kit_memory memory;
    trf_search search = trf_search_defaults();
    trf_model *model = NULL;
    trf_translator *t = NULL;
    int64_t floats, packed, matrices = 0;
    int32_t i;
    (void)state;
    memset(&memory, 0, sizeof memory);
    config.d_ff = 2048;
    config.hooks = kit_hooks(&memory);
    search.hooks = config.hooks;
    OK(trf_model_create(&model, &config, &err));
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor p = trf_model_parameter(model, i);
        if (p.rank == 2 && !strstr(p.name, "embed")) matrices += trf_tensor_count(&p);
    }
    OK(trf_translator_create(&t, model, &search, &err));
    floats = memory.live;
    trf_translator_destroy(t);
    OK(trf_model_pack(model, &err));
    OK(trf_translator_create(&t, model, &search, &err));
    packed = memory.live;
    assert_true(floats - packed >= matrices * (int64_t)sizeof(trf_real));
    trf_translator_destroy(t);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

static void refusals(void **state)
{
    trf_config config = config_of(1, 16);
    trf_model *model = NULL, *plain = NULL, *copy = NULL, *both[2];
    trf_train_options training = kit_training();
    trf_trainer *trainer = NULL;
    int32_t copied;
    size_t bytes;
    (void)state;
    OK(trf_model_create(&model, &config, &err));
    OK(trf_model_create(&plain, &config, &err));
    OK(trf_model_pack(model, &err));
    both[0] = plain; both[1] = model;
    FAILS(TRF_E_STATE, trf_model_copy(&copy, model, &err));
    assert_null(copy);
    FAILS(TRF_E_STATE, trf_model_average(plain, both, 2, &err));
    FAILS(TRF_E_STATE, trf_model_average(model, both, 1, &err));
    FAILS(TRF_E_STATE, trf_model_copy_weights(plain, model, &copied, &err));
    FAILS(TRF_E_STATE, trf_model_copy_weights(model, plain, &copied, &err));
    FAILS(TRF_E_STATE, trf_model_save(model, "packed.safetensors", &err));
    FAILS(TRF_E_STATE, trf_model_save_memory(model, TRF_WEIGHTS_FULL, NULL, 0, &bytes, &err));
    FAILS(TRF_E_STATE, trf_trainer_create(&trainer, model, &training, &err));
    assert_null(trainer);
    FAILS(TRF_E_INVALID_ARG, trf_model_pack(NULL, &err));
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
    int64_t bytes;
    int k, done = 0;
    (void)state;
    memset(&memory, 0, sizeof memory);
    config.hooks = kit_hooks(&memory);
    config.device.products = TRF_PRODUCTS_BUILT_IN;
    OK(trf_model_create(&model, &config, &err));
    before = answers(model);
    bytes = memory.live;
    for (k = 1; !done; k++) {
        trf_status status;
        memory.fail_at = memory.calls + k;
        status = trf_model_pack(model, &err);
        memory.fail_at = 0;
        done = status == TRF_OK;
        if (done) break;
        assert_int_equal(status, TRF_E_NOMEM);
        assert_int_equal(memory.live, bytes);
        assert_true(answers(model) == before);
    }
    assert_true(k > 5);
    assert_true(answers(model) == before);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_answers),    cmocka_unit_test(many_rows),
        cmocka_unit_test(half_the_memory), cmocka_unit_test(refusals),
        cmocka_unit_test(memory_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

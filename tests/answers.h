/* Small models of every kind, and a hash of all that one answers: for suites that keep weights in
   other forms. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include "kit.h"

/* Whether names of the AVX-512 level end as those of the flags: they end in _avx512 where the flags
   lack it. */
#define OWN_LEVEL (TRF__WIDEST == 64)

enum { VOCAB = 37, LABELS = 5, SENTENCES = 9, MOST = 4096 * VOCAB };

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
    /* wide models have rows that are kept converted */
    c.d_ff = 2 * d_model + (d_model % 32 ? 3 : 0);
    c.n_heads = d_model % 32 ? 4 : 2;
    c.encoder_layers = c.decoder_layers = 2;
    c.source_vocab = c.target_vocab = VOCAB;
    c.max_length = 40;
    c.device.products = TRF_PRODUCTS_BUILT_IN;
    switch (variant) {
    case 0: c.tying = TRF_UNTIED; break;
    case 1: c.tying = TRF_TIED_DECODER; c.norm_place = TRF_PRE_NORM; break;
    case 2: c.tying = TRF_TIED_ALL; c.positions = TRF_POSITIONS_LEARNED; c.embedding_norm = 1; break;
    case 3:
        c.tying = TRF_TIED_EMBEDDINGS;
        c.generator_bias = 0;
        c.norm_rule = TRF_NORM_RMS;
        c.positions = TRF_POSITIONS_RELATIVE;
        c.scale_logits = 1;
        break;
    case 4: c.kind = TRF_DECODER_ONLY; c.encoder_layers = 0; c.tying = TRF_TIED_DECODER; break;
    case 5:
        c.kind = TRF_DECODER_ONLY;
        c.encoder_layers = 0;
        c.tying = TRF_UNTIED;
        c.activation = TRF_SILU;
        c.feed_forward_gate = 1;
        c.positions = TRF_POSITIONS_ROTARY;
        c.kv_heads = 2;
        c.d_head = d_model % 32 ? 6 : 32;
        break;
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
        c.head_layer = 1;
        c.sequence_labels = 3;
        c.segments = 2;
        break;
    default: c.kind = TRF_ENCODER_ONLY; c.decoder_layers = 0; c.tying = TRF_UNTIED; break;
    }
    if (c.head == TRF_HEAD_MEAN) c.n_labels = LABELS;
    return c;
}
enum { VARIANTS = 9, MODELS = 3 * VARIANTS };

/* A batch of a model's kind: labels for heads. */
static KIT_UNUSED trf_batch batch_for(const trf_config *c, kit_pairs *p, int32_t count, uint64_t seed)
{
    trf_batch b = kit_fill(p, count, 1, 9, VOCAB, seed);
    int32_t i;
    if (c->kind == TRF_DECODER_ONLY) b.source.count = 0;
    if (c->head == TRF_HEAD_MEAN)
        for (i = 0; i < count; i++) { p->target_lengths[i] = 1; p->target[i] %= LABELS; }
    if (c->head == TRF_HEAD_MASKED) {
        int32_t k, from = 0, to = 0;            /* the sequence's label, then the ids themselves */
        for (i = 0; i < count; i++) {
            p->target_lengths[i] = p->source_lengths[i] + 1;
            p->target[to++] = i % (c->sequence_labels + 1) - 1;
            for (k = 0; k < p->source_lengths[i]; k++) p->target[to++] = p->source[from++];
        }
    }
    return b;
}

/* Each variant in three widths, n = 0 .. MODELS - 1; in the second, keys begin inside a panel. */
static KIT_UNUSED trf_config nth_config(int n)
{
    static const int32_t widths[] = {16, 20, 64};
    return config_of(n / 3, widths[n % 3]);
}

/* Makes a call fail at its first allocation, at its second, ..., until it succeeds. Each time it
   must fail with TRF_E_NOMEM and lose nothing, and `also` must hold. */
#define ALLOCATIONS_FAIL(memory, least, call, also) \
    do { \
        const int64_t live = (memory).live; \
        int nth = 0; \
        trf_status status = TRF_E_NOMEM; \
        while (status != TRF_OK) { \
            (memory).fail_at = (memory).calls + ++nth; \
            status = (call); \
            (memory).fail_at = 0; \
            if (status == TRF_OK) break; \
            assert_int_equal(status, TRF_E_NOMEM); \
            assert_int_equal((memory).live, live); \
            assert_true(also); \
        } \
        assert_true(nth > (least)); \
    } while (0)

static kit_pairs data;

/* A hash of all that a model answers. values (may be NULL): its n hidden states, labels or
   logits. */
static uint64_t answers(const trf_model *model, trf_weights weights, int32_t threads,
                        trf_real *values, int64_t *n)
{
    const trf_config *c = &model->config;
    trf_batch batch = kit_fill(&data, SENTENCES, 1, 9, VOCAB, 5);
    trf_search search = trf_search_defaults();
    trf_sampling sampling = trf_sampling_defaults();
    trf_translator *t = NULL;
    trf_sampler *sampler = NULL;
    double scores[SENTENCES];
    uint64_t hash = HASH_START;
    int64_t rows = kit_source_rows(model, &batch.source);
    trf_real *y = (trf_real *)calloc(MOST, sizeof *y);
    trf_tensor out = trf_tensor_of(y, 2, rows, c->d_model, 1);
    int32_t i;
    assert_non_null(y);
    search.max_length_b = 12;
    search.beam = 3;
    search.threads = sampling.threads = threads;
    search.weights = sampling.weights = weights;
    sampling.max_tokens = 10;
    OK(trf_translator_create(&t, model, &search, &err));
    if (c->kind != TRF_DECODER_ONLY) {
        OK(kit_encode(t, &batch.source, &out, &err));
        hash = hash_bytes(hash, y, (size_t)(rows * c->d_model) * sizeof *y);
    }
    if (c->head == TRF_HEAD_MEAN) {
        out = trf_tensor_of(y, 2, SENTENCES, LABELS, 1);
        OK(trf_reader_classify(trf_translator_reader(t), &batch.source, &out, &err));
    } else if (c->head == TRF_HEAD_MASKED || c->kind != TRF_ENCODER_ONLY) {
        if (c->kind == TRF_DECODER_ONLY) batch.source.count = 0;
        out = trf_tensor_of(y, 2, c->head ? rows : kit_target_rows(model, &batch.target), VOCAB, 1);
        OK(kit_logits(t, &batch, &out, &err));
    }
    hash = hash_bytes(hash, y, (size_t)trf_tensor_count(&out) * sizeof *y);
    if (c->sequence_labels) {
        trf_real of_sequences[SENTENCES * 3];
        trf_tensor labels = trf_tensor_of(of_sequences, 2, SENTENCES, c->sequence_labels, 1);
        OK(trf_reader_classify(trf_translator_reader(t), &batch.source, &labels, &err));
        hash = hash_bytes(hash, of_sequences, sizeof of_sequences);
    }
    for (i = 0; values && i < (int32_t)trf_tensor_count(&out); i++) values[i] = y[i];
    if (values) *n = trf_tensor_count(&out);
    if (c->kind != TRF_ENCODER_ONLY) {
        OK(trf_translate(t, c->kind == TRF_DECODER_ONLY ? &batch.target : &batch.source, NULL, &err));
        hash = hash_answers(hash, t, SENTENCES);
        OK(trf_reader_score(trf_translator_reader(t), &batch, NULL, scores, &err));
        hash = hash_bytes(hash, scores, sizeof scores);
        OK(trf_sampler_create(&sampler, model, &sampling, &err));
        OK(trf_sampler_begin(sampler, &batch, &err));
        OK(trf_sampler_step(sampler, 20, NULL, &err));
        for (i = 0; i < SENTENCES; i++) {
            const trf_hypothesis *h = trf_sampler_answer(sampler, i);
            hash = hash_bytes(hash, h->ids, (size_t)h->n * sizeof *h->ids);
            hash = hash_bytes(hash, &h->log_probability, sizeof h->log_probability);
        }
    }
    trf_sampler_destroy(sampler);
    trf_translator_destroy(t);
    free(y);
    return hash;
}

/* What models of every kind answer is near what floats give, and has other bits. */
static KIT_UNUSED void assert_near(trf_weights weights, double cosine)
{
    static trf_real full[MOST], small[MOST];
    int variant;
    for (variant = 0; variant < VARIANTS; variant++) {
        trf_config config = config_of(variant, 64);
        trf_model *model = NULL;
        double both = 0, ours = 0, theirs = 0;
        int64_t n, i;
        OK(trf_model_create(&model, &config, NULL, &err));
        answers(model, TRF_WEIGHTS_FULL, 1, full, &n);
        answers(model, weights, 1, small, &n);
        for (i = 0; i < n; i++) {
            both += (double)full[i] * (double)small[i];
            ours += (double)small[i] * (double)small[i];
            theirs += (double)full[i] * (double)full[i];
        }
        if (!(both / sqrt(ours * theirs) > cosine) || !memcmp(full, small, (size_t)n * sizeof *full))
            fail_msg("variant %d: cosine %g", variant, both / sqrt(ours * theirs));
        trf_model_destroy(model);
    }
}

/* A translator takes what trf_translator_memory says, and for each weight so many bytes less than
   with floats. */
static KIT_UNUSED void assert_planned(trf_weights weights, double less)
{
    trf_config config = config_of(1, 64);
    trf_search search = trf_search_defaults();
    trf_batch batch = kit_fill(&data, SENTENCES, 9, 9, VOCAB, 5);
    kit_memory memory;
    trf_model *model = NULL;
    trf_translator *t = NULL;
    int64_t live[2];
    double told;
    int small;
    memset(&memory, 0, sizeof memory);
    config.d_ff = 2048;
    search.hooks = kit_hooks(&memory);
    search.max_length_a = 0;
    search.max_length_b = 12;
    search.max_tokens = 128;
    OK(trf_model_create(&model, &config, NULL, &err));
    for (small = 0; small < 2; small++) {
        search.weights = small ? weights : TRF_WEIGHTS_FULL;
        memory.peak = 0;
        OK(trf_translator_create(&t, model, &search, &err));
        live[small] = memory.live;
        OK(trf_translate(t, &batch.source, NULL, &err));
        told = (double)trf_translator_memory(&config, &search, SENTENCES, 9, NULL);
        assert_true(told >= (double)memory.peak && told <= 1.01 * (double)memory.peak);
        trf_translator_destroy(t);
        assert_int_equal(memory.live, 0);
    }
    assert_true((double)(live[0] - live[1]) > less * (double)trf_model_parameter_total(model));
    trf_model_destroy(model);
}

/* All gradients of a batch, and its loss. */
typedef struct gradients { trf_real *all; int64_t n; double loss; } gradients;

static KIT_UNUSED gradients gradients_of(const trf_config *model_config, int32_t sentences,
                                         int32_t threads, int32_t recompute)
{
    trf_config config = *model_config;
    trf_train_options options = kit_training();
    trf_batch batch = kit_fill(&data, sentences, 1, 9, VOCAB, 5);
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    gradients g = {NULL, 0, 0};
    int32_t i;
    config.device.threads = threads;
    if (config.kind == TRF_DECODER_ONLY) batch.source.count = 0;
    options.recompute = recompute;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &options, &err));
    OK(trf_trainer_forward_backward(trainer, &batch, &report, &err));
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor p = trf_trainer_tensor(trainer, TRF_GRADIENT, i);
        int64_t n = trf_tensor_count(&p);
        g.all = (trf_real *)realloc(g.all, (size_t)(g.n + n) * sizeof *g.all);
        assert_non_null(g.all);
        OK(trf_tensor_read(&p, g.all + g.n, n, &err));
        g.n += n;
    }
    g.loss = report.loss;
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return g;
}

static KIT_UNUSED void assert_gradients_near(const gradients *one, const gradients *full,
                                             double most, double most_loss, int variant)
{
    double difference = 0, norm = 0;
    int64_t i;
    assert_int_equal(one->n, full->n);
    for (i = 0; i < full->n; i++) {
        double d = (double)one->all[i] - (double)full->all[i];
        difference += d * d;
        norm += (double)full->all[i] * (double)full->all[i];
    }
    if (!(sqrt(difference / norm) < most) || !(fabs(one->loss / full->loss - 1) < most_loss))
        fail_msg("variant %d: gradients differ by %g, losses %g and %g", variant,
                 sqrt(difference / norm), one->loss, full->loss);
}

#endif

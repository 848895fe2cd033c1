/* build: O0 slow */
/* The seam between the model and the hardware: on a separate device (tests/separate_device.h)
   everything has the CPU's bits, crosses the seam as seldom as it should, and fails as it should;
   and that device does see who reaches past it. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define TRF_IMPLEMENTATION
#define TRF__TEST_BACKEND separate_backend
#include "transformer.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"
#include "folder.h"

enum { VOCAB = 40, D = 16, HEADS = 2, STEPS = 20 };

/* -----------------------------------------------------------------------------------------------
   Models to try, and what is done with them. */

static kit_pairs data;

enum { POST_TIED, PRE_LEARNED, DECODER_ONLY, UNTIED_GELU, VARIANTS };

static trf_config config_of(int variant)
{
    trf_config c = kit_small(2, D, VOCAB, 64);
    c.n_heads = HEADS;
    c.seed = 5;
    if (variant == POST_TIED) c.tying = TRF_TIED_ALL;
    if (variant == PRE_LEARNED) {
        c.norm_place = TRF_PRE_NORM;
        c.positions = TRF_POSITIONS_LEARNED;
    }
    if (variant == DECODER_ONLY) {
        c = kit_of_kind(c, TRF_DECODER_ONLY); c.tying = TRF_TIED_DECODER;
        c.positions = TRF_POSITIONS_ROTARY;
        c.scale_logits = 1;
    }
    if (variant == UNTIED_GELU) {
        c.activation = TRF_GELU;
        c.source_eos = 1;
        c.generator_bias = 0;
        c.embedding_norm = c.feed_forward_gate = 1;
        c.kv_heads = 1;
        c.positions = TRF_POSITIONS_RELATIVE;
        c.segments = 2;
    }
    return c;
}

static trf_train_options training_of(int threads)
{
    trf_train_options o = kit_small_training(0.1);
    o.clip_norm = 0.7;
    o.threads = threads;
    o.source_tokens = o.target_tokens = 64;
    o.sequences = 8;
    o.longest = 16;
    return o;
}

static trf_search search_of(int rule, int beam)
{
    trf_search s = trf_search_defaults();
    trf_search_set_rule(&s, (trf_search_rule)rule);
    s.beam = beam;
    s.n_best = beam < 2 ? beam : 2;
    s.max_length_a = 1; s.max_length_b = 5;
    s.max_sentences = 4;
    s.threads = 1;
    return s;
}

static trf_model *model_of(int variant)
{
    trf_config c = config_of(variant);
    trf_model *model = NULL;
    OK(trf_model_create(&model, &c, NULL, &err));
    return model;
}

static trf_trainer *trainer_of(trf_model *model, int threads)
{
    trf_train_options o = training_of(threads);
    trf_trainer *trainer = NULL;
    OK(trf_trainer_create(&trainer, model, &o, &err));
    return trainer;
}

static trf_translator *translator_of(const trf_model *model, int rule, int beam)
{
    trf_search s = search_of(rule, beam);
    trf_translator *translator = NULL;
    OK(trf_translator_create(&translator, model, &s, &err));
    return translator;
}

static trf_batch batch_of(int step)
{
    return kit_fill(&data, 6, 1, step % 7 == 6 ? 18 : 8, VOCAB, (uint64_t)step);
}

/* Every third step in two micro-batches; reports now and then. */
static uint64_t train(trf_trainer *t, int from, int to, uint64_t hash)
{
    trf_step_report report;
    int step;
    for (step = from; step < to; step++) {
        trf_batch batch = batch_of(step), half[2];
        memset(&report, 0, sizeof report);
        if (step % 3) OK(trf_trainer_step(t, &batch, step % 2 ? &report : NULL, &err));
        else {
            half[0] = kit_slice(&batch, 0, 2);
            half[1] = kit_slice(&batch, 2, 4);
            half[1].ordinal = 0;
            OK(trf_trainer_forward_backward(t, &half[0], NULL, &err));
            OK(trf_trainer_forward_backward(t, &half[1], step % 2 ? &report : NULL, &err));
            hash = hash_bytes(hash, &report, sizeof report);
            OK(trf_trainer_update(t, &report, &err));
        }
        hash = hash_bytes(hash, &report, sizeof report);
    }
    return hash;
}

static trf_sequences sources_of(trf_batch *batch, const trf_config *c)
{
    *batch = kit_fill(&data, 6, 1, 9, VOCAB, 77);
    return c->kind == TRF_DECODER_ONLY ? batch->target : batch->source;
}

/* Everything a translator says. */
static uint64_t look(trf_translator *t, uint64_t hash)
{
    static trf_real numbers[200 * VOCAB];
    const trf_config *c = trf_model_config(t->reader.model);
    trf_batch batch, one;
    trf_sequences sources = sources_of(&batch, c);
    trf_tensor out;
    double scores[6];
    int64_t rows = kit_target_rows(t->reader.model, &batch.target);
    OK(trf_translate(t, &sources, NULL, &err));
    hash = hash_answers(hash, t, sources.count);
    if (c->kind != TRF_DECODER_ONLY) {
        trf_batch prefixes = kit_fill(&data + 0, 6, 0, 3, VOCAB, 78);
        trf_sequences wanted = prefixes.source;
        static kit_pairs other;
        trf_batch again = kit_fill(&other, 6, 1, 9, VOCAB, 77);
        OK(kit_translate_with(t, &again.source, &wanted, NULL, 0, &err));
        hash = hash_answers(hash, t, 6);
        sources_of(&batch, c);
        out = trf_tensor_of(numbers, 2, kit_source_rows(t->reader.model, &batch.source), D, 1);
        OK(kit_encode(t, &batch.source, &out, &err));
        hash = hash_tensor(hash, out);
    }
    OK(trf_reader_score(trf_translator_reader(t), &batch, NULL, scores, &err));
    hash = hash_bytes(hash, scores, sizeof scores);
    out = trf_tensor_of(numbers, 2, rows, VOCAB, 1);
    OK(kit_logits(t, &batch, &out, &err));
    hash = hash_tensor(hash, out);
    one = kit_slice(&batch, 1, 1);
    out = trf_tensor_of(numbers, 2, one.target.lengths[0] + 1, one.target.lengths[0] + 1, 1);
    OK(kit_attention_weights(t, &one, TRF_DECODER_SELF, 1, 1, &out, &err));
    return hash_tensor(hash, out);
}

static uint64_t life(int variant, int threads)
{
    trf_model *model = model_of(variant), *copy = NULL;
    trf_trainer *trainer = trainer_of(model, threads);
    trf_step_report report;
    trf_batch batch;
    uint64_t hash = train(trainer, 0, STEPS, HASH_START);
    int rule;
    batch = batch_of(3);
    OK(trf_trainer_evaluate(trainer, &batch, NULL, &report, &err));
    hash = hash_bytes(hash, &report, sizeof report);
    hash ^= hash_state(trainer);
    OK(trf_model_copy(&copy, model, &err));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    for (rule = TRF_SEARCH_PAPER; rule <= TRF_SEARCH_HUGGING_FACE; rule++) {
        trf_translator *t = translator_of(copy, rule, rule == TRF_SEARCH_RAW ? 1 : 3);
        hash = look(t, hash);
        trf_translator_destroy(t);
    }
    trf_model_destroy(copy);
    return hash;
}

static void test_same_bits(void **state)
{
    int variant, threads;
    (void)state;
    for (variant = 0; variant < VARIANTS; variant++)
        for (threads = 1; threads <= 2; threads++) {
            uint64_t cpu, other;
            separate.off = 1;
            cpu = life(variant, threads);
            separate_reset();
            separate.off = 0;
            other = life(variant, threads);
            assert_true(separate.n.top > 0 &&
                        separate.n.adam == STEPS); /* it was there that it was computed */
            assert_true(cpu == other);
            assert_int_equal(separate.n_blocks, 0);
            assert_int_equal(separate.n_late, 0);
        }
}

/* A checkpoint of one device goes on with the same bits on the other. */
static void test_checkpoints_move(void **state)
{
    uint64_t want = 0, files = 0;
    int variant, first;
    (void)state;
    for (variant = 0; variant < VARIANTS; variant++) {
        for (first = 0; first < 3;
             first++) { /* made on the CPU, then on the device; then back, and again */
            trf_load_options options = trf_load_defaults();
            trf_model *model, *next = NULL;
            trf_trainer *trainer, *on = NULL;
            options.device.threads = 1;
            separate.off = first != 1;
            model = model_of(variant);
            trainer = trainer_of(model, 1);
            train(trainer, 0, 5, 0);
            OK(trf_checkpoint_save(trainer, NULL, in_folder("five"), NULL, &err));
            if (first == 0) {
                files = hash_file(in_folder("five"));
                train(trainer, 5, 10, 0);
                want = hash_state(trainer);
            }
            assert_true(files == hash_file(in_folder("five")));
            trf_trainer_destroy(trainer);
            trf_model_destroy(model);
            separate.off = first == 1;
            OK(trf_checkpoint_load(&next, &on, NULL, in_folder("five"), NULL, &options, &err));
            assert_int_equal(next->run.backend->on_host, first == 1);
            train(on, 5, 10, 0);
            assert_true(hash_state(on) == want);
            trf_trainer_destroy(on);
            trf_model_destroy(next);
        }
    }
    separate.off = 0;
    assert_int_equal(separate.n_blocks, 0);
}

/* -----------------------------------------------------------------------------------------------
   What crosses the seam. */

#define CROSSED(up, down, fetched, synced) \
    do { \
        assert_int_equal(separate.n.uploads, up); assert_int_equal(separate.n.downloads, down); \
        assert_int_equal(separate.n.fetches, fetched); assert_int_equal(separate.n.syncs, synced); \
        assert_int_equal(separate.n.idle_syncs, 0); assert_int_equal(separate.n.zeroes, 0); \
        assert_int_equal(separate.n.copies, 0); assert_int_equal(separate.n_late, 0); \
        separate_reset(); \
    } while (0)

static void test_counts_of_training(void **state)
{
    int variant, i;
    (void)state;
    for (variant = 0; variant < VARIANTS; variant++) {
        trf_model *model = model_of(variant);
        trf_trainer *t = trainer_of(model, 1);
        trf_batch batch = batch_of(0);
        trf_step_report report;
        separate_reset();
        for (i = 0; i < 5; i++) OK(trf_trainer_step(t, &batch, NULL, &err));
        assert_int_equal(separate.n.allocs, 0);
        CROSSED(5, 0, 0, 0);
        OK(trf_trainer_step(t, &batch, &report, &err));
        CROSSED(1, 1, 0, 1);
        OK(trf_trainer_report(t, &report, &err));
        CROSSED(0, 1, 0, 1);
        for (i = 0; i < 4; i++) OK(trf_trainer_forward_backward(t, &batch, NULL, &err));
        CROSSED(4, 0, 0, 0);
        OK(trf_trainer_update(t, NULL, &err));
        CROSSED(0, 0, 0, 0);
        OK(trf_trainer_forward_backward(t, &batch, &report, &err));
        CROSSED(1, 1, 0, 1);
        trf_trainer_discard_gradients(t);
        OK(trf_trainer_forward_backward(t, &batch, NULL, &err));
        OK(trf_trainer_update(t, &report, &err));
        CROSSED(1, 1, 0, 1);
        OK(trf_trainer_evaluate(t, &batch, NULL, &report, &err));
        CROSSED(1, 1, 0, 1);
        OK(trf_trainer_evaluate(t, &batch, NULL, NULL, &err));
        CROSSED(1, 0, 0, 0);
        trf_trainer_destroy(t);
        trf_model_destroy(model);
        assert_int_equal(separate.n_blocks, 0);
    }
}

/* Growing uploads the table of positions, which is made on the host row by row, or the two tables
   of distances, and nothing else. */
static void test_counts_of_growth(void **state)
{
    int variant;
    (void)state;
    for (variant = 0; variant < VARIANTS; variant++) {
        trf_model *model = model_of(variant);
        trf_trainer *t = trainer_of(model, 1);
        trf_batch batch = kit_fill(&data, 12, 17, 18, VOCAB, 3);
        trf_positions positions = model->config.positions;
        int64_t tables;
        separate_reset();
        OK(trf_trainer_step(t, &batch, NULL, &err));
        assert_int_equal(separate.n.allocs, 2);
        tables = positions == TRF_POSITIONS_LEARNED ? 0
            : positions == TRF_POSITIONS_RELATIVE ? 2 : t->pass.plan.limits.longest;
        CROSSED(1 + tables, 0, 0, 0);
        OK(trf_trainer_step(t, &batch, NULL, &err));
        CROSSED(1, 0, 0, 0);
        trf_trainer_destroy(t);
        trf_model_destroy(model);
    }
}

static int reduce_nothing(void *user, trf_real *gradients, size_t count, void *stream)
{
    (void)user; (void)stream;
    separate_enter();
    gradients[0] += 0;
    gradients[count - 1] += 0;
    separate_leave();
    return 0;
}

/* With ranks the step has to know whether any of them has a token: that is waited for. */
static void test_counts_of_ranks(void **state)
{
    trf_train_options o = training_of(1);
    trf_model *model = model_of(POST_TIED);
    trf_trainer *t = NULL;
    trf_batch batch = batch_of(0);
    trf_step_report report;
    (void)state;
    o.all_reduce = reduce_nothing;
    OK(trf_trainer_create(&t, model, &o, &err));
    separate_reset();
    OK(trf_trainer_step(t, &batch, NULL, &err));
    CROSSED(1, 1, 0, 1);
    OK(trf_trainer_step(t, &batch, &report, &err));
    CROSSED(1, 2, 0, 2);
    separate.fail_sync = 1;                /* nobody knows what the sums are: they are given up */
    assert_int_equal(trf_trainer_step(t, &batch, NULL, &err), TRF_E_BACKEND);
    separate_reset();
    assert_int_equal(trf_trainer_update(t, NULL, &err), TRF_E_STATE);
    OK(trf_trainer_step(t, &batch, NULL, &err));
    trf_trainer_destroy(t);
    trf_model_destroy(model);
}

/* A device that wants batches filled up learns what others learn, and reports the batch's own
   tokens. Where that is more than was planned for, memory grows. With consistency each of the two
   copies is filled up. */
static void check_filled_batches(double consistency)
{
    static const int64_t fills[] = { 0, 8, 7, 1000 };
    trf_step_report reports[4][3];
    trf_real *weights[4];
    size_t f;
    int64_t i, n = 0;
    int step;
    for (f = 0; f < 4; f++) {
        trf_model *model = model_of(POST_TIED);
        trf_trainer *t = trainer_of(model, 1);
        trf_train_options o = *trf_trainer_options(t);
        o.consistency = consistency;
        OK(trf_trainer_set_options(t, &o, &err));
        separate.fills = fills[f];
        for (step = 0; step < 3; step++) {
            trf_batch batch = batch_of(step);
            OK(trf_trainer_forward_backward(t, &batch, NULL, &err));
            assert_int_equal(t->pass.decoder.rows / t->pass.copies > t->pass.target_rows, f > 0);
            assert_int_equal(t->pass.copies, consistency > 0 ? 2 : 1);
            OK(trf_trainer_forward_backward(t, &batch, NULL, &err));
            OK(trf_trainer_update(t, &reports[f][step], &err));
            assert_int_equal(reports[f][step].source_tokens, reports[0][step].source_tokens);
            assert_int_equal(reports[f][step].target_tokens, reports[0][step].target_tokens);
            assert_true(fabs(reports[f][step].loss - reports[0][step].loss) < 1e-4);
            assert_true(fabs(reports[f][step].divergence - reports[0][step].divergence) < 1e-4);
            assert_true(fabs(reports[f][step].accuracy - reports[0][step].accuracy) < 1e-9);
        }
        n = model->layout.n_weights;
        weights[f] = (trf_real *)malloc((size_t)n * sizeof **weights);
        kit_get(model, weights[f], model->weights, n);
        trf_trainer_destroy(t);
        trf_model_destroy(model);
    }
    separate.fills = 0;
    for (f = 1; f < 4; f++) {
        double difference = 0, size = 0;
        for (i = 0; i < n; i++) {
            double x = (double)weights[f][i] - (double)weights[0][i];
            difference += x * x;
            size += (double)weights[0][i] * (double)weights[0][i];
        }
        /* fillers between the copies change the order of sums, and Adam makes as much of the
           rounding in the biases of keys, which have no gradient, as of a gradient */
        assert_true(sqrt(difference) < (consistency > 0 ? 3e-3 : 1e-3) * sqrt(size));
    }
    for (f = 0; f < 4; f++) free(weights[f]);
}

static void test_filled_batches(void **state)
{
    (void)state;
    check_filled_batches(0);
    check_filled_batches(2);
}

/* Weights that the caller writes reach the copies from which the device computes. */
static void test_written_weights(void **state)
{
    static trf_real numbers[VOCAB * D];
    double loss[2][2];
    int64_t count, i;
    int there, k;
    (void)state;
    for (there = 0; there < 2; there++) {
        trf_model *model;
        trf_trainer *t;
        trf_batch batch = batch_of(0);
        trf_step_report report;
        trf_tensor w;
        separate.off = !there;
        separate.trains_on_copies = there;
        model = model_of(POST_TIED);
        t = trainer_of(model, 1);
        assert_true((t->pass.weights.packed != NULL) == there);
        for (k = 0; !strstr(trf_model_parameter(model, k).name, "linear1.weight"); k++) { }
        w = trf_trainer_tensor(t, TRF_PARAMETER, k);
        count = trf_tensor_count(&w);
        assert_true(count <= VOCAB * D);
        for (k = 0; k < 2; k++) {
            OK(trf_trainer_evaluate(t, &batch, NULL, &report, &err));
            loss[there][k] = report.loss;
            OK(trf_tensor_read(&w, numbers, count, &err));
            for (i = 0; i < count; i++) numbers[i] *= -2;
            OK(trf_tensor_write(&w, numbers, count, &err));
        }
        trf_trainer_destroy(t);
        trf_model_destroy(model);
    }
    separate.trains_on_copies = separate.off = 0;
    for (k = 0; k < 2; k++) assert_true(fabs(loss[1][k] - loss[0][k]) < 1e-5);
    assert_true(fabs(loss[0][0] - loss[0][1]) > 1e-3);
}

/* A token is one look, whatever the beam and however many sentences. Sentences that arrive together
   are two uploads, their sources and their searches, and one look more; those that are done
   together are waited for once, and the beam of each comes in two pieces. */
static void test_counts_of_decoding(void **state)
{
    static const int beams[] = {1, 4, 16}, counts[] = {1, 4, 11};
    int variant, b, n, rule = 0;
    (void)state;
    for (variant = 0; variant < VARIANTS; variant++) {
        trf_model *model = model_of(variant);
        int source = model->config.kind == TRF_ENCODER_DECODER;
        for (b = 0; b < 3; b++)
            for (n = 0; n < 3; n++) {
                trf_translator *t = translator_of(model, rule++ % 6, beams[b]);
                trf_batch batch = kit_fill(&data, counts[n], 1, 7, VOCAB, (uint64_t)n);
                int64_t tokens, arrivals, collected;
                OK(trf_translate(t, source ? &batch.source : &batch.target, NULL, &err));
                separate_reset();
                OK(trf_translate(t, source ? &batch.source : &batch.target, NULL, &err));
                tokens = separate.n.top;
                arrivals = separate.n.uploads / (1 + source);
                collected = separate.n.syncs - tokens - arrivals;
                assert_in_range(arrivals, (counts[n] + 3) / 4, counts[n]);
                assert_in_range(collected, arrivals, counts[n]);
                assert_in_range(tokens, 1, arrivals * 20);
                assert_int_equal(separate.n.allocs, 0);
                CROSSED((1 + source) * arrivals, tokens + arrivals + 2 * counts[n], 0,
                        tokens + arrivals + collected);
                trf_translator_destroy(t);
            }
        trf_model_destroy(model);
    }
}

/* The place of a sentence that is done goes to one that waits: one long and six short ones, two at
   a time, take as many tokens as the long one alone. The answers are those of all of them together,
   and of each alone. */
static void test_places_are_taken_again(void **state)
{
    static const int32_t lengths[7] = {1, 1, 1, 9, 1, 1, 1};
    static int32_t ids[15];
    int variant, i, most;
    (void)state;
    for (i = 0; i < 15; i++) ids[i] = 4 + i % (VOCAB - 4);
    for (variant = 0; variant < VARIANTS; variant++) {
        trf_model *model = model_of(variant);
        trf_sequences sources = {ids, lengths, 7};
        uint64_t hash[3];
        for (most = 0; most < 3; most++) {
            trf_search s = search_of(TRF_SEARCH_FAIRSEQ, 2);
            trf_translator *t = NULL;
            s.max_sentences = most == 0 ? 7 : 3 - most;
            s.min_length = 100;                         /* every answer is as long as it may be */
            s.max_length_a = 3; s.max_length_b = 0;
            OK(trf_translator_create(&t, model, &s, &err));
            separate_reset();
            OK(trf_translate(t, &sources, NULL, &err));
            hash[most] = hash_answers(HASH_START, t, 7);
            if (most == 1) {
                int64_t longest = 3 * 9 + 1 + (model->config.kind == TRF_DECODER_ONLY ? 9 : 0);
                assert_in_range(separate.n.top, longest, longest + 1);
                assert_true(separate.n.reorder >= separate.n.top + 6);
            }
            trf_translator_destroy(t);
        }
        assert_true(hash[0] == hash[1] && hash[1] == hash[2]);
        trf_model_destroy(model);
    }
}

static void test_counts_of_looks(void **state)
{
    static trf_real numbers[200 * VOCAB];
    trf_model *model = model_of(UNTIED_GELU);
    trf_translator *t = translator_of(model, TRF_SEARCH_PAPER, 4);
    trf_batch batch = kit_fill(&data, 3, 4, 4, VOCAB, 1), one = kit_slice(&batch, 0, 1);
    trf_tensor out;
    double scores[3];
    int i;
    (void)state;
    for (i = 0; i < 2; i++) {       /* the first time memory may grow */
        separate_reset();
        OK(trf_reader_score(trf_translator_reader(t), &batch, NULL, scores, &err));
        if (i > 0) CROSSED(1, 1, 0, 1);
        out = trf_tensor_of(numbers, 2, 15, D, 1);
        OK(kit_encode(t, &batch.source, &out, &err));
        if (i > 0) CROSSED(1, 0, 1, 1);
        out = trf_tensor_of(numbers, 2, 15, VOCAB, 1);
        OK(kit_logits(t, &batch, &out, &err));
        if (i > 0) CROSSED(1, 0, 1, 1);
        out = trf_tensor_of(numbers, 2, 5, 5, 1);
        OK(kit_attention_weights(t, &one, TRF_DECODER_CROSS, 0, 0, &out, &err));
        if (i > 0) CROSSED(1, model->config.decoder_layers, 0, 1);
    }
    trf_translator_destroy(t);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Who reaches past the seam is seen. */

typedef struct lab {
    trf_model *model;
    trf_trainer *trainer;
    trf_translator *translator;
    trf_context *context;
} lab;

static lab lab_of(void)
{
    static trf_real numbers[200 * VOCAB];
    int32_t targets[2] = {5, 6};
    trf_batch batch = batch_of(0);
    trf_device device = trf_device_default();
    trf_cross_entropy_options smoothing = {0.1, TRF_SMOOTH_UNIFORM, -1};
    trf_tensor x = trf_tensor_of(numbers, 2, 2, D, 1),
               weight = trf_tensor_of(numbers + 100, 2, VOCAB, D, 1);
    double loss;
    int64_t i;
    lab l;
    l.model = model_of(POST_TIED);
    l.trainer = trainer_of(l.model, 1);
    train(l.trainer, 1, 3, 0);
    batch = batch_of(0);
    OK(trf_trainer_forward_backward(l.trainer, &batch, NULL, &err));
    OK(trf_trainer_update(l.trainer, NULL, &err));
    l.translator = translator_of(l.model, TRF_SEARCH_PAPER, 3);
    look(l.translator, 0);
    sources_of(&batch, &l.model->config);
    OK(trf_translate(l.translator, &batch.source, NULL, &err));
    device.threads = 1;
    l.context = NULL;
    OK(trf_context_create(&l.context, &device, NULL, &err));
    for (i = 0; i < 1000; i++) numbers[i] = (trf_real)sin((double)i);
    OK(trf_cross_entropy(l.context, &loss, NULL, NULL, NULL, &x, &weight, NULL, targets, &smoothing,
                         &err));
    return l;
}

static void lab_end(lab *l)
{
    trf_context_destroy(l->context);
    trf_translator_destroy(l->translator);
    trf_trainer_destroy(l->trainer);
    trf_model_destroy(l->model);
}

typedef struct object { const char *name; const void *there; size_t bytes; } object;
enum { OBJECTS = 40 };

static int objects_of(const lab *l, object *list)
{
    const trf_trainer *t = l->trainer;
    const trf__pass *p = &t->pass;
    const trf__stack *decoder = &p->decoder;
    const trf__hypotheses *h = &l->translator->hypotheses;
    const trf__layout *layout = &l->model->layout;
    size_t rows = (size_t)decoder->rows, number = sizeof(trf_real);
    int n = 0;
#define OBJECT(what, pointer, size) \
    do { list[n].name = what; list[n].there = pointer; list[n++].bytes = size; } while (0)
    OBJECT("weights", l->model->weights, 3 * D * number);
    OBJECT("gradients", t->gradients, 3 * D * number);
    OBJECT("sums behind the gradients", t->gradients + layout->n_weights, 10 * number);
    OBJECT("first moments", t->m, 3 * D * number);
    OBJECT("second moments", t->v, 3 * D * number);
    OBJECT("verdict", t->clip_result, offsetof(trf__clip_result, skipped));
    OBJECT("tiles", t->tiles, offsetof(trf__param_tile, decay));
    OBJECT("sums of squares", t->partial, (size_t)t->n_tiles * sizeof(double));
    OBJECT("step", p->block.device, offsetof(trf__now, step) + 4);
    OBJECT("ids", decoder->device.ids, rows * 4);
    OBJECT("targets", decoder->device.targets, rows * 4);
    OBJECT("groups", decoder->device.group_rows, rows * 4);
    OBJECT("spans", decoder->device.cross, (size_t)decoder->n_cross * sizeof(trf__span));
    OBJECT("embedded", decoder->embedded, rows * D * number);
    OBJECT("queries, keys and values", decoder->sublayers[0].projected, rows * 3 * D * number);
    OBJECT("statistics of attention", decoder->sublayers[0].stats, rows * 2 * HEADS * number);
    OBJECT("statistics of a norm", decoder->sublayers[0].norm_stats, rows * 2 * number);
    OBJECT("hidden states", decoder->out, rows * D * number);
    OBJECT("gradients of activations", p->back.ds, D * number);
    OBJECT("positions", p->table, 16 * D * number);
    OBJECT("losses of rows", p->loss.row_loss[0], rows * 8);
    OBJECT("sums", p->loss.sums, sizeof *p->loss.sums);
    OBJECT("room for logits", p->loss.scratch, VOCAB * number);
    OBJECT("packed copies",
           (const trf_real *)l->translator->reader.pass.weights.packed + layout->specs[0].in.w,
           3 * D * D * number);
    OBJECT("cache", h->caches->self, 2 * D * number);
    OBJECT("keys of the source", h->caches->cross, number);
    OBJECT("backpointers", h->backpointers[0], 4);
    OBJECT("best continuations", h->found, 2 * sizeof(double));
    OBJECT("what is read next", h->lists.ids, 4);
    OBJECT("searches", h->there.progress, sizeof(trf__progress));
    OBJECT("beams", h->beam_memory, 8);
    OBJECT("logits of a token", h->top_scratch, VOCAB * number);
    OBJECT("room for looking inside", l->translator->reader.work.memory, 2 * number);
    OBJECT("room of a block", l->context->work.memory, 2 * sizeof(double));
#undef OBJECT
    assert_true(n <= OBJECTS);
    return n;
}

static void seen(int signal_number) { (void)signal_number; _exit(42); }

/* How a child ends that reads, or writes, one byte there. */
static int touch(const void *there, int write)
{
    volatile unsigned char *byte = (volatile unsigned char *)(uintptr_t)there;
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, seen);
        signal(SIGBUS, seen);
        if (write) *byte = 1; else (void)*byte;
        _exit(0);
    }
    assert_true(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Each kind of object that lives on the device: a host that reads or writes it faults at the first
   and the last byte; asked for, it has the numbers that the CPU's has. */
static void test_host_accesses_fault(void **state)
{
    object there[OBJECTS], here[OBJECTS];
    lab host, l;
    int n, i;
    (void)state;
    separate.off = 1;
    host = lab_of();
    separate.off = 0;
    l = lab_of();
    n = objects_of(&l, there);
    assert_int_equal(objects_of(&host, here), n);
    for (i = 0; i < n; i++) {
        const char *last = (const char *)there[i].there + there[i].bytes - 1;
        trf_tensor tensor =
            trf_tensor_of(NULL, 1, (int64_t)(there[i].bytes / sizeof(trf_real)), 1, 1);
        trf_real *numbers;
        if (touch(there[i].there, 0) != 42 || touch(last, 0) != 42 ||
            touch(there[i].there, 1) != 42)
            fail_msg("%s can be touched", there[i].name);
        assert_int_equal(touch(here[i].there, 0), 0);
        tensor.device = &l.model->run;
        tensor.device_data = (trf_real *)(uintptr_t)there[i].there;
        numbers = kit_numbers(tensor);
        assert_int_equal(there[i].bytes, here[i].bytes);
        if (memcmp(numbers, here[i].there, there[i].bytes))
            fail_msg("%s differ from the CPU's", there[i].name);
        free(numbers);
    }
    lab_end(&l);
    lab_end(&host);
    assert_int_equal(separate.n_blocks, 0);
}

/* How a child ends in which a call goes wrong: by separate_abort. */
#define ABORTS(call) \
    do { \
        int how = 0; \
        pid_t child = fork(); \
        assert_true(child >= 0); \
        if (child == 0) { \
            signal(SIGABRT, SIG_DFL); \
            if (!freopen("/dev/null", "w", stderr)) _exit(1); \
            call; \
            _exit(0); \
        } \
        assert_true(waitpid(child, &how, 0) == child && WIFSIGNALED(how) && \
                    WTERMSIG(how) == SIGABRT); \
    } while (0)

/* The other way round, an op that is given memory of the host; and what the device thinks of its
   own blocks. */
static void test_device_is_strict(void **state)
{
    trf_model *model = model_of(POST_TIED);
    const trf__run *run = &model->run;
    const trf__backend *on = run->backend;
    char *block = (char *)on->alloc(run, 100);
    trf_real numbers[4] = {1, 2, 3, 4}, back[4];
    trf__pack pack;
    (void)state;
    assert_true((uintptr_t)block % 64 == 0);
    memset(&pack, 0, sizeof pack);
    pack.weights = numbers;
    ABORTS(on->pack(run, &pack));
    ABORTS(on->upload(run, numbers, numbers, sizeof numbers));
    ABORTS(on->upload(run, block, model->weights, 16));
    ABORTS(on->download(run, block, model->weights, 16));
    ABORTS(on->zero(run, block + 90, 11));
    ABORTS(on->release(run, block, 99));
    ABORTS(on->release(run, block + 64, 36));
    ABORTS((on->release(run, block, 100), on->release(run, block, 100)));
    ABORTS((separate_enter(), block[100] = 0, on->release(run, block, 100)));
    on->upload(run, block, numbers, sizeof numbers);
    on->download(run, back, block, sizeof back);
    assert_true(((unsigned char *)back)[0] == 0xA5 &&
                ((unsigned char *)back)[sizeof back - 1] == 0xA5);
    on->zero(run, block, 100);              /* later than the download */
    assert_int_equal(on->sync(run, NULL), TRF_OK);
    assert_memory_equal(back, numbers, sizeof back);
    on->release(run, block, 100);
    trf_model_destroy(model);
    assert_int_equal(separate.n_blocks, 0);
}

/* -----------------------------------------------------------------------------------------------
   Failures: memory of the device that is not there, and a device that has broken. */

enum { ROWS = 6, BLOCK_NUMBERS = 4096 };
static trf_real block_in[BLOCK_NUMBERS], block_out[BLOCK_NUMBERS];

/* The next tensor of an array, and a new one of `n0` by `n1` (0: rank 1). */
static trf_tensor cut(trf_real *from, int64_t *at, int64_t n0, int64_t n1)
{
    trf_tensor t = trf_tensor_of(from + *at, n1 ? 2 : 1, n0, n1, 1);
    *at += trf_tensor_count(&t);
    assert_true(*at <= BLOCK_NUMBERS);
    return t;
}

enum { BLOCKS = 9 };
static trf_status block_call(trf_context *context, int which, trf_error *e)
{
    static const int32_t lengths[] = {4, 2}, ids[] = {5, 6, 7, 7, 8, 3};
    trf_attention_shape shape = {lengths, lengths, 2, HEADS, TRF_FULL, 0, 0, NULL, NULL, NULL};
    trf_sequences tokens = {ids, lengths, 2};
    trf_embedding_options embedding = {TRF_POSITIONS_INTERLEAVED, 1, 2, NULL};
    trf_cross_entropy_options smoothing = {0.1, TRF_SMOOTH_UNIFORM, -1};
    trf_dropout dropout = {0.5, 3, 1, 2};
    trf_attention_params heads, dheads;
    trf_feed_forward_params feed, dfeed;
    int64_t in = 0, out = 0;
    trf_tensor x = cut(block_in, &in, ROWS, D), y = cut(block_out, &out, ROWS, D);
    trf_tensor z = cut(block_out, &out, ROWS, D), saved;
    trf_tensor w = cut(block_in, &in, VOCAB, D), dw = cut(block_out, &out, VOCAB, D);
    double loss;
    trf_status status;
    switch (which) {
    case 0: return trf_embedding(context, &y, &tokens, &w, &embedding, e);
    case 1:
        return trf_linear_backward(context, &y, &dw, NULL, &w, &w, &w, e) == TRF_E_SHAPE
                   ? trf_embedding_backward(context, &dw, NULL, &x, &tokens, &embedding, e)
                   : TRF_E_INTERNAL;
    case 2: return trf_residual(context, &y, &x, &x, &dropout, e);
    case 3: return trf_residual_backward(context, &y, &z, &x, &dropout, e);
    case 4: return trf_attention(context, &y, &x, &x, &x, &shape, NULL, NULL, e);
    case 5:
        status = trf_cross_entropy(context, &loss, &y, &dw, NULL, &x, &w, NULL, ids, &smoothing, e);
        assert_true(status == TRF_OK ? loss > 0 : loss == 0);
        return status;
    case 6:
        w = cut(block_in, &in, D, 0);
        saved = cut(block_out, &out, 2 * ROWS, 0);
        return trf_norm(context, &y, &x, &w, &w, TRF_NORM_STANDARD, 1e-5, &saved, e);
    case 7:
        heads.in_weight = cut(block_in, &in, 3 * D, D);
        heads.in_bias = cut(block_in, &in, 3 * D, 0);
        heads.out_weight = cut(block_in, &in, D, D); heads.out_bias = cut(block_in, &in, D, 0);
        dheads.in_weight = cut(block_out, &out, 3 * D, D);
        dheads.in_bias = cut(block_out, &out, 3 * D, 0);
        dheads.out_weight = cut(block_out, &out, D, D);
        dheads.out_bias = cut(block_out, &out, D, 0);
        saved = cut(block_in, &in, trf_attention_saved(&shape, &heads), 0);
        return trf_multi_head_attention_backward(context, &y, NULL, &dheads, NULL, &x, &x, NULL,
                                                 &heads, &shape, &saved, e);
    default:
        feed.w1 = cut(block_in, &in, 24, D); feed.b1 = cut(block_in, &in, 24, 0);
        feed.w2 = cut(block_in, &in, D, 24); feed.b2 = cut(block_in, &in, D, 0);
        dfeed.w1 = cut(block_out, &out, 24, D); dfeed.b1 = cut(block_out, &out, 24, 0);
        dfeed.w2 = cut(block_out, &out, D, 24); dfeed.b2 = cut(block_out, &out, D, 0);
        saved = cut(block_in, &in, trf_feed_forward_saved(ROWS, &feed), 0);
        return trf_feed_forward_backward(context, &y, &dfeed, &x, &x, &feed, TRF_GELU, &saved, e);
    }
}

/* What is made to fail. Creations leave nothing behind; the others leave their object as it was. */
enum {
    CREATE_MODEL,
    COPY_MODEL,
    LOAD_MODEL,
    LOAD_TIED,
    CREATE_TRAINER,
    LOAD_CHECKPOINT,
    CREATE_TRANSLATOR,
    TRAIN,
    EVALUATE,
    LATE_REPORT,
    TRANSLATE,
    PREFIXED,
    SCORE,
    ENCODE,
    LOGITS,
    ATTENTION,
    SAVE_MODEL,
    SAVE_CHECKPOINT,
    READ,
    WRITE,
    FIRST_BLOCK,
    ACTIONS = FIRST_BLOCK + BLOCKS
};

static trf_status act(const lab *l, int what, uint64_t *hash, trf_error *e)
{
    static trf_real numbers[200 * VOCAB];
    static kit_pairs other;
    trf_batch large = kit_fill(&data, 9, 17, 18, VOCAB, 3), one = kit_slice(&large, 0, 1);
    trf_batch prefixes = kit_fill(&other, 5, 1, 2, VOCAB, 4);
    trf_sequences sources = kit_part(&large.source, 0, 5);      /* two rounds */
    trf_config c = config_of(POST_TIED);
    trf_train_options o = training_of(1);
    trf_search s = search_of(TRF_SEARCH_PAPER, 3);
    trf_load_options options = trf_load_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *translator = NULL;
    trf_step_report report;
    trf_tensor out;
    separate_counts counted;
    double scores[9];
    trf_status status;
    options.device.threads = 1;
    memset(scores, 0, sizeof scores);
    memset(numbers, 0, sizeof numbers);
    switch (what) {
    case CREATE_MODEL: status = trf_model_create(&model, &c, NULL, e); break;
    case COPY_MODEL: status = trf_model_copy(&model, l->model, e); break;
    case LOAD_MODEL: status = trf_model_load(&model, in_folder("model"), &options, e); break;
    case LOAD_TIED: status = trf_model_load(&model, in_folder("tied"), &options, e); break;
    case CREATE_TRAINER: status = trf_trainer_create(&trainer, l->model, &o, e); break;
    case LOAD_CHECKPOINT:
        status =
            trf_checkpoint_load(&model, &trainer, NULL, in_folder("checkpoint"), NULL, &options, e);
        break;
    case CREATE_TRANSLATOR: status = trf_translator_create(&translator, l->model, &s, e); break;
    case TRAIN: status = trf_trainer_step(l->trainer, &large, &report, e); break;
    case EVALUATE: status = trf_trainer_evaluate(l->trainer, &large, NULL, &report, e); break;
    case LATE_REPORT: status = trf_trainer_report(l->trainer, &report, e); break;
    case TRANSLATE:
        status = trf_translate(l->translator, &sources, NULL, e);
        if (status != TRF_OK) assert_int_equal(kit_count(l->translator, 0), 0);
        break;
    case PREFIXED:
        status = kit_translate_with(l->translator, &sources, &prefixes.target, NULL, 0, e);
        break;
    case SCORE: status = trf_reader_score(trf_translator_reader(l->translator), &large, NULL, scores, e); break;
    case ENCODE:
        out = trf_tensor_of(numbers, 2, kit_source_rows(l->model, &one.source), D, 1);
        status = kit_encode(l->translator, &one.source, &out, e);
        break;
    case LOGITS:
        out = trf_tensor_of(numbers, 2, kit_target_rows(l->model, &one.target), VOCAB, 1);
        status = kit_logits(l->translator, &one, &out, e);
        break;
    case ATTENTION:
        out = trf_tensor_of(numbers, 2, one.target.lengths[0] + 1, one.target.lengths[0] + 1, 1);
        status = kit_attention_weights(l->translator, &one, TRF_DECODER_SELF, 0, 0, &out, e);
        break;
    case SAVE_MODEL: status = trf_model_save(l->model, in_folder("saved"), NULL, e); break;
    case SAVE_CHECKPOINT:
        status = trf_checkpoint_save(l->trainer, NULL, in_folder("saved"), NULL, e);
        break;
    case READ:
        out = trf_model_parameter(l->model, 0);
        status = trf_tensor_read(&out, numbers, VOCAB * D, e);
        break;
    case WRITE:
        out = trf_trainer_tensor(l->trainer, TRF_PARAMETER, 1);
        status = trf_tensor_write(&out, numbers, trf_tensor_count(&out), e);
        break;
    default: status = block_call(l->context, what - FIRST_BLOCK, e); break;
    }
    counted = separate.n;
    separate_reset();                  /* what follows is not tested */
    *hash = hash_bytes(hash_bytes(HASH_START, numbers, sizeof numbers), scores, sizeof scores);
    if (model) *hash ^= hash_weights(*hash, model);
    if (what == TRAIN || what == EVALUATE || what == LATE_REPORT)
        *hash = hash_bytes(*hash, &report, sizeof report);
    if (what == TRANSLATE || what == PREFIXED) *hash = hash_answers(*hash, l->translator, 5);
    if (what >= FIRST_BLOCK) *hash = hash_bytes(*hash, block_out, sizeof block_out);
    trf_translator_destroy(translator);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    separate.n = counted;
    return status;
}

static lab fresh_lab(void)
{
    trf_device device = trf_device_default();
    trf_search search = search_of(TRF_SEARCH_PAPER, 3);
    trf_batch batch = batch_of(1);
    lab l;
    int i;
    for (i = 0; i < BLOCK_NUMBERS; i++) {
        block_in[i] = (trf_real)sin((double)i);
        block_out[i] = (trf_real)0.25;
    }
    device.threads = 1;
    l.context = NULL;
    l.model = model_of(POST_TIED);
    l.trainer = trainer_of(l.model, 1);
    search.max_length_a = 0;
    OK(trf_translator_create(&l.translator, l.model, &search, &err));
    OK(trf_context_create(&l.context, &device, NULL, &err));
    OK(trf_trainer_step(l.trainer, &batch, NULL, &err));
    return l;
}

/* Fails once at every alloc, or from every sync on; then nothing is wrong any more, and the answer
   is the CPU's. */
static int fail_everywhere(int what, int broken)
{
    static trf_real before[BLOCK_NUMBERS];
    uint64_t want, got, state, weights;
    int64_t k;
    int failed, blocks;
    trf_status status;
    lab l;
    separate.off = 1;
    l = fresh_lab();
    OK(act(&l, what, &want, &err));
    lab_end(&l);
    separate.off = 0;
    for (k = 1, failed = 1; failed; k++) {
        l = fresh_lab();
        state = hash_state(l.trainer);
        weights = hash_weights(HASH_START, l.model);
        memcpy(before, block_out, sizeof before);
        unlink(in_folder("saved"));
        blocks = separate.n_blocks;
        separate_reset();
        if (broken) separate.fail_sync = k; else separate.fail_alloc = k;
        dirty();
        status = act(&l, what, &got, &err);
        failed = broken ? separate.n.syncs >= k : separate.n.allocs >= k;
        separate_reset();
        if (failed) {
            check_fails(status, broken ? TRF_E_BACKEND : TRF_E_NOMEM,
                        broken ? "separate" : err.what, -1);
            if (what < TRAIN || what >= SAVE_MODEL)
                assert_true(separate.n_blocks - blocks <= (what >= FIRST_BLOCK));
            assert_int_equal(separate.n_late, 0);
            assert_null(l.context->run.now);
            if (!broken) assert_memory_equal(before, block_out, sizeof before);
            if (!(broken &&
                  (what == TRAIN || what == WRITE))) { /* whose work is done before anybody asks */
                assert_true(state == hash_state(l.trainer));
                assert_true(weights == hash_weights(HASH_START, l.model));
                assert_int_equal(access(in_folder("saved"), F_OK), -1);
                memcpy(block_out, before, sizeof before);
                OK(act(&l, what, &got, &err));
                assert_true(got == want);
            }
        } else {
            assert_int_equal(status, TRF_OK);
            assert_true(got == want);
        }
        lab_end(&l);
        assert_int_equal(separate.n_blocks, 0);
        assert_int_equal(separate.n_late, 0);
    }
    return (int)k - 2;
}

/* Cancels at call number `at`. */
typedef struct countdown { int64_t calls, at; } countdown;
static int counts_down(void *user)
{
    countdown *c = (countdown *)user;
    return ++c->calls == c->at;
}

/* A read that fails half-way has copied some states already: no copy may be under way when it
   returns, as the caller may free the reader then. The next read is whole. */
static void test_reads_that_are_cancelled(void **state)
{
    const int32_t all = TRF_READ_ENCODER_STATES | TRF_READ_DECODER_STATES | TRF_READ_ENCODER_SELF | TRF_READ_LOGITS;
    trf_config config = config_of(POST_TIED);
    trf_reader_options options;
    trf_reading reading;
    trf_model *model = NULL;
    trf_reader *reader = NULL;
    trf_batch batch = kit_fill(&data, 6, 1, 9, VOCAB, 77);
    countdown count = {0, 0};
    uint64_t want = 0;
    int64_t copies = 0;
    (void)state;
    separate_reset();
    memset(&options, 0, sizeof options);
    options.hooks.user = &count;
    options.hooks.cancel = counts_down;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_reader_create(&reader, model, &options, &err));
    OK(trf_reader_read(reader, &batch, all, NULL, &reading, &err));
    want = hash_tensor(HASH_START, reading.logits);
    do {
        const int64_t before = separate.n.fetches + separate.n.downloads;
        trf_status status;
        count.calls = 0;
        count.at++;
        status = trf_reader_read(reader, &batch, all, NULL, &reading, &err);
        assert_int_equal(separate.n_late, 0);
        if (status == TRF_OK) break;
        assert_int_equal(status, TRF_E_CANCELLED);
        copies += separate.n.fetches + separate.n.downloads - before;
    } while (count.at < 1000);
    assert_true(count.at > 3 && count.at < 1000 && copies > 0);
    assert_true(want == hash_tensor(HASH_START, reading.logits));
    trf_reader_destroy(reader);
    trf_model_destroy(model);
}

/* A model whose file has a tied matrix under each of its names, as PyTorch writes it; loading
   compares them. */
static void save_tied(const char *path)
{
    static char bytes[1 << 17];
    static const char *const names[] = {"tgt_embed.weight", "generator.weight"};
    trf_config c = config_of(POST_TIED);
    trf_model *model = NULL;
    char *tying = NULL;
    size_t n, i;
    FILE *f;
    c.tying = TRF_UNTIED;
    OK(trf_model_create(&model, &c, NULL, &err));
    for (i = 0; i < 2; i++) {
        trf_tensor to = trf_model_parameter(model, trf_model_parameter_index(model, names[i]));
        trf_real *numbers = kit_numbers(
            trf_model_parameter(model, trf_model_parameter_index(model, "src_embed.weight")));
        OK(trf_tensor_write(&to, numbers, VOCAB * D, &err));
        free(numbers);
    }
    OK(trf_model_save(model, path, NULL, &err));
    trf_model_destroy(model);
    f = fopen(path, "r+b");
    assert_non_null(f);
    n = fread(bytes, 1, sizeof bytes, f);
    for (i = 0; i + 30 < n && !tying; i++)
        if (!memcmp(bytes + i, "trf.config.tying\":\"0", 20)) tying = bytes + i + 19;
    assert_non_null(tying);
    *tying = '2';
    kit_unchecked(bytes, n);
    rewind(f);
    assert_true(fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void test_failures(void **state)
{
    int what, broken, times[2] = {0, 0};
    lab l = fresh_lab();
    (void)state;
    save_tied(in_folder("tied"));
    OK(trf_model_save(l.model, in_folder("model"), NULL, &err));
    OK(trf_checkpoint_save(l.trainer, NULL, in_folder("checkpoint"), NULL, &err));
    lab_end(&l);
    for (what = 0; what < ACTIONS; what++)
        for (broken = 0; broken < 2; broken++) {
            int n = fail_everywhere(what, broken);
            times[broken] += n;
            if (broken && what != CREATE_TRAINER && what != CREATE_TRANSLATOR) assert_true(n > 0);
        }
    assert_true(times[0] > 60 && times[1] > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_checkpoints_move),
        cmocka_unit_test(test_counts_of_training),
        cmocka_unit_test(test_counts_of_growth),
        cmocka_unit_test(test_counts_of_ranks),
        cmocka_unit_test(test_filled_batches),
        cmocka_unit_test(test_written_weights),
        cmocka_unit_test(test_counts_of_decoding),
        cmocka_unit_test(test_places_are_taken_again),
        cmocka_unit_test(test_counts_of_looks),
        cmocka_unit_test(test_host_accesses_fault),
        cmocka_unit_test(test_device_is_strict),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_reads_that_are_cancelled),
    };
    int failed;
    if (folder_make("separate", 0)) return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return folder_remove() ? 1 : failed;
}

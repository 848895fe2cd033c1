/* build: O0 linked */
/* What the manual promises of all calls, where a call has broken it: NULL, outputs after failures,
   places of rejected batches, numbers of answers, memory, packed models, activations, damaged headers. */
#include "transformer.h"
#include "calls.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static trf_error err;
#define OK(call) assert_int_equal(call, TRF_OK)
#define FAILS(status, call) assert_int_equal(call, status)

static trf_config small(trf_kind kind)
{
    trf_config c = trf_config_preset(TRF_TINY);
    c.kind = kind;
    c.d_model = c.d_ff = 16;
    c.n_heads = 2;
    c.encoder_layers = kind != TRF_DECODER_ONLY;
    c.decoder_layers = kind != TRF_ENCODER_ONLY;
    c.source_vocab = kind == TRF_DECODER_ONLY ? 0 : 20;
    c.target_vocab = kind == TRF_ENCODER_ONLY ? 0 : 20;
    c.max_length = 16;
    c.device.threads = 1;
    return c;
}

static trf_model *model_of(const trf_config *c)
{
    trf_model *model = NULL;
    OK(trf_model_create(&model, c, NULL, &err));
    return model;
}

static trf_trainer *trainer_of(trf_model *model)
{
    trf_train_options o = trf_train_defaults();
    trf_trainer *trainer = NULL;
    o.threads = 1;
    OK(trf_trainer_create(&trainer, model, &o, &err));
    return trainer;
}

static trf_translator *translator_of(const trf_model *model, const trf_search *search)
{
    trf_translator *translator = NULL;
    OK(trf_translator_create(&translator, model, search, &err));
    return translator;
}

/* -----------------------------------------------------------------------------------------------
   NULL and nonsense */

static void null_without_an_error(void **state)
{
    (void)state;
    trf_train_set_dropout(NULL, 0.1);
    trf_set_conventions(NULL, NULL, TRF_CONVENTIONS_PAPER);
    trf_search_set_rule(NULL, TRF_SEARCH_PAPER);
    assert_int_equal(trf_early_stopping_add(NULL, TRF_METRIC_LOSS, 1, 1, 1), 0);
    assert_int_equal(trf_early_stopping_left(NULL, TRF_METRIC_LOSS, 1), 0);
    assert_int_equal(trf_find_invalid_utf8(NULL, 5), 0);
    assert_int_equal(trf_find_invalid_utf8(NULL, 0), -1);
}

/* The calls that cut pairs into batches themselves. */
static void nonsense_in_held_out_pairs(void **state)
{
    static const int32_t ids[4] = {5, 6, 7, 8}, good[2] = {2, 2}, negative[2] = {2, -3};
    const trf_sequences right = {ids, good, 2};
    const trf_sequences wrong[4] = {{NULL, good, 2}, {ids, NULL, 2}, {ids, negative, 2}, {ids, good, -1}};
    static const char *const lines[3] = {"a b", NULL, "c"};
    trf_config config = small(TRF_ENCODER_DECODER);
    trf_model *model = model_of(&config);
    trf_trainer *trainer = trainer_of(model);
    trf_translator *translator = translator_of(model, NULL);
    trf_token_choice choice;
    trf_step_report report;
    char held[3];
    int64_t count = 7;
    double percent;
    int i, side;
    (void)state;
    for (i = 0; i < 8; i++) {
        trf_batch b;
        memset(&b, 0, sizeof b);
        side = i & 1;
        b.source = side ? right : wrong[i / 2];
        b.target = side ? wrong[i / 2] : right;
        percent = 7;
        FAILS(TRF_E_INVALID_ARG, trf_translator_error_rate(translator, &b, &percent, &err));
        assert_true(percent == 0);
        FAILS(TRF_E_INVALID_ARG, trf_trainer_evaluate(trainer, &b, NULL, &report, &err));
        assert_true(report.loss == 0 && report.target_tokens == 0);
    }
    memset(&choice, 0, sizeof choice);
    FAILS(TRF_E_INVALID_ARG, trf_tokens_choose(&choice, lines, NULL, 3, NULL, &err));
    trf_translator_destroy(translator);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

static void outputs_of_failing_calls(void **state)
{
    static const int32_t ids[6] = {5, 6, 7, 8, 9, 10}, lengths[3] = {1, 2, 3};
    trf_config config = small(TRF_ENCODER_DECODER);
    trf_model *model = model_of(&config);
    trf_batch whole, piece;
    trf_data_stats stats;
    trf_recipe recipe;
    trf_corpus *corpus = NULL;
    trf_file *file = NULL;
    trf_train_options options;
    size_t bytes = 0;
    void *saved;
    int64_t batches = 7;
    (void)state;
    memset(&whole, 0, sizeof whole);
    whole.source.ids = whole.target.ids = ids;
    whole.source.lengths = whole.target.lengths = lengths;
    whole.source.count = whole.target.count = 3;
    piece = whole;
    FAILS(TRF_E_INVALID_ARG, trf_batch_part(&whole, 3, 2, &piece, &err));
    assert_true(piece.source.count == 0 && piece.target.count == 0 && !piece.source.ids);
    piece = whole;                              /* the piece may stand where the batch was */
    OK(trf_batch_part(&piece, 1, 2, &piece, &err));
    assert_true(piece.source.count == 1 && piece.target.ids == ids + 3 && piece.ordinal == 2);
    memset(&recipe, 0x55, sizeof recipe);
    memset(&stats, 0, sizeof stats);
    FAILS(TRF_E_INVALID_ARG, trf_recipe_find(&recipe, &stats, &err));
    assert_true(recipe.reasons[0] == 0 && recipe.config.d_model == 0);
    OK(trf_corpus_create(&corpus, NULL, &err));
    FAILS(TRF_E_STATE, trf_corpus_batches(corpus, &batches, &err));
    assert_int_equal(batches, 0);
    trf_corpus_destroy(corpus);
    FAILS(TRF_E_LIMIT, kit_save_memory(model, TRF_WEIGHTS_FULL, NULL, 0, &bytes, &err));
    saved = malloc(bytes);
    OK(kit_save_memory(model, TRF_WEIGHTS_FULL, saved, bytes, &bytes, &err));
    OK(kit_open_memory(&file, saved, bytes, NULL, &err));
    options.beta1 = 5;
    assert_int_not_equal(trf_file_training(file, &options, &err), TRF_OK);
    assert_true(options.beta1 == 0);
    trf_file_close(file);
    free(saved);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Rejected batches */

enum { PAIRS = 8 };

/* One pair a batch; a bit of `bad` for each pair that has an id which the model lacks. */
static trf_corpus *corpus_of(int bad)
{
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *corpus = NULL;
    int i;
    o.batch_sentences = 1;
    o.shuffle = o.buckets = 0;
    OK(trf_corpus_create(&corpus, &o, &err));
    for (i = 0; i < PAIRS; i++) {
        int32_t source[3] = {5, 6, 7}, target[3] = {5, 6, 7};
        if (bad >> i & 1) source[1] = 99;
        OK(trf_corpus_add(corpus, source, 3, target, 3, &err));
    }
    return corpus;
}

/* The batch that a run which resumes from a checkpoint gets first. */
static int64_t resumed_at(const trf_trainer *trainer, const trf_corpus *corpus, int bad)
{
    trf_corpus *again = corpus_of(bad);
    trf_model *model = NULL;
    trf_trainer *loaded = NULL;
    trf_batch batch;
    size_t bytes = 0;
    void *saved;
    FAILS(TRF_E_LIMIT, kit_checkpoint_save_memory(trainer, corpus, NULL, 0, &bytes, &err));
    saved = malloc(bytes);
    OK(kit_checkpoint_save_memory(trainer, corpus, saved, bytes, &bytes, &err));
    OK(kit_checkpoint_load_memory(&model, &loaded, again, saved, bytes, NULL, NULL, &err));
    OK(trf_corpus_next(again, &batch, &err));
    free(saved);
    trf_trainer_destroy(loaded);
    trf_model_destroy(model);
    trf_corpus_destroy(again);
    return batch.place.batch;
}

/* trf_stage_create whose only allocations fail from number `left` on. */
static int left = 1 << 30;
static void *limited(void *user, size_t align, size_t bytes)
{
    (void)user;
    if (left-- <= 0) return NULL;
    return aligned_alloc(align < 64 ? 64 : align, (bytes + 127) / 64 * 64);
}
static void release(void *user, void *memory, size_t bytes) { (void)user; (void)bytes; free(memory); }

static int stop_now;
static int stops(void *user) { (void)user; return stop_now; }

static void a_rejected_batch_counts_as_used(void **state)
{
    const int bad = 1 << 1 | 1 << 3 | 1 << 6;
    trf_config config = small(TRF_ENCODER_DECODER);
    trf_model *model = model_of(&config);
    trf_trainer *trainer;
    trf_train_options o = trf_train_defaults();
    trf_corpus *corpus = corpus_of(bad);
    trf_stage *stage = NULL;
    trf_batch batch;
    int fail;
    (void)state;
    o.threads = 1;
    o.hooks.cancel = stops;
    o.hooks.alloc = limited;
    o.hooks.free = release;
    OK(trf_trainer_create(&trainer, model, &o, &err));
    OK(trf_corpus_next(corpus, &batch, &err));
    OK(trf_trainer_step(trainer, &batch, NULL, &err));
    OK(trf_corpus_next(corpus, &batch, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_step(trainer, &batch, NULL, &err));
    assert_int_equal(resumed_at(trainer, corpus, bad), 2);
    trf_trainer_discard_gradients(trainer);             /* there are none */
    assert_int_equal(resumed_at(trainer, corpus, bad), 2);
    OK(trf_corpus_next(corpus, &batch, &err));          /* skipped by the program */
    OK(trf_corpus_next(corpus, &batch, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_step(trainer, &batch, NULL, &err));
    assert_int_equal(resumed_at(trainer, corpus, bad), 4);
    OK(trf_corpus_next(corpus, &batch, &err));          /* skipped */
    OK(trf_corpus_next(corpus, &batch, &err));          /* a cancelled one comes again */
    stop_now = 1;
    FAILS(TRF_E_CANCELLED, trf_trainer_step(trainer, &batch, NULL, &err));
    stop_now = 0;
    assert_int_equal(resumed_at(trainer, corpus, bad), 5);
    for (fail = 0; fail < 3; fail++) {                  /* a call that fails moves nothing */
        left = fail;
        FAILS(TRF_E_NOMEM, trf_stage_create(&stage, trainer, 1, NULL, NULL, &err));
        left = 1 << 30;
        assert_int_equal(resumed_at(trainer, corpus, bad), 5);
    }
    OK(trf_trainer_step(trainer, &batch, NULL, &err));
    OK(trf_stage_create(&stage, trainer, 1, NULL, NULL, &err));
    OK(trf_corpus_next(corpus, &batch, &err));
    FAILS(TRF_E_INVALID_ARG, trf_stage_forward(stage, 0, &batch, NULL, NULL, &err));
    assert_int_equal(resumed_at(trainer, corpus, bad), 7);
    trf_stage_destroy(stage);
    assert_int_equal(resumed_at(trainer, corpus, bad), 7);
    trf_corpus_destroy(corpus);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* A batch that has labels, and none that counts. */
static void a_batch_without_targets_counts_as_used(void **state)
{
    static const int32_t ids[2] = {5, 6}, none[2] = {-1, -1}, length = 2;
    trf_config config = small(TRF_ENCODER_ONLY);
    trf_corpus *corpus = corpus_of(0);
    trf_model *model;
    trf_trainer *trainer;
    trf_batch batch;
    (void)state;
    config.head = TRF_HEAD_TOKENS;
    config.n_labels = 3;
    model = model_of(&config);
    trainer = trainer_of(model);
    OK(trf_corpus_next(corpus, &batch, &err));          /* for its place */
    batch.source.ids = ids;
    batch.target.ids = none;
    batch.source.lengths = batch.target.lengths = &length;
    FAILS(TRF_E_STATE, trf_trainer_step(trainer, &batch, NULL, &err));
    assert_int_equal(resumed_at(trainer, corpus, 0), 1);
    trf_corpus_destroy(corpus);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* Of an update of two batches the second one is bad: both are gone, here and after loading. */
static void learning_passes_a_bad_batch(void **state)
{
    const int bad = 1 << 1;
    trf_config config = small(TRF_ENCODER_DECODER);
    trf_learn_options learn = trf_learn_defaults();
    trf_learn_report report;
    trf_model *model = model_of(&config);
    trf_trainer *trainer = trainer_of(model);
    trf_corpus *corpus = corpus_of(bad);
    (void)state;
    learn.updates = 1;
    learn.accumulate = 2;
    learn.ema = 0;
    FAILS(TRF_E_INVALID_ARG, trf_trainer_learn(trainer, corpus, NULL, &learn, NULL, &err));
    assert_int_equal(resumed_at(trainer, corpus, bad), 2);
    OK(trf_trainer_learn(trainer, corpus, NULL, &learn, &report, &err));
    assert_int_equal(report.last.target_tokens, 8);
    trf_corpus_destroy(corpus);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Answers */

/* A model whose logits differ from token to token. */
static trf_model *lively_model(const trf_config *c)
{
    trf_model *model = model_of(c);
    uint32_t x = 1;
    int32_t i;
    int64_t k;
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor p = trf_model_parameter(model, i);
        for (k = 0; k < trf_tensor_count(&p); k++) {
            x = x * 1664525u + 1013904223u;
            p.data[k] += (trf_real)((double)(x >> 8) / 16777216.0 - 0.5);
        }
    }
    return model;
}

/* The best answer's log-probability, that of trf_reader_score added up, and the score of the search. */
static double own_log_probability(const trf_model *model, int beam, int renormalize, double *score)
{
    static const int32_t ids[3] = {5, 6, 7}, length = 3;
    const trf_sequences source = {ids, &length, 1};
    trf_search search = trf_search_defaults();
    trf_translator *t;
    trf_batch pair;
    double result, scored, sum = 0;
    const trf_hypothesis *h;
    int32_t answer[32], n, i;
    search.beam = beam;
    search.min_length = 4;
    search.at_limit = TRF_LIMIT_FORCE_EOS;
    search.renormalize_logits = renormalize;
    t = translator_of(model, &search);
    OK(trf_translate(t, &source, NULL, &err));
    h = trf_translator_answer(t, 0, 0);
    assert_int_equal(h->ended, TRF_ENDED_EOS);
    assert_true(h->n >= 4);
    memset(&pair, 0, sizeof pair);
    n = h->n;
    memcpy(answer, h->ids, (size_t)n * sizeof *answer);
    pair.source = source;
    pair.target.ids = answer;
    pair.target.lengths = &n;
    pair.target.count = 1;
    for (i = 0; i <= n; i++) sum += h->log_probabilities[i];
    result = h->log_probability;
    *score = h->score;
    assert_true(sum == result);
    OK(trf_reader_score(trf_translator_reader(t), &pair, NULL, &scored, &err));
    assert_true(fabs(scored - result) < 1e-5 * fabs(scored));
    trf_translator_destroy(t);
    return result;
}

static void log_probabilities_are_the_models_own(void **state)
{
    trf_config config = small(TRF_ENCODER_DECODER);
    trf_model *model = lively_model(&config);
    double score, renormalized, plain;
    int beam;
    (void)state;
    for (beam = 1; beam < 5; beam++) {
        plain = own_log_probability(model, beam, 0, &score);
        renormalized = own_log_probability(model, beam, 1, &score);
        if (beam > 1) continue;
        assert_true(fabs(plain - renormalized) < 1e-5 * fabs(plain));
    }
    trf_model_destroy(model);
}

/* Every token but EOS is banned, and min_length forbids EOS. */
static void a_search_says_that_no_token_was_allowed(void **state)
{
    static const int32_t ids[3] = {5, 6, 7}, length = 3;
    const trf_sequences source = {ids, &length, 1};
    trf_config config = small(TRF_ENCODER_DECODER);
    trf_model *model = model_of(&config);
    trf_search search = trf_search_defaults();
    trf_translator *t;
    const trf_hypothesis *h;
    int32_t banned[20], ones[20], i, way;
    (void)state;
    for (i = 0; i < 17; i++) { banned[i] = 3 + i; ones[i] = 1; }
    for (way = 0; way < 4; way++) {
        search.beam = 1 + 3 * (way & 1);
        search.renormalize_logits = way >> 1;
        search.min_length = 2;
        search.banned.ids = banned;
        search.banned.lengths = ones;
        search.banned.count = 17;
        t = translator_of(model, &search);
        OK(trf_translate(t, &source, NULL, &err));
        h = trf_translator_answer(t, 0, 0);
        assert_int_equal(h->ended, TRF_ENDED_NO_TOKEN);
        assert_int_equal(h->n, 0);
        assert_true(h->log_probability == -HUGE_VAL && h->score == -HUGE_VAL);
        trf_translator_destroy(t);
        search.min_length = 0;                  /* then the answer is empty */
        t = translator_of(model, &search);
        OK(trf_translate(t, &source, NULL, &err));
        assert_int_equal(trf_translator_answer(t, 0, 0)->ended, TRF_ENDED_EOS);
        trf_translator_destroy(t);
    }
    trf_model_destroy(model);
}

/* A memory has rows, not ids, so a row needs no tag. */
static void a_memory_of_one_row_needs_no_tag(void **state)
{
    static const int32_t ids[2] = {5, 6}, two = 2, one = 1;
    const trf_sequences targets = {ids, &two, 1};
    trf_config config = small(TRF_ENCODER_DECODER);
    trf_model *model = model_of(&config);
    trf_search search = trf_search_defaults();
    trf_real numbers[2][3 * 16], row[16] = {1};
    trf_tensor memory = trf_tensor_of(row, 2, 1, 16, 1);
    int tagged;
    (void)state;
    for (tagged = 0; tagged < 2; tagged++) {
        trf_tensor out = trf_tensor_of(numbers[tagged], 2, 3, 16, 1);
        trf_translator *t;
        search.source_tagged = tagged;
        t = translator_of(model, &search);
        OK(kit_decode(t, &memory, &one, &targets, &out, &err));
        if (tagged) {                           /* a source still needs its tag */
            const int32_t zero = 0;
            double scored;
            trf_batch pair;
            memset(&pair, 0, sizeof pair);
            pair.source.lengths = &zero;
            pair.source.count = 1;
            pair.target = targets;
            FAILS(TRF_E_INVALID_ARG, trf_reader_score(trf_translator_reader(t), &pair, NULL, &scored, &err));
        }
        trf_translator_destroy(t);
    }
    assert_memory_equal(numbers[0], numbers[1], sizeof numbers[0]);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Memory, and packed models */

typedef struct held { size_t now, most; } held;
static void *counted(void *user, size_t align, size_t bytes)
{
    held *h = (held *)user;
    h->now += bytes;
    if (h->now > h->most) h->most = h->now;
    return aligned_alloc(align < 64 ? 64 : align, (bytes + 127) / 64 * 64);
}
static void uncounted(void *user, void *memory, size_t bytes)
{
    if (memory) ((held *)user)->now -= bytes;
    free(memory);
}

/* One prompt of a call is empty, which has a longer limit where prompts are bare. */
static void a_translator_takes_no_more_than_told(void **state)
{
    trf_config config = small(TRF_DECODER_ONLY);
    trf_search search = trf_search_defaults();
    int32_t ids[64], longest, i, empty;
    (void)state;
    config.bare_prompts = 1;
    search.max_tokens = INT32_MAX;
    search.max_length_a = 0;
    search.max_length_b = 100;
    for (i = 0; i < 64; i++) ids[i] = 5 + i % 10;
    for (longest = 0; longest < 16; longest++)
        for (empty = 0; empty < 2; empty++) {
            int32_t lengths[4] = {longest, empty ? 0 : longest, longest, longest};
            const trf_sequences prompts = {ids, lengths, 4};
            held memory = {0, 0};
            trf_model *model = model_of(&config);
            trf_translator *t;
            search.hooks.user = &memory;
            search.hooks.alloc = counted;
            search.hooks.free = uncounted;
            t = translator_of(model, &search);
            OK(trf_translate(t, &prompts, NULL, &err));
            assert_true(memory.most <= trf_translator_memory(&config, &search, 4, longest, NULL));
            trf_translator_destroy(t);
            assert_true(memory.now == 0);
            trf_model_destroy(model);
        }
}

/* Where CBLAS may multiply, up to 512 rows are multiplied alike with and without unpacked weights. */
static void packed_models_have_the_same_bits(void **state)
{
    enum { ROWS = 101 };
    trf_products products;
    (void)state;
    for (products = TRF_PRODUCTS_CBLAS; products <= TRF_PRODUCTS_BUILT_IN; products++) {
        trf_config config = small(TRF_DECODER_ONLY);
        double scored[2];
        int32_t ids[ROWS], length = ROWS, i;
        int packed;
        config.d_model = 640;
        config.target_vocab = 64;
        config.max_length = 128;
        config.device.products = products;
        for (i = 0; i < ROWS; i++) ids[i] = 4 + i * 7 % 60;
        for (packed = 0; packed < 2; packed++) {
            trf_model *model = NULL;
            trf_translator *t;
            trf_batch text;
            if (trf_model_create(&model, &config, NULL, &err) == TRF_E_BACKEND) break;   /* no CBLAS */
            if (packed) OK(trf_model_pack(model, TRF_WEIGHTS_FULL, &err));
            t = translator_of(model, NULL);
            memset(&text, 0, sizeof text);
            text.target.ids = ids;
            text.target.lengths = &length;
            text.target.count = 1;
            OK(trf_reader_score(trf_translator_reader(t), &text, NULL, &scored[packed], &err));
            trf_translator_destroy(t);
            trf_model_destroy(model);
        }
        if (packed == 2) assert_memory_equal(&scored[0], &scored[1], sizeof *scored);
    }
}

/* -----------------------------------------------------------------------------------------------
   Activations */

static void act_of(trf_activation kind, double h, double *value, double *slope)
{
    double p, w = 2 * sqrt(2 / M_PI);
    if (kind == TRF_RELU || fabs(h) > 128) { *value = h > 0 ? h : 0; *slope = h > 0; return; }
    if (kind == TRF_GELU) {
        p = 0.5 * erfc(-h / sqrt(2));
        *slope = p + h * exp(-h * h / 2) / sqrt(2 * M_PI);
    } else if (kind == TRF_SILU) {
        p = 1 / (1 + exp(-h));
        *slope = p * (1 + h / (1 + exp(h)));
    } else {
        p = 1 / (1 + exp(-w * (h + 0.044715 * h * h * h)));
        *slope = p * (1 + h * w * (1 + 3 * 0.044715 * h * h) /
                              (1 + exp(w * (h + 0.044715 * h * h * h))));
    }
    *value = h * p;
}

/* Values and slopes at every 40,009th float beside doubles, by a layer whose weights are 1. (Once it
   was every float.) */
static void activations_saturate(void **state)
{
    enum { ROWS = 4096 };
    static trf_real x[ROWS], y[ROWS], dx[ROWS], dy[ROWS], kept[4 * ROWS];
    trf_real one = 1, zero = 0, g[4];
    const trf_tensor w = trf_tensor_of(&one, 2, 1, 1, 1), b = trf_tensor_of(&zero, 1, 1, 1, 1);
    const trf_feed_forward_params params = {w, b, w, b};
    trf_feed_forward_params gradients;
    trf_tensor tx = trf_tensor_of(x, 2, ROWS, 1, 1), ty = trf_tensor_of(y, 2, ROWS, 1, 1);
    trf_tensor tdx = trf_tensor_of(dx, 2, ROWS, 1, 1), tdy = trf_tensor_of(dy, 2, ROWS, 1, 1), ts;
    trf_context *context = NULL;
    int64_t n = trf_feed_forward_saved(ROWS, &params);
    int kind, i;
    (void)state;
    assert_true(n <= 4 * ROWS);
    ts = trf_tensor_of(kept, 1, n, 1, 1);
    gradients.w1 = trf_tensor_of(g, 2, 1, 1, 1);
    gradients.b1 = trf_tensor_of(g + 1, 1, 1, 1, 1);
    gradients.w2 = trf_tensor_of(g + 2, 2, 1, 1, 1);
    gradients.b2 = trf_tensor_of(g + 3, 1, 1, 1, 1);
    OK(trf_context_create(&context, NULL, NULL, &err));
    for (i = 0; i < ROWS; i++) dy[i] = 1;
    for (kind = 0; kind < TRF_ACTIVATION_COUNT; kind++) {
        uint64_t bits = 0;
        while (bits < (uint64_t)1 << 32) {
            for (i = 0; i < ROWS; i++, bits += 40009) {
                uint32_t now = (uint32_t)bits;
                float number;
                memcpy(&number, &now, sizeof number);
                x[i] = isfinite(number) ? (trf_real)number : 0;
            }
            OK(trf_feed_forward(context, &ty, &tx, &params, (trf_activation)kind, &ts, &err));
            OK(trf_feed_forward_backward(context, &tdx, &gradients, &tdy, &tx, &params,
                                         (trf_activation)kind, &ts, &err));
            for (i = 0; i < ROWS; i++) {
                double value, slope, most = fabs((double)x[i]) > 1 ? fabs((double)x[i]) : 1;
                act_of((trf_activation)kind, (double)x[i], &value, &slope);
                if (!isfinite(y[i]) || !isfinite(dx[i]) ||
                    fabs((double)y[i] - value) > 1e-6 * (value > 1 ? value : 1) + 1e-6 ||
                    fabs((double)dx[i] - slope) > 1e-6 * most)
                    fail_msg("activation %d of %g: %.9g with slope %.9g instead of %.9g, %.9g", kind,
                             (double)x[i], (double)y[i], (double)dx[i], value, slope);
            }
        }
    }
    trf_context_destroy(context);
}

/* -----------------------------------------------------------------------------------------------
   Damaged headers */

/* Every bit of a header is changed in turn: no file loads with another configuration. Without the
   checksum, as files of earlier versions, it loads. */
static void a_damaged_header_is_refused(void **state)
{
    trf_config config = small(TRF_DECODER_ONLY);
    trf_model *model = model_of(&config), *loaded = NULL;
    size_t bytes = 0, header = 0, at;
    unsigned char *saved;
    char *sum;
    int bit, refused = 0, i;
    (void)state;
    FAILS(TRF_E_LIMIT, kit_save_memory(model, TRF_WEIGHTS_FULL, NULL, 0, &bytes, &err));
    saved = (unsigned char *)malloc(bytes);
    OK(kit_save_memory(model, TRF_WEIGHTS_FULL, saved, bytes, &bytes, &err));
    for (i = 7; i >= 0; i--) header = header << 8 | saved[i];
    for (at = 8; at < 8 + header; at++)
        for (bit = 0; bit < 8; bit++) {
            saved[at] ^= (unsigned char)(1 << bit);
            if (kit_load_memory(&loaded, saved, bytes, NULL, &err) == TRF_OK) {
                trf_config c = *trf_model_config(loaded);
                c.device = config.device;
                c.hooks = config.hooks;
                assert_memory_equal(&c, &config, sizeof c);
                trf_model_destroy(loaded);
            } else {
                refused += err.status == TRF_E_CHECKSUM && !strcmp(err.what, "trf.header_crc32");
                assert_true(err.message[0] != 0);
            }
            saved[at] ^= (unsigned char)(1 << bit);
        }
    assert_true(refused > 1000);
    for (sum = (char *)saved + 8; memcmp(sum, "trf.header_crc32", 16); sum++) { }
    memcpy(sum, "own", 3);
    OK(kit_load_memory(&loaded, saved, bytes, NULL, &err));
    trf_model_destroy(loaded);
    free(saved);
    trf_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_without_an_error), cmocka_unit_test(nonsense_in_held_out_pairs),
        cmocka_unit_test(outputs_of_failing_calls),
        cmocka_unit_test(a_rejected_batch_counts_as_used),
        cmocka_unit_test(a_batch_without_targets_counts_as_used),
        cmocka_unit_test(learning_passes_a_bad_batch),
        cmocka_unit_test(log_probabilities_are_the_models_own),
        cmocka_unit_test(a_search_says_that_no_token_was_allowed),
        cmocka_unit_test(a_memory_of_one_row_needs_no_tag),
        cmocka_unit_test(a_translator_takes_no_more_than_told),
        cmocka_unit_test(packed_models_have_the_same_bits), cmocka_unit_test(activations_saturate),
        cmocka_unit_test(a_damaged_header_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

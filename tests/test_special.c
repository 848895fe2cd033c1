/* build: shared plain:shared:all */
/* Special ids as published models have them: Marian's (pad last, no bos), T5's, GPT-2's (bos is
   eos, nothing else) and Llama's. What may be absent and what may not, answers against the list of
   all answers, a bos that is eos against one that only looks like it, files. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"

enum { WIDTH = 8, LONGEST = 3, MOST = 400 };

static trf_config config_of(trf_kind kind, int32_t vocab, int32_t pad, int32_t bos, int32_t eos,
                            int32_t unk, trf_decoder_start start)
{
    trf_config c = kit_of_kind(kit_small(1, WIDTH, vocab, 16), kind);
    c.pad = pad; c.bos = bos; c.eos = eos; c.unk = unk;
    c.decoder_start = start;
    c.embedding_init = TRF_EMBEDDING_NORMAL_1;          /* logits that differ */
    return c;
}

/* What may be -1, what may be equal, and what needs which id. refused: the field, or NULL. */
static void configurations(void **state)
{
    enum { BOTH = TRF_ENCODER_DECODER, ENCODER = TRF_ENCODER_ONLY, DECODER = TRF_DECODER_ONLY };
    enum { BOS = TRF_START_BOS, EOS = TRF_START_EOS, PAD = TRF_START_PAD, ZERO = TRF_START_ZERO };
    static const struct {
        int kind, pad, bos, eos, unk, start, source_bos, head;
        const char *refused;
    } rows[] = {{BOTH, 0, 1, 2, 3, BOS, 0, 0, NULL},
                {BOTH, 8, -1, 0, 1, PAD, 0, 0, NULL},                   /* Marian */
                {BOTH, 0, -1, 1, 2, PAD, 0, 0, NULL},                   /* T5 */
                {BOTH, 1, 0, 2, 3, EOS, 1, 0, NULL},                    /* BART */
                {DECODER, -1, 8, 8, -1, BOS, 0, 0, NULL},               /* GPT-2 */
                {DECODER, -1, 1, 2, 0, BOS, 0, 0, NULL},                /* Llama */
                {DECODER, -1, -1, 2, -1, EOS, 0, 0, NULL},
                {DECODER, -1, -1, 2, -1, ZERO, 1, 0, NULL},             /* it has no source */
                {BOTH, -1, -1, 0, -1, ZERO, 0, 0, NULL},
                {BOTH, -1, 2, 2, -1, BOS, 1, 0, NULL},
                {ENCODER, -1, -1, 0, -1, BOS, 0, TRF_HEAD_MEAN, NULL},  /* it has no decoder */
                {ENCODER, -1, -1, 0, -1, PAD, 0, TRF_HEAD_TOKENS, NULL},
                {ENCODER, 0, -1, 2, -1, BOS, 0, TRF_HEAD_MASKED, NULL},
                {DECODER, -1, -1, 2, -1, BOS, 0, 0, "decoder_start"},
                {BOTH, -1, -1, 2, -1, BOS, 0, 0, "decoder_start"},
                {BOTH, -1, 1, 2, 3, PAD, 0, 0, "decoder_start"},
                {BOTH, 0, -1, 2, 3, PAD, 1, 0, "source_bos"},
                {ENCODER, 0, -1, 2, 3, BOS, 1, TRF_HEAD_MEAN, "source_bos"},
                {ENCODER, -1, 1, 2, 3, BOS, 0, TRF_HEAD_MASKED, "head"},
                {BOTH, 0, 1, -1, 3, BOS, 0, 0, "eos"},
                {BOTH, 0, 1, 9, 3, BOS, 0, 0, "eos"},
                {BOTH, -2, 1, 2, 3, BOS, 0, 0, "pad"},
                {BOTH, 0, -2, 2, 3, BOS, 0, 0, "bos"},
                {BOTH, 0, 1, 2, -2, BOS, 0, 0, "unk"},
                {BOTH, 9, 1, 2, 3, BOS, 0, 0, "pad"},
                {BOTH, 0, 9, 2, 3, BOS, 0, 0, "bos"},
                {BOTH, 0, 1, 2, 9, BOS, 0, 0, "unk"},
                {BOTH, 2, 1, 2, 3, BOS, 0, 0, "eos"},
                {BOTH, 0, 1, 2, 2, BOS, 0, 0, "unk"},
                {BOTH, 0, 0, 2, 3, BOS, 0, 0, "bos"},
                {BOTH, 3, 1, 2, 3, BOS, 0, 0, "unk"},
                {BOTH, 0, 1, 2, 1, BOS, 0, 0, "unk"}};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        trf_config c = config_of((trf_kind)rows[i].kind, 9, rows[i].pad, rows[i].bos, rows[i].eos,
                                 rows[i].unk, (trf_decoder_start)rows[i].start);
        trf_model *model;
        trf_status status;
        c.source_bos = rows[i].source_bos;
        c.head = (trf_head)rows[i].head;
        if (c.head && c.head != TRF_HEAD_MASKED) c.n_labels = 2;
        dirty();
        status = trf_config_check(&c, NULL, &err);
        if (status != (rows[i].refused ? TRF_E_INVALID_ARG : TRF_OK) ||
            strcmp(err.what, rows[i].refused ? rows[i].refused : ""))
            fail_msg("row %d: %s: %s", (int)i, err.what, err.message);
        assert_int_equal(trf_model_create(&model, &c, NULL, NULL), status);
        trf_model_destroy(model);
    }
}

/* An option that uses an id needs it. */
static void options(void **state)
{
    trf_config c = config_of(TRF_DECODER_ONLY, 9, -1, 2, 2, -1, TRF_START_BOS);
    trf_search search = trf_search_defaults();
    trf_sampling sampling = trf_sampling_defaults();
    trf_train_options training = kit_small_training(0);
    trf_translator *translator;
    trf_sampler *sampler;
    trf_model *model;
    (void)state;
    OK(trf_model_create(&model, &c, NULL, &err));
    assert_true(trf_translator_memory(&c, &search, 2, 3, NULL) > 0);
    search.ban_unk = 1;
    FAILS(trf_translator_create(&translator, model, &search, &err), TRF_E_INVALID_ARG, "ban_unk",
          -1);
    assert_null(translator);
    assert_int_equal(trf_translator_memory(&c, &search, 2, 3, NULL), 0);
    sampling.allow_unk = 1;
    FAILS(trf_sampler_create(&sampler, model, &sampling, &err), TRF_E_INVALID_ARG, "allow_unk", -1);
    assert_null(sampler);
    training.smoothing_rule = TRF_SMOOTH_NO_PAD_KL;
    FAILS(trf_train_check(&training, &c, &err), TRF_E_INVALID_ARG, "smoothing_rule", -1);
    c.pad = 3;
    OK(trf_train_check(&training, &c, &err));
    trf_model_destroy(model);
}

/* ---- answers ---- */

/* One source of two ids, or none. */
static const int32_t source_ids[] = { 3, 3 }, source_length[] = { 2 }, no_length[] = { 0 };

static double score_of(trf_translator *t, const int32_t *ids, int32_t n)
{
    trf_batch batch = {{source_ids, source_length, 1}, {NULL, NULL, 1}, 0, {0, 0, 0}};
    double score;
    batch.target.ids = ids;
    batch.target.lengths = &n;
    OK(trf_reader_score(trf_translator_reader(t), &batch, NULL, &score, &err));
    return score;
}

/* A beam as wide as all answers there are: each of them once, with the score that trf_reader_score gives
   it. `tokens` are those that an answer may have. */
static void check_answers(const trf_config *c, const int32_t *tokens, int32_t n_tokens, int ban_unk)
{
    trf_sequences input = {source_ids, source_length, 1};
    trf_search search = trf_search_defaults();
    trf_translator *t;
    trf_model *model;
    int32_t all = 1, power = 1, i, k, j, seen[MOST];
    for (i = 0; i < LONGEST; i++) all += power *= n_tokens;
    assert_true(all < MOST);
    OK(trf_model_create(&model, c, NULL, &err));
    trf_search_set_rule(&search, TRF_SEARCH_RAW);
    search.threads = 1;
    search.beam = search.n_best = all;
    search.candidates = 2;
    search.stop = TRF_STOP_NONE_ALIVE;
    search.at_limit = TRF_LIMIT_FORCE_EOS;
    search.max_length_a = 0;
    search.max_length_b = LONGEST;
    search.ban_unk = ban_unk;
    OK(trf_translator_create(&t, model, &search, &err));
    if (c->kind == TRF_DECODER_ONLY) input.lengths = no_length;
    OK(trf_translate(t, &input, NULL, &err));
    assert_int_equal(kit_count(t, 0), all);
    memset(seen, 0, sizeof seen);
    for (k = 0; k < all; k++) {
        trf_hypothesis h = *trf_translator_answer(t, 0, k);
        int32_t ids[LONGEST], number = 0;
        memcpy(ids, h.ids, (size_t)h.n * sizeof *ids);
        for (i = 0; i < h.n; i++) {
            for (j = 0; j < n_tokens && tokens[j] != ids[i]; j++) { }
            assert_true(j < n_tokens);
            number = number * n_tokens + j + 1;
        }
        assert_int_equal(seen[number]++, 0);
        assert_int_equal(h.ended, TRF_ENDED_EOS);
    }
    for (k = 0; k < all; k += 7) {
        int32_t ids[LONGEST], n;
        double score;
        if (k) OK(trf_translate(t, &input, NULL, &err));
        n = trf_translator_answer(t, 0, k)->n;
        score = trf_translator_answer(t, 0, k)->log_probability;
        memcpy(ids, trf_translator_answer(t, 0, k)->ids, (size_t)n * sizeof *ids);
        assert_true(fabs(score_of(t, ids, n) - score) < 1e-4);
    }
    trf_translator_destroy(t);
    trf_model_destroy(model);
}

/* bos that is eos ends answers; no id is taken for one that the model does not have. */
static void all_answers(void **state)
{
    static const int32_t gpt2[] = {0, 1, 2, 3, 4}, marian[] = {1, 2, 3, 4}, llama[] = {0, 3, 4, 5};
    static const int32_t nothing[] = {1, 2, 3, 4};
    trf_config c = config_of(TRF_DECODER_ONLY, 6, -1, 5, 5, -1, TRF_START_BOS);
    (void)state;
    check_answers(&c, gpt2, 5, 0);
    c = config_of(TRF_ENCODER_DECODER, 6, 5, -1, 0, 1, TRF_START_PAD);
    check_answers(&c, marian, 4, 0);
    check_answers(&c, marian + 1, 3, 1);
    c = config_of(TRF_DECODER_ONLY, 6, -1, 1, 2, 0, TRF_START_BOS);
    check_answers(&c, llama, 4, 0);
    check_answers(&c, llama + 1, 3, 1);
    c = config_of(TRF_ENCODER_DECODER, 5, -1, -1, 0, -1, TRF_START_ZERO);
    check_answers(&c, nothing, 4, 0);
}

/* Temperature so high that every allowed id is drawn, and no other. */
static void drawn(void **state)
{
    static const struct { int32_t pad, bos, eos, unk, allow_unk, start; } cases[] = {
        {-1, 5, 5, -1, 0, TRF_START_BOS}, {5, -1, 0, 1, 0, TRF_START_PAD},
        {5, -1, 0, 1, 1, TRF_START_PAD}, {-1, 1, 2, 0, 0, TRF_START_BOS},
        {-1, -1, 3, -1, 0, TRF_START_ZERO}, {1, 0, 2, 3, 0, TRF_START_EOS}};
    size_t c;
    (void)state;
    for (c = 0; c < sizeof cases / sizeof *cases; c++) {
        trf_config config = config_of(TRF_DECODER_ONLY, 6, cases[c].pad, cases[c].bos, cases[c].eos,
                                      cases[c].unk, (trf_decoder_start)cases[c].start);
        static int32_t lengths[64];
        trf_batch batch = {{NULL, NULL, 0}, {NULL, lengths, 64}, 0, {0, 0, 0}};
        trf_sampling s = trf_sampling_defaults();
        int32_t count[6] = {0, 0, 0, 0, 0, 0}, ended = 0, live = 1, i, k;
        trf_sampler *g;
        trf_model *model;
        OK(trf_model_create(&model, &config, NULL, &err));
        s.temperature = 100;
        s.max_tokens = 40;
        s.window = 7;
        s.allow_unk = cases[c].allow_unk;
        OK(trf_sampler_create(&g, model, &s, &err));
        OK(trf_sampler_begin(g, &batch, &err));
        while (live) OK(trf_sampler_step(g, 10, &live, &err));
        for (i = 0; i < 64; i++) {
            const trf_hypothesis *h = trf_sampler_answer(g, i);
            for (k = 0; k < h->n; k++) count[h->ids[k]]++;
            ended += h->ended == TRF_ENDED_EOS;
        }
        assert_true(ended > 32);
        for (i = 0; i < 6; i++) {
            int never = i == config.pad || i == config.eos || (i == config.unk && !s.allow_unk) ||
                        (i == config.bos && config.decoder_start == TRF_START_BOS);
            assert_true(never ? count[i] == 0 : count[i] > 0);
        }
        trf_sampler_destroy(g);
        trf_model_destroy(model);
    }
}

/* A prompt may not contain a special id; an id that the model does not have is no special one. */
static void prompts(void **state)
{
    trf_config c = config_of(TRF_DECODER_ONLY, 6, -1, 5, 5, -1, TRF_START_BOS);
    static const int32_t ids[] = { 0, 1, 5, 3, 6 };     /* 5 is EOS, and there is no 6 */
    int32_t length = 4;
    trf_batch batch = {{NULL, NULL, 0}, {NULL, NULL, 1}, 0, {0, 0, 0}};
    trf_sampler *g;
    trf_model *model;
    (void)state;
    batch.target.ids = ids;
    batch.target.lengths = &length;
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_sampler_create(&g, model, NULL, &err));
    OK(trf_sampler_begin(g, &batch, &err));
    length = 5;
    FAILS(trf_sampler_begin(g, &batch, &err), TRF_E_INVALID_ARG, "target", 4);
    trf_sampler_destroy(g);
    trf_model_destroy(model);
}

/* The decoder alone, without unk among its ids: the same states as behind the encoder. */
static void decoder_alone(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, 6, 1, -1, 0, -1, TRF_START_PAD);
    static const int32_t target_ids[] = { 2, 4 }, target_length[] = { 2 }, rows[] = { 3 };
    trf_batch batch = {{source_ids, source_length, 1}, {target_ids, target_length, 1}, 0,
                       {0, 0, 0}};
    trf_real memory[3 * WIDTH], states[3 * WIDTH], logits[3 * 6], want[3 * 6];
    trf_tensor m = trf_tensor_of(memory, 2, 3, WIDTH, 1), s = trf_tensor_of(states, 2, 3, WIDTH, 1);
    trf_tensor z = trf_tensor_of(logits, 2, 3, 6, 1), w = trf_tensor_of(want, 2, 3, 6, 1);
    trf_translator *t;
    trf_model *model;
    int i;
    (void)state;
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_translator_create(&t, model, NULL, &err));
    OK(kit_encode(t, &batch.source, &m, &err));
    OK(kit_decode(t, &m, rows, &batch.target, &s, &err));
    OK(kit_project(t, &s, &z, &err));
    OK(kit_logits(t, &batch, &w, &err));
    for (i = 0; i < 18; i++) assert_true(fabs((double)logits[i] - (double)want[i]) < 1e-5);
    trf_translator_destroy(t);
    trf_model_destroy(model);
}

/* ---- training, files ---- */

#if !defined(TRF_NO_TRAIN)
/* Three updates. Returns the last loss. */
static double train(trf_model *model, const trf_batch *batch)
{
    trf_train_options o = kit_small_training(0);
    trf_step_report report;
    trf_trainer *trainer;
    int i;
    OK(trf_trainer_create(&trainer, model, &o, &err));
    for (i = 0; i < 3; i++) OK(trf_trainer_step(trainer, batch, &report, &err));
    trf_trainer_destroy(trainer);
    return report.loss;
}

/* The rows of the special ids that `from` has at other places, so that both read the same. */
static void copy_row(trf_model *to, const trf_model *from, const char *name, int32_t row,
                     int32_t its)
{
    trf_tensor a = kit_open(trf_model_parameter(to, trf_model_parameter_index(to, name)));
    trf_tensor b = trf_model_parameter(from, trf_model_parameter_index(from, name));
    trf_real *numbers = kit_numbers(b);
    memcpy(a.data + row * WIDTH, numbers + its * WIDTH, WIDTH * sizeof *numbers);
    free(numbers);
    kit_close(&a);
}

/* A decoder that begins with bos, whose embedding is that of eos, reads what one does whose bos is
   eos. Both learn the same but for that embedding, which the one has twice. */
static void bos_is_eos(void **state)
{
    static kit_pairs data;
    trf_batch batch = kit_fill(&data, 4, 1, 6, 8, 5);
    trf_config c = config_of(TRF_DECODER_ONLY, 8, -1, 1, 2, -1, TRF_START_BOS);
    trf_model *two, *one;
    double loss, same;
    (void)state;
    batch.source.count = 0;
    OK(trf_model_create(&two, &c, NULL, &err));
    c.bos = 2;
    OK(trf_model_create(&one, &c, NULL, &err));
    copy_row(two, two, "tgt_embed.weight", 1, 2);
    copy_row(one, two, "tgt_embed.weight", 1, 1);
    loss = train(two, &batch);
    same = train(one, &batch);
    assert_true(fabs(loss - same) < 1e-3 && loss < 4);
    /* nothing reads eos but the beginning: the row that began has learned, the other has not */
    copy_row(two, one, "tgt_embed.weight", 2, 2);
    copy_row(one, two, "tgt_embed.weight", 1, 1);
    assert_true(hash_weights(HASH_START, one) == hash_weights(HASH_START, two));
    trf_model_destroy(one);
    trf_model_destroy(two);
}

/* BART's targets begin with bos, behind the eos that its decoder reads first. What has learned them
   answers so, and without bos where it is forced. A decoder that begins with bos takes no such
   target. */
static void bos_in_targets(void **state)
{
    static const int32_t source[] = {5}, target[] = {0, 6, 4}, one = 1, three = 3;
    trf_config c = config_of(TRF_ENCODER_DECODER, 8, 1, 0, 2, 3, TRF_START_EOS);
    trf_batch batch = {{source, &one, 1}, {target, &three, 1}, 0, {0, 0, 0}};
    trf_model *model, *refuses;
    int i, forced;
    (void)state;
    OK(trf_model_create(&model, &c, NULL, &err));
    for (i = 0; i < 5; i++) train(model, &batch);
    for (forced = 0; forced < 2; forced++) {
        trf_search s = trf_search_defaults();
        trf_translator *t;
        s.beam = 2;
        s.forced_first = forced ? 0 : -1;
        OK(trf_translator_create(&t, model, &s, &err));
        OK(trf_translate(t, &batch.source, NULL, &err));
        assert_int_equal(trf_translator_answer(t, 0, 0)->n, 3 - forced);
        assert_memory_equal(trf_translator_answer(t, 0, 0)->ids, target + forced, (size_t)(3 - forced) * 4);
        trf_translator_destroy(t);
    }
    trf_model_destroy(model);
    c.decoder_start = TRF_START_BOS;
    OK(trf_model_create(&refuses, &c, NULL, &err));
    { trf_translator *t; double score;
      OK(trf_translator_create(&t, refuses, NULL, &err));
      FAILS(trf_reader_score(trf_translator_reader(t), &batch, NULL, &score, &err), TRF_E_INVALID_ARG, "target", 0);
      trf_translator_destroy(t); }
    trf_model_destroy(refuses);
}
#endif

static void files(void **state)
{
    static const trf_decoder_start start = TRF_START_PAD;
    trf_config c = config_of(TRF_ENCODER_DECODER, 9, 8, -1, 0, -1, start), had;
    char path[] = "/tmp/test_special.XXXXXX";
    int fd = mkstemp(path);
    trf_model *model, *again;
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_model_save(model, path, NULL, &err));
    OK(trf_model_load(&again, path, NULL, &err));
    had = *trf_model_config(again);
    assert_true(had.pad == 8 && had.bos == -1 && had.eos == 0 && had.unk == -1);
    assert_true(hash_weights(HASH_START, model) == hash_weights(HASH_START, again));
    trf_model_destroy(again);
    trf_model_destroy(model);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(configurations),
                                       cmocka_unit_test(options),
                                       cmocka_unit_test(all_answers),
                                       cmocka_unit_test(drawn),
                                       cmocka_unit_test(prompts),
                                       cmocka_unit_test(decoder_alone),
#if !defined(TRF_NO_TRAIN)
                                       cmocka_unit_test(bos_is_eos),
                                       cmocka_unit_test(bos_in_targets),
#endif
                                       cmocka_unit_test(files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

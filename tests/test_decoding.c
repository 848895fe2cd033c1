/* build: shared separate:shared long:shared plain:shared */
/* What a caller of translating may rely on, whatever is searched: limits, prefixes, batches and
   rounds; loops over logits and exhaustive search are the oracles. C99 and C++11. */
#include "tasks.h"

/* A look inside that is cancelled, wherever it is, leaves what it would have written as it was. */
static void cancelled_looks(void **state)
{
    enum { MANY = 4096 };
    static trf_real numbers[MANY];
    trf_error err;
    game g;
    trf_search search = search_of(1, 1);
    trf_translator *t = NULL;
    int32_t ids[6] = {5, 6, 7, 8, 9, 10}, n[2] = {4, 6};
    trf_batch batch = {{ids, n, 1}, {ids, n + 1, 1}, 0, {0, 0, 0}};
    int64_t at, asked, i;
    int look;
    (void)state;
    search.hooks = game_hooks(&g);
    OK(trf_translator_create(&t, learnt, &search, &err));
    for (look = 0; look < 6; look++)
        for (at = 0, asked = 1; at <= asked; at++) {
            trf_status status;
            trf_tensor hidden = trf_tensor_of(numbers, 2, 5, 32, 1),
                       logits = trf_tensor_of(numbers, 2, 7, VOCAB, 1);
            trf_tensor weights = trf_tensor_of(numbers, 2, look == 3 ? 5 : 7, look == 4 ? 7 : 5, 1);
            double scores[1] = {-77};
            for (i = 0; i < MANY; i++) numbers[i] = -77;
            g.asked = 0;
            g.quit_at = at;
            if (look == 0) status = trf_reader_score(trf_translator_reader(t), &batch, NULL, scores, &err);
            else if (look == 1) status = kit_encode(t, &batch.source, &hidden, &err);
            else if (look == 2) status = kit_logits(t, &batch, &logits, &err);
            else
                status = kit_attention_weights(t, &batch, (trf_attention_kind)(look - 3), 0, 1,
                                               &weights, &err);
            if (at == 0) asked = g.asked;       /* never cancelled: so many places there are */
            assert_int_equal(status, at ? TRF_E_CANCELLED : TRF_OK);
            for (i = 0; at && i < MANY; i++) assert_true(numbers[i] == -77);
            assert_true((scores[0] == -77) == (at > 0 || look != 0));
            assert_true(asked >= 4);
        }
    trf_translator_destroy(t);
    assert_int_equal(g.blocks, 0);
    pthread_mutex_destroy(&g.lock);
}

/* A million sentences in one round would have more places in the cache, or rows of sources, than an
   int32_t can number. The longest come first; where those that follow could be twice as many at a
   time, there is another round. */
static void rounds_that_fit(void **state)
{
    enum { MILLION = 1000000 };
    trf_error err;
    trf_config config = task_config();
    trf_search search = search_of(4, 1);
    trf_model *model = NULL;
    trf_translator *t = NULL;
    int32_t *lengths = (int32_t *)malloc(MILLION * sizeof *lengths),
            *ids = (int32_t *)malloc((MILLION + 4000) * sizeof *ids);
    int32_t i, k, longest[3] = {2201, 1, 4094};
    trf_sequences x;
    (void)state;
    assert_true(lengths && ids);
    for (i = 0; i < MILLION + 4000; i++) ids[i] = 5;
    for (i = 0; i < MILLION; i++) lengths[i] = 1;
    x.ids = ids; x.lengths = lengths; x.count = MILLION;
    config.max_length = 4096;
    OK(trf_model_create(&model, &config, NULL, &err));
    search.max_length_a = 0;
    for (k = 0; k < 6; k++) {
        trf__round round;
        int64_t slots, area;
        memset(&round, 0, sizeof round);
        search.max_sentences = INT32_MAX;
        search.max_tokens = k == 1 ? 40000 : INT32_MAX;
        search.max_length_b = longest[k % 3];
        search.beam = k < 3 ? 1 : 4;
        OK(trf_translator_create(&t, model, &search, &err));
        lengths[MILLION - 1] = k == 1 ? 4000 : 1;
        round.sources = &x;
        round.first = k == 2 ? MILLION - 5 : 0;
        OK(trf__search_prepare(t, &x, 0, NULL, &err));
        trf__round_size(t, MILLION, &round);
        slots = (int64_t)round.n * search.beam * (round.longest + 1);
        area = round.n * (round.longest_source + 15) / 16 * 16;
        assert_true(slots <= INT32_MAX && area <= INT32_MAX && round.longest == longest[k % 3]);
        assert_int_equal(round.longest_source, k == 1 ? 4001 : 2);
        if (k == 1) { /* the long one, which has room for nine of its kind, alone */
            assert_true(round.end == 1 && round.n == 1 &&
                        ((const trf__pending *)t->order[0])->sentence == MILLION - 1);
            round.first = 1;
            trf__round_size(t, MILLION, &round);
            assert_true(round.n == 20000 && round.end == MILLION && round.longest_source == 2);
        } else if (k == 4) {
            assert_int_equal(round.n, MILLION);
            assert_true((int64_t)trf__round_capacity(&search, 4000, 1) * 4016 <=
                        INT32_MAX); /* areas are multiples of 16 */
        } else if (k == 2) assert_int_equal(round.n, 5);
        else assert_true(slots + (int64_t)search.beam * (round.longest + 1) > INT32_MAX);
        trf_translator_destroy(t);
    }
    trf_model_destroy(model);
    free(lengths);
    free(ids);
}

/* Lengths that no call takes: each is refused before anything is counted or allocated. */
static void lengths_that_cannot_be(void **state)
{
    static const int32_t odd[] = {INT32_MAX, -1, INT32_MIN};
    trf_translator *t = translator_of(learnt, NULL);
    int32_t ids[1] = {5}, lengths[3] = {1, 1, 1}, i, what;
    trf_reading seen;
    trf_batch batch;
    (void)state;
    memset(&batch, 0, sizeof batch);
    for (what = 1; what < 256; what *= 2)
        for (i = 0; i < 5; i++) {
            batch.source = batch.target = sequences_of(ids, lengths, i == 3 ? INT32_MIN : 3);
            lengths[1] = odd[i < 3 ? i : 0];
            if (i == 4) batch.source.lengths = batch.target.lengths = NULL;
            memset(&seen, 0x5A, sizeof seen);
            assert_true(trf_reader_read(trf_translator_reader(t), &batch, what, NULL, &seen, NULL) ==
                        (i == 0 ? TRF_E_LIMIT : TRF_E_INVALID_ARG));
            assert_null(seen.logits.data);
            assert_int_equal(seen.count, 0);
        }
    trf_translator_destroy(t);
}

static void forced_prefix(void **state)
{
    trf_error err;
    trf_search search = search_of(3, 3);
    trf_translator *translator = translator_of(learnt, &search),
                   *look = translator_of(learnt, NULL);
    int32_t sources[10], lengths[2] = {5, 5}, prefix[3] = {8, 8, 10}, prefix_lengths[2] = {3, 0}, k,
                         j;
    trf_sequences x = sequences_of(sources, lengths, 2),
                  forced = sequences_of(prefix, prefix_lengths, 2);
    double p[64 * VOCAB];
    (void)state;
    memcpy(sources, question, sizeof question);
    memcpy(sources + 5, question, sizeof question);
    OK(kit_translate_with(translator, &x, &forced, NULL, 0, &err));
    for (k = 0; k < kit_count(translator, 0); k++) {
        const trf_hypothesis *h = trf_translator_answer(translator, 0, k);
        double sum = 0;
        assert_true(h->n >= 3);
        assert_memory_equal(h->ids, prefix, sizeof prefix);
        log_probabilities(look, question, 5, h->ids, h->n, VOCAB, p);
        for (j = 0; j < h->n; j++) sum += p[j * VOCAB + h->ids[j]];
        if (h->ended == TRF_ENDED_EOS) sum += p[h->n * VOCAB + 2];
        assert_true(fabs(sum - h->log_probability) <
                    close_enough() * (1 + h->n)); /* forced tokens count */
    }
    {   /* an empty prefix is none */
        const trf_hypothesis *free_one = trf_translator_answer(translator, 1, 0);
        int32_t kept[64], n = free_one->n;
        double score = free_one->score;
        memcpy(kept, free_one->ids, (size_t)n * sizeof *kept);
        OK(trf_translate(translator, &x, NULL, &err));
        assert_int_equal(trf_translator_answer(translator, 0, 0)->n, n);
        assert_memory_equal(trf_translator_answer(translator, 0, 0)->ids, kept,
                            (size_t)n * sizeof *kept);
        assert_true(fabs(trf_translator_answer(translator, 0, 0)->score - score) < 1e-5);
    }
    {   /* each sentence has its own, in one round and in several */
        static const int32_t many[6] = {9, 4, 4, 11, 7, 5}, lengths_of[5] = {1, 0, 2, 0, 3};
        int32_t five[25], of[5] = {5, 5, 5, 5, 5}, turns, i, at;
        trf_sequences all = sequences_of(five, of, 5), each = sequences_of(many, lengths_of, 5);
        for (i = 0; i < 5; i++) memcpy(five + 5 * i, question, sizeof question);
        for (turns = 0; turns < 2; turns++) {
            trf_translator *t;
            search.max_sentences = turns ? 2 : 32;
            t = translator_of(learnt, &search);
            OK(kit_translate_with(t, &all, &each, NULL, 0, &err));
            for (at = i = 0; i < 5; at += lengths_of[i++])
                for (k = 0; k < kit_count(t, i); k++) {
                    const trf_hypothesis *h = trf_translator_answer(t, i, k);
                    assert_true(h->n >= lengths_of[i]);
                    assert_memory_equal(h->ids, many + at, (size_t)lengths_of[i] * sizeof *many);
                }
            trf_translator_destroy(t);
        }
    }
    forced.count = 1;
    FAILS(TRF_E_INVALID_ARG, kit_translate_with(translator, &x, &forced, NULL, 0, &err));
    forced.count = 2;
    prefix[1] = 2;
    FAILS(TRF_E_INVALID_ARG, kit_translate_with(translator, &x, &forced, NULL, 0, &err));
    assert_int_equal(err.where, 1);
    assert_int_equal(kit_count(translator, 0), 0);
    trf_translator_destroy(translator);
    trf_translator_destroy(look);
}

static void length_limits(void **state)
{
    trf_error err;
    int32_t least, most, n, answer[64];
    (void)state;
    for (least = 0; least <= 9; least += 3)
        for (most = 1; most <= 13; most += 4) {
            trf_search search = search_of(4, 4);
            trf_translator *translator;
            int32_t five = 5, k;
            trf_sequences x = sequences_of(question, &five, 1);
            if (most < least) continue;
            search.min_length = least;
            search.max_length_a = 0;
            search.max_length_b = most;
            translator = translator_of(learnt, &search);
            OK(trf_translate(translator, &x, NULL, &err));
            for (k = 0; k < kit_count(translator, 0); k++) {
                const trf_hypothesis *h = trf_translator_answer(translator, 0, k);
                assert_in_range(h->n, least, most);
                if (h->ended == TRF_ENDED_MAX_LENGTH) assert_int_equal(h->n, most);
            }
            OK(kit_translate(translator, question, 5, answer, 64, &n, &err));
            if (least <= 5 && most >= 9) {          /* not in the way: the right answer */
                assert_int_equal(n, 5);
                assert_int_equal(answer[0], question[4]);
            }
            trf_translator_destroy(translator);
        }
    {   /* a * source + b, and never more than max_length - 1 */
        trf_search search = search_of(1, 1);
        trf_translator *translator;
        search.max_length_a = 1.5;
        search.max_length_b = 1;
        search.min_length = 1000;
        search.at_limit = TRF_LIMIT_KEEP_LIVE;
        translator = translator_of(learnt, &search);
        OK(kit_translate(translator, question, 5, answer, 64, &n, &err));
        assert_int_equal(n, 8);         /* floor(7.5 + 1) */
        trf_translator_destroy(translator);
        search.max_length_a = 100;
        translator = translator_of(learnt, &search);
        OK(kit_translate(translator, question, 5, answer, 64, &n, &err));
        assert_int_equal(n, 47);
        trf_translator_destroy(translator);
    }
}

/* Without a limit of its own a search allows what the training had: the longest target, a quarter
   more, and more in proportion behind a longer source. */
static void limits_of_the_training(void **state)
{
    trf_config c = task_config();
    trf_search s = trf_search_defaults();
    (void)state;
    c.max_length = 512;
    assert_int_equal(trf__answer_limit(&c, &s, 5, 0), 30);
    c.trained_source = 5;
    c.trained_target = 49;
    assert_int_equal(trf__answer_limit(&c, &s, 3, 0), 62);
    assert_int_equal(trf__answer_limit(&c, &s, 5, 0), 62);
    assert_int_equal(trf__answer_limit(&c, &s, 10, 0), 123);
    c.trained_source = 40;
    assert_int_equal(trf__answer_limit(&c, &s, 40, 0), 100);    /* 2 * 40 + 20 */
    c.trained_target = 600;
    assert_int_equal(trf__answer_limit(&c, &s, 3, 0), 511);
    c.trained_target = 49;
    s.max_length_b = 20;                                        /* a limit that was asked for */
    assert_int_equal(trf__answer_limit(&c, &s, 3, 0), 26);
    s.max_length_a = 0;
    s.max_length_b = -1;
    assert_int_equal(trf__answer_limit(&c, &s, 3, 0), 62);
    c.kind = TRF_DECODER_ONLY;                                  /* prompt and answer */
    c.trained_source = 0;
    assert_int_equal(trf__answer_limit(&c, &s, 0, 5), 62);
    assert_int_equal(trf__answer_limit(&c, &s, 0, 80), 100);
    c.max_length = 50;
    assert_int_equal(trf__answer_limit(&c, &s, 0, 5), 49);
    c.bare_prompts = 1;                                 /* the prompt's first id is the start id */
    assert_int_equal(trf__answer_limit(&c, &s, 0, 5), 48);
}

/* Answers that go round in circles, or have nothing like the length of their source. */
static void doubtful_answers(void **state)
{
    int32_t ids[64], source[64], i, period;
    trf_hypothesis h;
    (void)state;
    memset(&h, 0, sizeof h);
    h.ids = ids;
    for (i = 0; i < 64; i++) source[i] = 100 + i;
    for (period = 1; period <= 16; period++)
        for (h.n = 0; h.n <= 64; h.n++) {
            int wanted = h.n >= 4 * period && h.n >= 12;
            for (i = 0; i < h.n; i++) ids[i] = 4 + i % period;
            assert_int_equal(trf__doubts(&h, source, 64, 0), wanted ? TRF_DOUBT_REPEATS : 0);
            assert_int_equal(trf__doubts(&h, ids, h.n, 0), 0);      /* the source does so too */
            assert_int_equal(trf__doubts(&h, NULL, 0, 2), wanted ? TRF_DOUBT_REPEATS : 0);
        }
    for (h.n = 30, period = 3; period <= 4; period++) {     /* so many times, then new ids */
        for (i = 0; i < h.n; i++) ids[i] = i < 5 * period ? 4 + i % 5 : 20 + i;
        assert_int_equal(trf__doubts(&h, source, 64, 0), period == 4 ? TRF_DOUBT_REPEATS : 0);
    }
    for (i = 0; i < 64; i++) ids[i] = 4 + i;
    for (h.n = 0; h.n <= 64; h.n++) {           /* twelve ids, of which 24 are expected */
        int32_t wanted = h.n < 8 ? TRF_DOUBT_SHORT : 0;
        assert_int_equal(trf__doubts(&h, source, 12, 2), wanted);
        wanted = h.n == 0 ? TRF_DOUBT_SHORT : h.n >= 16 ? TRF_DOUBT_LONG : 0;
        assert_int_equal(trf__doubts(&h, source, 2, 2), wanted);
    }
}

/* Beam 1 is the loop that everybody writes, which computes the whole beginning again for every
   token: so the cache is right too. */
static void greedy_is_a_loop_over_logits(void **state)
{
    trf_error err;
    trf_search search = search_of(1, 1);
    trf_translator *translator = translator_of(learnt, &search),
                   *look = translator_of(learnt, NULL);
    pairs p;
    const trf_sequences *x = &backwards(&p)->source;
    int32_t i, w, at = 0, n;
    double lp[64 * VOCAB];
    (void)state;
    OK(trf_translate(translator, x, NULL, &err));
    for (i = 0; i < x->count; at += x->lengths[i], i++) {
        const trf_hypothesis *h = trf_translator_answer(translator, i, 0);
        int32_t ids[64], best = -1;
        double sum = 0;
        for (n = 0; n < 2 * x->lengths[i] + 20; n++) {
            log_probabilities(look, x->ids + at, x->lengths[i], ids, n, VOCAB, lp);
            /* no pad, no BOS */
            for (best = 2, w = 3; w < VOCAB; w++)
                if (lp[n * VOCAB + w] > lp[n * VOCAB + best]) best = w;
            sum += lp[n * VOCAB + best];
            if (best == 2) break;
            ids[n] = best;
        }
        assert_int_equal(h->n, n);
        assert_memory_equal(h->ids, ids, (size_t)n * sizeof *ids);
        assert_int_equal(h->ended, best == 2 ? TRF_ENDED_EOS : TRF_ENDED_MAX_LENGTH);
        assert_true(fabs(h->log_probability - sum) < close_enough() * (1 + n));
    }
    trf_translator_destroy(translator);
    trf_translator_destroy(look);
}

/* The same in every configuration: what search says of an answer is what scoring says, which reads
   it in one piece. */
static void cache_is_recomputation(void **state)
{
    int number;
    (void)state;
    for (number = 0; number < 72; number++) {
        trf_error err;
        trf_config config = task_config();
        trf_search search = search_of(3, 3);
        trf_model *model = NULL;
        trf_translator *t;
        pairs p;
        const trf_sequences *x = &backwards(&p)->source;
        trf_sequences two = sequences_of(x->ids, x->lengths, 2);
        int32_t i, k, at = 0, joined[64];
        config.positions = (trf_positions)(number % TRF_POSITIONS_COUNT);
        config.relative_buckets = 8;
        config.relative_distance = 6;
        config.rotary_pairs = (trf_rotary_pairs)(number / 16 % 2);
        config.rotary_scale = 2;
        config.rotary_trained = number / 16 % 2 * 12;
        config.kv_heads = number / 8 % 2;
        config.d_head = number / 24 % 3 * 6;
        config.scale_logits = number / 12 % 2;
        config.position_offset = number % 3;
        config.norm_place = (trf_norm_place)(number / 5 % 2);
        config.norm_rule = (trf_norm_rule)(number / 3 % 3);
        config.qkv_bias = number / 6 % 2;
        config.out_bias = number / 9 % 2;
        config.feed_forward_bias = number / 13 % 2;
        config.final_norm = (trf_final_norm)(number / 2 % 2);
        config.activation = (trf_activation)(number / 4 % 3);
        config.decoder_start = (trf_decoder_start)(number / 5 % 4);
        config.tying = (trf_tying)(number / 7 % 3);
        config.generator_bias = number / 10 % 2;
        config.scale_embeddings = number / 8 % 2;
        config.source_eos = number / 11 % 2;
        config.embedding_init = TRF_EMBEDDING_NORMAL_1;     /* so that tokens differ */
        config.seed = (uint64_t)number;
        search.max_length_a = 0;
        search.max_length_b = 9;
        config.segments = number / 18 % 2 * 2;
        OK(trf_model_create(&model, &config, NULL, &err));
        t = translator_of(model, &search);
        if (config.segments) {          /* a source of two segments: EOS ends the first one */
            memcpy(joined, x->ids, (size_t)(x->lengths[0] + x->lengths[1]) * sizeof *joined);
            joined[1] = config.eos;
            two.ids = joined;
        }
        OK(trf_translate(t, &two, NULL, &err));
        assert_true(kit_count(t, 0) > 0 && kit_count(t, 1) > 0);
        for (i = 0; i < 2; at += two.lengths[i], i++)
            for (k = 0; k < kit_count(t, i); k++) {
                trf_translator *look = translator_of(model, NULL);
                const trf_hypothesis *h = trf_translator_answer(t, i, k);
                double lp[64 * VOCAB], sum = 0;
                int32_t j;
                log_probabilities(look, two.ids + at, two.lengths[i], h->ids, h->n, VOCAB, lp);
                for (j = 0; j < h->n; j++) sum += lp[j * VOCAB + h->ids[j]];
                if (h->ended == TRF_ENDED_EOS) sum += lp[h->n * VOCAB + 2];
                if (!(fabs(sum - h->log_probability) < close_enough() * (10 - sum)))
                    fail_msg("configuration %d: search says %.9g, all at once %.9g", number,
                             h->log_probability, sum);
                trf_translator_destroy(look);
            }
        trf_translator_destroy(t);
        trf_model_destroy(model);
    }
}

/* All answers of at most `limit` tokens, each with its score; the best first. */
typedef struct possible { int32_t ids[4], n, ended; double score; } possible;

static int compare_possible(const void *a, const void *b)
{
    double x = ((const possible *)a)->score, y = ((const possible *)b)->score;
    return x > y ? -1 : x < y;
}

static int32_t all_answers(trf_translator *look, const trf_search *search, int32_t limit,
                           int32_t vocab, possible *out)
{
    int32_t count = 0, kinds = vocab - 3, n, total, number, k;
    double lp[8 * VOCAB];
    for (n = 0, total = 1; n <= limit; n++, total *= kinds)
        for (number = 0; number < total; number++) {
            possible *one = &out[count];
            int32_t rest = number;
            double sum = 0;
            for (k = 0; k < n; k++, rest /= kinds) one->ids[k] = 3 + rest % kinds;
            log_probabilities(look, question, 2, one->ids, n, vocab, lp);
            for (k = 0; k < n; k++) sum += lp[k * vocab + one->ids[k]];
            if (n == limit && search->at_limit == TRF_LIMIT_KEEP_LIVE) {
                one->n = n;
                one->ended = TRF_ENDED_MAX_LENGTH;
                one->score = trf__search_score(search, sum, n);
                count++;
                one++;
                memcpy(one->ids, out[count - 1].ids, sizeof one->ids);
            }
            one->n = n;
            one->ended = TRF_ENDED_EOS;
            one->score = trf__search_score(search, sum + lp[n * vocab + 2], n + search->count_eos);
            if (n < limit || search->at_limit != TRF_LIMIT_KEEP_LIVE) count++;
        }
    qsort(out, (size_t)count, sizeof *out, compare_possible);
    return count;
}

/* A trained model with 7 ids: four tokens that can be said. A beam that holds everything is
   exhaustive search. */
static void wide_beam_is_exhaustive(void **state)
{
    enum { TINY = 7, LIMIT = 3, WIDE = 300, BEST = 10 };
    trf_error err;
    trf_config config = task_config();
    trf_train_options training = task_training();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *translator, *look;
    trf_step_report report;
    static possible all[256];
    int32_t ids[2 * 32], targets[3 * 32], lengths[32], longer[32], two = 2, i, k, rule, n;
    trf_sequences x = sequences_of(question, &two, 1);
    trf_batch batch;
    int step;
    (void)state;
    config.source_vocab = VOCAB;
    config.target_vocab = TINY;
    config.d_model = 16;
    config.n_heads = 2;
    config.d_ff = 32;
    config.encoder_layers = config.decoder_layers = 1;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &training, &err));
    for (step = 0; step < 60; step++) {
        for (n = 0, i = 0; i < 32; i++) {
            lengths[i] = 2;
            longer[i] = pick(4);
            for (k = 0; k < 2; k++) ids[2 * i + k] = FIRST + pick(SYMBOLS);
            for (k = 0; k < longer[i]; k++) targets[n++] = 3 + (ids[2 * i] + k * pick(2)) % 4;
        }
        batch.source = sequences_of(ids, lengths, 32);
        batch.target = sequences_of(targets, longer, 32);
        batch.ordinal = 0;
        memset(&batch.place, 0, sizeof batch.place);
        OK(trf_trainer_step(trainer, &batch, &report, &err));
    }
    trf_trainer_destroy(trainer);
    look = translator_of(model, NULL);
    for (rule = 0; rule < 6; rule++) {
        trf_search search = search_of(WIDE, BEST);
        int32_t count;
        search.length_rule = (trf_length_rule)(rule % 3);
        search.alpha = 0.8;
        search.candidates = 1;
        search.eos_in_top_beam = 0;
        search.stop = TRF_STOP_NONE_ALIVE;
        search.at_limit = rule < 3 ? TRF_LIMIT_FORCE_EOS : TRF_LIMIT_KEEP_LIVE;
        search.max_length_a = 0;
        search.max_length_b = LIMIT;
        search.max_sentences = 1;
        count = all_answers(look, &search, LIMIT, TINY, all);
        assert_int_equal(count, 1 + 4 + 16 + 64);
        translator = translator_of(model, &search);
        OK(trf_translate(translator, &x, NULL, &err));
        assert_int_equal(kit_count(translator, 0), BEST);
        for (k = 0; k < BEST; k++) {
            const trf_hypothesis *h = trf_translator_answer(translator, 0, k);
            assert_true(fabs(h->score - all[k].score) < close_enough() * 10);
            assert_int_equal(h->proven, 1);
            /* a tie */
            if (all[k].score - all[k + 1].score < 1e-4 ||
                (k > 0 && all[k - 1].score - all[k].score < 1e-4))
                continue;
            assert_int_equal(h->n, all[k].n);
            assert_int_equal((int)h->ended, all[k].ended);
            assert_memory_equal(h->ids, all[k].ids, (size_t)h->n * sizeof *h->ids);
        }
        trf_translator_destroy(translator);
    }
    trf_translator_destroy(look);
    trf_model_destroy(model);
}

/* A beam wider than the vocabulary finds no more than there is. */
static void beam_wider_than_vocabulary(void **state)
{
    trf_error err;
    trf_search search = search_of(3 * VOCAB, 3 * VOCAB);
    trf_translator *translator;
    int32_t five = 5, one = 1;
    trf_sequences x = sequences_of(question, &five, 1);
    (void)state;
    search.max_sentences = 2;
    translator = translator_of(learnt, &search);
    OK(trf_translate(translator, &x, NULL, &err));
    check_hypotheses(translator, &search, &x);
    assert_int_equal(trf_translator_answer(translator, 0, 0)->n, 5);
    trf_translator_destroy(translator);
    search.max_length_a = 0;
    search.max_length_b = one;          /* nine tokens alone, or nothing */
    search.at_limit = TRF_LIMIT_KEEP_LIVE;
    translator = translator_of(learnt, &search);
    OK(trf_translate(translator, &x, NULL, &err));
    check_hypotheses(translator, &search, &x);
    assert_int_equal(kit_count(translator, 0),
                     1 + SYMBOLS + 1); /* "", eight symbols, unk */
    trf_translator_destroy(translator);
}

/* A sentence does not see its neighbours. */
static void alone_as_in_a_batch(void **state)
{
    trf_error err;
    trf_search search = search_of(4, 4);
    trf_translator *many = translator_of(learnt, &search), *single = translator_of(learnt, &search);
    pairs p;
    const trf_sequences *x = &backwards(&p)->source;
    int32_t i, k, at = 0;
    (void)state;
    OK(trf_translate(many, x, NULL, &err));
    for (i = 0; i < x->count; at += x->lengths[i], i++) {
        trf_sequences one = sequences_of(x->ids + at, x->lengths + i, 1);
        OK(trf_translate(single, &one, NULL, &err));
        assert_int_equal(kit_count(single, 0), kit_count(many, i));
        for (k = 0; k < kit_count(single, 0); k++) {
            const trf_hypothesis *a = trf_translator_answer(single, 0, k),
                                 *b = trf_translator_answer(many, i, k);
#if defined(TRF_NO_CBLAS)
            assert_true(a->score == b->score &&
                        a->log_probability == b->log_probability); /* the same bits */
#else
            assert_true(fabs(a->score - b->score) < 1e-5);
#endif
            assert_int_equal(a->n, b->n);
            assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
        }
    }
    trf_translator_destroy(many);
    trf_translator_destroy(single);
}

/* The order in which sentences stand, and the size of rounds, do not matter. */
static void rounds_do_not_matter(void **state)
{
    trf_error err;
    trf_search search = search_of(3, 3);
    trf_translator *t = translator_of(learnt, &search);
    pairs p;
    const trf_sequences *x = &backwards(&p)->source;
    int32_t most, i;
    static int32_t ids[PAIRS][64], n[PAIRS];
    (void)state;
    OK(trf_translate(t, x, NULL, &err));
    for (i = 0; i < PAIRS; i++) {
        n[i] = trf_translator_answer(t, i, 0)->n;
        memcpy(ids[i], trf_translator_answer(t, i, 0)->ids, (size_t)n[i] * sizeof **ids);
    }
    trf_translator_destroy(t);
    /* 0: by the size of a step's largest product */
    search.max_sentences = 0;
    for (most = 3; most <= 1024; most += 1021) {
        search.beam = most;
        t = translator_of(learnt, &search);
        assert_int_equal(t->search.max_sentences, most == 3 ? 32 : 1);
        assert_int_equal(trf_translator_memory(trf_model_config(learnt), &search, 64, 9, NULL),
                         trf_translator_memory(trf_model_config(learnt), &t->search, 64, 9, NULL));
        trf_translator_destroy(t);
    }
    search.beam = 3;
    for (most = 1; most < PAIRS; most += 6) {
        search.max_sentences = most - 1;
        search.max_tokens = most == 7 ? 3 : 4096;
        t = translator_of(learnt, &search);
        OK(trf_translate(t, x, NULL, &err));
        for (i = 0; i < PAIRS; i++) {
            assert_int_equal(trf_translator_answer(t, i, 0)->n, n[i]);
            assert_memory_equal(trf_translator_answer(t, i, 0)->ids, ids[i],
                                (size_t)n[i] * sizeof **ids);
        }
        trf_translator_destroy(t);
    }
}

/* Rows that each step computed, seen through the op that looks for the best tokens. */
static int64_t rows_of_step[64];
static int n_steps;
static const trf__backend *true_ops;
static void spy_top(const trf__run *run, const trf__top *t)
{
    if (n_steps < 64) rows_of_step[n_steps++] = t->rows;
    true_ops->top(run, t);
}

/* A short sentence beside a long one is not searched on when it is done. */
static void finished_sentences_leave(void **state)
{
    trf_error err;
    trf_search search = search_of(1, 1);
    trf_translator *translator = translator_of(learnt, &search);
    trf__backend spy;
    int32_t ids[10] = {7, 4, 5, 6, 7, 8, 9, 10, 11, 4}, lengths[2] = {1, 9}, i, k, steps[2];
    trf_sequences x = sequences_of(ids, lengths, 2);
    (void)state;
    if (KIT_ASKS_ONCE) skip(); /* a GPU that plays ops again does not call them */
    OK(trf_translate(translator, &x, NULL, &err)); /* memory, and with it the ops, is settled now */
    true_ops = translator->reader.pass.run.backend;
    spy = *true_ops;
    spy.top = spy_top;
    translator->reader.pass.run.backend = &spy;
    n_steps = 0;
    OK(trf_translate(translator, &x, NULL, &err));
    for (i = 0; i < 2; i++) {
        const trf_hypothesis *h = trf_translator_answer(translator, i, 0);
        assert_int_equal(h->ended, TRF_ENDED_EOS);
        for (k = 0; k < h->n; k++) assert_true(h->ids[k] >= 3);
        steps[i] = h->n + 1;
    }
    assert_int_equal(steps[0], 2);
    assert_true(steps[1] > steps[0] + 2);
    assert_int_equal(n_steps, steps[1]);
    for (k = 0; k < n_steps; k++)
        assert_int_equal(rows_of_step[k], (k < steps[0]) + (k < steps[1]));
    trf_translator_destroy(translator);
}

/* Ids, lengths and options at their edges. */
static void edges(void **state)
{
    static const int32_t bad[] = {-1, VOCAB, INT32_MIN, INT32_MAX, 0, 1, 2};
    trf_error err;
    trf_search search = search_of(2, 1);
    trf_translator *translator = translator_of(learnt, &search), *none = NULL;
    int32_t ids[64], answer[64], n, i, lengths[2] = {1, -1};
    trf_sequences x = sequences_of(ids, lengths, 2);
    (void)state;
    for (i = 0; i < (int32_t)(sizeof bad / sizeof bad[0]); i++) {
        ids[0] = 5; ids[1] = bad[i];
        FAILS(TRF_E_INVALID_ARG, kit_translate(translator, ids, 2, answer, 64, &n, &err));
        assert_int_equal(err.where, 1);
        assert_string_equal(err.what, "source");
    }
    for (i = 0; i < 64; i++) ids[i] = 3 + i % (VOCAB - 3);      /* unk is allowed */
    OK(kit_translate(translator, ids, 47, answer, 64, &n, &err));
    FAILS(TRF_E_LIMIT, kit_translate(translator, ids, 48, answer, 64, &n, &err));
    FAILS(TRF_E_INVALID_ARG, trf_translate(translator, &x, NULL, &err));
    x.count = 0;
    OK(trf_translate(translator, &x, NULL, &err));
    assert_int_equal(kit_count(translator, 0), 0);
    OK(kit_translate(translator, NULL, 0, answer, 64, &n, &err)); /* an empty source is legal */
    assert_int_equal(kit_count(translator, 0), 1);
    search.n_best = 3;
    FAILS(TRF_E_INVALID_ARG, trf_translator_create(&none, learnt, &search, &err));
    assert_string_equal(err.what, "n_best");
    assert_null(none);
    trf_translator_destroy(translator);
    trf_translator_destroy(NULL);
    trf_trainer_destroy(NULL);
    trf_model_destroy(NULL);
    trf_corpus_destroy(NULL);
    trf_vocab_destroy(NULL);
    trf_context_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_looks),
        cmocka_unit_test(rounds_that_fit),
        cmocka_unit_test(lengths_that_cannot_be),
        cmocka_unit_test(forced_prefix),
        cmocka_unit_test(length_limits),
        cmocka_unit_test(limits_of_the_training),
        cmocka_unit_test(doubtful_answers),
        cmocka_unit_test(greedy_is_a_loop_over_logits),
        cmocka_unit_test(cache_is_recomputation),
        cmocka_unit_test(wide_beam_is_exhaustive),
        cmocka_unit_test(beam_wider_than_vocabulary),
        cmocka_unit_test(alone_as_in_a_batch),
        cmocka_unit_test(rounds_do_not_matter),
        cmocka_unit_test(finished_sentences_leave),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, learn, forget);
}

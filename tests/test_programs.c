/* build: shared separate:shared long:shared plain:shared */
/* The programs that the interface was drawn for, each as a small function that runs, and what every
   call does when it is given nothing. C99 and C++11. */
#include "tasks.h"

/* -----------------------------------------------------------------------------------------------
   1. The front page, with a smaller model */

static trf_batch next_copy_task(void)
{
    static int32_t ids[32 * 10], lengths[32];
    trf_batch batch = {{ids, lengths, 32}, {ids, lengths, 32}, 0, {0, 0, 0}};
    int i, j, n = 0;
    for (i = 0; i < 32; i++) {
        lengths[i] = 3 + pick(4);
        for (j = 0; j < lengths[i]; j++) ids[n++] = 4 + pick(8);
    }
    return batch;
}

static void front_page(void **state)
{
    trf_error err;
    trf_model *model = NULL, *again = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *translator = NULL;
    int32_t source[] = {5, 9, 7}, target[16], n = -1;
    int step;
    double first = 0;

    trf_config config = kit_config();
    trf_train_options training = kit_training();
    config.source_vocab = config.target_vocab = 12;
    config.d_model = 32;
    config.n_heads = 4;
    config.d_ff = 64;
    config.encoder_layers = config.decoder_layers = 1;
    training.warmup = 100;
    training.learning_rate = 0.6;
    training.threads = config.device.threads = 1;
    trf_train_set_dropout(&training, 0);
    (void)state;

    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &training, &err));
    for (step = 1; step <= 400; step++) {
        trf_batch batch = next_copy_task();
        trf_step_report report;
        OK(trf_trainer_step(trainer, &batch, &report, &err));
        assert_int_equal(report.step, step);
        assert_true(fabs(report.learning_rate - trf_learning_rate(&training, 32, step)) < 1e-15);
        if (step == 1) first = report.loss;
        if (step == 400) assert_true(report.loss < first / 2 && report.nll < report.loss);
    }
    OK(trf_model_save(model, in_folder("copy.safetensors"), NULL, &err));
    translator = translator_of(model, NULL);
    OK(kit_translate(translator, source, 3, target, 16, &n, &err));
    assert_int_equal(n, 3);
    assert_memory_equal(target, source, sizeof source);
    trf_translator_destroy(translator); trf_trainer_destroy(trainer);

    OK(trf_model_load(&again, in_folder("copy.safetensors"), NULL, &err));
    translator = translator_of(again, NULL);
    OK(kit_translate(translator, source, 3, target, 16, &n, &err));
    assert_int_equal(n, 3);
    assert_memory_equal(target, source, sizeof source);
    trf_translator_destroy(translator); trf_model_destroy(again); trf_model_destroy(model);
}

static void make_vocabs(trf_vocab **source, trf_vocab **target)
{
    trf_error err;
    char from[64], to[64];
    int i;
    OK(trf_vocab_create(source, TRF_WORDS, NULL, &err));
    OK(trf_vocab_create(target, TRF_WORDS, NULL, &err));
    for (i = 0; i < 64; i++) {
        sentence(i, from, to, sizeof from);
        OK(trf_vocab_learn(*source, from, &err));
        OK(trf_vocab_learn(*target, to, &err));
    }
    OK(trf_vocab_finish(*source, 1000, 1, &err));
    OK(trf_vocab_finish(*target, 1000, 1, &err));
    assert_int_equal(trf_vocab_size(*source), 16);
}

static void strings(void **state)
{
    trf_error err;
    trf_config config = task_config();
    trf_train_options training = task_training();
    trf_search search = search_of(5, 3);
    trf_vocab *source = NULL, *target = NULL;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *translator = NULL;
    trf_step_report report;
    char from[64], to[64], buffer[128];
    int32_t ids[2][32 * 3], lengths[32], n;
    const trf_hypothesis *best;
    size_t bytes;
    int i, step;
    (void)state;
    make_vocabs(&source, &target);
    config.source_vocab = trf_vocab_size(source);
    config.target_vocab = trf_vocab_size(target);
    config.encoder_layers = config.decoder_layers = 1;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_model_set_vocabs(model, source, target, &err));
    trf_vocab_destroy(source);
    trf_vocab_destroy(target);
    OK(trf_trainer_create(&trainer, model, &training, &err));
    for (step = 0; step < 250; step++) {
        trf_batch batch;
        for (i = 0; i < 32; i++) {
            sentence(pick(63), from, to, sizeof from);      /* the last one is never seen */
            OK(trf_vocab_encode(trf_model_vocab(model, TRF_SOURCE), from, 0, ids[0] + 3 * i, 3, &n, &err));
            OK(trf_vocab_encode(trf_model_vocab(model, TRF_TARGET), to, 0, ids[1] + 3 * i, 3, &n, &err));
            lengths[i] = n;
        }
        batch.source = sequences_of(ids[0], lengths, 32);
        batch.target = sequences_of(ids[1], lengths, 32);
        batch.ordinal = 0;
        memset(&batch.place, 0, sizeof batch.place);
        OK(trf_trainer_step(trainer, &batch, &report, &err));
    }
    trf_trainer_destroy(trainer);
    OK(trf_model_save(model, in_folder("de-fr.safetensors"), NULL, &err));
    trf_model_destroy(model);

    /* configuration and vocabularies are inside */
    OK(trf_model_load(&model, in_folder("de-fr.safetensors"), NULL, &err));
    OK(trf_translator_create(&translator, model, &search, &err));
    OK(trf_translate_text(translator, "kein B\xC3\xA4r tr\xC3\xA4umt", buffer, sizeof buffer,
                          &err));
    assert_string_equal(buffer, "r\xC3\xAAve ours aucun");
    assert_int_equal(kit_count(translator, 0), 3);
    sentence(63, from, to, sizeof from);
    OK(trf_translate_text(translator, from, buffer, sizeof buffer, &err));
    assert_string_equal(buffer, to);
    strcpy(buffer, from);
    OK(trf_translate_text(translator, buffer, buffer, sizeof buffer,
                          &err)); /* in the place of the text */
    assert_string_equal(buffer, to);
    FAILS(TRF_E_LIMIT, trf_translate_text(translator, from, buffer, 16, &err));
    assert_string_equal(buffer, "chante pi\xC3\xA9ton");        /* 14 bytes: cut at a whole token */
    FAILS(TRF_E_LIMIT, trf_translate_text(translator, from, NULL, 0, &err));
    best = trf_translator_answer(translator, 0, 0);     /* the whole one */
    OK(trf_vocab_decode(trf_model_vocab(model, TRF_TARGET), best->ids, best->n, buffer, sizeof buffer, &bytes, &err));
    assert_string_equal(buffer, to);
    assert_int_equal(bytes, strlen(to));
    assert_true(!trf_translator_answer(translator, 0, 3) && !trf_translator_answer(translator, 1, 0));
    assert_null(trf_translator_answer(NULL, 0, 0));
    FAILS(TRF_E_FORMAT,
          trf_translate_text(translator, "ein B\xC3r singt", buffer, sizeof buffer, &err));
    assert_int_equal(kit_count(translator, 0),
                     0); /* nobody gets the answer to the text before */
    assert_int_equal(err.where, 5);
    assert_string_equal(buffer, "");
    /* an unknown word is unk */
    OK(trf_translate_text(translator, "ein Drache singt", buffer, sizeof buffer, &err));
    assert_true(strncmp(buffer, "chante ", 7) == 0);
    trf_translator_destroy(translator);
    trf_model_destroy(model);

    translator = translator_of(learnt, NULL);
    FAILS(TRF_E_STATE, trf_translate_text(translator, "ein", buffer, sizeof buffer, &err));
    ids[0][0] = 5;
    OK(kit_translate(translator, ids[0], 1, ids[1], 32, &n, &err));
    trf_translator_destroy(translator);

    source = kit_pieces(NULL);          /* more ids than bytes */
    config.source_vocab = config.target_vocab = trf_vocab_size(source);
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_model_set_vocabs(model, source, source, &err));
    OK(trf_translator_create(&translator, model, NULL, &err));
    OK(trf_translate_text(translator, "aaaaaaaaaaaaaaaa", buffer, sizeof buffer, &err));
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    trf_vocab_destroy(source);
}

static void many_sentences(void **state)
{
    trf_error err;
    pairs p;
    const trf_sequences *sources = &backwards(&p)->source;
    trf_search search = search_of(4, 4);
    trf_translator *translator;
    int32_t i, right = 0, at = 0;
    (void)state;
    search.max_sentences = 7;       /* several rounds */
    translator = translator_of(learnt, &search);
    OK(trf_translate(translator, sources, NULL, &err));
    check_hypotheses(translator, &search, sources);
    for (i = 0; i < sources->count; at += p.lengths[i], i++) {
        const trf_hypothesis *h = trf_translator_answer(translator, i, 0);
        assert_int_equal(h->ended, TRF_ENDED_EOS);
        right += h->n == p.lengths[i] &&
                 memcmp(h->ids, p.target + at, (size_t)h->n * sizeof *h->ids) == 0;
    }
    assert_true(right > sources->count / 2);
    assert_null(trf_translator_answer(translator, sources->count, 0));
    assert_null(trf_translator_answer(translator, -1, 0));
    assert_null(trf_translator_answer(translator, 0, -1));
    search.max_length_a = 0;        /* answers that end at the limit */
    search.max_length_b = 3;
    search.at_limit = TRF_LIMIT_KEEP_LIVE;
    trf_translator_destroy(translator);
    translator = translator_of(learnt, &search);
    OK(trf_translate(translator, sources, NULL, &err));
    check_hypotheses(translator, &search, sources);
    trf_translator_destroy(translator);
}

/* Scores of pairs are those of the logits, in any batch. */
static void scoring(void **state)
{
    trf_error err;
    pairs p;
    const trf_batch *batch = backwards(&p);
    trf_translator *translator = translator_of(learnt, NULL);
    double scores[PAIRS], lp[64 * VOCAB];
    int32_t i, k, at = 0;
    (void)state;
    OK(trf_reader_score(trf_translator_reader(translator), batch, NULL, scores, &err));
    for (i = 0; i < PAIRS; at += p.lengths[i], i++) {
        double sum = 0;
        log_probabilities(translator, p.source + at, p.lengths[i], p.target + at, p.lengths[i],
                          VOCAB, lp);
        for (k = 0; k < p.lengths[i]; k++) sum += lp[k * VOCAB + p.target[at + k]];
        sum += lp[k * VOCAB + 2];
        assert_true(fabs(sum - scores[i]) < close_enough() * (1 + k));
    }
    trf_translator_destroy(translator);
}

static void own_memory_and_cancel(void **state)
{
    trf_error err;
    game g;
    trf_config config = task_config();
    trf_train_options training = task_training();
    trf_search search = search_of(4, 1);
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *translator = NULL;
    trf_step_report report;
    pairs p;
    const trf_batch *batch = backwards(&p);
    int64_t at, before;
    int32_t i;
    uint64_t hash;
    (void)state;
    config.hooks = training.hooks = search.hooks = game_hooks(&g);
    OK(trf_model_create(&model, &config, NULL, &err));
    assert_true(g.blocks > 0 && g.bytes <= (int64_t)kit_model_memory(&config));
    g.logged = 0;               /* a build that is not optimised has said so */
    OK(trf_trainer_create(&trainer, model, &training, &err));
    OK(trf_translator_create(&translator, model, &search, &err));
    OK(trf_trainer_step(trainer, batch, &report, &err));
    OK(trf_translate(translator, &batch->source, NULL, &err));
    before = g.blocks;
    OK(trf_trainer_step(trainer, batch, &report, &err));
    OK(trf_translate(translator, &batch->source, NULL, &err));
    assert_int_equal(g.blocks, before);                 /* nothing new in steady state */

    g.asked = 0;        /* cancelled at every place where it is asked, a step changes nothing */
    OK(trf_trainer_step(trainer, batch, &report, &err));
    before = g.asked;
    assert_true(
        before >=
        (KIT_ASKS_ONCE ? 1 : 2 * (config.encoder_layers + config.decoder_layers))); /* both ways */
    hash = hash_state(trainer);
    for (at = 1; at <= before; at++) {
        g.asked = 0;
        g.quit_at = at;
        FAILS(TRF_E_CANCELLED, trf_trainer_step(trainer, batch, &report, &err));
        assert_true(hash_state(trainer) == hash);
    }
    for (i = 0; i < 3; i++) { /* what can be recorded is, after the second time */
        g.asked = g.quit_at = 0;
        OK(trf_translate(translator, &batch->source, NULL, &err));
    }
    before = g.asked;
    assert_true(before > LONG);                         /* per decoded token */
    for (at = 1; at <= before; at += KIT_ASKS_ONCE ? 1 + before / 16 : 1) {
        g.asked = 0;
        g.quit_at = at;
        FAILS(TRF_E_CANCELLED, trf_translate(translator, &batch->source, NULL, &err));
        assert_null(trf_translator_answer(translator, 0, 0));
    }
    g.quit_at = 0;
    for (i = 0; i < 2; i++) OK(trf_translate(translator, &batch->source, NULL, &err));
    OK(trf_trainer_step(trainer, batch, &report, &err));
    assert_int_equal(report.step, 4);                   /* the cancelled ones do not count */
    trf_translator_destroy(translator);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    assert_int_equal(g.blocks, 0);
    assert_int_equal(g.bytes, 0);
    assert_int_equal(g.logged, 0);                      /* nothing to say */
    pthread_mutex_destroy(&g.lock);
}

/* Each thread has a translator of its own; the model is const to all of them. */
typedef struct worker {
    const trf_model *model;
    const trf_sequences *sources;
    trf_status status;
    uint64_t hash;
} worker;

static void *work(void *argument)
{
    worker *w = (worker *)argument;
    trf_translator *t = NULL;
    trf_search search = search_of(4, 4);
    int repeat;
    w->status = trf_translator_create(&t, w->model, &search, NULL);
    for (repeat = 0; w->status == TRF_OK && repeat < 4; repeat++) {
        uint64_t hash;
        w->status = trf_translate(t, w->sources, NULL, NULL);
        hash = hash_answers(HASH_START, t, w->sources->count);
        if (repeat > 0 && hash != w->hash) w->status = TRF_E_INTERNAL;
        w->hash = hash;
    }
    trf_translator_destroy(t);
    return NULL;
}

static void threads_share_a_model(void **state)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    worker serial[THREADS], parallel[THREADS];
    static pairs p[THREADS];
    int i;
    (void)state;
    for (i = 0; i < THREADS; i++) {
        serial[i].model = learnt;
        serial[i].sources = &backwards(&p[i])->source;
        serial[i].hash = 0;
        parallel[i] = serial[i];
        work(&serial[i]);
        assert_int_equal(serial[i].status, TRF_OK);
        assert_true(i == 0 || serial[i].hash != serial[0].hash);
    }
    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &parallel[i]), 0);
    for (i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (i = 0; i < THREADS; i++) {
        assert_int_equal(parallel[i].status, TRF_OK);
        assert_true(parallel[i].hash == serial[i].hash);
    }
}

/* -----------------------------------------------------------------------------------------------
   5. A data set, and going on after a kill */

static trf_corpus *filled_corpus(void)
{
    trf_error err;
    trf_corpus *corpus = NULL;
    trf_corpus_options options = trf_corpus_defaults();
    int32_t ids[LONG], back[LONG], i, k, n;
    uint64_t draw = 0;
    options.batch_tokens = 30;
    options.epochs = 3;
    OK(trf_corpus_create(&corpus, &options, &err));
    for (i = 0; i < 50; i++) {
        n = 1 + (int32_t)(trf__random64(8, 8, draw++) % LONG);
        for (k = 0; k < n; k++)
            ids[k] = back[n - 1 - k] = FIRST + (int32_t)(trf__random64(8, 8, draw++) % SYMBOLS);
        OK(trf_corpus_add(corpus, ids, n, back, n, &err));
    }
    return corpus;
}

static void corpus_and_checkpoint(void **state)
{
    trf_error err;
    trf_config config = task_config();
    trf_train_options training = task_training();
    trf_corpus *corpus = filled_corpus();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_batch batch;
    trf_step_report report;
    trf_status status;
    uint64_t whole;
    int64_t steps = 0, sentences = 0;
    (void)state;
    trf_train_set_dropout(&training, 0.1);
    config.encoder_layers = config.decoder_layers = 1;
    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &training, &err));
    while ((status = trf_corpus_next(corpus, &batch, &err)) == TRF_OK) {
        OK(trf_trainer_step(trainer, &batch, &report, &err));
        sentences += batch.source.count;
        if (++steps == 13)
            OK(trf_checkpoint_save(trainer, corpus, in_folder("run.checkpoint"), NULL, &err));
    }
    assert_int_equal(status, TRF_E_END);
    assert_int_equal(err.status, TRF_E_END);
    assert_int_equal(sentences, 3 * trf_corpus_facts(corpus)->pairs);
    assert_int_equal(trf_corpus_facts(corpus)->epoch, 3);
    assert_true(steps > 20);
    whole = hash_state(trainer);
    trf_trainer_destroy(trainer); trf_model_destroy(model); trf_corpus_destroy(corpus);

    corpus = filled_corpus();           /* another life */
    OK(trf_checkpoint_load(&model, &trainer, corpus, in_folder("run.checkpoint"), NULL, NULL,
                           &err));
    assert_int_equal(kit_updates(trainer), 13);
    assert_true(hash_state(trainer) != whole);
    while ((status = trf_corpus_next(corpus, &batch, &err)) == TRF_OK)
        OK(trf_trainer_step(trainer, &batch, &report, &err));
    assert_int_equal(status, TRF_E_END);
    assert_int_equal(kit_updates(trainer), steps);
    assert_true(hash_state(trainer) == whole);
    trf_trainer_destroy(trainer); trf_model_destroy(model); trf_corpus_destroy(corpus);
}

/* -----------------------------------------------------------------------------------------------
   6. My own loop: gradients are looked at and changed, and the optimizer is somebody else's */

static void own_loop(void **state)
{
    trf_error err;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_train_options training = task_training();
    trf_step_report report, after;
    pairs p;
    const trf_batch *batch = backwards(&p);
    double squares = 0, rate, expected, first = 0, tokens;
    int32_t i, round, frozen;
    int64_t k;
    uint64_t kept;
    (void)state;
    OK(trf_model_copy(&model, learnt, &err));
    OK(trf_trainer_create(&trainer, model, &training, &err));
    frozen = trf_model_parameter_index(model, "encoder.layers.0.linear1.weight");
    assert_true(frozen >= 0);
    assert_int_equal(trf_model_parameter_index(model, "encoder.layers.7.linear1.weight"), -1);
    kept = hash_tensor(HASH_START, trf_model_parameter(model, frozen));

    for (round = 0; round < 30; round++) {              /* plain gradient descent */
        OK(trf_trainer_forward_backward(trainer, batch, &report, &err));
        tokens = (double)report.target_tokens;
        squares = 0;
        for (i = 0; i < trf_model_parameter_count(model); i++) {
            trf_tensor w = trf_trainer_tensor(trainer, TRF_PARAMETER, i), g = trf_trainer_tensor(trainer, TRF_GRADIENT, i);
            assert_string_equal(w.name, g.name);
            assert_int_equal(w.rank, g.rank);
            assert_int_equal(trf_tensor_count(&w), trf_tensor_count(&g));
            assert_ptr_equal(w.data, trf_model_parameter(model, i).data);
            assert_ptr_equal(w.device_data, trf_model_parameter(model, i).device_data);
            if (i == frozen) continue;
            g = kit_open(g);
            for (k = 0; k < trf_tensor_count(&g); k++)
                squares += (double)g.data[k] * (double)g.data[k] / tokens / tokens;
            kit_close(&g);
        }
        assert_true(squares > 0);
        rate = (round ? 0.02 : 0.002) / sqrt(squares);  /* steps of fixed length */
        for (i = 0; i < trf_model_parameter_count(model); i++) {
            trf_tensor w = kit_open(trf_trainer_tensor(trainer, TRF_PARAMETER, i)),
                       g = kit_open(trf_trainer_tensor(trainer, TRF_GRADIENT, i));
            for (k = 0; i != frozen && k < trf_tensor_count(&w); k++)
                w.data[k] -= (trf_real)(rate / tokens * (double)g.data[k]);
            kit_close(&w);
            kit_close(&g);
        }
        trf_trainer_end_step(trainer);
        assert_int_equal(kit_updates(trainer), round + 1);
        OK(trf_trainer_evaluate(trainer, batch, NULL, &after, &err));
        if (round == 0) { /* the loss falls by what the gradient promises */
            first = report.loss;
            expected = rate * squares;
            assert_true(fabs((report.loss - after.loss) / expected - 1) < 0.15);
        }
    }
    assert_true(after.loss < first - 0.05);
    assert_true(kept == hash_tensor(HASH_START, trf_model_parameter(model, frozen)));
    FAILS(TRF_E_STATE, trf_trainer_update(trainer, &report, &err));     /* there are none left */
    assert_int_equal(kit_updates(trainer), round);
    assert_null(trf_trainer_tensor(trainer, TRF_GRADIENT, -1).data);
    assert_null(trf_trainer_tensor(trainer, TRF_PARAMETER, trf_model_parameter_count(model)).data);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* A gradient that was set to zero between the halves freezes its tensor under Adam too. */
static void changed_gradients(void **state)
{
    trf_error err;
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_train_options training = task_training();
    trf_step_report report;
    pairs p;
    uint64_t before, all;
    trf_tensor g, w;
    (void)state;
    OK(trf_model_copy(&model, learnt, &err));
    OK(trf_trainer_create(&trainer, model, &training, &err));
    OK(trf_trainer_forward_backward(trainer, backwards(&p), &report, &err));
    w = trf_model_parameter(model, 0);
    g = trf_trainer_tensor(trainer, TRF_GRADIENT, 0);
    before = hash_tensor(HASH_START, w);
    all = hash_weights(HASH_START, model);
    g = kit_open(g);
    memset(g.data, 0, (size_t)trf_tensor_count(&g) * sizeof *g.data);
    kit_close(&g);
    OK(trf_trainer_update(trainer, &report, &err));
    assert_true(before == hash_tensor(HASH_START, w));
    assert_true(all != hash_weights(HASH_START, model));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   7. Parts alone: a causal attention and a layer norm in somebody else's architecture */

enum { ROWS = 7, WIDTH = 8, HEADS = 2 };

typedef struct two_blocks {
    trf_context *ctx;
    trf_real x[3][ROWS * WIDTH], gain[WIDTH], bias[WIDTH];          /* q, k, v */
    trf_real mixed[ROWS * WIDTH], y[ROWS * WIDTH], saved_a[64 * ROWS * HEADS], saved_n[64 * ROWS];
} two_blocks;

static const int32_t part_lengths[3] = {4, 1, 2};

static trf_tensor matrix(trf_real *data) { return trf_tensor_of(data, 2, ROWS, WIDTH, 1); }
static trf_tensor vector(trf_real *data, int64_t n) { return trf_tensor_of(data, 1, n, 1, 1); }

static trf_attention_shape part_shape(void)
{
    trf_attention_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.query_lengths = shape.key_lengths = part_lengths;
    shape.count = 3;
    shape.n_heads = HEADS;
    shape.mask = TRF_CAUSAL;
    return shape;
}

/* y = layer_norm(attention(q, k, v)); returns sum y * c for fixed numbers c. */
static double part_forward(two_blocks *m)
{
    trf_error err;
    trf_attention_shape shape = part_shape();
    trf_tensor q = matrix(m->x[0]), k = matrix(m->x[1]), v = matrix(m->x[2]),
               mixed = matrix(m->mixed), y = matrix(m->y);
    trf_tensor gain = vector(m->gain, WIDTH), bias = vector(m->bias, WIDTH);
    trf_tensor saved_a = vector(m->saved_a, trf_attention_saved(&shape, NULL)),
        saved_n = vector(m->saved_n, 2 * ROWS);
    double sum = 0;
    int i;
    assert_true(saved_a.shape[0] <= 64 * ROWS * HEADS && saved_n.shape[0] <= 64 * ROWS);
    OK(trf_attention(m->ctx, &mixed, &q, &k, &v, &shape, NULL, &saved_a, &err));
    OK(trf_norm(m->ctx, &y, &mixed, &gain, &bias, TRF_NORM_STANDARD, 1e-5, &saved_n, &err));
    for (i = 0; i < ROWS * WIDTH; i++) sum += (double)m->y[i] * cos(i);
    return sum;
}

/* The same by the book, in double. */
static double part_by_hand(const two_blocks *m)
{
    double mixed[ROWS][WIDTH], sum = 0;
    int s, i, j, h, c, row = 0, d = WIDTH / HEADS;
    memset(mixed, 0, sizeof mixed);
    for (s = 0; s < 3; row += part_lengths[s], s++)
        for (i = 0; i < part_lengths[s]; i++)
            for (h = 0; h < HEADS; h++) {
                double e[ROWS], total = 0;
                for (j = 0; j <= i; j++) {
                    double dot = 0;
                    for (c = h * d; c < (h + 1) * d; c++)
                        dot += (double)m->x[0][(row + i) * WIDTH + c] *
                               (double)m->x[1][(row + j) * WIDTH + c];
                    total += e[j] = exp(dot / sqrt(d));
                }
                for (j = 0; j <= i; j++)
                    for (c = h * d; c < (h + 1) * d; c++)
                        mixed[row + i][c] += e[j] / total * (double)m->x[2][(row + j) * WIDTH + c];
            }
    for (i = 0; i < ROWS; i++) {
        double mean = 0, var = 0;
        for (c = 0; c < WIDTH; c++) mean += mixed[i][c];
        mean /= (double)WIDTH;
        for (c = 0; c < WIDTH; c++)
            var += (mixed[i][c] - mean) * (mixed[i][c] - mean) / (double)WIDTH;
        for (c = 0; c < WIDTH; c++)
            sum +=
                cos(i * WIDTH + c) *
                ((double)m->gain[c] * (mixed[i][c] - mean) / sqrt(var + 1e-5) + (double)m->bias[c]);
    }
    return sum;
}

static void parts_alone(void **state)
{
    trf_error err;
    trf_device device = trf_device_default();
    static two_blocks m;
    static trf_real dy[ROWS * WIDTH], dmixed[ROWS * WIDTH], dx[3][ROWS * WIDTH], dgain[WIDTH],
        dbias[WIDTH];
    trf_attention_shape shape = part_shape();
    trf_tensor tensor[3], dtensor[3], tdy = matrix(dy), tdmixed = matrix(dmixed),
                                      mixed = matrix(m.mixed);
    trf_tensor gain = vector(m.gain, WIDTH), tdgain = vector(dgain, WIDTH),
               tdbias = vector(dbias, WIDTH), wrong = vector(m.bias, WIDTH - 1);
    trf_tensor saved_a = vector(m.saved_a, trf_attention_saved(&shape, NULL)),
        saved_n = vector(m.saved_n, 2 * ROWS);
    int side, i;
    (void)state;
    device.threads = 2;
    for (side = 0; side < 3; side++)
        for (i = 0; i < ROWS * WIDTH; i++) m.x[side][i] = (trf_real)(sin(side + 3.7 * i) * 1.5);
    for (i = 0; i < WIDTH; i++) {
        m.gain[i] = (trf_real)(1 + 0.1 * i);
        m.bias[i] = (trf_real)(0.3 * i - 1);
        dgain[i] = 10;
        dbias[i] = -10;
    }
    for (side = 0; side < 3; side++) {
        tensor[side] = matrix(m.x[side]);
        dtensor[side] = matrix(dx[side]);
    }
    OK(trf_context_create(&m.ctx, &device, NULL, &err));
    assert_true(fabs(part_forward(&m) - part_by_hand(&m)) < close_enough() * 10);
    FAILS(TRF_E_SHAPE, trf_norm(m.ctx, &tdy, &mixed, &gain, &wrong, TRF_NORM_STANDARD, 1e-5,
                                &saved_n, &err));
    assert_string_equal(err.what, "bias");

    for (i = 0; i < ROWS * WIDTH; i++) dy[i] = (trf_real)cos(i);
    OK(trf_norm_backward(m.ctx, &tdmixed, &tdgain, &tdbias, &tdy, &mixed, &gain,
                         TRF_NORM_STANDARD, 1e-5, &saved_n, &err));
    OK(trf_attention_backward(m.ctx, &dtensor[0], &dtensor[1], &dtensor[2], NULL, &tdmixed, &mixed,
                              &tensor[0], &tensor[1], &tensor[2], &shape, &saved_a, &err));
    for (side = 0; side < 3; side++)
        for (i = 0; i < ROWS * WIDTH; i++) {
            trf_real kept = m.x[side][i];
            double up, down, step = 1e-3, difference;
            volatile trf_real high = kept + (trf_real)step, low = kept - (trf_real)step;
            m.x[side][i] = high; up = part_by_hand(&m);
            m.x[side][i] = low; down = part_by_hand(&m);
            m.x[side][i] = kept;
            difference = (up - down) / ((double)high - (double)low);
            assert_true(fabs(difference - (double)dx[side][i]) < 1e-3 * (1 + fabs(difference)));
        }
    for (i = 0; i < WIDTH; i++) {           /* parameter gradients are added to */
        double sum = 0;
        int r;
        for (r = 0; r < ROWS; r++) sum += cos(r * WIDTH + i);
        assert_true(fabs((double)dbias[i] + 10 - sum) < 1e-4);
        assert_true((double)dgain[i] != 10);
    }
    trf_context_destroy(m.ctx);
}

/* -----------------------------------------------------------------------------------------------
   8. Two machines: each rank has half of the sentences, a hook sums the gradients */

typedef struct network { pthread_barrier_t barrier; trf_real *buffer[2]; size_t count[2]; } network;
typedef struct rank_of_two {
    network *cluster;
    int32_t rank;
    const trf_batch *batch;         /* the whole of it */
    trf_status status;
    uint64_t hash;
    trf_step_report report;
    trf_model *model;
} rank_of_two;

enum { RANK_STEPS = 3 };

static int sum_over_ranks(void *user, trf_real *gradients, size_t count, void *stream)
{
    rank_of_two *r = (rank_of_two *)user;
    network *c = r->cluster;
    size_t i;
    int same;
    c->buffer[r->rank] = gradients;
    c->count[r->rank] = count;
    pthread_barrier_wait(&c->barrier);
    same = c->count[0] == c->count[1] && (stream != NULL) == KIT_HAS_STREAM;
    separate_enter();
    if (r->rank == 0)
        for (i = 0; same && i < count; i++)
            c->buffer[0][i] = c->buffer[1][i] = c->buffer[0][i] + c->buffer[1][i];
    separate_leave();
    pthread_barrier_wait(&c->barrier);
    return !same;
}

static void *train_rank(void *argument)
{
    rank_of_two *r = (rank_of_two *)argument;
    trf_train_options training = task_training();
    trf_trainer *trainer = NULL;
    trf_batch part = kit_slice(r->batch, r->rank ? 10 : 0, r->rank ? PAIRS - 10 : 10);
    int step;
    trf_train_set_dropout(&training, 0.1);
    training.rank = r->rank;
    training.n_ranks = 2;
    training.epsilon = 1e-3; /* gradients that are nothing but rounding must not move a weight */
    training.all_reduce = sum_over_ranks;
    training.user = r;
    r->status = trf_model_copy(&r->model, learnt, NULL);
    if (r->status == TRF_OK) r->status = trf_trainer_create(&trainer, r->model, &training, NULL);
    for (step = 0; r->status == TRF_OK && step < RANK_STEPS; step++)
        r->status = trf_trainer_step(trainer, &part, &r->report, NULL);
    if (r->status == TRF_OK) r->hash = hash_state(trainer);
    trf_trainer_destroy(trainer);
    return NULL;
}

static void two_machines(void **state)
{
    trf_error err;
    network c;
    rank_of_two ranks[2];
    pthread_t threads[2];
    trf_train_options training = task_training();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    pairs p;
    int32_t i, k;
    double worst = 0, moved = 0;
    (void)state;
    memset(ranks, 0, sizeof ranks);
    pthread_barrier_init(&c.barrier, NULL, 2);
    for (i = 0; i < 2; i++) {
        ranks[i].cluster = &c;
        ranks[i].rank = i;
        ranks[i].batch = i ? ranks[0].batch : backwards(&p);
    }
    for (i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_rank, &ranks[i]), 0);
    for (i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < 2; i++) assert_int_equal(ranks[i].status, TRF_OK);
    assert_true(ranks[0].hash == ranks[1].hash);

    trf_train_set_dropout(&training, 0.1);
    training.epsilon = 1e-3;
    OK(trf_model_copy(&model, learnt, &err));
    OK(trf_trainer_create(&trainer, model, &training, &err));
    for (i = 0; i < RANK_STEPS; i++) OK(trf_trainer_step(trainer, &p.batch, &report, &err));
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor a = kit_open(trf_model_parameter(model, i)),
                   b = kit_open(trf_model_parameter(ranks[0].model, i));
        trf_tensor before = kit_open(trf_model_parameter(learnt, i));
        for (k = 0; k < trf_tensor_count(&a); k++) {
            worst = fmax(worst, fabs((double)(a.data[k] - b.data[k])));
            moved = fmax(moved, fabs((double)(a.data[k] - before.data[k])));
        }
        kit_close(&a);
        kit_close(&b);
        kit_close(&before);
    }
    assert_true(moved > 1e-4);
    assert_true(worst < moved / 20);
    for (i = 0; i < 2; i++) {           /* both ranks report the whole step */
        assert_true(fabs(ranks[i].report.loss - report.loss) < 1e-5 * report.loss);
        assert_true(fabs(ranks[i].report.accuracy - report.accuracy) < 1e-6);
        assert_true(fabs(ranks[i].report.gradient_norm - report.gradient_norm) <
                    1e-3 * report.gradient_norm);
        assert_int_equal(ranks[i].report.target_tokens, report.target_tokens);
        assert_int_equal(ranks[i].report.source_tokens, report.source_tokens);
    }
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    for (i = 0; i < 2; i++) trf_model_destroy(ranks[i].model);
    pthread_barrier_destroy(&c.barrier);
}

static int broken_cable(void *user, trf_real *gradients, size_t count, void *stream)
{
    (void)gradients; (void)count; (void)stream;
    return --*(int *)user < 0;
}

static void broken_network(void **state)
{
    trf_error err;
    trf_train_options training = task_training();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    pairs p;
    int good, calls;
    (void)state;
    training.n_ranks = 2;
    training.user = &good;
    OK(trf_model_copy(&model, learnt, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_create(&trainer, model, &training, &err));
    assert_string_equal(err.what, "all_reduce");
    assert_null(trainer);
    training.all_reduce = broken_cable;
    OK(trf_trainer_create(&trainer, model, &training, &err));
    for (calls = 0; calls < 5; calls++) {           /* four layers, and the embeddings */
        uint64_t before = hash_state(trainer);
        good = calls;
        FAILS(TRF_E_BACKEND, trf_trainer_step(trainer, backwards(&p), &report, &err));
        assert_true(hash_state(trainer) == before);
        FAILS(TRF_E_STATE, trf_trainer_update(trainer, &report, &err));     /* discarded */
    }
    good = 5;
    OK(trf_trainer_step(trainer, backwards(&p), &report, &err));
    assert_int_equal(good, 0);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Other kinds of models */

/* A language model's text in, text out: its only vocabulary is that of the target. */
static void texts_of_a_decoder(trf_model *model)
{
    trf_error err;
    trf_vocab *vocab;
    trf_translator *translator;
    char word[16], text[256], wanted[256];
    int32_t ids[2] = {FIRST, FIRST + 1}, answer[32], n, i,
            size = trf_model_config(model)->target_vocab;
    OK(trf_vocab_create(&vocab, TRF_WORDS, NULL, &err));
    for (i = 4; i < size; i++) {
        snprintf(word, sizeof word, "w%02d", (int)i);
        OK(trf_vocab_learn(vocab, word, &err));
    }
    OK(trf_vocab_finish(vocab, size, 1, &err));
    OK(trf_model_set_vocabs(model, NULL, vocab, &err));
    translator = translator_of(model, NULL);
    OK(kit_translate(translator, ids, 2, answer, 32, &n, &err));
    OK(trf_vocab_decode(vocab, answer, n, wanted, sizeof wanted, NULL, &err));
    OK(trf_vocab_decode(vocab, ids, 2, word, sizeof word, NULL, &err));
    OK(trf_translate_text(translator, word, text, sizeof text, &err));
    assert_string_equal(text, wanted);
    assert_true(strlen(text) > 3);
    trf_translator_destroy(translator);
    trf_vocab_destroy(vocab);
}

/* A language model of 4 5 6 7 8 9 4 5 ...: learns it, and goes on with it. */
static void decoder_only(void **state)
{
    enum { CYCLE = 6, N = 16, LENGTH = 12 };
    trf_error err;
    trf_config config = task_config();
    trf_train_options training = task_training();
    trf_search search = search_of(1, 1);
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *translator = NULL;
    trf_step_report report;
    trf_batch batch;
    int32_t ids[N * LENGTH], lengths[N], answer[32], n, i, k;
    int step;
    (void)state;
    config.kind = TRF_DECODER_ONLY;
    config.encoder_layers = 0;
    config.decoder_layers = 1;
    config.max_length = 24;
    OK(trf_model_create(&model, &config, NULL, &err));
    assert_int_equal(trf_model_parameter_index(model, "src_embed.weight"), -1);
    assert_int_equal(trf_model_parameter_index(model, "decoder.layers.0.norm3.weight"), -1);
    OK(trf_trainer_create(&trainer, model, &training, &err));
    memset(&batch, 0, sizeof batch);
    batch.target = sequences_of(ids, lengths, N);
    for (step = 0; step < 150; step++) {
        for (i = 0; i < N; i++) {
            int32_t start = pick(CYCLE);
            lengths[i] = LENGTH;
            for (k = 0; k < LENGTH; k++) ids[i * LENGTH + k] = FIRST + (start + k) % CYCLE;
        }
        OK(trf_trainer_step(trainer, &batch, &report, &err));
    }
    assert_true(report.accuracy > 0.9);         /* all but the first */
    trf_trainer_destroy(trainer);

    search.max_length_a = 0;
    search.max_length_b = 7;
    search.min_length = 23;                     /* never an EOS */
    translator = translator_of(model, &search);
    for (i = 0; i < CYCLE; i++) {
        int32_t beginning[2];
        beginning[0] = FIRST + i;
        beginning[1] = FIRST + (i + 1) % CYCLE;
        OK(kit_translate(translator, beginning, 2, answer, 32, &n, &err));
        assert_int_equal(n, 7);
        for (k = 0; k < n; k++) assert_int_equal(answer[k], FIRST + (i + 2 + k) % CYCLE);
    }
    trf_translator_destroy(translator);

    search.min_length = INT32_MAX;              /* the beginning on top of it is no overflow */
    translator = translator_of(model, &search);
    OK(kit_translate(translator, ids, 2, answer, 32, &n, &err));
    assert_int_equal(n, 7);
    trf_translator_destroy(translator);

    search.max_length_b = 20;
    search.min_length = 3;                      /* beyond the beginning, however long that is */
    translator = translator_of(model, &search);
    for (i = 1; i < LENGTH; i++) {
        for (k = 0; k < LENGTH; k++) ids[k] = FIRST + k % CYCLE;
        OK(kit_translate(translator, ids, i, answer, 32, &n, &err));
        assert_true(n >= 3);
        lengths[0] = n;
    }
    assert_in_range(lengths[0], 3, 5);          /* the last one would have ended at once */
    trf_translator_destroy(translator);

    search.min_length = 0;                      /* and now to where it usually ends */
    search.max_length_b = 100;
    translator = translator_of(model, &search);
    ids[0] = FIRST + 2;
    OK(kit_translate(translator, ids, 1, answer, 32, &n, &err));
    assert_in_range(n, LENGTH - 2, LENGTH);
    OK(kit_translate(translator, NULL, 0, answer, 32, &n, &err));
    assert_in_range(n, LENGTH - 1, LENGTH + 1);
    FAILS(TRF_E_STATE, kit_encode(translator, &batch.target, NULL, &err));
    batch.target.count = 1;
    FAILS(TRF_E_STATE, kit_translate_with(translator, &batch.target, &batch.target, NULL, 0, &err));
    assert_string_equal(err.what, "kind");
    trf_translator_destroy(translator);
    texts_of_a_decoder(model);
    trf_model_destroy(model);
}

/* Hidden states of a stack of its own: those of the same encoder inside an encoder-decoder model.
 */
static void encoder_only(void **state)
{
    trf_error err;
    trf_config config = task_config();
    trf_model *model = NULL, *whole = NULL;
    trf_translator *translator = NULL, *other = NULL;
    trf_trainer *trainer = NULL;
    pairs p;
    const trf_sequences *sources = &backwards(&p)->source;
    int64_t rows;
    trf_real *states[2], logits[VOCAB];
    trf_tensor out[2], little = trf_tensor_of(logits, 2, 1, VOCAB, 1);
    int32_t i;
    (void)state;
    OK(trf_model_create(&whole, &config, NULL, &err));
    config.kind = TRF_ENCODER_ONLY;
    config.decoder_layers = 0;
    OK(trf_model_create(&model, &config, NULL, &err));
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor to = trf_model_parameter(model, i),
                   from = trf_model_parameter(whole, trf_model_parameter_index(whole, to.name));
        assert_int_equal(trf_tensor_count(&to), trf_tensor_count(&from));
        to = kit_open(to);
        from = kit_open(from);
        memcpy(to.data, from.data, (size_t)trf_tensor_count(&to) * sizeof *to.data);
        kit_close(&to);
        kit_close(&from);
    }
    rows = kit_source_rows(model, sources);
    for (i = 0; i < 2; i++) {
        states[i] = (trf_real *)calloc((size_t)rows * 32, sizeof(trf_real));
        out[i] = trf_tensor_of(states[i], 2, rows, 32, 1);
    }
    translator = translator_of(model, NULL);
    other = translator_of(whole, NULL);
    OK(kit_encode(translator, sources, &out[0], &err));
    OK(kit_encode(other, sources, &out[1], &err));
    assert_memory_equal(states[0], states[1], (size_t)rows * 32 * sizeof(trf_real));
    for (i = 0; i < rows * 32; i++) assert_true(fabs((double)states[0][i]) < 10);
    assert_true(fabs((double)states[0][0]) > 0);
    FAILS(TRF_E_STATE, kit_translate_with(translator, sources, sources, NULL, 0, &err));
    assert_string_equal(err.what, "kind");
    FAILS(TRF_E_STATE, trf_translate(translator, sources, NULL, &err));
    FAILS(TRF_E_STATE, kit_logits(translator, &p.batch, &little, &err));
    FAILS(TRF_E_UNSUPPORTED, trf_trainer_create(&trainer, model, NULL, &err));
    trf_translator_destroy(translator);
    trf_translator_destroy(other);
    trf_model_destroy(model);
    trf_model_destroy(whole);
    for (i = 0; i < 2; i++) free(states[i]);
}

static void free_nothing(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)memory;
    (void)bytes;
}

/* NULL where something is needed is told, not followed; the error itself may be NULL anywhere. */
static void nothing_given(void **state)
{
    trf_error err;
    trf_search search = search_of(1, 1);
    trf_train_options training = task_training();
    trf_model *model = NULL, *copy = NULL;
    trf_trainer *trainer = NULL;
    trf_translator *t = NULL;
    trf_step_report report;
    pairs p;
    const trf_batch *batch = backwards(&p);
    trf_batch no_ids = *batch, no_lengths = *batch;
    trf_tensor no_data = trf_tensor_of(NULL, 2, 1, 1, 1);
    trf_reading seen;
    double score;
    int32_t n = 0;
    char text[8];
    (void)state;
    assert_true(!trf_model_config(NULL) && !trf_model_vocab(NULL, TRF_SOURCE) &&
                !trf_model_vocab(NULL, TRF_TARGET));
    assert_true(trf_model_parameter_count(NULL) == 0 && trf_model_parameter_total(NULL) == 0 &&
                !trf_model_parameter(NULL, 0).data);
    for (n = -1; n < 999999; n += 1000000) {
        trf_tensor none =
            trf_model_parameter(learnt, n); /* no data, and a loop over it does nothing */
        assert_true(!none.data && trf_tensor_count(&none) == 0);
    }
    n = 0;
    assert_true(trf_model_parameter_index(NULL, "x") == -1 &&
                trf_model_parameter_index(learnt, NULL) == -1);
    assert_true(kit_count(NULL, 0) == 0 && !trf_translator_answer(NULL, 0, 0));
    assert_true(kit_updates(NULL) == 0 && !trf_trainer_options(NULL));
    assert_true(!trf_trainer_tensor(NULL, TRF_PARAMETER, 0).data && !trf_trainer_tensor(NULL, TRF_GRADIENT, 0).data &&
                trf_tensor_count(NULL) == 0);
    assert_true(trf_learning_rate(NULL, 512, 1) == 0);
    trf_trainer_discard_gradients(NULL);
    trf_trainer_end_step(NULL);
    {       /* what a failing call hands out is nothing, even if it was called with nothing */
        trf_model *m = (trf_model *)&p;
        trf_trainer *r = (trf_trainer *)&p;
        trf_config config = kit_config();
        trf_hooks half;
        trf_vocab *vocab = NULL;
        trf_corpus *corpus = NULL;
        trf_context *context = NULL;
        trf_file *file = NULL;
        trf_load_options load = trf_load_defaults();
        trf_corpus_options pairs_of = trf_corpus_defaults();
        FAILS(TRF_E_INVALID_ARG, trf_model_copy(&m, NULL, &err));
        assert_null(m);
        m = (trf_model *)&p;
        FAILS(TRF_E_INVALID_ARG, trf_checkpoint_load(&m, NULL, NULL, "x", NULL, NULL, &err));
        FAILS(TRF_E_INVALID_ARG, trf_checkpoint_load(NULL, &r, NULL, "x", NULL, NULL, &err));
        assert_true(!m && !r);
        strcpy(text, "old");
        FAILS(TRF_E_INVALID_ARG, trf_translate_text(NULL, "a", text, sizeof text, &err));
        assert_string_equal(text, "");
        memset(&report, 0x55, sizeof report);
        FAILS(TRF_E_INVALID_ARG, trf_trainer_step(NULL, batch, &report, &err));
        assert_true(report.step == 0 && report.loss == 0);
        memset(&half, 0, sizeof half);
        half.free = free_nothing;
        config.source_vocab = config.target_vocab = 9;
        config.hooks = training.hooks = search.hooks = load.hooks = pairs_of.hooks = half;
        FAILS(TRF_E_INVALID_ARG, trf_model_create(&model, &config, NULL, &err));
        assert_string_equal(err.what, "hooks");
        FAILS(TRF_E_INVALID_ARG, trf_trainer_create(&trainer, learnt, &training, &err));
        FAILS(TRF_E_INVALID_ARG, trf_translator_create(&t, learnt, &search, &err));
        FAILS(TRF_E_INVALID_ARG, trf_vocab_create(&vocab, TRF_WORDS, &half, &err));
        FAILS(TRF_E_INVALID_ARG, trf_corpus_create(&corpus, &pairs_of, &err));
        FAILS(TRF_E_INVALID_ARG, trf_context_create(&context, NULL, &half, &err));
        FAILS(TRF_E_INVALID_ARG, trf_file_open(&file, "x", &load, &err));
        assert_string_equal(err.what, "hooks");
        memset(&half, 0, sizeof half);
        training.hooks = search.hooks = half;
    }
    no_ids.source.ids = NULL;
    no_lengths.target.lengths = NULL;
    OK(trf_model_copy(&model, learnt, &err));
    OK(trf_translator_create(&t, model, &search, &err));
    OK(trf_trainer_create(&trainer, model, &training, &err));
    FAILS(TRF_E_INVALID_ARG, trf_reader_score(trf_translator_reader(t), batch, NULL, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_reader_score(trf_translator_reader(t), NULL, NULL, &score, &err));
    FAILS(TRF_E_INVALID_ARG, trf_reader_score(trf_translator_reader(t), &no_ids, NULL, &score, &err));
    FAILS(TRF_E_INVALID_ARG, trf_reader_score(trf_translator_reader(t), &no_lengths, NULL, &score, &err));
    FAILS(TRF_E_INVALID_ARG, trf_reader_read(trf_translator_reader(t), batch, TRF_READ_LOGITS, NULL, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_reader_read(trf_translator_reader(t), NULL, TRF_READ_LOGITS, NULL, &seen, &err));
    FAILS(TRF_E_INVALID_ARG, trf_reader_read(trf_translator_reader(t), &no_ids, TRF_READ_ENCODED, NULL, &seen, &err));
    FAILS(TRF_E_INVALID_ARG, trf_reader_read(trf_translator_reader(t), &no_lengths, TRF_READ_LOGITS, NULL, &seen, &err));
    FAILS(TRF_E_STATE, trf_reader_classify(trf_translator_reader(t), &batch->source, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_reader_embed(trf_translator_reader(t), &batch->source, TRF_POOL_MEAN, 0, &no_data, &err));
    FAILS(TRF_E_INVALID_ARG, kit_translate(t, NULL, 3, &n, 1, &n, &err));
    FAILS(TRF_E_INVALID_ARG, trf_translate(t, NULL, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_translate_text(t, NULL, text, sizeof text, &err));
    FAILS(TRF_E_INVALID_ARG, trf_translate_text(t, "a", NULL, sizeof text, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_step(trainer, NULL, &report, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_step(trainer, &no_ids, &report, &err));
    FAILS(TRF_E_INVALID_ARG, trf_trainer_evaluate(trainer, NULL, NULL, &report, &err));
    FAILS(TRF_E_INVALID_ARG, trf_model_copy(&copy, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_model_create(&copy, NULL, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_model_load(&copy, NULL, NULL, &err));
    FAILS(TRF_E_INVALID_ARG, trf_checkpoint_save(NULL, NULL, "x", NULL, &err));
    assert_int_equal(trf_trainer_step(trainer, NULL, NULL, NULL), TRF_E_INVALID_ARG);
    assert_int_equal(trf_trainer_step(trainer, batch, NULL, NULL), TRF_OK);
    trf_trainer_destroy(trainer);
    trf_translator_destroy(t);
    trf_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(front_page),
        cmocka_unit_test(strings),
        cmocka_unit_test(many_sentences),
        cmocka_unit_test(scoring),
        cmocka_unit_test(own_memory_and_cancel),
        cmocka_unit_test(threads_share_a_model),
        cmocka_unit_test(corpus_and_checkpoint),
        cmocka_unit_test(own_loop),
        cmocka_unit_test(changed_gradients),
        cmocka_unit_test(parts_alone),
        cmocka_unit_test(two_machines),
        cmocka_unit_test(broken_network),
        cmocka_unit_test(decoder_only),
        cmocka_unit_test(encoder_only),
        cmocka_unit_test(nothing_given),
    };
    return cmocka_run_group_tests(tests, learn, forget);
}

/* build: shared separate:shared long:shared plain:shared */
/* target_eos: without it n ids are n rows. Targets whose end the caller writes give the same bits
   as those that the library ends; rows, scores and logits of targets without an end; EOS inside;
   empty targets; searches that go on behind an EOS; chunks of a text. And BOS and EOS of sources. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"

enum { VOCAB = 19, LONGEST = 12, PAIRS = 6 };

static trf_config config_of(trf_kind kind, int32_t target_eos)
{
    trf_config c = kit_of_kind(kit_small(2, 16, VOCAB, LONGEST), kind);
    c.target_eos = target_eos;
    c.device.threads = 2;
    return c;
}

static trf_train_options training_of(double dropout)
{
    trf_train_options o = kit_small_training(dropout);
    o.source_tokens = o.target_tokens = 200;
    o.sequences = 20;
    o.longest = LONGEST;
    o.threads = 2;
    return o;
}

typedef struct lab { trf_model *model; trf_trainer *trainer; trf_translator *translator; } lab;

static lab open_lab(const trf_config *c, const trf_train_options *o, const trf_search *search)
{
    trf_search s = search ? *search : trf_search_defaults();
    lab l;
    s.threads = 2;
    OK(trf_model_create(&l.model, c, NULL, &err));
    OK(trf_trainer_create(&l.trainer, l.model, o, &err));
    OK(trf_translator_create(&l.translator, l.model, &s, &err));
    return l;
}

static void close_lab(lab *l)
{
    trf_translator_destroy(l->translator);
    trf_trainer_destroy(l->trainer);
    trf_model_destroy(l->model);
}

/* The batch with EOS (or another id) behind each target, which the caller of target_eos 0 writes.
 */
typedef struct ended { int32_t ids[512], lengths[64]; } ended;
static trf_batch end_targets(ended *to, const trf_batch *b, int32_t eos)
{
    trf_batch batch = *b;
    const int32_t *ids = b->target.ids;
    int32_t i, k, n = 0;
    for (i = 0; i < b->target.count; i++) {
        for (k = 0; k < b->target.lengths[i]; k++) to->ids[n++] = *ids++;
        to->ids[n++] = eos;
        to->lengths[i] = b->target.lengths[i] + 1;
    }
    batch.target.ids = to->ids;
    batch.target.lengths = to->lengths;
    return batch;
}

static void logits_of(const lab *l, const trf_batch *batch, trf_real *numbers, int64_t rows)
{
    trf_tensor out = trf_tensor_of(numbers, 2, rows, VOCAB, 1);
    assert_int_equal(kit_target_rows(l->model, &batch->target), rows);
    OK(kit_logits(l->translator, batch, &out, &err));
}

static void the_same_bits(void **state)
{
    static kit_pairs p;
    static ended e;
    int variant;
    (void)state;
    for (variant = 0; variant < 8; variant++) {
        trf_kind kind = variant & 1 ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER;
        trf_config c1 = config_of(kind, 1), c0;
        trf_train_options o = training_of(variant & 2 ? 0.3 : 0);
        trf_batch plain, written;
        trf_step_report a, b;
        trf_real x[PAIRS * LONGEST * VOCAB], y[PAIRS * LONGEST * VOCAB];
        double scores[2][PAIRS];
        int64_t rows, step;
        lab l1, l0;
        c1.norm_place = variant & 4 ? TRF_PRE_NORM : TRF_POST_NORM;
        c1.positions = variant & 2 ? TRF_POSITIONS_LEARNED : TRF_POSITIONS_INTERLEAVED;
        c1.decoder_start = (trf_decoder_start)(variant % 4);
        c1.source_eos = variant >> 2 & 1;
        c0 = c1;
        c0.target_eos = 0;
        l1 = open_lab(&c1, &o, NULL);
        l0 = open_lab(&c0, &o, NULL);
        for (step = 0; step < 3; step++) {
            plain = kit_fill(&p, PAIRS, step == 1 ? 0 : 1, LONGEST - 1, VOCAB,
                             (uint64_t)(variant + 10 * step));
            written = end_targets(&e, &plain, c1.eos);
            OK(trf_trainer_evaluate(l1.trainer, &plain, NULL, &a, &err));
            OK(trf_trainer_evaluate(l0.trainer, &written, NULL, &b, &err));
            assert_memory_equal(&a, &b, sizeof a);
            OK(trf_trainer_forward_backward(l1.trainer, &plain, &a, &err));
            OK(trf_trainer_forward_backward(l0.trainer, &written, &b, &err));
            assert_memory_equal(&a, &b, sizeof a);
            assert_true(hash_gradients(HASH_START, l1.trainer) ==
                        hash_gradients(HASH_START, l0.trainer));
            OK(trf_trainer_update(l1.trainer, &a, &err));
            OK(trf_trainer_update(l0.trainer, &b, &err));
            assert_memory_equal(&a, &b, sizeof a);
            assert_true(hash_weights(HASH_START, l1.model) == hash_weights(HASH_START, l0.model));
        }
        rows = kit_target_rows(l1.model, &plain.target);
        logits_of(&l1, &plain, x, rows);
        logits_of(&l0, &written, y, rows);
        assert_memory_equal(x, y, (size_t)(rows * VOCAB) * sizeof *x);
        OK(trf_reader_score(trf_translator_reader(l1.translator), &plain, NULL, scores[0], &err));
        OK(trf_reader_score(trf_translator_reader(l0.translator), &written, NULL, scores[1], &err));
        assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
        close_lab(&l1);
        close_lab(&l0);
    }
}

/* Without an end: the rows before it, of logits, scores and attention. */
static void rows_without_an_end(void **state)
{
    static kit_pairs p;
    int kind;
    (void)state;
    for (kind = 0; kind < 2; kind++) {
        trf_config c1 = config_of(kind ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER, 1), c0 = c1;
        trf_train_options o = training_of(0);
        trf_batch batch = kit_fill(&p, PAIRS, 0, LONGEST - 1, VOCAB, 5), one;
        trf_real x[PAIRS * LONGEST * VOCAB], y[PAIRS * LONGEST * VOCAB], *at = x, *bt = y;
        trf_real wide[LONGEST * LONGEST], narrow[LONGEST * LONGEST];
        double scores[PAIRS];
        const int32_t *ids = batch.target.ids;
        int32_t i, k, v, n;
        trf_tensor out;
        lab l1, l0;
        p.target_lengths[2] = 0;            /* the others move up: only ids count */
        c0.target_eos = 0;
        l1 = open_lab(&c1, &o, NULL);
        l0 = open_lab(&c0, &o, NULL);
        logits_of(&l1, &batch, x, kit_target_rows(l1.model, &batch.target));
        logits_of(&l0, &batch, y, kit_target_rows(l1.model, &batch.target) - PAIRS);
        OK(trf_reader_score(trf_translator_reader(l0.translator), &batch, NULL, scores, &err));
        for (i = 0; i < PAIRS; i++) {
            double sum = 0;
            for (k = 0; k < batch.target.lengths[i]; k++, bt += VOCAB, at += VOCAB) {
                double most = -HUGE_VAL, all = 0;
                for (v = 0; v < VOCAB; v++) assert_true(fabs((double)(at[v] - bt[v])) < 1e-5);
                for (v = 0; v < VOCAB; v++) most = (double)bt[v] > most ? (double)bt[v] : most;
                for (v = 0; v < VOCAB; v++) all += exp((double)bt[v] - most);
                sum += (double)bt[*ids++] - most - log(all);
            }
            at += VOCAB;
            assert_true(fabs(sum - scores[i]) < 1e-4);
        }
        for (i = 3; (n = batch.target.lengths[i]) < 3; i++) {}
        one = kit_slice(&batch, i, 1);
        out = trf_tensor_of(wide, 2, n + 1, n + 1, 1);
        OK(kit_attention_weights(l1.translator, &one, TRF_DECODER_SELF, 1, 1, &out, &err));
        out = trf_tensor_of(narrow, 2, n, n, 1);
        OK(kit_attention_weights(l0.translator, &one, TRF_DECODER_SELF, 1, 1, &out, &err));
        for (i = 0; i < n; i++)
            for (k = 0; k < n; k++)
                assert_true(fabs((double)(wide[i * (n + 1) + k] - narrow[i * n + k])) < 1e-5);
        close_lab(&l1);
        close_lab(&l0);
    }
}

static void special_ids(void **state)
{
    int32_t source[] = {4, 5, 6}, target[] = {7, 2, 8, 2}, n_source = 3, n_target = 4,
            n_long = LONGEST + 1, i;
    trf_batch batch;
    trf_step_report report;
    int eos;
    (void)state;
    memset(&batch, 0, sizeof batch);
    batch.source.ids = source; batch.source.lengths = &n_source; batch.source.count = 1;
    batch.target.ids = target; batch.target.lengths = &n_target; batch.target.count = 1;
    for (eos = 0; eos < 2; eos++) {
        trf_config c = config_of(TRF_ENCODER_DECODER, eos);
        trf_train_options o = training_of(0);
        lab l = open_lab(&c, &o, NULL);
        int32_t full[LONGEST + 1];
        for (i = 0; i <= LONGEST; i++) full[i] = 5;
        target[1] = 2;
        if (eos)
            FAILS(trf_trainer_step(l.trainer, &batch, &report, &err), TRF_E_INVALID_ARG, "target", 1);
        else {
            OK(trf_trainer_step(l.trainer, &batch, &report, &err));
            assert_int_equal(report.target_tokens, 4);
        }
        for (i = 0; i < 2; i++) {
            target[1] = i;                      /* pad, bos */
            target[3] = 4;
            FAILS(trf_trainer_step(l.trainer, &batch, &report, &err), TRF_E_INVALID_ARG, "target", 1);
        }
        target[1] = 9; target[3] = 2;
        source[2] = 2;
        FAILS(trf_trainer_step(l.trainer, &batch, &report, &err), TRF_E_INVALID_ARG, "source", 2);
        source[2] = 6;
        batch.target.ids = full;
        batch.target.lengths = &n_long;
        FAILS(trf_trainer_step(l.trainer, &batch, &report, &err), TRF_E_LIMIT, "target", 0);
        n_long = LONGEST;
        if (eos) FAILS(trf_trainer_step(l.trainer, &batch, &report, &err), TRF_E_LIMIT, "target", 0);
        else OK(trf_trainer_step(l.trainer, &batch, &report, &err));
        n_long = LONGEST + 1;
        batch.target.ids = target;
        batch.target.lengths = &n_target;
        close_lab(&l);
    }
}

/* Empty targets have no row, and no part in anything but the count of sequences. */
static void empty_targets(void **state)
{
    static const int32_t ids[] = {5, 6, 7, 8, 9}, some[] = {0, 3, 0}, none[] = {0, 0, 0},
                         source[] = {2, 0, 3};
    int kind, source_eos;
    (void)state;
    for (kind = 0; kind < 2; kind++)
        for (source_eos = 0; source_eos < 2; source_eos++) {
            trf_config c = config_of(kind ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER, 0);
            trf_train_options o = training_of(0.1);
            trf_batch batch, empty, nothing;
            trf_step_report report;
            trf_real logits[3 * VOCAB];
            double scores[3] = { 1, 1, 1 };
            uint64_t hash;
            lab l;
            memset(&batch, 0, sizeof batch);
            batch.source.ids = ids; batch.source.lengths = source; batch.source.count = 3;
            batch.target = batch.source;
            batch.target.lengths = some;
            empty = batch;
            empty.target.lengths = none;
            nothing = empty;
            nothing.source.lengths = none;
            c.source_eos = source_eos;
            l = open_lab(&c, &o, NULL);
            OK(trf_trainer_forward_backward(l.trainer, &empty, &report, &err));
            assert_int_equal(report.target_tokens, 0);
            assert_true(report.loss == 0);
            FAILS(trf_trainer_update(l.trainer, &report, &err), TRF_E_STATE, "tokens", 0);
            OK(trf_trainer_evaluate(l.trainer, &nothing, NULL, &report, &err));
            OK(trf_trainer_forward_backward(l.trainer, &batch, &report, &err));
            assert_int_equal(report.target_tokens, 3);
            assert_true(report.loss > 0 && trf__is_finite(report.loss));
            hash = hash_gradients(HASH_START, l.trainer);
            OK(trf_trainer_forward_backward(l.trainer, &empty, &report, &err));     /* adds zeros */
            assert_true(hash_gradients(HASH_START, l.trainer) == hash);
            OK(trf_trainer_forward_backward(l.trainer, &nothing, &report, &err));
            assert_true(hash_gradients(HASH_START, l.trainer) == hash);
            OK(trf_trainer_update(l.trainer, &report, &err));
            assert_int_equal(report.skipped, 0);
            assert_int_equal(report.target_tokens, 3);
            logits_of(&l, &batch, logits, 3);
            logits_of(&l, &empty, logits, 0);
            logits_of(&l, &nothing, logits, 0);
            OK(trf_reader_score(trf_translator_reader(l.translator), &batch, NULL, scores, &err));
            assert_true(scores[0] == 0 && scores[1] < 0 && scores[2] == 0);
            OK(trf_reader_score(trf_translator_reader(l.translator), &nothing, NULL, scores, &err));
            assert_true(scores[1] == 0);
            close_lab(&l);
        }
}

/* -----------------------------------------------------------------------------------------------
   Searches: what is forced may hold EOS, and goes on behind it. */

/* The most likely continuation, token by token, from logits of the whole. */
static int32_t naive_greedy(const lab *l, const trf_batch *of, int32_t *ids, int32_t n,
                            int32_t limit)
{
    trf_batch batch = *of;
    trf_real logits[LONGEST * VOCAB];
    while (n < limit) {
        int32_t length = n + 1, v, best = 2;
        ids[n] = 4;                         /* row n does not see what it is asked for */
        batch.target.ids = ids;
        batch.target.lengths = &length;
        batch.target.count = 1;
        logits_of(l, &batch, logits, length);
        for (v = 3; v < VOCAB; v++) if (logits[n * VOCAB + v] > logits[n * VOCAB + best]) best = v;
        ids[n] = best;
        if (best == 2) return n;
        n++;
    }
    return n;
}

static void searches(void **state)
{
    int kind, rule, beam, round, behind = 0;
    (void)state;
    for (kind = 0; kind < 2; kind++)
        for (rule = 0; rule < 6; rule++)
            for (beam = 1; beam <= 4; beam += 3) {
                trf_config c = config_of(kind ? TRF_DECODER_ONLY : TRF_ENCODER_DECODER, 0);
                trf_train_options o = training_of(0);
                trf_search s = trf_search_defaults();
                lab l;
                trf_search_set_rule(&s, (trf_search_rule)rule);
                s.beam = beam;
                s.n_best = beam;
                s.min_length = 0;
                c.seed = (uint64_t)(rule + 1);
                c.embedding_init = TRF_EMBEDDING_NORMAL_1;
                l = open_lab(&c, &o, &s);
                for (round = KIT_AGAIN; round < 6; round += 1 + KIT_AGAIN) {
                    static const int32_t beginnings[6][6] = {
                        { 2 }, { 5, 2 }, { 2, 2, 2 }, { 2, 7, 2, 9 }, { 4, 2, 5, 6, 2 }, { 6, 7 } };
                    static const int32_t lengths[6] = { 1, 2, 3, 4, 5, 2 };
                    static const int32_t source[] = { 5, 8, 6 }, n_source = 3;
                    int32_t n = lengths[round], k, greedy[LONGEST + 1], n_greedy,
                            skipped = kind ? n : 0;
                    trf_sequences from = { source, &n_source, 1 }, begin;
                    begin.ids = beginnings[round]; begin.lengths = &n; begin.count = 1;
                    if (kind) OK(trf_translate(l.translator, &begin, NULL, &err));
                    else OK(kit_translate_with(l.translator, &from, &begin, NULL, 0, &err));
                    for (k = 0; k < kit_count(l.translator, 0); k++) {
                        const trf_hypothesis h = *trf_translator_answer(l.translator, 0, k);
                        int32_t whole[LONGEST + 1], m = h.n + skipped;
                        double score, raw = h.log_probability;
                        trf_batch batch;
                        memset(&batch, 0, sizeof batch);
                        if (!kind) batch.source = from;
                        memcpy(whole, beginnings[round], (size_t)n * sizeof *whole);
                        memcpy(whole + skipped, h.ids, (size_t)h.n * sizeof *whole);
                        if (memcmp(whole, beginnings[round], (size_t)n * sizeof *whole))
                            fail_msg("another beginning");
                        for (; n < m; n++) assert_true(whole[n] != 2);
                        n = lengths[round];
                        behind += m > n && whole[n - 1] == 2;
                        if (k == 0 && beam == 1) {
                            memcpy(greedy, whole, (size_t)n * sizeof *greedy);
                            n_greedy = naive_greedy(&l, &batch, greedy, n, LONGEST - 1);
                            if (h.ended == TRF_ENDED_EOS) assert_int_equal(m, n_greedy);
                            assert_memory_equal(greedy, whole, (size_t)m * sizeof *greedy);
                        }
                        if (h.ended == TRF_ENDED_EOS) whole[m++] = 2;
                        batch.target.ids = whole;
                        batch.target.lengths = &m;
                        batch.target.count = 1;
                        OK(trf_reader_score(trf_translator_reader(l.translator), &batch, NULL, &score, &err));
                        if (rule != TRF_SEARCH_CTRANSLATE2 && !(fabs(score - raw) < 1e-4))
                            fail_msg("%g, not %g", raw, score);
                        if (kind)
                            OK(trf_translate(l.translator, &begin, NULL, &err)); /* scoring forgets */
                        else OK(kit_translate_with(l.translator, &from, &begin, NULL, 0, &err));
                    }
                }
                close_lab(&l);
            }
    assert_true(behind > 20);
}

/* A beginning leaves room for one token more; the library ends no beginning either way. */
static void long_beginnings(void **state)
{
    int32_t ids[LONGEST], n = LONGEST - 1, answer[LONGEST], m, i;
    int eos;
    (void)state;
    for (i = 0; i < LONGEST; i++) ids[i] = 5;
    for (eos = 0; eos < 2; eos++) {
        trf_config c = config_of(TRF_DECODER_ONLY, eos);
        trf_train_options o = training_of(0);
        lab l = open_lab(&c, &o, NULL);
        OK(kit_translate(l.translator, ids, n, answer, LONGEST, &m, &err));
        assert_int_equal(m, 0);
        FAILS(kit_translate(l.translator, ids, n + 1, answer, LONGEST, &m, &err), TRF_E_LIMIT,
              "source", 0);
        ids[1] = 2;
        OK(kit_translate(l.translator, ids, 3, answer, LONGEST, &m, &err));    /* EOS in a prompt */
        ids[1] = 5;
        close_lab(&l);
    }
}

/* -----------------------------------------------------------------------------------------------
   A language model of chunks: batches stay within their limits, it learns, and goes on from a
   checkpoint. */
static void chunks_are_learned(void **state)
{
    enum { TEXT = 600, CHUNK = LONGEST, TOKENS = 100 };
    trf_config c = config_of(TRF_DECODER_ONLY, 0);
    trf_train_options o = training_of(0.1);
    trf_corpus_options co = trf_corpus_defaults();
    trf_corpus *corpus, *again;
    trf_model *model;
    trf_trainer *trainer;
    trf_step_report report, other;
    trf_batch batch;
    int32_t text[TEXT], i;
    double first = 0;
    char path[64];
    lab l;
    (void)state;
    for (i = 0; i < TEXT; i++)
        text[i] = i % 7 == 6 ? 2 : 4 + i % 7; /* documents that end with EOS */
    co.batch_tokens = TOKENS;
    OK(trf_corpus_create(&corpus, &co, &err));
    OK(trf_corpus_create(&again, &co, &err));
    for (i = 0; i < TEXT - 5; i += CHUNK) {
        int32_t n = i + CHUNK < TEXT - 5 ? CHUNK : TEXT - 5 - i;
        OK(trf_corpus_add(corpus, NULL, 0, text + i, n, &err));
        OK(trf_corpus_add(again, NULL, 0, text + i, n, &err));
    }
    o.schedule = TRF_CONSTANT;
    o.learning_rate = 0.01;
    l = open_lab(&c, &o, NULL);
    for (i = 0; i < 60; i++) {
        OK(trf_corpus_next(corpus, &batch, &err));
        assert_true(kit_target_rows(l.model, &batch.target) <= TOKENS - batch.target.count);
        OK(trf_trainer_step(l.trainer, &batch, &report, &err));
        assert_int_equal(report.target_tokens, kit_target_rows(l.model, &batch.target));
        if (i == 0) first = report.loss;
    }
    assert_true(report.nll < 0.7 * first);
    snprintf(path, sizeof path, "/tmp/trf_targets.%ld", (long)getpid());
    OK(trf_checkpoint_save(l.trainer, corpus, path, NULL, &err));
    OK(trf_checkpoint_load(&model, &trainer, again, path, &o, NULL, &err));
    remove(path);
    assert_int_equal(trf_model_config(model)->target_eos, 0);
    for (i = 0; i < 3; i++) {
        OK(trf_corpus_next(corpus, &batch, &err));
        OK(trf_trainer_step(l.trainer, &batch, &report, &err));
        OK(trf_corpus_next(again, &batch, &err));
        OK(trf_trainer_step(trainer, &batch, &other, &err));
        assert_memory_equal(&report, &other, sizeof report);
    }
    assert_true(hash_weights(HASH_START, l.model) == hash_weights(HASH_START, model));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    trf_corpus_destroy(corpus);
    trf_corpus_destroy(again);
    close_lab(&l);
}

static void states_of(const trf_config *c, const trf_sequences *sources, trf_real *numbers)
{
    trf_search search = trf_search_defaults();
    trf_model *model = NULL;
    trf_translator *translator = NULL;
    trf_tensor out;
    OK(trf_model_create(&model, c, NULL, &err));
    OK(trf_translator_create(&translator, model, &search, &err));
    out = trf_tensor_of(numbers, 2, kit_source_rows(model, sources), c->d_model, 1);
    OK(kit_encode(translator, sources, &out, &err));
    trf_translator_destroy(translator);
    trf_model_destroy(model);
}

/* Sources with and without BOS and EOS, an empty one among them: answers have the scores of their
   pairs, and drawn ones the probabilities; a source that contains BOS as an ordinary word has the
   states of one that the library begins; labels belong to ids. */
static void sources_begin_and_end(void **state)
{
    static kit_pairs p;
    int ways, compared[2] = {0, 0};
    (void)state;
    for (ways = 0; ways < 4; ways++) {
        trf_config c = config_of(TRF_ENCODER_DECODER, 1), tagger;
        trf_train_options o = training_of(0);
        trf_search search = trf_search_defaults();
        trf_batch batch = kit_fill(&p, PAIRS, 1, LONGEST - 3, VOCAB - 2, 3), one;
        int32_t ids[PAIRS * LONGEST], lengths[PAIRS], i, k, n, zero = 0, begins, ends;
        const int32_t *from = batch.source.ids;
        trf_sequences none = batch.source, written = {ids, lengths, PAIRS};
        trf_sampling sampling = trf_sampling_defaults();
        trf_sampler *sampler = NULL;
        trf_model *model = NULL;
        trf_translator *asked = NULL;
        trf_real all[PAIRS * LONGEST * VOCAB], some[PAIRS * LONGEST * VOCAB];
        trf_tensor out;
        double score;
        int64_t row, at;
        lab l;
        c.source_bos = begins = ways & 1;
        c.source_eos = ends = ways >> 1;
        search.max_length_a = 0; search.max_length_b = 6;
        l = open_lab(&c, &o, &search);
        OK(trf_translate(l.translator, &batch.source, NULL, &err));
        for (i = 0; i < PAIRS; i++) {
            const trf_hypothesis *h = trf_translator_answer(l.translator, i, 0);
            double wanted = h->log_probability;
            n = h->n;
            memcpy(ids, h->ids, (size_t)n * sizeof *ids);
            if (h->ended != TRF_ENDED_EOS) continue;
            one = kit_slice(&batch, i, 1);
            one.target.ids = ids;
            one.target.lengths = &n;
            OK(trf_reader_score(trf_translator_reader(l.translator), &one, NULL, &score, &err));
            assert_true(fabs(score - wanted) < 1e-4);
            compared[0]++;
            OK(trf_translate(l.translator, &batch.source, NULL, &err));
        }
        sampling.temperature = 1; sampling.max_tokens = 4;
        OK(trf_sampler_create(&sampler, l.model, &sampling, &err));
        one = batch;
        one.target.count = 0;
        OK(trf_sampler_begin(sampler, &one, &err));
        OK(trf_sampler_step(sampler, 100, NULL, &err));
        for (i = 0; i < PAIRS; i++) {
            const trf_hypothesis *h = trf_sampler_answer(sampler, i);
            n = h->n;
            if (h->ended != TRF_ENDED_EOS) continue;
            one = kit_slice(&batch, i, 1);
            one.target.ids = h->ids;
            one.target.lengths = &n;
            OK(trf_reader_score(trf_translator_reader(l.translator), &one, NULL, &score, &err));
            assert_true(fabs(score - h->log_probability) < 1e-4);
            compared[1]++;
        }
        trf_sampler_destroy(sampler);
        none.count = 1; none.lengths = &zero;
        if (begins + ends) OK(trf_translate(l.translator, &none, NULL, &err));
        close_lab(&l);

        /* the same ids, written by the caller, to whom BOS and EOS are ordinary words */
        tagger = c = kit_of_kind(c, TRF_ENCODER_ONLY);
        c.source_bos = c.source_eos = 0;
        c.bos = VOCAB - 2; c.eos = VOCAB - 1;
        for (i = 0, n = 0; i < PAIRS; i++) {
            lengths[i] = batch.source.lengths[i] + begins + ends;
            if (begins) ids[n++] = tagger.bos;
            for (k = 0; k < batch.source.lengths[i]; k++) ids[n++] = *from++;
            if (ends) ids[n++] = tagger.eos;
        }
        states_of(&tagger, &batch.source, all);
        states_of(&c, &written, some);
        assert_memory_equal(some, all, (size_t)n * 16 * sizeof *all);
        at = n;

        tagger.head = TRF_HEAD_TOKENS;
        tagger.n_labels = 4;
        OK(trf_model_create(&model, &tagger, NULL, &err));
        OK(trf_translator_create(&asked, model, &search, &err));
        one = batch;
        out = trf_tensor_of(all, 2, at, 4, 1);
        OK(kit_logits(asked, &one, &out, &err));
        out = trf_tensor_of(some, 2, at - PAIRS * (begins + ends), 4, 1);
        OK(trf_reader_classify(trf_translator_reader(asked), &batch.source, &out, &err));
        for (i = 0, row = 0, at = 0; i < PAIRS; i++, row += ends)
            for (k = 0, row += begins; k < batch.source.lengths[i]; k++, row++, at++) {
                trf__softmax(all + row * 4, 4);
                assert_memory_equal(some + at * 4, all + row * 4, 4 * sizeof *all);
            }
        trf_translator_destroy(asked);
        trf_model_destroy(model);
    }
    assert_true(compared[0] > 0 && compared[1] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),      cmocka_unit_test(rows_without_an_end),
        cmocka_unit_test(special_ids),        cmocka_unit_test(empty_targets),
        cmocka_unit_test(searches),           cmocka_unit_test(long_beginnings),
        cmocka_unit_test(chunks_are_learned), cmocka_unit_test(sources_begin_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

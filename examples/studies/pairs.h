/* pairs.h - what the studies of trained models share: pairs of sequences, reversals, and one
   training loop.

   A lesson is a configuration, training options, the training pairs and the held-out pairs. An
   outcome has the figures of a lesson that tables show. */
#ifndef STUDIES_PAIRS_H
#define STUDIES_PAIRS_H

#include "study.h"
#include <stddef.h>

enum { STUDY_SEEDS = 100 };             /* the most that --seeds takes */

// -----------------------------------------------------------------------------------------------
// Pairs
// -----------------------------------------------------------------------------------------------

/* Sequence i begins at source[from_source[i]], its target at target[from_target[i]]. */
struct pairs {
    int32_t *source, *target, *n_source, *n_target, *from_source, *from_target;
    int32_t count, longest;
};

/* Room for so many pairs, of so many ids a side at most; study_end frees it. */
STUDY struct pairs pairs_create(struct study *s, int32_t room, int32_t longest)
{
    struct pairs p;
    size_t ids = (size_t)room * (size_t)longest;
    p.source = (int32_t *)study_memory(s, (2 * ids + 4 * (size_t)room) * sizeof *p.source);
    p.target = p.source + ids;
    p.n_source = p.target + ids;
    p.n_target = p.n_source + room;
    p.from_source = p.n_target + room;
    p.from_target = p.from_source + room;
    p.count = 0;
    p.longest = longest;
    return p;
}

STUDY void pairs_add(struct pairs *p, const int32_t *source, int32_t n, const int32_t *target,
                     int32_t m)
{
    int32_t i = p->count++, before = i - 1;
    p->from_source[i] = i ? p->from_source[before] + p->n_source[before] : 0;
    p->from_target[i] = i ? p->from_target[before] + p->n_target[before] : 0;
    memcpy(p->source + p->from_source[i], source, (size_t)n * sizeof *source);
    memcpy(p->target + p->from_target[i], target, (size_t)m * sizeof *target);
    p->n_source[i] = n;
    p->n_target[i] = m;
}

STUDY int pairs_have(const struct pairs *p, const int32_t *source, int32_t n)
{
    int32_t i;
    for (i = 0; i < p->count; i++)
        if (p->n_source[i] == n
            && !memcmp(p->source + p->from_source[i], source, (size_t)n * sizeof *source)) return 1;
    return 0;
}

STUDY trf_batch pairs_batch(const struct pairs *p, int32_t first, int32_t count)
{
    trf_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.source.ids = p->source + p->from_source[first];
    batch.target.ids = p->target + p->from_target[first];
    batch.source.lengths = p->n_source + first;
    batch.target.lengths = p->n_target + first;
    batch.source.count = batch.target.count = count;
    return batch;
}

// -----------------------------------------------------------------------------------------------
// Sequence reversal, as in a tutorial: 17 symbols; the last one read is the first one written
// -----------------------------------------------------------------------------------------------

enum {
    REVERSAL_VOCAB = 20, REVERSAL_FIRST = 3,            /* ids 3 to 19 */
    REVERSAL_SHORT = 3, REVERSAL_LONG = 8,              /* symbols to learn from */
    REVERSAL_ROOM = 32                                  /* more than any study asks for */
};

/* Of low to high symbols, all lengths as likely; none of them is in `without` (may be NULL). */
STUDY struct pairs pairs_reversal(struct study *s, uint64_t seed, int32_t count, int low, int high,
                                  const struct pairs *without)
{
    struct pairs p = pairs_create(s, count, high);
    uint64_t state = seed;
    while (p.count < count) {
        int32_t source[REVERSAL_ROOM], target[REVERSAL_ROOM], i, n;
        n = low + study_below(&state, high - low + 1);
        for (i = 0; i < n; i++) {
            source[i] = REVERSAL_FIRST + study_below(&state, REVERSAL_VOCAB - REVERSAL_FIRST);
            target[n - 1 - i] = source[i];
        }
        if (!without || !pairs_have(without, source, n)) pairs_add(&p, source, n, target, n);
    }
    return p;
}

// -----------------------------------------------------------------------------------------------
// Training
// -----------------------------------------------------------------------------------------------

enum { PAIRS_EPOCHS = 32 };             /* the most that a lesson has */

struct lesson {
    trf_config config;
    trf_train_options training;
    int epochs;
    int32_t batch;                      /* pairs of an update */
    double reach;                       /* the token accuracy that outcome.reached waits for */
    const struct pairs *learned, *held_out;
};
struct outcome {
    double weights;
    double training_loss, loss;         /* per target token, learned and held out, no dropout */
    double accuracy;                    /* percent of held-out tokens, teacher-forced */
    double exact;                       /* percent of held-out pairs, by greedy search */
    double seconds;                     /* of all processors, for the updates alone */
    double reached;                     /* first epoch with lesson.reach; none: epochs + 1 */
    double by_epoch[PAIRS_EPOCHS];      /* accuracy after each */
};

/* One field of n outcomes, in values. */
STUDY const double *outcome_values(const struct outcome *o, int n, size_t field, double *values)
{
    int i;
    for (i = 0; i < n; i++) memcpy(&values[i], (const char *)(o + i) + field, sizeof *values);
    return values;
}
STUDY double outcome_mean(const struct outcome *o, int n, size_t field)
{
    double values[STUDY_SEEDS] = {0};
    return study_mean(outcome_values(o, n, field, values), n);
}
STUDY const char *outcome_spread(const struct outcome *o, int n, size_t field, int digits)
{
    double values[STUDY_SEEDS] = {0};
    return study_spread(outcome_values(o, n, field, values), n, digits);
}
STUDY int outcome_larger(const struct outcome *a, const struct outcome *b, int n, size_t field)
{
    double x[STUDY_SEEDS] = {0}, y[STUDY_SEEDS] = {0};
    return study_larger(outcome_values(a, n, field, x), n, outcome_values(b, n, field, y), n);
}
/* MEAN(o, n, exact): over n outcomes; SPREAD: with its deviation, as text; LARGER: study_larger. */
#define MEAN(o, n, field) outcome_mean(o, n, offsetof(struct outcome, field))
#define SPREAD(o, n, field, digits) outcome_spread(o, n, offsetof(struct outcome, field), digits)
#define LARGER(a, b, n, field) outcome_larger(a, b, n, offsetof(struct outcome, field))

/* The tutorial's model and training, except that embeddings start as the paper's, with deviation
   1 / sqrt(d_model). Adam at 1e-3 from the first update on, dropout on embeddings and sublayers,
   clipping at 1. */
STUDY struct lesson pairs_lesson(const struct study *s, int d_model, int heads, int layers,
                                 int d_ff)
{
    struct lesson lesson;
    trf_config *c = &lesson.config;
    trf_train_options *o = &lesson.training;
    memset(&lesson, 0, sizeof lesson);
    *c = trf_config_preset(TRF_TINY);
    trf_set_conventions(c, NULL, TRF_CONVENTIONS_PYTORCH);
    c->d_model = d_model;
    c->n_heads = heads;
    c->encoder_layers = c->decoder_layers = layers;
    c->d_ff = d_ff;
    c->source_vocab = c->target_vocab = REVERSAL_VOCAB;
    c->max_length = REVERSAL_ROOM;
    c->final_norm = TRF_FINAL_NORM_NONE;
    c->init = TRF_INIT_XAVIER;
    c->embedding_init = TRF_EMBEDDING_NORMAL_D;
    c->device.threads = s->threads;
    *o = trf_train_defaults();
    o->schedule = TRF_CONSTANT;
    o->learning_rate = o->initial_rate = 1e-3;
    o->warmup = 1;
    o->dropout = o->residual_dropout = 0.1;
    lesson.epochs = 30;
    lesson.batch = 128;
    lesson.reach = 0.95;
    return lesson;
}

/* A schedule that learns in seconds: the rate rises to `rate` in 100 updates, then falls along a
   cosine. */
STUDY void pairs_hurry(struct lesson *lesson, double rate, int epochs, int32_t batch, int32_t pairs)
{
    trf_train_options *o = &lesson->training;
    lesson->batch = batch;
    lesson->epochs = epochs;
    o->schedule = TRF_COSINE;
    o->learning_rate = rate;
    o->initial_rate = 0;
    o->warmup = 100;
    o->total_steps = (int64_t)epochs * ((pairs + batch - 1) / batch) + 1;
}

/* The logits of every target token and of EOS behind each target, teacher-forced: a row each. */
STUDY trf_tensor pairs_logits(struct study *s, const trf_model *model, const struct pairs *p)
{
    trf_batch batch = pairs_batch(p, 0, p->count);
    trf_reader *reader = NULL;
    trf_reading seen;
    trf_tensor logits;
    STUDY_TRY(trf_reader_create(&reader, model, NULL, &err));
    STUDY_TRY(trf_reader_read(reader, &batch, TRF_READ_LOGITS, NULL, &seen, &err));
    logits = study_copy(s, &seen.logits);
    trf_reader_destroy(reader);
    return logits;
}

/* Token j of target i, where the last one is EOS. */
STUDY int32_t pairs_token(const trf_model *model, const struct pairs *p, int32_t i, int32_t j)
{
    return j < p->n_target[i] ? p->target[p->from_target[i] + j] : trf_model_config(model)->eos;
}

/* Percent of pairs that are answered with the target. */
STUDY double pairs_exact(const trf_model *model, const struct pairs *p)
{
    trf_search search = trf_search_defaults();
    trf_translator *translator = NULL;
    trf_batch all = pairs_batch(p, 0, p->count);
    int32_t i, right = 0;
    search.beam = 1;
    search.max_sentences = 256;
    STUDY_TRY(trf_translator_create(&translator, model, &search, &err));
    STUDY_TRY(trf_translate(translator, &all.source, NULL, &err));
    for (i = 0; i < p->count; i++) {
        const trf_hypothesis *answer = trf_translator_answer(translator, i, 0);
        right += answer->n == p->n_target[i]
                 && !memcmp(answer->ids, p->target + p->from_target[i],
                            (size_t)answer->n * sizeof *answer->ids);
    }
    trf_translator_destroy(translator);
    return 100.0 * right / p->count;
}

STUDY trf_corpus *pairs_corpus(const struct lesson *lesson, uint64_t seed)
{
    const struct pairs *p = lesson->learned;
    trf_corpus_options order = trf_corpus_defaults();
    trf_corpus *corpus = NULL;
    int32_t i;
    order.seed = seed;
    order.batch_sentences = lesson->batch;
    order.batch_tokens = lesson->batch * (p->longest + 1);
    order.buckets = 0;
    STUDY_TRY(trf_corpus_create(&corpus, &order, &err));
    for (i = 0; i < p->count; i++)
        STUDY_TRY(trf_corpus_add(corpus, p->source + p->from_source[i], p->n_source[i],
                                 p->target + p->from_target[i], p->n_target[i], &err));
    return corpus;
}

/* Trains through whole epochs, shuffled. The model belongs to the caller. */
STUDY trf_model *pairs_learn(struct lesson lesson, uint64_t seed, struct outcome *outcome)
{
    trf_corpus *corpus = pairs_corpus(&lesson, seed);
    trf_batch batch, learned = pairs_batch(lesson.learned, 0, lesson.learned->count);
    trf_batch held_out = pairs_batch(lesson.held_out, 0, lesson.held_out->count);
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    int i;
    memset(&report, 0, sizeof report);
    memset(outcome, 0, sizeof *outcome);
    lesson.config.seed = lesson.training.seed = seed;
    STUDY_TRY(trf_model_create(&model, &lesson.config, NULL, &err));
    STUDY_TRY(trf_trainer_create(&trainer, model, &lesson.training, &err));
    outcome->weights = (double)trf_model_parameter_total(model);
    outcome->reached = lesson.epochs + 1;
    for (i = 1; i <= lesson.epochs; i++) {
        double begin = study_cpu_seconds();
        do {
            STUDY_TRY(trf_corpus_next(corpus, &batch, &err));
            STUDY_TRY(trf_trainer_step(trainer, &batch, NULL, &err));
        } while (trf_corpus_facts(corpus)->epoch < i);
        outcome->seconds += study_cpu_seconds() - begin;
        STUDY_TRY(trf_trainer_evaluate(trainer, &held_out, NULL, &report, &err));
        outcome->by_epoch[i - 1] = 100 * report.accuracy;
        if (report.accuracy >= lesson.reach && outcome->reached > i) outcome->reached = i;
    }
    outcome->loss = report.nll;
    outcome->accuracy = 100 * report.accuracy;
    STUDY_TRY(trf_trainer_evaluate(trainer, &learned, NULL, &report, &err));
    outcome->training_loss = report.nll;
    trf_trainer_destroy(trainer);
    trf_corpus_destroy(corpus);
    outcome->exact = pairs_exact(model, lesson.held_out);
    return model;
}

/* The same on reversals of 3 to 8 symbols: `count` to learn from, others to test with. */
STUDY trf_model *reversal_learn(struct study *s, struct lesson lesson, int32_t count, uint64_t seed,
                                struct outcome *outcome)
{
    int32_t low = REVERSAL_SHORT, high = REVERSAL_LONG;
    struct pairs held_out = pairs_reversal(s, 1000 + seed, s->quick ? 200 : 500, low, high, NULL);
    struct pairs learned = pairs_reversal(s, seed, count, low, high, &held_out);
    lesson.learned = &learned;
    lesson.held_out = &held_out;
    return pairs_learn(lesson, seed, outcome);
}

#endif /* STUDIES_PAIRS_H */

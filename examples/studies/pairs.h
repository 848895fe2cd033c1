/* pairs.h - what the studies of trained models share: pairs of sequences, reversals, and one training loop.

   A lesson is a configuration, the options of its training, the pairs to learn from and those to test with. An outcome
   is what a table shows of it. The pairs to test with are never learned from. */
#ifndef STUDIES_PAIRS_H
#define STUDIES_PAIRS_H

#include "study.h"
#include <stddef.h>

enum { STUDY_SEEDS = 100 };             /* the most that --seeds takes */

// -----------------------------------------------------------------------------------------------
// Pairs
// -----------------------------------------------------------------------------------------------

/* The ids of sequence i begin at source[from_source[i]], those of its target at target[from_target[i]]. */
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

STUDY void pairs_add(struct pairs *p, const int32_t *source, int32_t n, const int32_t *target, int32_t m)
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
        if (p->n_source[i] == n && !memcmp(p->source + p->from_source[i], source, (size_t)n * sizeof *source)) return 1;
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
// Sequence reversal, as in tutorial 004: 17 symbols, the last one read is the first one written
// -----------------------------------------------------------------------------------------------

enum { REVERSAL_VOCAB = 20, REVERSAL_FIRST = 3, REVERSAL_SHORT = 3, REVERSAL_LONG = 8, REVERSAL_ROOM = 32 };

/* Of low to high symbols, all lengths as likely; none of them is in `without` (may be NULL). */
STUDY struct pairs pairs_reversal(struct study *s, uint64_t seed, int32_t count, int low, int high, const struct pairs *without)
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
    double training_loss, loss;         /* per target token, without dropout: learned and held-out pairs */
    double accuracy;                    /* percent of held-out tokens, teacher-forced */
    double exact;                       /* percent of held-out pairs, greedy search on the model's own answers */
    double seconds;                     /* of the updates alone */
    double reached;                     /* the first epoch with that accuracy; one more than all: none */
};

/* Mean and deviation of a field over n outcomes: OUTCOME(o, n, exact).mean. */
struct spread { double mean, deviation; };
STUDY struct spread outcome_spread(const struct outcome *o, int n, size_t field)
{
    struct spread spread;
    double values[STUDY_SEEDS];
    int i;
    for (i = 0; i < n; i++) memcpy(&values[i], (const char *)(o + i) + field, sizeof *values);
    spread.mean = study_mean(values, n);
    spread.deviation = study_deviation(values, n);
    return spread;
}
#define OUTCOME(o, n, field) outcome_spread(o, n, offsetof(struct outcome, field))
/* Is a field larger in the outcomes a than in b? See study_larger. */
STUDY int outcome_larger(const struct outcome *a, const struct outcome *b, int n, size_t field)
{
    double x[STUDY_SEEDS], y[STUDY_SEEDS];
    int i;
    for (i = 0; i < n; i++) {
        memcpy(&x[i], (const char *)(a + i) + field, sizeof *x);
        memcpy(&y[i], (const char *)(b + i) + field, sizeof *y);
    }
    return study_larger(x, n, y, n);
}
#define OUTCOME_LARGER(a, b, n, field) outcome_larger(a, b, n, offsetof(struct outcome, field))

/* Model and training of tutorial 004, but for the embeddings, which start as the paper's: deviation 1 / sqrt(d_model).
   Adam at 1e-3 from the first update on, dropout on embeddings and sublayers, clipping at 1. */
STUDY struct lesson pairs_lesson(const struct study *s, int d_model, int heads, int layers, int d_ff)
{
    struct lesson lesson;
    trf_config *c = &lesson.config;
    trf_train_options *o = &lesson.training;
    memset(&lesson, 0, sizeof lesson);
    *c = trf_config_tiny();
    trf_config_set_conventions(c, TRF_CONVENTIONS_PYTORCH);
    c->d_model = d_model;
    c->n_heads = heads;
    c->encoder_layers = c->decoder_layers = layers;
    c->d_ff = d_ff;
    c->source_vocab = c->target_vocab = REVERSAL_VOCAB;
    c->max_length = REVERSAL_ROOM;
    c->final_norm = 0;
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

/* A setting that learns reversals in seconds: the rate rises to `rate` in 100 updates and falls along a cosine. */
STUDY void pairs_hurry(struct lesson *lesson, double rate, int epochs, int32_t pairs)
{
    trf_train_options *o = &lesson->training;
    lesson->batch = 64;
    lesson->epochs = epochs;
    o->schedule = TRF_COSINE;
    o->learning_rate = rate;
    o->initial_rate = 0;
    o->warmup = 100;
    o->total_steps = (int64_t)epochs * ((pairs + lesson->batch - 1) / lesson->batch) + 1;
}

/* Percent of pairs whose answer is the target. */
STUDY double pairs_exact(const trf_model *model, const struct pairs *p)
{
    trf_search search = trf_search_defaults();
    trf_translator *translator = NULL;
    trf_batch all = pairs_batch(p, 0, p->count);
    int32_t i, right = 0;
    search.beam = 1;
    search.max_sentences = 256;
    STUDY_TRY(trf_translator_create(&translator, model, &search, &err));
    STUDY_TRY(trf_translate_batch(translator, &all.source, &err));
    for (i = 0; i < p->count; i++) {
        const trf_hypothesis *answer = trf_hypothesis_at(translator, i, 0);
        right += answer->n == p->n_target[i]
                 && !memcmp(answer->ids, p->target + p->from_target[i], (size_t)answer->n * sizeof *answer->ids);
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
    STUDY_TRY(trf_model_create(&model, &lesson.config, &err));
    STUDY_TRY(trf_trainer_create(&trainer, model, &lesson.training, &err));
    outcome->weights = (double)trf_parameter_total(model);
    outcome->reached = lesson.epochs + 1;
    for (i = 1; i <= lesson.epochs; i++) {
        double begin = study_seconds();
        do {
            STUDY_TRY(trf_corpus_next(corpus, &batch, &err));
            STUDY_TRY(trf_train_step(trainer, &batch, NULL, &err));
        } while (trf_corpus_epoch(corpus) < i);
        outcome->seconds += study_seconds() - begin;
        STUDY_TRY(trf_evaluate_all(trainer, &held_out, NULL, &report, &err));
        if (report.accuracy >= lesson.reach && outcome->reached > i) outcome->reached = i;
    }
    outcome->loss = report.nll;
    outcome->accuracy = 100 * report.accuracy;
    STUDY_TRY(trf_evaluate_all(trainer, &learned, NULL, &report, &err));
    outcome->training_loss = report.nll;
    trf_trainer_destroy(trainer);
    trf_corpus_destroy(corpus);
    outcome->exact = pairs_exact(model, lesson.held_out);
    return model;
}

/* The same on reversals of 3 to 8 symbols: so many to learn from, and 500 (quick: 200) others to test with. */
STUDY trf_model *reversal_learn(struct study *s, struct lesson lesson, int32_t count, uint64_t seed, struct outcome *outcome)
{
    struct pairs held_out = pairs_reversal(s, 1000 + seed, s->quick ? 200 : 500, REVERSAL_SHORT, REVERSAL_LONG, NULL);
    struct pairs learned = pairs_reversal(s, seed, count, REVERSAL_SHORT, REVERSAL_LONG, &held_out);
    lesson.learned = &learned;
    lesson.held_out = &held_out;
    return pairs_learn(lesson, seed, outcome);
}

// -----------------------------------------------------------------------------------------------
// Attention, looked at
// -----------------------------------------------------------------------------------------------

/* All attention weights of a kind: see trf_views. */
STUDY trf_tensor pairs_attention(struct study *s, const trf_model *model, const trf_batch *batch,
                                 trf_attention_kind kind)
{
    trf_tensor all = study_tensor(s, trf_attention_numbers(model, batch, kind), 0);
    trf_translator *translator = NULL;
    trf_views views;
    memset(&views, 0, sizeof views);
    if (kind == TRF_ENCODER_SELF) views.encoder_self = &all;
    if (kind == TRF_DECODER_SELF) views.decoder_self = &all;
    if (kind == TRF_DECODER_CROSS) views.cross = &all;
    STUDY_TRY(trf_translator_create(&translator, model, NULL, &err));
    STUDY_TRY(trf_look_inside(translator, batch, &views, &err));
    trf_translator_destroy(translator);
    return all;
}

/* The (queries, keys) of one layer and head in what trf_attention_of returns. */
STUDY const trf_real *pairs_head(const trf_tensor *of, int64_t layer, int64_t head)
{
    return of->data + (layer * of->shape[1] + head) * of->shape[2] * of->shape[3];
}

/* Share of the weight that is where a reversal of n symbols looks: symbol i is written while n - 1 - i is read. */
STUDY double reversal_share(const trf_real *weights, int64_t n, int64_t keys)
{
    double sum = 0;
    int64_t i;
    for (i = 0; i < n; i++) sum += (double)weights[i * keys + n - 1 - i];
    return sum / (double)n;
}

/* The mean of that share over the sequences of a batch: shares[layer * heads + head]. */
STUDY void reversal_shares(struct study *s, const trf_model *model, const trf_batch *batch, double *shares)
{
    trf_tensor all = pairs_attention(s, model, batch, TRF_DECODER_CROSS);
    const trf_config *c = trf_model_config(model);
    int32_t i, layer, head;
    memset(shares, 0, (size_t)(c->decoder_layers * c->n_heads) * sizeof *shares);
    for (i = 0; i < batch->source.count; i++) {
        trf_tensor one = trf_attention_of(model, batch, TRF_DECODER_CROSS, &all, i);
        for (layer = 0; layer < c->decoder_layers; layer++)
            for (head = 0; head < c->n_heads; head++)
                shares[layer * c->n_heads + head] +=
                    reversal_share(pairs_head(&one, layer, head), batch->source.lengths[i], one.shape[3])
                    / batch->source.count;
    }
}

/* The name of a token of a source or a target row, for the axes of a picture: a number, or what ends the side. */
STUDY const char *reversal_name(int32_t id)
{
    static const char *const names[REVERSAL_VOCAB] = {"pad", "start", "end", "3", "4", "5", "6", "7", "8", "9",
        "10", "11", "12", "13", "14", "15", "16", "17", "18", "19"};
    return names[id];
}

/* Draws every layer and head of a kind for one sequence of a batch. */
STUDY void reversal_draw(struct study *s, const char *part, const char *title, const trf_model *model,
                         const trf_batch *one, trf_attention_kind kind)
{
    static const char *source[REVERSAL_ROOM + 1], *target[REVERSAL_ROOM + 1];
    static char titles[64][40];
    trf_tensor all = pairs_attention(s, model, one, kind), of = trf_attention_of(model, one, kind, &all, 0);
    struct heat_map *maps;
    int64_t i, heads = of.shape[1], n = of.shape[0] * heads;
    int32_t length = one->source.lengths[0];
    for (i = 0; i < length; i++) {
        source[i] = reversal_name(one->source.ids[i]);
        target[i + 1] = reversal_name(one->target.ids[i]);
    }
    source[length] = reversal_name(2);
    target[0] = reversal_name(1);
    maps = (struct heat_map *)study_memory(s, (size_t)n * sizeof *maps);
    for (i = 0; i < n && i < 64; i++) {
        snprintf(titles[i], sizeof titles[i], "layer %d, head %d", (int)(i / heads) + 1, (int)(i % heads) + 1);
        maps[i].title = titles[i];
        maps[i].values = pairs_head(&of, i / heads, i % heads);
        maps[i].rows = (long)of.shape[2];
        maps[i].columns = (long)of.shape[3];
        maps[i].row_names = kind == TRF_ENCODER_SELF ? source : target;
        maps[i].column_names = kind == TRF_DECODER_SELF ? target : source;
    }
    study_heat_maps(s, part, title, maps, (int)(n < 64 ? n : 64), (int)heads, 0, 1);
}

#endif /* STUDIES_PAIRS_H */

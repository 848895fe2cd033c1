/* own_inputs.c - does a model learn if it reads its own symbols in training, not the right ones?

   A tutorial justifies teacher forcing: a decoder that reads its own predictions in training gets
   garbage at first and never learns.

   The header shifts a decoder's targets itself, so the model here is an encoder. It reads a
   question mark, the source, a separator and the answer so far, and predicts the next symbol from
   its first row (TRF_HEAD_FIRST): one example for each symbol. The answer so far is the right one,
   the model's own, or its own with a probability that rises from 0 to 1 (Bengio et al. 2015). The
   label is always the right symbol. The two tasks are those of forcing.c, with 4 symbols out of 8:
   reversal needs no symbol before; in a chain each is the sum of the last one and a symbol of the
   source, modulo 8. The study uses 300 other sources, as training goes on. It reports exact
   answers, decoded freely, and right symbols where the model reads right ones. A model that never
   reaches 90 % exact answers counts with all its updates. */
#include "study.h"

enum { SYMBOLS = 8, LENGTH = 4, ASK = 4 + SYMBOLS, SEPARATOR, VOCAB, ROW = 2 * LENGTH + 1 };
enum { SOURCES = 32, TESTS = 300, POINTS = 15, MOST = 100 };
enum { REVERSAL = 0, CHAIN = 1, TASKS = 2, RIGHT = 0, OWN = 1, RISING = 2, MODES = 3 };
static const char *const tasks[TASKS] = {"reversal", "chain"};
static const char *const modes[MODES] = {"right symbols", "its own", "more and more its own"};

/* Sources, right answers, what the model says, and what it reads as written. */
struct pairs {
    int32_t source[TESTS][LENGTH], right[TESTS][LENGTH], said[TESTS][LENGTH], read[TESTS][LENGTH];
};
struct examples { int32_t ids[TESTS * ROW], lengths[TESTS], labels[TESTS], ones[TESTS]; };
struct result { double exact[POINTS], forced, reached, seconds; };

static void draw(struct pairs *x, int32_t count, int task, uint64_t *random)
{
    int32_t i;
    for (i = 0; i < count; i++)
        study_task(x->source[i], x->right[i], LENGTH, SYMBOLS, task == CHAIN, random);
}

/* The example that asks for symbol j of a source, number k of a batch. Returns where the next one
   begins. */
static int32_t *ask(struct examples *e, int32_t *ids, int32_t k, const struct pairs *x, int32_t i,
                    int32_t j)
{
    *ids++ = ASK;
    memcpy(ids, x->source[i], sizeof x->source[i]);
    ids[LENGTH] = SEPARATOR;
    ids += LENGTH + 1;
    memcpy(ids, x->read[i], (size_t)j * sizeof *ids);
    e->lengths[k] = LENGTH + 2 + j;
    e->labels[k] = x->right[i][j] - 4;
    e->ones[k] = 1;
    return ids + j;
}

/* The model says all symbols, one after another. With this probability it reads a symbol as it has
   said it, else the right one. */
static void say(const trf_model *model, struct pairs *x, int32_t count, double own,
                uint64_t *random)
{
    static struct examples e;
    static trf_real p[TESTS * SYMBOLS];
    trf_tensor out = trf_tensor_of(p, 2, count, SYMBOLS, 1);
    trf_sequences sources = {e.ids, e.lengths, count};
    trf_reader *reader = NULL;
    int32_t i, j, best, *ids;
    STUDY_TRY(trf_reader_create(&reader, model, NULL, &err));
    for (j = 0; j < LENGTH; j++) {
        for (ids = e.ids, i = 0; i < count; i++) ids = ask(&e, ids, i, x, i, j);
        STUDY_TRY(trf_reader_classify(reader, &sources, &out, &err));
        for (i = 0; i < count; i++) {
            best = study_best(p + i * SYMBOLS, 0, SYMBOLS);
            x->said[i][j] = 4 + best;
            x->read[i][j] = study_uniform(random) < own ? 4 + best : x->right[i][j];
        }
    }
    trf_reader_destroy(reader);
}

/* Percent of sources whose symbols are all right; *symbols: percent of right symbols. */
static double judge(const trf_model *model, int task, double own, double *symbols)
{
    static struct pairs x;
    uint64_t random = 999;
    int32_t i, j, exact = 0, right = 0;
    draw(&x, TESTS, task, &random);
    say(model, &x, TESTS, own, &random);
    for (i = 0; i < TESTS; i++) {
        for (j = 0; j < LENGTH; j++) right += x.said[i][j] == x.right[i][j];
        exact += !memcmp(x.said[i], x.right[i], sizeof x.said[i]);
    }
    *symbols = 100.0 * right / TESTS / LENGTH;
    return 100.0 * exact / TESTS;
}

static trf_model *create(const struct study *s, uint64_t seed)
{
    trf_config c = study_config(s, TRF_ENCODER_ONLY, 3, VOCAB, seed);
    trf_model *model = NULL;
    c.head = TRF_HEAD_FIRST;
    c.n_labels = SYMBOLS;
    c.source_eos = 0;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    return model;
}

static struct result run(const struct study *s, int task, int mode, uint64_t seed, int updates)
{
    static struct pairs x;
    static struct examples e;
    trf_model *model = create(s, seed);
    trf_train_options o = trf_train_defaults();
    trf_trainer *trainer = NULL;
    trf_batch b = {{e.ids, e.lengths, SOURCES * LENGTH},
                   {e.labels, e.ones, SOURCES * LENGTH},
                   0,
                   {0, 0, 0}};
    struct result r;
    uint64_t random = seed;
    int32_t i, j, k, step, every = updates / POINTS, *ids;
    double begin = study_seconds(), symbols;
    memset(&r, 0, sizeof r);
    r.reached = updates;
    o.learning_rate = 2e-3;
    STUDY_TRY(trf_trainer_create(&trainer, model, &o, &err));
    for (step = 1; step <= updates; step++) {
        draw(&x, SOURCES, task, &random);
        memcpy(x.read, x.right, sizeof x.read);
        if (mode != RIGHT)
            say(model, &x, SOURCES, mode == OWN ? 1 : (double)step / updates, &random);
        for (ids = e.ids, k = i = 0; i < SOURCES; i++)
            for (j = 0; j < LENGTH; j++) ids = ask(&e, ids, k++, &x, i, j);
        STUDY_TRY(trf_trainer_step(trainer, &b, NULL, &err));
        if (step % every) continue;
        r.exact[step / every - 1] = judge(model, task, 1, &symbols);
        if (r.exact[step / every - 1] >= 90 && step < r.reached) r.reached = step;
    }
    r.seconds = study_seconds() - begin;
    judge(model, task, 0, &r.forced);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return r;
}

static void conclude(struct study *s, double exact[TASKS][MODES][MOST])
{
    static const char *const better[TASKS] = {
        "teacher forcing learns better where the source determines all symbols",
        "teacher forcing learns better where a symbol needs the one before"};
    int task, n = s->seeds, learns = study_above(exact[REVERSAL][OWN], n, 50);
    study_claim(s, "a model that reads its own symbols in training never learns",
                learns == STUDY_UNDECIDED ? learns : !learns,
                "%s %% of reversals are exact in the end",
                study_spread(exact[REVERSAL][OWN], n, 1));
    for (task = 0; task < (s->quick ? 1 : TASKS); task++)
        study_claim(s, better[task], study_larger(exact[task][RIGHT], n, exact[task][OWN], n),
                    "exact answers in the end: trained on right symbols %s %%, on its own %s %%",
                    study_spread(exact[task][RIGHT], n, 1), study_spread(exact[task][OWN], n, 1));
}

int main(int argc, char **argv)
{
    static double exact[TASKS][MODES][MOST], reached[MOST],
        along[TASKS][MODES][POINTS];
    struct study s =
        study_begin(argc, argv, "own_inputs", "training on right symbols and on the model's own");
    int task, mode, i, k, n = s.seeds = s.quick ? 1 : s.seeds, updates = s.quick ? 90 : 600;
    int n_tasks = s.quick ? 1 : TASKS, n_modes = s.quick ? 2 : MODES;
    double at[POINTS], forced[MOST], seconds[MOST];
    struct curve curves[TASKS][MODES];
    struct panel panels[TASKS];
    study_columns(&s, "task | reads in training | exact, free, % | symbols right, teacher-forced, "
                      "% | updates until 90 % are exact | seconds");
    for (k = 0; k < POINTS; k++) at[k] = (k + 1) * (updates / POINTS);
    for (task = 0; task < n_tasks; task++) {
        for (mode = 0; mode < n_modes; mode++) {
            for (i = 0; i < n; i++) {
                struct result r = run(&s, task, mode, (uint64_t)i + 1, updates);
                exact[task][mode][i] = r.exact[POINTS - 1];
                reached[i] = r.reached;
                forced[i] = r.forced;
                seconds[i] = r.seconds;
                for (k = 0; k < POINTS; k++) along[task][mode][k] += r.exact[k] / n;
                study_must(&s, r.forced > 200.0 / SYMBOLS,
                           "%s is learned from %s: %.1f %% of symbols", tasks[task], modes[mode],
                           r.forced);
            }
            study_row(&s, "%s | %s | %s | %s | %s | %s", tasks[task], modes[mode],
                      study_spread(exact[task][mode], n, 1), study_spread(forced, n, 1),
                      study_spread(reached, n, 0), study_spread(seconds, n, 1));
            curves[task][mode] = study_curve(modes[mode], at, along[task][mode], POINTS);
        }
        panels[task] = study_panel(tasks[task], "updates", "exact free answers, %",
                                   curves[task], n_modes);
        panels[task].from_zero = 1;
    }
    study_curves(&s, "", panels, n_tasks, n_tasks);
    conclude(&s, exact);
    return study_end(&s);
}

/* forcing.c - a decoder learns with teacher forcing but answers freely. What does that cost?

   Tutorials explain teacher forcing: in training a decoder reads the right symbols; in use it reads
   the symbols that it has chosen itself.

   The two tasks have 10 symbols out of 10. Reversal takes each symbol from the source alone. A
   chain needs the symbol before: each is the sum of the last one and a symbol of the source, modulo
   10. One model for each task trains until 95 % of unseen symbols are right, teacher-forced. Then
   it answers 500 unseen sources by greedy search. The study reports right symbols in both modes, by
   position; the position of the first error; and how many of the symbols after it are right. Up to
   the first error both decoders read the same, so it must fall on the same symbol.

   The header shifts targets itself: a decoder reads the symbols that it is to predict. So
   own_inputs.c, which trains on a model's own symbols, uses an encoder. */
#include "study.h"

enum { SYMBOLS = 10, LENGTH = 10, ROWS = LENGTH + 1, TESTS = 500, BATCH = 64, MOST = 100 };
enum { END = 2, REVERSAL = 0, CHAIN = 1, TASKS = 2, FORCED = 0, FREE = 1 };
static int32_t length = LENGTH;     /* of all sequences; --quick: shorter */
static const char *const tasks[TASKS] = {"reversal", "chain"};

struct samples { int32_t source[TESTS * LENGTH], target[TESTS * LENGTH], lengths[TESTS]; };
/* Of one model: shares in percent. after[mode][k]: k + 1 positions after the first free error. */
struct result {
    double right[2], exact[2], independent, same, first, updates;
    double place[2][LENGTH], after[2][LENGTH];
};

static trf_batch draw(struct samples *x, int32_t count, int task, uint64_t *random)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        study_task(x->source + i * length, x->target + i * length, length, SYMBOLS, task == CHAIN,
                   random);
        x->lengths[i] = length;
    }
    return study_batch(x->source, x->target, x->lengths, count);
}

/* Trains until 95 % of the tests' symbols are right, teacher-forced, or `most` updates are made. */
static trf_model *train(const struct study *s, int task, uint64_t seed, const trf_batch *tests,
                        struct result *r)
{
    static struct samples x;
    trf_config c = study_config(s, TRF_ENCODER_DECODER, 4, 4 + SYMBOLS, seed);
    trf_train_options o = trf_train_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    uint64_t random = seed;
    int i, most = s->quick ? 120 : 2000;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    STUDY_TRY(trf_trainer_create(&trainer, model, &o, &err));
    for (i = 1; i <= most; i++) {
        trf_batch b = draw(&x, BATCH, task, &random);
        STUDY_TRY(trf_trainer_step(trainer, &b, NULL, &err));
        if (i % 20) continue;
        STUDY_TRY(trf_trainer_evaluate(trainer, tests, NULL, &report, &err));
        if (report.accuracy >= 0.95) break;
    }
    r->updates = i < most ? i : most;
    trf_trainer_destroy(trainer);
    return model;
}

/* What the model writes for every test, end included, in both modes. */
static void answer(const trf_model *model, const trf_batch *tests, int32_t *forced, int32_t *freely)
{
    trf_reading seen;
    trf_search search = trf_search_defaults();
    trf_translator *t = NULL;
    int32_t i, j;
    search.beam = 1;
    STUDY_TRY(trf_translator_create(&t, model, &search, &err));
    STUDY_TRY(trf_reader_read(trf_translator_reader(t), tests, TRF_READ_LOGITS, NULL, &seen, &err));
    for (i = 0; i < TESTS * (length + 1); i++)
        forced[i] = study_best(seen.logits.data + i * (4 + SYMBOLS), END, 4 + SYMBOLS);
    STUDY_TRY(trf_translate(t, &tests->source, NULL, &err));
    for (i = 0; i < TESTS; i++) {
        const trf_hypothesis *h = trf_translator_answer(t, i, 0);
        for (j = 0; j <= length; j++)
            freely[i * (length + 1) + j] = j < h->n ? h->ids[j] : j == h->n ? END : -1;
    }
    trf_translator_destroy(t);
}

/* The row of the first wrong symbol or end; length + 1: the answer is exact. */
static int32_t first_error(const int32_t *got, const int32_t *right)
{
    int32_t j = 0;
    while (j < length && got[j] == right[j]) j++;
    return j < length || got[j] != END ? j : length + 1;
}

static void compare(const trf_batch *tests, int32_t *got[2], struct result *r)
{
    double hits[2][LENGTH], chance = 1;
    int32_t i, j, mode, seen[LENGTH], errors = 0;
    memset(hits, 0, sizeof hits);
    memset(seen, 0, sizeof seen);
    for (i = 0; i < TESTS; i++) {
        const int32_t *right = tests->target.ids + i * length;
        int32_t first[2];
        for (mode = 0; mode < 2; mode++) {
            first[mode] = first_error(got[mode] + i * (length + 1), right);
            r->exact[mode] += 100.0 * (first[mode] == length + 1) / TESTS;
        }
        r->same += 100.0 * (first[FORCED] == first[FREE]) / TESTS;
        if (first[FREE] <= length) {
            r->first += first[FREE] + 1;
            errors++;
        }
        for (j = 0; j < length; j++) {
            int32_t distance = j - first[FREE] - 1;
            for (mode = 0; mode < 2; mode++) {
                int hit = got[mode][i * (length + 1) + j] == right[j];
                r->place[mode][j] += 100.0 * hit / TESTS;
                r->right[mode] += 100.0 * hit / TESTS / length;
                if (distance >= 0) hits[mode][distance] += hit;
            }
            if (distance >= 0) seen[distance]++;
        }
    }
    r->first = errors ? r->first / errors : 0;
    for (j = 0; j < length; j++) chance *= r->place[FORCED][j] / 100;
    r->independent = 100 * chance;
    for (mode = 0; mode < 2; mode++)
        for (j = 0; j < length; j++)
            r->after[mode][j] = seen[j] ? 100 * hits[mode][j] / seen[j] : 0;
}

static struct result run(const struct study *s, int task, uint64_t seed)
{
    static struct samples x;
    static int32_t forced[TESTS * ROWS], freely[TESTS * ROWS];
    int32_t *got[2] = {forced, freely};
    uint64_t random = 999;              /* the same tests for all */
    trf_batch tests = draw(&x, TESTS, task, &random);
    struct result r;
    trf_model *model;
    memset(&r, 0, sizeof r);
    model = train(s, task, seed, &tests, &r);
    answer(model, &tests, forced, freely);
    compare(&tests, got, &r);
    trf_model_destroy(model);
    return r;
}

/* Means over the seeds: right symbols by position, and after the first error. */
static void picture(struct study *s, struct result r[TASKS][MOST])
{
    static double x[LENGTH], y[2 * TASKS][2][LENGTH];
    static const char *const lines[] = {"teacher-forced", "free"};
    static const char *const titles[] = {"reversal, by position", "chain, by position",
        "reversal, after the first error", "chain, after the first error"};
    struct curve curves[2 * TASKS][2];
    struct panel panels[2 * TASKS];
    int k, mode, j, i;
    for (k = 0; k < 2 * TASKS; k++) {
        for (mode = 0; mode < 2; mode++) {
            for (j = 0; j < length; j++) {
                for (x[j] = j + 1, i = 0; i < s->seeds; i++) {
                    const struct result *one = &r[k % TASKS][i];
                    y[k][mode][j] += (k < TASKS ? one->place : one->after)[mode][j] / s->seeds;
                }
            }
            curves[k][mode] =
                study_curve(lines[mode], x, y[k][mode], k < TASKS ? length : length - 3);
        }                                           /* farther symbols are few */
        panels[k] =
            study_panel(titles[k], k < TASKS ? "position" : "symbols after the first error",
                        "right, %", curves[k], 2);
        panels[k].from_zero = 1;
    }
    study_curves(s, "", panels, 2 * TASKS, TASKS);
}

int main(int argc, char **argv)
{
    static struct result r[TASKS][MOST];
    struct study s = study_begin(argc, argv, "forcing", "teacher forcing and free answers");
    double c[7][MOST], forced[TASKS][MOST], freely[TASKS][MOST];
    int task, i, k, n = s.seeds = s.quick ? 1 : s.seeds;
    if (s.quick) length = 5;
    study_columns(
        &s,
        "task | updates | right, teacher-forced, % | right, free, % | exact, %"
        " | exact if errors were independent, % | first error at | next 3 right, free, %");
    for (task = 0; task < TASKS; task++) {
        for (i = 0; i < n; i++) {
            struct result *one = &r[task][i];
            *one = run(&s, task, (uint64_t)i + 1);
            c[0][i] = one->updates;
            c[1][i] = one->right[FORCED];
            c[2][i] = one->right[FREE];
            c[3][i] = one->exact[FREE];
            c[4][i] = one->independent;
            c[5][i] = one->first;
            c[6][i] = freely[task][i] = study_mean(one->after[FREE], 3);
            forced[task][i] = study_mean(one->after[FORCED], 3);
            study_must(&s, one->same > 99.4,
                       "the first error falls on one symbol in both modes: %.1f %% of answers",
                       one->same);
            study_must(&s, fabs(one->exact[FORCED] - one->exact[FREE]) < 0.6,
                       "teacher forcing gets as many answers right from end to end: %.1f, %.1f",
                       one->exact[FORCED], one->exact[FREE]);
        }
        study_row(&s, "%s | %s | %s | %s | %s | %s | %s | %s", tasks[task],
                  study_spread(c[0], n, 0), study_spread(c[1], n, 1), study_spread(c[2], n, 1),
                  study_spread(c[3], n, 1), study_spread(c[4], n, 1), study_spread(c[5], n, 1),
                  study_spread(c[6], n, 1));
    }
    picture(&s, r);
    for (k = 0; k < TASKS; k++)
        study_claim(&s,
                    k == CHAIN ? "an error causes others where a symbol needs the one before"
                               : "an error causes others where the source determines all symbols",
                    study_larger(forced[k], n, freely[k], n),
                    "of the three symbols after the first error %s %% are right in a free "
                    "answer, %s %% when teacher-forced",
                    study_spread(freely[k], n, 1), study_spread(forced[k], n, 1));
    study_claim(
        &s, "teacher-forced accuracy shows how many whole answers are right", STUDY_YES,
        "in %.1f %% of the answers the first error is the same symbol in both modes, so as many "
        "are exact",
        (r[REVERSAL][0].same + r[CHAIN][0].same) / 2);
    return study_end(&s);
}

/* next_sentence.c - does the second sentence follow the first? BERT's other objective.

   Tutorials name next sentence prediction beside masks, draw [CLS] before the first sentence and
   [SEP] after each, and read the answer from the row of [CLS]. BERT adds a segment embedding
   (trf_config.segments), which this study does without: here [CLS] and [SEP] are words of the
   vocabulary like any others.

   The study makes its own stories. A story has a hero, a topic with its own things, and a plot: a
   cycle of seven events, each with two verbs. Each sentence has the next event: hero, up to two
   adverbs, verb, adverbs, a thing of the topic. In half of the pairs the second sentence follows.
   The other pairs are of two kinds. In one, as in BERT, the second sentence is from another story,
   which names give away. In the other it is from the same story at another event (as in Lan et al.
   2020), which only the verbs reveal. A model that never reaches 95 % counts with all its updates.
   */
#include "study.h"

enum { HEROES = 8, TOPICS = 6, THINGS = 5, EVENTS = 7, ADVERBS = 6 };
enum { CLS = 4, SEP, HERO, THING = HERO + HEROES, VERB = THING + TOPICS * THINGS };
enum { ADVERB = VERB + 2 * EVENTS, VOCAB = ADVERB + ADVERBS };
enum { LONGEST = 20, BATCH = 64, TESTS = 500 };
enum { POINTS = 20, MOST = 100 };
enum { FIRST, MEAN, FIRST_BARE, MEAN_BARE, AFTER_MASKS, OTHER_STORY, ROWS };

static const struct setting {
    const char *name;
    trf_head head;
    int bare, after_masks, hard;
} settings[ROWS] = {
    {"[CLS]'s row", TRF_HEAD_FIRST, 0, 0, 1},
    {"mean of rows", TRF_HEAD_MEAN, 0, 0, 1},
    {"first word's row, no [CLS], no [SEP]", TRF_HEAD_FIRST, 1, 0, 1},
    {"mean of rows, no [CLS], no [SEP]", TRF_HEAD_MEAN, 1, 0, 1},
    {"[CLS]'s row, masks learned first", TRF_HEAD_FIRST, 0, 1, 1},
    {"[CLS]'s row, false pairs from another story", TRF_HEAD_FIRST, 0, 0, 0},
};
struct result { double right[POINTS], reached, loss; };

struct pairs { int32_t ids[TESTS * LONGEST], lengths[TESTS], labels[TESTS], ones[TESTS]; };

static int32_t tell(int32_t *ids, int hero, int topic, int event, uint64_t *random)
{
    int32_t n = 0, i;
    ids[n++] = HERO + hero;
    for (i = study_below(random, 3); i > 0; i--) ids[n++] = ADVERB + study_below(random, ADVERBS);
    ids[n++] = VERB + 2 * event + study_below(random, 2);
    for (i = study_below(random, 3); i > 0; i--) ids[n++] = ADVERB + study_below(random, ADVERBS);
    ids[n++] = THING + topic * THINGS + study_below(random, THINGS);
    return n;
}

/* [CLS] first sentence [SEP] second sentence [SEP]; bare: the two sentences alone. */
static trf_batch draw(struct pairs *x, int32_t count, const struct setting *what, uint64_t *random)
{
    trf_batch b = {{x->ids, x->lengths, count}, {x->labels, x->ones, count}, 0, {0, 0, 0}};
    int32_t *ids = x->ids, i, n;
    for (i = 0; i < count; i++, ids += n) {
        int hero = study_below(random, HEROES), topic = study_below(random, TOPICS);
        int event = study_below(random, EVENTS), next = (event + 1) % EVENTS,
            follows = study_below(random, 2);
        n = 0;
        if (!what->bare) ids[n++] = CLS;
        n += tell(ids + n, hero, topic, event, random);
        if (!what->bare) ids[n++] = SEP;
        if (!follows && what->hard) next = (event + 2 + study_below(random, EVENTS - 1)) % EVENTS;
        if (!follows && !what->hard) {
            hero = (hero + 1 + study_below(random, HEROES - 1)) % HEROES;
            topic = (topic + 1 + study_below(random, TOPICS - 1)) % TOPICS;
            next = study_below(random, EVENTS);
        }
        n += tell(ids + n, hero, topic, next, random);
        if (!what->bare) ids[n++] = SEP;
        x->lengths[i] = n;
        x->labels[i] = follows;
        x->ones[i] = 1;
    }
    return b;
}

/* A model with a head, and the weights of another where there is one. */
static trf_model *create(const struct study *s, trf_head head, uint64_t seed,
                         const trf_model *from)
{
    trf_config c = study_config(s, TRF_ENCODER_ONLY, 3, VOCAB, seed);
    trf_model *model = NULL;
    c.head = head;
    c.n_labels = head == TRF_HEAD_MASKED ? 0 : 2;
    c.source_eos = 0;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    if (from) STUDY_TRY(trf_model_copy_weights(model, from, NULL, &err));
    return model;
}

static trf_trainer *teach(trf_model *model, int updates)
{
    trf_train_options o = trf_train_defaults();
    trf_trainer *trainer = NULL;
    o.schedule = TRF_COSINE;
    o.learning_rate = 1e-3;
    o.warmup = 50;
    o.total_steps = updates;
    STUDY_TRY(trf_trainer_create(&trainer, model, &o, &err));
    return trainer;
}

/* A model that has learned to fill masks in the same pairs; NULL where the setting wants none. */
static trf_model *fill_masks(const struct study *s, const struct setting *what, uint64_t seed,
                             int updates)
{
    static struct pairs x;
    trf_noise_options hidden = trf_noise_defaults();
    trf_noise *noise = NULL;
    uint64_t random = seed + 500;
    trf_model *model;
    trf_trainer *trainer;
    int i;
    if (!what->after_masks) return NULL;
    hidden.vocab = VOCAB;
    STUDY_TRY(trf_noise_create(&noise, &hidden, &err));
    model = create(s, TRF_HEAD_MASKED, seed, NULL);
    trainer = teach(model, updates);
    for (i = 1; i <= updates; i++) {
        trf_batch b = draw(&x, BATCH, what, &random);
        b.place.batch = i;
        STUDY_TRY(trf_noise_apply(noise, &b, &b, &err));
        STUDY_TRY(trf_trainer_step(trainer, &b, NULL, &err));
    }
    trf_trainer_destroy(trainer);
    trf_noise_destroy(noise);
    return model;
}

static struct result run(const struct study *s, const struct setting *what, uint64_t seed,
                         int updates)
{
    static struct pairs x, unseen;
    uint64_t random = seed, others = 99;
    trf_batch tests = draw(&unseen, TESTS, what, &others);
    trf_model *masked = fill_masks(s, what, seed, updates);
    trf_model *model = create(s, what->head, seed, masked);
    trf_trainer *trainer = teach(model, updates);
    trf_step_report report;
    struct result r;
    int i, every = updates / POINTS;
    memset(&r, 0, sizeof r);
    r.reached = updates;
    for (i = 1; i <= updates; i++) {
        trf_batch b = draw(&x, BATCH, what, &random);
        STUDY_TRY(trf_trainer_step(trainer, &b, NULL, &err));
        if (i % every) continue;
        STUDY_TRY(trf_trainer_evaluate(trainer, &tests, NULL, &report, &err));
        r.right[i / every - 1] = 100 * report.accuracy;
        if (report.accuracy >= 0.95 && i < r.reached) r.reached = i;
    }
    r.loss = report.loss;
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    trf_model_destroy(masked);
    return r;
}

static void conclude(struct study *s, double right[ROWS][MOST], double reached[ROWS][MOST])
{
    int n = s->seeds;
    study_claim(s, "a model without segments can learn whether a sentence follows",
                study_above(right[FIRST], n, 95),
                "%s %% of unseen pairs are right; in half of them the second follows",
                study_spread(right[FIRST], n, 1));
    study_claim(
        s, "the row of [CLS] suits such answers best",
        study_larger(reached[MEAN], n, reached[FIRST], n),
        "updates until 95 %% are right: [CLS] %s, mean of all rows %s; without [CLS] and [SEP] the "
        "first row gets %s %% right",
        study_spread(reached[FIRST], n, 0), study_spread(reached[MEAN], n, 0),
        study_spread(right[FIRST_BARE], n, 1));
    study_claim(s, "[SEP] is needed to separate the sentences",
                study_larger(reached[MEAN_BARE], n, reached[MEAN], n),
                "with the mean of all rows 95 %% are right after %s updates with it, %s without",
                study_spread(reached[MEAN], n, 0), study_spread(reached[MEAN_BARE], n, 0));
    study_claim(s, "learning masks first helps",
                study_larger(reached[FIRST], n, reached[AFTER_MASKS], n),
                "95 %% are right after %s updates; with masks learned first, after %s",
                study_spread(reached[FIRST], n, 0), study_spread(reached[AFTER_MASKS], n, 0));
    study_claim(s, "false pairs from another story make it easy",
                study_larger(reached[FIRST], n, reached[OTHER_STORY], n),
                "95 %% are right after %s updates; with the same story, after %s",
                study_spread(reached[OTHER_STORY], n, 0), study_spread(reached[FIRST], n, 0));
}

int main(int argc, char **argv)
{
    static double right[ROWS][MOST], reached[ROWS][MOST], along[ROWS][POINTS], at[POINTS];
    struct study s =
        study_begin(argc, argv, "next_sentence", "does the second sentence follow the first?");
    struct curve curves[ROWS];
    struct panel panel;
    int k, i, j, updates = s.quick ? 160 : 600;
    if (s.quick) s.seeds = 1;
    study_columns(&s, "answer from | unseen pairs right, % | updates until 95 % are right | loss");
    for (k = s.quick ? OTHER_STORY : 0; k < ROWS; k++) {
        double loss[MOST];
        for (i = 0; i < s.seeds; i++) {
            struct result r = run(&s, &settings[k], (uint64_t)i + 1, updates);
            right[k][i] = r.right[POINTS - 1];
            reached[k][i] = r.reached;
            loss[i] = r.loss;
            for (j = 0; j < POINTS; j++) along[k][j] += r.right[j] / s.seeds;
            study_must(&s, k == FIRST_BARE || right[k][i] > 90, "%s: %.1f %% right",
                       settings[k].name, right[k][i]);
        }
        study_row(&s, "%s | %s | %s | %s", settings[k].name, study_spread(right[k], s.seeds, 1),
                  study_spread(reached[k], s.seeds, 0), study_spread(loss, s.seeds, 3));
    }
    for (j = 0; j < POINTS; j++) at[j] = (j + 1) * updates / POINTS;
    for (k = 0; k < ROWS; k++) curves[k] = study_curve(settings[k].name, at, along[k], POINTS);
    k = s.quick ? OTHER_STORY : 0;
    panel = study_panel("does the second sentence follow?", "updates", "unseen pairs right, %",
                        curves + k, ROWS - k);
    study_curves(&s, "", &panel, 1, 1);
    if (s.quick)
        study_claim(&s, "a model without segments can learn whether a sentence follows",
                    STUDY_UNDECIDED,
                    "%.1f %% of unseen pairs are right; false ones are of another story",
                    right[OTHER_STORY][0]);
    else conclude(&s, right, reached);
    return study_end(&s);
}

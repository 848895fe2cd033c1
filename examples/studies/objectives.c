/* objectives.c - masks, spans, prefixes, next words: what does each teach from one text?

   Tutorials claim that masks force a model to use both sides of a gap, that next words teach at
   every position and so efficiently, that spans join both advantages, and that BERT's kind does not
   generate. Losses cannot answer this, because each objective counts different words.

   All models read the same lines of language.h, 32 lines an update. Then they fill gaps in unseen
   lines, and continue three words to the end of a line. An answer is right if the line is valid
   with it. The right side of a gap alone determines an article, the left side alone a particle, and
   both together a verb. The model of next words also fills gaps by scoring the whole line with each
   word. Decoding is greedy. Masks are filled from the left, and the length of the gap is known.
   Lines are short, so 30 % of their words become spans, of two words on average (T5: 15 %, three
   words). The last word of a line always belongs to a span. */
#include "language.h"

enum { BATCH = 32, POINTS = 12, MOST = 100 };
static const char *const names[MODES] = {"masks", "spans", "prefixes", "next words",
                                         "next words, by scores"};

struct result {
    double loss[POINTS], particle[POINTS], skills[MODES][SKILLS], counted, reached, seconds;
};

static trf_config config_of(const struct study *s, int objective, uint64_t seed)
{
    static const trf_kind kinds[] = {TRF_ENCODER_ONLY, TRF_ENCODER_DECODER, TRF_ENCODER_DECODER,
                                     TRF_DECODER_ONLY};
    trf_config c = study_config(s, kinds[objective], 4, VOCAB, seed);
    c.head = objective == MASKS ? TRF_HEAD_MASKED : TRF_HEAD_NONE;
    return c;
}

/* Trains one model, and looks at it POINTS times. `reached`: words read until 90 % of particles. */
static struct result run(const struct study *s, int objective, uint64_t seed, int updates)
{
    static struct text x, unseen;
    trf_config c = config_of(s, objective, seed);
    trf_train_options o = trf_train_defaults();
    trf_noise_options hidden = trf_noise_defaults();
    trf_noise *noise = NULL;
    trf_model *m = NULL;
    trf_trainer *t = NULL;
    trf_step_report report;
    trf_batch plain, made, held_out;
    struct result r;
    uint64_t random = seed, others = 99;
    int i, k, every = updates / POINTS, lines = s->quick ? 50 : LINES;
    double words = 0, begin = study_seconds();
    memset(&r, 0, sizeof r);
    memset(&plain, 0, sizeof plain);
    o.schedule = TRF_COSINE;
    o.learning_rate = 2e-3;
    o.warmup = 50;
    o.total_steps = updates;
    hidden.kind = (trf_noise_kind)objective;
    hidden.vocab = hidden.first_sentinel = WORDS_END;
    hidden.n_sentinels = VOCAB - WORDS_END;
    if (objective == SPANS) hidden.density = 0.3, hidden.mean_span = 2;
    if (objective != NEXT) STUDY_TRY(trf_noise_create(&noise, &hidden, &err));
    STUDY_TRY(trf_model_create(&m, &c, NULL, &err));
    STUDY_TRY(trf_trainer_create(&t, m, &o, &err));
    held_out = plain;
    held_out.source = held_out.target = language_draw(&unseen, LINES, 1, &others);
    for (i = 1; i <= updates; i++) {
        plain.source = plain.target = language_draw(&x, BATCH, 0, &random);
        plain.place.batch = i;          /* what is hidden follows from it */
        for (k = 0; k < BATCH; k++) words += x.lengths[k];
        made = plain;
        if (noise) STUDY_TRY(trf_noise_apply(noise, &plain, &made, &err));
        STUDY_TRY(trf_trainer_step(t, &made, &report, &err));
        r.counted += (double)report.target_tokens;
        if (i % every) continue;
        STUDY_TRY(trf_trainer_evaluate(t, &held_out, noise, &report, &err));
        r.loss[i / every - 1] = report.loss;
        r.particle[i / every - 1] = language_skill(m, objective, GAP_PARTICLE, lines);
        if (r.reached <= 0 && r.particle[i / every - 1] >= 90) r.reached = words;
    }
    if (r.reached <= 0) r.reached = words;
    r.counted /= words;
    r.seconds = study_seconds() - begin;
    for (i = 0; i < SKILLS; i++) r.skills[objective][i] = language_skill(m, objective, i, lines);
    for (i = 0; objective == NEXT && i < CONTINUED; i++)
        r.skills[SCORES][i] = language_skill(m, SCORES, i, lines);
    trf_trainer_destroy(t);
    trf_model_destroy(m);
    trf_noise_destroy(noise);
    return r;
}

/* Means over the seeds, by words read. */
static void picture(struct study *s, struct result r[OBJECTIVES][MOST], double words)
{
    static double x[POINTS], loss[OBJECTIVES][POINTS], particle[OBJECTIVES][POINTS];
    struct curve curves[2][OBJECTIVES];
    struct panel panels[2];
    int objective, i, k;
    for (objective = 0; objective < OBJECTIVES; objective++) {
        for (k = 0; k < POINTS; k++) {
            x[k] = words * (k + 1) / POINTS / 1000;
            for (i = 0; i < s->seeds; i++) {
                loss[objective][k] += r[objective][i].loss[k] / s->seeds;
                particle[objective][k] += r[objective][i].particle[k] / s->seeds;
            }
        }
        curves[0][objective] = study_curve(names[objective], x, loss[objective], POINTS);
        curves[1][objective] = study_curve(names[objective], x, particle[objective], POINTS);
    }
    panels[0] = study_panel("loss of unseen lines", "thousands of words read",
                            "nats per word in the loss", curves[0], OBJECTIVES);
    panels[1] = study_panel("particles, known from the left", "thousands of words read",
                            "filled in, %", curves[1], OBJECTIVES);
    panels[0].from_zero = panels[1].from_zero = 1;
    study_curves(s, "", panels, 2, 2);
}

/* One row; `mode` is a way to answer of the model of an objective. */
static void row(struct study *s, const struct result *r, int mode)
{
    double x[3][MOST], skills[SKILLS][MOST];
    int i, k, n = s->seeds;
    for (i = 0; i < n; i++) {
        x[0][i] = 100 * r[i].counted;
        x[1][i] = r[i].reached;
        x[2][i] = r[i].seconds;
        for (k = 0; k < SKILLS; k++) skills[k][i] = r[i].skills[mode][k];
    }
    study_row(s, "%s | %s | %s | %s | %s | %s | %s | %s", names[mode], study_spread(x[0], n, 0),
              study_spread(x[1], n, 0), study_spread(skills[GAP_ARTICLE], n, 1),
              study_spread(skills[GAP_PARTICLE], n, 1), study_spread(skills[GAP_VERB], n, 1),
              mode == SCORES ? "-" : study_spread(skills[CONTINUED], n, 1),
              study_spread(x[2], n, 1));
}

static void conclude(struct study *s, struct result r[OBJECTIVES][MOST])
{
    double article[MODES][MOST], continued[OBJECTIVES][MOST], reached[OBJECTIVES][MOST];
    int mode, i, n = s->seeds;
    for (mode = 0; mode < MODES; mode++) {
        for (i = 0; i < n; i++) {
            const struct result *one = &r[mode == SCORES ? NEXT : mode][i];
            article[mode][i] = one->skills[mode][GAP_ARTICLE];
            if (mode == SCORES) continue;
            continued[mode][i] = one->skills[mode][CONTINUED];
            reached[mode][i] = one->reached;
        }
    }
    study_claim(s, "masks make a model use both sides of a gap",
                study_larger(article[MASKS], n, article[NEXT], n),
                "articles that only the right side determines: masks %s %%, next words %s %%; "
                "but %s %% if the model of next words scores whole lines",
                study_spread(article[MASKS], n, 1), study_spread(article[NEXT], n, 1),
                study_spread(article[SCORES], n, 1));
    study_claim(s, "next words teach more efficiently, as every position counts",
                study_larger(reached[MASKS], n, reached[NEXT], n),
                "words read until 90 %% of particles are right, or in all: next "
                "words %s, prefixes %s, spans %s, masks %s",
                study_spread(reached[NEXT], n, 0), study_spread(reached[PREFIXES], n, 0),
                study_spread(reached[SPANS], n, 0), study_spread(reached[MASKS], n, 0));
    study_claim(s, "a masked model does not generate",
                study_larger(continued[NEXT], n, continued[MASKS], n),
                "three words continued to a valid line: masks %s %%, next words %s %%",
                study_spread(continued[MASKS], n, 1), study_spread(continued[NEXT], n, 1));
    study_claim(s, "spans join both: they fill gaps and generate",
                study_above(continued[SPANS], n, 50),
                "articles %s %%, but lines continued %s %%: no span is that long; prefixes %s %%",
                study_spread(article[SPANS], n, 1), study_spread(continued[SPANS], n, 1),
                study_spread(continued[PREFIXES], n, 1));
}

int main(int argc, char **argv)
{
    static struct result r[OBJECTIVES][MOST];
    struct study s =
        study_begin(argc, argv, "objectives", "masks, spans, prefixes and next words on one text");
    int objective, i, updates = s.quick ? 96 : 600;
    if (s.quick) s.seeds = 1;
    study_columns(&s, "objective | tokens in the loss, for 100 words | "
                      "words read until 90 % of particles | articles, % | particles, % | "
                      "verbs, % | continued, % | seconds");
    for (objective = 0; objective < OBJECTIVES; objective++) {
        for (i = 0; i < s.seeds; i++) {
            struct result *one = &r[objective][i];
            *one = run(&s, objective, (uint64_t)i + 1, updates);
            study_must(&s, one->loss[POINTS - 1] < one->loss[0],
                       "%s: the loss of unseen lines falls", names[objective]);
        }
        row(&s, r[objective], objective);
    }
    row(&s, r[NEXT], SCORES);
    for (i = 0; i < s.seeds; i++) {
        const double (*skills)[SKILLS] = (const double (*)[SKILLS])r[NEXT][i].skills;
        study_must(&s, skills[NEXT][GAP_PARTICLE] > 60,
                   "next words learn what the left side tells");
        study_must(&s, skills[NEXT][GAP_ARTICLE] < 50, "and cannot know what the right side tells");
        study_must(&s, skills[SCORES][GAP_ARTICLE] > skills[NEXT][GAP_ARTICLE],
                   "unless they score the whole line");
    }
    picture(&s, r, 16.0 * BATCH * updates);      /* a line has 16 words on average */
    conclude(&s, r);
    return study_end(&s);
}

/* schedules.c - does warm-up matter, and what do its length and the model's width change?

   Tutorials draw the paper's schedule for several warm-ups and widths. They claim that a longer
   warm-up reaches a higher rate, that wider models learn at lower rates, and that training without
   a warm-up is unstable.

   trf_learning_rate gives the numbers for the first two claims. For the third, post-norm and
   pre-norm models learn to reverse sequences. The rate rises to 0.002 or 0.005 in 1, 100 or 400
   updates and stays there. The measure is the share of right held-out symbols, teacher-forced. */
#include "study.h"

enum { STEPS = 20000, SYMBOLS = 20, TESTS = 500, BATCH = 64 };
static const int warmups[] = {500, 2000, 4000, 8000}, widths[] = {64, 128, 256, 512};

static double paper(double d, double warmup, double step)
{
    return pow(d, -0.5) * fmin(pow(step, -0.5), step * pow(warmup, -1.5));
}

/* One curve of the schedule; returns its largest relative distance from the paper's formula. */
static double follow(struct study *s, struct curve *curve, const char *name, int width, int warmup)
{
    enum { EVERY = 50 };
    trf_train_options o = trf_train_defaults();
    double *x = (double *)study_memory(s, STEPS / EVERY * sizeof(double));
    double *y = (double *)study_memory(s, STEPS / EVERY * sizeof(double)), worst = 0;
    int step;
    trf_set_conventions(NULL, &o, TRF_CONVENTIONS_PAPER);
    o.warmup = warmup;
    for (step = 1; step <= STEPS; step++) {
        double rate = trf_learning_rate(&o, width, step);
        double apart = fabs(rate / paper(width, warmup, step) - 1);
        if (!(apart <= worst)) worst = apart;
        if (step % EVERY) continue;
        x[step / EVERY - 1] = step;
        y[step / EVERY - 1] = rate;
    }
    *curve = study_curve(name, x, y, STEPS / EVERY);
    curve->points = 0;
    study_row(s, "%d | %d | %.4e | %.4e | %.1e", width, warmup,
              trf_learning_rate(&o, width, 1), trf_learning_rate(&o, width, warmup), worst);
    study_must(s, worst < 1e-12, "the rate follows the formula: %g away", worst);
    return trf_learning_rate(&o, width, warmup);
}

static void schedules(struct study *s)
{
    static const char *const names[] = {"warm-up 500", "warm-up 2000", "warm-up 4000",
                                        "warm-up 8000", "d_model 64", "d_model 128",
                                        "d_model 256", "d_model 512"};
    struct curve curves[8];
    struct panel panels[2];
    double peaks[8];
    int i;
    study_columns(s, "d_model | warm-up | rate at update 1 | peak | from the formula, relative");
    for (i = 0; i < 4; i++) peaks[i] = follow(s, &curves[i], names[i], 512, warmups[i]);
    for (i = 0; i < 4; i++) peaks[4 + i] = follow(s, &curves[4 + i], names[4 + i], widths[i], 4000);
    for (i = 0; i < 2; i++) {
        panels[i] = study_panel(i ? "width, warm-up 4000" : "warm-up, d_model 512", "update",
                                "learning rate", curves + 4 * i, 4);
        panels[i].from_zero = 1;
    }
    study_curves(s, "", panels, 2, 2);
    for (i = 1; i < 4; i++) {
        study_must(s, peaks[i] < peaks[i - 1], "a longer warm-up ends at a lower peak");
        study_must(s, peaks[4 + i] < peaks[3 + i], "a wider model has a lower peak");
    }
    study_claim(s, "a longer warm-up reaches a higher peak", STUDY_NO,
                "peak %.2e after 500 updates, %.2e after 8000", peaks[0], peaks[3]);
    study_claim(s, "wider models learn at lower rates", STUDY_YES,
                "peak %.2e at d_model 64, %.2e at 512", peaks[4], peaks[7]);
}

/* The library's schedules side by side. */
static void kinds(struct study *s)
{
    enum { EVERY = 200, POINTS = STEPS / EVERY, WARMUP = 4000 };
    static const char *const names[] = {"noam, d_model 512", "inverse-sqrt", "cosine", "constant"};
    trf_train_options o = trf_train_defaults();
    double x[POINTS], y[4][POINTS], peak = o.learning_rate;
    struct curve curves[4];
    struct panel panel;
    int i, k;
    o.warmup = WARMUP;
    o.total_steps = STEPS;
    for (k = 0; k < 4; k++) {
        o.schedule = (trf_schedule)k;
        o.learning_rate = k ? peak : 1; /* of Noam's it is a factor */
        for (i = 0; i < POINTS; i++) {
            x[i] = (i + 1) * EVERY;
            y[k][i] = trf_learning_rate(&o, 512, (i + 1) * EVERY);
        }
        curves[k] = study_curve(names[k], x, y[k], POINTS);
        curves[k].points = 0;
    }
    panel = study_panel("schedules, warm-up 4000", "update", "learning rate", curves, 4);
    panel.from_zero = 1;
    study_curves(s, "kinds", &panel, 1, 1);
    study_table(s, "kinds", "update | noam | inverse-sqrt | cosine | constant");
    for (i = 4; i < POINTS; i += 5)
        study_row(s, "%.0f | %.4e | %.4e | %.4e | %.4e", x[i], y[0][i], y[1][i], y[2][i], y[3][i]);
    study_must(s, fabs(y[1][POINTS - 1] / (peak * sqrt((double)WARMUP / STEPS)) - 1) < 1e-12,
               "inverse-sqrt falls with the root of the update: %g", y[1][POINTS - 1]);
    study_must(s, y[2][POINTS - 1] < 1e-12, "a cosine ends at 0: %g", y[2][POINTS - 1]);
    study_must(s, y[3][POINTS - 1] == peak, "constant stays: %g", y[3][POINTS - 1]);
}

/* Accuracy on held-out pairs, in percent, after training with this warm-up. */
static double train(struct study *s, trf_norm_place place, double rate, int warmup, int seed)
{
    struct study_pairs test_room = {NULL, NULL, NULL}, room = {NULL, NULL, NULL};
    uint64_t test_random = 999, random = (uint64_t)seed;
    trf_batch tests = study_reversals(s, &test_room, &test_random, TESTS, 3, 8, SYMBOLS);
    trf_config c = trf_config_preset(TRF_TINY);
    trf_train_options o = trf_train_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    int step, steps = s->quick ? 60 : 600;
    c.source_vocab = c.target_vocab = 4 + SYMBOLS;
    c.d_model = 64;
    c.d_ff = 128;
    c.encoder_layers = c.decoder_layers = s->quick ? 1 : 4;
    c.norm_place = place;
    c.final_norm = place == TRF_PRE_NORM;
    c.seed = o.seed = (uint64_t)seed;
    c.device.threads = s->threads;
    o.schedule = TRF_CONSTANT;
    o.learning_rate = rate;
    o.warmup = warmup;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    STUDY_TRY(trf_trainer_create(&trainer, model, &o, &err));
    for (step = 0; step < steps; step++) {
        trf_batch batch = study_reversals(s, &room, &random, BATCH, 3, 8, SYMBOLS);
        STUDY_TRY(trf_trainer_step(trainer, &batch, NULL, &err));
    }
    STUDY_TRY(trf_trainer_evaluate(trainer, &tests, NULL, &report, &err));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    study_must(s, report.loss < log(4 + SYMBOLS), "training helps: loss %g", report.loss);
    return 100 * report.accuracy;
}

static void training(struct study *s)
{
    static const int updates[] = {1, 100, 400};
    static const double rates[] = {2e-3, 5e-3};
    double right[2][2][3][100];
    int place, k, i, seed, n = s->quick ? 1 : s->seeds, n_rates = s->quick ? 1 : 2;
    study_table(s, "training", "norm | rate | warm-up | held-out symbols right, % | seeds");
    for (place = 0; place < 2; place++) {
        for (k = 0; k < n_rates; k++) {
            for (i = 0; i < 3; i++) {
                double *of = right[place][k][i];
                for (seed = 0; seed < n; seed++)
                    of[seed] = train(s, (trf_norm_place)place, rates[k], updates[i], seed + 1);
                study_row(s, "%s | %g | %d | %s | %d", place ? "pre-norm" : "post-norm", rates[k],
                          updates[i], study_spread(of, n, 1), n);
            }
        }
    }
    for (place = 0; place < 2; place++) {
        for (k = 0; k < n_rates; k++) {
            double (*of)[100] = right[place][k];
            char claim[96];
            snprintf(claim, sizeof claim, "warm-up is critical (%s, rate %g)",
                     place ? "pre-norm" : "post-norm", rates[k]);
            study_claim(s, claim, study_larger(of[1], n, of[0], n),
                        "after 1, 100 and 400 updates of warm-up %s, %s and %s %% of symbols right",
                        study_spread(of[0], n, 1), study_spread(of[1], n, 1),
                        study_spread(of[2], n, 1));
        }
    }
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "schedules", "warm-up, width and the learning rate");
    schedules(&s);
    kinds(&s);
    training(&s);
    return study_end(&s);
}

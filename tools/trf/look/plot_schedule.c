// trf plot schedule: the learning rate over the updates.

#include "plot.h"

#include <math.h>

enum { MAX_CURVES = 32, RATES = 2000 }; /* RATES: points of a curve */
static const int64_t MOST_UPDATES = 1000000000000000;

struct schedules {
    struct list kinds, widths, warmups, rates;
    struct curve curves[MAX_CURVES];
    int n;
};

static const char *const schedule_names[] = {"noam", "inverse-sqrt", "cosine", "constant"};

/* Refuses options that no curve depends on. */
static int check_schedules(const struct settings *s, const struct list *kinds)
{
    const char *wrong = NULL;
    if (!has_word(kinds, TRF_COSINE)) {
        if (is_given(s, AT(training.final_rate))) wrong = "final-rate";
        if (is_given(s, AT(training.total_steps))) wrong = "total-steps";
    }
    if (wrong) say("--%s is for --schedule cosine", wrong);
    else if (!has_word(kinds, TRF_NOAM) && s->plot_widths) say("--d-model is for --schedule noam");
    else if (kinds->n == 1 && has_word(kinds, TRF_NOAM) &&
             is_given(s, AT(training.initial_rate)))
        say("--initial-rate is not for --schedule noam, which rises from 0");
    else return DONE;
    return USAGE;
}

/* The limits of trf train, and numbers of updates that a double represents exactly. */
static int check_limits(const struct settings *s)
{
    const double rates[2] = {s->training.initial_rate, s->training.final_rate};
    int i;
    for (i = 0; i < 2; i++) {
        if (rates[i] >= 0 && rates[i] <= 1e6) continue;
        say("--%s takes a number from 0 to 1e6, got '%g'", i ? "final-rate" : "initial-rate",
            rates[i]);
        return USAGE;
    }
    if (s->plot_updates <= MOST_UPDATES) return DONE;
    say("--updates takes a whole number from 1 to %lld, got %lld", (long long)MOST_UPDATES,
        (long long)s->plot_updates);
    return USAGE;
}

static int read_schedules(const struct settings *s, struct schedules *to)
{
    if (read_words("schedule", s->plot_schedules, schedule_names, 4, &to->kinds) ||
        check_schedules(s, &to->kinds) || check_limits(s) ||
        read_numbers("warmup", s->plot_warmups, 1, 1e15, 1, &to->warmups) ||
        read_numbers("d-model", s->plot_widths ? s->plot_widths : "512", 1, 1e6, 1, &to->widths))
        return USAGE;
    to->rates.n = 0;
    if (!s->plot_rates) return DONE;
    return read_numbers("learning-rate", s->plot_rates, 1e-30, 1e6, 0, &to->rates);
}

/* What differs from the other curves, or, if nothing differs, everything. */
static char *schedule_name(const struct schedules *all, const trf_train_options *o, double width)
{
    int noam = o->schedule == TRF_NOAM,
        alone = all->kinds.n == 1 && all->warmups.n == 1 && all->rates.n < 2;
    char text[160] = "";
    size_t n = 0;
    alone = alone && (all->widths.n == 1 || !noam);
    if (alone || all->kinds.n > 1)
        n += (size_t)snprintf(text, sizeof text, ", %s", schedule_names[o->schedule]);
    if (noam && (alone || all->widths.n > 1))
        n += (size_t)snprintf(text + n, sizeof text - n, ", d-model %.0f", width);
    if (alone || all->warmups.n > 1)
        n += (size_t)snprintf(text + n, sizeof text - n, ", warm-up %lld", (long long)o->warmup);
    if (alone || all->rates.n > 1)
        snprintf(text + n, sizeof text - n, noam ? ", factor %g" : ", peak %g", o->learning_rate);
    return format_text("%s", text + 2);
}

/* The rate at about RATES updates, and at the end of the warm-up, where it is highest. */
static void fill_schedule(struct curve *c, const trf_train_options *o, double width,
                          int64_t updates)
{
    double *x = zeroed(RATES + 2, sizeof *x), *y = zeroed(RATES + 2, sizeof *y);
    int64_t step = 0, next, n = updates < RATES ? updates : RATES, i;
    for (i = 1; i <= n; i++) {
        next = (int64_t)ceil((double)updates * (double)i / (double)n);
        if (step < o->warmup && o->warmup < next) x[c->n++] = (double)o->warmup;
        step = next;
        x[c->n++] = (double)step;
    }
    for (i = 0; i < c->n; i++) y[i] = trf_learning_rate(o, (int32_t)width, (int64_t)x[i]);
    c->x = x;
    c->y = y;
}

static int add_schedule(const struct settings *s, struct schedules *to, int kind, double width,
                        double warmup, double rate)
{
    trf_train_options o = s->training;
    struct curve *c = &to->curves[to->n];
    if (to->n == MAX_CURVES) {
        say("more than %d curves: give fewer values", MAX_CURVES);
        return USAGE;
    }
    o.schedule = (trf_schedule)kind;
    o.warmup = (int64_t)warmup;
    o.learning_rate = rate > 0                 ? rate
                      : o.schedule == TRF_NOAM ? 1
                                               : trf_train_defaults().learning_rate;
    if (o.total_steps == 0) o.total_steps = s->plot_updates;
    if (o.schedule == TRF_COSINE && o.total_steps <= o.warmup) {
        say("cosine ends at update %lld, before the end of its warm-up of %lld updates: raise "
            "--total-steps or --updates",
            (long long)o.total_steps, (long long)o.warmup);
        return USAGE;
    }
    memset(c, 0, sizeof *c);
    fill_schedule(c, &o, width, s->plot_updates);
    c->name = schedule_name(to, &o, width);
    to->n++;
    return DONE;
}

/* Every combination; only noam depends on the width. */
static int make_schedules(const struct settings *s, struct schedules *to)
{
    int i, j, k, m;
    for (i = 0; i < to->kinds.n; i++) {
        int kind = (int)to->kinds.item[i];
        for (j = 0; j < (kind == TRF_NOAM ? to->widths.n : 1); j++)
            for (k = 0; k < to->warmups.n; k++)
                for (m = 0; m < (to->rates.n ? to->rates.n : 1); m++)
                    if (add_schedule(s, to, kind, to->widths.item[j], to->warmups.item[k],
                                     to->rates.n ? to->rates.item[m] : 0))
                        return USAGE;
    }
    return DONE;
}

/* Writes a line for each point: curves do not share their updates, so columns would not fit. */
static int write_schedules(const struct settings *s, const struct schedules *all)
{
    FILE *out = open_output(s);
    long j;
    int i;
    if (!out) return FAILED;
    fputs("schedule,update,learning rate\n", out);
    for (i = 0; i < all->n; i++)
        for (j = 0; j < all->curves[i].n; j++) {
            print_csv_text(out, all->curves[i].name);
            fprintf(out, ",%.0f,%.9g\n", all->curves[i].x[j], all->curves[i].y[j]);
        }
    return close_output(out, s->output);
}

int plot_schedule(struct settings *s)
{
    static struct schedules all;
    struct panel panel;
    int status = read_schedules(s, &all), i;
    if (!status) status = make_schedules(s, &all);
    memset(&panel, 0, sizeof panel);
    panel.title = "learning rate";
    panel.x_label = "update";
    panel.y_label = "learning rate";
    panel.from_zero = 1;
    panel.curves = all.curves;
    panel.n = all.n;
    if (!status) status = s->csv ? write_schedules(s, &all) : draw_curves(s, &panel, 1, 1);
    for (i = 0; i < all.n; i++) {
        free((char *)(uintptr_t)all.curves[i].name);
        free((double *)(uintptr_t)all.curves[i].x);
        free((double *)(uintptr_t)all.curves[i].y);
    }
    return status;
}

// trf plot: training logs as curves over the updates, all runs in one picture. gnuplot draws them.
//
// progress.c writes the logs: loss, token accuracy, learning rate, tokens per second and gradient
// norm of training; loss, metric and token accuracy of validations. Each panel needs data of some
// log. log.c reads them.

#include "draw.h"
#include "look.h"

#include <math.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>panels         the kinds of curves
// -----------------------------------------------------------------------------------------------

static const struct { const char *only, *title, *y_label; int from_zero; } panels[N_PANELS] = {
    {"loss", "loss", "nats per token", 0},
    {"metric", NULL, "score, %", 0},
    {"accuracy", "token accuracy", "right tokens, %", 0},
    {"rate", "learning rate", "learning rate", 1},
    {"speed", "speed", "tokens/s", 1},
    {"gradient", "gradient norm", "norm before clipping", 1}
};

struct plot {
    struct run *runs;
    int n_runs, wanted[N_PANELS];
    int damaged;                /* 1: a line could not be used */
    int as_text;             /* 1: drawn without colours */
};

/* --only: some of the panels. */
static int choose_panels(const char *only, int wanted[N_PANELS])
{
    int i;
    for (i = 0; i < N_PANELS; i++) wanted[i] = !only;
    while (only) {
        size_t n = strcspn(only, ",");
        for (i = 0; i < N_PANELS; i++)
            if (strlen(panels[i].only) == n && !strncmp(panels[i].only, only, n)) break;
        if (i == N_PANELS) {
            say("--only takes some of loss,metric,accuracy,rate,speed,gradient, got '%.*s'", (int)n,
                only);
            return USAGE;
        }
        wanted[i] = 1;
        only = only[n] ? only + n + 1 : NULL;
    }
    return DONE;
}

/* Reads a log, and sets accuracies in per cent. */
static int read_log(struct plot *plot, struct run *run, const char *path)
{
    size_t finite = 0, i, k;
    int status = read_run(run, path, 1);
    if (status) return status;
    for (i = 0; i < run->n_series; i++) {
        struct series *c = &run->series[i];
        finite += c->finite;
        for (k = 0; panel_of(c->of) == PANEL_ACCURACY && k < c->n; k++) c->value[k] *= 100;
    }
    if (!run->lines) say("%s is empty; trf train --log writes a log", path);
    else if (!finite) say("%s: no numbers of a training run; trf train --log writes them", path);
    else if (run->faults) {
        say("%s:%lld: %s; %lld such line%s left out", path, (long long)run->first_fault, run->fault,
            (long long)run->faults, run->faults == 1 ? " is" : "s are");
        plot->damaged = 1;
    }
    return finite ? DONE : FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>curves         series to panels
// -----------------------------------------------------------------------------------------------

/* Curves of one panel: one for every series of every run. */
static struct curve *new_curves(const struct plot *p)
{
    size_t n = 0;
    int i;
    for (i = 0; i < p->n_runs; i++) n += p->runs[i].n_series;
    return zeroed(n, sizeof(struct curve));
}

/* Whether the run has a number of the panel's validations. */
static int has_validation(const struct run *run, int panel)
{
    return has_numbers(run, 1, panel_quantities[panel][1]);
}

/* The name of a curve in the key; malloc'd. NULL: it is the only curve, or the validation curve of
   its run has the name. */
static char *curve_name(const struct plot *p, const struct run *run, const struct series *c)
{
    static const char *const parts[2] = {"training", "validation"};
    int panel = panel_of(c->of), both = panel == PANEL_LOSS || panel == PANEL_ACCURACY;
    if (p->n_runs == 1)
        return both ? format_text("%s %s", parts[is_validation(c->of)],
                                  panel == PANEL_LOSS ? "loss" : "accuracy")
                    : NULL;
    if (p->as_text && both) return format_text("%s, %s", run->name, parts[is_validation(c->of)]);
    if (!is_validation(c->of) && has_validation(run, panel)) return NULL;
    return format_text("%s", run->name);
}

/* With several runs in colours, the title explains the thin curves. */
static char *panel_title(const struct plot *p, int panel, const char *metric)
{
    int i, thin = 0;
    for (i = 0; i < p->n_runs; i++) thin |= has_validation(&p->runs[i], panel);
    if (panel == PANEL_METRIC) return format_text("%s", metric);
    if (p->n_runs == 1 || p->as_text || !thin) return format_text("%s", panels[panel].title);
    return format_text("%s (thin: training; with points: validation)", panels[panel].title);
}

static void add_panel(const struct plot *p, int panel, const char *metric, struct panel *to)
{
    struct curve *curves = new_curves(p);
    int i;
    size_t k;
    memset(to, 0, sizeof *to);
    for (i = 0; i < p->n_runs; i++)
        for (k = 0; k < p->runs[i].n_series; k++) {
            const struct series *c = &p->runs[i].series[k];
            if (panel_of(c->of) != panel || strcmp(c->metric, metric) || !c->finite) continue;
            curves[to->n] = curve_of(c, i);
            curves[to->n].name = curve_name(p, &p->runs[i], c);
            curves[to->n++].thin = !is_validation(c->of) && has_validation(&p->runs[i], panel);
        }
    to->title = panel_title(p, panel, metric);
    to->y_label = panels[panel].y_label;
    to->x_label = "update";
    to->from_zero = panels[panel].from_zero;
    to->curves = curves;
}

static void free_panel(struct panel *panel)
{
    int i;
    for (i = 0; i < panel->n; i++) free((char *)(uintptr_t)panel->curves[i].name);
    free((char *)(uintptr_t)panel->title);
    free((struct curve *)(uintptr_t)panel->curves);
}

/* One panel for every metric, and one for each other quantity that has a number. */
static int make_panels(const struct plot *p, struct panel **list)
{
    const char **metrics = NULL;        /* of the panels so far */
    size_t capacity = 0, metrics_capacity = 0, k;
    int n = 0, i, panel, m, first;
    for (panel = 0; panel < N_PANELS; panel++)
        for (i = 0, first = n; i < p->n_runs && p->wanted[panel]; i++)
            for (k = 0; k < p->runs[i].n_series; k++) {
                const struct series *c = &p->runs[i].series[k];
                if (panel_of(c->of) != panel || !c->finite) continue;
                for (m = first; m < n && strcmp(metrics[m], c->metric); m++) { }
                if (m < n) continue;
                metrics = grow(metrics, &metrics_capacity, (size_t)n + 1, sizeof *metrics);
                metrics[n] = c->metric;
                *list = grow(*list, &capacity, (size_t)n + 1, sizeof **list);
                add_panel(p, panel, c->metric, &(*list)[n++]);
            }
    free(metrics);
    return n;
}

// -----------------------------------------------------------------------------------------------
// >>output
// -----------------------------------------------------------------------------------------------

/* Text between quotation marks. */
static void print_csv_text(FILE *file, const char *text)
{
    putc('"', file);
    for (; *text; text++) {
        if (*text == '"') putc('"', file);
        putc(*text, file);
    }
    putc('"', file);
}

static int write_csv(const struct settings *s, const struct plot *p)
{
    struct unfinished to;
    FILE *out;
    int i;
    size_t k, j;
    if (open_output(s, &to)) return FAILED;
    out = to.file;
    fputs("run,quantity,of,update,value\n", out);
    for (i = 0; i < p->n_runs; i++)
        for (k = 0; k < p->runs[i].n_series; k++) {
            const struct series *c = &p->runs[i].series[k];
            if (!p->wanted[panel_of(c->of)]) continue;
            for (j = 0; j < c->n; j++) {
                print_csv_text(out, p->runs[i].name);
                fprintf(out, ",%s,%s,%.0f,",
                        c->of == LOG_SCORE ? c->metric : panels[panel_of(c->of)].title,
                        is_validation(c->of) ? "validation" : "training", c->update[j]);
                if (isfinite(c->value[j])) fprintf(out, "%.9g", c->value[j]);
                putc('\n', out);
            }
        }
    return close_output(&to, 1);
}

/* All panels have the same range of updates, which starts at 0 if the first one is near it. */
static void align_panels(struct panel *list, int n)
{
    double low = HUGE_VAL, high = -HUGE_VAL, x;
    int i, k;
    long j;
    for (i = 0; i < n; i++)
        for (k = 0; k < list[i].n; k++)
            for (j = 0; j < list[i].curves[k].n; j++) {
                x = list[i].curves[k].x[j];
                if (!isfinite(list[i].curves[k].y[j]) || fabs(x) > 1e15) continue;
                low = fmin(low, x);
                high = fmax(high, x);
            }
    if (low >= 0 && low < 0.2 * high) low = 0;
    for (i = 0; i < n && low < high; i++) {
        list[i].x_low = low;
        list[i].x_high = high;
    }
}

static int draw_runs(const struct settings *s, const struct plot *p)
{
    struct panel *list = NULL;
    int n = make_panels(p, &list), status, i;
    align_panels(list, n);
    if (!n) {
        say("no log has numbers for --only %s", s->plot.only);
        status = FAILED;
    } else status = draw_curves(s, list, n, n > 2 ? 2 : 1);
    for (i = 0; i < n; i++) free_panel(&list[i]);
    free(list);
    return status;
}

/* No log may be given twice or be the output. */
static int check_files(const struct settings *s, int n, char **paths)
{
    int i, k;
    if (check_logs(s, n, paths)) return FAILED;
    for (i = 0; i < n; i++)
        for (k = 0; k < i; k++)
            if (same_file(paths[i], paths[k])) {
                say("'%s' and '%s' are the same log", paths[k], paths[i]);
                return USAGE;
            }
    return check_output_name(s) || (s->output && check_writable(s->output)) ? FAILED : DONE;
}

static int plot_runs(struct settings *s, int n, char **paths)
{
    struct plot p;
    int status, i;
    memset(&p, 0, sizeof p);
    if ((status = choose_panels(s->plot.only, p.wanted)) || (status = check_files(s, n, paths)))
        return status;
    p.runs = zeroed((size_t)n, sizeof *p.runs);
    p.n_runs = n;
    p.as_text = !s->output;
    for (i = 0; i < n && !status; i++) status = read_log(&p, &p.runs[i], paths[i]);
    if (!status) {
        name_runs(p.runs, n);
        status = s->plot.csv ? write_csv(s, &p) : draw_runs(s, &p);
    }
    for (i = 0; i < n; i++) free_run(&p.runs[i]);
    free(p.runs);
    return status ? status : p.damaged ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>command
// -----------------------------------------------------------------------------------------------

/* Names the study that draws what trf plot drew up to 0.3.0. */
static int check_studies(int n, char **paths)
{
    static const char *const studies[][2] = {
        {"schedule", "schedules"}, {"positions", "position_table"}, {"masks", "masks"}};
    int i, k;
    for (i = 0; i < n; i++)
        for (k = 0; k < 3; k++)
            if (!strcmp(paths[i], studies[k][0]) && access(paths[i], F_OK)) {
                say("no log '%s'; examples/studies/%s.c draws %s%s", paths[i], studies[k][1],
                    paths[i], k ? "" : "s");
                return USAGE;
            }
    return DONE;
}

int command_plot(struct settings *s, int argc, char **argv)
{
    if (s->output && !s->plot.csv && !picture_kind(s->output)) {
        say("--output takes an .svg, .png or .pdf, got '%s'", s->output);
        return USAGE;
    }
    if (s->output && s->plot.csv && picture_kind(s->output)) {
        say("--csv writes numbers, but '%s' is the name of a picture", s->output);
        return USAGE;
    }
    if (!argc) {
        say("give a log written by trf train --log");
        return USAGE;
    }
    return check_studies(argc, argv) ? USAGE : plot_runs(s, argc, argv);
}

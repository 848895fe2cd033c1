// trf plot: training logs as curves over the updates, all runs in one picture. gnuplot draws them.
//
// progress.c writes the logs: loss, token accuracy, learning rate, tokens per second and gradient
// norm of training; loss, metric and token accuracy of validations. Each panel needs data of some
// log. After --resume, a log starts again at the update of the checkpoint; the updates logged after
// that checkpoint were lost, and are not drawn.

#include "look.h"
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>panels         the kinds of curves
// -----------------------------------------------------------------------------------------------

enum { LOSS, METRIC, ACCURACY, RATE, SPEED, GRADIENT, N_PANELS };

static const struct { const char *only, *title, *y_label; int from_zero; } panels[N_PANELS] = {
    {"loss", "loss", "nats per token", 0},
    {"metric", NULL, "score, %", 0},
    {"accuracy", "token accuracy", "right tokens, %", 0},
    {"rate", "learning rate", "learning rate", 1},
    {"speed", "speed", "tokens/s", 1},
    {"gradient", "gradient norm", "norm before clipping", 1}
};

/* One curve of a run. metric: of the panel METRIC, else "". */
struct series {
    int panel, validation;
    char metric[16];
    double *x, *y;
    size_t n, x_capacity, y_capacity, finite;
};

struct run {
    const char *path;
    char *name;
    struct series *series;
    size_t n_series, capacity;
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

// -----------------------------------------------------------------------------------------------
// >>log            lines to series
// -----------------------------------------------------------------------------------------------

/* Drops points that a resumed or restarted training computes again. */
static void cut_from(struct series *c, double update)
{
    while (c->n && c->x[c->n - 1] >= update) c->finite -= isfinite(c->y[--c->n]) != 0;
}

static void add_point(struct run *run, int panel, int validation, const char *metric, double update,
                      double value)
{
    struct series *c;
    size_t i;
    for (i = 0; i < run->n_series; i++) {
        c = &run->series[i];
        if (c->panel == panel && c->validation == validation && !strcmp(c->metric, metric)) break;
    }
    if (i == run->n_series) {
        run->series = grow(run->series, &run->capacity, i + 1, sizeof *run->series);
        memset(&run->series[i], 0, sizeof *run->series);
        run->series[i].panel = panel;
        run->series[i].validation = validation;
        snprintf(run->series[i].metric, sizeof run->series[i].metric, "%s", metric);
        run->n_series++;
    }
    c = &run->series[i];
    cut_from(c, update);
    c->x = grow(c->x, &c->x_capacity, c->n + 1, sizeof *c->x);
    c->y = grow(c->y, &c->y_capacity, c->n + 1, sizeof *c->y);
    c->x[c->n] = update;
    c->y[c->n++] = value;
    c->finite += isfinite(value) != 0;
}

/* A number of the log. null becomes NAN, a gap in the curve. */
static void add_number(struct run *run, int panel, int validation, const char *metric,
                       double update, const struct fields *f, const char *key)
{
    double unit = panel == ACCURACY ? 100 : 1;
    if (field_text(f, key))
        add_point(run, panel, validation, metric, update, unit * field_number(f, key));
}

static void read_progress(struct run *run, const struct fields *f, double update)
{
    static const struct { const char *key; int panel;
    } keys[] = {{"loss", LOSS},
                {"accuracy", ACCURACY},
                {"learning_rate", RATE},
                {"tokens_per_second", SPEED},
                {"gradient_norm", GRADIENT}};
    size_t i;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        add_number(run, keys[i].panel, 0, "", update, f, keys[i].key);
}

/* For labels, the metric "accuracy" is the token accuracy: it is drawn once. */
static void read_validation(struct run *run, const struct fields *f, double update)
{
    const char *metric = field_text(f, "metric");
    add_number(run, LOSS, 1, "", update, f, "loss");
    add_number(run, ACCURACY, 1, "", update, f, "accuracy");
    if (metric && strlen(metric) < sizeof run->series->metric && strcmp(metric, "loss") &&
        strcmp(metric, "accuracy"))
        add_number(run, METRIC, 1, metric, update, f, "score");
}

/* The reason why the fields are not an event of a training run, or NULL. */
static const char *read_event(struct run *run, const struct fields *f)
{
    const char *event = field_text(f, "event");
    double update = field_number(f, "update");
    size_t i;
    if (!event) return "no \"event\"";
    if (!isfinite(update)) return "no number after \"update\"";
    if (!strcmp(event, "start"))
        for (i = 0; i < run->n_series; i++) cut_from(&run->series[i], update + 1);
    else if (!strcmp(event, "progress")) read_progress(run, f, update);
    else if (!strcmp(event, "validation")) read_validation(run, f, update);
    return NULL;
}

static const char *read_line(struct run *run, const struct reader *r)
{
    struct fields f = {NULL, 0, 0}, inner = {NULL, 0, 0};
    const char *fault = r->fault;
    if (!fault && !read_json_object(r->line, &f, &inner)) fault = "not a complete JSON object";
    if (!fault) fault = read_event(run, &f);
    free_fields(&f);
    free_fields(&inner);
    return fault;
}

/* The last line may be incomplete: trf is writing it, or was killed. */
static int read_log(struct plot *plot, struct run *run)
{
    struct reader r;
    int64_t bad = 0, first = 0, lines = 0;
    char why[64] = "";
    size_t finite = 0, i;
    int got, status;
    if ((status = open_reader(&r, run->path))) return status;
    while ((got = next_line(&r)) > 0) {
        const char *fault = r.length ? read_line(run, &r) : NULL;
        lines++;
        if (!fault || feof(r.file)) continue;
        if (!bad++) { first = r.number; snprintf(why, sizeof why, "%s", fault); }
    }
    close_reader(&r);
    if (got) return FAILED;
    for (i = 0; i < run->n_series; i++) finite += run->series[i].finite;
    if (!lines) say("%s is empty; trf train --log writes a log", run->path);
    else if (!finite) say("%s: no numbers of a training run; trf train --log writes them",
                          run->path);
    else if (bad) {
        say("%s:%lld: %s; %lld such line%s left out", run->path, (long long)first, why,
            (long long)bad, bad == 1 ? " is" : "s are");
        plot->damaged = 1;
    }
    return finite ? DONE : FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>names          of runs: the shortest that differ
// -----------------------------------------------------------------------------------------------

/* Bytes of the folders that all paths begin with, and of the end that all paths share from a '/' or
   an extension on. */
static void common_ends(const struct plot *p, size_t *front, size_t *back)
{
    const char *a = p->runs[0].path;
    size_t i, n = strlen(a);
    int k;
    *front = *back = 0;
    for (i = 0; a[i]; i++) {
        for (k = 1; k < p->n_runs && p->runs[k].path[i] == a[i]; k++) { }
        if (k < p->n_runs) break;
        if (a[i] == '/') *front = i + 1;
    }
    for (i = 1; i <= n; i++) {
        for (k = 1; k < p->n_runs; k++) {
            size_t length = strlen(p->runs[k].path);
            if (length < *front + i || p->runs[k].path[length - i] != a[n - i]) break;
        }
        if (k < p->n_runs || n < *front + i) break;
        if (a[n - i] == '/') *back = i;
    }
}

static char *part_of(const char *text, size_t n) { return format_text("%.*s", (int)n, text); }

/* The file's name without its extension. */
static char *short_name(const char *path)
{
    const char *name = name_of(path), *dot = strrchr(name, '.');
    if (!strcmp(path, "-")) return part_of("standard input", 14);
    return part_of(name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

static int all_differ(const struct plot *p)
{
    int i, k;
    for (i = 0; i < p->n_runs; i++)
        for (k = 0; k < i; k++) if (!strcmp(p->runs[i].name, p->runs[k].name)) return 0;
    return 1;
}

static void name_runs(struct plot *p)
{
    size_t front, back, n;
    int i, length;
    common_ends(p, &front, &back);
    for (length = 0; length < 4; length++) {
        for (i = 0; i < p->n_runs; i++) {
            const char *path = p->runs[i].path;
            free(p->runs[i].name);
            n = strlen(path);
            if (length == 0) p->runs[i].name = short_name(path);
            else if (length == 1) p->runs[i].name = part_of(name_of(path), strlen(name_of(path)));
            else if (length == 2 && n > front + back)
                p->runs[i].name = part_of(path + front, n - front - back);
            else p->runs[i].name = part_of(path, n);
        }
        if (all_differ(p)) return;
    }
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

static int has_validation(const struct run *run, int panel)
{
    size_t i;
    for (i = 0; i < run->n_series; i++)
        if (run->series[i].panel == panel && run->series[i].validation && run->series[i].finite)
            return 1;
    return 0;
}

/* The name of a curve in the key; malloc'd. NULL: it is the only curve, or the validation curve of
   its run has the name. */
static char *curve_name(const struct plot *p, const struct run *run, const struct series *c)
{
    static const char *const parts[2] = {"training", "validation"};
    int both = c->panel == LOSS || c->panel == ACCURACY;
    if (p->n_runs == 1)
        return both ? format_text("%s %s", parts[c->validation],
                                  c->panel == LOSS ? "loss" : "accuracy")
                    : NULL;
    if (p->as_text && both) return format_text("%s, %s", run->name, parts[c->validation]);
    return c->validation || !has_validation(run, c->panel) ? format_text("%s", run->name) : NULL;
}

/* With several runs in colours, the title explains the thin curves. */
static char *panel_title(const struct plot *p, int panel, const char *metric)
{
    int i, thin = 0;
    for (i = 0; i < p->n_runs; i++) thin |= has_validation(&p->runs[i], panel);
    if (panel == METRIC) return format_text("%s", metric);
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
            if (c->panel != panel || strcmp(c->metric, metric) || !c->finite) continue;
            curves[to->n].name = curve_name(p, &p->runs[i], c);
            curves[to->n].x = c->x;
            curves[to->n].y = c->y;
            curves[to->n].n = (long)c->n;
            curves[to->n].color = i + 1;
            curves[to->n].points = c->validation;
            curves[to->n++].thin = !c->validation && has_validation(&p->runs[i], panel);
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
                if (c->panel != panel || !c->finite) continue;
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

static int write_csv(const struct settings *s, const struct plot *p)
{
    FILE *out = open_output(s);
    int i;
    size_t k, j;
    if (!out) return FAILED;
    fputs("run,quantity,of,update,value\n", out);
    for (i = 0; i < p->n_runs; i++)
        for (k = 0; k < p->runs[i].n_series; k++) {
            const struct series *c = &p->runs[i].series[k];
            if (!p->wanted[c->panel]) continue;
            for (j = 0; j < c->n; j++) {
                print_csv_text(out, p->runs[i].name);
                fprintf(out, ",%s,%s,%.0f,",
                        c->panel == METRIC ? c->metric : panels[c->panel].title,
                        c->validation ? "validation" : "training", c->x[j]);
                if (isfinite(c->y[j])) fprintf(out, "%.9g", c->y[j]);
                putc('\n', out);
            }
        }
    return close_output(out, s->output);
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
        say("no log has numbers for --only %s", s->only);
        status = FAILED;
    } else status = draw_curves(s, list, n, n > 2 ? 2 : 1);
    for (i = 0; i < n; i++) free_panel(&list[i]);
    free(list);
    return status;
}

static void free_plot(struct plot *p)
{
    int i;
    size_t k;
    for (i = 0; i < p->n_runs; i++) {
        for (k = 0; k < p->runs[i].n_series; k++) {
            free(p->runs[i].series[k].x);
            free(p->runs[i].series[k].y);
        }
        free(p->runs[i].series);
        free(p->runs[i].name);
    }
    free(p->runs);
}

/* No log may be given twice or be the output. */
static int check_logs(const struct settings *s, int n, char **paths)
{
    int i, k;
    for (i = 0; i < n; i++) {
        if (s->output && same_file(s->output, paths[i])) {
            say("--output names the log '%s'", paths[i]);
            return FAILED;
        }
        if (check_not_output(paths[i])) return FAILED;
        for (k = 0; k < i; k++)
            if (same_file(paths[i], paths[k])) {
                say("'%s' and '%s' are the same log", paths[k], paths[i]);
                return USAGE;
            }
    }
    return check_output_name(s) || (s->output && check_writable(s->output)) ? FAILED : DONE;
}

static int plot_runs(struct settings *s, int n, char **paths)
{
    struct plot p;
    int status, i;
    memset(&p, 0, sizeof p);
    if ((status = choose_panels(s->only, p.wanted)) || (status = check_logs(s, n, paths)))
        return status;
    p.runs = zeroed((size_t)n, sizeof *p.runs);
    p.n_runs = n;
    p.as_text = !s->output;
    for (i = 0; i < n; i++) p.runs[i].path = paths[i];
    for (i = 0; i < n && !status; i++) status = read_log(&p, &p.runs[i]);
    if (!status) {
        name_runs(&p);
        status = s->csv ? write_csv(s, &p) : draw_runs(s, &p);
    }
    free_plot(&p);
    return status ? status : p.damaged ? FAILED : DONE;
}

// -----------------------------------------------------------------------------------------------
// >>command        logs, or one of the diagrams
// -----------------------------------------------------------------------------------------------

enum { LOGS = 1, SCHEDULE = 2, POSITIONS = 4, MASKS = 8 };

static const struct { const char *word; int bit; int (*draw)(struct settings *s);
} diagrams[] = {{"schedule", SCHEDULE, plot_schedule},
                {"positions", POSITIONS, plot_positions},
                {"masks", MASKS, plot_masks}};

static const struct { size_t field; int of; } belongs[] = {
    {AT(only), LOGS},
    {AT(plot_schedules), SCHEDULE}, {AT(plot_warmups), SCHEDULE}, {AT(plot_rates), SCHEDULE},
    {AT(training.initial_rate), SCHEDULE}, {AT(training.final_rate), SCHEDULE},
    {AT(training.total_steps), SCHEDULE}, {AT(plot_updates), SCHEDULE},
    {AT(plot_widths), SCHEDULE | POSITIONS},
    {AT(config.positions), POSITIONS}, {AT(plot_rows), POSITIONS}, {AT(plot_view), POSITIONS},
    {AT(plot_dimensions), POSITIONS}, {AT(config.position_offset), POSITIONS},
    {AT(plot_kinds), MASKS}, {AT(plot_length), MASKS}, {AT(plot_prefix), MASKS},
    {AT(plot_padded), MASKS}, {AT(plot_words), MASKS}};

/* An option of another picture is a mistake. */
static int check_belongs(const struct settings *s, int bit)
{
    size_t i, k;
    for (i = 0; i < sizeof belongs / sizeof *belongs; i++) {
        const char *name = option_name(belongs[i].field);
        if (belongs[i].of & bit || !is_given(s, belongs[i].field)) continue;
        if (belongs[i].of == LOGS) say("--%s is for logs", name);
        for (k = 0; k < 3; k++)
            if (belongs[i].of & diagrams[k].bit) {
                say("--%s is for trf plot %s", name, diagrams[k].word);
                break;
            }
        return USAGE;
    }
    return DONE;
}

int command_plot(struct settings *s, int argc, char **argv)
{
    int i, status;
    if (s->output && !s->csv && !picture_kind(s->output)) {
        say("--output takes an .svg, .png or .pdf, got '%s'", s->output);
        return USAGE;
    }
    if (s->output && s->csv && picture_kind(s->output)) {
        say("--csv writes numbers, but '%s' is the name of a picture", s->output);
        return USAGE;
    }
    for (i = 0; i < 3 && argc; i++) {
        if (strcmp(argv[0], diagrams[i].word)) continue;
        if (argc > 1) {
            say("%s takes only options, got '%s'; ./%s is a log of that name", argv[0], argv[1],
                argv[0]);
            return USAGE;
        }
        if ((status = check_belongs(s, diagrams[i].bit))) return status;
        if (check_output_name(s) || (s->output && check_writable(s->output))) return FAILED;
        return diagrams[i].draw(s);
    }
    if (!argc) {
        say("give a log written by trf train --log, or schedule, positions or masks");
        return USAGE;
    }
    for (i = 0; i < 3; i++)
        if (argc == 1 && distance(argv[0], diagrams[i].word) <= 2 && access(argv[0], F_OK)) {
            say("no log '%s'; did you mean trf plot %s?", argv[0], diagrams[i].word);
            return USAGE;
        }
    if ((status = check_belongs(s, LOGS))) return status;
    return plot_runs(s, argc, argv);
}

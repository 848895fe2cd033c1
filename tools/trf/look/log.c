// Logs of training runs: what their lines say, and short names of the runs.
//
// A log has a line of JSON for each event; progress.c writes them. The log of a resumed run has
// several starts; updates after a start replace the same updates before it, as those logged after
// the checkpoint were lost. Lines that are cut off or not JSON are counted and skipped.

#include "log.h"

#include <math.h>

const enum quantity panel_quantities[N_PANELS][2] = {
    {LOG_LOSS, LOG_VALID_LOSS},  {N_QUANTITIES, LOG_SCORE}, {LOG_ACCURACY, LOG_VALID_ACCURACY},
    {LOG_RATE, N_QUANTITIES},    {LOG_SPEED, N_QUANTITIES}, {LOG_NORM, N_QUANTITIES}};

int panel_of(enum quantity of)
{
    int i;
    for (i = 0; panel_quantities[i][0] != of && panel_quantities[i][1] != of; i++) { }
    return i;
}

int is_validation(enum quantity of) { return panel_quantities[panel_of(of)][1] == of; }

// -----------------------------------------------------------------------------------------------
// >>events
// -----------------------------------------------------------------------------------------------

static void cut_from(struct series *s, double update)
{
    while (s->n && s->update[s->n - 1] >= update) s->finite -= isfinite(s->value[--s->n]) != 0;
}

static struct series *find_series(const struct run *run, enum quantity of, const char *metric)
{
    size_t i;
    for (i = 0; i < run->n_series; i++)
        if (run->series[i].of == of && !strcmp(run->series[i].metric, metric))
            return &run->series[i];
    return NULL;
}

/* Adds what a line says of a quantity, if it does. */
static void add_point(struct run *run, enum quantity of, const char *metric, const struct fields *f,
                      const char *key, int gaps)
{
    struct series *s = find_series(run, of, metric);
    double update = field_number(f, "update"), value = field_number(f, key);
    if (!field_text(f, key) || !isfinite(update) || (!gaps && !isfinite(value))) return;
    if (!s) {
        run->series = grow(run->series, &run->capacity, run->n_series + 1, sizeof *run->series);
        s = &run->series[run->n_series++];
        memset(s, 0, sizeof *s);
        s->of = of;
        snprintf(s->metric, sizeof s->metric, "%s", metric);
    }
    cut_from(s, update);
    s->update = grow(s->update, &s->capacity[0], s->n + 1, sizeof *s->update);
    s->value = grow(s->value, &s->capacity[1], s->n + 1, sizeof *s->value);
    s->update[s->n] = update;
    s->value[s->n++] = value;
    s->finite += isfinite(value) != 0;
}

/* The facts of a start line beside the options, and their names on the page. */
static void add_facts(struct run *run, const struct fields *f)
{
    static const char *const facts[][2] = {{"version", "trf"},
                                           {"pairs", "pairs"},
                                           {"held_out", "held-out pairs"},
                                           {"source_vocab", "source vocabulary"},
                                           {"target_vocab", "target vocabulary"},
                                           {"labels", "labels"}};
    size_t i;
    for (i = 0; i < sizeof facts / sizeof *facts; i++) {
        const char *value = field_text(f, facts[i][0]);
        if (value && strcmp(value, "0"))
            add_field(&run->options, format_text("%s", facts[i][1]), format_text("%s", value));
    }
}

static void take_start(struct run *run, const struct fields *f, struct fields *options)
{
    double update = field_number(f, "update");
    size_t i;
    run->starts++;
    if (isfinite(update))
        for (i = 0; i < run->n_series; i++) cut_from(&run->series[i], update + 1);
    free_fields(&run->options);
    run->options = *options;
    memset(options, 0, sizeof *options);
    add_facts(run, f);
    run->weights = field_number(f, "weights");
    run->update = isfinite(update) ? update : 0;
    run->session_seconds = run->starts == 1 ? 0 : run->seconds;
    *run->why = 0;
}

static void take_progress(struct run *run, const struct fields *f, int gaps)
{
    static const struct { const char *key; enum quantity of;
    } keys[] = {{"loss", LOG_LOSS},
                {"accuracy", LOG_ACCURACY},
                {"learning_rate", LOG_RATE},
                {"tokens_per_second", LOG_SPEED},
                {"gradient_norm", LOG_NORM}};
    double update = field_number(f, "update"), seconds = field_number(f, "seconds"),
           speed = field_number(f, "tokens_per_second"), spent = seconds - run->session_seconds;
    size_t i;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        add_point(run, keys[i].of, "", f, keys[i].key, gaps);
    if (spent > 0 && isfinite(speed)) {
        run->speed_seconds += spent;
        run->speed_tokens += speed * spent;
    }
    if (isfinite(seconds)) run->seconds = run->session_seconds = seconds;
    if (isfinite(update)) run->update = update;
}

/* The metrics "loss" and "accuracy" are quantities of their own. */
static void take_validation(struct run *run, const struct fields *f, int gaps)
{
    const char *metric = field_text(f, "metric");
    add_point(run, LOG_VALID_LOSS, "", f, "loss", gaps);
    add_point(run, LOG_VALID_ACCURACY, "", f, "accuracy", gaps);
    if (!metric || strlen(metric) >= sizeof run->metric || !strcmp(metric, "loss") ||
        !strcmp(metric, "accuracy"))
        return;
    snprintf(run->metric, sizeof run->metric, "%s", metric);
    add_point(run, LOG_SCORE, metric, f, "score", gaps);
}

static void take_end(struct run *run, const struct fields *f)
{
    const char *why = field_text(f, "why");
    double seconds = field_number(f, "seconds"), update = field_number(f, "update");
    snprintf(run->why, sizeof run->why, "%s", why ? why : "");
    if (isfinite(seconds)) run->seconds = seconds;
    if (isfinite(update)) run->update = update;
}

/* Returns why the line is not an event of a training run, or NULL. */
static const char *take_line(struct run *run, const struct reader *r, int gaps)
{
    struct fields f = {NULL, 0, 0}, options = {NULL, 0, 0};
    const char *event = NULL, *fault = r->fault;
    if (!fault && !read_json_object(r->line, &f, &options)) fault = "not a complete JSON object";
    if (!fault && !(event = field_text(&f, "event"))) fault = "no \"event\"";
    if (fault) run->unusable++;
    else if (!strcmp(event, "start")) take_start(run, &f, &options);
    else if (!strcmp(event, "progress")) take_progress(run, &f, gaps);
    else if (!strcmp(event, "validation")) take_validation(run, &f, gaps);
    else if (!strcmp(event, "end")) take_end(run, &f);
    if (!fault && !isfinite(field_number(&f, "update"))) fault = "no number after \"update\"";
    free_fields(&f);
    free_fields(&options);
    return fault;
}

int check_logs(const struct settings *s, int n, char **paths)
{
    int i;
    for (i = 0; i < n; i++) {
        if (same_file(s->output, paths[i])) {
            say("--output names the log '%s'", paths[i]);
            return FAILED;
        }
        if (check_not_output(paths[i])) return FAILED;
    }
    return DONE;
}

int read_run(struct run *run, const char *path, int gaps)
{
    struct reader r;
    int got, status;
    run->path = path;
    run->weights = run->seconds = NAN;
    if ((status = open_reader(&r, path))) return status;
    while ((got = next_line(&r)) > 0) {
        const char *fault = NULL;
        run->lines++;
        if (r.fault || r.line[strspn(r.line, BLANKS)]) fault = take_line(run, &r, gaps);
        if (!fault || feof(r.file) || run->faults++) continue;
        run->first_fault = r.number;
        snprintf(run->fault, sizeof run->fault, "%s", fault);
    }
    close_reader(&r);
    return got ? FAILED : DONE;
}

void free_run(struct run *run)
{
    size_t i;
    for (i = 0; i < run->n_series; i++) {
        free(run->series[i].update);
        free(run->series[i].value);
    }
    free(run->series);
    free_fields(&run->options);
    free(run->name);
}

const struct series *series_of(const struct run *run, enum quantity of)
{
    static const struct series none;
    const struct series *s = find_series(run, of, of == LOG_SCORE ? run->metric : "");
    return s ? s : &none;
}

int has_numbers(const struct run *runs, int n, enum quantity of)
{
    int i;
    for (i = 0; i < n && of < N_QUANTITIES; i++)
        if (series_of(&runs[i], of)->finite) return 1;
    return 0;
}

// -----------------------------------------------------------------------------------------------
// >>names          of runs: the shortest that differ
// -----------------------------------------------------------------------------------------------

/* Bytes of the folders that all paths begin with, and of the end that all paths share from a '/' or
   an extension on. */
static void common_ends(const struct run *runs, int n_runs, size_t *front, size_t *back)
{
    const char *a = runs[0].path;
    size_t i, n = strlen(a);
    int k;
    *front = *back = 0;
    for (i = 0; a[i]; i++) {
        for (k = 1; k < n_runs && runs[k].path[i] == a[i]; k++) { }
        if (k < n_runs) break;
        if (a[i] == '/') *front = i + 1;
    }
    for (i = 1; i <= n; i++) {
        for (k = 1; k < n_runs; k++) {
            size_t length = strlen(runs[k].path);
            if (length < *front + i || runs[k].path[length - i] != a[n - i]) break;
        }
        if (k < n_runs || n < *front + i) break;
        if (a[n - i] == '/' || (a[n - i] == '.' && !*back)) *back = i;
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

/* Whether runs of different paths have different names. */
static int all_differ(const struct run *runs, int n)
{
    int i, k;
    for (i = 0; i < n; i++)
        for (k = 0; k < i; k++)
            if (!strcmp(runs[i].name, runs[k].name) && strcmp(runs[i].path, runs[k].path)) return 0;
    return 1;
}

/* A log that is given several times has a number behind its name. */
static void number_equals(struct run *runs, int n)
{
    int i, k, same;
    for (i = 0; i < n; i++)
        for (same = 1, k = i + 1; k < n; k++)
            if (!strcmp(runs[i].name, runs[k].name)) {
                char *longer = format_text("%s (%d)", runs[k].name, ++same);
                free(runs[k].name);
                runs[k].name = longer;
            }
}

void name_runs(struct run *runs, int n_runs)
{
    size_t front, back, n;
    int i, length;
    common_ends(runs, n_runs, &front, &back);
    for (length = 0; length < 4; length++) {
        for (i = 0; i < n_runs; i++) {
            const char *path = runs[i].path;
            free(runs[i].name);
            n = strlen(path);
            if (length == 0) runs[i].name = short_name(path);
            else if (length == 1) runs[i].name = part_of(name_of(path), strlen(name_of(path)));
            else if (length == 2 && n > front + back)
                runs[i].name = part_of(path + front, n - front - back);
            else runs[i].name = part_of(path, n);
        }
        if (all_differ(runs, n_runs)) break;
    }
    number_equals(runs, n_runs);
}

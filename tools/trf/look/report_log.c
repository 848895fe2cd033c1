// trf report: logs of training runs, and what differs between them. See report.h.
//
// A log has a line of JSON for each event; progress.c writes them. The log of a resumed run
// has several starts; updates after a start replace the same updates before it. Lines that are cut
// off or not JSON are counted and skipped.

#include "report.h"

#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>events
// -----------------------------------------------------------------------------------------------

static void cut_from(struct points *p, double update)
{
    while (p->n && p->update[p->n - 1] >= update) p->n--;
}

static void add_point(struct points *p, double update, double value)
{
    if (!isfinite(update) || !isfinite(value)) return;
    cut_from(p, update);
    p->update = grow(p->update, &p->capacity[0], p->n + 1, sizeof *p->update);
    p->value = grow(p->value, &p->capacity[1], p->n + 1, sizeof *p->value);
    p->update[p->n] = update;
    p->value[p->n++] = value;
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
    int i;
    run->starts++;
    if (isfinite(update))
        for (i = 0; i < N_SERIES; i++) cut_from(&run->series[i], update + 1);
    free_fields(&run->options);
    run->options = *options;
    memset(options, 0, sizeof *options);
    add_facts(run, f);
    run->weights = field_number(f, "weights");
    run->update = isfinite(update) ? update : 0;
    run->session_seconds = run->starts == 1 ? 0 : run->seconds;
    *run->why = 0;
}

static void take_progress(struct run *run, const struct fields *f)
{
    double update = field_number(f, "update"), seconds = field_number(f, "seconds"),
           speed = field_number(f, "tokens_per_second"), spent = seconds - run->session_seconds;
    add_point(&run->series[SERIES_LOSS], update, field_number(f, "loss"));
    add_point(&run->series[SERIES_RATE], update, field_number(f, "learning_rate"));
    add_point(&run->series[SERIES_NORM], update, field_number(f, "gradient_norm"));
    add_point(&run->series[SERIES_ACCURACY], update, field_number(f, "accuracy"));
    add_point(&run->series[SERIES_SPEED], update, speed);
    if (spent > 0 && isfinite(speed)) {
        run->speed_seconds += spent;
        run->speed_tokens += speed * spent;
    }
    if (isfinite(seconds)) run->seconds = run->session_seconds = seconds;
    if (isfinite(update)) run->update = update;
}

static void take_validation(struct run *run, const struct fields *f)
{
    double update = field_number(f, "update");
    const char *metric = field_text(f, "metric");
    add_point(&run->series[SERIES_VALID_LOSS], update, field_number(f, "loss"));
    add_point(&run->series[SERIES_VALID_ACCURACY], update, field_number(f, "accuracy"));
    if (!metric || !strcmp(metric, "loss") || !strcmp(metric, "accuracy"))
        return; /* the options are known already */
    if (strcmp(metric, run->metric))
        run->series[SERIES_SCORE].n = 0; /* the metric is another one from here on */
    snprintf(run->metric, sizeof run->metric, "%s", metric);
    add_point(&run->series[SERIES_SCORE], update, field_number(f, "score"));
}

static void take_event(struct run *run, const char *line)
{
    struct fields f, options;
    const char *event, *why;
    memset(&f, 0, sizeof f);
    memset(&options, 0, sizeof options);
    event = read_json_object(line, &f, &options) ? field_text(&f, "event") : NULL;
    if (!event) run->unusable++;
    else if (!strcmp(event, "start")) take_start(run, &f, &options);
    else if (!strcmp(event, "progress")) take_progress(run, &f);
    else if (!strcmp(event, "validation")) take_validation(run, &f);
    else if (!strcmp(event, "end")) {
        why = field_text(&f, "why");
        snprintf(run->why, sizeof run->why, "%s", why ? why : "");
        if (isfinite(field_number(&f, "seconds"))) run->seconds = field_number(&f, "seconds");
        if (isfinite(field_number(&f, "update"))) run->update = field_number(&f, "update");
    }
    free_fields(&f);
    free_fields(&options);
}

int read_run(struct run *run, const char *path)
{
    struct reader r;
    int got, status;
    size_t points;
    run->path = path;
    run->weights = run->seconds = NAN;
    if ((status = open_reader(&r, path))) return status;
    while ((got = next_line(&r)) > 0) {
        if (r.fault) run->unusable++;
        else if (r.line[strspn(r.line, BLANKS)]) take_event(run, r.line);
    }
    close_reader(&r);
    if (got) return FAILED;
    points = run->series[SERIES_LOSS].n + run->series[SERIES_VALID_LOSS].n;
    if (run->starts || points) return DONE;
    say("%s: no events of a training run; trf train --log writes them", path);
    return FAILED;
}

void free_run(struct run *run)
{
    int i;
    for (i = 0; i < N_SERIES; i++) {
        free(run->series[i].update);
        free(run->series[i].value);
    }
    free_fields(&run->options);
    free(run->name);
}

/* The name of "runs/a.json" is a; runs/a if another run has the name a; with a number if that does
   not help. */
void name_runs(struct run *runs, int n)
{
    int i, k, same;
    for (i = 0; i < n; i++) {
        for (same = k = 0; k < n; k++)
            same |= k != i && !strcmp(name_of(runs[i].path), name_of(runs[k].path));
        runs[i].name = format_text("%s", same ? runs[i].path : name_of(runs[i].path));
        k = (int)strlen(runs[i].name);
        if (k > 5 && !strcmp(runs[i].name + k - 5, ".json")) runs[i].name[k - 5] = 0;
    }
    for (i = 0; i < n; i++)
        for (same = 1, k = i + 1; k < n; k++)
            if (!strcmp(runs[i].name, runs[k].name)) {
                char *longer = format_text("%s (%d)", runs[k].name, ++same);
                free(runs[k].name);
                runs[k].name = longer;
            }
}

// -----------------------------------------------------------------------------------------------
// >>table          a row for each run: options that differ, then results
// -----------------------------------------------------------------------------------------------

int is_error(const char *metric) { return !strcmp(metric, "wer") || !strcmp(metric, "cer"); }

double best_point(const struct points *p, int low, double *update)
{
    double best = NAN;
    size_t i;
    *update = NAN;
    for (i = 0; i < p->n; i++)
        if (isnan(best) || (low ? p->value[i] < best : p->value[i] > best)) {
            best = p->value[i];
            *update = p->update[i];
        }
    return best;
}

const char *series_title(const struct run *runs, int n, enum series series)
{
    static const char *const titles[N_SERIES] = {
        "training loss",     "validation loss", "score",    "validation accuracy",
        "training accuracy", "learning rate",   "tokens/s", "gradient norm"};
    static const char *const names[][2] = {
        {"bleu", "BLEU"}, {"chrf", "chrF"}, {"exact", "exact answers"},
        {"wer", "WER"},   {"cer", "CER"},   {"f1", "F1"}};
    const char *metric = "";
    int i;
    for (i = 0; i < n; i++) {
        if (!*runs[i].metric) continue;
        if (*metric && strcmp(metric, runs[i].metric)) return titles[series];
        metric = runs[i].metric;
    }
    for (i = 0; i < (int)(sizeof names / sizeof *names) && series == SERIES_SCORE; i++)
        if (!strcmp(metric, names[i][0])) return names[i][1];
    return titles[series];
}

/* The names of all options, those of the first run first. */
static void list_options(struct fields *all, const struct run *runs, int n)
{
    size_t k;
    int i;
    for (i = 0; i < n; i++)
        for (k = 0; k < runs[i].options.n; k++)
            if (!field_text(all, runs[i].options.item[k].name))
                add_field(all, format_text("%s", runs[i].options.item[k].name),
                          format_text("here"));
}

static int is_equal(const struct run *runs, int n, const char *name)
{
    const char *first = field_text(&runs[0].options, name), *other;
    int i;
    for (i = 1; i < n; i++) {
        other = field_text(&runs[i].options, name);
        if (!first != !other || (first && strcmp(first, other))) return 0;
    }
    return 1;
}

static void put_best(FILE *to, const struct points *p, int low, int digits)
{
    double update, best = best_point(p, low, &update);
    fputs("<td class=n>", to);
    put_number(to, best, digits);
    if (!isfinite(best)) return;
    fputs(" <small>at ", to);
    put_whole(to, update);
    fputs("</small>", to);
}

static void put_end(FILE *to, const struct run *run)
{
    static const char *const ends[][2] = {
        {"updates", "--updates reached"},
        {"epochs", "--epochs reached"},
        {"minutes", "--minutes reached"},
        {"patience", "no better model within --patience validations"},
        {"signal", "stopped by a signal"},
        {"error", "an error"}};
    size_t i;
    for (i = 0; i < sizeof ends / sizeof *ends && strcmp(ends[i][0], run->why); i++) {}
    if (i < sizeof ends / sizeof *ends) fputs(ends[i][1], to);
    else if (*run->why) put_html_text(to, run->why);
    else fputs("no end in the log: training is still running or was killed", to);
    if (run->starts > 1)
        fprintf(to, "; resumed %lld time%s", (long long)run->starts - 1, plural(run->starts - 1));
    if (run->unusable)
        fprintf(to, "; %lld line%s of the log cut off or not JSON", (long long)run->unusable,
                plural(run->unusable));
}

/* Rounds a number with many digits, such as a computed rate, to six digits. */
static void put_option(FILE *to, const char *value)
{
    char *end, *shown = NULL;
    double x = strtod(value, &end);
    if (end != value && !*end && strlen(value) > 8 && strchr(value, '.'))
        shown = format_text("%.6g", x);
    put_html_text(to, shown ? shown : value);
    free(shown);
}

static void put_score(FILE *to, const struct run *run, int named)
{
    if (!*run->metric) {
        fputs("<td class=n>–", to);
        return;
    }
    put_best(to, &run->series[SERIES_SCORE], is_error(run->metric), 2);
    if (named) return;
    fputs(" <small>", to);
    put_html_text(to, run->metric);
    fputs("</small>", to);
}

static void put_row(FILE *to, const struct run *run, const struct fields *all,
                    const struct run *runs, int n)
{
    char spent[32];
    size_t k;
    fputs("<tr><th scope=row>", to);
    put_html_text(to, run->name);
    for (k = 0; k < all->n; k++) {
        const char *value = field_text(&run->options, all->item[k].name);
        if (is_equal(runs, n, all->item[k].name)) continue;
        fputs("<td>", to);
        if (value) put_option(to, value);
        else fputs("–", to);
    }
    fputs("<td class=n>", to);
    put_whole(to, run->weights);
    put_best(to, &run->series[SERIES_LOSS], 1, 4);
    put_best(to, &run->series[SERIES_VALID_LOSS], 1, 4);
    put_best(to, &run->series[SERIES_VALID_ACCURACY], 0, 4);
    put_score(to, run, strcmp(series_title(runs, n, SERIES_SCORE), "score"));
    fputs("<td class=n>", to);
    put_whole(to, run->update);
    fputs("<td class=n>", to);
    time_text(run->seconds, spent);
    put_html_text(to, isfinite(run->seconds) ? spent : "–");
    fputs("<td class=n>", to);
    put_whole(to, run->speed_tokens / run->speed_seconds);
    fputs("<td>", to);
    put_end(to, run);
    fputs("\n", to);
}

static void put_equal_options(FILE *to, const struct fields *all, const struct run *runs, int n)
{
    size_t k, some = 0;
    for (k = 0; k < all->n; k++) some += (size_t)is_equal(runs, n, all->item[k].name);
    if (!some) return;
    fprintf(to, "<details><summary>%s</summary>\n<dl class=options>\n",
            n > 1 ? "Options and data that are the same in all runs" : "Options and data");
    for (k = 0; k < all->n; k++) {
        if (!is_equal(runs, n, all->item[k].name)) continue;
        fputs("<div><dt>", to);
        put_html_text(to, all->item[k].name);
        fputs("<dd>", to);
        put_option(to, field_text(&runs[0].options, all->item[k].name));
        fputs("</div>\n", to);
    }
    fputs("</dl></details>\n", to);
}

void put_runs(FILE *to, const struct run *runs, int n)
{
    struct fields all;
    size_t k;
    memset(&all, 0, sizeof all);
    list_options(&all, runs, n);
    fprintf(to, "<section id=runs><h2>%s</h2>\n", n > 1 ? "Runs" : "Run");
    begin_head(to, "Table of the runs", "run");
    for (k = 0; k < all.n; k++) {
        if (is_equal(runs, n, all.item[k].name)) continue;
        fputs("<th scope=col>", to);
        put_html_text(to, all.item[k].name);
    }
    put_heads(to, "#weights|#best training loss|#best validation loss|#best accuracy");
    fprintf(to, "<th scope=col class=n>best %s", series_title(runs, n, SERIES_SCORE));
    put_heads(to, "#updates done|#time|#tokens/s|end");
    end_head(to);
    for (k = 0; k < (size_t)n; k++) put_row(to, &runs[k], &all, runs, n);
    end_table(to);
    fputs("<p class=note>Losses are means over target tokens, in nats. The training loss includes "
          "label smoothing and dropout, the validation loss only label smoothing. Accuracy is the "
          "share of right tokens, or of right labels, in a validation. Time includes validations."
          "</p>\n",
          to);
    put_equal_options(to, &all, runs, n);
    fputs("</section>\n", to);
    free_fields(&all);
}

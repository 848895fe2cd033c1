// trf report: the training runs in a table, and what differs between them. See report.h.

#include "report.h"

#include <math.h>

int read_log(struct run *run, const char *path)
{
    int status = read_run(run, path, 0);
    if (status || run->starts || has_numbers(run, 1, LOG_LOSS) ||
        has_numbers(run, 1, LOG_VALID_LOSS))
        return status;
    say("%s: no events of a training run; trf train --log writes them", path);
    return FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>table          a row for each run: options that differ, then results
// -----------------------------------------------------------------------------------------------

/* Whether smaller is better. */
static int is_error(const char *metric)
{
    return !strcmp(metric, "wer") || !strcmp(metric, "cer");
}

/* The best value of a series and its update. low: the smallest is the best. */
static double best_point(const struct series *p, int low, double *update)
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

const char *series_title(const struct run *runs, int n, enum quantity of)
{
    static const char *const titles[N_QUANTITIES] = {
        "training loss",     "validation loss", "score",    "validation accuracy",
        "training accuracy", "learning rate",   "tokens/s", "gradient norm"};
    static const char *const names[][2] = {
        {"bleu", "BLEU"}, {"chrf", "chrF"}, {"exact", "exact answers"},
        {"wer", "WER"},   {"cer", "CER"},   {"f1", "F1"}};
    const char *metric = "";
    int i;
    for (i = 0; i < n; i++) {
        if (!*runs[i].metric) continue;
        if (*metric && strcmp(metric, runs[i].metric)) return titles[of];
        metric = runs[i].metric;
    }
    for (i = 0; i < (int)(sizeof names / sizeof *names) && of == LOG_SCORE; i++)
        if (!strcmp(metric, names[i][0])) return names[i][1];
    return titles[of];
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

static void put_best(FILE *to, const struct series *p, int low, int digits)
{
    double update, best = best_point(p, low, &update);
    put_cell(to, number_text(best, digits));
    if (isfinite(best)) fprintf(to, " <small>at %s</small>", whole_text(update));
}

static void put_end(FILE *to, const struct run *run)
{
    static const char *const ends[][2] = {
        {"updates", "--updates reached"},
        {"epochs", "--epochs reached"},
        {"minutes", "--minutes reached"},
        {"patience", "no better score within --patience validations"},
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
        put_cell(to, "–");
        return;
    }
    put_best(to, series_of(run, LOG_SCORE), is_error(run->metric), 2);
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
    put_cell(to, whole_text(run->weights));
    put_best(to, series_of(run, LOG_LOSS), 1, 4);
    put_best(to, series_of(run, LOG_VALID_LOSS), 1, 4);
    put_best(to, series_of(run, LOG_VALID_ACCURACY), 0, 4);
    put_score(to, run, strcmp(series_title(runs, n, LOG_SCORE), "score"));
    time_text(run->seconds, spent);
    put_cell(to, whole_text(run->update));
    put_cell(to, isfinite(run->seconds) ? spent : "–");
    put_cell(to, whole_text(run->speed_tokens / run->speed_seconds));
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
    fprintf(to, "<th scope=col class=n>best %s", series_title(runs, n, LOG_SCORE));
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

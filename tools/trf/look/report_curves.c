// trf report: curves of the training runs, drawn by gnuplot, and their numbers. See report.h.
//
// Each panel is a picture of its own, so a browser puts as many side by side as fit. Ids get the
// number of the panel, as they must differ within the page.

#include "draw.h"
#include "report.h"

#include <math.h>

enum { ROWS = 60 }; /* largest number of rows of a table */

static const struct { const char *title, *unit; int from_zero; } panels[N_PANELS] = {
    {"loss", "nats a token", 0},
    {NULL, "", 0}, /* the title of the metric */
    {"accuracy", "share of tokens", 0},
    {"learning rate", "", 1},
    {"speed", "tokens/s", 1},
    {"gradient norm", "", 0}};

// -----------------------------------------------------------------------------------------------
// >>pictures
// -----------------------------------------------------------------------------------------------

/* gnuplot's SVG with ids of this page. */
static void put_svg(FILE *to, const char *svg, int number)
{
    static const char *const before[] = {"id='", "id=\"", "href='#", "url(#"};
    size_t i;
    while (*svg) {
        for (i = 0;
             i < sizeof before / sizeof *before && strncmp(svg, before[i], strlen(before[i]));
             i++) {}
        if (i < sizeof before / sizeof *before) {
            fprintf(to, "%sc%d-", before[i], number);
            svg += strlen(before[i]);
        } else fputc(*svg++, to);
    }
}

/* Returns 0 if it is drawn or there is nothing to draw, 1 if gnuplot failed; message has the
   reason. */
static int put_panel(FILE *to, const struct run *runs, int n, int number, char *message,
                     size_t size)
{
    const enum quantity *of = panel_quantities[number];
    int thin = has_numbers(runs, n, of[1]), drawn = thin || has_numbers(runs, n, of[0]);
    struct curve *curves = zeroed(2 * (size_t)n, sizeof *curves);
    struct panel panel;
    char *svg = NULL;
    size_t bytes;
    FILE *picture;
    int i, k, failed = 0;
    memset(&panel, 0, sizeof panel);
    panel.title = panels[number].title ? panels[number].title : series_title(runs, n, of[1]);
    panel.x_label = "update";
    panel.y_label = panels[number].unit;
    panel.curves = curves;
    panel.from_zero = panels[number].from_zero;
    for (k = 0; k < 2; k++)
        for (i = 0; i < n && of[k] < N_QUANTITIES; i++) {
            if (!series_of(&runs[i], of[k])->n) continue;
            curves[panel.n] = curve_of(series_of(&runs[i], of[k]), i);
            curves[panel.n++].thin = thin && k == 0;
        }
    if (drawn && (picture = open_memstream(&svg, &bytes))) {
        failed = picture_curves_to(picture, "page", &panel, 1, 1, message, size);
        if (fclose(picture) && !failed) {
            snprintf(message, size, "out of memory");
            failed = 1;
        }
        if (!failed) {
            fprintf(to, "<figure class=curve role=img aria-label='Curves: %s'>\n", panel.title);
            put_svg(to, svg, number);
            fputs("</figure>\n", to);
        }
        free(svg);
    }
    free(curves);
    return failed;
}

static void put_key(FILE *to, const struct run *runs, int n)
{
    static const char *const dashes[] = {"", "8 4", "2 3", "8 3 2 3"};
    struct curve curve;
    int i;
    memset(&curve, 0, sizeof curve);
    if (n < 2) return;
    fputs("<ul class=key>\n", to);
    for (i = 0; i < n; i++) {
        fprintf(to,
                "<li><svg width=32 height=10 aria-hidden=true>"
                "<path d='M0 5h32' stroke='#%06x' stroke-width=3 stroke-dasharray='%s'/></svg> ",
                picture__curve_colour(&curve, i), dashes[i / PICTURE_COLOURS % 4]);
        put_html_text(to, runs[i].name);
        fputs("\n", to);
    }
    fputs("</ul>\n", to);
}

// -----------------------------------------------------------------------------------------------
// >>numbers        the same as tables
// -----------------------------------------------------------------------------------------------

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The updates that have a row, at most ROWS: only those of validations if all would be too many. */
static size_t choose_rows(const struct run *run, double **updates)
{
    size_t n = 0, kept = 0, capacity = 0, i, validations = series_of(run, LOG_VALID_LOSS)->n;
    int k, all = series_of(run, LOG_LOSS)->n + validations <= ROWS || !validations;
    for (k = 0; k < N_QUANTITIES; k++) {
        const struct series *p = series_of(run, (enum quantity)k);
        if (!all && k != LOG_VALID_LOSS) continue;
        *updates = grow(*updates, &capacity, n + p->n + 1, sizeof **updates);
        if (p->n) memcpy(*updates + n, p->update, p->n * sizeof **updates);
        n += p->n;
    }
    qsort(*updates, n, sizeof **updates, by_size);
    for (i = 0; i < n; i++)
        if (!kept || (*updates)[i] > (*updates)[kept - 1]) (*updates)[kept++] = (*updates)[i];
    if (kept <= ROWS) return kept;
    for (i = 0; i < ROWS; i++) (*updates)[i] = (*updates)[(i + 1) * kept / ROWS - 1];
    return ROWS;
}

/* The last value between one row (excluded) and another (included), or NAN. */
static double value_between(const struct series *p, double after, double update)
{
    size_t low = 0, high = p->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->update[middle] <= update) low = middle + 1;
        else high = middle;
    }
    return low > 0 && p->update[low - 1] > after ? p->value[low - 1] : NAN;
}

static void put_table(FILE *to, const struct run *run)
{
    static const int digits[N_QUANTITIES] = {4, 4, 2, 4, 4, -3, 0, -3};
    double *updates = NULL;
    size_t n = choose_rows(run, &updates), i;
    int k;
    fputs("<h3>", to);
    put_html_text(to, run->name);
    fputs("</h3>\n", to);
    begin_head(to, "Numbers of the curves", "#update");
    for (k = 0; k < N_QUANTITIES; k++)
        if (series_of(run, (enum quantity)k)->n)
            fprintf(to, "<th scope=col class=n>%s", series_title(run, 1, (enum quantity)k));
    end_head(to);
    for (i = 0; i < n; i++) {
        fprintf(to, "<tr><th scope=row class=n>%s", whole_text(updates[i]));
        for (k = 0; k < N_QUANTITIES; k++) {
            const struct series *p = series_of(run, (enum quantity)k);
            double value = value_between(p, i ? updates[i - 1] : -HUGE_VAL, updates[i]);
            if (p->n) put_cell(to, number_text(value, digits[k]));
        }
        fputs("\n", to);
    }
    end_table(to);
    free(updates);
}

void put_curves(FILE *to, const struct run *runs, int n)
{
    char message[300] = "";
    int i, failed = 0,
           thin = has_numbers(runs, n, LOG_LOSS) && has_numbers(runs, n, LOG_VALID_LOSS);
    fputs("<section id=curves><h2>Curves</h2>\n", to);
    put_key(to, runs, n);
    fputs("<div class=curves>\n", to);
    for (i = 0; i < N_PANELS && !failed; i++)
        failed = put_panel(to, runs, n, i, message, sizeof message);
    fputs("</div>\n", to);
    if (failed) {
        fputs("<p>There is no picture: ", to);
        put_html_text(to, message);
        fputs(". The numbers are below.</p>\n", to);
        say("warning: the report has tables instead of curves: %s", message);
    } else if (thin)
        fputs(
            "<p class=note>Thin, pale curves: training data. Strong curves with marks: validation "
            "data, which the model does not learn from.</p>\n",
            to);
    fprintf(to, "<details%s><summary>The numbers</summary>\n", failed ? " open" : "");
    for (i = 0; i < n; i++) put_table(to, &runs[i]);
    fputs("</details></section>\n", to);
}

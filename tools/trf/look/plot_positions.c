// trf plot positions: the table that is added to embeddings.

#include "plot.h"

#include <errno.h>
#include <math.h>

enum { MOST_NUMBERS = 4000000, MOST_FIRST = 1 << 20 };

struct positions {
    float *table, *cosines; /* (n, d) and (n, n) */
    long n, d;
    int32_t first;
    struct list dimensions;
};

static int fill_table(struct positions *p, trf_positions rule)
{
    trf_real *numbers = zeroed((size_t)(p->n * p->d), sizeof *numbers);
    trf_tensor out = trf_tensor_of(numbers, 2, p->n, p->d, 0);
    trf_error err;
    long i;
    int status = DONE;
    if (trf_position_table(rule, p->first, &out, &err))
        status = refused("cannot make the table", &err);
    p->table = zeroed((size_t)(p->n * p->d), sizeof *p->table);
    for (i = 0; i < p->n * p->d && !status; i++) p->table[i] = (float)numbers[i];
    free(numbers);
    return status;
}

static void fill_cosines(struct positions *p)
{
    double *norms = zeroed((size_t)p->n, sizeof *norms);
    long i, j, k;
    p->cosines = zeroed((size_t)(p->n * p->n), sizeof *p->cosines);
    for (i = 0; i < p->n; i++) {
        for (k = 0; k < p->d; k++)
            norms[i] += (double)p->table[i * p->d + k] * (double)p->table[i * p->d + k];
        norms[i] = sqrt(norms[i]);
        for (j = 0; j <= i; j++) {
            double product = 0;
            for (k = 0; k < p->d; k++)
                product += (double)p->table[i * p->d + k] * (double)p->table[j * p->d + k];
            p->cosines[i * p->n + j] = p->cosines[j * p->n + i] =
                (float)(product / (norms[i] * norms[j]));
        }
    }
    free(norms);
}

/* The sines of five frequencies, from the highest down. */
static void choose_dimensions(struct positions *p, trf_positions rule)
{
    long frequencies = p->d / 2, i, f, before = -1;
    p->dimensions.n = 0;
    for (i = 0; i < 5; i++) {
        f = frequencies * i / 8;
        if (f == before) continue;
        p->dimensions.item[p->dimensions.n++] =
            (double)(rule == TRF_POSITIONS_INTERLEAVED ? 2 * f : f);
        before = f;
    }
}

static int read_positions(const struct settings *s, struct positions *p)
{
    struct list width;
    if (read_numbers("d-model", s->plot_widths ? s->plot_widths : "64", 1, 1e6, 1, &width))
        return USAGE;
    if (width.n > 1) {
        say("--d-model takes one number for positions, got '%s'", s->plot_widths);
        return USAGE;
    }
    p->d = (long)width.item[0];
    p->n = s->plot_rows;
    p->first = s->config.position_offset;
    if ((double)p->n * (double)p->d > MOST_NUMBERS || (double)p->n * (double)p->n > MOST_NUMBERS) {
        say("--max-length %ld and --d-model %ld give more than %d numbers, too many for a picture",
            p->n, p->d, MOST_NUMBERS);
        return USAGE;
    }
    if (p->first > MOST_FIRST) {
        say("--position-offset takes a whole number from 0 to %d, got %d", MOST_FIRST, p->first);
        return USAGE;
    }
    if (s->plot_view == VIEW_ALL && s->output && !s->csv &&
        strcmp(picture_kind(s->output), "svg")) {
        say("only an .svg can have all views, got --output '%s'; choose --view heat, curves or "
            "similarity",
            s->output);
        return USAGE;
    }
    if (!s->plot_dimensions) {
        choose_dimensions(p, s->config.positions);
        return DONE;
    }
    return read_numbers("dimensions", s->plot_dimensions, 0, (double)p->d - 1, 1, &p->dimensions);
}

/* Draws as SVG into a file, or to --output. */
static int draw_dimensions(const struct settings *s, const struct positions *p, FILE *to)
{
    double *x = zeroed((size_t)p->n, sizeof *x), *y = zeroed((size_t)(p->n * MAX_LIST), sizeof *y);
    struct curve curves[MAX_LIST];
    struct panel panel;
    char names[MAX_LIST][32], message[300];
    int k, status = DONE;
    long i;
    memset(curves, 0, sizeof curves);
    memset(&panel, 0, sizeof panel);
    for (i = 0; i < p->n; i++) x[i] = (double)(p->first + i);
    for (k = 0; k < p->dimensions.n; k++) {
        long dimension = (long)p->dimensions.item[k];
        for (i = 0; i < p->n; i++) y[k * p->n + i] = (double)p->table[i * p->d + dimension];
        snprintf(names[k], sizeof names[k], "dimension %ld", dimension);
        curves[k].name = names[k];
        curves[k].x = x;
        curves[k].y = y + k * p->n;
        curves[k].n = p->n;
    }
    panel.title = "some dimensions over the positions";
    panel.x_label = "position";
    panel.y_label = "value";
    panel.curves = curves;
    panel.n = p->dimensions.n;
    if (!to) status = draw_curves(s, &panel, 1, 1);
    else if (picture_curves_to(to, "svg", &panel, 1, 1, message, sizeof message)) {
        say("%s; --view heat and similarity need no gnuplot", message);
        status = FAILED;
    }
    free(x);
    free(y);
    return status;
}

/* Names of rows and columns, from the first position on; one malloc'd block. */
static char **position_names(const struct positions *p)
{
    enum { ROOM = 24 };
    char **names = zeroed((size_t)p->n, sizeof *names), *text = zeroed((size_t)p->n, ROOM);
    long i;
    for (i = 0; i < p->n; i++) {
        names[i] = text + i * ROOM;
        snprintf(names[i], ROOM, "%lld", (long long)(p->first + i));
    }
    return names;
}

static void make_position_maps(const struct positions *p, char **names, struct heat_map maps[2])
{
    memset(maps, 0, 2 * sizeof *maps);
    maps[0].title = "positions";
    maps[0].values = p->table;
    maps[0].columns = p->d;
    maps[0].column_label = "dimension";
    maps[1].title = "cosine of two positions";
    maps[1].values = p->cosines;
    maps[1].columns = p->n;
    maps[1].column_label = "position";
    maps[0].rows = maps[1].rows = p->n;
    maps[0].row_label = maps[1].row_label = "position";
    if (p->first == 0) return;
    maps[0].row_names = maps[1].row_names = maps[1].column_names = (const char *const *)names;
}

/* Both maps, and the curves below them. */
static int draw_all(const struct settings *s, const struct positions *p,
                    const struct heat_map maps[2])
{
    FILE *parts[2] = {tmpfile(), tmpfile()}, *drawn = tmpfile();
    int status = FAILED;
    if (!parts[0] || !parts[1] || !drawn) say("cannot make a temporary file: %s", strerror(errno));
    else if (picture_heat_maps(parts[0], NULL, maps, 2, 2, -1, 1))
        say("cannot draw the heat maps: %s", strerror(errno));
    else if (!draw_dimensions(s, p, parts[1])) {
        if (picture_stack(drawn, parts, 2)) say("cannot draw the picture: %s", strerror(errno));
        else status = deliver(s, drawn);
    }
    if (parts[0]) fclose(parts[0]);
    if (parts[1]) fclose(parts[1]);
    if (drawn) fclose(drawn);
    return status;
}

static int write_positions(const struct settings *s, const struct positions *p)
{
    FILE *out = open_output(s);
    int cosines = s->plot_view == VIEW_SIMILARITY;
    long columns = cosines ? p->n : p->d, i, j;
    if (!out) return FAILED;
    fputs("position", out);
    for (j = 0; j < columns; j++) fprintf(out, ",%lld", (long long)(cosines ? p->first + j : j));
    putc('\n', out);
    for (i = 0; i < p->n; i++) {
        fprintf(out, "%lld", (long long)(p->first + i));
        for (j = 0; j < columns; j++)
            fprintf(out, ",%.9g", (double)(cosines ? p->cosines : p->table)[i * columns + j]);
        putc('\n', out);
    }
    return close_output(out, s->output);
}

int plot_positions(struct settings *s)
{
    static struct positions p;
    struct heat_map maps[2];
    char **names;
    int status = read_positions(s, &p), view = s->plot_view;
    if (status) return status;
    if ((status = fill_table(&p, s->config.positions))) {
        free(p.table);
        return status;
    }
    fill_cosines(&p);
    names = position_names(&p);
    make_position_maps(&p, names, maps);
    if (s->csv) status = write_positions(s, &p);
    else if (view == VIEW_CURVES) status = draw_dimensions(s, &p, NULL);
    else if (view == VIEW_HEAT || view == VIEW_SIMILARITY)
        status = show_heat_maps(s, &maps[view == VIEW_SIMILARITY], 1, -1);
    else if (s->output) status = draw_all(s, &p, maps);
    else {
        status = show_heat_maps(s, maps, 2, -1);
        if (!status) status = draw_dimensions(s, &p, NULL);
    }
    free(names[0]);
    free(names);
    free(p.table);
    free(p.cosines);
    return status;
}

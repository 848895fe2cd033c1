// trf plot: the log of a training as a picture, drawn by gnuplot.
//
// Loss of the training and of the validations, the metric, and the learning rate, over the updates.

#include "trf.h"

#include <errno.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

struct point { double update, value; };
struct curve { struct point *points; size_t n, capacity; };

enum { TRAIN_LOSS, VALID_LOSS, SCORE_CURVE, RATE, N_CURVES };

struct plot {
    struct curve curve[N_CURVES];
    char metric[16];
};

/* The number behind "key": in a line that progress.c has written; NAN if it is not there. */
static double number_of(const char *line, const char *key)
{
    char quoted[64];
    const char *at;
    char *end;
    double x;
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    at = strstr(line, quoted);
    if (!at) return NAN;
    x = strtod(at + strlen(quoted), &end);
    return end == at + strlen(quoted) ? NAN : x;
}

/* What is made again after a kill, or begun anew. */
static void cut_from(struct curve *c, double update)
{
    while (c->n && c->points[c->n - 1].update >= update) c->n--;
}

static void add_point(struct curve *c, double update, double value)
{
    if (!isfinite(update) || !isfinite(value)) return;
    cut_from(c, update);
    c->points = grow(c->points, &c->capacity, c->n + 1, sizeof *c->points);
    c->points[c->n].update = update;
    c->points[c->n++].value = value;
}

static int read_log(struct plot *p, const char *path)
{
    struct reader r;
    int got, status, i;
    const char *at;
    char metric[16];
    if ((status = open_reader(&r, path))) return status;
    while ((got = next_line(&r)) > 0) {
        double update = number_of(r.line, "update");
        if (!strncmp(r.line, "{\"event\":\"start\"", 16)) {
            for (i = 0; i < N_CURVES; i++) cut_from(&p->curve[i], update + 1);
        } else if (!strncmp(r.line, "{\"event\":\"progress\"", 19)) {
            add_point(&p->curve[TRAIN_LOSS], update, number_of(r.line, "loss"));
            add_point(&p->curve[RATE], update, number_of(r.line, "learning_rate"));
        } else if (!strncmp(r.line, "{\"event\":\"validation\"", 21)) {
            add_point(&p->curve[VALID_LOSS], update, number_of(r.line, "loss"));
            at = strstr(r.line, "\"metric\":\"");
            if (!at || sscanf(at, "\"metric\":\"%15[a-z0-9]", metric) != 1 || !strcmp(metric, "loss")) continue;
            if (strcmp(metric, p->metric)) p->curve[SCORE_CURVE].n = 0;     /* judged otherwise from here on */
            strcpy(p->metric, metric);
            add_point(&p->curve[SCORE_CURVE], update, number_of(r.line, "score"));
        }
    }
    close_reader(&r);
    if (!got && p->curve[TRAIN_LOSS].n + p->curve[VALID_LOSS].n == 0) {
        say("%s: no line of a training; trf train --log writes them", path);
        return FAILED;
    }
    return got ? FAILED : DONE;
}

static void write_points(FILE *pipe, const char *name, const struct curve *c)
{
    size_t i;
    fprintf(pipe, "$%s << end\n", name);
    for (i = 0; i < c->n; i++) fprintf(pipe, "%.17g %.17g\n", c->points[i].update, c->points[i].value);
    fputs("end\n", pipe);
}

static void write_terminal(FILE *pipe, const char *output, int panels)
{
    const char *dot = output ? strrchr(output, '.') : NULL;
    if (!output) fprintf(pipe, "set terminal dumb 100 %d\n", 20 * panels);
    else if (!strcmp(dot, ".png")) fprintf(pipe, "set terminal png size 1000,%d\n", 350 * panels);
    else if (!strcmp(dot, ".pdf")) fprintf(pipe, "set terminal pdf size 8,%d\n", 3 * panels);
    else fprintf(pipe, "set terminal svg size 1000,%d\n", 350 * panels);
}

static void write_script(FILE *pipe, const struct plot *p, const char *output)
{
    int panels = 1 + (p->curve[SCORE_CURVE].n > 0) + (p->curve[RATE].n > 0);
    write_points(pipe, "train", &p->curve[TRAIN_LOSS]);
    write_points(pipe, "valid", &p->curve[VALID_LOSS]);
    write_points(pipe, "score", &p->curve[SCORE_CURVE]);
    write_points(pipe, "rate", &p->curve[RATE]);
    write_terminal(pipe, output, panels);
    fprintf(pipe, "set multiplot layout %d,1\nset grid\nset xlabel 'update'\n", panels);
    fputs("set title 'loss'\nplot ", pipe);
    if (p->curve[TRAIN_LOSS].n) fputs("$train with lines title 'training loss'", pipe);
    if (p->curve[VALID_LOSS].n)
        fprintf(pipe, "%s$valid with linespoints title 'validation loss'", p->curve[TRAIN_LOSS].n ? ", " : "");
    fputc('\n', pipe);
    if (p->curve[SCORE_CURVE].n)
        fprintf(pipe, "set title '%s'\nplot $score with linespoints notitle\n", p->metric);
    if (p->curve[RATE].n) fputs("set title 'learning rate'\nplot $rate with lines notitle\n", pipe);
    fputs("unset multiplot\n", pipe);
}

static int is_picture(const char *output)
{
    const char *dot = strrchr(output, '.');
    return dot && (!strcmp(dot, ".svg") || !strcmp(dot, ".png") || !strcmp(dot, ".pdf"));
}

/* The picture that gnuplot draws. It does not tell when one cannot be written: it is read here, and written by us. */
static int draw(FILE *script, char **picture, size_t *n)
{
    int standard = dup(STDIN_FILENO), ended;
    size_t capacity = 0, got = 1;
    FILE *pipe = NULL;
    rewind(script);
    if (standard >= 0 && dup2(fileno(script), STDIN_FILENO) >= 0) pipe = popen("gnuplot", "r");
    for (*n = 0; pipe && got; *n += got) {
        *picture = grow(*picture, &capacity, *n + 4096, 1);
        got = fread(*picture + *n, 1, 4096, pipe);
    }
    ended = pipe ? pclose(pipe) : -1;
    if (standard >= 0) {
        dup2(standard, STDIN_FILENO);
        close(standard);
    }
    if (ended == -1) say("cannot start gnuplot: %s", strerror(errno));
    else if (WIFEXITED(ended) && WEXITSTATUS(ended) == 127)
        say("gnuplot, which draws the picture, is not installed");
    return ended ? FAILED : DONE;
}

static int write_picture(const struct plot *p, const struct settings *s)
{
    FILE *script = tmpfile(), *out = NULL;
    char *picture = NULL;
    size_t n = 0;
    int status = FAILED;
    if (script) write_script(script, p, s->output);
    if (!script || fflush(script) || ferror(script)) say("no temporary file for gnuplot: %s", strerror(errno));
    else if (!draw(script, &picture, &n) && (out = open_output(s))) {
        fwrite(picture, 1, n, out);
        status = close_output(out, s->output);
    }
    if (script) fclose(script);
    free(picture);
    return status;
}

int command_plot(struct settings *s, int argc, char **argv)
{
    struct plot p;
    int status, i;
    if (argc != 1) { say("give one log, which trf train --log has written"); return USAGE; }
    if (s->output && !is_picture(s->output)) {
        say("--output takes an .svg, .png or .pdf, got '%s'", s->output);
        return USAGE;
    }
    if (s->output && same_file(s->output, argv[0])) { say("--output names the log itself"); return FAILED; }
    if (check_not_output(argv[0]) || check_output_name(s) || (s->output && check_writable(s->output))) return FAILED;
    memset(&p, 0, sizeof p);
    status = read_log(&p, argv[0]);
    if (!status) status = write_picture(&p, s);
    for (i = 0; i < N_CURVES; i++) free(p.curve[i].points);
    return status;
}

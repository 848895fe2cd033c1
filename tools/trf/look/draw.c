// Pictures of trf plot and trf attention: to --output, or to the terminal.

#include "draw.h"

#include <errno.h>

struct curve curve_of(const struct series *s, int run)
{
    struct curve c;
    memset(&c, 0, sizeof c);
    c.x = s->update;
    c.y = s->value;
    c.n = (long)s->n;
    c.color = run + 1;
    c.points = is_validation(s->of);
    return c;
}

static FILE *new_drawing(void)
{
    FILE *drawn = tmpfile();
    if (!drawn) say("cannot make a temporary file: %s", strerror(errno));
    return drawn;
}

/* Closes a drawing. A complete one goes to --output or to standard output. without_gnuplot: what
   can be done instead. */
static int deliver(const struct settings *s, FILE *drawn, int failed, const char *message,
                   const char *without_gnuplot)
{
    struct unfinished out;
    int status = FAILED;
    if (failed) say("%s%s", message, strncmp(message, "gnuplot", 7) ? "" : without_gnuplot);
    else if (!open_output(s, &out)) {
        int bad = picture_copy(drawn, out.file) && !ferror(out.file);
        if (bad) say("cannot read a temporary file: %s", strerror(errno));
        status = close_output(&out, !bad) || bad ? FAILED : DONE;
    }
    fclose(drawn);
    return status;
}

int draw_curves(const struct settings *s, const struct panel *list, int n, int across)
{
    const char *kind = s->output ? picture_kind(s->output) : "text";
    FILE *drawn = new_drawing();
    char message[300];
    if (!drawn) return FAILED;
    return deliver(s, drawn,
                   picture_curves_to(drawn, kind, list, n, across, message, sizeof message),
                   message, "; --csv prints the numbers");
}

int draw_heat_maps(const struct settings *s, const char *title, const struct heat_map *maps, int n,
                   int across, double low, double high)
{
    FILE *drawn = new_drawing();
    char message[300];
    if (!drawn) return FAILED;
    return deliver(s, drawn,
                   picture_heat_maps_to(drawn, picture_kind(s->output), title, maps, n, across, low,
                                        high, message, sizeof message),
                   message, "; trf itself writes an .svg");
}

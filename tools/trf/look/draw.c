// Pictures of trf plot and trf attention: to --output, or to the terminal.

#include "draw.h"

#include <errno.h>

/* Copies a complete picture to --output or to standard output. */
static int deliver(const struct settings *s, FILE *drawn)
{
    FILE *out = open_output(s);
    int bad;
    if (!out) return FAILED;
    bad = picture_copy(drawn, out) && !ferror(out);
    if (bad) say("cannot read a temporary file: %s", strerror(errno));
    return close_output(out, s->output) || bad ? FAILED : DONE;
}

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

static void say_undrawn(const char *message)
{
    say("%s%s", message, strncmp(message, "gnuplot", 7) ? "" : "; --csv prints the numbers");
}

int draw_curves(const struct settings *s, const struct panel *list, int n, int across)
{
    FILE *drawn = tmpfile();
    char message[300];
    int status = FAILED;
    if (!drawn) say("cannot make a temporary file: %s", strerror(errno));
    else if (picture_curves_to(drawn, s->output ? picture_kind(s->output) : "text", list, n, across,
                               message, sizeof message))
        say_undrawn(message);
    else status = deliver(s, drawn);
    if (drawn) fclose(drawn);
    return status;
}

int draw_heat_maps(const struct settings *s, const char *title, const struct heat_map *maps, int n,
                   int across, double low, double high)
{
    FILE *drawn = tmpfile();
    char message[300];
    int status = FAILED;
    if (!drawn) say("cannot make a temporary file: %s", strerror(errno));
    else if (picture_heat_maps_to(drawn, picture_kind(s->output), title, maps, n, across, low, high,
                                  message, sizeof message))
        say("%s%s", message, strncmp(message, "gnuplot", 7) ? "" : "; trf itself writes an .svg");
    else status = deliver(s, drawn);
    if (drawn) fclose(drawn);
    return status;
}

void print_csv_text(FILE *file, const char *text)
{
    putc('"', file);
    for (; *text; text++) {
        if (*text == '"') putc('"', file);
        putc(*text, file);
    }
    putc('"', file);
}

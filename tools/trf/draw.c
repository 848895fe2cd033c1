// trf plot: writes pictures to --output or to the terminal. See plot.h.

#include "plot.h"

#include <errno.h>

/* Copies a complete picture to --output or to standard output. */
int deliver(const struct settings *s, FILE *drawn)
{
    FILE *out = open_output(s);
    int bad;
    if (!out) return FAILED;
    bad = picture_copy(drawn, out) && !ferror(out);
    if (bad) say("cannot read a temporary file: %s", strerror(errno));
    return close_output(out, s->output) || bad ? FAILED : DONE;
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

void print_csv_text(FILE *file, const char *text)
{
    putc('"', file);
    for (; *text; text++) {
        if (*text == '"') putc('"', file);
        putc(*text, file);
    }
    putc('"', file);
}

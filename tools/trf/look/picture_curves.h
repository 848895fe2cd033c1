// Curves and heat maps by gnuplot. A part of picture.h.

// -----------------------------------------------------------------------------------------------
// Curves: a script for gnuplot
// -----------------------------------------------------------------------------------------------

/* PICTURE_KEY: letters of a name in a key. */
enum { PICTURE_COLOURS = 8, PICTURE_MOST_POINTS = 4000, PICTURE_KEY = 60 };

PICTURE const char *picture_kind(const char *path)
{
    static const char *const kinds[] = {"svg", "png", "pdf"};
    const char *dot = strrchr(path, '.');
    int i;
    for (i = 0; dot && i < 3; i++)
        if (!strcmp(dot + 1, kinds[i])) return kinds[i];
    return NULL;
}

/* Whether a point can be drawn; gnuplot's own numbers end before a double's do. */
PICTURE int picture__drawable(const struct panel *p, double x, double y)
{
    return fabs(x) < 1e290 && fabs(y) < 1e290 && (!p->log_x || x > 1e-290) &&
           (!p->log_y || y > 1e-290);
}

PICTURE int picture__drawable_at(const struct panel *p, const struct curve *c, long i)
{
    return i >= 0 && i < c->n && picture__drawable(p, c->x[i], c->y[i]);
}

/* The points that are drawn. Of a very long curve the lowest and the highest of each stretch are,
   and its ends. */
PICTURE void picture__write_points(FILE *script, const struct panel *p, const struct curve *c)
{
    long stretch = c->n > PICTURE_MOST_POINTS ? c->n / (PICTURE_MOST_POINTS / 4) : 1, i, k, at;
    for (i = 0; i < c->n; i += stretch) {
        long end = picture__least(i + stretch, c->n), low = -1, high = -1, drawn = -1;
        for (k = i; k < end; k++) {
            if (!picture__drawable_at(p, c, k)) continue;
            if (low < 0 || c->y[k] < c->y[low]) low = k;
            if (high < 0 || c->y[k] > c->y[high]) high = k;
        }
        if (low < 0) fputs("\n", script); /* an empty line interrupts the curve */
        for (k = 0; k < 4 && low >= 0; k++) {
            at = k == 0 ? i : k == 3 ? end - 1 : (k == 1) == (low < high) ? low : high;
            if (at > drawn && picture__drawable_at(p, c, at))
                fprintf(script, "%.17g %.17g\n", c->x[at], c->y[at]);
            if (at > drawn) drawn = at;
        }
    }
}

/* A point that has no neighbour is no line. */
PICTURE long picture__write_single(FILE *script, const struct panel *p, const struct curve *c)
{
    long i, n = 0;
    for (i = 0; i < c->n; i++) {
        if (!picture__drawable_at(p, c, i) || picture__drawable_at(p, c, i - 1) ||
            picture__drawable_at(p, c, i + 1))
            continue;
        if (c->n > PICTURE_MOST_POINTS && n > PICTURE_MOST_POINTS) break;
        fprintf(script, "%.17g %.17g\n", c->x[i], c->y[i]);
        n++;
    }
    return n;
}

/* The ends of an axis. Both are equal if there is one value, and low > high if there is none. */
struct picture__range {
    double low, high;
};

PICTURE struct picture__range picture__range_of(const struct panel *p, int of_y)
{
    struct picture__range r = {HUGE_VAL, -HUGE_VAL};
    int k;
    long i;
    for (k = 0; k < p->n; k++)
        for (i = 0; i < p->curves[k].n; i++) {
            double x = (of_y ? p->curves[k].y : p->curves[k].x)[i];
            if (!picture__drawable_at(p, &p->curves[k], i)) continue;
            r.low = fmin(r.low, x);
            r.high = fmax(r.high, x);
        }
    return r;
}

PICTURE void picture__write_range(FILE *script, char axis, struct picture__range r, int log_scale,
                                  int from_zero)
{
    double around = r.low == r.high ? fmax(fabs(r.low) * 0.1, 0.5) : 0;
    fprintf(script, log_scale ? "set logscale %c\n" : "unset logscale %c\n", axis);
    if (log_scale && r.low == r.high)
        fprintf(script, "set %crange [%.17g:%.17g]\n", axis, r.low / 2, r.high * 2);
    else if (log_scale) fprintf(script, "set %crange [*:*]\n", axis);
    else if (from_zero && r.low >= 0)
        fprintf(script, "set %crange [0:%.17g]\n", axis, r.high > 0 ? 1.05 * r.high : 1);
    else if (around > 0)
        fprintf(script, "set %crange [%.17g:%.17g]\n", axis, r.low - around, r.high + around);
    else fprintf(script, "set %crange [*:*]\n", axis);
}

PICTURE void picture__write_terminal(FILE *script, const char *kind, int columns, int across,
                                     int down, int keys)
{
    int page = !strcmp(kind, "page"),
        width = page ? 480 * across : across == 1 ? 1000 : 620 * across,
        height = (page ? 300 : across == 1 ? 340 : 380) * down + 20 * keys;
    fputs("set encoding utf8\n", script);
    if (!strcmp(kind, "text"))
        fprintf(script, "set terminal dumb size %d,%d noenhanced\n", columns, 20 * down + keys);
    else if (!strcmp(kind, "pdf"))
        fprintf(script,
                "set terminal pdfcairo size %gin,%gin font 'sans,10' noenhanced background rgb "
                "'white'\n",
                width / 100.0, height / 100.0);
    else if (page)
        fprintf(script, "set terminal svg size %d,%d font 'sans-serif,13' noenhanced\n", width,
                height);
    else if (!strcmp(kind, "svg"))
        fprintf(
            script,
            "set terminal svg size %d,%d font 'sans-serif,13' noenhanced background rgb 'white'\n",
            width, height);
    else
        fprintf(script,
                "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) {\nset terminal pngcairo size %d,%d "
                "font 'sans,10' "
                "noenhanced background rgb 'white'\n} else {\nset terminal png size %d,%d "
                "noenhanced\n}\n",
                width, height, width, height);
}

/* Eight colours that are told apart by people who confuse red and green; a pale one is mixed with
   white. */
PICTURE unsigned picture__curve_colour(const struct curve *c, int number)
{
    static const unsigned colour[PICTURE_COLOURS] = {0x1F6FB4, 0xD1495B, 0x2A9D5C, 0xE08E0B,
                                                     0x7B52AB, 0x1AA5B8, 0x8C564B, 0x555555};
    unsigned rgb = colour[number % PICTURE_COLOURS], pale = 0;
    int i;
    for (i = 16; i >= 0; i -= 8) pale |= (255 - (255 - (rgb >> i & 255)) * 11 / 20) << i;
    return c->thin ? pale : rgb;
}

PICTURE void picture__write_curve(FILE *script, const struct panel *p, int text, int panel, int k,
                                  long single)
{
    const struct curve *c = &p->curves[k];
    int number = c->color > 0 ? c->color - 1 : k;
    unsigned rgb = picture__curve_colour(c, number);
    fprintf(script, "$d%d_%d with %s ", panel, k, c->points ? "linespoints" : "lines");
    if (text) fprintf(script, "lt %d ", k + 1);
    else
        fprintf(script, "lc rgb '#%06x' dt %d lw %s %s", rgb, number / PICTURE_COLOURS % 4 + 1,
                c->thin ? "1.2" : "1.8", c->points ? "pt 7 ps 0.5 " : "");
    if (c->name) {
        fputs("title ", script);
        picture__string(script, c->name, PICTURE_KEY);
    } else fputs("notitle", script);
    if (!single || c->points) return;
    fprintf(script, ", $s%d_%d with points ", panel, k);
    if (text) fprintf(script, "lt %d ", k + 1);
    else fprintf(script, "lc rgb '#%06x' pt 7 ps 0.7 ", rgb);
    fputs("notitle", script);
}

/* Lines of the key, with as many names in a line as there is space for. */
PICTURE int picture__key_lines(const struct panel *p, int line_width)
{
    int named = 0, longest = 1, in_a_line, k;
    for (k = 0; k < p->n; k++) {
        const char *name = p->curves[k].name;
        int columns = name ? picture_columns(name) + 6 : 0;
        if (columns > PICTURE_KEY + 6) columns = PICTURE_KEY + 6;
        named += name != NULL;
        if (columns > longest) longest = columns;
    }
    in_a_line = line_width > longest ? line_width / longest : 1;
    return (named + in_a_line - 1) / in_a_line;
}

PICTURE void picture__write_panel(FILE *script, const struct panel *p, int text, int line_width,
                                  int panel, long *single)
{
    struct picture__range x = picture__range_of(p, 0), y = picture__range_of(p, 1);
    int k;
    for (k = 0; k < p->n; k++) {
        fprintf(script, "$d%d_%d << end\n", panel, k);
        picture__write_points(script, p, &p->curves[k]);
        fprintf(script, "end\n$s%d_%d << end\n", panel, k);
        single[k] = picture__write_single(script, p, &p->curves[k]);
        fputs("end\n", script);
    }
    fputs("set title ", script);
    picture__string(script, p->title, 70);
    fputs("\nset xlabel ", script);
    picture__string(script, p->x_label, 70);
    fputs("\nset ylabel ", script);
    picture__string(script, p->y_label, 40);
    fprintf(script, "\nunset label\nset key maxrows %d\n", picture__key_lines(p, line_width) + 1);
    if (x.low > x.high) { /* nothing can be drawn: the frame alone, and why */
        fputs("unset logscale\nset label 1 'no data' at graph 0.5,0.5 center\nplot [0:1] [0:1] 2 "
              "notitle\n",
              script);
        return;
    }
    picture__write_range(script, 'x', x, p->log_x, x.low >= 0 && x.low < 0.2 * x.high);
    if (p->x_low < p->x_high) fprintf(script, "set xrange [%.17g:%.17g]\n", p->x_low, p->x_high);
    picture__write_range(script, 'y', y, p->log_y, p->from_zero);
    fputs("plot ", script);
    for (k = 0; k < p->n; k++) {
        if (k) fputs(", ", script);
        picture__write_curve(script, p, text, panel, k, single[k]);
    }
    fputs("\n", script);
}

/* The most lines that the key of a panel takes below it. */
PICTURE int picture__most_lines(const struct panel *panels, int n, int line_width)
{
    int i, most = 0;
    for (i = 0; i < n; i++) {
        int lines = picture__key_lines(&panels[i], line_width);
        if (lines > most) most = lines;
    }
    return most;
}

PICTURE int picture__write_script(FILE *script, const char *kind, int columns,
                                  const struct panel *panels, int n, int across)
{
    int down = (n + across - 1) / across, text = !strcmp(kind, "text"), i, most = 1;
    int line_width = across == 1 ? 130 : 75;  /* letters of a line of the key */
    long *single;
    for (i = 0; i < n; i++)
        if (panels[i].n > most) most = panels[i].n;
    if (text) line_width = columns;
    else if (!strcmp(kind, "page")) line_width = 58;
    single = (long *)calloc((size_t)most, sizeof *single);
    if (!single) return 1;
    picture__write_terminal(script, kind, columns, across, down,
                            picture__most_lines(panels, n, line_width) * down);
    fprintf(script,
            "set multiplot layout %d,%d\nset key below Left reverse height %d\nset format '%%g'\n",
            down, across, !text);
    if (!text)
        fputs("set grid lc rgb '#c8c8c8' lw 0.5\nset rmargin 4\nset border 3 lc rgb '#777777'\n"
              "set tics nomirror out textcolor rgb '#333333'\n", script);
    for (i = 0; i < n; i++) picture__write_panel(script, &panels[i], text, line_width, i, single);
    fputs("unset multiplot\n", script);
    free(single);
    return 0;
}

/* Runs gnuplot between files. Its status, 127: it is not installed, -1: errno has the reason. */
PICTURE int picture__gnuplot(FILE *script, FILE *picture, FILE *errors)
{
    pid_t child;
    int status;
    rewind(script);
    child = fork();
    if (child < 0) return -1;
    if (!child) {
        if (dup2(fileno(script), 0) >= 0 && dup2(fileno(picture), 1) >= 0 &&
            dup2(fileno(errors), 2) >= 0)
            execlp("gnuplot", "gnuplot", "-d", "-", (char *)NULL);
        _exit(errno == ENOENT || errno == EACCES || errno == ENOTDIR ? 127 : 126);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

PICTURE int picture_copy(FILE *from, FILE *to)
{
    char bytes[4096];
    size_t n;
    rewind(from);
    while ((n = fread(bytes, 1, sizeof bytes, from)) > 0)
        if (fwrite(bytes, 1, n, to) != n) return 1;
    return ferror(from) != 0;
}

/* The same for SVG, without gnuplot's titles: browsers would show "gnuplot_plot_1a" on hover. Its
   first line goes too, so that the picture may stand in a page. */
PICTURE int picture__copy_svg(FILE *from, FILE *to)
{
    char *line = NULL, *title, *end;
    size_t capacity = 0;
    rewind(from);
    while (getline(&line, &capacity, from) > 0) {
        if (!strncmp(line, "<?xml", 5)) continue;
        title = strstr(line, "<title>");
        end = title ? strstr(title, "</title>") : NULL;
        if (end) memmove(title, end + 8, strlen(end + 8) + 1);
        fputs(line, to);
    }
    free(line);
    return ferror(from) || ferror(to);
}

PICTURE void picture__failed(int status, FILE *errors, char *message, size_t size)
{
    char line[200] = "";
    if (status < 0) snprintf(message, size, "cannot start gnuplot: %s", strerror(errno));
    else {
        rewind(errors);
        while (fgets(line, sizeof line, errors) && strspn(line, " \t\n^") == strlen(line))
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(message, size, "gnuplot cannot draw the curves%s%s", *line ? ": " : "", line);
    }
}

/* Appends what gnuplot makes of a script to `to`. what: "curves", ".png". */
PICTURE int picture__run(FILE *script, const char *kind, const char *what, FILE *to, char *message,
                         size_t size)
{
    FILE *picture = tmpfile(), *errors = tmpfile();
    int svg = !strcmp(kind, "svg") || !strcmp(kind, "page"), failed = 1, status;
    if (!script || !picture || !errors || fflush(script) || ferror(script))
        snprintf(message, size, "cannot write a temporary file for gnuplot: %s", strerror(errno));
    else if ((status = picture__gnuplot(script, picture, errors)) == 127)
        snprintf(message, size, "gnuplot, which draws %s, is not installed", what);
    else if (status) picture__failed(status, errors, message, size);
    else if (svg ? picture__copy_svg(picture, to) : picture_copy(picture, to))
        snprintf(message, size, "cannot write the picture: %s", strerror(errno));
    else failed = 0;
    if (picture) fclose(picture);
    if (errors) fclose(errors);
    return failed;
}

PICTURE int picture_curves_to(FILE *to, const char *kind, const struct panel *panels, int n,
                              int across, char *message, size_t size)
{
    FILE *script;
    int failed = 1;
    if (across < 1 || !strcmp(kind, "text")) across = 1;
    if (across > n && n > 0) across = n;
    if (n < 1) {
        snprintf(message, size, "there is nothing to draw");
        return 1;
    }
    script = tmpfile();
    if (script &&
        picture__write_script(script, kind, picture__terminal_width(to), panels, n, across))
        snprintf(message, size, "out of memory");
    else failed = picture__run(script, kind, "curves", to, message, size);
    if (script) fclose(script);
    return failed;
}

// -----------------------------------------------------------------------------------------------
// Heat maps by gnuplot, at the positions of those of the SVG
// -----------------------------------------------------------------------------------------------

PICTURE void picture__plot_values(FILE *script, const struct heat_map *map, long down, long side)
{
    long i, j;
    fputs("$m << end\n", script);
    for (i = 0; i < map->rows; i += down) {
        for (j = 0; j < map->columns; j += side) {
            double x = picture__mean(map, i, j, down, side);
            if (isfinite(x)) fprintf(script, "%.6g ", x);
            else fputs("NaN ", script);
        }
        putc('\n', script);
    }
    fputs("end\n", script);
}

PICTURE void picture__plot_map(FILE *script, const struct heat_map *map,
                               const struct picture__map *m, const struct picture__grid *g)
{
    const struct picture__canvas canvas = {script, m->x, m->y, g->width, g->height};
    long down = (map->rows + PICTURE_PIXELS - 1) / PICTURE_PIXELS,
         side = (map->columns + PICTURE_PIXELS - 1) / PICTURE_PIXELS;
    double left = m->x + m->left, top = m->y + m->top,
           right = left + m->cell_width * (double)map->columns,
           bottom = top + m->cell_height * (double)map->rows;
    picture__plot_values(script, map, down, side);
    fprintf(script,
            "set lmargin at screen %.6f\nset rmargin at screen %.6f\nset tmargin at screen %.6f\n"
            "set bmargin at screen %.6f\n",
            left / g->width, right / g->width, 1 - top / g->height, 1 - bottom / g->height);
    picture__axes(&canvas, map, m);
    fprintf(script, "set xrange [-0.5:%.1f]\nset yrange [%.1f:-0.5]\n",
            ceil((double)map->columns / (double)side) - 0.5,
            ceil((double)map->rows / (double)down) - 0.5);
    fprintf(script, "plot $m matrix with image%s\nunset label\nunset colorbox\n",
            fmin(m->cell_width, m->cell_height) >= 4 ? " pixels" : "");
}

PICTURE void picture__plot_grid(FILE *script, const char *kind, const char *title,
                                const struct heat_map *maps, int n,
                                const struct picture__scale *scale, const struct picture__grid *g)
{
    const struct picture__canvas canvas = {script, 0, 0, g->width, g->height};
    double x = 12 + g->column * g->across, y = g->top + g->maps[0].top;
    int i;
    fputs("set encoding utf8\n", script);
    if (!strcmp(kind, "pdf"))
        fprintf(script, "set terminal pdfcairo size %gin,%gin font 'sans,9' ", g->width / 96,
                g->height / 96);
    else
        fprintf(script, "set terminal pngcairo size %.0f,%.0f font 'sans,9' ", g->width, g->height);
    fputs("noenhanced background rgb 'white'\nset multiplot\nunset key\nunset xtics\n"
          "unset ytics\nset border lc rgb '#888899'\nset cbtics scale 0 textcolor rgb '#222222'\n"
          "set object 1 rectangle from graph 0,0 to graph 1,1 fs solid noborder fc rgb '#a8a8a8' "
          "behind\nset palette defined (",
          script);
    for (i = 0; i < PICTURE_STEPS; i++)
        fprintf(script, "%s%d '#%06x'", i ? "," : "", i, (unsigned)picture__colour(scale, i));
    fprintf(script, ")\nset cbrange [%.9g:%.9g]\n", scale->low, scale->high);
    fprintf(script,
            "set colorbox user origin screen %.6f,%.6f size screen %.6f,%.6f\n"
            "set cbtics %.9g\n",
            x / g->width, 1 - (y + 160) / g->height, 14 / g->width, 160 / g->height,
            (scale->high - scale->low) / 4);
    picture__text(&canvas, title, 12, 23, 0, PICTURE_BEGIN, PICTURE_HEADLINE);
    for (i = 0; i < n; i++)
        if (maps[i].rows > 0 && maps[i].columns > 0)
            picture__plot_map(script, &maps[i], &g->maps[i], g);
    fputs("unset multiplot\n", script);
}

PICTURE int picture_heat_maps_to(FILE *to, const char *kind, const char *title,
                                 const struct heat_map *maps, int n, int across, double low,
                                 double high, char *message, size_t size)
{
    struct picture__scale scale = picture__scale_of(maps, n, low, high);
    struct picture__grid g;
    FILE *script = NULL;
    int failed = 1;
    if (!strcmp(kind, "svg")) {
        failed = picture_heat_maps(to, title, maps, n, across, low, high);
        if (failed) snprintf(message, size, "cannot write the picture: %s", strerror(errno));
        return failed;
    }
    if (n < 1) snprintf(message, size, "there is nothing to draw");
    else if (picture__place(&g, title, maps, n, across)) snprintf(message, size, "out of memory");
    else {
        if ((script = tmpfile())) picture__plot_grid(script, kind, title, maps, n, &scale, &g);
        free(g.maps);
        failed = picture__run(script, kind, strcmp(kind, "pdf") ? ".png" : ".pdf", to, message,
                              size);
    }
    if (script) fclose(script);
    return failed;
}

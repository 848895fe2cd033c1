// Heat maps: as SVG, and in letters for the terminal. A part of picture.h.

// -----------------------------------------------------------------------------------------------
// Heat maps
// -----------------------------------------------------------------------------------------------

/* Cells of a picture that are drawn one by one. Beyond that a map is an image, and blocks over it
   have their means on hover. */
enum { PICTURE_FONT = 12, PICTURE_CELLS = 60000, PICTURE_BLOCKS = 20000 };

/* One map: where its cells begin in its part of the picture, and how large they are, in pixels. */
struct picture__map {
    double x, y, left, top, cell_width, cell_height, width, height;
    long row_step, column_step;
    int rotated;
};

/* A number or a name. */
PICTURE const char *picture__label(const char *const *names, long i, char number[32])
{
    if (names && names[i]) return names[i];
    snprintf(number, 32, "%ld", i);
    return number;
}

PICTURE double picture__longest(const char *const *names, long n)
{
    double most = 0;
    char number[32];
    long i;
    if (!names) return picture__ems(picture__label(NULL, n - 1, number)) * PICTURE_FONT;
    for (i = 0; i < n; i++) most = fmax(most, picture__ems(picture__label(names, i, number)));
    return most * PICTURE_FONT;
}

/* Every which label has space for `pixels`: 1, 2, 5, 10, 20 ... */
PICTURE long picture__every(double cell, double pixels)
{
    long step = 1, next = 2;
    while ((double)step * cell < pixels && step < 1000000000) {
        step = next;
        next = step % 9 == 2 ? step / 2 * 5 : step * 2;
    }
    return step;
}

/* The size of n cells for which there are about `space` pixels. Names want cells as high as a
   line. */
PICTURE double picture__cell(long n, double space, int names)
{
    double cell = floor(space / (double)n);
    if (names && n <= 200) return fmin(fmax(cell, PICTURE_FONT + 4), 30);
    return cell >= 1 ? fmin(cell, 30) : space / (double)n;
}

PICTURE struct picture__map picture__layout(const struct heat_map *map, double space)
{
    struct picture__map m = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    double names = picture__longest(map->column_names, map->columns), more, less;
    m.cell_width = picture__cell(map->columns, space, map->column_names != NULL);
    m.cell_height = picture__cell(map->rows, space, map->row_names != NULL);
    more = fmax(m.cell_width, m.cell_height);
    less = fmin(m.cell_width, m.cell_height);
    if (more > 3 * less) { /* neither stripes nor tiny squares, but names keep their space */
        if (!map->column_names || map->columns > 200) m.cell_width = fmin(m.cell_width, 3 * less);
        if (!map->row_names || map->rows > 200) m.cell_height = fmin(m.cell_height, 3 * less);
    } else m.cell_width = m.cell_height = map->column_names || map->row_names ? more : less;
    m.row_step = picture__every(m.cell_height, PICTURE_FONT + 2);
    m.rotated = map->column_names && names + 4 > m.cell_width;
    m.column_step = picture__every(m.cell_width, m.rotated ? PICTURE_FONT + 2 : names + 4);
    m.left =
        picture__longest(map->row_names, map->rows) + 12 + (map->row_label ? PICTURE_FONT + 6 : 0);
    m.top = (m.rotated ? names + 8 : PICTURE_FONT + 8) +
            (map->column_label ? PICTURE_FONT + 6 : 0) + (map->title ? 24 : 0);
    m.width = m.left + fmax(m.cell_width * (double)map->columns + names / 2,
                            map->title ? picture__ems(map->title) * 14 * 1.1 : 0);
    m.height = m.top + m.cell_height * (double)map->rows;
    if (map->row_label)
        m.height = fmax(m.height, m.top + picture__ems(map->row_label) * PICTURE_FONT);
    return m;
}

PICTURE void picture__value_text(FILE *to, double x)
{
    if (isnan(x)) fputs("not a number", to);
    else if (isinf(x)) fputs(x < 0 ? "minus infinity" : "infinity", to);
    else fprintf(to, "%.5g", x);
}

/* "target der", or "target der to Hund" where a cell stands for n of them. */
PICTURE void picture__put_position(FILE *to, const char *axis, const char *const *names, long at,
                                   long n)
{
    char number[32];
    if (axis) {
        picture_escape(to, axis);
        putc(' ', to);
    }
    picture_escape(to, picture__label(names, at, number));
    if (n < 2) return;
    fputs(" to ", to);
    picture_escape(to, picture__label(names, at + n - 1, number));
}

/* "target der, source the: 0.12345"; of several cells the numbers of the first and of the last. */
PICTURE void picture__hover(FILE *to, const struct heat_map *map, long row, long column, long down,
                            long wide, double x)
{
    fputs("<title>", to);
    picture__put_position(to, map->row_label, map->row_names, row, down);
    fputs(", ", to);
    picture__put_position(to, map->column_label, map->column_names, column, wide);
    fputs(down > 1 || wide > 1 ? ": mean " : ": ", to);
    picture__value_text(to, x);
    fputs("</title>", to);
}

PICTURE long picture__least(long a, long b) { return a < b ? a : b; }

/* Of a block, as far as it is within the map. One value that is no number hides in a mean: the
   block is no number either. */
PICTURE double picture__mean(const struct heat_map *map, long row, long column, long down,
                             long wide)
{
    long below = picture__least(row + down, map->rows),
         right = picture__least(column + wide, map->columns), i, j;
    double sum = 0;
    for (i = row; i < below; i++)
        for (j = column; j < right; j++) sum += (double)picture__value(map, i, j);
    return sum / ((double)(below - row) * (double)(right - column));
}

/* Blocks of cells with their values on hover: coloured ones, or transparent ones over an image. */
PICTURE void picture__blocks(FILE *to, const struct heat_map *map,
                             const struct picture__scale *scale, long side, int coloured)
{
    long i, j;
    for (i = 0; i < map->rows; i += side)
        for (j = 0; j < map->columns; j += side) {
            long down = picture__least(side, map->rows - i),
                 wide = picture__least(side, map->columns - j);
            double x = picture__mean(map, i, j, down, wide);
            fprintf(to, "<path d=\"M%ld %ldh%ldv%ldh-%ldz\"", j, i, wide, down, wide);
            if (coloured)
                fprintf(to, " fill=\"#%06x\"",
                        (unsigned)picture__colour(scale, picture__step(scale, x)));
            putc('>', to);
            picture__hover(to, map, i, j, down, wide, x);
            fputs("</path>\n", to);
        }
}

PICTURE int picture__image(FILE *to, const struct heat_map *map, const struct picture__scale *scale)
{
    long down = (map->rows + PICTURE_PIXELS - 1) / PICTURE_PIXELS,
         side = (map->columns + PICTURE_PIXELS - 1) / PICTURE_PIXELS,
         height = (map->rows + down - 1) / down, width = (map->columns + side - 1) / side, i, j;
    unsigned char *steps = (unsigned char *)malloc((size_t)width * (size_t)height);
    int status;
    if (!steps) return 1;
    for (i = 0; i < height; i++)
        for (j = 0; j < width; j++)
            steps[i * width + j] = (unsigned char)picture__step(
                scale, picture__mean(map, i * down, j * side, down, side));
    fprintf(to,
            "<image width=\"%ld\" height=\"%ld\" preserveAspectRatio=\"none\" "
            "style=\"image-rendering:pixelated\" "
            "href=\"data:image/png;base64,",
            width * side, height * down);
    status = picture__png(to, steps, width, height, scale);
    fputs("\"/>\n", to);
    free(steps);
    return status;
}

/* Where texts go: into SVG, or into a script of gnuplot for a picture of width x height pixels,
   whose map begins at x and y. width 0: SVG. */
struct picture__canvas {
    FILE *to;
    double x, y, width, height;
};

enum picture__anchor { PICTURE_BEGIN, PICTURE_MIDDLE, PICTURE_END };
enum picture__style { PICTURE_PLAIN, PICTURE_ITALIC, PICTURE_TITLE, PICTURE_HEADLINE };

/* A name on a line that begins, has its middle or ends at x, y. rotated: the line goes upwards. */
PICTURE void picture__text(const struct picture__canvas *c, const char *text, double x, double y,
                           int rotated, enum picture__anchor anchor, enum picture__style style)
{
    static const char *const sides[] = {"left", "center", "right"},
                      *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""},
                      *const fonts[] = {"", "", " font ',11'", " font ',13'"},
                      *const styles[] = {"", " font-style=\"italic\"",
                                         " font-size=\"14\" font-weight=\"bold\"",
                                         " font-size=\"16\" font-weight=\"bold\""};
    double up = PICTURE_FONT / 3.0; /* gnuplot's lines are in the middle of the letters */
    if (!text) return;
    if (c->width > 0) {
        fputs("set label ", c->to);
        picture__string(c->to, text, PICTURE_LONGEST);
        fprintf(c->to, " at screen %.6f,%.6f %s%s%s\n",
                (c->x + x - (rotated ? up : 0)) / c->width,
                1 - (c->y + y - (rotated ? 0 : up)) / c->height, sides[anchor],
                rotated ? " rotate by 90" : "", fonts[style]);
        return;
    }
    fprintf(c->to,
            rotated ? "<text transform=\"translate(%.1f %.1f) rotate(-90)\"%s%s>"
                    : "<text x=\"%.1f\" y=\"%.1f\"%s%s>",
            x, y, anchors[anchor], styles[style]);
    picture__name(c->to, text);
    fputs("</text>\n", c->to);
}

/* The title of a map, what its axes are, and the names of rows and columns. */
PICTURE void picture__axes(const struct picture__canvas *c, const struct heat_map *map,
                           const struct picture__map *m)
{
    char number[32];
    long i;
    picture__text(c, map->title, 0, 14, 0, PICTURE_BEGIN, PICTURE_TITLE);
    picture__text(c, map->column_label, m->left, (map->title ? 24 : 0) + PICTURE_FONT, 0,
                  PICTURE_BEGIN, PICTURE_ITALIC);
    picture__text(c, map->row_label, PICTURE_FONT, m->top, 1, PICTURE_END, PICTURE_ITALIC);
    for (i = 0; i < map->columns; i += m->column_step)
        picture__text(c, picture__label(map->column_names, i, number),
                      m->left + ((double)i + 0.5) * m->cell_width + 4 * m->rotated, m->top - 5,
                      m->rotated, m->rotated ? PICTURE_BEGIN : PICTURE_MIDDLE, PICTURE_PLAIN);
    for (i = 0; i < map->rows; i += m->row_step)
        picture__text(c, picture__label(map->row_names, i, number), m->left - 6,
                      m->top + ((double)i + 0.5) * m->cell_height + 4, 0, PICTURE_END,
                      PICTURE_PLAIN);
}

/* Thin lines between cells that are large, and a frame. */
PICTURE void picture__lines(FILE *to, const struct heat_map *map, const struct picture__map *m)
{
    double width = m->cell_width * (double)map->columns,
           height = m->cell_height * (double)map->rows;
    long i;
    fprintf(to,
            "<path transform=\"translate(%.1f %.1f)\" fill=\"none\" pointer-events=\"none\" "
            "stroke=\"#dde\" d=\"",
            m->left, m->top);
    if (fmin(m->cell_width, m->cell_height) >= 14) {
        for (i = 1; i < map->columns; i++)
            fprintf(to, "M%.4g 0v%.6g", (double)i * m->cell_width, height);
        for (i = 1; i < map->rows; i++)
            fprintf(to, "M0 %.4gh%.6g", (double)i * m->cell_height, width);
    }
    fprintf(to,
            "\"/>\n<rect x=\"%.1f\" y=\"%.1f\" width=\"%.6g\" height=\"%.6g\" fill=\"none\" "
            "pointer-events=\"none\" "
            "stroke=\"#889\"/>\n",
            m->left, m->top, width, height);
}

PICTURE int picture__draw_map(FILE *to, const struct heat_map *map, const struct picture__map *m,
                              const struct picture__scale *scale, int n)
{
    const struct picture__canvas svg = {to, 0, 0, 0, 0};
    long side = 1;
    int status = 0;
    if ((double)map->rows * (double)map->columns > PICTURE_CELLS / n)
        for (side = 2;
             ceil((double)map->rows / (double)side) * ceil((double)map->columns / (double)side) >
             PICTURE_BLOCKS / n + 1;)
            side++;
    fprintf(to,
            "<g transform=\"translate(%.1f %.1f) scale(%.6g %.6g)\" "
            "shape-rendering=\"crispEdges\"%s>\n",
            m->left, m->top, m->cell_width, m->cell_height,
            side > 1 ? " fill=\"none\" pointer-events=\"all\"" : "");
    if (side > 1) status = picture__image(to, map, scale);
    picture__blocks(to, map, scale, side, side == 1);
    fputs("</g>\n", to);
    picture__lines(to, map, m);
    picture__axes(&svg, map, m);
    return status;
}

/* A bar with the lowest value below and the highest above; as wide as its numbers. */
PICTURE void picture__draw_scale(FILE *to, const struct picture__scale *scale, double x, double y)
{
    int i;
    fprintf(to, "<g transform=\"translate(%.1f %.1f)\"><g shape-rendering=\"crispEdges\">\n", x, y);
    for (i = 0; i < 64; i++)
        fprintf(to, "<path d=\"M0 %.1fh14v-2.5h-14z\" fill=\"#%06x\"/>", 160 - 2.5 * i,
                (unsigned)picture__colour(scale, i * (PICTURE_STEPS - 1) / 63));
    fputs("</g>\n<rect width=\"14\" height=\"160\" fill=\"none\" stroke=\"#889\"/>\n", to);
    for (i = 0; i <= 4; i++)
        fprintf(to, "<text x=\"20\" y=\"%d\">%.4g</text>\n", 164 - 40 * i,
                scale->low + (scale->high - scale->low) * i / 4);
    fputs("</g>\n", to);
}

/* The positions of everything in a grid of maps, in pixels. */
struct picture__grid {
    struct picture__map *maps;
    int across;
    double top, column, width, height; /* top: of the first row; column: from one map to the next */
};

/* Returns 1 where memory is short. */
PICTURE int picture__place(struct picture__grid *g, const char *title, const struct heat_map *maps,
                           int n, int across)
{
    double row;
    int i, k;
    g->across = across < 1 ? 1 : across > n && n > 0 ? n : across;
    g->maps = (struct picture__map *)calloc(n > 0 ? (size_t)n : 1, sizeof *g->maps);
    if (!g->maps) return 1;
    g->top = title ? 34 : 10;
    g->column = 0;
    for (i = 0; i < n; i++) {
        int space = g->across == 1 ? 640 : g->across == 2 ? 420 : 260;
        g->maps[i] = picture__layout(&maps[i], space);
        g->column = fmax(g->column, g->maps[i].width + 24);
    }
    g->height = g->top;
    for (i = 0; i < n; i += g->across) {
        for (k = i, row = 0; k < n && k < i + g->across; k++) {
            g->maps[k].x = 12 + g->column * (k - i);
            g->maps[k].y = g->height;
            row = fmax(row, g->maps[k].height);
        }
        g->height += row + 24;
    }
    g->height = fmax(g->height, g->top + 190);
    g->width = fmax(g->column * g->across + 110, title ? picture__ems(title) * 18 + 24 : 0);
    return 0;
}

PICTURE int picture_heat_maps(FILE *to, const char *title, const struct heat_map *maps, int n,
                              int across, double low, double high)
{
    struct picture__scale scale = picture__scale_of(maps, n, low, high);
    const struct picture__canvas svg = {to, 0, 0, 0, 0};
    struct picture__grid g;
    int i, status = 0;
    if (picture__place(&g, title, maps, n, across)) return 1;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"%d\" "
            "fill=\"#222\" xml:space=\"preserve\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            g.width, g.height, g.width, g.height, PICTURE_FONT);
    picture__text(&svg, title, 12, 23, 0, PICTURE_BEGIN, PICTURE_HEADLINE);
    for (i = 0; i < n; i++) {
        fprintf(to, "<g transform=\"translate(%.1f %.1f)\">\n", g.maps[i].x, g.maps[i].y);
        status |= picture__draw_map(to, &maps[i], &g.maps[i], &scale, n);
        fputs("</g>\n", to);
    }
    picture__draw_scale(to, &scale, 12 + g.column * g.across, g.top + (n > 0 ? g.maps[0].top : 0));
    fputs("</svg>\n", to);
    free(g.maps);
    return status || ferror(to);
}

// -----------------------------------------------------------------------------------------------
// Heat maps in a terminal
// -----------------------------------------------------------------------------------------------

/* Of the file, or of standard output, which gets what is drawn in a file first. */
PICTURE int picture__terminal_width(FILE *to)
{
    struct winsize size;
    int fd = isatty(fileno(to)) ? fileno(to) : STDOUT_FILENO;
    int known = isatty(fd) && !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col >= 20;
    return known ? size.ws_col : 100;
}

/* Two columns of a terminal: from nothing to full in four steps. Below 0 the signs differ. */
PICTURE const char *picture__shade(const struct picture__scale *scale, double x)
{
    static const char *const above[] = {"  ", "\xE2\x96\x91\xE2\x96\x91",
                                        "\xE2\x96\x92\xE2\x96\x92", "\xE2\x96\x93\xE2\x96\x93",
                                        "\xE2\x96\x88\xE2\x96\x88"};
    static const char *const below[] = {"  ", "..", "--", "==", "##"};
    double share =
        scale->diverging ? x / scale->high : (x - scale->low) / (scale->high - scale->low);
    if (isnan(share)) return "??";
    return (share < 0 ? below : above)[(int)lround(fmin(fabs(share), 1) * 4)];
}

/* Text that is at least `width` columns wide. right: it ends there. */
PICTURE void picture__pad(FILE *to, const char *text, int width, int right)
{
    int space = width - picture_columns(text);
    if (right) fprintf(to, "%*s", space > 0 ? space : 0, "");
    while (*text) {
        uint32_t c = picture__next(&text);
        picture__put(to, c == '\n' || c == '\t' ? ' ' : c);
    }
    if (!right) fprintf(to, "%*s", space > 0 ? space : 0, "");
}

/* The letter of a name that stands in line `line` of those above the cells, with all that is drawn
   over it. */
PICTURE void picture__downwards(FILE *to, const char *name, int line, int lines)
{
    const char *at = name;
    int n = 0, letter = -1, wanted, width = 0;
    while (*at) n += picture__wide(picture__next(&at)) > 0;
    wanted = line - (lines - n);
    for (at = name; *at && wanted >= 0;) {
        uint32_t c = picture__next(&at);
        int wide = picture__wide(c);
        letter += wide > 0;
        if (letter != wanted) continue;
        picture__put(to, c == '\n' || c == '\t' ? ' ' : c);
        width += wide;
    }
    fprintf(to, "%*s", 2 - width, "");
}

PICTURE int picture__letters(const char *const *names, long n)
{
    int most = 0, letters;
    char number[32];
    long i;
    for (i = 0; i < n; i++) {
        const char *at = picture__label(names, i, number);
        for (letters = 0; *at;) letters += picture__wide(picture__next(&at)) > 0;
        if (letters > most) most = letters;
    }
    return most;
}

PICTURE void picture__text_strip(FILE *to, const struct heat_map *map,
                                 const struct picture__scale *scale, long first, long end,
                                 int names)
{
    int lines = picture__letters(map->column_names, map->columns), line;
    char number[32];
    long i, j;
    for (line = 0; line < lines; line++) {
        fprintf(to, "%*s ", names, "");
        for (j = first; j < end; j++)
            picture__downwards(to, picture__label(map->column_names, j, number), line, lines);
        putc('\n', to);
    }
    for (i = 0; i < map->rows; i++) {
        picture__pad(to, picture__label(map->row_names, i, number), names, 1);
        putc(' ', to);
        for (j = first; j < end; j++)
            fputs(picture__shade(scale, (double)picture__value(map, i, j)), to);
        putc('\n', to);
    }
}

PICTURE void picture__text_scale(FILE *to, const struct picture__scale *scale)
{
    int i;
    for (i = scale->diverging ? -4 : 0; i <= 4; i++) {
        double x = scale->diverging ? scale->high * i / 4
                                      : scale->low + (scale->high - scale->low) * i / 4;
        fprintf(to, "%s[%s] %.3g", i == -4 || (!i && !scale->diverging) ? "" : "  ",
                picture__shade(scale, x), x);
    }
    putc('\n', to);
}

/* The means of blocks, as a map without names that fits into a terminal. */
PICTURE void picture__text_means(FILE *to, const struct heat_map *map,
                                 const struct picture__scale *scale, long wide)
{
    long down = (map->rows + 59) / 60, side = (map->columns + wide - 1) / wide, i, j;
    for (i = 0; i < map->rows; i += down) {
        fprintf(to, "%8ld ", i);
        for (j = 0; j < map->columns; j += side)
            fputs(picture__shade(scale, picture__mean(map, i, j, down, side)), to);
        putc('\n', to);
    }
    fprintf(to, "Each cell is the mean of %ld x %ld values.\n", down, side);
}

PICTURE void picture_heat_text(FILE *to, const struct heat_map *map, double low, double high)
{
    struct picture__scale scale = picture__scale_of(map, 1, low, high);
    int width = picture__terminal_width(to), names = 0;
    char number[32];
    long i, strip, j;
    for (i = 0; i < map->rows; i++) {
        int n = picture_columns(picture__label(map->row_names, i, number));
        if (n > names) names = n;
    }
    if (map->title) {
        picture__pad(to, map->title, 0, 0);
        putc('\n', to);
    }
    if (map->rows > 200 || map->columns > 200)
        picture__text_means(to, map, &scale, (width - 10) / 2);
    else {
        if (map->row_label && map->column_label) {
            fputs("rows: ", to);
            picture__pad(to, map->row_label, 0, 0);
            fputs(", columns: ", to);
            picture__pad(to, map->column_label, 0, 0);
            putc('\n', to);
        }
        strip = (width - names - 2) / 2 < 4 ? 4 : (width - names - 2) / 2;
        for (j = 0; j < map->columns; j += strip)
            picture__text_strip(to, map, &scale, j, picture__least(j + strip, map->columns), names);
    }
    picture__text_scale(to, &scale);
}

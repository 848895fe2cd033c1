/* build: O0 */
/* tools/trf/look/picture.h: hostile text, colours of a scale, the image of a large map byte by byte,
   curves that are thinned out or interrupted, and what a terminal gets. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tools/trf/look/picture.h"

/* What is written to a file, as text that the next call replaces. */
static char *text_of(FILE *file)
{
    static char *text;
    long n;
    free(text);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    n = ftell(file);
    rewind(file);
    text = (char *)malloc((size_t)n + 1);
    assert_int_equal(fread(text, 1, (size_t)n, file), n);
    text[n] = '\0';
    fclose(file);
    return text;
}

static struct heat_map map_of(const float *values, long n_rows, long n_columns)
{
    struct heat_map map;
    memset(&map, 0, sizeof map);
    map.values = values;
    map.rows = n_rows;
    map.columns = n_columns;
    return map;
}

static char *svg_of(const struct heat_map *maps, int n, int across, double low, double high)
{
    FILE *file = tmpfile();
    assert_int_equal(picture_heat_maps(file, NULL, maps, n, across, low, high), 0);
    return text_of(file);
}

static int times(const char *text, const char *part)
{
    int n = 0;
    while ((text = strstr(text, part))) n++, text += strlen(part);
    return n;
}

#define BAD "\xEF\xBF\xBD"

static void escaped(void **state)
{
    static const char *const pairs[][2] = {
        {"<b>\"&'", "&lt;b&gt;&quot;&amp;&#39;"},
        {"a\tb\nc", "a\tb\nc"},
        {"\x1B[31m\r\x01\x7F", BAD "[31m" BAD BAD BAD},
        {"e\xCC\x81 \xE6\xBC\xA2 \xF0\x9F\x98\x80", "e\xCC\x81 \xE6\xBC\xA2 \xF0\x9F\x98\x80"},
        {"a\xE2\x80\xAE" "b\xE2\x80\x8B\xE2\x80\x8D", "a" BAD "b" BAD "\xE2\x80\x8D"},
        {"\xC0\x80", BAD BAD},
        {"\xE0\x80\x80", BAD BAD BAD},
        {"\xED\xA0\x80", BAD BAD BAD}, /* too long; a surrogate */
        {"\xF8\xA0\x80\x80", BAD BAD BAD BAD},
        {"\xF5\x80\x80\x80", BAD BAD BAD BAD},
        {"\xC3", BAD},
        {"\xE6\xBC", BAD BAD},
        {"\xC3(", BAD "("},
        {"\xC2\x9B", BAD},
        {"\xEF\xBF\xBF", BAD},
        {"", ""}};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        FILE *file = tmpfile();
        picture_escape(file, pairs[i][0]);
        assert_string_equal(text_of(file), pairs[i][1]);
    }
}

static void columns_of_text(void **state)
{
    (void)state;
    assert_int_equal(picture_columns(""), 0);
    assert_int_equal(picture_columns("abc"), 3);
    assert_int_equal(picture_columns("e\xCC\x81\xCC\x82"), 1);
    assert_int_equal(picture_columns("\xE6\xBC\xA2\xE5\xAD\x97"), 4);
    assert_int_equal(picture_columns("\xFF\xFE"), 2);
}

static void kinds(void **state)
{
    (void)state;
    assert_string_equal(picture_kind("a.svg"), "svg");
    assert_string_equal(picture_kind("a.b/c.d.png"), "png");
    assert_string_equal(picture_kind(".pdf"), "pdf");
    assert_null(picture_kind("a.gif"));
    assert_null(picture_kind("svg"));
    assert_null(picture_kind("a.svg.gz"));
    assert_null(picture_kind(""));
}

static void colours(void **state)
{
    static const float one[] = {0, 1, 0.5f, NAN, -1, 2}, two[] = {-2, 0, 2};
    struct heat_map map = map_of(one, 1, 6);
    char *svg = svg_of(&map, 1, 1, 0, 1);
    (void)state;
    assert_non_null(
        strstr(svg, "<path d=\"M0 0h1v1h-1z\" fill=\"#ffffff\"><title>0, 0: 0</title>"));
    assert_non_null(
        strstr(svg, "<path d=\"M1 0h1v1h-1z\" fill=\"#081d58\"><title>0, 1: 1</title>"));
    assert_non_null(strstr(svg, "fill=\"#a8a8a8\"><title>0, 3: not a number</title>"));
    assert_non_null(
        strstr(svg, "fill=\"#ffffff\"><title>0, 4: -1</title>")); /* beyond the scale's ends */
    assert_non_null(strstr(svg, "fill=\"#081d58\"><title>0, 5: 2</title>"));
    assert_int_equal(times(svg, "<title>"), 6);
    map = map_of(one + 1, 1, 2); /* without a scale of its own it begins at 0 */
    assert_non_null(strstr(svg_of(&map, 1, 1, 0, 0), "fill=\"#609ecb\"><title>0, 1: 0.5</title>"));
    map = map_of(two, 1, 3);
    svg = svg_of(&map, 1, 1, 0, 0); /* a value below 0: two colours */
    assert_non_null(strstr(svg, "fill=\"#081d58\"><title>0, 0: -2</title>"));
    assert_non_null(strstr(svg, "fill=\"#ffffff\"><title>0, 1: 0</title>"));
    assert_non_null(strstr(svg, "fill=\"#67000d\"><title>0, 2: 2</title>"));
}

/* A scale without a range, maps without cells, and none at all. */
static void nothing_to_see(void **state)
{
    static const float same[] = {3, 3, NAN, INFINITY};
    struct heat_map maps[3] = {map_of(same, 2, 2), map_of(same, 0, 2), map_of(same, 2, 0)};
    (void)state;
    assert_non_null(strstr(svg_of(maps, 1, 1, 0, 0), ": infinity</title>"));
    assert_int_equal(times(svg_of(maps, 3, 2, 0, 0), "<path d=\"M"), 4 + 64); /* and the scale */
    assert_non_null(strstr(svg_of(maps, 0, 1, 0, 0), "</svg>"));
    assert_int_equal(times(svg_of(maps + 1, 2, 5, 0, 0), "nan"), 0);
}

/* Names stand as they are, long ones shortened with the whole on hover; a blank label is none. */
static void names(void **state)
{
    static const float values[] = {1, 2};
    static const char *const rows[] = {"<a>"};
    char longest[200], shown[100];
    const char *columns[2] = {"b", longest};
    struct heat_map map = map_of(values, 1, 2);
    char *svg;
    (void)state;
    memset(longest, 'x', 150);
    longest[150] = '\0';
    map.row_names = rows;
    map.column_names = columns;
    map.row_label = "target";
    map.column_label = "source";
    svg = svg_of(&map, 1, 1, 0, 2);
    assert_non_null(strstr(svg, "<title>target &lt;a&gt;, source b: 1</title>"));
    memset(shown, 'x', 80);
    shown[0] = '>';
    strcpy(shown + 80, "\xE2\x80\xA6</text>");
    assert_int_equal(times(svg, shown), 1);
    assert_int_equal(times(svg, longest), 1);
}

// -----------------------------------------------------------------------------------------------
// The image of a large map
// -----------------------------------------------------------------------------------------------

static size_t from_base64(const char *text, unsigned char *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t n = 0;
    int held = 0;
    for (; *text != '=' && *text != '"'; text++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, *text) - digits);
        if ((held += 6) >= 8) to[n++] = (unsigned char)(bits >> (held -= 8) & 255);
    }
    return n;
}

static uint32_t number_at(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* A chunk of that type and size; returns what is behind it. */
static const unsigned char *chunk(const unsigned char *at, const char *type, uint32_t bytes)
{
    assert_int_equal(number_at(at), bytes);
    assert_memory_equal(at + 4, type, 4);
    assert_int_equal(number_at(at + 8 + bytes), picture__crc(at + 4, bytes + 4));
    return at + 12 + bytes;
}

static void image(void **state)
{
    enum {
        ROWS = 300,
        COLUMNS = 250,
        LINE = 5 + 1 + COLUMNS
    }; /* the header of a block, a filter, pixels */
    static float values[ROWS * COLUMNS];
    static unsigned char png[200000];
    struct heat_map map = map_of(values, ROWS, COLUMNS);
    const unsigned char *at = png, *data;
    uint32_t low = 1, high = 0;
    char *svg;
    int i, j;
    (void)state;
    assert_int_equal(picture__crc((const unsigned char *)"123456789", 9), 0xCBF43926);
    for (i = 0; i < ROWS * COLUMNS; i++) values[i] = (float)(i % 1000) / 999;
    values[7] = NAN;
    svg = svg_of(&map, 1, 1, 0, 1);
    assert_int_equal(times(svg, "<image "), 1);
    svg = strstr(svg, "base64,") + 7;
    assert_true(from_base64(svg, png) < sizeof png);
    assert_int_equal((strchr(svg, '"') - svg) % 4, 0);
    assert_int_equal(strcspn(svg, "\"") - strcspn(svg, "=\""), (3 - from_base64(svg, png) % 3) % 3);
    assert_memory_equal(at, "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(number_at(at + 16), COLUMNS);
    assert_int_equal(number_at(at + 20), ROWS);
    at = chunk(at + 8, "IHDR", 13);
    assert_memory_equal(at + 8, "\xff\xff\xff", 3); /* the palette: from white ... */
    assert_memory_equal(at + 8 + 3 * 254, "\x08\x1d\x58\xa8\xa8\xa8", 6);
    at = chunk(at, "PLTE", 768);
    data = at + 10;
    assert_int_equal((at[8] << 8 | at[9]) % 31, 0); /* zlib's header */
    for (i = 0; i < ROWS; i++, data += LINE) {
        assert_int_equal(data[0], i == ROWS - 1);
        assert_int_equal(data[1] | data[2] << 8, COLUMNS + 1);
        assert_int_equal((data[1] | data[2] << 8) ^ (data[3] | data[4] << 8), 0xFFFF);
        for (j = 0; j <= COLUMNS; j++) {
            int step = !j                 ? 0
                       : i == 0 && j == 8 ? 255
                                          : (int)lround((double)values[i * COLUMNS + j - 1] * 254);
            assert_int_equal(data[5 + j], step);
            low = (low + data[5 + j]) % 65521;
            high = (high + low) % 65521;
        }
    }
    assert_int_equal(number_at(data), high << 16 | low);
    at = chunk(at, "IDAT", 2 + ROWS * LINE + 4);
    assert_true(chunk(at, "IEND", 0) == png + from_base64(svg, png));
}

/* Blocks over an image have means, and a value that is no number is not hidden in one. */
static void blocks(void **state)
{
    static float values[400 * 400];
    struct heat_map map = map_of(values, 400, 400);
    char *svg;
    int i;
    (void)state;
    for (i = 0; i < 400 * 400; i++) values[i] = (float)(i / 400 / 3 % 2);
    values[0] = NAN;
    svg = svg_of(&map, 1, 1, 0, 1);
    assert_int_equal(times(svg, "<title>"), 134 * 134);
    assert_non_null(strstr(svg, "<title>0 to 2, 0 to 2: mean not a number</title>"));
    assert_non_null(strstr(svg, "<title>3 to 5, 0 to 2: mean 1</title>"));
    assert_non_null(strstr(svg, "<title>399, 399: 1</title>"));
}

// -----------------------------------------------------------------------------------------------
// Curves and terminals
// -----------------------------------------------------------------------------------------------

static void strings(void **state)
{
    static const char *const pairs[][2] = {
        {"a 'b' \"c\" $d @e `f` \\n", "'a \xE2\x80\x99"
                                      "b\xE2\x80\x99 \"c\" $d @e `f` \\n'"},
        {"\xF0\x9F\x98\x80\xEE\x80\x80", "'" BAD BAD "'"}, /* no font has them */
        {"a\nb\x1B", "'a b" BAD "'"},
        {"", "''"},
        {"0123456789abcdef", "'01234\xE2\x80\xA6"
                             "bcdef'"}};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        FILE *file = tmpfile();
        picture__string(file, pairs[i][0], i == 4 ? 10 : 80);
        assert_string_equal(text_of(file), pairs[i][1]);
    }
}

static struct curve curve_of(const double *x, const double *y, long n)
{
    struct curve c;
    memset(&c, 0, sizeof c);
    c.x = x;
    c.y = y;
    c.n = n;
    return c;
}

static char *points_of(const struct curve *c, int alone, int log_y)
{
    struct panel panel;
    FILE *file = tmpfile();
    memset(&panel, 0, sizeof panel);
    panel.log_y = log_y;
    if (alone) picture__write_single(file, &panel, c);
    else picture__write_points(file, &panel, c);
    return text_of(file);
}

static void interrupted(void **state)
{
    static const double x[] = {1, 2, 3, 4, 5, 6}, y[] = {1, NAN, 3, INFINITY, 5, -6}, one[] = {7};
    struct curve c = curve_of(x, y, 6), point = curve_of(one, one, 1);
    (void)state;
    assert_string_equal(points_of(&c, 0, 0), "1 1\n\n3 3\n\n5 5\n6 -6\n");
    assert_string_equal(points_of(&c, 1, 0), "1 1\n3 3\n");
    assert_string_equal(points_of(&c, 0, 1), "1 1\n\n3 3\n\n5 5\n\n"); /* -6 has no logarithm */
    assert_string_equal(points_of(&c, 1, 1), "1 1\n3 3\n5 5\n");
    assert_string_equal(points_of(&point, 1, 0), "7 7\n");
}

/* Of many points few are drawn, but the ends and every spike are, in order. */
static void thinned(void **state)
{
    enum { N = 1000000 };
    static double x[N], y[N];
    double before = -1, a, b;
    struct curve c = curve_of(x, y, N);
    int i, n = 0, up = 0, down = 0, used;
    const char *at;
    (void)state;
    for (i = 0; i < N; i++) x[i] = i, y[i] = sin(i);
    y[123456] = 50;
    y[654321] = -50;
    for (at = points_of(&c, 0, 0); sscanf(at, "%lf %lf\n%n", &a, &b, &used) == 2; at += used, n++) {
        if (!n) assert_true(a == 0);
        assert_true(a > before);
        before = a;
        up += b == 50;
        down += b == -50;
    }
    assert_true(!*at && before == N - 1);
    assert_int_equal(up + 10 * down, 11);
    assert_in_range(n, 1000, PICTURE_MOST_POINTS + 4);
}

/* Where axes begin. */
static void axes(void **state)
{
    static const double x[] = {50, 1000}, y[] = {2, 3}, below[] = {-1, 3}, far[] = {900, 1000};
    static const struct {
        const double *x, *y;
        int from_zero, log_y;
        double x_low, x_high;
        const char *x_range, *y_range;
    } cases[] = {{x, y, 0, 0, 0, 0, "set xrange [0:1050]", "set yrange [*:*]"},
                 {x, y, 1, 0, 0, 0, "set xrange [0:1050]", "set yrange [0:3.1"},
                 {x, below, 1, 0, 0, 0, "set xrange [0:1050]", "set yrange [*:*]"},
                 {far, y, 0, 1, 0, 0, "set xrange [*:*]", "set logscale y\nset yrange [*:*]"},
                 {far, y, 0, 0, 0, 2000, "set xrange [0:2000]", "set yrange [*:*]"}};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct curve c = curve_of(cases[i].x, cases[i].y, 2);
        struct panel panel;
        FILE *file = tmpfile();
        long single;
        char *script;
        memset(&panel, 0, sizeof panel);
        panel.curves = &c;
        panel.n = 1;
        panel.from_zero = cases[i].from_zero;
        panel.log_y = cases[i].log_y;
        panel.x_low = cases[i].x_low;
        panel.x_high = cases[i].x_high;
        picture__write_panel(file, &panel, 0, 75, 0, &single);
        script = text_of(file);
        assert_non_null(strstr(script, cases[i].x_range));
        assert_non_null(strstr(script, cases[i].y_range));
    }
}

static void terminal(void **state)
{
    static const float values[] = {0, 0.5f, 1, -1, NAN, 0};
    static const char *const rows[] = {"a", "\xE6\xBC\xA2"}, *const columns[] = {"one", "e\xCC\x81",
                                                                                 "x\x1B"};
    struct heat_map map = map_of(values, 2, 3);
    FILE *file = tmpfile();
    (void)state;
    map.title = "t\x1B[2J";
    map.row_names = rows;
    map.column_names = columns;
    picture_heat_text(file, &map, -1, 1);
    assert_string_equal(text_of(file),
                        "t" BAD "[2J\n"
                        "   o     \n"
                        "   n   x \n"
                        "   e e\xCC\x81 " BAD " \n"
                        " a   \xE2\x96\x92\xE2\x96\x92\xE2\x96\x88\xE2\x96\x88\n"
                        "\xE6\xBC\xA2 ##\?\?  \n"
                        "[##] -1  [==] -0.75  [--] -0.5  [..] -0.25  [  ] 0  "
                        "[\xE2\x96\x91\xE2\x96\x91] 0.25  [\xE2\x96\x92\xE2\x96\x92] 0.5  "
                        "[\xE2\x96\x93\xE2\x96\x93] 0.75  [\xE2\x96\x88\xE2\x96\x88] 1\n");
}

static void without_gnuplot(void **state)
{
    static const double one[] = {1};
    struct curve c = curve_of(one, one, 1);
    struct panel panel;
    char message[200], *path = strdup(getenv("PATH"));
    FILE *file = tmpfile();
    (void)state;
    memset(&panel, 0, sizeof panel);
    panel.curves = &c;
    panel.n = 1;
    setenv("PATH", "/nonexistent", 1);
    assert_int_equal(picture_curves_to(file, "svg", &panel, 1, 1, message, sizeof message), 1);
    setenv("PATH", path, 1);
    free(path);
    assert_string_equal(message, "gnuplot, which draws curves, is not installed");
    assert_int_equal(picture_curves_to(file, "svg", &panel, 0, 1, message, sizeof message), 1);
    assert_string_equal(message, "there is nothing to draw");
    assert_string_equal(text_of(file), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escaped),     cmocka_unit_test(columns_of_text), cmocka_unit_test(kinds),
        cmocka_unit_test(colours),     cmocka_unit_test(nothing_to_see),  cmocka_unit_test(names),
        cmocka_unit_test(image),       cmocka_unit_test(blocks),          cmocka_unit_test(strings),
        cmocka_unit_test(interrupted), cmocka_unit_test(thinned),         cmocka_unit_test(axes),
        cmocka_unit_test(terminal),    cmocka_unit_test(without_gnuplot)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

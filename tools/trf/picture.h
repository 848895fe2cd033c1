// Pictures for trf and for examples/studies: heat maps as SVG, curves by gnuplot.
// SPDX-License-Identifier: MIT
//
// One file of static functions; POSIX is enough to compile it. A heat map is written by the lines
// below. Curves are drawn by gnuplot, which has to be installed; where it is not, picture_curves
// returns 1 and a sentence about it. Every picture has a white background of its own, so it is
// legible in light and in dark browsers. Text may be of unknown origin: nothing in it can end a
// tag, a string of gnuplot's, or drive a terminal.

#ifndef TRF_PICTURE_H
#define TRF_PICTURE_H

#if !defined(_GNU_SOURCE) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define PICTURE static __attribute__((unused))

// -----------------------------------------------------------------------------------------------
// What a picture is made of. A struct that is zero has a sensible value in every field.
// -----------------------------------------------------------------------------------------------

struct heat_map {
    const char *title;
    const float *values; /* row i begins at values + i * stride */
    long rows, columns, stride; /* stride 0: columns */
    const char *const *row_names, *const *column_names; /* NULL: numbers from 0 */
    const char *row_label, *column_label; /* what they are ("target", "source"), or NULL */
};

struct curve {
    const char *name; /* NULL: not in the key */
    const double *x, *y; /* what is not finite interrupts the line */
    long n;
    int points; /* 1: a mark at each point, too */
    int color; /* 0: by its place in the panel; 1, 2, ...: that colour */
    int thin; /* 1: a thin, pale line, for what is behind another curve */
};

struct panel {
    const char *title, *x_label, *y_label;
    const struct curve *curves;
    int n;
    int log_x, log_y;
    int from_zero; /* 1: the y axis begins at 0, unless a value is below */
    double x_low, x_high; /* the ends of the x axis; equal: from the curves */
};

/* A grid of maps with `across` maps in a row, and one scale. low == high: the scale follows from
   the values. A low below 0: two colours, white at 0. Returns 1 where `to` cannot be written or
   memory is short. */
PICTURE int picture_heat_maps(FILE *to, const char *title, const struct heat_map *maps, int n,
                              int across, double low, double high);
/* The same as "svg", or by gnuplot as "png" or "pdf". Returns 0, or 1 and a sentence in message. */
PICTURE int picture_heat_maps_to(FILE *to, const char *kind, const char *title,
                                 const struct heat_map *maps, int n, int across, double low,
                                 double high, char *message, size_t size);
/* One map for the terminal, in shades. A map that is too wide is printed in strips, a very large
   one in means. */
PICTURE void picture_heat_text(FILE *to, const struct heat_map *map, double low, double high);

/* Panels with curves. The path ends in .svg, .png or .pdf and is replaced; NULL: text on standard
   output. Returns 0, or 1 and a sentence in message. */
PICTURE int picture_curves(const char *path, const struct panel *panels, int n, int across,
                           char *message, size_t size);
/* The same into a file that is open. kind: "svg", "png", "pdf", "text" for a terminal, or "page": a
   narrow SVG without a background, to stand in a page. */
PICTURE int picture_curves_to(FILE *to, const char *kind, const struct panel *panels, int n,
                              int across, char *message, size_t size);

/* Pictures of SVG that were written to files, one below another. Returns 1 as picture_heat_maps. */
PICTURE int picture_stack(FILE *to, FILE *const *pictures, int n);

/* Text for XML and HTML, attributes included. Control characters except tab and line feed, and
   bytes that are no UTF-8, become U+FFFD. */
PICTURE void picture_escape(FILE *to, const char *text);
/* All bytes of a file behind another's; 1: an error of reading or writing. */
PICTURE int picture_copy(FILE *from, FILE *to);
/* Columns that a text takes in a terminal. */
PICTURE int picture_columns(const char *text);
/* "svg", "png", "pdf", or NULL: by the end of a path. */
PICTURE const char *picture_kind(const char *path);

// -----------------------------------------------------------------------------------------------
// Text
// -----------------------------------------------------------------------------------------------

/* The next code point. What cannot be shown, or is no UTF-8, is U+FFFD. */
PICTURE uint32_t picture__next(const char **at)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)*at;
    int n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3
            : s[0] < 0xF5 ? 4 : 0, i;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7Fu >> n);
    for (i = 1; i < n && (s[i] & 0xC0) == 0x80; i++) c = c << 6 | (s[i] & 0x3Fu);
    if (i < n || !n || c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
        *at += 1;
        return 0xFFFD;
    }
    *at += n;
    if ((c < 0x20 && c != '\t' && c != '\n') || (c >= 0x7F && c < 0xA0) || (c & 0xFFFE) == 0xFFFE)
        return 0xFFFD;
    return c;
}

PICTURE void picture__put(FILE *to, uint32_t c)
{
    if (c < 0x80) putc((int)c, to);
    else if (c < 0x800) fprintf(to, "%c%c", (int)(0xC0 | c >> 6), (int)(0x80 | (c & 0x3F)));
    else if (c < 0x10000)
        fprintf(to, "%c%c%c", (int)(0xE0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3F)),
                (int)(0x80 | (c & 0x3F)));
    else
        fprintf(to, "%c%c%c%c", (int)(0xF0 | c >> 18), (int)(0x80 | (c >> 12 & 0x3F)),
                (int)(0x80 | (c >> 6 & 0x3F)), (int)(0x80 | (c & 0x3F)));
}

PICTURE void picture__put_escaped(FILE *to, uint32_t c)
{
    if (c == '&') fputs("&amp;", to);
    else if (c == '<') fputs("&lt;", to);
    else if (c == '>') fputs("&gt;", to);
    else if (c == '"') fputs("&quot;", to);
    else if (c == '\'') fputs("&#39;", to);
    else picture__put(to, c);
}

PICTURE void picture_escape(FILE *to, const char *text)
{
    while (*text) picture__put_escaped(to, picture__next(&text));
}

/* 0: drawn over the character before it, 2: as wide as two letters, else 1. */
PICTURE int picture__wide(uint32_t c)
{
    static const struct {
        uint32_t first, last;
        int width;
    } range[] = {
        {0x300, 0x36F, 0},    {0x483, 0x489, 0},   {0x591, 0x5BD, 0},   {0x610, 0x61A, 0},
        {0x64B, 0x65F, 0},    {0x93C, 0x93C, 0},   {0x941, 0x948, 0},   {0x94D, 0x94D, 0},
        {0xE31, 0xE31, 0},    {0xE34, 0xE3A, 0},   {0xE47, 0xE4E, 0},   {0x1AB0, 0x1AFF, 0},
        {0x1DC0, 0x1DFF, 0},  {0x200B, 0x200F, 0}, {0x202A, 0x202E, 0}, {0x2060, 0x206F, 0},
        {0x20D0, 0x20FF, 0},  {0xFE00, 0xFE0F, 0}, {0xFE20, 0xFE2F, 0}, {0xFEFF, 0xFEFF, 0},
        {0x1100, 0x115F, 2},  {0x2E80, 0xA4CF, 2}, {0xAC00, 0xD7A3, 2}, {0xF900, 0xFAFF, 2},
        {0xFE30, 0xFE6F, 2},  {0xFF00, 0xFF60, 2}, {0xFFE0, 0xFFE6, 2}, {0x1F300, 0x1FAFF, 2},
        {0x20000, 0x3FFFD, 2}};
    size_t i;
    for (i = 0; i < sizeof range / sizeof *range; i++)
        if (c >= range[i].first && c <= range[i].last) return range[i].width;
    return 1;
}

PICTURE int picture_columns(const char *text)
{
    int width = 0;
    while (*text) width += picture__wide(picture__next(&text));
    return width;
}

/* Characters of a name in a picture; the rest is in the text on hover. */
enum { PICTURE_LONGEST = 80 };

/* Where a name is cut: NULL, or behind its first PICTURE_LONGEST - 1 characters. */
PICTURE const char *picture__cut(const char *text)
{
    const char *at = text, *cut = text;
    int n;
    for (n = 0; *at && n < PICTURE_LONGEST; n++) {
        if (n == PICTURE_LONGEST - 1) cut = at;
        picture__next(&at);
    }
    return *at ? cut : NULL;
}

/* The width of a name in a sans-serif font whose size is 1, rather too much than too little. */
PICTURE double picture__ems(const char *text)
{
    const char *cut = picture__cut(text);
    double width = cut ? 1 : 0;
    while (*text && text != cut) {
        uint32_t c = picture__next(&text);
        int wide = picture__wide(c);
        if (wide != 1) width += 0.55 * wide;
        else if (c < 0x80 && strchr("ijl.,:;'|!ftr()[] ", (int)c)) width += 0.42;
        else if (c < 0x80 && strchr("mwMW@%", (int)c)) width += 1;
        else width += c >= 'A' && c <= 'Z' ? 0.76 : c >= 0x2000 ? 0.9 : 0.65;
    }
    return width;
}

/* A name, shortened where it is very long. */
PICTURE void picture__name(FILE *to, const char *text)
{
    const char *cut = picture__cut(text);
    while (*text && text != cut) {
        uint32_t c = picture__next(&text);
        picture__put_escaped(to, c == '\n' || c == '\t' ? ' ' : c);
    }
    if (cut) fputs("\xE2\x80\xA6", to);
}

// -----------------------------------------------------------------------------------------------
// Colours: 255 steps of a scale, and one for what is no number
// -----------------------------------------------------------------------------------------------

enum { PICTURE_STEPS = 255 };

struct picture__scale {
    double low, high;
    int two_colours;
};

PICTURE float picture__value(const struct heat_map *map, long row, long column)
{
    return map->values[row * (map->stride ? map->stride : map->columns) + column];
}

PICTURE struct picture__scale picture__scale_of(const struct heat_map *maps, int n, double low,
                                                double high)
{
    struct picture__scale scale;
    long i, j;
    int k;
    if (!(low < high)) {
        low = HUGE_VAL, high = -HUGE_VAL;
        for (k = 0; k < n; k++)
            for (i = 0; i < maps[k].rows; i++)
                for (j = 0; j < maps[k].columns; j++) {
                    double x = (double)picture__value(&maps[k], i, j);
                    if (!isfinite(x)) continue;
                    low = fmin(low, x);
                    high = fmax(high, x);
                }
        if (low > high) low = 0, high = 1;
        if (low >= 0) low = 0;
        if (high <= low) high = low + 1;
    }
    if (low < 0) { /* white is 0 */
        high = fmax(-low, high);
        low = -high;
    }
    scale.low = low;
    scale.high = high;
    scale.two_colours = low < 0;
    return scale;
}

PICTURE int picture__step(const struct picture__scale *scale, double x)
{
    double share = (x - scale->low) / (scale->high - scale->low);
    if (isnan(share)) return PICTURE_STEPS;
    return (int)lround(fmin(fmax(share, 0), 1) * (PICTURE_STEPS - 1));
}

/* Between white and a dark colour the lightness falls evenly. */
PICTURE uint32_t picture__colour(const struct picture__scale *scale, int step)
{
    static const double blue[4][3] = {
        {255, 255, 255}, {158, 202, 225}, {33, 113, 181}, {8, 29, 88}};
    static const double red[4][3] = {{255, 255, 255}, {252, 174, 145}, {222, 45, 38}, {103, 0, 13}};
    const double(*stop)[3] = blue;
    double share = (double)step / (PICTURE_STEPS - 1), part;
    uint32_t rgb = 0;
    int i, k;
    if (step == PICTURE_STEPS) return 0xA8A8A8;
    if (scale->two_colours) {
        if (share > 0.5) stop = red;
        share = fabs(share - 0.5) * 2;
    }
    k = share >= 1 ? 2 : (int)(share * 3);
    part = share * 3 - k;
    for (i = 0; i < 3; i++)
        rgb = rgb << 8 | (uint32_t)lround(stop[k][i] + part * (stop[k + 1][i] - stop[k][i]));
    return rgb;
}

// -----------------------------------------------------------------------------------------------
// A large map is an image: PNG with a palette, not compressed, in base64
// -----------------------------------------------------------------------------------------------

enum { PICTURE_PIXELS = 2000 }; /* of an image's side; beyond that a pixel is a mean */

struct picture__bytes {
    unsigned char *at;
    size_t n;
};

PICTURE void picture__big_endian(struct picture__bytes *b, uint32_t x)
{
    int i;
    for (i = 24; i >= 0; i -= 8) b->at[b->n++] = (unsigned char)(x >> i);
}

PICTURE uint32_t picture__crc(const unsigned char *at, size_t n)
{
    uint32_t crc = 0xFFFFFFFFu;
    size_t i;
    int bit;
    for (i = 0; i < n; i++) {
        crc ^= at[i];
        for (bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

PICTURE size_t picture__begin_chunk(struct picture__bytes *b, const char *type)
{
    picture__big_endian(b, 0);
    memcpy(b->at + b->n, type, 4);
    b->n += 4;
    return b->n;
}

PICTURE void picture__end_chunk(struct picture__bytes *b, size_t begin)
{
    struct picture__bytes length = {b->at, begin - 8};
    picture__big_endian(&length, (uint32_t)(b->n - begin));
    picture__big_endian(b, picture__crc(b->at + begin - 4, b->n - begin + 4));
}

/* The pixels' steps, a row after another, behind each other in stored blocks of zlib's format. */
PICTURE void picture__pixels(struct picture__bytes *b, const unsigned char *steps, long width,
                             long height)
{
    uint32_t low = 1, high = 0;
    long row;
    b->at[b->n++] = 0x78;
    b->at[b->n++] = 0x01;
    for (row = 0; row < height; row++) { /* a block: one byte for the filter, and the pixels */
        unsigned length = (unsigned)width + 1, i;
        b->at[b->n++] = row == height - 1;
        b->at[b->n++] = (unsigned char)(length & 0xFF);
        b->at[b->n++] = (unsigned char)(length >> 8);
        b->at[b->n++] = (unsigned char)(~length & 0xFF);
        b->at[b->n++] = (unsigned char)(~length >> 8 & 0xFF);
        b->at[b->n++] = 0;
        memcpy(b->at + b->n, steps + row * width, (size_t)width);
        for (i = 0; i < length; i++) {
            low = (low + b->at[b->n - 1 + i]) % 65521;
            high = (high + low) % 65521;
        }
        b->n += (size_t)width;
    }
    picture__big_endian(b, high << 16 | low);
}

PICTURE void picture__base64(FILE *to, const struct picture__bytes *b)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t i;
    for (i = 0; i < b->n; i += 3) {
        uint32_t x = (uint32_t)b->at[i] << 16;
        if (i + 1 < b->n) x |= (uint32_t)b->at[i + 1] << 8;
        if (i + 2 < b->n) x |= b->at[i + 2];
        putc(digit[x >> 18], to);
        putc(digit[x >> 12 & 63], to);
        putc(i + 1 < b->n ? digit[x >> 6 & 63] : '=', to);
        putc(i + 2 < b->n ? digit[x & 63] : '=', to);
    }
}

PICTURE int picture__png(FILE *to, const unsigned char *steps, long width, long height,
                         const struct picture__scale *scale)
{
    struct picture__bytes b = {NULL, 0};
    size_t begin;
    int i;
    b.at = (unsigned char *)malloc((size_t)height * ((size_t)width + 6) + 2048);
    if (!b.at) return 1;
    memcpy(b.at, "\x89PNG\r\n\x1a\n", 8);
    b.n = 8;
    begin = picture__begin_chunk(&b, "IHDR");
    picture__big_endian(&b, (uint32_t)width);
    picture__big_endian(&b, (uint32_t)height);
    memcpy(b.at + b.n, "\x08\x03\x00\x00\x00", 5); /* eight bits a pixel, of a palette */
    b.n += 5;
    picture__end_chunk(&b, begin);
    begin = picture__begin_chunk(&b, "PLTE");
    for (i = 0; i <= PICTURE_STEPS; i++) {
        uint32_t rgb = picture__colour(scale, i);
        b.at[b.n++] = (unsigned char)(rgb >> 16);
        b.at[b.n++] = (unsigned char)(rgb >> 8 & 0xFF);
        b.at[b.n++] = (unsigned char)(rgb & 0xFF);
    }
    picture__end_chunk(&b, begin);
    begin = picture__begin_chunk(&b, "IDAT");
    picture__pixels(&b, steps, width, height);
    picture__end_chunk(&b, begin);
    picture__end_chunk(&b, picture__begin_chunk(&b, "IEND"));
    picture__base64(to, &b);
    free(b.at);
    return 0;
}

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
    int turned;
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

/* Every which label has room for `pixels`: 1, 2, 5, 10, 20 ... */
PICTURE long picture__every(double cell, double pixels)
{
    long step = 1, next = 2;
    while ((double)step * cell < pixels && step < 1000000000) {
        step = next;
        next = step % 9 == 2 ? step / 2 * 5 : step * 2;
    }
    return step;
}

/* The size of n cells for which there are about `room` pixels. Names want cells that are as high as
   a line. */
PICTURE double picture__cell(long n, double room, int names)
{
    double cell = floor(room / (double)n);
    if (names && n <= 200) return fmin(fmax(cell, PICTURE_FONT + 4), 30);
    return cell >= 1 ? fmin(cell, 30) : room / (double)n;
}

PICTURE struct picture__map picture__layout(const struct heat_map *map, double room)
{
    struct picture__map m = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    double names = picture__longest(map->column_names, map->columns), more, less;
    m.cell_width = picture__cell(map->columns, room, map->column_names != NULL);
    m.cell_height = picture__cell(map->rows, room, map->row_names != NULL);
    more = fmax(m.cell_width, m.cell_height);
    less = fmin(m.cell_width, m.cell_height);
    if (more > 3 * less) { /* neither stripes nor tiny squares, but names keep their room */
        if (!map->column_names || map->columns > 200) m.cell_width = fmin(m.cell_width, 3 * less);
        if (!map->row_names || map->rows > 200) m.cell_height = fmin(m.cell_height, 3 * less);
    } else m.cell_width = m.cell_height = map->column_names || map->row_names ? more : less;
    m.row_step = picture__every(m.cell_height, PICTURE_FONT + 2);
    m.turned = map->column_names && names + 4 > m.cell_width;
    m.column_step = picture__every(m.cell_width, m.turned ? PICTURE_FONT + 2 : names + 4);
    m.left =
        picture__longest(map->row_names, map->rows) + 12 + (map->row_label ? PICTURE_FONT + 6 : 0);
    m.top = (m.turned ? names + 8 : PICTURE_FONT + 8) + (map->column_label ? PICTURE_FONT + 6 : 0) +
            (map->title ? 24 : 0);
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
PICTURE void picture__put_place(FILE *to, const char *axis, const char *const *names, long at,
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
    picture__put_place(to, map->row_label, map->row_names, row, down);
    fputs(", ", to);
    picture__put_place(to, map->column_label, map->column_names, column, wide);
    fputs(down > 1 || wide > 1 ? ": mean " : ": ", to);
    picture__value_text(to, x);
    fputs("</title>", to);
}

/* Of a block that ends with the map. One value that is no number hides in a mean: the block is no
   number either. */
PICTURE double picture__mean(const struct heat_map *map, long row, long column, long down,
                             long wide)
{
    double sum = 0;
    long i, j;
    for (i = row; i < row + down; i++)
        for (j = column; j < column + wide; j++) sum += (double)picture__value(map, i, j);
    return sum / ((double)down * (double)wide);
}

PICTURE long picture__least(long a, long b) { return a < b ? a : b; }

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
                scale,
                picture__mean(map, i * down, j * side, picture__least(down, map->rows - i * down),
                              picture__least(side, map->columns - j * side)));
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

PICTURE void picture__axes(FILE *to, const struct heat_map *map, const struct picture__map *m)
{
    double label = map->title ? 24 : 0;
    char number[32];
    long i;
    if (map->title) {
        fputs("<text y=\"14\" font-size=\"14\" font-weight=\"bold\">", to);
        picture__name(to, map->title);
        fputs("</text>\n", to);
    }
    if (map->column_label) {
        fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" font-style=\"italic\">", m->left,
                label + PICTURE_FONT);
        picture__name(to, map->column_label);
        fputs("</text>\n", to);
    }
    if (map->row_label) {
        fprintf(to,
                "<text transform=\"translate(%d %.1f) rotate(-90)\" text-anchor=\"end\" "
                "font-style=\"italic\">",
                PICTURE_FONT, m->top);
        picture__name(to, map->row_label);
        fputs("</text>\n", to);
    }
    for (i = 0; i < map->columns; i += m->column_step) {
        double x = m->left + ((double)i + 0.5) * m->cell_width;
        if (m->turned)
            fprintf(to, "<text transform=\"translate(%.1f %.1f) rotate(-90)\">", x + 4, m->top - 5);
        else fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x, m->top - 5);
        picture__name(to, picture__label(map->column_names, i, number));
        fputs("</text>\n", to);
    }
    for (i = 0; i < map->rows; i += m->row_step) {
        fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", m->left - 6,
                m->top + ((double)i + 0.5) * m->cell_height + 4);
        picture__name(to, picture__label(map->row_names, i, number));
        fputs("</text>\n", to);
    }
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
    picture__axes(to, map, m);
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

/* Where everything lies in a grid of maps, in pixels. */
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
        int room = g->across == 1 ? 640 : g->across == 2 ? 420 : 260;
        g->maps[i] = picture__layout(&maps[i], room);
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
    struct picture__grid g;
    int i, status = 0;
    if (picture__place(&g, title, maps, n, across)) return 1;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"%d\" "
            "fill=\"#222\" xml:space=\"preserve\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            g.width, g.height, g.width, g.height, PICTURE_FONT);
    if (title) {
        fputs("<text x=\"12\" y=\"23\" font-size=\"16\" font-weight=\"bold\">", to);
        picture__name(to, title);
        fputs("</text>\n", to);
    }
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
        scale->two_colours ? x / scale->high : (x - scale->low) / (scale->high - scale->low);
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
    for (i = scale->two_colours ? -4 : 0; i <= 4; i++) {
        double x = scale->two_colours ? scale->high * i / 4
                                      : scale->low + (scale->high - scale->low) * i / 4;
        fprintf(to, "%s[%s] %.3g", i == -4 || (!i && !scale->two_colours) ? "" : "  ",
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
            fputs(
                picture__shade(scale, picture__mean(map, i, j, picture__least(down, map->rows - i),
                                                    picture__least(side, map->columns - j))),
                to);
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

/* A character between gnuplot's single quotes, where nothing but a quote means anything; a string
   that begins with a doubled one is misread, so it is the apostrophe instead. A character that no
   font has may be drawn over the whole picture: emoji and private characters are U+FFFD. */
PICTURE void picture__put_quoted(FILE *script, uint32_t c)
{
    int unusual = (c >= 0xE000 && c < 0xF900) || (c >= 0xFE00 && c < 0xFE10) ||
                  (c >= 0x1F000 && c < 0x20000) || c >= 0xE0000;
    if (c == '\'') c = 0x2019;
    picture__put(script, unusual ? 0xFFFD : c == '\n' || c == '\t' ? ' ' : c);
}

/* A string of gnuplot's. Of more than `most` columns the middle is left out. */
PICTURE void picture__string(FILE *script, const char *text, int most)
{
    int columns = text ? picture_columns(text) : 0, at = 0, before = -1;
    putc('\'', script);
    while (text && *text) {
        uint32_t c = picture__next(&text);
        at += picture__wide(c);
        if (columns > most && at > most / 2 && at <= columns - most / 2) {
            if (before < 0) fputs("\xE2\x80\xA6", script);
            before = at;
            continue;
        }
        picture__put_quoted(script, c);
    }
    putc('\'', script);
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
PICTURE unsigned picture__curve_colour(const struct curve *c, int place)
{
    static const unsigned colour[PICTURE_COLOURS] = {0x1F6FB4, 0xD1495B, 0x2A9D5C, 0xE08E0B,
                                                     0x7B52AB, 0x1AA5B8, 0x8C564B, 0x555555};
    unsigned rgb = colour[place % PICTURE_COLOURS], pale = 0;
    int i;
    for (i = 16; i >= 0; i -= 8) pale |= (255 - (255 - (rgb >> i & 255)) * 11 / 20) << i;
    return c->thin ? pale : rgb;
}

PICTURE void picture__write_curve(FILE *script, const struct panel *p, int text, int panel, int k,
                                  long single)
{
    const struct curve *c = &p->curves[k];
    int place = c->color > 0 ? c->color - 1 : k;
    unsigned rgb = picture__curve_colour(c, place);
    fprintf(script, "$d%d_%d with %s ", panel, k, c->points ? "linespoints" : "lines");
    if (text) fprintf(script, "lt %d ", k + 1);
    else
        fprintf(script, "lc rgb '#%06x' dt %d lw %s %s", rgb, place / PICTURE_COLOURS % 4 + 1,
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

/* Lines of the key, with as many names in a line as there is room for. */
PICTURE int picture__key_lines(const struct panel *p, int room)
{
    int named = 0, longest = 1, in_a_line, k;
    for (k = 0; k < p->n; k++) {
        const char *name = p->curves[k].name;
        int columns = name ? picture_columns(name) + 6 : 0;
        if (columns > PICTURE_KEY + 6) columns = PICTURE_KEY + 6;
        named += name != NULL;
        if (columns > longest) longest = columns;
    }
    in_a_line = room > longest ? room / longest : 1;
    return (named + in_a_line - 1) / in_a_line;
}

PICTURE void picture__write_panel(FILE *script, const struct panel *p, int text, int room,
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
    fprintf(script, "\nunset label\nset key maxrows %d\n", picture__key_lines(p, room) + 1);
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
PICTURE int picture__most_lines(const struct panel *panels, int n, int room)
{
    int i, most = 0;
    for (i = 0; i < n; i++) {
        int lines = picture__key_lines(&panels[i], room);
        if (lines > most) most = lines;
    }
    return most;
}

PICTURE int picture__write_script(FILE *script, const char *kind, int columns,
                                  const struct panel *panels, int n, int across)
{
    int down = (n + across - 1) / across, text = !strcmp(kind, "text"), i, most = 1;
    int room = across == 1 ? 130 : 75;  /* letters of a line of the key */
    long *single;
    for (i = 0; i < n; i++)
        if (panels[i].n > most) most = panels[i].n;
    if (text) room = columns;
    else if (!strcmp(kind, "page")) room = 58;
    single = (long *)calloc((size_t)most, sizeof *single);
    if (!single) return 1;
    picture__write_terminal(script, kind, columns, across, down,
                            picture__most_lines(panels, n, room) * down);
    fprintf(script,
            "set multiplot layout %d,%d\nset key below Left reverse height %d\nset format '%%g'\n",
            down, across, !text);
    if (!text)
        fputs("set grid lc rgb '#c8c8c8' lw 0.5\nset rmargin 4\nset border 3 lc rgb '#777777'\n"
              "set tics nomirror out textcolor rgb '#333333'\n", script);
    for (i = 0; i < n; i++) picture__write_panel(script, &panels[i], text, room, i, single);
    fputs("unset multiplot\n", script);
    free(single);
    return 0;
}

/* Runs gnuplot between files. Its status, 127: it is not installed, -1: errno has the reason. */
PICTURE int picture__gnuplot(FILE *script, FILE *picture, FILE *complaints)
{
    pid_t child;
    int status;
    rewind(script);
    child = fork();
    if (child < 0) return -1;
    if (!child) {
        if (dup2(fileno(script), 0) >= 0 && dup2(fileno(picture), 1) >= 0 &&
            dup2(fileno(complaints), 2) >= 0)
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

PICTURE void picture__failed(int status, FILE *complaints, char *message, size_t size)
{
    char line[200] = "";
    if (status < 0) snprintf(message, size, "cannot start gnuplot: %s", strerror(errno));
    else if (status == 127)
        snprintf(message, size, "gnuplot, which draws curves, is not installed");
    else {
        rewind(complaints);
        while (fgets(line, sizeof line, complaints) && strspn(line, " \t\n^") == strlen(line))
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(message, size, "gnuplot cannot draw the curves%s%s", *line ? ": " : "", line);
    }
}

/* What gnuplot makes of a script, behind `to`. what: "curves", ".png". */
PICTURE int picture__run(FILE *script, const char *kind, const char *what, FILE *to, char *message,
                         size_t size)
{
    FILE *picture = tmpfile(), *complaints = tmpfile();
    int svg = !strcmp(kind, "svg") || !strcmp(kind, "page"), failed = 1, status;
    if (!script || !picture || !complaints || fflush(script) || ferror(script))
        snprintf(message, size, "cannot write a temporary file for gnuplot: %s", strerror(errno));
    else if ((status = picture__gnuplot(script, picture, complaints)) == 127)
        snprintf(message, size, "gnuplot, which draws %s, is not installed", what);
    else if (status) picture__failed(status, complaints, message, size);
    else if (svg ? picture__copy_svg(picture, to) : picture_copy(picture, to))
        snprintf(message, size, "cannot write the picture: %s", strerror(errno));
    else failed = 0;
    if (picture) fclose(picture);
    if (complaints) fclose(complaints);
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

PICTURE int picture_curves(const char *path, const struct panel *panels, int n, int across,
                           char *message, size_t size)
{
    const char *kind = path ? picture_kind(path) : "text";
    FILE *drawn, *to = NULL;
    int failed;
    if (!kind) {
        snprintf(message, size, "a picture's name ends in .svg, .png or .pdf, got '%s'", path);
        return 1;
    }
    if (!path) return picture_curves_to(stdout, kind, panels, n, across, message, size);
    if (!(drawn = tmpfile())) {
        snprintf(message, size, "cannot make a temporary file: %s", strerror(errno));
        return 1;
    }
    failed = picture_curves_to(drawn, kind, panels, n, across, message, size);
    if (!failed) { /* what stands there is replaced once the new picture is complete */
        to = fopen(path, "wb");
        failed = !to || picture_copy(drawn, to);
        if (to && fclose(to)) failed = 1;
        if (failed) snprintf(message, size, "cannot write '%s': %s", path, strerror(errno));
    }
    fclose(drawn);
    return failed;
}

// -----------------------------------------------------------------------------------------------
// Heat maps by gnuplot, which lie where those of the SVG do
// -----------------------------------------------------------------------------------------------

/* A label of gnuplot's tics is a format: a '%' is written twice. */
PICTURE void picture__tic(FILE *script, const char *text, double at, int first)
{
    const char *cut = picture__cut(text);
    fputs(first ? "'" : ", '", script);
    while (*text && text != cut) {
        uint32_t c = picture__next(&text);
        if (c == '%') putc('%', script);
        picture__put_quoted(script, c);
    }
    fprintf(script, "%s' %.9g", cut ? "\xE2\x80\xA6" : "", at);
}

/* side: so many cells are one of the image. */
PICTURE void picture__tics(FILE *script, const char *axis, const char *const *names, long n,
                           long step, long side)
{
    char number[32];
    long i;
    fprintf(script, "set %s (", axis);
    for (i = 0; i < n; i += step)
        picture__tic(script, picture__label(names, i, number),
                     ((double)i + 0.5) / (double)side - 0.5, i == 0);
    fputs(")\n", script);
}

PICTURE void picture__plot_text(FILE *script, const char *text, double x, double y,
                                const struct picture__grid *g, const char *how)
{
    if (!text) return;
    fputs("set label ", script);
    picture__string(script, text, PICTURE_LONGEST);
    fprintf(script, " at screen %.6f,%.6f left %s\n", x / g->width, 1 - y / g->height, how);
}

PICTURE void picture__plot_values(FILE *script, const struct heat_map *map, long down, long side)
{
    long i, j;
    fputs("$m << end\n", script);
    for (i = 0; i < map->rows; i += down) {
        for (j = 0; j < map->columns; j += side) {
            double x = picture__mean(map, i, j, picture__least(down, map->rows - i),
                                     picture__least(side, map->columns - j));
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
    picture__plot_text(script, map->title, m->x, m->y + 9, g, "font ',11'");
    picture__plot_text(script, map->column_label, left, m->y + (map->title ? 24 : 0) + 6, g, "");
    picture__plot_text(script, map->row_label, m->x + 6,
                       top + picture__ems(map->row_label ? map->row_label : "") * PICTURE_FONT, g,
                       "rotate by 90");
    fprintf(script, "set x2tics %s\n", m->turned ? "rotate by 90" : "norotate");
    picture__tics(script, "x2tics", map->column_names, map->columns, m->column_step, side);
    picture__tics(script, "ytics", map->row_names, map->rows, m->row_step, down);
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
    double x = 12 + g->column * g->across, y = g->top + g->maps[0].top;
    int i;
    fputs("set encoding utf8\n", script);
    if (!strcmp(kind, "pdf"))
        fprintf(script, "set terminal pdfcairo size %gin,%gin font 'sans,9' ", g->width / 96,
                g->height / 96);
    else
        fprintf(script, "set terminal pngcairo size %.0f,%.0f font 'sans,9' ", g->width, g->height);
    fputs("noenhanced background rgb 'white'\nset multiplot\nunset key\nset link x2\n"
          "set border lc rgb '#888899'\nset tics nomirror scale 0 textcolor rgb '#222222'\n"
          "unset xtics\nset object 1 rectangle from graph 0,0 to graph 1,1 fs solid noborder "
          "fc rgb '#a8a8a8' behind\nset palette defined (",
          script);
    for (i = 0; i < PICTURE_STEPS; i++)
        fprintf(script, "%s%d '#%06x'", i ? "," : "", i, (unsigned)picture__colour(scale, i));
    fprintf(script, ")\nset cbrange [%.9g:%.9g]\n", scale->low, scale->high);
    fprintf(script,
            "set colorbox user origin screen %.6f,%.6f size screen %.6f,%.6f\n"
            "set cbtics %.9g\n",
            x / g->width, 1 - (y + 160) / g->height, 14 / g->width, 160 / g->height,
            (scale->high - scale->low) / 4);
    picture__plot_text(script, title, 12, 18, g, "font ',13'");
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

// -----------------------------------------------------------------------------------------------
// Several pictures in one
// -----------------------------------------------------------------------------------------------

/* A whole file, with a NUL behind it; malloc'd, or NULL. */
PICTURE char *picture__text_of(FILE *from)
{
    long n = fseek(from, 0, SEEK_END) ? -1 : ftell(from);
    char *text = n < 0 ? NULL : (char *)malloc((size_t)n + 1);
    rewind(from);
    if (text) text[fread(text, 1, (size_t)n, from)] = '\0';
    return text;
}

PICTURE double picture__size(const char *svg, const char *name)
{
    const char *at = strstr(svg, name);
    return at ? strtod(at + strlen(name), NULL) : 0;
}

PICTURE int picture_stack(FILE *to, FILE *const *pictures, int n)
{
    char **text = (char **)calloc((size_t)n + 1, sizeof *text);
    double width = 0, height = 0, y = 0;
    int i, failed = !text;
    for (i = 0; i < n && !failed; i++) {
        failed = !(text[i] = picture__text_of(pictures[i])) || !strstr(text[i], "<svg");
        if (failed) break;
        width = fmax(width, picture__size(text[i], "width=\""));
        height += picture__size(text[i], "height=\"");
    }
    if (!failed)
        fprintf(to,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                "viewBox=\"0 0 %.0f %.0f\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                width, height, width, height);
    for (i = 0; i < n && !failed; i++) {
        const char *tag = strstr(text[i], "<svg");
        fprintf(to, "<svg y=\"%.0f\"%s", y, tag + 4);
        y += picture__size(text[i], "height=\"");
    }
    if (!failed) fputs("</svg>\n", to);
    for (i = 0; i < n && text; i++) free(text[i]);
    free(text);
    return failed || ferror(to);
}

#endif

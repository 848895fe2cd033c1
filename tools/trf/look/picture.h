// Pictures for trf and for examples/studies: heat maps as SVG, curves by gnuplot.
// SPDX-License-Identifier: MIT
//
// Static functions, in this file and its three parts, which need only POSIX. They write heat maps
// themselves. gnuplot draws curves; without it, picture_curves_to returns 1 and a message.
// Every picture has its own white background, so it is legible in light and in dark browsers. Text
// may be of unknown origin: nothing in it can end a tag or a string of gnuplot, turn the
// writing direction or control a terminal.

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
    int color; /* 0: by its position in the panel; 1, 2, ...: that colour */
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

/* Panels with curves. kind: "svg", "png", "pdf", "text" for a terminal, or "page": a narrow SVG
   without a background, to stand in a page. Returns 0, or 1 and a sentence in message. */
PICTURE int picture_curves_to(FILE *to, const char *kind, const struct panel *panels, int n,
                              int across, char *message, size_t size);

/* Text for XML and HTML, attributes included. What a reader would not see, except a tab and a line
   feed, and bytes that are no UTF-8, become U+FFFD. */
PICTURE void picture_escape(FILE *to, const char *text);
/* Appends all bytes of a file to another; 1: an error of reading or writing. */
PICTURE int picture_copy(FILE *from, FILE *to);
/* Columns that a text takes in a terminal. */
PICTURE int picture_columns(const char *text);
/* "svg", "png", "pdf", or NULL: by the end of a path. */
PICTURE const char *picture_kind(const char *path);

// -----------------------------------------------------------------------------------------------
// Text
// -----------------------------------------------------------------------------------------------

/* Whether a page or a terminal would hide the character or obey it: controls, marks of the writing
   direction, spaces without width, and what is no character. */
PICTURE int picture__is_odd(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x200B || c == 0x200E || c == 0x200F ||
           c == 0x61C || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) ||
           c == 0xFEFF || (c & 0xFFFE) == 0xFFFE || (c >= 0xFDD0 && c <= 0xFDEF) ||
           (c >= 0xE0000 && c <= 0xE007F);
}

/* The next code point. What is odd, but for a tab and a line feed, or is no UTF-8, is U+FFFD. */
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
    return picture__is_odd(c) && c != '\t' && c != '\n' ? 0xFFFD : c;
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
        {0x1DC0, 0x1DFF, 0},  {0x200C, 0x200D, 0}, {0x20D0, 0x20FF, 0}, {0xFE00, 0xFE0F, 0},
        {0xFE20, 0xFE2F, 0},
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

/* Where a name is cut: NULL, or after its first PICTURE_LONGEST - 1 characters. */
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

// -----------------------------------------------------------------------------------------------
// Colours: 255 steps of a scale, and one for what is no number
// -----------------------------------------------------------------------------------------------

enum { PICTURE_STEPS = 255 };

struct picture__scale {
    double low, high;
    int diverging;
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
    scale.diverging = low < 0;
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
    if (scale->diverging) {
        if (share > 0.5) stop = red;
        share = fabs(share - 0.5) * 2;
    }
    k = share >= 1 ? 2 : (int)(share * 3);
    part = share * 3 - k;
    for (i = 0; i < 3; i++)
        rgb = rgb << 8 | (uint32_t)lround(stop[k][i] + part * (stop[k + 1][i] - stop[k][i]));
    return rgb;
}

#include "picture_png.h"
#include "picture_heat.h"
#include "picture_curves.h"

#endif

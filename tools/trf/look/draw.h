// Pictures of trf plot and trf attention (draw.c).
// SPDX-License-Identifier: MIT

#ifndef TRF_DRAW_H
#define TRF_DRAW_H

#include "base/base.h"

#include "log.h"
#include "picture.h"

/* A curve in the colour of a run, from 0. */
struct curve curve_of(const struct series *s, int run);
/* Panels to --output, or to the terminal. */
int draw_curves(const struct settings *s, const struct panel *list, int n, int across);
/* Heat maps to --output. title: may be NULL. */
int draw_heat_maps(const struct settings *s, const char *title, const struct heat_map *maps, int n,
                   int across, double low, double high);

#endif

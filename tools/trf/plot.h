// trf plot: what plot.c, diagrams.c and draw.c share.
// SPDX-License-Identifier: MIT

#ifndef TRF_PLOT_H
#define TRF_PLOT_H

#include "trf.h"

#include "picture.h"

/* Panels to --output, or to the terminal; draw.c. */
int draw_curves(const struct settings *s, const struct panel *list, int n, int across);
int deliver(const struct settings *s, FILE *drawn);     /* a picture in a temporary file */
void print_csv_text(FILE *file, const char *text);      /* between quotation marks */

/* Pictures that need no log; diagrams.c. */
int plot_schedule(struct settings *s);
int plot_positions(struct settings *s);
int plot_masks(struct settings *s);

#endif

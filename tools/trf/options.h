// trf: what the files of the options share, in this order:
//
//   command_line.c    parsing, --help
//   values.c          values as texts, and which options are given
//   options.c         the table
//   settings.c        defaults; what options do besides
// SPDX-License-Identifier: MIT

#ifndef TRF_OPTIONS_H
#define TRF_OPTIONS_H

#include "trf.h"

/* settings.c */
void then_seed(struct settings *s);
void then_weights(struct settings *s);
void then_size(struct settings *s);
void then_conventions(struct settings *s);
void then_recipe(struct settings *s);
void then_tokens(struct settings *s);
void then_vocab_size(struct settings *s);
void then_sentencepiece(struct settings *s);
void then_dropout(struct settings *s);
void then_rule(struct settings *s);
void then_device(struct settings *s);

/* values.c: the number of the choice `text` in "a|b|c", or -1 */
int choice_number(const char *choices, const char *text);

#endif

// trf, the door of look/: what shows models, trainings and answers.

#ifndef TRF_LOOK_LOOK_H
#define TRF_LOOK_LOOK_H

#include "base/base.h"

int command_inspect(struct settings *s, int argc, char **argv);
int command_attention(struct settings *s, int argc, char **argv);
int command_plot(struct settings *s, int argc, char **argv);
int command_report(struct settings *s, int argc, char **argv);

#endif

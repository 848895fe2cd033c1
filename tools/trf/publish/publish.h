// trf, the door of publish/: models from other models and from other programs, and for these.

#ifndef TRF_PUBLISH_PUBLISH_H
#define TRF_PUBLISH_PUBLISH_H

#include "base/base.h"

int command_average(struct settings *s, int argc, char **argv);
int command_quantize(struct settings *s, int argc, char **argv);
int command_import(struct settings *s, int argc, char **argv);
int command_export(struct settings *s, int argc, char **argv);
/* Tells which architecture of Hugging Face a model that is to be trained can be exported to. */
void say_export(const trf_config *c);

#endif

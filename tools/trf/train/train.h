// trf, the door of train/: what trains, and what prepares data for it.

#ifndef TRF_TRAIN_TRAIN_H
#define TRF_TRAIN_TRAIN_H

#include "base/base.h"
#include "mpi.h"

int command_train(struct settings *s, int argc, char **argv);
int command_prepare(struct settings *s, int argc, char **argv);
int command_doctor(struct settings *s, int argc, char **argv);

#endif

// trf train: updates, validations, checkpoints, and ending well (loop.c).

#ifndef TRF_LOOP_H
#define TRF_LOOP_H

#include "state.h"

int learn(struct run *r);

#endif

// trf train: signals that ask to end (signals.c).

#ifndef TRF_SIGNALS_H
#define TRF_SIGNALS_H

#include "progress.h"

void watch_signals(struct settings *s);         /* the hook that leaves a validation */
void catch_signals(struct progress *watched);   /* watched: tells of what takes long */
void release_signals(void);
int stopped(void);                              /* the signal that asks to end, or 0 */
/* What a signal finds the training doing with an update; keeps: a checkpoint follows. */
void prepare_notice(const char *doing, int64_t update, int keeps);
void begin_validating(void);                    /* until end_validating a signal leaves what the library does */
void end_validating(void);

#endif

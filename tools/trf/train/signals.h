// trf train: SIGINT, SIGTERM and SIGHUP (signals.c).

#ifndef TRF_SIGNALS_H
#define TRF_SIGNALS_H

#include "progress.h"

void watch_signals(struct settings *s);         /* sets the hook that aborts a validation */
void catch_signals(struct progress *progress);  /* progress: for lines about what takes long */
void release_signals(void);
int stopped(void);                      /* the signal that ends training, or 0 */
int signal_here(void);                  /* the one that this process got: others may not know yet */
void agree_on_signal(int signal_number);        /* of several processes */
/* What a signal that comes now reports: doing, the update, and whether a checkpoint follows
   (keeps). */
void prepare_notice(const char *doing, int64_t update, int keeps);
void begin_validating(void); /* until end_validating a signal aborts the library's call */
void end_validating(void);

#endif

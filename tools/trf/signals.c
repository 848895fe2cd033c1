// trf train: ending well. SIGINT, SIGTERM and SIGHUP only set a flag: the update that runs is finished (a validation is
// left), a checkpoint is written, and the exit status is 128 + the signal. A second one of the same kind ends the
// program at once, but not within a fifth of a second, in which timeout(1) sends one twice: to the program, and to its
// group. A handler may do next to nothing: it sets a flag, and writes a line that stands ready.

#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t stopped_by, notice, validating;
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction inherited[N_SIGNALS];       /* what the parent has wanted, for when training is over */
static struct progress *watched;        /* of the training that runs, to tell of what takes long */
static int64_t watched_update;
static double watched_since;
static char notices[2][160];    /* one stands ready while the other is written */
static const char *line_end;    /* of a line of progress that may stand on a terminal */

int stopped(void) { return (int)stopped_by; }

static void stop_soon(int signal_number)
{
    static volatile double asked[N_SIGNALS];
    const char *text = notices[notice];
    double seconds = now();
    int kept = errno, i = 0;
    while (signals[i] != signal_number) i++;
    if (asked[i] > 0) {
        if (seconds - asked[i] < 0.2) return;
        signal(signal_number, SIG_DFL);
        raise(signal_number);           /* it comes when we return */
        return;
    }
    asked[i] = seconds;
    stopped_by = signal_number;
    if (write(STDERR_FILENO, text, strlen(text)) < 0) { }      /* nobody is there to hear it */
    errno = kept;
}

void prepare_notice(const char *doing, int64_t update, int keeps)
{
    int other = !notice;
    watched_update = update;
    watched_since = now();
    snprintf(notices[other], sizeof notices[other], "%s%s: %s %lld, then %s; again: stop at once\n",
             line_end, program, doing, (long long)update, keeps ? "saving" : "ending");
    notice = other;
}

void catch_signals(struct progress *of)
{
    struct sigaction action;
    int i;
    watched = of;
    line_end = isatty(STDERR_FILENO) ? "\n" : "";
    memset(&action, 0, sizeof action);
    action.sa_handler = stop_soon;
    action.sa_flags = SA_RESTART;
    for (i = 0; i < N_SIGNALS; i++)     /* one that the parent ignores stays ignored */
        if (!sigaction(signals[i], NULL, &inherited[i]) && inherited[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

void release_signals(void)
{
    int i;
    watched = NULL;
    for (i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &inherited[i], NULL);
}

/* The library asks this at every layer and token: only a validation is left in the middle. */
static int leave_validation(void *user)
{
    (void)user;
    if (watched) show_waiting(watched, validating ? "validating" : "computing", watched_update, watched_since);
    return validating && stopped_by;
}

void watch_signals(struct settings *s) { s->training.hooks.cancel = leave_validation; }

void begin_validating(void) { validating = 1; }
void end_validating(void) { validating = 0; }

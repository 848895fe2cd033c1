// trf train: SIGINT, SIGTERM and SIGHUP. See signals.h.
//
// A signal sets a flag. The current update is completed (a validation is aborted), a checkpoint is
// saved, and the exit status is 128 + the signal. A second signal of the same kind ends the program
// at once, unless it comes within a fifth of a second: timeout(1) sends each signal twice, to the
// program and to its group. A handler may call almost nothing, so the line that it writes is
// prepared before.
//
// Several processes end after the same update: they agree on a signal that any of them has got.
// mpirun kills its processes a second after a SIGTERM of its own, but passes SIGUSR1 on.

#include "mpi.h"
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t stopped_by, notice, validating;
static int agreed;                      /* the signal that all processes know of */
static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};    /* the last one: of several */
enum { N_SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction inherited[N_SIGNALS];       /* restored when training is over */
/* Of the current training, for a line about what takes long. */
static struct progress *shown_progress;
static int64_t current_update;
static double update_began;
static char notices[2][160];    /* one is ready while the other is written */
static const char *line_end;    /* ends a line of progress on a terminal */

int signal_here(void) { return (int)stopped_by; }
int stopped(void) { return n_ranks() > 1 ? agreed : signal_here(); }
void agree_on_signal(int signal_number) { agreed = signal_number; }

static void stop_soon(int signal_number)
{
    static volatile double last[N_SIGNALS];
    const char *text = notices[notice];
    double seconds = now();
    int kept = errno, i = 0;
    while (signals[i] != signal_number) i++;
    if (last[i] > 0) {
        if (seconds - last[i] < 0.2) return;
        signal(signal_number, SIG_DFL);
        raise(signal_number);           /* delivered when we return */
        return;
    }
    last[i] = seconds;
    stopped_by = signal_number;
    if (write(STDERR_FILENO, text, strlen(text)) < 0) { }      /* there is nobody to report it to */
    errno = kept;
}

void prepare_notice(const char *doing, int64_t update, int keeps)
{
    int other = !notice;
    current_update = update;
    update_began = now();
    if (is_first_rank())
        snprintf(notices[other], sizeof notices[other],
             "%s%s: %s %lld, then %s; the same signal again stops at once\n", line_end, program,
             doing, (long long)update, keeps ? "saving" : "ending");
    notice = other;
}

void catch_signals(struct progress *of)
{
    struct sigaction action;
    int i;
    shown_progress = of;
    line_end = isatty(STDERR_FILENO) ? "\n" : "";
    memset(&action, 0, sizeof action);
    action.sa_handler = stop_soon;
    action.sa_flags = SA_RESTART;
    for (i = 0; i < N_SIGNALS - (n_ranks() == 1); i++)  /* what the parent ignores stays ignored */
        if (!sigaction(signals[i], NULL, &inherited[i]) && inherited[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

void release_signals(void)
{
    int i;
    shown_progress = NULL;
    for (i = 0; i < N_SIGNALS - (n_ranks() == 1); i++)
        sigaction(signals[i], &inherited[i], NULL);
}

/* The library calls this at every layer and token. trf_trainer_learn lets it abort a validation, and end
   training between two updates. */
static int leave_validation(void *user)
{
    (void)user;
    if (shown_progress)
        show_waiting(shown_progress, validating ? "validating" : "computing", current_update,
                     update_began);
    return signal_here() != 0;
}

void watch_signals(struct settings *s) { s->training.hooks.cancel = leave_validation; }

void begin_validating(void) { validating = 1; }
void end_validating(void) { validating = 0; }

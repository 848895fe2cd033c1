// trf train: lines of progress for people, and a log in JSON for programs. See progress.h.
//
// The loss is the mean over the target tokens of the last --log-every updates, also in a line that
// comes by the clock. Tokens are those of both sides; there is no padding. On a terminal one line
// is overwritten once a second. Its bar shows the whole training if its end is known, else the
// current pass over the data. In a file a line comes every --log-every updates, and every 30
// seconds.

#include "mpi.h"
#include "progress.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDEST_BAR = 20, NARROWEST_BAR = 4 };

// -----------------------------------------------------------------------------------------------
// >>log            --log: a JSON object a line
// -----------------------------------------------------------------------------------------------

/* A resumed run appends to the log. It first ends a line that was cut off when the program was
   killed. */
int open_log(struct log *log, const struct settings *s)
{
    int last;
    if (!s->train.log || !is_first_rank()) return DONE;
    log->path = s->train.log;
    log->file = fopen(s->train.log, s->resume ? "a+" : "w");
    if (!log->file) { say("cannot write '%s': %s", s->train.log, strerror(errno)); return FAILED; }
    if (s->resume && !fseek(log->file, -1, SEEK_END)) {
        last = getc(log->file);
        if (!fseek(log->file, 0, SEEK_END) && last != '\n' && last != EOF) fputc('\n', log->file);
    }
    return DONE;
}

void close_log(struct log *log)
{
    if (log->file) fclose(log->file);
    log->file = NULL;
}

void flush_log(struct log *log)
{
    if ((!fflush(log->file) && !ferror(log->file)) || log->broken) return;
    log->broken = 1;
    say("cannot write '%s': %s", log->path, strerror(errno));
}

void log_start(struct log *log, const struct settings *s, const trf_model *model, int64_t step,
               int64_t pairs, int64_t held_out)
{
    const trf_config *config = trf_model_config(model);
    FILE *file = log->file;
    if (!file) return;
    fprintf(
        file,
        "{\"event\":\"start\",\"version\":\"%s\",\"update\":%lld,\"pairs\":%lld,\"held_out\":%lld",
        TRF_VERSION, (long long)step, (long long)pairs, (long long)held_out);
    fprintf(file, ",\"weights\":%lld,\"source_vocab\":%d,\"target_vocab\":%d,\"labels\":%d",
            (long long)trf_model_parameter_total(model), (int)config->source_vocab,
            (int)config->target_vocab, (int)count_labels(config));
    if (n_ranks() > 1) fprintf(file, ",\"processes\":%d", n_ranks());
    fputs(",\"model\":", file);
    print_json_text(file, s->model, strlen(s->model));
    fputs(",\"options\":", file);
    print_json_options(file, s, 0, sizeof *s);
    fputs("}\n", file);
    flush_log(log);
}

// -----------------------------------------------------------------------------------------------
// >>line           the line of progress
// -----------------------------------------------------------------------------------------------

void start_progress(struct progress *p, const struct settings *s, struct log *log, double earlier)
{
    int64_t log_every = s->train.log_every;
    memset(p, 0, sizeof *p);
    p->s = s;
    p->log = log;
    p->earlier = earlier;
    p->span = log_every < MOST_RECENT ? log_every : MOST_RECENT;
    p->began = p->drawn = p->printed = p->window_began = now();
    p->terminal = !quiet && isatty(STDERR_FILENO);
}

void count_update(struct progress *p, const trf_step_report *report)
{
    int64_t tokens = report->source_tokens + report->target_tokens;
    size_t at = (size_t)(p->updates++ % p->span);
    p->recent = grow(p->recent, &p->recent_capacity, at + 1, sizeof *p->recent);
    p->recent[at].target = report->skipped ? 0 : report->target_tokens;
    p->recent[at].loss = report->skipped ? 0 : report->loss * (double)report->target_tokens;
    p->recent[at].right = report->skipped ? 0 : report->accuracy * (double)report->target_tokens;
    p->tokens += tokens;
    p->window_tokens += tokens;
    p->left_out += report->skipped != 0;
}

double seconds_of_run(const struct progress *p) { return now() - p->began; }
double seconds_in_all(const struct progress *p) { return p->earlier + seconds_of_run(p); }

void end_progress(struct progress *p)
{
    free(p->recent);
    p->recent = NULL;
}

/* The mean loss of the target tokens of the last updates; *accuracy: the share of correct tokens.
   NAN: all of these updates were skipped. */
static double recent_loss(const struct progress *p, double *accuracy)
{
    int64_t n = p->updates < p->span ? p->updates : p->span, target = 0, i;
    double sum = 0, right = 0;
    for (i = 0; i < n; i++) {
        sum += p->recent[i].loss;
        right += p->recent[i].right;
        target += p->recent[i].target;
    }
    *accuracy = target ? right / (double)target : NAN;
    return target ? sum / (double)target : NAN;
}

/* Seconds until --patience ends training if no validation improves. */
static double patience_left(const struct progress *p, int64_t step, int32_t left)
{
    int64_t every = p->s->train.valid_every, next = (step / every + 1) * every;
    if (left == INT32_MAX) return HUGE_VAL;
    return seconds_of_run(p) / (double)p->updates *
           (double)(next - step + (left > 1 ? left - 1 : 0) * every);
}

/* Seconds until the last update, the last epoch or the last minute, whichever comes first. */
static double time_left(const struct progress *p, int64_t step)
{
    const struct settings *s = p->s;
    double spent = seconds_of_run(p), left = fmax(0, s->train.minutes * 60 - p->earlier - spent),
        passes;
    if (s->train.updates != INT64_MAX)
        left = fmin(left, spent / (double)p->updates * (double)(s->train.updates - step));
    if (p->ends)
        left = fmin(left, spent / (double)p->updates * fmax(0, (double)(p->ends - step)));
    if (s->corpus.epochs == TRF_ENDLESS || p->passes <= 0) return left;
    passes = fmax(0, (double)s->corpus.epochs - p->first_pass - p->passes);
    return fmin(left, spent / p->passes * passes);
}

/* The share of the training that is done, by the end that comes first; without an end, the share of
   the pass. */
static double share_done(const struct progress *p, int64_t step)
{
    const struct settings *s = p->s;
    double pass = p->first_pass + p->passes, share = seconds_in_all(p) / (s->train.minutes * 60);
    if (s->train.updates == INT64_MAX && s->corpus.epochs == TRF_ENDLESS &&
        !isfinite(s->train.minutes))
        return fmod(pass, 1);
    if (s->train.updates != INT64_MAX) share = fmax(share, (double)step / (double)s->train.updates);
    if (s->corpus.epochs != TRF_ENDLESS) share = fmax(share, pass / (double)s->corpus.epochs);
    return fmin(1, share);
}

/* "[#####...............] 25 % ", as wide as the limit allows; "25 % " if a bar does not fit. */
static void bar_text(double share, int limit, char text[64])
{
    int width = limit - (int)strlen("[] 100 % "), i;
    if (width > WIDEST_BAR) width = WIDEST_BAR;
    if (width >= NARROWEST_BAR) {
        *text++ = '[';
        for (i = 0; i < width; i++) *text++ = i < (int)(share * width) ? '#' : '.';
        *text++ = ']';
        *text++ = ' ';
    }
    snprintf(text, 16, "%d %% ", (int)(100 * share));
}

void end_line(void)
{
    if (unfinished_line) fputc('\n', stderr);
    unfinished_line = 0;
}

/* The width of the terminal: a line that wraps cannot be overwritten. */
static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 2 ? 80 : size.ws_col;
}

static void log_progress(const struct progress *p, int64_t epoch, const trf_step_report *report,
                         double rate, double left)
{
    double accuracy, loss = recent_loss(p, &accuracy);
    FILE *log = p->log->file;
    if (!log) return;
    fprintf(log, "{\"event\":\"progress\",\"update\":%lld,\"epoch\":%lld", (long long)report->step,
            (long long)epoch + 1);
    print_json_field(log, "loss", loss);
    print_json_field(log, "accuracy", accuracy);
    if (p->s->training.consistency > 0)
        print_json_field(log, "divergence", report->divergence);
    print_json_field(log, "learning_rate", report->learning_rate);
    print_json_field(log, "gradient_norm", report->gradient_norm);
    print_json_field(log, "tokens_per_second", rate);
    print_json_field(log, "seconds", seconds_in_all(p));
    print_json_field(log, "seconds_left", left < 1e9 ? left : NAN);
    if (n_ranks() > 1 && bytes_sent() >= 0)
        fprintf(log, ",\"bytes_sent\":%lld", (long long)bytes_sent());
    fprintf(log, ",\"megabytes\":%.0f}\n", megabytes());
    flush_log(p->log);
}

void show_progress(struct progress *p, int64_t epoch, const trf_step_report *report,
                   int32_t validations_left)
{
    char line[224];
    double time = now(), seconds = time - p->window_began,
           rate = (double)p->window_tokens / fmax(seconds, 1e-9), left_s, patient, mean, right;
    /* shortly after --resume a line of a single update would look like a jump of the loss */
    int whole =
        (report->step % p->s->train.log_every == 0 && p->updates >= p->span) ||
            time - p->printed >= 30;
    char left[32], end[64], loss[32] = "-", bar[64] = "";        /* '-': all of these updates were skipped */
    if (!whole && !(p->terminal && time - p->drawn > 1)) return;
    left_s = time_left(p, report->step);
    patient = patience_left(p, report->step, validations_left);
    time_text(fmin(left_s, patient), left);
    mean = recent_loss(p, &right);
    if (isfinite(mean)) snprintf(loss, sizeof loss, "%.4f", mean);
    snprintf(end, sizeof end, patient < left_s ? "stops in %s unless it improves"
             : p->terminal ? "%s left" : "left %s", left);
    snprintf(line, sizeof line,
             p->terminal ? "upd %lld ep %lld loss %s lr %.1e %.0f tok/s %s %.0f MB"
                         : "update %lld  epoch %lld  loss %s  lr %.3e  %.0f tokens/s  %s  %.0f MB",
             (long long)report->step, (long long)epoch + 1, loss, report->learning_rate, rate, end,
             megabytes());
    left_s = fmin(left_s, patient);
    if (p->terminal) {
        int most = columns() - 1;
        bar_text(share_done(p, report->step), most - (int)strlen(line), bar);
        fprintf(stderr, "\r%.*s", most, bar);
        if (most > (int)strlen(bar)) fprintf(stderr, "%.*s", most - (int)strlen(bar), line);
        fputs("\033[K", stderr);
    } else inform("%s\n", line);
    unfinished_line = p->terminal;
    p->drawn = time;
    if (!whole) return;
    log_progress(p, epoch, report, rate, left_s);
    p->window_began = p->printed = time;
    p->window_tokens = 0;
}

void show_waiting(struct progress *p, const char *doing, int64_t update, double since)
{
    double time = now(), last = fmax(fmax(since, p->waited), p->terminal ? p->drawn : p->printed);
    char spent[32];
    if (quiet || time - last < (p->terminal ? 10 : 30)) return;
    time_text(time - since, spent);
    fprintf(stderr,
            p->terminal ? "\r%s update %lld: %s so far\033[K" : "%s update %lld: %s so far\n",
            doing, (long long)update, spent);
    unfinished_line = p->terminal;
    p->waited = time;
}

// -----------------------------------------------------------------------------------------------
// >>busy           before the first update
// -----------------------------------------------------------------------------------------------

/* Nothing calls us before the first update, least of all libsentencepiece. So an alarm prints the
   line. */
static const char *volatile busy;

static void still_busy(int signal_number)
{
    const char *text = busy;
    int kept = errno;
    if (text && write(STDERR_FILENO, text, strlen(text)) > 0) alarm(30);
    errno = kept;
    (void)signal_number;
}

void busy_with(const char *line)
{
    struct sigaction action;
    const char *before = busy;
    if (quiet) return;
    busy = line;
    if (before && line) return;         /* the alarm is set */
    memset(&action, 0, sizeof action);
    action.sa_handler = still_busy;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    alarm(line ? 30 : 0);
}

// Lines in batches: the loop of the commands that answer each line of their input.

#include "answer.h"

#include <signal.h>
#include <unistd.h>

void *zeroed_batch(int32_t batch, size_t item_bytes)
{
    void *items = calloc((size_t)batch, item_bytes);
    if (!items) say("out of memory for --buffer %d", (int)batch);
    return items;
}

void watch_lines(struct batches *b, const trf_model *model)
{
    const char *outer = trf_model_metadata(model, "source.outer_blanks");
    const trf_vocab *vocab = trf_model_vocab(model, TRF_SOURCE);
    int32_t trained = trf_model_config(model)->trained_source;
    b->trained = trained ? trained : longest_trained(model);
    b->watches_tabs = !trf_model_config(model)->segments;
    b->watches_blanks = outer && !strcmp(outer, "none") &&
                        trf_vocab_kind(vocab) == TRF_CHARACTERS;
}

/* Notes what the line at hand has, but no source of the training. */
static void watch_line(struct batches *b, const struct batch_line *line)
{
    const char *text = b->in.line;
    size_t n = strlen(text);
    if (!b->trained || !line->n) return;
    b->beyond += b->side.lengths[line->first] > b->trained;
    b->spaced += b->watches_blanks && (*text == ' ' || text[n - 1] == ' ');
    if (!b->tab && b->watches_tabs && strchr(text, '\t')) b->tab = line->number;
}

void say_watched(const struct batches *b)
{
    const char *lines = plural(b->lines);
    if (b->beyond)
        say("%lld of %lld line%s %s longer than the longest source of the training, %d token%s: "
            "the model has not learned the positions beyond that",
            (long long)b->beyond, (long long)b->lines, lines, b->beyond == 1 ? "is" : "are",
            (int)b->trained, plural(b->trained));
    if (b->spaced)
        say("%lld of %lld line%s %s or %s with a blank, as no source of the training does: the "
            "model reads it as a character", (long long)b->spaced, (long long)b->lines, lines,
            b->spaced == 1 ? "begins" : "begin", b->spaced == 1 ? "ends" : "end");
    if (b->tab)
        say("%s:%lld: a tab: if tabs separate columns here, give the source alone: cut -f 1",
            b->in.name, (long long)b->tab);
}

/* Reads up to `most` lines, with a message for each that cannot be answered. Returns their
   number. */
static int32_t read_batch(struct batches *b, int64_t most)
{
    char why[300];
    clear_side(&b->side);
    clear_side(&b->partners);
    while (!b->broken && b->n < most) {
        struct batch_line *line = &b->line[b->n];
        int got = b->next ? b->next(b->user) : next_line(&b->in);
        const char *fault;
        b->broken |= got < 0;
        if (got < 1) break;
        line->first = (int32_t)b->side.count;
        fault = b->add(b->user, why);
        if (fault && b->unusable++ < b->most_messages)
            say("%s:%lld: %s: %s%s", b->at->name, (long long)b->at->number, b->instead, fault,
                b->unusable == b->most_messages ? "; further ones are only counted" : "");
        line->n = (int32_t)b->side.count - line->first;
        line->unusable = fault != NULL;
        line->number = b->at->number;
        if (!b->next) watch_line(b, line);
        line->text = b->next ? NULL : format_text("%s", b->in.line);
        b->n++;
        b->lines++;
    }
    return b->n;
}

void begin_batches(struct batches *b, struct settings *s, void *user,
                   const char *(*add)(void *user, char why[300]), int (*answer)(void *user))
{
    memset(b, 0, sizeof *b);
    b->s = s;
    b->user = user;
    b->add = add;
    b->answer = answer;
    b->instead = "answered with an empty line";
    b->most_messages = INT64_MAX;
    b->at = &b->in;
}

static void forget_batch(struct batches *b)
{
    for (; b->n > 0; b->n--) free(b->line[b->n - 1].text);
}

// -----------------------------------------------------------------------------------------------
// >>output         what an interrupted run leaves, and how the next one goes on
// -----------------------------------------------------------------------------------------------

static char interrupted[512];   /* what a signal says */

/* All complete answers are in the file: it is flushed after each batch. */
static void tell_interrupted(int signal_number)
{
    if (write(STDERR_FILENO, interrupted, strlen(interrupted)) < 0) { }
    raise(signal_number);       /* it ends the program when this returns */
}

static void watch_signals(const char *part)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    FILE *to = fmemopen(interrupted, sizeof interrupted - 1, "w");
    struct sigaction action, before;
    size_t i;
    if (to) {
        char *text = format_text("%s: interrupted; %s has the answers so far: --resume continues",
                                 program, part);
        print_clean(to, text, sizeof interrupted - 32);
        putc('\n', to);
        fclose(to);
        free(text);
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = tell_interrupted;
    action.sa_flags = (int)SA_RESETHAND;
    for (i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!sigaction(signals[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

/* Counts the lines of the input that are answered, whole batches of them; *end: the bytes of their
   answers. Other batches might give other bits. */
static int64_t count_answers(const struct batches *b, off_t *end)
{
    FILE *part = b->out;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    int64_t count = 0, whole = 0, batch = b->s->buffer;
    off_t at = 0;
    *end = 0;
    if (b->form == ANSWER_ROW) {
        fseeko(part, 0, SEEK_END);
        whole = (ftello(part) - HEAD) / b->row_bytes / batch * batch;
        if (whole < 0) whole = 0;
        *end = HEAD + whole * b->row_bytes;
        return whole;
    }
    while ((n = getline(&line, &capacity, part)) > 0 && line[n - 1] == '\n') {
        if (b->form == ANSWER_NUMBERED) {       /* the lines of the number before are complete */
            count = strtoll(line, NULL, 10) - 1;
            if (count % batch == 0 && count > whole) { whole = count; *end = at; }
        }
        at += n;
        if (b->form == ANSWER_LINE || (b->form == ANSWER_BLOCK && n == 1))
            if (++count % batch == 0) { whole = count; *end = at; }
    }
    free(line);
    return whole;
}

/* Whether the file is of this command. A new one gets its head. */
static int has_head(struct batches *b)
{
    char head[HEAD], there[HEAD];
    if (!b->head) return 1;
    b->head(b->user, 0, head);
    rewind(b->out);
    if (fread(there, 1, HEAD, b->out) == HEAD && !memcmp(head, there, HEAD)) return 1;
    if (fseeko(b->out, 0, SEEK_END) || ftello(b->out) >= HEAD) return 0;
    rewind(b->out);
    fwrite(head, 1, HEAD, b->out);
    return 1;
}

/* Passes over the lines that are answered. */
static int skip_answered(struct batches *b, FILE *in)
{
    off_t end;
    int64_t skip = count_answers(b, &end), left;
    if (fflush(b->out) || fseeko(b->out, end, SEEK_SET) || ftruncate(fileno(b->out), end))
        return cannot_write(b->output.name);
    if (skip && isatty(fileno(in))) {
        say("--resume cannot pass over lines that are typed: give the input as a file");
        return FAILED;
    }
    while ((left = skip - b->lines) > 0 &&
           read_batch(b, left < b->s->buffer ? left : b->s->buffer) > 0)
        forget_batch(b);
    if (b->broken) return FAILED;
    if (left > 0) {
        say("%s has answers to %lld line%s, but %s has %lld: --resume needs the same input",
            b->output.name, (long long)skip, plural(skip), b->at->name, (long long)b->lines);
        return FAILED;
    }
    b->answered = b->skipped = skip;
    if (skip) inform_line("%s has the answers to %lld line%s", b->output.name, (long long)skip,
                          plural(skip));
    return DONE;
}

static int begin_answers(struct batches *b, FILE *in)
{
    int status = open_answers(b->s, &b->output);
    b->out = b->output.file;
    if (status || !b->output.name) return status;
    if (!has_head(b)) {
        say("%s was begun with another model: --overwrite begins again", b->output.name);
        return FAILED;
    }
    if ((status = skip_answered(b, in))) return status;
    watch_signals(b->output.name);
    return DONE;
}

int end_answers(struct batches *b, int status)
{
    struct unfinished *u = &b->output;
    char head[HEAD];
    if (!u->name || b->complete || b->form == ANSWERS_AT_END) {
        if (u->name && b->head && !fflush(u->file) && !fseeko(u->file, 0, SEEK_SET)) {
            b->head(b->user, b->lines, head);
            fwrite(head, 1, HEAD, u->file);
        }
        return close_output(u, b->complete) ? FAILED : status;
    }
    if (b->answered)
        say("%s has the answers to the first %lld line%s: --resume continues", u->name,
            (long long)b->answered, plural(b->answered));
    else if (!b->s->resume) unlink(u->name);
    fclose(u->file);
    free(u->name);
    return status ? status : FAILED;
}

int answer_lines(struct batches *b, FILE *in)
{
    int flush = b->form < ANSWER_ROW && (b->s->answer.interactive || isatty(fileno(in))), status;
    if (!b->line && !(b->line = zeroed_batch(b->s->buffer, sizeof *b->line))) return FAILED;
    if (flush) b->s->buffer = 1;
    status = b->out ? DONE : begin_answers(b, in);
    b->complete = 0;
    while (!status && read_batch(b, b->s->buffer) > 0) {
        status = b->answer(b->user);
        if (!status && (flush || b->output.name || ferror(b->out)))
            status = check_output(b->out, b->s->output);
        forget_batch(b);
        if (!status) b->answered = b->lines;
    }
    b->complete = !status && !b->broken;
    return status;
}

int say_batch_failed(const struct batches *b, const trf_error *err)
{
    say("%s:%lld: %s (%s)", b->at->name, (long long)b->line[0].number, err->message,
        trf_status_name((trf_status)err->status));
    return FAILED;
}

void say_unusable(const struct batches *b, const char *lines, const char *answered)
{
    if (b->unusable)
        say("%lld of %lld %s%s could not be %s", (long long)b->unusable, (long long)b->lines, lines,
            plural(b->lines), answered);
}

void free_batches(struct batches *b)
{
    close_reader(&b->in);
    free_side(&b->side);
    free_side(&b->partners);
    free(b->line);
}

// Lines in batches: the loop of the commands that answer each line of their input.

#include "answer.h"

#include <unistd.h>

void *zeroed_batch(int32_t batch, size_t item_bytes)
{
    void *items = calloc((size_t)batch, item_bytes);
    if (!items) say("out of memory for --batch %d", (int)batch);
    return items;
}

void watch_lines(struct batches *b, const trf_model *model)
{
    const char *outer = trf_model_metadata(model, "source.outer_blanks");
    const trf_vocab *vocab = trf_model_source_vocab(model);
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

/* Reads up to a batch of lines, with a message for each that cannot be answered. Returns their
   number. */
static int32_t read_batch(struct batches *b)
{
    char why[300];
    clear_side(&b->side);
    clear_side(&b->partners);
    while (!b->broken && b->n < b->s->batch) {
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
    b->writes_lines = 1;
}

int answer_lines(struct batches *b, FILE *in)
{
    int flush = b->writes_lines && (b->s->answer.interactive || isatty(fileno(in))), status = DONE;
    if (!b->line && !(b->line = zeroed_batch(b->s->batch, sizeof *b->line))) return FAILED;
    if (flush) b->s->batch = 1;
    while (!status && read_batch(b) > 0) {
        status = b->answer(b->user);
        if (!status && (flush || ferror(b->out))) status = check_output(b->out, b->s->output);
        for (; b->n > 0; b->n--) free(b->line[b->n - 1].text);
    }
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

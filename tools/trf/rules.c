// trf: tokens that options of a search name: forced ones, tags of sources, banned texts, phrases.

#include "trf.h"

void free_rules(struct rules *rules)
{
    free_side(&rules->banned);
    free_side(&rules->phrases);
}

/* The id of a token by its text; or else by its number. -1 after a message. */
static int32_t token_named(const char *option, const trf_vocab *vocab, const char *text)
{
    int32_t id = trf_vocab_id(vocab, text), size = trf_vocab_size(vocab);
    char *end;
    long number;
    if (id != unknown_id(vocab)) return id;
    number = strtol(text, &end, 10);
    if (*text && !*end && number >= 0 && number < size) return (int32_t)number;
    say("%s '%s' is neither a token of the model nor an id from 0 to %d", option, text,
        (int)size - 1);
    return -1;
}

static int set_token(const char *option, const trf_vocab *vocab, const char *text, int32_t *field)
{
    if (!text) return DONE;
    *field = token_named(option, vocab, text);
    return *field < 0 ? USAGE : DONE;
}

/* Adds the tokens of a text to a list. where: the option, or file and line. */
static int add_listed(struct side *list, const trf_vocab *vocab, const char *where, const char *text)
{
    int32_t *ids = NULL, n = 0, i;
    size_t capacity = 0;
    trf_error err;
    int status = DONE;
    if (encode_after(vocab, text, &ids, 0, &capacity, &n, &err)) {
        say("%s: %s", where, err.message);
        status = FAILED;
    }
    for (i = 0; i < n && !status; i++)
        if (ids[i] == unknown_id(vocab)) {
            say("%s '%s': the model does not know all of its tokens, so it cannot write them",
                where, text);
            status = USAGE;
        }
    if (!status && !n) {
        say("%s '%s' has no tokens", where, text);
        status = USAGE;
    }
    if (!status) add_ids(list, ids, n);
    free(ids);
    return status;
}

/* Adds each line of a file; empty lines are left out. */
static int add_lines(struct side *list, const trf_vocab *vocab, const char *path)
{
    struct reader r;
    int got = 0, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) {
        char *where = format_text("%s:%lld", r.name, (long long)r.number);
        if (r.fault) { say("%s: %s", where, r.fault); status = FAILED; }
        else if (*r.line) status = add_listed(list, vocab, where, r.line);
        free(where);
    }
    close_reader(&r);
    return got < 0 ? FAILED : status;
}

int read_rules(struct settings *s, const trf_vocab *source, const trf_vocab *target,
               struct rules *rules)
{
    int status = set_token("--start", target, s->start, &s->search.start), k;
    if (!status)
        status = set_token("--forced-first", target, s->forced_first, &s->search.forced_first);
    if (!status)
        status = set_token("--source-first", source, s->source_first, &s->search.source_first);
    if (!status)
        status = set_token("--source-last", source, s->source_last, &s->search.source_last);
    for (k = 0; k < s->bans.n && !status; k++)
        status = add_listed(&rules->banned, target, "--ban", s->bans.item[k]);
    if (!status && s->ban_file) status = add_lines(&rules->banned, target, s->ban_file);
    for (k = 0; k < s->phrases.n && !status; k++)
        status = add_listed(&rules->phrases, target, "--phrase", s->phrases.item[k]);
    s->search.banned = sequences_of(&rules->banned);
    s->search.phrases = sequences_of(&rules->phrases);
    return status;
}

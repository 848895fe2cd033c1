// trf prepare --hold-out N: a text for validation beside the token file. See hold_out.h.
//
// A text is read once and its length is not known, so the hash of a source decides whether its pair
// is held out. Pairs with the same source are all held out, so none of them is trained on. The
// first one that can be a line alone is written, else frequent sentences would fill the validation.
//
// Until it is complete, the file has N in its name. --resume reads all text again and writes the
// file anew. With another N it would hold out pairs that the token file has already.

#include "hold_out.h"

#include <errno.h>
#include <unistd.h>

static char *held_path(const struct settings *s) { return format_text("%s.valid", s->output); }

/* The N of an unfinished file, or 0. tail: its name behind OUTPUT. */
static long long unfinished_n(const char *tail)
{
    long long n = 0;
    int end = 0;
    return sscanf(tail, ".valid-%lld.part%n", &n, &end) == 1 && end && !tail[end] ? n : 0;
}

int is_held_out(const struct settings *s, const char *path)
{
    char *held = held_path(s), *output;
    const char *at = name_of(path), *tail = NULL;
    int is = same_file(held, path);
    while ((at = strstr(at, ".valid-"))) tail = at++;
    if (!is && tail && unfinished_n(tail)) {
        output = format_text("%.*s", (int)(tail - path), path);
        is = same_file(output, s->output);
        free(output);
    }
    free(held);
    return is;
}

static void note_unfinished(void *user, const char *path, const char *tail)
{
    (void)path;
    if (unfinished_n(tail)) *(int64_t *)user = unfinished_n(tail);
}

static void remove_unfinished(void *user, const char *path, const char *tail)
{
    (void)user;
    if (unfinished_n(tail)) unlink(path);
}

int check_hold_out(const struct settings *s, int begun, int complete)
{
    char *held = held_path(s);
    int64_t before = 0;
    int status = FAILED;
    for_files(s->output, note_unfinished, &before);
    if (begun && s->resume && before != s->train.hold_out)
        say(before ? "'%s.part' was begun with --hold-out %lld: --resume needs the same options"
                   : "'%s.part' was begun without --hold-out: --resume needs the same options",
            s->output, (long long)before);
    else if (complete && s->train.hold_out && !is_taken(held) && before != s->train.hold_out)
        say("'%s' is complete, but was made without --hold-out: --overwrite makes it again",
            s->output);
    else if (!s->resume && s->train.hold_out && !s->overwrite && is_taken(held))
        say("'%s' exists: --overwrite replaces it", held);
    else if (!s->resume && !s->train.hold_out && is_taken(held))
        say("'%s' has pairs that an earlier run held out, and that this one would train on: give "
            "--hold-out N, or remove it", held);
    else status = s->train.hold_out ? check_written(s, "hold-out", held) : DONE;
    free(held);
    return status;
}

int begin_hold_out(struct hold_out *h, const struct settings *s)
{
    h->n = s->train.hold_out;
    if (!s->resume) for_files(s->output, remove_unfinished, NULL);
    if (!h->n) return DONE;
    h->path = held_path(s);
    h->part = format_text("%s-%lld.part", h->path, (long long)h->n);
    unlink(h->part);            /* --resume writes it anew */
    h->file = fopen(h->part, "wx");
    if (h->file) return DONE;
    say("cannot write '%s': %s", h->part, strerror(errno));
    return FAILED;
}

static int is_blank(const char *text) { return !text[strspn(text, BLANKS)]; }

int hold_out_text(struct hold_out *h, const char *text)
{
    uint64_t hash = hash_line(text);
    if (!h->n || is_blank(text) || hash % (uint64_t)h->n) return 0;
    h->lines++;
    if (note_hash(&h->seen, hash)) fprintf(h->file, "%s\n", text);
    return 1;
}

int hold_out_pair(struct hold_out *h, const char *source, const char *target)
{
    uint64_t hash = hash_line(source);
    if (!h->n || is_blank(source) || hash % (uint64_t)h->n) return 0;
    h->lines++;
    /* an empty target is no answer, and a tab would make three columns: they are in neither file */
    if (!is_blank(target) && !strchr(source, '\t') && !strchr(target, '\t') && note_hash(&h->seen, hash))
        fprintf(h->file, "%s\t%s\n", source, target);
    return 1;
}

void say_held_out(const struct hold_out *h, const char *what)
{
    if (!h->lines) return;
    inform_line("held out: %lld %s%s, of which '%s' has the %zu with different sources",
                (long long)h->lines, what, plural(h->lines), h->path, h->seen.n);
}

int flush_hold_out(const struct hold_out *h)
{
    if (!h->n) return DONE;
    if (h->seen.n == 0) {
        say("--hold-out %lld holds nothing out of this text: give a smaller number",
            (long long)h->n);
        return FAILED;
    }
    if (check_output(h->file, h->part)) return FAILED;
    errno = 0;
    if (!fsync(fileno(h->file))) return DONE;
    say("cannot write '%s': %s", h->part, strerror(errno));
    return FAILED;
}

int name_hold_out(const struct settings *s)
{
    char *held = held_path(s),
        *part = format_text("%s-%lld.part", held, (long long)s->train.hold_out);
    int status = DONE;
    if (s->train.hold_out && !access(part, F_OK) && rename(part, held)) {
        say("cannot rename '%s': %s", part, strerror(errno));
        status = FAILED;
    }
    free(held);
    free(part);
    return status;
}

void end_hold_out(struct hold_out *h, int remove_it)
{
    if (h->file) fclose(h->file);
    if (h->file && remove_it) unlink(h->part);
    free(h->path);
    free(h->part);
    free_hashes(&h->seen);
}

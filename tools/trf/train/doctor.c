// trf doctor: the command. See doctor.h.
//
// The files are read by read_data, as in training, and the data set is made, with vocabularies of
// words or characters: so the lines that it leaves out are those that training leaves out, for the
// same reasons, and the warnings of trf train become findings. Nothing is held out at random.

#include "doctor.h"
#include "check.h"
#include "progress.h"

// -----------------------------------------------------------------------------------------------
// >>reading        what data.c shows
// -----------------------------------------------------------------------------------------------

static void see_read(void *user, const struct reader *r)
{
    struct doctor *d = user;
    if (r->crlf) note_place(d, CRLF, file_number(d, r->name), r->number, -1, NULL);
    if (d->s->train.next_sentences && !r->fault)
        examine_text(d, file_number(d, r->name), r->number, -1, r->line, 0);
}

/* Texts alone are the target. */
static void see_added(void *user, const trf_line *line)
{
    struct doctor *d = user;
    const struct settings *s = d->s;
    const struct origin at = {file_number(d, line->path), line->number};
    int side;
    if (!line->target) return;          /* the end of a file */
    for (side = 0; side < 2 && !s->train.next_sentences; side++) {
        const char *text = side ? line->target : line->source,
                   *file = file_of_side(&d->data, line->path, side);
        if (!text) continue;
        examine_text(d, file_number(d, file), line->number,
                     !line->source || file != line->path || s->target ? -1 : side, text,
                     side && learns_labels(s));
    }
    d->origins = grow(d->origins, &d->capacity, d->n + 1, sizeof *d->origins);
    d->origins[d->n++] = at;
    d->of[d->data.part]++;
}

static void see_left_out(void *user, trf_fault fault, const char *file, int64_t line,
                         const char *why)
{
    struct doctor *d = user;
    if (!d->examined) d->unread++;
    d->found[fault].count++;
    add_place(&d->found[fault], file_number(d, file), line, -1, why);
}

/* What trf train warns of. Without a file, `line` is an index of the data set. */
static void see_found(void *user, const char *name, int64_t count, const char *file, int64_t line,
                      char *text, char *remedy)
{
    struct doctor *d = user;
    struct finding *f = &d->found[symptom_of(name)];
    if (!f->count) { f->text = text; f->remedy = remedy; }
    else {                      /* a second one, of other files */
        char *both = format_text("%s; %s", f->text, text);
        free(f->text);
        free(text);
        free(remedy);
        f->text = both;
    }
    if (file) add_place(f, file_number(d, file), line, -1, NULL);
    else if (line >= 0)
        add_place(f, d->origins[line].file, d->origins[line].number, -1, NULL);
    f->count += count;
}

static void see_same_file(void *user, char *text)
{
    see_found(user, "same-file", 1, NULL, -1, text, NULL);
}

static int see_lines(void *user, const trf_data_lines *lines, trf_vocab *vocab[2])
{
    struct doctor *d = user;
    const struct part learned = {0, d->of[0], "training"},
                      valid = {d->of[0], d->of[1], "validation"},
                      test = {d->of[0] + d->of[1], d->of[2], "test"};
    (void)vocab;
    d->examined = 1;
    tell_overlap(&d->data, lines, valid, learned);
    tell_overlap(&d->data, lines, test, learned);
    tell_overlap(&d->data, lines, test, valid);
    if (!d->s->train.next_sentences) examine_lines(d, lines);
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>all
// -----------------------------------------------------------------------------------------------

static void end_doctor(struct doctor *d)
{
    size_t i;
    int k;
    for (i = 0; i < SYMPTOMS; i++) {
        for (k = 0; k < d->found[i].n; k++) free(d->found[i].at[k].why);
        free(d->found[i].text);
        free(d->found[i].remedy);
    }
    for (i = 0; i < d->n_files; i++) free(d->files[i]);
    free(d->files);
    free(d->origins);
    end_data(&d->data);
}

int command_doctor(struct settings *s, int argc, char **argv)
{
    static const struct watch watch = {see_read, see_added, see_left_out, see_found};
    trf_dataset_options o;
    struct doctor d;
    int status, warnings = 0;
    (void)argc;
    (void)argv;
    memset(&d, 0, sizeof d);
    d.s = d.data.s = s;
    d.data.user = &d;
    d.data.watch = &watch;
    d.data.make = see_lines;
    d.data.knows_size = 1;      /* none is held out */
    s->train.valid_size = 0;
    set_kind(s);
    if ((status = check_data_options(s)) || (status = settle_chunk(s))) return status;
    if (check_read(s)) return FAILED;
    for_same_files(s, see_same_file, &d);
    o = data_options(&d.data);
    status = read_data(&d.data, &o);
    busy_with(NULL);
    if (!status || d.n + (size_t)d.unread) warnings = report(&d);
    end_doctor(&d);
    if (check_output(stdout, NULL)) status = FAILED;
    return status ? status : warnings ? FAILED : DONE;
}

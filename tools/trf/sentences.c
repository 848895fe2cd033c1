// trf train --next-sentences: pairs of sentences for BERT's second objective. See data.h.
//
// A line of the text is a sentence, an empty line ends a document. A sentence that another one
// follows makes one pair: with that one, or with one of another document, each in half of the cases
// (Devlin et al. 2019, 3.1; BERT's create_pretraining_data.py, which also packs several sentences
// into each half). In a text of one document the other sentence is any but the two. The seed alone
// decides, so the same text gives the same pairs.

#include "data.h"

struct sentences {
    struct text text;
    size_t *document, capacity;     /* of each sentence; and the room for them */
    size_t documents;
};

/* A number below n, by splitmix64 (Steele et al. 2014). */
static size_t draw(uint64_t *state, size_t n)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (size_t)((z ^ z >> 31) % n);
}

static int read_sentences(const struct settings *s, struct examples *data, const char *path,
                          struct sentences *to)
{
    struct reader r;
    int begins = 1, got = -1, status = open_reader(&r, path);
    while (!status && (got = next_line(&r)) > 0) {
        char *at;
        if (r.fault) {
            if (skip(s, data, SKIP_UNREADABLE, r.name, r.number, r.fault)) { got = -1; break; }
            continue;
        }
        for (at = r.line; (at = strchr(at, '\t')); at++) *at = ' ';     /* a tab ends a text */
        if (!r.line[strspn(r.line, BLANKS)]) { begins = 1; continue; }
        to->documents += (size_t)begins;
        begins = 0;
        to->document = grow(to->document, &to->capacity, to->text.count + 1, sizeof *to->document);
        to->document[to->text.count] = to->documents;
        store_line(&to->text, r.line, r.number);
    }
    close_reader(&r);
    return status ? status : got ? FAILED : DONE;
}

/* A sentence that does not belong behind sentence i. */
static size_t draw_other(const struct sentences *from, size_t i, uint64_t *state)
{
    size_t other;
    do other = draw(state, from->text.count);
    while (from->documents > 1 ? from->document[other] == from->document[i]
                               : other == i || other == i + 1);
    return other;
}

int read_next_sentences(const struct settings *s, struct examples *data, struct pairs *to,
                        const char *path)
{
    struct sentences from;
    uint64_t state = s->seed;
    size_t i;
    int status;
    memset(&from, 0, sizeof from);
    status = read_sentences(s, data, path, &from);
    if (!status && from.text.count < 3) {
        say("%s: next sentences need three sentences or more, one per line, got %d", path,
            (int)from.text.count);
        status = FAILED;
    }
    for (i = 0; !status && i + 1 < from.text.count; i++) {
        int follows;
        size_t second = i + 1;
        char *pair;
        if (from.document[i + 1] != from.document[i]) continue;
        follows = draw(&state, 2) == 0;
        if (!follows) second = draw_other(&from, i, &state);
        pair = format_text("%s\t%s", line_of(&from.text, i), line_of(&from.text, second));
        store_line(&to->text[0], pair, from.text.numbers[i]);
        store_line(&to->text[1], follows ? "next" : "random", from.text.numbers[i]);
        free(pair);
    }
    if (!status && to->text[0].count == 0) {
        say("%s: no sentence follows another one: documents end at empty lines", path);
        status = FAILED;
    }
    free_text(&from.text);
    free(from.document);
    return status;
}

// trf tokenize: the tokens of each line, as the model's vocabulary cuts it. trf detokenize: the text
// of each line of tokens.
//
// Line n of the output belongs to line n of the input. Tokens are separated by blanks. So a token
// that is a blank is written as U+2581, and one that is a control character as <0x0A>.

#include "answer.h"

struct tokenizing {
    struct settings *s;
    int joins;                      /* 1: trf detokenize */
    trf_model *model;
    const trf_vocab *vocab;
    struct batches lines;
    struct unknown unknown;
    char *text;                     /* decoded */
    size_t capacity;
};

static const char blank[] = "\xE2\x96\x81";        /* U+2581 */

static const char *add_line(void *user, char why[300])
{
    struct tokenizing *t = user;
    struct batches *b = &t->lines;
    int32_t n;
    if (b->in.fault) return b->in.fault;
    note_unknown(&t->unknown, t->vocab, b->in.line, b->in.number);
    return add_words(&b->side, t->vocab, b->in.line, INT32_MAX, NULL, &n, why);
}

/* The id of a token as it is written here; -1: there is none. */
static int32_t read_token(const struct tokenizing *t, const char *text)
{
    char byte[2] = {0, 0};
    unsigned value;
    int end = 0;
    int32_t id;
    if (t->s->answer.ids) {
        char *rest;
        long number = strtol(text, &rest, 10);
        return *rest || number < 0 || number >= trf_vocab_size(t->vocab) ? -1 : (int32_t)number;
    }
    id = id_of(t->vocab, text);
    if (id < 0 && !strcmp(text, blank)) return id_of(t->vocab, " ");
    if (id < 0 && sscanf(text, "<0x%2X>%n", &value, &end) == 1 && !text[end] && value < 32) {
        byte[0] = (char)value;
        id = id_of(t->vocab, byte);
    }
    return id;
}

static const char *add_tokens(void *user, char why[300])
{
    struct tokenizing *t = user;
    struct batches *b = &t->lines;
    char *at = b->in.line, *end;
    int32_t id, n = 0;
    if (b->in.fault) return b->in.fault;
    for (at += strspn(at, " \t"); *at; at = end + strspn(end, " \t")) {
        end = at + strcspn(at, " \t");
        if (*end) *end++ = 0;
        if ((id = read_token(t, at)) < 0) {
            if (n) drop_last(&b->side);
            snprintf(why, 300, "the vocabulary has no token %s'%.80s'",
                     t->s->answer.ids ? "with the id " : "", at);
            return why;
        }
        if (n++) append_id(&b->side, id);
        else add_ids(&b->side, &id, 1);
    }
    return NULL;
}

static void write_token(const struct tokenizing *t, int32_t id)
{
    size_t bytes, i;
    const char *text = token_of(t->vocab, id, &bytes);
    if (t->s->answer.ids) fprintf(t->lines.out, "%d", (int)id);
    for (i = 0; i < bytes && !t->s->answer.ids; i++)
        if (text[i] == ' ') fputs(blank, t->lines.out);
        else if ((unsigned char)text[i] < 32) fprintf(t->lines.out, "<0x%02X>", text[i]);
        else putc(text[i], t->lines.out);
}

static int write_batch(void *user)
{
    struct tokenizing *t = user;
    struct batches *b = &t->lines;
    const int32_t *ids = b->side.ids;
    int32_t i, k, n;
    for (i = 0; i < b->n; i++, ids += n) {
        const char *text;
        n = b->line[i].n ? b->side.lengths[b->line[i].first] : 0;
        for (k = 0; k < n && !t->joins; k++) {
            if (k) putc(' ', b->out);
            write_token(t, ids[k]);
        }
        if (n && t->joins) {
            if (!(text = text_of(t->vocab, ids, n, &t->text, &t->capacity))) return FAILED;
            fputs(text, b->out);
        }
        putc('\n', b->out);
    }
    return DONE;
}

int command_tokenize(struct settings *s, int argc, char **argv)
{
    const trf_vocab *vocab[2];
    struct tokenizing t;
    int status;
    memset(&t, 0, sizeof t);
    t.s = s;
    t.joins = !strcmp(program, "trf detokenize");
    begin_batches(&t.lines, s, &t, t.joins ? add_tokens : add_line, write_batch);
    if ((status = take_input(s, argc, argv))) return status;
    status = load_model(s, &t.model, &vocab[0], &vocab[1]);
    if (!status) t.vocab = vocab[s->answer.side];
    if (!status) status = open_reader(&t.lines.in, s->input);
    if (!status) {
        status = answer_lines(&t.lines, t.lines.in.file);
        say_unusable(&t.lines, "line", t.joins ? "joined" : "cut");
        if (!t.joins) say_unknown_share(&t.unknown, "the input", 0.05);
        status = status || t.lines.broken || t.lines.unusable ? FAILED : DONE;
    }
    status = end_answers(&t.lines, status);
    free_batches(&t.lines);
    free(t.text);
    trf_model_destroy(t.model);
    return status;
}

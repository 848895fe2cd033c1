// trf tokenize: the tokens of each line, as the model's vocabulary cuts it. trf detokenize: the text
// of each line of tokens.
//
// Line n of the output belongs to line n of the input. Tokens are separated by blanks. So a blank
// within a token is written as U+2581, as in SentencePiece's pieces, and a control character as
// <0x0A>. In other vocabularies a U+2581 of the text, and "<0x", would be taken for these: their
// bytes are written so too.

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

/* Undoes what write_token does to a token's bytes, in place. blanks: 1 if U+2581 is a blank. */
static void read_bytes(char *text, int blanks)
{
    char *to = text;
    unsigned value;
    while (*text) {
        int n = 0;
        if (text[0] == '<' && sscanf(text, "<0x%2X>%n", &value, &n) == 1 && n == 6 && value) {
            *to++ = (char)value;
            text += n;
        } else if (blanks && !strncmp(text, blank, sizeof blank - 1)) {
            *to++ = ' ';
            text += sizeof blank - 1;
        } else *to++ = *text++;
    }
    *to = 0;
}

/* The id of a token as it is written here; -1: there is none. */
static int32_t read_token(const struct tokenizing *t, char *text)
{
    const int pieces = trf_vocab_kind(t->vocab) == TRF_SENTENCEPIECE;
    int32_t id;
    if (t->s->answer.ids) {
        char *rest;
        long number = strtol(text, &rest, 10);
        return *rest || number < 0 || number >= trf_vocab_size(t->vocab) ? -1 : (int32_t)number;
    }
    id = pieces ? id_of(t->vocab, text) : -1;           /* pieces of bytes are called <0x0A> */
    if (id >= 0) return id;
    read_bytes(text, !pieces);
    return id_of(t->vocab, text);
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
        snprintf(why, 300, "the vocabulary has no token %s'%.80s'",
                 t->s->answer.ids ? "with the id " : "", at);
        if ((id = read_token(t, at)) < 0) {
            if (n) drop_last(&b->side);
            return why;
        }
        if (n++) append_id(&b->side, id);
        else add_ids(&b->side, &id, 1);
    }
    return NULL;
}

static void write_token(const struct tokenizing *t, int32_t id)
{
    const int pieces = trf_vocab_kind(t->vocab) == TRF_SENTENCEPIECE;
    size_t bytes, i, hidden = 0;                /* bytes of a U+2581 of the text */
    const char *text = token_of(t->vocab, id, &bytes);
    if (t->s->answer.ids) fprintf(t->lines.out, "%d", (int)id);
    for (i = 0; i < bytes && !t->s->answer.ids; i++) {
        const size_t rest = bytes - i;
        if (!pieces && rest >= sizeof blank - 1 && !memcmp(text + i, blank, sizeof blank - 1))
            hidden = sizeof blank - 1;
        if (text[i] == ' ') fputs(blank, t->lines.out);
        else if ((unsigned char)text[i] < 32 || hidden ||
                 (!pieces && rest >= 3 && !memcmp(text + i, "<0x", 3)))
            fprintf(t->lines.out, "<0x%02X>", (unsigned char)text[i]);
        else putc(text[i], t->lines.out);
        hidden -= hidden > 0;
    }
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

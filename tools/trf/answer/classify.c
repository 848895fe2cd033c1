// trf classify: a label for every line. trf tag: a label for every word of every line.
//
// Line n of the output belongs to line n of the input, as in trf translate. An empty line gives an
// empty line. A line that cannot be labelled (too long, not UTF-8) gives an empty line, a message
// and exit status 1 at the end.

#include "answer.h"

#include <unistd.h>

struct labelling {
    struct settings *s;
    int tags;                       /* 1: trf tag */
    trf_model *model;
    trf_translator *translator;
    const trf_vocab *vocab;
    struct labels labels;
    struct reader in;
    struct unknown unknown;
    FILE *out;
    struct side side;               /* of the batch */
    struct {
        char *text;
        int32_t sequence;
        struct word_tokens words;
    } *line;                        /* of the batch; sequence -1: none */
    struct attention attention;     /* of one text */
    trf_real *p;                    /* (rows, labels) */
    size_t p_capacity;
    int32_t limit;                  /* tokens of the longest text */
    int64_t unusable, cut; /* lines that have no answer; that were cut (--truncate) or split */
    int broken;                     /* 1: the input could not be read to its end */
};

/* The end of a part that begins with token `at`: at most t->limit tokens later, between words if
   possible. */
static int32_t part_end(const struct labelling *t, const struct word_tokens *words, int32_t at)
{
    int32_t last = at + t->limit, i;
    if (words->n - at <= t->limit) return words->n;
    for (i = words->n_words; i > 0; i--)
        if (words->first[i - 1] > at && words->first[i - 1] <= last) return words->first[i - 1];
    return last;
}

/* Appends the line that was read unless it is empty. words: its words, for trf tag. Returns the
   reason if it cannot, or NULL. */
static const char *add_line(struct labelling *t, struct word_tokens *words, int32_t *n,
                            char why[300])
{
    int32_t at, end;
    *why = 0;
    *n = 0;
    if (t->in.fault) return t->in.fault;
    if (!t->tags)
        return add_source(&t->side, t->vocab, trf_model_config(t->model), t->in.line, t->limit,
                          t->s->truncate ? &t->cut : NULL, n, why);
    if (encode_words(t->vocab, t->in.line, words)) snprintf(why, 300, "%s", words->why);
    else if (words->n > t->limit && !t->s->split)
        snprintf(why, 300, "%d tokens, at most %d", (int)words->n, (int)t->limit);
    if (*why) return why;
    *n = words->n;
    t->cut += words->n > t->limit;
    for (at = 0; at < words->n; at = end) {
        end = part_end(t, words, at);
        add_ids(&t->side, words->ids + at, end - at);
    }
    return NULL;
}

static int32_t read_batch(struct labelling *t)
{
    int32_t lines = 0, n;
    char why[300];
    clear_side(&t->side);
    while (!t->broken && lines < t->s->batch) {
        int got = next_line(&t->in);
        const char *fault;
        t->broken = got < 0;
        if (got < 1) break;
        if ((fault = add_line(t, &t->line[lines].words, &n, why))) {
            say("%s:%lld: answered with an empty line: %s", t->in.name, (long long)t->in.number,
                fault);
            t->unusable++;
        } else if (n) note_unknown(&t->unknown, t->vocab, t->in.line, t->in.number);
        t->line[lines].sequence = !fault && n ? (int32_t)t->side.count - 1 : -1;
        t->line[lines++].text = format_text("%s", t->in.line);
    }
    return lines;
}

/* The tokens of that sequence of the batch and the encoder's attention; an empty line has
   neither. */
static int write_attention(struct labelling *t, int32_t sequence)
{
    const int32_t *ids = t->side.ids;
    trf_sequences one;
    int32_t i;
    if (!t->s->attention) return DONE;
    if (sequence < 0) { fputs(",\"tokens\":[],\"attention\":[]", t->out); return DONE; }
    for (i = 0; i < sequence; i++) ids += t->side.lengths[i];
    one.ids = ids;
    one.lengths = t->side.lengths + sequence;
    one.count = 1;
    print_json_tokens(t->out, "tokens", t->vocab, ids, *one.lengths);
    if (read_attention(t->translator, t->model, TRF_ENCODER_SELF, &one, NULL, &t->attention))
        return FAILED;
    print_json_attention(t->out, &t->attention, t->s->attention);
    return DONE;
}

/* The labels of a text, the most probable first. */
static int write_label(struct labelling *t, trf_real *p, int64_t number, const char *text,
                       int32_t sequence)
{
    int32_t n = t->labels.n, shown = t->s->labels_shown < n ? (int32_t)t->s->labels_shown : n, k;
    if (!t->s->json) {
        int32_t best = best_of(p, n);
        if (t->s->scores) fprintf(t->out, "%.6f\t", (double)p[best]);
        fprintf(t->out, "%s\n", t->labels.name[best]);
        return DONE;
    }
    fprintf(t->out, "{\"line\":%lld,\"text\":", (long long)number);
    print_json_text(t->out, text, strlen(text));
    fputs(",\"labels\":[", t->out);
    for (k = 0; k < shown; k++) {
        int32_t best = best_of(p, n);
        fputs(k ? ",{\"label\":" : "{\"label\":", t->out);
        print_json_text(t->out, t->labels.name[best], strlen(t->labels.name[best]));
        print_json_field(t->out, "probability", (double)p[best]);
        fputc('}', t->out);
        p[best] = -1;
    }
    fputc(']', t->out);
    if (write_attention(t, sequence)) return FAILED;
    fputs("}\n", t->out);
    return DONE;
}

/* One label for each word; p has a row for each token. */
static int write_tags(struct labelling *t, const trf_real *p, int64_t number, const char *text,
                      const struct word_tokens *words, int32_t sequence)
{
    int32_t i, n = t->labels.n;
    const char *at = text;
    if (t->s->json) fprintf(t->out, "{\"line\":%lld,\"words\":[", (long long)number);
    for (i = 0; i < words->n_words; i++) {
        const trf_real *row = p + (int64_t)words->first[i] * n;
        int32_t best = best_of(row, n);
        size_t bytes;
        at += strspn(at, BLANKS);
        bytes = strcspn(at, BLANKS);
        if (t->s->json) {
            fputs(i ? ",{\"word\":" : "{\"word\":", t->out);
            print_json_text(t->out, at, bytes);
            fputs(",\"label\":", t->out);
            print_json_text(t->out, t->labels.name[best], strlen(t->labels.name[best]));
            print_json_field(t->out, "probability", (double)row[best]);
            fputc('}', t->out);
        } else fprintf(t->out, "%s%s", i ? " " : "", t->labels.name[best]);
        at += bytes;
    }
    if (t->s->json) fputc(']', t->out);
    if (write_attention(t, sequence)) return FAILED;
    fputs(t->s->json ? "}\n" : "\n", t->out);
    return DONE;
}

static void write_nothing(struct labelling *t, int64_t number, const char *text)
{
    if (!t->s->json) { fputc('\n', t->out); return; }
    fprintf(t->out, "{\"line\":%lld", (long long)number);
    if (!t->tags) {
        fputs(",\"text\":", t->out);
        print_json_text(t->out, text, strlen(text));
    }
    fprintf(t->out, ",\"%s\":[]", t->tags ? "words" : "labels");
    (void)write_attention(t, -1);
    fputs("}\n", t->out);
}

static int label_batch(struct labelling *t, int64_t first, int32_t lines)
{
    trf_sequences sources = sequences_of(&t->side);
    int64_t n = t->tags ? (int64_t)t->side.used : sources.count;
    trf_tensor out;
    trf_real *p;
    trf_error err;
    int32_t i;
    int status = DONE;
    t->p = grow(t->p, &t->p_capacity, (size_t)(n * t->labels.n) + 1, sizeof *t->p);
    out = trf_tensor_of(p = t->p, 2, n, t->labels.n, 0);
    if (n && (t->tags ? trf_tag(t->translator, &sources, &out, &err)
                      : trf_classify(t->translator, &sources, &out, &err))) {
        say("%s:%lld: %s (%s)", t->in.name, (long long)first, err.message,
            trf_status_name((trf_status)err.status));
        return FAILED;
    }
    for (i = 0; i < lines && !status; i++) {
        int32_t sequence = t->line[i].sequence;
        if (sequence < 0) write_nothing(t, first + i, t->line[i].text);
        else if (t->tags)
            status = write_tags(t, p, first + i, t->line[i].text, &t->line[i].words, sequence);
        else status = write_label(t, p, first + i, t->line[i].text, sequence);
        if (sequence >= 0) p += (t->tags ? t->line[i].words.n : 1) * (int64_t)t->labels.n;
    }
    return status;
}

static void forget_lines(struct labelling *t, int32_t lines)
{
    int32_t i;
    for (i = 0; i < lines; i++) {
        free(t->line[i].text);
        t->line[i].text = NULL;
    }
}

static int label_lines(struct labelling *t)
{
    int flush = t->s->interactive || isatty(fileno(t->in.file)), status = DONE;
    int32_t lines;
    if (flush) t->s->batch = 1;
    if (!(t->line = zeroed_batch(t->s->batch, sizeof *t->line))) return FAILED;
    while (!status && (lines = read_batch(t)) > 0) {
        status = label_batch(t, t->in.number - lines + 1, lines);
        forget_lines(t, lines);
        if (!status && (flush || ferror(t->out))) status = check_output(t->out, t->s->output);
    }
    if (t->cut)
        say("%lld of %lld line%s had more tokens than the model takes, %d: %s", (long long)t->cut,
            (long long)t->in.number, plural(t->in.number), (int)t->limit,
            t->tags ? "labelled in parts (--split)"
                    : "labelled by their first tokens (--truncate)");
    if (t->unusable)
        say("%lld of %lld line%s could not be labelled", (long long)t->unusable,
            (long long)t->in.number, plural(t->in.number));
    say_unknown_share(&t->unknown, "the input", 0.05);
    return status || t->broken || t->unusable ? FAILED : DONE;
}

static int check_head(const struct labelling *t)
{
    const trf_config *config = trf_model_config(t->model);
    if (t->tags ? config->head == TRF_HEAD_TOKENS : classifies(config)) return DONE;
    say("%s: this model was not trained with --objective %s", t->s->model,
        t->tags ? "tag" : "classify or pretrain");
    return FAILED;
}

int command_classify(struct settings *s, int argc, char **argv)
{
    const trf_vocab *unused;
    struct labelling t;
    trf_error err;
    int32_t i;
    int status;
    memset(&t, 0, sizeof t);
    t.s = s;
    t.tags = !strcmp(program, "trf tag");
    if (!s->json && is_given(s, AT(labels_shown))) { say("--n-best needs --json"); return USAGE; }
    if (s->attention && !s->json) { say("--attention needs --json"); return USAGE; }
    if (s->attention && s->split) {
        say("--attention needs whole lines, but --split labels a line in parts");
        return USAGE;
    }
    if ((status = take_input(s, argc, argv))) return status;
    status = load_model(s, &t.model, &t.vocab, &unused);
    if (!status) status = check_head(&t);
    if (!status) status = load_labels(t.model, s->model, &t.labels);
    if (!status && trf_translator_create(&t.translator, t.model, &s->search, &err))
        status = refused("labelling", &err);
    if (!status) status = open_reader(&t.in, s->input);
    if (!status && !(t.out = open_output(s))) status = FAILED;
    if (!status) {
        t.limit = source_limit(trf_model_config(t.model));
        status = label_lines(&t);
    }
    if (t.out && close_output(t.out, s->output)) status = FAILED;
    close_reader(&t.in);
    free_side(&t.side);
    free_attention(&t.attention);
    free(t.p);
    for (i = 0; t.line && i < s->batch; i++) free_word_tokens(&t.line[i].words);
    free(t.line);
    free_labels(&t.labels);
    trf_translator_destroy(t.translator);
    trf_model_destroy(t.model);
    return status;
}

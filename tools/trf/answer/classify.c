// trf classify: a label for every line. trf tag: a label for every word of every line.
//
// Line n of the output belongs to line n of the input, as in trf translate. An empty line gives an
// empty line. A line that cannot be labelled (too long, not UTF-8) gives an empty line, a message
// and exit status 1 at the end.

#include "answer.h"

struct labelling {
    struct settings *s;
    int tags;                       /* 1: trf tag */
    trf_model *model;
    struct ensemble ensemble;
    trf_reader *reader;
    const trf_vocab *vocab;
    trf_label_kind kind;
    int32_t n_labels;
    struct labels labels;           /* numbers need no names */
    struct batches lines;
    struct word_tokens *words;      /* of each line of the batch, for trf tag */
    struct unknown unknown;
    struct attention attention;     /* of one text */
    trf_real *p;                    /* (rows, labels) */
    size_t p_capacity;
    int32_t limit;                  /* tokens of the longest text */
    int64_t cut;                    /* lines that were cut (--truncate) or split */
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

/* Encodes the words of the line that was read, and appends them in parts. Returns the reason if it
   cannot, or NULL. */
static const char *add_tagged(struct labelling *t, struct word_tokens *words, char why[300])
{
    int32_t at, end;
    if (encode_words(t->vocab, t->lines.in.line, words)) return words->why;
    if (words->n > t->limit && !t->s->answer.split) {
        snprintf(why, 300, "%d tokens, at most %d", (int)words->n, (int)t->limit);
        return why;
    }
    t->cut += words->n > t->limit;
    for (at = 0; at < words->n; at = end) {
        end = part_end(t, words, at);
        add_ids(&t->lines.side, words->ids + at, end - at);
    }
    return NULL;
}

static const char *add_line(void *user, char why[300])
{
    struct labelling *t = user;
    struct batches *b = &t->lines;
    const char *fault = b->in.fault;
    int32_t n;
    if (!fault)
        fault = t->tags ? add_tagged(t, &t->words[b->n], why)
                        : add_source(&b->side, t->vocab, trf_model_config(t->model), b->in.line,
                                     t->limit, t->s->answer.truncate ? &t->cut : NULL, &n, why);
    if (!fault) note_unknown(&t->unknown, t->vocab, b->in.line, b->in.number);
    return fault;
}

/* The tokens of a line and the encoder's attention; an empty line has neither. */
static int write_attention(struct labelling *t, const struct batch_line *line)
{
    const struct side *side = &t->lines.side;
    const int32_t *ids = side->ids;
    trf_sequences one;
    int32_t i;
    if (!t->s->answer.attention) return DONE;
    if (!line->n) { fputs(",\"tokens\":[],\"attention\":[]", t->lines.out); return DONE; }
    for (i = 0; i < line->first; i++) ids += side->lengths[i];
    one.ids = ids;
    one.lengths = side->lengths + line->first;
    one.count = 1;
    print_json_tokens(t->lines.out, "tokens", t->vocab, ids, *one.lengths);
    if (read_attention(t->reader, t->model, TRF_ENCODER_SELF, &one, NULL, &t->attention))
        return FAILED;
    print_json_attention(t->lines.out, &t->attention, t->s->answer.attention);
    return DONE;
}

/* Several labels at once: those with a probability of 1/2 or more, with commas between them. */
static void write_labels(struct labelling *t, const trf_real *p)
{
    FILE *out = t->lines.out;
    int32_t column, i, n;
    for (column = !t->s->answer.scores; column < 2; column++) {
        for (i = n = 0; i < t->labels.n; i++) {
            if (p[i] < (trf_real)0.5) continue;
            if (n++) fputc(',', out);
            if (column) fputs(t->labels.name[i], out);
            else fprintf(out, "%.6f", (double)p[i]);
        }
        fputc(column ? '\n' : '\t', out);
    }
}

/* Labels that are numbers. */
static int write_numbers(struct labelling *t, const trf_real *p, const struct batch_line *line)
{
    FILE *out = t->lines.out;
    int32_t i, n = count_labels(trf_model_config(t->model));
    if (!t->s->json) {
        for (i = 0; i < n; i++) fprintf(out, "%s%.6g", i ? " " : "", (double)p[i]);
        fputc('\n', out);
        return DONE;
    }
    fprintf(out, "{\"line\":%lld", (long long)line->number);
    print_json_member(out, "text", line->text);
    fputs(",\"numbers\":[", out);
    for (i = 0; i < n; i++) {
        if (i) fputc(',', out);
        print_json_number(out, (double)p[i]);
    }
    fputc(']', out);
    if (write_attention(t, line)) return FAILED;
    fputs("}\n", out);
    return DONE;
}

/* The labels of a text, the most probable first. */
static int write_label(struct labelling *t, trf_real *p, const struct batch_line *line)
{
    FILE *out = t->lines.out;
    int32_t n = t->labels.n, shown = t->s->answer.labels_shown < n
        ? (int32_t)t->s->answer.labels_shown : n, k;
    if (t->kind == TRF_LABELS_NUMBERS) return write_numbers(t, p, line);
    if (!t->s->json && t->kind == TRF_LABELS_ANY) { write_labels(t, p); return DONE; }
    if (!t->s->json) {
        int32_t best = best_of(p, n);
        if (t->s->answer.scores) fprintf(out, "%.6f\t", (double)p[best]);
        fprintf(out, "%s\n", t->labels.name[best]);
        return DONE;
    }
    fprintf(out, "{\"line\":%lld", (long long)line->number);
    print_json_member(out, "text", line->text);
    fputs(",\"labels\":[", out);
    for (k = 0; k < shown; k++) {
        int32_t best = best_of(p, n);
        fputs(k ? ",{\"label\":" : "{\"label\":", out);
        print_json_text(out, t->labels.name[best], strlen(t->labels.name[best]));
        print_json_field(out, "probability", (double)p[best]);
        fputc('}', out);
        p[best] = -1;
    }
    fputc(']', out);
    if (write_attention(t, line)) return FAILED;
    fputs("}\n", out);
    return DONE;
}

/* One label for each word; p has a row for each token. */
static int write_tags(struct labelling *t, const trf_real *p, const struct batch_line *line,
                      const struct word_tokens *words)
{
    FILE *out = t->lines.out;
    int32_t i, n = t->labels.n;
    const char *at = line->text;
    if (t->s->json) fprintf(out, "{\"line\":%lld,\"words\":[", (long long)line->number);
    for (i = 0; i < words->n_words; i++) {
        const trf_real *row = p + (int64_t)words->first[i] * n;
        int32_t best = best_of(row, n);
        size_t bytes;
        at += strspn(at, BLANKS);
        bytes = strcspn(at, BLANKS);
        if (t->s->json) {
            fputs(i ? ",{\"word\":" : "{\"word\":", out);
            print_json_text(out, at, bytes);
            print_json_member(out, "label", t->labels.name[best]);
            print_json_field(out, "probability", (double)row[best]);
            fputc('}', out);
        } else if (t->s->answer.conll) {
            fprintf(out, "%.*s\t%s\n", (int)bytes, at, t->labels.name[best]);
        } else fprintf(out, "%s%s", i ? " " : "", t->labels.name[best]);
        at += bytes;
    }
    if (t->s->json) fputc(']', out);
    if (write_attention(t, line)) return FAILED;
    fputs(t->s->json ? "}\n" : "\n", out);
    return DONE;
}

static void write_nothing(struct labelling *t, const struct batch_line *line)
{
    FILE *out = t->lines.out;
    if (!t->s->json) { fputc('\n', out); return; }
    fprintf(out, "{\"line\":%lld", (long long)line->number);
    if (!t->tags) print_json_member(out, "text", line->text);
    fprintf(out, ",\"%s\":[]",
            t->tags ? "words" : t->kind == TRF_LABELS_NUMBERS ? "numbers" : "labels");
    (void)write_attention(t, line);
    fputs("}\n", out);
}

static int label_batch(void *user)
{
    struct labelling *t = user;
    const struct batches *b = &t->lines;
    trf_sequences sources = sequences_of(&b->side);
    int64_t n = t->tags ? (int64_t)b->side.used : sources.count;
    trf_tensor out;
    trf_real *p;
    trf_error err;
    int32_t i;
    int status = DONE;
    t->p = grow(t->p, &t->p_capacity, (size_t)(n * t->n_labels) + 1, sizeof *t->p);
    out = trf_tensor_of(p = t->p, 2, n, t->n_labels, 0);
    if (n && trf_reader_classify(t->reader, &sources, &out, &err))
        return say_batch_failed(b, &err);
    for (i = 0; i < b->n && !status; i++) {
        const struct batch_line *line = &b->line[i];
        if (!line->n) write_nothing(t, line);
        else if (t->tags) status = write_tags(t, p, line, &t->words[i]);
        else status = write_label(t, p, line);
        if (line->n) p += (t->tags ? t->words[i].n : 1) * (int64_t)t->n_labels;
    }
    return status;
}

static int label_lines(struct labelling *t)
{
    struct batches *b = &t->lines;
    int status;
    if (t->tags && !(t->words = zeroed_batch(t->s->buffer, sizeof *t->words))) return FAILED;
    status = answer_lines(b, b->in.file);
    if (t->cut)
        say("%lld of %lld line%s had more tokens than the model takes, %d: %s", (long long)t->cut,
            (long long)b->lines, plural(b->lines), (int)t->limit,
            t->tags ? "labelled in parts (--split)"
                    : "labelled by their first tokens (--truncate)");
    say_unusable(b, "line", "labelled");
    say_watched(b);
    say_unknown_share(&t->unknown, "the input", 0.05);
    return status || b->broken || b->unusable ? FAILED : DONE;
}

static int check_head(struct labelling *t)
{
    const trf_config *config = trf_model_config(t->model);
    t->kind = config->label_kind;
    t->n_labels = count_labels(config);
    if (t->kind == TRF_LABELS_NUMBERS && (t->s->answer.scores || is_given(t->s, AT(answer.labels_shown)))) {
        say("--%s is for labels, but this model gives numbers", t->s->answer.scores ? "scores" : "top");
        return USAGE;
    }
    if (t->tags ? config->head == TRF_HEAD_TOKENS : classifies(config)) return DONE;
    say("%s: this model was not trained with --objective %s", t->s->model,
        t->tags ? "tag" : "classify or pretrain");
    return FAILED;
}

int command_classify(struct settings *s, int argc, char **argv)
{
    const trf_vocab *unused;
    struct labelling t;
    int32_t i;
    int status;
    memset(&t, 0, sizeof t);
    t.s = s;
    begin_batches(&t.lines, s, &t, add_line, label_batch);
    t.tags = !strcmp(program, "trf tag");
    if (!s->json && is_given(s, AT(answer.labels_shown)))
        { say("--top needs --json"); return USAGE; }
    if (s->answer.attention && !s->json) { say("--attention needs --json"); return USAGE; }
    if (s->answer.conll && s->json) { say("give --conll or --json, not both"); return USAGE; }
    if (s->answer.conll) t.lines.form = ANSWER_BLOCK;
    if (s->answer.attention && s->answer.split) {
        say("--attention needs whole lines, but --split labels a line in parts");
        return USAGE;
    }
    if ((status = take_input(s, argc, argv))) return status;
    status = load_model(s, &t.model, &t.vocab, &unused);
    if (!status) status = check_head(&t);
    if (!status && t.kind != TRF_LABELS_NUMBERS)
        status = load_labels(t.model, s->model, &t.labels);
    if (!status) status = load_ensemble(s, t.model, t.vocab, &t.ensemble);
    if (!status && s->answer.attention) status = shows_one(&t.ensemble, "--attention");
    if (!status) status = open_model(s, &t.ensemble, t.model, "labelling", &t.reader);
    if (!status) status = open_reader(&t.lines.in, s->input);
    if (!status) watch_lines(&t.lines, t.model);
    if (!status) {
        t.limit = least_of(&t.ensemble, source_limit);
        status = label_lines(&t);
    }
    status = end_answers(&t.lines, status);
    for (i = 0; t.words && i < s->buffer; i++) free_word_tokens(&t.words[i]);
    free(t.words);
    free_batches(&t.lines);
    free_attention(&t.attention);
    free(t.p);
    free_labels(&t.labels);
    trf_reader_destroy(t.reader);
    free_ensemble(&t.ensemble);
    trf_model_destroy(t.model);
    return status;
}

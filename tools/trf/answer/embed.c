// trf embed: a vector for every line, or the lines nearest to a text.
//
// The rows of the encoder's output for a line are pooled into one vector. Line n of the output
// belongs to line n of the input, as in trf translate. A line without tokens has no vector, and
// neither has a line that cannot be read (too long, not UTF-8): each gives an empty line, or a row
// of zeros in an .npy. A line that cannot be read also gives a message and exit status 1 at the
// end. With --query, such lines are left out.

#include "answer.h"

#include <math.h>

/* A line with its cosine to the query. */
struct neighbour { double score; int64_t order, number; const char *file; char *text; };

struct embedding {
    struct settings *s;
    trf_model *model;
    trf_translator *translator;
    const trf_vocab *vocab;
    struct batches lines;
    struct unknown unknown;
    trf_real *vectors;          /* (sequences, d_model) of the batch */
    size_t vectors_capacity;
    trf_real *query;            /* (d_model), of length 1; or NULL */
    unsigned char *bytes;       /* of a row of the .npy */
    struct neighbour *near;     /* at most 2 * top */
    size_t n_near, near_capacity;
    int64_t compared;           /* lines */
    double cutoff;              /* scores up to this are not among the best */
    int32_t width, limit;       /* d_model; tokens of the longest line */
    int64_t cut;                /* lines cut (--truncate) */
};

static int is_npy(const char *path) { return path && ends_with(path, ".npy"); }

// -----------------------------------------------------------------------------------------------
// >>vectors        lines become sequences, and these become vectors
// -----------------------------------------------------------------------------------------------

/* A line, or --query. */
static const char *add_line(struct embedding *t, const char *text, int32_t *n, char why[300])
{
    int64_t *cut = t->s->answer.truncate ? &t->cut : NULL;
    return add_words(&t->lines.side, t->vocab, text, t->limit, cut, n, why);
}

static const char *add_next_line(void *user, char why[300])
{
    struct embedding *t = user;
    const struct reader *in = &t->lines.in;
    int32_t n;
    const char *fault = in->fault ? in->fault : add_line(t, in->line, &n, why);
    if (!fault) note_unknown(&t->unknown, t->vocab, in->line, in->number);
    return fault;
}

/* Computes the vectors of the sequences of the batch. --query needs vectors of length 1, which is
   the default. */
static int embed_sequences(struct embedding *t)
{
    trf_sequences sources = sequences_of(&t->lines.side);
    trf_tensor out;
    trf_error err;
    t->vectors = grow(t->vectors, &t->vectors_capacity,
                      (size_t)sources.count * (size_t)t->width + 1, sizeof *t->vectors);
    out = trf_tensor_of(t->vectors, 2, sources.count, t->width, 0);
    if (!sources.count || !trf_embed(t->translator, &sources, (trf_pooling)t->s->pooling,
                                     t->s->embed.unit_vectors, &out, &err))
        return DONE;
    say_error("encoder", &err);
    return FAILED;
}

/* That of a line, or NULL. */
static const trf_real *vector_of(const struct embedding *t, const struct batch_line *line)
{
    return line->n ? t->vectors + (int64_t)line->first * t->width : NULL;
}

// -----------------------------------------------------------------------------------------------
// >>lines          vectors as text or JSON
// -----------------------------------------------------------------------------------------------

/* Nine digits give the same float again. */
static void print_vector(struct embedding *t, const trf_real *vector, char between)
{
    int32_t i;
    for (i = 0; vector && i < t->width; i++) {
        if (i) fputc(between, t->lines.out);
        if (t->s->json) print_json_number(t->lines.out, (double)vector[i]);
        else fprintf(t->lines.out, "%.9g", (double)vector[i]);
    }
}

static void write_line(struct embedding *t, const struct batch_line *line)
{
    if (!t->s->json) {
        print_vector(t, vector_of(t, line), ' ');
        fputc('\n', t->lines.out);
        return;
    }
    fprintf(t->lines.out, "{\"line\":%lld", (long long)line->number);
    print_json_member(t->lines.out, "text", line->text);
    fputs(",\"embedding\":[", t->lines.out);
    print_vector(t, vector_of(t, line), ',');
    fputs("]}\n", t->lines.out);
}

// -----------------------------------------------------------------------------------------------
// >>npy            vectors as an array of NumPy
//
// Format 1.0: a magic number, the length of the header, the header, the floats in little-endian
// order. The header gets the number of lines at the end; its size stays.
// -----------------------------------------------------------------------------------------------

static void write_npy_head(void *user, int64_t rows, char head[HEAD])
{
    struct embedding *t = user;
    int n;
    memset(head, ' ', HEAD);
    memcpy(head, "\x93NUMPY\1\0", 8);
    head[8] = HEAD - 10;
    head[9] = 0;
    n = snprintf(head + 10, HEAD - 10,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }",
                 (long long)rows, (int)t->width);
    head[10 + n] = ' ';
    head[HEAD - 1] = '\n';
}

static void write_npy_row(struct embedding *t, const trf_real *vector)
{
    int32_t i;
    int k;
    for (i = 0; i < t->width; i++) {
        float x = vector ? (float)vector[i] : 0;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        for (k = 0; k < 4; k++) t->bytes[4 * i + k] = (unsigned char)(bits >> 8 * k);
    }
    fwrite(t->bytes, 4, (size_t)t->width, t->lines.out);
}

// -----------------------------------------------------------------------------------------------
// >>query          the nearest lines
// -----------------------------------------------------------------------------------------------

static int by_score(const void *a, const void *b)
{
    const struct neighbour *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Sorts the lines and forgets all but the best. */
static void keep_best(struct embedding *t)
{
    size_t top = (size_t)t->s->embed.top;
    if (t->n_near) qsort(t->near, t->n_near, sizeof *t->near, by_score);
    while (t->n_near > top) free(t->near[--t->n_near].text);
    if (t->n_near == top) t->cutoff = t->near[top - 1].score;
}

/* Takes the text of the line if it may be one of the best. */
static void compare(struct embedding *t, struct batch_line *line)
{
    const trf_real *vector = vector_of(t, line);
    struct neighbour *to;
    double score = 0;
    int32_t i;
    if (!vector) return;
    for (i = 0; i < t->width; i++) score += (double)vector[i] * (double)t->query[i];
    if (!(score > t->cutoff)) return;
    if (t->n_near == 2 * (size_t)t->s->embed.top) keep_best(t);
    t->near = grow(t->near, &t->near_capacity, t->n_near + 1, sizeof *t->near);
    to = &t->near[t->n_near++];
    to->score = score;
    to->order = t->compared++;
    to->number = line->number;
    to->file = t->lines.in.name;
    to->text = line->text;
    line->text = NULL;
}

static void write_nearest(struct embedding *t)
{
    size_t i;
    keep_best(t);
    for (i = 0; i < t->n_near; i++) {
        const struct neighbour *n = &t->near[i];
        if (!t->s->json) {
            fprintf(t->lines.out, "%.4f\t%s\n", n->score, n->text);
            continue;
        }
        fprintf(t->lines.out, "{\"line\":%lld", (long long)n->number);
        print_json_field(t->lines.out, "score", n->score);
        print_json_member(t->lines.out, "file", n->file);
        print_json_member(t->lines.out, "text", n->text);
        fputs("}\n", t->lines.out);
    }
}

static int read_query(struct embedding *t)
{
    struct unknown unknown;
    char why[300];
    int32_t n = 0;
    const char *fault = add_line(t, t->s->embed.query, &n, why);
    if (fault) { say("--query: %s", fault); return FAILED; }
    if (n == 0) { say("--query has no tokens, so it has no vector"); return FAILED; }
    if (t->cut) say("--query: its first %d tokens are used (--truncate)", (int)t->limit);
    t->cut = 0;
    memset(&unknown, 0, sizeof unknown);
    note_unknown(&unknown, t->vocab, t->s->embed.query, 0);
    say_unknown_share(&unknown, "--query", 0);
    if (embed_sequences(t)) return FAILED;
    t->query = t->vectors;
    t->vectors = NULL;
    t->vectors_capacity = 0;
    t->cutoff = -HUGE_VAL;
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>command
// -----------------------------------------------------------------------------------------------

static int embed_batch(void *user)
{
    struct embedding *t = user;
    struct batches *b = &t->lines;
    int32_t i;
    if (embed_sequences(t)) return FAILED;
    for (i = 0; i < b->n; i++) {
        if (t->query) compare(t, &b->line[i]);
        else if (b->head) write_npy_row(t, vector_of(t, &b->line[i]));
        else write_line(t, &b->line[i]);
    }
    return DONE;
}

/* Embeds the lines of a file. */
static int embed_file(struct embedding *t, const char *path)
{
    struct batches *b = &t->lines;
    int status = open_reader(&b->in, path);
    if (!status) status = answer_lines(b, b->in.file);
    close_reader(&b->in);
    return status || b->broken ? FAILED : DONE;
}

static int embed_files(struct embedding *t, int n, char **files)
{
    int i, status = DONE;
    if (n == 0 || t->s->input) status = embed_file(t, t->s->input);
    for (i = 0; i < n && !status; i++) status = embed_file(t, files[i]);
    if (t->query && !status) write_nearest(t);
    if (t->cut)
        say("%lld of %lld line%s had more tokens than the model takes, %d: their first tokens are "
            "used (--truncate)",
            (long long)t->cut, (long long)t->lines.lines, plural(t->lines.lines), (int)t->limit);
    say_unusable(&t->lines, "line", "embedded");
    say_watched(&t->lines);
    say_unknown_share(&t->unknown, "the input", 0.05);
    return status;
}

/* Options that do not go together. */
static int check_options(const struct settings *s)
{
    int npy = is_npy(s->output);
    if (s->embed.query && !*s->embed.query) {
        say("--query is empty: give the text that lines are compared with");
        return USAGE;
    }
    if (!s->embed.query && is_given(s, AT(embed.top))) { say("--top needs --query"); return USAGE; }
    if (s->embed.query && is_given(s, AT(embed.unit_vectors))) {
        say("--normalize is for vectors: a cosine does not depend on their lengths");
        return USAGE;
    }
    if (s->answer.interactive && (s->embed.query || npy)) {
        say("--interactive answers each line at once, but %s needs all lines",
            s->embed.query ? "--query" : "an .npy");
        return USAGE;
    }
    if (npy && (s->embed.query || s->json)) {
        say("--output '%s' is an array of numbers, but %s writes text", s->output,
            s->embed.query ? "--query" : "--json");
        return USAGE;
    }
    return DONE;
}

/* The files of lines: one as --input, several for --query. */
static int check_files(struct settings *s, int *n, char **files)
{
    int i, status;
    if (!s->embed.query) {
        if ((status = take_input(s, *n, files))) return status;
        *n = 0;
    }
    for (i = 0; i < *n; i++) {
        if (check_readable(files[i]) || check_not_output(files[i])) return FAILED;
        if (!same_file(s->output, files[i])) continue;
        say("--output '%s' is also a file to read", s->output);
        return FAILED;
    }
    return DONE;
}

static int check_encoder(const struct settings *s, const trf_model *model)
{
    if (trf_model_config(model)->kind != TRF_DECODER_ONLY) return DONE;
    say("%s: a decoder-only model has no encoder, and vectors are made from an encoder's output",
        s->model);
    return FAILED;
}

/* Takes the pooling that an imported sentence encoder remembers, unless an option says another. */
static int find_pooling(struct settings *s, const trf_model *model)
{
    if (is_given(s, AT(pooling))) return DONE;
    s->pooling = (int32_t)trf_model_pooling(model);
    if (s->pooling < TRF_POOLING_COUNT) return DONE;
    say("--pooling takes mean, first or max, got '%s' from the metadata of '%s'",
        trf_model_metadata(model, pooling_key), s->model);
    return FAILED;
}

static int start(struct embedding *t)
{
    const trf_config *config = trf_model_config(t->model);
    trf_error err;
    if (trf_translator_create(&t->translator, t->model, &t->s->search, &err))
        return refused("encoder", &err);
    t->width = config->d_model;
    t->limit = source_limit(config);
    t->bytes = zeroed((size_t)t->width, 4);
    if (t->s->embed.query && read_query(t)) return FAILED;
    t->lines.row_bytes = 4 * (int64_t)t->width;
    if (t->lines.form != ANSWERS_AT_END) return DONE;
    if (open_output(t->s, &t->lines.output)) return FAILED;
    t->lines.out = t->lines.output.file;
    return DONE;
}

int command_embed(struct settings *s, int argc, char **argv)
{
    const trf_vocab *unused;
    struct embedding t;
    int status;
    memset(&t, 0, sizeof t);
    t.s = s;
    begin_batches(&t.lines, s, &t, add_next_line, embed_batch);
    if (s->embed.query) {
        t.lines.instead = "left out";
        t.lines.form = ANSWERS_AT_END;
    } else if (is_npy(s->output)) {
        t.lines.instead = "answered with a row of zeros";
        t.lines.form = ANSWER_ROW;
        t.lines.head = write_npy_head;
    }
    if ((status = check_options(s)) || (status = check_files(s, &argc, argv))) return status;
    status = load_model(s, &t.model, &t.vocab, &unused);
    if (!status) status = check_encoder(s, t.model);
    if (!status) status = find_pooling(s, t.model);
    if (!status) status = start(&t);
    if (!status) watch_lines(&t.lines, t.model);
    if (!status) status = embed_files(&t, argc, argv);
    status = end_answers(&t.lines, status);
    if (!status && t.lines.unusable) status = FAILED;
    while (t.n_near) free(t.near[--t.n_near].text);
    free(t.near);
    free_batches(&t.lines);
    free(t.vectors);
    free(t.query);
    free(t.bytes);
    trf_translator_destroy(t.translator);
    trf_model_destroy(t.model);
    return status;
}

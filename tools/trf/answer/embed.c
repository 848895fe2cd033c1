// trf embed: a vector for every line, or the lines nearest to a text.
//
// The rows of the encoder's output for a line are pooled into one vector. Line n of the output
// belongs to line n of the input, as in trf translate. A line without tokens has no vector, and
// neither has a line that cannot be read (too long, not UTF-8): each gives an empty line, or a row
// of zeros in an .npy. A line that cannot be read also gives a message and exit status 1 at the
// end. With --query, such lines are left out.

#include "answer.h"

#include <errno.h>
#include <math.h>

/* A line with its cosine to the query. */
struct neighbour { double score; int64_t order, number; const char *file; char *text; };

struct embedding {
    struct settings *s;
    trf_model *model;
    trf_reader *reader;
    const trf_vocab *vocab;
    struct batches lines;
    struct unknown unknown;
    trf_real *vectors;          /* (sequences, d_model) of the batch */
    size_t vectors_capacity;
    trf_real *query;            /* (d_model), of length 1; or NULL */
    uint64_t fingerprint;       /* of the model and the kind of its vectors, for an .npy */
    uint64_t lines_read;        /* fingerprint of the lines */
    FILE *index;                /* --index: an .npy with a row for each of `texts` */
    struct text texts;
    const char **files;         /* of each text */
    size_t files_capacity;
    unsigned char *bytes;       /* of a row of the .npy */
    struct neighbour *near;     /* at most 2 * top */
    size_t n_near, near_capacity;
    int64_t compared;           /* lines */
    double cutoff;              /* scores up to this are not among the best */
    int32_t width, limit;       /* d_model; tokens of the longest line */
    int64_t cut;                /* lines cut (--truncate) */
    const char *prompt;         /* of the model; or NULL */
};

static int is_npy(const char *path) { return path && ends_with(path, ".npy"); }

// -----------------------------------------------------------------------------------------------
// >>vectors        lines become sequences, and these become vectors
// -----------------------------------------------------------------------------------------------

/* A line, or --query. */
static const char *add_line(struct embedding *t, const char *text, int32_t *n, char why[300])
{
    int64_t *cut = t->s->answer.truncate ? &t->cut : NULL;
    char *whole = t->prompt ? format_text("%s%s", t->prompt, text) : NULL;
    const char *fault = add_words(&t->lines.side, t->vocab, whole ? whole : text, t->limit, cut, n,
                                  why);
    free(whole);
    return fault;
}

/* Adds a line to the fingerprint of all of them. */
static void note_text(struct embedding *t, const struct reader *in)
{
    const char *text = in->fault ? "" : in->line;
    t->lines_read = hash_bytes(t->lines_read, text, strlen(text) + 1);
}

static const char *add_next_line(void *user, char why[300])
{
    struct embedding *t = user;
    const struct reader *in = &t->lines.in;
    int32_t n;
    const char *fault = in->fault ? in->fault : add_line(t, in->line, &n, why);
    note_text(t, in);
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
    if (!sources.count || !trf_reader_embed(t->reader, &sources, (trf_pooling)t->s->pooling,
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
// order. The header gets the number of lines at the end; its size stays. It ends with a comment of
// Python: the fingerprint of what made the vectors, and that of the lines.
// -----------------------------------------------------------------------------------------------

static int find_fingerprint(struct embedding *t)
{
    FILE *file = fopen(t->s->model, "rb");
    char bytes[65536];
    size_t n;
    t->fingerprint = hash_bytes((uint64_t)t->s->pooling, &t->s->embed.unit_vectors,
                                sizeof t->s->embed.unit_vectors);
    while (file && (n = fread(bytes, 1, sizeof bytes, file)))
        t->fingerprint = hash_bytes(t->fingerprint, bytes, n);
    if (file && !fclose(file)) return DONE;
    say("cannot read '%s': %s", t->s->model, strerror(errno));
    return FAILED;
}

static void write_npy_head(void *user, int64_t vectors, char head[HEAD])
{
    struct embedding *t = user;
    int n;
    memset(head, ' ', HEAD);
    memcpy(head, "\x93NUMPY\1\0", 8);
    head[8] = HEAD - 10;
    head[9] = 0;
    n = snprintf(head + 10, HEAD - 10,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), } # trf %016llx "
                 "%012llx", (long long)vectors, (int)t->width, (unsigned long long)t->fingerprint,
                 (unsigned long long)t->lines_read & 0xFFFFFFFFFFFF);
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

/* Keeps a text if it may be one of the best. vector NULL: it has none. */
static void compare(struct embedding *t, const trf_real *vector, const char *file, int64_t number,
                    const char *text)
{
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
    to->number = number;
    to->file = file;
    to->text = format_text("%s", text);
}

/* question: what they are nearest to, if there are several questions; or NULL. */
static void write_nearest(struct embedding *t, const char *question)
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
        if (question) print_json_member(t->lines.out, "query", question);
        print_json_field(t->lines.out, "score", n->score);
        print_json_member(t->lines.out, "file", n->file);
        print_json_member(t->lines.out, "text", n->text);
        fputs("}\n", t->lines.out);
    }
    while (t->n_near) free(t->near[--t->n_near].text);
}

/* what: "--query", or where the question stands. */
static int read_query(struct embedding *t, const char *question, const char *what)
{
    struct unknown unknown;
    char why[300];
    int32_t n = 0;
    const char *fault;
    clear_side(&t->lines.side);
    fault = add_line(t, question, &n, why);
    if (fault) { say("%s: %s", what, fault); return FAILED; }
    if (n == 0) { say("%s has no tokens, so it has no vector", what); return FAILED; }
    if (t->cut) say("%s: its first %d tokens are used (--truncate)", what, (int)t->limit);
    t->cut = 0;
    memset(&unknown, 0, sizeof unknown);
    note_unknown(&unknown, t->vocab, question, 0);
    say_unknown_share(&unknown, what, 0);
    if (embed_sequences(t)) return FAILED;
    free(t->query);
    t->query = t->vectors;
    t->vectors = NULL;
    t->vectors_capacity = 0;
    t->cutoff = -HUGE_VAL;
    t->compared = 0;
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>index          the nearest lines, whose vectors are in an .npy
// -----------------------------------------------------------------------------------------------

/* Reads the texts of a file. */
static int read_texts(struct embedding *t, const char *path)
{
    struct reader *in = &t->lines.in;
    int got = 0, status = open_reader(in, path);
    while (!status && (got = next_line(in)) > 0) {
        t->files = grow(t->files, &t->files_capacity, t->texts.count + 1, sizeof *t->files);
        t->files[t->texts.count] = in->name;
        store_line(&t->texts, in->fault ? "" : in->line, in->number);
        note_text(t, in);
    }
    close_reader(in);
    return status || got < 0 ? FAILED : DONE;
}

/* Opens --index, which must be of this model and have a row for each text. */
static int open_index(struct embedding *t, int n, char **files)
{
    const char *path = t->s->embed.index, *at;
    char head[HEAD + 1], wanted[HEAD];
    const char *comment;
    long long vectors = -1;
    size_t same;
    int i;
    if (!(t->index = fopen(path, "rb"))) {
        say("cannot read '%s': %s", path, strerror(errno));
        return FAILED;
    }
    memset(head, 0, sizeof head);
    if (fread(head, 1, HEAD, t->index) == HEAD && (at = strstr(head + 10, "'shape': (")))
        (void)sscanf(at, "'shape': (%lld,", &vectors);
    write_npy_head(t, vectors, wanted);
    same = (comment = strstr(head + 10, "# trf ")) ? (size_t)(comment - head) + 22 : 0;
    if (vectors < 0 || !same || same > HEAD - 14 || memcmp(head, wanted, same)) {
        say("'%s' is no array that trf embed --output has made with this model and --pooling, and "
            "with --normalize yes", path);
        return FAILED;
    }
    for (i = 0; i < n; i++) if (read_texts(t, files[i])) return FAILED;
    if ((long long)t->texts.count != vectors) {
        say("'%s' has %lld vector%s, but the texts have %lld line%s", path, vectors, plural(vectors),
            (long long)t->texts.count, plural((int64_t)t->texts.count));
        return FAILED;
    }
    write_npy_head(t, vectors, wanted);
    /* an array of trf 0.3 does not know its lines */
    if (head[same] == ' ' && head[same + 1] != ' ' && memcmp(head, wanted, HEAD)) {
        say("'%s' has the vectors of other lines: trf embed --output makes them again", path);
        return FAILED;
    }
    return DONE;
}

/* Compares t->query with every vector of the index. A row of zeros is none. */
static int search_index(struct embedding *t)
{
    trf_real *vector = zeroed((size_t)t->width, sizeof *vector);
    size_t i, row = 4 * (size_t)t->width;
    int32_t k, b;
    int status = fseeko(t->index, HEAD, SEEK_SET) ? FAILED : DONE;
    for (i = 0; i < t->texts.count && !status; i++) {
        int any = 0;
        if (fread(t->bytes, 1, row, t->index) != row) { status = FAILED; break; }
        for (k = 0; k < t->width; k++) {
            uint32_t bits = 0;
            float x;
            for (b = 0; b < 4; b++) bits |= (uint32_t)t->bytes[4 * k + b] << 8 * b;
            memcpy(&x, &bits, sizeof x);
            vector[k] = (trf_real)x;
            any |= bits != 0;
        }
        compare(t, any ? vector : NULL, t->files[i], t->texts.numbers[i], line_of(&t->texts, i));
    }
    if (status) say("cannot read '%s': it ends within its vectors", t->s->embed.index);
    free(vector);
    return status;
}

/* Answers each line of standard input at once. */
static int answer_questions(struct embedding *t)
{
    struct reader questions;
    char what[64];
    int got = 0, status = open_reader(&questions, NULL), bad = 0;
    while (!status && (got = next_line(&questions)) > 0) {
        snprintf(what, sizeof what, "standard input:%lld", (long long)questions.number);
        if (questions.fault) say("%s: %s", what, questions.fault);
        if (questions.fault || read_query(t, questions.line, what)) bad = 1;
        else if (!(status = search_index(t))) write_nearest(t, questions.line);
        if (!t->s->json) fputc('\n', t->lines.out);
        if (!status) status = check_output(t->lines.out, t->s->output);
    }
    close_reader(&questions);
    return status || got < 0 || bad ? FAILED : DONE;
}

static int use_index(struct embedding *t, int n, char **files)
{
    if (open_index(t, n, files)) return FAILED;
    if (!t->s->embed.query) return answer_questions(t);
    if (search_index(t)) return FAILED;
    write_nearest(t, NULL);
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
        if (t->query)
            compare(t, vector_of(t, &b->line[i]), b->in.name, b->line[i].number, b->line[i].text);
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
    if (t->query && !status) write_nearest(t, NULL);
    if (t->cut)
        say("%lld of %lld line%s had more tokens than the model takes, %d: their first tokens are "
            "used (--truncate)",
            (long long)t->cut, (long long)t->lines.lines, plural(t->lines.lines), (int)t->limit);
    say_unusable(&t->lines, "line", "embedded");
    say_watched(&t->lines);
    say_unknown_share(&t->unknown, "the input", 0.05);
    return status;
}

static int searches(const struct settings *s) { return s->embed.query || s->embed.index; }

/* Options that do not go together. n: files. */
static int check_options(const struct settings *s, int n)
{
    int npy = is_npy(s->output);
    if (s->embed.query && !*s->embed.query) {
        say("--query is empty: give the text that lines are compared with");
        return USAGE;
    }
    if (!searches(s) && is_given(s, AT(embed.top))) { say("--top needs --query"); return USAGE; }
    if (searches(s) && is_given(s, AT(embed.unit_vectors))) {
        say("--normalize is for vectors: a cosine does not depend on their lengths");
        return USAGE;
    }
    if (s->answer.interactive && !s->embed.index && (s->embed.query || npy)) {
        say("--interactive answers each line at once, but %s needs all lines",
            s->embed.query ? "--query" : "an .npy");
        return USAGE;
    }
    if (npy && (searches(s) || s->json)) {
        say("--output '%s' is an array of numbers, but %s writes text", s->output,
            s->embed.index ? "--index" : s->embed.query ? "--query" : "--json");
        return USAGE;
    }
    if (s->embed.index && (!n || s->input)) {
        say("--index needs the files whose lines it has the vectors of, without --input");
        return USAGE;
    }
    return DONE;
}

/* The files of lines: one as --input, several for --query. */
static int check_files(struct settings *s, int *n, char **files)
{
    int i, status;
    if (!searches(s)) {
        if ((status = take_input(s, *n, files))) return status;
        *n = 0;
    }
    for (i = 0; i < *n; i++) {
        if (check_readable(files[i]) || check_not_output(files[i])) return FAILED;
        if (s->embed.index && !strcmp(files[i], "-")) {
            say("--index needs files: the questions come from standard input");
            return USAGE;
        }
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

/* Takes the pooling that an imported sentence encoder remembers, and whether its vectors keep their
   lengths, unless an option says another. A query needs vectors of length 1. */
static int find_pooling(struct settings *s, const trf_model *model)
{
    const char *name;
    if (!searches(s) && !is_given(s, AT(embed.unit_vectors)) &&
        trf_model_metadata(model, normalize_key)) s->embed.unit_vectors = 0;
    if (is_given(s, AT(pooling))) return DONE;
    name = trf_model_metadata(model, pooling_key);
    s->pooling = name ? choice_number(VECTORS_OF, name) : TRF_POOL_MEAN;
    if (s->pooling >= 0) return DONE;
    say("--pooling takes mean, first or max, got '%s' from the metadata of '%s'", name, s->model);
    return FAILED;
}

static int start(struct embedding *t)
{
    const trf_config *config = trf_model_config(t->model);
    int status = open_model(t->s, NULL, t->model, "encoder", &t->reader);
    if (status) return status;
    t->width = config->d_model;
    t->limit = longest_source(t->model) - source_added(config);
    t->prompt = trf_model_metadata(t->model, prompt_key);
    t->bytes = zeroed((size_t)t->width, 4);
    if (t->s->embed.query && read_query(t, t->s->embed.query, "--query")) return FAILED;
    if ((t->lines.head || t->s->embed.index) && find_fingerprint(t)) return FAILED;
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
    if (searches(s)) {
        t.lines.instead = "left out";
        t.lines.form = ANSWERS_AT_END;
    } else if (is_npy(s->output)) {
        t.lines.instead = "answered with a row of zeros";
        t.lines.form = ANSWER_ROW;
        t.lines.head = write_npy_head;
    }
    if ((status = check_options(s, argc)) || (status = check_files(s, &argc, argv))) return status;
    status = load_model(s, &t.model, &t.vocab, &unused);
    if (!status) status = check_encoder(s, t.model);
    if (!status) status = find_pooling(s, t.model);
    if (!status) status = start(&t);
    if (!status) watch_lines(&t.lines, t.model);
    if (!status)
        status = s->embed.index ? use_index(&t, argc, argv) : embed_files(&t, argc, argv);
    if (s->embed.index) t.lines.complete = !status;
    status = end_answers(&t.lines, status);
    if (!status && t.lines.unusable) status = FAILED;
    while (t.n_near) free(t.near[--t.n_near].text);
    free(t.near);
    free_batches(&t.lines);
    free(t.vectors);
    free(t.query);
    if (t.index) fclose(t.index);
    free_text(&t.texts);
    free((void *)t.files);
    free(t.bytes);
    trf_reader_destroy(t.reader);
    trf_model_destroy(t.model);
    return status;
}

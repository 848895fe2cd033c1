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
#include <sys/file.h>
#include <unistd.h>

enum { POOL_MEAN = 0, POOL_FIRST, POOL_MAX };
enum { NPY_HEADER = 128 };

/* A line with its cosine to the query. */
struct neighbour { double score; int64_t order, number; const char *file; char *text; };

struct embedding {
    struct settings *s;
    trf_model *model;
    trf_translator *translator;
    const trf_vocab *vocab;
    struct reader in;
    struct unknown unknown;
    FILE *out;
    char *beside;               /* the name of the unfinished .npy, or NULL */
    struct side side;           /* of the batch */
    struct {
        char *text;
        int32_t sequence;
    } *line;                    /* of the batch; sequence -1: none */
    trf_real *rows;             /* (source rows, d_model) */
    size_t rows_capacity;
    double *vector, *query;     /* (d_model); query: of length 1 */
    unsigned char *bytes;       /* of a row of the .npy */
    struct neighbour *near;     /* at most 2 * top */
    size_t n_near, near_capacity;
    double cutoff;              /* scores up to this are not among the best */
    int32_t width, limit;       /* d_model; tokens of the longest line */
    int64_t lines, unusable, cut; /* lines; those that cannot be read; those cut (--truncate) */
    int broken;                 /* 1: the input could not be read to its end */
};

static int is_npy(const char *path) { return path && ends_with(path, ".npy"); }

// -----------------------------------------------------------------------------------------------
// >>vectors        lines become sequences, rows become a vector
// -----------------------------------------------------------------------------------------------

static const char *add_line(struct embedding *t, const char *text, int32_t *n, char why[300])
{
    return add_words(&t->side, t->vocab, text, t->limit, t->s->truncate ? &t->cut : NULL, n, why);
}

static int32_t read_batch(struct embedding *t)
{
    int32_t lines = 0, n;
    char why[300];
    clear_side(&t->side);
    while (!t->broken && lines < t->s->batch) {
        int got = next_line(&t->in);
        const char *fault;
        t->broken = got < 0;
        if (got < 1) break;
        n = 0;
        fault = t->in.fault ? t->in.fault : add_line(t, t->in.line, &n, why);
        if (fault) {
            say("%s:%lld: %s: %s", t->in.name, (long long)t->in.number,
                t->s->query   ? "left out"
                : t->beside   ? "answered with a row of zeros"
                              : "answered with an empty line",
                fault);
            t->unusable++;
        } else if (n) note_unknown(&t->unknown, t->vocab, t->in.line, t->in.number);
        t->line[lines].sequence = !fault && n ? (int32_t)t->side.count - 1 : -1;
        t->line[lines++].text = format_text("%s", t->in.line);
    }
    return lines;
}

static void forget_lines(struct embedding *t, int32_t lines)
{
    int32_t i;
    for (i = 0; i < lines; i++) {
        free(t->line[i].text);
        t->line[i].text = NULL;
    }
}

/* Computes the rows of the sequences of the batch. */
static int encode_batch(struct embedding *t)
{
    trf_sequences sources = sequences_of(&t->side);
    int64_t n = trf_source_rows(t->model, &sources);
    trf_tensor out;
    trf_error err;
    if (sources.count == 0) return DONE;
    t->rows = grow(t->rows, &t->rows_capacity, (size_t)(n * t->width), sizeof *t->rows);
    out = trf_tensor_of(t->rows, 2, n, t->width, 0);
    if (!trf_encode(t->translator, &sources, &out, &err)) return DONE;
    say_error("encoder", &err);
    return FAILED;
}

static int64_t rows_of(const struct embedding *t, int32_t sequence)
{
    return (int64_t)t->side.lengths[sequence] + source_added(trf_model_config(t->model));
}

/* Pools n rows into t->vector. Sums are doubles, in the order of the rows: a vector does not depend
   on the other lines of the batch. --query needs vectors of length 1, which is the default. */
static void pool(struct embedding *t, const trf_real *states, int64_t n)
{
    double *v = t->vector, sum = 0, length;
    int64_t r;
    int32_t i;
    for (i = 0; i < t->width; i++) v[i] = (double)states[i];
    for (r = 1; r < n && t->s->pooling != POOL_FIRST; r++) {
        const trf_real *row = states + r * t->width;
        if (t->s->pooling == POOL_MAX) {
            for (i = 0; i < t->width; i++) if ((double)row[i] > v[i]) v[i] = (double)row[i];
        } else for (i = 0; i < t->width; i++) v[i] += (double)row[i];
    }
    if (t->s->pooling == POOL_MEAN) for (i = 0; i < t->width; i++) v[i] /= (double)n;
    if (!t->s->unit_vectors) return;
    for (i = 0; i < t->width; i++) sum += v[i] * v[i];
    length = sqrt(sum);
    for (i = 0; i < t->width && length != 0; i++) v[i] /= length;
}

// -----------------------------------------------------------------------------------------------
// >>lines          vectors as text or JSON
// -----------------------------------------------------------------------------------------------

/* Nine digits give the same float again. */
static void print_vector(struct embedding *t, char between)
{
    int32_t i;
    for (i = 0; i < t->width; i++) {
        if (i) fputc(between, t->out);
        if (t->s->json) print_json_number(t->out, (double)(float)t->vector[i]);
        else fprintf(t->out, "%.9g", (double)(float)t->vector[i]);
    }
}

/* has: the line has a vector. */
static void write_line(struct embedding *t, int64_t number, const char *text, int has)
{
    if (!t->s->json) {
        if (has) print_vector(t, ' ');
        fputc('\n', t->out);
        return;
    }
    fprintf(t->out, "{\"line\":%lld,\"text\":", (long long)number);
    print_json_text(t->out, text, strlen(text));
    fputs(",\"embedding\":[", t->out);
    if (has) print_vector(t, ',');
    fputs("]}\n", t->out);
}

// -----------------------------------------------------------------------------------------------
// >>npy            vectors as an array of NumPy
//
// Format 1.0: a magic number, the length of the header, the header, the floats in little-endian
// order. The header gets the number of lines at the end; its size stays. The file has another name
// until it is complete.
// -----------------------------------------------------------------------------------------------

static void write_npy_header(struct embedding *t)
{
    char header[NPY_HEADER];
    int n;
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\1\0", 8);
    header[8] = NPY_HEADER - 10;
    header[9] = 0;
    n = snprintf(header + 10, NPY_HEADER - 10,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }",
                 (long long)t->lines, (int)t->width);
    header[10 + n] = ' ';
    header[NPY_HEADER - 1] = '\n';
    fwrite(header, 1, sizeof header, t->out);
}

static void write_npy_row(struct embedding *t, int has)
{
    int32_t i;
    int k;
    for (i = 0; i < t->width; i++) {
        float x = has ? (float)t->vector[i] : 0;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        for (k = 0; k < 4; k++) t->bytes[4 * i + k] = (unsigned char)(bits >> 8 * k);
    }
    fwrite(t->bytes, 4, (size_t)t->width, t->out);
}

/* The lock shows that the unfinished file has an owner: see remove_all_unfinished. */
static int open_npy(struct embedding *t)
{
    const char *path = t->s->output;
    remove_all_unfinished(path);
    t->beside = format_text("%s.tmp-%08lx", path, (unsigned long)getpid() & 0xffffffff);
    t->out = fopen(t->beside, "wx");
    if (t->out) {
        (void)flock(fileno(t->out), LOCK_EX | LOCK_NB);
        write_npy_header(t);
        return DONE;
    }
    say("cannot write '%s': %s", path, strerror(errno));
    free(t->beside);
    t->beside = NULL;
    return FAILED;
}

/* Gives the file its name if it is complete, and removes it otherwise. */
static int close_npy(struct embedding *t, int complete)
{
    const char *path = t->s->output;
    int status = complete ? DONE : FAILED;
    if (complete && !fseek(t->out, 0, SEEK_SET)) write_npy_header(t);
    if (complete && !(status = check_output(t->out, path)) && fsync(fileno(t->out))) {
        say("cannot write %s: %s", path, strerror(errno));
        status = FAILED;
    }
    if (!status && rename(t->beside, path)) {
        say("cannot write '%s': %s", path, strerror(errno));
        status = FAILED;
    }
    if (status) unlink(t->beside);
    fclose(t->out);             /* unlocks it */
    free(t->beside);
    return status;
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
    size_t top = (size_t)t->s->top;
    if (t->n_near) qsort(t->near, t->n_near, sizeof *t->near, by_score);
    while (t->n_near > top) free(t->near[--t->n_near].text);
    if (t->n_near == top) t->cutoff = t->near[top - 1].score;
}

/* Takes the text of the line if it may be one of the best. */
static void compare(struct embedding *t, int64_t order, int64_t number, char **text)
{
    struct neighbour *to;
    double score = 0;
    int32_t i;
    for (i = 0; i < t->width; i++) score += t->vector[i] * t->query[i];
    if (!(score > t->cutoff)) return;
    if (t->n_near == 2 * (size_t)t->s->top) keep_best(t);
    t->near = grow(t->near, &t->near_capacity, t->n_near + 1, sizeof *t->near);
    to = &t->near[t->n_near++];
    to->score = score;
    to->order = order;
    to->number = number;
    to->file = t->in.name;
    to->text = *text;
    *text = NULL;
}

static void write_nearest(struct embedding *t)
{
    size_t i;
    keep_best(t);
    for (i = 0; i < t->n_near; i++) {
        const struct neighbour *n = &t->near[i];
        if (!t->s->json) {
            fprintf(t->out, "%.4f\t%s\n", n->score, n->text);
            continue;
        }
        fprintf(t->out, "{\"line\":%lld", (long long)n->number);
        print_json_field(t->out, "score", n->score);
        fputs(",\"file\":", t->out);
        print_json_text(t->out, n->file, strlen(n->file));
        fputs(",\"text\":", t->out);
        print_json_text(t->out, n->text, strlen(n->text));
        fputs("}\n", t->out);
    }
}

static int read_query(struct embedding *t)
{
    struct unknown unknown;
    char why[300];
    int32_t n = 0;
    const char *fault = add_line(t, t->s->query, &n, why);
    if (fault) { say("--query: %s", fault); return FAILED; }
    if (n == 0) { say("--query has no tokens, so it has no vector"); return FAILED; }
    if (t->cut) say("--query: its first %d tokens are used (--truncate)", (int)t->limit);
    t->cut = 0;
    memset(&unknown, 0, sizeof unknown);
    note_unknown(&unknown, t->vocab, t->s->query, 0);
    say_unknown_share(&unknown, "--query", 0);
    if (encode_batch(t)) return FAILED;
    pool(t, t->rows, rows_of(t, 0));
    t->query = t->vector;
    t->vector = zeroed((size_t)t->width, sizeof *t->vector);
    t->cutoff = -HUGE_VAL;
    return DONE;
}

// -----------------------------------------------------------------------------------------------
// >>command
// -----------------------------------------------------------------------------------------------

static int embed_batch(struct embedding *t, int64_t first, int32_t lines)
{
    const trf_real *states;
    int32_t i;
    if (encode_batch(t)) return FAILED;
    states = t->rows;
    for (i = 0; i < lines; i++) {
        int32_t sequence = t->line[i].sequence;
        int has = sequence >= 0;
        if (has) {
            pool(t, states, rows_of(t, sequence));
            states += rows_of(t, sequence) * t->width;
        }
        if (t->query) {
            if (has) compare(t, t->lines + i, first + i, &t->line[i].text);
        } else if (t->beside) write_npy_row(t, has);
        else write_line(t, first + i, t->line[i].text, has);
    }
    t->lines += lines;
    return DONE;
}

/* Embeds the lines of a file. */
static int embed_file(struct embedding *t, const char *path)
{
    int flush, status = DONE;
    int32_t lines;
    if (open_reader(&t->in, path)) return FAILED;
    flush = !t->query && !t->beside && (t->s->interactive || isatty(fileno(t->in.file)));
    if (flush) t->s->batch = 1;
    while (!status && (lines = read_batch(t)) > 0) {
        status = embed_batch(t, t->in.number - lines + 1, lines);
        forget_lines(t, lines);
        if (!status && (flush || ferror(t->out))) status = check_output(t->out, t->s->output);
    }
    close_reader(&t->in);
    return status || t->broken ? FAILED : DONE;
}

static int embed_files(struct embedding *t, int n, char **files)
{
    int i, status = DONE;
    if (!(t->line = zeroed_batch(t->s->batch, sizeof *t->line))) return FAILED;
    if (n == 0 || t->s->input) status = embed_file(t, t->s->input);
    for (i = 0; i < n && !status; i++) status = embed_file(t, files[i]);
    if (t->query && !status) write_nearest(t);
    if (t->cut)
        say("%lld of %lld line%s had more tokens than the model takes, %d: their first tokens are "
            "used (--truncate)",
            (long long)t->cut, (long long)t->lines, plural(t->lines), (int)t->limit);
    if (t->unusable)
        say("%lld of %lld line%s could not be embedded", (long long)t->unusable,
            (long long)t->lines, plural(t->lines));
    say_unknown_share(&t->unknown, "the input", 0.05);
    return status;
}

/* Options that do not go together. */
static int check_options(const struct settings *s)
{
    int npy = is_npy(s->output);
    if (s->query && !*s->query) {
        say("--query is empty: give the text that lines are compared with");
        return USAGE;
    }
    if (!s->query && is_given(s, AT(top))) { say("--top needs --query"); return USAGE; }
    if (s->query && is_given(s, AT(unit_vectors))) {
        say("--normalize is for vectors: a cosine does not depend on their lengths");
        return USAGE;
    }
    if (s->interactive && (s->query || npy)) {
        say("--interactive answers each line at once, but %s needs all lines",
            s->query ? "--query" : "an .npy");
        return USAGE;
    }
    if (npy && (s->query || s->json)) {
        say("--output '%s' is an array of numbers, but %s writes text", s->output,
            s->query ? "--query" : "--json");
        return USAGE;
    }
    return DONE;
}

/* The files of lines: one as --input, several for --query. */
static int check_files(struct settings *s, int *n, char **files)
{
    int i, status;
    if (!s->query) {
        if ((status = take_input(s, *n, files))) return status;
        *n = 0;
    }
    for (i = 0; i < *n; i++) {
        if (check_readable(files[i]) || check_not_output(files[i])) return FAILED;
        if (!same_file(s->output, files[i])) continue;
        say("--output '%s' is also a file to read", s->output);
        return FAILED;
    }
    if (!is_npy(s->output)) return DONE;
    return check_output_name(s) || check_replaceable(s->output) ? FAILED : DONE;
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
    const char *name = trf_model_metadata(model, pooling_key);
    int i = 0;
    if (!name || is_given(s, AT(pooling))) return DONE;
    while (!(rows[i].commands & EMBED) || !row_writes(&rows[i], AT(pooling))) i++;
    if (!set_value(&rows[i], s, name)) return DONE;
    say("'%s': its metadata \"%s\" is none of these", s->model, pooling_key);
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
    t->vector = zeroed((size_t)t->width, sizeof *t->vector);
    t->bytes = zeroed((size_t)t->width, 4);
    if (t->s->query && read_query(t)) return FAILED;
    if (is_npy(t->s->output)) return open_npy(t);
    return (t->out = open_output(t->s)) ? DONE : FAILED;
}

int command_embed(struct settings *s, int argc, char **argv)
{
    const trf_vocab *unused;
    struct embedding t;
    int status;
    memset(&t, 0, sizeof t);
    t.s = s;
    if ((status = check_options(s)) || (status = check_files(s, &argc, argv))) return status;
    status = load_model(s, &t.model, &t.vocab, &unused);
    if (!status) status = check_encoder(s, t.model);
    if (!status) status = find_pooling(s, t.model);
    if (!status) status = start(&t);
    if (!status) status = embed_files(&t, argc, argv);
    if (t.beside) status = close_npy(&t, !status) ? FAILED : status;
    else if (t.out && close_output(t.out, s->output)) status = FAILED;
    if (!status && t.unusable) status = FAILED;
    while (t.n_near) free(t.near[--t.n_near].text);
    free(t.near);
    free(t.line);
    free_side(&t.side);
    free(t.rows);
    free(t.vector);
    free(t.query);
    free(t.bytes);
    trf_translator_destroy(t.translator);
    trf_model_destroy(t.model);
    return status;
}

/* study.h - shared by the studies in this folder: options, tables, claims, data, models, pictures.

   A study is one program. It measures claims of tutorials about transformers.

       int main(int argc, char **argv)
       {
           struct study s = study_begin(argc, argv, "heads", "How many heads does attention need?");
           study_columns(&s, "heads | exact, % | seconds");
           study_row(&s, "%d | %.1f | %.2f", heads, exact, seconds);       one for each line
           study_must(&s, exact > 90, "four heads solve the task");        else the study fails
           study_claim(&s, "more heads are better", STUDY_NO, "1: 98 %%, 16: 97 %%");
           return study_end(&s);
       }

   A table goes to standard output as Markdown and, with --output DIR, to DIR/NAME.csv. Claims are
   lines of one form, which `make studies` collects. Identities, orders and bounds that have to hold
   are study_must: where one does not hold, the exit status is 1.

   The Makefile compiles the implementation once for all studies (STUDY_LINKED). Alone, a study is
   compiled as the other examples are:
       cc -O2 -I. examples/studies/heads.c -o heads -lopenblas -lm */
#ifndef STUDY_H
#define STUDY_H

#if !defined(_GNU_SOURCE) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#if !defined(STUDY_LINKED)
#define TRF_IMPLEMENTATION
#endif
#include "transformer.h"
#include "../../tools/trf/look/picture.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define STUDY static __attribute__((unused))
#define STUDY_FORMAT(text, first) __attribute__((format(printf, text, first)))
#define STUDY_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { STUDY_NO = 0, STUDY_YES = 1, STUDY_UNDECIDED = 2 };      /* does a claim hold? */

struct study {
    const char *name;
    int quick;                  /* --quick: a grid of seconds */
    int seeds;                  /* --seeds: repetitions of what depends on chance */
    int threads;                /* --threads: for trf_device.threads and for every object's own */
    const char *output;         /* --output: where tables and pictures go, or NULL */
    FILE *csv;                  /* the table that is being written, or NULL */
    int columns, tables, failed;
    double start;
    void *memory;               /* the chain of study_memory */
};

/* The error of the call that STUDY_TRY makes. */
static __attribute__((unused)) trf_error err;
/* A call of the library that may not fail: STUDY_TRY(trf_model_create(&model, &config, NULL, &err)). */
#define STUDY_TRY(call) \
    do { \
        if (call) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, \
                    trf_status_name((trf_status)err.status), err.message); \
            exit(1); \
        } \
    } while (0)

// -----------------------------------------------------------------------------------------------
// Time, memory, random numbers
// -----------------------------------------------------------------------------------------------

STUDY double study_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of all threads of this process. A busy machine does not lengthen it much. */
STUDY double study_cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Zeros, aligned for every type. study_end frees them. */
STUDY void *study_memory(struct study *s, size_t bytes)
{
    enum { LINK = 16 };         /* the address of the block before, and room up to the alignment */
    char *block = (char *)calloc(1, LINK + bytes);
    if (!block) {
        fprintf(stderr, "%s: out of memory\n", s->name);
        exit(1);
    }
    memcpy(block, &s->memory, sizeof s->memory);
    s->memory = block;
    return block + LINK;
}

/* A matrix of zeros; columns 0: a vector. */
STUDY trf_tensor study_tensor(struct study *s, int64_t rows, int64_t columns)
{
    size_t n = (size_t)(rows * (columns ? columns : 1));
    trf_real *numbers = (trf_real *)study_memory(s, n * sizeof(trf_real));
    return trf_tensor_of(numbers, columns ? 2 : 1, rows, columns, 1);
}

/* A copy that lives as long as the study. */
STUDY trf_tensor study_copy(struct study *s, const trf_tensor *x)
{
    trf_tensor copy = *x;
    size_t bytes = (size_t)trf_tensor_count(x) * sizeof *x->data;
    copy.data = (trf_real *)study_memory(s, bytes);
    memcpy(copy.data, x->data, bytes);
    return copy;
}

/* splitmix64: the same numbers on every machine. Every value is a seed. */
STUDY uint64_t study_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
STUDY int32_t study_below(uint64_t *state, int32_t n)           /* 0 .. n - 1 */
{
    return (int32_t)(study_random(state) % (uint64_t)n);
}
STUDY double study_uniform(uint64_t *state)                     /* above 0 and below 1 */
{
    return ((double)(study_random(state) >> 11) + 0.5) / 9007199254740992.0;
}
STUDY double study_normal(uint64_t *state)                      /* mean 0, deviation 1 */
{
    double radius = sqrt(-2 * log(study_uniform(state)));
    return radius * cos(6.283185307179586 * study_uniform(state));
}
STUDY void study_fill_normal(trf_tensor *x, uint64_t *state, double deviation)
{
    int64_t i, n = trf_tensor_count(x);
    for (i = 0; i < n; i++) x->data[i] = (trf_real)(deviation * study_normal(state));
}

/* Sequences one after another, the same lengths on both sides; NULL: no such side. */
STUDY trf_batch study_batch(const int32_t *source, const int32_t *target, const int32_t *lengths,
                            int32_t count)
{
    const trf_sequences none = {NULL, NULL, 0};
    trf_sequences from = {source, lengths, count}, to = {target, lengths, count};
    trf_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.source = source ? from : none;
    batch.target = target ? to : none;
    return batch;
}

/* Pairs of sequences: random symbols (ids from 4), and the same symbols in reverse order. */
struct study_pairs { int32_t *source, *target, *lengths; };
STUDY trf_batch study_reversals(struct study *s, struct study_pairs *room, uint64_t *state,
                                int32_t count, int32_t shortest, int32_t longest, int32_t symbols)
{
    size_t most = (size_t)count * (size_t)longest;
    int32_t i, j, *source, *target;
    if (!room->source) {        /* the first call makes room; later ones ask for as much or less */
        room->source = (int32_t *)study_memory(s, most * sizeof(int32_t));
        room->target = (int32_t *)study_memory(s, most * sizeof(int32_t));
        room->lengths = (int32_t *)study_memory(s, (size_t)count * sizeof(int32_t));
    }
    source = room->source;
    target = room->target;
    for (i = 0; i < count; i++) {
        int32_t n = room->lengths[i] = shortest + study_below(state, longest - shortest + 1);
        for (j = 0; j < n; j++) source[j] = 4 + study_below(state, symbols);
        for (j = 0; j < n; j++) target[j] = source[n - 1 - j];
        source += n;
        target += n;
    }
    return study_batch(room->source, room->target, room->lengths, count);
}

/* One source of n symbols, ids from 4, and its answer: the source backwards or, for a chain, each
   symbol the sum of the source's and of the answer's one before, modulo `symbols`. */
STUDY void study_task(int32_t *source, int32_t *answer, int32_t n, int32_t symbols, int is_chain,
                      uint64_t *state)
{
    int32_t j;
    for (j = 0; j < n; j++) source[j] = 4 + study_below(state, symbols);
    for (j = 0; j < n; j++)
        answer[j] = is_chain ? 4 + (source[j] - 4 + (j ? answer[j - 1] - 4 : 0)) % symbols
                             : source[n - 1 - j];
}

// -----------------------------------------------------------------------------------------------
// Models
// -----------------------------------------------------------------------------------------------

STUDY trf_context *study_context(const struct study *s)
{
    trf_device device = trf_device_default();
    trf_context *context = NULL;
    device.threads = s->threads;
    STUDY_TRY(trf_context_create(&context, &device, NULL, &err));
    return context;
}

/* Width 64, and one vocabulary size. An encoder-decoder has half of the layers on each side. */
STUDY trf_config study_config(const struct study *s, trf_kind kind, int32_t layers, int32_t vocab,
                              uint64_t seed)
{
    trf_config c = trf_config_preset(TRF_TINY);
    int has_source = kind != TRF_DECODER_ONLY, has_target = kind != TRF_ENCODER_ONLY;
    c.kind = kind;
    c.d_model = 64;
    c.d_ff = 128;
    c.encoder_layers = has_source ? layers / (1 + has_target) : 0;
    c.decoder_layers = has_target ? layers / (1 + has_source) : 0;
    c.source_vocab = has_source ? vocab : 0;
    c.target_vocab = has_target ? vocab : 0;
    c.seed = seed;
    c.device.threads = s->threads;
    return c;
}

/* The most likely id from `low` on, below `high`; of equals the lowest. */
STUDY int32_t study_best(const trf_real *row, int32_t low, int32_t high)
{
    int32_t best = low, k;
    for (k = low + 1; k < high; k++) if (row[k] > row[best]) best = k;
    return best;
}

// -----------------------------------------------------------------------------------------------
// Statistics
// -----------------------------------------------------------------------------------------------

STUDY double study_mean(const double *x, int n)
{
    double sum = 0;
    int i;
    for (i = 0; i < n; i++) sum += x[i];
    return n ? sum / n : NAN;
}

/* Of a sample: divided by n - 1. 0 for one number. */
STUDY double study_deviation(const double *x, int n)
{
    double mean = study_mean(x, n), sum = 0;
    int i;
    for (i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

/* "97.3 ± 0.4", mean and deviation, for tables and claims; one number stands alone. The text is
   good for the next seven calls. */
STUDY const char *study_spread(const double *x, int n, int digits)
{
    static char texts[8][64];
    static int next;
    char *text = texts[next++ % 8];
    double mean = study_mean(x, n), deviation = study_deviation(x, n);
    if (n < 2) snprintf(text, sizeof texts[0], "%.*f", digits, mean);
    else snprintf(text, sizeof texts[0], "%.*f ± %.*f", digits, mean, digits, deviation);
    return text;
}

/* Is the mean of a larger than that of b? Decided if they are more than two standard errors of
   their difference apart. A single seed decides nothing. */
STUDY int study_larger(const double *a, int na, const double *b, int nb)
{
    double difference = study_mean(a, na) - study_mean(b, nb), da, db, error;
    if (na < 2 || nb < 2) return STUDY_UNDECIDED;
    da = study_deviation(a, na);
    db = study_deviation(b, nb);
    error = sqrt(da * da / na + db * db / nb);
    if (!(fabs(difference) > 2 * error)) return STUDY_UNDECIDED;
    return difference > 0 ? STUDY_YES : STUDY_NO;
}

/* Is the mean above a bound? A single seed decides nothing. */
STUDY int study_above(const double *x, int n, double bound)
{
    if (n < 2) return STUDY_UNDECIDED;
    return study_mean(x, n) > bound ? STUDY_YES : STUDY_NO;
}

/* The largest difference of two tensors of one size. NaN if a number is. */
STUDY double study_apart(const trf_tensor *a, const trf_tensor *b)
{
    double worst = 0;
    int64_t i, n = trf_tensor_count(a);
    if (n != trf_tensor_count(b)) return NAN;
    for (i = 0; i < n; i++) {
        double apart = fabs((double)a->data[i] - (double)b->data[i]);
        if (!(apart <= worst)) worst = apart;
    }
    return worst;
}

// -----------------------------------------------------------------------------------------------
// Options
// -----------------------------------------------------------------------------------------------

STUDY void study_usage(FILE *to, const struct study *s, const char *about)
{
    fprintf(to, "%s - %s\n\nusage: %s [--quick] [--seeds N] [--threads N] [--output DIR]\n"
            "  --quick        a small grid: seconds instead of minutes\n"
            "  --seeds N      repetitions of what depends on chance; default 3\n"
            "  --threads N    default: one for each processor\n"
            "  --output DIR   write the tables (%s*.csv) and the pictures (%s*.svg) there;\n"
            "                 files of these names are replaced\n",
            s->name, about, s->name, s->name, s->name);
}

STUDY void study_refuse(const struct study *s, const char *option, const char *problem)
{
    fprintf(stderr, "%s: %s: %s; %s --help lists the options\n", s->name, option, problem, s->name);
    exit(2);
}

STUDY int study_number(const struct study *s, const char *option, const char *text, int highest)
{
    char *end, problem[64];
    long n;
    if (!text) study_refuse(s, option, "a number is missing");
    errno = 0;
    n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < 1 || n > highest) {
        snprintf(problem, sizeof problem, "expected 1 to %d", highest);
        study_refuse(s, option, problem);
    }
    return (int)n;
}

/* Makes a folder, and those above it. */
STUDY void study_make_folder(const struct study *s, const char *path)
{
    char part[4096];
    struct stat status;
    size_t i, n = strlen(path);
    if (!n || n >= sizeof part) study_refuse(s, "--output", "the path is empty or too long");
    for (i = 1; i <= n; i++) {
        if (path[i] && path[i] != '/') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (!mkdir(part, 0777) || (!stat(part, &status) && S_ISDIR(status.st_mode))) continue;
        fprintf(stderr, "%s: cannot make the folder %s: %s\n", s->name, part, strerror(errno));
        exit(1);
    }
}

STUDY struct study study_begin(int argc, char **argv, const char *name, const char *about)
{
    struct study s;
    int i;
    memset(&s, 0, sizeof s);
    s.name = name;
    s.seeds = 3;
    s.threads = trf_device_default().threads;
    for (i = 1; i < argc; i++) {
        const char *option = argv[i], *value = argv[i + 1];     /* argv[argc] is NULL */
        if (!strcmp(option, "--quick")) s.quick = 1;
        else if (!strcmp(option, "--seeds")) s.seeds = study_number(&s, option, value, 100), i++;
        else if (!strcmp(option, "--threads")) {
            s.threads = study_number(&s, option, value, 4096);
            i++;
        } else if (!strcmp(option, "--output")) {
            if (!value) study_refuse(&s, option, "a folder is missing");
            s.output = value;
            i++;
        } else if (!strcmp(option, "--help")) {
            study_usage(stdout, &s, about);
            exit(0);
        } else study_refuse(&s, option, "no such option");
    }
    if (s.output) study_make_folder(&s, s.output);
    printf("# %s: %s\n", name, about);
    s.start = study_seconds();
    return s;
}

// -----------------------------------------------------------------------------------------------
// Tables
// -----------------------------------------------------------------------------------------------

/* DIR/NAME.ending, or DIR/NAME-part.ending. */
STUDY void study_path(const struct study *s, const char *part, const char *ending, char *path,
                      size_t size)
{
    const char *dash = *part ? "-" : "";
    int n = snprintf(path, size, "%s/%s%s%s.%s", s->output, s->name, dash, part, ending);
    if (n < 0 || (size_t)n >= size) study_refuse(s, "--output", "the path is too long");
}

/* One row in both forms. Cells are parted by '|'; blanks around them do not count. */
STUDY void study_cells(struct study *s, const char *row)
{
    const char *p = row;
    int n = 0;
    for (;;) {
        size_t length = strcspn(p, "|"), i;
        const char *next = p + length;
        while (length && *p == ' ') p++, length--;
        while (length && p[length - 1] == ' ') length--;
        printf("| %.*s ", (int)length, p);
        if (s->csv) {
            int quoted = memchr(p, ',', length) || memchr(p, '"', length);
            if (n) fputc(',', s->csv);
            if (quoted) fputc('"', s->csv);
            for (i = 0; i < length; i++) {
                if (p[i] == '"') fputc('"', s->csv);
                fputc(p[i], s->csv);
            }
            if (quoted) fputc('"', s->csv);
        }
        n++;
        if (!*next) break;
        p = next + 1;
    }
    printf("|\n");
    if (s->csv) fputc('\n', s->csv);
    if (s->columns && n != s->columns) {
        fprintf(stderr, "%s: a row has %d cells, the table %d columns\n", s->name, n, s->columns);
        exit(1);
    }
    s->columns = n;
}

STUDY void study_close_table(struct study *s)
{
    int broken;
    if (!s->csv) return;
    broken = ferror(s->csv);
    if (fclose(s->csv) || broken) {
        fprintf(stderr, "%s: a table in %s cannot be written\n", s->name, s->output);
        s->failed = 1;
    }
    s->csv = NULL;
}

/* Begins a table: "heads | exact, % | seconds". part names its file, NAME-part.csv; "": NAME.csv.
   study_columns begins the one of NAME.csv. */
STUDY void study_table(struct study *s, const char *part, const char *columns)
{
    char path[4200];
    int i;
    study_close_table(s);
    if (s->output) {
        study_path(s, part, "csv", path, sizeof path);
        if (!(s->csv = fopen(path, "w"))) {
            fprintf(stderr, "%s: cannot write %s: %s\n", s->name, path, strerror(errno));
            exit(1);
        }
    }
    s->columns = 0;
    printf("\n");
    study_cells(s, columns);
    for (i = 0; i < s->columns; i++) printf("|---");
    printf("|\n");
}
STUDY void study_columns(struct study *s, const char *columns) { study_table(s, "", columns); }

STUDY STUDY_FORMAT(2, 3) void study_row(struct study *s, const char *format, ...)
{
    char row[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(row, sizeof row, format, list);
    va_end(list);
    study_cells(s, row);
    fflush(stdout);
}

// -----------------------------------------------------------------------------------------------
// Claims and conditions
// -----------------------------------------------------------------------------------------------

/* A claim, the verdict (STUDY_YES, STUDY_NO, STUDY_UNDECIDED), and the measurement. */
STUDY STUDY_FORMAT(4, 5) void study_claim(struct study *s, const char *claim, int holds,
                                          const char *format, ...)
{
    static const char *const verdicts[] = {"no", "yes", "undecided"};
    char measured[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(measured, sizeof measured, format, list);
    va_end(list);
    study_close_table(s);
    printf("\nclaim: %s | measured: %s | holds: %s\n", claim, measured, verdicts[holds]);
    fflush(stdout);
}

/* An identity, an order or a bound. If the condition is 0, the study goes on, and fails at its
   end. */
STUDY STUDY_FORMAT(3, 4) int study_must(struct study *s, int condition, const char *format,
                                        ...)
{
    va_list list;
    if (condition) return 1;
    fflush(stdout);
    fprintf(stderr, "%s: FAILED: ", s->name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    s->failed = 1;
    return 0;
}

// -----------------------------------------------------------------------------------------------
// Pictures, with --output alone: DIR/NAME-part.svg; part "": DIR/NAME.svg
// -----------------------------------------------------------------------------------------------

STUDY FILE *study_file(struct study *s, const char *part, const char *ending, char *path,
                       size_t size)
{
    FILE *to;
    study_path(s, part, ending, path, size);
    to = fopen(path, "w");
    study_must(s, to != NULL, "cannot write %s: %s", path, strerror(errno));
    return to;
}

STUDY void study_heat_maps(struct study *s, const char *part, const char *title,
                           const struct heat_map *maps, int n, int across, double low, double high)
{
    char path[4200];
    FILE *to = s->output ? study_file(s, part, "svg", path, sizeof path) : NULL;
    int broken;
    if (!to) return;
    broken = picture_heat_maps(to, title, maps, n, across, low, high);
    study_must(s, !fclose(to) && !broken, "%s cannot be written", path);
}

/* The numbers of a map, with --output alone: DIR/NAME-part.csv. */
STUDY void study_numbers(struct study *s, const char *part, const struct heat_map *map)
{
    char path[4200];
    FILE *to = s->output ? study_file(s, part, "csv", path, sizeof path) : NULL;
    long i, j;
    int broken;
    if (!to) return;
    fputs(map->row_label, to);
    for (j = 0; j < map->columns; j++) fprintf(to, ",%ld", j);
    for (i = 0; i < map->rows; i++) {
        fprintf(to, "\n%ld", i);
        for (j = 0; j < map->columns; j++)
            fprintf(to, ",%.9g", (double)map->values[i * map->columns + j]);
    }
    fputc('\n', to);
    broken = ferror(to);
    study_must(s, !fclose(to) && !broken, "%s cannot be written", path);
}

STUDY struct curve study_curve(const char *name, const double *x, const double *y, int n)
{
    struct curve curve;
    memset(&curve, 0, sizeof curve);
    curve.name = name;
    curve.x = x;
    curve.y = y;
    curve.n = n;
    curve.points = 1;
    return curve;
}
/* Logarithmic axes and the like are fields of the panel. */
STUDY struct panel study_panel(const char *title, const char *x_label, const char *y_label,
                               const struct curve *curves, int n)
{
    struct panel panel;
    memset(&panel, 0, sizeof panel);
    panel.title = title;
    panel.x_label = x_label;
    panel.y_label = y_label;
    panel.curves = curves;
    panel.n = n;
    return panel;
}
STUDY struct heat_map study_map(const char *title, const float *values, int rows, int columns)
{
    struct heat_map map;
    memset(&map, 0, sizeof map);
    map.title = title;
    map.values = values;
    map.rows = rows;
    map.columns = columns;
    return map;
}

/* Where gnuplot is missing a sentence says so, and the study goes on. */
STUDY void study_curves(struct study *s, const char *part, const struct panel *panels, int n,
                        int across)
{
    char path[4200], message[512];
    FILE *to = s->output ? study_file(s, part, "svg", path, sizeof path) : NULL;
    int missing, broken;
    if (!to) return;
    missing = picture_curves_to(to, "svg", panels, n, across, message, sizeof message);
    broken = ferror(to);
    study_must(s, !fclose(to) && !broken, "%s cannot be written", path);
    if (!missing) return;
    remove(path);
    printf("\n%s is not drawn: %s\n", path, message);
}

/* The time that the study took; frees what it has allocated. Returns main's status. */
STUDY int study_end(struct study *s)
{
    study_close_table(s);
    printf("\n%s%s: %.1f s, of the processor %.1f s, %d thread%s%s\n", s->name,
           s->quick ? " --quick" : "", study_seconds() - s->start, study_cpu_seconds(), s->threads,
           s->threads == 1 ? "" : "s", s->failed ? ", FAILED" : "");
    while (s->memory) {
        void *block = s->memory;
        memcpy(&s->memory, block, sizeof s->memory);
        free(block);
    }
    if (fflush(stdout) || ferror(stdout)) return 1;
    return s->failed;
}
#endif

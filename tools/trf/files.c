// trf: messages, lines, pairs of lines, token ids, results, models. See trf.h.

#include "trf.h"
#if defined(LOADS_OPENBLAS)
#include "openblas.h"
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <math.h>

// -----------------------------------------------------------------------------------------------
// >>messages
// -----------------------------------------------------------------------------------------------

const char *program = "trf";
int unfinished_line, quiet;

/* Bytes of the UTF-8 character at text, or 0 if there is none: overlong forms and surrogates are none. */
static size_t character_bytes(const unsigned char *text, size_t left)
{
    unsigned char c = text[0];
    size_t n = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0, i;
    if (n == 0 || n > left) return 0;
    for (i = 1; i < n; i++) if ((text[i] & 0xC0) != 0x80) return 0;
    if ((c == 0xE0 && text[1] < 0xA0) || (c == 0xED && text[1] >= 0xA0)) return 0;
    if ((c == 0xF0 && text[1] < 0x90) || (c == 0xF4 && text[1] >= 0x90)) return 0;
    return n;
}

/* So many bytes at the beginning of a text are UTF-8. */
static size_t utf8_bytes(const char *text)
{
    size_t length = strlen(text), at = 0, n = 0;
    for (; at < length && (n = character_bytes((const unsigned char *)text + at, length - at)); at += n) { }
    return at;
}

static int is_utf8(const char *text) { return !text[utf8_bytes(text)]; }

void print_clean(FILE *file, const char *text, size_t most)
{
    size_t length = strlen(text), i = 0;
    while (i < length && i < most) {
        const unsigned char *at = (const unsigned char *)text + i;
        size_t n = character_bytes(at, length - i);
        int control = n == 0 || (n == 1 && (at[0] < 32 || at[0] == 127)) || (n == 2 && at[0] == 0xC2 && at[1] < 0xA0);
        if (control) fputc('?', file);
        else fwrite(at, 1, n, file);
        i += n ? n : 1;
    }
    if (i < length) fprintf(file, "... (%zu bytes)", length);
}

void print_json_text(FILE *file, const char *text, size_t bytes)
{
    size_t i = 0;
    fputc('"', file);
    while (i < bytes) {
        const unsigned char *at = (const unsigned char *)text + i;
        size_t n = character_bytes(at, bytes - i);
        if (n == 0) fputs("\xEF\xBF\xBD", file);
        else if (at[0] == '"' || at[0] == '\\') fprintf(file, "\\%c", at[0]);
        else if (at[0] < 32 || at[0] == 127) fprintf(file, "\\u%04x", at[0]);
        else if (at[0] == 0xC2 && at[1] < 0xA0) fprintf(file, "\\u%04x", at[1]);       /* control characters too */
        else fwrite(at, 1, n, file);
        i += n ? n : 1;
    }
    fputc('"', file);
}

void print_json_number(FILE *file, double x)
{
    if (isfinite(x)) fprintf(file, "%.9g", x); else fputs("null", file);
}

void print_json_field(FILE *file, const char *name, double x)
{
    fprintf(file, ",\"%s\":", name);
    print_json_number(file, x);
}

void print_json_list(FILE *file, const char *name, const double *x, int32_t n)
{
    int32_t i;
    fprintf(file, ",\"%s\":[", name);
    for (i = 0; i < n; i++) {
        if (i) fputc(',', file);
        print_json_number(file, x[i]);
    }
    fputc(']', file);
}

/* A line of standard error, without control characters. */
static void tell_line(const char *before, const char *format, va_list arguments)
{
    char sentence[4096];
    fflush(stdout);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    fprintf(stderr, "%s%s%s", unfinished_line ? "\n" : "", before, *before ? ": " : "");
    unfinished_line = 0;
    print_clean(stderr, sentence, sizeof sentence);
    fputc('\n', stderr);
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell_line(program, format, arguments);
    va_end(arguments);
}

void inform(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!quiet) vfprintf(stderr, format, arguments);
    va_end(arguments);
}

void tell(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!quiet) tell_line("", format, arguments);
    va_end(arguments);
}

void say_error(const char *doing, const trf_error *err)
{
    say("%s%s%s (%s)", doing ? doing : "", doing ? ": " : "", err->message, trf_status_name((trf_status)err->status));
}

/* The option that sets a field of the library, or NULL. Most have its name, with dashes. */
static const char *option_of(const char *doing, const char *field)
{
    static const struct { const char *doing, *field, *option; } others[] = {
        {"noise", "density", "noise-density"}, {"noise", "masked", "masked-share"},
        {"noise", "randomised", "random-share"}, {"validation", "beam", "valid-beam"},
        {"trainer", "source_tokens", "batch-tokens"}, {"trainer", "target_tokens", "batch-tokens"},
        {"trainer", "sequences", "batch-sentences"}, {"trainer", "longest", "max-length"},
        {"trainer", "dropout", "embedding-dropout"}
    };
    size_t i, at;
    int row;
    if (!strncmp(field, "device.", 7)) field += 7;
    for (i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(doing, others[i].doing) && !strcmp(field, others[i].field)) return others[i].option;
    for (row = 0; row < n_rows; row++) {
        const char *name = rows[row].name;
        for (at = 0; field[at] && name[at] == (field[at] == '_' ? '-' : field[at]); at++) { }
        if (rows[row].kind != HEADING && !field[at] && !name[at]) return name;
    }
    return NULL;
}

/* A message of the library that begins with a field, in options: "n_heads must divide d_model" becomes
   "--n-heads must divide --d-model". Returns whether it is one. */
static int in_options(const char *doing, const trf_error *err, char *text, size_t size)
{
    const char *at = err->message + strlen(err->what), *field = option_of(doing, err->what);
    size_t used;
    if (!field || strncmp(err->message, err->what, strlen(err->what))) return 0;
    used = (size_t)snprintf(text, size, "--%s", field);
    while (*at && used + 1 < size) {
        char word[64];
        size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        const char *option;
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : 0), at);
        option = strchr(word, '_') ? option_of(doing, word) : NULL;
        if (option) used += (size_t)snprintf(text + used, size - used, "--%s", option);
        else used += (size_t)snprintf(text + used, size - used, "%.*s", (int)(n ? n : 1), at);
        at += n ? n : 1;
    }
    return 1;
}

/* Where OpenBLAS cannot be loaded, the library warns and takes the built-in product: --products cblas wants neither. */
static int check_products(const struct settings *s)
{
#if defined(LOADS_OPENBLAS)
    const char *reason;
    if (s->device.kind == TRF_DEVICE_CPU && s->device.products == TRF_PRODUCTS_CBLAS && !loaded_openblas(&reason)) {
        say("--products cblas: OpenBLAS cannot be loaded: %s; --products built-in needs no library", reason);
        return USAGE;
    }
#endif
    (void)s;
    return DONE;
}

int check_device(const struct settings *s)
{
    trf_config config = trf_config_tiny();
    trf_model *model = NULL;
    trf_error err;
    const char *value = given_text(s, "device");
    if (check_products(s)) return USAGE;
    config.source_vocab = config.target_vocab = 8;
    config.d_model = config.d_ff = config.n_heads = config.encoder_layers = config.decoder_layers = 1;
    config.max_length = 2;
    config.device = s->device;
    if (!trf_model_create(&model, &config, &err)) {
        trf_model_destroy(model);
        return DONE;
    }
    if (err.status != TRF_E_BACKEND) return refused("device", &err);
    if (!strcmp(err.what, "device.products"))
        say("--products cblas: this trf was built without CBLAS; use auto or built-in");
    else if (!strcmp(err.what, "device.precision")) say("--precision bf16 is for --device cuda");
    else if (!strcmp(err.what, "device.kind"))
        say("--device %s: this trf was built for the CPU alone; make cuda builds one that uses a GPU", value);
    else say("--device %s: %s", value ? value : "cpu", err.message);
    return USAGE;
}

int refused(const char *doing, const trf_error *err)
{
    char text[1024];
    if (err->status == TRF_E_INVALID_ARG && doing && in_options(doing, err, text, sizeof text)) say("%s", text);
    else say_error(doing, err);
    return err->status == TRF_E_INVALID_ARG ? USAGE : FAILED;
}

void log_warning(void *user, int level, const char *message)
{
    static char last[256];
    (void)user;
    if (level < TRF_LOG_WARNING || !strcmp(message, last)) return;
    snprintf(last, sizeof last, "%s", message);
    say("warning: %s", message);
}

void *grow(void *items, size_t *capacity, size_t needed, size_t item_bytes)
{
    size_t wanted = *capacity ? *capacity : 64;
    if (needed <= *capacity) return items;
    while (wanted < needed) wanted = wanted > SIZE_MAX / 2 ? needed : wanted * 2;
    items = wanted > SIZE_MAX / item_bytes ? NULL : realloc(items, wanted * item_bytes);
    if (!items) {
        say("out of memory: %zu items of %zu bytes", wanted, item_bytes);
        exit(FAILED);
    }
    *capacity = wanted;
    return items;
}

void *zeroed(size_t count, size_t item_bytes)
{
    void *items = calloc(count ? count : 1, item_bytes);
    if (items) return items;
    say("out of memory: %zu items of %zu bytes", count, item_bytes);
    exit(FAILED);
}

char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? format_text("%.*s", (int)(slash - path) + 1, path) : format_text(".");
}

const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

char *format_text(const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) { say("out of memory"); exit(FAILED); }
    va_end(arguments);
    return text;
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void time_text(double seconds, char text[32])
{
    long long s = (long long)(seconds + 0.5);
    if (!(seconds < 1e9)) snprintf(text, 32, "unknown");
    else if (s >= 3600) snprintf(text, 32, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else if (s >= 60) snprintf(text, 32, "%lldm%02llds", s / 60, s % 60);
    else snprintf(text, 32, "%llds", s);
}

// -----------------------------------------------------------------------------------------------
// >>lines
// -----------------------------------------------------------------------------------------------

int open_reader(struct reader *r, const char *path)
{
    struct stat there;
    memset(r, 0, sizeof *r);
    if (!path || !strcmp(path, "-")) { r->file = stdin; r->name = "standard input"; return DONE; }
    r->name = path;
    r->file = fopen(path, "r");
    if (r->file && !fstat(fileno(r->file), &there) && S_ISDIR(there.st_mode)) {
        fclose(r->file);
        r->file = NULL;
        errno = EISDIR;
    }
    if (!r->file) { say("cannot read '%s': %s", path, strerror(errno)); return FAILED; }
    return DONE;
}

void close_reader(struct reader *r)
{
    if (r->file && r->file != stdin) fclose(r->file);
    free(r->line);
    memset(r, 0, sizeof *r);
}

/* Whether every second byte is a NUL, from the byte at `from` on: letters of two bytes. */
static int is_wide(const char *bytes, size_t n, size_t from)
{
    size_t i;
    for (i = from; i < n; i += 2) if (bytes[i]) return 0;
    return n >= 4 && bytes[!from];
}

/* The form of a file that is not lines of UTF-8, by its first line, and the command that converts it; or NULL.
   `whole`: the line is all of the file. */
static const char *other_form(const char *line, size_t n, int whole)
{
    static const struct { size_t n; const char *bytes, *is; } of[] = {
        {2, "\x1F\x8B", "expected text, got a gzip file: gzip -dc unpacks it"},
        {4, "PK\3\4", "expected text, got a zip file (.docx and .xlsx are such files too): unzip -p unpacks it"},
        {6, "\xFD" "7zXZ\0", "expected text, got an xz file: xz -dc unpacks it"},
        {4, "\x28\xB5\x2F\xFD", "expected text, got a zstd file: zstd -dc unpacks it"},
        {4, "\xFF\xFE\0\0", "expected UTF-8, got UTF-32 (iconv -f utf-32 -t utf-8)"},
        {4, "\0\0\xFE\xFF", "expected UTF-8, got UTF-32 (iconv -f utf-32 -t utf-8)"},
        {2, "\xFF\xFE", "expected UTF-8, got UTF-16 (iconv -f utf-16 -t utf-8)"},
        {2, "\xFE\xFF", "expected UTF-8, got UTF-16 (iconv -f utf-16 -t utf-8)"}
    };
    const char *cr;
    size_t i;
    for (i = 0; i < sizeof of / sizeof *of; i++)
        if (n >= of[i].n && !memcmp(line, of[i].bytes, of[i].n)) return of[i].is;
    if (n >= 10 && !memcmp(line, "BZh", 3) && !memcmp(line + 4, "1AY&SY", 6))       /* between them is a digit */
        return "expected text, got a bzip2 file: bzip2 -dc unpacks it";
    if (is_wide(line, n, 1)) return "expected UTF-8, got UTF-16 (iconv -f utf-16le -t utf-8)";
    if (is_wide(line, n, 0)) return "expected UTF-8, got UTF-16 (iconv -f utf-16be -t utf-8)";
    cr = whole ? memchr(line, '\r', n) : NULL;
    return cr ? "expected lines that end with LF or CR LF, got CR alone (tr '\\r' '\\n')" : NULL;
}

int next_line(struct reader *r)
{
    const char *form;
    ssize_t length;
    int ends;
    size_t at;
    r->fault = NULL;            /* behind the last line too */
    errno = 0;
    length = getline(&r->line, &r->capacity, r->file);
    if (length < 0) {
        if (feof(r->file) && !ferror(r->file)) return 0;
        say("%s:%lld: cannot read on: %s", r->name, (long long)r->number + 1, strerror(errno));
        return -1;
    }
    r->number++;
    if (r->number == 1 && length >= 3 && !memcmp(r->line, "\xEF\xBB\xBF", 3))     /* a byte order mark is no text */
        memmove(r->line, r->line + 3, (size_t)(length -= 3) + 1);
    ends = length > 0 && r->line[length - 1] == '\n';
    if (ends) r->line[--length] = 0;
    if (length > 0 && r->line[length - 1] == '\r') r->line[--length] = 0;
    r->length = (size_t)length;
    if (r->number == 1 && (form = other_form(r->line, r->length, !ends))) {
        say("%s:1: %s", r->name, form);
        return -1;
    }
    at = utf8_bytes(r->line);
    r->fault = memchr(r->line, 0, r->length) ? "a NUL byte" : at < r->length ? r->not_utf8 : NULL;
    if (r->fault == r->not_utf8)
        snprintf(r->not_utf8, sizeof r->not_utf8, "expected UTF-8, got the byte 0x%02X at offset %zu",
                 (unsigned)(unsigned char)r->line[at], at);
    return 1;
}

/* "2,3": source in the second column, target in the third. */
static int read_columns(struct pair_reader *p, const char *columns)
{
    char end;
    p->column[0] = 1;
    p->column[1] = 2;
    p->exactly_two = columns == NULL;
    if (!columns || (sscanf(columns, "%9d ,%9d %c", &p->column[0], &p->column[1], &end) == 2 &&
                     p->column[0] > 0 && p->column[1] > 0 && p->column[0] != p->column[1])) return DONE;
    say("--columns takes the numbers of two columns, as in 1,2; got '%s'", columns);
    return USAGE;
}

int check_columns(const char *columns)
{
    struct pair_reader p;
    return read_columns(&p, columns);
}

int same_stream(FILE *a, FILE *b)
{
    struct stat x, y;
    if (a == b) return 1;
    if (fstat(fileno(a), &x) || fstat(fileno(b), &y)) return 0;
    return (S_ISFIFO(x.st_mode) || S_ISSOCK(x.st_mode) || isatty(fileno(a))) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino && x.st_rdev == y.st_rdev;
}

int open_pairs(struct pair_reader *p, const char *source, const char *target, const char *tsv, const char *columns)
{
    int status;
    memset(p, 0, sizeof *p);
    p->tsv = tsv != NULL;
    p->at = &p->side[0];
    if (columns && !tsv) { say("--columns is for pairs in one file"); return USAGE; }
    if ((status = read_columns(p, columns)) || (status = open_reader(&p->side[0], tsv ? tsv : source)) || tsv)
        return status;
    if ((status = open_reader(&p->side[1], target))) return status;
    if (!same_stream(p->side[0].file, p->side[1].file)) return DONE;
    say("source and target cannot both be %s; use --tsv", p->side[0].name);
    return USAGE;
}

void close_pairs(struct pair_reader *p)
{
    close_reader(&p->side[0]);
    close_reader(&p->side[1]);
}

void cut_pair(struct pair_reader *p)
{
    struct reader *r = &p->side[0];
    int column = 1;
    char *at, *tab;
    p->source = p->target = NULL;
    p->fault = NULL;
    for (at = r->line; at; at = tab, column++) {
        if ((tab = strchr(at, '\t'))) *tab++ = 0;
        if (column == p->column[0]) p->source = at;
        if (column == p->column[1]) p->target = at;
    }
    if (r->fault == r->not_utf8 && p->source && p->target && is_utf8(p->source) && is_utf8(p->target))
        r->fault = NULL;            /* it stands in a column that nobody asks for */
    p->lacks_tab = !r->fault && column == 2;
    if (r->fault) p->fault = r->fault;
    else if (p->exactly_two && column == 2) p->fault = "no tab between source and target";
    else if (p->exactly_two && column > 3) p->fault = "more than one tab; --columns chooses two columns";
    else if (!p->source || !p->target) p->fault = "fewer columns than --columns asks for";
    if (p->fault) p->source = p->target = "";
}

static int next_tsv_pair(struct pair_reader *p)
{
    int got = next_line(&p->side[0]);
    if (got > 0) { cut_pair(p); return got; }
    p->source = p->target = "";
    p->fault = NULL;
    p->lacks_tab = 0;
    return got;
}

/* Two files that do not end together are an error that names both lengths. */
int next_pair(struct pair_reader *p)
{
    struct reader *a = &p->side[0], *b = &p->side[1];
    int got_a, got_b;
    if (p->tsv) return next_tsv_pair(p);
    got_a = next_line(a);
    got_b = got_a < 0 ? -1 : next_line(b);
    if (got_a == 1 && got_b == 1) {
        p->source = a->line;
        p->target = b->line;
        p->fault = a->fault ? a->fault : b->fault;
        p->at = !a->fault && b->fault ? b : a;
        return 1;
    }
    if (got_a == 0 && got_b == 0 && !p->unpaired) return 0;
    if (p->keep_unpaired && got_a >= 0 && got_b >= 0 && (got_a || got_b)) {
        p->unpaired = 1;
        p->at = got_a ? a : b;
        p->source = p->target = "";
        p->fault = "the other file has no such line";
        return 1;
    }
    while (got_a > 0) got_a = next_line(a);
    while (got_b > 0) got_b = next_line(b);
    if (got_a == 0 && got_b == 0)
        say("%s has %lld line%s, but %s has %lld: line n of one must belong to line n of the other",
            a->name, (long long)a->number, plural(a->number), b->name, (long long)b->number);
    return -1;
}

int check_pairs_given(const char *prefix, const char *source, const char *target, const char *tsv)
{
    if (tsv ? !source && !target : source && target) return DONE;
    say("give --%ssource FILE and --%starget FILE, or --%stsv FILE alone", prefix, prefix, prefix);
    return USAGE;
}

// -----------------------------------------------------------------------------------------------
// >>sequences
// -----------------------------------------------------------------------------------------------

void free_side(struct side *side)
{
    free(side->ids);
    free(side->lengths);
    memset(side, 0, sizeof *side);
}

void clear_side(struct side *side) { side->used = side->count = 0; }

trf_sequences sequences_of(const struct side *side)
{
    trf_sequences all;
    all.ids = side->ids;
    all.lengths = side->lengths;
    all.count = (int32_t)side->count;
    return all;
}

int add_text(struct side *side, const trf_vocab *vocab, const char *text, int32_t limit, int32_t *n, char why[300])
{
    trf_error err;
    trf_status status;
    *n = 0;
    side->ids = grow(side->ids, &side->ids_capacity, side->used + (size_t)limit, sizeof *side->ids);
    side->lengths = grow(side->lengths, &side->lengths_capacity, side->count + 1, sizeof *side->lengths);
    status = trf_vocab_encode(vocab, text, side->ids + side->used, limit, n, &err);
    if (status == TRF_E_LIMIT) { snprintf(why, 300, "%d tokens, at most %d", (int)*n, (int)limit); return FAILED; }
    if (status) { *n = 0; snprintf(why, 300, "%s", err.message); return FAILED; }
    side->used += (size_t)*n;
    side->lengths[side->count++] = *n;
    return DONE;
}

void add_ids(struct side *side, const int32_t *ids, int32_t n)
{
    side->ids = grow(side->ids, &side->ids_capacity, side->used + (size_t)n, sizeof *side->ids);
    side->lengths = grow(side->lengths, &side->lengths_capacity, side->count + 1, sizeof *side->lengths);
    if (n) memcpy(side->ids + side->used, ids, (size_t)n * sizeof *ids);
    side->used += (size_t)n;
    side->lengths[side->count++] = n;
}

void drop_last(struct side *side)
{
    side->used -= (size_t)side->lengths[--side->count];
}

const char *token_of(const trf_vocab *vocab, int32_t id, size_t *bytes)
{
    const char *token = trf_vocab_token(vocab, id);
    *bytes = *token ? strlen(token) : 1;
    return token;
}

void print_json_tokens(FILE *out, const char *name, const trf_vocab *vocab, const int32_t *ids, int32_t n)
{
    int32_t i;
    fprintf(out, ",\"%s\":[", name);
    for (i = 0; i < n; i++) {
        size_t bytes;
        const char *token = token_of(vocab, ids[i], &bytes);
        if (i) fputc(',', out);
        print_json_text(out, token, bytes);
    }
    fputc(']', out);
}

void note_unknown(struct unknown *u, const trf_vocab *vocab, const char *text, int64_t line)
{
    int32_t unknown, n;
    if (trf_vocab_count_unknown(vocab, text, &unknown, &n, NULL)) return;   /* a text that cannot be encoded */
    u->tokens += n;
    u->unknown += unknown;
    if (unknown && !u->first) u->first = line;
}

void tell_unknown(const struct unknown *u, const char *what, double share)
{
    char where[48] = "";
    if (!u->unknown || (double)u->unknown <= share * (double)u->tokens) return;
    if (u->first) snprintf(where, sizeof where, ", the first one in line %lld", (long long)u->first);
    say("%lld of %lld token%s of %s %s unknown to the model%s", (long long)u->unknown, (long long)u->tokens,
        plural(u->tokens), what, u->unknown == 1 ? "is" : "are", where);
}

const char *bytes_of(const trf_vocab *vocab, const int32_t *ids, int32_t n, char **text, size_t *capacity,
                     size_t *bytes)
{
    trf_error err;
    *text = grow(*text, capacity, 256, 1);
    while (trf_vocab_decode(vocab, ids, n, *text, *capacity, bytes, &err)) {
        if (err.status != TRF_E_LIMIT || *bytes < *capacity) { say_error("answer", &err); return NULL; }
        *text = grow(*text, capacity, *bytes + 1, 1);
    }
    return *text;
}

const char *text_of(const trf_vocab *vocab, const int32_t *ids, int32_t n, char **text, size_t *capacity)
{
    size_t bytes, i;
    if (!bytes_of(vocab, ids, n, text, capacity, &bytes)) return NULL;
    for (i = 0; i < bytes; i++) if (!(*text)[i] || (*text)[i] == '\n' || (*text)[i] == '\r') (*text)[i] = ' ';
    return *text;
}

// -----------------------------------------------------------------------------------------------
// >>results
// -----------------------------------------------------------------------------------------------

/* The folder of a path as the system knows it; returns the rest of the path, or NULL. */
static const char *name_in_folder(const char *path, struct stat *there)
{
    char *folder = folder_of(path);
    int missing = stat(folder, there);
    free(folder);
    return missing ? NULL : name_of(path);
}

int same_file(const char *a, const char *b)
{
    struct stat x, y;
    const char *name_a, *name_b;
    if (!a || !b) return 0;
    if (!strcmp(a, b)) return 1;
    if (!stat(a, &x) && !stat(b, &y)) return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    name_a = name_in_folder(a, &x);
    name_b = name_in_folder(b, &y);
    return name_a && name_b && !strcmp(name_a, name_b) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether a standard stream reads or writes the regular file at path. */
static int is_stream(const char *path, int fd)
{
    struct stat file, stream;
    return path && !stat(path, &file) && !fstat(fd, &stream) && S_ISREG(stream.st_mode) &&
           file.st_dev == stream.st_dev && file.st_ino == stream.st_ino;
}

/* A file that is written must be none that the command reads. */
int check_written(const struct settings *s, const char *option, const char *path)
{
    const struct { const char *option, *path; } read[] = {
        {"source", s->source}, {"target", s->target}, {"tsv", s->tsv}, {"valid-source", s->valid_source},
        {"valid-target", s->valid_target}, {"valid-tsv", s->valid_tsv}, {"text", s->text},
        {"valid-text", s->valid_text}, {"init-from", s->init_from}, {"input", s->input}, {"model", s->model},
        {"prefixes", s->prefixes}, {"sentencepiece", s->sentencepiece},
        {"source-sentencepiece", s->source_sentencepiece}, {"target-sentencepiece", s->target_sentencepiece}
    };
    size_t i;
    if (!path) return DONE;
    if (!strcmp(path, "-")) {
        say("--%s is written to a file: '-' is no name for one", option);
        return FAILED;
    }
    for (i = 0; i < sizeof read / sizeof *read; i++)
        if (path != read[i].path && same_file(path, read[i].path)) {
            say("--%s '%s' is the file that --%s reads", option, path, read[i].option);
            return FAILED;
        }
    if (is_stream(path, STDIN_FILENO)) {
        say("--%s '%s' is the file that standard input reads", option, path);
        return FAILED;
    }
    if (is_stream(path, STDERR_FILENO)) {
        say("--%s '%s' is the file that messages go to", option, path);
        return FAILED;
    }
    return DONE;
}

void for_files(const char *prefix, void (*each)(void *user, const char *path, const char *tail), void *user)
{
    const char *begin = name_of(prefix);
    size_t length = strlen(begin);
    char *folder = folder_of(prefix);
    DIR *files = opendir(folder);
    struct dirent *entry;
    while (files && (entry = readdir(files))) {
        char *path;
        if (strncmp(entry->d_name, begin, length)) continue;
        path = format_text("%s%s", prefix, entry->d_name + length);
        each(user, path, entry->d_name + length);
        free(path);
    }
    if (files) closedir(files);
    free(folder);
}

/* Where ".tmp-0123abcd", which saving appends to the name of a file that is not whole yet, begins; or NULL. */
static const char *unfinished_tail(const char *name)
{
    size_t n = strlen(name), tail = strlen(".tmp-12345678");
    const char *at = name + n - tail;
    return n < tail || strncmp(at, ".tmp-", 5) || strspn(at + 5, "0123456789abcdef") != 8 ? NULL : at;
}

/* "m.update-900" is of "m", "./m.update-900" too. */
static int is_numbered(const char *path, const char *base, const char *middle)
{
    const char *at = strrchr(path, '/'), *end = NULL;
    char *stem;
    int is;
    for (at = at ? at : path; (at = strstr(at, middle)) != NULL; at++) end = at;
    stem = format_text("%.*s", end ? (int)(end - path) : 0, path);
    is = end && end[strlen(middle)] && !end[strlen(middle) + strspn(end + strlen(middle), "0123456789")] &&
         same_file(stem, base);
    free(stem);
    return is;
}

int is_own_name(const char *path, const char *base, const char *numbered)
{
    const char *tail = unfinished_tail(path);
    char *stem;
    int is;
    if (!base) return 0;
    if (!tail || tail == path) return is_numbered(path, base, numbered);
    stem = format_text("%.*s", (int)(tail - path), path);
    is = same_file(stem, base) || is_numbered(stem, base, numbered);
    free(stem);
    return is;
}

/* Removes a file that is not whole and that nobody holds any more. user: the path that it was to become part of. */
static void remove_unfinished(void *user, const char *path, const char *tail)
{
    const char *base = (const char *)user;
    struct stat mine, there;
    int fd;
    if (!unfinished_tail(tail) || (!is_own_name(path, base, ".average-") && !is_own_name(path, base, ".update-")))
        return;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &mine) && !stat(path, &there) && S_ISREG(mine.st_mode) &&
        mine.st_dev == there.st_dev && mine.st_ino == there.st_ino) unlink(path);
    close(fd);
}

void sweep(const char *path) { for_files(path, remove_unfinished, (void *)(uintptr_t)path); }

/* As saving does it: under another name, beside it, in a folder that is opened. Rights alone do not say whether that
   works. A name that is too long for this may do for a file that is written at once. */
static int makes_file(const char *path, const char *folder)
{
    char *name = format_text("%s.tmp-%08lx", path, (unsigned long)getpid() & 0xffffffff);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600), reason = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
        unlink(name);
    }
    free(name);
    if (!reason || reason == EEXIST || reason == ENAMETOOLONG) {
        fd = open(folder, O_RDONLY);
        reason = fd < 0 ? errno : 0;
        if (fd >= 0) close(fd);
    }
    errno = reason;
    return !reason;
}

int check_writable(const char *path)
{
    struct stat folder, there;
    char *name = folder_of(path);
    int fine = 0;
    if (!*path) errno = ENOENT;
    else if (!stat(path, &there) && S_ISDIR(there.st_mode)) errno = EISDIR;
    else if (!stat(path, &there) && !S_ISREG(there.st_mode)) errno = EEXIST;    /* a device is not to be replaced */
    else if (!stat(name, &folder) && !S_ISDIR(folder.st_mode)) errno = ENOTDIR;
    else if (!access(name, F_OK) && folder.st_mode & S_ISVTX && !stat(path, &there) && geteuid() &&
             there.st_uid != geteuid() && folder.st_uid != geteuid())
        errno = EPERM;          /* in a folder like /tmp another's file cannot be replaced */
    else fine = makes_file(path, name);
    if (!fine) say("cannot write '%s': %s", path, errno == EEXIST ? "it is no regular file" : strerror(errno));
    free(name);
    return fine ? DONE : FAILED;
}

int check_replaceable(const char *path)
{
    struct stat there;
    if (lstat(path, &there) || !S_ISLNK(there.st_mode)) return check_writable(path);        /* such as /dev/stdout */
    say("cannot write '%s': it is a symbolic link: name the file that it leads to", path);
    return FAILED;
}

int check_readable(const char *path)
{
    struct stat there;
    int reason = 0;
    if (!path || !strcmp(path, "-")) return DONE;
    if (stat(path, &there) || access(path, R_OK)) reason = errno;
    else if (S_ISDIR(there.st_mode)) reason = EISDIR;
    if (reason) say("cannot read '%s': %s", path, strerror(reason));
    return reason ? FAILED : DONE;
}

/* An empty file, such as mktemp makes, has nothing to lose; a device or a pipe is written to, and stays. */
int is_taken(const char *path)
{
    struct stat there;
    return path && !stat(path, &there) && S_ISREG(there.st_mode) && there.st_size > 0;
}

int check_output_name(const struct settings *s)
{
    if (!s->output || !strcmp(s->output, "-") || is_stream(s->output, STDOUT_FILENO)) return DONE;
    if (check_written(s, "output", s->output)) return FAILED;
    if (s->overwrite || !is_taken(s->output)) return DONE;
    say("--output '%s' exists: --overwrite replaces it", s->output);
    return FAILED;
}

int check_not_output(const char *path)
{
    if (!is_stream(path, STDOUT_FILENO)) return DONE;
    say("standard output is '%s', which is read", path);
    return FAILED;
}

/* What is read must not grow by what is written: `trf translate --input s >>s` would never end. */
static int check_standard_output(const struct settings *s)
{
    const char *const read[] = {s->input, s->source, s->target, s->tsv, s->prefixes, s->model};
    struct stat in, out;
    size_t i;
    for (i = 0; i < sizeof read / sizeof *read; i++) if (check_not_output(read[i])) return FAILED;
    if (!fstat(STDIN_FILENO, &in) && !fstat(STDOUT_FILENO, &out) && S_ISREG(in.st_mode) && in.st_dev == out.st_dev &&
        in.st_ino == out.st_ino) {
        say("standard output is the file that standard input reads");
        return FAILED;
    }
    return DONE;
}

FILE *open_output(const struct settings *s)
{
    FILE *file;
    if (!s->output || !strcmp(s->output, "-") || is_stream(s->output, STDOUT_FILENO))   /* it may be added to: >> */
        return check_standard_output(s) ? NULL : stdout;
    if (check_output_name(s)) return NULL;
    file = fopen(s->output, "w");
    if (!file) say("cannot write '%s': %s", s->output, strerror(errno));
    return file;
}

static void say_unwritten(const char *path)
{
    say("cannot write %s: %s", path && strcmp(path, "-") ? path : "standard output",
        errno ? strerror(errno) : "an earlier write failed");
}

int check_output(FILE *file, const char *path)
{
    int broken = ferror(file);
    errno = 0;
    if (!fflush(file) && !broken) return DONE;
    say_unwritten(path);
    return FAILED;
}

int close_output(FILE *file, const char *path)
{
    int status = check_output(file, path);
    errno = 0;
    if (file != stdout && fclose(file) && !status) {
        say_unwritten(path);
        status = FAILED;
    }
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>models
// -----------------------------------------------------------------------------------------------

trf_load_options load_options(const struct settings *s)
{
    trf_load_options load = trf_load_defaults();
    load.device = s->device;
    load.hooks.log = log_warning;
    return load;
}

int load_refused(const char *path, const trf_error *err)
{
    if (!strstr(err->message, "no trf.format")) return refused(NULL, err);
    say("%s: a safetensors file of another program; trf takes what trf train or transformer.h has written", path);
    return FAILED;
}

int take_input(struct settings *s, int argc, char **argv)
{
    struct stat there;
    if (argc == 0) return DONE;
    if (argc > 1 || s->input) {
        say("one file of lines, got '%s' and '%s'", argv[0], argc > 1 ? argv[1] : s->input);
        return USAGE;
    }
    s->input = argv[0];
    if (!strcmp(s->input, "-") || !stat(s->input, &there)) return DONE;
    say("cannot read '%s': %s; lines come from a file, or from standard input, as in: echo 'some words' | %s --model %s",
        s->input, strerror(errno), program, s->model ? s->model : "FILE");
    return FAILED;
}

void say_no_vocabulary(const char *path, const trf_config *config, const trf_vocab *source, const trf_vocab *target)
{
    int lacks_source = config->kind != TRF_DECODER_ONLY && !source;
    int lacks_target = config->kind != TRF_ENCODER_ONLY && !target;
    say("%s: it has no %s%s%s vocabulary, so it knows ids, but no text: trf train stores vocabularies in the model, a "
        "program in C calls trf_model_set_vocabs before it saves", path, lacks_source ? "source" : "",
        lacks_source && lacks_target ? " and no " : "", lacks_target ? "target" : "");
}

int load_model(struct settings *s, trf_model **model, const trf_vocab **source, const trf_vocab **target)
{
    const char *const read[] = {s->input, s->prefixes, s->source, s->target, s->tsv};
    trf_load_options load = load_options(s);
    trf_error err;
    size_t i;
    if (!s->model || !*s->model) { say("give --model FILE, a model that trf train has written"); return USAGE; }
    if (check_output_name(s)) return FAILED;
    for (i = 0; i < sizeof read / sizeof *read; i++) if (check_readable(read[i])) return FAILED;
    if (trf_model_load(model, s->model, &load, &err)) return load_refused(s->model, &err);
    *source = trf_model_source_vocab(*model);
    *target = trf_model_target_vocab(*model);
    if (trf_model_config(*model)->kind == TRF_DECODER_ONLY) *source = *target;
    if (trf_model_config(*model)->kind == TRF_ENCODER_ONLY) *target = *source;
    if (*source && *target) return DONE;
    say_no_vocabulary(s->model, trf_model_config(*model), *source, *target);
    return FAILED;
}

/* Tokens of the longest text that a model was trained on; INT32_MAX where its file does not know. */
int32_t longest_trained(const trf_model *model)
{
    const char *text = trf_model_metadata(model, "trained.longest");
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

int never_writes_unk(const trf_model *model)
{
    const char *unknown = trf_model_metadata(model, "target.unknown");
    return unknown && !strcmp(unknown, "0");
}

int check_decoder(const struct settings *s, const trf_model *model)
{
    if (trf_model_config(model)->kind != TRF_ENCODER_ONLY) return DONE;
    say("%s: an encoder-only model has no decoder, so no text comes from it: trf classify and trf tag are for labels",
        s->model);
    return FAILED;
}

int same_tokens(const trf_vocab *a, const trf_vocab *b)
{
    int32_t id;
    if (!a || !b) return a == b;
    if (trf_vocab_size(a) != trf_vocab_size(b) || trf_vocab_kind(a) != trf_vocab_kind(b)) return 0;
    for (id = 0; id < trf_vocab_size(a); id++) if (strcmp(trf_vocab_token(a, id), trf_vocab_token(b, id))) return 0;
    return 1;
}

int32_t source_limit(const trf_config *config)
{
    return config->max_length - (config->source_eos || config->kind == TRF_DECODER_ONLY ? 1 : 0);
}

/* One stored training option into its field; choices are stored as numbers, which the library checks. */
static int set_stored(const struct row *row, struct settings *s, const char *value)
{
    int32_t number = (int32_t)strtol(value, NULL, 10);
    if (row->kind != CHOICE && row->kind != SWITCH) return set_value(row, s, value);
    memcpy((char *)s + row->offset, &number, sizeof number);
    return DONE;
}

int stored_training(struct settings *s, trf_file *file, const char *path)
{
    const char *value;
    char key[96], *c;
    int i, status = DONE;
    for (i = 0; i < n_rows && !status; i++) {
        if (!row_within(&rows[i], AT(training), sizeof s->training)) continue;
        snprintf(key, sizeof key, "trf.train.%s", rows[i].offset == AT(training.dropout) ? "dropout" : rows[i].name);
        for (c = key; *c; c++) if (*c == '-') *c = '_';
        value = trf_file_metadata(file, key);
        if (!value) say("%s: the metadata '%s' is missing, so the checkpoint is not complete", path, key);
        status = value && !set_stored(&rows[i], s, value) ? DONE : FAILED;
        if (value && status) say("%s: the value is in its metadata '%s'", path, key);
    }
    value = trf_file_metadata(file, "trf.train.seed");
    if (value) s->training.seed = (uint64_t)strtoll(value, NULL, 10);
    value = trf_file_metadata(file, "trf.train.longest");
    if (value) s->training.longest = (int32_t)strtol(value, NULL, 10);
    return status;
}

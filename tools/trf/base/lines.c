// trf: lines of text, and pairs of them. See base.h.

#include "base.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

// -----------------------------------------------------------------------------------------------
// >>lines
// -----------------------------------------------------------------------------------------------

size_t max_line_bytes = MAX_LINE_BYTES;

int open_reader(struct reader *r, const char *path)
{
    struct stat there;
    memset(r, 0, sizeof *r);
    if (!path || !strcmp(path, "-")) { r->file = stdin; r->name = "standard input"; return DONE; }
    r->name = path;
    r->file = open_packed(path);
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

/* Whether every second byte from `from` on is a NUL, as in text of 16 bits. */
static int is_wide(const char *bytes, size_t n, size_t from)
{
    size_t i;
    for (i = from; i < n; i += 2) if (bytes[i]) return 0;
    return n >= 4 && bytes[!from];
}

/* The format of a file that is no UTF-8 text, by its first line, and the command that converts it;
   or NULL. whole: the line is the whole file. */
static const char *other_form(const char *line, size_t n, int whole)
{
    static const struct { size_t n; const char *bytes, *is; } of[] = {
        {2, "\x1F\x8B", "expected text, got a gzip file: gzip -dc unpacks it"},
        {4, "PK\3\4",
         "expected text, got a zip file (.docx and .xlsx are such files too): unzip -p unpacks it"},
        {6, "\xFD" "7zXZ\0", "expected text, got an xz file: xz -dc unpacks it"},
        {4, "\x28\xB5\x2F\xFD", "expected text, got a zstd file: zstd -dc unpacks it"},
        {4, "\xFF\xFE\0\0", "expected UTF-8, got UTF-32 (iconv -f utf-32 -t utf-8)"},
        {4, "\0\0\xFE\xFF", "expected UTF-8, got UTF-32 (iconv -f utf-32 -t utf-8)"},
        {2, "\xFF\xFE", "expected UTF-8, got UTF-16 (iconv -f utf-16 -t utf-8)"},
        {2, "\xFE\xFF", "expected UTF-8, got UTF-16 (iconv -f utf-16 -t utf-8)"}};
    const char *cr;
    size_t i;
    for (i = 0; i < sizeof of / sizeof *of; i++)
        if (n >= of[i].n && !memcmp(line, of[i].bytes, of[i].n)) return of[i].is;
    if (n >= 10 && !memcmp(line, "BZh", 3) &&
        !memcmp(line + 4, "1AY&SY", 6)) /* between them is a digit */
        return "expected text, got a bzip2 file: bzip2 -dc unpacks it";
    if (is_wide(line, n, 1)) return "expected UTF-8, got UTF-16 (iconv -f utf-16le -t utf-8)";
    if (is_wide(line, n, 0)) return "expected UTF-8, got UTF-16 (iconv -f utf-16be -t utf-8)";
    cr = whole ? memchr(line, '\r', n) : NULL;
    return cr ? "expected lines that end with LF or CR LF, got CR alone (tr '\\r' '\\n')" : NULL;
}

/* Reads a line with its LF: of one that is too long, only so much that this shows. Returns its
   bytes; 0: the end; -1: an error. */
static ssize_t read_bytes(struct reader *r)
{
    const size_t most = max_line_bytes + 6;     /* with a byte order mark, CR LF and one byte more */
    size_t n = 0;
    int c;
    errno = 0;
    while ((c = getc_unlocked(r->file)) != EOF) {
        if (n + 2 > r->capacity) r->line = grow(r->line, &r->capacity, n + 2, 1);
        if (n < most || c == '\n') r->line[n++] = (char)c;
        if (c == '\n') break;
    }
    if (n) r->line[n] = 0;
    return ferror(r->file) ? -1 : (ssize_t)n;
}

int next_line(struct reader *r)
{
    const char *form;
    ssize_t length;
    int ends;
    int64_t at;
    r->fault = NULL;            /* also after the last line */
    r->kind = TRF_FAULT_UNREADABLE;
    length = read_bytes(r);
    if (length < 0) {
        say("%s:%lld: cannot continue reading: %s", r->name, (long long)r->number + 1,
            errno == EBADMSG ? "the gzip file is damaged or truncated" : strerror(errno ? errno : EIO));
        return -1;
    }
    if (length == 0) return 0;
    r->number++;
    if (r->number == 1 && length >= 3 &&
        !memcmp(r->line, "\xEF\xBB\xBF", 3)) /* a byte order mark is no text */
        memmove(r->line, r->line + 3, (size_t)(length -= 3) + 1);
    ends = length > 0 && r->line[length - 1] == '\n';
    if (ends) r->line[--length] = 0;
    r->crlf = ends && length > 0 && r->line[length - 1] == '\r';
    if (length > 0 && r->line[length - 1] == '\r') r->line[--length] = 0;
    r->length = (size_t)length;
    if (r->number == 1 && (form = other_form(r->line, r->length, !ends))) {
        say("%s:1: %s", r->name, form);
        return -1;
    }
    if (r->length > max_line_bytes) {
        r->kind = TRF_FAULT_LINE;
        snprintf(r->too_long, sizeof r->too_long, "more than %zu bytes (--max-line-bytes)",
                 max_line_bytes);
        r->fault = r->too_long;
        r->line[r->length = 0] = 0;
        return 1;
    }
    at = trf_find_invalid_utf8(r->line, r->length);
    r->fault = memchr(r->line, 0, r->length) ? "a NUL byte" : at >= 0 ? r->not_utf8 : NULL;
    if (r->fault == r->not_utf8) {
        r->kind = TRF_FAULT_ENCODING;
        snprintf(r->not_utf8, sizeof r->not_utf8,
                 "expected UTF-8, got the byte 0x%02X at offset %lld",
                 (unsigned)(unsigned char)r->line[at], (long long)at);
    }
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
                     p->column[0] > 0 && p->column[1] > 0 && p->column[0] != p->column[1]))
        return DONE;
    say("--columns takes the numbers of two columns, as in 1,2; got '%s'", columns);
    return USAGE;
}

static int is_utf8(const char *text) { return trf_find_invalid_utf8(text, strlen(text)) < 0; }

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
    return (S_ISFIFO(x.st_mode) || S_ISSOCK(x.st_mode) || isatty(fileno(a))) &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino && x.st_rdev == y.st_rdev;
}

char *unequal_text(const struct reader *a, const struct reader *b)
{
    return format_text("%s has %lld line%s, but %s has %lld: line n of one must belong to line n of "
                       "the other",
                       a->name, (long long)a->number, plural(a->number), b->name,
                       (long long)b->number);
}

void say_unequal(const struct reader *a, const struct reader *b)
{
    char *text = unequal_text(a, b);
    say("%s", text);
    free(text);
}

int open_pairs(struct pair_reader *p, const char *source, const char *target, const char *tsv,
               const char *columns)
{
    int status;
    memset(p, 0, sizeof *p);
    p->tsv = tsv != NULL;
    p->at = &p->side[0];
    if (columns && !tsv) { say("--columns is for pairs in one file"); return USAGE; }
    if ((status = read_columns(p, columns)) ||
        (status = open_reader(&p->side[0], tsv ? tsv : source)) || tsv)
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
    char *at, *tab, *third = NULL;
    p->source = p->target = NULL;
    p->fault = NULL;
    for (at = r->line; at; at = tab, column++) {
        if ((tab = strchr(at, '\t'))) *tab++ = 0;
        if (column == p->column[0]) p->source = at;
        if (column == p->column[1]) p->target = at;
        if (column == 3) third = at;
    }
    if (p->two_texts && p->exactly_two && column == 4) {
        r->line[strlen(r->line)] = '\t';
        p->target = third;
        column = 3;
    }
    if (r->fault == r->not_utf8 && p->source && p->target && is_utf8(p->source) &&
        is_utf8(p->target)) {       /* it is in an unused column */
        r->fault = NULL;
        r->kind = TRF_FAULT_UNREADABLE;
    }
    p->lacks_tab = !r->fault && column == 2;
    if (r->fault) p->fault = r->fault;
    else if (p->exactly_two && column == 2) p->fault = "no tab between source and target";
    else if (p->exactly_two && column > 3)
        p->fault = "more than one tab; --columns chooses two columns";
    else if (!p->source || !p->target) p->fault = "fewer columns than --columns needs";
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

/* Files of different lengths are an error; the message has both lengths. */
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
    if (got_a == 0 && got_b == 0 && (!p->unpaired || p->keep_unpaired == 2)) return 0;
    if (p->keep_unpaired && got_a >= 0 && got_b >= 0 && (got_a || got_b)) {
        p->unpaired = 1;
        p->at = got_a ? a : b;
        p->source = p->target = "";
        p->fault = "the other file has no such line";
        return 1;
    }
    while (got_a > 0) got_a = next_line(a);
    while (got_b > 0) got_b = next_line(b);
    if (got_a == 0 && got_b == 0) say_unequal(a, b);
    return -1;
}

int check_pairs_given(const char *prefix, const char *source, const char *target, const char *tsv)
{
    if (tsv ? !source && !target : source && target) return DONE;
    say("give --%ssource FILE and --%starget FILE, or only --%stsv FILE", prefix, prefix, prefix);
    return USAGE;
}

int take_input(struct settings *s, int argc, char **argv)
{
    struct stat there;
    if (argc == 0) return DONE;
    if (argc > 1 || s->input) {
        say("give one file of lines, got '%s' and '%s'", argv[0], argc > 1 ? argv[1] : s->input);
        return USAGE;
    }
    s->input = argv[0];
    if (!strcmp(s->input, "-") || !stat(s->input, &there)) return DONE;
    say("cannot read '%s': %s; lines come from a file, or from standard input, as in: echo 'some "
        "words' | %s --model %s",
        s->input, strerror(errno), program, s->model ? s->model : "FILE");
    return FAILED;
}

int64_t count_units(const char *text, int characters)
{
    int64_t n = 0;
    if (!characters) return for_words(text, NULL, NULL);
    for (; *text; text++)
        n += !strchr(BLANKS, *text) && ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

int32_t length_class(int64_t units)
{
    int32_t k = 0;
    for (; units && k < LENGTH_CLASSES - 1; units /= 2) k++;
    return k;
}

// -----------------------------------------------------------------------------------------------
// >>texts          lines in memory
// -----------------------------------------------------------------------------------------------

void store_line(struct text *text, const char *line, int64_t number)
{
    size_t bytes = strlen(line) + 1;
    text->bytes = grow(text->bytes, &text->capacity, text->used + bytes, 1);
    text->starts =
        grow(text->starts, &text->starts_capacity, text->count + 1, sizeof *text->starts);
    text->numbers =
        grow(text->numbers, &text->numbers_capacity, text->count + 1, sizeof *text->numbers);
    memcpy(text->bytes + text->used, line, bytes);
    text->starts[text->count] = text->used;
    text->numbers[text->count++] = number;
    text->used += bytes;
}

const char *line_of(const struct text *text, size_t index)
{
    return text->bytes + text->starts[index];
}

void free_text(struct text *text)
{
    free(text->bytes);
    free(text->starts);
    free(text->numbers);
    memset(text, 0, sizeof *text);
}

/* FNV-1a but for the basis: that of the library (TRF__HASH_BASIS). It stays, because what is held
   out, and the marks of trf prepare, depend on it. */
#define HASH_BASIS 1469598103934665603u

uint64_t hash_line(const char *line)
{
    uint64_t hash = HASH_BASIS;
    for (; *line; line++) hash = (hash ^ (unsigned char)*line) * 1099511628211u;
    return hash ^ hash >> 32;
}

uint64_t hash_bytes(uint64_t before, const void *bytes, size_t n)
{
    const unsigned char *at = (const unsigned char *)bytes;
    size_t i;
    for (i = 0; i < n; i++) before = (before ^ at[i]) * 1099511628211u;
    return before ^ before >> 32;
}

int by_hash(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Where a hash is in a table that is not full, or would be put. A multiplication spreads hashes
   that are alike, as the multiples of a number. */
static size_t slot_of(const struct hashes *h, uint64_t hash)
{
    size_t at = (size_t)(hash * 0x9E3779B97F4A7C15u >> 20) & (h->slots - 1);
    while (h->slot[at] && h->slot[at] != hash) at = (at + 1) & (h->slots - 1);
    return at;
}

static void enlarge(struct hashes *h)
{
    uint64_t *old = h->slot;
    size_t n = h->slots, i;
    h->slots = n ? 2 * n : 256;
    h->slot = zeroed(h->slots, sizeof *h->slot);
    for (i = 0; i < n; i++) if (old[i]) h->slot[slot_of(h, old[i])] = old[i];
    free(old);
}

int note_hash(struct hashes *h, uint64_t hash)
{
    size_t at;
    if (hash == 0) hash = 1;        /* 0 marks an empty slot */
    if (2 * h->n >= h->slots) enlarge(h);
    at = slot_of(h, hash);
    if (h->slot[at]) return 0;
    h->slot[at] = hash;
    h->n++;
    return 1;
}

int has_hash(const struct hashes *h, uint64_t hash)
{
    return h->n && h->slot[slot_of(h, hash ? hash : 1)];
}

void free_hashes(struct hashes *h)
{
    free(h->slot);
    memset(h, 0, sizeof *h);
}

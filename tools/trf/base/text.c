// trf: messages, memory, text. See base.h.

#include "base.h"

#include <math.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <time.h>

// -----------------------------------------------------------------------------------------------
// >>messages
// -----------------------------------------------------------------------------------------------

const char *program = "trf";
int unfinished_line, quiet;
FILE *message_file;

size_t character_of(const char *text, size_t left, uint32_t *c)
{
    unsigned char first = (unsigned char)text[0];
    size_t n = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4, i;
    if (n > left || trf_find_invalid_utf8(text, n) >= 0) return 0;
    *c = n == 1 ? first : first & (0x7Fu >> n);
    for (i = 1; i < n; i++) *c = *c << 6 | ((unsigned char)text[i] & 0x3Fu);
    return n;
}

size_t write_character(char *to, uint32_t c)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (i = n - 1; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3F));
    to[0] = (char)(first[n] | c);
    return n;
}

static int is_control(uint32_t c) { return c < 32 || (c >= 127 && c < 0xA0); }

void print_clean(FILE *file, const char *text, size_t limit)
{
    size_t length = strlen(text), n, i;
    uint32_t c;
    for (i = 0; i < length && i < limit; i += n ? n : 1) {
        n = character_of(text + i, length - i, &c);
        if (n == 0 || is_control(c)) fputc('?', file);
        else fwrite(text + i, 1, n, file);
    }
    if (i < length) fprintf(file, "... (%zu bytes)", length);
}

void print_json_text(FILE *file, const char *text, size_t bytes)
{
    size_t n, i;
    uint32_t c;
    fputc('"', file);
    for (i = 0; i < bytes; i += n ? n : 1) {
        n = character_of(text + i, bytes - i, &c);
        if (n == 0) fputs("\xEF\xBF\xBD", file);
        else if (c == '"' || c == '\\') fprintf(file, "\\%c", (int)c);
        else if (is_control(c)) fprintf(file, "\\u%04x", (unsigned)c);
        else fwrite(text + i, 1, n, file);
    }
    fputc('"', file);
}

void print_json_member(FILE *file, const char *name, const char *text)
{
    fprintf(file, ",\"%s\":", name);
    print_json_text(file, text, strlen(text));
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

/* Prints a line without control characters. */
static void write_message(const char *before, const char *format, va_list arguments)
{
    FILE *to = message_file ? message_file : stderr;
    char sentence[4096];
    fflush(stdout);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    fprintf(to, "%s%s%s", unfinished_line ? "\n" : "", before, *before ? ": " : "");
    unfinished_line = 0;
    print_clean(to, sentence, sizeof sentence);
    fputc('\n', to);
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_message(program, format, arguments);
    va_end(arguments);
}

void inform(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!quiet) vfprintf(stderr, format, arguments);
    va_end(arguments);
}

void inform_line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!quiet) write_message("", format, arguments);
    va_end(arguments);
}

void say_error(const char *doing, const trf_error *err)
{
    say("%s%s%s (%s)", doing ? doing : "", doing ? ": " : "", err->message,
        trf_status_name((trf_status)err->status));
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

int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), length = strlen(end);
    return n >= length && !strcmp(text + n - length, end);
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

/* What getrusage says is also that of the program which started this one. */
double megabytes(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    struct rusage usage;
    long long kilobytes = 0;
    char line[256];
    while (status && !kilobytes && fgets(line, sizeof line, status))
        (void)sscanf(line, "VmHWM: %lld", &kilobytes);
    if (status) fclose(status);
    if (kilobytes) return (double)kilobytes * 1.024e-3;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : (double)usage.ru_maxrss * 1.024e-3;
}

void time_text(double seconds, char text[32])
{
    long long s = (long long)(seconds + 0.5);
    if (!(seconds < 1e9)) snprintf(text, 32, "unknown");
    else if (s >= 3600) snprintf(text, 32, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else if (s >= 60) snprintf(text, 32, "%lldm%02llds", s / 60, s % 60);
    else snprintf(text, 32, "%llds", s);
}

int have_blanks(const char *const *lines, int64_t n)
{
    int64_t i, spaced = 0;
    for (i = 0; i < n; i++)
        spaced += lines[i][0] == ' ' || strstr(lines[i], "  ") ||
                  (*lines[i] && lines[i][strlen(lines[i]) - 1] == ' ');
    return spaced > n / 100;
}

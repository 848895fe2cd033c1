// trf: reads an object of JSON: texts, numbers, and objects within it. See base.h. text.c prints
// JSON.

#include "base.h"

#include <math.h>

void add_field(struct fields *f, char *name, char *value)
{
    f->item = grow(f->item, &f->capacity, f->n + 1, sizeof *f->item);
    f->item[f->n].name = name;
    f->item[f->n++].value = value;
}

void free_fields(struct fields *f)
{
    size_t i;
    for (i = 0; i < f->n; i++) {
        free(f->item[i].name);
        free(f->item[i].value);
    }
    free(f->item);
    memset(f, 0, sizeof *f);
}

const char *field_text(const struct fields *f, const char *name)
{
    size_t i;
    for (i = 0; i < f->n; i++)
        if (!strcmp(f->item[i].name, name)) return f->item[i].value;
    return NULL;
}

double field_number(const struct fields *f, const char *name)
{
    const char *text = field_text(f, name);
    char *end;
    double x = text ? strtod(text, &end) : NAN;
    return text && end != text && !*end && isfinite(x) ? x : NAN;
}

static const char *skip_blanks(const char *at) { return at + strspn(at, " \t\r\n"); }

/* Four hexadecimal digits, or -1. */
static long hexadecimal(const char *at)
{
    char digits[5] = "";
    if (strspn(at, "0123456789abcdefABCDEF") < 4) return -1;
    memcpy(digits, at, 4);
    return strtol(digits, NULL, 16);
}

/* The code point after \u, possibly a pair of surrogates. A NUL becomes U+2400, its picture. */
static const char *read_code(const char *at, char **to)
{
    long c = hexadecimal(at), low;
    if (c < 0) return NULL;
    at += 4;
    if (c >= 0xD800 && c < 0xDC00 && at[0] == '\\' && at[1] == 'u' &&
        (low = hexadecimal(at + 2)) >= 0xDC00 && low < 0xE000) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        at += 6;
    } else if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;
    *to += write_character(*to, c ? (uint32_t)c : 0x2400);
    return at;
}

/* Reads a text in quotation marks; *text is malloc'd. NULL: there is none. */
static const char *read_text(const char *at, char **text)
{
    static const char *const escapes = "\"\\/bfnrt", *const meant = "\"\\/\b\f\n\r\t";
    size_t most = 1;
    char *to;
    while (at[most] && at[most] != '"') most += at[most] == '\\' && at[most + 1] ? 2 : 1;
    *text = to = zeroed(most + 1, 1);
    for (at++; *at && *at != '"';) {
        const char *escape;
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        if (at[1] == 'u') {
            if (!(at = read_code(at + 2, &to))) break;
            continue;
        }
        escape = at[1] ? strchr(escapes, at[1]) : NULL;
        if (!escape) break;
        *to++ = meant[escape - escapes];
        at += 2;
    }
    if (at && *at == '"') return at + 1;
    free(*text);
    *text = NULL;
    return NULL;
}

static const char *read_object(const char *at, struct fields *f, struct fields *inner);

/* Reads a value. The fields of an object go to `inner`; without it an object is an error. */
static const char *read_value(const char *at, char *name, struct fields *f, struct fields *inner)
{
    char *value = NULL;
    size_t n;
    if (*at == '{') {
        at = inner ? read_object(at, inner, NULL) : NULL;
        free(name);
        return at;
    }
    if (*at == '"') at = read_text(at, &value);
    else {
        n = strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyzEIN");     /* NaN, Infinity */
        value = format_text("%.*s", (int)(n < 64 ? n : 64), at);
        at = n ? at + n : NULL;
    }
    if (at) add_field(f, name, value);
    else {
        free(name);
        free(value);
    }
    return at;
}

/* Returns the end of the object, or NULL if there is none. */
static const char *read_object(const char *at, struct fields *f, struct fields *inner)
{
    char *name;
    if (*at != '{') return NULL;
    at = skip_blanks(at + 1);
    if (*at == '}') return at + 1;
    for (;;) {
        if (*at != '"' || !(at = read_text(at, &name))) return NULL;
        at = skip_blanks(at);
        if (*at != ':') {
            free(name);
            return NULL;
        }
        if (!(at = read_value(skip_blanks(at + 1), name, f, inner))) return NULL;
        at = skip_blanks(at);
        if (*at == '}') return at + 1;
        if (*at != ',') return NULL;
        at = skip_blanks(at + 1);
    }
}

int read_json_object(const char *line, struct fields *f, struct fields *inner)
{
    const char *end = read_object(skip_blanks(line), f, inner);
    return end && !*skip_blanks(end);
}

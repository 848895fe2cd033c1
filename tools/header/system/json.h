#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"

// -----------------------------------------------------------------------------------------------
// >>json           reading JSON in place
//
// One pass without recursion over text from an unknown source. Strings are unescaped in place. The
// reader knows what headers of safetensors files contain: objects, strings, whole numbers, and
// arrays of these. Positions in messages are those of the file: the header begins at byte 8.
// -----------------------------------------------------------------------------------------------

enum { TRF__JSON_DEPTH = 64 };
/* 2^48 - 1: sums of sizes stay far from overflow */
#define TRF__FILE_INTEGER 281474976710655u

typedef struct trf__json {
    char *text;
    int64_t n, at;
    const char *name;           /* the name whose value is being read, for messages */
    trf_error *err;
} trf__json;

TRF__FN int trf__json_peek(const trf__json *s)
{
    return s->at < s->n ? (int)(unsigned char)s->text[s->at] : -1;
}

TRF__FN void trf__json_blanks(trf__json *s)
{
    while (s->at < s->n && s->text[s->at] && strchr(" \t\r\n", s->text[s->at])) s->at++;
}

/* Fails with "expected X, got Y". If Y is nested too deeply, the message reports that instead. */
TRF__FN trf_status trf__json_refuse(const trf__json *s, const char *expected)
{
    int depth = 0, quoted = 0, c = trf__json_peek(s);
    for (int64_t i = s->at; i < s->n; i++) {
        char d = s->text[i];
        if (quoted) {
            if (d == '\\') i++;
            else if (d == '"') quoted = 0;
            continue;
        }
        if (d == '"') quoted = 1;
        else if (d == '[' || d == '{') depth++;
        else if (d == ']' || d == '}') depth--;
        if (depth > TRF__JSON_DEPTH)
            return trf__fail(s->err, TRF_E_LIMIT, 8 + i, s->name,
                             "header: nested deeper than %d at byte %lld",
                             (int)TRF__JSON_DEPTH, (long long)(8 + i));
        if (depth <= 0 && !quoted) break;
    }
    if (c < 0)
        return trf__fail(s->err, TRF_E_FORMAT, 8 + s->at, s->name,
                         "header: expected %s, got its end at byte %lld",
                         expected, (long long)(8 + s->at));
    return trf__fail(s->err, TRF_E_FORMAT, 8 + s->at, s->name,
                     c > 32 && c < 127 ? "header: expected %s, got '%c' at byte %lld"
                                       : "header: expected %s, got 0x%02X at byte %lld",
                     expected, c, (long long)(8 + s->at));
}

/* Steps to the next element of an object or array. *more is 0 once its end has been read. */
TRF__FN trf_status trf__json_next(trf__json *s, int first, char close, int *more)
{
    trf__json_blanks(s);
    *more = trf__json_peek(s) != close;
    if (!*more) { s->at++; return TRF_OK; }
    if (first) return TRF_OK;
    if (trf__json_peek(s) != ',')
        return trf__json_refuse(s, close == '}' ? "',' or '}'" : "',' or ']'");
    s->at++;
    trf__json_blanks(s);
    return TRF_OK;
}

/* Reads the character that opens a value. */
TRF__FN trf_status trf__json_open(trf__json *s, char open, const char *expected)
{
    trf__json_blanks(s);
    if (trf__json_peek(s) != open) return trf__json_refuse(s, expected);
    s->at++;
    return TRF_OK;
}

/* Reads four hexadecimal digits, or returns -1. */
TRF__FN int32_t trf__json_hex(trf__json *s)
{
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int c = trf__json_peek(s);
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
        s->at++;
    }
    return value;
}

/* Reads the rest of an escape after its backslash. An escape is at least as long as its character,
   so the text can be written in place. */
TRF__FN trf_status trf__json_escape(trf__json *s, char **to)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    int c = trf__json_peek(s);
    const char *letter = c > 0 ? strchr(letters, c) : NULL;
    int64_t begin = s->at;
    if (letter) {
        *(*to)++ = meant[letter - letters];
        s->at++;
        return TRF_OK;
    }
    if (c != 'u') return trf__json_refuse(s, "an escape: one of \" \\ / b f n r t u");
    s->at++;
    int32_t u = trf__json_hex(s);
    if (u < 0) return trf__json_refuse(s, "four hexadecimal digits");
    /* a character beyond U+FFFF is a pair of escapes, its surrogates */
    if (u >= 0xD800 && u < 0xDC00 && s->at + 1 < s->n && s->text[s->at] == '\\' &&
        s->text[s->at + 1] == 'u') {
        s->at += 2;
        int32_t low = trf__json_hex(s);
        u = low >= 0xDC00 && low < 0xE000 ? 0x10000 + (u - 0xD800) * 1024 + (low - 0xDC00) : u;
    }
    if (u == 0 || (u >= 0xD800 && u < 0xE000))
        return trf__fail(s->err, TRF_E_FORMAT, 8 + begin, s->name,
                         "header: %s in a string at byte %lld",
                         u ? "half a surrogate pair" : "a NUL", (long long)(8 + begin));
    *to += trf__put_code_point(*to, (uint32_t)u);
    return TRF_OK;
}

/* Reads a string and unescapes it in place: *out points into the text, and a NUL ends it. */
TRF__FN trf_status trf__json_string(trf__json *s, const char **out, const char *expected)
{
    trf__json_blanks(s);
    if (trf__json_peek(s) != '"') return trf__json_refuse(s, expected);
    s->at++;
    char *to = s->text + s->at;
    *out = to;
    for (;;) {
        int c = trf__json_peek(s);
        if (c < 32)
            return trf__json_refuse(s, c < 0 ? "the end of a string"
                                    : "no control character in a string");
        s->at++;
        if (c == '"') break;
        if (c != '\\') { *to++ = (char)(unsigned char)c; continue; }
        TRF__TRY(trf__json_escape(s, &to));
    }
    *to = 0;            /* at the closing quote or before it */
    return TRF_OK;
}

/* Reads a name and its colon. */
TRF__FN trf_status trf__json_key(trf__json *s, const char **key)
{
    TRF__TRY(trf__json_string(s, key, "a name in double quotes"));
    return trf__json_open(s, ':', "':'");
}

/* Reads 0 or [1-9][0-9]*. A number beyond 64 bits is not a number here (TRF_E_FORMAT). One beyond
   2^48 - 1 is too large (TRF_E_LIMIT). */
TRF__FN trf_status trf__json_integer(trf__json *s, uint64_t *out)
{
    uint64_t value = 0;
    trf__json_blanks(s);
    int64_t begin = s->at;
    while (trf__json_peek(s) >= '0' && trf__json_peek(s) <= '9' && !(value == 0 && s->at > begin)) {
        uint64_t digit = (uint64_t)(s->text[s->at] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return trf__fail(s->err, TRF_E_FORMAT, 8 + begin, s->name,
                             "header: a number of more than 64 bits at byte %lld",
                             (long long)(8 + begin));
        value = value * 10 + digit;
        s->at++;
    }
    if (s->at == begin) return trf__json_refuse(s, "a whole number");
    if (value > TRF__FILE_INTEGER)
        return trf__fail(s->err, TRF_E_LIMIT, 8 + begin, s->name,
                         "header: %llu at byte %lld, the limit is %llu",
                         (unsigned long long)value, (long long)(8 + begin),
                         (unsigned long long)TRF__FILE_INTEGER);
    *out = value;
    return TRF_OK;
}

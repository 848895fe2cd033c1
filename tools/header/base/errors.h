#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "base/impl.h"

// -----------------------------------------------------------------------------------------------
// >>base           errors, memory, small arithmetic
//
// Every chapter uses these. Errors: a function that can fail returns a status and fills the
// caller's trf_error; trf__fail does both in one line. Memory: it comes from the hooks, is aligned
// to 64 bytes, and is freed with the size that was allocated. trf__bytes computes the sizes and
// cannot wrap. Random numbers: each is a function of a counter (Philox), so no generator has a
// state.
// -----------------------------------------------------------------------------------------------

/* Calls a function that returns a status. If that is a failure, the caller returns it. */
#define TRF__TRY(call) \
    do { trf_status trf__status = (call); if (trf__status != TRF_OK) return trf__status; } while (0)

/* No error. where = -1 means "no position": 0 is one. */
TRF__FN void trf__clear(trf_error *err)
{
    if (err) { memset(err, 0, sizeof *err); err->where = -1; }
}

/* The code point at p, which is valid UTF-8. *bytes is its length. */
TRF__FN uint32_t trf__code_point(const char *p, int *bytes)
{
    static const unsigned char first[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = (unsigned char)p[0];
    *bytes = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    c &= first[*bytes];
    for (int i = 1; i < *bytes; i++) c = c << 6 | ((unsigned char)p[i] & 63u);
    return c;
}

/* Writes a code point as UTF-8, at most four bytes. Returns their number. */
TRF__FN int trf__put_code_point(char *to, uint32_t c)
{
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    int bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = bytes - 1; i > 0; i--, c >>= 6) to[i] = (char)(unsigned char)(0x80 | (c & 63));
    to[0] = (char)(unsigned char)(first[bytes] | c);
    return bytes;
}

/* The number of bytes (1 to 4) of the UTF-8 character at p, or 0 if it is not well formed. Overlong
   forms, surrogates and code points above U+10FFFF are not (Unicode, table 3-7). */
TRF__FN int trf__utf8_at(const char *p, size_t n)
{
    unsigned char c = n ? (unsigned char)p[0] : 0xFF, low = 0x80, high = 0xBF;
    int bytes = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    if (bytes == 0 || (size_t)bytes > n) return 0;
    /* the second byte has a narrower range after these four first bytes */
    if (c == 0xE0) low = 0xA0;
    if (c == 0xED) high = 0x9F;
    if (c == 0xF0) low = 0x90;
    if (c == 0xF4) high = 0x8F;
    for (int i = 1; i < bytes; i++) {
        unsigned char d = (unsigned char)p[i];
        /* only the second byte may have the narrower range */
        if (d < low || d > high) return 0;
        low = 0x80;
        high = 0xBF;
    }
    return bytes;
}

/* Whether m bytes that are not a character can be the beginning of one. */
TRF__FN int trf__utf8_begins(const char *bytes, int m)
{
    char whole[4] = {0, '\x80', '\x80', '\x80'};
    if (m > 3) return 0;
    memcpy(whole, bytes, (size_t)m);
    if (trf__utf8_at(whole, 4) > m) return 1;
    if (m == 1) whole[1] = '\xA0';      /* some have A0 or more there (Unicode, table 3-7) */
    return trf__utf8_at(whole, 4) > m;
}

/* Whether a control character begins at p: one of ASCII, or of Latin-1 (U+0080 to U+009F). */
TRF__FN int trf__is_control(const char *p)
{
    unsigned char c = (unsigned char)*p;
    return c < 32 || c == 127 || (c == 0xC2 && (unsigned char)p[1] < 0xA0);
}

/* Copies text into a fixed buffer. Longer text is cut between two characters. Control characters
   and bytes that are not UTF-8 become '?', so that no hostile name commands a terminal. */
TRF__FN void trf__copy_text(char *to, size_t size, const char *from)
{
    size_t n = 0, left = from ? strlen(from) : 0;
    while (left > 0) {
        int bytes = trf__utf8_at(from, left), taken = bytes ? bytes : 1;
        int bad = bytes == 0 || trf__is_control(from);
        if (n + (size_t)(bad ? 1 : taken) >= size) break;
        if (bad) to[n++] = '?';
        else { memcpy(to + n, from, (size_t)taken); n += (size_t)taken; }
        from += taken;
        left -= (size_t)taken;
    }
    to[n] = 0;
}

/* Fills err (which may be NULL) and returns status. */
TRF__FN TRF__PRINTF(5, 6) trf_status trf__fail(trf_error *err, trf_status status, int64_t where,
                                               const char *what, const char *format, ...)
{
    if (err) {
        /* longer than message, so that trf__copy_text cuts it */
        char text[sizeof err->message + 8];
        va_list arguments;
        memset(err, 0, sizeof *err);
        err->status = status;
        err->where = where;
        trf__copy_text(err->what, sizeof err->what, what);
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        trf__copy_text(err->message, sizeof err->message, text);
    }
    return status;
}

/* A check is one statement: if the condition is true, the calling function fails.
       TRF__FAIL_IF(n < 1, TRF_E_INVALID_ARG, -1, "n", "n must be at least 1, got %d", n); */
#define TRF__FAIL_IF(condition, status, where, what, ...) \
    do { if (condition) return trf__fail(err, status, where, what, __VA_ARGS__); } while (0)

/* TRF_OK if the condition is true, else the failure: what the last check of a function returns. */
#define TRF__OK_IF(condition, status, where, what, ...) \
    ((condition) ? TRF_OK : trf__fail(err, status, where, what, __VA_ARGS__))

/* The commonest failures have functions of their own, so that their messages agree. */
TRF__FN trf_status trf__fail_null(trf_error *err, const char *what)
{
    return trf__fail(err, TRF_E_INVALID_ARG, -1, what, "%s must not be NULL", what);
}

/* Public functions begin with this call: it clears err and checks the object they work on. */
TRF__FN trf_status trf__begin(const void *object, const char *name, trf_error *err)
{
    trf__clear(err);
    return object ? TRF_OK : trf__fail_null(err, name);
}

/* So do those that make an object: *to is NULL unless they succeed. */
#define TRF__BEGIN_NEW(to) \
    do { TRF__TRY(trf__begin(to, #to, err)); *(to) = NULL; } while (0)

/* The plural ending of a noun after a number. */
TRF__FN const char *trf__plural(int64_t n) { return n == 1 ? "" : "s"; }

TRF__FN trf_status trf__fail_below(trf_error *err, const char *what, int64_t least, int64_t got)
{
    return trf__fail(err, TRF_E_INVALID_ARG, -1, what, "%s must be %lld or more, got %lld",
                     what, (long long)least, (long long)got);
}

#define TRF__BELOW_ONE (1 - DBL_EPSILON / 2)    /* the largest value below 1 */

/* Checks one range. err->what is the field's name. */
TRF__FN trf_status trf__check_range(const char *field, double value, double low, double high,
                                    trf_error *err)
{
    if (value >= low && value <= high) return TRF_OK;
    TRF__FAIL_IF(low == high, TRF_E_INVALID_ARG, -1, field, "%s must be %.10g, got %.10g", field,
                 low, value);
    TRF__FAIL_IF(high < 1 && high >= 1 - 1e-12, TRF_E_INVALID_ARG, -1, field,
                 "%s must be 0 or more and below 1, got %.10g", field, value);
    return trf__fail(err, TRF_E_INVALID_ARG, -1, field,
                     "%s must be between %.10g and %.10g, got %.10g", field, low, high, value);
}

/* A field of an object. */
#define TRF__RANGE(object, field, low, high) \
    TRF__TRY(trf__check_range(#field, (double)(object)->field, low, high, err))

/* trf__fail for a failed system call. The message does not name the file: trf__name_file adds the
   name, once, where the path is known. */
TRF__FN trf_status trf__fail_io(trf_error *err, int sys_errno, const char *path, const char *doing)
{
    trf_status status = trf__fail(err, TRF_E_IO, -1, path, "cannot %s: %.60s", doing,
                                  strerror(sys_errno));
    if (err) err->sys_errno = sys_errno;
    return status;
}

/* The part of a path that messages show: at most its last hundred bytes, no cut character. */
TRF__FN const char *trf__path_end(const char *path)
{
    const char *end = strlen(path) > 100 ? path + strlen(path) - 100 : path;
    while (((unsigned char)*end & 0xC0) == 0x80) end++;
    return end;
}

/* If a call that reads or writes a file failed, puts the path before its message, unless the
   message begins with it. */
TRF__FN trf_status trf__name_file(trf_status status, const char *path, trf_error *err)
{
    char name[104], text[sizeof err->message + 2 * sizeof name];
    if (status == TRF_OK || !err || !path || !*path) return status;
    trf__copy_text(name, sizeof name, trf__path_end(path));
    /* a callee may have added the path already */
    if (!strncmp(err->message, name, strlen(name)) && err->message[strlen(name)] == ':')
        return status;
    snprintf(text, sizeof text, "%s: %s", name, err->message);
    trf__copy_text(err->message, sizeof err->message, text);
    return status;
}

/* Memory from one allocator must not reach the other one's free. */
TRF__FN trf_status trf__hooks_check(const trf_hooks *hooks, trf_error *err)
{
    return TRF__OK_IF(!hooks->alloc == !hooks->free, TRF_E_INVALID_ARG, -1, "hooks",
                      "hooks need both alloc and free, or neither; got only %s",
                      hooks->alloc ? "alloc" : "free");
}

TRF__FN int trf__cancelled(const trf_hooks *hooks)
{
    return hooks->cancel && hooks->cancel(hooks->user);
}

TRF__FN trf_status trf__fail_cancelled(trf_error *err)
{
    return trf__fail(err, TRF_E_CANCELLED, -1, "cancel", "the cancel hook asked to stop");
}

TRF__FN trf_status trf__cancel_status(const trf_hooks *hooks, trf_error *err)
{
    return trf__cancelled(hooks) ? trf__fail_cancelled(err) : TRF_OK;
}

/* A program may define log and free as macros: the parentheses around hooks of these names prevent
   their expansion. */
TRF__FN void trf__log(const trf_hooks *hooks, int level, const char *message)
{
    if (hooks->log) (hooks->log)(hooks->user, level, message);
}

enum { TRF__ALIGN = 64, TRF__HUGE_PAGE = 1 << 21 };

#pragma once
#include "api/vocab.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"

// -----------------------------------------------------------------------------------------------
// >>text           UTF-8, numbers as text
//
// Numbers in files are ASCII whatever the locale of the program: '.' is the decimal point, 9
// significant digits hold a float and 17 a double, exactly. CRC-32 is the one of zip and PNG (IEEE
// 802.3, polynomial 0xEDB88320 reflected).
// -----------------------------------------------------------------------------------------------

TRF_API int64_t trf_find_invalid_utf8(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes) {
        int length = text ? trf__utf8_at(text + i, bytes - i) : 0;
        if (length == 0) return (int64_t)i;
        i += (size_t)length;
    }
    return -1;
}

/* Text that reaches files and vocabularies must be UTF-8, or it could not be read again. */
TRF__FN trf_status trf__check_utf8(const char *text, const char *what, trf_error *err)
{
    int64_t fault = trf_find_invalid_utf8(text, strlen(text));
    return TRF__OK_IF(fault < 0, TRF_E_FORMAT, fault, what,
                      "expected UTF-8, got the byte 0x%02X at offset %lld",
                      (unsigned)(unsigned char)text[fault], (long long)fault);
}

/* 0.1 -> "0.1" with 9 digits, "0.10000000000000001" with 17. Needs 32 bytes. */
TRF__FN void trf__print_real(char *to, size_t size, double x, int digits)
{
    char text[64];
    size_t n = 0;
    if (size == 0) return;
    if (x != x) snprintf(text, sizeof text, "nan");
    else if (!trf__is_finite(x)) snprintf(text, sizeof text, x < 0 ? "-inf" : "inf");
    else snprintf(text, sizeof text, "%.*g", digits < 1 ? 1 : digits > 17 ? 17 : digits, x);
    for (const char *c = text; *c && n + 1 < size; c++) {
        if ((*c >= '0' && *c <= '9') || *c == '-' || *c == '+' || (*c >= 'a' && *c <= 'z'))
            to[n++] = *c;
        else if (n == 0 || to[n - 1] != '.') to[n++] = '.';  /* the locale's point, of any length */
    }
    to[n] = 0;
}

/* Reads 0|-?[1-9][0-9]*: each number has one spelling, and must fit. Returns 1 and sets *x, or
   returns 0 and leaves *x as it was. */
TRF__FN int trf__parse_int(const char *text, int64_t *x)
{
    int negative = *text == '-';
    uint64_t value = 0, most = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    const char *c = text + negative;
    if (*c < '0' || *c > '9' || (*c == '0' && (c[1] || negative))) return 0;
    for (; *c; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (*c < '0' || *c > '9' || value > (most - digit) / 10) return 0;
        value = value * 10 + digit;
    }
    *x = negative ? -(int64_t)(value - 1) - 1 : (int64_t)value;
    return 1;
}

/* Reads a decimal number, "inf", "-inf" or "nan". The whole text must match, and the value must be
   within the range of double. Returns 1 and sets *x, or returns 0. strtod gets "-1.25e3" as
   "-125e1": without a point, the locale's decimal point does not matter. */
TRF__FN int trf__parse_real(const char *text, double *x)
{
    char plain[96];
    size_t n = 0, digits = 0;
    int64_t exponent = 0;
    int point = 0;
    const char *c = text;
    if (!strcmp(text, "nan")) { *x = (double)NAN; return 1; }
    if (!strcmp(text, "inf")) { *x = (double)INFINITY; return 1; }
    if (!strcmp(text, "-inf")) { *x = -(double)INFINITY; return 1; }
    if (*c == '-') plain[n++] = *c++;
    for (; (*c >= '0' && *c <= '9') || (*c == '.' && !point && digits); c++) {
        if (*c == '.') { point = 1; continue; }
        /* `plain` holds a sign, 64 digits and the exponent */
        if (++digits > 64) return 0;
        plain[n++] = *c;
        exponent -= point;
    }
    if (!digits || c[-1] == '.') return 0;
    if (*c == 'e' || *c == 'E') {
        int negative = c[1] == '-';
        int64_t written = 0;
        c += c[1] == '-' || c[1] == '+' ? 2 : 1;
        if (!*c) return 0;
        /* larger exponents are out of range in any case, and must not overflow */
        for (; *c >= '0' && *c <= '9'; c++) if (written < 100000)
            written = written * 10 + (*c - '0');
        exponent += negative ? -written : written;
    }
    if (*c) return 0;
    snprintf(plain + n, sizeof plain - n, "e%ld", (long)exponent);
    double value = strtod(plain, NULL);
    if (!trf__is_finite(value)) return 0;
    *x = value;
    return 1;
}

/* Text is written by two runs of the same calls: the first counts its bytes (to = NULL), the second
   writes them into a block of that size. crc, sum: of a header (trf__item_sum), in the second run
   alone. */
typedef struct trf__text { char *to; size_t n; struct trf__crc *crc; uint32_t sum; } trf__text;

TRF__FN void trf__put_bytes(trf__text *text, const char *s, size_t n)
{
    if (text->to) memcpy(text->to + text->n, s, n);
    text->n += n;
}

TRF__FN void trf__put_text(trf__text *text, const char *s) { trf__put_bytes(text, s, strlen(s)); }

/* Appends a number or another short text, of at most 63 bytes. */
TRF__FN TRF__PRINTF(2, 3) void trf__putf(trf__text *text, const char *format, ...)
{
    char s[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s, sizeof s, format, arguments);
    va_end(arguments);
    trf__put_text(text, s);
}

/* Appends a string of JSON with its quotes, in the shortest escapes. */
TRF__FN void trf__put_string(trf__text *text, const char *s)
{
    static const char letters[] = "btn?fr";         /* of the bytes 8 to 13; 11 has none */
    trf__put_text(text, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') trf__put_text(text, "\\");
        if (c >= 32) trf__put_bytes(text, s, 1);
        else if (c < 8 || c == 11 || c > 13) trf__putf(text, "\\u%04x", (unsigned)c);
        else trf__putf(text, "\\%c", letters[c - 8]);
    }
    trf__put_text(text, "\"");
}

/* An unsigned little-endian number, whatever the byte order of the host. */
TRF__FN uint64_t trf__from_little(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)p[i] << 8 * i;
    return value;
}

/* Writes an unsigned number in little-endian order, whatever the order of the host. */
TRF__FN void trf__to_little(unsigned char *p, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) p[i] = (unsigned char)(value >> 8 * i & 255);
}

TRF__FN double trf__from_float(uint32_t bits) { return (double)trf__float_of(bits); }

// >>crc            the checksum of files

/* CRC-32, sixteen bytes at a time: table[k][b] is the effect of byte b after k more bytes. value is
   the sum of all bytes so far, so that data may come in parts. */
typedef struct trf__crc { uint32_t table[16][256], value; } trf__crc;

/* Fills the tables: table 0 bit by bit, each next one by a zero byte after the one before. */
TRF__FN void trf__crc_begin(trf__crc *crc)
{
    uint32_t k, bits;
    for (uint32_t i = 0; i < 256; i++) {
        for (bits = i, k = 0; k < 8; k++) bits = bits >> 1 ^ (bits & 1 ? 0xEDB88320u : 0);
        crc->table[0][i] = bits;
    }
    for (k = 1; k < 16; k++)
        for (uint32_t i = 0; i < 256; i++)
            crc->table[k][i] = crc->table[k - 1][i] >> 8 ^ crc->table[0][crc->table[k -
            1][i] & 255];
    crc->value = 0;
}

#if TRF__X86
/* Products of polynomials fold 64 bytes at a time (Gopal et al. 2009: x^(4*128+-32), x^(128+-32)
   modulo the CRC's polynomial). Returns how many bytes `left` now stands for: a text of sixteen
   bytes with the same CRC as the bytes so far. n is 64 or more. */
__attribute__((target("pclmul")))
TRF__FN size_t trf__crc_fold(unsigned char left[16], const unsigned char *p, size_t n, uint32_t c)
{
    const __m128i four = _mm_set_epi64x(0x01C6E41596, 0x0154442BD4);
    const __m128i one = _mm_set_epi64x(0x00CCAA009E, 0x01751997D0);
    __m128i x[4], sum;
    size_t at = 64;
    int k;
    for (k = 0; k < 4; k++) x[k] = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * k));
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)c));
    for (; at + 64 <= n; at += 64)
        for (k = 0; k < 4; k++) {
            __m128i data = _mm_loadu_si128((const __m128i *)(const void *)(p + at + 16 * k));
            x[k] = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x[k], four, 0x00), data),
                                 _mm_clmulepi64_si128(x[k], four, 0x11));
        }
    for (sum = x[0], k = 1; k < 4; k++)
        sum = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(sum, one, 0x00), x[k]),
                            _mm_clmulepi64_si128(sum, one, 0x11));
    _mm_storeu_si128((__m128i *)(void *)left, sum);
    return at;
}
#endif

/* The CRC of n more bytes; c: the CRC so far, inverted. */
TRF__FN uint32_t trf__crc_bytes(const trf__crc *crc, const unsigned char *p, size_t n, uint32_t c)
{
    uint32_t next;
    int k;
    /* the 32 bits so far act on the first four of sixteen bytes */
    for (; n >= 16; n -= 16, p += 16, c = next) {
        TRF__UNROLL for (next = 0, k = 0; k < 16; k++)
            next ^= crc->table[15 - k][k < 4 ? (p[k] ^ c >> 8 * k) & 255 : p[k]];
    }
    for (; n > 0; n--, p++) c = c >> 8 ^ crc->table[0][(c ^ *p) & 255];
    return c;
}

/* The CRC of some bytes, whose CRC is `value`, and of n more. */
TRF__FN uint32_t trf__crc_go_on(const trf__crc *crc, uint32_t value, const void *data, size_t n)
{
    const unsigned char *p = (const unsigned char *)data;
    uint32_t c = ~value;
#if TRF__X86
    if (n >= 256 && __builtin_cpu_supports("pclmul")) {
        unsigned char left[16];
        size_t folded = trf__crc_fold(left, p, n, c);
        c = trf__crc_bytes(crc, left, 16, 0);
        p += folded;
        n -= folded;
    }
#endif
    return ~trf__crc_bytes(crc, p, n, c);
}

TRF__FN void trf__crc_add(trf__crc *crc, const void *data, size_t n)
{
    crc->value = trf__crc_go_on(crc, crc->value, data, n);
}

/* a b modulo the CRC's polynomial. Bit 31 is x^0, as in the CRC. */
TRF__FN uint32_t trf__crc_times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a; a <<= 1) {
        if (a & 0x80000000u) product ^= b;
        b = b >> 1 ^ (b & 1 ? 0xEDB88320u : 0);
    }
    return product;
}

/* x^(8 n). If some bytes have the CRC a and the next n have the CRC b, all have a x^(8 n) + b. So
   parts can be summed apart. */
TRF__FN uint32_t trf__crc_power(uint64_t n)
{
    uint32_t power = 0x80000000u, x = 0x00800000u;
    for (; n; n >>= 1, x = trf__crc_times(x, x)) if (n & 1) power = trf__crc_times(x, power);
    return power;
}

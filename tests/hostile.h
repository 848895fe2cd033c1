/* Hostile and corner-case safetensors files, each with the verdict it must get.
   hostile_all calls `visit` once per case. The ids are those of the checklist of what must be
   refused: H.. are hostile or odd, V.. are valid. Needs transformer.h's statuses; plain C, no other
   files. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct hostile_case {
    const char *id;
    trf_status open;            /* of the container */
    const char *tensor;         /* a tensor to read as weights, when open is TRF_OK; or NULL */
    trf_status read;            /* what that gives */
    const char *says;           /* a word that must stand in the message, or NULL */
    const unsigned char *bytes;
    size_t n;
    uint64_t sparse;            /* zeros that follow the bytes */
} hostile_case;

typedef void (*hostile_visit)(void *user, const hostile_case *one);

typedef struct hostile_maker {
    hostile_visit visit;
    void *user;
    unsigned char *bytes;       /* the file so far */
    size_t n, capacity;
} hostile_maker;

static void hostile_add(hostile_maker *m, const void *from, size_t n)
{
    if (m->n + n > m->capacity) {
        m->capacity = (m->n + n) * 2;
        m->bytes = (unsigned char *)realloc(m->bytes, m->capacity);
        if (!m->bytes) abort();
    }
    if (n) memcpy(m->bytes + m->n, from, n);
    m->n += n;
}
static void hostile_text(hostile_maker *m, const char *text) { hostile_add(m, text, strlen(text)); }
static void hostile_repeat(hostile_maker *m, const char *text, int times)
{
    while (times-- > 0) hostile_text(m, text);
}
static void hostile_zeros(hostile_maker *m, size_t n)
{
    static const char zero = 0;
    while (n-- > 0) hostile_add(m, &zero, 1);
}

/* The eight bytes in front stay free until hostile_length. */
static void hostile_begin(hostile_maker *m) { m->n = 0; hostile_zeros(m, 8); }
static void hostile_length(hostile_maker *m, uint64_t n)
{
    int i;
    for (i = 0; i < 8; i++) m->bytes[i] = (unsigned char)(n >> 8 * i & 255);
}

/* {"dtype":"F32","shape":[2,2],"data_offsets":[0,16]} */
static void hostile_tensor(hostile_maker *m, const char *dtype, const char *shape,
                           const char *offsets, const char *extra)
{
    hostile_text(m, "{\"dtype\":\""); hostile_text(m, dtype);
    hostile_text(m, "\",\"shape\":"); hostile_text(m, shape);
    hostile_text(m, ",\"data_offsets\":"); hostile_text(m, offsets);
    hostile_text(m, extra); hostile_text(m, "}");
}

static void hostile_deliver(hostile_maker *m, const char *id, trf_status open, const char *tensor,
                            trf_status read, const char *says, uint64_t sparse)
{
    hostile_case one;
    one.id = id; one.open = open; one.tensor = tensor; one.read = read; one.says = says;
    one.bytes = m->bytes; one.n = m->n; one.sparse = sparse;
    m->visit(m->user, &one);
}

/* A case made of a header and so many zero bytes of data. */
static void hostile_put(hostile_maker *m, const char *id, trf_status open, const char *says,
                        const char *header, size_t data)
{
    hostile_begin(m);
    hostile_text(m, header);
    hostile_length(m, m->n - 8);
    hostile_zeros(m, data);
    hostile_deliver(m, id, open, NULL, TRF_OK, says, 0);
}

/* The same, with a length of its own. */
static void hostile_put_length(hostile_maker *m, const char *id, trf_status open, const char *says,
                               const char *header, size_t data, uint64_t length)
{
    hostile_begin(m);
    hostile_text(m, header);
    hostile_zeros(m, data);
    hostile_length(m, length);
    hostile_deliver(m, id, open, NULL, TRF_OK, says, 0);
}

static void hostile_raw(hostile_maker *m, const char *id, trf_status open, const char *says,
                        const char *bytes, size_t n, size_t zeros)
{
    m->n = 0;
    hostile_add(m, bytes, n);
    hostile_zeros(m, zeros);
    hostile_deliver(m, id, open, NULL, TRF_OK, says, 0);
}

/* One tensor "a" described by the three texts. */
static void hostile_one(hostile_maker *m, const char *id, trf_status open, const char *says,
                        const char *dtype, const char *shape, const char *offsets,
                        const char *extra, size_t data)
{
    hostile_begin(m);
    hostile_text(m, "{\"a\":");
    hostile_tensor(m, dtype, shape, offsets, extra);
    hostile_text(m, "}");
    hostile_length(m, m->n - 8);
    hostile_zeros(m, data);
    hostile_deliver(m, id, open, NULL, TRF_OK, says, 0);
}

/* id with a letter behind it: H80a, H80b ... */
static const char *hostile_letter(char *to, const char *id, int i)
{
    size_t n = strlen(id);
    memcpy(to, id, n);
    to[n] = (char)('a' + i);
    to[n + 1] = 0;
    return to;
}

#define HOSTILE_T   "{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}"
#define HOSTILE_T2  "{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[16,32]}"
#define HOSTILE_OK  "{\"a\":" HOSTILE_T "}"

static void hostile_valid(hostile_maker *m)
{
    static const unsigned char odd[16] = {0, 0, 0xC0, 0x7F, 0, 0, 0x80, 0x7F,
                                          0, 0, 0x80, 0xFF, 0, 0, 0,    0};
    hostile_begin(m);
    hostile_text(m, HOSTILE_OK);
    while (m->n % 8) hostile_text(m, " ");
    hostile_length(m, m->n - 8);
    hostile_zeros(m, 16);
    hostile_deliver(m, "V01", TRF_OK, "a", TRF_OK, NULL, 0);
    hostile_one(m, "V02", TRF_OK, NULL, "F32", "[]", "[0,4]", "", 4);
    hostile_one(m, "V03", TRF_OK, NULL, "F32", "[2,0]", "[0,0]", "", 0);
    hostile_put(m, "V04", TRF_OK, NULL, "{}", 0);
    hostile_put(m, "V05", TRF_OK, NULL, "{\"b\":" HOSTILE_T2 ",\"a\":" HOSTILE_T "}", 32);
    hostile_put(m, "V06", TRF_OK, NULL, HOSTILE_OK "   ", 16);
    hostile_put(m, "V07", TRF_OK, NULL, "{\"__metadata__\":{\"k\":\"v\"},\"a\":" HOSTILE_T "}", 16);
    hostile_begin(m);
    hostile_text(m, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[1,17]}}");
    hostile_length(m, m->n - 8);
    hostile_zeros(m, 17);
    hostile_deliver(m, "V08", TRF_OK, "b", TRF_OK, NULL, 0);
    hostile_put(m, "V09", TRF_OK, NULL, HOSTILE_OK, 16);
    hostile_begin(m);
    hostile_text(m, HOSTILE_OK);
    hostile_length(m, m->n - 8);
    hostile_add(m, odd, sizeof odd);
    hostile_deliver(m, "V10", TRF_OK, "a", TRF_E_NONFINITE, "\"a\"", 0);
    hostile_put(m, "V11", TRF_OK, NULL, "{\"\xC3\xA9\xE4\xB8\xAD\":" HOSTILE_T "}", 16);
    hostile_put(m, "V12", TRF_OK, NULL, "{\"\\u0061b\":" HOSTILE_T "}", 16);
    hostile_put(m, "V13", TRF_OK, NULL, "{\"\\ud83d\\ude00\":" HOSTILE_T "}", 16);
    hostile_put(m, "V14", TRF_OK, NULL,
                "{\"a\":{\"data_offsets\":[0,16],\"shape\":[2,2],\"dtype\":\"F32\"}}", 16);
}

static void hostile_framing(hostile_maker *m)
{
    static const char big_endian[] = "\0\0\0\0\0\0\0";
    size_t n = strlen(HOSTILE_OK);
    hostile_raw(m, "H01", TRF_E_FORMAT, "truncated", "", 0, 0);
    hostile_raw(m, "H02", TRF_E_FORMAT, "truncated", "\2\0\0\0\0\0\0", 7, 0);
    hostile_raw(m, "H03", TRF_E_FORMAT, "length", "", 0, 8);
    hostile_put_length(m, "H04", TRF_E_FORMAT, "truncated", HOSTILE_OK, 16, 1000);
    hostile_put_length(m, "H05", TRF_E_LIMIT, "limit", HOSTILE_OK, 16, UINT64_MAX);
    hostile_put_length(m, "H06", TRF_E_LIMIT, "limit", HOSTILE_OK, 16, UINT64_MAX - 7);
    hostile_put_length(m, "H07", TRF_E_LIMIT, "limit", HOSTILE_OK, 16, (uint64_t)1 << 63);
    hostile_put_length(m, "H08", TRF_E_LIMIT, "limit", HOSTILE_OK, 16, 100000001);
    hostile_put_length(m, "H09", TRF_E_FORMAT, "byte", HOSTILE_OK, 16, n - 1);
    hostile_put_length(m, "H10", TRF_E_FORMAT, "byte", HOSTILE_OK, 16, n + 4);
    hostile_begin(m);
    m->n = 0;
    hostile_add(m, big_endian, 7);
    m->bytes[m->n++] = (unsigned char)n;
    hostile_text(m, HOSTILE_OK);
    hostile_zeros(m, 16);
    hostile_deliver(m, "H11", TRF_E_LIMIT, NULL, TRF_OK, "limit", 0);
    hostile_put(m, "H12", TRF_E_FORMAT, "truncated", HOSTILE_OK, 15);
    hostile_begin(m);
    hostile_text(m, HOSTILE_OK);
    hostile_length(m, n);
    hostile_zeros(m, 16);
    hostile_add(m, "PK\5\6", 4);
    hostile_deliver(m, "H13", TRF_E_FORMAT, NULL, TRF_OK, "appended", 0);
    hostile_raw(m, "H14", TRF_E_FORMAT, "zip", "PK\3\4", 4, 60);
    hostile_raw(m, "H15", TRF_E_FORMAT, "GGUF", "GGUF", 4, 60);
    hostile_raw(m, "H16", TRF_E_FORMAT, "web page", "<!DOCTYPE html><html>404</html>", 31, 0);
    m->n = 0;
    hostile_text(m, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
    hostile_deliver(m, "H17", TRF_E_FORMAT, NULL, TRF_OK, "git-lfs", 0);
}

static void hostile_json(hostile_maker *m)
{
    static const char *const tops[5] = { "[]", "null", "1", "\"x\"", "true" };
    char id[16];
    int i;
    hostile_put(m, "H20", TRF_E_FORMAT, "UTF-8", "{\"\xFF\":" HOSTILE_T "}", 16);
    hostile_put(m, "H21", TRF_E_FORMAT, "UTF-8", "{\"\xC0\x80\":" HOSTILE_T "}", 16);
    hostile_put(m, "H22", TRF_E_FORMAT, "UTF-8", "{\"\xED\xA0\x80\":" HOSTILE_T "}", 16);
    hostile_put(m, "H23", TRF_E_FORMAT, "byte order mark", "\xEF\xBB\xBF" HOSTILE_OK, 16);
    hostile_put(m, "H24", TRF_OK, NULL, " \n" HOSTILE_OK, 16);
    hostile_begin(m);
    hostile_text(m, HOSTILE_OK);
    hostile_zeros(m, 3);
    hostile_length(m, m->n - 8);
    hostile_zeros(m, 16);
    hostile_deliver(m, "H25", TRF_E_FORMAT, NULL, TRF_OK, "0x00", 0);
    hostile_put(m, "H26", TRF_OK, NULL, HOSTILE_OK "\t\r\n", 16);
    hostile_put(m, "H27", TRF_E_FORMAT, "'x'", HOSTILE_OK "x", 16);
    hostile_put(m, "H28", TRF_E_FORMAT, "'{'", HOSTILE_OK "{}", 16);
    for (i = 0; i < 5; i++)
        hostile_put(m, hostile_letter(id, "H29", i), TRF_E_FORMAT, "object", tops[i], 0);
    hostile_put(m, "H30", TRF_E_FORMAT, "end", "{\"a\":" HOSTILE_T, 16);
    hostile_put(m, "H31", TRF_E_FORMAT, "'}'", "{\"a\":" HOSTILE_T ",}", 16);
    hostile_put(m, "H32", TRF_E_FORMAT, "'/'", "{/*x*/\"a\":" HOSTILE_T "}", 16);
    hostile_put(m, "H33", TRF_E_FORMAT, "quotes",
                "{'a':{'dtype':'F32','shape':[2,2],'data_offsets':[0,16]}}", 16);
    hostile_put(m, "H34", TRF_E_FORMAT, "control", "{\"a\1\":" HOSTILE_T "}", 16);
    hostile_put(m, "H35", TRF_E_FORMAT, "surrogate", "{\"\\ud800\":" HOSTILE_T "}", 16);
    hostile_put(m, "H36", TRF_E_FORMAT, "escape", "{\"\\x41\":" HOSTILE_T "}", 16);
    hostile_put(m, "H37", TRF_E_FORMAT, "hexadecimal", "{\"\\u12\":" HOSTILE_T "}", 16);
    hostile_put(m, "H38", TRF_E_FORMAT, "NUL", "{\"a\\u0000b\":" HOSTILE_T "}", 16);
    hostile_put(m, "H39", TRF_E_FORMAT, "name", "{\"\":" HOSTILE_T "}", 16);
    hostile_begin(m);
    hostile_text(m, "{\"");
    hostile_repeat(m, "n", 1000000);
    hostile_text(m, "\":" HOSTILE_T "}");
    hostile_length(m, m->n - 8);
    hostile_zeros(m, 16);
    hostile_deliver(m, "H40", TRF_E_LIMIT, NULL, TRF_OK, "name", 0);
    hostile_put(m, "H41", TRF_OK, NULL, "{\"../../etc/passwd\":" HOSTILE_T "}", 16);
    hostile_put(m, "H42", TRF_OK, NULL, "{\"%n%s%n\":" HOSTILE_T "}", 16);
    hostile_put(m, "H43", TRF_E_FORMAT, "control", "{\"\\u001b[2J\":" HOSTILE_T "}", 16);
    hostile_begin(m);
    hostile_text(m, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16],\"x\":");
    hostile_repeat(m, "[", 100000);
    hostile_repeat(m, "]", 100000);
    hostile_text(m, "}}");
    hostile_length(m, m->n - 8);
    hostile_zeros(m, 16);
    hostile_deliver(m, "H44", TRF_E_LIMIT, NULL, TRF_OK, "nested", 0);
    hostile_begin(m);
    hostile_repeat(m, "{\"a\":", 50000);
    hostile_text(m, "1");
    hostile_repeat(m, "}", 50000);
    hostile_length(m, m->n - 8);
    hostile_deliver(m, "H45", TRF_E_LIMIT, NULL, TRF_OK, "nested", 0);
}

static void hostile_fields(hostile_maker *m)
{
    hostile_put(m, "H50", TRF_E_FORMAT, "duplicate", "{\"a\":" HOSTILE_T ",\"a\":" HOSTILE_T "}",
                16);
    hostile_put(m, "H51", TRF_E_FORMAT, "duplicate", "{\"a\":" HOSTILE_T ",\"a\":" HOSTILE_T2 "}",
                32);
    hostile_put(m, "H52", TRF_E_FORMAT, "duplicate",
                "{\"a\":" HOSTILE_T ",\"\\u0061\":" HOSTILE_T "}", 16);
    hostile_put(m, "H53", TRF_E_FORMAT, "two",
                "{\"__metadata__\":{\"k\":\"1\"},\"__metadata__\":{\"k\":\"2\"},\"a\":" HOSTILE_T
                "}",
                16);
    hostile_put(m, "H54", TRF_E_FORMAT, "duplicate",
                "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"},\"a\":" HOSTILE_T "}", 16);
    hostile_one(m, "H55", TRF_E_FORMAT, "twice", "F32", "[2,2]", "[0,16]", ",\"dtype\":\"F16\"",
                16);
    hostile_one(m, "H56", TRF_E_FORMAT, "twice", "F32", "[2,2]", "[0,16]",
                ",\"data_offsets\":[0,8]", 16);
    hostile_one(m, "H57", TRF_E_FORMAT, "no field but", "F32", "[2,2]", "[0,16]", ",\"x\":1", 16);
    hostile_put(m, "H58", TRF_E_FORMAT, "no \"dtype\"",
                "{\"a\":{\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16);
    hostile_put(m, "H59", TRF_E_FORMAT, "no \"shape\"",
                "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}", 16);
    hostile_put(m, "H60", TRF_E_FORMAT, "no \"data_offsets\"",
                "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2]}}", 16);
    hostile_put(m, "H61", TRF_E_FORMAT, "object", "{\"a\":[\"F32\",[2,2],[0,16]]}", 16);
    hostile_put(m, "H62", TRF_E_FORMAT, "string",
                "{\"__metadata__\":{\"k\":1},\"a\":" HOSTILE_T "}", 16);
    hostile_put(m, "H63", TRF_E_FORMAT, "strings", "{\"__metadata__\":null,\"a\":" HOSTILE_T "}",
                16);
    hostile_put(m, "H64", TRF_E_FORMAT, "string", "{\"__metadata__\":" HOSTILE_T "}", 16);
    hostile_put(m, "H65", TRF_E_FORMAT, "strings", "{\"__metadata__\":[],\"a\":" HOSTILE_T "}", 16);
}

static void hostile_types(hostile_maker *m)
{
    static const char *const dtypes[6] = { "F99", "f32", "FLOAT32", "", "F32 ", "F32\\u0000" };
    static const char *const shapes[17] = {"[-1,4]",
                                           "[2.0,2]",
                                           "[2.5,2]",
                                           "[\"2\",2]",
                                           "[2,[2]]",
                                           "4",
                                           "null",
                                           "[2,2",
                                           "[02,2]",
                                           "[+2,2]",
                                           "[2e0,2]",
                                           "[0x2,2]",
                                           "[-0,2]",
                                           "[NaN,2]",
                                           "[true,2]",
                                           "[18446744073709551616]",
                                           "[99999999999999999999999]"};
    char id[16];
    int i;
    for (i = 0; i < 6; i++)
        hostile_one(m, hostile_letter(id, "H70", i), TRF_E_FORMAT, i < 5 ? "dtype" : "NUL",
                    dtypes[i], "[2,2]", "[0,16]", "", 16);
    hostile_put(m, "H71", TRF_E_FORMAT, "dtype",
                "{\"a\":{\"dtype\":32,\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16);
    hostile_one(m, "H72", TRF_E_UNSUPPORTED, "F4", "F4", "[3]", "[0,2]", "", 2);
    hostile_one(m, "H73", TRF_E_UNSUPPORTED, "C64", "C64", "[2]", "[0,16]", "", 16);
    for (i = 0; i < 17; i++)
        hostile_one(m, hostile_letter(id, "H80", i), TRF_E_FORMAT, "byte", "F32", shapes[i],
                    "[0,16]", "", 16);
    hostile_one(m, "H81", TRF_E_LIMIT, "limit", "F32", "[2,18446744073709551614]", "[0,16]", "",
                16);
    hostile_one(m, "H82", TRF_E_LIMIT, "limit", "F32", "[4611686018427387908]", "[0,16]", "", 16);
    hostile_one(m, "H83", TRF_E_LIMIT, "more than", "F32", "[4294967296,4294967296,4]", "[0,16]",
                "", 16);
    hostile_one(m, "H84", TRF_E_LIMIT, "limit", "F32",
                "[0,18446744073709551615,18446744073709551615]", "[0,0]", "", 0);
    hostile_one(m, "H85", TRF_E_LIMIT, "limit", "F32",
                "[18446744073709551615,18446744073709551615,0]", "[0,0]", "", 0);
    hostile_begin(m);
    hostile_text(m, "{\"a\":{\"dtype\":\"F32\",\"shape\":[");
    hostile_repeat(m, "1,", 99999);
    hostile_text(m, "1],\"data_offsets\":[0,4]}}");
    hostile_length(m, m->n - 8);
    hostile_zeros(m, 4);
    hostile_deliver(m, "H86", TRF_E_LIMIT, NULL, TRF_OK, "dimensions", 0);
    hostile_begin(m);
    hostile_text(m, "{\"a\":{\"dtype\":\"U8\",\"shape\":[2147483648,0],\"data_offsets\":[0,0]}}");
    hostile_length(m, m->n - 8);
    hostile_deliver(m, "H87", TRF_OK, "a", TRF_E_UNSUPPORTED, "U8", 0);
}

static void hostile_offsets(hostile_maker *m)
{
    static const char *const offsets[10] = {"[16,0]",
                                            "[-16,0]",
                                            "[0,16,32]",
                                            "[0]",
                                            "[]",
                                            "[0.0,16]",
                                            "[\"0\",\"16\"]",
                                            "[0,18446744073709551616]",
                                            "{\"0\":0,\"1\":16}",
                                            "null"};
    static const uint64_t part = 2305843009213693951u;
    char id[16], text[160];
    int i;
    for (i = 0; i < 10; i++)
        hostile_one(m, hostile_letter(id, "H90", i), TRF_E_FORMAT, NULL, "F32", "[2,2]", offsets[i],
                    "", 16);
    hostile_one(m, "H91", TRF_E_SHAPE,
                "expected 16 bytes for its shape and F32, got offsets for 12", "F32", "[2,2]",
                "[0,12]", "", 12);
    hostile_one(m, "H92", TRF_E_SHAPE,
                "expected 16 bytes for its shape and F32, got offsets for 20", "F32", "[2,2]",
                "[0,20]", "", 20);
    hostile_one(m, "H93", TRF_E_FORMAT, "truncated", "F32", "[8,2]", "[0,64]", "", 16);
    hostile_one(m, "H94", TRF_E_FORMAT, "hole", "F32", "[2,2]", "[4,20]", "", 20);
    hostile_put(m, "H95", TRF_E_FORMAT, "hole",
                "{\"a\":" HOSTILE_T
                ",\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[20,36]}}",
                36);
    hostile_put(m, "H96", TRF_E_FORMAT, "overlap", "{\"a\":" HOSTILE_T ",\"b\":" HOSTILE_T "}", 16);
    hostile_put(m, "H97", TRF_E_FORMAT, "overlap",
                "{\"a\":" HOSTILE_T
                ",\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]}}",
                24);
    hostile_one(m, "H98", TRF_E_LIMIT, "limit", "U8", "[1]",
                "[18446744073709551614,18446744073709551615]", "", 1);
    hostile_put(m, "H99", TRF_E_FORMAT, "hole",
                "{\"a\":" HOSTILE_T
                ",\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[999,999]}}",
                16);
    hostile_begin(m);
    hostile_text(m, "{");
    for (i = 0; i < 100000; i++) {
        snprintf(text, sizeof text, "%s\"t%d\":" HOSTILE_T, i ? "," : "", i);
        hostile_text(m, text);
    }
    hostile_text(m, "}");
    hostile_length(m, m->n - 8);
    hostile_zeros(m, 16);
    hostile_deliver(m, "H100", TRF_E_LIMIT, NULL, TRF_OK, "tensors", 0);
    hostile_begin(m);
    hostile_text(m, "{");
    for (i = 0; i < 100000; i++) {
        snprintf(text, sizeof text,
                 "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "",
                 i);
        hostile_text(m, text);
    }
    hostile_text(m, "}");
    hostile_length(m, m->n - 8);
    hostile_deliver(m, "H101", TRF_E_LIMIT, NULL, TRF_OK, "tensors", 0);
    hostile_begin(m);
    hostile_text(m, "{");
    for (i = 0; i < 8; i++) {
        snprintf(text, sizeof text,
                 "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}",
                 i ? "," : "", i, (unsigned long long)part,
                 (unsigned long long)(part * (uint64_t)i),
                 (unsigned long long)(part * (uint64_t)(i + 1)));
        hostile_text(m, text);
    }
    hostile_text(m, "}");
    hostile_length(m, m->n - 8);
    hostile_deliver(m, "H102", TRF_E_LIMIT, NULL, TRF_OK, "limit", 0);
    hostile_begin(m);
    hostile_text(
        m, "{\"a\":{\"dtype\":\"U8\",\"shape\":[68719476736],\"data_offsets\":[0,68719476736]}}");
    hostile_length(m, m->n - 8);
    hostile_deliver(m, "H103", TRF_E_LIMIT, NULL, TRF_OK, "max_bytes", (uint64_t)64 << 30);
}

static void hostile_all(hostile_visit visit, void *user)
{
    hostile_maker m;
    memset(&m, 0, sizeof m);
    m.visit = visit;
    m.user = user;
    hostile_valid(&m);
    hostile_framing(&m);
    hostile_json(&m);
    hostile_fields(&m);
    hostile_types(&m);
    hostile_offsets(&m);
    free(m.bytes);
}

#endif

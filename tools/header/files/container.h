#pragma once
#include "api/basics.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "system/json.h"
#include "model/model.h"

// -----------------------------------------------------------------------------------------------
// >>files          the safetensors container
//
//     bytes 0..7      N, the length of the header, little-endian
//     bytes 8..7+N    the header: one JSON object, UTF-8, blanks after it:
//                     {"__metadata__": {"key": "text", ...},
//                      "name": {"dtype": "F32", "shape": [4, 2],
//                               "data_offsets": [begin, end]}, ...}
//     the rest        the data, little-endian; offsets count from 8+N and cover all of it exactly
//                     once
//
// Nothing in a file is trusted. The order of checks is: regular file, its size, N, the limits, one
// allocation, UTF-8, one pass over the JSON without recursion into tables of fixed size, unique
// names, data covered. Strings are unescaped in place, so names and metadata are pointers into the
// header. Only after all of this may a caller allocate memory for tensors. The container does not
// know what tensors mean. It uses two keys of the metadata, each with eight lower-case hexadecimal
// digits: "trf.crc32", the CRC-32 of all data, and "trf.header_crc32", a sum modulo 2^32. Its terms
// are the CRC-32 of the bytes KEY 0 VALUE 0 for every other text whose key begins with "trf.", and
// of NAME 0 TYPE N1 N2 ... 0 for every tensor, N1 x N2 ... being its shape. So a program may write
// the same header in another order or form, and add texts. To change a text by hand, remove
// "trf.header_crc32".
// -----------------------------------------------------------------------------------------------

enum {
    TRF__FILE_HEADER = 16 << 20,        /* limits of a header: its bytes, and the numbers below */
    TRF__FILE_TENSORS = 65536,
    TRF__FILE_TEXTS = 131072,           /* 120,000 of the program and ours, one for each frozen
                                           parameter among them */
    TRF__FILE_RANK = 8,
    TRF__FILE_NAME = 255,               /* bytes */
    TRF__CHUNK = 16384                  /* bytes read, converted or written at a time; this much
                                           is on the stack */
};

/* The dtypes of safetensors. 0 bytes: known, but not read here (complex numbers, parts of bytes).
   code: set for dtypes that can be weights. */
typedef struct trf__dtype { char name[12], code; int32_t bytes; } trf__dtype;
TRF__FN const trf__dtype *trf__dtype_of(const char *name)
{
    static const trf__dtype known[] = {
        {"F32", 'F', 4}, {"F64", 'D', 8}, {"F16", 'H', 2}, {"BF16", 'B', 2},
        {"I64", 0, 8}, {"I32", 0, 4}, {"I16", 0, 2}, {"I8", 0, 1},
        {"U64", 0, 8}, {"U32", 0, 4}, {"U16", 0, 2}, {"U8", 0, 1}, {"BOOL", 0, 1},
        {"F8_E4M3", 0, 1}, {"F8_E5M2", 0, 1}, {"F8_E8M0", 0, 1},
        {"C64", 0, 0}, {"F4", 0, 0}, {"F6_E2M3", 0, 0}, {"F6_E3M2", 0, 0}
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(name, known[i].name)) return &known[i];
    return NULL;
}

/* The source of a file's bytes: the caller's memory, or an open file if memory is NULL. */
typedef struct trf__origin {
    const unsigned char *memory;
    int fd;
    const char *path;
    uint64_t size;
} trf__origin;

/* The CRC-32 of a tensor's data, if somebody has read all of them. */
typedef struct trf__data_sum { uint32_t value; int known; } trf__data_sum;

struct trf_file {
    trf_hooks hooks;
    size_t allocated;           /* bytes of this block: struct, tables, header */
    trf__origin from;
    int allow_nonfinite;
    char path[104];             /* the end of the path, for messages */
    char wrapper[40];           /* the common prefix of all names (>>store-match) */
    uint64_t data_begin;
    trf__crc crc;
    int32_t count, capacity;
    int32_t n_meta, meta_capacity;
    trf_file_entry *entries;    /* in the header's order */
    trf__data_sum *sums;        /* of each entry */
    trf__meta *meta;
    const void **by_name, **by_begin, **by_key;     /* the same, sorted */
    char *header;
    int64_t header_bytes;
};

// >>file-header    names, shapes, extents and texts
//
// trf__file_parse reads the whole header into the tables of trf__file_alloc. Messages give the
// position in the file, hence 8 + position in the header.

/* Reads a shape such as "[4, 2]". */
TRF__FN trf_status trf__file_shape(trf__json *s, trf_file_entry *entry)
{
    trf_error *err = s->err;
    int more;
    uint64_t n = 0;
    TRF__TRY(trf__json_open(s, '[', "the shape, an array"));
    for (entry->rank = 0; ; entry->rank++) {
        TRF__TRY(trf__json_next(s, entry->rank == 0, ']', &more));
        if (!more) return TRF_OK;
        TRF__FAIL_IF(entry->rank == TRF__FILE_RANK, TRF_E_LIMIT, 8 + s->at, s->name,
                     "tensor \"%.100s\": more than %d dimensions", s->name, (int)TRF__FILE_RANK);
        TRF__TRY(trf__json_integer(s, &n));
        entry->shape[entry->rank] = (int64_t)n;
    }
}

/* Reads "[begin, end]" with begin <= end. Both count from the start of the data. */
TRF__FN trf_status trf__file_offsets(trf__json *s, trf_file_entry *entry)
{
    trf_error *err = s->err;
    uint64_t offset[2];
    int i, more;
    TRF__TRY(trf__json_open(s, '[', "data_offsets, an array"));
    for (i = 0; i < 2; i++) {
        TRF__TRY(trf__json_next(s, i == 0, ']', &more));
        if (!more) break;
        TRF__TRY(trf__json_integer(s, &offset[i]));
    }
    if (i == 2) TRF__TRY(trf__json_open(s, ']', "two offsets and ']'"));
    TRF__FAIL_IF(i < 2 || offset[0] > offset[1], TRF_E_FORMAT, 8 + s->at, s->name,
                 "tensor \"%.100s\": expected data_offsets [begin, end], got %s", s->name,
                 i < 2 ? "fewer than two numbers" : "an end before the beginning");
    entry->begin = offset[0];
    entry->bytes = offset[1] - offset[0];
    return TRF_OK;
}

/* Reads a dtype. One that safetensors defines and this library does not is TRF_E_UNSUPPORTED. */
TRF__FN trf_status trf__file_type(trf__json *s, trf_file_entry *entry)
{
    int64_t begin = s->at;
    const char *text = NULL;
    TRF__TRY(trf__json_string(s, &text, "the dtype, a string"));
    const trf__dtype *dtype = trf__dtype_of(text);
    if (dtype && dtype->bytes) { entry->dtype = dtype->name; return TRF_OK; }
    return trf__fail(s->err, dtype ? TRF_E_UNSUPPORTED : TRF_E_FORMAT, 8 + begin, s->name,
                     "tensor \"%.100s\": %s dtype \"%.20s\"",
                     s->name, dtype ? "this version does not read" : "unknown", text);
}

/* Checks that the offsets match shape and dtype. Each dimension counts as at least 1 for the limit,
   so that a zero cannot hide numbers that would overflow elsewhere. */
TRF__FN trf_status trf__file_extent(const trf_file_entry *entry, int64_t where, trf_error *err)
{
    uint64_t most = (uint64_t)trf__dtype_of(entry->dtype)->bytes, wanted = most;
    for (int32_t i = 0; i < entry->rank; i++) {
        uint64_t n = (uint64_t)entry->shape[i];
        TRF__FAIL_IF(n > 1 && most > TRF__FILE_INTEGER / n, TRF_E_LIMIT, where, entry->name,
                     "tensor \"%.100s\": its shape asks for more than %llu bytes", entry->name,
                     (unsigned long long)TRF__FILE_INTEGER);
        if (n > 1) most *= n;
        wanted = n ? wanted * n : 0;
    }
    return TRF__OK_IF(wanted == entry->bytes, TRF_E_SHAPE, where, entry->name,
                      "tensor \"%.100s\": expected %llu bytes for its shape and %s, got offsets "
                      "for %llu", entry->name, (unsigned long long)wanted, entry->dtype,
                      (unsigned long long)entry->bytes);
}

/* Position in the file of a string in the header. */
TRF__FN int64_t trf__file_where(const trf_file *file, const char *text)
{
    return 8 + (int64_t)(text - file->header);
}

/* Checks the name of a tensor. Messages name its position: `place` is "byte" or "tensor". */
TRF__FN trf_status trf__file_name(const char *name, const char *place, int64_t where,
                                  trf_error *err)
{
    size_t length = strlen(name);
    TRF__FAIL_IF(length == 0, TRF_E_FORMAT, where, "header", "a tensor without a name at %s %lld",
                 place, (long long)where);
    TRF__FAIL_IF(length > TRF__FILE_NAME, TRF_E_LIMIT, where, name,
                 "a tensor's name of %llu bytes at %s %lld, the limit is %d",
                 (unsigned long long)length, place, (long long)where, (int)TRF__FILE_NAME);
    /* they could disturb a terminal */
    for (size_t i = 0; i < length; i++)
        TRF__FAIL_IF(trf__is_control(name + i), TRF_E_FORMAT, where, name,
                     "a control character in the name of a tensor at %s %lld", place,
                     (long long)where);
    return TRF_OK;
}

/* Reads {"dtype": ..., "shape": ..., "data_offsets": ...}: in any order, each field once. */
TRF__FN trf_status trf__file_tensor(trf__json *s, trf_file *file, const char *name)
{
    static const char fields[3][16] = { "dtype", "shape", "data_offsets" };
    trf_error *err = s->err;
    trf_file_entry *entry = file->entries + file->count;
    int seen = 0, first = 1, more, i;
    TRF__TRY(trf__file_name(name, "byte", trf__file_where(file, name), err));
    TRF__FAIL_IF(file->count == file->capacity, TRF_E_LIMIT, 8 + s->at, name,
                 "more than %d tensors", (int)file->capacity);
    entry->name = name;
    for (i = 0; i < TRF__FILE_RANK; i++) entry->shape[i] = 1;
    TRF__TRY(trf__json_open(s, '{', "an object that describes a tensor"));
    for (;; first = 0) {
        const char *field = NULL;
        TRF__TRY(trf__json_next(s, first, '}', &more));
        if (!more) break;
        TRF__TRY(trf__json_key(s, &field));
        for (i = 0; i < 3 && strcmp(field, fields[i]); i++) { }
        if (i == 3) {
            trf__json_blanks(s);
            return trf__json_refuse(s, "no field but dtype, shape and data_offsets");
        }
        TRF__FAIL_IF(seen & 1 << i, TRF_E_FORMAT, trf__file_where(file, field), name,
                     "tensor \"%.100s\" has \"%s\" twice", name, fields[i]);
        seen |= 1 << i;
        TRF__TRY(i == 0 ? trf__file_type(s, entry) : i == 1 ? trf__file_shape(s, entry)
                                                            : trf__file_offsets(s, entry));
    }
    for (i = 0; i < 3; i++)
        TRF__FAIL_IF(!(seen & 1 << i), TRF_E_FORMAT, 8 + s->at, name,
                     "tensor \"%.100s\" has no \"%s\"", name, fields[i]);
    /* last, because it needs all three fields, which may come in any order */
    TRF__TRY(trf__file_extent(entry, trf__file_where(file, name), err));
    file->count++;
    return TRF_OK;
}

/* Reads the metadata: texts by their keys. */
TRF__FN trf_status trf__file_texts(trf__json *s, trf_file *file)
{
    trf_error *err = s->err;
    int more, first = 1;
    TRF__TRY(trf__json_open(s, '{', "an object of strings"));
    for (;; first = 0) {
        trf__meta *pair = file->meta + file->n_meta;
        TRF__TRY(trf__json_next(s, first, '}', &more));
        if (!more) return TRF_OK;
        TRF__FAIL_IF(file->n_meta == file->meta_capacity, TRF_E_LIMIT, 8 + s->at, s->name,
                     "more than %d metadata entries", (int)file->meta_capacity);
        TRF__TRY(trf__json_key(s, &pair->key));
        TRF__TRY(trf__json_string(s, &pair->value, "a string in double quotes"));
        file->n_meta++;
    }
}

/* Reads the header. No other text may follow its object, only blanks. */
TRF__FN trf_status trf__file_parse(trf__json *s, trf_file *file)
{
    trf_error *err = s->err;
    int more, first = 1, texts = 0;
    int64_t bad = trf_find_invalid_utf8(s->text, (size_t)s->n);
    TRF__FAIL_IF(bad >= 0, TRF_E_FORMAT, 8 + bad, s->name, "header: not UTF-8 at byte %lld",
                 (long long)(8 + bad));
    TRF__FAIL_IF(s->n >= 3 && !memcmp(s->text, "\xEF\xBB\xBF", 3), TRF_E_FORMAT, 8, s->name,
                 "header: expected '{', got a byte order mark");
    TRF__TRY(trf__json_open(s, '{', "an object"));
    for (;; first = 0) {
        const char *name = NULL;
        s->name = "header";
        TRF__TRY(trf__json_next(s, first, '}', &more));
        if (!more) break;
        TRF__TRY(trf__json_key(s, &name));
        s->name = name;
        if (strcmp(name, "__metadata__")) { TRF__TRY(trf__file_tensor(s, file, name)); continue; }
        TRF__FAIL_IF(texts++, TRF_E_FORMAT, trf__file_where(file, name), name,
                     "header: two \"__metadata__\"");
        TRF__TRY(trf__file_texts(s, file));
    }
    trf__json_blanks(s);
    return s->at < s->n ? trf__json_refuse(s, "only blanks after the last '}'") : TRF_OK;
}

// >>file-extents   names that differ, data that cover the file
//
// Checks that need the whole header. They sort pointers, not the entries, whose order is the
// file's. Two tensors must not share bytes: a change of one would change the other.

/* Tensors and texts both begin with a pointer to their name, so one function sorts either. */
TRF__FN const char *trf__name_of(const void *item) { return *(const char *const *)item; }
TRF__FN int trf__by_name(const void *context, const void *a, const void *b)
{
    (void)context;
    return strcmp(trf__name_of(a), trf__name_of(b));
}
TRF__FN int trf__by_begin(const void *context, const void *a, const void *b)
{
    const trf_file_entry *x = (const trf_file_entry *)a, *y = (const trf_file_entry *)b;
    (void)context;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;     /* an empty tensor comes before one
                                                                  with the same begin */
}

/* A term of the header's checksum. */
TRF__FN uint32_t trf__item_sum(trf__crc *crc, const char *name, const char *value)
{
    crc->value = 0;
    trf__crc_add(crc, name, strlen(name) + 1);
    trf__crc_add(crc, value, strlen(value) + 1);
    return crc->value;
}

/* The term of a text; 0 if the checksum leaves it out. */
TRF__FN uint32_t trf__text_sum(trf__crc *crc, const char *key, const char *value)
{
    if (strncmp(key, "trf.", 4) || !strcmp(key, "trf.header_crc32")) return 0;
    return trf__item_sum(crc, key, value);
}

/* The term of a tensor. */
TRF__FN uint32_t trf__tensor_sum(trf__crc *crc, const char *name, const char *dtype, int32_t rank,
                                 const int64_t *shape)
{
    char text[16 + 24 * TRF__FILE_RANK];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", dtype);
    for (int32_t k = 0; k < rank; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %lld", (long long)shape[k]);
    return trf__item_sum(crc, name, text);
}

/* Finds a name in a sorted list; NULL if it is not there. */
TRF__FN const void *trf__find_name(const void *const *items, int32_t n, const char *name)
{
    int64_t low = 0;
    TRF__BISECT(low, n, strcmp(trf__name_of(items[middle]), name) < 0);
    return low < n && !strcmp(trf__name_of(items[low]), name) ? items[low] : NULL;
}

/* Lists n items of `bytes` bytes sorted by name, and fails if two names are equal. The position in
   the error is the second name's byte in the file, or, without a file, the item's index. */
TRF__FN trf_status trf__file_unique(const trf_file *file, const void **items, const void *array,
                                    int32_t n, size_t bytes, const char *what, trf_error *err)
{
    for (int32_t i = 0; i < n; i++) items[i] = (const char *)array + (size_t)i * bytes;
    trf__sort(items, (size_t)n, trf__by_name, NULL);
    for (int32_t i = 1; i < n; i++) {
        const char *name = trf__name_of(items[i]), *other = trf__name_of(items[i - 1]);
        const char *later = (const char *)(items[i] > items[i - 1] ? items[i] : items[i - 1]);
        int64_t where = file ? trf__file_where(file, other > name ? other : name)
                             : (int64_t)((size_t)(later - (const char *)array) / bytes);
        TRF__FAIL_IF(!strcmp(other, name), TRF_E_FORMAT, where, name, "duplicate %s \"%.100s\"",
                     what, name);
    }
    return TRF_OK;
}

/* Checks that tensors cover the data exactly once: no hole, no overlap, nothing after the last.
   After this, begins of entries count from the start of the file. */
TRF__FN trf_status trf__file_cover(trf_file *file, trf_error *err)
{
    uint64_t end = 0, data = file->from.size - file->data_begin;
    const char *last = "header";
    for (int32_t i = 0; i < file->count; i++) file->by_begin[i] = file->entries + i;
    trf__sort(file->by_begin, (size_t)file->count, trf__by_begin, NULL);
    for (int32_t i = 0; i < file->count; i++) {
        const trf_file_entry *entry = (const trf_file_entry *)file->by_begin[i];
        TRF__FAIL_IF(entry->begin != end, TRF_E_FORMAT, trf__file_where(file, entry->name),
                     entry->name,
                     "tensor \"%.100s\" begins at %llu, expected %llu, where \"%.40s\" ends: %s",
                     entry->name, (unsigned long long)entry->begin, (unsigned long long)end, last,
                     entry->begin < end ? "an overlap" : "a hole");
        end += entry->bytes;
        last = entry->name;
    }
    uint64_t needs = file->data_begin + end;
    TRF__FAIL_IF(end > data, TRF_E_FORMAT, (int64_t)file->from.size, last,
                 "file is %llu bytes, needs %llu: truncated?", (unsigned long long)file->from.size,
                 (unsigned long long)needs);
    TRF__FAIL_IF(end < data, TRF_E_FORMAT, (int64_t)needs, last,
                 "file is %llu bytes, its tensors end at %llu: something was appended?",
                 (unsigned long long)file->from.size, (unsigned long long)needs);
    for (int32_t i = 0; i < file->count; i++) file->entries[i].begin += file->data_begin;
    return TRF_OK;
}

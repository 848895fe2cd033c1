#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "cpu/int8.h"
#include "device/tensors.h"
#include "system/text.h"
#include "system/files.h"
#include "system/json.h"
#include "model/model.h"
#include "files/container.h"
#include "files/reading.h"

// >>file-write     a header, then the data
//
// Data are converted twice: once for the checksum, which the header contains, and once for the
// file. The second pass costs time and saves a copy of all tensors.

/* A tensor to be written. */
typedef struct trf__out {
    char name[TRF__FILE_NAME + 1];
    int32_t rank;
    int64_t shape[4];
    const char *dtype;          /* "F32", "F64", "BF16", "F16", "I8", "I32", "I64" or "U8" */
    uint64_t bytes;             /* in the file */
    const void *data;           /* numbers in the byte order of the machine: */
    const trf__run *device;     /* the data are on this device; NULL: in the host's memory */
    const trf_real *inverses;   /* of a matrix in 8 bits: what its rows are multiplied with; */
    int64_t columns;            /* and then: the length of a row */
} trf__out;

/* The destination of a file: a path, or memory if path is NULL. *bytes receives its size. */
typedef struct trf__destination {
    const char *path;
    void *memory;
    size_t size, *bytes;
} trf__destination;

#define TRF__DTYPE (sizeof(trf_real) == 8 ? "F64" : "F32")      /* dtype of trf_real */

/* Describes a tensor with the name prefix + name. */
TRF__FN trf__out trf__out_of(const char *prefix, const char *name, const char *dtype, int32_t rank,
                             const int64_t *shape, const void *data, const trf__run *device)
{
    TRF__ZEROED(trf__out, out);
    snprintf(out.name, sizeof out.name, "%s%s", prefix, name);
    out.rank = rank;
    out.dtype = dtype;
    out.bytes = (uint64_t)trf__dtype_of(dtype)->bytes;
    for (int32_t k = 0; k < rank; k++) out.bytes *= (uint64_t)(out.shape[k] = shape[k]);
    out.data = data;
    out.device = device;
    return out;
}

/* A function that writes notes with trf__add_metadata. It is called several times, and must write
   the same notes each time. */
typedef void (*trf__notes)(trf__text *text, const void *of);

/* Appends a pair of the metadata. The checksum comes first, so a comma precedes every other one. */
TRF__FN void trf__add_metadata(trf__text *text, const char *key, const char *value)
{
    if (text->crc) text->sum += trf__text_sum(text->crc, key, value);
    trf__put_text(text, ",");
    trf__put_string(text, key);
    trf__put_text(text, ":");
    trf__put_string(text, value);
}

/* Appends the header. Checksums have a fixed width: with 0 in their stead, the size is the same. */
TRF__FN void trf__put_header(trf__text *text, const trf__out *tensors, int32_t n, trf__notes notes,
                             const void *of, uint32_t crc)
{
    char sum[16];
    uint64_t at = 0;
    snprintf(sum, sizeof sum, "%08lx", (unsigned long)crc);
    trf__put_text(text, "{\"__metadata__\":{\"trf.crc32\":");
    trf__put_string(text, sum);
    if (text->crc) text->sum = trf__text_sum(text->crc, "trf.crc32", sum);
    if (notes) notes(text, of);
    for (int32_t i = 0; text->crc && i < n; i++)
        text->sum += trf__tensor_sum(text->crc, tensors[i].name, tensors[i].dtype, tensors[i].rank,
                                     tensors[i].shape);
    trf__putf(text, ",\"trf.header_crc32\":\"%08lx\"}", (unsigned long)text->sum);
    for (int32_t i = 0; i < n; i++) {
        trf__put_text(text, ",");
        trf__put_string(text, tensors[i].name);
        trf__putf(text, ":{\"dtype\":\"%s\",\"shape\":[", tensors[i].dtype);
        for (int32_t k = 0; k < tensors[i].rank; k++)
            trf__putf(text, k ? ",%lld" : "%lld", (long long)tensors[i].shape[k]);
        trf__putf(text, "],\"data_offsets\":[%llu,", (unsigned long long)at);
        trf__putf(text, "%llu]}", (unsigned long long)(at += tensors[i].bytes));
    }
    trf__put_text(text, "}");
    while (text->n % 64 != 56) trf__put_text(text, " ");    /* the data begin at a multiple of 64 */
}

/* The nearest number of 16 bits with `fraction` bits of fraction: 7 for BF16, 10 for F16. Ties go
   to the even number. A number that is too large becomes infinite: all bits of the exponent. */
TRF__FN uint32_t trf__bits_of_16(double x, int fraction)
{
    const int lowest = fraction == 7 ? -126 : -14;      /* exponent of the least normal number */
    const uint32_t infinite = (fraction == 7 ? 255u : 31u) << fraction;
    uint64_t bits;
    /* bits 0 to 51 of a double are its fraction; bit 52 is the hidden leading one */
    memcpy(&bits, &x, sizeof bits);
    uint32_t sign = (uint32_t)(bits >> 63) << 15;
    int exponent = (int)(bits >> 52 & 2047) - 1023;
    uint64_t whole = (bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1 << 52;
    if (exponent == 1024)
        return sign | infinite | (uint32_t)((bits & 0xFFFFFFFFFFFFFu ? 1u : 0u) << (fraction - 1));
    int shift = 52 - fraction + (exponent < lowest ? lowest - exponent : 0);
    if (shift > 53) return sign;                        /* less than half of the smallest; also 0 */
    uint64_t kept = whole >> shift, middle = (uint64_t)1 << (shift - 1);
    uint64_t rest = whole & (((uint64_t)1 << shift) - 1);
    /* a carry out of the fraction raises the exponent, as it should */
    kept += rest > middle || (rest == middle && (kept & 1));
    /* the leading one, which is kept too, is 1 in the exponent */
    if (exponent >= lowest) kept += (uint64_t)(exponent - lowest) << fraction;
    return sign | (kept > infinite ? infinite : (uint32_t)kept);
}

/* Writes n numbers in 16 bits each. `at` is the index of the first in its tensor, for messages. */
TRF__FN trf_status trf__chunk_of_16_bits(const trf__out *out, const void *numbers, size_t n,
                                         uint64_t at, unsigned char *chunk, trf_error *err)
{
    const trf_real *from = (const trf_real *)numbers;
    const int fraction = out->dtype[0] == 'B' ? 7 : 10;
    const uint32_t infinite = (fraction == 7 ? 255u : 31u) << fraction;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = trf__bits_of_16((double)from[i], fraction);
        TRF__FAIL_IF((bits & infinite) == infinite && trf__is_finite((double)from[i]),
                     TRF_E_NONFINITE, (int64_t)(at + i), out->name,
                     "tensor \"%.100s\": number %llu is %g, which %s cannot hold", out->name,
                     (unsigned long long)(at + i), (double)from[i], out->dtype);
        trf__to_little(chunk + 2 * i, bits, 2);
    }
    return TRF_OK;
}

/* Writes n numbers in 8 bits each, as trf__int8_pack rounds them. */
TRF__FN void trf__chunk_of_8_bits(const trf__out *out, const void *numbers, int64_t n, int64_t at,
                                  unsigned char *chunk)
{
    const trf_real *from = (const trf_real *)numbers;
    int64_t some;
    for (int64_t i = 0; i < n; i += some) {
        int8_t sixteen[TRF__WIDE] = {0};
        trf_real inverse = out->inverses[(at + i) / out->columns];
        some = trf__min64(trf__min64(TRF__WIDE, n - i), out->columns - (at + i) % out->columns);
        if (inverse != 0) trf__int8_round(sixteen, trf__load_n(from + i, some), inverse, 0);
        memcpy(chunk + i, sixteen, (size_t)some);
    }
}

/* Converts up to TRF__CHUNK bytes of a tensor to their form in the file. *bytes is their number. */
TRF__FN trf_status trf__out_chunk(const trf__out *out, uint64_t at, unsigned char *chunk,
                                  size_t *bytes, trf_error *err)
{
    trf_real reals[TRF__CHUNK / sizeof(trf_real)];
    const unsigned char *from = (const unsigned char *)reals;
    int width = trf__dtype_of(out->dtype)->bytes;
    /* bytes of a number in memory */
    size_t own = width == 2 || out->inverses ? sizeof(trf_real) : (size_t)width;
    uint64_t left = (out->bytes - at) / (uint64_t)width;
    size_t n = left < TRF__CHUNK / own ? (size_t)left : (size_t)(TRF__CHUNK / own);
    uint64_t begin = at / (uint64_t)width * own;
    if (!out->device) from = (const unsigned char *)out->data + begin;
    else {
        out->device->backend->download(out->device, reals, (const unsigned char *)out->data + begin,
                                     n * own);
        TRF__TRY(out->device->backend->sync(out->device, err));
    }
    *bytes = n * (size_t)width;
    if (width == 2) return trf__chunk_of_16_bits(out, from, n, at / 2, chunk, err);
    if (out->inverses) trf__chunk_of_8_bits(out, from, (int64_t)n, (int64_t)at, chunk);
    else for (size_t i = 0; i < *bytes; i += (size_t)width) {
        uint64_t bits = from[i];
        uint32_t narrow;
        if (width == 8) memcpy(&bits, from + i, 8);
        else if (width == 4) { memcpy(&narrow, from + i, 4); bits = narrow; }
        trf__to_little(chunk + i, bits, width);
    }
    return TRF_OK;
}

// >>file-save      tensors of any device into a file or into memory
//
// trf__file_write is the only writer: models, checkpoints, sessions and trf_file_save use it.

/* Where bytes go: into a checksum, into a file that is being saved, or into memory. */
typedef struct trf__sink {
    trf__crc *crc;
    const trf__saving *file;
    unsigned char *memory;
} trf__sink;

TRF__FN trf_status trf__out_put(trf__sink *to, const void *bytes, size_t n, trf_error *err)
{
    if (to->crc) trf__crc_add(to->crc, bytes, n);
    else if (to->file) {
        int error = trf__write_all(to->file->fd, bytes, n);
        if (error) return trf__fail_io(err, error, to->file->temporary, "write it");
    } else { memcpy(to->memory, bytes, n); to->memory += n; }
    return TRF_OK;
}

/* Puts the data of all tensors, in the order of the file. */
TRF__FN trf_status trf__out_data(trf__sink *to, const trf__out *tensors, int32_t n, trf_error *err)
{
    unsigned char chunk[TRF__CHUNK];
    size_t bytes;
    for (int32_t i = 0; i < n; i++)
        for (uint64_t at = 0; at < tensors[i].bytes; at += bytes) {
            TRF__TRY(trf__out_chunk(tensors + i, at, chunk, &bytes, err));
            TRF__TRY(trf__out_put(to, chunk, bytes, err));
        }
    return TRF_OK;
}

/* Their checksum. */
TRF__FN trf_status trf__out_crc(const trf__out *tensors, int32_t n, uint32_t *sum, trf_error *err)
{
    trf__crc crc;
    trf__sink to = { &crc, NULL, NULL };
    trf__crc_begin(&crc);
    TRF__TRY(trf__out_data(&to, tensors, n, err));
    *sum = crc.value;
    return TRF_OK;
}

/* Writes the length, the header and the data. */
TRF__FN trf_status trf__out_write(trf__sink *to, const trf__text *header, const trf__out *tensors,
                                  int32_t n, trf_error *err)
{
    unsigned char length[8];
    trf__to_little(length, header->n, 8);
    TRF__TRY(trf__out_put(to, length, 8, err));
    TRF__TRY(trf__out_put(to, header->to, header->n, err));
    return trf__out_data(to, tensors, n, err);
}

/* Checks that the file fits into the caller's memory, and reports its size. */
TRF__FN trf_status trf__check_out_size(const trf__destination *to, size_t header,
                                       const trf__out *tensors, int32_t n, trf_error *err)
{
    uint64_t bytes = 8 + (uint64_t)header;
    if (to->path) return TRF_OK;
    for (int32_t i = 0; i < n; i++) bytes += tensors[i].bytes;
    TRF__FAIL_IF(bytes > SIZE_MAX, TRF_E_LIMIT, -1, "size",
                 "%llu bytes are more than memory can hold", (unsigned long long)bytes);
    if (to->bytes) *to->bytes = (size_t)bytes;
    return TRF__OK_IF(bytes <= to->size, TRF_E_LIMIT, (int64_t)to->size, "size",
                      "expected room for %llu bytes, got %llu", (unsigned long long)bytes,
                      (unsigned long long)to->size);
}

/* Writes a whole file, or changes nothing. Callers see to it that names are UTF-8 and unique. */
TRF__COLD
TRF__FN trf_status trf__file_write(const trf_hooks *hooks, const trf__destination *to,
                                   const trf__out *tensors, int32_t n, trf__notes notes,
                                   const void *of, trf_error *err)
{
    trf__saving saving;
    trf__sink sink = { NULL, to->path ? &saving : NULL, (unsigned char *)to->memory };
    trf__crc crc;
    uint32_t sum;
    TRF__FAIL_IF(to->path && !*to->path, TRF_E_INVALID_ARG, -1, "path",
                 "expected a path, got nothing");
    TRF__ZEROED(trf__text, header);
    trf__put_header(&header, tensors, n, notes, of, 0);
    size_t bytes = header.n;
    TRF__FAIL_IF(bytes > TRF__FILE_HEADER, TRF_E_LIMIT, -1, "header",
                 "names and metadata need a header of %llu bytes, the limit is %d",
                 (unsigned long long)bytes, (int)TRF__FILE_HEADER);
    TRF__TRY(trf__check_out_size(to, bytes, tensors, n, err));
    TRF__ALLOC(char, header.to, hooks, bytes, "memory", "for a header of %llu bytes",
               (unsigned long long)bytes);
    /* the sizes are known and the memory suffices: only now the data are read */
    trf_status status = trf__out_crc(tensors, n, &sum, err);
    if (!status) {
        header.n = 0;
        trf__crc_begin(&crc);
        header.crc = &crc;
        trf__put_header(&header, tensors, n, notes, of, sum);
        if (to->path) status = trf__save_begin(&saving, hooks, to->path, err);
        if (!status) status = trf__out_write(&sink, &header, tensors, n, err);
        if (to->path) status = trf__save_end(&saving, hooks, status, err);
    }
    trf__free(hooks, header.to, bytes);
    return status;
}

/* The destination that path and options name. */
TRF__FN trf_status trf__save_to(trf__destination *to, const char *path,
                                const trf_save_options *options, trf_error *err)
{
    TRF__ZERO(*to);
    to->path = path;
    if (options && options->bytes) *options->bytes = 0;
    TRF__FAIL_IF(path && options && options->memory, TRF_E_INVALID_ARG, -1, "memory",
                 "expected a path or memory, got both");
    if (path) return TRF_OK;
    if (!options || (!options->memory && (options->size > 0 || !options->bytes)))
        return trf__fail_null(err, "path");
    to->memory = options->memory;
    to->size = options->size;
    to->bytes = options->bytes;
    return TRF_OK;
}

/* Writes the caller's texts. `of` is the list key, value, ..., NULL. */
TRF__FN void trf__metadata_texts(trf__text *notes, const void *of)
{
    const char *const *texts = (const char *const *)of;
    for (; texts && *texts; texts += 2) trf__add_metadata(notes, texts[0], texts[1]);
}

/* Checks the caller's texts, and counts them. Keys that begin with "trf." belong to the library. */
TRF__FN trf_status trf__texts_check(const char *const *texts, int32_t *n, trf_error *err)
{
    for (*n = 0; texts && *texts; texts += 2, ++*n) {
        TRF__TRY(trf__check_utf8(texts[0], "metadata", err));
        TRF__FAIL_IF(!texts[1] || !strncmp(texts[0], "trf.", 4), TRF_E_INVALID_ARG, *n, "metadata",
                     "metadata entry %d: the key %.100s %s", (int)*n, texts[0],
                     texts[1] ? "is reserved for the library" : "has no value");
        TRF__TRY(trf__check_utf8(texts[1], "metadata", err));
        TRF__FAIL_IF(*n == TRF__META_MOST, TRF_E_LIMIT, *n, "metadata",
                     "more than %d metadata entries", (int)TRF__META_MOST);
    }
    return TRF_OK;
}

/* Checks tensor number i of trf_file_save, and describes it. */
TRF__COLD
TRF__FN trf_status trf__out_tensor(trf__out *out, const trf_tensor *t, int32_t i, trf_error *err)
{
    int64_t most = sizeof(trf_real);    /* bytes with each dimension at least 1, as readers check */
    TRF__FAIL_IF(!t->name, TRF_E_INVALID_ARG, i, "name", "tensor %d has no name", (int)i);
    TRF__TRY(trf__file_name(t->name, "tensor", i, err));
    TRF__TRY(trf__check_utf8(t->name, "name", err));
    TRF__FAIL_IF(!strcmp(t->name, "__metadata__") || t->rank < 0 || t->rank > TRF_MAX_RANK ||
                 (!t->data && !t->device && trf_tensor_count(t) > 0), TRF_E_INVALID_ARG, i, t->name,
                 "tensor %d: expected a rank of 0 to %d, data, and a name other than __metadata__",
                 (int)i, (int)TRF_MAX_RANK);
    for (int32_t k = 0; k < t->rank; k++) {
        if (t->shape[k] > 1) most = trf__mul_counts(most, t->shape[k]);
        TRF__FAIL_IF(t->shape[k] < 0 || most > (int64_t)TRF__FILE_INTEGER, TRF_E_SHAPE, i, t->name,
                     "the shape of tensor %d has a negative extent, or is too large", (int)i);
    }
    /* a tensor without data in the host's memory is on its device */
    *out = trf__out_of("", t->name, TRF__DTYPE, t->rank, t->shape,
                       t->data ? t->data : t->device_data,
                       t->data ? NULL : (const trf__run *)t->device);
    return TRF_OK;
}

// >>file-calls     the container's public functions
//
// A message begins with the path of its file (trf__name_file), which these functions know.

/* Checks everything before the file is touched. `items` serves both sorts. */
TRF__COLD
TRF__FN trf_status trf__tensors_save(const char *path, const trf_tensor *tensors, int32_t n,
                                     const char *const *metadata, const trf_hooks *hooks,
                                     trf_error *err)
{
    const trf__destination to = { path, NULL, 0, NULL };
    int32_t n_texts;
    if (!tensors && n != 0) return trf__fail_null(err, "tensors");
    TRF__TRY(trf__check_range("n", n, 0, TRF__FILE_TENSORS, err));
    TRF__TRY(trf__hooks_check(hooks, err));
    TRF__TRY(trf__texts_check(metadata, &n_texts, err));
    const int64_t longer = trf__max64(n, n_texts);
    trf__out *out = TRF__NEW_ZEROED(trf__out, hooks, n);
    const void **items = TRF__NEW(const void *, hooks, longer);
    trf_status status = TRF__OK_IF(out && items, TRF_E_NOMEM, -1, "tensors",
                                   "no memory for %d tensors", (int)n);
    if (!status)
        status = trf__file_unique(NULL, items, metadata, n_texts, 2 * sizeof *metadata, "key", err);
    for (int32_t i = 0; !status && i < n; i++)
        status = trf__out_tensor(&out[i], &tensors[i], i, err);
    if (!status) status = trf__file_unique(NULL, items, tensors, n, sizeof *tensors, "tensor", err);
    if (!status) status = trf__file_write(hooks, &to, out, n, trf__metadata_texts, metadata, err);
    trf__free(hooks, (void *)items, trf__bytes(longer, sizeof *items));
    TRF__FREE(hooks, out, n);
    return status;
}

TRF__COLD
TRF_API trf_status trf_file_save(const char *path, const trf_tensor *tensors, int32_t n,
                                 const char *const *metadata, const trf_hooks *hooks,
                                 trf_error *err)
{
    TRF__ZEROED(trf_hooks, none);
    TRF__TRY(trf__begin(path, "path", err));
    return trf__name_file(trf__tensors_save(path, tensors, n, metadata, hooks ? hooks : &none, err),
                          path, err);
}

TRF_API trf_load_options trf_load_defaults(void)
{
    TRF__ZEROED(trf_load_options, options);
    options.max_bytes = (uint64_t)64 << 30;
    options.map = 1;
    options.device = trf_device_default();
    return options;
}

TRF_API void trf_file_close(trf_file *file)
{
    if (!file) return;
    trf_hooks hooks = file->hooks;
    if (file->from.fd >= 0) trf__close(file->from.fd);
    trf__free(&hooks, file, file->allocated);
}

TRF_API trf_file_entry trf_file_at(const trf_file *file, int32_t index)
{
    if (file && index >= 0 && index < file->count) return file->entries[index];
    TRF__ZEROED(trf_file_entry, none);
    return none;
}

TRF_API int trf_file_metadata_at(const trf_file *file, int32_t index, const char **key,
                                 const char **value)
{
    int inside = file && index >= 0 && index < file->n_meta;
    if (key) *key = inside ? file->meta[index].key : NULL;
    if (value) *value = inside ? file->meta[index].value : NULL;
    return inside;
}

/* Opens a file in memory or at a path. On failure nothing stays open. */
TRF__COLD
TRF__FN trf_status trf__file_start(trf_file **file, trf__origin from,
                                   const trf_load_options *options, trf_error *err)
{
    trf_load_options chosen = options ? *options : trf_load_defaults();
    uint64_t length = 0;
    TRF__ZEROED(trf_os_facts, facts);
    TRF__FAIL_IF(chosen.max_bytes == 0, TRF_E_INVALID_ARG, -1, "max_bytes",
                 "expected a limit above 0 (trf_load_defaults), got 0");
    TRF__RANGE(&chosen, allow_nonfinite, 0, 1);
    TRF__RANGE(&chosen, packed, 0, 1);
    TRF__RANGE(&chosen, map, 0, 1);
    TRF__RANGE(&chosen, verify, 0, 1);
    TRF__TRY(trf__hooks_check(&chosen.hooks, err));
    if (!from.memory) {
        TRF__TRY(trf__open_regular(from.path, &from.fd, &facts, err));
        from.size = facts.size;
    }
    /* before anything is allocated: a size is the cheapest check */
    trf_status status = TRF__OK_IF(from.size <= chosen.max_bytes, TRF_E_LIMIT, -1, from.path,
                                   "file is %llu bytes, the limit is %llu (max_bytes)",
                                   (unsigned long long)from.size,
                                   (unsigned long long)chosen.max_bytes);
    if (!status) status = trf__file_length(&from, &length, err);
    if (!status) {
        *file = trf__file_alloc(&chosen.hooks, (int64_t)length);
        status = TRF__OK_IF(*file, TRF_E_NOMEM, -1, "memory",
                            "no memory for a header of %llu bytes", (unsigned long long)length);
    }
    if (status) { if (from.fd >= 0) trf__close(from.fd); return status; }
    /* from here on closing the file closes fd */
    trf__copy_text((*file)->path, sizeof (*file)->path, trf__path_end(from.path));
    from.path = (*file)->path;
    (*file)->from = from;
    (*file)->allow_nonfinite = chosen.allow_nonfinite;
    (*file)->data_begin = 8 + length;
    status = trf__file_load(*file, err);
    if (status) { trf_file_close(*file); *file = NULL; }
    return status;
}

TRF_API trf_status trf_file_open(trf_file **file, const char *path, const trf_load_options *options,
                                 trf_error *err)
{
    trf__origin from = { NULL, -1, path, 0 };
    TRF__BEGIN_NEW(file);
    if (options && options->memory) {
        TRF__FAIL_IF(path, TRF_E_INVALID_ARG, -1, "memory", "expected a path or memory, got both");
        from.path = "memory";
        from.memory = (const unsigned char *)options->memory;
        from.size = options->memory_bytes;
    } else TRF__FAIL_IF(!path || !*path, TRF_E_INVALID_ARG, -1, "path",
                        "expected a path, got nothing");
    return trf__name_file(trf__file_start(file, from, options, err), from.path, err);
}

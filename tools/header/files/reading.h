#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "system/text.h"
#include "system/files.h"
#include "system/json.h"
#include "model/model.h"
#include "files/container.h"

// >>file-open      from a path or from memory
//
// Opening reads the header only; trf_file_read fetches data when a caller needs them.
// trf__file_start calls these functions in the order of the checks above.

/* Reads exactly `bytes` bytes at `offset`. The size of the file is known, so fewer are an error. */
TRF__FN trf_status trf__file_fetch(const trf__origin *from, uint64_t offset, void *to,
                                   size_t bytes, trf_error *err)
{
    size_t got = 0;
    trf_status status;
    if (from->memory) {
        if (bytes > 0) memcpy(to, from->memory + (size_t)offset, bytes);
        return TRF_OK;
    }
    int error = trf__read_all(from->fd, offset, to, bytes, &got);
    if (!error && got == bytes) return TRF_OK;
    if (error) status = trf__fail_io(err, error, from->path, "read it");
    else status = trf__fail(err, TRF_E_IO, -1, from->path,
                            "the file ended at byte %llu, expected %llu: it changed while it was "
                            "read", (unsigned long long)(offset + got),
                            (unsigned long long)(offset + bytes));
    if (err) err->where = (int64_t)(offset + got);
    return status;
}

/* Guesses the kind of a file that is not safetensors. Called only if the length is impossible. */
TRF__FN const char *trf__file_guess(const unsigned char *begin, uint64_t n)
{
    static const struct { char bytes[8]; int32_t n; char what[44]; } known[] = {
        {"PK\3\4", 4, "a zip archive, as torch.save writes"},
        {"\x80\2", 2, "a Python pickle"}, {"\x80\3", 2, "a Python pickle"},
        {"\x80\4", 2, "a Python pickle"}, {"\x80\5", 2, "a Python pickle"},
        {"GGUF", 4, "a GGUF file"},
        {"<!DOC", 5, "a web page"}, {"<!doc", 5, "a web page"}, {"<html", 5, "a web page"},
        {"version", 7, "a git-lfs pointer, not the file itself"},
        {"\x89HDF", 4, "an HDF5 file"}, {"\x93NUMPY", 6, "a NumPy array"},
        {"\x1F\x8B", 2, "a gzip file"}, {"{", 1, "JSON text"}
    };
    /* a short header may begin like a pickle */
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!memcmp(begin, known[i].bytes, (size_t)known[i].n) &&
            (begin[0] != 0x80 || n > TRF__FILE_HEADER)) return known[i].what;
    for (int i = 0; i < 8; i++)
        if (begin[i] < 32 && (begin[i] == 0 || !strchr("\t\n\r", begin[i]))) return NULL;
    int64_t fault = trf_find_invalid_utf8((const char *)begin, 8);
    return fault < 0 || fault > 4 ? "text" : NULL;      /* the last character may be cut */
}

/* Reads the length of the header, and checks it against the file's size and the limits. */
TRF__COLD
TRF__FN trf_status trf__file_length(trf__origin *from, uint64_t *length, trf_error *err)
{
    unsigned char begin[8];
    const char *path = from->path;
    uint64_t n = 0, size = from->size;
    TRF__FAIL_IF(size < 8, TRF_E_FORMAT, (int64_t)size, path,
                 "not a safetensors file, or truncated: it has %llu bytes, fewer than 8",
                 (unsigned long long)size);
    TRF__TRY(trf__file_fetch(from, 0, begin, 8, err));
    for (int i = 7; i >= 0; i--) n = n << 8 | begin[i];
    *length = n;
    if (n > 0 && n <= TRF__FILE_HEADER && n <= size - 8) return TRF_OK;
    const char *guess = trf__file_guess(begin, n);
    TRF__FAIL_IF(guess, TRF_E_FORMAT, 0, path, "not a safetensors file: it looks like %s", guess);
    TRF__FAIL_IF(n == 0, TRF_E_FORMAT, 0, path,
                 "not a safetensors file: its header has the length 0");
    TRF__FAIL_IF(n > TRF__FILE_HEADER, TRF_E_LIMIT, 0, path,
                 "%sa header of %llu bytes, the limit is %d",
                 n > size - 8 ? "not a safetensors file: " : "", (unsigned long long)n,
                 (int)TRF__FILE_HEADER);
    return trf__fail(err, TRF_E_FORMAT, (int64_t)size, path,
                     "file is %llu bytes, needs at least %llu for its header: truncated?",
                     (unsigned long long)size, (unsigned long long)(n + 8));
}

/* Allocates one block for the struct, the tables, the header and a NUL. The shortest tensor takes
   50 bytes of header and the shortest text 5, so the tables exceed the header only by a small
   factor: a hostile file cannot demand more memory than that. */
TRF__FN trf_file *trf__file_alloc(const trf_hooks *hooks, int64_t header)
{
    int32_t tensors = (int32_t)trf__min64(header / 50 + 1, TRF__FILE_TENSORS);
    int32_t texts = (int32_t)trf__min64(header / 5 + 1, TRF__FILE_TEXTS);
    size_t fixed = (sizeof(trf_file) + 63) / 64 * 64;
    size_t bytes = fixed + (size_t)tensors * (sizeof(trf_file_entry) + sizeof(trf__data_sum) +
                                              2 * sizeof(void *))
                 + (size_t)texts * (sizeof(trf__meta) + sizeof(void *)) + (size_t)header + 1;
    char *block = TRF__NEW(char, hooks, bytes);
    trf_file *file = (trf_file *)(void *)block;
    if (!block) return NULL;
    TRF__ZERO(*file);
    file->hooks = *hooks;
    file->allocated = bytes;
    file->capacity = tensors;
    file->meta_capacity = texts;
    file->entries = (trf_file_entry *)(void *)(block + fixed);
    file->by_name = (const void **)(void *)(file->entries + tensors);
    file->by_begin = file->by_name + tensors;
    file->by_key = file->by_begin + tensors;
    file->meta = (trf__meta *)(void *)(file->by_key + texts);
    file->sums = (trf__data_sum *)(void *)(file->meta + texts);
    file->header = (char *)(file->sums + tensors);
    file->header_bytes = header;
    return file;
}

TRF_API const char *trf_file_metadata(const trf_file *file, const char *key)
{
    const void *found = file && key ? trf__find_name(file->by_key, file->n_meta, key) : NULL;
    return found ? ((const trf__meta *)found)->value : NULL;
}

/* Compares the header with "trf.header_crc32" of the metadata. A file without that key passes. */
TRF__FN trf_status trf__file_check_header(trf_file *file, trf_error *err)
{
    const char *wanted = trf_file_metadata(file, "trf.header_crc32");
    char found[16];
    uint32_t sum = 0;
    if (!wanted) return TRF_OK;
    for (int32_t i = 0; i < file->n_meta; i++)
        sum += trf__text_sum(&file->crc, file->meta[i].key, file->meta[i].value);
    for (int32_t i = 0; i < file->count; i++) {
        const trf_file_entry *e = &file->entries[i];
        sum += trf__tensor_sum(&file->crc, e->name, e->dtype, e->rank, e->shape);
    }
    snprintf(found, sizeof found, "%08lx", (unsigned long)sum);
    if (!strcmp(found, wanted)) return TRF_OK;
    return trf__fail(err, TRF_E_CHECKSUM, trf__file_where(file, wanted), "trf.header_crc32",
                     "the header has the checksum %s, expected %.20s: a name, type or shape of a "
                     "tensor or a text trf... was damaged, or was edited: then remove "
                     "trf.header_crc32", found, wanted);
}

/* Reads and checks the header of a file whose length is known. */
TRF__COLD
TRF__FN trf_status trf__file_load(trf_file *file, trf_error *err)
{
    TRF__TRY(trf__file_fetch(&file->from, 8, file->header, (size_t)file->header_bytes, err));
    TRF__ZEROED(trf__json, s);
    s.text = file->header;
    s.n = file->header_bytes;
    s.name = "header";
    s.err = err;
    TRF__TRY(trf__file_parse(&s, file));
    trf__crc_begin(&file->crc);
    for (int32_t i = 0; i < file->count; i++) file->sums[i].known = 0;
    TRF__TRY(trf__file_unique(file, file->by_name, file->entries, file->count,
                              sizeof *file->entries, "tensor", err));
    TRF__TRY(trf__file_unique(file, file->by_key, file->meta, file->n_meta, sizeof *file->meta,
                              "metadata", err));
    TRF__TRY(trf__file_cover(file, err));
    return trf__file_check_header(file, err);
}

/* Index of a tensor, or -1. */
TRF__FN int32_t trf__file_find(const trf_file *file, const char *name)
{
    const void *found = trf__find_name(file->by_name, file->count, name);
    return found ? (int32_t)((const trf_file_entry *)found - file->entries) : -1;
}

// >>file-convert   numbers of any dtype as ours

/* IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction. Exponent 0: subnormal. */
TRF__FN double trf__from_half(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double x = exponent == 0 ? ldexp((double)fraction, -24)
                             : ldexp((double)(1024 + fraction), exponent - 25);
    if (exponent == 31) x = fraction ? (double)NAN : (double)INFINITY;
    return bits >> 15 & 1 ? -x : x;
}

TRF__FN double trf__from_double(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }

/* Reads one number of the dtype with this code. BF16 is the upper half of an F32. */
TRF__FN double trf__from_file(const unsigned char *p, char code)
{
    switch (code) {
    case 'F': return trf__from_float((uint32_t)trf__from_little(p, 4));
    case 'D': return trf__from_double(trf__from_little(p, 8));
    case 'H': return trf__from_half((uint32_t)trf__from_little(p, 2));
    default: return trf__from_float((uint32_t)trf__from_little(p, 2) << 16);
    }
}

/* Whether the host has the byte order of files. */
TRF__FN int trf__is_little(void)
{
    const uint32_t one = 1;
    return *(const unsigned char *)&one == 1;
}

/* The numbers in front of the first block of 64 that is not finite, or not whole. Only an exponent
   of ones carries into the sign if one is added to it. */
TRF__FN size_t trf__finite_numbers(const unsigned char *p, size_t n, char code)
{
    enum { EACH = 64 };
    const uint32_t one = code == 'B' ? 0x0080u : 0x0400u;
    size_t i = 0;
#define TRF__FINITE(type, mine, one) \
    for (; (mine) && i + EACH <= n; i += EACH) { \
        const type sign = (type)((type)1 << (8 * sizeof(type) - 1)); \
        type w[EACH], any = 0; \
        memcpy(w, p + sizeof(type) * i, sizeof w); \
        for (int k = 0; k < EACH; k++) any |= (type)((w[k] & ~sign) + (one)); \
        if (any & sign) break; \
    }
    TRF__FINITE(uint16_t, code == 'B' || code == 'H', one)
    TRF__FINITE(uint32_t, code == 'F', 0x00800000u)
    TRF__FINITE(uint64_t, code == 'D', (uint64_t)1 << 52)
#undef TRF__FINITE
    return i;
}

#if TRF__REAL_BYTES == 4
/* n numbers of bf16 as floats, of which they are the upper halves; n is a multiple of sixteen. */
TRF__FN void trf__widen_bf16(trf_real *to, const unsigned char *from, size_t n)
{
    uint16_t h[TRF__WIDE];
    uint32_t bits[TRF__WIDE];
    for (size_t i = 0; i < n; i += TRF__WIDE) {
        memcpy(h, from + 2 * i, sizeof h);
        for (int k = 0; k < TRF__WIDE; k++) bits[k] = (uint32_t)h[k] << 16;
        memcpy(to + i, bits, sizeof bits);
    }
}

/* n halves as floats; n is a multiple of sixteen. Exponent and fraction move, and 112 is added to
   the exponent; 31 stands for 255, and 0 for multiples of 2^-24. */
TRF__FN void trf__widen_halves(trf_real *to, const unsigned char *from, size_t n)
{
    uint16_t h[TRF__WIDE];
    uint32_t bits[TRF__WIDE], low[TRF__WIDE];
    float x[TRF__WIDE];
    int k;
    for (size_t i = 0; i < n; i += TRF__WIDE) {
        memcpy(h, from + 2 * i, sizeof h);
        for (k = 0; k < TRF__WIDE; k++) x[k] = (float)(int)(h[k] & 1023) * 5.9604644775390625e-8f;
        memcpy(low, x, sizeof low);
        for (k = 0; k < TRF__WIDE; k++) {       /* masks: gcc makes no vectors of conditions */
            uint32_t rest = h[k] & 0x7FFFu, tiny = 0u - (uint32_t)(rest < 0x0400u);
            uint32_t wide = (rest << 13) + (112u << 23) +
                            ((0u - (uint32_t)(rest >= 0x7C00u)) & 112u << 23);
            bits[k] = (low[k] & tiny) | (wide & ~tiny) | (uint32_t)(h[k] & 0x8000u) << 16;
        }
        memcpy(to + i, bits, sizeof bits);
    }
}

#if TRF__X86
/* The same by the processor's own instruction, which every one with AVX2 has. */
__attribute__((target("f16c")))
TRF__FN void trf__widen_f16c(trf_real *to, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        __m128i eight = _mm_loadu_si128((const __m128i *)(const void *)(from + 2 * i));
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(eight));
    }
}
#endif

TRF__FN void trf__widen_16_bits(trf_real *to, const unsigned char *from, size_t n, int bf16)
{
    if (bf16) { trf__widen_bf16(to, from, n); return; }
#if TRF__X86
    if (__builtin_cpu_supports("avx2")) { trf__widen_f16c(to, from, n); return; }
#endif
    trf__widen_halves(to, from, n);
}
#endif

/* Whether numbers of a file are the host's, as they are. */
TRF__FN int trf__is_host_dtype(const trf__dtype *dtype)
{
    return trf__is_little() && dtype->code == (TRF__REAL_BYTES == 4 ? 'F' : 'D');
}

/* Converts n numbers of a tensor, which lie at byte `at` of the file; `values` may be `p` if they
   are the host's own. Fails at the first that is not finite. */
TRF__FN trf_status trf__convert_numbers(const trf_file *file, const trf_file_entry *entry,
                                        uint64_t at, const unsigned char *p, size_t n,
                                        trf_real *values, trf_error *err)
{
    const trf__dtype *dtype = trf__dtype_of(entry->dtype);
    const size_t each = (size_t)dtype->bytes;
    size_t i = 0;
#if TRF__REAL_BYTES == 4
    if (trf__is_little() && each == 2) {
        i = trf__finite_numbers(p, n, dtype->code);
        trf__widen_16_bits(values, p, i, dtype->code == 'B');
    }
#endif
    if (trf__is_host_dtype(dtype)) {
        i = trf__finite_numbers(p, n, dtype->code);
        if ((const void *)values != (const void *)p) memcpy(values, p, each * i);
    }
    for (; i < n; i++) {
        const double x = trf__from_file(p + each * i, dtype->code);
        values[i] = (trf_real)x;
        TRF__FAIL_IF(!trf__is_finite((double)values[i]) && !file->allow_nonfinite, TRF_E_NONFINITE,
                     (int64_t)(at + each * i), entry->name,
                     "tensor \"%.100s\": element %llu is infinite or not a number", entry->name,
                     (unsigned long long)((at - entry->begin) / each + i));
    }
    return TRF_OK;
}

// >>file-read      tensors, and the checksum of all
//
// trf__file_numbers reads chunks to the stack, so no tensor needs memory besides its destination.
// Models are read in stripes (>>stripes).

/* The entry with an index, or an error. */
TRF__FN trf_status trf__file_entry(const trf_file *file, int32_t index,
                                   const trf_file_entry **entry, trf_error *err)
{
    TRF__FAIL_IF(index < 0 || index >= file->count, TRF_E_INVALID_ARG, index, "index",
                 "the file has %d tensors, got index %d", (int)file->count, (int)index);
    *entry = file->entries + index;
    return TRF_OK;
}

/* Reads `count` numbers of a tensor from number `first` on, and converts them. */
TRF__FN trf_status trf__file_numbers(trf_file *file, int32_t index, int64_t first, trf_real *values,
                                     int64_t count, trf_error *err)
{
    const trf_file_entry *entry = NULL;
    unsigned char chunk[TRF__CHUNK];
    int64_t n;
    TRF__TRY(trf__file_entry(file, index, &entry, err));
    if (!values && count > 0) return trf__fail_null(err, "values");
    const trf__dtype *dtype = trf__dtype_of(entry->dtype);
    TRF__FAIL_IF(!dtype->code, TRF_E_UNSUPPORTED, (int64_t)entry->begin, entry->name,
                 "tensor \"%.100s\": expected F32, F64, F16 or BF16, got %s", entry->name,
                 entry->dtype);
    TRF__FAIL_IF(first < 0 || count < 0 ||
                 count > (int64_t)(entry->bytes / (uint64_t)dtype->bytes) - first, TRF_E_SHAPE,
                 (int64_t)entry->begin, entry->name,
                 "tensor \"%.100s\" has %lld numbers, but %lld were requested, starting at number "
                 "%lld", entry->name, (long long)(entry->bytes / (uint64_t)dtype->bytes),
                 (long long)count, (long long)first);
    uint64_t at = entry->begin + (uint64_t)(first * dtype->bytes);
    /* the host's own numbers are read to where they belong */
    const int own = trf__is_host_dtype(dtype);
    for (; count > 0; count -= n, values += n, at += (uint64_t)(n * dtype->bytes)) {
        unsigned char *to = own ? (unsigned char *)(void *)values : chunk;
        n = trf__min64(count, (own ? 8 : 1) * (int64_t)sizeof chunk / dtype->bytes);
        TRF__TRY(trf__file_fetch(&file->from, at, to, (size_t)(n * dtype->bytes), err));
        TRF__TRY(trf__convert_numbers(file, entry, at, to, (size_t)n, values, err));
    }
    return TRF_OK;
}

TRF_API trf_status trf_file_read(trf_file *file, int32_t index, int64_t first, trf_real *values,
                                 int64_t count, trf_error *err)
{
    TRF__TRY(trf__begin(file, "file", err));
    return trf__name_file(trf__file_numbers(file, index, first, values, count, err), file->path,
                          err);
}

/* Reads bytes of a tensor as they are in the file, whatever its dtype. */
TRF__FN trf_status trf__file_bytes(trf_file *file, int32_t index, uint64_t first, void *bytes,
                                   size_t count, trf_error *err)
{
    const trf_file_entry *entry = NULL;
    TRF__TRY(trf__file_entry(file, index, &entry, err));
    if (!bytes && count > 0) return trf__fail_null(err, "bytes");
    TRF__FAIL_IF(first > entry->bytes || count > entry->bytes - first, TRF_E_SHAPE,
                 (int64_t)entry->begin, entry->name,
                 "tensor \"%.100s\" has %llu bytes, but %llu were requested, starting at byte %llu",
                 entry->name, (unsigned long long)entry->bytes, (unsigned long long)count,
                 (unsigned long long)first);
    return trf__file_fetch(&file->from, entry->begin + first, bytes, count, err);
}

TRF_API trf_status trf_file_read_bytes(trf_file *file, int32_t index, uint64_t first, void *bytes,
                                       size_t count, trf_error *err)
{
    TRF__TRY(trf__begin(file, "file", err));
    return trf__name_file(trf__file_bytes(file, index, first, bytes, count, err), file->path, err);
}

TRF_API int32_t trf_file_find(const trf_file *file, const char *name)
{
    return file && name ? trf__file_find(file, name) : -1;
}

/* Compares the data with "trf.crc32" of the metadata, and reads the tensors that no one has read
   yet. A file without that key passes. */
TRF__FN trf_status trf__file_check_crc(trf_file *file, trf_error *err)
{
    unsigned char chunk[TRF__CHUNK];
    const char *text = trf_file_metadata(file, "trf.crc32");
    char found[16];
    uint32_t all = 0;
    if (!text) return TRF_OK;
    TRF__FAIL_IF(strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8, TRF_E_FORMAT,
                 trf__file_where(file, text), "trf.crc32",
                 "expected 8 lower-case hexadecimal digits, got \"%.20s\"", text);
    for (int32_t i = 0; i < file->count; i++) {
        const trf_file_entry *e = (const trf_file_entry *)file->by_begin[i];
        trf__data_sum *sum = &file->sums[e - file->entries];
        uint64_t at = e->begin, end = e->begin + e->bytes;
        size_t n;
        if (!sum->known) sum->value = 0;
        for (; !sum->known && at < end; at += n) {
            n = end - at < sizeof chunk ? (size_t)(end - at) : sizeof chunk;
            TRF__TRY(trf__file_fetch(&file->from, at, chunk, n, err));
            sum->value = trf__crc_go_on(&file->crc, sum->value, chunk, n);
        }
        sum->known = 1;
        all = trf__crc_times(all, trf__crc_power(e->bytes)) ^ sum->value;
    }
    snprintf(found, sizeof found, "%08lx", (unsigned long)all);
    return TRF__OK_IF(!strcmp(found, text), TRF_E_CHECKSUM, (int64_t)file->data_begin, "trf.crc32",
                      "the data have CRC-32 %s, expected %s: the file was damaged", found, text);
}

#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/model.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "system/text.h"
#include "system/files.h"
#include "model/params.h"
#include "model/model.h"
#include "files/container.h"
#include "files/reading.h"
#include "files/store.h"

// >>stripes        tensors in stripes, which all threads read
//
// A stripe is some numbers of a tensor, or some rows of a matrix that is packed. A thread reads its
// bytes into a buffer that fits into a cache, sums and checks them, and writes the numbers to where
// they belong. So the data are read once, and the floats of a packed matrix never exist together.

enum {
    TRF__STRIPE = 1 << 18,              /* bytes; sixteen rows of a long matrix are more */
    TRF__STRIPE_ROWS = 256,             /* of a packed matrix, at most: `pack` then takes one
                                           thread */
    TRF__ONE_READS = 1 << 22            /* bytes that a thread reads while another one starts */
};
#define TRF__INT8_LEAST 1e-33           /* the smallest scale: its inverse is finite */

/* Numbers, or rows, first .. first + n - 1 of a tensor. They are so many bytes at `at` of the file,
   and go to `to` on the model's device. */
typedef struct trf__stripe {
    const trf_file_entry *entry;
    const trf__affine *matrix;          /* or NULL: it is not packed */
    int64_t first, n;
    uint64_t at, bytes;
    char *to;
    uint32_t sum;
} trf__stripe;

/* A thread's buffer: bytes of the file, floats, scales; and the first of its stripes to fail. */
typedef struct trf__stripe_reader {
    char *bytes;
    trf_real *numbers, *scales;
    int64_t failed;
    trf_error err;
} trf__stripe_reader;

typedef struct trf__reading {
    trf_file *file;
    const trf_model *model;
    trf__run run;                       /* open while stripes are read, if `pack` is needed */
    trf__stripe *stripes;
    int64_t n_stripes;
    size_t bytes, longest;              /* of all stripes, and of one as floats or in the file */
    int nonnegative, packs, sums;       /* sums: the file has a checksum */
    trf__stripe_reader *readers;
    char *device;                       /* the first buffer on a device apart, or NULL */
} trf__reading;

TRF__FN trf__reading trf__reading_of(trf_file *file, const trf_model *model)
{
    TRF__ZEROED(trf__reading, r);
    r.file = file;
    r.model = model;
    r.sums = trf_file_metadata(file, "trf.crc32") != NULL;
    r.run = trf__run_on(&model->config.device, &model->config.hooks);
    r.run.device.products = TRF_PRODUCTS_BUILT_IN;      /* CBLAS is not needed here */
    return r;
}

/* Cuts a tensor of n numbers, or rows, into stripes. While there is no list, only counts them. */
TRF__FN void trf__cut_tensor(trf__reading *r, const trf_file_entry *e, const trf__affine *matrix,
                             void *to, int64_t n)
{
    const int format = r->model->layout.format, in_file = trf__dtype_of(e->dtype)->bytes;
    const size_t element = trf__dtype_of(e->dtype)->code ? sizeof(trf_real) : 1;
    const int64_t in = matrix ? matrix->in : 1, wide = trf__max64(in_file, (int64_t)element);
    int64_t each = TRF__STRIPE / (in * wide);
    TRF__ZEROED(trf__stripe, stripe);
    stripe.entry = e;
    stripe.matrix = matrix;
    if (matrix) each = trf__max64(16, trf__min64(each, TRF__STRIPE_ROWS) / 16 * 16);
    r->packs |= matrix != NULL;
    r->longest = (size_t)trf__max64((int64_t)r->longest, trf__min64(each, n) * in * wide);
    for (int64_t first = 0; first < n; first += each) {
        stripe.first = first;
        stripe.n = trf__min64(each, n - first);
        stripe.bytes = (uint64_t)(stripe.n * in * in_file);
        stripe.at = e->begin + (uint64_t)(first * in * in_file);
        stripe.to = (char *)to + (matrix ? r->run.backend->packed_bytes(format, first, in)
                                         : (size_t)first * element);
        if (r->stripes) r->stripes[r->n_stripes] = stripe;
        r->n_stripes++;
        r->bytes += (size_t)stripe.bytes;
    }
}

// >>stripes-read   a stripe, and all of them

/* Checks the scales and the numbers of rows in 8 bits. */
TRF__FN trf_status trf__check_int8(const trf__reading *r, const trf__stripe *stripe,
                                   const trf__stripe_reader *reader, trf_error *err)
{
    const trf_file_entry *e = stripe->entry;
    const int64_t in = stripe->matrix->in;
    int32_t of;
    int64_t i;
    TRF__TRY(trf__match_scales(r->file, e, &of, err));
    const trf_file_entry *scales = &r->file->entries[of];
    TRF__TRY(trf__file_numbers(r->file, of, stripe->first, reader->scales, stripe->n, err));
    for (i = 0; i < stripe->n; i++)
        TRF__FAIL_IF(!(reader->scales[i] >= (trf_real)TRF__INT8_LEAST &&
                     reader->scales[i] <= (trf_real)(FLT_MAX / 128)), TRF_E_FORMAT,
                     stripe->first + i, scales->name,
                     "tensor \"%.100s\": scale %lld must be between %g and %g, got %g",
                     scales->name, (long long)(stripe->first + i), TRF__INT8_LEAST, FLT_MAX / 128.0,
                     (double)reader->scales[i]);
    const char *bad = (const char *)memchr(reader->bytes, 0x80, trf__bytes(stripe->n, (size_t)in));
    if (!bad) return TRF_OK;
    i = stripe->first * in + (bad - reader->bytes);
    return trf__fail(err, TRF_E_FORMAT, i, e->name,
                     "tensor \"%.100s\": number %lld must be between -127 and 127, got -128",
                     e->name, (long long)i);
}

/* Packs the rows of a stripe. Those that the file has in the packed format move as they are. */
TRF__FN trf_status trf__pack_stripe(const trf__reading *r, const trf__stripe *stripe,
                                    const trf__stripe_reader *reader, trf_error *err)
{
    const trf_file_entry *e = stripe->entry;
    const trf__run *run = &r->run;
    const int format = r->model->layout.format, int8 = trf__is_int8(e);
    const int bf16 = format == TRF__BF16 && trf__is_little() && !strcmp(e->dtype, "BF16") &&
                     !r->file->allow_nonfinite;
    const size_t n = (size_t)(stripe->n * stripe->matrix->in);
    const unsigned char *bytes = (const unsigned char *)reader->bytes;
    const char *from = reader->bytes;   /* the buffer, where `pack` reads it */
    trf_real *numbers = trf__is_host_dtype(trf__dtype_of(e->dtype))
                            ? (trf_real *)(void *)reader->bytes : reader->numbers;
    size_t stored = 0;                  /* how many numbers are finite, before any other */
    trf__pack pack = trf__pack_of(stripe->to, NULL, stripe->n, stripe->matrix->in, format);
    if (int8) TRF__TRY(trf__check_int8(r, stripe, reader, err));
    else {
        if (bf16) stored = trf__finite_numbers(bytes, n, 'B');
        TRF__TRY(trf__convert_numbers(r->file, e, stripe->at + 2 * stored, bytes + 2 * stored,
                                      n - stored, numbers, err));
    }
    const size_t scales = 2 * r->longest;
    if (r->device) {
        run->backend->upload(run, r->device, reader->bytes,
                             scales + (size_t)stripe->n * sizeof *reader->scales);
        TRF__TRY(run->backend->sync(run, err));
        from = r->device;
    }
    if (int8 || bf16) pack.stored = from;
    else pack.weights = (const trf_real *)(const void *)(from + ((const char *)numbers -
                                                                 reader->bytes));
    if (int8) pack.scales = (const trf_real *)(const void *)(from + scales);
    run->backend->pack(run, &pack);
    return TRF_OK;
}

TRF__FN trf_status trf__read_stripe(const trf__reading *r, trf__stripe *stripe,
                                   trf__stripe_reader *reader, trf_error *err)
{
    const trf_file_entry *e = stripe->entry;
    const trf__dtype *dtype = trf__dtype_of(e->dtype);
    const trf__run *device = &r->model->run;
    const size_t n = (size_t)stripe->n, bytes = (size_t)stripe->bytes;
    char *place = stripe->matrix ? NULL : (char *)trf__shared_address(device, stripe->to);
    const int as_is = !dtype->code || trf__is_host_dtype(dtype);
    char *to = place ? place : as_is ? reader->bytes : (char *)reader->numbers;
    char *read = as_is ? to : reader->bytes;
    TRF__TRY(trf__file_fetch(&r->file->from, stripe->at, read, bytes, err));
    if (r->sums) stripe->sum = trf__crc_go_on(&r->file->crc, 0, read, bytes);
    if (stripe->matrix) return trf__pack_stripe(r, stripe, reader, err);
    if (dtype->code) {
        trf_real *numbers = (trf_real *)(void *)to;
        TRF__TRY(trf__convert_numbers(r->file, e, stripe->at, (const unsigned char *)read, n,
                                      numbers, err));
        for (size_t i = 0; r->nonnegative && i < n; i++)
            TRF__FAIL_IF(!(numbers[i] >= 0), TRF_E_STATE, stripe->first + (int64_t)i, e->name,
                         "a second moment must not be negative, got %g", (double)numbers[i]);
    }
    if (place) return TRF_OK;
    device->backend->upload(device, stripe->to, to, dtype->code ? n * sizeof(trf_real) : n);
    return device->backend->sync(device, err);
}

/* Reads a stripe, unless this thread has failed at an earlier one. So the first of all stripes that
   fail is found, whichever thread reads it. */
TRF__FN void trf__stripe_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    const trf__reading *r = (const trf__reading *)job;
    trf__stripe_reader *reader = &r->readers[worker];
    trf_error err;
    (void)run;
    if (tile > reader->failed ||
        trf__read_stripe(r, &r->stripes[tile], reader, &err) == TRF_OK) return;
    reader->failed = tile;
    reader->err = err;
}

/* Keeps the checksums of the tensors. The stripes of one follow each other. */
TRF__FN void trf__keep_sums(trf__reading *r)
{
    uint64_t last = 0;
    uint32_t power = 0;
    for (int64_t i = 0; i < r->n_stripes; i++) {
        const trf__stripe *stripe = &r->stripes[i];
        trf__data_sum *sum = &r->file->sums[stripe->entry - r->file->entries];
        if (stripe->first == 0) sum->value = 0;
        if (stripe->bytes != last) power = trf__crc_power(last = stripe->bytes);
        sum->value = trf__crc_times(sum->value, power) ^ stripe->sum;
        sum->known = 1;
    }
}

/* Reads all stripes with so many threads, and finds the first that failed. */
TRF__FN trf_status trf__read_stripes(trf__reading *r, int threads, trf_error *err)
{
    const trf__stripe_reader *first = r->readers;
    int64_t i;
    if (threads > 1) r->run.backend->spread(&r->run, r->n_stripes, trf__stripe_tile, r);
    else for (i = 0; i < r->n_stripes; i++) trf__stripe_tile(&r->run, r, i, 0);
    for (i = 1; i < threads; i++) if (r->readers[i].failed < first->failed) first = &r->readers[i];
    if (first->failed == INT64_MAX) { if (r->sums) trf__keep_sums(r); return TRF_OK; }
    if (err) *err = first->err;
    return (trf_status)first->err.status;
}

/* Cuts tensors into stripes. Called twice: to count them, and to list them. */
typedef void trf__cut(trf__reading *r, const void *of);

/* Reads all tensors that `cut` chooses. */
TRF__FN trf_status trf__read_tensors(trf__reading *r, trf__cut *cut, const void *of, trf_error *err)
{
    trf__run *run = &r->run;
    const int apart = !run->backend->on_host;
    trf_status status = TRF_OK;
    char *memory;
    cut(r, of);
    if (r->n_stripes == 0) return TRF_OK;
    r->longest = (r->longest + 63) / 64 * 64;
    /* All buffers but the first take at most an eighth of the data together. One thread reads for a
       device with its own memory, or where a file allows no parallel reads. */
    int64_t each_reads = trf__max64(TRF__ONE_READS, 16 * (int64_t)r->longest);
    int64_t threads = trf__min64(run->device.threads, 1 + (int64_t)r->bytes / each_reads);
    if (!run->backend->spread || !(TRF_OS_READS_AT || r->file->from.memory)) threads = 1;
    run->device.threads = (int32_t)threads;
    size_t each = 2 * r->longest + TRF__STRIPE_ROWS * sizeof(trf_real);
    size_t all = trf__add_size(trf__bytes(threads, each + sizeof *r->readers),
                               trf__bytes(r->n_stripes, sizeof *r->stripes));
    TRF__ALLOC(char, memory, &run->hooks, all, "weights", "to read weights");
    r->readers = (trf__stripe_reader *)(void *)(memory + (size_t)threads * each);
    r->stripes = (trf__stripe *)(void *)(r->readers + threads);
    for (int64_t i = 0; i < threads; i++) {
        trf__stripe_reader *reader = &r->readers[i];
        reader->bytes = memory + (size_t)i * each;
        reader->numbers = (trf_real *)(void *)(reader->bytes + r->longest);
        reader->scales = (trf_real *)(void *)(reader->bytes + 2 * r->longest);
        reader->failed = INT64_MAX;
    }
    r->n_stripes = 0;
    cut(r, of);
    int opens = r->packs || threads > 1;
    if (opens) status = run->backend->open(run, err);
    if (status == TRF_OK) {
        if (r->packs && apart) r->device = (char *)run->backend->alloc(run, each);
        if (r->packs && apart && !r->device)
            status = trf__fail(err, TRF_E_NOMEM, -1, "weights", "no memory to read weights");
        else status = trf__read_stripes(r, (int)threads, err);
        if (status == TRF_OK && r->packs) status = run->backend->sync(run, err);
        if (r->device) run->backend->release(run, r->device, each);
        if (opens) run->backend->close(run);
    }
    trf__free(&run->hooks, memory, all);
    return status;
}

#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "cpu/gemm.h"
#include "cpu/amx.h"
#include "cpu/int8.h"
#include "cpu/bf16.h"
#include "cpu/bf16x3.h"
#include "cpu/products.h"

// >>verbs          memory: the device's is the host's; calls return when all is done
//
// Most verbs are trivial on the CPU: copies are memcpy, and there is nothing to wait for.

#if !defined(TRF__LEVEL)                /* the same at every level */
TRF__FN void *trf__cpu_alloc(const trf__run *run, size_t bytes)
{
    return trf__alloc(&run->hooks, bytes);
}
TRF__FN void trf__cpu_release(const trf__run *run, void *memory, size_t bytes)
{
    trf__free(&run->hooks, memory, bytes);
}

TRF__FN void trf__cpu_zero(TRF__UNUSED const trf__run *run, void *memory, size_t bytes)
{
    memset(memory, 0, bytes);
}

#define TRF__CPU_COPY(name) \
TRF__FN void name(TRF__UNUSED const trf__run *run, void *to, const void *from, size_t bytes) \
{ \
    if (bytes > 0) memcpy(to, from, bytes); \
}
TRF__CPU_COPY(trf__cpu_copy)
TRF__CPU_COPY(trf__cpu_upload)
TRF__CPU_COPY(trf__cpu_download)

TRF__FN void trf__cpu_fetch(const trf__run *run, trf_real *to, const trf__act *from, int64_t n)
{
    trf__cpu_copy(run, to, from, (size_t)n * sizeof *to);
}

TRF__FN void trf__cpu_feed(const trf__run *run, trf__act *to, const trf_real *from, int64_t n)
{
    trf__cpu_copy(run, to, from, (size_t)n * sizeof *from);
}

TRF__FN trf_status trf__cpu_sync(TRF__UNUSED const trf__run *run, TRF__UNUSED trf_error *err)
{
    return TRF_OK;
}

TRF__FN void *trf__cpu_stream(const trf__run *run) { (void)run; return NULL; }

/* Issuing an op costs nothing here, so no list is recorded and no batch is padded. */
TRF__FN int64_t trf__cpu_padded(const trf__run *run, int64_t n) { (void)run; return n; }

TRF__FN int trf__cpu_replay(const trf__run *run, const trf__shape *shape)
{
    (void)run; (void)shape; return 0;
}
TRF__FN int trf__cpu_end_list(const trf__run *run, int whole) { (void)run; (void)whole; return 1; }

TRF__FN size_t trf__cpu_element(const trf_device *device) { (void)device; return sizeof(trf_real); }

/* Whether the built-in product is used rather than CBLAS. AUTO means CBLAS here: for inference
   trf__pass_open has already turned AUTO into BUILT_IN. */
#if !defined(TRF__AUTO_IS_OWN)          /* tests define it */
#define TRF__AUTO_IS_OWN 0
#endif
TRF__FN int trf__cpu_prefers_own(TRF__UNUSED const trf_device *device)
{
#if defined(TRF_NO_CBLAS)
    return 1;
#else
    return device->products == TRF_PRODUCTS_AUTO ? TRF__AUTO_IS_OWN
        : device->products != TRF_PRODUCTS_CBLAS;
#endif
}

/* Packing pays if a few rows meet the same weights again and again: not in training. */
TRF__FN int trf__cpu_packs(TRF__UNUSED const trf_device *device, int training)
{
    return training ? TRF__PACKS_NOTHING : TRF__PACKS_MATRICES;
}
#endif

/* How many rows to compute together: few enough that a thread's activations stay in its level-2
   cache. CBLAS prefers many. >>bf16x3 splits by this number, so there it ignores the threads. */
TRF__FN int64_t trf__cpu_together(const trf__run *run)
{
    const trf__cpu *cpu = trf__cpu_of(run);
    if (cpu->blas) return INT64_MAX;
    if (cpu->bf16x3) return TRF__BF16X3_TOGETHER;
    return trf__max64(TRF__PACKED_ROWS, 256 * (int64_t)cpu->threads);
}

TRF__FN size_t trf__cpu_packed_bytes(int format, int64_t out, int64_t in)
{
    return trf__formats[format].bytes(out, in);
}

/* Kernels with tiles read rows by sixteen. */
TRF__FN size_t trf__cpu_converted(int format, int64_t rows, int64_t k)
{
    return trf__formats[format].before
               ? trf__bytes(trf__round_up(rows, 16), trf__formats[format].row_bytes(k)) : 0;
}

TRF__FN size_t trf__cpu_converted_row(int format, int64_t k, int64_t part)
{
    const int rows = format == TRF__BF16 && TRF__REAL_BYTES == 4 && trf__bf16_reads_rows();
    return rows && k % 32 == 0 && part % 32 == 0 ? trf__bf16_row_bytes(k) : 0;
}

TRF__FN const char *trf__cpu_kernel(const trf_device *device, int format)
{
    if (trf__wants_bf16x3(device, format)) return "AMX";
    if (format == TRF__FLOAT32) return trf__cpu_prefers_own(device) ? "built-in" : "CBLAS";
    if (TRF__REAL_BYTES == 8) return NULL;
    return format == TRF__BF16 ? trf__bf16_chosen(trf__may_have_amx())->name
                               : trf__int8_chosen(trf__may_have_amx())->name;
}

enum { TRF__PACK_ROWS = 256 };      /* of a tile: whole panels in every format */

TRF__TILE(trf__pack_tile)
{
    const trf__pack *j = (const trf__pack *)job;
    const trf__format *format = &trf__formats[j->format];
    int64_t row = tile * TRF__PACK_ROWS, end = trf__min64(j->out, row + TRF__PACK_ROWS);
    if (j->stored) {
        format->stored(j->packed, j->stored, row, end - row, j->in, j->scales);
        return;
    }
    if (format->rows) format->rows(j->packed, j->weights, row, end - row, j->in);
    for (; format->panel && row < end; row += 16)
        format->panel(j->packed, j->in, 0, row, trf__view_of(j->weights + row * j->in, 1, j->in),
                      j->in, end - row);
}

TRF__TILED_OP(trf__cpu_pack, trf__pack, trf__pack_tile, trf__ceil_div(j->out, TRF__PACK_ROWS))

#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "cpu/threads.h"
#include "cpu/gemm.h"
#include "cpu/amx.h"
#include "cpu/bf16.h"
#include "cpu/bf16x3.h"
#include "cpu/products.h"
#include "cpu/verbs.h"
#include "cpu/embed.h"
#include "cpu/linear.h"
#include "cpu/attention.h"
#include "cpu/norm.h"
#include "cpu/loss.h"
#include "cpu/adam.h"
#include "cpu/search.h"
#include "cpu/draw.h"

// >>state          threads, access to CBLAS, and scratch
//
// Opening, growing and closing a run. All memory and threads that ops need are made here: ops
// allocate nothing, so they cannot fail.

#if !defined(TRF__LEVEL)
/* The CPU always exists: only options that this build lacks are errors. */
TRF__FN trf_status trf__cpu_probe(const trf_device *device, trf_error *err)
{
#if defined(TRF_NO_CBLAS)
    TRF__FAIL_IF(device->products == TRF_PRODUCTS_CBLAS, TRF_E_BACKEND, -1, "device.products",
                 "this program was built without CBLAS (TRF_NO_CBLAS, or no <cblas.h>): use "
                 "TRF_PRODUCTS_AUTO or TRF_PRODUCTS_BUILT_IN");
#endif
    if (device->precision != TRF_PRECISION_BF16 || TRF__REAL_BYTES == 4) return TRF_OK;
    return trf__fail(err, TRF_E_BACKEND, -1, "device.precision",
                     "a build with TRF_DOUBLE does not compute with TRF_PRECISION_BF16");
}

/* Whether this run trains in 16 bits: then every product packs a weight. So an update of one batch
   packs a weight once for the forward pass and once, transposed, for the backward pass. */
TRF__FN int trf__packs_bf16(const trf__run *run, int64_t weight)
{
    return run->format == TRF__BF16 && weight > 0;
}

/* Bytes of cpu->work and all scratch, which are one block. */
TRF__FN size_t trf__cpu_bytes(const trf__cpu *cpu, size_t scratch_each, size_t work)
{
    return trf__add_size(work, trf__bytes(cpu->threads, scratch_each));
}

TRF__FN void trf__cpu_close(trf__run *run)
{
    trf__cpu *cpu = trf__cpu_of(run);
    if (!cpu) return;
    trf__process_of(run)->close(cpu, &run->hooks);
    trf__free(&run->hooks, cpu->work, trf__cpu_bytes(cpu, cpu->scratch_each, cpu->work_bytes));
    trf__free(&run->hooks, cpu, sizeof *cpu);
    run->state = NULL;
}
#endif

/* Bytes of cpu->work for weights of so many numbers or converted activations: no op has both. */
TRF__FN size_t trf__work_bytes(const trf__run *run, int64_t weight, size_t converted)
{
    int64_t least = trf__packs_bf16(run, weight) ? TRF__DEEP * 32 : 0;
    int64_t numbers = trf__max64(least, trf__round_up(trf__min64(weight, TRF__ROOM), 16));
    size_t bytes = trf__bytes(numbers, sizeof(trf_real));
    return bytes > converted ? bytes : converted;
}

/* Numbers of scratch for one worker's product. Only training has so many rows in 16 bits that more
   scratch pays. */
TRF__FN int64_t trf__product_scratch(const trf__run *run, int64_t weight, int bf16x3)
{
    int64_t numbers = trf__packs_bf16(run, weight) ? (int64_t)TRF__BF16_ROOM
                                                   : (int64_t)TRF__GEMM_SCRATCH;
    return bf16x3 ? trf__max64(numbers, TRF__BF16X3_ROOM) : numbers;
}

TRF__FN size_t trf__cpu_state_bytes(const trf__run *run, int64_t longest, int64_t d_head,
                                    int64_t weight, size_t converted)
{
    const int threads = run->device.threads;
    const int64_t product = trf__product_scratch(run, weight,
                                                 trf__wants_bf16x3(&run->device, run->format));
    size_t scratch = trf__bytes(threads, trf__scratch_bytes(longest, d_head, product));
    return trf__add_size(sizeof(trf__cpu) + trf__process_of(run)->bytes(threads),
                         trf__add_size(trf__work_bytes(run, weight, converted), scratch));
}

/* The new block is allocated before the old one is freed: after a failure the state is as before.
   Contents need not survive, as no op is running. */
TRF__FN trf_status trf__cpu_reserve(trf__run *run, int64_t longest, int64_t d_head, int64_t weight,
                                    size_t converted, trf_error *err)
{
    trf__cpu *cpu = trf__cpu_of(run);
    size_t each = trf__scratch_bytes(longest, d_head,
                                     trf__product_scratch(run, weight, cpu->bf16x3));
    size_t work = trf__work_bytes(run, weight, converted);
    if (each < cpu->scratch_each) each = cpu->scratch_each;
    if (work < cpu->work_bytes) work = cpu->work_bytes;
    if (each == cpu->scratch_each && work == cpu->work_bytes) return TRF_OK;
    void *memory = trf__alloc(&run->hooks, trf__cpu_bytes(cpu, each, work));
    TRF__FAIL_IF(!memory, TRF_E_NOMEM, -1, "scratch", "no memory for %llu bytes of scratch",
                 (unsigned long long)trf__cpu_bytes(cpu, each, work));
    trf__free(&run->hooks, cpu->work, trf__cpu_bytes(cpu, cpu->scratch_each, cpu->work_bytes));
    cpu->work = (trf_real *)memory;
    cpu->scratch = (char *)memory + work;
    cpu->scratch_each = each;
    cpu->work_bytes = work;
    return TRF_OK;
}

/* Opens without scratch: trf__cpu_reserve makes it when the sizes are known. */
TRF__FN trf_status trf__cpu_open(trf__run *run, trf_error *err)
{
    trf__cpu *cpu = TRF__NEW_ZEROED(trf__cpu, &run->hooks, 1);
    TRF__FAIL_IF(!cpu, TRF_E_NOMEM, -1, "backend", "no memory for the state of the CPU");
    run->state = cpu;
    cpu->threads = run->device.threads;
    cpu->blas = !trf__cpu_prefers_own(&run->device);
    cpu->blas_asked = run->device.products == TRF_PRODUCTS_CBLAS;
    cpu->tiles = run->format != TRF__FLOAT32 && trf__has_amx();
    cpu->bf16x3 = trf__wants_bf16x3(&run->device, run->format) && trf__has_amx();
    trf_status status = trf__process_of(run)->open(cpu, &run->hooks, err);
    if (status != TRF_OK) trf__cpu_close(run);
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>column         this file's ops as a table
//
// A column is >>cpu and what it uses, compiled for one instruction set; its one public symbol is a
// constant table. The implementation has its own, trf__cpu_backend, for the flags of its build.
// Other files can add columns for wider vectors, and >>backend chooses among them at run time.
// -----------------------------------------------------------------------------------------------

/* The fields of trf__backend in their order, without the name. */
#define TRF__CPU_VERB(result, name, arguments) , trf__cpu_##name
#define TRF__CPU_OP(name, type) , trf__cpu_##name
#define TRF__CPU_TABLE \
    1, 1 TRF__VERBS(TRF__CPU_VERB) TRF__OPS(TRF__CPU_OP) TRF__AND_DW(trf__cpu_linear_dw), \
    trf__cpu_draw, trf__tiles
#if defined(TRF_COLUMN)
#if defined(__cplusplus)
extern "C" {
#endif
extern const trf__backend TRF__COLUMN_SYMBOL(TRF_COLUMN);
const trf__backend TRF__COLUMN_SYMBOL(TRF_COLUMN) = { TRF__TEXT(TRF_COLUMN), TRF__CPU_TABLE };
#if defined(__cplusplus)
}
#endif
#else
static const trf__backend trf__cpu_backend = {
#if TRF__VECTOR_BYTES == TRF__REAL_BYTES
    "scalar",
#elif TRF__VECTOR_BYTES == 64
    "avx512",
#elif TRF__VECTOR_BYTES == 32
    "avx2",
#else
    "128-bit",
#endif
    TRF__CPU_TABLE
};
#endif

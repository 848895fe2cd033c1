#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"

// -----------------------------------------------------------------------------------------------
// >>basics         names and tensors
//
// The small functions of >>api-basics. Only copying a tensor's numbers can fail. A tensor has its
// numbers in the caller's memory (data), or on the device of an object (device, device_data).
// -----------------------------------------------------------------------------------------------

/* From the list of statuses, so that no name can be missing. */
TRF_API const char *trf_status_name(trf_status status)
{
    switch (status) {
#define TRF__X(name, value, text) case name: return #name;
    TRF_STATUS_LIST(TRF__X)
#undef TRF__X
    default: return "TRF_E_UNKNOWN";
    }
}

/* Unused dimensions are 1, so products over all four are valid. */
TRF_API trf_tensor trf_tensor_of(trf_real *data, int32_t rank, int64_t n0, int64_t n1, int64_t n2)
{
    TRF__ZEROED(trf_tensor, tensor);
    tensor.data = data;
    tensor.rank = rank;
    tensor.shape[0] = n0;
    tensor.shape[1] = rank > 1 ? n1 : 1;
    tensor.shape[2] = rank > 2 ? n2 : 1;
    tensor.shape[3] = 1;
    return tensor;
}

/* Saturates (trf__mul_counts), so that shapes of hostile files cannot wrap. */
TRF_API int64_t trf_tensor_count(const trf_tensor *tensor)
{
    int64_t n = 1;
    if (!tensor || tensor->rank < 0 || tensor->rank > TRF_MAX_RANK) return 0;
    if (!tensor->rank && !tensor->shape[0]) return 0;      /* zeros: none, and no single number */
    for (int32_t i = 0; i < tensor->rank; i++) n = trf__mul_counts(n, tensor->shape[i]);
    return n;
}

/* Copies the numbers of a tensor to the caller's memory, or with `write` in the other direction.
   Numbers on a device have arrived when the call returns. */
TRF__FN trf_status trf__tensor_move(const trf_tensor *tensor, trf_real *numbers, int64_t count,
                                    int write, trf_error *err)
{
    size_t bytes = trf__bytes(count, sizeof *numbers);
    TRF__TRY(trf__begin(tensor, "tensor", err));
    if (!numbers && count > 0) return trf__fail_null(err, "numbers");
    TRF__FAIL_IF(!tensor->data && !tensor->device, TRF_E_INVALID_ARG, -1, "tensor",
                 "tensor must be a tensor with data");
    TRF__FAIL_IF(count != trf_tensor_count(tensor), TRF_E_SHAPE, -1, "count",
                 "the tensor has %lld numbers, but there is room for %lld",
                 (long long)trf_tensor_count(tensor), (long long)count);
    /* memcpy must not get NULL, even for 0 bytes */
    if (tensor->data) {
        if (count > 0)
            memcpy(write ? tensor->data : numbers, write ? numbers : tensor->data, bytes);
        return TRF_OK;
    }
    const trf__run *run = (const trf__run *)tensor->device;
    if (write) run->backend->upload(run, tensor->device_data, numbers, bytes);
    else run->backend->download(run, numbers, tensor->device_data, bytes);
    return run->backend->sync(run, err);
}

TRF_API trf_status trf_tensor_read(const trf_tensor *tensor, trf_real *numbers, int64_t count,
                                   trf_error *err)
{
    return trf__tensor_move(tensor, numbers, count, 0, err);
}

TRF_API trf_status trf_tensor_write(const trf_tensor *tensor, const trf_real *numbers,
                                    int64_t count, trf_error *err)
{
    /* The cast removes const: with write = 1 the numbers are only read. */
    return trf__tensor_move(tensor, (trf_real *)(uintptr_t)numbers, count, 1, err);
}

/* A tensor of the caller must have exactly this shape; columns -1: a vector. */
TRF__FN trf_status trf__shape_check(const trf_tensor *tensor, const char *name, int64_t rows,
                                    int64_t columns, trf_error *err)
{
    TRF__FAIL_IF(!tensor || !tensor->data, TRF_E_INVALID_ARG, -1, name,
                 "%s must be a tensor with data", name);
    if (columns < 0 ? tensor->rank == 1 && tensor->shape[0] == rows
                    : tensor->rank == 2 && tensor->shape[0] == rows &&
                    tensor->shape[1] == columns) return TRF_OK;
    TRF__FAIL_IF(columns < 0, TRF_E_SHAPE, -1, name,
                 "%s must have shape (%lld), got rank %d with first extent %lld", name,
                 (long long)rows, tensor->rank, (long long)tensor->shape[0]);
    return trf__fail(err, TRF_E_SHAPE, -1, name,
                     "%s must have shape (%lld, %lld), got rank %d with first extents %lld and "
                     "%lld", name, (long long)rows, (long long)columns,
                     tensor->rank, (long long)tensor->shape[0], (long long)tensor->shape[1]);
}

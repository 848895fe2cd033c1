#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "cuda/launches.h"
#include "cuda/products.h"
#include "cuda/layers.h"
#include "cuda/attention.h"
#include "cuda/attention_gradient.h"
#include "cuda/norm.h"
#include "cuda/loss.h"
#include "cuda/search.h"

#if TRF__CUDA

// >>cuda-state
//
// Opening and closing a run on the device, and the table of its ops.

/* Whether the device exists and this program has kernels for it. Loading any kernel fails if the
   program was compiled for other cards. */
TRF__FN trf_status trf__cuda_probe(const trf_device *device, trf_error *err)
{
    trf__on_device here(device->index);
    cudaFuncAttributes attributes;
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    TRF__FAIL_IF(e == cudaSuccess && n > 0 && device->index >= n, TRF_E_BACKEND, -1, "device.index",
                 "this machine has %d CUDA devices, got index %d", n, device->index);
    if (e == cudaSuccess && n > 0) e = cudaFuncGetAttributes(&attributes, trf__gpu_backpointers);
    (void)cudaGetLastError();
    TRF__FAIL_IF(e != cudaSuccess || n == 0, TRF_E_BACKEND, -1, "CUDA",
                 "CUDA device %d cannot be used: %s", device->index,
                 e == cudaSuccess ? "there is none" : cudaGetErrorString(e));
    return TRF_OK;
}

TRF__FN size_t trf__cuda_state_bytes(const trf__run *, int64_t, int64_t, int64_t, size_t)
{
    return sizeof(trf__cuda) + TRF__CUDA_WORKSPACE + TRF__CUDA_SUMS * sizeof(float);
}

/* Nothing to do: no scratch depends on the length of sequences. */
TRF__FN trf_status trf__cuda_reserve(trf__run *, int64_t, int64_t, int64_t, size_t, trf_error *)
{
    return TRF_OK;
}

/* Waits for the device first: it may still read stages and the workspace. */
TRF__FN void trf__cuda_close(trf__run *run)
{
    trf__cuda *cuda = trf__cuda_of(run);
    trf__on_device here(run->device.index);
    if (!cuda) return;
    (void)cudaStreamSynchronize(cudaStreamLegacy);
    for (int i = 0; i < TRF__CUDA_STAGES; i++) {
        if (cuda->stages[i].read) (void)cudaEventDestroy(cuda->stages[i].read);
        if (cuda->stages[i].memory) (void)cudaFreeHost(cuda->stages[i].memory);
    }
    for (int i = 0; i < TRF__CUDA_LISTS; i++)
        if (cuda->lists[i].graph) (void)cudaGraphExecDestroy(cuda->lists[i].graph);
    if (cuda->recorder) (void)cudaStreamDestroy(cuda->recorder);
    if (cuda->preference) (void)cublasLtMatmulPreferenceDestroy(cuda->preference);
    if (cuda->lt) (void)cublasLtDestroy(cuda->lt);
    if (cuda->workspace) (void)cudaFree(cuda->workspace);
    if (cuda->sums) (void)cudaFree(cuda->sums);
    trf__free(&run->hooks, cuda, sizeof *cuda);
    run->state = NULL;
}

/* Makes events, a stream and cuBLASLt's handles. Returns the name of the one that failed, or NULL.
   Algorithms that add split sums in place (in no fixed order) or in 16 bits are excluded. */
TRF__FN const char *trf__cuda_make(trf__cuda *cuda)
{
    uint64_t workspace = TRF__CUDA_WORKSPACE;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    for (int i = 0; i < TRF__CUDA_STAGES; i++)
        if (cudaEventCreateWithFlags(&cuda->stages[i].read, cudaEventDisableTiming) != cudaSuccess)
            return "an event";
    if (cudaStreamCreateWithFlags(&cuda->recorder, cudaStreamNonBlocking) != cudaSuccess)
        return "a stream";
    if (cublasLtCreate(&cuda->lt)) return "cuBLASLt";
    if (cublasLtMatmulPreferenceCreate(&cuda->preference) ||
        cublasLtMatmulPreferenceSetAttribute(cuda->preference,
                                             CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                             sizeof workspace) ||
        cublasLtMatmulPreferenceSetAttribute(cuda->preference,
                                             CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums,
                                             sizeof sums)) return "cuBLASLt's preference";
    return NULL;
}

/* After a failure trf__cuda_close frees what was made. */
TRF__FN trf_status trf__cuda_open(trf__run *run, trf_error *err)
{
    trf__cuda *cuda = TRF__NEW_ZEROED(trf__cuda, &run->hooks, 1);
    trf__on_device here(run->device.index);
    trf_status status = TRF_OK;
    TRF__FAIL_IF(!cuda, TRF_E_NOMEM, -1, "backend", "no memory for the state of the device");
    run->state = cuda;
    const char *missing = trf__cuda_make(cuda);
    if (missing)
        status = trf__fail(err, TRF_E_BACKEND, -1, "CUDA", "CUDA, open: %s cannot be created",
                           missing);
    else if (cudaMalloc(&cuda->workspace, TRF__CUDA_WORKSPACE) != cudaSuccess ||
             cudaMalloc((void **)&cuda->sums, TRF__CUDA_SUMS * sizeof(float)) != cudaSuccess)
        status = trf__fail(err, TRF_E_NOMEM, -1, "backend",
                           "no memory on the device for the scratch space of matrix products");
    if (status != TRF_OK) { (void)cudaGetLastError(); trf__cuda_close(run); }
    return status;
}

#define TRF__CUDA_VERB(result, name, arguments) , trf__cuda_##name
#define TRF__CUDA_OP(name, type) , trf__cuda_##name
/* memory is not the host's; the host looks after every 8 tokens of a search */
#define TRF__CUDA_TABLE \
    0, 8 TRF__VERBS(TRF__CUDA_VERB) TRF__OPS(TRF__CUDA_OP) TRF__AND_DW(trf__cuda_linear_dw), 0, 0

#if defined(TRF_COLUMN)
extern "C" {
extern const trf__backend TRF__COLUMN_SYMBOL(TRF_COLUMN);
const trf__backend TRF__COLUMN_SYMBOL(TRF_COLUMN) = { TRF__TEXT(TRF_COLUMN), TRF__CUDA_TABLE };
}
#else
static const trf__backend *trf__cuda_backend(void)
{
    static const trf__backend backend = { "cuda", TRF__CUDA_TABLE };
    return &backend;
}
#endif

#endif /* TRF__CUDA */

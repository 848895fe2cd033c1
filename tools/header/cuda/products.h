#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "cuda/launches.h"

#if TRF__CUDA

// >>products       cuBLASLt, to which our row-major (rows, columns) is (columns, rows)
//
// Products of floats use full precision, not TF32. All sums are in float; partial sums of a split k
// are added in a fixed order.

/* D (m, n) = A B [+ bias of m] [+ D], column-major. A is (m, k), or stored as (k, m) with turn_a; B
   is (k, n), or stored as (n, k) with turn_b. narrow: A, B are bf16; narrow_d: D, bias. */
typedef struct trf__lt {
    void *d;
    const void *a, *b, *bias;
    int64_t m, n, k, lda, ldb, ldd;
    int turn_a, turn_b, narrow, narrow_d, add;
} trf__lt;

/* A product with k = 0: the old D and the bias alone. */
template <class D> TRF__KERNEL void trf__gpu_no_product(trf__lt p)
{
    trf__each(p.m * p.n, [&](int64_t i) {
        D *d = (D *)p.d + i / p.m * p.ldd + i % p.m;
        trf__put_as(d, (p.add ? trf__as_float(*d) : 0) +
                    (p.bias ? trf__as_float(((const D *)p.bias)[i % p.m]) : 0));
    });
}

/* aligned: the largest power of two up to 16 that divides all addresses and bytes of rows. */
TRF__FN trf__lt_key trf__lt_key_of(const trf__lt *p)
{
    uint64_t bits = (uint64_t)(uintptr_t)p->a | (uint64_t)(uintptr_t)p->b |
        (uint64_t)(uintptr_t)p->d | (uint64_t)(uintptr_t)p->bias | 16 |
        (uint64_t)(p->lda | p->ldb) * (p->narrow ? 2 : 4) |
        (uint64_t)p->ldd * (p->narrow_d ? 2 : 4);
    trf__lt_key key = { p->m, p->n, p->k, p->lda, p->ldb, p->ldd, p->turn_a, p->turn_b, p->narrow,
                        p->narrow_d, p->bias != NULL, (int64_t)(bits & (~bits + 1)) };
    return key;
}

/* Finds the plan of a product, or an empty one for it, in a hash table with linear probing. After
   64 occupied entries in a row the table is emptied: plans can be chosen again. (FNV-1a) */
TRF__FN trf__plan *trf__plan_of(trf__cuda *cuda, const trf__lt_key *key)
{
    const int64_t *numbers = &key->m;
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < sizeof *key / sizeof *numbers; i++) hash = (hash ^ (uint64_t)numbers[i])
        * 0x100000001B3u;
    for (size_t i = 0; i < 64; i++) {
        trf__plan *plan = &cuda->plans[((hash ^ hash >> 32) + i) & (TRF__CUDA_PLANS - 1)];
        if (plan->key.m == 0 || memcmp(&plan->key, key, sizeof *key) == 0) return plan;
    }
    memset(cuda->plans, 0, sizeof cuda->plans);
    return &cuda->plans[(hash ^ hash >> 32) & (TRF__CUDA_PLANS - 1)];
}

/* cuBLASLt's description of a product. It lives on the stack, since making it is cheap. */
typedef struct trf__lt_words {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, d;
} trf__lt_words;

/* Fills the description. The bias is part of the product (epilogue), which saves a pass over D. */
TRF__FN cublasStatus_t trf__lt_describe(const trf__lt *p, trf__lt_words *w)
{
    cublasOperation_t a = p->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N, b = p->turn_b ? CUBLAS_OP_T
        : CUBLAS_OP_N;
    cublasLtEpilogue_t end = p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t in = p->narrow ? CUDA_R_16BF : CUDA_R_32F, out = p->narrow_d ? CUDA_R_16BF
        : CUDA_R_32F;
    cublasComputeType_t sums = p->narrow ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_PEDANTIC;
    cublasStatus_t s = cublasLtMatmulDescInit(&w->product, sums, CUDA_R_32F);
#define TRF__LT_SET(name, value) \
    if (!s) \
        s = cublasLtMatmulDescSetAttribute(&w->product, CUBLASLT_MATMUL_DESC_##name, &(value), \
                                           sizeof(value))
    TRF__LT_SET(TRANSA, a);
    TRF__LT_SET(TRANSB, b);
    TRF__LT_SET(EPILOGUE, end);
    if (p->bias) TRF__LT_SET(BIAS_POINTER, p->bias);
#undef TRF__LT_SET
    if (!s) s = cublasLtMatrixLayoutInit(&w->a, in, (uint64_t)(p->turn_a ? p->k : p->m),
                                         (uint64_t)(p->turn_a ? p->m : p->k), p->lda);
    if (!s) s = cublasLtMatrixLayoutInit(&w->b, in, (uint64_t)(p->turn_b ? p->n : p->k),
                                         (uint64_t)(p->turn_b ? p->k : p->n), p->ldb);
    if (!s) s = cublasLtMatrixLayoutInit(&w->d, out, (uint64_t)p->m, (uint64_t)p->n, p->ldd);
    return s;
}

/* Fills an empty plan with the first algorithm of cuBLASLt's heuristic. It asks for no more
   alignment than the key has, so the algorithm fits all products of the key. */
TRF__FN cublasStatus_t trf__lt_choose(trf__cuda *cuda, trf__plan *plan, const trf__lt_key *key,
                                      trf__lt_words *w)
{
    cublasLtMatmulHeuristicResult_t found;
    uint32_t bytes = (uint32_t)key->aligned;
    static const cublasLtMatmulPreferenceAttributes_t aligned[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
    int n = 0;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < 4 && !s; i++)
        s = cublasLtMatmulPreferenceSetAttribute(cuda->preference, aligned[i], &bytes,
                                                 sizeof bytes);
    if (!s)
        s = cublasLtMatmulAlgoGetHeuristic(cuda->lt, &w->product, &w->a, &w->b, &w->d, &w->d,
                                           cuda->preference, 1, &found, &n);
    if (!s) s = n > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
    if (!s) { plan->algo = found.algo; plan->key = *key; }
    return s;
}

/* Issues a product. The heuristic takes long: trf__plan_of keeps its result for the shape. */
TRF__FN void trf__cuda_product(const trf__run *run, const char *what, const trf__lt *p)
{
    trf__cuda *cuda = trf__cuda_of(run);
    /* D = one * A B + more * D */
    float one = 1, more = p->add ? 1.0f : 0.0f;
    trf__lt_key key = trf__lt_key_of(p);
    trf__on_device here(run->device.index);
    trf__lt_words w;
    if (p->m == 0 || p->n == 0 || cuda->failed) return;
    /* k = 0, as in gradients without rows: D is still set */
    if (p->k == 0) {
        trf__launch(run, what, trf__tiles_of(p->m * p->n),
                    p->narrow_d ? trf__gpu_no_product<trf__bf16> : trf__gpu_no_product<float>, *p);
        return;
    }
    trf__plan *plan = trf__plan_of(cuda, &key);
    cublasStatus_t s = trf__lt_describe(p, &w);
    if (!s && plan->key.m == 0) s = trf__lt_choose(cuda, plan, &key, &w);
    if (!s)
        s = cublasLtMatmul(cuda->lt, &w.product, &one, p->a, &w.a, p->b, &w.b, &more, p->d, &w.d,
                           p->d, &w.d, &plan->algo, cuda->workspace, TRF__CUDA_WORKSPACE,
                           trf__cuda_queue(run));
    if (s) trf__cuda_fails(run, what, cublasLtGetStatusString(s));
}

// >>cuda-verbs     memory
//
// The verbs of >>op-table. Copies are asynchronous except where the host needs the numbers.

TRF__FN void *trf__cuda_alloc(const trf__run *run, size_t bytes)
{
    trf__on_device here(run->device.index);
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes ? bytes : 1) == cudaSuccess) return memory;
    (void)cudaGetLastError();           /* clears it: with little memory the device still works */
    return NULL;
}

TRF__FN void trf__cuda_release(const trf__run *run, void *memory, size_t bytes)
{
    trf__on_device here(run->device.index);
    cudaError_t e = memory ? cudaFree(memory) : cudaSuccess;
    (void)bytes;
    if (run->state) trf__cuda_did(run, "free", e);
    /* an object without a state cannot report it, as it is being destroyed */
    else if (e != cudaSuccess) (void)cudaGetLastError();
}

TRF__FN void trf__cuda_zero(const trf__run *run, void *memory, size_t bytes)
{
    trf__on_device here(run->device.index);
    if (bytes > 0 && trf__cuda_works(run))
        trf__cuda_did(run, "zero", cudaMemsetAsync(memory, 0, bytes, trf__cuda_queue(run)));
}

TRF__FN void trf__cuda_move(const trf__run *run, const char *what, void *to, const void *from,
                            size_t bytes, cudaMemcpyKind kind)
{
    trf__on_device here(run->device.index);
    if (bytes > 0 && trf__cuda_works(run))
        trf__cuda_did(run, what, cudaMemcpyAsync(to, from, bytes, kind, trf__cuda_queue(run)));
}

TRF__FN void trf__cuda_copy(const trf__run *run, void *to, const void *from, size_t bytes)
{
    trf__cuda_move(run, "copy", to, from, bytes, cudaMemcpyDeviceToDevice);
}

TRF__FN void trf__cuda_download(const trf__run *run, void *to, const void *from, size_t bytes)
{
    trf__cuda_move(run, "download", to, from, bytes, cudaMemcpyDeviceToHost);
}

template <class To, class From> TRF__KERNEL void trf__gpu_convert(To *to, const From *from,
                                                                  int64_t n)
{
    trf__each(n, [&](int64_t i) { trf__put_as(&to[i], trf__as_float(from[i])); });
}

/* Activations in 16 bits become floats in the workspace piece by piece, then are downloaded. */
TRF__FN void trf__cuda_fetch(const trf__run *run, trf_real *to, const trf__act *from, int64_t n)
{
    enum { PIECE = TRF__CUDA_WORKSPACE / sizeof(float) };
    float *wide = (float *)trf__cuda_of(run)->workspace;
    if (run->element == sizeof *to)
        return trf__cuda_download(run, to, from, (size_t)n * sizeof *to);
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t m = trf__min64(PIECE, n - at);
        trf__launch(run, "fetch", trf__tiles_of(m), trf__gpu_convert<float, trf__bf16>, wide,
                    (const trf__bf16 *)(const void *)from + at, m);
        trf__cuda_download(run, to + at, wide, (size_t)m * sizeof *to);
    }
}

/* The next stage, with at least so many bytes. Waits until the device has read its last upload.
   NULL: there is no pinned memory. */
TRF__FN trf__staging *trf__cuda_stage(const trf__run *run, size_t bytes)
{
    trf__cuda *cuda = trf__cuda_of(run);
    trf__staging *stage = &cuda->stages[cuda->stage];
    if (cudaEventSynchronize(stage->read) != cudaSuccess) return NULL;
    if (bytes > stage->bytes) {
        (void)cudaFreeHost(stage->memory);
        stage->memory = NULL;
        stage->bytes = 0;
        if (cudaMallocHost(&stage->memory, bytes) != cudaSuccess) {
            (void)cudaGetLastError(); return NULL;
        }
        stage->bytes = bytes;
    }
    cuda->stage = (cuda->stage + 1) % TRF__CUDA_STAGES;
    return stage;
}

/* Copies to pinned memory, from which the device reads by itself: the host waits only if all stages
   are in use. Without a stage the call waits for the device. */
TRF__FN void trf__cuda_upload(const trf__run *run, void *to, const void *from, size_t bytes)
{
    trf__on_device here(run->device.index);
    trf__staging *stage = NULL;
    if (bytes == 0 || !trf__cuda_works(run)) return;
    if (run->state && bytes <= TRF__CUDA_WORKSPACE) stage = trf__cuda_stage(run, bytes);
    if (stage) from = memcpy(stage->memory, from, bytes);
    trf__cuda_move(run, "upload", to, from, bytes, cudaMemcpyHostToDevice);
    if (stage) trf__cuda_did(run, "upload", cudaEventRecord(stage->read, cudaStreamLegacy));
    else trf__cuda_did(run, "upload", cudaStreamSynchronize(cudaStreamLegacy));
}

/* The reverse of fetch. */
TRF__FN void trf__cuda_feed(const trf__run *run, trf__act *to, const trf_real *from, int64_t n)
{
    enum { PIECE = TRF__CUDA_WORKSPACE / sizeof(float) };
    float *wide = (float *)trf__cuda_of(run)->workspace;
    if (run->element == sizeof *from)
        return trf__cuda_upload(run, to, from, (size_t)n * sizeof *from);
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t m = trf__min64(PIECE, n - at);
        trf__cuda_upload(run, wide, from + at, (size_t)m * sizeof *from);
        trf__launch(run, "feed", trf__tiles_of(m), trf__gpu_convert<trf__bf16, float>,
                    (trf__bf16 *)(void *)to + at, (const float *)wide, m);
    }
}

/* Waits for the device and returns the first error. In a run with a state the error stays. */
TRF__FN trf_status trf__cuda_sync(const trf__run *run, trf_error *err)
{
    trf__on_device here(run->device.index);
    trf__cuda *cuda = trf__cuda_of(run);
    char said[sizeof trf__cuda_said];
    if (trf__cuda_works(run)) trf__cuda_did(run, "sync", cudaStreamSynchronize(cudaStreamLegacy));
    memcpy(said, cuda ? cuda->said : trf__cuda_said, sizeof said);
    if (!cuda) trf__cuda_said[0] = 0;
    return said[0] ? trf__fail(err, TRF_E_BACKEND, -1, "CUDA", "CUDA, %s", said) : TRF_OK;
}

TRF__FN void *trf__cuda_stream(const trf__run *run) { (void)run; return (void *)cudaStreamLegacy; }

TRF__FN int64_t trf__cuda_together(const trf__run *) { return INT64_MAX; }

/* Rounds up to a multiple of an eighth of the next power of two, so that few shapes remain. Long
   lists are not padded: issuing them takes less time than the work. */
TRF__FN int64_t trf__cuda_padded(const trf__run *, int64_t n)
{
    int64_t power = 8;
    while (power < n) power *= 2;
    return n > TRF__CUDA_SHORT ? n : trf__round_up(n, power / 8);
}

// >>cuda-recording lists of ops that are played again

/* The list of this shape, or the least recently used one, emptied. */
TRF__FN trf__recorded *trf__cuda_list(trf__cuda *cuda, const trf__shape *shape)
{
    trf__recorded *list = cuda->lists;
    for (int i = 0; i < TRF__CUDA_LISTS; i++) {
        trf__recorded *other = &cuda->lists[i];
        if (other->used && memcmp(&other->shape, shape, sizeof *shape) == 0) return other;
        if (other->used < list->used) list = other;
    }
    if (list->graph) (void)cudaGraphExecDestroy(list->graph);
    TRF__ZERO(*list);
    list->shape = *shape;
    return list;
}

/* Recording has failed: ops are issued one by one from now on. */
TRF__FN void trf__cuda_cannot_record(trf__cuda *cuda)
{
    (void)cudaGetLastError();
    cuda->cannot_record = 1;
}

/* A list is issued op by op the first time, which chooses algorithms and loads kernels, as neither
   may happen during capture. The second time it is recorded, then played. */
TRF__FN int trf__cuda_replay(const trf__run *run, const trf__shape *shape)
{
    trf__cuda *cuda = trf__cuda_of(run);
    trf__on_device here(run->device.index);
    if (cuda->failed || cuda->cannot_record) return 0;
    trf__recorded *list = trf__cuda_list(cuda, shape);
    /* issued once already, so its algorithms are chosen */
    int before = list->used > 0;
    list->used = ++cuda->lists_asked;
    if (list->graph) {
        trf__cuda_did(run, "replay", cudaGraphLaunch(list->graph, cudaStreamLegacy)); return 1;
    }
    /* thread-local capture: other threads' calls neither fail nor are recorded */
    if (!before) return 0;
    if (cudaStreamBeginCapture(cuda->recorder, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        trf__cuda_cannot_record(cuda);
    else cuda->recording = list;
    return 0;
}

/* Ends a recording and makes a graph of it. Recorded ops have not run yet, so the graph is played
   at once. 0: recording failed, and the ops must be issued again. */
TRF__FN int trf__cuda_end_list(const trf__run *run, int whole)
{
    trf__cuda *cuda = trf__cuda_of(run);
    trf__on_device here(run->device.index);
    trf__recorded *list = cuda->recording;
    cudaGraph_t graph = NULL;
    if (!list) return 1;
    cuda->recording = NULL;
    cudaError_t e = cudaStreamEndCapture(cuda->recorder, &graph);
    /* an incomplete list is dropped */
    if (whole && e == cudaSuccess && !cuda->failed)
        e = cudaGraphInstantiateWithFlags(&list->graph, graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    if (!whole || cuda->failed) return 1;
    if (e == cudaSuccess) {
        trf__cuda_did(run, "replay", cudaGraphLaunch(list->graph, cudaStreamLegacy)); return 1;
    }
    list->graph = NULL;
    trf__cuda_cannot_record(cuda);
    return 0;
}

TRF__FN size_t trf__cuda_element(const trf_device *device)
{
    return device->precision == TRF_PRECISION_BF16 ? sizeof(trf__bf16) : sizeof(float);
}

/* In float the weights of the model serve as they are. In bf16 a second arena holds all parameters
   in 16 bits. */
TRF__FN int trf__cuda_packs(const trf_device *device, int)
{
    return device->precision == TRF_PRECISION_BF16 ? TRF__PACKS_16_BITS : TRF__PACKS_NOTHING;
}

TRF__FN size_t trf__cuda_packed_bytes(int, int64_t, int64_t) { return 0; }
TRF__FN size_t trf__cuda_converted(int, int64_t, int64_t) { return 0; }
TRF__FN size_t trf__cuda_converted_row(int, int64_t, int64_t) { return 0; }
TRF__FN const char *trf__cuda_kernel(const trf_device *, int format)
{
    return format == TRF__INT8 ? NULL : "cuBLAS";
}

TRF__FN void trf__cuda_pack(const trf__run *run, const trf__pack *j)
{
    int64_t n = j->out * j->in;
    trf__launch(run, "pack", trf__tiles_of(n), trf__gpu_convert<trf__bf16, float>,
                (trf__bf16 *)j->packed, j->weights, n);
}

#endif /* TRF__CUDA */

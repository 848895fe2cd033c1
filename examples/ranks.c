/* ranks.c - one model trained by several ranks: each has the whole model and computes a part of each
   batch. all_reduce sums their gradients, so all models stay identical.

   build   cc -O2 -pthread -I. examples/ranks.c -o ranks -lopenblas -lm
           as processes, on one machine or several: also -DRANKS_MPI $(pkg-config --cflags --libs mpi)
           on GPUs also -DTRF_WITH_CUDA -DRANKS_NCCL -I/usr/local/cuda/include cuda.o -lnccl
           -lcublasLt -lcudart -lstdc++, where transformer.h's first page builds cuda.o
   run     ./ranks                two ranks: threads of the CPU, or GPUs 0 and 1
           ./ranks 4              four
           mpirun -n 4 ./ranks    four processes, with RANKS_MPI
   prints  the loss of the whole batch, and a number that depends on every bit of the weights. On the
           CPU both are exactly the same for any number of ranks, because training.parts is: rank r
           computes parts r, r + n_ranks, ... of each batch, and gradients are summed in the order of
           the ranks. NCCL adds up in an order of its own, so on GPUs the last digits may differ. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_RANKS = 16, PAIRS = 48, LENGTH = 6, SYMBOLS = 12, STEPS = 60 };

static int n_ranks = 2;
static trf_device_kind device = TRF_DEVICE_CPU;

#if defined(RANKS_MPI)
#include <mpi.h>

/* Each rank gets a share of the gradients from all, adds it up, and sends it to all. It returns when
   that is done; tools/trf/train/mpi.c has one that goes on with the backward pass meanwhile. */
static int all_reduce(void *user, trf_real *gradients, size_t count, void *stream)
{
    MPI_Datatype real = sizeof(trf_real) == 8 ? MPI_DOUBLE : MPI_FLOAT;
    size_t n = (size_t)n_ranks, r = (size_t)*(int *)user, i, k;
    size_t own = count * (r + 1) / n - count * r / n;
    int counts[MOST_RANKS], places[MOST_RANKS], owns[MOST_RANKS], from[MOST_RANKS], failed;
    trf_real *got = (trf_real *)malloc((own * n + 1) * sizeof *got), *sum;
    (void)stream;
    if (!got) return 1;
    for (k = 0; k < n; k++) {
        places[k] = (int)(count * k / n); counts[k] = (int)(count * (k + 1) / n) - places[k];
        owns[k] = (int)own; from[k] = (int)(own * k);
    }
    failed = MPI_Alltoallv(gradients, counts, places, real, got, owns, from, real, MPI_COMM_WORLD);
    sum = gradients + places[r];
    for (i = 0; i < own; i++)
        for (sum[i] = got[i], k = 1; k < n; k++) sum[i] += got[own * k + i];
    failed = failed || MPI_Allgatherv(MPI_IN_PLACE, 0, real, gradients, counts, places, real,
                                      MPI_COMM_WORLD);
    free(got);
    return failed;
}
#elif defined(RANKS_NCCL)
#include <cuda_runtime_api.h>
#include <nccl.h>
static ncclComm_t comms[MOST_RANKS];

/* Runs in the trainer's stream: later work in that stream sees the sums, and the host does not
   wait. */
static int all_reduce(void *user, trf_real *gradients, size_t count, void *stream)
{
    int rank = *(int *)user;
    return cudaSetDevice(rank) != cudaSuccess ||
           ncclAllReduce(gradients, gradients, count, ncclFloat, ncclSum, comms[rank],
                         (cudaStream_t)stream) != ncclSuccess;
}
#else
#include <pthread.h>
static trf_real *wanted[MOST_RANKS];            /* the gradients that each rank wants summed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
static int waiting, meetings;

/* Returns when all ranks are here. */
static void meet(void)
{
    int meeting;
    pthread_mutex_lock(&lock);
    meeting = meetings;
    if (++waiting == n_ranks) { waiting = 0; meetings++; pthread_cond_broadcast(&all_here); }
    while (meeting == meetings) pthread_cond_wait(&all_here, &lock);
    pthread_mutex_unlock(&lock);
}

/* Each rank sums its share of the numbers over all ranks, always in the order of the ranks. */
static int all_reduce(void *user, trf_real *gradients, size_t count, void *stream)
{
    size_t n = (size_t)n_ranks, rank = (size_t)*(int *)user, i, k; (void)stream;
    wanted[rank] = gradients;
    meet();
    for (i = count * rank / n; i < count * (rank + 1) / n; i++) {
        trf_real sum = 0;
        for (k = 0; k < n; k++) sum += wanted[k][i];
        for (k = 0; k < n; k++) wanted[k][i] = sum;
    }
    meet();
    return 0;
}
#endif

/* Ends all ranks: one that stopped alone would leave the others waiting in all_reduce. */
#define CHECK(call) if ((call) != TRF_OK) { fprintf(stderr, "%s\n", err.message); end_all(); }
static void end_all(void)
{
#if defined(RANKS_MPI)
    MPI_Abort(MPI_COMM_WORLD, 2);
#endif
    exit(2);
}

/* FNV-1a of all weights. */
static unsigned long long hash_weights(const trf_model *model)
{
    unsigned long long hash = 14695981039346656037u;
    trf_error err;
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor w = trf_model_parameter(model, i);
        size_t n = (size_t)trf_tensor_count(&w) * sizeof(trf_real), k;
        unsigned char *bytes = (unsigned char *)malloc(n);
        if (!bytes) { fputs("out of memory\n", stderr); end_all(); }
        CHECK(trf_tensor_read(&w, (trf_real *)(void *)bytes, trf_tensor_count(&w), &err))
        for (k = 0; k < n; k++) hash = (hash ^ bytes[k]) * 1099511628211u;
        free(bytes);
    }
    return hash;
}

static void *train(void *user)
{
    int rank = *(int *)user;
    trf_config config = trf_config_preset(TRF_TINY);
    trf_train_options training = trf_train_defaults();
    trf_model *model; trf_trainer *trainer;
    trf_step_report report; trf_error err;
    uint64_t random = 1;
    int32_t ids[PAIRS * LENGTH], lengths[PAIRS], step, i;
    trf_sequences all = {ids, lengths, PAIRS};
    trf_batch batch = {all, all, 0, {0, 0, 0}};
    config.source_vocab = config.target_vocab = 4 + SYMBOLS;
    config.encoder_layers = config.decoder_layers = 1;      /* deep ones magnify rounding */
    config.device.kind = device; config.device.index = device == TRF_DEVICE_CUDA ? rank : 0;
    config.device.threads = 1;
    training.learning_rate = 5e-3; training.warmup = 40;
    training.rank = rank; training.n_ranks = n_ranks; training.parts = MOST_RANKS;
    training.all_reduce = all_reduce; training.user = user;
    CHECK(trf_model_create(&model, &config, NULL, &err))          /* the same seed: the same weights */
    CHECK(trf_trainer_create(&trainer, model, &training, &err))
    for (i = 0; i < PAIRS; i++) lengths[i] = LENGTH;
    for (step = 1; step <= STEPS; step++) {
        for (i = 0; i < PAIRS * LENGTH; i++) {              /* all ranks draw the same pairs */
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            ids[i] = 4 + (int32_t)((random >> 33) % SYMBOLS);
        }
        CHECK(trf_trainer_step(trainer, &batch, &report, &err))
        if (rank == 0 && step % 20 == 0) printf("update %d  loss %.9g\n", (int)step, report.loss);
    }
    if (rank == 0) printf("weights %016llx\n", hash_weights(model));
    trf_trainer_destroy(trainer); trf_model_destroy(model);
    return NULL;
}

#if defined(RANKS_MPI)
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    if (n_ranks > MOST_RANKS) { fputs("at most 16 processes\n", stderr); end_all(); }
    train(&rank);
    return MPI_Finalize();
}
#else
#if defined(RANKS_NCCL)
#include <pthread.h>
#endif
int main(int argc, char **argv)
{
    pthread_t threads[MOST_RANKS];
    int ranks[MOST_RANKS], i;
    if (argc > 1) n_ranks = atoi(argv[1]);
    if (n_ranks < 1 || n_ranks > MOST_RANKS) return fputs("usage: ranks [1 to 16]\n", stderr), 2;
#if defined(RANKS_NCCL)
    device = TRF_DEVICE_CUDA;
    if (ncclCommInitAll(comms, n_ranks, NULL)) return fputs("NCCL: too few GPUs\n", stderr), 2;
#endif
    for (i = 0; i < n_ranks; i++) {
        ranks[i] = i;
        if (pthread_create(&threads[i], NULL, train, &ranks[i])) return perror("ranks"), 2;
    }
    for (i = 0; i < n_ranks; i++) pthread_join(threads[i], NULL);
    return 0;
}
#endif

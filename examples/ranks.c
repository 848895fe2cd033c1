/* ranks.c - one model trained by several ranks: each has the whole model and computes a part of each
   batch. all_reduce sums their gradients, so all models stay identical.

   build   cc -O2 -pthread -I. examples/ranks.c -o ranks -lopenblas -lm
           on GPUs also -DTRF_WITH_CUDA -DRANKS_NCCL -I/usr/local/cuda/include cuda.o -lnccl
           -lcublasLt -lcudart -lstdc++, where transformer.h's first page builds cuda.o
   run     ./ranks                two ranks: threads of the CPU, or GPUs 0 and 1
           ./ranks 4              four
   prints  the loss of the whole batch. On the CPU it is exactly the same for any number of ranks,
           because training.parts is: rank r computes parts r, r + n_ranks, ... of each batch. NCCL
           adds up in an order of its own, so on GPUs the last digits may differ.
   To run the ranks as processes, or on several machines, change only all_reduce. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_RANKS = 16, PAIRS = 48, LENGTH = 6, SYMBOLS = 12, STEPS = 60 };

#define CHECK(call) if ((call) != TRF_OK) { fprintf(stderr, "%s\n", err.message); exit(2); }

static int n_ranks = 2;
#if defined(RANKS_NCCL)
#include <cuda_runtime_api.h>
#include <nccl.h>
static const trf_device_kind device = TRF_DEVICE_CUDA;
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
static const trf_device_kind device = TRF_DEVICE_CPU;
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

static void *train(void *user)
{
    int rank = *(int *)user;
    trf_config config = trf_config_tiny();
    trf_train_options training = trf_train_defaults();
    trf_model *model; trf_trainer *trainer;
    trf_step_report report; trf_error err;
    uint64_t random = 1;
    int32_t ids[PAIRS * LENGTH], lengths[PAIRS], step, i;
    trf_sequences all = {ids, lengths, PAIRS};
    trf_batch batch = {all, all, 0, {0, 0, 0}};
    config.source_vocab = config.target_vocab = 4 + SYMBOLS;
    config.encoder_layers = config.decoder_layers = 1;      /* deep ones magnify rounding */
    config.device.kind = device; config.device.index = rank;            /* of the GPU */
    config.device.threads = 1;
    training.learning_rate = 5e-3; training.warmup = 40;
    training.rank = rank; training.n_ranks = n_ranks; training.parts = MOST_RANKS;
    training.all_reduce = all_reduce; training.user = user;
    CHECK(trf_model_create(&model, &config, &err))          /* the same seed: the same weights */
    CHECK(trf_trainer_create(&trainer, model, &training, &err))
    for (i = 0; i < PAIRS; i++) lengths[i] = LENGTH;
    for (step = 1; step <= STEPS; step++) {
        for (i = 0; i < PAIRS * LENGTH; i++) {              /* all ranks draw the same pairs */
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            ids[i] = 4 + (int32_t)((random >> 33) % SYMBOLS);
        }
        CHECK(trf_train_step(trainer, &batch, &report, &err))
        if (rank == 0 && step % 20 == 0) printf("update %d  loss %.9g\n", (int)step, report.loss);
    }
    trf_trainer_destroy(trainer); trf_model_destroy(model);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST_RANKS];
    int ranks[MOST_RANKS], i;
    if (argc > 1) n_ranks = atoi(argv[1]);
    if (n_ranks < 1 || n_ranks > MOST_RANKS) return fputs("usage: ranks [1 to 16]\n", stderr), 2;
#if defined(RANKS_NCCL)
    if (ncclCommInitAll(comms, n_ranks, NULL)) return fputs("NCCL: too few GPUs\n", stderr), 2;
#endif
    for (i = 0; i < n_ranks; i++) {
        ranks[i] = i;
        if (pthread_create(&threads[i], NULL, train, &ranks[i])) return perror("ranks"), 2;
    }
    for (i = 0; i < n_ranks; i++) pthread_join(threads[i], NULL);
    return 0;
}

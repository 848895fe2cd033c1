/* ranks.c - one model trained by several processors at once: each rank has the whole model and a share of every batch,
   and an all-reduce sums their gradients before each update, so that all ranks stay the same model.

   build   cc -O2 -march=native -I. examples/ranks.c -o ranks -pthread -lopenblas -lm
           on GPUs, with the column cuda.o of transformer.h's first page:
           cc -O2 -march=native -DTRF_WITH_CUDA -DRANKS_NCCL -I. -I/usr/local/cuda/include examples/ranks.c
              cuda.o -o ranks -pthread -lopenblas -lnccl -lcublasLt -lcudart -lstdc++ -lm
   run     ./ranks                two ranks: threads of the CPU, or GPUs 0 and 1
           ./ranks 4              four
   prints  the loss of one rank alone and of all together, which learn the same thing.
   exits   with 1 if the two do not agree within 1 %.

   Ranks are threads of one program here. As processes, or on several machines, nothing changes but all_reduce. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(RANKS_NCCL)
#include <cuda_runtime_api.h>
#include <nccl.h>
#endif

enum { MOST_RANKS = 16, PAIRS = 48, LONGEST = 8, SYMBOLS = 12, STEPS = 60, EVERY = 20 };

#define CHECK(call) do if ((call) != TRF_OK) { fprintf(stderr, "%s\n", err.message); exit(2); } while (0)

/* What the ranks of one training share. */
typedef struct team {
    int n, waiting, round;                      /* a barrier */
    pthread_mutex_t lock;
    pthread_cond_t change;
    trf_real *gradients[MOST_RANKS];            /* what each wants summed now */
    double loss[STEPS];                         /* as rank 0 was told: of the whole batch */
#if defined(RANKS_NCCL)
    ncclComm_t comms[MOST_RANKS];
#endif
} team;

typedef struct rank { team *all; int number; } rank;

/* Returns when all ranks are here. */
static void meet(team *t)
{
    int round;
    pthread_mutex_lock(&t->lock);
    round = t->round;
    if (++t->waiting == t->n) {
        t->waiting = 0;
        t->round++;
        pthread_cond_broadcast(&t->change);
    }
    while (round == t->round) pthread_cond_wait(&t->change, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

#if defined(RANKS_NCCL)
/* In the stream that the trainer computes in: what follows there sees the sums, and nobody waits. */
static int all_reduce(void *user, trf_real *gradients, size_t count, void *stream)
{
    rank *r = (rank *)user;
    if (cudaSetDevice(r->number) != cudaSuccess) return 1;
    return ncclAllReduce(gradients, gradients, count, ncclFloat, ncclSum, r->all->comms[r->number],
                         (cudaStream_t)stream) != ncclSuccess;
}
#else
/* Every rank sums its share of the numbers over all ranks, always in the order of the ranks. */
static int all_reduce(void *user, trf_real *gradients, size_t count, void *stream)
{
    rank *r = (rank *)user;
    team *t = r->all;
    size_t i, begin = count * (size_t)r->number / (size_t)t->n, end = count * (size_t)(r->number + 1) / (size_t)t->n;
    int k;
    (void)stream;
    t->gradients[r->number] = gradients;
    meet(t);
    for (i = begin; i < end; i++) {
        trf_real sum = 0;
        for (k = 0; k < t->n; k++) sum += t->gradients[k][i];
        for (k = 0; k < t->n; k++) t->gradients[k][i] = sum;
    }
    meet(t);
    return 0;
}
#endif

/* Every rank draws the whole batch, and keeps its pairs; the target is the source backwards. `ordinal` says which of
   the step's pairs the first one is: dropout is then the same however many ranks there are. */
static trf_batch share_of_batch(int step, int number, int ranks, int32_t *ids, int32_t *lengths)
{
    static const int32_t first_symbol = 4;
    int32_t begin = PAIRS * number / ranks, end = PAIRS * (number + 1) / ranks, pair, k, n_ids = 0;
    int32_t *source = ids, *target = ids + PAIRS * LONGEST;
    uint64_t state = (uint64_t)step;
    trf_batch batch;
    memset(&batch, 0, sizeof batch);
    for (pair = 0; pair < PAIRS; pair++) {
        int32_t word[LONGEST], n;
        for (k = 0; k < LONGEST; k++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            word[k] = first_symbol + (int32_t)((state >> 33) % SYMBOLS);
        }
        n = 3 + (int32_t)((state >> 50) % (LONGEST - 2));
        if (pair < begin || pair >= end) continue;
        for (k = 0; k < n; k++) { source[n_ids + k] = word[k]; target[n_ids + k] = word[n - 1 - k]; }
        lengths[pair - begin] = n;
        n_ids += n;
    }
    batch.source.ids = source;
    batch.target.ids = target;
    batch.source.lengths = batch.target.lengths = lengths;
    batch.source.count = batch.target.count = end - begin;
    batch.ordinal = begin;
    return batch;
}

static void *rank_main(void *user)
{
    rank *r = (rank *)user;
    static const int kind =
#if defined(RANKS_NCCL)
        TRF_DEVICE_CUDA;
#else
        TRF_DEVICE_CPU;
#endif
    trf_config config = trf_config_tiny();
    trf_train_options training = trf_train_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_error err;
    int32_t ids[2 * PAIRS * LONGEST], lengths[PAIRS];
    int step;
    config.source_vocab = config.target_vocab = 4 + SYMBOLS;
    config.d_model = 64; config.n_heads = 4; config.d_ff = 128;
    config.encoder_layers = config.decoder_layers = 1;
    config.device.kind = (trf_device_kind)kind;
    config.device.index = r->number;
    config.device.threads = 1;
    training.warmup = 40;
    training.learning_rate = 5e-3;
    training.rank = r->number;
    training.n_ranks = r->all->n;
    training.all_reduce = all_reduce;
    training.user = r;
    CHECK(trf_model_create(&model, &config, &err));     /* the same seed: the same weights everywhere */
    CHECK(trf_trainer_create(&trainer, model, &training, &err));
    for (step = 0; step < STEPS; step++) {
        trf_batch batch = share_of_batch(step, r->number, r->all->n, ids, lengths);
        trf_step_report report;
        CHECK(trf_train_step(trainer, &batch, &report, &err));
        if (r->number == 0) r->all->loss[step] = report.loss;
    }
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return NULL;
}

static void train(team *t, int n)
{
    pthread_t threads[MOST_RANKS];
    rank ranks[MOST_RANKS];
    int i;
    memset(t, 0, sizeof *t);
    t->n = n;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->change, NULL);
#if defined(RANKS_NCCL)
    if (ncclCommInitAll(t->comms, n, NULL) != ncclSuccess) { fprintf(stderr, "NCCL: not %d GPUs\n", n); exit(2); }
#endif
    for (i = 0; i < n; i++) {
        ranks[i].all = t;
        ranks[i].number = i;
        if (pthread_create(&threads[i], NULL, rank_main, &ranks[i])) { fprintf(stderr, "no thread\n"); exit(2); }
    }
    for (i = 0; i < n; i++) pthread_join(threads[i], NULL);
#if defined(RANKS_NCCL)
    for (i = 0; i < n; i++) ncclCommDestroy(t->comms[i]);
#endif
    pthread_cond_destroy(&t->change);
    pthread_mutex_destroy(&t->lock);
}

int main(int argc, char **argv)
{
    static team alone, together;
    int n = argc > 1 ? atoi(argv[1]) : 2, step, same = 1;
    if (n < 1 || n > MOST_RANKS) { fprintf(stderr, "ranks: 1 to %d, got %s\n", MOST_RANKS, argv[1]); return 2; }
    train(&alone, 1);
    train(&together, n);
    for (step = 0; step < STEPS; step++) {
        same = same && fabs(alone.loss[step] - together.loss[step]) <= 0.01 * alone.loss[step];
        if ((step + 1) % EVERY == 0)
            printf("update %3d   loss %.4f with one rank, %.4f with %d\n", step + 1, alone.loss[step],
                   together.loss[step], n);
    }
    return same ? 0 : 1;
}

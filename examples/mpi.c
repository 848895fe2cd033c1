/* mpi.c - one model trained by several processes, on one machine or on several.
   Every process has the whole model and the same batches, and computes its part of each. MPI adds
   up their gradients in the order of the ranks, so the weights have the same bits as those of one
   process that computes as many parts (trf_train_options.parts).

   build   cc -O2 -I. examples/mpi.c -o mpi $MPI -lopenblas -lm
           where MPI=$(pkg-config --cflags --libs mpi)
   run     ./mpi                  one process
           mpirun -n 3 ./mpi      three processes
           ./mpi 3                one that computes three parts: the same bits
   prints  the loss, and a number that depends on every bit of the weights */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIRS = 48, LENGTH = 6, SYMBOLS = 12, STEPS = 60 };

static int rank, n_ranks;

#define CHECK(call) if ((call) != TRF_OK) { \
    fprintf(stderr, "rank %d: %s\n", rank, err.message); MPI_Abort(MPI_COMM_WORLD, 2); }

/* Each rank gets a share of the slice from all, adds it up, and sends it to all. It returns when
   that is done; tools/trf/train/mpi.c has one that goes on with the backward pass meanwhile. */
static int all_reduce(void *user, trf_real *gradients, size_t count, void *stream)
{
    MPI_Datatype real = sizeof(trf_real) == 8 ? MPI_DOUBLE : MPI_FLOAT;
    size_t n = (size_t)n_ranks, r = (size_t)rank, own = count * (r + 1) / n - count * r / n, i, k;
    int *numbers = (int *)malloc(4 * n * sizeof *numbers), failed;
    int *counts = numbers, *places = counts + n, *owns = places + n, *from = owns + n;
    trf_real *got = (trf_real *)malloc((own * n + 1) * sizeof *got), *sum;
    (void)user; (void)stream;
    if (!numbers || !got) return 1;
    for (k = 0; k < n; k++) {
        places[k] = (int)(count * k / n); counts[k] = (int)(count * (k + 1) / n) - places[k];
        owns[k] = (int)own; from[k] = (int)(own * k);
    }
    failed = MPI_Alltoallv(gradients, counts, places, real, got, owns, from, real, MPI_COMM_WORLD);
    sum = gradients + places[rank];
    for (i = 0; i < own; i++)
        for (sum[i] = got[i], k = 1; k < n; k++) sum[i] += got[own * k + i];
    failed = failed || MPI_Allgatherv(MPI_IN_PLACE, 0, real, gradients, counts, places, real,
                                      MPI_COMM_WORLD);
    free(numbers); free(got);
    return failed;
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
        if (!bytes) { fputs("out of memory\n", stderr); MPI_Abort(MPI_COMM_WORLD, 2); }
        CHECK(trf_tensor_read(&w, (trf_real *)(void *)bytes, trf_tensor_count(&w), &err))
        for (k = 0; k < n; k++) hash = (hash ^ bytes[k]) * 1099511628211u;
        free(bytes);
    }
    return hash;
}

int main(int argc, char **argv)
{
    trf_config config = trf_config_tiny();
    trf_train_options training = trf_train_defaults();
    trf_model *model; trf_trainer *trainer;
    trf_step_report report; trf_error err;
    uint64_t random = 1; int32_t ids[PAIRS * LENGTH], lengths[PAIRS], step, i;
    trf_sequences all = {ids, lengths, PAIRS};
    trf_batch batch = {all, all, 0, {0, 0, 0}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    config.source_vocab = config.target_vocab = 4 + SYMBOLS;
    config.encoder_layers = config.decoder_layers = 1;
    config.device.threads = 1;
    training.learning_rate = 5e-3; training.warmup = 40;
    training.rank = rank; training.n_ranks = n_ranks;
    training.parts = argc > 1 ? atoi(argv[1]) : n_ranks;
    training.all_reduce = n_ranks > 1 ? all_reduce : NULL;
    CHECK(trf_model_create(&model, &config, &err))          /* the same seed: the same weights */
    CHECK(trf_trainer_create(&trainer, model, &training, &err))
    for (i = 0; i < PAIRS; i++) lengths[i] = LENGTH;
    for (step = 1; step <= STEPS; step++) {
        for (i = 0; i < PAIRS * LENGTH; i++) {              /* all ranks draw the same pairs */
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            ids[i] = 4 + (int32_t)((random >> 33) % SYMBOLS);
        }
        CHECK(trf_train_step(trainer, &batch, &report, &err))
        if (rank == 0 && step % 20 == 0) printf("update %d  loss %.4f\n", (int)step, report.loss);
    }
    if (rank == 0) printf("weights %016llx\n", hash_weights(model));
    trf_trainer_destroy(trainer); trf_model_destroy(model);
    return MPI_Finalize();
}

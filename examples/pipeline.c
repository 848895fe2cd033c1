/* pipeline.c - one encoder-decoder divided by its layers among several stages, which compute
   different micro-batches at the same time. A stage has the weights, gradients and moments of its
   own layers alone. Stages are threads or, with MPI, processes; the two differ in four functions
   (give, take, meet, sum), and in how they start and end.

   build   cc -O2 -pthread -I. examples/pipeline.c -o pipeline -lopenblas -lm
   run     ./pipeline             two stages, eight micro-batches an update
           ./pipeline 4 12        four stages, twelve micro-batches
   or      mpicc -O2 -DPIPELINE_MPI -I. examples/pipeline.c -o pipeline_mpi \
               -lopenblas -lm
           mpirun -n 4 ./pipeline_mpi 12
   prints  the loss; what part of the time the stages wait for each other if each has a core of its
           own (the bubble); a number that depends on every bit of the weights; and whether one
           process with all layers, with MPI the last rank when it has destroyed its stage, gets the
           same bits. The bubble of S stages and M micro-batches is (S - 1) / (M + S - 1) if all
           passes take equally long */
#define _POSIX_C_SOURCE 199309L
#define TRF_IMPLEMENTATION
#include "transformer.h"
#ifdef PIPELINE_MPI
#include <mpi.h>
#define END_ALL MPI_Abort(MPI_COMM_WORLD, 2)
#else
#include <pthread.h>
#define END_ALL exit(2)
#endif
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_STAGES = 8, MOST_MICROS = 64, PAIRS = 8, LENGTH = 16, SYMBOLS = 12, UPDATES = 10 };
enum { ENCODER_LAYERS = 6, DECODER_LAYERS = 4, LAYERS = ENCODER_LAYERS + DECODER_LAYERS };

typedef struct worker {
    int number; trf_model *model; trf_trainer *trainer; trf_stage *stage;
    double busy, clock;             /* seconds of an update: of passes, and with waiting */
    double all_busy, all;           /* of all stages and updates */
    uint64_t hash;                  /* of the weights of all stages */
} worker;

static int n_stages = 2, n_micros = 8;

static void die(const worker *s, const char *why)
{
    fprintf(stderr, "stage %d: %s\n", s->number, why);
    END_ALL;
}

#define CHECK(call) { if ((call) != TRF_OK) die(s, err.message); }

static trf_real *new_numbers(const worker *s, size_t n)
{
    trf_real *numbers = (trf_real *)malloc(n * sizeof *numbers);
    if (!numbers) die(s, "out of memory");
    return numbers;
}

/* give sends n numbers of micro-batch m to the next stage or (back) to the one before; their memory
   is then its own. take waits for those that the other neighbour gives; its caller frees them. */
#ifdef PIPELINE_MPI
static trf_real *sent[2 * MOST_MICROS];
static MPI_Request requests[2 * MOST_MICROS];   /* of what is sent and has not arrived yet */

/* At the end the last rank computes alone. */
static MPI_Comm chain(void) { return n_stages > 1 ? MPI_COMM_WORLD : MPI_COMM_SELF; }

static MPI_Datatype real(void) { return sizeof(trf_real) == 8 ? MPI_DOUBLE : MPI_FLOAT; }

/* Does not wait. So during the passes ranks wait only in take, in the order of the schedule: none
   waits for ever, however little MPI buffers. */
static void give(worker *s, int back, int m, trf_real *numbers, int n)
{
    int tag = back * MOST_MICROS + m, to = s->number + (back ? -1 : 1), i, arrived;
    while (MPI_Testany(2 * MOST_MICROS, requests, &i, &arrived, MPI_STATUS_IGNORE),
           arrived && i != MPI_UNDEFINED) free(sent[i]);
    sent[tag] = numbers;
    MPI_Isend(numbers, n, real(), to, tag, chain(), &requests[tag]);
}

static trf_real *take(worker *s, int back, int m, int n)
{
    int tag = back * MOST_MICROS + m, from = s->number + (back ? 1 : -1);
    trf_real *numbers = new_numbers(s, (size_t)n);
    MPI_Recv(numbers, n, real(), from, tag, chain(), MPI_STATUS_IGNORE);
    return numbers;
}

/* Returns when all stages are here, and everything has arrived. */
static void meet(void)
{
    int i;
    while (MPI_Waitany(2 * MOST_MICROS, requests, &i, MPI_STATUS_IGNORE), i != MPI_UNDEFINED)
        free(sent[i]);
    MPI_Barrier(chain());
}

/* Each stage adds its numbers to the sum of those before it, so always in the order of the stages,
   and the last one sends the sum to all. */
static int sum(void *user, trf_real *numbers, size_t count, void *stream)
{
    const worker *s = (const worker *)user;
    int n = (int)count, last = n_stages - 1, tag = 2 * MOST_MICROS, i; (void)stream;
    if (count > INT_MAX) return 1;              /* MPI counts in int */
    if (s->number > 0) {
        trf_real *before = new_numbers(s, count);
        MPI_Recv(before, n, real(), s->number - 1, tag, chain(), MPI_STATUS_IGNORE);
        for (i = 0; i < n; i++) numbers[i] = before[i] + numbers[i];
        free(before);
    }
    if (s->number < last) MPI_Send(numbers, n, real(), s->number + 1, tag, chain());
    MPI_Bcast(numbers, n, real(), last, chain());
    return 0;
}
#else
static trf_real *boxes[2][MOST_STAGES][MOST_MICROS];    /* behind each stage: rows of each
                                                           micro-batch, and their gradients */
static trf_real *wanted[MOST_STAGES];           /* the numbers that each stage wants summed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static int waiting, meetings;

static void give(worker *s, int back, int m, trf_real *numbers, int n)
{
    (void)n;
    pthread_mutex_lock(&lock);
    boxes[back][s->number - back][m] = numbers;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

static trf_real *take(worker *s, int back, int m, int n)
{
    trf_real **box = &boxes[back][s->number - !back][m], *numbers; (void)n;
    pthread_mutex_lock(&lock);
    while (!*box) pthread_cond_wait(&change, &lock);
    numbers = *box; *box = NULL;
    pthread_mutex_unlock(&lock);
    return numbers;
}

/* Returns when all stages are here. */
static void meet(void)
{
    int meeting;
    pthread_mutex_lock(&lock);
    meeting = meetings;
    if (++waiting == n_stages) { waiting = 0; meetings++; pthread_cond_broadcast(&change); }
    while (meeting == meetings) pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
}

/* Each stage sums its share of the numbers, always in the order of the stages. */
static int sum(void *user, trf_real *numbers, size_t count, void *stream)
{
    size_t n = (size_t)n_stages, s = (size_t)((worker *)user)->number, i, k; (void)stream;
    wanted[s] = numbers;
    meet();
    for (i = count * s / n; i < count * (s + 1) / n; i++) {
        trf_real total = wanted[0][i];
        for (k = 1; k < n; k++) total += wanted[k][i];
        for (k = 0; k < n; k++) wanted[k][i] = total;
    }
    meet();
    return 0;
}
#endif

/* CPU time of this thread: other threads and processes on the same core do not count. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The forward or the backward pass of micro-batch m, whose pairs all stages draw alike. Rows come
   in from one neighbour, and others go out to the other one, each time with the sender's clock as
   the last number. */
static void pass(worker *s, int slot, int update, int m, int back)
{
    int32_t ids[PAIRS * LENGTH], lengths[PAIRS], i;
    trf_sequences x = {ids, lengths, PAIRS};
    trf_batch batch = {x, x, 0, {0, 0, 0}};
    uint64_t random = (uint64_t)(update * MOST_MICROS + m);
    int64_t rows[2], d = trf_model_config(s->model)->d_model;
    trf_tensor in, out; trf_error err; double spent; int n_in, n_out;
    for (i = 0; i < PAIRS * LENGTH; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ids[i] = 4 + (int32_t)((random >> 33) % SYMBOLS);
        lengths[i / LENGTH] = LENGTH;
    }
    CHECK(trf_stage_rows(s->stage, &batch, &rows[back], &rows[!back], &err))
    in = trf_tensor_of(NULL, 2, rows[0], d, 1);
    out = trf_tensor_of(NULL, 2, rows[1], d, 1);
    if (rows[0] > INT_MAX / d - 1 || rows[1] > INT_MAX / d - 1) die(s, "too many rows");
    n_in = (int)(rows[0] * d); n_out = (int)(rows[1] * d);
    if (n_in) {
        in.data = take(s, back, m, n_in + 1);
        if (in.data[n_in] > s->clock) s->clock = in.data[n_in];         /* it has waited */
    }
    if (n_out) out.data = new_numbers(s, (size_t)n_out + 1);
    spent = -seconds();
    if (back) CHECK(trf_stage_backward(s->stage, slot, &in, &out, NULL, &err))
    else CHECK(trf_stage_forward(s->stage, slot, &batch, &in, &out, &err))
    spent += seconds();
    s->busy += spent; s->clock += spent;
    free(in.data);
    if (n_out) {
        out.data[n_out] = (trf_real)s->clock;
        give(s, back, m, out.data, n_out + 1);
    }
}

/* Adds an update to the totals: the time of all passes, and for each stage the time until the last
   one has ended. */
static void add_up(worker *s)
{
    trf_real times[MOST_STAGES + 1] = {0}, end = 0;
    int k;
    times[0] = (trf_real)s->busy; times[1 + s->number] = (trf_real)s->clock;
    if (sum(s, times, (size_t)n_stages + 1, NULL)) die(s, "cannot add up");
    for (k = 1; k <= n_stages; k++) if (times[k] > end) end = times[k];
    s->all_busy += times[0]; s->all += n_stages * (double)end;
}

/* FNV-1a of each parameter, added up over all stages: by sum, 16 bits in a number, as float cannot
   take all 64. */
static uint64_t hash_weights(worker *s)
{
    trf_real parts[4];
    uint64_t total = 0;
    int32_t i, k;
    for (i = 0; i < trf_model_parameter_count(s->model); i++) {
        trf_tensor w = trf_model_parameter(s->model, i);
        const unsigned char *byte = (const unsigned char *)w.data, *end = byte +
            (size_t)trf_tensor_count(&w) * sizeof *w.data;
        uint64_t hash = UINT64_C(14695981039346656037);
        while (byte < end) hash = (hash ^ *byte++) * UINT64_C(1099511628211);
        total += hash;
    }
    for (k = 0; k < 4; k++) parts[k] = (trf_real)(total >> 16 * k & 0xFFFF);
    if (sum(s, parts, 4, NULL)) die(s, "cannot add up");
    for (total = 0, k = 0; k < 4; k++) total += (uint64_t)parts[k] << 16 * k;
    return total;
}

/* Divides the layers: of the time, one of the encoder takes two parts, one of the decoder three. */
static int first_layer(int number)
{
    int layer = 0, before = 0, whole = 2 * ENCODER_LAYERS + 3 * DECODER_LAYERS;
    while (layer < LAYERS && before * n_stages / whole < number)
        before += layer++ < ENCODER_LAYERS ? 2 : 3;
    return layer;
}

/* One forward, one backward (1F1B), after as many forward passes as there are stages from here to
   the end. */
static void *run(void *user)
{
    worker *s = (worker *)user;
    int left = n_stages - s->number, ahead = left < n_micros ? left : n_micros, update, m;
    trf_model_options layers;
    trf_config config = trf_config_preset(TRF_TINY);
    trf_step_report report; trf_error err;
    memset(&layers, 0, sizeof layers);
    config.source_vocab = config.target_vocab = 4 + SYMBOLS;
    config.encoder_layers = ENCODER_LAYERS; config.decoder_layers = DECODER_LAYERS;
    config.device.threads = 1;
    layers.first_layer = first_layer(s->number);
    layers.end_layer = first_layer(s->number + 1);
    CHECK(trf_model_create(&s->model, &config, &layers, &err))
    CHECK(trf_trainer_create(&s->trainer, s->model, NULL, &err))
    CHECK(trf_stage_create(&s->stage, s->trainer, ahead, sum, s, &err))
    for (update = 1; update <= UPDATES; update++) {
        s->busy = s->clock = 0;
        for (m = 0; m < n_micros + ahead; m++) {
            if (m >= ahead) pass(s, m % ahead, update, m - ahead, 1);
            if (m < n_micros) pass(s, m % ahead, update, m, 0);
        }
        meet();
        if (update > 1) add_up(s);                      /* the first also gets memory */
        CHECK(trf_trainer_update(s->trainer, &report, &err))
        if (layers.end_layer == LAYERS && update % 5 == 0) printf("update %d  loss %.4f\n", update, report.loss);
    }
    s->hash = hash_weights(s);
    trf_stage_destroy(s->stage); trf_trainer_destroy(s->trainer); trf_model_destroy(s->model);
    return NULL;
}

static int have_bad_sizes(void)
{
    if (n_stages >= 1 && n_stages <= MOST_STAGES && n_micros >= 1 && n_micros <= MOST_MICROS)
        return 0;
    fputs("pipeline takes 1 to 8 stages and 1 to 64 micro-batches\n", stderr);
    return 1;
}

/* Prints what the last stage knows, and trains all layers in this process. */
static int compare(const worker *last)
{
    static worker alone;
    int n = n_stages, equal;
    printf("stages wait %.0f%% of the time; (S - 1) / (M + S - 1) is %.0f%%\n",
           100 * (1 - last->all_busy / last->all), 100.0 * (n - 1) / (n_micros + n - 1));
    puts("all layers in one process:");
    n_stages = 1;
    run(&alone);
    equal = last->hash == alone.hash;
    printf("weights %016" PRIx64 ": %s\n", last->hash, equal ? "the same bits" : "DIFFERENT");
    return !equal;
}

int main(int argc, char **argv)
{
#ifdef PIPELINE_MPI
    static worker own;
    int status = 0, i;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &own.number); MPI_Comm_size(MPI_COMM_WORLD, &n_stages);
    if (argc > 1) n_micros = atoi(argv[1]);
    if (have_bad_sizes()) END_ALL;
    for (i = 0; i < 2 * MOST_MICROS; i++) requests[i] = MPI_REQUEST_NULL;
    run(&own);
    if (own.number == n_stages - 1) status = compare(&own);
    MPI_Finalize();
    return status;
#else
    static worker stages[MOST_STAGES];
    pthread_t threads[MOST_STAGES];
    int i;
    if (argc > 1) n_stages = atoi(argv[1]);
    if (argc > 2) n_micros = atoi(argv[2]);
    if (have_bad_sizes()) return 2;
    for (i = 0; i < n_stages; i++) {
        stages[i].number = i;
        if (pthread_create(&threads[i], NULL, run, &stages[i])) die(&stages[i], "no thread");
    }
    for (i = 0; i < n_stages; i++) pthread_join(threads[i], NULL);
    return compare(&stages[n_stages - 1]);
#endif
}

/* pipeline.c - one encoder-decoder divided by its layers among several stages, which compute
   different micro-batches at the same time. A stage has the weights, gradients and moments of its
   own layers alone. Here stages are threads; to make them processes or machines, change only give,
   take, meet and sum.

   build   cc -O2 -march=native -pthread -I. examples/pipeline.c -o pipeline -lopenblas -lm
   run     ./pipeline             two stages, eight micro-batches an update
           ./pipeline 4 12        four stages, twelve micro-batches
   prints  the loss; what part of the time the stages wait for each other if each has a core of its
           own (the bubble); and whether the weights have the bits of one process. The bubble of S
           stages and M micro-batches is (S - 1) / (M + S - 1) if all passes take equally long */
#define _POSIX_C_SOURCE 199309L
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_STAGES = 8, MOST_MICROS = 64, PAIRS = 8, LENGTH = 16, SYMBOLS = 12, UPDATES = 10 };
enum { ENCODER_LAYERS = 6, DECODER_LAYERS = 4, LAYERS = ENCODER_LAYERS + DECODER_LAYERS };

#define CHECK(call) { if ((call) != TRF_OK) { fprintf(stderr, "%s\n", err.message); exit(2); } }

typedef struct worker {
    int number;
    trf_model *model; trf_trainer *trainer; trf_stage *stage;
    double busy, clock;                         /* seconds of an update: of passes, and with
                                                   waiting */
} worker;

typedef struct parcel {
    trf_real *rows;
    double clock;                               /* when it was sent */
} parcel;

static int n_stages = 2, n_micros = 8;
static worker stages[MOST_STAGES + 1];
static double busy, all;                        /* seconds of all stages and updates */
static parcel boxes[2][MOST_STAGES][MOST_MICROS];       /* behind each stage: rows of each
                                                           micro-batch, and their gradients */
static trf_real *wanted[MOST_STAGES];           /* the numbers that each stage wants summed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static int waiting, meetings;

static void give(parcel *box, trf_real *rows, double clock)
{
    pthread_mutex_lock(&lock);
    box->rows = rows; box->clock = clock;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

static parcel take(parcel *box)
{
    parcel got;
    pthread_mutex_lock(&lock);
    while (!box->rows) pthread_cond_wait(&change, &lock);
    got = *box; box->rows = NULL;
    pthread_mutex_unlock(&lock);
    return got;
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

/* CPU time of this thread: other threads on the same core do not count. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The forward or the backward pass of micro-batch m, whose pairs all stages draw alike. Rows come
   in from one neighbour, and others go out to the other one. */
static void pass(worker *s, int slot, int update, int m, int back)
{
    int32_t ids[PAIRS * LENGTH], lengths[PAIRS], i;
    trf_sequences x = {ids, lengths, PAIRS};
    trf_batch batch = {x, x, 0, {0, 0, 0}};
    uint64_t random = (uint64_t)(update * MOST_MICROS + m);
    int64_t rows[2], d = trf_model_config(s->model)->d_model;
    trf_tensor in, out; trf_error err; double spent;
    for (i = 0; i < PAIRS * LENGTH; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ids[i] = 4 + (int32_t)((random >> 33) % SYMBOLS);
        lengths[i / LENGTH] = LENGTH;
    }
    CHECK(trf_stage_rows(s->stage, &batch, &rows[back], &rows[!back], &err))
    in = trf_tensor_of(NULL, 2, rows[0], d, 1);
    out = trf_tensor_of(NULL, 2, rows[1], d, 1);
    if (rows[0]) {
        parcel got = take(&boxes[back][s->number - !back][m]);
        in.data = got.rows;
        if (got.clock > s->clock) s->clock = got.clock;         /* it has waited */
    }
    if (rows[1]) out.data = (trf_real *)malloc((size_t)(rows[1] * d) * sizeof *out.data);
    spent = -seconds();
    if (back) CHECK(trf_stage_backward(s->stage, slot, &in, &out, NULL, &err))
    else CHECK(trf_stage_forward(s->stage, slot, &batch, &in, &out, &err))
    spent += seconds();
    s->busy += spent; s->clock += spent;
    free(in.data);
    if (rows[1]) give(&boxes[back][s->number - back][m], out.data, s->clock);
}

/* Adds an update to the totals: the time of all passes, and for each stage the time until the last
   one has ended. */
static void add_up(void)
{
    double end = 0;
    int s;
    for (s = 0; s < n_stages; s++) if (stages[s].clock > end) end = stages[s].clock;
    for (s = 0; s < n_stages; s++) { busy += stages[s].busy; all += end; }
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
    int first = first_layer(s->number), end = first_layer(s->number + 1);
    trf_config config = trf_config_tiny();
    trf_step_report report; trf_error err;
    config.source_vocab = config.target_vocab = 4 + SYMBOLS;
    config.encoder_layers = ENCODER_LAYERS; config.decoder_layers = DECODER_LAYERS;
    config.device.threads = 1;
    CHECK(trf_model_create_stage(&s->model, &config, first, end, &err))
    CHECK(trf_trainer_create(&s->trainer, s->model, NULL, &err))
    CHECK(trf_stage_create(&s->stage, s->trainer, ahead, sum, s, &err))
    for (update = 1; update <= UPDATES; update++) {
        s->busy = s->clock = 0;
        for (m = 0; m < n_micros + ahead; m++) {
            if (m >= ahead) pass(s, m % ahead, update, m - ahead, 1);
            if (m < n_micros) pass(s, m % ahead, update, m, 0);
        }
        meet();
        if (s->number == 0 && update > 1) add_up();     /* the first also gets memory */
        CHECK(trf_optimizer_step(s->trainer, &report, &err))
        if (end == LAYERS && update % 5 == 0) printf("update %d  loss %.4f\n", update, report.loss);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST_STAGES];
    worker alone;
    int s, i, n, equal = 1;
    if (argc > 1) n_stages = atoi(argv[1]);
    if (argc > 2) n_micros = atoi(argv[2]);
    if ((n = n_stages) < 1 || n > MOST_STAGES || n_micros < 1 || n_micros > MOST_MICROS)
        return fputs("usage: pipeline [1 to 8 stages [1 to 64 micro-batches]]\n", stderr), 2;
    memset(&alone, 0, sizeof alone);
    for (s = 0; s < n; s++) {
        stages[s].number = s;
        if (pthread_create(&threads[s], NULL, run, &stages[s])) return perror("pipeline"), 2;
    }
    for (s = 0; s < n; s++) pthread_join(threads[s], NULL);
    printf("stages wait %.0f%% of the time; (S - 1) / (M + S - 1) is %.0f%%\n",
           100 * (1 - busy / all), 100.0 * (n - 1) / (n_micros + n - 1));
    puts("all layers in one process:");
    n_stages = 1;
    run(&alone);
    for (s = 0; s < n; s++)
        for (i = 0; i < trf_model_parameter_count(stages[s].model); i++) {
            trf_tensor w = trf_model_parameter(stages[s].model, i);
            trf_tensor v = trf_model_parameter(alone.model,
                                               trf_model_parameter_index(alone.model, w.name));
            equal &= !memcmp(w.data, v.data, (size_t)trf_tensor_count(&w) * sizeof *w.data);
        }
    printf("weights: %s\n", equal ? "the same bits" : "DIFFERENT");
    stages[n] = alone;
    for (s = 0; s <= n; s++) {
        trf_stage_destroy(stages[s].stage); trf_trainer_destroy(stages[s].trainer);
        trf_model_destroy(stages[s].model);
    }
    return !equal;
}

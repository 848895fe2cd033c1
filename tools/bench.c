/* bench.c - training speed: real tokens (source + target) a second, as tools that measure PyTorch count them.

   build   make build/bench
   run     build/bench [SIZE] [THREADS] [ORDER] [STEPS] [SOURCE TARGET]
           SIZE tiny|small|base   ORDER bucketed|random   SOURCE, TARGET: text files, one sentence a line, words between blanks
   prints  one line: median milliseconds a step, real tokens a second, the time of the step's matrix products alone

   Adam, label smoothing 0.1, clipping 1.0, dropout 0.1, vocabulary 10,000, target embedding tied to the projection, batches
   of at most 2,048 tokens a side (longest pair times pairs). Without files sentences of 5 to 25 random words are made. */
#define _POSIX_C_SOURCE 200809L
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <time.h>

enum { VOCAB = 10000, MOST = 100, WARM = 3 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void die(const char *message)
{
    fprintf(stderr, "bench: %s\n", message);
    exit(1);
}

/* Words of one line as ids below VOCAB: a hash is enough to measure speed. Returns their number. */
static int32_t line_ids(char *line, int32_t ids[MOST])
{
    int32_t n = 0;
    char *word = strtok(line, " \t\r\n");
    for (; word && n < MOST; word = strtok(NULL, " \t\r\n")) {
        uint32_t hash = 2166136261u;
        for (; *word; word++) hash = (hash ^ (unsigned char)*word) * 16777619u;
        ids[n++] = 4 + (int32_t)(hash % (VOCAB - 4));
    }
    return n;
}

static void fill_corpus(trf_corpus *corpus, const char *source, const char *target)
{
    static char line[2][65536];
    int32_t ids[2][MOST], n[2], i, k, s;
    trf_error err;
    FILE *f[2] = {NULL, NULL};
    if (source && (!(f[0] = fopen(source, "r")) || !(f[1] = fopen(target, "r")))) die("cannot open the text files");
    for (i = 0; i < 29000; i++) {
        if (f[0] && (!fgets(line[0], sizeof line[0], f[0]) || !fgets(line[1], sizeof line[1], f[1]))) break;
        for (s = 0; s < 2; s++) {
            if (f[0]) { n[s] = line_ids(line[s], ids[s]); continue; }
            n[s] = 5 + rand() % 21;
            for (k = 0; k < n[s]; k++) ids[s][k] = 4 + rand() % (VOCAB - 4);
        }
        if (n[0] > 0 && n[1] > 0 && n[0] < MOST && n[1] < MOST && trf_corpus_add(corpus, ids[0], n[0], ids[1], n[1], &err)) die(err.message);
    }
    for (s = 0; s < 2; s++) if (f[s]) fclose(f[s]);
}

/* The three products of one weight (out, in): forward, input gradient, weight gradient. */
static void products(const trf__run *run, trf__act *x, trf__act *y, trf_real *w, trf_real *g, int64_t rows, int64_t out, int64_t in)
{
    trf__linear_dw dw = trf__dw_of(g, NULL, y, x, rows, out, in, 1);
    trf__mat m = {w, NULL, 0};
    trf__project(run, y, x, m, NULL, rows, out, in);
    trf__project_dx(run, x, y, m, rows, out, in, 0);
    run->backend->linear_dw(run, &dw, 1);
}

/* Zeros of the device: `rows` of `columns` numbers, `bytes` each. */
static void *zeros(const trf__run *run, int64_t rows, int64_t columns, size_t bytes)
{
    void *memory = trf__device_zeroed(run, trf__bytes(rows * columns, bytes));
    if (!memory) die("no memory for the products");
    return memory;
}

/* Seconds of nothing but the products of one step (attention's left out), through the same CBLAS, on single-threaded tiles. */
static double products_alone(const trf_trainer *trainer, const trf_config *c, int64_t source, int64_t target)
{
    const trf__run *run = &trainer->pass.run;
    int64_t d = c->d_model, f = c->d_ff, most = trf__max64(source, target), wide = trf__max64(3 * d, f), i;
    int64_t weights = VOCAB * d + wide * wide;
    size_t act = run->element, real = sizeof(trf_real);
    trf__act *x = (trf__act *)zeros(run, most, wide, act), *y = (trf__act *)zeros(run, most, wide, act), *logits = (trf__act *)zeros(run, 128, VOCAB, act);
    trf_real *w = (trf_real *)zeros(run, 1, weights, real), *g = (trf_real *)zeros(run, 1, weights, real);
    double start = seconds();
    trf__mat m = {w, NULL, 0};
    for (i = 0; i < c->encoder_layers; i++) {
        products(run, x, y, w, g, source, 3 * d, d); products(run, x, y, w, g, source, d, d); products(run, x, y, w, g, source, f, d); products(run, x, y, w, g, source, d, f);
    }
    for (i = 0; i < c->decoder_layers; i++) {
        products(run, x, y, w, g, target, 3 * d, d); products(run, x, y, w, g, target, d, d); products(run, x, y, w, g, target, d, d); products(run, x, y, w, g, source, 2 * d, d);
        products(run, x, y, w, g, target, d, d); products(run, x, y, w, g, target, f, d); products(run, x, y, w, g, target, d, f);
    }
    for (i = 0; i < target; i += 128) {
        int64_t rows = trf__min64(128, target - i), v;
        trf__linear_dw dw = trf__dw_of(g, NULL, logits, x, rows, VOCAB, d, i == 0);
        for (v = 0; v < VOCAB; v += 2000) {         /* tiles for the threads: stripes of the vocabulary */
            m.row = v;
            trf__project(run, logits, x, m, NULL, rows, 2000, d);
        }
        m.row = 0;
        trf__project_dx(run, x, logits, m, rows, VOCAB, d, 0);
        run->backend->linear_dw(run, &dw, 1);
    }
    if (run->backend->sync(run, NULL)) die("the device has failed");
    start = seconds() - start;
    run->backend->free(run, x, trf__bytes(most * wide, act)); run->backend->free(run, y, trf__bytes(most * wide, act));
    run->backend->free(run, w, trf__bytes(weights, real)); run->backend->free(run, g, trf__bytes(weights, real));
    run->backend->free(run, logits, trf__bytes(128 * VOCAB, act));
    return start;
}

int main(int argc, char **argv)
{
    const char *size = argc > 1 ? argv[1] : "tiny", *order = argc > 3 ? argv[3] : "bucketed";
    int threads = argc > 2 ? atoi(argv[2]) : trf_device_default().threads, steps = argc > 4 ? atoi(argv[4]) : 12, i;
    trf_config config = strcmp(size, "base") == 0 ? trf_config_base() : trf_config_tiny();
    trf_train_options training = trf_train_defaults();
    trf_corpus_options data = trf_corpus_defaults();
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus;
    trf_error err;
    double *times, total = 0, floor_time;
    int64_t real = 0, source = 0, target = 0;
    if (threads < 1 || steps < 1 || argc == 6) die("usage: bench [tiny|small|base] [THREADS] [bucketed|random] [STEPS] [SOURCE TARGET]");
    if (strcmp(size, "small") == 0) { config.encoder_layers = config.decoder_layers = 3; config.d_model = 256; config.d_ff = 1024; }
    config.source_vocab = config.target_vocab = VOCAB;
    config.tying = TRF_TIED_DECODER;
    training.threads = threads;
    training.source_tokens = training.target_tokens = 2048;
    training.sequences = 400;
    data.batch_tokens = 2048;
    data.padded_budget = 1;
    data.buckets = strcmp(order, "random") != 0;
    if (trf_corpus_create(&corpus, &data, &err)) die(err.message);
    fill_corpus(corpus, argc > 6 ? argv[5] : NULL, argc > 6 ? argv[6] : NULL);
    if (trf_model_create(&model, &config, &err) || trf_trainer_create(&trainer, model, &training, &err)) die(err.message);
    times = (double *)calloc((size_t)steps, sizeof *times);
    for (i = 0; i < steps + WARM; i++) {
        trf_batch batch;
        trf_step_report report;
        double start;
        if (trf_corpus_next(corpus, &batch, &err)) die(err.message);
        start = seconds();
        if (trf_train_step(trainer, &batch, &report, &err)) die(err.message);
        if (i < WARM) continue;
        times[i - WARM] = seconds() - start;
        total += times[i - WARM];
        real += report.source_tokens + report.target_tokens;
        source += report.source_tokens;
        target += report.target_tokens;
    }
    products_alone(trainer, &config, source / steps, target / steps);
    floor_time = products_alone(trainer, &config, source / steps, target / steps);
    qsort(times, (size_t)steps, sizeof *times, by_value);
    printf("%s, %d threads, %s: median %.1f ms/step, %.0f real tokens/s, products alone %.1f ms (step / products %.2f)\n", size, threads, order,
           1e3 * times[steps / 2], (double)real / total, 1e3 * floor_time, total / steps / floor_time);
    free(times);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    trf_corpus_destroy(corpus);
    return 0;
}

/* bench.c - how fast this machine trains and translates, where the time goes, and what it cannot go below.

   build   make build/bench
   run     build/bench                                      everything, about five minutes
           build/bench train SIZE THREADS [ORDER] [STEPS] [PRODUCTS] [SOURCE TARGET]
           build/bench gpt THREADS [PRODUCTS]               training, a GPT-2 of 6 layers and 256, 8 texts of 256 tokens
           build/bench translate SIZE THREADS BEAM BATCH [PRODUCTS [WEIGHTS [WORKERS]]]
           build/bench generate THREADS [TOKENS [WEIGHTS]]  one sequence, drawn token by token; reading the weights
           build/bench llama FILE SEQUENCES THREADS TOKENS WIDTH LAYERS HEADS FF WEIGHTS
                                                            a packed file of a Llama, made if it is missing: opening,
                                                            drawing
           build/bench lengths SIZE THREADS                 training, the same tokens cut into longer pieces
           build/bench deep SIZE LAYERS RECOMPUTE THREADS   training, LAYERS + LAYERS layers, RECOMPUTE 0 or 1
           build/bench overlap SIZE THREADS MBIT            training while MBIT Mbit/s carry the gradients
           build/bench load FILE [WEIGHTS]                  beside reading it; FILE is made, a base model
           build/bench learn FILE UPDATES THREADS           a tiny model that copies 5 to 60 words
           build/bench file MODEL SENTENCES THREADS BEAM [WEIGHTS]
                                                            translating a file of numbers, one sentence a line
           build/bench encode MODEL SENTENCES TOKENS THREADS [WEIGHTS [PRODUCTS]]
                                                            an encoder, sentences/s in batches of equal length
   SIZE tiny|small|base   ORDER bucketed|random|causal   WEIGHTS full|bf16|int8 (trf_weights)
   PRODUCTS auto|cblas|built-in|bf16x3 (trf_products), or bf16: the precision
   SOURCE, TARGET: text files, one sentence a line, words between blanks
   causal: a decoder-only model of the target side alone, bucketed
   prints  a line a case, with a table of its ops below (-DBENCH_BRIEF leaves the tables out)

   Training: Adam, label smoothing 0.1, clipping 1.0, dropout 0.1, vocabulary 10,000, target embedding tied to the
   projection, batches of at most 2,048 tokens a side (longest pair times pairs); real tokens are source + target, EOS
   included. Without files sentences of 5 to 25 random words are made. The floor is the time of the step's matrix
   products alone, with the step's own shapes, by the better of CBLAS and the built-in product (attention's products are
   left out). WORKERS: so many translators share a model and a batch, each with THREADS threads and in a thread of its
   own. Translating: random weights, sources of 20 words, exactly 20 target words each; vocabulary 10,000 (tiny, small)
   or 32,000. */
#define _POSIX_C_SOURCE 200809L
#define TRF__TEST_BACKEND timed_backend
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VOCAB = 10000, MOST = 100, WARM = 3, WORDS = 20 };

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

static size_t model_memory(const trf_config *config)
{
    trf_model_size size;
    return trf_config_check(config, &size, NULL) ? 0 : size.memory;
}

/* -----------------------------------------------------------------------------------------------
   The CPU, each of whose ops is timed. While a step is kept, its products' shapes are too. */

typedef enum op_name {
#define X(name, type) OP_##name,
    TRF__OPS(X)
#undef X
    OP_linear_dw, OPS
} op_name;
static const char *op_names[OPS] = {
#define X(name, type) #name,
    TRF__OPS(X)
#undef X
    "linear_dw" };
typedef struct shape { op_name op; int64_t rows, out, in; } shape;
enum { SHAPES = 4096 };
static struct {
    const trf__backend *cpu;
    double time[OPS];
    int64_t calls[OPS];
    shape shapes[SHAPES];
    int n_shapes, stopped;
} timed;

static void keep(op_name op, int64_t rows, int64_t out, int64_t in)
{
    shape s;
    s.op = op; s.rows = rows; s.out = out; s.in = in;
    if (timed.stopped) return;
    if (timed.n_shapes == SHAPES) die("too many products in a step");
    timed.shapes[timed.n_shapes++] = s;
}
static void keep_linear(const trf__linear *j) { keep(OP_linear, j->rows, j->out, j->in); }
static void keep_linear_dx(const trf__linear_dx *j) { keep(OP_linear_dx, j->rows, j->out, j->in); }
static void keep_cross_entropy(const trf__loss *j) { keep(OP_cross_entropy, j->rows, j->vocab, j->d); }

static void timed_end(op_name op, double start)
{
    if (timed.stopped) return;
    timed.time[op] += seconds() - start;
    timed.calls[op]++;
}
#define X(name, type) \
static void timed_##name(const trf__run *run, const type *job) \
{ \
    double start = seconds(); \
    timed.cpu->name(run, job); \
    timed_end(OP_##name, start); \
    if (OP_##name == OP_linear) keep_linear((const trf__linear *)(const void *)job); \
    if (OP_##name == OP_linear_dx) keep_linear_dx((const trf__linear_dx *)(const void *)job); \
    if (OP_##name == OP_cross_entropy) keep_cross_entropy((const trf__loss *)(const void *)job); \
}
TRF__OPS(X)
#undef X
static void timed_linear_dw(const trf__run *run, const trf__linear_dw *products, int n)
{
    double start = seconds();
    int i;
    timed.cpu->linear_dw(run, products, n);
    timed_end(OP_linear_dw, start);
    for (i = 0; i < n; i++) keep(OP_linear_dw, products[i].rows, products[i].out, products[i].in);
}

static const trf__backend *timed_backend(const trf__backend *cpu)
{
    static trf__backend table;
    if (!timed.cpu) {
        timed.cpu = cpu;
        table = *cpu;
#define X(name, type) table.name = timed_##name;
        TRF__OPS(X)
#undef X
        table.linear_dw = timed_linear_dw;
    }
    return &table;
}

static void timed_reset(void)
{
    memset(timed.time, 0, sizeof timed.time);
    memset(timed.calls, 0, sizeof timed.calls);
    timed.n_shapes = timed.stopped = 0;
}

/* Every op's share of `total` seconds, in which `steps` steps were made; what is left was spent between ops. */
static void print_ops(double total, int64_t steps)
{
#if !defined(BENCH_BRIEF)
    double rest = total;
    int i, k, most;
    char done[OPS] = {0};
    for (k = 0; k < OPS; k++) {
        for (most = -1, i = 0; i < OPS; i++)
            if (!done[i] && timed.calls[i] && (most < 0 || timed.time[i] > timed.time[most])) most = i;
        if (most < 0) break;
        done[most] = 1;
        rest -= timed.time[most];
        if (timed.time[most] < 1e-3 * total) continue;
        printf("    %-20s %9.3f ms %5.1f %%  %6.1f calls\n", op_names[most], 1e3 * timed.time[most] / (double)steps,
               100 * timed.time[most] / total, (double)timed.calls[most] / (double)steps);
    }
    printf("    %-20s %9.3f ms %5.1f %%\n", "between ops", 1e3 * rest / (double)steps, 100 * rest / total);
#else
    (void)total; (void)steps; (void)op_names;
#endif
}

/* -----------------------------------------------------------------------------------------------
   Training. */

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

static void fill_corpus(trf_corpus *corpus, const char *source, const char *target, int causal)
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
        if (n[0] > 0 && n[1] > 0 && n[0] < MOST && n[1] < MOST &&
            trf_corpus_add(corpus, ids[0], causal ? 0 : n[0], ids[1], n[1], &err)) die(err.message);
    }
    for (s = 0; s < 2; s++) if (f[s]) fclose(f[s]);
}

/* The vocabulary's three products, as many rows at a time as stay in a cache. */
static void vocabulary_products(const trf__run *run, const shape *s, trf__act *x, trf__act *y, trf_real *w, trf_real *g)
{
    enum { ROWS = 128 };
    trf__mat m = {w, NULL, 0, TRF__FLOAT32};
    int64_t i;
    for (i = 0; i < s->rows; i += ROWS) {
        int64_t rows = trf__min64(ROWS, s->rows - i);
        trf__linear_dw dw = trf__dw_of(g, NULL, y, x, rows, s->out, s->in, 0);
        trf__project_rows(run, y, x, 0, m, NULL, rows, s->out, s->in);
        trf__project_dx(run, x, y, m, rows, s->out, s->in, 0);
        run->backend->linear_dw(run, &dw, 1);
    }
}

/* Seconds of nothing but the products that have been kept, by one of the two. */
static double products_alone(int threads, trf_products by, const shape *shapes, int n)
{
    trf_device on = trf_device_default();
    trf_hooks hooks;
    trf__run run;
    trf_error err;
    int64_t most = 1, weights = 1, i;
    trf__act *x, *y;
    trf_real *w, *g;
    double start, best = HUGE_VAL;
    int again;
    on.threads = threads;
    on.products = by;
    TRF__ZERO(hooks);
    run = trf__run_on(&on, &hooks);
    for (i = 0; i < n; i++) {
        most = trf__max64(most,
            shapes[i].rows * trf__max64(shapes[i].in, shapes[i].op == OP_cross_entropy ? 0 : shapes[i].out));
        most = trf__max64(most, 128 * shapes[i].out);
        weights = trf__max64(weights, trf__round_up(shapes[i].in, 16) * trf__round_up(shapes[i].out, 16));
    }
    if (run.backend->open(&run, &err) || run.backend->reserve(&run, 0, 1, weights, 0, &err)) die(err.message);
    x = (trf__act *)trf__device_zeroed(&run, trf__bytes(most, sizeof(trf_real)));
    y = (trf__act *)trf__device_zeroed(&run, trf__bytes(most, sizeof(trf_real)));
    w = (trf_real *)trf__device_zeroed(&run, trf__bytes(weights, sizeof(trf_real)));
    g = (trf_real *)trf__device_zeroed(&run, trf__bytes(weights, sizeof(trf_real)));
    if (!x || !y || !w || !g) die("no memory for the products");
    for (again = 0; again < 3; again++) {
        start = seconds();
        for (i = 0; i < n; i++) {
            const shape *s = &shapes[i];
            trf__mat m = {w, NULL, 0, TRF__FLOAT32};
            trf__linear_dw dw = trf__dw_of(g, NULL, y, x, s->rows, s->out, s->in, 1);
            if (s->op == OP_linear)
                trf__project_rows(&run, y, x, 0, m, NULL, s->rows, s->out, s->in);
            if (s->op == OP_linear_dx) trf__project_dx(&run, x, y, m, s->rows, s->out, s->in, 0);
            if (s->op == OP_linear_dw) run.backend->linear_dw(&run, &dw, 1);
            if (s->op == OP_cross_entropy) vocabulary_products(&run, s, x, y, w, g);
        }
        start = seconds() - start;
        if (start < best) best = start;
    }
    run.backend->release(&run, x, trf__bytes(most, sizeof(trf_real)));
    run.backend->release(&run, y, trf__bytes(most, sizeof(trf_real)));
    run.backend->release(&run, w, trf__bytes(weights, sizeof(trf_real)));
    run.backend->release(&run, g, trf__bytes(weights, sizeof(trf_real)));
    run.backend->close(&run);
    return best;
}

/* Everything that costs time is on. */
static trf_train_options training_options(void)
{
    trf_train_options training = trf_train_defaults();
    training.label_smoothing = 0.1;
    trf_train_set_dropout(&training, 0.1);
    return training;
}

/* bf16: with that precision, and products as the library chooses them. */
typedef struct manner { trf_products products; trf_precision precision; } manner;
static const manner AUTO = {TRF_PRODUCTS_AUTO, TRF_PRECISION_FLOAT32};

static trf_config config_of(const char *size, manner how)
{
    trf_config config = strcmp(size, "base") == 0 ? trf_config_preset(TRF_BASE) : trf_config_preset(TRF_TINY);
    if (strcmp(size, "small") == 0) {
        config.encoder_layers = config.decoder_layers = 3;
        config.d_model = 256;
        config.d_ff = 1024;
    } else if (strcmp(size, "base") != 0 && strcmp(size, "tiny") != 0) die("SIZE is tiny, small or base");
    config.norm_place = TRF_POST_NORM;
    config.device.products = how.products;
    config.device.precision = how.precision;
    return config;
}

typedef struct step_times {
    double *each, total;                        /* seconds */
    int64_t tokens;                             /* of all steps, without padding */
    shape shapes[SHAPES];                       /* the products of the step in the middle */
    int n_shapes;
    double middle;                              /* the seconds and the tokens of that step */
    int64_t middle_tokens;
} step_times;

static void time_steps(trf_trainer *trainer, trf_corpus *corpus, int steps, step_times *to)
{
    trf_error err;
    int i;
    to->each = (double *)calloc((size_t)steps, sizeof *to->each);
    if (!to->each) die("no memory for the times");
    for (i = 0; i < steps + WARM; i++) {
        trf_batch batch;
        trf_step_report report;
        double start;
        if (trf_corpus_next(corpus, &batch, &err)) die(err.message);
        if (i == WARM) timed_reset();
        start = seconds();
        if (trf_trainer_step(trainer, &batch, &report, &err)) die(err.message);
        if (i < WARM) { timed.n_shapes = 0; continue; }
        to->each[i - WARM] = seconds() - start;
        to->total += to->each[i - WARM];
        to->tokens += report.source_tokens + report.target_tokens;
        if (i - WARM == steps / 2) {            /* the step whose products are the floor */
            memcpy(to->shapes, timed.shapes, (size_t)timed.n_shapes * sizeof *to->shapes);
            to->n_shapes = timed.n_shapes;
            to->middle = to->each[i - WARM];
            to->middle_tokens = report.source_tokens + report.target_tokens;
        }
        timed.n_shapes = 0;
    }
}

static void print_steps(const char *size, int threads, const char *order, int steps, const step_times *of,
                        double planned)
{
    struct rusage used;
    double blas, own;
    getrusage(RUSAGE_SELF, &used);
    timed.stopped = 1;
    blas = products_alone(threads, TRF_PRODUCTS_CBLAS, of->shapes, of->n_shapes);
    own = products_alone(threads, TRF_PRODUCTS_BUILT_IN, of->shapes, of->n_shapes);
    qsort(of->each, (size_t)steps, sizeof *of->each, by_value);
    printf("train %s, %d threads, %s: %.0f real tokens/s, median %.1f ms/step, fastest %.1f\n", size, threads, order,
           (double)of->tokens / of->total, 1e3 * of->each[steps / 2], 1e3 * of->each[0]);
    printf("    a step of %d tokens %.1f ms, its products through CBLAS %.1f (step / products %.2f), built-in %.1f (%.2f); step / floor %.2f\n",
           (int)of->middle_tokens, 1e3 * of->middle, 1e3 * blas, of->middle / blas, 1e3 * own, of->middle / own,
           of->middle / (blas < own ? blas : own));
    printf("    planned memory %.1f MB, most that the process had so far %.1f MB\n", 1e-6 * planned,
           1.024e-3 * (double)used.ru_maxrss);
    print_ops(of->total, steps);
}

static void bench_training(const char *size, int threads, const char *order, int steps, manner how,
                           const char *source, const char *target)
{
    static step_times times;
    trf_config config = config_of(size, how);
    trf_train_options training = training_options();
    trf_corpus_options data = trf_corpus_defaults();
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus;
    trf_error err;
    int causal = strcmp(order, "causal") == 0;
    config.source_vocab = config.target_vocab = VOCAB;
    config.tying = TRF_TIED_DECODER;
    if (causal) {
        config.kind = TRF_DECODER_ONLY;
        config.encoder_layers = 0;
    }
    training.threads = threads;
    training.source_tokens = training.target_tokens = 2048;
    training.sequences = 400;
    data.batch_tokens = 2048;
    data.padded_budget = 1;
    data.buckets = strcmp(order, "random") != 0;
    if (trf_corpus_create(&corpus, &data, &err)) die(err.message);
    fill_corpus(corpus, source, target, causal);
    if (trf_model_create(&model, &config, NULL, &err) ||
        trf_trainer_create(&trainer, model, &training, &err)) die(err.message);
    memset(&times, 0, sizeof times);
    time_steps(trainer, corpus, steps, &times);
    print_steps(size, threads, order, steps, &times,
                (double)(model_memory(&config) + trf_trainer_memory(&config, &training, NULL)));
    free(times.each);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    trf_corpus_destroy(corpus);
}

/* The model of tools/bench/bench_gpt.py: the fastest of as many steps as fit into three seconds. */
static void bench_gpt(int threads, manner how)
{
    enum { TEXTS = 8, TOKENS = 256 };
    trf_config c = config_of("small", how);
    trf_train_options training = trf_train_defaults();
    trf_model *model;
    trf_trainer *trainer;
    trf_step_report report;
    trf_error err;
    int32_t ids[TEXTS * TOKENS], lengths[TEXTS];
    trf_batch batch = {{NULL, NULL, 0}, {NULL, NULL, 0}, 0, {0, 0, 0}};
    double best = HUGE_VAL, total = 0;
    int i, steps;
    c.kind = TRF_DECODER_ONLY;
    c.encoder_layers = 0; c.decoder_layers = 6;
    c.n_heads = 4;
    c.target_vocab = VOCAB;
    c.tying = TRF_TIED_DECODER;
    c.norm_place = TRF_PRE_NORM;
    c.positions = TRF_POSITIONS_LEARNED;
    c.max_length = TOKENS;
    c.activation = TRF_GELU_TANH;
    c.generator_bias = c.scale_embeddings = c.target_eos = 0;
    trf_train_set_dropout(&training, 0);
    training.threads = threads;
    training.source_tokens = training.target_tokens = TEXTS * TOKENS;
    training.sequences = TEXTS;
    for (i = 0; i < TEXTS; i++) lengths[i] = TOKENS;
    for (i = 0; i < TEXTS * TOKENS; i++) ids[i] = 4 + rand() % (VOCAB - 4);
    batch.target.ids = ids; batch.target.lengths = lengths; batch.target.count = TEXTS;
    if (trf_model_create(&model, &c, NULL, &err) || trf_trainer_create(&trainer, model, &training, &err)) die(err.message);
    for (steps = -WARM; steps < 4 || total < 3; steps++) {
        double start = seconds();
        if (trf_trainer_step(trainer, &batch, &report, &err)) die(err.message);
        start = seconds() - start;
        timed.n_shapes = 0;
        if (steps < 0) { timed_reset(); continue; }
        total += start;
        best = fmin(best, start);
    }
    printf("gpt, %d threads: %.0f tokens/s\n", threads, TEXTS * TOKENS / best);
    print_ops(total, steps);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Translating. */

/* Its part of a batch. */
typedef struct sharer { pthread_t thread; trf_translator *translator; trf_sequences sources; } sharer;
static void *translate_part(void *part)
{
    sharer *w = (sharer *)part;
    trf_error err;
    if (trf_translate(w->translator, &w->sources, NULL, &err)) die(err.message);
    return NULL;
}

static void translate_parts(sharer *workers, int n)
{
    int i;
    for (i = 1; i < n; i++)
        if (pthread_create(&workers[i].thread, NULL, translate_part, &workers[i])) die("no thread");
    translate_part(&workers[0]);
    for (i = 1; i < n; i++) if (pthread_join(workers[i].thread, NULL)) die("a thread is lost");
}

static void bench_translating(const char *size, int threads, int beam, int batch, manner how, trf_weights weights,
                              int n)
{
    trf_config config = config_of(size, how);
    trf_search search = trf_search_defaults();
    trf_model *model;
    trf_error err;
    sharer *workers = (sharer *)calloc((size_t)n, sizeof *workers);
    int32_t *ids = (int32_t *)malloc(sizeof *ids * (size_t)batch * WORDS), *lengths = (int32_t *)malloc(sizeof *lengths * (size_t)batch);
    double best = HUGE_VAL, total = 0, start;
    int i, again, calls = 0;
    if (!ids || !lengths || !workers) die("no memory for the sources");
    config.source_vocab = config.target_vocab = strcmp(size, "base") == 0 ? 32000 : VOCAB;
    search.threads = threads;
    search.weights = weights;
    search.beam = beam;
    search.min_length = WORDS;
    search.max_length_a = 0;
    search.max_length_b = WORDS;
    search.max_sentences = batch;
    timed.stopped = n > 1;
    for (i = 0; i < batch * WORDS; i++) ids[i] = 4 + rand() % (config.source_vocab - 4);
    for (i = 0; i < batch; i++) lengths[i] = WORDS;
    if (trf_model_create(&model, &config, NULL, &err)) die(err.message);
    if (n > 1 && trf_model_pack(model, weights, &err)) die(err.message);
    for (i = 0; i < n; i++) {
        int first = batch * i / n;
        workers[i].sources.ids = ids + first * WORDS;
        workers[i].sources.lengths = lengths;
        workers[i].sources.count = batch * (i + 1) / n - first;
        if (trf_translator_create(&workers[i].translator, model, &search, &err)) die(err.message);
    }
    translate_parts(workers, n);
    if (trf_translator_answer(workers[0].translator, 0, 0)->n != WORDS) die("an answer has another length");
    if (n == 1) timed_reset();
    for (again = 0; again < 4 || (total < 2 && again < 200); again++) {
        start = seconds();
        translate_parts(workers, n);
        start = seconds() - start;
        timed.n_shapes = 0;
        total += start;
        calls++;
        if (start < best) best = start;
    }
    printf("translate %s, %d threads, beam %d, batch %d%s: %.0f target tokens/s\n", size, threads, beam, batch,
           weights == TRF_WEIGHTS_INT8 ? ", int8" : weights == TRF_WEIGHTS_BF16 ? ", bf16" : "", batch * WORDS / best);
    if (n == 1) print_ops(total, (int64_t)calls * WORDS);
    for (i = 0; i < n; i++) trf_translator_destroy(workers[i].translator);
    trf_model_destroy(model);
    free(workers);
    free(ids);
    free(lengths);
}

/* -----------------------------------------------------------------------------------------------
   A file of sentences: a model that has learnt when to end, and answers as long as their sources. */

enum { COPY_WORDS = 500, COPY_LEAST = 5, COPY_MOST = 60, COPY_TOKENS = 2048 };

static void bench_learning(const char *path, int updates, int threads)
{
    trf_config config = config_of("tiny", AUTO);
    trf_train_options training = training_options();
    trf_model *model;
    trf_trainer *trainer;
    trf_step_report report;
    trf_error err;
    static int32_t ids[COPY_TOKENS], lengths[COPY_TOKENS];
    trf_batch batch;
    int step, i;
    config.source_vocab = config.target_vocab = VOCAB;
    config.max_length = 256;
    timed.stopped = 1;
    training.threads = threads;
    training.warmup = 400;
    training.source_tokens = training.target_tokens = 2 * COPY_TOKENS;
    trf_train_set_dropout(&training, 0);
    if (trf_model_create(&model, &config, NULL, &err) ||
        trf_trainer_create(&trainer, model, &training, &err)) die(err.message);
    for (step = 1; step <= updates; step++) {
        int32_t n = 0, tokens = 0;
        for (;;) {
            int32_t length = COPY_LEAST + rand() % (COPY_MOST - COPY_LEAST + 1);
            if (tokens + length > COPY_TOKENS) break;
            for (i = 0; i < length; i++) ids[tokens++] = 4 + rand() % COPY_WORDS;
            lengths[n++] = length;
        }
        TRF__ZERO(batch);
        batch.source.ids = batch.target.ids = ids;
        batch.source.lengths = batch.target.lengths = lengths;
        batch.source.count = batch.target.count = n;
        if (trf_trainer_step(trainer, &batch, &report, &err)) die(err.message);
        if (step % 100 == 0) fprintf(stderr, "update %d, loss %.3f, right %.3f\n", step, report.loss, report.accuracy);
    }
    if (trf_model_save(model, path, NULL, &err)) die(err.message);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

static void bench_file(const char *path, const char *sentences, int threads, int beam, trf_weights weights)
{
    enum { LINES = 100000 };
    static int32_t lengths[LINES];
    int32_t *ids = (int32_t *)malloc(sizeof *ids * LINES * 8);
    trf_search search = trf_search_defaults();
    trf_model *model;
    trf_translator *translator;
    trf_sequences sources;
    trf_error err;
    FILE *f = fopen(sentences, "r");
    char line[4096], *word;
    int64_t n = 0, tokens = 0;
    double best = HUGE_VAL, start;
    int again, i;
    sources.count = 0;
    timed.stopped = 1;
    if (!f || !ids) die("cannot open the sentences");
    for (; fgets(line, sizeof line, f) && sources.count < LINES; sources.count++) {
        int64_t begin = n;
        for (word = strtok(line, " \r\n"); word &&
             n < LINES * 8; word = strtok(NULL, " \r\n")) ids[n++] = (int32_t)atoi(word);
        lengths[sources.count] = (int32_t)(n - begin);
    }
    fclose(f);
    sources.ids = ids;
    sources.lengths = lengths;
    trf_search_set_rule(&search, TRF_SEARCH_CTRANSLATE2);
    search.weights = weights;
    search.threads = threads;
    search.beam = beam;
    search.max_length_a = 0;
    search.max_length_b = 100;
    if (trf_model_load(&model, path, NULL, &err) ||
        trf_translator_create(&translator, model, &search, &err)) die(err.message);
    for (again = 0; again < 3; again++) {
        start = seconds();
        if (trf_translate(translator, &sources, NULL, &err)) die(err.message);
        start = seconds() - start;
        if (start < best) best = start;
    }
    for (i = 0; i < sources.count; i++) tokens += trf_translator_answer(translator, i, 0)->n;
    printf("file of %d sentences, %d threads, beam %d: %.0f target tokens/s, %lld tokens\n", sources.count, threads,
           beam,
           (double)tokens / best, (long long)tokens);
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    free(ids);
}

/* -----------------------------------------------------------------------------------------------
   What must not grow with the length of a sequence, and the first answer. */

/* 2,048 tokens a side in sequences of `length`, EOS included: tokens/s with and without attention's own ops. */
static void bench_lengths(const char *size, int threads)
{
    enum { TOKENS = 2048, STEPS = 6 };
    static int32_t ids[TOKENS], lengths[TOKENS];
    int length, i, step;
    for (i = 0; i < TOKENS; i++) ids[i] = 4 + rand() % (VOCAB - 4);
    for (length = 8; length <= TOKENS; length *= 4) {
        trf_config config = config_of(size, AUTO);
        trf_train_options training = training_options();
        trf_model *model;
        trf_trainer *trainer;
        trf_batch batch;
        trf_error err;
        double total = HUGE_VAL, attention = 0;
        config.source_vocab = config.target_vocab = VOCAB;
        config.max_length = TOKENS;
        training.threads = threads;
        training.source_tokens = training.target_tokens = TOKENS;
        training.sequences = TOKENS / length;
        training.longest = length;
        TRF__ZERO(batch);
        for (i = 0; i < TOKENS / length; i++) lengths[i] = length - 1;
        batch.source.ids = batch.target.ids = ids;
        batch.source.lengths = batch.target.lengths = lengths;
        batch.source.count = batch.target.count = TOKENS / length;
        if (trf_model_create(&model, &config, NULL, &err) ||
            trf_trainer_create(&trainer, model, &training, &err)) die(err.message);
        for (step = 0; step < STEPS; step++) {
            double start;
            timed_reset();
            start = seconds();
            if (trf_trainer_step(trainer, &batch, NULL, &err)) die(err.message);
            start = seconds() - start;
            if (start >= total) continue;
            total = start;
            attention = timed.time[OP_attention] + timed.time[OP_attention_gradient];
        }
        printf("length %4d, %s, %d threads: %.0f real tokens/s, without attention %.1f ms of %.1f, memory %.1f MB (%.1f planned)\n",
               length, size, threads, 2 * TOKENS / total, 1e3 * (total - attention), 1e3 * total,
               1e-6 * (double)(trf_trainer_memory(&config, &training, NULL) - model_memory(&config)),
               1e-6 * (double)trf_trainer_memory(&config, &training, NULL));
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
    }
}

/* Pairs of random words, `tokens` a side with EOS, `length` in each sentence. */
static trf_batch random_pairs(int32_t *ids, int32_t *lengths, int tokens, int length)
{
    trf_batch batch;
    int i;
    for (i = 0; i < tokens; i++) ids[i] = 4 + rand() % (VOCAB - 4);
    for (i = 0; i < tokens / length; i++) lengths[i] = length - 1;
    TRF__ZERO(batch);
    batch.source.ids = batch.target.ids = ids;
    batch.source.lengths = batch.target.lengths = lengths;
    batch.source.count = batch.target.count = tokens / length;
    return batch;
}

/* 2,048 tokens a side in sentences of 32, pre-norm: memory and the fastest of six steps, of wall and of processor time.
   */
static void bench_deep(const char *size, int layers, int recompute, int threads)
{
    enum { TOKENS = 2048, LENGTH = 32, STEPS = 6 };
    static int32_t ids[TOKENS], lengths[TOKENS / LENGTH];
    trf_config config = config_of(size, AUTO);
    trf_train_options training = training_options();
    trf_model *model;
    trf_trainer *trainer;
    trf_batch batch;
    trf_error err;
    struct rusage used;
    double best = HUGE_VAL, best_work = HUGE_VAL, start;
    clock_t work;
    int i;
    config.encoder_layers = config.decoder_layers = layers;
    config.norm_place = TRF_PRE_NORM;
    config.source_vocab = config.target_vocab = VOCAB;
    timed.stopped = 1;
    training.threads = threads;
    training.source_tokens = training.target_tokens = TOKENS;
    training.sequences = TOKENS / LENGTH;
    training.longest = LENGTH;
    training.recompute = recompute;
    batch = random_pairs(ids, lengths, TOKENS, LENGTH);
    if (trf_model_create(&model, &config, NULL, &err) ||
        trf_trainer_create(&trainer, model, &training, &err)) die(err.message);
    for (i = 0; i < STEPS; i++) {
        start = seconds();
        work = clock();
        if (trf_trainer_step(trainer, &batch, NULL, &err)) die(err.message);
        work = clock() - work;
        start = seconds() - start;
        if (start < best) best = start;
        if ((double)work / CLOCKS_PER_SEC < best_work) best_work = (double)work / CLOCKS_PER_SEC;
    }
    getrusage(RUSAGE_SELF, &used);
    printf("%s, %d + %d layers, recompute %d, %d threads: %.0f ms a step (%.0f of processors), planned %.1f MB, of which %.1f for "
           "weights, gradients and moments, most that the process had %.1f MB\n", size, layers, layers, recompute, threads, 1e3 * best,
           1e3 * best_work, 1e-6 * (double)(model_memory(&config) + trf_trainer_memory(&config, &training, NULL)),
           4e-6 * (double)model_memory(&config), 1.024e-3 * (double)used.ru_maxrss);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

/* A clock in place of a network: each slice of gradients occupies it as long as its bytes would, as if two ranks added
   them up. at_once: only all_reduce_end waits for it. */
typedef struct network {
    double bytes_per_second, free_at, sent;     /* free_at: when it has sent all that it was given */
    int at_once;
} network;

static void wait_until(double time)
{
    struct timespec left;
    double wait = time - seconds();
    if (wait <= 0) return;
    left.tv_sec = (time_t)wait;
    left.tv_nsec = (long)(1e9 * (wait - (double)left.tv_sec));
    nanosleep(&left, NULL);
}

static int send_slice(void *user, trf_real *gradients, size_t count, void *stream)
{
    network *net = (network *)user;
    double bytes = (double)(count * sizeof *gradients), now = seconds();
    (void)stream;
    net->sent += bytes;
    net->free_at = (net->free_at > now ? net->free_at : now) + bytes / net->bytes_per_second;
    if (!net->at_once) wait_until(net->free_at);
    return 0;
}

static int end_slices(void *user)
{
    wait_until(((network *)user)->free_at);
    return 0;
}

/* The fastest of seven steps: without a network, with one that each slice waits for, and with one that sends at once.
   */
static void bench_overlap(const char *size, int threads, int mbit)
{
    enum { TOKENS = 2048, LENGTH = 32, STEPS = 7, WAYS = 3 };
    static int32_t ids[TOKENS], lengths[TOKENS / LENGTH];
    trf_config config = config_of(size, AUTO);
    trf_train_options training = training_options();
    double best[WAYS], start, bytes = 0;
    trf_model *model;
    trf_trainer *trainer;
    trf_batch batch;
    trf_error err;
    int way, i;
    config.source_vocab = config.target_vocab = VOCAB;
    timed.stopped = 1;
    training.threads = threads;
    training.source_tokens = training.target_tokens = TOKENS;
    training.sequences = TOKENS / LENGTH;
    batch = random_pairs(ids, lengths, TOKENS, LENGTH);
    for (way = 0; way < WAYS; way++) {
        network net;
        memset(&net, 0, sizeof net);
        net.bytes_per_second = mbit * 1e6 / 8;
        net.at_once = way == 2;
        training.all_reduce = way ? send_slice : NULL;
        training.all_reduce_end = way ? end_slices : NULL;
        training.user = &net;
        best[way] = HUGE_VAL;
        if (trf_model_create(&model, &config, NULL, &err) ||
            trf_trainer_create(&trainer, model, &training, &err)) die(err.message);
        for (i = 0; i < STEPS; i++) {
            start = seconds();
            if (trf_trainer_step(trainer, &batch, NULL, &err)) die(err.message);
            start = seconds() - start;
            if (start < best[way]) best[way] = start;
        }
        bytes = net.sent / STEPS;
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
    }
    printf("overlap %s, %d threads: a step takes %.0f ms, its %.1f MB of gradients %.0f ms on %d Mbit/s; one after the other %.0f ms, "
           "at once %.0f ms\n", size, threads, 1e3 * best[0], 1e-6 * bytes, 8e-3 * bytes / mbit, mbit, 1e3 * best[1], 1e3 * best[2]);
}

static void bench_loading(const char *path, trf_weights weights)
{
    trf_config config = config_of("base", AUTO);
    trf_search search = trf_search_defaults();
    trf_model *model;
    trf_translator *translator;
    trf_error err;
    double best[4] = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL}, now[4];
    int32_t source[WORDS], n = WORDS;
    trf_sequences one = {source, &n, 1};
    struct rusage used;
    trf_load_options load = trf_load_defaults();
    long size = 0;
    int again, i;
    load.weights = search.weights = weights;
    config.source_vocab = config.target_vocab = 32000;
    timed.stopped = 1;
    /* another process makes the file: the memory of its floats would count as ours */
    if (fork() == 0) {
        trf_save_options save = {weights, NULL, 0, NULL};
        if (trf_model_create(&model, &config, NULL, &err) || trf_model_save(model, path, &save, &err)) die(err.message);
        _exit(0);
    }
    if (wait(&i) < 0 || i) die("no file was made");
    for (i = 0; i < WORDS; i++) source[i] = 4 + i;
    for (again = 0; again < 5; again++) {
        FILE *f = fopen(path, "rb");
        long bytes;
        char *memory;
        trf_hooks plain = {0};
        if (!f || fseek(f, 0, SEEK_END) || (bytes = ftell(f)) < 0 || fseek(f, 0, SEEK_SET)) die("cannot read the file");
        now[0] = seconds();
        memory = (char *)trf__alloc(&plain, (size_t)bytes);         /* in as large pages as a model's */
        if (!memory || fread(memory, 1, (size_t)bytes, f) != (size_t)bytes) die("cannot read the file");
        now[1] = seconds();
        fclose(f);
        size = bytes;
        trf__free(&plain, memory, (size_t)bytes);
        if (now[1] - now[0] < best[0]) best[0] = now[1] - now[0];
        now[0] = seconds();
        if (trf_model_load(&model, path, &load, &err)) die(err.message);
        now[1] = seconds();
        if (trf_translator_create(&translator, model, &search, &err)) die(err.message);
        now[2] = seconds();
        if (trf_translate(translator, &one, NULL, &err)) die(err.message);
        now[3] = seconds();
        for (i = 0; i < 3; i++) if (now[i + 1] - now[i] < best[i + 1]) best[i + 1] = now[i + 1] - now[i];
        trf_translator_destroy(translator);
        trf_model_destroy(model);
    }
    getrusage(RUSAGE_SELF, &used);
    printf("first answer of a base model of %.1f MB: reading the file %.1f ms, trf_model_load %.1f (%.2f of it), translator %.1f, sentence %.1f\n",
           1e-6 * (double)size, 1e3 * best[0], 1e3 * best[1], best[1] / best[0], 1e3 * best[2], 1e3 * best[3]);
    printf("    model %.1f MB, translator %.1f MB planned, most that the process had %.1f MB\n",
           1e-6 * (double)(weights ? trf_packed_memory(&config, weights, NULL, NULL) : model_memory(&config)),
           1e-6 * (double)trf_translator_memory(&config, &search, 1, WORDS, NULL), 1.024e-3 * (double)used.ru_maxrss);
}

/* One of READERS parts. */
enum { READERS = 64 };
typedef struct reading { const float *numbers; int64_t n; float sums[READERS]; } reading;
static void read_tile(const trf__run *run, const void *job, int64_t tile, int worker)
{
    reading *r = (reading *)(uintptr_t)job;
    int64_t i, each = r->n / 256 / READERS;
    float sum = 0;
    (void)run; (void)worker;
    for (i = tile * each; i < (tile + 1) * each; i++) {
        trf__v16 part = trf__load(r->numbers + 256 * i);
        int k;
        for (k = 1; k < 16; k++) part = trf__add(part, trf__load(r->numbers + 256 * i + 16 * k));
        sum += trf__sum(part);
    }
    r->sums[tile] = sum;
}

/* How fast a generator's threads read n numbers again and again, as weights are read, bytes a second: the best of some
   passes. */
static double reading_speed(const trf__run *run, int64_t n)
{
    trf_hooks plain = {0};
    float *numbers = (float *)trf__alloc(&plain, (size_t)n * sizeof *numbers);
    double best = 1e9;
    reading r;
    int64_t i, pass;
    if (!numbers) die("no memory to read");
    for (i = 0; i < n; i++) numbers[i] = (float)(i % 7);
    r.numbers = numbers;
    r.n = n;
    for (pass = 0; pass < 40; pass++) {
        double start = seconds();
        trf__tiles(run, READERS, read_tile, &r);
        start = seconds() - start;
        if (start < best) best = start;
    }
    for (i = 0; i < READERS; i++) if (!(r.sums[i] > 0)) die("nothing was read");
    trf__free(&plain, numbers, (size_t)n * sizeof *numbers);
    return (double)n * sizeof *numbers / best;
}

/* Ten million weights (eight layers of 320, 1,000 tokens) read one row a token, and 20 ids to begin with. */
static void bench_generating(int threads, int tokens, trf_weights weights)
{
    enum { BEGINNING = 20 };
    trf_config config = trf_config_preset(TRF_BASE);
    trf_sampling sampling = trf_sampling_defaults();
    trf_model *model;
    trf_sampler *generator;
    trf_error err;
    int32_t ids[BEGINNING], length = BEGINNING, i, round, drawn = 0;
    trf_batch batch = { { NULL, NULL, 0 }, { ids, &length, 1 }, 0, { 0, 0, 0 } };
    double begin = 1e9, best = 1e9, bare, total = 0;
    size_t bytes;
    config.kind = TRF_DECODER_ONLY;
    config.encoder_layers = 0; config.decoder_layers = 8;
    config.d_model = 320; config.n_heads = 5; config.d_ff = 1280;
    config.target_vocab = 1000;
    config.tying = TRF_TIED_DECODER;
    sampling.threads = config.device.threads = threads;
    sampling.weights = weights;
    sampling.max_tokens = sampling.min_tokens = tokens;
    sampling.temperature = 0.8; sampling.top_k = 40; sampling.top_p = 0.9;
    for (i = 0; i < BEGINNING; i++) ids[i] = 4 + i * 37 % 900;
    if (trf_model_create(&model, &config, NULL, &err) ||
        trf_sampler_create(&generator, model, &sampling, &err)) die(err.message);
    bytes = weights == TRF_WEIGHTS_FULL ? model_memory(&config) : trf_packed_memory(&config, weights, NULL, NULL);
    bare = reading_speed(&generator->pass.run, (int64_t)(bytes / sizeof(float)));
    for (round = 0; round < 3; round++) {
        double start = seconds();
        timed.n_shapes = 0;
        if (trf_sampler_begin(generator, &batch, &err)) die(err.message);
        start = seconds() - start;
        if (start < begin) begin = start;
        if (round == 2) timed_reset();
        for (i = 0; i < tokens; i++) {
            timed.n_shapes = 0;
            start = seconds();
            if (trf_sampler_step(generator, 1, NULL, &err)) die(err.message);
            start = seconds() - start;
            if (round == 2) { total += start; drawn++; }
            if (start < best) best = start;
        }
    }
    bare = (double)bytes / bare;
    printf("generate %d threads: %.1f million weights, a token in %.2f ms at best, %.0f tokens/s on average; %d ids read in %.2f ms; "
           "bare reading of the weights %.2f ms, %.2f of a token\n", threads, 1e-6 * (double)trf_model_parameter_total(model), 1e3 * best,
           drawn / total, BEGINNING, 1e3 * begin, 1e3 * bare, bare / best);
    print_ops(total, drawn);
    trf_sampler_destroy(generator);
    trf_model_destroy(model);
}

/* The most memory that the process has had, in megabytes; getrusage would count the parent's too. */
static double peak(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[200];
    double kilobytes = 0;
    while (status && fgets(line, sizeof line, status)) if (!strncmp(line, "VmHWM:", 6)) kilobytes = atof(line + 6);
    if (status) fclose(status);
    return kilobytes / 1024;
}

/* A Llama with random weights and 32,000 tokens, as a packed file. */
static void make_llama(const char *path, const int *sizes, trf_weights weights)
{
    trf_config c = trf_config_preset(TRF_TINY);
    trf_model *model;
    trf_error err;
    c.kind = TRF_DECODER_ONLY;
    c.encoder_layers = 0;
    c.d_model = sizes[0]; c.decoder_layers = sizes[1]; c.n_heads = sizes[2]; c.d_ff = sizes[3];
    c.target_vocab = 32000;
    c.max_length = 1024;
    c.tying = TRF_UNTIED;
    c.norm_place = TRF_PRE_NORM; c.norm_rule = TRF_NORM_RMS;
    c.positions = TRF_POSITIONS_ROTARY;
    c.activation = TRF_SILU; c.feed_forward_gate = 1;
    c.qkv_bias = c.out_bias = c.feed_forward_bias = c.generator_bias = c.scale_embeddings = 0;
    if (trf_model_create(&model, &c, NULL, &err) || trf_model_pack(model, weights, &err) ||
        trf_model_save(model, path, NULL, &err))
        die(err.message);
    trf_model_destroy(model);
}

/* Opening a packed file, then drawing for sequences that begin with one token each. */
static void bench_llama(const char *path, int sequences, int threads, int tokens, const int *sizes, trf_weights weights)
{
    enum { MANY = 64 };
    static const int32_t ids[MANY] = {5, 9, 7, 11, 6, 8, 10, 12};
    static const int32_t lengths[MANY] = {1, 1, 1, 1, 1, 1, 1, 1};
    trf_batch batch = {{NULL, NULL, 0}, {ids, lengths, 0}, 0, {0, 0, 0}};
    trf_load_options load = trf_load_defaults();
    trf_sampling sampling = trf_sampling_defaults();
    trf_model *model;
    trf_sampler *sampler;
    trf_error err;
    double opening, start;
    int32_t live;
    int i;
    if (access(path, F_OK)) { make_llama(path, sizes, weights); return; }
    if (sequences > 8) die("SEQUENCES is 1 to 8");
    load.device.threads = threads;
    start = seconds();
    if (trf_model_load(&model, path, &load, &err)) die(err.message);
    opening = seconds() - start;
    batch.target.count = sequences;
    sampling.seed = 1;
    sampling.max_tokens = tokens + 8;
    sampling.min_tokens = tokens + 2;
    if (trf_sampler_create(&sampler, model, &sampling, &err) || trf_sampler_begin(sampler, &batch, &err) ||
        trf_sampler_step(sampler, sequences, &live, &err)) die(err.message);
    start = seconds();
    for (i = 0; i < tokens; i++) if (trf_sampler_step(sampler, sequences, &live, &err)) die(err.message);
    printf("opened in %.2f ms, %.1f tokens/s, peak %.0f MB\n", 1e3 * opening, sequences * tokens / (seconds() - start),
           peak());
    trf_sampler_destroy(sampler);
    trf_model_destroy(model);
}

/* A model's encoder, on sentences of so many rows: the fastest of as many calls as fit into two seconds. */
static void bench_encoding(const char *path, int sentences, int tokens, int threads, trf_weights weights, manner how)
{
    trf_load_options load = trf_load_defaults();
    trf_reader_options options;
    trf_model *model;
    trf_reader *reader;
    trf_sequences sources;
    trf_batch batch;
    trf_reading out;
    trf_error err;
    int32_t *ids, *lengths, n;
    double best = HUGE_VAL, total = 0, start = seconds();
    int i;
    timed.stopped = 1;
    load.device.products = how.products;
    load.device.precision = how.precision;
    if (trf_model_load(&model, path, &load, &err)) die(err.message);
    printf("loaded in %.3f s; ", seconds() - start);
    n = tokens - (int32_t)trf_model_config(model)->source_bos - trf_model_config(model)->source_eos;
    ids = (int32_t *)malloc((size_t)sentences * (size_t)tokens * sizeof *ids);
    lengths = (int32_t *)malloc((size_t)sentences * sizeof *lengths);
    if (!ids || !lengths || n < 1) die("TOKENS are too few, or no memory");
    for (i = 0; i < sentences; i++) lengths[i] = n;
    for (i = 0; i < sentences * n; i++)
        ids[i] = trf_model_config(model)->source_vocab / 2 + i * 7 % (trf_model_config(model)->source_vocab / 2);
    sources.ids = ids; sources.lengths = lengths; sources.count = sentences;
    memset(&options, 0, sizeof options);
    options.threads = threads;
    options.weights = weights;
    if (trf_reader_create(&reader, model, &options, &err)) die(err.message);
    memset(&batch, 0, sizeof batch);
    batch.source = sources;
    for (i = 0; i < 4 || total < 2; i++, total += seconds() - start, best = fmin(best, seconds() - start)) {
        start = seconds();
        if (trf_reader_read(reader, &batch, TRF_READ_ENCODED, NULL, &out, &err)) die(err.message);
    }
    printf("encode, %d threads, batch %d, %d tokens: %.1f sentences/s\n", threads, sentences, tokens, sentences / best);
    free(ids);
    free(lengths);
    trf_reader_destroy(reader);
    trf_model_destroy(model);
}

static manner products_of(const char *name)
{
    manner how = AUTO;
    if (strcmp(name, "cblas") == 0) how.products = TRF_PRODUCTS_CBLAS;
    else if (strcmp(name, "built-in") == 0) how.products = TRF_PRODUCTS_BUILT_IN;
    else if (strcmp(name, "bf16x3") == 0) how.products = TRF_PRODUCTS_BF16X3;
    else if (strcmp(name, "bf16") == 0) how.precision = TRF_PRECISION_BF16;
    else if (strcmp(name, "auto") != 0) die("PRODUCTS is auto, cblas, built-in, bf16x3 or bf16");
    return how;
}

static trf_weights weights_of(const char *name)
{
    if (strcmp(name, "int8") == 0) return TRF_WEIGHTS_INT8;
    if (strcmp(name, "bf16") == 0) return TRF_WEIGHTS_BF16;
    if (strcmp(name, "full") != 0) die("WEIGHTS is full, bf16 or int8");
    return TRF_WEIGHTS_FULL;
}

static int number(const char *text)
{
    int n = atoi(text);
    if (n < 1) die("numbers of threads, steps, beams and sentences are 1 or more");
    return n;
}

int main(int argc, char **argv)
{
    static const int points[3][2] = { {1, 1}, {4, 1}, {4, 32} };
    int all = trf_device_default().threads, i;
    if (argc >= 4 && argc != 7 + 1 && strcmp(argv[1], "train") == 0)
        bench_training(argv[2], number(argv[3]), argc > 4 ? argv[4] : "bucketed", argc > 5 ? number(argv[5]) : 12,
                       products_of(argc > 6 ? argv[6] : "auto"), argc > 8 ? argv[7] : NULL, argc > 8 ? argv[8] : NULL);
    else if (argc >= 3 && strcmp(argv[1], "gpt") == 0)
        bench_gpt(number(argv[2]), products_of(argc > 3 ? argv[3] : "auto"));
    else if (argc >= 6 && strcmp(argv[1], "translate") == 0)
        bench_translating(argv[2], number(argv[3]), number(argv[4]), number(argv[5]),
                          products_of(argc > 6 ? argv[6] : "auto"),
                          weights_of(argc > 7 ? argv[7] : "full"), argc > 8 ? number(argv[8]) : 1);
    else if (argc >= 3 && strcmp(argv[1], "generate") == 0) bench_generating(number(argv[2]),
                                                                             argc > 3 ? number(argv[3]) : 256,
                                                                        weights_of(argc > 4 ? argv[4] : "full"));
    else if (argc == 11 && strcmp(argv[1], "llama") == 0) {
        int sizes[4];
        for (i = 0; i < 4; i++) sizes[i] = number(argv[6 + i]);
        bench_llama(argv[2], number(argv[3]), number(argv[4]), number(argv[5]), sizes, weights_of(argv[10]));
    } else if (argc == 4 && strcmp(argv[1], "lengths") == 0) bench_lengths(argv[2], number(argv[3]));
    else if (argc == 6 && strcmp(argv[1], "deep") == 0)
        bench_deep(argv[2], number(argv[3]), strcmp(argv[4], "0") != 0, number(argv[5]));
    else if (argc == 5 && strcmp(argv[1], "overlap") == 0) bench_overlap(argv[2], number(argv[3]), number(argv[4]));
    else if (argc >= 3 && strcmp(argv[1], "load") == 0) bench_loading(argv[2], weights_of(argc > 3 ? argv[3] : "full"));
    else if (argc == 5 && strcmp(argv[1], "learn") == 0) bench_learning(argv[2], number(argv[3]), number(argv[4]));
    else if (argc >= 6 && strcmp(argv[1], "file") == 0)
        bench_file(argv[2], argv[3], number(argv[4]), number(argv[5]), weights_of(argc > 6 ? argv[6] : "full"));
    else if (argc >= 6 && strcmp(argv[1], "encode") == 0)
        bench_encoding(argv[2], number(argv[3]), number(argv[4]), number(argv[5]),
                       weights_of(argc > 6 ? argv[6] : "full"),
                       products_of(argc > 7 ? argv[7] : "auto"));
    else if (argc == 1) {
        bench_training("tiny", all, "bucketed", 20, AUTO, NULL, NULL);
        bench_training("tiny", all, "random", 20, AUTO, NULL, NULL);
        bench_training("small", all, "bucketed", 10, AUTO, NULL, NULL);
        bench_training("base", all, "bucketed", 4, AUTO, NULL, NULL);
        for (i = 0; i < 3; i++) bench_translating("tiny", 1, points[i][0], points[i][1], AUTO, TRF_WEIGHTS_FULL, 1);
        bench_generating(1, 256, TRF_WEIGHTS_FULL);
        for (i = 0; i < 3; i++) bench_translating("base", 1, points[i][0], points[i][1], AUTO, TRF_WEIGHTS_FULL, 1);
    } else die("see the top of tools/bench/bench.c for its arguments");
    return 0;
}

/* gpu.c - what a GPU does with transformer.h: speeds as ratios of what the same card does in the same run.

   build   nvcc -O2 -arch=sm_90 -x cu -c cuda.c     (cuda.c: #define TRF_COLUMN cuda, #include "transformer.h")
           cc -O2 -DTRF_WITH_CUDA -DTRF_NO_CBLAS -I. tools/bench/gpu.c cuda.o -o gpu -lcublasLt -lcudart -lstdc++ -lm
           (-DGPU_RUNTIME -I/usr/local/cuda/include: the memory that a trainer takes is measured too)
   run     gpu card                          bytes a second of a copy, FLOP/s of a large product, and the shares of
   norm,
                                             Adam and loss in the first
           gpu train SIZE TOKENS [launches]  SIZE tiny|base|big|gpt2, TOKENS a side; launches: nothing is recorded
           gpu translate SIZE SENTENCES BEAM [launches]
           gpu attention                     of 8,192 tokens, up to 50 and up to 200 a sentence, and of 32,768 tokens,
           up to
                                             1,024 and up to 4,096
           gpu same STEPS                    two runs to the bit; bf16's loss over float32's
   prints  one line for each thing measured; times are medians of 20

   bf16, dropout 0.1, label smoothing 0.1, sentences of 5 to 25 random words, sorted by length; random weights. gpt2,
   with 124 M weights, has texts of 1,024 random words and neither dropout nor smoothing, as llm.c trains it. */
#define _POSIX_C_SOURCE 200809L
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(GPU_RUNTIME)
#include <cuda_runtime_api.h>
#endif

enum { WARM = 8, RUNS = 20, SHORTEST = 5, LONGEST = 25, PAIRS = 4096, TEXT = 1024, MOST_TEXTS = 64 };

static trf_error err;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void die(const char *message)
{
    fprintf(stderr, "gpu: %s\n", message);
    exit(1);
}
#define OK(call) do if ((call) != TRF_OK) die(err.message); while (0)

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, by_value);
    return times[n / 2];
}

/* -----------------------------------------------------------------------------------------------
   Sentences and models. */

typedef struct pair { int32_t n[2], ids[2][LONGEST]; } pair;
static pair pairs[PAIRS];

static int by_length(const void *a, const void *b)
{
    const pair *x = (const pair *)a, *y = (const pair *)b;
    return x->n[1] != y->n[1] ? x->n[1] - y->n[1] : x->n[0] - y->n[0];
}

static void make_pairs(int32_t vocab)
{
    int i, side, k;
    srand(1);
    for (i = 0; i < PAIRS; i++)
        for (side = 0; side < 2; side++) {
            pairs[i].n[side] = SHORTEST + rand() % (LONGEST - SHORTEST + 1);
            for (k = 0; k < LONGEST; k++) pairs[i].ids[side][k] = 4 + rand() % (vocab - 4);
        }
    qsort(pairs, PAIRS, sizeof *pairs, by_length);
}

/* Pairs from number `first` on, as far as `tokens` a side go. */
typedef struct room { int32_t ids[2][PAIRS * LONGEST], lengths[2][PAIRS]; } room;
static room whole;
static trf_batch batch_at(int first, int64_t tokens)
{
    trf_batch batch;
    int64_t used[2] = { 0, 0 }, n_ids[2] = { 0, 0 };
    int32_t n = 0;
    int side;
    memset(&batch, 0, sizeof batch);
    for (; n < PAIRS; n++) {
        const pair *p = &pairs[(first + n) % PAIRS];
        if (used[0] + p->n[0] + 1 > tokens || used[1] + p->n[1] + 1 > tokens) break;
        for (side = 0; side < 2; side++) {
            memcpy(whole.ids[side] + n_ids[side], p->ids[side], (size_t)p->n[side] * sizeof(int32_t));
            whole.lengths[side][n] = p->n[side];
            n_ids[side] += p->n[side];
            used[side] += p->n[side] + 1;
        }
    }
    batch.source.ids = whole.ids[0]; batch.source.lengths = whole.lengths[0];
    batch.target.ids = whole.ids[1]; batch.target.lengths = whole.lengths[1];
    batch.source.count = batch.target.count = n;
    return batch;
}

/* Texts of random words for a decoder alone, as far as `tokens` go; a text is never longer than that. */
static trf_batch texts_of(int32_t vocab, int64_t tokens)
{
    static int32_t ids[MOST_TEXTS * TEXT], lengths[MOST_TEXTS];
    int32_t n = (int32_t)(tokens < TEXT ? tokens : TEXT), count = (int32_t)(tokens / n), i;
    trf_batch batch;
    memset(&batch, 0, sizeof batch);
    if (count > MOST_TEXTS) die("more tokens than 64 texts have");
    for (i = 0; i < count * n; i++) ids[i] = rand() % vocab;
    for (i = 0; i < count; i++) lengths[i] = n;
    batch.target.ids = ids; batch.target.lengths = lengths; batch.target.count = count;
    return batch;
}

static int is_gpt2(const char *size) { return strcmp(size, "gpt2") == 0; }

/* GPT-2's smallest model. */
static void become_gpt2(trf_config *c)
{
    c->kind = TRF_DECODER_ONLY;
    c->encoder_layers = 0; c->decoder_layers = c->n_heads = 12;
    c->d_model = 768; c->d_ff = 3072;
    c->target_vocab = 50257; c->max_length = TEXT;
    c->positions = TRF_POSITIONS_LEARNED;
    c->activation = TRF_GELU_TANH;
    c->norm_place = TRF_PRE_NORM; c->tying = TRF_TIED_DECODER;
    c->scale_embeddings = c->generator_bias = c->target_eos = 0;
    c->pad = c->unk = -1;
    c->source_vocab = 0;
    if (getenv("GPU_SMALL")) { c->decoder_layers = 1; c->d_model = c->d_ff = 96; c->target_vocab = 300; }
    c->bos = c->eos = c->target_vocab - 1;
}

static trf_config config_of(const char *size, trf_precision precision)
{
    trf_config c = trf_config_preset(strcmp(size, "big") == 0 ? TRF_BIG
                                     : strcmp(size, "base") == 0 ? TRF_BASE : TRF_TINY);
    c.source_vocab = c.target_vocab = strcmp(size, "tiny") == 0 ? 10000 : 32000;
    c.tying = TRF_TIED_ALL;
    c.norm_place = TRF_POST_NORM;
    c.device.kind = TRF_DEVICE_CUDA;
    c.device.precision = precision;
    make_pairs(c.target_vocab);
    if (is_gpt2(size)) become_gpt2(&c);
    return c;
}

static trf_trainer *trainer_of(trf_model *model, int64_t tokens)
{
    trf_train_options o = trf_train_defaults();     /* with everything that costs time */
    int texts = model->config.kind == TRF_DECODER_ONLY;
    o.label_smoothing = texts ? 0 : 0.1;
    trf_train_set_dropout(&o, texts ? 0 : 0.1);
    trf_trainer *t = NULL;
    o.source_tokens = o.target_tokens = (int32_t)tokens;
    o.sequences = (int32_t)(texts ? MOST_TEXTS : tokens / SHORTEST);
    o.longest = texts ? TEXT : 32;
    o.threads = 1;
    OK(trf_trainer_create(&t, model, &o, &err));
    return t;
}

/* The same backend, which records nothing. */
static trf__backend launching;
static int never(const trf__run *run, const trf__shape *shape) { (void)run; (void)shape; return 0; }
static void only_launch(trf__run *run)
{
    launching = *run->backend;
    launching.replay = never;
    run->backend = &launching;
}

/* -----------------------------------------------------------------------------------------------
   Ops alone. */

static void *there(const trf__run *run, int64_t numbers, size_t bytes)
{
    void *memory = trf__device_zeroed(run, trf__bytes(numbers, bytes));
    if (!memory) die("no memory on the device");
    return memory;
}

static void wait_for(const trf__run *run) { OK(run->backend->sync(run, &err)); }

/* All products of a step, through the plans of a step: forward, input gradient, weight gradient of every weight. */
typedef struct products {
    const trf__run *run;
    trf__act *x, *y;
    trf_real *w, *g;
    void *copy;
    double flops;
} products;

static void product(products *p, int64_t rows, int64_t out, int64_t in)
{
    trf__linear_dw dw = trf__dw_of(p->g, NULL, p->y, p->x, rows, out, in, 1);
    trf__mat m;
    m.plain = p->w; m.packed = p->copy; m.row = 0; m.format = TRF__FLOAT32;
    trf__project_rows(p->run, p->y, p->x, 0, m, NULL, rows, out, in);
    trf__project_dx(p->run, p->x, p->y, m, rows, out, in, 0);
    p->run->backend->linear_dw(p->run, &dw, 1);
    p->flops += 6.0 * (double)rows * (double)out * (double)in;
}

static void all_products(products *p, const trf_config *c, int64_t source, int64_t target)
{
    int64_t d = c->d_model, f = c->d_ff, chunk = trf__min64(target, 8 * d), row;
    int i;
    p->flops = 0;
    for (i = 0; i < c->encoder_layers; i++) {
        product(p, source, 3 * d, d); product(p, source, d, d);
        product(p, source, f, d); product(p, source, d, f);
    }
    for (i = 0; i < c->decoder_layers; i++) {
        product(p, target, 3 * d, d); product(p, target, d, d);
        if (c->kind != TRF_DECODER_ONLY) {          /* the attention to the source */
            product(p, target, d, d); product(p, source, 2 * d, d); product(p, target, d, d);
        }
        product(p, target, f, d); product(p, target, d, f);
    }
    for (row = 0; row < target; row += chunk) product(p, trf__min64(chunk, target - row), c->target_vocab, d);
}

static double products_alone(const trf__run *run, const trf_config *c, int64_t source, int64_t target, double *flops)
{
    int64_t most = trf__max64(source, target), wide = trf__max64(3 * c->d_model, c->d_ff), i;
    int64_t acts = trf__max64(most * wide, trf__min64(most, 8 * c->d_model) * c->target_vocab);
    int64_t weights = trf__max64(wide * c->d_model, (int64_t)c->target_vocab * c->d_model);
    double times[RUNS];
    products p;
    p.run = run;
    p.x = (trf__act *)there(run, acts, run->element); p.y = (trf__act *)there(run, acts, run->element);
    p.w = (trf_real *)there(run, weights, sizeof(trf_real)); p.g = (trf_real *)there(run, weights, sizeof(trf_real));
    p.copy = run->element == sizeof(trf_real) ? NULL : there(run, weights, run->element);
    for (i = -WARM; i < RUNS; i++) {
        double start = seconds();
        all_products(&p, c, source, target);
        wait_for(run);
        if (i >= 0) times[i] = seconds() - start;
    }
    *flops = p.flops;
    run->backend->release(run, p.x, 0); run->backend->release(run, p.y, 0); run->backend->release(run, p.w, 0);
    run->backend->release(run, p.g, 0); run->backend->release(run, p.copy, 0);
    return median(times, RUNS);
}

/* -----------------------------------------------------------------------------------------------
   The card: a copy, a product, and what should be as fast as the copy. */

typedef struct card { trf_trainer *trainer; const trf__run *run; void *from, *to; size_t bytes; trf__norm norm; } card;

static void do_copy(card *k) { k->run->backend->copy(k->run, k->to, k->from, k->bytes); }
static void do_norm(card *k) { k->run->backend->add_norm(k->run, &k->norm); }
static void do_update(card *k) { trf__update(k->trainer); }
static void do_loss(card *k)
{
    trf__pass *pass = &k->trainer->pass;
    trf_train_options o = trf_train_defaults();
    o.label_smoothing = 0.1;
    trf__loss l = trf__pass_loss(pass, &o, 0);
    pass->run.backend->cross_entropy(&pass->run, &l);
}

static double time_of(card *k, void (*what)(card *))
{
    double times[RUNS];
    int i, j;
    for (i = -WARM; i < RUNS; i++) {
        double start = seconds();
        for (j = 0; j < 10; j++) what(k);
        wait_for(k->run);
        if (i >= 0) times[i] = (seconds() - start) / 10;
    }
    return median(times, RUNS);
}

static void measure_card(const char *size, int64_t rows)
{
    trf_config c = config_of(size, TRF_PRECISION_BF16);
    trf_model *model = NULL;
    trf_batch batch = batch_at(0, rows);
    products big;
    card k;
    double copy, seconds_of, bytes, times[RUNS];
    int64_t n, d = c.d_model, side = rows < 8192 ? 256 : 8192;
    int i;
    OK(trf_model_create(&model, &c, NULL, &err));
    memset(&k, 0, sizeof k);
    k.trainer = trainer_of(model, rows);
    k.run = &k.trainer->pass.run;
    OK(trf_trainer_step(k.trainer, &batch, NULL, &err));
    OK(trf_trainer_step(k.trainer, &batch, NULL, &err));
    n = model->layout.n_weights;
    k.bytes = (size_t)(rows < 8192 ? 1 << 20 : 1 << 30);
    k.from = there(k.run, (int64_t)k.bytes, 1);
    k.to = there(k.run, (int64_t)k.bytes, 1);
    copy = 2 * (double)k.bytes / time_of(&k, do_copy);
    printf("copy: %.0f GB/s read and written\n", 1e-9 * copy);
    k.norm.s = (trf__act *)k.from; k.norm.x = (trf__act *)k.from;
    k.norm.sub = trf__act_at(k.run, (trf__act *)k.from, rows * d);
    k.norm.y = (trf__act *)k.to;
    k.norm.gain = k.norm.bias = model->weights;
    k.norm.rows = rows; k.norm.d = d; k.norm.epsilon = 1e-5;
    if ((size_t)(2 * rows * d) * k.run->element > k.bytes) die("too little room for the norm");
    bytes = 4.0 * (double)(rows * d) * (double)k.run->element;
    printf("add and norm, (%d, %d): %.2f of the copy\n", (int)rows, (int)d, bytes / time_of(&k, do_norm) / copy);
    bytes = (double)n * (4 * 4 + 3 * 4 + (k.run->element == 2 ? 2 : 0) + 4);       /* p, g, m, v; p, m, v, copy; norm */
    printf("clip and Adam, %.0f M weights: %.2f of the copy\n", 1e-6 * (double)n,
           bytes / time_of(&k, do_update) / copy);
    seconds_of = time_of(&k, do_loss);
    printf("loss forward, its product included: %.2f ms\n", 1e3 * seconds_of);
    big.run = k.run;
    big.x = (trf__act *)k.from; big.y = (trf__act *)k.to;
    big.w = (trf_real *)there(k.run, side * side, sizeof(trf_real));
    big.copy = there(k.run, side * side, k.run->element);
    for (i = -WARM; i < RUNS; i++) {
        trf__mat m;
        double start = seconds();
        m.plain = big.w; m.packed = big.copy; m.row = 0; m.format = TRF__FLOAT32;
        trf__project_rows(k.run, big.y, big.x, 0, m, NULL, side, side, side);
        wait_for(k.run);
        if (i >= 0) times[i] = seconds() - start;
    }
    printf("product of %d cubed: %.0f TFLOP/s\n", (int)side,
           2e-12 * (double)side * (double)side * (double)side / median(times, RUNS));
    k.run->backend->release(k.run, big.w, 0); k.run->backend->release(k.run, big.copy, 0);
    k.run->backend->release(k.run, k.from, 0); k.run->backend->release(k.run, k.to, 0);
    trf_trainer_destroy(k.trainer);
    trf_model_destroy(model);
}

/* Forward and backward of ragged causal attention, as in the middle of a step. */
static void measure_attention(int longest, int64_t tokens)
{
    enum { HEADS = 8, WIDE = 64, MOST = 1024 };
    trf_config c = config_of("tiny", TRF_PRECISION_BF16);
    trf_model *model = NULL;
    trf_trainer *t;
    const trf__run *run;
    trf__span spans[MOST];
    trf__attention a;
    trf__attention_gradient g;
    double times[2][RUNS];
    int64_t rows = 0, d = HEADS * WIDE;
    int n = 0, i;
    OK(trf_model_create(&model, &c, NULL, &err));
    t = trainer_of(model, 64);
    run = &t->pass.run;
    srand(2);
    for (; n < MOST && rows + longest <= tokens; n++) {
        trf__span span;
        memset(&span, 0, sizeof span);
        span.query = span.key = (int32_t)rows;
        span.n_query = span.n_key = longest / 5 + rand() % (longest - longest / 5 + 1);
        span.sentence = n;
        spans[n] = span;
        rows += span.n_query;
    }
    memset(&a, 0, sizeof a);
    memset(&g, 0, sizeof g);
    a.in.q = (trf__act *)there(run, rows * 3 * d, run->element);
    a.in.k = trf__act_at(run, (trf__act *)(uintptr_t)a.in.q, d);
    a.in.v = trf__act_at(run, (trf__act *)(uintptr_t)a.in.q, 2 * d);
    a.in.ldq = a.in.ldk = 3 * d;
    a.in.spans = (trf__span *)there(run, n, sizeof(trf__span));
    run->backend->upload(run, (void *)(uintptr_t)a.in.spans, spans, (size_t)n * sizeof *spans);
    a.in.n_spans = n; a.in.max_queries = a.in.max_keys = longest;
    a.in.heads = a.in.kv_heads = HEADS; a.in.d_head = WIDE; a.in.causal = 1;
    a.in.scale = trf__default_scale(WIDE);
    a.out = (trf__act *)there(run, rows * d, run->element);
    a.stats = (trf_real *)there(run, rows * HEADS * 2, sizeof(trf_real));
    g.in = a.in; g.out = a.out; g.dout = a.out; g.stats = a.stats;
    g.dq = (trf__act *)there(run, rows * 3 * d, run->element);
    g.dk = trf__act_at(run, g.dq, d);
    g.dv = trf__act_at(run, g.dq, 2 * d);
    for (i = -WARM; i < RUNS; i++) {
        double start = seconds(), middle;
        run->backend->attention(run, &a);
        wait_for(run);
        middle = seconds();
        run->backend->attention_gradient(run, &g);
        wait_for(run);
        if (i < 0) continue;
        times[0][i] = middle - start;
        times[1][i] = seconds() - middle;
    }
    printf("attention, %d tokens, up to %d: forward %.0f us, backward %.0f us\n", (int)rows, longest,
           1e6 * median(times[0], RUNS), 1e6 * median(times[1], RUNS));
    run->backend->release(run, (void *)(uintptr_t)a.in.q, 0); run->backend->release(run, (void *)(uintptr_t)a.in.spans,
                                                                                    0);
    run->backend->release(run, a.out, 0); run->backend->release(run, a.stats, 0); run->backend->release(run, g.dq, 0);
    trf_trainer_destroy(t);
    trf_model_destroy(model);
}

/* Bytes of the device that nobody has; 0: not known. */
static double memory_left(void)
{
#if defined(GPU_RUNTIME)
    size_t left = 0, all = 0;
    if (cudaMemGetInfo(&left, &all) == cudaSuccess) return (double)left;
#endif
    return 0;
}

/* -----------------------------------------------------------------------------------------------
   Training and translating. */

static void measure_training(const char *size, int64_t tokens, int launches)
{
    trf_config c = config_of(size, TRF_PRECISION_BF16);
    trf_model *model = NULL;
    trf_trainer *t;
    trf_step_report report;
    double times[RUNS], real = 0, total = 0, flops, alone, step, left;
    int64_t source = 0, target = 0;
    int i;
    double before = memory_left();
    trf_model_size planned;
    OK(trf_model_create(&model, &c, NULL, &err));
    t = trainer_of(model, tokens);
    if (launches) only_launch(&t->pass.run);
    for (i = -3 * WARM; i < RUNS; i++) {
        trf_batch batch = is_gpt2(size) ? texts_of(c.target_vocab, tokens) : batch_at((i + 3 * WARM) * 97 % 512,
                                                                                      tokens);
        double start = seconds();
        OK(trf_trainer_step(t, &batch, &report, &err));
        if (i < 0) continue;
        times[i] = seconds() - start;
        total += times[i];
        real += (double)(report.source_tokens + report.target_tokens);
        source += report.source_tokens;
        target += report.target_tokens;
    }
    left = memory_left();
    step = median(times, RUNS);
    alone = products_alone(&t->pass.run, &c, source / RUNS, target / RUNS, &flops);
    printf("train %s %d%s: %.2f ms/step, %.0f real tokens/s, step / products %.2f, %.0f TFLOP/s\n", size, (int)tokens,
           launches ? " launches" : "", 1e3 * step, real / total, step / alone, 1e-12 * flops / step);
    if (before > 0 && !trf_config_check(&c, &planned, NULL))
        printf("    memory taken / planned: %.3f\n", (before - left) /
               ((double)trf_trainer_memory(&c, trf_trainer_options(t), NULL) + (double)planned.memory));
    trf_trainer_destroy(t);
    trf_model_destroy(model);
}

static void measure_translating(const char *size, int sentences, int beam, int launches)
{
    enum { LENGTH = 64 };
    trf_config c = config_of(size, TRF_PRECISION_BF16);
    trf_search s = trf_search_defaults();
    trf_batch batch = batch_at(PAIRS / 2, INT32_MAX);
    trf_model *model = NULL;
    trf_translator *t = NULL;
    double times[RUNS];
    int64_t tokens = 0;
    int i;
    batch.source.count = sentences;
    s.beam = beam; s.n_best = 1; s.threads = 1;
    s.max_length_a = 0; s.max_length_b = s.min_length = LENGTH;
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_translator_create(&t, model, &s, &err));
    if (launches) only_launch(&t->reader.pass.run);
    for (i = -3; i < RUNS; i++) {
        double start = seconds();
        OK(trf_translate(t, &batch.source, NULL, &err));
        if (i >= 0) times[i] = seconds() - start;
    }
    for (i = 0; i < sentences; i++) tokens += trf_translator_answer(t, i, 0)->n;
    printf("translate %s (%d, beam %d)%s: %.0f target tokens/s\n", size, sentences, beam, launches ? " launches" : "",
           (double)tokens / median(times, RUNS));
    trf_translator_destroy(t);
    trf_model_destroy(model);
}

/* The mean loss of the last tenth of so many steps, and a sum of the bits of all weights. */
static double train_for(trf_precision precision, int steps, int64_t tokens, uint64_t *bits)
{
    trf_config c = config_of("tiny", precision);
    trf_model *model = NULL;
    trf_trainer *t;
    double loss = 0;
    int i;
    int32_t k;
    OK(trf_model_create(&model, &c, NULL, &err));
    t = trainer_of(model, tokens);
    for (i = 0; i < steps; i++) {
        trf_batch batch = batch_at(i * 97 % 512, tokens);
        trf_step_report report;
        OK(trf_trainer_step(t, &batch, &report, &err));
        if (i >= steps - (steps + 9) / 10) loss += report.loss / ((steps + 9) / 10);
    }
    for (*bits = 1, k = 0; k < trf_model_parameter_count(model); k++) {
        trf_tensor p = trf_model_parameter(model, k);
        int64_t n = trf_tensor_count(&p), at;
        trf_real *x = (trf_real *)malloc((size_t)n * sizeof *x);
        OK(trf_tensor_read(&p, x, n, &err));
        for (at = 0; at < n; at++) {
            uint32_t u;
            memcpy(&u, &x[at], sizeof u);
            *bits = (*bits ^ u) * UINT64_C(0x100000001B3);
        }
        free(x);
    }
    trf_trainer_destroy(t);
    trf_model_destroy(model);
    return loss;
}

static int measure_sameness(int steps, int64_t tokens)
{
    uint64_t bits[2], unused;
    double narrow = train_for(TRF_PRECISION_BF16, steps, tokens, &bits[0]), wide;
    train_for(TRF_PRECISION_BF16, steps, tokens, &bits[1]);
    wide = train_for(TRF_PRECISION_FLOAT32, steps, tokens, &unused);
    printf("two runs of %d steps: %s\n", steps, bits[0] == bits[1] ? "the same bits" : "DIFFERENT BITS");
    printf("loss in bf16 / in float32 after %d steps: %.4f\n", steps, narrow / wide);
    return bits[0] == bits[1] ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int launches = argc > 2 && strcmp(argv[argc - 1], "launches") == 0;
    int64_t small = getenv("GPU_SMALL") ? 64 : 0;       /* to see whether all of it runs, where no GPU is */
    if (strcmp(what, "card") == 0) measure_card(small ? "tiny" : "base", small ? small : 8192);
    else if (strcmp(what, "attention") == 0) {
        measure_attention(50, small ? 100 : 8192);
        measure_attention(200, small ? 200 : 8192);
        measure_attention(small ? 400 : 1024, small ? 400 : 32768);
        measure_attention(small ? 600 : 4096, small ? 600 : 32768);
    } else if (strcmp(what, "train") == 0 && argc > 3) measure_training(argv[2], atoi(argv[3]), launches);
    else if (strcmp(what, "translate") == 0 && argc > 4) measure_translating(argv[2], atoi(argv[3]), atoi(argv[4]),
                                                                             launches);
    else if (strcmp(what, "same") == 0 && argc > 2) return measure_sameness(atoi(argv[2]), small ? small : 2048);
    else die("usage: gpu card | attention | train SIZE TOKENS | translate SIZE SENTENCES BEAM | same STEPS");
    return 0;
}

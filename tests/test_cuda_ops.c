/* build: O0 slow races */
/* Every op of the CUDA column beside its twin on the CPU, with the same numbers: in float32 to
   1e-5, in bf16 to 1e-2. Lengths, widths, heads and vocabularies are multiples of nothing. */
#define TRF_WITH_CUDA
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include "gpu.h"

static trf_error err;

/* -----------------------------------------------------------------------------------------------
   The same things in three places: on the CPU, on CUDA in float32, on CUDA in bf16. */

enum { CPU, FLOAT, NARROW, PLACES };
static trf__run runs[PLACES];
static const char *const places[PLACES] = { "the CPU", "CUDA in float32", "CUDA in bf16" };
static const double tolerances[PLACES] = { 0, 1e-5, 1e-2 };

enum { MOST_THINGS = 64 };
static struct thing { void *at[PLACES]; } things[MOST_THINGS];
static int n_things;

static void open_all(void)
{
    trf_hooks none;
    trf_device device = trf_device_default();
    int r;
    memset(&none, 0, sizeof none);
    device.threads = 1;
    for (r = 0; r < PLACES; r++) {
        device.kind = r == CPU ? TRF_DEVICE_CPU : TRF_DEVICE_CUDA;
        device.precision = r == NARROW ? TRF_PRECISION_BF16 : TRF_PRECISION_FLOAT32;
        runs[r] = trf__run_on(&device, &none);
        if (runs[r].backend->open(&runs[r], &err) ||
            runs[r].backend->reserve(&runs[r], 256, 160, 1 << 14, 0, &err))
            fail_msg("%s: %s", places[r], err.message);
    }
}

/* Everything made since the last call. */
static void forget(void)
{
    while (n_things > 0) {
        struct thing *t = &things[--n_things];
        int r;
        for (r = 0; r < PLACES; r++) {
            runs[r].backend->release(&runs[r], t->at[r], 0);
            runs[r].now = NULL;
        }
    }
}

static struct thing *bring(const void *what, size_t bytes, int r)
{
    struct thing *t = &things[n_things];
    assert_true(n_things < MOST_THINGS);
    t->at[r] = runs[r].backend->alloc(&runs[r], bytes);
    assert_non_null(t->at[r]);
    runs[r].backend->upload(&runs[r], t->at[r], what, bytes);
    if (r == PLACES - 1) n_things++;
    return t;
}

static struct thing *bytes_of(const void *what, size_t bytes)
{
    int r;
    for (r = 0; r < PLACES - 1; r++) bring(what, bytes, r);
    return bring(what, bytes, r);
}
static struct thing *ints(const int32_t *what, int64_t n)
{
    return bytes_of(what, (size_t)n * sizeof *what);
}

/* Random numbers between -1 and 1 that bf16 has, times `scale`, a power of two. */
static trf_real *random_numbers(int64_t n, double scale)
{
    static uint64_t seed = 1;
    trf_real *x = (trf_real *)malloc((size_t)n * sizeof *x + 1);
    int64_t i;
    seed++;
    for (i = 0; i < n; i++)
        x[i] = (trf_real)(scale * (floor(256 * trf__uniform(seed, 3, (uint64_t)i)) - 128) / 128);
    return x;
}

static struct thing *reals(int64_t n, double scale)
{
    trf_real *x = random_numbers(n, scale);
    struct thing *t = bytes_of(x, (size_t)n * sizeof *x);
    free(x);
    return t;
}

static struct thing *acts_of(const trf_real *x, int64_t n)
{
    uint16_t *narrow = (uint16_t *)malloc((size_t)n * sizeof *narrow + 1);
    struct thing *t;
    int64_t i;
    for (i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        narrow[i] = (uint16_t)(bits >> 16);
    }
    bring(x, (size_t)n * sizeof *x, CPU);
    bring(x, (size_t)n * sizeof *x, FLOAT);
    t = bring(narrow, (size_t)n * sizeof *narrow, NARROW);
    free(narrow);
    return t;
}

static struct thing *acts(int64_t n, double scale)
{
    trf_real *x = random_numbers(n, scale);
    struct thing *t = acts_of(x, n);
    free(x);
    return t;
}

/* A matrix, or a bias behind its matrix, with the copies of 16 bits. */
static struct thing *weights, *copies;
static void make_weights(int64_t n)
{
    trf__pack pack = trf__pack_of(NULL, NULL, n, 1, TRF__FLOAT32);
    weights = reals(n, 1);
    copies = bytes_of(weights->at[CPU], (size_t)n * 2);
    pack.packed = copies->at[NARROW];
    pack.weights = (const trf_real *)weights->at[NARROW];
    runs[NARROW].backend->pack(&runs[NARROW], &pack);
}
static trf__mat mat_on(int r, int64_t row)
{
    trf__mat m = {(const trf_real *)weights->at[r], r == NARROW ? copies->at[r] : NULL, row,
                  TRF__FLOAT32};
    return m;
}
static const trf_real *bias_on(int r, int64_t at) { return (const trf_real *)weights->at[r] + at; }

static trf_real *numbers_of(const struct thing *t, int r, int64_t n, int act)
{
    trf_real *x = (trf_real *)malloc((size_t)n * sizeof *x + 1);
    const trf__run *run = &runs[r];
    if (act) run->backend->fetch(run, x, (const trf__act *)t->at[r], n);
    else run->backend->download(run, x, t->at[r], (size_t)n * sizeof *x);
    if (run->backend->sync(run, &err)) fail_msg("%s: %s", places[r], err.message);
    return x;
}

static void same(const char *what, int64_t a, int64_t b, const struct thing *t, int64_t n, int act)
{
    trf_real *want = numbers_of(t, CPU, n, act);
    int r;
    for (r = FLOAT; r < PLACES; r++) {
        trf_real *got = numbers_of(t, r, n, act);
        double difference = 0, size = 0;
        int64_t i;
        for (i = 0; i < n; i++) {
            difference += ((double)want[i] - (double)got[i]) * ((double)want[i] - (double)got[i]);
            size += (double)want[i] * (double)want[i];
        }
        if (!(sqrt(difference) <= tolerances[r] * sqrt(size)))
            fail_msg("%s of %d, %d on %s: off by %g of %g", what, (int)a, (int)b, places[r],
                     sqrt(difference), sqrt(size));
        free(got);
    }
    free(want);
}

#define ACT(t)  ((trf__act *)(t)->at[r])
#define REAL(t) ((trf_real *)(t)->at[r])
#define INT(t)  ((const int32_t *)(t)->at[r])
#define ON      runs[r].backend
#define EVERYWHERE for (r = 0; r < PLACES; r++)

/* -----------------------------------------------------------------------------------------------
   Rows of ragged sentences, and what a step is. */

static const int32_t lengths[] = { 1, 15, 0, 16, 17, 63, 64, 65, 200 };
static const int32_t others[] = { 3, 16, 2, 65, 0, 33, 64, 200, 65 };
enum { SENTENCES = 9, ROWS = 441, OTHERS = 448 };

static struct thing *sentences, *positions;

static void make_rows(void)
{
    static int32_t sentence[ROWS], position[ROWS];
    trf__now now = { 12345, 678, 9, 0.001, 3 };
    struct thing *t;
    int64_t row = 0;
    int32_t s, k;
    int r;
    for (s = 0; s < SENTENCES; s++)
        for (k = 0; k < lengths[s]; k++, row++) { sentence[row] = s + 3; position[row] = k; }
    sentences = ints(sentence, ROWS);
    positions = ints(position, ROWS);
    t = bytes_of(&now, sizeof now);
    EVERYWHERE runs[r].now = (const trf__now *)t->at[r];
}
static trf__rows rows_on(int r) { trf__rows at = { INT(sentences), INT(positions) }; return at; }

static trf__drop drop_of(double p) { return trf__drop_of(p, 77); }

/* -----------------------------------------------------------------------------------------------
   The ops. */

static void test_embed(void **state)
{
    static const int64_t widths[] = { 1, 33, 128, 130 };
    static int32_t ids[ROWS], groups[2 * ROWS + 1], segment_of[ROWS];
    size_t w;
    int64_t i, n;
    int r;
    (void)state;
    for (i = 0; i < ROWS; i++) segment_of[i] = (int32_t)(i / 7 % 3);
    for (i = 0; i < ROWS; i++) ids[i] = i % 11 == 7 ? -1 : (int32_t)(i * i % 37);
    n = trf__group_rows(groups, groups + ROWS, ids, ROWS);
    for (w = 0; w < sizeof widths / sizeof *widths; w++) {
        int64_t d = widths[w];
        struct thing *y, *dy, *table, *dtable, *dweight, *t_ids, *first, *t_rows;
        struct thing *segments, *dsegments, *segment;
        make_rows();
        make_weights(37 * d);
        y = acts(ROWS * d, 1); dy = acts(ROWS * d, 1); dweight = reals(37 * d, 1);
        table = reals(200 * d, 1); dtable = reals(200 * d, 1);
        segments = reals(3 * d, 1); dsegments = reals(3 * d, 1); segment = ints(segment_of, ROWS);
        t_ids = ints(ids, ROWS); t_rows = ints(groups, ROWS); first = ints(groups + ROWS, n + 1);
        EVERYWHERE {
            trf__embed e;
            trf__embed_gradient g;
            e.y = ACT(y);
            e.weight = mat_on(r, 0);
            e.table = REAL(table);
            e.segments = w % 2 ? REAL(segments) : NULL;
            e.ids = INT(t_ids); e.segment = INT(segment);
            e.at = rows_on(r);
            e.rows = ROWS; e.d = d; e.scale = 2; e.drop = drop_of(0.25);
            ON->embed(&runs[r], &e);
            g.dweight = REAL(dweight); g.dtable = REAL(dtable); g.dy = ACT(dy); g.ids = INT(t_ids);
            g.dsegments = w == 0 ? NULL : REAL(dsegments); g.segment = INT(segment);
            g.n_segments = 3;
            g.groups.rows = INT(t_rows); g.groups.first = INT(first); g.groups.n = n;
            g.at = rows_on(r); g.rows = ROWS; g.d = d; g.vocab = 37; g.positions = 200;
            g.scale = 2; g.drop = drop_of(0.25); g.first = w % 2 == 0; g.first_table = w % 2 == 1;
            ON->embed_gradient(&runs[r], &g);
        }
        same("embed", ROWS, d, y, ROWS * d, 1);
        same("dweight", 37, d, dweight, 37 * d, 0);
        same("dtable", 200, d, dtable, 200 * d, 0);
        same("dsegments", 3, d, dsegments, 3 * d, 0);
        forget();
    }
}

/* Products with a part of a matrix, with and without a bias; the gradient is set and is added to.
 */
static void test_linear(void **state)
{
    static const int64_t shapes[][3] = {
        {1, 1, 1}, {17, 33, 5}, {64, 40, 96}, {200, 7, 64}, {0, 3, 3}};
    size_t s;
    int r;
    (void)state;
    for (s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t rows = shapes[s][0], out = shapes[s][1], in = shapes[s][2];
        struct thing *x, *y, *dx, *dy, *dw, *db;
        make_weights((out + 2) * in + out);
        x = acts(rows * in, 1);
        y = acts(rows * out, 1);
        dx = acts(rows * in, 1);
        dy = acts(rows * out, 1);
        dw = reals(out * in, 1); db = reals(out, 1);
        EVERYWHERE {
            trf__linear l;
            trf__linear_dx g;
            trf__linear_dw w;
            TRF__ZERO(l);
            l.y = ACT(y);
            l.x = ACT(x);
            l.w = mat_on(r, 2);
            l.b = s % 2 ? bias_on(r, (out + 2) * in) : NULL;
            l.rows = rows; l.out = out; l.in = in;
            ON->linear(&runs[r], &l);
            g.dx = ACT(dx);
            g.dy = ACT(dy);
            g.w = mat_on(r, 2);
            g.rows = rows;
            g.out = out;
            g.in = in;
            g.add = s % 2;
            ON->linear_dx(&runs[r], &g);
            w.dw = REAL(dw); w.db = s == 0 ? NULL : REAL(db); w.dy = ACT(dy); w.x = ACT(x);
            w.rows = rows; w.out = out; w.in = in; w.first = s % 2 == 0;
            ON->linear_dw(&runs[r], &w, 1);
        }
        same("linear", rows, out, y, rows * out, 1);
        same("dx", rows, in, dx, rows * in, 1);
        same("dw", out, in, dw, out * in, 0);
        same("db", out, 1, db, out, 0);
        forget();
    }
}

static void test_activate(void **state)
{
    static const int64_t widths[] = { 1, 37, 256, 16 };
    static const double scales[] = { 4, 4, 4, 3e15 };               /* and h^3 that overflows */
    size_t w;
    int kind, r;
    (void)state;
    for (kind = TRF_RELU; kind < 2 * TRF__ACTIVATIONS; kind++)      /* with and without a gate */
        for (w = 0; w < sizeof widths / sizeof *widths; w++) {
            int gate = kind >= TRF__ACTIVATIONS;
            int64_t n = ROWS * widths[w], m = n << gate;
            struct thing *a, *h, *da, *dh;
            make_rows();
            a = acts(n, 1); h = acts(m, scales[w]); da = acts(n, 1); dh = acts(m, 1);
            EVERYWHERE {
                trf__activate f;
                trf__activate_gradient g;
                TRF__ZERO(f);
                f.a = ACT(a);
                f.h = ACT(h);
                f.rows = ROWS;
                f.width = widths[w];
                f.kind = kind % TRF__ACTIVATIONS;
                f.gate = gate;
                f.at = rows_on(r);
                f.drop = drop_of(w == 1 ? 0 : 0.1);
                ON->activate(&runs[r], &f);
                g.dh = ACT(dh);
                g.da = ACT(da);
                g.h = ACT(h);
                g.rows = ROWS;
                g.width = widths[w];
                g.kind = f.kind; g.gate = gate;
                g.at = rows_on(r); g.drop = f.drop;
                ON->activate_gradient(&runs[r], &g);
            }
            same("activate", kind, widths[w], a, n, 1);
            same("activate_gradient", kind, widths[w], dh, m, 1);
            forget();
        }
}

/* What is no number stays none, everywhere alike: a step must be able to see it. */
static void test_nan(void **state)
{
    enum { KEYS = 5, WIDE = 16 };
    static trf_real numbers[3 * KEYS * WIDE];
    trf__span span = { 0, 2, 0, KEYS, 0 };
    struct thing *q, *kv, *out, *a, *h, *t_span;
    int kind, i, r;
    (void)state;
    for (kind = TRF_RELU; kind < TRF__ACTIVATIONS; kind++) {
        for (i = 0; i < 8; i++) numbers[i] = i == 3 ? (trf_real)NAN : (trf_real)(i - 4);
        make_rows();
        h = acts_of(numbers, 8); a = acts(8, 1);
        EVERYWHERE {
            trf__activate f;
            trf_real *got;
            TRF__ZERO(f);
            f.a = ACT(a);
            f.h = ACT(h);
            f.rows = 1;
            f.width = 8;
            f.kind = kind;
            f.gate = 0;
            f.at = rows_on(r);
            f.drop = drop_of(0);
            ON->activate(&runs[r], &f);
            got = numbers_of(a, r, 8, 1);
            for (i = 0; i < 8; i++) assert_int_equal(got[i] != got[i], i == 3);
            free(got);
        }
        forget();
    }
    for (i = 0; i < 2; i++) {               /* one query of two; a key is seen by both */
        int k;
        for (k = 0; k < 3 * KEYS * WIDE; k++) numbers[k] = (trf_real)(k % 7 - 3) / 4;
        numbers[i == 0 ? WIDE + 2 : 2] = (trf_real)NAN;
        make_rows();
        q = i == 0 ? acts_of(numbers, 2 * WIDE) : acts(2 * WIDE, 1);
        kv = i == 1 ? acts_of(numbers, 2 * KEYS * WIDE) : acts(2 * KEYS * WIDE, 1);
        out = acts(2 * WIDE, 1); t_span = bytes_of(&span, sizeof span);
        EVERYWHERE {
            trf__attention f;
            trf_real *got;
            memset(&f, 0, sizeof f);
            f.in.q = ACT(q); f.in.k = ACT(kv); f.in.v = trf__act_at(&runs[r], ACT(kv), WIDE);
            f.in.ldq = WIDE;
            f.in.ldk = 2 * WIDE;
            f.in.spans = (const trf__span *)t_span->at[r];
            f.in.n_spans = 1;
            f.in.max_queries = 2; f.in.max_keys = KEYS; f.in.heads = f.in.kv_heads = 1; f.in.d_head = WIDE;
            f.in.scale = trf__default_scale(WIDE);
            f.in.drop = drop_of(0); f.out = ACT(out);
            ON->attention(&runs[r], &f);
            got = numbers_of(out, r, 2 * WIDE, 1);
            for (k = 0; k < 2 * WIDE; k++)
                if ((got[k] != got[k]) != (i == 1 || k >= WIDE))
                    fail_msg("attention, %d, %d on %s: %g", i, k, places[r], (double)got[k]);
            free(got);
        }
        forget();
    }
}

/* Columns that are more than there is room for in one sum. */
static void test_wide_norm(void **state)
{
    enum { D = 600001, FEW = 3 };
    struct thing *s = acts(FEW * D, 1), *ds = acts(FEW * D, 1), *dy = acts(FEW * D, 1);
    struct thing *stats, *dgain = reals(D, 1), *dbias = reals(D, 1);
    static const trf_real known[2 * FEW] = { 0.25f, 1.5f, 0, 1, -0.5f, 2 };
    int r;
    (void)state;
    make_rows();
    make_weights(D);
    stats = bytes_of(known, sizeof known);
    EVERYWHERE {
        trf__norm_gradient g;
        memset(&g, 0, sizeof g);
        g.ds = ACT(ds); g.dgain = REAL(dgain); g.dbias = REAL(dbias); g.dy = ACT(dy); g.s = ACT(s);
        g.stats = REAL(stats); g.gain = bias_on(r, 0); g.rows = FEW; g.d = D; g.epsilon = 1e-5;
        g.first = 1; g.at = rows_on(r); g.drop = drop_of(0);
        ON->norm_gradient(&runs[r], &g);
    }
    same("dgain", D, FEW, dgain, D, 0);
    same("dbias", D, FEW, dbias, D, 0);
    forget();
}

/* Of the ragged sentences: the first row, a few, all. */
static void test_pool(void **state)
{
    static const int64_t widths[] = { 1, 33, 128, 300 }, most[] = { 1, 20, INT32_MAX };
    static trf__span spans[SENTENCES];
    size_t w, m;
    int64_t row = 0;
    int32_t s;
    int r;
    (void)state;
    memset(spans, 0, sizeof spans);
    for (s = 0; s < SENTENCES; s++, row += lengths[s - 1]) {
        spans[s].query = (int32_t)row;
        spans[s].n_query = lengths[s];
    }
    for (w = 0; w < sizeof widths / sizeof *widths; w++)
        for (m = 0; m < sizeof most / sizeof *most; m++) {
            int64_t d = widths[w];
            struct thing *x = acts(ROWS * d, 1), *y = acts(SENTENCES * d, 1),
                         *t_spans = bytes_of(spans, sizeof spans);
            struct thing *dx = acts(ROWS * d, 1), *dy = acts(SENTENCES * d, 1);
            EVERYWHERE {
                trf__pool p, g;
                p.to = ACT(y);
                p.from = ACT(x);
                p.spans = (const trf__span *)t_spans->at[r];
                p.n_spans = SENTENCES;
                p.d = d; p.most = most[m];
                ON->pool(&runs[r], &p);
                g.to = ACT(dx);
                g.from = ACT(dy);
                g.spans = p.spans;
                g.n_spans = SENTENCES;
                g.d = d;
                g.most = most[m];
                ON->pool_gradient(&runs[r], &g);
            }
            same("pool", d, most[m], y, SENTENCES * d, 1);
            same("pool_gradient", d, most[m], dx, ROWS * d, 1);
            forget();
        }
}

enum { BIAS_NONE, BIAS_ALIBI, BIAS_TABLE, BIAS_ROWS = 5, BIAS_REACH = 9 };

/* Both directions, by all rules of who sees whom; the weights alone. Sentences are cut after so many
   queries and keys. */
static void attention_up_to(int longest, int heads, int kv_heads, int64_t d_head, int causal,
                            double p, int biased)
{
    static const int32_t row_of[2 * BIAS_REACH + 1] = { 4, 4, 4, 3, 3, 2, 2, 1, 1, 0,
                                                        1, 2, 3, 0, 4, 2, 2, 2, 1 };
    int64_t d = heads * d_head, kd = kv_heads * d_head, queries = 0, keys = 0, most = 0;
    struct thing *table, *rows, *dbias, *partial;
    trf__span spans[SENTENCES];
    struct thing *t_spans, *q, *kv, *out, *stats, *dout, *dq, *dkv, *weights_of;
    int s, r;
    for (s = 0; s < SENTENCES; s++) {
        int32_t more = causal || biased ? 3 : 0, n = lengths[s] + more;
        n = n < longest ? n : longest;
        spans[s].query = (int32_t)queries; spans[s].n_query = n - more;
        spans[s].key = (int32_t)keys;
        spans[s].n_key = more ? n : others[s] < longest ? others[s] : longest;
        spans[s].sentence = s + 3;
        queries += spans[s].n_query;
        keys += spans[s].n_key;
        most = spans[s].n_key > most ? spans[s].n_key : most;
    }
    make_rows();
    t_spans = bytes_of(spans, sizeof spans);
    q = acts(queries * d, 2);
    kv = acts(keys * 2 * kd, 2);
    out = acts(queries * d, 1);
    dout = acts(queries * d, 1);
    table = reals(BIAS_ROWS * heads, 2); rows = ints(row_of, 2 * BIAS_REACH + 1);
    dbias = reals(BIAS_ROWS * heads, 1);
    partial = reals(SENTENCES * BIAS_ROWS * heads, 1);
    dq = acts(queries * d, 1); dkv = acts(keys * 2 * kd, 1); stats = reals(queries * heads * 2, 1);
    weights_of = reals(200 * most, 1);
    EVERYWHERE {
        trf__attention a;
        trf__attention_gradient g;
        trf__attention_weights w;
        TRF__ZERO(a);
        a.in.q = ACT(q);
        a.in.k = ACT(kv);
        a.in.v = trf__act_at(&runs[r], ACT(kv), kd);
        a.in.ldq = d;
        a.in.ldk = 2 * kd;
        a.in.spans = (const trf__span *)t_spans->at[r]; a.in.n_spans = SENTENCES;
        a.in.max_queries = longest < 200 ? longest : 200; a.in.max_keys = most;
        a.in.key_rows = NULL; a.in.key_stride = a.in.area = 0;
        a.in.heads = heads; a.in.kv_heads = kv_heads; a.in.d_head = (int)d_head;
        a.in.scale = kv_heads < heads ? 0.15 : trf__default_scale((int)d_head);
        memset(&a.in.bias, 0, sizeof a.in.bias);
        a.in.bias.alibi = biased == BIAS_ALIBI;
        g.dbias = g.partial = NULL;
        g.first_bias = causal;
        if (biased == BIAS_TABLE) {
            a.in.bias.table = REAL(table); a.in.bias.row_of = INT(rows);
            a.in.bias.rows = BIAS_ROWS; a.in.bias.reach = BIAS_REACH;
            g.dbias = REAL(dbias); g.partial = REAL(partial);
        }
        a.in.causal = causal; a.in.drop = drop_of(p);
        a.out = ACT(out); a.stats = REAL(stats);
        ON->attention(&runs[r], &a);
        g.in = a.in; g.dq = ACT(dq); g.dk = ACT(dkv); g.dv = trf__act_at(&runs[r], ACT(dkv), kd);
        g.dout = ACT(dout); g.out = ACT(out); g.stats = REAL(stats);
        ON->attention_gradient(&runs[r], &g);
        w.in = a.in;
        w.in.spans = a.in.spans + 8;
        w.in.n_spans = 1;
        w.weights = REAL(weights_of);
        w.head = heads - 1;
        ON->attention_weights(&runs[r], &w);
    }
    same("attention", heads, d_head, out, queries * d, 1);
    same("dq", heads, d_head, dq, queries * d, 1);
    same("dk and dv", heads, d_head, dkv, keys * 2 * kd, 1);
    same("dbias", heads, d_head, dbias, BIAS_ROWS * heads, 0);
    same("weights", heads, d_head, weights_of, 200 * spans[8].n_key, 0);
    forget();
}

static void attention(int heads, int kv_heads, int64_t d_head, int causal, double p, int biased)
{
    attention_up_to(203, heads, kv_heads, d_head, causal, p, biased);
}

/* Heads that share a block: four, two, one of up to 64 rows. */
static void test_short_attention(void **state)
{
    static const int longest[] = { 16, 32, 64 };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof longest / sizeof *longest; i++) {
        attention_up_to(longest[i], 2, 2, 64, 1, 0.1, BIAS_NONE);
        attention_up_to(longest[i], 1, 1, 64, 0, 0, BIAS_NONE);
        attention_up_to(longest[i], 3, 3, 17, 0, 0.2, BIAS_NONE);
        attention_up_to(longest[i], 2, 2, 32, 1, 0.2, BIAS_NONE);
        attention_up_to(longest[i], 4, 2, 40, 1, 0.1, BIAS_NONE);
        attention_up_to(longest[i], 2, 2, 128, 0, 0.1, BIAS_NONE);
        attention_up_to(longest[i] + 1, 1, 1, 16, i == 1, 0.1, BIAS_NONE);
    }
}

static void test_attention(void **state)
{
    static const int64_t d_heads[] = { 8, 1, 15, 16, 17, 32, 40, 64, 65, 128 };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof d_heads / sizeof *d_heads; i++)
        attention(i == 0 ? 3 : 1, i == 0 ? 3 : 1, d_heads[i], i % 2 == 1, i % 3 == 0 ? 0 : 0.2,
                  BIAS_NONE);
    attention(2, 2, 64, 1, 0.1, BIAS_NONE);
    attention(1, 1, 64, 0, 0, BIAS_NONE);
    attention(6, 2, 24, 1, 0.1, BIAS_NONE);
    attention(4, 1, 72, 0, 0, BIAS_NONE);
    attention(3, 3, 16, 1, 0, BIAS_ALIBI);
    attention(4, 2, 40, 0, 0.2, BIAS_ALIBI);
    attention(2, 2, 16, 0, 0.2, BIAS_TABLE);
    attention(4, 2, 8, 1, 0, BIAS_TABLE);
}

/* A row a token: its keys are scattered over a cache. */
static void cached_attention(int alibi)
{
    enum { QUERIES = 5, SLOTS = 70, HEADS = 2, WIDE = 24 };
    static int32_t key_rows[QUERIES * SLOTS];
    trf__span spans[QUERIES];
    struct thing *t_spans, *t_keys, *q, *kv, *out;
    int i, k, r;
    memset(spans, 0, sizeof spans);
    for (i = 0; i < QUERIES; i++) {
        spans[i].query = i; spans[i].n_query = 1;
        spans[i].n_key = 1 + i * 17;
        for (k = 0; k < SLOTS; k++) key_rows[i * SLOTS + k] = (k * 7 + i * 3) % SLOTS;
    }
    t_spans = bytes_of(spans, sizeof spans);
    t_keys = ints(key_rows, QUERIES * SLOTS);
    q = acts(QUERIES * HEADS * WIDE, 2);
    kv = acts(SLOTS * 2 * WIDE, 2);
    out = acts(QUERIES * HEADS * WIDE, 1);
    EVERYWHERE {
        trf__attention a;
        memset(&a, 0, sizeof a);
        a.in.q = ACT(q); a.in.k = ACT(kv); a.in.v = trf__act_at(&runs[r], ACT(kv), WIDE);
        a.in.ldq = HEADS * WIDE; a.in.ldk = 2 * WIDE;
        a.in.spans = (const trf__span *)t_spans->at[r]; a.in.n_spans = QUERIES;
        a.in.max_queries = 1; a.in.max_keys = SLOTS;
        a.in.key_rows = INT(t_keys); a.in.key_stride = SLOTS;
        a.in.heads = HEADS; a.in.kv_heads = 1; a.in.d_head = WIDE; a.in.causal = 1;
        a.in.scale = 0.2;
        a.in.bias.alibi = alibi;
        a.out = ACT(out);
        ON->attention(&runs[r], &a);
    }
    same("attention over a cache", QUERIES, SLOTS, out, QUERIES * HEADS * WIDE, 1);
    forget();
}

static void test_cached_attention(void **state)
{
    (void)state;
    cached_attention(0);
    cached_attention(1);
}

static void test_rotate(void **state)
{
    enum { HEADS = 3, D_HEAD = 40, WIDTH = 34, LD = HEADS * D_HEAD + 6, POSITIONS = 300 };
    int pairs, back, r;
    (void)state;
    for (pairs = 0; pairs < TRF_ROTARY_PAIRS_COUNT; pairs++)
        for (back = 0; back < 2; back++) {
            struct thing *x, *table;
            make_rows();
            x = acts(ROWS * LD, 2);
            table = reals(POSITIONS * WIDTH, 1);
            EVERYWHERE {
                trf__rotation j;
                j.x = ACT(x); j.table = REAL(table); j.position = rows_on(r).position;
                j.rows = ROWS; j.ld = LD;
                j.heads = HEADS; j.d_head = D_HEAD; j.width = WIDTH; j.pairs = pairs; j.back = back;
                ON->rotate(&runs[r], &j);
            }
            same("rotate", pairs, back, x, ROWS * LD, 1);
            forget();
        }
}

static void test_scale(void **state)
{
    struct thing *x = acts(5000, 2);
    int r;
    (void)state;
    EVERYWHERE {
        trf__scale j;
        j.x = ACT(x); j.n = 4999; j.factor = 0.3f;
        ON->scale(&runs[r], &j);
    }
    same("scale", 4999, 0, x, 5000, 1);
    forget();
}

/* The bits of the host: additions are exact everywhere. */
static void test_accumulate(void **state)
{
    struct thing *to = reals(5000, 2), *from = reals(5000, 2);
    int r, empty;
    (void)state;
    for (empty = 0; empty < 2; empty++) {
        EVERYWHERE {
            trf__accumulate j;
            j.to = REAL(to); j.from = empty ? NULL : REAL(from); j.n = 4999;
            ON->accumulate(&runs[r], &j);
        }
        for (r = FLOAT; r < PLACES; r++) {
            trf_real *want = numbers_of(to, CPU, 5000, 0), *got = numbers_of(to, r, 5000, 0);
            if (empty) assert_true(want[4998] == 0 && signbit(want[4998]));
            assert_memory_equal(got, want, 5000 * sizeof *want);
            free(want);
            free(got);
        }
    }
    forget();
}

static void test_average(void **state)
{
    struct thing *to = reals(5000, 2), *from = reals(5000, 2);
    int r;
    (void)state;
    EVERYWHERE {
        trf__average j;
        j.to = REAL(to); j.from = REAL(from); j.n = 4999; j.share = (trf_real)0.1;
        ON->average(&runs[r], &j);
    }
    same("average", 4999, 0, to, 5000, 0);
    forget();
}

static void test_norm(void **state)
{
    static const int64_t widths[] = { 1, 8, 33, 128, 200, 513 };
    size_t w;
    int r, rule;
    (void)state;
    for (rule = TRF_NORM_STANDARD; rule <= TRF_NORM_ANNOTATED; rule++)
        for (w = 0; w < sizeof widths / sizeof *widths; w++) {
            int64_t d = widths[w], n = ROWS * d;
            struct thing *s, *y, *x, *sub, *stats, *ds, *dsub, *dgain, *dbias, *dy, *dy2, *ds_in;
            make_rows();
            make_weights(2 * d);
            s = acts(n, 1);
            y = acts(n, 1);
            x = acts(n, 4);
            sub = acts(n, 4);
            stats = reals(2 * ROWS, 1);
            ds = acts(n, 1); dsub = acts(n, 1); dgain = reals(d, 1); dbias = reals(d, 1);
            dy = acts(n, 1); dy2 = acts(n, 1); ds_in = acts(n, 1);
            EVERYWHERE {
                trf__norm f;
                trf__norm_gradient g;
                TRF__ZERO(f);
                f.s = ACT(s); f.y = ACT(y); f.stats = REAL(stats); f.x = ACT(x); f.sub = ACT(sub);
                f.gain = bias_on(r, 0);
                f.bias = bias_on(r, d);
                f.rows = ROWS;
                f.d = d;
                f.epsilon = 1e-5;
                f.rule = rule; f.at = rows_on(r); f.drop = drop_of(0.3);
                ON->add_norm(&runs[r], &f);
                g.ds = ACT(ds);
                g.dsub = ACT(dsub);
                g.dgain = REAL(dgain);
                g.dbias = REAL(dbias);
                g.dy = ACT(dy);
                g.dy2 = w % 2 ? ACT(dy2) : NULL; g.ds_in = w % 3 ? ACT(ds_in) : NULL; g.s = ACT(s);
                g.stats = REAL(stats);
                g.gain = bias_on(r, 0);
                g.rows = ROWS;
                g.d = d;
                g.epsilon = 1e-5;
                g.rule = rule; g.first = w % 2 == 0; g.at = rows_on(r); g.drop = f.drop;
                if (d > 1)
                    ON->norm_gradient(&runs[r], &g); /* of one feature the gradient is rounding */
            }
            same("s", rule, d, s, n, 1);
            same("y", rule, d, y, n, 1);
            if (d > 1) {
                same("ds", rule, d, ds, n, 1);
                same("dsub", rule, d, dsub, n, 1);
                same("dgain", rule, d, dgain, d, 0);
                same("dbias", rule, d, dbias, d, 0);
            }
            forget();
        }
}

/* paired: the first half of the rows and the second one are two passes over the same tokens. */
static void check_cross_entropy(int paired)
{
    static const int64_t shapes[][3] = {
        {5, 3, 3}, {300, 37, 5}, {17, 1001, 33}, {0, 9, 4}, {65, 70, 40}};
    size_t s;
    int r;
    for (s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t rows = shapes[s][0] << paired, vocab = shapes[s][1], d = shapes[s][2], i;
        int32_t *targets = (int32_t *)malloc((size_t)rows * sizeof *targets + 1);
        struct thing *x, *dx, *dw, *db, *slots, *t_targets, *row_loss, *row_nll;
        trf__sums sums[PLACES];
        for (i = 0; i < rows; i++)
            targets[i] = i % 7 == 3 ? -1 : (int32_t)(1 + i * 31 % (vocab - 1));
        if (paired) memcpy(targets + rows / 2, targets, (size_t)rows / 2 * sizeof *targets);
        make_rows();
        make_weights(vocab * d + vocab);
        x = acts(rows * d, 1);
        dx = acts(rows * d, 1);
        dw = reals(vocab * d, 1);
        db = reals(vocab, 1);
        slots = reals(TRF__TALLIES, 0); t_targets = ints(targets, rows);
        row_loss = reals(2 * rows, 0); row_nll = reals(2 * rows, 0);
        EVERYWHERE {
            size_t bytes = ON->loss_scratch(&runs[r].device, rows, vocab, d, 0, paired);
            void *room = ON->alloc(&runs[r], bytes),
                 *device_sums = ON->alloc(&runs[r], sizeof(trf__sums));
            trf__loss l;
            memset(&l, 0, sizeof l);
            trf__smooth(&l, 0.1, s % 2 ? TRF_SMOOTH_NO_PAD_KL : TRF_SMOOTH_UNIFORM, vocab, 0);
            l.row_loss = (double *)(void *)row_loss->at[r];
            l.row_nll = (double *)(void *)row_nll->at[r];
            l.sums = (trf__sums *)device_sums; l.slots = REAL(slots); l.work = room;
            l.dx = ACT(dx); l.dw = REAL(dw); l.db = REAL(db); l.x = ACT(x); l.w = mat_on(r, 0);
            l.bias = bias_on(r, vocab * d); l.targets = INT(t_targets);
            l.rows = rows; l.d = d; l.first = s % 2 == 0;
            if (paired) { l.pairs = rows / 2; l.consistency = 1; }
            ON->cross_entropy(&runs[r], &l);
            ON->download(&runs[r], &sums[r], device_sums, sizeof sums[r]);
            assert_int_equal(ON->sync(&runs[r], &err), TRF_OK);
            ON->release(&runs[r], room, bytes);
            ON->release(&runs[r], device_sums, sizeof(trf__sums));
            assert_true(fabs(sums[r].loss - sums[CPU].loss) <=
                        (r == NARROW ? 1e-2 : 1e-6) * fabs(sums[CPU].loss));
            assert_true(fabs(sums[r].nll - sums[CPU].nll) <=
                        (r == NARROW ? 1e-2 : 1e-6) * fabs(sums[CPU].nll));
            assert_true(sums[r].tokens == sums[CPU].tokens);
            assert_true(r == NARROW || sums[r].correct == sums[CPU].correct);
            assert_true((sums[r].divergence > 0) == (paired && rows > 0));
            assert_true(fabs(sums[r].divergence - sums[CPU].divergence) <=
                        (r == NARROW ? 3e-2 : 1e-5) * sums[CPU].divergence);
        }
        same("dx", rows, vocab, dx, rows * d, 1);
        same("dw", rows, vocab, dw, vocab * d, 0);
        same("db", rows, vocab, db, vocab, 0);
        free(targets);
        forget();
    }
}

static void test_cross_entropy(void **state) { (void)state; check_cross_entropy(0); }
static void test_pairs(void **state) { (void)state; check_cross_entropy(1); }

/* Several steps of Adam: weights, moments, and the copy that products read. */
static void test_adam(void **state)
{
    enum { N = 5000 };
    static const trf__param_tile tiles[] = {{0, 4096, 0, 1}, {4096, 900, -3, 0}, {4996, 4, -1, 1}};
    struct thing *m, *v, *g, *t_tiles, *partial, *slots;
    trf_real slot[TRF__TALLIES] = { 0 };
    trf_real *wide, *narrow;
    int r, step;
    int64_t i;
    (void)state;
    make_rows();
    make_weights(N);
    m = reals(N, 0); v = reals(N, 0); g = reals(N, 1);
    t_tiles = bytes_of(tiles, sizeof tiles);
    partial = reals(6, 0);
    slot[TRF__TALLY_TOKENS] = 7;
    slots = bytes_of(slot, sizeof slot);
    EVERYWHERE {
        trf__clip_result *verdict = (trf__clip_result *)ON->alloc(&runs[r], sizeof *verdict);
        ON->zero(&runs[r], verdict, sizeof *verdict);
        for (step = 0; step < 3; step++) {
            trf__clip c;
            trf__adam a;
            c.clip_result = verdict;
            c.partial = (double *)(void *)partial->at[r];
            c.gradients = REAL(g);
            c.slots = REAL(slots);
            c.tiles = (const trf__param_tile *)t_tiles->at[r];
            c.n_tiles = 3;
            c.clip_norm = 0.5;
            ON->clip(&runs[r], &c);
            a.p = REAL(weights);
            a.m = REAL(m);
            a.v = REAL(v);
            a.packed = r == NARROW ? copies->at[r] : NULL;
            a.g = REAL(g); a.tiles = c.tiles; a.n_tiles = 3; a.clip_result = verdict;
            a.beta1 = 0.9; a.beta2 = 0.98; a.epsilon = 1e-9; a.weight_decay = 0.01;
            a.optimizer = (int)TRF_ADAMW; a.epsilon_rule = (int)trf_train_defaults().epsilon_rule;
            ON->adam(&runs[r], &a);
        }
        ON->sync(&runs[r], &err);
        ON->release(&runs[r], verdict, sizeof *verdict);
    }
    same("weights", N, 0, weights, N, 0);
    same("m", N, 0, m, N, 0);
    same("v", N, 0, v, N, 0);
    wide = numbers_of(weights, NARROW, N, 0);
    narrow = numbers_of(copies, NARROW, N, 1);
    for (i = 0; i < N; i++)
        assert_true(fabs((double)wide[i] - (double)narrow[i]) <= fabs((double)wide[i]) / 256);
    free(wide);
    free(narrow);
    forget();
}

static void top_of(int32_t vocab, int64_t wide, int biased)
{
    enum { ROWS_OF_TOP = 9, WANTED = 8, RESTS = 3 * ROWS_OF_TOP };      /* EOS and two ends */
    static const int32_t only[ROWS_OF_TOP] = {TRF__ANY, TRF__NOT_EOS, 5,   TRF__ANY, 2,
                                              TRF__ANY, TRF__ANY,     900, 0};
    int32_t forced[ROWS_OF_TOP];
    struct thing *x, *t_only, *ids, *scores, *rest;
    double *want, *got, *want_rest, *got_rest;
    int32_t *want_ids, *got_ids;
    int r, i;
    for (i = 0; i < ROWS_OF_TOP; i++) forced[i] = only[i] < vocab ? only[i] : vocab - 1;
    make_weights(vocab * wide + vocab);
    x = acts(ROWS_OF_TOP * wide, 1); t_only = ints(forced, ROWS_OF_TOP);
    ids = reals(ROWS_OF_TOP * WANTED, 0); scores = reals(2 * ROWS_OF_TOP * WANTED, 0);
    rest = reals(2 * RESTS, 0);
    EVERYWHERE {
        size_t bytes = ON->top_scratch(&runs[r].device, ROWS_OF_TOP, vocab, WANTED);
        void *room = ON->alloc(&runs[r], bytes);
        trf__top t;
        TRF__ZERO(t);
        t.log_probabilities = (double *)(void *)scores->at[r];
        t.ids = (int32_t *)(void *)ids->at[r];
        t.rest = (double *)(void *)rest->at[r];
        t.work = room;
        t.x = ACT(x); t.w = mat_on(r, 0); t.bias = biased ? bias_on(r, vocab * wide) : NULL;
        t.rows = ROWS_OF_TOP; t.vocab = vocab; t.d = wide; t.n = WANTED;
        t.banned[0] = 0; t.banned[1] = -1; t.banned[2] = 5; t.only = INT(t_only); t.eos = 2;
        t.ends.n = 2; t.ends.ids[0] = vocab - 1; t.ends.ids[1] = 3;
        ON->top(&runs[r], &t);
        assert_int_equal(ON->sync(&runs[r], &err), TRF_OK);
        ON->release(&runs[r], room, bytes);
    }
    /* products of numbers that 16 bits hold are exact in all places but for the order of sums */
    want = (double *)(void *)numbers_of(scores, CPU, 2 * ROWS_OF_TOP * WANTED, 0);
    want_ids = (int32_t *)(void *)numbers_of(ids, CPU, ROWS_OF_TOP * WANTED, 0);
    want_rest = (double *)(void *)numbers_of(rest, CPU, 2 * RESTS, 0);
    assert_true(want_rest[0] == 0 && want_rest[1] < 0);
    for (r = FLOAT; r < PLACES; r++) {
        got = (double *)(void *)numbers_of(scores, r, 2 * ROWS_OF_TOP * WANTED, 0);
        got_ids = (int32_t *)(void *)numbers_of(ids, r, ROWS_OF_TOP * WANTED, 0);
        for (i = 0; i < ROWS_OF_TOP * WANTED; i++) {
            assert_int_equal(got_ids[i], want_ids[i]);
            assert_true(got[i] == want[i] || fabs(got[i] - want[i]) < 1e-5);
        }
        got_rest = (double *)(void *)numbers_of(rest, r, 2 * ROWS_OF_TOP, 0);
        for (i = 0; i < ROWS_OF_TOP; i++) assert_true(fabs(got_rest[i] - want_rest[i]) < 1e-5);
        free(got_rest);
        free(got);
        free(got_ids);
    }
    free(want_rest);
    free(want);
    free(want_ids);
    forget();
}

/* One slice and several, the last of one logit; a width of 1 makes many equal logits, in one slice
   and in several. */
static void test_top(void **state)
{
    static const int32_t vocabs[] = { 5, 1003, 4097 };
    int v;
    (void)state;
    for (v = 0; v < 3; v++) {
        top_of(vocabs[v], 33, 1);
        top_of(vocabs[v], 1, 0);
    }
}

/* Two models as one. Numbers that 16 bits hold: in all places the sums are those of floats. */
static void test_mix(void **state)
{
    enum { ROWS_OF_MIX = 5, WORDS_OF_MIX = 301, WIDE = 33, N = ROWS_OF_MIX * WORDS_OF_MIX };
    int rule, k, r, i;
    (void)state;
    for (rule = 0; rule < 2; rule++) {
        struct thing *x, *sum, *logits;
        trf_real *want, *got;
        make_weights(WORDS_OF_MIX * WIDE + WORDS_OF_MIX);
        x = acts(ROWS_OF_MIX * WIDE, 1);
        sum = reals(N, 0);
        logits = reals(N, 0);
        EVERYWHERE for (k = 0; k < 2; k++) {
            trf__mix j;
            j.sum = (trf_real *)(void *)sum->at[r];
            j.logits = (trf_real *)(void *)logits->at[r];
            j.x = ACT(x); j.w = mat_on(r, 0);
            j.bias = k ? bias_on(r, WORDS_OF_MIX * WIDE) : NULL;
            j.rows = ROWS_OF_MIX; j.vocab = WORDS_OF_MIX; j.d = WIDE;
            j.weight = 0.25 + 0.5 * k; j.rule = rule; j.first = k == 0;
            ON->mix(&runs[r], &j);
        }
        want = numbers_of(sum, CPU, N, 0);
        for (r = FLOAT; r < PLACES; r++) {
            got = numbers_of(sum, r, N, 0);
            for (i = 0; i < N; i++)
                if (!(fabs((double)got[i] - (double)want[i]) < 1e-5))
                    fail_msg("%s, number %d: %g, not %g", places[r], i, (double)got[i], (double)want[i]);
            free(got);
        }
        free(want);
        forget();
    }
}

static struct thing *zeros(int64_t n, size_t size)
{
    void *x = calloc((size_t)n, size);
    struct thing *t = bytes_of(x, (size_t)n * size);
    free(x);
    return t;
}

static void same_bytes(const char *what, int32_t token, const struct thing *t, size_t bytes)
{
    char *here = (char *)malloc(bytes), *there = (char *)malloc(bytes);
    int r;
    runs[CPU].backend->download(&runs[CPU], here, t->at[CPU], bytes);
    for (r = FLOAT; r < PLACES; r++) {
        runs[r].backend->download(&runs[r], there, t->at[r], bytes);
        if (runs[r].backend->sync(&runs[r], &err)) fail_msg("%s", err.message);
        if (memcmp(here, there, bytes))
            fail_msg("%s, token %d: %s differs from the CPU", what, (int)token, places[r]);
    }
    free(here);
    free(there);
}

/* Sentences of which half arrive when some tokens have been read; more of them than a block has
   threads. */
static void test_searches(void **state)
{
    enum { BEAM = 2, LIMIT = 5, COLUMNS = 4, WORDS = 9, WANTED = 5 };
    static const int32_t counts[] = { 5, 300 };
    int n, r;
    (void)state;
    for (n = 0; n < 2; n++) {
        int32_t sentences = counts[n], rows = sentences * BEAM + 3, begin, token, i;
        trf__arrival *arriving = (trf__arrival *)calloc((size_t)sentences, sizeof *arriving);
        double *p = (double *)calloc((size_t)(rows * WANTED), sizeof *p);
        int32_t *found = (int32_t *)calloc((size_t)(rows * WANTED), sizeof *found);
        trf_search search = trf_search_defaults();
        trf__progress nothing = { 0, 0, 0, 1 };
        trf__reorder a[PLACES];
        trf__beam beam;
        struct thing *memory, *beams, *sources, *live, *starts, *progress, *arrivals, *logs, *best;
        struct thing *ids, *parents, *position, *only, *slots, *self, *cross;
        size_t bytes;
        search.beam = search.n_best = BEAM;
        bytes = (trf__beam_layout(&beam, &search, NULL, LIMIT + 1, NULL) + 63) / 64 * 64;
        memory = zeros(sentences, bytes); beams = zeros(sentences, sizeof(trf__beam));
        sources = zeros(sentences, sizeof(trf__span));
        live = zeros(sentences, 4); starts = zeros(sentences, 4);
        progress = bytes_of(&nothing, sizeof nothing);
        arrivals = zeros(sentences, sizeof *arriving);
        logs = zeros(rows * WANTED, sizeof *p); best = zeros(rows * WANTED, 4);
        ids = zeros(rows, 4);
        parents = zeros(rows, 4);
        position = zeros(rows, 4);
        only = zeros(rows, 4);
        slots = zeros(rows, 4);
        self = zeros(rows, sizeof(trf__span));
        cross = zeros(sentences, sizeof(trf__span));
        EVERYWHERE {
            for (i = 0; i < sentences; i++) {
                arriving[i].place = sentences - 1 - i;
                arriving[i].source->key = 7 * i;
                arriving[i].source->n_key = 3 + i;
                trf__beam_layout(&arriving[i].beam, &search, NULL, LIMIT + 1,
                                 (char *)memory->at[r] + (size_t)i * bytes);
                trf__beam_sentence(&arriving[i].beam, i % 4 == 2 ? 0 : LIMIT - i % 3, NULL, 0, 2,
                                   WORDS);
                arriving[i].beam.start = 1 + i % 3;
            }
            ON->upload(&runs[r], arrivals->at[r], arriving, (size_t)sentences * sizeof *arriving);
            TRF__ZERO(a[r]);
            a[r].beams = (trf__beam *)beams->at[r]; a[r].sources = (trf__span *)sources->at[r];
            a[r].live = (int32_t *)live->at[r]; a[r].starts = (int32_t *)starts->at[r];
            a[r].progress = (trf__progress *)progress->at[r];
            a[r].log_probabilities = (const double *)logs->at[r];
            a[r].found = (const int32_t *)best->at[r];
            a[r].ids = (int32_t *)ids->at[r]; a[r].parents = (int32_t *)parents->at[r];
            a[r].position = (int32_t *)position->at[r]; a[r].only = (int32_t *)only->at[r];
            a[r].slots = (int32_t *)slots->at[r]; a[r].self = (trf__span *)self->at[r];
            a[r].cross = (trf__span *)cross->at[r];
            a[r].wanted = WANTED; a[r].rows = rows; a[r].n_cross = sentences; a[r].n_rows = rows;
            a[r].columns = COLUMNS; a[r].models = 1; a[r].places = sentences;
        }
        for (token = -1; token < LIMIT + 4; token++) {
            begin = token == -1 ? sentences / 2 : token == 2 ? sentences - sentences / 2 : 0;
            for (i = 0; i < rows * WANTED; i++) {
                p[i] = (i % WANTED ? p[i - 1] : 0) -
                       0.25 * floor(9 * trf__uniform(5, (uint64_t)(token + 1), (uint64_t)i));
                found[i] = (i / WANTED * 5 + i % WANTED) % WORDS;
            }
            EVERYWHERE {
                ON->upload(&runs[r], logs->at[r], p, (size_t)(rows * WANTED) * sizeof *p);
                ON->upload(&runs[r], best->at[r], found, (size_t)(rows * WANTED) * sizeof *found);
                a[r].begin = begin;
                a[r].arrivals =
                    (const trf__arrival *)arrivals->at[r] + (token == 2 ? sentences / 2 : 0);
                ON->reorder(&runs[r], &a[r]);
            }
            same_bytes("ids", token, ids, (size_t)rows * 4);
            same_bytes("parents", token, parents, (size_t)rows * 4);
            same_bytes("positions", token, position, (size_t)rows * 4);
            same_bytes("forced ids", token, only, (size_t)rows * 4);
            same_bytes("slots", token, slots, (size_t)rows * 4);
            same_bytes("spans", token, self, (size_t)rows * sizeof(trf__span));
            same_bytes("spans of sources", token, cross, (size_t)sentences * sizeof(trf__span));
            same_bytes("progress", token, progress, offsetof(trf__progress, wanted));
        }
        forget();
        free(arriving); free(p); free(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_activate),
        cmocka_unit_test(test_rotate),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_average),
        cmocka_unit_test(test_nan), cmocka_unit_test(test_wide_norm), cmocka_unit_test(test_pool),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_short_attention),
        cmocka_unit_test(test_cached_attention),
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_adam),
        cmocka_unit_test(test_top),
        cmocka_unit_test(test_mix),
        cmocka_unit_test(test_searches),
    };
    int r, failed;
    open_all();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (r = 0; r < PLACES; r++) runs[r].backend->close(&runs[r]);
    return failed;
}

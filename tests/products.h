/* Random matrices, and a run of the CPU to multiply them: for suites of packed formats. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

static uint64_t random_state = 88172645463325252u;
static double drawn(void)               /* in -1 .. 1 */
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(int64_t)(random_state >> 11) / 4503599627370496.0 - 1;
}

static trf_real *numbers(int64_t n)
{
    trf_real *x = (trf_real *)malloc((size_t)n * sizeof *x + 64);
    int64_t i;
    assert_non_null(x);
    for (i = 0; i < n; i++) x[i] = (trf_real)drawn();
    return x;
}

/* A run with scratch for weights of so many numbers and for so many bytes of converted rows. */
static trf__run run_by(trf_products products, int format, int threads, int64_t weight,
                       size_t converted)
{
    trf_device device = trf_device_default();
    trf_hooks hooks;
    trf__run run;
    memset(&hooks, 0, sizeof hooks);
    device.threads = threads;
    device.products = products;
    run = trf__run_on(&device, &hooks);
    run.format = format;
    OK(run.backend->open(&run, &err));
    OK(run.backend->reserve(&run, 1, 1, weight, converted, &err));
    return run;
}

static KIT_UNUSED trf__run run_of(int format, int threads, int64_t weight, size_t converted)
{
    return run_by(TRF_PRODUCTS_AUTO, format, threads, weight, converted);
}

/* y (rows, out) = x w^T, with w (out, in) packed in a format that packs panels. */
static KIT_UNUSED void multiply_packed(const trf__run *run, int format, trf_real *y, const trf_real *x,
                                       const trf_real *w, int64_t rows, int64_t in, int64_t out)
{
    void *packed = malloc(trf__formats[format].bytes(out, in));
    trf__pack pack = trf__pack_of(packed, w, out, in, format);
    trf__linear j;
    assert_non_null(packed);
    run->backend->pack(run, &pack);
    TRF__ZERO(j);
    j.x = (const trf__act *)(const void *)x; j.y = (trf__act *)(void *)y;
    j.w.packed = packed; j.w.format = format;
    j.rows = rows; j.in = in; j.out = out;
    run->backend->linear(run, &j);
    free(packed);
}

#endif

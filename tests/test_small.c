/* build: shared separate:shared plain:shared */
/* Files of small weights: what they hold, that models read from them answer with the bits of the
   floats' own packed weights, their memory, and what is refused. */
#if !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700
#endif
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "answers.h"

typedef struct image { unsigned char *bytes; size_t n; } image;

static image saved(const trf_model *model, trf_weights weights)
{
    image to = {NULL, 0};
    size_t n;
    FAILS(TRF_E_LIMIT, kit_save_memory(model, weights, NULL, 0, &n, &err));
    to.bytes = (unsigned char *)malloc(n);
    assert_non_null(to.bytes);
    OK(kit_save_memory(model, weights, to.bytes, n, &to.n, &err));
    assert_true(to.n == n);
    return to;
}

/* The file of a new model, without its checksum if it is to be changed. */
static image new_file(const trf_config *config, trf_weights weights, int changes)
{
    trf_model *model = NULL;
    image file;
    OK(trf_model_create(&model, config, NULL, &err));
    file = saved(model, weights);
    trf_model_destroy(model);
    if (changes) kit_unchecked(file.bytes, file.n);
    return file;
}

static trf_model *loaded(const image *from, const trf_config *config, trf_weights weights)
{
    trf_load_options options = trf_load_defaults();
    trf_model *model = NULL;
    options.device = config->device;
    options.weights = weights;
    OK(kit_load_memory(&model, from->bytes, from->n, &options, &err));
    return model;
}

/* From a small file, or packed while a whole file is read: the bits of the floats' translator. */
static void same_answers(void **state)
{
    static const trf_weights small[] = {TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
    int n, k;
    (void)state;
    for (n = 0; n < MODELS; n++)
        for (k = 0; k < 2; k++) {
            trf_config config = nth_config(n);
            trf_model *model = NULL, *other;
            image full, file;
            uint64_t wanted;
            OK(trf_model_create(&model, &config, NULL, &err));
            wanted = answers(model, small[k], 1, NULL, NULL);
            full = saved(model, TRF_WEIGHTS_FULL);
            file = saved(model, small[k]);
            other = loaded(&full, &config, small[k]);
            if (answers(other, TRF_WEIGHTS_FULL, 2, NULL, NULL) != wanted)
                fail_msg("variant %d, d_model %d, weights %d: packed while it is read, other "
                         "answers", n / 3, (int)config.d_model, (int)small[k]);
            trf_model_destroy(other);
            other = loaded(&file, &config, small[k]);
            if (answers(other, small[k], 1, NULL, NULL) != wanted)
                fail_msg("variant %d, d_model %d, weights %d: other answers from its file", n / 3,
                         (int)config.d_model, (int)small[k]);
            trf_model_destroy(other);
            other = loaded(&file, &config, TRF_WEIGHTS_FULL);
            if (k == 1) {                   /* 8 bits need no option */
                assert_true(answers(other, TRF_WEIGHTS_FULL, 1, NULL, NULL) == wanted);
            } else {                        /* 16 bits are floats unless they shall be packed */
                image again = saved(other, small[k]);
                assert_true(answers(other, small[k], 1, NULL, NULL) == wanted);
                assert_true(again.n == file.n && !memcmp(again.bytes, file.bytes, file.n));
                free(again.bytes);
            }
            trf_model_destroy(other);
            trf_model_destroy(model);
            free(full.bytes);
            free(file.bytes);
        }
}

/* Matrices that are read in several parts, the last of which is smaller. */
static void large_matrices(void **state)
{
    static const trf_weights small[] = {TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
    trf_config config = config_of(1, 128);
    int k;
    (void)state;
    config.d_ff = 1500;
    for (k = 0; k < 2; k++) {
        trf_model *model = NULL, *other;
        image file;
        uint64_t wanted;
        OK(trf_model_create(&model, &config, NULL, &err));
        wanted = answers(model, small[k], 1, NULL, NULL);
        file = saved(model, small[k]);
        other = loaded(&file, &config, small[k]);
        assert_true(answers(other, TRF_WEIGHTS_FULL, 1, NULL, NULL) == wanted);
        trf_model_destroy(other);
        trf_model_destroy(model);
        free(file.bytes);
    }
}

/* Another program may choose a scale whose row never reaches 127: the model has exactly its
   numbers. */
static KIT_UNUSED void scales_of_others(void **state)
{
    trf_config config = config_of(1, 16);
    trf_load_options options = trf_load_defaults();
    image small = new_file(&config, TRF_WEIGHTS_INT8, 1);
    trf_model *model = NULL;
    trf_file *file = NULL;
    const trf__affine *a;
    const char *panel;
    trf_real got, scale;
    size_t begin;
    int32_t param, i;
    (void)state;
    OK(kit_open_memory(&file, small.bytes, small.n, &options, &err));
    i = trf_file_find(file, "encoder.layers.0.linear1.weight");
    begin = (size_t)trf_file_at(file, i).begin;
    OK(trf_file_read(file, trf_file_find(file, "encoder.layers.0.linear1.weight_scale"), 20, &scale,
                     1, &err));
    for (i = 0; i < 16; i++) small.bytes[begin + 20 * 16 + (size_t)i] = (unsigned char)(i - 7);
    OK(kit_load_memory(&model, small.bytes, small.n, NULL, &err));
    param = trf_model_parameter_index(model, "encoder.layers.0.linear1.weight");
    a = trf__affine_of(&model->layout, param);
    panel = (const char *)model->packed + a->packed[TRF__INT8] + trf__int8_panel_bytes(16);
    memcpy(&got, panel + trf__int8_scales_at(16) + 4 * (20 - 16), sizeof got);
    assert_true(got == scale);
    for (i = 0; i < 16; i++)            /* words of four numbers of each row */
        assert_int_equal((signed char)panel[64 * (i / 4) + 4 * (20 - 16) + i % 4], i - 7);
    trf_file_close(file);
    trf_model_destroy(model);
    free(small.bytes);
}

/* Types, sizes and numbers of the tensors, each number within half a step of its float. */
static void what_files_hold(void **state)
{
    trf_config config = config_of(0, 64);
    trf_load_options options = trf_load_defaults();
    trf_model *model = NULL;
    trf_file *file = NULL;
    image small;
    int32_t i, matrices = 0;
    (void)state;
    config.positions = TRF_POSITIONS_LEARNED;
    OK(trf_model_create(&model, &config, NULL, &err));
    small = saved(model, TRF_WEIGHTS_INT8);
    OK(kit_open_memory(&file, small.bytes, small.n, &options, &err));
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor p = kit_open(trf_model_parameter(model, i));
        int32_t at = trf_file_find(file, p.name);
        trf_file_entry e = trf_file_at(file, at);
        int8_t *numbers = (int8_t *)malloc((size_t)trf_tensor_count(&p));
        trf_real scale = 0;
        int64_t k;
        char name[100];
        assert_non_null(numbers);
        if (p.rank == 1 || strstr(p.name, "positions")) {
            assert_string_equal(e.dtype, "F32");
        } else {
            assert_string_equal(e.dtype, "I8");
            snprintf(name, sizeof name, "%s_scale", p.name);
            OK(trf_file_read_bytes(file, at, 0, numbers, (size_t)trf_tensor_count(&p), &err));
            for (k = 0; k < trf_tensor_count(&p); k++) {
                if (k % p.shape[1] == 0)
                    OK(trf_file_read(file, trf_file_find(file, name), k / p.shape[1], &scale, 1,
                                     &err));
                assert_true(numbers[k] >= -127 &&
                            fabs((double)numbers[k] * (double)scale - (double)p.data[k]) <=
                            0.5001 * (double)scale);
            }
            matrices++;
        }
        free(numbers);
        kit_close(&p);
    }
    assert_true(matrices == 4 * 2 + 6 * 2 + 3);
    trf_file_close(file);
    trf_model_destroy(model);
    free(small.bytes);
}

/* File and memory are a quarter; reading never needs more than what stays and a little. */
static KIT_UNUSED void a_quarter(void **state)
{
    trf_config config = config_of(2, 128);
    trf_load_options options = trf_load_defaults();
    kit_memory memory;
    trf_model *model = NULL;
    image full, small;
    int64_t floats;
    (void)state;
    memset(&memory, 0, sizeof memory);
    config.d_ff = 2048;
    config.positions = TRF_POSITIONS_INTERLEAVED;
    full = new_file(&config, TRF_WEIGHTS_FULL, 0);
    small = new_file(&config, TRF_WEIGHTS_INT8, 0);
    assert_true((double)small.n < 0.27 * (double)full.n);
    options.hooks = kit_hooks(&memory);
    OK(kit_load_memory(&model, full.bytes, full.n, &options, &err));
    floats = memory.live;
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
    memory.peak = 0;
    OK(kit_load_memory(&model, small.bytes, small.n, &options, &err));
    assert_true((double)memory.live < 0.28 * (double)floats);
    assert_true(memory.peak < memory.live + 3 * 65536 * 4);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
    free(full.bytes);
    free(small.bytes);
}

/* Memory that begins with bytes of its own: what nobody writes shows in a file of the whole. */
static void *filled(void *user, size_t align, size_t bytes)
{
    void *memory;
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1))
        return NULL;
    return memset(memory, *(const unsigned char *)user, bytes);
}
static void unfilled(void *user, void *memory, size_t bytes)
{
    (void)user; (void)bytes;
    free(memory);
}

/* What a model is after loading: its own file. */
static image read_with(const image *from, int32_t threads, trf_weights weights, int packed, int fill,
                       int32_t nonfinite)
{
    unsigned char byte = (unsigned char)fill;
    trf_load_options options = trf_load_defaults();
    trf_model *model = NULL;
    image to;
    options.weights = weights;
    options.packed = packed;
    options.allow_nonfinite = nonfinite;
    options.device.threads = threads;
    options.hooks.user = &byte;
    options.hooks.alloc = filled;
    options.hooks.free = unfilled;
    OK(kit_load_memory(&model, from->bytes, from->n, &options, &err));
    to = saved(model, TRF_WEIGHTS_FULL);
    trf_model_destroy(model);
    return to;
}

static void same_image(const image *one, image *other, const char *what, int k, int i)
{
    if (one->n != other->n || memcmp(one->bytes, other->bytes, one->n))
        fail_msg("%s, file %d, format %d", what, k, i);
    free(other->bytes);
}

/* A model so large that several threads read it, in matrices that end inside panels, words and
   vectors: any number of threads leaves the same bytes, and so do numbers that are packed as the
   file has them (with nonfinite numbers allowed they pass through floats). */
static void read_by_threads(void **state)
{
    static const trf_weights in_file[] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16, TRF_WEIGHTS_F16,
                                          TRF_WEIGHTS_INT8};
    static const trf_weights formats[] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16,
                                          TRF_WEIGHTS_INT8};
    trf_config config = trf_config_preset(TRF_TINY);
    trf_model *model = NULL;
    int k, i;
    (void)state;
    config.d_model = 6 * 37;
    config.n_heads = 6;
    config.d_ff = 1111;
    config.encoder_layers = config.decoder_layers = 2;
    config.source_vocab = config.target_vocab = 9001;
    for (k = 0; k < 4; k++) {
        image file = new_file(&config, in_file[k], 0), one, packed;
        for (i = 0; i < 4; i++) {
            if (k == 3 && i < 3) continue;      /* 8 bits stay 8 bits */
            one = read_with(&file, 1, formats[i], i == 1, 0xA5, 0);
            packed = read_with(&file, 5, formats[i], i == 1, 0xA5, 0);
            same_image(&one, &packed, "five threads", k, i);
            packed = read_with(&file, 2, formats[i], i == 1, 0x5A, 0);
            same_image(&one, &packed, "other bytes in new memory", k, i);
            packed = read_with(&file, 3, formats[i], i == 1, 0xA5, 1);
            same_image(&one, &packed, "by way of floats", k, i);
            free(one.bytes);
        }
        if (k == 3) {           /* and as packed from floats */
            OK(trf_model_create(&model, &config, NULL, &err));
            OK(trf_model_pack(model, TRF_WEIGHTS_INT8, &err));
            one = saved(model, TRF_WEIGHTS_FULL);
            packed = read_with(&file, 3, TRF_WEIGHTS_INT8, 0, 0xA5, 0);
            same_image(&one, &packed, "packed from floats", k, 3);
            free(one.bytes);
            trf_model_destroy(model);
        }
        free(file.bytes);
    }
}

/* Of several numbers that are not finite, in tensors that several threads read, the first in the
   order of parameters is told, every time. */
static void first_bad_number(void **state)
{
    static const char *const names[] = {"encoder.layers.1.linear1.weight",
                                        "decoder.layers.0.self_attn.in_proj_weight",
                                        "decoder.layers.1.linear2.weight"};
    const float bad = NAN;
    trf_config config = trf_config_preset(TRF_TINY);
    trf_load_options options = trf_load_defaults();
    trf_model *model = NULL;
    trf_file *file;
    image full;
    int i;
    (void)state;
    config.source_vocab = config.target_vocab = 9001;
    full = new_file(&config, TRF_WEIGHTS_FULL, 1);
    options.device.threads = 6;
    options.memory = full.bytes;
    options.memory_bytes = full.n;
    OK(trf_file_open(&file, NULL, &options, &err));
    for (i = 0; i < 3; i++)
        memcpy(full.bytes + trf_file_at(file, trf_file_find(file, names[i])).begin + 404, &bad, 4);
    trf_file_close(file);
    for (i = 0; i < 20; i++) {
        options.packed = i % 2;
        FAILS(TRF_E_NONFINITE, trf_model_load(&model, NULL, &options, &err));
        assert_null(model);
        assert_string_equal(err.what, names[0]);
        assert_non_null(strstr(err.message, "element 101 is"));
    }
    free(full.bytes);
}

/* A row that is all 0, and one of numbers too small for a scale. */
static void rows_of_nothing(void **state)
{
    trf_config config = config_of(4, 16);
    trf_model *model = NULL, *other;
    trf_tensor w;
    image small;
    uint64_t wanted;
    int32_t i;
    (void)state;
    OK(trf_model_create(&model, &config, NULL, &err));
    w = kit_open(trf_model_parameter(model, trf_model_parameter_index(
        model, "decoder.layers.0.linear1.weight")));
    for (i = 0; i < 16; i++) { w.data[16 + i] = 0; w.data[32 + i] = (trf_real)1e-36; }
    kit_close(&w);
    wanted = answers(model, TRF_WEIGHTS_INT8, 1, NULL, NULL);
    small = saved(model, TRF_WEIGHTS_INT8);
    other = loaded(&small, &config, TRF_WEIGHTS_FULL);
    assert_true(answers(other, TRF_WEIGHTS_FULL, 1, NULL, NULL) == wanted);
    trf_model_destroy(other);
    w = kit_open(trf_model_parameter(model, trf_model_parameter_index(
        model, "decoder.layers.0.linear1.weight")));
    w.data[3 * 16 + 5] = (trf_real)HUGE_VAL;
    kit_close(&w);
    FAILS(TRF_E_NONFINITE, kit_save_memory(model, TRF_WEIGHTS_INT8, small.bytes, small.n,
                                                 NULL, &err));
    assert_string_equal(err.what, "decoder.layers.0.linear1.weight");
    assert_int_equal(err.where, 3);
    trf_model_destroy(model);
    free(small.bytes);
}

/* Changes bytes of a file without a checksum, loads it, and puts them back. */
static void refused_with(image *file, size_t at, const void *bytes, size_t n, trf_status status,
                         const char *what)
{
    unsigned char old[64];
    trf_model *model = NULL;
    assert_true(n <= sizeof old && at + n <= file->n);
    memcpy(old, file->bytes + at, n);
    memcpy(file->bytes + at, bytes, n);
    if (kit_load_memory(&model, file->bytes, file->n, NULL, &err) != status)
        fail_msg("%s: %s, not status %d", what, err.message, (int)status);
    assert_null(model);
    if (!strstr(err.message, what)) fail_msg("\"%s\" does not name %s", err.message, what);
    memcpy(file->bytes + at, old, n);
}

static size_t in_header(const image *file, const char *text)
{
    size_t i, n = strlen(text);
    for (i = 0; i + n <= file->n; i++) if (!memcmp(file->bytes + i, text, n)) return i;
    fail_msg("the header lacks %s", text);
    return 0;
}

static void bad_files(void **state)
{
    static const float bad[] = {0, -1, NAN, INFINITY, 1e-36f, 3e38f};
    trf_config config = config_of(1, 16);
    trf_load_options options = trf_load_defaults();
    trf_model *model = NULL;
    trf_file *file = NULL;
    trf_trainer *trainer = NULL;
    trf_train_options training = kit_training();
    image small;
    size_t scales, numbers, i;
    (void)state;
    small = new_file(&config, TRF_WEIGHTS_INT8, 0);
    OK(kit_open_memory(&file, small.bytes, small.n, &options, &err));
    scales = (size_t)trf_file_at(file, trf_file_find(
        file, "encoder.layers.1.linear1.weight_scale")).begin;
    numbers = (size_t)trf_file_at(file, trf_file_find(file,
                                                      "encoder.layers.1.linear1.weight")).begin;
    trf_file_close(file);
    refused_with(&small, scales + 8, &bad[1], 4, TRF_E_CHECKSUM, "CRC-32");
    kit_unchecked(small.bytes, small.n);
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused_with(&small, scales + 8, &bad[i], 4,
                     isfinite(bad[i]) ? TRF_E_FORMAT : TRF_E_NONFINITE,
                     "encoder.layers.1.linear1.weight_scale");
        if (isfinite(bad[i])) assert_int_equal(err.where, 2);
    }
    refused_with(&small, numbers + 5, "\x80", 1, TRF_E_FORMAT, "encoder.layers.1.linear1.weight\"");
    assert_int_equal(err.where, 5);
    /* scales under another name, of another type or shape; 8 bits where floats belong */
    refused_with(&small, in_header(&small, "linear1.weight_scale\""), "linear1.weight_scald", 20,
                 TRF_E_SHAPE, "_scale");
    i = in_header(&small, "linear1.weight_scale\":{\"dtype\":\"F32\"");
    refused_with(&small, i + strlen("linear1.weight_scale\":{\"dtype\":\""), "I32", 3, TRF_E_SHAPE,
                 "weight_scale\" must be of type F32");
    OK(kit_load_memory(&model, small.bytes, small.n, NULL, &err));
    FAILS(TRF_E_STATE, trf_trainer_create(&trainer, model, &training, &err));
    FAILS(TRF_E_STATE, kit_save_as(model, "small", TRF_WEIGHTS_F16, &err));
    FAILS(TRF_E_STATE, trf_model_pack(model, TRF_WEIGHTS_BF16, &err));
    OK(trf_model_pack(model, TRF_WEIGHTS_INT8, &err));
    OK(trf_model_pack(model, TRF_WEIGHTS_FULL, &err));
    trf_model_destroy(model);
    model = NULL;
    options.weights = TRF_WEIGHTS_BF16;
    FAILS(TRF_E_STATE, kit_load_memory(&model, small.bytes, small.n, &options, &err));
    options.weights = TRF_WEIGHTS_F16;
    FAILS(TRF_E_INVALID_ARG, kit_load_memory(&model, small.bytes, small.n, &options, &err));
    free(small.bytes);
}

/* A bias of type I8, and a matrix of another shape. */
static void bad_tensors(void **state)
{
    trf_config config = config_of(1, 16);
    image small = new_file(&config, TRF_WEIGHTS_INT8, 1);
    size_t at;
    (void)state;
    at = in_header(&small, "encoder.layers.0.linear1.bias\":{\"dtype\":\"F32\",\"shape\":[35]");
    refused_with(&small, at,
                 "encoder.layers.0.linear1.bias\":{\"dtype\":\"I8\",\"shape\":[140]", 56,
                 TRF_E_SHAPE, "linear1.bias");
    at = in_header(&small, "linear1.weight\":{\"dtype\":\"I8\",\"shape\":[35,16]");
    refused_with(&small, at + strlen("linear1.weight\":{\"dtype\":\"I8\",\"shape\":["), "16,35", 5,
                 TRF_E_SHAPE, "linear1.weight");
    free(small.bytes);
}

/* Other programs store a tied matrix twice: with the same numbers it is packed once. */
static void tied_twice(void **state)
{
    char path[] = "/tmp/trf_small_XXXXXX";
    trf_config config = config_of(2, 20);
    trf_load_options options = trf_load_defaults();
    trf_tensor tensors[128];
    trf_model *model = NULL, *other = NULL;
    uint64_t wanted;
    int32_t n, i;
    int differs, fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    config.max_length = 40;
    options.config = &config;
    options.weights = TRF_WEIGHTS_INT8;
    OK(trf_model_create(&model, &config, NULL, &err));
    wanted = answers(model, TRF_WEIGHTS_INT8, 1, NULL, NULL);
    n = trf_model_parameter_count(model);
    assert_true(n < 128);
    for (i = 0; i < n; i++) tensors[i] = kit_open(trf_model_parameter(model, i));
    tensors[n] = tensors[trf_model_parameter_index(model, "src_embed.weight")];
    tensors[n].name = "generator.weight";
    tensors[n].data = (trf_real *)malloc(VOCAB * 20 * sizeof(trf_real));
    assert_non_null(tensors[n].data);
    memcpy(tensors[n].data, tensors[0].data, VOCAB * 20 * sizeof(trf_real));
    for (differs = 0; differs < 2; differs++) {
        if (differs) tensors[n].data[VOCAB * 20 - 1] += 1;
        OK(trf_file_save(path, tensors, n + 1, NULL, NULL, &err));
        FAILS(differs ? TRF_E_SHAPE : TRF_OK, trf_model_load(&other, path, &options, &err));
        if (differs) assert_non_null(strstr(err.message, "generator.weight"));
        else assert_true(answers(other, TRF_WEIGHTS_FULL, 1, NULL, NULL) == wanted);
        trf_model_destroy(other);
        other = NULL;
    }
    free(tensors[n].data);
    for (i = 0; i < n; i++) kit_close(&tensors[i]);
    trf_model_destroy(model);
    remove(path);
}

/* The same in 8 bits, where numbers and scales must be equal: the file of an untied model with equal
   embeddings, which then says that they are tied. */
static void tied_twice_in_8_bits(void **state)
{
    static const char *const names[] = {"tgt_embed.weight", "generator.weight"};
    trf_config config = config_of(0, 16);
    trf_model *model = NULL, *tied = NULL;
    trf_file *file = NULL;
    trf_tensor from, to;
    image small;
    float other = 1;
    size_t at;
    int i;
    (void)state;
    OK(trf_model_create(&model, &config, NULL, &err));
    from = kit_open(trf_model_parameter(model, trf_model_parameter_index(model,
                                                                         "src_embed.weight")));
    for (i = 0; i < 2; i++) {
        to = kit_open(trf_model_parameter(model, trf_model_parameter_index(model, names[i])));
        memcpy(to.data, from.data, (size_t)trf_tensor_count(&from) * sizeof *to.data);
        kit_close(&to);
    }
    kit_close(&from);
    small = saved(model, TRF_WEIGHTS_INT8);
    trf_model_destroy(model);
    kit_unchecked(small.bytes, small.n);
    at = in_header(&small, "\"trf.config.tying\":\"0\"");
    small.bytes[at + strlen("\"trf.config.tying\":\"")] = (unsigned char)('0' + TRF_TIED_ALL);
    OK(kit_load_memory(&tied, small.bytes, small.n, NULL, &err));
    trf_model_destroy(tied);
    OK(kit_open_memory(&file, small.bytes, small.n, NULL, &err));
    at = (size_t)trf_file_at(file, trf_file_find(file, "generator.weight_scale")).begin;
    refused_with(&small, at + 4 * (VOCAB - 1), &other, sizeof other, TRF_E_SHAPE,
                 "generator.weight");
    at = (size_t)trf_file_at(file, trf_file_find(file, "tgt_embed.weight")).begin;
    refused_with(&small, at + VOCAB * 16 - 1, small.bytes[at + VOCAB * 16 - 1] == 1 ? "\2" : "\1", 1,
                 TRF_E_SHAPE, "tgt_embed.weight");
    trf_file_close(file);
    free(small.bytes);
}

/* A session knows its model's packed weights: the same file is the same model, whatever its memory
   had before, and other weights are another one. */
static void sessions(void **state)
{
    char path[] = "/tmp/trf_small_XXXXXX";
    trf_config config = config_of(5, 20);
    trf_batch batch = kit_fill(&data, 2, 3, 5, VOCAB, 5);
    trf_sampling sampling = trf_sampling_defaults();
    image files[2];
    int which, fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (which = 0; which < 2; which++) {
        files[which] = new_file(&config, TRF_WEIGHTS_INT8, 0);
        config.seed++;                                  /* the biases are equal */
    }
    batch.source.count = 0;
    sampling.max_tokens = 5;
    for (which = 0; which < 3; which++) {
        unsigned char fill = (unsigned char)(which ? 0x11 : 0x22);
        trf_load_options options = trf_load_defaults();
        trf_model *model = NULL;
        trf_sampler *sampler = NULL;
        const image *from = &files[which == 2];
        options.hooks.user = &fill;
        options.hooks.alloc = filled;
        options.hooks.free = unfilled;
        OK(kit_load_memory(&model, from->bytes, from->n, &options, &err));
        OK(trf_sampler_create(&sampler, model, &sampling, &err));
        if (which == 0) {
            OK(trf_sampler_begin(sampler, &batch, &err));
            OK(trf_sampler_step(sampler, 2, NULL, &err));
            OK(trf_sampler_save(sampler, path, &err));
        } else FAILS(which == 1 ? TRF_OK : TRF_E_STATE, trf_sampler_load(sampler, path, &err));
        trf_sampler_destroy(sampler);
        trf_model_destroy(model);
    }
    free(files[0].bytes);
    free(files[1].bytes);
    remove(path);
}

static void memory_ends(void **state)
{
    trf_config config = config_of(2, 20);
    trf_load_options options = trf_load_defaults();
    kit_memory memory;
    trf_model *model = NULL;
    image small;
    size_t n;
    (void)state;
    memset(&memory, 0, sizeof memory);
    config.hooks = options.hooks = kit_hooks(&memory);
    OK(trf_model_create(&model, &config, NULL, &err));
    small = saved(model, TRF_WEIGHTS_INT8);
    ALLOCATIONS_FAIL(memory, 4, kit_save_memory(model, TRF_WEIGHTS_INT8, small.bytes, small.n,
                                                      &n, &err), 1);
    trf_model_destroy(model);
    model = NULL;
    assert_int_equal(memory.live, 0);
    ALLOCATIONS_FAIL(memory, 4, kit_load_memory(&model, small.bytes, small.n, &options, &err),
                     !model);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
    free(small.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_answers),    cmocka_unit_test(what_files_hold),
        #if !defined(TRF__TEST_BACKEND)     /* the hooks do not see the memory of a device apart */
        cmocka_unit_test(a_quarter),       cmocka_unit_test(scales_of_others),
        cmocka_unit_test(read_by_threads),
#endif
        cmocka_unit_test(first_bad_number),
        cmocka_unit_test(large_matrices),
        cmocka_unit_test(rows_of_nothing),
        cmocka_unit_test(bad_files),       cmocka_unit_test(bad_tensors),
        cmocka_unit_test(tied_twice),      cmocka_unit_test(tied_twice_in_8_bits),
        cmocka_unit_test(sessions),        cmocka_unit_test(memory_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

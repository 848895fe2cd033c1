/* build: shared double:shared separate:shared plain:shared */
/* Packed files: mapped, read or in memory, a model gives the answers of the one that was saved, bit for
   bit; what is wrong with a file is named; a mapped model changes nothing and is changed by nothing. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "answers.h"

enum { KINDS = sizeof(trf_real) == 8 ? 1 : 3 };
static const trf_weights kinds[] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
static char path[64], second[64];               /* the suite's variants run beside one another */

/* A packed model with vocabularies and a text. */
static trf_model *packed_model(const trf_config *config, trf_weights weights)
{
    trf_model *model = NULL;
    trf_vocab *vocab = NULL;
    char word[16];
    int32_t i;
    OK(trf_model_create(&model, config, NULL, &err));
    OK(trf_vocab_create(&vocab, TRF_WORDS, NULL, &err));
    OK(trf_vocab_finish(vocab, VOCAB, 1, &err));
    for (i = 4; i < VOCAB; i++) {
        snprintf(word, sizeof word, "w%d", (int)i);
        OK(trf_vocab_add(vocab, word, &err));
    }
    OK(trf_model_set_vocabs(model, config->kind == TRF_DECODER_ONLY ? NULL : vocab,
                            config->kind == TRF_ENCODER_ONLY ? NULL : vocab, &err));
    OK(trf_model_set_metadata(model, "mine", "a text", &err));
    trf_vocab_destroy(vocab);
    OK(trf_model_pack(model, weights, &err));
    return model;
}

static trf_model *loaded(int map, int verify)
{
    trf_load_options o = trf_load_defaults();
    trf_model *model = NULL;
    o.map = map;
    o.verify = verify;
    OK(trf_model_load(&model, path, &o, &err));
    assert_string_equal(trf_model_metadata(model, "mine"), "a text");
    assert_int_equal(model->map != NULL, map && TRF_OS_MAPS && model->run.backend->on_host);
    return model;
}

static void same_answers(void **state)
{
    int n, kind, way;
    (void)state;
    for (n = 0; n < MODELS; n += KIT_AGAIN && !kit_all() ? 3 : 1)
        for (kind = 0; kind < KINDS; kind++) {
            trf_config config = nth_config(n);
            trf_model *model = packed_model(&config, kinds[kind]), *other = NULL;
            uint64_t before = answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL), first;
            size_t bytes;
            void *memory;
            if (kind == 1) OK(trf_model_save(model, path, NULL, &err));
            else OK(kit_save_as(model, path, kinds[kind], &err));
            first = hash_file(path);
            for (way = 0; way < 3; way++) {
                other = loaded(way > 0, way > 1);
                assert_true(answers(other, TRF_WEIGHTS_FULL, 0, NULL, NULL) == before);
                assert_true(answers(other, kinds[kind], 2, NULL, NULL) == before);
                OK(trf_model_save(other, path, NULL, &err));      /* over the file that is mapped */
                assert_true(hash_file(path) == first);
                assert_true(answers(other, TRF_WEIGHTS_FULL, 0, NULL, NULL) == before);
                trf_model_destroy(other);
            }
            FAILS(TRF_E_LIMIT, kit_save_memory(model, TRF_WEIGHTS_FULL, NULL, 0, &bytes, &err));
            memory = malloc(bytes);
            assert_non_null(memory);
            OK(kit_save_memory(model, TRF_WEIGHTS_FULL, memory, bytes, NULL, &err));
            OK(kit_load_memory(&other, memory, bytes, NULL, &err));
            free(memory);
            assert_true(answers(other, TRF_WEIGHTS_FULL, 0, NULL, NULL) == before);
            trf_model_destroy(other);
            trf_model_destroy(model);
        }
    remove(path);
}

/* Two models of one file, and the file replaced under them. */
static void replaced(void **state)
{
    trf_config config = config_of(0, 20);
    trf_model *model = packed_model(&config, TRF_WEIGHTS_FULL), *one, *two, *three;
    uint64_t old = answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL), other;
    (void)state;
    OK(trf_model_save(model, path, NULL, &err));
    trf_model_destroy(model);
    one = loaded(1, 0);
    two = loaded(1, 0);
    config.seed++;
    model = packed_model(&config, TRF_WEIGHTS_FULL);
    other = answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL);
    assert_true(other != old);
    OK(trf_model_save(model, path, NULL, &err));
    three = loaded(1, 0);
    assert_true(answers(one, TRF_WEIGHTS_FULL, 0, NULL, NULL) == old);
    trf_model_destroy(one);
    assert_true(answers(two, TRF_WEIGHTS_FULL, 0, NULL, NULL) == old);
    assert_true(answers(three, TRF_WEIGHTS_FULL, 0, NULL, NULL) == other);
    assert_true(answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL) == other);
    trf_model_destroy(two);
    trf_model_destroy(three);
    trf_model_destroy(model);
    remove(path);
}

/* The status of loading the bytes as a file. */
static trf_status load_bytes(const char *bytes, size_t n, int map, int verify)
{
    trf_load_options o = trf_load_defaults();
    trf_model *model = NULL;
    trf_status status;
    o.map = map;
    o.verify = verify;
    assert_true(kit_write_file(second, bytes, n));
    status = trf_model_load(&model, second, &o, &err);
    assert_int_equal(status == TRF_OK, model != NULL);
    trf_model_destroy(model);
    return status;
}

/* Every byte of the header, some of the data, sizes, and texts that fit their checksums. */
static void damage(void **state)
{
    static const struct { const char *from, *to, *says; trf_status status; } edits[] = {
        {"\"trf.packed\":\"full\"", "\"trf.packed\":\"ful7\"", "expected trf.packed", TRF_E_FORMAT},
        {"\"trf.packed.order\":\"", "\"trf.packed.orde7\":\"", "expected trf.packed", TRF_E_FORMAT},
        {"\"trf.packed.layout\":\"", "\"trf.packed.layou7\":\"", "expected trf.packed", TRF_E_FORMAT},
        {"\"trf.packed.order\":\"little\"", "\"trf.packed.order\":\"bigger\"", "quantize --packed",
         TRF_E_UNSUPPORTED},
        {"\"trf.packed.layout\":\"", "\"trf.packed.layout\":\"x", "quantize --packed", TRF_E_UNSUPPORTED},
        {"\"trf.content\":\"packed\"", "\"trf.content\":\"packe7\"", "lacks tensor", TRF_E_SHAPE},
        {"\"trf.matrices\":{\"dtype\":\"U8\"", "\"trf.matrices\":{\"dtype\":\"I8\"", "trf.matrices",
         TRF_E_SHAPE},
        {"\"trf.numbers\":{", "\"trf.number7\":{", "trf.numbers", TRF_E_SHAPE},
        {"\"trf.source_vocab\":{", "\"trf.source_voca7\":{", "in a packed file", TRF_E_SHAPE},
        {"\"trf.format\":\"11\"", "\"trf.format\":\"13\"", "formats 2 to 12", TRF_E_UNSUPPORTED},
    };
    trf_config config = config_of(1, 16);
    trf_model *model = packed_model(&config, TRF_WEIGHTS_FULL);
    char *bytes, *copy;
    size_t n, at, header, i;
    (void)state;
    OK(trf_model_save(model, path, NULL, &err));
    trf_model_destroy(model);
    bytes = kit_read_file(path, &n);
    copy = (char *)malloc(n + 1);
    assert_non_null(bytes);
    assert_non_null(copy);
    header = 8 + ((size_t)(unsigned char)bytes[0] | (size_t)(unsigned char)bytes[1] << 8);
    assert_int_equal(header % 64, 0);
    memcpy(copy, bytes, n);
    /* the header's checksum leaves out its own name, texts that are not the library's, and blanks */
    for (at = 0; at < header; at++) {
        if (!memcmp(bytes + at, "\"format\":\"pt\"", 13)) at += 13;
        if (!memcmp(bytes + at, "\"mine\":\"a text\"", 15)) at += 15;
        if (!memcmp(bytes + at, "\"trf.header_crc32\"", 18)) at += 18;
        copy[at] = (char)(copy[at] ^ (at % 7 == 0 ? 4 : 1));
        if (load_bytes(copy, n, 1, 1) == TRF_OK && !strchr("\t\n\r ", copy[at]))
            fail_msg("byte %d of the header is damaged, and the file loads", (int)at);
        copy[at] = bytes[at];
    }
    for (i = 0; i < 40; i++) {
        at = header + i * (n - header - 1) / 39;
        copy[at] = (char)(copy[at] ^ 16);
        FAILS(TRF_E_CHECKSUM, load_bytes(copy, n, 0, 0));
        FAILS(TRF_E_CHECKSUM, load_bytes(copy, n, 1, 1));
        copy[at] = bytes[at];
    }
    copy[header] = (char)(copy[header] ^ 16);                /* a matrix: nobody looks */
    if (TRF_OS_MAPS && trf__backend_of(&config.device)->on_host)
        FAILS(TRF_OK, load_bytes(copy, n, 1, 0));
    copy[header] = bytes[header];
    FAILS(TRF_E_FORMAT, load_bytes(copy, n - 1, 1, 0));
    FAILS(TRF_E_FORMAT, load_bytes(copy, header, 1, 0));
    copy[n] = 0;
    FAILS(TRF_E_FORMAT, load_bytes(copy, n + 1, 1, 0));
    for (i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *found;
        memcpy(copy, bytes, n);
        kit_unchecked(copy, n);
        for (found = copy; found + strlen(edits[i].from) < copy + header; found++)
            if (!memcmp(found, edits[i].from, strlen(edits[i].from))) break;
        if (found + strlen(edits[i].from) >= copy + header) fail_msg("edit %d finds nothing", (int)i);
        memcpy(found, edits[i].to, strlen(edits[i].to));
        assert_int_equal(load_bytes(copy, n, 1, 0), edits[i].status);
        if (!strstr(err.message, edits[i].says)) fail_msg("edit %d: %s", (int)i, err.message);
    }
    free(copy);
    free(bytes);
    remove(path);
    remove(second);
}

static void refusals(void **state)
{
    trf_config config = config_of(1, 16);
    trf_model *model = packed_model(&config, TRF_WEIGHTS_FULL), *copy = NULL;
    trf_train_options training = kit_training();
    trf_trainer *trainer = NULL;
    trf_load_options o = trf_load_defaults();
    kit_memory memory;
    int32_t i;
    (void)state;
    FAILS(TRF_E_STATE, kit_save_as(model, path, TRF_WEIGHTS_F16, &err));
    if (KINDS > 1) FAILS(TRF_E_STATE, kit_save_as(model, path, TRF_WEIGHTS_INT8, &err));
    OK(trf_model_save(model, path, NULL, &err));
    trf_model_destroy(model);
    model = loaded(1, 0);
    {                                           /* an array of another size */
        const trf_file_entry *entry;
        trf_file *file;
        OK(trf_file_open(&file, path, NULL, &err));
        OK(trf__packed_entry(file, model, 0, &entry, &err));
        file->entries[entry - file->entries].bytes--;
        FAILS(TRF_E_SHAPE, trf__packed_entry(file, model, 0, &entry, &err));
        trf_file_close(file);
    }
    FAILS(TRF_E_STATE, trf_model_copy(&copy, model, &err));
    FAILS(TRF_E_STATE, trf_trainer_create(&trainer, model, &training, &err));
    OK(trf_model_pack(model, TRF_WEIGHTS_FULL, &err));
    if (KINDS > 1) FAILS(TRF_E_STATE, trf_model_pack(model, TRF_WEIGHTS_BF16, &err));
    for (i = 0; model->map && i < trf_model_parameter_count(model); i++) {
        trf_tensor p = trf_model_parameter(model, i);
        assert_true(!p.data && !p.device && p.name);
    }
    trf_model_destroy(model);
    if (KINDS > 1) {                            /* asked for another format than the file's */
        o.weights = TRF_WEIGHTS_INT8;
        FAILS(TRF_E_STATE, trf_model_load(&model, path, &o, &err));
        assert_null(model);
    }
    o.weights = TRF_WEIGHTS_F16;
    FAILS(TRF_E_INVALID_ARG, trf_model_load(&model, path, &o, &err));
    o.weights = TRF_WEIGHTS_FULL;
    memset(&memory, 0, sizeof memory);
    o.hooks = kit_hooks(&memory);
    ALLOCATIONS_FAIL(memory, 5, trf_model_load(&model, path, &o, &err), !model);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
    remove(path);
}

/* The layout number depends on the format and the model, not on the vectors of the processor. */
static void layouts(void **state)
{
    static const int32_t widths[] = {0, 16, 32, 64};
    char numbers[2][4][16] = {{{0}}};
    int n, kind;
    size_t i;
    (void)state;
    for (n = 0; n < 2; n++)
        for (kind = 0; kind < KINDS; kind++)
            for (i = 0; i < sizeof widths / sizeof *widths; i++) {
                trf_config config = config_of(0, n ? 20 : 64);
                trf_model *model;
                char number[16];
                config.device.vector_bytes = widths[i];
                if (!trf__host_backend(widths[i])) continue;
                model = packed_model(&config, kinds[kind]);
                OK(trf__packed_layout(model, number, &err));
                trf_model_destroy(model);
                if (i == 0) strcpy(numbers[n][kind], number);
                assert_string_equal(number, numbers[n][kind]);
            }
    for (n = 0; n < 2; n++) {                   /* no float, but only matrices, lie elsewhere */
        trf_config config = config_of(0, 64);
        trf_model *model;
        config.qkv_bias = config.out_bias = config.feed_forward_bias = config.generator_bias = 0;
        config.d_ff = n ? 48 : 96;
        model = packed_model(&config, kinds[0]);
        OK(trf__packed_layout(model, numbers[n][3], &err));
        trf_model_destroy(model);
    }
    assert_string_not_equal(numbers[0][3], numbers[1][3]);
    for (kind = 0; kind < KINDS; kind++) {
        assert_string_not_equal(numbers[0][kind], numbers[1][kind]);
        assert_string_not_equal(numbers[0][kind], numbers[0][(kind + 1) % 3]);
    }
}

/* Floats that are packed while they are read: the answers of the model that has floats, and one copy. */
static void packed_while_read(void **state)
{
    int n;
    (void)state;
    for (n = 0; n < MODELS; n += 2) {
        trf_config config = nth_config(n);
        trf_load_options o = trf_load_defaults();
        trf_model *model = NULL;
        trf_train_options training = kit_training();
        trf_trainer *trainer = NULL;
        uint64_t before;
        OK(trf_model_create(&model, &config, NULL, &err));
        before = answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL);
        OK(trf_model_save(model, path, NULL, &err));
        trf_model_destroy(model);
        o.packed = 1;
        o.device = config.device;
        OK(trf_model_load(&model, path, &o, &err));
        assert_non_null(model->packed);
        assert_true(answers(model, TRF_WEIGHTS_FULL, 0, NULL, NULL) == before);
        FAILS(TRF_E_STATE, trf_trainer_create(&trainer, model, &training, &err));
        trf_model_destroy(model);
    }
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_answers), cmocka_unit_test(replaced), cmocka_unit_test(damage),
        cmocka_unit_test(refusals), cmocka_unit_test(layouts), cmocka_unit_test(packed_while_read),
    };
    snprintf(path, sizeof path, "packed_files.%u.model", (unsigned)trf_os_pid());
    snprintf(second, sizeof second, "packed_files.%u.other", (unsigned)trf_os_pid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* build: shared separate:shared long:shared plain:shared */
/* Models and checkpoints in files: what is written comes back, bit for bit; and whatever is wrong
   with a file is named, while nothing is loaded, leaked or asked for beyond measure. Files are
   taken apart, changed and put together here, with a JSON writer and a CRC of their own. */
#if !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700
#endif
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <ctype.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"
#include "folder.h"

#define OK(call) check_ok((call), &err, #call, __LINE__)

static void check_ok(trf_status status, const trf_error *err, const char *call, int line)
{
    if (status != TRF_OK)
        fail_msg("line %d: %s: %s: %s", line, call, trf_status_name(status), err->message);
}

static int make_folder(void **state)
{
    (void)state;
    alarm(900);         /* a test that hangs is a test that fails, but not one beside other work */
    return folder_make("store", 1);
}

static int remove_folder(void **state) { (void)state; return folder_remove(); }

/* Files in the folder: a failed save leaves none behind. */
static int files_in_folder(void)
{
    char command[128];
    FILE *pipe;
    int n = -1;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    return n;
}

/* -----------------------------------------------------------------------------------------------
   A file taken apart. */

typedef struct piece {
    char name[160], dtype[8];
    int32_t rank;
    int64_t shape[4];
    unsigned char *data;
    size_t bytes;
} piece;
typedef struct note { char key[96], *value; } note;
typedef struct draft { piece pieces[160]; note notes[120]; int n, n_notes; } draft;

static char *copy_text(const char *text)
{
    char *copy = (char *)malloc(strlen(text) + 1);
    assert_non_null(copy);
    return strcpy(copy, text);
}

static void take_apart(draft *d, const char *path)
{
    trf_error err;
    trf_file *file = NULL;
    size_t n;
    unsigned char *bytes = (unsigned char *)kit_read_file(path, &n);
    int i;
    memset(d, 0, sizeof *d);
    assert_non_null(bytes);
    OK(trf_file_open(&file, path, NULL, &err));
    for (i = 0; i < kit_file_tensors(file); i++) {
        trf_file_entry e = trf_file_at(file, i);
        piece *p = &d->pieces[d->n++];
        assert_true(d->n <= 160);
        snprintf(p->name, sizeof p->name, "%s", e.name);
        snprintf(p->dtype, sizeof p->dtype, "%s", e.dtype);
        p->rank = e.rank;
        memcpy(p->shape, e.shape, sizeof p->shape);
        p->bytes = (size_t)e.bytes;
        p->data = (unsigned char *)malloc(p->bytes + 1);
        memcpy(p->data, bytes + e.begin, p->bytes);
    }
    for (i = 0; trf_file_metadata_at(file, i, NULL, NULL); i++) {
        const char *key, *value;
        trf_file_metadata_at(file, i, &key, &value);
        snprintf(d->notes[i].key, sizeof d->notes[i].key, "%s", key);
        d->notes[i].value = copy_text(value);
        d->n_notes++;
    }
    trf_file_close(file);
    free(bytes);
}

static void forget(draft *d)
{
    int i;
    for (i = 0; i < d->n; i++) free(d->pieces[i].data);
    for (i = 0; i < d->n_notes; i++) free(d->notes[i].value);
    memset(d, 0, sizeof *d);
}

static piece *tensor_of(draft *d, const char *name)
{
    int i;
    for (i = 0; i < d->n; i++) if (!strcmp(d->pieces[i].name, name)) return &d->pieces[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void drop_tensor(draft *d, const char *name)
{
    piece *p = tensor_of(d, name);
    free(p->data);
    *p = d->pieces[--d->n];
}

/* The first tensor becomes the last. */
static void rotate(draft *d)
{
    piece first = d->pieces[0];
    memmove(d->pieces, d->pieces + 1, (size_t)(d->n - 1) * sizeof first);
    d->pieces[d->n - 1] = first;
}

/* A second tensor with the same bytes. */
static piece *add_copy(draft *d, const char *from, const char *name)
{
    piece *p = &d->pieces[d->n];
    assert_true(d->n < 160);
    *p = *tensor_of(d, from);
    p->data = (unsigned char *)malloc(p->bytes + 1);
    memcpy(p->data, tensor_of(d, from)->data, p->bytes);
    snprintf(p->name, sizeof p->name, "%s", name);
    d->n++;
    return p;
}

/* Sets a text of the metadata; NULL removes it. Returns the one it had, to be freed. */
static char *set_note(draft *d, const char *key, const char *value)
{
    char *old = NULL;
    int i;
    for (i = 0; i < d->n_notes && strcmp(d->notes[i].key, key); i++) {}
    if (i < d->n_notes) old = d->notes[i].value;
    if (value) {
        snprintf(d->notes[i].key, sizeof d->notes[i].key, "%s", key);
        d->notes[i].value = copy_text(value);
        if (i == d->n_notes) d->n_notes++;
        assert_true(d->n_notes < 120);
    } else if (i < d->n_notes) d->notes[i] = d->notes[--d->n_notes];
    return old;
}

static void put_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        if ((unsigned char)*s < 32) {
            fprintf(f, "\\u%04x", (unsigned)(unsigned char)*s);
            continue;
        }
        if (*s == '"' || *s == '\\') fputc('\\', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

/* CRC-32 bit by bit, as in the standard's text. */
static uint32_t crc_of(const draft *d)
{
    uint32_t crc = 0xFFFFFFFFu;
    size_t k;
    int i, bit;
    for (i = 0; i < d->n; i++)
        for (k = 0; k < d->pieces[i].bytes; k++) {
            crc ^= d->pieces[i].data[k];
            for (bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        }
    return ~crc;
}

/* CRC-32 of a text with its NUL and of another one. */
static uint32_t crc_of_two(const char *a, const char *b)
{
    uint32_t crc = 0xFFFFFFFFu;
    size_t n = strlen(a) + 1, all = n + strlen(b) + 1, k;
    int bit;
    for (k = 0; k < all; k++) {
        crc ^= (unsigned char)(k < n ? a[k] : b[k - n]);
        for (bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return ~crc;
}

/* trf.header_crc32: the sum over texts "trf..." and tensors. */
static uint32_t header_sum(const draft *d)
{
    uint32_t sum = 0;
    int i, k;
    for (i = 0; i < d->n_notes; i++)
        if (!strncmp(d->notes[i].key, "trf.", 4) && strcmp(d->notes[i].key, "trf.header_crc32"))
            sum += crc_of_two(d->notes[i].key, d->notes[i].value);
    for (i = 0; i < d->n; i++) {
        char text[256];
        size_t n = (size_t)sprintf(text, "%s", d->pieces[i].dtype);
        for (k = 0; k < d->pieces[i].rank; k++)
            n += (size_t)sprintf(text + n, " %lld", (long long)d->pieces[i].shape[k]);
        sum += crc_of_two(d->pieces[i].name, text);
    }
    return sum;
}

/* Makes a checksum right, if the file has it. */
static void set_sum(draft *d, const char *key, uint32_t sum)
{
    char text[16];
    int i;
    snprintf(text, sizeof text, "%08lx", (unsigned long)sum);
    for (i = 0; i < d->n_notes; i++)
        if (!strcmp(d->notes[i].key, key)) free(set_note(d, key, text));
}

/* Writes it; the checksums, if it has them, are made right: that of the data unless `damaged`. */
static void put_together(draft *d, const char *path, int damaged)
{
    FILE *f = fopen(path, "wb+");
    size_t at = 0;
    long header;
    int i, k;
    if (!damaged) set_sum(d, "trf.crc32", crc_of(d));
    set_sum(d, "trf.header_crc32", header_sum(d));
    assert_non_null(f);
    for (i = 0; i < 8; i++) fputc(0, f);
    fputc('{', f);
    for (i = 0; i < d->n; i++) {
        const piece *p = &d->pieces[i];
        if (i) fputc(',', f);
        put_string(f, p->name);
        fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", p->dtype);
        for (k = 0; k < p->rank; k++) fprintf(f, "%s%lld", k ? "," : "", (long long)p->shape[k]);
        fprintf(f, "],\"data_offsets\":[%lu,%lu]}", (unsigned long)at,
                (unsigned long)(at + p->bytes));
        at += p->bytes;
    }
    for (i = 0; i < d->n_notes; i++) {
        fputs(i ? "," : ",\"__metadata__\":{", f);
        put_string(f, d->notes[i].key);
        fputc(':', f);
        put_string(f, d->notes[i].value);
    }
    fputs(d->n_notes ? "}}" : "}", f);
    header = ftell(f) - 8;
    for (i = 0; i < d->n; i++)
        assert_true(fwrite(d->pieces[i].data, 1, d->pieces[i].bytes, f) == d->pieces[i].bytes);
    rewind(f);
    for (i = 0; i < 8; i++) fputc((int)((unsigned long)header >> 8 * i & 255), f);
    assert_int_equal(fclose(f), 0);
}

/* -----------------------------------------------------------------------------------------------
   Loading that must fail, or must not. */

static kit_memory memory;
static size_t largest;          /* request of the last load */

static void *watched_alloc(void *user, size_t align, size_t bytes)
{
    if (bytes > largest) largest = bytes;
    return kit_alloc(user, align, bytes);
}

static trf_load_options watched(void)
{
    trf_load_options options = trf_load_defaults();
    options.device.threads = 1;
    options.hooks = kit_hooks(&memory);
    options.hooks.alloc = watched_alloc;
    largest = 0;
    return options;
}

/* Whether the message begins with the path of the file. */
static int names(const trf_error *err, const char *path)
{
    size_t n = strlen(path);
    return !strncmp(err->message, path, n) && !strncmp(err->message + n, ": ", 2);
}

/* Loads and expects `status`, `what` and a word of the message (NULL: any). Returns err.where. */
static int64_t refused_with(const trf_load_options *given, const char *path, trf_status status,
                            const char *what, const char *says)
{
    trf_error err;
    trf_load_options options = watched();
    trf_model *model = (trf_model *)&err;
    trf_status got;
    if (given) {
        options.config = given->config;
        options.allow_nonfinite = given->allow_nonfinite;
        options.max_bytes = given->max_bytes;
    }
    got = trf_model_load(&model, path, &options, &err);
    if (got == TRF_OK)
        fail_msg("expected %s about %s, but the file was loaded", trf_status_name(status),
                 what ? what : "it");
    assert_null(model);
    assert_int_equal(memory.live, 0);
    assert_true(largest < (4u << 20));
    if (got != status || err.status != status || (what && strcmp(err.what, what)) ||
        !names(&err, path) || (says && !strstr(err.message, says)))
        fail_msg("expected %s about %s (\"%s\"), got %s about %s: %s", trf_status_name(status),
            what ? what : "anything",
                 says ? says : "", trf_status_name(got), err.what, err.message);
    /* without a place for the error too */
    assert_int_equal(trf_model_load(&model, path, &options, NULL), status);
    return err.where;
}

static int64_t refused(const char *path, trf_status status, const char *what)
{
    return refused_with(NULL, path, status, what, NULL);
}

static int64_t draft_refused(draft *d, trf_status status, const char *what)
{
    put_together(d, in_folder("draft"), 0);
    return refused(in_folder("draft"), status, what);
}

/* The bits of the model in a file, with its configuration. */
static uint64_t loaded(const char *path, const trf_config *config)
{
    trf_error err;
    trf_load_options options = watched();
    trf_model *model = NULL;
    uint64_t hash;
    options.config = config;
    OK(trf_model_load(&model, path, &options, &err));
    assert_int_equal(err.status, TRF_OK);
    hash = hash_weights(HASH_START, model);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
    return hash;
}

static uint64_t draft_loaded(draft *d, const trf_config *config)
{
    put_together(d, in_folder("draft"), 0);
    return loaded(in_folder("draft"), config);
}

/* Sides of different sizes: no shape can be taken for another one. */
static trf_config uneven_config(void)
{
    trf_config config = kit_small(1, 4, 9, 12);
    config.target_vocab = 7;
    return config;
}

static trf_model *model_of(const trf_config *config)
{
    trf_error err;
    trf_model *model = NULL;
    OK(trf_model_create(&model, config, NULL, &err));
    return model;
}

static void save(const trf_model *model, const char *path)
{
    trf_error err;
    OK(trf_model_save(model, path, NULL, &err));
}

static void draft_of_small(draft *d)
{
    trf_config config = uneven_config();
    trf_model *model = model_of(&config);
    save(model, in_folder("small"));
    trf_model_destroy(model);
    take_apart(d, in_folder("small"));
}

/* -----------------------------------------------------------------------------------------------
   What is written comes back. */

static void check_same_config(const trf_config *a, const trf_config *b)
{
#define X(type, field, low, high, stored) assert_true(a->field == b->field);
    TRF__CONFIG_FIELDS(X)
#undef X
}

static void every_configuration(void **state)
{
    static const trf_kind kinds[] = {TRF_ENCODER_DECODER, TRF_ENCODER_ONLY, TRF_DECODER_ONLY};
    int number;
    (void)state;
    for (number = 0; number < 480; number++) {
        trf_error err;
        trf_config config = uneven_config();
        trf_load_options options = watched();
        trf_model *model, *again = NULL;
        trf_file *file = NULL;
        uint64_t hash;
        char text[80];
        config.kind = kinds[number % 3];
        config.tying = (trf_tying)(number / 3 % 4);
        config.positions = (trf_positions)(number / 12 % TRF_POSITIONS_COUNT);
        config.generator_bias = number / 60 % 2;
        config.final_norm = (trf_final_norm)(number / 120 % 4);
        if (config.kind != TRF_ENCODER_DECODER &&
            (config.tying >= TRF_TIED_ALL || config.final_norm > 1))
            continue;
        if (config.kind == TRF_ENCODER_ONLY && config.tying) continue;
        if (config.tying >= TRF_TIED_ALL) config.target_vocab = config.source_vocab;
        if (config.kind == TRF_ENCODER_ONLY) config.decoder_layers = 0;
        if (config.kind == TRF_DECODER_ONLY) config.encoder_layers = 0;
        /* and all other fields, each with two values at least */
        config.activation = (trf_activation)(number % 4);
        config.norm_place = (trf_norm_place)(number / 2 % 2);
        config.norm_rule = (trf_norm_rule)(number / 3 % 3);
        config.qkv_bias = number / 17 % 2;
        config.out_bias = number / 19 % 2;
        config.feed_forward_bias = number / 23 % 2;
        config.feed_forward_gate = number / 29 % 2;
        config.embedding_norm = number / 31 % 2;
        config.kv_heads = number / 2 % 2;
        config.d_head = number / 41 % 3 * 2;
        config.attention_scale = number / 43 % 2 * 0.7;
        config.scale_logits = config.kind != TRF_ENCODER_ONLY && number / 47 % 2;
        config.relative_buckets = number % 3 ? 32 : 4;
        config.relative_distance = 20 + number % 5;
        config.rotary_base = number % 5 ? 1e4 : 123.456;
        config.rotary_scale = number % 7 ? 1 : 1.5;
        config.rotary_trained = number % 7 ? 0 : 7;
        config.rotary_low = number % 3 ? 1 : 0.25;
        config.rotary_high = number % 4 ? 4 : 3.5;
        config.rotary_pairs = (trf_rotary_pairs)(number / 53 % 2);
        config.rotary_width = number / 59 % 2 * 2;
        config.source_bos = number / 37 % 2;
        config.scale_embeddings = number / 5 % 2;
        config.init = (trf_init)(number / 7 % 3);
        config.embedding_init = (trf_embedding_init)(number % 4);
        config.source_eos = number / 11 % 2;
        config.target_eos = number / 13 % 2;
        if (config.kind == TRF_ENCODER_ONLY) config.head = (trf_head)(number / 3 % 5);
        if (trf__has_labels(&config)) config.n_labels = 2 + number % 7;
        if (config.kind != TRF_DECODER_ONLY) config.segments = number / 41 % 3;
        config.head_layer = (config.head == TRF_HEAD_FIRST || config.head == TRF_HEAD_MASKED) &&
            number / 43 % 2;
        if (config.head == TRF_HEAD_MASKED && number / 15 % 2) config.mask = 4;
        config.sequence_labels = config.head == TRF_HEAD_MASKED ? number / 17 % 2 * 3 : 0;
        config.decoder_start = (trf_decoder_start)(number / 2 % 4);
        config.position_offset = number % 3;
        config.norm_epsilon = number % 2 ? 0.1 : 1.2345678901234567e-7;
        config.seed = number % 4 == 0   ? UINT64_MAX
                      : number % 4 == 1 ? (uint64_t)1 << 63
                                        : (uint64_t)number;
        config.max_length = 10 + number % 5;
        if (number % 5 == 4) { config.pad = 3; config.bos = 0; config.eos = 6; config.unk = 2; }
        model = model_of(&config);
        save(model, in_folder("one"));
        OK(trf_model_load(&again, in_folder("one"), &options, &err));
        check_same_config(&config, trf_model_config(again));
        assert_int_equal(trf_model_parameter_count(model), trf_model_parameter_count(again));
        assert_true(hash_weights(HASH_START, model) == hash_weights(HASH_START, again));
        save(again, in_folder("two"));
        assert_true(hash_file(in_folder("one")) == hash_file(in_folder("two")));
        OK(trf_file_open(&file, in_folder("one"), NULL,
                         &err)); /* a tied matrix stands there once */
        assert_int_equal(kit_file_tensors(file), trf_model_parameter_count(model));
        assert_string_equal(trf_file_metadata(file, "trf.format"), "9");
        assert_string_equal(trf_file_metadata(file, "trf.version"), TRF_VERSION);
        snprintf(text, sizeof text, "%d.%d.%d", (int)trf_version() / 10000,
                 (int)trf_version() / 100 % 100, (int)trf_version() % 100);
        assert_string_equal(text, TRF_VERSION);
        assert_string_equal(trf_file_metadata(file, "trf.content"), "model");
        snprintf(text, sizeof text, "%d", (int)config.positions);
        assert_string_equal(trf_file_metadata(file, "trf.config.positions"), text);
        trf_file_close(file);
        hash = hash_weights(HASH_START, model);
        trf_model_destroy(model);
        trf_model_destroy(again);
        assert_int_equal(memory.live, 0);
        assert_true(loaded(in_folder("one"), NULL) == hash);
    }
}

/* The names of the fields that stand between `typedef struct NAME {` and its end in the header, one
   after another with a blank before and behind each; functions and arrays too. */
static void fields_of(const char *name, char *fields, size_t size)
{
    static char text[1 << 20];
    FILE *f = fopen("transformer.h", "rb");
    char start[64], *at, *end, *c;
    size_t n = 1;
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    snprintf(start, sizeof start, "typedef struct %s {", name);
    at = strstr(text, start);
    assert_non_null(at);
    at += strlen(start);
    end = strstr(at, "\n}");
    assert_non_null(end);
    *end = 0;
    while ((c = strstr(at, "/*")) != NULL) {
        char *close = strstr(c, "*/");
        assert_non_null(close);
        memset(c, ' ', (size_t)(close + 2 - c));
    }
    fields[0] = ' ';
    for (c = at; *c;
         c++) { /* a field is the word before a comma, a semicolon or the end of (*name) */
        char *word = c;
        int depth = 0;
        for (; *c && (depth || (*c != ';' && *c != ',')); c++) depth += (*c == '(') - (*c == ')');
        if (!*c) break;
        for (at = c; at > word && at[-1] != ' ' && at[-1] != '*'; at--) {}
        if (memchr(word, '(', (size_t)(c - word))) at = strstr(word, "(*") + 2;
        while (isalnum((unsigned char)*at) || *at == '_') {
            assert_true(n + 2 < size);
            fields[n++] = *at++;
        }
        fields[n++] = ' ';
    }
    fields[n] = 0;
}

/* Takes one name out of the list. */
static void take_field(char *fields, const char *name)
{
    char word[64], *at;
    snprintf(word, sizeof word, " %s ", name);
    at = strstr(fields, word);
    if (!at) fail_msg("%s is in a table, but not in%s", name, fields);
    memmove(at, at + strlen(word) - 1, strlen(at) - strlen(word) + 2);
}

/* A field that a table lacks would neither be checked nor stored. */
static void tables_are_complete(void **state)
{
    char fields[1024];
    (void)state;
#define X(type, field, low, high, stored) take_field(fields, #field);
    fields_of("trf_config", fields, sizeof fields);
    TRF__CONFIG_FIELDS(X)
    assert_string_equal(fields, " device hooks ");
    fields_of("trf_train_options", fields, sizeof fields);
    TRF__TRAIN_FIELDS(X)
    assert_string_equal(fields, " all_reduce all_reduce_end user hooks ");
#undef X
}

/* Saved a second time, taken apart and put together by other code: still the same model. */
static void other_writers(void **state)
{
    draft d;
    uint64_t hash;
    char *old;
    int i;
    (void)state;
    draft_of_small(&d);
    hash = loaded(in_folder("small"), NULL);
    assert_true(draft_loaded(&d, NULL) == hash);
    rotate(&d);                                     /* tensors in any order */
    assert_true(draft_loaded(&d, NULL) == hash);
    /* texts of other programs do not disturb */
    old = set_note(&d, "somebody.else", "\"quoted\" \\ and \n \xC3\xA4");
    assert_null(old);
    assert_true(draft_loaded(&d, NULL) == hash);
    for (i = 0; i < d.n; i++) {                     /* a wrapping nn.Module */
        char name[160];
        snprintf(name, sizeof name, "transformer.%.140s", d.pieces[i].name);
        memcpy(d.pieces[i].name, name, sizeof name);
    }
    assert_true(draft_loaded(&d, NULL) == hash);
    add_copy(&d, "transformer.encoder.norm.weight",
             "encoder.norm.weight"); /* twice is one too many */
    draft_refused(&d, TRF_E_SHAPE, "transformer.encoder.norm.weight");
    forget(&d);
}

/* In front of all names stands what PyTorch's wrappers put there; other prefixes are named. */
static void wrapped_names(void **state)
{
    static const char *const wrappers[] = {"module.",
                                           "_orig_mod.",
                                           "module._orig_mod.",
                                           "_orig_mod.module.",
                                           "_orig_mod.transformer.",
                                           "module.module.module.module.",
                                           "model.",
                                           "transformer.module.",
                                           "module._orig_mod.module._orig_mod.module."};
    trf_config config = uneven_config();
    trf_load_options options = watched();
    size_t k;
    draft d;
    uint64_t hash;
    int i;
    (void)state;
    options.config = &config;
    for (k = 0; k < sizeof wrappers / sizeof *wrappers; k++) {
        draft_of_small(&d);
        while (d.n_notes) free(d.notes[--d.n_notes].value);     /* as a state_dict has none */
        hash = draft_loaded(&d, &config);
        for (i = 0; i < d.n; i++) {
            char name[160];
            snprintf(name, sizeof name, "%s%.100s", wrappers[k], d.pieces[i].name);
            memcpy(d.pieces[i].name, name, sizeof name);
        }
        put_together(&d, in_folder("draft"), 0);
        if (k < 6) {
            assert_true(draft_loaded(&d, &config) == hash);
            memmove(d.pieces[1].name, d.pieces[1].name + 2,
                    strlen(d.pieces[1].name) - 1); /* all or none */
            put_together(&d, in_folder("draft"), 0);
        }
        refused_with(&options, in_folder("draft"), TRF_E_SHAPE, NULL,
                     "known prefixes: transformer., module., _orig_mod.");
        forget(&d);
    }
}

static void vocabularies(void **state)
{
    static const char *const words[] = {"ein",          "B\xC3\xA4r",       "\\n", "\"", "a\\b",
                                        "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "<x>"};
    trf_error err;
    trf_config config = uneven_config();
    trf_load_options options = watched();
    trf_vocab *source = NULL, *target = NULL, *other = NULL;
    trf_model *model, *again = NULL, *copy = NULL;
    trf_file *file = NULL;
    int32_t i, ids[16], n;
    (void)state;
    OK(trf_vocab_create(&source, TRF_WORDS, NULL, &err));
    OK(trf_vocab_create(&target, TRF_CHARACTERS, NULL, &err));
    OK(trf_vocab_create(&other, TRF_CHARACTERS, NULL, &err));
    for (i = 0; i < 8; i++) OK(trf_vocab_learn(source, words[i], &err));
    OK(trf_vocab_learn(target, "\xC3\xA4 \n\r\\\"", &err));
    OK(trf_vocab_learn(other, "ab", &err));
    OK(trf_vocab_finish(source, 100, 1, &err));
    OK(trf_vocab_finish(target, 100, 1, &err));
    OK(trf_vocab_finish(other, 100, 1, &err));
    config.source_vocab = trf_vocab_size(source);
    config.target_vocab = trf_vocab_size(target);
    model = model_of(&config);
    assert_int_equal(trf_model_set_vocabs(model, source, other, &err), TRF_E_SHAPE);
    assert_null(trf_model_vocab(model, TRF_SOURCE));
    OK(trf_model_set_vocabs(model, source, target, &err));
    save(model, in_folder("one"));
    OK(trf_model_load(&again, in_folder("one"), &options, &err));
    OK(trf_file_open(&file, in_folder("one"), NULL,
                     &err)); /* behind the weights, which they leave aligned */
    for (i = 0; i < kit_file_tensors(file); i++)
        assert_int_equal(!strcmp(trf_file_at(file, i).dtype, "U8"),
                         i >= trf_model_parameter_count(model));
    assert_int_equal(kit_file_tensors(file), trf_model_parameter_count(model) + 2);
    trf_file_close(file);
    OK(trf_model_copy(&copy, again, &err));
    save(copy, in_folder("two"));
    assert_true(hash_file(in_folder("one")) == hash_file(in_folder("two")));
    assert_int_equal(trf_vocab_kind(trf_model_vocab(again, TRF_SOURCE)), TRF_WORDS);
    assert_int_equal(trf_vocab_kind(trf_model_vocab(again, TRF_TARGET)), TRF_CHARACTERS);
    for (i = 0; i < config.source_vocab; i++)
        assert_string_equal(trf_vocab_token(trf_model_vocab(again, TRF_SOURCE), i),
                            trf_vocab_token(source, i));
    for (i = 0; i < config.target_vocab; i++)
        assert_string_equal(trf_vocab_token(trf_model_vocab(again, TRF_TARGET), i),
                            trf_vocab_token(target, i));
    OK(trf_vocab_encode(trf_model_vocab(again, TRF_SOURCE), "\\n B\xC3\xA4r nie", 0, ids, 16, &n, &err));
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], trf_vocab_id(source, "\\n"));
    assert_int_equal(ids[2], 3);
    trf_model_destroy(again);
    trf_model_destroy(copy);
    trf_model_destroy(model);
    trf_vocab_destroy(source);
    trf_vocab_destroy(target);
    trf_vocab_destroy(other);
    assert_int_equal(memory.live, 0);
}

/* A vocabulary of `count` words of one MiB of `letter`, and one more letter each. */
static trf_vocab *long_words(int count, char letter)
{
    static char word[(1 << 20) + 1];
    trf_vocab *vocab = NULL;
    trf_error err;
    int i;
    memset(word, letter, sizeof word - 1);
    OK(trf_vocab_create(&vocab, TRF_WORDS, NULL, &err));
    for (i = 0; i < count; i++) {
        word[0] = (char)('a' + i);
        OK(trf_vocab_learn(vocab, word, &err));
    }
    OK(trf_vocab_finish(vocab, 1000, 1, &err));
    return vocab;
}

/* A vocabulary may be larger than any header, and of letters that JSON would have to escape. */
static void large_vocabularies(void **state)
{
    trf_error err;
    trf_config config = uneven_config();
    trf_train_options training = kit_training();
    trf_vocab *vocab = long_words(17, '"');
    trf_model *model, *again = NULL;
    trf_trainer *trainer = NULL;
    int32_t id;
    (void)state;
    config.source_vocab = trf_vocab_size(vocab);
    training.threads = 1;
    training.source_tokens = training.target_tokens = 8;
    model = model_of(&config);
    OK(trf_model_set_vocabs(model, vocab, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &training, &err));
    OK(trf_checkpoint_save(trainer, NULL, in_folder("large"), NULL, &err));
    save(model, in_folder("large"));
    OK(trf_model_load(&again, in_folder("large"), NULL, &err));
    for (id = 4; id < config.source_vocab; id++)
        assert_string_equal(trf_vocab_token(trf_model_vocab(again, TRF_SOURCE), id),
                            trf_vocab_token(vocab, id));
    assert_null(trf_model_vocab(again, TRF_TARGET));
    trf_trainer_destroy(trainer);
    trf_model_destroy(again);
    trf_model_destroy(model);
    trf_vocab_destroy(vocab);
    unlink(in_folder("large"));
}

/* Without vocabularies the special ids are free; taking vocabularies away is no error either. */
static void no_vocabularies(void **state)
{
    trf_error err;
    trf_config config = uneven_config();
    trf_model *model;
    (void)state;
    config.pad = 3; config.unk = 0;
    model = model_of(&config);
    OK(trf_model_set_vocabs(model, NULL, NULL, &err));
    trf_model_destroy(model);
}

/* A checkpoint's limits are a plan: those of a hostile file are not planned for. */
static void limits_of_a_checkpoint(void **state)
{
    trf_error err;
    trf_config config = uneven_config();
    trf_train_options training = kit_training();
    trf_model *model = model_of(&config);
    trf_trainer *trainer = NULL;
    (void)state;
    training.threads = 1;
    OK(trf_trainer_create(&trainer, model, &training, &err));
    trainer->options.source_tokens = trainer->options.target_tokens = 1 << 24;
    trainer->options.sequences = 1 << 24;
    trainer->options.longest = 1 << 20;
    OK(trf_checkpoint_save(trainer, NULL, in_folder("limits"), NULL, &err));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    OK(trf_checkpoint_load(&model, &trainer, NULL, in_folder("limits"), NULL, NULL, &err));
    assert_int_equal(trf_trainer_options(trainer)->source_tokens, 4096);
    assert_int_equal(trf_trainer_options(trainer)->target_tokens, 4096);
    assert_int_equal(trf_trainer_options(trainer)->sequences, 256);
    assert_int_equal(trf_trainer_options(trainer)->longest, 128);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
}

static const trf__destination *at_path(const char *path)
{
    static trf__destination to;
    to.path = path;
    return &to;
}

/* One tensor too many in a file of a deep model is found at once. */
static void stray_tensor_in_a_deep_model(void **state)
{
    trf_error err;
    trf_config config = uneven_config();
    trf_hooks none;
    trf_model *model, *again = NULL;
    trf__out *out;
    clock_t begin;
    int32_t n;
    (void)state;
    TRF__ZERO(none);
    config.d_model = config.d_ff = 2;
    config.n_heads = 1;
    config.encoder_layers = config.decoder_layers = 128;
    model = model_of(&config);
    n = trf_model_parameter_count(model);
    out = (trf__out *)calloc((size_t)n + 1, sizeof *out);
    assert_non_null(out);
    trf__put_arena(out, model, "", model->weights, TRF_WEIGHTS_FULL);
    out[n] = out[0];
    snprintf(out[n].name, sizeof out[n].name, "stray");
    OK(trf__file_write(&none, at_path(in_folder("deep")), out, n + 1, trf__metadata_model, model,
                       &err));
    begin = clock();
    assert_int_equal(trf_model_load(&again, in_folder("deep"), NULL, &err), TRF_E_SHAPE);
    assert_string_equal(err.what, "stray");
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 0.5);
    free(out);
    trf_model_destroy(model);
}

/* -----------------------------------------------------------------------------------------------
   Row 52 to 57 of the list of hostile files: tensors and configuration. */

static void tensors_missing_and_extra(void **state)
{
    draft d;
    int i, n;
    (void)state;
    draft_of_small(&d);
    n = d.n;
    for (i = 0; i < n; i++, rotate(&d)) {
        piece missing = d.pieces[n - 1];
        d.n--;
        draft_refused(&d, TRF_E_SHAPE, missing.name);
        d.n++;
    }
    assert_int_equal(d.n, n);
    add_copy(&d, "generator.bias", "generator.scale");
    draft_refused(&d, TRF_E_SHAPE, "generator.scale");
    drop_tensor(&d, "generator.scale");
    add_copy(&d, "generator.bias", "%n%s../../etc/passwd");
    draft_refused(&d, TRF_E_SHAPE, "%n%s../../etc/passwd");
    drop_tensor(&d, "%n%s../../etc/passwd");
    add_copy(&d, "generator.bias",
             "optimizer.m.generator.bias"); /* moments belong to checkpoints */
    draft_refused(&d, TRF_E_SHAPE, "optimizer.m.generator.bias");
    forget(&d);
}

static void tensors_of_wrong_shape(void **state)
{
    draft d;
    int i;
    (void)state;
    draft_of_small(&d);
    for (i = 0; i < d.n; i++) {
        piece *p = &d.pieces[i], kept = *p;
        if (p->rank == 2 && p->shape[0] != p->shape[1]) {
            p->shape[0] = kept.shape[1]; p->shape[1] = kept.shape[0];       /* transposed */
            assert_true(draft_refused(&d, TRF_E_SHAPE, kept.name) > 0);
        }
        *p = kept;
        p->rank = 1; p->shape[0] = kept.rank == 2 ? kept.shape[0] * kept.shape[1] : kept.shape[0];
        if (kept.rank == 2) draft_refused(&d, TRF_E_SHAPE, kept.name);      /* flat */
        p->rank = kept.rank + 1; memcpy(p->shape, kept.shape, sizeof p->shape);
        p->shape[kept.rank] = 1; /* an axis of one more */
        draft_refused(&d, TRF_E_SHAPE, kept.name);
        p->rank = 0;
        if (p->bytes != sizeof(trf_real)) draft_refused(&d, TRF_E_SHAPE, NULL);
        *p = kept;
        strcpy(p->dtype, sizeof(trf_real) == 4 ? "I32" : "I64");
        draft_refused(&d, TRF_E_SHAPE, kept.name);
        *p = kept;
    }
    forget(&d);
}

/* Every field of the configuration: missing, malformed, negative, huge, out of its range. */
static void config_fields(void **state)
{
    static const char *const malformed[] = {"",
                                            "x",
                                            "1.5",
                                            " 1",
                                            "1 ",
                                            "0x10",
                                            "1e1",
                                            "+1",
                                            "01",
                                            "-0",
                                            "--1",
                                            "1,0",
                                            "nan",
                                            "\xC3\xA4",
                                            "9223372036854775808",
                                            "99999999999999999999999999",
                                            "1\n",
                                            "true"};
    static const char *const huge[] = {"2147483648", "-2147483649", "4294967297",
                                       "9223372036854775807", "-9223372036854775808"};
    static const char *const reals[] = {"",    "x",    "0",     "-1",     "-0",    "nan",
                                        "inf", "-inf", "1e400", "1e-400", "2",     "1e-5x",
                                        "1,5", ".",    "1e",    "0x1p-3", " 1e-5", "infinity"};
    static const struct { const char *field, *value;
    } special[] = {{"d_model", "0"},
                   {"d_model", "-4"},
                   {"d_model", "65537"},
                   {"n_heads", "0"},
                   {"n_heads", "3"},
                   {"n_heads", "8"},
                   {"d_ff", "0"},
                   {"d_ff", "1048577"},
                   {"encoder_layers", "0"},
                   {"encoder_layers", "257"},
                   {"decoder_layers", "0"},
                   {"kind", "3"},
                   {"kind", "-1"},
                   {"source_vocab", "4"},
                   {"source_vocab", "-7"},
                   {"target_vocab", "0"},
                   {"target_vocab", "16777217"},
                   {"max_length", "1"},
                   {"max_length", "1048577"},
                   {"activation", "4"},
                   {"positions", "8"},
                   {"kv_heads", "3"},
                   {"kv_heads", "-1"},
                   {"d_head", "-1"},
                   {"d_head", "1048577"},
                   {"attention_scale", "-1"},
                   {"relative_buckets", "3"},
                   {"relative_buckets", "65538"},
                   {"relative_distance", "0"},
                   {"rotary_base", "0.5"},
                   {"rotary_width", "-2"},
                   {"rotary_scale", "0"},
                   {"rotary_trained", "-1"},
                   {"rotary_trained", "1048577"},
                   {"rotary_low", "-1"},
                   {"rotary_high", "-1"},
                   {"rotary_pairs", "2"},
                   {"scale_logits", "2"},
                   {"positions", "-1"},
                   {"position_offset", "-1"},
                   {"norm_place", "2"},
                   {"norm_rule", "3"},
                   {"qkv_bias", "2"},
                   {"out_bias", "2"},
                   {"feed_forward_bias", "2"},
                   {"feed_forward_gate", "2"},
                   {"embedding_norm", "2"},
                   {"source_bos", "2"},
                   {"final_norm", "4"},
                   {"scale_embeddings", "2"},
                   {"scale_embeddings", "-1"},
                   {"tying", "4"},
                   {"tying", "-1"},
                   {"generator_bias", "2"},
                   {"init", "3"},
                   {"embedding_init", "4"},
                   {"source_eos", "2"},
                   {"decoder_start", "4"},
                   {"target_eos", "2"},
                   {"target_eos", "-1"},
                   {"head", "1"},
                   {"head", "4"},
                   {"head", "-1"},
                   {"n_labels", "2"},
                   {"segments", "1025"},
                   {"segments", "-1"},
                   {"head_layer", "1"},
                   {"head_layer", "2"},
                   {"sequence_labels", "2"},
                   {"sequence_labels", "-1"},
                   {"mask", "4"},
                   {"mask", "-2"}};
    /* later: a field that files of this format may lack */
    static const struct { const char *key; int real, later; } fields[] = {
#define X(type, field, low, high, stored) \
        {"trf.config." #field, TRF__IS_REAL(type), stored > TRF__FORMAT},
        TRF__CONFIG_FIELDS(X)
#undef X
    };
    draft d;
    char key[96], *old;
    size_t i, k;
    (void)state;
    draft_of_small(&d);
    for (i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *field = fields[i].key;
        if (fields[i].real) continue;
        old = set_note(&d, field, NULL);
        assert_true(old || fields[i].later);
        if (fields[i].later) draft_loaded(&d, NULL);
        else draft_refused(&d, TRF_E_FORMAT, field);
        for (k = 0; k < sizeof malformed / sizeof malformed[0]; k++) {
            free(set_note(&d, field, malformed[k]));
            draft_refused(&d, TRF_E_FORMAT, field);
        }
        for (k = 0; k < sizeof huge / sizeof huge[0]; k++) {
            if (!strcmp(field, "trf.config.seed")) continue;
            free(set_note(&d, field, huge[k]));
            draft_refused(&d, TRF_E_FORMAT, field);
        }
        free(set_note(&d, field, old));
        free(old);
    }
    old = set_note(&d, "trf.config.norm_epsilon", NULL);
    draft_refused(&d, TRF_E_FORMAT, "trf.config.norm_epsilon");
    for (k = 0; k < sizeof reals / sizeof reals[0]; k++) {
        free(set_note(&d, "trf.config.norm_epsilon", reals[k]));
        draft_refused(&d, TRF_E_FORMAT, NULL);
    }
    free(set_note(&d, "trf.config.norm_epsilon", old));
    free(old);
    for (i = 0; i < sizeof special / sizeof special[0]; i++) {
        snprintf(key, sizeof key, "trf.config.%s", special[i].field);
        old = set_note(&d, key, special[i].value);
        draft_refused(&d, TRF_E_FORMAT, special[i].field);
        free(set_note(&d, key, old));
        free(old);
    }
    draft_loaded(&d, NULL);
    forget(&d);
}

/* Fields that make sense alone, but not with the tensors or with one another. */
static void config_against_tensors(void **state)
{
    static const struct { const char *field, *value, *what;
    } wrong[] = {{"d_model", "8", "src_embed.weight"},
                 {"d_ff", "5", "encoder.layers.0.linear1.weight"},
                 {"encoder_layers", "2", "encoder.layers.1.self_attn.in_proj_weight"},
                 {"decoder_layers", "2", "decoder.layers.1.self_attn.in_proj_weight"},
                 {"source_vocab", "10", "src_embed.weight"},
                 {"source_vocab", "8", "src_embed.weight"},
                 {"target_vocab", "8", "tgt_embed.weight"},
                 {"target_vocab", "16777216", "tgt_embed.weight"},
                 {"d_ff", "1048576", "encoder.layers.0.linear1.weight"},
                 {"d_model", "65536", "src_embed.weight"},
                 {"encoder_layers", "256", "encoder.layers.1.self_attn.in_proj_weight"},
                 {"positions", "3", "src_positions.weight"},
                 {"segments", "2", "src_segments.weight"},
                 {"final_norm", "0", "encoder.norm.weight"},
                 {"generator_bias", "0", "generator.bias"},
                 {"tying", "1", "generator.weight"},
                 {"pad", "7", "pad"},
                 {"bos", "100", "bos"},
                 {"eos", "7", "eos"},
                 {"unk", "-2", "unk"},
                 {"eos", "-1", "eos"},
                 {"pad", "1", "bos"},
                 {"eos", "3", "unk"}};
    draft d;
    char key[96], *old;
    size_t i;
    (void)state;
    draft_of_small(&d);
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(key, sizeof key, "trf.config.%s", wrong[i].field);
        old = set_note(&d, key, wrong[i].value);
        draft_refused(&d, TRF_E_SHAPE, wrong[i].what);
        free(set_note(&d, key, old));
        free(old);
    }
    forget(&d);
}

static void tied_matrices(void **state)
{
    static const char *const names[3] = {"src_embed.weight", "tgt_embed.weight",
                                         "generator.weight"};
    trf_config config = uneven_config();
    trf_model *model;
    draft d;
    uint64_t hash;
    char *old;
    int set, i, tying;
    (void)state;
    config.target_vocab = config.source_vocab;
    for (tying = 1; tying <= 2; tying++) {
        int first = tying == TRF_TIED_ALL ? 0 : 1;
        config.tying = (trf_tying)tying;
        model = model_of(&config);
        save(model, in_folder("tied"));
        trf_model_destroy(model);
        hash = loaded(in_folder("tied"), NULL);
        /* under any of its names, with and without prefix, or under several */
        for (set = 1; set < 8; set++) {
            take_apart(&d, in_folder("tied"));
            for (i = 0; i < 3; i++) if (i >= first && set >> i & 1) {
                char name[64];
                snprintf(name, sizeof name, "copy %d", i);
                add_copy(&d, names[first], name);
            }
            if (first == 1 && set == 1) { forget(&d); continue; }
            drop_tensor(&d, names[first]);
            for (i = 0; i < 3; i++) if (i >= first && set >> i & 1) {
                char name[64];
                snprintf(name, sizeof name, "copy %d", i);
                snprintf(tensor_of(&d, name)->name, 64, "%s%s", (set + i) % 2 ? "transformer." : "",
                         names[i]);
            }
            assert_true(draft_loaded(&d, NULL) == hash);
            /* they must be the same to the last bit, and of the same shape */
            for (i = 0; i < d.n; i++)
                if (strstr(d.pieces[i].name, "generator.weight") && (set & 3 & ~(first ? 1 : 0))) {
                    piece kept = d.pieces[i];
                    kept.data[17] ^= 1;
                    draft_refused(&d, TRF_E_SHAPE, NULL);
                    kept.data[17] ^= 1;
                    d.pieces[i].shape[0] = kept.shape[1]; d.pieces[i].shape[1] = kept.shape[0];
                    draft_refused(&d, TRF_E_SHAPE, kept.name);
                    d.pieces[i] = kept;
                }
            forget(&d);
        }
        take_apart(&d, in_folder("tied")); /* the flag says one thing, the tensors another */
        drop_tensor(&d, names[first]);
        draft_refused(&d, TRF_E_SHAPE, names[first]);
        forget(&d);
        take_apart(&d, in_folder("tied"));
        old = set_note(&d, "trf.config.tying", "0");
        free(old);
        draft_refused(&d, TRF_E_SHAPE,
                      tying == TRF_TIED_ALL ? "tgt_embed.weight" : "generator.weight");
        old = set_note(&d, "trf.config.tying", tying == 1 ? "2" : "1");
        free(old);
        draft_refused(&d, TRF_E_SHAPE, tying == TRF_TIED_ALL ? "tgt_embed.weight" : NULL);
        old = set_note(&d, "trf.config.target_vocab", "8");
        free(old);
        old = set_note(&d, "trf.config.tying", "2");
        free(old);
        draft_refused(&d, TRF_E_FORMAT, "target_vocab");
        forget(&d);
    }
}

static void formats(void **state)
{
    static const char *const newer[] = {"1", "13", "0", "-1", "17", "9223372036854775807"};
    draft d;
    char *old;
    size_t i;
    (void)state;
    draft_of_small(&d);
    for (i = 0; i < sizeof newer / sizeof newer[0]; i++) {
        free(set_note(&d, "trf.format", newer[i]));
        put_together(&d, in_folder("draft"), 0);
        refused_with(NULL, in_folder("draft"), TRF_E_UNSUPPORTED, "trf.format", newer[i]);
    }
    free(set_note(&d, "trf.version", "7.8.9"));
    put_together(&d, in_folder("draft"), 0);
    refused_with(NULL, in_folder("draft"), TRF_E_UNSUPPORTED, "trf.format",
                 "of transformer.h 7.8.9");
    free(set_note(&d, "trf.version", NULL));        /* as files of version 0.1 are */
    free(set_note(&d, "trf.format", "1"));
    put_together(&d, in_folder("draft"), 0);
    refused_with(NULL, in_folder("draft"), TRF_E_UNSUPPORTED, "trf.format",
                 "format 1, of transformer.h 0.1;");
    free(set_note(&d, "trf.format", "two"));
    draft_refused(&d, TRF_E_FORMAT, "trf.format");
    old = set_note(&d, "trf.format", NULL);
    free(old);
    draft_refused(&d, TRF_E_INVALID_ARG, "config");         /* no configuration at all */
    forget(&d);
}

/* A state_dict of somebody else: tensors alone, the configuration from the caller, who may be
   wrong. */
static void without_metadata(void **state)
{
    trf_config config = uneven_config(), other;
    trf_load_options options = trf_load_defaults();
    draft d;
    uint64_t hash;
    (void)state;
    draft_of_small(&d);
    hash = draft_loaded(&d, NULL);
    while (d.n_notes) free(set_note(&d, d.notes[0].key, NULL));
    assert_true(draft_loaded(&d, &config) == hash);
    refused(in_folder("draft"), TRF_E_INVALID_ARG, "config");
    options.config = &other;
    other = config; other.d_ff = 7;
    refused_with(&options, in_folder("draft"), TRF_E_SHAPE, "encoder.layers.0.linear1.weight",
                 NULL);
    other = config; other.d_ff = 0;
    refused_with(&options, in_folder("draft"), TRF_E_INVALID_ARG, "d_ff", NULL);
    other = config; other.unk = other.eos;
    refused_with(&options, in_folder("draft"), TRF_E_INVALID_ARG, "unk", NULL);
    other = config; other.generator_bias = 0;
    refused_with(&options, in_folder("draft"), TRF_E_SHAPE, "generator.bias", NULL);
    forget(&d);
}

/* -----------------------------------------------------------------------------------------------
   Row 58 and 60: vocabularies and checksums. */

/* Gives a draft a vocabulary of the source. */
static void set_vocab(draft *d, const char *kind, const char *tokens, size_t n)
{
    piece *p = NULL;
    int i;
    for (i = 0; i < d->n; i++)
        if (!strcmp(d->pieces[i].name, "trf.source_vocab")) p = &d->pieces[i];
    if (!p) p = add_copy(d, "generator.bias", "trf.source_vocab");
    free(p->data);
    strcpy(p->dtype, "U8");
    p->rank = 1;
    p->shape[0] = (int64_t)n;
    p->bytes = n;
    p->data = (unsigned char *)malloc(n + 1);
    memcpy(p->data, tokens, n);
    free(set_note(d, "trf.source_vocab", kind));
}

static void bad_vocabularies(void **state)
{
#define T(text) text, sizeof text - 1
    static const struct {
        const char *kind, *tokens;
        size_t n;
        trf_status status;
        const char *what;
        int64_t where;
    } bad[] = {{"word", T("a\0b\0c\0d\0e\0"), TRF_E_UNSUPPORTED, "trf.source_vocab", -1},
               {"", T("a\0b\0c\0d\0e\0"), TRF_E_UNSUPPORTED, "trf.source_vocab", -1},
               {NULL, T("a\0b\0c\0d\0e\0"), TRF_E_FORMAT, "trf.source_vocab", -1},
               {"words", T("a\0b\0a\0d\0e\0"), TRF_E_FORMAT, "vocabulary", 4},
               {"words", T("a\0\0c\0d\0e\0"), TRF_E_FORMAT, "vocabulary", 2},
               {"words", T("a\0b\0c\0d\0e"), TRF_E_FORMAT, "vocabulary", 8},
               {"words", T("a\0b b\0c\0d\0e\0"), TRF_E_FORMAT, "vocabulary", 2},
               {"words", T("a\0\xFF\0c\0d\0e\0"), TRF_E_FORMAT, "vocabulary", 2},
               {"words", T("a\0<s>\0c\0d\0e\0"), TRF_E_FORMAT, "vocabulary", 2},
               {"characters", T("a\0b\xFF\0c\0d\0e\0"), TRF_E_FORMAT, "vocabulary", 2},
               {"words", T("a\0b\0c\0d\0"), TRF_E_SHAPE, "source_vocab", -1},
               {"words", T("a\0b\0c\0d\0e\0f\0"), TRF_E_SHAPE, "source_vocab", -1},
               {"words", T(""), TRF_E_SHAPE, "source_vocab", -1}};
    draft d;
    char *big;
    size_t i;
    (void)state;
    if (KIT_AGAIN && !kit_all()) skip();
    draft_of_small(&d);
    free(set_note(&d, "trf.source_vocab", "words"));        /* a text without its tensor */
    draft_refused(&d, TRF_E_FORMAT, "trf.source_vocab");
    set_vocab(&d, "words", T("a\0b\0c\0d\0e\0"));
    draft_loaded(&d, NULL);
    rotate(&d);                                             /* in any place */
    draft_loaded(&d, NULL);
    tensor_of(&d, "trf.source_vocab")->data[2] ^= 1;
    put_together(&d, in_folder("draft"), 1);                /* the checksum covers it */
    refused(in_folder("draft"), TRF_E_CHECKSUM, "trf.crc32");
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        set_vocab(&d, bad[i].kind, bad[i].tokens, bad[i].n);
        assert_int_equal(draft_refused(&d, bad[i].status, bad[i].what), bad[i].where);
    }
    set_vocab(&d, "words", T("a\0b\0c\0d\0e\0"));
    strcpy(tensor_of(&d, "trf.source_vocab")->dtype, "I8");
    draft_refused(&d, TRF_E_FORMAT, "trf.source_vocab");
    big = (char *)malloc(3 << 19);                          /* one token of more than 1 MiB */
    assert_non_null(big);
    memset(big, 'x', 3 << 19);
    big[(3 << 19) - 1] = 0;
    set_vocab(&d, "words", big, 3 << 19);
    assert_int_equal(draft_refused(&d, TRF_E_FORMAT, "vocabulary"), 0);
    free(big);
    big = (char *)calloc(16 << 20, 1); /* memory grows with tokens, not with what a file claims */
    assert_non_null(big);
    for (i = 0; i < 2; i++) {
        trf_load_options options = watched();
        if (i) memcpy(big, "a\0b", 3);
        set_vocab(&d, "words", big, 16 << 20);
        put_together(&d, in_folder("draft"), 0);
        refused_with(&options, in_folder("draft"), TRF_E_FORMAT, NULL, "vocabulary");
        assert_true(largest < (2u << 20));
    }
    for (i = 0; i < 5; i++) { /* five tokens, each most of what is read at a time */
        memset(big + i * 700000, 'a' + (int)i, 699999);
        big[i * 700000 + 699999] = 0;
    }
    set_vocab(&d, "words", big, 5 * 700000);
    draft_loaded(&d, NULL);
    free(big);
    set_vocab(&d, "words", T("a\0b\0c\0d\0e\0"));
    free(set_note(&d, "trf.config.bos", "4")); /* a vocabulary has its special ids at 0, 1, 2, 3 */
    draft_refused(&d, TRF_E_SHAPE, "bos");
    forget(&d);
#undef T
}

static void checksums(void **state)
{
    static const char *const malformed[] = {"",         "0",        "0123456",  "012345678",
                                            "0123456g", "0123456 ", "ABCDEF01", "-1234567"};
    draft d;
    uint64_t hash;
    char right[16], wrong[16], first[8];
    size_t i;
    (void)state;
    draft_of_small(&d);
    hash = draft_loaded(&d, NULL);
    snprintf(right, sizeof right, "%08lx", (unsigned long)crc_of(&d));
    for (i = 0; i < 8; i++) {                       /* each digit counts */
        strcpy(wrong, right);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        free(set_note(&d, "trf.crc32", wrong));
        put_together(&d, in_folder("draft"), 1);
        assert_true(refused(in_folder("draft"), TRF_E_CHECKSUM, "trf.crc32") > 0);
    }
    memcpy(first, d.pieces[0].data, sizeof first);
    memcpy(d.pieces[0].data, "\0\0\xC0\x7F\0\0\xF8\x7F",
           8); /* not a number, as float and as double */
    put_together(&d, in_folder("draft"), 1); /* damage is told before what it did */
    assert_true(refused(in_folder("draft"), TRF_E_CHECKSUM, "trf.crc32") > 0);
    put_together(&d, in_folder("draft"), 0);
    assert_true(refused(in_folder("draft"), TRF_E_NONFINITE, d.pieces[0].name) > 0);
    memcpy(d.pieces[0].data, first, sizeof first);
    for (i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        free(set_note(&d, "trf.crc32", malformed[i]));
        put_together(&d, in_folder("draft"), 1);
        refused(in_folder("draft"), TRF_E_FORMAT, "trf.crc32");
    }
    free(set_note(&d, "trf.crc32", NULL));          /* files of others have none */
    assert_true(draft_loaded(&d, NULL) == hash);
    forget(&d);
}

/* -----------------------------------------------------------------------------------------------
   Weights of other types, and weights that are no numbers. */

static void put_little(unsigned char *to, uint64_t bits, int bytes)
{
    int i;
    for (i = 0; i < bytes; i++) to[i] = (unsigned char)(bits >> 8 * i & 255);
}

/* Small multiples of 1/8, which every type holds exactly. */
static double eighth(int64_t i) { return (double)(i * 37 % 61 - 30) / 8; }

static void store_as(unsigned char *to, double x, const char *dtype)
{
    float single = (float)x;
    uint32_t bits;
    uint64_t wide;
    memcpy(&bits, &single, 4);
    memcpy(&wide, &x, 8);
    if (!strcmp(dtype, "F64")) put_little(to, wide, 8);
    else if (!strcmp(dtype, "F32")) put_little(to, bits, 4);
    else if (!strcmp(dtype, "BF16")) put_little(to, bits >> 16, 2);
    else {
        uint32_t half =
            (bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023);
        put_little(to, x == 0 ? 0 : half, 2);
    }
}

static void other_types(void **state)
{
    static const char *const types[] = {"F32", "F64", "BF16", "F16"};
    trf_load_options options = watched();
    int which, i;
    (void)state;
    for (which = 0; which < 5; which++) {
        trf_error err;
        trf_model *model = NULL;
        draft d;
        draft_of_small(&d);
        for (i = 0; i < d.n; i++) {
            piece *p = &d.pieces[i];
            const char *type = types[which < 4 ? which : i % 4];        /* or each of another one */
            int64_t count = p->rank == 2 ? p->shape[0] * p->shape[1] : p->shape[0], k;
            size_t width = !strcmp(type, "F64") ? 8 : !strcmp(type, "F32") ? 4 : 2;
            free(p->data);
            p->bytes = (size_t)count * width;
            p->data = (unsigned char *)malloc(p->bytes + 1);
            strcpy(p->dtype, type);
            for (k = 0; k < count; k++) store_as(p->data + (size_t)k * width, eighth(k + i), type);
        }
        put_together(&d, in_folder("draft"), 0);
        OK(trf_model_load(&model, in_folder("draft"), &options, &err));
        for (i = 0; i < d.n; i++) {
            trf_tensor w = kit_open(
                trf_model_parameter(model, trf_model_parameter_index(model, d.pieces[i].name)));
            int64_t k;
            for (k = 0; k < trf_tensor_count(&w); k++)
                assert_true((double)w.data[k] == eighth(k + i));
            kit_close(&w);
        }
        trf_model_destroy(model);
        assert_int_equal(memory.live, 0);
        forget(&d);
    }
}

/* The nearest number of every dtype of 16 bits, of two as near the even one: every number, every
   middle between two neighbours, and what lies beside those. */
static void nearest_of_16_bits(void **state)
{
    int which;
    (void)state;
    for (which = 0; which < 2; which++) {
        const int fraction = which ? 7 : 10;
        const uint32_t infinite = which ? 0x7F80 : 0x7C00;
        uint32_t bits;
        for (bits = 0; bits < infinite; bits++) {
            unsigned char two[4];
            double x, next, middle;
            trf__to_little(two, bits, 2);
            trf__to_little(two + 2, bits + 1, 2);
            x = trf__from_file(two, which ? 'B' : 'H');
            next = bits + 1 < infinite ? trf__from_file(two + 2, which ? 'B' : 'H')
                                       : which ? 340282366920938463463374607431768211456.0 : 65536;
            middle = (x + next) / 2;
            assert_int_equal(trf__bits_of_16(x, fraction), bits);
            assert_int_equal(trf__bits_of_16(-x, fraction), 0x8000 | bits);
            assert_int_equal(trf__bits_of_16(middle, fraction), bits + (bits & 1));
            assert_int_equal(trf__bits_of_16(-middle, fraction), 0x8000 | (bits + (bits & 1)));
            assert_int_equal(trf__bits_of_16(middle * (1 - DBL_EPSILON), fraction), bits);
            assert_int_equal(trf__bits_of_16(middle * (1 + 2 * DBL_EPSILON), fraction), bits + 1);
        }
        assert_int_equal(trf__bits_of_16(HUGE_VAL, fraction), infinite);
        assert_int_equal(trf__bits_of_16(-HUGE_VAL, fraction), 0x8000 | infinite);
        assert_int_equal(trf__bits_of_16(1e300, fraction), infinite);
        assert_true((trf__bits_of_16((double)NAN, fraction) & 0x7FFF) > infinite);
        assert_int_equal(trf__bits_of_16(1e-300, fraction), 0);
        assert_int_equal(trf__bits_of_16(DBL_MIN / 4, fraction), 0);
    }
}

static void set_weight(trf_model *model, int32_t index, int64_t at, double value)
{
    trf_tensor w = kit_open(trf_model_parameter(model, index));
    w.data[at] = (trf_real)value;
    kit_close(&w);
}

/* F16 is for all parameters, BF16 for matrices. */
static int narrowed(const trf_model *model, int32_t i, trf_weights weights)
{
    trf_tensor p = trf_model_parameter(model, i);
    return weights == TRF_WEIGHTS_F16 || (p.rank == 2 && !strstr(p.name, "positions"));
}

/* Half the bytes, and a model whose weights are the nearest numbers; saved once more it has the
   same bits. */
static void weights_of_16_bits(void **state)
{
    static const char *const dtypes[3] = {TRF__DTYPE, "BF16", "F16"};
    static const double most[3] = {
        0, 3.4e38, 65519.99}; /* the largest that rounds to a finite number is below */
    trf_load_options options = watched();
    int which;
    (void)state;
    for (which = 1; which < 3; which++) {
        trf_config config = uneven_config();
        trf_model *model = model_of(&config), *narrow = NULL;
        trf_weights weights = (trf_weights)which;
        trf_error err;
        trf_file *file;
        size_t whole, half;
        uint64_t hash;
        int32_t i;
        set_weight(model, 1, 2, 1.0 / 3);
        set_weight(model, 1, 3, -1e-7);
        save(model, in_folder("whole"));
        OK(kit_save_as(model, in_folder("half"), weights, &err));
        free(kit_read_file(in_folder("whole"), &whole));
        free(kit_read_file(in_folder("half"), &half));
        assert_true(half < whole -
                               (size_t)trf_model_parameter_total(model) * (sizeof(trf_real) - 2) +
                               2000);
        OK(trf_file_open(&file, in_folder("half"), NULL, &err));
        for (i = 0; i < trf_model_parameter_count(model); i++)
            assert_string_equal(
                trf_file_at(file, trf__file_find(file, trf_model_parameter(model, i).name)).dtype,
                dtypes[narrowed(model, i, weights) ? which : 0]);
        trf_file_close(file);
        OK(trf_model_load(&narrow, in_folder("half"), &options, &err));
        for (i = 0; i < trf_model_parameter_count(model); i++) {
            trf_tensor a = kit_open(trf_model_parameter(model, i)),
                       b = kit_open(trf_model_parameter(narrow, i));
            int64_t k;
            for (k = 0; k < trf_tensor_count(&a); k++) {
                unsigned char two[2];
                if (!narrowed(model, i, weights)) {
                    assert_true(a.data[k] == b.data[k]);
                    continue;
                }
                trf__to_little(two, trf__bits_of_16((double)a.data[k], which == 1 ? 7 : 10), 2);
                assert_true((double)b.data[k] == trf__from_file(two, which == 1 ? 'B' : 'H'));
            }
            kit_close(&a);
            kit_close(&b);
        }
        hash = hash_file(in_folder("half"));
        OK(kit_save_as(narrow, in_folder("half"), weights, &err));
        assert_true(hash_file(in_folder("half")) == hash);
        trf_model_destroy(narrow);
        assert_int_equal(memory.live, 0);
        set_weight(model, 0, 1,
                   which == 1 && sizeof(trf_real) == 4 ? 3.4e38
                                                       : 1.01 * most[which]); /* too large */
        assert_int_equal(kit_save_as(model, in_folder("half"), weights, &err),
                         TRF_E_NONFINITE);
        assert_string_equal(err.what, trf_model_parameter(model, 0).name);
        assert_int_equal(err.where, 1);
        assert_true(names(&err, in_folder("half")));
        assert_true(hash_file(in_folder("half")) == hash);
        set_weight(model, 0, 1, which == 1 ? 3.38e38 : 65519);
        OK(kit_save_as(model, in_folder("half"), weights, &err));
        set_weight(model, 0, 1, HUGE_VAL);             /* as they are */
        OK(kit_save_as(model, in_folder("half"), weights, &err));
        refused(in_folder("half"), TRF_E_NONFINITE, trf_model_parameter(model, 0).name);
        assert_int_equal(kit_save_as(model, in_folder("half"), TRF_WEIGHTS_COUNT, &err),
                         TRF_E_INVALID_ARG);
        assert_int_equal(kit_save_as(model, NULL, weights, &err), TRF_E_INVALID_ARG);
        assert_int_equal(kit_save_as(NULL, in_folder("half"), weights, &err),
                         TRF_E_INVALID_ARG);
        trf_model_destroy(model);
    }
}

static void not_numbers(void **state)
{
    static const double bad[] = {HUGE_VAL, -HUGE_VAL, 0};
    draft d;
    size_t i;
    (void)state;
    draft_of_small(&d);
    for (i = 0; i < 3; i++) {
        const char *names[2] = {"decoder.layers.0.multihead_attn.out_proj.weight",
                                "src_embed.weight"};
        piece *p = tensor_of(&d, names[i % 2]);
        size_t width = strcmp(p->dtype, "F32") ? 8 : 4, k = (p->bytes / width - 1) * width;
        unsigned char kept[8];
        trf_error err;
        trf_load_options options = watched();
        trf_model *model = NULL;
        double number;
        memcpy(kept, p->data + k, width);
        store_as(p->data + k, i == 2 ? (double)NAN : bad[i], p->dtype);
        assert_true(draft_refused(&d, TRF_E_NONFINITE, p->name) >
                    (int64_t)k); /* its offset in the file */
        options.allow_nonfinite = 1;
        OK(trf_model_load(&model, in_folder("draft"), &options, &err));
        number = kit_number(trf_model_parameter(model, trf_model_parameter_index(model, p->name)),
                            (int64_t)(k / width));
        if (i == 2) assert_true(isnan(number));
        else assert_true(number == bad[i]);
        trf_model_destroy(model);
        memcpy(p->data + k, kept, width);
    }
    {   /* larger than a float: infinite once it is one */
        piece *p = tensor_of(&d, "generator.bias");
        int64_t k;
        if (sizeof(trf_real) == 4) {
            free(p->data);
            strcpy(p->dtype, "F64");
            p->bytes = 8 * (size_t)p->shape[0];
            p->data = (unsigned char *)malloc(p->bytes);
            for (k = 0; k < p->shape[0]; k++) store_as(p->data + 8 * k, k == 3 ? 1e300 : 1, "F64");
            draft_refused(&d, TRF_E_NONFINITE, "generator.bias");
        }
    }
    forget(&d);
}

/* -----------------------------------------------------------------------------------------------
   Checkpoints: rows 59 and 61. */

enum { PAIRS = 20 };

static trf_corpus *corpus_of(int32_t first)
{
    trf_error err;
    trf_corpus *corpus = NULL;
    trf_corpus_options options = trf_corpus_defaults();
    int32_t ids[5], i, k;
    options.batch_tokens = 14;
    options.epochs = 4;
    OK(trf_corpus_create(&corpus, &options, &err));
    for (i = 0; i < PAIRS; i++) {
        for (k = 0; k < 5; k++) ids[k] = 4 + (first + i * 3 + k) % 3;
        OK(trf_corpus_add(corpus, ids, 1 + i % 5, ids, 1 + i % 4, &err));
    }
    return corpus;
}

static trf_train_options training_options(void)
{
    trf_train_options o = kit_training();
    o.optimizer = TRF_ADAMW;
    o.beta1 = 0.85; o.beta2 = 0.95; o.epsilon = 1.0 / 3e7;
    o.epsilon_rule = TRF_EPSILON_INSIDE;
    o.weight_decay = 0.01;
    o.decay_all = 1;
    o.schedule = TRF_COSINE;
    o.learning_rate = 0.0123456789012345678;
    o.initial_rate = 1e-5; o.final_rate = 2e-5;
    o.warmup = 3;
    o.total_steps = 1000000000000;
    o.label_smoothing = 0.07;
    o.smoothing_rule = TRF_SMOOTH_OTHERS;
    o.dropout = 0.11;
    o.attention_dropout = 0.12;
    o.activation_dropout = 0.13;
    o.residual_dropout = 0.14;
    o.clip_norm = 0.3;
    o.seed = UINT64_MAX - 5;
    o.source_tokens = 101; o.target_tokens = 102; o.sequences = 33; o.longest = 11;
    o.threads = 1;
    return o;
}

typedef struct run { trf_model *model; trf_trainer *trainer; trf_corpus *corpus; } run;

static run train_some(int steps, const char *path)
{
    trf_error err;
    trf_config config = uneven_config();
    trf_train_options training = training_options();
    trf_batch batch;
    trf_step_report report;
    run r;
    r.model = model_of(&config);
    r.corpus = corpus_of(0);
    r.trainer = NULL;
    OK(trf_trainer_create(&r.trainer, r.model, &training, &err));
    while (steps--) {
        OK(trf_corpus_next(r.corpus, &batch, &err));
        OK(trf_trainer_step(r.trainer, &batch, &report, &err));
        assert_int_equal(report.skipped, 0);
    }
    if (path) OK(trf_checkpoint_save(r.trainer, r.corpus, path, NULL, &err));
    return r;
}

static void end_run(run *r)
{
    trf_trainer_destroy(r->trainer);
    trf_model_destroy(r->model);
    trf_corpus_destroy(r->corpus);
}

static uint64_t go_on(run *r, int steps)
{
    trf_error err;
    trf_batch batch;
    trf_step_report report;
    while (steps--) {
        OK(trf_corpus_next(r->corpus, &batch, &err));
        OK(trf_trainer_step(r->trainer, &batch, &report, &err));
    }
    return hash_state(r->trainer);
}

/* In memory a model and a checkpoint are the bytes that they are in a file; every size that is too
   small writes nothing and tells the right one; every beginning of them is refused as that of a
   file is. */
static void models_in_memory(void **state)
{
    run r = train_some(2, in_folder("run"));
    trf_load_options options = watched();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_corpus *corpus = corpus_of(0);
    trf_error err, of_file;
    int which;
    (void)state;
    save(r.model, in_folder("small"));
    for (which = 0; which < 3; which++) {
        const char *path = in_folder(which == 0 ? "small" : which == 1 ? "run" : "half");
        size_t n, bytes = 77, size, cut;
        char *want, *got;
        trf_weights weights = which == 2 ? TRF_WEIGHTS_F16 : TRF_WEIGHTS_FULL;
        if (which == 2) OK(kit_save_as(r.model, path, weights, &err));
        path = in_folder(which == 0 ? "small" : which == 1 ? "run" : "half");
        want = kit_read_file(path, &n);
        assert_non_null(want);
        got = (char *)malloc(n + 8);
        for (size = 0; size < n + 2; size += size < 3 || size > n - 3 ? 1 : n / 7) {
            trf_status status;
            memset(got, '#', n + 8);
            status = which == 1 ? kit_checkpoint_save_memory(r.trainer, r.corpus, size ? got : NULL,
                                                             size, &bytes, &err)
                                : kit_save_memory(r.model, weights, size ? got : NULL, size,
                                                        &bytes, &err);
            assert_int_equal(status, size < n ? TRF_E_LIMIT : TRF_OK);
            assert_int_equal(bytes, n);
            if (size < n) {
                assert_string_equal(err.what, "size");
                assert_int_equal(got[0], '#');
            } else assert_memory_equal(got, want, n);
            assert_int_equal(got[size < n ? size : n], '#');
        }
        memcpy(got, want, n);
        for (cut = 0; cut < n; cut += cut < 3000 ? 41 : 1003) {
            char *exact = (char *)malloc(cut ? cut : 1);
            trf_status status;
            memcpy(exact, want, cut);
            assert_true(kit_write_file(in_folder("cut"), want, cut));
            status = trf_model_load(&model, in_folder("cut"), &options, &of_file);
            assert_int_equal(kit_load_memory(&model, exact, cut, &options, &err), status);
            assert_true(status != TRF_OK && model == NULL && err.where == of_file.where &&
                        names(&err, "memory"));
            free(exact);
        }
        if (which == 1) {
            OK(kit_checkpoint_load_memory(&model, &trainer, corpus, got, n, NULL, &options, &err));
            memset(got, 0, n);                      /* it is copied */
            OK(trf_checkpoint_save(trainer, corpus, in_folder("again"), NULL, &err));
            assert_true(hash_file(in_folder("again")) == hash_file(in_folder("run")));
            trf_trainer_destroy(trainer);
        } else {
            OK(kit_load_memory(&model, got, n, &options, &err));
            memset(got, 0, n);
            OK(kit_save_as(model, in_folder("again"), weights, &err));
            assert_true(hash_file(in_folder("again")) ==
                        hash_file(in_folder(which ? "half" : "small")));
            trf_model_destroy(model);
            assert_int_equal(kit_checkpoint_load_memory(&model, &trainer, NULL, want, n, NULL,
                                                        &options, &err),
                             TRF_E_STATE);
            assert_null(model);
            OK(kit_load_memory(&model, want, n, &options, &err));
        }
        trf_model_destroy(model);
        model = NULL;
        free(want);
        free(got);
    }
    assert_int_equal(kit_load_memory(&model, NULL, 9, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "path");
    options.memory = &err;
    options.memory_bytes = 9;
    assert_int_equal(trf_model_load(&model, "a_path", &options, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "memory");
    assert_int_equal(kit_load_memory(NULL, &err, 9, NULL, &err), TRF_E_INVALID_ARG);
    assert_int_equal(kit_load_memory(&model, &err, 0, NULL, &err), TRF_E_FORMAT);
    assert_int_equal(kit_checkpoint_load_memory(&model, &trainer, NULL, NULL, 9, NULL, NULL, &err),
                     TRF_E_INVALID_ARG);
    assert_int_equal(kit_save_memory(NULL, TRF_WEIGHTS_FULL, NULL, 0, NULL, &err),
                     TRF_E_INVALID_ARG);
    for (which = 0; which < 4; which++) {       /* no path, and nothing to write to; both; small weights */
        trf_save_options o = {TRF_WEIGHTS_FULL, NULL, 0, NULL};
        o.size = which == 0 ? 9 : 0;
        if (which == 2) o.memory = &err;
        if (which == 3) o.weights = TRF_WEIGHTS_BF16;
        if (which < 3) {
            assert_int_equal(trf_model_save(r.model, which == 2 ? "a_path" : NULL, &o, &err), TRF_E_INVALID_ARG);
            assert_string_equal(err.what, which == 2 ? "memory" : "path");
        }
        assert_int_equal(trf_checkpoint_save(r.trainer, NULL, which < 2 ? NULL : "a_path", &o, &err),
                         TRF_E_INVALID_ARG);
        assert_string_equal(err.what, which < 2 ? "path" : which == 2 ? "memory" : "weights");
    }
    assert_int_equal(kit_checkpoint_save_memory(NULL, NULL, NULL, 0, NULL, &err),
                     TRF_E_INVALID_ARG);
    trf_corpus_destroy(corpus);
    end_run(&r);
    assert_int_equal(memory.live, 0);
}

static void checkpoints_come_back(void **state)
{
    int steps;
    (void)state;
    for (steps = 0; steps < 12; steps += 5) {
        trf_error err;
        run r = train_some(steps, in_folder("run")), again;
        trf_load_options options = watched();
        trf_train_options changed;
        const trf_train_options *a, *b;
        memset(&again, 0, sizeof again);
        again.corpus = corpus_of(0);
        OK(trf_checkpoint_load(&again.model, &again.trainer, again.corpus, in_folder("run"), NULL,
                               &options, &err));
        assert_int_equal(kit_updates(again.trainer), steps);
        assert_true(hash_state(again.trainer) == hash_state(r.trainer));
        check_same_config(trf_model_config(r.model), trf_model_config(again.model));
        a = trf_trainer_options(r.trainer);
        b = trf_trainer_options(again.trainer);
#define X(type, field, low, high, stored) if (stored) assert_true(a->field == b->field);
        TRF__TRAIN_FIELDS(X)
#undef X
        assert_true(b->threads == 0 && b->hooks.alloc == options.hooks.alloc &&
                    b->hooks.user == options.hooks.user);
        assert_true(b->n_ranks == 1 && !b->all_reduce);
        OK(trf_checkpoint_save(again.trainer, again.corpus, in_folder("again"), NULL, &err));
        assert_true(hash_file(in_folder("run")) == hash_file(in_folder("again")));
        assert_true(go_on(&r, 7) == go_on(&again, 7));
        end_run(&again);
        assert_int_equal(memory.live, 0);

        changed = *trf_trainer_options(r.trainer); /* other options, the same state; no corpus */
        changed.learning_rate = 0.5;
        changed.seed = 3;
        again.corpus = NULL;
        OK(trf_checkpoint_load(&again.model, &again.trainer, NULL, in_folder("run"), &changed,
                               &options, &err));
        assert_true(trf_trainer_options(again.trainer)->learning_rate == 0.5);
        assert_int_equal(kit_updates(again.trainer), steps);
        end_run(&again);
        changed.beta1 = 1;
        assert_int_equal(trf_checkpoint_load(&again.model, &again.trainer, NULL, in_folder("run"),
                                             &changed, &options, &err),
                         TRF_E_INVALID_ARG);
        assert_string_equal(err.what, "beta1");
        assert_null(again.model);
        assert_null(again.trainer);
        end_run(&r);
    }
}

static void checkpoints_in_the_middle(void **state)
{
    trf_error err;
    run r = train_some(2, in_folder("middle"));
    uint64_t file = hash_file(in_folder("middle"));
    trf_batch batch;
    trf_step_report report;
    (void)state;
    OK(trf_corpus_next(r.corpus, &batch, &err));
    OK(trf_trainer_forward_backward(r.trainer, &batch, &report, &err));
    assert_int_equal(trf_checkpoint_save(r.trainer, r.corpus, in_folder("middle"), NULL, &err),
                     TRF_E_STATE);
    assert_true(hash_file(in_folder("middle")) == file);
    trf_trainer_discard_gradients(r.trainer);
    OK(trf_checkpoint_save(r.trainer, r.corpus, in_folder("middle"), NULL, &err));
    OK(trf_checkpoint_save(r.trainer, NULL, in_folder("middle"), NULL, &err));
    end_run(&r);
}

/* Where the next batch stands. */
static void position_of(const trf_corpus *c, int64_t *epoch_now, int64_t *batch_now)
{
    trf_place place = trf__corpus_place(c);
    *epoch_now = place.epoch;
    *batch_now = place.batch;
}

/* Loads a checkpoint that must be refused; a corpus stays where it is. Returns err.where. */
static int64_t checkpoint_refused(const char *path, trf_corpus *corpus, trf_status status,
                                  const char *what)
{
    trf_error err;
    trf_load_options options = watched();
    trf_model *model = (trf_model *)&err;
    trf_trainer *trainer = (trf_trainer *)&err;
    int64_t epoch = 0, batch = 0, epoch_now = 0, batch_now = 0;
    trf_status got;
    if (corpus) position_of(corpus, &epoch, &batch);
    got = trf_checkpoint_load(&model, &trainer, corpus, path, NULL, &options, &err);
    if (got == TRF_OK)
        fail_msg("expected %s about %s, but the checkpoint was loaded", trf_status_name(status),
                 what ? what : "it");
    assert_null(model);
    assert_null(trainer);
    assert_int_equal(memory.live, 0);
    assert_true(largest < (4u << 20));
    if (got != status || err.status != status || (what && strcmp(err.what, what)) ||
        !names(&err, path))
        fail_msg("expected %s about %s, got %s about %s: %s", trf_status_name(status),
                 what ? what : "anything", trf_status_name(got), err.what, err.message);
    if (corpus) position_of(corpus, &epoch_now, &batch_now);
    assert_true(epoch == epoch_now && batch == batch_now);
    return err.where;
}

static int64_t draft_checkpoint_refused(draft *d, trf_corpus *corpus, trf_status status,
                                        const char *what)
{
    put_together(d, in_folder("draft"), 0);
    return checkpoint_refused(in_folder("draft"), corpus, status, what);
}

static void note_refused(draft *d, trf_corpus *corpus, const char *key, const char *value,
                         trf_status status, const char *what)
{
    char *old = set_note(d, key, value);
    assert_true(old || value);          /* a field of format 12 that is 0 has no note */
    draft_checkpoint_refused(d, corpus, status, what);
    free(set_note(d, key, old));
    free(old);
}

/* -----------------------------------------------------------------------------------------------
   Steps that are not completed: their batches come again. */

enum { UPDATES = 10 };          /* past the end of the first epoch */

typedef struct stop { int64_t calls, at; int reduce_fails; } stop;

static int stop_at(void *user) { stop *x = (stop *)user; return ++x->calls == x->at; }

static int reduce_or_fail(void *user, trf_real *gradients, size_t count, void *stream)
{
    (void)gradients; (void)count; (void)stream;
    return ((stop *)user)->reduce_fails;
}

static run begin_run(stop *x)
{
    trf_error err;
    trf_config config = uneven_config();
    trf_train_options training = training_options();
    run r;
    training.schedule = TRF_CONSTANT;
    training.all_reduce = reduce_or_fail;
    training.user = training.hooks.user = x;
    training.hooks.cancel = stop_at;
    x->calls = x->at = x->reduce_fails = 0;
    r.model = model_of(&config);
    r.corpus = corpus_of(0);
    r.trainer = NULL;
    OK(trf_trainer_create(&r.trainer, r.model, &training, &err));
    return r;
}

/* The loop that anybody would write: it ends at the first call that fails. */
static trf_status train_until(run *r, int64_t updates, int accumulate, trf_error *err)
{
    trf_batch batch;
    trf_status status = TRF_OK;
    int i;
    while (!status && kit_updates(r->trainer) < updates) {
        for (i = 0; !status && i < accumulate; i++) {
            status = trf_corpus_next(r->corpus, &batch, err);
            if (!status) status = trf_trainer_forward_backward(r->trainer, &batch, NULL, err);
        }
        if (!status) status = trf_trainer_update(r->trainer, NULL, err);
    }
    return status;
}

/* Loads what was saved: with its corpus at once, or with one that is made afterwards. */
static run load_run(const char *path, int afterwards)
{
    trf_error err;
    trf_load_options options = trf_load_defaults();
    run r;
    options.device.threads = 1;
    r.corpus = afterwards ? NULL : corpus_of(0);
    OK(trf_checkpoint_load(&r.model, &r.trainer, r.corpus, path, NULL, &options, &err));
    if (afterwards) {
        r.corpus = corpus_of(0);
        OK(trf_corpus_resume(r.corpus, r.trainer, &err));
    }
    return r;
}

static void place_is(const run *r, int64_t epoch, int64_t batch)
{
    run again;
    trf_error err;
    int64_t epoch_now, batch_now;
    OK(trf_checkpoint_save(r->trainer, r->corpus, in_folder("place"), NULL, &err));
    again = load_run(in_folder("place"), 0);
    position_of(again.corpus, &epoch_now, &batch_now);
    assert_int_equal(epoch_now, epoch);
    assert_int_equal(batch_now, batch);
    end_run(&again);
}

/* Cancelled at every question of the hook: saved, loaded and gone on; or gone on in the same
   process. */
static void cancelled_steps_lose_nothing(void **state)
{
    trf_error err;
    int accumulate, done;
    int64_t k, stride;
    uint64_t want;
    (void)state;
    for (accumulate = 1; accumulate <= 2; accumulate++) {
        stop x;
        run r = begin_run(&x), again;
        OK(train_until(&r, UPDATES, accumulate, &err));
        assert_true(trf_corpus_facts(r.corpus)->epoch > 0);
        want = hash_state(r.trainer);
        stride = r.model->run.backend->on_host ? 1 : 3;
        end_run(&r);
        for (k = 1, done = 0; !done; k += stride) {
            trf_status status;
            r = begin_run(&x);
            x.at = k;
            status = train_until(&r, UPDATES, accumulate, &err);
            done = status == TRF_OK;
            if (!done) assert_int_equal(status, TRF_E_CANCELLED);
            trf_trainer_discard_gradients(r.trainer);
            OK(trf_checkpoint_save(r.trainer, r.corpus, in_folder("stopped"), NULL, &err));
            again = load_run(in_folder("stopped"), (int)(k % 2));
            OK(train_until(&again, UPDATES, accumulate, &err));
            assert_true(hash_state(again.trainer) == want);
            end_run(&again);
            OK(trf_corpus_resume(r.corpus, r.trainer, &err));
            OK(train_until(&r, UPDATES, accumulate, &err));
            assert_true(hash_state(r.trainer) == want);
            end_run(&r);
        }
        assert_true(k > 3 * UPDATES);
    }
}

/* The batch of a cancelled step is still there: the same process goes on with it. */
static void cancelled_steps_again(void **state)
{
    trf_error err;
    stop x;
    run r = begin_run(&x);
    uint64_t want;
    int64_t k;
    (void)state;
    OK(train_until(&r, UPDATES, 1, &err));
    want = hash_state(r.trainer);
    end_run(&r);
    r = begin_run(&x);
    for (k = 0; k < UPDATES; k++) {
        trf_batch batch;
        OK(trf_corpus_next(r.corpus, &batch, &err));
        x.at = x.calls + 1 + (KIT_ASKS_ONCE ? 0 : k % 4);
        assert_int_equal(trf_trainer_step(r.trainer, &batch, NULL, &err), TRF_E_CANCELLED);
        OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
    }
    assert_true(hash_state(r.trainer) == want);
    end_run(&r);
}

static void places_of_incomplete_steps(void **state)
{
    trf_error err;
    stop x;
    run r = begin_run(&x);
    trf_corpus *other = corpus_of(1);
    trf_batch batch, foreign, own, bad;
    int32_t ids[2], length = 2;
    (void)state;
    OK(trf_corpus_next(r.corpus, &batch, &err));
    place_is(&r, 0, 1); /* the trainer has no place yet: the corpus's */
    x.at = x.calls + 1;
    assert_int_equal(trf_trainer_step(r.trainer, &batch, NULL, &err), TRF_E_CANCELLED);
    place_is(&r, 0, 0);                                         /* the very first one */
    OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
    place_is(&r, 0, 1);
    OK(trf_corpus_next(r.corpus, &batch, &err));                /* 1: looking at it is no step */
    OK(trf_trainer_evaluate(r.trainer, &batch, NULL, NULL, &err));
    place_is(&r, 0, 1);
    bad = batch;                                                /* refused: it counts as used */
    bad.target.count = 0;
    assert_int_equal(trf_trainer_step(r.trainer, &bad, NULL, &err), TRF_E_INVALID_ARG);
    place_is(&r, 0, 2);
    OK(trf_corpus_next(r.corpus, &batch, &err));                /* 2 */
    OK(trf_trainer_forward_backward(r.trainer, &batch, NULL, &err));
    OK(trf_corpus_next(r.corpus, &bad, &err)); /* 3: refused within a step, which is then ended */
    bad.target.count = 0;
    assert_int_equal(trf_trainer_forward_backward(r.trainer, &bad, NULL, &err), TRF_E_INVALID_ARG);
    OK(trf_trainer_update(r.trainer, NULL, &err));
    place_is(&r, 0, 4);
    OK(trf_corpus_next(r.corpus, &batch, &err));                /* 4 */
    OK(trf_trainer_forward_backward(r.trainer, &batch, NULL, &err));
    OK(trf_corpus_next(r.corpus, &batch,
                       &err)); /* 5: cancelled within a step, which is then ended */
    x.at = x.calls + 1;
    assert_int_equal(trf_trainer_forward_backward(r.trainer, &batch, NULL, &err), TRF_E_CANCELLED);
    OK(trf_trainer_update(r.trainer, NULL, &err));
    place_is(&r, 0, 5);
    OK(trf_trainer_forward_backward(r.trainer, &batch, NULL,
                                    &err)); /* 5 again: a step of the caller's own */
    trf_trainer_end_step(r.trainer);
    place_is(&r, 0, 6);
    OK(trf_corpus_next(r.corpus, &batch, &err)); /* 6: the other ranks do not answer */
    x.reduce_fails = 1;
    assert_int_equal(trf_trainer_step(r.trainer, &batch, NULL, &err), TRF_E_BACKEND);
    place_is(&r, 0, 6);
    x.reduce_fails = 0;
    OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
    place_is(&r, 0, 7);
    OK(trf_corpus_next(other, &foreign, &err));                 /* of other data */
    x.at = x.calls + 1;
    assert_int_equal(trf_trainer_step(r.trainer, &foreign, NULL, &err), TRF_E_CANCELLED);
    place_is(&r, 0, 7);
    assert_int_equal(trf_corpus_resume(r.corpus, r.trainer, &err), TRF_E_STATE);
    ids[0] = ids[1] = 5;                                        /* made by hand */
    memset(&own, 0, sizeof own);
    own.source.ids = own.target.ids = ids;
    own.source.lengths = own.target.lengths = &length;
    own.source.count = own.target.count = 1;
    OK(trf_trainer_step(r.trainer, &own, NULL, &err));
    place_is(&r, 0, 7);
    assert_int_equal(trf_corpus_resume(r.corpus, r.trainer, &err), TRF_E_STATE);
    trf_corpus_destroy(other);
    end_run(&r);
}

/* Batches are fetched ahead, and one of other data, or of none, is refused or trained on between
   them: the place in the data stays. */
static void places_beside_other_data(void **state)
{
    trf_error err;
    stop x;
    run r = begin_run(&x);
    trf_corpus *other = corpus_of(1);
    trf_batch batch, foreign, own;
    int32_t ids[2] = {5, 5}, length = 2, k;
    (void)state;
    memset(&own, 0, sizeof own);
    own.source.ids = own.target.ids = ids;
    own.source.lengths = own.target.lengths = &length;
    own.source.count = own.target.count = 1;
    OK(trf_corpus_next(r.corpus, &batch, &err));                /* 0 */
    OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
    for (k = 0; k < 3; k++) OK(trf_corpus_next(r.corpus, &batch, &err));        /* 1 to 3 */
    OK(trf_corpus_next(other, &foreign, &err));
    foreign.target.count = 0;
    assert_int_equal(trf_trainer_step(r.trainer, &foreign, NULL, &err), TRF_E_INVALID_ARG);
    place_is(&r, 0, 1);
    own.target.count = 0;
    assert_int_equal(trf_trainer_step(r.trainer, &own, NULL, &err), TRF_E_INVALID_ARG);
    place_is(&r, 0, 1);
    own.target.count = 1;
    OK(trf_trainer_step(r.trainer, &own, NULL, &err));
    place_is(&r, 0, 1);
    OK(trf_trainer_forward_backward(r.trainer, &batch, NULL, &err));    /* 3, and more in the same step */
    OK(trf_trainer_forward_backward(r.trainer, &own, NULL, &err));
    foreign.place.batch += 7;
    assert_int_equal(trf_trainer_forward_backward(r.trainer, &foreign, NULL, &err), TRF_E_INVALID_ARG);
    OK(trf_trainer_update(r.trainer, NULL, &err));
    place_is(&r, 0, 4);
    OK(trf_corpus_resume(r.corpus, r.trainer, &err));
    OK(trf_corpus_next(r.corpus, &batch, &err)); /* 4: given up, then a step without it */
    OK(trf_trainer_forward_backward(r.trainer, &batch, NULL, &err));
    trf_trainer_discard_gradients(r.trainer);
    OK(trf_trainer_step(r.trainer, &own, NULL, &err));
    place_is(&r, 0, 4);
    OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
    for (k = 0; k < 3; k++) { /* 4 is only looked at, once in the middle of a step */
        if (k == 1) OK(trf_trainer_forward_backward(r.trainer, &own, NULL, &err));
        if (k == 2) x.at = x.calls + 1;
        assert_int_equal(trf_trainer_forward_backward(r.trainer, &batch, NULL, &err),
                         k == 2 ? TRF_E_CANCELLED : TRF_OK);
        trf_trainer_discard_gradients(r.trainer);
        place_is(&r, 0, 5);
    }
    trf_corpus_destroy(other);
    end_run(&r);
}

/* The last batch of an epoch, and of the last epoch; a corpus that begins anew, or is rewound: what
   it has delivered since then and nobody trained on comes again. */
static void places_at_the_end(void **state)
{
    trf_error err;
    stop x;
    run r = begin_run(&x);
    trf_corpus *used = r.corpus;
    trf_batch batch;
    int64_t number = 0;
    (void)state;
    while (trf_corpus_facts(r.corpus)->epoch < 4) {
        int64_t epoch = trf_corpus_facts(r.corpus)->epoch;
        OK(trf_corpus_next(r.corpus, &batch, &err));
        if (trf_corpus_facts(r.corpus)->epoch == epoch) { number++; continue; }
        x.at = x.calls + 1;
        assert_int_equal(trf_trainer_step(r.trainer, &batch, NULL, &err), TRF_E_CANCELLED);
        place_is(&r, epoch, number);
        OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
        place_is(&r, epoch + 1, 0);
        number = 0;
    }
    assert_int_equal(trf_corpus_next(r.corpus, &batch, &err), TRF_E_END);
    place_is(&r, 4, 0);
    kit_rewind(r.corpus);
    for (number = 0; number < 3; number++) OK(trf_corpus_next(r.corpus, &batch, &err));
    place_is(&r, 0, 0);
    OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
    place_is(&r, 0, 3);
    OK(trf_corpus_resume(r.corpus, r.trainer, &err));           /* put there, then rewound */
    kit_rewind(r.corpus);
    OK(trf_corpus_next(r.corpus, &batch, &err));
    place_is(&r, 0, 0);
    r.corpus = corpus_of(0);
    place_is(&r, 0, 0);
    trf_corpus_destroy(used);
    end_run(&r);
}

/* Options that are set half-way: from there on the trainer is one that was loaded with them, to the
   bit. */
static void options_half_way(void **state)
{
    static kit_pairs data[5];
    int pre, all, step;
    (void)state;
    for (pre = 0; pre < 2; pre++) for (all = 0; all < 2; all++) {
        trf_error err;
        trf_config config = uneven_config();
        trf_train_options o = kit_training();
        trf_load_options options = watched();
        trf_model *model, *loaded = NULL;
        trf_trainer *trainer = NULL, *resumed = NULL;
        trf_step_report report, other;
        for (step = 0; step < 5; step++)
            kit_fill(&data[step], 4 + step, 1, 6 + step, 7, (uint64_t)step);
        config.norm_place = pre ? TRF_PRE_NORM : TRF_POST_NORM;
        o.threads = 1;
        o.warmup = 10;
        o.source_tokens = o.target_tokens = 64;
        o.sequences = 8;
        o.longest = 9;
        model = model_of(&config);
        OK(trf_trainer_create(&trainer, model, &o, &err));
        for (step = 0; step < 3; step++)
            OK(trf_trainer_step(trainer, &data[step].batch, &report, &err));
        OK(trf_checkpoint_save(trainer, NULL, in_folder("half"), NULL, &err));
        o.optimizer = all ? TRF_ADAMW : TRF_ADAM;
        o.beta1 = 0.8; o.beta2 = 0.95; o.epsilon = 1e-6; o.epsilon_rule = TRF_EPSILON_INSIDE;
        o.weight_decay = 0.1; o.decay_all = all;
        o.schedule = TRF_COSINE;
        o.learning_rate = 0.01;
        o.final_rate = 0.001;
        o.total_steps = 20;
        o.warmup = 2;
        o.label_smoothing = 0.3; o.smoothing_rule = TRF_SMOOTH_OTHERS;
        o.dropout = 0.5;
        o.attention_dropout = 0.25;
        o.activation_dropout = 0.3;
        o.residual_dropout = 0.2;
        o.clip_norm = 0.01;
        o.seed = 99;
        o.source_tokens = 128; o.target_tokens = 40; o.sequences = 16; o.longest = 11;
        OK(trf_trainer_set_options(trainer, &o, &err));
        assert_true(trf_trainer_options(trainer)->seed == 99);
        OK(trf_trainer_report(trainer, &other, &err)); /* what was done stays what it was */
        assert_memory_equal(&report, &other, sizeof report);
        OK(trf_checkpoint_load(&loaded, &resumed, NULL, in_folder("half"), &o, &options, &err));
        for (step = 3; step < 9; step++) {
            OK(trf_trainer_step(trainer, &data[step % 5].batch, &report, &err));
            OK(trf_trainer_step(resumed, &data[step % 5].batch, &other, &err));
            assert_memory_equal(&report, &other, sizeof report);
            assert_true(hash_state(trainer) == hash_state(resumed));
        }
        OK(trf_trainer_evaluate(trainer, &data[1].batch, NULL, &report, &err));
        OK(trf_trainer_evaluate(resumed, &data[1].batch, NULL, &other, &err));
        assert_memory_equal(&report, &other, sizeof report);
        OK(trf_checkpoint_save(trainer, NULL, in_folder("one"), NULL, &err));
        OK(trf_checkpoint_save(resumed, NULL, in_folder("two"), NULL, &err));
        assert_true(hash_file(in_folder("one")) == hash_file(in_folder("two")));
        trf_trainer_destroy(trainer);
        trf_trainer_destroy(resumed);
        trf_model_destroy(model);
        trf_model_destroy(loaded);
        assert_int_equal(memory.live, 0);
    }
}

static int log_lines;
static void count_lines(void *user, int level, const char *message)
{
    (void)user; (void)level; (void)message;
    log_lines++;
}

static int always(void *user) { (void)user; return 1; }

/* What cannot be set, when it cannot, and plans that are large enough then. */
static void options_that_stay(void **state)
{
    static kit_pairs data;
    trf_error err;
    trf_config config = uneven_config();
    trf_train_options o = kit_training(), before, wanted;
    trf_model *model = model_of(&config);
    trf_trainer *trainer = NULL;
    trf_batch batch = kit_fill(&data, 12, 3, 9, 7, 3);
    int64_t calls;
    (void)state;
    o.threads = 1;
    o.source_tokens = o.target_tokens = 16;
    o.sequences = 2;
    o.longest = 4;
    o.hooks = kit_hooks(&memory);
    OK(trf_trainer_create(&trainer, model, &o, &err));
    before = *trf_trainer_options(trainer);
    wanted = o; wanted.threads = 2;
    assert_int_equal(trf_trainer_set_options(trainer, &wanted, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "threads");
    wanted = o; memset(&wanted.hooks, 0, sizeof wanted.hooks);
    assert_int_equal(trf_trainer_set_options(trainer, &wanted, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "hooks");
    wanted = o; wanted.hooks.user = &log_lines;
    assert_int_equal(trf_trainer_set_options(trainer, &wanted, &err), TRF_E_INVALID_ARG);
    wanted = o; wanted.beta1 = 1;
    assert_int_equal(trf_trainer_set_options(trainer, &wanted, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "beta1");
    wanted = o; wanted.n_ranks = 2;
    assert_int_equal(trf_trainer_set_options(trainer, &wanted, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_trainer_set_options(NULL, &o, &err), TRF_E_INVALID_ARG);
    assert_memory_equal(&before, trf_trainer_options(trainer), sizeof before);
    wanted = o;
    wanted.source_tokens = wanted.target_tokens = 200;
    wanted.sequences = 12;
    wanted.longest = 10;
    wanted.hooks.log = count_lines;
    memory.fail_at = memory.calls + 2;
    assert_int_equal(trf_trainer_set_options(trainer, &wanted, &err), TRF_E_NOMEM);
    memory.fail_at = 0;
    assert_memory_equal(&before, trf_trainer_options(trainer), sizeof before);
    OK(trf_trainer_set_options(trainer, &wanted, &err));
    log_lines = 0;
    calls = memory.calls;
    OK(trf_trainer_forward_backward(trainer, &batch, NULL, &err));      /* nothing grows */
    assert_int_equal(memory.calls, calls);
    assert_int_equal(log_lines, 0);
    assert_int_equal(trf_trainer_set_options(trainer, &o, &err), TRF_E_STATE);
    trf_trainer_discard_gradients(trainer);
    wanted.hooks.cancel = always; /* asked from now on, and below no more */
    OK(trf_trainer_set_options(trainer, &wanted, &err));
    assert_int_equal(trf_trainer_step(trainer, &batch, NULL, &err), TRF_E_CANCELLED);
    OK(trf_trainer_set_options(trainer, &o, &err)); /* back to smaller limits: the plan stays */
    OK(trf_trainer_step(trainer, &batch, NULL, &err));
    assert_int_equal(memory.calls, calls);
    batch = kit_fill(&data, 30, 8, 9, 7, 3);
    OK(trf_trainer_step(trainer, &batch, NULL, &err));
    assert_int_equal(log_lines, 0);                             /* and nobody listens any more */
    assert_int_equal(trf_trainer_set_options(trainer, trf_trainer_options(trainer), &err), TRF_OK);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

static void resuming_is_refused(void **state)
{
    trf_error err;
    run r = train_some(3, in_folder("run")), again;
    trf_corpus *other = corpus_of(1);
    trf_batch batch;
    int64_t epoch, number;
    (void)state;
    assert_int_equal(trf_corpus_resume(NULL, r.trainer, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "corpus");
    assert_int_equal(trf_corpus_resume(other, NULL, &err), TRF_OK);     /* rewinds */
    assert_int_equal(trf_corpus_resume(other, r.trainer, &err), TRF_E_STATE);
    assert_string_equal(err.what, "corpus");
    again = load_run(in_folder("run"), 1);
    position_of(again.corpus, &epoch, &number);
    assert_true(epoch == 0 && number == 3);
    assert_int_equal(trf_corpus_resume(other, again.trainer, &err), TRF_E_STATE);
    position_of(other, &epoch, &number);
    assert_true(epoch == 0 && number == 0);
    OK(trf_corpus_next(again.corpus, &batch, &err));
    OK(trf_trainer_forward_backward(again.trainer, &batch, NULL, &err));
    assert_int_equal(trf_corpus_resume(again.corpus, again.trainer, &err), TRF_E_STATE);
    assert_string_equal(err.what, "gradients");
    trf_trainer_discard_gradients(again.trainer);
    OK(trf_corpus_resume(again.corpus, again.trainer, &err));
    position_of(again.corpus, &epoch, &number);
    assert_true(epoch == 0 && number == 3);
    end_run(&again);
    OK(trf_checkpoint_save(r.trainer, NULL, in_folder("bare"), NULL, &err));         /* without a place */
    OK(trf_checkpoint_load(&again.model, &again.trainer, NULL, in_folder("bare"), NULL, NULL,
                           &err));
    again.corpus = corpus_of(0);
    assert_int_equal(trf_corpus_resume(again.corpus, again.trainer, &err), TRF_E_STATE);
    OK(trf_corpus_next(again.corpus, &batch, &err)); /* nothing has begun wrongly */
    end_run(&again);
    trf_corpus_destroy(other);
    end_run(&r);
}

/* A step that was skipped is in the number of the step and not in that of Adam's updates, also
   after loading. */
static void skipped_steps_come_back(void **state)
{
    trf_error err;
    stop x;
    run r = begin_run(&x), again;
    trf_batch batch;
    trf_step_report report;
    (void)state;
    OK(trf_corpus_next(r.corpus, &batch, &err));
    OK(trf_trainer_forward_backward(r.trainer, &batch, NULL, &err));
    kit_set(trf_trainer_tensor(r.trainer, TRF_GRADIENT, 0), 0, (double)NAN);
    OK(trf_trainer_update(r.trainer, &report, &err));
    assert_int_equal(report.skipped, 1);
    OK(trf_checkpoint_save(r.trainer, r.corpus, in_folder("skipped"), NULL, &err));
    again = load_run(in_folder("skipped"), 0);
    assert_int_equal(kit_updates(again.trainer), 1);
    OK(train_until(&again, 5, 1, &err));
    OK(train_until(&r, 5, 1, &err));
    assert_true(hash_state(again.trainer) == hash_state(r.trainer));
    end_run(&again);
    end_run(&r);
}

/* Files of formats 2 to 8 lack the fields that have come since: these have their defaults, the
   rest is the same. */
static void old_formats(void **state)
{
    static const struct { const char *key; int stored; } fields[] = {
#define X(type, field, low, high, stored) {"trf.config." #field, stored},
        TRF__CONFIG_FIELDS(X)
#undef X
#define X(type, field, low, high, stored) {"trf.train." #field, stored},
        TRF__TRAIN_FIELDS(X)
#undef X
    };
    trf_error err;
    trf_load_options options = watched();
    int number;
    (void)state;
    for (number = 0; number < 14; number++) {
        int checkpoint = number % 2, format = 2 + number / 2;
        char text[2] = {(char)('0' + format), 0}, next[2] = {(char)('1' + format), 0};
        draft d;
        run r;
        size_t i;
        uint64_t whole;
        if (format == 7 && !checkpoint) continue;       /* a model has nothing new since */
        memset(&r, 0, sizeof r);
        if (checkpoint) {
            r = train_some(3, in_folder("small"));
            end_run(&r);
            take_apart(&d, in_folder("small"));
        } else draft_of_small(&d);
        whole = hash_file(in_folder("small"));
        free(set_note(&d, "trf.format", text));
        for (i = 0; i < sizeof fields / sizeof fields[0]; i++)
            if (fields[i].stored > format) free(set_note(&d, fields[i].key, NULL));
        put_together(&d, in_folder("draft"), 0);
        if (checkpoint) {
            r.corpus = corpus_of(0);
            OK(trf_checkpoint_load(&r.model, &r.trainer, r.corpus, in_folder("draft"), NULL,
                                   &options, &err));
            OK(trf_checkpoint_save(r.trainer, r.corpus, in_folder("again"), NULL, &err));
            end_run(&r);
        } else {
            trf_model *model = NULL;
            OK(trf_model_load(&model, in_folder("draft"), &options, &err));
            save(model, in_folder("again"));
            trf_model_destroy(model);
        }
        assert_true(hash_file(in_folder("again")) == whole);
        if (format == 7) { forget(&d); continue; }      /* the next one has more for a trainer alone */
        free(set_note(&d, "trf.format", next));         /* the next format must have them */
        draft_refused(&d, TRF_E_FORMAT,
                      format == 2   ? "trf.config.target_eos"
                      : format == 3 ? "trf.config.qkv_bias"
                      : format == 4 ? "trf.config.feed_forward_gate"
                      : format == 5 ? "trf.config.kv_heads"
                      : format == 6 ? "trf.config.rotary_trained"
                                    : "trf.config.bare_prompts");
        if (format == 6) {                              /* some files of format 6 have them */
            free(set_note(&d, "trf.format", text));
            free(set_note(&d, "trf.config.rotary_trained", "2000000"));
            draft_refused(&d, TRF_E_FORMAT, "rotary_trained");
        }
        forget(&d);
    }
}

static void bad_checkpoint_numbers(void **state)
{
    static const struct { const char *key; int stored; } fields[] = {
#define X(type, field, low, high, stored) {"trf.train." #field, stored},
        TRF__TRAIN_FIELDS(X)
#undef X
    };
    static const struct { const char *key, *value, *what;
    } wrong[] = {{"optimizer", "2", "optimizer"},
                 {"beta1", "1", "beta1"},
                 {"beta2", "-0.1", "beta2"},
                 {"beta2", "nan", "beta2"},
                 {"epsilon", "0", "epsilon"},
                 {"warmup", "0", "warmup"},
                 {"warmup", "-3", "warmup"},
                 {"learning_rate", "0", "learning_rate"},
                 {"learning_rate", "inf", "learning_rate"},
                 {"dropout", "1", "dropout"},
                 {"dropout", "nan", "dropout"},
                 {"attention_dropout", "-1", "attention_dropout"},
                 {"residual_dropout", "2", "residual_dropout"},
                 {"label_smoothing", "1", "label_smoothing"},
                 {"consistency", "-1", "consistency"},
                 {"consistency", "nan", "consistency"},
                 {"cooldown", "-1", "cooldown"},
                 {"clip_norm", "0", "clip_norm"},
                 {"clip_norm", "nan", "clip_norm"},
                 {"total_steps", "3", "total_steps"},
                 {"sequences", "-1", "sequences"},
                 {"source_tokens", "2147483647", "source_tokens"},
                 {"longest", "-1", "longest"},
                 {"schedule", "4", "schedule"}};
    run r = train_some(3, in_folder("run"));
    trf_corpus *corpus = corpus_of(0);
    draft d;
    char key[96];
    size_t i;
    (void)state;
    take_apart(&d, in_folder("run"));
    for (i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *field = fields[i].key;
        if (!fields[i].stored) { assert_null(set_note(&d, field, NULL)); continue; }
        if (fields[i].stored <= TRF__FORMAT)        /* files of this format may lack later ones */
            note_refused(&d, corpus, field, NULL, TRF_E_FORMAT, field);
        note_refused(&d, corpus, field, "x", TRF_E_FORMAT, field);
        note_refused(&d, corpus, field, "", TRF_E_FORMAT, field);
    }
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(key, sizeof key, "trf.train.%s", wrong[i].key);
        note_refused(&d, corpus, key, wrong[i].value, TRF_E_FORMAT, wrong[i].what);
    }
    note_refused(&d, corpus, "trf.train.warmup", "9223372036854775807", TRF_E_FORMAT, "warmup");
    note_refused(&d, corpus, "trf.train.longest", "4294967298", TRF_E_FORMAT, "trf.train.longest");
    note_refused(&d, corpus, "trf.step", "-1", TRF_E_STATE, "trf.step");
    note_refused(&d, corpus, "trf.step", "-9223372036854775808", TRF_E_STATE, "trf.step");
    note_refused(&d, corpus, "trf.step", "1.5", TRF_E_FORMAT, "trf.step");
    note_refused(&d, corpus, "trf.step", NULL, TRF_E_FORMAT, "trf.step");
    /* the next one would overflow */
    note_refused(&d, corpus, "trf.step", "9223372036854775807", TRF_E_STATE, "trf.step");
    note_refused(&d, corpus, "trf.corpus.batch", "-1", TRF_E_STATE, "corpus");
    note_refused(&d, corpus, "trf.corpus.batch", "1000", TRF_E_STATE, "corpus");
    note_refused(&d, corpus, "trf.corpus.batch", "9223372036854775807", TRF_E_STATE, "corpus");
    note_refused(&d, corpus, "trf.corpus.epoch", "-1", TRF_E_STATE, "corpus");
    note_refused(&d, corpus, "trf.corpus.epoch", "5", TRF_E_STATE, "corpus");
    note_refused(&d, corpus, "trf.corpus.epoch", NULL, TRF_E_FORMAT, "trf.corpus.epoch");
    note_refused(&d, corpus, "trf.corpus.batch", "", TRF_E_FORMAT, "trf.corpus.batch");
    note_refused(&d, corpus, "trf.updates", NULL, TRF_E_FORMAT, "trf.updates");
    note_refused(&d, corpus, "trf.updates", "-1", TRF_E_STATE, "trf.updates");
    note_refused(&d, corpus, "trf.updates", "4", TRF_E_STATE, "trf.updates"); /* more than steps */
    note_refused(&d, corpus, "trf.corpus.fingerprint", "0", TRF_E_STATE, "corpus");
    note_refused(&d, corpus, "trf.corpus.fingerprint", "1", TRF_E_STATE, "corpus");
    note_refused(&d, corpus, "trf.corpus.fingerprint", "none", TRF_E_FORMAT,
                 "trf.corpus.fingerprint");
    note_refused(&d, corpus, "trf.corpus.fingerprint", NULL, TRF_E_STATE, "corpus");
    trf_corpus_destroy(corpus);
    corpus = corpus_of(1);                      /* other data */
    checkpoint_refused(in_folder("run"), corpus, TRF_E_STATE, "corpus");
    trf_corpus_destroy(corpus);
    forget(&d);
    end_run(&r);
}

static void bad_moments(void **state)
{
    run r = train_some(3, in_folder("run"));
    draft d;
    int i, n;
    (void)state;
    take_apart(&d, in_folder("run"));
    n = d.n;
    for (i = 0; i < n; i += 7) {                /* some of each kind missing */
        char name[160];
        draft e;
        take_apart(&e, in_folder("run"));
        memcpy(name, e.pieces[i].name, sizeof name);
        drop_tensor(&e, name);
        put_together(&e, in_folder("draft"), 0);
        checkpoint_refused(in_folder("draft"), NULL, TRF_E_SHAPE, NULL);
        forget(&e);
    }
    for (i = 0; i < n; i++) {
        piece *p = &d.pieces[i], kept = *p;
        int is_v = !strncmp(p->name, "optimizer.v.", 12);
        size_t width = sizeof(trf_real);
        unsigned char value[8];
        if (strncmp(p->name, "optimizer.", 10)) continue;
        if (p->rank == 2 && p->shape[0] != p->shape[1]) {
            p->shape[0] = kept.shape[1]; p->shape[1] = kept.shape[0];
            draft_checkpoint_refused(&d, NULL, TRF_E_SHAPE, kept.name);
            *p = kept;
        }
        memcpy(value, p->data, width);
        store_as(p->data, (double)NAN, p->dtype);
        draft_checkpoint_refused(&d, NULL, TRF_E_NONFINITE, kept.name);
        store_as(p->data, -1e-6, p->dtype);
        if (is_v) draft_checkpoint_refused(&d, NULL, TRF_E_STATE, NULL);
        memcpy(p->data, value, width);
    }
    add_copy(&d, "optimizer.m.generator.bias", "optimizer.x.generator.bias");
    draft_checkpoint_refused(&d, NULL, TRF_E_SHAPE, "optimizer.x.generator.bias");
    forget(&d);
    end_run(&r);
}

static void one_for_the_other(void **state)
{
    trf_error err;
    run r = train_some(1, in_folder("run"));
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_load_options options = watched();
    draft d;
    (void)state;
    save(r.model, in_folder("model"));
    OK(trf_model_load(&model, in_folder("run"), &options, &err)); /* the model of a checkpoint */
    assert_true(hash_weights(HASH_START, model) == hash_weights(HASH_START, r.model));
    trf_model_destroy(model);
    checkpoint_refused(in_folder("model"), NULL, TRF_E_STATE, "trf.content");
    assert_int_equal(trf_checkpoint_load(&model, &trainer, NULL, in_folder("model"), NULL, &options,
                                         &err),
                     TRF_E_STATE);
    assert_non_null(strstr(err.message, "trf_model_load"));
    OK(trf_checkpoint_save(r.trainer, NULL, in_folder("bare"), NULL, &err)); /* one without a place in the data */
    checkpoint_refused(in_folder("bare"), r.corpus, TRF_E_STATE, "corpus");
    OK(trf_checkpoint_load(&model, &trainer, NULL, in_folder("bare"), NULL, &options, &err));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    draft_of_small(&d);                         /* a model that only says it is one */
    free(set_note(&d, "trf.content", "checkpoint"));
    put_together(&d, in_folder("draft"), 0);
    checkpoint_refused(in_folder("draft"), NULL, TRF_E_SHAPE, NULL);
    forget(&d);
    assert_int_equal(trf_checkpoint_load(&model, &trainer, NULL, in_folder("nowhere"), NULL,
                                         &options, &err),
                     TRF_E_IO);
    assert_int_equal(trf_model_load(&model, in_folder("nowhere"), &options, &err), TRF_E_IO);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_int_equal(memory.live, 0);
    end_run(&r);
}

/* -----------------------------------------------------------------------------------------------
   Damage of every kind. */

/* As small as a model can be: two kilobytes of header, some hundred bytes of weights. */
static void save_smallest(const char *path)
{
    trf_config config = uneven_config();
    trf_model *model;
    config.kind = TRF_DECODER_ONLY;
    config.encoder_layers = 0;
    config.d_model = config.d_ff = 1;
    config.n_heads = 1;
    config.target_vocab = 5;
    config.max_length = 4;
    config.final_norm = config.generator_bias = 0;
    config.tying = TRF_TIED_DECODER;
    model = model_of(&config);
    save(model, path);
    trf_model_destroy(model);
}

static void every_truncation(void **state)
{
    size_t n, length;
    unsigned char *bytes;
    trf_load_options options = watched();
    (void)state;
    save_smallest(in_folder("cut"));
    bytes = (unsigned char *)kit_read_file(in_folder("cut"), &n);
    assert_non_null(bytes);
    for (length = n; length-- > 0; ) {
        trf_error err;
        trf_model *model = NULL;
        trf_status status;
        assert_int_equal(truncate(in_folder("cut"), (off_t)length), 0);
        status = trf_model_load(&model, in_folder("cut"), &options, &err);
        if (status != TRF_E_FORMAT && status != TRF_E_LIMIT)
            fail_msg("cut to %lu bytes: %s", (unsigned long)length, trf_status_name(status));
        assert_null(model);
        assert_int_equal(memory.live, 0);
    }
    free(bytes);
}

static void every_bit(void **state)
{
    size_t n, at, header = 0;
    int bit, i, file, accepted = 0;
    unsigned char *bytes, changed;
    trf_load_options options = watched();
    (void)state;
    save_smallest(in_folder("flip"));
    bytes = (unsigned char *)kit_read_file(in_folder("flip"), &n);
    assert_non_null(bytes);
    for (i = 0; i < 8; i++) header |= (size_t)bytes[i] << 8 * i;
    file = open(in_folder("flip"), O_WRONLY);
    assert_true(file >= 0);
    for (at = 0; at < n; at++)
        for (bit = 0; bit < 8; bit++) {
            trf_error err;
            trf_model *model = NULL;
            trf_status status;
            changed = (unsigned char)(bytes[at] ^ 1 << bit);
            assert_int_equal(pwrite(file, &changed, 1, (off_t)at), 1);
            status = trf_model_load(&model, in_folder("flip"), &options, &err);
            /* before anything else is said about the data */
            if (at >= 8 + header) assert_int_equal(status, TRF_E_CHECKSUM);
            assert_true((status == TRF_OK) == (model != NULL));
            assert_true(status == TRF_OK || (err.status == (int32_t)status && err.message[0]));
            assert_int_equal(pwrite(file, bytes + at, 1, (off_t)at), 1);
            accepted += status == TRF_OK;       /* the seed, say, or a key that nobody reads */
            trf_model_destroy(model);
            assert_int_equal(memory.live, 0);
        }
    assert_true(largest < (1u << 20));
    assert_true(accepted < (int)n);
    close(file);
    free(bytes);
}

/* The same for a checkpoint, one bit of every third byte. */
static void bits_of_a_checkpoint(void **state)
{
    run r = train_some(2, in_folder("flip"));
    size_t n, at, header = 0;
    int i, file;
    unsigned char *bytes = (unsigned char *)kit_read_file(in_folder("flip"), &n), changed;
    trf_load_options options = watched();
    (void)state;
    assert_non_null(bytes);
    for (i = 0; i < 8; i++) header |= (size_t)bytes[i] << 8 * i;
    file = open(in_folder("flip"), O_WRONLY);
    assert_true(file >= 0);
    for (at = 0; at < n; at += 3) {
        trf_error err;
        trf_model *model = NULL;
        trf_trainer *trainer = NULL;
        trf_status status;
        changed = (unsigned char)(bytes[at] ^ 1 << at % 8);
        assert_int_equal(pwrite(file, &changed, 1, (off_t)at), 1);
        status =
            trf_checkpoint_load(&model, &trainer, NULL, in_folder("flip"), NULL, &options, &err);
        if (at >= 8 + header) assert_int_equal(status, TRF_E_CHECKSUM);
        assert_true((status == TRF_OK) == (model != NULL) &&
                    (status == TRF_OK) == (trainer != NULL));
        assert_int_equal(pwrite(file, bytes + at, 1, (off_t)at), 1);
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
        assert_int_equal(memory.live, 0);
    }
    assert_true(largest < (64u << 20));
    close(file);
    free(bytes);
    end_run(&r);
}

/* Whatever sizes a file claims, nothing big is asked for before the tensors have proven them. */
static void giants(void **state)
{
    static const char *const fields[][2] = {
        {"d_model", "65536"},          {"n_heads", "65536"},      {"d_ff", "1048576"},
        {"encoder_layers", "256"},     {"decoder_layers", "256"}, {"source_vocab", "16777216"},
        {"target_vocab", "16777216"},  {"max_length", "1048576"}, {"positions", "3"},
        {"position_offset", "1048576"}};
    draft d;
    size_t i;
    (void)state;
    draft_of_small(&d);
    for (i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char key[96];
        snprintf(key, sizeof key, "trf.config.%s", fields[i][0]);
        free(set_note(&d, key, fields[i][1]));
        put_together(&d, in_folder("draft"), 0);
        {
            trf_error err;
            trf_load_options options = watched();
            trf_model *model = NULL;
            trf_status status = trf_model_load(&model, in_folder("draft"), &options, &err);
            assert_true(status == TRF_E_SHAPE || status == TRF_E_FORMAT || status == TRF_E_LIMIT);
            assert_null(model);
            assert_true(largest < (2u << 20));
            assert_int_equal(memory.live, 0);
        }
    }
    forget(&d);
    {   /* and not more than the caller allows */
        trf_load_options options = trf_load_defaults();
        size_t n;
        free(kit_read_file(in_folder("small"), &n));
        options.max_bytes = n - 1;
        refused_with(&options, in_folder("small"), TRF_E_LIMIT, NULL, "max_bytes");
        options.max_bytes = 0;
        refused_with(&options, in_folder("small"), TRF_E_INVALID_ARG, "max_bytes", NULL);
    }
}

/* Memory that runs out at any point: refused, nothing lost, the file as it was. */
static void no_memory(void **state)
{
    trf_error err;
    trf_config config = uneven_config();
    run r = train_some(2, in_folder("run"));
    trf_corpus *corpus = corpus_of(0);
    int64_t at;
    int what, done;
    (void)state;
    config.hooks = kit_hooks(&memory);
    for (what = 0; what < 3; what++)
        for (at = 1, done = 0; !done; at++) {
            trf_load_options options = watched();
            trf_model *model = NULL;
            trf_trainer *trainer = NULL;
            trf_status status;
            uint64_t before = what == 1 ? hash_file(in_folder("small")) : 0;
            if (what == 0) {
                memory.fail_at = at;
                status = trf_model_load(&model, in_folder("small"), &options, &err);
            } else if (what == 1) {
                OK(trf_model_create(&model, &config, NULL, &err));
                memory.fail_at = memory.calls + at;
                status = trf_model_save(model, in_folder("small"), NULL, &err);
                if (status != TRF_OK) assert_true(before == hash_file(in_folder("small")));
            } else {
                memory.fail_at = at;
                status = trf_checkpoint_load(&model, &trainer, corpus, in_folder("run"), NULL,
                                             &options, &err);
            }
            done = status == TRF_OK;
            if (!done) {
                assert_int_equal(status, TRF_E_NOMEM);
                assert_int_equal(err.status, TRF_E_NOMEM);
                if (what != 1) assert_null(model);
                assert_null(trainer);
            }
            memory.fail_at = 0;
            trf_trainer_destroy(trainer);
            trf_model_destroy(model);
            assert_int_equal(memory.live, 0);
            assert_true(at < 200);
        }
    trf_corpus_destroy(corpus);
    end_run(&r);
}

/* -----------------------------------------------------------------------------------------------
   Saving */

static void saving_over_what_is_loaded(void **state)
{
    trf_error err;
    trf_config config = uneven_config();
    trf_model *first = model_of(&config), *second, *model = NULL;
    trf_file *open_file = NULL;
    trf_load_options options = trf_load_defaults();
    (void)state;
    config.seed = 2;
    second = model_of(&config);
    save(first, in_folder("one"));
    OK(trf_model_load(&model, in_folder("one"), NULL, &err));
    save(model, in_folder("one"));              /* onto itself */
    assert_true(loaded(in_folder("one"), NULL) == hash_weights(HASH_START, first));
    trf_model_destroy(model);
    OK(trf_file_open(&open_file, in_folder("one"), NULL, &err));
    save(second,
         in_folder("one")); /* over a file that somebody reads: the reader keeps the old one */
    OK(trf__model_read(&model, open_file, &options, &err));
    assert_true(hash_weights(HASH_START, model) == hash_weights(HASH_START, first));
    trf_file_close(open_file);
    assert_true(loaded(in_folder("one"), NULL) == hash_weights(HASH_START, second));
    trf_model_destroy(model);
    trf_model_destroy(first);
    trf_model_destroy(second);
}

static void places_that_cannot_be_written(void **state)
{
    static const char *const places[] = {"/proc/model.safetensors",
                                         "/nowhere/at/all/model.safetensors",
                                         "/",
                                         "/dev/null",
                                         "/dev/full",
                                         ""};
    trf_error err;
    trf_config config = uneven_config();
    trf_model *model = model_of(&config);
    run r = train_some(1, NULL);
    struct rlimit unlimited, little;
    uint64_t before;
    size_t i;
    int files;
    (void)state;
    for (i = 0; i < sizeof places / sizeof places[0]; i++) {
        trf_status wanted = places[i][0] ? TRF_E_IO : TRF_E_INVALID_ARG;
        assert_int_equal(trf_model_save(model, places[i], NULL, &err), wanted);
        assert_true(err.status == (int32_t)wanted && err.message[0]);
        if (places[i][0]) assert_true(names(&err, places[i]));
        assert_int_equal(trf_checkpoint_save(r.trainer, r.corpus, places[i], NULL, &err), wanted);
        if (places[i][0]) assert_true(names(&err, places[i]));
    }
    assert_int_equal(trf_model_save(model, NULL, NULL, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_model_save(NULL, in_folder("one"), NULL, &err), TRF_E_INVALID_ARG);
    save(model, in_folder("old"));
    before = hash_file(in_folder("old"));
    files = files_in_folder();
    assert_int_equal(chmod(folder, 0555), 0);
    if (geteuid() != 0) assert_int_equal(trf_model_save(model, in_folder("old"), NULL, &err), TRF_E_IO);
    assert_int_equal(chmod(folder, 0755), 0);
    signal(SIGXFSZ, SIG_IGN);                   /* a disk that is full after a kilobyte */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    little = unlimited;
    little.rlim_cur = 1024;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    assert_int_equal(trf_model_save(model, in_folder("old"), NULL, &err), TRF_E_IO);
    assert_int_equal(err.sys_errno, EFBIG);
    assert_true(names(&err, in_folder("old")));
    assert_int_equal(trf_checkpoint_save(r.trainer, r.corpus, in_folder("old"), NULL, &err), TRF_E_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    assert_true(hash_file(in_folder("old")) == before);
    assert_int_equal(files_in_folder(), files);         /* nothing half written is left */
    save(model, in_folder("old"));
    assert_true(hash_file(in_folder("old")) == before);
    trf_model_destroy(model);
    end_run(&r);
}

/* -----------------------------------------------------------------------------------------------
   The program's own texts. */

/* What a model has, as "key=value;" in its order. */
static const char *metadata_of(const trf_model *model)
{
    static char text[4096];
    const char *key, *value;
    int32_t i;
    text[0] = 0;
    for (i = 0; trf_model_metadata_at(model, i, NULL, NULL); i++) {
        trf_model_metadata_at(model, i, &key, &value);
        assert_ptr_equal(trf_model_metadata(model, key), value);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s=%s;", key, value);
    }
    return text;
}

static void set_text(trf_model *model, const char *key, const char *value)
{
    trf_error err;
    OK(trf_model_set_metadata(model, key, value, &err));
}

static void own_metadata(void **state)
{
    trf_config config = uneven_config();
    trf_model *model, *copy = NULL;
    trf_error err;
    const char *key = "x", *value = "y";
    (void)state;
    config.hooks = kit_hooks(&memory);
    model = model_of(&config);
    assert_string_equal(metadata_of(model), "");
    assert_null(trf_model_metadata(model, "a"));
    assert_null(trf_model_metadata(model, NULL));
    assert_null(trf_model_metadata(NULL, "a"));
    trf_model_metadata_at(model, 0, &key, &value);
    assert_true(!key && !value);
    set_text(model, "none", NULL);
    assert_int_equal(kit_model_texts(model), 0);
    set_text(model, "b", "2");
    set_text(model, "d", "");
    set_text(model, "a", "1");
    set_text(model, "\xC3\xA4", "line\nline\t\"\\\x7F");
    set_text(model, "c", trf_model_metadata(model, "b"));       /* of its own */
    assert_string_equal(metadata_of(model), "a=1;b=2;c=2;d=;\xC3\xA4=line\nline\t\"\\\x7F;");
    set_text(model, "b", "3");
    set_text(model, "d", NULL);
    set_text(model, "d", NULL);
    OK(trf_model_copy(&copy, model, &err));
    set_text(model, "\xC3\xA4", NULL);
    set_text(model, "a", NULL);
    assert_string_equal(metadata_of(model), "b=3;c=2;");
    assert_string_equal(metadata_of(copy), "a=1;b=3;c=2;\xC3\xA4=line\nline\t\"\\\x7F;");
    set_text(model, "b", NULL);
    set_text(model, "c", NULL);
    assert_int_equal(kit_model_texts(model), 0);
    trf_model_destroy(model);
    trf_model_destroy(copy);
    assert_int_equal(memory.live, 0);
}

/* In whatever order they were set: the same file. And while there is a trainer: into its
   checkpoint. */
static void metadata_travels(void **state)
{
    trf_config config = uneven_config();
    trf_train_options training = kit_training();
    trf_load_options options = watched();
    trf_model *model = model_of(&config), *again = NULL;
    trf_trainer *trainer = NULL, *resumed = NULL;
    trf_error err;
    trf_file *file = NULL;
    (void)state;
    training.threads = 1;
    save(model, in_folder("plain"));
    set_text(model, "z", "\x01 \xE4\xB8\xAD \"\n");
    set_text(model, "licence", "MIT");
    save(model, in_folder("one"));
    set_text(model, "z", NULL);
    set_text(model, "licence", NULL);
    save(model, in_folder("two"));
    assert_true(hash_file(in_folder("plain")) == hash_file(in_folder("two")));
    set_text(model, "licence", "MIT");
    OK(trf_trainer_create(&trainer, model, &training, &err));
    set_text(model, "z", "\x01 \xE4\xB8\xAD \"\n");
    save(model, in_folder("two"));
    assert_true(hash_file(in_folder("one")) == hash_file(in_folder("two")));
    OK(trf_file_open(&file, in_folder("one"), NULL, &err));
    assert_string_equal(trf_file_metadata(file, "licence"), "MIT");
    assert_string_equal(trf_file_metadata(file, "format"), "pt");
    trf_file_close(file);
    OK(trf_checkpoint_save(trainer, NULL, in_folder("checkpoint"), NULL, &err));
    trf_trainer_destroy(trainer);
    OK(trf_checkpoint_load(&again, &resumed, NULL, in_folder("checkpoint"), NULL, &options, &err));
    assert_string_equal(metadata_of(model), "licence=MIT;z=\x01 \xE4\xB8\xAD \"\n;");
    assert_string_equal(metadata_of(again), "licence=MIT;z=\x01 \xE4\xB8\xAD \"\n;");
    OK(trf_checkpoint_save(resumed, NULL, in_folder("checkpoint2"), NULL, &err));
    assert_true(hash_file(in_folder("checkpoint")) == hash_file(in_folder("checkpoint2")));
    trf_trainer_destroy(resumed);
    trf_model_destroy(again);
    OK(trf_model_load(&again, in_folder("one"), &options, &err));
    assert_string_equal(metadata_of(again), "licence=MIT;z=\x01 \xE4\xB8\xAD \"\n;");
    save(again, in_folder("two"));
    assert_true(hash_file(in_folder("one")) == hash_file(in_folder("two")));
    trf_model_destroy(again);
    trf_model_destroy(model);
    assert_int_equal(memory.live, 0);
}

/* A file of another program, with texts in any order, one under an empty key, one very long, and a
   format. */
static void others_metadata(void **state)
{
    static char value[2 << 20];
    trf_config config = uneven_config();
    trf_load_options options = watched();
    trf_model *model = NULL;
    trf_error err;
    draft d;
    int ours;
    (void)state;
    memset(value, 'v', sizeof value - 1);
    options.config = &config;
    for (ours = 0; ours < 2; ours++) {
        draft_of_small(&d);
        while (!ours && d.n_notes) free(d.notes[--d.n_notes].value);
        free(set_note(&d, "format", "np"));
        free(set_note(&d, "zebra", "1"));
        free(set_note(&d, "", "empty"));
        free(set_note(&d, "long", value));
        free(set_note(&d, "trf.unknown", "of another version"));
        put_together(&d, in_folder("draft"), 0);
        OK(trf_model_load(&model, in_folder("draft"), &options, &err));
        assert_int_equal(kit_model_texts(model), 3);
        assert_string_equal(trf_model_metadata(model, ""), "empty");
        assert_int_equal(strlen(trf_model_metadata(model, "long")), sizeof value - 1);
        assert_int_equal(trf_model_set_metadata(model, "a", "more than there may be", &err),
                         TRF_E_LIMIT);
        save(model, in_folder("one"));
        trf_model_destroy(model);
        OK(trf_model_load(&model, in_folder("one"), NULL, &err));
        assert_int_equal(kit_model_texts(model), 3);
        set_text(model, "long", NULL);
        set_text(model, "a", "now there is room");
        assert_string_equal(metadata_of(model), "=empty;a=now there is room;zebra=1;");
        trf_model_destroy(model);
        forget(&d);
    }
    assert_int_equal(memory.live, 0);
}

static void text_refused(trf_model *model, const char *key, const char *value, trf_status status,
                         const char *what, int64_t where)
{
    trf_error err;
    assert_int_equal(trf_model_set_metadata(model, key, value, &err), status);
    assert_string_equal(err.what, what);
    assert_int_equal(err.where, where);
    assert_string_equal(metadata_of(model), "a=1;");
}

static void metadata_refused(void **state)
{
    static char key[257], value[(1 << 20) + 1];
    trf_config config = uneven_config();
    trf_model *model = model_of(&config);
    trf_error err;
    (void)state;
    set_text(model, "a", "1");
    memset(key, 'k', 256);
    memset(value, 'v',
           (1 << 20) - 255 - 1); /* with 256 bytes of key and of "a" all that there may be */
    assert_int_equal(trf_model_set_metadata(NULL, "a", "1", &err), TRF_E_INVALID_ARG);
    text_refused(model, NULL, "1", TRF_E_INVALID_ARG, "key", -1);
    text_refused(model, "", "1", TRF_E_INVALID_ARG, "key", -1);
    text_refused(model, key, "1", TRF_E_INVALID_ARG, "key", -1);
    text_refused(model, "trf.", "1", TRF_E_INVALID_ARG, "key", -1);
    text_refused(model, "trf.step", NULL, TRF_E_INVALID_ARG, "key", -1);
    text_refused(model, "format", "pt", TRF_E_INVALID_ARG, "key", -1);
    text_refused(model, "ab\xC3", "1", TRF_E_FORMAT, "key", 2);
    text_refused(model, "ab", "1\xED\xA0\x80", TRF_E_FORMAT, "value", 1);
    key[255] = 0;
    text_refused(model, key, value, TRF_E_LIMIT, "metadata", -1);
    set_text(model, "trf", "no dot");
    set_text(model, "trf", NULL);
    set_text(model, "a", "");
    set_text(model, key, value);
    assert_int_equal(kit_model_texts(model), 2);
    trf_model_destroy(model);
}

static void many_notes(trf__text *notes, const void *of)
{
    char key[16];
    int i;
    for (i = 0; i < *(const int *)of; i++) {
        snprintf(key, sizeof key, "%d", i);
        trf__add_metadata(notes, key, "");
    }
}

static void long_note(trf__text *notes, const void *of)
{
    trf__add_metadata(notes, "long", (const char *)of);
}

static void many_refused(const char *path, const trf_load_options *options, const char *says)
{
    trf_model *model = NULL;
    trf_error err;
    assert_int_equal(trf_model_load(&model, path, options, &err), TRF_E_LIMIT);
    assert_string_equal(err.what, "metadata");
    assert_true(names(&err, path) && strstr(err.message, says));
    assert_null(model);
}

/* As many texts of others as can be saved beside ours are loaded, and can be saved, with a
   checkpoint too; more are refused. In number, and in bytes: what is written of a text is never
   longer than what was read. */
static void more_metadata_than_readers_take(void **state)
{
    static char value[9 << 20];
    trf_config config = uneven_config();
    trf_load_options options = watched();
    trf_model *model = model_of(&config), *again = NULL;
    trf_trainer *trainer = NULL;
    trf_error err;
    trf__out out[64];
    draft d;
    int n;
    (void)state;
    if (KIT_AGAIN && !kit_all()) skip();
    options.config = &config;
    assert_true(model->layout.n_params <= 64);
    for (n = TRF__META_LOADED; n <= TRF__META_LOADED + 1; n++) {
        trf__put_arena(out, model, "", model->weights, TRF_WEIGHTS_FULL);
        OK(trf__file_write(&config.hooks, at_path(in_folder("many")), out, model->layout.n_params,
                           many_notes, &n, &err));
        if (n > TRF__META_LOADED) {
            many_refused(in_folder("many"), &options, "120001 metadata entries");
            break;
        }
        OK(trf_model_load(&again, in_folder("many"), &options, &err));
        assert_int_equal(kit_model_texts(again), n);
        assert_int_equal(trf_model_set_metadata(again, "one more", "", &err), TRF_E_LIMIT);
        OK(trf_trainer_create(&trainer, again, NULL, &err));
        OK(trf_checkpoint_save(trainer, NULL, in_folder("more"), NULL, &err));
        trf_trainer_destroy(trainer);
        trf_model_destroy(again);
        OK(trf_model_load(&again, in_folder("more"), &options, &err));
        assert_int_equal(kit_model_texts(again), n);
        trf_model_destroy(again);
    }
    trf_model_destroy(model);
    draft_of_small(&d);
    memset(value, 'v', sizeof value);
    value[(8 << 20) - 4] = 0;               /* with its key, all that there may be */
    free(set_note(&d, "long", value));
    put_together(&d, in_folder("draft"), 0);
    OK(trf_model_load(&again, in_folder("draft"), &options, &err));
    save(again, in_folder("more"));
    trf_model_destroy(again);
    OK(trf_model_load(&again, in_folder("more"), &options, &err));
    assert_int_equal(strlen(trf_model_metadata(again, "long")), (8 << 20) - 4);
    value[(8 << 20) - 4] = 'v';
    value[(8 << 20) - 3] = 0;
    free(set_note(&d, "long", value));
    put_together(&d, in_folder("draft"), 0);
    many_refused(in_folder("draft"), NULL, "8388609 bytes");
    forget(&d);
    memset(value, '\n', sizeof value);      /* nearly 16 MiB in a file, where each is an escape */
    value[(8 << 20) - (1 << 16)] = 0;
    trf__put_arena(out, again, "", again->weights, TRF_WEIGHTS_FULL);
    OK(trf__file_write(&config.hooks, at_path(in_folder("draft")), out, again->layout.n_params,
                       long_note, value, &err));
    trf_model_destroy(again);
    OK(trf_model_load(&again, in_folder("draft"), &options, &err));
    save(again, in_folder("more"));
    trf_model_destroy(again);
    assert_int_equal(memory.live, 0);
}

/* A checkpoint of as many texts as a program may have, each parameter frozen: what is written can
   be read. */
static void most_metadata_of_a_checkpoint(void **state)
{
    enum { TEXTS = TRF__META_MOST };
    trf_config config = uneven_config();
    trf_load_options options = watched();
    trf_train_options training = kit_training();
    trf_model *model, *again = NULL;
    trf_trainer *trainer = NULL;
    trf_error err;
    trf__out *out;
    int n = TEXTS;
    int32_t frozen;
    (void)state;
    config.d_model = config.d_ff = 2;
    config.n_heads = 1;
    config.encoder_layers = config.decoder_layers = 32;
    model = model_of(&config);
    options.config = &config;
    out = (trf__out *)calloc((size_t)model->layout.n_params, sizeof *out);
    assert_non_null(out);
    trf__put_arena(out, model, "", model->weights, TRF_WEIGHTS_FULL);
    OK(trf__file_write(&config.hooks, at_path(in_folder("many")), out, model->layout.n_params,
                       many_notes, &n, &err));
    trf_model_destroy(model);
    free(out);
    OK(trf_model_load(&model, in_folder("many"), &options, &err));
    assert_int_equal(kit_model_texts(model), TEXTS);
    OK(trf_trainer_create(&trainer, model, &training, &err));
    OK(trf_trainer_freeze(trainer, "*", 1, &frozen, &err));
    assert_true(TEXTS + frozen > 65536);
    OK(trf_checkpoint_save(trainer, NULL, in_folder("frozen"), NULL, &err));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    OK(trf_checkpoint_load(&again, &trainer, NULL, in_folder("frozen"), NULL, &options, &err));
    assert_int_equal(kit_model_texts(again), TEXTS);
    trf_trainer_destroy(trainer);
    trf_model_destroy(again);
    assert_int_equal(memory.live, 0);
}

/* Options are checked before anything is made, and a file's tensors are read as bytes. */
static void checks_and_bytes(void **state)
{
    trf_config config = kit_config(), sound;
    trf_train_options training = kit_training(), stored;
    trf_search search = trf_search_defaults();
    trf_sampling sampling = trf_sampling_defaults();
    trf_corpus_options corpus = trf_corpus_defaults();
    trf_noise_options noise = trf_noise_defaults();
    trf_load_options load = trf_load_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_file *file = NULL;
    trf_file_entry entry;
    unsigned char bytes[8];
    trf_real number;
    float first;
    trf_error err;
    int32_t at;
    (void)state;
    config.d_model = config.d_ff = 8;
    config.n_heads = 2;
    config.encoder_layers = config.decoder_layers = 1;
    config.source_vocab = config.target_vocab = 8;
    sound = config;
    training.warmup = 7;
    training.longest = 300;
    OK(trf_config_check(&config, NULL, &err));
    OK(trf_train_check(&training, &config, &err));
    OK(trf_train_check(&training, NULL, &err));
    OK(trf_search_check(&search, NULL, &err));
    OK(trf__sampling_check(&sampling, NULL, &err));
    OK(trf__corpus_check(&corpus, &err));
    assert_int_equal(trf_config_check(NULL, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "config");
    config.kind = TRF_ENCODER_ONLY;
    config.target_vocab = 0;
    assert_int_equal(trf_train_check(&training, &config, &err), TRF_E_UNSUPPORTED);
    OK(trf_train_check(&training, NULL, &err));
    config = sound;
    config.n_heads = config.d_model + 1;
    assert_int_equal(trf_config_check(&config, NULL, &err), TRF_E_INVALID_ARG);
    config = sound;
    search.beam = 0;
    assert_int_equal(trf_search_check(&search, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "beam");
    sampling.top_p = 2;
    assert_int_equal(trf__sampling_check(&sampling, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "top_p");
    corpus.batch_tokens = 0;
    assert_int_equal(trf__corpus_check(&corpus, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "batch_tokens");
    noise.density = -1;
    assert_int_equal(trf__noise_check(&noise, &err), TRF_E_INVALID_ARG);

    OK(trf_model_create(&model, &config, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &training, &err));
    OK(trf_checkpoint_save(trainer, NULL, in_folder("checked"), NULL, &err));
    OK(trf_file_open(&file, in_folder("checked"), &load, &err));
    OK(trf_file_training(file, &stored, &err));
    assert_int_equal(stored.warmup, 7);
    assert_int_equal(stored.longest, 300);
    assert_true(stored.learning_rate == training.learning_rate);
    assert_int_equal(trf_file_find(file, "no such tensor"), -1);
    assert_int_equal(trf_file_find(NULL, "x"), -1);
    at = trf_file_find(file, "encoder.layers.0.norm1.weight");
    assert_true(at >= 0);
    entry = trf_file_at(file, at);
    OK(trf_file_read(file, at, 1, &number, 1, &err));
    OK(trf_file_read_bytes(file, at, sizeof first, bytes, sizeof first, &err));
    memcpy(&first, bytes, sizeof first);
    assert_true((trf_real)first == number);
    OK(trf_file_read_bytes(file, at, entry.bytes, NULL, 0, &err));
    assert_int_equal(trf_file_read_bytes(file, at, entry.bytes, bytes, 1, &err), TRF_E_SHAPE);
    assert_int_equal(trf_file_read_bytes(file, at, UINT64_MAX, bytes, 1, &err), TRF_E_SHAPE);
    assert_int_equal(trf_file_read_bytes(file, at, 1, bytes, SIZE_MAX, &err), TRF_E_SHAPE);
    assert_int_equal(trf_file_read_bytes(file, -1, 0, bytes, 1, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_file_read_bytes(file, at, 0, NULL, 1, &err), TRF_E_INVALID_ARG);
    trf_file_close(file);
    OK(trf_model_save(model, in_folder("checked"), NULL, &err));
    OK(trf_file_open(&file, in_folder("checked"), &load, &err));
    stored.warmup = 99;
    assert_int_equal(trf_file_training(file, &stored, &err),
                     TRF_E_FORMAT); /* a model is no checkpoint */
    assert_int_equal(stored.warmup, 0);
    trf_file_close(file);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    assert_int_equal(trf_find_invalid_utf8("a\xC3\xA9z", 4), -1);
    assert_int_equal(trf_find_invalid_utf8("a\xC3\xA9z", 2), 1);
    assert_int_equal(trf_find_invalid_utf8("ab\xED\xA0\x80", 5), 2);
    assert_int_equal(trf_find_invalid_utf8("", 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_complete),
        cmocka_unit_test(every_configuration),
        cmocka_unit_test(other_writers),
        cmocka_unit_test(wrapped_names),
        cmocka_unit_test(vocabularies),
        cmocka_unit_test(large_vocabularies),
        cmocka_unit_test(no_vocabularies),
        cmocka_unit_test(own_metadata),
        cmocka_unit_test(metadata_travels),
        cmocka_unit_test(others_metadata),
        cmocka_unit_test(metadata_refused),
        cmocka_unit_test(more_metadata_than_readers_take),
        cmocka_unit_test(most_metadata_of_a_checkpoint),
        cmocka_unit_test(limits_of_a_checkpoint),
        cmocka_unit_test(stray_tensor_in_a_deep_model),
        cmocka_unit_test(tensors_missing_and_extra),
        cmocka_unit_test(tensors_of_wrong_shape),
        cmocka_unit_test(config_fields),
        cmocka_unit_test(config_against_tensors),
        cmocka_unit_test(tied_matrices),
        cmocka_unit_test(formats),
        cmocka_unit_test(old_formats),
        cmocka_unit_test(without_metadata),
        cmocka_unit_test(bad_vocabularies),
        cmocka_unit_test(checksums),
        cmocka_unit_test(other_types),
        cmocka_unit_test(not_numbers),
        cmocka_unit_test(nearest_of_16_bits),
        cmocka_unit_test(weights_of_16_bits),
        cmocka_unit_test(models_in_memory),
        cmocka_unit_test(checkpoints_come_back),
        cmocka_unit_test(checkpoints_in_the_middle),
        cmocka_unit_test(cancelled_steps_lose_nothing),
        cmocka_unit_test(cancelled_steps_again),
        cmocka_unit_test(places_of_incomplete_steps),
        cmocka_unit_test(places_beside_other_data),
        cmocka_unit_test(places_at_the_end),
        cmocka_unit_test(options_half_way),
        cmocka_unit_test(options_that_stay),
        cmocka_unit_test(resuming_is_refused),
        cmocka_unit_test(skipped_steps_come_back),
        cmocka_unit_test(bad_checkpoint_numbers),
        cmocka_unit_test(bad_moments),
        cmocka_unit_test(one_for_the_other),
        cmocka_unit_test(every_truncation),
        cmocka_unit_test(every_bit),
        cmocka_unit_test(bits_of_a_checkpoint),
        cmocka_unit_test(giants),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(checks_and_bytes),
        cmocka_unit_test(saving_over_what_is_loaded),
        cmocka_unit_test(places_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

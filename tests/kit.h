/* What several tests share: random batches, hashes of whatever must not change, and an allocator
   that counts and fails on demand. Include it after transformer.h. */
#ifndef KIT_H
#define KIT_H

#include "calls.h"
#include <unistd.h>

#if defined(KIT_LINKED)     /* what the implementation calls, which another file has */
#define KIT_CALLED
#if defined(KIT_CBLAS)
int kit_auto_is_own = 0;    /* auto.h */
#else
int kit_auto_is_own = 1;
#endif
#else
#define KIT_CALLED static
#endif

/* -----------------------------------------------------------------------------------------------
   A model and a training run in which everything is on: post-norm, the paper's schedule, smoothing and
   dropout. */

static KIT_UNUSED trf_config kit_config(void)
{
    trf_config c = trf_config_preset(TRF_TINY);
    c.norm_place = TRF_POST_NORM;
    return c;
}
static KIT_UNUSED trf_train_options kit_training(void)
{
    trf_train_options o = trf_train_defaults();
    o.schedule = TRF_NOAM;
    o.learning_rate = 1;
    o.warmup = 4000;
    o.label_smoothing = 0.1;
    trf_train_set_dropout(&o, 0.1);
    return o;
}

/* The family of small models: so many layers a side, d_model, ids of each vocabulary and longest
   sequence; two heads, d_ff = 1.5 d_model, one thread. A suite sets other fields itself. */
static KIT_UNUSED trf_config kit_small(int32_t layers, int32_t d_model, int32_t vocab,
                                       int32_t longest)
{
    trf_config c = kit_config();
    c.encoder_layers = c.decoder_layers = layers;
    c.d_model = d_model; c.n_heads = 2; c.d_ff = d_model / 2 * 3;
    c.source_vocab = c.target_vocab = vocab;
    c.max_length = longest;
    c.device.threads = 1;
    return c;
}

/* The same model of another kind: the side that it lacks has no layers and no ids. */
static KIT_UNUSED trf_config kit_of_kind(trf_config c, trf_kind kind)
{
    c.kind = kind;
    if (kind == TRF_DECODER_ONLY) c.encoder_layers = c.source_vocab = 0;
    if (kind == TRF_ENCODER_ONLY) c.decoder_layers = c.target_vocab = 0;
    return c;
}

/* A training run of these: batches of at most 16 sequences of 20 ids, 128 together; a rate that rises
   for ten updates. */
static KIT_UNUSED trf_train_options kit_small_training(double dropout)
{
    trf_train_options o = kit_training();
    trf_train_set_dropout(&o, dropout);
    o.source_tokens = o.target_tokens = 128;
    o.sequences = 16;
    o.longest = 20;
    o.warmup = 10;
    o.threads = 1;
    return o;
}

/* -----------------------------------------------------------------------------------------------
   Hashes: FNV-1a of 64 bits, chained. */

static KIT_UNUSED uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t i;
    for (i = 0; i < n; i++) hash = (hash ^ p[i]) * 0x100000001B3u;
    return hash;
}
#define HASH_START 0xCBF29CE484222325u

/* -----------------------------------------------------------------------------------------------
   Files: all bytes of one, a NUL behind them, NULL where they cannot be read; and back: did it
   succeed? */

static KIT_UNUSED char *kit_read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *bytes = NULL;
    long all = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    *n = 0;
    if (all >= 0 && fseek(f, 0, SEEK_SET) == 0 &&
        (bytes = (char *)calloc(1, (size_t)all + 1)) != NULL) {
        *n = fread(bytes, 1, (size_t)all, f);
        if (*n != (size_t)all) { free(bytes); bytes = NULL; }
    }
    if (f) fclose(f);
    return bytes;
}

static KIT_UNUSED int kit_write_file(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    int written = f && fwrite(bytes, 1, n, f) == n;
    return f && fclose(f) == 0 && written;
}

/* Takes the checksums out of a safetensors file, so that it may be changed: their keys become others. */
static KIT_UNUSED void kit_unchecked(void *file, size_t n)
{
    char *at = (char *)file;
    for (; n > 18; at++, n--)
        if (!memcmp(at, "\"trf.crc32\"", 11) || !memcmp(at, "\"trf.header_crc32\"", 18))
            memcpy(at + 1, "own", 3);
}

static KIT_UNUSED uint64_t hash_file(const char *path)
{
    size_t n;
    char *bytes = kit_read_file(path, &n);
    uint64_t hash;
    if (!bytes) { perror(path); abort(); }
    hash = hash_bytes(HASH_START, bytes, n);
    free(bytes);
    return hash;
}

/* n numbers (or other things of the same size) of the model's device, wherever that is, to the host
   and back. */
static KIT_UNUSED trf_tensor kit_there(const trf_model *model, const void *there, int64_t n)
{
    trf_real *address = (trf_real *)(uintptr_t)there;
    trf_tensor tensor = trf_tensor_of(model->run.backend->on_host ? address : NULL, 1, n, 1, 1);
    tensor.device = &model->run;
    tensor.device_data = address;
    return tensor;
}
static KIT_UNUSED void kit_get(const trf_model *model, void *to, const void *there, int64_t n)
{
    trf_tensor tensor = kit_there(model, there, n);
    if (trf_tensor_read(&tensor, (trf_real *)to, n, NULL) != TRF_OK) abort();
}
static KIT_UNUSED void kit_put(const trf_model *model, void *there, const trf_real *from, int64_t n)
{
    trf_tensor tensor = kit_there(model, there, n);
    if (trf_tensor_write(&tensor, from, n, NULL) != TRF_OK) abort();
}

/* Is CBLAS there, and one whose answers do not depend on its threads? */
static KIT_UNUSED int kit_cblas_serves(void)
{
    trf_config c = trf_config_preset(TRF_TINY);
    trf_model *model = NULL;
    trf_status status;
    c.source_vocab = c.target_vocab = 24;
    c.device.products = TRF_PRODUCTS_CBLAS;
    status = trf_model_create(&model, &c, NULL, NULL);
    trf_model_destroy(model);
    if (status != TRF_OK && status != TRF_E_BACKEND) abort();
    return status == TRF_OK;
}

/* A copy of a tensor's numbers, to be freed. */
static KIT_UNUSED trf_real *kit_numbers(trf_tensor tensor)
{
    int64_t n = trf_tensor_count(&tensor);
    trf_real *numbers = (trf_real *)malloc((size_t)n * sizeof *numbers + 1);
    if (!numbers || trf_tensor_read(&tensor, numbers, n, NULL) != TRF_OK) abort();
    return numbers;
}

/* The same tensor with its numbers in the host's memory, and what was done to them taken back. */
static KIT_UNUSED trf_tensor kit_open(trf_tensor tensor)
{
    if (!tensor.data && tensor.device) tensor.data = kit_numbers(tensor);
    else tensor.device = NULL;
    return tensor;
}
static KIT_UNUSED void kit_close(trf_tensor *tensor)
{
    trf_real *numbers = tensor->data;
    if (!tensor->device) return;
    tensor->data = NULL;
    if (trf_tensor_write(tensor, numbers, trf_tensor_count(tensor), NULL) != TRF_OK) abort();
    free(numbers);
}
static KIT_UNUSED double kit_number(trf_tensor tensor, int64_t i)
{
    trf_real *numbers = kit_numbers(tensor);
    double number = (double)numbers[i];
    free(numbers);
    return number;
}
static KIT_UNUSED void kit_set(trf_tensor tensor, int64_t i, double number)
{
    tensor = kit_open(tensor);
    tensor.data[i] = (trf_real)number;
    kit_close(&tensor);
}

static KIT_UNUSED uint64_t hash_tensor(uint64_t hash, trf_tensor tensor)
{
    trf_real *numbers = kit_numbers(tensor);
    hash = hash_bytes(hash, numbers, (size_t)trf_tensor_count(&tensor) * sizeof *numbers);
    free(numbers);
    return hash;
}

static KIT_UNUSED uint64_t hash_weights(uint64_t hash, const trf_model *model)
{
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(model); i++)
        hash = hash_tensor(hash, trf_model_parameter(model, i));
    return hash;
}

/* What a translator answered last, of its first sentences. */
static KIT_UNUSED uint64_t hash_answers(uint64_t hash, const trf_translator *t, int32_t sentences)
{
    int32_t i, k;
    for (i = 0; i < sentences; i++)
        for (k = 0; k < kit_count(t, i); k++) {
            const trf_hypothesis *h = trf_translator_answer(t, i, k);
            hash = hash_bytes(hash, h->ids, (size_t)h->n * sizeof *h->ids);
            hash = hash_bytes(hash, &h->n, sizeof h->n);
            hash = hash_bytes(hash, &h->log_probability, sizeof h->log_probability);
            hash = hash_bytes(hash, &h->score, sizeof h->score);
        }
    return hash;
}

#if !defined(TRF_NO_TRAIN)
static KIT_UNUSED uint64_t hash_gradients(uint64_t hash, trf_trainer *t)
{
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(t->model); i++)
        hash = hash_tensor(hash, trf_trainer_tensor(t, TRF_GRADIENT, i));
    return hash;
}

/* Everything that an update changes and a failure must not: weights, moments and the step. */
static KIT_UNUSED uint64_t hash_state(const trf_trainer *t)
{
    int64_t n = t->model->layout.n_weights;
    uint64_t hash = hash_tensor(HASH_START, kit_there(t->model, t->model->weights, n));
    hash = hash_tensor(hash, kit_there(t->model, t->m, n));
    hash = hash_tensor(hash, kit_there(t->model, t->v, n));
    return hash_bytes(hash, &t->step, sizeof t->step);
}
#endif

/* -----------------------------------------------------------------------------------------------
   Random pairs of sequences: the same seed, the same pairs. */

enum { KIT_IDS = 16384, KIT_PAIRS = 512 };
typedef struct kit_pairs {
    int32_t source[KIT_IDS], target[KIT_IDS], source_lengths[KIT_PAIRS], target_lengths[KIT_PAIRS];
    trf_batch batch;
} kit_pairs;

static KIT_UNUSED trf_batch kit_fill(kit_pairs *p, int32_t count, int32_t shortest, int32_t longest,
                                     int32_t vocab, uint64_t seed)
{
    uint64_t draw = 0;
    int32_t i, k, side;
    memset(p, 0, sizeof *p);
    for (side = 0; side < 2; side++) {
        int32_t *ids = side ? p->target : p->source,
                *lengths = side ? p->target_lengths : p->source_lengths, n = 0;
        for (i = 0; i < count; i++) {
            lengths[i] = shortest + (int32_t)(trf__random64(seed, 77, draw++) %
                                              (uint64_t)(longest - shortest + 1));
            for (k = 0; k < lengths[i]; k++)
                ids[n++] = 3 + (int32_t)(trf__random64(seed, 77, draw++) % (uint64_t)(vocab - 3));
        }
    }
    p->batch.source.ids = p->source;
    p->batch.source.lengths = p->source_lengths;
    p->batch.source.count = count;
    p->batch.target.ids = p->target;
    p->batch.target.lengths = p->target_lengths;
    p->batch.target.count = count;
    return p->batch;
}

/* Ends a segment at every third id of the sources: pairs for a model with segments. */
static KIT_UNUSED void kit_cut(kit_pairs *p, int32_t eos)
{
    int32_t i, k, n = 0;
    for (i = 0; i < p->batch.source.count; i++)
        for (k = 0; k < p->source_lengths[i]; k++, n++) if (k % 3 == 1) p->source[n] = eos;
}

static KIT_UNUSED trf_sequences kit_part(const trf_sequences *x, int32_t first, int32_t count)
{
    trf_sequences part;
    int32_t i, at = 0;
    for (i = 0; i < first; i++) at += x->lengths[i];
    part.ids = x->ids + at;
    part.lengths = x->lengths + first;
    part.count = count;
    return part;
}

/* Pairs first .. first + count - 1 of a batch, as a micro-batch or a rank would get them. */
static KIT_UNUSED trf_batch kit_slice(const trf_batch *batch, int32_t first, int32_t count)
{
    trf_batch part;
    part.source = kit_part(&batch->source, first, count);
    part.target = kit_part(&batch->target, first, count);
    part.ordinal = first;
    part.place = batch->place;
    return part;
}

/* Number n of a list of a corpus's options: all kinds, and budgets from one token to no limit. */
enum { KIT_CORPORA = 8 * 9 };
static KIT_UNUSED trf_corpus_options kit_corpus(int n)
{
    static const int32_t tokens[9] = { 1, 40, 40, 100, 100, 500, 4096, 4096, INT32_MAX };
    static const int32_t sentences[9] = { 1024, 1, 1024, 3, 1024, 1024, 16, 1024, INT32_MAX };
    trf_corpus_options o = trf_corpus_defaults();
    o.padded_budget = n & 1;
    o.shuffle = n >> 1 & 1;
    o.buckets = n >> 2 & 1;
    o.pool = n % 5 > 2 ? n % 5 - 2 : 0;
    o.batch_tokens = tokens[n / 8];
    o.batch_sentences = sentences[n / 8];
    o.seed = (uint64_t)n * 1000003;
    return o;
}

/* A SentencePiece model of <unk>, "\xE2\x96\x81" and "a", which puts the second before a text: n
   letters are n + 1 ids. */
static KIT_UNUSED trf_vocab *kit_pieces(const trf_hooks *hooks)
{
    static const char bytes[] = "\x0A\x0E\x0A\x05<unk>\x15\0\0\0\0\x18\x02"
                                "\x0A\x0A\x0A\x03\xE2\x96\x81\x15\0\0\0\0"
                                "\x0A\x08\x0A\x01"
                                "a\x15\0\0\0\0"
                                "\x12\x02\x18\x01"
                                "\x1A\x06\x18\x01\x20\x01\x28\x01";
    trf_vocab *vocab = NULL;
    if (trf__vocab_from_bytes(&vocab, TRF_SENTENCEPIECE, bytes, sizeof bytes - 1, hooks, NULL))
        abort();
    return vocab;
}

/* -----------------------------------------------------------------------------------------------
   An allocator that counts, checks what it gets back and the bytes behind it, and fails at call
   number `fail_at` (and, with `for_ever`, at all later ones). */

typedef struct kit_memory {
    int64_t live, peak, blocks, calls, fail_at,
        limit; /* live, peak: bytes; limit: larger requests fail; 0: none */
    int for_ever;
} kit_memory;

enum { KIT_GUARD = 64 };        /* bytes behind each block: its size, then 0xC7 */

static KIT_UNUSED int kit_refuses(kit_memory *m, size_t bytes)
{
    m->calls++;
    if (m->fail_at && (m->calls == m->fail_at || (m->for_ever && m->calls > m->fail_at))) return 1;
    if (m->limit && bytes > (size_t)m->limit) return 1;
    return bytes == 0 || bytes > (size_t)1 << (sizeof bytes > 4 ? 34 : 30);
}
static KIT_UNUSED void kit_took(kit_memory *m, size_t bytes)
{
    m->blocks++;
    m->live += (int64_t)bytes;
    if (m->live > m->peak) m->peak = m->live;
}
static KIT_UNUSED void kit_gave(kit_memory *m, size_t bytes)
{
    m->blocks--;
    m->live -= (int64_t)bytes;
}

static KIT_UNUSED void *kit_alloc(void *user, size_t align, size_t bytes)
{
    kit_memory *m = (kit_memory *)user;
    void *memory = NULL;
    if (kit_refuses(m, bytes) || align != 64 || posix_memalign(&memory, align, bytes + KIT_GUARD))
        return NULL;
    memset(memory, 0xA5, bytes < (1u << 22) ? bytes : (1u << 22)); /* nobody may count on zeros */
    memset((char *)memory + bytes, 0xC7, KIT_GUARD);
    memcpy((char *)memory + bytes, &bytes, sizeof bytes);
    kit_took(m, bytes);
    return memory;
}

static KIT_UNUSED void kit_free(void *user, void *memory, size_t bytes)
{
    kit_memory *m = (kit_memory *)user;
    unsigned char *guard = (unsigned char *)memory + bytes;
    size_t asked, i;
    memcpy(&asked, guard, sizeof asked);
    for (i = sizeof asked; i < KIT_GUARD && guard[i] == 0xC7; i++) { }
    if (asked != bytes || i < KIT_GUARD)
        abort(); /* freed with another size, or written behind its end */
    memset(memory, 0x5A, bytes < (1u << 22) ? bytes : (1u << 22));      /* nobody may look again */
    kit_gave(m, bytes);
    free(memory);
}

static KIT_UNUSED trf_hooks kit_hooks(kit_memory *m)
{
    trf_hooks hooks;
    memset(&hooks, 0, sizeof hooks);
    memset(m, 0, sizeof *m);
    hooks.user = m;
    hooks.alloc = kit_alloc;
    hooks.free = kit_free;
    return hooks;
}

/* Memory of a device counts too, and may be refused, where a program has this allocator. */
static KIT_UNUSED int kit_counts(const trf_hooks *hooks, size_t bytes)
{
    kit_memory *m = (kit_memory *)hooks->user;
    if (hooks->alloc != kit_alloc) return 1;
    if (kit_refuses(m, bytes)) return 0;
    kit_took(m, bytes);
    return 1;
}
static KIT_UNUSED void kit_counts_back(const trf_hooks *hooks, size_t bytes)
{
    if (hooks->alloc == kit_alloc) kit_gave((kit_memory *)hooks->user, bytes);
}

#if defined(TRF_IMPLEMENTATION) || defined(KIT_LINKED)
/* The attention weights of one layer and one head for a batch of one pair: (queries, keys). */
static KIT_UNUSED trf_status kit_attention_weights(trf_translator *t, const trf_batch *batch, trf_attention_kind kind,
                                                   int32_t layer, int32_t head, trf_tensor *out, trf_error *err)
{
    static const int32_t what[3] = {TRF_READ_ENCODER_SELF, TRF_READ_DECODER_SELF, TRF_READ_CROSS};
    int64_t size = trf_tensor_count(out);
    trf_reading seen;
    trf_status status = trf_reader_read(trf_translator_reader(t), batch, what[kind], NULL, &seen, err);
    if (status == TRF_OK)
        memcpy(out->data, seen.attention[kind]->data + (layer * seen.attention[kind]->shape[1] + head) * size,
               (size_t)size * sizeof *out->data);
    return status;
}
#endif

/* 1: the suite runs here once more, on another device or in double: what the host alone decides
   needs fewer cases. */
#if defined(KIT_ON_CUDA) || defined(TRF__TEST_BACKEND) || defined(TRF_DOUBLE)
#define KIT_AGAIN 1
#else
#define KIT_AGAIN 0
#endif

/* Every case of long loops: make check-all wants that (tests/run.sh), the others take a part. */
static KIT_UNUSED int kit_all(void) { return getenv("TRF_TEST_ALL") != NULL; }

/* Whether a row's bits may depend on nothing but its sentence: where products are not CUDA's. */
#if defined(KIT_ON_CUDA)
#define KIT_SAME_ROWS 0
#else
#define KIT_SAME_ROWS 1
#endif

#if defined(KIT_ON_CUDA) /* everything on the CUDA column, which gpu_on_cpu.h runs; linked with \
                            gpu.o */
#include "gpu.h"
KIT_CALLED const trf__backend *cuda_backend(const trf__backend *cpu)
{
    trf_device gpu;
    (void)cpu;
    memset(&gpu, 0, sizeof gpu);
    gpu.kind = TRF_DEVICE_CUDA;
    return trf__backend_of(&gpu);
}
#define separate_enter() gpu_on_cpu_flush()
#define separate_leave() ((void)0)
#define kit_device_bytes() gpu_on_cpu.bytes     /* memory that no hook sees */
#define KIT_ASKS_ONCE 1 /* a step that is played again asks the cancel hook once */
#define KIT_HAS_STREAM 1
#elif defined(TRF__TEST_BACKEND)
#include "separate_device.h"
#else
#define separate_enter() ((void)0)
#define separate_leave() ((void)0)
#endif
#if !defined(KIT_ON_CUDA)
#define kit_device_bytes() ((int64_t)0)
#define KIT_ASKS_ONCE 0
#define KIT_HAS_STREAM 0
#endif

#endif

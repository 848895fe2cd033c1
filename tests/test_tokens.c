/* build: O1 slow */
/* Token files: the same batches as in memory, resuming in both, every byte damaged, every length
   cut, hostile files with right checksums, writing that is interrupted anywhere, calls of the
   system and allocations that fail, and the limits. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* Calls of the system come by here; number `fault.at` fails (0: none). */
static struct { int calls, at, short_read; } fault;
static int fails(void)
{
    if (++fault.calls != fault.at) return 0;
    errno = EIO;
    return 1;
}
#include "faulty.h"
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include "checks.h"
#include "folder.h"

static int faulty_open(const char *path, int create, int mode)
{
    return fails() ? -1 : trf_os_open(path, create, mode);
}
static int faulty_rename(const char *from, const char *to)
{
    return fails() ? -1 : trf_os_rename(from, to);
}
static int faulty_unlink(const char *path) { return fails() ? -1 : trf_os_unlink(path); }
static int faulty_chmod(const char *path, int mode) { return trf_os_chmod(path, mode); }
static int faulty_stat(const char *path, int fd, struct trf_os_facts *facts)
{
    return fails() ? -1 : trf_os_stat(path, fd, facts);
}
/* The disk itself is not in question, and slow. */
static int faulty_sync(int fd) { return fails() || fd < 0 ? -1 : 0; }
static int faulty_close(int fd) { return trf_os_close(fd) < 0 || fails() ? -1 : 0; }
static int faulty_seek(int fd, uint64_t offset) { return fails() ? -1 : trf_os_seek(fd, offset); }
static int64_t faulty_read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
    if (fault.short_read && bytes > 5) bytes = 5;
    return fails() ? -1 : trf_os_read_at(fd, offset, to, bytes);
}
static int64_t faulty_write(int fd, const void *from, size_t bytes)
{
    return fails() ? -1 : trf_os_write(fd, from, bytes);
}
static uint32_t faulty_pid(void) { return trf_os_pid(); }
static int faulty_hold(const char *path, int fd) { return trf_os_hold(path, fd); }

/* -----------------------------------------------------------------------------------------------
   A folder of our own, and pairs. Pair p: about a tenth has an empty side, some labels are -1. */
static int make_folder(void **state) { (void)state; return folder_make("tokens", 0); }
/* Some disks flush a file that replaces another one, which is slow. */
static int put_file(const char *path, const char *bytes, size_t n)
{
    unlink(path);
    return kit_write_file(path, bytes, n);
}
/* A file of another name is left over: then the folder stays, and the suite fails. */
static int remove_folder(void **state)
{
    static const char *const names[] = {"a", "b", "a.part", "b.part", "checkpoint"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
    return rmdir(folder);
}

enum { LONGEST = 60 };
typedef struct pairs {
    int32_t n, most;            /* ids below `most` */
    int32_t source[LONGEST], target[LONGEST], n_source, n_target;   /* the pair made last */
} pairs;

static void make_pair(pairs *d, int32_t p)
{
    uint64_t x = trf__random64(11, 3, (uint64_t)p);
    int32_t i;
    d->n_source = x % 11 == 0 ? 0 : 1 + (int32_t)((x >> 8) % 12);
    d->n_target = (x >> 16) % 13 == 0 ? 0 : 1 + (int32_t)((x >> 24) % 9);
    if (p % 97 == 5) d->n_source = LONGEST;
    if (p % 101 == 7) d->n_target = LONGEST - 1;
    for (i = 0; i < d->n_source; i++)
        d->source[i] = (int32_t)(trf__random64(11, 4, (uint64_t)p * 64 + (uint64_t)i) %
                                 (uint64_t)d->most);
    for (i = 0; i < d->n_target; i++)
        d->target[i] = (int32_t)(trf__random64(11, 5, (uint64_t)p * 64 + (uint64_t)i) %
                                 ((uint64_t)d->most + 1)) - 1;
}

static trf_status add_one(trf_token_file *f, pairs *d, int32_t p)
{
    make_pair(d, p);
    return trf_token_file_add(f, d->source, d->n_source, d->target, d->n_target, 1000 + 3 * p,
                              &err);
}

static void write_pairs(const char *path, const trf_token_file_options *o, pairs *d)
{
    trf_token_file *f;
    int32_t p;
    OK(trf_token_file_create(&f, path, o, &err));
    for (p = 0; p < d->n; p++) OK(add_one(f, d, p));
    OK(trf_token_file_finish(f, &err));
    assert_int_equal(trf_token_file_facts(f)->pairs, d->n);
    assert_int_equal(trf_token_file_facts(f)->target_unknown, 0);   /* labels of -1 are no unk */
    trf_token_file_destroy(f);
}

static trf_corpus *in_memory(const trf_corpus_options *o, pairs *d)
{
    trf_corpus *c;
    int32_t p;
    OK(trf_corpus_create(&c, o, &err));
    for (p = 0; p < d->n; p++) {
        make_pair(d, p);
        OK(trf_corpus_add(c, d->source, d->n_source, d->target, d->n_target, &err));
    }
    return c;
}

static int64_t total_of(const trf_sequences *x)
{
    int64_t n = 0;
    int32_t i;
    for (i = 0; i < x->count; i++) n += x->lengths[i];
    return n;
}
static void same_sequences(const trf_sequences *a, const trf_sequences *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->lengths, b->lengths, (size_t)a->count * sizeof *a->lengths);
    assert_memory_equal(a->ids, b->ids, (size_t)total_of(a) * sizeof *a->ids);
}
static void same_batch(trf_corpus *a, trf_corpus *b)
{
    trf_batch x, y;
    OK(trf_corpus_next(a, &x, &err));
    OK(trf_corpus_next(b, &y, &err));
    same_sequences(&x.source, &y.source);
    same_sequences(&x.target, &y.target);
    assert_int_equal(x.ordinal, y.ordinal);
    assert_true(x.place.corpus == y.place.corpus && x.place.epoch == y.place.epoch &&
                x.place.batch == y.place.batch);
    assert_int_equal(trf_corpus_facts(a)->epoch, trf_corpus_facts(b)->epoch);
}

static trf_token_file_options form(int id_bytes, int32_t max_length)
{
    trf_token_file_options o;
    memset(&o, 0, sizeof o);
    o.id_bytes = id_bytes;
    o.max_length = max_length;
    return o;
}

/* ids of 2 and of 4 bytes, lengths of 2 and of 4 bytes */
static trf_token_file_options form_of(int n)
{
    return form(n & 1 ? 4 : 2, n & 2 ? 70000 : 511);
}
static int32_t most_of(int n) { return n & 1 ? INT32_MAX : 65535; }

static void same_batches(void **state)
{
    int n, k;
    (void)state;
    for (k = 0; k < 4; k++) {
        trf_token_file_options f = form_of(k);
        pairs d = {2500, most_of(k), {0}, {0}, 0, 0};
        write_pairs(in_folder("a"), &f, &d);
        for (n = 0; n < KIT_CORPORA; n++) {
            trf_corpus_options o = kit_corpus(n);
            trf_corpus *memory, *file;
            if (n % 4 != k && !kit_all() && n != 46) continue;
            memory = in_memory(&o, &d);
            OK(kit_corpus_open(&file, in_folder("a"), NULL, NULL, &o, &err));
            assert_int_equal(trf_corpus_facts(file)->pairs, d.n);
            while (trf_corpus_facts(memory)->epoch < 2) {
                int64_t epoch = trf_corpus_facts(memory)->epoch, all, had;
                OK(trf_corpus_batches(memory, &all, &err));
                OK(trf_corpus_batches(file, &had, &err));
                assert_int_equal(all, had);
                for (had = 0; trf_corpus_facts(memory)->epoch == epoch; had++) same_batch(memory, file);
                assert_int_equal(all, had);
            }
            trf_corpus_destroy(memory);
            trf_corpus_destroy(file);
        }
    }
}

static void facts(void **state)
{
    static const int32_t source[] = {3, 4, 3}, target[] = {3, -1, 4, 5};
    trf_token_file_options o = form(2, 511);
    trf_vocab *v;
    trf_token_file *f;
    trf_corpus *c;
    const trf_token_facts *got;
    int k;
    (void)state;
    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
    OK(trf_vocab_learn(v, "a b", &err));
    OK(trf_vocab_finish(v, 100, 1, &err));
    o.source_vocab = o.target_vocab = v;
    OK(trf_token_file_create(&f, in_folder("a"), &o, &err));
    assert_int_equal(trf_token_file_facts(f)->mark, 0);
    OK(trf_token_file_add(f, source, 3, target, 4, 7, &err));
    OK(trf_token_file_add(f, NULL, 0, target, 1, 9, &err));
    OK(trf_token_file_finish(f, &err));
    OK(kit_corpus_open(&c, in_folder("a"), v, v, NULL, &err));
    assert_true(!c->options.path && !c->options.source_vocab && !c->options.target_vocab);     /* borrowed */
    for (k = 0; k < 2; k++) {
        got = k ? trf_corpus_facts(c) : trf_token_file_facts(f);
        assert_true(got->pairs == 2 && got->source_ids == 3 && got->target_ids == 5 &&
                    got->source_unknown == 2 && got->target_unknown == 2 && got->longest == 4 &&
                    got->mark == 9);
    }
    FAILS(trf_corpus_add(c, source, 3, target, 4, &err), TRF_E_STATE, "corpus", -1);
    assert_int_equal(trf_corpus_facts(c)->pairs, 2);
    trf_corpus_destroy(c);
    trf_token_file_destroy(f);
    OK(trf_corpus_create(&c, NULL, &err));
    OK(trf_corpus_add(c, source, 3, target, 4, &err));          /* of a corpus in memory */
    OK(trf_corpus_add(c, NULL, 0, target, 1, &err));
    got = trf_corpus_facts(c);
    assert_true(got->pairs == 2 && got->source_ids == 3 && got->target_ids == 5 && got->longest == 4 &&
                got->longest_source == 3 && got->longest_target == 4 && got->epoch == 0);
    assert_null(trf_corpus_facts(NULL));
    assert_null(trf_token_file_facts(NULL));
    trf_corpus_destroy(c);
    trf_vocab_destroy(v);
}

/* A file without pairs is one that a corpus can open. */
static void empty_file(void **state)
{
    trf_token_file *f;
    trf_corpus *c;
    trf_batch b;
    (void)state;
    OK(trf_token_file_create(&f, in_folder("a"), NULL, &err));
    OK(trf_token_file_finish(f, &err));
    trf_token_file_destroy(f);
    OK(kit_corpus_open(&c, in_folder("a"), NULL, NULL, NULL, &err));
    assert_int_equal(trf_corpus_facts(c)->pairs, 0);
    FAILS(trf_corpus_next(c, &b, &err), TRF_E_STATE, "corpus", -1);
    trf_corpus_destroy(c);
}

/* -----------------------------------------------------------------------------------------------
   The position: of one in the other, also through a checkpoint. */
static void seeking(void **state)
{
    static const int chosen[] = {9, 30, 46, 47, 54};
    pairs d = {1500, 65535, {0}, {0}, 0, 0};
    trf_token_file_options f = form(2, 511);
    size_t i;
    (void)state;
    write_pairs(in_folder("a"), &f, &d);
    for (i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        trf_corpus_options o = kit_corpus(chosen[i]);
        trf_corpus *memory = in_memory(&o, &d), *file;
        int64_t epoch, batch;
        OK(kit_corpus_open(&file, in_folder("a"), NULL, NULL, &o, &err));
        for (epoch = 0; epoch < 3; epoch++)
            for (batch = 0; batch < 12; batch += 5) {
                trf_status one = trf__corpus_seek(memory, epoch, batch, &err);
                assert_int_equal(trf__corpus_seek(file, epoch, batch, &err), one);
                if (one) continue;
                same_batch(memory, file);
                same_batch(memory, file);
            }
        kit_rewind(memory);
        kit_rewind(file);
        same_batch(memory, file);
        trf_corpus_destroy(memory);
        trf_corpus_destroy(file);
    }
}

static trf_corpus *opened(int from_file, const trf_corpus_options *o)
{
    trf_corpus *c = NULL;
    kit_pairs *d = (kit_pairs *)malloc(sizeof *d);
    trf_token_file *f = NULL;
    trf_batch b;
    int32_t i;
    assert_non_null(d);
    b = kit_fill(d, 200, 1, 15, 20, 4);
    if (from_file) OK(trf_token_file_create(&f, in_folder("a"), NULL, &err));
    else OK(trf_corpus_create(&c, o, &err));
    for (i = 0; i < b.source.count; i++) {
        trf_sequences s = kit_part(&b.source, i, 1), t = kit_part(&b.target, i, 1);
        if (f) OK(trf_token_file_add(f, s.ids, s.lengths[0], t.ids, t.lengths[0], i, &err));
        else OK(trf_corpus_add(c, s.ids, s.lengths[0], t.ids, t.lengths[0], &err));
    }
    free(d);
    if (!f) return c;
    OK(trf_token_file_finish(f, &err));
    trf_token_file_destroy(f);
    OK(kit_corpus_open(&c, in_folder("a"), NULL, NULL, o, &err));
    return c;
}

static uint64_t trained(trf_trainer *t, trf_corpus *c, int updates)
{
    trf_step_report report;
    trf_batch b;
    while (updates-- > 0) {
        OK(trf_corpus_next(c, &b, &err));
        OK(trf_trainer_step(t, &b, &report, &err));
    }
    return hash_state(t);
}

static void checkpoints(void **state)
{
    trf_config config = kit_small(1, 16, 24, 32);
    trf_train_options training = kit_small_training(0.1);
    trf_corpus_options o = trf_corpus_defaults();
    trf_model *model;
    trf_trainer *t;
    uint64_t wanted, middle;
    int k;
    (void)state;
    o.batch_tokens = 100;
    o.seed = 5;
    for (wanted = middle = 0, k = 0; k < 3; k++) {  /* 0: memory; 1, 2: saved by one, continued by
                                                       the other */
        trf_corpus *c = opened(k == 2, &o);
        OK(trf_model_create(&model, &config, NULL, &err));
        OK(trf_trainer_create(&t, model, &training, &err));
        assert_true(trained(t, c, 15) == (k ? middle : (middle = hash_state(t))));
        if (k) {
            OK(trf_checkpoint_save(t, c, in_folder("checkpoint"), NULL, &err));
            trf_trainer_destroy(t);
            trf_model_destroy(model);
            trf_corpus_destroy(c);
            c = opened(k == 1, &o);
            OK(trf_checkpoint_load(&model, &t, c, in_folder("checkpoint"), &training, NULL, &err));
        }
        if (!k) wanted = trained(t, c, 25);
        else assert_true(trained(t, c, 25) == wanted);
        trf_trainer_destroy(t);
        trf_model_destroy(model);
        trf_corpus_destroy(c);
    }
}

/* -----------------------------------------------------------------------------------------------
   Damage. Reads a file whole; the status of the first failure. */
static trf_status read_whole(const char *path, int64_t *batches)
{
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *c;
    trf_batch b;
    trf_status status = kit_corpus_open(&c, path, NULL, NULL, &o, &err);
    *batches = 0;
    if (status) { assert_null(c); return status; }
    while (!status && trf_corpus_facts(c)->epoch == 0) {
        int64_t epoch = trf_corpus_facts(c)->epoch, batch = c->batch;
        status = trf_corpus_next(c, &b, &err);
        *batches += !status;
        if (status) assert_true(b.source.count == 0 && epoch == c->facts.epoch && batch == c->batch);
    }
    trf_corpus_destroy(c);
    return status;
}

static void refused(const char *path, int64_t bytes, int64_t near_to)
{
    int64_t batches;
    trf_status status = read_whole(path, &batches);
    if (status != TRF_E_FORMAT)
        fail_msg("byte %lld: %s", (long long)near_to, trf_status_name(status));
    assert_true(err.where >= 0 && err.where <= bytes);
    assert_non_null(strstr(err.message, "byte "));
    assert_int_equal(strncmp(err.message, path, strlen(path)), 0);
}

static void every_byte(void **state)
{
    int k;
    (void)state;
    for (k = 0; k < 4; k++) {
        trf_token_file_options f = form_of(k);
        pairs d = {k == 0 ? 60 : 25, most_of(k), {0}, {0}, 0, 0};
        char *bytes;
        size_t n, i;
        write_pairs(in_folder("a"), &f, &d);
        bytes = kit_read_file(in_folder("a"), &n);
        assert_non_null(bytes);
        for (i = 0; i < n; i++) {
            bytes[i] = (char)(bytes[i] ^ 1 << i % 8);
            assert_true(put_file(in_folder("b"), bytes, n));
            refused(in_folder("b"), (int64_t)n, (int64_t)i);
            bytes[i] = (char)(bytes[i] ^ 1 << i % 8);
        }
        for (i = 0; i < n; i++) {
            assert_true(put_file(in_folder("b"), bytes, i));
            refused(in_folder("b"), (int64_t)i, (int64_t)i);
        }
        bytes[n] = 0;           /* the NUL behind it: a byte too many */
        assert_true(put_file(in_folder("b"), bytes, n + 1));
        refused(in_folder("b"), (int64_t)n + 1, (int64_t)n);
        free(bytes);
    }
}

/* Of a file of several blocks: some bytes, the blocks in another order, a block less. */
static void damaged_blocks(void **state)
{
    pairs d = {2500, 65535, {0}, {0}, 0, 0};
    trf_token_file_options f = form(2, 511);
    trf_corpus *c;
    char *bytes, *other;
    size_t n, i, at[4], k;
    (void)state;
    write_pairs(in_folder("a"), &f, &d);
    bytes = kit_read_file(in_folder("a"), &n);
    other = (char *)malloc(n);
    assert_true(bytes && other);
    for (i = 0; i < n; i += n / 60) {
        bytes[i] = (char)(bytes[i] ^ 0x10);
        assert_true(put_file(in_folder("b"), bytes, n));
        refused(in_folder("b"), (int64_t)n, (int64_t)i);
        bytes[i] = (char)(bytes[i] ^ 0x10);
        assert_true(put_file(in_folder("b"), bytes, i));
        refused(in_folder("b"), (int64_t)i, (int64_t)i);
    }
    for (at[0] = TRF__TOKEN_HEAD, k = 0; k < 3; k++) {
        const unsigned char *block = (const unsigned char *)bytes + at[k];
        at[k + 1] = at[k] + TRF__TOKEN_BLOCK + (size_t)trf__from_little(block, 4) * 4 + 4 +
                    (size_t)trf__from_little(block + 12, 8);
    }
    assert_int_equal(at[3], n - TRF__TOKEN_END);
    memcpy(other, bytes, n);                            /* blocks 1 and 0, then the rest */
    memcpy(other + at[0], bytes + at[1], at[2] - at[1]);
    memcpy(other + at[0] + (at[2] - at[1]), bytes + at[0], at[1] - at[0]);
    assert_true(put_file(in_folder("b"), other, n));
    FAILS(kit_corpus_open(&c, in_folder("b"), NULL, NULL, NULL, &err),
          TRF_E_FORMAT, "token file", (int64_t)at[0] + 4);
    memcpy(other + at[2], bytes + at[3], n - at[3]);    /* without the last block */
    memcpy(other, bytes, at[2]);
    assert_true(put_file(in_folder("b"), other, at[2] + n - at[3]));
    FAILS(kit_corpus_open(&c, in_folder("b"), NULL, NULL, NULL, &err),
          TRF_E_FORMAT, "token file", (int64_t)at[2]);
    bytes[at[2] + TRF__TOKEN_BLOCK + 4 * 452 + 4 + 9] ^= 1;     /* a record of the third block */
    assert_true(put_file(in_folder("b"), bytes, n));
    refused(in_folder("b"), (int64_t)n, 0);
    assert_true(err.where >= (int64_t)at[2] && err.where < (int64_t)at[3]);
    free(bytes);
    free(other);
}

/* Makes the checksums of head, block and end right again. */
static void seal(char *bytes, size_t n)
{
    static trf__token_form any;
    unsigned char *b = (unsigned char *)bytes;
    size_t lengths = (size_t)trf__from_little(b + TRF__TOKEN_HEAD, 4) *
                     (size_t)trf__from_little(b + 16, 4) * 2;
    trf__crc_begin(&any.crc);
    trf__token_seal(&any, b, TRF__TOKEN_HEAD - 4);
    if (lengths < n - TRF__TOKEN_HEAD - TRF__TOKEN_BLOCK - TRF__TOKEN_END)
        trf__token_seal(&any, b + TRF__TOKEN_HEAD, (int64_t)(TRF__TOKEN_BLOCK + lengths));
    trf__token_seal(&any, b + n - TRF__TOKEN_END, TRF__TOKEN_END - 4);
}

/* Any numbers in head, block or end, under right checksums: refused, or read to the end; what
   counts is the sanitizer's silence. */
static void hostile(void **state)
{
    int i, rounds = kit_all() ? 20000 : 2000, refusals = 0, k;
    (void)state;
    for (k = 0; k < 4; k++) {
        trf_token_file_options f = form_of(k);
        pairs d = {12, most_of(k), {0}, {0}, 0, 0};
        char *bytes, *changed;
        size_t n;
        write_pairs(in_folder("a"), &f, &d);
        bytes = kit_read_file(in_folder("a"), &n);
        changed = (char *)malloc(n);
        assert_true(bytes && changed);
        for (i = 0; i < rounds; i++) {
            static const uint64_t values[] = {0, 1, 2, 4, 13, 0x7FFF, 0xFFFF, 0x7FFFFFFF,
                                              0x80000000u, 0xFFFFFFFFu, 0x7FFFFFFFFFFFFFFF,
                                              0xFFFFFFFFFFFFFFFF};
            uint64_t x = trf__random64(3, (uint32_t)k, (uint64_t)i);
            uint64_t y = trf__random64(4, (uint32_t)k, (uint64_t)i);
            size_t tops = (size_t)TRF__TOKEN_HEAD + TRF__TOKEN_BLOCK + 12 * 8, at;
            int64_t batches;
            int width = 1 << (x >> 8) % 4;
            memcpy(changed, bytes, n);
            at = x >> 16 & 1 ? (size_t)(x >> 20) % tops
                             : n - TRF__TOKEN_END + (size_t)(x >> 20) % (TRF__TOKEN_END - 8);
            trf__to_little((unsigned char *)changed + at,
                           y & 1 ? y >> 8 : values[(y >> 8) % 12], width);
            seal(changed, n);
            assert_true(put_file(in_folder("b"), changed, n));
            refusals += read_whole(in_folder("b"), &batches) != TRF_OK;
        }
        free(bytes);
        free(changed);
    }
    assert_true(refusals > rounds * 2);
}

/* Each rule of the reader alone, under right checksums: `at` of the block, the end or the head is
   set to a value. */
static void each_rule(void **state)
{
    enum { HEAD, BLOCK, END };
    static const struct { int part, at, bytes; uint64_t value; const char *says; } rules[] = {
        {HEAD, 0, 1, 'X', "not a token file"}, {HEAD, 8, 4, 2, "version"},
        {HEAD, 12, 4, 3, "ids of 2 or 4"}, {HEAD, 16, 4, 4, "matching lengths"},
        {HEAD, 20, 4, 0, "matching lengths"}, {HEAD, 20, 4, 70000, "matching lengths"},
        {BLOCK, 0, 4, 0, "1 to 1024 pairs"}, {BLOCK, 0, 4, 1025, "1 to 1024 pairs"},
        {BLOCK, 4, 8, 1, "pairs before"}, {BLOCK, 12, 8, 40, "bytes of the block"},
        {BLOCK, 28, 2, 512, "max_length"}, {BLOCK, 30, 2, 65535, "max_length"},
        {END, 0, 4, 1, "end of a token file"}, {END, 4, 8, 13, "less than the end"},
        {END, 4, 8, 11, "more than the end"}, {END, 4, 8, 1000, "room for"},
        {END, 4, 8, (uint64_t)INT32_MAX + 1, "room for"}, {END, 4, 8, UINT64_MAX, "room for"},
        {END, 28, 8, 1, "less than the end"}, {END, 36, 8, 1, "less than the end"},
        {END, 68, 4, 61, "less than the end"}, {END, 68, 4, 59, "less than the end"}};
    pairs d = {12, 65535, {0}, {0}, 0, 0};
    trf_token_file_options f = form(2, 511);
    char *bytes, *changed;
    size_t n, i;
    (void)state;
    write_pairs(in_folder("a"), &f, &d);
    bytes = kit_read_file(in_folder("a"), &n);
    changed = (char *)malloc(n);
    assert_true(bytes && changed);
    for (i = 0; i < sizeof rules / sizeof *rules; i++) {
        size_t at = (size_t)rules[i].at + (rules[i].part == HEAD    ? 0
                                           : rules[i].part == BLOCK ? TRF__TOKEN_HEAD
                                                                    : n - TRF__TOKEN_END);
        memcpy(changed, bytes, n);
        trf__to_little((unsigned char *)changed + at, rules[i].value, rules[i].bytes);
        seal(changed, n);
        assert_true(put_file(in_folder("b"), changed, n));
        refused(in_folder("b"), (int64_t)n, (int64_t)at);
        if (!strstr(err.message, rules[i].says))
            fail_msg("rule %d: %s", (int)i, err.message);
    }
    free(bytes);
    free(changed);
}

/* A negative id is a label of the target only. */
static void negative_ids(void **state)
{
    static const int32_t ids[] = {7, 8};
    int side, width;
    (void)state;
    for (side = 0; side < 2; side++)
        for (width = 2; width <= 4; width += 2) {
            trf_token_file_options o = form(width, 511);
            trf_token_file *f;
            static trf__token_form any;
            unsigned char *record;
            char *bytes;
            size_t n;
            int64_t batches;
            OK(trf_token_file_create(&f, in_folder("a"), &o, &err));
            OK(trf_token_file_add(f, side ? NULL : ids, side ? 0 : 2, side ? ids : NULL,
                                  side ? 2 : 0, 1, &err));
            OK(trf_token_file_finish(f, &err));
            trf_token_file_destroy(f);
            bytes = kit_read_file(in_folder("a"), &n);
            assert_non_null(bytes);
            record = (unsigned char *)bytes + n - TRF__TOKEN_END - 4 - 2 * width;
            memset(record + 4, 0xFF, (size_t)width);
            trf__crc_begin(&any.crc);
            trf__to_little(record, trf__token_crc(&any, record + 4, 2 * width), 4);
            assert_true(put_file(in_folder("b"), bytes, n));
            if (side) assert_int_equal(read_whole(in_folder("b"), &batches), TRF_OK);
            else refused(in_folder("b"), (int64_t)n, 0);
            if (width == 4) {                           /* -2 is no label */
                record[4] = 0xFE;
                trf__to_little(record, trf__token_crc(&any, record + 4, 2 * width), 4);
                assert_true(put_file(in_folder("b"), bytes, n));
                refused(in_folder("b"), (int64_t)n, 0);
            }
            free(bytes);
        }
}

/* -----------------------------------------------------------------------------------------------
   Interrupted writing: whatever is left of path.part, the finished file is the same. */
static void continue_pairs(const trf_token_file_options *o, pairs *d, int64_t *kept)
{
    trf_token_file_options again = *o;
    trf_token_file *f;
    int64_t p;
    again.resume = 1;
    OK(trf_token_file_create(&f, in_folder("b"), &again, &err));
    *kept = p = trf_token_file_facts(f)->pairs;
    assert_int_equal(trf_token_file_facts(f)->mark, p ? 1000 + 3 * (p - 1) : 0);
    for (; p < d->n; p++) OK(add_one(f, d, (int32_t)p));
    OK(trf_token_file_finish(f, &err));
    trf_token_file_destroy(f);
}

static void interrupted(void **state)
{
    int k;
    (void)state;
    for (k = 0; k < 4; k++) {
        trf_token_file_options o = form_of(k);
        pairs d = {2500, most_of(k), {0}, {0}, 0, 0};
        char *bytes, *got;
        size_t n, m, i, step;
        int64_t kept, most = 0;
        write_pairs(in_folder("a"), &o, &d);
        bytes = kit_read_file(in_folder("a"), &n);
        assert_non_null(bytes);
        step = n / (kit_all() ? 200 : 25);
        for (i = 0; i <= n; i += i < 120 || n - i < 120 ? 1 : n - i < step ? n - i - 110
                                                                          : step) {
            unlink(in_folder("b"));
            assert_true(put_file(in_folder("b.part"), bytes, i));
            continue_pairs(&o, &d, &kept);
            assert_true(kept % 1024 == 0);
            most = kept > most ? kept : most;
            got = kit_read_file(in_folder("b"), &m);
            assert_true(got && m == n && !memcmp(got, bytes, n));
            free(got);
            assert_true(access(in_folder("b.part"), F_OK) != 0);
        }
        assert_int_equal(most, 2048);       /* the last block has room for more */
        /* damage inside: writing begins again at the block that has it */
        bytes[n / 2] ^= 4;
        assert_true(put_file(in_folder("b.part"), bytes, n));
        bytes[n / 2] ^= 4;
        continue_pairs(&o, &d, &kept);
        assert_int_equal(kept, 1024);
        got = kit_read_file(in_folder("b"), &m);
        assert_true(got && m == n && !memcmp(got, bytes, n));
        free(got);
        free(bytes);
    }
}

/* path.part is removed, or another file gets its name: that is no finished file, and it stays. */
static void name_is_lost(void **state)
{
    int replaced;
    (void)state;
    for (replaced = 0; replaced < 2; replaced++) {
        trf_token_file_options o = form_of(0);
        pairs d = {10, most_of(0), {0}, {0}, 0, 0};
        trf_token_file *f;
        char *bytes;
        size_t n;
        unlink(in_folder("b"));
        OK(trf_token_file_create(&f, in_folder("b"), &o, &err));
        OK(add_one(f, &d, 3));
        assert_int_equal(unlink(in_folder("b.part")), 0);
        if (replaced) assert_true(put_file(in_folder("b.part"), "mine", 4));
        assert_int_equal(trf_token_file_finish(f, &err), TRF_E_IO);
        assert_non_null(strstr(err.message, "removed or replaced"));
        assert_true(access(in_folder("b"), F_OK) != 0);
        assert_int_equal(trf_token_file_finish(f, &err), TRF_E_STATE);
        trf_token_file_destroy(f);
        if (!replaced) continue;
        bytes = kit_read_file(in_folder("b.part"), &n);
        assert_true(bytes && n == 4 && !memcmp(bytes, "mine", 4));
        free(bytes);
        unlink(in_folder("b.part"));
    }
}

/* A file whose end was written, but which did not get its name, goes on with more pairs. */
static void grown(void **state)
{
    int k;
    (void)state;
    for (k = 0; k < 4; k++) {
        trf_token_file_options o = form_of(k);
        pairs some = {2500, most_of(k), {0}, {0}, 0, 0}, all = some;
        char *bytes, *got;
        size_t n, m;
        int64_t kept;
        all.n = 3000;
        write_pairs(in_folder("a"), &o, &all);
        write_pairs(in_folder("b"), &o, &some);
        assert_int_equal(rename(in_folder("b"), in_folder("b.part")), 0);
        continue_pairs(&o, &all, &kept);
        bytes = kit_read_file(in_folder("a"), &n);
        got = kit_read_file(in_folder("b"), &m);
        assert_true(bytes && got && m == n && !memcmp(got, bytes, n));
        free(bytes);
        free(got);
    }
}

/* Other pairs than before the interruption, and fewer: no file with something behind its end. */
static void resumed_otherwise(void **state)
{
    trf_token_file_options o = form(2, 511);
    pairs d = {2500, 65535, {0}, {0}, 0, 0};
    trf_token_file *f, *other;
    char *bytes;
    size_t n;
    (void)state;
    write_pairs(in_folder("a"), &o, &d);
    bytes = kit_read_file(in_folder("a"), &n);
    assert_true(bytes && put_file(in_folder("b.part"), bytes, n - 500));
    o.resume = 1;
    OK(trf_token_file_create(&f, in_folder("b"), &o, &err));
    assert_int_equal(trf_token_file_facts(f)->pairs, 2048);
    FAILS(trf_token_file_finish(f, &err), TRF_E_STATE, "file", -1);
    FAILS(trf_token_file_finish(f, &err), TRF_E_STATE, "file", -1);
    FAILS(add_one(f, &d, 1), TRF_E_STATE, "file", -1);
    trf_token_file_destroy(f);
    o.id_bytes = 4;                                     /* other options */
    FAILS(trf_token_file_create(&f, in_folder("b"), &o, &err), TRF_E_STATE, "resume", -1);
    assert_null(f);
    o.id_bytes = 2;
    o.max_length = 510;
    FAILS(trf_token_file_create(&f, in_folder("b"), &o, &err), TRF_E_STATE, "resume", -1);
    o.max_length = 511;
    OK(trf_token_file_create(&f, in_folder("b"), &o, &err));
    if (TRF_OS_HOLDS) {                                 /* two writers */
        FAILS(trf_token_file_create(&other, in_folder("b"), &o, &err), TRF_E_STATE, "path", -1);
        o.resume = 0;
        FAILS(trf_token_file_create(&other, in_folder("b"), &o, &err), TRF_E_STATE, "path", -1);
    }
    trf_token_file_destroy(f);
    o.resume = 0;                                       /* not resumed: it begins again */
    OK(trf_token_file_create(&f, in_folder("b"), &o, &err));
    assert_int_equal(trf_token_file_facts(f)->pairs, 0);
    if (TRF_OS_HOLDS)
        FAILS(trf_token_file_create(&other, in_folder("b"), &o, &err), TRF_E_STATE, "path", -1);
    OK(add_one(f, &d, 0));
    OK(trf_token_file_finish(f, &err));
    FAILS(add_one(f, &d, 1), TRF_E_STATE, "file", -1);
    FAILS(trf_token_file_finish(f, &err), TRF_E_STATE, "file", -1);
    trf_token_file_destroy(f);
    free(bytes);
}

/* The file of another vocabulary. */
static void vocabularies(void **state)
{
    static const char *const words[] = {"a b c", "a b d", "a b c d"};
    trf_vocab *v[4];
    trf_token_file_options o = form(2, 511);
    trf_token_file *f;
    trf_corpus *c;
    int i, k;
    (void)state;
    for (i = 0; i < 4; i++) {
        OK(trf_vocab_create(&v[i], i < 3 ? TRF_WORDS : TRF_CHARACTERS, NULL, &err));
        OK(trf_vocab_learn(v[i], i < 3 ? words[i] : "abc", &err));
        OK(trf_vocab_finish(v[i], 100, 1, &err));
    }
    for (i = 0; i < 4; i++)
        for (k = 0; k < 4; k++) {
            o.source_vocab = v[i];
            o.target_vocab = v[k];
            OK(trf_token_file_create(&f, in_folder("a"), &o, &err));
            OK(trf_token_file_finish(f, &err));
            trf_token_file_destroy(f);
            OK(kit_corpus_open(&c, in_folder("a"), v[i], v[k], NULL, &err));
            trf_corpus_destroy(c);
            OK(kit_corpus_open(&c, in_folder("a"), NULL, NULL, NULL, &err));
            trf_corpus_destroy(c);
            FAILS(kit_corpus_open(&c, in_folder("a"), v[(i + 1) % 4], v[k], NULL, &err),
                  TRF_E_INVALID_ARG, "source_vocab", -1);
            assert_null(c);
            FAILS(kit_corpus_open(&c, in_folder("a"), v[i], v[(k + 3) % 4], NULL, &err),
                  TRF_E_INVALID_ARG, "target_vocab", -1);
        }
    o.source_vocab = o.target_vocab = NULL;             /* a file without fingerprints */
    OK(trf_token_file_create(&f, in_folder("a"), &o, &err));
    OK(trf_token_file_finish(f, &err));
    trf_token_file_destroy(f);
    OK(kit_corpus_open(&c, in_folder("a"), v[0], v[1], NULL, &err));
    trf_corpus_destroy(c);
    for (i = 0; i < 4; i++) trf_vocab_destroy(v[i]);
    OK(trf_vocab_create(&v[0], TRF_WORDS, NULL, &err));     /* still learns */
    FAILS(kit_corpus_open(&c, in_folder("a"), v[0], NULL, NULL, &err), TRF_E_STATE, "vocab", -1);
    o.target_vocab = v[0];
    FAILS(trf_token_file_create(&f, in_folder("a"), &o, &err), TRF_E_STATE, "vocab", -1);
    trf_vocab_destroy(v[0]);
}

/* -----------------------------------------------------------------------------------------------
   What is too large, too small or missing. */
static void limits(void **state)
{
    static int32_t ids[70000];
    trf_token_file_options o = form(2, 65535);
    trf_corpus_options c = trf_corpus_defaults();
    trf_token_file *f;
    trf_corpus *corpus;
    trf_batch b;
    int32_t i;
    (void)state;
    for (i = 0; i < 70000; i++) ids[i] = i % 65535;
    FAILS(trf_token_file_create(NULL, "a", &o, &err), TRF_E_INVALID_ARG, "file", -1);
    FAILS(trf_token_file_create(&f, NULL, &o, &err), TRF_E_INVALID_ARG, "path", -1);
    FAILS(trf_token_file_create(&f, "", &o, &err), TRF_E_INVALID_ARG, "path", -1);
    o.id_bytes = 3;
    FAILS(trf_token_file_create(&f, "a", &o, &err), TRF_E_INVALID_ARG, "id_bytes", -1);
    o = form(2, -1);
    FAILS(trf_token_file_create(&f, "a", &o, &err), TRF_E_INVALID_ARG, "max_length", -1);
    o = form(2, 65535);
    o.resume = 2;
    FAILS(trf_token_file_create(&f, "a", &o, &err), TRF_E_INVALID_ARG, "resume", -1);
    o.resume = 0;
    FAILS(trf_token_file_create(&f, folder, &o, &err), TRF_E_IO, folder, -1);
    OK(trf_token_file_create(&f, in_folder("a"), NULL, &err));      /* the defaults: 511 ids, of 4 bytes */
    FAILS(trf_token_file_add(f, ids, 512, ids, 1, 0, &err), TRF_E_LIMIT, "n_source", 511);
    ids[9] = INT32_MAX;
    OK(trf_token_file_add(f, ids, 511, ids, 1, 0, &err));
    ids[9] = 9;
    trf_token_file_destroy(f);
    OK(trf_token_file_create(&f, in_folder("a"), &o, &err));
    FAILS(trf_token_file_add(NULL, ids, 1, ids, 1, 0, &err), TRF_E_INVALID_ARG, "file", -1);
    FAILS(trf_token_file_add(f, ids, -1, ids, 1, 0, &err), TRF_E_INVALID_ARG, "n_source", -1);
    FAILS(trf_token_file_add(f, NULL, 1, ids, 1, 0, &err), TRF_E_INVALID_ARG, "source", -1);
    FAILS(trf_token_file_add(f, ids, 65536, ids, 1, 0, &err), TRF_E_LIMIT, "n_source", 65535);
    FAILS(trf_token_file_add(f, ids, 1, ids, 65536, 0, &err), TRF_E_LIMIT, "n_target", 65535);
    ids[9] = 65535;
    FAILS(trf_token_file_add(f, ids, 20, ids, 1, 0, &err), TRF_E_LIMIT, "source", 9);
    FAILS(trf_token_file_add(f, ids, 5, ids, 10, 0, &err), TRF_E_LIMIT, "target", 9);
    ids[9] = -1;
    FAILS(trf_token_file_add(f, ids, 20, ids, 1, 0, &err), TRF_E_INVALID_ARG, "source", 9);
    ids[9] = -2;
    FAILS(trf_token_file_add(f, ids, 5, ids, 10, 0, &err), TRF_E_INVALID_ARG, "target", 9);
    ids[9] = 65534;
    assert_int_equal(trf_token_file_facts(f)->pairs, 0);
    OK(trf_token_file_add(f, ids, 65535, ids, 65535, INT64_MIN, &err));
    OK(trf_token_file_add(f, NULL, 0, NULL, 0, -5, &err));
    OK(trf_token_file_finish(f, &err));
    trf_token_file_destroy(f);
    FAILS(kit_corpus_open(&corpus, in_folder("a"), NULL, NULL, &c, &err), TRF_E_LIMIT,
          "max_length", 511);
    c.max_length = 65534;
    FAILS(kit_corpus_open(&corpus, in_folder("a"), NULL, NULL, &c, &err), TRF_E_LIMIT,
          "max_length", 65534);
    c.max_length = 65535;
    c.shuffle = c.buckets = 0;
    OK(kit_corpus_open(&corpus, in_folder("a"), NULL, NULL, &c, &err));
    assert_int_equal(trf_corpus_facts(corpus)->mark, -5);
    OK(trf_corpus_next(corpus, &b, &err));
    assert_true(b.source.count == 1 && b.source.lengths[0] == 65535);
    assert_memory_equal(b.source.ids, ids, 65535 * sizeof *ids);
    assert_memory_equal(b.target.ids, ids, 65535 * sizeof *ids);
    OK(trf_corpus_next(corpus, &b, &err));
    assert_true(b.source.count == 1 && b.source.lengths[0] == 0 && b.target.lengths[0] == 0);
    trf_corpus_destroy(corpus);
    FAILS(kit_corpus_open(NULL, "a", NULL, NULL, NULL, &err), TRF_E_INVALID_ARG, "corpus", -1);
    FAILS(kit_corpus_open(&corpus, folder, NULL, NULL, NULL, &err), TRF_E_IO, folder, -1);
    c.batch_tokens = 0;
    FAILS(kit_corpus_open(&corpus, in_folder("a"), NULL, NULL, &c, &err), TRF_E_INVALID_ARG,
          "batch_tokens", -1);
    assert_null(corpus);
    trf_token_file_destroy(NULL);
}

/* Records of 256 KiB: a block ends when it has a MiB. */
static void large_pairs(void **state)
{
    static int32_t ids[65535];
    trf_token_file_options o = form(2, 65535);
    trf_corpus_options c = trf_corpus_defaults();
    trf_token_file *f;
    trf_corpus *corpus;
    trf_batch b;
    int64_t batches;
    int32_t i, p;
    (void)state;
    OK(trf_token_file_create(&f, in_folder("a"), &o, &err));
    for (p = 0; p < 9; p++) {
        for (i = 0; i < 65535; i++) ids[i] = (i + p) % 65535;
        OK(trf_token_file_add(f, ids, 65535, ids, 65535, p, &err));
    }
    OK(trf_token_file_finish(f, &err));
    trf_token_file_destroy(f);
    c.max_length = 65535;
    c.shuffle = 0;
    OK(kit_corpus_open(&corpus, in_folder("a"), NULL, NULL, &c, &err));
    assert_int_equal(corpus->file->n_blocks, 3);
    assert_true(corpus->file->blocks[1].first == 4 && corpus->file->blocks[2].first == 8);
    OK(trf_corpus_batches(corpus, &batches, &err));
    assert_int_equal(batches, 9);
    for (p = 0; p < 9; p++) {
        OK(trf_corpus_next(corpus, &b, &err));
        assert_true(b.source.count == 1 && b.source.ids[0] == p);
        assert_int_equal(b.target.ids[65534 - p], 65534);
    }
    trf_corpus_destroy(corpus);
    FAILS(trf_corpus_batches(NULL, &batches, &err), TRF_E_INVALID_ARG, "corpus", -1);
    OK(trf_corpus_create(&corpus, &c, &err));
    FAILS(trf_corpus_batches(corpus, NULL, &err), TRF_E_INVALID_ARG, "batches", -1);
    FAILS(trf_corpus_batches(corpus, &batches, &err), TRF_E_STATE, "corpus", -1);
    OK(trf_corpus_add(corpus, ids, 1, ids, 1, &err));   /* a failure has begun nothing */
    trf_corpus_destroy(corpus);
}

/* More than 2^31 ids: five pairs of 2^29 zeros a side, which take no place on the disk, and small
   pairs around them. Of the large ones only the lengths are read. */
static void many_ids(void **state)
{
    enum { LARGE = 1 << 29, N = 7 };
    static unsigned char top[TRF__BLOCK_TOP], end[TRF__TOKEN_END], head[TRF__TOKEN_HEAD];
    static trf__token_form any;
    trf_corpus_options o = trf_corpus_defaults();
    trf_corpus *c;
    FILE *f = fopen(in_folder("a"), "wb");
    int64_t records = 0, n;
    int32_t i, id = 0;
    int ok;
    (void)state;
    assert_non_null(f);
    trf__crc_begin(&any.crc);
    memcpy(head, "TRFTOKEN", 8);
    trf__to_little(head + 8, 1, 4);
    trf__to_little(head + 12, 4, 4);
    trf__to_little(head + 16, 4, 4);
    trf__to_little(head + 20, INT32_MAX, 4);
    trf__token_seal(&any, head, TRF__TOKEN_HEAD - 4);
    for (i = 0; i < N; i++) {
        int large = i > 0 && i < N - 1;
        trf__to_little(top + TRF__TOKEN_BLOCK + 8 * i, large ? LARGE : 1, 4);
        trf__to_little(top + TRF__TOKEN_BLOCK + 8 * i + 4, large ? LARGE : 0, 4);
        records += 4 + (large ? (int64_t)LARGE * 8 : 4);
    }
    trf__to_little(top, N, 4);
    trf__to_little(top + 12, (uint64_t)records, 8);
    n = trf__token_seal(&any, top, TRF__TOKEN_BLOCK + N * 8);
    trf__to_little(end + 4, N, 8);
    trf__to_little(end + 28, (uint64_t)LARGE * 5 + 2, 8);
    trf__to_little(end + 36, (uint64_t)LARGE * 5, 8);
    trf__to_little(end + 68, LARGE, 4);
    trf__token_seal(&any, end, TRF__TOKEN_END - 4);
    ok = fwrite(head, 1, sizeof head, f) == sizeof head &&
         fwrite(top, 1, (size_t)n, f) == (size_t)n;
    for (i = 0; i < 2; i++) {                           /* the small records */
        unsigned char record[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        record[4] = (unsigned char)(77 + i);
        trf__to_little(record, trf__token_crc(&any, record + 4, 4), 4);
        if (i) ok = ok && fseeko(f, (off_t)(sizeof head + (size_t)n + (size_t)records - 8),
                                 SEEK_SET) == 0;
        ok = ok && fwrite(record, 1, 8, f) == 8;
    }
    ok = ok && fwrite(end, 1, sizeof end, f) == sizeof end;
    if (fclose(f) || !ok) { print_message("left out: this disk has no sparse files\n"); return; }
    o.max_length = INT32_MAX;
    OK(kit_corpus_open(&c, in_folder("a"), NULL, NULL, &o, &err));
    assert_true(trf_corpus_facts(c)->source_ids == (int64_t)LARGE * 5 + 2);
    assert_true(c->file->blocks[0].records + records == c->file->bytes - TRF__TOKEN_END);
    DONE(trf__token_read(c->file, N - 1, &id, NULL, &err));
    assert_int_equal(id, 78);
    DONE(trf__token_read(c->file, 0, &id, NULL, &err));
    assert_int_equal(id, 77);
    trf_corpus_destroy(c);
    unlink(in_folder("a"));
}

/* -----------------------------------------------------------------------------------------------
   Memory: 12 bytes a pair, or 4 with pools, and what does not depend on their number. */
static void memory_a_pair(void **state)
{
    trf_token_file_options f = form(2, 511);
    int64_t peak[4], k;
    (void)state;
    for (k = 0; k < 4; k++) {
        trf_corpus_options o = trf_corpus_defaults();
        pairs d = {k & 1 ? 200000 : 100000, 65535, {0}, {0}, 0, 0};
        kit_memory h;
        trf_corpus *c;
        trf_batch b;
        int64_t calls;
        write_pairs(in_folder("a"), &f, &d);
        o.hooks = kit_hooks(&h);
        o.pool = k < 2 ? 0 : 8;
        OK(kit_corpus_open(&c, in_folder("a"), NULL, NULL, &o, &err));
        OK(trf_corpus_next(c, &b, &err));
        peak[k] = h.peak;
        calls = h.calls;
        while (trf_corpus_facts(c)->epoch == 0) OK(trf_corpus_next(c, &b, &err));
        if (!o.pool) assert_int_equal(h.calls, calls);
        trf_corpus_destroy(c);
        assert_int_equal(h.blocks, 0);
    }
    /* 16 bytes for each 1024 pairs are the positions of blocks, in an array that doubles */
    assert_true(peak[1] - peak[0] <= 100000 * 12 + 100000 / 1024 * 16 * 3);
    assert_true(peak[3] - peak[2] <= 100000 * 4 + 100000 / 1024 * (16 * 3 + 12) + 65536);
}

/* Each allocation fails once: nothing is lost, and the call can be repeated. */
static void short_of_memory(void **state)
{
    trf_token_file_options f = form(2, 511);
    pairs d = {1100, 65535, {0}, {0}, 0, 0};
    int64_t at;
    int failures = 0;
    (void)state;
    write_pairs(in_folder("a"), &f, &d);
    for (at = 2; at < 60; at++) {
        trf_corpus_options o = trf_corpus_defaults();
        kit_memory h;
        trf_corpus *c;
        trf_batch b;
        o.hooks = kit_hooks(&h);
        o.pool = (int32_t)at % 2;
        h.fail_at = at / 2;
        if (kit_corpus_open(&c, in_folder("a"), NULL, NULL, &o, &err)) {
            assert_int_equal(err.status, TRF_E_NOMEM);
            assert_int_equal(h.blocks, 0);
            assert_null(c);
            failures++;
            OK(kit_corpus_open(&c, in_folder("a"), NULL, NULL, &o, &err));
        }
        if (trf_corpus_next(c, &b, &err)) { failures++; OK(trf_corpus_next(c, &b, &err)); }
        trf_corpus_destroy(c);
        assert_int_equal(h.blocks, 0);
    }
    assert_true(failures >= 14);
    for (failures = 0, at = 1; at < 60; at++) {         /* the writer, new and resumed */
        trf_token_file_options o = form(2, 511);
        kit_memory h;
        trf_token_file *file;
        char *bytes;
        size_t n, m;
        int64_t p;
        o.hooks = kit_hooks(&h);
        h.fail_at = at;
        bytes = kit_read_file(in_folder("a"), &n);
        assert_non_null(bytes);
        o.resume = (int32_t)at % 2;
        unlink(in_folder("b.part"));
        if (o.resume) assert_true(put_file(in_folder("b.part"), bytes, n - 100));
        if (trf_token_file_create(&file, in_folder("b"), &o, &err)) {
            assert_int_equal(err.status, TRF_E_NOMEM);
            assert_int_equal(h.blocks, 0);
            failures++;
            OK(trf_token_file_create(&file, in_folder("b"), &o, &err));
        }
        p = trf_token_file_facts(file)->pairs;
        assert_int_equal(p, o.resume ? 1024 : 0);
        for (; p < d.n; p++)
            if (add_one(file, &d, (int32_t)p)) {
                assert_int_equal(err.status, TRF_E_NOMEM);
                failures++;
                OK(add_one(file, &d, (int32_t)p));
            }
        OK(trf_token_file_finish(file, &err));
        trf_token_file_destroy(file);
        assert_int_equal(h.blocks, 0);
        free(bytes);
        bytes = kit_read_file(in_folder("a"), &n);
        {
            char *got = kit_read_file(in_folder("b"), &m);
            assert_true(bytes && got && m == n && !memcmp(got, bytes, n));
            free(got);
        }
        free(bytes);
    }
    assert_true(failures >= 15);
}

/* Each call of the system fails once. The reader leaves its position; the writer leaves a file that
   can be continued, and never a wrong one under the name. */
static void failing_system(void **state)
{
    trf_token_file_options o = form(2, 511);
    pairs d = {1100, 65535, {0}, {0}, 0, 0};
    char *bytes, *got;
    size_t n, m;
    int at, failures = 0, last = 0;
    (void)state;
    write_pairs(in_folder("a"), &o, &d);
    bytes = kit_read_file(in_folder("a"), &n);
    assert_non_null(bytes);
    for (at = 2; at < 120; at++) {
        trf_corpus_options with = trf_corpus_defaults();
        trf_corpus *c;
        trf_batch b;
        trf_status status;
        kit_memory h;
        with.hooks = kit_hooks(&h);     /* memory that has no bytes of an earlier turn */
        with.pool = at % 2;
        fault.calls = 0;
        fault.at = at / 2;
        status = kit_corpus_open(&c, in_folder("a"), NULL, NULL, &with, &err);
        if (status) {
            assert_int_equal(status, TRF_E_IO);
            assert_int_equal(err.sys_errno, EIO);
            OK(kit_corpus_open(&c, in_folder("a"), NULL, NULL, &with, &err));
            failures++;
        }
        if (trf_corpus_next(c, &b, &err)) {
            assert_true(err.status == TRF_E_IO && c->batch == 0 && b.source.count == 0);
            OK(trf_corpus_next(c, &b, &err));
            failures++;
        }
        trf_corpus_destroy(c);
    }
    assert_true(failures >= 50);
    for (at = 1; at < 40; at++) {
        trf_token_file *f = NULL;
        trf_status status;
        int32_t p = 0;
        o.resume = 0;
        unlink(in_folder("b"));
        fault.calls = 0;
        fault.at = at;
        status = trf_token_file_create(&f, in_folder("b"), &o, &err);
        for (p = 0; !status && p < d.n; p++) status = add_one(f, &d, p);
        if (!status) status = trf_token_file_finish(f, &err);
        else if (f) FAILS(trf_token_file_finish(f, &err), TRF_E_STATE, "file", -1);
        trf_token_file_destroy(f);
        if (fault.calls >= at) last = at;
        fault.at = 0;
        if (status) {
            int64_t kept;
            assert_int_equal(status, TRF_E_IO);
            failures++;
            got = kit_read_file(in_folder("b"), &m);
            assert_true(!got || (m == n && !memcmp(got, bytes, n)));
            free(got);
            continue_pairs(&o, &d, &kept);
        }
        got = kit_read_file(in_folder("b"), &m);
        assert_true(got && m == n && !memcmp(got, bytes, n));
        free(got);
    }
    assert_true(last > 10 && last < 39);
    for (at = 1; at < 40; at++) {                       /* the same while a file is continued */
        trf_token_file *f = NULL;
        trf_status status;
        int64_t kept;
        assert_true(put_file(in_folder("b.part"), bytes, n - 100));
        o.resume = 1;
        fault.calls = 0;
        fault.at = at;
        status = trf_token_file_create(&f, in_folder("b"), &o, &err);
        trf_token_file_destroy(f);
        fault.at = 0;
        if (status) assert_int_equal(status, TRF_E_IO);
        continue_pairs(&o, &d, &kept);
        assert_int_equal(kept, 1024);
        got = kit_read_file(in_folder("b"), &m);
        assert_true(got && m == n && !memcmp(got, bytes, n));
        free(got);
    }
    fault.short_read = 1;
    {
        int64_t batches;
        assert_int_equal(read_whole(in_folder("b"), &batches), TRF_OK);
    }
    fault.short_read = 0;
    free(bytes);
}

/* The file becomes shorter, or is damaged, while a corpus reads it. */
static void changed_while_open(void **state)
{
    trf_token_file_options o = form(2, 511);
    pairs d = {300, 65535, {0}, {0}, 0, 0};
    trf_corpus *c;
    trf_batch b;
    char *bytes;
    size_t n;
    (void)state;
    write_pairs(in_folder("a"), &o, &d);
    bytes = kit_read_file(in_folder("a"), &n);
    OK(kit_corpus_open(&c, in_folder("a"), NULL, NULL, NULL, &err));
    assert_int_equal(truncate(in_folder("a"), 200), 0);
    dirty();
    assert_int_equal(trf_corpus_next(c, &b, &err), TRF_E_FORMAT);
    assert_true(err.where >= 200 && strstr(err.message, "shorter"));
    assert_int_equal(b.source.count, 0);
    assert_true(bytes && kit_write_file(in_folder("a"), bytes, n));
    OK(trf_corpus_next(c, &b, &err));                   /* repaired, it goes on */
    assert_true(b.place.batch == 0 && b.source.count > 0);
    trf_corpus_destroy(c);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_batches), cmocka_unit_test(facts), cmocka_unit_test(empty_file),
        cmocka_unit_test(seeking), cmocka_unit_test(checkpoints), cmocka_unit_test(every_byte),
        cmocka_unit_test(damaged_blocks), cmocka_unit_test(hostile), cmocka_unit_test(each_rule),
        cmocka_unit_test(negative_ids), cmocka_unit_test(interrupted),
        cmocka_unit_test(name_is_lost), cmocka_unit_test(grown),
        cmocka_unit_test(resumed_otherwise), cmocka_unit_test(vocabularies),
        cmocka_unit_test(limits), cmocka_unit_test(large_pairs), cmocka_unit_test(many_ids),
        cmocka_unit_test(memory_a_pair),
        cmocka_unit_test(short_of_memory), cmocka_unit_test(failing_system),
        cmocka_unit_test(changed_while_open)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

#pragma once
#include "api/basics.h"
#include "api/batch.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "text/vocab_use.h"
#include "data/token_files.h"

// -----------------------------------------------------------------------------------------------
// >>corpus         training pairs in batches, and the position among them
//
// In memory all ids lie in one array: source and target of pair 0, of pair 1, and so on. A pair is
// an offset in it and two lengths. Of a token file only the lengths are in memory.
//
// An epoch is planned at its start, from (seed, epoch) alone. Shuffling puts the pairs in a random
// order. Buckets then sort them stably by target and source length, so that pairs of equal lengths
// stay shuffled. A batch ends wherever the next pair would exceed a limit. With shuffling and
// buckets, the batches are shuffled too. Without shuffling, pairs come in the order of their
// addition, with buckets in the order of their lengths. A pair that alone exceeds the budget has
// its own batch. Each pair comes exactly once an epoch.
//
// With pools, an epoch first puts blocks of 1,024 pairs in a random order. Each `pool` of them are
// then planned as above, as if they were the corpus, one pool after the other. So only the pairs of
// one pool are in an order at a time. The batches of an epoch are numbered through its pools.
//
// The position is (complete epochs, batches delivered of the next one). It advances with every
// delivery, so after the last batch of epoch e it is (e + 1, 0). With a fingerprint of everything
// that determines the order it is a trf_place. Each batch carries its place: a trainer knows by it
// how far it has come (>>step), and checkpoints store it (>>checkpoint). The first next or seek
// makes all buffers. After that nothing grows.
// -----------------------------------------------------------------------------------------------

typedef struct trf__pair {
    int64_t begin;              /* index of the source in the ids; the target follows it */
    int32_t n_source, n_target;
} trf__pair;

struct trf_corpus {
    trf_corpus_options options;
    int32_t *ids;               /* of a corpus in memory, as its pairs */
    trf__pair *pairs;
    trf__token_reader *file;    /* an open token file, or NULL: the pairs are in memory */
    int64_t n_ids, id_capacity, pair_capacity;
    trf__text_ids texts[2];     /* ids of the pair last added as text */
    trf_token_facts facts;      /* of all pairs, and the epoch of the position */
    uint64_t hash;              /* of all pairs; every add updates it */

    int64_t batch;              /* the position */
    int64_t put_epoch, put_batch;   /* the position that the last rewind or seek set */
    int64_t planned;            /* the epoch of the plan, or -1 */
    int64_t pool;               /* the planned pool of it, or -1; without pools there is one */
    int64_t n_pools, n_blocks;  /* of the corpus */
    int64_t n_ordered;          /* pairs in the plan */
    int64_t first_batch;        /* batches of the epoch before the plan */
    int64_t n_batches;          /* in the plan */
    int64_t counted, n_counted; /* an epoch, or -1, and its batches in all pools */
    void *memory;               /* everything below; NULL until the first next or seek */
    size_t memory_bytes;
    int32_t *blocks;            /* (n_blocks) of 1,024 pairs: those of pool 0, of pool 1, ... */
    int32_t *pool_of;           /* (n_blocks) the pool of each block, while `blocks` is made */
    int32_t *n_in_pool;         /* (n_pools) likewise */
    int32_t *order;             /* (pairs of a pool) pair numbers in the order of the plan;
                                   ~number: a batch begins with this pair */
    int32_t *other;             /* (pairs of a pool) the sort's second buffer; then the index in
                                   `order` of each batch, in the order of the batches */
    int32_t *counts;            /* (longest + 2) pairs of each length, for sorting */
    int32_t *lengths[2];        /* the delivered batch, source and target */
    int32_t *batch_ids[2];
};

// >>corpus-order   shuffling, buckets, where a batch begins
//
// The same seed, options and pairs give the same batches on every machine: runs can be repeated,
// and a checkpoint needs only a position. Nothing here depends on earlier epochs.

/* Random numbers drawn in order under one key: the key of an epoch, or of a sequence (>>noise). */
typedef struct trf__draws { uint64_t key, next; uint32_t stream; } trf__draws;
enum { TRF__SHUFFLE_EPOCH = 0x7C000000, TRF__SHUFFLE_PAIRS, TRF__SHUFFLE_BATCHES,
       TRF__SHUFFLE_BLOCKS, TRF__SHUFFLE_POOL };

/* Uniform in 0..n-1. Draws below 2^64 mod n are repeated: the others are a multiple of n in number,
   so that no remainder is more likely. */
TRF__FN uint64_t trf__draw_below(trf__draws *draws, uint64_t n)
{
    uint64_t refused = (0 - n) % n, x;
    do x = trf__random64(draws->key, draws->stream, draws->next++); while (x < refused);
    return x % n;
}

/* Fisher and Yates: every order is equally likely. */
TRF__FN void trf__shuffle(int32_t *items, int64_t n, uint64_t key, uint32_t stream)
{
    trf__draws draws = {key, 0, stream};
    for (int64_t i = n - 1; i > 0; i--) {
        uint64_t j = trf__draw_below(&draws, (uint64_t)i + 1);
        int32_t item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

/* Number of ids of one side of a pair. */
TRF__FN int32_t trf__corpus_length(const trf_corpus *c, int64_t pair, int side)
{
    if (c->file) return trf__token_pair_length(c->file, pair, side);
    return side ? c->pairs[pair].n_target : c->pairs[pair].n_source;
}

/* Stable counting sort of the order by one side's length: O(pairs + longest). */
TRF__FN void trf__corpus_sort(trf_corpus *c, int by_target)
{
    int32_t *sorted = c->other;
    memset(c->counts, 0, (size_t)((int64_t)c->facts.longest + 2) * sizeof *c->counts);
    for (int64_t i = 0; i < c->n_ordered; i++)
        c->counts[trf__corpus_length(c, c->order[i], by_target) + 1]++;
    /* counts[l]: pairs shorter than l */
    for (int64_t i = 1; i <= c->facts.longest; i++) c->counts[i] += c->counts[i - 1];
    for (int64_t i = 0; i < c->n_ordered; i++)
        sorted[c->counts[trf__corpus_length(c, c->order[i], by_target)]++] = c->order[i];
    c->other = c->order;
    c->order = sorted;
}

/* Cuts the order into batches, which sets `other` and n_batches. Each side of a pair has one token
   more than ids: EOS for the source, BOS or EOS for the target. */
TRF__FN void trf__corpus_cut(trf_corpus *c)
{
    const trf_corpus_options *o = &c->options;
    int64_t source = 0, target = 0, longest = 0, begin = 0;
    c->n_batches = 0;
    for (int64_t i = 0; i < c->n_ordered; i++) {
        int64_t s = (int64_t)trf__corpus_length(c, c->order[i], 0) + 1;
        int64_t t = (int64_t)trf__corpus_length(c, c->order[i], 1) + 1;
        int64_t longer = trf__max64(longest, trf__max64(s, t));
        /* padded: all rows have the length of the longest, as in systems with (B, S) arrays */
        int over = o->padded_budget ? longer * (i - begin + 1) > o->batch_tokens
                                    : source + s > o->batch_tokens || target + t > o->batch_tokens;
        if (i == 0 || over || i - begin >= o->batch_sentences) {
            c->other[c->n_batches++] = (int32_t)i;
            c->order[i] = ~c->order[i];
            begin = i;
            source = target = 0;
            longer = trf__max64(s, t);
        }
        source += s;
        target += t;
        longest = longer;
    }
}

/* Numbers the pairs of the pool: all pairs without pools, else those of its blocks. */
TRF__FN void trf__corpus_collect(trf_corpus *c)
{
    int64_t block = c->pool * c->options.pool;
    int64_t end = trf__min64(block + c->options.pool, c->n_blocks);
    c->n_ordered = 0;
    for (; !c->options.pool && c->n_ordered < c->facts.pairs; c->n_ordered++)
        c->order[c->n_ordered] = (int32_t)c->n_ordered;
    for (; block < end; block++) {
        int64_t first = (int64_t)c->blocks[block] * TRF__POOL_BLOCK;
        for (int64_t i = first; i < trf__min64(first + TRF__POOL_BLOCK, c->facts.pairs); i++)
            c->order[c->n_ordered++] = (int32_t)i;
    }
}

/* Plans the next pool of the planned epoch. */
TRF__COLD
TRF__FN void trf__corpus_plan_pool(trf_corpus *c)
{
    uint64_t key = trf__random64(c->options.seed, TRF__SHUFFLE_EPOCH, (uint64_t)c->planned);
    c->pool++;
    if (c->options.pool) key = trf__random64(key, TRF__SHUFFLE_POOL, (uint64_t)c->pool);
    c->first_batch += c->n_batches;
    trf__corpus_collect(c);
    if (c->options.shuffle) trf__shuffle(c->order, c->n_ordered, key, TRF__SHUFFLE_PAIRS);
    /* two stable sorts: the second key is the source length, the first is the target length */
    if (c->options.buckets) {
        trf__corpus_sort(c, 0);
        trf__corpus_sort(c, 1);
    }
    trf__corpus_cut(c);
    if (c->options.shuffle && c->options.buckets)
        trf__shuffle(c->other, c->n_batches, key, TRF__SHUFFLE_BATCHES);
    if (c->file) c->file->n_pieces = 0;         /* those of the pool before */
}

/* Divides the blocks among the pools of an epoch. A pool has its blocks in the order of their
   numbers, in which a file is read. */
TRF__FN void trf__corpus_divide(trf_corpus *c, uint64_t key)
{
    int32_t size = c->options.pool;
    for (int64_t i = 0; i < c->n_blocks; i++) c->blocks[i] = (int32_t)i;
    if (!c->options.shuffle) return;
    trf__shuffle(c->blocks, c->n_blocks, key, TRF__SHUFFLE_BLOCKS);
    for (int64_t i = 0; i < c->n_blocks; i++) c->pool_of[c->blocks[i]] = (int32_t)i / size;
    memset(c->n_in_pool, 0, (size_t)c->n_pools * sizeof *c->n_in_pool);
    for (int64_t i = 0; i < c->n_blocks; i++)
        c->blocks[(int64_t)c->pool_of[i] * size + c->n_in_pool[c->pool_of[i]]++] = (int32_t)i;
}

/* Plans the pool that has batch number `batch` of the epoch; or the last pool. */
TRF__FN void trf__corpus_plan(trf_corpus *c, int64_t epoch, int64_t batch)
{
    if (c->planned != epoch || batch < c->first_batch) {        /* before the first pool */
        trf__corpus_divide(c, trf__random64(c->options.seed, TRF__SHUFFLE_EPOCH, (uint64_t)epoch));
        c->planned = epoch;
        c->pool = -1;
        c->first_batch = c->n_batches = 0;
    }
    while (c->pool < 0 || (batch >= c->first_batch + c->n_batches && c->pool + 1 < c->n_pools))
        trf__corpus_plan_pool(c);
}

/* How many batches the epoch has up to the end of the plan. */
TRF__FN int64_t trf__corpus_planned(const trf_corpus *c) { return c->first_batch + c->n_batches; }

// >>corpus-place   the buffers of a plan, and the position in it

/* All buffers lie in one block; returns its size. A batch holds no more than its limits, and no
   more than the corpus has. */
TRF__COLD
TRF__FN size_t trf__corpus_layout(trf_corpus *c, void *memory)
{
    int64_t sentences = trf__min64(c->options.batch_sentences, c->facts.pairs);
    int64_t ids = trf__min64(trf__max64(c->options.batch_tokens, c->facts.longest), c->n_ids);
    int64_t pool = c->facts.pairs;
    trf__cursor cursor = trf__cursor_at(memory);
    c->n_pools = 1;
    c->n_blocks = 0;
    if (c->options.pool) {
        c->n_blocks = trf__ceil_div(c->facts.pairs, TRF__POOL_BLOCK);
        c->n_pools = trf__ceil_div(c->n_blocks, c->options.pool);
        pool = trf__min64(pool, (int64_t)c->options.pool * TRF__POOL_BLOCK);
    }
    c->blocks = TRF__TAKE(int32_t, &cursor, c->n_blocks);
    c->pool_of = TRF__TAKE(int32_t, &cursor, c->n_blocks);
    c->n_in_pool = TRF__TAKE(int32_t, &cursor, c->n_pools);
    c->order = TRF__TAKE(int32_t, &cursor, pool);
    c->other = TRF__TAKE(int32_t, &cursor, pool);
    c->counts = TRF__TAKE(int32_t, &cursor, (int64_t)c->facts.longest + 2);
    for (int side = 0; side < 2; side++) {
        c->lengths[side] = TRF__TAKE(int32_t, &cursor, sentences);
        c->batch_ids[side] = TRF__TAKE(int32_t, &cursor, ids);
    }
    return cursor.used;
}

TRF__FN trf_status trf__corpus_reserve(trf_corpus *c, trf_error *err)
{
    if (c->memory) return TRF_OK;
    c->memory_bytes = trf__corpus_layout(c, NULL);
    c->memory = trf__alloc(&c->options.hooks, c->memory_bytes);
    TRF__FAIL_IF(!c->memory, TRF_E_NOMEM, -1, "corpus", "no memory to deliver %lld pairs",
                 (long long)c->facts.pairs);
    trf__corpus_layout(c, c->memory);
    return TRF_OK;
}

TRF__FN void trf__corpus_unreserve(trf_corpus *c)
{
    trf__free(&c->options.hooks, c->memory, c->memory_bytes);
    c->memory = NULL;
    c->planned = c->counted = -1;
}

/* Copies the pairs of a batch of the epoch, which is in the plan, into the batch's arrays. */
TRF__FN trf_status trf__corpus_gather(trf_corpus *c, int64_t batch, trf_batch *out, trf_error *err)
{
    int64_t begin = c->other[batch - c->first_batch], i;
    int32_t *source = c->batch_ids[0], *target = c->batch_ids[1];
    if (c->file && c->options.pool) {
        int64_t first = c->pool * c->options.pool;
        TRF__TRY(trf__token_load(c->file, c->blocks + first,
                                 trf__min64(c->options.pool, c->n_blocks - first), err));
    }
    for (i = begin; i < c->n_ordered && (i == begin || c->order[i] >= 0); i++) {
        int32_t number = i == begin ? ~c->order[i] : c->order[i];
        int32_t n_source = trf__corpus_length(c, number, 0);
        int32_t n_target = trf__corpus_length(c, number, 1);
        if (c->file) TRF__TRY(trf__token_read(c->file, number, source, target, err));
        else {
            const int32_t *ids = c->ids + c->pairs[number].begin;
            memcpy(source, ids, (size_t)n_source * sizeof *ids);
            memcpy(target, ids + n_source, (size_t)n_target * sizeof *ids);
        }
        source += n_source;
        target += n_target;
        c->lengths[0][i - begin] = n_source;
        c->lengths[1][i - begin] = n_target;
    }
    out->source.ids = c->batch_ids[0];
    out->target.ids = c->batch_ids[1];
    out->source.lengths = c->lengths[0];
    out->target.lengths = c->lengths[1];
    out->source.count = out->target.count = (int32_t)(i - begin);
    out->ordinal = 0;
    return TRF_OK;
}

TRF__FN void trf__corpus_rewind(trf_corpus *c)
{
    c->facts.epoch = c->batch = c->put_epoch = c->put_batch = 0;
}

/* Moves to a position as if everything before it had been delivered. TRF_E_STATE if the data have
   no such position. The end of an epoch is the beginning of the next one. */
TRF__FN trf_status trf__corpus_seek(trf_corpus *c, int64_t epoch, int64_t batch, trf_error *err)
{
    int first = !c->memory;
    int outside = epoch < 0 || batch < 0 || epoch > c->options.epochs ||
        (epoch == c->options.epochs && batch > 0);
    if (c->facts.pairs == 0) outside = epoch != 0 || batch != 0;
    if (!outside && c->facts.pairs > 0) {
        TRF__TRY(trf__corpus_reserve(c, err));
        if (batch > 0) {
            trf__corpus_plan(c, epoch, batch);
            outside = batch > trf__corpus_planned(c);
            if (batch == trf__corpus_planned(c)) { epoch++; batch = 0; }
        }
    }
    if (outside) {
        /* a failure leaves no buffers that were not there: pairs can still be added */
        if (first) trf__corpus_unreserve(c);
        return trf__fail(err, TRF_E_STATE, -1, "corpus",
                         "the data have no batch %lld of epoch %lld",
                         (long long)batch, (long long)epoch);
    }
    c->facts.epoch = c->put_epoch = epoch;
    c->batch = c->put_batch = batch;
    return TRF_OK;
}

/* Two corpora with the same fingerprint deliver the same batches (except by a chance of 1 in 2^64).
   It does not depend on what has been delivered so far, nor on the number of epochs. */
TRF__FN uint64_t trf__corpus_fingerprint(const trf_corpus *c)
{
    const trf_corpus_options *o = &c->options;
    uint64_t hash = trf__hash_add(c->hash, (uint64_t)c->facts.pairs);
    hash = trf__hash_add(hash, (uint64_t)o->batch_tokens);
    hash = trf__hash_add(hash, (uint64_t)o->batch_sentences);
    hash = trf__hash_add(hash, (uint64_t)(o->padded_budget + 2 * o->shuffle + 4 * o->buckets +
                                          8 * (int64_t)o->pool));
    return trf__hash_add(hash, o->seed);
}

/* The place of the next batch. */
TRF__FN trf_place trf__corpus_place(const trf_corpus *c)
{
    const trf_place place = {trf__corpus_fingerprint(c), c->facts.epoch, c->batch};
    return place;
}

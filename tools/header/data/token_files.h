#pragma once
#include "api/basics.h"
#include "api/vocab.h"
#include "api/files.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "system/text.h"
#include "system/files.h"
#include "text/vocab.h"
#include "text/vocab_use.h"

// -----------------------------------------------------------------------------------------------
// >>token-files    pairs of ids in a file, for a corpus larger than memory
//
// A file is a head, blocks of pairs, and an end. Numbers are unsigned and little-endian.
//
//     head     0   8  "TRFTOKEN"
//              8   4  1, the version
//             12   4  bytes of an id: 2 or 4. The label -1 has all bits set
//             16   4  bytes of a length: 2 if max_length < 65536, else 4
//             20   4  max_length
//             24  16  fingerprints of the vocabularies of source and target; 0: none
//             40   4  CRC-32 of bytes 0..39
//     block    0   4  number of its pairs n, 1..1024
//              4   8  number of pairs before it
//             12   8  bytes of its records
//             20   8  mark of its last pair
//             28      n times: length of the source, length of the target
//                  4  CRC-32 of the block so far
//                     n records: CRC-32 of the ids, 4 bytes; ids of the source; ids of the target
//     end      0  28  as a block with n = 0: pairs before it, 0, mark of the last pair
//             28  16  number of ids of all sources; of all targets
//             44  16  number of unk among these
//             60   8  fingerprint of the pairs (trf__hash_pair)
//             68   4  ids of the longest side
//             72   4  CRC-32 of the end so far
//
// A block ends after 1024 pairs, or when its records have 1 MiB. So the bytes of a file depend on
// its pairs and marks alone, not on where writing was interrupted. A reader has the lengths of all
// pairs and the position of each block; the position of a record follows from the lengths before it
// in its block. Each record has a checksum of its own, so that one pair can be checked without the
// pairs around it. Files are larger by 8 bytes a pair than their ids.
// -----------------------------------------------------------------------------------------------

enum { TRF__TOKEN_HEAD = 44, TRF__TOKEN_BLOCK = 28, TRF__TOKEN_END = 76, TRF__BLOCK_PAIRS = 1024,
       TRF__BLOCK_BYTES = 1 << 20,
       /* the longest block without its records */
       TRF__BLOCK_TOP = TRF__TOKEN_BLOCK + TRF__BLOCK_PAIRS * 8 + 4 };

typedef struct trf__token_block {
    int64_t first;              /* number of its first pair */
    int64_t records;            /* position of its records */
} trf__token_block;

/* What a block of a pool occupies of the file, and where its bytes are in memory. */
typedef struct trf__token_piece { int64_t at, bytes, offset; } trf__token_piece;

/* What reader and writer have in common. */
typedef struct trf__token_form {
    int32_t id_bytes, length_bytes, max_length;
    unsigned char head[TRF__TOKEN_HEAD];
    trf_token_facts facts;      /* of the whole file, or so far */
    uint64_t hash;
    trf__crc crc;               /* its tables */
} trf__token_form;

typedef struct trf__token_reader {
    trf_hooks hooks;
    trf__token_form form;
    char *path;
    int fd;
    int64_t bytes;              /* of the file */
    unsigned char top[TRF__BLOCK_TOP];      /* of the block read last; or the end */
    unsigned char *lengths;     /* of all pairs; not of a file that is continued */
    int64_t length_capacity;    /* in bytes */
    trf__token_block *blocks;
    int64_t n_blocks, block_capacity;
    unsigned char *records;
    int64_t record_capacity;
    int32_t *ids;               /* of a pair of a file that is continued */
    int64_t id_capacity;
    trf__token_piece *pieces;   /* of the loaded pool, in the order of the file */
    int64_t n_pieces, piece_capacity;
    unsigned char *loaded;      /* their bytes */
    int64_t loaded_capacity;
} trf__token_reader;

enum { TRF__POOL_BLOCK = 1024 };        /* pairs that the corpus shuffles as one */

/* One step of a running 64-bit hash. */
TRF__FN uint64_t trf__hash_add(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

/* Checks one side of a new pair, number `pair`: length, pointer, and ids (or labels) from `least`
   on. Trainers check the upper bound, because they know the vocabularies. */
TRF__FN trf_status trf__check_pair_side(int32_t max_length, int64_t pair, const int32_t *ids,
                                        int32_t n, int32_t least, const char *what,
                                        const char *n_what, trf_error *err)
{
    if (n < 0) return trf__fail_below(err, n_what, 0, n);
    if (!ids && n > 0) return trf__fail_null(err, what);
    TRF__FAIL_IF(n > max_length, TRF_E_LIMIT, max_length, n_what,
                 "%s of pair %lld must be at most max_length = %d, got %d", n_what, (long long)pair,
                 (int)max_length, (int)n);
    for (int32_t i = 0; i < n; i++)
        TRF__FAIL_IF(ids[i] < least, TRF_E_INVALID_ARG, i, what,
                     "%s must be %d or more, pair %lld has %d at position %d",
                     least ? "labels" : "ids", (int)least, (long long)pair, (int)ids[i], (int)i);
    return TRF_OK;
}

/* least: of labels, -1, or INT32_MIN if they may be numbers (trf_number_label). */
TRF__FN trf_status trf__check_pair(int32_t max_length, int64_t pair, const int32_t *source,
                                   int32_t n_source, const int32_t *target, int32_t n_target,
                                   int32_t least, trf_error *err)
{
    TRF__FAIL_IF(pair == INT32_MAX, TRF_E_LIMIT, -1, "corpus",
                 "expected at most 2147483647 pairs, got more");
    TRF__TRY(trf__check_pair_side(max_length, pair, source, n_source, 0, "source", "n_source",
                                  err));
    return trf__check_pair_side(max_length, pair, target, n_target, least, "target", "n_target",
                                err);
}

/* The fingerprint of the pairs so far and of one more. */
TRF__FN uint64_t trf__hash_pair(uint64_t hash, const int32_t *source, int32_t n_source,
                                const int32_t *target, int32_t n_target)
{
    hash = trf__hash_add(hash, (uint64_t)n_source << 32 | (uint32_t)n_target);
    for (int32_t i = 0; i < n_source; i++) hash = trf__hash_add(hash, (uint64_t)source[i]);
    for (int32_t i = 0; i < n_target; i++) hash = trf__hash_add(hash, (uint64_t)target[i]);
    return hash;
}

/* A fingerprint of what the ids mean. 0: no vocabulary. */
TRF__FN uint64_t trf__vocab_fingerprint(const trf_vocab *v)
{
    if (!v) return 0;
    uint64_t hash = trf__hash_bytes(trf__vocab_bytes(v), (size_t)trf__vocab_n_bytes(v));
    hash = trf__hash_add(hash, (uint64_t)v->kind);
    hash = trf__hash_add(hash, (uint64_t)trf_vocab_size(v));
    for (int i = 0; i < TRF_SPECIAL_COUNT; i++) hash = trf__hash_add(hash, (uint64_t)v->special[i]);
    return hash ? hash : 1;
}

TRF__FN uint32_t trf__token_crc(trf__token_form *form, const void *bytes, int64_t n)
{
    form->crc.value = 0;
    trf__crc_add(&form->crc, bytes, (size_t)n);
    return form->crc.value;
}

/* Appends the CRC-32 of n bytes to them. Returns the bytes with it. */
TRF__FN int64_t trf__token_seal(trf__token_form *form, unsigned char *bytes, int64_t n)
{
    trf__to_little(bytes + n, trf__token_crc(form, bytes, n), 4);
    return n + 4;
}

/* Whether the CRC-32 behind n bytes is theirs. */
TRF__FN int trf__token_sealed(trf__token_form *form, const unsigned char *bytes, int64_t n)
{
    return trf__from_little(bytes + n, 4) == trf__token_crc(form, bytes, n);
}

/* Counts a pair, but not its unk. */
TRF__FN void trf__token_add(trf_token_facts *facts, int32_t n_source, int32_t n_target)
{
    facts->pairs++;
    facts->source_ids += n_source;
    facts->target_ids += n_target;
    facts->longest_source = (int32_t)trf__max64(facts->longest_source, n_source);
    facts->longest_target = (int32_t)trf__max64(facts->longest_target, n_target);
    facts->longest = (int32_t)trf__max64(facts->longest_source, facts->longest_target);
}

/* The bytes of a record. */
TRF__FN int64_t trf__record_bytes(const trf__token_form *form, int64_t n_source, int64_t n_target)
{
    return 4 + (n_source + n_target) * form->id_bytes;
}

/* The length of one side of pair i of a block whose lengths are given. */
TRF__FN int32_t trf__token_length(const trf__token_form *form, const unsigned char *lengths,
                                  int64_t i, int side)
{
    return (int32_t)trf__from_little(lengths + (2 * i + side) * form->length_bytes,
                                     form->length_bytes);
}

// >>token-reading  one pair anywhere in a file
//
// A file may be hostile. Sizes are compared with those of the file before memory is allocated for
// them. All sums stay far below 2^63, because lengths and counts have at most 32 bits.

TRF__FN trf_status trf__token_damaged(trf_error *err, int64_t at, const char *fault)
{
    return trf__fail(err, TRF_E_FORMAT, at, "token file", "byte %lld: %s", (long long)at, fault);
}
#define TRF__DAMAGED_IF(condition, at, fault) \
    do { if (condition) return trf__token_damaged(err, at, fault); } while (0)

/* Reads n bytes at a position that is inside the file. */
TRF__FN trf_status trf__token_bytes(trf__token_reader *r, int64_t at, unsigned char *to, int64_t n,
                                    trf_error *err)
{
    size_t got;
    TRF__DAMAGED_IF(n > r->bytes - at, r->bytes, "the file ends here, too early");
    int error = trf__read_all(r->fd, (uint64_t)at, to, (size_t)n, &got);
    if (error) return trf__fail_io(err, error, r->path, "read it");
    if ((int64_t)got == n) return TRF_OK;
    return trf__token_damaged(err, at + (int64_t)got, "the file became shorter while it was open");
}

TRF__COLD
TRF__FN void trf__token_close(trf__token_reader *r)
{
    if (!r) return;
    trf_hooks hooks = r->hooks;
    if (r->fd >= 0) trf__close(r->fd);
    trf__free(&hooks, r->lengths, trf__bytes(r->length_capacity, 1));
    TRF__FREE(&hooks, r->blocks, r->block_capacity);
    trf__free(&hooks, r->records, trf__bytes(r->record_capacity, 1));
    TRF__FREE(&hooks, r->ids, r->id_capacity);
    TRF__FREE(&hooks, r->pieces, r->piece_capacity);
    trf__free(&hooks, r->loaded, trf__bytes(r->loaded_capacity, 1));
    if (r->path) trf__free(&hooks, r->path, strlen(r->path) + 1);
    trf__free(&hooks, r, sizeof *r);
}

/* Copies a text. NULL: no memory. */
TRF__FN char *trf__copied(const trf_hooks *hooks, const char *text)
{
    char *copy = TRF__NEW(char, hooks, strlen(text) + 1);
    if (copy) memcpy(copy, text, strlen(text) + 1);
    return copy;
}

/* Opens a file and reads its head. The caller closes the reader after a failure too. */
TRF__COLD
TRF__FN trf_status trf__token_open(trf__token_reader **reader, const char *path,
                                   const trf_hooks *hooks, trf_error *err)
{
    trf_os_facts facts;
    TRF__ALLOC_ZEROED(trf__token_reader, *reader, hooks, 1, "token file", "to read a file");
    trf__token_reader *r = *reader;
    trf__token_form *form = &r->form;
    r->hooks = *hooks;
    r->fd = -1;
    r->path = trf__copied(hooks, path);
    TRF__FAIL_IF(!r->path, TRF_E_NOMEM, -1, "token file", "no memory for a path");
    trf__crc_begin(&form->crc);
    TRF__TRY(trf__open_regular(path, &r->fd, &facts, err));
    r->bytes = (int64_t)(facts.size < INT64_MAX ? facts.size : INT64_MAX);
    TRF__DAMAGED_IF(r->bytes < TRF__TOKEN_HEAD, r->bytes, "the file ends within its head");
    TRF__TRY(trf__token_bytes(r, 0, form->head, TRF__TOKEN_HEAD, err));
    TRF__DAMAGED_IF(memcmp(form->head, "TRFTOKEN", 8), 0, "not a token file");
    TRF__DAMAGED_IF(trf__from_little(form->head + 8, 4) != 1, 8,
                    "expected version 1 of token files");
    form->id_bytes = (int32_t)trf__from_little(form->head + 12, 4);
    form->length_bytes = (int32_t)trf__from_little(form->head + 16, 4);
    form->max_length = (int32_t)trf__from_little(form->head + 20, 4);
    TRF__DAMAGED_IF(!trf__token_sealed(form, form->head, TRF__TOKEN_HEAD - 4), 40,
                    "the head is damaged: wrong CRC-32");
    TRF__DAMAGED_IF((form->id_bytes != 2 && form->id_bytes != 4) || form->max_length < 1 ||
                    form->length_bytes != (form->max_length < 65536 ? 2 : 4), 12,
                    "expected ids of 2 or 4 bytes and matching lengths");
    return TRF_OK;
}

/* Reads and checks a block without its records. *n: its pairs. *next: where the next one begins. */
TRF__COLD
TRF__FN trf_status trf__token_top(trf__token_reader *r, int64_t at, int64_t *n, int64_t *next,
                                  trf_error *err)
{
    trf__token_form *form = &r->form;
    trf_token_facts *facts = &form->facts;
    int64_t records, i;
    TRF__TRY(trf__cancel_status(&r->hooks, err));
    TRF__TRY(trf__token_bytes(r, at, r->top, TRF__TOKEN_BLOCK, err));
    *n = (int64_t)trf__from_little(r->top, 4);
    TRF__DAMAGED_IF(*n < 1 || *n > TRF__BLOCK_PAIRS, at, "expected a block of 1 to 1024 pairs");
    int64_t bytes = TRF__TOKEN_BLOCK + *n * 2 * form->length_bytes;
    TRF__TRY(trf__token_bytes(r, at + TRF__TOKEN_BLOCK, r->top + TRF__TOKEN_BLOCK,
                              bytes + 4 - TRF__TOKEN_BLOCK, err));
    TRF__DAMAGED_IF(!trf__token_sealed(form, r->top, bytes), at,
                    "the block that begins here is damaged: wrong CRC-32");
    TRF__DAMAGED_IF(trf__from_little(r->top + 4, 8) != (uint64_t)facts->pairs, at + 4,
                    "wrong number of pairs before this block");
    for (records = i = 0; i < *n; i++) {
        int32_t source = trf__token_length(form, r->top + TRF__TOKEN_BLOCK, i, 0);
        int32_t target = trf__token_length(form, r->top + TRF__TOKEN_BLOCK, i, 1);
        if (source < 0 || target < 0 || source > form->max_length || target > form->max_length)
            return trf__token_damaged(err, at + TRF__TOKEN_BLOCK + i * 2 * form->length_bytes,
                                      "a length is above max_length");
        records += trf__record_bytes(form, source, target);
        trf__token_add(facts, source, target);
    }
    TRF__DAMAGED_IF(trf__from_little(r->top + 12, 8) != (uint64_t)records, at + 12,
                    "expected the bytes of the block's records");
    *next = at + bytes + 4 + records;
    TRF__DAMAGED_IF(*next > r->bytes, r->bytes, "the file ends within the records of a block");
    facts->mark = (int64_t)trf__from_little(r->top + 20, 8);
    return TRF_OK;
}

/* Copies the ids of one side of a record. Returns whether none is below `least`. */
TRF__FN int trf__token_ids(const trf__token_form *form, const unsigned char *from, int32_t n,
                           int32_t least, int32_t *ids)
{
    int32_t lowest = 0;
    if (form->id_bytes == 2)
        for (int32_t i = 0; i < n; i++) {
            int32_t id = (int32_t)(from[2 * i] | (uint32_t)from[2 * i + 1] << 8);
            ids[i] = id == 0xFFFF ? -1 : id;
            lowest = ids[i] < lowest ? ids[i] : lowest;
        }
    else
        for (int32_t i = 0; i < n; i++) {
            ids[i] = (int32_t)trf__from_little(from + 4 * (int64_t)i, 4);
            lowest = ids[i] < lowest ? ids[i] : lowest;
        }
    return lowest >= least;
}

/* Takes a record apart whose bytes are at `record`, and at position `at` of the file. */
TRF__FN trf_status trf__token_record(trf__token_form *form, const unsigned char *record, int64_t at,
                                     int32_t n_source, int32_t n_target, int32_t *source,
                                     int32_t *target, trf_error *err)
{
    int64_t bytes = trf__record_bytes(form, n_source, n_target) - 4;
    const unsigned char *ids = record + 4;
    TRF__DAMAGED_IF(trf__from_little(record, 4) != trf__token_crc(form, ids, bytes), at,
                    "the pair that begins here is damaged: wrong CRC-32");
    if (trf__token_ids(form, ids, n_source, 0, source) &&
        trf__token_ids(form, ids + (int64_t)n_source * form->id_bytes, n_target, -1, target))
        return TRF_OK;
    return trf__token_damaged(err, at, "a negative id in the pair that begins here");
}

/* The length of one side of a pair of an indexed file. */
TRF__FN int32_t trf__token_pair_length(const trf__token_reader *r, int64_t pair, int side)
{
    return trf__token_length(&r->form, r->lengths, pair, side);
}

/* The position of a pair's record. */
TRF__FN int64_t trf__token_position(const trf__token_reader *r, int64_t pair)
{
    const trf__token_form *form = &r->form;
    int64_t behind = 1, ids = 0;
    TRF__BISECT(behind, r->n_blocks, r->blocks[middle].first <= pair);
    const trf__token_block *block = &r->blocks[behind - 1];     /* the one that has the pair */
    for (int64_t i = 2 * block->first; i < 2 * pair; i++)
        ids += (int64_t)trf__from_little(r->lengths + i * form->length_bytes, form->length_bytes);
    return block->records + (pair - block->first) * 4 + ids * form->id_bytes;
}

/* The bytes of a pair's record. */
TRF__FN int64_t trf__token_size(const trf__token_reader *r, int64_t pair)
{
    return trf__record_bytes(&r->form, trf__token_pair_length(r, pair, 0),
                             trf__token_pair_length(r, pair, 1));
}

/* Reads the blocks of a pool from the front of the file to its back, unless they are loaded. */
TRF__FN trf_status trf__token_load(trf__token_reader *r, const int32_t *blocks, int64_t n,
                                   trf_error *err)
{
    trf_status status = TRF_OK;
    int64_t used = 0;
    if (r->n_pieces) return TRF_OK;
    TRF__GROW(trf__token_piece, r->pieces, r->piece_capacity, n, &r->hooks);
    for (int64_t i = 0; i < n; i++) {
        trf__token_piece *piece = &r->pieces[i];
        int64_t first = (int64_t)blocks[i] * TRF__POOL_BLOCK;
        int64_t last = trf__min64(first + TRF__POOL_BLOCK, r->form.facts.pairs) - 1;
        piece->at = trf__token_position(r, first);
        piece->bytes = trf__token_position(r, last) + trf__token_size(r, last) - piece->at;
        piece->offset = used;
        used += piece->bytes;
    }
    if (used > r->loaded_capacity) {        /* the bytes of the pool before are not copied */
        trf__free(&r->hooks, r->loaded, trf__bytes(r->loaded_capacity, 1));
        r->loaded = NULL;
        r->loaded_capacity = 0;
    }
    TRF__GROW(unsigned char, r->loaded, r->loaded_capacity, used, &r->hooks);
    for (int64_t i = 0; i < n && !status; i++)
        status = trf__token_bytes(r, r->pieces[i].at, r->loaded + r->pieces[i].offset,
                                  r->pieces[i].bytes, err);
    if (!status) r->n_pieces = n;
    return trf__name_file(status, r->path, err);
}

/* Reads one pair: the corpus has room for its ids. */
TRF__FN trf_status trf__token_read(trf__token_reader *r, int64_t pair, int32_t *source,
                                   int32_t *target, trf_error *err)
{
    int64_t at = trf__token_position(r, pair), behind = 1;
    const unsigned char *record = r->records;
    trf_status status = TRF_OK;
    if (r->n_pieces) {
        TRF__BISECT(behind, r->n_pieces, r->pieces[middle].at <= at);
        record = r->loaded + r->pieces[behind - 1].offset + (at - r->pieces[behind - 1].at);
    } else status = trf__token_bytes(r, at, r->records, trf__token_size(r, pair), err);
    if (!status)
        status = trf__token_record(&r->form, record, at, trf__token_pair_length(r, pair, 0),
                                   trf__token_pair_length(r, pair, 1), source, target, err);
    return trf__name_file(status, r->path, err);
}

// >>token-index    opening a file: the lengths of all pairs
//
// The end comes first, because it has the number of pairs. Then the blocks must have what it says.

/* Reads the end of the file: what all blocks together must have. */
TRF__COLD
TRF__FN trf_status trf__token_end(trf__token_reader *r, trf_token_facts *facts, trf_error *err)
{
    int64_t at = r->bytes - TRF__TOKEN_END;
    unsigned char *end = r->top;
    int64_t *const counts[4] = {&facts->source_ids, &facts->target_ids, &facts->source_unknown,
                                &facts->target_unknown};
    TRF__DAMAGED_IF(at < TRF__TOKEN_HEAD, r->bytes,
                    "the file ends here: it was cut or never finished");
    TRF__TRY(trf__token_bytes(r, at, end, TRF__TOKEN_END, err));
    TRF__DAMAGED_IF(trf__from_little(end, 4) != 0 || !trf__token_sealed(&r->form, end,
                    TRF__TOKEN_END - 4), at,
                    "expected the end of a token file: it is damaged, was cut or never finished");
    facts->pairs = (int64_t)trf__from_little(end + 4, 8);
    facts->mark = (int64_t)trf__from_little(end + 20, 8);
    for (int64_t i = 0; i < 4; i++) *counts[i] = (int64_t)trf__from_little(end + 28 + 8 * i, 8);
    r->form.hash = trf__from_little(end + 60, 8);
    facts->longest = (int32_t)trf__from_little(end + 68, 4);
    /* before memory is allocated for it */
    TRF__DAMAGED_IF(facts->pairs < 0 || facts->pairs > INT32_MAX ||
                    facts->pairs > r->bytes / (2 * r->form.length_bytes + 4), at + 4,
                    "more pairs than the file has room for");
    return TRF_OK;
}

/* Reads all lengths, and compares their sums with the end of the file. */
TRF__COLD
TRF__FN trf_status trf__token_index(trf__token_reader *r, trf_error *err)
{
    trf_token_facts *facts = &r->form.facts;
    int64_t at = TRF__TOKEN_HEAD, end = r->bytes - TRF__TOKEN_END, pair = 2 * r->form.length_bytes;
    TRF__ZEROED(trf_token_facts, all);
    TRF__TRY(trf__token_end(r, &all, err));
    r->length_capacity = all.pairs * pair;
    TRF__ALLOC(unsigned char, r->lengths, &r->hooks, r->length_capacity, "token file",
               "for the lengths of %lld pairs", (long long)all.pairs);
    while (at < end) {
        int64_t first = facts->pairs, n, next;
        TRF__TRY(trf__token_top(r, at, &n, &next, err));
        TRF__DAMAGED_IF(next > end || facts->pairs > all.pairs, at,
                        "the blocks have more than the end of the file says");
        TRF__GROW(trf__token_block, r->blocks, r->block_capacity, r->n_blocks + 1, &r->hooks);
        memcpy(r->lengths + first * pair, r->top + TRF__TOKEN_BLOCK, (size_t)(n * pair));
        r->blocks[r->n_blocks].first = first;
        r->blocks[r->n_blocks++].records = at + TRF__TOKEN_BLOCK + n * pair + 4;
        at = next;
    }
    TRF__DAMAGED_IF(facts->pairs != all.pairs || facts->source_ids != all.source_ids ||
                    facts->target_ids != all.target_ids || facts->longest != all.longest, end,
                    "the blocks have less than the end of the file says");
    all.longest_source = facts->longest_source;
    all.longest_target = facts->longest_target;
    *facts = all;
    r->record_capacity = trf__record_bytes(&r->form, all.longest, all.longest);
    r->records = (unsigned char *)trf__alloc(&r->hooks, trf__bytes(r->record_capacity, 1));
    return TRF__OK_IF(r->records, TRF_E_NOMEM, -1, "token file",
                      "no memory for a pair of %d ids a side", (int)all.longest);
}

/* Refuses a file that was written with another vocabulary. */
TRF__FN trf_status trf__token_vocab(const trf__token_reader *r, int side, const trf_vocab *vocab,
                                    trf_error *err)
{
    uint64_t stored = trf__from_little(r->form.head + 24 + 8 * side, 8);
    if (vocab && !vocab->finished) return trf__fail_learning(err);
    if (!vocab || !stored || stored == trf__vocab_fingerprint(vocab)) return TRF_OK;
    return trf__fail(err, TRF_E_INVALID_ARG, -1, side ? "target_vocab" : "source_vocab",
                     "the file was written with another vocabulary of the %s",
                     side ? "target" : "source");
}

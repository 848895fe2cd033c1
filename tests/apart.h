/* A device apart, for tests: the CPU's ops behind memory that the host cannot reach. The device's memory is a mapping
   of its own, which is PROT_NONE but inside an op or a verb, so that any host access faults; an op that is given a
   pointer to anything else aborts. Downloads happen when sync is called and not before: until then the host's memory
   is 0xA5. What crosses the seam is counted, and memory and sync can be made to fail.
   kit.h includes this where TRF__TEST_BACKEND is defined (as apart_backend). */
#ifndef APART_H
#define APART_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { APART_GUARD = 64, APART_PAGE = 2 << 20, APART_POISON = 4 << 20 };
#define APART_SIZE ((size_t)1 << 34)

typedef struct apart_counts {
    int64_t uploads, downloads, zeroes, copies, fetches, syncs, idle_syncs, allocs;     /* idle: brought nothing */
#define X(name, type) int64_t name;     /* calls of each op */
    TRF__OPS(X)
#undef X
} apart_counts;

typedef struct apart_block { size_t begin, bytes; } apart_block;
typedef struct apart_late { const trf__run *run; void *to, *numbers; size_t bytes; } apart_late;

static struct apart {
    pthread_mutex_t lock;
    int off;                            /* 1: objects made now compute on the plain CPU */
    apart_counts n;
    int trains_on_copies;               /* 1: it wants copies of a trainer's weights too */
    int64_t fills;                      /* training batches are filled up to multiples of this; 0: not */
    int64_t fail_alloc, fail_sync;      /* the alloc that finds nothing; from this sync on, the device is broken */
    const trf__backend *cpu;
    char *base;
    size_t opened;                      /* bytes that may be accessed now, or are used */
    int inside;                         /* ops and verbs now */
    apart_block *blocks; int n_blocks;  /* in order; behind each, APART_GUARD bytes */
    apart_late *late; int n_late;
} apart = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void apart_abort(const char *what)
{
    fprintf(stderr, "apart: %s\n", what);
    abort();
}

static void apart_protect(size_t from, size_t to, int protection)
{
    if (to > from && mprotect(apart.base + from, to - from, protection)) apart_abort("mprotect failed");
}

/* Between these two, which may be nested, the device's memory can be read and written. */
static KIT_UNUSED void apart_enter(void)
{
    pthread_mutex_lock(&apart.lock);
    if (apart.inside++ == 0) apart_protect(0, apart.opened, PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&apart.lock);
}
static KIT_UNUSED void apart_leave(void)
{
    pthread_mutex_lock(&apart.lock);
    if (--apart.inside == 0) apart_protect(0, apart.opened, PROT_NONE);
    pthread_mutex_unlock(&apart.lock);
}

/* -----------------------------------------------------------------------------------------------
   Whose memory an address is in. */

static int apart_mapped(const void *p)
{
    return apart.base && (const char *)p >= apart.base && (const char *)p < apart.base + APART_SIZE;
}

/* What verbs get lies in one block. */
static void apart_within(const void *p, size_t bytes)
{
    size_t at = (size_t)((const char *)p - apart.base);
    int low = 0, high;
    if (!apart_mapped(p)) apart_abort("a verb got an address of the host");
    pthread_mutex_lock(&apart.lock);
    for (high = apart.n_blocks; high - low > 1; ) {         /* the last block that begins at or before it */
        int middle = low + (high - low) / 2;
        if (apart.blocks[middle].begin <= at) low = middle; else high = middle;
    }
    if (apart.n_blocks == 0 || at < apart.blocks[low].begin || bytes > apart.blocks[low].bytes ||
        at > apart.blocks[low].begin + apart.blocks[low].bytes - bytes)
        apart_abort("a verb got memory that is not in one block");
    pthread_mutex_unlock(&apart.lock);
}

static void apart_not(const void *p)
{
    if (apart_mapped(p)) apart_abort("an address of the device where the host's belongs");
}

/* What ops get: every pointer of the struct, which, where there are no rows, may lie behind its block. An op without
   such a function does not compile. */
static void apart_see(const void *p)
{
    if (p && !apart_mapped(p)) apart_abort("an op got an address of the host");
}
#define ON(pointer)  apart_see(pointer)
#define ROWS(at)     do { ON((at).sentence); ON((at).position); } while (0)
#define MAT(w)       do { ON((w).plain); ON((w).packed); } while (0)
#define KEYS(in)     do { ON((in).q); ON((in).k); ON((in).v); ON((in).spans); ON((in).key_rows); } while (0)
static void see_embed(const trf__embed *j) { ON(j->y); MAT(j->weight); ON(j->table); ON(j->ids); ROWS(j->at); }
static void see_linear(const trf__linear *j) { ON(j->y); ON(j->x); MAT(j->w); ON(j->b); }
static void see_activate(const trf__activate *j) { ON(j->a); ON(j->h); ROWS(j->at); }
static void see_attention(const trf__attention *j) { KEYS(j->in); ON(j->out); ON(j->stats); }
static void see_attention_weights(const trf__attention_weights *j) { KEYS(j->in); ON(j->weights); }
static void see_add_norm(const trf__norm *j)
{
    ON(j->s); ON(j->y); ON(j->stats); ON(j->x); ON(j->sub); ON(j->gain); ON(j->bias); ROWS(j->at);
}
static void see_pool(const trf__pool *j) { ON(j->to); ON(j->from); ON(j->spans); }
static void see_cross_entropy(const trf__loss *j)
{
    ON(j->row_loss); ON(j->row_nll); ON(j->sums); ON(j->slots); ON(j->room); ON(j->dx); ON(j->dw); ON(j->db);
    ON(j->x); MAT(j->w); ON(j->bias); ON(j->targets);
}
static void see_top(const trf__top *j)
{
    ON(j->log_probabilities); ON(j->ids); ON(j->room); ON(j->x); MAT(j->w); ON(j->bias); ON(j->only);
}
static void see_backpointers(const trf__backpointers *j)
{
    ON(j->to); ON(j->from); ON(j->parents); ON(j->position); ON(j->slots);
}
static void see_append_kv(const trf__append_kv *j) { ON(j->cache); ON(j->fresh); ON(j->slots); }
static void see_reorder(const trf__reorder *j)
{
    ON(j->beams); ON(j->live); ON(j->starts); ON(j->sources); ON(j->progress); ON(j->log_probabilities); ON(j->found);
    ON(j->ids); ON(j->parents); ON(j->position); ON(j->only); ON(j->slots); ON(j->self); ON(j->cross);
}
static void see_pack(const trf__pack *j) { ON(j->packed); ON(j->weights); }
#if !defined(TRF_NO_TRAIN)
static void see_embed_gradient(const trf__embed_gradient *j)
{
    ON(j->dweight); ON(j->dtable); ON(j->dy); ON(j->ids); ON(j->groups.rows); ON(j->groups.first); ROWS(j->at);
}
static void see_linear_dx(const trf__linear_dx *j) { ON(j->dx); ON(j->dy); MAT(j->w); }
static void see_activate_gradient(const trf__activate_gradient *j) { ON(j->dh); ON(j->da); ON(j->h); ROWS(j->at); }
static void see_attention_gradient(const trf__attention_gradient *j)
{
    KEYS(j->in); ON(j->dq); ON(j->dk); ON(j->dv); ON(j->dout); ON(j->out); ON(j->stats);
}
static void see_norm_gradient(const trf__norm_gradient *j)
{
    ON(j->ds); ON(j->dsub); ON(j->dgain); ON(j->dbias); ON(j->dy); ON(j->dy2); ON(j->ds_in); ON(j->s); ON(j->stats);
    ON(j->gain); ROWS(j->at);
}
static void see_pool_gradient(const trf__pool *j) { see_pool(j); }
static void see_clip(const trf__clip *j)
{
    ON(j->clip_result); ON(j->partial); ON(j->gradients); ON(j->slots); ON(j->tiles);
}
static void see_adam(const trf__adam *j)
{
    ON(j->p); ON(j->m); ON(j->v); ON(j->packed); ON(j->g); ON(j->tiles); ON(j->clip_result);
}
#endif

static void apart_count(int64_t *calls)
{
    pthread_mutex_lock(&apart.lock);
    ++*calls;
    pthread_mutex_unlock(&apart.lock);
}

#define X(name, type) \
    static void apart_##name(const trf__run *run, const type *job) \
    { \
        see_##name(job); \
        ON(run->now); \
        apart_count(&apart.n.name); \
        apart_enter(); \
        apart.cpu->name(run, job); \
        apart_leave(); \
    }
TRF__OPS(X)
#undef X

#if !defined(TRF_NO_TRAIN)
static void apart_linear_dw(const trf__run *run, const trf__linear_dw *products, int n)
{
    int i;
    for (i = 0; i < n; i++) { ON(products[i].dw); ON(products[i].db); ON(products[i].dy); ON(products[i].x); }
    apart_enter();
    apart.cpu->linear_dw(run, products, n);
    apart_leave();
}
#endif
#undef ON
#undef ROWS
#undef MAT
#undef KEYS

/* -----------------------------------------------------------------------------------------------
   Memory: blocks of the mapping, aligned to 64 bytes, first fit. A program's counting allocator counts them too, and
   may refuse them, as if they came from its hooks. */

static void apart_insert(int at, size_t begin, size_t bytes)
{
    apart_block *grown = (apart_block *)realloc(apart.blocks, (size_t)(apart.n_blocks + 1) * sizeof *grown);
    if (!grown) apart_abort("no memory for the list of blocks");
    apart.blocks = grown;
    memmove(grown + at + 1, grown + at, (size_t)(apart.n_blocks++ - at) * sizeof *grown);
    grown[at].begin = begin;
    grown[at].bytes = bytes;
}

static void *apart_alloc(const trf__run *run, size_t bytes)
{
    size_t begin = 0, top;
    char *memory = NULL;
    int i;
    if (bytes == 0) bytes = 1;
    if (bytes > APART_SIZE / 2) return NULL;
    pthread_mutex_lock(&apart.lock);
    if (!apart.base) {
        size_t mapped = APART_SIZE + APART_PAGE;
        apart.base = (char *)mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (apart.base == MAP_FAILED) apart_abort("no address space for the device");
        apart.base += (APART_PAGE - (uintptr_t)apart.base % APART_PAGE) % APART_PAGE;
        madvise(apart.base, APART_SIZE, MADV_HUGEPAGE);
    }
    for (i = 0; i < apart.n_blocks && apart.blocks[i].begin - begin < bytes + APART_GUARD; i++)
        begin = (apart.blocks[i].begin + apart.blocks[i].bytes + APART_GUARD + 63) / 64 * 64;
    top = (begin + bytes + APART_GUARD + APART_PAGE - 1) / APART_PAGE * APART_PAGE;
    if (++apart.n.allocs != apart.fail_alloc && top <= APART_SIZE && kit_counts(&run->hooks, bytes)) {
        apart_insert(i, begin, bytes);
        if (apart.inside > 0) apart_protect(apart.opened, top, PROT_READ | PROT_WRITE);
        if (top > apart.opened) apart.opened = top;
        memory = apart.base + begin;
    }
    pthread_mutex_unlock(&apart.lock);
    if (!memory) return NULL;
    apart_enter();
    memset(memory, 0xA5, bytes < APART_POISON ? bytes : APART_POISON);
    memset(memory + bytes, 0xC7, APART_GUARD);
    apart_leave();
    return memory;
}

static void apart_release(const trf__run *run, void *memory, size_t bytes)
{
    const unsigned char *guard = (const unsigned char *)memory + (bytes ? bytes : 1);
    size_t top = 0;
    int i, k;
    if (!memory) return;
    if (bytes == 0) bytes = 1;
    if (!apart_mapped(memory)) apart_abort("freed memory that is not the device's");
    apart_enter();
    pthread_mutex_lock(&apart.lock);
    for (i = 0; i < apart.n_blocks && apart.base + apart.blocks[i].begin != memory; i++) { }
    if (i == apart.n_blocks) apart_abort("freed what is no block, or twice");
    if (apart.blocks[i].bytes != bytes) apart_abort("freed with another size");
    for (k = 0; k < APART_GUARD; k++) if (guard[k] != 0xC7) apart_abort("written behind the end of a block");
    memset(memory, 0x5A, bytes < APART_POISON ? bytes : APART_POISON);
    memmove(apart.blocks + i, apart.blocks + i + 1, (size_t)(--apart.n_blocks - i) * sizeof *apart.blocks);
    if (apart.n_blocks > 0)
        top = apart.blocks[apart.n_blocks - 1].begin + apart.blocks[apart.n_blocks - 1].bytes + APART_GUARD;
    top = (top + APART_PAGE - 1) / APART_PAGE * APART_PAGE;
    if (top < apart.opened) {
        madvise(apart.base + top, apart.opened - top, MADV_DONTNEED);
        apart_protect(top, apart.opened, PROT_NONE);
        apart.opened = top;
    }
    kit_counts_back(&run->hooks, bytes);
    pthread_mutex_unlock(&apart.lock);
    apart_leave();
}

static void apart_zero(const trf__run *run, void *memory, size_t bytes)
{
    apart_within(memory, bytes);
    apart_count(&apart.n.zeroes);
    apart_enter();
    apart.cpu->zero(run, memory, bytes);
    apart_leave();
}

static void apart_copy(const trf__run *run, void *to, const void *from, size_t bytes)
{
    apart_within(to, bytes);
    apart_within(from, bytes);
    apart_count(&apart.n.copies);
    apart_enter();
    apart.cpu->copy(run, to, from, bytes);
    apart_leave();
}

static void apart_upload(const trf__run *run, void *to, const void *from, size_t bytes)
{
    apart_within(to, bytes);
    apart_not(from);
    apart_count(&apart.n.uploads);
    apart_enter();
    apart.cpu->upload(run, to, from, bytes);
    apart_leave();
}

/* Room for numbers that come with the next sync of this run. */
static void *apart_later(const trf__run *run, void *to, size_t bytes, int64_t *count)
{
    apart_late *grown;
    apart_not(to);
    pthread_mutex_lock(&apart.lock);
    ++*count;
    grown = (apart_late *)realloc(apart.late, (size_t)(apart.n_late + 1) * sizeof *grown);
    if (!grown) apart_abort("no memory for downloads");
    apart.late = grown;
    grown += apart.n_late++;
    grown->run = run;
    grown->to = to;
    grown->bytes = bytes;
    grown->numbers = malloc(bytes + 1);
    if (!grown->numbers) apart_abort("no memory for a download");
    if (bytes > 0) memset(to, 0xA5, bytes);
    to = grown->numbers;
    pthread_mutex_unlock(&apart.lock);
    return to;
}

static void apart_feed(const trf__run *run, trf__act *to, const trf_real *from, int64_t n)
{
    apart_upload(run, to, from, (size_t)n * sizeof *from);
}

static void apart_download(const trf__run *run, void *to, const void *from, size_t bytes)
{
    void *numbers = apart_later(run, to, bytes, &apart.n.downloads);
    apart_within(from, bytes);
    apart_enter();
    apart.cpu->download(run, numbers, from, bytes);
    apart_leave();
}

static void apart_fetch(const trf__run *run, trf_real *to, const trf__act *from, int64_t n)
{
    size_t bytes = (size_t)n * sizeof *to;
    void *numbers = apart_later(run, to, bytes, &apart.n.fetches);
    apart_within(from, bytes);
    apart_enter();
    apart.cpu->fetch(run, (trf_real *)numbers, from, n);
    apart_leave();
}

static trf_status apart_sync(const trf__run *run, trf_error *err)
{
    int i, kept = 0, broken;
    pthread_mutex_lock(&apart.lock);
    apart.n.syncs++;
    broken = apart.fail_sync && apart.n.syncs >= apart.fail_sync;
    for (i = 0; i < apart.n_late; i++) {
        apart_late late = apart.late[i];
        if (late.run != run) { apart.late[kept++] = late; continue; }
        if (!broken && late.bytes > 0) memcpy(late.to, late.numbers, late.bytes);
        free(late.numbers);
    }
    if (kept == apart.n_late) apart.n.idle_syncs++;
    apart.n_late = kept;
    pthread_mutex_unlock(&apart.lock);
    return broken ? trf__fail(err, TRF_E_BACKEND, -1, "apart", "the device is out of order") : TRF_OK;
}

/* State and sizes are the CPU's. */
static trf_status apart_probe(const trf_device *device, trf_error *err) { return apart.cpu->probe(device, err); }
static trf_status apart_open(trf__run *run, trf_error *err) { return apart.cpu->open(run, err); }
static trf_status apart_reserve(trf__run *run, int64_t longest, int64_t d_head, int64_t weight, trf_error *err)
{
    return apart.cpu->reserve(run, longest, d_head, weight, err);
}
static void apart_close(trf__run *run) { apart.cpu->close(run); }
static size_t apart_state_bytes(const trf__run *run, int64_t longest, int64_t d_head, int64_t weight)
{
    return apart.cpu->state_bytes(run, longest, d_head, weight);
}
static void *apart_stream(const trf__run *run) { return apart.cpu->stream(run); }
static int64_t apart_padded(const trf__run *run, int64_t n)
{
    (void)run;
    return apart.fills ? trf__round_up(n, apart.fills) : n;
}
static int apart_replay(const trf__run *run, const trf__shape *shape) { return apart.cpu->replay(run, shape); }
static int apart_end_list(const trf__run *run, int whole) { return apart.cpu->end_list(run, whole); }
static size_t apart_element(const trf_device *device) { return apart.cpu->element(device); }
static size_t apart_loss_scratch(const trf_device *device, int64_t rows, int64_t vocab, int64_t d, int copied)
{
    return apart.cpu->loss_scratch(device, rows, vocab, d, copied);
}
static size_t apart_top_scratch(const trf_device *device, int64_t rows, int64_t vocab, int64_t n)
{
    return apart.cpu->top_scratch(device, rows, vocab, n);
}
static int apart_packs(const trf_device *device, int training)
{
    return apart.cpu->packs(device, training && !apart.trains_on_copies);
}
static size_t apart_packed_bytes(int format, int64_t out, int64_t in)
{
    return apart.cpu->packed_bytes(format, out, in);
}

/* Every field in its order, so that a new one is not left to the CPU. */
#define X(name, type) , apart_##name
#define VERB(result, name, arguments) , apart_##name
static const trf__backend apart_table = {
    "apart", 0, 1 TRF__VERBS(VERB) TRF__OPS(X)
#if !defined(TRF_NO_TRAIN)
    , apart_linear_dw
#endif
};
#undef X
#undef VERB

static const trf__backend *apart_backend(const trf__backend *cpu)
{
    pthread_mutex_lock(&apart.lock);
    apart.cpu = cpu;
    pthread_mutex_unlock(&apart.lock);
    return apart.off ? cpu : &apart_table;
}

static KIT_UNUSED void apart_reset(void)
{
    memset(&apart.n, 0, sizeof apart.n);
    apart.fail_alloc = apart.fail_sync = 0;
}

#endif

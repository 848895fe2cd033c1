/* A separate device for tests: the CPU's ops behind memory that the host cannot reach. The device's
   memory is a mapping of its own, which is PROT_NONE but inside an op or a verb, so that any host
   access faults; an op that is given a pointer to anything else aborts. Downloads happen when sync
   is called and not before: until then the host's memory is 0xA5. What crosses the seam is counted,
   and memory and sync can be made to fail. kit.h includes this where TRF__TEST_BACKEND is defined
   (as separate_backend). */
#ifndef SEPARATE_H
#define SEPARATE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { SEPARATE_GUARD = 64, SEPARATE_PAGE = 2 << 20, SEPARATE_POISON = 4 << 20 };
#define SEPARATE_SIZE ((size_t)1 << 34)

typedef struct separate_counts {
    int64_t uploads, downloads, zeroes, copies, fetches, syncs, idle_syncs,
        allocs; /* idle: brought nothing */
#define X(name, type) int64_t name;     /* calls of each op */
    TRF__OPS(X)
#undef X
} separate_counts;

typedef struct separate_block { size_t begin, bytes; } separate_block;
typedef struct separate_late {
    const trf__run *run;
    void *to, *numbers;
    size_t bytes;
} separate_late;

static struct separate {
    pthread_mutex_t lock;
    int off;                            /* 1: objects made now compute on the plain CPU */
    separate_counts n;
    int trains_on_copies;               /* 1: it wants copies of a trainer's weights too */
    int64_t fills; /* training batches are filled up to multiples of this; 0: not */
    int64_t fail_alloc,
        fail_sync; /* the alloc that finds nothing; from this sync on, the device is broken */
    const trf__backend *cpu;
    char *base;
    size_t opened;                      /* bytes that may be accessed now, or are used */
    int inside;                         /* ops and verbs now */
    separate_block *blocks; int n_blocks;  /* in order; behind each, SEPARATE_GUARD bytes */
    separate_late *late; int n_late;
} separate = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void separate_abort(const char *what)
{
    fprintf(stderr, "separate device: %s\n", what);
    abort();
}

static void separate_protect(size_t from, size_t to, int protection)
{
    if (to > from && mprotect(separate.base + from, to - from, protection))
        separate_abort("mprotect failed");
}

/* Between these two, which may be nested, the device's memory can be read and written. */
static KIT_UNUSED void separate_enter(void)
{
    pthread_mutex_lock(&separate.lock);
    if (separate.inside++ == 0) separate_protect(0, separate.opened, PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&separate.lock);
}
static KIT_UNUSED void separate_leave(void)
{
    pthread_mutex_lock(&separate.lock);
    if (--separate.inside == 0) separate_protect(0, separate.opened, PROT_NONE);
    pthread_mutex_unlock(&separate.lock);
}

/* -----------------------------------------------------------------------------------------------
   Whose memory an address is in. */

static int separate_mapped(const void *p)
{
    return separate.base && (const char *)p >= separate.base &&
           (const char *)p < separate.base + SEPARATE_SIZE;
}

/* What verbs get lies in one block. */
static void separate_within(const void *p, size_t bytes)
{
    size_t at = (size_t)((const char *)p - separate.base);
    int low = 0, high;
    if (!separate_mapped(p)) separate_abort("a verb got an address of the host");
    pthread_mutex_lock(&separate.lock);
    for (high = separate.n_blocks;
         high - low > 1;) { /* the last block that begins at or before it */
        int middle = low + (high - low) / 2;
        if (separate.blocks[middle].begin <= at) low = middle; else high = middle;
    }
    if (separate.n_blocks == 0 || at < separate.blocks[low].begin ||
        bytes > separate.blocks[low].bytes ||
        at > separate.blocks[low].begin + separate.blocks[low].bytes - bytes)
        separate_abort("a verb got memory that is not in one block");
    pthread_mutex_unlock(&separate.lock);
}

static void separate_not(const void *p)
{
    if (separate_mapped(p)) separate_abort("an address of the device where the host's belongs");
}

/* What ops get: every pointer of the struct, which, where there are no rows, may lie behind its
   block. An op without such a function does not compile. */
static void separate_see(const void *p)
{
    if (p && !separate_mapped(p)) separate_abort("an op got an address of the host");
}
#define ON(pointer)  separate_see(pointer)
#define ROWS(at)     do { ON((at).sentence); ON((at).position); } while (0)
#define MAT(w)       do { ON((w).plain); ON((w).packed); } while (0)
#define KEYS(in) \
    do { \
        ON((in).q); \
        ON((in).k); \
        ON((in).v); \
        ON((in).spans); \
        ON((in).key_rows); \
        ON((in).bias.table); \
        ON((in).bias.row_of); \
        ON((in).bias.numbers); \
        ON((in).bias.pairs); \
    } while (0)
static void see_embed(const trf__embed *j)
{
    ON(j->y);
    MAT(j->weight);
    ON(j->table);
    ON(j->segments);
    ON(j->ids);
    ON(j->segment);
    ROWS(j->at);
}
static void see_linear(const trf__linear *j) { ON(j->y); ON(j->x); MAT(j->w); ON(j->b); }
static void see_activate(const trf__activate *j) { ON(j->a); ON(j->h); ROWS(j->at); }
static void see_rotate(const trf__rotation *j) { ON(j->x); ON(j->table); ON(j->position); }
static void see_scale(const trf__scale *j) { ON(j->x); }
static void see_attention(const trf__attention *j) { KEYS(j->in); ON(j->out); ON(j->stats); }
static void see_attention_weights(const trf__attention_weights *j) { KEYS(j->in); ON(j->weights); }
static void see_add_norm(const trf__norm *j)
{
    ON(j->s); ON(j->y); ON(j->converted); ON(j->stats); ON(j->x); ON(j->sub); ON(j->gain); ON(j->bias); ROWS(j->at);
}
static void see_pool(const trf__pool *j) { ON(j->to); ON(j->from); ON(j->spans); }
static void see_cross_entropy(const trf__loss *j)
{
    ON(j->row_loss);
    ON(j->row_nll);
    ON(j->sums);
    ON(j->slots);
    ON(j->work);
    ON(j->dx);
    ON(j->dw);
    ON(j->db);
    ON(j->x); MAT(j->w); ON(j->bias); ON(j->targets); ON(j->numbers);
}
#define RULES(x) \
    do { ON((x).alone); ON((x).sequences); ON((x).ends); ON((x).ids); ON((x).counts); ON((x).kept); } while (0)
static void see_top(const trf__top *j)
{
    ON(j->log_probabilities);
    ON(j->ids);
    ON(j->work);
    ON(j->x);
    MAT(j->w);
    ON(j->bias);
    ON(j->only);
    ON(j->ruled);
    ON(j->mixed);
    RULES(j->rules);
}
static void see_mix(const trf__mix *j)
{
    ON(j->sum); ON(j->logits); ON(j->x); MAT(j->w); ON(j->bias);
}
static void see_backpointers(const trf__backpointers *j)
{
    ON(j->to); ON(j->from); ON(j->parents); ON(j->position); ON(j->slots);
}
static void see_append_kv(const trf__append_kv *j) { ON(j->cache); ON(j->fresh); ON(j->slots); }
static void see_reorder(const trf__reorder *j)
{
    ON(j->beams);
    ON(j->live);
    ON(j->starts);
    ON(j->sources);
    ON(j->progress);
    ON(j->log_probabilities);
    ON(j->found);
    ON(j->ruled);
    RULES(j->rules);
    ON(j->ids);
    ON(j->parents);
    ON(j->position);
    ON(j->only);
    ON(j->slots);
    ON(j->self);
    ON(j->cross);
}
static void see_pack(const trf__pack *j) { ON(j->packed); ON(j->weights); ON(j->stored); }
#if !defined(TRF_NO_TRAIN)
static void see_embed_gradient(const trf__embed_gradient *j)
{
    ON(j->dweight);
    ON(j->dtable);
    ON(j->dsegments);
    ON(j->dy);
    ON(j->ids);
    ON(j->segment);
    ON(j->groups.rows);
    ON(j->groups.first);
    ROWS(j->at);
}
static void see_linear_dx(const trf__linear_dx *j) { ON(j->dx); ON(j->dy); MAT(j->w); }
static void see_activate_gradient(const trf__activate_gradient *j)
{
    ON(j->dh);
    ON(j->da);
    ON(j->h);
    ROWS(j->at);
}
static void see_attention_gradient(const trf__attention_gradient *j)
{
    KEYS(j->in); ON(j->dq); ON(j->dk); ON(j->dv); ON(j->dout); ON(j->out); ON(j->stats);
    ON(j->dbias); ON(j->partial);
}
static void see_norm_gradient(const trf__norm_gradient *j)
{
    ON(j->ds);
    ON(j->dsub);
    ON(j->dgain);
    ON(j->dbias);
    ON(j->dy);
    ON(j->dy2);
    ON(j->ds_in);
    ON(j->s);
    ON(j->stats);
    ON(j->gain); ROWS(j->at);
}
static void see_pool_gradient(const trf__pool *j) { see_pool(j); }
static void see_clip(const trf__clip *j)
{
    ON(j->clip_result); ON(j->partial); ON(j->gradients); ON(j->slots); ON(j->tiles);
}
static void see_accumulate(const trf__accumulate *j) { ON(j->to); ON(j->from); }
static void see_average(const trf__average *j) { ON(j->to); ON(j->from); }
static void see_adam(const trf__adam *j)
{
    ON(j->p); ON(j->m); ON(j->v); ON(j->packed); ON(j->g); ON(j->tiles); ON(j->clip_result);
}
#endif

static void separate_count(int64_t *calls)
{
    pthread_mutex_lock(&separate.lock);
    ++*calls;
    pthread_mutex_unlock(&separate.lock);
}

#define X(name, type) \
    static void separate_##name(const trf__run *run, const type *job) \
    { \
        see_##name(job); \
        ON(run->now); \
        separate_count(&separate.n.name); \
        separate_enter(); \
        separate.cpu->name(run, job); \
        separate_leave(); \
    }
TRF__OPS(X)
#undef X

#if !defined(TRF_NO_TRAIN)
static void separate_linear_dw(const trf__run *run, const trf__linear_dw *products, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        ON(products[i].dw);
        ON(products[i].db);
        ON(products[i].dy);
        ON(products[i].x);
    }
    separate_enter();
    separate.cpu->linear_dw(run, products, n);
    separate_leave();
}
#endif
#undef ON
#undef ROWS
#undef MAT
#undef KEYS

/* -----------------------------------------------------------------------------------------------
   Memory: blocks of the mapping, aligned to 64 bytes, first fit. A program's counting allocator
   counts them too, and may refuse them, as if they came from its hooks. */

static void separate_insert(int at, size_t begin, size_t bytes)
{
    separate_block *grown =
        (separate_block *)realloc(separate.blocks, (size_t)(separate.n_blocks + 1) * sizeof *grown);
    if (!grown) separate_abort("no memory for the list of blocks");
    separate.blocks = grown;
    memmove(grown + at + 1, grown + at, (size_t)(separate.n_blocks++ - at) * sizeof *grown);
    grown[at].begin = begin;
    grown[at].bytes = bytes;
}

static void *separate_alloc(const trf__run *run, size_t bytes)
{
    size_t begin = 0, top;
    char *memory = NULL;
    int i;
    if (bytes == 0) bytes = 1;
    if (bytes > SEPARATE_SIZE / 2) return NULL;
    pthread_mutex_lock(&separate.lock);
    if (!separate.base) {
        size_t mapped = SEPARATE_SIZE + SEPARATE_PAGE;
        separate.base = (char *)mmap(NULL, mapped, PROT_NONE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (separate.base == MAP_FAILED) separate_abort("no address space for the device");
        separate.base += (SEPARATE_PAGE - (uintptr_t)separate.base % SEPARATE_PAGE) % SEPARATE_PAGE;
        madvise(separate.base, SEPARATE_SIZE, MADV_HUGEPAGE);
    }
    for (i = 0; i < separate.n_blocks && separate.blocks[i].begin - begin < bytes + SEPARATE_GUARD;
         i++)
        begin =
            (separate.blocks[i].begin + separate.blocks[i].bytes + SEPARATE_GUARD + 63) / 64 * 64;
    top = (begin + bytes + SEPARATE_GUARD + SEPARATE_PAGE - 1) / SEPARATE_PAGE * SEPARATE_PAGE;
    if (++separate.n.allocs != separate.fail_alloc && top <= SEPARATE_SIZE &&
        kit_counts(&run->hooks, bytes)) {
        separate_insert(i, begin, bytes);
        if (separate.inside > 0) separate_protect(separate.opened, top, PROT_READ | PROT_WRITE);
        if (top > separate.opened) separate.opened = top;
        memory = separate.base + begin;
    }
    pthread_mutex_unlock(&separate.lock);
    if (!memory) return NULL;
    separate_enter();
    memset(memory, 0xA5, bytes < SEPARATE_POISON ? bytes : SEPARATE_POISON);
    memset(memory + bytes, 0xC7, SEPARATE_GUARD);
    separate_leave();
    return memory;
}

static void separate_release(const trf__run *run, void *memory, size_t bytes)
{
    const unsigned char *guard = (const unsigned char *)memory + (bytes ? bytes : 1);
    size_t top = 0;
    int i, k;
    if (!memory) return;
    if (bytes == 0) bytes = 1;
    if (!separate_mapped(memory)) separate_abort("freed memory that is not the device's");
    separate_enter();
    pthread_mutex_lock(&separate.lock);
    for (i = 0; i < separate.n_blocks && separate.base + separate.blocks[i].begin != memory; i++) {}
    if (i == separate.n_blocks) separate_abort("freed what is no block, or twice");
    if (separate.blocks[i].bytes != bytes) separate_abort("freed with another size");
    for (k = 0; k < SEPARATE_GUARD; k++)
        if (guard[k] != 0xC7) separate_abort("written behind the end of a block");
    memset(memory, 0x5A, bytes < SEPARATE_POISON ? bytes : SEPARATE_POISON);
    memmove(separate.blocks + i, separate.blocks + i + 1,
            (size_t)(--separate.n_blocks - i) * sizeof *separate.blocks);
    if (separate.n_blocks > 0)
        top = separate.blocks[separate.n_blocks - 1].begin +
              separate.blocks[separate.n_blocks - 1].bytes + SEPARATE_GUARD;
    top = (top + SEPARATE_PAGE - 1) / SEPARATE_PAGE * SEPARATE_PAGE;
    if (top < separate.opened) {
        madvise(separate.base + top, separate.opened - top, MADV_DONTNEED);
        separate_protect(top, separate.opened, PROT_NONE);
        separate.opened = top;
    }
    kit_counts_back(&run->hooks, bytes);
    pthread_mutex_unlock(&separate.lock);
    separate_leave();
}

static void separate_zero(const trf__run *run, void *memory, size_t bytes)
{
    separate_within(memory, bytes);
    separate_count(&separate.n.zeroes);
    separate_enter();
    separate.cpu->zero(run, memory, bytes);
    separate_leave();
}

static void separate_copy(const trf__run *run, void *to, const void *from, size_t bytes)
{
    separate_within(to, bytes);
    separate_within(from, bytes);
    separate_count(&separate.n.copies);
    separate_enter();
    separate.cpu->copy(run, to, from, bytes);
    separate_leave();
}

static void separate_upload(const trf__run *run, void *to, const void *from, size_t bytes)
{
    separate_within(to, bytes);
    separate_not(from);
    separate_count(&separate.n.uploads);
    separate_enter();
    separate.cpu->upload(run, to, from, bytes);
    separate_leave();
}

/* Room for numbers that come with the next sync of this run. */
static void *separate_later(const trf__run *run, void *to, size_t bytes, int64_t *count)
{
    separate_late *grown;
    separate_not(to);
    pthread_mutex_lock(&separate.lock);
    ++*count;
    grown = (separate_late *)realloc(separate.late, (size_t)(separate.n_late + 1) * sizeof *grown);
    if (!grown) separate_abort("no memory for downloads");
    separate.late = grown;
    grown += separate.n_late++;
    grown->run = run;
    grown->to = to;
    grown->bytes = bytes;
    grown->numbers = malloc(bytes + 1);
    if (!grown->numbers) separate_abort("no memory for a download");
    if (bytes > 0) memset(to, 0xA5, bytes);
    to = grown->numbers;
    pthread_mutex_unlock(&separate.lock);
    return to;
}

static void separate_feed(const trf__run *run, trf__act *to, const trf_real *from, int64_t n)
{
    separate_upload(run, to, from, (size_t)n * sizeof *from);
}

static void separate_download(const trf__run *run, void *to, const void *from, size_t bytes)
{
    void *numbers = separate_later(run, to, bytes, &separate.n.downloads);
    separate_within(from, bytes);
    separate_enter();
    separate.cpu->download(run, numbers, from, bytes);
    separate_leave();
}

static void separate_fetch(const trf__run *run, trf_real *to, const trf__act *from, int64_t n)
{
    size_t bytes = (size_t)n * sizeof *to;
    void *numbers = separate_later(run, to, bytes, &separate.n.fetches);
    separate_within(from, bytes);
    separate_enter();
    separate.cpu->fetch(run, (trf_real *)numbers, from, n);
    separate_leave();
}

static trf_status separate_sync(const trf__run *run, trf_error *err)
{
    int i, kept = 0, broken;
    pthread_mutex_lock(&separate.lock);
    separate.n.syncs++;
    broken = separate.fail_sync && separate.n.syncs >= separate.fail_sync;
    for (i = 0; i < separate.n_late; i++) {
        separate_late late = separate.late[i];
        if (late.run != run) { separate.late[kept++] = late; continue; }
        if (!broken && late.bytes > 0) memcpy(late.to, late.numbers, late.bytes);
        free(late.numbers);
    }
    if (kept == separate.n_late) separate.n.idle_syncs++;
    separate.n_late = kept;
    pthread_mutex_unlock(&separate.lock);
    return broken ? trf__fail(err, TRF_E_BACKEND, -1, "separate", "the device is out of order")
                  : TRF_OK;
}

/* State and sizes are the CPU's. */
static trf_status separate_probe(const trf_device *device, trf_error *err)
{
    return separate.cpu->probe(device, err);
}
static trf_status separate_open(trf__run *run, trf_error *err)
{
    return separate.cpu->open(run, err);
}
static trf_status separate_reserve(trf__run *run, int64_t longest, int64_t d_head, int64_t weight,
                                   size_t converted, trf_error *err)
{
    return separate.cpu->reserve(run, longest, d_head, weight, converted, err);
}
static void separate_close(trf__run *run) { separate.cpu->close(run); }
static size_t separate_state_bytes(const trf__run *run, int64_t longest, int64_t d_head,
                                   int64_t weight, size_t converted)
{
    return separate.cpu->state_bytes(run, longest, d_head, weight, converted);
}
static void *separate_stream(const trf__run *run) { return separate.cpu->stream(run); }
/* A device takes all rows at once. */
static int64_t separate_together(const trf__run *run) { (void)run; return INT64_MAX; }

static int64_t separate_padded(const trf__run *run, int64_t n)
{
    (void)run;
    return separate.fills ? trf__round_up(n, separate.fills) : n;
}
static int separate_replay(const trf__run *run, const trf__shape *shape)
{
    return separate.cpu->replay(run, shape);
}
static int separate_end_list(const trf__run *run, int whole)
{
    return separate.cpu->end_list(run, whole);
}
static size_t separate_element(const trf_device *device) { return separate.cpu->element(device); }
static size_t separate_loss_scratch(const trf_device *device, int64_t rows, int64_t vocab,
                                    int64_t d, int copied, int paired)
{
    return separate.cpu->loss_scratch(device, rows, vocab, d, copied, paired);
}
static size_t separate_top_scratch(const trf_device *device, int64_t rows, int64_t vocab, int64_t n)
{
    return separate.cpu->top_scratch(device, rows, vocab, n);
}
static int separate_packs(const trf_device *device, int training)
{
    return separate.cpu->packs(device, training && !separate.trains_on_copies);
}
static size_t separate_packed_bytes(int format, int64_t out, int64_t in)
{
    return separate.cpu->packed_bytes(format, out, in);
}
static size_t separate_converted(int format, int64_t rows, int64_t k)
{
    return separate.cpu->converted(format, rows, k);
}
static size_t separate_converted_row(int format, int64_t k, int64_t part)
{
    return separate.cpu->converted_row(format, k, part);
}
static const char *separate_kernel(const trf_device *device, int format)
{
    return separate.cpu->kernel(device, format);
}

/* Every field in its order, so that a new one is not left to the CPU. */
#define X(name, type) , separate_##name
#define VERB(result, name, arguments) , separate_##name
static const trf__backend separate_table = {
    "separate", 0, 1 TRF__VERBS(VERB) TRF__OPS(X)
#if !defined(TRF_NO_TRAIN)
    , separate_linear_dw
#endif
    , NULL, NULL    /* tokens are drawn by the host, files are read by one thread */
};
#undef X
#undef VERB

KIT_CALLED const trf__backend *separate_backend(const trf__backend *cpu)
{
    pthread_mutex_lock(&separate.lock);
    separate.cpu = cpu;
    pthread_mutex_unlock(&separate.lock);
    return separate.off ? cpu : &separate_table;
}

static KIT_UNUSED void separate_reset(void)
{
    memset(&separate.n, 0, sizeof separate.n);
    separate.fail_alloc = separate.fail_sync = 0;
}

#endif

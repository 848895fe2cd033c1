#pragma once
#include "api/basics.h"
#include "base/impl.h"
#include "base/errors.h"

// >>memory         the hooks, and arenas cut by a cursor
//
// An object allocates a few large blocks (arenas) and cuts its arrays out of them. The same lines
// run twice: once to count the bytes, once to cut. So sizes and layouts cannot disagree.

/* Memory aligned to 64 bytes, from the hooks or from malloc; NULL if there is none. 0 bytes count
   as 1, as allocators differ there. On Linux large blocks get pages of 2 MiB: reading through all
   weights then misses the TLB less often. */
TRF__FN void *trf__alloc(const trf_hooks *hooks, size_t bytes)
{
    char *raw, *aligned;
    if (bytes == 0) bytes = 1;
    /* trf__bytes returned SIZE_MAX: the size does not fit */
    if (bytes > SIZE_MAX - TRF__ALIGN - sizeof(void *)) return NULL;
    /* the program's allocator aligns by itself */
    if (hooks->alloc) return hooks->alloc(hooks->user, TRF__ALIGN, bytes);
    raw = (char *)malloc(bytes + TRF__ALIGN + sizeof(void *));
    if (!raw) return NULL;
#if defined(TRF__HUGEPAGE)
    if (bytes >= 2 * TRF__HUGE_PAGE) {
        /* only whole huge pages inside the block are advised; a refusal does not matter */
        size_t before = (TRF__HUGE_PAGE - (uintptr_t)raw % TRF__HUGE_PAGE) % TRF__HUGE_PAGE;
        (void)madvise(raw + before, (bytes - before) / TRF__HUGE_PAGE * TRF__HUGE_PAGE,
                      TRF__HUGEPAGE);
    }
#endif
    aligned = raw + sizeof(void *);
    aligned += (TRF__ALIGN - (uintptr_t)aligned % TRF__ALIGN) % TRF__ALIGN;
    /* trf__free reads malloc's pointer from the bytes just before the block */
    memcpy(aligned - sizeof raw, &raw, sizeof raw);
    return aligned;
}

TRF__FN void *trf__alloc_zeroed(const trf_hooks *hooks, size_t bytes)
{
    void *memory = trf__alloc(hooks, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

/* bytes is the size that was allocated: a hook may need it. */
TRF__FN void trf__free(const trf_hooks *hooks, void *memory, size_t bytes)
{
    void *raw;
    if (!memory) return;
    if (bytes == 0) bytes = 1;
    if (hooks->free) { (hooks->free)(hooks->user, memory, bytes); return; }
    memcpy(&raw, (char *)memory - sizeof raw, sizeof raw);
    free(raw);
}

/* n items of `item` bytes, n >= 0. A size that does not fit becomes SIZE_MAX, which no allocation
   grants, so callers need no check of their own. */
TRF__FN size_t trf__bytes(int64_t n, size_t item)
{
    return item && (uint64_t)n > SIZE_MAX / item ? SIZE_MAX : (size_t)n * item;
}
TRF__FN size_t trf__add_size(size_t a, size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }

/* Doubles `wanted` until it holds `needed`, without wrapping. */
TRF__FN int64_t trf__capacity(int64_t wanted, int64_t needed)
{
    while (wanted < needed) wanted = wanted > INT64_MAX / 2 ? INT64_MAX : wanted * 2;
    return wanted;
}

/* Makes a growing array hold `needed` items, and returns where they are. The capacity doubles, so
   that adding n items costs O(n). NULL: there is no memory, and the array is unchanged. */
TRF__FN void *trf__grown(const trf_hooks *hooks, void *items, int64_t *capacity, int64_t needed,
                         size_t item, trf_error *err)
{
    int64_t wanted = *capacity > 0 ? *capacity : 16;
    if (items && needed <= *capacity) return items;
    wanted = trf__capacity(wanted, needed);
    void *bigger = trf__alloc(hooks, trf__bytes(wanted, item));
    if (!bigger) {
        trf__fail(err, TRF_E_NOMEM, -1, "memory", "no memory for %lld items of %llu bytes",
                  (long long)wanted, (unsigned long long)item);
        return NULL;
    }
    if (items) memcpy(bigger, items, (size_t)*capacity * item);     /* they were allocated */
    trf__free(hooks, items, trf__bytes(*capacity, item));
    *capacity = wanted;
    return bigger;
}

/* trf__grown for items of a type. Without memory the caller returns TRF_E_NOMEM. */
#define TRF__GROW(type, items, capacity, needed, hooks) \
    do { \
        void *trf__items = trf__grown(hooks, items, &(capacity), needed, sizeof(type), err); \
        if (!trf__items) return TRF_E_NOMEM; \
        (items) = (type *)trf__items; \
    } while (0)

/* Memory for n items of a type, or NULL. */
#define TRF__NEW(type, hooks, n) \
    ((type *)trf__alloc(hooks, trf__bytes((int64_t)(n), sizeof(type))))
#define TRF__NEW_ZEROED(type, hooks, n) \
    ((type *)trf__alloc_zeroed(hooks, trf__bytes((int64_t)(n), sizeof(type))))

/* The same into `to`. If there is no memory, the calling function fails: "no memory " and the rest
   of the arguments, a format. */
#define TRF__ALLOC(type, to, hooks, n, what, ...) \
    do { \
        (to) = TRF__NEW(type, hooks, n); \
        TRF__FAIL_IF(!(to), TRF_E_NOMEM, -1, what, "no memory " __VA_ARGS__); \
    } while (0)
#define TRF__ALLOC_ZEROED(type, to, hooks, n, what, ...) \
    do { \
        (to) = TRF__NEW_ZEROED(type, hooks, n); \
        TRF__FAIL_IF(!(to), TRF_E_NOMEM, -1, what, "no memory " __VA_ARGS__); \
    } while (0)

/* Frees an array of so many items. */
#define TRF__FREE(hooks, items, n) trf__free(hooks, items, trf__bytes(n, sizeof *(items)))

/* Cuts pieces off one block of memory, each aligned to 64 bytes. With base NULL it only counts. */
typedef struct trf__cursor { char *base; size_t used; } trf__cursor;

TRF__FN trf__cursor trf__cursor_at(void *base)
{
    trf__cursor cursor = { (char *)base, 0 };
    return cursor;
}

TRF__FN void *trf__take(trf__cursor *cursor, int64_t count, size_t item)
{
    void *piece = cursor->base ? cursor->base + cursor->used : NULL;
    cursor->used = trf__add_size(cursor->used, trf__bytes(count, item));
    cursor->used = trf__add_size(cursor->used,
                                 (TRF__ALIGN - cursor->used % TRF__ALIGN) % TRF__ALIGN);
    return piece;
}

/* n items of a type. */
#define TRF__TAKE(type, cursor, n) ((type *)trf__take(cursor, (int64_t)(n), sizeof(type)))

TRF__FN trf_real *trf__take_reals(trf__cursor *cursor, int64_t rows, int64_t columns)
{
    return (trf_real *)trf__take(cursor, rows, trf__bytes(columns, sizeof(trf_real)));
}

// >>numbers        sums that stay in their range, Philox, sorting
//
// Counts come from the caller's configuration, so products and sums of them saturate instead of
// wrapping. A later check then reports a limit.

/* A product of counts: 0 if a factor is negative, INT64_MAX if the product does not fit. */
TRF__FN int64_t trf__mul_counts(int64_t a, int64_t b)
{
    if (a <= 0 || b <= 0) return 0;
    return a > INT64_MAX / b ? INT64_MAX : a * b;
}

/* A sum of counts >= 0: INT64_MAX if it does not fit. */
TRF__FN int64_t trf__add_counts(int64_t a, int64_t b)
{
    return b > INT64_MAX - a ? INT64_MAX : a + b;
}

/* The 32 bits of a float, and the float with these bits. */
TRF__BOTH uint32_t trf__float_bits(float x) { uint32_t u; memcpy(&u, &x, sizeof u); return u; }
TRF__BOTH float trf__float_of(uint32_t bits) { float x; memcpy(&x, &bits, sizeof x); return x; }

TRF__FN int64_t trf__min64(int64_t a, int64_t b) { return a < b ? a : b; }
TRF__FN int64_t trf__max64(int64_t a, int64_t b) { return a > b ? a : b; }
TRF__FN double trf__clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}
TRF__FN int64_t trf__ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
TRF__FN int64_t trf__round_up(int64_t a, int64_t b) { return trf__ceil_div(a, b) * b; }

/* infinity - infinity and NaN - NaN are NaN, which equals nothing. */
TRF__BOTH int trf__is_finite(double x) { return x - x == 0; }

/* Philox4x32-10 (Salmon et al. 2011): four random words from a counter of four words and a key of
   two. It has no state, so every order of calls gives the same numbers. */
TRF__BOTH void trf__philox(const uint32_t counter[4], uint32_t key0, uint32_t key1, uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}

/* Number `index` of the 64-bit stream `stream` of a seed. Everything random but dropout uses it;
   the constant keeps these counters apart from others. */
TRF__FN uint64_t trf__random64(uint64_t seed, uint32_t stream, uint64_t index)
{
    uint32_t counter[4], out[4];
    counter[0] = (uint32_t)index; counter[1] = (uint32_t)(index >> 32); counter[2] = stream;
    counter[3] = 0x5EED5EEDu;
    trf__philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32), out);
    return (uint64_t)out[1] << 32 | out[0];
}

/* Negative if item a comes before item b. */
typedef int trf__order(const void *context, const void *a, const void *b);

/* Sorts n items of `size` bytes (at most 64) in place: heapsort, since qsort passes no context, and
   its order of equal items differs between C libraries. It needs no memory, and no input makes it
   slow. pointers: the items are pointers, and `order` gets the pointers themselves. */
TRF__INLINE void trf__heapsort(char *at, size_t n, size_t size, int pointers, trf__order *order,
                               const void *context)
{
#define TRF__ITEM(p) (pointers ? *(const void *const *)(const void *)(p) : (const void *)(p))
    union { char bytes[64]; const void *aligned; } item;
    size_t first = n / 2, end = n, child;
    /* one loop for both phases: `first` is where the heap begins, `end` where it ends */
    while (end > 1) {
        /* first build the heap, ... */
        if (first > 0) memcpy(item.bytes, at + --first * size, size);
        /* ... then take its largest item off, repeatedly */
        else {
            memcpy(item.bytes, at + --end * size, size);
            memcpy(at + end * size, at, size);
        }
        /* sift the item down from the hole; children of h are 2 h + 1 and 2 h + 2 */
        size_t hole = first;
        while ((child = 2 * hole + 1) < end) {
            const char *best = at + child * size;
            if (child + 1 < end && order(context, TRF__ITEM(best), TRF__ITEM(best + size)) < 0) {
                child++;
                best += size;
            }
            if (order(context, TRF__ITEM(item.bytes), TRF__ITEM(best)) >= 0) break;
            memcpy(at + hole * size, best, size);
            hole = child;
        }
        memcpy(at + hole * size, item.bytes, size);
    }
#undef TRF__ITEM
}

TRF__FN void trf__sort(const void **items, size_t n, trf__order *order, const void *context)
{
    trf__heapsort((char *)(void *)items, n, sizeof *items, 1, order, context);
}

TRF__FN void trf__sort_items(void *items, size_t n, size_t size, trf__order *order)
{
    trf__heapsort((char *)items, n, size, 0, order, NULL);
}

/* Raises `low` to the first index below `end` where `before`, which reads `middle`, is false. It is
   true at all indices before that one, and at none behind. */
#define TRF__BISECT(low, end, before) \
    do { \
        int64_t trf__bound = (end); \
        while ((low) < trf__bound) { \
            const int64_t middle = (low) + (trf__bound - (low)) / 2; \
            if (before) (low) = middle + 1; else trf__bound = middle; \
        } \
    } while (0)

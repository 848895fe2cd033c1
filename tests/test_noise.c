/* build: shared plain:shared */
/* Noise: naive loops with the same draws, frequencies within four sigma, words, any split into
   ranks, refusals, corners, and every allocation failing once. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"

enum { MOST = 4096 };
static const trf_noise_kind kinds[] = { TRF_NOISE_MASKS, TRF_NOISE_SPANS, TRF_NOISE_PREFIX };

/* Options of a kind that are allowed: a vocabulary of 100 tokens, of which the last 40 are
   sentinels. */
static trf_noise_options noise_of(trf_noise_kind kind)
{
    trf_noise_options o = trf_noise_defaults();
    o.kind = kind;
    o.vocab = 100;
    o.first_sentinel = 60;
    o.n_sentinels = 40;
    return o;
}

static trf_noise *open_noise(const trf_noise_options *o)
{
    trf_noise *noise;
    OK(trf_noise_create(&noise, o, &err));
    return noise;
}

static trf_batch batch_of(const int32_t *ids, const int32_t *lengths, int32_t count)
{
    trf_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.source.ids = ids;
    batch.source.lengths = lengths;
    batch.source.count = count;
    return batch;
}

static int64_t total_of(const trf_sequences *x)
{
    int64_t n = 0;
    int32_t i;
    for (i = 0; i < x->count; i++) n += x->lengths[i];
    return n;
}

static uint64_t hash_side(uint64_t hash, const trf_sequences *x)
{
    hash = hash_bytes(hash, x->lengths, (size_t)x->count * sizeof *x->lengths);
    return hash_bytes(hash, x->ids, (size_t)total_of(x) * sizeof *x->ids);
}

static uint64_t hash_batch(const trf_batch *b)
{
    return hash_side(hash_side(HASH_START, &b->source), &b->target);
}

/* -----------------------------------------------------------------------------------------------
   Naive loops: the programs that are cited, line by line, but for where random numbers come from.
 */

typedef struct naive { int32_t source[MOST], target[MOST], n_source, n_target; } naive;

static trf__draws draws_of(const trf_noise_options *o, const trf_batch *b, int32_t i)
{
    trf__draws d;
    uint64_t epoch = trf__random64(o->seed, TRF__NOISE_EPOCH, (uint64_t)b->place.epoch);
    uint64_t batch = trf__random64(epoch, TRF__NOISE_BATCH, (uint64_t)b->place.batch);
    d.key = trf__random64(batch, TRF__NOISE_SEQUENCE, (uint64_t)(b->ordinal + i));
    d.stream = TRF__NOISE_DRAW;
    d.next = 0;
    return d;
}

/* round() of Python and tf.round: ties to even. */
static int32_t half_even(double x)
{
    double down = floor(x), rest = x - down;
    int32_t n = (int32_t)down;
    return n + (rest > 0.5 || (rest == 0.5 && n % 2));
}

/* create_masked_lm_predictions; first[w]: where word w begins, with the end behind the last one. */
static void naive_masks(naive *x, const trf_noise_options *o, trf__draws d, const int32_t *ids,
                        int32_t n, const int32_t *first, int32_t n_words)
{
    trf__draws shuffling = d;
    int32_t order[MOST], chosen = 0, w, k, wanted = half_even(n * o->density);
    if (wanted < 1) wanted = 1;
    shuffling.stream = TRF__NOISE_ORDER;
    for (w = 0; w < n_words; w++) order[w] = w;
    for (w = n_words - 1; w > 0; w--) {
        int32_t other = (int32_t)trf__draw_below(&shuffling, (uint64_t)w + 1), kept = order[w];
        order[w] = order[other];
        order[other] = kept;
    }
    for (k = 0; k < n; k++) { x->source[k] = ids[k]; x->target[k] = -1; }
    for (w = 0; w < n_words; w++) {
        int32_t begin = first[order[w]], end = first[order[w] + 1];
        if (chosen >= wanted) break;
        if (chosen + end - begin > wanted && !(w == n_words - 1 && chosen == 0)) continue;
        for (k = begin; k < end; k++) {
            double u = ((double)(trf__random64(d.key, d.stream, d.next++) >> 11) + 0.5) /
                       9007199254740992.0;
            chosen++;
            x->target[k] = ids[k];
            if (u < o->masked) x->source[k] = o->mask;
            else if (u - o->masked < o->randomised)
                x->source[k] = 4 + (int32_t)trf__draw_below(&d, (uint64_t)(o->vocab - 4));
        }
    }
    x->n_source = x->n_target = n;
}

/* _random_segmentation: segment numbers of `items`, in so many segments. */
static void naive_segments(trf__draws *d, int32_t *segment, int32_t items, int32_t segments)
{
    int32_t i, number = 0;
    for (i = 0; i < items; i++) {
        if (i > 0 && (int64_t)trf__draw_below(d, (uint64_t)(items - i)) < segments - 1 - number)
            number++;
        segment[i] = number;
    }
    assert_int_equal(number, segments - 1);
}

/* noise_span_to_unique_sentinel */
static int32_t naive_sentinels(int32_t *out, const int32_t *ids, const int *noise, int wanted,
                               int32_t n, int32_t first)
{
    int32_t k, spans = 0, m = 0;
    for (k = 0; k < n; k++) {
        int here = noise[k] == wanted, before = k > 0 && noise[k - 1] == wanted;
        if (here && !before) out[m++] = first + spans++;
        if (!here) out[m++] = ids[k];
    }
    return m;
}

/* random_spans_noise_mask */
static void naive_spans(naive *x, const trf_noise_options *o, trf__draws d, const int32_t *ids,
                        int32_t n)
{
    int32_t noisy_segment[MOST], plain_segment[MOST], noisy, plain, spans, k, a = 0, b = 0;
    int noise[MOST];
    x->n_source = x->n_target = 0;
    if (n < 2) {
        for (k = 0; k < n; k++) x->source[x->n_source++] = ids[k];
        return;
    }
    noisy = half_even(n * o->density);
    if (noisy < 1) noisy = 1;
    if (noisy > n - 1) noisy = n - 1;
    plain = n - noisy;
    spans = half_even(noisy / o->mean_span);
    if (spans < 1) spans = 1;
    if (spans > noisy) spans = noisy;
    if (spans > plain) spans = plain;
    if (spans > o->n_sentinels) spans = o->n_sentinels;
    naive_segments(&d, noisy_segment, noisy, spans);
    naive_segments(&d, plain_segment, plain, spans);
    for (k = 0; k < n; k++) {       /* plain segment 0, noisy segment 0, plain segment 1, ... */
        noise[k] = !(a < plain && (b == noisy || plain_segment[a] <= noisy_segment[b]));
        if (noise[k]) b++; else a++;
    }
    x->n_source = naive_sentinels(x->source, ids, noise, 1, n, o->first_sentinel);
    x->n_target = naive_sentinels(x->target, ids, noise, 0, n, o->first_sentinel);
}

/* random_prefix_noise_mask */
static void naive_prefix(naive *x, trf__draws d, const int32_t *ids, int32_t n)
{
    int32_t cut = n < 2 ? n : 1 + (int32_t)trf__draw_below(&d, (uint64_t)n - 1), k;
    x->n_source = x->n_target = 0;
    for (k = 0; k < n; k++) {
        if (k < cut) x->source[x->n_source++] = ids[k];
        else x->target[x->n_target++] = ids[k];
    }
}

/* A batch of every kind of length, each made noisy and compared. */
static void compare(const trf_noise_options *o, const trf_batch *plain)
{
    trf_noise *noise = open_noise(o);
    const int32_t *ids = plain->source.ids, *source, *target;
    int32_t first[MOST + 1], i, k;
    trf_batch made;
    static naive x;
    OK(trf_noise_apply(noise, plain, &made, &err));
    assert_int_equal(made.source.count, plain->source.count);
    assert_int_equal(made.target.count, plain->source.count);
    assert_memory_equal(&made.place, &plain->place, sizeof made.place);
    assert_int_equal(made.ordinal, plain->ordinal);
    source = made.source.ids;
    target = made.target.ids;
    for (k = 0; k <= MOST; k++) first[k] = k;
    for (i = 0; i < plain->source.count; i++) {
        int32_t n = plain->source.lengths[i];
        trf__draws d = draws_of(o, plain, i);
        assert_true(n <= MOST);
        if (o->kind == TRF_NOISE_MASKS) naive_masks(&x, o, d, ids, n, first, n);
        if (o->kind == TRF_NOISE_SPANS) naive_spans(&x, o, d, ids, n);
        if (o->kind == TRF_NOISE_PREFIX) naive_prefix(&x, d, ids, n);
        assert_int_equal(made.source.lengths[i], x.n_source);
        assert_int_equal(made.target.lengths[i], x.n_target);
        if (x.n_source) assert_memory_equal(source, x.source, (size_t)x.n_source * sizeof *source);
        if (x.n_target) assert_memory_equal(target, x.target, (size_t)x.n_target * sizeof *target);
        assert_true(x.n_source <= n && x.n_target <= n);
        source += x.n_source;
        target += x.n_target;
        ids += n;
    }
    trf_noise_destroy(noise);
}

static void naive_loops(void **state)
{
    static const double densities[] = { 0, 0.001, 0.15, 0.25, 0.5, 0.7, 0.99, 1 };
    static const double means[] = { 1, 1.5, 3, 10, 1e6 };
    static int32_t ids[64 * 64], lengths[64];
    int32_t i, k, total = 0;
    size_t a, b;
    trf_batch plain;
    (void)state;
    for (i = 0; i < 64; i++) {
        lengths[i] = i;
        for (k = 0; k < i; k++, total++)
            ids[total] = 4 + (int32_t)(trf__random64(3, 3, (uint64_t)total) % 56);
    }
    plain = batch_of(ids, lengths, 64);
    plain.ordinal = 17;
    for (a = 0; a < sizeof densities / sizeof *densities; a++)
        for (b = 0; b < sizeof means / sizeof *means; b++)
            for (k = 0; k < 3; k++) {
                trf_noise_options o = noise_of(kinds[k]);
                o.density = densities[a];
                o.mean_span = means[b];
                o.seed = a * 100 + b;
                o.n_sentinels = b == 1 ? 2 : 40;
                o.mask = b == 2 ? 99 : 0;
                o.masked = b == 3 ? 0 : b == 4 ? 1 : 0.5;
                o.randomised = b == 3 ? 1 : b == 4 ? 0 : 0.3;
                plain.place.epoch = (int64_t)a;
                plain.place.batch = (int64_t)b + 1000;
                compare(&o, &plain);
            }
}

/* -----------------------------------------------------------------------------------------------
   Frequencies. */

enum { DRAWS = 100000 };

/* x of n draws, each with probability p, within four sigma. */
static void near(double x, double n, double p)
{
    double sigma = sqrt(n * p * (1 - p));
    if (!(fabs(x - n * p) <= 4 * sigma))
        fail_msg("%g of %g draws, expected %g +- %g", x, n, n * p, 4 * sigma);
}

/* Applies to DRAWS sequences of n ids, in batches, and hands each to `see`. */
static void each_draw(const trf_noise_options *o, const int32_t *ids, int32_t n,
                      void (*see)(const int32_t *source, int32_t n_source, const int32_t *target,
                                  int32_t n_target))
{
    enum { BATCH = 1000 };
    trf_noise *noise = open_noise(o);
    int32_t *all = (int32_t *)malloc((size_t)(BATCH * n) * sizeof *all), lengths[BATCH], i, k;
    trf_batch plain, made;
    assert_non_null(all);
    for (i = 0; i < BATCH; i++) {
        lengths[i] = n;
        memcpy(all + i * n, ids, (size_t)n * sizeof *all);
    }
    plain = batch_of(all, lengths, BATCH);
    for (k = 0; k < DRAWS / BATCH; k++) {
        const int32_t *source, *target;
        plain.place.epoch = k / 10;
        plain.place.batch = k % 10;
        OK(trf_noise_apply(noise, &plain, &made, &err));
        source = made.source.ids;
        target = made.target.ids;
        for (i = 0; i < BATCH; i++) {
            see(source, made.source.lengths[i], target, made.target.lengths[i]);
            source += made.source.lengths[i];
            target += made.target.lengths[i];
        }
    }
    free(all);
    trf_noise_destroy(noise);
}

static const int32_t twenty[20] = {4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                   14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
static double at_place[64], pairs_at[20][20], became[3], random_id[64], compositions[8][128],
    cuts[64];

static void see_masks(const int32_t *source, int32_t n_source, const int32_t *target,
                      int32_t n_target)
{
    int32_t k, j, chosen = 0;
    assert_int_equal(n_source, 20);
    assert_int_equal(n_target, 20);
    for (k = 0; k < 20; k++) {
        if (target[k] < 0) {
            assert_int_equal(target[k], -1);
            assert_int_equal(source[k], twenty[k]);
            continue;
        }
        assert_int_equal(target[k], twenty[k]);
        chosen++;
        at_place[k]++;
        for (j = 0; j < k; j++) pairs_at[j][k] += target[j] >= 0;
        became[source[k] == 0 ? 0 : source[k] == 50 ? 1 : 2]++;
        if (source[k] != 0 && source[k] != 50) {
            assert_true(source[k] >= 4 && source[k] < 30);
            random_id[source[k]]++;
        }
    }
    assert_int_equal(chosen, 3);
}

static void masks_as_foretold(void **state)
{
    trf_noise_options o = noise_of(TRF_NOISE_MASKS);
    int32_t ids[20], k, j;
    double n = 3.0 * DRAWS;
    (void)state;
    memset(at_place, 0, sizeof at_place); memset(became, 0, sizeof became);
    o.vocab = 30;
    memcpy(ids, twenty, sizeof ids);
    each_draw(&o, ids, 20, see_masks);              /* round(0.15 * 20) = 3 */
    for (k = 0; k < 20; k++) near(at_place[k], DRAWS, 3.0 / 20);
    for (k = 0; k < 20; k++) for (j = 0; j < k; j++) near(pairs_at[j][k], DRAWS, 3.0 / 20 * 2 / 19);
    near(became[0], n, 0.8);
    near(became[2], n, 0.2);                        /* stays (0.1) or is random (0.1) */
    for (k = 24; k < 30; k++) near(random_id[k], n, 0.1 / 26);     /* ids that no sequence has */
    for (k = 4; k < 24; k++) near(random_id[k], n, 0.1 / 26 + 0.1 / 20);
}

/* All ways to cut k and n - k ids into spans are as likely: 8 ids, 4 of them noise, in 2 spans: 3
   ways each. */
static void see_spans(const int32_t *source, int32_t n_source, const int32_t *target,
                      int32_t n_target)
{
    int32_t plain, noisy;
    assert_int_equal(n_source, 6);
    assert_int_equal(n_target, 6);
    for (plain = 0; source[plain] < 60; plain++) {}
    assert_int_equal(target[0], 60);
    for (noisy = 0; target[noisy + 1] < 60; noisy++) {}
    compositions[plain][noisy]++;
}

static void see_prefix(const int32_t *source, int32_t n_source, const int32_t *target,
                       int32_t n_target)
{
    (void)source; (void)target;
    assert_int_equal(n_source + n_target, 20);
    cuts[n_source]++;
}

static void spans_and_prefixes_as_foretold(void **state)
{
    trf_noise_options o = noise_of(TRF_NOISE_SPANS);
    int32_t k, j;
    (void)state;
    o.density = 0.5;
    o.mean_span = 2;
    each_draw(&o, twenty, 8, see_spans);
    for (k = 1; k < 4; k++) for (j = 1; j < 4; j++) near(compositions[k][j], DRAWS, 1.0 / 9);
    each_draw((o.kind = TRF_NOISE_PREFIX, &o), twenty, 20, see_prefix);
    for (k = 1; k < 20; k++) near(cuts[k], DRAWS, 1.0 / 19);
    assert_true(cuts[0] == 0 && cuts[20] == 0);
}

/* -----------------------------------------------------------------------------------------------
   Words. */

/* A SentencePiece model with these pieces, `suffix`: blanks end words. */
static trf_vocab *pieces_of(const char *const *pieces, int n, int suffix)
{
    char bytes[512];
    size_t at = 0;
    trf_vocab *v = NULL;
    int i;
    for (i = -1; i < n; i++) {
        const char *text = i < 0 ? "<unk>" : pieces[i];
        size_t length = strlen(text);
        bytes[at++] = 0x0A; bytes[at++] = (char)(length + (i < 0 ? 9 : 7));
        bytes[at++] = 0x0A; bytes[at++] = (char)length;
        memcpy(bytes + at, text, length); at += length;
        memcpy(bytes + at, "\x15\0\0\0\0\x18\x02", 7); at += i < 0 ? 7 : 5;
    }
    memcpy(bytes + at, suffix ? "\x12\x05\x18\x01\xC0\x01\x01" : "\x12\x02\x18\x01",
           suffix ? 7 : 4);
    at += suffix ? 7 : 4;
    memcpy(bytes + at, "\x1A\x06\x18\x01\x20\x01\x28\x01", 8); at += 8;
    OK(trf__vocab_from_bytes(&v, TRF_SENTENCEPIECE, bytes, at, NULL, &err));
    return v;
}

#define BLANK "\xE2\x96\x81"
static const char *const prefixed[] = { BLANK "the", BLANK, "cat", "s", BLANK "a" };
static const char *const suffixed[] = { "the" BLANK, BLANK, "cat", "s", "s" BLANK };

/* Words begin exactly where `starts` has a digit other than 0. */
static void begins(const trf_vocab *v, const int32_t *ids, int32_t n, const char *starts)
{
    int32_t i;
    for (i = 0; i < n; i++)
        if (trf__begins_word(v, i ? ids[i - 1] : -1, ids[i]) != (starts[i] == '1'))
            fail_msg("id %d, %s", i, starts);
}

static void where_words_begin(void **state)
{
    static const int32_t pieces[] = { 6, 7, 4, 3, 7, 5, 6, 5, 5, 99, 7, 8 };
    trf_vocab *v;
    int32_t ids[16], n;
    (void)state;
    begins(NULL, pieces, 12, "111111111111");
    v = pieces_of(prefixed, 5, 0);          /* cat s _the <unk> s _ cat _ _ 99 s _a */
    begins(v, pieces, 12, "101001011111");
    trf_vocab_destroy(v);
    v = pieces_of(suffixed, 5, 1);          /* cat s the_ <unk> s _ cat _ _ 99 s s_ */
    begins(v, pieces, 12, "100100101110");
    trf_vocab_destroy(v);
    OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
    OK(trf_vocab_learn(v, "the cats", &err));
    OK(trf_vocab_finish(v, 100, 1, &err));
    OK(trf_vocab_encode(v, "the cats dog", 0, ids, 16, &n, &err));
    begins(v, ids, n, "111");
    trf_vocab_destroy(v);
    OK(trf_vocab_create(&v, TRF_CHARACTERS, NULL, &err));
    OK(trf_vocab_learn(v, "the cats\t", &err));
    OK(trf_vocab_finish(v, 100, 1, &err));
    OK(trf_vocab_encode(v, "the cat\t s?a", 0, ids, 16, &n, &err));
    begins(v, ids, n, "100110011100");
    trf_vocab_destroy(v);
}

/* Whole words as in the naive loop, which gets their beginnings from the text; words that are all
   too long. */
static void whole_words(void **state)
{
    static const char *const text =
        "a cat sat on the mat and the astonishing dogs of the neighbourhood went home";
    trf_noise_options o = noise_of(TRF_NOISE_MASKS);
    int32_t ids[128], n, first[128], n_words = 0, k, round, some = 0;
    trf_noise *noise;
    trf_vocab *v;
    trf_batch plain, made;
    static naive x;
    (void)state;
    OK(trf_vocab_create(&v, TRF_CHARACTERS, NULL, &err));
    OK(trf_vocab_learn(v, text, &err));
    OK(trf_vocab_finish(v, 100, 1, &err));
    OK(trf_vocab_encode(v, text, 0, ids, 128, &n, &err));
    for (k = 0; k < n; k++)
        if (k == 0 || text[k] == ' ' || text[k - 1] == ' ') first[n_words++] = k;
    first[n_words] = n;
    o.whole_words = 1;
    o.words = v;
    noise = open_noise(&o);
    plain = batch_of(ids, &n, 1);
    for (round = 0; round < 500; round++) {
        plain.place.batch = round;
        OK(trf_noise_apply(noise, &plain, &made, &err));
        naive_masks(&x, &o, draws_of(&o, &plain, 0), ids, n, first, n_words);
        assert_memory_equal(made.source.ids, x.source, (size_t)n * sizeof *ids);
        assert_memory_equal(made.target.ids, x.target, (size_t)n * sizeof *ids);
    }
    k = 12; /* "neighbourhood" alone: 13 letters, of which two are wanted */
    plain = batch_of(ids + (strstr(text, "neigh") - text), &k, 1);
    OK(trf_noise_apply(noise, &plain, &made, &err));
    for (k = 0; k < 12; k++) some += made.target.ids[k] >= 0;
    assert_int_equal(some, 12);
    trf_noise_destroy(noise);
    o.words = NULL;                         /* every token is a word */
    compare(&o, &plain);
    trf_vocab_destroy(v);
}

/* -----------------------------------------------------------------------------------------------
   The same for any split, any order of calls, any object; others for other seeds, epochs, batches
   and ordinals. */

static void same_for_any_split(void **state)
{
    static kit_pairs p;
    int32_t k, i, ranks;
    (void)state;
    for (k = 0; k < 3; k++) {
        trf_noise_options o = noise_of(kinds[k]);
        trf_noise *noise, *other;
        trf_batch whole = kit_fill(&p, 60, 0, 30, 60, 9), made, part, again;
        uint64_t hash, ordinals = 0;
        const int32_t *source, *target;
        o.density = 0.5; /* of a single span nothing is drawn: it is at the end */
        noise = open_noise(&o);
        other = open_noise(&o);
        whole.place.epoch = 2;
        whole.place.batch = 7;
        whole.ordinal = 100;
        OK(trf_noise_apply(noise, &whole, &made, &err));
        hash = hash_batch(&made);
        for (ranks = 2; ranks < 12; ranks++) {
            source = made.source.ids;
            target = made.target.ids;
            for (i = 0; i < 60; i += ranks) {
                int32_t count = ranks < 60 - i ? ranks : 60 - i;
                part = kit_slice(&whole, i, count);
                part.ordinal += 100;
                OK(trf_noise_apply(other, &part, &part, &err));         /* in place, too */
                assert_memory_equal(part.source.lengths, made.source.lengths + i,
                                    (size_t)count * sizeof i);
                assert_memory_equal(part.target.lengths, made.target.lengths + i,
                                    (size_t)count * sizeof i);
                assert_memory_equal(part.source.ids, source,
                                    (size_t)total_of(&part.source) * sizeof i);
                assert_memory_equal(part.target.ids, target,
                                    (size_t)total_of(&part.target) * sizeof i);
                source += total_of(&part.source);
                target += total_of(&part.target);
            }
        }
        OK(trf_noise_apply(other, &whole, &again, &err));
        assert_true(hash_batch(&again) == hash);
        for (i = 0; i < 5; i++) {
            trf_batch changed = whole;
            if (i == 0) changed.place.epoch++;
            if (i == 1) changed.place.batch++;
            if (i == 2) changed.ordinal++;
            if (i == 3) changed.place.epoch = -1;
            if (i == 4) changed.ordinal = -1;               /* refused by the trainer */
            OK(trf_noise_apply(other, &changed, &again, &err));
            if (hash_batch(&again) == hash || hash_batch(&again) == ordinals)
                fail_msg("kind %d, change %d", k, i);
            ordinals = hash_batch(&again);
        }
        trf_noise_destroy(other);
        o.seed++;
        other = open_noise(&o);
        OK(trf_noise_apply(other, &whole, &again, &err));
        assert_true(hash_batch(&again) != hash);
        trf_noise_destroy(other);
        trf_noise_destroy(noise);
    }
}

/* A step in parts: to the noise each tells its first number, to the trainer that of the step; what
   is hidden and what is dropped is then the same. */
static void parts_of_a_step(void **state)
{
    static kit_pairs p;
    trf_noise_options o = noise_of(TRF_NOISE_MASKS);
    trf_config c = kit_config();
    trf_train_options training = kit_training();
    double loss[3], norm[3];
    int way;
    (void)state;
    c.kind = TRF_ENCODER_ONLY;
    c.head = TRF_HEAD_MASKED;
    c.decoder_layers = c.target_vocab = 0;
    c.encoder_layers = 1;
    c.d_model = 16; c.n_heads = 2; c.d_ff = 24;
    c.source_vocab = 100;
    c.source_eos = 0;
    o.mask = c.pad;
    trf_train_set_dropout(&training, 0.3);
    training.threads = 1;
    for (way = 0; way < 3;
         way++) { /* whole; in parts; in parts with ordinals for the trainer too */
        trf_noise *noise = open_noise(&o);
        trf_model *model;
        trf_trainer *trainer;
        trf_step_report report;
        trf_batch whole = kit_fill(&p, 16, 2, 20, 60, 9), part;
        int32_t i, each = way ? 5 : 16;
        OK(trf_model_create(&model, &c, NULL, &err));
        OK(trf_trainer_create(&trainer, model, &training, &err));
        for (i = 0; i < 16; i += each) {
            part = kit_slice(&whole, i, each < 16 - i ? each : 16 - i);
            part.ordinal = i;
            OK(trf_noise_apply(noise, &part, &part, &err));
            if (way < 2) part.ordinal = 0;
            OK(trf_trainer_forward_backward(trainer, &part, NULL, &err));
        }
        OK(trf_trainer_update(trainer, &report, &err));
        loss[way] = report.loss;
        norm[way] = report.gradient_norm;
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
        trf_noise_destroy(noise);
    }
    assert_true(fabs(loss[1] - loss[0]) < 1e-5 * loss[0] &&
                fabs(norm[1] - norm[0]) < 1e-4 * norm[0]);
    assert_true(fabs(loss[2] - loss[0]) > 1e-4 * loss[0]);      /* counted twice: other dropout */
}

/* Labels of sequences stand in front of the targets; all else is as without them. In place, too. */
static void labels_stay_in_front(void **state)
{
    static kit_pairs p;
    trf_noise_options o = noise_of(TRF_NOISE_MASKS);
    trf_noise *noise = open_noise(&o), *keeping;
    trf_batch plain = kit_fill(&p, 60, 0, 30, 60, 9), made, kept;
    int32_t labels[60], ones[60], i;
    const int32_t *want, *got;
    (void)state;
    for (i = 0; i < 60; i++) {
        labels[i] = i - 1;
        ones[i] = 1;
    }
    plain.target.ids = labels;
    plain.target.lengths = ones;
    plain.place.batch = 7;
    OK(trf_noise_apply(noise, &plain, &made, &err));
    o.keep_label = 1;
    keeping = open_noise(&o);
    kept = plain;
    OK(trf_noise_apply(keeping, &kept, &kept, &err));
    assert_int_equal(kept.target.count, 60);
    assert_true(hash_side(HASH_START, &kept.source) == hash_side(HASH_START, &made.source));
    want = made.target.ids;
    got = kept.target.ids;
    for (i = 0; i < 60; i++) {
        int32_t n = made.target.lengths[i];
        assert_int_equal(kept.target.lengths[i], n + 1);
        assert_int_equal(*got++, i - 1);
        if (n) assert_memory_equal(got, want, (size_t)n * sizeof *want);
        want += n;
        got += n;
    }
    ones[7] = 2;
    FAILS(trf_noise_apply(keeping, &plain, &kept, &err), TRF_E_INVALID_ARG, "target", 7);
    ones[7] = 0;
    FAILS(trf_noise_apply(keeping, &plain, &kept, &err), TRF_E_INVALID_ARG, "target", 7);
    ones[7] = 1;
    plain.target.count = 59;
    FAILS(trf_noise_apply(keeping, &plain, &kept, &err), TRF_E_INVALID_ARG, "target", -1);
    assert_int_equal(kept.target.count, 0);
    plain.target.count = 60;
    plain.target.ids = NULL;
    FAILS(trf_noise_apply(keeping, &plain, &kept, &err), TRF_E_INVALID_ARG, "target", -1);
    plain = batch_of(NULL, NULL, 0);
    OK(trf_noise_apply(keeping, &plain, &kept, &err));
    assert_int_equal(kept.target.count, 0);
    trf_noise_destroy(keeping);
    trf_noise_destroy(noise);
}

/* Random ids are never special ones of `words`: of 4 to 7 here, 4 and 6 are special. A special id
   drawn leaves the id of the text. */
static void no_special_ids(void **state)
{
    static const char file[] = "TRFWP\0\0\1" "\0\0\0\0" "\12\0\0\0"
                               "\0\0\0\0" "\xFF\xFF\xFF\xFF" "\xFF\xFF\xFF\xFF" "\1\0\0\0"
                               "\xFF\xFF\xFF\xFF" "\4\0\0\0" "\6\0\0\0" "\10\0\0\0" "\0\0\0\0"
                               "\0\0\0\0" "[PAD]\0[UNK]\0a\0b\0[CLS]\0c\0[SEP]\0##d";
    trf_noise_options o = noise_of(TRF_NOISE_MASKS);
    int32_t many[400], n = 400, count[8] = {0, 0, 0, 0, 0, 0, 0, 0}, i;
    trf_batch plain, made;
    trf_vocab *words;
    trf_noise *noise;
    (void)state;
    OK(trf__vocab_from_bytes(&words, TRF_WORDPIECE, file, sizeof file, NULL, &err));
    for (i = 0; i < n; i++) many[i] = 3;
    plain = batch_of(many, &n, 1);
    o.vocab = 8; o.density = 1; o.masked = 0; o.randomised = 1;
    o.words = words;
    noise = open_noise(&o);
    OK(trf_noise_apply(noise, &plain, &made, &err));
    for (i = 0; i < n; i++) count[made.source.ids[i]]++;
    assert_true(count[4] == 0 && count[6] == 0);
    assert_true(count[3] > 100 && count[5] > 50 && count[7] > 50);
    trf_noise_destroy(noise);
    assert_true(trf__begins_word(words, 3, 5) && !trf__begins_word(words, 3, 7));
    trf_vocab_destroy(words);
}

/* -----------------------------------------------------------------------------------------------
   Corners. */

static void corners(void **state)
{
    static const double densities[] = { 0, 0.5, 1 };
    static const int32_t ids[] = { 9, 8, 7 }, lengths[] = { 0, 1, 2 }, none = 0;
    int32_t k, d;
    (void)state;
    for (k = 0; k < 3; k++)
        for (d = 0; d < 3; d++) {
            trf_noise_options o = noise_of(kinds[k]);
            trf_batch plain = batch_of(ids, lengths, 3), made;
            trf_noise *noise;
            o.density = densities[d];
            o.vocab = 100;
            o.randomised = 0;
            noise = open_noise(&o);
            OK(trf_noise_apply(noise, &plain, &made, &err));
            assert_int_equal(made.source.lengths[0] + made.target.lengths[0], 0);
            if (o.kind == TRF_NOISE_MASKS) {
                assert_int_equal(made.target.ids[0], 9);        /* at least one */
                assert_int_equal((made.target.ids[1] >= 0) + (made.target.ids[2] >= 0),
                                 d == 2 ? 2 : 1);
            } else {
                assert_int_equal(made.source.lengths[1], 1);
                assert_int_equal(made.target.lengths[1], 0);
                assert_int_equal(made.source.ids[0], 9);
                assert_int_equal(made.source.ids[1], 8);
                if (o.kind == TRF_NOISE_SPANS) {
                    assert_int_equal(made.source.ids[2], 60);
                    assert_int_equal(made.target.ids[0], 60);
                }
                assert_int_equal(made.target.ids[made.target.lengths[2] - 1], 7);
            }
            plain = batch_of(NULL, NULL, 0);
            OK(trf_noise_apply(noise, &plain, &made, &err));
            assert_int_equal(made.source.count + made.target.count, 0);
            plain = batch_of(NULL, &none, 1);
            OK(trf_noise_apply(noise, &plain, &made, &err));
            assert_int_equal(made.source.count, 1);
            trf_noise_destroy(noise);
        }
    {
        trf_noise_options o =
            noise_of(TRF_NOISE_MASKS); /* the smallest vocabulary: random ids are 4 */
        trf_batch plain, made;
        trf_noise *noise;
        int32_t many[200], n = 200;
        for (k = 0; k < 200; k++) many[k] = 3;
        o.vocab = 5; o.density = 1; o.masked = 0; o.randomised = 1;
        noise = open_noise(&o);
        plain = batch_of(many, &n, 1);
        OK(trf_noise_apply(noise, &plain, &made, &err));
        for (k = 0; k < 200; k++) assert_int_equal(made.source.ids[k], 4);
        trf_noise_destroy(noise);
    }
    trf_noise_destroy(NULL);
}

static void refused(const trf_noise_options *o, const char *what)
{
    trf_noise *noise = (trf_noise *)&err;
    FAILS(trf_noise_create(&noise, o, &err), TRF_E_INVALID_ARG, what, -1);
    assert_null(noise);
}
#define REFUSED(of, field, value) (o = noise_of(of), o.field = (value), refused(&o, #field))

static void options_refused(void **state)
{
    static const double bad[] = { -1e-9, 1.0000001, -1, 2, HUGE_VAL, -HUGE_VAL, 1e308, 0 };
    trf_noise_options o;
    trf_noise *noise;
    size_t i;
    (void)state;
    FAILS(trf_noise_create(NULL, NULL, &err), TRF_E_INVALID_ARG, "noise", -1);
    refused(NULL, "vocab");                                     /* what no default can know */
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = i == 7 ? (double)NAN : bad[i];
        REFUSED(TRF_NOISE_MASKS, density, value);
        REFUSED(TRF_NOISE_PREFIX, density, value);
        REFUSED(TRF_NOISE_MASKS, masked, value);
        REFUSED(TRF_NOISE_SPANS, randomised, value);
    }
    REFUSED(TRF_NOISE_MASKS, kind, (trf_noise_kind)3);
    REFUSED(TRF_NOISE_MASKS, kind, (trf_noise_kind)-1);
    REFUSED(TRF_NOISE_MASKS, whole_words, 2);
    REFUSED(TRF_NOISE_MASKS, keep_label, 2);
    REFUSED(TRF_NOISE_SPANS, keep_label, 1);
    REFUSED(TRF_NOISE_PREFIX, keep_label, 1);
    REFUSED(TRF_NOISE_MASKS, pad, -2);
    REFUSED(TRF_NOISE_MASKS, bos, -2);
    REFUSED(TRF_NOISE_MASKS, eos, -1);
    REFUSED(TRF_NOISE_SPANS, whole_words, 1);
    REFUSED(TRF_NOISE_PREFIX, whole_words, 1);
    REFUSED(TRF_NOISE_SPANS, mean_span, 1e-30);
    REFUSED(TRF_NOISE_SPANS, mean_span, 0.999);
    REFUSED(TRF_NOISE_SPANS, mean_span, 1000001);
    REFUSED(TRF_NOISE_SPANS, mean_span, (double)NAN);
    REFUSED(TRF_NOISE_MASKS, vocab, 4);
    REFUSED(TRF_NOISE_MASKS, vocab, (1 << 24) + 1);
    REFUSED(TRF_NOISE_SPANS, vocab, INT32_MIN);
    REFUSED(TRF_NOISE_MASKS, mask, 100);
    REFUSED(TRF_NOISE_MASKS, mask, -1);
    REFUSED(TRF_NOISE_SPANS, first_sentinel, 3);
    REFUSED(TRF_NOISE_SPANS, first_sentinel, INT32_MAX);
    REFUSED(TRF_NOISE_SPANS, n_sentinels, 0);
    REFUSED(TRF_NOISE_SPANS, n_sentinels, INT32_MAX);
    REFUSED(TRF_NOISE_PREFIX, n_sentinels, -1);
    o = noise_of(TRF_NOISE_MASKS);
    o.masked = 0.8; o.randomised = 0.201;
    refused(&o, "masked + randomised");
    for (i = 0; i <= 1000; i++) {                               /* decimals whose sum is 1 */
        o.masked = (double)i / 1000; o.randomised = (double)(1000 - i) / 1000;
        OK(trf_noise_create(&noise, &o, &err));
        trf_noise_destroy(noise);
    }
    o.hooks.free = kit_free;
    refused(&o, "hooks");
    o = noise_of(TRF_NOISE_MASKS);
    { trf_vocab *learning;
      OK(trf_vocab_create(&learning, TRF_WORDS, NULL, &err));
      o.words = learning;
      FAILS(trf_noise_create(&noise, &o, &err), TRF_E_STATE, "vocab", -1);
      trf_vocab_destroy(learning); }
}

/* Applies what must be refused: nothing is made. */
static void unmade(trf_noise *noise, trf_batch plain, trf_status status, int64_t where)
{
    static const trf_batch empty;
    trf_batch made;
    memset(&made, 0x55, sizeof made);
    FAILS(trf_noise_apply(noise, &plain, &made, &err), status, "source", where);
    assert_memory_equal(&made.source, &empty.source, sizeof made.source);
    assert_memory_equal(&made.target, &empty.target, sizeof made.target);
}

static void batches_refused(void **state)
{
    int32_t ids[] = {5, 6, 7, 8, 9, 10}, lengths[] = {2, 0, 4}, huge[] = {INT32_MAX, 1, INT32_MAX},
            k;
    (void)state;
    for (k = 0; k < 3; k++) {
        trf_noise_options o = noise_of(kinds[k]);
        trf_noise *noise = open_noise(&o);
        trf_batch plain = batch_of(ids, lengths, 3), made;
        FAILS(trf_noise_apply(NULL, &plain, &made, &err), TRF_E_INVALID_ARG, "noise", -1);
        FAILS(trf_noise_apply(noise, NULL, &made, &err), TRF_E_INVALID_ARG, "plain", -1);
        FAILS(trf_noise_apply(noise, &plain, NULL, &err), TRF_E_INVALID_ARG, "made", -1);
        ids[4] = -1;
        unmade(noise, plain, TRF_E_INVALID_ARG, 4);
        assert_non_null(strstr(err.message, "sequence 2, position 2"));
        ids[4] = 60 + 39;
        if (k == 1) unmade(noise, plain, TRF_E_INVALID_ARG, 4);
        else OK(trf_noise_apply(noise, &plain, &made, &err));
        ids[4] = 100;
        if (k == 0) unmade(noise, plain, TRF_E_INVALID_ARG, 4);
        else OK(trf_noise_apply(noise, &plain, &made, &err));
        ids[4] = INT32_MAX;
        unmade(noise, plain, TRF_E_INVALID_ARG, 4);
        ids[4] = 9;
        lengths[1] = -1;
        unmade(noise, plain, TRF_E_INVALID_ARG, 1);
        lengths[1] = 0;
        unmade(noise, batch_of(ids, huge, 3), TRF_E_LIMIT, 2 * (int64_t)INT32_MAX + 1);
        unmade(noise, batch_of(ids, lengths, -1), TRF_E_INVALID_ARG, -1);
        unmade(noise, batch_of(ids, NULL, 3), TRF_E_INVALID_ARG, -1);
        unmade(noise, batch_of(NULL, lengths, 3), TRF_E_INVALID_ARG, -1);
        OK(trf_noise_apply(noise, &plain, &made, &err));
        trf_noise_destroy(noise);
    }
}

static void out_of_memory(void **state)
{
    static kit_pairs p;
    trf_batch plain = kit_fill(&p, 20, 0, 30, 60, 4), made;
    uint64_t hash = 0;
    int k;
    (void)state;
    for (k = 1; ; k++) {
        kit_memory h;
        trf_noise_options o = noise_of(TRF_NOISE_SPANS);
        trf_noise *noise;
        int failed = 0;
        o.hooks = kit_hooks(&h);
        h.fail_at = k;
        if (trf_noise_create(&noise, &o, &err) != TRF_OK) {
            assert_int_equal(err.status, TRF_E_NOMEM);
            assert_null(noise);
            failed = 1;
            OK(trf_noise_create(&noise, &o, &err));
        }
        if (trf_noise_apply(noise, &plain, &made, &err) != TRF_OK) {
            assert_int_equal(err.status, TRF_E_NOMEM);
            assert_int_equal(made.source.count, 0);
            failed = 1;
            OK(trf_noise_apply(noise, &plain, &made, &err));
        }
        assert_true(!hash || hash == hash_batch(&made));
        hash = hash_batch(&made);
        h.fail_at = 0;
        h.calls = 0;
        OK(trf_noise_apply(noise, &plain, &made, &err));
        assert_int_equal(h.calls, 0);                           /* nothing grows any more */
        trf_noise_destroy(noise);
        assert_int_equal(h.blocks, 0);
        if (!failed) break;
    }
    assert_int_equal(k, 3);
}

/* -----------------------------------------------------------------------------------------------
   What it is for: models that learn from texts alone, with a vocabulary that has grown by its
   sentinels. */
static void learning(void **state)
{
    int k, i;
    (void)state;
    for (k = 0; k < 3; k++) {
        trf_config c = kit_config();
        trf_train_options to = kit_training();
        trf_corpus_options co = trf_corpus_defaults();
        trf_noise_options o = noise_of(kinds[k]);
        trf_vocab *v;
        trf_corpus *corpus;
        trf_model *model;
        trf_trainer *trainer;
        trf_noise *noise;
        trf_batch batch;
        trf_step_report report;
        double first = 0;
        char text[64];
        OK(trf_vocab_create(&v, TRF_WORDS, NULL, &err));
        OK(trf_vocab_learn(v, "a b c d e f g h i j", &err));
        OK(trf_vocab_finish(v, 100, 1, &err));
        OK(trf_corpus_create(&corpus, &co, &err));
        for (i = 0; i < 200; i++) {         /* the alphabet, from anywhere on */
            int n = 4 + i % 9, j;
            for (j = 0; j < n; j++) {
                text[2 * j] = (char)('a' + (i + j) % 10);
                text[2 * j + 1] = ' ';
            }
            text[2 * n] = 0;
            OK(trf_corpus_add_text(corpus, v, text, NULL, NULL, &err));
        }
        o.first_sentinel = trf_vocab_size(v);
        o.n_sentinels = 4;
        for (i = 0; i < 4; i++) {
            snprintf(text, sizeof text, "<extra_id_%d>", i);
            OK(trf_vocab_add(v, text, &err));
        }
        o.density = 0.3;
        o.vocab = trf_vocab_size(v);
        c.d_model = 32; c.n_heads = 2; c.d_ff = 64;
        c.source_vocab = c.target_vocab = trf_vocab_size(v);
        c.encoder_layers = c.decoder_layers = 1;
        c.device.threads = to.threads = 1;
        if (o.kind == TRF_NOISE_MASKS) {
            c.kind = TRF_ENCODER_ONLY;
            c.head = TRF_HEAD_MASKED;
            c.decoder_layers = 0;
        }
        trf_train_set_dropout(&to, 0);
        to.label_smoothing = 0;
        to.schedule = TRF_CONSTANT; to.learning_rate = 0.005; to.warmup = 10;
        OK(trf_model_create(&model, &c, NULL, &err));
        if (o.kind != TRF_NOISE_MASKS) OK(trf_model_set_vocabs(model, v, v, &err));
        OK(trf_trainer_create(&trainer, model, &to, &err));
        noise = open_noise(&o);
        for (i = 0; i < 80; i++) {
            OK(trf_corpus_next(corpus, &batch, &err));
            OK(trf_noise_apply(noise, &batch, &batch, &err));
            OK(trf_trainer_step(trainer, &batch, &report, &err));
            if (i == 0) first = report.loss;
        }
        if (!(report.loss < 0.4 * first)) fail_msg("kind %d: from %g to %g", k, first, report.loss);
        trf_noise_destroy(noise); trf_trainer_destroy(trainer); trf_model_destroy(model);
        trf_corpus_destroy(corpus); trf_vocab_destroy(v);
    }
}

/* EOS between two texts is never hidden, ends a word, and like pad and BOS never drawn. */
static void pairs_of_texts(void **state)
{
    enum { ROUNDS = 400, N = 6, PAD = 5, BOS = 6, EOS = 7, TEXTS = 12 };
    const int32_t ids[N] = {4, 8, EOS, 9, 10, EOS}, lengths[1] = {N};
    int32_t drawn[TEXTS] = {0}, hidden[N] = {0}, word[4] = {4, 5, 2, 6}, round, k, four = 4;
    int together = 0, alone = 0;
    trf_noise_options o = trf_noise_defaults();
    trf_vocab *vocab = NULL;
    trf_noise *noise;
    trf_batch plain, made;
    (void)state;
    assert_true(o.pad == 0 && o.bos == 1 && o.eos == 2);
    memset(&plain, 0, sizeof plain);
    plain.source.ids = ids;
    plain.source.lengths = lengths;
    plain.source.count = 1;
    o.vocab = TEXTS;
    o.pad = PAD; o.bos = BOS; o.eos = EOS;
    o.masked = 0; o.randomised = 1; o.density = 0.5;
    noise = open_noise(&o);
    for (round = 0; round < ROUNDS; round++) {
        plain.place.batch = round;
        OK(trf_noise_apply(noise, &plain, &made, &err));
        for (k = 0; k < N; k++) {
            if (made.target.ids[k] < 0) { assert_int_equal(made.source.ids[k], ids[k]); continue; }
            assert_int_equal(made.target.ids[k], ids[k]);
            hidden[k]++;
            drawn[made.source.ids[k]]++;
        }
    }
    trf_noise_destroy(noise);
    o.pad = o.bos = -1;                 /* a model that lacks them */
    OK(trf__noise_check(&o, &err));
    o.pad = -2;
    assert_int_equal(trf__noise_check(&o, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "pad");
    assert_true(!hidden[2] && !hidden[5]);
    for (k = 0; k < N; k++) if (k != 2 && k != 5) assert_true(hidden[k] > ROUNDS / 2);
    for (k = 0; k < TEXTS; k++)
        assert_true(k < 4 || (k >= PAD && k <= EOS) ? drawn[k] == 0 : drawn[k] > ROUNDS / 6);
    OK(trf_vocab_create(&vocab, TRF_CHARACTERS, NULL, &err));
    OK(trf_vocab_learn(vocab, "aaabbc", &err));
    OK(trf_vocab_finish(vocab, 100, 1, &err));
    o = trf_noise_defaults();
    o.vocab = trf_vocab_size(vocab);
    o.words = vocab;
    o.whole_words = 1;
    o.density = 0.5;
    noise = open_noise(&o);
    plain.source.ids = word;            /* "ab", EOS, "c" */
    plain.source.lengths = &four;
    for (round = 0; round < 50; round++) {
        plain.place.batch = round;
        OK(trf_noise_apply(noise, &plain, &made, &err));
        assert_int_equal(made.target.ids[0] >= 0, made.target.ids[1] >= 0);
        assert_int_equal(made.target.ids[2], -1);
        assert_true((made.target.ids[0] >= 0) != (made.target.ids[3] >= 0));
        together += made.target.ids[0] >= 0;
        alone += made.target.ids[3] >= 0;
    }
    assert_true(together > 5 && alone > 5);
    trf_noise_destroy(noise);
    trf_vocab_destroy(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(naive_loops),
        cmocka_unit_test(masks_as_foretold),
        cmocka_unit_test(spans_and_prefixes_as_foretold),
        cmocka_unit_test(where_words_begin),
        cmocka_unit_test(whole_words),
        cmocka_unit_test(pairs_of_texts),
        cmocka_unit_test(same_for_any_split),
        cmocka_unit_test(parts_of_a_step),
        cmocka_unit_test(labels_stay_in_front),
        cmocka_unit_test(no_special_ids),
        cmocka_unit_test(corners),
        cmocka_unit_test(options_refused),
        cmocka_unit_test(batches_refused),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(learning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

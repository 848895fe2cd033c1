/* build: shared double:O0 separate:shared long:shared plain:shared */
/* Looking inside: every attention map and every layer's states out of one pass, the decoder and the
   projection alone, and counts from a configuration. Each is compared with another route to the
   same numbers. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "kit.h"

enum { VOCAB = 23, D = 12, HEADS = 3, ENCODER = 3, DECODER = 2, PAIRS = 5, MOST = 1 << 16 };

static kit_pairs pairs;
static trf_real maps[3][MOST], states[2][MOST], logits[MOST], other[MOST], more[MOST];

static trf_config config_of(trf_kind kind, trf_norm_place place)
{
    trf_config c = kit_small(ENCODER, D, VOCAB, 40);
    c.decoder_layers = DECODER;
    c.n_heads = HEADS;
    c.norm_place = place;
    c.device.threads = 2;
    c.device.products = TRF_PRODUCTS_BUILT_IN; /* a row's bits depend on nothing but its sequence */
    return kit_of_kind(c, kind);
}

/* A model whose norms and biases are not what they start as, and its translator. */
typedef struct lab { trf_model *model; trf_translator *translator; } lab;

static lab open_lab(const trf_config *c)
{
    lab l;
    int32_t i;
    int64_t k;
    trf_error err;
    if (trf_model_create(&l.model, c, NULL, &err) != TRF_OK) fail_msg("%s", err.message);
    for (i = 0; i < trf_model_parameter_count(l.model); i++) {
        trf_tensor w = kit_open(trf_model_parameter(l.model, i));
        for (k = 0; k < trf_tensor_count(&w); k++)
            w.data[k] += (trf_real)(0.2 * (2 * trf__uniform(7, (uint32_t)i, (uint64_t)k) - 1));
        kit_close(&w);
    }
    assert_int_equal(trf_translator_create(&l.translator, l.model, NULL, &err), TRF_OK);
    return l;
}

static lab lab_of(trf_kind kind, int place)
{
    trf_config c = config_of(kind, (trf_norm_place)place);
    return open_lab(&c);
}

static void close_lab(lab *l)
{
    trf_translator_destroy(l->translator);
    trf_model_destroy(l->model);
}

/* Equal bits where a row depends on its sequence alone; else equal but for rounding. */
static void assert_same(const char *what, const trf_real *got, const trf_real *want, int64_t n)
{
    int64_t i;
    assert_true(n > 0);
    for (i = 0; i < n; i++)
        if (KIT_SAME_ROWS ? memcmp(&got[i], &want[i], sizeof *got) != 0
                          : !(fabs((double)got[i] - (double)want[i]) < 1e-4))
            fail_msg("%s: number %lld is %.9g, not %.9g", what, (long long)i, (double)got[i],
                     (double)want[i]);
}

/* All that a model tells of a batch. The maps of all sequences follow one another. */
typedef struct all_views { trf_tensor map[3], state[2], logits; int32_t what; } all_views;

static void want_all(all_views *a, const lab *l)
{
    const trf_config *c = trf_model_config(l->model);
    memset(a, 0, sizeof *a);
    if (c->encoder_layers) a->what |= TRF_READ_ENCODER_SELF | TRF_READ_ENCODER_STATES;
    if (c->decoder_layers) a->what |= TRF_READ_DECODER_SELF | TRF_READ_DECODER_STATES;
    if (c->decoder_layers && c->encoder_layers) a->what |= TRF_READ_CROSS;
    if (c->decoder_layers || c->head) a->what |= TRF_READ_LOGITS;
}

/* Reads, and copies to the arrays of this file. */
static trf_status see(all_views *a, const lab *l, const trf_batch *batch, trf_error *err)
{
    trf_reading x;
    trf_status status = trf_reader_read(trf_translator_reader(l->translator), batch, a->what, NULL, &x, err);
    int64_t n, at;
    int i, k;
    memset(maps, 0x5A, sizeof maps);
    memset(states, 0x5A, sizeof states);
    memset(logits, 0x5A, sizeof logits);
    if (status != TRF_OK) {
        assert_null(x.logits.data); assert_null(x.attention[0]); assert_int_equal(x.count, 0);
        return status;
    }
    for (k = 0; k < 3; k++) {
        for (at = i = 0; x.attention[k] && i < x.count; i++, at += n) {
            n = trf_tensor_count(&x.attention[k][i]);
            assert_true((size_t)(at + n) <= sizeof maps[k] / sizeof *maps[k]);
            memcpy(maps[k] + at, x.attention[k][i].data, (size_t)n * sizeof *maps[k]);
        }
        a->map[k] = trf_tensor_of(maps[k], 1, x.attention[k] ? at : 0, 1, 1);
    }
    a->state[0] = x.encoder_states; a->state[1] = x.decoder_states;
    for (k = 0; k < 2; k++)
        if (a->state[k].data) {
            memcpy(states[k], a->state[k].data, (size_t)trf_tensor_count(&a->state[k]) * sizeof *states[k]);
            a->state[k].data = states[k];
        }
    a->logits = x.logits;
    if (x.logits.data) {
        memcpy(logits, x.logits.data, (size_t)trf_tensor_count(&x.logits) * sizeof *logits);
        a->logits.data = logits;
    }
    return TRF_OK;
}

static void look(all_views *a, const lab *l, const trf_batch *batch)
{
    trf_error err;
    want_all(a, l);
    if (see(a, l, batch, &err) != TRF_OK) fail_msg("%s: %s", err.what, err.message);
}

static trf_batch some_pairs(int32_t count, uint64_t seed)
{
    return kit_fill(&pairs, count, 0, 9, VOCAB, seed);
}

/* The block of one sequence (layers, heads, queries, keys) in what `see` has copied. */
static trf_tensor block_of(const all_views *a, const trf_config *c, const trf_batch *batch, int kind, int i)
{
    trf_tensor one = trf_tensor_of(maps[kind], 1, 0, 1, 1);
    int k;
    one.rank = 4;
    one.shape[0] = kind == TRF_ENCODER_SELF ? c->encoder_layers : c->decoder_layers;
    one.shape[1] = c->n_heads;
    for (k = 0; k <= i; k++) {
        int64_t source = c->encoder_layers ? batch->source.lengths[k] + c->source_bos + c->source_eos : 0;
        int64_t target = kind == TRF_ENCODER_SELF ? 0 : batch->target.lengths[k] + c->target_eos;
        if (k) one.data += trf_tensor_count(&one);
        one.shape[2] = kind == TRF_ENCODER_SELF ? source : target;
        one.shape[3] = kind == TRF_DECODER_SELF ? target : source;
    }
    assert_true(one.data + trf_tensor_count(&one) <= maps[kind] + a->map[kind].shape[0]);
    return one;
}

/* Each map equals that of the pass for that sequence, layer and head; a row sums to 1. */
static void check_maps(const lab *l, const trf_batch *batch, all_views *a)
{
    int kind, layer, head, i;
    for (kind = 0; kind < 3; kind++)
        for (i = 0; i < (a->map[kind].shape[0] ? batch->source.count : 0); i++) {
            trf_batch one = kit_slice(batch, i, 1);
            const trf_config *c = trf_model_config(l->model);
            trf_tensor block = block_of(a, c, batch, kind, i);
            int64_t numbers = block.shape[2] * block.shape[3], k;
            if (!numbers) continue;
            assert_int_equal(block.rank, 4);
            for (layer = 0; layer < block.shape[0]; layer++)
                for (head = 0; head < block.shape[1]; head++) {
                    const trf_real *map = block.data + (layer * HEADS + head) * numbers;
                    trf_tensor out = trf_tensor_of(other, 2, block.shape[2], block.shape[3], 1);
                    double sum = 0;
                    assert_int_equal(kit_attention_weights(l->translator, &one,
                                                           (trf_attention_kind)kind, layer, head,
                                                           &out, NULL),
                                     TRF_OK);
                    assert_same("map", map, other, numbers);
                    if (head && block.shape[2] > 1 && block.shape[3] > 1)
                        assert_true(memcmp(map, map - numbers, (size_t)numbers * sizeof *map) != 0);
                    for (k = 0; k < numbers; k++) sum += (double)map[k];
                    assert_true(fabs(sum - (double)block.shape[2]) < 1e-4);
                }
        }
}

static void test_maps(void **state)
{
    int kind, place;
    (void)state;
    for (kind = 0; kind < 3; kind++)
        for (place = 0; place < 2; place++) {
            trf_config c = config_of((trf_kind)kind, (trf_norm_place)place);
            lab l = open_lab(&c);
            trf_batch batch = some_pairs(PAIRS, 3);
            all_views a;
            look(&a, &l, &batch);
            check_maps(&l, &batch, &a);
            close_lab(&l);
        }
}

/* The first `layers` layers of a model, without a final norm. */
static lab first_layers(const lab *l, int encoder, int decoder)
{
    trf_config c = *trf_model_config(l->model);
    lab part;
    c.final_norm = TRF_FINAL_NORM_NONE;
    c.encoder_layers = encoder;
    c.decoder_layers = decoder;
    if (!decoder) { c.kind = TRF_ENCODER_ONLY; c.tying = TRF_UNTIED; }
    assert_int_equal(trf_model_create(&part.model, &c, NULL, NULL), TRF_OK);
    assert_int_equal(trf_model_copy_weights(part.model, l->model, NULL, NULL), TRF_OK);
    assert_int_equal(trf_translator_create(&part.translator, part.model, NULL, NULL), TRF_OK);
    return part;
}

/* State i of the encoder is what a model of i layers makes; the last one is TRF_READ_ENCODED.
 */
static void test_encoder_states(void **state)
{
    int place, i;
    (void)state;
    for (place = 0; place < 2; place++) {
        lab l = lab_of(TRF_ENCODER_DECODER, place);
        trf_batch batch = some_pairs(PAIRS, 4);
        int64_t rows = kit_source_rows(l.model, &batch.source);
        trf_tensor out = trf_tensor_of(other, 2, rows, D, 1);
        all_views a;
        look(&a, &l, &batch);
        for (i = 1; i < ENCODER; i++) {
            lab part = first_layers(&l, i, 0);
            assert_int_equal(kit_encode(part.translator, &batch.source, &out, NULL), TRF_OK);
            assert_same("state of the encoder", states[0] + i * rows * D, other, rows * D);
            close_lab(&part);
        }
        assert_int_equal(kit_encode(l.translator, &batch.source, &out, NULL), TRF_OK);
        assert_same("last state", states[0] + ENCODER * rows * D, other, rows * D);
        close_lab(&l);
    }
}

/* State 0 is the embedding times its factor plus the position. */
static void test_first_state(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    lab l = open_lab(&c);
    trf_batch batch = some_pairs(PAIRS, 5);
    trf_tensor table = trf_tensor_of(other, 2, c.max_length, D, 1);
    trf_real *weight = kit_numbers(
        trf_model_parameter(l.model, trf_model_parameter_index(l.model, "src_embed.weight")));
    all_views a;
    int64_t row = 0, at = 0, k;
    int i, p;
    (void)state;
    assert_int_equal(trf_position_table(c.positions, c.position_offset, &table, NULL), TRF_OK);
    look(&a, &l, &batch);
    for (i = 0; i < PAIRS; i++, at += batch.source.lengths[i - 1])
        for (p = 0; p <= batch.source.lengths[i]; p++, row++)
            for (k = 0; k < D; k++) {
                int32_t id = p < batch.source.lengths[i] ? batch.source.ids[at + p] : c.eos;
                double want = sqrt(D) * (double)weight[id * D + k] + (double)other[p * D + k];
                assert_true(fabs((double)states[0][row * D + k] - want) < 1e-5);
            }
    free(weight);
    close_lab(&l);
}

/* The decoder alone on the encoder's output is the whole model, layer by layer; projected, it gives
   the logits. */
static void test_decode(void **state)
{
    int place, i;
    (void)state;
    for (place = 0; place < 2; place++) {
        lab l = lab_of(TRF_ENCODER_DECODER, place);
        trf_batch batch = some_pairs(PAIRS, 6);
        int64_t source = kit_source_rows(l.model, &batch.source),
                target = kit_target_rows(l.model, &batch.target);
        trf_tensor memory = trf_tensor_of(other, 2, source, D, 1),
                   out = trf_tensor_of(more, 2, target, D, 1), z;
        int32_t lengths[PAIRS];
        all_views a;
        look(&a, &l, &batch);
        for (i = 0; i < PAIRS; i++) lengths[i] = batch.source.lengths[i] + 1;
        assert_int_equal(kit_encode(l.translator, &batch.source, &memory, NULL), TRF_OK);
        for (i = 1; i < DECODER; i++) {
            lab part = first_layers(&l, ENCODER, i);
            assert_int_equal(kit_decode(part.translator, &memory, lengths, &batch.target, &out,
                                        NULL),
                             TRF_OK);
            assert_same("state of the decoder", states[1] + i * target * D, more, target * D);
            close_lab(&part);
        }
        assert_int_equal(kit_decode(l.translator, &memory, lengths, &batch.target, &out, NULL),
                         TRF_OK);
        assert_same("decoder alone", more, states[1] + DECODER * target * D, target * D);
        z = trf_tensor_of(other, 2, target, VOCAB, 1);
        assert_int_equal(kit_project(l.translator, &out, &z, NULL), TRF_OK);
        assert_same("projection", other, logits, target * VOCAB);
        z.data = more;
        assert_int_equal(kit_logits(l.translator, &batch, &z, NULL), TRF_OK);
        assert_same("logits", more, logits, target * VOCAB);
        close_lab(&l);
    }
}

/* A memory of the caller's own, of other lengths than any source: together as one by one. */
static void test_decode_own_memory(void **state)
{
    static const int32_t lengths[PAIRS] = {1, 30, 4, 40, 7};
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_POST_NORM);
    int eos;
    (void)state;
    for (eos = 0; eos < 2; eos++) {
        trf_batch batch = some_pairs(PAIRS, 8);
        trf_tensor memory = trf_tensor_of(other, 2, 82, D, 1), out, one;
        int64_t i, rows, at = 0, row = 0;
        lab l;
        c.source_eos = eos;
        l = open_lab(&c);
        for (i = 0; i < 82 * D; i++) other[i] = (trf_real)(2 * trf__uniform(1, 2, (uint64_t)i) - 1);
        rows = kit_target_rows(l.model, &batch.target);
        out = trf_tensor_of(states[0], 2, rows, D, 1);
        assert_int_equal(kit_decode(l.translator, &memory, lengths, &batch.target, &out, NULL),
                         TRF_OK);
        for (i = 0; i < PAIRS; i++) {
            trf_batch single = kit_slice(&batch, (int32_t)i, 1);
            int64_t n = kit_target_rows(l.model, &single.target);
            memory = trf_tensor_of(other + at * D, 2, lengths[i], D, 1);
            one = trf_tensor_of(more, 2, n, D, 1);
            assert_int_equal(kit_decode(l.translator, &memory, lengths + i, &single.target, &one,
                                        NULL),
                             TRF_OK);
            assert_same("one by one", states[0] + row * D, more, n * D);
            at += lengths[i];
            row += n;
        }
        close_lab(&l);
    }
}

/* Encoder-only models with a head, and decoder-only ones. */
static void test_other_kinds(void **state)
{
    int head, i;
    (void)state;
    for (head = TRF_HEAD_NONE; head <= TRF_HEAD_TOKENS; head++) {
        trf_config c = config_of(TRF_ENCODER_ONLY, TRF_PRE_NORM);
        trf_batch batch = some_pairs(PAIRS, 9);
        trf_tensor out;
        all_views a;
        lab l;
        c.target_vocab = 0;
        c.head = (trf_head)head;
        c.n_labels = head ? 4 : 0;
        l = open_lab(&c);
        batch.target.ids = NULL;        /* nobody may look at them */
        batch.target.lengths = NULL;
        batch.target.count = 77;
        if (head) {
            look(&a, &l, &batch);
            out = trf_tensor_of(other, 2, a.logits.shape[0], 4, 1);
            assert_int_equal(kit_logits(l.translator, &batch, &out, NULL), TRF_OK);
            assert_same("logits of a head", logits, other, 4 * out.shape[0]);
        }
        want_all(&a, &l);
        a.what &= ~TRF_READ_LOGITS;
        assert_int_equal(see(&a, &l, &batch, NULL), TRF_OK);
        out = trf_tensor_of(other, 2, a.state[0].shape[1], D, 1);
        assert_int_equal(kit_encode(l.translator, &batch.source, &out, NULL), TRF_OK);
        assert_same("states", states[0] + ENCODER * out.shape[0] * D, other, out.shape[0] * D);
        close_lab(&l);
    }
    {
        trf_config c = config_of(TRF_DECODER_ONLY, TRF_PRE_NORM);
        trf_batch batch = some_pairs(PAIRS, 10);
        trf_tensor out;
        all_views a;
        lab l = open_lab(&c);
        look(&a, &l, &batch);
        out = trf_tensor_of(other, 2, a.state[1].shape[1], VOCAB, 1);
        assert_int_equal(kit_logits(l.translator, &batch, &out, NULL), TRF_OK);
        assert_same("logits", logits, other, VOCAB * out.shape[0]);
        out = trf_tensor_of(states[1] + DECODER * out.shape[0] * D, 2, out.shape[0], D, 1);
        a.logits.data = more;
        assert_int_equal(kit_project(l.translator, &out, &a.logits, NULL), TRF_OK);
        assert_same("projection", more, other, VOCAB * out.shape[0]);
        for (i = 0; i < DECODER * HEADS; i++) assert_true(maps[TRF_DECODER_SELF][i] >= 0);
        close_lab(&l);
    }
}

/* Views of the encoder alone do not read the target, which may be anything. */
static void test_encoder_alone(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    lab l = open_lab(&c);
    trf_batch batch = some_pairs(PAIRS, 11), half;
    all_views a;
    (void)state;
    look(&a, &l, &batch);
    memcpy(other, states[0], sizeof other);
    memcpy(more, maps[0], sizeof more);
    half = batch;
    half.target.ids = NULL; half.target.lengths = NULL; half.target.count = -3;
    want_all(&a, &l);
    a.what = TRF_READ_ENCODER_SELF | TRF_READ_ENCODER_STATES;
    assert_int_equal(see(&a, &l, &half, NULL), TRF_OK);
    assert_same("states", states[0], other, trf_tensor_count(&a.state[0]));
    assert_same("maps", maps[0], more, trf_tensor_count(&a.map[0]));
    close_lab(&l);
}

static void refused(const lab *l, const trf_batch *batch, int32_t what, trf_status status, const char *field)
{
    trf_reader *reader = trf_translator_reader(l->translator);
    trf_reading x;
    trf_error err;
    memset(&x, 0x55, sizeof x);
    assert_int_equal(trf_reader_read(reader, batch, what, NULL, &x, &err), status);
    assert_string_equal(err.what, field);
    assert_null(x.encoded.data); assert_null(x.attention[2]); assert_int_equal(x.count, 0);
    assert_int_equal(trf_reader_read(reader, batch, what, NULL, &x, NULL), status);
}

static void test_errors(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM),
               e = config_of(TRF_ENCODER_ONLY, TRF_PRE_NORM),
               d = config_of(TRF_DECODER_ONLY, TRF_PRE_NORM);
    lab l = open_lab(&c), encoder = open_lab(&e), decoder = open_lab(&d);
    trf_batch batch = some_pairs(PAIRS, 13);
    trf_tensor rows = trf_tensor_of(other, 2, 5, D, 1);
    trf_read_from from;
    trf_reading x;
    trf_error err;
    int i;
    (void)state;
    refused(&l, NULL, TRF_READ_LOGITS, TRF_E_INVALID_ARG, "batch");
    refused(&l, &batch, 0, TRF_E_INVALID_ARG, "what");
    refused(&l, &batch, -1, TRF_E_INVALID_ARG, "what");
    refused(&l, &batch, 256, TRF_E_INVALID_ARG, "what");
    assert_int_equal(trf_reader_read(trf_translator_reader(l.translator), &batch, TRF_READ_LOGITS, NULL, NULL, NULL),
                     TRF_E_INVALID_ARG);
    assert_int_equal(trf_reader_read(NULL, &batch, TRF_READ_LOGITS, NULL, &x, NULL), TRF_E_INVALID_ARG);
    for (i = 1; i < 256; i *= 2) {
        int encodes = i <= TRF_READ_ENCODER_SELF;
        if (encodes || i == TRF_READ_CROSS) refused(&decoder, &batch, i, TRF_E_STATE, "kind");
        if (!encodes) refused(&encoder, &batch, i, TRF_E_STATE, "kind");
        memset(&from, 0, sizeof from);
        from.states = &rows;            /* all that it leads to are logits */
        if (i != TRF_READ_LOGITS)
            assert_int_equal(trf_reader_read(trf_translator_reader(l.translator), &batch, i, &from, &x, &err),
                             TRF_E_INVALID_ARG);
        from.states = NULL;
        from.memory = &rows;
        if (encodes)
            assert_int_equal(trf_reader_read(trf_translator_reader(l.translator), &batch, i, &from, &x, &err),
                             TRF_E_INVALID_ARG);
    }
    from.states = from.memory = &rows;
    assert_int_equal(trf_reader_read(trf_translator_reader(l.translator), &batch, TRF_READ_LOGITS, &from, &x, &err),
                     TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "from");
    batch.target.count--;
    refused(&l, &batch, TRF_READ_LOGITS, TRF_E_INVALID_ARG, "target");
    batch.target.count++;
    pairs.target_lengths[2] = -1;
    refused(&l, &batch, TRF_READ_CROSS | TRF_READ_LOGITS, TRF_E_INVALID_ARG, "target");
    close_lab(&l);
    close_lab(&encoder);
    close_lab(&decoder);
}

static void decode_refused(const lab *l, const trf_tensor *memory, const int32_t *lengths,
                           const trf_sequences *targets, trf_tensor *out, trf_status status,
                           const char *what, int64_t where)
{
    trf_error err;
    assert_int_equal(kit_decode(l->translator, memory, lengths, targets, out, &err), status);
    assert_string_equal(err.what, what);
    assert_int_equal(err.where, where);
}

static void test_decode_errors(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM),
               d = config_of(TRF_DECODER_ONLY, TRF_PRE_NORM),
               e = config_of(TRF_ENCODER_ONLY, TRF_PRE_NORM);
    lab l = open_lab(&c), decoder = open_lab(&d), encoder = open_lab(&e);
    trf_batch batch = some_pairs(2, 14);
    int32_t lengths[2] = {3, 4};
    int64_t rows = kit_target_rows(l.model, &batch.target);
    trf_tensor memory = trf_tensor_of(other, 2, 7, D, 1), out = trf_tensor_of(more, 2, rows, D, 1),
               z;
    trf_sequences bad;
    trf_error err;
    (void)state;
    memset(other, 0, sizeof other);
    decode_refused(&decoder, &memory, lengths, &batch.target, &out, TRF_E_STATE, "kind", -1);
    decode_refused(&encoder, &memory, lengths, &batch.target, &out, TRF_E_STATE, "kind", -1);
    decode_refused(&l, &memory, NULL, &batch.target, &out, TRF_E_INVALID_ARG, "memory_lengths", -1);
    decode_refused(&l, &memory, lengths, NULL, &out, TRF_E_INVALID_ARG, "batch", -1);
    lengths[1] = 0;
    decode_refused(&l, &memory, lengths, &batch.target, &out, TRF_E_INVALID_ARG, "memory_lengths",
                   1);
    lengths[1] = c.max_length + 1;
    decode_refused(&l, &memory, lengths, &batch.target, &out, TRF_E_INVALID_ARG, "memory_lengths",
                   1);
    lengths[1] = 5;
    decode_refused(&l, &memory, lengths, &batch.target, &out, TRF_E_SHAPE, "memory", -1);
    lengths[1] = 4;
    bad = batch.target;
    bad.count = -1;
    decode_refused(&l, &memory, lengths, &bad, &out, TRF_E_INVALID_ARG, "targets", -1);
    assert_int_equal(kit_decode(l.translator, &memory, lengths, &batch.target, &out, &err), TRF_OK);
    z = trf_tensor_of(maps[0], 2, rows, VOCAB, 1);
    assert_int_equal(kit_project(l.translator, &out, &z, &err), TRF_OK);
    out.shape[1]++;
    assert_int_equal(kit_project(l.translator, &out, &z, &err), TRF_E_SHAPE);
    assert_string_equal(err.what, "states");
    out.shape[1]--;
    assert_int_equal(kit_project(encoder.translator, &out, &z, &err), TRF_E_STATE);
    out.shape[0] = z.shape[0] = 0;                      /* no rows are nothing to do */
    assert_int_equal(kit_project(l.translator, &out, &z, &err), TRF_OK);
    bad.count = 0;
    memory.shape[0] = 0;
    assert_int_equal(kit_decode(l.translator, &memory, NULL, &bad, &out, &err), TRF_OK);
    close_lab(&l);
    close_lab(&decoder);
    close_lab(&encoder);
}

/* Whatever allocation fails, the status says so, and the same call works afterwards, with the same
   numbers. */
static void test_no_memory(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    kit_memory memory;
    trf_search search = trf_search_defaults();
    trf_batch batch = kit_fill(&pairs, 20, 20, 38, VOCAB, 15);
    lab l = open_lab(&c);
    trf_reading seen;
    uint64_t hash = 0, got;
    int fail, failed = 0, i;
    (void)state;
    trf_translator_destroy(l.translator);
    search.hooks = kit_hooks(&memory);
    for (fail = 0; ; fail++) {
        trf_reader *reader;
        trf_status status;
        memory.fail_at = 0;
        assert_int_equal(trf_translator_create(&l.translator, l.model, &search, NULL), TRF_OK);
        reader = trf_translator_reader(l.translator);
        memory.calls = 0;
        memory.fail_at = fail;
        status = trf_reader_read(reader, &batch, TRF_READ_CROSS, NULL, &seen, NULL);
        if (fail && status != TRF_OK) {
            assert_int_equal(status, TRF_E_NOMEM);
            assert_null(seen.attention[TRF_DECODER_CROSS]);
            failed++;
            memory.fail_at = 0;
            assert_int_equal(trf_reader_read(reader, &batch, TRF_READ_CROSS, NULL, &seen, NULL), TRF_OK);
        }
        for (got = HASH_START, i = 0; i < seen.count; i++) {
            const trf_tensor *one = &seen.attention[TRF_DECODER_CROSS][i];
            got = hash_bytes(got, one->data, (size_t)trf_tensor_count(one) * sizeof *one->data);
        }
        if (!fail) hash = got;
        assert_true(hash == got);
        trf_translator_destroy(l.translator);
        assert_int_equal(memory.live, 0);
        if (fail && status == TRF_OK) break;
    }
    assert_true(failed >= 2);
    trf_model_destroy(l.model);
}

/* A batch without sequences is read too, also by a reader that has not read before. */
static void test_no_sequences(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    lab l = open_lab(&c);
    trf_batch batch;
    trf_reading seen;
    trf_reader *reader;
    trf_error err;
    int32_t what;
    (void)state;
    memset(&batch, 0, sizeof batch);
    for (what = 1; what <= TRF_READ_LOGITS; what *= 2) {
        assert_int_equal(trf_reader_create(&reader, l.model, NULL, NULL), TRF_OK);
        if (trf_reader_read(reader, &batch, what, NULL, &seen, &err)) fail_msg("%d: %s", (int)what, err.message);
        assert_int_equal(seen.count, 0);
        assert_int_equal(trf_tensor_count(&seen.encoded) + trf_tensor_count(&seen.encoder_states), 0);
        assert_int_equal(trf_tensor_count(&seen.decoded) + trf_tensor_count(&seen.decoder_states), 0);
        assert_int_equal(trf_tensor_count(&seen.logits), 0);
        trf_reader_destroy(reader);
    }
    trf_translator_destroy(l.translator);
    trf_model_destroy(l.model);
}

/* Reading between two translations changes neither, and leaves the answers of the first. */
static void test_between_translations(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    lab l = open_lab(&c);
    trf_batch batch = some_pairs(PAIRS, 16);
    all_views a;
    uint64_t hash;
    (void)state;
    assert_int_equal(trf_translate(l.translator, &batch.source, NULL, NULL), TRF_OK);
    hash = hash_answers(HASH_START, l.translator, PAIRS);
    look(&a, &l, &batch);
    assert_true(hash == hash_answers(HASH_START, l.translator, PAIRS));
    assert_int_equal(trf_translate(l.translator, &batch.source, NULL, NULL), TRF_OK);
    assert_true(hash == hash_answers(HASH_START, l.translator, PAIRS));
    close_lab(&l);
}

/* A reader alone gives what a translator's gives, whatever its options; odd options make none, and no
   allocation that fails leaves something behind. */
static void test_reader(void **state)
{
    static const trf_weights weights[] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    lab l = open_lab(&c);
    trf_batch batch = some_pairs(PAIRS, 17);
    double scores[2][PAIRS];
    kit_memory memory;
    trf_reader_options o;
    trf_reader *reader;
    trf_reading seen;
    trf_error err;
    all_views a;
    int i, fail;
    (void)state;
    for (i = 0; i < (int)(sizeof weights / sizeof *weights); i++) {
        trf_search s = trf_search_defaults();
        trf_translator *t = NULL;
        memset(&o, 0, sizeof o);
        s.weights = o.weights = weights[i];
        o.threads = 1 + i;
        reader = (trf_reader *)&memory;
        if (trf_translator_create(&t, l.model, &s, NULL) != TRF_OK) {   /* this device has no such weights */
            assert_int_equal(trf_reader_create(&reader, l.model, &o, &err), TRF_E_UNSUPPORTED);
            assert_null(reader);
            continue;
        }
        assert_int_equal(trf_reader_create(&reader, l.model, &o, &err), TRF_OK);
        assert_int_equal(trf_reader_score(reader, &batch, NULL, scores[0], &err), TRF_OK);
        assert_int_equal(trf_reader_score(trf_translator_reader(t), &batch, NULL, scores[1], &err), TRF_OK);
        assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
        trf_reader_destroy(reader);
        trf_translator_destroy(t);
    }
    look(&a, &l, &batch);
    memset(&o, 0, sizeof o);
    o.hooks = kit_hooks(&memory);
    for (fail = 0; ; fail++) {
        trf_status status;
        memory.fail_at = fail;
        memory.calls = 0;
        status = trf_reader_create(&reader, l.model, &o, &err);
        if (status == TRF_OK) status = trf_reader_read(reader, &batch, TRF_READ_LOGITS, NULL, &seen, &err);
        else assert_null(reader);
        if (status == TRF_OK)
            assert_same("a reader's logits", seen.logits.data, logits, trf_tensor_count(&a.logits));
        else assert_int_equal(status, TRF_E_NOMEM);
        if (reader) trf_reader_destroy(reader);
        assert_int_equal(memory.live, 0);
        if (fail && status == TRF_OK) break;
    }
    assert_true(fail > 4);
    memset(&o, 0, sizeof o);
    for (i = 0; i < 6; i++) {
        trf_reader_options bad = o;
        if (i == 0) bad.threads = -1;
        if (i == 1) bad.threads = 4097;
        if (i == 2) bad.weights = TRF_WEIGHTS_F16;
        if (i == 3) bad.source_tagged = 2;
        if (i == 4) bad.ensemble.n = 17;
        if (i == 5) bad.ensemble.rule = TRF_ENSEMBLE_RULE_COUNT;
        reader = (trf_reader *)&memory;
        assert_int_equal(trf_reader_create(&reader, l.model, &bad, &err), TRF_E_INVALID_ARG);
        assert_null(reader);
    }
    assert_int_equal(trf_reader_create(&reader, NULL, NULL, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_reader_create(NULL, l.model, NULL, &err), TRF_E_INVALID_ARG);
    assert_null(trf_translator_reader(NULL));
    trf_reader_destroy(NULL);
    trf_reader_destroy(trf_translator_reader(l.translator));            /* it stays */
    assert_int_equal(trf_reader_score(trf_translator_reader(l.translator), &batch, NULL, scores[0], &err), TRF_OK);
    close_lab(&l);
}

/* -----------------------------------------------------------------------------------------------
   Counts */

static int has(const char *text, const char *part) { return strstr(text, part) != NULL; }

/* The part of a parameter, from its name. */
static int64_t *part_of(trf_model_size *n, const char *name)
{
    int decoder = !strncmp(name, "decoder.", 8);
    if (has(name, "positions") || has(name, "segments")) return &n->positions;
    if (has(name, "src_embed")) return &n->source_embedding;
    if (has(name, "tgt_embed")) return &n->target_embedding;
    if (has(name, "generator") || has(name, "head.") || has(name, "sequence.")) return &n->generator;
    if (has(name, "norm")) return decoder ? &n->decoder_norms : &n->encoder_norms;
    if (has(name, "multihead_attn")) return &n->cross_attention;
    if (has(name, "self_attn")) return decoder ? &n->decoder_attention : &n->encoder_attention;
    return decoder ? &n->decoder_feed_forward : &n->encoder_feed_forward;
}

static uint64_t draws;
static int32_t up_to(int32_t n) { return (int32_t)(trf__random64(21, 3, draws++) % (uint64_t)n); }

static trf_config random_config(void)
{
    trf_config c = config_of((trf_kind)up_to(3), (trf_norm_place)up_to(2));
    int both = c.kind == TRF_ENCODER_DECODER;
    c.n_heads = 1 + up_to(4);
    c.d_model = c.n_heads * (1 + up_to(6));
    c.d_ff = 1 + up_to(30);
    if (c.encoder_layers) c.encoder_layers = 1 + up_to(4);
    if (c.decoder_layers) c.decoder_layers = 1 + up_to(4);
    c.positions = (trf_positions)up_to(5);
    c.position_offset = up_to(3);
    c.tying = (trf_tying)(both ? up_to(4) : c.kind == TRF_DECODER_ONLY ? up_to(2) : 0);
    c.source_vocab = 5 + up_to(40);
    c.target_vocab = c.tying >= TRF_TIED_ALL ? c.source_vocab : 5 + up_to(40);
    c.generator_bias = up_to(2);
    c.norm_rule = (trf_norm_rule)up_to(3);
    c.qkv_bias = up_to(2); c.out_bias = up_to(2); c.feed_forward_bias = up_to(2);
    c.final_norm = (trf_final_norm)(both ? up_to(4) : up_to(2));
    c.init = (trf_init)up_to(3);
    c.embedding_norm = up_to(2); c.feed_forward_gate = up_to(2);
    if (c.kind == TRF_ENCODER_ONLY) {
        c.target_vocab = 0;
        c.head = (trf_head)up_to(5);
        c.n_labels = c.head && c.head != TRF_HEAD_MASKED ? 2 + up_to(9) : 0;
        c.head_layer = (c.head == TRF_HEAD_FIRST || c.head == TRF_HEAD_MASKED) && up_to(2);
        c.sequence_labels = c.head == TRF_HEAD_MASKED && up_to(2) ? 2 + up_to(9) : 0;
    }
    c.segments = c.kind != TRF_DECODER_ONLY ? up_to(4) : 0;
    return c;
}

/* By part and in all as many as the parameters of a model. */
static void test_count_weights(void **state)
{
    int round;
    (void)state;
    for (round = 0; round < (KIT_AGAIN ? 20 : 300); round++) {
        trf_config c = random_config();
        trf_model_size got, want;
        trf_model *model = NULL;
        trf_error err;
        int32_t i;
        if (trf_model_create(&model, &c, NULL, &err) != TRF_OK) fail_msg("%s", err.message);
        memset(&want, 0, sizeof want);
        for (i = 0; i < trf_model_parameter_count(model); i++) {
            trf_tensor w = trf_model_parameter(model, i);
            *part_of(&want, w.name) += trf_tensor_count(&w);
        }
        want.total = trf_model_parameter_total(model);
        want.memory = kit_model_memory(&c);
        memset(&got, 0x5A, sizeof got);
        assert_int_equal(trf_config_check(&c, &got, &err), TRF_OK);
        if (memcmp(&got, &want, sizeof got))
            fail_msg("round %d: %lld of %lld", round, (long long)got.total, (long long)want.total);
        trf_model_destroy(model);
    }
}

/* The paper's base and big, one matrix for embeddings and projection (Table 3 says 65 and 213
   million). */
static void test_count_known(void **state)
{
    trf_config c = trf_config_preset(TRF_BASE);
    trf_model_size n;
    trf_error err;
    (void)state;
    trf_set_conventions(&c, NULL, TRF_CONVENTIONS_PAPER);
    c.source_vocab = c.target_vocab = 37000;
    assert_int_equal(trf_config_check(&c, &n, NULL), TRF_OK);
    assert_int_equal(n.total, 37000 * 512 + 44138496);
    assert_int_equal(n.generator, 0);
    c = trf_config_preset(TRF_BIG);
    trf_set_conventions(&c, NULL, TRF_CONVENTIONS_PAPER);
    c.source_vocab = c.target_vocab = 37000;
    assert_int_equal(trf_config_check(&c, &n, NULL), TRF_OK);
    assert_int_equal(n.total, 37000 * 1024 + 176357376);
    c.d_model = 65536;
    c.n_heads = 64;
    c.d_ff = 1 << 20;
    c.encoder_layers = c.decoder_layers = 256; /* beyond int32 */
    c.source_vocab = c.target_vocab = 1 << 24;
    assert_int_equal(trf_config_check(&c, &n, NULL), TRF_OK);
    assert_true(n.total > (int64_t)1 << 46 &&
                n.cross_attention == 256 * (4 * ((int64_t)1 << 32) + 4 * 65536));
    c.d_ff = 0;
    memset(&n, 0x5A, sizeof n);
    assert_int_equal(trf_config_check(&c, &n, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "d_ff");
    assert_int_equal(n.total, 0);
    assert_int_equal(trf_config_check(NULL, &n, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "config");
    assert_int_equal(trf_config_check(&c, NULL, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "d_ff");
}

/* Each matrix counts 2 * its numbers * the rows that it multiplies; attention counts query by
   query. */
static void test_count_flops(void **state)
{
    int round;
    (void)state;
    for (round = 0; round < 100; round++) {
        trf_config c = random_config();
        int64_t s = c.kind == TRF_DECODER_ONLY ? 0 : up_to(40),
                t = c.kind == TRF_ENCODER_ONLY ? 0 : up_to(40), i;
        double d = c.d_model, e = c.encoder_layers, n = c.decoder_layers,
               cross = c.kind == TRF_ENCODER_DECODER ? n : 0;
        double projections = 0, attention = 0, forward = 0, generator, sum;
        trf_flop_counts got;
        assert_int_equal(trf_count_flops(&c, s, t, &got, NULL), TRF_OK);
        for (i = 0; i < s; i++) {               /* one source row after another */
            projections += e * 2 * (3 * d * d + d * d) + cross * 2 * 2 * d * d;
            attention += e * 2 * 2 * d * (double)s;
            forward += e * 2 * (2 + c.feed_forward_gate) * d * c.d_ff;
        }
        for (i = 0; i < t; i++) {
            projections += n * 2 * (3 * d * d + d * d) + cross * 2 * 2 * d * d;
            attention += n * 2 * 2 * d * (double)(i + 1) + cross * 2 * 2 * d * (double)s;
            forward += n * 2 * (2 + c.feed_forward_gate) * d * c.d_ff;
        }
        generator = c.kind != TRF_ENCODER_ONLY ? 2 * d * c.target_vocab * (double)t
                  : c.head == TRF_HEAD_MASKED ? 2 * d * c.source_vocab * (double)s
                  : c.head == TRF_HEAD_TOKENS ? 2 * d * c.n_labels * (double)s
                  : c.head ? 2 * d * c.n_labels * (s > 0) : 0;
        if (c.head_layer) generator += 2 * d * d * (c.head == TRF_HEAD_FIRST ? s > 0 : (double)s);
        if (c.sequence_labels && s > 0) generator += 2 * d * (c.sequence_labels + (c.head_layer ? d : 0));
        assert_true(fabs(got.encoder_projections + got.decoder_projections + got.cross_projections -
                         projections) < 1e-9 * (1 + projections));
        assert_true(fabs(got.encoder_attention + got.decoder_attention + got.cross_attention -
                         attention) < 1e-9 * (1 + attention));
        assert_true(fabs(got.encoder_feed_forward + got.decoder_feed_forward - forward) <
                    1e-9 * (1 + forward));
        assert_true(fabs(got.generator - generator) < 1e-9 * (1 + generator));
        sum = projections + attention + forward + generator;
        assert_true(fabs(got.total - sum) < 1e-9 * (1 + sum));
    }
}

static void test_count_flops_errors(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    trf_flop_counts n;
    trf_error err;
    (void)state;
    assert_int_equal(trf_count_flops(&c, c.max_length + 1, 3, &n, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "source_rows");
    assert_int_equal(trf_count_flops(&c, 3, -1, &n, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "target_rows");
    assert_true(n.total == 0);
    c = config_of(TRF_DECODER_ONLY, TRF_PRE_NORM);
    assert_int_equal(trf_count_flops(&c, 1, 3, &n, &err), TRF_E_INVALID_ARG);
    assert_string_equal(err.what, "source_rows");
    assert_int_equal(trf_count_flops(NULL, 1, 3, &n, &err), TRF_E_INVALID_ARG);
    assert_int_equal(trf_count_flops(&c, 0, 3, NULL, &err), TRF_E_INVALID_ARG);
}

/* A final norm of one side alone, and none for a side that is not there. */
static void test_final_norm_of_a_side(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    trf_error err;
    int value;
    (void)state;
    for (value = TRF_FINAL_NORM_NONE; value <= TRF_FINAL_NORM_DECODER; value++) {
        lab l;
        c.final_norm = (trf_final_norm)value;
        l = open_lab(&c);
        assert_int_equal(trf_model_parameter_index(l.model, "encoder.norm.weight") >= 0,
                         value == 1 || value == 2);
        assert_int_equal(trf_model_parameter_index(l.model, "decoder.norm.bias") >= 0,
                         value == 1 || value == 3);
        close_lab(&l);
    }
    c = config_of(TRF_ENCODER_ONLY, TRF_PRE_NORM);
    c.final_norm = TRF_FINAL_NORM_DECODER;
    {
        trf_model *model = NULL;
        assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_E_INVALID_ARG);
        assert_string_equal(err.what, "final_norm");
        c = config_of(TRF_DECODER_ONLY, TRF_PRE_NORM);
        c.final_norm = TRF_FINAL_NORM_ENCODER;
        assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_E_INVALID_ARG);
        assert_string_equal(err.what, "final_norm");
        c.final_norm = TRF_FINAL_NORM_DECODER;
        assert_int_equal(trf_model_create(&model, &c, NULL, &err), TRF_OK);
        trf_model_destroy(model);
    }
}

/* nn.Linear's first values: within +-1/sqrt(in) and with that deviation, biases too; norms as ever.
 */
static void test_linear_init(void **state)
{
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    trf_model *model = NULL;
    int32_t i;
    int64_t k;
    (void)state;
    c.d_model = 60; c.d_ff = 240;
    c.init = TRF_INIT_LINEAR;
    c.embedding_init = TRF_EMBEDDING_NORMAL_1;
    assert_int_equal(trf_model_create(&model, &c, NULL, NULL), TRF_OK);
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor w = trf_model_parameter(model, i);
        trf_real *numbers;
        double bound, sum = 0, most = 0, n = (double)trf_tensor_count(&w);
        if (has(w.name, "norm") || has(w.name, "embed")) continue;
        bound = 1 / sqrt(has(w.name, "linear2") ? 240 : 60);
        numbers = kit_numbers(w);
        for (k = 0; k < trf_tensor_count(&w); k++) {
            sum += (double)numbers[k] * (double)numbers[k];
            if (fabs((double)numbers[k]) > most) most = fabs((double)numbers[k]);
        }
        assert_true(most <= bound);
        if (!(fabs(sqrt(3 * sum / n) / bound - 1) < 3 / sqrt(n)))
            fail_msg("%s: %g", w.name, sqrt(3 * sum / n) / bound);
        free(numbers);
    }
    trf_model_destroy(model);
}

/* More rows than are computed together, with empty sequences and ones of the greatest length: every
   result is that of the sequence alone. */
enum { MANY = 90, ROWS_OF_MANY = MANY * 40 };

static void test_many_rows(void **state)
{
    static const trf_head heads[] = {TRF_HEAD_NONE, TRF_HEAD_NONE, TRF_HEAD_MEAN, TRF_HEAD_FIRST,
                                     TRF_HEAD_TOKENS, TRF_HEAD_MASKED};
    static int32_t ids[2][ROWS_OF_MANY], lengths[2][MANY];
    static trf_real all[ROWS_OF_MANY * VOCAB], one[40 * VOCAB];
    static double scores[MANY];
    int kind, side, i, k;
    (void)state;
    for (kind = 0; kind < 6; kind++) {
        trf_config c = config_of(kind == 0   ? TRF_ENCODER_DECODER
                                 : kind == 1 ? TRF_DECODER_ONLY : TRF_ENCODER_ONLY, TRF_PRE_NORM);
        trf_batch batch, rest;
        lab l;
        trf_error err;
        int64_t at[3] = {0, 0, 0}, n = 0;
        double score;
        trf_tensor out;
        int side_rows[2], compared = 0;
        int32_t what;
        trf_reader *reader;
        trf_reading maps;
        c.head = heads[kind];
        if (trf__has_labels(&c)) c.n_labels = 5;
        if (c.head == TRF_HEAD_MASKED) c.sequence_labels = 3;
        c.source_bos = kind > 2;
        l = open_lab(&c);
        memset(&batch, 0, sizeof batch);
        for (side = 0; side < 2; side++) {
            int32_t used = 0, most = 39 - c.source_bos * !side;
            for (i = 0; i < MANY; i++) {
                int32_t length = i == 7 ? 0 : i == 11 ? most : (i * (7 + side) + 3) % (most + 1);
                lengths[side][i] = length;
                for (k = 0; k < length; k++, used++) ids[side][used] = 4 + used * 7 % (VOCAB - 4);
            }
        }
        if (trf__has_source(&c)) {
            trf_sequences source = {ids[0], lengths[0], MANY};
            batch.source = source;
            out = trf_tensor_of(all, 2, kit_source_rows(l.model, &source), c.d_model, 1);
            assert_true(out.shape[0] > 2 * TRF__PACKED_ROWS);
            assert_int_equal(kit_encode(l.translator, &source, &out, &err), TRF_OK);
            for (i = 0; i < MANY; i++) {
                trf_sequences single = {ids[0] + at[0], &lengths[0][i], 1};
                trf_tensor alone = trf_tensor_of(one, 2, kit_source_rows(l.model, &single), c.d_model, 1);
                assert_int_equal(kit_encode(l.translator, &single, &alone, &err), TRF_OK);
                assert_same("encode", all + n, one, trf_tensor_count(&alone));
                n += trf_tensor_count(&alone);
                at[0] += lengths[0][i];
            }
            assert_int_equal(n, trf_tensor_count(&out));
        }
        if (trf__has_target(&c)) {
            trf_sequences target = {ids[1], lengths[1], MANY};
            batch.target = target;
            if (trf_reader_score(trf_translator_reader(l.translator), &batch, NULL, scores, &err)) fail_msg("%s", err.message);
        }
        out = trf_tensor_of(all, 2, trf__pools(&c) ? MANY : trf__has_target(&c)
                                ? kit_target_rows(l.model, &batch.target)
                                : kit_source_rows(l.model, &batch.source), trf__n_logits(&c), 1);
        if (kit_logits(l.translator, &batch, &out, &err)) fail_msg("%s", err.message);
        what = (trf__has_source(&c) ? TRF_READ_ENCODER_SELF : 0) | (trf__has_target(&c) ? TRF_READ_DECODER_SELF : 0) |
               (kind == 0 ? TRF_READ_CROSS : 0);
        assert_int_equal(trf_reader_create(&reader, l.model, NULL, &err), TRF_OK);
        if (trf_reader_read(reader, &batch, what, NULL, &maps, &err)) fail_msg("%s", err.message);
        at[0] = at[1] = n = 0;
        for (i = 0; i < MANY; i++) {
            trf_tensor alone;
            trf_reading map;
            rest = batch;
            for (side = 0; side < 2; side++) {
                trf_sequences *x = side ? &rest.target : &rest.source;
                if (x->count == 0) continue;
                x->ids = ids[side] + at[side]; x->lengths = &lengths[side][i]; x->count = 1;
                at[side] += lengths[side][i];
            }
            side_rows[0] = (int)kit_source_rows(l.model, &rest.source);
            side_rows[1] = (int)kit_target_rows(l.model, &rest.target);
            alone = trf_tensor_of(one, 2, trf__pools(&c) ? 1 : side_rows[trf__has_target(&c)],
                                  trf__n_logits(&c), 1);
            assert_int_equal(kit_logits(l.translator, &rest, &alone, &err), TRF_OK);
            assert_same("logits", all + n, one, trf_tensor_count(&alone));
            n += trf_tensor_count(&alone);
            assert_int_equal(trf_reader_read(trf_translator_reader(l.translator), &rest, what, NULL, &map, &err), TRF_OK);
            for (k = 0; k < TRF_ATTENTION_KIND_COUNT; k++) {
                int64_t numbers = map.attention[k] ? trf_tensor_count(map.attention[k]) : 0;
                if (!numbers) continue;
                assert_int_equal(trf_tensor_count(&maps.attention[k][i]), numbers);
                assert_int_equal(maps.attention[k][i].shape[2], side_rows[k != TRF_ENCODER_SELF]);
                assert_int_equal(maps.attention[k][i].shape[3], side_rows[k == TRF_DECODER_SELF]);
                assert_same("map", maps.attention[k][i].data, map.attention[k]->data, numbers);
                compared++;
            }
            if (!trf__has_target(&c)) continue;
            assert_int_equal(trf_reader_score(trf_translator_reader(l.translator), &rest, NULL, &score, &err), TRF_OK);
            assert_true(fabs(score - scores[i]) <= (KIT_SAME_ROWS ? 0 : 1e-3));
        }
        assert_true(compared >= (kind ? MANY - 1 : 3 * (MANY - 1)));
        trf_reader_destroy(reader);
        if (trf__has_labels(&c) || c.sequence_labels) {
            int tags = c.head == TRF_HEAD_TOKENS, columns = c.sequence_labels ? 3 : 5;
            int64_t total = 0;
            for (i = 0; i < MANY; i++) total += lengths[0][i];
            out = trf_tensor_of(all, 2, tags ? total : MANY, columns, 1);
            if (trf_reader_classify(trf_translator_reader(l.translator), &batch.source, &out, &err)) fail_msg("%s", err.message);
            for (at[0] = n = i = 0; i < MANY; at[0] += lengths[0][i++]) {
                trf_sequences single = {ids[0] + at[0], &lengths[0][i], 1};
                trf_tensor alone = trf_tensor_of(one, 2, tags ? lengths[0][i] : 1, columns, 1);
                assert_int_equal(trf_reader_classify(trf_translator_reader(l.translator), &single, &alone, &err), TRF_OK);
                if (alone.shape[0]) assert_same("labels", all + n, one, trf_tensor_count(&alone));
                n += trf_tensor_count(&alone);
            }
        }
        close_lab(&l);
    }
}

/* A sequence with more rows than are computed together has a part of its own. */
static void test_long_sequences(void **state)
{
    enum { LONGEST = 700, SEQUENCES = 4 };
    static int32_t ids[2 * LONGEST];
    static const int32_t lengths[SEQUENCES] = {LONGEST - 1, 3, LONGEST - 40, 5};
    static trf_real all[2 * LONGEST * D], one[LONGEST * D];
    trf_config c = config_of(TRF_ENCODER_ONLY, TRF_PRE_NORM);
    trf_sequences sources = {ids, lengths, SEQUENCES};
    trf_tensor out;
    trf_error err;
    lab l;
    int32_t i, used;
    int64_t at = 0;
    (void)state;
    c.max_length = LONGEST;
    for (i = 0; i < 2 * LONGEST; i++) ids[i] = 4 + i * 5 % (VOCAB - 4);
    l = open_lab(&c);
    out = trf_tensor_of(all, 2, kit_source_rows(l.model, &sources), D, 1);
    assert_int_equal(kit_encode(l.translator, &sources, &out, &err), TRF_OK);
    for (used = i = 0; i < SEQUENCES; used += lengths[i++]) {
        trf_sequences single = {ids + used, &lengths[i], 1};
        trf_tensor alone = trf_tensor_of(one, 2, lengths[i] + 1, D, 1);
        assert_int_equal(kit_encode(l.translator, &single, &alone, &err), TRF_OK);
        assert_same("encode", all + at, one, trf_tensor_count(&alone));
        at += trf_tensor_count(&alone);
    }
    close_lab(&l);
}

/* Vectors of texts are the rows of the encoder, pooled by loops: of every pooling, with and without
   BOS and EOS, in several parts, with empty sequences. */
static void test_embed(void **state)
{
    static int32_t ids[ROWS_OF_MANY], lengths[MANY];
    static trf_real rows[ROWS_OF_MANY * D], got[MANY * D], want[MANY * D];
    trf_sequences sources = {ids, lengths, MANY};
    trf_error err;
    int32_t i, pooling, unit;
    int shape;
    (void)state;
    for (i = 0; i < ROWS_OF_MANY; i++) ids[i] = 4 + i * 5 % (VOCAB - 4);
    for (i = 0; i < MANY; i++) lengths[i] = i % 11 ? (i * 7 + 3) % 38 : i % 2;
    for (shape = 0; shape < 4; shape++) {
        trf_config c = config_of(shape % 3 ? TRF_ENCODER_ONLY : TRF_ENCODER_DECODER, TRF_PRE_NORM);
        trf_tensor out, vectors = trf_tensor_of(got, 2, MANY, D, 1);
        lab l;
        c.source_bos = shape / 2;
        c.source_eos = shape % 2;
        l = open_lab(&c);
        out = trf_tensor_of(rows, 2, kit_source_rows(l.model, &sources), D, 1);
        assert_true(out.shape[0] > 2 * TRF__PACKED_ROWS);
        assert_int_equal(kit_encode(l.translator, &sources, &out, &err), TRF_OK);
        for (pooling = 0; pooling < TRF_POOL_MODEL; pooling++)
            for (unit = 0; unit < 2; unit++) {
                const trf_real *at = rows;
                for (i = 0; i < MANY; i++) {
                    int n = lengths[i] + c.source_bos + c.source_eos, r, k;
                    double v[D], square = 0;
                    for (k = 0; k < D; k++) {
                        v[k] = n ? (double)at[k] : 0;
                        for (r = 1; r < n; r++) {
                            double x = (double)at[r * D + k];
                            if (pooling == TRF_POOL_MEAN) v[k] += x;
                            if (pooling == TRF_POOL_MAX) v[k] = fmax(v[k], x);
                        }
                        if (pooling == TRF_POOL_MEAN && n) v[k] /= n;
                        square += v[k] * v[k];
                    }
                    for (k = 0; k < D; k++)
                        want[i * D + k] = (trf_real)(unit && n ? v[k] / sqrt(square) : v[k]);
                    at += n * D;
                }
                memset(got, 0x5A, sizeof got);
                if (trf_reader_embed(trf_translator_reader(l.translator), &sources, (trf_pooling)pooling, unit, &vectors, &err))
                    fail_msg("%s", err.message);
                assert_same("vectors", got, want, MANY * D);
            }
        close_lab(&l);
    }
}

static void refuses_to_embed(trf_translator *t, const trf_sequences *sources, int pooling,
                             trf_tensor *out, trf_status status, const char *what)
{
    trf_error err;
    assert_int_equal(trf_reader_embed(trf_translator_reader(t), sources, (trf_pooling)pooling, 1, out, &err), status);
    assert_string_equal(err.what, what);
}

static void test_embed_errors(void **state)
{
    static const char *const names[] = {"mean", "first", "max", "last"};
    trf_batch batch = some_pairs(PAIRS, 14);
    trf_tensor out = trf_tensor_of(other, 2, PAIRS, D, 1), small = out;
    trf_sequences none = batch.source;
    lab l = lab_of(TRF_ENCODER_ONLY, TRF_PRE_NORM), words = lab_of(TRF_DECODER_ONLY, TRF_PRE_NORM);
    int i;
    (void)state;
    small.shape[1]--;
    none.count = 0;
    refuses_to_embed(NULL, &batch.source, 0, &out, TRF_E_INVALID_ARG, "reader");
    refuses_to_embed(l.translator, NULL, 0, &out, TRF_E_INVALID_ARG, "sources");
    refuses_to_embed(l.translator, &batch.source, 0, NULL, TRF_E_INVALID_ARG, "vectors");
    refuses_to_embed(l.translator, &batch.source, -1, &out, TRF_E_INVALID_ARG, "pooling");
    assert_int_equal(trf_reader_embed(trf_translator_reader(l.translator), &batch.source, TRF_POOL_MEAN, 2, &out, NULL), TRF_E_INVALID_ARG);
    refuses_to_embed(l.translator, &batch.source, TRF_POOLING_COUNT, &out, TRF_E_INVALID_ARG, "pooling");
    refuses_to_embed(l.translator, &batch.source, 0, &small, TRF_E_SHAPE, "vectors");
    refuses_to_embed(words.translator, &batch.target, 0, &out, TRF_E_STATE, "kind");
    small.shape[0] = 0;
    small.shape[1] = D;
    assert_int_equal(trf_reader_embed(trf_translator_reader(l.translator), &none, TRF_POOL_MEAN, 1, &small, NULL), TRF_OK);

    for (i = -1; i < 4; i++) {          /* nothing, three names, and another text */
        trf_reader *reader = trf_translator_reader(l.translator);
        trf_tensor want = out;
        if (i >= 0) assert_int_equal(trf_model_set_metadata(l.model, "pooling", names[i], NULL), TRF_OK);
        if (i == 3) refuses_to_embed(l.translator, &batch.source, TRF_POOL_MODEL, &out, TRF_E_INVALID_ARG, "pooling");
        if (i == 3) break;
        want.data = more;
        assert_int_equal(trf_reader_embed(reader, &batch.source, TRF_POOL_MODEL, 0, &out, NULL), TRF_OK);
        assert_int_equal(trf_reader_embed(reader, &batch.source, (trf_pooling)(i < 0 ? 0 : i), 0, &want, NULL), TRF_OK);
        assert_memory_equal(out.data, want.data, (size_t)trf_tensor_count(&out) * sizeof *out.data);
    }
    close_lab(&l);
    close_lab(&words);
}

static int asked, asked_most;
static int cancel_later(void *user) { (void)user; return ++asked > asked_most; }

/* A call that is cancelled between two parts, or within one, leaves the translator as it was. */
static void test_cancelled_parts(void **state)
{
    static int32_t ids[ROWS_OF_MANY], lengths[MANY];
    static trf_real whole[ROWS_OF_MANY * D], again[ROWS_OF_MANY * D];
    trf_config c = config_of(TRF_ENCODER_ONLY, TRF_PRE_NORM);
    trf_search search = trf_search_defaults();
    trf_translator *t = NULL;
    trf_sequences sources = {ids, lengths, MANY};
    trf_tensor out;
    trf_error err;
    lab l = open_lab(&c);
    int32_t i;
    int cancelled = 0;
    (void)state;
    for (i = 0; i < ROWS_OF_MANY; i++) ids[i] = 4 + i * 5 % (VOCAB - 4);
    for (i = 0; i < MANY; i++) lengths[i] = 39 - i % 7;
    out = trf_tensor_of(whole, 2, kit_source_rows(l.model, &sources), D, 1);
    assert_true(out.shape[0] > 4 * TRF__PACKED_ROWS);
    assert_int_equal(kit_encode(l.translator, &sources, &out, &err), TRF_OK);
    search.hooks.cancel = cancel_later;
    assert_int_equal(trf_translator_create(&t, l.model, &search, &err), TRF_OK);
    out.data = again;
    for (asked_most = 0; asked_most < 100; asked_most++) {
        trf_status status;
        asked = 0;
        status = kit_encode(t, &sources, &out, &err);
        if (status == TRF_OK) break;
        assert_int_equal(status, TRF_E_CANCELLED);
        cancelled++;
    }
    assert_true(cancelled >= 2 && cancelled < 100);
    assert_same("encode", again, whole, trf_tensor_count(&out));
    trf_translator_destroy(t);
    close_lab(&l);
}

/* The same for a translator, which encodes all sources of a round before the first token. */
static void test_many_sources(void **state)
{
    static int32_t ids[ROWS_OF_MANY], lengths[MANY];
    trf_config c = config_of(TRF_ENCODER_DECODER, TRF_PRE_NORM);
    trf_search search = trf_search_defaults();
    trf_translator *together = NULL;
    lab l = open_lab(&c);
    trf_sequences sources = {ids, lengths, MANY};
    trf_error err;
    int32_t i, k, used = 0;
    (void)state;
    for (i = 0; i < MANY; i++) {
        lengths[i] = i % 5 ? 20 + i % 18 : i % 3;
        for (k = 0; k < lengths[i]; k++, used++) ids[used] = 4 + used * 5 % (VOCAB - 4);
    }
    search.max_sentences = MANY;
    search.max_tokens = ROWS_OF_MANY;
    assert_int_equal(trf_translator_create(&together, l.model, &search, &err), TRF_OK);
    if (trf_translate(together, &sources, NULL, &err)) fail_msg("%s", err.message);
    for (used = i = 0; i < MANY; used += lengths[i++]) {
        trf_sequences single = {ids + used, &lengths[i], 1};
        const trf_hypothesis *a, *b;
        assert_int_equal(trf_translate(l.translator, &single, NULL, &err), TRF_OK);
        a = trf_translator_answer(together, i, 0);
        b = trf_translator_answer(l.translator, 0, 0);
        assert_int_equal(a->n, b->n);
        assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
        assert_true(fabs(a->score - b->score) <= (KIT_SAME_ROWS ? 0 : 1e-4));
    }
    trf_translator_destroy(together);
    close_lab(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_maps),
                                       cmocka_unit_test(test_encoder_states),
                                       cmocka_unit_test(test_first_state),
                                       cmocka_unit_test(test_decode),
                                       cmocka_unit_test(test_decode_own_memory),
                                       cmocka_unit_test(test_other_kinds),
                                       cmocka_unit_test(test_encoder_alone),
                                                                      cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_decode_errors),
                                       cmocka_unit_test(test_no_memory),
                                       cmocka_unit_test(test_no_sequences),
                                       cmocka_unit_test(test_between_translations),
                                       cmocka_unit_test(test_reader),
                                       cmocka_unit_test(test_count_weights),
                                       cmocka_unit_test(test_count_known),
                                       cmocka_unit_test(test_count_flops),
                                       cmocka_unit_test(test_count_flops_errors),
                                       cmocka_unit_test(test_final_norm_of_a_side),
                                       cmocka_unit_test(test_linear_init),
                                       cmocka_unit_test(test_many_rows),
                                       cmocka_unit_test(test_long_sequences),
                                       cmocka_unit_test(test_embed),
                                       cmocka_unit_test(test_embed_errors),
                                       cmocka_unit_test(test_cancelled_parts),
                                       cmocka_unit_test(test_many_sources)};
    return cmocka_run_group_tests_name("look inside", tests, NULL, NULL);
}

/* build: shared */
/* SentencePiece models with the ids of published models: the same pieces as without such ids and
   other numbers, pieces left out, further tokens, codes, through model files; wrong ids, every byte
   of them damaged, every allocation failing once. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"
#include "made_pieces.h"

enum { MOST = 700 };

static uint64_t drawn;
static int32_t pick(int32_t n) { return (int32_t)(trf__random64(3, 5, drawn++) % (uint64_t)n); }

/* The map of a model: ids of its pieces in any order, with room for further tokens and holes. */
typedef struct made { trf_piece_ids ids; int32_t pieces[MOST], more_ids[8]; } made;
static void make_ids(made *m, int32_t n)
{
    int32_t i;
    memset(m, 0, sizeof *m);
    m->ids.size = n + 20;
    m->ids.pieces = m->pieces;
    m->ids.n_pieces = n;
    m->ids.more_ids = m->more_ids;
    for (i = 0; i < n; i++) m->pieces[i] = i + 10;
    for (i = n - 1; i > 0; i--) {
        int32_t k = pick(i + 1), old = m->pieces[k];
        m->pieces[k] = m->pieces[i];
        m->pieces[i] = old;
    }
    for (i = 0; i < TRF_SPECIAL_COUNT; i++) m->ids.special[i] = -1;
}
static int32_t count_pieces(const message *m)
{
    int32_t n;
    DONE(trf__count_pieces(m->bytes, m->n, &n, NULL));
    return n;
}

/* Without ids of its own a piece of text has 4 and its number among them. Returns the number in the
   file, or -1 for unk. */
static int32_t piece_of(const trf_vocab *mapped, int32_t id)
{
    int32_t i, n = 4;
    for (i = 0; i < mapped->pieces->n_mapped; i++) {
        int32_t type = mapped->pieces->pieces[i].type;
        if (type == CONTROL || type == UNKNOWN) continue;
        if (n++ == id) return i;
    }
    return -1;
}

/* The same pieces as without a map, and the same texts. left_out: how many in 16 pieces have no
   id; those are unk. */
static void check_pieces(int left_out)
{
    int o, t;
    for (o = 0; o < OPTIONS; o++) {
        static made m;
        trf_vocab *plain, *mapped;
        int32_t n, i;
        make_model(&model, all_options[o]);
        plain = vocab_of(&model, NULL);
        make_ids(&m, n = count_pieces(&model));
        /* the first piece is the unknown one, if there is one */
        if (!all_options[o].odd || !all_options[o].fallback)
            m.ids.special[TRF_SPECIAL_UNK] = m.pieces[0];
        else if (left_out) { trf_vocab_destroy(plain); continue; }
        for (i = 1; i < n; i++) if (pick(16) < left_out) m.pieces[i] = -1;
        if (trf__vocab_from_pieces(&mapped, model.bytes, model.n, &m.ids, NULL, &err))
            fail_msg("options %d: %s", o, err.message);
        assert_int_equal(trf_vocab_size(mapped), n + 20);
        for (t = 0; t < TEXTS; t++) {
            int32_t want[256], ids[256], k, n_want, n_ids, missing = 0, unknown, all;
            char text[512], back[2048];
            OK(trf_vocab_encode(plain, texts[t], 0, want, 256, &n_want, &err));
            OK(trf_vocab_encode(mapped, texts[t], 0, ids, 256, &n_ids, &err));
            assert_int_equal(n_ids, n_want);
            OK(trf_vocab_decode(plain, want, n_want, text, sizeof text, NULL, &err));
            for (k = 0; k < n_want; k++) {
                int32_t piece = piece_of(mapped, want[k]);
                int32_t id = piece < 0 ? -1 : m.pieces[piece];
                if (id < 0) { id = m.ids.special[TRF_SPECIAL_UNK]; missing++; }
                assert_int_equal(ids[k], id);
            }
            OK(trf_vocab_count_unknown(mapped, texts[t], &unknown, &all, &err));
            assert_true(unknown == missing && all == n_ids);
            OK(trf_vocab_decode(mapped, ids, n_ids, back, sizeof back, NULL, &err));
            if (!left_out) assert_string_equal(back, text);
        }
        trf_vocab_destroy(plain);
        trf_vocab_destroy(mapped);
    }
}

static void same_pieces(void **state) { (void)state; check_pieces(0); }
static void left_out_pieces(void **state) { (void)state; check_pieces(4); }

/* The model of most tests: unigram without a map of characters. Its pieces: <unk>, <s>, </s>, and
   from 3 on `parts`. Like Marian's, it lacks <s> and the first two letters; pad is the last id. */
enum { BLANK, A, B, C, AB };            /* numbers in `parts` */
static made marian;
static const char *more[] = { "zz", ">>fr<<", "\xE2\x96\x81y", "<pad>" };
static void make_marian(void)
{
    int32_t i, n;
    make_model(&model, all_options[0]);
    n = count_pieces(&model);
    make_ids(&marian, n);
    for (i = 0; i < n; i++) marian.pieces[i] = i - 1 + (i > 1);         /* </s> 1, blank 2 ... */
    marian.pieces[0] = 0;
    marian.pieces[1] = -1;
    marian.pieces[2] = 1;
    for (i = 3; i < n; i++) marian.pieces[i] = i - 1;
    marian.pieces[3 + A] = -1;
    marian.ids.size = n + 8;
    marian.ids.more = more;
    marian.ids.n_more = 4;
    marian.more_ids[0] = n;
    marian.more_ids[1] = 3 - 1 + A;     /* the place of the piece left out */
    marian.more_ids[2] = n + 1;
    marian.more_ids[3] = n + 7;
    marian.ids.special[TRF_SPECIAL_PAD] = n + 7;
    marian.ids.special[TRF_SPECIAL_EOS] = 1;
    marian.ids.special[TRF_SPECIAL_UNK] = 0;
    marian.ids.codes = 1;
}
static trf_status from_marian(trf_vocab **v, const trf_hooks *hooks)
{
    return trf__vocab_from_pieces(v, model.bytes, model.n, &marian.ids, hooks, &err);
}
static int32_t part(int32_t number) { return 2 + number; }

static void check_ids(const trf_vocab *v, const char *text, const int32_t *want, int32_t n)
{
    int32_t ids[64], found, i;
    OK(trf_vocab_encode(v, text, 0, ids, 64, &found, &err));
    for (i = 0; i < n && i < found && ids[i] == want[i]; i++) { }
    if (found != n || i < n)
        fail_msg("\"%s\": %d ids, expected %d; id %d is %d, expected %d", text, (int)found, (int)n,
                 (int)i, i < found ? (int)ids[i] : -1, i < n ? (int)want[i] : -1);
}

/* Tokens, special ids, further tokens in texts and as texts, codes. */
static void tokens(void **state)
{
    trf_vocab *v;
    int32_t n, i;
    char text[64];
    (void)state;
    make_marian();
    n = count_pieces(&model);
    OK(from_marian(&v, NULL));
    assert_int_equal(trf_vocab_kind(v), TRF_SENTENCEPIECE);
    assert_int_equal(trf_vocab_size(v), n + 8);
    assert_int_equal(trf_vocab_special(v, TRF_SPECIAL_PAD), n + 7);
    assert_int_equal(trf_vocab_special(v, TRF_SPECIAL_BOS), -1);
    assert_int_equal(trf_vocab_special(v, TRF_SPECIAL_EOS), 1);
    assert_int_equal(trf_vocab_special(v, TRF_SPECIAL_UNK), 0);
    assert_int_equal(trf_vocab_special(v, TRF_SPECIAL_MASK), -1);
    assert_string_equal(trf_vocab_token(v, 0), "<unk>");
    assert_string_equal(trf_vocab_token(v, 1), "</s>");
    assert_string_equal(trf_vocab_token(v, 2), "\xE2\x96\x81");
    assert_string_equal(trf_vocab_token(v, n), "zz");
    assert_string_equal(trf_vocab_token(v, n + 2), "");
    assert_string_equal(trf_vocab_token(v, n + 7), "<pad>");
    assert_null(trf_vocab_token(v, n + 8));
    assert_int_equal(trf_vocab_id(v, "zz"), n);
    assert_int_equal(trf_vocab_id(v, "b"), part(B));
    assert_int_equal(trf_vocab_id(v, "a"), 0);                  /* left out */
    assert_int_equal(trf_vocab_id(v, "<pad>"), 0);
    assert_int_equal(trf_vocab_id(v, "</s>"), 0);
    assert_int_equal(trf_vocab_id(v, "nothing"), 0);
    {
        const int32_t zz[] = {part(BLANK), n}, z[] = {part(BLANK), 0}, many[] = {part(BLANK), 0};
        const int32_t two[] = {part(BLANK), n, part(BLANK), n, part(B)}, as[] = {part(8), 0, 0};
        const int32_t fr[] = {part(A), part(BLANK), part(B)}, de[] = {0, part(BLANK), part(B)};
        const int32_t inside[] = {part(BLANK), 0, part(14), 0};
        check_ids(v, "zz", zz, 2);      /* a run of unknown characters that is a token */
        check_ids(v, "z", z, 2);
        check_ids(v, "zzz", many, 2);
        check_ids(v, "zz zzb", two, 5);
        check_ids(v, "a", as, 1);
        check_ids(v, ">>fr<<b", fr, 3);
        check_ids(v, ">>fr<< b", fr, 3);
        check_ids(v, ">>fr<<", fr, 1);
        check_ids(v, ">>de<<b", de, 3); /* a code without a token */
        check_ids(v, ">><<b", de, 3);
        check_ids(v, "z>>fr<<", inside, 4);
    }
    {
        const int32_t ids[] = {n + 1, n + 1, n, 1, part(C), n + 7, n + 3, part(A), 0};
        size_t bytes;
        OK(trf_vocab_decode(v, ids, 9, text, sizeof text, &bytes, &err));
        assert_string_equal(text, "y yzzc>>fr<< \xE2\x81\x87 ");
        assert_int_equal(bytes, strlen(text));
        for (i = 0; i < n + 8; i++) OK(trf_vocab_decode(v, &i, 1, text, sizeof text, NULL, &err));
        FAILS(trf_vocab_decode(v, &i, 1, text, sizeof text, NULL, &err), TRF_E_INVALID_ARG, "ids",
              0);
    }
    trf_vocab_destroy(v);
    marian.ids.codes = 0;
    OK(from_marian(&v, NULL));
    {
        const int32_t plain[] = {part(BLANK), 0, part(14), 0}, n_plain = 4;
        int32_t ids[8], found;
        OK(trf_vocab_encode(v, ">>fr<<", 0, ids, 8, &found, &err));
        assert_int_equal(found, n_plain);
        for (i = 0; i < 2; i++) assert_int_equal(ids[i], plain[i]);
    }
    trf_vocab_destroy(v);
}

/* Piece i has id i, as in T5 and Llama: then come sentinels, and rows of padding. */
static void as_in_the_file(void **state)
{
    static const char *sentinels[] = { "<extra_id_0>", "<extra_id_1>" };
    made m;
    trf_vocab *v;
    int32_t n, ids[8], found;
    (void)state;
    make_model(&model, all_options[2]);         /* byte fallback */
    n = count_pieces(&model);
    make_ids(&m, n);
    m.ids.pieces = NULL;
    m.ids.n_pieces = 0;
    m.ids.more = sentinels;
    m.ids.n_more = 2;
    m.more_ids[0] = n + 1;
    m.more_ids[1] = n;
    m.ids.special[TRF_SPECIAL_UNK] = 0;
    m.ids.special[TRF_SPECIAL_BOS] = 1;
    m.ids.special[TRF_SPECIAL_EOS] = 2;
    OK(trf__vocab_from_pieces(&v, model.bytes, model.n, &m.ids, NULL, &err));
    assert_int_equal(trf_vocab_id(v, "<extra_id_0>"), n + 1);
    assert_string_equal(trf_vocab_token(v, n), "<extra_id_1>");
    assert_string_equal(trf_vocab_token(v, 3), "<0x00>");
    OK(trf_vocab_encode(v, "z", 0, ids, 8, &found, &err));
    assert_int_equal(found, 2);
    assert_int_equal(ids[1], 3 + 'z');
    trf_vocab_destroy(v);
}

/* ---- refusals ---- */

static void refused(const char *what, int64_t where)
{
    trf_vocab *v = (trf_vocab *)(void *)&v;
    FAILS(from_marian(&v, NULL), TRF_E_FORMAT, what, where);
    assert_null(v);
    make_marian();
}

static void refusals(void **state)
{
    static const char *const bad_texts[] = {"", "\xFF", "b", "</s>", "zz"};
    trf_vocab *v;
    int32_t n, i;
    (void)state;
    make_marian();
    n = count_pieces(&model);
    marian.pieces[7] = marian.pieces[9]; refused("pieces", 9);          /* an id twice */
    marian.pieces[7] = -2; refused("pieces", 7);
    marian.pieces[7] = marian.ids.size; refused("pieces", 7);
    marian.pieces[7] = INT32_MIN; refused("pieces", 7);
    marian.more_ids[2] = marian.pieces[9]; refused("more_ids", 2);
    marian.more_ids[2] = marian.more_ids[0]; refused("more_ids", 2);
    marian.more_ids[2] = -1; refused("more_ids", 2);
    marian.more_ids[2] = marian.ids.size; refused("more_ids", 2);
    marian.ids.size = 0; refused("size", -1);
    marian.ids.size = (1 << 24) + 1; refused("size", -1);
    marian.ids.size = n + 7; refused("special", TRF_SPECIAL_PAD);       /* pad is beyond it */
    marian.ids.special[TRF_SPECIAL_BOS] = -2; refused("special", TRF_SPECIAL_BOS);
    marian.ids.special[TRF_SPECIAL_BOS] = n + 3; refused("special", TRF_SPECIAL_BOS);   /* a hole */
    assert_non_null(strstr(err.message, "the id of a token"));
    marian.ids.special[TRF_SPECIAL_BOS] = part(B); refused("special", TRF_SPECIAL_BOS);
    marian.ids.special[TRF_SPECIAL_UNK] = -1; refused("pieces", 3 + A);
    marian.ids.codes = 2; refused("codes", -1);
    marian.ids.n_pieces = n - 1; refused("n_pieces", -1);
    marian.ids.n_pieces = n + 1; refused("n_pieces", -1);
    for (i = 0; i < 5; i++) {
        more[2] = bad_texts[i];
        refused("more", 2);
        more[2] = "\xE2\x96\x81y";
    }
    more[2] = NULL;
    FAILS(from_marian(&v, NULL), TRF_E_INVALID_ARG, "more", -1);
    more[2] = "\xE2\x96\x81y";
    marian.ids.n_more = -1;
    FAILS(from_marian(&v, NULL), TRF_E_INVALID_ARG, "n_more", -1);
    make_marian();
    marian.ids.more_ids = NULL;
    FAILS(from_marian(&v, NULL), TRF_E_INVALID_ARG, "more_ids", -1);
    FAILS(trf__vocab_from_pieces(&v, model.bytes, model.n, NULL, NULL, &err), TRF_E_INVALID_ARG,
          "ids", -1);
    FAILS(trf__vocab_from_pieces(&v, NULL, 0, &marian.ids, NULL, &err), TRF_E_INVALID_ARG, "model",
          -1);
    make_marian();
    for (i = 0; i < n; i++) marian.pieces[i] = i;       /* every piece has an id: no unk is needed
                                                           but for what has no piece */
    marian.more_ids[1] = n + 2;
    marian.ids.special[TRF_SPECIAL_EOS] = 2;
    marian.ids.special[TRF_SPECIAL_UNK] = -1;
    refused("special", TRF_SPECIAL_UNK);
}

/* The bytes that a model file stores of make_marian's vocabulary. */
static void store_marian(message *to)
{
    trf_vocab *v;
    make_marian();
    OK(from_marian(&v, NULL));
    to->n = (size_t)trf__vocab_n_bytes(v);
    memcpy(to->bytes, trf__vocab_bytes(v), to->n);
    trf_vocab_destroy(v);
}

/* Ids for more or fewer pieces than the file has: those of further tokens begin elsewhere. */
static void other_pieces(void **state)
{
    static message bad;
    int more_of_them;
    (void)state;
    for (more_of_them = 0; more_of_them < 2; more_of_them++) {
        int32_t n;
        store_marian(&bad);
        n = count_pieces(&model);
        bad.bytes[8 + 4 * 9] = (unsigned char)(n + (more_of_them ? 1 : -1));
        bad.bytes[8 + 4 * 10] = (unsigned char)(4 - (more_of_them ? 1 : -1));
        dirty();
        assert_null(vocab_of(&bad, NULL));
        check_fails(err.status, TRF_E_FORMAT, "pieces", more_of_them ? n : n - 1);
    }
}

/* Every byte of the stored ids changed, every length: refused, or a vocabulary that works. */
static void hostile(void **state)
{
    static message whole, bad;
    trf_vocab *v;
    size_t at, map;
    (void)state;
    store_marian(&whole);
    map = whole.n - model.n;
    for (at = 0; at < 8 * map + whole.n; at++) {
        bad = whole;
        if (at < 8 * map) bad.bytes[at / 8] ^= (unsigned char)(1 << at % 8);
        else bad.n = at - 8 * map;
        v = vocab_of(&bad, NULL);
        if (!v) assert_true(err.status < 0 && err.message[0]);
        else {
            int32_t ids[64], n, i;
            char text[256];
            OK(trf_vocab_encode(v, ">>fr<< abc zz {u}cab\xFFz", 0, ids, 64, &n, &err));
            OK(trf_vocab_decode(v, ids, n, text, sizeof text, NULL, &err));
            for (i = 0; i < TRF_SPECIAL_COUNT; i++)
                assert_true(trf_vocab_special(v, (trf_special)i) < trf_vocab_size(v));
            for (i = 0; i < trf_vocab_size(v) && i < 100; i++) {
                OK(trf_vocab_decode(v, &i, 1, text, sizeof text, NULL, &err));
                assert_non_null(trf_vocab_token(v, i));
            }
        }
        trf_vocab_destroy(v);
    }
}

/* A long run of unknown characters: the time grows with its length, not with the square. */
static void long_runs(void **state)
{
    enum { LONG = 1 << 20 };
    char *text = (char *)malloc(LONG + 1);
    trf_vocab *v;
    int32_t ids[4], n;
    (void)state;
    assert_non_null(text);
    memset(text, 'z', LONG);
    text[LONG] = 0;
    make_marian();
    OK(from_marian(&v, NULL));
    OK(trf_vocab_encode(v, text, 0, ids, 4, &n, &err));
    assert_true(n == 2 && ids[1] == 0);
    trf_vocab_destroy(v);
    free(text);
}

static void no_memory(void **state)
{
    kit_memory memory;
    trf_hooks hooks;
    trf_vocab *v = NULL;
    int64_t k;
    int done;
    (void)state;
    make_marian();
    for (k = 1, done = 0; !done; k++) {
        hooks = kit_hooks(&memory);
        memory.fail_at = k;
        done = from_marian(&v, &hooks) == TRF_OK;
        if (!done) assert_int_equal(err.status, TRF_E_NOMEM);
        trf_vocab_destroy(v);
        assert_int_equal(memory.live, 0);
    }
    assert_true(k > 8);
}

/* A data set chooses a model whose special ids are the usual ones. */
static void data_sets(void **state)
{
    trf_dataset_options o = trf_dataset_defaults();
    trf_dataset *data;
    trf_vocab *v;
    (void)state;
    make_marian();
    OK(from_marian(&v, NULL));
    o.target_vocab = v;
    FAILS(trf_dataset_create(&data, &o, &err), TRF_E_UNSUPPORTED, "target_vocab", 0);
    assert_null(data);
    trf_vocab_destroy(v);
}

/* ---- in a model, in a file ---- */

static void travels(void **state)
{
    char path[] = "/tmp/trf-piece-ids-XXXXXX", answer[4096];
    trf_config config = kit_small(1, 16, 0, 32);
    const trf_vocab *kept;
    trf_translator *t;
    trf_model *m, *back;
    trf_vocab *v, *copy;
    (void)state;
    make_marian();
    OK(from_marian(&v, NULL));
    config.source_vocab = config.target_vocab = trf_vocab_size(v);
    config.pad = config.source_vocab - 1;
    config.bos = -1;
    config.eos = 1;
    config.unk = 0;
    config.decoder_start = TRF_START_PAD;
    OK(trf_model_create(&m, &config, NULL, &err));
    OK(trf_model_set_vocabs(m, v, v, &err));
    assert_int_equal(close(mkstemp(path)), 0);
    OK(trf_model_save(m, path, NULL, &err));
    OK(trf_model_load(&back, path, NULL, &err));
    assert_int_equal(unlink(path), 0);
    kept = trf_model_vocab(back, TRF_TARGET);
    assert_true(trf__vocab_n_bytes(kept) == trf__vocab_n_bytes(v) &&
                !memcmp(trf__vocab_bytes(kept), trf__vocab_bytes(v),
                        (size_t)trf__vocab_n_bytes(v)));
    OK(trf_vocab_copy(&copy, kept, NULL, &err));
    assert_int_equal(trf_vocab_id(copy, "zz"), trf_vocab_id(v, "zz"));
    assert_int_equal(trf_vocab_special(copy, TRF_SPECIAL_PAD), config.pad);
    OK(trf_translator_create(&t, back, NULL, &err));
    OK(trf_translate_text(t, ">>fr<< abc zz cab", answer, sizeof answer, &err));
    assert_null(strstr(answer, TRF__SPACE));
    trf_translator_destroy(t);
    trf_model_destroy(back);
    trf_model_destroy(m);
    config.bos = 2;
    config.decoder_start = TRF_START_BOS;
    OK(trf_model_create(&m, &config, NULL, &err));
    FAILS(trf_model_set_vocabs(m, v, v, &err), TRF_E_SHAPE, "bos", -1);
    trf_model_destroy(m);
    trf_vocab_destroy(copy);
    trf_vocab_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_pieces),
                                       cmocka_unit_test(left_out_pieces),
                                       cmocka_unit_test(tokens),
                                       cmocka_unit_test(as_in_the_file),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(other_pieces),
                                       cmocka_unit_test(hostile),
                                       cmocka_unit_test(long_runs),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(data_sets),
                                       cmocka_unit_test(travels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

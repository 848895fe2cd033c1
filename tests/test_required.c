/* build: shared double:shared separate:shared long:shared plain:shared:all */
/* Texts that answers must contain (trf_translate_options.required). The oracle enumerates all answers of a tiny
   model and counts on their text in plain loops. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "kit.h"

enum { EOS = 2, UNK = 3, LIMIT = 4, MOST = 4 };

#define OK(call) check_ok((call), &err, #call, __LINE__)

static void check_ok(trf_status status, const trf_error *err, const char *call, int line)
{
    if (status != TRF_OK)
        fail_msg("line %d: %s: %s: %s", line, call, trf_status_name(status), err->message);
}

static uint64_t draws;
static int32_t pick(int32_t n) { return (int32_t)(trf__random64(91, 3, draws++) % (uint64_t)n); }

/* A vocabulary of these tokens, in this order. */
static trf_vocab *vocab_of(trf_token_kind kind, const char *const *token, int n)
{
    trf_vocab *v = NULL;
    trf_error err;
    int i;
    OK(trf_vocab_create(&v, kind, NULL, &err));
    OK(trf_vocab_finish(v, 1000, 1, &err));
    for (i = 0; i < n; i++) OK(trf_vocab_add(v, token[i], &err));
    return v;
}

/* A model whose next tokens differ much. */
static trf_model *model_of(trf_vocab *v, uint64_t seed)
{
    trf_config c = kit_small(1, 16, trf_vocab_size(v), 64);
    trf_model *model = NULL;
    trf_tensor w;
    trf_error err;
    int64_t i;
    c.seed = seed;
    c.generator_bias = 1;
    OK(trf_model_create(&model, &c, NULL, &err));
    w = kit_open(trf_model_parameter(model, trf_model_parameter_index(model, "generator.weight")));
    for (i = 0; i < trf_tensor_count(&w); i++) w.data[i] *= 3;
    kit_close(&w);
    OK(trf_model_set_vocabs(model, v, v, &err));
    return model;
}

static trf_sequences one(const int32_t *ids, const int32_t *n)
{
    trf_sequences x;
    x.ids = ids; x.lengths = n; x.count = 1;
    return x;
}

static trf_search search_of(int beam, int limit)
{
    trf_search s = trf_search_defaults();
    s.beam = beam;
    s.ban_unk = 1;
    s.at_limit = TRF_LIMIT_FORCE_EOS;
    s.max_length_a = 0;
    s.max_length_b = limit;
    return s;
}

/* -----------------------------------------------------------------------------------------------
   The oracle. */

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Whether x, of n bytes, is at byte i of a text; beginning: it need only begin there, as its end. */
static int occurs_at(const char *text, size_t length, size_t i, const char *x, size_t n)
{
    if (i + n > length || memcmp(text + i, x, n)) return 0;
    return !(i > 0 && is_digit(text[i - 1]) && is_digit(x[0]));
}

/* How often x occurs, and how many bytes of it the end of the text has. */
static int32_t count_of(const char *text, const char *x, size_t *state)
{
    size_t length = strlen(text), n = strlen(x), i = 0, from = 0, k;
    int32_t count = 0;
    *state = 0;
    while (i < length) {
        int goes_on = i + n < length && is_digit(text[i + n]) && is_digit(x[n - 1]);
        if (!occurs_at(text, length, i, x, n) || goes_on) { i++; continue; }
        count++;
        i += n;
        from = i;
        if (i == length) *state = n;
    }
    for (k = n - 1; k > 0 && *state == 0; k--)
        if (k <= length - from && occurs_at(text, length, length - k, x, k)) *state = k;
    return count;
}

/* What is asked of an answer. */
typedef struct asked {
    trf_required texts[MOST];
    char text[MOST][8];
    int32_t n, symbols[2], n_symbols;
} asked;

/* Whether an answer has all that is asked, and nothing too often. */
static int is_complete(const trf_vocab *v, const asked *a, const int32_t *ids, int32_t n)
{
    char text[64] = "";
    size_t state;
    int32_t i, k, j;
    for (i = 0; i < n; i++) {
        const char *token = trf_vocab_token(v, ids[i]);
        int stands = 1;
        if (trf_vocab_kind(v) == TRF_WORDS && i > 0) strcat(text, " ");
        strcat(text, token);
        for (k = 0; k < a->n_symbols; k++) if (a->symbols[k] == ids[i]) stands = 0;
        for (k = 0; k < a->n; k++) {
            (void)count_of(text, a->text[k], &state);
            if (state >= strlen(token)) stands = 1;
        }
        if (!stands) return 0;
    }
    for (k = 0; k < a->n; k++) {
        int32_t times = 0, count = count_of(text, a->text[k], &state), exactly = 0;
        for (j = 0; j < a->n; j++) {
            times += a->texts[j].times * count_of(a->text[j], a->text[k], &state);
            if (!strcmp(a->text[j], a->text[k])) exactly |= a->texts[j].exactly;
        }
        if (count < times || (exactly && count > times)) return 0;
    }
    return 1;
}

typedef struct answer { int32_t n, ids[LIMIT]; double score; } answer;

/* All complete answers that begin with ids, the best three of them. */
static void enumerate(const trf_model *model, trf_translator *t, const asked *a, const trf_search *s,
                      const trf_batch *pair, int32_t *ids, int32_t n, double sum, answer *best)
{
    const trf_config *c = trf_model_config(model);
    static trf_real rows[(LIMIT + 1) * 64];
    double z[64], all = 0;
    trf_batch batch = *pair;
    trf_tensor logits = trf_tensor_of(rows, 2, n + 1, c->target_vocab, 1);
    trf_error err;
    answer x;
    int32_t w, i;
    batch.target = one(ids, &n);
    OK(kit_logits(t, &batch, &logits, &err));
    for (w = 0; w < c->target_vocab; w++) all += exp(z[w] = (double)rows[n * c->target_vocab + w]);
    if (is_complete(trf_model_vocab(model, TRF_TARGET), a, ids, n)) {
        memcpy(x.ids, ids, (size_t)n * sizeof *ids);
        x.n = n;
        x.score = (sum + z[EOS] - log(all)) / pow((5.0 + n + 1) / 6.0, s->alpha);
        for (i = 3; i > 0 && (best[i - 1].n < 0 || best[i - 1].score < x.score); i--) if (i < 3) best[i] = best[i - 1];
        if (i < 3) best[i] = x;
    }
    for (w = UNK + 1; n < LIMIT && w < c->target_vocab; w++) {
        ids[n] = w;
        enumerate(model, t, a, s, pair, ids, n + 1, sum + z[w] - log(all), best);
    }
}

/* Texts of one to three of the parts, which overlap, repeat themselves, or are in one another. */
static void random_texts(asked *a, const char *const *part, int n_parts, int parts, int most)
{
    int i, k;
    memset(a, 0, sizeof *a);
    a->n = 1 + pick(most);
    for (i = 0; i < a->n; i++) {
        for (k = 1 + pick(parts); k > 0; k--) strcat(a->text[i], part[pick(n_parts)]);
        a->texts[i].text = a->text[i];
        a->texts[i].times = 1 + (pick(4) == 0);
        a->texts[i].exactly = pick(2);
    }
}

static trf_requirements requirements_of(const asked *a)
{
    trf_requirements x;
    x.texts = a->texts; x.n_texts = a->n; x.symbols = a->symbols; x.n_symbols = a->n_symbols;
    return x;
}

static const char *const pieces[] = {"a", "%", "s", "1", "%s"};

/* A beam as wide as all continuations finds the best answers that have the texts, whatever tokens
   write them. */
static void test_exhaustively(void **state)
{
    trf_vocab *v = vocab_of(TRF_CHARACTERS, pieces, 5);
    trf_error err;
    int k, some = 0, none = 0, rank;
    (void)state;
    draws = 1;
    for (k = 0; k < (KIT_AGAIN ? 6 : 60); k++) {
        trf_model *model = model_of(v, 3 + (uint64_t)k / 8);
        trf_translator *t = NULL, *reads = NULL;
        trf_search s = search_of(1000, LIMIT);
        int32_t source[] = {4, 8, 5}, n = 3, ids[LIMIT + 1];
        trf_sequences sources = one(source, &n);
        trf_requirements required;
        answer best[3] = {{-1, {0}, 0}, {-1, {0}, 0}, {-1, {0}, 0}};
        trf_batch pair;
        asked a;
        memset(&pair, 0, sizeof pair);
        pair.source = sources;
        s.n_best = 2;
        random_texts(&a, pieces, 5, 2, k % 3 + 1);
        if (k % 2) { a.n_symbols = 1; a.symbols[0] = 8; }
        required = requirements_of(&a);
        OK(trf_translator_create(&t, model, &s, &err));
        OK(trf_translator_create(&reads, model, NULL, &err));
        enumerate(model, reads, &a, &s, &pair, ids, 0, 0, best);
        OK(kit_translate_with(t, &sources, NULL, &required, 0, &err));
        assert_true(kit_count(t, 0) > 0);
        for (rank = 0; rank < 2 && best[rank].n >= 0; rank++) {
            const trf_hypothesis *h = trf_translator_answer(t, 0, rank);
            if (h->n != best[rank].n || memcmp(h->ids, best[rank].ids, (size_t)h->n * sizeof *h->ids))
                fail_msg("case %d, rank %d: %d ids of score %g, expected %d of %g", k, rank, h->n, h->score,
                         best[rank].n, best[rank].score);
            some++;
        }
        none += best[0].n < 0;
        trf_translator_destroy(t);
        trf_translator_destroy(reads);
        trf_model_destroy(model);
    }
    if (!KIT_AGAIN) assert_true(some > 40 && none > 0);
    trf_vocab_destroy(v);
}

/* -----------------------------------------------------------------------------------------------
   What holds for every beam and every kind of tokens. */

static void text_of(const trf_translator *t, int32_t sentence, char text[512])
{
    const trf_hypothesis *best = trf_translator_answer(t, sentence, 0);
    trf_error err;
    OK(trf_vocab_decode(t->reader.model->target, best->ids, best->n, text, 512, NULL, &err));
}

/* Where there is room, each text occurs as often as it is asked for, and in a batch as alone. */
static void always(trf_vocab *v, const char *const *part, int n_parts, int parts, int beam)
{
    enum { SENTENCES = 12 };
    trf_model *model = model_of(v, (uint64_t)beam);
    trf_search s = search_of(beam, 40);
    trf_translator *t = NULL, *alone = NULL;
    static asked a[SENTENCES];
    trf_required all[SENTENCES * MOST];
    trf_requirements required;
    int32_t ids[SENTENCES * 2], lengths[SENTENCES], i, k, n = 0;
    trf_sequences sources;
    trf_error err;
    char text[512], own[512];
    size_t state;
    s.max_sentences = 5;
    sources.ids = ids; sources.lengths = lengths; sources.count = SENTENCES;
    for (i = 0; i < SENTENCES; i++) {
        lengths[i] = 2;
        for (k = 0; k < 2; k++) ids[2 * i + k] = UNK + 1 + pick(trf_vocab_size(v) - UNK - 1);
        random_texts(&a[i], part, n_parts, parts, MOST);
        for (k = 0; k < a[i].n; k++) {
            if (pick(3)) a[i].texts[k].exactly = 0;         /* seldom, as they may exclude one another */
            a[i].texts[k].sentence = i;
        }
        if (i % 4 == 0) a[i].n = 0;
        for (k = 0; k < a[i].n; k++) all[n++] = a[i].texts[k];
    }
    memset(&required, 0, sizeof required);
    required.texts = all;
    required.n_texts = n;
    OK(trf_translator_create(&t, model, &s, &err));
    OK(trf_translator_create(&alone, model, &s, &err));
    OK(kit_translate_with(t, &sources, NULL, &required, 0, &err));
    for (i = 0; i < SENTENCES; i++) {
        trf_sequences single = one(ids + 2 * i, lengths + i);
        for (k = 0; k < a[i].n; k++) a[i].texts[k].sentence = 0;
        required.texts = a[i].texts;
        required.n_texts = a[i].n;
        if (a[i].n) OK(kit_translate_with(alone, &single, NULL, &required, 0, &err));
        else OK(trf_translate(alone, &single, NULL, &err));
        text_of(t, i, text);
        text_of(alone, 0, own);
        assert_string_equal(text, own);
        for (k = 0; k < a[i].n; k++) {
            int32_t times = 0, j, free_texts = 1;
            for (j = 0; j < a[i].n; j++) {
                times += a[i].texts[j].times * count_of(a[i].text[j], a[i].text[k], &state);
                free_texts &= !a[i].texts[j].exactly;
            }
            if (free_texts && count_of(text, a[i].text[k], &state) < times)
                fail_msg("beam %d, sentence %d: '%s' lacks '%s'", beam, i, text, a[i].text[k]);
            assert_int_equal(trf_text_count(text, a[i].text[k]), count_of(text, a[i].text[k], &state));
            if (a[i].n == 1 && !free_texts && count_of(text, a[i].text[k], &state) != times)
                fail_msg("beam %d, sentence %d: '%s' in '%s', expected %d", beam, i, a[i].text[k], text, times);
        }
    }
    trf_translator_destroy(t);
    trf_translator_destroy(alone);
    trf_model_destroy(model);
}

static void test_always(void **state)
{
    static const char *const words[] = {"a", "b", "ab", "ba", "10", "100", "%s"};
    static const char *const letters[] = {"a", "aa"}, *const marks[] = {"a", "%", "s", "%s"};
    trf_vocab *v[3];
    int i, beam, again;
    (void)state;
    v[0] = vocab_of(TRF_CHARACTERS, pieces, 5);
    v[1] = vocab_of(TRF_WORDS, words, 7);
    v[2] = kit_pieces(NULL);
    draws = 1000;
    for (again = 0; again < (KIT_AGAIN ? 1 : 6); again++)
        for (beam = 1; beam <= 8; beam *= 2) {
            always(v[0], marks, 4, 2, beam);
            always(v[1], words, 7, 1, beam);
            always(v[2], letters, 2, 2, beam);
        }
    for (i = 0; i < 3; i++) trf_vocab_destroy(v[i]);
}

/* "10" is not in "100" or "210", and the second one of "1010 10" is. */
static void test_digits(void **state)
{
    (void)state;
    assert_int_equal(trf_text_count("100 210 10", "10"), 1);
    assert_int_equal(trf_text_count("1010 10.", "10"), 1);
    assert_int_equal(trf_text_count("x10y10", "10"), 2);
    assert_int_equal(trf_text_count("111", "1"), 0);
    assert_int_equal(trf_text_count("aaaa", "aa"), 2);
    assert_int_equal(trf_text_count("", "a"), 0);
    assert_int_equal(trf_text_count("a", ""), 0);
    assert_int_equal(trf_text_count(NULL, "a"), 0);
    assert_int_equal(trf_text_count("a", NULL), 0);
}

/* A phrase is counted byte by byte as in a whole text: all phrases of up to three bytes, all texts of six. */
static void test_byte_by_byte(void **state)
{
    static const char letters[] = "12a";
    trf__unit units[3];
    trf__phrases all;
    trf__phrase f;
    char text[7] = "", phrase[4] = "";
    int32_t phrases, texts, n, i, k, x, some = 0;
    (void)state;
    memset(&all, 0, sizeof all);
    memset(&f, 0, sizeof f);
    memset(units, 0, sizeof units);
    all.units = units;
    f.bytes = 1;
    for (n = 1, phrases = 3; n <= 3; n++, phrases *= 3)
        for (k = 0; k < phrases; k++) {
            f.n = n;
            for (i = 0, x = k; i < n; i++, x /= 3) units[i].unit = phrase[i] = letters[x % 3];
            trf__set_failure_links(&f, units);
            for (texts = 0; texts < 729; texts++) {
                trf__met met = {0, 0};
                for (i = 0, x = texts; i < 6; i++, x /= 3) {
                    text[i] = letters[x % 3];
                    trf__phrase_unit(&all, &f, &met, text[i]);
                }
                if (trf__phrase_count(&f, met) != trf_text_count(text, phrase))
                    fail_msg("'%s' in '%s': %d, expected %d", phrase, text, trf__phrase_count(&f, met),
                             trf_text_count(text, phrase));
                some += met.times > 0;
            }
        }
    assert_true(some > 1000);
}

/* The longest symbol leaves a byte that no token writes, but others write the text. */
static void test_other_cuts(void **state)
{
    static const char *const tokens[] = {"a", "ab", "bc", "x", "y", "z"};
    trf_vocab *v = vocab_of(TRF_CHARACTERS, tokens, 6);
    int32_t source[] = {4, 8, 5}, n = 3, seed;
    trf_sequences sources = one(source, &n);
    trf_required x = {0, 1, 0, "abc"};
    trf_requirements required = {NULL, 1, NULL, 0};
    char text[512];
    trf_error err;
    (void)state;
    required.texts = &x;
    for (seed = 0; seed < 8; seed++) {
        trf_model *model = model_of(v, (uint64_t)seed);
        trf_search s = search_of(1, 8);
        trf_translator *t = NULL;
        OK(trf_translator_create(&t, model, &s, &err));
        OK(kit_translate_with(t, &sources, NULL, &required, 0, &err));
        text_of(t, 0, text);
        if (!strstr(text, "abc")) fail_msg("seed %d: '%s'", (int)seed, text);
        trf_translator_destroy(t);
        trf_model_destroy(model);
    }
    trf_vocab_destroy(v);
}

/* An answer whose limit leaves no room is as good as it gets; the next call has none of its texts. */
static void test_no_room(void **state)
{
    trf_vocab *v = vocab_of(TRF_CHARACTERS, pieces, 5);
    trf_model *model = model_of(v, 5);
    trf_search s = search_of(4, 3);
    trf_translator *t = NULL;
    int32_t source[] = {4, 8, 5}, n = 3;
    trf_sequences sources = one(source, &n);
    trf_required x = {0, 1, 1, "a%sa%sa%sa"};
    trf_requirements required = {NULL, 1, NULL, 0};
    char before[512], text[512], with[512];
    trf_error err;
    (void)state;
    required.texts = &x;
    OK(trf_translator_create(&t, model, &s, &err));
    OK(trf_translate(t, &sources, NULL, &err));
    text_of(t, 0, before);
    OK(kit_translate_with(t, &sources, NULL, &required, 0, &err));
    text_of(t, 0, with);
    assert_string_equal(with, "a%sa");
    x.text = "\xC3\xA4";                /* no token writes it */
    OK(kit_translate_with(t, &sources, NULL, &required, 0, &err));
    text_of(t, 0, text);
    assert_string_equal(text, before);
    OK(trf_translate(t, &sources, NULL, &err));
    text_of(t, 0, text);
    assert_string_equal(text, before);
    trf_translator_destroy(t);
    trf_model_destroy(model);
    trf_vocab_destroy(v);
}

static void refused(trf_translator *t, const trf_requirements *x, trf_status status, const char *what,
                    const char *message)
{
    int32_t source[] = {4, 4}, n[] = {1, 1};
    trf_sequences sources;
    trf_error err;
    sources.ids = source; sources.lengths = n; sources.count = 2;
    assert_int_equal(kit_translate_with(t, &sources, NULL, x, 0, &err), status);
    assert_string_equal(err.what, what);
    if (!strstr(err.message, message)) fail_msg("%s lacks %s", err.message, message);
    assert_int_equal(kit_count(t, 0), 0);
}

static void test_refusals(void **state)
{
    trf_vocab *v = vocab_of(TRF_CHARACTERS, pieces, 5);
    trf_model *model = model_of(v, 5), *bare = NULL;
    trf_config c = *trf_model_config(model);
    trf_translator *t = NULL;
    trf_required x[2] = {{0, 1, 0, "a"}, {1, 1, 0, "s"}}, *many;
    trf_requirements required = {NULL, 2, NULL, 0};
    static char names[1100][8];
    int32_t symbol = 9, i;
    trf_error err;
    (void)state;
    required.texts = x;
    OK(trf_model_create(&bare, &c, NULL, &err));
    OK(trf_translator_create(&t, bare, NULL, &err));
    refused(t, &required, TRF_E_STATE, "vocabulary", "no vocabularies");
    trf_translator_destroy(t);
    OK(trf_translator_create(&t, model, NULL, &err));
    required.texts = NULL;
    refused(t, &required, TRF_E_INVALID_ARG, "texts", "NULL");
    required.texts = x;
    required.n_texts = -1;
    refused(t, &required, TRF_E_INVALID_ARG, "n_texts", "0");
    required.n_texts = 2;
    x[1].sentence = 2;
    refused(t, &required, TRF_E_INVALID_ARG, "sentence", "text 1: sentence must be 0 to 1, got 2");
    x[0].sentence = 1; x[1].sentence = 0;
    refused(t, &required, TRF_E_INVALID_ARG, "sentence", "text 1: sentence must be 1 to 1, got 0");
    x[0].sentence = 0; x[1].sentence = 1; x[1].times = 0;
    refused(t, &required, TRF_E_INVALID_ARG, "times", "text 1: times must be 1 to 1048576, got 0");
    x[1].times = 1; x[1].text = "";
    refused(t, &required, TRF_E_INVALID_ARG, "text", "text 1 must have 1 to 1048576 bytes, got 0");
    x[1].text = NULL;
    refused(t, &required, TRF_E_INVALID_ARG, "text", "NULL");
    x[1].text = "\xFF";
    refused(t, &required, TRF_E_FORMAT, "text", "text 1 is not UTF-8");
    x[1].text = "aa"; x[1].times = 1 << 20;
    refused(t, &required, TRF_E_LIMIT, "texts", "at most 1048576 tokens together");
    x[1].times = 1;
    required.n_symbols = 1;
    refused(t, &required, TRF_E_INVALID_ARG, "symbols", "NULL");
    required.symbols = &symbol;
    refused(t, &required, TRF_E_INVALID_ARG, "symbols", "symbol 0: id must be 0 to 8, got 9");
    required.n_symbols = -1;
    refused(t, &required, TRF_E_INVALID_ARG, "n_symbols", "0");
    required.n_symbols = 0;
    many = calloc(1100, sizeof *many);
    for (i = 0; i < 1100; i++) {
        sprintf(names[i], "%c%c%c%c%c%c", "as"[i & 1], "as"[i >> 1 & 1], "a%"[i >> 2 & 1], "as"[i >> 3 & 1],
                "a%"[i >> 4 & 1], "as"[i >> 5 & 1]);
        sprintf(names[i] + 6, "%c", "as%1"[i >> 6 & 3]);
        if (i >= 256) names[i][3] = '1';
        if (i >= 512) names[i][1] = '1';
        if (i >= 768) names[i][5] = '1';
        if (i >= 1024) names[i][0] = '1';
        many[i].times = 1;
        many[i].text = names[i];
    }
    required.texts = many;
    required.n_texts = 1100;
    assert_int_equal(kit_translate_with(t, &(trf_sequences){(const int32_t[]){4}, (const int32_t[]){1}, 1}, NULL,
                                        &required, 0, &err) != TRF_E_INTERNAL, 1);
    free(many);
    trf_translator_destroy(t);
    trf_model_destroy(model);
    trf_model_destroy(bare);
    trf_vocab_destroy(v);
}

/* Symbols are cut out of texts of characters, the longest first, and survive a copy. */
static void test_symbols_of_characters(void **state)
{
    static const char *const tokens[] = {"a", "%", "s", "%s", "%s%s", "\xC3\xA4"};
    trf_vocab *v = vocab_of(TRF_CHARACTERS, tokens, 6), *copy = NULL;
    int32_t ids[16], n, expected[] = {4, 8, 7, 5, 4, 9, 3};
    char text[32];
    trf_error err;
    (void)state;
    OK(trf_vocab_copy(&copy, v, NULL, &err));
    OK(trf_vocab_encode(copy, "a%s%s%s%a\xC3\xA4x", 0, ids, 16, &n, &err));
    assert_int_equal(n, 7);
    assert_memory_equal(ids, expected, sizeof expected);
    OK(trf_vocab_decode(copy, ids, 6, text, sizeof text, NULL, &err));
    assert_string_equal(text, "a%s%s%s%a\xC3\xA4");
    trf_vocab_destroy(v);
    trf_vocab_destroy(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exhaustively),
        cmocka_unit_test(test_always),
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_other_cuts),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_symbols_of_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

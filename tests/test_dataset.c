/* build: shared plain:shared */
/* Data sets beyond what test_learn.c shows: lines that are left out and who is asked, vocabularies of
   the caller, pairs to hold out, documents and chunks, ids around pairs, pairs that go to the
   caller, token files. Each against a plain version of its own. */
#define TRF_IMPLEMENTATION
#include "transformer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>
#include "kit.h"
#include "checks.h"
#include "folder.h"

static void write_file(const char *name, const char *text, size_t n)
{
    FILE *f = fopen(in_folder(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* What the calls of a data set saw. */
typedef struct seen {
    trf_bad_line bad[16];
    char why[16][200];
    int n_bad, fail_at;             /* fail_at: the number of the bad line that is no longer left out */
    int64_t lines[2];
    int32_t pairs[64][2][16], n[64][2], n_pairs;
    int fails;
} seen;

static int bad_line(void *user, const trf_bad_line *line)
{
    seen *s = (seen *)user;
    assert_true(s->n_bad < 16);
    s->bad[s->n_bad] = *line;
    snprintf(s->why[s->n_bad++], 200, "%s", line->why);
    return s->n_bad == s->fail_at;
}

/* Characters of the lines that are learned from, with ids that other lines do not change. */
static trf_status make_vocabs(void *user, const trf_data_lines *lines, trf_vocab *vocab[2],
                              trf_error *e)
{
    seen *s = (seen *)user;
    int64_t i;
    s->lines[0] = lines->n;
    s->lines[1] = lines->n_held_out;
    assert_null(lines->used);
    if (s->fails) {
        snprintf(e->message, sizeof e->message, "no vocabulary today");
        return e->status = TRF_E_UNSUPPORTED;
    }
    DONE(trf_vocab_create(&vocab[0], TRF_CHARACTERS, NULL, e));
    for (i = 0; i < lines->n; i++) {
        DONE(trf_vocab_learn(vocab[0], lines->source[i], e));
        DONE(trf_vocab_learn(vocab[0], lines->target[i], e));
    }
    DONE(trf_vocab_finish(vocab[0], 100, 1, e));
    vocab[1] = vocab[0];
    return TRF_OK;
}

static trf_status take_pair(void *user, const int32_t *source, int32_t n_source,
                            const int32_t *target, int32_t n_target, trf_error *e)
{
    seen *s = (seen *)user;
    if (s->n_pairs == s->fails) return trf__fail(e, TRF_E_IO, 5, "disk", "the disk is full today");
    assert_true(s->n_pairs < 64 && n_source <= 16 && n_target <= 16);
    if (n_source) memcpy(s->pairs[s->n_pairs][0], source, (size_t)n_source * sizeof *source);
    if (n_target) memcpy(s->pairs[s->n_pairs][1], target, (size_t)n_target * sizeof *target);
    s->n[s->n_pairs][0] = n_source;
    s->n[s->n_pairs++][1] = n_target;
    return TRF_OK;
}

static trf_dataset_options asking(seen *s)
{
    trf_dataset_options o = trf_dataset_defaults();
    memset(s, 0, sizeof *s);
    s->fails = -1;
    o.bad_line = bad_line;
    o.user = s;
    return o;
}

/* A vocabulary of the letters a to z, a = 4, and the blank, 30. */
static trf_vocab *letters(trf_token_kind kind)
{
    trf_vocab *v;
    char text[32] = "a";
    int i;
    OK(trf_vocab_create(&v, kind, NULL, &err));
    OK(trf_vocab_finish(v, 5, 1, &err));
    for (i = 0; i < 26; i++) {
        text[0] = (char)('a' + i);
        OK(trf_vocab_add(v, text, &err));
    }
    if (kind == TRF_CHARACTERS) OK(trf_vocab_add(v, " ", &err));
    return v;
}

static void same_ids(const seen *s, int pair, int side, const char *wanted)
{
    char got[200] = "";
    int32_t i;
    for (i = 0; i < s->n[pair][side]; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? " " : "",
                 (int)s->pairs[pair][side][i]);
    assert_string_equal(got, wanted);
}

/* Each fault is told with its kind, file, line and side; 1 ends the call and leaves the data set as
   it was. */
static void bad_lines(void **state)
{
    static const char text[] = "a\tb\nno tab\nc\xFF\td\n\tx\nx\t\n\t\nfits\tfits\ntoo long\tb\nb\ttoo long\n";
    static const struct { trf_fault fault; int64_t number; int32_t side; const char *why; } wanted[] = {
        {TRF_FAULT_UNREADABLE, 2, 0, "one tab"}, {TRF_FAULT_ENCODING, 3, 0, "0xFF at offset 1"},
        {TRF_FAULT_HALF, 4, 0, "other side"}, {TRF_FAULT_HALF, 5, 1, "other side"},
        {TRF_FAULT_EMPTY, 6, 0, "both sides"},
        {TRF_FAULT_LONG, 8, 0, "8 tokens, at most 4"}, {TRF_FAULT_LONG, 9, 1, "8 tokens, at most 4"}};
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data;
    size_t i;
    (void)state;
    o.source_tokens = o.target_tokens = TRF_TOKENS_CHARACTERS;
    o.max_length = 4;
    write_file("pairs", text, sizeof text - 1);
    OK(trf_dataset_create(&data, &o, &err));
    s.fail_at = 2;
    FAILS(trf_dataset_read(data, in_folder("pairs"), NULL, 0, &err), TRF_E_FORMAT, "line", 3);
    assert_int_equal(data->texts[0].count + data->unreadable, 0);
    s.n_bad = s.fail_at = 0;
    OK(trf_dataset_read(data, in_folder("pairs"), NULL, 0, &err));
    s.fail_at = 7;
    FAILS(trf_dataset_finish(data, &err), TRF_E_FORMAT, "line", 9);
    s.n_bad = 2;
    s.fail_at = 0;
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(s.n_bad, 7);
    for (i = 0; i < 7; i++) {
        assert_int_equal(s.bad[i].fault, wanted[i].fault);
        assert_int_equal(s.bad[i].number, wanted[i].number);
        assert_int_equal(s.bad[i].side, wanted[i].side);
        assert_non_null(strstr(s.why[i], wanted[i].why));
    }
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs, 2);
    assert_non_null(strstr(trf_dataset_results(data)->recipe->reasons, "7 left out"));
    trf_dataset_destroy(data);
    /* without the call reading fails, and finishing leaves out */
    o.bad_line = NULL;
    OK(trf_dataset_create(&data, &o, &err));
    FAILS(trf_dataset_read(data, in_folder("pairs"), NULL, 0, &err), TRF_E_FORMAT, "line", 2);
    OK(trf_dataset_add(data, "", "b", &err));
    OK(trf_dataset_add(data, "a", "b", &err));
    OK(trf_dataset_finish(data, &err));
    assert_non_null(strstr(trf_dataset_results(data)->recipe->reasons, "1 left out"));
    trf_dataset_destroy(data);
    /* empty sides that may stay */
    o.keep_empty = 1;
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, "", "b", &err));
    OK(trf_dataset_add(data, "", "", &err));
    OK(trf_dataset_add(data, "a", "", &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs, 2);
    trf_dataset_destroy(data);
}

/* A file is named with the line, whichever file is at fault. */
static void names_files(void **state)
{
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data;
    (void)state;
    write_file("s", "a\nb\nc\n", 6);
    write_file("t", "a\n\xFF\nc\n", 6);
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_read(data, in_folder("s"), in_folder("t"), 0, &err));
    assert_int_equal(s.n_bad, 1);
    assert_true(s.bad[0].side == 1 && s.bad[0].number == 2);
    assert_int_equal(data->texts[0].count, 2);
    {
        const trf_line line = {"", "x", "mine", 7, 0, 0};
        OK(trf_dataset_add_line(data, &line, &err));
    }
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(s.n_bad, 2);
    assert_int_equal(s.bad[1].number, 7);
    trf_dataset_destroy(data);
}

/* Vocabularies of the caller: made from what is learned from, owned by the data set, also after a
   failure. */
static void own_vocabularies(void **state)
{
    kit_memory memory;
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data;
    trf_model *model;
    const trf_batch *held;
    int i;
    (void)state;
    o.make_vocabs = make_vocabs;
    memset(&memory, 0, sizeof memory);
    o.hooks = kit_hooks(&memory);
    OK(trf_dataset_create(&data, &o, &err));
    for (i = 0; i < 40; i++) {
        const trf_line line = {i < 30 ? "ab" : "cb", "ba", NULL, 0, i >= 30, 0};
        OK(trf_dataset_add_line(data, &line, &err));
    }
    s.fails = 1;
    assert_int_equal(trf_dataset_finish(data, &err), TRF_E_UNSUPPORTED);
    assert_string_equal(err.message, "no vocabulary today");
    assert_null(trf_dataset_results(data));
    s.fails = 0;
    OK(trf_dataset_finish(data, &err));
    assert_true(s.lines[0] == 30 && s.lines[1] == 10);
    assert_true(data->vocab[0] == data->vocab[1]);
    assert_int_equal(trf_vocab_size(data->vocab[0]), 4 + 2);    /* a and b: c is held out */
    held = trf_dataset_results(data)->held_out;
    assert_true(held && held->source.count == 10);
    assert_int_equal(held->source.ids[0], 3);                   /* unk */
    assert_int_equal(trf_dataset_results(data)->held_out_facts.source_unknown, 10);
    assert_int_equal(trf_dataset_results(data)->facts.source_unknown, 0);
    assert_int_equal(trf_dataset_results(data)->facts.target_ids, 60);
    assert_int_equal(trf_dataset_results(data)->facts.longest, 2);
    assert_string_equal(trf_dataset_held_out_text(data, 9, 0), "cb");
    assert_string_equal(trf_dataset_held_out_text(data, 9, 1), "ba");
    assert_null(trf_dataset_held_out_text(data, 10, 0));
    assert_null(trf_dataset_held_out_text(data, -1, 0));
    assert_null(trf_dataset_held_out_text(data, 0, (trf_side)2));
    assert_int_equal(trf_dataset_results(data)->lines.n, 0);             /* they are gone */
    OK(trf_dataset_create_model(data, &model, &err));
    assert_int_equal(trf_model_config(model)->tying, TRF_TIED_ALL);
    trf_model_destroy(model);
    trf_dataset_destroy(data);
    assert_int_equal(memory.live, 0);
}

/* Files to hold out; the lines that stay, and which of them are used. */
static void held_out_files(void **state)
{
    trf_dataset_options o = trf_dataset_defaults();
    trf_dataset *data;
    trf_data_lines lines;
    (void)state;
    o.keep_texts = 1;
    o.source_tokens = o.target_tokens = TRF_TOKENS_WORDS;
    write_file("learn", "a\tb\n\tc\nc\td\n", 11);
    write_file("held", "x\ty\nc\td\n", 8);
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_read(data, in_folder("held"), NULL, 1, &err));
    OK(trf_dataset_read(data, in_folder("learn"), NULL, 0, &err));
    OK(trf_dataset_finish(data, &err));
    lines = trf_dataset_results(data)->lines;
    assert_true(lines.n == 3 && lines.n_held_out == 2);
    assert_string_equal(lines.source[2], "c");
    assert_string_equal(lines.source[3], "x");
    assert_true(lines.used[0] && !lines.used[1] && lines.used[2]);
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs, 2);
    assert_int_equal(trf_dataset_results(data)->held_out->target.count, 2);
    trf_dataset_destroy(data);
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_read(data, in_folder("held"), NULL, 1, &err));
    FAILS(trf_dataset_finish(data, &err), TRF_E_STATE, "held_out", -1);
    trf_dataset_destroy(data);
}

/* Texts alone, cut by a plain loop over the ids of documents with their ends. */
static void check_chunks(trf_data_kind kind, int files, int pack, int32_t chunk)
{
    static const char *const texts[] = {"abc", "", "abcdef", "x", "abcd"};
    static const int ends[] = {0, 0, 1, 0, 1};          /* of files */
    trf_vocab *vocab = letters(TRF_CHARACTERS);
    int32_t stream[64], n = 0, at, size, wanted = 0;
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data, *kept;
    trf_batch batch;
    int i, lead = kind == TRF_DATA_TEXTS, open = 0;
    size_t k;
    o.kind = kind;
    o.files = files;
    o.pack = pack;
    o.chunk = chunk;
    o.max_length = 8;
    o.held_out = -1;
    o.source_vocab = o.target_vocab = vocab;
    OK(trf_dataset_create(&kept, &o, &err));
    o.pair = take_pair;
    OK(trf_dataset_create(&data, &o, &err));
    for (i = 0; i < 5; i++) {
        const trf_line line = {NULL, texts[i], NULL, i + 1, 0, files && ends[i]};
        OK(trf_dataset_add_line(data, &line, &err));
        OK(trf_dataset_add_line(kept, &line, &err));
    }
    OK(trf_dataset_finish(data, &err));
    OK(trf_dataset_finish(kept, &err));
    assert_null(trf_dataset_results(data)->recipe);
    assert_null(trf_dataset_results(data)->corpus);
    for (i = 0; i < 5; i++) {
        int end = files ? ends[i] : 1;
        for (k = 0; texts[i][k]; k++) stream[n++] = 4 + texts[i][k] - 'a';
        open |= *texts[i] != 0;
        if (end && open && lead) stream[n++] = 2;
        if (end) open = 0;
        if (!(end && (files || !pack)) && i < 4) continue;
        if (lead && !pack && chunk != 1 && n > (chunk ? chunk : 8)) {       /* a text that is cut begins with EOS */
            memmove(stream + 1, stream, (size_t)n++ * sizeof *stream);
            *stream = 2;
        }
        for (at = 0; at < n; at += size, wanted++) {
            size = n - at < (chunk ? chunk : 8) ? n - at : (chunk ? chunk : 8);
            assert_int_equal(s.n[wanted][lead], size);
            assert_int_equal(s.n[wanted][!lead], 0);
            assert_memory_equal(s.pairs[wanted][lead], stream + at, (size_t)size * sizeof *stream);
        }
        n = 0;
    }
    assert_int_equal(s.n_pairs, wanted);
    assert_int_equal(trf_dataset_results(data)->facts.pairs, wanted);
    assert_int_equal(s.n_bad, files ? 0 : 2);           /* the empty text, twice */
    {   /* the corpus has the same ones, in the same order */
        trf_corpus_options same = trf_dataset_results(kept)->recipe->corpus;
        const trf_sequences *x;
        same.shuffle = same.buckets = 0;
        OK(trf_corpus_set_options(trf_dataset_results(kept)->corpus, &same, &err));
        OK(trf_corpus_next(trf_dataset_results(kept)->corpus, &batch, &err));
        x = lead ? &batch.target : &batch.source;
        assert_int_equal(x->count, wanted);
        for (i = 0, at = 0; i < wanted; at += x->lengths[i++]) {
            assert_int_equal(x->lengths[i], s.n[i][lead]);
            assert_memory_equal(x->ids + at, s.pairs[i][lead], (size_t)x->lengths[i] * 4);
        }
        assert_int_equal(trf_dataset_results(kept)->recipe->config.kind,
                         lead ? TRF_DECODER_ONLY : TRF_ENCODER_ONLY);
        assert_int_equal(trf_dataset_results(kept)->recipe->config.head,
                         lead ? TRF_HEAD_NONE : TRF_HEAD_MASKED);
    }
    trf_dataset_destroy(data);
    trf_dataset_destroy(kept);
    trf_vocab_destroy(vocab);
}

static void chunks(void **state)
{
    int files, pack;
    int32_t chunk;
    (void)state;
    for (files = 0; files < 2; files++) for (pack = 0; pack < 2 - files; pack++)
        for (chunk = 0; chunk < 9; chunk++) {
            check_chunks(TRF_DATA_TEXTS, files, pack, chunk);
            check_chunks(TRF_DATA_SOURCES, files, pack, chunk);
        }
}

/* Files that are one text each: their line ends, their ends, and the end that is held out. */
static void files_of_text(void **state)
{
    trf_vocab *vocab = letters(TRF_CHARACTERS);
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data;
    int i;
    (void)state;
    OK(trf_vocab_add(vocab, "\n", &err));       /* 31 */
    o.kind = TRF_DATA_TEXTS;
    o.files = 1;
    o.target_vocab = vocab;
    o.pair = take_pair;
    write_file("one", "ab\r\n\nc", 6);
    write_file("two", "d\n", 2);
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_read(data, in_folder("one"), NULL, 0, &err));
    OK(trf_dataset_read(data, in_folder("two"), NULL, 0, &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(s.n_pairs, 2);
    same_ids(&s, 0, 1, "4 5 3 31 31 6 2");      /* CR LF is not cut off: 3 is the CR */
    same_ids(&s, 1, 1, "7 31 2");
    trf_dataset_destroy(data);
    o.pair = NULL;
    o.held_out = 1;                             /* the last line, not what ends the file */
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_read(data, in_folder("one"), NULL, 0, &err));
    OK(trf_dataset_finish(data, &err));
    assert_non_null(trf_dataset_results(data)->held_out);
    assert_int_equal(trf_dataset_results(data)->held_out->target.lengths[0], 2);
    assert_int_equal(trf_dataset_results(data)->facts.target_ids, 6);
    trf_dataset_destroy(data);
    OK(trf_dataset_create(&data, &o, &err));    /* three files: each ends before the next one */
    for (i = 0; i < 3; i++) OK(trf_dataset_read(data, in_folder(i < 2 ? "one" : "two"), NULL, 0, &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_dataset_results(data)->facts.pairs, 2);
    assert_int_equal(trf_dataset_results(data)->facts.target_ids, 14);
    trf_dataset_destroy(data);
    o.held_out = 3;
    OK(trf_dataset_create(&data, &o, &err));
    for (i = 0; i < 10; i++) {
        char text[3] = {(char)('a' + i), '\n', 0};
        OK(trf_dataset_add(data, NULL, text, &err));
    }
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_dataset_results(data)->held_out->target.count, 1);
    assert_int_equal(trf_dataset_results(data)->held_out->target.lengths[0], 7);
    assert_int_equal(trf_dataset_results(data)->held_out->target.ids[0], 4 + 7);
    assert_int_equal(trf_dataset_results(data)->facts.target_ids, 15);
    assert_null(trf_dataset_held_out_text(data, 0, 1));
    trf_dataset_destroy(data);
    trf_vocab_destroy(vocab);
}

/* Ids around pairs take places. */
static void tags(void **state)
{
    trf_vocab *vocab = letters(TRF_CHARACTERS);
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data;
    (void)state;
    o.source_vocab = o.target_vocab = vocab;
    o.pair = take_pair;
    o.source_first = 28;
    o.source_last = 29;
    o.target_first = 27;
    o.max_length = 5;
    o.keep_empty = 1;
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, "abc", "abcd", &err));
    OK(trf_dataset_add(data, "abcd", "a", &err));
    OK(trf_dataset_add(data, "a", "abcde", &err));
    OK(trf_dataset_add(data, "", "a", &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(s.n_pairs, 2);
    same_ids(&s, 0, 0, "28 4 5 6 29");
    same_ids(&s, 0, 1, "27 4 5 6 7");
    same_ids(&s, 1, 0, "28 29");
    assert_int_equal(s.n_bad, 2);
    assert_string_equal(s.why[0], "4 tokens, at most 3, because tags take 2 of 5 places");
    assert_string_equal(s.why[1], "5 tokens, at most 4, because tags take 1 of 5 places");
    trf_dataset_destroy(data);
    trf_vocab_destroy(vocab);
}

/* Labels that a model has already; two texts in one source; the faults of labels. */
static void given_labels(void **state)
{
    trf_config config = trf_config_preset(TRF_TINY);
    trf_vocab *vocab = letters(TRF_CHARACTERS);
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data;
    trf_batch batch;
    char longest[1100];
    (void)state;
    memset(longest, 'l', sizeof longest);
    longest[sizeof longest - 1] = 0;
    config.segments = 2;
    o.kind = TRF_DATA_LABELLED;
    o.config = &config;
    o.source_vocab = vocab;
    o.labels = " first\nlast\nother";
    o.max_length = 6;
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, "a\tb", "last", &err));            /* a, eos, b */
    OK(trf_dataset_add(data, "c", " first", &err));             /* a label with a blank */
    OK(trf_dataset_add(data, "\t", "last", &err));
    OK(trf_dataset_add(data, "abc\tabc", "last", &err));
    OK(trf_dataset_add(data, "c", "new", &err));
    OK(trf_dataset_add(data, "c", "  ", &err));
    OK(trf_dataset_add(data, "c", longest, &err));
    OK(trf_dataset_finish(data, &err));
    assert_string_equal(trf_dataset_results(data)->labels, o.labels);
    assert_int_equal(trf_dataset_results(data)->recipe->config.n_labels, 3);
    assert_int_equal(s.n_bad, 5);
    assert_int_equal(s.bad[0].fault, TRF_FAULT_EMPTY);
    assert_string_equal(s.why[1], "7 tokens, at most 6");
    assert_int_equal(s.bad[2].fault, TRF_FAULT_LABEL);
    assert_non_null(strstr(s.why[2], "the label 'new'"));
    assert_string_equal(s.why[3], "no label");
    assert_string_equal(s.why[4], "a label of 1099 bytes, at most 1000");
    {
        trf_corpus_options plain = trf_dataset_results(data)->recipe->corpus;
        static const int32_t ids[] = {4, 2, 5, 6}, numbers[] = {1, 0};
        plain.shuffle = plain.buckets = 0;
        OK(trf_corpus_set_options(trf_dataset_results(data)->corpus, &plain, &err));
        OK(trf_corpus_next(trf_dataset_results(data)->corpus, &batch, &err));
        assert_true(batch.source.count == 2 && batch.source.lengths[0] == 3);
        assert_memory_equal(batch.source.ids, ids, sizeof ids);
        assert_memory_equal(batch.target.ids, numbers, sizeof numbers);
        FAILS(trf_corpus_set_options(trf_dataset_results(data)->corpus, &plain, &err), TRF_E_STATE, "corpus",
              -1);
        kit_rewind(trf_dataset_results(data)->corpus);
        plain.max_length = 2;
        FAILS(trf_corpus_set_options(trf_dataset_results(data)->corpus, &plain, &err), TRF_E_LIMIT,
              "max_length", 2);
        FAILS(trf_corpus_set_options(NULL, &plain, &err), TRF_E_INVALID_ARG, "corpus", -1);
        FAILS(trf_corpus_set_options(trf_dataset_results(data)->corpus, NULL, &err), TRF_E_INVALID_ARG,
              "options", -1);
    }
    trf_dataset_destroy(data);
    o.labels = "b\na";
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, "c", "a", &err));
    FAILS(trf_dataset_finish(data, &err), TRF_E_INVALID_ARG, "labels", 1);
    trf_dataset_destroy(data);
    o.labels = "a\na";
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, "c", "a", &err));
    FAILS(trf_dataset_finish(data, &err), TRF_E_INVALID_ARG, "labels", 1);
    trf_dataset_destroy(data);
    /* a label for each word */
    o = asking(&s);
    o.kind = TRF_DATA_TAGGED;
    o.source_vocab = vocab;
    o.max_length = 5;
    o.labels = "A\nB";
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, "ab c", "A B", &err));
    OK(trf_dataset_add(data, "a b", "A", &err));
    OK(trf_dataset_add(data, "a b", "A C", &err));
    OK(trf_dataset_add(data, "abcdef", "A", &err));
    OK(trf_dataset_add(data, " ", "", &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs, 1);
    assert_string_equal(s.why[0], "2 words, but 1 label");
    assert_string_equal(s.why[1],
                        "1 label that the training data do not have, or of more than 1000 bytes");
    assert_int_equal(s.bad[2].fault, TRF_FAULT_LONG);
    assert_int_equal(s.bad[3].fault, TRF_FAULT_EMPTY);
    trf_dataset_destroy(data);
    trf_vocab_destroy(vocab);
}

/* A word that no vocabulary takes. */
/* Labels that are several at once, or numbers: the ids of each line, and the lines that are left out. */
static void kinds_of_labels(void **state)
{
    static const char *const any[] = {"b, a", "a", "", " c d ,a,, ", "a,a", ",", "b"};
    static const char *const numbers[] = {"1 -2.5", "x", "0.5 1e3", "1", "1 2 3", "nan 1", "", "1e39 0", "-0 7"};
    static const int32_t lengths[] = {2, 1, 0, 2, 0, 1};
    static const int32_t ids[] = {0, 1, 0, 0, 2, 1};
    static const float wanted[] = {1, -2.5f, 0.5f, 1000, -0.0f, 7};
    int number;
    (void)state;
    for (number = 0; number < 2; number++) {
        trf_dataset_options o = trf_dataset_defaults();
        trf_dataset *d = NULL;
        trf_model *model = NULL;
        trf_batch batch;
        seen s;
        size_t i, n = number ? sizeof numbers / sizeof *numbers : sizeof any / sizeof *any;
        memset(&s, 0, sizeof s);
        o.kind = TRF_DATA_LABELLED;
        o.label_kind = number ? TRF_LABELS_NUMBERS : TRF_LABELS_ANY;
        o.held_out = -1;
        o.bad_line = bad_line;
        o.user = &s;
        OK(trf_dataset_create(&d, &o, &err));
        for (i = 0; i < n; i++) OK(trf_dataset_add(d, "some text", number ? numbers[i] : any[i], &err));
        OK(trf_dataset_finish(d, &err));
        assert_int_equal(s.n_bad, number ? 6 : 1);
        for (i = 0; i < (size_t)s.n_bad; i++) assert_true(s.bad[i].fault == TRF_FAULT_LABEL && s.bad[i].side == 1);
        if (!number) assert_string_equal(s.why[0], "the label 'a' occurs twice");
        if (number) assert_string_equal(s.why[0], "byte 1 of the label: expected a number, got 'x'");
        if (number) assert_string_equal(s.why[1], "1 number, but the first text has 2");
        if (number) assert_string_equal(s.why[5], "byte 1 of the label: expected a number, got '1e39'");
        if (number) assert_null(trf_dataset_results(d)->labels);
        else assert_string_equal(trf_dataset_results(d)->labels, "a\nb\nc d");
        trf_dataset_results(d)->recipe->corpus.shuffle = trf_dataset_results(d)->recipe->corpus.buckets = 0;
        OK(trf_corpus_set_options(trf_dataset_results(d)->corpus, &trf_dataset_results(d)->recipe->corpus, &err));
        OK(trf_corpus_next(trf_dataset_results(d)->corpus, &batch, &err));
        assert_int_equal(batch.target.count, number ? 3 : 6);
        for (i = 0; i < 6; i++) {
            if (number) assert_true(trf_label_number(batch.target.ids[i]) == wanted[i]);
            else assert_int_equal(batch.target.lengths[i], lengths[i]);
            if (!number) assert_int_equal(batch.target.ids[i], ids[i]);
        }
        assert_true(trf_dataset_results(d)->recipe->learning.metric == TRF_METRIC_LOSS);
        OK(trf_dataset_create_model(d, &model, &err));
        assert_int_equal(trf_model_config(model)->n_labels, number ? 2 : 3);
        assert_int_equal(trf_model_config(model)->label_kind, o.label_kind);
        trf_model_destroy(model);
        trf_dataset_destroy(d);
        OK(trf_dataset_create(&d, &o, &err));           /* nothing to learn */
        for (i = 0; i < 3; i++) OK(trf_dataset_add(d, "some text", number && i ? "x" : "", &err));
        FAILS(trf_dataset_finish(d, &err), TRF_E_STATE, "labels", -1);
        trf_dataset_destroy(d);
        o.kind = TRF_DATA_TAGGED;
        FAILS(trf_dataset_create(&d, &o, &err), TRF_E_INVALID_ARG, "label_kind", -1);
    }
}

static void long_words(void **state)
{
    trf_vocab *vocab = letters(TRF_WORDS);
    size_t n = (1 << 20) + 1;
    char *text = (char *)malloc(n + 3);
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data;
    (void)state;
    assert_non_null(text);
    memset(text, 'x', n);
    memcpy(text + n, " a", 3);
    o.source_vocab = o.target_vocab = vocab;
    o.pair = take_pair;
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, text, "a", &err));
    OK(trf_dataset_add(data, "a", text, &err));
    OK(trf_dataset_add(data, "a", text + 1, &err));             /* 1 MiB is a word */
    assert_true(s.n_bad == 2 && s.n_pairs == 1);
    assert_true(s.bad[0].side == 0 && s.bad[1].side == 1 && s.bad[1].fault == TRF_FAULT_LONG);
    trf_dataset_destroy(data);
    trf_vocab_destroy(vocab);
    free(text);
}

/* A line of more than max_line_bytes is bad: told with its number and side. Its end does not count,
   and lines that are added are not lines of a file. */
static void lines_that_are_too_long(void **state)
{
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data;
    (void)state;
    o.source_tokens = o.target_tokens = TRF_TOKENS_CHARACTERS;
    o.max_line_bytes = 4;
    OK(trf_dataset_create(&data, &o, &err));
    write_file("sources", "abcd\r\nabcde\na\n", 14);
    write_file("targets", "b\nb\nb\xFF\xFF\xFF\xFF\n", 10);
    OK(trf_dataset_read(data, in_folder("sources"), in_folder("targets"), 0, &err));
    assert_int_equal(s.n_bad, 2);
    assert_true(s.bad[0].fault == TRF_FAULT_LINE && s.bad[0].number == 2 && s.bad[0].side == 0);
    assert_true(s.bad[1].fault == TRF_FAULT_LINE && s.bad[1].number == 3 && s.bad[1].side == 1);
    assert_string_equal(s.why[0], "5 bytes, at most 4 (max_line_bytes)");
    assert_int_equal(data->texts[0].count, 1);
    OK(trf_dataset_add(data, "abcde", "b", &err));
    trf_dataset_destroy(data);
    o.bad_line = NULL;
    OK(trf_dataset_create(&data, &o, &err));
    FAILS(trf_dataset_read(data, in_folder("sources"), in_folder("targets"), 0, &err), TRF_E_FORMAT,
          "line", 2);
    trf_dataset_destroy(data);
    o.max_line_bytes = 0;
    FAILS(trf_dataset_create(&data, &o, &err), TRF_E_INVALID_ARG, "max_line_bytes", -1);
}

/* A byte order mark at the beginning of each file is no text; behind it stays what it is. */
static void byte_order_marks(void **state)
{
    trf_dataset_options o = trf_dataset_defaults();
    trf_dataset *data;
    (void)state;
    o.keep_texts = 1;
    OK(trf_dataset_create(&data, &o, &err));
    write_file("sources", "\xEF\xBB\xBF" "a\n\xEF\xBB\xBF" "b\n", 10);
    write_file("targets", "\xEF\xBB\xBF" "c\nd\n", 7);
    OK(trf_dataset_read(data, in_folder("sources"), in_folder("targets"), 0, &err));
    OK(trf_dataset_read(data, in_folder("sources"), in_folder("targets"), 0, &err));
    OK(trf_dataset_finish(data, &err));
    assert_string_equal(trf_dataset_results(data)->lines.source[0], "a");
    assert_string_equal(trf_dataset_results(data)->lines.target[0], "c");
    assert_string_equal(trf_dataset_results(data)->lines.source[1], "\xEF\xBB\xBF" "b");
    assert_string_equal(trf_dataset_results(data)->lines.source[2], "a");
    trf_dataset_destroy(data);
}

/* Pairs for the caller: in the order of the lines, his errors, and what he cannot have. */
static void pairs_for_the_caller(void **state)
{
    trf_vocab *vocab = letters(TRF_CHARACTERS);
    seen s;
    trf_dataset_options o = asking(&s);
    trf_dataset *data;
    (void)state;
    o.pair = take_pair;
    FAILS(trf_dataset_create(&data, &o, &err), TRF_E_INVALID_ARG, "source_vocab", -1);
    o.source_vocab = vocab;
    FAILS(trf_dataset_create(&data, &o, &err), TRF_E_INVALID_ARG, "target_vocab", -1);
    o.target_vocab = vocab;
    o.kind = TRF_DATA_LABELLED;
    FAILS(trf_dataset_create(&data, &o, &err), TRF_E_UNSUPPORTED, "pair", -1);
    o.kind = TRF_DATA_PAIRS;
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, "a", "b", &err));
    assert_int_equal(s.n_pairs, 1);                             /* at once */
    s.fails = 1;
    FAILS(trf_dataset_add(data, "a", "c", &err), TRF_E_IO, "disk", 5);
    s.fails = -1;
    OK(trf_dataset_add(data, "a", "c", &err));
    write_file("pairs", "d\te\nf\tg\n", 8);
    OK(trf_dataset_read(data, in_folder("pairs"), NULL, 0, &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(s.n_pairs, 4);
    same_ids(&s, 1, 1, "6");
    same_ids(&s, 3, 0, "9");
    FAILS(trf_dataset_add(data, "a", "c", &err), TRF_E_STATE, "data", -1);
    trf_dataset_destroy(data);
    trf_vocab_destroy(vocab);                                   /* it is still the caller's */
}

/* A token file instead of texts: the batches of its pairs. */
/* Targets that their ids do not give back: words lose runs of blanks. Unknown tokens are counted
   apart, sources not at all; and copies of pairs count once. */
static void changed_targets(void **state)
{
    static const char text[] = "a  b\tc d\na b\tc  d\na b\t  c d\na b\tc d \na b\tc d\na b\tc d\n";
    trf_dataset_options o = trf_dataset_defaults();
    const trf_token_facts *facts;
    trf_dataset *d = NULL;
    int tokens;
    (void)state;
    write_file("spaced.tsv", text, sizeof text - 1);
    for (tokens = TRF_TOKENS_WORDS; tokens <= TRF_TOKENS_CHARACTERS; tokens++) {
        o.source_tokens = o.target_tokens = (trf_tokens)tokens;
        o.held_out = -1;
        OK(trf_dataset_create(&d, &o, &err));
        OK(trf_dataset_read(d, in_folder("spaced.tsv"), NULL, 0, &err));
        OK(trf_dataset_finish(d, &err));
        facts = &trf_dataset_results(d)->facts;
        assert_int_equal(facts->changed, tokens == TRF_TOKENS_WORDS ? 3 : 0);
        assert_int_equal(facts->changed_line, tokens == TRF_TOKENS_WORDS ? 2 : 0);
        assert_true(facts->pairs == 6 && facts->different >= 5 && facts->different <= 6);
        if (tokens == TRF_TOKENS_CHARACTERS) assert_int_equal(facts->longest_target, 5);
        assert_int_equal(trf_dataset_results(d)->recipe->config.trained_target, facts->longest_target);
        assert_int_equal(trf_dataset_results(d)->recipe->config.trained_source, facts->longest_source);
        trf_dataset_destroy(d);
    }
}

static void token_files(void **state)
{
    trf_vocab *vocab = letters(TRF_CHARACTERS);
    trf_token_file_options f = {NULL, NULL, 0, 0, 0, {NULL, NULL, NULL, NULL, NULL}};
    trf_dataset_options o = trf_dataset_defaults();
    const trf_line held = {"b", "a", NULL, 0, 1, 0};
    trf_token_file *file;
    trf_dataset *data;
    trf_batch batch;
    char path[512];
    int i;
    (void)state;
    snprintf(path, sizeof path, "%s", in_folder("tokens"));
    f.source_vocab = f.target_vocab = vocab;
    OK(trf_token_file_create(&file, path, &f, &err));
    for (i = 0; i < 30; i++) {
        int32_t ids[2] = {4 + i % 5, 5};
        OK(trf_token_file_add(file, ids, 2, ids, 1, i, &err));
    }
    OK(trf_token_file_finish(file, &err));
    trf_token_file_destroy(file);
    o.token_file = path;
    FAILS(trf_dataset_create(&data, &o, &err), TRF_E_INVALID_ARG, "source_vocab", -1);
    o.source_vocab = o.target_vocab = vocab;
    OK(trf_dataset_create(&data, &o, &err));
    FAILS(trf_dataset_add(data, "a", "b", &err), TRF_E_STATE, "token_file", -1);
    OK(trf_dataset_add_line(data, &held, &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_dataset_results(data)->facts.pairs, 30);
    assert_int_equal(trf_dataset_results(data)->facts.source_ids, 60);
    assert_int_equal(trf_dataset_results(data)->held_out_facts.pairs, 1);
    assert_int_equal(trf_dataset_results(data)->held_out->source.ids[0], 5);
    assert_int_equal(data->stats.target_tokens, 60);
    OK(trf_corpus_next(trf_dataset_results(data)->corpus, &batch, &err));
    assert_int_equal(batch.source.count, 30);
    trf_dataset_destroy(data);
    OK(trf_dataset_create(&data, &o, &err));                    /* and without pairs held out */
    OK(trf_dataset_finish(data, &err));
    assert_null(trf_dataset_results(data)->held_out);
    trf_dataset_destroy(data);
    o.max_length = 1;
    OK(trf_dataset_create(&data, &o, &err));
    FAILS(trf_dataset_finish(data, &err), TRF_E_LIMIT, "max_length", 1);
    trf_dataset_destroy(data);
    trf_vocab_destroy(vocab);
}

/* Every allocation fails once, for every kind; then the same call succeeds. */
static void out_of_memory(void **state)
{
    int kind, i;
    (void)state;
    for (kind = 0; kind < TRF_DATA_KIND_COUNT; kind++) {
        int64_t at, failures = 0;
        for (at = 1; at < 500; at++) {
            kit_memory memory;
            seen s;
            trf_dataset_options o = asking(&s);
            trf_dataset *data;
            trf_status status;
            memset(&memory, 0, sizeof memory);
            o.hooks = kit_hooks(&memory);
            o.kind = (trf_data_kind)kind;
            o.keep_texts = kind % 2;
            o.pack = 1;
            o.source_first = 5;
            OK(trf_dataset_create(&data, &o, &err));
            for (i = 0; i < 30; i++) {
                const trf_line line = {i % 2 ? "a b" : "b c", i % 3 ? "x y" : "y z", i % 4 ? "f" : "g",
                                       i, i % 7 == 0, 0};
                memory.fail_at = i == 25 ? memory.calls + 1 : 0;
                status = trf_dataset_add_line(data, &line, &err);
                memory.fail_at = 0;
                if (status != TRF_OK) OK(trf_dataset_add_line(data, &line, &err));
            }
            memory.fail_at = memory.calls + at;
            status = trf_dataset_finish(data, &err);
            memory.fail_at = 0;
            if (status != TRF_OK) {
                assert_int_equal(status, TRF_E_NOMEM);
                failures++;
                OK(trf_dataset_finish(data, &err));
            }
            assert_int_equal(s.n_bad, 0);
            trf_dataset_destroy(data);
            assert_int_equal(memory.live, 0);
            if (status == TRF_OK) break;
        }
        assert_true(failures > 20 && at < 500);
    }
}

static void refuses(void **state)
{
    trf_dataset_options o;
    trf_dataset *data;
    (void)state;
#define REFUSED(field, value) \
    (o = trf_dataset_defaults(), o.field = value, \
     FAILS(trf_dataset_create(&data, &o, &err), TRF_E_INVALID_ARG, #field, -1))
    REFUSED(kind, (trf_data_kind)5);
    REFUSED(max_length, 0);
    REFUSED(chunk, 512);
    REFUSED(chunk, -1);
    REFUSED(pack, 2);
    REFUSED(files, 2);
    REFUSED(keep_empty, 2);
    REFUSED(keep_texts, 2);
    REFUSED(bare_chunks, 2);
    REFUSED(source_first, -2);
    REFUSED(source_last, -2);
    REFUSED(target_first, -2);
    REFUSED(hold_out_rule, TRF_HOLD_OUT_RULE_COUNT);
    o = trf_dataset_defaults();
    o.device.threads = -1;
    FAILS(trf_dataset_create(&data, &o, &err), TRF_E_INVALID_ARG, "device.threads", -1);
    OK(trf_dataset_create(&data, NULL, &err));
    FAILS(trf_dataset_add_line(data, NULL, &err), TRF_E_INVALID_ARG, "line", -1);
    FAILS(trf_dataset_read(data, NULL, NULL, 1, &err), TRF_E_INVALID_ARG, "source", -1);
    assert_null(trf_dataset_results(data));
    assert_null(trf_dataset_results(NULL));
    trf_dataset_destroy(data);
}

/* Of texts alone copies are on both sides: a language model learns how often each occurs. */
static void repeated_texts(void **state)
{
    enum { LINES = 40, COPIES = 25 };
    trf_dataset_options o = trf_dataset_defaults();
    trf_dataset *data = NULL;
    trf_data_lines lines;
    char text[40], seen[LINES] = {0};
    int64_t i;
    int learnt = 0;
    (void)state;
    o.kind = TRF_DATA_TEXTS;
    o.keep_texts = 1;
    OK(trf_dataset_create(&data, &o, &err));
    for (i = 0; i < LINES * COPIES; i++) {
        snprintf(text, sizeof text, "w%d is w%d", (int)(i % LINES), (int)(i % LINES + 1));
        OK(trf_dataset_add(data, NULL, text, &err));
    }
    OK(trf_dataset_finish(data, &err));
    lines = trf_dataset_results(data)->lines;
    assert_int_equal(lines.n + lines.n_held_out, LINES * COPIES);
    for (i = 0; i < lines.n; i++) if (lines.used[i]) seen[atoi(lines.target[i] + 1)] = 1;
    for (i = 0; i < LINES; i++) learnt += seen[i];
    assert_int_equal(learnt, LINES);
    trf_dataset_destroy(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_texts),
        cmocka_unit_test(bad_lines), cmocka_unit_test(names_files),
        cmocka_unit_test(own_vocabularies), cmocka_unit_test(held_out_files),
        cmocka_unit_test(chunks), cmocka_unit_test(files_of_text), cmocka_unit_test(tags),
        cmocka_unit_test(given_labels), cmocka_unit_test(kinds_of_labels), cmocka_unit_test(long_words),
        cmocka_unit_test(lines_that_are_too_long),
        cmocka_unit_test(byte_order_marks),
        cmocka_unit_test(pairs_for_the_caller), cmocka_unit_test(changed_targets),
        cmocka_unit_test(token_files),
        cmocka_unit_test(out_of_memory), cmocka_unit_test(refuses)};
    int failed;
    if (folder_make("dataset", 1)) return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return folder_remove() || failed;
}

/* build: shared plain:shared:all */
/* From texts to a trained model: what the recipe finds, which pairs are held out, what is best, and
   that trf_trainer_learn over a data set makes the model of trf train, bit for bit. Run from the top
   folder; trf is where this program is. */
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

static char beside[512];                /* the folder of this program */

static void write_file(const char *name, const char *text, size_t n)
{
    FILE *f = fopen(in_folder(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static uint32_t below(uint64_t *state, uint32_t n)
{
    *state += 1;
    return (uint32_t)(trf__random_of(*state) % n);
}

/* Pairs of three kinds: letters from behind, sums in words, dates. */
static void make_pair(int kind, uint64_t *state, char source[128], char target[128])
{
    static const char *const ones[] = {"zero", "one", "two",   "three", "four",
                                       "five", "six", "seven", "eight", "nine"};
    static const char *const months[] = {"January", "February", "March", "April", "May", "June"};
    uint32_t a = below(state, 10), b = below(state, 10), c = below(state, 30),
             n = 1 + below(state, 6), i;
    *source = *target = 0;
    if (kind == 0)
        for (i = 0; i < n; i++) {
            char letter[4] = {' ', (char)('a' + below(state, 12)), 0, 0};
            memmove(target + 2, target, strlen(target) + 1);
            memcpy(target, letter + 1, 1);
            target[1] = ' ';
            strcat(source, i ? letter : letter + 1);
        }
    if (kind == 0) target[2 * n - 1] = 0;
    if (kind == 1) {
        snprintf(source, 128, "%s plus %s", ones[a], ones[b]);
        snprintf(target, 128, "%d", (int)(a + b));
    }
    if (kind == 2) {
        snprintf(source, 128, "%d %s %d", (int)c + 1, months[a % 6], 1950 + (int)(b * 7 + c));
        snprintf(target, 128, "%d-%02d-%02d", 1950 + (int)(b * 7 + c), (int)(a % 6) + 1,
                 (int)c + 1);
    }
}

/* Texts with labels, or words with one each; and what cannot be learned from: no label, one too
   long or too many. */
static void write_labelled(const char *name, int tagged, int n)
{
    static const char *const words[] = {"red", "green", "blue", "one", "two", "six", "cat", "dog"};
    static const char *const labels[] = {"colour", "colour", "a  colour", "number",
                                         "number", "number", "animal",    "animal"};
    FILE *f = fopen(in_folder(name), "w");
    uint64_t state = 5;
    int i, k;
    assert_non_null(f);
    for (i = 0; i < n; i++) {
        uint32_t of[6], count = 1 + below(&state, 6), j;
        for (j = 0; j < count; j++)
            fprintf(f, "%s%s", j ? " " : "", words[of[j] = below(&state, 8)]);
        fputc('\t', f);
        if (i % 40 == 7) fprintf(f, "rare%d", i);
        else if (i % 40 == 9) for (k = 0; k < 1001; k++) fputc('x', f);
        else if (i % 40 == 11) fputs("  ", f);
        else if (!tagged) fprintf(f, "%s%s ", i % 3 ? "" : " ", labels[of[0]]);
        else for (j = 0; j < count; j++) fprintf(f, "%s%.3s", j ? " " : "", labels[of[j]]);
        fputc('\n', f);
    }
    fclose(f);
}

static void write_pairs(const char *name, int kind, int n)
{
    FILE *f = fopen(in_folder(name), "w");
    char source[128], target[128];
    uint64_t state = 0;
    int i;
    assert_non_null(f);
    for (i = 0; i < n; i++) {
        make_pair(kind, &state, source, target);
        fprintf(f, "%s\t%s\n", source, target);
    }
    fclose(f);
}

/* -----------------------------------------------------------------------------------------------
   The model of trf train. */

static void learn_file(trf_data_kind kind, const char *pairs, const char *to, int64_t updates)
{
    trf_dataset_options options = trf_dataset_defaults();
    trf_dataset *data;
    trf_model *model;
    trf_trainer *trainer;
    trf_recipe *recipe;
    trf_learn_report report;
    options.kind = kind;
    options.updates = updates;
    OK(trf_dataset_create(&data, &options, &err));
    OK(trf_dataset_read(data, in_folder(pairs), NULL, 0, &err));
    OK(trf_dataset_finish(data, &err));
    recipe = trf_dataset_results(data)->recipe;
    recipe->config.device.products = TRF_PRODUCTS_BUILT_IN;     /* as trf */
    OK(trf_dataset_create_model(data, &model, &err));
    OK(trf_trainer_create(&trainer, model, &recipe->training, &err));
    OK(trf_trainer_learn(trainer, trf_dataset_results(data)->corpus, trf_dataset_results(data)->held_out, &recipe->learning,
                 &report, &err));
    assert_int_equal(report.end, TRF_END_UPDATES);
    assert_int_equal(report.updates, updates);
    OK(trf_model_save(model, in_folder(to), NULL, &err));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    trf_dataset_destroy(data);
}

typedef struct lines { int n; char last[256]; } lines;
static void count_line(void *user, const char *line)
{
    lines *l = (lines *)user;
    l->n++;
    assert_null(strchr(line, '\n'));
    snprintf(l->last, sizeof l->last, "%s", line);
}
static int always(void *user) { (void)user; return 1; }

/* Does what the steps of learn_file do. */
static void in_one_call(void **state)
{
    enum { UPDATES = 12 };
    trf_dataset_options options = trf_dataset_defaults();
    trf_dataset_options hidden = options;
    trf_dataset *data, *sources;
    trf_model *model, *again;
    trf_learn_report report;
    lines said;
    char *one, *steps;
    size_t n, m;
    time_t began = time(NULL);
    (void)state;
    memset(&said, 0, sizeof said);
    write_pairs("pairs.tsv", 0, 120);
    learn_file(TRF_DATA_PAIRS, "pairs.tsv", "steps", UPDATES);
    options.updates = UPDATES;
    options.say = count_line;
    options.user = &said;
    OK(trf_dataset_create(&data, &options, &err));
    model = (trf_model *)data;
    report.updates = 5;
    FAILS(trf_dataset_train(data, &model, &report, &err), TRF_E_STATE, "data", -1);
    assert_true(!model && !report.updates);             /* and the data set is as before */
    OK(trf_dataset_read(data, in_folder("pairs.tsv"), NULL, 0, &err));
    OK(trf_dataset_finish(data, &err));
    trf_dataset_results(data)->recipe->config.device.products = TRF_PRODUCTS_BUILT_IN;
    OK(trf_dataset_train(data, &model, &report, &err));
    assert_true(report.end == TRF_END_UPDATES && report.updates == UPDATES);
    assert_true(said.n >= 2 && said.n <= 2 + (int)difftime(time(NULL), began));
    assert_int_equal(strncmp(said.last, "done: 12 updates, ", 18), 0);
    assert_non_null(strstr(said.last, " error rate on held-out pairs "));
    OK(trf_model_save(model, in_folder("one"), NULL, &err));
    trf_model_destroy(model);
    one = kit_read_file(in_folder("one"), &n);
    steps = kit_read_file(in_folder("steps"), &m);
    assert_true(one && steps);
    assert_int_equal(n, m);
    assert_memory_equal(one, steps, n);
    free(one);
    free(steps);
    trf_dataset_results(data)->recipe->training.hooks.cancel = always;       /* a failure leaves no model */
    FAILS(trf_dataset_train(data, &model, &report, &err), TRF_E_CANCELLED, "cancel", -1);
    assert_null(model);
    FAILS(trf_dataset_train(data, NULL, NULL, &err), TRF_E_INVALID_ARG, "model", -1);
    hidden.kind = TRF_DATA_SOURCES;
    OK(trf_dataset_create(&sources, &hidden, &err));
    for (n = 0; n < 30; n++) OK(trf_dataset_add(sources, NULL, n % 2 ? "a b c" : "b c a", &err));
    FAILS(trf_dataset_train(sources, &model, NULL, &err), TRF_E_STATE, "noise", -1);
    trf_dataset_destroy(sources);
    FAILS(trf_dataset_train(NULL, &model, NULL, &err), TRF_E_INVALID_ARG, "data", -1);
    trf_dataset_destroy(data);
    OK(trf_dataset_create(&data, &options, &err));      /* it finishes what is not finished */
    OK(trf_dataset_read(data, in_folder("pairs.tsv"), NULL, 0, &err));
    OK(trf_dataset_train(data, &model, NULL, &err));
    OK(trf_dataset_train(data, &again, NULL, &err));    /* twice the same */
    assert_true(hash_weights(HASH_START, model) == hash_weights(HASH_START, again));
    trf_model_destroy(model);
    trf_model_destroy(again);
    trf_dataset_destroy(data);
}

static void same_as_trf(void **state)
{
    enum { UPDATES = 12 };
    char command[1024];
    int kind;
    (void)state;
    snprintf(command, sizeof command, "%s/trf", beside);
    if (access(command, X_OK)) { skip(); return; }
    for (kind = 0; kind < 5; kind++) {
        static const char *const objectives[] = {"translate", "translate", "translate", "classify",
                                                 "tag"};
        static const trf_data_kind kinds[] = {TRF_DATA_PAIRS, TRF_DATA_PAIRS, TRF_DATA_PAIRS,
                                              TRF_DATA_LABELLED, TRF_DATA_TAGGED};
        char *ours, *theirs;
        size_t n, m;
        if (kind < 3) write_pairs("pairs.tsv", kind, 120);
        else write_labelled("pairs.tsv", kind == 4, 400);
        learn_file(kinds[kind], "pairs.tsv", "ours", UPDATES);
        snprintf(command, sizeof command,
                 "cd %s && rm -f theirs && '%s/trf' train --objective %s --tsv pairs.tsv "
                 "--model theirs --checkpoint '' --precision float32 --updates %d 2>log",
                 folder, beside, objectives[kind], UPDATES);
        assert_int_equal(system(command), 0);
        ours = kit_read_file(in_folder("ours"), &n);
        theirs = kit_read_file(in_folder("theirs"), &m);
        assert_non_null(ours);
        assert_non_null(theirs);
        assert_int_equal(n, m);
        assert_memory_equal(ours, theirs, n);
        free(ours);
        free(theirs);
    }
}

/* -----------------------------------------------------------------------------------------------
   The recipe. */

static trf_data_stats some_stats(void)
{
    trf_data_stats a;
    memset(&a, 0, sizeof a);
    a.pairs = 1000;
    a.source_tokens = a.target_tokens = 10000;
    a.longest = 20;
    a.source_vocab = a.target_vocab = 30;
    return a;
}

static void recipe_follows_data(void **state)
{
    trf_data_stats a = some_stats();
    trf_recipe r;
    (void)state;
    OK(trf_recipe_find(&r, &a, &err));          /* few symbols, few tokens */
    assert_true(r.config.d_model == 128 && r.config.d_ff == 256 && r.config.encoder_layers == 2 &&
                r.config.decoder_layers == 2);
    assert_true(r.learning.valid_every == 50 && r.learning.patience == 20);
    a.pairs = 13000; a.source_tokens = a.target_tokens = 75000;     /* and not so few */
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.encoder_layers == 4 && r.config.decoder_layers == 4);
    assert_true(r.learning.valid_every == 146 && r.learning.patience == 10);
    a.pairs = 6000; a.source_tokens = a.target_tokens = 49000;      /* patience lasts as long */
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.encoder_layers == 2 && r.learning.valid_every == 50 &&
                r.learning.patience == 20);
    a.updates_per_epoch = 240;
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.learning.valid_every == 60 && r.learning.patience == 40);
    a = some_stats();
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.norm_place == TRF_PRE_NORM && r.config.tying == TRF_TIED_DECODER &&
                !r.config.generator_bias);
    assert_true(r.training.dropout == 0.1 && r.training.residual_dropout == 0.1 &&
                r.training.attention_dropout == 0);
    assert_true(r.training.label_smoothing == 0.1 && r.training.warmup == 1000 &&
                r.training.schedule == TRF_INVERSE_SQRT);
    assert_true(fabs(r.training.learning_rate - 0.025 / sqrt(128)) < 1e-15);
    assert_true(r.corpus.batch_tokens == 512 && r.training.source_tokens == 512 &&
                r.training.longest == 21);
    assert_true(r.learning.valid_every == 50 && r.learning.patience == 20 &&
                r.learning.metric == TRF_METRIC_ERROR_RATE);
    assert_non_null(strstr(r.reasons, "of few symbols"));
    a.source_vocab = a.target_vocab = 9000;     /* a language of few sentences */
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.encoder_layers == 4 && r.learning.valid_every == 100 &&
                r.learning.patience == 10);
    assert_true(r.training.dropout == 0.3 && r.config.d_model == 128);
    a.source_tokens = a.target_tokens = 2000000;
    a.one_vocabulary = 1;
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.d_model == 256 && r.config.encoder_layers == 3 && r.config.d_ff == 512 &&
                r.training.dropout == 0.2);
    assert_true(r.config.tying == TRF_TIED_ALL && r.corpus.batch_tokens == 4096);
    a.source_tokens = a.target_tokens = 50000000;
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.d_model == 512 && r.config.encoder_layers == 6 &&
                r.training.dropout == 0.1);
    a = some_stats();
    a.source_tokens = a.target_tokens = 2000000;        /* many, of few symbols */
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.d_model == 128 && r.config.d_ff == 512 && r.corpus.batch_tokens == 2500);
    a.updates = 80;
    a.updates_per_epoch = 700;
    a.d_model = 64;
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.training.warmup == 10 && r.learning.patience == 0 && r.learning.updates == 80);
    assert_true(r.learning.valid_every == 700 && r.config.d_model == 64 &&
                fabs(r.training.learning_rate - 0.003125) < 1e-12);
    a = some_stats();
    a.kind = TRF_DECODER_ONLY;
    a.source_vocab = 0; a.source_tokens = a.pairs;
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.encoder_layers == 0 && r.training.label_smoothing == 0 &&
                r.learning.metric == TRF_METRIC_LOSS);
    a.kind = TRF_ENCODER_ONLY;
    a.head = TRF_HEAD_MEAN;
    a.n_labels = 4;
    a.source_vocab = 700;
    a.target_vocab = 0;
    a.source_tokens = 10000;
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.decoder_layers == 0 && r.config.tying == TRF_UNTIED &&
                r.training.dropout == 0.3);
    assert_true(r.config.encoder_layers == 2);          /* labels of texts; of words as usual */
    a.head = TRF_HEAD_TOKENS;
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.config.encoder_layers == 4);
}

static void count_teachers(void *user, const char *line)
{
    *(int *)user += !strncmp(line, "done: ", 6);
}

/* How long training may take: the recipe, and a call that trains teachers before the model. */
static void efforts(void **state)
{
    trf_data_stats a = some_stats();
    trf_recipe normal, r;
    trf_dataset *data;
    trf_dataset_options options = trf_dataset_defaults();
    trf_model *model = NULL, *alone = NULL;
    trf_learn_report report;
    int done = 0;
    (void)state;
    OK(trf_recipe_find(&normal, &a, &err));
    assert_true(normal.teachers == 0 && normal.learning.cooldown == 0 &&
                normal.training.consistency == 0);
    a.effort = TRF_EFFORT_QUICK;
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.learning.patience == 5 && r.learning.cooldown == 0.25 && r.teachers == 0);
    a.effort = TRF_EFFORT_BEST;
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.learning.patience == normal.learning.patience && r.learning.cooldown == 0.5);
    assert_true(r.training.consistency == 1 && r.teachers == 3 && r.teacher_share == 0.5);
    assert_non_null(strstr(r.reasons, "effort: 3 models with consistency 1, then one"));
    assert_true(r.config.d_model == normal.config.d_model &&
                r.config.encoder_layers == normal.config.encoder_layers);
    a.updates = 40;                 /* the end is known */
    OK(trf_recipe_find(&r, &a, &err));
    assert_true(r.training.schedule == TRF_COSINE && r.training.total_steps == 40 &&
                r.learning.cooldown == 0);
    a.effort = TRF_EFFORT_COUNT;
    FAILS(trf_recipe_find(&r, &a, &err), TRF_E_INVALID_ARG, "effort", -1);
    write_pairs("pairs.tsv", 0, 120);
    options.updates = 12;
    options.say = count_teachers;
    options.user = &done;
    options.effort = TRF_EFFORT_COUNT;
    FAILS(trf_dataset_create(&data, &options, &err), TRF_E_INVALID_ARG, "effort", -1);
    options.effort = TRF_EFFORT_BEST;
    OK(trf_dataset_create(&data, &options, &err));
    OK(trf_dataset_read(data, in_folder("pairs.tsv"), NULL, 0, &err));
    OK(trf_dataset_train(data, &model, &report, &err));
    assert_int_equal(done, 4);
    assert_true(report.updates == 12);
    trf_dataset_results(data)->recipe->teachers = 0;
    OK(trf_dataset_train(data, &alone, NULL, &err));
    assert_int_equal(done, 5);      /* the same seed, but nobody taught it */
    assert_true(hash_weights(HASH_START, model) != hash_weights(HASH_START, alone));
    trf_dataset_results(data)->recipe->teachers = TRF_MAX_MODELS + 1;
    trf_model_destroy(model);
    FAILS(trf_dataset_train(data, &model, NULL, &err), TRF_E_INVALID_ARG, "teachers", -1);
    assert_null(model);
    trf_model_destroy(alone);
    trf_dataset_destroy(data);
}

/* Every field has a range, and an error that names it; a failure changes nothing. */
static void recipe_refuses(void **state)
{
    enum {
        KIND,
        HEAD,
        LABELS,
        PAIRS_,
        SOURCE_TOKENS,
        TARGET_TOKENS,
        LONGEST,
        SOURCE_VOCAB,
        TARGET_VOCAB,
        ONE,
        WIDTH,
        PASS,
        UPDATES_,
        FIELDS
    };
    static const char *const names[FIELDS] = {"kind",          "head",
                                              "n_labels",      "pairs",
                                              "source_tokens", "target_tokens",
                                              "longest",       "source_vocab",
                                              "target_vocab",  "one_vocabulary",
                                              "d_model",       "updates_per_epoch",
                                              "updates"};
    static const int64_t wrong[FIELDS][2] = {{-1, 3},        {1, -1},
                                             {2, -1},        {0, -1},
                                             {-1, -5},       {-1, -5},
                                             {-1, 1 << 20},  {4, (1 << 24) + 1},
                                             {0, -5},        {2, -1},
                                             {-1, 65537},    {-1, -7},
                                             {-1, INT64_MIN}};
    trf_data_stats a = some_stats();
    trf_recipe r, before;
    int field, k;
    (void)state;
    memset(&r, 7, sizeof r);
    memset(&before, 0, sizeof before);
    FAILS(trf_recipe_find(NULL, &a, &err), TRF_E_INVALID_ARG, "recipe", -1);
    FAILS(trf_recipe_find(&r, NULL, &err), TRF_E_INVALID_ARG, "stats", -1);
    for (field = 0; field < FIELDS; field++)
        for (k = 0; k < 2; k++) {
            int64_t value = wrong[field][k];
            a = some_stats();
            switch (field) {
            case KIND: a.kind = (trf_kind)value; break;
            case HEAD: a.head = (trf_head)value; break;
            case LABELS: a.n_labels = (int32_t)value; break;
            case PAIRS_: a.pairs = value; break;
            case SOURCE_TOKENS: a.source_tokens = value; break;
            case TARGET_TOKENS: a.target_tokens = value; break;
            case LONGEST: a.longest = (int32_t)value; break;
            case SOURCE_VOCAB: a.source_vocab = (int32_t)value; break;
            case TARGET_VOCAB: a.target_vocab = (int32_t)value; break;
            case ONE: a.one_vocabulary = (int32_t)value; break;
            case WIDTH: a.d_model = (int32_t)value; break;
            case PASS: a.updates_per_epoch = value; break;
            default: a.updates = value;
            }
            FAILS(trf_recipe_find(&r, &a, &err), TRF_E_INVALID_ARG, names[field], -1);
            assert_non_null(strstr(err.message, names[field]));
        }
    a = some_stats();
    a.one_vocabulary = 1;
    a.target_vocab = 31;
    FAILS(trf_recipe_find(&r, &a, &err), TRF_E_INVALID_ARG, "target_vocab",
          -1); /* one has one size */
    a = some_stats();
    a.kind = TRF_DECODER_ONLY;
    FAILS(trf_recipe_find(&r, &a, &err), TRF_E_INVALID_ARG, "source_vocab", -1);
    a.kind = TRF_ENCODER_ONLY;
    FAILS(trf_recipe_find(&r, &a, &err), TRF_E_INVALID_ARG, "head", -1);
    a.head = TRF_HEAD_TOKENS;
    FAILS(trf_recipe_find(&r, &a, &err), TRF_E_INVALID_ARG, "n_labels", -1);
    a.n_labels = 2;
    FAILS(trf_recipe_find(&r, &a, &err), TRF_E_INVALID_ARG, "target_vocab", -1);
    assert_memory_equal(&r, &before, sizeof r);
}

/* What it finds can be made into a model and a trainer, at the ends of the ranges too. */
static void recipes_work(void **state)
{
    trf_data_stats a;
    trf_model *model;
    trf_trainer *trainer;
    trf_recipe r;
    int i;
    (void)state;
    for (i = 0; i < 4; i++) {
        a = some_stats();
        if (i == 0) a.d_model = 1;
        if (i == 1) a.d_model = 63;
        if (i == 2) a.longest = 3000;
        if (i == 3) {
            a.kind = TRF_ENCODER_ONLY;
            a.head = TRF_HEAD_MEAN;
            a.n_labels = 2;
            a.target_vocab = 0;
        }
        OK(trf_recipe_find(&r, &a, &err));
        assert_true(r.config.max_length > a.longest && r.config.d_model % r.config.n_heads == 0);
        assert_int_equal(r.learning.metric, i == 3 ? TRF_METRIC_ACCURACY : TRF_METRIC_ERROR_RATE);
        OK(trf_model_create(&model, &r.config, NULL, &err));
        OK(trf_trainer_create(&trainer, model, &r.training, &err));
        trf_trainer_destroy(trainer);
        trf_model_destroy(model);
    }
}

/* -----------------------------------------------------------------------------------------------
   Pairs to hold out. */

static void rows_are_not_combed(void **state)
{
    enum { N = 2000 };
    static const char *sources[N];
    static char texts[N][16], held[N], again[N];
    int64_t count;
    int period, i, of[20];
    (void)state;
    for (i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "n%d", i);
        sources[i] = texts[i];
    }
    OK(trf__hold_out(sources, N, 0, TRF_HOLD_OUT_RANDOM, held, &count, NULL, &err));
    assert_int_equal(count, 100);
    OK(trf__hold_out(sources, N, 100, TRF_HOLD_OUT_RANDOM, again, &count, NULL, &err));
    assert_memory_equal(held, again, N);
    for (period = 2; period <= 20; period++) {          /* every place of a row has its share */
        memset(of, 0, sizeof of);
        for (i = 0; i < N; i++) of[i % period] += held[i];
        for (i = 0; i < period; i++) assert_true(of[i] >= 1 && of[i] <= 100 / period + 25);
    }
    OK(trf__hold_out(sources, N, 100, TRF_HOLD_OUT_EVERY_KTH, again, &count, NULL, &err));
    for (i = 0; i < N; i++) assert_int_equal(again[i], i % 20 == 10);
    for (i = 0; i < N; i++)
        snprintf(texts[i], sizeof texts[i], "n%d", i / 3); /* three lines a source */
    OK(trf__hold_out(sources, N, 100, TRF_HOLD_OUT_RANDOM, held, &count, NULL, &err));
    assert_true(count >= 80 && count <= 120);
    for (i = 0; i + 2 < N; i += 3) assert_true(held[i] == held[i + 1] && held[i] == held[i + 2]);
    for (i = 0; i < 100; i++)
        snprintf(texts[i], sizeof texts[i], "n%d", i < 50 ? 0 : i); /* half is one sentence */
    OK(trf__hold_out(sources, 100, 20, TRF_HOLD_OUT_RANDOM, held, &count, NULL, &err));
    assert_int_equal(count, 20);
    for (of[0] = i = 0; i < 50; i++) of[0] += held[i];
    assert_true(of[0] > 0 && of[0] < 20);
    for (i = 0; i < 9; i++)
        snprintf(texts[i], sizeof texts[i], "n%d", i / 3); /* the last pick takes all there is */
    OK(trf__hold_out(sources, 9, 7, TRF_HOLD_OUT_RANDOM, held, &count, NULL, &err));
    assert_true(count == 3 || count == 6);
    OK(trf__hold_out(sources, 3, 1, TRF_HOLD_OUT_RANDOM, held, &count, NULL, &err));
    assert_int_equal(count, 3);         /* one source */
    for (i = 0; i < N; i++) snprintf(texts[i], sizeof texts[i], "n%d", i);
    for (i = TRF_HOLD_OUT_RANDOM; i < TRF_HOLD_OUT_RULE_COUNT; i++) {
        OK(trf__hold_out(sources, N, N, (trf_hold_out_rule)i, held, &count, NULL, &err));
        assert_true(count == N && !memchr(held, 0, N));
    }
    FAILS(trf__hold_out(sources, N, N + 1, TRF_HOLD_OUT_RANDOM, held, &count, NULL, &err),
          TRF_E_INVALID_ARG, "size", -1);
    FAILS(trf__hold_out(sources, N, 1, TRF_HOLD_OUT_RULE_COUNT, held, &count, NULL, &err),
          TRF_E_INVALID_ARG, "rule", -1);
}

/* Data that are repeated six times: UNSEEN holds out all copies of a source, the older rules leave
   some. One frequent sentence among many is not repeated data. */
static void repeated_data_are_held_out_whole(void **state)
{
    enum { N = 1200 };
    static const char *sources[N];
    static char texts[N][16], held[N], old[N];
    int64_t count;
    int i, k, parted = 0;
    (void)state;
    for (i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "n%d", i % 200);
        sources[i] = texts[i];
    }
    OK(trf__hold_out(sources, N, 60, TRF_HOLD_OUT_UNSEEN, held, &count, NULL, &err));
    assert_true(count >= 6 && count <= 72 && count % 6 == 0);
    for (i = 0; i < 200; i++)
        for (k = 1; k < 6; k++) assert_int_equal(held[i + 200 * k], held[i]);
    OK(trf__hold_out(sources, N, 60, TRF_HOLD_OUT_RANDOM, old, &count, NULL, &err));
    for (i = 0; i < 200; i++) parted += old[i] != old[i + 200];
    assert_true(parted > 0);
    for (k = 1; k < 40; k += 18) {          /* of 19 sources none is spared, of 37 some are */
        for (i = 0; i < N; i++) snprintf(texts[i], sizeof texts[i], "n%d", i % k);
        OK(trf__hold_out(sources, N, 60, TRF_HOLD_OUT_UNSEEN, held, &count, NULL, &err));
        for (parted = 0, i = k; i < N; i++) parted += held[i] != held[i % k];
        assert_true(count > 0 && count < N && (parted > 0) == (k < 20));
    }
    for (i = 0; i < N; i++) snprintf(texts[i], sizeof texts[i], "n%d", i < 500 ? 0 : i);
    OK(trf__hold_out(sources, N, 60, TRF_HOLD_OUT_UNSEEN, held, &count, NULL, &err));
    OK(trf__hold_out(sources, N, 60, TRF_HOLD_OUT_RANDOM, old, &count, NULL, &err));
    assert_memory_equal(held, old, N);
}

/* -----------------------------------------------------------------------------------------------
   Kinds of tokens. */

/* Copies of lines choose no tokens and no larger model: in any order the choice is that of the lines
   themselves. */
static void copies_choose_nothing(void **state)
{
    enum { NAMES = 600, MOST = 6 * NAMES };
    static const char *lines[MOST], *nothing[MOST];
    static char text[MOST][16];
    trf_token_choice c;
    trf_hooks none;
    int64_t different;
    int i, k, shuffled;
    (void)state;
    memset(&none, 0, sizeof none);
    for (shuffled = 0; shuffled < 2; shuffled++)
        for (k = 1; k <= 6; k++) {
            for (i = 0; i < k * NAMES; i++) {
                int name = shuffled ? i * 7 % (k * NAMES) % NAMES : i % NAMES;
                snprintf(text[i], sizeof text[i], "name%d", name);
                lines[i] = text[i];
                nothing[i] = "";
            }
            memset(&c, 0, sizeof c);
            OK(trf_tokens_choose(&c, lines, lines, k * NAMES, NULL, &err));
            assert_true(c.tokens[0] == TRF_TOKENS_CHARACTERS && c.unknown[0] == 100);
            DONE(trf__count_different(lines, nothing, k * NAMES, &different, &none, &err));
            assert_true(different == NAMES);
        }
}

/* Words lose indentation, runs of blanks and tabs. Where more than one of a hundred targets has
   them, a side that is written is not cut into words. */
static void blanks_are_written(void **state)
{
    enum { N = 300 };
    static const char *lines[N];
    static char text[N][48];
    trf_token_choice c;
    int i, k;
    static const char *const forms[4] = {"    return %d", "a  b%d", "a\tb%d", "a b%d "};
    (void)state;
    for (k = 0; k < 4; k++) {
        for (i = 0; i < N; i++) {
            snprintf(text[i], sizeof text[i], i % 50 ? "a b%d" : forms[k], i % 5);
            lines[i] = text[i];
        }
        memset(&c, 0, sizeof c);
        OK(trf_tokens_choose(&c, lines, lines, N, NULL, &err));
        assert_true(c.tokens[0] == TRF_TOKENS_WORDS && c.tokens[1] == TRF_TOKENS_CHARACTERS);
        for (i = 3; i < N; i++) snprintf(text[i], sizeof text[i], "a b%d", i % 5);
        memset(&c, 0, sizeof c);
        OK(trf_tokens_choose(&c, lines, lines, N, NULL, &err));
        assert_true(c.tokens[1] == TRF_TOKENS_WORDS);
    }
    for (i = 0; i < N; i++)
        snprintf(text[i], sizeof text[i], "    a long line of code that never ends, %d", i % 5);
    memset(&c, 0, sizeof c);
    c.no_subwords = 1;
    OK(trf_tokens_choose(&c, NULL, lines, N, NULL, &err));
    assert_true(c.tokens[1] == TRF_TOKENS_CHARACTERS && !c.would_be_subwords[1]);
}

static void tokens_follow_texts(void **state)
{
    enum { N = 400 };
    static const char *words[N], *names[N], *sentences[N];
    static char text[3][N][128];
    trf_token_choice c;
    int i;
    (void)state;
    for (i = 0; i < N; i++) {
        snprintf(text[0][i], 128, "w%d w%d w%d", i % 7, i % 11, i % 5);
        snprintf(text[1][i], 128, "name%d", i);
        snprintf(text[2][i], 128, "the long sentence number%d has a word%d that nobody knows%d yet",
                 i, i, i);
        words[i] = text[0][i]; names[i] = text[1][i]; sentences[i] = text[2][i];
    }
    memset(&c, 0, sizeof c);
    OK(trf_tokens_choose(&c, words, names, N, NULL, &err));
    assert_true(c.tokens[0] == TRF_TOKENS_WORDS && c.tokens[1] == TRF_TOKENS_CHARACTERS &&
                c.vocabularies == 2);
    assert_true(c.unknown[0] == 0 && c.unknown[1] == 100 && c.vocab_size[0] == 32000);
    memset(&c, 0, sizeof c);
    OK(trf_tokens_choose(&c, words, sentences, N, NULL, &err));
    assert_true(c.tokens[0] == TRF_TOKENS_WORDS && c.tokens[1] == TRF_TOKENS_SUBWORDS &&
                c.vocab_size[1] == 500);
    memset(&c, 0, sizeof c);
    c.no_subwords = 1;
    OK(trf_tokens_choose(&c, words, sentences, N, NULL, &err));
    assert_true(c.tokens[1] == TRF_TOKENS_WORDS && c.would_be_subwords[1] &&
                !c.would_be_subwords[0]);
    memset(&c, 0, sizeof c);
    OK(trf_tokens_choose(&c, words, words, N, NULL, &err));
    assert_true(c.vocabularies == 1);
    for (i = 0; i < N;
         i++) { /* words of another language; three new words a line, which are short */
        snprintf(text[2][i], 128, "v%d v%d v%d", i % 7, i % 11, i % 5);
        snprintf(text[1][i], 128, "a%d b%d c%d", i, i, i);
    }
    memset(&c, 0, sizeof c);
    OK(trf_tokens_choose(&c, words, sentences, N, NULL, &err));
    assert_true(c.tokens[1] == TRF_TOKENS_WORDS && c.vocabularies == 2);
    memset(&c, 0, sizeof c);
    OK(trf_tokens_choose(&c, words, names, N, NULL, &err));
    assert_true(c.tokens[1] == TRF_TOKENS_CHARACTERS);
    for (i = 0; i < N; i++) snprintf(text[1][i], 128, "anameofonewordofmanycharacters%d", i);
    memset(&c, 0, sizeof c);
    OK(trf_tokens_choose(&c, words, names, N, NULL, &err));
    assert_true(c.tokens[1] == TRF_TOKENS_CHARACTERS);
    memset(&c, 0, sizeof c);
    c.tokens[0] = TRF_TOKENS_CHARACTERS;
    c.vocabularies = 2;
    OK(trf_tokens_choose(&c, words, words, N, NULL, &err));
    assert_true(c.tokens[0] == TRF_TOKENS_CHARACTERS && c.tokens[1] == TRF_TOKENS_WORDS &&
                c.vocabularies == 2);
    memset(&c, 0, sizeof c);
    OK(trf_tokens_choose(&c, NULL, names, N, NULL, &err));
    assert_true(c.tokens[0] == TRF_TOKENS_AUTO && c.tokens[1] == TRF_TOKENS_CHARACTERS);
    memset(&c, 0, sizeof c);
    OK(trf_tokens_choose(&c, words, names, 0, NULL, &err));
    assert_true(c.tokens[0] == TRF_TOKENS_WORDS && c.unknown[0] != c.unknown[0]);
}

/* -----------------------------------------------------------------------------------------------
   What is best. */

static void early_stopping(void **state)
{
    trf_early_stopping s = {-1, 0, 0, 0, 0};
    (void)state;
    assert_int_equal(trf_early_stopping_add(&s, TRF_METRIC_ERROR_RATE, 10, 300, 5), 2);
    assert_int_equal(trf_early_stopping_add(&s, TRF_METRIC_ERROR_RATE, 20, 250, 6),
                     0); /* both no better than no answer */
    assert_int_equal(s.wait, 1);
    assert_int_equal(trf_early_stopping_add(&s, TRF_METRIC_ERROR_RATE, 30, 400, 4),
                     1); /* but it learns */
    assert_true(s.wait == 0 && s.best_update == 30 && s.validated == 30);
    assert_int_equal(trf_early_stopping_add(&s, TRF_METRIC_ERROR_RATE, 40, 50, 4.5), 2);
    assert_int_equal(trf_early_stopping_add(&s, TRF_METRIC_ERROR_RATE, 50, 50, 4.4), 1);
    assert_int_equal(s.wait, 1);        /* an equal score is no gain */
    assert_int_equal(trf_early_stopping_add(&s, TRF_METRIC_ERROR_RATE, 60, (double)NAN, 1), 0);
    assert_true(s.wait == 2 && s.best == 50 && s.best_loss == 4.4);
    assert_int_equal(trf_early_stopping_left(&s, TRF_METRIC_ERROR_RATE, 3), 1);
    assert_int_equal(trf_early_stopping_left(&s, TRF_METRIC_ERROR_RATE, 2), 0);
    assert_int_equal(trf_early_stopping_left(&s, TRF_METRIC_ERROR_RATE, 1), 0);
    assert_int_equal(trf_early_stopping_left(&s, TRF_METRIC_ERROR_RATE, 0), INT32_MAX);
    s.wait = INT32_MAX;                 /* as a damaged checkpoint may have it */
    assert_int_equal(trf_early_stopping_add(&s, TRF_METRIC_ERROR_RATE, 70, (double)NAN, 1), 0);
    assert_true(s.wait == INT32_MAX && trf_early_stopping_left(&s, TRF_METRIC_ERROR_RATE, 10) == 0);
    s.wait = INT32_MIN;
    assert_int_equal(trf_early_stopping_left(&s, TRF_METRIC_ERROR_RATE, INT32_MAX), INT32_MAX);
    s.best = 0;
    s.wait = 3;
    assert_int_equal(trf_early_stopping_left(&s, TRF_METRIC_ERROR_RATE, 10),
                     0); /* perfect: three will do */
    assert_int_equal(trf_early_stopping_left(&s, TRF_METRIC_LOSS, 10), 7);
    assert_true(trf__is_perfect(TRF_METRIC_ERROR_RATE, 0) && !trf__is_perfect(TRF_METRIC_LOSS, 0));
    assert_true(trf__is_perfect(TRF_METRIC_ACCURACY, 100) &&
                !trf__is_perfect(TRF_METRIC_CUSTOM, 99.9));
    assert_true(trf__is_better(TRF_METRIC_ACCURACY, 2, 9, 1, 1) &&
                !trf__is_better(TRF_METRIC_ACCURACY, 1, 1, 2, 9));
    assert_true(!trf__is_better(TRF_METRIC_LOSS, (double)NAN, 1, (double)NAN, 1));
    assert_true(trf__is_better(TRF_METRIC_LOSS, 1, 1, 2, 2) &&
                !trf__is_better(TRF_METRIC_LOSS, 2, 2, 1, 1));
    assert_true(trf__is_better(TRF_METRIC_CUSTOM, 2, 9, 1, 1) &&
                trf__is_better(TRF_METRIC_CUSTOM, 1, 1, 1, 2));
    assert_true(trf__is_better(TRF_METRIC_CUSTOM, 1, 1, (double)NAN, 1) &&
                !trf__is_better(TRF_METRIC_CUSTOM, (double)NAN, 1, 1, 1));
}

/* -----------------------------------------------------------------------------------------------
   A small model, and what trf_trainer_learn does with it. */

enum { PAIRS = 40, VOCAB = 12 };

typedef struct rig {
    trf_model *model;
    trf_trainer *trainer;
    trf_corpus *corpus;
    trf_batch held_out;
} rig;
static int32_t held_ids[2 * PAIRS], held_lengths[PAIRS];

static rig make_rig(const trf_hooks *hooks, int64_t epochs, double rate)
{
    trf_config c = trf_config_preset(TRF_TINY);
    trf_train_options o = trf_train_defaults();
    trf_corpus_options k = trf_corpus_defaults();
    rig r;
    int i;
    memset(&r, 0, sizeof r);
    c.d_model = 16; c.n_heads = 2; c.d_ff = 32; c.encoder_layers = c.decoder_layers = 1;
    c.source_vocab = c.target_vocab = VOCAB;
    o.threads = c.device.threads = 1;
    o.source_tokens = o.target_tokens = 64; o.sequences = 32; o.longest = 8;
    o.learning_rate = rate;
    o.warmup = 5;
    if (hooks) o.hooks = *hooks;
    k.batch_tokens = 48;
    k.epochs = epochs;
    OK(trf_model_create(&r.model, &c, NULL, &err));
    OK(trf_trainer_create(&r.trainer, r.model, &o, &err));
    OK(trf_corpus_create(&r.corpus, &k, &err));
    for (i = 0; i < PAIRS; i++) {
        int32_t pair[2] = {4 + i % 8, 4 + i / 3 % 8};
        held_ids[2 * i] = pair[0]; held_ids[2 * i + 1] = pair[1];
        held_lengths[i] = 2;
        OK(trf_corpus_add(r.corpus, pair, 2, pair, 2, &err));
    }
    r.held_out.source.ids = r.held_out.target.ids = held_ids;
    r.held_out.source.lengths = r.held_out.target.lengths = held_lengths;
    r.held_out.source.count = r.held_out.target.count = PAIRS;
    return r;
}

static void end_rig(rig *r)
{
    trf_trainer_destroy(r->trainer);
    trf_model_destroy(r->model);
    trf_corpus_destroy(r->corpus);
}

static uint64_t weights_hash(const trf_model *model)
{
    uint64_t hash = HASH_START;
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor w = trf_model_parameter(model, i);
        trf_real *numbers = kit_numbers(w);
        hash = hash_bytes(hash, numbers, (size_t)trf_tensor_count(&w) * sizeof *numbers);
        free(numbers);
    }
    return hash;
}

typedef struct seen {
    int updates, validations, best, stop_at;
    uint64_t best_weights;
    const trf_model *model;
} seen;

static int note_progress(void *user, const trf_learn_progress *p)
{
    seen *s = (seen *)user;
    if (!p->validated) return ++s->updates == s->stop_at;
    s->validations++;
    assert_int_equal(p->stopping->validated, p->update->step);
    if (p->is_best) { s->best++; s->best_weights = weights_hash(s->model); }
    return 0;
}

/* Options with which trf_trainer_learn notes in `s` what it does with the rig. */
static trf_learn_options watched(const rig *r, seen *s)
{
    trf_learn_options o = trf_learn_defaults();
    memset(s, 0, sizeof *s);
    s->model = r->model;
    o.progress = note_progress;
    o.user = s;
    return o;
}

static void ends(void **state)
{
    trf_learn_report report;
    trf_batch none;
    seen s;
    rig r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    trf_learn_options o = watched(&r, &s);
    (void)state;
    memset(&none, 0, sizeof none);
    o.updates = 25; o.valid_every = 10; o.metric = TRF_METRIC_ERROR_RATE;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_true(report.end == TRF_END_UPDATES && report.updates == 25 && report.skipped == 0);
    assert_true(s.updates == 25 && s.validations == 3 && s.best >= 1); /* 10, 20 and the end */
    assert_true(weights_hash(r.model) == s.best_weights); /* the best ones stand in the model */
    s.stop_at = s.updates + 4;
    o.updates = TRF_ENDLESS;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_true(report.end == TRF_END_PROGRESS && report.updates == 4);
    assert_true(report.stopping.validated == kit_updates(r.trainer));
    o.progress = NULL;
    o.patience = 2; o.valid_every = 1;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_true(report.end == TRF_END_PATIENCE && report.stopping.wait >= 2);
    FAILS(trf_trainer_learn(r.trainer, r.corpus, NULL, &o, &report, &err), TRF_E_INVALID_ARG, "updates",
          -1);
    FAILS(trf_trainer_learn(r.trainer, r.corpus, &none, &o, &report, &err), TRF_E_INVALID_ARG, "updates",
          -1);
    FAILS(trf_trainer_learn(NULL, r.corpus, NULL, &o, &report, &err), TRF_E_INVALID_ARG, "trainer", -1);
    FAILS(trf_trainer_learn(r.trainer, NULL, NULL, &o, &report, &err), TRF_E_INVALID_ARG, "corpus", -1);
    o.valid_every = 0;
    FAILS(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, NULL, &err), TRF_E_INVALID_ARG,
          "valid_every", -1);
    o = trf_learn_defaults();
    o.metric = TRF_METRIC_CUSTOM;
    FAILS(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, NULL, &err), TRF_E_INVALID_ARG, "custom",
          -1);
    end_rig(&r);
    r = make_rig(NULL, 2, 5e-3);
    o = trf_learn_defaults();
    OK(trf_trainer_learn(r.trainer, r.corpus, NULL, &o, &report,
                 &err)); /* without pairs to validate on: the last weights */
    assert_true(report.end == TRF_END_EPOCHS && report.updates > 0 &&
                report.stopping.best_update == 0);
    end_rig(&r);
}

/* A run of known length, or one that measures it, warms up for an eighth of its updates at most; a
   run that goes on keeps the plan. */
static void runs_fit_their_length(void **state)
{
    trf_train_options o;
    trf_learn_options l = trf_learn_defaults();
    trf_learn_state *plan;
    trf_learn_report report;
    seen s;
    int k;
    rig r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    (void)state;
    l = watched(&r, &s);
    o = *trf_trainer_options(r.trainer);
    o.warmup = 1000;
    for (k = 0; k < 3; k++) {           /* by updates: all of it, none of it, a Noam schedule */
        if (k == 2) { o.schedule = TRF_NOAM; o.learning_rate = 0.1; }
        OK(trf_trainer_set_options(r.trainer, &o, &err));
        l.updates = kit_updates(r.trainer) + 24;
        l.fit = k == 1 ? 0 : TRF_FIT_ALL;
        OK(trf_trainer_learn(r.trainer, r.corpus, NULL, &l, &report, &err));
        assert_int_equal(trf_trainer_options(r.trainer)->warmup, k ? 1000 : 3);
    }
    end_rig(&r);
    r = make_rig(NULL, 3, 5e-3);        /* by epochs, with a cosine */
    l = watched(&r, &s);
    o = *trf_trainer_options(r.trainer);
    o.schedule = TRF_COSINE;
    o.warmup = 500;
    o.total_steps = 1000000;
    OK(trf_trainer_set_options(r.trainer, &o, &err));
    l.fit = TRF_FIT_ALL;
    OK(trf_trainer_learn(r.trainer, r.corpus, NULL, &l, &report, &err));
    plan = trf_trainer_learn_state(r.trainer);
    assert_true(plan->planned >= report.updates && plan->planned <= report.updates + 1);
    assert_int_equal(trf_trainer_options(r.trainer)->total_steps, plan->planned);
    end_rig(&r);
    r = make_rig(NULL, TRF_ENDLESS, 5e-3);      /* by time */
    l = watched(&r, &s);
    o = *trf_trainer_options(r.trainer);
    o.warmup = 1000000;
    OK(trf_trainer_set_options(r.trainer, &o, &err));
    l.seconds = 0.3;
    l.fit = TRF_FIT_ALL;
    l.valid_every = 1000000;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &l, &report, &err));
    plan = trf_trainer_learn_state(r.trainer);
    assert_true(report.end == TRF_END_SECONDS && plan->planned > 0 && plan->fits > 0);
    assert_true(plan->valid_every >= 1 && plan->valid_every <= plan->planned);
    assert_int_equal(trf_trainer_options(r.trainer)->warmup,
                     plan->planned < 8 ? 1 : plan->planned / 8);
    assert_true(s.validations >= 1);
    {
        trf_learn_state before = *plan;
        l.resume = 1;
        l.seconds = 0.5;
        OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &l, &report, &err));
        assert_true(plan->planned == before.planned && plan->valid_every >= 1);
    }
    end_rig(&r);
    l.fit = 8;
    r = make_rig(NULL, 1, 5e-3);
    FAILS(trf_trainer_learn(r.trainer, r.corpus, NULL, &l, &report, &err), TRF_E_INVALID_ARG, "fit", -1);
    end_rig(&r);
}

/* A run in which only patience can end: the rate is too low to learn by. */
static trf_learn_options patient(rig *r, seen *s, double cooldown)
{
    trf_learn_options o;
    *r = make_rig(NULL, TRF_ENDLESS, 1e-6);
    o = watched(r, s);
    o.valid_every = 5; o.patience = 2; o.metric = TRF_METRIC_ACCURACY;
    o.cooldown = cooldown;
    return o;
}

static int perfect_score(void *user, const trf_model *model, double *score)
{
    (void)user; (void)model;
    *score = 100;
    return 0;
}

/* Where patience ends, the rate falls for a share of the updates so far. A run that goes on in the
   middle of that has the same bits; another run begins with the full rate. */
static void rate_falls_behind_patience(void **state)
{
    trf_learn_options o;
    trf_learn_report report;
    trf_train_options changed;
    const trf_learn_state *how;
    char *checkpoint;
    size_t bytes;
    int64_t ends;
    uint64_t hash;
    double rate;
    seen s;
    rig r, none;
    int k;
    (void)state;
    for (k = 0; k < 2; k++) {       /* a cosine falls anyway; nothing is better than perfect */
        o = patient(&r, &s, 0.5);
        changed = *trf_trainer_options(r.trainer);
        if (k) o.custom = perfect_score, o.metric = TRF_METRIC_CUSTOM;
        else { changed.schedule = TRF_COSINE; changed.total_steps = 1000; }
        OK(trf_trainer_set_options(r.trainer, &changed, &err));
        OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
        assert_true(report.end == TRF_END_PATIENCE && report.last.learning_rate > 0);
        end_rig(&r);
    }
    o = patient(&r, &s, 0);
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_int_equal(report.end, TRF_END_PATIENCE);
    ends = kit_updates(r.trainer);
    rate = report.last.learning_rate;
    end_rig(&r);

    o = patient(&r, &s, 0.5);
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    how = trf_trainer_learn_state(r.trainer);
    assert_int_equal(report.end, TRF_END_PATIENCE);
    assert_int_equal(kit_updates(r.trainer), ends + ends / 2);
    assert_true(how->cooldown == ends && how->ends == ends + ends / 2);
    assert_true(report.last.learning_rate == 0);
    assert_true(trf_learning_rate(trf_trainer_options(r.trainer), 16, ends) == rate);
    assert_true(fabs(trf_learning_rate(trf_trainer_options(r.trainer), 16, ends + 1) -
                     rate * (1 - sqrt(1.0 / (double)(ends / 2)))) < 1e-18);
    hash = weights_hash(r.model);
    o.updates = kit_updates(r.trainer) + 1;         /* another run: the rate has risen again */
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_true(report.last.learning_rate > 0);
    o.updates = TRF_ENDLESS;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_true(report.updates > 0 && how->cooldown > ends + ends / 2);
    end_rig(&r);

    o = patient(&r, &s, 0.5);                       /* in two parts */
    o.updates = ends + ends / 4;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_true(report.end == TRF_END_UPDATES && report.last.learning_rate < rate);
    (void)kit_checkpoint_save_memory(r.trainer, r.corpus, NULL, 0, &bytes, &err);
    checkpoint = (char *)malloc(bytes);
    assert_non_null(checkpoint);
    OK(kit_checkpoint_save_memory(r.trainer, r.corpus, checkpoint, bytes, &bytes, &err));
    trf_trainer_destroy(r.trainer);
    trf_model_destroy(r.model);
    OK(kit_checkpoint_load_memory(&r.model, &r.trainer, r.corpus, checkpoint, bytes, NULL, NULL,
                                  &err));
    free(checkpoint);
    o.updates = TRF_ENDLESS;
    o.resume = 1;
    o.progress = NULL;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_int_equal(kit_updates(r.trainer), ends + ends / 2);
    assert_true(weights_hash(r.model) == hash);
    trf_trainer_learn_state(r.trainer)->ends = 3;      /* a checkpoint that is wrong */
    (void)kit_checkpoint_save_memory(r.trainer, r.corpus, NULL, 0, &bytes, &err);
    checkpoint = (char *)malloc(bytes);
    OK(kit_checkpoint_save_memory(r.trainer, r.corpus, checkpoint, bytes, &bytes, &err));
    FAILS(kit_checkpoint_load_memory(&none.model, &none.trainer, r.corpus, checkpoint, bytes, NULL,
                                     NULL, &err), TRF_E_FORMAT, "trf.learn", -1);
    free(checkpoint);
    trf_trainer_learn_state(r.trainer)->ends = ends + ends / 2;
    o.patience = 0;                                 /* goes on by updates, with the full rate */
    o.updates = ends * 2;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_true(kit_updates(r.trainer) == ends * 2 && report.last.learning_rate > 0);
    changed = *trf_trainer_options(r.trainer);
    changed.cooldown = changed.total_steps = 7;
    FAILS(trf_trainer_set_options(r.trainer, &changed, &err), TRF_E_INVALID_ARG, "total_steps", -1);
    o.cooldown = 11;
    FAILS(trf_trainer_learn(r.trainer, r.corpus, NULL, &o, &report, &err), TRF_E_INVALID_ARG, "cooldown",
          -1);
    end_rig(&r);
}

static int after(void *user) { return --*(int *)user < 0; }

/* Cancelled half-way the model has the best weights so far, and the same call goes on. */
static void cancelled(void **state)
{
    int left = 100000;
    trf_hooks hooks;
    trf_learn_options o;
    trf_learn_report report;
    seen s;
    rig r;
    (void)state;
    memset(&hooks, 0, sizeof hooks);
    hooks.cancel = after;
    hooks.user = &left;
    r = make_rig(&hooks, TRF_ENDLESS, 5e-3);
    o = watched(&r, &s);
    o.updates = 1000; o.valid_every = 3;
    left = 200;
    assert_int_equal(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err),
                     TRF_E_CANCELLED);
    assert_int_equal(err.status, TRF_E_CANCELLED);
    assert_true(report.updates > 3 && report.updates < 1000 && report.stopping.best_update > 0);
    assert_true(weights_hash(r.model) == s.best_weights);
    trf_trainer_discard_gradients(r.trainer);
    left = 1000000;
    o.updates = kit_updates(r.trainer) + 5;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    end_rig(&r);
}

/* Arguments that other calls refuse too: none crashes. */
static void refuses_nonsense(void **state)
{
    static const int32_t ids[4] = {4, 5, 6, 7}, negative[2] = {1, -3}, lengths[2] = {2, 2};
    static const char *const lines[3] = {"a b", "c", NULL};
    trf_batch good = {{ids, lengths, 2}, {ids, lengths, 2}, 0, {0, 0, 0}}, bad;
    trf_token_choice choice;
    trf_translator *translator;
    trf_step_report report;
    trf_learn_options o = trf_learn_defaults();
    rig r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    char held[3];
    int64_t count;
    double percent;
    int k;
    (void)state;
    o.updates = 2; o.valid_every = 1;
    OK(trf_translator_create(&translator, r.model, NULL, &err));
    for (k = 0; k < 8; k++) {
        const char *what = k % 2 ? "target" : "source";
        trf_sequences *side;
        bad = good;
        side = k % 2 ? &bad.target : &bad.source;
        if (k / 2 == 0) side->lengths = NULL;
        if (k / 2 == 1) side->lengths = negative;
        if (k / 2 == 2) side->ids = NULL;
        if (k / 2 == 3) side->count = -1;
        if (k / 2 < 3) FAILS(trf_translator_error_rate(translator, &bad, &percent, &err), TRF_E_INVALID_ARG,
                             what, k / 2 == 1 ? 1 : -1);
        FAILS(trf_trainer_evaluate(r.trainer, &bad, NULL, &report, &err), TRF_E_INVALID_ARG, what,
              k / 2 == 1 ? 1 : -1);
        if (k / 2 < 3) FAILS(trf_trainer_learn(r.trainer, r.corpus, &bad, &o, NULL, &err),
                             TRF_E_INVALID_ARG, what, k / 2 == 1 ? 1 : -1);
    }
    bad = good;
    bad.target.count = 1;
    FAILS(trf_trainer_evaluate(r.trainer, &bad, NULL, &report, &err), TRF_E_INVALID_ARG, "pairs", -1);
    FAILS(trf__hold_out(lines, 3, 1, TRF_HOLD_OUT_RANDOM, held, &count, NULL, &err),
          TRF_E_INVALID_ARG, "sources", 2);
    memset(&choice, 0, sizeof choice);
    FAILS(trf_tokens_choose(&choice, lines, NULL, 3, NULL, &err), TRF_E_INVALID_ARG, "source", 2);
    FAILS(trf_tokens_choose(&choice, NULL, lines, 3, NULL, &err), TRF_E_INVALID_ARG, "target", 2);
    trf_translator_destroy(translator);
    end_rig(&r);
}

/* In-place sorting beside the C library's, of many lengths and of equal items. */
static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int value_order(const void *context, const void *a, const void *b)
{
    (void)context;
    return by_value(a, b);
}

static void sorts(void **state)
{
    uint64_t items[300], want[300];
    size_t n, i;
    (void)state;
    for (n = 0; n <= 300; n += 1 + n / 20) {
        for (i = 0; i < n; i++) items[i] = want[i] = trf__random64(n, 1, i) % (n + 1);
        trf__sort_items(items, n, sizeof *items, value_order);
        qsort(want, n, sizeof *want, by_value);
        assert_memory_equal(items, want, n * sizeof *items);
    }
}

/* -----------------------------------------------------------------------------------------------
   A run that is interrupted anywhere and goes on has the bits of one that is not. */

enum { RUN_UPDATES = 23 };

typedef struct interruption {
    int left;               /* calls of the cancel hook until it cancels */
    char *checkpoint;       /* the last one, in memory */
    size_t bytes;
    int saves;
} interruption;

static int is_cancelled(void *user) { return --((interruption *)user)->left < 0; }

static void keep_checkpoint(void *user, const trf_trainer *trainer, const trf_corpus *corpus)
{
    interruption *in = (interruption *)user;
    size_t bytes;
    free(in->checkpoint);
    assert_int_equal(kit_checkpoint_save_memory(trainer, corpus, NULL, 0, &bytes, &err),
                     TRF_E_LIMIT);
    in->checkpoint = (char *)malloc(bytes);
    OK(kit_checkpoint_save_memory(trainer, corpus, in->checkpoint, bytes, &in->bytes, &err));
    in->saves++;
}

static trf_learn_options run_options(interruption *in, int accumulate)
{
    trf_learn_options o = trf_learn_defaults();
    o.updates = RUN_UPDATES;
    o.valid_every = 4;
    o.accumulate = accumulate;
    o.metric = TRF_METRIC_ERROR_RATE;
    o.save = keep_checkpoint;
    o.user = in;
    return o;
}

static rig run_rig(interruption *in)
{
    trf_hooks hooks;
    memset(in, 0, sizeof *in);
    memset(&hooks, 0, sizeof hooks);
    in->left = INT_MAX;
    hooks.cancel = is_cancelled;
    hooks.user = in;
    return make_rig(&hooks, TRF_ENDLESS, 5e-3);
}

/* The trainer of the last checkpoint takes the place of the rig's, and a new corpus that of its
   corpus: nothing else is left of a process that was killed. */
static void begin_again(rig *r, interruption *in)
{
    trf_hooks hooks;
    trf_load_options load = trf_load_defaults();
    trf_train_options training;
    rig fresh;
    memset(&hooks, 0, sizeof hooks);
    hooks.cancel = is_cancelled;
    hooks.user = in;
    fresh = make_rig(&hooks, TRF_ENDLESS, 5e-3);
    training = *trf_trainer_options(fresh.trainer);
    trf_trainer_destroy(fresh.trainer);
    trf_model_destroy(fresh.model);
    load.device.threads = 1;
    OK(kit_checkpoint_load_memory(&fresh.model, &fresh.trainer, fresh.corpus, in->checkpoint,
                                  in->bytes, &training, &load, &err));
    end_rig(r);
    *r = fresh;
}

/* The weights and the report of a run that nothing interrupts. */
static uint64_t undisturbed(int accumulate, trf_learn_report *report, int *calls)
{
    interruption in;
    rig r = run_rig(&in);
    trf_learn_options o = run_options(&in, accumulate);
    uint64_t hash;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, report, &err));
    *calls = INT_MAX - in.left;
    hash = weights_hash(r.model);
    free(in.checkpoint);
    end_rig(&r);
    return hash;
}

static void resumes(void **state)
{
    trf_learn_report want, got;
    trf_learn_options o;
    interruption in;
    int accumulate, calls, at, killed;
    uint64_t hash;
    rig r;
    (void)state;
    for (accumulate = 1; accumulate <= 2; accumulate++) {
        hash = undisturbed(accumulate, &want, &calls);
        assert_true(want.stopping.best_update > 0 && calls > 40);
        for (killed = 0; killed < 2; killed++)
            for (at = 0; at < calls; at += 1 + calls / 20) {
                r = run_rig(&in);
                o = run_options(&in, accumulate);
                in.left = at;
                assert_int_equal(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &got, &err),
                                 TRF_E_CANCELLED);
                assert_true(in.saves > 0);
                /* no gradients of an incomplete update are left */
                if (kit_updates(r.trainer)) keep_checkpoint(&in, r.trainer, r.corpus);
                if (killed) begin_again(&r, &in);
                in.left = INT_MAX;
                o.resume = 1;
                OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &got, &err));
                if (weights_hash(r.model) != hash)
                    fail_msg("accumulate %d, cancelled at call %d: other weights", accumulate, at);
                assert_memory_equal(&got.stopping, &want.stopping, sizeof got.stopping);
                free(in.checkpoint);
                end_rig(&r);
            }
    }
}

/* Training goes on after its end, from the last weights rather than from the best ones; and without
   `resume` another run begins. */
static void goes_on(void **state)
{
    trf_learn_report want, got;
    interruption in;
    rig r = run_rig(&in);
    trf_learn_options o = run_options(&in, 1);
    uint64_t hash;
    int k;
    (void)state;
    o.updates = 40;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &want, &err));
    hash = weights_hash(r.model);
    free(in.checkpoint);
    end_rig(&r);
    for (k = 0; k < 2; k++) {
        r = run_rig(&in);
        o = run_options(&in, 1);
        o.updates = 20;                 /* a multiple of valid_every: no validation more */
        OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &got, &err));
        if (k) begin_again(&r, &in);
        assert_int_equal(trf_trainer_learn_state(r.trainer)->stopping.validated, 20);
        o.updates = 40;
        o.resume = 1;
        OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &got, &err));
        assert_true(weights_hash(r.model) == hash);
        assert_memory_equal(&got.stopping, &want.stopping, sizeof got.stopping);
        free(in.checkpoint);
        in.checkpoint = NULL;
        o.resume = 0;
        o.updates = 44;
        OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &got, &err));
        assert_true(got.updates == 4 && got.stopping.best_update == 44);
        free(in.checkpoint);
        end_rig(&r);
    }
    assert_null(trf_trainer_learn_state(NULL));
}

static int save_now(void *user, int64_t update)
{
    (void)user;
    return update == 16;
}

static trf_trainer *saved_trainer;
static trf_corpus *saved_corpus;

static int save_at_12(void *user, const trf_learn_progress *p)
{
    if (p->validated && p->update->step == 12) keep_checkpoint(user, saved_trainer, saved_corpus);
    return 0;
}

/* A checkpoint that is saved in a validation, where the average is in the model, has the weights. */
static void saves_in_a_validation(void **state)
{
    trf_learn_report want, got;
    interruption in;
    trf_learn_options o;
    int calls;
    uint64_t hash = undisturbed(1, &want, &calls);
    rig r = run_rig(&in);
    (void)state;
    o = run_options(&in, 1);
    o.save = NULL;
    o.progress = save_at_12;
    o.due = save_now;                   /* ends it at the next one */
    saved_trainer = r.trainer;
    saved_corpus = r.corpus;
    FAILS(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &got, &err), TRF_E_CANCELLED, "due", 16);
    assert_int_equal(in.saves, 1);
    begin_again(&r, &in);
    o = run_options(&in, 1);
    o.resume = 1;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &got, &err));
    assert_true(weights_hash(r.model) == hash);
    free(in.checkpoint);
    end_rig(&r);
}

/* A batch that cannot be used, the second of an update: nothing of the first one stays. */
static void bad_second_batch(void **state)
{
    interruption in;
    rig r = run_rig(&in);
    trf_learn_options o = run_options(&in, 2);
    trf_learn_report report;
    trf_corpus_options k = trf_corpus_defaults();
    trf_corpus *corpus;
    int32_t pair[2] = {4, 5}, bad[2] = {4, VOCAB};
    int i;
    (void)state;
    k.shuffle = k.buckets = 0;
    k.batch_sentences = 1;
    OK(trf_corpus_create(&corpus, &k, &err));
    for (i = 0; i < 8; i++) OK(trf_corpus_add(corpus, i == 5 ? bad : pair, 2, pair, 2, &err));
    FAILS(trf_trainer_learn(r.trainer, corpus, NULL, &o, &report, &err), TRF_E_INVALID_ARG, "source", 1);
    assert_true(report.updates == 2 && kit_updates(r.trainer) == 2 && in.saves == 1);
    keep_checkpoint(&in, r.trainer, corpus);            /* it fails while gradients wait */
    o.updates = 3;
    OK(trf_trainer_learn(r.trainer, corpus, NULL, &o, &report, &err));
    free(in.checkpoint);
    trf_corpus_destroy(corpus);
    end_rig(&r);
}

/* All weights, or their average, one parameter behind the other. */
static trf_real *all_weights(const trf_model *model, trf_trainer *averaged, int64_t *count)
{
    trf_real *all = (trf_real *)malloc((size_t)trf_model_parameter_total(model) * sizeof *all),
             *to = all;
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor w = averaged ? trf_trainer_tensor(averaged, TRF_AVERAGE, i) : trf_model_parameter(model, i);
        OK(trf_tensor_read(&w, to, trf_tensor_count(&w), &err));
        to += trf_tensor_count(&w);
    }
    *count = to - all;
    return all;
}

/* The average is that of a plain loop over all weights, and moves at once though its share is
   small. Applied and restored, the trainer's own weights are the same to the bit. */
static void averages(void **state)
{
    trf_batch batch;
    uint64_t before;
    trf_model *model;
    trf_trainer *trainer;
    trf_real *want, *raw, *average;
    double most = 0, share;
    int64_t n, i;
    int step;
    rig r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    (void)state;
    OK(trf_trainer_average(r.trainer, 1, &err));
    want = all_weights(r.model, NULL, &n);
    for (step = 1; step <= 120; step++) {
        OK(trf_corpus_next(r.corpus, &batch, &err));
        OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
        OK(trf_trainer_average(r.trainer, 0.8 / 11, &err));
        raw = all_weights(r.model, NULL, &n);
        average = all_weights(r.model, r.trainer, &n);
        share = 9.0 / (10 + step) > 0.8 / 11 ? 9.0 / (10 + step)
                                             : 0.8 / 11; /* the second from update 114 on */
        for (i = 0; i < n; i++) {
            want[i] += (trf_real)share * (raw[i] - want[i]);
            if (!(fabs((double)(want[i] - average[i])) < 1e-6))
                fail_msg("update %d, weight %d", step, (int)i);
            if (fabs((double)(raw[i] - want[i])) > most) most = fabs((double)(raw[i] - want[i]));
        }
        free(raw);
        free(average);
    }
    free(want);
    assert_true(most > 1e-3);
    before = weights_hash(r.model);
    assert_int_equal(trf_trainer_use_average(r.trainer, 2, &err), TRF_E_INVALID_ARG);
    OK(trf_trainer_use_average(r.trainer, 1, &err));
    OK(trf_trainer_use_average(r.trainer, 1, &err));
    assert_true(weights_hash(r.model) != before);
    FAILS(trf_trainer_average(r.trainer, 0.8 / 11, &err), TRF_E_STATE, "average", -1);
    OK(trf_trainer_use_average(r.trainer, 0, &err));
    OK(trf_trainer_use_average(r.trainer, 0, &err));
    assert_true(weights_hash(r.model) == before);
    FAILS(trf_trainer_average(r.trainer, 0, &err), TRF_E_INVALID_ARG, "share", -1);
    /* whatever goes on while the average is in use goes on from it, and it is in use no more */
    for (i = 0; i < 3; i++) {
        trf_learn_options o = trf_learn_defaults();
        OK(trf_trainer_use_average(r.trainer, 1, &err));
        o.updates = kit_updates(r.trainer) + 2;
        OK(trf_corpus_next(r.corpus, &batch, &err));
        if (i == 0) OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
        else if (i == 1) OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, NULL, &err));
        else assert_non_null(trf_trainer_tensor(r.trainer, TRF_PARAMETER, 0).device_data);
        before = weights_hash(r.model);
        OK(trf_trainer_use_average(r.trainer, 0, &err));
        assert_true(weights_hash(r.model) == before);
        OK(trf_trainer_average(r.trainer, 0.1, &err));
    }
    /* a checkpoint's average goes on; share 1 begins another one */
    OK(trf_corpus_next(r.corpus, &batch, &err));
    OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
    OK(trf_checkpoint_save(r.trainer, NULL, in_folder("averaged"), NULL, &err));
    OK(trf_checkpoint_load(&model, &trainer, NULL, in_folder("averaged"), NULL, NULL, &err));
    OK(trf_trainer_use_average(r.trainer, 1, &err));
    OK(trf_trainer_use_average(trainer, 1, &err));
    before = weights_hash(r.model);
    assert_true(weights_hash(model) == before);
    OK(trf_trainer_use_average(r.trainer, 0, &err));
    OK(trf_trainer_use_average(trainer, 0, &err));
    assert_true(weights_hash(model) != before && weights_hash(model) == weights_hash(r.model));
    OK(trf_trainer_average(trainer, 1, &err));
    OK(trf_trainer_use_average(trainer, 1, &err));
    assert_true(weights_hash(model) == weights_hash(r.model));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    end_rig(&r);
    r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    FAILS(trf_trainer_average(r.trainer, 0.1, &err), TRF_E_STATE, "average", -1);
    FAILS(trf_trainer_use_average(r.trainer, 1, &err), TRF_E_STATE, "average", -1);
    assert_null(trf_trainer_tensor(r.trainer, TRF_AVERAGE, 0).device_data);
    end_rig(&r);
}

/* The loss of many pairs in batches is their loss in one; edits are counted against plain
   recursion. */
static int plain_edits(const int32_t *a, int n, const int32_t *b, int k)
{
    int best, other;
    if (n == 0 || k == 0) return n + k;
    best = plain_edits(a + 1, n - 1, b + 1, k - 1) + (*a != *b || *a == 3);
    other = 1 + plain_edits(a + 1, n - 1, b, k);
    if (other < best) best = other;
    other = 1 + plain_edits(a, n, b + 1, k - 1);
    return other < best ? other : best;
}

static void judging(void **state)
{
    int32_t ids[] = {4, 5,  6, 7, 8,  4, 5,  9}, lengths[] = {2, 3, 2, 1};
    int32_t wanted[] = {4, 5, 6,  3, 7,  4,  9, 9, 9}, wanted_lengths[] = {3, 2, 1, 3};
    trf_batch pairs = {{ids, lengths, 4}, {wanted, wanted_lengths, 4}, 0, {0, 0, 0}};
    trf_search search = trf_search_defaults();
    trf_translator *translator;
    trf_step_report whole, parts;
    double percent, edits = 0, all = 0;
    int32_t answer[16], n;
    uint64_t random = 0;
    int e[2], i;
    rig r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    (void)state;
    OK(kit_evaluate_whole(r.trainer, &r.held_out, &whole, &err));
    OK(trf_trainer_evaluate(r.trainer, &r.held_out, NULL, &parts, &err));
    assert_true(parts.source_tokens > trf_trainer_options(r.trainer)->source_tokens ||
                r.held_out.source.count > trf_trainer_options(r.trainer)->sequences);
    assert_int_equal(whole.target_tokens, parts.target_tokens);
    assert_true(fabs(whole.loss - parts.loss) < 1e-5 &&
                fabs(whole.accuracy - parts.accuracy) < 1e-12);
    assert_true(fabs(whole.nll - parts.nll) < 1e-5 && whole.source_tokens == parts.source_tokens);
    search.beam = 1; search.max_length_a = 1; search.max_length_b = 2;
    OK(trf_translator_create(&translator, r.model, &search, &err));
    OK(trf_translator_error_rate(translator, &pairs, &percent, &err));
    OK(kit_translate(translator, ids, 2, answer, 16, &n,
                     &err)); /* twice: the nearer target of two */
    e[0] = plain_edits(wanted, 3, answer, n);
    e[1] = plain_edits(wanted + 5, 1, answer, n);
    edits += e[0] <= e[1] ? e[0] : e[1];
    all += e[0] <= e[1] ? 3 : 1;
    OK(kit_translate(translator, ids + 2, 3, answer, 16, &n, &err));
    edits += plain_edits(wanted + 3, 2, answer, n);
    OK(kit_translate(translator, ids + 7, 1, answer, 16, &n, &err));
    edits += plain_edits(wanted + 6, 3, answer, n);
    all += 5;
    assert_true(fabs(percent - 100 * edits / all) < 1e-9);
    for (i = 0; i < 2;
         i++) { /* one token too few, or one too many: of two that are equally near the longer */
        int32_t source[] = {4, 5, 4, 5}, sources[] = {2, 2}, near_by[64], lengths_near[2];
        trf_batch two;
        OK(kit_translate(translator, source, 2, answer, 16, &n, &err));
        assert_true(n >= 2);
        memset(&two, 0, sizeof two);
        memcpy(near_by, answer, (size_t)(n - !i) * sizeof *answer);
        if (i) near_by[n] = 3;
        lengths_near[0] = n - 1 + 2 * i;
        memcpy(near_by + lengths_near[0], answer, (size_t)(n - i) * sizeof *answer);
        lengths_near[1] = n + 1 - 2 * i;
        if (!i) near_by[lengths_near[0] + n] = 3;
        two.source.ids = source; two.source.lengths = sources; two.source.count = 2;
        two.target.ids = near_by; two.target.lengths = lengths_near; two.target.count = 2;
        OK(trf_translator_error_rate(translator, &two, &percent, &err));
        assert_true(fabs(percent - 100.0 / (n + 1)) < 1e-9);
    }
    for (i = 0; i < 3000; i++) {        /* edits alone; an unknown token is never right */
        int32_t a[5], b[5], row[6], k;
        int n_a = i % 6, n_b = i / 6 % 6;
        for (k = 0; k < 5; k++) {
            a[k] = 3 + (int32_t)below(&random, 3);
            b[k] = 3 + (int32_t)below(&random, 3);
        }
        assert_int_equal(trf__edits(a, n_a, b, n_b, row, 3), plain_edits(a, n_a, b, n_b));
    }
    pairs.target.count = 3;
    FAILS(trf_translator_error_rate(translator, &pairs, &percent, &err), TRF_E_INVALID_ARG, "pairs", -1);
    trf_translator_destroy(translator);
    end_rig(&r);
}

/* -----------------------------------------------------------------------------------------------
   Data sets. */

static void refused_files(void **state)
{
    static const struct { const char *text; size_t n; int64_t where;
    } files[] = {{"a\tb\nc\n", 6, 2},
                 {"a\tb\tc\n", 6, 1},
                 {"a\tb\n\xFF\tc\n", 8, 2},
                 {"a\tb\nc\0\td\n", 9, 2}};
    trf_dataset *data;
    size_t i;
    (void)state;
    OK(trf_dataset_create(&data, NULL, &err));
    for (i = 0; i < sizeof files / sizeof *files; i++) {
        write_file("bad.tsv", files[i].text, files[i].n);
        FAILS(trf_dataset_read(data, in_folder("bad.tsv"), NULL, 0, &err), TRF_E_FORMAT, "line",
              files[i].where);
        assert_non_null(strstr(err.message, "bad.tsv"));
    }
    FAILS(trf_dataset_finish(data, &err), TRF_E_STATE, "data", -1); /* nothing of them is there */
    write_file("one", "a\nb\nc\n", 6);
    write_file("two", "a\nb\n", 4);
    FAILS(trf_dataset_read(data, in_folder("one"), in_folder("two"), 0, &err), TRF_E_FORMAT, "line",
          -1);
    FAILS(trf_dataset_read(data, in_folder("two"), in_folder("one"), 0, &err), TRF_E_FORMAT, "line",
          -1);
    assert_int_equal(trf_dataset_read(data, in_folder("nobody"), NULL, 0, &err), TRF_E_IO);
    FAILS(trf_dataset_add(data, "a", NULL, &err), TRF_E_INVALID_ARG, "target", -1);
    FAILS(trf_dataset_add(data, NULL, "a", &err), TRF_E_INVALID_ARG, "source", -1);
    assert_int_equal(trf_dataset_add(data, "a", "\xFF", &err), TRF_E_FORMAT);
    OK(trf_dataset_add(data, "", "a", &err));
    FAILS(trf_dataset_finish(data, &err), TRF_E_STATE, "data", -1);     /* an empty side */
    assert_null(trf_dataset_results(data));
    OK(trf_dataset_add(data, "a", "a", &err));                          /* it is as it was before */
    OK(trf_dataset_finish(data, &err));
    assert_null(trf_dataset_results(data)->held_out);
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs, 1);
    FAILS(trf_dataset_add(data, "a", "a", &err), TRF_E_STATE, "data", -1);
    FAILS(trf_dataset_finish(data, &err), TRF_E_STATE, "data", -1);
    trf_dataset_destroy(data);
    trf_dataset_destroy(NULL);
}

/* Two files are the pairs of one; texts alone make a language model whose long ones are cut. */
static void kinds_of_data(void **state)
{
    trf_dataset_options o = trf_dataset_defaults();
    trf_dataset *data;
    trf_model *model;
    trf_batch batch;
    char text[1200];
    int i;
    (void)state;
    write_file("one", "a b\nb c\r\nc", 10);
    write_file("two", "x\ny\nz\n", 6);
    o.source_tokens = o.target_tokens = TRF_TOKENS_WORDS;
    o.seed = 7;
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_read(data, in_folder("one"), in_folder("two"), 0, &err));
    OK(trf_dataset_finish(data, &err));
    assert_true(trf_dataset_results(data)->recipe->config.seed == 7 &&
                trf_dataset_results(data)->recipe->training.seed == 7 &&
                trf_dataset_results(data)->recipe->corpus.seed == 7);
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs, 3);
    OK(trf_dataset_create_model(data, &model, &err));
    assert_int_equal(trf_vocab_size(trf_model_vocab(model, TRF_SOURCE)), 7);
    assert_string_equal(trf_model_metadata(model, "trained.longest"), "2");
    trf_model_destroy(model);
    trf_dataset_destroy(data);
    write_file("one", "x\r\ny\r\n", 6);
    write_file("two", "x\ny\n", 4);
    o.source_tokens = TRF_TOKENS_CHARACTERS;            /* to which CR would be one */
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_read(data, in_folder("one"), in_folder("two"), 0, &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(data->stats.source_vocab, 4 + 2);
    trf_dataset_destroy(data);
    o = trf_dataset_defaults();
    o.kind = TRF_DATA_TEXTS;
    o.target_tokens = TRF_TOKENS_CHARACTERS;
    OK(trf_dataset_create(&data, &o, &err));
    for (i = 0; i < 1199; i++) text[i] = (char)('a' + i % 5);
    text[1199] = 0;
    OK(trf_dataset_add(data, NULL, text, &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs,
                     3); /* 1,201 ids with EOS on both sides: 511, 511 and 179 */
    assert_int_equal(data->stats.target_tokens, 1201 + 3); /* and the mark of each part */
    assert_int_equal(trf_dataset_results(data)->stream, 1);
    OK(trf_corpus_next(trf_dataset_results(data)->corpus, &batch, &err));
    assert_true(batch.place.epoch == 0 && batch.place.batch == 0);      /* looking has not moved it */
    OK(trf_dataset_create_model(data, &model, &err));
    assert_string_equal(trf_model_metadata(model, "trained.stream"), "1");
    assert_int_equal(trf_model_config(model)->kind, TRF_DECODER_ONLY);
    assert_int_equal(trf_model_config(model)->target_eos, 0);
    trf_model_destroy(model);
    trf_dataset_destroy(data);
    OK(trf_dataset_create(&data, &o, &err));            /* one of 13 chunks goes on in the next one */
    for (i = 0; i < 10; i++) OK(trf_dataset_add(data, NULL, "a text", &err));
    OK(trf_dataset_add(data, NULL, text + 600, &err));
    OK(trf_dataset_add(data, NULL, "a text", &err));
    assert_null(trf_dataset_results(data));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs, 13);
    assert_int_equal(trf_dataset_results(data)->stream, 0);
    OK(trf_dataset_create_model(data, &model, &err));
    assert_null(trf_model_metadata(model, "trained.stream"));
    trf_model_destroy(model);
    trf_dataset_destroy(data);
    assert_null(trf_dataset_results(NULL));
}

/* Labels: their names, which pairs are left out, and what no training can have. */
static void labels(void **state)
{
    trf_dataset_options o = trf_dataset_defaults();
    trf_dataset *data;
    trf_model *model;
    char text[16];
    size_t bytes;
    int i;
    (void)state;
    o.kind = TRF_DATA_LABELLED;
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, "a b", "only", &err));
    FAILS(trf_dataset_finish(data, &err), TRF_E_STATE, "labels", -1);
    FAILS(trf_dataset_add(data, "a b", "two\nlines", &err), TRF_E_FORMAT, "target", 3);
    FAILS(trf_dataset_add(data, NULL, "x", &err), TRF_E_INVALID_ARG, "source", -1);
    for (i = 0; i < 20; i++) OK(trf_dataset_add(data, "b c", i % 2 ? " z last " : "first", &err));
    OK(trf_dataset_add(data, "c d", " \t", &err));
    OK(trf_dataset_add(data, "", "first", &err));
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_dataset_results(data)->recipe->learning.metric, TRF_METRIC_ACCURACY);
    assert_non_null(strstr(trf_dataset_results(data)->recipe->reasons, "2 left out"));
    OK(trf_dataset_create_model(data, &model, &err));
    assert_true(trf_model_config(model)->kind == TRF_ENCODER_ONLY &&
                trf_model_config(model)->head == TRF_HEAD_MEAN);
    assert_int_equal(trf_model_config(model)->n_labels, 3);
    assert_null(trf_model_vocab(model, TRF_TARGET));
    assert_string_equal(trf_model_metadata(model, "labels"), "first\nonly\nz last");
    OK(trf_model_label(model, 2, text, sizeof text, &bytes, &err));
    assert_string_equal(text, "z last");
    assert_int_equal(bytes, 6);
    FAILS(trf_model_label(model, 0, text, 3, &bytes, &err), TRF_E_LIMIT, "size", 3);
    assert_string_equal(text, "fi");
    assert_int_equal(bytes, 5);
    FAILS(trf_model_label(model, 0, NULL, 0, &bytes, &err), TRF_E_LIMIT, "size", 0);
    assert_int_equal(bytes, 5);
    FAILS(trf_model_label(model, 0, NULL, 9, NULL, &err), TRF_E_INVALID_ARG, "text", -1);
    bytes = 7;
    FAILS(trf_model_label(model, 3, text, sizeof text, &bytes, &err), TRF_E_STATE, "labels", 3);
    assert_true(bytes == 0 && !*text);
    FAILS(trf_model_label(model, -1, text, sizeof text, NULL, &err), TRF_E_STATE, "labels", -1);
    OK(trf_model_set_metadata(model, "labels", "a\nb\n",
                              &err)); /* an end of line begins no other */
    OK(trf_model_label(model, 1, text, sizeof text, NULL, &err));
    assert_string_equal(text, "b");
    FAILS(trf_model_label(model, 2, text, sizeof text, NULL, &err), TRF_E_STATE, "labels", 2);
    OK(trf_model_set_metadata(model, "labels", "x\xC3\xA9y", &err));
    FAILS(trf_model_label(model, 0, text, 3, &bytes, &err), TRF_E_LIMIT, "size", 3);
    assert_string_equal(text, "x");                 /* no half of a character */
    FAILS(trf_model_label(model, 0, text, 4, &bytes, &err), TRF_E_LIMIT, "size", 4);
    assert_string_equal(text, "x\xC3\xA9");
    OK(trf_model_label(model, 0, text, 5, &bytes, &err));
    OK(trf_model_set_metadata(model, "labels", "", &err));
    FAILS(trf_model_label(model, 0, text, sizeof text, NULL, &err), TRF_E_STATE, "labels", 0);
    trf_model_destroy(model);
    trf_dataset_destroy(data);
    o.kind = TRF_DATA_TAGGED;
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, " the  dog ", "D N", &err));
    OK(trf_dataset_add(data, "the dog", "D N N", &err));        /* one label too many */
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs, 1);
    OK(trf_dataset_create_model(data, &model, &err));
    assert_true(trf_model_config(model)->head == TRF_HEAD_TOKENS &&
                trf_model_config(model)->n_labels == 2);
    trf_model_destroy(model);
    trf_dataset_destroy(data);
    o.source_tokens = TRF_TOKENS_CHARACTERS; /* of a word's tokens the first has its label, of "ab
                                                c" a, b, blank, c */
    OK(trf_dataset_create(&data, &o, &err));
    OK(trf_dataset_add(data, "ab c", "X Y", &err));
    OK(trf_dataset_finish(data, &err));
    {
        static const int32_t want[] = {0, -1, -1, 1};
        trf_batch batch;
        OK(trf_corpus_next(trf_dataset_results(data)->corpus, &batch, &err));
        assert_true(batch.target.count == 1 && batch.target.lengths[0] == 4);
        assert_memory_equal(batch.target.ids, want, sizeof want);
    }
    trf_dataset_destroy(data);
    o = trf_dataset_defaults();
    o.kind = TRF_DATA_LABELLED; /* a label that one line alone has is learned, never held out */
    o.held_out = 60;
    OK(trf_dataset_create(&data, &o, &err));
    for (i = 0; i < 240; i++) {
        char line[16];
        snprintf(line, sizeof line, "n%d", i);
        snprintf(text, sizeof text, "l%d", i < 40 ? i : 40);
        OK(trf_dataset_add(data, line, text, &err));
    }
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_dataset_results(data)->recipe->config.n_labels, 41);
    assert_true(trf_dataset_results(data)->held_out->source.count > 20 &&
                trf_dataset_results(data)->held_out->source.count < 60);
    trf_dataset_destroy(data);
    o.held_out = -1;
    OK(trf_dataset_create(&data, &o, &err));
    for (i = 0; i < 65537; i++) {
        snprintf(text, sizeof text, "l%d", i);
        OK(trf_dataset_add(data, "a", text, &err));
    }
    FAILS(trf_dataset_finish(data, &err), TRF_E_LIMIT, "labels", -1);
    trf_dataset_destroy(data);
    OK(trf_dataset_create(&data, &o,
                          &err)); /* no label at all: the sanitizer sees a sort of nothing */
    for (i = 0; i < 3; i++) OK(trf_dataset_add(data, "a", " ", &err));
    FAILS(trf_dataset_finish(data, &err), TRF_E_STATE, "labels", -1);
    trf_dataset_destroy(data);
}

/* Memory that runs out anywhere: the status says so, nothing is lost, and the same call succeeds
   afterwards. */
static void out_of_memory(void **state)
{
    kit_memory memory;
    trf_dataset_options o = trf_dataset_defaults();
    trf_dataset *data;
    int64_t at;
    int i, kind, failures = 0;
    (void)state;
    for (kind = 0; kind < 4; kind++) for (at = 1; at < 400; at++) {
        trf_status status;
        memset(&memory, 0, sizeof memory);
        o.kind = (trf_data_kind)kind;
        o.hooks = kit_hooks(&memory);
        OK(trf_dataset_create(&data, &o, &err));
        for (i = 0; i < 30; i++)
            OK(trf_dataset_add(data, i % 2 ? "a b" : "b c", i % 3 ? "x y" : "y z", &err));
        memory.fail_at = memory.calls + at;
        status = trf_dataset_finish(data, &err);
        memory.fail_at = 0;
        if (status == TRF_OK) { trf_dataset_destroy(data); break; }
        assert_int_equal(status, TRF_E_NOMEM);
        failures++;
        OK(trf_dataset_finish(data, &err));
        trf_dataset_destroy(data);
        assert_int_equal(memory.live, 0);
    }
    assert_true(failures > 80 && at < 400);
}

/* -----------------------------------------------------------------------------------------------
   Options that cannot end well. */

static char said[2048];
static void note_log(void *user, int level, const char *message)
{
    (void)user;
    if (level == TRF_LOG_WARNING)
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message);
}

static void warnings(void **state)
{
    trf_config c = trf_config_preset(TRF_TINY);
    trf_train_options o = trf_train_defaults();
    trf_learn_options learn = trf_learn_defaults();
    trf_model *model;
    trf_trainer *trainer;
    trf_hooks hooks;
    rig r;
    (void)state;
    c.d_model = 64; c.n_heads = 2; c.d_ff = 16; c.encoder_layers = c.decoder_layers = 1;
    c.source_vocab = c.target_vocab = VOCAB;
    o.hooks.log = note_log;
    *said = 0;
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &o, &err));
    assert_string_equal(said, "");                  /* the defaults end well */
    trf_trainer_destroy(trainer);
    o.schedule = TRF_NOAM;
    o.warmup = 4000;
    o.learning_rate = 1e-3; /* a rate where a factor is wanted */
    OK(trf_trainer_create(&trainer, model, &o, &err));
    assert_non_null(strstr(said, "not a rate but a factor"));
    trf_trainer_destroy(trainer);
    *said = 0;
    o.schedule = TRF_CONSTANT; o.learning_rate = 5e-6;
    OK(trf_trainer_create(&trainer, model, &o, &err));
    assert_non_null(strstr(said, "learning rate"));
    assert_null(strstr(said, "factor"));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    *said = 0;
    o = trf_train_defaults();
    o.hooks.log = note_log;
    c.embedding_init = TRF_EMBEDDING_NORMAL_1;
    OK(trf_model_create(&model, &c, NULL, &err));
    OK(trf_trainer_create(&trainer, model, &o, &err));
    assert_non_null(strstr(said, "drown the positions"));
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    *said = 0;
    memset(&hooks, 0, sizeof hooks);
    hooks.log = note_log;
    r = make_rig(&hooks, TRF_ENDLESS, 5e-3);
    learn.updates = 3;
    OK(trf_trainer_learn(r.trainer, r.corpus, NULL, &learn, NULL, &err));
    assert_non_null(strstr(said, "rises for 5 updates, but there are only 3"));
    *said = 0;
    learn.updates = 20;
    OK(trf_trainer_learn(r.trainer, r.corpus, NULL, &learn, NULL, &err));
    assert_string_equal(said, "");
    end_rig(&r);
}

/* Makes the gradients of every update that `every` divides not a number: it is skipped. */
typedef struct spoiler { const trf_trainer *trainer; int64_t every; } spoiler;
static int spoil(void *user, trf_real *gradients, size_t count, void *stream)
{
    const spoiler *s = (const spoiler *)user;
    (void)stream;
    if (count > 0 && (kit_updates(s->trainer) + 1) % s->every == 0)
        gradients[0] = (trf_real)NAN;
    return 0;
}

static int saves;
static void count_saves(void *user, const trf_trainer *trainer, const trf_corpus *corpus)
{
    (void)user; (void)trainer; (void)corpus;
    saves++;
}

/* A hundred skipped updates in a row end it, as many among others do not; weights that have not
   changed are not judged, but patience ends with them. */
static void skipped(void **state)
{
    trf_learn_options o = trf_learn_defaults();
    trf_learn_report report;
    spoiler s;
    seen noted;
    rig r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    (void)state;
    s.trainer = r.trainer;
    s.every = 2;
    r.trainer->options.all_reduce = spoil;
    r.trainer->options.user = &s;
    o.updates = 260;
    OK(trf_trainer_learn(r.trainer, r.corpus, NULL, &o, &report, &err));
    assert_true(report.updates == 260 && report.skipped == 130);
    s.every = 1;
    o = watched(&r, &noted);
    o.valid_every = 10; o.patience = 4;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_true(report.end == TRF_END_PATIENCE && report.skipped == report.updates &&
                report.updates <= 50);
    assert_true(noted.validations == 1 &&
                report.stopping.best_update == 260); /* what stood there before */
    o.valid_every = 1000;
    o.save = count_saves;
    saves = 0;
    assert_int_equal(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err),
                     TRF_E_NONFINITE);
    assert_int_equal(saves, 0);         /* a checkpoint would have lost weights */
    assert_true(report.updates == 100 && report.skipped == 100);
    assert_non_null(strstr(err.message, "too high"));
    end_rig(&r);
}

/* The weights that each validation sees. */
typedef struct judged { const trf_model *model; int n; uint64_t weights[8]; } judged;
static int note_judged(void *user, const trf_learn_progress *p)
{
    judged *j = (judged *)user;
    if (p->validated) j->weights[j->n++] = weights_hash(j->model);
    return 0;
}

/* The average is what is validated and what is left, and training goes on without it: as a loop of
   one's own has it. */
static void learn_averages(void **state)
{
    trf_learn_options o = trf_learn_defaults();
    trf_learn_report report;
    trf_batch batch;
    uint64_t want[3], apart;
    judged j;
    rig r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    int i;
    (void)state;
    OK(trf_trainer_average(r.trainer, 1, &err));
    for (i = 1; i <= 12; i++) {
        OK(trf_corpus_next(r.corpus, &batch, &err));
        OK(trf_trainer_step(r.trainer, &batch, NULL, &err));
        OK(trf_trainer_average(r.trainer, 0.05, &err));
        if (i % 4) continue;
        OK(trf_trainer_use_average(r.trainer, 1, &err));
        want[i / 4 - 1] = weights_hash(r.model);
        OK(trf_trainer_use_average(r.trainer, 0, &err));
    }
    end_rig(&r);
    r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    o.updates = 12; o.ema = 0.05;
    OK(trf_trainer_learn(r.trainer, r.corpus, NULL, &o, &report, &err));
    assert_true(weights_hash(r.model) == want[2]);
    end_rig(&r);
    r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    memset(&j, 0, sizeof j);
    j.model = r.model;
    o.valid_every = 4; o.progress = note_judged; o.user = &j;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_int_equal(j.n, 3);
    for (i = 0; i < 3; i++) assert_true(j.weights[i] == want[i]);
    assert_true(weights_hash(r.model) == want[report.stopping.best_update / 4 - 1]);
    /* an average that is applied over the best weights gives these back, and the run still goes on
       from those of its last update */
    OK(trf_trainer_use_average(r.trainer, 1, &err));
    assert_true(weights_hash(r.model) == want[2]);
    OK(trf_trainer_use_average(r.trainer, 0, &err));
    assert_true(weights_hash(r.model) == want[report.stopping.best_update / 4 - 1]);
    o.updates = 24; o.resume = 1;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    apart = j.weights[5];
    end_rig(&r);
    r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    memset(&j, 0, sizeof j);
    j.model = r.model;
    o.resume = 0;
    OK(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err));
    assert_true(j.n == 6 && j.weights[5] == apart);
    end_rig(&r);
}

/* Batches of one update, what is left of the last epoch, time, and noise. */
static void updates_of_batches(void **state)
{
    trf_learn_options o = trf_learn_defaults();
    trf_learn_report report;
    trf_noise_options n = trf_noise_defaults();
    trf_noise *noise;
    trf_batch batch;
    rig r = make_rig(NULL, 1, 5e-3);
    int batches = 0;
    (void)state;
    while (trf_corpus_next(r.corpus, &batch, &err) == TRF_OK) batches++;
    assert_true(batches > 2);
    end_rig(&r);
    r = make_rig(NULL, 1, 5e-3);
    o.accumulate = batches - 1;
    OK(trf_trainer_learn(r.trainer, r.corpus, NULL, &o, &report, &err));
    assert_true(report.end == TRF_END_EPOCHS && report.updates == 2 &&
                kit_updates(r.trainer) == 2);
    end_rig(&r);
    r = make_rig(NULL, TRF_ENDLESS, 5e-3);
    o = trf_learn_defaults();
    o.seconds = 0.5;
    OK(trf_trainer_learn(r.trainer, r.corpus, NULL, &o, &report, &err));
    assert_true(report.end == TRF_END_SECONDS && report.updates > 0);
    n.kind = TRF_NOISE_MASKS;
    n.vocab = 6;                        /* fewer than the data have */
    OK(trf_noise_create(&noise, &n, &err));
    o.noise = noise;
    assert_int_equal(trf_trainer_learn(r.trainer, r.corpus, NULL, &o, &report, &err), TRF_E_INVALID_ARG);
    o.noise = NULL;
    o.held_out_noise = noise;
    o.updates = kit_updates(r.trainer) + 1;
    assert_int_equal(trf_trainer_learn(r.trainer, r.corpus, &r.held_out, &o, &report, &err),
                     TRF_E_INVALID_ARG);
    trf_noise_destroy(noise);
    end_rig(&r);
}

/* A pair is added whole or not at all. */
static void half_a_pair(void **state)
{
    kit_memory memory;
    trf_dataset_options o = trf_dataset_defaults();
    trf_dataset *data;
    int i, added, failures = 0;
    (void)state;
    memset(&memory, 0, sizeof memory);
    o.hooks = kit_hooks(&memory);
    o.held_out = 1;
    OK(trf_dataset_create(&data, &o, &err));
    for (added = i = 0; i < 600; i++) {
        trf_status status = TRF_E_NOMEM;
        char text[24];
        int64_t k;
        snprintf(text, sizeof text, "%d", i);
        for (k = 1; status == TRF_E_NOMEM; k++) {
            memory.fail_at = memory.calls + k;
            status = trf_dataset_add(data, text, text, &err);
            memory.fail_at = 0;
            assert_true(status == TRF_OK || status == TRF_E_NOMEM);
            added += status == TRF_OK;
            failures += status != TRF_OK;
            assert_true(data->texts[0].count == added && data->texts[1].count == added);
            assert_int_equal(data->texts[0].used, data->texts[1].used);
        }
    }
    assert_true(failures > 3);
    OK(trf_dataset_finish(data, &err));
    assert_int_equal(trf_corpus_facts(trf_dataset_results(data)->corpus)->pairs, added - 1);
    trf_dataset_destroy(data);
    assert_int_equal(memory.live, 0);
    o = trf_dataset_defaults(); /* as many held out as there are leave nothing */
    o.held_out = 40;
    OK(trf_dataset_create(&data, &o, &err));
    for (i = 0; i < 40; i++) {
        char text[24];
        snprintf(text, sizeof text, "%d", i);
        OK(trf_dataset_add(data, text, text, &err));
    }
    FAILS(trf_dataset_finish(data, &err), TRF_E_STATE, "held_out", -1);
    trf_dataset_destroy(data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(recipe_follows_data),
                                       cmocka_unit_test(in_one_call),
                                       cmocka_unit_test(recipe_refuses),
                                       cmocka_unit_test(recipes_work),
                                       cmocka_unit_test(rows_are_not_combed),
                                       cmocka_unit_test(repeated_data_are_held_out_whole),
                                       cmocka_unit_test(copies_choose_nothing),
                                       cmocka_unit_test(blanks_are_written),
                                       cmocka_unit_test(runs_fit_their_length),
                                       cmocka_unit_test(rate_falls_behind_patience),
                                       cmocka_unit_test(tokens_follow_texts),
                                       cmocka_unit_test(early_stopping),
                                       cmocka_unit_test(ends),
                                       cmocka_unit_test(cancelled), cmocka_unit_test(refuses_nonsense), cmocka_unit_test(sorts),
                                       cmocka_unit_test(resumes), cmocka_unit_test(goes_on), cmocka_unit_test(saves_in_a_validation),
                                       cmocka_unit_test(bad_second_batch),
                                       cmocka_unit_test(averages),
                                       cmocka_unit_test(judging),
                                       cmocka_unit_test(refused_files),
                                       cmocka_unit_test(kinds_of_data),
                                       cmocka_unit_test(labels),
                                       cmocka_unit_test(out_of_memory),
                                       cmocka_unit_test(warnings),
                                       cmocka_unit_test(skipped),
                                       cmocka_unit_test(learn_averages),
                                       cmocka_unit_test(updates_of_batches),
                                       cmocka_unit_test(half_a_pair),
        cmocka_unit_test(efforts),
                                       cmocka_unit_test(same_as_trf)};
    char cwd[256];
    int status;
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    if (!getcwd(cwd, sizeof cwd) || folder_make("learn", 0)) return 1;
    snprintf(beside, sizeof beside, "%s%s%.*s", *argv[0] == '/' ? "" : cwd,
             *argv[0] == '/' ? "" : "/", slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
    status = cmocka_run_group_tests(tests, NULL, NULL);
    return folder_remove() ? 1 : status;
}

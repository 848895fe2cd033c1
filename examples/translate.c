/* translate.c - learns English to German from a small grammar, proves that it learned the grammar and not the
   sentences, then translates what you type.

   build   cc -O2 -march=native -I. examples/translate.c -o translate -lopenblas -lm
   run     ./translate                          train (about a minute on two idle cores), test, prompt
           ./translate --no-prompt              without the prompt
           ./translate --quick                  a twentieth of the training: to see it work, not to be good at it
           echo "the dog sees a cat" | ./translate      translates the lines of a file or pipe
   prints  the size of the corpus and what was held out; every hundred updates a line like
               step   500 of 2600   loss 1.0318   word accuracy  98.4 %   lr 2.9e-03   41449 tokens/s    65 s left
           then ten translations, how many of 1,000 unseen sentences came out exactly right (98 %; at least 95 %),
           how many the nearest training sentence would have got right (none; remembering is not enough), and
               english> I know that the dog helps the old king
               ich weiß , dass der hund dem alten könig hilft .
           It leaves translate.safetensors behind, which embed.c and trf_model_load take.
   exits   with 1 if a check failed (with --quick any share of right answers will do).

   Every test sentence holds a combination that no training sentence holds: two words, or a word and a kind of
   clause, that never occur together in training. See grammar.h. */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L         /* clock_gettime and isatty under -std=c99 too */
#endif
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include "tools/data/grammar.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TESTS = 1000, MIN_DISTINCT = 100000, MAX_WORDS = 64, BATCH_TOKENS = 640 };

/* What --quick changes. */
typedef struct plan { int training_pairs, steps; } plan;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The two ways in which this program gives up. */
static void must(trf_status status, const trf_error *err)
{
    if (!status) return;
    fprintf(stderr, "%s at %s: %s\n", trf_status_name(status), err->what, err->message);
    exit(1);
}
static void promise(int kept, const char *text)
{
    if (kept) return;
    fprintf(stderr, "not kept: %s\n", text);
    exit(1);
}

static void *take(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    promise(memory != NULL, "there is enough memory");
    return memory;
}

// -----------------------------------------------------------------------------------------------
// The corpus: numbers of sentences. grammar_make gives the sentence back whenever it is needed.
// -----------------------------------------------------------------------------------------------

typedef struct sentence_numbers {
    uint64_t *training, *tests;
    int n_training, n_tests;
} sentence_numbers;

/* A set of texts by their hash (FNV-1a, 64 bits): adds one, and tells whether it was new. */
enum { SET_SIZE = 1 << 20 };
static int add_text(uint64_t *set, const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t i;
    while (*text) hash = (hash ^ (unsigned char)*text++) * UINT64_C(1099511628211);
    hash |= 1;                              /* 0 marks a free place */
    for (i = (size_t)(hash >> 20) % SET_SIZE; set[i]; i = (i + 1) % SET_SIZE) if (set[i] == hash) return 0;
    set[i] = hash;
    return 1;
}

/* Goes through the grammar's sentences, drops repetitions, and gives each to training, to the test, or to nobody.
   The held-out rule is asserted here on the English text alone. */
static void choose_sentences(sentence_numbers *chosen, int training_pairs)
{
    uint64_t *set = (uint64_t *)take(SET_SIZE, sizeof *set), number;
    grammar_sentence s;
    int distinct = 0, neither = 0;
    chosen->training = (uint64_t *)take((size_t)training_pairs, sizeof *chosen->training);
    chosen->tests = (uint64_t *)take(TESTS, sizeof *chosen->tests);
    for (number = 0; chosen->n_training < training_pairs || chosen->n_tests < TESTS || distinct <= MIN_DISTINCT;) {
        grammar_make(++number, &s);
        if (!add_text(set, s.english)) continue;
        distinct++;
        promise(distinct < SET_SIZE / 2, "the grammar soon gives enough sentences");
        if (grammar_is_training(&s) && chosen->n_training < training_pairs) {
            promise(grammar_check(s.english) == 0, "no training sentence holds a held-out combination");
            chosen->training[chosen->n_training++] = number;
        } else if (grammar_is_test(&s) && chosen->n_tests < TESTS) {
            promise(grammar_check(s.english) > 0, "every test sentence holds a held-out combination");
            chosen->tests[chosen->n_tests++] = number;
        } else {
            neither++;
        }
    }
    printf("%d distinct sentences: %d to train on, %d to test, %d left aside\n", distinct, chosen->n_training,
           chosen->n_tests, neither);
    free(set);
}

static const char *unit_name(int unit)
{
    static const char *const frames[] = {"statement", "question", "today", "that-clause", "because", "when",
                                         "relative"};
    switch (grammar_kind(unit)) {
    case 0: return frames[unit];
    case 1: return grammar_nouns[unit - GRAMMAR_NOUN_UNIT].one;
    case 2: return grammar_adjectives[unit - GRAMMAR_ADJECTIVE_UNIT].english;
    default: return grammar_verbs[unit - GRAMMAR_VERB_UNIT].base;
    }
}

static void print_held_out(void)
{
    int a, b, pairs = 0;
    printf("never together in training:");
    for (a = 0; a < GRAMMAR_UNITS; a++)
        for (b = a + 1; b < GRAMMAR_UNITS; b++)
            if (grammar_held_out(a, b) && pairs++ % 15 == 0) printf("  %s + %s,", unit_name(a), unit_name(b));
    printf("  and so on: %d pairs\n", pairs);
}

// -----------------------------------------------------------------------------------------------
// Training
// -----------------------------------------------------------------------------------------------

static void make_vocabs(trf_vocab **english, trf_vocab **german, const sentence_numbers *chosen)
{
    trf_error err;
    grammar_sentence s;
    int i;
    must(trf_vocab_create(english, TRF_WORDS, NULL, &err), &err);
    must(trf_vocab_create(german, TRF_WORDS, NULL, &err), &err);
    for (i = 0; i < chosen->n_training; i++) {
        grammar_make(chosen->training[i], &s);
        must(trf_vocab_learn(*english, s.english, &err), &err);
        must(trf_vocab_learn(*german, s.german, &err), &err);
    }
    must(trf_vocab_finish(*english, 10000, 1, &err), &err);
    must(trf_vocab_finish(*german, 10000, 1, &err), &err);
    printf("%d English and %d German words\n", (int)trf_vocab_size(*english), (int)trf_vocab_size(*german));
}

/* The pairs as words' numbers, and what the recipe has to know about them. */
static trf_corpus *fill_corpus(const sentence_numbers *chosen, const trf_vocab *english, const trf_vocab *german,
                               trf_data_stats *stats)
{
    trf_corpus_options options = trf_corpus_defaults();
    trf_corpus *corpus;
    trf_error err;
    grammar_sentence s;
    int32_t source[MAX_WORDS], target[MAX_WORDS], n_source, n_target;
    int i;
    options.batch_tokens = BATCH_TOKENS;
    must(trf_corpus_create(&corpus, &options, &err), &err);
    for (i = 0; i < chosen->n_training; i++) {
        grammar_make(chosen->training[i], &s);
        must(trf_vocab_encode(english, s.english, source, MAX_WORDS, &n_source, &err), &err);
        must(trf_vocab_encode(german, s.german, target, MAX_WORDS, &n_target, &err), &err);
        must(trf_corpus_add(corpus, source, n_source, target, n_target, &err), &err);
        stats->source_tokens += n_source + 1;
        stats->target_tokens += n_target + 1;
        if (stats->longest < n_source) stats->longest = n_source;
        if (stats->longest < n_target) stats->longest = n_target;
    }
    stats->pairs = chosen->n_training;
    stats->source_vocab = trf_vocab_size(english);
    stats->target_vocab = trf_vocab_size(german);
    return corpus;
}

/* The recipe for these data, made quicker: small batches and few layers, as the grammar is easy, a rate that falls to 0,
   and no dropout, as hardly a sentence comes twice. */
static void find_recipe(trf_recipe *recipe, const trf_data_stats *stats, int steps)
{
    trf_error err;
    must(trf_recipe_find(recipe, stats, &err), &err);
    recipe->config.encoder_layers = recipe->config.decoder_layers = 2;
    recipe->training.source_tokens = recipe->training.target_tokens = BATCH_TOKENS;
    recipe->training.schedule = TRF_COSINE;
    recipe->training.learning_rate = 3e-3;
    recipe->training.warmup = steps / 10;
    recipe->training.total_steps = steps;
    trf_train_set_dropout(&recipe->training, 0.0);
}

static double train(trf_model *model, const trf_train_options *training, trf_corpus *corpus, int steps)
{
    trf_trainer *trainer;
    trf_error err;
    double start = seconds(), last = start, now = start;
    int64_t tokens = 0;
    must(trf_trainer_create(&trainer, model, training, &err), &err);
    while (trf_trainer_step(trainer) < steps) {
        trf_batch batch;
        trf_step_report report;
        must(trf_corpus_next(corpus, &batch, &err), &err);
        must(trf_train_step(trainer, &batch, &report, &err), &err);
        tokens += report.source_tokens + report.target_tokens;
        if (report.step % 100 && report.step != steps) continue;
        now = seconds();
        printf("step %5d of %d   loss %.4f   word accuracy %5.1f %%   lr %.1e   %5.0f tokens/s   %3.0f s left\n",
               (int)report.step, steps, report.loss, 100 * report.accuracy, report.learning_rate,
               (double)tokens / (now - last), (now - start) / (double)report.step * (double)(steps - report.step));
        fflush(stdout);
        tokens = 0;
        last = now;
    }
    trf_trainer_destroy(trainer);
    return now - start;
}

// -----------------------------------------------------------------------------------------------
// Testing
// -----------------------------------------------------------------------------------------------

/* Sentences as words' numbers, all in one array. */
typedef struct word_table { int32_t *ids, *lengths; int64_t *starts; int count; } word_table;

static word_table make_table(const trf_vocab *english, const uint64_t *numbers, int count)
{
    word_table table;
    trf_error err;
    grammar_sentence s;
    int64_t n = 0;
    int i;
    table.ids = (int32_t *)take((size_t)count * MAX_WORDS, sizeof *table.ids);
    table.lengths = (int32_t *)take((size_t)count, sizeof *table.lengths);
    table.starts = (int64_t *)take((size_t)count, sizeof *table.starts);
    table.count = count;
    for (i = 0; i < count; i++) {
        grammar_make(numbers[i], &s);
        table.starts[i] = n;
        must(trf_vocab_encode(english, s.english, table.ids + n, MAX_WORDS, &table.lengths[i], &err), &err);
        n += table.lengths[i];
    }
    return table;
}

static void free_table(word_table *table)
{
    free(table->ids);
    free(table->lengths);
    free(table->starts);
}

/* Number of exactly right translations; prints the first `shown` with their English. */
static int count_right(trf_translator *translator, const trf_model *model, const uint64_t *numbers, int count,
                       int shown)
{
    const trf_vocab *words = trf_model_target_vocab(model);
    word_table table = make_table(trf_model_source_vocab(model), numbers, count);
    trf_sequences sources = {table.ids, table.lengths, count};
    trf_error err;
    grammar_sentence s;
    int i, right = 0;
    must(trf_translate_batch(translator, &sources, &err), &err);
    for (i = 0; i < count; i++) {
        const trf_hypothesis *answer = trf_hypothesis_at(translator, i, 0);
        char german[GRAMMAR_TEXT * 2];
        int exact;
        must(trf_vocab_decode(words, answer->ids, answer->n, german, sizeof german, NULL, &err), &err);
        grammar_make(numbers[i], &s);
        exact = strcmp(german, s.german) == 0;
        right += exact;
        if (i >= shown) continue;
        printf("  %s\n    %s\n", s.english, german);
        if (!exact) printf("    wrong, should be: %s\n", s.german);
    }
    free_table(&table);
    return right;
}

/* Word edit distance of a and b, or `limit` if it is not smaller than that. */
static int edit_distance(const int32_t *a, int n, const int32_t *b, int m, int limit)
{
    int row[MAX_WORDS + 1], i, j;
    if (n - m >= limit || m - n >= limit) return limit;
    for (j = 0; j <= m; j++) row[j] = j;
    for (i = 1; i <= n; i++) {
        int diagonal = row[0], smallest = row[0] = i;
        for (j = 1; j <= m; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            int gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < gap ? change : gap;
            if (row[j] < smallest) smallest = row[j];
        }
        if (smallest >= limit) return limit;
    }
    return row[m] < limit ? row[m] : limit;
}

/* The baseline: answers with the translation of the training sentence that differs in the fewest words. */
static int count_right_by_neighbour(const trf_vocab *english, const sentence_numbers *chosen)
{
    word_table known = make_table(english, chosen->training, chosen->n_training);
    word_table asked = make_table(english, chosen->tests, chosen->n_tests);
    int i, right = 0;
    for (i = 0; i < asked.count; i++) {
        grammar_sentence answer, wanted;
        int best = MAX_WORDS, nearest = 0, j;
        for (j = 0; j < known.count && best > 1; j++) {      /* 0 cannot be: the test sentence is not among them */
            int distance = edit_distance(asked.ids + asked.starts[i], asked.lengths[i],
                                         known.ids + known.starts[j], known.lengths[j], best);
            if (distance < best) { best = distance; nearest = j; }
        }
        grammar_make(chosen->training[nearest], &answer);
        grammar_make(chosen->tests[i], &wanted);
        right += strcmp(answer.german, wanted.german) == 0;
    }
    free_table(&known);
    free_table(&asked);
    return right;
}

// -----------------------------------------------------------------------------------------------
// The prompt
// -----------------------------------------------------------------------------------------------

/* Small letters, blanks around punctuation, a full stop at the end: the way the corpus is written. */
static void tidy(char *to, size_t size, const char *line)
{
    size_t n = 0;
    char end = 0;
    for (; *line && n + 6 < size; line++) {
        unsigned char c = (unsigned char)*line;
        if (c == '.' || c == ',' || c == '?' || c == '!') {
            to[n++] = ' ';
            to[n++] = end = c == '!' ? '.' : (char)c;
            to[n++] = ' ';
        } else {
            to[n++] = (char)(c < 128 ? tolower(c) : c);
            if (!isspace(c)) end = 0;
        }
    }
    to[n] = 0;
    if (end != '.' && end != '?') memcpy(to + n, " .", 3);
}

static void name_unknown_words(const trf_vocab *english, const char *text)
{
    char word[GRAMMAR_TEXT];
    size_t n;
    for (text += strspn(text, " \t\r\n"); *text; text += strspn(text, " \t\r\n")) {
        n = strcspn(text, " \t\r\n");
        memcpy(word, text, n);
        word[n] = 0;
        if (trf_vocab_id(english, word) == trf_vocab_id(english, "<unk>"))
            printf("  (it never saw the word \"%s\")\n", word);
        text += n;
    }
}

static void prompt(trf_translator *translator, const trf_model *model)
{
    int interactive = isatty(0);
    char line[GRAMMAR_TEXT - 8], text[GRAMMAR_TEXT], german[GRAMMAR_TEXT * 2];
    trf_error err;
    if (interactive) printf("\nType English sentences made of the words above; end with ctrl-D.\n");
    for (;;) {
        if (interactive) { printf("english> "); fflush(stdout); }
        if (!fgets(line, sizeof line, stdin)) break;
        if (!strchr(line, '\n')) {                      /* the rest of a line that is too long */
            int c = getchar();
            if (c != EOF && c != '\n') fprintf(stderr, "cut after %d characters\n", (int)strlen(line));
            while (c != EOF && c != '\n') c = getchar();
        }
        if (line[strspn(line, " \t\r\n")] == 0) continue;
        tidy(text, sizeof text, line);
        name_unknown_words(trf_model_source_vocab(model), text);
        if (trf_translate_text(translator, text, german, sizeof german, &err)) printf("%s\n", err.message);
        else printf("%s\n", german);
    }
    if (interactive) printf("\n");
}

int main(int argc, char **argv)
{
    plan p = {120000, 2600};
    int quick = 0, with_prompt = 1, i, right, neighbour;
    sentence_numbers chosen = {NULL, NULL, 0, 0};
    trf_data_stats stats;
    trf_recipe recipe;
    trf_search search = trf_search_defaults();
    trf_vocab *english, *german;
    trf_model *model;
    trf_corpus *corpus;
    trf_translator *translator;
    trf_error err;
    double time_taken;
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) quick = 1;
        else if (strcmp(argv[i], "--no-prompt") == 0) with_prompt = 0;
        else { fprintf(stderr, "usage: translate [--quick] [--no-prompt]\n"); return 2; }
    }
    if (quick) { p.training_pairs = 6000; p.steps = 130; }

    choose_sentences(&chosen, p.training_pairs);
    print_held_out();
    make_vocabs(&english, &german, &chosen);
    memset(&stats, 0, sizeof stats);
    stats.updates = p.steps;
    corpus = fill_corpus(&chosen, english, german, &stats);
    find_recipe(&recipe, &stats, p.steps);
    must(trf_model_create(&model, &recipe.config, &err), &err);
    must(trf_model_set_vocabs(model, english, german, &err), &err);
    trf_vocab_destroy(english);             /* the model has its own copies */
    trf_vocab_destroy(german);

    time_taken = train(model, &recipe.training, corpus, p.steps);
    trf_corpus_destroy(corpus);
    must(trf_model_save(model, "translate.safetensors", &err), &err);

    must(trf_translator_create(&translator, model, &search, &err), &err);
    printf("\nHeld-out sentences:\n");
    right = count_right(translator, model, chosen.tests, chosen.n_tests, 10);
    neighbour = count_right_by_neighbour(trf_model_source_vocab(model), &chosen);
    printf("\ntrained in %.0f s\n", time_taken);
    printf("exactly right on held-out combinations: %5.1f %%\n", 100.0 * right / chosen.n_tests);
    printf("the nearest training sentence instead:  %5.1f %%\n", 100.0 * neighbour / chosen.n_tests);
    fflush(stdout);
    if (with_prompt) prompt(translator, model);

    trf_translator_destroy(translator);
    trf_model_destroy(model);
    free(chosen.training);
    free(chosen.tests);
    promise(quick || right * 100 >= 95 * TESTS, "at least 95 % of the test sentences come out right");
    promise(neighbour * 100 < 20 * TESTS, "remembering is right in less than 20 %");
    return 0;
}

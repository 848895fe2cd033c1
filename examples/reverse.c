/* reverse.c - learns to write sequences backwards, and shows where it looks while doing so.

   build   cc -O2 -march=native -I. examples/reverse.c -o reverse -lopenblas -lm
   run     ./reverse              seeds 1, 2 and 3
           ./reverse 17           seed 17
   prints  for each seed the loss as it falls, then "seed 1: 500 of 500 exact"; after the last seed
           the cross-attention of one sequence as a picture: a line from top right to bottom left,
           since the first symbol written is the last one read.
   exits   with 1 if one of the 500 answers was wrong, or was seen in training.

   Sequences have 3 to 8 symbols out of 20. The 500 test sequences are drawn first and never trained on.
   Answers are *free-running*: the model reads its own symbols back, not the right ones, so one mistake
   early on would spoil all that follows. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SYMBOLS = 20, SHORTEST = 3, LONGEST = 8, TESTS = 500, BATCH = 64, STEPS = 800 };

// -----------------------------------------------------------------------------------------------
// Sequences
// -----------------------------------------------------------------------------------------------

typedef struct sequence { int32_t ids[LONGEST]; int32_t n; } sequence;

/* splitmix64 */
static uint64_t random_number(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static sequence random_sequence(uint64_t *state)
{
    sequence s;
    int32_t i;
    memset(&s, 0, sizeof s);
    s.n = SHORTEST + (int32_t)(random_number(state) % (LONGEST - SHORTEST + 1));
    for (i = 0; i < s.n; i++) s.ids[i] = 4 + (int32_t)(random_number(state) % SYMBOLS);
    return s;
}

/* A number that no other sequence has: its symbols as digits to the base SYMBOLS + 1. */
static uint64_t number_of(const sequence *s)
{
    uint64_t number = 0;
    int32_t i;
    for (i = 0; i < s->n; i++) number = number * (SYMBOLS + 1) + (uint64_t)(s->ids[i] - 3);
    return number;
}

/* A set of sequences, by their numbers: open addressing, 0 marks a free place. */
enum { SET_SIZE = 1 << 18 };
typedef struct sequence_set { uint64_t places[SET_SIZE]; } sequence_set;

static uint64_t *place_of(sequence_set *set, const sequence *s)
{
    uint64_t number = number_of(s), mix = number;
    size_t i = (size_t)(random_number(&mix) % SET_SIZE);
    while (set->places[i] && set->places[i] != number) i = (i + 1) % SET_SIZE;
    return &set->places[i];
}
static int set_has(sequence_set *set, const sequence *s) { return *place_of(set, s) != 0; }
static void set_add(sequence_set *set, const sequence *s) { *place_of(set, s) = number_of(s); }

/* Sequences one after another, as the library takes them, forwards and backwards. */
typedef struct pairs { int32_t source[TESTS * LONGEST], target[TESTS * LONGEST], lengths[TESTS]; } pairs;

static trf_batch lay_out(pairs *room, const sequence *sequences, int32_t count)
{
    trf_batch batch;
    int32_t i, j, n = 0;
    for (i = 0; i < count; i++) {
        const sequence *s = &sequences[i];
        for (j = 0; j < s->n; j++) {
            room->source[n + j] = s->ids[j];
            room->target[n + j] = s->ids[s->n - 1 - j];
        }
        n += room->lengths[i] = s->n;
    }
    memset(&batch, 0, sizeof batch);
    batch.source.ids = room->source;
    batch.target.ids = room->target;
    batch.source.lengths = batch.target.lengths = room->lengths;
    batch.source.count = batch.target.count = count;
    return batch;
}

// -----------------------------------------------------------------------------------------------
// Training and testing
// -----------------------------------------------------------------------------------------------

/* Model and training for so many drawn sequences, as the library recommends them. */
static trf_status find_recipe(trf_recipe *recipe, uint64_t seed, trf_error *err)
{
    trf_data_stats stats;
    trf_status status;
    memset(&stats, 0, sizeof stats);
    stats.pairs = (int64_t)BATCH * STEPS;
    stats.source_tokens = stats.target_tokens = stats.pairs * ((SHORTEST + LONGEST) / 2 + 1);
    stats.longest = LONGEST;
    stats.source_vocab = stats.target_vocab = 4 + SYMBOLS;
    stats.d_model = 64;
    stats.updates = STEPS;
    status = trf_recipe_find(recipe, &stats, err);
    trf_train_set_dropout(&recipe->training, 0.0);      /* the data never repeat: nothing can be learned by heart */
    recipe->training.schedule = TRF_COSINE;             /* the last updates are small: all answers exact, not nearly all */
    recipe->training.total_steps = STEPS;
    recipe->config.seed = recipe->training.seed = seed;
    return status;
}

/* Trains on sequences that are not in `tests`, and notes in `seen` what it trained on. */
static trf_status train(trf_model *model, const trf_train_options *training, sequence_set *tests, sequence_set *seen,
                        trf_error *err)
{
    trf_trainer *trainer = NULL;
    trf_status status;
    trf_step_report report;
    sequence sequences[BATCH];
    pairs room;
    uint64_t random = training->seed * 1000;
    int step, i;
    status = trf_trainer_create(&trainer, model, training, err);
    for (step = 1; step <= STEPS && !status; step++) {
        trf_batch batch;
        for (i = 0; i < BATCH; i++) {
            do sequences[i] = random_sequence(&random); while (set_has(tests, &sequences[i]));
            set_add(seen, &sequences[i]);
        }
        batch = lay_out(&room, sequences, BATCH);
        status = trf_train_step(trainer, &batch, &report, err);
        if (!status && step % (STEPS / 4) == 0)
            printf("  step %4d  loss %.4f  next symbol right %6.2f %%\n", step, report.loss, 100 * report.accuracy);
    }
    trf_trainer_destroy(trainer);
    return status;
}

/* Translates all sequences freely; *right is the number of exact answers. */
static trf_status test(trf_translator *translator, const sequence *tests, int *right, trf_error *err)
{
    pairs room;
    trf_batch batch = lay_out(&room, tests, TESTS);
    const int32_t *wanted = room.target;
    trf_status status = trf_translate_batch(translator, &batch.source, err);
    int32_t i;
    *right = 0;
    for (i = 0; i < TESTS && !status; i++) {
        const trf_hypothesis *answer = trf_hypothesis_at(translator, i, 0);
        *right += answer->n == tests[i].n && memcmp(answer->ids, wanted, (size_t)answer->n * sizeof *wanted) == 0;
        wanted += tests[i].n;
    }
    return status;
}

// -----------------------------------------------------------------------------------------------
// The picture
// -----------------------------------------------------------------------------------------------

static char letter(int32_t id) { return (char)('a' + id - 4); }

/* Share of the weight that lies where a reversal must look: symbol i is written from place n - 1 - i. */
static double share_on_line(const trf_real *weights, int32_t n, int64_t keys)
{
    double sum = 0;
    int32_t i;
    for (i = 0; i < n; i++) sum += (double)weights[i * keys + n - 1 - i];
    return sum / n;
}

static void print_weights(const trf_real *weights, const sequence *s, int64_t keys)
{
    static const char shades[] = " .:-=+*#%@";
    int32_t i, j;
    printf("\n  wrote   read\n         ");
    for (j = 0; j < s->n; j++) printf(" %c ", letter(s->ids[j]));
    printf("\n");
    for (i = 0; i < s->n; i++) {
        printf("    %c    ", letter(s->ids[s->n - 1 - i]));
        for (j = 0; j < s->n; j++) {
            char c = shades[(int)((double)weights[i * keys + j] * 9.99)];
            printf("%c%c%c", c, c, c);
        }
        printf("\n");
    }
}

/* Shows the head of the decoder's cross-attention that follows the line best. Row i of the weights belongs to the
   decoder's place i, which reads the symbol before (BOS at place 0) and writes symbol i; the last row writes EOS. */
static trf_status show_attention(trf_translator *translator, const trf_model *model, trf_error *err)
{
    static const sequence shown = {{4 + 7, 4 + 2, 4 + 15, 4 + 9, 4 + 0, 4 + 18, 4 + 4, 4 + 11}, 8};
    const trf_config *config = trf_model_config(model);
    pairs room;
    trf_batch batch = lay_out(&room, &shown, 1);
    int64_t keys = trf_source_rows(model, &batch.source), queries = trf_target_rows(model, &batch.target);
    trf_tensor cross = trf_tensor_of(NULL, 1, trf_attention_count(model, &batch, TRF_DECODER_CROSS), 1, 1);
    trf_views views;
    trf_status status;
    const trf_real *best_weights = NULL;
    double best = -1;
    int32_t layer, head, best_layer = 0, best_head = 0;
    cross.data = (trf_real *)malloc((size_t)cross.shape[0] * sizeof *cross.data);
    if (!cross.data) { perror("attention"); exit(1); }
    memset(&views, 0, sizeof views);
    views.cross = &cross;
    status = trf_look_inside(translator, &batch, &views, err);      /* all layers and heads in one pass */
    if (status) { free(cross.data); return status; }
    for (layer = 0; layer < config->decoder_layers; layer++) {
        for (head = 0; head < config->n_heads; head++) {
            const trf_real *weights = cross.data + (layer * config->n_heads + head) * queries * keys;
            double share = share_on_line(weights, shown.n, keys);
            if (share <= best) continue;
            best = share;
            best_layer = layer;
            best_head = head;
            best_weights = weights;
        }
    }
    print_weights(best_weights, &shown, keys);
    printf("\n  cross-attention, layer %d, head %d: %.0f %% of its weight is on the line\n",
           (int)best_layer + 1, (int)best_head + 1, 100 * best);
    free(cross.data);
    return TRF_OK;
}

/* One seed from beginning to end. Returns 0 if every answer was right. */
static int run(uint64_t seed, int with_picture)
{
    trf_recipe recipe;
    trf_search search = trf_search_defaults();
    trf_model *model = NULL;
    trf_translator *translator = NULL;
    trf_error err;
    static sequence tests[TESTS];
    static sequence_set test_set, seen;
    uint64_t random = seed * 1000 + 999;
    time_t start = time(NULL);
    int i, right = 0, failed = 1, leaked = 0;
    memset(&test_set, 0, sizeof test_set);
    memset(&seen, 0, sizeof seen);
    for (i = 0; i < TESTS; i++) {
        do tests[i] = random_sequence(&random); while (set_has(&test_set, &tests[i]));
        set_add(&test_set, &tests[i]);
    }
    search.beam = 1;

    if (find_recipe(&recipe, seed, &err)) goto done;
    if (trf_model_create(&model, &recipe.config, &err)) goto done;
    if (train(model, &recipe.training, &test_set, &seen, &err)) goto done;
    if (trf_translator_create(&translator, model, &search, &err)) goto done;
    if (test(translator, tests, &right, &err)) goto done;
    for (i = 0; i < TESTS; i++) leaked += set_has(&seen, &tests[i]);
    printf("seed %d: %d of %d exact, %d of them seen in training, %.0f s\n", (int)seed, right, (int)TESTS, leaked,
           difftime(time(NULL), start));
    if (with_picture && show_attention(translator, model, &err)) goto done;
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s: %s\n", trf_status_name((trf_status)err.status), err.message);
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    return failed || right < TESTS || leaked;
}

int main(int argc, char **argv)
{
    uint64_t seed;
    int failed = 0;
    if (argc > 1) return run((uint64_t)strtoul(argv[1], NULL, 10), 1);
    for (seed = 1; seed <= 3; seed++) failed |= run(seed, seed == 3);
    return failed;
}

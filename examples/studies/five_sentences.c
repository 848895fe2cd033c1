/* five_sentences.c - does a translator learn from five sentences?

   A tutorial builds one: words as they stand, width 256, 8 heads, 3 + 3 layers with post-norm,
   dropout 0.1, Adam at a constant 1e-4, batches of two, ten epochs, greedy decoding. It calls the
   result a basic translator. Its targets are its sources. Here the pairs are English and German, so
   the model has to choose words and to move them.

   The study reports the loss after ten epochs, and how many of the five sentences are translated
   exactly. Training then goes on until all five are, and the model translates two new sentences:
   one of learned words, one with an unknown word. A small preset of the header, with its training
   defaults, does the same. A picture shows the last layer's cross-attention for the first sentence.
   */
#include "study.h"

enum { FIVE = 5, BATCHES = 3, EPOCHS = 10, LATEST = 200, HEADS = 8, ROWS = 8, NEW = 2, MOST = 100 };
static const char *const english[FIVE] = {"we drink cold water today", "she reads a long letter",
                                          "the train leaves at noon",
                                          "my brother sings in the garden",
                                          "tomorrow they buy fresh bread"};
static const char *const german[FIVE] = {
    "heute trinken wir kaltes wasser", "sie liest einen langen brief", "der zug fährt um zwölf ab",
    "mein bruder singt im garten", "morgen kaufen sie frisches brot"};
/* Learned words in a new order; a word that no vocabulary has. */
static const char *const new_ones[NEW] = {"tomorrow we drink cold water", "she reads a long book"};
static const char *const right_ones[NEW] = {"morgen trinken wir kaltes wasser",
                                            "sie liest ein langes buch"};

struct result { double loss, exact, epochs; };      /* loss and exact: after ten epochs */
struct system { trf_vocab *source, *target; trf_corpus *corpus; };

static struct system make_system(uint64_t seed)
{
    struct system x = {NULL, NULL, NULL};
    trf_corpus_options o = trf_corpus_defaults();
    int i;
    o.batch_sentences = 2;
    o.buckets = 0;
    o.seed = seed;
    STUDY_TRY(trf_vocab_create(&x.source, TRF_WORDS, NULL, &err));
    STUDY_TRY(trf_vocab_create(&x.target, TRF_WORDS, NULL, &err));
    for (i = 0; i < FIVE; i++) {
        STUDY_TRY(trf_vocab_learn(x.source, english[i], &err));
        STUDY_TRY(trf_vocab_learn(x.target, german[i], &err));
    }
    STUDY_TRY(trf_vocab_finish(x.source, 10000, 1, &err));
    STUDY_TRY(trf_vocab_finish(x.target, 10000, 1, &err));
    STUDY_TRY(trf_corpus_create(&x.corpus, &o, &err));
    for (i = 0; i < FIVE; i++)
        STUDY_TRY(trf_corpus_add_text(x.corpus, x.source, english[i], x.target, german[i], &err));
    return x;
}

/* The tutorial's model, whose sources have no end and whose matrices all start as Xavier's, or a
   small preset of the header's. */
static trf_model *create(const struct study *s, const struct system *x, int preset, uint64_t seed)
{
    trf_config c = trf_config_preset(TRF_TINY), small = c;
    trf_model *model = NULL;
    trf_set_conventions(&c, NULL, TRF_CONVENTIONS_PYTORCH);
    c.n_heads = HEADS;
    c.d_model = 256;
    c.d_ff = 1024;
    c.encoder_layers = c.decoder_layers = 3;
    c.norm_place = TRF_POST_NORM;
    c.final_norm = 0;
    c.init = TRF_INIT_XAVIER;
    c.embedding_init = TRF_EMBEDDING_XAVIER;
    c.source_eos = 0;
    if (preset) c = small;
    c.source_vocab = trf_vocab_size(x->source);
    c.target_vocab = trf_vocab_size(x->target);
    c.seed = seed;
    c.device.threads = s->threads;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    STUDY_TRY(trf_model_set_vocabs(model, x->source, x->target, &err));
    return model;
}

static trf_trainer *teacher(trf_model *model, int preset, uint64_t seed)
{
    trf_train_options o = trf_train_defaults();
    trf_trainer *trainer = NULL;
    if (!preset) {
        trf_train_set_dropout(&o, 0.1);
        o.schedule = TRF_CONSTANT;
        o.learning_rate = o.initial_rate = 1e-4;
        o.warmup = 1;
    }
    o.seed = seed;
    STUDY_TRY(trf_trainer_create(&trainer, model, &o, &err));
    return trainer;
}

/* Translates a text greedily; returns whether it is the expected one. */
static int translate(const trf_model *model, const char *text, const char *expected, char *answer,
                     size_t size)
{
    trf_search search = trf_search_defaults();
    trf_translator *t = NULL;
    search.beam = 1;
    STUDY_TRY(trf_translator_create(&t, model, &search, &err));
    STUDY_TRY(trf_translate_text(t, text, answer, size, &err));
    trf_translator_destroy(t);
    return !strcmp(answer, expected);
}

/* Learns for at least ten epochs, until all five are exact. The model stays with the caller. */
static trf_model *learn(struct study *s, struct system *x, int preset, uint64_t seed,
                        struct result *r)
{
    trf_model *model = create(s, x, preset, seed);
    trf_trainer *trainer = teacher(model, preset, seed);
    trf_batch b;
    trf_step_report report;
    char answer[512];
    int epoch, i, exact = 0;
    for (epoch = 1; epoch <= LATEST && (epoch <= EPOCHS || exact < FIVE); epoch++) {
        double loss = 0;
        for (i = 0; i < BATCHES; i++) {
            STUDY_TRY(trf_corpus_next(x->corpus, &b, &err));
            STUDY_TRY(trf_trainer_step(trainer, &b, &report, &err));
            loss += report.loss / BATCHES;
        }
        for (i = exact = 0; i < FIVE; i++)
            exact += translate(model, english[i], german[i], answer, sizeof answer);
        if (epoch == EPOCHS) {
            r->loss = loss;
            r->exact = exact;
        }
        if (exact == FIVE && r->epochs <= 0) r->epochs = epoch;
    }
    if (r->epochs <= 0) r->epochs = LATEST;
    study_must(s, exact == FIVE, "all five are learned in %d epochs, seed %d", LATEST, (int)seed);
    trf_trainer_destroy(trainer);
    return model;
}

/* Splits a text into words, whose terminators are written into `copy`. */
static int words_of(const char *text, char *copy, size_t size, const char **words)
{
    int n = 0;
    char *p;
    snprintf(copy, size, "%s", text);
    for (p = strtok(copy, " "); p && n < ROWS; p = strtok(NULL, " ")) words[n++] = p;
    return n;
}

/* The heads of the last layer for the first sentence: what is read where each word is written. */
static void picture(struct study *s, const struct system *x, const trf_model *model)
{
    static char source_text[128], target_text[128], titles[HEADS][16];
    const char *source[ROWS], *target[ROWS + 1];
    int32_t ids[2][ROWS], n[2], head, layers = trf_model_config(model)->decoder_layers;
    trf_batch b = {{ids[0], &n[0], 1}, {ids[1], &n[1], 1}, 0, {0, 0, 0}};
    trf_reader *reader = NULL;
    trf_reading seen;
    trf_tensor of;
    struct heat_map maps[HEADS];
    STUDY_TRY(trf_vocab_encode(x->source, english[0], 0, ids[0], ROWS, &n[0], &err));
    STUDY_TRY(trf_vocab_encode(x->target, german[0], 0, ids[1], ROWS, &n[1], &err));
    STUDY_TRY(trf_reader_create(&reader, model, NULL, &err));
    STUDY_TRY(trf_reader_read(reader, &b, TRF_READ_CROSS, NULL, &seen, &err));
    of = seen.attention[TRF_DECODER_CROSS][0];
    words_of(english[0], source_text, sizeof source_text, source);
    target[words_of(german[0], target_text, sizeof target_text, target)] = "</s>";
    for (head = 0; head < HEADS; head++) {
        int64_t rows = of.shape[2], columns = of.shape[3];
        const trf_real *weights = of.data + ((layers - 1) * HEADS + head) * rows * columns;
        snprintf(titles[head], sizeof titles[head], "head %d", head);
        maps[head] = study_map(titles[head], weights, (int)rows, (int)columns);
        maps[head].row_names = target;
        maps[head].column_names = source;
        maps[head].row_label = "writes";
        maps[head].column_label = "reads";
    }
    study_heat_maps(s, "", "Five sentences: cross-attention of the last layer", maps, HEADS, 4, 0,
                    1);
    trf_reader_destroy(reader);
}

/* Translates the new sentences; how many are right. */
static int translate_new(const trf_model *model, char answers[NEW][512])
{
    int i, right = 0;
    for (i = 0; i < NEW; i++)
        right += translate(model, new_ones[i], right_ones[i], answers[i], sizeof answers[i]);
    return right;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"tutorial's", "preset and defaults"};
    static char answers[NEW][512];
    struct study s =
        study_begin(argc, argv, "five_sentences", "a translation system of five sentences");
    double loss[MOST], exact[2][MOST], epochs[2][MOST], right[2][MOST];
    int preset, i, n = s.seeds = s.quick ? 1 : s.seeds;
    study_columns(&s, "system | weights | loss after 10 epochs | exact, of 5 | "
                      "epochs until 5 are exact | new sentences right, of 2");
    for (preset = 1; preset >= 0; preset--) {
        int64_t weights = 0;
        for (i = 0; i < n; i++) {
            struct result r = {0, 0, 0};
            struct system x = make_system((uint64_t)i + 1);
            trf_model *model = learn(&s, &x, preset, (uint64_t)i + 1, &r);
            loss[i] = r.loss;
            exact[preset][i] = r.exact;
            epochs[preset][i] = r.epochs;
            right[preset][i] = translate_new(model, answers);
            weights = trf_model_parameter_total(model);
            if (!preset && i == 0) picture(&s, &x, model);
            trf_model_destroy(model);
            trf_corpus_destroy(x.corpus);
            trf_vocab_destroy(x.source);
            trf_vocab_destroy(x.target);
        }
        study_row(&s, "%s | %lld | %s | %s | %s | %s", names[preset], (long long)weights,
                  study_spread(loss, n, 2), study_spread(exact[preset], n, 1),
                  study_spread(epochs[preset], n, 1), study_spread(right[preset], n, 1));
    }
    printf("\nThe last model translates what is new:\n");
    for (i = 0; i < NEW; i++)
        printf("    %s  ->  %s  (right: %s)\n", new_ones[i], answers[i], right_ones[i]);
    study_claim(&s, "ten epochs make a basic translator", study_above(exact[0], n, 4),
                "%s of its five sentences are exact; it takes %s epochs until all five are",
                study_spread(exact[0], n, 1), study_spread(epochs[0], n, 1));
    study_claim(&s, "five sentences teach translation", study_above(right[0], n, 1),
                "%s of 2 new sentences are right; the answers are pieces of the five",
                study_spread(right[0], n, 1));
    return study_end(&s);
}

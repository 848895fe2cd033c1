/* What has to work on every port, without cmocka: tests/ports.sh compiles it for each and runs it.

   run     ports FOLDER THREADS     FOLDER is tests/golden/old, THREADS how many it is to use
   prints  what examples/copy.c prints, what fails, and "N passed, M failed" last

   examples/copy.c is in it; ports.sh lowers its number of updates where a processor is emulated. */
#define main copy_program
#include "copy.c"
#undef main
#include <string.h>

static int passed, failed;

static void check(const char *name, int right)
{
    if (right) passed++;
    else { failed++; printf("FAILED: %s\n", name); }
}

/* check() of a call, with its message */
static int works(const char *name, trf_status status, const trf_error *err)
{
    check(name, status == TRF_OK);
    if (status) printf("    %s\n", err->message);
    return status == TRF_OK;
}

/* Digits, and their names in reverse order. */
static void pair_of(uint32_t *seed, char *digits, char *names)
{
    static const char *const name[10] = {"zero", "one", "two",   "three", "four",
                                         "five", "six", "seven", "eight", "nine"};
    int number[4], n, i;
    *digits = *names = 0;
    *seed = *seed * 1664525u + 1013904223u;
    n = 1 + (int)(*seed >> 16) % 4;
    for (i = 0; i < n; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        number[i] = (int)(*seed >> 16) % 10;
        digits[2 * i] = (char)('0' + number[i]);
        digits[2 * i + 1] = i < n - 1 ? ' ' : 0;
    }
    for (i = n - 1; i >= 0; i--) { strcat(names, name[number[i]]); if (i) strcat(names, " "); }
}

/* A model, its trainer and its data; vocabularies are in the model. */
typedef struct course { trf_model *model; trf_trainer *trainer; trf_corpus *corpus; } course;

static void course_end(course *c)
{
    trf_corpus_destroy(c->corpus);
    trf_trainer_destroy(c->trainer);
    trf_model_destroy(c->model);
    memset(c, 0, sizeof *c);
}

static trf_status corpus_of(course *c, trf_error *err)
{
    char digits[16], names[64];
    uint32_t seed = 1;
    int i;
    trf_corpus_options options = trf_corpus_defaults();
    options.batch_tokens = 256;
    if (trf_corpus_create(&c->corpus, &options, err)) return (trf_status)err->status;
    for (i = 0; i < 400; i++) {
        pair_of(&seed, digits, names);
        if (trf_corpus_add_text(c->corpus, trf_model_vocab(c->model, TRF_SOURCE), digits,
                                trf_model_vocab(c->model, TRF_TARGET), names, err))
            return (trf_status)err->status;
    }
    return TRF_OK;
}

static trf_status vocabs_of(trf_vocab *vocab[2], trf_error *err)
{
    char digits[16], names[64];
    uint32_t seed = 1;
    int i;
    for (i = 0; i < 2; i++)
        if (trf_vocab_create(&vocab[i], TRF_WORDS, NULL, err)) return (trf_status)err->status;
    for (i = 0; i < 400; i++) {
        pair_of(&seed, digits, names);
        if (trf_vocab_learn(vocab[0], digits, err) || trf_vocab_learn(vocab[1], names, err))
            return (trf_status)err->status;
    }
    if (trf_vocab_finish(vocab[0], 1000, 1, err) || trf_vocab_finish(vocab[1], 1000, 1, err))
        return (trf_status)err->status;
    return TRF_OK;
}

static trf_status course_begin(course *c, int32_t threads, trf_error *err)
{
    trf_vocab *vocab[2] = {NULL, NULL};
    trf_config config = trf_config_preset(TRF_TINY);
    trf_train_options training = trf_train_defaults();
    trf_status status = vocabs_of(vocab, err);
    memset(c, 0, sizeof *c);
    config.d_model = 32;
    config.d_ff = 64;
    config.encoder_layers = config.decoder_layers = 1;
    config.norm_place = TRF_PRE_NORM;
    config.max_length = 32;
    training.threads = threads;
    training.schedule = TRF_INVERSE_SQRT;
    training.learning_rate = 5e-3;
    training.warmup = 40;
    training.label_smoothing = 0;
    trf_train_set_dropout(&training, 0);
    training.source_tokens = training.target_tokens = 256;
    training.sequences = 128;
    training.longest = 32;
    if (status == TRF_OK) {
        config.source_vocab = trf_vocab_size(vocab[0]);
        config.target_vocab = trf_vocab_size(vocab[1]);
        status = trf_model_create(&c->model, &config, NULL, err);
    }
    if (status == TRF_OK) status = trf_model_set_vocabs(c->model, vocab[0], vocab[1], err);
    if (status == TRF_OK) status = trf_trainer_create(&c->trainer, c->model, &training, err);
    if (status == TRF_OK) status = corpus_of(c, err);
    trf_vocab_destroy(vocab[0]);
    trf_vocab_destroy(vocab[1]);
    return status;
}

/* n updates; the losses into loss[n] */
static trf_status updates(course *c, int n, double *loss, trf_error *err)
{
    int i;
    for (i = 0; i < n; i++) {
        trf_batch batch;
        trf_step_report report;
        if (trf_corpus_next(c->corpus, &batch, err) ||
            trf_trainer_step(c->trainer, &batch, &report, err))
            return (trf_status)err->status;
        loss[i] = report.loss;
    }
    return TRF_OK;
}

/* How many of n texts that training has not seen the model of a file translates without a mistake;
   -1: it cannot. */
static int right_of(const char *path, int n, int32_t threads)
{
    trf_model *model = NULL;
    trf_translator *translator = NULL;
    trf_search search = trf_search_defaults();
    trf_error err;
    char digits[16], names[64], answer[64];
    uint32_t seed = 77;
    int i, right = -1;
    search.threads = threads;
    if (trf_model_load(&model, path, NULL, &err) ||
        trf_translator_create(&translator, model, &search, &err))
        n = 0;
    else right = 0;
    for (i = 0; i < n; i++) {
        pair_of(&seed, digits, names);
        if (trf_translate_text(translator, digits, answer, sizeof answer, &err)) break;
        right += !strcmp(answer, names);
    }
    if (right < 0 || i < n) { puts(err.message); right = -1; }
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    return right;
}

/* Training gives a model that translates; its file replaces another, and a checkpoint goes on with
   the same bits. */
static void train_and_translate(int32_t threads)
{
    enum { UPDATES = 300, MORE = 5 };
    static double loss[UPDATES], on[MORE], again[MORE], beside[MORE], first[MORE];
    course c, d;
    trf_error err;
    int i, right;
    if (!works("a course", course_begin(&c, 1, &err), &err)) return;
    memset(&d, 0, sizeof d);
    if (works("training", updates(&c, UPDATES, loss, &err), &err)) {
        memcpy(first, loss, sizeof first);
        check("the loss falls", loss[UPDATES - 1] < 0.1 && loss[0] > 1);
        works("saving", trf_model_save(c.model, "ports.model", NULL, &err), &err);
        works("saving over a file", trf_model_save(c.model, "ports.model", NULL, &err), &err);
        works("a checkpoint", trf_checkpoint_save(c.trainer, c.corpus, "ports.checkpoint", NULL, &err),
              &err);
        works("five more updates", updates(&c, MORE, on, &err), &err);
        right = right_of("ports.model", 30, 1);
        check("27 of 30 unseen texts are translated right", right >= 27);
        if (right < 27) printf("    %d\n", right);
        check("the same with all threads", right_of("ports.model", 30, threads) == right);
        d.corpus = c.corpus;
        c.corpus = NULL;
        trf_corpus_resume(d.corpus, NULL, NULL);
        if (works("loading the checkpoint",
                  trf_checkpoint_load(&d.model, &d.trainer, d.corpus, "ports.checkpoint", NULL,
                                      NULL, &err),
                  &err)) {
            works("going on", updates(&d, MORE, again, &err), &err);
            for (i = 0; i < MORE && !(on[i] < again[i] || on[i] > again[i]); i++) {}
            check("the same bits from the checkpoint on", i == MORE);
        }
        course_end(&d);
        if (works("a course of several threads", course_begin(&d, threads, &err), &err)) {
            works("updates of several threads", updates(&d, MORE, beside, &err), &err);
            for (i = 0; i < MORE && !(first[i] < beside[i] || first[i] > beside[i]); i++) {}
            check("the same bits for any number of threads", i == MORE);
        }
        course_end(&d);
    }
    course_end(&c);
}

/* Files that trf of an x86-64 processor has written. */
static void read_files(const char *folder)
{
    char path[512], answer[64];
    trf_model *model = NULL;
    trf_translator *translator = NULL;
    trf_sampler *generator = NULL;
    trf_sampling sampling = trf_sampling_defaults();
    trf_batch begin;
    trf_error err;
    int32_t id, n, one = 1, live = 1;
    snprintf(path, sizeof path, "%s/words", folder);
    *answer = 0;
    if (works("a model from elsewhere", trf_model_load(&model, path, NULL, &err), &err) &&
        works("its translator", trf_translator_create(&translator, model, NULL, &err), &err))
        works("its translation",
              trf_translate_text(translator, "2 0 1", answer, sizeof answer, &err), &err);
    check("it translates as there", !strcmp(answer, "one zero two"));
    trf_translator_destroy(translator);
    trf_model_destroy(model);
    model = NULL;
    snprintf(path, sizeof path, "%s/causal", folder);
    memset(&begin, 0, sizeof begin);
    begin.target.ids = &id;
    begin.target.lengths = &one;
    begin.target.count = 1;
    sampling.temperature = 0;
    sampling.max_tokens = 12;
    *answer = 0;
    if (works("a language model from elsewhere", trf_model_load(&model, path, NULL, &err), &err) &&
        works("its beginning",
              trf_vocab_encode(trf_model_vocab(model, TRF_TARGET), "seven", 0, &id, 1, &n, &err), &err) &&
        works("its generator", trf_sampler_create(&generator, model, &sampling, &err), &err) &&
        works("it begins", trf_sampler_begin(generator, &begin, &err), &err)) {
        const trf_hypothesis *h;
        while (live && works("it goes on", trf_sampler_step(generator, 20, &live, &err), &err)) {}
        h = trf_sampler_answer(generator, 0);
        works("its text",
              trf_vocab_decode(trf_model_vocab(model, TRF_TARGET), h->ids, h->n, answer, sizeof answer,
                               NULL, &err),
              &err);
    }
    check("it goes on as there", !strcmp(answer, "seven eight nine zero one two") ||
                                     !strcmp(answer, "eight nine zero one two"));
    trf_sampler_destroy(generator);
    trf_model_destroy(model);
}

/* A packed file, mapped where the system maps, answers as the model that it was made of. */
static void pack_files(int32_t threads)
{
    static const trf_weights weights[3] = {TRF_WEIGHTS_FULL, TRF_WEIGHTS_BF16, TRF_WEIGHTS_INT8};
    const int n = 20, right = right_of("ports.model", n, threads);
    int i;
    for (i = 0; i < (sizeof(trf_real) == 8 ? 1 : 3); i++) {
        trf_load_options load = trf_load_defaults();
        trf_model *model = NULL;
        trf_error err;
        int packed;
        load.packed = 1;
        load.weights = weights[i];
        if (works("a model is packed while it is read", trf_model_load(&model, "ports.model", &load, &err), &err))
            works("its packed file", trf_model_save(model, "ports.packed", NULL, &err), &err);
        trf_model_destroy(model);
        packed = right_of("ports.packed", n, threads);
        check("a packed file answers", packed >= 0 && (i ? packed + 2 >= right : packed == right));
        remove("ports.packed");
    }
}

/* What is not there or not whole is refused with a sentence that names it. */
static void refuse_files(void)
{
    trf_model *model = NULL;
    trf_error err;
    FILE *f = fopen("ports.damaged", "wb");
    check("a file to damage",
          f && fwrite("\x08\0\0\0\0\0\0\0{\"a\":1} ", 1, 16, f) == 16 && !fclose(f));
    check("a missing file is refused",
          trf_model_load(&model, "ports.missing", NULL, &err) != TRF_OK &&
              strstr(err.message, "ports.missing"));
    check("a damaged file is refused",
          trf_model_load(&model, "ports.damaged", NULL, &err) != TRF_OK &&
              strstr(err.message, "ports.damaged"));
    check("nothing was made", !model);
    remove("ports.damaged");
    remove("ports.model");
    remove("ports.checkpoint");
    remove("copy.safetensors");
}

int main(int argc, char **argv)
{
    char text[500];
    if (argc != 3) { fprintf(stderr, "usage: ports FOLDER THREADS\n"); return 2; }
    puts(trf_device_text(NULL, text, sizeof text));
    check("examples/copy.c", copy_program() == 0);
    train_and_translate(atoi(argv[2]));
    read_files(argv[1]);
    pack_files(atoi(argv[2]));
    refuse_files();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

/* The C side of tools/parity/parity.py, which compares this library with nn.Transformer and its searches with the
   programs they are named after. Public calls only.

   cc -O2 -I. tools/parity/parity.c -o build/parity -lopenblas -lm
   python3 tools/parity/parity.py FOLDER|search  prints a table and a verdict

   parity create CONFIG MODEL             makes a model and saves it
   parity logits CONFIG MODEL BATCHES     loads a state_dict, prints the teacher-forced logits of the first batch
   parity encode CONFIG MODEL BATCHES     the same for the states of the encoder
   parity train  CONFIG MODEL BATCHES     loads it, one update a batch, prints loss, norm of the gradient and rate
   parity search CONFIG MODEL BATCHES     loads it, translates; the targets are forced prefixes, or a decoder's prompts.
                                          Prints every answer: sentence, 1 if it ended with EOS, score, log-probability,
                                          tokens
   parity ids|target_ids CONFIG MODEL LINES     the ids of each line of a file: of the source, or of a decoder's only
                                          side; of the target
   parity sample CONFIG MODEL BATCHES     the same by a sampler of temperature 0, whose prompts are the targets
   The configuration in a model file of ours goes before CONFIG's.

   CONFIG: lines "field value"; `rule` sets other fields of the search, so it stands before them. BATCHES: for each
   batch its number of pairs, then every pair as the number of source tokens, the source, the number of target tokens,
   the target. */
#define TRF_IMPLEMENTATION
#include "transformer.h"
#include <inttypes.h>

typedef struct settings { trf_config config; trf_train_options training; trf_search search; } settings;

/* Lines "banned ID" begin a banned sequence, lines "banned+ ID" continue it. */
static void ban(trf_search *search, int32_t id, int more)
{
    static int32_t ids[4096], lengths[4096], n;
    if (n == 4096) return;
    ids[n++] = id;
    search->banned.ids = ids;
    search->banned.lengths = lengths;
    lengths[more ? search->banned.count - 1 : search->banned.count++]++;
}

static int set_search(trf_search *search, const char *field, double value)
{
    int32_t n = (int32_t)value;
    if (!strcmp(field, "rule")) trf_search_set_rule(search, (trf_search_rule)n);
    else if (!strcmp(field, "beam")) search->beam = n;
    else if (!strcmp(field, "n_best")) search->n_best = n;
    else if (!strcmp(field, "alpha")) search->alpha = value;
    else if (!strcmp(field, "stop")) search->stop = (trf_beam_stop)n;
    else if (!strcmp(field, "score_prefix")) search->score_prefix = n;
    else if (!strcmp(field, "count_prefix")) search->count_prefix = n;
    else if (!strcmp(field, "start")) search->start = n;
    else if (!strcmp(field, "min_length")) search->min_length = n;
    else if (!strcmp(field, "at_limit")) search->at_limit = (trf_at_limit)n;
    else if (!strcmp(field, "forced_first")) search->forced_first = n;
    else if (!strcmp(field, "source_first")) search->source_first = n;
    else if (!strcmp(field, "source_last")) search->source_last = n;
    else if (!strcmp(field, "no_repeat_ngram")) search->no_repeat_ngram = n;
    else if (!strcmp(field, "repetition_penalty")) search->repetition_penalty = value;
    else if (!strncmp(field, "banned", 6)) ban(search, n, field[6] == '+');
    else if (!strcmp(field, "end")) search->ends.ids[search->ends.n++] = n;
    else if (!strcmp(field, "max_length_b")) { search->max_length_a = 0; search->max_length_b = n; }
    else return 0;
    return 1;
}

static int read_settings(settings *s, const char *path)
{
    FILE *f = fopen(path, "r");
    char field[64];
    double value;
    s->config = trf_config_preset(TRF_TINY);
    s->training = trf_train_defaults();
    s->config.norm_place = TRF_POST_NORM;       /* what tools/parity/parity.py leaves out is as in nn.Transformer, */
    s->training.schedule = TRF_NOAM;            /* and in the paper's section 5 */
    s->training.learning_rate = 1;
    s->training.warmup = 4000;
    s->training.label_smoothing = 0.1;
    s->search = trf_search_defaults();
    trf_train_set_dropout(&s->training, 0.0);
    if (!f) return 0;
    while (fscanf(f, "%63s %lf", field, &value) == 2) {
        int32_t n = (int32_t)value;
        if (!strcmp(field, "d_model")) s->config.d_model = n;
        else if (!strcmp(field, "n_heads")) s->config.n_heads = n;
        else if (!strcmp(field, "d_ff")) s->config.d_ff = n;
        else if (!strcmp(field, "encoder_layers")) s->config.encoder_layers = n;
        else if (!strcmp(field, "decoder_layers")) s->config.decoder_layers = n;
        else if (!strcmp(field, "source_vocab")) s->config.source_vocab = n;
        else if (!strcmp(field, "target_vocab")) s->config.target_vocab = n;
        else if (!strcmp(field, "activation")) s->config.activation = (trf_activation)n;
        else if (!strcmp(field, "norm_place")) s->config.norm_place = (trf_norm_place)n;
        else if (!strcmp(field, "norm_epsilon")) s->config.norm_epsilon = value;
        else if (!strcmp(field, "tying")) s->config.tying = (trf_tying)n;
        else if (!strcmp(field, "generator_bias")) s->config.generator_bias = n;
        else if (!strcmp(field, "positions")) s->config.positions = (trf_positions)n;
        else if (!strcmp(field, "final_norm")) s->config.final_norm = n;
        else if (!strcmp(field, "kind")) s->config.kind = (trf_kind)n;
        else if (!strcmp(field, "head")) s->config.head = (trf_head)n;
        else if (!strcmp(field, "n_labels")) s->config.n_labels = n;
        else if (!strcmp(field, "source_eos")) s->config.source_eos = n;
        else if (!strcmp(field, "scale_embeddings")) s->config.scale_embeddings = n;
        else if (!strcmp(field, "max_length")) s->config.max_length = n;
        else if (!strcmp(field, "decoder_start")) s->config.decoder_start = (trf_decoder_start)n;
        else if (!strcmp(field, "seed")) s->config.seed = (uint64_t)value;
        else if (!strcmp(field, "threads")) s->config.device.threads = n;
        else if (!strcmp(field, "warmup")) s->training.warmup = n;
        else if (!strcmp(field, "epsilon")) s->training.epsilon = value;
        else if (!strcmp(field, "label_smoothing")) s->training.label_smoothing = value;
        else if (!strcmp(field, "learning_rate")) s->training.learning_rate = value;
        else if (!set_search(&s->search, field, value)) {
            fprintf(stderr, "unknown field %s\n", field);
            fclose(f);
            return 0;
        }
    }
    fclose(f);
    return 1;
}

/* One batch at a time, in memory that is used again. */
typedef struct batch_reader {
    FILE *f;
    int32_t ids[2][65536], lengths[2][4096];
} batch_reader;

static int next_batch(batch_reader *r, trf_batch *batch)
{
    int32_t count, i, side, k, n[2] = { 0, 0 };
    memset(batch, 0, sizeof *batch);
    if (fscanf(r->f, "%" SCNd32, &count) != 1 || count < 1 || count > 4096) return 0;
    for (i = 0; i < count; i++)
        for (side = 0; side < 2; side++) {
            int32_t *length = &r->lengths[side][i];
            if (fscanf(r->f, "%" SCNd32, length) != 1 || *length < 0 || n[side] + *length > 65536) return 0;
            for (k = 0; k < *length; k++) if (fscanf(r->f, "%" SCNd32, &r->ids[side][n[side]++]) != 1) return 0;
        }
    batch->source.ids = r->ids[0]; batch->source.lengths = r->lengths[0]; batch->source.count = count;
    batch->target.ids = r->ids[1]; batch->target.lengths = r->lengths[1]; batch->target.count = count;
    return 1;
}

/* The probabilities of the sequences of the first batch. */
static int print_labels(const trf_model *model, batch_reader *reader, trf_error *err)
{
    const trf_config *c = trf_model_config(model);
    trf_reader *reads = NULL;
    static trf_real p[65536];
    trf_batch batch;
    trf_tensor out;
    trf_status status;
    int64_t i;
    if (!next_batch(reader, &batch)) return 1;
    out = trf_tensor_of(p, 2, batch.source.count, c->sequence_labels ? c->sequence_labels : c->n_labels, 1);
    if (trf_tensor_count(&out) > 65536) return 1;
    status = trf_reader_create(&reads, model, NULL, err);
    if (!status) status = trf_reader_classify(reads, &batch.source, &out, err);
    for (i = 0; i < trf_tensor_count(&out) && !status; i++) printf("%.9g\n", (double)p[i]);
    trf_reader_destroy(reads);
    return (int)status;
}

/* The logits of the first batch, or with `states` the encoder's. */
static int print_pass(const trf_model *model, int states, batch_reader *reader, trf_error *err)
{
    trf_reader *reads = NULL;
    trf_reading x;
    trf_tensor out;
    trf_batch batch;
    trf_status status;
    int64_t i;
    if (!next_batch(reader, &batch)) return 1;
    status = trf_reader_create(&reads, model, NULL, err);
    if (!status) status = trf_reader_read(reads, &batch, states ? TRF_READ_ENCODED : TRF_READ_LOGITS, NULL, &x, err);
    if (!status) out = states ? x.encoded : x.logits;
    for (i = 0; !status && i < trf_tensor_count(&out); i++) printf("%.9g\n", (double)out.data[i]);
    trf_reader_destroy(reads);
    return (int)status;
}

static int train(trf_model *model, const trf_train_options *training, batch_reader *reader, trf_error *err)
{
    trf_trainer *trainer = NULL;
    trf_step_report report;
    trf_batch batch;
    trf_status status = trf_trainer_create(&trainer, model, training, err);
    while (!status && next_batch(reader, &batch)) {
        status = trf_trainer_step(trainer, &batch, &report, err);
        if (!status) printf("%.12g %.12g %.12g %.12g\n", report.loss, report.gradient_norm, report.learning_rate,
                            report.sequence_loss);
    }
    trf_trainer_destroy(trainer);
    return (int)status;
}

static int search_all(const trf_model *model, const trf_search *search, batch_reader *reader, trf_error *err)
{
    trf_translator *translator = NULL;
    trf_batch batch;
    trf_status status = trf_translator_create(&translator, model, search, err);
    int32_t first = 0, i, k, t;
    for (; !status && next_batch(reader, &batch); first += batch.source.count) {
        const int prompts = trf_model_config(model)->kind == TRF_DECODER_ONLY;
        trf_translate_options o = {prompts ? NULL : &batch.target, NULL, 0};
        status = trf_translate(translator, prompts ? &batch.target : &batch.source, &o, err);
        for (i = 0; i < batch.source.count && !status; i++)
            for (k = 0; trf_translator_answer(translator, i, k); k++) {
                const trf_hypothesis *h = trf_translator_answer(translator, i, k);
                printf("%d %d %.9g %.9g", (int)(first + i), h->ended == TRF_ENDED_EOS, h->score, h->log_probability);
                for (t = 0; t < h->n; t++) printf(" %d", (int)h->ids[t]);
                printf("\n");
            }
    }
    trf_translator_destroy(translator);
    return (int)status;
}

static int print_ids(const trf_model *model, int target, FILE *lines, trf_error *err)
{
    static char line[65536];
    static int32_t ids[65536];
    const trf_vocab *vocab = target ? NULL : trf_model_vocab(model, TRF_SOURCE);
    int32_t n, i;
    if (!vocab) vocab = trf_model_vocab(model, TRF_TARGET);
    while (vocab && fgets(line, sizeof line, lines)) {
        line[strcspn(line, "\n")] = 0;
        if (trf_vocab_encode(vocab, line, 0, ids, 65536, &n, err)) return 1;
        for (i = 0; i < n; i++) printf("%s%d", i ? " " : "", (int)ids[i]);
        printf("\n");
    }
    return !vocab;
}

/* The rules of the search that samplers have too, at temperature 0; n_best does not matter. */
static int sample_all(const trf_model *model, const trf_search *search, batch_reader *reader, trf_error *err)
{
    trf_sampling s = trf_sampling_defaults();
    trf_sampler *sampler = NULL;
    trf_batch batch;
    trf_status status;
    int32_t first = 0, i, t;
    s.temperature = 0;
    s.allow_unk = 1;
    s.repetition_penalty = search->repetition_penalty;
    s.no_repeat_ngram = search->no_repeat_ngram;
    s.banned = search->banned;
    s.ends = search->ends;
    s.min_tokens = search->min_length;
    s.max_tokens = search->max_length_b;
    s.threads = 1;
    status = trf_sampler_create(&sampler, model, &s, err);
    for (; !status && next_batch(reader, &batch); first += batch.source.count) {
        status = trf_sampler_begin(sampler, &batch, err);
        if (!status) status = trf_sampler_step(sampler, INT32_MAX, NULL, err);
        for (i = 0; i < batch.source.count && !status; i++) {
            const trf_hypothesis *h = trf_sampler_answer(sampler, i);
            printf("%d %d %.9g %.9g", (int)(first + i), h->ended == TRF_ENDED_EOS, h->score, h->log_probability);
            for (t = 0; t < h->n; t++) printf(" %d", (int)h->ids[t]);
            printf("\n");
        }
    }
    trf_sampler_destroy(sampler);
    return (int)status;
}

int main(int argc, char **argv)
{
    settings s;
    trf_error err;
    trf_model *model = NULL;
    trf_load_options options = trf_load_defaults();
    batch_reader *reader = (batch_reader *)calloc(1, sizeof *reader);
    int failed = 1, create = argc == 4 && !strcmp(argv[1], "create");
    memset(&err, 0, sizeof err);
    if (!reader || !(create || argc == 5) || !read_settings(&s, argv[2])) {
        fprintf(stderr,
            "usage: parity create CONFIG MODEL | parity logits|encode|classify|train|search|sample|ids|target_ids CONFIG "
                        "MODEL BATCHES\n");
        free(reader);
        return 2;
    }
    if (create) {
        failed = trf_model_create(&model, &s.config, NULL, &err) || trf_model_save(model, argv[3], NULL, &err);
    } else {
        options.config = &s.config;
        options.device = s.config.device;
        reader->f = fopen(argv[4], "r");
        if (reader->f && !trf_model_load(&model, argv[3], &options, &err))
            failed = !strcmp(argv[1], "train") ? train(model, &s.training, reader, &err)
                   : !strcmp(argv[1], "search") ? search_all(model, &s.search, reader, &err)
                   : strstr(argv[1], "ids") ? print_ids(model, *argv[1] == 't', reader->f, &err)
                   : !strcmp(argv[1], "classify") ? print_labels(model, reader, &err)
                   : !strcmp(argv[1], "sample") ? sample_all(model, &s.search, reader, &err)
                   : print_pass(model, !strcmp(argv[1], "encode"), reader, &err);
        if (reader->f) fclose(reader->f);
    }
    if (failed) fprintf(stderr, "%s: %s\n", trf_status_name((trf_status)err.status), err.message);
    trf_model_destroy(model);
    free(reader);
    return failed != 0;
}

/* checkpointing.c - what do activations cost, and what does recomputing them save?

   Gradient checkpointing (trf_train_options.recompute) keeps only each layer's output, and the
   backward pass computes the rest again. Tutorials claim that it saves memory and costs some time.
   They also claim that the memory and the time of attention grow with the square of the length, and
   that a sequence of 100 tokens takes about as long as one of 10.

   Memory is trf_trainer_memory, which is exact. Time is the processor time of all threads, for the
   fastest of several updates. */
#include "study.h"

static const char *const part_names[] = {"kept", "recomputed"};

struct cost { double megabytes, milliseconds, loss; uint64_t bits; };

/* FNV-1a over all weights: two training runs are the same if these numbers are. */
static uint64_t bits_of(const trf_model *model)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    int32_t i;
    for (i = 0; i < trf_model_parameter_count(model); i++) {
        trf_tensor w = trf_model_parameter(model, i);
        const unsigned char *p = (const unsigned char *)w.data;
        size_t n = (size_t)trf_tensor_count(&w) * sizeof *w.data;
        for (; n; n--) hash = (hash ^ *p++) * UINT64_C(0x100000001B3);
    }
    return hash;
}

/* Some updates on sequences of `length` tokens, `tokens` in all on each side. */
static struct cost train(struct study *s, int layers, int length, int tokens, int recompute)
{
    int32_t *ids = (int32_t *)study_memory(s, (size_t)tokens * sizeof *ids);
    int32_t *lengths = (int32_t *)study_memory(s, (size_t)(tokens / length) * sizeof *lengths), i;
    trf_config c = trf_config_preset(TRF_TINY);
    trf_train_options o = trf_train_defaults();
    trf_model *model = NULL;
    trf_trainer *trainer = NULL;
    trf_step_report report;
    trf_batch batch;
    struct cost cost = {0, 1e9, 0, 0};
    uint64_t random = 1;
    for (i = 0; i < tokens; i++) ids[i] = 4 + study_below(&random, 96);
    for (i = 0; i < tokens / length; i++) lengths[i] = length - 1;      /* and EOS or BOS */
    batch = study_batch(ids, ids, lengths, tokens / length);
    c.encoder_layers = c.decoder_layers = layers;
    c.source_vocab = c.target_vocab = 100;
    c.max_length = 4096;
    c.device.threads = s->threads;
    o.recompute = recompute;
    o.source_tokens = o.target_tokens = tokens;
    o.sequences = tokens / length;
    o.longest = length;
    trf_train_set_dropout(&o, 0.1);
    cost.megabytes = (double)trf_trainer_memory(&c, &o, NULL) / 1e6;
    STUDY_TRY(trf_model_create(&model, &c, NULL, &err));
    STUDY_TRY(trf_trainer_create(&trainer, model, &o, &err));
    for (i = 0; i < (s->quick ? 2 : 5); i++) {
        double start = study_cpu_seconds();
        STUDY_TRY(trf_trainer_step(trainer, &batch, &report, &err));
        cost.milliseconds = fmin(cost.milliseconds, 1e3 * (study_cpu_seconds() - start));
    }
    cost.loss = report.loss;
    cost.bits = bits_of(model);
    trf_trainer_destroy(trainer);
    trf_model_destroy(model);
    return cost;
}

static void checkpointing(struct study *s)
{
    static const int full[] = {1, 2, 4, 8, 12}, quick[] = {1, 4};
    const int *layers = s->quick ? quick : full;
    int n = s->quick ? STUDY_COUNT(quick) : STUDY_COUNT(full), i, k;
    double x[8], memory[2][8], time[2][8];
    struct curve curves[2][2];
    struct panel panels[2];
    study_columns(s, "layers a side | activations | trainer, MB | CPU ms per update | loss | "
                     "weights");
    for (i = 0; i < n; i++) {
        struct cost cost[2];
        x[i] = layers[i];
        for (k = 0; k < 2; k++) {
            cost[k] = train(s, layers[i], 32, s->quick ? 512 : 2048, k);
            memory[k][i] = cost[k].megabytes;
            time[k][i] = cost[k].milliseconds;
            study_row(s, "%d | %s | %.1f | %.1f | %.9f | %016llx", layers[i], part_names[k],
                      cost[k].megabytes, cost[k].milliseconds, cost[k].loss,
                      (unsigned long long)cost[k].bits);
        }
        study_must(s, cost[0].bits == cost[1].bits && cost[0].loss == cost[1].loss,
                   "both ways train to the same bits with %d layers", layers[i]);
        study_must(s, layers[i] == 1 || memory[1][i] < memory[0][i], "memory is saved");
    }
    for (k = 0; k < 2; k++) {
        for (i = 0; i < 2; i++) {
            curves[k][i] = study_curve(part_names[i], x, k ? time[i] : memory[i], n);
        }
        panels[k] = study_panel(k ? "processor time of an update" : "memory of the trainer",
                                "layers a side", k ? "ms" : "MB", curves[k], 2);
        panels[k].from_zero = 1;
    }
    study_curves(s, "", panels, 2, 2);
    study_claim(s, "gradient checkpointing saves memory and costs time",
                time[1][n - 1] > time[0][n - 1] ? STUDY_YES : STUDY_UNDECIDED,
                "%d+%d layers: %.0f MB instead of %.0f, %.2f times the time, the same bits",
                layers[n - 1], layers[n - 1], memory[1][n - 1], memory[0][n - 1],
                time[1][n - 1] / time[0][n - 1]);
}

/* The same number of tokens in longer and longer sequences. */
static void lengths(struct study *s)
{
    static const int full[] = {10, 100, 500, 1000, 2000}, quick[] = {10, 100, 500};
    const int *length = s->quick ? quick : full;
    int n = s->quick ? STUDY_COUNT(quick) : STUDY_COUNT(full), tokens = length[n - 1], i;
    struct cost all[8], one[8];
    double power;
    study_table(s, "lengths", "length | sequences | trainer, MB | "
                              "CPU ms per update | CPU ms for one sequence");
    for (i = 0; i < n; i++) {
        all[i] = train(s, 4, length[i], tokens, 0);
        one[i] = train(s, 4, length[i], length[i], 0);
        study_row(s, "%d | %d | %.1f | %.1f | %.1f", length[i], tokens / length[i],
                  all[i].megabytes, all[i].milliseconds, one[i].milliseconds);
    }
    study_must(s, all[n - 1].megabytes < 1.5 * all[0].megabytes,
               "for as many tokens memory does not grow with the length");
    study_claim(s, "the memory of attention grows with the square of the length", STUDY_NO,
                "%d tokens in sequences of %d or of %d: %.0f and %.0f MB; no (n, n) matrix is kept",
                tokens, length[0], length[n - 1], all[0].megabytes, all[n - 1].megabytes);
    /* Of the same tokens, the time that does not depend on the length is that of the shortest. */
    power = 1 + log((all[n - 1].milliseconds - all[0].milliseconds) /
                    (all[n - 2].milliseconds - all[0].milliseconds)) /
                log((double)length[n - 1] / length[n - 2]);
    study_claim(s, "the time of attention grows with the square of the length",
                power > 1.7 && power < 2.3 ? STUDY_YES : STUDY_UNDECIDED,
                "with the power %s; the same tokens in sequences of %d take %.1f times as long "
                "as in sequences of %d",
                isfinite(power) ? study_spread(&power, 1, 2) : "unknown", length[n - 1],
                all[n - 1].milliseconds / all[0].milliseconds, length[0]);
    study_claim(s, "a sequence of 100 tokens trains as fast as one of 10",
                one[1].milliseconds < 2 * one[0].milliseconds ? STUDY_YES : STUDY_NO,
                "an update with one sequence: %.1f and %.1f ms on a CPU", one[1].milliseconds,
                one[0].milliseconds);
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "checkpointing", "memory and time of activations");
    checkpointing(&s);
    lengths(&s);
    return study_end(&s);
}

/* What session.c does with the transformer.h of 0.2.0 and tests/test_old_files.c does again with today's: goes on with a
   generator's session and with a checkpoint, and looks at masked tokens. One line for each result. */
#ifndef STEPS_H
#define STEPS_H

enum { STEPS_UPDATES = 6, STEPS_PAIRS = 40 };

static trf_status steps_fail(const trf_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return err->status;
}

/* The session of the model in the file `path`, to its end: log-probability, tab, ids of each sequence. */
static trf_status steps_generate(const trf_model *model, const char *path, FILE *out)
{
    trf_sampling sampling = trf_sampling_defaults();
    trf_sampler *generator = NULL;
    trf_error err;
    int32_t i, k, live = 1;
    sampling.threads = 1;
    if (trf_sampler_create(&generator, model, &sampling, &err)) return steps_fail(&err);
    if (trf_sampler_load(generator, path, &err)) { trf_sampler_destroy(generator); return steps_fail(&err); }
    while (live) {
        if (trf_sampler_step(generator, 4, &live, &err)) { trf_sampler_destroy(generator); return steps_fail(&err); }
    }
    for (i = 0; i < 3; i++) {
        const trf_hypothesis *h = trf_sampler_answer(generator, i);
        fprintf(out, "%.5f\t", h->log_probability);
        for (k = 0; k < h->n; k++) fprintf(out, " %d", (int)h->ids[k]);
        fprintf(out, "\n");
    }
    trf_sampler_destroy(generator);
    return TRF_OK;
}

/* Pairs whose target is the source with every id one larger, the last id first. */
static trf_status steps_corpus(trf_corpus **corpus, trf_error *err)
{
    trf_corpus_options options = trf_corpus_defaults();
    uint32_t x = 9;
    int32_t i, k;
    options.batch_tokens = 40;
    options.seed = 4;
    if (trf_corpus_create(corpus, &options, err)) return err->status;
    for (i = 0; i < STEPS_PAIRS; i++) {
        int32_t source[5], target[5], n;
        x = x * 1664525u + 1013904223u;
        n = 1 + (int32_t)(x >> 16) % 5;
        for (k = 0; k < n; k++) {
            x = x * 1664525u + 1013904223u;
            source[k] = 4 + (int32_t)(x >> 16) % 8;
            target[n - 1 - k] = source[k] + 1;
        }
        if (trf_corpus_add(*corpus, source, n, target, n, err)) return err->status;
    }
    return TRF_OK;
}

/* The next updates: number, loss and learning rate of each. */
static trf_status steps_train(trf_trainer *trainer, trf_corpus *corpus, FILE *out)
{
    trf_error err;
    int32_t i;
    for (i = 0; i < STEPS_UPDATES; i++) {
        trf_batch batch;
        trf_step_report report;
        if (trf_corpus_next(corpus, &batch, &err) || trf_trainer_step(trainer, &batch, &report, &err)) return steps_fail(&err);
        fprintf(out, "%d\t%.6f\t%.6e\n", (int)report.step, report.loss, report.learning_rate);
    }
    return TRF_OK;
}

/* Each word of the lines in turn is the mask's: the id that the model puts there, and its logit. */
static trf_status steps_masked(const trf_model *model, const char *const *lines, int32_t n, FILE *out)
{
    const trf_vocab *vocab = trf_model_vocab(model, TRF_SOURCE);
    trf_search search = trf_search_defaults();
    trf_translator *translator = NULL;
    trf_error err;
    int32_t i, k, v, size = trf_vocab_size(vocab);
    search.threads = 1;
    if (trf_translator_create(&translator, model, &search, &err)) return steps_fail(&err);
    for (i = 0; i < n; i++) {
        int32_t ids[8], length, best;
        if (trf_vocab_encode(vocab, lines[i], 0, ids, 8, &length, &err)) goto failed;
        for (k = 0; k < length; k++) {
            const trf_real *logits;
            trf_batch batch;
            trf_reading seen;
            int32_t was = ids[k];
            memset(&batch, 0, sizeof batch);
            batch.source.ids = ids;
            batch.source.lengths = &length;
            batch.source.count = 1;
            ids[k] = trf_model_config(model)->pad;
            if (trf_reader_read(trf_translator_reader(translator), &batch, TRF_READ_LOGITS, NULL, &seen, &err)) goto failed;
            logits = seen.logits.data;
            for (best = v = 0; v < size; v++)
                if (logits[k * size + v] > logits[k * size + best]) best = v;
            fprintf(out, "%.4f\t%d\n", (double)logits[k * size + best], (int)best);
            ids[k] = was;
        }
    }
    trf_translator_destroy(translator);
    return TRF_OK;
failed:
    trf_translator_destroy(translator);
    return steps_fail(&err);
}

static const char *const steps_lines[] = {"seven eight", "two three four", "nine zero one two"};

#endif

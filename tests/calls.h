/* Public calls in the forms that suites use most. Include it after transformer.h. */
#ifndef CALLS_H
#define CALLS_H

#include <stdlib.h>
#include <string.h>

#define KIT_UNUSED __attribute__((unused))

/* Files in memory, and weights of other formats, in one line. */
static KIT_UNUSED trf_status kit_save_as(const trf_model *model, const char *path, trf_weights weights,
                                         trf_error *err)
{
    trf_save_options o = {TRF_WEIGHTS_FULL, NULL, 0, NULL};
    o.weights = weights;
    return trf_model_save(model, path, &o, err);
}
static KIT_UNUSED trf_status kit_save_memory(const trf_model *model, trf_weights weights, void *buffer, size_t size,
                                             size_t *bytes, trf_error *err)
{
    trf_save_options o;
    o.weights = weights;
    o.memory = buffer;
    o.size = size;
    o.bytes = bytes;
    return trf_model_save(model, NULL, &o, err);
}
static KIT_UNUSED trf_load_options kit_from_memory(const void *bytes, size_t n, const trf_load_options *options)
{
    trf_load_options o = options ? *options : trf_load_defaults();
    o.memory = bytes;
    o.memory_bytes = n;
    return o;
}
static KIT_UNUSED trf_status kit_load_memory(trf_model **model, const void *bytes, size_t n,
                                             const trf_load_options *options, trf_error *err)
{
    trf_load_options o = kit_from_memory(bytes, n, options);
    return trf_model_load(model, NULL, &o, err);
}
static KIT_UNUSED trf_status kit_open_memory(trf_file **file, const void *bytes, size_t n,
                                             const trf_load_options *options, trf_error *err)
{
    trf_load_options o = kit_from_memory(bytes, n, options);
    return trf_file_open(file, NULL, &o, err);
}

/* A vocabulary of the bytes of a file. */
static KIT_UNUSED trf_status kit_vocab_of(trf_vocab **vocab, const void *file, size_t bytes, const trf_piece_ids *ids,
                                          const trf_hooks *hooks, trf_error *err)
{
    trf_vocab_options o;
    memset(&o, 0, sizeof o);
    o.memory = file;
    o.memory_bytes = bytes;
    o.ids = ids;
    if (hooks) o.hooks = *hooks;
    return trf_vocab_load(vocab, NULL, &o, err);
}
/* Bytes of a model, or 0. */
static KIT_UNUSED size_t kit_model_memory(const trf_config *config)
{
    trf_model_size size;
    (void)!trf_config_check(config, &size, NULL);
    return size.memory;
}
static KIT_UNUSED trf_status kit_create_zeros(trf_model **model, const trf_config *config, trf_error *err)
{
    trf_model_options options = {1, 0, 0};
    return trf_model_create(model, config, &options, err);
}
static KIT_UNUSED trf_status kit_create_stage(trf_model **model, const trf_config *config, int32_t first, int32_t end,
                                              trf_error *err)
{
    trf_model_options options = {0, 0, 0};
    options.first_layer = first;
    options.end_layer = end;
    return trf_model_create(model, config, &options, err);
}

/* A corpus of a token file. */
static KIT_UNUSED trf_status kit_corpus_open(trf_corpus **corpus, const char *path, const trf_vocab *source_vocab,
                                             const trf_vocab *target_vocab, const trf_corpus_options *options,
                                             trf_error *err)
{
    trf_corpus_options o = options ? *options : trf_corpus_defaults();
    o.path = path;
    o.source_vocab = source_vocab;
    o.target_vocab = target_vocab;
    return trf_corpus_create(corpus, &o, err);
}

#if !defined(TRF_NO_TRAIN)
/* Evaluates a batch in one piece, with limits that it just fits into; they return afterwards. */
static KIT_UNUSED trf_status kit_evaluate_whole(trf_trainer *trainer, const trf_batch *batch, trf_step_report *report,
                                                trf_error *err)
{
    const trf_train_options own = *trf_trainer_options(trainer);
    trf_train_options wide = own;
    trf_status status;
    int32_t i;
    wide.source_tokens = wide.target_tokens = 1;
    for (i = 0; i < batch->source.count; i++) wide.source_tokens += batch->source.lengths[i] + 1;
    for (i = 0; i < batch->target.count; i++) wide.target_tokens += batch->target.lengths[i] + 1;
    wide.sequences = batch->source.count > batch->target.count ? batch->source.count : batch->target.count;
    status = trf_trainer_set_options(trainer, &wide, err);
    if (status == TRF_OK) status = trf_trainer_evaluate(trainer, batch, NULL, report, err);
    if (status == TRF_OK) status = trf_trainer_set_options(trainer, &own, err);
    return status;
}
static KIT_UNUSED void kit_rewind(trf_corpus *corpus)
{
    trf_status status = trf_corpus_resume(corpus, NULL, NULL);
    (void)status;
}
/* Updates so far. */
static KIT_UNUSED int64_t kit_updates(const trf_trainer *trainer)
{
    trf_step_report report;
    return trf_trainer_report(trainer, &report, NULL) == TRF_OK ? report.step : 0;
}
#endif

/* Numbers of tensors and of texts. */
static KIT_UNUSED int32_t kit_file_tensors(const trf_file *file)
{
    int32_t n = 0;
    while (trf_file_at(file, n).name) n++;
    return n;
}
static KIT_UNUSED int32_t kit_file_texts(const trf_file *file)
{
    int32_t n = 0;
    while (trf_file_metadata_at(file, n, NULL, NULL)) n++;
    return n;
}
static KIT_UNUSED int32_t kit_model_texts(const trf_model *model)
{
    int32_t n = 0;
    while (trf_model_metadata_at(model, n, NULL, NULL)) n++;
    return n;
}

/* One sequence; the best answer. */
static KIT_UNUSED trf_status kit_translate(trf_translator *t, const int32_t *source, int32_t n_source,
                                           int32_t *target, int32_t capacity, int32_t *n, trf_error *err)
{
    trf_sequences one;
    const trf_hypothesis *best;
    trf_status status;
    one.ids = source;
    one.lengths = &n_source;
    one.count = 1;
    *n = 0;
    status = trf_translate(t, &one, NULL, err);
    if (status != TRF_OK) return status;
    best = trf_translator_answer(t, 0, 0);
    *n = best->n;
    if (best->n > capacity) return TRF_E_LIMIT;
    if (best->n > 0) memcpy(target, best->ids, (size_t)best->n * sizeof *target);
    return TRF_OK;
}
static KIT_UNUSED trf_status kit_translate_with(trf_translator *t, const trf_sequences *sources,
                                                const trf_sequences *prefixes, const trf_requirements *required,
                                                int32_t each, trf_error *err)
{
    trf_translate_options o;
    o.prefixes = prefixes;
    o.required = required;
    o.each = each;
    return trf_translate(t, sources, &o, err);
}

static KIT_UNUSED int32_t kit_count(const trf_translator *t, int32_t sentence)
{
    int32_t n = 0;
    while (trf_translator_answer(t, sentence, n)) n++;
    return n;
}

/* Rows of sequences: their ids, and what the model adds. */
static KIT_UNUSED int64_t kit_rows(const trf_sequences *x, int32_t added)
{
    int64_t rows = 0;
    int32_t i;
    for (i = 0; i < x->count; i++) rows += (int64_t)x->lengths[i] + added;
    return rows;
}
static KIT_UNUSED int64_t kit_source_rows(const trf_model *model, const trf_sequences *x)
{
    const trf_config *c = trf_model_config(model);
    return kit_rows(x, c->source_bos + c->source_eos);
}
static KIT_UNUSED int64_t kit_target_rows(const trf_model *model, const trf_sequences *x)
{
    return kit_rows(x, trf_model_config(model)->target_eos);
}

/* One tensor of a forward pass, copied to the caller's, whose shape must be its own. */
static KIT_UNUSED trf_status kit_read(trf_translator *t, const trf_batch *batch, int32_t what,
                                      const trf_read_from *from, trf_tensor *out, trf_error *err)
{
    trf_reading seen;
    const trf_tensor *x = what == TRF_READ_ENCODED ? &seen.encoded
                        : what == TRF_READ_DECODED ? &seen.decoded : &seen.logits;
    trf_status status = trf_reader_read(trf_translator_reader(t), batch, what, from, &seen, err);
    if (status != TRF_OK) return status;
    if (x->rank != out->rank || memcmp(x->shape, out->shape, sizeof x->shape)) return TRF_E_SHAPE;
    if (trf_tensor_count(x) > 0) memcpy(out->data, x->data, (size_t)trf_tensor_count(x) * sizeof *x->data);
    return TRF_OK;
}
static KIT_UNUSED trf_status kit_encode(trf_translator *t, const trf_sequences *sources, trf_tensor *out,
                                        trf_error *err)
{
    trf_batch batch;
    memset(&batch, 0, sizeof batch);
    if (sources) batch.source = *sources;
    return kit_read(t, sources ? &batch : NULL, TRF_READ_ENCODED, NULL, out, err);
}
static KIT_UNUSED trf_status kit_logits(trf_translator *t, const trf_batch *batch, trf_tensor *out, trf_error *err)
{
    return kit_read(t, batch, TRF_READ_LOGITS, NULL, out, err);
}
static KIT_UNUSED trf_status kit_decode(trf_translator *t, const trf_tensor *memory, const int32_t *lengths,
                                        const trf_sequences *targets, trf_tensor *out, trf_error *err)
{
    trf_batch batch;
    trf_read_from from;
    memset(&batch, 0, sizeof batch);
    memset(&from, 0, sizeof from);
    if (targets) batch.target = *targets;
    from.memory = memory;
    from.memory_lengths = lengths;
    return kit_read(t, targets ? &batch : NULL, TRF_READ_DECODED, &from, out, err);
}
static KIT_UNUSED trf_status kit_project(trf_translator *t, const trf_tensor *states, trf_tensor *out, trf_error *err)
{
    trf_read_from from;
    memset(&from, 0, sizeof from);
    from.states = states;
    return kit_read(t, NULL, TRF_READ_LOGITS, &from, out, err);
}

/* Several models. */
static KIT_UNUSED trf_ensemble kit_ensemble(const trf_model *const *models, const double *weights, int32_t n,
                                            trf_ensemble_rule rule)
{
    trf_ensemble e;
    e.models = models;
    e.weights = weights;
    e.n = n;
    e.rule = rule;
    return e;
}
static KIT_UNUSED trf_status kit_translator_ensemble(trf_translator **t, const trf_model *const *models,
                                                     const double *weights, int32_t n, const trf_search *search,
                                                     trf_error *err)
{
    trf_search s = search ? *search : trf_search_defaults();
    s.ensemble = kit_ensemble(models, weights, n, s.ensemble.rule);
    return trf_translator_create(t, NULL, &s, err);
}
static KIT_UNUSED trf_status kit_sampler_ensemble(trf_sampler **g, const trf_model *const *models,
                                                  const double *weights, int32_t n, const trf_sampling *sampling,
                                                  trf_error *err)
{
    trf_sampling s = sampling ? *sampling : trf_sampling_defaults();
    s.ensemble = kit_ensemble(models, weights, n, s.ensemble.rule);
    return trf_sampler_create(g, NULL, &s, err);
}
static KIT_UNUSED trf_status kit_score_each(trf_translator *t, const trf_sequences *sources,
                                            const trf_sequences *targets, double *out, trf_error *err)
{
    trf_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.target = *targets;
    return trf_reader_score(trf_translator_reader(t), &batch, sources, out, err);
}

#if !defined(TRF_NO_TRAIN)
static KIT_UNUSED trf_status kit_checkpoint_save_memory(const trf_trainer *trainer, const trf_corpus *corpus,
                                                        void *buffer, size_t size, size_t *bytes, trf_error *err)
{
    trf_save_options o = {TRF_WEIGHTS_FULL, NULL, 0, NULL};
    o.memory = buffer;
    o.size = size;
    o.bytes = bytes;
    return trf_checkpoint_save(trainer, corpus, NULL, &o, err);
}
static KIT_UNUSED trf_status kit_checkpoint_load_memory(trf_model **model, trf_trainer **trainer, trf_corpus *corpus,
                                                        const void *bytes, size_t n,
                                                        const trf_train_options *training,
                                                        const trf_load_options *options, trf_error *err)
{
    trf_load_options o = kit_from_memory(bytes, n, options);
    return trf_checkpoint_load(model, trainer, corpus, NULL, training, &o, err);
}
#endif

#endif

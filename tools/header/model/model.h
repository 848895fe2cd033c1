#pragma once
#include "api/version.h"
#include "api/basics.h"
#include "api/config.h"
#include "api/model.h"
#include "api/stages.h"
#include "base/impl.h"
#include "base/errors.h"
#include "base/memory.h"
#include "ops/ops.h"
#include "cpu/state.h"
#include "device/backend.h"
#include "device/tensors.h"
#include "system/files.h"
#include "text/vocab.h"
#include "text/vocab_learn.h"
#include "model/checks.h"
#include "model/config.h"
#include "model/params.h"

// -----------------------------------------------------------------------------------------------
// >>model          configuration + weights + vocabularies
//
// The object behind trf_model: a checked configuration, the layout of its parameters, one arena of
// weights, copies of the vocabularies and of the program's own texts. It is made in two stages
// (frame, then weights), so that a file is proven to fit before any memory for weights is asked for
// (>>store).
// -----------------------------------------------------------------------------------------------

typedef struct trf__meta { const char *key, *value; } trf__meta;     /* a text of the metadata */

/* Limits of the program's own texts, and of those that a file brings: ours (at most 8,000) can be
   saved beside them. */
enum { TRF__META_KEY = 255, TRF__META_BYTES = 1 << 20, TRF__META_MOST = 65000,
       TRF__META_LOADED_BYTES = 8 << 20, TRF__META_LOADED = 120000 };

struct trf_model {
    trf_config config;
    trf__layout layout;
    trf__run run;               /* where the weights are */
    trf_real *weights;          /* layout.n_weights numbers on the device */
    void *packed; size_t packed_bytes;      /* packed alone (trf_model_pack), in layout.format */
    void *map; size_t map_bytes;    /* the file that both lie in, or NULL (>>store-packed) */
    trf_vocab *source, *target; /* copies, or NULL */
    trf__meta *metadata;        /* the program's entries, sorted by key; then their texts */
    size_t metadata_bytes;      /* of it all; 0: NULL */
    int32_t n_metadata;
};

/* Bytes of an arena: of weights, of gradients. */
TRF__FN size_t trf__arena_bytes(const trf__layout *layout)
{
    return trf__bytes(layout->n_weights, sizeof(trf_real));
}

/* The layout goes last: it says how large the arenas are. */
TRF_API void trf_model_destroy(trf_model *model)
{
    if (!model) return;
    trf_hooks hooks = model->config.hooks;
    trf_vocab_destroy(model->source);
    trf_vocab_destroy(model->target);
    trf__free(&hooks, model->metadata, model->metadata_bytes);
    if (model->map) TRF_OS(unmap)(model->map, model->map_bytes);
    else {
        model->run.backend->release(&model->run, model->weights, trf__arena_bytes(&model->layout));
        if (model->packed)
            model->run.backend->release(&model->run, model->packed, model->packed_bytes);
    }
    TRF__FREE(&hooks, model->layout.params, model->layout.n_params);
    TRF__FREE(&hooks, model->layout.specs, model->layout.n_parts);
    trf__free(&hooks, model, sizeof *model);
}

/* Bytes of a model with this layout: its object, its lists and its floats. */
TRF__FN size_t trf__layout_memory(const trf__layout *layout)
{
    return trf__add_size(trf__arena_bytes(layout),
                         sizeof(trf_model) + trf__bytes(layout->n_params, sizeof(trf__param))
                         + trf__bytes(layout->n_parts, sizeof(trf__sublayer_spec)));
}

// >>model-counts   weights and operations of a configuration

/* Numbers of a matrix and its bias. */
TRF__FN int64_t trf__affine_size(const trf__affine *a)
{
    return a->out * a->in + (a->biased ? a->out : 0);
}

/* Counts by the layout, not by a second formula, so the counts cannot differ from a model's. */
TRF_API trf_status trf_config_check(const trf_config *config, trf_model_size *size, trf_error *err)
{
    const trf_config *c = config;
    trf__layout layout;
    const trf__model_params *at = &layout.model;
    TRF__ZEROED(trf_model_size, n);
    if (size) *size = n;
    TRF__TRY(trf__config_check(c, err));
    if (!size) return TRF_OK;
    TRF__ZERO(layout);
    trf__lay_out(&layout, c);
    int64_t d = c->d_model, norm = d * (1 + trf__norm_has_bias(c));
    for (int stack = 0; stack < 2; stack++) {
        int64_t *norms = stack ? &n.decoder_norms : &n.encoder_norms;
        for (int i = 0; i < trf__n_sublayers(c, stack); i++) {
            trf__sublayer_spec part = trf__sublayer_spec_of(c, stack, i);
            int64_t *to = part.kind == TRF__CROSS ? &n.cross_attention
                        : part.kind == TRF__SELF ? (stack ? &n.decoder_attention
                                                    : &n.encoder_attention)
                                                 : (stack ? &n.decoder_feed_forward
                                                    : &n.encoder_feed_forward);
            *to += trf__affine_size(&part.in) + trf__affine_size(&part.out);
            *norms += norm;
        }
        if (at->embed_norm[stack].gain >= 0) *norms += norm;
        if (at->final_norm[stack].gain >= 0) *norms += norm;
    }
    int64_t vocab = trf__n_logits(c);
    int64_t source = at->embed[0].w, target = at->embed[1].w, w = at->generator.w;
    n.source_embedding = source >= 0 ? c->source_vocab * d : 0;
    n.target_embedding = target >= 0 && target != source ? c->target_vocab * d : 0;
    n.positions = ((at->positions[0] >= 0) + (at->positions[1] >= 0)) * d
                * (c->max_length + (int64_t)c->position_offset) + c->segments * d
                + ((at->distances[0] >= 0) + (at->distances[1] >= 0))
                * (int64_t)c->relative_buckets * c->n_heads;
    n.generator = (w >= 0 && w != source && w != target) * vocab * d +
        (at->generator.b >= 0 ? vocab : 0) +
        trf__affine_size(&at->head_layer) + (at->head_norm.gain >= 0 ? norm : 0) +
        trf__affine_size(&at->sequence_layer) + trf__affine_size(&at->sequence_head);
    n.total = n.source_embedding + n.target_embedding + n.positions + n.encoder_attention +
        n.encoder_feed_forward + n.encoder_norms + n.decoder_attention + n.cross_attention +
        n.decoder_feed_forward + n.decoder_norms + n.generator;
    n.memory = trf__layout_memory(&layout);
    *size = n;
    return TRF_OK;
}

/* Operations of the products of one sublayer: `rows` are its own rows, `keys` the rows that
   cross-attention reads. */
TRF__FN void trf__sublayer_flops(const trf__sublayer_spec *part, double rows, double keys,
                                 double *projections, double *attention, double *forward)
{
    double in = (double)part->in.out * (double)part->in.in;
    double out = (double)part->out.out * (double)part->out.in;
    double width = (double)part->q_width, q = width * (double)part->in.in;
    double pairs = part->causal ? rows * (rows + 1) / 2 : rows * keys;
    if (part->kind == TRF__FEED_FORWARD) { *forward += 2 * (in + out) * rows; return; }
    if (part->kind == TRF__CROSS)
        *projections += 2 * (q * rows + (in - q) * keys + out * rows);
    else *projections += 2 * (in + out) * rows;
    *attention += 2 * 2 * width * pairs;
}

/* A product (m, k) (k, n) is 2 m k n operations. Norms, softmax and activations are left out: they
   are below a percent. */
TRF_API trf_status trf_count_flops(const trf_config *config, int64_t source_rows,
                                   int64_t target_rows, trf_flop_counts *counts, trf_error *err)
{
    const trf_config *c = config;
    double s = (double)source_rows, t = (double)target_rows;
    TRF__TRY(trf__begin(counts, "counts", err));
    memset(counts, 0, sizeof *counts);
    if (!c) return trf__fail_null(err, "config");
    TRF__TRY(trf__config_check(c, err));
    TRF__TRY(trf__check_field(c, "source_rows", s, 0, trf__has_source(c) ? c->max_length : 0, err));
    TRF__TRY(trf__check_field(c, "target_rows", t, 0, trf__has_target(c) ? c->max_length : 0, err));
    TRF__ZEROED(trf_flop_counts, n);
    for (int stack = 0; stack < 2; stack++)
        for (int i = 0; i < trf__n_sublayers(c, stack); i++) {
            trf__sublayer_spec part = trf__sublayer_spec_of(c, stack, i);
            if (!stack)
                trf__sublayer_flops(&part, s, s, &n.encoder_projections, &n.encoder_attention,
                                &n.encoder_feed_forward);
            else if (part.kind == TRF__CROSS)
                trf__sublayer_flops(&part, t, s, &n.cross_projections, &n.cross_attention,
                                &n.decoder_feed_forward);
            else trf__sublayer_flops(&part, t, t, &n.decoder_projections, &n.decoder_attention,
                                 &n.decoder_feed_forward);
        }
    double logits = trf__has_target(c) ? t : !c->head ? 0 : trf__pools(c) ? (double)(s > 0) : s;
    n.generator = 2 * (double)c->d_model *
        ((double)trf__n_logits(c) + (c->head_layer ? c->d_model : 0)) * logits;
    if (c->sequence_labels && s > 0)
        n.generator += 2 * (double)c->d_model *
            ((double)c->sequence_labels + (c->head_layer ? c->d_model : 0));
    n.total = n.encoder_projections + n.encoder_attention + n.encoder_feed_forward +
        n.decoder_projections + n.decoder_attention + n.cross_projections + n.cross_attention +
        n.decoder_feed_forward + n.generator;
    *counts = n;
    return TRF_OK;
}

// >>model-create   an arena with its first values

/* A model without weights: configuration, names, offsets of layers first..end-1; end 0: all. */
TRF__FN trf_status trf__stage_without_weights(trf_model **out, const trf_config *config,
                                              int32_t first, int32_t end, trf_error *err)
{
    trf_model *model;
    *out = NULL;
    TRF__ZEROED(trf__layout, count);
    count.first = first;
    count.end = end;
    trf__lay_out(&count, config);
    TRF__ALLOC_ZEROED(trf_model, model, &config->hooks, 1, "model", "for a model");
    model->config = *config;
    model->run = trf__run_on(&config->device, &config->hooks);
    model->layout = count;
    model->layout.params = TRF__NEW_ZEROED(trf__param, &config->hooks, count.n_params);
    model->layout.specs = TRF__NEW_ZEROED(trf__sublayer_spec, &config->hooks, count.n_parts);
    if (!model->layout.params || !model->layout.specs) {
        trf_model_destroy(model);
        return trf__fail(err, TRF_E_NOMEM, -1, "model", "no memory for the names of %d parameters",
                         count.n_params);
    }
    trf__lay_out(&model->layout, config);
    *out = model;
    return TRF_OK;
}

/* Allocates the parameters. The caller writes them all. The padding of rows is zero. */
TRF__FN trf_status trf__model_weights(trf_model *model, trf_error *err)
{
    const trf__run *run = &model->run;
    int64_t n = model->layout.n_weights;
    model->weights = (trf_real *)run->backend->alloc(run, trf__bytes(n, sizeof(trf_real)));
    TRF__FAIL_IF(!model->weights, TRF_E_NOMEM, -1, "weights", "no memory for %lld weights",
                 (long long)n);
    for (int32_t i = model->layout.n_params; i-- > 0; ) {
        const trf__param *p = &model->layout.params[i];
        if (p->offset < 0) continue;                    /* it is packed elsewhere */
        int64_t end = p->offset + trf__param_size(p);
        if (end < n)
            run->backend->zero(run, model->weights + end, trf__bytes(n - end, sizeof(trf_real)));
        n = p->offset;
    }
    return TRF_OK;
}

/* If making a model failed, destroys it. */
TRF__FN trf_status trf__model_or_destroy(trf_model **model, trf_status status)
{
    if (status == TRF_OK) return TRF_OK;
    trf_model_destroy(*model);
    *model = NULL;
    return status;
}

/* With memory for weights, which are not written yet. */
TRF__FN trf_status trf__stage_new(trf_model **out, const trf_config *config, int32_t first,
                                  int32_t end, trf_error *err)
{
    TRF__TRY(trf__stage_without_weights(out, config, first, end, err));
    return trf__model_or_destroy(out, trf__model_weights(*out, err));
}

/* A new model's warning, if it computes with this file's own ops, which were compiled slow. */
TRF__FN void trf__warn_if_slow(const trf_model *model)
{
    if (TRF__SLOW && model->run.backend == &trf__cpu_backend)
        trf__log(&model->config.hooks, TRF_LOG_WARNING,
                 "transformer.h was compiled without optimisation; with -O2 it is many times "
                 "faster");
}

/* Weights are drawn on the host, a chunk at a time, so that every device starts from the same bits.
   A stage draws those of its parameters in the whole model. */
TRF__FN void trf__draw_weights(const trf_model *m)
{
    trf_real chunk[1024];
    for (int32_t i = 0; i < m->layout.n_params; i++) {
        const trf__param *p = &m->layout.params[i];
        int64_t n, size = trf__param_size(p);
        for (int64_t at = 0; at < size; at += n) {
            n = trf__min64(size - at, (int64_t)(sizeof chunk / sizeof *chunk));
            trf__initialise(chunk, at, n, p, (uint32_t)p->number, &m->config);
            m->run.backend->upload(&m->run, m->weights + p->offset + at, chunk,
                                   (size_t)n * sizeof *chunk);
        }
    }
}

/* The layers of a stage. */
TRF__FN trf_status trf__check_layers(const trf_config *c, int64_t first, int64_t end,
                                     trf_error *err)
{
    int32_t layers = c->encoder_layers + c->decoder_layers;
    TRF__TRY(trf__check_range("first_layer", (double)first, 0, layers - 1, err));
    return trf__check_range("end_layer", (double)end, (double)first + 1, layers, err);
}

TRF_API trf_status trf_model_create(trf_model **model, const trf_config *config,
                                    const trf_model_options *options, trf_error *err)
{
    TRF__BEGIN_NEW(model);
    if (!config) return trf__fail_null(err, "config");
    TRF__TRY(trf__config_check(config, err));
    TRF__ZEROED(trf_model_options, o);
    if (options) o = *options;
    TRF__TRY(trf__check_range("zeros", o.zeros, 0, 1, err));
    if (o.first_layer || o.end_layer)
        TRF__TRY(trf__check_layers(config, o.first_layer, o.end_layer, err));
    if (o.end_layer - o.first_layer == config->encoder_layers + config->decoder_layers)
        o.end_layer = 0;
    TRF__TRY(trf__stage_new(model, config, o.first_layer, o.end_layer, err));
    const trf_model *m = *model;
    if (!o.zeros) trf__draw_weights(m);
    else m->run.backend->zero(&m->run, m->weights, trf__arena_bytes(&m->layout));
    TRF__TRY(trf__model_or_destroy(model, m->run.backend->sync(&m->run, err)));
    trf__warn_if_slow(m);
    return TRF_OK;
}

TRF_API const trf_config *trf_model_config(const trf_model *model)
{
    return model ? &model->config : NULL;
}
TRF_API const trf_vocab *trf_model_vocab(const trf_model *model, trf_side side)
{
    if (!model || (side != TRF_SOURCE && side != TRF_TARGET)) return NULL;
    return side == TRF_SOURCE ? model->source : model->target;
}
TRF_API int32_t trf_model_parameter_count(const trf_model *model)
{
    return model ? model->layout.n_params : 0;
}

TRF_API int64_t trf_model_parameter_total(const trf_model *model)
{
    int64_t total = 0;
    for (int32_t i = 0; i < trf_model_parameter_count(model); i++)
        total += trf__param_size(&model->layout.params[i]);
    return total;
}

/* Parameter number `index` inside any arena of the model's layout, on the device of `run`. */
TRF__FN trf_tensor trf__param_view(const trf_model *model, const trf__run *run, trf_real *arena,
                                   int32_t index)
{
    trf_tensor tensor = trf_tensor_of(NULL, 1, 0, 1, 1);
    if (index >= 0 && index < trf_model_parameter_count(model)) {
        const trf__param *p = &model->layout.params[index];
        tensor = trf_tensor_of(NULL, p->rank, p->shape[0], p->shape[1], 1);
        tensor.name = p->name;
        if (p->offset < 0 || model->map) return tensor;
        tensor.data = (trf_real *)trf__shared_address(run, arena + p->offset);
        tensor.device = run;
        tensor.device_data = arena + p->offset;
    }
    return tensor;
}

/* Numbers of an arena of the model's device. */
TRF__FN trf_status trf__arena_get(const trf_model *model, const trf_real *arena, int64_t first,
                                  trf_real *to, int64_t n, trf_error *err)
{
    model->run.backend->download(&model->run, to, arena + first, (size_t)n * sizeof *to);
    return model->run.backend->sync(&model->run, err);
}
TRF__FN void trf__arena_put(const trf_model *model, trf_real *arena, int64_t first,
                            const trf_real *from, int64_t n)
{
    model->run.backend->upload(&model->run, arena + first, from, (size_t)n * sizeof *from);
}

TRF_API trf_tensor trf_model_parameter(const trf_model *model, int32_t index)
{
    return trf__param_view(model, model ? &model->run : NULL, model ? model->weights : NULL, index);
}

TRF_API int32_t trf_model_parameter_index(const trf_model *model, const char *name)
{
    return model && name ? trf__param_named(&model->layout, name) : -1;
}

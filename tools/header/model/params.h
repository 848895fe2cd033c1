#pragma once
#include "api/basics.h"
#include "api/config.h"
#include "base/impl.h"
#include "base/memory.h"
#include "base/vector.h"
#include "ops/ops.h"
#include "device/backend.h"
#include "model/checks.h"

// -----------------------------------------------------------------------------------------------
// >>params         which weights a model has: names, shapes, first values, places
//
// All parameters lie in one arena: those of the table below, the final norms, then each layer's
// sublayers, each at a multiple of 16 numbers. Gradients, Adam's moments and weights in 16 bits are
// arenas of the same layout: one offset finds a parameter in all of them. Packed matrices (formats,
// in >>formats) have places of their own. Layers and final norms have the names and shapes of
// PyTorch's nn.Transformer. d = d_model. Two parameters that are tied are one, with the same
// offset.
// -----------------------------------------------------------------------------------------------

/* How a parameter starts: uniform +-sqrt(6 / (in + out)) for matrices, and so on (trf__initialise).
   BIAS is that of a matrix with d_model columns, OUT_BIAS of attention's output projection,
   INNER_BIAS of a matrix with d_ff columns, ZERO that of a norm. */
enum {
    TRF__START_MATRIX, TRF__START_QKV, TRF__START_GATED, TRF__START_BIAS, TRF__START_OUT_BIAS,
    TRF__START_INNER_BIAS, TRF__START_ZERO, TRF__START_ONE, TRF__START_EMBEDDING,
    TRF__START_POSITIONS, TRF__START_GENERATOR, TRF__START_GENERATOR_BIAS
};

/* field, condition, which stages have it (in), name, rows, columns, first value */
#define TRF__MODEL_PARAMS(X) \
    X(embed[0].w,     source, trf__holds_source_embedding(c, in), \
      "src_embed.weight",     c->source_vocab, d, TRF__START_EMBEDDING) \
    X(embed[1].w,     target && !trf__shares_embedding(c), \
      in->embeds[1] || (in->projects && c->tying == TRF_TIED_DECODER), \
      "tgt_embed.weight",     c->target_vocab, d, TRF__START_EMBEDDING) \
    X(generator.w,    target && (c->tying == TRF_UNTIED || c->tying == TRF_TIED_EMBEDDINGS), \
      in->projects, \
      "generator.weight",     c->target_vocab, d, TRF__START_GENERATOR) \
    X(generator.b,    target && c->generator_bias, in->projects, \
      "generator.bias",       c->target_vocab, 0, TRF__START_GENERATOR_BIAS) \
    X(head_w,         trf__has_labels(c), in->projects, \
      "head.weight",          c->n_labels, d, TRF__START_MATRIX) \
    X(head_b,         c->head, in->projects, \
      "head.bias",            trf__n_logits(c), 0, TRF__START_BIAS) \
    X(positions[0],   source && learned, in->embeds[0], \
      "src_positions.weight", c->max_length + c->position_offset, d, TRF__START_POSITIONS) \
    X(positions[1],   target && learned, in->embeds[1], \
      "tgt_positions.weight", c->max_length + c->position_offset, d, TRF__START_POSITIONS) \
    X(distances[0],   source && relative, in->n[0] > 0, \
      "encoder.distances.weight", c->relative_buckets, c->n_heads, TRF__START_POSITIONS) \
    X(distances[1],   target && relative, in->n[1] > 0, \
      "decoder.distances.weight", c->relative_buckets, c->n_heads, TRF__START_POSITIONS) \
    X(segments,       c->segments > 0, in->embeds[0], \
      "src_segments.weight",  c->segments, d, TRF__START_POSITIONS)

/* y = x w^T + b, with w (out, in): where w and b begin in the arena of weights, or -1; and where w
   begins among the packed matrices, by format. A norm: where gain and bias begin. */
typedef struct trf__affine {
    int64_t w, b, out, in;
    int32_t param;                      /* the number of w's parameter */
    int biased;
    size_t packed[TRF__FORMATS];
} trf__affine;
typedef struct trf__norm_params { int64_t gain, bias; } trf__norm_params;

enum { TRF__SELF, TRF__CROSS, TRF__FEED_FORWARD };

/* What a sublayer is. trf__sublayer_spec_of derives it from the configuration; nothing else does:
   parameters, activations, forward, backward and decoding read it here. */
typedef struct trf__sublayer_spec {
    int kind;
    int layer, number;                  /* of its stack; in that layer */
    trf__affine in, out;                /* in: of attention W_q, W_k and W_v below one another */
    trf__norm_params norm;                  /* in front of it (pre-norm) or behind it */
    int heads, kv_heads, d_head, causal;    /* of attention */
    int64_t q_width, k_width;           /* numbers of a row's queries, and of its keys or values */
    int activation, gate;               /* of feed-forward */
    int64_t projected, hidden, memory;  /* kept of a row; memory: of its row (>>sublayers) */
} trf__sublayer_spec;

/* Two of a kind: of the encoder and of the decoder. */
typedef struct trf__model_params {
    int64_t positions[2], distances[2], segments, head_w, head_b;   /* offsets, or -1 */
    trf__norm_params embed_norm[2], final_norm[2];
    trf__affine embed[2];               /* of tokens */
    trf__affine generator;              /* of states to logits or labels; w -1: there is none */
    trf__affine head_layer;             /* out 0: there is none */
    trf__norm_params head_norm;         /* of the layer of a masked head */
    trf__affine sequence_layer, sequence_head;  /* of sequence_labels; out 0: there is none */
} trf__model_params;

typedef struct trf__param {
    char name[64];
    int32_t rank, start;
    int32_t number;             /* among all parameters of the configuration */
    int64_t shape[2], offset;
} trf__param;

// >>layout         where each parameter begins in an arena of weights

TRF__FN int64_t trf__param_size(const trf__param *p) { return p->shape[0] * p->shape[1]; }

/* The layers of a stage, and what comes with them. The layers of a model are numbered along the
   chain: those of the encoder, then those of the decoder. */
typedef struct trf__layer_range {
    int32_t first[2], n[2];     /* the first layer of the encoder and decoder, and how many */
    int embeds[2];              /* 1: layer 0 of the stack, and so what is in front of it */
    int ends[2];                /* 1: the stack's last layer, and so its last norm */
    int projects;               /* 1: the last layer of all, and so the projection and the loss */
} trf__layer_range;

/* Layers first..end-1; end 0: all. */
TRF__FN trf__layer_range trf__layer_range_of(const trf_config *c, int32_t first, int32_t end)
{
    const int32_t layers[2] = {c->encoder_layers, c->decoder_layers};
    trf__layer_range range;
    int32_t begin = 0;          /* the number of the stack's first layer */
    if (end == 0) end = layers[0] + layers[1];
    for (int stack = 0; stack < 2; begin += layers[stack++]) {
        int32_t from = (int32_t)trf__max64(first, begin) - begin;
        int32_t to = (int32_t)trf__min64(end, begin + layers[stack]) - begin;
        range.n[stack] = to > from ? to - from : 0;
        range.first[stack] = range.n[stack] ? from : 0;
        range.embeds[stack] = range.n[stack] > 0 && from == 0;
        range.ends[stack] = range.n[stack] > 0 && to == layers[stack];
    }
    range.projects = end == layers[0] + layers[1];
    return range;
}

/* Whether a stage has the source embedding: it reads it, or a matrix that is tied to it. */
TRF__FN int trf__holds_source_embedding(const trf_config *c, const trf__layer_range *in)
{
    return in->embeds[0] || (in->embeds[1] && trf__shares_embedding(c)) ||
        (in->projects && (c->tying == TRF_TIED_ALL || c->head == TRF_HEAD_MASKED));
}

/* A layout in the making: lists NULL only counts. */
typedef struct trf__layout {
    int32_t first, end;         /* the layers that it has; end 0: all */
    trf__layer_range range;             /* the same for each stack */
    int absent;                 /* 1: parameters are only numbered, as another stage has them */
    int32_t numbered;           /* parameters so far, those of other stages included */
    trf__param *params;
    trf__sublayer_spec *specs;           /* the encoder's sublayers, then the decoder's */
    trf__model_params model;
    int32_t n_params, n_parts;
    int64_t n_weights;          /* length of the arena */
    int packed, format;         /* 1: matrices are packed elsewhere in this format; */
    int32_t generator;          /* and then: the number of the generator's matrix, or -1 */
    const trf__backend *on;
    size_t packed_bytes[TRF__FORMATS];      /* of products, and in small formats of embeddings */
    int64_t n_tiles;            /* into which Adam cuts the parameters, each for itself */
} trf__layout;

enum { TRF__PARAM_TILE = 16384 };

/* Whether a parameter is a matrix of attention or feed-forward, or a head's. */
TRF__FN int trf__is_product(int start)
{
    return start == TRF__START_MATRIX || start == TRF__START_QKV || start == TRF__START_GATED;
}

/* Whether BF16 and INT8 quantise a parameter: all matrices but learned positions. */
TRF__FN int trf__is_matrix(int start)
{
    return trf__is_product(start) || start == TRF__START_EMBEDDING || start == TRF__START_GENERATOR;
}

/* Appends a parameter and returns where it begins in the arena. Rows are padded to sixteen, so
   that a panel of the last rows can be read whole. */
TRF__FN int64_t trf__add_param(trf__layout *layout, const char *prefix, int32_t number,
                               const char *name, int64_t rows, int64_t columns, int start)
{
    int packs = layout->format != TRF__FLOAT32 ? trf__is_matrix(start)
        : trf__is_product(start) || layout->n_params == layout->generator;
    int64_t offset = layout->packed && packs ? -1 : layout->n_weights;
    int32_t counted = layout->numbered++;
    if (layout->absent) return -1;
    if (layout->params) {
        trf__param *p = &layout->params[layout->n_params];
        TRF__ZERO(*p);
        if (prefix) snprintf(p->name, sizeof p->name, "%s.layers.%d.%s", prefix, number, name);
        else snprintf(p->name, sizeof p->name, "%s", name);
        p->rank = columns ? 2 : 1;
        p->shape[0] = rows;
        p->shape[1] = columns ? columns : 1;
        p->offset = offset;
        p->start = start;
        p->number = counted;
    }
    layout->n_params++;
    if (columns == 0) columns = 1;
    if (offset >= 0) layout->n_weights += trf__round_up(trf__round_up(rows, 16) * columns, 16);
    layout->n_tiles += trf__ceil_div(rows * columns, TRF__PARAM_TILE);
    return offset;
}

// >>layout-layers  sublayers, embeddings and norms of a layout

/* How many sublayers a layer has, and how many layers. */
TRF__FN int trf__per_layer(const trf_config *c, int decoder)
{
    return decoder && trf__has_source(c) ? 3 : 2;
}
TRF__FN int trf__layers(const trf_config *c, int decoder)
{
    const int32_t layers[2] = {c->encoder_layers, c->decoder_layers};
    return layers[decoder];
}

TRF__FN int trf__n_sublayers(const trf_config *c, int decoder)
{
    return trf__per_layer(c, decoder) * trf__layers(c, decoder);
}

/* Sublayer i of a stack, without its parameters. */
TRF__FN trf__sublayer_spec trf__sublayer_spec_of(const trf_config *c, int decoder, int i)
{
    int per = trf__per_layer(c, decoder);
    int64_t d = c->d_model;
    TRF__ZEROED(trf__sublayer_spec, part);
    part.layer = i / per;
    part.number = i % per;
    part.kind = part.number == 0 ? TRF__SELF : part.number == per - 1 ? TRF__FEED_FORWARD
        : TRF__CROSS;
    part.in.in = part.out.out = d;
    part.gate = c->feed_forward_gate;
    part.q_width = trf__q_width(c);
    part.k_width = trf__k_width(c);
    part.in.out = part.kind == TRF__FEED_FORWARD ? (int64_t)c->d_ff << part.gate
        : part.q_width + 2 * part.k_width;
    part.out.in = part.hidden = part.kind == TRF__FEED_FORWARD ? c->d_ff : part.q_width;
    part.in.biased = part.kind == TRF__FEED_FORWARD ? c->feed_forward_bias : c->qkv_bias;
    part.out.biased = part.kind == TRF__FEED_FORWARD ? c->feed_forward_bias : c->out_bias;
    part.projected = part.kind == TRF__CROSS ? part.q_width : part.in.out;
    part.in.w = part.in.b = part.out.w = part.out.b = part.norm.gain = part.norm.bias = -1;
    part.activation = (int)c->activation;
    if (part.kind == TRF__FEED_FORWARD) return part;
    part.heads = c->n_heads;
    part.kv_heads = trf__kv_heads(c);
    part.d_head = trf__d_head(c);
    part.causal = decoder && part.kind == TRF__SELF;
    part.memory = part.kind == TRF__CROSS ? 2 * part.k_width : 0;
    return part;
}

/* Reserves memory for the matrix among the packed ones, for each format from `first` on. */
TRF__FN void trf__add_packed(trf__layout *layout, trf__affine *a, int first)
{
    trf__cursor cursor = trf__cursor_at(NULL);
    for (int format = first; layout->on && !layout->absent && format < TRF__FORMATS; format++) {
        a->packed[format] = cursor.used = layout->packed_bytes[format];
        trf__take(&cursor, 1, layout->on->packed_bytes(format, a->out, a->in));
        layout->packed_bytes[format] = cursor.used;
    }
}

TRF__FN void trf__add_affine(trf__layout *layout, trf__affine *a, const char *stack, int layer,
                             const char *const names[2], int start, int start_bias)
{
    a->param = layout->n_params;
    a->w = trf__add_param(layout, stack, layer, names[0], a->out, a->in, start);
    a->b = a->biased ? trf__add_param(layout, stack, layer, names[1], a->out, 0, start_bias) : -1;
    trf__add_packed(layout, a, TRF__FLOAT32);
}

/* The number of a parameter, or -1 while they are only counted. */
TRF__FN int32_t trf__param_named(const trf__layout *layout, const char *name)
{
    for (int32_t i = 0; layout->params && i < layout->n_params; i++)
        if (!strcmp(layout->params[i].name, name)) return i;
    return -1;
}

/* The matrix of an embedding: the generator's if they are tied, else one that is packed in small
   formats alone. */
TRF__FN void trf__add_embedding(trf__layout *layout, const trf_config *c, int decoder)
{
    trf__model_params *outer = &layout->model;
    trf__affine *a = &outer->embed[decoder];
    int tied = decoder ? c->tying == TRF_TIED_DECODER || c->tying == TRF_TIED_ALL
        : c->tying == TRF_TIED_ALL || c->head == TRF_HEAD_MASKED;
    if (tied) *a = outer->generator;
    else if (decoder && trf__shares_embedding(c)) *a = outer->embed[0];
    else {
        a->param = trf__param_named(layout, decoder ? "tgt_embed.weight" : "src_embed.weight");
        a->b = -1;
        a->out = decoder ? c->target_vocab : c->source_vocab;
        a->in = c->d_model;
        trf__add_packed(layout, a, TRF__FLOAT32 + 1);
    }
}

TRF__FN void trf__add_norm_params(trf__layout *layout, const trf_config *c, trf__norm_params *norm,
                              const char *stack, int layer, const char *const names[2])
{
    int64_t d = c->d_model;
    norm->gain = trf__add_param(layout, stack, layer, names[0], d, 0, TRF__START_ONE);
    norm->bias = -1;
    if (trf__norm_has_bias(c))
        norm->bias = trf__add_param(layout, stack, layer, names[1], d, 0, TRF__START_ZERO);
}

/* The layer before the head's matrix and its norm (trf_config.head_layer), and the second head
   (trf_config.sequence_labels): its layer, then its matrix. */
TRF__FN void trf__add_heads(trf__layout *layout, const trf_config *c)
{
    static const char *const names[3][2] = {{"head.layer.weight", "head.layer.bias"},
                                            {"sequence.layer.weight", "sequence.layer.bias"},
                                            {"sequence.weight", "sequence.bias"}};
    static const char *const norms[2] = {"head.norm.weight", "head.norm.bias"};
    trf__model_params *at = &layout->model;
    trf__affine *const parts[3] = {&at->head_layer, &at->sequence_layer, &at->sequence_head};
    const int32_t layer = c->head_layer ? c->d_model : 0, labels = c->sequence_labels;
    const int32_t outs[3] = {layer, labels ? layer : 0, labels};
    at->head_norm.gain = at->head_norm.bias = -1;
    for (int i = 0; i < 3; i++) {
        trf__affine *a = parts[i];
        a->w = a->b = -1;
        a->out = outs[i];
        a->in = c->d_model;
        a->biased = 1;
        if (!a->out) continue;
        trf__add_affine(layout, a, NULL, 0, names[i], TRF__START_MATRIX, TRF__START_BIAS);
        if (i == 0 && c->head == TRF_HEAD_MASKED)
            trf__add_norm_params(layout, c, &at->head_norm, NULL, 0, norms);
    }
}

/* The parameters of one layer, in nn.Transformer's order: matrices, then norms. Sublayers are
   numbered from the first one that the stage has. */
TRF__FN void trf__lay_out_layer(trf__layout *layout, const trf_config *c, int decoder, int layer)
{
    static const char *const names[3][2][2] = {
        {{"self_attn.in_proj_weight", "self_attn.in_proj_bias"},
         {"self_attn.out_proj.weight", "self_attn.out_proj.bias"}},
        {{"multihead_attn.in_proj_weight", "multihead_attn.in_proj_bias"},
         {"multihead_attn.out_proj.weight", "multihead_attn.out_proj.bias"}},
        {{"linear1.weight", "linear1.bias"}, {"linear2.weight", "linear2.bias"}}};
    static const char *const norms[3][2] = {{"norm1.weight", "norm1.bias"},
                                            {"norm2.weight", "norm2.bias"},
                                            {"norm3.weight", "norm3.bias"}};
    static const char *const stacks[2] = {"encoder", "decoder"};
    const char *stack = stacks[decoder];
    trf__sublayer_spec parts[3];
    int per = trf__per_layer(c, decoder), own = layer - layout->range.first[decoder];
    layout->absent = own < 0 || own >= layout->range.n[decoder];
    for (int i = 0; i < per; i++) {
        trf__sublayer_spec *part = &parts[i];
        *part = trf__sublayer_spec_of(c, decoder, layer * per + i);
        part->layer = own;
        int forward = part->kind == TRF__FEED_FORWARD;
        trf__add_affine(layout, &part->in, stack, layer, names[part->kind][0],
                        !forward ? TRF__START_QKV : part->gate ? TRF__START_GATED
                        : TRF__START_MATRIX, TRF__START_BIAS);
        trf__add_affine(layout, &part->out, stack, layer, names[part->kind][1], TRF__START_MATRIX,
                        forward ? TRF__START_INNER_BIAS : TRF__START_OUT_BIAS);
    }
    for (int i = 0; i < per; i++) {
        trf__add_norm_params(layout, c, &parts[i].norm, stack, layer, norms[i]);
        if (layout->absent) continue;
        if (layout->specs) layout->specs[layout->n_parts] = parts[i];
        layout->n_parts++;
    }
}

// >>layout-whole   all parameters, in the order of files

/* The norms of the embeddings, and the last ones. */
TRF__FN void trf__lay_out_norms(trf__layout *layout, const trf_config *c)
{
    static const char *const names[4][2] = {
        {"encoder.embed_norm.weight", "encoder.embed_norm.bias"},
        {"decoder.embed_norm.weight", "decoder.embed_norm.bias"},
        {"encoder.norm.weight", "encoder.norm.bias"},
        {"decoder.norm.weight", "decoder.norm.bias"}};
    for (int i = 0; i < 4; i++) {
        int last = i >= 2, stack = i % 2;
        trf__norm_params *norm = last ? &layout->model.final_norm[stack]
                                      : &layout->model.embed_norm[stack];
        layout->absent = !(last ? layout->range.ends : layout->range.embeds)[stack];
        norm->gain = norm->bias = -1;
        if (trf__layers(c, stack) && (last ? trf__has_final_norm(c, stack) : c->embedding_norm))
            trf__add_norm_params(layout, c, norm, NULL, 0, names[i]);
    }
}

/* The whole layout, in the order of files. Running it again with the same configuration gives the
   same offsets, so counting and filling agree. */
TRF__FN void trf__lay_out(trf__layout *layout, const trf_config *c)
{
    const trf__layer_range *in = &layout->range;
    trf__model_params *at = &layout->model;
    int64_t d = c->d_model;
    int source = trf__has_source(c), target = trf__has_target(c);
    int learned = c->positions == TRF_POSITIONS_LEARNED;
    int relative = c->positions == TRF_POSITIONS_RELATIVE;
    layout->range = trf__layer_range_of(c, layout->first, layout->end);
    layout->n_params = layout->n_parts = layout->numbered = 0;
    layout->n_weights = layout->n_tiles = 0;
    layout->on = trf__backend_of(&c->device);
    memset(layout->packed_bytes, 0, sizeof layout->packed_bytes);
#define TRF__X(field, condition, holds, name, rows, columns, start) \
    layout->absent = !(holds); \
    at->field = (condition) ? trf__add_param(layout, NULL, 0, name, rows, columns, start) : -1;
    TRF__MODEL_PARAMS(TRF__X)
#undef TRF__X
    if (target && trf__shares_embedding(c)) at->embed[1].w = at->embed[0].w;
    if (target && (c->tying == TRF_TIED_DECODER || c->tying == TRF_TIED_ALL))
        at->generator.w = at->embed[1].w;
    if (c->head) {          /* the generator of such a model */
        at->generator.w = trf__has_labels(c) ? at->head_w : at->embed[0].w;
        at->generator.b = at->head_b;
    }
    at->generator.param =
        trf__param_named(layout, trf__has_labels(c) ? "head.weight"
                         : c->head || c->tying == TRF_TIED_ALL ? "src_embed.weight"
                         : c->tying == TRF_TIED_DECODER ? "tgt_embed.weight" : "generator.weight");
    at->generator.out = trf__n_logits(c);
    at->generator.in = d;
    layout->absent = !in->projects;
    if (target || c->head) trf__add_packed(layout, &at->generator, TRF__FLOAT32);
    layout->absent = !trf__holds_source_embedding(c, in);
    if (source) trf__add_embedding(layout, c, 0);
    layout->absent = !in->embeds[1];
    if (target) trf__add_embedding(layout, c, 1);
    layout->absent = !in->projects;
    trf__add_heads(layout, c);
    trf__lay_out_norms(layout, c);
    for (int stack = 0; stack < 2; stack++)
        for (int i = 0; i < trf__layers(c, stack); i++) trf__lay_out_layer(layout, c, stack, i);
}

// >>first-values   what parameters begin with

/* A uniform number in (0, 1), 53 bits. */
TRF__FN double trf__uniform(uint64_t seed, uint32_t stream, uint64_t index)
{
    return ((double)(trf__random64(seed, stream, index) >> 11) + 0.5) / 9007199254740992.0;
}

/* The first values of parameter number `stream`, its numbers begin .. begin + n - 1: a uniform
   bound or a normal deviation (trf_init, trf_embedding_init). */
TRF__FN void trf__initialise(trf_real *w, int64_t begin, int64_t n, const trf__param *p,
                             uint32_t stream, const trf_config *c)
{
    double out = (double)p->shape[0], in = (double)p->shape[1], d = c->d_model, bound = 0,
        deviation = 0, keys_bound = 0;
    int64_t keys = INT64_MAX;           /* the first number of keys, if they have another bound */
    switch (p->start) {
    case TRF__START_ONE: for (int64_t i = 0; i < n; i++) w[i] = 1; return;
    case TRF__START_MATRIX: case TRF__START_QKV: case TRF__START_GATED:
        if (p->start == TRF__START_GATED) out /= 2;     /* two matrices */
        if (c->init == TRF_INIT_LINEAR) bound = 1 / sqrt(in);
        else bound = sqrt(6 / (in + out));
        if (p->start == TRF__START_QKV && c->init == TRF_INIT_XAVIER) {     /* three matrices */
            bound = sqrt(6 / (in + (double)trf__q_width(c)));
            keys_bound = sqrt(6 / (in + (double)trf__k_width(c)));
            keys = trf__q_width(c) * p->shape[1];
        }
        break;
    case TRF__START_BIAS: if (c->init == TRF_INIT_LINEAR) bound = 1 / sqrt(d); break;
    case TRF__START_OUT_BIAS:
        if (c->init == TRF_INIT_LINEAR) bound = 1 / sqrt((double)trf__q_width(c));
        break;
    case TRF__START_INNER_BIAS:
        if (c->init == TRF_INIT_LINEAR) bound = 1 / sqrt((double)c->d_ff);
        break;
    case TRF__START_GENERATOR_BIAS:
        if (c->embedding_init == TRF_EMBEDDING_NORMAL_1) bound = 1 / sqrt(d);
        break;
    case TRF__START_GENERATOR: case TRF__START_EMBEDDING: case TRF__START_POSITIONS:
        if (c->embedding_init == TRF_EMBEDDING_XAVIER) bound = sqrt(6 / (in + out));
        else if (c->embedding_init == TRF_EMBEDDING_FAN_OUT) bound = sqrt(3 / d);
        else if (c->embedding_init == TRF_EMBEDDING_NORMAL_D) deviation = 1 / sqrt(d);
        else if (p->start == TRF__START_GENERATOR) bound = 1 / sqrt(d);
        else deviation = 1;
        break;
    default: break;
    }
    if (bound == 0 && deviation == 0) { memset(w, 0, (size_t)n * sizeof *w); return; }     /* +0 */
    for (int64_t i = 0; i < n; i++) {
        uint64_t k = (uint64_t)(begin + i);
        if (deviation > 0)      /* Box and Muller 1958 */
            w[i] = (trf_real)(deviation * sqrt(-2 * log(trf__uniform(c->seed, stream, 2 * k)))
                              * cos(6.283185307179586 * trf__uniform(c->seed, stream, 2 * k + 1)));
        else w[i] = (trf_real)((begin + i < keys ? bound : keys_bound)
                               * (2 * trf__uniform(c->seed, stream, k) - 1));
    }
}

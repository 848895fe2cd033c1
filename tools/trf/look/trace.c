// trf inspect --trace: the shape after each step of a model, and the weights that the step reads.

#include "inspect.h"

struct trace {
    const trf_config *config;
    int json, first;
    const char *stack; /* "encoder" and so on, in the objects of JSON */
    int32_t layers;    /* how many layers do the step */
    int inside;        /* 1: the step belongs to a layer */
    int decoder;       /* 1: steps of the decoder */
};

/* One step: its extents up to the first 0, and the weights that it reads, or "". */
static void step(struct trace *t, const char *what, int64_t a, int64_t b, int64_t c,
                 const char *weights)
{
    const int64_t extent[3] = {a, b, c};
    char shape[96];
    size_t used = 0;
    int i;
    for (i = 0; i < 3; i++)
        if (extent[i])
            used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld",
                                     used ? t->json ? "," : ", " : "", (long long)extent[i]);
    if (!t->json) {
        printf("  %s%-*s (%s)", t->inside ? "  " : "", t->inside ? 38 : 40, what, shape);
        if (*weights) printf("%*s%s", used < 18 ? (int)(18 - used) : 1, "", weights);
        putchar('\n');
        return;
    }
    printf("%s{\"stack\":\"%s\",\"layers\":%d,\"step\":\"%s\",\"shape\":[%s]", t->first ? "" : ",",
           t->stack, (int)t->layers, what, shape);
    if (*weights) printf(",\"weights\":\"%s\"", weights);
    putchar('}');
    t->first = 0;
}

static const char *and_bias(int has_one) { return has_one ? " and bias" : ""; }

/* What is added to scores for distances; 0: nothing. */
static int trace_distances(const struct trace *t, char *weights, size_t size)
{
    const trf_config *c = t->config;
    if (c->positions == TRF_POSITIONS_RELATIVE)
        snprintf(weights, size, "%s.distances.weight (%d, %d)", t->decoder ? "decoder" : "encoder",
                 (int)c->relative_buckets, (int)c->n_heads);
    else if (c->positions == TRF_POSITIONS_ALIBI) snprintf(weights, size, "slopes, computed");
    else return 0;
    return 1;
}

/* Attention of n queries to m keys. cross: the keys come from the encoder. */
static void trace_attention(struct trace *t, int64_t n, int64_t m, int cross)
{
    const trf_config *c = t->config;
    const char *name = cross ? "multihead_attn" : "self_attn";
    long long d = c->d_model, heads = c->n_heads, each = c->d_head ? c->d_head : d / heads;
    long long queries = heads * each, keys = (c->kv_heads ? c->kv_heads : heads) * each;
    char weights[160], scores[64], scale[32];
    snprintf(weights, sizeof weights, "%s.in_proj_weight (%lld, %lld)%s", name, queries + 2 * keys,
             d, and_bias(c->qkv_bias));
    if (cross) {
        step(t, "cross-attention: queries", n, queries, 0, weights);
        step(t, "keys and values of the encoder", 2, m, keys, "the same matrix");
    } else if (keys == queries)
        step(t, "self-attention: queries, keys, values", 3, n, d, weights);
    else {
        step(t, "self-attention: queries", n, queries, 0, weights);
        step(t, "keys and values", 2, n, keys, "the same matrix");
    }
    step(t, "queries split into heads", heads, n, each, "");
    if (!cross && c->positions == TRF_POSITIONS_ROTARY)
        step(t, "queries and keys rotated by position", heads, n, each, "");
    if (c->attention_scale > 0) snprintf(scale, sizeof scale, "times %.4g", c->attention_scale);
    else snprintf(scale, sizeof scale, "/ sqrt(%lld)", each);
    snprintf(scores, sizeof scores, "q k^T %s%s%s", scale,
             cross || !trace_distances(t, weights, sizeof weights) ? ", softmax" : "",
             t->decoder && !cross ? ", causal" : "");
    step(t, scores, heads, n, m, "");
    if (!cross && trace_distances(t, weights, sizeof weights))
        step(t, "plus numbers for distances, softmax", heads, n, m, weights);
    step(t, "times values", heads, n, each, "");
    snprintf(weights, sizeof weights, "%s.out_proj.weight (%lld, %lld)%s", name, d, queries,
             and_bias(c->out_bias));
    step(t, "heads concatenated and projected", n, d, 0, weights);
}

/* The norm of a sublayer, before the sublayer or after the sum. */
static void trace_norm(struct trace *t, int64_t n, int number, int before)
{
    const trf_config *c = t->config;
    char weights[64];
    snprintf(weights, sizeof weights, "norm%d.weight (%d)%s", number, (int)c->d_model,
             and_bias(c->norm_rule != TRF_NORM_RMS));
    if (before) {
        if (c->norm_place == TRF_PRE_NORM) step(t, "norm", n, c->d_model, 0, weights);
    } else if (c->norm_place == TRF_PRE_NORM) step(t, "plus the residual", n, c->d_model, 0, "");
    else step(t, "norm of the sum with the residual", n, c->d_model, 0, weights);
}

static void trace_layer(struct trace *t, int64_t n, int64_t memory)
{
    static const char *const activations[] = {"ReLU", "GELU", "SiLU", "GELU by tanh"};
    const trf_config *c = t->config;
    int number = 1;
    char weights[96], inner[64];
    trace_norm(t, n, number, 1);
    trace_attention(t, n, n, 0);
    trace_norm(t, n, number++, 0);
    if (memory) {
        trace_norm(t, n, number, 1);
        trace_attention(t, n, memory, 1);
        trace_norm(t, n, number++, 0);
    }
    trace_norm(t, n, number, 1);
    snprintf(weights, sizeof weights, "linear1.weight (%d, %d)%s",
             (int)c->d_ff << c->feed_forward_gate, (int)c->d_model, and_bias(c->feed_forward_bias));
    snprintf(inner, sizeof inner, "feed-forward, inner layer, %s%s", activations[c->activation],
             c->feed_forward_gate ? " and gate" : "");
    step(t, inner, n, c->d_ff, 0, weights);
    snprintf(weights, sizeof weights, "linear2.weight (%d, %d)%s", (int)c->d_model, (int)c->d_ff,
             and_bias(c->feed_forward_bias));
    step(t, "feed-forward, output", n, c->d_model, 0, weights);
    trace_norm(t, n, number, 0);
}

static void trace_embedding(struct trace *t, int64_t n)
{
    const trf_config *c = t->config;
    static const char *const positions[] = {"sines and cosines", "sines, then cosines",
                                            "sines, then cosines"};
    const char *matrix =
        t->decoder && c->tying != TRF_TIED_ALL && c->tying != TRF_TIED_EMBEDDINGS ? "tgt" : "src";
    char weights[192], scaled[32] = "";
    int32_t vocab = t->decoder ? c->target_vocab : c->source_vocab;
    if (c->scale_embeddings) snprintf(scaled, sizeof scaled, ", times sqrt(%d)", (int)c->d_model);
    snprintf(weights, sizeof weights, "%s_embed.weight (%d, %d)%s", matrix, (int)vocab,
             (int)c->d_model, scaled);
    step(t, "ids", n, 0, 0, "");
    step(t, "embedding", n, c->d_model, 0, weights);
    if (c->positions == TRF_POSITIONS_LEARNED)
        snprintf(weights, sizeof weights, "%s_positions.weight (%d, %d)",
                 t->decoder ? "tgt" : "src", (int)(c->max_length + c->position_offset),
                 (int)c->d_model);
    else if (c->positions < TRF_POSITIONS_LEARNED)
        snprintf(weights, sizeof weights, "%s, computed", positions[c->positions]);
    if (c->positions <= TRF_POSITIONS_LEARNED)
        step(t, "plus positions", n, c->d_model, 0, weights);
    snprintf(weights, sizeof weights, "src_segments.weight (%d, %d)", (int)c->segments,
             (int)c->d_model);
    if (c->segments && !t->decoder) step(t, "plus segments", n, c->d_model, 0, weights);
    if (!c->embedding_norm) return;
    snprintf(weights, sizeof weights, "%s.embed_norm.weight (%d)%s",
             t->decoder ? "decoder" : "encoder", (int)c->d_model,
             and_bias(c->norm_rule != TRF_NORM_RMS));
    step(t, "norm of the embedding", n, c->d_model, 0, weights);
}

static void trace_stack(struct trace *t, int decoder, int64_t n, int64_t memory)
{
    const trf_config *c = t->config;
    int32_t layers = decoder ? c->decoder_layers : c->encoder_layers;
    const char *name = decoder ? "decoder" : "encoder";
    char weights[64];
    t->decoder = decoder;
    t->stack = name;
    t->layers = 1;
    if (!t->json) printf("%s:\n", name);
    trace_embedding(t, n);
    t->layers = layers;
    t->inside = 1;
    if (!t->json && layers == 1) printf("  layer 0 (%s.layers.0.):\n", name);
    else if (!t->json)
        printf("  layers 0 to %d (%s.layers.0. and so on), each:\n", (int)layers - 1, name);
    trace_layer(t, n, memory);
    t->layers = 1;
    t->inside = 0;
    if (c->final_norm != TRF_FINAL_NORM_BOTH &&
        c->final_norm != (decoder ? TRF_FINAL_NORM_DECODER : TRF_FINAL_NORM_ENCODER))
        return;
    snprintf(weights, sizeof weights, "%s.norm.weight (%d)%s", name, (int)c->d_model,
             and_bias(c->norm_rule != TRF_NORM_RMS));
    step(t, "final norm", n, c->d_model, 0, weights);
}

static void trace_second_head(struct trace *t)
{
    const trf_config *c = t->config;
    char weights[96];
    step(t, "the first row", 1, c->d_model, 0, "");
    snprintf(weights, sizeof weights, "sequence.layer.weight (%d, %d) and bias, then tanh",
             (int)c->d_model, (int)c->d_model);
    if (c->head_layer) step(t, "layer of the second head", 1, c->d_model, 0, weights);
    snprintf(weights, sizeof weights, "sequence.weight (%d, %d) and bias", (int)c->sequence_labels,
             (int)c->d_model);
    step(t, "logits of the sequence", 1, c->sequence_labels, 0, weights);
    step(t, "softmax: probabilities", 1, c->sequence_labels, 0, "");
}

static void trace_end(struct trace *t, int64_t n)
{
    const trf_config *c = t->config;
    static const char *const matrices[] = {"generator.weight", "tgt_embed.weight",
                                           "src_embed.weight", "generator.weight"};
    int labels = c->head && c->head != TRF_HEAD_MASKED;
    int32_t logits = c->kind != TRF_ENCODER_ONLY ? c->target_vocab
                     : labels                    ? c->n_labels
                                                 : c->source_vocab;
    const char *matrix = c->kind != TRF_ENCODER_ONLY ? matrices[c->tying]
                         : labels                    ? "head.weight"
                                                     : "src_embed.weight";
    char weights[96];
    t->stack = "end";
    if (c->kind == TRF_ENCODER_ONLY && !c->head) return;
    if (!t->json) puts("end:");
    if (c->head == TRF_HEAD_MEAN) step(t, "mean of the rows", 1, c->d_model, 0, "");
    if (c->head == TRF_HEAD_FIRST) step(t, "the first row", 1, c->d_model, 0, "");
    if (c->head == TRF_HEAD_MEAN || c->head == TRF_HEAD_FIRST) n = 1;
    snprintf(weights, sizeof weights, "head.layer.weight (%d, %d) and bias%s", (int)c->d_model,
             (int)c->d_model, labels ? ", then tanh" : ", then activation and norm");
    if (c->head_layer) step(t, "layer of the head", n, c->d_model, 0, weights);
    snprintf(weights, sizeof weights, "%s (%d, %d)%s", matrix, (int)logits, (int)c->d_model,
             c->generator_bias || c->head ? " and bias" : "");
    step(t, "logits", n, logits, 0, weights);
    if (c->label_kind != TRF_LABELS_NUMBERS)
        step(t, c->label_kind ? "sigmoid: probabilities" : "softmax: probabilities", n, logits, 0,
             "");
    if (c->sequence_labels) trace_second_head(t);
}

int64_t source_rows(const struct settings *s)
{
    return s->config.kind == TRF_DECODER_ONLY ? 0
        : s->inspect.source_length + source_added(&s->config);
}

int64_t target_rows(const struct settings *s)
{
    return s->config.kind == TRF_ENCODER_ONLY ? 0 : s->inspect.target_length + s->config.target_eos;
}

void print_trace(const struct settings *s)
{
    const trf_config *c = &s->config;
    int64_t source = source_rows(s), target = target_rows(s);
    struct trace t;
    memset(&t, 0, sizeof t);
    t.config = c;
    t.json = s->json;
    t.first = 1;
    printf(s->json ? ",\"trace\":[" : "shape after each step:\n");
    if (source) trace_stack(&t, 0, source, 0);
    if (target) trace_stack(&t, 1, target, source);
    trace_end(&t, target ? target : source);
    if (s->json) putchar(']');
}

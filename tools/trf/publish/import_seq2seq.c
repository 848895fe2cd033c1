// trf import, trf export: recipes of encoder-decoders. See import_recipes.c.

#include "import.h"

// -----------------------------------------------------------------------------------------------
// >>bart           Lewis et al. 2020: BART, and models that have the names of its tensors
//
//   marian     OPUS-MT: sines, no norm on embeddings, starts with pad
//   marian-nmt the same as Marian itself computes it (tools/convert). Its positions have other
//              angles than those of transformers. Norms have epsilon 1e-6. The decoder starts with
//              a zero vector; there is no pad
//   pegasus    marian, pre-norm, with a final norm
//   bart       learned positions, a norm on embeddings
//   mbart      the same, pre-norm, with a final norm
//   m2m_100    M2M-100, NLLB: pre-norm with a final norm, sines of fairseq from position pad + 1
// -----------------------------------------------------------------------------------------------

const struct member bart_members[] = {
    {"d_model", MEMBER_INT, FIELD(d_model), NEEDED},
    {"encoder_attention_heads", MEMBER_INT, FIELD(n_heads), NEEDED},
    {"decoder_attention_heads", MEMBER_AGAIN, FIELD(n_heads), NEEDED},
    {"encoder_ffn_dim", MEMBER_INT, FIELD(d_ff), NEEDED},
    {"decoder_ffn_dim", MEMBER_AGAIN, FIELD(d_ff), NEEDED},
    {"encoder_layers", MEMBER_INT, FIELD(encoder_layers), NEEDED},
    {"decoder_layers", MEMBER_INT, FIELD(decoder_layers), NEEDED},
    {"vocab_size", MEMBER_INT, FIELD(source_vocab), NEEDED},
    {"max_position_embeddings", MEMBER_INT, FIELD(max_length), NEEDED},
    {"activation_function", MEMBER_ACTIVATION, FIELD(activation), NEEDED},
    {"scale_embedding", MEMBER_BOOL, FIELD(scale_embeddings), 0},
    {NULL, MEMBER_INT, 0, 0}};

static int configure_bart_like(const cJSON *json, const char *path, trf_config *c)
{
    if (json_int(json, path, "decoder_vocab_size", c->source_vocab, &c->target_vocab))
        return FAILED;
    c->tying = json_true(json, "share_encoder_decoder_embeddings", 1) ? TRF_TIED_ALL
        : TRF_TIED_DECODER;
    c->norm_epsilon = 1e-5;
    c->generator_bias = 1;
    c->norm_place = TRF_POST_NORM;
    c->final_norm = TRF_FINAL_NORM_NONE;
    if (!json_true(json, "tie_word_embeddings", 1))
        return refuse("%s: \"tie_word_embeddings\" is false, but trf builds such models only with "
                      "a tied output projection", path);
    return DONE;
}

/* With an odd width transformers has one more sine than cosines, which trf does not build. */
static int check_sines(const char *path, const trf_config *c)
{
    if (c->d_model % 2 == 0) return DONE;
    return refuse("%s: expected an even \"d_model\" of a model with sines, got %d", path,
                  (int)c->d_model);
}

int configure_marian(const cJSON *json, const char *path, trf_config *c)
{
    if (json_true(json, "normalize_embedding", 0) || json_true(json, "normalize_before", 0) ||
        json_true(json, "add_final_layer_norm", 0))
        return refuse("%s: \"normalize_embedding\", \"normalize_before\" or "
                      "\"add_final_layer_norm\" is true, but trf builds Marian's models only "
                      "without", path);
    c->positions = TRF_POSITIONS_HALVES;
    return check_sines(path, c) || configure_bart_like(json, path, c) ? FAILED : DONE;
}

int configure_marian_nmt(const cJSON *json, const char *path, trf_config *c)
{
    if (configure_marian(json, path, c)) return FAILED;
    c->positions = TRF_POSITIONS_HALVES_N1;
    c->norm_epsilon = 1e-6;
    c->decoder_start = TRF_START_ZERO;
    return DONE;
}

/* Marian alone has two vocabularies. */
void describe_marian(const trf_config *c, cJSON *json)
{
    set_number(json, "decoder_vocab_size", c->target_vocab);
    set_bool(json, "share_encoder_decoder_embeddings",
             c->tying == TRF_TIED_ALL || c->tying == TRF_TIED_EMBEDDINGS);
}

int configure_pegasus(const cJSON *json, const char *path, trf_config *c)
{
    if (check_sines(path, c) || configure_bart_like(json, path, c)) return FAILED;
    c->positions = TRF_POSITIONS_HALVES;
    c->norm_place = TRF_PRE_NORM;
    c->final_norm = TRF_FINAL_NORM_BOTH;
    return DONE;
}

int configure_bart(const cJSON *json, const char *path, trf_config *c)
{
    if (configure_bart_like(json, path, c)) return FAILED;
    c->positions = TRF_POSITIONS_LEARNED;
    c->position_offset = 2;
    c->embedding_norm = json_true(json, "normalize_embedding", 1);
    c->source_bos = 1;
    return DONE;
}

int configure_mbart(const cJSON *json, const char *path, trf_config *c)
{
    if (configure_bart(json, path, c)) return FAILED;
    c->norm_place = TRF_PRE_NORM;
    c->final_norm = TRF_FINAL_NORM_BOTH;
    c->source_bos = 0;
    return DONE;
}

/* Its positions begin behind pad, as RoBERTa's do. */
int configure_m2m(const cJSON *json, const char *path, trf_config *c)
{
    int32_t pad;
    if (configure_bart_like(json, path, c) || json_int(json, path, "pad_token_id", 1, &pad))
        return FAILED;
    if (pad < 0)
        return refuse("%s: expected \"pad_token_id\" to be 0 or more, got %d", path, (int)pad);
    c->positions = TRF_POSITIONS_HALVES_N1;
    c->position_offset = pad + 1;
    c->generator_bias = 0;
    c->norm_place = TRF_PRE_NORM;
    c->final_norm = TRF_FINAL_NORM_BOTH;
    return DONE;
}

#define ATTENTION(ours, theirs) \
    {ours ".in_proj_weight", \
     theirs ".q_proj.weight " theirs ".k_proj.weight " theirs ".v_proj.weight"}, \
    {ours ".in_proj_bias", theirs ".q_proj.bias " theirs ".k_proj.bias " theirs ".v_proj.bias"}, \
    WEIGHT_AND_BIAS(ours ".out_proj", theirs ".out_proj")

const struct piece bart_pieces[] = {
    {"src_embed.weight", "shared.weight|encoder.embed_tokens.weight"},
    {"tgt_embed.weight", "decoder.embed_tokens.weight"},
    {"generator.bias", "?-/final_logits_bias"},
    {"src_positions.weight", "encoder.embed_positions.weight"},
    {"tgt_positions.weight", "decoder.embed_positions.weight"},
    {PIECE_OF_SINES, "encoder.embed_positions.weight"},
    {PIECE_OF_SINES, "decoder.embed_positions.weight"},
    WEIGHT_AND_BIAS("encoder.embed_norm", "encoder.layernorm_embedding"),
    WEIGHT_AND_BIAS("decoder.embed_norm", "decoder.layernorm_embedding"),
    WEIGHT_AND_BIAS("encoder.norm", "encoder.layer_norm"),
    WEIGHT_AND_BIAS("decoder.norm", "decoder.layer_norm"),
#define E "encoder.layers.%d."
    ATTENTION(E "self_attn", E "self_attn"),
    WEIGHT_AND_BIAS(E "norm1", E "self_attn_layer_norm"),
    WEIGHT_AND_BIAS(E "linear1", E "fc1"),
    WEIGHT_AND_BIAS(E "linear2", E "fc2"),
    WEIGHT_AND_BIAS(E "norm2", E "final_layer_norm"),
#undef E
#define D "decoder.layers.%d."
    ATTENTION(D "self_attn", D "self_attn"),
    WEIGHT_AND_BIAS(D "norm1", D "self_attn_layer_norm"),
    ATTENTION(D "multihead_attn", D "encoder_attn"),
    WEIGHT_AND_BIAS(D "norm2", D "encoder_attn_layer_norm"),
    WEIGHT_AND_BIAS(D "linear1", D "fc1"),
    WEIGHT_AND_BIAS(D "linear2", D "fc2"),
    WEIGHT_AND_BIAS(D "norm3", D "final_layer_norm"),
#undef D
    {NULL, NULL}};

// -----------------------------------------------------------------------------------------------
// >>t5             Raffel et al. 2020: T5, and T5 1.1 with its gate and its own output projection
// -----------------------------------------------------------------------------------------------

const struct member t5_members[] = {
    {"d_model", MEMBER_INT, FIELD(d_model), NEEDED},
    {"num_heads", MEMBER_INT, FIELD(n_heads), NEEDED},
    {"d_kv", MEMBER_INT, FIELD(d_head), NEEDED},
    {"d_ff", MEMBER_INT, FIELD(d_ff), NEEDED},
    {"num_layers", MEMBER_INT, FIELD(encoder_layers), NEEDED},
    {"vocab_size", MEMBER_INT, FIELD(source_vocab), NEEDED},
    {"n_positions", MEMBER_INT, FIELD(max_length), 512},
    {"relative_attention_num_buckets", MEMBER_INT, FIELD(relative_buckets), 32},
    {"relative_attention_max_distance", MEMBER_INT, FIELD(relative_distance), 128},
    {"layer_norm_epsilon", MEMBER_REAL, FIELD(norm_epsilon), 1e-6},
    {NULL, MEMBER_INT, 0, 0}};

int configure_t5(const cJSON *json, const char *path, trf_config *c)
{
    const char *forward = json_text(json, "feed_forward_proj");
    const char *activation = forward && !strncmp(forward, "gated-", 6) ? forward + 6 : forward;
    if (json_int(json, path, "num_decoder_layers", c->encoder_layers, &c->decoder_layers))
        return FAILED;
    c->feed_forward_gate = activation != forward;
    /* "gated-gelu" is by tanh: T5's rule */
    if (c->feed_forward_gate && !strcmp(activation, "gelu")) activation = "gelu_new";
    if (activation_of(activation ? activation : "relu", &c->activation))
        return refuse("%s: \"feed_forward_proj\" is %s, but expected relu, gelu, gated-gelu or "
                      "gated-silu", path, forward);
    c->target_vocab = c->source_vocab;
    c->positions = TRF_POSITIONS_RELATIVE;
    c->attention_scale = 1;
    c->norm_rule = TRF_NORM_RMS;
    c->norm_place = TRF_PRE_NORM;
    c->final_norm = TRF_FINAL_NORM_BOTH;
    c->scale_embeddings = 0;
    c->qkv_bias = c->out_bias = c->feed_forward_bias = c->generator_bias = 0;
    /* T5 1.1 scales no logits, and has an output projection of its own if the file has one */
    c->scale_logits = json_true(json, "scale_decoder_outputs",
                                json_true(json, "tie_word_embeddings", 1));
    c->tying = c->scale_logits ? TRF_TIED_ALL : TRF_TIED_EMBEDDINGS;
    return DONE;
}

/* "gated-gelu" is by tanh, and there is no name for the exact one with a gate. */
void describe_t5(const trf_config *c, cJSON *json)
{
    const char *name = activation_name(c->activation);
    char text[32];
    if (c->activation == TRF_GELU_TANH && c->feed_forward_gate) name = "gelu";
    snprintf(text, sizeof text, "%s%s", c->feed_forward_gate ? "gated-" : "", name);
    set_text(json, "feed_forward_proj", text);
    set_number(json, "d_kv", c->d_head ? c->d_head : c->d_model / c->n_heads);
    set_number(json, "num_decoder_layers", c->decoder_layers);
    set_bool(json, "tie_word_embeddings", c->scale_logits);
    set_bool(json, "scale_decoder_outputs", c->scale_logits);
}

const struct piece t5_pieces[] = {
    {"src_embed.weight", "shared.weight|encoder.embed_tokens.weight"},
    {"generator.weight", "lm_head.weight|shared.weight|encoder.embed_tokens.weight"},
#define T5_ATTENTION(ours, theirs) \
    {ours ".in_proj_weight", theirs ".q.weight " theirs ".k.weight " theirs ".v.weight"}, \
    {ours ".out_proj.weight", theirs ".o.weight"}
#define T5_FORWARD(ours, theirs) \
    {ours "linear1.weight", theirs ".wi.weight|" theirs ".wi_0.weight " theirs ".wi_1.weight"}, \
    {ours "linear2.weight", theirs ".wo.weight"}
    {"encoder.distances.weight",
     "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"decoder.distances.weight",
     "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"encoder.norm.weight", "encoder.final_layer_norm.weight"},
    {"decoder.norm.weight", "decoder.final_layer_norm.weight"},
#define E "encoder.layers.%d."
#define T "encoder.block.%d.layer."
    T5_ATTENTION(E "self_attn", T "0.SelfAttention"),
    {E "norm1.weight", T "0.layer_norm.weight"},
    T5_FORWARD(E, T "1.DenseReluDense"),
    {E "norm2.weight", T "1.layer_norm.weight"},
#undef E
#undef T
#define D "decoder.layers.%d."
#define T "decoder.block.%d.layer."
    T5_ATTENTION(D "self_attn", T "0.SelfAttention"),
    {D "norm1.weight", T "0.layer_norm.weight"},
    T5_ATTENTION(D "multihead_attn", T "1.EncDecAttention"),
    {D "norm2.weight", T "1.layer_norm.weight"},
    T5_FORWARD(D, T "2.DenseReluDense"),
    {D "norm3.weight", T "2.layer_norm.weight"},
#undef D
#undef T
    {NULL, NULL}};

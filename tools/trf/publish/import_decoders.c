// trf import, trf export: recipes of decoders. See import_recipes.c.

#include "import.h"

#include <math.h>

/* What all decoders are. */
static void set_decoder(trf_config *c)
{
    c->encoder_layers = c->source_vocab = 0;
    c->norm_place = TRF_PRE_NORM;
    c->final_norm = TRF_FINAL_NORM_BOTH;
    c->scale_embeddings = c->generator_bias = 0;
    c->decoder_start = TRF_START_BOS;
}

// -----------------------------------------------------------------------------------------------
// >>gpt2           Radford et al. 2019
//
// Its matrices are stored transposed. Its prompts have no BOS.
// -----------------------------------------------------------------------------------------------

const struct member gpt2_members[] = {
    {"n_embd", MEMBER_INT, FIELD(d_model), NEEDED},
    {"n_head", MEMBER_INT, FIELD(n_heads), NEEDED},
    {"n_inner", MEMBER_INT, FIELD(d_ff), 0},
    {"n_layer", MEMBER_INT, FIELD(decoder_layers), NEEDED},
    {"vocab_size", MEMBER_INT, FIELD(target_vocab), NEEDED},
    {"n_positions", MEMBER_INT, FIELD(max_length), NEEDED},
    {"activation_function", MEMBER_ACTIVATION, FIELD(activation), NEEDED},
    {"layer_norm_epsilon", MEMBER_REAL, FIELD(norm_epsilon), 1e-5},
    {NULL, MEMBER_INT, 0, 0}};

int configure_gpt2(const cJSON *json, const char *path, trf_config *c)
{
    if (!c->d_ff) c->d_ff = 4 * c->d_model;
    if (!json_true(json, "scale_attn_weights", 1) ||
        json_true(json, "scale_attn_by_inverse_layer_idx", 0))
        return refuse("%s: \"scale_attn_weights\" is false or \"scale_attn_by_inverse_layer_idx\" "
                      "is true, but trf builds only the scale 1 / sqrt(width of a head)", path);
    set_decoder(c);
    c->positions = TRF_POSITIONS_LEARNED;
    c->tying = json_true(json, "tie_word_embeddings", 1) ? TRF_TIED_DECODER : TRF_UNTIED;
    return DONE;
}

/* Embeddings that are scaled here are scaled weights there, so the output needs its own. */
static void describe_tying(const trf_config *c, cJSON *json)
{
    set_bool(json, "tie_word_embeddings", c->tying == TRF_TIED_DECODER && !c->scale_embeddings);
}

void describe_gpt2(const trf_config *c, cJSON *json) { describe_tying(c, json); }

const struct piece gpt2_pieces[] = {
    {"tgt_embed.weight", "wte.weight"},
    {"tgt_positions.weight", "wpe.weight"},
    {"generator.weight", "/lm_head.weight"},
    WEIGHT_AND_BIAS("decoder.norm", "ln_f"),
#define D "decoder.layers.%d."
#define H "h.%d."
    {D "self_attn.in_proj_weight", "^" H "attn.c_attn.weight"},
    {D "self_attn.in_proj_bias", H "attn.c_attn.bias"},
    {D "self_attn.out_proj.weight", "^" H "attn.c_proj.weight"},
    {D "self_attn.out_proj.bias", H "attn.c_proj.bias"},
    WEIGHT_AND_BIAS(D "norm1", H "ln_1"),
    {D "linear1.weight", "^" H "mlp.c_fc.weight"},
    {D "linear1.bias", H "mlp.c_fc.bias"},
    {D "linear2.weight", "^" H "mlp.c_proj.weight"},
    {D "linear2.bias", H "mlp.c_proj.bias"},
    WEIGHT_AND_BIAS(D "norm2", H "ln_2"),
#undef D
#undef H
    {NULL, NULL}};

// -----------------------------------------------------------------------------------------------
// >>llama          Touvron et al. 2023: Llama, and models that differ from it by a field
//
//   llama      Llama 1 to 3.3
//   mistral    where its window is not shorter than its texts
//   qwen2      biases in the projections to queries, keys and values
// -----------------------------------------------------------------------------------------------

/* Llama 3.1's scaling of the pairs that turn slowly. */
static int find_slow_pairs(const cJSON *scaling, const char *path, trf_config *c)
{
    return json_real(scaling, path, "factor", NAN, &c->rotary_scale) ||
           json_real(scaling, path, "low_freq_factor", NAN, &c->rotary_low) ||
           json_real(scaling, path, "high_freq_factor", NAN, &c->rotary_high) ||
           json_int(scaling, path, "original_max_position_embeddings", c->max_length,
                    &c->rotary_trained);
}

/* The base of rotary positions, and their scaling, in one of two places. */
static int find_rotary(const cJSON *json, const char *path, trf_config *c)
{
    const cJSON *both = cJSON_GetObjectItemCaseSensitive(json, "rope_parameters");
    const cJSON *scaling = cJSON_IsObject(both) ? both
        : cJSON_GetObjectItemCaseSensitive(json, "rope_scaling");
    const cJSON *base = cJSON_IsObject(both) ? both : json;
    const char *type;
    if (json_real(base, path, "rope_theta", 10000, &c->rotary_base)) return FAILED;
    if (!cJSON_IsObject(scaling)) return DONE;
    type = json_text(scaling, "rope_type");
    if (!type) type = json_text(scaling, "type");
    if (!type || !strcmp(type, "default")) return DONE;
    if (!strcmp(type, "linear")) return json_real(scaling, path, "factor", 1, &c->rotary_scale);
    if (!strcmp(type, "llama3")) return find_slow_pairs(scaling, path, c);
    return refuse("%s: rotary positions are scaled by the rule \"%s\", but trf builds only linear "
                  "and llama3", path, type);
}

const struct member llama_members[] = {
    {"hidden_size", MEMBER_INT, FIELD(d_model), NEEDED},
    {"num_attention_heads", MEMBER_INT, FIELD(n_heads), NEEDED},
    {"num_key_value_heads", MEMBER_INT, FIELD(kv_heads), 0},
    {"head_dim", MEMBER_INT, FIELD(d_head), 0},
    {"intermediate_size", MEMBER_INT, FIELD(d_ff), NEEDED},
    {"num_hidden_layers", MEMBER_INT, FIELD(decoder_layers), NEEDED},
    {"vocab_size", MEMBER_INT, FIELD(target_vocab), NEEDED},
    {"max_position_embeddings", MEMBER_INT, FIELD(max_length), NEEDED},
    {"hidden_act", MEMBER_ACTIVATION, FIELD(activation), NEEDED},
    {"rms_norm_eps", MEMBER_REAL, FIELD(norm_epsilon), 1e-6},
    {NULL, MEMBER_INT, 0, 0}};

int configure_llama(const cJSON *json, const char *path, trf_config *c)
{
    if (find_rotary(json, path, c)) return FAILED;
    set_decoder(c);
    c->norm_rule = TRF_NORM_RMS;
    c->positions = TRF_POSITIONS_ROTARY;
    c->feed_forward_gate = 1;
    c->qkv_bias = c->out_bias = json_true(json, "attention_bias", 0);
    c->feed_forward_bias = json_true(json, "mlp_bias", 0);
    c->tying = json_true(json, "tie_word_embeddings", 0) ? TRF_TIED_DECODER : TRF_UNTIED;
    return DONE;
}

/* How rotary positions are scaled, as find_rotary reads it. */
static void describe_scaling(const trf_config *c, cJSON *scaling)
{
    set_text(scaling, "rope_type", c->rotary_trained ? "llama3" : "linear");
    set_number(scaling, "factor", c->rotary_scale);
    if (!c->rotary_trained) return;
    set_number(scaling, "low_freq_factor", c->rotary_low);
    set_number(scaling, "high_freq_factor", c->rotary_high);
    set_number(scaling, "original_max_position_embeddings", c->rotary_trained);
}

/* transformers 5 reads rope_parameters, earlier ones rope_theta and rope_scaling. */
static void describe_llama_like(const trf_config *c, cJSON *json)
{
    cJSON *rope = cJSON_AddObjectToObject(json, "rope_parameters"), *scaling;
    set_number(rope, "rope_theta", c->rotary_base);
    set_number(json, "rope_theta", c->rotary_base);
    if (c->rotary_scale == 1) set_text(rope, "rope_type", "default");
    else {
        scaling = cJSON_AddObjectToObject(json, "rope_scaling");
        describe_scaling(c, rope);
        describe_scaling(c, scaling);
        set_text(scaling, "type", c->rotary_trained ? "llama3" : "linear");
    }
    set_number(json, "num_key_value_heads", c->kv_heads ? c->kv_heads : c->n_heads);
    set_number(json, "head_dim", c->d_head ? c->d_head : c->d_model / c->n_heads);
    describe_tying(c, json);
}

void describe_mistral(const trf_config *c, cJSON *json)
{
    describe_llama_like(c, json);
    set_text(json, "sliding_window", NULL);
}

void describe_llama(const trf_config *c, cJSON *json)
{
    describe_llama_like(c, json);
    set_bool(json, "attention_bias", c->qkv_bias || c->out_bias);
    set_bool(json, "mlp_bias", c->feed_forward_bias);
}

void describe_qwen2(const trf_config *c, cJSON *json)
{
    describe_mistral(c, json);
    set_bool(json, "use_sliding_window", 0);
}

/* A window of keys is accepted only where no text is longer. Without the member transformers takes
   4,096 keys; null is no window. */
static int check_window(const cJSON *json, const char *path, const trf_config *c)
{
    int32_t window;
    int none = cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json, "sliding_window"));
    if (json_int(json, path, "sliding_window", none ? INT32_MAX : 4096, &window)) return FAILED;
    if (window >= c->max_length) return DONE;
    return refuse("%s: \"sliding_window\" is %d, shorter than \"max_position_embeddings\" = %d, "
                  "but trf builds attention to all keys", path, (int)window, (int)c->max_length);
}

int configure_mistral(const cJSON *json, const char *path, trf_config *c)
{
    return configure_llama(json, path, c) || check_window(json, path, c) ? FAILED : DONE;
}

int configure_qwen2(const cJSON *json, const char *path, trf_config *c)
{
    if (configure_llama(json, path, c)) return FAILED;
    c->qkv_bias = 1;
    if (!json_true(json, "use_sliding_window", 0)) return DONE;
    return check_window(json, path, c);
}

const struct piece llama_pieces[] = {
    {"tgt_embed.weight", "embed_tokens.weight"},
    {"generator.weight", "/lm_head.weight"},
    {"decoder.norm.weight", "norm.weight"},
#define D "decoder.layers.%d."
#define L "layers.%d."
    {D "self_attn.in_proj_weight",
     L "self_attn.q_proj.weight " L "self_attn.k_proj.weight " L "self_attn.v_proj.weight"},
    {D "self_attn.in_proj_bias",
     L "self_attn.q_proj.bias " L "self_attn.k_proj.bias " L "self_attn.v_proj.bias"},
    WEIGHT_AND_BIAS(D "self_attn.out_proj", L "self_attn.o_proj"),
    {D "norm1.weight", L "input_layernorm.weight"},
    {D "norm2.weight", L "post_attention_layernorm.weight"},
    {D "linear1.weight", L "mlp.gate_proj.weight " L "mlp.up_proj.weight"},
    {D "linear1.bias", L "mlp.gate_proj.bias " L "mlp.up_proj.bias"},
    WEIGHT_AND_BIAS(D "linear2", L "mlp.down_proj"),
#undef D
#undef L
    {NULL, NULL}};

// trf import: how models of other systems are ours. A row of `recipes` is an architecture; the
// lists above it say which of its tensors become which of our parameters.

#include "import.h"

#if defined(TRF_WITH_CJSON)
#include <math.h>

/* The activations of Hugging Face by their names. */
static int find_activation(const cJSON *json, const char *path, trf_activation *to)
{
    static const struct { const char *name; trf_activation is; } known[] = {
        {"relu", TRF_RELU}, {"gelu", TRF_GELU}, {"silu", TRF_SILU}, {"swish", TRF_SILU},
        {"gelu_new", TRF_GELU_TANH}, {"gelu_pytorch_tanh", TRF_GELU_TANH},
        {"gelu_fast", TRF_GELU_TANH}};
    const char *name = json_text(json, "hidden_act");
    size_t i;
    for (i = 0; name && i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) {
            *to = known[i].is;
            return DONE;
        }
    say("%s: expected \"hidden_act\" to be gelu, gelu_new, relu or silu, got %s", path,
        name ? name : "none");
    return FAILED;
}

static int find_epsilon(const cJSON *json, const char *path, double *to)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, "layer_norm_eps");
    if (cJSON_IsNumber(value)) {
        *to = value->valuedouble;
        return DONE;
    }
    say("%s: expected a number \"layer_norm_eps\", got %s", path, value ? "another value" : "none");
    return FAILED;
}

// -----------------------------------------------------------------------------------------------
// >>bert           Devlin et al. 2019: BERT, and sentence encoders made from it (MiniLM)
// -----------------------------------------------------------------------------------------------

static int configure_bert(const cJSON *json, const char *path, trf_config *c)
{
    const char *positions = json_text(json, "position_embedding_type");
    if (json_int(json, path, "hidden_size", INT32_MIN, &c->d_model) ||
        json_int(json, path, "num_attention_heads", INT32_MIN, &c->n_heads) ||
        json_int(json, path, "intermediate_size", INT32_MIN, &c->d_ff) ||
        json_int(json, path, "num_hidden_layers", INT32_MIN, &c->encoder_layers) ||
        json_int(json, path, "vocab_size", INT32_MIN, &c->source_vocab) ||
        json_int(json, path, "max_position_embeddings", INT32_MIN, &c->max_length) ||
        json_int(json, path, "type_vocab_size", 2, &c->segments) ||
        find_activation(json, path, &c->activation) || find_epsilon(json, path, &c->norm_epsilon))
        return FAILED;
    if (positions && strcmp(positions, "absolute")) {
        say("%s: \"position_embedding_type\" is %s, but trf builds only absolute", path, positions);
        return FAILED;
    }
    if (json_true(json, "is_decoder", 0)) {
        say("%s: \"is_decoder\" is true, but trf builds only BERT as an encoder", path);
        return FAILED;
    }
    c->kind = TRF_ENCODER_ONLY;
    c->decoder_layers = c->target_vocab = 0;
    c->tying = TRF_UNTIED;
    c->positions = TRF_POSITIONS_LEARNED;
    c->norm_place = TRF_POST_NORM;
    c->final_norm = TRF_FINAL_NORM_NONE;
    c->embedding_norm = 1;
    c->scale_embeddings = 0;
    c->generator_bias = 0;
    c->source_bos = c->source_eos = 1;
    return DONE;
}

static const struct piece bert_pieces[] = {
    {"src_embed.weight", "embeddings.word_embeddings.weight"},
    {"src_positions.weight", "embeddings.position_embeddings.weight"},
    {"src_segments.weight", "embeddings.token_type_embeddings.weight"},
    {"encoder.embed_norm.weight", "embeddings.LayerNorm.weight"},
    {"encoder.embed_norm.bias", "embeddings.LayerNorm.bias"},
#define OURS "encoder.layers.%d."
#define THEIRS "encoder.layer.%d."
    {OURS "self_attn.in_proj_weight",
     THEIRS "attention.self.query.weight " THEIRS "attention.self.key.weight "
     THEIRS "attention.self.value.weight"},
    {OURS "self_attn.in_proj_bias",
     THEIRS "attention.self.query.bias " THEIRS "attention.self.key.bias "
     THEIRS "attention.self.value.bias"},
    {OURS "self_attn.out_proj.weight", THEIRS "attention.output.dense.weight"},
    {OURS "self_attn.out_proj.bias", THEIRS "attention.output.dense.bias"},
    {OURS "norm1.weight", THEIRS "attention.output.LayerNorm.weight"},
    {OURS "norm1.bias", THEIRS "attention.output.LayerNorm.bias"},
    {OURS "linear1.weight", THEIRS "intermediate.dense.weight"},
    {OURS "linear1.bias", THEIRS "intermediate.dense.bias"},
    {OURS "linear2.weight", THEIRS "output.dense.weight"},
    {OURS "linear2.bias", THEIRS "output.dense.bias"},
    {OURS "norm2.weight", THEIRS "output.LayerNorm.weight"},
    {OURS "norm2.bias", THEIRS "output.LayerNorm.bias"},
#undef OURS
#undef THEIRS
    {NULL, NULL}};
static const char *const bert_buffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                           NULL};
static const char *const bert_left_out[] = {"pooler.", "cls.", "classifier.", NULL};

static const struct piece bert_masked[] = {
    {"head.layer.weight", "/cls.predictions.transform.dense.weight"},
    {"head.layer.bias", "/cls.predictions.transform.dense.bias"},
    {"head.norm.weight", "/cls.predictions.transform.LayerNorm.weight"},
    {"head.norm.bias", "/cls.predictions.transform.LayerNorm.bias"},
    {"head.bias", "/cls.predictions.bias"},
    {NULL, NULL}};
static const struct piece bert_first[] = {
    {"head.layer.weight", "pooler.dense.weight"},
    {"head.layer.bias", "pooler.dense.bias"},
    {"head.weight", "/classifier.weight"},
    {"head.bias", "/classifier.bias"},
    {NULL, NULL}};
static const struct piece bert_next[] = {
    {"head.layer.weight", "pooler.dense.weight"},
    {"head.layer.bias", "pooler.dense.bias"},
    {"head.weight", "/cls.seq_relationship.weight"},
    {"head.bias", "/cls.seq_relationship.bias"},
    {NULL, NULL}};
static const struct piece bert_tokens[] = {
    {"head.weight", "/classifier.weight"},
    {"head.bias", "/classifier.bias"},
    {NULL, NULL}};
static const struct headed bert_heads[] = {
    {"BertForMaskedLM", TRF_HEAD_MASKED, 1, bert_masked},
    {"BertForPreTraining", TRF_HEAD_MASKED, 1, bert_masked},
    {"BertForSequenceClassification", TRF_HEAD_FIRST, 1, bert_first},
    {"BertForNextSentencePrediction", TRF_HEAD_FIRST, 1, bert_next},
    {"BertForTokenClassification", TRF_HEAD_TOKENS, 0, bert_tokens},
    {NULL, TRF_HEAD_NONE, 0, NULL}};

// -----------------------------------------------------------------------------------------------
// >>roberta        Liu et al. 2019: BERT's layers with other heads. Its positions begin behind pad
// -----------------------------------------------------------------------------------------------

static int configure_roberta(const cJSON *json, const char *path, trf_config *c)
{
    int32_t pad;
    if (configure_bert(json, path, c) || json_int(json, path, "pad_token_id", 1, &pad))
        return FAILED;
    if (pad < 0 || pad >= c->max_length) {
        say("%s: expected \"pad_token_id\" to be 0 or more and below \"max_position_embeddings\", "
            "got %d", path, (int)pad);
        return FAILED;
    }
    c->position_offset = pad + 1;
    c->max_length -= pad + 1;
    return DONE;
}

static const struct piece roberta_masked[] = {
    {"head.layer.weight", "/lm_head.dense.weight"},
    {"head.layer.bias", "/lm_head.dense.bias"},
    {"head.norm.weight", "/lm_head.layer_norm.weight"},
    {"head.norm.bias", "/lm_head.layer_norm.bias"},
    {"head.bias", "/lm_head.bias"},
    {NULL, NULL}};
static const struct piece roberta_first[] = {
    {"head.layer.weight", "/classifier.dense.weight"},
    {"head.layer.bias", "/classifier.dense.bias"},
    {"head.weight", "/classifier.out_proj.weight"},
    {"head.bias", "/classifier.out_proj.bias"},
    {NULL, NULL}};
static const struct headed roberta_heads[] = {
    {"RobertaForMaskedLM", TRF_HEAD_MASKED, 1, roberta_masked},
    {"RobertaForSequenceClassification", TRF_HEAD_FIRST, 1, roberta_first},
    {"RobertaForTokenClassification", TRF_HEAD_TOKENS, 0, bert_tokens},
    {NULL, TRF_HEAD_NONE, 0, NULL}};
static const char *const roberta_left_out[] = {"pooler.", "lm_head.", "classifier.", NULL};

const struct recipe recipes[] = {
    {"bert", {"", "bert.", NULL}, configure_bert, bert_pieces, bert_heads, bert_buffers,
     bert_left_out},
    {"roberta", {"", "roberta.", NULL}, configure_roberta, bert_pieces, roberta_heads, bert_buffers,
     roberta_left_out},
    {NULL, {NULL}, NULL, NULL, NULL, NULL, NULL}};
#else
typedef int import_recipes_is_empty;
#endif

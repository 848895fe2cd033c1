// trf import: how models of other systems are ours. A row of `recipes` is an architecture; the
// lists above it say which of its tensors become which of our parameters.

#include "import.h"

#if defined(TRF_WITH_CJSON)
#include <math.h>

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
        find_activation(json, path, "hidden_act", &c->activation) || 
        json_real(json, path, "layer_norm_eps", NAN, &c->norm_epsilon))
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

// -----------------------------------------------------------------------------------------------
// >>recipes        all architectures
// -----------------------------------------------------------------------------------------------

static const struct headed headless[] = {{NULL, TRF_HEAD_NONE, 0, NULL}};
static const char *const nothing[] = {NULL};

static const char *const bart_copies[] = {"encoder.embed_tokens.weight",
                                          "decoder.embed_tokens.weight", "/lm_head.weight", NULL};
static const char *const bart_left_out[] = {"/classification_head.", "/qa_outputs.", NULL};
/* sines, which are computed here (learned positions are pieces) */
static const char *const bart_buffers[] = {"encoder.embed_positions.", "decoder.embed_positions.",
                                           NULL};
static const char *const t5_copies[] = {"encoder.embed_tokens.weight",
                                        "decoder.embed_tokens.weight", "lm_head.weight", NULL};
/* cross-attention has no positions, but some files have a table for it */
static const char *const t5_buffers[] = {
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.", NULL};
static const char *const decoder_copies[] = {"/lm_head.weight", NULL};
static const char *const gpt2_buffers[] = {"h.%d.attn.bias", "h.%d.attn.masked_bias", NULL};
static const char *const llama_buffers[] = {"layers.%d.self_attn.rotary_emb.inv_freq",
                                            "rotary_emb.inv_freq", NULL};

const struct recipe recipes[] = {
    {"bert", {"", "bert.", NULL}, configure_bert, bert_pieces, bert_heads, bert_buffers,
     bert_left_out, nothing},
    {"roberta", {"", "roberta.", NULL}, configure_roberta, bert_pieces, roberta_heads, bert_buffers,
     roberta_left_out, nothing},
#define BART_LIKE(type, configure) \
    {type, {"model.", "", NULL}, configure, bart_pieces, headless, bart_buffers, bart_left_out, \
     bart_copies}
    BART_LIKE("marian", configure_marian), BART_LIKE("bart", configure_bart),
    BART_LIKE("mbart", configure_mbart), BART_LIKE("m2m_100", configure_m2m),
    {"t5", {"", NULL}, configure_t5, t5_pieces, headless, t5_buffers, nothing, t5_copies},
    {"gpt2", {"transformer.", "", NULL}, configure_gpt2, gpt2_pieces, headless, gpt2_buffers,
     nothing, decoder_copies},
#define LLAMA_LIKE(type, configure) \
    {type, {"model.", "", NULL}, configure, llama_pieces, headless, llama_buffers, nothing, \
     decoder_copies}
    LLAMA_LIKE("llama", configure_llama), LLAMA_LIKE("mistral", configure_mistral),
    LLAMA_LIKE("qwen2", configure_qwen2),
    {NULL, {NULL}, NULL, NULL, NULL, NULL, NULL, NULL}};
#else
typedef int import_recipes_is_empty;
#endif

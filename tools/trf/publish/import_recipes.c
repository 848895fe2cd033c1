// trf import, trf export: how models of other systems are ours. A row of `recipes` is an
// architecture; the lists above it say which members of its config.json are which of our fields,
// and which of its tensors are which of our parameters. import reads the lists from right to left,
// export from left to right.

#include "import.h"

// -----------------------------------------------------------------------------------------------
// >>bert           Devlin et al. 2019: BERT, and sentence encoders made from it (MiniLM)
// -----------------------------------------------------------------------------------------------

static const struct member bert_members[] = {
    {"hidden_size", MEMBER_INT, FIELD(d_model), NEEDED},
    {"num_attention_heads", MEMBER_INT, FIELD(n_heads), NEEDED},
    {"intermediate_size", MEMBER_INT, FIELD(d_ff), NEEDED},
    {"num_hidden_layers", MEMBER_INT, FIELD(encoder_layers), NEEDED},
    {"vocab_size", MEMBER_INT, FIELD(source_vocab), NEEDED},
    {"max_position_embeddings", MEMBER_INT, FIELD(max_length), NEEDED},
    {"type_vocab_size", MEMBER_INT, FIELD(segments), 2},
    {"hidden_act", MEMBER_ACTIVATION, FIELD(activation), NEEDED},
    {"layer_norm_eps", MEMBER_REAL, FIELD(norm_epsilon), NEEDED},
    {NULL, MEMBER_INT, 0, 0}};

static int configure_bert(const cJSON *json, const char *path, trf_config *c)
{
    const char *positions = json_text(json, "position_embedding_type");
    if (positions && strcmp(positions, "absolute"))
        return refuse("%s: \"position_embedding_type\" is %s, but trf builds only absolute", path,
                      positions);
    if (json_true(json, "is_decoder", 0))
        return refuse("%s: \"is_decoder\" is true, but trf builds only BERT as an encoder", path);
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

/* BERT has one segment at least: export makes one of zeros. */
static void describe_bert(const trf_config *c, cJSON *json)
{
    if (c->segments < 1) set_number(json, "type_vocab_size", 1);
}

#define OURS "encoder.layers.%d."
#define THEIRS "encoder.layer.%d."
#define BERT_LAYER(norm1, norm2) \
    {OURS "self_attn.in_proj_weight", \
     THEIRS "attention.self.query.weight " THEIRS "attention.self.key.weight " \
     THEIRS "attention.self.value.weight"}, \
    {OURS "self_attn.in_proj_bias", \
     THEIRS "attention.self.query.bias " THEIRS "attention.self.key.bias " \
     THEIRS "attention.self.value.bias"}, \
    WEIGHT_AND_BIAS(OURS "self_attn.out_proj", THEIRS "attention.output.dense"), \
    WEIGHT_AND_BIAS(OURS "norm1", THEIRS norm1), \
    WEIGHT_AND_BIAS(OURS "linear1", THEIRS "intermediate.dense"), \
    WEIGHT_AND_BIAS(OURS "linear2", THEIRS "output.dense"), \
    WEIGHT_AND_BIAS(OURS "norm2", THEIRS norm2)
#define BERT_EMBEDDINGS \
    {"src_embed.weight", "embeddings.word_embeddings.weight"}, \
    {"src_positions.weight", "embeddings.position_embeddings.weight"}, \
    {"src_segments.weight", "embeddings.token_type_embeddings.weight"}
static const struct piece bert_pieces[] = {
    BERT_EMBEDDINGS,
    WEIGHT_AND_BIAS("encoder.embed_norm", "embeddings.LayerNorm"),
    BERT_LAYER("attention.output.LayerNorm", "output.LayerNorm"),
    {NULL, NULL}};
static const struct piece megatron_pieces[] = {
    BERT_EMBEDDINGS,
    BERT_LAYER("attention.ln", "ln"),
    WEIGHT_AND_BIAS("encoder.norm", "encoder.ln"),
    {NULL, NULL}};
static const char *const bert_buffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                           NULL};
static const char *const bert_left_out[] = {"pooler.", "cls.", "classifier.", NULL};

#define BERT_MASKED \
    WEIGHT_AND_BIAS("head.layer", "/cls.predictions.transform.dense"), \
    WEIGHT_AND_BIAS("head.norm", "/cls.predictions.transform.LayerNorm"), \
    {"head.bias", "/cls.predictions.bias"}
static const struct piece bert_masked[] = {BERT_MASKED, {NULL, NULL}};
static const struct piece bert_both[] = {
    BERT_MASKED,
    WEIGHT_AND_BIAS("sequence.layer", "pooler.dense"),
    WEIGHT_AND_BIAS("sequence", "/cls.seq_relationship"),
    {NULL, NULL}};
static const struct piece bert_first[] = {
    WEIGHT_AND_BIAS("head.layer", "pooler.dense"),
    WEIGHT_AND_BIAS("head", "/classifier"),
    {NULL, NULL}};
static const struct piece bert_next[] = {
    WEIGHT_AND_BIAS("head.layer", "pooler.dense"),
    WEIGHT_AND_BIAS("head", "/cls.seq_relationship"),
    {NULL, NULL}};
static const struct piece bert_tokens[] = {
    WEIGHT_AND_BIAS("head", "/classifier"),
    {NULL, NULL}};
#define BERT_HEADS(bert) { \
    {bert "ForMaskedLM", TRF_HEAD_MASKED, 1, 0, bert_masked, 0}, \
    {bert "ForPreTraining", TRF_HEAD_MASKED, 1, 2, bert_both, 0}, \
    {bert "ForSequenceClassification", TRF_HEAD_FIRST, 1, 0, bert_first, 0}, \
    {bert "ForNextSentencePrediction", TRF_HEAD_FIRST, 1, 0, bert_next, 0}, \
    {bert "ForTokenClassification", TRF_HEAD_TOKENS, 0, 0, bert_tokens, 0}, \
    {NULL, TRF_HEAD_NONE, 0, 0, NULL, 0}}
static const struct headed bert_heads[] = BERT_HEADS("Bert");

// -----------------------------------------------------------------------------------------------
// >>roberta        Liu et al. 2019: BERT's layers with other heads. Its positions begin behind pad
// -----------------------------------------------------------------------------------------------

static int configure_roberta(const cJSON *json, const char *path, trf_config *c)
{
    int32_t pad;
    if (configure_bert(json, path, c) || json_int(json, path, "pad_token_id", 1, &pad))
        return FAILED;
    if (pad < 0 || pad >= c->max_length)
        return refuse("%s: expected \"pad_token_id\" to be 0 or more and below "
                      "\"max_position_embeddings\", got %d", path, (int)pad);
    c->position_offset = pad + 1;
    c->max_length -= pad + 1;
    return DONE;
}

static void describe_roberta(const trf_config *c, cJSON *json)
{
    describe_bert(c, json);
    set_number(json, "max_position_embeddings", (double)c->max_length + c->pad + 1);
}

static const struct piece roberta_masked[] = {
    WEIGHT_AND_BIAS("head.layer", "/lm_head.dense"),
    WEIGHT_AND_BIAS("head.norm", "/lm_head.layer_norm"),
    {"head.bias", "/lm_head.bias"},
    {NULL, NULL}};
static const struct piece roberta_first[] = {
    WEIGHT_AND_BIAS("head.layer", "/classifier.dense"),
    WEIGHT_AND_BIAS("head", "/classifier.out_proj"),
    {NULL, NULL}};
#define ROBERTA_HEADS(roberta) { \
    {roberta "ForMaskedLM", TRF_HEAD_MASKED, 1, 0, roberta_masked, 1}, \
    {roberta "ForSequenceClassification", TRF_HEAD_FIRST, 1, 0, roberta_first, 0}, \
    {roberta "ForTokenClassification", TRF_HEAD_TOKENS, 0, 0, bert_tokens, 0}, \
    {NULL, TRF_HEAD_NONE, 0, 0, NULL, 0}}
static const struct headed roberta_heads[] = ROBERTA_HEADS("Roberta");
/* XLM-R (Conneau et al. 2020) is RoBERTa with another tokenizer. */
static const struct headed xlm_roberta_heads[] = ROBERTA_HEADS("XLMRoberta");
static const char *const roberta_left_out[] = {"pooler.", "lm_head.", "classifier.", NULL};

// -----------------------------------------------------------------------------------------------
// >>megatron       Shoeybi et al. 2019: BERT with pre-norm, a final norm, and no norm on embeddings
// -----------------------------------------------------------------------------------------------

static int configure_megatron(const cJSON *json, const char *path, trf_config *c)
{
    if (configure_bert(json, path, c)) return FAILED;
    c->norm_place = TRF_PRE_NORM;
    c->final_norm = TRF_FINAL_NORM_BOTH;
    c->embedding_norm = 0;
    return DONE;
}

static const struct headed megatron_heads[] = BERT_HEADS("MegatronBert");

// -----------------------------------------------------------------------------------------------
// >>recipes        all architectures; export takes the first one that fits
// -----------------------------------------------------------------------------------------------

static const struct headed headless[] = {{NULL, TRF_HEAD_NONE, 0, 0, NULL, 0}};
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

/* What transformers 5.24 takes for members that config.json lacks. */
#define USUAL_SIZES(rows, width, layers, heads, forward) \
    "{\"vocab_size\": " #rows ", \"hidden_size\": " #width ", \"num_hidden_layers\": " #layers \
    ", \"num_attention_heads\": " #heads ", \"intermediate_size\": " #forward ", "
#define USUAL_BERT(rows, width, layers, heads, forward) \
    USUAL_SIZES(rows, width, layers, heads, forward) "\"hidden_act\": \"gelu\", " \
    "\"max_position_embeddings\": 512, \"layer_norm_eps\": 1e-12}"
#define USUAL_LLAMA(rows, forward, keys, positions) \
    USUAL_SIZES(rows, 4096, 32, 32, forward) "\"hidden_act\": \"silu\", " keys \
    "\"max_position_embeddings\": " #positions "}"
#define STARTS(id) "\"decoder_start_token_id\": " #id ", "
#define USUAL_BART(rows, activation, start) \
    "{\"vocab_size\": " #rows ", \"d_model\": 1024, \"encoder_layers\": 12, " \
    "\"decoder_layers\": 12, \"encoder_attention_heads\": 16, \"decoder_attention_heads\": 16, " \
    "\"encoder_ffn_dim\": 4096, \"decoder_ffn_dim\": 4096, \"max_position_embeddings\": 1024, " \
    start "\"activation_function\": \"" activation "\"}"
#define USUAL_T5(rows, forward, layers, heads, kind, start) \
    "{" start "\"vocab_size\": " #rows ", \"d_model\": 512, \"d_kv\": 64, \"d_ff\": " #forward \
    ", \"num_layers\": " #layers ", \"num_heads\": " #heads \
    ", \"feed_forward_proj\": \"" kind "\"}"
#define USUAL_GPT2 \
    "{\"vocab_size\": 50257, \"n_positions\": 1024, \"n_embd\": 768, \"n_layer\": 12, " \
    "\"n_head\": 12, \"activation_function\": \"gelu_new\"}"

const struct recipe recipes[] = {
    {"bert", "BertModel", USUAL_BERT(30522, 768, 12, 12, 3072),
     TRF_ENCODER_ONLY, {"", "bert.", NULL}, bert_members, configure_bert,
     describe_bert, bert_pieces, bert_heads, bert_buffers, bert_left_out, nothing},
    {"megatron-bert", "MegatronBertModel", USUAL_BERT(29056, 1024, 24, 16, 4096),
     TRF_ENCODER_ONLY, {"", "bert.", NULL}, bert_members,
     configure_megatron, describe_bert, megatron_pieces, megatron_heads, bert_buffers,
     bert_left_out, nothing},
    {"roberta", "RobertaModel", USUAL_BERT(50265, 768, 12, 12, 3072),
     TRF_ENCODER_ONLY, {"", "roberta.", NULL}, bert_members,
     configure_roberta, describe_roberta, bert_pieces, roberta_heads, bert_buffers,
     roberta_left_out, nothing},
    {"xlm-roberta", "XLMRobertaModel", USUAL_BERT(30522, 768, 12, 12, 3072),
     TRF_ENCODER_ONLY, {"", "roberta.", NULL}, bert_members,
     configure_roberta, describe_roberta, bert_pieces, xlm_roberta_heads, bert_buffers,
     roberta_left_out, nothing},
#define BART_LIKE(type, class_name, configure, describe, usual) \
    {type, class_name, usual, TRF_ENCODER_DECODER, {"model.", "", NULL}, bart_members, configure, \
     describe, bart_pieces, headless, bart_buffers, bart_left_out, bart_copies}
    BART_LIKE("marian", "MarianMTModel", configure_marian, describe_marian,
              USUAL_BART(58101, "gelu", "")),
    BART_LIKE("marian-nmt", NULL, configure_marian_nmt, NULL, "{}"),
    BART_LIKE("pegasus", "PegasusForConditionalGeneration", configure_pegasus, NULL,
              USUAL_BART(50265, "gelu", STARTS(0))),
    BART_LIKE("bart", "BartForConditionalGeneration", configure_bart, NULL,
              USUAL_BART(50265, "gelu", STARTS(2))),
    BART_LIKE("mbart", "MBartForConditionalGeneration", configure_mbart, NULL,
              USUAL_BART(50265, "gelu", "")),
    BART_LIKE("m2m_100", "M2M100ForConditionalGeneration", configure_m2m, NULL,
              USUAL_BART(128112, "relu", STARTS(2))),
    {"t5", "T5ForConditionalGeneration", USUAL_T5(32128, 2048, 6, 8, "relu", ""),
     TRF_ENCODER_DECODER, {"", NULL}, t5_members, configure_t5,
     describe_t5, t5_pieces, headless, t5_buffers, nothing, t5_copies},
    {"mt5", "MT5ForConditionalGeneration", USUAL_T5(250112, 1024, 8, 6, "gated-gelu", STARTS(0)),
     TRF_ENCODER_DECODER, {"", NULL}, t5_members,
     configure_t5, describe_t5, t5_pieces, headless, t5_buffers, nothing, t5_copies},
    {"gpt2", "GPT2LMHeadModel", USUAL_GPT2,
     TRF_DECODER_ONLY, {"transformer.", "", NULL}, gpt2_members,
     configure_gpt2, describe_gpt2, gpt2_pieces, headless, gpt2_buffers, nothing, decoder_copies},
#define LLAMA_LIKE(type, class_name, configure, describe, usual) \
    {type, class_name, usual, TRF_DECODER_ONLY, {"model.", "", NULL}, llama_members, configure, \
     describe, llama_pieces, headless, llama_buffers, nothing, decoder_copies}
    LLAMA_LIKE("llama", "LlamaForCausalLM", configure_llama, describe_llama,
              USUAL_LLAMA(32000, 11008, "", 2048)),
    LLAMA_LIKE("mistral", "MistralForCausalLM", configure_mistral, describe_mistral,
              USUAL_LLAMA(32000, 14336, "\"num_key_value_heads\": 8, ", 131072)),
    LLAMA_LIKE("qwen2", "Qwen2ForCausalLM", configure_qwen2, describe_qwen2,
              USUAL_LLAMA(151936, 22016, "\"num_key_value_heads\": 32, ", 32768)),
    {NULL, NULL, NULL, TRF_ENCODER_DECODER, {NULL}, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL}};

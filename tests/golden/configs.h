/* Made by tools/parity/make_goldens.py: the configurations, options and batches of the golden files. */
#ifndef GOLDEN_CONFIGS_H
#define GOLDEN_CONFIGS_H

enum { GOLDEN_COUNT = 45, GOLDEN_STEPS = 10, GOLDEN_STRIDE = 5 };

static const char *const golden_names[GOLDEN_COUNT] = {
    "pytorch",
    "tensor2tensor",
    "fairseq",
    "hf_marian",
    "marian",
    "annotated",
    "small_vectors",
    "learned",
    "pre_no_final",
    "long",
    "encoder_only",
    "encoder_only_pre",
    "decoder_only",
    "decoder_only_post",
    "head_mean",
    "head_first",
    "head_tokens",
    "head_masked",
    "tied_embeddings",
    "encoder_norm",
    "rms_no_bias",
    "rms_post",
    "qwen",
    "no_qkv_bias",
    "geglu",
    "swiglu",
    "reglu",
    "gpt2",
    "bert",
    "bart",
    "mbart",
    "t5",
    "relative_long",
    "bloom",
    "alibi",
    "llama",
    "gptj",
    "rotary",
    "bert_first",
    "bert_masked",
    "llama31",
    "bert_both",
    "both_pre",
    "bert_any",
    "head_number",
};

static const int32_t golden_source_0[] = { 5, 9, 7, 4, 10, 8, 9, 4 };
static const int32_t golden_source_lengths_0[] = { 5, 1, 0, 2 };
static const int32_t golden_target_0[] = { 6, 4, 9, 5, 7, 10, 4, 4, 8, 6, 5, 8, 6 };
static const int32_t golden_target_lengths_0[] = { 4, 7, 2, 0 };
static const int32_t golden_source_1[] = { 5, 9, 7, 4, 10, 8, 10, 6, 6, 4, 3, 7, 9, 4, 8, 5 };
static const int32_t golden_source_lengths_1[] = { 5, 1, 7, 3 };
static const int32_t golden_target_1[] = { 6, 4, 9, 5, 7, 10, 4, 4, 8, 6, 5, 9, 5, 3, 10 };
static const int32_t golden_target_lengths_1[] = { 4, 7, 1, 3 };
static const int32_t golden_source_2[] = { 5, 9, 7, 4, 10, 8, 10, 6, 6, 4, 1, 7, 9, 4, 8, 5 };
static const int32_t golden_source_lengths_2[] = { 5, 1, 7, 3 };
static const int32_t golden_target_2[] = { 6, 4, 9, 5, 7, 10, 4, 4, 8, 6, 5, 9, 5, 1, 10 };
static const int32_t golden_target_lengths_2[] = { 4, 7, 1, 3 };
static const int32_t golden_source_3[] = { 4, 5, 8, 6, 6, 8, 5, 4, 5, 8, 6, 6, 8, 5, 4, 5, 8, 6, 6, 8, 5, 4,
    5, 8, 6, 6, 8, 5, 4, 5, 8, 6, 6, 8, 5, 4, 5, 8, 6, 6, 8, 5, 4, 5, 8, 6, 6, 8, 5, 4, 5, 8, 6, 6, 8, 5, 4, 5, 8,
    6, 6, 8, 5, 4, 5, 8, 6, 6, 8, 5, 7, 8, 4, 9, 9, 4, 8, 7, 8, 4, 9, 9, 4, 8, 7, 8, 4, 9, 9, 4, 8, 7, 8, 4, 9, 9,
    4, 8, 7, 8, 4, 9, 9, 10, 4, 7, 5, 5, 7, 4, 10, 4, 7, 5, 5, 7, 4, 10, 4, 7 };
static const int32_t golden_source_lengths_3[] = { 70, 33, 17 };
static const int32_t golden_target_3[] = { 4, 5, 5, 10, 5, 10, 10, 4, 5, 5, 10, 5, 10, 10, 4, 5, 5, 10, 5, 10,
    10, 4, 5, 5, 10, 5, 6, 6, 4, 6, 4, 4, 5, 6, 6, 4, 6, 4, 4, 5, 6, 6, 4, 6, 4, 4, 5, 6, 6, 4, 6, 4, 4, 5, 6, 6,
    4, 6, 4, 4, 5, 6, 6, 4, 6, 4, 4, 5, 6, 6, 4, 6, 4, 4, 5, 6, 6, 4, 6, 4, 4, 5, 6, 6, 4, 6, 4, 4, 5, 6, 6, 4, 6,
    7, 7, 5, 7, 5, 5, 6, 7, 7, 5, 7, 5, 5, 6, 7, 7, 5, 7, 5, 5, 6, 7, 7, 5, 7, 5, 5, 6, 7, 7, 5, 7, 5, 5, 6, 7, 7,
    5, 7 };
static const int32_t golden_target_lengths_3[] = { 25, 67, 40 };
static const int32_t golden_source_4[] = { 5, 9, 7, 4, 10, 8, 10, 6, 6, 4, 3, 7, 9, 4, 8, 5 };
static const int32_t golden_source_lengths_4[] = { 5, 1, 7, 3 };
static const int32_t golden_target_4[] = { 2, 0, 1, -1 };
static const int32_t golden_target_lengths_4[] = { 1, 1, 1, 1 };
static const int32_t golden_source_5[] = { 5, 9, 7, 4, 10, 8, 10, 6, 6, 4, 3, 7, 9, 4, 8, 5 };
static const int32_t golden_source_lengths_5[] = { 5, 1, 7, 3 };
static const int32_t golden_target_5[] = { 0, 3, 1, 1 };
static const int32_t golden_target_lengths_5[] = { 1, 1, 1, 1 };
static const int32_t golden_source_6[] = { 5, 9, 7, 4, 10, 8, 10, 6, 6, 4, 4, 8 };
static const int32_t golden_source_lengths_6[] = { 5, 1, 4, 2 };
static const int32_t golden_target_6[] = { 2, 0, 1, -1, 2, 1, 0, 0, -1, 2, 1, 2 };
static const int32_t golden_target_lengths_6[] = { 5, 1, 4, 2 };
static const int32_t golden_source_7[] = { 5, 0, 7, 4, 10, 8, 10, 6, 0, 0, 4, 8 };
static const int32_t golden_source_lengths_7[] = { 5, 1, 4, 2 };
static const int32_t golden_target_7[] = { -1, 9, -1, 4, -1, -1, -1, 6, 6, 4, -1, 5 };
static const int32_t golden_target_lengths_7[] = { 5, 1, 4, 2 };
static const int32_t golden_source_8[] = { 5, 9, 2, 4, 10, 8, 10, 6, 2, 7, 2, 9, 2, 8, 5 };
static const int32_t golden_source_lengths_8[] = { 5, 1, 6, 3 };
static const int32_t golden_target_8[] = { 0, 3, 1, 1 };
static const int32_t golden_target_lengths_8[] = { 1, 1, 1, 1 };
static const int32_t golden_source_9[] = { 5, 11, 2, 4, 10, 8, 10, 6, 2, 11, 11, 4, 2, 8, 2, 9 };
static const int32_t golden_source_lengths_9[] = { 5, 1, 5, 5 };
static const int32_t golden_target_9[] = { -1, 9, -1, 4, -1, -1, -1, 6, -1, 6, 4, -1, -1, 5, -1, -1 };
static const int32_t golden_target_lengths_9[] = { 5, 1, 5, 5 };
static const int32_t golden_source_10[] = { 5, 11, 2, 4, 10, 8, 10, 6, 2, 11, 11, 4, 2, 8, 2, 9 };
static const int32_t golden_source_lengths_10[] = { 5, 1, 5, 5 };
static const int32_t golden_target_10[] = { 1, -1, 9, -1, 4, -1, 1, -1, -1, -1, 6, -1, 6, 4, 0, -1, -1, 5, -1,
    -1 };
static const int32_t golden_target_lengths_10[] = { 6, 2, 6, 6 };
static const int32_t golden_source_11[] = { 5, 9, 2, 4, 10, 8, 10, 6, 2, 7, 2, 9, 2, 8, 5 };
static const int32_t golden_source_lengths_11[] = { 5, 1, 6, 3 };
static const int32_t golden_target_11[] = { 0, 3, -1, 0, 1, 2, 3 };
static const int32_t golden_target_lengths_11[] = { 2, 0, 1, 4 };
static const int32_t golden_source_12[] = { 5, 9, 7, 4, 10, 8, 10, 6, 6, 4, 3, 7, 9, 4, 8, 5 };
static const int32_t golden_source_lengths_12[] = { 5, 1, 7, 3 };
static const int32_t golden_target_12[] = { 1056964608, -1072693248, -1, 1077936128 };
static const int32_t golden_target_lengths_12[] = { 1, 1, 1, 1 };

/* Case number `index`, set over the presets in *c and *t. */
static void golden_case(int index, trf_config *c, trf_train_options *t, trf_batch *b)
{
    memset(b, 0, sizeof *b);
    switch (index) {
    case 0: /* pytorch */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 16; c->encoder_layers = 2;
        c->decoder_layers = 2; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 1: /* tensor2tensor */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_HALVES_N1;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-06; c->final_norm = 0; c->scale_embeddings = 1; c->tying = TRF_TIED_ALL;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.0001;
        t->epsilon_rule = TRF_EPSILON_FAIRSEQ; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_OTHERS_KL; t->clip_norm = TRF_NO_CLIPPING;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 2: /* fairseq */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 20; c->n_heads = 2; c->d_ff = 27; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_HALVES_N1;
        c->position_offset = 2; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 0; c->scale_embeddings = 1; c->tying = TRF_TIED_DECODER;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_EOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.003;
        t->epsilon_rule = TRF_EPSILON_FAIRSEQ; t->weight_decay = 0.0; t->decay_all = 0;
        t->schedule = TRF_INVERSE_SQRT; t->learning_rate = 0.004; t->initial_rate = 0.0001; t->final_rate = 0.0;
        t->warmup = 4; t->total_steps = 0; t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_OTHERS;
        t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 3: /* hf_marian */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 24; c->n_heads = 4; c->d_ff = 32; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 13; c->max_length = 16; c->pad = 12;
        c->bos = 11; c->eos = 0; c->unk = 1; c->activation = TRF_SILU; c->positions = TRF_POSITIONS_HALVES;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 0; c->scale_embeddings = 1; c->tying = TRF_TIED_ALL;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_PAD; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_CONSTANT;
        t->learning_rate = 0.003; t->initial_rate = 0.0005; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_2; b->source.lengths = golden_source_lengths_2; b->source.count = 4;
        b->target.ids = golden_target_2; b->target.lengths = golden_target_lengths_2; b->target.count = 4;
        break;
    case 4: /* marian */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 1; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_SILU; c->positions = TRF_POSITIONS_HALVES_N1;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-06; c->final_norm = 0; c->scale_embeddings = 1; c->tying = TRF_TIED_DECODER;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_ZERO; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0;
        t->schedule = TRF_INVERSE_SQRT; t->learning_rate = 0.003; t->initial_rate = 0.0; t->final_rate = 0.0;
        t->warmup = 4; t->total_steps = 0; t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM;
        t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 5: /* annotated */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_NONE;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_ANNOTATED;
        c->norm_epsilon = 0.001; c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 0;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_NO_PAD_KL; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 6: /* small_vectors */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_NONE;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.0001;
        t->epsilon_rule = TRF_EPSILON_INSIDE; t->weight_decay = 0.02; t->decay_all = 1; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 7: /* learned */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 18; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 2;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 10; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 0;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAMW; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.1; t->decay_all = 0; t->schedule = TRF_COSINE;
        t->learning_rate = 0.004; t->initial_rate = 0.0; t->final_rate = 0.0005; t->warmup = 4; t->total_steps = 9;
        t->label_smoothing = 0.0; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 8: /* pre_no_final */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 16; c->encoder_layers = 1;
        c->decoder_layers = 2; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-06; c->final_norm = 0; c->scale_embeddings = 1; c->tying = TRF_TIED_ALL;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAMW; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.1; t->decay_all = 1; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 0.25;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 9: /* long */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 16; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 96; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_TIED_ALL;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_3; b->source.lengths = golden_source_lengths_3; b->source.count = 3;
        b->target.ids = golden_target_3; b->target.lengths = golden_target_lengths_3; b->target.count = 3;
        break;
    case 10: /* encoder_only */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 2;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 0; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        break;
    case 11: /* encoder_only_pre */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 20; c->n_heads = 5; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 10; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 2; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 0;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        break;
    case 12: /* decoder_only */
        c->kind = TRF_DECODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 0;
        c->decoder_layers = 2; c->source_vocab = 0; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_TIED_DECODER;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.0; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 13: /* decoder_only_post */
        c->kind = TRF_DECODER_ONLY; c->d_model = 20; c->n_heads = 2; c->d_ff = 23; c->encoder_layers = 0;
        c->decoder_layers = 1; c->source_vocab = 0; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_SILU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 0; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_EOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_INSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 14: /* head_mean */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_MEAN; c->n_labels = 3; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.02; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_4; b->source.lengths = golden_source_lengths_4; b->source.count = 4;
        b->target.ids = golden_target_4; b->target.lengths = golden_target_lengths_4; b->target.count = 4;
        break;
    case 15: /* head_first */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 0;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_FIRST; c->n_labels = 4; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.02; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_5; b->source.lengths = golden_source_lengths_5; b->source.count = 4;
        b->target.ids = golden_target_5; b->target.lengths = golden_target_lengths_5; b->target.count = 4;
        break;
    case 16: /* head_tokens */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_TOKENS; c->n_labels = 3; c->kv_heads = 0;
        c->d_head = 0; c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128;
        c->rotary_base = 10000.0; c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0;
        c->rotary_low = 1.0; c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0;
        c->head_layer = 0; c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.02; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_6; b->source.lengths = golden_source_lengths_6; b->source.count = 4;
        b->target.ids = golden_target_6; b->target.lengths = golden_target_lengths_6; b->target.count = 4;
        break;
    case 17: /* head_masked */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_MASKED; c->n_labels = 0; c->kv_heads = 0;
        c->d_head = 0; c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128;
        c->rotary_base = 10000.0; c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0;
        c->rotary_low = 1.0; c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0;
        c->head_layer = 0; c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.02; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_7; b->source.lengths = golden_source_lengths_7; b->source.count = 4;
        b->target.ids = golden_target_7; b->target.lengths = golden_target_lengths_7; b->target.count = 4;
        break;
    case 18: /* tied_embeddings */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_NONE;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 3; c->scale_embeddings = 0; c->tying = TRF_TIED_EMBEDDINGS;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_PAD; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 19: /* encoder_norm */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 2; c->scale_embeddings = 1; c->tying = TRF_TIED_EMBEDDINGS;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAMW; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 20: /* rms_no_bias */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 20; c->n_heads = 2; c->d_ff = 27; c->encoder_layers = 2;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_RMS; c->norm_epsilon = 1e-06;
        c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_TIED_EMBEDDINGS; c->generator_bias = 0;
        c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 0; c->out_bias = 0;
        c->feed_forward_bias = 0; c->source_bos = 0; c->source_eos = 1; c->decoder_start = TRF_START_PAD;
        c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0; c->attention_scale = 0.0;
        c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0; c->rotary_width = 0;
        c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0; c->rotary_high = 4.0;
        c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0; c->sequence_labels = 0;
        c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 21: /* rms_post */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_RMS; c->norm_epsilon = 1e-05;
        c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED; c->generator_bias = 1;
        c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1; c->out_bias = 0;
        c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1; c->decoder_start = TRF_START_BOS;
        c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0; c->attention_scale = 0.0;
        c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0; c->rotary_width = 0;
        c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0; c->rotary_high = 4.0;
        c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0; c->sequence_labels = 0;
        c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 22: /* qwen */
        c->kind = TRF_DECODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 0;
        c->decoder_layers = 2; c->source_vocab = 0; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_SILU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_RMS; c->norm_epsilon = 1e-05;
        c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED; c->generator_bias = 0;
        c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1; c->out_bias = 0;
        c->feed_forward_bias = 0; c->source_bos = 0; c->source_eos = 1; c->decoder_start = TRF_START_BOS;
        c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0; c->attention_scale = 0.0;
        c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0; c->rotary_width = 0;
        c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0; c->rotary_high = 4.0;
        c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0; c->sequence_labels = 0;
        c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 23: /* no_qkv_bias */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 4; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 0;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 24: /* geglu */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 20; c->n_heads = 2; c->d_ff = 27; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU_TANH; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_RMS; c->norm_epsilon = 1e-06;
        c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_TIED_EMBEDDINGS; c->generator_bias = 0;
        c->feed_forward_gate = 1; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 0; c->out_bias = 0;
        c->feed_forward_bias = 0; c->source_bos = 0; c->source_eos = 1; c->decoder_start = TRF_START_PAD;
        c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0; c->attention_scale = 0.0;
        c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0; c->rotary_width = 0;
        c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0; c->rotary_high = 4.0;
        c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0; c->sequence_labels = 0;
        c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 25: /* swiglu */
        c->kind = TRF_DECODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 0;
        c->decoder_layers = 2; c->source_vocab = 0; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_SILU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_RMS; c->norm_epsilon = 1e-05;
        c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_UNTIED; c->generator_bias = 0;
        c->feed_forward_gate = 1; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 0; c->out_bias = 0;
        c->feed_forward_bias = 0; c->source_bos = 0; c->source_eos = 1; c->decoder_start = TRF_START_BOS;
        c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0; c->attention_scale = 0.0;
        c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0; c->rotary_width = 0;
        c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0; c->rotary_high = 4.0;
        c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0; c->sequence_labels = 0;
        c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 26: /* reglu */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 33; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 1; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 27: /* gpt2 */
        c->kind = TRF_DECODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 0;
        c->decoder_layers = 2; c->source_vocab = 0; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU_TANH; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_TIED_DECODER;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 28: /* bert */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 2;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-12; c->final_norm = 0; c->scale_embeddings = 0; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 1; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 1; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_MASKED; c->n_labels = 0; c->kv_heads = 0;
        c->d_head = 0; c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128;
        c->rotary_base = 10000.0; c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0;
        c->rotary_low = 1.0; c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0;
        c->head_layer = 0; c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_7; b->source.lengths = golden_source_lengths_7; b->source.count = 4;
        b->target.ids = golden_target_7; b->target.lengths = golden_target_lengths_7; b->target.count = 4;
        break;
    case 29: /* bart */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 20; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 2; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 0; c->scale_embeddings = 0; c->tying = TRF_TIED_ALL;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 1; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 1; c->source_eos = 1;
        c->decoder_start = TRF_START_EOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 30: /* mbart */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 1; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_ZERO; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 31: /* t5 */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 20; c->n_heads = 3; c->d_ff = 23; c->encoder_layers = 2;
        c->decoder_layers = 2; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_RELATIVE;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_RMS; c->norm_epsilon = 1e-06;
        c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_TIED_ALL; c->generator_bias = 0;
        c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 0; c->out_bias = 0;
        c->feed_forward_bias = 0; c->source_bos = 0; c->source_eos = 1; c->decoder_start = TRF_START_PAD;
        c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 6; c->attention_scale = 1.0;
        c->relative_buckets = 8; c->relative_distance = 6; c->rotary_base = 10000.0; c->rotary_width = 0;
        c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0; c->rotary_high = 4.0;
        c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 1; c->head_layer = 0; c->sequence_labels = 0;
        c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 32: /* relative_long */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 16; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 11; c->target_vocab = 11; c->max_length = 96; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_RELATIVE;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_TIED_ALL;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 16; c->relative_distance = 40; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_3; b->source.lengths = golden_source_lengths_3; b->source.count = 3;
        b->target.ids = golden_target_3; b->target.lengths = golden_target_lengths_3; b->target.count = 3;
        break;
    case 33: /* bloom */
        c->kind = TRF_DECODER_ONLY; c->d_model = 18; c->n_heads = 3; c->d_ff = 24; c->encoder_layers = 0;
        c->decoder_layers = 2; c->source_vocab = 0; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU_TANH; c->positions = TRF_POSITIONS_ALIBI;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_TIED_DECODER;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 1; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 34: /* alibi */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 4; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_ALIBI;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_0; b->source.lengths = golden_source_lengths_0; b->source.count = 4;
        b->target.ids = golden_target_0; b->target.lengths = golden_target_lengths_0; b->target.count = 4;
        break;
    case 35: /* llama */
        c->kind = TRF_DECODER_ONLY; c->d_model = 16; c->n_heads = 4; c->d_ff = 24; c->encoder_layers = 0;
        c->decoder_layers = 2; c->source_vocab = 0; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_SILU; c->positions = TRF_POSITIONS_ROTARY;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_RMS; c->norm_epsilon = 1e-05;
        c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_UNTIED; c->generator_bias = 0;
        c->feed_forward_gate = 1; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 0; c->out_bias = 0;
        c->feed_forward_bias = 0; c->source_bos = 0; c->source_eos = 1; c->decoder_start = TRF_START_BOS;
        c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 2; c->d_head = 6; c->attention_scale = 0.0;
        c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0; c->rotary_width = 0;
        c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0; c->rotary_high = 4.0;
        c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0; c->sequence_labels = 0;
        c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 36: /* gptj */
        c->kind = TRF_DECODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 0;
        c->decoder_layers = 1; c->source_vocab = 0; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU_TANH; c->positions = TRF_POSITIONS_ROTARY;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 0;
        c->out_bias = 0; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 100.0;
        c->rotary_width = 4; c->rotary_scale = 2.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_INTERLEAVED; c->scale_logits = 1; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 37: /* rotary */
        c->kind = TRF_ENCODER_DECODER; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 1; c->source_vocab = 13; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_ROTARY;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 1; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 1; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 50.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_1; b->source.lengths = golden_source_lengths_1; b->source.count = 4;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 38: /* bert_first */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-12; c->final_norm = 0; c->scale_embeddings = 0; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 1; c->segments = 2; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 1; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_FIRST; c->n_labels = 4; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 1;
        c->sequence_labels = 0; c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_8; b->source.lengths = golden_source_lengths_8; b->source.count = 4;
        b->target.ids = golden_target_8; b->target.lengths = golden_target_lengths_8; b->target.count = 4;
        break;
    case 39: /* bert_masked */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU_TANH; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 0.001; c->final_norm = 0; c->scale_embeddings = 0; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 1; c->segments = 3; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 1; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_MASKED; c->n_labels = 0; c->kv_heads = 0;
        c->d_head = 0; c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128;
        c->rotary_base = 10000.0; c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0;
        c->rotary_low = 1.0; c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0;
        c->head_layer = 1; c->sequence_labels = 0; c->mask = 11;
        t->optimizer = TRF_ADAMW; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_9; b->source.lengths = golden_source_lengths_9; b->source.count = 4;
        b->target.ids = golden_target_9; b->target.lengths = golden_target_lengths_9; b->target.count = 4;
        break;
    case 40: /* llama31 */
        c->kind = TRF_DECODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 0;
        c->decoder_layers = 1; c->source_vocab = 0; c->target_vocab = 11; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_SILU; c->positions = TRF_POSITIONS_ROTARY;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_RMS; c->norm_epsilon = 1e-05;
        c->final_norm = 1; c->scale_embeddings = 0; c->tying = TRF_UNTIED; c->generator_bias = 0;
        c->feed_forward_gate = 1; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 0; c->out_bias = 0;
        c->feed_forward_bias = 0; c->source_bos = 0; c->source_eos = 1; c->decoder_start = TRF_START_BOS;
        c->head = TRF_HEAD_NONE; c->n_labels = 0; c->kv_heads = 0; c->d_head = 0; c->attention_scale = 0.0;
        c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10.0; c->rotary_width = 0;
        c->rotary_scale = 8.0; c->rotary_trained = 20; c->rotary_low = 0.75; c->rotary_high = 3.0;
        c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0; c->sequence_labels = 0;
        c->mask = -1;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->target.ids = golden_target_1; b->target.lengths = golden_target_lengths_1; b->target.count = 4;
        break;
    case 41: /* bert_both */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 2;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-12; c->final_norm = 0; c->scale_embeddings = 0; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 1; c->segments = 2; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 1; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_MASKED; c->n_labels = 0; c->kv_heads = 0;
        c->d_head = 0; c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128;
        c->rotary_base = 10000.0; c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0;
        c->rotary_low = 1.0; c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0;
        c->head_layer = 1; c->sequence_labels = 2; c->mask = 11;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.1; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.1; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_10; b->source.lengths = golden_source_lengths_10; b->source.count = 4;
        b->target.ids = golden_target_10; b->target.lengths = golden_target_lengths_10; b->target.count = 4;
        break;
    case 42: /* both_pre */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 2; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 0;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_MASKED; c->n_labels = 0; c->kv_heads = 0;
        c->d_head = 0; c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128;
        c->rotary_base = 10000.0; c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0;
        c->rotary_low = 1.0; c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0;
        c->head_layer = 0; c->sequence_labels = 5; c->mask = 11;
        t->optimizer = TRF_ADAMW; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.1; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.1; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.0; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_10; b->source.lengths = golden_source_lengths_10; b->source.count = 4;
        b->target.ids = golden_target_10; b->target.lengths = golden_target_lengths_10; b->target.count = 4;
        break;
    case 43: /* bert_any */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_GELU; c->positions = TRF_POSITIONS_LEARNED;
        c->position_offset = 0; c->norm_place = TRF_POST_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-12; c->final_norm = 0; c->scale_embeddings = 0; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 1; c->segments = 2; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 1; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_FIRST; c->n_labels = 4; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 1;
        c->sequence_labels = 0; c->mask = -1; c->label_kind = TRF_LABELS_ANY;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.05; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.0; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_11; b->source.lengths = golden_source_lengths_11; b->source.count = 4;
        b->target.ids = golden_target_11; b->target.lengths = golden_target_lengths_11; b->target.count = 4;
        break;
    case 44: /* head_number */
        c->kind = TRF_ENCODER_ONLY; c->d_model = 16; c->n_heads = 2; c->d_ff = 24; c->encoder_layers = 1;
        c->decoder_layers = 0; c->source_vocab = 13; c->target_vocab = 0; c->max_length = 16; c->pad = 0;
        c->bos = 1; c->eos = 2; c->unk = 3; c->activation = TRF_RELU; c->positions = TRF_POSITIONS_INTERLEAVED;
        c->position_offset = 0; c->norm_place = TRF_PRE_NORM; c->norm_rule = TRF_NORM_STANDARD;
        c->norm_epsilon = 1e-05; c->final_norm = 1; c->scale_embeddings = 1; c->tying = TRF_UNTIED;
        c->generator_bias = 0; c->feed_forward_gate = 0; c->embedding_norm = 0; c->segments = 0; c->qkv_bias = 1;
        c->out_bias = 1; c->feed_forward_bias = 1; c->source_bos = 0; c->source_eos = 1;
        c->decoder_start = TRF_START_BOS; c->head = TRF_HEAD_MEAN; c->n_labels = 1; c->kv_heads = 0; c->d_head = 0;
        c->attention_scale = 0.0; c->relative_buckets = 32; c->relative_distance = 128; c->rotary_base = 10000.0;
        c->rotary_width = 0; c->rotary_scale = 1.0; c->rotary_trained = 0; c->rotary_low = 1.0;
        c->rotary_high = 4.0; c->rotary_pairs = TRF_ROTARY_HALVES; c->scale_logits = 0; c->head_layer = 0;
        c->sequence_labels = 0; c->mask = -1; c->label_kind = TRF_LABELS_NUMBERS;
        t->optimizer = TRF_ADAM; t->beta1 = 0.9; t->beta2 = 0.98; t->epsilon = 0.001;
        t->epsilon_rule = TRF_EPSILON_OUTSIDE; t->weight_decay = 0.0; t->decay_all = 0; t->schedule = TRF_NOAM;
        t->learning_rate = 0.25; t->initial_rate = 0.0; t->final_rate = 0.0; t->warmup = 4; t->total_steps = 0;
        t->label_smoothing = 0.0; t->smoothing_rule = TRF_SMOOTH_UNIFORM; t->clip_norm = 1.0;
        b->source.ids = golden_source_12; b->source.lengths = golden_source_lengths_12; b->source.count = 4;
        b->target.ids = golden_target_12; b->target.lengths = golden_target_lengths_12; b->target.count = 4;
        break;
    }
}

#endif

#pragma once
#include "api/version.h"
#include "api/basics.h"

// -----------------------------------------------------------------------------------------------
// >>api-config     what a model is, and the conventions in which systems differ
//
// Systems implement the paper differently: where norms are placed, how positions are encoded, how
// weights are initialised. Each such choice is a field of trf_config, and model files store it. The
// comment of a value usually names systems that use it. trf_train_options has the choices of
// training, trf_search those of decoding.
// -----------------------------------------------------------------------------------------------

typedef enum trf_kind {
    TRF_ENCODER_DECODER = 0,
    TRF_ENCODER_ONLY    = 1,    /* hidden states (trf_reader_read), or the logits of its head */
    TRF_DECODER_ONLY    = 2,    /* language model: has only the target side, predicts next tokens */
    TRF_KIND_COUNT
} trf_kind;

/* GELU_TANH approximates GELU: they differ by at most 5e-4. Hugging Face calls it gelu_new. */
typedef enum trf_activation {
    TRF_RELU      = 0,      /* max(x, 0): the paper */
    TRF_GELU      = 1,      /* x Phi(x), computed with erf: BERT */
    TRF_SILU      = 2,      /* x sigmoid(x): Marian, Llama */
    TRF_GELU_TANH = 3,      /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2: GPT-2, T5 v1.1 */
    TRF_ACTIVATION_COUNT
} trf_activation;

/* How a model knows the order of tokens. The first four are added to a token's embedding (paper
   3.5). Of these, the first three add sines and cosines. The d = d_model features of position p
   form N = d/2 pairs, i = 0..N-1, each of a sine and a cosine of one angle. Systems define the
   angles differently. The last three change self-attention alone, where a score is q k^T times
   attention_scale. They depend on distances between tokens, so position_offset has no effect. */
typedef enum trf_positions {
    TRF_POSITIONS_INTERLEAVED = 0,  /* sin, cos, sin, cos...; angle p / 10000^(2i/d): paper,
                                       PyTorch tutorials */
    TRF_POSITIONS_HALVES_N1   = 1,  /* all sines, then all cosines; angle p / 10000^(i/(N-1)):
                                       tensor2tensor, fairseq, Marian */
    TRF_POSITIONS_HALVES      = 2,  /* all sines, then all cosines; angle p / 10000^(2i/d):
                                       Hugging Face Marian */
    TRF_POSITIONS_LEARNED     = 3,  /* a parameter (max_length + position_offset, d) per side */
    TRF_POSITIONS_NONE        = 4,
    TRF_POSITIONS_RELATIVE    = 5,  /* adds a parameter to the scores: one number for each head and
                                       range of distances (relative_buckets), the same in all layers
                                       of a stack: T5 */
    TRF_POSITIONS_ALIBI       = 6,  /* subtracts slope * distance from the scores; head h =
                                       1..n_heads has the slope 2^(-8 h / n_heads) if n_heads is a
                                       power of two: Press et al. 2022, BLOOM */
    TRF_POSITIONS_ROTARY      = 7,  /* rotates pairs of features of queries and keys by angles that
                                       grow with the position (rotary_...): Su et al. 2021, Llama */
    TRF_POSITIONS_COUNT
} trf_positions;

/* Which features of a head are a pair for TRF_POSITIONS_ROTARY. w = rotary_width. */
typedef enum trf_rotary_pairs {
    TRF_ROTARY_HALVES      = 0,     /* features i and i + w/2: GPT-NeoX, Llama in Hugging Face */
    TRF_ROTARY_INTERLEAVED = 1,     /* features 2i and 2i + 1: the paper, GPT-J, Meta's Llama */
    TRF_ROTARY_PAIRS_COUNT
} trf_rotary_pairs;

typedef enum trf_norm_place {
    TRF_POST_NORM = 0,      /* x = norm(x + sublayer(x)): the paper */
    TRF_PRE_NORM  = 1,      /* x = x + sublayer(norm(x)) */
    TRF_NORM_PLACE_COUNT
} trf_norm_place;

/* All of them multiply the result by a gain. All but RMS add a bias. */
typedef enum trf_norm_rule {
    TRF_NORM_STANDARD  = 0, /* (x - mean) / sqrt(var + epsilon), var biased: PyTorch and
                               nearly all systems */
    TRF_NORM_ANNOTATED = 1, /* (x - mean) / (s + epsilon), s the unbiased standard deviation: The
                               Annotated Transformer */
    TRF_NORM_RMS       = 2, /* x / sqrt(mean of x^2 + epsilon), without a bias: Zhang and Sennrich
                               2019, T5, Llama */
    TRF_NORM_RULE_COUNT
} trf_norm_rule;

/* Which stacks have one more norm after their last layer. */
typedef enum trf_final_norm {
    TRF_FINAL_NORM_NONE    = 0,
    TRF_FINAL_NORM_BOTH    = 1,     /* every stack that the model has */
    TRF_FINAL_NORM_ENCODER = 2,     /* the encoder alone */
    TRF_FINAL_NORM_DECODER = 3,     /* the decoder alone */
    TRF_FINAL_NORM_COUNT
} trf_final_norm;

/* Which matrices are one parameter. A source embedding that is also the target embedding needs one
   vocabulary for both sides. */
typedef enum trf_tying {
    TRF_UNTIED          = 0,
    TRF_TIED_DECODER    = 1,    /* target embedding = generator weight */
    TRF_TIED_ALL        = 2,    /* source embedding = target embedding = generator weight */
    TRF_TIED_EMBEDDINGS = 3,    /* source embedding = target embedding; the generator has its own
                                   weight: T5 v1.1 */
    TRF_TYING_COUNT
} trf_tying;

/* Initial values of the weights of attention, feed-forward and trf_head. in is the number of a
   matrix's columns, out that of its rows.
   XAVIER    weights are uniform in +-sqrt(6/(in+out)) (Glorot and Bengio 2010), biases are zero.
             (In nn.Transformer the biases of feed-forward are uniform in +-1/sqrt(in).)
   LINEAR    weights and biases are uniform in +-1/sqrt(in).
   Norms start with gain 1 and bias 0. */
typedef enum trf_init {
    TRF_INIT_XAVIER_PACKED = 0, /* q, k and v count as one (3d, d) matrix: nn.Transformer */
    TRF_INIT_XAVIER        = 1, /* as three (d, d) matrices: tensor2tensor, tutorials */
    TRF_INIT_LINEAR        = 2, /* nn.Linear, and tutorials that build a model from nn.Linear */
    TRF_INIT_COUNT
} trf_init;

/* Initial values of embeddings, of learned positions, and of the generator's weight unless it is
   tied. With NORMAL_1 and scale_embeddings, embeddings are much larger than sinusoidal positions:
   the standard deviation of their elements is sqrt(d_model), that of positions about 0.7. Such a
   model learns the order of its tokens late or never (examples/studies/reversal.c). */
typedef enum trf_embedding_init {
    TRF_EMBEDDING_NORMAL_D = 0, /* normal, standard deviation 1/sqrt(d_model): tensor2tensor,
                                   fairseq */
    TRF_EMBEDDING_NORMAL_1 = 1, /* normal, standard deviation 1; generator weight and bias are
                                   uniform in +-1/sqrt(d_model): nn.Embedding, nn.Linear */
    TRF_EMBEDDING_XAVIER   = 2, /* uniform in +-sqrt(6/(vocab+d_model)): tutorials */
    TRF_EMBEDDING_FAN_OUT  = 3, /* uniform in +-sqrt(3/d_model): Marian */
    TRF_EMBEDDING_INIT_COUNT
} trf_embedding_init;

/* What the decoder reads before its first token. */
typedef enum trf_decoder_start {
    TRF_START_BOS  = 0,     /* needs bos */
    TRF_START_EOS  = 1,     /* fairseq */
    TRF_START_PAD  = 2,     /* Hugging Face Marian, T5; needs pad */
    TRF_START_ZERO = 3,     /* a zero vector: Marian */
    TRF_DECODER_START_COUNT
} trf_decoder_start;

/* The last layer of an encoder-only model: logits z = x W^T + b, trained with cross-entropy or as
   trf_label_kind says. x is the final state of one token, or one vector made from a sequence's
   states. trf_batch describes the labels. */
typedef enum trf_head {
    TRF_HEAD_NONE   = 0,    /* models of the other kinds have this value. An encoder-only model
                               without a head has no logits and cannot be trained */
    TRF_HEAD_MEAN   = 1,    /* one label per sequence (trf_reader_classify); x is the mean of its
                               rows, the row of EOS included */
    TRF_HEAD_FIRST  = 2,    /* one label per sequence (trf_reader_classify); x is its first row.
                               With head_layer: BERT, RoBERTa */
    TRF_HEAD_TOKENS = 3,    /* one label per token */
    TRF_HEAD_MASKED = 4,    /* predicts for each token the one that belongs there (TRF_READ_LOGITS).
                               Sources may contain the mask (trf_config.mask). W is the source
                               embedding. With head_layer: BERT, RoBERTa. With sequence_labels the
                               model has a second head, for sequences */
    TRF_HEAD_COUNT
} trf_head;

/* What the labels of a sequence are, for the heads MEAN and FIRST. z has n_labels logits. The loss
   of a sequence, and what trf_reader_classify gives for each logit, its output:

                     loss                                            output
       ONE_OF        cross-entropy: -log of the label's softmax      softmax(z)
       ANY           mean of -y log s - (1 - y) log(1 - s), where    s = sigmoid(z)
                     y is 1 for a label that holds, else 0
       NUMBERS       mean of (z - y)^2, y being the wanted number    z

   Each mean is over the n_labels logits. These are the losses of transformers' sequence
   classifiers: CrossEntropyLoss, BCEWithLogitsLoss, MSELoss. */
typedef enum trf_label_kind {
    TRF_LABELS_ONE_OF  = 0,     /* exactly one label holds; problem_type single_label_classification
                                   in transformers */
    TRF_LABELS_ANY     = 1,     /* any number of labels hold, also none; with one label: yes or no;
                                   multi_label_classification */
    TRF_LABELS_NUMBERS = 2,     /* the labels are numbers; regression. With one: grades, and scores
                                   of pairs of texts (trf_reader_rank) */
    TRF_LABEL_KIND_COUNT
} trf_label_kind;

/* The options of a model. Options are literal: the library uses what the struct contains and
   replaces nothing. Fill it with a preset, then change fields. trf_model_create rejects a field
   that is out of range and names it. The paper's letters are in brackets. "default" is the value
   in all three presets. */
typedef struct trf_config {
    trf_kind kind;              /* default TRF_ENCODER_DECODER */
    int32_t d_model;            /* width of every token's vector [d_model]; 1..65536 */
    int32_t n_heads;            /* attention heads [h]; divides d_model if d_head is 0; 1..65536 */
    int32_t kv_heads;           /* heads of keys and values; divides n_heads: head h reads number h
                                   * kv_heads / n_heads. 0: n_heads; default 0. Fewer make a
                                   smaller cache (grouped queries, Ainslie et al. 2023) */
    int32_t d_head;             /* width of a head [d_k, d_v]; n_heads * d_head is at most 2^20. 0:
                                   d_model / n_heads; default 0 */
    double attention_scale;     /* factor of q k^T; 0..1e6. 0: 1/sqrt(d_head); default 0. T5: 1 */
    int32_t d_ff;               /* inner width of the feed-forward block [d_ff]; 1..2^20 */
    int32_t encoder_layers;     /* [N] 1..256; 0 if kind has no encoder */
    int32_t decoder_layers;     /* [N] 1..256; 0 if kind has no decoder */
    int32_t source_vocab;       /* number of source tokens, the four special ids included; 5..2^24;
                                   not read if kind has no encoder; default 0: set it */
    int32_t target_vocab;       /* the same for targets and the decoder; equal to source_vocab if
                                   both sides share an embedding; default 0: set it */
    int32_t max_length;         /* rows of the longest sequence: its ids, and EOS if added;
                                   2..2^20; default 512 */
    int32_t trained_source, trained_target;     /* ids of the longest source and target of the
                                   training data, EOS not counted: what the recipe sets. Unless
                                   max_length_b of trf_search is given, no answer is cut below it.
                                   0: unknown; 0..2^20; default 0 */
    int32_t pad, bos, eos, unk; /* special ids, below the size of each vocabulary that the kind has;
                                   default 0, 1, 2, 3. pad, bos and unk may be -1: the model has
                                   none. bos may be eos (GPT-2). Otherwise all differ. Batches need
                                   no padding. Answers never contain pad, nor bos with decoder_start
                                   BOS unless it is eos. A field that uses an id needs it:
                                   source_bos, decoder_start, head */
    trf_activation activation;  /* default TRF_RELU */
    int32_t feed_forward_gate;  /* 1: the inner layer is act(x U^T) * (x V^T). The first matrix has
                                   the d_ff rows of U, then those of V: ReGLU, GEGLU, SwiGLU
                                   (Shazeer 2020); default 0 */
    trf_positions positions;    /* default TRF_POSITIONS_INTERLEAVED */
    int32_t position_offset;    /* number of the first position; 0..2^20; default 0. fairseq has 2,
                                   CTranslate2 1 */
    int32_t relative_buckets;   /* RELATIVE: numbers of a head. In the encoder half of them are for
                                   keys before a query, half for keys after it. In the decoder all
                                   are for keys before a query. Half of the numbers for a direction
                                   are for one distance each, the others for ranges that grow with
                                   the distance; even, 4..65536; default 32 */
    int32_t relative_distance;  /* RELATIVE: keys at least so many positions away share the last
                                   bucket; more than half of relative_buckets, at most 2^20;
                                   default 128 */
    double rotary_base;         /* ROTARY: pair i turns by p / base^(2i/w) at position p; 1..1e12;
                                   default 10000 */
    int32_t rotary_width;       /* ROTARY: how many features of a head turn [w], the first ones;
                                   even, at most d_head. 0: all; default 0 */
    double rotary_scale;        /* ROTARY: positions are divided by it, which stretches a trained
                                   model to longer sequences (linear scaling); 1e-3..1e6;
                                   default 1 */
    int32_t rotary_trained;     /* ROTARY: a length n for which slow pairs alone are scaled (Llama
                                   3.1: 8192, with rotary_scale 8). Pairs with rotary_high turns or
                                   more in n positions are not scaled. Those with rotary_low turns
                                   or fewer are. Between the two, the scaling grows linearly as the
                                   turns decrease. 0: all pairs are scaled; 0..2^20; default 0 */
    double rotary_low, rotary_high;     /* for rotary_trained, low below high; 0..1e6; default 1
                                   and 4 */
    trf_rotary_pairs rotary_pairs;      /* default TRF_ROTARY_HALVES */
    trf_norm_place norm_place;  /* default TRF_PRE_NORM */
    trf_norm_rule norm_rule;    /* default TRF_NORM_STANDARD */
    double norm_epsilon;        /* 1e-30..1; default 1e-5 */
    trf_final_norm final_norm;  /* default TRF_FINAL_NORM_BOTH */
    int32_t scale_embeddings;   /* 1: embeddings are multiplied by sqrt(d_model) (paper 3.4);
                                   default 1 */
    int32_t embedding_norm;     /* 1: the sum of embedding and position is normalised, before its
                                   dropout: BERT, BART; default 0 */
    int32_t segments;           /* rows of a parameter (segments, d) for the source; 0..1024. Each
                                   row of a source adds the one of its segment to embedding and
                                   position. EOS ends a segment: sources may then contain it
                                   (trf_join). BERT has 2: [CLS] A [SEP] B [SEP] has the segments
                                   0 0 0 1 1. default 0: there are no segments */
    trf_tying tying;            /* decoder-only: UNTIED or TIED_DECODER. encoder-only: UNTIED.
                                   (TRF_HEAD_MASKED always uses the source embedding.) default
                                   TRF_UNTIED */
    int32_t generator_bias;     /* 1: the output projection has a bias; default 1 */
    int32_t scale_logits;       /* 1: the output projection reads states divided by sqrt(d_model):
                                   T5 with tied embeddings. 0 if encoder-only; default 0 */
    int32_t qkv_bias;           /* 1: the projections to queries, keys and values have biases;
                                   default 1 */
    int32_t out_bias;           /* 1: attention's output projection has a bias; default 1 */
    int32_t feed_forward_bias;  /* 1: both matrices of feed-forward have biases; default 1 */
    trf_init init;              /* default TRF_INIT_XAVIER_PACKED */
    trf_embedding_init embedding_init;      /* default TRF_EMBEDDING_NORMAL_D */
    int32_t source_bos;         /* 1: the library begins every source with BOS: [CLS] in BERT;
                                   default 0 */
    int32_t source_eos;         /* 1: the library ends every source with EOS: [SEP] in BERT;
                                   default 1 */
    int32_t target_eos;         /* 1: the library ends every target with EOS, so that n ids are n +
                                   1 rows; default 1. 0: n ids are n rows; you add EOS; decoding
                                   still stops at it */
    trf_decoder_start decoder_start;        /* default TRF_START_BOS */
    int32_t bare_prompts;       /* decoder-only. 1: samplers and translators read a prompt alone,
                                   without the start id before it, as GPT-2's and Qwen 2's are
                                   read in Hugging Face's generate. Its first id then takes the
                                   place of the start id: no probability of it counts, and it stays
                                   first when a window drops older ids. An empty prompt is read
                                   behind the start id all the same, and so are all texts in
                                   training and in trf_reader_score. 0: every text begins with the
                                   start id; default 0 */
    trf_head head;              /* of an encoder-only model; TRF_HEAD_NONE in the others; default
                                   TRF_HEAD_NONE */
    int32_t n_labels;           /* 2..2^24 with MEAN, FIRST and TOKENS, from 1 with ANY and NUMBERS;
                                   else 0; default 0 */
    trf_label_kind label_kind;  /* ANY and NUMBERS need head MEAN or FIRST; default
                                   TRF_LABELS_ONE_OF */
    int32_t head_layer;         /* 1: the head has a layer (U, c) before its matrix W. FIRST: x
                                   becomes tanh(x U^T + c): BERT's pooler. MASKED: x becomes
                                   norm(act(x U^T + c)), with `activation`: BERT's transform. 0 with
                                   other heads; default 0 */
    int32_t sequence_labels;    /* MASKED: number of labels of a second head. It labels each
                                   sequence by its first row, as FIRST does (trf_reader_classify).
                                   With head_layer 1 it has a layer of its own. BERT's next-sentence
                                   prediction has 2 labels. Both heads learn from the same batch
                                   (trf_batch). 2..2^24; 0: no second head. 0 with other heads;
                                   default 0 */
    int32_t mask;               /* MASKED: the id that stands for a hidden token, none of pad, bos
                                   and eos: [MASK] in BERT. Sources may contain it. -1: pad is the
                                   mask, and sources may contain pad. -1 with other heads;
                                   default -1 */
    uint64_t seed;              /* of the initial weights, any value; default 1 */
    trf_device device;          /* not stored in files; default trf_device_default() */
    trf_hooks hooks;            /* not stored in files; default none */
} trf_config;

/* Presets.
                    tiny    base    big
   layers           4+4     6+6     6+6     encoder + decoder
   d_model          128     512     1024
   d_ff             256     2048    4096
   n_heads          4       8       16

   base and big are the paper's sizes. The presets follow TRF_CONVENTIONS_PYTORCH (below) in all but
   two fields:
     norm_place      TRF_PRE_NORM, which trains without a warm-up, and at learning rates at which
                     post-norm diverges (Xiong et al. 2020)
     embedding_init  TRF_EMBEDDING_NORMAL_D; nn.Transformer has no embeddings to follow
   trf_recipe_find chooses all options from the size of your data. A preset that does not exist is
   a struct of zeros. */
typedef enum trf_preset {
    TRF_TINY = 0, TRF_BASE = 1, TRF_BIG = 2, TRF_PRESET_COUNT
} trf_preset;
TRF_API trf_config trf_config_preset(trf_preset preset);

/* The choices in which systems differ (trf_set_conventions). In a configuration they are:

                         PYTORCH            PAPER
       norm_epsilon      1e-5               1e-6
       final_norm        BOTH               NONE
       tying             TRF_UNTIED         TRF_TIED_ALL: needs vocabularies of equal size
       generator_bias    1                  0
       init              XAVIER_PACKED      XAVIER
       embedding_init    NORMAL_1           NORMAL_D

   Both also have: ReLU without a gate; kv_heads, d_head and attention_scale 0; interleaved
   positions from 0; post-norm; standard norm; scaled embeddings without a norm and without
   segments; scale_logits 0; source_bos 0; source_eos 1; decoder_start BOS. Embeddings of PYTORCH
   are much larger than positions (trf_embedding_init): set NORMAL_D if order matters. */
typedef enum trf_conventions {
    TRF_CONVENTIONS_PYTORCH = 0,    /* nn.Transformer, nn.CrossEntropyLoss, torch.optim.Adam */
    TRF_CONVENTIONS_PAPER   = 1,    /* Vaswani et al. 2017; tensor2tensor where it is silent */
    TRF_CONVENTIONS_COUNT
} trf_conventions;

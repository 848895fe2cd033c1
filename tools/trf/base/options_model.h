// trf: rows of the table in options.c, the options under "Model". options.c includes this file
// inside the table.
// SPDX-License-Identifier: MIT

    {TRAIN | INSPECT, HEADING, "Model", 0, NULL, NULL, NULL},
    {TRAIN | INSPECT | FROM_DATA, COUNT, "d-model", AT(config.d_model), "N",
     "width of each token's vector", NULL},
    {TRAIN | INSPECT | FROM_DATA, COUNT, "n-heads", AT(config.n_heads), "N",
     "attention heads; must divide d-model, unless --d-head is given", NULL},
    {TRAIN | INSPECT, NUMBER, "kv-heads", AT(config.kv_heads), "N",
     "key/value heads, each for n-heads / N query heads (grouped-query attention); 0: n-heads",
     NULL},
    {TRAIN | INSPECT, NUMBER, "d-head", AT(config.d_head), "N",
     "width of a head; 0: d-model / n-heads", NULL},
    {TRAIN | INSPECT, REAL, "attention-scale", AT(config.attention_scale), "X",
     "factor of the scores of attention; 0: 1 / sqrt(d-head). T5 has 1", NULL},
    {TRAIN | INSPECT | FROM_DATA, COUNT, "d-ff", AT(config.d_ff), "N",
     "inner width of the feed-forward block", NULL},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "encoder-layers", AT(config.encoder_layers), "N",
     "layers of the encoder", NULL},
    {TRAIN | INSPECT | FROM_DATA, NUMBER, "decoder-layers", AT(config.decoder_layers), "N",
     "layers of the decoder", NULL},
    {PREPARE | FROM_DATA, COUNT, "max-length", AT(config.max_length), "N",
     "longest sequence in tokens, BOS or EOS included. Longer pairs are left out and reported "
     "(default: that of the model)", NULL},
    {TRAIN | INSPECT | DOCTOR, COUNT, "max-length", AT(config.max_length), "N",
     "longest sequence in tokens, BOS or EOS included, 2 to 1048576. Longer pairs are left out "
     "and reported", NULL},
    {TRAIN | INSPECT, CHOICE, "activation", AT(config.activation), "relu|gelu|silu|gelu-tanh",
     "activation of the feed-forward block. gelu: by erf (BERT); gelu-tanh: by tanh (GPT-2)", NULL},
    {TRAIN | INSPECT, SWITCH, "feed-forward-gate", AT(config.feed_forward_gate), NO_YES,
     "multiply the activation by a second projection: ReGLU, GEGLU, SwiGLU (T5 v1.1, Llama)", NULL},
    {TRAIN | INSPECT, CHOICE, "positions", AT(config.positions), POSITIONS,
     "position encodings. interleaved: sines and cosines in turn, angle p / 10000^(2i/d) (the "
     "paper, PyTorch tutorials); halves-n1: all sines, then all cosines, angle p / "
     "10000^(i/(d/2-1)) (tensor2tensor, fairseq, Marian); halves: the same with the paper's "
     "angle (Hugging Face Marian); learned: a vector for each position; none: no positions; "
     "relative: a learned bias of attention scores by distance (T5); alibi: ALiBi, minus "
     "distance times a slope (BLOOM); rotary: RoPE, rotates queries and keys (Llama)",
     NULL},
    {TRAIN | INSPECT, NUMBER, "position-offset", AT(config.position_offset), "N",
     "number of the first position, for positions that are added to embeddings", NULL},
    {TRAIN | INSPECT, COUNT, "relative-buckets", AT(config.relative_buckets), "N",
     "for relative: buckets of distances", NULL},
    {TRAIN | INSPECT, COUNT, "relative-distance", AT(config.relative_distance), "N",
     "for relative: distances of N tokens and more share one number", NULL},
    {TRAIN | INSPECT, REAL, "rotary-base", AT(config.rotary_base), "X",
     "for rotary: theta: pair i of a head of width w turns by p / X^(2i/w) at position p", NULL},
    {TRAIN | INSPECT, NUMBER, "rotary-width", AT(config.rotary_width), "N",
     "for rotary: rotated features of a head; 0: all", NULL},
    {TRAIN | INSPECT, REAL, "rotary-scale", AT(config.rotary_scale), "X",
     "for rotary: divide positions by X", NULL},
    {TRAIN | INSPECT, NUMBER, "rotary-trained", AT(config.rotary_trained), "N",
     "for rotary: the context of the original training: scale slow pairs alone (Llama 3.1); 0: "
     "scale all pairs", NULL},
    {TRAIN | INSPECT, REAL, "rotary-low", AT(config.rotary_low), "X",
     "low_freq_factor: pairs of X turns or fewer are slow", NULL},
    {TRAIN | INSPECT, REAL, "rotary-high", AT(config.rotary_high), "X",
     "high_freq_factor: pairs of X turns or more are not", NULL},
    {TRAIN | INSPECT, CHOICE, "rotary-pairs", AT(config.rotary_pairs), "halves|interleaved",
     "for rotary: which features are a pair. halves: i and i + w/2 (Llama in Hugging Face); "
     "interleaved: 2i and 2i + 1 (GPT-J)", NULL},
    {TRAIN | INSPECT | FROM_DATA, CHOICE, "norm-place", AT(config.norm_place), "post-norm|pre-norm",
     "position of the norm. post-norm: norm(x + sublayer(x)), as in the paper; pre-norm: x + "
     "sublayer(norm(x))", NULL},
    {TRAIN | INSPECT, CHOICE, "norm-rule", AT(config.norm_rule), "standard|annotated|rms",
     "formula of the norm. standard: (x - mean) / sqrt(variance + epsilon); annotated: (x - mean) "
     "/ (deviation + epsilon), as in The Annotated Transformer; rms: x / sqrt(mean of squares + "
     "epsilon) without a bias, as in T5 and Llama", NULL},
    {TRAIN | INSPECT, REAL, "norm-epsilon", AT(config.norm_epsilon), "X",
     "epsilon of the norm", NULL},
    {TRAIN | INSPECT, CHOICE, "final-norm", AT(config.final_norm), NO_YES "|encoder|decoder",
     "one more norm after the last layer. yes: of the encoder and of the decoder; encoder, "
     "decoder: of one of them", NULL},
    {TRAIN | INSPECT, SWITCH, "scale-embeddings", AT(config.scale_embeddings), NO_YES,
     "multiply embeddings by sqrt(d-model)", NULL},
    {TRAIN | INSPECT, SWITCH, "embedding-norm", AT(config.embedding_norm), NO_YES,
     "normalize the sum of embedding and position (BERT, BART)", NULL},
    {TRAIN | INSPECT | DOCTOR, NUMBER, "segments", AT(config.segments), "N",
     "segment (token type) embeddings, for pairs of texts. BERT has 2, RoBERTa 1; 0: a source is "
     "one text", NULL},
    {TRAIN | INSPECT | FROM_DATA, CHOICE, "tying", AT(config.tying),
     "untied|decoder|all|embeddings",
     "which matrices are shared. decoder: target embedding and output projection; all: these and "
     "the source embedding; embeddings: source and target embedding, with a separate output "
     "projection (T5). all and embeddings need one vocabulary for both sides", NULL},
    {TRAIN | INSPECT | FROM_DATA, SWITCH, "generator-bias", AT(config.generator_bias), NO_YES,
     "use a bias in the output projection", NULL},
    {TRAIN | INSPECT, SWITCH, "scale-logits", AT(config.scale_logits), NO_YES,
     "divide the states by sqrt(d-model) before the output projection (T5)", NULL},
    {TRAIN | INSPECT, SWITCH, "qkv-bias", AT(config.qkv_bias), NO_YES,
     "use biases in the projections to queries, keys and values", NULL},
    {TRAIN | INSPECT, SWITCH, "out-bias", AT(config.out_bias), NO_YES,
     "use a bias in the output projection of attention", NULL},
    {TRAIN | INSPECT, SWITCH, "feed-forward-bias", AT(config.feed_forward_bias), NO_YES,
     "use biases in the feed-forward block", NULL},
    {TRAIN | INSPECT, CHOICE, "init", AT(config.init), "xavier-packed|xavier|linear",
     "initial weights of attention and feed-forward. xavier: uniform +-sqrt(6 / (in + out)) "
     "(tensor2tensor); xavier-packed: the same, but q, k and v count as one matrix "
     "(nn.Transformer); linear: weights and biases uniform +-1 / sqrt(in) (nn.Linear)", NULL},
    {TRAIN | INSPECT, CHOICE, "embedding-init", AT(config.embedding_init), EMBEDDING_INITS,
     "initial embeddings. normal-d: normal with deviation 1 / sqrt(d-model); normal-1: normal "
     "with deviation 1; xavier: uniform +-sqrt(6 / (vocabulary + d-model)); fan-out: uniform "
     "+-sqrt(3 / d-model)", NULL},
    {TRAIN | INSPECT, SWITCH, "source-bos", AT(config.source_bos), NO_YES,
     "begin every source with BOS ([CLS] in BERT)", NULL},
    {TRAIN | INSPECT, SWITCH, "source-eos", AT(config.source_eos), NO_YES,
     "end every source with EOS", NULL},
    {TRAIN | INSPECT, SWITCH, "target-eos", AT(config.target_eos), NO_YES,
     "end every target with EOS; without it, models do not learn where to end", NULL},
    {TRAIN | INSPECT, CHOICE, "decoder-start", AT(config.decoder_start), "bos|eos|pad|zero",
     "what the decoder reads before its first token; zero: a vector of zeros", NULL},

    {TRAIN | INSPECT, CHOICE, "pooling", AT(pooling), "mean|first",
     "for classify: predict from the mean of the encoder's output rows, or from the first", NULL},
    {TRAIN | INSPECT, SWITCH, "head-layer", AT(config.head_layer), NO_YES,
     "a layer before the projection to tokens or labels, as BERT has it: for mask, pretrain, and "
     "classify with --pooling first. pretrain has two such layers, one before each projection",
     NULL},
    {TRAIN | INSPECT, CHOICE, "label-kind", AT(config.label_kind), "one|any|number",
     "for classify: what stands behind the tab. one: a label; any: the labels that hold, with "
     "commas between them, or nothing; number: a number, or several with blanks between them "
     "(grades, scores of pairs)", NULL},

"""Makes tests/golden: small models run through PyTorch, for tests/test_golden.c.

    python3 tools/parity/make_goldens.py            needs torch and safetensors; seconds on one core

For every configuration in CASES:
    NAME.weights.safetensors    the state_dict, float32, without any metadata of ours
    NAME.expected.safetensors   what PyTorch makes of it in double, one file of F64 tensors:
        encoder             (source rows, d_model)      encoder states
        logits              (target rows, target_vocab) teacher-forced, or of a head's rows
        report              loss, nll (means over the target tokens, EOS counted), accuracy, norm of the gradient
        gradient.NAME       of the mean loss
        steps               (10, 4): loss, nll, gradient norm and learning rate of ten updates on the same batch
        trained.NAME        every STRIDE-th weight after the ten updates
        classes             probabilities of the labels of sequences (sequence_labels)
        sequence            (11): the loss of these labels in `report`, then in each update; `loss` is the sum of both
and, for all of them, configs.h: the configurations, the options and the batches in C.

Rows are the real tokens of all sequences, one after another; PyTorch itself runs padded, with masks, and the real
rows are picked out. The model is made of nn.TransformerEncoder and nn.TransformerDecoder. Where PyTorch has no such
convention (the norm of The Annotated Transformer, smoothing rules, places of epsilon) the formula stands here.
"""
import copy, math, pathlib, struct, textwrap
import torch, torch.nn as nn, torch.nn.functional as F
from safetensors.torch import save_file

torch.set_num_threads(1)
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden"
STRIDE, STEPS = 5, 10
PAIRS = [([5, 9, 7, 4, 10], [6, 4, 9, 5]), ([8], [7, 10, 4, 4, 8, 6, 5]), ([10, 6, 6, 4, 3, 7, 9], [9]),
         ([4, 8, 5], [5, 3, 10])]
LABELLED = {    # sequences and their labels; -1 is not asked for, nor is EOS; id 0, pad, is the mask
    "HEAD_MEAN": [([5, 9, 7, 4, 10], [2]), ([8], [0]), ([10, 6, 6, 4, 3, 7, 9], [1]), ([4, 8, 5], [-1])],
    "HEAD_FIRST": [([5, 9, 7, 4, 10], [0]), ([8], [3]), ([10, 6, 6, 4, 3, 7, 9], [1]), ([4, 8, 5], [1])],
    "HEAD_TOKENS": [([5, 9, 7, 4, 10], [2, 0, 1, -1, 2]), ([8], [1]), ([10, 6, 6, 4], [0, 0, -1, 2]),
                    ([4, 8], [1, 2])],
    "BERT_MASKED": [([5, 11, 2, 4, 10], [-1, 9, -1, 4, -1]), ([8], [-1]), ([10, 6, 2, 11, 11], [-1, 6, -1, 6, 4]),
                    ([4, 2, 8, 2, 9], [-1, -1, 5, -1, -1])],    # pairs; 11 is the mask
    "BERT_FIRST": [([5, 9, 2, 4, 10], [0]), ([8], [3]), ([10, 6, 2, 7, 2, 9], [1]), ([2, 8, 5], [1])],
    "BERT_BOTH": [([5, 11, 2, 4, 10], [1, -1, 9, -1, 4, -1]), ([8], [1, -1]), ([10, 6, 2, 11, 11], [-1, -1, 6, -1, 6, 4]),
                  ([4, 2, 8, 2, 9], [0, -1, -1, 5, -1, -1])],     # the label of the sequence, then those of tokens
    "ANY": [([5, 9, 2, 4, 10], [0, 3]), ([8], []), ([10, 6, 2, 7, 2, 9], [-1]), ([2, 8, 5], [0, 1, 2, 3])],  # that hold
    "NUMBERS": [([5, 9, 7, 4, 10], [0.5]), ([8], [-2.25]), ([10, 6, 6, 4, 3, 7, 9], [-1]), ([4, 8, 5], [3.0])],
    "HEAD_MASKED": [([5, 0, 7, 4, 10], [-1, 9, -1, 4, -1]), ([8], [-1]), ([10, 6, 0, 0], [-1, 6, 6, 4]),
                    ([4, 8], [-1, 5])]}
WITH_EMPTY = PAIRS[:2] + [([], [8, 6]), ([9, 4], [])]      # an empty source is one EOS, an empty target too
LONG = [([4 + (k * k + 3 * i) % 7 for k in range(n)], [4 + (k * k * k + i) % 7 for k in range(m)])
        for i, (n, m) in enumerate([(70, 25), (33, 67), (17, 40)])]     # beyond tiles of 32 queries and 128 rows

CONFIG = dict(kind="ENCODER_DECODER", d_model=16, n_heads=2, d_ff=24, encoder_layers=1, decoder_layers=1,
              source_vocab=13, target_vocab=11, max_length=16, pad=0, bos=1, eos=2, unk=3, activation="RELU",
              positions="POSITIONS_INTERLEAVED", position_offset=0, norm_place="POST_NORM", norm_rule="NORM_STANDARD",
              norm_epsilon=1e-5, final_norm=1, scale_embeddings=1, tying="UNTIED", generator_bias=1,
              feed_forward_gate=0, embedding_norm=0, segments=0, qkv_bias=1, out_bias=1, feed_forward_bias=1, source_bos=0,
              source_eos=1,
              decoder_start="START_BOS", head="HEAD_NONE", n_labels=0, kv_heads=0, d_head=0, attention_scale=0.0,
              relative_buckets=32, relative_distance=128, rotary_base=10000.0, rotary_width=0, rotary_scale=1.0,
              rotary_trained=0, rotary_low=1.0, rotary_high=4.0, rotary_pairs="ROTARY_HALVES", scale_logits=0, head_layer=0, sequence_labels=0, mask=-1,
              label_kind="LABELS_ONE_OF")
TRAINING = dict(optimizer="ADAM", beta1=0.9, beta2=0.98, epsilon=1e-3, epsilon_rule="EPSILON_OUTSIDE",
                weight_decay=0.0,
                decay_all=0, schedule="NOAM", learning_rate=0.25, initial_rate=0.0, final_rate=0.0, warmup=4,
                total_steps=0, label_smoothing=0.1, smoothing_rule="SMOOTH_UNIFORM", clip_norm=1.0)
CASES = [
    # nn.Transformer as it comes, two layers each
    dict(name="pytorch", encoder_layers=2, decoder_layers=2, d_ff=16),
    # tensor2tensor's first release: no final norm, one matrix, sines then cosines, loss less entropy
    dict(name="tensor2tensor", final_norm=0, tying="TIED_ALL", generator_bias=0, norm_epsilon=1e-6, source_vocab=11,
         positions="POSITIONS_HALVES_N1", smoothing_rule="SMOOTH_OTHERS_KL", epsilon_rule="EPSILON_FAIRSEQ",
         epsilon=1e-4, clip_norm=1e300),
    # fairseq: starts from EOS, positions from 2, decoder tied, inverse square root; widths that divide by nothing
    dict(name="fairseq", d_model=20, d_ff=27, position_offset=2, decoder_start="START_EOS", tying="TIED_DECODER",
         generator_bias=0, positions="POSITIONS_HALVES_N1", smoothing_rule="SMOOTH_OTHERS",
         epsilon_rule="EPSILON_FAIRSEQ", schedule="INVERSE_SQRT", learning_rate=4e-3,
         initial_rate=1e-4, final_norm=0, epsilon=3e-3),
    # Hugging Face Marian: starts from PAD, SiLU, one matrix and a bias, its own ids
    dict(name="hf_marian", decoder_start="START_PAD", activation="SILU", positions="POSITIONS_HALVES",
         tying="TIED_ALL", source_vocab=13, target_vocab=13, final_norm=0, pad=12, bos=11, eos=0, unk=1,
         n_heads=4, d_model=24, d_ff=32,
         schedule="CONSTANT", learning_rate=3e-3, initial_rate=5e-4),
    # Marian: starts from a zero vector
    dict(name="marian", decoder_start="START_ZERO", positions="POSITIONS_HALVES_N1", tying="TIED_DECODER",
         final_norm=0, norm_epsilon=1e-6, activation="SILU", schedule="INVERSE_SQRT", learning_rate=3e-3, n_heads=1,
         weight_decay=0.05),
    # The Annotated Transformer; small vectors, so that every way to place epsilon gives another result
    dict(name="annotated", norm_place="PRE_NORM", norm_rule="NORM_ANNOTATED", norm_epsilon=1e-3,
         positions="POSITIONS_NONE", scale_embeddings=0, smoothing_rule="SMOOTH_NO_PAD_KL", source_eos=0,
         embedding_deviation=0.2),
    # pre-norm, GELU, small vectors under PyTorch's norm
    dict(name="small_vectors", norm_place="PRE_NORM", norm_epsilon=1e-5, positions="POSITIONS_NONE",
         scale_embeddings=0, activation="GELU", embedding_deviation=0.1, generator_bias=0,
         source_vocab=11, epsilon_rule="EPSILON_INSIDE", epsilon=1e-4, weight_decay=0.02, decay_all=1),
    # learned positions, one more layer on one side, no smoothing, an odd head width
    dict(name="learned", positions="POSITIONS_LEARNED", activation="GELU", norm_place="PRE_NORM", d_model=18,
         n_heads=2, encoder_layers=2, label_smoothing=0.0, source_eos=0, scale_embeddings=0, max_length=10,
         optimizer="ADAMW", weight_decay=0.1, schedule="COSINE", learning_rate=4e-3, final_rate=5e-4, total_steps=9),
    # pre-norm without final norm, decoder deeper, decay of everything
    dict(name="pre_no_final", norm_place="PRE_NORM", final_norm=0, norm_epsilon=1e-6, decoder_layers=2, d_ff=16,
         tying="TIED_ALL", source_vocab=11, optimizer="ADAMW", weight_decay=0.1, decay_all=1, clip_norm=0.25),
    dict(name="long", max_length=96, d_ff=16, source_vocab=11, tying="TIED_ALL"),
    dict(name="encoder_only", kind="ENCODER_ONLY", decoder_layers=0, encoder_layers=2, target_vocab=0,
         activation="GELU", generator_bias=0, final_norm=0),
    dict(name="encoder_only_pre", kind="ENCODER_ONLY", decoder_layers=0, target_vocab=0, norm_place="PRE_NORM",
         generator_bias=0, positions="POSITIONS_LEARNED", source_eos=0, d_model=20, n_heads=5, max_length=10,
         position_offset=2),
    dict(name="decoder_only", kind="DECODER_ONLY", encoder_layers=0, source_vocab=0, tying="TIED_DECODER",
         activation="GELU", generator_bias=0, norm_place="PRE_NORM", positions="POSITIONS_LEARNED",
         label_smoothing=0.0, decoder_layers=2),
    dict(name="decoder_only_post", kind="DECODER_ONLY", encoder_layers=0, source_vocab=0, activation="SILU",
         final_norm=0, decoder_start="START_EOS", epsilon_rule="EPSILON_INSIDE", d_model=20, d_ff=23),
] + [dict(name=head.lower(), kind="ENCODER_ONLY", decoder_layers=0, target_vocab=0, generator_bias=0,
          activation="GELU", head=head, n_labels=n, norm_place=place, source_eos=eos, weight_decay=0.02)
     for head, n, place, eos in (("HEAD_MEAN", 3, "PRE_NORM", 1), ("HEAD_FIRST", 4, "POST_NORM", 0),
                                 ("HEAD_TOKENS", 3, "PRE_NORM", 1), ("HEAD_MASKED", 0, "POST_NORM", 1))] + [
    # T5 1.1's embedding: one for both sides, a projection of its own; the final norm of one side alone
    dict(name="tied_embeddings", tying="TIED_EMBEDDINGS", source_vocab=11, final_norm=3, norm_place="PRE_NORM",
         activation="GELU", generator_bias=0, scale_embeddings=0, positions="POSITIONS_NONE", decoder_start="START_PAD"),
    dict(name="encoder_norm", tying="TIED_EMBEDDINGS", source_vocab=11, final_norm=2, weight_decay=0.05,
         optimizer="ADAMW", positions="POSITIONS_LEARNED"),
    # T5 without its relative positions: RMSNorm, no bias anywhere
    dict(name="rms_no_bias", norm_rule="NORM_RMS", norm_place="PRE_NORM", norm_epsilon=1e-6, qkv_bias=0, out_bias=0,
         feed_forward_bias=0, generator_bias=0, tying="TIED_EMBEDDINGS", source_vocab=11, scale_embeddings=0,
         decoder_start="START_PAD", encoder_layers=2, d_model=20, n_heads=2, d_ff=27),
    dict(name="rms_post", norm_rule="NORM_RMS", out_bias=0, source_vocab=11, weight_decay=0.05),
    dict(name="qwen", kind="DECODER_ONLY", encoder_layers=0, source_vocab=0, norm_rule="NORM_RMS", activation="SILU",
         norm_place="PRE_NORM", out_bias=0, feed_forward_bias=0, generator_bias=0, decoder_layers=2),
    dict(name="no_qkv_bias", qkv_bias=0, activation="GELU", n_heads=4),
    # T5 1.1 without its relative positions: GEGLU by tanh
    dict(name="geglu", norm_rule="NORM_RMS", norm_place="PRE_NORM", norm_epsilon=1e-6, qkv_bias=0, out_bias=0,
         feed_forward_bias=0, generator_bias=0, tying="TIED_EMBEDDINGS", source_vocab=11, scale_embeddings=0,
         activation="GELU_TANH", feed_forward_gate=1, decoder_start="START_PAD", d_model=20, d_ff=27),
    # Llama without its rotary positions: SwiGLU
    dict(name="swiglu", kind="DECODER_ONLY", encoder_layers=0, source_vocab=0, norm_rule="NORM_RMS", activation="SILU",
         norm_place="PRE_NORM", qkv_bias=0, out_bias=0, feed_forward_bias=0, generator_bias=0, decoder_layers=2,
         scale_embeddings=0, feed_forward_gate=1),
    dict(name="reglu", feed_forward_gate=1, d_ff=33, weight_decay=0.05),
    # GPT-2's activation
    dict(name="gpt2", kind="DECODER_ONLY", encoder_layers=0, source_vocab=0, tying="TIED_DECODER", activation="GELU_TANH",
         generator_bias=0, norm_place="PRE_NORM", positions="POSITIONS_LEARNED", scale_embeddings=0, decoder_layers=2),
    # a norm on embeddings: BERT, BART, mBART
    dict(name="bert", kind="ENCODER_ONLY", decoder_layers=0, target_vocab=0, generator_bias=0, activation="GELU",
         head="HEAD_MASKED", n_labels=0, source_bos=1, embedding_norm=1, final_norm=0, norm_epsilon=1e-12,
         positions="POSITIONS_LEARNED", scale_embeddings=0, encoder_layers=2),
    dict(name="bart", source_bos=1, embedding_norm=1, final_norm=0, activation="GELU", tying="TIED_ALL", source_vocab=11,
         positions="POSITIONS_LEARNED", position_offset=2, decoder_start="START_EOS", scale_embeddings=0, d_model=20),
    dict(name="mbart", embedding_norm=1, norm_place="PRE_NORM", activation="GELU", weight_decay=0.05,
         decoder_start="START_ZERO"),
    # T5: numbers for distances, heads of their own width, scores and logits scaled in its way
    dict(name="t5", positions="POSITIONS_RELATIVE", relative_buckets=8, relative_distance=6, attention_scale=1.0,
         n_heads=3, d_head=6, d_model=20, norm_rule="NORM_RMS", norm_place="PRE_NORM", norm_epsilon=1e-6, qkv_bias=0,
         out_bias=0, feed_forward_bias=0, generator_bias=0, tying="TIED_ALL", scale_logits=1, source_vocab=11,
         scale_embeddings=0, decoder_start="START_PAD", encoder_layers=2, decoder_layers=2, d_ff=23),
    dict(name="relative_long", positions="POSITIONS_RELATIVE", relative_buckets=16, relative_distance=40, max_length=96,
         d_ff=16, source_vocab=11, tying="TIED_ALL", weight_decay=0.05),
    # BLOOM: ALiBi, and a number of heads that is no power of two; then both sides
    dict(name="bloom", kind="DECODER_ONLY", encoder_layers=0, source_vocab=0, positions="POSITIONS_ALIBI", n_heads=3,
         d_model=18, embedding_norm=1, activation="GELU_TANH", tying="TIED_DECODER", generator_bias=0,
         norm_place="PRE_NORM", scale_embeddings=0, decoder_layers=2),
    dict(name="alibi", positions="POSITIONS_ALIBI", n_heads=4),
    # Llama: rotary positions, and queries that share keys
    dict(name="llama", kind="DECODER_ONLY", encoder_layers=0, source_vocab=0, positions="POSITIONS_ROTARY", n_heads=4,
         kv_heads=2, d_head=6, norm_rule="NORM_RMS", activation="SILU", norm_place="PRE_NORM", qkv_bias=0, out_bias=0,
         feed_forward_bias=0, generator_bias=0, decoder_layers=2, scale_embeddings=0, feed_forward_gate=1),
    # GPT-J: pairs side by side, a part of the head; longer by linear scaling
    dict(name="gptj", kind="DECODER_ONLY", encoder_layers=0, source_vocab=0, positions="POSITIONS_ROTARY",
         rotary_pairs="ROTARY_INTERLEAVED", rotary_width=4, rotary_base=100.0, rotary_scale=2.0, activation="GELU_TANH",
         generator_bias=1, norm_place="PRE_NORM", qkv_bias=0, out_bias=0, scale_logits=1),
    dict(name="rotary", positions="POSITIONS_ROTARY", rotary_base=50.0, kv_heads=1, activation="GELU", qkv_bias=1),
    # segments, and the layers of BERT's heads
    dict(name="bert_first", labelled="BERT_FIRST", kind="ENCODER_ONLY", decoder_layers=0, target_vocab=0, generator_bias=0,
         activation="GELU", head="HEAD_FIRST", n_labels=4, head_layer=1, segments=2, source_bos=1, embedding_norm=1,
         final_norm=0, norm_epsilon=1e-12, positions="POSITIONS_LEARNED", scale_embeddings=0, weight_decay=0.05),
    dict(name="bert_masked", labelled="BERT_MASKED", kind="ENCODER_ONLY", decoder_layers=0, target_vocab=0,
         generator_bias=0, activation="GELU_TANH", head="HEAD_MASKED", n_labels=0, head_layer=1, mask=11, segments=3,
         source_bos=1, embedding_norm=1, final_norm=0, norm_epsilon=1e-3, positions="POSITIONS_LEARNED",
         scale_embeddings=0, optimizer="ADAMW", weight_decay=0.05),
    # Llama 3.1: of its four pairs one is scaled, one is not, two are between
    dict(name="llama31", kind="DECODER_ONLY", encoder_layers=0, source_vocab=0, positions="POSITIONS_ROTARY",
         rotary_base=10.0, rotary_scale=8.0, rotary_trained=20, rotary_low=0.75, rotary_high=3.0, norm_rule="NORM_RMS",
         activation="SILU", norm_place="PRE_NORM", qkv_bias=0, out_bias=0, feed_forward_bias=0, generator_bias=0,
         scale_embeddings=0, feed_forward_gate=1),
    # BERT's pretraining: masked tokens, and the labels of sequences; then without layers of the heads
    dict(name="bert_both", labelled="BERT_BOTH", kind="ENCODER_ONLY", decoder_layers=0, target_vocab=0,
         generator_bias=0, activation="GELU", head="HEAD_MASKED", n_labels=0, head_layer=1, sequence_labels=2, mask=11,
         segments=2, source_bos=1, embedding_norm=1, final_norm=0, norm_epsilon=1e-12, positions="POSITIONS_LEARNED",
         scale_embeddings=0, encoder_layers=2, weight_decay=0.05, learning_rate=0.1),
    dict(name="both_pre", labelled="BERT_BOTH", kind="ENCODER_ONLY", decoder_layers=0, target_vocab=0,
         generator_bias=0, activation="RELU", head="HEAD_MASKED", n_labels=0, sequence_labels=5, mask=11, segments=2,
         source_eos=0, norm_place="PRE_NORM", optimizer="ADAMW", weight_decay=0.1, learning_rate=0.1,
         label_smoothing=0.0),
    # several labels at once, as BERT labels; and one number
    dict(name="bert_any", labelled="ANY", kind="ENCODER_ONLY", decoder_layers=0, target_vocab=0, generator_bias=0,
         activation="GELU", head="HEAD_FIRST", n_labels=4, label_kind="LABELS_ANY", head_layer=1, segments=2, source_bos=1,
         embedding_norm=1, final_norm=0, norm_epsilon=1e-12, positions="POSITIONS_LEARNED", scale_embeddings=0,
         weight_decay=0.05, label_smoothing=0.0),
    dict(name="head_number", labelled="NUMBERS", kind="ENCODER_ONLY", decoder_layers=0, target_vocab=0, generator_bias=0,
         head="HEAD_MEAN", n_labels=1, label_kind="LABELS_NUMBERS", norm_place="PRE_NORM", label_smoothing=0.0),
]


class AnnotatedNorm(nn.LayerNorm):
    """(x - mean) / (s + epsilon), s the unbiased deviation."""
    def forward(self, x):
        return self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.bias


def position_table(kind, n, d, offset):
    p = torch.arange(offset, offset + n, dtype=torch.float64)[:, None]
    i = torch.arange(d // 2, dtype=torch.float64)
    if kind == "POSITIONS_HALVES_N1":
        w = torch.exp(-i * math.log(10000.0) / (d // 2 - 1))
    else:
        w = 10000.0 ** (-2 * i / d)
    if kind == "POSITIONS_INTERLEAVED":
        return torch.stack([torch.sin(p * w), torch.cos(p * w)], -1).reshape(n, d)
    return torch.cat([torch.sin(p * w), torch.cos(p * w)], -1)


def scaled_frequencies(c, f):
    """Rotary frequencies after linear scaling, or after that of Llama 3.1, written with wavelengths as in transformers."""
    if not c["rotary_trained"]: return f / c["rotary_scale"]
    low, high, wavelength = c["rotary_low"], c["rotary_high"], 2 * math.pi / f
    smooth = (c["rotary_trained"] / wavelength - low) / (high - low)
    between = (1 - smooth) * f / c["rotary_scale"] + smooth * f
    slow = torch.where(wavelength > c["rotary_trained"] / low, f / c["rotary_scale"], between)
    return torch.where(wavelength < c["rotary_trained"] / high, f, slow)


def t5_bucket(distance, causal, buckets, most):
    """T5's: the row of the table for a distance, key minus query."""
    row = 0
    if not causal:
        buckets //= 2
        row = (distance > 0).long() * buckets
        distance = distance.abs()
    else: distance = -distance.clamp(max=0)
    exact = buckets // 2
    ranged = exact + (torch.log(distance.float() / exact) / math.log(most / exact) * (buckets - exact)).long()
    return row + torch.where(distance < exact, distance, ranged.clamp(max=buckets - 1))


def alibi_slopes(n):
    """Press et al.'s program."""
    def of_power(n): return [2 ** (-8 / n * (i + 1)) for i in range(n)]
    power = 2 ** math.floor(math.log2(n))
    return of_power(n) if n == power else of_power(power) + of_power(2 * power)[0::2][:n - power]


class Attention(nn.Module):
    """In the place of nn.MultiheadAttention where it lacks something: widths of heads, keys that queries share,
    scales, positions in attention. `owner`, a list, holds the stack, for its table of distances."""
    batch_first, _qkv_same_embed_dim = True, True

    def __init__(self, c, causal, cross):
        super().__init__()
        self.c, self.causal, self.cross = c, causal, cross
        self.num_heads, self.kv = c["n_heads"], c["kv_heads"] or c["n_heads"]
        self.d = c["d_head"] or c["d_model"] // c["n_heads"]
        rows = (self.num_heads + 2 * self.kv) * self.d
        self.in_proj_weight = nn.Parameter(torch.empty(rows, c["d_model"]))
        self.in_proj_bias = nn.Parameter(torch.empty(rows)) if c["qkv_bias"] else None
        self.out_proj = nn.Linear(self.num_heads * self.d, c["d_model"], bias=bool(c["out_bias"]))

    def rotated(self, x):
        c, w = self.c, self.c["rotary_width"] or self.d
        if self.cross or c["positions"] != "POSITIONS_ROTARY": return x
        p = torch.arange(x.shape[2], dtype=torch.float64)[:, None]
        a = p * scaled_frequencies(c, c["rotary_base"] ** (-torch.arange(w // 2, dtype=torch.float64) / (w // 2)))
        cos, sin = torch.cos(a).to(x.dtype), torch.sin(a).to(x.dtype)
        r, rest = x[..., :w], x[..., w:]
        if c["rotary_pairs"] == "ROTARY_HALVES":
            a, b = r[..., :w // 2], r[..., w // 2:]
            r = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        else:
            a, b = r[..., 0::2], r[..., 1::2]
            r = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        return torch.cat([r, rest], -1)

    def bias(self, n, m, dtype):
        distance = torch.arange(m)[None, :] - torch.arange(n)[:, None]
        if self.cross: return 0
        if self.c["positions"] == "POSITIONS_ALIBI":
            return -torch.tensor(alibi_slopes(self.num_heads), dtype=dtype)[:, None, None] * distance.abs()
        if self.c["positions"] != "POSITIONS_RELATIVE": return 0
        rows = t5_bucket(distance, self.causal, self.c["relative_buckets"], self.c["relative_distance"])
        return self.owner[0].distances(rows).permute(2, 0, 1)

    def forward(self, query, key, value, attn_mask=None, key_padding_mask=None, **ignored):
        (b, n, _), m, q = query.shape, key.shape[1], self.num_heads * self.d
        def heads(x, begin, end):
            y = F.linear(x, self.in_proj_weight[begin:end],
                         None if self.in_proj_bias is None else self.in_proj_bias[begin:end])
            return y.view(b, x.shape[1], -1, self.d).transpose(1, 2)
        k = q + self.kv * self.d
        qs, ks, vs = self.rotated(heads(query, 0, q)), self.rotated(heads(key, q, k)), heads(value, k, None)
        ks, vs = (x.repeat_interleave(self.num_heads // self.kv, 1) for x in (ks, vs))
        s = qs @ ks.transpose(-1, -2) * (self.c["attention_scale"] or self.d ** -0.5) + self.bias(n, m, qs.dtype)
        for mask in (attn_mask, None if key_padding_mask is None else key_padding_mask[:, None, None, :]):
            if mask is None: continue
            s = s.masked_fill(mask if mask.dtype == torch.bool else mask.isinf(), -math.inf)
        return self.out_proj((s.softmax(-1) @ vs).transpose(1, 2).reshape(b, n, -1)), None


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, d = c, c["d_model"]
        act = {"RELU": F.relu, "GELU": F.gelu, "SILU": F.silu,
               "GELU_TANH": lambda h: F.gelu(h, approximate="tanh")}[c["activation"]]
        if c["feed_forward_gate"]:
            plain, f = act, c["d_ff"]
            act = lambda h: plain(h[..., :f]) * h[..., f:]
        norm = {"NORM_ANNOTATED": AnnotatedNorm, "NORM_RMS": nn.RMSNorm}.get(c["norm_rule"], nn.LayerNorm)
        ours = (c["positions"] in ("POSITIONS_RELATIVE", "POSITIONS_ALIBI", "POSITIONS_ROTARY") or c["kv_heads"]
                or c["d_head"] or c["attention_scale"])
        opts = dict(d_model=d, nhead=1 if ours else c["n_heads"], dim_feedforward=c["d_ff"], dropout=0.0, activation=act,
                    layer_norm_eps=c["norm_epsilon"], batch_first=True, norm_first=c["norm_place"] == "PRE_NORM")

        def stack(kind, layers, side):
            layer = (nn.TransformerDecoderLayer if kind == "cross" else nn.TransformerEncoderLayer)(**opts)
            for name, _ in list(layer.named_children()):
                if name.startswith("norm"): setattr(layer, name, norm(d, c["norm_epsilon"]))
            for name, module in list(layer.named_modules()):
                if name.endswith("attn") and not c["qkv_bias"]: module.in_proj_bias = None
                if name.endswith("out_proj") and not c["out_bias"]: module.bias = None
                if name.startswith("linear") and not c["feed_forward_bias"]: module.bias = None
            if c["feed_forward_gate"]: layer.linear1 = nn.Linear(d, 2 * c["d_ff"], bias=bool(c["feed_forward_bias"]))
            if ours:
                layer.self_attn = Attention(c, side == 3, False)
                if kind == "cross": layer.multihead_attn = Attention(c, False, True)
            final = norm(d, c["norm_epsilon"]) if c["final_norm"] in (1, side) else None
            layers = (nn.TransformerDecoder(layer, layers, norm=final) if kind == "cross" else
                      nn.TransformerEncoder(layer, layers, norm=final, enable_nested_tensor=False))
            for module in layers.modules():         # the stack has copies of the layer
                if isinstance(module, Attention): module.owner = [layers]
            if c["embedding_norm"]: layers.embed_norm = norm(d, c["norm_epsilon"])
            if c["positions"] == "POSITIONS_RELATIVE":
                layers.distances = nn.Embedding(c["relative_buckets"], c["n_heads"])
            return layers
        learned = c["positions"] == "POSITIONS_LEARNED"
        if c["kind"] != "DECODER_ONLY":
            self.src_embed = nn.Embedding(c["source_vocab"], d)
            if learned: self.src_positions = nn.Embedding(c["max_length"] + c["position_offset"], d)
            self.encoder = stack("self", c["encoder_layers"], 2)
        if c["segments"]: self.src_segments = nn.Embedding(c["segments"], d)
        if c["head_layer"]:     # as head.layer and head.norm in the file
            self.act, self.head_layer = act, nn.Linear(d, d)
            if c["head"] == "HEAD_MASKED": self.head_norm = norm(d, c["norm_epsilon"])
        if c["sequence_labels"]:
            if c["head_layer"]: self.sequence_layer = nn.Linear(d, d)
            self.sequence = nn.Linear(d, c["sequence_labels"])
        if c["head"] != "HEAD_NONE":
            self.head = nn.Linear(d, c["n_labels"] or c["source_vocab"])
            if c["head"] == "HEAD_MASKED": self.head.weight = self.src_embed.weight
        if c["kind"] != "ENCODER_ONLY":
            shared = c["tying"] in ("TIED_ALL", "TIED_EMBEDDINGS")
            if not shared: self.tgt_embed = nn.Embedding(c["target_vocab"], d)
            if learned: self.tgt_positions = nn.Embedding(c["max_length"] + c["position_offset"], d)
            self.decoder = stack("self" if c["kind"] == "DECODER_ONLY" else "cross", c["decoder_layers"], 3)
            self.generator = nn.Linear(d, c["target_vocab"], bias=bool(c["generator_bias"]))
            if shared: self.tgt_embed = self.src_embed
            if c["tying"] in ("TIED_ALL", "TIED_DECODER"): self.generator.weight = self.tgt_embed.weight

    def embed(self, stack, table, positions, ids, zero_first=False, segments=None):
        x = self.sum(table, positions, ids, zero_first)
        if segments is not None: x = x + self.src_segments(segments)
        return stack.embed_norm(x) if self.c["embedding_norm"] else x

    def sum(self, table, positions, ids, zero_first):
        c = self.c
        x = table(ids) * (math.sqrt(c["d_model"]) if c["scale_embeddings"] else 1.0)
        if zero_first: x = torch.cat([torch.zeros_like(x[:, :1]), x[:, 1:]], 1)
        if c["positions"] == "POSITIONS_LEARNED": return x + positions.weight[c["position_offset"]:][:ids.shape[1]]
        if not c["positions"] in ("POSITIONS_INTERLEAVED", "POSITIONS_HALVES", "POSITIONS_HALVES_N1"): return x
        return x + position_table(c["positions"], ids.shape[1], c["d_model"], c["position_offset"]).to(x.dtype)

    def encode(self, b):
        x = self.embed(self.encoder, self.src_embed, getattr(self, "src_positions", None), b["src"],
                       segments=b["segments"] if self.c["segments"] else None)
        return self.encoder(x, src_key_padding_mask=b["src_pad"])

    def head_logits(self, b):
        x, real = self.encode(b), ~b["src_pad"]
        if self.c["head"] == "HEAD_MEAN": x = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        elif self.c["head"] == "HEAD_FIRST": x = x[:, 0]
        else: x = x[real]
        if self.c["head_layer"] and self.c["head"] == "HEAD_FIRST": x = torch.tanh(self.head_layer(x))
        elif self.c["head_layer"]: x = self.head_norm(self.act(self.head_layer(x)))
        return self.head(x)

    def sequence_logits(self, b):
        x = self.encode(b)[:, 0]
        return self.sequence(torch.tanh(self.sequence_layer(x)) if self.c["head_layer"] else x)

    def logits(self, b):
        if self.c["head"] != "HEAD_NONE": return self.head_logits(b)
        n = b["tgt_in"].shape[1]
        causal = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
        y = self.embed(self.decoder, self.tgt_embed, getattr(self, "tgt_positions", None), b["tgt_in"],
                       self.c["decoder_start"] == "START_ZERO")
        if self.c["kind"] == "DECODER_ONLY":
            h = self.decoder(y, mask=causal, src_key_padding_mask=b["tgt_pad"])
        else:
            h = self.decoder(y, self.encode(b), tgt_mask=causal, tgt_key_padding_mask=b["tgt_pad"],
                             memory_key_padding_mask=b["src_pad"])
        if self.c["scale_logits"]: h = h * self.c["d_model"] ** -0.5
        return self.generator(h)[~b["tgt_pad"]]     # the real rows, sequence after sequence

    def names(self):
        """Parameters, a tied one once, under the name of the file."""
        of_head = lambda n: (n.replace("head_layer.", "head.layer.").replace("head_norm.", "head.norm.")
                             .replace("sequence_layer.", "sequence.layer."))
        return {of_head(n): p for n, p in self.named_parameters()}


def padded(rows):
    n = max(map(len, rows))
    return (torch.tensor([r + [0] * (n - len(r)) for r in rows]),
            torch.tensor([[False] * len(r) + [True] * (n - len(r)) for r in rows]))


def segments_of(ids, c):
    """BERT's token_type_ids: a separator is the last of its segment."""
    before = [sum(i == c["eos"] for i in ids[:k]) for k in range(len(ids))]
    return [min(n, c["segments"] - 1) for n in before]


def make_batch(c, pairs):
    start = {"START_BOS": c["bos"], "START_EOS": c["eos"], "START_PAD": c["pad"],
              "START_ZERO": c["bos"]}[c["decoder_start"]]
    b = {}
    b["src"], b["src_pad"] = padded([[c["bos"]] * c["source_bos"] + s + [c["eos"]] * c["source_eos"] for s, _ in pairs])
    if c["segments"]:
        b["segments"] = padded([segments_of([c["bos"]] * c["source_bos"] + s + [c["eos"]] * c["source_eos"], c)
                                for s, _ in pairs])[0]
    if c["head"] != "HEAD_NONE":
        each = c["head"] in ("HEAD_TOKENS", "HEAD_MASKED")
        if c["sequence_labels"]:
            b["sequence"] = torch.tensor([labels[0] for _, labels in pairs])
            pairs = [(s, labels[1:]) for s, labels in pairs]
        if c["label_kind"] != "LABELS_ONE_OF":
            b["asked"] = torch.tensor([labels != [-1] for _, labels in pairs])
            b["out"] = torch.tensor([[float(k in labels) for k in range(c["n_labels"])]
                                     if c["label_kind"] == "LABELS_ANY" else labels for _, labels in pairs])[b["asked"]]
            return b
        begins, ends = [-1] * (c["source_bos"] and each), [-1] * (c["source_eos"] and each)
        b["out"] = torch.tensor([i for _, labels in pairs for i in begins + labels + ends])
        return b
    b["tgt_in"], b["tgt_pad"] = padded([[start] + t for _, t in pairs])
    b["out"] = padded([t + [c["eos"]] for _, t in pairs])[0][~b["tgt_pad"]]
    return b


def smoothed_loss(t, c, logits, out):
    """Mean over the rows. Definitions: docs of trf_smoothing."""
    e, V = t["label_smoothing"], logits.shape[-1]
    if t["smoothing_rule"] == "SMOOTH_UNIFORM": return F.cross_entropy(logits, out, label_smoothing=e)
    no_pad = t["smoothing_rule"] == "SMOOTH_NO_PAD_KL"
    q = torch.full_like(logits, e / (V - 2 if no_pad else V - 1))
    if no_pad: q[:, c["pad"]] = 0
    q.scatter_(1, out[:, None], 1 - e)
    lp = F.log_softmax(logits, -1)
    if t["smoothing_rule"] == "SMOOTH_OTHERS": return -(q * lp).sum() / len(out)
    return F.kl_div(lp, q, reduction="sum") / len(out)


def learning_rate(t, d, s):
    w, peak, low = t["warmup"], t["learning_rate"], t["initial_rate"]
    if t["schedule"] == "NOAM": return peak * d ** -0.5 * min(s ** -0.5, s * w ** -1.5)
    if s <= w: return low + (peak - low) * s / w
    if t["schedule"] == "INVERSE_SQRT": return peak * math.sqrt(w / s)
    if t["schedule"] == "CONSTANT": return peak
    done = min(1.0, (s - w) / (t["total_steps"] - w))
    return t["final_rate"] + (peak - t["final_rate"]) * 0.5 * (1 + math.cos(math.pi * done))


class Optimizer:
    """torch.optim.Adam and AdamW where epsilon stands where theirs does, else the two other formulas. Decay is for
    the matrices of the layers and the generator's own, unless decay_all."""
    def __init__(self, t, parameters):
        self.t, self.named, self.state = t, parameters, {n: [0.0, 0.0] for n in parameters}
        decayed = lambda n: t["decay_all"] or (
            parameters[n].dim() > 1 and not any(w in n for w in ("embed", "positions", "distances", "segments")))
        self.decay = {n: t["weight_decay"] if decayed(n) else 0.0 for n in parameters}
        kind = torch.optim.AdamW if t["optimizer"] == "ADAMW" else torch.optim.Adam
        self.torch = kind([dict(params=[p], weight_decay=self.decay[n]) for n, p in parameters.items()],
                          betas=(t["beta1"], t["beta2"]), eps=t["epsilon"], foreach=False)

    @torch.no_grad()
    def step(self, lr, s):
        t = self.t
        if t["epsilon_rule"] == "EPSILON_OUTSIDE":
            for g in self.torch.param_groups: g["lr"] = lr
            return self.torch.step()
        b1, b2, eps = t["beta1"], t["beta2"], t["epsilon"]
        c1, c2 = 1 - b1 ** s, 1 - b2 ** s
        for n, p in self.named.items():
            if t["optimizer"] == "ADAM": p.grad.add_(p, alpha=self.decay[n])
            m, v = self.state[n]
            m, v = b1 * m + (1 - b1) * p.grad, b2 * v + (1 - b2) * p.grad ** 2
            self.state[n] = [m, v]
            if t["optimizer"] == "ADAMW": p.mul_(1 - lr * self.decay[n])
            if t["epsilon_rule"] == "EPSILON_FAIRSEQ": p.sub_(lr * math.sqrt(c2) / c1 * m / (v.sqrt() + eps))
            else: p.sub_(lr * (m / c1) / (v / c2 + eps).sqrt())


def gradients(m, t, c, b):
    """Backward of the mean loss; loss, nll, accuracy, norm; with labels of sequences their loss too, which loss has."""
    m.zero_grad(set_to_none=False)
    if c["label_kind"] != "LABELS_ONE_OF":      # the losses of transformers' sequence classifiers
        any_of = c["label_kind"] == "LABELS_ANY"
        logits, out = m.logits(b)[b["asked"]], b["out"].to(m.head.weight.dtype)
        loss = (nn.BCEWithLogitsLoss() if any_of else nn.MSELoss())(logits, out)
        loss.backward()
        right = ((logits > 0) == (out > 0)).all(-1).double().mean().item() if any_of else 0.0
        return [loss.item(), loss.item(), right,
                math.sqrt(sum(float((p.grad.double() ** 2).sum()) for p in m.parameters()))]
    logits, out = m.logits(b)[b["out"] >= 0], b["out"][b["out"] >= 0]
    loss = smoothed_loss(t, c, logits, out)
    more, asked = [], b["sequence"] >= 0 if c["sequence_labels"] else None
    if c["sequence_labels"]: more = [smoothed_loss(t, c, m.sequence_logits(b)[asked], b["sequence"][asked])]
    loss = sum([loss] + more)
    loss.backward()
    norm = math.sqrt(sum(float((p.grad.double() ** 2).sum()) for p in m.parameters()))
    return [loss.item(), F.cross_entropy(logits, out).item(),
            (logits.argmax(-1) == out).double().mean().item(), norm] + [x.item() for x in more]


def run(model, c, t, pairs, dtype):
    """All expected values of one case, computed in dtype."""
    # train: PyTorch's fused inference path stays out; there is no dropout
    m = copy.deepcopy(model).to(dtype).train()
    if c["tying"] in ("TIED_ALL", "TIED_DECODER"): m.generator.weight = m.tgt_embed.weight
    if c["head"] == "HEAD_MASKED": m.head.weight = m.src_embed.weight
    b, out = make_batch(c, pairs), {}
    with torch.no_grad():
        if c["kind"] != "DECODER_ONLY": out["encoder"] = m.encode(b)[~b["src_pad"]]
        if c["kind"] == "ENCODER_ONLY" and c["head"] == "HEAD_NONE": return out
        out["logits"] = m.logits(b)
    if c["sequence_labels"]: out["classes"] = torch.softmax(m.sequence_logits(b), -1).detach()
    report = gradients(m, t, c, b)
    out["report"], of_sequences = torch.tensor(report[:4], dtype=torch.float64), report[4:]
    for n, p in m.names().items(): out["gradient." + n] = p.grad.clone()
    optimizer, steps = Optimizer(t, m.names()), []
    for s in range(1, STEPS + 1):
        loss, nll, _, norm, *more = gradients(m, t, c, b)
        of_sequences += more
        lr = learning_rate(t, c["d_model"], s)
        nn.utils.clip_grad_norm_(m.parameters(), t["clip_norm"])
        optimizer.step(lr, s)
        steps.append([loss, nll, norm, lr])
    if of_sequences: out["sequence"] = torch.tensor(of_sequences, dtype=torch.float64)
    out["steps"] = torch.tensor(steps, dtype=torch.float64)
    for n, p in m.names().items(): out["trained." + n] = p.detach().flatten()[::STRIDE].clone()
    return out


def initialise(model, deviation):
    """Nothing is left at 0 or 1, so that nothing can be forgotten. Values are float32. A deviation makes all vectors
    between the layers that small."""
    writes = lambda n: n.endswith(("out_proj.weight", "linear2.weight"))
    for n, p in model.names().items():
        with torch.no_grad():
            if "norm" in n: p.normal_(1.0 if n.endswith("weight") else 0.0, 0.2)
            elif "embed" in n: p.normal_(0.0, deviation or model.c["d_model"] ** -0.5)
            elif any(w in n for w in ("positions", "distances", "segments")): p.normal_(0.0, 0.5)
            elif p.dim() > 1: nn.init.xavier_uniform_(p).mul_(deviation if deviation and writes(n) else 1.0)
            else: p.normal_(0.0, 0.2 * deviation if deviation else 0.2)


def label_id(i):
    """A label, or a number as the bits of a float."""
    return struct.unpack("<i", struct.pack("<f", i))[0] if isinstance(i, float) else i


def c_value(v):
    if isinstance(v, str): return "TRF_" + v
    return "TRF_NO_CLIPPING" if v == 1e300 else repr(v)


def c_header(cases):
    out = ["/* Made by tools/parity/make_goldens.py: the configurations, options and batches of the golden files. */",
           "#ifndef GOLDEN_CONFIGS_H", "#define GOLDEN_CONFIGS_H", "",
           f"enum {{ GOLDEN_COUNT = {len(cases)}, GOLDEN_STEPS = {STEPS}, GOLDEN_STRIDE = {STRIDE} }};", "",
           "static const char *const golden_names[GOLDEN_COUNT] = {",
           *[f'    "{name}",' for name, *_ in cases], "};", ""]
    batches = []
    for _, c, _, pairs in cases:
        if pairs not in batches: batches.append(pairs)
    def array(name, values):
        line = f"static const int32_t {name}[] = {{ {', '.join(map(str, values))} }};"
        return "\n    ".join(textwrap.wrap(line, 110))
    for k, pairs in enumerate(batches):
        for side, which in enumerate(("source", "target")):
            out.append(array(f"golden_{which}_{k}", [label_id(i) for p in pairs for i in p[side]]))
            out.append(array(f"golden_{which}_lengths_{k}", [len(p[side]) for p in pairs]))
    out += ["", "/* Case number `index`, set over the presets in *c and *t. */",
            "static void golden_case(int index, trf_config *c, trf_train_options *t, trf_batch *b)", "{",
            "    memset(b, 0, sizeof *b);", "    switch (index) {"]
    for k, (name, c, t, pairs) in enumerate(cases):
        out.append(f"    case {k}: /* {name} */")
        for prefix, fields in (("c", c), ("t", t)):
            line = "       "
            for f, v in fields.items():
                if v == "LABELS_ONE_OF": continue
                item = f" {prefix}->{f} = {c_value(v)};"
                if len(line + item) > 116: out.append(line); line = "       "
                line += item
            out.append(line)
        for which, kind in (("source", "DECODER_ONLY"), ("target", "ENCODER_ONLY")):
            i = batches.index(pairs)
            if c["kind"] != kind or c["head"] != "HEAD_NONE":
                out.append(f"        b->{which}.ids = golden_{which}_{i}; "
                           f"b->{which}.lengths = golden_{which}_lengths_{i}; b->{which}.count = {len(pairs)};")
        out.append("        break;")
    out += ["    }", "}", "", "#endif", ""]
    (FOLDER / "configs.h").write_text("\n".join(out))


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    cases, total = [], 0
    for number, case in enumerate(CASES):
        c = {k: case.get(k, v) for k, v in CONFIG.items()}
        t = {k: case.get(k, v) for k, v in TRAINING.items()}
        pairs = WITH_EMPTY if c["source_eos"] and number % 2 == 0 and c["kind"] == "ENCODER_DECODER" else PAIRS
        if case["name"] in ("long", "relative_long"): pairs = LONG
        if c["head"] != "HEAD_NONE": pairs = LABELLED[case.get("labelled", c["head"])]
        else: pairs = [tuple([c["unk"] if i == 3 else i for i in row] for row in pair) for pair in pairs]
        torch.manual_seed(1000 + number)
        model = Model(c)
        initialise(model, case.get("embedding_deviation"))
        expected = run(model, c, t, pairs, torch.float64)
        single = run(model, c, t, pairs, torch.float32)     # how near float32 comes, printed to judge the tolerance
        worst = {}
        for n, x in expected.items():
            y = single[n].double()
            if n.startswith("trained") and n.endswith("in_proj_bias"): continue     # see test_golden.c
            kind = n.split(".")[0]
            worst[kind] = max(worst.get(kind, 0.0), float((x - y).abs().max() / x.abs().max().clamp_min(1e-300)))
        name = case["name"]
        save_file({n: p.detach().float().contiguous().clone() for n, p in model.names().items()},
                  FOLDER / f"{name}.weights.safetensors")
        save_file({n: x.double().contiguous() for n, x in expected.items()}, FOLDER / f"{name}.expected.safetensors")
        for k in ("weights", "expected"): (FOLDER / f"{name}.{k}.safetensors").chmod(0o644)
        size = sum((FOLDER / f"{name}.{k}.safetensors").stat().st_size for k in ("weights", "expected"))
        total += size
        cases.append((name, c, t, pairs))
        print(f"{name:18} {size:7} bytes  torch float32 differs by  "
              + "  ".join(f"{k} {v:.0e}" for k, v in worst.items()))
    c_header(cases)
    print(f"{total} bytes in all")


if __name__ == "__main__":
    main()

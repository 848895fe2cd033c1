"""Checkpoints of fairseq and of Marian as folders that trf import reads. programs.py compares the answers.

    python3 to_hugging_face.py fairseq CHECKPOINT.pt --dict dict.txt --spm both.model --output FOLDER
    python3 to_hugging_face.py marian MODEL.npz --vocab vocab.yml --source-spm source.spm --target-spm target.spm \\
        --output FOLDER

needs torch, numpy, safetensors and PyYAML; trf import FOLDER --output MODEL follows.

fairseq   a `transformer` of an encoder and a decoder that share all embeddings:
              sines, normalize_before                                   becomes m2m_100
              learned positions, layernorm_embedding                    becomes bart
              learned positions, layernorm_embedding, normalize_before  becomes mbart
          Any other option is refused by its name. The dictionary holds pieces of SentencePiece; --spm is that model
          (--source-spm and --target-spm, if there are two).
Marian    a `transformer` with postprocess "dan", as OPUS-MT's, becomes marian-nmt, which computes as Marian does: its
          angles are p / 10000^(i / (d/2 - 1)), its norms have epsilon 1e-6, and it starts from a zero vector.
          --as-transformers makes a marian, which transformers reads too, with p / 10000^(2i/d), 1e-5, and a row of zeros to
          start from: pad, the last id, which has a probability too. Scores then differ by a few per cent.

A checkpoint of PyTorch is read with weights_only: it runs no code.
"""
import argparse, json, pathlib, re, shutil, sys
import numpy as np


def fail(text): sys.exit(f"to_hugging_face.py: {text}")


def write_folder(folder, config, state, vocabulary, spm, settings):
    from safetensors.numpy import save_file
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()): fail(f"{folder} has files: give a new folder")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({k: np.ascontiguousarray(v, dtype=np.float32) for k, v in state.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    for name, path in zip(("source.spm", "target.spm"), spm): shutil.copyfile(path, folder / name)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer", **settings}) + "\n")


# --- fairseq ---------------------------------------------------------------------------------------------

def options_of(checkpoint):
    """The options of the model as a dictionary: "args" of older checkpoints, "cfg" of newer ones."""
    options = checkpoint.get("args")
    if options is None: options = (checkpoint.get("cfg") or {}).get("model")
    if options is None: fail("the checkpoint has neither \"args\" nor \"cfg\" with \"model\"")
    return options if isinstance(options, dict) else vars(options)


def need(options, name, wanted, default):
    is_ = options.get(name, default)
    if is_ != wanted: fail(f"{name} is {is_!r}, but {wanted!r} is needed")


def both(options, name):
    a, b = options.get("encoder_" + name), options.get("decoder_" + name)
    if a is None or a != b: fail(f"encoder_{name} is {a!r} and decoder_{name} is {b!r}, but they must be equal")
    return a


def from_fairseq(a):
    import torch
    with torch.serialization.safe_globals([argparse.Namespace]):
        checkpoint = torch.load(a.checkpoint, map_location="cpu", weights_only=True)
    options = options_of(checkpoint)
    need(options, "share_all_embeddings", True, False)
    for name in ("no_token_positional_embeddings", "no_cross_attention", "cross_self_attention", "adaptive_input",
                 "char_inputs"): need(options, name, False, False)
    for name in ("adaptive_softmax_cutoff", "encoder_layers_to_keep", "decoder_layers_to_keep"):
        if options.get(name): fail(f"{name} is {options[name]!r}, but none is needed")
    before, learned = both(options, "normalize_before"), both(options, "learned_pos")
    type_ = {(False, True): "m2m_100", (True, False): "bart", (True, True): "mbart"}.get((learned, before))
    if not type_: fail("encoder_normalize_before is False with sines (encoder_learned_pos False): no architecture that "
                       "trf import reads has both")
    need(options, "layernorm_embedding", learned, False)
    d = both(options, "embed_dim")
    need(options, "decoder_output_dim", d, d)
    state = {n: x.float().numpy() for n, x in checkpoint["model"].items()}
    table = state["encoder.embed_tokens.weight"]
    for name in ("decoder.embed_tokens.weight", "decoder.output_projection.weight"):
        if name in state and not np.array_equal(state[name], table): fail(f"{name} differs from the shared embedding")
    drop = ("encoder.embed_tokens.", "decoder.embed_tokens.", "decoder.output_projection.", "encoder.version",
            "decoder.version") + (() if learned else ("encoder.embed_positions.", "decoder.embed_positions."))
    tensors = {"model.shared.weight": table}
    fused = re.compile(r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)")     # of fairseq 0.12: room for copies
    tensors.update({"model." + n: x for n, x in state.items() if not n.startswith(drop) and not fused.fullmatch(n)})
    positions = options.get("max_source_positions", 1024)
    need(options, "max_target_positions", positions, positions)
    config = {"model_type": type_, "vocab_size": len(table), "d_model": d, "encoder_layers": options["encoder_layers"],
              "decoder_layers": options["decoder_layers"], "encoder_attention_heads": both(options, "attention_heads"),
              "decoder_attention_heads": options["decoder_attention_heads"], "encoder_ffn_dim": both(options, "ffn_embed_dim"),
              "decoder_ffn_dim": options["decoder_ffn_embed_dim"], "activation_function": options.get("activation_fn", "relu"),
              "scale_embedding": not options.get("no_scale_embedding", False), "max_position_embeddings": positions,
              "is_encoder_decoder": True, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
              "decoder_start_token_id": 2, "tie_word_embeddings": True}
    words = ["<s>", "<pad>", "</s>", "<unk>"]
    words += [line.rsplit(" ", 1)[0] for line in a.dict.read_text(encoding="utf-8").splitlines()]
    if len(words) > len(table): fail(f"{a.dict} has {len(words)} tokens with the special ones, the embedding only {len(table)} rows")
    words += [f"madeupword{i:04}" for i in range(len(table) - len(words))]
    if len(set(words)) != len(words): fail(f"{a.dict}: a token occurs twice")
    write_folder(a.output, config, tensors, {w: i for i, w in enumerate(words)}, spm_of(a),
                 {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})


# --- Marian ----------------------------------------------------------------------------------------------

MARIAN = {"Wq": "q_proj.weight", "Wk": "k_proj.weight", "Wv": "v_proj.weight", "Wo": "out_proj.weight", "bq": "q_proj.bias",
          "bk": "k_proj.bias", "bv": "v_proj.bias", "bo": "out_proj.bias"}
MARIAN_FFN = {"W1": "fc1.weight", "b1": "fc1.bias", "W2": "fc2.weight", "b2": "fc2.bias",
              "ffn_ln_scale": "final_layer_norm.weight", "ffn_ln_bias": "final_layer_norm.bias"}
MARIAN_NEEDS = {"type": "transformer", "transformer-postprocess": "dan", "transformer-preprocess": "",
                "transformer-postprocess-top": "", "transformer-ffn-depth": 2, "transformer-train-position-embeddings": False,
                "transformer-decoder-autoreg": "self-attention", "transformer-no-projection": False, "tied-embeddings-all": True,
                "transformer-tied-layers": [], "lemma-dim-emb": 0}


def marian_name(name):
    """encoder_l1_self_Wq becomes model.encoder.layers.0.self_attn.q_proj.weight."""
    side, layer, part, rest = name.split("_", 3)
    to = f"model.{side}.layers.{int(layer[1:]) - 1}."
    if part == "ffn": return to + MARIAN_FFN[rest]
    block = {"self": "self_attn", "context": "encoder_attn"}[part]
    if rest.startswith("Wo_ln_"): return to + block + "_layer_norm." + {"scale": "weight", "bias": "bias"}[rest[6:]]
    return to + block + "." + MARIAN[rest]


def from_marian(a):
    import yaml
    arrays = dict(np.load(a.checkpoint))
    options = yaml.safe_load(arrays.pop("special:model.yml").tobytes().decode("utf-8").rstrip("\0"))
    for name, wanted in MARIAN_NEEDS.items(): need(options, name, wanted, wanted)
    if options["transformer-ffn-activation"] not in ("swish", "relu"):      # Marian's gelu is x / (1 + exp(-1.702 x))
        fail(f"transformer-ffn-activation is {options['transformer-ffn-activation']!r}, but 'swish' or 'relu' is needed")
    table = arrays.pop("Wemb")
    bias = arrays.pop("decoder_ff_logit_out_b", np.zeros((1, len(table)), np.float32)).reshape(1, -1)
    rows = len(table)
    if a.as_transformers:
        table = np.concatenate([table, np.zeros((1, table.shape[1]), table.dtype)])
        bias = np.concatenate([bias, np.zeros((1, 1), bias.dtype)], 1)
    tensors = {"model.shared.weight": table, "final_logits_bias": bias}
    for name, x in arrays.items():
        try: to = marian_name(name)
        except (KeyError, ValueError): fail(f"{name} has no place in such a model")
        tensors[to] = x.reshape(-1) if x.shape[0] == 1 else x.T
    words = yaml.safe_load(a.vocab.read_text(encoding="utf-8"))
    if sorted(words.values()) != list(range(rows)):
        fail(f"{a.vocab} has {len(words)} tokens, the embedding {rows} rows: expected the ids from 0 on, each once")
    if a.as_transformers: words["<pad>"] = rows
    pad, eos, heads, ffn = rows if a.as_transformers else None, words["</s>"], options["transformer-heads"], options["transformer-dim-ffn"]
    config = {"model_type": "marian" if a.as_transformers else "marian-nmt", "architectures": ["MarianMTModel"], "vocab_size": len(table), "d_model": options["dim-emb"],
              "encoder_layers": options["enc-depth"], "decoder_layers": options["dec-depth"], "encoder_attention_heads": heads,
              "decoder_attention_heads": heads, "encoder_ffn_dim": ffn, "decoder_ffn_dim": ffn,
              "activation_function": options["transformer-ffn-activation"], "scale_embedding": True,
              "max_position_embeddings": a.max_length, "is_encoder_decoder": True, "pad_token_id": pad, "bos_token_id": None,
              "eos_token_id": eos, "decoder_start_token_id": pad, "tie_word_embeddings": True}
    write_folder(a.output, config, tensors, words, spm_of(a), {"pad_token": "<pad>" if a.as_transformers else None, "eos_token": "</s>", "unk_token": "<unk>"})


def spm_of(a):
    source, target = a.source_spm or a.spm, a.target_spm or a.spm
    if not source or not target: fail("give --spm, or --source-spm and --target-spm")
    return source, target


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("system", choices=["fairseq", "marian"])
    p.add_argument("checkpoint", type=pathlib.Path)
    for name in ("output", "dict", "vocab", "spm", "source-spm", "target-spm"): p.add_argument("--" + name, type=pathlib.Path)
    p.add_argument("--as-transformers", action="store_true", help="of a Marian model: with the rules of transformers")
    p.add_argument("--max-length", type=int, default=512, help="of a Marian model, which has no longest text of its own")
    a = p.parse_args()
    for name in ("output", {"fairseq": "dict", "marian": "vocab"}[a.system]):
        if getattr(a, name) is None: fail(f"give --{name}")
    {"fairseq": from_fairseq, "marian": from_marian}[a.system](a)


if __name__ == "__main__": main()

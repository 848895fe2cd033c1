"""Checks to_hugging_face.py: checkpoints with the names that fairseq and Marian document and random numbers, converted,
imported by trf, and compared with a forward pass in PyTorch that is written from the definitions of those systems.

    cc -O2 -DTRF_DOUBLE -I. tools/parity/parity.c -o build/parity_double -lopenblas -lm
    python3 tools/convert/check.py          needs torch, sentencepiece; trf and parity_double in build/

programs.py runs both programs themselves. For Marian the pass has the rules of transformers (--as-transformers).
"""
import argparse, math, pathlib, random, subprocess, sys, tempfile
import numpy as np, torch, torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
D, HEADS, FFN, LAYERS = 16, 2, 24, 2
TEXT = [" ".join(random.Random(i).choices("the a man woman dog plays walks reads green street river with in of".split(), k=8)) for i in range(300)]


def run(*arguments, fails=False):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True)
    if bool(done.returncode) != fails: sys.exit(f"{' '.join(map(str, arguments))}: {done.returncode} {done.stderr.strip()}")
    return done.stderr if fails else done.stdout


def sentencepiece_model(folder):
    import sentencepiece
    (folder / "text").write_text("\n".join(TEXT))
    sentencepiece.SentencePieceTrainer.train(input=str(folder / "text"), model_prefix=str(folder / "m"), vocab_size=60,
                                             hard_vocab_limit=False, minloglevel=2)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))
    return [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]


class Net:
    """weight(name) of both systems: (out, in). before: the norm of a sublayer is in front of it."""
    def __init__(self, w, before, act, scale, positions, embedding_norm, bias=0.0):
        self.w, self.before, self.act, self.scale, self.positions, self.bias = w, before, act, scale, positions, bias
        self.embedding_norm = embedding_norm

    def norm(self, x, name): return F.layer_norm(x, (D,), self.w[name + ".weight"], self.w[name + ".bias"], 1e-5)
    def linear(self, x, name): return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def attend(self, name, x, memory, causal):
        q, k, v = (self.linear(y, f"{name}.{p}_proj").view(-1, HEADS, D // HEADS).transpose(0, 1) for y, p in ((x, "q"), (memory, "k"), (memory, "v")))
        scores = q @ k.transpose(1, 2) / math.sqrt(D // HEADS)
        if causal: scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -math.inf)
        return self.linear((scores.softmax(-1) @ v).transpose(0, 1).reshape(-1, D), name + ".out_proj")

    def sub(self, x, norm, f): return x + f(self.norm(x, norm)) if self.before else self.norm(x + f(x), norm)

    def stack(self, side, ids, memory=None):
        x = self.w["table"][ids] * (math.sqrt(D) if self.scale else 1) + self.positions(side, len(ids))
        if self.embedding_norm: x = self.norm(x, side + ".layernorm_embedding")
        for i in range(LAYERS):
            p = f"{side}.layers.{i}."
            x = self.sub(x, p + "self_attn_layer_norm", lambda y: self.attend(p + "self_attn", y, y, memory is not None))
            if memory is not None: x = self.sub(x, p + "encoder_attn_layer_norm", lambda y: self.attend(p + "encoder_attn", y, memory, False))
            x = self.sub(x, p + "final_layer_norm", lambda y: self.linear(self.act(self.linear(y, p + "fc1")), p + "fc2"))
        return self.norm(x, side + ".layer_norm") if self.before else x

    def logits(self, source, target): return self.stack("decoder", target, self.stack("encoder", source)) @ self.w["table"].T + self.bias


def random_state(before, embedding_norm):
    state = {}
    def norm(name): state[name + ".weight"], state[name + ".bias"] = 1 + 0.2 * torch.randn(D), 0.2 * torch.randn(D)
    def linear(name, rows, columns): state[name + ".weight"], state[name + ".bias"] = torch.randn(rows, columns) * columns ** -0.5, 0.2 * torch.randn(rows)
    for side in ("encoder", "decoder"):
        for i in range(LAYERS):
            p = f"{side}.layers.{i}."
            for block in ("self_attn", "encoder_attn")[:1 + (side == "decoder")]:
                for part in ("k_proj", "v_proj", "q_proj", "out_proj"): linear(f"{p}{block}.{part}", D, D)
                norm(p + block + "_layer_norm")
            linear(p + "fc1", FFN, D); linear(p + "fc2", D, FFN); norm(p + "final_layer_norm")
        if before: norm(side + ".layer_norm")
        if embedding_norm: norm(side + ".layernorm_embedding")
    return state


def halves(first, n, exponent):
    p, i = torch.arange(first, first + n).double()[:, None], torch.arange(D // 2).double()[None]
    angle = p / 10000 ** exponent(i)
    return torch.cat([angle.sin(), angle.cos()], 1)


def compare(name, folder, net, size, source_around, start):
    r = random.Random(3)
    pairs = [([r.randrange(4, size) for _ in range(r.randrange(1, 12))], [r.randrange(4, size) for _ in range(r.randrange(1, 12))]) for _ in range(6)]
    run(ROOT / "build/trf", "import", folder, "--output", folder / "model")
    (folder / "config.txt").write_text("threads 1\n")
    row = lambda x: " ".join(map(str, [len(x)] + x))
    (folder / "batches").write_text(f"{len(pairs)}\n" + "".join(f"{row(s)} {row(t)}\n" for s, t in pairs))
    got = torch.tensor([float(x) for x in run(ROOT / "build/parity_double", "logits", folder / "config.txt", folder / "model", folder / "batches").split()]).double()
    want = torch.cat([net.logits(torch.tensor(source_around(s)), torch.tensor([start] + t)).reshape(-1) for s, t in pairs])
    apart = float((got - want).abs().max() / want.abs().max()) if got.shape == want.shape else math.inf
    print(f"{name:18} logits {apart:.1e}" + ("" if apart < 1e-6 else "  FAILED"), flush=True)
    return apart < 1e-6


def fairseq(folder, pieces, before, learned, more, new):
    """A checkpoint; new: options in cfg and tensors as fairseq 0.10 and later have them."""
    folder.mkdir()
    state = random_state(before, learned)
    size = 4 + len(pieces) + 3              # fairseq fills its dictionary up
    table = torch.randn(size, D) * D ** -0.5
    tensors = dict(state)
    tensors["encoder.embed_tokens.weight"] = tensors["decoder.embed_tokens.weight"] = table
    if new: tensors["decoder.output_projection.weight"] = table
    else: tensors["encoder.version"] = tensors["decoder.version"] = torch.tensor([3.0])
    rows = {side: torch.randn(66, D) * 0.3 for side in ("encoder", "decoder")}
    for side in rows:
        if learned: tensors[side + ".embed_positions.weight"] = rows[side]
        else: tensors[side + ".embed_positions._float_tensor"] = torch.zeros(1)
    options = dict(share_all_embeddings=True, encoder_layers=LAYERS, decoder_layers=LAYERS, max_source_positions=64, max_target_positions=64,
                   layernorm_embedding=learned, no_scale_embedding=learned, activation_fn="gelu" if learned else "relu", adaptive_softmax_cutoff=None)
    for side in rows:
        options.update({side + "_embed_dim": D, side + "_ffn_embed_dim": FFN, side + "_attention_heads": HEADS,
                        side + "_normalize_before": before, side + "_learned_pos": learned})
    options.update(more)
    checkpoint = {"model": tensors, "args": None if new else argparse.Namespace(**options)}
    if new: checkpoint["cfg"] = {"model": argparse.Namespace(**options), "_name": None}
    torch.save(checkpoint, folder / "checkpoint.pt")
    (folder / "dict.txt").write_text("".join(f"{p} 1\n" for p in pieces), encoding="utf-8")
    w = {n: x.double() for n, x in dict(state, table=table).items()}
    positions = (lambda side, n: rows[side].double()[2:2 + n]) if learned else (lambda side, n: halves(2, n, lambda i: i / (D // 2 - 1)))
    return Net(w, before, F.gelu if learned else F.relu, not learned, positions, learned), size


def marian(folder, pieces, more):
    folder.mkdir()
    state, size = random_state(False, False), 2 + len(pieces)
    table, bias = torch.randn(size, D) * D ** -0.5, torch.randn(1, size)
    arrays = {"Wemb": table.numpy(), "decoder_ff_logit_out_b": bias.numpy()}
    for name, x in state.items():
        side, _, layer, *rest = name.split(".")
        to, what = f"{side}_l{int(layer) + 1}_", ".".join(rest)
        kind = "scale" if what.endswith("weight") else "bias"
        if what.startswith("final_layer_norm"): to += "ffn_ffn_ln_" + kind
        elif what.startswith("fc"): to += "ffn_" + ("W" if kind == "scale" else "b") + what[2]
        else:
            to += "context_" if what.startswith("encoder_attn") else "self_"
            if "layer_norm" in what: to += "Wo_ln_" + kind
            else: to += ("W" if kind == "scale" else "b") + what.split(".")[1][0]
        arrays[to] = x.numpy().T if x.dim() == 2 else x.numpy()[None]
    options = {"type": "transformer", "dim-emb": D, "transformer-heads": HEADS, "transformer-dim-ffn": FFN, "enc-depth": LAYERS, "dec-depth": LAYERS,
               "transformer-ffn-activation": "swish", "transformer-postprocess": "dan", "transformer-preprocess": "\"\"", "tied-embeddings-all": "true"}
    options.update(more)
    text = "".join(f"{k}: {v}\n" for k, v in options.items()) + "\0"
    np.savez(folder / "model.npz", **arrays, **{"special:model.yml": np.frombuffer(text.encode(), dtype=np.int8)})
    import yaml
    (folder / "vocab.yml").write_text(yaml.safe_dump({w: i for i, w in enumerate(["</s>", "<unk>"] + pieces)}, allow_unicode=True), encoding="utf-8")
    w = {n: x.double() for n, x in state.items()}
    w["table"] = torch.cat([table, torch.zeros(1, D)]).double()
    bias = torch.cat([bias, torch.zeros(1, 1)], 1).double()
    return Net(w, False, F.silu, True, lambda side, n: halves(0, n, lambda i: 2 * i / D), False, bias), size


def main():
    torch.manual_seed(1)
    script, good = pathlib.Path(__file__).with_name("to_hugging_face.py"), True
    with tempfile.TemporaryDirectory() as top:
        top = pathlib.Path(top)
        pieces = sentencepiece_model(top)
        for k, (name, before, learned, new) in enumerate([("fairseq m2m_100", True, False, True), ("fairseq, older", True, False, False),
                                                          ("fairseq bart", False, True, True), ("fairseq mbart", True, True, False)]):
            net, size = fairseq(top / f"f{k}", pieces, before, learned, {}, new)
            run(sys.executable, script, "fairseq", top / f"f{k}/checkpoint.pt", "--dict", top / f"f{k}/dict.txt", "--spm", top / "m.model", "--output", top / f"f{k}/out")
            good &= compare(name, top / f"f{k}/out", net, size, lambda s: s + [2], 2)
        net, size = marian(top / "m", pieces, {})
        command = ("--vocab", top / "m/vocab.yml", "--source-spm", top / "m.model", "--target-spm", top / "m.model", "--output")
        run(sys.executable, script, "marian", top / "m/model.npz", "--as-transformers", *command, top / "m/out")
        good &= compare("marian", top / "m/out", net, size, lambda s: s + [0], size)
        for k, (message, before, learned, more) in enumerate([
                ("encoder_normalize_before is False with sines", False, False, {}), ("share_all_embeddings is False", True, False, {"share_all_embeddings": False}),
                ("layernorm_embedding is True, but False is needed", True, False, {"layernorm_embedding": True}),
                ("encoder_embed_dim is 16 and decoder_embed_dim is 32", True, False, {"decoder_embed_dim": 32}),
                ("adaptive_softmax_cutoff is [10]", True, False, {"adaptive_softmax_cutoff": [10]})]):
            fairseq(top / f"r{k}", pieces, before, learned, more, True)
            said = run(sys.executable, script, "fairseq", top / f"r{k}/checkpoint.pt", "--dict", top / "f0/dict.txt", "--spm", top / "m.model", "--output", top / f"r{k}/out", fails=True)
            if message not in said: good = False; print(f"FAILED: expected '{message}', got '{said.strip()}'")
        marian(top / "n", pieces, {"transformer-preprocess": "n"})
        said = run(sys.executable, script, "marian", top / "n/model.npz", *command, top / "n/out", fails=True)
        if "transformer-preprocess is 'n', but '' is needed" not in said: good = False; print(f"FAILED: {said}")
    print("all is well" if good else "FAILED")
    sys.exit(not good)


if __name__ == "__main__": main()

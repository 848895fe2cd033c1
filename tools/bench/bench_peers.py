"""bench_peers.py - bench.c beside PyTorch (training) and CTranslate2 (translating), alternating, as a table of ratios.

usage: bench_peers.py BENCH [ROUNDS] [SOURCE TARGET]      BENCH: build/bench   SOURCE, TARGET: parallel text, or made here
ONLY=text in the environment: only rows whose name contains it, such as ONLY=int8
needs: torch, ctranslate2, safetensors, numpy (measured with 2.15, 4.8.5). `make bench-peers PYTHON=python3` runs it. For AVX2 on
a machine with more: a BENCH built with -march=haswell -DTRF__INT8_KERNEL=3 (2 with clang 18 and before), since the kernel for
8 bits is chosen at run time; and ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2
MKL_ENABLE_INSTRUCTIONS=AVX2 CT2_FORCE_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell in the environment.

Every figure is the median over ROUNDS (default 3) turns, in each of which one system runs after the other; machines drift, so only
the ratios mean something. The same work for both: training with vocabulary 10,000, target embedding tied to the projection, label
smoothing 0.1, clipping 1.0, dropout 0.1, Adam (0.9, 0.98, 1e-9), batches of at most 2,048 tokens a side (longest pair times pairs),
real tokens counted; PyTorch with fused Adam, denormals flushed, batches by length, and compiled where that is faster; beside our
bf16 it may also use its autocast to bf16. Translating
random weights, 20 tokens in, exactly 20 out, vocabulary 10,000 (tiny) or 32,000 (base), float32 and 8-bit weights, the fastest of as many calls as
fit into two seconds. The file: 1,000 sentences of 5 to 60 words, beam 4, by a model that bench.c has taught to copy; CTranslate2
sorts them by length and cuts them into batches of 32, as its translate_file does. With two threads CTranslate2 is asked both ways: one
batch by two threads, and two halves by one each. The faster one counts. transformer.h is asked both ways too, but for the file.
"""
import math, os, random, re, statistics, subprocess, sys, tempfile, time

SIZES = {"tiny": (128, 4, 256, 4), "small": (256, 3, 1024, 4), "base": (512, 6, 2048, 8)}
STEPS, WARM, LIMIT, V = {"tiny": 12, "small": 8, "base": 3}, 2, 2048, 10000


def made_text(folder):
    """Two files of 29,000 lines of 5 to 25 words, as bench.c makes them."""
    generator = random.Random(1)
    paths = [os.path.join(folder, name) for name in ("source", "target")]
    for path in paths:
        with open(path, "w") as f:
            for _ in range(29000):
                f.write(" ".join(f"w{generator.randrange(V)}" for _ in range(generator.randint(5, 25))) + "\n")
    return paths


def torch_training(size, threads, order, compiled, kind, source, target):
    import torch, torch.nn as nn, torch.nn.functional as F
    torch.set_num_threads(threads); torch.manual_seed(0); random.seed(0); torch.set_flush_denormal(True)
    d, layers, ff, heads = SIZES[size]
    steps, vocabulary = STEPS[size], {}
    ids = lambda line: [4 + vocabulary.setdefault(w, len(vocabulary)) % (V - 4) for w in line.split()]
    pairs = [(ids(a), ids(b)) for a, b in zip(open(source, encoding="utf-8"), open(target, encoding="utf-8"))]
    pairs = [p for p in pairs if 0 < len(p[0]) < 100 and 0 < len(p[1]) < 100]
    random.shuffle(pairs)
    causal = order == "causal"                   # a decoder-only model of the target side, bucketed
    if causal: pairs = [([], t) for _, t in pairs]
    if order != "random":
        pairs.sort(key=lambda p: (len(p[1]), len(p[0])))
    batches, batch, longest = [], [], 0
    for p in pairs:
        n = max(longest, len(p[0]) + 1, len(p[1]) + 1)
        if batch and n * (len(batch) + 1) > LIMIT:
            batches.append(batch); batch, n = [], max(len(p[0]) + 1, len(p[1]) + 1)
        batch.append(p); longest = n
    random.shuffle(batches)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target = nn.Embedding(V, d), nn.Embedding(V, d)
            self.transformer = (nn.TransformerEncoder(nn.TransformerEncoderLayer(d, heads, ff, 0.1, batch_first=True), layers, nn.LayerNorm(d))
                                if causal else nn.Transformer(d, heads, layers, layers, ff, 0.1, batch_first=True))
            self.generator = nn.Linear(d, V); self.generator.weight = self.target.weight
            position = torch.arange(200)[:, None]; rate = torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
            table = torch.zeros(200, d); table[:, 0::2] = torch.sin(position * rate); table[:, 1::2] = torch.cos(position * rate)
            self.register_buffer("table", table); self.dropout = nn.Dropout(0.1)

        def embed(self, embedding, x):
            return self.dropout(embedding(x) * math.sqrt(d) + self.table[:x.shape[1]])

        def forward(self, source, target):
            mask = torch.triu(torch.ones(target.shape[1], target.shape[1], dtype=torch.bool), 1)
            if causal:
                return self.generator(self.transformer(self.embed(self.target, target), mask, target == 0, is_causal=True))
            x = self.transformer(self.embed(self.source, source), self.embed(self.target, target), tgt_mask=mask, tgt_is_causal=True,
                                 src_key_padding_mask=source == 0, tgt_key_padding_mask=target == 0, memory_key_padding_mask=source == 0)
            return self.generator(x)

    def padded(sequences):
        n = max(map(len, sequences))
        return torch.tensor([s + [0] * (n - len(s)) for s in sequences])

    model = Model().train()
    if compiled:
        model = torch.compile(model, dynamic=True)
    optimizer = torch.optim.Adam(model.parameters(), 5e-4, (0.9, 0.98), 1e-9, fused=True)
    rates = []
    warm = WARM + 6 * compiled                   # it compiles more than once
    for i, batch in enumerate(batches[:steps + warm]):
        x = padded([s + [3] for s, _ in batch])
        reads, wants = padded([[2] + t for _, t in batch]), padded([t + [3] for _, t in batch])
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bf16"):
            logits = model(x, reads)
        loss = F.cross_entropy(logits.float().reshape(-1, V), wants.reshape(-1), ignore_index=0, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True); loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step()
        if i >= warm:
            rates.append(sum((0 if causal else len(s) + 1) + len(t) + 1 for s, t in batch) / (time.perf_counter() - start))
    return statistics.median(rates)             # a step in which it compiles once more does not count


def ct2_translating(size, workers, threads, beam, batch, kind):
    import numpy as np, ctranslate2
    from ctranslate2.specs import transformer_spec
    d, n, ff, h = SIZES[size]
    v, generator = 32000 if size == "base" else V, np.random.default_rng(0)
    spec = transformer_spec.TransformerSpec.from_config((n, n), h, pre_norm=False)
    numbers = lambda *shape: (generator.standard_normal(shape) * 0.05).astype(np.float32)

    def linear(l, out, into): l.weight = numbers(out, into); l.bias = numbers(out)
    def norm(l): l.gamma = np.ones(d, np.float32); l.beta = np.zeros(d, np.float32)

    spec.encoder.embeddings[0].weight = numbers(v, d); spec.decoder.embeddings.weight = numbers(v, d)
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = True
    linear(spec.decoder.projection, v, d)
    for stack in (spec.encoder, spec.decoder):
        if hasattr(stack, "layer_norm"): norm(stack.layer_norm)
        for l in stack.layer:
            linear(l.self_attention.linear[0], 3 * d, d); linear(l.self_attention.linear[1], d, d); norm(l.self_attention.layer_norm)
            linear(l.ffn.linear_0, ff, d); linear(l.ffn.linear_1, d, ff); norm(l.ffn.layer_norm)
            if stack is spec.decoder:
                for i, out in enumerate((d, 2 * d, d)): linear(l.attention.linear[i], out, d)
                norm(l.attention.layer_norm)
    words = ["<blank>", "<s>", "</s>", "<unk>"] + [f"w{i}" for i in range(v - 4)]
    spec.register_source_vocabulary(words); spec.register_target_vocabulary(words)
    spec.validate(); spec.optimize("float32")
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(folder, compute_type=kind, inter_threads=workers, intra_threads=threads)
        random.seed(1)
        sources = [[f"w{random.randrange(v - 4)}" for _ in range(20)] for _ in range(batch)]
        run = lambda: translator.translate_batch(sources, beam_size=beam, max_decoding_length=20, min_decoding_length=20, max_batch_size=-(-batch // workers))
        answers, best = fastest(run)
    return sum(len(a.hypotheses[0]) for a in answers) / best


def fastest(run):
    """As bench.c does: at least four calls, and as many as fit into two seconds."""
    answers, times = run(), []
    while len(times) < 4 or (sum(times) < 2 and len(times) < 200):
        start = time.perf_counter(); answers = run(); times.append(time.perf_counter() - start)
    return answers, min(times)


def ct2_file(model, sentences, workers, threads, beam, kind):
    import pathlib, torch
    from safetensors.torch import load_file
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))
    from parity import ctranslate2_of, words_of
    d, n, ff, h = SIZES["tiny"]
    position = torch.arange(512)[:, None]; rate = torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
    table = torch.zeros(512, d); table[:, 0::2] = torch.sin(position * rate); table[:, 1::2] = torch.cos(position * rate)
    config = {"encoder_layers": n, "decoder_layers": n, "n_heads": h, "activation": 0, "norm_place": 0, "scale_embeddings": True}
    words = words_of(V)
    sources = [[words[int(i)] for i in line.split()] + ["</s>"] for line in open(sentences)]
    with tempfile.TemporaryDirectory() as folder:
        translator = ctranslate2_of({**load_file(model), "positions": table}, config, [words, words], pathlib.Path(folder), threads, workers, kind)
        run = lambda: translator.translate_batch(sources, beam_size=beam, max_decoding_length=100, max_batch_size=32)
        answers, best = fastest(run)
    tokens = sum(len(a.hypotheses[0]) for a in answers)
    return tokens / best, tokens


def alone(*arguments):
    """One of the three above in a process of its own: tokens/s, and of a file the tokens in all."""
    out = subprocess.run([sys.executable, __file__, "--alone", *map(str, arguments)], capture_output=True, text=True, check=True).stdout
    return [float(number) for number in out.strip().splitlines()[-1].split()]


def ours(bench, *arguments):
    out = subprocess.run([bench, *map(str, arguments)], capture_output=True, text=True, check=True).stdout
    speed, tokens = re.search(r": ([0-9.]+) (?:real|target) tokens/s(?:, ([0-9]+) tokens)?", out).groups()
    return [float(speed)] + ([float(tokens)] if tokens and arguments[0] == "file" else [])


def same_answers(turn):
    """The same file by the same rule: as many tokens, or a model was converted wrongly and its speed means nothing."""
    (_, *first), *rest = turn[0] + turn[1]
    assert all(abs(his - our) <= 0.01 * our for _, *others in rest for our, his in zip(first, others, strict=True)), turn
    return turn


def main():
    if sys.argv[1] == "--alone":
        kind, *rest = sys.argv[2:]
        if kind == "torch": print(torch_training(rest[0], int(rest[1]), rest[2], int(rest[3]), *rest[4:]))
        elif kind == "file": print(*ct2_file(rest[0], rest[1], *map(int, rest[2:-1]), rest[-1]))
        else: print(ct2_translating(rest[0], *map(int, rest[1:-1]), rest[-1]))
        return
    bench, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as folder:
        source, target = sys.argv[3:5] if len(sys.argv) > 4 else made_text(folder)
        model, sentences = os.path.join(folder, "copy.safetensors"), os.path.join(folder, "sentences")
        generator = random.Random(2)
        with open(sentences, "w") as f:
            for _ in range(1000):
                f.write(" ".join(str(generator.randrange(4, 504)) for _ in range(generator.randint(5, 60))) + "\n")
        lines, only = [], os.environ.get("ONLY", "")
        for size, order in (("tiny", "bucketed"), ("tiny", "random"), ("small", "bucketed"), ("base", "bucketed"), ("tiny", "causal"), ("small", "causal")):
            for name, kinds in (("", ["float32"]), (", bf16", ["float32", "bf16"])):
                if name and order != "bucketed" or only not in "training " + size + name: continue
                theirs = []
                for kind in kinds:
                    for compiled in (0, 1):
                        try: alone("torch", size, 2, order, compiled, kind, source, target)
                        except subprocess.CalledProcessError: print(f"training {size}, {order}, {kind}, compiled {compiled}: fails in PyTorch")
                        else: theirs.append(("torch", size, 2, order, compiled, kind, source, target))
                lines.append(("training " + size + name, order, 2, [("train", size, 2, order, STEPS[size], "bf16" if name else "auto", source, target)], theirs))
        ways = lambda threads: [(1, threads)] if threads == 1 else [(1, threads), (threads, 1)]         # workers, threads of each
        lines += [("translating " + size + name, f"beam {beam}, batch {batch}", threads,
                   [("translate", size, way[1], beam, batch, "auto", weights, way[0]) for way in ways(threads)],
                   [("ct2", size, *way, beam, batch, kind) for way in ways(threads)])
                  for size in ("tiny", "base") for beam, batch, threads in ((1, 1, 1), (4, 1, 1), (4, 32, 1), (4, 32, 2))
                  for name, weights, kind in (("", "full", "float32"), (", int8", "int8", "int8"))]
        lines += [("a file, tiny" + name, "beam 4", threads, [("file", model, sentences, threads, 4, weights)],
                   [("file", model, sentences, *way, 4, kind) for way in ways(threads)])
                  for threads in (1, 2) for name, weights, kind in (("", "full", "float32"), (", int8", "int8", "int8"))]
        lines = [line for line in lines if only in line[0]]
        if any(line[0].startswith("a file") for line in lines): subprocess.run([bench, "learn", model, "1500", "2"], check=True)
        cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown CPU")
        print(f"{cpu}; medians of {rounds} turns; tokens/s\n{'':20} {'':18} threads {'ours':>9} {'theirs':>9}  ratio (least .. most)")
        for name, how, threads, mine, theirs in lines:
            turns = [same_answers(([ours(bench, *it) for it in mine], [alone(*it) for it in theirs])) for _ in range(rounds)]
            own, best = (max(range(len(turns[0][side])), key=lambda i: statistics.median(turn[side][i][0] for turn in turns)) for side in (0, 1))
            pairs = [(us[own][0], them[best][0]) for us, them in turns]
            ratios = sorted(a / b for a, b in pairs)
            how += "".join((", compiled" if it[4] else "") + (", " + it[5] if mine[0][5] == "bf16" else "") if mine[0][0] == "train"
                           else ", workers" if best == 1 else "" for it in [theirs[best]])
            if own == 1: how += ", workers here"
            print(f"{name:20} {how:18} {threads:7} {statistics.median(a for a, _ in pairs):9.0f} {statistics.median(b for _, b in pairs):9.0f}"
                  f"  {statistics.median(ratios):5.2f} ({ratios[0]:.2f} .. {ratios[-1]:.2f})", flush=True)


main()

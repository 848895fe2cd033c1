"""gpu_peers.py - the other side of gpu.c: what PyTorch and CTranslate2 reach on the same card with the same work.

usage: gpu_peers.py train SIZE TOKENS           nn.Transformer, compiled, bf16 autocast, fused Adam, sorted batches
       gpu_peers.py gpt2 TOKENS                 GPT-2's smallest model on texts of 1,024 tokens, compiled, with torch's attention
       gpu_peers.py attention                   varlen flash attention, forward and backward, microseconds
       gpu_peers.py translate SIZE SENTENCES BEAM       CTranslate2, float16, random weights, 64 tokens an answer
needs: torch with CUDA; for translate ctranslate2. What is missing is said, and is no error.
"""
import math, random, statistics, sys, tempfile, time

SIZES = {"tiny": (128, 4, 256, 4, 10000), "base": (512, 6, 2048, 8, 32000), "big": (1024, 6, 4096, 16, 32000)}
WARM, RUNS, SHORTEST, LONGEST, PAIRS = 24, 20, 5, 25, 4096


def sorted_pairs(vocab):
    random.seed(1)
    words = lambda: [4 + random.randrange(vocab - 4) for _ in range(random.randint(SHORTEST, LONGEST))]
    return sorted(((words(), words()) for _ in range(PAIRS)), key=lambda p: (len(p[1]), len(p[0])))


def train(size, tokens):
    import torch, torch.nn as nn, torch.nn.functional as F
    d, layers, ff, heads, vocab = SIZES[size]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    pairs = sorted_pairs(vocab)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocab, d)
            nn.init.normal_(self.embedding.weight, std=d ** -0.5)
            self.transformer = nn.Transformer(d, heads, layers, layers, ff, 0.1, batch_first=True)
            self.generator = nn.Linear(d, vocab)
            self.generator.weight = self.embedding.weight
            position = torch.arange(64)[:, None]
            rate = torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
            table = torch.zeros(64, d)
            table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
            self.register_buffer("table", table)
            self.dropout = nn.Dropout(0.1)

        def embed(self, x):
            return self.dropout(self.embedding(x) * math.sqrt(d) + self.table[:x.shape[1]])

        def forward(self, source, target, wanted):
            causal = torch.triu(torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device="cuda"), 1)
            x = self.transformer(self.embed(source), self.embed(target), tgt_mask=causal, tgt_is_causal=True,
                                 src_key_padding_mask=source == 0, tgt_key_padding_mask=target == 0,
                                 memory_key_padding_mask=source == 0)
            return F.cross_entropy(self.generator(x).reshape(-1, vocab), wanted.reshape(-1), ignore_index=0,
                                   label_smoothing=0.1)

    def padded(sequences):
        n = max(map(len, sequences))
        return torch.tensor([s + [0] * (n - len(s)) for s in sequences]).pin_memory().cuda(non_blocking=True)

    def batch_at(first):
        batch, longest = [], 0
        for k in range(PAIRS):
            source, target = pairs[(first + k) % PAIRS]
            longest = max(longest, len(source) + 1, len(target) + 1)
            if batch and longest * (len(batch) + 1) > tokens:
                break
            batch.append((source, target))
        return batch

    def run(compiled):
        model = Model().cuda().train()
        step = torch.compile(model, dynamic=True) if compiled else model
        optimizer = torch.optim.Adam(model.parameters(), 5e-4, (0.9, 0.98), 1e-9, fused=True)
        times, real = [], 0
        for i in range(-WARM, RUNS):
            batch = batch_at((i + WARM) * 97 % 512)
            torch.cuda.synchronize()
            start = time.perf_counter()
            source = padded([s + [3] for s, _ in batch])
            reads, wants = padded([[2] + t for _, t in batch]), padded([t + [3] for _, t in batch])
            with torch.autocast("cuda", torch.bfloat16):
                loss = step(source, reads, wants)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            torch.cuda.synchronize()
            if i >= 0:
                times.append(time.perf_counter() - start)
                real += sum(len(s) + len(t) + 2 for s, t in batch)
        print(f"PyTorch {torch.__version__} {'compiled' if compiled else 'eager'}, {size} {tokens}: "
              f"{1e3 * statistics.median(times):.2f} ms/step, {real / sum(times):.0f} real tokens/s", flush=True)

    run(False)
    run(True)


def gpt2(tokens):
    import torch, torch.nn as nn, torch.nn.functional as F
    d, layers, heads, vocab, length = 768, 12, 12, 50257, 1024
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)])
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (y.view(b, n, heads, d // heads).transpose(1, 2)
                       for y in self.qkv(self.norms[0](x)).split(d, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
            return x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, d), nn.Embedding(length, d)
            nn.init.normal_(self.tokens.weight, std=0.02)
            self.layers, self.norm = nn.ModuleList(Layer() for _ in range(layers)), nn.LayerNorm(d)

        def forward(self, x, wanted):
            y = self.tokens(x) + self.positions.weight[:x.shape[1]]
            for layer in self.layers:
                y = layer(y)
            return F.cross_entropy((self.norm(y) @ self.tokens.weight.t()).view(-1, vocab), wanted.reshape(-1))

    model = Model().cuda().train()
    step = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), 6e-4, fused=True)
    times = []
    for i in range(-WARM, RUNS):
        x = torch.randint(vocab, (tokens // length, length + 1), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = step(x[:, :-1], x[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch.cuda.synchronize()
        if i >= 0:
            times.append(time.perf_counter() - start)
    print(f"PyTorch {torch.__version__} compiled, gpt2 {tokens}: {1e3 * statistics.median(times):.2f} ms/step, "
          f"{tokens * RUNS / sum(times):.0f} tokens/s", flush=True)


def attention():
    import torch
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        print("varlen attention: left out, this PyTorch has none")
        return
    for longest, heads in ((50, 8), (200, 8), (1024, 8), (4096, 8)):
        random.seed(2)
        lengths = [random.randint(max(10, longest // 5), longest)
                   for _ in range((8192 if longest < 1024 else 32768) // longest)]
        starts = torch.tensor([sum(lengths[:i]) for i in range(len(lengths) + 1)], dtype=torch.int32, device="cuda")
        q, k, v = (torch.randn(sum(lengths), heads, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                   for _ in range(3))
        times = {"forward": [], "backward": []}
        for i in range(-WARM, RUNS):
            torch.cuda.synchronize(); a = time.perf_counter()
            out = varlen_attn(q, k, v, starts, starts, longest, longest)
            torch.cuda.synchronize(); b = time.perf_counter()
            out.sum().backward()
            torch.cuda.synchronize(); c = time.perf_counter()
            if i >= 0:
                times["forward"].append(b - a)
                times["backward"].append(c - b)
        for what, t in times.items():
            print(f"varlen attention {what}, up to {longest}: {1e6 * statistics.median(t):.0f} us")


def translate(size, sentences, beam):
    try:
        import ctranslate2
    except ImportError:
        print("CTranslate2: left out, it is not here")
        return
    import numpy
    from ctranslate2.specs import TransformerSpec
    d, layers, ff, heads, vocab = SIZES[size]
    rng = numpy.random.default_rng(0)
    array = lambda *shape: (rng.standard_normal(shape) * d ** -0.5).astype(numpy.float32)
    spec = TransformerSpec.from_config((layers, layers), heads, pre_norm=False)

    def linear(x, out, inner):
        x.weight, x.bias = array(out, inner), array(out)

    def norm(x):
        x.gamma, x.beta = numpy.ones(d, numpy.float32), numpy.zeros(d, numpy.float32)

    for side in (spec.encoder, spec.decoder):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = array(vocab, d)
        side.position_encodings.encodings = array(256, d)
        for layer in side.layer:
            attentions = [(layer.self_attention, True)] + ([(layer.attention, False)] if side is spec.decoder else [])
            for attention, own in attentions:
                if own:
                    linear(attention.linear[0], 3 * d, d)
                else:
                    linear(attention.linear[0], d, d); linear(attention.linear[1], 2 * d, d)
                linear(attention.linear[-1], d, d)
                norm(attention.layer_norm)
            linear(layer.ffn.linear_0, ff, d); linear(layer.ffn.linear_1, d, ff); norm(layer.ffn.layer_norm)
    linear(spec.decoder.projection, vocab, d)
    words = ["<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(vocab - 3)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    folder = tempfile.mkdtemp()
    spec.validate()
    spec.save(folder)
    translator = ctranslate2.Translator(folder, device="cuda", compute_type="float16")
    lines = [[words[3 + i % (vocab - 3)] for i in s] for s, _ in sorted_pairs(vocab)[PAIRS // 2:][:sentences]]
    times = []
    for i in range(-3, RUNS):
        start = time.perf_counter()
        results = translator.translate_batch(lines, beam_size=beam, max_decoding_length=64, min_decoding_length=64)
        if i >= 0:
            times.append(time.perf_counter() - start)
    tokens = sum(len(r.hypotheses[0]) for r in results)
    print(f"CTranslate2 {ctranslate2.__version__}, {size} ({sentences}, beam {beam}): "
          f"{tokens / statistics.median(times):.0f} target tokens/s")


if __name__ == "__main__":
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "train":
        train(rest[0], int(rest[1]))
    elif what == "gpt2":
        gpt2(int(rest[0]))
    elif what == "attention":
        attention()
    else:
        translate(rest[0], int(rest[1]), int(rest[2]))

"""bench_gpt.py - training a small GPT-2 here and in PyTorch, eager and compiled, alternating.

usage: bench_gpt.py BENCH [ROUNDS]      BENCH: build/bench
needs: torch

6 layers, d_model 256, 4 heads, d_ff 1,024, GELU by tanh, norms first, learned positions, vocabulary of 10,000 tied to the projection.
A step: 8 texts of 256 random tokens, loss, gradients, clipping at 1, Adam, without dropout. bf16 is autocast there and the precision
bf16 here. Each turn is the fastest step of three seconds. The faster of eager and compiled counts. Printed: medians of ROUNDS
(default 3) turns in tokens/s, the median of the ratios, and the least and the largest ratio.
"""
import os, re, statistics, subprocess, sys, time

LAYERS, D, HEADS, FF, V, TEXTS, TOKENS = 6, 256, 4, 1024, 10000, 8, 256


def alone(compiled, threads, bf16):
    import torch, torch.nn as nn, torch.nn.functional as F
    torch.set_num_threads(threads); torch.manual_seed(0); torch.set_flush_denormal(True)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
            self.qkv, self.out, self.w1, self.w2 = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, FF), nn.Linear(FF, D)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
            x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
            return x + self.w2(F.gelu(self.w1(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(V, D), nn.Embedding(TOKENS, D)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(D)

        def forward(self, x):
            return F.linear(self.norm(self.blocks(self.tokens(x) + self.positions.weight)), self.tokens.weight)

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), 5e-4, (0.9, 0.98), 1e-9, fused=True)
    call = torch.compile(model) if compiled else model
    x = torch.randint(4, V, (TEXTS, TOKENS + 1))
    def step():
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bool(bf16)): logits = call(x[:, :-1])
        loss = F.cross_entropy(logits.float().reshape(-1, V), x[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True); loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step()
        return time.perf_counter() - start
    for _ in range(4): step()
    times = []
    while len(times) < 4 or sum(times) < 3: times.append(step())
    print(TEXTS * TOKENS / min(times))


def main():
    if sys.argv[1] == "--alone": return alone(*map(int, sys.argv[2:]))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"            # idle threads of OpenBLAS spin for a while after a program begins
    bench, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    run = lambda *a: subprocess.run([*map(str, a)], capture_output=True, text=True, check=True).stdout
    ours = lambda threads, kind: float(re.search(r"threads: ([0-9]+) tokens/s", run(bench, "gpt", threads, *kind)).group(1))
    theirs = lambda threads, bf16: max(float(run(sys.executable, __file__, "--alone", c, threads, bf16).split()[-1]) for c in (0, 1))
    print("threads  kind     here  PyTorch  ratio")
    for threads in (1, 2):
        for name, kind, bf16 in (("float32", (), 0), ("bf16x3", ("bf16x3",), 0), ("bf16", ("bf16",), 1)):
            turns = [(ours(threads, kind), theirs(threads, bf16)) for _ in range(rounds)]
            a, b = (statistics.median(t[i] for t in turns) for i in (0, 1))
            ratios = [t[0] / t[1] for t in turns]
            print(f"{threads:7}  {name:7}{a:7.0f}{b:9.0f}  {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


main()

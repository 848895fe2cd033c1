"""bench_torch.py - the PyTorch side of bench.c: nn.Transformer training on the CPU, real tokens a second.

usage: bench_torch.py SIZE THREADS ORDER STEPS SOURCE TARGET      SIZE tiny|small|base   ORDER bucketed|random
needs: torch (measured with 2.15). Prints one line: median ms/step, real tokens (source + target) a second, loss.

The same work as bench.c: vocabulary 10,000, target embedding tied to the projection, label smoothing 0.1, clipping 1.0,
dropout 0.1, fused Adam (0.9, 0.98, 1e-9), batches of at most 2,048 tokens a side (longest pair times pairs).
"""
import math, random, statistics, sys, time
import torch, torch.nn as nn, torch.nn.functional as F

SIZES = {"tiny": (128, 4, 256, 4), "small": (256, 3, 1024, 4), "base": (512, 6, 2048, 8)}
V, LIMIT, WARM = 10000, 2048, 3
size, threads, order, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
torch.set_num_threads(threads); torch.manual_seed(0); random.seed(0); torch.set_flush_denormal(True)
d, layers, ff, heads = SIZES[size]

vocab = {}
ids = lambda line: [4 + vocab.setdefault(w, len(vocab)) % (V - 4) for w in line.split()]
pairs = [(ids(a), ids(b)) for a, b in zip(open(sys.argv[5], encoding="utf-8"), open(sys.argv[6], encoding="utf-8"))]
pairs = [p for p in pairs if 0 < len(p[0]) < 100 and 0 < len(p[1]) < 100]
random.shuffle(pairs)
if order == "bucketed":
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
        self.transformer = nn.Transformer(d, heads, layers, layers, ff, 0.1, batch_first=True)
        self.generator = nn.Linear(d, V); self.generator.weight = self.target.weight
        position = torch.arange(200)[:, None]; rate = torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
        table = torch.zeros(200, d); table[:, 0::2] = torch.sin(position * rate); table[:, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table); self.dropout = nn.Dropout(0.1)

    def embed(self, embedding, x):
        return self.dropout(embedding(x) * math.sqrt(d) + self.table[:x.shape[1]])

    def forward(self, source, target):
        causal = torch.triu(torch.ones(target.shape[1], target.shape[1], dtype=torch.bool), 1)
        x = self.transformer(self.embed(self.source, source), self.embed(self.target, target), tgt_mask=causal, tgt_is_causal=True,
                             src_key_padding_mask=source == 0, tgt_key_padding_mask=target == 0, memory_key_padding_mask=source == 0)
        return self.generator(x)


def padded(sequences):
    n = max(map(len, sequences))
    return torch.tensor([s + [0] * (n - len(s)) for s in sequences])


model = Model().train()
optimizer = torch.optim.Adam(model.parameters(), 5e-4, (0.9, 0.98), 1e-9, fused=True)
times, real = [], 0
for i, batch in enumerate(batches[:steps + WARM]):
    source = padded([s + [3] for s, _ in batch])
    reads, wants = padded([[2] + t for _, t in batch]), padded([t + [3] for _, t in batch])
    start = time.perf_counter()
    loss = F.cross_entropy(model(source, reads).reshape(-1, V), wants.reshape(-1), ignore_index=0, label_smoothing=0.1)
    optimizer.zero_grad(set_to_none=True); loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step()
    if i >= WARM:
        times.append(time.perf_counter() - start)
        real += sum(len(s) + 1 + len(t) + 1 for s, t in batch)
print(f"PyTorch {torch.__version__}, {size}, {threads} threads, {order}: median {1e3 * statistics.median(times):.1f} ms/step, "
      f"{real / sum(times):.0f} real tokens/s, loss {loss.item():.3f}")

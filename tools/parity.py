"""Is transformer.h nn.Transformer? Weights, logits and losses against PyTorch, both ways.

    cc -O2 -march=native -fopenmp -I. tools/parity.c -o build/parity -lopenblas -lm
    python3 tools/parity.py FOLDER [build/parity]       needs torch and safetensors; a few minutes on one core

1. Ten random models (width, heads, depth, norm, activation, tying). PyTorch's state_dict, saved by safetensors, is
   loaded in C: the logits agree to 1e-5 of the largest one. A model made and saved in C is loaded by PyTorch: the
   same.
2. The same ten models, fifty updates each from the same weights on the sentences of FOLDER/train.en and train.de
   (words between blanks, ids by frequency): nn.Transformer, CrossEntropyLoss(label_smoothing=0.1), clip_grad_norm_
   1.0, Adam (0.9, 0.98, 1e-9) with the paper's schedule. Every loss agrees to 1e-4.
   Beside it, for scale: how far both are from PyTorch in double.
Prints a table and a verdict; the exit status is 1 if anything is further apart.
"""
import collections, copy, math, pathlib, random, subprocess, sys, tempfile, warnings
import torch, torch.nn as nn, torch.nn.functional as F
from safetensors.torch import load_file, save_file

PAD, BOS, EOS, UNK = 0, 1, 2, 3
LOGITS_TOLERANCE, LOSS_TOLERANCE, STEPS = 1e-5, 1e-4, 50
TIED_NAMES = {0: [], 1: ["generator.weight"], 2: ["tgt_embed.weight", "generator.weight"]}


class Net(nn.Transformer):
    """nn.Transformer with embeddings, sinusoidal positions and a generator."""
    def __init__(self, c):
        d = c["d_model"]
        super().__init__(d, c["n_heads"], c["encoder_layers"], c["decoder_layers"], c["d_ff"], 0.0,
                         ["relu", "gelu", F.silu][c["activation"]], batch_first=True,
                         norm_first=bool(c["norm_place"]), layer_norm_eps=c["norm_epsilon"])
        self.src_embed, self.tgt_embed = nn.Embedding(c["source_vocab"], d), nn.Embedding(c["target_vocab"], d)
        self.generator = nn.Linear(d, c["target_vocab"], bias=bool(c["generator_bias"]))
        for e in (self.src_embed, self.tgt_embed): nn.init.normal_(e.weight, 0, d ** -0.5)
        if c["tying"] == 2: self.tgt_embed.weight = self.src_embed.weight
        if c["tying"] >= 1: self.generator.weight = self.tgt_embed.weight
        p, w = torch.arange(200.0)[:, None], 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        self.table = torch.stack([torch.sin(p * w), torch.cos(p * w)], -1).reshape(200, d)

    def embed(self, table, ids):
        return table(ids) * math.sqrt(self.d_model) + self.table[:ids.shape[1]].to(table.weight.dtype)

    def logits(self, b):
        """Of the real target rows, sequence after sequence."""
        causal = torch.triu(torch.ones(b["in"].shape[1], b["in"].shape[1], dtype=torch.bool), 1)
        h = self(self.embed(self.src_embed, b["src"]), self.embed(self.tgt_embed, b["in"]), tgt_mask=causal,
                 src_key_padding_mask=b["src"] == PAD, memory_key_padding_mask=b["src"] == PAD,
                 tgt_key_padding_mask=b["in"] == PAD)
        return self.generator(h[b["in"] != PAD])


def padded(rows):
    n = max(map(len, rows))
    return torch.tensor([r + [PAD] * (n - len(r)) for r in rows])


def torch_batch(pairs):
    return {"src": padded([s + [EOS] for s, _ in pairs]), "in": padded([[BOS] + t for _, t in pairs]),
            "out": torch.tensor([i for _, t in pairs for i in t + [EOS]])}


def write_batches(path, batches):
    row = lambda r: " ".join(map(str, [len(r)] + r))
    lines = [line for b in batches for line in [str(len(b))] + [row(s) + " " + row(t) for s, t in b]]
    path.write_text("\n".join(lines) + "\n")


def write_config(path, c):
    path.write_text("".join(f"{k} {v!r}\n" for k, v in c.items()))


def run_c(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode: sys.exit(f"parity {arguments[0]}: {done.stderr.strip()}")
    return [[float(x) for x in line.split()] for line in done.stdout.splitlines()]


def relative(got, want):
    """Largest difference over largest value; NaN is infinite."""
    x = float((got.double() - want.double()).abs().max() / want.double().abs().max())
    return x if x == x else math.inf


def random_case(r, number):
    heads = r.choice([1, 2, 3, 4, 8])
    vocab = r.randrange(20, 400)
    tying = number % 3
    return dict(d_model=heads * r.choice([4, 6, 10, 16, 20, 32]), n_heads=heads, d_ff=r.randrange(8, 300),
                encoder_layers=r.randrange(1, 5), decoder_layers=r.randrange(1, 5), source_vocab=vocab,
                target_vocab=vocab if tying == 2 else r.randrange(20, 400), activation=r.randrange(3),
                norm_place=number // 2 % 2, norm_epsilon=r.choice([1e-5, 1e-6]), tying=tying,
                generator_bias=r.randrange(2), seed=number, threads=1)


def case_text(c):
    return (f"d {c['d_model']:3} heads {c['n_heads']} ff {c['d_ff']:3} "
            f"layers {c['encoder_layers']}+{c['decoder_layers']} {['post', 'pre '][c['norm_place']]} "
            f"{['relu', 'gelu', 'silu'][c['activation']]} "
            f"{['untied', 'decoder', 'all'][c['tying']]:7} bias {c['generator_bias']}")


def logits_both_ways(number, folder):
    r = random.Random(100 + number)
    torch.manual_seed(number)
    c = random_case(r, number)
    sentence = lambda v: [r.randrange(4, v) for _ in range(r.randrange(1, 30))]
    pairs = [(sentence(c["source_vocab"]), sentence(c["target_vocab"])) for _ in range(r.randrange(1, 9))]
    write_config(folder / "config", c)
    write_batches(folder / "batch", [pairs])
    net, batch = Net(c).train(), torch_batch(pairs)     # train: without PyTorch's fused path; there is no dropout
    with torch.no_grad():
        for name, p in net.named_parameters():
            if p.dim() == 1: p.add_(torch.randn_like(p) * 0.1)      # no gain of 1, no bias of 0
        want = net.logits(batch)
    state = {k: v.clone() for k, v in net.state_dict().items()}
    # tied matrices once or under every name, with a prefix or without
    if number % 2:
        state = {k: v for k, v in state.items() if k not in TIED_NAMES[c["tying"]]}
    if number % 4 >= 2: state = {"transformer." + k: v for k, v in state.items()}
    save_file(state, folder / "torch.safetensors")
    got = torch.tensor(run_c("logits", folder / "config", folder / "torch.safetensors",
                             folder / "batch")).reshape(want.shape)
    there = relative(got, want)
    run_c("create", folder / "config", folder / "c.safetensors")
    missing, unexpected = net.load_state_dict(load_file(folder / "c.safetensors"), strict=False)
    if unexpected or sorted(missing) != sorted(TIED_NAMES[c["tying"]]):
        sys.exit(f"names differ: missing {missing}, unexpected {unexpected}")
    with torch.no_grad(): want = net.logits(batch)
    got = torch.tensor(run_c("logits", folder / "config", folder / "c.safetensors",
                             folder / "batch")).reshape(want.shape)
    back = relative(got, want)
    print(f"{case_text(c)}   PyTorch to C {there:.1e}   C to PyTorch {back:.1e}", flush=True)
    return max(there, back)


def real_batches(data, vocab_size, per_batch):
    read = lambda name: [line.split() for line in open(data / name, encoding="utf-8")][:20 * per_batch * STEPS]
    sides = [read("train.en"), read("train.de")]
    ids = []
    for lines in sides:
        count = collections.Counter(w for line in lines for w in line)
        ranked = sorted(count, key=lambda w: (-count[w], w))[:vocab_size - 4]
        ids.append({w: i + 4 for i, w in enumerate(ranked)})
    pairs = [tuple([known.get(w, UNK) for w in line] for known, line in zip(ids, pair)) for pair in zip(*sides)]
    pairs = [p for p in pairs if all(0 < len(side) < 100 for side in p)]
    random.Random(1).shuffle(pairs)
    return [pairs[i * per_batch:(i + 1) * per_batch] for i in range(STEPS)]


def train_torch(net, c, batches):
    """Loss and norm of the gradient of each update."""
    optimizer, done = torch.optim.Adam(net.parameters(), 1.0, (0.9, 0.98), 1e-9), []
    for step, pairs in enumerate(batches, 1):
        batch = torch_batch(pairs)
        for g in optimizer.param_groups:
            g["lr"] = c["d_model"] ** -0.5 * min(step ** -0.5, step * c["warmup"] ** -1.5)
        loss = F.cross_entropy(net.logits(batch), batch["out"], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        done.append((loss.item(), float(norm)))
    return done


def train_both(data, folder, number):
    torch.manual_seed(number)
    vocab = 2000
    c = random_case(random.Random(100 + number), number)
    c.update(source_vocab=vocab, target_vocab=vocab, warmup=400, learning_rate=1.0)
    batches = real_batches(data, vocab, 16)
    write_config(folder / "config", c)
    write_batches(folder / "batches", batches)
    net = Net(c).train()
    save_file({k: v.clone() for k, v in net.state_dict().items()}, folder / "start.safetensors")
    double = train_torch(copy.deepcopy(net).double(), c, batches)
    want = train_torch(net, c, batches)
    got = run_c("train", folder / "config", folder / "start.safetensors", folder / "batches")
    if len(got) != STEPS: sys.exit(f"{len(got)} steps instead of {STEPS}")
    apart = [abs(g[0] - w[0]) / w[0] for g, w in zip(got, want)]
    from_double = [[abs(y[0] - x[0]) / x[0] for y, x in zip(side, double)] for side in (want, got)]
    largest = lambda x: max(y if y == y else math.inf for y in x)
    print(f"{case_text(c)}   loss {want[0][0]:.4f} to {want[-1][0]:.4f}   apart {largest(apart):.1e}   "
          f"(from double: PyTorch {largest(from_double[0]):.0e}, C {largest(from_double[1]):.0e})", flush=True)
    return largest(apart)


if len(sys.argv) < 2: sys.exit(__doc__)
BINARY = sys.argv[2] if len(sys.argv) > 2 else "build/parity"
torch.set_num_threads(1)
warnings.filterwarnings("ignore", message="enable_nested_tensor")
with tempfile.TemporaryDirectory() as name:
    folder, data = pathlib.Path(name), pathlib.Path(sys.argv[1])
    logits = max(logits_both_ways(i, folder) for i in range(10))
    losses = max(train_both(data, folder, i) for i in range(10))
good = logits <= LOGITS_TOLERANCE and losses <= LOSS_TOLERANCE
print(f"logits {logits:.1e} of {LOGITS_TOLERANCE:.0e}, losses {losses:.1e} of {LOSS_TOLERANCE:.0e}: "
      + ("the same" if good else "DIFFERENT"))
sys.exit(0 if good else 1)

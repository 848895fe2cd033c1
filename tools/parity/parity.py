"""Is transformer.h nn.Transformer? Weights, logits and losses against PyTorch, both ways. Are its searches those of
the programs they are named after?

    cc -O2 -I. tools/parity/parity.c -o build/parity -lopenblas -lm
    python3 tools/parity/parity.py FOLDER [build/parity]       needs torch and safetensors; a few minutes on one core
    python3 tools/parity/parity.py search [build/parity]       and ctranslate2 and transformers; a few minutes on one core
    python3 tools/parity/parity.py heads [build/parity]        needs torch and safetensors; a minute
    python3 tools/parity/parity.py toy                         the table of CTranslate2's answers in tests/test_search.c

1. Ten random models (width, heads, depth, norm, activation, tying). PyTorch's state_dict, saved by safetensors, is
   loaded in C: the logits agree to 1e-5 of the largest one. A model made and saved in C is loaded by PyTorch: the
   same.
2. The same ten models, fifty updates each from the same weights on the sentences of FOLDER/train.en and train.de
   (words between blanks, ids by frequency): nn.Transformer, CrossEntropyLoss(label_smoothing=0.1), clip_grad_norm_
   1.0, Adam (0.9, 0.98, 1e-9) with the paper's schedule. Every loss agrees to 1e-4.
   Beside it, for scale: how far both are from PyTorch in double.
heads: nn.TransformerEncoder with each head (the mean or the first row, or every row, through nn.Linear; masked tokens
   through the embedding and a bias), two random models each, post-norm and pre-norm, with EOS and without: the logits
   agree to 1e-5 of the largest one, every loss of fifty updates, with ignored labels, to 1e-4.
search: random models, sources, beams of 1 to 5, n-best, exponents, minimum lengths and forced prefixes, at least 500
   answers for each rule. Every text is the same, and every score to 1e-5. CTranslate2 and Hugging Face's generate run
   themselves; tensor2tensor, fairseq and Marian are plain loops here, after their sources (beam_search.py,
   sequence_generator.py, beam_search.cpp and history.h), fed with PyTorch's logits. What is not compared: Hugging
   Face's score with a beam of 1 (it gives none), CTranslate2's rule that the first free token after a prefix is EOS
   only as the best continuation (the minimum length keeps EOS away there), and answers of rank 2 and on where fairseq
   forgot one that finished beyond its beam.
Prints a table and a verdict; the exit status is 1 if anything is further apart.
"""
import collections, copy, math, pathlib, random, subprocess, sys, tempfile, warnings
import torch, torch.nn as nn, torch.nn.functional as F
from safetensors.torch import load_file, save_file

PAD, BOS, EOS, UNK = 0, 1, 2, 3
LOGITS_TOLERANCE, LOSS_TOLERANCE, SCORE_TOLERANCE, STEPS = 1e-5, 1e-4, 1e-5, 50
PAPER, FAIRSEQ, CTRANSLATE2, MARIAN, RAW, HUGGING_FACE = range(6)
EARLY_STOPPING = {0: "never", 1: True, 3: False}     # by our trf_beam_stop
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



MEAN, FIRST, TOKENS, MASKED = range(1, 5)


class Encoder(nn.Module):
    """nn.TransformerEncoder, its final norm, and a head."""
    def __init__(self, c):
        super().__init__()
        d, self.c = c["d_model"], c
        layer = nn.TransformerEncoderLayer(d, c["n_heads"], c["d_ff"], 0.0, ["relu", "gelu", F.silu][c["activation"]],
                                           c["norm_epsilon"], batch_first=True, norm_first=bool(c["norm_place"]))
        self.encoder = nn.TransformerEncoder(layer, c["encoder_layers"], nn.LayerNorm(d, c["norm_epsilon"]))
        self.src_embed = nn.Embedding(c["source_vocab"], d)
        self.head = nn.Linear(d, c["n_labels"] or c["source_vocab"])
        nn.init.normal_(self.src_embed.weight, 0, d ** -0.5)
        if c["head"] == MASKED: self.head.weight = self.src_embed.weight
        for p in self.encoder.parameters():
            if p.dim() == 1: nn.init.normal_(p, 0.5, 0.5)
        p, w = torch.arange(64.0)[:, None], 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        self.table = torch.stack([torch.sin(p * w), torch.cos(p * w)], -1).reshape(64, d)

    def logits(self, b):
        """Of the head's rows, sequence after sequence; filling is -1."""
        real = b["src"] >= 0
        x = self.src_embed(b["src"].clamp(min=0)) * math.sqrt(self.c["d_model"])
        x = self.encoder(x + self.table[:x.shape[1]].to(x.dtype), src_key_padding_mask=~real)
        if self.c["head"] == MEAN: x = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        elif self.c["head"] == FIRST: x = x[:, 0]
        else: x = x[real]
        return self.head(x)


def head_batch(c, pairs):
    rows = [s + [EOS] * c["source_eos"] for s, _ in pairs]
    n = max(map(len, rows))
    pools = c["head"] in (MEAN, FIRST)
    return {"src": torch.tensor([r + [-1] * (n - len(r)) for r in rows]),
            "out": torch.tensor([i for _, t in pairs for i in t + [-1] * (0 if pools else c["source_eos"])])}


def head_pairs(r, c):
    pairs = []
    for _ in range(16):
        source = [r.randrange(4, c["source_vocab"]) for _ in range(r.randrange(1, 20))]
        if c["head"] == MASKED:
            target = [i if r.random() < 0.3 else -1 for i in source]
            source = [PAD if i >= 0 and r.random() < 0.8 else s for s, i in zip(source, target)]
        elif c["head"] == TOKENS: target = [i % c["n_labels"] if r.random() < 0.9 else -1 for i in source]
        else: target = [source[0] % c["n_labels"] if r.random() < 0.9 else -1]
        pairs.append((source, target))
    return pairs


def head_case(folder, head, number):
    r = random.Random(10 * head + number)
    torch.manual_seed(10 * head + number)
    heads = r.choice([1, 2, 4])
    c = dict(kind=1, head=head, n_labels=0 if head == MASKED else r.randrange(2, 9), source_eos=number % 2, tying=0,
             d_model=heads * r.choice([6, 10, 16]), n_heads=heads, d_ff=r.randrange(8, 100),
             encoder_layers=r.randrange(1, 4), decoder_layers=0, source_vocab=r.randrange(20, 200), target_vocab=0,
             activation=r.randrange(3), norm_place=number % 2, norm_epsilon=1e-5, threads=1, warmup=40,
             learning_rate=0.3)
    net = Encoder(c).train()
    batches = [head_pairs(r, c) for _ in range(STEPS)]
    write_config(folder / "config", c)
    write_batches(folder / "batches", batches)
    state = {k: v.clone() for k, v in net.state_dict().items() if head != MASKED or k != "head.weight"}
    save_file(state, folder / "start.safetensors")
    with torch.no_grad(): want = net.logits(head_batch(c, batches[0]))
    got = torch.tensor(run_c("logits", folder / "config", folder / "start.safetensors", folder / "batches"))
    logits = relative(got.reshape(want.shape), want)
    optimizer = torch.optim.Adam(net.parameters(), 1.0, (0.9, 0.98), 1e-9)
    losses = run_c("train", folder / "config", folder / "start.safetensors", folder / "batches")
    apart, first = 0.0, None
    for step, pairs in enumerate(batches, 1):
        batch = head_batch(c, pairs)
        for g in optimizer.param_groups:
            g["lr"] = 0.3 * c["d_model"] ** -0.5 * min(step ** -0.5, step * c["warmup"] ** -1.5)
        loss = F.cross_entropy(net.logits(batch), batch["out"], ignore_index=-1, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        this = abs(losses[step - 1][0] - loss.item()) / loss.item()
        if not this <= apart: apart = this                          # NaN too, which then stays
        first = first or loss.item()
    print(f"head {['mean', 'first', 'tokens', 'masked'][head - 1]:6} {['post', 'pre '][c['norm_place']]} "
          f"eos {c['source_eos']}   logits {logits:.1e}   loss {first:.4f} to {loss.item():.4f}, apart {apart:.1e}",
          flush=True)
    return logits <= LOGITS_TOLERANCE and len(losses) == STEPS and apart <= LOSS_TOLERANCE


def search_case(r, number, rule):
    """A small model whose ends come early and late, and what is asked of it."""
    heads = r.choice([1, 2, 4])
    vocab = r.randrange(30, 90)
    marian = rule == HUGGING_FACE
    model = dict(d_model=heads * r.choice([4, 6, 8]), n_heads=heads, d_ff=r.randrange(8, 50),
                 encoder_layers=r.randrange(1, 4), decoder_layers=r.randrange(1, 4), source_vocab=vocab,
                 target_vocab=vocab if marian else r.randrange(30, 90), activation=2 if marian else number % 2,
                 norm_place=0 if marian else number // 2 % 2, tying=2 if marian else 0, generator_bias=1,
                 positions=2 if marian else 0, final_norm=0 if marian else 1, decoder_start=2 if marian else 0)
    prefix = number % 3 * r.randrange(1, 4)
    beam = 1 + number % 5
    ask = dict(rule=rule, beam=beam, n_best=r.randrange((beam + 1) // 2, beam + 1),
               alpha=r.choice([0.6, 1, 1, 1.5]), min_length=r.choice([0, 0, 1, 3, 6]),
               max_length_b=prefix + r.randrange(6, 16))
    if rule == HUGGING_FACE:        # prefix_allowed_tokens_fn counts, unlike decoder_input_ids
        ask.update(stop=r.choice(list(EARLY_STOPPING)), score_prefix=1, count_prefix=1)
    if rule == CTRANSLATE2 and number % 8 == 7: ask.update(alpha=0, n_best=1, stop=0)   # see trf_search_set_rule
    if rule == FAIRSEQ: ask["min_length"] = max(1, ask["min_length"])
    if rule == CTRANSLATE2 and prefix: ask["min_length"] = max(prefix + 1, ask["min_length"])
    pairs = [([r.randrange(4, vocab) for _ in range(r.randrange(1, 12))],
              [r.randrange(4, model["target_vocab"]) for _ in range(prefix)]) for _ in range(8)]
    return model, ask, pairs


def sharpen(weight, bias):
    """Random logits are flat: steeper ones, an end that is likely enough, and pad and BOS hardly ever said, with a
    share of the softmax that would be missed."""
    weight.mul_(torch.randint(1, 5, (1,)) * 0.7)
    bias.normal_(0, 0.5)
    bias[EOS] += 1 + torch.rand(()) * 1.5
    bias[PAD] = bias[BOS] = -5 + torch.rand(())


def words_of(size): return ["<blank>", "<s>", "</s>", "<unk>"] + [f"w{i}" for i in range(4, size)]


def ctranslate2_of(state, c, words, folder, threads=1, workers=1, kind="float32"):
    """A translator from tensors with our names, a table of positions, and the words of both sides."""
    from ctranslate2 import specs, Translator
    spec = specs.TransformerSpec.from_config(
        (c["encoder_layers"], c["decoder_layers"]), c["n_heads"], pre_norm=True,       # it has the final norms
        activation=[specs.common_spec.Activation.RELU, specs.common_spec.Activation.GELU][c["activation"]])
    def linear(layer, name, rows=slice(None)):
        tail = ("in_proj_weight", "in_proj_bias") if name.endswith("attn") else (".weight", ".bias")
        join = "." if name.endswith("attn") else ""
        layer.weight, layer.bias = (state[name + join + t][rows].numpy() for t in tail)
    def norm(layer, name): layer.gamma, layer.beta = state[name + ".weight"].numpy(), state[name + ".bias"].numpy()
    d = state["src_embed.weight"].shape[1]
    for side, part, embed in ((spec.encoder, "encoder", "src_embed"), (spec.decoder, "decoder", "tgt_embed")):
        embeddings = side.embeddings[0] if part == "encoder" else side.embeddings
        embeddings.weight = state[embed + ".weight"].numpy()
        side.scale_embeddings = c["scale_embeddings"]
        side.position_encodings.encodings = state["positions"].numpy()
        side.pre_norm = bool(c["norm_place"])
        norm(side.layer_norm, part + ".norm")
        for i, layer in enumerate(side.layer):
            at = f"{part}.layers.{i}."
            linear(layer.self_attention.linear[0], at + "self_attn")
            linear(layer.self_attention.linear[1], at + "self_attn.out_proj")
            norm(layer.self_attention.layer_norm, at + "norm1")
            if part == "decoder":
                linear(layer.attention.linear[0], at + "multihead_attn", slice(0, d))
                linear(layer.attention.linear[1], at + "multihead_attn", slice(d, None))
                linear(layer.attention.linear[2], at + "multihead_attn.out_proj")
                norm(layer.attention.layer_norm, at + "norm2")
            linear(layer.ffn.linear_0, at + "linear1")
            linear(layer.ffn.linear_1, at + "linear2")
            norm(layer.ffn.layer_norm, at + ("norm2" if part == "encoder" else "norm3"))
    linear(spec.decoder.projection, "generator")
    spec.register_source_vocabulary(words[0])
    spec.register_target_vocabulary(words[1])
    spec.validate()
    spec.optimize("float32")
    (folder / "ct2").mkdir(exist_ok=True)
    spec.save(str(folder / "ct2"))
    return Translator(str(folder / "ct2"), compute_type=kind, inter_threads=workers, intra_threads=threads)


def run_ctranslate2(c, ask, pairs, state, folder):
    """Of each sentence its answers: score, tokens, ended with EOS."""
    words = [words_of(c["source_vocab"]), words_of(c["target_vocab"])]
    translator = ctranslate2_of(state, {**c, "scale_embeddings": True}, words, folder)
    text = lambda side, ids: [words[side][i] for i in ids]
    done = translator.translate_batch(
        [text(0, s + [EOS]) for s, _ in pairs], target_prefix=[text(1, p) for _, p in pairs] if pairs[0][1] else None,
        beam_size=ask["beam"], num_hypotheses=ask["n_best"], length_penalty=ask["alpha"], return_scores=True,
        min_decoding_length=ask["min_length"], max_decoding_length=ask["max_length_b"], return_end_token=True)
    known = {w: i for i, w in enumerate(words[1])}
    answers = [[(s, [known[w] for w in h]) for s, h in zip(x.scores, x.hypotheses)] for x in done]
    return [[(s, [i for i in h if i != EOS], h[-1:] == [EOS]) for s, h in x] for x in answers]


def run_hugging_face(net, ask, pairs):
    answers = []
    for source, prefix in pairs:
        source = torch.tensor([source + [EOS]])
        every = list(range(net.config.vocab_size))
        force = lambda _, ids: [prefix[len(ids) - 1]] if len(ids) <= len(prefix) else every
        x = net.generate(source, attention_mask=torch.ones_like(source), num_beams=ask["beam"], do_sample=False,
                         num_return_sequences=ask["n_best"], length_penalty=ask["alpha"],
                         early_stopping=EARLY_STOPPING[ask["stop"]],
                         min_length=ask["min_length"] + 1, max_length=ask["max_length_b"] + 1,
                         suppress_tokens=[PAD] + [BOS] * (net.config.decoder_start_token_id == BOS), prefix_allowed_tokens_fn=force if prefix else None,
                         return_dict_in_generate=True, output_scores=True)
        scores = x.sequences_scores.tolist() if ask["beam"] > 1 else [None]
        ids = [[i for i in row[1:].tolist() if i != PAD] for row in x.sequences]
        answers.append([(s, [i for i in h if i != EOS], h[-1:] == [EOS]) for s, h in zip(scores, ids)])
    return answers


def hugging_face_model(c):
    from transformers import MarianConfig, MarianMTModel, logging
    logging.set_verbosity_error()
    net = MarianMTModel(MarianConfig(
        vocab_size=c["source_vocab"], d_model=c["d_model"], encoder_layers=c["encoder_layers"],
        decoder_layers=c["decoder_layers"], encoder_attention_heads=c["n_heads"], encoder_ffn_dim=c["d_ff"],
        decoder_attention_heads=c["n_heads"], decoder_ffn_dim=c["d_ff"], activation_function="silu",
        scale_embedding=True, max_position_embeddings=128, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS,
        decoder_start_token_id=PAD, forced_eos_token_id=None)).eval()
    with torch.no_grad():
        for name, p in net.named_parameters():
            if "positions" not in name and p.requires_grad: p.normal_(0, 0.5 if p.dim() == 1 else p.shape[1] ** -0.5)
            if "layer_norm.weight" in name: p.add_(1)
        sharpen(torch.ones(1), net.final_logits_bias[0])
    theirs, ours = net.state_dict(), {}
    ours["src_embed.weight"], ours["generator.bias"] = theirs["model.shared.weight"], theirs["final_logits_bias"][0]
    names = {"fc1": "linear1", "fc2": "linear2", "self_attn.out_proj": "self_attn.out_proj",
             "encoder_attn.out_proj": "multihead_attn.out_proj", "self_attn_layer_norm": "norm1"}
    for part, last in (("encoder", "norm2"), ("decoder", "norm3")):
        for i in range(c[part + "_layers"]):
            at = f"{part}.layers.{i}."
            for a, b in list(names.items()) + [("final_layer_norm", last), ("encoder_attn_layer_norm", "norm2")]:
                if part == "encoder" and "encoder_attn" in a: continue
                for kind in (".weight", ".bias"): ours[at + b + kind] = theirs["model." + at + a + kind]
            for a, b in (("self_attn", "self_attn"), ("encoder_attn", "multihead_attn"))[:1 + (part == "decoder")]:
                for kind in ("weight", "bias"):
                    ours[f"{at}{b}.in_proj_{kind}"] = torch.cat(
                        [theirs[f"model.{at}{a}.{x}_proj.{kind}"] for x in "qkv"])
    return net, {k: v.clone() for k, v in ours.items()}


def best_next(net, source, live, ask, prefix, width, free=False, only_eos=False):
    """The best `width` continuations (sum, tokens, next token) of the live hypotheses (sum, tokens)."""
    n = len(live[0][1])
    batch = {"src": padded([source + [EOS]] * len(live)), "in": padded([[BOS] + h for _, h in live])}
    with torch.no_grad():
        p = F.log_softmax(net.logits(batch).reshape(len(live), n + 1, -1)[:, -1].double(), -1)
    p[:, [PAD, BOS]] = -math.inf
    if n < len(prefix): return [(s + (0 if free else float(p[i, prefix[n]])), h, prefix[n])
                                for i, (s, h) in enumerate(live)]
    if only_eos: p[:, [i for i in range(p.shape[1]) if i != EOS]] = -math.inf
    elif n < ask["min_length"]: p[:, EOS] = -math.inf
    total = (p + torch.tensor([s for s, _ in live], dtype=torch.float64)[:, None]).flatten()
    values, at = total.topk(min(width, total.numel()))
    return [(v, live[k // p.shape[1]][1], k % p.shape[1])
            for v, k in zip(values.tolist(), at.tolist()) if v > -math.inf]


def go_on(found): return [(s, h + [w]) for s, h, w in found if w != EOS]


def tensor2tensor(net, source, prefix, ask):
    """beam_search.py: stop_early is one answer wanted; the batch is one sentence. Live answers have raw scores there,
    and a beam of 1 is greedy search."""
    beam, limit, live, done = ask["beam"], ask["max_length_b"], [(0.0, [])], []
    penalty = lambda length: ((5 + length) / 6) ** ask["alpha"]
    for i in range(limit):
        found = best_next(net, source, live, ask, prefix, 2 * beam if beam > 1 else 1, free=True)
        done += [(s / penalty(i + 1), h, True) for s, h, w in found if w == EOS]
        done = sorted(done, key=lambda x: -x[0])[:beam]
        live = go_on(found)[:beam]
        worst = done[0] if done and ask["n_best"] == 1 else done[-1] if len(done) == beam else None
        if not live or worst and worst[0] > live[0][0] / penalty(limit): break
    return (done or [(s / penalty(limit), h, False) for s, h in live])[:ask["n_best"]]


def fairseq(net, source, prefix, ask):
    """sequence_generator.py. An answer more than fit is forgotten: then only the best one is compared."""
    beam, limit, live, done, forgot = ask["beam"], ask["max_length_b"], [(0.0, [])], [], False
    for step in range(limit + 1):
        found = best_next(net, source, live, ask, prefix, 2 * beam, only_eos=step == limit)
        for s, h, w in found[:beam]:
            if w != EOS: continue
            forgot |= len(done) == beam
            if len(done) < beam: done.append((s / (step + 1) ** ask["alpha"], h, True))
        if len(done) == beam: break
        live = go_on(found)[:beam]
    return sorted(done, key=lambda x: -x[0])[:1 if forgot else ask["n_best"]]


def marian(net, source, prefix, ask):
    """beam_search.cpp and history.h: what has ended leaves, and its place with it."""
    live, done, width = [(0.0, [])], [], ask["beam"]
    for length in range(1, ask["max_length_b"] + 1):
        found = best_next(net, source, live, ask, prefix, width)
        last = length == ask["max_length_b"]
        done += [(s / length ** ask["alpha"], h if w == EOS else h + [w], w == EOS)
                 for s, h, w in found if w == EOS or last]
        if length > len(prefix): width -= sum(w == EOS for _, _, w in found)
        live = go_on(found)
        if not live: break
    return sorted(done, key=lambda x: -x[0])[:ask["n_best"]]


SEARCHES = {PAPER: ("tensor2tensor", tensor2tensor), FAIRSEQ: ("fairseq", fairseq), MARIAN: ("Marian", marian),
            CTRANSLATE2: ("CTranslate2", run_ctranslate2), HUGGING_FACE: ("Hugging Face", run_hugging_face)}


def random_net(c):
    net = Net({**c, "norm_epsilon": 1e-5}).train()
    with torch.no_grad():
        for name, p in net.named_parameters():
            if p.dim() == 1: p.add_(torch.randn_like(p) * 0.1)
        sharpen(net.generator.weight, net.generator.bias)
    return net


def search_rule(folder, rule):
    """Prints one line; whether all answers of at least 500 are the same."""
    answers = wrong = number = prefixed = early = unended = 0
    apart = 0.0
    name, theirs = SEARCHES[rule]
    while answers < 700 or number < 60:
        r = random.Random(1000 * rule + number)
        torch.manual_seed(1000 * rule + number)
        c, ask, pairs = search_case(r, number, rule)
        number += 1
        net, state = hugging_face_model(c) if rule == HUGGING_FACE else (random_net(c), None)
        if state is None: state = {k: v.clone() for k, v in net.state_dict().items()}
        write_config(folder / "config", {**c, **ask, "threads": 1})
        write_batches(folder / "batches", [pairs])
        save_file(state, folder / "model.safetensors")
        got = [[] for _ in pairs]
        for line in run_c("search", folder / "config", folder / "model.safetensors", folder / "batches"):
            got[int(line[0])].append((line[2], [int(x) for x in line[4:]], line[1] == 1))
        if rule == CTRANSLATE2: want = theirs(c, ask, pairs, {**state, "positions": net.table}, folder)
        elif rule == HUGGING_FACE: want = theirs(net, ask, pairs)
        else: want = [theirs(net, s, p, ask) for s, p in pairs]
        for a, b, (_, prefix) in zip(got, want, pairs):
            if rule == FAIRSEQ: a = a[:len(b)]                      # it forgets hypotheses
            wrong += abs(len(a) - len(b))
            for x, y in zip(a, b):
                answers += 1
                prefixed += len(prefix) > 0
                early += ask["min_length"] > 0
                unended += not y[2]
                wrong += x[1:] != y[1:]
                if x[1:] != y[1:] or y[0] is None: continue
                this = abs(x[0] - y[0]) / abs(y[0])
                if not this <= apart: apart = this                  # NaN too, which then stays
    good = wrong == 0 and apart <= SCORE_TOLERANCE
    print(f"{name:13}  {answers} answers of {number} models ({prefixed} with a prefix, {early} with a minimum length,"
          f" {unended} without EOS): {wrong} differ, scores within {apart:.1e}", flush=True)
    return good


def toy_goldens(folder):
    """CTranslate2 with one-hot embeddings, sublayers that add nothing, and the toy's log-probabilities as logits."""
    words, d = ["<blank>", "<s>", "</s>", "<unk>", "a", "b", "c"], 8
    toy = {"<s>": [16, 4, 7, 70], "a": [5, 18, 20, 54], "b": [37, 19, 21, 20], "c": [22, 14, 29, 32]}
    c = dict(d_model=d, n_heads=1, d_ff=d, encoder_layers=1, decoder_layers=1, source_vocab=7, target_vocab=7,
             activation=0, norm_place=1, norm_epsilon=1e-5, tying=0, generator_bias=1, scale_embeddings=False)
    state = {k: torch.full_like(v, float("norm" in k and "weight" in k)) for k, v in Net(c).state_dict().items()}
    state["src_embed.weight"] = state["tgt_embed.weight"] = torch.eye(7, d)
    said = [words.index(w) for w in ("</s>", "a", "b", "c")]
    logits = torch.full((7, 7), -100.0, dtype=torch.float64)   # after each word, of each word
    for word, counts in toy.items(): logits[words.index(word), said] = (torch.tensor(counts).double() / 97).log()
    # norm(one-hot) = (one-hot - 1/d) / deviation
    state["generator.weight"][:, :7] = (logits.T * math.sqrt((1 - 1 / d) / d + 1e-5)).float()
    state["generator.bias"] = (logits.sum(0) / d).float()
    translator = ctranslate2_of({**state, "positions": torch.zeros(64, d)}, c, [words, words], folder)
    for beam, least, limit, alpha in ((1, 2, 6, 1.0), (2, 0, 6, 1.0), (2, 1, 6, 1.0), (2, 2, 6, 1.0), (2, 6, 6, 1.0),
                                      (3, 1, 6, 1.0), (3, 3, 6, 0.6), (4, 2, 4, 2.0)):
        x = translator.translate_batch([["a"]], beam_size=beam, num_hypotheses=beam, length_penalty=alpha,
                                       min_decoding_length=least, max_decoding_length=limit, return_scores=True)[0]
        best = ", ".join('{ "%s", %.6f }' % ("".join(h), s) for h, s in zip(x.hypotheses, x.scores))
        print(f"        {{ {beam}, {least}, {limit}, {alpha}, {{ {best} }} }},")


def main():
    if len(sys.argv) < 2: sys.exit(__doc__)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="enable_nested_tensor")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if sys.argv[1] == "toy": return toy_goldens(folder)
        if sys.argv[1] == "search": return 0 if all([search_rule(folder, rule) for rule in SEARCHES]) else 1
        if sys.argv[1] == "heads":
            return 0 if all([head_case(folder, head, i) for head in (MEAN, FIRST, TOKENS, MASKED) for i in (0, 1)]) else 1
        data = pathlib.Path(sys.argv[1])
        logits = max(logits_both_ways(i, folder) for i in range(10))
        losses = max(train_both(data, folder, i) for i in range(10))
    good = logits <= LOGITS_TOLERANCE and losses <= LOSS_TOLERANCE
    print(f"logits {logits:.1e} of {LOGITS_TOLERANCE:.0e}, losses {losses:.1e} of {LOSS_TOLERANCE:.0e}: "
          + ("the same" if good else "DIFFERENT"))
    return 0 if good else 1


BINARY = sys.argv[2] if len(sys.argv) > 2 else "build/parity"
if __name__ == "__main__": sys.exit(main())

"""Does transformers load what trf export writes, with the same logits and the same ids?

    cc -O2 -DTRF_DOUBLE -I. tools/parity/parity.c -o build/parity_double -lopenblas -lm
    python3 tools/parity/export.py [NAME...]        needs torch, transformers, tokenizers and sentencepiece (measured with
                                                    5.24); trf and parity_double in build/; minutes on one core

The models are those of tests/golden/import, and models that trf train makes in the shapes of TRAINED. For each one:
1. from_pretrained of the class that config.json names loads the folder with no missing and no unexpected tensor. (A
   BertModel misses its pooler, which trf imports with a head alone.)
2. Logits, or the states of an encoder without a head, are those of the library, both in double, to 1e-6 of the largest.
   Of BertForPreTraining: the logits of the one head, and the probabilities of the other.
3. AutoTokenizer gives the ids of trf for every line, without special tokens, and those that the model reads with them; or
   those of the folder that the model was imported from, where transformers 5 cuts a text otherwise than SentencePiece.
4. Importing the folder again gives the same file, for imported models; for trained ones the same logits.
Prints a line for each; the exit status is 1 if anything is different.
"""
import json, pathlib, random, subprocess, sys, tempfile, warnings
import torch
import transformers as tf

warnings.filterwarnings("ignore")
tf.logging.set_verbosity_error()
tf.logging.disable_progress_bar()
torch.set_num_threads(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
TRF, PARITY, GOLDEN = ROOT / "build/trf", ROOT / "build/parity_double", ROOT / "tests/golden/import"
TOLERANCE = 1e-6
GOLDENS = ["bert", "bert_shards", "byte_bpe", "bert_first", "bert_next", "bert_tokens", "bert_masked", "bert_both",
           "roberta_first", "roberta_masked", "marian", "bart", "t5", "gpt2", "llama"]
PAIRS, TEXTS, LABELS, TAGS, PIECES = "--tsv pairs", "--objective causal --text text", "--objective classify --tsv labels", \
    "--objective tag --tsv tags", " --tokens sentencepiece:unigram --vocab-size 60"
BERT = " --pooling first --head-layer yes --source-bos yes"
MASKED = " --head-layer yes --source-bos yes --scale-embeddings no --activation gelu"
LLAMA = " --norm-rule rms --positions rotary --feed-forward-gate yes --activation silu --qkv-bias no --out-bias no --feed-forward-bias no"
T5 = " --norm-rule rms --positions relative --attention-scale 1 --scale-embeddings no --generator-bias no --qkv-bias no" \
    " --out-bias no --feed-forward-bias no --decoder-start pad --joint-vocabulary yes"
TRAINED = {     # options of trf train, the expected model_type, and options of trf export
    "joint": (PAIRS + " --joint-vocabulary yes", "pegasus", ""),
    "joint-pieces": (PAIRS + " --joint-vocabulary yes" + PIECES, "pegasus", ""),
    "joint-characters": (PAIRS + " --joint-vocabulary yes --tokens characters", "pegasus", ""),
    "post": (PAIRS + " --joint-vocabulary yes --norm-place post-norm --final-norm no --positions halves", "marian", ""),
    "post-two": (PAIRS + " --norm-place post-norm --final-norm no", "marian", ""),
    "post-two-pieces": (PAIRS + " --norm-place post-norm --final-norm no --joint-vocabulary no" + PIECES, "marian", ""),
    "post-gelu": (PAIRS + " --joint-vocabulary yes --norm-place post-norm --final-norm no --activation gelu --qkv-bias no"
                  " --scale-embeddings no --generator-bias yes", "marian", ""),
    "bart-like": (PAIRS + " --joint-vocabulary yes --norm-place post-norm --final-norm no --embedding-norm yes --positions learned"
             " --source-bos yes --decoder-start eos", "bart", ""),
    "mbart": (PAIRS + " --joint-vocabulary yes --embedding-norm yes", "mbart", ""),
    "m2m": (PAIRS + " --joint-vocabulary yes --positions halves-n1 --position-offset 1", "m2m_100", ""),
    "t5-like": (PAIRS + T5 + " --tying all --scale-logits yes", "t5", ""),
    "t5-1.1": (PAIRS + T5 + " --tying embeddings --feed-forward-gate yes --activation gelu-tanh", "t5", ""),
    "t5-wide": (PAIRS + T5 + " --tying all --scale-logits yes --d-head 6 --relative-buckets 8 --relative-distance 20", "t5", ""),
    "causal": (TEXTS, "gpt2", ""),
    "causal-tied": (TEXTS + " --positions learned --scale-embeddings no --activation gelu-tanh", "gpt2", ""),
    "causal-pieces": (TEXTS + PIECES, "gpt2", ""),
    "causal-none": (TEXTS + " --positions none --qkv-bias no", "gpt2", ""),
    "llama-like": (TEXTS + LLAMA, "llama", ""),
    "llama-tied": (TEXTS + LLAMA + " --scale-embeddings no --kv-heads 1 --rotary-scale 2 --rotary-base 50000", "llama", ""),
    "llama-3.1": (TEXTS + LLAMA + " --rotary-scale 8 --rotary-trained 16 --rotary-low 1.5 --rotary-high 3", "llama", ""),
    "mistral": (TEXTS + LLAMA + " --kv-heads 1 --d-head 6", "mistral", "--as mistral"),
    "qwen2": (TEXTS + LLAMA.replace("--qkv-bias no", "--qkv-bias yes"), "qwen2", "--as qwen2"),
    "llama-biases": (TEXTS + LLAMA.replace("--qkv-bias no", "--qkv-bias yes"), "llama", ""),
    "classify": (LABELS + BERT, "megatron-bert", ""),
    "classify-pairs": (LABELS + BERT + " --segments 2 --positions learned", "megatron-bert", ""),
    "classify-post": (LABELS + BERT + " --norm-place post-norm --final-norm no --embedding-norm yes --activation gelu",
                      "bert", ""),
    "classify-roberta": (LABELS + BERT + " --norm-place post-norm --final-norm no --embedding-norm yes", "roberta",
                         "--as roberta"),
    "tag": (TAGS + " --source-bos yes", "megatron-bert", ""),
    "mask": ("--objective mask --text text" + MASKED, "megatron-bert", ""),
    "pretrain": ("--objective pretrain --tsv labels" + MASKED, "megatron-bert", ""),
    "pretrain-post": ("--objective pretrain --tsv labels" + MASKED +
                      " --norm-place post-norm --final-norm no --embedding-norm yes --segments 2 --positions learned", "bert", ""),
}
WORDS = "zero one two three four five six seven eight nine".split()


def run(*arguments, cwd=None):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, cwd=cwd)
    if done.returncode: sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def make_data(folder):
    r = random.Random(1)
    rows = [[r.randrange(10) for _ in range(r.randrange(1, 6))] for _ in range(600)]
    names = [" ".join(WORDS[d] for d in row) for row in rows]
    (folder / "pairs").write_text("".join(f"{' '.join(map(str, row))}\t{name}\n" for row, name in zip(rows, names)))
    (folder / "text").write_text("\n".join(names) + "\n")
    (folder / "labels").write_text("".join(f"{n}\t{'long' if len(row) > 3 else 'short'}\n" for row, n in zip(rows, names)))
    (folder / "tags").write_text("".join(f"{n}\t{' '.join('odd' if d % 2 else 'even' for d in row)}\n" for row, n in zip(rows, names)))


def train(folder, name, options):
    layers = "--decoder-layers 2" if "causal" in options else "--encoder-layers 2"
    if options.startswith(PAIRS): layers = "--encoder-layers 2 --decoder-layers 2"
    if " --tying embeddings" not in options and "t5" not in name and "--joint-vocabulary yes" in options and "--tying" not in options:
        options += " --tying all"
    run(TRF, "train", *options.split(), *layers.split(), *"--d-model 16 --n-heads 2 --d-ff 32 --updates 30 --warmup 20"
        " --batch-tokens 256 --metric loss --threads 1 --seed 5 --quiet --max-length 64 --learning-rate 0.02 --schedule constant".split(),
        "--model", name + ".trf", cwd=folder)


class Check:
    def __init__(self, folder, model, exported, original):
        self.original = original        # the folder that the model was imported from, or None
        self.target_eos = b'"trf.config.target_eos":"1"' in model.read_bytes()
        self.folder, self.model, self.exported = folder, model, exported
        self.json = json.loads((exported / "config.json").read_text())
        kind = getattr(tf, self.json["architectures"][0])
        net, info = kind.from_pretrained(exported, output_loading_info=True)
        self.missing = sorted(k for k in info["missing_keys"] if not k.startswith("pooler."))
        self.missing += sorted(info["unexpected_keys"]) + sorted(map(str, info.get("mismatched_keys", [])))
        self.net = net.eval().double()
        self.c = self.net.config
        self.translates = self.c.is_encoder_decoder
        self.decodes = "CausalLM" in self.json["architectures"][0] or "LMHead" in self.json["architectures"][0]
        self.ids_of_trf = lambda side, lines: self.parity(side, "".join(x + "\n" for x in lines), numbers=int)
        r = random.Random(7)
        special = {self.json.get(k + "_token_id") for k in ("pad", "bos", "eos", "decoder_start")}
        size = self.json["vocab_size"]
        ids = [i for i in range(4, size) if i not in special]
        self.pairs = [([r.choice(ids) for _ in range(r.randrange(1, 20))], [r.choice(ids) for _ in range(r.randrange(1, 20))])
                      for _ in range(8)]

    def parity(self, command, text, numbers=float, model=None):
        (self.folder / "config.txt").write_text("threads 1\n")
        (self.folder / "batches").write_text(text)
        done = run(PARITY, command, self.folder / "config.txt", model or self.model, self.folder / "batches")
        return [[numbers(x) for x in line.split()] for line in done.split("\n")[:-1]]

    def batch(self):
        row = lambda r: " ".join(map(str, [len(r)] + r))
        source = lambda s: [] if self.decodes else s
        target = lambda t: t if self.decodes or self.translates else []
        return f"{len(self.pairs)}\n" + "".join(f"{row(source(s))} {row(target(t))}\n" for s, t in self.pairs)

    def around(self, source):
        """What the library adds to a source."""
        begins = not self.translates or self.json["model_type"] == "bart"
        bos, eos = self.bos_eos()
        return ([bos] if begins else []) + source + [eos]

    def bos_eos(self):
        bos, eos = self.json["bos_token_id"], self.json["eos_token_id"]
        return bos, eos

    def forward(self):
        out = []
        for s, t in self.pairs:
            # without EOS in its targets, the library has a row for each id alone
            if self.decodes: out.append(self.net(torch.tensor([[self.bos_eos()[0]] + t])).logits[0][:len(t) + self.target_eos])
            elif self.translates:
                start = self.json["decoder_start_token_id"]
                out.append(self.net(input_ids=torch.tensor([self.around(s)]), decoder_input_ids=torch.tensor([[start] + t])).logits[0])
            else:
                got = self.net(torch.tensor([self.around(s)]))
                if "seq_relationship_logits" in got:    # of both heads: parity() asks for both, too
                    out.append(torch.cat([got.prediction_logits[0].reshape(-1), got.seq_relationship_logits[0].softmax(-1)]))
                else: out.append((got.logits if "logits" in got else got.last_hidden_state)[0])
        return torch.cat([x.reshape(-1) for x in out])

    def logits(self, model=None):
        headless = not self.decodes and not self.translates and "Model" in self.json["architectures"][0]
        got = self.parity("encode" if headless else "logits", self.batch(), model=model)
        got = torch.tensor([row[0] for row in got], dtype=torch.float64)
        if "PreTraining" not in self.json["architectures"][0]: return got
        # the second head's probabilities follow the logits of each sequence
        labels = torch.tensor(self.parity("classify", self.batch(), model=model), dtype=torch.float64).reshape(-1, 2)
        rows = torch.split(got.view(-1, self.json["vocab_size"]), [len(s) + 2 for s, _ in self.pairs])
        return torch.cat([torch.cat([r.reshape(-1), p]) for r, p in zip(rows, labels)])

    def apart(self, got):
        with torch.no_grad(): want = self.forward()
        if got.numel() != want.numel(): return float("inf")
        x = float((got - want).abs().max() / want.abs().max())
        return x if x == x else float("inf")

    def tokens(self, lines):
        """How many lines have other ids: of the source or of the only side, and of the target."""
        wrong = self.own = 0
        sides = [("ids", self.exported, False)]
        if self.translates: sides.append(("target_ids", self.exported / "target_tokenizer", True))
        for side, folder, target in sides:
            load = tf.AutoTokenizer if self.json["model_type"] != "qwen2" else tf.PreTrainedTokenizerFast
            words = load.from_pretrained(folder if folder.exists() else self.exported, split_special_tokens=True)
            first = tf.AutoTokenizer.from_pretrained(self.original, split_special_tokens=True) if self.original and self.json["model_type"] in ("t5", "llama") else None
            want = self.ids_of_trf(side, lines)
            assert len(want) == len(lines)
            for line, ids in zip(lines, want):
                both = dict(text_target=line) if target else dict(text=line)
                got = words(**both, add_special_tokens=False).input_ids
                whole = words(**both).input_ids
                if target or self.decodes: want_whole = None
                else: want_whole = self.around(ids)
                # transformers reads some SentencePiece models in its own way: then as it reads the original
                if first and first(**both, add_special_tokens=False).input_ids != ids:
                    self.own += 1
                    ids, want_whole = first(**both, add_special_tokens=False).input_ids, first(**both).input_ids
                if got != ids or want_whole is not None and whole != want_whole:
                    if not wrong: print(f"    {side} {line!r}: {got} {ids} {whole} {want_whole}")
                    wrong += 1
        return wrong


LINES = ["one two three", "zero", "", "nine  eight", "un known words, here!", "1 2 3", "0", "9 9 9 9", " lead", "trail ",
         "A man is playing a guitar.", "Caf\u00e9 stra\u00dfe \u4e2d\u6587 \U0001f600", "a\tb", "don't  we'll", "1234567 x_y", "\u00a0\u3000x"]


def main():
    names = sys.argv[1:] or GOLDENS + list(TRAINED)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make_data(folder)
        for name in names:
            model, exported, again = folder / (name + ".trf"), folder / name, folder / (name + ".again")
            kind, more = None, ""
            if name in TRAINED:
                options, kind, more = TRAINED[name]
                train(folder, name, options)
            else: run(TRF, "import", GOLDEN / name, "--output", model)
            run(TRF, "export", model, "--output", exported, *more.split())
            check = Check(folder, model, exported, GOLDEN / name if name in GOLDENS else None)
            lines = LINES + ((GOLDEN / name / "lines.txt").read_text().splitlines() if (GOLDEN / name / "lines.txt").exists() else [])
            apart, wrong = check.apart(check.logits()), check.tokens(lines)
            run(TRF, "import", exported, "--output", again)
            check.target_eos = True         # import's
            if name in TRAINED: same = check.apart(check.logits(again)) < TOLERANCE
            else: same = model.read_bytes() == again.read_bytes()
            bad = bool(check.missing) or not apart < TOLERANCE or wrong or not same or kind not in (None, check.json["model_type"])
            failed |= bool(bad)
            print(f"{name:18} {check.json['architectures'][0]:38} logits {apart:.1e}  other ids in {wrong} of {len(lines)} lines"
                  + (f", {check.own} as in the original folder" if check.own else "")
                  + (f"  tensors {check.missing[:4]}" if check.missing else "") + ("" if same else "  not the same again")
                  + ("  FAILED" if bad else ""), flush=True)
    sys.exit(failed)


if __name__ == "__main__": main()

"""Are imported models those of transformers? Logits, states, answers and training, of every architecture that
trf import reads.

    cc -O2 -I. tools/parity/parity.c -o build/parity -lopenblas -lm
    python3 tools/parity/published.py --files [KIND...]      the same for the settings of files: published_files.py
    python3 tools/parity/published.py [--whole] [NAME...]    needs torch, transformers, tokenizers and sentencepiece;
                                                    trf and parity in build/; minutes on one core

For every model in MODELS: random weights in a published configuration, cut to two layers and a small vocabulary
(--whole: as published), saved by save_pretrained beside a tokenizer that is made here, imported by trf.
1. Logits, and the encoder's states, are those of transformers in double to 1e-5 of the largest one. Beside it stands
   what transformers itself loses in float.
   Of BERT and RoBERTa: logits of the masked tokens' head, and the encoder's states; nothing else follows.
2. generate of transformers gives the same answers to 500 random inputs each, greedy and with a beam of 4. It is told
   never to choose pad or the start token, as trf never does; BART has its forced first token. Where
   answers differ, transformers answers once more in double. The line says how often it then gives ours.
3. Fifty updates from the same weights, as transformers draws them (T5, Llama, GPT-2): every loss is as
   near to PyTorch's in double as PyTorch's own in float is, or within 1e-5.
Prints a line for each; the exit status is 1 if anything is further apart.
"""
import argparse, contextlib, copy, json, pathlib, random, subprocess, sys, tempfile, warnings
import torch, torch.nn.functional as F
import transformers as tf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

warnings.filterwarnings("ignore")
tf.logging.set_verbosity_error()
torch.set_num_threads(1)
TRF, PARITY = "build/trf", "build/parity"
SMALL_VOCAB, ANSWERS, STEPS, TOLERANCE = 300, 500, 50, 1e-5
TEXT = [" ".join(random.Random(i).choices("the a man woman dog plays walks reads green street river and with in of".split(),
                                          k=8)) for i in range(300)]
HUGGING_FACE = 5
NORMALISED = {}         # of sentencepiece: make_texts.py has smaller files


def byte_bpe(folder, size, special, more, last=()):
    """A byte-level BPE; its special tokens have the first ids, or the last ones."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=size - len(last), special_tokens=special, show_progress=False,
                                                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_tokens([f"<more{i}>" for i in range(size - len(last) - t.get_vocab_size())])
    t.add_special_tokens(list(last))
    t.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(more))


def spm(folder, name, size, **more):
    import sentencepiece
    (folder / "text").write_text("\n".join(TEXT))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "m"), vocab_size=size, hard_vocab_limit=False,
        minloglevel=2, **dict(NORMALISED, **more))
    (folder / "m.model").rename(folder / name)
    for left in ("text", "m.vocab"): (folder / left).unlink()


def t5_words(folder, c):
    spm(folder, "spiece.model", 60, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "T5Tokenizer", "extra_ids": 100, "eos_token": "</s>", "unk_token": "<unk>",
         "pad_token": "<pad>"}))


def llama_words(folder, c, begins=True):
    spm(folder, "tokenizer.model", min(c.vocab_size, 280), model_type="bpe", byte_fallback=True, unk_id=0, bos_id=1,
        eos_id=2, pad_id=-1)
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "LlamaTokenizer", "add_bos_token": begins, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))


def bare_words(folder, c): llama_words(folder, c, begins=False)


def marian_words(folder, c):
    import sentencepiece
    for side in ("source", "target"): spm(folder, side + ".spm", 60, pad_id=-1)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    words = ["</s>", "<unk>"] + [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    words += [f"w{i}" for i in range(c.vocab_size - 1 - len(words))] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "MarianTokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}))


def bart_words(folder, c):
    byte_bpe(folder, c.vocab_size, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
             {"tokenizer_class": "BartTokenizer", "bos_token": "<s>", "cls_token": "<s>", "sep_token": "</s>",
              "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"})


def gpt2_words(folder, c):
    end = ["<|endoftext|>"]
    byte_bpe(folder, c.vocab_size, end if c.eos_token_id == 0 else [],
             {"tokenizer_class": "GPT2Tokenizer", "bos_token": end[0], "eos_token": end[0]}, end if c.eos_token_id else ())


def bert_words(folder, c):
    """A WordPiece vocabulary in which special tokens have the ids of bert-base-uncased."""
    tokens = ["[PAD]", *(f"[unused{i}]" for i in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += [f"word{i}" for i in range(c.vocab_size - len(tokens))]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))


def roberta_words(folder, c):
    byte_bpe(folder, c.vocab_size, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
             {"tokenizer_class": "RobertaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>",
              "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"})


def small(whole, **cut): return {} if whole else cut


def bert(whole):
    return tf.BertForMaskedLM(tf.BertConfig(vocab_size=30522 if whole else SMALL_VOCAB, num_hidden_layers=12 if whole else 2))


def roberta(whole):
    return tf.RobertaForMaskedLM(tf.RobertaConfig(
        vocab_size=50265 if whole else SMALL_VOCAB, num_hidden_layers=12 if whole else 2, max_position_embeddings=514,
        type_vocab_size=1, layer_norm_eps=1e-5))


def marian(whole):
    v = 58101 if whole else SMALL_VOCAB
    return tf.MarianMTModel(tf.MarianConfig(
        vocab_size=v, d_model=512, encoder_ffn_dim=2048, decoder_ffn_dim=2048, encoder_attention_heads=8,
        decoder_attention_heads=8, activation_function="swish", scale_embedding=True, max_position_embeddings=512,
        pad_token_id=v - 1, bos_token_id=0, eos_token_id=0, decoder_start_token_id=v - 1, forced_eos_token_id=None,
        encoder_layers=6 if whole else 2, decoder_layers=6 if whole else 2))


def bart(whole):
    return tf.BartForConditionalGeneration(tf.BartConfig(
        d_model=768, encoder_ffn_dim=3072, decoder_ffn_dim=3072, encoder_attention_heads=12, decoder_attention_heads=12,
        encoder_layers=6 if whole else 2, decoder_layers=6 if whole else 2, forced_eos_token_id=None,
        vocab_size=50265 if whole else SMALL_VOCAB))


def bart_like(whole, kind, config):
    layers = 12 if whole else 2
    return kind(config(
        d_model=256, encoder_ffn_dim=1024, decoder_ffn_dim=1024, encoder_attention_heads=8, decoder_attention_heads=8,
        encoder_layers=layers, decoder_layers=layers, vocab_size=128112 if whole else SMALL_VOCAB, scale_embedding=True,
        decoder_start_token_id=2, forced_eos_token_id=None))


def t5(whole, **more):
    return tf.T5ForConditionalGeneration(tf.T5Config(
        d_model=512, d_ff=more.pop("d_ff", 2048), num_heads=more.pop("num_heads", 8),
        decoder_start_token_id=more.get("pad_token_id", 0),
        num_layers=more.pop("layers", 6) if whole else 2, vocab_size=32128 if whole else SMALL_VOCAB, **more))


def gpt2(whole):
    v = 50257 if whole else SMALL_VOCAB
    return tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=v, n_layer=12 if whole else 2, bos_token_id=0 if not whole else v - 1,
                                            eos_token_id=0 if not whole else v - 1))


def llama(whole, kind=tf.LlamaForCausalLM, config=tf.LlamaConfig, **more):
    return kind(config(hidden_size=640, intermediate_size=1728, num_attention_heads=10, num_key_value_heads=2,
                       num_hidden_layers=16 if whole else 2, vocab_size=32000 if whole else SMALL_VOCAB,
                       max_position_embeddings=2048, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, **more))


# name: the model, its tokenizer, whether it is trained
MODELS = {
    "bert": (bert, bert_words, False),
    "roberta": (roberta, roberta_words, False),
    "marian": (marian, marian_words, False),
    "bart": (bart, bart_words, False),
    # their own tokenizers: languages.py
    "mbart": (lambda whole: bart_like(whole, tf.MBartForConditionalGeneration, tf.MBartConfig), bart_words, False),
    "m2m_100": (lambda whole: bart_like(whole, tf.M2M100ForConditionalGeneration, tf.M2M100Config), bart_words, False),
    "t5": (t5, t5_words, True),
    "t5-1.1": (lambda whole: t5(whole, d_ff=1024, num_heads=6, layers=8, feed_forward_proj="gated-gelu",
                                tie_word_embeddings=False), t5_words, False),
    # a T5 that reads <s> before its sources
    "codet5": (lambda whole: t5(whole, pad_token_id=1, bos_token_id=0, eos_token_id=2), bart_words, False),
    "gpt2": (gpt2, gpt2_words, True),
    "llama": (llama, llama_words, True),
    "llama-linear": (lambda whole: llama(whole, head_dim=48, tie_word_embeddings=True, rope_parameters={
        "rope_type": "linear", "factor": 2.0, "rope_theta": 50000.0}), llama_words, False),
    # the factors put pairs on both sides of each limit, and between them
    "llama-3.1": (lambda whole: llama(whole, rope_parameters={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 500.0,
        "original_max_position_embeddings": 8192 if whole else 32}), llama_words, False),
    "mistral": (lambda whole: llama(whole, tf.MistralForCausalLM, tf.MistralConfig, sliding_window=None), llama_words,
                False),
    "qwen2": (lambda whole: llama(whole, tf.Qwen2ForCausalLM, tf.Qwen2Config), bare_words, False),
}


def shake(net):
    """Nothing stays at 0 or 1, and logits are steep enough for answers to differ."""
    with torch.no_grad():
        for name, p in net.named_parameters():
            if not p.requires_grad or "embed_positions" in name and "bart" not in type(net).__name__.lower(): continue
            if p.dim() == 1: p.normal_(1.0 if "norm" in name and "bias" not in name or "ln_" in name and "weight" in name
                                       else 0.0, 0.2)
            # T5 does not scale its scores: small queries take the place of that
            elif "SelfAttention.q" in name or "EncDecAttention.q" in name: p.normal_(0.0, 0.25 * p.shape[-1] ** -0.5)
            else: p.normal_(0.0, 2.0 * p.shape[-1] ** -0.5)
        for name in ("final_logits_bias",):
            if hasattr(net, name): getattr(net, name).normal_(0, 0.5)
    return net.eval()


def run(*arguments):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True)
    if done.returncode: sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def rows_of(text): return [[float(x) for x in line.split()] for line in text.splitlines()]


def write_batches(path, batches):
    row = lambda r: " ".join(map(str, [len(r)] + r))
    path.write_text("".join(f"{len(b)}\n" + "".join(f"{row(s)} {row(t)}\n" for s, t in b) for b in batches))


def relative(got, want):
    x = float((got.double() - want.double()).abs().max() / want.double().abs().max())
    return x if x == x else float("inf")


class Both:
    def __init__(self, name, whole, folder, shaken=True):
        self.name, self.folder = name, folder
        torch.manual_seed(len(name))
        make, words, self.trains = MODELS[name]
        self.net = shake(make(whole)) if shaken else make(whole)
        self.c = self.net.config
        self.translates = self.c.is_encoder_decoder
        self.encodes = "bert" in name
        self.first = 0 if name == "bart" else None       # as published models have it
        if self.first is not None: self.net.generation_config.forced_bos_token_id = self.first
        folder.mkdir()
        self.net.save_pretrained(folder)
        words(folder, self.c)
        self.model = folder / "model.trf"
        run(TRF, "import", folder, "--output", self.model)
        eos = self.c.eos_token_id
        self.eos = eos[0] if isinstance(eos, list) else eos
        bos = getattr(self.c, "bos_token_id", None)
        if name == "bert": bos, self.eos = 101, 102
        self.start = self.c.decoder_start_token_id if self.translates else bos
        self.special = {i for i in (getattr(self.c, "pad_token_id", None), bos, self.eos, self.start) if i is not None}
        self.begin = [bos] if name in ("bart", "codet5") or self.encodes else []
        # before a prompt: what the tokenizer of the folder puts there
        self.before = [] if self.translates or self.encodes else tf.AutoTokenizer.from_pretrained(folder)("a").input_ids[:1]
        if self.before != [bos]: self.before = []
        self.r = random.Random(len(name))

    def ids(self, most):
        r = self.r
        return [i for i in (r.randrange(5, min(self.c.vocab_size, SMALL_VOCAB) - 120 if self.name.startswith("t5") else
                                        min(self.c.vocab_size, SMALL_VOCAB) - 1) for _ in range(r.randrange(1, most)))
                if i not in self.special] or [7]

    def c_side(self, command, batches, **config):
        (self.folder / "config.txt").write_text("".join(f"{k} {v!r}\n" for k, v in dict(threads=1, **config).items()))
        write_batches(self.folder / "batches", batches)
        return rows_of(run(PARITY, command, self.folder / "config.txt", self.model, self.folder / "batches"))

    @contextlib.contextmanager
    def in_double(self):
        single, self.net = self.net, copy.deepcopy(self.net).double()
        yield
        self.net = single

    def forward(self, source, target):
        """Logits of one pair, and the encoder's states."""
        if self.encodes:
            out = self.net(input_ids=torch.tensor([self.begin + source + [self.eos]]), output_hidden_states=True)
            return out.logits[0], out.hidden_states[-1][0]
        target = torch.tensor([[self.start] + target])
        if not self.translates: return self.net(input_ids=target).logits[0], None
        out = self.net(input_ids=torch.tensor([self.begin + source + [self.eos]]), decoder_input_ids=target)
        return out.logits[0], out.encoder_last_hidden_state[0]

    def check_logits(self):
        pairs = [(self.ids(40) if self.translates or self.encodes else [], [] if self.encodes else self.ids(40)) for _ in range(4)]
        with torch.no_grad(): float_ = [self.forward(s, t) for s, t in pairs]
        with self.in_double(), torch.no_grad(): want = [self.forward(s, t) for s, t in pairs]
        worst, own = 0.0, 0.0
        for k, command in enumerate(("logits", "encode")[:1 + (self.translates or self.encodes)]):
            exact = torch.cat([x[k] for x in want])
            got = torch.tensor(self.c_side(command, [pairs])).view(exact.shape)
            worst, own = max(worst, relative(got, exact)), max(own, relative(torch.cat([x[k] for x in float_]), exact))
        return worst, own

    def answers(self, beam, count, limit=20):
        """How many of the answers differ, and in how many of these transformers in double gives ours."""
        pairs = [(self.ids(12), []) if self.translates else ([], self.ids(12)) for _ in range(count)]
        batches = [pairs[i:i + 100] for i in range(0, count, 100)]
        got = {}
        first = {} if self.first is None else {"forced_first": self.first}
        for row in self.c_side("search", batches, rule=HUGGING_FACE, beam=beam, max_length_b=limit, **first):
            got.setdefault(int(row[0]), [int(i) for i in row[4:]])
        wrong, of_length = [], {}               # sources of one length need no padding: transformers gets them at once
        for k, pair in enumerate(pairs): of_length.setdefault(tuple(map(len, pair)), []).append(k)
        for numbers in of_length.values():
            for at in range(0, len(numbers), 25):
                some = numbers[at:at + 25]
                wrong += [k for k, y in zip(some, self.generate([pairs[k] for k in some], beam, limit)) if y != got[k]]
        if not wrong: return 0, 0
        with self.in_double(): ours = sum(self.generate([pairs[k]], beam, limit) == [got[k]] for k in wrong)
        return len(wrong), ours

    def generate(self, pairs, beam, limit):
        x = torch.tensor([self.begin + source + [self.eos] if self.translates else self.before + prompt for source, prompt in pairs])
        more = dict(max_new_tokens=limit) if not self.translates else dict(max_length=limit + 1)
        banned = {self.start, self.c.pad_token_id} - {self.eos, None}
        with torch.no_grad():
            made = self.net.generate(x, attention_mask=torch.ones_like(x), num_beams=beam, do_sample=False,
                                     suppress_tokens=sorted(banned) or None, pad_token_id=self.c.pad_token_id or self.eos,
                                     length_penalty=1.0, early_stopping=False, **more).tolist()
        answers = [y[1 + (self.first is not None):] if self.translates else y[x.shape[1]:] for y in made]
        return [y[:y.index(self.eos)] if self.eos in y else y for y in answers]

    def check_training(self):
        batches = [[(self.ids(12) if self.translates else [], self.ids(12)) for _ in range(6)] for _ in range(STEPS)]
        got = self.c_side("train", batches, learning_rate=0.1, warmup=20, epsilon=1e-6)
        theirs = {dtype: self.train_torch(batches, dtype) for dtype in (torch.float32, torch.float64)}
        apart = lambda x: max(abs(a - b) / b for a, b in zip(x, theirs[torch.float64]))
        return apart([row[0] for row in got]), apart(theirs[torch.float32])

    def train_torch(self, batches, dtype):
        before, losses = self.net, []
        self.net = net = copy.deepcopy(before).to(dtype).train()
        for m in net.modules():
            if isinstance(m, torch.nn.Dropout): m.p = 0.0
            for name in ("dropout", "attention_dropout", "activation_dropout"):
                if isinstance(getattr(m, name, None), float): setattr(m, name, 0.0)
        parameters = [p for p in net.parameters() if p.requires_grad]
        adam = torch.optim.Adam(parameters, betas=(0.9, 0.98), eps=1e-6)
        d = getattr(self.c, "d_model", None) or self.c.hidden_size
        for step, batch in enumerate(batches, 1):
            logits = torch.cat([self.forward(s, t)[0] for s, t in batch])
            out = torch.tensor([i for _, t in batch for i in t + [self.eos]])
            loss = F.cross_entropy(logits, out, label_smoothing=0.1)
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            for g in adam.param_groups: g["lr"] = 0.1 * d ** -0.5 * min(step ** -0.5, step * 20 ** -1.5)
            adam.step()
            losses.append(loss.item())
        self.net = before
        return losses


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--whole", action="store_true")
    p.add_argument("--answers", type=int, default=ANSWERS)
    p.add_argument("--files", action="store_true", help="the settings of a folder's files: published_files.py")
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    if a.files:
        import published_files
        sys.exit(published_files.main(a.names))
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in a.names or MODELS:
            both = Both(name, a.whole, pathlib.Path(folder) / name)
            logits, own = both.check_logits()
            wrong = [] if both.encodes else [both.answers(beam, a.answers) for beam in (1, 4)]
            losses = None
            if both.trains and not a.whole:
                losses = Both(name, False, pathlib.Path(folder) / (name + "-train"), False).check_training()
            bad = not logits < TOLERANCE or any(n for n, _ in wrong) or losses is not None and not losses[0] <= max(TOLERANCE, losses[1])
            failed |= bad
            print(f"{name:14} logits and states {logits:.1e} (transformers in float {own:.1e})"
                  + "".join(f"  {how} {n} of {a.answers} answers differ" + (f" (transformers in double: {ours} as ours)" if n else "")
                            for how, (n, ours) in zip(("greedy", "beam 4"), wrong))
                  + (f"  losses {losses[0]:.1e}, PyTorch's {losses[1]:.1e}" if losses is not None else "") + ("  FAILED" if bad else ""), flush=True)
    sys.exit(failed)


if __name__ == "__main__": main()

"""Are the ids of imported SentencePiece tokenizers those of transformers? XLM-R, mBART, NLLB, M2M-100, T5, Llama.

    cc -O2 -I. tools/parity/pieces.c -o build/pieces -lopenblas -lm
    python3 tools/parity/languages.py build/pieces build/trf TEXT...      needs transformers (measured with 5.24), tokenizers,
                                                                    sentencepiece 0.2.3 and torch

SentencePiece models of both types are trained on the first TEXT and become folders of transformers' classes: with the file of
SentencePiece, and as transformers saves them, which is tokenizer.json alone (not M2M-100). Others are written as version 4 of
transformers converts them. trf imports each. All lines of the TEXTs and 100,000 random and hostile ones are cut by our vocabulary,
by transformers without its added tokens, and by libsentencepiece with the ids that the class gives its pieces. Differences from
both are counted, and of the texts where only transformers differs those without a special token, U+2581 and a blank at an end:
there tokenizers cuts otherwise than SentencePiece does. The exit status is 1 if our ids differ from libsentencepiece's.
ONLY=NAME in the environment: only cases whose name has NAME.
"""
import json, os, pathlib, subprocess, sys, tempfile
import sentencepiece, torch, transformers as tf
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from byte_bpe import ask, stored
from pieces import hostile_lines

tf.logging.set_verbosity_error()
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]


def train(text, path, kind, size, **more):
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=str(path)[:-6], model_type=kind, vocab_size=size, minloglevel=2,
                                             hard_vocab_limit=False, **more)
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def model_of(folder, n, eos):
    """An encoder-decoder with a row for each id."""
    tf.M2M100ForConditionalGeneration(tf.M2M100Config(
        vocab_size=n, d_model=4, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, decoder_attention_heads=1, encoder_ffn_dim=4,
        decoder_ffn_dim=4, max_position_embeddings=8, decoder_start_token_id=eos)).save_pretrained(folder)


def converted(p, path, kind):
    """tokenizer.json as transformers 4 writes it: of XLM-R's (unigram) or of Llama's kind."""
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(open(path, "rb").read())
    charsmap = proto.normalizer_spec.precompiled_charsmap
    if kind == "llama":
        vocab = {piece.piece: i for i, piece in enumerate(proto.pieces)}
        merges = []
        for piece in proto.pieces:
            local = [(piece.piece[:i], piece.piece[i:]) for i in range(1, len(piece.piece)) if piece.piece[:i] in vocab and piece.piece[i:] in vocab]
            merges += [(a, b, piece.score) for a, b in sorted(local, key=lambda x: (vocab[x[0]], vocab[x[1]]))]
        merges = [(a, b) for a, b, _ in sorted(merges, key=lambda x: (x[2], len(x[0]), len(x[1])), reverse=True)]
        t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        t.add_special_tokens(["<unk>", "<s>", "</s>"])
        return t
    vocab = [(x, 0.0) for x in FIRST] + [(piece.piece, piece.score) for piece in proto.pieces[3:]] + [("<mask>", 0.0)]
    t = Tokenizer(models.Unigram(vocab, 3, False))
    steps = [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")]
    t.normalizer = normalizers.Sequence(([normalizers.Precompiled(charsmap)] if charsmap else []) + steps)
    t.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", "always")
    t.decoder = decoders.Metaspace("\u2581", "always")
    t.add_special_tokens(FIRST + ["<mask>"])
    return t


class LeftOut(Exception): pass


class Case:
    """A folder, their tokenizer, and our stored bytes. ids: of each piece of libsentencepiece."""
    def __init__(self, trf, name, folder, theirs, processor, ids, n, eos, hidden):
        if os.environ.get("ONLY", "") not in name: raise LeftOut
        self.name, self.theirs, self.processor, self.ids, self.hidden = name, theirs, processor, ids, hidden
        model_of(folder, n, eos)
        self.stored = os.path.join(folder, "stored")
        bytes_of = stored(trf, str(folder))
        open(self.stored, "wb").write(bytes_of)

    def cut(self, texts):
        if not hasattr(self.theirs, "_tokenizer"):
            return [self.theirs(t, add_special_tokens=False, split_special_tokens=True).input_ids for t in texts]
        self.theirs._tokenizer.encode_special_tokens = True
        return [e.ids for e in self.theirs._tokenizer.encode_batch(texts, add_special_tokens=False)]

    def witness(self, texts):
        return [[self.ids[i] for i in cut] for cut in self.processor.encode(texts)]


def cases(trf, text, root):
    normal = {"nmt_nfkc": {}, "identity": {"normalization_rule_name": "identity"}}
    for kind, cls, rule in [("unigram", "XLMRobertaTokenizer", "nmt_nfkc"), ("unigram", "XLMRobertaTokenizer", "identity"),
                            ("unigram", "MBartTokenizer", "identity"), ("unigram", "MBart50Tokenizer", "nmt_nfkc"), ("bpe", "NllbTokenizer", "nmt_nfkc"),
                            ("bpe", "M2M100Tokenizer", "nmt_nfkc")]:
        name = f"{cls}-{rule}"
        folder = root / name
        folder.mkdir()
        spm = folder / "sentencepiece.bpe.model"
        p = train(text, spm, kind, 8000, **normal[rule])
        os.remove(str(spm)[:-6] + ".vocab")
        n, config = p.get_piece_size(), {"tokenizer_class": cls}
        ids = [3, 0, 2] + [i + 1 for i in range(3, n)]
        if cls == "M2M100Tokenizer":
            words = FIRST + [p.id_to_piece(i) for i in range(3, n)][::-1]
            json.dump({w: i for i, w in enumerate(words)}, open(folder / "vocab.json", "w"))
            ids = [3, 0, 2] + [len(words) - 1 - (i - 3) for i in range(3, n)]
        if cls == "NllbTokenizer":      # the class of version 5 has no languages without them
            import transformers.models.nllb.tokenization_nllb as nllb
            config["additional_special_tokens"] = nllb.FAIRSEQ_LANGUAGE_CODES
        json.dump(config, open(folder / "tokenizer_config.json", "w"))
        theirs = getattr(tf, cls).from_pretrained(folder)
        total = max(theirs.get_vocab().values()) + 109
        yield lambda: Case(trf, name + " file", folder, theirs, p, ids, total, 2, {0, 1, 2})
        if cls == "M2M100Tokenizer": continue
        saved = root / (name + "-saved")
        theirs.save_pretrained(saved)
        yield lambda: Case(trf, name + " saved", saved, theirs, p, ids, total, 2, {0, 1, 2})
        if cls == "XLMRobertaTokenizer":
            folder = root / (name + "-4")
            folder.mkdir()
            t = tf.PreTrainedTokenizerFast(tokenizer_object=converted(p, spm, "unigram"))
            t._tokenizer.save(str(folder / "tokenizer.json"))
            json.dump({"tokenizer_class": cls}, open(folder / "tokenizer_config.json", "w"))
            yield lambda: Case(trf, name + " of version 4", folder, t, p, ids, total, 2, {0, 1, 2})
    folder = root / "t5"
    folder.mkdir()
    p = train(text, folder / "spiece.model", "unigram", 8000, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    json.dump({"tokenizer_class": "T5Tokenizer"}, open(folder / "tokenizer_config.json", "w"))
    theirs = tf.T5Tokenizer.from_pretrained(folder)
    theirs.save_pretrained(root / "t5-saved")
    yield lambda: Case(trf, "T5Tokenizer saved", root / "t5-saved", theirs, p, list(range(p.get_piece_size())), p.get_piece_size() + 128, 1, {0, 1})
    for size in (2000, 16000):
        folder = root / f"llama{size}"
        folder.mkdir()
        spm = folder / "tokenizer.model"
        p = train(text, spm, "bpe", size, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                  split_digits=True, allow_whitespace_only_pieces=True, max_sentencepiece_length=16)
        os.remove(str(spm)[:-6] + ".vocab")
        json.dump({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
                  open(folder / "tokenizer_config.json", "w"))
        theirs = tf.LlamaTokenizer.from_pretrained(folder)
        n = p.get_piece_size()
        theirs.save_pretrained(root / f"llama{size}-saved")
        yield lambda: Case(trf, f"LlamaTokenizer {size} saved", root / f"llama{size}-saved", theirs, p, list(range(n)), n, 2, {0, 1, 2})
        old = root / f"llama{size}-4"
        old.mkdir()
        t = tf.PreTrainedTokenizerFast(tokenizer_object=converted(p, spm, "llama"))
        t._tokenizer.save(str(old / "tokenizer.json"))
        json.dump({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}, open(old / "tokenizer_config.json", "w"))
        yield lambda: Case(trf, f"Llama {size} of version 4", old, t, p, list(range(n)), n, 2, {0, 1, 2})


def main(program, trf, *texts):
    lines = list(dict.fromkeys(line for text in texts for line in open(text, encoding="utf-8").read().split("\n") if line))
    odd = [line.decode("utf-8", "replace") for line in hostile_lines([line.encode() for line in lines[:50000]], 100000)]
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        for make in cases(trf, texts[0], pathlib.Path(root)):
            try: case = make()
            except LeftOut: continue
            marks = [t for t in case.theirs.get_added_vocab()] if hasattr(case.theirs, "get_added_vocab") else FIRST
            for name, some in (("lines", lines), ("hostile", odd)):
                count = dict.fromkeys(("lib", "theirs", "plain", "texts"), 0)
                answers = ask(program, case.stored, "records", [t.encode() for t in some])
                for text, answer, theirs, witness in zip(some, answers, case.cut(some), case.witness(some)):
                    ids, written = answer.decode().split("\t", 1)
                    ids = [int(i) for i in ids.split()]
                    if ids != witness:
                        count["lib"] += 1
                        if count["lib"] < 4: print(f"    {text!r}: {ids}, libsentencepiece {witness}")
                    if ids != theirs:
                        count["theirs"] += 1
                        if text == text.strip() and not any(x in text for x in ["\u2581"] + marks):
                            count["plain"] += 1
                            if count["plain"] < 4: print(f"    {text!r}: {ids}, transformers {theirs}")
                    elif case.ids[case.processor.unk_id()] not in ids and written != (back := case.theirs.decode(ids, skip_special_tokens=True)):
                        count["texts"] += 1
                        if count["texts"] < 3: print(f"    {text!r}: {written!r}, transformers {back!r}")
                print(f"{case.name}: {len(some)} {name}; ids differ from libsentencepiece's {count['lib']}, from transformers' {count['theirs']}, of "
                      f"them without special tokens, U+2581 and blanks at an end {count['plain']}; texts differ {count['texts']}", flush=True)
                failed |= count["lib"] > 0
    return failed


if __name__ == "__main__":
    if len(sys.argv) < 4: sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

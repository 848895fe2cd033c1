"""Are tokenizers of many languages, as trf export writes them, those of the folders that trf has imported?

    cc -O2 -DTRF_DOUBLE -I. tools/parity/parity.c -o build/parity_double -lopenblas -lm
    python3 tools/parity/export_languages.py [NAME...]      needs torch, transformers, tokenizers and sentencepiece (measured with
                                                            5.24); trf and parity_double in build/; minutes on one core

The models are those of tests/golden/import, and models with the forms that tokenizers of M2M-100, NLLB and mBART have: the file of
SentencePiece, tokenizer.json as transformers 5 saves it and as version 4 does, with and without a map of characters. For each one:
1. AutoTokenizer has the class and the languages of the original folder. For every pair of PAIRS it gives the same ids to each line,
   as a source and as a target, and decodes them to the same text, with special tokens and without. Where transformers 5 gives the
   languages of NLLB's file other ids than version 4 (it puts <mask> first), the same tokens, and the languages have the ids of trf.
2. generate gives the same answers with the tag of each pair's target: as forced_bos_token_id, or for mBART-25 as the token that
   the decoder begins with. The original model gets the bans of our generation_config.json.
3. Exported with a pair, the folder alone gives these ids and these answers.
4. Logits are those of the library, in double, to 1e-6 of the largest (export.py).
5. Importing the folder again gives the same file.
Prints a line for each; the exit status is 1 if anything is different.
"""
import json, pathlib, random, shutil, sys, tempfile
import sentencepiece, torch
import transformers as tf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
import make_languages as make
from export import GOLDEN, LINES, TOLERANCE, TRF, Check, run

FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
PAIRS = {"m2m": [("en", "fr"), ("de", "zu"), ("af", "en")], "wmt21": [("en", "ha"), ("de", "zh")],
         "nllb": [("eng_Latn", "fra_Latn"), ("zul_Latn", "ace_Arab"), ("deu_Latn", "eng_Latn")],
         "mbart": [("en_XX", "ro_RO"), ("zh_CN", "ar_AR"), ("de_DE", "en_XX")]}
# the class, the kind of pieces, the form, whether there is a map, and more of tokenizer_config.json
MADE = {
    "m2m-map": ("M2M100Tokenizer", "bpe", "file", True, {}),
    "m2m-wmt21": ("M2M100Tokenizer", "bpe", "file", False, {"language_codes": "wmt21"}),
    "nllb-file": ("NllbTokenizer", "bpe", "file", False, {}),
    "nllb-legacy": ("NllbTokenizer", "bpe", "file", True, {"legacy_behaviour": True}),
    "nllb-saved": ("NllbTokenizer", "bpe", "saved", True, {}),
    "nllb-more": ("NllbTokenizer", "bpe", "saved", True, {"more": ["<extra>", "<other>"]}),
    "nllb-some": ("NllbTokenizer", "bpe", "saved", False, {"additional_special_tokens": ["fra_Latn", "deu_Latn", "zul_Latn"]}),
    "nllb-4": ("NllbTokenizer", "bpe", "4", True, {}),
    "mbart-map": ("MBartTokenizer", "unigram", "file", True, {}),
    "mbart-saved": ("MBartTokenizer", "unigram", "saved", False, {}),
    "mbart50-map": ("MBart50Tokenizer", "unigram", "file", True, {}),
    "mbart50-saved": ("MBart50Tokenizer", "unigram", "saved", True, {}),
}
GOLDENS = list(make.CASES)


def version_4(spm, codes):
    """tokenizer.json of NLLB as version 4 of transformers converts it: languages and <mask> are among the tokens."""
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(spm.read_bytes())
    words = FIRST + [piece.piece for piece in proto.pieces[3:]]
    vocab = {word: i for i, word in enumerate(words)}
    merges = []
    for piece in proto.pieces[3:]:
        pairs = [(piece.piece[:i], piece.piece[i:]) for i in range(1, len(piece.piece))]
        merges += [(a, b, piece.score) for a, b in pairs if a in vocab and b in vocab]
    merges = [(a, b) for a, b, _ in sorted(merges, key=lambda x: (x[2], len(x[0]), len(x[1])), reverse=True)]
    t = Tokenizer(models.BPE({word: i for i, word in enumerate(words + codes + ["<mask>"])}, merges, unk_token="<unk>", fuse_unk=True))
    steps = [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")]
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)] + steps)
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace("\u2581", "always"), decoders.Metaspace("\u2581", "always")
    t.add_special_tokens(FIRST + codes + [AddedToken("<mask>", lstrip=True, normalized=True, special=True)])
    return t


def make_original(folder, name):
    """A folder with random weights."""
    cls, kind, form, has_map, more = MADE[name]
    folder.mkdir()
    make.p.NORMALISED["normalization_rule_name"] = "nmt_nfkc" if has_map else "identity"
    make.tokenizer_of(folder, cls, kind)
    path, spm = folder / "tokenizer_config.json", folder / "sentencepiece.bpe.model"
    config = dict(json.loads(path.read_text()), **more)
    codes, others = config.get("additional_special_tokens", []), config.pop("more", [])
    if others: config["additional_special_tokens"] = codes + others
    path.write_text(json.dumps(config))
    tokenizer = getattr(tf, cls).from_pretrained(folder)
    if form == "saved": tokenizer.save_pretrained(folder)
    if form == "4": version_4(spm, codes).save(str(folder / "tokenizer.json"))
    if form != "file": spm.unlink()
    mbart = name.startswith("mbart")
    model, config = (tf.MBartForConditionalGeneration, tf.MBartConfig) if mbart else (tf.M2M100ForConditionalGeneration, tf.M2M100Config)
    start = tokenizer.convert_tokens_to_ids("ro_RO") if cls == "MBartTokenizer" else 2
    torch.manual_seed(len(name))
    net = make.p.shake(model(config(vocab_size=len(tokenizer) + 120, decoder_start_token_id=start, **make.SIZES)))
    net.save_pretrained(folder)


def lines_of():
    r = random.Random(5)
    words = "the man walks green street with river woman dog reads and of plays a xyz </s> <s> <mask> <pad> <unk> <extra> eng_Latn " \
        "fra_Latn en_XX ro_RO __en__ ar_AR \u2581 \u2581the \uff16 \u00e9 \ufb01re \uff1cmask\uff1e \t".split(" ")
    mixed = ["".join(r.choice(words) + r.choice(["", " ", "  "]) for _ in range(r.randrange(1, 8))) for _ in range(400)]
    return LINES + make.LINES + ["", " ", "  the  man ", "a<mask>b", "a <mask> b", "the man</s>", " the"] + mixed


def code_id(tokenizer, code):
    return tokenizer.get_lang_id(code) if hasattr(tokenizer, "get_lang_id") else tokenizer.convert_tokens_to_ids(code)


def same_tokens(a, b, pairs, moved):
    """How many lines of all pairs differ, of the tokenizers a and b. moved: only their ids may."""
    wrong = 0
    for source, target in pairs:
        for t in (a, b): t.src_lang, t.tgt_lang = source, target
        if not moved and code_id(a, target) != code_id(b, target): wrong += 1
        for line in lines_of():
            for both in (dict(text=line), dict(text_target=line)):
                x, y = a(**both).input_ids, b(**both).input_ids
                same = a.convert_ids_to_tokens(x) == b.convert_ids_to_tokens(y) if moved else x == y
                for skip in (False, True): same &= a.decode(x, skip_special_tokens=skip) == b.decode(y, skip_special_tokens=skip)
                if not same and not wrong: print(f"    {source} {target} {both}: {x} {y} {a.decode(x)!r} {b.decode(y)!r}")
                wrong += not same
    return wrong


def answers(net, tokenizer, **more):
    found = []
    for line in make.LINES:
        x = torch.tensor([tokenizer(line).input_ids])
        found.append(net.generate(x, attention_mask=torch.ones_like(x), num_beams=1, do_sample=False, max_new_tokens=8, **more)[0].tolist())
    return found


def same_answers(original, exported, b, pairs, name, folder, model):
    """The answers that differ, of all pairs."""
    nets = [tf.AutoModelForSeq2SeqLM.from_pretrained(x).eval() for x in (original, exported)]
    bans = dict(bad_words_ids=nets[1].generation_config.bad_words_ids)
    first = "decoder_start_token_id" if name.startswith("mbart") and not name.startswith("mbart50") else "forced_bos_token_id"
    wrong, seen = 0, set()
    for source, target in pairs:
        b.src_lang, b.tgt_lang = source, target
        want = answers(nets[0], b, **bans, **{first: code_id(b, target)})
        wrong += sum(x != y for x, y in zip(want, answers(nets[1], b, **{first: code_id(b, target)})))
        seen |= set(map(tuple, want))
        pair = folder / "pair"
        run(TRF, "export", model, "--output", pair, "--source-language", source, "--target-language", target)
        net, own = tf.AutoModelForSeq2SeqLM.from_pretrained(pair).eval(), tf.AutoTokenizer.from_pretrained(pair)
        wrong += sum(x != y for x, y in zip(want, answers(net, own)))
        wrong += (own.src_lang, own.tgt_lang) != (source, target) or own(text_target="a man").input_ids != b(text_target="a man").input_ids
        shutil.rmtree(pair)
    return wrong, len(seen)


def main():
    failed = False
    for name in sys.argv[1:] or GOLDENS + list(MADE):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            original = GOLDEN / name if name in GOLDENS else folder / "original"
            model, exported, again = folder / "model.trf", folder / "exported", folder / "again.trf"
            if name in MADE: make_original(original, name)
            run(TRF, "import", original, "--output", model)
            run(TRF, "export", model, "--output", exported)
            run(TRF, "import", exported, "--output", again)
            a, b = tf.AutoTokenizer.from_pretrained(original), tf.AutoTokenizer.from_pretrained(exported)
            moved = name in ("nllb-file", "nllb-legacy")
            pairs = PAIRS[next(k for k in reversed(PAIRS) if k in name)]
            if name == "nllb-some": pairs = [("fra_Latn", "zul_Latn"), ("zul_Latn", "deu_Latn")]
            codes = sorted(a.all_special_tokens) == sorted(b.all_special_tokens) and len(a) == len(b) and type(a) is type(b)
            if moved:       # the ids of fairseq: trf and version 4 of transformers have them
                n = b.convert_tokens_to_ids("ace_Arab")
                codes &= b.convert_tokens_to_ids(make.nllb.FAIRSEQ_LANGUAGE_CODES + ["<mask>"]) == list(range(n, n + 203)) and \
                    b.convert_ids_to_tokens(n - 1) not in a.all_special_tokens
            wrong = same_tokens(a, b, pairs, moved)
            check = Check(folder, model, exported, original)
            apart = check.apart(check.logits())
            other, seen = same_answers(original, exported, b, pairs, name, folder, model)
            same = model.read_bytes() == again.read_bytes()
            bad = check.missing or not apart < TOLERANCE or wrong or other or not same or not codes or seen < 4
            failed |= bool(bad)
            print(f"{name:14} {type(b).__name__:16} logits {apart:.1e}  other ids or texts in {wrong} of {2 * len(lines_of()) * len(pairs)}"
                  f"  other answers {other}, {seen} in all" + ("" if codes else "  other languages") +
                  ("" if same else "  not the same again") + ("  FAILED" if bad else ""), flush=True)
    sys.exit(failed)


if __name__ == "__main__": main()

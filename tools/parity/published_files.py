"""The files of a folder of Hugging Face, each setting flipped: does trf read what transformers reads?

    python3 tools/parity/published.py --files [KIND...]     needs what published.py needs; five minutes on one core

For every kind in KINDS a small random model and its tokenizer, then each setting of tokenizer_config.json,
tokenizer.json, special_tokens_map.json, added tokens and generation_config.json alone and with each other one (60
pairs where answers are compared). Encoders are compared by the vectors of TEXTS, decoders and translators by their answers, with the options that trf
import tells. A difference counts unless trf import has said a line of TOLD, which names it, or its text is in KNOWN.
Refusals are counted: they are no difference. Prints every difference; the exit status is 1 if there is one.
"""
import collections, itertools, json, pathlib, random, re, shlex, shutil, subprocess, sys, tempfile
import torch
import transformers as tf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TRF, MOST_PAIRS = "build/trf", 60        # pairs of settings where answers are compared
TEXTS = ["A man is walking a dog.", "Two girls", "hello", "THE BIG House", "na\u00efve Caf\u00e9", "\u4f60\u597d man", "a  b ", " x",
         "don't 3.14", "walking walks"]
WORDS = ("a man is walking two girls hello the big house naive cafe na\u00efve caf\u00e9 dog walks don't x b 3 14 . ' THE House "
         "A Two \u4f60 \u597d \u4f60\u597d").split()
LINES = [" ".join(WORDS[i % 7:] + WORDS[:i % 11]) for i in range(60)]
LANGUAGES = {"m2m_100": ("en", "fr"), "nllb": ("eng_Latn", "fra_Latn"), "mbart": ("en_XX", "ro_RO"), "mbart50": ("en_XX", "fr_XX")}
# what trf import says of a difference, and the texts that may then differ
TOLD = {"left out: ": lambda text: True, "puts no tag of a language": lambda text: True,
        "trf treats such blanks as SentencePiece does": lambda text: text != " ".join(text.split())}
# differences that remain, by kind and text: the reason
KNOWN = {("llama", " x"): "SentencePiece, and so trf, puts U+2581 before a text that begins with a blank; transformers 5 does not",
         ("mbart50", "a  b "): "SentencePiece, and so trf, drops blanks at an end; transformers 5 keeps one"}
SPECIAL = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
ANGLED = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>",
          "pad_token": "<pad>", "mask_token": "<mask>"}


def read(path): return json.loads(path.read_text()) if path.exists() else {}
def write(path, value): path.write_text(json.dumps(value))


# --- kinds: a folder, and the model that was saved there -------------------------------------------------------------

def save(folder, net, unlikely=slice(0)):
    with torch.no_grad():
        for p in net.parameters():
            if p.requires_grad: p.normal_(1.0 if p.dim() == 1 else 0.0, 0.3)
        if hasattr(net, "lm_head"): net.lm_head.weight[unlikely] = 0
    net.eval().save_pretrained(folder)
    return net


def word_piece(folder):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(prefix="##")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(LINES + [x.lower() for x in LINES] + WORDS, trainers.WordPieceTrainer(vocab_size=150, special_tokens=tokens, show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.save(str(folder / "tokenizer.json"))
    write(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", **SPECIAL})
    return save(folder, tf.BertModel(tf.BertConfig(vocab_size=t.get_vocab_size(), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                                   intermediate_size=24, max_position_embeddings=64)))


def vocab_txt(folder):
    net = word_piece(folder)
    v = read(folder / "tokenizer.json")["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("".join(w + "\n" for w in sorted(v, key=v.get)))
    return net


def byte_bpe(folder, tokens, config):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=300, special_tokens=tokens, show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if len(tokens) > 1: t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    t.save(str(folder / "tokenizer.json"))
    write(folder / "tokenizer_config.json", config)
    return t.get_vocab_size()


def roberta(folder):
    n = byte_bpe(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], {"tokenizer_class": "RobertaTokenizer", **ANGLED})
    return save(folder, tf.RobertaModel(tf.RobertaConfig(vocab_size=n, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                                         intermediate_size=24, max_position_embeddings=66, type_vocab_size=1)))


def bart(folder):
    n = byte_bpe(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], {"tokenizer_class": "BartTokenizer", **ANGLED})
    return save(folder, tf.BartForConditionalGeneration(tf.BartConfig(
        vocab_size=n, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=64, forced_eos_token_id=None)))


def gpt2(folder):
    end = "<|endoftext|>"
    n = byte_bpe(folder, [end], {"tokenizer_class": "GPT2Tokenizer", "bos_token": end, "eos_token": end, "unk_token": end})
    return save(folder, tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=n, n_embd=16, n_head=2, n_layer=1, n_positions=64, bos_token_id=0, eos_token_id=0)))


def spm(folder, name, size, **more):
    import sentencepiece
    (folder / "text").write_text("\n".join(LINES))
    sentencepiece.SentencePieceTrainer.train(input=str(folder / "text"), model_prefix=str(folder / "m"), vocab_size=size, hard_vocab_limit=False,
                                             minloglevel=2, **more)
    (folder / "m.model").rename(folder / name)
    for left in ("text", "m.vocab"): (folder / left).unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / name)).get_piece_size()


def t5(folder):
    n = spm(folder, "spiece.model", 80, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    write(folder / "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_ids": 100, "eos_token": "</s>", "unk_token": "<unk>",
                                             "pad_token": "<pad>"})
    return save(folder, tf.T5ForConditionalGeneration(tf.T5Config(vocab_size=n + 100, d_model=16, d_kv=8, num_heads=2, d_ff=24, num_layers=1,
                                                                  decoder_start_token_id=0)))


def t5_json(folder):
    net = t5(folder)
    tf.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    (folder / "spiece.model").unlink()
    return net


def xlm_roberta(folder):
    n = spm(folder, "sentencepiece.bpe.model", 80, bos_id=1, eos_id=2, unk_id=0, pad_id=-1)
    write(folder / "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer", **ANGLED})
    return save(folder, tf.XLMRobertaModel(tf.XLMRobertaConfig(vocab_size=n + 2, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                                               intermediate_size=24, max_position_embeddings=66, type_vocab_size=1)))


def llama(folder):
    n = spm(folder, "tokenizer.model", 340, model_type="bpe", byte_fallback=True, unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
            normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.99)
    write(folder / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>",
                                             "unk_token": "<unk>"})
    return save(folder, tf.LlamaForCausalLM(tf.LlamaConfig(vocab_size=n, hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=24,
                                                           max_position_embeddings=64, bos_token_id=1, eos_token_id=2)), slice(3, 259))     # no half characters


def marian(folder):
    import sentencepiece
    for side in ("source", "target"): spm(folder, side + ".spm", 80, pad_id=-1)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    words = ["</s>", "<unk>"] + [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())] + ["<pad>"]
    write(folder / "vocab.json", {w: i for i, w in enumerate(words)})
    write(folder / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"})
    n = len(words)
    return save(folder, tf.MarianMTModel(tf.MarianConfig(
        vocab_size=n, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24,
        decoder_ffn_dim=24, max_position_embeddings=64, pad_token_id=n - 1, bos_token_id=0, eos_token_id=0, decoder_start_token_id=n - 1,
        forced_eos_token_id=None)))


def of_languages(folder, cls, kind, model, config, more):
    """A tokenizer of make_languages, and a small model. Its folder names both languages."""
    import make_languages, sentencepiece
    tok = make_languages.tokenizer_of(folder, cls, kind)
    source, target = LANGUAGES[folder.name.replace("_json", "")]
    c = read(folder / "tokenizer_config.json")
    write(folder / "tokenizer_config.json", {**c, "src_lang": source, "tgt_lang": target})
    tag = tok.convert_tokens_to_ids(f"__{target}__" if cls == "M2M100Tokenizer" else target)
    n = len(tok) + 108 * (cls == "M2M100Tokenizer")
    net = model(config(vocab_size=n, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                       encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=64, forced_eos_token_id=None,
                       decoder_start_token_id=tag if cls == "MBartTokenizer" else 2))
    write(folder / "generation_config.json", {"decoder_start_token_id": net.config.decoder_start_token_id, "eos_token_id": 2, "pad_token_id": 1,
                                              **({} if cls == "MBartTokenizer" else {"forced_bos_token_id": tag}), **more})
    kept = read(folder / "generation_config.json")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    words = set(tok.convert_tokens_to_ids([pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]))
    save(folder, net, sorted(set(range(n)) - words - {2}))      # answers are words
    write(folder / "generation_config.json", kept)
    return net


def m2m_100(folder): return of_languages(folder, "M2M100Tokenizer", "bpe", tf.M2M100ForConditionalGeneration, tf.M2M100Config, {})
def mbart(folder): return of_languages(folder, "MBartTokenizer", "unigram", tf.MBartForConditionalGeneration, tf.MBartConfig, {})
def mbart50(folder): return of_languages(folder, "MBart50Tokenizer", "unigram", tf.MBartForConditionalGeneration, tf.MBartConfig, {})
def nllb(folder): return of_languages(folder, "NllbTokenizer", "bpe", tf.M2M100ForConditionalGeneration, tf.M2M100Config, {})


def as_json(kind):
    """The kind's folder as transformers saves it: tokenizer.json in place of the file of SentencePiece."""
    def make(folder):
        net = kind(folder)
        tf.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
        (folder / "sentencepiece.bpe.model").unlink()
        return net
    make.__name__ = kind.__name__ + "_json"
    return make


# NLLB only so: without tokenizer.json transformers 5 gives its languages other ids than the published models have
xlm_roberta_json, nllb_json, mbart_json, mbart50_json = map(as_json, (xlm_roberta, nllb, mbart, mbart50))
KINDS = {f.__name__: f for f in (marian, m2m_100, mbart, mbart_json, mbart50, mbart50_json, nllb_json, word_piece, vocab_txt, roberta, bart, gpt2, t5, t5_json, xlm_roberta, xlm_roberta_json, llama)}


# --- settings: each changes the files of a folder; an impossible one returns False -----------------------------------

SETTINGS = {}


def setting(name, only=""):
    def add(f):
        SETTINGS[name] = (only.split(), f)
        return f
    return add


def config(name, only="", **members):
    """Members of tokenizer_config.json; None: none."""
    def change(folder):
        c = read(folder / "tokenizer_config.json")
        for k, v in members.items(): c.pop(k, None) if v is None else c.update({k: v})
        write(folder / "tokenizer_config.json", c)
    setting(name, only)(change)


def whole(name, only=""):
    """A change of tokenizer.json, where there is one."""
    def wrap(change):
        def apply(folder):
            if not (folder / "tokenizer.json").exists(): return False
            t = read(folder / "tokenizer.json")
            if change(t) is False: return False
            write(folder / "tokenizer.json", t)
        setting(name, only)(apply)
    return wrap


def part(name, where, only="", **members):
    @whole(name, only)
    def change(t):
        if not isinstance(t.get(where), dict) or not set(members) <= set(t[where]): return False
        t[where].update(members)


def generation(name, **members):
    def change(folder):
        write(folder / "generation_config.json", {**read(folder / "generation_config.json"), **members})
    setting(name, "bart t5 gpt2 llama marian m2m_100 mbart mbart50 nllb")(change)


config("class PreTrainedTokenizerFast", tokenizer_class="PreTrainedTokenizerFast")
config("no class", tokenizer_class=None)
config("class BertTokenizerFast", "word_piece vocab_txt", tokenizer_class="BertTokenizerFast")
config("do_lower_case false", "word_piece vocab_txt", do_lower_case=False)
config("do_lower_case true", "word_piece vocab_txt", do_lower_case=True)
config("strip_accents false", "word_piece vocab_txt", strip_accents=False)
config("strip_accents true", "word_piece vocab_txt", strip_accents=True)
config("tokenize_chinese_chars false", "word_piece vocab_txt", tokenize_chinese_chars=False)
config("add_prefix_space true", "roberta bart gpt2 llama", add_prefix_space=True)
config("add_prefix_space false", "roberta bart gpt2", add_prefix_space=False)
config("add_bos_token true", "gpt2 llama word_piece roberta", add_bos_token=True)
config("add_bos_token false", "gpt2 llama", add_bos_token=False)
config("no special tokens", **{k: None for k in ANGLED})
config("another cls_token", "word_piece vocab_txt", cls_token="[MASK]")
part("lowercase false", "normalizer", lowercase=False)
part("strip_accents of tokenizer.json false", "normalizer", strip_accents=False)
part("handle_chinese_chars false", "normalizer", handle_chinese_chars=False)
part("clean_text false", "normalizer", clean_text=False)
part("add_prefix_space of tokenizer.json", "pre_tokenizer", "roberta bart gpt2", add_prefix_space=True)
part("words of 4 characters", "model", "word_piece", max_input_chars_per_word=4)
part("ignore_merges", "model", "roberta bart gpt2", ignore_merges=True)


@whole("no post_processor")
def _(t): t["post_processor"] = None


@whole("a template of the first token")
def _(t):
    names = {x["content"]: x["id"] for x in t["added_tokens"]}
    first = next((x for x in ("[CLS]", "<s>", "<|endoftext|>") if x in names), None)
    if not first: return False
    t["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": first, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                           "special_tokens": {first: {"id": first, "ids": [names[first]], "tokens": [first]}}}


@whole("a Sequence of one")
def _(t):
    for name, parts in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"), ("post_processor", "processors")):
        if t.get(name) and t[name]["type"] != "Sequence": t[name] = {"type": "Sequence", parts: [t[name]]}


@whole("NFC", "roberta bart gpt2")
def _(t): t["normalizer"] = {"type": "NFC"}


def add_token(t, text, special):
    v = t["model"]["vocab"]
    n = max([len(v) - 1] + [x["id"] for x in t["added_tokens"]]) + 1
    t["added_tokens"].append({"id": n, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special, "special": special})


@whole("a special token without a row")
def _(t): add_token(t, "<new>", True)


@whole("an added token without a row")
def _(t): add_token(t, "zzzz", False)


@setting("special_tokens_map names another unk_token", "word_piece vocab_txt roberta")
def _(folder): write(folder / "special_tokens_map.json", {"unk_token": "[MASK]" if "[UNK]" in str(read(folder / "tokenizer_config.json")) else "<mask>"})


@setting("added_tokens_decoder beside special_tokens_map", "word_piece vocab_txt")
def _(folder):
    write(folder / "special_tokens_map.json", {"unk_token": "[MASK]"})
    write(folder / "tokenizer_config.json", {**read(folder / "tokenizer_config.json"), "added_tokens_decoder": {
        "1": {"content": "[UNK]", "special": True, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}}})


generation("max_length 9", max_length=9)
generation("max_new_tokens 5", max_new_tokens=5)
generation("num_beams 3", num_beams=3)
generation("no_repeat_ngram_size 2", no_repeat_ngram_size=2)
generation("repetition_penalty 1.5", repetition_penalty=1.5)
generation("length_penalty 2", length_penalty=2.0)
generation("early_stopping", early_stopping=True)
generation("min_new_tokens 4", min_new_tokens=4)
generation("min_length 4", min_length=4)
generation("forced_eos_token_id", forced_eos_token_id=2)
generation("suppress_tokens", suppress_tokens=list(range(5, 40)))
generation("encoder_repetition_penalty", encoder_repetition_penalty=2.0)


# --- both answers ----------------------------------------------------------------------------------------------------

def run(*arguments, text=""):
    done = subprocess.run(list(map(str, arguments)), input=text, capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout, done.stderr


def vectors_of(net, ids):
    encoder = net.get_encoder() if net.config.is_encoder_decoder else net
    out = []
    for x in ids:
        with torch.no_grad(): h = encoder(input_ids=torch.tensor([x])).last_hidden_state[0].double().mean(0)
        out.append((h / h.norm()).tolist())
    return out


def answers_of(net, folder, tok, ids):
    net.generation_config = tf.GenerationConfig.from_pretrained(folder)
    special = {net.generation_config.pad_token_id, net.config.pad_token_id}
    if net.config.is_encoder_decoder:
        special.add(net.config.decoder_start_token_id)
    banned = [[i] for i in special - {None, net.config.eos_token_id}]
    out = []
    for x in ids:
        with torch.no_grad():
            y = net.generate(torch.tensor([x]), attention_mask=torch.ones(1, len(x)), **({"bad_words_ids": banned} if banned else {}),
                             **({} if net.config.is_encoder_decoder else {"pad_token_id": 0}))[0].tolist()
        out.append(tok.decode(y if net.config.is_encoder_decoder else y[len(x):], skip_special_tokens=True).strip())
    return out


def differences(net, folder):
    """None: trf refuses, or transformers fails. Else the texts that differ."""
    out = folder.with_suffix(".model")
    out.unlink(missing_ok=True)
    try:
        tok = tf.AutoTokenizer.from_pretrained(folder)
        ids = [tok(x)["input_ids"] for x in TEXTS]
        if not all(ids): ids = [x or [0] for x in ids]
        wanted = vectors_of(net, ids) if not tell_only(net) else None
    except Exception as e: return None, f"transformers: {type(e).__name__} {str(e)[:80]}"
    rc, _, said = run(TRF, "import", folder, "--output", out)
    if rc: return None, said.strip().split("\n")[-1]
    if wanted:
        rows = [[float(x) for x in line.split()] for line in run(TRF, "embed", "--model", out, "--threads", 1, "--normalize", "yes",
                                                                 text="\n".join(TEXTS) + "\n")[1].splitlines()]
        bad = [t for t, x, y in zip(TEXTS, rows, wanted) if len(x) != len(y) or max(abs(a - b) for a, b in zip(x, y)) > 2e-5]
        if bad or not hasattr(net, "generate") or not net.config.is_encoder_decoder: return bad, said
    told = next((x for x in said.split("\n") if x.startswith("generate of")), "")
    options = shlex.split(told.split(" as trf ", 1)[1])[1:]
    try: wanted = answers_of(net, folder, tok, ids)
    except Exception as e: return None, f"transformers: {type(e).__name__} {str(e)[:80]}"
    both = [TRF, "translate" if net.config.is_encoder_decoder else "generate", "--model", out, "--threads", 1, "--json"]
    if net.config.is_encoder_decoder:
        lines = run(*both, "--allow-unk", "yes", *options, text="\n".join(TEXTS) + "\n")[1].splitlines()
        got = [json.loads(x)["answers"][0]["text"] for x in lines]
        got = [re.sub("<extra_id_[0-9]*>| \u2047 ", "", x) for x in got]    # and unk, which transformers leaves out of a text
    else:
        (folder.parent / "prompts").write_text("\n".join(TEXTS) + "\n")
        prompts = ["--input", folder.parent / "prompts"]
        rc, lines, _ = run(*both, "--allow-unk", "yes", *options, *prompts)
        if rc: lines = run(*both, *options, *prompts)[1]                # the model has no unk
        lines = lines.splitlines()
        got = [json.loads(x)["text"][len(t):].replace(" \u2047 ", "") for x, t in zip(lines, TEXTS)]    # unk, left out too
    if net.config.model_type == "m2m_100":      # whose class leaves the tag of the language in its texts
        wanted = [re.sub("^__[a-z]*__", "", y) for y in wanted]
    return [t for t, x, y in zip(TEXTS, got, wanted) if x.split() != y.split()] if len(got) == len(TEXTS) else TEXTS, said


# no vectors: of decoders, and of models whose sources begin with the tag of a language, which trf embed does not add
def tell_only(net):
    return hasattr(net, "lm_head") and (not net.config.is_encoder_decoder or net.config.model_type in ("m2m_100", "mbart"))


def main(names):
    failed = 0
    with tempfile.TemporaryDirectory() as top:
        top = pathlib.Path(top)
        for kind in names or KINDS:
            torch.manual_seed(1)
            base = top / kind
            base.mkdir()
            net = KINDS[kind](base)
            mine = [s for s, (only, _) in SETTINGS.items() if not only or kind in only or kind.replace("_json", "") in only]
            pairs = list(itertools.combinations(mine, 2))
            if hasattr(net, "generate") and len(pairs) > MOST_PAIRS: pairs = random.Random(kind).sample(pairs, MOST_PAIRS)
            cases = [()] + [(s,) for s in mine] + pairs
            count = collections.Counter()
            for case in cases:
                folder = top / "f"
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(base, folder)
                if any(SETTINGS[s][1](folder) is False for s in case): continue
                bad, said = differences(net, folder)
                how = ("refused" if bad is None else "equal" if not bad
                       else "told" if all(any(x in said and allows(t) for x, allows in TOLD.items()) for t in bad)
                       else "known" if all((kind, t) in KNOWN for t in bad) else "DIFFERENT")
                count[how] += 1
                if how == "DIFFERENT": print(f"{kind}: {' + '.join(case) or 'as it is'}: {len(bad)} of {len(TEXTS)} differ, such as {next(t for t in bad if (kind, t) not in KNOWN)!r}", flush=True)
                elif how == "refused" and len(case) < 2: print(f"{kind}: {' + '.join(case) or 'as it is'}: {said[-150:]}", flush=True)
            failed |= count["DIFFERENT"]
            print(f"{kind:16} " + ", ".join(f"{n} {how}" for how, n in count.items()), flush=True)
    return bool(failed)

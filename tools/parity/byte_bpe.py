#!/usr/bin/env python3
"""Are the tokens of byte-level BPE those of Hugging Face's tokenizers? Needs tokenizers (measured
with 0.23.3), numpy, safetensors, and sentencepiece, which pieces.py needs.

  cc -O2 -I. tools/parity/pieces.c -o build/pieces -lopenblas -lm
  byte_bpe.py composed >tests/golden/composed.h   small tables, texts and what they become, for tests/test_byte_bpe.c
  byte_bpe.py compare build/pieces build/trf TEXT [LINES...]
  byte_bpe.py golden >tests/golden/byte_bpe.h     texts and ids of a small vocabulary, for tests/test_byte_bpe.c
  byte_bpe.py file build/trf FOLDER OUT           the stored bytes (transformer.h, >>byte-bpe) of a folder's tokenizer

compare: tokenizers with 8,000 tokens are trained on TEXT: by both rules, with a blank in front and without, with words that stay
whole and without. Each becomes a folder of a model that trf imports; a file with old merges ("a b"), and vocab.json with
merges.txt, must give the same vocabulary. With it all lines of TEXT and LINES, 100,000 random and hostile strings, and every
code point in several places are cut and put together again; and so are 100,000 random lists of ids. Nothing may differ. The
exit status is 1 if anything does.
"""
import json, os, random, subprocess, sys, tempfile
import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from pieces import hostile_lines
from unicode import matching
from wordpiece_table import points, runs_of, wrapped

LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA.replace(r"\p{N}{1,3}", r"\p{N}")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def composed_golden():
    """Small tables, texts of their characters, and these texts as tokenizers composes them: tests/golden/composed.h."""
    import unicodedata as u
    chosen = [ord(c) for c in "\u00e9\u00e4\u1ec7\u1e69\u0344\u0958\u2126\u212b\uf900\u0b4b\u1f82\u0390\u01d6\u0340\ufb1d\u037e"]
    parts, marks = {}, set()
    while chosen:
        c = chosen.pop()
        own = u.decomposition(chr(c))
        if u.combining(chr(c)) and not own: marks.add(c)
        if not own or own.startswith("<") or c in parts: continue
        parts[c] = ([int(x, 16) for x in own.split()] + [0])[:2]
        chosen += [x for x in parts[c] if x]
        # what pairs of its parts compose to
        chosen += [ord(y) for y in u.normalize("NFC", u.normalize("NFD", chr(c)))]
    more = True
    while more:
        inside = set(parts) | marks | {x for p in parts.values() for x in p}
        more = [c for c in points if c not in parts and (d := u.decomposition(chr(c))) and not d.startswith("<") and
                all(int(x, 16) in inside for x in d.split())]
        for c in more: parts[c] = ([int(x, 16) for x in u.decomposition(chr(c)).split()] + [0])[:2]
    nfc = normalizers.NFC().normalize_str
    pairs = sorted((a, b, c) for c, (a, b) in parts.items() if b and nfc(chr(a) + chr(b)) == chr(c))
    r, texts = random.Random(6), []
    letters = [chr(c) for c in parts] + [chr(c) for c in marks] * 3 + list("ae\u1100\u1112\u1161\u1175\u11a7\u11a8\u11c2\uac00\uac01\uac1c\ud7a3")
    for _ in range(300): texts.append("".join(r.choice(letters) for _ in range(r.randint(1, 9))))
    for c in parts: texts.append("a" + chr(c) + "\u0301")
    print("/* Written by tools/parity/byte_bpe.py composed: texts in the form NFC by Hugging Face's tokenizers %s. */" % tokenizers.__version__)
    for name, rows in (("parts", sorted((c, *p) for c, p in parts.items())), ("pairs", pairs), ("marks", sorted((c, c, u.combining(chr(c))) for c in marks))):
        print("static const uint32_t composed_%s[][3] = {" % name)
        wrapped(lines := [], ["{0x%X, 0x%X, %s}" % (a, b, hex(c) if name != "marks" else c) for a, b, c in rows])
        print("\n".join(lines) + "\n};")
    print("static const struct { const char *text, *composed; } composed_texts[] = {")
    for x in texts: print("    {%s,\n     %s}," % (of_c(x), of_c(nfc(x))))
    print("};")


def trained(text, llama, blank, whole, qwen=False, digits=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=blank)
    if qwen: tokenizer.normalizer = normalizers.NFC()
    if llama:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN if qwen else LLAMA), "isolated"),
                                                           pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if digits:          # SmolLM
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                           pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train([text], trainers.BpeTrainer(vocab_size=8000, special_tokens=SPECIAL, show_progress=False,
                                                initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if whole:           # words that no merge makes: only the whole word is such a token
        state = json.loads(tokenizer.to_str())
        state["model"]["merges"] = state["model"]["merges"][:4000]
        tokenizer = Tokenizer.from_str(json.dumps(state))
    return tokenizer


def folder_of(tokenizer, folder, form="lists"):
    """A model of BERT with a row for each token, and the tokenizer in one of three forms."""
    import numpy
    from safetensors.numpy import save_file
    os.makedirs(folder)
    n = tokenizer.get_vocab_size()
    shapes = {"embeddings.word_embeddings.weight": (n, 4), "embeddings.position_embeddings.weight": (8, 4),
              "embeddings.token_type_embeddings.weight": (2, 4), "embeddings.LayerNorm.weight": (4,), "embeddings.LayerNorm.bias": (4,)}
    for part, rows, columns in (("attention.self.query", 4, 4), ("attention.self.key", 4, 4), ("attention.self.value", 4, 4),
                                ("attention.output.dense", 4, 4), ("intermediate.dense", 8, 4), ("output.dense", 4, 8)):
        shapes.update({f"encoder.layer.0.{part}.weight": (rows, columns), f"encoder.layer.0.{part}.bias": (rows,)})
    for part in ("attention.output", "output"):
        shapes.update({f"encoder.layer.0.{part}.LayerNorm.{x}": (4,) for x in ("weight", "bias")})
    save_file({name: numpy.zeros(shape, numpy.float32) for name, shape in shapes.items()}, f"{folder}/model.safetensors")
    json.dump({"model_type": "bert", "vocab_size": n, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
               "max_position_embeddings": 8, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12}, open(f"{folder}/config.json", "w"))
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
    state = json.loads(tokenizer.to_str())
    merges = state["model"]["merges"]
    if form == "two files":
        names["add_prefix_space"] = state["pre_tokenizer"]["add_prefix_space"]
        json.dump(state["model"]["vocab"], open(f"{folder}/vocab.json", "w", encoding="utf-8"), ensure_ascii=False)
        with open(f"{folder}/merges.txt", "w", encoding="utf-8") as f: f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    else:
        if form == "strings": state["model"]["merges"] = [f"{a} {b}" for a, b in merges]
        json.dump(state, open(f"{folder}/tokenizer.json", "w", encoding="utf-8"))
    json.dump(names, open(f"{folder}/tokenizer_config.json", "w"))


def stored(trf, folder):
    """The vocabulary of the model file that trf makes from a folder."""
    model = f"{folder}/model.trf"
    subprocess.run([trf, "import", folder, "--output", model, "--overwrite"], check=True, capture_output=True)
    data = open(model, "rb").read()
    n = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8:8 + n])["trf.source_vocab"]["data_offsets"]
    return data[8 + n + begin:8 + n + end]


def strings(lines):
    """Random and hostile strings, and every code point in places where it could join its neighbours."""
    r, odd = random.Random(2), [b"'s", b"'S", b"'LL", b"'ve ", b"'RE", b"\xc5\xbf", b"'\xc5\xbf", b"\r", b"\n", b"\r\n\n", b" ", b"  ", b"\t", b"1", b"12345",
                                b"\xd9\xa1\xd9\xa2", b"\xc2\xbd", b"\xe3\x80\x80", b"\xc2\x85", b"<s>", b"<mask>", b"\xc4\xa0", b"\xcc\x88", b"()", b"'", b"a", b"Ab"]
    for line in hostile_lines(lines, 70000):
        yield line.decode(errors="replace")
    for _ in range(30000):
        yield b"".join(r.choices(odd, k=r.randint(1, 12))).decode()
    for form in ("%s", "a%sb", " %s1", "'%s", "%s%s\n x", "1 %s 2"):
        for i in range(0, len(points), 16):
            yield "".join(form.replace("%s", chr(c)) for c in points[i:i + 16] if c)
    for letter in "a", " ", "\n", "1", "'", "\u4e2d":
        yield letter * 100000
    yield "ab" * 50000


def marked():
    """Characters with marks in any order, parts of characters, Hangul, and long runs of marks."""
    import unicodedata as u
    r = random.Random(4)
    marks = [chr(c) for c in points if u.combining(chr(c))]
    bases = [chr(c) for c in points if u.decomposition(chr(c))] + list("aeiouAEO \u1100\u1161\u11a8\u11a7\uac00\uac01\ud7a3\u0b47\u0b3e\u1112")
    for _ in range(100000):
        yield u.normalize(r.choice(("NFC", "NFD", "NFKD")), "".join(r.choice(bases) for _ in range(r.randint(1, 3)))) + \
            "".join(r.choice(marks if r.random() < 0.8 else bases) for _ in range(r.randint(0, 6)))
    for c in points[1:]: yield "a" + chr(c) + "\u0301"
    yield "a" + "\u0301\u0323" * 50000
    yield "\u1100\u1161\u11a8" * 30000


def ask(program, model, mode, records):
    """The program's answers; every record ends with a NUL."""
    out = subprocess.run([program, model, mode], input=b"\0".join(records) + b"\0", capture_output=True, check=True).stdout
    return out.split(b"\0")[:-1]


def differ(program, model, tokenizer, texts):
    wrong = 0
    tokenizer.encode_special_tokens = True
    for text, answer in zip(texts, ask(program, model, "records", [t.encode() for t in texts])):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        wanted = " ".join(map(str, ids)) + "\t" + tokenizer.decode(ids)
        if answer != wanted.encode() and (wrong := wrong + 1) < 4: print(f"    {text[:80]!r}: {answer[:200]!r}, expected {wanted[:200]!r}")
    return wrong


def decodings(program, model, tokenizer):
    """Ids as no text gives them: bytes alone, characters that are cut."""
    r, wrong, n = random.Random(3), 0, tokenizer.get_vocab_size()
    bytes_alone = [tokenizer.token_to_id(c) for c in pre_tokenizers.ByteLevel.alphabet()]
    lists = [[r.choice(bytes_alone) if r.random() < 0.7 else r.randrange(n) for _ in range(r.randint(0, 12))] for _ in range(100000)]
    for ids, answer in zip(lists, ask(program, model, "decode", [" ".join(map(str, ids)).encode() for ids in lists])):
        wanted = tokenizer.decode(ids, skip_special_tokens=True).encode().hex().encode()
        if answer != wanted and (wrong := wrong + 1) < 4: print(f"    {ids}: {answer!r}, expected {wanted!r}")
    return wrong


def compare(program, trf, text, more):
    lines = [line for name in [text] + more for line in open(name, "rb").read().split(b"\n") if line]
    texts = [line.decode() for line in lines] + list(strings(lines))
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        for settings in ((0, 0, 0, 0, 0), (0, 1, 0, 0, 0), (1, 0, 0, 0, 0), (1, 0, 1, 0, 0), (0, 1, 1, 0, 0), (1, 0, 0, 1, 0), (0, 0, 0, 0, 1)):
            llama, blank, whole, qwen, digits = map(bool, settings)
            name = f"{'qwen' if qwen else 'llama' if llama else 'smollm' if digits else 'gpt2'}{'-blank' * blank}{'-whole' * whole}"
            if os.environ.get("ONLY", "") not in name: continue
            tokenizer = trained(text, llama, blank, whole, qwen, digits)
            texts = texts + list(marked()) if qwen else texts
            folder_of(tokenizer, f"{folder}/{name}")
            model = stored(trf, f"{folder}/{name}")
            for form in ("strings", "two files")[:1 if llama or whole or digits else 2]:
                folder_of(tokenizer, f"{folder}/{name}-{form}", form)
                if stored(trf, f"{folder}/{name}-{form}") != model: print(f"    {form}: another vocabulary"); different += 1
            open(f"{folder}/{name}.vocab", "wb").write(model)
            wrong = differ(program, f"{folder}/{name}.vocab", tokenizer, texts)
            back = decodings(program, f"{folder}/{name}.vocab", tokenizer)
            print(f"{name:18} {len(texts)} texts, {wrong} differ; 100000 lists of ids, {back} differ", flush=True)
            different += wrong + back
    return 1 if different else 0


MERGES = ("t h|th e|\u0120 the|i n|in g|\u0120 a|l l|' s|' ll|e r|\u0120 \u0120|\u0120\u0120 \u0120\u0120|1 2|12 3|3 4|\u00c3 \u00a9|\u00e4 \u00b8|"
          "\u00e4\u00b8 \u0143|\u010a \u010a|b c|a b|ab c|a bc|. .|.. ..|\u0120 th|th er|c a|a a|aa aa|< s|\u0120 1|\u0120 '|' S|! \u010a|\u0120 (|( a")
TEXTS = ("", " ", "  ", "   ", "the", " the", "  the", "the  the", "the the ", "The THE", "in the\tthe\t\tthe", "the\nthe", "the \n the", "the\n\n\nthe", "the\r\n \r\n the",
         "a \n", "a \n ", " \n\n  a", "\n \n!", "it's 's '' 's", "it'S we'LL they'Re I'VE 'D 'M 'T", "it's we'll they're I've 'd 'm 't", "'\u017f 's\u017f a'\u017fb",
         "'thing", "1234567", " 1234567 12", "12ab34", "a1 \u0661\u0662\u0663\u0664 \u00bd\u2167", "\u00e9\u00c9e\u0301", "\u4e2d\u6587 \u4e2d\u6587\u3000\u4e2d",
         "\U0001f600\U0001f600 \U0001f600", "abc aabc abcabc aaaaaaa bcbc", "there...other....", "(abc) ((the))\n", " (abc)!\n\n!\n", "!!\r\n!", "\u00a0the\u00a0\u00a0the\u2028",
         "\u0085a\u000b\u000ca", "whole  whole wholes xwhole", "<s></s><mask><pad>", "added pad <s>", "\u0001\u001f\u007f\u00ad", "a\u200bb\ufeff\u0378\U0010ffff",
         "\u0120the \u010a", "caf\u00e9s na\u00efve", "$(the)", "$ (the) $\u0661", "\tthe 'the", "can't 'tis", "'l 'r 'v 've", "x'llama x'reed")


def of_c(text):
    """A string of C in ASCII."""
    out, last = "", False
    for b in text.encode():
        plain = 32 <= b < 127 and b not in b'"\\?'
        out += ('""' if last and plain and chr(b) in "0123456789abcdefABCDEF" else "") + (chr(b) if plain else f"\\x{b:02X}")
        last = not plain
    return f'"{out}"'


def golden():
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = []                   # byte b is asked in a character that has it
    for b in range(256):
        c = chr(b) if b < 128 else bytes([0xC2, b]).decode() if b < 0xC0 else None
        if c: alphabet.append(level.pre_tokenize_str(c)[0][0][-1])
        else: alphabet.append(chr(b))       # bytes from 0xC0 on are code points of Latin-1
    merges = [tuple(m.split(" ")) for m in MERGES.split("|")]
    tokens = list(alphabet)
    for a, b in merges:
        if a + b not in tokens: tokens.append(a + b)
    tokens += ["whole", "\u0120whole"]
    n_model = len(tokens)
    tokens += SPECIAL + ["pad", "added", "a b"]
    kinds = [0] * n_model + [2] * 6 + [1] * 2
    settings = (("gpt2", 0, 0, 0, 0), ("gpt2 with a blank", 0, 1, 0, 0), ("llama", 1, 0, 0, 0), ("llama, whole words", 1, 0, 1, 0),
                ("smollm", 0, 0, 0, 1))
    made = []
    for _, llama, blank, whole, digits in settings:
        t = Tokenizer(models.BPE(vocab={x: i for i, x in enumerate(tokens[:n_model])}, merges=merges, ignore_merges=bool(whole)))
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(blank))
        if llama: t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA), "isolated"), level])
        if digits: t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), t.pre_tokenizer])
        t.decoder = decoders.ByteLevel()
        made.append(t)
    r = random.Random(5)
    lists = [[r.choice((r.randrange(0x80, 0x100), r.randrange(0x80, 0x100), r.randrange(len(tokens)))) for _ in range(r.randint(1, 6))] for _ in range(60)]
    lists += [[0xE4, 0xB8], [0xE4, 0xB8, 0xAD], [0xF0, 0x9F, 0x98], [0xF0, 0x9F, 0x98, 0x80], [0xF0, 0x9F, 0x41], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80],
              [0xE4, n_model, 0xB8], [0xE4, n_model + 7], [n_model + 7, 0xB8, 0x41], [0xE2, 0xE2, 0xE2], [n_model, n_model + 6, n_model + 7, 0]]
    decoder = Tokenizer(models.BPE(vocab={x: i for i, x in enumerate(tokens)}, merges=[]))
    decoder.decoder = decoders.ByteLevel()
    decoder.add_special_tokens([tokens[i] for i in range(len(tokens)) if kinds[i] == 2])
    print("/* Written by tools/parity/byte_bpe.py golden: answers of Hugging Face's tokenizers %s. */" % tokenizers.__version__)
    print("static const struct { const char *text; int kind; } vocabulary[] = {")
    wrapped(lines := [], ["{%s, %d}" % (of_c(x), k) for x, k in zip(tokens, kinds)])
    print("\n".join(lines) + "\n};\nstatic const int32_t merged[][2] = {")
    wrapped(lines := [], ["{%d, %d}" % (tokens.index(a), tokens.index(b)) for a, b in merges])
    seen = {ord(c) for x in TEXTS for c in x}
    classes = [(a, b, k) for k, p in ((1, r"\p{L}"), (2, r"\p{N}"), (3, r"\s")) for a, b in runs_of(matching(p)) if any(a <= c <= b for c in seen)]
    print("\n".join(lines) + "\n};\nstatic const uint32_t classes[][3] = {")
    wrapped(lines := [], ["{0x%X, 0x%X, %d}" % x for x in sorted(classes)])
    print("\n".join(lines) + "\n};\n/* " + "; ".join(x[0] for x in settings) + "; decoded: the first ids */")
    print("static const struct { const char *text, *ids[%d], *decoded; } goldens[] = {" % len(settings))
    for x in TEXTS:
        answers = [t.encode(x).ids for t in made]
        print("    {%s," % of_c(x))
        print("     {%s}," % ",\n      ".join('"%s"' % " ".join(map(str, ids)) for ids in answers))
        print("     %s}," % of_c(made[0].decode(answers[0])))
    print("};\nstatic const struct { const char *ids, *decoded; } decodings[] = {")
    for ids in lists:
        if 0 not in ids: print('    {"%s", %s},' % (" ".join(map(str, ids)), of_c(decoder.decode(ids))))
    print("};")


if __name__ == "__main__":
    if sys.argv[1:] == ["golden"]: sys.exit(golden())
    if sys.argv[1:] == ["composed"]: sys.exit(composed_golden())
    if sys.argv[1:2] == ["compare"] and len(sys.argv) > 4: sys.exit(compare(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]))
    if sys.argv[1:2] == ["file"] and len(sys.argv) == 5: open(sys.argv[4], "wb").write(stored(sys.argv[2], sys.argv[3])); sys.exit()
    sys.exit(__doc__)

"""Does trf import take time that is linear in its files? Every reader gets a hostile folder of N and of 4 N parts.

    python3 tools/parity/import_time.py [NAME...]         needs build/trf; two minutes

Prints the bytes, the seconds of both and their ratio; the exit status is 1 if 4 N takes more than 1.5 s and more than
8 times as long as N. What trf import answers does not count: most folders are refused.
"""
import io, json, pathlib, shutil, struct, subprocess, sys, tempfile, time, zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN, TRF = ROOT / "tests/golden/import", ROOT / "build/trf"
CASES = {}


def case(base, n):
    def add(f):
        CASES[f.__name__] = (base, n, f)
        return f
    return add


def edit(folder, file, **more):
    path = folder / file
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**old, **more}))


def named(n, word="x"): return {f"{word}{i}": i for i in range(n)}


def added(texts, first): return [{"id": first + i, "content": t, "special": True} for i, t in enumerate(texts)]


for file in ("config.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
             "config_sentence_transformers.json", "sentence_bert_config.json"):
    CASES["members of " + file] = ("bart" if "generation" in file else "bert", 100000,
                                   lambda folder, n, file=file: edit(folder, file, **named(n)))


@case("bert", 50000)
def prompts(folder, n): edit(folder, "config_sentence_transformers.json", prompts={k: "a" for k in named(n)})


@case("bert", 50000)
def steps(folder, n): (folder / "modules.json").write_text(json.dumps([{"type": f"x{i}"} for i in range(n)]))


@case("bart", 50000)
def bans(folder, n): edit(folder, "generation_config.json", bad_words_ids=[[7]] * n, suppress_tokens=[7] * n)


@case("bert_first", 16000)
def labels(folder, n): edit(folder, "config.json", id2label={str(i): f"l{i}" for i in reversed(range(n))})


@case("bert", 100000)
def template(folder, n):
    edit(folder, "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    edit(folder, "tokenizer.json", post_processor={
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": f"x{n - 1}"}}] * n,
        "special_tokens": {f"x{i}": {"ids": [i]} for i in range(n)}})


@case("bert", 100000)
def word_piece(folder, n):
    t = json.loads((folder / "tokenizer.json").read_text())
    k = len(t["model"]["vocab"])
    t["model"]["vocab"].update({f"w{i}": k + i for i in range(n)})
    t["added_tokens"] += added([f"[a{i}]" for i in range(n)], k + n)
    (folder / "tokenizer.json").write_text(json.dumps(t))
    edit(folder, "config.json", vocab_size=k + n)


@case("bert_shards", 60000)
def lines(folder, n):
    (folder / "vocab.txt").write_text((folder / "vocab.txt").read_text() + "same\n\n" * n)
    edit(folder, "config.json", vocab_size=47 + 2 * n)


@case("byte_bpe", 30000)
def byte_merges(folder, n):
    t = json.loads((folder / "tokenizer.json").read_text())
    v = t["model"]["vocab"]
    words = [x + y + z for x in "abcdefghijklmnopqrstuvwxyz" for y in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef" for z in map(chr, range(33, 127))]
    for w in words[:n]:
        for part in (w[:2], w):
            if part not in v: v[part] = len(v); t["model"]["merges"].append([part[:-1], part[-1]])
    (folder / "tokenizer.json").write_text(json.dumps(t))
    edit(folder, "config.json", vocab_size=len(v))


@case("byte_bpe", 300000)
def byte_token(folder, n):
    t = json.loads((folder / "tokenizer.json").read_text())
    v = t["model"]["vocab"]
    for x in ("a" * n, "b" * n, "a" * n + "b" * n): v[x] = len(v)
    t["model"]["merges"].append(["a" * n, "b" * n])
    (folder / "tokenizer.json").write_text(json.dumps(t))
    edit(folder, "config.json", vocab_size=len(v))


def metaspace(folder, **model):
    edit(folder, "tokenizer_config.json", tokenizer_class="LlamaTokenizer", bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    for old in ("tokenizer.model", "spiece.model"): (folder / old).unlink(missing_ok=True)
    blanks = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": added(["<unk>", "<s>", "</s>"], 0), "normalizer": blanks, "pre_tokenizer": None, "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}]}, "model": model}))
    edit(folder, "config.json", vocab_size=len(model["vocab"]))


@case("llama", 100)
def pairs(folder, n):
    """All runs of a letter, and every merge."""
    words = ["a" * i for i in range(1, n + 1)]
    metaspace(folder, type="BPE", unk_token="<unk>", fuse_unk=True, byte_fallback=False,
              vocab={x: i for i, x in enumerate(["<unk>", "<s>", "</s>", "\u2581"] + words)},
              merges=[["a" * k, "a" * (i - k)] for i in range(2, n + 1) for k in range(1, i)])


@case("llama", 300000)
def long_merge(folder, n):
    a, b = "a" * n, "b" * n
    metaspace(folder, type="BPE", unk_token="<unk>", fuse_unk=True, byte_fallback=False,
              vocab={x: i for i, x in enumerate(["<unk>", "<s>", "</s>", "\u2581", "a", "b", a, b, a + b])}, merges=[[a, b]])


@case("llama", 60000)
def unigram(folder, n):
    metaspace(folder, type="Unigram", unk_id=0, vocab=[[x, -1.0] for x in ["<unk>", "<s>", "</s>", "\u2581"] + [f"w{i}" for i in range(n)]])


@case("llama", 200000)
def long_unigram(folder, n): metaspace(folder, type="Unigram", unk_id=0, vocab=[[x, -1.0] for x in ["<unk>", "<s>", "</s>", "\u2581", "a" * n]])


def varint(n): return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(k, data): return varint(k << 3 | 2) + varint(len(data)) + data


def piece(text, kind=1): return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", -1) + b"\x18" + bytes([kind]))


def spm(texts): return piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3) + b"".join(piece(t) for t in texts)


@case("llama", 100000)
def pieces(folder, n): (folder / "tokenizer.model").write_bytes(spm(f"w{i}" for i in range(n))); edit(folder, "config.json", vocab_size=n + 3)


@case("llama", 500000)
def long_piece(folder, n): (folder / "tokenizer.model").write_bytes(spm(["a" * n])); edit(folder, "config.json", vocab_size=4)


@case("llama", 1000000)
def character_map(folder, n):
    (folder / "tokenizer.model").write_bytes(spm("ab") + field(3, field(2, struct.pack("<I", n // 2) + bytes(range(256)) * (n // 256))))
    edit(folder, "config.json", vocab_size=5)


@case("xlm_roberta", 50000)
def fairseq(folder, n):
    edit(folder, "tokenizer_config.json", tokenizer_class="XLMRobertaTokenizer",
         added_tokens_decoder={str(500000 + i): {"content": f"<x{i}>"} for i in range(n)})


@case("marian", 100000)
def languages(folder, n):
    v = json.loads((folder / "vocab.json").read_text())
    v.update({f">>{i}<<": len(v) + i for i in range(n)})
    (folder / "vocab.json").write_text(json.dumps(v))


def tensors(folder, names):
    header = json.dumps({x: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for x in names}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


@case("bert", 15000)
def unknown_tensors(folder, n): tensors(folder, named(n))


@case("bert", 3)
def layers(folder, n):
    parts = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
             "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")
    tensors(folder, [f"encoder.layer.{i}.{p}.{w}" for i in range(20 * n) for p in parts for w in ("weight", "bias")])
    edit(folder, "config.json", num_hidden_layers=20 * n)


@case("bert_shards", 50000)
def weight_map(folder, n): edit(folder, "model.safetensors.index.json", weight_map={k: "model-00001-of-00002.safetensors" for k in named(n)})


def text(s): return b"X" + struct.pack("<I", len(s)) + s.encode()


@case("bert", 20000)
def pickled(folder, n):
    (folder / "model.safetensors").unlink()
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x04tQ"
    one = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00(K\x04t(K\x01t\x89ccollections\nOrderedDict\n)RtR"
    main = b"\x80\x02}(" + b"".join(text(f"x{i}") + one for i in range(n)) + b"u."
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as z:
        z.writestr("a/data.pkl", main)
        z.writestr("a/data/0", bytes(16))


@case("bert", 100000)
def deep_pickle(folder, n):
    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as z: z.writestr("a/data.pkl", b"\x80\x02" + b"(" * n + b"}" * n + b"t" * n + b".")


@case("bert", 20000)
def zip_entries(folder, n):
    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as z:
        z.writestr("a/data.pkl", b"\x80\x02}.")
        for i in range(n): z.writestr(f"a/data/{i}", b"")


def seconds(base, n, make, folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(GOLDEN / base, folder)
    make(folder, n)
    begin = time.time()
    try: done = subprocess.run([TRF, "import", folder, "--output", folder / "out"], capture_output=True, timeout=60).stderr.decode("utf-8", "replace")
    except subprocess.TimeoutExpired: done = "more than 60 s"
    return sum(p.stat().st_size for p in folder.rglob("*")), time.time() - begin, done.strip().split("\n")[-1]


def main(names):
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (base, n, make) in CASES.items():
            if names and name not in names: continue
            (_, one, _), (size, four, says) = (seconds(base, k * n, make, pathlib.Path(folder) / "f") for k in (1, 4))
            slow = four > 1.5 and four > 8 * one
            bad |= slow
            print(f"{name}: {size / 1e6:.1f} MB, {one:.2f} s and {four:.2f} s, {four / one:.1f} times{' SLOW' if slow else ''}; {says[-90:]}", flush=True)
    return bad


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))

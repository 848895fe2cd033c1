"""Are the subwords of transformer.h those of libsentencepiece? Needs sentencepiece (measured with 0.2.3).

    cc -O2 -I. tools/parity/pieces.c -o build/pieces -lopenblas -lm
    python3 tools/parity/pieces.py compare build/pieces TEXT [MODEL...]
    python3 tools/parity/pieces.py random build/pieces MODELS [SEED]
    python3 tools/parity/pieces.py golden build/test_pieces >tests/golden/pieces.h
    python3 tools/parity/pieces.py published build/pieces KIND FOLDER TEXT...

compare: models of both types and several sizes, with byte fallback and without, are trained on TEXT; with them and with every
MODEL all lines of TEXT and 100,000 random and hostile ones are cut and put together again. Nothing may differ. Prints the
seconds that both take for TEXT, the least of five. The exit status is 1 if anything differs.
random: the same with MODELS made-up models: short pieces of all kinds that overlap, scores that tie, all options, maps, sound
and damaged ones, which both must refuse or both take; 150 lines for each model.
golden: the answers for the models and texts of tests/test_pieces.c.
published: a folder of Hugging Face, with the ids of its model. KIND is marian (source.spm, target.spm, vocab.json), t5 (spiece.model,
100 sentinels) or llama (tokenizer.model). All lines of the TEXTs and 100,000 hostile ones, which are UTF-8 here, are cut and put
together again by trf_vocab_load and by transformers (measured with 5.24) and, as two witnesses of what transformers means,
by libsentencepiece with the same ids. Differences from transformers are counted with and without those that libsentencepiece has
too. The exit status is 1 if anything differs from libsentencepiece or, for marian, from transformers.
"""
import json, os, random, struct, subprocess, sys, tempfile, time
import sentencepiece


def ours_of(model):
    """The processor, our id of each of its pieces, and theirs of ours."""
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    ids, number = {}, 4
    for i in range(processor.vocab_size()):
        special = processor.is_unknown(i) or processor.is_control(i)
        ids[i] = 3 if special else number
        number += not special
    return processor, ids


def hostile_lines(lines, n):
    """Pieces of lines, bytes changed, rare and broken characters, blanks of all kinds, long runs."""
    r = random.Random(1)
    odd = [" ", "  ", "\t", "\u00a0", "\u3000", "\u200b", "\u2581", "\ufb01", "\uff21", "\u0308", "\U0001f600", "\ufffd", "\u1112\u1161\u11ab", "<s>", "<unk>",
           "</s>", "<0x41>", "e\u0301", "\u01c4", "\u2126", "\ufeff", "\u0001", "\u007f", "\u0600", "\uac00", "..."]
    for _ in range(n):
        line = b""
        for _ in range(r.randint(1, 6)):
            kind = r.random()
            if kind < 0.4:
                some = r.choice(lines)
                at = r.randint(0, len(some))
                line += some[at:at + r.randint(0, 30)]
            elif kind < 0.7: line += r.choice(odd).encode() * r.choice((1, 1, 1, 2, 40))
            elif kind < 0.85: line += chr(r.choice((r.randint(1, 0x2FFF), r.randint(0x3000, 0xD7FF), r.randint(0xE000, 0x10FFFF)))).encode()
            else: line += bytes(r.randint(1, 255) for _ in range(r.randint(1, 8)))
        line = line.replace(b"\n", b" ").replace(b"\0", b" ").replace(b"\r", b" ")
        if line: yield line


def compare(program, text, models):
    lines = [line for line in open(text, "rb").read().split(b"\n") if line]
    odd = list(hostile_lines(lines, 100000))
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("unigram", "bpe"):
            for size, fallback in ((500, False), (8000, True), (16000, False)):
                name = os.path.join(folder, f"{kind}-{size}")
                sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=name, vocab_size=size, model_type=kind, byte_fallback=fallback,
                                                         user_defined_symbols=["<sep>", "dog"] if size == 8000 else [], minloglevel=2, hard_vocab_limit=False)
                models = models + [name + ".model"]
        for model in models:
            processor, ids = ours_of(model)
            wrong = 0
            for some in (lines, odd):
                found = subprocess.run([program, model], input=b"\n".join(some) + b"\n", capture_output=True, check=True).stdout.split(b"\n")
                for line, answer in zip(some, found):
                    theirs = processor.encode(line)
                    wanted = " ".join(str(ids[i]) for i in theirs).encode() + b"\t" + processor.decode(theirs).encode()
                    if answer != wanted and (wrong := wrong + 1) < 4: print(f"    {line!r}: {answer!r}, expected {wanted!r}")
            best = 1e9
            for _ in range(5):
                start = time.perf_counter()
                processor.encode(lines, num_threads=1)
                best = min(best, time.perf_counter() - start)
            seconds = float(subprocess.run([program, model, "times"], input=b"\n".join(lines) + b"\n", capture_output=True, check=True).stdout)
            print(f"{os.path.basename(model):20} {len(lines) + len(odd)} lines, {wrong} differ; {len(lines)} lines in {seconds:.3f} s, theirs {best:.3f} ({best / seconds:.1f})",
                  flush=True)
            different += wrong
    return 1 if different else 0


def map_of(rules):
    """A map of characters as darts-clone would have it, each node with a block of 256 cells of its own."""
    cells, place, block, texts = {}, {b"": 0}, {b"": 1}, b""
    for before, after in rules.items():
        for key in (before[:i + 1] for i in range(len(before))):
            if key in place: continue
            place[key] = block[key[:-1]] * 256 ^ key[-1]
            block[key] = len(block) + 1
            cells[place[key]] = key[-1]
        cells[place[before]] |= 1 << 8
        cells[block[before] * 256] = 1 << 31 | len(texts)
        texts += after + b"\0"
    for key in place: cells[place[key]] = cells.get(place[key], 0) | (place[key] ^ block[key] * 256) << 10
    size = 256 * (len(block) + 1)
    return struct.pack(f"<{size + 1}I", 4 * size, *(cells.get(i, 0) for i in range(size))) + texts


def random_model(r):
    """A model as random draws it, and what its texts are made of."""
    from sentencepiece import sentencepiece_model_pb2
    m = sentencepiece_model_pb2.ModelProto()
    trainer, normalizer, piece = m.trainer_spec, m.normalizer_spec, m.SentencePiece
    trainer.model_type = r.choice((trainer.UNIGRAM, trainer.BPE))
    trainer.byte_fallback, trainer.treat_whitespace_as_suffix = r.random() < 0.3, r.random() < 0.3
    normalizer.add_dummy_prefix, normalizer.remove_extra_whitespaces, normalizer.escape_whitespaces = (r.random() < 0.6 for _ in range(3))
    if r.random() < 0.3: trainer.unk_surface = r.choice(("", "?", " ", "\u2581?"))
    letters = r.sample(("a", "b", "c", "\u2581", "\u00e4", "\u4e2d", "\U0001f600", " "), r.randint(2, 8))
    scores = r.sample((-1.0, -2.0, -2.5, -0.7, 0.0, -0.0, 0.1, 0.2, 0.5, 3.0, -13.0, -60000.0, 70000.0), r.randint(1, 4))
    some = piece.NORMAL, piece.USER_DEFINED, piece.UNUSED, piece.CONTROL
    kinds = r.choices(some[:3]) + r.choices(some, (r.choice((0.01, 1, 1)), *(r.choice((0, 0.2, 1)) for _ in range(3))), k=150)
    special = [("<unk>", piece.UNKNOWN), ("<s>", piece.CONTROL)] + [(f"<0x{i:02X}>", piece.BYTE) for i in range(256 * trainer.byte_fallback)]
    texts = list(dict.fromkeys("".join(r.choices(letters, k=r.randint(1, r.choice((1, 3, 5))))) for _ in range(r.randint(1, 60))))
    if trainer.byte_fallback and r.random() < 0.3: special = special[1:]
    if r.random() < 0.05: texts = [letters[0] * i for i in range(1, 150) if r.random() < 0.9 or i < 5]
    for text, kind in special + list(zip(texts, kinds)): m.pieces.add(piece=text, score=r.choice(scores), type=kind)
    texts += letters
    if r.random() < 0.4:
        rules = {text.encode(): "".join(r.choices(letters + ["", "b"], k=r.randint(0, 3))).encode() for text in r.choices(texts, k=r.choice((1, 5, 100)))}
        changed = bytearray(map_of(rules))
        before_texts = len(changed) - sum(len(text) + 1 for text in rules.values())
        if r.random() < 0.5: changed[r.randint(0, before_texts - 1)] ^= 1 << r.randint(0, 7)
        normalizer.precompiled_charsmap = bytes(changed)
    return m.SerializeToString(), [text.encode() for text in texts + [" ", "  ", "\t", "d", "<s>", "<0x41>"]] + [b"\xff", b"\xe4", b"\xf0\x9f"]


def made_up(program, models, seed):
    r = random.Random(seed)
    different = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "model")
        for number in range(models):
            model, parts = random_model(r)
            open(name, "wb").write(model)
            lines = [b"".join(r.choices(parts, k=r.randint(1, r.choice((4, 12, 60))))) for _ in range(150)]
            run = subprocess.run([program, name], input=b"\n".join(lines) + b"\n", capture_output=True)
            found = run.stdout.split(b"\n")
            try: processor, ids = ours_of(name)
            except RuntimeError as error:
                refused += 1
                if (run.returncode != 1 or run.stdout) and (different := different + 1):
                    print(f"    model {number}: exit status {run.returncode}, expected 1 and no answer: {error}")
                continue
            wrong = [] if run.returncode == 0 else [(b"the model", run.stderr, b"")]
            for line, answer in zip(lines, found[:-1]):
                theirs = processor.encode(line)
                wanted = " ".join(str(ids[i]) for i in theirs).encode() + b"\t" + processor.decode(theirs).encode()
                if answer != wanted: wrong.append((line, answer, wanted))
            for line, answer, wanted in wrong[:1]: print(f"    model {number}, {len(wrong)} differ: {line!r}: {answer!r}, expected {wanted!r}")
            different += len(wrong)
    print(f"{models} models, {refused} of them refused; {150 * (models - refused)} lines, {different} differ")
    return 1 if different else 0


def stored_with(model, ids, more=(), special=(-1,) * 7, size=None, codes=0):
    """The bytes that a model file stores of a SentencePiece file and its ids (transformer.h, >>pieces-map)."""
    texts = b"".join(text.encode() + b"\0" for text, _ in more)
    numbers = [codes, size, *special, len(ids), len(more), len(texts), *ids, *(i for _, i in more)]
    return b"TRFPM\0\0\1" + struct.pack(f"<{len(numbers)}i", *numbers) + texts + model


class Published:
    """A folder of transformers: stored bytes, ids and texts of transformers and of libsentencepiece."""
    def __init__(self, kind, folder, side="source"):
        import transformers
        transformers.logging.set_verbosity_error()
        name = {"marian": side + ".spm", "t5": "spiece.model", "llama": "tokenizer.model"}[kind]
        self.kind, self.side, path = kind, side, os.path.join(folder, name)
        self.processor = p = sentencepiece.SentencePieceProcessor(model_file=path)
        pieces, model = [p.id_to_piece(i) for i in range(p.get_piece_size())], open(path, "rb").read()
        if kind == "marian":
            self.table = table = json.load(open(os.path.join(folder, "vocab.json")))
            self.theirs = transformers.MarianTokenizer.from_pretrained(folder)
            known = set(pieces)
            more = [(text, i) for text, i in table.items() if text not in known]
            self.unk = table["<unk>"]
            self.hidden = {table["<pad>"], table["</s>"], table.get("<s>", -1)}
            special = table["<pad>"], -1, table["</s>"], self.unk, -1, -1, -1
            self.stored = stored_with(model, [table.get(text, -1) for text in pieces], more, special, len(table), 1)
        elif kind == "t5":
            self.theirs = transformers.T5Tokenizer.from_pretrained(folder)
            n = len(pieces)
            self.unk, self.hidden = 2, {0, 1}
            self.stored = stored_with(model, range(n), [(f"<extra_id_{i}>", n + 99 - i) for i in range(100)], (0, -1, 1, 2, -1, -1, -1), n + 128)
        else:
            self.theirs = transformers.LlamaTokenizer.from_pretrained(folder)
            self.unk, self.hidden = 0, {1, 2}
            self.stored = stored_with(model, range(len(pieces)), special=(-1, 1, 2, 0, -1, -1, -1), size=len(pieces))

    def cut(self, lines):
        """Their ids of each line. A special token in a text is ordinary text."""
        if self.kind != "marian": return [e.ids for e in self.encode_fast(lines)]
        as_side = "text" if self.side == "source" else "text_target"
        return [self.theirs(**{as_side: line}, add_special_tokens=False, split_special_tokens=True).input_ids for line in lines]

    def encode_fast(self, lines):
        inner = self.theirs._tokenizer
        inner.encode_special_tokens = True
        return inner.encode_batch(lines, add_special_tokens=False)

    def join(self, ids): return self.theirs.decode([i for i in ids if i != self.unk], skip_special_tokens=True)

    def witness(self, line):
        """libsentencepiece's ids."""
        if self.kind != "marian": return self.processor.encode(line)
        code = line[:line.find("<<") + 2] if line.startswith(">>") and "<<" in line else ""
        parts = ([code] if code else []) + self.processor.encode(line[len(code):], out_type=str)
        return [self.table.get(part, self.unk) for part in parts]


def published(program, kind, folder, texts):
    lines = list(dict.fromkeys(line for text in texts for line in open(text, encoding="utf-8").read().split("\n") if line))
    odd = [line.decode("utf-8", "replace") for line in hostile_lines([line.encode() for line in lines[:50000]], 100000)]
    if kind == "marian": odd += [f">>{line[:3]}<<{line}" for line in odd[:2000]] + [f">>{line}" for line in odd[2000:4000]]
    failed = 0
    for side in ("source", "target") if kind == "marian" else ("",):
        model = Published(kind, folder, side or "source")
        with tempfile.NamedTemporaryFile() as file:
            file.write(model.stored)
            file.flush()
            for name, some in (("lines", lines), ("hostile", odd)):
                run = subprocess.run([program, file.name], input="\n".join(some).encode() + b"\n", capture_output=True, check=True)
                count = dict.fromkeys(("ids", "ours", "texts", "witness"), 0)
                for line, answer, theirs in zip(some, run.stdout.decode("utf-8", "replace").split("\n"), model.cut(some)):
                    cut, text = answer.split("\t", 1)
                    cut, witness = [int(i) for i in cut.split()], model.witness(line)
                    if cut != witness:
                        count["witness"] += 1
                        if count["witness"] < 4: print(f"    {line!r}: {cut}, libsentencepiece {witness}")
                    if cut != theirs:
                        count["ids"] += 1
                        count["ours"] += witness == theirs
                        if count["ids"] < 4: print(f"    {line!r}: {cut}, transformers {theirs}")
                    elif model.unk not in cut and text != model.join(cut):
                        count["texts"] += 1
                        if count["texts"] < 4: print(f"    {line!r}: {text!r}, transformers {model.join(cut)!r}")
                print(f"{kind} {os.path.basename(folder.rstrip('/'))} {side}: {len(some)} {name}; ids that differ from transformers {count['ids']}, where libsentencepiece "
                      f"does not {count['ours']}; from libsentencepiece {count['witness']}; texts that differ {count['texts']}", flush=True)
                failed |= count["witness"] > 0 or (kind == "marian" and count["ids"] + count["texts"] > 0)
    return failed


def golden(program):
    with tempfile.TemporaryDirectory() as folder:
        for number in range(15):
            model = os.path.join(folder, f"model.{number}")
            texts = subprocess.run([program, model], capture_output=True, check=True).stdout.split(b"\0")[:-1]
            processor, ids = ours_of(model)
            print("{")
            for line in texts:
                theirs = processor.encode(line)
                answer = "".join(f"{ids[i]} " for i in theirs).encode() + b"|" + processor.decode(theirs).encode()
                print('"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in answer) + '",')
            print("},")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"] and len(sys.argv) > 3: sys.exit(compare(sys.argv[2], sys.argv[3], sys.argv[4:]))
    if sys.argv[1:2] == ["random"] and len(sys.argv) in (4, 5): sys.exit(made_up(sys.argv[2], int(sys.argv[3]), int((sys.argv + ["1"])[4])))
    if sys.argv[1:2] == ["published"] and len(sys.argv) > 5: sys.exit(published(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]))
    if sys.argv[1:2] == ["golden"] and len(sys.argv) == 3: sys.exit(golden(sys.argv[2]))
    sys.exit(__doc__)

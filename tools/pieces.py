"""Are the subwords of transformer.h those of libsentencepiece? Needs sentencepiece (measured with 0.2.3).

    cc -O2 -march=native -fopenmp -I. tools/pieces.c -o build/pieces -lopenblas -lm
    python3 tools/pieces.py compare build/pieces TEXT [MODEL...]
    python3 tools/pieces.py golden build/test_pieces >tests/golden/pieces.h

compare: models of both types and several sizes, with byte fallback and without, are trained on TEXT; with them and with every
MODEL all lines of TEXT and 100,000 random and hostile ones are cut and put together again. Nothing may differ. Prints the
seconds that both take for TEXT, the least of five. The exit status is 1 if anything differs.
golden: the answers for the models and texts of tests/test_pieces.c.
"""
import os, random, subprocess, sys, tempfile, time
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


def golden(program):
    with tempfile.TemporaryDirectory() as folder:
        for number in range(9):
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
    if sys.argv[1:2] == ["golden"] and len(sys.argv) == 3: sys.exit(golden(sys.argv[2]))
    sys.exit(__doc__)

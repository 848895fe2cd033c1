"""fairseq and Marian themselves beside this library: small models that they train are converted and imported, and the n-best
lists of both sides compared, texts and scores.

    python3 tools/convert/programs.py fairseq|marian BIN [--golden]        needs torch, safetensors, PyYAML; trf in build/

BIN is the bin folder of a Python that has the program: fairseq 0.12.2 (with Python 3.10 and torch 2.0), or pymarian 1.12.42.
This script itself runs in another Python, because to_hugging_face.py needs a newer torch than fairseq does.

Sources are rows of digits. Targets are their names in reverse order. Both are pieces of SentencePiece. The models have 44,000
weights and learn for 300 updates. Each of 50 sources gets 5 answers with beam 5, for several length penalties.
Prints the largest difference of the scores, and the exit status is 1 if it is above TIE or a text differs that is no tie.
--golden makes a smaller model instead, and the folder of it and its answers in tests/golden/import.
"""
import json, pathlib, random, re, shutil, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT, NAMES = HERE.parents[1], "zero one two three four five six seven eight nine".split()
BEAM, SOURCES, TIE = 5, 50, {"fairseq": 2e-5, "marian": 5e-5}         # Marian prints six digits
D, FFN, LAYERS = 32, 64, 2


def run(*arguments, **more):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, **more)
    if done.returncode: sys.exit(f"{' '.join(map(str, arguments))}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return done.stdout


def data(folder):
    """train.src, train.tgt, test.src and test.tgt in pieces, text.src as text, m.model; returns the pieces."""
    import sentencepiece
    r = random.Random(1)
    digits = [[r.randrange(10) for _ in range(r.randint(1, 7))] for _ in range(600)]
    pairs = [(" ".join(map(str, d)), " ".join(NAMES[x] for x in reversed(d))) for d in digits]
    (folder / "both").write_text("\n".join(line for pair in pairs for line in pair) + "\n")
    sentencepiece.SentencePieceTrainer.train(input=str(folder / "both"), model_prefix=str(folder / "m"), vocab_size=40,
                                             hard_vocab_limit=False, minloglevel=2, normalization_rule_name="identity")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))
    for side, name in enumerate(("src", "tgt")):
        lines = [" ".join(pieces.encode(pair[side], out_type=str)) for pair in pairs]
        (folder / f"train.{name}").write_text("\n".join(lines[SOURCES:]) + "\n")
        (folder / f"test.{name}").write_text("\n".join(lines[:SOURCES]) + "\n")
    (folder / "text.src").write_text("\n".join(pair[0] for pair in pairs[:SOURCES]) + "\n")
    return [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]


def text_of(pieces): return "".join(pieces.split()).replace("\u2581", " ").strip()


def ours(folder, model, rule, alpha, *more):
    out = run(ROOT / "build/trf", "translate", "--model", model, "--search-rule", rule, "--alpha", alpha, "--beam", BEAM,
              "--n-best", BEAM, "--scores", *more, folder / "text.src")
    answers = {}
    for line in out.splitlines():
        number, _, score, text = line.split("\t")
        answers.setdefault(int(number) - 1, []).append((float(score), text.strip()))
    return answers


def compare(name, mine, theirs, all_ranks):
    """all_ranks 0: only the best answer must be the same; a further rank may be better here."""
    worst, differ, better, n, tie = 0.0, 0, 0, 0, TIE[sys.argv[1]]
    for i, answers in theirs.items():
        if len(mine[i]) != len(answers): sys.exit(f"{name}: source {i} has {len(mine[i])} answers, not {len(answers)}")
        for k, (score, text) in enumerate(answers):
            n += 1
            if k and not all_ranks and mine[i][k][0] > score + tie: better += 1; continue
            worst = max(worst, abs(score - mine[i][k][0]))
            tied = [t for s, t in mine[i] if abs(s - score) < tie]
            differ += text != mine[i][k][1] and text not in tied
    good = worst < tie and not differ
    print(f"{name:46} {n} answers, {differ} differ" + (f", {better} further ranks are better here" if better else "") +
          f"; scores differ by at most {worst:.1e}" + ("" if good else "  FAILED"), flush=True)
    return good


def imported(folder, *arguments):
    run(sys.executable, HERE / "to_hugging_face.py", *arguments, "--spm", folder / "m.model", "--output", folder / "hf")
    model = folder / "model.trf"
    run(ROOT / "build/trf", "import", folder / "hf", "--output", model)
    return model


def write_golden(top, name, theirs, ranks):
    """The converted folder, some lines, and what the program answers: number, rank, score and text."""
    to = ROOT / "tests/golden/import" / name
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(top / "hf", to)
    (to / "lines.txt").write_text("".join((top / "text.src").read_text().splitlines(True)[:10]))
    (to / "answers.txt").write_text("".join(f"{i + 1}\t{k + 1}\t{score:.6f}\t{text}\n" for i in range(10)
                                            for k, (score, text) in enumerate(theirs[i][:ranks])))
    for path in to.glob("*"): path.chmod(0o644)


def fairseq(bin_, folder, golden):
    data(folder)
    run(bin_ / "fairseq-preprocess", "--source-lang", "src", "--target-lang", "tgt", "--trainpref", "train", "--validpref", "test",
        "--testpref", "test", "--destdir", "bin", "--joined-dictionary", cwd=folder)
    sizes = []
    for side in ("encoder", "decoder"):
        sizes += [f"--{side}-embed-dim", D, f"--{side}-ffn-embed-dim", FFN, f"--{side}-layers", LAYERS, f"--{side}-attention-heads", 4]
    before = ["--encoder-normalize-before", "--decoder-normalize-before"]
    learned = ["--encoder-learned-pos", "--decoder-learned-pos", "--layernorm-embedding"]
    good = True
    for kind, options in {"sines, pre-norm": before, "learned, post-norm": learned + ["--activation-fn", "gelu"],
                          "learned, pre-norm": learned + before}.items():
        top = folder / kind.replace(", ", "-")
        top.mkdir()
        run(bin_ / "fairseq-train", "bin", "--arch", "transformer", *sizes, *options, "--share-all-embeddings", "--optimizer", "adam",
            "--lr", 0.003, "--max-tokens", 1000, "--max-update", 300, "--criterion", "label_smoothed_cross_entropy",
            "--label-smoothing", 0.1, "--save-dir", top, "--no-progress-bar", "--disable-validation", "--no-epoch-checkpoints",
            "--max-source-positions", 64, "--max-target-positions", 64, "--cpu", "--seed", 3, cwd=folder)
        for name in ("m.model", "text.src"): (top / name).write_bytes((folder / name).read_bytes())
        model = imported(top, "fairseq", top / "checkpoint_last.pt", "--dict", folder / "bin/dict.src.txt")
        for alpha in (0, 0.6, 1, 2):
            for minimum in (1, 12):
                out = run(bin_ / "fairseq-generate", "bin", "--path", top / "checkpoint_last.pt", "--beam", BEAM, "--nbest", BEAM,
                          "--lenpen", alpha, "--min-len", minimum, "--max-len-a", 0, "--max-len-b", 40, "--batch-size", 16,
                          "--gen-subset", "test", "--cpu", cwd=folder)
                theirs = {}
                for number, score, pieces in re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", out, re.M):
                    theirs.setdefault(int(number), []).append((float(score) * 0.6931471805599453, text_of(pieces)))
                if golden and learned[0] in options and alpha == 1: return write_golden(top, "fairseq", theirs, 1)
                mine = ours(folder, model, "fairseq", alpha, "--min-length", minimum, "--max-length-a", 0, "--max-length-b", 40)
                good &= compare(f"fairseq, {kind}, lenpen {alpha}, min-len {minimum}", mine, theirs, False)
    return good


MARIAN = """
import json, pymarian, sys
o = json.load(open("options.json"))
if o["train"]: pymarian.Trainer(**o["train"]).train()
for name, more in o["translate"].items():
    t = pymarian.Translator(models="model.npz", vocabs=["vocab.yml"] * 2, n_best=True, cpu_threads=1, quiet=True, **more)
    open(name, "w").write("\\n".join(t.translate(open("test.src").read().splitlines())))
"""


def marian(bin_, folder, golden):
    pieces = data(folder)
    words = ["</s>", "<unk>"] + pieces
    good = True
    for act in ("swish", "relu"):
        top = folder / act
        top.mkdir()
        for name in ("train.src", "train.tgt", "test.src", "text.src", "m.model"): (top / name).write_bytes((folder / name).read_bytes())
        (top / "vocab.yml").write_text("".join(f"{json.dumps(w, ensure_ascii=False)}: {i}\n" for i, w in enumerate(words)))
        rules = {f"{alpha} {penalty}": dict(beam_size=BEAM, normalize=alpha, word_penalty=penalty, mini_batch=1)
                 for alpha, penalty in ((0, 0), (0.6, 0), (1, 0), (1, 0.3))}
        (top / "options.json").write_text(json.dumps(dict(translate=rules, train=dict(
            type="transformer", model="model.npz", train_sets=["train.src", "train.tgt"], vocabs=["vocab.yml"] * 2, dim_emb=D,
            transformer_heads=4, transformer_dim_ffn=FFN, enc_depth=LAYERS, dec_depth=LAYERS, transformer_postprocess="dan",
            transformer_ffn_activation=act, tied_embeddings_all=True, after="300u", mini_batch=32, learn_rate=0.003, cpu_threads=1,
            seed=7, max_length=50, label_smoothing=0.1, workspace=256, quiet=True))))
        run(bin_ / "python", "-c", MARIAN, cwd=top)
        model = imported(top, "marian", top / "model.npz", "--vocab", top / "vocab.yml")
        for name, rule in rules.items():
            theirs = {}
            for line in (top / name).read_text().splitlines():
                if not line: continue
                number, pieces, _, score = line.split(" ||| ")
                theirs.setdefault(int(number), []).append((float(score), text_of(pieces)))
            if golden and rule["word_penalty"]: return write_golden(top, "marian_nmt", theirs, BEAM)
            mine = ours(folder, model, "marian", rule["normalize"], "--word-penalty", rule["word_penalty"],
                        "--max-length-a", 3, "--max-length-b", 3)           # max-length-factor times the source and its EOS
            good &= compare(f"Marian, {act}, normalize {rule['normalize']}, word-penalty {rule['word_penalty']}", mine, theirs, True)
    return good


def main():
    global D, FFN, LAYERS
    golden = "--golden" in sys.argv
    if len(sys.argv) != 3 + golden or sys.argv[1] not in ("fairseq", "marian"): sys.exit(__doc__)
    if golden: D, FFN, LAYERS = 8, 8, 1
    with tempfile.TemporaryDirectory() as folder:
        good = {"fairseq": fairseq, "marian": marian}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(folder), golden)
        sys.exit(not golden and not good)


if __name__ == "__main__": main()

"""fairseq and Marian themselves beside this library: small models that they train are converted and imported, and the n-best
lists of both sides compared, texts and scores: of each model alone, and of several that answer as one.

    python3 tools/convert/programs.py fairseq|marian BIN [--golden]        needs torch, safetensors, PyYAML; trf in build/

BIN is the bin folder of a Python that has the program: fairseq 0.12.2 (with Python 3.10, torch and torchaudio 2.0, a pip below
24.1), or pymarian 1.12.42.
This script itself runs in another Python, because to_hugging_face.py needs a newer torch than fairseq does.

Sources are rows of digits. Targets are their names in reverse order. Both are pieces of SentencePiece. The models have 44,000
weights, the second one a layer more, and learn for 300 updates. Each of 50 sources gets 5 answers with beam 5, for several length
penalties. Prints the largest difference of the scores, and the exit status is 1 if it is above TIE or a text differs that is no
tie. --golden makes smaller models instead, and folders in tests/golden/import: a model with its answers, and another one with
the answers of both together.
"""
import io, json, pathlib, random, re, shutil, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT, NAMES = HERE.parents[1], "zero one two three four five six seven eight nine".split()
BEAM, SOURCES, TIE = 5, 50, {"fairseq": 2e-5, "marian": 1e-4}         # Marian prints six digits: 5e-5 beyond 10
D, FFN, LAYERS = 32, 64, (2, 3, 2)


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
    model = io.BytesIO()                                                    # a file's name would be in the model
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=(line for pair in pairs for line in pair), model_writer=model,
                                             vocab_size=40, hard_vocab_limit=False, minloglevel=2,
                                             normalization_rule_name="identity")
    (folder / "m.model").write_bytes(model.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for side, name in enumerate(("src", "tgt")):
        lines = [" ".join(pieces.encode(pair[side], out_type=str)) for pair in pairs]
        (folder / f"train.{name}").write_text("\n".join(lines[SOURCES:]) + "\n")
        (folder / f"test.{name}").write_text("\n".join(lines[:SOURCES]) + "\n")
    (folder / "text.src").write_text("\n".join(pair[0] for pair in pairs[:SOURCES]) + "\n")
    return [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]


def text_of(pieces): return "".join(pieces.split()).replace("\u2581", " ").strip()


def ours(folder, models, rule, alpha, *more):
    for model in models[1:]: more += "--with", model
    out = run(ROOT / "build/trf", "translate", "--model", models[0], "--search-rule", rule, "--alpha", alpha, "--beam", BEAM,
              "--n-best", BEAM, "--scores", *more, folder / "text.src")
    answers = {}
    for line in out.splitlines():
        number, _, score, text = line.split("\t")
        answers.setdefault(int(number) - 1, []).append((float(score), text.strip()))
    return answers


def compare(name, mine, theirs, all_ranks):
    """all_ranks 0: only the best answer must be the same; a further rank may be better here. What ties with the last one may
    have been cut off."""
    worst, differ, better, n, tie = 0.0, 0, 0, 0, TIE[sys.argv[1]]
    for i, answers in theirs.items():
        if len(mine[i]) != len(answers): sys.exit(f"{name}: source {i} has {len(mine[i])} answers, not {len(answers)}")
        for k, (score, text) in enumerate(answers):
            n += 1
            if k and not all_ranks and mine[i][k][0] > score + tie: better += 1; continue
            worst = max(worst, abs(score - mine[i][k][0]))
            tied = [t for s, t in mine[i] if abs(s - score) < tie]
            differ += text != mine[i][k][1] and text not in tied and abs(score - mine[i][-1][0]) >= tie
    good = worst < tie and not differ
    print(f"{name:74} {n} answers, {differ} differ" + (f", {better} further ranks are better here" if better else "") +
          f"; scores differ by at most {worst:.1e}" + ("" if good else "  FAILED"), flush=True)
    return good


def imported(folder, *arguments):
    spm = folder.parent / "m.model"
    run(sys.executable, HERE / "to_hugging_face.py", *arguments, "--spm", spm, "--output", folder / "hf")
    model = folder / "model.trf"
    run(ROOT / "build/trf", "import", folder / "hf", "--output", model)
    return model


def write_golden(model, name, theirs, ranks):
    """The model's converted folder, some lines, and what the program answers: number, rank, score and text."""
    to = ROOT / "tests/golden/import" / name
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(model.parent / "hf", to)
    (to / "lines.txt").write_text("".join((model.parents[1] / "text.src").read_text().splitlines(True)[:10]))
    (to / "answers.txt").write_text("".join(f"{i + 1}\t{k + 1}\t{score:.6f}\t{text}\n" for i in range(10)
                                            for k, (score, text) in enumerate(theirs[i][:ranks])))
    for path in to.glob("*"): path.chmod(0o644)


def fairseq(bin_, folder, golden):
    data(folder)
    run(bin_ / "fairseq-preprocess", "--source-lang", "src", "--target-lang", "tgt", "--trainpref", "train", "--validpref", "test",
        "--testpref", "test", "--destdir", "bin", "--joined-dictionary", cwd=folder)
    before = ["--encoder-normalize-before", "--decoder-normalize-before"]
    learned = ["--encoder-learned-pos", "--decoder-learned-pos", "--layernorm-embedding"]
    kinds = {"sines pre-norm": before, "learned post-norm": learned + ["--activation-fn", "gelu"],
             "learned pre-norm": learned + before}
    models, good = [], True
    for k, options in enumerate(kinds.values()):
        top = folder / str(k)
        top.mkdir()
        sizes = []
        for side in ("encoder", "decoder"):
            sizes += [f"--{side}-embed-dim", D, f"--{side}-ffn-embed-dim", FFN, f"--{side}-layers", LAYERS[k],
                      f"--{side}-attention-heads", 4]
        run(bin_ / "fairseq-train", "bin", "--arch", "transformer", *sizes, *options, "--share-all-embeddings",
            "--optimizer", "adam", "--lr", 0.003, "--max-tokens", 1000, "--max-update", 300, "--label-smoothing", 0.1,
            "--criterion", "label_smoothed_cross_entropy", "--save-dir", top, "--no-progress-bar", "--disable-validation",
            "--no-epoch-checkpoints", "--max-source-positions", 64, "--max-target-positions", 64, "--cpu", "--seed", 3 + k,
            cwd=folder)
        models.append(imported(top, "fairseq", top / "checkpoint_last.pt", "--dict", folder / "bin/dict.src.txt"))
    for group in ((1,), (1, 2)) if golden else ((0,), (1,), (2,), (1, 2), (2, 0, 1)):
        for alpha, minimum in [(1, 1)] if golden else [(a, m) for a in (0, 0.6, 1, 2) for m in (1, 12)]:
            out = run(bin_ / "fairseq-generate", "bin", "--path", ":".join(f"{k}/checkpoint_last.pt" for k in group),
                      "--beam", BEAM, "--nbest", BEAM, "--lenpen", alpha, "--min-len", minimum, "--max-len-a", 0,
                      "--max-len-b", 40, "--batch-size", 16, "--gen-subset", "test", "--cpu", cwd=folder)
            theirs = {}
            for number, score, pieces in re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", out, re.M):
                theirs.setdefault(int(number), []).append((float(score) * 0.6931471805599453, text_of(pieces)))
            if golden:
                write_golden(models[group[-1]], "fairseq_ensemble" if group[1:] else "fairseq", theirs, 1)
                continue
            mine = ours(folder, [models[k] for k in group], "fairseq", alpha, "--min-length", minimum,
                        "--max-length-a", 0, "--max-length-b", 40)
            name = " + ".join(list(kinds)[k] for k in group)
            good &= compare(f"fairseq, {name}, lenpen {alpha}, min-len {minimum}", mine, theirs, False)
    return good


MARIAN = """
import json, pymarian
o = json.load(open("options.json"))
if "train" in o: pymarian.Trainer(**o["train"]).train()
for name, more in o.get("translate", {}).items():
    t = pymarian.Translator(vocabs=["vocab.yml"] * 2, n_best=True, cpu_threads=1, quiet=True, **more)
    open(name, "w").write("\\n".join(t.translate(open("test.src").read().splitlines())))
"""


def marian(bin_, folder, golden):
    def run_marian(**options):
        (folder / "options.json").write_text(json.dumps(options))
        run(bin_ / "python", "-c", MARIAN, cwd=folder)
    words = ["</s>", "<unk>"] + data(folder)
    entries = (f"{json.dumps(w, ensure_ascii=False)}: {i}\n" for i, w in enumerate(words))
    (folder / "vocab.yml").write_text("".join(entries))
    kinds, models, good = ("swish", "relu"), [], True
    for k, act in enumerate(kinds):
        (folder / act).mkdir()
        run_marian(train=dict(
            type="transformer", model=f"{act}/model.npz", train_sets=["train.src", "train.tgt"], vocabs=["vocab.yml"] * 2,
            dim_emb=D, transformer_heads=4, transformer_dim_ffn=FFN, enc_depth=LAYERS[k], dec_depth=LAYERS[k],
            transformer_postprocess="dan", transformer_ffn_activation=act, tied_embeddings_all=True, after="300u",
            mini_batch=32, learn_rate=0.003, cpu_threads=1, seed=7 + k, max_length=50, label_smoothing=0.1, workspace=256,
            quiet=True))
        models.append(imported(folder / act, "marian", folder / act / "model.npz", "--vocab", folder / "vocab.yml"))
    runs = {}                                                               # by the name of the file of answers
    for group, weights in ((0,), ()), ((1,), ()), ((0, 1), ()), ((0, 1), (0.5, 0.5)), ((0, 1), (1.5, 0.25)):
        for alpha, penalty in (0, 0), (0.6, 0), (1, 0), (1, 0.3):
            name = " + ".join(kinds[k] for k in group) + (f", weights {weights}" if weights else "")
            runs[f"Marian, {name}, normalize {alpha}, word-penalty {penalty}"] = group, dict(
                models=[f"{kinds[k]}/model.npz" for k in group], weights=weights or None, beam_size=BEAM, normalize=alpha,
                word_penalty=penalty, mini_batch=1)
    run_marian(translate={name: options for name, (_, options) in runs.items()})
    for name, (group, o) in runs.items():
        theirs = {}
        for line in (folder / name).read_text().splitlines():
            if not line: continue
            number, pieces, _, score = line.split(" ||| ")
            theirs.setdefault(int(number), []).append((float(score), text_of(pieces)))
        if golden:
            if o["word_penalty"] and (group == (0,) or o["weights"] == (1.5, 0.25)):
                write_golden(models[group[-1]], "marian_nmt_ensemble" if group[1:] else "marian_nmt", theirs, BEAM)
            continue
        weights = ("--ensemble-weights", ",".join(map(str, o["weights"]))) if o["weights"] else ()
        mine = ours(folder, [models[k] for k in group], "marian", o["normalize"], "--word-penalty", o["word_penalty"], *weights,
                    "--allow-unk", "no", "--max-length-a", 3, "--max-length-b", 3)  # max-length-factor times the source and EOS
        good &= compare(name, mine, theirs, True)
    return good


def main():
    global D, FFN, LAYERS
    golden = "--golden" in sys.argv
    if len(sys.argv) != 3 + golden or sys.argv[1] not in ("fairseq", "marian"): sys.exit(__doc__)
    if golden: D, FFN, LAYERS = 8, 8, (1, 1, 1)
    with tempfile.TemporaryDirectory() as folder:
        good = {"fairseq": fairseq, "marian": marian}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(folder), golden)
        sys.exit(not golden and not good)


if __name__ == "__main__": main()

"""Are the figures of trf eval those of sacreBLEU and jiwer? Needs both (measured with sacrebleu 2.6.0, jiwer 4.0.0).

    python3 tools/parity/metrics.py compare build/trf HYPOTHESES REFERENCES...
    python3 tools/parity/metrics.py hostile build/test_metrics [N]
    python3 tools/parity/metrics.py golden >tests/golden/metrics.h

compare: all figures of files of lines, theirs and ours, for each tokenizer, as written and in lower case.
hostile: N random pairs (2,000) of odd characters, broken UTF-8 and odd blanks: the words of BLEU, and all figures
of each pair.
golden: theirs for the sentences below, for tests/test_metrics.c.

The exit status is 1 if anything differs: a word, or a figure by more than 1e-9 of it (compare: 1e-8, since ours are
printed with nine digits).
"""
import json, random, subprocess, sys
import jiwer
from sacrebleu.metrics import BLEU, CHRF

FIGURES = ["bleu", "chrf", "chrf++", "exact", "wer", "cer"]
TOKENS = ["13a", "none", "char"]
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


# ---- their figures ----

def errors(process, hypotheses, references):
    """In percent, with the reference that has the fewest errors; of several such, the longest."""
    wrong = total = 0
    for hypothesis, some in zip(hypotheses, references):
        found = [process(reference, hypothesis) for reference in some]
        least = min((o.substitutions + o.insertions + o.deletions, -len(o.references[0])) for o in found)
        wrong, total = wrong + least[0], total - least[1]
    return 100 * wrong / max(total, 1)


def exact(hypotheses, references):
    right = sum(h.split() in [r.split() for r in some] for h, some in zip(hypotheses, references))
    return 100 * right / len(hypotheses)


def theirs(hypotheses, references, tokens, lowercase):
    """The six figures and their signatures, where there are any. references: a list for each hypothesis."""
    columns = [[some[i] if i < len(some) else None for some in references] for i in range(max(map(len, references)))]
    values, signatures = [], []
    for metric in (BLEU(tokenize=tokens, lowercase=lowercase, force=True), CHRF(lowercase=lowercase),
                   CHRF(word_order=2, lowercase=lowercase)):
        values.append(metric.corpus_score(hypotheses, columns).score)
        signatures.append(str(metric.get_signature()).rpartition(":")[0])
    if lowercase:
        hypotheses = [h.lower() for h in hypotheses]
        references = [[r.lower() for r in some] for some in references]
    values.append(exact(hypotheses, references))
    values += [errors(process, hypotheses, references) for process in (jiwer.process_words, jiwer.process_characters)]
    if all(len(some) == 1 for some in references):      # what the rule for several references must agree with
        flat = [some[0] for some in references]
        assert not differ(values[4], 100 * jiwer.wer(flat, hypotheses), 1e-12)
        assert not differ(values[5], 100 * jiwer.cer(flat, hypotheses), 1e-12)
    return values, signatures


def tokenized(text, tokens, lowercase):
    metric = BLEU(tokenize=tokens, lowercase=lowercase)
    return " ".join(metric._preprocess_segment(text).split())


def differ(a, b, most): return not abs(a - b) <= most * max(abs(a), abs(b), 1e-300)


# ---- files ----

def lines_of(path):
    data = open(path, "rb").read().removeprefix(b"\xef\xbb\xbf")
    return [line.decode("utf-8", "surrogateescape") for line in data.removesuffix(b"\n").split(b"\n")]


def compare(program, hypothesis, references):
    hypotheses = lines_of(hypothesis)
    columns = list(zip(*map(lines_of, references)))
    different = 0
    for tokens in TOKENS:
        for lowercase in (False, True):
            wanted, signatures = theirs(hypotheses, columns, tokens, lowercase)
            command = [program, "eval", references[0], hypothesis, "--json", "--metrics", ",".join(FIGURES)]
            command += ["--tokenize", tokens] + ["--lowercase"] * lowercase
            for path in references[1:]: command += ["--reference", path]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            print(f"{len(hypotheses)} lines, tokens {tokens}{', lower case' * lowercase}")
            for i, name in enumerate(FIGURES):
                ours, signature = found[name]["score"], found[name]["signature"]
                wrong = differ(ours, wanted[i], 1e-8) or i < 3 and signature.rpartition(":")[0] != signatures[i]
                different += wrong
                mark = "   DIFFERENT" * wrong
                print(f"    {name:8} theirs {wanted[i]:13.8f}   ours {ours:13.8f}   {signature}{mark}")
    return 1 if different else 0


# ---- hostile lines ----

ODD = [" ", "  ", "\t", "\r", "\v", "\x1c", "\x1f", "\x85", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f",
       "\u3000", "\u200b", "\ufeff", "\x01", "\x7f", ".", ",", "-", "'", "..", ".,", ",.", "--", "1.", ".1",
       "1,000.5", "3-4", "-5", "a-b", "0-", "...", "\u0663.", "\u00b2,", "&", "&amp;", "&quot;", "&lt;", "&gt;",
       "&amp;lt;", "&amp;amp;quot;", "&nbsp;", "<skipped>", "<skip<skipped>ped>", "<", ">", "\"", "!", "?", ";", ":",
       "(", ")", "[", "]", "{", "|", "}", "~", "^", "_", "`", "@", "#", "$", "%", "*", "+", "/", "\\", "=", "\u201e",
       "\u201c", "\u2014", "\u2026", "\u4f60\u597d", "\u3002", "\u304b\u3099", "\uac00", "\u1112\u1161\u11ab",
       "e\u0301", "A\u030a", "\u0308", "\U0001f600", "\U0001f469\u200d\U0001f469", "\U0001f1e9\U0001f1ea",
       "\u00c4\u00d6\u00dc", "\u00df", "\u1e9e", "\u0130", "I", "\u0131", "\u039f\u0394\u039f\u03a3", "\u03a3",
       "\u03a3'", "\u03a3.", "\u03a3\u0301", "\u0421\u042a", "\u01c5", "\u2126", "\u24b6", "\uff21", "\U00010400",
       "the", "The", "cat", "cat", "dog", "der", "Der", "Hund", "0", "7", "12", "a", "b", "B"]


def hostile_text(r, pool):
    text = b""
    for _ in range(r.choice((0, 1, 1, 2, 3, 5, 8, 13, 40))):
        kind = r.random()
        if kind < 0.5: text += r.choice(pool).encode("utf-8", "surrogateescape")
        elif kind < 0.7: text += r.choice(ODD).encode() + b" " * r.randint(0, 1)
        elif kind < 0.85:
            ranges = (1, 0x2FFF), (0x3000, 0xD7FF), (0xE000, 0x10FFFF)
            text += chr(r.randint(*r.choice(ranges))).encode()
        elif kind < 0.95: text += bytes([r.randint(1, 127)])
        else: text += bytes(r.randint(1, 255) for _ in range(r.randint(1, 5)))
    return text.replace(b"\n", b" ").decode("utf-8", "surrogateescape")


def hostile(program, n):
    r = random.Random(7)
    pairs = []
    for _ in range(n):
        pool = r.choices(ODD, k=r.randint(1, 12))       # few pieces, so that much matches
        pairs.append((hostile_text(r, pool), hostile_text(r, pool)))
    data = "".join(f"{h}\n{reference}\n" for h, reference in pairs).encode("utf-8", "surrogateescape")
    words = figures = 0
    for tokens in TOKENS:
        for lowercase in (False, True):
            command = [program, tokens, "lower" if lowercase else "mixed"]
            found = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout.split(b"\n")[:-1]
            assert len(found) == len(pairs)
            for (hypothesis, reference), answer in zip(pairs, found):
                ours, text = answer.decode("utf-8", "surrogateescape").split("\t", 1)
                wanted = theirs([hypothesis], [[reference]], tokens, lowercase)[0]
                bad_words = text != tokenized(hypothesis, tokens, lowercase).replace("\t", " ")
                bad_figures = any(differ(float(a), b, 1e-9) for a, b in zip(ours.split(), wanted))
                if (bad_words or bad_figures) and words + figures < 5:
                    print(command[1:], ascii(hypothesis), ascii(reference), ours, wanted, ascii(text))
                words, figures = words + bad_words, figures + bad_figures
    print(f"{n} pairs, {len(TOKENS)} tokenizers, as written and in lower case: "
          f"{words} tokenized differently, {figures} with another figure")
    return 1 if words or figures else 0


# ---- golden ----

# A hypothesis and its references; those of several references after the others.
SENTENCES = [
    ("The little dog sleeps under the table.", "The small dog is sleeping under the table."),
    ("She paid 1,234.50 euros on 3-4 May, didn't she?", "She paid 1,234.50 euro on 3-4 May, did she not?"),
    ("The price rose by 5.3% - from 10-12 to .5, or 7. Perhaps",
     "Prices rose by 5.3 % - from 10-12 to 0.5, or 7. Perhaps."),
    ("\"Hello,\" he said (quietly): [no] {way} ~ `x` @home #1 $5 a/b c\\d",
     "\"Hello!\" he said (loudly); [no] {way} ~ `y` @home #2 $5 a/b c\\d"),
    ("Fish &amp; chips &quot;to go&quot; &lt;now&gt; &amp;lt; &nbsp;", "Fish & chips \"to go\" <now> &lt; &nbsp;"),
    ("one <skipped>two three-\nfour five\nsix-\n", "one two threefour five six-"),
    ("a\u00a0b\u3000c\td\u2009e  f", "a b c d e f"),
    ("tab\tinside and\u00a0hard blank", "tab inside and hard  blank"),
    ("", "An answer was expected."),
    ("Nothing was expected.", ""),
    ("", ""),
    (" \t ", "  "),
    ("\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002", "\u4eca\u5929\u7684\u5929\u6c14\u975e\u5e38\u597d\u3002"),
    ("Cafe\u0301 \u00e0 la cr\u00e8me", "Caf\u00e9 \u00e0 la cre\u0300me"),
    ("I like it \U0001f600 \U0001f469\u200d\U0001f52c!", "I like it \U0001f601 \U0001f469\u200d\U0001f52c!"),
    ("\u00c4RGER MIT \u00d6L UND \u00dcBERZUG, STRASSE \u1e9e",
     "\u00e4rger mit \u00d6l und \u00dcberzug, Stra\u00dfe \u00df"),
    ("\u039f\u0394\u039f\u03a3 \u03a3\u039f\u03a6\u039f\u03a3. \u041c\u041e\u0421\u041a\u0412\u0410 \u0130stanbul",
     "\u03bf\u03b4\u03bf\u03c2 \u03c3\u03bf\u03c6\u03bf\u03c2. \u043c\u043e\u0441\u043a\u0432\u0430 i\u0307stanbul"),
    ("\u03a3 \u03a3\u0391 \u0391\u03a3 \u0391\u03a3\u0391 1\u03a3 "
     "\u0391\u03a3' \u0391'\u03a3 \u0391\u03a3'\u0391 \u0390\u03a3",
     "\u03c3 \u03c3\u03b1 \u03b1\u03c2 \u03b1\u03c3\u03b1 1\u03c3 "
     "\u03b1\u03c2' \u03b1'\u03c2 \u03b1\u03c3'\u03b1 \u0390\u03c2"),
    ("the the the the the the the", "the cat is on the mat"),
    ("the the cat the cat", "the cat the cat the cat sat"),
    ("Yes", "Yes"),
    ("No.", "Yes."),
    ("two words", "two words here"),
    ("A", "B"),
    ("well-known state-of-the-art 2-3 x-2 2-x", "well known state-of-the-art 2 - 3 x-2 2-x"),
    ("v1.2.3,4.5.,.,6 .7. 8,,9", "v1.2.3,4.5.,.,6 .7. 8,, 9"),
    ("(hi) 'quoted' \u201equoted\u201c \u00bbso\u00ab don't rock'n'roll",
     "(hi) \"quoted\" \u201aquoted\u2018 \u00bbso\u00ab do n't rock 'n' roll"),
    ("This hypothesis is much longer than the sentence that was asked for, by far, and goes on",
     "This one is short"),
    ("Short", "This reference is much longer than the sentence that was given, by far"),
    ("a b c d e f g h i j", "j i h g f e d c b a"),
    ("The cat sat on the mat.", "A cat sat on the mat.", "The cat is sitting on a mat.", "On the mat sat the cat."),
    ("There is a cat there", "There is a cat", "A cat is there now ok", "There are two cats"),
    ("in five words it is", "in four words it", "in five words it is said", "it is in six words said"),
    ("r i d", "r iy d", "r eh d"),
    ("abc", "abd", "abcd", "abx"),
    ("same  blanks here ", "same blanks here", "other"),
    ("".join(f"a{chr(c)}b 1{chr(c)}2 " for c in range(1, 128) if c != 10), "a b 1 2 a!b 1.2 a.b 1-2 a-b"),
]


def text_of(text):
    """A literal of C; a piece ends after an escape, so that no digit joins it."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in data) + '"'


def golden():
    most = max(map(len, SENTENCES))
    print("/* Made by tools/parity/metrics.py golden: sentences of ours, figures of sacreBLEU and jiwer. */\n")
    print(f"enum {{ MOST_TEXTS = {most} }};\n\n/* A hypothesis, then its references. */")
    print("static const char *const sentences[][MOST_TEXTS] = {")
    for texts in SENTENCES: print("    {" + ",\n     ".join(map(text_of, texts)) + "},")
    print("};\n\n/* The hypotheses as BLEU sees them: 13a as written, 13a in lower case, char. */")
    print("static const char *const tokenized[][3] = {")
    for texts in SENTENCES:
        how = ("13a", False), ("13a", True), ("char", False)
        print("    {" + ",\n     ".join(text_of(tokenized(texts[0], *one)) for one in how) + "},")
    print("};\n\n/* Sentences first to first + n - 1: BLEU, chrF, chrF++, exact, WER, CER; signatures of BLEU and\n"
          "   chrF++, without their version. */")
    print("static const struct run {\n    int first, n, tokens, lowercase;\n    double figures[6];\n"
          "    const char *signatures[2];\n} runs[] = {")
    several = [i for i, texts in enumerate(SENTENCES) if len(texts) == 4]
    ranges = [(0, len(SENTENCES)), (0, several[0]), (several[0], 3), (several[0] - 3, 8), (9, 7)]
    for first, n in ranges + [(i, 1) for i in range(len(SENTENCES))]:
        some = SENTENCES[first:first + n]
        for tokens in range(3 if n > 1 else 1):
            for lowercase in range(2 if n > 1 else 1):
                hypotheses, references = [t[0] for t in some], [list(t[1:]) for t in some]
                values, signatures = theirs(hypotheses, references, TOKENS[tokens], bool(lowercase))
                print(f"    {{{first}, {n}, {tokens}, {lowercase},\n     {{" + ", ".join(map(repr, values)) + "},")
                print(f'     {{"{signatures[0]}",\n      "{signatures[2]}"}}}},')
    total = 0
    for c in CHARACTERS:
        total = (31 * total + (ord(c.lower()) if len(c.lower()) == 1 else 0) + c.isspace()) % 2 ** 64
    print("};\n\n/* Of all characters c in turn: sum = 31 sum + small letter + (1: a blank); U+0130 has no small\n"
          "   letter here. */")
    print(f"static const uint64_t sum_of_characters = {total}u;")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"] and len(sys.argv) > 4: sys.exit(compare(sys.argv[2], sys.argv[3], sys.argv[4:]))
    if sys.argv[1:2] == ["hostile"] and len(sys.argv) in (3, 4):
        sys.exit(hostile(sys.argv[2], int((sys.argv[3:] or [2000])[0])))
    if sys.argv[1:] == ["golden"]: sys.exit(golden())
    sys.exit(__doc__)

#!/usr/bin/env python3
"""Makes tools/unicode/tables.h: what the tool and the metrics know about characters.

    python3 tools/parity/unicode.py >tools/unicode/tables.h

The facts are those of Hugging Face's tokenizers, which is asked for every code point; where Unicode 14 of Python 3.11
has others, the difference is a set of its own. Needs: pip install tokenizers (0.23.3 made the committed tables).
"""
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers
from wordpiece_table import Facts, points, runs_of, wrapped


def matching(pattern):
    """The code points that a regular expression of one character matches."""
    split, found = pre_tokenizers.Split(Regex(pattern), "removed"), set()
    for i in range(0, len(points), 4096):
        part = points[i:i + 4096]
        kept = "".join(word for word, _ in split.pre_tokenize_str("".join(map(chr, part))))
        found |= set(part) - set(map(ord, kept))
    return found


def lower_runs(lower):
    """[first, last, step, delta]: steps of 2 where capital and small letters alternate. No run begins within another."""
    runs = []
    for c, small in sorted(lower.items()):
        if runs and runs[-1][3] == small - c:
            first, last, step, _ = runs[-1]
            if c - last == step or first == last and c - last == 2:
                runs[-1][1:3] = c, c - last
                continue
        runs.append([c, c, 1, small - c])
    return runs


def is_cased(c):
    return ("1" + c + "\u03a3").lower().endswith("\u03c2")


def is_ignorable(c):
    """Whether the rule of the final sigma looks past c: only then is the sigma that of what stands before c."""
    return ("A" + c + "\u03a3").lower().endswith("\u03c2") and ("1" + c + "\u03a3").lower().endswith("\u03c3")


def put(name, comment, kind, items):
    lines = []
    wrapped(lines, items)
    print("\n/* %s */\nstatic const %s unicode_%s = {\n%s\n};" % (comment, kind, name, "\n".join(lines)))


def put_set(name, comment, chosen):
    """Runs: how many code points are outside, how many inside, and so on."""
    items, end = [], 0
    for first, last in runs_of(chosen):
        items += [str(first - end), str(last + 1 - first)]
        end = last + 1
    put(name + "[]", comment, "uint32_t", items)


def put_parts(name, comment, parts):
    """Runs: a code point, how many follow with it, the parts of each."""
    items = []
    for first, last in runs_of(parts):
        items += [str(first), str(last + 1 - first)] + [str(x) for c in range(first, last + 1) for x in parts[c]]
    put(name + "[]", comment, "uint32_t", items)


def put_decompositions():
    """Python's, of which tokenizers knows all but the newest; and the classes of marks that tokenizers knows."""
    nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    one, two, apart, new, classes, end = {}, {}, set(), set(), [], 0
    for c in points[128:]:
        own = unicodedata.decomposition(chr(c))
        if own and not own.startswith("<"):
            parts = [int(x, 16) for x in own.split()]
            (one if len(parts) == 1 else two)[c] = parts
            known = nfd(chr(c)) != chr(c)
            if not known:
                new.add(c)
            composes = len(parts) == 2 and unicodedata.normalize("NFC", chr(c)) == chr(c)
            if known and composes != (len(parts) == 2 and nfc("".join(map(chr, parts))) == chr(c)):
                raise SystemExit("U+%04X composes in one of the two" % c)
            if len(parts) == 2 and not composes:
                apart.add(c)
        elif k := unicodedata.combining(chr(c)):
            # tokenizers sorts a mark that it knows behind one of a lower class, and before one of a higher
            if nfd("\u0345" + chr(c)) != "\u0345" + chr(c) or k == 240:
                if classes and end == c and classes[-1] == k:
                    classes[-2] += 1
                else:
                    classes += [c - end, 1, k]
                end = c + 1
    put_parts("one", "NFD of Unicode 14. A code point, how many follow with it, and what each of them is written as.", one)
    put_parts("two", "The same where it is two code points.", two)
    put_set("apart", "Of these two, a set that NFC leaves apart.", apart)
    put_set("new_parts", "A set of the code points above that tokenizers leaves as they are.", new)
    put("classes[]", "Combining classes: how many code points have none, how many have one, and which; and so on.",
        "uint32_t", map(str, classes))


def put_lower(facts):
    several = {c: text for c, text in facts.lower.items() if len(text) > 1}
    if list(several.items()) != [(0x130, "i\u0307")]:
        raise SystemExit("lower case of several characters: %r" % several)
    lower = {c: ord(text) for c, text in facts.lower.items() if len(text) == 1}
    python = {c: ord(chr(c).lower()) for c in points if chr(c).lower() != chr(c) and c != 0x130}
    if any(lower.get(c) != small for c, small in python.items()):
        raise SystemExit("Python has other small letters")
    put("lower[][4]", "Lower case: first, last, the step between them, what is added. Ascending, without overlap.\n"
        "   U+0130 is not here: it becomes U+0069 U+0307.", "int32_t", ["{%d, %d, %d, %d}" % tuple(run) for run in lower_runs(lower)])
    put_set("new_capitals", "A set of the letters above that are the same in lower case in Unicode 14.", set(lower) - set(python))


def main():
    if unicodedata.unidata_version != "14.0.0":
        raise SystemExit("expected the Unicode of Python 3.11, got " + unicodedata.unidata_version)
    facts = Facts()
    letters, numbers, white = (matching(p) for p in (r"\p{L}", r"\p{N}", r"\s"))
    if white != facts.white:
        raise SystemExit("the white space of words is not that of regular expressions")
    if letters & numbers or letters & white or numbers & white:
        raise SystemExit("a code point has two classes")
    if any(matching(f"(?i:{x})") - {ord(x), ord(x.upper())} != ({0x17F} if x == "s" else set()) for x in "stremvld"):
        raise SystemExit("the contractions have other letters than transformer.h knows")
    print("""/* Facts of Unicode, made by tools/parity/unicode.py: those of Hugging Face's tokenizers %s,
   and of Unicode 14 where a comment says so.

   A set is a row of numbers: how many code points are outside of it, then how many are inside, and
   so on. */""" % tokenizers.__version__)
    put_set("dropped", "BERT: cleaning removes them.", facts.drop)
    put_set("white", "They end words; regular expressions have them as \\s.", white)
    put_set("alone", "BERT: punctuation, each a word of its own.", facts.alone)
    put_set("cjk", "BERT: each is a word of its own.", facts.cjk)
    put_set("marks", "BERT: stripping accents removes them.", {c for c, text in facts.strip.items() if text == ""})
    put_set("letters", "Regular expressions: \\p{L}.", letters)
    put_set("numbers", "Regular expressions: \\p{N}.", numbers)
    put_set("cased", "Unicode 14: a final sigma stands behind one.", {c for c in points if is_cased(chr(c))})
    put_set("ignorable", "Unicode 14: what may stand between them.", {c for c in points if is_ignorable(chr(c))})
    put_lower(facts)
    put_decompositions()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The character tables of WordPiece vocabularies, taken from Hugging Face's tokenizers itself.

  wordpiece_table.py check                      compares every code point with the library, in all 16 settings
  wordpiece_table.py order                      counts the marks whose canonical order the rules cannot give
  wordpiece_table.py file VOCAB OUT [setting...]    writes the stored bytes (transformer.h, >>wordpiece) of a vocab.txt
      settings: cased, keep-accents, strip-accents, no-chinese, no-clean, no-cleanup, longest=N, unk=TOKEN, ...

The facts of each code point are independent of each other: is it dropped, white, punctuation, CJK, a mark; what is
left of it without accents; what is its lower case. `treatment` composes them as BertNormalizer and BertPreTokenizer
do. The facts are asked from the library one at a time, so the check of all settings together is a check.
Needs: pip install tokenizers (0.23.3 made the committed tables: unicode.py).
"""
import struct
import sys

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

DROP, SPACE, SHIFT, TEXT, HANGUL, ALONE = 0, 1, 2, 3, 4, 8
SETTINGS = ("clean", "chinese", "strip", "lower")
LAST_HANGUL = 0xD7A3
points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def normalizer(clean=False, chinese=False, strip=False, lower=False):
    return BertNormalizer(clean_text=clean, handle_chinese_chars=chinese, strip_accents=strip,
                          lowercase=lower).normalize_str


def words_of(text):
    return [word for word, _ in BertPreTokenizer().pre_tokenize_str(text)]


def is_hangul(c):
    return 0xAC00 <= c <= LAST_HANGUL


def hangul(c):
    c -= 0xAC00
    last = chr(0x11A7 + c % 28) if c % 28 else ""
    return chr(0x1100 + c // 588) + chr(0x1161 + c % 588 // 28) + last


class Facts:
    def __init__(self):
        clean, chinese = normalizer(clean=True), normalizer(chinese=True)
        strip, lower, pre = normalizer(strip=True), normalizer(lower=True), BertPreTokenizer()
        self.drop, self.white, self.alone, self.cjk, self.strip, self.lower = set(), set(), set(), set(), {}, {}
        for c in points:
            ch = chr(c)
            text = clean(ch)
            if text == "":
                self.drop.add(c)
            parts = [p for p, _ in pre.pre_tokenize_str("a" + ch + "b")]
            if parts == ["a", "b"]:
                self.white.add(c)
            elif parts == ["a", ch, "b"]:
                self.alone.add(c)
            elif parts != ["a" + ch + "b"]:
                raise SystemExit("U+%04X: unexpected words %r" % (c, parts))
            if text not in ("", ch) and not (text == " " and c in self.white):
                raise SystemExit("U+%04X: cleaning gives %r" % (c, text))
            if c in self.white and c not in self.drop and text != " ":
                raise SystemExit("U+%04X: white, but cleaning keeps it" % c)
            text = chinese(ch)
            if text == " " + ch + " ":
                self.cjk.add(c)
            elif text != ch:
                raise SystemExit("U+%04X: CJK gives %r" % (c, text))
            text = strip(ch)
            if is_hangul(c):
                if text != hangul(c):
                    raise SystemExit("U+%04X: Hangul gives %r" % (c, text))
            elif text != ch:
                self.strip[c] = text
            text = lower(ch)
            if text != ch:
                self.lower[c] = text

    def treatment(self, c, clean, chinese, strip, lower):
        """(kind, text) of a code point: what the settings make of it."""
        if clean and c in self.drop:
            return DROP, ""
        if c in self.white:
            return SPACE, ""
        text, alone = chr(c), chinese and c in self.cjk
        if strip and is_hangul(c):
            return HANGUL, ""
        if strip:
            text = self.strip.get(c, text)
        if lower:
            text = "".join(self.lower.get(ord(x), x) for x in text)
        if text == "":
            if alone:
                raise SystemExit("U+%04X: a CJK character that vanishes" % c)
            return DROP, ""
        if all(ord(x) in self.white for x in text):
            return SPACE, ""
        if any(ord(x) in self.white or (len(text) > 1 and ord(x) in self.alone) for x in text):
            raise SystemExit("U+%04X: %r would be several words" % (c, text))
        alone = alone or ord(text[0]) in self.alone
        return (SHIFT if len(text) == 1 else TEXT) + ALONE * bool(alone), text

    def rules(self, **settings):
        """The rules of a stored file, and its replacements."""
        rules, places, replaced = [], {}, b""
        for c in points:
            kind, text = self.treatment(c, **settings)
            argument = 0
            if kind % 8 == SHIFT:
                argument = ord(text) - c
            elif kind % 8 == TEXT:
                if text not in places:
                    places[text] = len(replaced)
                    replaced += text.encode() + b"\0"
                argument = places[text]
            if (kind, argument) == (SHIFT, 0):
                continue
            if rules and rules[-1][1] == c - 1 and rules[-1][2:] == [kind, argument]:
                rules[-1][1] = c
            else:
                rules.append([c, c, kind, argument])
        return rules, replaced


def all_settings():
    for bits in range(16):
        yield {name: bool(bits >> i & 1) for i, name in enumerate(SETTINGS)}


def check(facts):
    bad = 0
    for settings in all_settings():
        normal, pre = normalizer(**settings), BertPreTokenizer()
        rules, replaced = facts.rules(**settings)
        for c in points:
            kind, text = facts.treatment(c, **settings)
            if kind == DROP:
                ours = ["ab"]
            elif kind == SPACE:
                ours = ["a", "b"]
            elif kind == HANGUL:
                ours = ["a" + hangul(c) + "b"]
            else:
                ours = ["a", text, "b"] if kind & ALONE else ["a" + text + "b"]
            theirs = [p for p, _ in pre.pre_tokenize_str(normal("a" + chr(c) + "b"))]
            if ours != theirs:
                bad += 1
                if bad < 20:
                    print("U+%04X %r: %r, tokenizers %r" % (c, settings, ours, theirs))
        print("%-60s %5d rules, %4d bytes of replacements" % (
            " ".join(k for k in SETTINGS if settings[k]) or "-", len(rules), len(replaced)), flush=True)
    print("%d code points in 16 settings, %d differ" % (len(points), bad))
    return bad


def order(facts):
    """Marks that stay and that NFD moves: found by pairs, which the library swaps."""
    strip = normalizer(strip=True)
    import unicodedata
    marks = [c for c in points if unicodedata.category(chr(c))[0] == "M" and c not in facts.strip]
    ends = [0x302E, 0x16FF0, 0x1D165, 0x1D16D, 0xA953, 0x1B44]
    moved = set()
    for a in ends:
        for b in marks:
            if strip(chr(a) + chr(b)) != chr(a) + chr(b) or strip(chr(b) + chr(a)) != chr(b) + chr(a):
                moved |= {a, b}
    pairs = sum(strip(chr(a) + chr(b)) != chr(a) + chr(b) for a in moved for b in moved)
    print("%d marks stay and have a canonical order, %d ordered pairs of them are swapped" % (len(moved), pairs))
    print(" ".join("%04X" % c for c in sorted(moved)))


def runs_of(chosen):
    runs = []
    for c in sorted(chosen):
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return runs


def wrapped(out, items):
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            out.append(line)
            line = "   "
        line += " " + item + ","
    out.append(line)


def stored(facts, tokens, settings, specials, cleanup=True, longest=100):
    """specials: the texts of pad bos eos unk mask cls sep, or None."""
    rules, replaced = facts.rules(**settings)
    flags = int(cleanup) | 2 | sum(4 << i for i, name in enumerate(SETTINGS) if settings[name])
    index = {t: i for i, t in enumerate(tokens)}
    ids = [index.get(s, -1) if s is not None else -1 for s in specials]
    out = b"TRFWP\0\0\1" + struct.pack("<II7iII", flags, longest, *ids, len(tokens), len(rules))
    out += b"".join(struct.pack("<IIii", *r) for r in rules)
    out += struct.pack("<I", len(replaced)) + replaced
    return out + b"".join(t.encode() + b"\0" for t in tokens)


def stored_file(facts, arguments):
    vocab, path, *words = arguments
    tokens = open(vocab, encoding="utf-8", newline="\n").read().split("\n")
    if tokens[-1] == "":
        tokens.pop()
    given = dict(w.split("=", 1) for w in words if "=" in w)
    settings = {"clean": "no-clean" not in words, "chinese": "no-chinese" not in words,
                "lower": "cased" not in words}
    settings["strip"] = "strip-accents" in words or (settings["lower"] and "keep-accents" not in words)
    names = {"pad": "[PAD]", "bos": None, "eos": None, "unk": "[UNK]", "mask": "[MASK]", "cls": "[CLS]",
             "sep": "[SEP]"}
    specials = [given.get(k, v) for k, v in names.items()]
    data = stored(facts, tokens, settings, specials, "no-cleanup" not in words, int(given.get("longest", 100)))
    open(path, "wb").write(data)
    print("%s: %d bytes, %d tokens" % (path, len(data), len(tokens)))


def main(arguments):
    what, *rest = arguments or [""]
    if what not in ("check", "order", "file"):
        raise SystemExit(__doc__)
    facts = Facts()
    if what == "check":
        return 1 if check(facts) else 0
    if what == "order":
        order(facts)
    if what == "file":
        stored_file(facts, rest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

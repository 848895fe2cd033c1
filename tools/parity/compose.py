"""Makes tools/trf/base/compose.h: what Unicode's composition (NFC) does to single characters and to letters with marks.

python3 tools/parity/compose.py >tools/trf/base/compose.h

The Unicode is that of Python's unicodedata. Composition never changes for what a version of Unicode has.
"""

import itertools
import unicodedata


def nfc(text):
    return unicodedata.normalize("NFC", text)


def spellings(character):
    """All other ways to write a composed character: its letter composed with some of its marks, then the others, in
    every order that means the same."""
    letter, *marks = unicodedata.normalize("NFD", character)
    for order in set(itertools.permutations(marks)):
        if nfc(letter + "".join(order)) != character:
            continue
        for n in range(len(order)):
            begin = nfc(letter + "".join(order[:n]))
            if len(begin) == 1:
                yield begin + "".join(order[n:])


def table(name, rows, comment):
    width = max(map(len, rows))
    print(f"\n/* {comment} */\nstatic const uint32_t {name}[][{width}] = {{")
    line = ""
    for row in rows:
        item = " {" + ", ".join(f"0x{ord(c):x}" for c in row) + "},"
        if len(line) + len(item) > 96:
            print("   " + line)
            line = ""
        line += item
    print("   " + line + "\n};")


def main():
    composed, alone = set(), []
    for code in range(0x110000):
        character = chr(code)
        hangul = 0xAC00 <= code < 0xD7A4            # these follow a rule: see compose.c
        if hangul or 0xD800 <= code < 0xE000 or unicodedata.normalize("NFD", character) == character:
            continue
        if nfc(character) == character:
            composed.update(character + spelling for spelling in spellings(character))
        else:
            alone.append(character + nfc(character))
    print("/* Made by tools/parity/compose.py, from Unicode " + unicodedata.unidata_version + ". */")
    table("composed", sorted(composed), "A character, and a longer way to write it.")
    table("replaced", sorted(alone), "A character, and what it is written as.")


main()

#!/bin/sh
# trf eval on Multi30k's three test sets against the figures of sacreBLEU 2.6.0 and jiwer 4.0.0:
# sh tools/data/check_eval.sh TRF DATA
#
# The answers are the references, but every seventh word is missing and the third and fourth change places in even
# lines. DATA is a folder with multi30k/test.2016.de, test.2017.de, test.coco.de. Figures: BLEU (13a), chrF, WER, CER,
# BLEU (none); theirs were taken in Python. `python3 tools/parity/metrics.py compare` does it for any files.

trf=${1:?usage: check_eval.sh TRF DATA}
data=${2:?usage: check_eval.sh TRF DATA}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
failed=0
while read -r set expected; do
    sed 's/@@ //g' "$data/multi30k/test.$set.de" >"$work/references" || exit 1
    awk 'NR % 2 == 0 && NF > 3 { w = $3; $3 = $4; $4 = w }
        { s = ""; for (i = 1; i <= NF; i++) if (i % 7) s = s (s == "" ? "" : " ") $i; print s }' "$work/references" \
            >"$work/answers"
    got=$({ "$trf" eval "$work/references" "$work/answers" --metrics bleu,chrf,wer,cer
            "$trf" eval "$work/references" "$work/answers" --metrics bleu --tokenize none; } |
        sed -n 's/^[^=]* = \([0-9.]*\).*/\1/p' | tr '\n' ' ')
    echo "$set: $got"
    [ "$got" = "$expected " ] || { echo "    expected $expected"; failed=1; }
done <<END
2016 55.69 80.11 19.12 16.43 55.65
2017 55.38 80.69 19.78 16.44 55.37
coco 55.11 79.87 19.46 16.78 55.11
END
exit $failed

#!/bin/sh
# trf eval: sh tests/test_trf_eval.sh build/trf
#
# The figures of sacreBLEU and jiwer, of lines, alternatives and several references; the worst lines
# and those of each length; and validation's figure is that of trf translate and trf eval.

. "$(dirname "$0")/trf.sh"

trf=$anew

# --- figures ------------------------------------------------------------------------------------
# These figures are sacreBLEU's and jiwer's: tests/test_metrics.c has more of them.
printf 'The cat sat on the mat.\nIt is 1,5 m long.\n\nFINE\n' >references
printf 'The cat is on the mat.\nIt is 1,5 m wide.\n\nfine\n' >answers
printf 'A cat is on the mat.\nIt is 1,5 m wide.\nNothing\nfine\n' >second
expect 0 "eval: --help lists the metrics" "^ *bleu,chrf,exact,wer,cer)$" "$trf" eval --help
expect 0 "eval: BLEU is that of sacreBLEU" \
    "^BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:trf-[0-9.]* = 50.20 78.6/63.6/4" \
    "$trf" eval references answers
cp out figures
check "eval: BLEU tells the brevity penalty and the lengths" \
    grep -q " (BP = 1.000 ratio = 1.000 hyp_len = 14 ref_len = 14)$" figures
check "eval: chrF2 is that of sacreBLEU" \
    grep -q "^chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:trf-[0-9.]* = 55.79$" \
    figures
check "eval: exact counts 1 of 4 lines" grep -q "^exact|.* = 25.00 (1 of 4 lines)$" figures
check "eval: WER is that of jiwer" grep -q "^WER|.* = 25.00 (3 errors, 12 words)$" figures
check "eval: CER is that of jiwer" grep -q "^CER|.* = 25.00 (11 errors, 44 characters)$" figures
check "eval: each of five figures has a line" lines_are 5 figures
cp answers a.hyp
cp references b.ref
expect 0 "eval: hypotheses that are named so, and come first, are told" \
    "warning: 'a.hyp' is read as references and 'b.ref' as hyp.*names say" "$trf" eval a.hyp b.ref
expect 0 "eval: references that are named so, and come second, are told" \
    "their names say the opposite; references come first" "$trf" eval answers b.ref
sed '1s/^[^ ]*/<unk>/' answers >unknown
cp references right
expect 0 "eval: unknown tokens in the references are told" "the references have unknown tokens" "$trf" eval \
    unknown right
for files in 'b.ref a.hyp' 'right unknown' 'answers right' 'b.ref references'; do
    expect 0 "eval: nothing is said about $files" "" "$trf" eval $files
    check "eval: nothing is said about $files: no warning" [ -z "$(grep 'references come first' err)" ]
done
expect 0 "eval: answers are read from standard input" "" sh -c "'$trf' eval references <answers"
check "eval: answers from standard input have the figures of the file" same out figures
expect 0 "eval: references are read from standard input as '-'" "" \
    sh -c "'$trf' eval answers - --metrics exact,wer <references"
check "eval: --metrics exact,wer prints two lines" lines_are 2 out
expect 0 "eval: --lowercase counts 2 of 4 lines as exact" "nrefs:1|case:lc|unit:line|.* = 50.00 (2 of 4" \
    "$trf" eval references answers --lowercase
expect 0 "eval: --tokenize none is told in the signature" "tok:none" "$trf" eval references answers --tokenize none \
    --metrics bleu
expect 0 "eval: --tokenize char is told in the signature" "tok:char" "$trf" eval references answers --tokenize char \
    --metrics bleu
expect 0 "eval: --metrics chrf++ counts word pairs too" "^chrF2++|.*|nw:2|.* = " "$trf" eval references \
    answers --metrics chrf++
expect 0 "eval: --reference adds references, of which the nearest counts" "^WER|nrefs:3|.* = 8.33 (1 error, 12 words)" \
    "$trf" eval references answers --reference second --reference references
expect 0 "eval: --json writes an object with the figures" \
    '^{"lines":4,"bleu":{"score":50.197[0-9]*,"signature":"nrefs:1|.*"matches":\[11,7,4,2\]}.*}}$' \
    "$trf" eval references answers --json
check "eval: --json tells errors and words of WER" \
    grep -q '"wer":{"score":25,"signature":"[^"]*","errors":3,"words":12}' out
printf 'r iy d\tr eh d\n\tk ae t\t\n\t\n' >sounds
printf 'r eh d\nk ae t\n\n' >heard
expect 0 "eval: --alternatives takes the nearest of the references between tabs" \
    "^exact|nrefs:var|.* = 100.00 (3 of 3 lines)" "$trf" eval sounds heard --alternatives
expect 0 "eval: without --alternatives a tab is a blank" "^exact|nrefs:1|.* (2 of 3 lines)" "$trf" eval sounds heard
expect 1 "eval: answers of another number of lines are refused" "answers has 4 lines, but heard has 3" \
    "$trf" eval heard answers
expect 1 "eval: second references of another number of lines are refused" "answers has 4 lines, but heard has 3" \
    "$trf" eval references answers --reference heard
expect 1 "eval: references that are not there are refused" "cannot read 'missing'" "$trf" eval missing answers
expect 1 "eval: second references that are not there are refused" "cannot read 'missing'" "$trf" eval references \
    answers --reference missing
expect 1 "eval: files without lines are refused" "/dev/null and /dev/null have no lines" "$trf" eval /dev/null /dev/null
printf 'a\0b\n' >zero
expect 1 "eval: a NUL byte is refused with its line" "zero:1: a NUL byte" "$trf" eval zero zero
expect 2 "eval: no file is refused" "give a file of references" "$trf" eval
expect 2 "eval: three files are refused" "give a file of references" "$trf" eval one two three
expect 2 "eval: '-' for both files is refused" "only one of the files can be standard input" "$trf" eval -
expect 2 "eval: /dev/stdin beside standard input is refused" "only one of the files can be" \
    sh -c "seq 2000 | '$trf' eval /dev/stdin"
expect 2 "eval: an unknown name in --metrics is refused with the names that exist" \
    "bleu,chrf,chrf++,exact,wer,cer, got 'blue'" "$trf" eval references answers --metrics bleu,blue
expect 2 "eval: an empty --metrics is refused" "got ''" "$trf" eval references answers --metrics ''

# --- the worst lines, and figures by length -----------------------------------------------------
printf 'one\ntwo three\nfour five six\nseven eight nine ten\none two three four five six\n' \
    >references
printf 'one\ntwo thre\nfour five\n\none two three four five six\n' >hypotheses
expect 0 "eval: --worst 2 lists lines by chrF2" "^worst lines by chrF2$" "$trf" eval references hypotheses --worst 2
sed -n '/^worst/,$p' out >got
printf \
    'worst lines by chrF2\n       4    0.00  reference   seven eight nine ten\n                  hypothesis  \n' \
    >wanted
check "eval: --worst 2 lists the worst line first, and two in all" eval \
    'head -n 3 got | cmp -s - wanted && lines_are 5 got && grep -q "^       3 .*four five six$" got'
expect 0 "eval: --worst 99 --metrics wer lists lines" "" "$trf" eval references hypotheses --worst 99 \
    --metrics wer
check "eval: --worst 99 lists no perfect lines" test "$(grep -c '  reference  ' out)" -eq 3
check "eval: --worst 99 --metrics wer lists the lines with errors, the highest WER first" \
    test "$(awk '/  reference  / { print $1 }' out | tr '\n' ' ')" = "4 2 3 "
expect 0 "eval: --by-length prints a table with the figures that are asked for" \
    "^       words    lines     BLEU      WER$" "$trf" eval references hypotheses --by-length --metrics bleu,wer
sed -n '/words    lines/,$p' out | tail -n +2 >got
printf '%12s  %7s  %7s  %7s\n' 1 1 - 0.00 2-3 2 - 40.00 >wanted
check "eval: --by-length has a line for each class of lengths" eval 'lines_are 3 got && head -n 2 got | cmp -s - wanted'
expect 0 "eval: --json writes the figures by length and the worst lines" \
    '"by_length":\[{"from":1,"to":1,"lines":1,"bleu":null,"wer":0},.*"worst":\[{"line":4,"metric":"wer","score":100,'\
'"reference":"seven eight nine ten","hypothesis":""}\]}$' \
    "$trf" eval references hypotheses --by-length --worst 1 --metrics wer,bleu --json
if command -v python3 >/dev/null; then
    check "eval: --json writes JSON that Python reads" python3 -c 'import json; json.load(open("out"))'
fi
expect 0 "eval: --by-length --tokenize char counts the length in characters" "^  characters    lines " \
    "$trf" eval references hypotheses --by-length --tokenize char

# --- validation's figure is that of trf translate and trf eval ----------------------------------
# same_error VALID OPTIONS: the validation's CER of a short training is that of its answers
same_error()
{
    valid=$1
    shift
    "$trf" train --tsv train.tsv --valid-tsv $valid $model --threads 1 --warmup 2 --ema 0 \
        --metric cer --updates 40 --valid-every 40 --precision float32 \
        --batch-tokens 256 --learning-rate 0.03 --model judge "$@" 2>judge.err || return 1
    sort -u $valid >judge.tsv; cut -f1 judge.tsv >judge.source; cut -f2 judge.tsv >judge.target
    "$trf" translate --model judge --input judge.source --beam 1 --output judge.answers \
        2>>judge.err || return 1
    "$trf" eval judge.target judge.answers --metrics cer >judge.figure || return 1
    sed -n 's/^validation: .* cer \([0-9.]*\) .*/\1/p' judge.err >judge.validation
    test -s judge.validation && test "$(cat judge.validation)" = \
        "$(sed -n 's/.* = \([0-9.]*\).*/\1/p' judge.figure)"
}
sed 's/\(\t.*\)e /\1e@@ /' test.tsv >cut.tsv
check "train: the CER of a validation is that of trf eval for characters that look like cut words" same_error cut.tsv \
    --tokens characters
{ printf '\tone two\n'; cat test.tsv; } >empty.tsv
check "train: the CER of a validation is that of trf eval for sources that are empty" same_error empty.tsv --keep-empty

finish

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
expect 0 "help of eval" "^ *bleu,chrf,exact,wer,cer)$" "$trf" eval --help
expect 0 "eval" \
    "^BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:trf-[0-9.]* = 50.20 78.6/63.6/4" \
    "$trf" eval references answers
cp out figures
check "brevity" grep -q " (BP = 1.000 ratio = 1.000 hyp_len = 14 ref_len = 14)$" figures
check "chrF" \
    grep -q "^chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:trf-[0-9.]* = 55.79$" \
    figures
check "exact" grep -q "^exact|.* = 25.00 (1 of 4 lines)$" figures
check "WER" grep -q "^WER|.* = 25.00 (3 errors, 12 words)$" figures
check "CER" grep -q "^CER|.* = 25.00 (11 errors, 44 characters)$" figures
check "a line each" lines_are 5 figures
expect 0 "eval of standard input" "" sh -c "'$trf' eval references <answers"
check "the same figures" same out figures
expect 0 "eval of '-', references last" "" \
    sh -c "'$trf' eval answers - --metrics exact,wer <references"
check "those that are asked for" lines_are 2 out
expect 0 "lower case" "nrefs:1|case:lc|unit:line|.* = 50.00 (2 of 4" "$trf" eval references \
    answers --lowercase
expect 0 "between blanks" "tok:none" "$trf" eval references answers --tokenize none --metrics bleu
expect 0 "characters" "tok:char" "$trf" eval references answers --tokenize char --metrics bleu
expect 0 "word pairs too" "^chrF2++|.*|nw:2|.* = " "$trf" eval references answers --metrics chrf++
expect 0 "more references" "^WER|nrefs:3|.* = 8.33 (1 error, 12 words)" \
    "$trf" eval references answers --reference second --reference references
expect 0 "an object" \
    '^{"lines":4,"bleu":{"score":50.197[0-9]*,"signature":"nrefs:1|.*"matches":\[11,7,4,2\]}.*}}$' \
    "$trf" eval references answers --json
check "errors in it" grep -q '"wer":{"score":25,"signature":"[^"]*","errors":3,"words":12}' out
printf 'r iy d\tr eh d\n\tk ae t\t\n\t\n' >sounds
printf 'r eh d\nk ae t\n\n' >heard
expect 0 "alternatives" "^exact|nrefs:var|.* = 100.00 (3 of 3 lines)" "$trf" eval sounds heard \
    --alternatives
expect 0 "a tab is a blank otherwise" "^exact|nrefs:1|.* (2 of 3 lines)" "$trf" eval sounds heard
expect 1 "another number of lines" "answers has 4 lines, but heard has 3" "$trf" eval heard answers
expect 1 "of the second references" "answers has 4 lines, but heard has 3" \
    "$trf" eval references answers --reference heard
expect 1 "no such references" "cannot read 'missing'" "$trf" eval missing answers
expect 1 "no such second references" "cannot read 'missing'" "$trf" eval references answers \
    --reference missing
expect 1 "no lines" "/dev/null and /dev/null have no lines" "$trf" eval /dev/null /dev/null
printf 'a\0b\n' >zero
expect 1 "a NUL byte" "zero:1: a NUL byte" "$trf" eval zero zero
expect 2 "no file to evaluate" "give a file of references" "$trf" eval
expect 2 "too many files" "give a file of references" "$trf" eval one two three
expect 2 "standard input twice" "only one of the files can be standard input" "$trf" eval -
expect 2 "and by its other name" "only one of the files can be" sh -c "seq 2000 | '$trf' eval /dev/stdin"
expect 2 "unknown figure" "bleu,chrf,chrf++,exact,wer,cer, got 'blue'" \
    "$trf" eval references answers --metrics bleu,blue
expect 2 "no figure" "got ''" "$trf" eval references answers --metrics ''

# --- the worst lines, and figures by length -----------------------------------------------------
printf 'one\ntwo three\nfour five six\nseven eight nine ten\none two three four five six\n' \
    >references
printf 'one\ntwo thre\nfour five\n\none two three four five six\n' >hypotheses
expect 0 "the worst lines" "^worst lines by chrF2$" "$trf" eval references hypotheses --worst 2
sed -n '/^worst/,$p' out >got
printf \
    'worst lines by chrF2\n       4    0.00  reference   seven eight nine ten\n                  hypothesis  \n' \
    >wanted
check "the worst one first" eval \
    'head -n 3 got | cmp -s - wanted && lines_are 5 got && grep -q "^       3 .*four five six$" got'
expect 0 "perfect ones are not among them" "" "$trf" eval references hypotheses --worst 99 \
    --metrics wer
check "whatever the number" test "$(grep -c '  reference  ' out)" -eq 3
check "errors are worse when there are more" \
    test "$(awk '/  reference  / { print $1 }' out | tr '\n' ' ')" = "4 2 3 "
expect 0 "by length" "^       words    lines     BLEU      WER$" "$trf" eval references hypotheses \
    --by-length --metrics bleu,wer
sed -n '/words    lines/,$p' out | tail -n +2 >got
printf '%12s  %7s  %7s  %7s\n' 1 1 - 0.00 2-3 2 - 40.00 >wanted
check "classes of references" eval 'lines_are 3 got && head -n 2 got | cmp -s - wanted'
expect 0 "both in JSON" \
    '"by_length":\[{"from":1,"to":1,"lines":1,"bleu":null,"wer":0},.*"worst":\[{"line":4,"metric":"wer","score":100,"reference":"seven eight nine ten","hypothesis":""}\]}$' \
    \
    "$trf" eval references hypotheses --by-length --worst 1 --metrics wer,bleu --json
if command -v python3 >/dev/null; then check "which is JSON" python3 \
    -c 'import json; json.load(open("out"))'; fi
expect 0 "characters" "^  characters    lines " "$trf" eval references hypotheses --by-length \
    --tokenize char

# --- validation's figure is that of trf translate and trf eval ----------------------------------
# same_error VALID OPTIONS: the validation's CER of a short training is that of its answers
same_error()
{
    valid=$1
    shift
    "$trf" train --tsv train.tsv --valid-tsv $valid $model --threads 1 --warmup 2 --ema 0 \
        --metric cer --updates 40 --valid-every 40 \
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
check "characters that look like cut words" same_error cut.tsv --tokens characters
{ printf '\tone two\n'; cat test.tsv; } >empty.tsv
check "sources that are empty" same_error empty.tsv --keep-empty

finish

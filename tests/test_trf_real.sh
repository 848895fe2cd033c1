#!/bin/sh
# What real data are like: targets much longer than their sources, repeated lines, blanks that mean something, files
# that are something else than the options say, lines unlike those of the training; and runs that only time ends.
# sh tests/test_trf_real.sh build/trf

. "$(dirname "$0")/trf.sh"

trf=$anew

# --- answers as long as the targets of the training ------------------------------------------------------
# Each letter stands for a word of nine letters: targets have 19 to 39 characters, and a limit of 2 n + 20 cuts them.
awk 'BEGIN {
    n = split("albatross bumblebee crocodile dromedary earthworm", word, " ")
    for (i = 0; i < 500; i++) {
        s = t = ""
        for (k = i; k > 0 || s == ""; k = int(k / 5)) {
            s = s substr("abcde", k % 5 + 1, 1)
            t = t (t ? "-" : "") word[k % 5 + 1]
        }
        if (length(s) > 1) print s "\t" t
    }
}' >abbr.tsv
expect 0 "train: abbreviations are learnt" "done:" "$trf" train --tsv abbr.tsv --d-model 64 --n-heads 4 --d-ff 128 \
    --encoder-layers 1 --decoder-layers 1 --threads 1 --updates 300 --warmup 50 --valid-every 300 --seed 3 --model abbr
check "train: the model knows its longest target" \
    eval '"$trf" inspect abbr | grep -q "^longest in training: source 4, target 39$"'
printf 'abcd\n' | "$trf" translate --model abbr --beam 1 --min-length 100 >long 2>/dev/null
check "translate: an answer may be a quarter longer than the longest target" test "$(tr -d '\n' <long | wc -m)" -eq 49
expect 0 "translate: --max-length-b is a limit that is obeyed" "1 of 1 answer reached the length limit" \
    sh -c "echo abcde | '$trf' translate --model abbr --beam 1 --max-length-a 0 --max-length-b 20"
check "translate: an answer of --max-length-b 20 has at most 20 characters" test "$(tr -d '\n' <out | wc -m)" -le 20
expect 0 "train: answers of a validation that reach the limit are counted" "of the answers reached the length limit" \
    "$trf" train --tsv abbr.tsv $model --threads 1 --updates 2 --valid-every 2 --seed 3 --model m

# --- repeated lines ----------------------------------------------------------------------------------
awk 'BEGIN { for (k = 0; k < 6; k++) for (i = 0; i < 300; i++) printf "name%d\tNAME%d\n", i * 7919, i * 7919 }' \
    >repeated.tsv
expect 0 "train: copies of names do not make words of them" "source: characters" "$trf" train \
    --tsv repeated.tsv $small \
    --updates 1 --model m
check "train: repeated pairs are held out with all copies" eval '! grep -q "among the training data" err'
cut -f 1 repeated.tsv | head -n 300 >part.source
cut -f 2 repeated.tsv | head -n 300 >part.target
cat part.source part.source >twice.source; cat part.target part.target >twice.target
expect 0 "train: held-out pairs that are trained on are told" "among the training data" "$trf" train \
    --source twice.source --target twice.target --valid-source part.source --valid-target part.target $small \
    --updates 1 --model m

# --- blanks ----------------------------------------------------------------------------------------------
for i in 1 2 3 4 5 6 7 8 9; do
    for j in 1 2 3 4 5 6 7 8 9; do
        printf 'call f%d%d\tdef f%d%d():  # no\nbody %d%d\t    return %d%d\n' $i $j $i $j $i $j $i $j
    done
done >code.tsv
code="--tsv code.tsv $model --batch-tokens 256 --warmup 20 --threads 1 --updates 2 --valid-size 9"
expect 0 "train: code with indentation is written in characters, not in words" "target: characters" "$trf" train $code \
    --model m
expect 0 "train: words lose blanks, and that is told" \
    "warning: 162 of 162 targets do not come back from their own tokens, the first in line 1" "$trf" \
    train --tsv code.tsv $small --updates 2 --valid-size 0 --tokens words --model m
check "train: characters lose nothing" eval \
    '"$trf" train $code --tokens characters --model m 2>err && ! grep -q "come back from their own" err'
if "$trf" train $code --tokens sentencepiece --model pieces 2>err; then
    check "train: subwords keep the blanks of such targets" grep -q 'all blanks are kept' err
    check "train: nothing is lost then" eval '! grep -q "come back from their own" err'
    check "train: targets with blanks are validated by cer" eval \
        '"$trf" train $code --tokens sentencepiece --model m 2>err && grep -q "validated every .* by cer" err'
    awk 'BEGIN { for (i = 0; i < 162; i++) print "bar " i "\t\342\226\201x " i }' >bars.tsv
    expect 0 "train: U+2581, which subwords read as a blank, is told" "targets do not come back from their own tokens" \
        "$trf" train --tsv bars.tsv $small --updates 1 --tokens sentencepiece --model m
    awk 'BEGIN { for (i = 0; i < 80000; i++) printf "some words x%d ", i; print "" }' >long.text
    expect 0 "train: a text of a megabyte and more in one line teaches subwords" "subwords learned" "$trf" train \
        --objective causal --text long.text --tokens sentencepiece --max-line-bytes 9999999 \
        --vocab-size 300 $quick --updates 1 --model m
else echo "left out: libsentencepiece"
fi

# --- files that are something else ------------------------------------------------------------------------
encoder="--d-model 16 --n-heads 2 --d-ff 32 --encoder-layers 1 --batch-tokens 256 --warmup 2 --threads 1 --updates 2"
labelled="$encoder --objective classify"
awk 'BEGIN { print "text\tlabel"; for (i = 0; i < 60; i++) print "good film " i "\tpos\nbad film " i "\tneg" }' \
    >head.tsv
expect 0 "train: a first line whose label occurs once looks like a header" \
    "warning: head.tsv:1: 'text' and 'label' look like a header" "$trf" train --tsv head.tsv $labelled --model m
sed 1d head.tsv >body.tsv
check "train: labels that occur often have no hint" eval \
    '"$trf" train --tsv body.tsv $labelled --model m 2>err && ! grep -q "look like\|--columns" err'
expect 0 "train: labels and texts that are exchanged have a hint" "is the label in the other column (--columns 2,1)?" \
    "$trf" train --tsv body.tsv --columns 2,1 $labelled --model m
{ printf 'source\ttarget\n'; cat train.tsv; } >titled.tsv
expect 0 "train: columns named source and target look like a header" "look like a header" "$trf" train \
    --tsv titled.tsv \
    $small --updates 1 --model m
awk 'BEGIN { for (i = 0; i < 30; i++) print "the\tDET\ndog\tNOUN\n" }' >columns.tsv
expect 0 "train: a word and its label in each line look like CoNLL" "they look like columns (CoNLL)" "$trf" train \
    --objective tag --tsv columns.tsv $encoder --model m
head -n 1 train.tsv >one.tsv
expect 0 "train: a file of one line is told" "warning: one.tsv has one line" "$trf" train --tsv one.tsv $small \
    --updates 1 \
    --model m
expect 2 "train: without an end few lines are named as the reason" "of fewer than 20 lines none is held out" \
    "$trf" train \
    --tsv one.tsv $model --threads 1 --model m
# 200 of 600 lines are Latin-1, then 400
latin() { awk -v n="$1" '{ if (NR <= n) printf "\374%s\n", $0; else print }' train.tsv; }
latin 200 >third.tsv
latin 400 >most.tsv
expect 0 "train: a third of the lines in Latin-1 is told, with the command" "iconv -f windows-1252 -t utf-8 third.tsv" \
    "$trf" train --tsv third.tsv $small --updates 1 --model m
rm -f m
expect 1 "train: more than half of the lines left out is refused" \
    "400 of 600 pairs are left out, more than a half: --allow-left-out trains on the others" \
    "$trf" train --tsv most.tsv $small \
    --updates 1 --model m
check "train: such a refusal leaves no model" test ! -e m
expect 0 "train: --allow-left-out goes on with the others" "warning: 400 of 600 pairs are left out" "$trf" train \
    --tsv most.tsv --allow-left-out $small --updates 1 --model m
awk '{ print (NR % 4 ? $0 : $0 " 1 1 1 1 1 1 1 1 1 1 1 1") }' train.digits >long.digits
expect 0 "train: lines that are too long name --max-length" "trf train: --max-length 9 allows 8 tokens" "$trf" train \
    --source long.digits --target train.names --tokens words --max-length 9 $small --updates 1 --model m

# --- lines unlike those of the training ------------------------------------------------------------------
expect 0 "train: a model of letters is made" "done:" "$trf" train --tsv letters.tsv --tokens characters $small \
    --updates 40 \
    --model letters
expect 0 "translate: lines longer than all sources of the training are counted" \
    "1 of 2 lines is longer than the longest source of the training, 5 tokens" \
    sh -c "printf '123456\n12\n' | '$trf' translate --model letters"
expect 0 "translate: a blank before a source that never had one is told" "1 of 2 lines begins or ends with a blank" \
    sh -c "printf ' 12\n12\n' | '$trf' translate --model letters"
expect 0 "translate: a tab in a source is told with its line" "standard input:2: a tab" \
    sh -c "printf '12\n12\tone\n' | '$trf' translate --model letters"
expect 0 "train: a model of labels is made" "done:" "$trf" train --tsv body.tsv --tokens words $labelled --model moods
expect 0 "classify: lines longer than all of the training are counted" \
    "longer than the longest source of the training, 3" \
    sh -c "echo 'good film 1 2 3' | '$trf' classify --model moods"
expect 0 "embed: lines longer than all of the training are counted" \
    "longer than the longest source of the training, 3" \
    sh -c "echo 'good film 1 2 3' | '$trf' embed --model moods"
expect 0 "translate: answers that repeat themselves are counted" "1 of 1 answer repeats itself" \
    sh -c "echo 1 | '$trf' translate --model letters --beam 1 --min-length 60 --max-length-b 70"
expect 0 "translate --json: an answer that repeats itself says so" '"doubts":\["repeats"' \
    sh -c "echo 1 | '$trf' translate --model letters --beam 1 --min-length 60 --max-length-b 70 --json"

# --- a file that is one document -----------------------------------------------------------------------------
cut -f 2 test.tsv >document
stream="--objective causal --documents file --tokens characters --d-model 16 --n-heads 2 --d-ff 32 --decoder-layers 1"
expect 0 "train: a language model of a file is made" "perplexity" "$trf" train $stream --text train.names \
    --valid-text document --max-length 40 --updates 20 --valid-every 20 --ema 0 --threads 1 --batch-tokens 256 \
    --model lm
cp err validated
expect 0 "score --documents file: a file has one line" "1 text, [0-9]* target tokens" "$trf" score --model lm \
    --documents file document
check "score --documents file: the perplexity is that of the validation" test \
    "$(sed -n 's/.* perplexity \([0-9]*[.][0-9]\).*/\1/p' validated | head -n 1)" = \
    "$(sed -n 's/.* perplexity \([0-9]*[.][0-9]\).*/\1/p' err)"

expect 2 "score --documents file: a model of pairs is refused" "^trf score: --documents file needs a language model" \
    "$trf" score --model letters --documents file letters.tsv

# --- runs that time ends -------------------------------------------------------------------------------------
timed="--tsv train.tsv $model --batch-tokens 256 --threads 1 --seed 5 --metric loss"
expect 0 "train --minutes: the warm-up fits into the updates" "updates fit into 0.05 minutes: warm-up" \
    "$trf" train $timed \
    --minutes 0.05 --log timed.log --checkpoint timed.checkpoint --model m
check "train --minutes: the plan is in the log" grep -q '"event":"plan","updates":[1-9]' timed.log
check "train --minutes: the warm-up is an eighth of the updates" eval \
    'grep "\"plan\"" timed.log |
    awk -F "[:,]" "NR == 1 { w = int(\$4 / 8); exit \$6 != (w < 1 ? 1 : w > 1000 ? 1000 : w) }"'
expect 0 "train --resume: a plan is not measured again" "resumed from update" "$trf" train $timed --minutes 0.08 \
    --checkpoint timed.checkpoint --resume --log timed.log --model m
check "train --resume: its log has no other plan of the first updates" test "$(grep -c '"plan"' timed.log)" -le 2
expect 0 "train --minutes: a cosine ends with the time" "updates fit into 0.04 minutes" "$trf" train $timed \
    --schedule cosine --minutes 0.04 --model m
expect 0 "train --minutes: a --warmup that was given stays, with a warning" \
    "warning: the learning rate rises for 900000 updates" \
    "$trf" train $timed --warmup 900000 --minutes 0.03 --model m

finish

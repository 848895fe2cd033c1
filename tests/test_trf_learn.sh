#!/bin/sh
# What trf train finds from the data: sh tests/test_trf_learn.sh PATH_OF_TRF
. "$(dirname "$0")/trf.sh"

tiny="--d-model 64 --n-heads 2 --d-ff 128 --threads 1"
between() { awk -v x="$3" -v low="$1" -v high="$2" 'BEGIN { exit !(x + 0 >= low && x + 0 <= high && x != "") }'; }

# The metric counts what the target has: Chinese is not parted by blanks, and of a glossary's two words none is a
# 4-gram.
awk 'BEGIN {
    split("今天 昨天 冬天 晚上 每天", time, " ")
    split("男孩 女孩 老师 医生 士兵 司机 我叔叔", who, " ");
    split("吃 买 卖 想要 看见 喜欢 画 找到", does, " ")
    split("米饭 茶 鱼 面包 苹果 汤 书 花 纸 鞋子", what, " "); x = 7;
    for (i = 0; i < 400; i++) {
        for (k = 0; k < 5; k++) { x = (x * 1103515245 + 12345) % 2147483648; r[k] = int(x / 65536) }
        print "t" r[0] % 5 " , s" r[1] % 7 " v" r[2] % 8 " o" r[3] % 10 " and o" r[4] % 10 " .\t" \
            time[r[0] % 5 + 1] ", " who[r[1] % 7 + 1] does[r[2] % 8 + 1] what[r[3] % 10 + 1] "和" \
            what[r[4] % 10 + 1] "。"
    } }' >unsegmented.tsv
if "$trf" train --help all | grep -q 'subwords'; then
    expect 0 "train does not judge unsegmented text by its words" 'validated every [0-9]* by \(chrf\|cer\)' \
        "$trf" train --tsv unsegmented.tsv --model zh $tiny --encoder-layers 1 --decoder-layers 1 --updates 2
fi
awk 'BEGIN { for (i = 0; i < 300; i++) print "w" i " of it\tder w" i * 7 % 300 }' >glossary.tsv
expect 0 "train does not judge a glossary by BLEU" 'validated every [0-9]* by \(wer\|chrf\|cer\)' \
    "$trf" train --tsv glossary.tsv --tokens words --model glossary $tiny --encoder-layers 1 --decoder-layers 1 \
    --updates 2
expect 0 "train tells that BLEU finds no 4-gram in the references" 'no reference has four words: BLEU' \
    "$trf" train --tsv glossary.tsv --tokens words --metric bleu --model glossary.2 $tiny --encoder-layers 1 \
    --decoder-layers 1 --updates 2
printf 'a b c\nd e\n' >three
printf 'a b c d\nd e\n' >four
expect 0 "eval tells that BLEU finds no 4-gram in the references" 'no reference has four words: BLEU' \
    "$trf" eval three three
expect 0 "eval takes references with a 4-gram" '' "$trf" eval four three
check "eval says nothing of BLEU where references have a 4-gram" sh -c '! grep -q "four words" err'

# Probabilities are not smoothed where they are the product, but where they are not they still are.
awk 'BEGIN { for (i = 0; i < 1000; i++) print "the quick brown fox jumps over the lazy dog" }' >fox
expect 0 "train makes a language model of one line" '' "$trf" train --objective causal --text fox --tokens characters \
    --model fox.m $tiny --decoder-layers 2 --updates 250 --warmup 50
expect 0 "generate draws 100 samples from a language model of one line" '' \
    "$trf" generate --model fox.m --count 100 --seed 1 --output fox.out
check "90 to 100 of 100 samples are the line that the model learned" between 90 100 \
    "$(grep -c -x 'the quick brown fox jumps over the lazy dog' fox.out)"
check "no sample of a language model of one line has <unk>" sh -c '! grep -q "<unk>" fox.out'
smoothing() { grep -a -o '"trf.train.label_smoothing":"[^"]*"' "$1" | tr -d '"' | cut -d: -f2; }
check "a language model has label smoothing 0 by default" test "$(smoothing fox.m.checkpoint)" = 0
check "a translation model has label smoothing 0.1 by default" between 0.09 0.11 "$(smoothing glossary.checkpoint)"
expect 0 "train takes --label-smoothing 0.2 for a language model" '' "$trf" train --objective causal --text fox \
    --tokens characters --model fox.s $tiny --decoder-layers 1 --updates 2 --label-smoothing 0.2
check "--label-smoothing 0.2 for a language model stays 0.2" between 0.19 0.21 "$(smoothing fox.s.checkpoint)"

# A chunk is as long as the model's longest sequence, and beyond the longest text of the training nothing is promised.
chunk() { grep -a -o '"option.chunk":"[^"]*"' "$1" | tr -d '"' | cut -d: -f2; }
check "the default of --chunk is the default of --max-length minus 1" test "$(chunk fox.m.checkpoint)" = 511
expect 0 "train takes --max-length 100 for a language model" '' "$trf" train --objective causal --text fox \
    --documents file --max-length 100 --tokens characters --model fox.100 $tiny --decoder-layers 1 --updates 2
check "the default of --chunk is 99 where --max-length is 100" test "$(chunk fox.100.checkpoint)" = 99
expect 0 "generate writes as much as the longest training text has" '' \
    "$trf" generate --model fox.100 --max-tokens 99 --seed 1
check "generate says nothing of a text as long as the longest training text" \
    sh -c '! grep -q "longest training text" err'
expect 0 "generate tells of a text longer than the longest training text" \
    '1 of 1 text is longer than the longest training text, 44 tokens' \
    "$trf" generate --seed 1 --model fox.m --prompt 'the quick brown fox jumps over the lazy dog the' --max-tokens 3
printf 'the quick brown fox jumps over the lazy dog\nthe quick brown fox jumps over the lazy dog the quick\n' >score.in
expect 0 "score tells of a text longer than the longest training text" \
    '1 of 2 texts is longer than the longest training text, 44 tokens' "$trf" score --model fox.m --target score.in

# Data in rows of two: validation sees both kinds, in either phase.
for phase in 0 1; do
    awk -v phase=$phase 'BEGIN {
        split("dog cat cow hen", animal, " "); split("red blue green gold", colour, " ");
        c = "bcdfgklmnprst"; v = "aeiou"; x = 5;
        for (i = 0; i < 600; i++) {
            for (k = 0; k < 8; k++) { x = (x * 1103515245 + 12345) % 2147483648; r[k] = int(x / 65536) }
            n = animal[r[0] % 4 + 1];
            if (i % 2 == phase) {
                n = ""
                for (k = 1; k < 7; k += 2) n = n substr(c, r[k] % 13 + 1, 1) substr(v, r[k + 1] % 5 + 1, 1)
            }
            print colour[r[7] % 4 + 1] " " n "\t" n " " colour[r[7] % 4 + 1]
        } }' >rows.tsv
    expect 0 "train takes two kinds of rows in turn, phase $phase" '' "$trf" train --tsv rows.tsv --tokens words \
        --min-count 3 --model rows.$phase $tiny --encoder-layers 1 --decoder-layers 1 --warmup 50 --updates 250
    check "validation sees both kinds of rows: half of its words are unknown, phase $phase" between 11 39 \
        "$(sed -n 's/.*best: update [0-9]*, wer \([0-9.]*\) %;.*/\1/p' err)"
done
awk 'BEGIN { for (i = 0; i < 500; i++) print i % 5 != 1 ? "a b c\tx y z" : "n" i " m" i "\tx y z" }' >fives.tsv
expect 0 "train takes rows of which every fifth is of another kind" \
    "source: subwords\\|source: characters\\|of the source" \
    "$trf" train --tsv fives.tsv --model fives.m $tiny --encoder-layers 1 --decoder-layers 1 --updates 2 --valid-size 0

# A training run that goes on keeps the pairs that it held out. Without its note a checkpoint is of the time of the
# comb.
pairs 300 5 >held.tsv
expect 0 "train holds out pairs and writes a checkpoint" '' \
    "$trf" train --tsv held.tsv --model held.m $small --updates 10
expect 0 "train --resume goes on with pairs held out" '' \
    "$trf" train --tsv held.tsv --model held.m $small --updates 20 --resume
check "train --resume holds out the same pairs" sh -c '! grep -q "validation pairs or their scoring have changed" err'
expect 0 "train --valid-size 37 writes a checkpoint" '' "$trf" train --tsv held.tsv --model size.m $small --updates 10 \
    --valid-size 37
expect 0 "train --resume without --valid-size holds out 37 pairs again" 'held out: 37 of 300' \
    "$trf" train --tsv held.tsv --model size.m $small --updates 20 --resume
check "train --resume without --valid-size holds out the same 37 pairs" \
    sh -c '! grep -q "validation pairs or their scoring have changed" err'
expect 0 "train --valid-size 0 writes a checkpoint" '' "$trf" train --tsv held.tsv --model size.n $small --updates 10 \
    --valid-size 0
expect 0 "train --resume without --valid-size holds out no pair again" 'not validated' \
    "$trf" train --tsv held.tsv --model size.n $small --updates 20 --resume
awk 'BEGIN { for (i = 0; i < 300; i++) print "n" i " a\tm" i }' >all.tsv
awk 'NR % 20 == 11' all.tsv >comb.tsv           # every twentieth: what (k + 0.5) n / picks was
awk 'NR % 20 != 11' all.tsv >rest.tsv
expect 0 "train validates on every twentieth pair and writes a checkpoint" '' \
    "$trf" train --tsv rest.tsv --valid-tsv comb.tsv --model old.m $small --updates 10
sed 's/training\.picks/training.pickx/' old.m.checkpoint >old && mv old old.m.checkpoint
expect 0 "train --resume takes a checkpoint without the note of pairs held out" '' \
    "$trf" train --tsv all.tsv --model old.m $small --updates 20 --resume
check "a checkpoint without the note of pairs held out holds out every twentieth pair" \
    sh -c '! grep -q "other pairs are held out" err'
expect 0 "train --resume goes on a second time after a checkpoint without the note" '' \
    "$trf" train --tsv all.tsv --model old.m $small --updates 30 --resume
check "a second time after a checkpoint without the note, the same pairs are held out" \
    sh -c '! grep -q "other pairs are held out" err'

finish

#!/bin/sh
# trf train: sh tests/test_trf_train.sh build/trf
#
# The same data in other files, on other threads, recomputed, or in two runs give the same bytes;
# seeds and their averages; validation, metrics and patience; updates that are not finite; lines of
# progress, on a terminal and every 30 seconds; models of characters, and what trf inspect shows.

. "$(dirname "$0")/trf.sh"

trf=$anew

# An update and data that take longer than 30 seconds, in make check-all only: the last section reads
# their messages. The update is stopped meanwhile, so that it needs no processor.
if [ -n "${TRF_TEST_ALL:-}" ]; then
    nice "$trf" train --tsv train.tsv $small --accumulate 100000000 --updates 1 --model forever \
        --checkpoint '' 2>waiting &
    waiting=$!
    trap 'kill -KILL $waiting 2>/dev/null; rm -rf "$here"' EXIT
    : >reading
    { wait_for "^reading the data" reading >/dev/null; cat train.tsv; } |
        nice "$trf" train --tsv /dev/stdin $small --updates 1 --model slowly 2>reading &
    reading=$!
    wait_for "^[0-9]* pairs" waiting
    wait_busy $waiting 10
    kill -STOP $waiting
    (sleep 31; kill -CONT $waiting) &
fi

# --- the same bytes from files, TSV and a pipe, on two threads, in two runs ---------------------
expect 0 "training shows progress" "update 40 .*loss .*lr .*tokens/s.*left" "$trf" train $files $small --updates 40 \
    --model one
expect 0 "the first half of a training" "done: 20 updates" "$trf" train $files $small --updates 20 --model two
expect 0 "the second half of a training" "resumed from update 21" "$trf" train $files $small --updates 40 \
    --model two --resume
check "resumed = straight" same one two
check "the checkpoint of two halves is that of one run" same one.checkpoint two.checkpoint
wide="$files $model --batch-tokens 256 --warmup 20 --seed 5 --updates 40 --valid-every 0"
expect 0 "training in 16 bits" "^precision: bf16, by " "$trf" train $wide --precision bf16 --threads 1 \
    --model half
"$trf" train $wide --precision bf16 --threads 2 --model half2 2>/dev/null
check "training in 16 bits makes the same model on two threads" same half half2
expect 0 "training in 32 bits" "done: 40 updates" "$trf" train $wide --threads 1 --precision float32 --model whole32
check "training in 32 bits tells no precision" sh -c '! grep -q "^precision:" err'
half_way="$files $model --batch-tokens 256 --warmup 20 --seed 5 --updates 20 --valid-every 0 --threads 1"
"$trf" train $wide --threads 1 --precision auto --model auto 2>err
if grep -q '^precision: bf16, by AMX, which is faster (--precision float32: the same bits' err; then
    check "--precision auto is bf16 with AMX" same half auto
else
    check "--precision auto is float32 without AMX, and tells nothing" \
        sh -c '! grep "^precision" err && cmp whole32 auto'
fi
"$trf" train $half_way --precision bf16 --model cut 2>/dev/null
expect 0 "--resume keeps 16 bits without the option" "^precision: bf16, .*as before (--precision float32 changes it)" \
    "$trf" train $wide --threads 1 --model cut --resume
check "a training in 16 bits that is resumed makes the same model" same half cut
"$trf" train $half_way --precision float32 --model cut 2>/dev/null
"$trf" train $wide --threads 1 --model cut --resume --precision auto 2>/dev/null
check "--resume keeps 32 bits, whatever auto would be" same whole32 cut
check "16 bits make another model than 32" sh -c '! cmp -s half whole32'
expect 0 "train from TSV, recomputing" "" \
    "$trf" train --tsv train.tsv $small --recompute yes --updates 40 --model tsv --checkpoint ''
check "TSV and recomputing = two files" same one tsv
check "--checkpoint '' writes no checkpoint" test ! -e tsv.checkpoint
megabytes() { sed -n 's/.*; \([0-9]*\) MB of memory.*/\1/p' "$1"; }
"$trf" train --tsv train.tsv --threads 1 --updates 1 --model planned 2>once
"$trf" train --tsv train.tsv --threads 1 --updates 2 --model planned --resume 2>again
check "a training that goes on takes as much memory" test "$(megabytes once)" -gt 0 -a "$(megabytes once)" = \
    "$(megabytes again)"
cat train.tsv | "$trf" train --tsv - $short --seed 5 --threads 2 --updates 40 --model pipe 2>err
check "train from a pipe" test $? -eq 0
check "pipe and two threads = two files" same one pipe
expect 0 "training with another seed" "" "$trf" train --tsv train.tsv $short --threads 1 --seed 6 --updates 40 \
    --model other
check "another seed is another model" test "$(cmp -s one other; echo $?)" -eq 1
expect 1 "resume with another model" "--d-model 16" \
    "$trf" train $files $brief --d-model 32 --updates 50 --model two --resume
expect 1 "resume with other data" "resume needs the " "$trf" train --tsv test.tsv $small --updates 50 \
    --model two --resume
expect 1 "resume from nothing" "none.checkpoint" "$trf" train $files $small --updates 50 \
    --model none --resume
expect 0 "the end of the epochs" "done: [0-9]* updates" \
    "$trf" train $files $small --epochs 2 --accumulate 3 --model epochs

# --- seeds --------------------------------------------------------------------------------------
unseeded=$(echo $small | sed 's/--seed 5//')
expect 0 "training without a seed" "" "$trf" train $files $unseeded --updates 40 --model plain
expect 0 "training with seed 1" "" "$trf" train $files $unseeded --seed 1 --updates 40 --model seeded
check "the default seed is 1" same plain seeded
expect 0 "training without a seed, first half" "" "$trf" train $files $unseeded --updates 20 --model halves
expect 0 "training without a seed, second half" "resumed" "$trf" train $files $unseeded --updates 40 \
    --model halves --resume
check "without a seed, resumed = straight" same plain halves
expect 0 "training with several seeds" "2 seeds: loss mean [0-9.]*, deviation [0-9.]*, best" \
    "$trf" train --tsv train.tsv $short --seed 5 --threads 1 --seeds 2 --updates 20 --model many
expect 0 "a seed alone" "" "$trf" train --tsv train.tsv $short --seed 6 --threads 1 --updates 20 \
    --model six
check "a seed among several makes the model that it makes alone" same six many.seed-6
check "the best of several seeds is the model" sh -c 'cmp -s many many.seed-5 || cmp -s many many.seed-6'
expect 0 "an average of models" "" "$trf" average many.seed-5 many.seed-6 --output mean
numbers() { "$trf" inspect --json "$1" | sed 's/.*"src_embed.weight"[^}]*"mean":\([^,]*\).*/\1/'; }
check "an average is the mean of the numbers" awk -v a="$(numbers many.seed-5)" -v \
    b="$(numbers many.seed-6)" -v mean="$(numbers mean)" \
    'BEGIN { d = mean - (a + b) / 2; exit !(a != b && d < 1e-8 && d > -1e-8) }'
expect 0 "an average translates" "" "$trf" score --model mean --tsv test.tsv
expect 0 "an average of one model, twice" "" "$trf" average one one --output same
check "an average of one model is that model" same one same
cp train.tsv precious
expect 1 "seeds over the data" "is the file that --tsv reads" "$trf" train --tsv precious $model \
    --seeds 2 --updates 1 --model precious
check "data that --seeds would replace stay whole" same precious train.tsv
expect 2 "seeds of a pipe" "so '-' cannot be used" "$trf" train --tsv - $model --seeds 2 --updates 1 \
    --model m
expect 0 "a seed more" "seed 7:" "$trf" train --tsv train.tsv $short --seed 5 --threads 1 \
    --seeds 3 --updates 20 --model many --resume
check "one seed more has a model" test -e many.seed-7
expect 0 "seeds that nothing compares" "2 seeds, but no validation" "$trf" train \
    --tsv train.tsv $small --updates 0 --seeds 2 --model nothing
expect 2 "a beginning that a later seed removes" "choose another name" "$trf" train \
    $rough --init-from many.seed-6.update-5 --seeds 2 --seed 5 --updates 1 --model many
expect 1 "a seed that would replace what --init-from reads" "is the file that --init-from reads" "$trf" train $rough \
    --init-from many.seed-6 --seeds 2 --seed 5 --updates 1 --model many
check "what a seed would replace is told before the first seed begins" test "$(grep -c '^seed' err)" -eq 0
expect 2 "seeds from a pipe" "so '/dev/stdin' cannot be used" \
    sh -c "cat train.tsv | '$trf' train --tsv /dev/stdin $quick --seeds 2 --updates 2 --model m"
"$trf" train $plain --seeds 3 --updates 20 --model told 2>err
sed -n 's/.*best: update 20, loss \([0-9.]*\);.*/\1/p' err >losses
tail -n 1 err >err.last
check "mean and deviation of seeds" \
    awk '{ sum += $1; squares += $1 * $1; n++ } END { getline <"err.last"; split($0, w, "[ ,]+")
    for (i in w) { if (w[i] == "mean") m = w[i + 1]; if (w[i] == "deviation") d = w[i + 1] }
    e = m - sum / n; f = d * d - (squares - sum * sum / n) / (n - 1)
    exit !(n == 3 && d > 0 && e < 2e-4 && e > -2e-4 && f < 1e-4 && f > -1e-4) }' losses

# --- characters, one vocabulary, conventions, trf inspect ---------------------------------------
expect 0 "characters to words" "14 source and 14 target tokens" \
    "$trf" train --tsv letters.tsv --source-tokens characters $small --updates 10 --model letters
expect 0 "one vocabulary of letters and words" "^target: characters" "$trf" train \
    --tsv letters.tsv --recipe paper --size tiny --updates 1 --model m
echo 123 | "$trf" translate --model letters --beam 1 >out 2>err
check "a model of characters translates" lines_are 1 out
expect 0 "words to characters" "" \
    "$trf" train $files --target-tokens characters $small --updates 2 --model spell
expect 0 "inspect shows a model of characters" "target vocabulary: [0-9]* characters" "$trf" inspect spell
expect 0 "training with the paper's conventions" "24 source and 24 target" "$trf" train $files $small \
    --conventions paper \
    --updates 3 --model paper
expect 0 "inspect shows the paper's conventions" "  --tying all" "$trf" inspect paper
check "conventions are in the file" grep -q "  --norm-epsilon 1e-06" out
expect 2 "one vocabulary of two kinds" "one vocabulary" \
    "$trf" train $files $small --joint-vocabulary yes --target-tokens characters --updates 1 \
    --model m
expect 0 "--vocab-size limits a vocabulary" "8 source and 14 target" \
    "$trf" train $files $small --source-vocab-size 8 --updates 1 --model m
expect 0 "inspect shows a model" "source vocabulary: 14 characters" "$trf" inspect letters
check "inspect lists tensors" grep -q "encoder.layers.0.linear1.weight  F32  (32, 16)  512" out
check "inspect counts weights" grep -q "^weights: [0-9]* in [0-9]* parameters" out
check "inspect shows parts of the weights" grep -q "  encoder self-attention  *1088 " out
expect 0 "inspect a checkpoint" "training: 40 updates so far" "$trf" inspect one.checkpoint
check "inspect shows the settings of a checkpoint" grep -q "  --warmup 20" out
check "a vocabulary is bytes" grep -q "trf.target_vocab  U8  " out
# 1, 2, -3 and infinity as F16 and BF16
printf '\252\0\0\0\0\0\0\0%s%s%s\0\74\0\100\0\302\0\174\200\77\0\100\100\300\200\177' \
    '{"half":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]},' \
    '"brain":{"dtype":"BF16","shape":[4],"data_offsets":[8,16]},' \
    '"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' >halves
expect 0 "inspect counts numbers that are not finite" "3 tensors, 8 numbers, 2 of them not finite" "$trf" inspect halves
expect 0 "inspect shows 16-bit floats" "half  F16  (2, 2)  4  0  2.16  -3  2  1 NOT FINITE" "$trf" inspect halves
expect 0 "inspect shows bfloat16" "brain  BF16  (4)  4  0  2.16  -3  2  1 NOT FINITE" "$trf" inspect halves
head -c 2000 one >cut
if command -v python3 >/dev/null; then
    check "inspect halves is JSON" \
        sh -c "'$trf' inspect halves --json | python3 -c 'import json, sys; json.load(sys.stdin)'"
fi
expect 1 "inspect half a file" "cut" "$trf" inspect cut
expect 1 "inspect a text" "test.tsv: .*safetensors" "$trf" inspect test.tsv
printf abc >abc
expect 1 "inspect three bytes" "abc: not a safetensors file, or truncated: it has 3 bytes, fewer than 8" \
    "$trf" inspect \
    abc
"$trf" train --tsv train.tsv $model --batch-tokens 2000000 --updates 0 --model vast 2>/dev/null
expect 0 "inspect a checkpoint of a large trainer in little memory" "^weights: " \
    sh -c "ulimit -v 400000; '$trf' inspect vast.checkpoint"
expect 0 "training on letters" "validated every [0-9]* by cer" "$trf" train --tsv letters.tsv $model \
    --tokens characters --updates 2 --threads 1 --model letters
expect 0 "letters of one training are letters in the next" "validated every [0-9]* by cer" "$trf" train \
    --tsv letters.tsv --init-from letters --updates 2 --threads 1 --model m
expect 0 "a model of short texts" "^done" "$trf" train --objective causal --text train.names \
    --d-model 16 --n-heads 2 --d-ff 32 --decoder-layers 1 --max-length 8 --updates 2 --threads 1 \
    --model brief
expect 0 "chunks of a model of short texts are as short" "^done" "$trf" train --objective causal --text train.names \
    --init-from brief --updates 2 --threads 1 --model m
expect 1 "an average of two vocabularies" "different vocabularies" "$trf" average one letters --output m
"$trf" train $files $brief --threads 1 --d-model 24 --n-heads 2 --updates 1 --model wider \
    2>/dev/null
expect 1 "an average of two kinds of models" "one has --d-model [0-9]*, but wider has [0-9]*: " \
    "$trf" average one wider \
    --output m
expect 2 "an average of nothing" "two or more models" "$trf" average one --output m
expect 1 "an average written to a folder" "" "$trf" average one letters --output .
expect 1 "over one of them" "is also a model to read" "$trf" average one same \
    --output ./same
expect 0 "an average of checkpoints" "" "$trf" average one.checkpoint two.checkpoint --output mean2
check "knows nothing of their training" \
    test "$("$trf" inspect mean2 | grep -c 'training\.\|option\.')" -eq 0

# --- validation: pairs held out, metrics, the best model, patience ------------------------------
expect 0 "only the loss gets better" "(--updates reached)" "$trf" train $files $model \
    --batch-tokens 256 --warmup 50 --metric exact \
    --patience 3 --valid-every 5 --updates 60 --threads 1 --seed 5 --ema 0.5 --model m
expect 0 "pairs of their own to validate on, the mean of the last" "^mean of 2 models" "$trf" \
    train $files $model --batch-tokens 256 \
    --valid-source test.digits --valid-target test.names --valid-every 5 --average 2 \
    --average-of last --updates 20 --threads 1 --model m
check "with pairs to validate on none is held out" test -z "$(grep 'held out' err)"
expect 0 "pairs are held out" "held out: 3[0-9] of 600 pairs" "$trf" train --tsv train.tsv $model \
    --threads 1 --updates 2 --model m
check "short answers are judged by their errors" grep -q "validated every [0-9]* by wer" err
expect 0 "no pair is held out" "not validated" "$trf" train --tsv train.tsv $small --valid-size 0 \
    --updates 2 --model m
expect 1 "all pairs held out" "leaves none" "$trf" train --tsv train.tsv $small --valid-size 600 \
    --updates 2 --model m
printf 'a b\tx\na b\ty\nc\tz\nd\tz\n' >twice.tsv
awk 'BEGIN { for (i = 0; i < 40; i++) print "w" i "\t" "x" }' >>twice.tsv
awk 'BEGIN { for (i = 0; i < 40; i++) print "often\tx" }' >>twice.tsv
expect 0 "a source is on one side only" "held out: 10 of 84" "$trf" train --tsv twice.tsv $small \
    --valid-size 10 --updates 1 --model m
for metric in bleu chrf exact wer cer loss; do
    expect 0 "training with metric $metric" "validation: update 4 .*" \
        "$trf" train --tsv train.tsv $model --threads 1 --metric $metric --updates 4 --model metric
    check "$metric is told" grep -q "done: .*best: update 4, $metric [0-9.]*" err
done
expect 0 "--patience ends the training" "no better score in --patience validations" "$trf" train \
    --tsv train.tsv $model \
    --threads 1 \
    --schedule constant --learning-rate 1e-30 --warmup 1 --valid-every 5 --patience 3 \
    --metric loss --ema 0 --model patient
check "three times without gain" grep -q "done: 20 updates" err
expect 0 "--cooldown goes on while the rate falls" "the rate falls until update 21$" "$trf" train --tsv train.tsv \
    $model --threads 1 --schedule constant --learning-rate 1e-30 --warmup 1 --valid-every 5 --patience 2 \
    --metric loss --ema 0 --cooldown 0.4 --log cool.json --log-every 1 --model cool
check "its last update has a rate of 0" grep -q '"update":21,.*"learning_rate":0,' cool.json
expect 0 "a rate that has fallen stays" "the rate has fallen to its end" "$trf" train --tsv train.tsv --threads 1 \
    --model cool --resume
expect 2 "--cooldown without patience" "begins where --patience would end training" "$trf" train --tsv train.tsv \
    $small --updates 5 --cooldown 1 --model warm
expect 2 "--cooldown with a cosine" "whose rate falls anyway" "$trf" train --tsv train.tsv $small --updates 5 \
    --schedule cosine --cooldown 1 --model warm
expect 2 "a long --cooldown" "from 0 to 10, got 11" "$trf" train --tsv train.tsv $small --cooldown 11 --model warm
expect 0 "after --patience nothing is left to do" "done: 0 updates" "$trf" train --tsv train.tsv --threads 1 \
    --model patient --resume
expect 0 "more patience goes on" "done: 10 updates" "$trf" train --tsv train.tsv --threads 1 \
    --model patient --resume --patience 5
expect 0 "--minutes ends the training" "--minutes reached" "$trf" train --tsv train.tsv $small --minutes 0.01 --model m
expect 0 "a cosine over fewer updates than the usual warm-up" "^done" "$trf" train --tsv train.tsv \
    $model --batch-tokens 256 --metric loss \
    --schedule cosine --total-steps 30 --updates 30 --model m
expect 0 "no update at all" "done: 0 updates.*model in none" "$trf" train --tsv train.tsv $small \
    --updates 0 --model none
check "a training without an update misses no file" test "$(grep -c "not there any more" err)" -eq 0
expect 0 "a training without an update and without validation" "not validated" "$trf" train --tsv train.tsv $small \
    --valid-size 0 \
    --updates 0 --model none
expect 2 "a beam beyond all limits is told before the training" "beam must be between 1 and" \
    "$trf" train --tsv train.tsv $model --threads 1 --metric wer --valid-beam 100000 --updates 200 \
    --model m
check "a beam beyond all limits is told before the first update" test "$(grep -c "^update [0-9]" err)" -eq 0
expect 0 "an order that is too long" \
    "warning: the rate rises for 20 updates, but there are only 10" \
    "$trf" train --tsv train.tsv $small --updates 10 --model m
expect 0 "an average of weights" "" "$trf" train --tsv train.tsv $small --ema 0.5 --updates 40 \
    --model smooth
check "an average of weights is another model" test "$(cmp -s one smooth; echo $?)" -eq 1
check "an unvalidated one needs no file beside the model" test ! -e smooth.update-40
awk 'BEGIN { for (w = 0; w < 100; w++) for (i = 0; i < 4; i++) print "w" w "\tx" i }' \
    >dictionary.tsv
expect 0 "four lines a word" "held out: 20 of 400 pairs" "$trf" train --tsv dictionary.tsv $small \
    --updates 1 --model m
awk 'BEGIN { for (i = 0; i < 4000; i++) print "word" int(i / 2) "\tsaid " i % 7 }' >twice.tsv
expect 0 "nearly all of a text in which all stands twice" "held out: [0-9]* of 4000" "$trf" train \
    --tsv twice.tsv $model --threads 1 --valid-size 3999 \
    --updates 0 --model m
awk 'BEGIN { for (i = 0; i < 600; i++) print "word" int(i / 3) "\tsaid " i % 7 " and " i % 11 }' \
    >dictionary.tsv
expect 0 "most of a dictionary" "held out: [1-5][0-9][0-9] of 600" "$trf" train \
    --tsv dictionary.tsv $model --threads 1 --valid-size 500 --updates 1 --model m
expect 0 "small batches of long pairs" "at most [2-9] tokens a side" "$trf" train $files $model \
    --threads 1 --batch-tokens 1 --updates 1 --model m
"$trf" train $plain --valid-every 10 --keep-models 99 --average 3 --ema 0 --learning-rate 0.3 \
    --updates 100 --model chosen --log chosen.json 2>err
sed -n \
    's/.*"validation","update":\([0-9]*\),"loss":\([^,]*\),"nll":\([^,]*\),"perplexity":\([^,]*\),.*/\1 \2 \3 \4/p' \
    chosen.json >scores
check "a perplexity is that of the text" \
    awk \
    '{ e = exp($3) - $4; bad += !(e < 1e-4 * $4 && -e < 1e-4 * $4) } END { exit !(NR == 10 && !bad) }' \
    scores
check "scores that fall and rise" eval \
    '[ "$(sort -g -k 2 scores | head -n 3 | cut -d" " -f1 | sort -n | tr "\n" " ")" != "80 90 100 " ]'
"$trf" average $(sort -g -k 2 scores | head -n 3 | sed 's/\([0-9]*\).*/chosen.update-\1/') \
    --output three
if grep -q "and is kept" err; then best=$(sort -g -k 2 scores | head -n 1 | cut -d' ' -f1); cp \
    chosen.update-$best three; fi
check "the mean of models has the best of scores that fall and rise" eval '[ "$(numbers chosen)" = "$(numbers three)" ]'

# --- what the recipe decides --------------------------------------------------------------------
expect 0 "the paper's recipe has its base model" \
    "^model: 6 encoder and 6 decoder layers, d_model 512, d_ff 2048, 8 heads, post-norm, tying all, "\
"no generator bias; ema 0$" \
    "$trf" train $files --recipe paper --updates 0 --threads 1 --checkpoint '' --model m
expect 0 "a log that is no file" "^done" "$trf" train $files $model --batch-tokens 256 --updates 1 \
    --threads 1 --log /dev/null --model m
"$trf" train --tsv train.tsv --threads 1 --updates 0 --log decided.json --model none 2>err
for option in norm-place generator-bias schedule attention-dropout activation-dropout ema; do
    value=$(sed -n "1s/.*\"$option\":\"\([^\"]*\)\".*/\1/p" decided.json)
    check "the help's default of --$option, '$value', is what the recipe decides" eval \
        '[ -n "$value" ] &&
        "$trf" train --help all | tr "\n" " " | tr -s " " | sed "s/.* --$option //; s/ --[a-z].*//" |
        grep -q "(default $value with"'
done
check "the help's default of --norm-place tells what presets decide" eval \
    '"$trf" train --help all | tr "\n" " " | tr -s " " |
    grep -q "with --recipe auto; pytorch: post-norm; paper: post-norm"'
awk 'BEGIN {
    for (i = 0; i < 90000; i++)
        printf "%d %d %d %d %d\t%d %d %d %d %d\n", i % 7, i % 11, i % 13, i % 17, i % 19,
            i % 19, i % 17, i % 13, i % 11, i % 7
}' >symbols.tsv
expect 0 "a million symbols" \
    "^model: 4 encoder and 4 decoder layers, d_model 128, d_ff 512 ([0-9]* tokens of few symbols)" \
    "$trf" train --tsv symbols.tsv --updates 0 --threads 1 --model m
check "in batches of an eight-hundredth" grep -q "at most 667 tokens a side in an update" err
expect 0 "with a width of its own" "d_ff 32" "$trf" train --tsv symbols.tsv --d-ff 32 --updates 0 \
    --threads 1 --model m
expect 0 "the paper by another schedule" "inverse-sqrt, peak 0.00221 after" "$trf" train $files \
    --recipe paper --size tiny --schedule inverse-sqrt \
    --updates 0 --model m
expect 0 "the paper with fewer layers" \
    "6 encoder and 2 decoder layers, d_model 512, d_ff 2048, 8 heads" "$trf" train $files \
    --recipe paper \
    --decoder-layers 2 --updates 0 --checkpoint '' --model m
expect 0 "the paper with two vocabularies" "tying decoder" "$trf" train $files --recipe paper \
    --size tiny --joint-vocabulary no --updates 0 --model m
check "the paper with two vocabularies has two" grep -q "14 source and 14 target tokens" err

# --- consistency --------------------------------------------------------------------------------
alike="--tsv train.tsv $small --consistency 2"
expect 0 "training with consistency" "update 20 .*loss " "$trf" train $alike --updates 20 --model alike --log alike.log
check "the log has the divergence" eval 'test $(grep -c "\"divergence\":0\.[0-9]*[1-9]" alike.log) -ge 2'
"$trf" train $alike --updates 10 --model alike2 2>/dev/null
expect 0 "the second half keeps consistency" "resumed from update 11" "$trf" train --tsv train.tsv $small \
    --updates 20 --model alike2 --resume
check "consistency: resumed = straight" same alike alike2
expect 0 "consistency without dropout warns" "no dropout is set: it changes nothing" \
    "$trf" train $alike --dropout 0 --updates 1 --model alone
"$trf" train --tsv train.tsv $small --updates 5 --model usual --log usual.log 2>/dev/null
check "other logs have none" eval '! grep -q divergence usual.log'

# --- updates that are not finite, rates that are too high ---------------------------------------
wild="$model $brief --threads 1 --schedule constant --learning-rate 1e5 --initial-rate 1e5 \
    --warmup 1 --clip-norm 1e300"
expect 0 "updates that go astray" \
    "update [0-9]* skipped: .* is not finite; further ones are only counted" \
    "$trf" train --tsv train.tsv $wild --updates 20 --model wild
grep "update [0-9]* skipped: " err >told
check "five of them are told" lines_are 5 told
check "skipped updates beyond the first five are counted" grep -q "^skipped: [0-9]* of these updates" err
expect 0 "nothing but skipped updates" "update 30  epoch [0-9]*  loss -  .*" \
    "$trf" train --tsv train.tsv $wild --updates 30 --model wild --resume
check "a training of skipped updates alone counts them" grep -q "^skipped: 10 of these updates" err
"$trf" train --tsv train.tsv $wild --valid-every 10 --updates 20 --model tossed 2>/dev/null
"$trf" train --tsv train.tsv $wild --valid-every 10 --updates 30 --model tossed --resume 2>/dev/null
"$trf" train --tsv train.tsv $wild --valid-every 10 --updates 30 --model at.once 2>/dev/null
check "skipped updates count as in a run without a break" same at.once.checkpoint tossed.checkpoint
expect 1 "a training of skipped updates ends in an error" "no model is written" "$trf" train --tsv train.tsv \
    --init-from wild \
    --metric loss --patience 2 --valid-every 3 --seed 5 \
    --threads 1 --model endless
cp one stays
expect 1 "nothing but skipped updates from the beginning" "no model is written" \
    "$trf" train --tsv train.tsv --init-from wild --metric loss --seed 5 --threads 1 --updates 3 \
    --model stays
check "a training of skipped updates leaves the old model" same one stays
high="$model --batch-tokens 256 --threads 1 --schedule constant --learning-rate 1e5 \
    --initial-rate 1e5 --warmup 1 --clip-norm 1e300"
expect 1 "a hundred updates left out in a row" \
    "the last 100 updates were skipped: the rate of 1e+05 is too high" \
    "$trf" train --tsv train.tsv $high --metric loss --updates 3000 --log-every 50 --model high
check "end the training" eval '! grep -q "^update 250" err'
losing="$model --batch-tokens 256 --threads 1 --metric loss --schedule constant \
    --learning-rate 1e6 --initial-rate 1e6 --warmup 1 --clip-norm 1e300
        --optimizer adamw --weight-decay 1 --decay-all yes --ema 0"
"$trf" train --tsv train.tsv $losing --valid-every 5 --patience 2 --model lost --checkpoint '' \
    --log lost.json --minutes 0.5 2>err
check "a loss that is no number is no gain" grep -q "no better score in --patience validations\|--patience" err
check "losses that are no numbers end the training" grep -q '"why":"patience"' lost.json
"$trf" train $wild --tsv train.tsv --init-from lost --updates 3 --model gone --log gone.json \
    2>/dev/null
check "an error has an end too" grep -q '"event":"end","why":"error"' gone.json

# --- the time that is left ----------------------------------------------------------------------
expect 0 "too short a time for the warm-up" \
    "the learning rate rises for 5000 updates, but there are only" \
    "$trf" train $files $model --batch-tokens 256 --threads 1 --warmup 5000 --log-every 5 \
    --minutes 0.02 --model m
expect 0 "too few updates for the paper's warm-up" "rises for 4000 updates, but there are only" \
    "$trf" train $files --recipe paper --size tiny --updates 2 --threads 1 --model m
expect 0 "minutes that are enough" "20 updates" "$trf" train --tsv train.tsv $model --metric loss \
    --threads 1 --warmup 15 --log-every 5 --updates 20 --minutes 600 --model m
check "enough minutes are not blamed" test "$(grep -c 'in --minutes' err)" -eq 0

# --- progress on a terminal: one line of the width of the window --------------------------------
if command -v script >/dev/null; then
    # at COLUMNS: the last line of progress that a terminal of this width gets
    at()
    {
        script -qec \
            "stty cols $1; '$trf' train $files $model --batch-tokens 64 --warmup 5 --valid-size 0 --threads 1 \
            --log-every 100 --updates 400 --model m" /dev/null </dev/null | tee screen | tr '\r' \
            '\n' | sed 's/.\[K$//' | grep 'upd 400 '
    }
    at 80 >narrow
    check "progress at 80 columns" \
        grep -q \
        '^\[####*\] 100 % upd 400 ep [0-9]* loss [0-9.]* lr [0-9.e-]* [0-9]* tok/s [0-9]*s left [0-9]* MB$' \
        narrow
    check "fewer than 80" test "$(head -n 1 narrow | wc -c)" -le 80
    at 200 >wide
    check "progress below 80 columns is one line" test "$(grep -c 'upd ' screen)" -eq 1
    check "a bar where there is room" grep -q '^\[####################\] 100 % upd 400 ' wide
fi

# --- progress in lines --------------------------------------------------------------------------
expect 0 "three answers a validation" "^    [0-9 ]* -> .*  (reference: [a-z ]*)$" \
    "$trf" train $plain --valid-every 20 --updates 40 --model shown --log shown.log
check "each validation shows the same three sources" eval \
    'grep -e " -> " err | sed "s/ -> .*//" >sources && head -n 3 sources >first && tail -n 3 sources >last &&
    lines_are 6 sources && same first last'
expect 0 "right answers are called so" "^    [0-9 ]* -> [a-z ]*  (right)$" "$trf" train \
    --tsv letters.tsv --source-tokens characters --d-model 64 --n-heads 2 --d-ff 128 \
    --encoder-layers 1 --decoder-layers 1 --batch-tokens 512 --warmup 60 --updates 400 --threads 1 \
    --model spelled
expect 0 "--log-every 1 shows every update" "" "$trf" train $model --batch-tokens 256 --warmup 20 --seed 5 --threads 1 \
    --metric loss --tsv train.tsv --updates 40 --model each \
    --log-every 1 --log each.log
mean() { sed -n 's/.*"event":"progress","update":\([0-9]*\),.*"loss":\([0-9.]*\),.*/\1 \2/p' \
    each.log | awk -v from=$1 -v to=$2 '
    $1 >= from && $1 <= to { s += $2; n++ } END { print s / n }'; }
told() { sed -n "s/.*\"event\":\"progress\",\"update\":$1,.*\"loss\":\([0-9.]*\),.*/\1/p" \
    shown.log; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && d < 0.05 && d > -0.05) }'; }
check "a line's loss is the mean of the last ten updates" eval \
    'near "$(told 20)" "$(mean 11 20)" && near "$(told 40)" "$(mean 31 40)"'
"$trf" train $plain --updates 19 --model spike 2>err
expect 0 "an update behind a break" "^update 30 " "$trf" train $plain --updates 35 --model spike \
    --resume
check "an update behind a break has no line of its own" eval '! grep -q "^update 20 " err'
expect 0 "the time until patience ends" "stops in [0-9]*s unless it improves  [0-9]* MB$" \
    "$trf" train $plain --patience 2 --valid-every 10 --updates 100000 --schedule constant \
    --learning-rate 1e-30 --model waits
expect 0 "JSON has it too" '"seconds_left":[0-9]' cat shown.log

# --- the log and its plot -----------------------------------------------------------------------
expect 0 "--log writes a log" "" "$trf" train --tsv train.tsv $small --updates 60 --valid-every 20 --log run.json \
    --model logged
check "the log has no setting that was not given" \
    test "$(sed -n 1p run.json | grep -c '"conventions"\|"tokens"\|"dropout"')" -eq 0
check "the log has what was decided" \
    grep -q \
    '"norm-place":"pre-norm".*"source-tokens":"words"\|"source-tokens":"words".*"norm-place":"pre-norm"' \
    run.json
check "a line of JSON each" \
    test "$(grep -c '^{"event":"\(start\|progress\|validation\|end\)".*}$' run.json)" -eq \
    "$(wc -l <run.json)"
check "six of progress" test "$(grep -c progress run.json)" -eq 6
check "three of validation" test "$(grep -c '"validation"' run.json)" -eq 3
if command -v python3 >/dev/null; then
    check "every line of a log is JSON" python3 -c 'import json
for line in open("run.json"): json.loads(line)'
fi
if [ -w /dev/full ]; then
    cp run.json short.json
    ln -s /dev/full full.json
    expect 1 "a log that cannot be written" "full.json" "$trf" train --tsv train.tsv $small \
        --updates 20 --log full.json --model m
fi
if command -v gnuplot >/dev/null; then
    expect 0 "trf plot draws a log" "training loss" "$trf" plot run.json
    expect 0 "plot to a file" "" "$trf" plot run.json --output run.svg
    check "trf plot writes a picture" grep -q "<svg" run.svg
    "$trf" train --tsv train.tsv $model --threads 1 --warmup 2 --batch-tokens 256 --metric exact \
        --valid-every 10 --updates 30 --log judge.json --model m 2>err
    for metric in wer loss; do
        "$trf" train --tsv train.tsv $model --threads 1 --warmup 2 --batch-tokens 256 \
            --metric $metric --valid-every 10 --updates $((30 + $(echo $metric | wc -c) * 10)) \
            --log judge.json --model m --resume 2>err
        expect 0 "a log with two metrics" "^ *wer *$" "$trf" plot judge.json
        check "a log with two metrics has a panel for each, and one for the loss" \
            test "$(grep -c '^ *\(exact\|wer\|loss\) *$' out)" -eq 3
    done
    sed -n '/"event":"start"/{s/"update":0/"update":20/;p;q}' run.json >again.json
    cat run.json again.json >twice.json
    "$trf" plot run.json >once.txt
    "$trf" plot twice.json >twice.txt
    check "what was lost in a kill is not drawn" test "$(cmp -s once.txt twice.txt; echo $?)" -eq 1
else echo "left out: gnuplot"
fi
expect 1 "plot something else" "no numbers of a training run" "$trf" plot test.tsv
expect 2 "plot to what" "svg, .png or .pdf" "$trf" plot run.json --output run.gif
if command -v gnuplot >/dev/null; then
    "$trf" plot run.json 2>err | sh -c 'exec <&-; sleep 0.5'
    check "a reader that has gone is no error of a picture" test "$(cat err)" = ""
fi

# --- a line at least every 30 seconds -----------------------------------------------------------
if [ -n "${TRF_TEST_ALL:-}" ]; then
    wait_for "^computing update 1: " waiting
    kill -KILL $waiting
    wait $waiting 2>/dev/null
    check "an update that takes long has a line after 30 seconds" \
        grep -q "^computing update 1: [3-9][0-9]s so far" waiting
    wait $reading
    check "data that take long to read have a line after 30 seconds" \
        grep -q "^reading the data" reading
    check "no line says that the data are read when they have been" \
        test "$(sed -n '/^schedule/,$p' reading | grep -c '^reading')" -eq 0
fi

finish

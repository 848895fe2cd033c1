#!/bin/sh
# The command line from outside: sh tests/test_trf.sh build/trf
#
# Trains small models on data of its own and checks results, files, exit statuses and messages.

. "$(dirname "$0")/trf.sh"

real=$trf
trf=$anew

# An update that takes longer than 30 seconds, beside everything else: see the end.
nice timeout -s KILL 45 "$trf" train --tsv train.tsv $small --accumulate 100000000 --updates 1 --model forever --checkpoint '' 2>waiting &
waiting=$!
(sleep 31; cat train.tsv) | nice timeout -s KILL 60 "$trf" train --tsv /dev/stdin $small --updates 1 --model slowly 2>reading &
reading=$!

# --- help and usage errors ---------------------------------------------------------------------------------
expect 0 "overview" "usage: trf COMMAND" "$trf" --help
expect 0 "version" "trf [0-9]" "$trf" --version
expect 0 "help of help" "usage: trf train" "$trf" help train
expect 2 "a letter" "unknown option '-x'" "$trf" train -xyz
expect 2 "no command" "usage: trf COMMAND" "$trf"
expect 2 "unknown command" "did you mean 'trf train'" "$trf" trian
for command in train translate score inspect attention; do
    expect 0 "help of $command" "usage: trf $command" "$trf" $command --help
    expect 2 "unknown option of $command" "unknown option" "$trf" $command --nonsense-of-this-kind
done
expect 0 "defaults in the help" "default 1e-05; paper: 1e-06" "$trf" train --help
expect 2 "hint" "did you mean --d-model?" "$trf" train --d-modle 3
expect 2 "ambiguous option" "--batch-tokens --batch-sentences" "$trf" train --batch 3
expect 2 "no value" "needs a value" "$trf" train --d-model
expect 2 "value too many" "takes no value" "$trf" train --resume=3
expect 2 "not a number" "--d-model takes a whole number" "$trf" train --d-model 3x
expect 2 "not a choice" "--tying takes untied|decoder|all|embeddings" "$trf" train --tying none
expect 2 "stray argument" "not an option" "$trf" train here
expect 2 "no data" "--source FILE" "$trf" train --model m --updates 1
expect 2 "no model" "--model" "$trf" train --tsv train.tsv --updates 1
expect 2 "no end" "--updates, --epochs or --minutes" "$trf" train --tsv train.tsv --valid-size 0 --model m
expect 2 "an option twice" "--seed is given twice" "$trf" train --seed 1 --tsv train.tsv --seed 2
expect 2 "no model to translate with" "--model" "$trf" translate
expect 2 "no file to inspect" "one file" "$trf" inspect

# --- a run in one piece, in two, from files, TSV, a pipe, with other threads: the same bytes ----------------
files="--source train.digits --target train.names"
expect 0 "train" "update 40 .*loss .*lr .*tokens/s.*left" "$trf" train $files $small --updates 40 --model one
expect 0 "first half" "done: 20 updates" "$trf" train $files $small --updates 20 --model two
expect 0 "second half" "resumed from update 21" "$trf" train $files $small --updates 40 --model two --resume
check "resumed = straight" same one two
check "checkpoints too" same one.checkpoint two.checkpoint
expect 0 "train from TSV, recomputing" "" \
    "$trf" train --tsv train.tsv $small --recompute yes --updates 40 --model tsv --checkpoint ''
check "TSV and recomputing = two files" same one tsv
check "no checkpoint was wanted" test ! -e tsv.checkpoint
megabytes() { sed -n 's/.*; \([0-9]*\) MB of memory.*/\1/p' "$1"; }
"$trf" train --tsv train.tsv --threads 1 --updates 1 --model planned 2>once
"$trf" train --tsv train.tsv --threads 1 --updates 2 --model planned --resume 2>again
check "as much memory when it goes on" test "$(megabytes once)" -gt 0 -a "$(megabytes once)" = "$(megabytes again)"
cat train.tsv | "$trf" train --tsv - $short --seed 5 --threads 2 --updates 40 --model pipe 2>err
check "train from a pipe" test $? -eq 0
check "pipe and two threads = two files" same one pipe
expect 0 "other seed" "" "$trf" train --tsv train.tsv $short --threads 1 --seed 6 --updates 40 --model other
check "another seed is another model" test "$(cmp -s one other; echo $?)" -eq 1
expect 1 "resume with another model" "--d-model 16" \
    "$trf" train $files $brief --d-model 32 --updates 50 --model two --resume
expect 1 "resume with other data" "TRF_E_STATE" "$trf" train --tsv test.tsv $small --updates 50 --model two --resume
expect 1 "resume from nothing" "none.checkpoint" "$trf" train $files $small --updates 50 --model none --resume
expect 0 "the end of the epochs" "done: [0-9]* updates" \
    "$trf" train $files $small --epochs 2 --accumulate 3 --model epochs

# --- a signal ends a run well; going on gives what an unbroken run gives -----------------------------------
"$trf" train $files $small --updates 600 --valid-every 600 --model whole 2>/dev/null
: >log
"$trf" train $files $small --updates 600 --valid-every 600 --model broken 2>>log &
pid=$!
wait_for "^update [0-9]" log
kill -TERM $pid
wait $pid
check "exit status 128 + 15" test $? -eq 143
check "it says so" grep -q "stopped by signal 15 after update" log
check "no model yet" test ! -e broken
expect 0 "going on" "resumed" "$trf" train $files $small --updates 600 --valid-every 600 --model broken --resume
check "broken = whole" same broken whole

# --- interrupted at random, twenty times, and by KILL too: the same bytes in the end ----------------------------
# Everything that must be remembered is on: an average of the weights, validations, the best, the last three kept.
busy="$files $model --batch-tokens 256 --warmup 20 --seed 5 --threads 1 --valid-every 30 --checkpoint-every 20 --ema 0.05 --keep 3 --average 2
      --metric wer --valid-size 40"
expect 0 "unbroken" "mean of 2 models" "$trf" train $busy --updates 2400 --model calm
n=0 x=12345 resume= strange= int= term= kill=
while [ $n -lt 20 ]; do
    x=$(((x * 1103515245 + 12345) % 2147483648))
    case $((x / 65536 % 3)) in 0) signal=INT ;; 1) signal=TERM ;; 2) signal=KILL ;; esac
    # a shell's background job ignores INT; this one does not
    perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV or die "$!"' "$trf" train $busy --updates 2400 --model hunted $resume 2>hunted.err &
    pid=$!
    sleep $(printf '0.%03d' $((x / 262144 % 200 + 40)))
    kill -$signal $pid 2>/dev/null
    wait $pid 2>/dev/null
    case $? in 130) n=$((n + 1)) int=met ;; 143) n=$((n + 1)) term=met ;; 137) n=$((n + 1)) kill=met ;; 0) break ;; *) strange="$strange $?" ;; esac
    if [ -e hunted.checkpoint ]; then resume=--resume; fi
done
check "twenty interruptions met a run ($n; $(tail -n 1 hunted.err))" test $n -eq 20
check "by each signal" test "$int$term$kill" = metmetmet
check "which ends by its signal ($strange)" test -z "$strange"
expect 0 "after twenty interruptions" "done: " "$trf" train $busy --updates 2400 --model hunted $resume
check "the model is that of the unbroken run" same calm hunted
check "the checkpoint too" same calm.checkpoint hunted.checkpoint
check "and the average beside it" same calm.checkpoint.average-2400 hunted.checkpoint.average-2400
for file in calm.update-*; do same $file hunted${file#calm} || echo $file; done >differ
check "the models that are kept too" test ! -s differ
check "the last three are among them" test -e hunted.update-2340 -a -e hunted.update-2370 -a -e hunted.update-2400
for file in hunted hunted.checkpoint hunted.update-7 hunted.checkpoint.average-812; do : >$file.tmp-00000000; done
: >hunted.else.tmp-00000000
flock hunted.update-7.tmp-00000000 "$trf" train $busy --updates 2400 --model hunted --resume >out 2>err
check "what killed saves left is removed" test "$(ls -d hunted*.tmp-*)" = "hunted.else.tmp-00000000
hunted.update-7.tmp-00000000"
rm hunted*.tmp-*
check "nothing else is left" test "$(ls -d hunted* | grep -c -v '\.err$')" -eq "$(ls -d calm* | wc -l)"

# --- a save that fails, and an older training of the same name ------------------------------------------------------
kept="$files $model --batch-tokens 256 --warmup 20 --seed 5 --threads 1 --metric loss --valid-size 40"
expect 0 "a training with an average" "^done" "$trf" train $kept --updates 40 --model firm
cp firm.checkpoint.average-40 average
if (trap '' XFSZ; ulimit -f 100; "$trf" train $kept --updates 40 --model firm --resume) >out 2>err; then status=0; else status=1; fi
check "no room for the checkpoint" test $status -eq 1
check "its average stays" same average firm.checkpoint.average-40
expect 0 "and it goes on" "resumed from update 41" "$trf" train $kept --updates 60 --model firm --resume
"$trf" train $kept --updates 100000 --valid-every 100000 --checkpoint-every 0 --model firm 2>firm.err &
pid=$!
wait_for "^update [0-9]" firm.err
kill -KILL $pid
wait $pid 2>/dev/null
expect 0 "a new training's beginning replaces an old checkpoint" "resumed from update 1$" \
    "$trf" train $kept --updates 60 --model firm --resume
expect 0 "straight" "^done" "$trf" train $kept --updates 60 --model straight
check "and goes on from there" same straight firm
mkdir apart
"$trf" train $kept --updates 100000 --valid-every 400 --checkpoint-every 0 --model apart/m --checkpoint left \
    --log left.log --log-every 10 2>left.err &
pid=$!
wait_for "^update [0-9]" left.err
rm -r apart
wait $pid
check "a model that cannot be written ends training" test $? -eq 1
check "what was learned is kept" grep -q "left is complete: the same command with --resume goes on" left.err
check "the log says so" grep -q '"event":"end","why":"error"' left.log
mkdir apart
expect 0 "and is gone on with" "resumed from update [1-9]" "$trf" train $kept --updates 410 --model apart/m --checkpoint left --resume
expect 0 "a checkpoint of another model file" "mean is written instead of the best" \
    "$trf" train $kept --updates 62 --valid-every 10 --average 3 --learning-rate 3 --ema 0 --resume --model nowhere --checkpoint firm.checkpoint
check "a model is there" test -s nowhere
printf 'something else' >other
check "and what a preset decides" eval '"$trf" train --help | tr "\n" " " | tr -s " " | grep -q "of --recipe auto; pytorch: post-norm; paper: post-norm"'
expect 0 "no update at all" "^done: 0 updates" "$trf" train $kept --updates 0 --model other
check "writes the first weights" eval '"$trf" inspect other >/dev/null'

# --- what is asked for when going on
expect 0 "a cosine" "^done" "$trf" train $kept --schedule cosine --updates 40 --ema 0 --model wave
expect 0 "that goes on to more updates" "^update 100 .* lr [1-9]" "$trf" train $kept --schedule cosine --updates 120 --log-every 20 --model wave --resume
expect 0 "that ends before its warm-up" "^done: 0 updates" "$trf" train $kept --schedule cosine --updates 10 --model wave --resume
expect 0 "one with an end of its own" "^done" \
    "$trf" train $kept --schedule cosine --updates 125 --total-steps 130 --ema 0 --model fixed
expect 0 "told when going on" "the rate ends with update 130, and training goes on" "$trf" train $kept --updates 140 --model fixed --resume
expect 0 "a rate that is over long before the training" "the rate ends with update 30, and training goes on" \
    "$trf" train $kept --schedule cosine --total-steps 30 --updates 35 --model m
expect 0 "told again" "the rate ends with update 30, and training goes on" "$trf" train $kept --schedule cosine --total-steps 30 --updates 37 --model m --resume
expect 0 "one that hardly falls" "the rate falls until update 90, but there are only 30" \
    "$trf" train $kept --schedule cosine --total-steps 90 --updates 30 --model m
expect 0 "a cosine over passes" "^done" "$trf" train $kept --schedule cosine --epochs 2 --ema 0 --model turns
expect 0 "that goes on to more of them" "^done" "$trf" train $kept --schedule cosine --epochs 4 --log-every 1 --model turns --resume
check "has a rate until its end" awk '/^update/ { n++; for (i = 1; i < NF; i++) if ($i == "lr") zeros += $(i + 1) == 0 }
    END { exit !(n > 5 && zeros < 2) }' err
expect 0 "and to larger updates" "^done" "$trf" train $kept --schedule cosine --epochs 8 --accumulate 2 --log-every 1 --model turns --resume
check "which it follows" awk '/^update/ { for (i = 1; i < NF; i++) if ($i == "lr") { last = $(i + 1); if (last > most) most = last } }
    END { exit !(most > 0 && last < most / 4) }' err
"$trf" train $kept --epochs 1 --updates 1 --model pass 2>err
pass=$(sed -n 's/^updates: about \([0-9]*\) a pass.*/\1/p' err)
"$trf" train $kept --epochs 1 --updates $((pass - 2)) --model pass 2>err
expect 0 "the end of a pass" "(--epochs are over)" "$trf" train $kept --epochs 1 --log-every 1 --log pass.log --model pass --resume
check "ends when there is no time left" awk -F '[:,]' '/progress/ { for (i = 1; i < NF; i++) { if ($i == "\"seconds\"") spent = $(i + 1)
    if ($i == "\"seconds_left\"") left = $(i + 1) } } END { exit !(spent > 0 && left < spent / 2) }' pass.log
expect 2 "nothing says where it ends" "needs --total-steps" "$trf" train $kept --schedule cosine --patience 3 --model firm --resume
"$trf" train $kept --epochs 10 --accumulate 100 --model gathered 2>err
check "as many updates as were planned" awk '/ in all;/ { for (i = 1; i < NF; i++) if ($(i + 1) == "in") planned = $i }
    /^done/ { exit !($2 > 0 && planned == $2) }' err
expect 0 "a time that ends at once" "^done" "$trf" train $kept --minutes 0.001 --log-every 1 --model m
check "is never below none" eval '! grep -q "left -" err'
check "and is not kept" eval '"$trf" train $kept --updates 100 --model m --resume 2>/dev/null; ! "$trf" inspect m | grep -q training.seconds'
expect 0 "freezing from now on" "^frozen: [1-9]" "$trf" train $kept --updates 65 --model firm --resume --freeze 'encoder.*'
expect 2 "nothing is called so" "nothing\*" "$trf" train $kept --updates 65 --model firm --resume --freeze 'nothing*'
expect 1 "no seed has begun" "no training to go on with" "$trf" train $files $model --seeds 2 --updates 20 --model absent --resume
expect 1 "no checkpoints" "needs checkpoints" "$trf" train $files $model --seeds 2 --checkpoint '' --updates 20 --model absent --resume

# --- what is better, where every answer is wrong
expect 0 "only the loss gets better" "(--updates is reached)" "$trf" train $files $model --batch-tokens 256 --warmup 50 --metric exact \
    --patience 3 --valid-every 5 --updates 60 --threads 1 --seed 5 --ema 0.5 --model m

# --- options that would do nothing, or too much
expect 2 "one vocabulary and two" "--joint-vocabulary no wants two" "$trf" train $files $model --tying all --joint-vocabulary no --updates 1 --model m
expect 2 "pairs to validate on, and some held out" "the pairs to validate on are given" "$trf" train $files $model \
    --valid-source test.digits --valid-target test.names --valid-size 9 --updates 1 --model m
expect 0 "none is to be held out then" "^done" "$trf" train $files $model --batch-tokens 256 --threads 1 \
    --valid-source test.digits --valid-target test.names --valid-size 0 --updates 1 --model m
expect 2 "random cuts of one copy" "is for --subword-samples" "$trf" train $files $model --subword-alpha 0.2 --updates 1 --model m
expect 2 "words of a file that cuts words" "is not for a SentencePiece model" "$trf" train $files $model --tokens words --sentencepiece none --updates 1 --model m
expect 2 "how many it has" "which has its size" "$trf" train $files $model --vocab-size 9 --sentencepiece none --updates 1 --model m
expect 2 "an end of what is no cosine" "is for --schedule cosine" "$trf" train $files $model --total-steps 9 --updates 1 --model m
expect 2 "answers to no question" "is for answers" "$trf" train $files $model --metric loss --valid-beam 3 --updates 1 --model m
expect 2 "patience with nobody" "and there are none" "$trf" train $files $model --valid-size 0 --patience 3 --updates 1 --model m
expect 2 "the last of one" "is for --average" "$trf" train $files $model --average-of last --updates 1 --model m
expect 2 "a vocabulary that is there" "the vocabulary is that of the model" "$trf" train $files --init-from firm \
    --sentencepiece train.digits --updates 1 --model m
expect 2 "its size too" "without --extend-vocabulary" "$trf" train $files --init-from firm --vocab-size 9 --updates 1 --model m
cp average firm.checkpoint.average-65
expect 2 "a beginning that training removes" "give it or --model another name" "$trf" train $files \
    --init-from firm.checkpoint.average-65 --updates 1 --model firm
check "is still there" test -s firm.checkpoint.average-65
expect 0 "pairs of their own to validate on, the mean of the last" "^mean of 2 models" "$trf" train $files $model --batch-tokens 256 \
    --valid-source test.digits --valid-target test.names --valid-every 5 --average 2 --average-of last --updates 20 --threads 1 --model m
check "none is held out then" test -z "$(grep 'held out' err)"
expect 0 "letters" "validated every 100 by cer" "$trf" train --tsv letters.tsv $model --tokens characters --updates 2 --threads 1 --model letters
expect 0 "are letters in the next training" "validated every 100 by cer" "$trf" train --tsv letters.tsv --init-from letters --updates 2 --threads 1 --model m
expect 0 "a model of short texts" "^done" "$trf" train --objective causal --text train.names --d-model 16 --n-heads 2 --d-ff 32 --decoder-layers 1 --max-length 8 --updates 2 --threads 1 --model brief
expect 0 "whose chunks are as short" "^done" "$trf" train --objective causal --text train.names --init-from brief --updates 2 --threads 1 --model m
expect 0 "the paper's recipe has its base model" "^model: 6 encoder and 6 decoder layers, d-model 512, d-ff 2048, 8 heads, post-norm, tying all, no generator bias; dropout: embedding 0.1, residual 0.1, attention 0, activation 0" \
    "$trf" train $files --recipe paper --updates 0 --threads 1 --model m
expect 0 "a log that is no file" "^done" "$trf" train $files $model --batch-tokens 256 --updates 1 --threads 1 --log /dev/null --model m
rm -f m.checkpoint*

# --- one line on a terminal, all of it in 80 columns, as wide a bar as there is room for
if command -v script >/dev/null; then
    # at COLUMNS: the last line of progress that a terminal of this width gets
    at()
    {
        script -qec "stty cols $1; '$trf' train $files $model --batch-tokens 64 --warmup 5 --valid-size 0 --threads 1 \
            --log-every 100 --updates 400 --model m" /dev/null </dev/null | tee screen | tr '\r' '\n' | sed 's/.\[K$//' | grep 'upd 400 '
    }
    at 80 >narrow
    check "at 80 columns" grep -q '^\[####*\] 100 % upd 400 ep [0-9]* loss [0-9.]* lr [0-9.e-]* [0-9]* tok/s [0-9]*s left [0-9]* MB$' narrow
    check "fewer than 80" test "$(head -n 1 narrow | wc -c)" -le 80
    at 200 >projected
    check "one line" test "$(grep -c 'upd ' screen)" -eq 1
    check "a bar where there is room" grep -q '^\[####################\] 100 % upd 400 ' wide
fi
expect 0 "too short a time for the warm-up" "rises for 5000 updates, but --minutes 0.02 is enough for about" \
    "$trf" train $files $model --batch-tokens 256 --threads 1 --warmup 5000 --log-every 5 --minutes 0.02 --model m
expect 0 "too few updates for the paper's warm-up" "rises for 4000 updates, but there are only" \
    "$trf" train $files --recipe paper --size tiny --updates 2 --threads 1 --model m

# --- the same without --seed: the default is a seed like any other ------------------------------------------
unseeded=$(echo $small | sed 's/--seed 5//')
expect 0 "no seed" "" "$trf" train $files $unseeded --updates 40 --model plain
expect 0 "seed 1" "" "$trf" train $files $unseeded --seed 1 --updates 40 --model seeded
check "the default seed is 1" same plain seeded
expect 0 "no seed, first half" "" "$trf" train $files $unseeded --updates 20 --model halves
expect 0 "no seed, second half" "resumed" "$trf" train $files $unseeded --updates 40 --model halves --resume
check "no seed, resumed = straight" same plain halves

# --- bad training data -------------------------------------------------------------------------------------
head -n 30 train.names >short.names
expect 1 "different line counts" "600 lines.* 30" \
    "$trf" train --source train.digits --target short.names $small --updates 1 --model m
{ head -n 3 train.tsv; echo "1 2 3 4 5 6 7 8 9	one"; printf '\t\n'; sed 1,3d train.tsv; } >long.tsv
expect 0 "pairs left out" "left out: long.tsv:4: 9 tokens, at most 7" \
    "$trf" train --tsv long.tsv $small --max-length 8 --updates 2 --model m
check "empty pairs too" grep -q "left out: long.tsv:5: empty on both sides" err
check "and counted" grep -q "left out: 2 pairs (1 too long, 1 empty)" err
printf '1 2\n' >notab.tsv
expect 1 "no tab" "notab.tsv: no line has a tab" "$trf" train --tsv notab.tsv $small --updates 1 --model m
printf '1\tone\n\377\ttwo\n' >bad.tsv
expect 0 "not UTF-8" "left out: bad.tsv:2: " "$trf" train --tsv bad.tsv $small --updates 1 --model m
expect 1 "not UTF-8, strictly" "bad.tsv:2: .*--strict" "$trf" train --tsv bad.tsv $small --strict --updates 1 --model m
printf '1\tx\377\tone\n2\ty\ttwo\n' >columns.tsv
expect 0 "not UTF-8 in a column that nobody reads" "^2 pairs" \
    "$trf" train --tsv columns.tsv --columns 1,3 $small --strict --updates 1 --model m
awk 'BEGIN { for (i = 0; i < 1100000; i++) printf "x"; print "\tone" }' | cat train.tsv - >huge.tsv
expect 0 "a word of more than 1 MiB is an unknown one" "^done" "$trf" train --tsv huge.tsv $small --updates 1 --model m
expect 1 "no such file" "cannot read 'missing'" "$trf" train --tsv missing $small --updates 1 --model m
expect 1 "no such folder" "cannot write 'no/m'" "$trf" train --tsv train.tsv $small --updates 1 --model no/m
expect 2 "a field that makes no sense" "--n-heads must divide" "$trf" train --tsv train.tsv --d-model 16 --n-heads 3 --updates 1 --model m

printf '\357\273\277' | cat - train.digits >marked.digits
expect 0 "a byte order mark" "" "$trf" train --source marked.digits --target train.names $small --updates 40 --model marked
check "is not part of the text" same one marked
cp train.tsv precious
expect 1 "the model over the text" "is the file that --tsv reads" \
    "$trf" train --tsv precious $small --updates 1 --model precious
expect 1 "the checkpoint over the text" "is the file that --source reads" \
    "$trf" train --source precious --target train.names $small --updates 1 --model m --checkpoint precious
expect 1 "the model over validation" "is the file that --valid-tsv reads" \
    "$trf" train --tsv train.tsv --valid-tsv precious $small --updates 1 --model precious
check "and it is whole too" same precious train.tsv
wild="$model $brief --threads 1 --schedule constant --learning-rate 1e5 --initial-rate 1e5 --warmup 1 --clip-norm 1e300"
expect 0 "updates that go astray" "update [0-9]* was left out: .* is not finite; more of them are counted" \
    "$trf" train --tsv train.tsv $wild --updates 20 --model wild
grep "was left out" err >told
check "five of them are told" lines_are 5 told
check "the others counted" grep -q "^left out: [0-9]* of these updates" err
expect 0 "nothing but skipped updates" "update 30  epoch [0-9]*  loss -  .*" \
    "$trf" train --tsv train.tsv $wild --updates 30 --model wild --resume
check "it says so" grep -q "^left out: 10 of these updates" err
"$trf" train --tsv train.tsv $wild --valid-every 10 --updates 20 --model tossed 2>/dev/null
"$trf" train --tsv train.tsv $wild --valid-every 10 --updates 30 --model tossed --resume 2>/dev/null
"$trf" train --tsv train.tsv $wild --valid-every 10 --updates 30 --model at.once 2>/dev/null
check "as in a run without a break" same at.once.checkpoint tossed.checkpoint
expect 1 "they come to an end" "no model is written" "$trf" train --tsv train.tsv --init-from wild --metric loss --patience 2 --valid-every 3 --seed 5 \
    --threads 1 --model endless
cp one stays
expect 1 "nothing but skipped updates from the beginning" "no model is written" \
    "$trf" train --tsv train.tsv --init-from wild --metric loss --seed 5 --threads 1 --updates 3 --model stays
check "and the old one stays" same one stays
expect 2 "a cosine without an end" "--total-steps" \
    "$trf" train --tsv train.tsv $small --schedule cosine --patience 2 --model m

# --- learning, validation, translating ---------------------------------------------------------------------
expect 0 "learn" "^validation: update 400 .*perplexity" \
    "$trf" train --tsv more.tsv --valid-tsv test.tsv --model good \
    --d-model 64 --n-heads 4 --d-ff 128 --encoder-layers 1 --decoder-layers 1 --schedule inverse-sqrt \
    --learning-rate 0.003 --warmup 100 --dropout 0 --batch-tokens 300 --seed 3 \
    --max-length 12 --threads 1 --updates 400
expect 0 "translate" "" "$trf" translate --model good --input test.digits --output answers
check "a line for a line" lines_are 40 answers
right=$(paste answers test.names | awk -F '\t' '$1 == $2' | wc -l)
check "most answers are right ($right of 40)" test "$right" -ge 34
"$trf" translate --model good --batch 7 --threads 2 <test.digits >piped
check "standard input and output, other batches" same answers piped
"$trf" translate --model good --interactive <test.digits >single
mkfifo asked
"$trf" translate --model good --interactive <asked >answered 2>/dev/null &
exec 3>asked
head -n 1 test.digits >&3
wait_for . answered
check "an answer comes before the next line" test "$(wc -l <answered)" -eq 1
exec 3>&-
wait $!
check "line by line" same answers single
printf '1 2\n\n  \n1 2 3 4 5 6 7 8 9 1 2 3\n\377\n1\0002\n4 5 unknown\n7' >odd
expect 1 "odd lines" "odd:4: .*12 tokens, at most 11" "$trf" translate --model good --input odd
check "still a line for a line" lines_are 8 out
check "empty where empty, and where impossible" test "$(sed -n '2,6p' out | tr -d '\n')" = ""
check "the last line without an end" test "$(sed -n 8p out)" = "$(echo 7 | "$trf" translate --model good)"
check "each bad line is named" test "$(grep -c 'odd:[456]:' err)" -eq 3
printf '1 2\n\n7\n' >three
expect 0 "n best form" "^1	1	-[0-9.]*	two one$" "$trf" translate --model good --input three --n-best 3
check "ranks" test "$(cut -f1,2 out | tr '\t\n' '. ')" = "1.1 1.2 1.3 2.1 3.1 3.2 3.3 "
expect 0 "scores" "^-[0-9.]*	two one$" "$trf" translate --model good --input three --scores --search-rule fairseq
expect 0 "another search" "^-[0-9.]*	two one$" "$trf" translate --model good --input three --scores \
    --search-rule hugging-face --min-length 2 --renormalize-logits yes
expect 2 "n best beyond the beam" "--n-best 9 needs a --beam of 9 or more, got 4" "$trf" translate --model good --input three --beam 4 --n-best 9
expect 0 "the beam follows n best" "^1	9	" "$trf" translate --model good --input three --n-best 9
expect 1 "output is input" "is the file that --input reads" "$trf" translate --model good --input three --output three
expect 1 "output is standard input" "standard input reads" sh -c "'$trf' translate --model good --output three <three"
check "and it is whole" lines_are 3 three
cp good kept
expect 1 "output is the model" "is the file that --model reads" \
    "$trf" translate --model good --input three --output good
check "and the model is whole" same good kept
echo "3 1 4" >314
expect 0 "a checkpoint will do" "" "$trf" translate --model good.checkpoint --input 314
expect 1 "no such model" "missing" "$trf" translate --model missing
expect 1 "not a model" "three" "$trf" translate --model three
if [ -w /dev/full ]; then
    expect 1 "disk full" "cannot write /dev/full" "$trf" translate --model good --input test.digits --output /dev/full
    expect 1 "disk full, standard output" "cannot write standard output" sh -c "'$trf' --help >/dev/full"
fi

# --- scores ------------------------------------------------------------------------------------------------
expect 0 "score" "40 pairs, [0-9]* target tokens" "$trf" score --model good --source test.digits --target test.names
cp out scores
check "a score for a pair" lines_are 40 scores
check "log-probability and tokens" test "$(awk -F '\t' '$1 <= 0 && $2 >= 2' scores | wc -l)" -eq 40
expect 0 "score a TSV" "" "$trf" score --model good --tsv test.tsv
check "the same" same out scores
expect 0 "other batches" "" "$trf" score --model good --tsv test.tsv --batch 3
check "nearly the same" test "$(paste out scores | awk -F '\t' '($1 - $3) ^ 2 <= 1e-6 && $2 == $4' | wc -l)" -eq 40
awk -F '\t' '{ print $1 "\t" "nine " $2 }' test.tsv >wrong.tsv
expect 0 "score wrong answers" "" "$trf" score --model good --tsv wrong.tsv
check "wrong answers score less" test "$(paste out scores | awk -F '\t' '$1 < $3' | wc -l)" -ge 38
expect 1 "unpaired" "test.digits has 40 lines, but three has 3" \
    "$trf" score --model good --source test.digits --target three --batch 7
check "a line for each line of the longer file" lines_are 40 out
check "lines without a partner" test "$(grep -c "^nan	0$" out)" -eq 37
check "the first of them is named" grep -q "test.digits:4: not scored: the other file has no such line" err
cp test.digits precious
expect 1 "scores over the target" "is the file that --target reads" \
    "$trf" score --model good --source test.names --target precious --output precious
check "which is whole" same precious test.digits
{ cat three; echo "1 2 3 4 5 6 7 8 9 1 2 3"; } >four
expect 1 "a pair that is too long" "four:4: not scored: 12 tokens, at most 11" \
    "$trf" score --model good --source four --target four
check "a line for it too" lines_are 4 out
expect 1 "pairs that cannot be scored" "notab.tsv:1: not scored: no tab" "$trf" score --model good --tsv notab.tsv
check "a line all the same" test "$(cat out)" = "nan	0"

# --- characters, one vocabulary, conventions, inspect ------------------------------------------------------
expect 0 "characters to words" "14 source and 14 target tokens" \
    "$trf" train --tsv letters.tsv --source-tokens characters $small --updates 10 --model letters
expect 0 "one vocabulary of letters and words" "^target: characters" "$trf" train --tsv letters.tsv --recipe paper --size tiny --updates 1 --model m
echo 123 | "$trf" translate --model letters --beam 1 >out 2>err
check "characters translate" lines_are 1 out
expect 0 "words to characters" "" \
    "$trf" train $files --target-tokens characters $small --updates 2 --model spell
expect 0 "inspect spell" "target vocabulary: [0-9]* characters" "$trf" inspect spell
expect 0 "paper" "24 source and 24 target" "$trf" train $files $small --conventions paper --updates 3 --model paper
expect 0 "inspect paper" "  --tying all" "$trf" inspect paper
check "conventions are in the file" grep -q "  --norm-epsilon 1e-06" out
expect 2 "one vocabulary of two kinds" "one vocabulary" \
    "$trf" train $files $small --joint-vocabulary yes --target-tokens characters --updates 1 --model m
expect 0 "vocabulary size" "8 source and 14 target" \
    "$trf" train $files $small --source-vocab-size 8 --updates 1 --model m
expect 0 "inspect" "source vocabulary: 14 characters" "$trf" inspect letters
check "tensors" grep -q "encoder.layers.0.linear1.weight  F32  (32, 16)  512" out
check "total" grep -q "^weights: [0-9]* in [0-9]* parameters" out
check "parts" grep -q "  encoder self-attention  *1088 " out
expect 0 "inspect a checkpoint" "training: 40 updates so far" "$trf" inspect one.checkpoint
check "its settings" grep -q "  --warmup 20" out
check "a vocabulary is bytes" grep -q "trf.target_vocab  U8  " out
# 1, 2, -3 and infinity as F16 and BF16
printf '\252\0\0\0\0\0\0\0%s\0\74\0\100\0\302\0\174\200\77\0\100\100\300\200\177' \
    '{"half":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]},"brain":{"dtype":"BF16","shape":[4],"data_offsets":[8,16]},"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' >halves
expect 0 "inspect numbers" "3 tensors, 8 numbers, 2 of them not finite" "$trf" inspect halves
expect 0 "inspect half" "half  F16  (2, 2)  4  0  2.16  -3  2  1 NOT FINITE" "$trf" inspect halves
expect 0 "inspect brain" "brain  BF16  (4)  4  0  2.16  -3  2  1 NOT FINITE" "$trf" inspect halves
head -c 2000 good >cut
expect 1 "inspect half a file" "cut" "$trf" inspect cut

# --- validation: a part held out, its metric, the best model, an end by itself ----------------------------------
expect 0 "held out" "held out: 3[0-9] of 600 pairs" "$trf" train --tsv train.tsv $model --threads 1 --updates 2 --model m
check "short answers are judged by their errors" grep -q "validated every [0-9]* by wer" err
expect 0 "none held out" "not validated" "$trf" train --tsv train.tsv $small --valid-size 0 --updates 2 --model m
expect 1 "all held out" "leaves none" "$trf" train --tsv train.tsv $small --valid-size 600 --updates 2 --model m
printf 'a b\tx\na b\ty\nc\tz\nd\tz\n' >twice.tsv
awk 'BEGIN { for (i = 0; i < 40; i++) print "w" i "\t" "x" }' >>twice.tsv
awk 'BEGIN { for (i = 0; i < 40; i++) print "often\tx" }' >>twice.tsv
expect 0 "a source is on one side only" "held out: 10 of 84" "$trf" train --tsv twice.tsv $small --valid-size 10 --updates 1 --model m
for metric in bleu chrf exact wer cer loss; do
    expect 0 "metric $metric" "validation: update 4 .*" \
        "$trf" train --tsv train.tsv $model --threads 1 --metric $metric --updates 4 --model metric
    check "$metric is told" grep -q "done: .*best: update 4, $metric [0-9.]*" err
done
expect 0 "patience" "nothing better in --patience validations" "$trf" train --tsv train.tsv $model --threads 1 \
    --schedule constant --learning-rate 1e-30 --warmup 1 --valid-every 5 --patience 3 --metric loss --ema 0 --model patient
check "three times without gain" grep -q "done: 20 updates" err
expect 0 "nothing more to do" "done: 0 updates" "$trf" train --tsv train.tsv --threads 1 --model patient --resume
expect 0 "more patience goes on" "done: 10 updates" "$trf" train --tsv train.tsv --threads 1 --model patient --resume --patience 5
expect 0 "minutes" "--minutes are over" "$trf" train --tsv train.tsv $small --minutes 0.01 --model m
for wrong in "--d-model 65537" "--n-heads 3" "--beta2 1" "--label-smoothing 1" "--vocab-size 2"; do
    expect 2 "$wrong is a wrong command line" "must.*, got" "$trf" train --tsv train.tsv --size tiny --updates 1 --model m $wrong
done
for wrong in "--learning-rate -1:--learning-rate must be between" "--embedding-dropout 1:--embedding-dropout must be" "--warmup 0:--warmup must be" \
    "--label-smoothing 1:--label-smoothing must be" "--norm-epsilon 0:--norm-epsilon must be" "--valid-beam 1025:--valid-beam must be" \
    "--max-length 1:--max-length must be" "--d-model 100 --n-heads 7:--n-heads must divide" "--encoder-layers 300:--encoder-layers must be" \
    "--schedule cosine --total-steps 7 --warmup 7:--total-steps must be"; do
    expect 2 "${wrong%%:*}, before the data are read" "${wrong#*:}" "$trf" train --tsv not-there.tsv ${wrong%%:*} --updates 5 --model m
done
expect 0 "a cosine over fewer updates than the usual warm-up" "^done" "$trf" train --tsv train.tsv $model --batch-tokens 256 --metric loss \
    --schedule cosine --total-steps 30 --updates 30 --model m
expect 2 "no minutes" "--minutes takes" "$trf" train --tsv train.tsv $small --minutes 0 --model m
expect 2 "a share of the average" "--ema takes" "$trf" train --tsv train.tsv $small --ema 2 --updates 1 --model m
"$trf" train --tsv train.tsv --threads 1 --updates 0 --log decided.json --model none 2>err
mkdir links
echo old >links/real
ln -s real links/link
ln -s missing links/nowhere
for link in link nowhere; do
    expect 1 "a model's name that is a link" "'links/$link': it is a symbolic link" "$trf" train --tsv train.tsv $small --updates 1 --model links/$link
    expect 1 "and a checkpoint's" "'links/$link': it is a symbolic link" \
        "$trf" train --tsv train.tsv $small --updates 1 --model m --checkpoint links/$link
    expect 1 "and a mean's" "'links/$link': it is a symbolic link" "$trf" average one one --output links/$link
done
expect 0 "a log is written through a link" "^done" "$trf" train --tsv train.tsv $small --updates 1 --model m --log links/nowhere
check "to where it leads" test -s links/missing
rm links/missing
check "which stays one" eval '[ "$(cat links/link)" = old ] && [ -L links/nowhere ]'
if [ -d /proc/self ]; then
    expect 1 "a folder in which nothing can be made, whoever asks" "cannot write '/proc/model'" \
        "$trf" train --tsv train.tsv $small --updates 1 --model /proc/model
    check "is told before the training" test "$(grep -c "^update\|^source:" err)" -eq 0
fi
for option in norm-place generator-bias schedule attention-dropout activation-dropout ema; do
    value=$(sed -n "1s/.*\"$option\":\"\([^\"]*\)\".*/\1/p" decided.json)
    check "the help's default of --$option, '$value', is what the recipe decides" eval '[ -n "$value" ] &&
        "$trf" train --help | tr "\n" " " | tr -s " " | sed "s/.* --$option //; s/ --[a-z].*//" | grep -q "(default $value, of"'
done
expect 0 "no update at all" "done: 0 updates.*model in none" "$trf" train --tsv train.tsv $small --updates 0 --model none
check "is no loss" test "$(grep -c "not there any more" err)" -eq 0
expect 0 "nor a validation" "not validated" "$trf" train --tsv train.tsv $small --valid-size 0 --updates 0 --model none
expect 2 "a beam beyond all limits is told before the training" "beam must be between 1 and" \
    "$trf" train --tsv train.tsv $model --threads 1 --metric wer --valid-beam 100000 --updates 200 --model m
check "and not after it" test "$(grep -c "^update [0-9]" err)" -eq 0
expect 0 "an order that is too long" "warning: the rate rises for 20 updates, but there are only 10" \
    "$trf" train --tsv train.tsv $small --updates 10 --model m
expect 0 "an average of weights" "" "$trf" train --tsv train.tsv $small --ema 0.5 --updates 40 --model smooth
check "is another model" test "$(cmp -s one smooth; echo $?)" -eq 1
check "an unvalidated one needs no file beside the model" test ! -e smooth.update-40

awk 'BEGIN { for (i = 0; i < 90000; i++) printf "%d %d %d %d %d\t%d %d %d %d %d\n", i % 7, i % 11, i % 13, i % 17, i % 19, i % 19, i % 17, i % 13, i % 11, i % 7 }' >symbols.tsv
expect 0 "a million symbols" "^model: 4 encoder and 4 decoder layers, d_model 128, d_ff 512, for [0-9]* tokens of few symbols" "$trf" train --tsv symbols.tsv --updates 0 --threads 1 --model m
check "in batches of an eight-hundredth" grep -q "at most 667 tokens a side in an update" err
expect 0 "with a width of its own" "d-ff 32" "$trf" train --tsv symbols.tsv --d-ff 32 --updates 0 --threads 1 --model m

# --- several seeds, several models -------------------------------------------------------------------------------
expect 0 "seeds" "2 seeds: loss mean [0-9.]*, deviation [0-9.]*, best" \
    "$trf" train --tsv train.tsv $short --seed 5 --threads 1 --seeds 2 --updates 20 --model many
expect 0 "a seed alone" "" "$trf" train --tsv train.tsv $short --seed 6 --threads 1 --updates 20 --model six
check "is what it is among several" same six many.seed-6
check "the best is the model" sh -c 'cmp -s many many.seed-5 || cmp -s many many.seed-6'
expect 0 "average" "" "$trf" average calm.update-2340 calm.update-2370 --output mean
numbers() { "$trf" inspect --json "$1" | sed 's/.*"src_embed.weight"[^}]*"mean":\([^,]*\).*/\1/'; }
check "which is the mean of their numbers" awk -v a="$(numbers calm.update-2340)" -v b="$(numbers calm.update-2370)" -v mean="$(numbers mean)" \
    'BEGIN { d = mean - (a + b) / 2; exit !(a != b && d < 1e-8 && d > -1e-8) }'
expect 0 "an average translates" "" "$trf" score --model mean --tsv test.tsv
expect 0 "of one, twice" "" "$trf" average one one --output same
check "is that one" same one same
expect 1 "of two vocabularies" "different vocabularies" "$trf" average one good --output m
"$trf" train $files $brief --threads 1 --d-model 24 --n-heads 2 --updates 1 --model wider 2>/dev/null
expect 1 "of two kinds" "one has --d-model [0-9]*, wider has [0-9]*: " "$trf" average one wider --output m
expect 2 "of nothing" "two models" "$trf" average one --output m
expect 1 "to a folder" "" "$trf" average one good --output .
expect 1 "over one of them" "is one of the models that are read" "$trf" average one same --output ./same
expect 0 "of checkpoints" "" "$trf" average one.checkpoint two.checkpoint --output mean2
check "knows nothing of their training" test "$("$trf" inspect mean2 | grep -c 'training\.\|option\.')" -eq 0

cp train.tsv precious
expect 1 "seeds over the data" "is the file that --tsv reads" "$trf" train --tsv precious $model --seeds 2 --updates 1 --model precious
check "which are whole" same precious train.tsv
expect 2 "seeds of a pipe" "'-' will not do" "$trf" train --tsv - $model --seeds 2 --updates 1 --model m
expect 0 "a seed more" "seed 7:" "$trf" train --tsv train.tsv $short --seed 5 --threads 1 --seeds 3 --updates 20 --model many --resume
check "is the one that it is alone" test -e many.seed-7

# --- going on with other options --------------------------------------------------------------------------------------
goes="--tsv train.tsv $model --threads 1 --batch-tokens 256"
expect 0 "after each pass" "" "$trf" train $goes --valid-every 0 --epochs 2 --metric auto --size auto --model passes
check "is after each pass" test "$(grep -c '^validation' err)" -eq 2
check "and what was planned is done" test "$(sed -n 's/.*, \([0-9]*\) in all.*/\1/p' err)" = "$(sed -n 's/^done: \([0-9]*\) .*/\1/p' err)"
expect 0 "a pass more" "wer [0-9.]*" "$trf" train $goes --valid-every 0 --epochs 3 --metric auto --size auto --model passes --resume
expect 0 "means" "mean of 3 models" "$trf" train $goes --valid-every 10 --updates 60 --average 3 --metric loss --model means
expect 0 "of more" "mean of 3 models" "$trf" train $goes --valid-every 10 --updates 80 --average 3 --metric loss --model means --resume
expect 0 "in one piece" "" "$trf" train $goes --valid-every 10 --updates 80 --average 3 --metric loss --model means1
expect 0 "smoothed" "" "$trf" train $goes --ema 0.1 --updates 20 --model 'm[1]'
expect 0 "smoothed too" "" "$trf" train $goes --ema 0.1 --updates 20 --model m1
expect 0 "the first again" "" "$trf" train $goes --ema 0.1 --updates 20 --model 'm[1]'
check "has left the other alone" test -e m1.checkpoint.average-20
expect 0 "another metric" "the best begins anew" "$trf" train $goes --updates 30 --metric exact --model m1 --resume
check "does not compare with the first" grep -q "best: update 30, exact" err
rm m1
expect 0 "the model has gone" "the last weights are written" "$trf" train $goes --updates 30 --model m1 --resume
check "and is there again" test -e m1
rm m1.checkpoint.average-*
expect 1 "the average has gone" "--ema 0 goes on without it" "$trf" train $goes --updates 40 --model m1 --resume
expect 0 "without it" "" "$trf" train $goes --updates 40 --ema 0 --model m1 --resume
expect 0 "and with one again" "" "$trf" train $goes --updates 50 --ema 0.1 --model m1 --resume
expect 2 "no end" "nothing says when training ends" "$trf" train $goes --patience 0 --model m1 --resume
(ulimit -f 30; "$trf" train $goes --ema 0.1 --updates 30 --checkpoint-every 10 --model tight) 2>err
check "no average without a checkpoint" test "$(ls -d tight.checkpoint.average-* 2>/dev/null | wc -l)" -eq 0
awk 'BEGIN { for (w = 0; w < 100; w++) for (i = 0; i < 4; i++) print "w" w "\tx" i }' >dictionary.tsv
expect 0 "four lines a word" "held out: 20 of 400 pairs" "$trf" train --tsv dictionary.tsv $small --updates 1 --model m

# --- what is compared with what, when going on -----------------------------------------------------------------------
rough="--tsv train.tsv $model --threads 1 --batch-tokens 64 --valid-every 10 --metric loss --ema 0 --warmup 2 --dropout 0.3 --schedule constant"
for seed in 1 2 3 4 5 6 7 8; do        # until the mean is better than the best one
    "$trf" train $rough --learning-rate 0.3 --seed $seed --average 3 --average-of last --updates 40 --model mean 2>err
    grep -q "and stays" err || break
done
check "a mean that is better" test "$(grep -c "and stays" err)" -eq 0
for file in mean*; do cp $file again${file#mean}; done
"$trf" train $rough --learning-rate 0.3 --seed $seed --updates 40 --model best 2>err
check "is another model" test "$(cmp -s mean best; echo $?)" -eq 1
expect 0 "one that is not" "^mean of 3 models.*and stays" "$trf" train $rough --learning-rate 9 --seed $seed --average 3 --average-of last --updates 50 --model mean --resume
check "leaves the best model, not the mean of before" same mean best
check "and says that the mean is gone" grep -q "'mean' was a mean; until this training ends" err
for file in again*; do cp $file later${file#again}; done
expect 0 "nor in a longer training" "^validation: update 50" "$trf" train $rough --learning-rate 9 --seed $seed --average 1 --updates 50 --model later --resume
check "which leaves the best" same later best
check "and no other file" test "$(ls later.update-* 2>/dev/null | wc -l)" -eq 0
expect 0 "no mean any more" "^done: 0 updates" "$trf" train $rough --learning-rate 0.3 --seed $seed --average 1 --updates 40 --model again --resume
check "leaves the best too" same again best
even="${rough%--metric loss*} --metric exact ${rough#*--metric loss} --average 3 --average-of last --seed 1"
"$trf" train $even --learning-rate 0.0001 --updates 40 --model even 2>err
expect 0 "a mean with as good a score, 0, and a larger loss" "^mean of 3 models.* exact 0.0000; the best one had 0.0000, and stays" \
    "$trf" train $even --learning-rate 9 --updates 50 --model even --resume
rough="$rough --learning-rate 0.3"
for smoothing in 0.5 0; do
    "$trf" train $rough --label-smoothing 0.1 --updates 20 --model judged 2>err
    expect 0 "judged by another loss" "judged otherwise: the best begins anew" \
        "$trf" train $rough --label-smoothing $smoothing --updates 30 --model judged --resume
done
expect 0 "by the same" "^done" "$trf" train $rough --label-smoothing 0 --updates 40 --model judged --resume
check "nothing begins anew" test "$(grep -c anew err)" -eq 0
answers="--tsv train.tsv $model --threads 1 --batch-tokens 64 --valid-every 10 --metric exact --warmup 2"
"$trf" train $answers --updates 20 --model judged 2>err
expect 0 "answers do not depend on smoothing" "^done" "$trf" train $answers --label-smoothing 0 --updates 30 --model judged --resume
check "which begins nothing anew" test "$(grep -c anew err)" -eq 0
blind="--tsv train.tsv $model --threads 1 --batch-tokens 64 --valid-size 0 --valid-every 10 --average 3 --warmup 2"
"$trf" train $blind --updates 30 --model blind 2>err
expect 0 "the mean of three, nothing held out" "^done" "$trf" train $blind --label-smoothing 0 --updates 40 --model blind --resume
check "keeps three" test "$(echo blind.update-*)" = "blind.update-20 blind.update-30 blind.update-40"
"$trf" train $rough --average 2 --average-of last --seed 1 --updates 40 --model pruned 2>err
expect 0 "going on with a mean of the last" "^done" "$trf" train $rough --average 2 --average-of last --seed 1 --updates 50 --model pruned --resume
check "misses no file" test "$(grep -c 'not there any more' err)" -eq 0
expect 0 "another metric, the last kept" "judged otherwise" \
    "$trf" train ${rough%--metric loss*} --metric exact ${rough#*--metric loss} --average 2 --average-of last --seed 1 --updates 60 --model pruned --resume
check "still has files of both" test -e pruned.update-50 -a -e pruned.update-60
cut -f1 train.tsv >lines.txt
mask="--objective mask --text lines.txt --d-model 16 --n-heads 2 --d-ff 16 --encoder-layers 1 --threads 1 --warmup 2"
"$trf" train $mask --updates 30 --model hidden 2>err
expect 0 "seeds of one and the same model" "deviation 0.0000" "$trf" train $mask --init-from hidden --freeze '*' --ema 0 \
    --updates 1 --valid-every 1 --seeds 2 --model hidden2
expect 0 "words to go on with, of the only side" "resumed" "$trf" train $mask --tokens words --updates 40 --model hidden --resume
expect 0 "seeds that nothing compares" "2 seeds; nothing was validated" "$trf" train --tsv train.tsv $small --updates 0 --seeds 2 --model nothing
expect 2 "a share beyond all" "must be" "$trf" train $mask --noise-density 2 --updates 1 --model m
expect 2 "a beginning in another spelling" "give it or --model another name" "$trf" train $rough --init-from ./hunted.update-2400 --updates 1 --model hunted
expect 2 "a beginning that a later seed removes" "give it or --model another name" "$trf" train $rough --init-from many.seed-6.update-5 --seeds 2 --seed 5 --updates 1 --model many
expect 1 "and the file of one" "is the file that --init-from reads" "$trf" train $rough --init-from many.seed-6 --seeds 2 --seed 5 --updates 1 --model many
check "before the first of them begins" test "$(grep -c '^seed' err)" -eq 0
wave="--tsv train.tsv $model --threads 1 --batch-tokens 256 --warmup 2 --schedule cosine --log-every 1 --metric loss"
falls() { awk '/^update/ { for (i = 1; i < NF; i++) if ($i == "lr") { n++; zeros += $(i + 1) == 0 } } END { exit !(n > 1 && zeros < 2) }' err; }
for n in 3 4 5; do
    "$trf" train $wave --epochs 3 --accumulate $n --model wave5 2>err
    expect 0 "a cosine of large updates that goes on" "^done" "$trf" train $wave --epochs 6 --accumulate $n --model wave5 --resume
    check "has a rate until its end" falls
done
expect 0 "with smaller updates" "^done" "$trf" train $wave --epochs 9 --accumulate 1 --model wave5 --resume
expect 0 "and on" "^done" "$trf" train $wave --epochs 12 --accumulate 1 --model wave5 --resume
check "has one then too" falls
"$trf" train $rough --updates 1000000 --log stopped.json --model stopped 2>err &
pid=$!
wait_for '"best":true' stopped.json
kill -TERM $pid
wait $pid
sed -n 's/.*"event":"end".*"score":\([^,}]*\).*/\1/p' stopped.json >ended
sed -n 's/.*"score":\([^,}]*\),"best":true.*/\1/p' stopped.json | tail -n 1 >bested
check "the log of a training that was stopped has the best score" eval 'test -s ended && same ended bested'
"$trf" train $wave --updates 20 --total-steps 0 --model wave20 2>err
expect 0 "an end that follows, said as a number" "^done" "$trf" train $wave --updates 40 --total-steps 0 --model wave20 --resume
check "has a rate until then" falls
"$trf" train $wave --updates 50 --total-steps 50 --model wave50 2>err
expect 0 "an end of its own, where the training ended" "the rate ends with update 50, and training goes on" \
    "$trf" train $wave --updates 80 --model wave50 --resume
printf 'nothing\t\n' >half.tsv; cat test.tsv >>half.tsv
expect 1 "strictly" "half.tsv:1" "$trf" train --tsv train.tsv --valid-tsv half.tsv $small --strict --updates 1 --model strict
expect 0 "of good pairs" "^done" "$trf" train --tsv train.tsv --valid-tsv test.tsv $small --strict --updates 1 --model strict
expect 0 "no more strictly" "half.tsv:1" "$trf" train --tsv train.tsv --valid-tsv half.tsv $small --updates 2 --model strict --resume

# --- what validation compares is what trf translate and trf eval do ---------------------------------------------------
# same_error VALID OPTIONS: the validation's CER of a short training is that of its answers
same_error()
{
    valid=$1
    shift
    "$trf" train --tsv train.tsv --valid-tsv $valid $model --threads 1 --warmup 2 --ema 0 --metric cer --updates 40 --valid-every 40 \
        --batch-tokens 256 --learning-rate 0.03 --model judge "$@" 2>judge.err || return 1
    sort -u $valid >judge.tsv; cut -f1 judge.tsv >judge.source; cut -f2 judge.tsv >judge.target
    "$trf" translate --model judge --input judge.source --beam 1 --output judge.answers 2>>judge.err || return 1
    "$trf" eval judge.target judge.answers --metrics cer >judge.figure || return 1
    sed -n 's/^validation: .* cer \([0-9.]*\) .*/\1/p' judge.err >judge.validation
    test -s judge.validation && test "$(cat judge.validation)" = "$(sed -n 's/.* = \([0-9.]*\).*/\1/p' judge.figure)"
}
sed 's/\(\t.*\)e /\1e@@ /' test.tsv >cut.tsv
check "characters that look like cut words" same_error cut.tsv --tokens characters
{ printf '\tone two\n'; cat test.tsv; } >empty.tsv
check "sources that are empty" same_error empty.tsv --keep-empty

# --- log and picture -----------------------------------------------------------------------------------------------
expect 0 "log" "" "$trf" train --tsv train.tsv $small --updates 60 --valid-every 20 --log run.json --model logged
check "what was not given is not there" test "$(sed -n 1p run.json | grep -c '"conventions"\|"tokens"\|"dropout"')" -eq 0
check "what was decided is" grep -q '"norm-place":"pre-norm".*"source-tokens":"words"\|"source-tokens":"words".*"norm-place":"pre-norm"' run.json
check "a line of JSON each" test "$(grep -c '^{"event":"\(start\|progress\|validation\|end\)".*}$' run.json)" -eq "$(wc -l <run.json)"
check "six of progress" test "$(grep -c progress run.json)" -eq 6
check "three of validation" test "$(grep -c '"validation"' run.json)" -eq 3
if command -v python3 >/dev/null; then
    check "all of it is JSON" python3 -c 'import json
for line in open("run.json"): json.loads(line)'
fi
if [ -w /dev/full ]; then
    cp run.json short.json
    ln -s /dev/full full.json
    expect 1 "a log that cannot be written" "full.json" "$trf" train --tsv train.tsv $small --updates 20 --log full.json --model m
fi
if command -v gnuplot >/dev/null; then
    expect 0 "plot" "training loss" "$trf" plot run.json
    expect 0 "plot to a file" "" "$trf" plot run.json --output run.svg
    check "which is a picture" grep -q "<svg" run.svg
    "$trf" train --tsv train.tsv $model --threads 1 --warmup 2 --batch-tokens 256 --metric exact --valid-every 10 --updates 30 --log judge.json --model m 2>err
    for metric in wer loss; do
        "$trf" train --tsv train.tsv $model --threads 1 --warmup 2 --batch-tokens 256 --metric $metric --valid-every 10 --updates $((30 + $(echo $metric | wc -c) * 10)) \
            --log judge.json --model m --resume 2>err
        expect 0 "a log with two metrics" "^ *wer *$" "$trf" plot judge.json
        check "has a panel for each, and one for the loss" test "$(grep -c '^ *\(exact\|wer\|loss\) *$' out)" -eq 3
    done
    sed -n '/"event":"start"/{s/"update":0/"update":20/;p;q}' run.json >again.json
    cat run.json again.json >twice.json
    "$trf" plot run.json >once.txt
    "$trf" plot twice.json >twice.txt
    check "what was lost in a kill is not drawn" test "$(cmp -s once.txt twice.txt; echo $?)" -eq 1
else echo "left out: gnuplot"
fi
expect 1 "plot something else" "no line of a training" "$trf" plot test.tsv
expect 2 "plot to what" "svg, .png or .pdf" "$trf" plot run.json --output run.gif

# --- columns, empty sides, what is left out ------------------------------------------------------------------------
awk -F '\t' '{ print NR "\t" $1 "\t" $2 "\tnote" }' train.tsv >projected.tsv
expect 1 "four columns" "more than one tab" "$trf" train --tsv wide.tsv $small --strict --updates 40 --model m
expect 0 "two of them" "" "$trf" train --tsv wide.tsv $small --columns 2,3 --updates 40 --model wide
check "are the same data" same one wide
expect 1 "too few" "fewer columns" "$trf" train --tsv wide.tsv $small --columns 2,7 --strict --updates 1 --model m
for wrong in 2 2,2 0,1 1,2,3 a,b; do
    expect 2 "columns $wrong" "--columns takes" "$trf" train --tsv wide.tsv $small --columns $wrong --updates 1 --model m
done
{ cat train.tsv; printf '1 2\t\n\tone\n'; i=0; while [ $i -lt 9 ]; do i=$((i + 1)); echo "no tab"; done; } >holes.tsv
expect 0 "holes" "left out: 11 pairs (9 unreadable, 2 empty on one side)" "$trf" train --tsv holes.tsv $small --updates 2 --model m
check "five are told" test "$(grep -c "left out: holes.tsv:" err)" -eq 5
expect 0 "empty sides kept" "left out: 9 pairs" "$trf" train --tsv holes.tsv $small --keep-empty --updates 2 --model m
printf 'one\nt\0wo\n' >nul.names
printf '1\n2\n' >two.digits
expect 1 "a NUL in the target" "nul.names:2: not scored: a NUL byte" "$trf" score --model good --source two.digits --target nul.names

# --- what tokens are -----------------------------------------------------------------------------------------------
cut -f1 letters.tsv | sort -u | awk '{ print $1 * 7919 "\t" $1 }' >numbers.tsv
expect 0 "lines of one word, all of them new" "source: characters" "$trf" train --tsv numbers.tsv $small --updates 2 --model m
if "$trf" train --tsv train.tsv $model --tokens sentencepiece --vocab-size 30 --metric loss --threads 1 --updates 2 --model pieces 2>err; then
    expect 0 "subwords of a model file" "subwords" "$trf" inspect pieces
    check "whose vocabulary is told whole" eval '"$trf" inspect --json pieces | awk -F "\"target_vocabulary\":" "{
        split(\$2, part, /\"size\":|,\"tokens\":\[|\]/); n = gsub(/\",\"/, 0, part[3]) + 1 } END { exit !(n > 8 && n == part[2] - 4) }"'
    { cat train.tsv; awk 'BEGIN { for (i = 0; i < 250000; i++) printf "%d%d%d%d", i % 7, i % 11 % 9, i % 13 % 5, i % 17 % 8; print "\tone" }'; } >endless.tsv
    expect 0 "a line of a million characters is not learned from" "left out: endless.tsv:601" timeout 20 \
        "$trf" train --tsv endless.tsv $model --tokens sentencepiece --vocab-size 30 --metric loss --threads 1 --updates 2 --model m
    expect 0 "BPE" "subwords learned (BPE, --normalise nfc)" "$trf" train --tsv train.tsv $model --tokens sentencepiece:bpe --vocab-size 60 \
        --threads 1 --updates 2 --model bpe
    expect 0 "more than there can be" "both sides: [0-9]* subwords learned" "$trf" train --tsv train.tsv $model \
        --tokens sentencepiece:bpe --vocab-size 5000 --threads 1 --updates 2 --model m
    expect 0 "a vocabulary a side" "target: [0-9]* subwords learned" "$trf" train --tsv train.tsv $model --threads 1 \
        --target-tokens sentencepiece --target-vocab-size 40 --updates 2 --model m
    perl -e 'open F, "<", $ARGV[0]; binmode F; binmode STDOUT; undef $/; $_ = <F>; $n = unpack "Q<", $_;
        ($a, $b) = substr($_, 8, $n) =~ /"trf.source_vocab":\{[^}]*"data_offsets":\[(\d+),(\d+)\]/;
        print substr($_, 8 + $n + $a, $b - $a)' pieces >sentencepiece.model
    expect 0 "a SentencePiece model" "done: " "$trf" train --tsv train.tsv $model --sentencepiece sentencepiece.model \
        --metric loss --threads 1 --updates 2 --model given
    check "is as good as the one learned" same pieces given
    sp="--tsv train.tsv $model --metric loss --threads 1"
    expect 0 "the same for both sides" "tying all" "$trf" train $sp --source-sentencepiece sentencepiece.model \
        --target-sentencepiece ./sentencepiece.model --updates 1 --model m
    expect 0 "going on with that model" "resumed" "$trf" train $sp --sentencepiece sentencepiece.model --updates 3 --model given --resume
    expect 0 "and with any subwords" "resumed" "$trf" train $sp --tokens sentencepiece --updates 4 --model pieces --resume
    perl -e 'open F, "<", $ARGV[0]; binmode F; binmode STDOUT; undef $/; $_ = <F>; $n = unpack "Q<", $_;
        ($a, $b) = substr($_, 8, $n) =~ /"trf.source_vocab":\{[^}]*"data_offsets":\[(\d+),(\d+)\]/;
        print substr($_, 8 + $n + $a, $b - $a)' bpe >other.model
    expect 1 "with another one" "another SentencePiece model than 'other.model'" "$trf" train $sp --sentencepiece other.model --updates 5 --model given --resume
    expect 1 "with the other kind" "made with --source-tokens sentencepiece:unigram" "$trf" train $sp --tokens sentencepiece:bpe --updates 5 --model pieces --resume
    check "has changed nothing" eval '"$trf" train $sp --updates 3 --model given --resume 2>&1 | grep -q "resumed from update 4"'
    expect 0 "a SentencePiece model for one side" "done: " "$trf" train --tsv train.tsv $model --threads 1 --updates 2 \
        --target-sentencepiece sentencepiece.model --source-tokens words --metric loss --model given
    expect 0 "the other keeps its words" '"kind":"words"' "$trf" inspect given --json
    head -n 100 train.digits >some.digits; head -n 100 train.names | sed '50s/.*/fo\xfcr/' >some.names
    expect 0 "a line that is not UTF-8" "left out: some.names:50: expected UTF-8, got the byte 0xFC at offset 2" \
        "$trf" train --source some.digits --target some.names $model --tokens sentencepiece --vocab-size 30 \
        --threads 1 --updates 2 --model m
    expect 1 "nor may it be, strictly" "some.names:50: .*--strict" "$trf" train --source some.digits --target some.names \
        $model --tokens sentencepiece --vocab-size 30 --strict --updates 2 --model m
    printf '1 2\n3 \377 4\n' >latin
    expect 1 "nor be translated" "latin:2: answered with an empty line: expected UTF-8" "$trf" translate --model pieces \
        --input latin --beam 1
    check "keeps its place" eval 'lines_are 2 out && [ -z "$(sed -n 2p out)" ]'
    echo "3 1 4" | "$trf" translate --model pieces --beam 1 >out
    check "raw text" lines_are 1 out
    awk 'BEGIN { for (i = 0; i < 400; i++) { s = ""; for (j = 0; j < 8; j++) s = s (j % 2 ? "" : " ") sprintf("%c%c%c", 234 + (i + j) % 3, 160 + (i * 7 + j) % 31, 130 + (i * 13 + j * 5) % 60); print substr(s, 2) "	" substr(s, 2) } }' >syllables.tsv
    expect 0 "more characters than subwords were meant" "subwords learned" "$trf" train --tsv syllables.tsv $model --threads 1 \
        --tokens sentencepiece --updates 1 --model m
    expect 1 "fewer than were asked for" "less than the text has characters" "$trf" train --tsv syllables.tsv $model \
        --tokens sentencepiece --vocab-size 100 --updates 1 --model m
    for kind in unigram bpe; do
        cut="--tsv train.tsv $model --tokens sentencepiece:$kind --vocab-size 60 --subword-samples 3 --warmup 10 --threads 1 --metric loss"
        expect 0 "$kind cut at random" "^[0-9]* pairs; " "$trf" train $cut --updates 40 --model cut
        check "$kind: three copies" grep -q "^1710 pairs; " err
        expect 0 "$kind, first half" "" "$trf" train $cut --updates 15 --model halved
        expect 0 "$kind, second half" "resumed" "$trf" train $cut --updates 40 --model halved --resume
        check "$kind: resumed = straight" same cut halved
        expect 0 "$kind, another seed" "" "$trf" train $cut --seeds 2 --updates 40 --model seeds
        check "$kind: the same of several" same cut seeds.seed-1
        expect 1 "$kind, other cuts" "began with: --subword-alpha was 0.1, now it is 0.6$" "$trf" train $cut --subword-alpha 0.6 --updates 50 --model halved --resume
    done
    expect 0 "passes over three copies" "^done" "$trf" train $cut --epochs 2 --batch-tokens 200 --model m
    check "are as long as planned" awk '/ in all;/ { for (i = 1; i < NF; i++) if ($(i + 1) == "in") planned = $i }
        /^done/ { if (!($2 > 0.9 * planned && $2 < 1.1 * planned)) exit 1 }' err
    expect 2 "alpha" "--subword-alpha takes" "$trf" train $cut --subword-alpha 1.5 --updates 1 --model m
    expect 2 "too many" "8 to 1048576" "$trf" train --tsv train.tsv $model --tokens sentencepiece --vocab-size 2147483647 --model m
else
    check "a trf without libsentencepiece says so" grep -q "built without libsentencepiece" err
    echo "left out: libsentencepiece"
fi
expect 2 "words cannot be cut" "--subword-samples 3 needs subwords" "$trf" train --tsv train.tsv $small --subword-samples 3 --updates 1 --model m
expect 1 "no subwords in there" "train.digits: " "$trf" train --tsv train.tsv $small --sentencepiece train.digits --updates 1 --model m

# --- answers in other forms ------------------------------------------------------------------------------------------
expect 0 "JSON" '^{"line":1,"source":"1 2","source_tokens":\["1","2"\],"answers":\[{"text":"two one",.*"ended":"end","tokens":\["two","one"\]}\]}$' \
    "$trf" translate --model good --input three --json
check "an empty line too" grep -q '^{"line":2,"source":"","answers":\[\]}$' out
printf 'a\377b\n' | "$trf" translate --model good --json >out 2>err
check "but not one that cannot be translated" grep -q '^{"line":1,"source":".*","unusable":true,"answers":\[\]}$' out
expect 0 "alignments" '"alignment":\[[01],[01]\],"attention":\[\[' "$trf" translate --model good --input three --json --alignments --attention --n-best 2
if command -v python3 >/dev/null; then
    check "rows of attention sum to one" python3 -c 'import json
for line in open("out"):
    for a in json.loads(line)["answers"]:
        assert all(abs(sum(row) - 1) < 1e-2 for row in a["attention"]) and len(a["attention"]) == len(a["tokens"]) + 1'
fi
expect 2 "prefixes from the input" "cannot both be" sh -c "'$trf' translate --model good --prefixes - <three"
expect 2 "alignments of plain lines" "are for --json" "$trf" translate --model good --input three --alignments
printf 'nine\n' >prefixes
expect 0 "prefixes" "^nine" "$trf" translate --model good --input three --prefixes prefixes
check "the other lines are free" test "$(sed -n 3p out)" = seven
printf 'nin\351\n' >latin.prefixes
expect 1 "a prefix that is not UTF-8" "three:1: .*prefix of .latin.prefixes.: expected UTF-8, got the byte 0xE9 at offset 3" \
    "$trf" translate --model good --input three --prefixes latin.prefixes
check "behind its end answers are free" test "$(sed -n 3p out)" = seven
expect 0 "inspect as JSON" '"kind":"encoder-decoder".*"parts":{"source embedding":' "$trf" inspect good --json
if command -v python3 >/dev/null; then
    for file in good good.checkpoint halves pieces; do
        [ ! -e $file ] || check "inspect $file is JSON" sh -c "'$trf' inspect $file --json | python3 -c 'import json, sys; json.load(sys.stdin)'"
    done
fi

# --- files that are not what they seem -------------------------------------------------------------------------------
expect 2 "model and checkpoint in two spellings" "name the same file" \
    "$trf" train --tsv train.tsv $small --updates 1 --model fresh --checkpoint ./fresh
for target in '' /dev/null . no/such/folder; do
    expect 1 "a model called '$target'" "cannot write '$target'" "$trf" train --tsv train.tsv $small --updates 1 --model "$target"
done
cp three growing
expect 1 "input that grows by the output" "which is read" sh -c "'$trf' translate --model good --input growing >>growing"
expect 1 "the same through standard input" "standard input reads" sh -c "'$trf' translate --model good <growing >>growing"
check "it has not grown" same three growing
expect 2 "one stream for both sides" "cannot both be" sh -c "cat three | '$trf' score --model good --source /dev/stdin --target /dev/stdin"
"$trf" translate --model good --input odd --output quiet 2>&- || true
expect 1 "a closed standard output" "cannot write standard output" sh -c "'$trf' translate --model good --input odd >&-"
check "messages nobody hears are not in the results" test "$(grep -c "trf" quiet)" -eq 0
awk 'BEGIN { for (i = 0; i < 2000; i++) print "1 2 3" }' >long.input
"$trf" translate --model good --beam 1 --input long.input 2>err | head -n 1 >out
check "a reader who leaves is no error to tell" test "$(cat err)" = ""
if command -v gnuplot >/dev/null; then
    "$trf" plot run.json 2>err | sh -c 'exec <&-; sleep 0.5'
    check "nor of a picture" test "$(cat err)" = ""
fi
(ulimit -f 1; "$trf" translate --model good --beam 1 --n-best 1 --input long.input --output limited) 2>err
check "a file that may not grow" grep -q "cannot write limited: File too large" err
controls=$(printf 'a\302\2331mb')
"$trf" train --tsv "$controls" $small --updates 1 --model m 2>err
"$trf" train --tsv train.tsv $small --updates 1 --seeds 2 --model "$controls" 2>>err
"$trf" train --tsv train.tsv $small --updates 1 --init-from "$controls" --model m 2>>err
check "those of a path are told" test "$(grep -c 'a??1mb\|a?1mb' err)" -ge 5
check "no control character reaches the terminal" test "$(LC_ALL=C grep -c "$(printf '\302\233')" err)" -eq 0
expect 1 "inspect a text" "test.tsv: .*safetensors" "$trf" inspect test.tsv
printf abc >abc
expect 1 "inspect three bytes" "abc: not a safetensors file, or truncated: 3 bytes" "$trf" inspect abc
"$trf" train --tsv train.tsv $model --batch-tokens 2000000 --updates 0 --model vast 2>/dev/null
expect 0 "inspect a checkpoint of a large trainer in little memory" "^weights: " \
    sh -c "ulimit -v 400000; '$trf' inspect vast.checkpoint"
expect 2 "a layer too many" "--encoder-layers must be between 1 and 256, got 300" "$trf" train --tsv train.tsv --encoder-layers 300 --updates 1 --model m
expect 2 "a layer too many for the kind" "--encoder-layers must be 0 in a decoder-only model" \
    "$trf" train --objective causal --text train.tsv --encoder-layers 2 --updates 1 --model m

# --- ending: SIGHUP saves too, a validation is left within a second, it is said at once ---------------------------
expect 0 "unbroken again" "" "$trf" train $files $small --updates 3000 --valid-every 1000 --model still
for signal in HUP TERM; do
    rm -f stopped*
    : >log
    "$trf" train $files $small --updates 3000 --valid-every 1000 --model stopped 2>>log &
    pid=$!
    wait_for "^update [0-9]" log
    kill -$signal $pid
    wait $pid
    check "SIG$signal ends it" test $? -ge 128
    check "it says what it does" grep -q "finishing update [0-9]*, then saving; again: stop at once" log
    check "and what it has done" grep -q "stopped by signal .*--resume goes on" log
    expect 0 "going on after $signal" "" "$trf" train $files $small --updates 3000 --valid-every 1000 --model stopped --resume
    check "the same after $signal" same still stopped
done
: >log
"$trf" train $rough --updates 100000000 --model twice 2>>log &
pid=$!
wait_for "^update [0-9]" log
kill -TERM $pid $pid
wait $pid
check "a signal that comes twice at once is one" grep -q "stopped by signal 15 .*--resume goes on" log
: >log
"$trf" train $rough --accumulate 100000000 --updates 1 --model twice 2>>log &
pid=$!
wait_for "^[0-9]* pairs" log
sleep 0.2
kill -TERM $pid
sleep 0.5
check "an update that takes long is waited for" kill -0 $pid
kill -TERM $pid
wait $pid
check "but no more after a second signal" test $? -eq 143
: >log
"$trf" train $rough --accumulate 100000000 --updates 1 --model twice 2>>log &
pid=$!
wait_for "^[0-9]* pairs" log
sleep 0.2
for signal in TERM HUP TERM; do kill -$signal $pid; sleep 0.4; done
check "nor after one of another kind between them" eval '! kill -0 $pid 2>/dev/null'
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
awk 'BEGIN { for (i = 0; i < 2000; i++) print "a" i % 50 " b" i % 40 "\tw" i " w" i * 7 % 2000 }' >wordy.tsv
awk 'BEGIN { for (i = 0; i < 300; i++) { for (j = 0; j < 10; j++) printf "a%d b%d ", (i + j * j) % 50, i * j % 40; print "\tw" i } }' >slow.tsv
: >log
"$trf" train --tsv wordy.tsv --valid-tsv slow.tsv --tokens words --metric wer --valid-beam 64 --learning-rate 1e-9 --threads 1 --updates 1 --log-every 1 --model slow 2>>log &
pid=$!
wait_for "^update 1 " log
sleep 2         # its loss is known by then, and translating goes on for a minute
began=$(date +%s%N)
kill -TERM $pid
wait $pid
check "a signal in a validation ends it" test $? -eq 143
took=$((($(date +%s%N) - began) / 1000000))
check "and says so" grep -q "leaving the validation of update 1, then saving" log
check "a validation is left at once ($took ms)" test $took -lt 3000     # within a second, beside other programs
check "and not at its end" test "$(grep -c '^validation' log)" -eq 0

# --- other objectives --------------------------------------------------------------------------------------------------
# How many digits a line has; whether each is odd; counting; a language of one sentence.
awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" n " digits" }' train.tsv >counts.tsv
awk -F '\t' '{ n = split($1, d, " "); s = ""; for (i = 1; i <= n; i++) s = s (i > 1 ? " " : "") (d[i] % 2 ? "odd" : "even"); print $1 "\t" s }' \
    train.tsv >parity.tsv
awk 'BEGIN { split("one two three four five six seven eight nine", w, " "); for (i = 0; i < 400; i++) { s = ""; for (j = 0; j < 6; j++) s = s (j ? " " : "") w[(i + j) % 9 + 1]; print s } }' >counting
quick="--size tiny --d-model 16 --n-heads 2 --d-ff 32 --batch-tokens 256 --warmup 30 --learning-rate 0.01 --dropout 0 --seed 5 --threads 1"
fast="$quick --updates 300"
expect 0 "classify" "best: update [0-9]*, accuracy 100" "$trf" train --objective classify --tsv counts.tsv $fast --model counts
printf '3 1 4 1\n\n5\n7 7 7 7 7\n' >four
expect 0 "labels" "^4 digits$" "$trf" classify --model counts --input four
printf '4 digits\n\n1 digits\n5 digits\n' >wanted
"$trf" classify --model counts --input four >out 2>err
check "labels of lines" same out wanted
expect 0 "labels with probabilities" '"labels":\[{"label":"4 digits","probability":0.9[0-9]*},{"label":"[1235] digits"' \
    "$trf" classify --model counts --input four --json
expect 0 "the best alone" '^{"line":1,"text":"3 1 4 1","labels":\[{"label":"4 digits","probability":[0-9.]*}\]}$' \
    "$trf" classify --model counts --input four --json --n-best 1
expect 0 "a score" "^0.9[0-9]*	4 digits$" "$trf" classify --model counts --input four --scores
expect 0 "first instead of mean" "done: 300" "$trf" train --objective classify --tsv counts.tsv --pooling first --metric f1 $fast --model m
check "F1 is told" grep -q "f1 [0-9.]*  best so far" err
expect 0 "tag" "best: update [0-9]*, accuracy 100" "$trf" train --objective tag --tsv parity.tsv $fast --model parity
printf 'odd odd even odd\n\nodd\nodd odd odd odd odd\n' >wanted
"$trf" tag --model parity --input four >out 2>err
check "a label a word" same out wanted
expect 0 "words with labels" '^{"line":3,"words":\[{"word":"5","label":"odd","probability":0.9[0-9]*}\]}$' \
    "$trf" tag --model parity --input four --json
expect 0 "characters have blanks between them" "done: " "$trf" train --objective tag --tsv parity.tsv --tokens characters $fast --model letters
"$trf" tag --model letters --input four >out 2>err
check "still a label a word" same out wanted
expect 0 "F1 of tags" "f1 100" "$trf" train --objective tag --tsv parity.tsv --metric f1 $fast --model m
expect 0 "causal" "best: update [0-9]*, loss" "$trf" train --objective causal --text counting $fast --label-smoothing 0 --model counter
expect 0 "going on" "^two three four five six seven$" "$trf" generate --model counter --prompt "two three" --temperature 0
expect 0 "lines" "^nine one two three four five$" "$trf" generate --model counter --input counting --temperature 0
check "as many" lines_are 400 out
"$trf" generate --model counter --count 20 --seed 3 --threads 1 >one.thread
"$trf" generate --model counter --count 20 --seed 3 --threads 2 --batch 7 >out
check "the same on two threads, in other batches" same one.thread out
"$trf" generate --model counter --count 20 --seed 4 >out
check "another seed" eval '! cmp -s one.thread out'
expect 0 "an object a text" '^{"text":"two three.*","log_probability":-[0-9.]*,"tokens":4,"ended":"end"}$' \
    "$trf" generate --model counter --prompt "two three" --json --temperature 0
expect 0 "score a text" "^-[0-9.]*	7$" "$trf" score --model counter --target counting
check "a score a line" lines_are 400 out
check "with their end marks" test "$(awk '{ n += $2 } END { print n }' out)" -eq $(($(wc -w <counting) + 400))
expect 2 "a language model has no source" "give --target FILE alone" "$trf" score --model counter --source counting --target counting
expect 2 "others have" "give --source FILE and --target FILE" "$trf" score --model one --target train.names
expect 0 "more than is read at a time" "^one two" "$trf" generate --model counter --prompt "one two $(head -n 200 counting | tr '\n' ' ')"
expect 0 "a character model" "done: " "$trf" train --objective causal --text counting --documents file --tokens characters --chunk 64 \
    $quick --updates 60 --model speller
expect 0 "writes lines" "" "$trf" generate --model speller --prompt "one" --max-tokens 40
expect 0 "packed" "done: " "$trf" train --objective causal --text counting --pack --chunk 20 $quick --updates 20 --model m
expect 0 "mask" "best: update [0-9]*, loss" "$trf" train --objective mask --text counting $fast --model masked
expect 0 "span" "best: update [0-9]*, loss" "$trf" train --objective span --text counting $fast --model spans
expect 0 "sampling from an encoder-decoder" "" "$trf" generate --model spans --input counting --temperature 0.5
for objective in "classify --tsv counts.tsv" "tag --tsv parity.tsv" "causal --text counting" "mask --text counting --whole-words yes" "span --text counting"; do
    name=${objective%% *}
    "$trf" train --objective $objective $quick --updates 40 --valid-every 10 --model straight 2>err
    "$trf" train --objective $objective $quick --updates 15 --valid-every 10 --model halved 2>err
    expect 0 "$name, second half" "resumed from update 16" "$trf" train --objective $objective $quick --updates 40 --valid-every 10 --model halved --resume
    check "$name, resumed = straight" same straight halved
done
{ cat counting; yes one | head -n 350 | tr '\n' ' '; echo; } >uneven
lengths="--objective mask --text uneven --chunk 400 $quick --valid-size 100 --valid-every 10 --ema 0"
"$trf" train $lengths --updates 40 --model straight 2>wanted
"$trf" train $lengths --updates 15 --model halved 2>/dev/null
expect 0 "a text longer than a batch" "resumed from update 16" "$trf" train $lengths --updates 40 --model halved --resume
grep '^validation: update [234]0' wanted >first
grep '^validation: update [234]0' err >out
check "is validated as before" same first out
check "three times" lines_are 3 out
{ yes "1 2 3	small" | head -n 70000; yes "7 8 9	large" | head -n 400; } | sed 's/\\t/\t/' >sorted.tsv
expect 0 "a file sorted by label" "^done: 1 update," "$trf" train --objective classify --tsv sorted.tsv $quick --updates 1 --model m
parameters() { sed -n 's/^\([0-9]*\) of \([0-9]*\) parameters are those.*/\1 \2/p' err; }
"$trf" train --objective classify --tsv counts.tsv --init-from counts --seed 5 --threads 1 --updates 0 --model m 2>err
check "the same labels keep their head" eval 'set -- $(parameters); test $1 -eq $2'
expect 0 "and say what they said" "^4 digits$" "$trf" classify --model m --input four
sed 's/1 digits/more digits/' counts.tsv >renamed.tsv
"$trf" train --objective classify --tsv renamed.tsv --init-from counts --seed 5 --threads 1 --updates 0 --model m 2>err
check "other labels get a new one" eval 'set -- $(parameters); test $1 -eq $(($2 - 2))'
expect 0 "but for those that both have" "^4 digits$" "$trf" classify --model m --input four
expect 0 "a side that a language model lacks" "^done" "$trf" train --tsv train.tsv --init-from counter --source-vocab-size 15 --min-count 2 \
    --seed 5 --threads 1 --updates 1 --model m
expect 2 "the side that it has" "the vocabulary is that of the model\|without --extend-vocabulary" "$trf" train --tsv train.tsv --init-from counter \
    --target-vocab-size 15 --updates 1 --model m
expect 2 "spans of letters" "needs words or subwords" "$trf" train --objective span --text counting --tokens characters $quick --updates 1 --model m
expect 0 "no end marks" "^done" "$trf" train --tsv train.tsv $quick --target-eos no --updates 1 --model m
expect 0 "are none of the score" "" "$trf" score --model m --source test.digits --target test.names
check "either" test "$(awk '{ n += $2 } END { print n }' out)" -eq "$(wc -w <test.names)"
expect 0 "from hidden words to labels" "parameters are those of masked" "$trf" train --objective tag --tsv parity.tsv --init-from masked \
    --extend-vocabulary --seed 5 --threads 1 --updates 20 --model m
check "its vocabulary has grown" grep -q "source: 10 tokens are new" err
expect 0 "going on with a translator" "parameters are those of good" "$trf" train --tsv train.tsv --init-from good --freeze "encoder.*" \
    --freeze "*embed*" --seed 5 --threads 1 --updates 20 --model tuned
check "some is frozen" grep -q "frozen: [1-9]" err
expect 2 "nothing of that name" "no parameter of the model is called" "$trf" train --tsv train.tsv $small --freeze "nonsense*" --updates 1 --model m
expect 1 "another architecture" "TRF_E_SHAPE" "$trf" train --tsv train.tsv --init-from good --d-model 32 --updates 1 --model m
expect 1 "another objective" "of another --objective" "$trf" train --objective tag --tsv parity.tsv $fast --model counts --resume
expect 1 "no tagger" "was not trained with --objective tag" "$trf" tag --model counts --input four
expect 1 "no classifier" "was not trained with --objective classify" "$trf" classify --model parity --input four
expect 1 "one label" "there is one label" "$trf" train --objective classify --source train.digits --target /dev/fd/3 --updates 1 --model m 3<<END
$(yes same | head -n 600)
END
{ head -n 500 parity.tsv; printf '1 2 3\todd even\n'; } >short.tsv
expect 0 "labels are missing" "short.tsv:501: 3 words, but 2 labels" "$trf" train --objective tag --tsv short.tsv $quick --updates 2 --model m
expect 2 "a text for pairs" "is for --objective causal" "$trf" train --text counting --updates 1 --model m
expect 2 "pairs for a text" "give --text FILE" "$trf" train --objective causal --tsv train.tsv --updates 1 --model m
expect 2 "a metric for others" "--metric bleu does not go with" "$trf" train --objective causal --text counting --metric bleu --model m
expect 2 "chunks of nothing" "--chunk takes 2 to" "$trf" train --objective causal --text counting --chunk 1 --model m

# --- what was taken for something else: every sentence of the help, beside what happens ------------------------------
"$trf" train $kept --schedule noam --updates 20 --model rates 2>/dev/null
expect 2 "a rate of another kind" "needs --learning-rate" "$trf" train $kept --schedule constant --updates 30 --model rates --resume
expect 0 "is given" "^done" "$trf" train $kept --schedule constant --learning-rate 0.001 --updates 30 --model rates --resume
expect 0 "the paper by another schedule" "inverse-sqrt, peak 0.00221 after" "$trf" train $files --recipe paper --size tiny --schedule inverse-sqrt \
    --updates 0 --model m
expect 0 "the paper with fewer layers" "6 encoder and 2 decoder layers, d-model 512, d-ff 2048, 8 heads" "$trf" train $files --recipe paper \
    --decoder-layers 2 --updates 0 --model m
expect 0 "the paper with two vocabularies" "tying decoder" "$trf" train $files --recipe paper --size tiny --joint-vocabulary no --updates 0 --model m
check "has two" grep -q "14 source and 14 target tokens" err
expect 0 "a vocabulary of other words" "100.0 % of the source's tokens are unknown.*--extend-vocabulary adds" "$trf" train --tsv train.tsv --columns 2,1 \
    --init-from good --seed 5 --threads 1 --updates 1 --model m
tuning="--tsv train.tsv --init-from good --conventions pytorch --seed 5 --threads 1 --batch-tokens 256 --model tuned"
"$trf" train $tuning --updates 5 2>/dev/null
expect 0 "a preset beside another model" "resumed from update 6" "$trf" train $tuning --updates 8 --resume
expect 2 "one vocabulary of two" "says how many vocabularies" "$trf" train --tsv train.tsv --init-from good --joint-vocabulary yes --updates 1 --model m
"$trf" train --objective classify --tsv counts.tsv $quick --pooling first --updates 2 --model pooled 2>/dev/null
"$trf" train --objective classify --tsv counts.tsv --init-from pooled --seed 5 --threads 1 --updates 2 --model m 2>/dev/null
expect 0 "pooling is inherited" "^head: label of the first token" "$trf" inspect m
expect 2 "seeds from a pipe" "'/dev/stdin' will not do" sh -c "cat train.tsv | '$trf' train --tsv /dev/stdin $quick --seeds 2 --updates 2 --model m"
printf 'nine\n\n\n\n\n\n\n\n\n\n' >prefixes
expect 1 "more prefixes than lines" "prefixes has more lines than three" "$trf" translate --model good --input three --prefixes prefixes
expect 2 "tokens seen seldom" "--min-count is not for subwords" "$trf" train $files $quick --tokens sentencepiece --min-count 2 --updates 1 --model m
expect 2 "the end of no cosine" "--final-rate is for" "$trf" train $files $quick --final-rate 1e-5 --updates 1 --model m
expect 2 "the beginning of noam" "--initial-rate is not for" "$trf" train $files $quick --schedule noam --initial-rate 1e-5 --updates 1 --model m
expect 2 "nothing to judge" "--metric is for pairs to validate on" "$trf" train $files $model --valid-size 0 --metric wer --updates 1 --model m
expect 2 "nor when" "--valid-every is for" "$trf" train $files $model --valid-size 0 --valid-every 5 --updates 1 --model m
expect 1 "another vocabulary" "vocabularies cannot change" "$trf" train $kept --vocab-size 9 --updates 40 --model rates --resume
"$trf" train --objective tag --tsv parity.tsv --metric f1 --valid-every 5 --log f1.log $quick --updates 10 --model m 2>/dev/null
check "a log of f1" grep -q '"metric":"f1"' f1.log
if command -v gnuplot >/dev/null; then
    expect 0 "its plot" "^ *f1 *$" "$trf" plot f1.log
    expect 0 "as a picture" "" "$trf" plot f1.log --output f1.svg
    check "that is whole" grep -q '</svg>' f1.svg
    [ ! -c /dev/full ] || expect 1 "a plot that cannot be written" "cannot write standard output" sh -c "'$trf' plot f1.log >/dev/full"
fi
rm -f endless*
"$trf" train $kept --valid-every 5 --checkpoint-every 1000000 --updates 1000000 --model endless 2>/dev/null &
endless=$!
tries=0
until [ -e endless.checkpoint ] || [ $tries -gt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -9 $endless
wait $endless 2>/dev/null
expect 0 "killed behind a validation" "resumed from update [0-9]*[16]$" "$trf" train $kept --valid-every 5 --updates 100 --model endless --resume
unsaid="$files $model --batch-tokens 256 --seed 5 --threads 1 --valid-size 0 --metric auto --vocab-size 0 --tokens auto --model unsaid"
"$trf" train $unsaid --updates 5 2>/dev/null
expect 0 "what was left to the data" "resumed from update 6" "$trf" train $unsaid --updates 10 --resume
awk 'BEGIN { for (i = 0; i < 4000; i++) print "word" int(i / 2) "\tsaid " i % 7 }' >twice.tsv
expect 0 "nearly all of a text in which all stands twice" "held out: [0-9]* of 4000" "$trf" train --tsv twice.tsv $model --threads 1 --valid-size 3999 \
    --updates 0 --model m
expect 0 "nothing can be better" "(nothing can be better)" "$trf" train --objective classify --tsv counts.tsv --seed 5 --threads 1 --batch-tokens 256 --init-from counts --valid-every 2 \
    --patience 4 --model m
{ cat parity.tsv; awk 'BEGIN { for (i = 0; i < 600; i++) printf "1 "; printf "\t"; for (i = 0; i < 600; i++) printf "odd "; print "" }'; } >long.tsv
expect 0 "a line too long for tags" "1 too long" "$trf" train --objective tag --tsv long.tsv $quick --updates 1 --model m
expect 0 "a large batch of one line" "" "$trf" classify --model counts --input four --batch 2000000
! command -v timeout >/dev/null || expect 124 "models of --keep" "only models of the last validations are there" timeout -k 5 -s INT 5 "$trf" train $files $model --threads 1 --checkpoint '' --valid-size 0 \
    --valid-every 5 --keep 2 --updates 100000000 --model m
expect 1 "a model for a checkpoint" "good is a model, not the checkpoint" "$trf" train $kept --updates 1 --checkpoint good --model m --resume
expect 1 "no checkpoint yet" "there is no 'nowhere.checkpoint' to go on from" "$trf" train $kept --updates 1 --model nowhere --resume
expect 2 "beta1 of 1" "beta1 must be 0 or more and below 1" "$trf" train $files $quick --beta1 1 --updates 1 --model m
expect 2 "a text to validate on" "--valid-text is for" "$trf" train $files $model --valid-text counting --updates 1 --model m
: >nothing
expect 1 "nothing to validate on" "nothing is empty: nothing to validate on" "$trf" train $files $model --valid-source nothing --valid-target nothing \
    --updates 1 --model m
expect 2 "a column too far" "--columns takes" "$trf" train --tsv train.tsv --columns 4294967297,4294967298 $model --updates 1 --model m
awk 'BEGIN { for (i = 0; i < 600; i++) print "word" int(i / 3) "\tsaid " i % 7 " and " i % 11 }' >dictionary.tsv
expect 0 "most of a dictionary" "held out: [1-5][0-9][0-9] of 600" "$trf" train --tsv dictionary.tsv $model --threads 1 --valid-size 500 --updates 1 --model m
expect 0 "small batches of long pairs" "at most [2-9] tokens a side" "$trf" train $files $model --threads 1 --batch-tokens 1 --updates 1 --model m
expect 2 "attention without a source" "about source tokens" "$trf" translate --model counter --input three --json --alignments

# what would be lost, or would do nothing
cp counting text
expect 1 "a model over its text" "--model 'text' is the file that --text reads" "$trf" train --objective causal \
    --text text $quick --updates 1 --model text
expect 1 "a log over the text to validate on" "--log 'text' is the file that --valid-text reads" "$trf" train \
    --objective causal --text counting \
    --valid-text text $quick --updates 1 --model m --log text
cp masked other
expect 1 "a model over the one it begins with" "--model 'other' is the file that --init-from reads" "$trf" train \
    --objective mask --text counting \
    --init-from other --threads 1 --updates 1 --model other
check "all is still there" eval 'same text counting && same other masked'
expect 2 "labels have no spans" "--mean-span has no effect on --objective tag" "$trf" train --objective tag \
    --tsv parity.tsv --mean-span 2 $quick --updates 1 --model m
expect 2 "pairs have no chunks" "--chunk has no effect on --objective translate" "$trf" train --tsv train.tsv \
    --chunk 20 $quick --updates 1 --model m
expect 2 "documents have ends" "--target-eos has no effect on --objective causal" "$trf" train --objective causal \
    --text counting --target-eos yes $quick --updates 1 --model m
expect 2 "nothing to extend" "--extend-vocabulary is for --init-from" "$trf" train --tsv train.tsv \
    --extend-vocabulary $quick --updates 1 --model m
expect 2 "a size of its own" "the sizes are those of that model" "$trf" train --tsv train.tsv --init-from good \
    --size base --updates 1 --model m
expect 1 "tokens of its own" "good was made with other --source-tokens" "$trf" train --tsv train.tsv \
    --init-from good --tokens characters --updates 1 --model m
expect 1 "two vocabularies are not one" "needs one vocabulary for both sides, but good has two" "$trf" train \
    --tsv train.tsv --init-from good \
    --tying all --threads 1 --updates 1 --model m
expect 2 "numbers of labels" "--n-best is for --json" "$trf" classify --model counts --input four --n-best 2
expect 1 "another pooling" "of another --objective or --pooling" "$trf" train --objective classify --tsv counts.tsv \
    $fast --model counts --pooling first --resume

# beginning with other kinds
awk -F '\t' '{ print $1 "\t" $2 " indeed" }' train.tsv >indeed.tsv
expect 0 "one vocabulary" "done: " "$trf" train --tsv train.tsv --tying all $quick --updates 20 --model joint
expect 0 "grows by both sides" "both sides: 1 token is new" "$trf" train --tsv indeed.tsv --init-from joint \
    --extend-vocabulary --threads 1 \
    --updates 200 --model m
expect 0 "and is used" "^[a-z ]* indeed$" "$trf" translate --model m --input four
expect 0 "a decoder for a translator" "51 of 126 parameters are those of counter" "$trf" train --tsv train.tsv \
    --init-from counter --threads 1 \
    --updates 20 --model m
expect 0 "which knows ends" "target-eos yes" "$trf" inspect m
expect 0 "an encoder for one" "parameters are those of masked" "$trf" train --tsv train.tsv --init-from masked \
    --threads 1 --updates 2 --model m
expect 1 "nothing in common" "nothing of masked fits" "$trf" train --objective causal --text counting \
    --init-from masked --threads 1 --updates 2 --model m
if "$trf" train --tsv train.tsv --tying all --tokens sentencepiece $quick --updates 1 --model pieces 2>err; then
    expect 0 "one vocabulary of subwords, cut at random" "^1[01][0-9][0-9] pairs" "$trf" train --tsv train.tsv \
        --init-from pieces --subword-samples 2 \
        --threads 1 --updates 2 --model m
    yes 'ص ل ى ا ه ع ي و س م' | head -n 300 >letters.arabic
    awk 'BEGIN { s = "\357\267\272"; for (i = 0; i < 100; i++) print s s s s s "\t" (i % 2 ? "A" : "B") }' \
        >ligatures.tsv
    expect 0 "letters" "done: " "$trf" train --objective mask --text letters.arabic --tokens sentencepiece \
        --vocab-size 16 $quick --updates 2 --model m
    expect 0 "a character that becomes eighteen" "^95 texts" "$trf" train --objective tag --tsv ligatures.tsv \
        --init-from m --threads 1 --updates 2 --model pieces
    cut -f 1 ligatures.tsv >ligatures
    expect 0 "in a text too" "^95 chunks" "$trf" train --objective mask --text ligatures --init-from m --threads 1 \
        --updates 2 --model pieces
fi

# labels, lines and models that will not do
{ head -n 300 counts.tsv; printf '1 2\tb\377d\n'; } >broken.tsv
expect 0 "a label that is not UTF-8" "broken.tsv:301: expected UTF-8, got the byte 0xFF at offset 5" "$trf" train --objective classify \
    --tsv broken.tsv $quick --updates 2 \
    --valid-size 0 --model m
check "is no label" grep -q " 5 labels" err
{ head -n 300 parity.tsv; printf '1 2\tb\377d odd\n'; } >broken.tsv
expect 0 "one of them is not UTF-8" "broken.tsv:301: expected UTF-8, got the byte 0xFF at offset 5" "$trf" train --objective tag \
    --tsv broken.tsv $quick --updates 2 \
    --valid-size 0 --model m
sed 's/odd/zzz/g' parity.tsv >renamed.tsv
expect 0 "other labels" "done: " "$trf" train --objective tag --tsv renamed.tsv $quick --updates 2 --model m
expect 1 "have no mean" "have different labels" "$trf" average parity m --output mean
expect 0 "labels are shown" "^2 labels: even | odd$" "$trf" inspect parity
expect 0 "in an object too" '"labels":\["even","odd"\]' "$trf" inspect parity --json
for command in translate generate "score --source train.digits --target train.names"; do
    expect 1 "${command%% *} of labels" "parity: an encoder-only model has no decoder" "$trf" $command --model parity
done
printf '3 \377 1\n' >broken
expect 1 "a word that is not UTF-8" "broken:1: .*expected UTF-8, got the byte 0xFF at offset 2" "$trf" tag --model parity --input broken
printf 'two\n\377\nthree\n' >broken
expect 1 "a line that is not UTF-8" "broken:2: .*expected UTF-8" "$trf" generate --model counter \
    --input broken --temperature 0
check "keeps its place" eval 'lines_are 3 out && [ -z "$(sed -n 2p out)" ]'
expect 1 "in objects too" '"ended":"unusable"' "$trf" generate --model counter --input broken --json

# --- figures -----------------------------------------------------------------------------------------------
# The numbers beside these figures are sacreBLEU's and jiwer's: tests/test_metrics.c has more of them.
printf 'The cat sat on the mat.\nIt is 1,5 m long.\n\nFINE\n' >references
printf 'The cat is on the mat.\nIt is 1,5 m wide.\n\nfine\n' >answers
printf 'A cat is on the mat.\nIt is 1,5 m wide.\nNothing\nfine\n' >second
expect 0 "help of eval" "default bleu,chrf,exact,wer,cer" "$trf" eval --help
expect 0 "eval" "^BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:trf-[0-9.]* = 50.20 78.6/63.6/4" \
    "$trf" eval references answers
cp out figures
check "brevity" grep -q " (BP = 1.000 ratio = 1.000 hyp_len = 14 ref_len = 14)$" figures
check "chrF" grep -q "^chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:trf-[0-9.]* = 55.79$" figures
check "exact" grep -q "^exact|.* = 25.00 (1 of 4 lines)$" figures
check "WER" grep -q "^WER|.* = 25.00 (3 errors, 12 words)$" figures
check "CER" grep -q "^CER|.* = 25.00 (11 errors, 44 characters)$" figures
check "a line each" lines_are 5 figures
expect 0 "eval of standard input" "" sh -c "'$trf' eval references <answers"
check "the same figures" same out figures
expect 0 "eval of '-', references last" "" sh -c "'$trf' eval answers - --metrics exact,wer <references"
check "those that are asked for" lines_are 2 out
expect 0 "lower case" "nrefs:1|case:lc|unit:line|.* = 50.00 (2 of 4" "$trf" eval references answers --lowercase
expect 0 "between blanks" "tok:none" "$trf" eval references answers --tokenize none --metrics bleu
expect 0 "characters" "tok:char" "$trf" eval references answers --tokenize char --metrics bleu
expect 0 "word pairs too" "^chrF2++|.*|nw:2|.* = " "$trf" eval references answers --metrics chrf++
expect 0 "more references" "^WER|nrefs:3|.* = 8.33 (1 error, 12 words)" \
    "$trf" eval references answers --reference second --reference references
expect 0 "an object" '^{"lines":4,"bleu":{"score":50.197[0-9]*,"signature":"nrefs:1|.*"matches":\[11,7,4,2\]}.*}}$' \
    "$trf" eval references answers --json
check "errors in it" grep -q '"wer":{"score":25,"signature":"[^"]*","errors":3,"words":12}' out
printf 'r iy d\tr eh d\n\tk ae t\t\n\t\n' >sounds
printf 'r eh d\nk ae t\n\n' >heard
expect 0 "alternatives" "^exact|nrefs:var|.* = 100.00 (3 of 3 lines)" "$trf" eval sounds heard --alternatives
expect 0 "a tab is a blank otherwise" "^exact|nrefs:1|.* (2 of 3 lines)" "$trf" eval sounds heard
expect 1 "another number of lines" "answers has 4 lines, but heard has 3" "$trf" eval heard answers
expect 1 "of the second references" "answers has 4 lines, but heard has 3" \
    "$trf" eval references answers --reference heard
expect 1 "no such references" "cannot read 'missing'" "$trf" eval missing answers
expect 1 "no such second references" "cannot read 'missing'" "$trf" eval references answers --reference missing
expect 1 "no lines" "/dev/null and /dev/null have no lines" "$trf" eval /dev/null /dev/null
printf 'a\0b\n' >zero
expect 1 "a NUL byte" "zero:1: a NUL byte" "$trf" eval zero zero
expect 2 "no file to evaluate" "give a file of references" "$trf" eval
expect 2 "too many files" "give a file of references" "$trf" eval one two three
expect 2 "standard input twice" "two of the files cannot both be standard input" "$trf" eval -
expect 2 "and by its other name" "cannot both be" sh -c "seq 2000 | '$trf' eval /dev/stdin"
expect 2 "unknown figure" "bleu,chrf,chrf++,exact,wer,cer, got 'blue'" \
    "$trf" eval references answers --metrics bleu,blue
expect 2 "no figure" "got ''" "$trf" eval references answers --metrics ''

# --- found by a customer who wanted to refuse all this ---------------------------------------------------------------
plain="--tsv train.tsv $small"
if "$trf" train --tsv train.tsv $model --tokens sentencepiece --vocab-size 30 --metric loss --threads 1 --updates 1 --model pieces 2>err; then
    open="--tsv train.tsv $small --source-tokens sentencepiece --source-vocab-size 30 --target-tokens words --target-vocab-size 0"
    expect 0 "what is left open" "" "$trf" train $open --updates 6 --model open
    expect 0 "in two" "" "$trf" train $open --updates 3 --model parts
    expect 0 "is what was decided" "resumed" "$trf" train $open --updates 6 --model parts --resume
    check "and stays so in the checkpoint" same open.checkpoint parts.checkpoint
    expect 1 "too few subwords" "less than the text has characters" "$trf" train --tsv train.tsv $small --tokens sentencepiece --vocab-size 8 --updates 1 --model m
    check "told once" test "$(grep -c 'learning subwords' err)" -eq 0
fi

# killed behind its best validation: it goes on from there, not from the first one
: >killed.err
"$trf" train $plain --valid-every 20 --updates 100000 --model killed 2>killed.err &
pid=$!
wait_for "update 140 .*best so far" killed.err
kill -KILL $pid
wait $pid 2>/dev/null
expect 0 "going on behind a kill" "resumed from update [1-9][0-9][0-9]" "$trf" train $plain --valid-every 20 --updates 300 --model killed --resume

awk 'BEGIN { for (i = 0; i < 400; i++) print "w" i % 37 " v" int(i / 37) "\t" (i == 10 ? "rare" : i % 2 ? "a" : "b") }' >rare.tsv
tiny="--threads 1 --d-model 16 --n-heads 2 --d-ff 32 --encoder-layers 1 --updates 2"
expect 0 "a label that comes once" "texts; .* 3 labels" "$trf" train --objective classify --tsv rare.tsv $tiny --strict --model labels
sed 's/rare$/a-label rare/' rare.tsv | sed '11!s/\(.*\)\t\(.*\)/\1\t\2 \2/' >tags.tsv
expect 0 "and that of a word" "texts; .* 4 labels" "$trf" train --objective tag --tsv tags.tsv $tiny --strict --model tags
{ cat rare.tsv; printf 'x y\t'; head -c 3000 /dev/zero | tr '\0' l; echo; } >long.tsv
expect 0 "a label that is none" "long.tsv:401: a label of 3000 bytes, at most 1000" "$trf" train --objective classify --tsv long.tsv $tiny --model labels
expect 1 "which --strict ends at" "long.tsv:401" "$trf" train --objective classify --tsv long.tsv $tiny --strict --model labels
awk 'BEGIN { for (i = 0; i < 3000; i++) { printf "w" i % 7 " x\tl%d", i; for (j = 0; j < 45; j++) printf " and more"; print "" } }' >many.tsv
expect 1 "labels of a megabyte" "labels have [0-9]* bytes together" "$trf" train --objective classify --tsv many.tsv $tiny --valid-size 0 --model labels

echo old >messages
"$trf" train $plain --updates 2 --model m --log messages 2>>messages
check "a log that messages go to" test $? -eq 1
check "is named" grep -q "'messages' is the file that messages go to" messages
check "and stays whole" grep -q "^old$" messages
"$trf" train $plain --updates 2 --model m --log /dev/stderr 2>>messages
check "by its other name too" test $? -eq 1
check "old lines stay" grep -q "^old$" messages
cp one precious
for name in /dev/stdout precious; do
    "$trf" translate --model precious --input test.digits --output $name >>precious 2>err
    check "no answers behind the model ($name)" test $? -eq 1
done
check "which is as it was" same one precious
expect 1 "no log in a folder's place" "Is a directory" "$trf" train $plain --updates 2 --model m --log .
expect 0 "a log of a name with words" "^done" "$trf" train $plain --updates 2 --keep 1 --model m --log m.update-notes
expect 0 "help about help" "usage: trf COMMAND" "$trf" help help
awk 'BEGIN { for (i = 0; i < 270000; i++) print "w" i % 7 "\t" i }' >own.tsv
expect 1 "a label for every line" "more than 65536 labels" timeout 20 "$trf" train --objective classify --tsv own.tsv $tiny --model labels
awk 'BEGIN { for (i = 0; i < 60000; i++) print "w" i % 7 "\t" i % 50000 }' >manifold.tsv
expect 0 "many labels" "50000 labels" timeout 60 "$trf" train --objective classify --tsv manifold.tsv --threads 1 --d-model 8 --n-heads 1 --d-ff 16 \
    --encoder-layers 1 --tokens words --valid-size 10000 --updates 1 --metric loss --model labels
awk 'BEGIN { for (i = 0; i < 200; i++) print "text" int(i / 2) "\t" (i == 20 ? "rare" : i % 4 < 2 ? "a" : "b") }' >twice.tsv
expect 0 "a rare label takes its source along" "held out: [0-9]*[02468] of 200" "$trf" train --objective classify --tsv twice.tsv $tiny --valid-size 150 --model labels
echo old >all
"$trf" translate --model one --input test.digits --output /dev/stdout >>all 2>/dev/null
check "standard output by its name is added to" test "$(head -n 1 all)" = old -a "$(wc -l <all)" -eq 41
expect 1 "no file is called -" "'-' is no name" "$trf" train $plain --updates 2 --model m --log -
expect 1 "nor a model" "'-' is no name" "$trf" train $plain --updates 2 --model -
expect 2 "a log of a kept model's name" "--log 'm.update-2' is a name that training" "$trf" train $plain --updates 2 --keep 1 --model m --log m.update-2
expect 2 "a checkpoint of such a name" "--checkpoint .* is a name that training" "$trf" train $plain --updates 2 --keep 1 --model m --checkpoint ./m.update-2
expect 2 "a log of an average's name" "--log .* is a name that training" "$trf" train $plain --updates 2 --model m --log ./m.checkpoint.average-2
expect 1 "a name with no room for those beside it" "would have up to .* bytes" "$trf" train $plain --updates 2 --model "$(printf 'x%.0s' $(seq 240))"
expect 0 "seeds without a log" "2 seeds" "$trf" train $plain --updates 2 --seeds 2 --log /dev/null --model grown
check "write none" test ! -e /dev/null.seed-5
expect 2 "shares that are too much" "at most 1 together, got 1 and 0.1" "$trf" train --objective mask --text train.digits --masked-share 1 --updates 1 --model m
: >nothing
expect 1 "no text to validate on" "nothing is empty: nothing to validate on" "$trf" train --objective causal --text train.digits --valid-text nothing --updates 1 --model m
perl -e 'my $h = q({"w":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}); print pack("Q<", length $h), $h, pack("d<2", 1, 1e300)' >projected
expect 0 "what is too large for a float" "1 NOT FINITE as float32" "$trf" inspect wide
expect 1 "a model without a configuration" "a safetensors file of another program" "$trf" translate --model wide --input test.digits
expect 1 "nor to begin with" "a safetensors file of another program" "$trf" train $plain --init-from wide --updates 1 --model m
expect 2 "help about nothing" "unknown command 'trian'; did you mean 'trf train'" "$trf" help trian
expect 2 "an option before a command" "unknown option '-v'" "$trf" -v
# --- found by a reader of the sources --------------------------------------------------------------------------------
losing="$model --batch-tokens 256 --threads 1 --metric loss --schedule constant --learning-rate 1e6 --initial-rate 1e6 --warmup 1 --clip-norm 1e300
        --optimizer adamw --weight-decay 1 --decay-all yes --ema 0"
"$trf" train --tsv train.tsv $losing --valid-every 5 --patience 2 --model lost --checkpoint '' --log lost.json --minutes 0.5 2>err
check "no number is no gain" grep -q "nothing better in --patience validations\|--patience" err
check "and that is an end" grep -q '"why":"patience"' lost.json
awk '{ print $1 }' train.digits >short.text
awk '{ a = a " " $0 } NR % 10 == 0 { print substr(a, 2); a = "" }' train.digits >long.text
parts="--objective causal --text short.text --valid-text long.text --tokens words --d-model 16 --n-heads 2 --d-ff 32 --decoder-layers 1 --threads 1
       --batch-tokens 256 --warmup 5"
expect 0 "text in chunks" "^done" "$trf" train $parts --chunk 40 --updates 10 --model chunks
expect 0 "judged in others" "the best begins anew" "$trf" train $parts --chunk 6 --updates 12 --model chunks --resume
expect 2 "one document packs nothing" "no effect on --documents file" "$trf" train $parts --documents file --pack --updates 1 --model m
expect 2 "no room for a text" "--max-length 2 leaves no room" "$trf" train --objective causal --text short.text --max-length 2 --updates 1 --model m
printf 'a\0b\n\0\n' >nulls
expect 1 "text that nobody can read" "no text is left to train on" "$trf" train --objective causal --text nulls --valid-size 0 --updates 1 --model m
# a signal in the validation of a mean, in a log; without a checkpoint nothing is left for nobody
: >loose.err
"$trf" train $plain --valid-every 20 --average 3 --checkpoint '' --updates 100000 --model loose --log loose.json 2>loose.err &
pid=$!
wait_for "update 100 .*best so far" loose.err
kill -TERM $pid
wait $pid
check "stopped" test $? -eq 143
rm -f keeps*
"$trf" train $plain --valid-size 0 --valid-every 20 --average 3 --checkpoint '' --updates 100000 --model keeps 2>keeps.err &
pid=$!
wait_for . keeps.update-100
kill -TERM $pid
wait $pid
check "all that there is of a training stays" test "$(ls -d keeps.update-* | wc -l)" -ge 3
check "a log has an end" grep -q '"event":"end","why":"signal"' loose.json
check "what cannot go on leaves nothing behind the best" test "$(ls -d loose.update-* 2>/dev/null | wc -l)" -eq 0
"$trf" train $wild --tsv train.tsv --init-from lost --updates 3 --model gone --log gone.json 2>/dev/null
check "an error has an end too" grep -q '"event":"end","why":"error"' gone.json
expect 0 "minutes that are enough" "20 updates" "$trf" train --tsv train.tsv $model --metric loss --threads 1 --warmup 15 --log-every 5 --updates 20 --minutes 600 --model m
check "are not blamed" test "$(grep -c 'in --minutes' err)" -eq 0
# means and deviations as they are told, by hand
"$trf" train $plain --valid-every 10 --keep 99 --average 3 --ema 0 --learning-rate 0.3 --updates 100 --model chosen --log chosen.json 2>err
sed -n 's/.*"validation","update":\([0-9]*\),"loss":\([^,]*\),"nll":\([^,]*\),"perplexity":\([^,]*\),.*/\1 \2 \3 \4/p' chosen.json >scores
check "a perplexity is that of the text" awk '{ e = exp($3) - $4; bad += !(e < 1e-4 * $4 && -e < 1e-4 * $4) } END { exit !(NR == 10 && !bad) }' scores
check "scores that fall and rise" eval '[ "$(sort -g -k 2 scores | head -n 3 | cut -d" " -f1 | sort -n | tr "\n" " ")" != "80 90 100 " ]'
"$trf" average $(sort -g -k 2 scores | head -n 3 | sed 's/\([0-9]*\).*/chosen.update-\1/') --output three
if grep -q "and stays" err; then best=$(sort -g -k 2 scores | head -n 1 | cut -d' ' -f1); cp chosen.update-$best three; fi
check "the mean is that of the best" eval '[ "$(numbers chosen)" = "$(numbers three)" ]'
"$trf" train $plain --seeds 3 --updates 20 --model told 2>err
sed -n 's/.*best: update 20, loss \([0-9.]*\);.*/\1/p' err >losses
tail -n 1 err >err.last
check "mean and deviation of seeds" awk '{ sum += $1; squares += $1 * $1; n++ } END { getline <"err.last"; split($0, w, "[ ,]+")
    for (i in w) { if (w[i] == "mean") m = w[i + 1]; if (w[i] == "deviation") d = w[i + 1] }
    e = m - sum / n; f = d * d - (squares - sum * sum / n) / (n - 1)
    exit !(n == 3 && d > 0 && e < 2e-4 && e > -2e-4 && f < 1e-4 && f > -1e-4) }' losses

# names that training gives to its own files; what is told of what is there already
for wrong in "--tsv own.update-7 --keep 1" "--tsv own.checkpoint.average-7" "--tsv own.tmp-0badf00d" "--tsv own.checkpoint.average-7.tmp-0badf00d" \
    "--tsv train.tsv --log own.tmp-12345678" "--tsv train.tsv --valid-tsv own.update-9"; do
    for file in $wrong; do case $file in own.*) cp train.tsv $file ;; esac; done
    expect 2 "$wrong" "is a name that training to --model 'own' gives to a file of its own" "$trf" train $wrong $small --updates 7 --model own
    for file in $wrong; do case $file in own.*) check "$file stays" same train.tsv $file; rm $file ;; esac; done
done
expect 2 "a model called like an average" "--model 'own.average-7'" "$trf" train $plain --updates 1 --checkpoint own --model own.average-7
expect 0 "a model" "^done" "$trf" train $plain --updates 20 --model twin
expect 0 "what is done already" "nothing was left to do: .* another --updates goes on" "$trf" train $plain --updates 20 --model twin --resume
expect 0 "another rate when going on" "^schedule: .*, peak 0.03 after" "$trf" train $plain --learning-rate 0.03 --schedule constant --updates 22 --model twin --resume
check "and the end" grep -q "^updates: about .* 22 in all" err
expect 0 "one file twice" "are the same file" "$trf" train --source train.digits --target train.digits $small --updates 1 --model m
{ printf '\377\376'; tr '\n' '\0' <train.digits; echo; } >projected.digits
expect 1 "UTF-16" "wide.digits:1: expected UTF-8, got UTF-16" "$trf" train --source wide.digits --target train.names $small --updates 1 --model m
awk 'NR % 5 { print; next } { print "no tab" }' train.tsv >fifth.tsv
expect 0 "a fifth of the lines" "more than a tenth of the data" "$trf" train --tsv fifth.tsv $small --updates 1 --model m
"$trf" score --model one --source train.digits --target test.names >out 2>err
check "lines without a partner are told five times" test "$(grep -c 'not scored' err)" -eq 5
expect 0 "a cosine for some minutes" "the rate ends with update 1000000, if training comes so far" "$trf" train $plain --schedule cosine --total-steps 1000000 --minutes 0.01 --model m
"$trf" train $kept --updates 20 --valid-every 10 --checkpoint-every 0 --ema 0 --model seldom 2>err
"$trf" train $kept --updates 100000 --valid-every 10 --checkpoint-every 0 --ema 0 --model seldom --resume 2>seldom.err &
pid=$!
wait_for "^validation: update 100 " seldom.err
kill -KILL $pid
wait $pid 2>/dev/null
expect 0 "a better model has a checkpoint whatever is asked" "resumed from update [1-9][0-9][0-9]*$" "$trf" train $kept --updates 30 --valid-every 10 --ema 0 --model seldom --resume
check "which is not of the beginning" test "$(sed -n 's/.*resumed from update //p' err)" -gt 30
for command in "inspect same" "eval told" "plot told"; do
    cp one same; cp train.names told
    "$trf" $command >>${command#* } 2>err
    status=$?
    check "$command: nothing behind what is read" eval '[ $status -eq 1 ] && grep -q "which is read" err && same one same && same train.names told'
done
printf 'a\302\233b\tone\n' >c1.tsv
for k in 1 2 3 4; do cat c1.tsv train.tsv; done >c1s.tsv
"$trf" train --tsv c1s.tsv $small --tokens words --updates 1 --model c1 2>err
check "no control character in JSON" eval '"$trf" inspect --json c1 | LC_ALL=C grep -q "a.u009bb" && ! "$trf" inspect --json c1 | LC_ALL=C grep -q "$(printf "\302\233")"'
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 true 2>/dev/null; then
    mkdir unlisted && chown 65534 unlisted && chmod 300 unlisted && chmod 755 . && cp "$trf" trf
    expect 1 "a folder that cannot be opened" "cannot write 'unlisted/m': Permission denied" \
        setpriv --reuid=65534 --clear-groups ./trf train --tsv train.tsv $small --updates 1 --model unlisted/m
fi

# two trainings, one after the other: a signal between them is not taken for one of the first
: >several.err
"$trf" train --tsv more.tsv $small --seeds 2 --updates 400 --model several 2>several.err &
pid=$!
wait_for "seed 6" several.err
kill -TERM $pid
wait $pid
check "between two seeds" test $? -eq 143
check "no words of the first" test "$(grep -c 'update 400, then' several.err)" -eq 0
wait $waiting
check "a line at least every 30 seconds" grep -q "^computing update 1: 3[0-9]s so far" waiting
wait $reading
check "while the data are read too" grep -q "^reading the data" reading
check "but not when they have been" test "$(sed -n '/^schedule/,$p' reading | grep -c '^reading')" -eq 0

finish

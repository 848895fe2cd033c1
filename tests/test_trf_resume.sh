#!/bin/sh
# trf train --resume: sh tests/test_trf_resume.sh build/trf
#
# A training run goes on from its checkpoint: after a save that failed, with other options, to more
# updates or passes, under another rate or metric, with frozen parameters, means and averages. What
# cannot change is refused with the option and both values.

. "$(dirname "$0")/trf.sh"

trf=$anew

# --- a save that fails, and an older training of the same name ----------------------------------
expect 0 "a training run with an average" "^done" "$trf" train $kept --updates 40 --model firm
cp firm.checkpoint whole
if (trap '' XFSZ; ulimit -f 100; "$trf" train $kept --updates 40 --model firm --resume) >out \
    2>err; then status=0; else status=1; fi
check "a disk without room for the checkpoint ends the training" test $status -eq 1
check "a checkpoint without room leaves the old one" same whole firm.checkpoint
expect 0 "after a disk without room the training goes on" "resumed from update 41" "$trf" train $kept --updates 60 \
    --model firm \
    --resume
"$trf" train $kept --updates 100000 --valid-every 100000 --checkpoint-every 0 --model firm \
    2>firm.err &
pid=$!
wait_for "^update [0-9]" firm.err
kill -KILL $pid
wait $pid 2>/dev/null
expect 0 "a new training's beginning replaces an old checkpoint" "resumed from update 1$" \
    "$trf" train $kept --updates 60 --model firm --resume
expect 0 "a training of 60 updates in one piece" "^done" "$trf" train $kept --updates 60 --model straight
check "after a disk without room the model is that of one piece" same straight firm
mkdir apart
"$trf" train $kept --updates 100000 --valid-every 400 --checkpoint-every 0 --model apart/m \
    --checkpoint left \
    --log left.log --log-every 10 2>left.err &
pid=$!
wait_for "^update [0-9]" left.err
rm -r apart
wait $pid
check "a model that cannot be written ends training" test $? -eq 1
check "a model that cannot be written: what was learned is kept" \
    grep -q "left is complete: the same command with --resume continues" left.err
check "a model that cannot be written: the log says so" grep -q '"event":"end","why":"error"' left.log
mkdir apart
expect 0 "a model that could not be written: its training goes on" "resumed from update [1-9]" "$trf" train $kept \
    --updates 410 \
    --model apart/m --checkpoint left --resume
expect 0 "a checkpoint of another model file" "mean is written instead of the best model" \
    "$trf" train $kept --updates 62 --valid-every 10 --average 3 --learning-rate 3 --ema 0 \
    --resume --model nowhere --checkpoint firm.checkpoint
check "a model is there" test -s nowhere
printf 'something else' >other
expect 0 "a training of no updates" "^done: 0 updates" "$trf" train $kept --updates 0 --model other
check "writes the first weights" eval '"$trf" inspect other >/dev/null'

# --- more updates, passes, time and seeds -------------------------------------------------------
expect 0 "a training with a cosine" "^done" "$trf" train $kept --schedule cosine --updates 40 --ema 0 --model wave
expect 0 "a cosine that goes on to more updates has a rate" "^update 100 .* lr [1-9]" "$trf" train $kept \
    --schedule cosine --updates 120 --log-every 20 --model wave --resume
expect 0 "going on with a cosine that ends before its warm-up" "^done: 0 updates" "$trf" train $kept --schedule cosine \
    --updates 10 --model wave --resume
expect 0 "a cosine with an end of its own" "^done" \
    "$trf" train $kept --schedule cosine --updates 125 --total-steps 130 --ema 0 --model fixed
expect 0 "the end of a cosine is told when going on beyond it" "cosine ends at update 130, but training continues" \
    "$trf" train \
    $kept --updates 140 --model fixed --resume
expect 0 "a rate that is over long before the training" \
    "cosine ends at update 30, but training continues" \
    "$trf" train $kept --schedule cosine --total-steps 30 --updates 35 --model m
expect 0 "a rate that is over is told again when going on" "cosine ends at update 30, but training continues" \
    "$trf" train $kept \
    --schedule cosine --total-steps 30 --updates 37 --model m --resume
expect 0 "a cosine that hardly falls is told" "the rate falls until update 90, but there are only 30" \
    "$trf" train $kept --schedule cosine --total-steps 90 --updates 30 --model m
expect 0 "a cosine over passes" "^done" "$trf" train $kept --schedule cosine --epochs 2 --ema 0 \
    --model turns
expect 0 "a cosine over passes goes on to more of them" "^done" "$trf" train $kept --schedule cosine --epochs 4 \
    --log-every 1 --model turns --resume
check "a cosine over more passes has a rate until its end" \
    awk '/^update/ { n++; for (i = 1; i < NF; i++) if ($i == "lr") zeros += $(i + 1) == 0 }
    END { exit !(n > 5 && zeros < 2) }' err
expect 0 "a cosine over passes goes on to larger updates" "^done" "$trf" train $kept --schedule cosine --epochs 8 \
    --accumulate 2 --log-every 1 --model turns --resume
check "a cosine follows larger updates" \
    awk \
    '/^update/ { for (i = 1; i < NF; i++) if ($i == "lr") { last = $(i + 1); if (last > most) most = last } }
    END { exit !(most > 0 && last < most / 4) }' err
"$trf" train $kept --epochs 1 --updates 1 --model pass 2>err
pass=$(sed -n 's/^updates: about \([0-9]*\) a pass.*/\1/p' err)
"$trf" train $kept --epochs 1 --updates $((pass - 2)) --model pass 2>err
expect 0 "--epochs ends at the end of a pass" "(--epochs reached)" "$trf" train $kept --epochs 1 --log-every 1 \
    --log pass.log --model pass --resume
check "--minutes ends when no time is left" awk -F '[:,]' \
    '/progress/ { for (i = 1; i < NF; i++) { if ($i == "\"seconds\"") spent = $(i + 1)
    if ($i == "\"seconds_left\"") left = $(i + 1) } } END { exit !(spent > 0 && left < spent / 2) }' \
    pass.log
expect 2 "a cosine needs an end" "needs its end: --total-steps" "$trf" train $kept --schedule cosine \
    --patience 3 --model firm --resume
"$trf" train $kept --epochs 10 --accumulate 100 --model gathered 2>err
check "as many updates as were planned" \
    awk '/ in all;/ { for (i = 1; i < NF; i++) if ($(i + 1) == "in") planned = $i }
    /^done/ { exit !($2 > 0 && planned == $2) }' err
expect 0 "a time that ends at once" "^done" "$trf" train $kept --minutes 0.001 --log-every 1 \
    --model m
check "the time left is never below none" eval '! grep -q "left -" err'
check "the time spent is not kept without --minutes" eval \
    '"$trf" train $kept --updates 100 --model m --resume 2>/dev/null; ! "$trf" inspect m | grep -q training.seconds'
expect 0 "freezing from now on" "^frozen: [1-9]" "$trf" train $kept --updates 65 --model firm \
    --resume --freeze 'encoder.*'
expect 2 "--freeze names no parameter" "nothing\*" "$trf" train $kept --updates 65 --model firm --resume \
    --freeze 'nothing*'
expect 1 "--resume of seeds of which none has begun" "no training to continue" "$trf" train $files $model --seeds 2 \
    --updates 20 --model absent --resume
expect 1 "seeds without checkpoints do not go on" "needs checkpoints" "$trf" train $files $model --seeds 2 \
    --checkpoint '' \
    --updates 20 --model absent --resume
"$trf" train $kept --schedule noam --updates 20 --model rates 2>/dev/null
expect 2 "a rate of another kind" "needs --learning-rate" "$trf" train $kept --schedule constant \
    --updates 30 --model rates --resume
expect 0 "a training with a constant rate" "^done" "$trf" train $kept --schedule constant --learning-rate 0.001 \
    --updates 30 --model rates --resume
expect 1 "going on with another vocabulary" "vocabularies cannot change" "$trf" train $kept --vocab-size 9 \
    --updates 40 --model rates --resume
unsaid="$files $model --batch-tokens 256 --seed 5 --threads 1 --valid-size 0 --metric auto \
    --vocab-size 0 --tokens auto --model unsaid"
"$trf" train $unsaid --updates 5 2>/dev/null
expect 0 "what was left to the data stays when going on" "resumed from update 6" "$trf" train $unsaid --updates 10 \
    --resume
expect 1 "a model for a checkpoint" "firm is a model, not the checkpoint" "$trf" train $kept \
    --updates 1 --checkpoint firm --model m --resume
expect 1 "going on without a checkpoint" "there is no 'nowhere.checkpoint' to continue from" "$trf" train $kept \
    --updates 1 --model nowhere --resume
expect 0 "a model to go on with" "^done" "$trf" train $plain --updates 20 --model twin
expect 0 "going on where nothing is left to do" "nothing to do: .* a larger --updates continues it" "$trf" \
    train $plain --updates 20 --model twin --resume
expect 0 "going on with another rate" "^schedule: .*, peak 0.03 after" "$trf" train $plain \
    --learning-rate 0.03 --schedule constant --updates 22 --model twin --resume
check "going on with another end" grep -q "^updates: about .* 22 in all" err
expect 0 "a cosine for some minutes" "cosine ends at update 1000000, if training gets that far" \
    "$trf" train $plain --schedule cosine --total-steps 1000000 --minutes 0.01 --model m

# --- other metrics, averages and files that have gone -------------------------------------------
goes="--tsv train.tsv $model --threads 1 --batch-tokens 256"
expect 0 "a validation after each pass" "" "$trf" train $goes --valid-every 0 --epochs 2 --metric auto \
    --size auto --model passes
check "--valid-every 0 validates after each pass" test "$(grep -c '^validation' err)" -eq 2
check "updates planned by passes are done" test "$(sed -n 's/.*, \([0-9]*\) in all.*/\1/p' err)" = \
    "$(sed -n 's/^done: \([0-9]*\) .*/\1/p' err)"
expect 0 "a pass more" "wer [0-9.]*" "$trf" train $goes --valid-every 0 --epochs 3 --metric auto \
    --size auto --model passes --resume
expect 0 "a mean of models of 60 updates" "mean of 3 models" "$trf" train $goes --valid-every 10 --updates 60 \
    --average 3 \
    --metric loss --model means
expect 0 "a mean of models goes on to 80 updates" "mean of 3 models" "$trf" train $goes --valid-every 10 --updates 80 \
    --average 3 \
    --metric loss --model means --resume
expect 0 "a mean of models of 80 updates in one piece" "" "$trf" train $goes --valid-every 10 --updates 80 --average 3 \
    --metric loss --model means1
expect 0 "an average of weights, of a model with brackets in its name" "" "$trf" train $goes --ema 0.1 --updates 20 \
    --model 'm[1]'
expect 0 "an average of weights, of a model whose name the brackets match" "" "$trf" train $goes --ema 0.1 \
    --updates 20 --model m1
echo other >m1.checkpoint.average-20
expect 0 "the model with brackets is trained again" "" "$trf" train $goes --ema 0.1 --updates 20 --model 'm[1]'
check "a name with brackets leaves the files of other names alone" test -e m1.checkpoint.average-20
rm m1.checkpoint.average-20
expect 0 "going on with another metric" "the search for the best model starts again" "$trf" train $goes --updates 30 \
    --metric exact \
    --model m1 --resume
check "does not compare with the first" grep -q "best: update 30, exact" err
rm m1
expect 0 "going on when the model has gone" "the last weights are written" "$trf" train $goes --updates 30 \
    --model m1 --resume
check "a model that has gone is written again" test -e m1
mkdir old && cp "$source"/tests/golden/old/resume/m* old && cp "$source/tests/golden/old/pairs.tsv" .
rm old/m.checkpoint.average-60
expect 1 "going on when the average of an old checkpoint has gone" "--ema 0 continues without it" \
    "$trf" train $(cat "$source/tests/golden/old/resume/options") --updates 70 --model old/m --resume
expect 0 "--ema 0 goes on without an average that has gone" "" \
    "$trf" train $(sed "s/--ema [0-9.]*//" "$source/tests/golden/old/resume/options") --updates 70 --ema 0 \
    --model old/m --resume
expect 0 "going on without an average" "" "$trf" train $goes --updates 40 --ema 0 --model m1 --resume
expect 0 "going on with an average again" "" "$trf" train $goes --updates 50 --ema 0.1 --model m1 --resume
expect 2 "--patience 0 leaves a training without an end" "training has no end" "$trf" train $goes --patience 0 \
    --model m1 \
    --resume

# --- scores that may be compared, and those that may not ----------------------------------------
for seed in 1 2 3 4 5 6 7 8; do        # until the mean is better than the best one
    "$trf" train $rough --learning-rate 0.3 --seed $seed --average 3 --average-of last \
        --updates 40 --model mean 2>err
    grep -q "and is kept" err || break
done
check "a mean that is better" test "$(grep -c "and is kept" err)" -eq 0
for file in mean*; do cp $file again${file#mean}; done
"$trf" train $rough --learning-rate 0.3 --seed $seed --updates 40 --model best 2>err
check "a mean that is better is another model than the best" test "$(cmp -s mean best; echo $?)" -eq 1
expect 0 "a mean that is not better" "^mean of 3 models.*and is kept" "$trf" train $rough --learning-rate 9 \
    --seed $seed --average 3 --average-of last --updates 50 --model mean --resume
check "a mean that is not better leaves the best model" same mean best
check "going on says that the mean is gone" grep -q "'mean' was the mean of several models; until this run ends" err
for file in again*; do cp $file later${file#again}; done
expect 0 "going on without a mean to more updates" "^validation: update 50" "$trf" train $rough --learning-rate 9 \
    --seed $seed --average 1 --updates 50 --model later --resume
check "a longer training without a mean leaves the best" same later best
check "a training without a mean leaves no models beside the best" test "$(ls later.update-* 2>/dev/null | wc -l)" -eq 0
expect 0 "--average 1 makes no mean any more" "^done: 0 updates" "$trf" train $rough --learning-rate 0.3 \
    --seed $seed --average 1 --updates 40 --model again --resume
check "--average 1 leaves the best" same again best
even="${rough%--metric loss*} --metric exact ${rough#*--metric loss} --average 3 --average-of last \
    --seed 1"
"$trf" train $even --learning-rate 0.0001 --updates 40 --model even 2>err
expect 0 "a mean with as good a score, 0, and a larger loss" \
    "^mean of 3 models.* exact 0.0000; the best model had 0.0000, and is kept" \
    "$trf" train $even --learning-rate 9 --updates 50 --model even --resume
rough="$rough --learning-rate 0.3"
for smoothing in 0.5 0; do
    "$trf" train $rough --label-smoothing 0.1 --updates 20 --model judged 2>err
    expect 0 "judged by another loss" "or their scoring have changed: the search for the best model starts again" \
        "$trf" train $rough --label-smoothing $smoothing --updates 30 --model judged --resume
done
expect 0 "going on with the loss that judged before" "^done" "$trf" train $rough --label-smoothing 0 --updates 40 \
    --model judged \
    --resume
check "the same loss does not begin the search anew" test "$(grep -c anew err)" -eq 0
answers="--tsv train.tsv $model --threads 1 --batch-tokens 64 --valid-every 10 --metric exact \
    --warmup 2"
"$trf" train $answers --updates 20 --model judged 2>err
expect 0 "answers do not depend on smoothing" "^done" "$trf" train $answers --label-smoothing 0 \
    --updates 30 --model judged --resume
check "smoothing does not begin the search for answers anew" test "$(grep -c anew err)" -eq 0
blind="--tsv train.tsv $model --threads 1 --batch-tokens 64 --valid-size 0 --valid-every 10 \
    --average 3 --warmup 2"
"$trf" train $blind --updates 30 --model blind 2>err
expect 0 "a mean of the last three with nothing held out" "^done" "$trf" train $blind --label-smoothing 0 \
    --updates 40 --model blind --resume
check "the last three models are kept" test "$(echo blind.update-*)" = \
    "blind.update-20 blind.update-30 blind.update-40"
"$trf" train $rough --average 2 --average-of last --seed 1 --updates 40 --model pruned 2>err
expect 0 "going on with a mean of the last models" "^done" "$trf" train $rough --average 2 \
    --average-of last --seed 1 --updates 50 --model pruned --resume
check "misses no file" test "$(grep -c 'not there any more' err)" -eq 0
expect 0 "going on with another metric and the last models" "or their scoring have changed" \
    "$trf" train ${rough%--metric loss*} --metric exact ${rough#*--metric loss} --average 2 \
    --average-of last --seed 1 --updates 60 --model pruned --resume
check "another metric keeps models of both" test -e pruned.update-50 -a -e pruned.update-60
expect 2 "a beginning in another spelling" "choose another name" "$trf" train $rough \
    --init-from ./pruned.update-60 --updates 1 --model pruned
cut -f1 train.tsv >lines.txt
mask="--objective mask --text lines.txt --d-model 16 --n-heads 2 --d-ff 16 --encoder-layers 1 \
    --threads 1 --warmup 2"
"$trf" train $mask --updates 30 --model hidden 2>err
expect 0 "seeds of one and the same model" "deviation 0.0000" "$trf" train $mask \
    --init-from hidden --freeze '*' --ema 0 \
    --updates 1 --valid-every 1 --seeds 2 --model hidden2
expect 0 "words to go on with, of the only side" "resumed" "$trf" train $mask --tokens words \
    --updates 40 --model hidden --resume
expect 2 "a share beyond all" "must be" "$trf" train $mask --noise-density 2 --updates 1 --model m

# --- a cosine that goes on ----------------------------------------------------------------------
wave="--tsv train.tsv $model --threads 1 --batch-tokens 256 --warmup 2 --schedule cosine \
    --log-every 1 --metric loss"
falls()
{
    awk '/^update/ {
        for (i = 1; i < NF; i++) if ($i == "lr") { n++; zeros += $(i + 1) == 0 }
    } END { exit !(n > 1 && zeros < 2) }' err
}
for n in 3 4 5; do
    "$trf" train $wave --epochs 3 --accumulate $n --model wave5 2>err
    expect 0 "a cosine of large updates that goes on" "^done" "$trf" train $wave --epochs 6 \
        --accumulate $n --model wave5 --resume
    check "a cosine of larger updates has a rate until its end" falls
done
expect 0 "a cosine goes on with smaller updates" "^done" "$trf" train $wave --epochs 9 --accumulate 1 --model wave5 \
    --resume
expect 0 "a cosine goes on with smaller updates once more" "^done" "$trf" train $wave --epochs 12 --accumulate 1 \
    --model wave5 --resume
check "a cosine of smaller updates has a rate until its end" falls
"$trf" train $wave --updates 20 --total-steps 0 --model wave20 2>err
expect 0 "an end that follows, said as a number" "^done" "$trf" train $wave --updates 40 \
    --total-steps 0 --model wave20 --resume
check "a cosine without --total-steps has a rate until its end" falls
"$trf" train $wave --updates 50 --total-steps 50 --model wave50 2>err
expect 0 "an end of its own, where the training ended" \
    "cosine ends at update 50, but training continues" \
    "$trf" train $wave --updates 80 --model wave50 --resume

# --- options that the checkpoint keeps, and those that cannot change ----------------------------

expect 0 "a model to begin with" "^done" "$trf" train $plain --updates 30 --model keep
ice="$plain --valid-size 0 --model ice"
expect 0 "patterns that overlap" "^frozen: 32 of 36 tensors$" "$trf" train $ice --updates 10 \
    --freeze 'encoder.*' --freeze '*.layers.0.*'
expect 0 "what is frozen stays frozen when going on" \
    "^frozen: 32 of 36 tensors, as in the checkpoint (--freeze '' freezes none)$" "$trf" train \
    $ice --updates 20 --resume
expect 0 "other patterns of --freeze take the place of the old" "^frozen: 20 of 36 tensors$" "$trf" train $ice \
    --updates 30 --resume --freeze 'decoder.*'
expect 0 "--freeze '' freezes none" "^frozen: 0 of 36 tensors$" "$trf" train $ice --updates 40 --resume \
    --freeze ''
check "after --freeze '' the next run tells nothing of it" eval \
    '"$trf" train $ice --updates 41 --resume 2>err; ! grep -q frozen err'
expect 2 "a pattern that fits nothing" "no parameter of the model matches" "$trf" train $ice \
    --updates 50 --resume --freeze 'nothing*'
expect 0 "a beginning, when going on" \
    "^--init-from has no effect with --resume: the weights come from ice.checkpoint$" \
    "$trf" train $ice --updates 42 --resume --init-from keep
expect 1 "going on with other batches" \
    "original training: --batch-sentences was 1024, now it is 33; --shuffle was yes, now it is no$" \
    "$trf" train $ice --updates 50 --resume --batch-sentences 33 --shuffle no --learning-rate 0.01
check "other batches are refused with another rate, which is named" grep -q -x \
    -e '--learning-rate was [0-9.]*, now it is 0.01' err
check "other batches are refused with another end, which is named" grep -q -x -e '--updates was 42, now it is 50' err
check "options that are the same are not named" eval '! grep -q -e "--warmup was" err'
expect 1 "going on with another seed" "original training: --seed was 5, now it is 9$" "$trf" train --tsv train.tsv \
    $short --threads 1 --seed 9 --valid-size 0 --model ice --updates 50 --resume
expect 1 "going on with other data" "--resume needs the same data: the data or --columns have changed" \
    "$trf" train --tsv \
    test.tsv $small \
    --valid-size 0 \
    --model ice --updates 50 --resume

finish

#!/bin/sh
# Signals: sh tests/test_trf_signals.sh build/trf
#
# A training run that INT, TERM, HUP or KILL interrupts, at any time, goes on with --resume to the bytes
# of an unbroken run. The first signal saves, a second one ends the training at once. A validation
# is left at once. The log and the messages say what happened.

. "$(dirname "$0")/trf.sh"

trf=$anew
rough="$rough --learning-rate 0.3"

# --- a signal ends a run well; going on gives what an unbroken run gives ------------------------
"$trf" train $files $small --updates 600 --valid-every 600 --model whole 2>/dev/null
: >log
"$trf" train $files $small --updates 600 --valid-every 600 --model broken 2>>log &
pid=$!
wait_for "^update [0-9]" log
kill -TERM $pid
wait $pid
check "exit status 128 + 15" test $? -eq 143
check "a run that TERM stops says so" grep -q "stopped by signal 15 after update" log
check "a run that was stopped has no model yet" test ! -e broken
expect 0 "a run that TERM stopped goes on" "resumed" "$trf" train $files $small --updates 600 --valid-every 600 \
    --model broken --resume
check "broken = whole" same broken whole

# --- interrupted at random, many times, and by KILL too -----------------------------------------
# Everything that must be remembered is on: an average of the weights, validations, the best, the
# last three kept.
busy="$files $model --batch-tokens 256 --warmup 20 --seed 5 --threads 1 --valid-every 30 \
    --checkpoint-every 20 --ema 0.05 --keep-models 3 --average 2
      --metric wer --valid-size 40"
times=20 last=4800         # a fast machine takes 140 updates between two interruptions
[ -n "${TRF_TEST_ALL:-}" ] || times=8 last=1440
expect 0 "a run with everything to remember, unbroken" "mean of 2 models" "$trf" train $busy --updates $last \
    --model calm
n=0 x=12345 resume= strange= int= term= kill=
while [ $n -lt $times ]; do
    x=$(((x * 1103515245 + 12345) % 2147483648))
    case $((x / 65536 % 3)) in 0) signal=INT ;; 1) signal=TERM ;; 2) signal=KILL ;; esac
    # a shell's background job ignores INT; this one does not
    perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV or die "$!"' "$trf" train $busy --updates $last \
        --model hunted $resume 2>hunted.err &
    pid=$!
    sleep $(printf '0.%03d' $((x / 262144 % 200 + 40)))
    kill -$signal $pid 2>/dev/null
    wait $pid 2>/dev/null
    case $? in 130) n=$((n + 1)) int=met ;; 143) n=$((n + 1)) term=met ;; 137) n=$((n + 1)) \
        kill=met ;; 0) break ;; *) strange="$strange $?" ;; esac
    if [ -e hunted.checkpoint ]; then resume=--resume; fi
done
check "$times interruptions met a run ($n; $(tail -n 1 hunted.err))" test $n -eq $times
check "interruptions by each of INT, TERM and KILL" test "$int$term$kill" = metmetmet
check "an interrupted run ends by its signal ($strange)" test -z "$strange"
expect 0 "going on after $times interruptions" "done: " "$trf" train $busy --updates $last --model hunted \
    $resume
check "after many interruptions the model is that of the unbroken run" same calm hunted
check "after many interruptions the checkpoint is that of the unbroken run" same calm.checkpoint hunted.checkpoint
for file in calm.update-*; do same $file hunted${file#calm} || echo $file; done >differ
check "after many interruptions the kept models are those of the unbroken run" test ! -s differ
check "the models of the last three validations are kept" test -e hunted.update-$((last - 60)) -a \
    -e hunted.update-$((last - 30)) -a -e hunted.update-$last
for file in hunted hunted.checkpoint hunted.update-7 hunted.checkpoint.average-812; do : \
    >$file.tmp-00000000; done
: >hunted.else.tmp-00000000
flock hunted.update-7.tmp-00000000 "$trf" train $busy --updates $last --model hunted --resume >out \
    2>err
check "what killed saves left is removed, but not what another program locks or owns" \
    test "$(ls -d hunted*.tmp-*)" = "hunted.else.tmp-00000000
hunted.update-7.tmp-00000000"
rm hunted*.tmp-*
check "interruptions leave no other file" test "$(ls -d hunted* | grep -c -v '\.err$')" -eq \
    "$(ls -d calm* | wc -l)"

# --- killed after a validation ------------------------------------------------------------------
# killed after its best validation: it goes on from there, not from the first one
: >killed.err
"$trf" train $plain --valid-every 20 --updates 100000 --model killed 2>killed.err &
pid=$!
wait_for "update 140 .*best so far" killed.err
kill -KILL $pid
wait $pid 2>/dev/null
expect 0 "going on after a kill, from behind the best validation" "resumed from update [1-9][0-9][0-9]" \
    "$trf" train $plain \
    --valid-every 20 --updates 300 --model killed --resume
rm -f endless*
"$trf" train $kept --valid-every 5 --checkpoint-every 1000000 --updates 1000000 --model endless \
    2>/dev/null &
endless=$!
wait_until test -e endless.checkpoint
kill -9 $endless
wait $endless 2>/dev/null
expect 0 "killed behind a validation" "resumed from update [0-9]*[16]$" "$trf" train $kept \
    --valid-every 5 --updates 100 --model endless --resume
"$trf" train $kept --updates 20 --valid-every 10 --checkpoint-every 0 --ema 0 --model seldom 2>err
"$trf" train $kept --updates 100000 --valid-every 10 --checkpoint-every 0 --ema 0 --model seldom \
    --resume 2>seldom.err &
pid=$!
wait_for "^validation: update 100 " seldom.err
kill -KILL $pid
wait $pid 2>/dev/null
expect 0 "a better model has a checkpoint whatever is asked" \
    "resumed from update [1-9][0-9][0-9]*$" "$trf" train $kept --updates 30 --valid-every 10 \
    --ema 0 --model seldom --resume
check "a better model without checkpoints goes on from its own update, not from the beginning" \
    test "$(sed -n 's/.*resumed from update //p' err)" -gt 30

# --- HUP saves too; a second signal ends at once; a validation is left at once ------------------
expect 0 "a run of 1200 updates without a signal" "" "$trf" train $files $small --updates 1200 --valid-every 600 \
    --model still
for signal in HUP TERM; do
    rm -f stopped*
    : >log
    "$trf" train $files $small --updates 1200 --valid-every 600 --model stopped 2>>log &
    pid=$!
    wait_for "^update [0-9]" log
    kill -$signal $pid
    wait $pid
    check "SIG$signal ends it" test $? -ge 128
    check "SIG$signal: the run says that it finishes the update" \
        grep -q "finishing update [0-9]*, then saving; the same signal again stops at once" log
    check "SIG$signal: the run says that it has stopped" grep -q "stopped by signal .*--resume continues" log
    expect 0 "SIG$signal: the run goes on" "" "$trf" train $files $small --updates 1200 \
        --valid-every 600 --model stopped --resume
    check "SIG$signal: the model is that of a run without a signal" same still stopped
done
: >log
"$trf" train $rough --updates 100000000 --model twice 2>>log &
pid=$!
wait_for "^update [0-9]" log
kill -TERM $pid $pid
wait $pid
check "a signal that comes twice at once is one" grep -q "stopped by signal 15 .*--resume continues" \
    log
: >log
"$trf" train $rough --accumulate 100000000 --updates 1 --model twice 2>>log &
pid=$!
wait_for "^[0-9]* pairs" log
wait_busy $pid 10
kill -TERM $pid
wait_for "finishing update 1" log
wait_busy $pid 30
check "an update that takes long is waited for" kill -0 $pid
kill -TERM $pid
wait_end $pid || kill -KILL $pid
wait $pid
check "an update that takes long is not waited for after a second signal" test $? -eq 143
: >log
"$trf" train $rough --accumulate 100000000 --updates 1 --model twice 2>>log &
pid=$!
wait_for "^[0-9]* pairs" log
wait_busy $pid 10
for n in 1 2; do
    [ $n = 1 ] && kill -TERM $pid || kill -HUP $pid
    wait_until eval 'test "$(grep -c "finishing update 1" log)" -eq $n'
done
wait_busy $pid 30       # within a fifth of a second it would be the same one
kill -TERM $pid
wait_end $pid || kill -KILL $pid
wait $pid
check "an update that takes long is not waited for after TERM, HUP and TERM" test $? -eq 143
awk 'BEGIN { for (i = 0; i < 2000; i++) print "a" i % 50 " b" i % 40 "\tw" i " w" i * 7 % 2000 }' \
    >wordy.tsv
awk 'BEGIN {
    for (i = 0; i < 300; i++) {
        for (j = 0; j < 10; j++) printf "a%d b%d ", (i + j * j) % 50, i * j % 40
        print "\tw" i
    }
}' >slow.tsv
: >log
"$trf" train --tsv wordy.tsv --valid-tsv slow.tsv --tokens words --metric wer --valid-beam 64 \
    --learning-rate 1e-9 --threads 1 --updates 1 --log-every 1 --model slow 2>>log &
pid=$!
wait_for "^update 1 " log
wait_busy $pid 150      # its loss is known by then, and translating goes on for a minute
kill -TERM $pid
wait $pid
check "a signal in a validation ends the training" test $? -eq 143
check "a signal in a validation is told" \
    grep -q "leaving the validation of update 1, then saving" log
check "a validation is left at once, not at its end" test "$(grep -c '^validation' log)" -eq 0

# --- means, logs and models that are kept -------------------------------------------------------
"$trf" train $rough --updates 1000000 --log stopped.json --model stopped 2>err &
pid=$!
wait_for '"best":true' stopped.json
kill -TERM $pid
wait $pid
sed -n 's/.*"event":"end".*"score":\([^,}]*\).*/\1/p' stopped.json >ended
sed -n 's/.*"score":\([^,}]*\),"best":true.*/\1/p' stopped.json | tail -n 1 >bested
check "the log of a training run that was stopped has the best score" eval \
    'test -s ended && same ended bested'
# a signal during the validation of a mean; without a checkpoint no models of it are left
: >loose.err
"$trf" train $plain --valid-every 20 --average 3 --checkpoint '' --updates 100000 --model loose \
    --log loose.json 2>loose.err &
pid=$!
wait_for "update 100 .*best so far" loose.err
kill -TERM $pid
wait $pid
check "a signal ends the validation of a mean" test $? -eq 143
rm -f keeps*
"$trf" train $plain --valid-size 0 --valid-every 20 --average 3 --checkpoint '' --updates 100000 \
    --model keeps 2>keeps.err &
pid=$!
wait_for . keeps.update-100
kill -TERM $pid
wait $pid
check "without validation pairs all files of a stopped training stay" test "$(ls -d keeps.update-* | wc -l)" -ge 3
check "a log has an end" grep -q '"event":"end","why":"signal"' loose.json
check "a stopped run without a checkpoint leaves the best model alone" \
    test "$(ls -d loose.update-* 2>/dev/null | wc -l)" -eq 0
"$trf" train $files $model --threads 1 --checkpoint '' --valid-size 0 --valid-every 5 --keep-models 2 \
    --updates 100000000 --model m 2>only.err &
pid=$!
wait_for "^update 100 " only.err
kill -TERM $pid
wait $pid
check "a stopped training without validation pairs and checkpoint leaves models of --keep-models" \
    grep -q "only the models of the last validations are kept" only.err

# --- between two training runs of several seeds -----------------------------------------------------
# A signal between two training runs is not taken for one of the first.
: >several.err
"$trf" train --tsv more.tsv $small --seeds 2 --updates 400 --model several 2>several.err &
pid=$!
wait_for "seed 6" several.err
kill -TERM $pid
wait $pid
check "between two seeds" test $? -eq 143
check "a signal between two seeds is not told as one of the first run" \
    test "$(grep -c 'update 400, then' several.err)" -eq 0

finish

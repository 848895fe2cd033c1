#!/bin/sh
# Daily use of the command line: sh tests/test_trf_usage.sh build/trf
#
# No file is replaced unasked; files come before words; positional arguments; unknown words; progress; a resumed training.

. "$(dirname "$0")/trf.sh"

# stays FILE NAME: FILE is what it was when it was copied to FILE.before
stays() { check "$2 stays" same "$1" "$1.before"; }
# silent NAME: nothing but one line was on standard error
silent() { check "$1: one line and nothing else" test "$(wc -l <err)" -eq 1; }

# --- nothing that exists is replaced unasked -------------------------------------------------------------------------
plain="--tsv train.tsv $small"
expect 0 "a training" "^done" "$trf" train $plain --updates 30 --model keep --log keep.log
for file in keep keep.checkpoint keep.log; do cp $file $file.before; done
expect 1 "the same name again" "'keep', 'keep.checkpoint', .*: --resume goes on with that training, --overwrite begins a new one" \
    "$trf" train $plain --updates 5 --model keep
silent "a refusal"
expect 1 "a log" "'keep.log' exists: --overwrite replaces it (--resume needs the checkpoint 'new.checkpoint'" \
    "$trf" train $plain --updates 5 --model new --log keep.log
for file in keep keep.checkpoint keep.log; do stays $file "a $file"; done
check "no other file was made" test ! -e new
mkdir alone
cp keep alone/keep
expect 1 "a model without a checkpoint" "'alone/keep' exists: --overwrite replaces it (--resume needs the checkpoint 'alone/keep.checkpoint'" \
    "$trf" train $plain --updates 5 --model alone/keep
expect 1 "a model that wants none" "'alone/keep' exists: --overwrite replaces it (--resume needs a checkpoint, and there is none)" \
    "$trf" train $plain --updates 5 --model alone/keep --checkpoint ''
check "a lone model stays" same alone/keep keep.before
cp keep.checkpoint alone/old.checkpoint
expect 1 "a checkpoint alone" "'alone/old.checkpoint' exists: --resume goes on" "$trf" train $plain --updates 5 --model alone/old
expect 1 "a named checkpoint" "'alone/old.checkpoint' exists: --resume goes on" \
    "$trf" train $plain --updates 5 --model alone/fresh --checkpoint alone/old.checkpoint
cp keep alone/other.checkpoint.average-7
expect 1 "an average, without its checkpoint" "'alone/other.checkpoint.average-7' exists: --overwrite" "$trf" train $plain --updates 5 --model alone/other
cp keep alone/kept.update-10
expect 1 "kept models" "'alone/kept.update-10' exists: --overwrite" "$trf" train $plain --updates 5 --keep 2 --model alone/kept
expect 0 "which others leave alone" "^done" "$trf" train $plain --updates 1 --model alone/kept
check "kept models stay" same alone/kept.update-10 keep.before
: >alone/empty
expect 0 "an empty file has nothing to lose" "^done" "$trf" train $plain --updates 1 --model alone/empty
expect 0 "asked for, it is replaced" "^done: 5 updates" "$trf" train $plain --updates 5 --model keep --log keep.log --overwrite
check "and its log" test "$(grep -c '"event":"start"' keep.log)" -eq 1
expect 0 "going on needs nothing else" "^done: 5 updates" "$trf" train $plain --updates 10 --model keep --log keep.log --resume
check "and adds to the log" test "$(grep -c '"event":"start"' keep.log)" -eq 2
cp keep alone/mine
expect 1 "a checkpoint of another model" "'alone/mine' exists, but 'keep.checkpoint' belongs to the model 'keep'" \
    "$trf" train $plain --updates 12 --model alone/mine --checkpoint keep.checkpoint --resume
expect 0 "a new name for it" "resumed from update 11" \
    "$trf" train $plain --updates 12 --model alone/yours --checkpoint keep.checkpoint --resume
expect 0 "which is its name then" "^done" "$trf" train $plain --updates 14 --model alone/yours --checkpoint keep.checkpoint --resume
expect 1 "several seeds, of which one exists" "'seeds.seed-6' exists: --overwrite" \
    sh -c "cp keep seeds.seed-6; '$trf' train $short --tsv train.tsv --threads 1 --seed 5 --seeds 2 --updates 5 --model seeds"
silent "seeds"
check "none has begun" test ! -e seeds.seed-5
rm seeds.seed-6
expect 1 "their best exists" "'seeds' exists: --overwrite replaces it" \
    sh -c "cp keep seeds; '$trf' train $short --tsv train.tsv --threads 1 --seed 5 --seeds 2 --updates 5 --model seeds"
check "still none has begun" test ! -e seeds.seed-5
expect 0 "and is replaced" "2 seeds" "$trf" train $short --tsv train.tsv --threads 1 --seed 5 --seeds 2 --updates 5 --model seeds --overwrite
expect 1 "all of them again" "--resume goes on with that training" "$trf" train $short --tsv train.tsv --threads 1 --seed 5 --seeds 2 --updates 5 --model seeds
expect 0 "or one more" "3 seeds" "$trf" train $short --tsv train.tsv --threads 1 --seed 5 --seeds 3 --updates 5 --model seeds --resume

echo precious >mine
cp mine mine.before
expect 1 "a mean over a file" "--output 'mine' exists: --overwrite replaces it" "$trf" average keep seeds --output mine
expect 1 "answers over a file" "--output 'mine' exists: --overwrite replaces it" "$trf" translate --model keep --input test.digits --output mine
silent "answers"
expect 1 "before the model is read" "--output 'mine' exists" "$trf" translate --model mine.before --input test.digits --output mine
expect 1 "scores over a file" "--output 'mine' exists" "$trf" score --model keep --tsv test.tsv --output mine
cp mine mine.svg
expect 1 "a picture over a file" "--output 'mine.svg' exists" "$trf" plot keep.log --output mine.svg
stays mine "what they would have replaced"
expect 0 "answers that are wanted" "" "$trf" translate --model keep --input test.digits --output mine --overwrite
check "are there" lines_are 40 mine
expect 0 "a mean that is wanted" "" "$trf" average keep keep --output mine --overwrite
check "is there" same mine keep
echo begun >added
expect 0 "standard output may be added to" "" sh -c "'$trf' translate --model keep --input test.digits --output added >>added"
check "behind what was there" test "$(head -n 1 added)" = begun

# --- files are checked before anything is read or said ---------------------------------------------------------------
expect 1 "no such validation" "cannot read 'missing'" "$trf" train --tsv train.tsv --valid-tsv missing $small --updates 1 --model m
silent "a missing file"
expect 1 "no such beginning" "cannot read 'missing'" "$trf" train --tsv train.tsv --init-from missing --updates 1 --model m
silent "a missing model"
expect 1 "a folder" "cannot read 'alone': Is a directory" "$trf" train --source train.digits --target alone $small --updates 1 --model m
silent "a folder"

# --- a training file that is not what --tsv reads --------------------------------------------------------------------
cp train.digits lines
expect 1 "pairs without tabs" "lines: no line has a tab; --tsv takes a source, a tab and a target in each line. Two files .* --source and --target; text alone is --text" \
    "$trf" train --tsv lines $small --updates 1 --model m
silent "no tabs"
expect 1 "labels without tabs" "lines: no line has a tab; --tsv takes a text, a tab and its label" "$trf" train --objective classify --tsv lines --updates 1 --model m
expect 1 "columns without tabs" "lines: no line has a tab" "$trf" train --tsv lines --columns 1,3 $small --updates 1 --model m
expect 1 "to validate on" "lines: no line has a tab" "$trf" train --tsv train.tsv --valid-tsv lines $small --updates 1 --model m
expect 1 "strictly" "lines:1: no tab between source and target (--strict)" "$trf" train --tsv lines --strict $small --updates 1 --model m
{ head -n 7 lines; cat train.tsv; } >late.tsv
expect 0 "tabs that come late" "left out: late.tsv:5: no tab between source and target" "$trf" train --tsv late.tsv $small --updates 1 --model late
check "five of seven lines are named, all counted" eval 'test "$(grep -c "late.tsv:" err)" -eq 5 && grep -q "^left out: 7 pairs (7 unreadable)" err'

# --- unknown words of what validates; whether targets had any --------------------------------------------------------
awk 'BEGIN { for (i = 0; i < 40; i++) print "1 2 3\tone strange words here" }' >strange.tsv
expect 0 "unknown words held out" "warning: 75.0 % of the target's tokens in the pairs held out are unknown" \
    "$trf" train --tsv train.tsv --valid-tsv strange.tsv $small --updates 1 --model m --overwrite
expect 0 "none" "" "$trf" train --tsv train.tsv --valid-tsv test.tsv $small --updates 1 --model m --overwrite
check "is not told" eval '! grep -q "unknown to" err'
check "no unknown target is a fact of the model" eval '"$trf" inspect m | grep -q "target.unknown: 0$"'
expect 0 "rare words" "" "$trf" train --tsv train.tsv --min-count 170 $small --updates 1 --model m --overwrite
check "are counted" eval '"$trf" inspect m | grep -q "target.unknown: [1-9]"'
check "an unknown target of the beginning counts too" eval '"$trf" train --tsv train.tsv --init-from m --valid-size 0 --updates 1 --model n 2>/dev/null &&
    "$trf" inspect n | grep -q "target.unknown: [1-9]"'

# --- what a resumed training is asked for ----------------------------------------------------------------------------
ice="$plain --valid-size 0 --model ice"
expect 0 "patterns that overlap" "^frozen: 32 of 36 parameters$" "$trf" train $ice --updates 10 --freeze 'encoder.*' --freeze '*.layers.0.*'
expect 0 "what is frozen stays" "^frozen: 32 of 36 parameters, as in the checkpoint (--freeze '' freezes none)$" "$trf" train $ice --updates 20 --resume
expect 0 "other patterns take its place" "^frozen: 20 of 36 parameters$" "$trf" train $ice --updates 30 --resume --freeze 'decoder.*'
expect 0 "or none" "^frozen: 0 of 36 parameters$" "$trf" train $ice --updates 40 --resume --freeze ''
check "which the next one is not told of" eval '"$trf" train $ice --updates 41 --resume 2>err; ! grep -q frozen err'
expect 2 "a pattern that fits nothing" "no parameter of the model is called" "$trf" train $ice --updates 50 --resume --freeze 'nothing*'
expect 0 "a beginning, when going on" "^--init-from has no effect with --resume: the weights are those of ice.checkpoint$" \
    "$trf" train $ice --updates 42 --resume --init-from keep
expect 1 "other batches" "began with: --batch-sentences was 1024, now it is 33; --shuffle was yes, now it is no$" \
    "$trf" train $ice --updates 50 --resume --batch-sentences 33 --shuffle no --learning-rate 0.01
check "another rate too, which does no harm" grep -q -x -e '--learning-rate was [0-9.]*, now it is 0.01' err
check "and the end" grep -q -x -e '--updates was 42, now it is 50' err
check "what is the same is not named" eval '! grep -q -e "--warmup was" err'
expect 1 "another seed" "began with: --seed was 5, now it is 9$" "$trf" train --tsv train.tsv $short --threads 1 --seed 9 --valid-size 0 --model ice --updates 50 --resume
expect 1 "other data" "so the data are others" "$trf" train --tsv test.tsv $small --valid-size 0 --model ice --updates 50 --resume

# --- quiet -----------------------------------------------------------------------------------------------------------
expect 0 "a quiet training" "" "$trf" train --tsv train.tsv $model --batch-tokens 256 --warmup 5 --threads 1 --updates 30 --quiet --model hush
check "has nothing to say" test ! -s err
expect 0 "but its warnings" "warning: the rate rises" "$trf" train --tsv train.tsv $small --updates 10 --quiet --model hush --overwrite
silent "a warning"
expect 0 "quiet scores" "" "$trf" score --model hush --tsv test.tsv --quiet
check "are alone" test ! -s err

# --- files and texts without an option -------------------------------------------------------------------------------
"$trf" translate --model keep --input test.digits >wanted 2>/dev/null
expect 0 "a file to translate" "" "$trf" translate test.digits --model keep
check "is the input" same out wanted
expect 0 "standard input" "" sh -c "'$trf' translate - --model keep <test.digits"
check "has a name too" same out wanted
expect 2 "two of them" "one file of lines, got 'test.digits' and 'test.names'" "$trf" translate test.digits test.names --model keep
expect 2 "one of each kind" "one file of lines, got" "$trf" translate test.digits --input test.names --model keep
expect 1 "a sentence instead of a file" "cannot read '3 1 4': No such file or directory; lines come from a file, or from standard input" "$trf" translate --model keep '3 1 4'
"$trf" score --model keep --source test.digits --target test.names >wanted 2>/dev/null
expect 0 "source and target" "" "$trf" score test.digits test.names --model keep
check "are scored" same out wanted
expect 0 "pairs" "" "$trf" score --model keep test.tsv
check "are scored alike" same out wanted
expect 2 "more than two" "got also 'train.tsv'" "$trf" score test.digits test.names train.tsv --model keep
awk 'BEGIN { for (i = 0; i < 200; i++) print "one two three four" }' >counting
expect 0 "a language model" "^done" "$trf" train --objective causal --text counting --tokens words --d-model 16 --n-heads 2 --d-ff 32 --decoder-layers 1 \
    --updates 30 --warmup 10 --threads 1 --model lm
"$trf" generate --model lm --prompt 'one two' --temperature 0 >wanted 2>/dev/null
expect 0 "a text to go on with" "" "$trf" generate 'one two' --model lm --temperature 0
check "is a prompt" same out wanted
expect 2 "without quotation marks" "one text to go on with, got 'one' and 'two': a text of several words needs quotation marks" "$trf" generate --model lm one two
expect 0 "a text is scored alone" "^-[0-9.]*	5$" "$trf" score --model lm counting
awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" n " digits" }' train.tsv >counts.tsv
expect 0 "a classifier" "^done" "$trf" train --objective classify --tsv counts.tsv --d-model 16 --n-heads 2 --d-ff 32 --encoder-layers 1 --updates 5 --warmup 5 \
    --threads 1 --model counts
"$trf" classify --model counts --input test.digits >wanted 2>/dev/null
expect 0 "a file to label" "" "$trf" classify test.digits --model counts
check "is labelled" same out wanted

# --- unknown words ---------------------------------------------------------------------------------------------------
awk 'BEGIN { split("sees likes knows meets", v, " "); split("voit aime connait rencontre", w, " "); x = 7
    for (i = 0; i < 1500; i++) {
        x = (x * 1103515245 + 12345) % 2147483648; y = int(x / 65536)
        a = y % 2 ? "anna" : "N" i; b = y % 4 > 1 ? "bert" : "M" i; k = 1 + int(y / 4) % 4
        print a " " v[k] " " b "\t" a " " w[k] " " b } }' >names.tsv
expect 0 "rare names" "^done" "$trf" train --tsv names.tsv --tokens words --min-count 5 --model rare --d-model 64 --n-heads 2 --d-ff 128 --encoder-layers 1 \
    --decoder-layers 1 --batch-tokens 512 --updates 400 --warmup 60 --threads 1 --metric loss --dropout 0
printf 'zoe sees bert\nanna likes Xaver\n\nzoe knows Xaver\nanna meets bert\n' >asked
expect 0 "are counted at the end" "^trf translate: 4 of 12 tokens of the input are unknown to the model, the first one in line 1$" "$trf" translate asked --model rare
expect 0 "and reported" "^trf translate: asked:4: unknown to the model: 'zoe', 'Xaver'$" "$trf" translate asked --model rare --unknown report
check "each line that has some" test "$(grep -c 'asked:.*unknown to the model' err)" -eq 3
expect 0 "and copied" "" "$trf" translate asked --model rare --unknown copy
printf 'zoe voit bert\nanna aime Xaver\n\nzoe connait Xaver\nanna rencontre bert\n' >wanted
check "to where they belong" same out wanted
expect 0 "and dropped" "" "$trf" translate asked --model rare --unknown drop
printf 'voit bert\nanna aime\n\nconnait\nanna rencontre bert\n' >wanted
check "without a trace" same out wanted
expect 0 "JSON has them" '"unknown_words":\["zoe","Xaver"\],"answers":\[{"text":"zoe connait Xaver"' "$trf" translate asked --model rare --unknown copy --json
check "where there are some" test "$(grep -c unknown_words out)" -eq 3
expect 0 "no answer has an unknown word" "" "$trf" translate asked --model rare --ban-unk yes
check "if that is wanted" eval '! grep -q unk out && lines_are 5 out'
expect 0 "it may have one" "unk" "$trf" translate asked --model rare
expect 2 "nothing to copy to" "--ban-unk yes allows none" "$trf" translate asked --model rare --unknown copy --ban-unk yes
expect 2 "nothing to copy from" "--unknown copy copies words of a source" "$trf" translate counting --model lm --unknown copy
expect 0 "few unknown words are not told" "" sh -c "head -n 200 names.tsv | grep 'anna.*bert' | cut -f 1 | cat - asked | '$trf' translate --model rare"
check "below a twentieth" test ! -s err
expect 0 "of a classifier" "trf classify: 4 of 12 tokens of the input are unknown to the model, the first one in line 1$" sh -c "printf '3 x\n\n1 1 1 1 1 1 1\ny z y\n' | '$trf' classify --model counts"
printf 'zoe sees bert\tanna voit bert\n' >rare.tsv
expect 0 "of pairs" "trf score: 1 of 3 tokens of the sources is unknown to the model, the first one in line 1$" "$trf" score rare.tsv --model rare
check "on one side" eval '! grep -q targets err && grep -q "^1 pair, 4 target tokens" err'
expect 0 "answers that reach the limit" "^trf translate: 4 of 4 answers reached the longest length (--max-length-a, --max-length-b) and did not end by themselves$" \
    "$trf" translate asked --model rare --beam 1 --max-length-a 0 --max-length-b 2
expect 0 "as --min-length wants" "; --min-length 9 is not below it for 4 of them$" "$trf" translate asked --model rare --max-length-a 0 --max-length-b 5 --min-length 9
expect 0 "those that end" "" "$trf" translate asked --model rare
check "are not told" eval '! grep -q "longest length" err'

# --- a rate that is too high -----------------------------------------------------------------------------------------
high="$model --batch-tokens 256 --threads 1 --schedule constant --learning-rate 1e5 --initial-rate 1e5 --warmup 1 --clip-norm 1e300"
expect 1 "a hundred updates left out in a row" "the last 100 updates were left out: the rate of 1e+05 is too high" \
    "$trf" train --tsv train.tsv $high --metric loss --updates 3000 --log-every 50 --model high
check "end the training" eval '! grep -q "^update 250" err'

# --- progress --------------------------------------------------------------------------------------------------------
expect 0 "three answers a validation" "^    [0-9 ]* -> .*  (reference: [a-z ]*)$" \
    "$trf" train $plain --valid-every 20 --updates 40 --model shown --log shown.log
check "the same three sources each time" eval 'grep -e " -> " err | sed "s/ -> .*//" >sources && head -n 3 sources >first && tail -n 3 sources >last &&
    lines_are 6 sources && same first last'
expect 0 "right answers are called so" "^    [0-9 ]* -> [a-z ]*  (right)$" "$trf" train --tsv letters.tsv --source-tokens characters --d-model 64 --n-heads 2 --d-ff 128 \
    --encoder-layers 1 --decoder-layers 1 --batch-tokens 512 --warmup 60 --updates 400 --threads 1 --model good
expect 0 "every update" "" "$trf" train $model --batch-tokens 256 --warmup 20 --seed 5 --threads 1 --metric loss --tsv train.tsv --updates 40 --model each \
    --log-every 1 --log each.log
mean() { sed -n 's/.*"event":"progress","update":\([0-9]*\),.*"loss":\([0-9.]*\),.*/\1 \2/p' each.log | awk -v from=$1 -v to=$2 '
    $1 >= from && $1 <= to { s += $2; n++ } END { print s / n }'; }
told() { sed -n "s/.*\"event\":\"progress\",\"update\":$1,.*\"loss\":\([0-9.]*\),.*/\1/p" shown.log; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && d < 0.05 && d > -0.05) }'; }
check "a line's loss is the mean of the last ten updates" eval 'near "$(told 20)" "$(mean 11 20)" && near "$(told 40)" "$(mean 31 40)"'
"$trf" train $plain --updates 19 --model spike 2>err
expect 0 "an update behind a break" "^update 30 " "$trf" train $plain --updates 35 --model spike --resume
check "has no line of its own" eval '! grep -q "^update 20 " err'
expect 0 "the time until patience ends" "left [0-9]*s if no better  [0-9]* MB$" \
    "$trf" train $plain --patience 2 --valid-every 10 --updates 100000 --schedule constant --learning-rate 1e-30 --model waits
expect 0 "JSON has it too" '"seconds_left":[0-9]' cat shown.log

# --- which lines are bad, and whether long ones are ------------------------------------------------------------------
printf 'one\ntwo three\nfour five six\nseven eight nine ten\none two three four five six\n' >references
printf 'one\ntwo thre\nfour five\n\none two three four five six\n' >hypotheses
expect 0 "the worst lines" "^worst lines by chrF2$" "$trf" eval references hypotheses --worst 2
sed -n '/^worst/,$p' out >got
printf 'worst lines by chrF2\n       4    0.00  reference   seven eight nine ten\n                  hypothesis  \n' >wanted
check "the worst one first" eval 'head -n 3 got | cmp -s - wanted && lines_are 5 got && grep -q "^       3 .*four five six$" got'
expect 0 "perfect ones are not among them" "" "$trf" eval references hypotheses --worst 99 --metrics wer
check "whatever the number" test "$(grep -c '  reference  ' out)" -eq 3
check "errors are worse when there are more" test "$(awk '/  reference  / { print $1 }' out | tr '\n' ' ')" = "4 2 3 "
expect 0 "by length" "^       words    lines     BLEU      WER$" "$trf" eval references hypotheses --by-length --metrics bleu,wer
sed -n '/words    lines/,$p' out | tail -n +2 >got
printf '%12s  %7s  %7s  %7s\n' 1 1 - 0.00 2-3 2 - 40.00 >wanted
check "classes of references" eval 'lines_are 3 got && head -n 2 got | cmp -s - wanted'
expect 0 "both in JSON" '"by_length":\[{"from":1,"to":1,"lines":1,"bleu":null,"wer":0},.*"worst":\[{"line":4,"metric":"wer","score":100,"reference":"seven eight nine ten","hypothesis":""}\]}$' \
    "$trf" eval references hypotheses --by-length --worst 1 --metrics wer,bleu --json
if command -v python3 >/dev/null; then check "which is JSON" python3 -c 'import json; json.load(open("out"))'; fi
expect 0 "characters" "^  characters    lines " "$trf" eval references hypotheses --by-length --tokenize char

# --- version, man page, completion, misspelt options -----------------------------------------------------------------
expect 0 "what is built in" "^subwords: " "$trf" --version
for line in "^trf [0-9.]*$" "^transformer.h .*threads\|^transformer.h .*one thread" "^products: built-in" "^pictures: .*gnuplot" "^compiler: "; do
    check "is told: $line" grep -q "$line" out
done
for wrong in --versoin:--version --hepl:--help -V:--version; do
    expect 2 "${wrong%:*}" "unknown option '${wrong%:*}'; did you mean ${wrong#*:}?" "$trf" ${wrong%:*}
done
expect 2 "an option in front of its command" "'--model' is an option of a command, .* trf train --model" "$trf" --model=m translate
expect 2 "no option at all" "unknown option '--nonsense'; all commands: trf --help" "$trf" --nonsense
expect 2 "nearly completion" "did you mean 'trf completion'" "$trf" completon
expect 2 "another shell" "completion takes bash or zsh, got 'tcsh'" "$trf" completion tcsh
expect 0 "a man page" '^\.TH TRF 1' "$trf" help --man
cp out trf.1
missing=
commands=$("$trf" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
check "commands: $commands" test "$(echo "$commands" | wc -l)" -ge 10
for command in $commands; do
    for option in $("$trf" $command --help | sed -n 's/^  --\([a-z0-9-]*\).*/\1/p'); do
        grep -q "^.fB.-.-$(echo "$option" | sed 's/-/.-/g').fR" trf.1 || missing="$missing $command:$option"
    done
done
check "has every option ($missing)" test -z "$missing"
check "as many as the help has" test "$(grep -c '^.fB.-.-' trf.1)" -eq "$(for command in $commands; do
    "$trf" $command --help | grep '^  --'; done | wc -l)"
if command -v man >/dev/null && man --version 2>/dev/null | grep -q 'man-db\|^man 2'; then
    man -l --warnings -E UTF-8 trf.1 2>roff >/dev/null
    check "without a warning" test ! -s roff
fi
if command -v mandoc >/dev/null; then check "or an error" mandoc -T lint -W error trf.1; fi
"$trf" completion bash >complete.bash
"$trf" completion zsh >_trf
if command -v bash >/dev/null; then
    check "bash reads its script" bash -n complete.bash
    cat >completing.bash <<'EOF'
. ./complete.bash
t() { COMP_WORDS=(trf "$@"); COMP_CWORD=$#; _trf; (IFS=,; echo "${COMPREPLY[*]}"); }
t tr; t train --obj; t train --objective c; t translate --ban-unk ''; t train --d-model 1; t eval --wor; t completion z; t translate --model 'a b'; t plot sched; t plot --vi; t plot run.json sched
EOF
    : >'a bell'
    bash completing.bash >got
    printf 'train,translate\n--objective\ncausal,classify\nno,yes\n\n--worst\nzsh\na bell\nschedule\n--view\n\n' >wanted
    check "and completes" same got wanted
fi
if command -v zsh >/dev/null; then check "zsh reads its own" zsh -n _trf; fi

finish

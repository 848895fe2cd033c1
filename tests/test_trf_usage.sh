#!/bin/sh
# The command line as its user meets it: sh tests/test_trf_usage.sh build/trf
#
# Help, usage errors and the hints in them; nothing that exists is replaced unless --overwrite is
# given; files are checked before anything is read; names that training needs for its own files;
# positional arguments; --quiet; version, man page and completion.

. "$(dirname "$0")/trf.sh"

# stays FILE NAME: FILE is what it was when it was copied to FILE.before
stays() { check "$2 stays" same "$1" "$1.before"; }

# --- nothing that exists is replaced unless --overwrite is given --------------------------------
expect 0 "a training run" "^done" "$trf" train $plain --updates 30 --model keep --log keep.log
for file in keep keep.checkpoint keep.log; do cp $file $file.before; done
expect 1 "training to a name that exists" \
    "'keep', 'keep.checkpoint' exist: --resume continues that training run, --overwrite starts a new one" \
    \
    "$trf" train $plain --updates 5 --model keep
silent "a name that exists"
expect 1 "a log that exists" \
    "'keep.log' exists: --overwrite replaces it (--resume needs the checkpoint 'new.checkpoint'" \
    "$trf" train $plain --updates 5 --model new --log keep.log
for file in keep keep.checkpoint keep.log; do stays $file "a $file"; done
check "a refused training makes no other file" test ! -e new
mkdir alone
cp keep alone/keep
expect 1 "a model without a checkpoint" \
    "'alone/keep' exists: --overwrite replaces it (--resume needs the checkpoint 'alone/keep.checkpoint'" \
    \
    "$trf" train $plain --updates 5 --model alone/keep
expect 1 "a model that wants none" \
    "'alone/keep' exists: --overwrite replaces it (--resume needs a checkpoint, and there is none)" \
    \
    "$trf" train $plain --updates 5 --model alone/keep --checkpoint ''
check "a lone model stays" same alone/keep keep.before
cp keep.checkpoint alone/old.checkpoint
expect 1 "a checkpoint alone" "'alone/old.checkpoint' exists: --resume continues" "$trf" train \
    $plain --updates 5 --model alone/old
expect 1 "a named checkpoint" "'alone/old.checkpoint' exists: --resume continues" \
    "$trf" train $plain --updates 5 --model alone/fresh --checkpoint alone/old.checkpoint
cp keep alone/other.checkpoint.average-7
expect 1 "an average, without its checkpoint" \
    "'alone/other.checkpoint.average-7' exists: --overwrite" "$trf" train $plain --updates 5 \
    --model alone/other
cp keep alone/kept.update-10
expect 1 "kept models that exist" "'alone/kept.update-10' exists: --overwrite" "$trf" train $plain \
    --updates 5 --keep-models 2 --model alone/kept
expect 0 "a training of the same name leaves kept models alone" "^done" "$trf" train $plain --updates 1 \
    --model alone/kept
check "kept models stay" same alone/kept.update-10 keep.before
: >alone/empty
expect 0 "an empty file has nothing to lose" "^done" "$trf" train $plain --updates 1 \
    --model alone/empty
expect 0 "asked for, it is replaced" "^done: 5 updates" "$trf" train $plain --updates 5 \
    --model keep --log keep.log --overwrite
check "a refused training leaves the log" test "$(grep -c '"event":"start"' keep.log)" -eq 1
expect 0 "--resume needs nothing else" "^done: 5 updates" "$trf" train $plain --updates 10 \
    --model keep --log keep.log --resume
check "--resume adds to the log" test "$(grep -c '"event":"start"' keep.log)" -eq 2
cp keep alone/mine
expect 1 "a checkpoint of another model" \
    "'alone/mine' exists, but 'keep.checkpoint' belongs to the model 'keep'" \
    "$trf" train $plain --updates 12 --model alone/mine --checkpoint keep.checkpoint --resume
expect 0 "a new name for it" "resumed from update 11" \
    "$trf" train $plain --updates 12 --model alone/yours --checkpoint keep.checkpoint --resume
expect 0 "which is its name then" "^done" "$trf" train $plain --updates 14 --model alone/yours \
    --checkpoint keep.checkpoint --resume
expect 1 "several seeds, of which one exists" "'seeds.seed-6' exists: --overwrite" \
    sh -c \
    "cp keep seeds.seed-6; '$trf' train $short --tsv train.tsv --threads 1 --seed 5 --seeds 2 --updates 5 --model seeds"
silent "seeds"
check "none has begun" test ! -e seeds.seed-5
rm seeds.seed-6
expect 1 "their best exists" "'seeds' exists: --overwrite replaces it" \
    sh -c \
    "cp keep seeds; '$trf' train $short --tsv train.tsv --threads 1 --seed 5 --seeds 2 --updates 5 --model seeds"
check "still none has begun" test ! -e seeds.seed-5
expect 0 "and is replaced" "2 seeds" "$trf" train $short --tsv train.tsv --threads 1 --seed 5 \
    --seeds 2 --updates 5 --model seeds --overwrite
expect 1 "all of them again" "--resume continues that training run" "$trf" train $short \
    --tsv train.tsv --threads 1 --seed 5 --seeds 2 --updates 5 --model seeds
expect 0 "or one more" "3 seeds" "$trf" train $short --tsv train.tsv --threads 1 --seed 5 \
    --seeds 3 --updates 5 --model seeds --resume

echo precious >mine
cp mine mine.before
expect 1 "a mean over a file" "--output 'mine' exists: --overwrite replaces it" "$trf" average \
    keep seeds --output mine
expect 1 "answers over a file" "--output 'mine' exists: --overwrite replaces it" "$trf" translate \
    --model keep --input test.digits --output mine
silent "answers"
expect 1 "before the model is read" "--output 'mine' exists" "$trf" translate --model mine.before \
    --input test.digits --output mine
expect 1 "scores over a file" "--output 'mine' exists" "$trf" score --model keep --tsv test.tsv \
    --output mine
cp mine mine.svg
expect 1 "a picture over a file" "--output 'mine.svg' exists" "$trf" plot keep.log --output mine.svg
stays mine "what they would have replaced"
expect 0 "answers that are wanted" "" "$trf" translate --model keep --input test.digits \
    --output mine --overwrite
check "are there" lines_are 40 mine
expect 0 "a mean that is wanted" "" "$trf" average keep keep --output mine --overwrite
check "is there" same mine keep
echo begun >added
expect 0 "standard output may be added to" "" \
    sh -c "'$trf' translate --model keep --input test.digits --output added >>added"
check "behind what was there" test "$(head -n 1 added)" = begun

# --- files are checked before anything is read or trained ---------------------------------------
expect 1 "no such validation" "cannot read 'missing'" "$trf" train --tsv train.tsv \
    --valid-tsv missing $small --updates 1 --model m
silent "a missing file"
expect 1 "no such beginning" "cannot read 'missing'" "$trf" train --tsv train.tsv \
    --init-from missing --updates 1 --model m
silent "a missing model"
expect 2 "a folder beside a file" "--source has 1 file, but --target has [0-9]*: file n" "$trf" train \
    --source train.digits --target alone $small --updates 1 --model m
silent "a folder"

# --- --quiet ------------------------------------------------------------------------------------
expect 0 "a quiet training run" "" "$trf" train --tsv train.tsv $model --batch-tokens 256 --warmup 5 \
    --threads 1 --updates 30 --quiet --model hush
check "has nothing to say" test ! -s err
expect 0 "but its warnings" "warning: the rate rises" "$trf" train --tsv train.tsv $small \
    --updates 10 --quiet --model hush --overwrite
silent "a warning"
expect 0 "quiet scores" "" "$trf" score --model hush --tsv test.tsv --quiet
check "are alone" test ! -s err

# --- files and texts without an option ----------------------------------------------------------
"$trf" translate --model keep --input test.digits >wanted 2>/dev/null
expect 0 "a file to translate" "" "$trf" translate test.digits --model keep
check "is the input" same out wanted
expect 0 "standard input" "" sh -c "'$trf' translate - --model keep <test.digits"
check "has a name too" same out wanted
expect 2 "two of them" "give one file of lines, got 'test.digits' and 'test.names'" "$trf" translate \
    test.digits test.names --model keep
expect 2 "one of each kind" "give one file of lines, got" "$trf" translate test.digits \
    --input test.names --model keep
expect 1 "a sentence instead of a file" \
    "cannot read '3 1 4': No such file or directory; lines come from a file, or from standard input" \
    "$trf" translate --model keep '3 1 4'
"$trf" score --model keep --source test.digits --target test.names >wanted 2>/dev/null
expect 0 "source and target" "" "$trf" score test.digits test.names --model keep
check "are scored" same out wanted
expect 0 "trf score of a file of pairs" "" "$trf" score --model keep test.tsv
check "trf score of too many files" same out wanted
expect 2 "more than two" "'train.tsv' is one too many" "$trf" score test.digits test.names train.tsv \
    --model keep
awk 'BEGIN { for (i = 0; i < 200; i++) print "one two three four" }' >counting
expect 0 "a language model" "^done" "$trf" train --objective causal --text counting --tokens words \
    --d-model 16 --n-heads 2 --d-ff 32 --decoder-layers 1 \
    --updates 30 --warmup 10 --threads 1 --model lm
"$trf" generate --model lm --prompt 'one two' --temperature 0 >wanted 2>/dev/null
expect 0 "a text to go on with" "" "$trf" generate 'one two' --model lm --temperature 0
check "is a prompt" same out wanted
expect 2 "a text of several words without quotation marks" \
    "give one text, got 'one' and 'two': a text of several words needs quotation marks" \
    "$trf" generate --model lm one two
expect 0 "a text is scored alone" "^-[0-9.]*	5$" "$trf" score --model lm counting
awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" n " digits" }' train.tsv >counts.tsv
expect 0 "a classifier of counts" "^done" "$trf" train --objective classify --tsv counts.tsv --d-model 16 \
    --n-heads 2 --d-ff 32 --encoder-layers 1 --updates 5 --warmup 5 \
    --threads 1 --model counts
"$trf" classify --model counts --input test.digits >wanted 2>/dev/null
expect 0 "a file to label" "" "$trf" classify test.digits --model counts
check "is labelled" same out wanted

trf=$anew
# --- help and usage errors ----------------------------------------------------------------------
expect 0 "trf --help" "usage: trf COMMAND" "$trf" --help
expect 0 "version" "trf [0-9]" "$trf" --version
expect 0 "help of help" "usage: trf train" "$trf" help train
expect 2 "an option of one letter" "unknown option '-xyz'" "$trf" train -xyz
expect 2 "trf without a command" "usage: trf COMMAND" "$trf"
expect 2 "unknown command" "did you mean 'trf train'" "$trf" trian
for command in train translate score inspect attention; do
    expect 0 "help of $command" "usage: trf $command" "$trf" $command --help
    expect 2 "unknown option of $command" "unknown option" "$trf" $command --nonsense-of-this-kind
done
expect 0 "defaults in the help" "default 1e-05; paper: 1e-06" "$trf" train --help all
expect 2 "an option that is misspelled" "did you mean --d-model?" "$trf" train --d-modle 3
expect 2 "an option that is ambiguous" "--batch-tokens --batch-sentences" "$trf" train --batch 3
expect 2 "an option without a value" "needs a value" "$trf" train --d-model
expect 2 "value too many" "takes no value" "$trf" train --resume=3
expect 2 "not a number" "--d-model takes a whole number" "$trf" train --d-model 3x
expect 2 "not a choice" "--tying takes untied|decoder|all|embeddings" "$trf" train --tying none
expect 2 "an argument that is no option" "not an option" "$trf" train here
expect 2 "training without data" "--source FILE" "$trf" train --model m --updates 1
expect 2 "training without a model" "--model" "$trf" train --tsv train.tsv --updates 1
expect 2 "training without an end" "--updates, --epochs or --minutes" "$trf" train --tsv train.tsv --valid-size 0 \
    --model m
expect 2 "an option twice" "--seed is given twice" "$trf" train --seed 1 --tsv train.tsv --seed 2
expect 2 "trf translate without a model" "--model" "$trf" translate
expect 2 "trf inspect without a file" "one file" "$trf" inspect
expect 0 "help about help" "usage: trf COMMAND" "$trf" help help
expect 2 "help about nothing" "unknown command 'trian'; did you mean 'trf train'" "$trf" help trian
expect 2 "an option before a command" "unknown option '-v'" "$trf" -v

# --- options that contradict each other or have no effect ---------------------------------------
expect 2 "--tying all and two vocabularies" "--joint-vocabulary no makes two" "$trf" train $files $model \
    --tying all --joint-vocabulary no --updates 1 --model m
expect 2 "pairs to validate on, and some held out" "validation pairs are given" "$trf" \
    train $files $model \
    --valid-source test.digits --valid-target test.names --valid-size 9 --updates 1 --model m
expect 0 "with files to validate on no pair is held out" "^done" "$trf" train $files $model --batch-tokens 256 \
    --threads 1 \
    --valid-source test.digits --valid-target test.names --valid-size 0 --updates 1 --model m
expect 2 "random cuts of one copy" "is for --subword-samples" "$trf" train $files $model \
    --subword-alpha 0.2 --updates 1 --model m
expect 2 "words of a file that cuts words" "is not for a SentencePiece model" "$trf" train $files \
    $model --tokens words --sentencepiece none --updates 1 --model m
expect 2 "how many it has" "which has a fixed size" "$trf" train $files $model --vocab-size 9 \
    --sentencepiece none --updates 1 --model m
expect 2 "an end of what is no cosine" "is for --schedule cosine" "$trf" train $files $model \
    --total-steps 9 --updates 1 --model m
expect 2 "answers to no question" "is for translations" "$trf" train $files $model --metric loss \
    --valid-beam 3 --updates 1 --model m
expect 2 "patience with nobody" "but there are none" "$trf" train $files $model --valid-size 0 \
    --patience 3 --updates 1 --model m
expect 2 "--average-of without --average" "is for --average" "$trf" train $files $model --average-of last \
    --updates 1 --model m
expect 2 "a vocabulary that is there" "the vocabulary is that of the model" "$trf" train $files \
    --init-from keep \
    --sentencepiece train.digits --updates 1 --model m
expect 2 "--vocab-size with --init-from" "without --extend-vocabulary" "$trf" train $files --init-from keep \
    --vocab-size 9 --updates 1 --model m
cp keep keep.checkpoint.average-65
expect 2 "a beginning that training removes" "choose another name" "$trf" train $files \
    --init-from keep.checkpoint.average-65 --updates 1 --model keep
check "an average beside a checkpoint is still there" test -s keep.checkpoint.average-65
expect 2 "a field that makes no sense" "--n-heads must divide" "$trf" train --tsv train.tsv \
    --d-model 16 --n-heads 3 --updates 1 --model m
expect 2 "a cosine without an end" "--total-steps" \
    "$trf" train --tsv train.tsv $small --schedule cosine --patience 2 --model m
for wrong in "--d-model 65537" "--n-heads 3" "--beta2 1" "--label-smoothing 1" "--vocab-size 2"; do
    expect 2 "$wrong is a wrong command line" "must.*, got" "$trf" train --tsv train.tsv \
        --size tiny --updates 1 --model m $wrong
done
for wrong in "--learning-rate -1:--learning-rate must be between" \
    "--embedding-dropout 1:--embedding-dropout must be" "--warmup 0:--warmup must be" \
    "--label-smoothing 1:--label-smoothing must be" "--norm-epsilon 0:--norm-epsilon must be" \
    "--valid-beam 1025:--valid-beam must be" \
    "--max-length 1:--max-length must be" "--d-model 100 --n-heads 7:--n-heads must divide" \
    "--encoder-layers 300:--encoder-layers must be" \
    "--schedule cosine --total-steps 7 --warmup 7:--total-steps must be"; do
    expect 2 "${wrong%%:*}, before the data are read" "${wrong#*:}" "$trf" train \
        --tsv not-there.tsv ${wrong%%:*} --updates 5 --model m
done
expect 2 "--minutes 0" "--minutes takes" "$trf" train --tsv train.tsv $small --minutes 0 --model m
expect 2 "a share of the average" "--ema takes" "$trf" train --tsv train.tsv $small --ema 2 \
    --updates 1 --model m
expect 2 "tokens seen seldom" "--min-count is not for subwords" "$trf" train $files $quick \
    --tokens sentencepiece --min-count 2 --updates 1 --model m
expect 2 "--final-rate without a cosine" "--final-rate is for" "$trf" train $files $quick --final-rate 1e-5 \
    --updates 1 --model m
expect 2 "--initial-rate with noam" "--initial-rate is not for" "$trf" train $files $quick \
    --schedule noam --initial-rate 1e-5 --updates 1 --model m
expect 2 "--metric without validation pairs" "--metric needs validation pairs" "$trf" train $files $model \
    --valid-size 0 --metric wer --updates 1 --model m
expect 2 "--valid-every without validation pairs" "--valid-every needs validation pairs" "$trf" train $files $model \
    --valid-size 0 \
    --valid-every 5 --updates 1 --model m
expect 2 "beta1 of 1" "beta1 must be 0 or more and below 1" "$trf" train $files $quick --beta1 1 \
    --updates 1 --model m
expect 2 "shares that are too much" "a sum of at most 1, got 1 and 0.1" "$trf" train \
    --objective mask --text train.digits --masked-share 1 --updates 1 --model m
expect 2 "a layer too many" "--encoder-layers must be between 1 and 256, got 300" "$trf" train \
    --tsv train.tsv --encoder-layers 300 --updates 1 --model m
expect 2 "a layer too many for the kind" "--encoder-layers must be 0 in a decoder-only model" \
    "$trf" train --objective causal --text train.tsv --encoder-layers 2 --updates 1 --model m

# --- names of files that trf cannot write, or that it reads -------------------------------------
expect 1 "a model in a folder that is not there" "cannot write 'no/m'" "$trf" train --tsv train.tsv $small --updates 1 \
    --model no/m
cp train.tsv precious
expect 1 "a model that would replace the text" "is the file that --tsv reads" \
    "$trf" train --tsv precious $small --updates 1 --model precious
expect 1 "a checkpoint that would replace the text" "is the file that --source reads" \
    "$trf" train --source precious --target train.names $small --updates 1 --model m \
    --checkpoint precious
expect 1 "a model that would replace the validation pairs" "is the file that --valid-tsv reads" \
    "$trf" train --tsv train.tsv --valid-tsv precious $small --updates 1 --model precious
check "validation pairs that would be replaced stay whole" same precious train.tsv
expect 0 "a model to link to" "^done" "$trf" train $plain --updates 40 --model one
mkdir links
echo old >links/real
ln -s real links/link
ln -s missing links/nowhere
for link in link nowhere; do
    expect 1 "a model's name that is a link" "'links/$link': it is a symbolic link" "$trf" train \
        --tsv train.tsv $small --updates 1 --model links/$link
    expect 1 "a symbolic link in place of a checkpoint" "'links/$link': it is a symbolic link" \
        "$trf" train --tsv train.tsv $small --updates 1 --model m --checkpoint links/$link
    expect 1 "a symbolic link in place of a mean" "'links/$link': it is a symbolic link" "$trf" average one one \
        --output links/$link
done
expect 0 "a log is written through a link" "^done" "$trf" train --tsv train.tsv $small --updates 1 \
    --model m --log links/nowhere
check "to where it leads" test -s links/missing
rm links/missing
check "which stays one" eval '[ "$(cat links/link)" = old ] && [ -L links/nowhere ]'
if [ -d /proc/self ]; then
    expect 1 "a folder in which nothing can be made, whoever asks" "cannot write '/proc/model'" \
        "$trf" train --tsv train.tsv $small --updates 1 --model /proc/model
    check "a place that cannot be written is told before the training" test "$(grep -c "^update\|^source:" err)" -eq 0
fi
expect 2 "model and checkpoint in two spellings" "name the same file" \
    "$trf" train --tsv train.tsv $small --updates 1 --model fresh --checkpoint ./fresh
for target in '' /dev/null . no/such/folder; do
    expect 1 "a model called '$target'" "cannot write '$target'" "$trf" train --tsv train.tsv \
        $small --updates 1 --model "$target"
done
controls=$(printf 'a\302\2331mb')
"$trf" train --tsv "$controls" $small --updates 1 --model m 2>err
"$trf" train --tsv train.tsv $small --updates 1 --seeds 2 --model "$controls" 2>>err
"$trf" train --tsv train.tsv $small --updates 1 --init-from "$controls" --model m 2>>err
check "control characters of a path are told as other characters" test "$(grep -c 'a??1mb\|a?1mb' err)" -ge 5
check "no control character reaches the terminal" \
    test "$(LC_ALL=C grep -c "$(printf '\302\233')" err)" -eq 0
for command in "inspect same" "eval told" "plot told"; do
    cp one same; cp train.names told
    "$trf" $command >>${command#* } 2>err
    status=$?
    check "$command: nothing behind what is read" eval \
        '[ $status -eq 1 ] && grep -q "which is also read" err && same one same && same train.names told'
done
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 true 2>/dev/null; then
    mkdir unlisted && chown 65534 unlisted && chmod 300 unlisted && chmod 755 . && cp "$trf" trf
    expect 1 "a folder that cannot be opened" "cannot write 'unlisted/m': Permission denied" \
        setpriv --reuid=65534 --clear-groups ./trf train --tsv train.tsv $small --updates 1 \
        --model unlisted/m
fi

# --- logs and the names that training gives to its own files ------------------------------------
echo old >messages
"$trf" train $plain --updates 2 --model m --log messages 2>>messages
check "a log that messages go to" test $? -eq 1
check "a log that messages go to is refused by name" grep -q "'messages' is the file that messages go to" messages
check "a log that messages go to stays whole" grep -q "^old$" messages
"$trf" train $plain --updates 2 --model m --log /dev/stderr 2>>messages
check "a log that messages go to is refused by its other name" test $? -eq 1
check "old lines stay" grep -q "^old$" messages
expect 1 "no log in a folder's place" "Is a directory" "$trf" train $plain --updates 2 --model m \
    --log .
expect 0 "a log of a name with words" "^done" "$trf" train $plain --updates 2 --keep-models 1 --model m \
    --log m.update-notes
expect 1 "--log -" "needs the name of a file, got '-'" "$trf" train $plain --updates 2 --model m --log -
expect 1 "--model -" "needs the name of a file, got '-'" "$trf" train $plain --updates 2 --model -
expect 2 "a log of a kept model's name" "--log 'm.update-2' is a name that training" "$trf" train \
    $plain --updates 2 --keep-models 1 --model m --log m.update-2
expect 2 "a checkpoint of such a name" "--checkpoint .* is a name that training" "$trf" train \
    $plain --updates 2 --keep-models 1 --model m --checkpoint ./m.update-2
expect 2 "a log of an average's name" "--log .* is a name that training" "$trf" train $plain \
    --updates 2 --model m --log ./m.checkpoint.average-2
expect 1 "a name with no room for those beside it" "with names of up to .* bytes" "$trf" train $plain \
    --updates 2 --model "$(printf 'x%.0s' $(seq 240))"
expect 0 "seeds without a log" "2 seeds" "$trf" train $plain --updates 2 --seeds 2 --log /dev/null \
    --model grown
check "models of /dev/null are not written" test ! -e /dev/null.seed-5
for wrong in "--tsv own.update-7 --keep-models 1" "--tsv own.checkpoint.average-7" \
    "--tsv own.tmp-0badf00d" "--tsv own.checkpoint.average-7.tmp-0badf00d" \
    "--tsv train.tsv --log own.tmp-12345678" "--tsv train.tsv --valid-tsv own.update-9"; do
    for file in $wrong; do case $file in own.*) cp train.tsv $file ;; esac; done
    expect 2 "a file of the training as data: $wrong" \
        "is a name that training with --model 'own' uses for a file of its own" "$trf" \
        train $wrong $small --updates 7 --model own
    for file in $wrong; do
        case $file in own.*)
            check "data with a name of the training stay: $file" same train.tsv $file
            rm $file ;;
        esac
    done
done
expect 2 "a model called like an average" "--model 'own.average-7'" "$trf" train $plain \
    --updates 1 --checkpoint own --model own.average-7

# --- version, man page, completion, misspelt options --------------------------------------------
expect 0 "trf --version tells what is built in" "^subwords: " "$trf" --version
for line in "^trf [0-9.]*$" "^compiled: .*threads\|^compiled: .*one thread" \
    "^products: built-in" "^pictures: .*gnuplot" "^compiler: "; do
    check "trf --version has a line: $line" grep -q "$line" out
done
for wrong in --versoin:--version --hepl:--help -V:--version; do
    expect 2 "the option of another program: ${wrong%:*}" "unknown option '${wrong%:*}'; did you mean ${wrong#*:}?" \
        "$trf" \
        ${wrong%:*}
done
expect 2 "an option in front of its command" \
    "'--model' is an option of a command and stands after it, as in: trf train --model" "$trf" --model=m translate
expect 2 "an option that trf does not know" "unknown option '--nonsense'; all commands: trf --help" "$trf" \
    --nonsense
expect 2 "a command that is nearly completion" "did you mean 'trf completion'" "$trf" completon
expect 0 "help about completion" "usage: trf completion bash|zsh" "$trf" completion --help
expect 0 "trf help completion" "usage: trf completion bash|zsh" "$trf" help completion
expect 0 "a rule is the only default" "(default: max-length - 1)$" "$trf" train --help all
expect 2 "completion of another shell" "completion takes bash or zsh, got 'tcsh'" "$trf" completion tcsh
expect 0 "a man page" '^\.TH TRF 1' "$trf" help --man
cp out trf.1
for two in "(default.*(default: from" "Without it: .*(default"; do
    check "no option has two defaults: $two" sh -c "! grep '$two' trf.1"
done
# Names of other programs: every name of the table, with every command of its row. getopt_long takes the beginning of
# an option's name itself.
commands_of() { case $1 in TRAIN) echo train ;; TRANSLATE) echo translate ;; GENERATE) echo generate ;;
    SCORE) echo score ;; CLASSIFY) echo classify ;; TAG) echo tag ;; EMBED) echo embed ;;
    INSPECT) echo inspect ;; ATTENTION) echo attention ;; REPORT) echo report ;; RERANK) echo rerank ;;
    EXPORT) echo export ;; TOKENIZE) echo tokenize ;; DETOKENIZE) echo detokenize ;; QUANTIZE) echo quantize ;;
    PREPARE) echo prepare ;; SHOWS) echo translate classify tag rerank embed ;;
    RUNS) echo translate score generate classify tag embed ;; esac; }
awk '/^    \{[A-Z]/ { row = "" } { row = row $0 } /\},$/ && row ~ /^    \{[A-Z]/ { print row; row = "" }' \
    "$source/tools/trf/base/foreign.c" | sed 's/" *"//g' >rows
names=0 wrong=
while IFS='"' read -r bits theirs _ ours _; do
    for bit in $(echo "$bits" | tr -c 'A-Z' ' '); do
        for command in $(commands_of "$bit"); do
            "$trf" $command --help all >help.all
            for option in $(echo "$ours" | grep -o -e '--[a-z0-9-]*'); do
                grep -q -e "^  $option\( \|$\|\[\)" help.all || wrong="$wrong $command:$option"
            done
            for name in $theirs; do
                names=$((names + 1))
                dashes=--
                [ ${#name} -gt 1 ] || dashes=-
                "$trf" $command "$dashes$name" 3 2>err </dev/null
                case $ours in --*) says="trf calls it $ours" ;; *) says=$ours ;; esac
                grep -q -F "unknown option '$dashes$name': $says" err || wrong="$wrong $command:$dashes$name"
            done
        done
    done
done <rows
check "$names names of other programs have their options: wrong are ($wrong)" [ $names -gt 200 -a -z "$wrong" ]
for typed in "generate -outfile x" "translate -output x" "translate -hf" "train -tsv x" "translate -beam 4"; do
    name=${typed#* }
    expect 2 "a whole name behind one dash: $typed" "unknown option '${name%% *}'" "$trf" $typed
done
expect 2 "-o with a sign behind it" "write -o FILE" "$trf" translate -o=x
check "and no such file is written" sh -c '! ls -d utfile =x utput 2>/dev/null'
expect 2 "an option of another command" "unknown option '--beam'; trf translate has --beam" "$trf" generate --beam 3
expect 2 "what another command calls so" "unknown option '--lenpen'; trf translate calls it --alpha" "$trf" generate \
    --lenpen 1
expect 2 "an old name is no beginning of a longer one" "unknown option '--batch': trf calls it --batch-sentences" \
    "$trf" generate --batch 8
expect 2 "a number of models to keep" "--keep takes a pattern" "$trf" train --tsv train.tsv --model kept --keep 5
expect 2 "an underscore is a dash" "unknown option '--batch_tokens': trf calls it --batch-tokens" \
    "$trf" train --batch_tokens 3
expect 0 "the short help" "^All [0-9]* options: trf train --help all" "$trf" train --help
check "the short help has about twenty options" eval '[ "$(grep -c "^  --" out)" -le 22 ]'
expect 1 "a folder where a model file is needed" "trf import '$source/tests/golden/import/bart' --output FILE" \
    "$trf" translate --model "$source/tests/golden/import/bart" train.digits
for command in "export FOLDER --output out.folder" "quantize FOLDER --weights int8 --output small" "inspect FOLDER" \
    "quantize FOLDER --weights int8 --packed --output small" "average FOLDER FOLDER --output mean" \
    "prepare FOLDER --output tokens train.digits" "classify FOLDER train.digits" "embed FOLDER train.digits"; do
    folder=$source/tests/golden/import/bart
    for given in "$folder" "$folder/model.safetensors"; do
        case $command in "inspect "*) [ "$given" = "$folder" ] || continue ;; esac
        expect 1 "the same for trf $command: ${given##*/}" "trf import '$folder' --output FILE" \
            "$trf" $(echo "$command" | sed "s|FOLDER|$given|g")
    done
done
expect 1 "a folder without a model is told as one" "'alone' is a folder, where a model file is needed$" "$trf" \
    translate alone train.digits
expect 1 "a folder to start from" "trf import '$source/tests/golden/import/bart' --output FILE" "$trf" train \
    --init-from "$source/tests/golden/import/bart" --tsv train.tsv --model m --updates 1
expect 1 "the safetensors of another program" "trf import '$source/tests/golden/import/bart' --output FILE" "$trf" \
    translate --model "$source/tests/golden/import/bart/model.safetensors" train.digits

missing=
commands=$("$trf" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
check "the man page has commands: $commands" test "$(echo "$commands" | wc -l)" -ge 10
for command in $commands; do
    for option in $("$trf" $command --help all | sed -n 's/^  --\([a-z0-9-]*\).*/\1/p'); do
        grep -q "^.fB.-.-$(echo "$option" | sed 's/-/.-/g').fR" trf.1 \
            || missing="$missing $command:$option"
    done
done
check "the man page has every option ($missing)" test -z "$missing"
check "the man page has as many options as the help" test "$(grep -c '^.fB.-.-' trf.1)" -eq \
    "$(for command in $commands; do
    "$trf" $command --help all | grep '^  --'; done | wc -l)"
if command -v man >/dev/null && man --version 2>/dev/null | grep -q 'man-db\|^man 2'; then
    man -l --warnings -E UTF-8 trf.1 2>roff >/dev/null
    check "the man page is shown without a warning" test ! -s roff
fi
if command -v mandoc >/dev/null; then check "mandoc finds no error in the man page" mandoc -T lint -W error trf.1; fi
"$trf" completion bash >complete.bash
"$trf" completion zsh >_trf
if command -v bash >/dev/null; then
    check "bash reads its script" bash -n complete.bash
    cat >completing.bash <<'EOF'
. ./complete.bash
t() { COMP_WORDS=(trf "$@"); COMP_CWORD=$#; _trf; (IFS=,; echo "${COMPREPLY[*]}"); }
t tr; t train --obj; t train --objective c; t translate --allow-unk ''; t train --d-model 1
t eval --wor; t completion z; t translate --model 'a b'; t plot --on
EOF
    : >'a bell'
    bash completing.bash >got
    printf \
        'train,translate\n--objective\ncausal,classify\nyes,no\n\n--worst\nzsh\na bell\n--only\n' \
        >wanted
    check "bash completes as expected" same got wanted
fi
if command -v zsh >/dev/null; then check "zsh reads its own" zsh -n _trf; fi

finish

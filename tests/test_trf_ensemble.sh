#!/bin/sh
# Several models that answer as one: sh tests/test_trf_ensemble.sh build/trf
#
# --with in translate, score, generate, classify and tag: models of other sizes and other source tokens, weights, both
# rules; what does not fit is refused, with the name of the file. And train --teacher: models that teach one another.

. "$(dirname "$0")/trf.sh"

trf=$anew
pairs 300 1 >all.tsv
tail -n 40 all.tsv >few.tsv
cut -f 1 few.tsv >digits
small="--tsv all.tsv --valid-size 0 --n-heads 2 --d-ff 48 --encoder-layers 1 --decoder-layers 1 --schedule inverse-sqrt
    --learning-rate 0.003 --warmup 50 --dropout 0 --threads 1 --quiet"

# --- translating ----------------------------------------------------------------------------------
"$trf" train $small --updates 150 --d-model 32 --seed 1 --max-length 16 --model one
"$trf" train $small --updates 120 --d-model 48 --seed 2 --max-length 12 --norm-place post-norm --model two
"$trf" train $small --updates 100 --d-model 16 --seed 3 --max-length 24 --source-tokens characters \
    --target-tokens words --model letters
"$trf" translate one digits >alone
expect 0 "translate --with: the model itself" "" "$trf" translate one --with one digits --output twice
check "translate --with: a model and itself give its answers" same alone twice
expect 0 "translate --with: geometric, with weights that sum to 1" "" "$trf" translate one --with one digits \
    --ensemble-rule geometric --ensemble-weights 0.25,0.75 --output twice
check "translate --with: a model and itself give its answers by the other rule too" same alone twice
expect 0 "translate --ensemble-weights: one model weighs nearly all" "" "$trf" translate one --with two digits \
    --ensemble-weights 1000000,0.000001 --output nearly
check "translate --ensemble-weights: then its answers count" same alone nearly
for rule in arithmetic geometric; do
    "$trf" translate one --with two --with letters digits --json --ensemble-rule $rule --ensemble-weights 2,1,0.5 >json
    check "translate --with: three models, one with characters, answer each line ($rule)" lines_are 40 json
    sed 's/.*"text":"\([^"]*\)".*/\1/' json >texts
    sed 's/.*"log_probability":\([^,]*\),.*/\1/' json >wanted
    paste digits texts >scored.tsv
    "$trf" score one --with two --with letters scored.tsv --ensemble-rule $rule --ensemble-weights 2,1,0.5 \
        --quiet >scores
    check "score --with: the log-probabilities of their answers ($rule)" eval "cut -f 1 scores | paste - wanted |
        awk '{ d = \$1 - \$2; if (!(d * d < 1e-6)) bad = 1 } END { exit bad || NR != 40 }'"
    "$trf" translate one --with two --with letters digits --json --ensemble-rule $rule --ensemble-weights 2,1,0.5 \
        --batch-sentences 3 --buffer 7 --threads 2 >other
    check "translate --with: batches and threads change nothing ($rule)" same json other
done
"$trf" translate one --with two digits --search-rule marian --scores >marian
"$trf" translate one --with two digits --search-rule marian --ensemble-rule geometric --ensemble-weights 1,1 \
    --scores >equal
check "translate --search-rule marian: the sum of the logarithms" same marian equal
"$trf" translate one --with two digits --search-rule marian --ensemble-rule arithmetic --scores >mean
check "translate --search-rule marian: another rule gives other scores" sh -c '! cmp -s marian mean'
cut -f 2 few.tsv | cut -d ' ' -f 1 >starts
expect 0 "translate --with --prefixes" "" "$trf" translate one --with letters digits --prefixes starts --output begun
check "translate --with --prefixes: each answer begins so" eval "paste starts begun |
    awk -F '\t' 'index(\$2, \$1) != 1 { bad = 1 } END { exit bad || NR != 40 }'"
printf '1 2\n\n1 2 3 4 5 6 7 8 9 1 2 3 4 5\n3\n' >long
printf '1 2\n3\n' | "$trf" translate one --with two >wanted
expect 1 "translate --with: a line too long for one of the models" "1 of 4 lines could not be translated" "$trf" \
    translate one --with two long
check "translate --with: the lines around it have their answers" eval "sed -n '1p;4p' out | same wanted -"
head -n 20 digits >half
"$trf" translate one --with letters half --output resumed --buffer 5
mv resumed resumed.part
expect 0 "translate --with --resume: goes on behind whole batches" "" "$trf" translate one --with letters digits \
    --output resumed --buffer 5 --resume
"$trf" translate one --with letters digits --buffer 5 >wanted
check "translate --with --resume: the answers of one run" same resumed wanted

# --- language models, labels ----------------------------------------------------------------------
cut -f 2 all.tsv >names
awk -F '\t' '{ print $1 "\t" (split($1, w, " ") > 2 ? "long" : "short") }' all.tsv >labels.tsv
awk -F '\t' '{ t = $1; gsub(/[0-4]/, "low", t); gsub(/[5-9]/, "high", t); print $1 "\t" t }' all.tsv >tags.tsv
for k in 1 2; do
    "$trf" train --objective causal --text names --tokens words --valid-size 0 --updates 60 --d-model $((16 * k)) \
        --n-heads 2 --d-ff 32 --decoder-layers 1 --threads 1 --quiet --seed $k --model lm$k
    "$trf" train --objective classify --tsv labels.tsv --tokens words --valid-size 0 --updates 30 --n-heads 2 \
        --d-model $((16 * k)) --d-ff 32 --encoder-layers 1 --threads 1 --quiet --seed $k --model sorts$k
    "$trf" train --objective tag --tsv tags.tsv --tokens words --valid-size 0 --updates 30 --d-model $((16 * k)) \
        --n-heads 2 --d-ff 32 --encoder-layers 1 --threads 1 --quiet --seed $k --model tags$k
done
"$trf" generate lm1 one --temperature 0 --max-tokens 6 >alone
"$trf" generate lm1 one --with lm1 --temperature 0 --max-tokens 6 >twice
check "generate --with: a model and itself" same alone twice
"$trf" generate lm1 one --with lm2 --seed 3 --count 4 --max-tokens 6 --json >drawn
check "generate --with: four texts of two models" lines_are 4 drawn
head -n 30 names >some
"$trf" score lm1 --with lm2 some --quiet >scores
"$trf" score lm1 some --quiet >first
"$trf" score lm2 some --quiet >second
check "score --with: language models; a mean of two is at least half of the better one" eval \
    "paste scores first second | awk '{ better = \$3 > \$5 ? \$3 : \$5;
    if (\$1 < better - \$2 * 0.69315 || \$1 == \$3 || \$2 != \$4) bad = 1 } END { exit bad || NR != 30 }'"
for of in classify:sorts tag:tags; do
    for k in 1 2; do "$trf" "${of%:*}" "${of#*:}$k" digits --json >json$k; done
    "$trf" "${of%:*}" "${of#*:}1" --with "${of#*:}2" digits --json >both
    "$trf" "${of%:*}" "${of#*:}1" --with "${of#*:}1" digits --json >twice
    check "${of%:*} --with: a model and itself" eval "sed 's/[0-9]\.[0-9]*e*-*[0-9]*//g' twice >a;
        sed 's/[0-9]\.[0-9]*e*-*[0-9]*//g' json1 >b; same a b"
    check "${of%:*} --with: each line has an answer" lines_are 40 both
done

# --- what does not fit ----------------------------------------------------------------------------
expect 1 "translate --with: another kind of model, by its name" "lm1 does not go with one: .*has kind" "$trf" \
    translate one --with lm1 digits
awk '{ print $0 " more" }' all.tsv >more_words.tsv
"$trf" train --tsv more_words.tsv --valid-size 0 --tokens words --updates 1 --d-model 16 --n-heads 2 --d-ff 16 \
    --encoder-layers 1 --decoder-layers 1 --threads 1 --quiet --model wordy
expect 1 "translate --with: another target vocabulary" "wordy does not go with one: .*target_vocab" "$trf" translate \
    one --with wordy digits
sed 's/one/eins/' all.tsv >german.tsv
"$trf" train --tsv german.tsv --valid-size 0 --tokens words --updates 1 --d-model 16 --n-heads 2 --d-ff 16 \
    --encoder-layers 1 --decoder-layers 1 --threads 1 --quiet --vocab-size 14 --model german
expect 1 "translate --with: other tokens" "german does not go with one: " "$trf" translate one --with german digits
expect 1 "translate --with: a file that is not there" "nowhere" "$trf" translate one --with nowhere digits
expect 2 "translate: --model twice" "is given twice: --with names one more model" "$trf" translate --model one \
    --model two digits
expect 2 "translate: --ensemble-rule alone" "ensemble-rule needs several models" "$trf" translate one digits \
    --ensemble-rule geometric
expect 2 "translate: --ensemble-weights alone" "ensemble-weights needs several models" "$trf" translate one digits \
    --ensemble-weights 1
for weights in 1 1,2,3 1, ,1 0,1 -1,1 nan,1 1,x 1,2x 1e9,1 ''; do
    expect 2 "translate: --ensemble-weights '$weights'" "weight" "$trf" translate one --with two digits \
        --ensemble-weights "$weights"
done
for option in --alignments '--unknown copy' '--json --attention'; do
    expect 2 "translate --with $option" "cannot be combined with --with" "$trf" translate one --with two digits $option
done
set --
for k in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do set -- "$@" --with one; done
printf '1 2\n' >short
expect 0 "translate --with: sixteen models" "" "$trf" translate one "$@" short
expect 2 "translate --with: seventeen" "up to 15 models" "$trf" translate one "$@" --with one short
expect 1 "generate --with: sources in different tokens" "source vocabularies" "$trf" generate one --with letters \
    --prompt '1 2'

# --- a report of all ------------------------------------------------------------------------------
"$trf" train $small --updates 1 --d-model 16 --model any --log log.json
expect 0 "report --with: one page" "" "$trf" report log.json --model one --with two --with letters --data few.tsv \
    --output with.html
"$trf" translate one --with two --with letters digits >hypotheses
cut -f 2 few.tsv >references
figure=$("$trf" eval references hypotheses --metrics wer --json | sed 's/.*"score":\([0-9.]*\).*/\1/')
check "report --with: the figures are those of the answers of all" \
    grep -q "<td class=n>$(printf %.2f "$figure")" with.html
"$trf" report log.json --model one --data few.tsv --output alone.html
"$trf" report log.json --model one --with two --data few.tsv --ensemble-weights 1000000,0.000001 --output nearly.html
sed 's/alone.html//' alone.html >a.html
sed 's/nearly.html//' nearly.html >b.html
check "report --with: one model weighs nearly all" same a.html b.html
expect 1 "report --with: other tokens" "german does not go with one: " "$trf" report log.json --model one \
    --with german --data few.tsv --output m.html
expect 2 "report --with, but no --data" "--with is for --data" "$trf" report log.json --model one --with two \
    --output m.html

# --- teaching -------------------------------------------------------------------------------------
cut -f 1 all.tsv >sources
awk '{ print NR % 2 ? "odd" : "even" }' digits >sides
"$trf" translate one sources --with two | paste sources - >own.tsv
teach="--tsv all.tsv --valid-tsv own.tsv --n-heads 2 --d-model 32 --d-ff 48 --encoder-layers 1 --decoder-layers 1
    --schedule inverse-sqrt --learning-rate 0.003 --warmup 20 --dropout 0 --threads 1 --seed 9 --max-length 12"
expect 0 "train --teacher: two models teach a third one" "teachers: 2, with a share of 0.8 in the loss" "$trf" train \
    $teach --updates 60 --teacher one --teacher two --teacher-share 0.8 --model taught
expect 0 "train --teacher: the whole loss is theirs" "" "$trf" train $teach --updates 60 --teacher one \
    --teacher-share 1 \
    --model one.only --quiet
expect 0 "train --teacher: their vocabularies are taken" "" "$trf" train $teach --updates 60 --vocab-from one \
    --model alone
check "train --teacher: with a teacher the model is another one" sh -c '! cmp -s taught alone && ! cmp -s one.only \
    alone'
"$trf" train $teach --updates 30 --teacher one --teacher two --teacher-share 0.8 --model halves --quiet
expect 1 "train --resume: teachers are not forgotten in silence" "trained with 2 teachers: give --teacher again" \
    "$trf" train $teach --updates 60 --resume --model halves
expect 0 "train --resume --teacher: goes on" "" "$trf" train $teach --updates 60 --resume --teacher one --teacher two \
    --model halves --quiet
check "train --resume --teacher: the same bits" same taught halves
expect 0 "train --resume --teacher-share 0: goes on without" "" "$trf" train $teach --updates 61 --resume \
    --teacher-share 0 --model halves --quiet
"$trf" quantize one --weights int8 --output one.8 2>/dev/null
expect 0 "train --teacher: a teacher of 8 bits" "" "$trf" train $teach --updates 20 --teacher one.8 --model small \
    --quiet
expect 1 "train --teacher: other tokens" "--teacher letters: teacher 1 has another source" "$trf" train $teach \
    --updates 20 --teacher one --teacher letters --model m
"$trf" train --objective classify --source digits --target sides --updates 1 --threads 1 --quiet --model sorts
expect 1 "train --teacher: a classifier teaches no translator" "--teacher 'sorts': it has no target vocabulary" "$trf" \
    train $teach --updates 20 --teacher sorts --model m
expect 1 "train --teacher: no such file" "nowhere" "$trf" train $teach --updates 20 --teacher nowhere --model m
expect 2 "train --teacher-share without --teacher" "--teacher-share needs --teacher" "$trf" train $teach --updates 20 \
    --teacher-share 0.3 --model m
expect 2 "train --teacher-share 1.5" "--teacher-share takes a number from 0 to 1, got 1.5" "$trf" train $teach \
    --updates 20 --teacher one --teacher-share 1.5 --model m
expect 1 "train --teacher: its own file" "--model 'two' is the file that --teacher reads" "$trf" train $teach \
    --updates 20 --teacher one --teacher two --model two
expect 1 "translate --with: its own file" "--output 'two' is the file that --with reads" "$trf" translate one digits \
    --with two --output two

# --- effort ---------------------------------------------------------------------------------------
effort="--tsv all.tsv --valid-tsv own.tsv --n-heads 2 --d-model 32 --d-ff 48 --encoder-layers 1 --decoder-layers 1
    --threads 1 --seed 9"
expect 0 "train --effort best: three models, then one that learns from them" \
    "teachers: 3, with a share of 0.5 in the loss" "$trf" train $effort --updates 20 --effort best --model best
check "train --effort best: each has a file, of its own seed" test -e best.seed-10 -a -e best.seed-11 -a -e best.seed-12
check "train --effort best: it says how long the rest takes" grep -q "3 of 4 models took .*: about .* more" err
check "train --effort best: the rate falls to its known end" grep -q "schedule: cosine" err
expect 0 "train --effort best --seeds: fewer teachers" "teachers: 2," \
    "$trf" train $effort --updates 20 --effort best --seeds 2 \
    --model fewer
expect 0 "train --effort best --resume: what is done stays done" "" \
    "$trf" train $effort --updates 20 --effort best --resume \
    --model best --quiet
cp best before
expect 0 "train --effort best --resume: goes on with all" "" "$trf" train $effort --updates 30 --effort best --resume \
    --model best --quiet
check "train --effort best --resume: the model has learnt more" sh -c '! cmp -s best before'
expect 0 "train --effort best --minutes: for all together" "resumed\|cosine\|to 0 at the end" \
    "$trf" train --tsv all.tsv \
    --d-model 32 --n-heads 2 --threads 1 --effort best --minutes 0.1 --model timed
expect 0 "train --effort quick" "falls until update" "$trf" train --tsv all.tsv --d-model 32 --n-heads 2 --d-ff 48 \
    --threads 1 --valid-every 10 --warmup 10 --effort quick --model quick

finish

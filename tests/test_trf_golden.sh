#!/bin/sh
# Files of an older trf: sh tests/test_trf_golden.sh PATH_OF_TRF
#
# tests/golden/old holds models of every kind, an unfinished training and the answers that trf 0.2.0 (8eaab97) gave
# (make.sh there). Today's trf loads them, gives the same answers, and goes on with the training.

. "$(dirname "$0")/trf.sh"
old=$source/tests/golden/old

# near TOLERANCE ANSWERS EXPECTED: the same fields, line by line; numbers with a point may differ by the tolerance
near()
{
    awk -F '\t' -v tolerance="$1" -v expected="$3" '
        function differs(a, b)
        {
            if (b !~ /^-?[0-9]+\.[0-9]+$/) return a != b
            return a !~ /^-?[0-9]+\.[0-9]+$/ || !(a - b <= tolerance && b - a <= tolerance)
        }
        {
            if ((getline line <expected) <= 0) { print "a line too many: " $0; bad = 1; exit }
            n = split(line, want, "\t")
            wrong = n != NF
            for (i = 1; i <= n; i++) if (differs($i, want[i])) wrong = 1
            if (wrong) { print "line " NR ": " $0 "\n    expected: " line; bad = 1 }
        }
        END {
            if (!bad && (getline line <expected) > 0) { print "a line is missing: " line; bad = 1 }
            exit bad || !NR
        }' "$2"
}

# asked NAME TOLERANCE EXPECTED COMMAND...: exit status 0, and near to what is expected
asked()
{
    asked_name=$1 tolerance=$2 wanted=$3
    shift 3
    "$@" >answers 2>err || { failed=$((failed + 1)); echo "FAILED: $asked_name: exit status $?"; sed 's/^/    /' err; \
        return; }
    check "$asked_name" near "$tolerance" answers "$old/$wanted"
}

for name in words characters subwords; do
    input=words.in
    [ $name != characters ] || input=characters.in
    asked "translate gives the old answers with an old model of $name" 1e-4 $name.out \
        "$trf" translate --model "$old/$name" --n-best 2 --beam 4 --scores --input "$old/$input"
done
asked "classify gives the old answers with an old classifier" 1e-5 classify.out \
    "$trf" classify --model "$old/classify" --scores --input "$old/words.in"
asked "tag gives the old tags with an old tagger" 0 tag.out "$trf" tag --model "$old/tag" --input "$old/words.in"
asked "generate gives the old texts with an old language model" 0 causal.out \
    "$trf" generate --model "$old/causal" --input "$old/causal.in" --temperature 0 --max-tokens 12
asked "generate draws the old texts with an old language model" 0 causal.drawn \
    "$trf" generate --model "$old/causal" --input "$old/causal.in" --seed 11 --top-k 5 --count 2 --max-tokens 12
for name in words characters subwords causal classify tag mask resume/m resume/m.checkpoint; do
    expect 0 "inspect reads an old $name" "max-length *32" "$trf" inspect "$old/$name"
done
expect 0 "average takes old models" "" "$trf" average "$old/resume/m" "$old/resume/m.update-40" --output mean
expect 0 "train begins with an old model of masked words" "done: 3 updates" "$trf" train --objective tag \
    --tsv "$old/tags.tsv" \
    --tokens words --init-from "$old/mask" --extend-vocabulary --updates 3 --valid-size 0 --threads 1 --model tagger

# It goes on where the old trf went on: the same pairs held out, the same batches, masks of dropout, average and best
# model.
mkdir after
cp "$old"/resume/m* after
cp "$old/pairs.tsv" .
expect 0 "train --resume takes an old checkpoint" "resumed from update 61" \
    "$trf" train $(cat "$old/resume/options") --updates 120 --model after/m --resume --log after/log
seen()
{
    sed -n 's/.*"event":"validation","update":\([0-9]*\),"loss":\([0-9.]*\),.*"best":\([a-z]*\).*/\1\t\2\t\3/p' "$1"
}
seen after/log >validations
seen "$old/resume/validations" >wanted
check "an old checkpoint goes on with the validations of the old training" near 1e-3 validations "$PWD/wanted"
"$trf" translate --model after/m --beam 1 --scores --input "$old/words.in" --output answers --overwrite
check "an old checkpoint ends with the answers of the old training" near 1e-2 answers "$old/resume/m.out"

finish

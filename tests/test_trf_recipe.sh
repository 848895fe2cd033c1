#!/bin/sh
# What trf train tells of the recipe: the library's reasons, once, but for settings that the command line gives.
#   sh tests/test_trf_recipe.sh TRF
. "$(dirname "$0")/trf.sh"

awk 'BEGIN {
    for (i = 0; i < 120; i++) print i % 10, int(i / 10) % 10, i * 7 % 10 "\t" i * 7 % 10, int(i / 10) % 10, i % 10
}' >turns.tsv
small='--encoder-layers 1 --decoder-layers 1 --threads 1'

expect 0 "what the data decide" \
    "^model: 2 encoder and 2 decoder layers, d_model 128, d_ff 256 ([0-9]* tokens of few symbols)$" \
    "$trf" train --tsv turns.tsv --threads 1 --updates 1 --model all
for line in "batches: at most 512 tokens a side in an update" \
    "rate: rises to 0.00221 in 1 update, then falls as 1 / sqrt(number of updates)" \
    "dropout: 0.1 on embeddings and sublayers" \
    "label smoothing: 0.1, because the best answer counts" \
    "updates: about [0-9]* per pass over the data, 1 in all; validated every 50 by [a-z]*"; do
    check "once: $line" [ "$(grep -c "^$line$" err)" = 1 ]
done
check "the recipe tells nothing in other words too" eval '! grep -q "^schedule:\|d_ff [0-9]*, [0-9]* head" err'
expect 0 "what the command line decides" "^schedule: constant, peak 0.001 after" "$trf" train --tsv turns.tsv $small \
    --updates 1 --model own \
    --d-model 32 --n-heads 2 --schedule constant --learning-rate 0.001 --warmup 1 --dropout 0 --label-smoothing 0 \
    --batch-tokens 200 --valid-every 1
check "what is given has no reason of the recipe" \
    eval '! grep -q "^rate:\|on embeddings and sublayers\|^label smoothing:\|d_ff [0-9]* (" err'
expect 0 "a quiet training with the recipe" "" "$trf" train --quiet --tsv turns.tsv $small --updates 1 --model silent
check "a quiet training says nothing" [ ! -s err ]
expect 0 "a training with the recipe goes on" "^schedule: inverse-sqrt" "$trf" train --tsv turns.tsv --threads 1 \
    --updates 2 --model all --resume
check "decides nothing again" eval '! grep -q "^rate:" err'

# The answers that are shown are those of the validation: the model's own.
expect 0 "a training that shows answers" "^done: 40 updates" "$trf" train --tsv turns.tsv $small --updates 40 \
    --model shown
sed -n 's/^    \([0-9 ]*\) -> .*/\1/p' err >asked
sed -n 's/^    [0-9 ]* -> \(.*\)  (.*/\1/p' err | sed 's/^(nothing)$//' >shown.answers
expect 0 "the model answers what the training has shown" "" "$trf" translate --model shown --beam 1 asked
check "three answers are shown" [ "$(wc -l <asked)" -eq 3 ]
check "the answers that are shown are the model's" cmp shown.answers out

finish

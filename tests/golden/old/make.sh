#!/bin/sh
# Makes what this folder holds: sh make.sh TRF HEADER_FOLDER, with the trf and the transformer.h of 0.2.0 (8eaab97).
#
# Small models of every kind, their inputs and the answers of that trf, an unfinished training and what became of it,
# and, made by session.c: a checkpoint of the C API and a generator in the middle of its sequences. A later version has
# to load all of them and give the same answers (tests/test_trf_golden.sh, tests/test_old_files.c). They stand for the
# files that users have, so they are not made again by a later version: it gets a folder of its own.
set -eu
trf=${1:?usage: make.sh TRF HEADER_FOLDER} header=${2:?usage: make.sh TRF HEADER_FOLDER}
cd "$(dirname "$0")"
common="--d-model 16 --n-heads 2 --d-ff 24 --max-length 32 --threads 1 --seed 3 --dropout 0 --attention-dropout 0
  --activation-dropout 0 --norm-place pre-norm --optimizer adam --schedule inverse-sqrt
  --initial-rate 0 --clip-norm 1 --label-smoothing 0 --batch-tokens 256 --accumulate 1"
one="--encoder-layers 1 --decoder-layers 1 --tying untied --generator-bias yes"
# train NAME OPTIONS: what it says is looked at when it fails
train()
{
    name=$1
    shift
    "$trf" train $common "$@" --model "$name" --checkpoint '' >make.log 2>&1 || { cat make.log; exit 1; }
    tail -n 2 make.log
}

# digits in, their names in reverse order out
awk -v n=160 -v x=5 'BEGIN {
    split("one two three four five six seven eight nine", name, " "); name[0] = "zero"
    for (i = 0; i < n; i++) {
        x = (x * 1103515245 + 12345) % 2147483648; k = 1 + int(x / 65536) % 4
        s = t = ""
        for (j = 0; j < k; j++) {
            x = (x * 1103515245 + 12345) % 2147483648; d = int(x / 65536) % 10
            s = s (j ? " " : "") d; t = name[d] (j ? " " : "") t
        }
        print s "\t" t
    }
}' >pairs.tsv
tr -d ' ' <pairs.tsv >letters.tsv                       # "314", "fouronethree"
awk -F '\t' '{ print $1 "\t" (NF ? split($1, d, " ") : 0) }' pairs.tsv >counts.tsv
awk -F '\t' '{ n = split($1, d, " "); t = ""
               for (i = 1; i <= n; i++) t = t (i > 1 ? " " : "") (d[i] % 2 ? "odd" : "even")
               print $1 "\t" t }' pairs.tsv >tags.tsv
awk 'BEGIN {                                            # counting on from any digit, "eight nine zero"
    split("one two three four five six seven eight nine", name, " "); name[0] = "zero"
    for (i = 0; i < 10; i++) for (n = 2; n <= 6; n++) for (k = 0; k < n; k++)
        printf "%s%s", name[(i + k) % 10], k < n - 1 ? " " : "\n"
}' >counting.txt

steep="--warmup 60 --learning-rate 0.01 --ema 0 --metric loss --valid-size 0 --updates"
train words --tsv pairs.tsv --tokens words $one $steep 1000
train characters --tsv letters.tsv --tokens characters $one $steep 1500
train subwords --tsv pairs.tsv --source-sentencepiece digits.model --target-sentencepiece names.model $one $steep 1000
train causal --objective causal --text counting.txt --tokens words --decoder-layers 1 --tying decoder $steep 400
train classify --objective classify --tsv counts.tsv --tokens words --encoder-layers 1 --pooling mean $steep 400
train tag --objective tag --tsv tags.tsv --tokens words --encoder-layers 1 $steep 400
train mask --objective mask --text counting.txt --tokens words --encoder-layers 1 $steep 400

# Of sources that training has not seen most are right too; ties between answers there would be chance.
cut -f 1 pairs.tsv | awk 'NR % 8 == 0' >words.in
tr -d ' ' <words.in >characters.in
for name in words subwords; do
    "$trf" translate --model $name --n-best 2 --beam 4 --scores --input words.in --output $name.out
done
"$trf" translate --model characters --n-best 2 --beam 4 --scores --input characters.in --output characters.out
"$trf" classify --model classify --scores --input words.in --output classify.out
"$trf" tag --model tag --input words.in --output tag.out
printf '%s\n' 'seven' 'two three' 'nine' '' 'nine zero one two' >causal.in
"$trf" generate --model causal --input causal.in --temperature 0 --max-tokens 12 --output causal.out
"$trf" generate --model causal --input causal.in --seed 11 --top-k 5 --count 2 --max-tokens 12 --output causal.drawn

# A training run that ended after 60 updates; and, from the same checkpoint, what it was after 120.
rm -rf resume
mkdir resume
training="$common $one --tsv pairs.tsv --tokens words --d-model 8 --d-ff 16 --warmup 20 --learning-rate 0.02
  --metric loss
  --ema 0.01 --average 2 --average-of best --valid-every 20 --log-every 20"
training=$(echo $training |
    sed 's/--d-model 16 //; s/--d-ff 24 //; s/--seed 3 /--seed 8 /
        s/--label-smoothing 0 /--label-smoothing 0.1 /; s/--dropout 0 --/--dropout 0.1 --/')
echo "$training" >resume/options
"$trf" train $training --updates 60 --model resume/m >make.log 2>&1 || { cat make.log; exit 1; }
mkdir after
cp resume/m* after
"$trf" train $training --updates 120 --model after/m --resume --log after/log >make.log 2>&1 ||
    { cat make.log; exit 1; }
grep '"event":"validation"' after/log >resume/validations || cat after/log
"$trf" translate --model after/m --beam 1 --scores --input words.in --output resume/m.out
rm -rf after make.log

cc -O2 -I"$header" -DTRF_NO_CBLAS session.c -o session.made -lm
./session.made
rm session.made
ls -l . resume

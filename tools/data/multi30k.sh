#!/bin/sh
# Multi30k, English and German, trained and measured: sh tools/data/multi30k.sh TRF DATA WORK WHAT...
#
# DATA is a folder with train, valid, test.2016, test.2017 and test.coco, each as .en and .de: lower-cased, tokenised,
# cut into joint subwords ("@@ " joins them). WORK keeps models and answers; what is there is not made again, and a run
# that was stopped goes on. WHAT, each about two hours on one thread of an AMD EPYC (Zen 4) beside another one:
#
#   1, 2, 3   English to German, the published recipe of Transformer-Tiny (Wu et al. 2021) with this seed, 4,600
#             updates, the mean of the ten models from update 2,800 on
#   back      German to English, the same, seed 1
#   own       English to German, from the mean of seed 1, on more of the same: the training pairs, what seeds 1 and 2
#             make of their sources, and what `back` makes of their targets (data diversification, Nguyen et al. 2020);
#             2,000 updates
#   raw       English to German from raw text: DATA joined and detokenised, 8,000 subwords of SentencePiece in the model
#             file, 2,600 updates; needs Python with sacremoses (PYTHON=python3)
#
# Figures: BLEU of tokenised text, beam 5, by the search of trf and by that of fairseq; of `raw` that of detokenised
# text, as sacreBLEU has it (13a).

trf=${1:?usage: multi30k.sh TRF DATA WORK WHAT...} data=${2:?DATA} work=${3:?WORK}
shift 3
recipe="--ema 0 --embedding-dropout 0.3 --residual-dropout 0.3 --smoothing-rule others --schedule inverse-sqrt
        --epsilon 1e-8 --clip-norm 25 --initial-rate 1e-7 --batch-tokens 4096 --accumulate 2
        --keep-models 10 --threads 1"
model="--size tiny --norm-place post-norm --tying all --final-norm no --decoder-start eos"

# learn NAME FROM TO OPTIONS: pairs of NAME.FROM and NAME.TO if they are there, else those of DATA
learn()
{
    name=$1 from=$2 to=$3 pairs=$data/train valid=$data/valid
    shift 3
    [ ! -e "$work/$name" ] || return 0
    [ ! -e "$work/$name.$from" ] || pairs=$work/$name
    [ ! -e "$work/$name.valid.$from" ] || valid=$work/$name.valid
    resume=
    [ ! -e "$work/$name.part.checkpoint" ] || resume=--resume
    "$trf" train --source "$pairs.$from" --target "$pairs.$to" --valid-source "$valid.$from" \
        --valid-target "$valid.$to" \
        $recipe "$@" --model "$work/$name.part" $resume || exit 1
    "$trf" average "$work/$name.part".update-* --output "$work/$name" || exit 1
}

published()
{
    learn "$1" "$2" "$3" $model --tokens words --learning-rate 5e-3 --warmup 2000 --updates 4600 --valid-every 200 \
        --seed "$4"
}

# plain SET LANGUAGE: the lines of DATA as they are read
plain()
{
    sed 's/@@ //g' "$data/$1.$2" | "${PYTHON:-python3}" -c "import sys; from sacremoses import MosesDetokenizer
join = MosesDetokenizer(lang='$2').detokenize
for line in sys.stdin: print(join(line.split()))"
}

# bleu SET OPTIONS: of the answers beside the references
bleu()
{
    set=$1
    shift
    "$trf" eval "$work/references" "$work/answers" --metrics bleu "$@" | sed "s/[^=]* = \([0-9.]*\) .*/$set \1  /" |
        tr -d '\n'
}

score_raw()
{
    for rule in "" "--search-rule fairseq"; do
        printf 'raw %s: ' "$rule"
        for set in 2016 2017 coco; do
            plain "test.$set" en | "$trf" translate --model "$work/raw" --beam 5 $rule --output "$work/answers" \
                --overwrite || exit 1
            plain "test.$set" de >"$work/references"
            bleu "$set"
        done
        echo
    done
}

# score NAME FROM TO
score()
{
    for search in trf fairseq; do
        rule=
        [ $search = trf ] || rule="--search-rule fairseq"
        printf '%s, %s: ' "$1" "$search"
        for set in 2016 2017 coco; do
            "$trf" translate --model "$work/$1" --input "$data/test.$set.$2" --beam 5 $rule --output "$work/answers" \
                --overwrite || exit 1
            sed -i 's/@@ //g' "$work/answers"
            sed 's/@@ //g' "$data/test.$set.$3" >"$work/references"
            bleu "$set" --tokenize none
        done
        echo
    done
}

# made NAME FROM FILE: what a model makes of the training lines
made()
{
    [ -e "$3" ] && return
    "$trf" translate --model "$work/$1" --input "$data/train.$2" --beam 5 --output "$3.part" --overwrite &&
        mv "$3.part" "$3" || exit 1
}

mkdir -p "$work" || exit 1
for what in "$@"; do
    case $what in
    1 | 2 | 3) published "seed.$what" en de "$what" && score "seed.$what" en de ;;
    back)      published back de en 1 && score back de en ;;
    own)
        published seed.1 en de 1 && published seed.2 en de 2 && published back de en 1 || exit 1
        made seed.1 en "$work/made.1" && made seed.2 en "$work/made.2" && made back de "$work/made.back" || exit 1
        cat "$data/train.en" "$data/train.en" "$data/train.en" "$work/made.back" >"$work/own.en"
        cat "$data/train.de" "$work/made.1" "$work/made.2" "$data/train.de" >"$work/own.de"
        learn own en de --init-from "$work/seed.1" --learning-rate 3e-3 --warmup 400 --updates 2000 --valid-every 200 \
            --seed 4 &&
            score own en de ;;
    raw)
        for language in en de; do
            plain train $language >"$work/raw.$language" && plain valid $language >"$work/raw.valid.$language" || exit 1
        done
        learn raw en de $model --tokens sentencepiece:unigram --vocab-size 8000 --joint-vocabulary yes \
            --learning-rate 5e-3 \
            --warmup 1500 --updates 2600 --valid-every 100 --seed 1 && score_raw ;;
    *) echo "WHAT is 1, 2, 3, back, own or raw, not '$what'"; exit 2 ;;
    esac
done

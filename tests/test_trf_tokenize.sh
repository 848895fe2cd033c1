#!/bin/sh
# trf tokenize and trf detokenize: sh tests/test_trf_tokenize.sh TRF
. "$(dirname "$0")/trf.sh"

small='--encoder-layers 1 --decoder-layers 1 --d-model 16 --d-ff 16 --n-heads 1 --updates 1 --valid-size 0 --threads 1'
awk 'BEGIN { for (i = 0; i < 200; i++) print i % 7 " b" i % 5 "\t  x" i % 7 " \xc3\xa4" i % 3 }' >pairs.tsv
cut -f 2 pairs.tsv | head -n 20 >targets
expect 0 "a model of words and characters" "" "$trf" train --tsv pairs.tsv $small --source-tokens words \
    --target-tokens characters --model mixed
printf '3 b4\n\n3 zz 0\n' >lines
printf '3 b4\n\n3 <unk> 0\n' >wanted
expect 0 "words" "1 of 5 tokens of the input is unknown" "$trf" tokenize mixed lines
check "words are as they are, an unknown one is unk" cmp -s out wanted
expect 0 "text of words" "" "$trf" detokenize mixed wanted
check "a line of tokens is a line of text" [ "$(wc -l <out)" -eq 3 ]
expect 0 "ids" "" "$trf" tokenize mixed lines --ids
cp out ids
check "ids are numbers" eval '! grep -q "[^0-9 ]" ids && [ "$(sed -n 1p ids | wc -w)" -eq 2 ]'
expect 0 "ids and tokens are the same text" "" "$trf" detokenize mixed ids --ids
check "which begins with the line" [ "$(head -n 1 out)" = "3 b4" ]
"$trf" tokenize mixed targets --side target >characters
check "characters have blanks between them, and a blank is U+2581" [ "$(head -n 1 characters)" = \
    "$(printf '\342\226\201 \342\226\201 x 0 \342\226\201 \303\244 0')" ]
"$trf" detokenize mixed characters --side target >back
check "characters come back, blanks too" cmp -s back targets
expect 1 "a token that the vocabulary does not have" "standard input:1: .*the vocabulary has no token 'zz'" \
    sh -c "echo '3 zz' | '$trf' detokenize mixed"
check "gives an empty line" [ "$(wc -c <out)" -eq 1 ]
for id in -1 99999 3x 1.0; do
    expect 1 "the id $id is refused" "no token with the id '$id'" sh -c "echo '4 $id' | '$trf' detokenize mixed --ids"
done
expect 1 "a line that is not UTF-8" "standard input:2: .*expected UTF-8" sh -c \
    "printf '3\n\377\nb4\n' | '$trf' tokenize mixed"
check "keeps its line" [ "$(tr '\n' , <out)" = "3,,b4," ]
expect 2 "no model" "give --model FILE" "$trf" tokenize
expect 1 "an output is not replaced" "overwrite" "$trf" tokenize mixed lines --output ids
expect 0 "unless it may be" "" "$trf" tokenize --model mixed --input lines --output ids --overwrite
check "--output has what standard output has" cmp -s ids wanted

# What the text form says of blanks and control characters occurs in texts too.
awk 'BEGIN { for (i = 0; i < 200; i++)
    printf "a\001b <0x41> %d_\342\226\201\t\342\226\201 <0x0A> \001%d\n", i % 7, i % 5 }' >odd.tsv
expect 0 "a model of odd tokens" "" "$trf" train --tsv odd.tsv $small --source-tokens words --target-tokens characters \
    --model odd
cut -f 1 odd.tsv | head -n 20 >odd.source
cut -f 2 odd.tsv | head -n 20 >odd.target
for side in source target; do
    for ids in '' --ids; do
        "$trf" tokenize odd odd.$side --side $side $ids >tokens 2>err &&
            "$trf" detokenize odd tokens --side $side $ids >back 2>err
        check "odd tokens come back: $side $ids" cmp -s back odd.$side
    done
done

if "$trf" --version | grep -q 'with cJSON'; then
    printf 'the man walks\na green street\n' >lines
    for folder in bart gpt2 t5 llama marian xlm_roberta nllb m2m_100; do
        "$trf" import "$source/tests/golden/import/$folder" --output $folder 2>err || cat err
        for ids in '' --ids; do
            "$trf" tokenize $folder lines $ids >tokens 2>err && "$trf" detokenize $folder $ids <tokens >text 2>err
            check "$folder: lines come back from their tokens ($ids)" cmp -s text lines
        done
    done
else echo "left out: imported vocabularies: no cJSON"; fi

finish

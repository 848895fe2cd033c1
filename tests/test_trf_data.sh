# What trf makes of data as people have them: labels with blanks around them, words of invisible characters, files of
# another form, text that must be written as it was.
. "$(dirname "$0")/trf.sh"

tiny="--d-model 16 --n-heads 2 --d-ff 32 --threads 1 --warmup 20"
with_subwords=$("$trf" train --tsv train.tsv $model --tokens sentencepiece --vocab-size 60 --updates 1 --model m 2>&1 |
    grep -c 'subwords learned')
says() { grep -q -e "$1" err; }

# ---- labels ----

for i in $(seq 60); do printf 'good film\tpos\nbad film\tneg\ngood song\tpos \nbad song\tneg\r\r\n'; done >blank.tsv
expect 0 "blanks and CR around labels are no part of them" ", 2 labels" "$trf" train --objective classify --tsv blank.tsv \
    --model blank $tiny --encoder-layers 1 --updates 150 --valid-size 12
check "none is left out for them" sh -c '! grep -q "left out" err'
expect 0 "their texts" "" sh -c "printf 'good song\nbad film\n' | '$trf' classify --model blank"
printf 'pos\nneg\n' >want
check "the labels without them" same out want
cut -f1 blank.tsv >films
cut -f2 blank.tsv | sed 's/pos/\t pos\t/' >tabs
expect 0 "a tab before a label in a file of labels" ", 2 labels" "$trf" train --objective classify --source films --target tabs \
    --model m $tiny --encoder-layers 1 --updates 1
printf 'bad film\t \n' >>blank.tsv
expect 0 "a label of blanks alone is none" "blank.tsv:241: no label" "$trf" train --objective classify --tsv blank.tsv \
    --model m $tiny --encoder-layers 1 --updates 1 --valid-size 0

# ---- files of another form ----

for form in 'gzip:\037\213\010\000' 'zip:PK\003\004' 'xz:\3757zXZ\000' 'zstd:\050\265\057\375' 'bzip2:BZh91AY&SY' \
    'UTF-32:\377\376\000\000' 'UTF-32:\000\000\376\377' 'UTF-16:\377\376a\000' 'UTF-16:\376\377\000a' \
    'UTF-16 (iconv -f utf-16le:a\000b\000' 'UTF-16 (iconv -f utf-16be:\000a\000b'; do
    printf "${form#*:}\\n" >form
    expect 1 "a file of another form: $form" "form:1: .*got .*${form%%:*}" "$trf" train --tsv form --model m --updates 1
    expect 1 "a text to classify: $form" "form:1: .*got .*${form%%:*}" "$trf" classify --model blank --input form
    check "no answer to it" lines_are 0 out
done
printf 'good song\rbad film\rgood film\r' >mac
expect 1 "lines that end in CR alone" "got CR alone (tr '.r' '.n')" "$trf" classify --model blank --input mac
check "and no answer" lines_are 0 out
expect 1 "as references" "got CR alone" "$trf" eval mac mac
printf 'good song\r' >mac
expect 0 "one line, with a CR at its end" "pos" "$trf" classify --model blank --input mac
printf 'good song\r\r\nbad\rfilm\n' >mac
expect 0 "a CR within a line that ends in LF is a blank" "" "$trf" classify --model blank --input mac
check "two answers" same out want

finish

# What trf makes of data as people have them: labels with blanks around them, words of invisible characters, files of
# another form, text that must be written as it was.
. "$(dirname "$0")/trf.sh"

trf=$anew

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

# ---- subwords: what is written comes as it was, what is read is composed ----

if [ "$with_subwords" -eq 1 ]; then
once="$tiny --encoder-layers 1 --decoder-layers 1 --updates 1 --valid-size 0 --tokens sentencepiece"
apart="$once --joint-vocabulary no"
# Persian with a zero-width non-joiner, full-width marks, a no-break space, fractions, what nmt_nfkc takes apart
printf 'm\302\262 x 12 \302\275 \342\200\246\n\345\245\275\357\274\214\345\245\275\357\274\201\n' >odd
printf '\331\205\333\214\342\200\214\330\256\330\247\331\207\331\205\n10\302\240000 \342\202\254 \357\254\201n \342\204\242\n' >>odd
for i in 1 2 3 4 5 6 7 8; do awk '{ print "line " NR "\t" $0 }' odd; done >odd.tsv
cut -f1 odd.tsv | head -4 >odd.source
writes() { "$trf" translate --model "$1" --input odd.source --prefixes "$2" --max-length-a 0 --max-length-b 40 2>err |
    awk 'NR == FNR { want[NR] = $0; next } { n += index($0, want[FNR]) == 1 } END { exit n != 4 }' "$2" -; }
expect 0 "one vocabulary" "both sides: .* subwords learned (unigram, --normalise nfc)" "$trf" train --tsv odd.tsv $once --model joint
check "nothing of the target is rewritten" writes joint odd
expect 0 "one of each side" "source: .* (unigram, --normalise nfc)" "$trf" train --tsv odd.tsv $apart --model apart
check "the target as it is" says "target: .* (unigram, --normalise identity)"
check "nothing of it is rewritten" writes apart odd
expect 0 "BPE" "both sides: .* (BPE, --normalise nfc)" "$trf" train --tsv odd.tsv ${once%sentencepiece}sentencepiece:bpe --model bpe
check "nothing of it either" writes bpe odd
expect 0 "SentencePiece's own rule" "both sides: .* (unigram, --normalise nfkc)" "$trf" train --tsv odd.tsv $once --normalise nfkc \
    --model nfkc
"$trf" translate --model nfkc --input odd.source --prefixes odd --max-length-a 0 --max-length-b 40 >out 2>err
check "m with a small 2 becomes m2" grep -q '^m2 x 12 1.2 \.\.\.' out

# a decomposed source is what it is composed; a decomposed target stays as it is, and then so does all
for i in 1 2 3 4 5 6 7 8; do printf 'caf\303\251 \303\261\tun caf\303\251\n\341\273\207 \355\225\234\tdeux\n'; done >accents.tsv
printf 'cafe\314\201 n\314\203\tun caf\303\251\ne\314\202\314\243 \341\204\222\341\205\241\341\206\253\tdeux\n' >loose.tsv
head -2 accents.tsv >tight.tsv
alike() { "$trf" score --model "$1" --tsv tight.tsv >tight.scores 2>err && "$trf" score --model "$1" --tsv loose.tsv >loose.scores 2>err &&
    cmp -s tight.scores loose.scores; }
for sides in "" "--joint-vocabulary no" "--normalise nfc"; do
    expect 0 "accents ($sides)" "--normalise nfc)" "$trf" train --tsv accents.tsv $once $sides --model accents
    check "a letter and its mark are one character ($sides)" alike accents
done
expect 0 "accents as they are" "--normalise identity)" "$trf" train --tsv accents.tsv $once --normalise identity --model accents
if alike accents; then same=1; else same=0; fi
check "then they differ" [ $same -eq 0 ]
awk -F '\t' '{ print $2 "\t" $1 }' loose.tsv >turned.tsv
expect 0 "a decomposed target" "both sides: .* (unigram, --normalise identity)" sh -c "cat turned.tsv turned.tsv accents.tsv >both.tsv &&
    '$trf' train --tsv both.tsv $once --model m"
cut -f1 loose.tsv >loose.prefixes
printf 'x\nx\n' >x
check "is written as it was" sh -c '"$0" translate --model m --input x --prefixes loose.prefixes --max-length-a 0 --max-length-b 40 2>err |
    awk "NR == FNR { want[NR] = \$0; next } { n += index(\$0, want[FNR]) == 1 } END { exit n != 2 }" loose.prefixes -' "$trf"

# texts that read as SentencePiece's special pieces are texts
for i in 1 2 3 4 5 6 7 8; do printf 'a </s> b\tx <unk> y\nc <s> d\tz </s>\n'; done >special.tsv
printf 'a </s> b\nc <s> d\n' >special.source
printf 'x <unk> y\nz </s>\n' >special.prefixes
expect 0 "texts of special tokens" "subwords learned" "$trf" train --tsv special.tsv $once --model special
"$trf" translate --model special --input special.source --prefixes special.prefixes --max-length-a 0 --max-length-b 40 >out 2>err
check "are written" sh -c 'head -1 out | grep -q "^x <unk> y" && tail -1 out | grep -q "^z </s>"'
check "and known" sh -c '! grep -q unknown err'

# where subwords are not learned here
expect 2 "words are not normalised" "normalise is for subwords that are learned" "$trf" train --tsv odd.tsv ${once%sentencepiece}words \
    --normalise nfc --model m
expect 2 "nor is another model" "normalise is not for --init-from" "$trf" train --tsv odd.tsv --init-from joint --normalise nfc \
    --updates 1 --model m
expect 1 "nor a checkpoint" "made with --normalise auto, now it is nfkc" "$trf" train --tsv odd.tsv $once --normalise nfkc --model joint \
    --resume
expect 2 "a rule that is none" "normalise takes auto" "$trf" train --tsv odd.tsv $once --normalise nfd --model m

# ---- a word of invisible characters is one unknown token ----

for i in $(seq 100); do printf 'anna sees rome\tPER O LOC\nbert \342\200\213 likes oslo\tPER O O LOC\n'; done >tag.tsv
expect 0 "a word without a subword" "200 texts" "$trf" train --objective tag --tsv tag.tsv --tokens sentencepiece --normalise nfkc \
    --model tag $tiny --encoder-layers 1 --updates 150 --valid-size 0
check "is no fault of its line" sh -c '! grep -q "left out" err'
printf 'anna sees rome\nanna \342\200\213 sees rome\n' >invisible
expect 0 "nor where it is labelled" "" "$trf" tag --model tag --input invisible
printf 'PER O LOC\nPER O O LOC\n' >want
check "it has a label as all have" same out want
fi

finish

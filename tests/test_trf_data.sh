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
cp blank.tsv films.tsv
printf 'bad film\t \n' >>blank.tsv
expect 0 "a label of blanks alone is none" "blank.tsv:241: no label" "$trf" train --objective classify --tsv blank.tsv \
    --model m $tiny --encoder-layers 1 --updates 1 --valid-size 0

expect 0 "a model of short texts" "" "$trf" train --objective classify --tsv films.tsv --model short $tiny --encoder-layers 1 --updates 100 \
    --max-length 9 --source-eos yes --tokens words --valid-size 0

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

# ---- texts that are too long ----

awk 'BEGIN { for (i = 0; i < 40; i++) printf "good "; print "film"; print "bad film" }' >long
expect 1 "a text that is too long has no label" "answered with an empty line: 41 tokens, at most" "$trf" classify --model short \
    --input long
expect 0 "but by its beginning" "1 of 2 lines had more tokens than the model takes, 8: labelled by their beginnings" "$trf" classify \
    --model short --input long --truncate
printf 'pos\nneg\n' >want
check "the label of that" same out want
head -c 20 long >begins
"$trf" classify --model short --input long --truncate --scores >out 2>err
printf 'good good good good good good good good\nbad film\n' | "$trf" classify --model short --scores >want 2>err
check "as if the rest were not there" same out want
head -1 long >one.long
expect 0 "one of one" "1 of 1 line had" "$trf" classify --model short --input one.long --truncate

for i in $(seq 60); do printf 'a b c\tA B C\nc a\tC A\nb\tB\n'; done >letters.tag
expect 0 "letters" "180 texts" "$trf" train --objective tag --tsv letters.tag --tokens words --max-length 5 --source-eos yes --model tags \
    $tiny --encoder-layers 1 --updates 120 --valid-size 0
printf 'a b c a b c a b c\nc b\n' >long
expect 1 "a line that is too long has no labels" "answered with an empty line: 9 tokens, at most 4" "$trf" tag --model tags --input long
expect 0 "but in parts" "1 of 2 lines had more tokens than the model takes, 4: labelled in parts" "$trf" tag --model tags \
    --input long --split
printf 'A B C A B C A B C\nC B\n' >want
check "each of its words" same out want
expect 0 "parts in JSON" "" "$trf" tag --model tags --input long --split --json
printf 'a b c a\nb c a b\nc\nc b\n' | "$trf" tag --model tags --json >parts 2>err
sed 's/{"word"/\n&/g' out | grep '^{"word"' >rows_per_step
sed 's/{"word"/\n&/g' parts | grep '^{"word"' >alone
check "and each as in a line of its own" sh -c 'sed "s/[],}]*$//" together >a; sed "s/[],}]*$//" alone >b; cmp -s a b'

# ---- what is not data ----

awk 'BEGIN { for (i = 0; i < 1048577; i++) printf "a"; print "\tx" }' >giant
cat train.tsv giant >with.giant
small_run="$tiny --encoder-layers 1 --decoder-layers 1 --updates 1 --valid-size 0 --tokens words"
expect 0 "a word of more than 1 MiB" "left out: with.giant:601: a word of more than 1 MiB" "$trf" train --tsv with.giant $small_run --model m
check "is left out and counted" says "left out: 1 pair (1 too long)"
sed 's/\t/ /' giant | cat - train.names >giant.text
expect 0 "so is a line of a text alone" "left out: 1 line (1 too long)" "$trf" train --objective causal --text giant.text $tiny \
    --decoder-layers 1 --updates 1 --valid-size 0 --tokens words --model m
expect 0 "and of a text with a label" "left out: 1 line (1 too long)" sh -c "sed 's/x\$/pos/' giant | cat - films.tsv >giant.tsv
    '$trf' train --objective classify --tsv giant.tsv $tiny --encoder-layers 1 --updates 1 --valid-size 0 --tokens words --model m"
expect 2 "nothing is seen so often" "min-count 100000 leaves no token: none in train.tsv is seen so often" "$trf" train \
    --tsv train.tsv $small_run --min-count 100000 --model m
check "said before the schedule" sh -c '! grep -q schedule err'
printf '<unk>\t<pad>\n' >specials.tsv
expect 1 "special tokens alone" "there is no token to learn in specials.tsv" "$trf" train --tsv specials.tsv $small_run --model m
expect 2 "a vocabulary of none" "vocab-size must be 5 or more, four special tokens included, got 4" "$trf" train --tsv train.tsv \
    $small_run --vocab-size 4 --model m
expect 2 "or a side's" "target-vocab-size must be 5 or more" "$trf" train --tsv train.tsv $small_run --target-vocab-size 1 --model m
expect 0 "a side's that is enough" "" "$trf" train --tsv train.tsv $small_run --target-vocab-size 5 --model m

# ---- what the library refuses is told in options, before the data are read ----

for wrong in "mask --noise-density 2:--noise-density must be between 0 and 1, got 2" "mask --random-share -1:--random-share must be" \
    "mask --masked-share -1:--masked-share must be" "span --mean-span 0:--mean-span must be" "causal --beta1 2:--beta1 must be" \
    "causal --d-model 100 --n-heads 7:--n-heads must divide --d-model = 100, got 7"; do
    expect 2 "${wrong%%:*}" "train: ${wrong#*:}" "$trf" train --objective ${wrong%%:*} --text not-there --model m
done
expect 0 "a model" "" "$trf" train --tsv train.tsv $small_run --model digits
for wrong in "--alpha 20:--alpha must be between 0 and 10, got 20" "--max-length-a -1:--max-length-a must be"; do
    expect 2 "${wrong%%:*}" "translate: ${wrong#*:}" "$trf" translate --model digits --input train.digits ${wrong%%:*}
done

# ---- what training begins with is looked at before the data ----

printf 'not a model, whatever it is called\n' >junk
fresh="$tiny --updates 1 --model fresh"
expect 1 "subwords that are none" "junk: .*expected a field of a SentencePiece model" "$trf" train --tsv train.tsv $fresh --sentencepiece junk
check "before the data" sh -c '! grep -q "held out" err'
expect 1 "of one side" "junk: .*SentencePiece" "$trf" train --tsv train.tsv $fresh --target-sentencepiece junk
check "before the data too" sh -c '! grep -q "held out" err'
expect 1 "a model that is none" "junk: not a safetensors file" "$trf" train --tsv train.tsv $fresh --init-from junk
check "before the data as well" sh -c '! grep -q "held out" err'
cp junk broken.checkpoint
expect 1 "a checkpoint that is none" "broken.checkpoint: not a safetensors file" "$trf" train --tsv train.tsv --model broken --resume
check "before the data, again" sh -c '! grep -q "held out" err'

# ---- data that are twice there ----

ln train.tsv hard.tsv
cp train.tsv copy.tsv
run="$tiny --encoder-layers 1 --decoder-layers 1 --updates 1 --tokens words --metric loss --model m"
expect 0 "validation by what is trained on" "warning: --tsv and --valid-tsv are the same file" "$trf" train --tsv train.tsv \
    --valid-tsv hard.tsv $run
check "how many" says "warning: 600 of 600 validation pairs are among"
expect 0 "by a copy of it" "warning: 600 of 600 validation pairs are among" "$trf" train --tsv train.tsv --valid-tsv copy.tsv $run
expect 0 "in files of their own" "warning: --source and --valid-source are the same file" "$trf" train --source train.digits \
    --target train.names --valid-source train.digits --valid-target train.names $run
expect 0 "by other pairs" "" "$trf" train --tsv train.tsv --valid-tsv test.tsv $run
check "not a word" sh -c '! grep -q "same file\|are among" err'
expect 0 "a text by itself" "warning: --text and --valid-text are the same file" "$trf" train --objective causal --text train.names \
    --valid-text train.names $tiny --decoder-layers 1 --updates 1 --tokens words --model m
check "of lines" says "600 of 600 validation lines are among"

# ---- a file as one document ----

printf 'def f(x):\n    if x:\n\treturn  1\n\nend \n' >program
for i in $(seq 40); do cat program; done >programs
document="--objective causal --text programs --documents file $tiny --decoder-layers 1 --updates 1"
expect 0 "words have no line ends" "warning: the vocabulary has no token for a line end: the line ends of programs are lost" "$trf" train \
    $document --tokens words --model m
expect 0 "characters have" "" "$trf" train $document --tokens characters --model m
check "and no warning" sh -c '! grep -q "line end" err'

# ---- subwords: what is written comes as it was, what is read is composed ----

if [ "$with_subwords" -eq 1 ]; then
once="$tiny --encoder-layers 1 --decoder-layers 1 --updates 1 --valid-size 0 --tokens sentencepiece"
apart="$once --joint-vocabulary no"
# Persian with a zero-width non-joiner, full-width marks, a no-break space, fractions, what nmt_nfkc takes apart
printf 'm\302\262 x 12 \302\275 \342\200\246\n\345\245\275\357\274\214\345\245\275\357\274\201\n' >odd
printf '\331\205\333\214\342\200\214\330\256\330\247\331\207\331\205\n10\302\240000 \342\202\254 \357\254\201n \342\226\205 \342\204\242\n' >>odd
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

# a file as one document: line ends, tabs and blanks are tokens
expect 0 "subwords have line ends" "target: .* subwords learned (unigram, --normalise identity)" "$trf" train $document \
    --tokens sentencepiece --model program.m
check "and no warning is needed" sh -c '! grep -q "line end" err'
expect 0 "a program" "" "$trf" generate --model program.m --prompt "$(cat program)" --max-tokens 1 --seed 1 --json
check "is written as it was" grep -qF '{"text":"def f(x):\u000a    if x:\u000a\u0009return  1\u000a\u000aend ' out
check "all of it is known" sh -c '! grep -q unknown err'
expect 0 "in auto too" "target: .* subwords learned" "$trf" train $document --model program.m
printf 'a b\n' >ab.txt
for i in $(seq 40); do cat ab.txt; done >abs
expect 0 "lines of their own have none" "" "$trf" train --objective causal --text abs $tiny --decoder-layers 1 --updates 1 \
    --tokens sentencepiece --model m
check "blanks at their ends are not looked at" sh -c '! grep -q "line end" err'

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
else
echo "left out: libsentencepiece"
awk 'BEGIN { for (i = 0; i < 400; i++) print "w" i " x" i " y" i "\tv" i " z" i }' >new.tsv
expect 0 "subwords would do better" "uses words; install libsentencepiece-dev" "$trf" train --tsv new.tsv $tiny --encoder-layers 1 \
    --decoder-layers 1 --updates 1 --valid-size 0 --model m
check "said last, before training" sh -c 'grep -v "^done\|^update" err | tail -n 1 | grep -q "libsentencepiece-dev"'
fi

finish

#!/bin/sh
# The data that trf reads: sh tests/test_trf_data.sh build/trf
#
# Labels with blanks around them, compressed files and other encodings, lines that are too long,
# empty, not UTF-8 or without a tab; columns; validation data that repeat the training data; words
# that the vocabulary lacks. Each bad line is named once, counted, and left out.

. "$(dirname "$0")/trf.sh"

trf=$anew

tiny="--d-model 16 --n-heads 2 --d-ff 32 --threads 1 --warmup 20"
says() { grep -q -e "$1" err; }

# --- labels -------------------------------------------------------------------------------------
for i in $(seq 60); do printf \
    'good film\tpos\nbad film\tneg\ngood song\tpos \nbad song\tneg\r\r\n'; done >blank.tsv
expect 0 "blanks and CR around labels are no part of them" ", 2 labels" "$trf" train \
    --objective classify --tsv blank.tsv \
    --model blank $tiny --encoder-layers 1 --updates 150 --valid-size 12
check "blanks around labels leave no text out" sh -c '! grep -q "left out" err'
expect 0 "texts of labels with blanks around them are classified" "" \
    sh -c "printf 'good song\nbad film\n' | '$trf' classify --model blank"
printf 'pos\nneg\n' >want
check "blanks around labels are no part of the answers" same out want
cut -f1 blank.tsv >films
cut -f2 blank.tsv | sed 's/pos/\t pos\t/' >tabs
expect 0 "a tab before a label in a file of labels" ", 2 labels" "$trf" train --objective classify \
    --source films --target tabs \
    --model m $tiny --encoder-layers 1 --updates 1
cp blank.tsv films.tsv
printf 'bad film\t \n' >>blank.tsv
expect 0 "a label of blanks alone is none" "blank.tsv:241: no label" "$trf" train \
    --objective classify --tsv blank.tsv \
    --model m $tiny --encoder-layers 1 --updates 1 --valid-size 0

expect 0 "a model of short texts" "" "$trf" train --objective classify --tsv films.tsv \
    --model short $tiny --encoder-layers 1 --updates 100 \
    --max-length 9 --source-eos yes --tokens words --valid-size 0

# --- files of another form ----------------------------------------------------------------------

for form in 'gzip:\037\213\010\000' 'zip:PK\003\004' 'xz:\3757zXZ\000' 'zstd:\050\265\057\375' \
    'bzip2:BZh91AY&SY' \
    'UTF-32:\377\376\000\000' 'UTF-32:\000\000\376\377' 'UTF-16:\377\376a\000' \
    'UTF-16:\376\377\000a' \
    'UTF-16 (iconv -f utf-16le:a\000b\000' 'UTF-16 (iconv -f utf-16be:\000a\000b'; do
    printf "${form#*:}\\n" >form
    expect 1 "a file of another form: $form" "form:1: .*got .*${form%%:*}" "$trf" train --tsv form \
        --model m --updates 1
    expect 1 "a text to classify: $form" "form:1: .*got .*${form%%:*}" "$trf" classify \
        --model blank --input form
    check "a text with CR alone has no answer" lines_are 0 out
done
printf 'good song\rbad film\rgood film\r' >mac
expect 1 "lines that end in CR alone" "got CR alone (tr '.r' '.n')" "$trf" classify --model blank \
    --input mac
check "lines that end in CR alone have no answer" lines_are 0 out
expect 1 "references that end in CR alone" "got CR alone" "$trf" eval mac mac
printf 'good song\r' >mac
expect 0 "one line with a CR at its end is classified" "pos" "$trf" classify --model blank --input mac
printf 'good song\r\r\nbad\rfilm\n' >mac
expect 0 "a CR within a line that ends in LF is a blank" "" "$trf" classify --model blank \
    --input mac
check "a CR within a line leaves two answers" same out want

# --- texts that are too long --------------------------------------------------------------------

awk 'BEGIN { for (i = 0; i < 40; i++) printf "good "; print "film"; print "bad film" }' >long
expect 1 "a text that is too long has no label" "answered with an empty line: 41 tokens, at most" \
    "$trf" classify --model short \
    --input long
expect 0 "--truncate labels a long text by its beginning" \
    "1 of 2 lines had more tokens than the model takes, 8: labelled by their first tokens" "$trf" \
    classify \
    --model short --input long --truncate
printf 'pos\nneg\n' >want
check "--truncate: the label of a long text" same out want
head -c 20 long >begins
"$trf" classify --model short --input long --truncate --scores >out 2>err
printf 'good good good good good good good good\nbad film\n' | "$trf" classify --model short \
    --scores >want 2>err
check "--truncate: the label is that of the beginning alone" same out want
head -1 long >one.long
expect 0 "--truncate tells one text of one" "1 of 1 line had" "$trf" classify --model short --input one.long --truncate

for i in $(seq 60); do printf 'a b c\tA B C\nc a\tC A\nb\tB\n'; done >letters.tag
expect 0 "a tagger of letters" "180 texts" "$trf" train --objective tag --tsv letters.tag --tokens words \
    --max-length 5 --source-eos yes --model tags \
    $tiny --encoder-layers 1 --updates 120 --valid-size 0
printf 'a b c a b c a b c\nc b\n' >long
expect 1 "a line that is too long has no labels" \
    "answered with an empty line: 9 tokens, at most 4" "$trf" tag --model tags --input long
expect 0 "--truncate tags a long line in parts" \
    "1 of 2 lines had more tokens than the model takes, 4: labelled in parts" \
    "$trf" tag --model tags \
    --input long --split
printf 'A B C A B C A B C\nC B\n' >want
check "each of its words" same out want
expect 0 "parts in JSON" "" "$trf" tag --model tags --input long --split --json
printf 'a b c a\nb c a b\nc\nc b\n' | "$trf" tag --model tags --json >parts 2>err
sed 's/{"word"/\n&/g' out | grep '^{"word"' >together
sed 's/{"word"/\n&/g' parts | grep '^{"word"' >alone
check "each part of a long line is tagged as a line of its own" \
    sh -c 'sed "s/[],}]*$//" together >a; sed "s/[],}]*$//" alone >b; cmp -s a b'

# --- words, vocabularies and labels that cannot be ----------------------------------------------

awk 'BEGIN { for (i = 0; i < 1048577; i++) printf "a"; print "\tx" }' >giant
cat train.tsv giant >with.giant
small_run="$tiny --encoder-layers 1 --decoder-layers 1 --updates 1 --valid-size 0 --tokens words"
wide="--max-line-bytes 2000000"
expect 0 "a word of more than 1 MiB" "left out: with.giant:601: a word of more than 1 MiB" "$trf" \
    train --tsv with.giant $small_run $wide --model m
check "a word of more than 1 MiB is left out and counted" says "left out: 1 pair (1 too long)"
sed 's/\t/ /' giant | cat - train.names >giant.text
expect 0 "a word of more than 1 MiB in a text alone is left out" "left out: 1 line (1 too long)" "$trf" train \
    --objective causal --text giant.text $tiny \
    --decoder-layers 1 --updates 1 --valid-size 0 --tokens words --model m $wide
expect 0 "a word of more than 1 MiB with a label is left out" "left out: 1 line (1 too long)" \
    sh -c "sed 's/x\$/pos/' giant | cat - films.tsv >giant.tsv
    '$trf' train $wide --objective classify --tsv giant.tsv $tiny --encoder-layers 1 --updates 1 --valid-size 0 \
        --tokens words --model m"
expect 2 "--min-count that leaves no token" \
    "min-count 100000 leaves no token: none in train.tsv occurs so often" "$trf" train \
    --tsv train.tsv $small_run --min-count 100000 --model m
check "--min-count that leaves no token is told before the schedule" sh -c '! grep -q schedule err'
printf '<unk>\t<pad>\n' >specials.tsv
expect 1 "special tokens alone" "specials.tsv has no token to learn" "$trf" train \
    --tsv specials.tsv $small_run --model m
expect 2 "a vocabulary of none" \
    "vocab-size must be 5 or more, four special tokens included, got 4" "$trf" train \
    --tsv train.tsv \
    $small_run --vocab-size 4 --model m
expect 2 "a target vocabulary that is too small" "target-vocab-size must be 5 or more" "$trf" train --tsv train.tsv \
    $small_run --target-vocab-size 1 --model m
expect 0 "a side's that is enough" "" "$trf" train --tsv train.tsv $small_run \
    --target-vocab-size 5 --model m

# --- values out of range are refused before the data are read -----------------------------------

for wrong in "mask --noise-density 2:--noise-density must be between 0 and 1, got 2" \
    "mask --random-share -1:--random-share must be" \
    "mask --masked-share -1:--masked-share must be" "span --mean-span 0:--mean-span must be" \
    "causal --beta1 2:--beta1 must be" \
    "causal --d-model 100 --n-heads 7:--n-heads must divide --d-model = 100, got 7"; do
    expect 2 "a wrong option of ${wrong%%:*}" "train: ${wrong#*:}" "$trf" train --objective ${wrong%%:*} \
        --text not-there --model m
done
expect 0 "a model that translates digits" "" "$trf" train --tsv train.tsv $small_run --model digits
for wrong in "--alpha 20:--alpha must be between 0 and 10, got 20" \
    "--max-length-a -1:--max-length-a must be"; do
    expect 2 "trf translate with a wrong ${wrong%%:*}" "translate: ${wrong#*:}" "$trf" translate --model digits \
        --input train.digits ${wrong%%:*}
done

# --- models and subwords to begin with are read before the data ---------------------------------

printf 'not a model, whatever it is called\n' >junk
fresh="$tiny --updates 1 --model fresh"
expect 1 "subwords that are none" "junk: .*expected a field of a SentencePiece model" "$trf" train \
    --tsv train.tsv $fresh --sentencepiece junk
check "subwords that are none are told before the data" sh -c '! grep -q "held out" err'
expect 1 "target subwords that are none" "junk: .*SentencePiece" "$trf" train --tsv train.tsv $fresh \
    --target-sentencepiece junk
check "target subwords that are none are told before the data" sh -c '! grep -q "held out" err'
expect 1 "a model that is none" "junk: not a safetensors file" "$trf" train --tsv train.tsv $fresh \
    --init-from junk
check "a model that is none is told before the data" sh -c '! grep -q "held out" err'
cp junk broken.checkpoint
expect 1 "a checkpoint that is none" "broken.checkpoint: not a safetensors file" "$trf" train \
    --tsv train.tsv --model broken --resume
check "a checkpoint that is none is told before the data" sh -c '! grep -q "held out" err'

# --- validation data that are training data -----------------------------------------------------

ln train.tsv hard.tsv
cp train.tsv copy.tsv
run="$tiny --encoder-layers 1 --decoder-layers 1 --updates 1 --tokens words --metric loss --model m"
expect 0 "validation by what is trained on" "warning: --tsv and --valid-tsv are the same file" \
    "$trf" train --tsv train.tsv \
    --valid-tsv hard.tsv $run
check "validation by the training data counts the pairs" says "warning: 600 of 600 validation pairs are among"
expect 0 "validation by a copy of the training data" "warning: 600 of 600 validation pairs are among" "$trf" train \
    --tsv train.tsv --valid-tsv copy.tsv $run
expect 0 "validation by the files of the training data" "warning: --source and --valid-source are the same file" \
    "$trf" \
    train --source train.digits \
    --target train.names --valid-source train.digits --valid-target train.names $run
expect 0 "validation by other pairs" "" "$trf" train --tsv train.tsv --valid-tsv test.tsv $run
check "validation by other pairs has no warning" sh -c '! grep -q "same file\|are among" err'
expect 0 "a text by itself" "warning: --text and --valid-text are the same file" "$trf" train \
    --objective causal --text train.names \
    --valid-text train.names $tiny --decoder-layers 1 --updates 1 --tokens words --model m
check "validation by the same text counts the lines" says "600 of 600 validation lines are among"

# --- a file as one document ---------------------------------------------------------------------

printf 'def f(x):\n    if x:\n\treturn  1\n\nend \n' >program
for i in $(seq 40); do cat program; done >programs
document="--objective causal --text programs --documents file $tiny --decoder-layers 1 --updates 1"
expect 0 "words have no line ends" \
    "warning: the vocabulary has no token for a line end: the line ends of programs are lost" \
    "$trf" train \
    $document --tokens words --model m
expect 0 "a document of characters" "" "$trf" train $document --tokens characters --model m
check "a document of characters has no warning of line ends" sh -c '! grep -q "line end" err'

# --- lines that cannot be read ------------------------------------------------------------------
head -n 30 train.names >short.names
expect 1 "different line counts" "600 lines.* 30" \
    "$trf" train --source train.digits --target short.names $small --updates 1 --model m
{ head -n 3 train.tsv; echo "1 2 3 4 5 6 7 8 9	one"; printf '\t\n'; sed 1,3d train.tsv; } >long.tsv
expect 0 "pairs left out" "left out: long.tsv:4: 9 tokens, at most 7" \
    "$trf" train --tsv long.tsv $small --max-length 8 --updates 2 --model m
check "empty pairs too" grep -q "left out: long.tsv:5: empty on both sides" err
check "empty pairs are counted" grep -q "left out: 2 pairs (1 too long, 1 empty)" err
printf '1 2\n' >notab.tsv
expect 1 "pairs without a tab" "notab.tsv: no line has a tab" "$trf" train --tsv notab.tsv $small --updates 1 \
    --model m
printf '1\tone\n\377\ttwo\n' >bad.tsv
expect 0 "a line that is not UTF-8 is left out" "left out: bad.tsv:2: " "$trf" train --tsv bad.tsv $small --updates 1 \
    --model m
expect 1 "--strict ends at a line that is not UTF-8" "bad.tsv:2: .*--strict" "$trf" train --tsv bad.tsv $small \
    --strict \
    --updates 1 --model m
printf '1\tx\377\tone\n2\ty\ttwo\n' >columns.tsv
expect 0 "a column that nobody reads may be other than UTF-8" "^2 pairs" \
    "$trf" train --tsv columns.tsv --columns 1,3 $small --strict --updates 1 --model m
awk 'BEGIN { for (i = 0; i < 1100000; i++) printf "x"; print "\tone" }' | cat train.tsv - >huge.tsv
expect 0 "a word of more than 1 MiB is an unknown one" "^done" "$trf" train --tsv huge.tsv $small \
    --updates 1 --model m
expect 1 "a file that is not there" "cannot read 'missing'" "$trf" train --tsv missing $small --updates 1 \
    --model m
expect 0 "a model of 40 updates" "^done" "$trf" train $plain --updates 40 --model one
printf '\357\273\277' | cat - train.digits >marked.digits
expect 0 "a byte order mark" "" "$trf" train --source marked.digits --target train.names $small \
    --updates 40 --model marked
check "a byte order mark is not part of the text" same one marked
: >nothing
expect 1 "an empty text to validate on" "nothing is empty: nothing to validate on" "$trf" train \
    --objective causal --text train.digits --valid-text nothing --updates 1 --model m
: >nothing
expect 1 "empty files to validate on" "nothing is empty: nothing to validate on" "$trf" train $files \
    $model --valid-source nothing --valid-target nothing \
    --updates 1 --model m
printf 'a\0b\n\0\n' >nulls
expect 1 "text that nobody can read" "no text is left to train on" "$trf" train --objective causal \
    --text nulls --valid-size 0 --updates 1 --model m
expect 0 "the same file for source and target" "are the same file" "$trf" train --source train.digits \
    --target train.digits $small --updates 1 --model m
{ printf '\377\376'; tr '\n' '\0' <train.digits; echo; } >wide.digits
expect 1 "a source in UTF-16" "wide.digits:1: expected UTF-8, got UTF-16" "$trf" train --source wide.digits \
    --target train.names $small --updates 1 --model m
awk 'NR % 5 { print; next } { print "no tab" }' train.tsv >fifth.tsv
expect 0 "a fifth of the lines" "warning: 120 of 600 pairs are left out, more than a tenth" \
    "$trf" train --tsv fifth.tsv \
    $small --updates 1 --model m
printf 'a\302\233b\tone\n' >c1.tsv
for k in 1 2 3 4; do cat c1.tsv train.tsv; done >c1s.tsv
"$trf" train --tsv c1s.tsv $small --tokens words --updates 1 --model c1 2>err
check "JSON has no control character" eval \
    '"$trf" inspect --json c1 | LC_ALL=C grep -q "a.u009bb" &&
    ! "$trf" inspect --json c1 | LC_ALL=C grep -q "$(printf "\302\233")"'
printf 'nothing\t\n' >half.tsv; cat test.tsv >>half.tsv
expect 1 "--strict ends at a broken pair to validate on" "half.tsv:1" "$trf" train --tsv train.tsv \
    --valid-tsv half.tsv $small --strict \
    --updates 1 --model strict
expect 0 "--strict with good pairs to validate on" "^done" "$trf" train --tsv train.tsv --valid-tsv test.tsv $small \
    --strict \
    --updates 1 --model strict
expect 0 "going on without --strict leaves the broken pair out" "half.tsv:1" "$trf" train --tsv train.tsv \
    --valid-tsv half.tsv $small \
    --updates 2 --model strict --resume

# --- lines without a tab ------------------------------------------------------------------------
cp train.digits lines
expect 1 "pairs without tabs" \
    "lines: no line has a tab; --tsv takes a source, a tab and a target in each line. For two files .* "\
"--source and --target; for plain text give --text" \
    "$trf" train --tsv lines $small --updates 1 --model m
silent "pairs without tabs"
expect 1 "labels without tabs" "lines: no line has a tab; --tsv takes a text, a tab and its label" \
    "$trf" train --objective classify --tsv lines --updates 1 --model m
expect 1 "columns without tabs" "lines: no line has a tab" "$trf" train --tsv lines --columns 1,3 \
    $small --updates 1 --model m
expect 1 "pairs to validate on without tabs" "lines: no line has a tab" "$trf" train --tsv train.tsv \
    --valid-tsv lines $small --updates 1 --model m
expect 1 "--strict ends at a pair without a tab" "lines:1: no tab between source and target (--strict)" "$trf" train \
    --tsv lines --strict $small --updates 1 --model m
{ head -n 7 lines; cat train.tsv; } >late.tsv
expect 0 "tabs that come late" "left out: late.tsv:5: no tab between source and target" "$trf" \
    train --tsv late.tsv $small --updates 1 --model late
check "five of seven lines are named, all counted" eval \
    'test "$(grep -c "late.tsv:" err)" -eq 5 && grep -q "^left out: 7 pairs (7 malformed)" err'

# --- columns and empty sides --------------------------------------------------------------------
awk -F '\t' '{ print NR "\t" $1 "\t" $2 "\tnote" }' train.tsv >wide.tsv
expect 1 "--strict ends at four columns" "more than one tab" "$trf" train --tsv wide.tsv $small --strict \
    --updates 40 --model m
expect 0 "two of four columns" "" "$trf" train --tsv wide.tsv $small --columns 2,3 --updates 40 --model wide
check "two of four columns are the same data" same one wide
expect 1 "--strict ends at too few columns" "fewer columns" "$trf" train --tsv wide.tsv $small --columns 2,7 --strict \
    --updates 1 --model m
for wrong in 2 2,2 0,1 1,2,3 a,b; do
    expect 2 "--columns $wrong" "--columns takes" "$trf" train --tsv wide.tsv $small \
        --columns $wrong --updates 1 --model m
done
{ cat train.tsv; printf '1 2\t\n\tone\n'; i=0; while [ $i -lt 9 ]; do i=$((i + 1)); echo "no tab";
    done; } >holes.tsv
expect 0 "lines with holes are left out" "left out: 11 pairs (9 malformed, 2 empty on one side)" "$trf" \
    train \
    --tsv holes.tsv $small --updates 2 --model m
check "five are told" test "$(grep -c "left out: holes.tsv:" err)" -eq 5
expect 0 "empty sides kept" "left out: 9 pairs" "$trf" train --tsv holes.tsv $small --keep-empty \
    --updates 2 --model m
expect 2 "a column too far" "--columns takes" "$trf" train --tsv train.tsv \
    --columns 4294967297,4294967298 $model --updates 1 --model m
printf 'one\nt\0wo\n' >nul.names
printf '1\n2\n' >two.digits
expect 1 "a NUL in the target" "nul.names:2: not scored: a NUL byte" "$trf" score --model one \
    --source two.digits --target nul.names

# --- characters or words ------------------------------------------------------------------------
cut -f1 letters.tsv | sort -u | awk '{ print $1 * 7919 "\t" $1 }' >numbers.tsv
expect 0 "lines of one word, all of them new" "source: characters" "$trf" train --tsv numbers.tsv \
    $small --updates 2 --model m

# --- unknown words in validation data -----------------------------------------------------------
awk 'BEGIN { for (i = 0; i < 40; i++) print "1 2 3\tone strange words here" }' >strange.tsv
expect 0 "unknown words held out" \
    "warning: 75.0 % of the target's tokens in the pairs held out are unknown" \
    "$trf" train --tsv train.tsv --valid-tsv strange.tsv $small --updates 1 --model m
expect 0 "no unknown word is held out" "" "$trf" train --tsv train.tsv --valid-tsv test.tsv $small --updates 1 --model m
check "no unknown word is told where there is none" eval '! grep -q "unknown to" err'
check "without unknown targets the model has a count of none" eval \
    '"$trf" inspect m | grep -q "target.unknown: 0$"'
expect 0 "--min-count makes rare words unknown" "" "$trf" train --tsv train.tsv --min-count 170 $small --updates 1 \
    --model m
check "unknown targets are counted in the model" eval '"$trf" inspect m | grep -q "target.unknown: [1-9]"'
check "an unknown target of the beginning counts too" eval \
    '"$trf" train --tsv train.tsv --init-from m --valid-size 0 --updates 1 --model n 2>/dev/null &&
    "$trf" inspect n | grep -q "target.unknown: [1-9]"'

# --- several files --------------------------------------------------------------------------------
mkdir many && head -n 100 train.tsv >many/1.tsv && tail -n +101 train.tsv | head -n 100 >many/2.tsv &&
    tail -n +201 train.tsv >many/3.tsv && : >many/.hidden
tiny='--decoder-layers 1 --d-model 16 --d-ff 16 --n-heads 1 --updates 3 --threads 1'
plain="$tiny --encoder-layers 1"
for way in "--tsv train.tsv" "--tsv many/1.tsv --tsv many/2.tsv --tsv many/3.tsv" "--tsv many" \
    "--tsv many/1.tsv --tsv rest"; do
    rm -rf rest && mkdir rest && cp many/2.tsv many/3.tsv rest
    n=$((${n:-0} + 1))
    expect 0 "train $way" "" "$trf" train $way $plain --model several.$n --checkpoint ''
    check "the same model from $way" same several.1 several.$n
done
# The same of two files each.
mkdir many.source many.target
for file in many/*.tsv; do
    cut -f 1 $file >many.source/$(basename $file)
    cut -f 2 $file >many.target/$(basename $file)
done
cat many.source/* >all.source
cat many.target/* >all.target
sides=
for file in 1.tsv 2.tsv 3.tsv; do sides="$sides --source many.source/$file --target many.target/$file"; done
n=0
for way in "--source all.source --target all.target" "$sides" "--source many.source --target many.target"; do
    n=$((n + 1))
    expect 0 "train $way" "" "$trf" train $way $plain --model sides.$n --checkpoint ''
    check "the same model from $way" same sides.1 sides.$n
done
expect 2 "files without a partner" "--source has 3 files, but --target has 1: file n belongs to file n" "$trf" train \
    --source many.source --target all.target $plain --model m
expect 1 "files of different lengths" "many.source/1.tsv has .* lines, but all.target has" "$trf" train \
    --source many.source/1.tsv --target all.target $plain --model m
expect 1 "a model of the name of a later file" "'all.source'" "$trf" train --source many.source/1.tsv \
    --source all.source --target many.target/1.tsv --target all.target $plain --model all.source
"$trf" train --tsv many/1.tsv --tsv many/2.tsv $plain --model logged --log logged.json 2>err
check "the log has all files" grep -q '"tsv":"many/1.tsv many/2.tsv"' logged.json
mkdir texts && cut -f 1 many/1.tsv >texts/a && cut -f 1 many/2.tsv >texts/b && cat texts/a texts/b >both
for way in "--text both" "--text texts/a --text texts/b" "--text texts"; do
    lm=$((${lm:-0} + 1))
    expect 0 "train $way" "" "$trf" train --objective causal $way $tiny --model lines.$lm --checkpoint ''
    check "the same language model from $way" same lines.1 lines.$lm
done
expect 0 "each file of a folder is a document" "" "$trf" train --objective causal --text texts --documents file \
    --tokens characters $tiny --valid-size 0 --model documents --checkpoint ''
expect 1 "a model in the folder of the texts" "'many/m' would be written into the folder of the texts, 'many'" \
    "$trf" train --tsv many $plain --model many/m
expect 1 "a log in it" "'many/log' would be written" "$trf" train --tsv many $plain --model m --log many/log
mkdir hollow
expect 1 "a folder without files" "'hollow' has no files" "$trf" train --tsv hollow $plain --model m
expect 1 "a second file that is missing" "cannot read 'missing'" "$trf" train --tsv train.tsv \
    --tsv missing $plain --model m
cp train.tsv mine && cp train.tsv kept.update-1
expect 1 "the second file is no model to replace" "'mine' is the file that --tsv reads" \
    "$trf" train --tsv many/1.tsv --tsv mine $plain --model mine
expect 2 "nor a kept model" "'kept.update-1' is a name that training" \
    "$trf" train --tsv many/1.tsv --tsv kept.update-1 $plain --keep-models 2 --model kept
expect 1 "a folder by another name" "would be written into the folder of the texts" \
    "$trf" train --tsv ./many/ $plain --model "$PWD/many/m"
check "they stay as they were" eval 'same mine train.tsv && same kept.update-1 train.tsv'
expect 2 "standard input twice" "only one of the files can be standard input" \
    "$trf" train --tsv - --tsv - $plain --model m
expect 2 "another option twice" "--seed is given twice" "$trf" train --tsv train.tsv --seed 1 --seed 2 $plain --model m

finish

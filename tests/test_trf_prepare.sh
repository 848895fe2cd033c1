#!/bin/sh
# trf prepare, and trf train --token-file: the same models as from text, interruptions, damaged files, refusals.
# sh tests/test_trf_prepare.sh build/trf

. "$(dirname "$0")/trf.sh"

expect 0 "a model with the vocabularies" "" "$trf" train $plain --updates 1 --valid-size 0 --model start

# --- the same model as from the text ---------------------------------------------------------------------------------
valid="--valid-tsv test.tsv --vocab-from start --seed 5 --threads 1"
from_text="--updates 60 --valid-every 20 $model $brief --warmup 20 $valid"
{ cat train.tsv; echo 'no tab'; printf '\t\n1 2\t\n1 2\tone two unheard\n'; \
    awk 'BEGIN { for (i = 0; i < 600; i++) printf "1 "; print "\tone" }'; } >odd.tsv
expect 0 "a training from text" "left out: 4 pairs" "$trf" train --tsv odd.tsv $from_text --model text.model
expect 0 "trf prepare of the same text" "left out: 4 pairs" "$trf" prepare --model start --output odd.tokens odd.tsv
check "trf prepare leaves no unfinished file" [ ! -e odd.tokens.part ]
expect 0 "a training from tokens" "601 pairs" "$trf" train --token-file odd.tokens $from_text --model tokens.model
check "tokens make the model of the text" same text.model tokens.model
for more in "--shuffle no" "--buckets no --seed 9" "--padded-budget yes --batch-sentences 7" "--pool 1"; do
    options="--updates 25 $model --batch-tokens 256 --metric loss --warmup 20 --valid-size 0 --vocab-from start \
        --threads 1 $more"
    expect 0 "a training from text, $more" "" "$anew" train --tsv odd.tsv $options --model text.model
    expect 0 "a training from tokens, $more" "" "$anew" train --token-file odd.tokens $options --model tokens.model
    check "tokens make the model of the text, $more" same text.model tokens.model
done

# continued from a checkpoint of the other kind
begun="--updates 30 --valid-size 0 $model $brief --warmup 20 --vocab-from start --seed 5 --threads 1"
whole="--updates 70 --valid-size 0 $model $brief --warmup 20 --vocab-from start --seed 5 --threads 1"
expect 0 "a training from text in one run" "" "$trf" train --tsv odd.tsv $whole --model whole.model
expect 0 "begun from tokens" "" "$trf" train --token-file odd.tokens $begun --model begun.model
cp begun.model.checkpoint other.model.checkpoint
expect 0 "continued from tokens" "resumed" "$trf" train --token-file odd.tokens $whole --model begun.model --resume
check "the same model, continued" same whole.model begun.model
expect 0 "continued from text" "resumed" "$trf" train --tsv odd.tsv $whole --model other.model --resume --overwrite
check "the same model, continued from text" same whole.model other.model
expect 0 "prepared: other data" "" "$trf" prepare --model start --output train.tokens train.tsv
expect 1 "going on with other data" "have changed" "$trf" train --token-file train.tokens $whole --model begun.model \
    --resume

# from a model's weights
expect 0 "from the weights of a model, and text" "" "$trf" train --tsv train.tsv --init-from start --valid-size 0 \
    --updates 20 \
    --batch-tokens 256 --threads 1 --model text2.model
expect 0 "from the weights of a model, and tokens" "" "$trf" train --token-file train.tokens --init-from start \
    --valid-size 0 \
    --updates 20 --batch-tokens 256 --threads 1 --model tokens2.model
check "from the weights of a model, tokens make the model of the text" same text2.model tokens2.model

# what the recipe chooses
expect 0 "the recipe, from text" "" "$trf" train --tsv odd.tsv --valid-tsv test.tsv --vocab-from start --size tiny \
    --updates 20 --threads 1 --metric loss --model text3.model
expect 0 "the recipe, from tokens" "" "$trf" train --token-file odd.tokens --valid-tsv test.tsv --vocab-from start \
    --size tiny --updates 20 --threads 1 --metric loss --model tokens3.model
check "by the recipe, tokens make the model of the text" same text3.model tokens3.model

# --- texts -----------------------------------------------------------------------------------------------------------
{
    cut -f2 train.tsv
    echo
    awk 'BEGIN { for (i = 0; i < 90; i++) printf "%s ", i % 3 ? "one" : "two"; print "three" }'
} >text
cut -f2 test.tsv >valid.text
causal="--objective causal $quick --max-length 20"
expect 0 "a language model" "" "$trf" train $causal --text text --updates 1 --valid-size 0 --model lm
for how in "" --pack "--chunk 7" "--pack --chunk 7"; do
    expect 0 "a language model from text $how" "" "$anew" train $causal --text text --valid-text valid.text \
        --vocab-from lm \
        --updates 20 $how --model text.model
    rm -f t.tokens
    expect 0 "trf prepare for a language model $how" "chunks" "$trf" prepare --model lm --output t.tokens text $how
    expect 0 "a language model from tokens $how" "" "$anew" train $causal --token-file t.tokens \
        --valid-text valid.text --vocab-from lm \
        --updates 20 $how --model tokens.model
    check "the same language model $how" same text.model tokens.model
done
expect 0 "a language model of characters" "" "$trf" train $causal --text text --tokens characters --documents file \
    --updates 1 \
    --valid-size 0 --model chars
expect 0 "a file as a document" "" "$anew" train $causal --text text --documents file --valid-text valid.text \
    --vocab-from chars --updates 20 --model text.model
expect 0 "prepared as a document" "" "$trf" prepare --model chars --documents file --output c.tokens text
expect 0 "tokens of a document" "" "$anew" train $causal --token-file c.tokens --documents file \
    --valid-text valid.text --vocab-from chars --updates 20 --model tokens.model
check "the same model of a document" same text.model tokens.model
for objective in mask span; do
    expect 0 "a model of objective $objective" "" "$anew" train --objective $objective $quick --text text --updates 1 \
        --valid-size 0 \
        --tokens words --model hidden
    expect 0 "from text, objective $objective" "" "$anew" train --objective $objective $quick --text text \
        --valid-text valid.text \
        --vocab-from hidden --updates 20 --model text.model
    expect 0 "trf prepare, objective $objective" "" "$trf" prepare --model hidden --objective $objective \
        --output $objective.tokens \
        text
    expect 0 "from tokens, objective $objective" "" "$anew" train --objective $objective $quick \
        --token-file $objective.tokens \
        --valid-text valid.text --vocab-from hidden --updates 20 --model tokens.model
    check "tokens make the model of the text, objective $objective" same text.model tokens.model
done

# --- many files, a folder, standard input, packed files, two files ----------------------------------------------------
mkdir folder
head -n 200 train.tsv >folder/a.tsv
sed -n '201,400p' train.tsv >folder/b.tsv
tail -n +401 train.tsv >folder/c.tsv
expect 0 "trf prepare of several files" "" "$trf" prepare --model start --output b.tokens folder/a.tsv folder/b.tsv \
    folder/c.tsv
check "the same file from several" same train.tokens b.tokens
expect 0 "trf prepare of a folder" "" "$trf" prepare --model start --output b.tokens folder --overwrite
check "the same file from a folder" same train.tokens b.tokens
expect 0 "trf prepare of standard input" "" "$trf" prepare --model start --output b.tokens --overwrite <train.tsv
check "the same file from standard input" same train.tokens b.tokens
expect 0 "a file and standard input" "" \
    sh -c "tail -n +201 train.tsv | '$trf' prepare --model start --output b.tokens --overwrite folder/a.tsv -"
check "the same file from both" same train.tokens b.tokens
expect 0 "trf prepare of a source and a target" "" "$trf" prepare --model start --output b.tokens --overwrite $files
check "the same file from two" same train.tokens b.tokens
if "$trf" --version | grep -q 'built without zlib'; then
    echo "left out: trf was built without zlib"
    gzip -c train.tsv >train.tsv.gz
    expect 1 "a packed file without zlib" "a gzip file: gzip -dc unpacks it" "$trf" prepare --model start \
        --output p.tokens train.tsv.gz
else
    gzip -c train.tsv >train.tsv.gz
    expect 0 "a packed file" "" "$trf" prepare --model start --output b.tokens --overwrite train.tsv.gz
    check "the same file from a packed one" same train.tokens b.tokens
    gzip -c folder/a.tsv >ab.gz; gzip -c folder/b.tsv >>ab.gz
    expect 0 "two packed files in one" "" "$trf" prepare --model start --output b.tokens --overwrite ab.gz folder/c.tsv
    check "the same file from two in one" same train.tokens b.tokens
    for f in digits names; do gzip -c train.$f >train.$f.gz; done
    expect 0 "packed files to train from" "600 pairs" "$trf" train --source train.digits.gz \
        --target train.names.gz $small --valid-size 0 --updates 1 --model packed.model
    head -c 1500 train.tsv.gz >cut.gz
    expect 1 "a packed file that is cut" "cut.gz:[0-9]*: cannot continue reading" "$trf" prepare --model start \
        --output p.tokens cut.gz --overwrite
    { head -c 1500 train.tsv.gz; printf 'XXXX'; tail -c +1505 train.tsv.gz; } >bad.gz
    expect 1 "a packed file that is damaged" "bad.gz:[0-9]*: " "$trf" prepare --model start --output p.tokens bad.gz \
        --overwrite
    check "a damaged packed file does not become a token file" [ ! -e p.tokens ]
    rm -f p.tokens.part
fi

# --- interruptions ----------------------------------------------------------------------------------------------------
pairs 9000 5 >large.tsv
expect 0 "a file of several blocks" "" "$trf" prepare --model start --output large.tokens large.tsv
size=$(wc -c <large.tokens)
for left in 0 10 44 5000 $((size / 2)) $((size - 30)) $size; do
    head -c $left large.tokens >again.tokens.part
    rm -f again.tokens
    expect 1 "$left bytes: it is not replaced" "was interrupted: --resume continues it" "$trf" prepare --model start \
        --output again.tokens large.tsv
    expect 0 "$left bytes are continued" "" "$trf" prepare --model start --output again.tokens large.tsv --resume
    check "$left bytes: the same file" same large.tokens again.tokens
done
expect 0 "a complete one" "is complete" "$trf" prepare --model start --output again.tokens large.tsv --resume
several="--valid-size 0 $model --batch-tokens 2000 --metric loss --warmup 20 --vocab-from start --seed 5 --threads 1"
expect 0 "pools, from text" "" "$anew" train --tsv large.tsv $several --updates 40 --pool 2 --model text.model
expect 0 "pools, from tokens, begun" "" "$anew" train --token-file large.tokens $several --updates 25 --pool 2 \
    --model tokens.model
expect 1 "pools of another size" "data options of the original training: --pool was 2, now it is 3" "$trf" train \
    --token-file large.tokens $several --updates 40 --pool 3 --model tokens.model --resume
expect 0 "pools, from tokens, continued" "resumed" "$trf" train --token-file large.tokens $several --updates 40 \
    --pool 2 --model tokens.model --resume
check "the same model by pools" same text.model tokens.model
expect 0 "trf prepare tells how many pairs were there" "continued: 8192 pairs" \
    sh -c "head -c $((size - 30)) large.tokens >again.tokens.part
        '$trf' prepare --model start --output again.tokens large.tsv --resume"
# killed again and again, while the text comes slowly
rm -f again.tokens again.tokens.part
for lines in 1500 4000 6500 8900; do
    mkfifo slow
    { head -n $lines large.tsv; exec sleep 600; } >slow & writer=$!
    "$trf" prepare --model start --output again.tokens --resume slow >out 2>err & program=$!
    wait_until eval 'test "$(wc -c <again.tokens.part)" -ge $((lines / 1024 * 1024 * size / 9100))'
    kill -9 $program; wait $program 2>killed
    kill $writer 2>killed; wait $writer 2>killed
    rm -f slow
    check "killed after $lines lines: a part is there" [ -e again.tokens.part -a ! -e again.tokens ]
done
expect 0 "continued after kill -9" "continued: 8192 pairs" "$trf" prepare --model start --output again.tokens \
    --resume large.tsv
check "the same file after kill -9" same large.tokens again.tokens
for how in "" --pack "--documents file"; do
    expect 0 "text in several blocks $how" "" "$trf" prepare --model chars $how --chunk 5 --output l.tokens \
        --overwrite text
    head -c $(($(wc -c <l.tokens) * 2 / 3)) l.tokens >m.tokens.part
    rm -f m.tokens
    expect 0 "trf prepare goes on $how" "continued: [0-9]* chunks" "$trf" prepare --model chars $how --chunk 5 \
        --output m.tokens \
        --resume text
    check "the same text $how" same l.tokens m.tokens
    head -c $(($(wc -c <l.tokens) * 2 / 3)) l.tokens >m.tokens.part
    cp m.tokens.part part
    rm -f m.tokens
    sed '3s/^./x/' text >changed
    check "the text to go on with is another" eval '! same text changed'
    expect 1 "trf prepare refuses to go on with another text $how" "the text is not that of 'm.tokens.part'" \
        "$trf" prepare --model chars $how --chunk 5 \
        --output m.tokens --resume changed
    check "what was interrupted stays $how" same m.tokens.part part
    rm m.tokens.part
done
head -c $((size / 2)) large.tokens >changed.tokens.part
sed '7s/^./x/' large.tsv >changed.tsv
expect 1 "trf prepare refuses to go on with other pairs" "the text is not that of 'changed.tokens.part'" \
    "$trf" prepare --model start \
    --output changed.tokens --resume changed.tsv
expect 0 "trf prepare goes on with the pairs of before" "9000 pairs" "$trf" prepare --model start \
    --output changed.tokens --resume large.tsv
check "other pairs that were refused change nothing" same large.tokens changed.tokens
head -c $((size / 2)) large.tokens >short.tokens.part
# a token file among its own texts is none of them
head -n 4500 large.tsv >folder/a.tsv
tail -n +4501 large.tsv >folder/b.tsv
rm folder/c.tsv
expect 0 "into the folder of the texts" "9000 pairs" "$trf" prepare --model start --output folder/b.tokens folder
check "the same file in the folder" same large.tokens folder/b.tokens
expect 0 "trf prepare of a folder with its output, again" "9000 pairs" "$trf" prepare --model start \
    --output folder/b.tokens folder --overwrite
check "the same file again" same large.tokens folder/b.tokens
head -c $((size / 2)) large.tokens >folder/b.tokens.part
rm folder/b.tokens
expect 0 "continued in the folder" "9000 pairs" "$trf" prepare --model start --output folder/b.tokens folder --resume
check "the same file, continued" same large.tokens folder/b.tokens
expect 1 "less text than before" "needs the same text" "$trf" prepare --model start --output short.tokens \
    --resume train.tsv
expect 1 "other options than before" "other options or vocabularies" "$trf" prepare --model start \
    --output short.tokens --resume large.tsv --max-length 30
expect 0 "--overwrite begins a token file again" "" "$trf" prepare --model start --output short.tokens \
    --overwrite train.tsv
check "the same file, begun again" same train.tokens short.tokens
expect 1 "a file that may not grow" "File too large" \
    sh -c "ulimit -f 20; '$trf' prepare --model start --output full.tokens large.tsv"
expect 0 "continued with room" "" "$trf" prepare --model start --output full.tokens large.tsv --resume
check "the same file with room" same large.tokens full.tokens

# the unfinished file loses its name while it is written
for how in "rm -f" "mv -f other"; do
    rm -f slow lost.tokens lost.tokens.part
    mkfifo slow
    echo "another program's" >other
    "$trf" prepare --model start --output lost.tokens slow >out 2>err & program=$!
    wait_until test -s lost.tokens.part
    $how lost.tokens.part
    cat train.tsv >slow
    wait $program
    status=$?
    check "$how: it fails: $status" test $status -eq 1
    check "$how: it says why" grep -q "'lost.tokens.part' was removed or replaced while trf wrote it" err
    check "$how: no file has the name of the finished one" [ ! -e lost.tokens ]
    [ "$how" = "rm -f" ] || check "another program's file stays" grep -q "another program's" lost.tokens.part
done
rm -f slow lost.tokens.part

# --- holding out ------------------------------------------------------------------------------------------------------
# sources that occur often, once with another target
{ cat large.tsv; head -n 2000 large.tsv | sed 's/$/ one/'; printf '\t\n5 5\t\n'; } >often.tsv
hold="--model start --output held.tokens --hold-out 20"
expect 0 "trf prepare holds pairs out" \
    "held out: [0-9]* pairs, of which 'held.tokens.valid' has the [0-9]* with different sources" \
    "$trf" prepare $hold often.tsv
check "pairs held out leave nothing unfinished" [ -z "$(ls held.tokens*.part 2>/dev/null)" ]
sources() { cut -f1 "$1" | sort -u | wc -l; }
check "about one of 20 sources" [ $(sources held.tokens.valid) -gt $(($(sources often.tsv) / 40)) \
    -a $(sources held.tokens.valid) -lt $(($(sources often.tsv) / 10)) ]
check "each is the first pair with its source" awk -F '\t' '
    FNR == NR { if (!($1 in first)) first[$1] = $0; next }
    first[$1] != $0 || seen[$1]++ { bad = 1 }
    END { exit bad || !NR }' often.tsv held.tokens.valid
awk -F '\t' 'FNR == NR { held[$1]; next } !($1 in held)' held.tokens.valid often.tsv >rest.tsv
check "some occur often" test $(($(wc -l <often.tsv) - $(wc -l <rest.tsv))) -gt "$(wc -l <held.tokens.valid)"
validated="$model $brief --warmup 20 --seed 5 --threads 1 --vocab-from start --valid-tsv held.tokens.valid \
    --updates 20 --valid-every 10"
expect 0 "from the text that is not held out" "" "$anew" train --tsv rest.tsv $validated --model text.model
expect 0 "from the tokens that are not held out" "" "$anew" train --token-file held.tokens $validated \
    --model tokens.model
check "the same model without what is held out" same text.model tokens.model
whole=$(wc -c <held.tokens)
for left in 0 5000 $((whole / 2)) $whole; do
    rm -f again.tokens*
    head -c $left held.tokens >again.tokens.part
    head -n 3 held.tokens.valid >again.tokens.valid-20.part
    expect 0 "held out, $left bytes are continued" "" "$trf" prepare --model start --output again.tokens --hold-out 20 \
        --resume often.tsv
    check "held out, $left bytes: the same files" \
        sh -c "cmp -s held.tokens again.tokens && cmp -s held.tokens.valid again.tokens.valid"
    check "held out, $left bytes: no others" [ "$(ls again.tokens* | wc -l)" -eq 2 ]
done
expect 0 "trf prepare is complete but for a name" "is complete" "$trf" prepare --model start --output again.tokens \
    --hold-out 20 --resume often.tsv
mv again.tokens.valid again.tokens.valid-20.part
expect 0 "complete, but for a name" "is complete" "$trf" prepare --model start --output again.tokens --hold-out 20 \
    --resume often.tsv
check "what is held out gets its name" same held.tokens.valid again.tokens.valid
expect 1 "what is held out exists" "'again.tokens.valid' exists: --overwrite" \
    sh -c "rm again.tokens; '$trf' prepare --model start --output again.tokens --hold-out 20 often.tsv"
expect 1 "what was held out would be trained on" "'again.tokens.valid' has pairs that an earlier run held out" \
    "$trf" prepare --model start --output again.tokens --overwrite often.tsv
head -c $((whole / 2)) held.tokens >again.tokens.part
expect 1 "begun without --hold-out, continued with it" "'again.tokens.part' was begun without --hold-out" \
    "$trf" prepare --model start \
    --output again.tokens --hold-out 20 --resume often.tsv
: >again.tokens.valid-20.part
expect 1 "begun with --hold-out, continued without it" "was begun with --hold-out 20: --resume" "$trf" prepare \
    --model start --output again.tokens \
    --resume often.tsv
expect 1 "begun with another" "was begun with --hold-out 20: --resume" "$trf" prepare --model start \
    --output again.tokens --hold-out 30 --resume often.tsv
expect 0 "begun again with another" "" "$trf" prepare --model start --output again.tokens --hold-out 30 \
    --overwrite often.tsv
check "--overwrite leaves two files" [ "$(ls again.tokens* | wc -l)" -eq 2 ]
expect 1 "complete without --hold-out, continued with it" "was made without --hold-out" "$trf" prepare --model start \
    --output train.tokens \
    --hold-out 20 --resume train.tsv
cp held.tokens.valid pairs.valid
for side in 1 2; do cut -f$side often.tsv >often.$side; done
expect 0 "held out of two files" "" "$trf" prepare $hold --overwrite --source often.1 --target often.2
check "the same pairs are held out of other files" same pairs.valid held.tokens.valid
expect 0 "held out of standard input" "" "$trf" prepare $hold --overwrite <often.tsv
check "the same pairs are held out of standard input" same pairs.valid held.tokens.valid
mkdir texts
cp often.tsv texts/a.tsv
for how in "" --overwrite; do
    expect 0 "held out of a folder $how" "" "$trf" prepare --model start --output texts/b.tokens \
        --hold-out 20 $how texts
    check "the same pairs, of a folder $how" same pairs.valid texts/b.tokens.valid
    check "the same tokens, of a folder $how" same held.tokens texts/b.tokens
done
# a tab within a text would make a third column
sed '1,5000s/ /\t/' often.1 >tabs.1
expect 0 "tabs in a source" "" "$trf" prepare $hold --overwrite --source tabs.1 --target often.2
check "prepare: no pair with a tab is written to the text that is held out" \
    awk -F '\t' 'NF != 2 { bad = 1 } END { exit bad }' held.tokens.valid
# the same pairs again with tabs in their targets
cat often.1 often.1 >twice.1
{ cat often.2; sed 's/ /\t/g' often.2; } >twice.2
expect 0 "prepare holds pairs out of targets with tabs" "" "$trf" prepare $hold --overwrite --source twice.1 \
    --target twice.2
check "prepare: pairs with tabs change nothing of what is held out" same pairs.valid held.tokens.valid
paste twice.1 twice.2 | awk -F '\t' 'FNR == NR { held[$1]; next } !($1 in held)' held.tokens.valid - >rest.tsv
cut -f 1 rest.tsv >rest.1
cut -f 2- rest.tsv >rest.2
expect 0 "train on the pairs whose source is not held out" "" "$anew" train --source rest.1 --target rest.2 $validated \
    --model text.model
expect 0 "train on the tokens of pairs with tabs" "" "$anew" train --token-file held.tokens $validated \
    --model tokens.model
check "prepare: a source that is held out is not trained on in a pair with a tab" same text.model tokens.model
for how in "" --pack; do
    rm -f t.tokens*
    expect 0 "lines held out $how" "held out: [0-9]* lines, of which" "$trf" prepare --model lm --output t.tokens \
        --hold-out 9 $how text
    grep -v -x -F -f t.tokens.valid text >rest.text
    expect 0 "from the lines that are not held out, as text $how" "" "$anew" train $causal --text rest.text \
        --valid-text t.tokens.valid \
        --vocab-from lm --updates 20 $how --model text.model
    expect 0 "from the lines that are not held out, as tokens $how" "" "$anew" train $causal --token-file t.tokens \
        --valid-text t.tokens.valid \
        --vocab-from lm --updates 20 $how --model tokens.model
    check "the same language model without what is held out $how" same text.model tokens.model
    head -c $(($(wc -c <t.tokens) * 2 / 3)) t.tokens >m.tokens.part
    rm -f m.tokens
    : >m.tokens.valid-9.part
    expect 0 "lines held out, continued $how" "" "$trf" prepare --model lm --output m.tokens --hold-out 9 $how \
        --resume text
    check "the same files of lines $how" sh -c "cmp -s t.tokens m.tokens && cmp -s t.tokens.valid m.tokens.valid"
done
expect 2 "--hold-out 1 leaves nothing" "leaves nothing to train on" "$trf" prepare --model start --output x.tokens \
    --hold-out 1 train.tsv
expect 2 "lines of a document" "give the validation a file of its own" "$trf" prepare --model chars --output x.tokens \
    --hold-out 9 --documents file text
expect 1 "--hold-out of too large a number" "holds nothing out of this text: give a smaller number" "$trf" prepare \
    --model start \
    --output x.tokens --hold-out 123456789 train.tsv
check "no token file is written without its validation" [ ! -e x.tokens ]
rm -f x.tokens*
expect 1 "an empty text to hold out of" "nothing to learn from" \
    sh -c "'$trf' prepare --model start --output x.tokens --hold-out 20 </dev/null"
check "an empty text leaves nothing beside" [ -z "$(ls x.tokens* 2>/dev/null)" ]
expect 1 "--model is the file for what is held out" "is the file that --model reads" \
    sh -c "cp start y.tokens.valid
        '$trf' prepare --model y.tokens.valid --output y.tokens --hold-out 20 --overwrite train.tsv"
expect 1 "a text is what is held out" "is also a text to read" \
    sh -c "cp train.tsv z.tokens.valid
        '$trf' prepare --model start --output z.tokens --hold-out 20 --overwrite z.tokens.valid"

# --- damage -----------------------------------------------------------------------------------------------------------
head -c $((size - 1)) large.tokens >cut.tokens
expect 1 "a file that is cut" "cut.tokens: byte [0-9]*: expected the end of a token file" "$trf" train \
    --token-file cut.tokens $from_text --model w.model
{ head -c 9000 large.tokens; printf X; tail -c +9002 large.tokens; } >bad.tokens
expect 1 "a damaged file" "bad.tokens: byte [0-9]*: the pair that begins here is damaged" "$trf" train \
    --token-file bad.tokens --valid-size 0 --vocab-from start $small --updates 900 --model x.model
damaged="--token-file now.tokens --valid-size 0 --vocab-from start $small --updates 900"
for batches in 1 3; do
    cp bad.tokens now.tokens
    expect 1 "a damaged file, $batches batches an update" \
        "kept.checkpoint is complete: the same command with --resume continues" \
        "$trf" train $damaged --accumulate $batches --model kept --overwrite
    cp large.tokens now.tokens
    expect 0 "after damage, the whole file goes on" "resumed from update" "$trf" train $damaged --accumulate $batches \
        --model kept \
        --resume
    expect 0 "an unbroken run" "" "$trf" train $damaged --accumulate $batches --model unbroken --overwrite
    check "after damage, the model is that of an unbroken run" same kept unbroken
    check "after damage, the checkpoint is that of an unbroken run" same kept.checkpoint unbroken.checkpoint
done
expect 1 "--token-file of text" "byte 0: not a token file" "$trf" train --token-file train.tsv $from_text \
    --model y.model
expect 0 "a model with another vocabulary" "" "$trf" train --tsv letters.tsv $small --updates 1 --valid-size 0 \
    --tokens characters \
    --model letters
expect 1 "tokens of another vocabulary" "written with another vocabulary" "$trf" train --token-file train.tokens \
    --valid-size 0 --updates 1 --vocab-from letters --model y.model

# --- refusals ---------------------------------------------------------------------------------------------------------
expect 2 "trf prepare without a model" "give --model" "$trf" prepare --output x.tokens
expect 1 "trf prepare: the first argument is the model" "'train.tsv' is taken for the model" "$trf" prepare \
    --output x.tokens train.tsv
expect 2 "trf prepare without an output" "give --output" "$trf" prepare --model start train.tsv
expect 2 "trf prepare with a source alone" "give --source FILE and --target FILE" "$trf" prepare --model start \
    --output x.tokens \
    --source train.digits
expect 2 "trf prepare with files given twice" "or only files of pairs" "$trf" prepare --model start \
    --output x.tokens $files train.tsv
expect 1 "trf prepare whose output is an input" "is also a text to read" "$trf" prepare --model start \
    --output train.tsv train.tsv
cp train.tsv train.part
expect 1 "an unfinished output is an input" "would replace 'train.part', which is also a text to read" "$trf" prepare \
    --model start --output train train.part --overwrite
cp train.digits digits.part
expect 1 "an unfinished output is the source" "would replace 'digits.part'" "$trf" prepare --model start \
    --output digits --source digits.part --target train.names --overwrite
expect 1 "trf prepare whose output is the target, by another name" "'./train.names' is the file that --target reads" \
    "$trf" prepare \
    --model start --output ./train.names $files --overwrite
check "refused outputs leave the texts as they were" \
    sh -c "cmp -s train.tsv train.part && cmp -s train.digits digits.part"
expect 1 "trf prepare whose output exists" "exists: --overwrite replaces it" "$trf" prepare --model start \
    --output train.tokens train.tsv
expect 1 "trf prepare of a file that is not there" "cannot read 'nowhere'" "$trf" prepare --model start \
    --output x.tokens nowhere
expect 2 "trf prepare of labels" "has no labels" "$trf" prepare --model start --objective classify \
    --output x.tokens train.tsv
expect 2 "a text for a model of pairs" "has no effect on --objective translate" "$trf" prepare --model start \
    --pack --output x.tokens train.tsv
expect 2 "an empty name" "give --output" "$trf" prepare --model start --output "" train.tsv
expect 1 "an empty text" "nothing to learn from" sh -c "'$trf' prepare --model start --output x.tokens </dev/null"
check "an empty text leaves nothing" [ ! -e x.tokens.part ]
expect 1 "trf prepare --strict ends at a bad line" "odd.tsv:601: no tab" "$trf" prepare --model start \
    --strict --output x.tokens odd.tsv
rm -f x.tokens.part
expect 2 "text and tokens" "--token-file has the data" "$trf" train --token-file train.tokens \
    --tsv train.tsv $from_text --model y.model
expect 2 "tokens without vocabularies" "needs the vocabularies" "$trf" train --token-file train.tokens --valid-size 0 \
    --updates 1 --model y.model
expect 2 "tokens with nothing held out to validate on" "nothing is held out" "$trf" train --token-file train.tokens \
    --vocab-from start \
    --updates 1 --model y.model
expect 2 "labels from tokens" "needs the text" "$trf" train --token-file train.tokens --objective classify \
    --vocab-from start --valid-size 0 --updates 1 --model y.model
expect 1 "a vocabulary for one side" "--vocab-from 'lm': it has no source vocabulary" "$trf" train --tsv train.tsv \
    --vocab-from lm --updates 1 --model y.model
expect 2 "--vocab-from beside --init-from" "does not work with it" "$trf" train --tsv train.tsv --vocab-from start \
    --init-from start \
    --updates 1 --model y.model
expect 1 "longer than the model" "max_length" "$trf" train --token-file large.tokens --valid-size 0 --vocab-from start \
    --updates 1 --max-length 3 --model y.model

finish

#!/bin/sh
# trf translate and trf score: sh tests/test_trf_translate.sh build/trf
#
# Each line of the input has a line of answers, whatever is in it. Beams, scores, n-best lists, JSON,
# prefixes, alignments; files and pipes that are full, closed, or read and written at once; words
# that the model does not know; answers that reach the longest length.

. "$(dirname "$0")/trf.sh"

trf=$anew

# --- learning and translating -------------------------------------------------------------------
expect 0 "train: a translator learns digits for 400 updates" "^validation: update 400 .*perplexity" "$trf" train \
    --tsv more.tsv --valid-tsv test.tsv --model good --d-model 64 --n-heads 4 --d-ff 128 --encoder-layers 1 \
    --decoder-layers 1 --schedule inverse-sqrt --learning-rate 0.003 --warmup 100 --dropout 0 --batch-tokens 300 \
    --seed 3 --max-length 12 --threads 1 --updates 400
expect 0 "translate: a file is translated into a file" "" "$trf" translate --model good --input test.digits \
    --output answers
check "translate: every input line has an output line" lines_are 40 answers
right=$(paste answers test.names | awk -F '\t' '$1 == $2' | wc -l)
check "translate: at least 34 of 40 answers are right ($right)" test "$right" -ge 34
"$trf" translate --model good --buffer 7 --threads 2 <test.digits >piped
check "translate: standard input, in batches of 7 by two threads, gets the answers of a file" same answers piped
"$trf" translate --model good --interactive <test.digits >single
mkfifo typed
"$trf" translate --model good --interactive <typed >answered 2>/dev/null &
exec 3>typed
head -n 1 test.digits >&3
wait_for . answered
check "translate --interactive: an answer comes before the next line is typed" test "$(wc -l <answered)" -eq 1
exec 3>&-
wait $!
check "translate --interactive: lines typed into a pipe get the answers that a file gets" same answers single
"$trf" translate --model good --weights int8 --threads 2 <test.digits >small
check "translate --weights int8: every input line has an output line" lines_are 40 small
right=$(paste small test.names | awk -F '\t' '$1 == $2' | wc -l)
check "translate --weights int8: at least 34 of 40 answers are right ($right)" test "$right" -ge 34
"$trf" translate --model good --scores <test.digits >full_scores
"$trf" translate --model good --scores --weights int8 <test.digits >small_scores
check "translate --weights int8: scores are not those of full weights" sh -c '! cmp -s full_scores small_scores'
expect 0 "quantize: a file with weights of 8 bits is written" "" "$trf" quantize good --weights int8 --output good8
check "quantize: weights of 8 bits take less than half the bytes of the model" test "$(($(wc -c <good8) * 2))" \
    -lt "$(wc -c <good)"
expect 1 "quantize: an output that exists is refused" "good8" "$trf" quantize good --weights int8 --output good8
"$trf" translate --model good8 <test.digits >from_file
check "quantize: a file of 8 bits gives the answers of translate --weights int8" same small from_file
"$trf" quantize good --weights bf16 --output good16
"$trf" translate --model good --weights bf16 --scores <test.digits >scores16
"$trf" translate --model good16 --weights bf16 --scores <test.digits >from_file
check "quantize: a file of 16 bits gives the scores of translate --weights bf16" same scores16 from_file
for kind in full bf16 int8; do
    "$trf" quantize good --packed --weights $kind --output good.$kind
    "$trf" translate --model good.$kind --scores <test.digits >from_packed
    "$trf" translate --model good --weights $kind --scores <test.digits >from_file
    check "quantize --packed --weights $kind: scores are those of translate --weights $kind" \
        same from_file from_packed
done
"$trf" quantize good8 --packed --output packed8
"$trf" translate --model packed8 <test.digits >from_packed
check "quantize --packed: a file of 8 bits can be packed" same small from_packed
expect 1 "quantize: a packed file has no other form" "is packed with TRF_WEIGHTS_FULL" "$trf" quantize good.full \
    --packed --weights int8 --output none
expect 2 "quantize --packed: f16 is refused" "--packed takes --weights full, bf16 or int8" "$trf" quantize good \
    --packed --weights f16 --output none
expect 1 "train: --init-from refuses a packed file" "good.full: a packed file" "$trf" train $files \
    --init-from good.full --model none
expect 0 "inspect: a packed file" "" "$trf" inspect good.full
check "inspect: says that a file is packed" grep -q "^file: good.full, a packed model" out
expect 1 "average: a model of 8 bits is refused with --weights full" "good8: a packed file, or one with weights of 8" \
    "$trf" average good8 --weights full --output good32
expect 1 "translate: a model of 8 bits is refused with --weights bf16" "good8: --weights bf16 cannot be made" \
    "$trf" translate --model good8 --weights bf16
expect 1 "train: --init-from refuses a model of 8 bits" "good8: a packed file, or one" "$trf" train $files \
    --init-from good8 --model good32
check "train: the refusal of a model of 8 bits is told once" test "$(grep -c "^trf train" err)" -eq 1
expect 0 "quantize: -o names the output" "" "$trf" quantize good --weights int8 -o short8
check "quantize: -o and --output write the same file" same good8 short8
expect 2 "quantize: -o together with --output is refused" "output is given twice" "$trf" quantize good --weights int8 \
    -o a --output b
expect 2 "quantize: -o without a name is refused" "-o needs a value" "$trf" quantize good --weights int8 -o
expect 2 "train: -o is refused as unknown" "unknown option '-o'" "$trf" train $files -o good32
expect 2 "quantize: no model is refused" "give one model" "$trf" quantize --weights int8 --output good32
expect 2 "quantize: a model without --weights is refused" "give --weights" "$trf" quantize good --output good32
expect 2 "translate: --weights f16 is refused with the values that exist" "--weights takes full|bf16|int8, got .f16." \
    "$trf" translate --model good --weights f16
printf '1 2\n\n  \n1 2 3 4 5 6 7 8 9 1 2 3\n\377\n1\0002\n4 5 unknown\n7' >odd
expect 1 "translate: a line that is too long is named" "odd:4: .*12 tokens, at most 11" "$trf" translate --model good \
    --input odd
check "translate: every line has an output line, whether it can be translated or not" lines_are 8 out
check "translate: empty lines and those that cannot be translated have empty answers" \
    test "$(sed -n '2,6p' out | tr -d '\n')" = ""
check "translate: a last line without a line end is translated" test "$(sed -n 8p out)" = \
    "$(echo 7 | "$trf" translate --model good)"
check "translate: each of three lines that cannot be translated is named" test "$(grep -c 'odd:[456]:' err)" -eq 3
printf '1 2\n\n7\n' >three
expect 0 "translate --n-best 3: an output line has line number, rank, score and text" "^1	1	-[0-9.]*	two one$" \
    "$trf" translate --model good --input three --n-best 3
check "translate --n-best 3: every line has the ranks 1 to 3, an empty one too" \
    test "$(cut -f1,2 out | tr '\t\n' '. ')" = "1.1 1.2 1.3 2.1 3.1 3.2 3.3 "
expect 0 "translate --scores: the score is before the answer, with --search-rule fairseq" "^-[0-9.]*	two one$" \
    "$trf" translate --model good --input three --scores --search-rule fairseq
expect 0 "translate --scores: the score is before the answer, with --search-rule hugging-face" "^-[0-9.]*	two one$" \
    "$trf" translate --model good --input three --scores --search-rule hugging-face --min-length 2 \
    --renormalize-logits yes
expect 2 "translate: --n-best 9 is refused with --beam 4" "--n-best 9 needs a --beam of 9 or more, got 4" \
    "$trf" translate --model good --input three --beam 4 --n-best 9
expect 0 "translate: --n-best 9 without --beam gives 9 answers" "^1	9	" "$trf" translate --model good --input three \
    --n-best 9
expect 1 "translate: --output of the file that --input reads is refused" "is the file that --input reads" \
    "$trf" translate --model good --input three --output three
expect 1 "translate: --output of the file that standard input reads is refused" "standard input reads" \
    sh -c "'$trf' translate --model good --output three <three"
check "translate: a file of standard input that --output names keeps its lines" lines_are 3 three
cp good kept
expect 1 "translate: --output of the file that --model reads is refused" "is the file that --model reads" \
    "$trf" translate --model good --input three --output good
check "translate: a model that --output names stays as it was" same good kept
echo "3 1 4" >314
expect 0 "translate: a checkpoint is taken for a model" "" "$trf" translate --model good.checkpoint --input 314
expect 1 "translate: a model that is not there is refused by its name" "missing" "$trf" translate --model missing
expect 1 "translate: a text file is refused as a model" "three" "$trf" translate --model three
if [ -w /dev/full ]; then
    expect 1 "translate: a full disk is told by the name of the output" "cannot write /dev/full" "$trf" translate \
        --model good --input test.digits --output /dev/full
    expect 1 "--help: a full disk at standard output is told" "cannot write standard output" \
        sh -c "'$trf' --help >/dev/full"
fi

# --- scores -------------------------------------------------------------------------------------

printf '1 2\n' >notab.tsv
expect 0 "score: pairs of two files are scored and counted" "40 pairs, [0-9]* target tokens" "$trf" score --model good \
    --source test.digits --target test.names
cp out scores
check "score: every pair has an output line" lines_are 40 scores
check "score: an output line has a log-probability and two tokens or more" \
    test "$(awk -F '\t' '$1 <= 0 && $2 >= 2' scores | wc -l)" -eq 40
expect 0 "score: pairs of a TSV file are scored" "" "$trf" score --model good --tsv test.tsv
check "score: a TSV file gets the scores of its columns in two files" same out scores
expect 0 "score: pairs in batches of 3 are scored" "" "$trf" score --model good --tsv test.tsv --buffer 3
check "score: batches of 3 give nearly the same scores" \
    test "$(paste out scores | awk -F '\t' '($1 - $3) ^ 2 <= 1e-6 && $2 == $4' | wc -l)" -eq 40
awk -F '\t' '{ print $1 "\t" "nine " $2 }' test.tsv >wrong.tsv
expect 0 "score: wrong answers are scored" "" "$trf" score --model good --tsv wrong.tsv
check "score: at least 38 of 40 wrong answers score less than the right ones" \
    test "$(paste out scores | awk -F '\t' '$1 < $3' | wc -l)" -ge 38
expect 1 "score: files of 40 and 3 lines fail with both numbers" "test.digits has 40 lines, but three has 3" \
    "$trf" score --model good --source test.digits --target three --buffer 7
check "score: files of 40 and 3 lines have 40 output lines" lines_are 40 out
check "score: the 37 lines without a partner have nan and no tokens" test "$(grep -c "^nan	0$" out)" -eq 37
check "score: the first line without a partner is named" \
    grep -q "test.digits:4: not scored: the other file has no such line" err
cp test.digits precious
expect 1 "score: --output of the file that --target reads is refused" "is the file that --target reads" \
    "$trf" score --model good --source test.names --target precious --output precious
check "score: a target that --output names stays as it was" same precious test.digits
{ cat three; echo "1 2 3 4 5 6 7 8 9 1 2 3"; } >four
expect 1 "score: a pair that is too long is named" "four:4: not scored: 12 tokens, at most 11" \
    "$trf" score --model good --source four --target four
check "score: a pair that is too long has an output line" lines_are 4 out
expect 1 "score: a line without a tab is named" "notab.tsv:1: not scored: no tab" "$trf" score --model good \
    --tsv notab.tsv
check "score: a line without a tab has nan and no tokens" test "$(cat out)" = "nan	0"
expect 0 "train: a model of 40 updates is trained" "^done" "$trf" train $plain --updates 40 --model one
"$trf" score --model one --source train.digits --target test.names >out 2>err
check "score: of many lines without a partner, five are told" test "$(grep -c 'not scored' err)" -eq 5

# --- answers in other forms ---------------------------------------------------------------------
expect 0 "translate --json: a line is an object with source, tokens and answers" \
    '^{"line":1,"source":"1 2","source_tokens":\["1","2"\],"answers":\[{"text":"two one",.*'\
'"ended":"end","tokens":\["two","one"\]}\]}$' \
    "$trf" translate --model good --input three --json
check "translate --json: an empty line is an object without answers" grep -q '^{"line":2,"source":"","answers":\[\]}$' \
    out
printf 'a\377b\n' | "$trf" translate --model good --json >out 2>err
check "translate --json: a line that is not UTF-8 is an object that says unusable" \
    grep -q '^{"line":1,"source":".*","unusable":true,"answers":\[\]}$' out
expect 0 "translate --json --alignments --attention: answers have both" '"alignment":\[[01],[01]\],"attention":\[\[' \
    "$trf" translate --model good --input three --json --alignments --attention --n-best 2
if command -v python3 >/dev/null; then
    check "translate --attention: rows sum to one, and there is one for each token and EOS" python3 -c 'import json
for line in open("out"):
    for a in json.loads(line)["answers"]:
        assert all(abs(sum(row) - 1) < 1e-2 for row in a["attention"]) and len(a["attention"]) == len(a["tokens"]) + 1'
fi
expect 2 "translate: --prefixes and the input cannot both be standard input" \
    "only one of --prefixes and the input can be" sh -c "'$trf' translate --model good --prefixes - <three"
"$trf" translate --model good --input three --json --alignments 2>err |
    sed -e 's/.*"alignment":\[\([0-9,]*\)\].*/\1/' -e 's/^{.*//' |
    awk -F , '{ for (i = 1; i <= NF; i++) printf("%s%s-%d", (i > 1 ? " " : ""), $i, i - 1); print "" }' >pharaoh
expect 0 "translate --alignments writes them behind a tab" "" "$trf" translate --model good --input three --alignments
check "translate --alignments: the same as with --json" eval 'cut -f 2 out | cmp - pharaoh &&
    [ "$(grep -c - pharaoh)" -ge 2 ]'
printf 'nine\n' >prefixes
expect 0 "translate --prefixes: an answer begins with its prefix" "^nine" "$trf" translate --model good --input three \
    --prefixes prefixes
check "translate --prefixes: lines after the last prefix are translated freely" test "$(sed -n 3p out)" = seven
printf 'nin\351\n' >latin.prefixes
expect 1 "translate --prefixes: a prefix that is not UTF-8 is named" \
    "three:1: .*prefix of .latin.prefixes.: expected UTF-8, got the byte 0xE9 at offset 3" \
    "$trf" translate --model good --input three --prefixes latin.prefixes
check "translate --prefixes: lines after a prefix that is not UTF-8 are translated freely" test "$(sed -n 3p out)" = \
    seven
expect 0 "inspect --json: an object has the kind and the parts" \
    '"kind":"encoder-decoder".*"parts":{"source embedding":' "$trf" inspect good --json
if command -v python3 >/dev/null; then
    for file in good good.checkpoint; do
        [ ! -e $file ] || check "inspect --json: what is written for $file is JSON" \
            sh -c "'$trf' inspect $file --json | python3 -c 'import json, sys; json.load(sys.stdin)'"
    done
fi
printf 'nine\n\n\n\n\n\n\n\n\n\n' >prefixes
expect 1 "translate: more prefixes than lines are refused" "prefixes has more lines than three" "$trf" translate \
    --model good --input three --prefixes prefixes

# --- files and pipes that are full, closed, or read and written at once -------------------------
cp three growing
expect 1 "translate: output that is appended to the input is refused" "which is also read" \
    sh -c "'$trf' translate --model good --input growing >>growing"
expect 1 "translate: output that is appended to the file of standard input is refused" "standard input reads" \
    sh -c "'$trf' translate --model good <growing >>growing"
check "translate: an input to which the output would be appended stays as it was" same three growing
expect 2 "score: one stream for both sides is refused" "cannot both be" \
    sh -c "cat three | '$trf' score --model good --source /dev/stdin --target /dev/stdin"
"$trf" translate --model good --input odd --output quiet 2>&- || true
expect 1 "translate: a closed standard output is told" "cannot write standard output" \
    sh -c "'$trf' translate --model good --input odd >&-"
check "translate: with a closed standard error no message gets into the output file" test "$(grep -c "trf" quiet)" -eq 0
awk 'BEGIN { for (i = 0; i < 2000; i++) print "1 2 3" }' >long.input
"$trf" translate --model good --beam 1 --input long.input 2>err | head -n 1 >out
check "translate: a reader that leaves early causes no message" test "$(cat err)" = ""
(ulimit -f 1; "$trf" translate --model good --beam 1 --n-best 1 --input long.input --output limited) \
    2>err
check "translate: an output file that may not grow is told" grep -q "cannot write limited: File too large" err
cp one precious
for name in /dev/stdout precious; do
    "$trf" translate --model precious --input test.digits --output $name >>precious 2>err
    check "translate: answers that would be appended to the model are refused ($name)" test $? -eq 1
done
check "translate: a model to which answers would be appended stays as it was" same one precious
echo old >all
"$trf" translate --model one --input test.digits --output /dev/stdout >>all 2>/dev/null
check "translate: --output /dev/stdout appends to the file of standard output" test "$(head -n 1 all)" = old \
    -a "$(wc -l <all)" -eq 41
perl -e 'my $h = q({"w":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}});
    print pack("Q<", length $h), $h, pack("d<2", 1, 1e300)' >wide
expect 0 "inspect: a number too large for a float is told" "1 NOT FINITE as float32" "$trf" inspect wide
expect 1 "translate: a safetensors file without a configuration is refused" "a safetensors file of another program" \
    "$trf" translate --model wide --input test.digits
expect 1 "train: --init-from refuses a safetensors file without a configuration" \
    "a safetensors file of another program" "$trf" train $plain --init-from wide --updates 1 --model m

# --- unknown words ------------------------------------------------------------------------------
awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" n " digits" }' train.tsv >counts.tsv
expect 0 "train: a classifier of counts is trained" "^done" "$trf" train --objective classify --tsv counts.tsv $quick \
    --updates 1 --model counts
expect 0 "train: a language model is trained" "^done" "$trf" train --objective causal --text train.names $quick \
    --updates 1 --model lm
awk 'BEGIN { split("sees likes knows meets", v, " "); split("voit aime connait rencontre", w, " "); x = 7
    for (i = 0; i < 1500; i++) {
        x = (x * 1103515245 + 12345) % 2147483648; y = int(x / 65536)
        a = y % 2 ? "anna" : "N" i; b = y % 4 > 1 ? "bert" : "M" i; k = 1 + int(y / 4) % 4
        print a " " v[k] " " b "\t" a " " w[k] " " b } }' >names.tsv
expect 0 "train: a translator of sentences with rare names is trained" "^done" "$trf" train --tsv names.tsv \
    --tokens words --min-count 5 --model rare --d-model 64 --n-heads 2 --d-ff 128 --encoder-layers 1 \
    --decoder-layers 1 --batch-tokens 512 --updates 400 --warmup 60 --threads 1 --metric loss --dropout 0
printf 'zoe sees bert\nanna likes Xaver\n\nzoe knows Xaver\nanna meets bert\n' >asked
expect 0 "translate: unknown words are counted at the end" \
    "^trf translate: 4 of 12 tokens of the input are unknown to the model, the first one in line 1$" \
    "$trf" translate asked --model rare
expect 0 "translate --unknown report: the unknown words of a line are named" \
    "^trf translate: asked:4: unknown to the model: 'zoe', 'Xaver'$" "$trf" translate asked --model rare \
    --unknown report
check "translate --unknown report: each of three lines with unknown words is named" \
    test "$(grep -c 'asked:.*unknown to the model' err)" -eq 3
expect 0 "translate --unknown copy: a text with unknown words is translated" "" "$trf" translate asked --model rare \
    --unknown copy
printf 'zoe voit bert\nanna aime Xaver\n\nzoe connait Xaver\nanna rencontre bert\n' >wanted
check "translate --unknown copy: unknown words are copied to where they belong" same out wanted
expect 0 "translate --unknown drop: a text with unknown words is translated" "" "$trf" translate asked --model rare \
    --unknown drop
printf 'voit bert\nanna aime\n\nconnait\nanna rencontre bert\n' >wanted
check "translate --unknown drop: unknown words are gone from the answers" same out wanted
expect 0 "translate --json: unknown words of a line are listed" \
    '"unknown_words":\["zoe","Xaver"\],"answers":\[{"text":"zoe connait Xaver"' "$trf" translate \
    asked --model rare --unknown copy --json
check "translate --json: three of five lines list unknown words" test "$(grep -c unknown_words out)" -eq 3
expect 0 "translate --allow-unk no: a text with unknown words is translated" "" "$trf" translate asked --model rare \
    --allow-unk no
check "translate --allow-unk no: no answer has an unknown word" eval '! grep -q unk out && lines_are 5 out'
expect 0 "translate: an answer has an unknown word if --allow-unk is not given" "unk" "$trf" translate asked --model \
    rare
expect 2 "translate: --unknown copy is refused with --allow-unk no" "--allow-unk no allows none" "$trf" translate \
    asked \
    --model rare --unknown copy --allow-unk no
expect 2 "translate: --unknown copy is refused for a language model" "--unknown copy needs source words" \
    "$trf" translate train.names --model lm --unknown copy
expect 0 "translate: a text with few unknown words is translated" "" \
    sh -c "head -n 200 names.tsv | grep 'anna.*bert' | cut -f 1 | cat - asked | '$trf' translate --model rare"
check "translate: unknown words below a twentieth are not told" test ! -s err
expect 0 "classify: unknown words are counted at the end" \
    "trf classify: 4 of 12 tokens of the input are unknown to the model, the first one in line 1$" \
    sh -c "printf '3 x\n\n1 1 1 1 1 1 1\ny z y\n' | '$trf' classify --model counts"
printf 'zoe sees bert\tanna voit bert\n' >rare.tsv
expect 0 "score: unknown words of the sources are counted at the end" \
    "trf score: 1 of 3 tokens of the sources is unknown to the model, the first one in line 1$" \
    "$trf" score rare.tsv --model rare
check "score: a side without unknown words is not told" \
    eval '! grep -q targets err && grep -q "^1 pair, 4 target tokens" err'
expect 0 "translate: answers that reach the length limit are counted" \
    "^trf translate: 4 of 4 answers reached the length limit (--max-length-a, --max-length-b) without EOS$" \
    "$trf" translate asked --model rare --beam 1 --max-length-a 0 --max-length-b 2
expect 0 "translate: --min-length beyond the length limit is told" \
    "; for 4 of them, --min-length 9 is not below the limit$" "$trf" translate asked --model rare --max-length-a 0 \
    --max-length-b 5 --min-length 9
expect 0 "translate: a text whose answers end by themselves is translated" "" "$trf" translate asked --model rare
check "translate: answers that end by themselves are not counted as reaching the limit" \
    eval '! grep -q "length limit" err'

# --- rules of a search --------------------------------------------------------------------------
# A source is a tag and digits; the tag says in which words the answer is.
awk 'BEGIN { split("un deux trois", fr, " "); split("one two three", en, " ")
    for (i = 0; i < 900; i++) { x = 1 + i % 3; y = 1 + int(i / 3) % 3; e = int(i / 9) % 2
        print (e ? "<en> " : "<fr> ") x " " y "\t" (e ? en[x] " " en[y] : fr[x] " " fr[y]) } }' >tags.tsv
expect 0 "train: a translator into two languages, by a tag in the source, is trained" "^done" "$trf" train \
    --tsv tags.tsv --tokens words --min-count 1 --model tags --d-model 32 --n-heads 2 --d-ff 64 --encoder-layers 1 \
    --decoder-layers 1 --batch-tokens 512 --updates 300 --warmup 60 --threads 1 --metric loss --dropout 0
printf '1 2\n3 3\n' >untagged
printf '<en> 1 2\n<en> 3 3\n' >tagged
expect 0 "translate: a tag in the text sets the language" "^three three$" "$trf" translate tagged --model tags
cp out wanted
expect 0 "translate --source-first: a tag sets the language" "^one two$" "$trf" translate untagged --model tags \
    --source-first '<en>'
check "translate --source-first: a tag gives the answers of that tag in the text" same out wanted
expect 0 "translate --source-first: another tag sets another language" "^un deux$" "$trf" translate untagged \
    --model tags --source-first '<fr>'
for id in 4 5 6 7 8 9; do
    "$trf" translate untagged --model tags --source-first "$id" >by_id 2>/dev/null
    same by_id wanted && break
done
check "translate --source-first: the id of a tag gives the answers of the tag" same by_id wanted
expect 0 "translate --forced-first: what follows the forced word is written" "^two$" "$trf" translate untagged \
    --model tags --source-first '<en>' --forced-first one
check "translate --forced-first: the forced word is not part of the answer" test "$(head -n 1 out)" = two
expect 0 "translate --start: an id of a token is taken" "" "$trf" translate tagged --model tags --start 1
cp out by_start
expect 0 "translate: a text is translated without --start" "" "$trf" translate tagged --model tags
check "translate --start: the id of the model's own start changes nothing" same out by_start
expect 2 "translate: a --start that is no token of the model is refused" \
    "^trf translate: --start '<de>' is neither a token of the model nor an id" "$trf" translate tagged --model tags \
    --start '<de>'
expect 0 "translate --ban: a text is translated with banned words" "" "$trf" translate tagged --model tags --ban three \
    --ban 'one two'
check "translate --ban: no answer has a banned word, or banned words in a row" \
    eval '! grep -q -e three -e "one two" out'
printf 'three\n\none two\n' >bans
cp out wanted
expect 0 "translate --ban-file: a text is translated with a file of banned words" "" "$trf" translate tagged \
    --model tags --ban-file bans
check "translate --ban-file: answers are those of --ban with the same words" same out wanted
printf '%s\n' one two three un deux trois >all.bans
expect 0 "translate: rules that leave no token are told" \
    "^trf translate: 2 of 2 answers ended where no token was allowed" \
    "$trf" translate tagged --model tags --ban-file all.bans --allow-unk no --min-length 1
expect 0 "translate: --json says of an answer that no token was allowed" '"ended":"no token"' "$trf" translate tagged \
    --model tags --ban-file all.bans --allow-unk no --min-length 1 --json
expect 0 "translate --no-repeat-ngram 1: a text is translated" "" "$trf" translate tagged --model tags \
    --no-repeat-ngram 1
check "translate --no-repeat-ngram 1: no answer has a word twice" eval '! grep -q "three three" out'
expect 0 "translate --phrase: a text is translated with two phrases" "" "$trf" translate tagged --model tags \
    --phrase 'two three' --phrase one --beam 8
check "translate --phrase: both phrases are in both answers" [ "$(grep -c 'two three' out)$(grep -c one out)" = 22 ]
expect 0 "translate --phrase: an answer of greedy search has the phrase" "un" "$trf" translate tagged \
    --model tags --phrase un --beam 1
expect 0 "translate --phrase: a phrase that is longer than the length limit is taken" "" "$trf" translate tagged \
    --model tags --phrase 'two three one' --beam 4 --max-length-a 0 --max-length-b 2
check "translate --phrase: answers begin with a phrase that is longer than the length limit" \
    [ "$(grep -c 'two three' out)" = 2 ]
expect 2 "translate: a --phrase with an unknown word is refused" \
    "^trf translate: --phrase 'vier': the model does not know all of its tokens" "$trf" translate tagged --model tags \
    --phrase vier
expect 2 "translate: an empty --phrase is refused" "^trf translate: --phrase '' has no tokens$" "$trf" translate \
    tagged --model tags --phrase ''
expect 0 "translate: a --phrase for which there is no room is told" "the answer has 'one one" \
    "$trf" translate tagged --model tags --phrase "$(awk 'BEGIN { for (i = 0; i < 65; i++) printf "one " }')"
expect 0 "translate --repetition-penalty 1000: a text is translated" "" "$trf" translate tagged --model tags \
    --repetition-penalty 1000 --beam 2
check "translate --repetition-penalty 1000: no answer has a word twice" eval '! grep -q "three three" out'
# the same rules in sampling
expect 0 "generate --temperature 0: the likeliest text is written" "^three three$" "$trf" generate --model tags \
    --input tagged --temperature 0
expect 0 "generate --forced-first: the forced word is not part of the text" "^two$" "$trf" generate --model tags \
    --input tagged --temperature 0 --forced-first one
expect 0 "generate --ban, --ban-file: 20 texts are drawn" "" \
    "$trf" generate --seed 1 --model tags --input tagged --count 20 \
    --ban three --ban-file bans
check "generate --ban, --ban-file: no text has a banned word, or banned words in a row" \
    eval '! grep -q -e three -e "one two" out'
expect 0 "generate --no-repeat-ngram 1: 20 texts are drawn" "" \
    "$trf" generate --seed 1 --model tags --input tagged --count 20 \
    --no-repeat-ngram 1
check "generate --no-repeat-ngram 1: no text has a word twice" \
    eval '! grep -q -e "three.*three" -e "two.*two" -e "one.*one" out'
expect 2 "generate: an empty --ban is refused" "^trf generate: --ban '' has no tokens$" "$trf" generate --model tags \
    --input tagged --ban ''
expect 2 "generate: EOS as --forced-first is refused" "^trf generate: --forced-first must not be EOS$" "$trf" generate \
    --model tags --input tagged --forced-first 2
expect 2 "generate: --forced-first is refused for a language model" \
    "^trf generate: --forced-first needs an encoder-decoder model" "$trf" generate --model lm --forced-first one
expect 2 "generate: a negative --no-repeat-ngram is refused" "no-repeat-ngram" "$trf" generate --model tags \
    --input tagged --no-repeat-ngram -1
expect 0 "translate: --end by its text and by an id" "" "$trf" translate tagged --model tags --end three --end 2
check "translate: no answer has the token that --end names" eval '! grep -q three out'
expect 0 "generate: --end" "" "$trf" generate --seed 1 --model tags --input tagged --count 20 --end three
check "generate: no text has the token that --end names" eval '! grep -q three out'
expect 2 "generate: an unknown --end is refused with its name" "^trf generate: --end 'vier' is neither a token" \
    "$trf" generate --model tags --input tagged --end vier
expect 2 "translate: a first token that is an end is refused" "--forced-first must not be one of the ends" \
    "$trf" translate tagged --model tags --forced-first one --end one
expect 2 "translate: seventeen ends are refused" "^trf translate: --end may be given 16 times" "$trf" translate tagged \
    --model tags $(awk 'BEGIN { for (i = 0; i < 17; i++) printf "--end one " }')
expect 0 "translate --at-limit free-eos: answers of one word have a score" "^0.000000	one$\|^-[0-9.]*	one$" \
    "$trf" translate tagged --model tags --scores --at-limit free-eos --max-length-a 0 --max-length-b 1
expect 2 "translate: a --source-first that is no token of the model is refused" \
    "^trf translate: --source-first '<de>' is neither a token of the model nor an id from 0 to" "$trf" translate \
    untagged --model tags --source-first '<de>'
expect 2 "translate: a --forced-first that is no id of the model is refused" "neither a token" "$trf" translate \
    untagged --model tags --forced-first 99999
expect 2 "translate: an empty --ban is refused" "^trf translate: --ban '' has no tokens$" "$trf" translate tagged \
    --model tags --ban ''
expect 2 "translate: an unknown word in a --ban-file is refused by its line" \
    "^trf translate: bans:2 'vier': the model does not know all of its tokens" \
    sh -c "printf 'one\nvier\n' >bans; '$trf' translate tagged --model tags --ban-file bans"
expect 1 "translate: a --ban-file that is not there is refused by its name" "nowhere" "$trf" translate tagged \
    --model tags --ban-file nowhere
expect 2 "translate: EOS as --forced-first is refused" "--forced-first must not be EOS" "$trf" translate tagged \
    --model tags --forced-first 2
for file in tagged untagged; do
    if [ $file = tagged ]; then set --; else set -- --source-first '<en>'; fi
    expect 0 "translate --attention --alignments: the text that is $file has both" '"alignment":' "$trf" translate \
        $file --model tags --json --alignments --attention "$@"
    sed 's/.*"attention"://' out >$file.attention
    sed 's/.*"alignment":.\([0-9],[0-9]\).*/\1/' out >$file.alignment
done
# a prefix replaces --forced-first: answers have as many rows of attention as tokens and EOS
printf 'three\n\n' >starts
expect 0 "translate --attention: a text with prefixes is translated" "" "$trf" translate tagged --model tags --json \
    --alignments --attention --forced-first one --prefixes starts
check "translate --attention: a forced token that a prefix replaces has no row" \
    [ "$(sed 's/.*"attention"://; s/\],\[/\n/g' out | wc -l)" -eq "$(sed 's/.*"alignment":.//; s/\].*//' out |
    awk -F , 'NR == 1 { n += NF + 1 } NR == 2 { n += NF + 2 } END { print n }')" ]
check "translate --attention: a tag in the text has the rows of one by --source-first" same tagged.attention \
    untagged.attention
sed 's/\]\]}.*//; s/^\[\[//; s/\],\[/ /g' untagged.attention |        # columns: the tag, two words, EOS
    awk '{ for (i = 1; i < 3; i++) { split($i, w, ","); printf("%d%s", w[3] > w[2], i < 2 ? "," : "\n") } }' >wanted
check "translate --alignments: the tag is not counted as a word of the source" same untagged.alignment wanted
expect 2 "translate: --source-first is refused for a language model" "--source-first needs an encoder-decoder model" \
    "$trf" translate train.names --model lm --source-first one
expect 1 "translate --source-first: a line of 511 tokens, the most without a tag, fails with one" "1 of 1 line" sh -c \
    "awk 'BEGIN { for (i = 0; i < 511; i++) printf \"1 \" }' | '$trf' translate --model tags --source-first '<en>'"

finish

#!/bin/sh
# trf translate and trf score: sh tests/test_trf_translate.sh build/trf
#
# Each line of the input has a line of answers, whatever is in it. Beams, scores, n-best lists, JSON,
# prefixes, alignments; files and pipes that are full, closed, or read and written at once; words
# that the model does not know; answers that reach the longest length.

. "$(dirname "$0")/trf.sh"

trf=$anew

# --- learning and translating -------------------------------------------------------------------
expect 0 "learn" "^validation: update 400 .*perplexity" \
    "$trf" train --tsv more.tsv --valid-tsv test.tsv --model good \
    --d-model 64 --n-heads 4 --d-ff 128 --encoder-layers 1 --decoder-layers 1 \
    --schedule inverse-sqrt \
    --learning-rate 0.003 --warmup 100 --dropout 0 --batch-tokens 300 --seed 3 \
    --max-length 12 --threads 1 --updates 400
expect 0 "translate" "" "$trf" translate --model good --input test.digits --output answers
check "a line for a line" lines_are 40 answers
right=$(paste answers test.names | awk -F '\t' '$1 == $2' | wc -l)
check "most answers are right ($right of 40)" test "$right" -ge 34
"$trf" translate --model good --batch 7 --threads 2 <test.digits >piped
check "standard input and output, other batches" same answers piped
"$trf" translate --model good --interactive <test.digits >single
mkfifo typed
"$trf" translate --model good --interactive <typed >answered 2>/dev/null &
exec 3>typed
head -n 1 test.digits >&3
wait_for . answered
check "an answer comes before the next line" test "$(wc -l <answered)" -eq 1
exec 3>&-
wait $!
check "line by line" same answers single
"$trf" translate --model good --weights int8 --threads 2 <test.digits >small
check "weights in 8 bits, line by line as many" lines_are 40 small
right=$(paste small test.names | awk -F '\t' '$1 == $2' | wc -l)
check "most of these are right too ($right of 40)" test "$right" -ge 34
"$trf" translate --model good --scores <test.digits >full_scores
"$trf" translate --model good --scores --weights int8 <test.digits >small_scores
check "and not the same numbers" sh -c '! cmp -s full_scores small_scores'
expect 0 "a file with weights of 8 bits" "" "$trf" quantize good --weights int8 --output good8
check "it is less than half as large" test "$(($(wc -c <good8) * 2))" -lt "$(wc -c <good)"
expect 1 "nothing is replaced unasked" "good8" "$trf" quantize good --weights int8 --output good8
"$trf" translate --model good8 <test.digits >from_file
check "the answers of its file are those of the option" same small from_file
"$trf" quantize good --weights bf16 --output good16
"$trf" translate --model good --weights bf16 --scores <test.digits >scores16
"$trf" translate --model good16 --weights bf16 --scores <test.digits >from_file
check "and in 16 bits" same scores16 from_file
expect 1 "8 bits go no further" "good8: its weights have 8 bits" "$trf" average good8 --weights full \
    --output good32
expect 1 "nor to 16" "good8: its weights have 8 bits" "$trf" translate --model good8 --weights bf16
expect 1 "nor in training" "good8: its weights have 8 bits" "$trf" train $files --init-from good8 --model good32
check "nothing else is said" test "$(grep -c "^trf train" err)" -eq 1
expect 0 "-o is --output" "" "$trf" quantize good --weights int8 -o short8
check "the same file" same good8 short8
expect 2 "-o once" "output is given twice" "$trf" quantize good --weights int8 -o a --output b
expect 2 "-o without a name" "-o needs a value" "$trf" quantize good --weights int8 -o
expect 2 "-o where nothing is written" "unknown option '-o'" "$trf" train $files -o good32
expect 2 "quantize what" "give one model" "$trf" quantize --weights int8 --output good32
expect 2 "quantize how" "give --weights" "$trf" quantize good --output good32
expect 2 "weights of files" "--weights takes full|bf16|int8, got .f16." "$trf" translate --model good --weights f16
printf '1 2\n\n  \n1 2 3 4 5 6 7 8 9 1 2 3\n\377\n1\0002\n4 5 unknown\n7' >odd
expect 1 "odd lines" "odd:4: .*12 tokens, at most 11" "$trf" translate --model good --input odd
check "still a line for a line" lines_are 8 out
check "empty where empty, and where impossible" test "$(sed -n '2,6p' out | tr -d '\n')" = ""
check "the last line without an end" test "$(sed -n 8p out)" = \
    "$(echo 7 | "$trf" translate --model good)"
check "each bad line is named" test "$(grep -c 'odd:[456]:' err)" -eq 3
printf '1 2\n\n7\n' >three
expect 0 "n best form" "^1	1	-[0-9.]*	two one$" "$trf" translate --model good --input three \
    --n-best 3
check "ranks" test "$(cut -f1,2 out | tr '\t\n' '. ')" = "1.1 1.2 1.3 2.1 3.1 3.2 3.3 "
expect 0 "scores" "^-[0-9.]*	two one$" "$trf" translate --model good --input three --scores \
    --search-rule fairseq
expect 0 "another search" "^-[0-9.]*	two one$" "$trf" translate --model good --input three \
    --scores \
    --search-rule hugging-face --min-length 2 --renormalize-logits yes
expect 2 "n best beyond the beam" "--n-best 9 needs a --beam of 9 or more, got 4" "$trf" translate \
    --model good --input three --beam 4 --n-best 9
expect 0 "the beam follows n best" "^1	9	" "$trf" translate --model good --input three --n-best 9
expect 1 "output is input" "is the file that --input reads" "$trf" translate --model good \
    --input three --output three
expect 1 "output is standard input" "standard input reads" \
    sh -c "'$trf' translate --model good --output three <three"
check "and it is whole" lines_are 3 three
cp good kept
expect 1 "output is the model" "is the file that --model reads" \
    "$trf" translate --model good --input three --output good
check "and the model is whole" same good kept
echo "3 1 4" >314
expect 0 "a checkpoint will do" "" "$trf" translate --model good.checkpoint --input 314
expect 1 "no such model" "missing" "$trf" translate --model missing
expect 1 "not a model" "three" "$trf" translate --model three
if [ -w /dev/full ]; then
    expect 1 "disk full" "cannot write /dev/full" "$trf" translate --model good \
        --input test.digits --output /dev/full
    expect 1 "disk full, standard output" "cannot write standard output" \
        sh -c "'$trf' --help >/dev/full"
fi

# --- scores -------------------------------------------------------------------------------------

printf '1 2\n' >notab.tsv
expect 0 "score" "40 pairs, [0-9]* target tokens" "$trf" score --model good --source test.digits \
    --target test.names
cp out scores
check "a score for a pair" lines_are 40 scores
check "log-probability and tokens" test "$(awk -F '\t' '$1 <= 0 && $2 >= 2' scores | wc -l)" -eq 40
expect 0 "score a TSV" "" "$trf" score --model good --tsv test.tsv
check "the same" same out scores
expect 0 "other batches" "" "$trf" score --model good --tsv test.tsv --batch 3
check "nearly the same" \
    test "$(paste out scores | awk -F '\t' '($1 - $3) ^ 2 <= 1e-6 && $2 == $4' | wc -l)" -eq 40
awk -F '\t' '{ print $1 "\t" "nine " $2 }' test.tsv >wrong.tsv
expect 0 "score wrong answers" "" "$trf" score --model good --tsv wrong.tsv
check "wrong answers score less" test "$(paste out scores | awk -F '\t' '$1 < $3' | wc -l)" -ge 38
expect 1 "unpaired" "test.digits has 40 lines, but three has 3" \
    "$trf" score --model good --source test.digits --target three --batch 7
check "a line for each line of the longer file" lines_are 40 out
check "lines without a partner" test "$(grep -c "^nan	0$" out)" -eq 37
check "the first of them is named" \
    grep -q "test.digits:4: not scored: the other file has no such line" err
cp test.digits precious
expect 1 "scores over the target" "is the file that --target reads" \
    "$trf" score --model good --source test.names --target precious --output precious
check "which is whole" same precious test.digits
{ cat three; echo "1 2 3 4 5 6 7 8 9 1 2 3"; } >four
expect 1 "a pair that is too long" "four:4: not scored: 12 tokens, at most 11" \
    "$trf" score --model good --source four --target four
check "a line for it too" lines_are 4 out
expect 1 "pairs that cannot be scored" "notab.tsv:1: not scored: no tab" "$trf" score --model good \
    --tsv notab.tsv
check "a line all the same" test "$(cat out)" = "nan	0"
expect 0 "a model" "^done" "$trf" train $plain --updates 40 --model one
"$trf" score --model one --source train.digits --target test.names >out 2>err
check "lines without a partner are told five times" test "$(grep -c 'not scored' err)" -eq 5

# --- answers in other forms ---------------------------------------------------------------------
expect 0 "JSON" \
    '^{"line":1,"source":"1 2","source_tokens":\["1","2"\],"answers":\[{"text":"two one",.*"ended":"end","tokens":\["two","one"\]}\]}$' \
    \
    "$trf" translate --model good --input three --json
check "an empty line too" grep -q '^{"line":2,"source":"","answers":\[\]}$' out
printf 'a\377b\n' | "$trf" translate --model good --json >out 2>err
check "but not one that cannot be translated" \
    grep -q '^{"line":1,"source":".*","unusable":true,"answers":\[\]}$' out
expect 0 "alignments" '"alignment":\[[01],[01]\],"attention":\[\[' "$trf" translate --model good \
    --input three --json --alignments --attention --n-best 2
if command -v python3 >/dev/null; then
    check "rows of attention sum to one" python3 -c 'import json
for line in open("out"):
    for a in json.loads(line)["answers"]:
        assert all(abs(sum(row) - 1) < 1e-2 for row in a["attention"]) and len(a["attention"]) == len(a["tokens"]) + 1'
fi
expect 2 "prefixes from the input" "only one of --prefixes and the input can be" \
    sh -c "'$trf' translate --model good --prefixes - <three"
expect 2 "alignments of plain lines" "need --json" "$trf" translate --model good --input three \
    --alignments
printf 'nine\n' >prefixes
expect 0 "prefixes" "^nine" "$trf" translate --model good --input three --prefixes prefixes
check "the other lines are free" test "$(sed -n 3p out)" = seven
printf 'nin\351\n' >latin.prefixes
expect 1 "a prefix that is not UTF-8" \
    "three:1: .*prefix of .latin.prefixes.: expected UTF-8, got the byte 0xE9 at offset 3" \
    "$trf" translate --model good --input three --prefixes latin.prefixes
check "behind its end answers are free" test "$(sed -n 3p out)" = seven
expect 0 "inspect as JSON" '"kind":"encoder-decoder".*"parts":{"source embedding":' "$trf" inspect \
    good --json
if command -v python3 >/dev/null; then
    for file in good good.checkpoint; do
        [ ! -e $file ] || check "inspect $file is JSON" \
            sh -c \
            "'$trf' inspect $file --json | python3 -c 'import json, sys; json.load(sys.stdin)'"
    done
fi
printf 'nine\n\n\n\n\n\n\n\n\n\n' >prefixes
expect 1 "more prefixes than lines" "prefixes has more lines than three" "$trf" translate \
    --model good --input three --prefixes prefixes

# --- files and pipes that are full, closed, or read and written at once -------------------------
cp three growing
expect 1 "input that grows by the output" "which is also read" \
    sh -c "'$trf' translate --model good --input growing >>growing"
expect 1 "the same through standard input" "standard input reads" \
    sh -c "'$trf' translate --model good <growing >>growing"
check "it has not grown" same three growing
expect 2 "one stream for both sides" "cannot both be" \
    sh -c "cat three | '$trf' score --model good --source /dev/stdin --target /dev/stdin"
"$trf" translate --model good --input odd --output quiet 2>&- || true
expect 1 "a closed standard output" "cannot write standard output" \
    sh -c "'$trf' translate --model good --input odd >&-"
check "messages nobody hears are not in the results" test "$(grep -c "trf" quiet)" -eq 0
awk 'BEGIN { for (i = 0; i < 2000; i++) print "1 2 3" }' >long.input
"$trf" translate --model good --beam 1 --input long.input 2>err | head -n 1 >out
check "a reader who leaves is no error to tell" test "$(cat err)" = ""
(ulimit -f 1; "$trf" translate --model good --beam 1 --n-best 1 --input long.input --output limited) \
    2>err
check "a file that may not grow" grep -q "cannot write limited: File too large" err
cp one precious
for name in /dev/stdout precious; do
    "$trf" translate --model precious --input test.digits --output $name >>precious 2>err
    check "no answers behind the model ($name)" test $? -eq 1
done
check "which is as it was" same one precious
echo old >all
"$trf" translate --model one --input test.digits --output /dev/stdout >>all 2>/dev/null
check "standard output by its name is added to" test "$(head -n 1 all)" = old -a "$(wc -l <all)" \
    -eq 41
perl \
    -e \
    'my $h = q({"w":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}); print pack("Q<", length $h), $h, pack("d<2", 1, 1e300)' \
    >wide
expect 0 "what is too large for a float" "1 NOT FINITE as float32" "$trf" inspect wide
expect 1 "a model without a configuration" "a safetensors file of another program" "$trf" \
    translate --model wide --input test.digits
expect 1 "nor to begin with" "a safetensors file of another program" "$trf" train $plain \
    --init-from wide --updates 1 --model m

# --- unknown words ------------------------------------------------------------------------------
awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" n " digits" }' train.tsv >counts.tsv
expect 0 "a classifier" "^done" "$trf" train --objective classify --tsv counts.tsv $quick \
    --updates 1 --model counts
expect 0 "a language model" "^done" "$trf" train --objective causal --text train.names $quick \
    --updates 1 --model lm
awk \
    'BEGIN { split("sees likes knows meets", v, " "); split("voit aime connait rencontre", w, " "); x = 7
    for (i = 0; i < 1500; i++) {
        x = (x * 1103515245 + 12345) % 2147483648; y = int(x / 65536)
        a = y % 2 ? "anna" : "N" i; b = y % 4 > 1 ? "bert" : "M" i; k = 1 + int(y / 4) % 4
        print a " " v[k] " " b "\t" a " " w[k] " " b } }' >names.tsv
expect 0 "rare names" "^done" "$trf" train --tsv names.tsv --tokens words --min-count 5 \
    --model rare --d-model 64 --n-heads 2 --d-ff 128 --encoder-layers 1 \
    --decoder-layers 1 --batch-tokens 512 --updates 400 --warmup 60 --threads 1 --metric loss \
    --dropout 0
printf 'zoe sees bert\nanna likes Xaver\n\nzoe knows Xaver\nanna meets bert\n' >asked
expect 0 "are counted at the end" \
    "^trf translate: 4 of 12 tokens of the input are unknown to the model, the first one in line 1$" \
    "$trf" translate asked --model rare
expect 0 "and reported" "^trf translate: asked:4: unknown to the model: 'zoe', 'Xaver'$" "$trf" \
    translate asked --model rare --unknown report
check "each line that has some" test "$(grep -c 'asked:.*unknown to the model' err)" -eq 3
expect 0 "and copied" "" "$trf" translate asked --model rare --unknown copy
printf 'zoe voit bert\nanna aime Xaver\n\nzoe connait Xaver\nanna rencontre bert\n' >wanted
check "to where they belong" same out wanted
expect 0 "and dropped" "" "$trf" translate asked --model rare --unknown drop
printf 'voit bert\nanna aime\n\nconnait\nanna rencontre bert\n' >wanted
check "without a trace" same out wanted
expect 0 "JSON has them" \
    '"unknown_words":\["zoe","Xaver"\],"answers":\[{"text":"zoe connait Xaver"' "$trf" translate \
    asked --model rare --unknown copy --json
check "where there are some" test "$(grep -c unknown_words out)" -eq 3
expect 0 "no answer has an unknown word" "" "$trf" translate asked --model rare --ban-unk yes
check "if that is wanted" eval '! grep -q unk out && lines_are 5 out'
expect 0 "it may have one" "unk" "$trf" translate asked --model rare
expect 2 "nothing to copy to" "--ban-unk yes allows none" "$trf" translate asked --model rare \
    --unknown copy --ban-unk yes
expect 2 "nothing to copy from" "--unknown copy needs source words" "$trf" translate \
    train.names --model lm --unknown copy
expect 0 "few unknown words are not told" "" \
    sh -c \
    "head -n 200 names.tsv | grep 'anna.*bert' | cut -f 1 | cat - asked | '$trf' translate --model rare"
check "below a twentieth" test ! -s err
expect 0 "of a classifier" \
    "trf classify: 4 of 12 tokens of the input are unknown to the model, the first one in line 1$" \
    sh -c "printf '3 x\n\n1 1 1 1 1 1 1\ny z y\n' | '$trf' classify --model counts"
printf 'zoe sees bert\tanna voit bert\n' >rare.tsv
expect 0 "of pairs" \
    "trf score: 1 of 3 tokens of the sources is unknown to the model, the first one in line 1$" \
    "$trf" score rare.tsv --model rare
check "on one side" eval '! grep -q targets err && grep -q "^1 pair, 4 target tokens" err'
expect 0 "answers that reach the limit" \
    "^trf translate: 4 of 4 answers reached the length limit (--max-length-a, --max-length-b) without EOS$" \
    \
    "$trf" translate asked --model rare --beam 1 --max-length-a 0 --max-length-b 2
expect 0 "as --min-length wants" "; for 4 of them, --min-length 9 is not below the limit$" "$trf" \
    translate asked --model rare --max-length-a 0 --max-length-b 5 --min-length 9
expect 0 "those that end" "" "$trf" translate asked --model rare
check "are not told" eval '! grep -q "longest length" err'

# --- rules of a search --------------------------------------------------------------------------
# A source is a tag and digits; the tag says in which words the answer is.
awk 'BEGIN { split("un deux trois", fr, " "); split("one two three", en, " ")
    for (i = 0; i < 900; i++) { x = 1 + i % 3; y = 1 + int(i / 3) % 3; e = int(i / 9) % 2
        print (e ? "<en> " : "<fr> ") x " " y "\t" (e ? en[x] " " en[y] : fr[x] " " fr[y]) } }' >tags.tsv
expect 0 "two languages" "^done" "$trf" train --tsv tags.tsv --tokens words --min-count 1 --model tags \
    --d-model 32 --n-heads 2 --d-ff 64 --encoder-layers 1 --decoder-layers 1 --batch-tokens 512 \
    --updates 300 --warmup 60 --threads 1 --metric loss --dropout 0
printf '1 2\n3 3\n' >untagged
printf '<en> 1 2\n<en> 3 3\n' >tagged
expect 0 "tags in the text" "^three three$" "$trf" translate tagged --model tags
cp out wanted
expect 0 "tags by an option" "^one two$" "$trf" translate untagged --model tags --source-first '<en>'
check "are the same" same out wanted
expect 0 "another tag" "^un deux$" "$trf" translate untagged --model tags --source-first '<fr>'
for id in 4 5 6 7 8 9; do
    "$trf" translate untagged --model tags --source-first "$id" >by_id 2>/dev/null
    same by_id wanted && break
done
check "or by its id" same by_id wanted
expect 0 "a first word" "^two$" "$trf" translate untagged --model tags --source-first '<en>' \
    --forced-first one
check "is not part of the answer" test "$(head -n 1 out)" = two
expect 0 "another start" "" "$trf" translate tagged --model tags --start 1
cp out by_start
expect 0 "the model's own" "" "$trf" translate tagged --model tags
check "is the same token" same out by_start
expect 2 "no such start" "^trf translate: --start '<de>' is neither a token of the model nor an id" \
    "$trf" translate tagged \
    --model tags --start '<de>'
expect 0 "a banned word" "" "$trf" translate tagged --model tags --ban three --ban 'one two'
check "is in no answer, nor are banned words in a row" eval '! grep -q -e three -e "one two" out'
printf 'three\n\none two\n' >bans
cp out wanted
expect 0 "a file of them" "" "$trf" translate tagged --model tags --ban-file bans
check "is the same" same out wanted
expect 0 "no word twice" "" "$trf" translate tagged --model tags --no-repeat-ngram 1
check "there is none" eval '! grep -q "three three" out'
expect 0 "phrases that must occur" "" "$trf" translate tagged --model tags --phrase 'two three' --phrase one --beam 8
check "are in every answer" [ "$(grep -c 'two three' out)$(grep -c one out)" = 22 ]
expect 0 "a phrase of greedy search" "^un " "$trf" translate tagged --model tags --phrase un --beam 1
expect 0 "a phrase for which there is no room" "" "$trf" translate tagged --model tags --phrase 'two three one' \
    --beam 4 \
    --max-length-a 0 --max-length-b 2
check "begins the answer" [ "$(grep -c 'two three' out)" = 2 ]
expect 2 "an unknown phrase" "^trf translate: --phrase 'vier': the model does not know all of its tokens" \
    "$trf" translate \
    tagged --model tags --phrase vier
expect 2 "a phrase without tokens" "^trf translate: --phrase '' has no tokens$" "$trf" translate tagged --model tags \
    --phrase ''
expect 1 "a phrase that is too long" "phrases must have at most 64 ids together" "$trf" translate tagged --model tags \
    --phrase "$(awk 'BEGIN { for (i = 0; i < 65; i++) printf "one " }')"
expect 0 "a penalty" "" "$trf" translate tagged --model tags --repetition-penalty 1000 --beam 2
check "of a repeated word" eval '! grep -q "three three" out'
# the same rules in sampling
expect 0 "the likeliest text" "^three three$" "$trf" generate --model tags --input tagged --temperature 0
expect 0 "a first word of texts" "^two$" "$trf" generate --model tags --input tagged --temperature 0 --forced-first one
expect 0 "banned texts" "" "$trf" generate --model tags --input tagged --count 20 --ban three --ban-file bans
check "are never drawn" eval '! grep -q -e three -e "one two" out'
expect 0 "no word twice" "" "$trf" generate --model tags --input tagged --count 20 --no-repeat-ngram 1
check "is drawn" eval '! grep -q -e "three.*three" -e "two.*two" -e "one.*one" out'
expect 2 "nothing to ban in sampling" "^trf generate: --ban '' has no tokens$" "$trf" generate --model tags \
    --input tagged --ban ''
expect 2 "EOS cannot be first" "^trf generate: --forced-first must not be EOS$" "$trf" generate --model tags \
    --input tagged --forced-first 2
expect 2 "a language model's first token" "^trf generate: --forced-first needs an encoder-decoder model" \
    "$trf" generate \
    --model lm --forced-first one
expect 2 "a negative n-gram" "no-repeat-ngram" "$trf" generate --model tags --input tagged --no-repeat-ngram -1
expect 0 "a free EOS" "^0.000000	one$\|^-[0-9.]*	one$" "$trf" translate tagged --model tags --scores \
    --at-limit free-eos --max-length-a 0 --max-length-b 1
expect 2 "no such token" "^trf translate: --source-first '<de>' is neither a token of the model nor an id from 0 to" \
    "$trf" translate untagged --model tags --source-first '<de>'
expect 2 "no such id" "neither a token" "$trf" translate untagged --model tags --forced-first 99999
expect 2 "nothing to ban" "^trf translate: --ban '' has no tokens$" "$trf" translate tagged --model tags --ban ''
expect 2 "unknown words" "^trf translate: bans:2 'vier': the model does not know all of its tokens" sh -c \
    "printf 'one\nvier\n' >bans; '$trf' translate tagged --model tags --ban-file bans"
expect 1 "no such file" "nowhere" "$trf" translate tagged --model tags --ban-file nowhere
expect 2 "EOS cannot be banned" "--forced-first must not be EOS" "$trf" translate tagged --model tags --forced-first 2
for file in tagged untagged; do
    if [ $file = tagged ]; then set --; else set -- --source-first '<en>'; fi
    expect 0 "attention of $file" '"alignment":' "$trf" translate $file --model tags \
        --json --alignments --attention "$@"
    sed 's/.*"attention"://' out >$file.attention
    sed 's/.*"alignment":.\([0-9],[0-9]\).*/\1/' out >$file.alignment
done
# a prefix replaces --forced-first: answers have as many rows of attention as tokens and EOS
printf 'three\n\n' >starts
expect 0 "attention behind a prefix" "" "$trf" translate tagged --model tags --json --alignments --attention \
    --forced-first one --prefixes starts
check "has no row of the token that it replaces" [ "$(sed 's/.*"attention"://; s/\],\[/\n/g' out | wc -l)" -eq \
    "$(sed 's/.*"alignment":.//; s/\].*//' out |
    awk -F , 'NR == 1 { n += NF + 1 } NR == 2 { n += NF + 2 } END { print n }')" ]
check "attention to a tag in the text is that to one of an option" same tagged.attention untagged.attention
sed 's/\]\]}.*//; s/^\[\[//; s/\],\[/ /g' untagged.attention |        # columns: the tag, two words, EOS
    awk '{ for (i = 1; i < 3; i++) { split($i, w, ","); printf("%d%s", w[3] > w[2], i < 2 ? "," : "\n") } }' >wanted
check "alignments do not count the tag" same untagged.alignment wanted
expect 2 "a language model has no source" "--source-first needs an encoder-decoder model" "$trf" translate train.names \
    --model lm \
    --source-first one
expect 1 "a tag takes room" "1 of 1 line" sh -c \
    "awk 'BEGIN { for (i = 0; i < 600; i++) printf \"1 \" }' | '$trf' translate --model tags --source-first '<en>'"

finish

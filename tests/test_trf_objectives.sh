#!/bin/sh
# Other objectives than translating: sh tests/test_trf_objectives.sh build/trf
#
# Labels of texts and of words, language models, masked words, missing spans: training, resuming,
# answers of trf classify, tag, generate and score; models that begin with one of another objective;
# labels, lines and options that do not go together.

. "$(dirname "$0")/trf.sh"

trf=$anew

# --- classify, tag, causal, mask, span ----------------------------------------------------------
# How many digits a line has; whether each is odd; counting; a language of one sentence.
awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" n " digits" }' train.tsv >counts.tsv
awk -F '\t' \
    '{ n = split($1, d, " "); s = ""; for (i = 1; i <= n; i++) s = s (i > 1 ? " " : "") (d[i] % 2 ? "odd" : "even"); print $1 "\t" s }' \
    \
    train.tsv >parity.tsv
awk \
    'BEGIN { split("one two three four five six seven eight nine", w, " "); for (i = 0; i < 400; i++) { s = ""; for (j = 0; j < 6; j++) s = s (j ? " " : "") w[(i + j) % 9 + 1]; print s } }' \
    >counting
fast="$quick --updates 300"
expect 0 "a translator" "^done" "$trf" train $plain --updates 20 --model good
expect 0 "classify" "best: update [0-9]*, accuracy 100" "$trf" train --objective classify \
    --tsv counts.tsv $fast --model counts
printf '3 1 4 1\n\n5\n7 7 7 7 7\n' >four
expect 0 "labels" "^4 digits$" "$trf" classify --model counts --input four
printf '4 digits\n\n1 digits\n5 digits\n' >wanted
"$trf" classify --model counts --input four >out 2>err
check "labels of lines" same out wanted
expect 0 "labels with probabilities" \
    '"labels":\[{"label":"4 digits","probability":0.9[0-9]*},{"label":"[1235] digits"' \
    "$trf" classify --model counts --input four --json
expect 0 "the best alone" \
    '^{"line":1,"text":"3 1 4 1","labels":\[{"label":"4 digits","probability":[0-9.]*}\]}$' \
    "$trf" classify --model counts --input four --json --n-best 1
expect 0 "a score" "^0.9[0-9]*	4 digits$" "$trf" classify --model counts --input four --scores
expect 0 "first instead of mean" "done: 300" "$trf" train --objective classify --tsv counts.tsv \
    --pooling first --metric f1 $fast --model m
check "F1 is told" grep -q "f1 [0-9.]*  best so far" err
expect 0 "tag" "best: update [0-9]*, accuracy 100" "$trf" train --objective tag --tsv parity.tsv \
    $fast --model parity
printf 'odd odd even odd\n\nodd\nodd odd odd odd odd\n' >wanted
"$trf" tag --model parity --input four >out 2>err
check "a label a word" same out wanted
expect 0 "words with labels" \
    '^{"line":3,"words":\[{"word":"5","label":"odd","probability":0.9[0-9]*}\]}$' \
    "$trf" tag --model parity --input four --json
expect 0 "characters have blanks between them" "done: " "$trf" train --objective tag \
    --tsv parity.tsv --tokens characters $fast --model letters
"$trf" tag --model letters --input four >out 2>err
check "still a label a word" same out wanted
expect 0 "F1 of tags" "f1 100" "$trf" train --objective tag --tsv parity.tsv --metric f1 $fast \
    --model m
expect 0 "causal" "best: update [0-9]*, loss" "$trf" train --objective causal --text counting \
    $fast --label-smoothing 0 --model counter
expect 0 "going on" "^two three four five six seven$" "$trf" generate --model counter \
    --prompt "two three" --temperature 0
expect 0 "lines" "^nine one two three four five$" "$trf" generate --model counter --input counting \
    --temperature 0
check "as many" lines_are 400 out
"$trf" generate --model counter --count 20 --seed 3 --threads 1 >one.thread
"$trf" generate --model counter --count 20 --seed 3 --threads 2 --batch 7 >out
check "the same on two threads, in other batches" same one.thread out
"$trf" generate --model counter --count 20 --seed 4 >out
check "another seed" eval '! cmp -s one.thread out'
expect 0 "an object a text" \
    '^{"text":"two three.*","log_probability":-[0-9.]*,"tokens":4,"ended":"end"}$' \
    "$trf" generate --model counter --prompt "two three" --json --temperature 0
expect 0 "score a text" "^-[0-9.]*	7$" "$trf" score --model counter --target counting
check "a score a line" lines_are 400 out
check "with their end marks" test "$(awk '{ n += $2 } END { print n }' out)" -eq \
    $(($(wc -w <counting) + 400))
expect 2 "a language model has no source" "give only --target FILE" "$trf" score --model counter \
    --source counting --target counting
expect 2 "others have" "give --source FILE and --target FILE" "$trf" score --model good \
    --target train.names
expect 0 "more than is read at a time" "^one two" "$trf" generate --model counter \
    --prompt "one two $(head -n 200 counting | tr '\n' ' ')"
expect 0 "a character model" "done: " "$trf" train --objective causal --text counting \
    --documents file --tokens characters --chunk 64 \
    $quick --updates 60 --model speller
expect 0 "writes lines" "" "$trf" generate --model speller --prompt "one" --max-tokens 40
expect 0 "packed" "done: " "$trf" train --objective causal --text counting --pack --chunk 20 \
    $quick --updates 20 --model m
expect 0 "mask" "best: update [0-9]*, loss" "$trf" train --objective mask --text counting $fast \
    --model masked
sed 'p;p;p;p;p;p;p;p;p' counting | tr '\n' ' ' | fold -w 400 >long
expect 0 "texts longer than the model" "done: 3 updates" "$trf" train --objective mask --text long $quick \
    --tokens words --source-bos yes --max-length 24 --valid-size 0 --updates 3 --model m
expect 2 "a chunk without room for both marks" "2 to 22 tokens (--max-length minus 2), got 23" "$trf" train \
    --objective mask --text long $fast --source-bos yes --max-length 24 --chunk 23 --model no
expect 0 "span" "best: update [0-9]*, loss" "$trf" train --objective span --text counting $fast \
    --model spans
expect 0 "sampling from an encoder-decoder" "" "$trf" generate --model spans --input counting \
    --temperature 0.5
for objective in "classify --tsv counts.tsv" "tag --tsv parity.tsv" "causal --text counting" \
    "mask --text counting --whole-words yes" "span --text counting"; do
    name=${objective%% *}
    "$trf" train --objective $objective $quick --updates 40 --valid-every 10 --model straight 2>err
    "$trf" train --objective $objective $quick --updates 15 --valid-every 10 --model halved 2>err
    expect 0 "$name, second half" "resumed from update 16" "$trf" train --objective $objective \
        $quick --updates 40 --valid-every 10 --model halved --resume
    check "$name, resumed = straight" same straight halved
done
{ cat counting; yes one | head -n 350 | tr '\n' ' '; echo; } >uneven
lengths="--objective mask --text uneven --chunk 400 $quick --valid-size 100 --valid-every 10 \
    --ema 0"
"$trf" train $lengths --updates 40 --model straight 2>wanted
"$trf" train $lengths --updates 15 --model halved 2>/dev/null
expect 0 "a text longer than a batch" "resumed from update 16" "$trf" train $lengths --updates 40 \
    --model halved --resume
grep '^validation: update [234]0' wanted >first
grep '^validation: update [234]0' err >out
check "is validated as before" same first out
check "three times" lines_are 3 out
{ yes "1 2 3	small" | head -n 70000; yes "7 8 9	large" | head -n 400; } | sed 's/\\t/\t/' \
    >sorted.tsv
expect 0 "a file sorted by label" "^done: 1 update," "$trf" train --objective classify \
    --tsv sorted.tsv $quick --updates 1 --model m
parameters() { sed -n 's/^\([0-9]*\) of \([0-9]*\) parameters come from.*/\1 \2/p' err; }
"$trf" train --objective classify --tsv counts.tsv --init-from counts --seed 5 --threads 1 \
    --updates 0 --model m 2>err
check "the same labels keep their head" eval 'set -- $(parameters); test $1 -eq $2'
expect 0 "and say what they said" "^4 digits$" "$trf" classify --model m --input four
sed 's/1 digits/more digits/' counts.tsv >renamed.tsv
"$trf" train --objective classify --tsv renamed.tsv --init-from counts --seed 5 --threads 1 \
    --updates 0 --model m 2>err
check "other labels get a new one" eval 'set -- $(parameters); test $1 -eq $(($2 - 2))'
expect 0 "but for those that both have" "^4 digits$" "$trf" classify --model m --input four
expect 0 "a side that a language model lacks" "^done" "$trf" train --tsv train.tsv \
    --init-from counter --source-vocab-size 15 --min-count 2 \
    --seed 5 --threads 1 --updates 1 --model m
expect 2 "the side that it has" "the vocabulary is that of the model\|without --extend-vocabulary" \
    "$trf" train --tsv train.tsv --init-from counter \
    --target-vocab-size 15 --updates 1 --model m
expect 2 "spans of letters" "needs words or subwords" "$trf" train --objective span \
    --text counting --tokens characters $quick --updates 1 --model m
expect 0 "no end marks" "^done" "$trf" train --tsv train.tsv $quick --target-eos no --updates 1 \
    --model m
expect 0 "are none of the score" "" "$trf" score --model m --source test.digits --target test.names
check "either" test "$(awk '{ n += $2 } END { print n }' out)" -eq "$(wc -w <test.names)"
expect 0 "from hidden words to labels" "parameters come from masked" "$trf" train \
    --objective tag --tsv parity.tsv --init-from masked \
    --extend-vocabulary --seed 5 --threads 1 --updates 20 --model m
check "its vocabulary has grown" grep -q "source: 10 tokens are new" err
expect 0 "going on with a translator" "parameters come from good" "$trf" train --tsv train.tsv \
    --init-from good --freeze "encoder.*" \
    --freeze "*embed*" --seed 5 --threads 1 --updates 20 --model tuned
check "some is frozen" grep -q "frozen: [1-9]" err
expect 2 "nothing of that name" "no parameter of the model matches" "$trf" train --tsv train.tsv \
    $small --freeze "nonsense*" --updates 1 --model m
expect 1 "another architecture" "TRF_E_SHAPE" "$trf" train --tsv train.tsv --init-from good \
    --d-model 32 --updates 1 --model m
expect 1 "another objective" "has another --objective" "$trf" train --objective tag \
    --tsv parity.tsv $fast --model counts --resume
expect 1 "no tagger" "was not trained with --objective tag" "$trf" tag --model counts --input four
expect 1 "no classifier" "was not trained with --objective classify" "$trf" classify \
    --model parity --input four
expect 1 "one label" "there is one label" "$trf" train --objective classify --source train.digits \
    --target /dev/fd/3 --updates 1 --model m 3<<END
$(yes same | head -n 600)
END
{ head -n 500 parity.tsv; printf '1 2 3\todd even\n'; } >short.tsv
expect 0 "labels are missing" "short.tsv:501: 3 words, but 2 labels" "$trf" train --objective tag \
    --tsv short.tsv $quick --updates 2 --model m
expect 2 "a text for pairs" "is for --objective causal" "$trf" train --text counting --updates 1 \
    --model m
expect 2 "pairs for a text" "give --text FILE" "$trf" train --objective causal --tsv train.tsv \
    --updates 1 --model m
expect 2 "a metric for others" "--metric bleu does not work with" "$trf" train --objective causal \
    --text counting --metric bleu --model m
expect 2 "chunks of nothing" "--chunk takes 2 to" "$trf" train --objective causal --text counting \
    --chunk 1 --model m

# --- a log of f1, pooling, large batches, long lines --------------------------------------------
"$trf" train --objective classify --tsv counts.tsv $quick --pooling first --updates 2 \
    --model pooled 2>/dev/null
"$trf" train --objective classify --tsv counts.tsv --init-from pooled --seed 5 --threads 1 \
    --updates 2 --model m 2>/dev/null
expect 0 "pooling is inherited" "^head: label of the first token" "$trf" inspect m
"$trf" train --objective tag --tsv parity.tsv --metric f1 --valid-every 5 --log f1.log $quick \
    --updates 10 --model m 2>/dev/null
check "a log of f1" grep -q '"metric":"f1"' f1.log
if command -v gnuplot >/dev/null; then
    expect 0 "its plot" "^ *f1 *$" "$trf" plot f1.log
    expect 0 "as a picture" "" "$trf" plot f1.log --output f1.svg
    check "that is whole" grep -q '</svg>' f1.svg
    [ ! -c /dev/full ] || expect 1 "a plot that cannot be written" "cannot write standard output" \
        sh -c "'$trf' plot f1.log >/dev/full"
fi
expect 0 "a perfect score" "(the score is perfect)" "$trf" train --objective classify \
    --tsv counts.tsv --seed 5 --threads 1 --batch-tokens 256 --init-from counts --valid-every 2 \
    --patience 4 --model m
{ cat parity.tsv;
    awk \
    'BEGIN { for (i = 0; i < 600; i++) printf "1 "; printf "\t"; for (i = 0; i < 600; i++) printf "odd "; print "" }';
    } >long.tsv
expect 0 "a line too long for tags" "1 too long" "$trf" train --objective tag --tsv long.tsv \
    $quick --updates 1 --model m
expect 0 "a large batch of one line" "" "$trf" classify --model counts --input four --batch 2000000
expect 2 "attention without a source" "need source tokens" "$trf" translate --model counter \
    --input four --json --alignments

# --- text in chunks -----------------------------------------------------------------------------
awk '{ print $1 }' train.digits >short.text
awk '{ a = a " " $0 } NR % 10 == 0 { print substr(a, 2); a = "" }' train.digits >long.text
parts="--objective causal --text short.text --valid-text long.text --tokens words --d-model 16 \
    --n-heads 2 --d-ff 32 --decoder-layers 1 --threads 1
       --batch-tokens 256 --warmup 5"
expect 0 "text in chunks" "^done" "$trf" train $parts --chunk 40 --updates 10 --model chunks
expect 0 "judged in others" "the search for the best model starts again" "$trf" train $parts --chunk 6 --updates 12 \
    --model chunks --resume
expect 2 "one document packs nothing" "no effect on --documents file" "$trf" train $parts \
    --documents file --pack --updates 1 --model m
expect 2 "no room for a text" "--max-length must be 3 or more for a text, got 2" "$trf" train --objective causal \
    --text short.text --max-length 2 --updates 1 --model m
expect 2 "a text to validate on" "--valid-text is for" "$trf" train $files $model \
    --valid-text counting --updates 1 --model m

# --- files that would be replaced, options that have no effect ----------------------------------
cp counting text
expect 1 "a model over its text" "--model 'text' is the file that --text reads" "$trf" train \
    --objective causal \
    --text text $quick --updates 1 --model text
expect 1 "a log over the text to validate on" "--log 'text' is the file that --valid-text reads" \
    "$trf" train \
    --objective causal --text counting \
    --valid-text text $quick --updates 1 --model m --log text
cp masked other
expect 1 "a model over the one it begins with" \
    "--model 'other' is the file that --init-from reads" "$trf" train \
    --objective mask --text counting \
    --init-from other --threads 1 --updates 1 --model other
check "all is still there" eval 'same text counting && same other masked'
expect 2 "labels have no spans" "--mean-span has no effect on --objective tag" "$trf" train \
    --objective tag \
    --tsv parity.tsv --mean-span 2 $quick --updates 1 --model m
expect 2 "pairs have no chunks" "--chunk has no effect on --objective translate" "$trf" train \
    --tsv train.tsv \
    --chunk 20 $quick --updates 1 --model m
expect 2 "documents have ends" "--target-eos has no effect on --objective causal" "$trf" train \
    --objective causal \
    --text counting --target-eos yes $quick --updates 1 --model m
expect 2 "nothing to extend" "--extend-vocabulary is for --init-from" "$trf" train --tsv train.tsv \
    --extend-vocabulary $quick --updates 1 --model m
expect 2 "a size of its own" "the sizes are those of that model" "$trf" train --tsv train.tsv \
    --init-from good \
    --size base --updates 1 --model m
expect 1 "tokens of its own" "good was made with other --source-tokens" "$trf" train \
    --tsv train.tsv \
    --init-from good --tokens characters --updates 1 --model m
expect 1 "two vocabularies are not one" "needs one vocabulary for both sides, but good has two" \
    "$trf" train \
    --tsv train.tsv --init-from good \
    --tying all --threads 1 --updates 1 --model m
expect 2 "numbers of labels" "--n-best needs --json" "$trf" classify --model counts --input four \
    --n-best 2
expect 1 "another pooling" "has another --objective or --pooling" "$trf" train --objective classify \
    --tsv counts.tsv \
    $fast --model counts --pooling first --resume

# --- beginning with a model of another objective ------------------------------------------------
expect 0 "a vocabulary of other words" \
    "100.0 % of the source's tokens are unknown.*--extend-vocabulary adds" "$trf" train \
    --tsv train.tsv --columns 2,1 \
    --init-from good --seed 5 --threads 1 --updates 1 --model m
tuning="--tsv train.tsv --init-from good --conventions pytorch --seed 5 --threads 1 \
    --batch-tokens 256 --model tuned"
"$trf" train $tuning --updates 5 2>/dev/null
expect 0 "a preset beside another model" "resumed from update 6" "$trf" train $tuning --updates 8 \
    --resume
expect 2 "one vocabulary of two" "sets the number of vocabularies" "$trf" train --tsv train.tsv \
    --init-from good --joint-vocabulary yes --updates 1 --model m
awk -F '\t' '{ print $1 "\t" $2 " indeed" }' train.tsv >indeed.tsv
expect 0 "one vocabulary" "done: " "$trf" train --tsv train.tsv --tying all $quick --updates 20 \
    --model joint
expect 0 "grows by both sides" "both sides: 1 token is new" "$trf" train --tsv indeed.tsv \
    --init-from joint \
    --extend-vocabulary --threads 1 \
    --updates 200 --model m
expect 0 "and is used" "^[a-z ]* indeed$" "$trf" translate --model m --input four
expect 0 "a decoder for a translator" "51 of 126 parameters come from counter" "$trf" train \
    --tsv train.tsv \
    --init-from counter --threads 1 \
    --updates 20 --model m
expect 0 "which knows ends" "target-eos yes" "$trf" inspect m
expect 0 "an encoder for one" "parameters come from masked" "$trf" train --tsv train.tsv \
    --init-from masked \
    --threads 1 --updates 2 --model m
expect 1 "nothing in common" "no parameter of masked fits" "$trf" train --objective causal \
    --text counting \
    --init-from masked --threads 1 --updates 2 --model m

# --- labels, lines and models that do not fit ---------------------------------------------------
{ head -n 300 counts.tsv; printf '1 2\tb\377d\n'; } >broken.tsv
expect 0 "a label that is not UTF-8" \
    "broken.tsv:301: expected UTF-8, got the byte 0xFF at offset 5" "$trf" train \
    --objective classify \
    --tsv broken.tsv $quick --updates 2 \
    --valid-size 0 --model m
check "is no label" grep -q " 5 labels" err
{ head -n 300 parity.tsv; printf '1 2\tb\377d odd\n'; } >broken.tsv
expect 0 "one of them is not UTF-8" \
    "broken.tsv:301: expected UTF-8, got the byte 0xFF at offset 5" "$trf" train --objective tag \
    --tsv broken.tsv $quick --updates 2 \
    --valid-size 0 --model m
sed 's/odd/zzz/g' parity.tsv >renamed.tsv
expect 0 "other labels" "done: " "$trf" train --objective tag --tsv renamed.tsv $quick --updates 2 \
    --model m
expect 1 "have no mean" "have different labels" "$trf" average parity m --output mean
expect 0 "labels are shown" "^2 labels: even | odd$" "$trf" inspect parity
expect 0 "in an object too" '"labels":\["even","odd"\]' "$trf" inspect parity --json
for command in translate generate "score --source train.digits --target train.names"; do
    expect 1 "${command%% *} of labels" "parity: an encoder-only model has no decoder" "$trf" \
        $command --model parity
done
printf '3 \377 1\n' >broken
expect 1 "a word that is not UTF-8" "broken:1: .*expected UTF-8, got the byte 0xFF at offset 2" \
    "$trf" tag --model parity --input broken
printf 'two\n\377\nthree\n' >broken
expect 1 "a line that is not UTF-8" "broken:2: .*expected UTF-8" "$trf" generate --model counter \
    --input broken --temperature 0
check "keeps its place" eval 'lines_are 3 out && [ -z "$(sed -n 2p out)" ]'
expect 1 "in objects too" '"ended":"unusable"' "$trf" generate --model counter --input broken --json

# --- rare, long and many labels -----------------------------------------------------------------
awk \
    'BEGIN { for (i = 0; i < 400; i++) print "w" i % 37 " v" int(i / 37) "\t" (i == 10 ? "rare" : i % 2 ? "a" : "b") }' \
    >rare.tsv
tiny="--threads 1 --d-model 16 --n-heads 2 --d-ff 32 --encoder-layers 1 --updates 2"
expect 0 "a label that comes once" "texts; .* 3 labels" "$trf" train --objective classify \
    --tsv rare.tsv $tiny --strict --model labels
sed 's/rare$/a-label rare/' rare.tsv | sed '11!s/\(.*\)\t\(.*\)/\1\t\2 \2/' >tags.tsv
expect 0 "and that of a word" "texts; .* 4 labels" "$trf" train --objective tag --tsv tags.tsv \
    $tiny --strict --model tags
{ cat rare.tsv; printf 'x y\t'; head -c 3000 /dev/zero | tr '\0' l; echo; } >long.tsv
expect 0 "a label that is none" "long.tsv:401: a label of 3000 bytes, at most 1000" "$trf" train \
    --objective classify --tsv long.tsv $tiny --model labels
expect 1 "which --strict ends at" "long.tsv:401" "$trf" train --objective classify --tsv long.tsv \
    $tiny --strict --model labels
awk \
    'BEGIN { for (i = 0; i < 3000; i++) { printf "w" i % 7 " x\tl%d", i; for (j = 0; j < 45; j++) printf " and more"; print "" } }' \
    >many.tsv
expect 1 "labels of a megabyte" "labels have [0-9]* bytes in all" "$trf" train \
    --objective classify --tsv many.tsv $tiny --valid-size 0 --model labels
awk 'BEGIN { for (i = 0; i < 270000; i++) print "w" i % 7 "\t" i }' >own.tsv
expect 1 "a label for every line" "more than 65536 labels" timeout 120 "$trf" train \
    --objective classify --tsv own.tsv $tiny --model labels
awk 'BEGIN { for (i = 0; i < 60000; i++) print "w" i % 7 "\t" i % 50000 }' >manifold.tsv
expect 0 "many labels" "50000 labels" timeout 120 "$trf" train --objective classify \
    --tsv manifold.tsv --threads 1 --d-model 8 --n-heads 1 --d-ff 16 \
    --encoder-layers 1 --tokens words --valid-size 10000 --updates 1 --metric loss --model labels
awk \
    'BEGIN { for (i = 0; i < 200; i++) print "text" int(i / 2) "\t" (i == 20 ? "rare" : i % 4 < 2 ? "a" : "b") }' \
    >twice.tsv
expect 0 "a rare label takes its source along" "held out: [0-9]*[02468] of 200" "$trf" train \
    --objective classify --tsv twice.tsv $tiny --valid-size 150 --model labels

# --- pairs of texts, and sentences that follow one another ---------------------------------------
# Sixty documents of eight sentences, about four topics with words of their own: a random sentence
# is of another topic in three cases of four.
awk 'BEGIN { srand(3); for (d = 0; d < 60; d++) { t = d % 4; for (i = 0; i < 8; i++) { s = ""
    for (k = 0; k < 4; k++) s = s (k ? " " : "") "w" t "_" int(rand() * 8); print s }; print "" } }' >story
bert="--objective classify --segments 2 --pooling first --head-layer yes --source-bos yes"
bert="$bert --encoder-layers 1 --d-model 32 --n-heads 2 --d-ff 64 --threads 1"
expect 0 "next sentences" "^399 texts" "$trf" train $bert --next-sentences story --updates 300 \
    --seed 3 --model nsp
check "are learned" awk '/^done/ { exit !($0 ~ /accuracy (8[5-9]|9)/) }' err
printf 'w0_1 w0_2\tw0_3 w0_4\nw0_1 w0_2\tw2_3 w2_4\n' >two.pairs
"$trf" classify --model nsp <two.pairs >out
check "and told apart" test "$(cat out)" = "next
random"
expect 0 "the same seed" "" "$trf" train $bert --next-sentences story --updates 5 --seed 3 --model nsp2
expect 0 "gives the same" "" "$trf" train $bert --next-sentences story --updates 5 --seed 3 --model nsp3
check "pairs" same nsp2 nsp3
"$trf" train $bert --next-sentences story --updates 5 --seed 4 --model nsp3 2>err
check "another seed other pairs" test "$(cmp -s nsp2 nsp3; echo $?)" -eq 1
# hidden tokens and labels at once: the labels are learned as by classify, and the model goes on to either of both
both="--objective pretrain --segments 2 --head-layer yes --source-bos yes"
both="$both --encoder-layers 1 --d-model 32 --n-heads 2 --d-ff 64 --threads 1"
expect 0 "both losses of BERT" "labels: loss 0.[0-9]* accuracy 0.[89]" "$trf" train $both --next-sentences story \
    --updates 300 --seed 3 --model pre --log pre.log --checkpoint pre.check
check "hidden tokens are learned" awk '/perplexity/ { p = $9 } END { exit !(p < 14) }' err
check "the loss is the sum of both" awk -F '[:,]' '/"validation"/ { for (i = NF - 1; i; i--) v[$i] = $(i + 1) + 0
    d = v["\"loss\""] - v["\"nll\""] - v["\"label_loss\""]; if (d < -1e-5 || d > 1e-5) bad = 1; n++ } END { exit bad || n < 3 }' pre.log
"$trf" classify --model pre <two.pairs >out
check "and told apart" test "$(cat out)" = "next
random"
expect 0 "inspect shows both heads" "head: masked tokens, and 2 labels of sequences" "$trf" inspect pre --trace
check "and their layers" grep -q "sequence.layer.weight (32, 32) and bias, then tanh" out
check "and labels" grep -q "2 labels: next | random" out
expect 0 "it continues" "update 305" "$trf" train $both --next-sentences story --updates 305 --seed 3 --model pre \
    --checkpoint pre.check --resume
expect 1 "not with one loss" "another --objective" "$trf" train --objective mask --text story --updates 310 \
    --model pre --checkpoint pre.check --resume
expect 0 "classify starts from its pooler" "18 of 20 parameters come" "$trf" train --objective classify \
    --next-sentences \
    story --init-from pre --pooling first --head-layer yes --updates 1 --learning-rate 1e-9 --model m --threads 1
"$trf" inspect pre >out; "$trf" inspect m >more
check "which is the layer of its head" test "$(awk '/sequence.layer.weight/ { print $7, $8, $9 }' out)" = \
    "$(awk '/head.layer.weight/ { print $7, $8, $9 }' more)"
expect 0 "mask goes on without labels" "21 of 21 parameters come" "$trf" train --objective mask --text story \
    --init-from pre \
    --updates 1 --valid-size 0 --model m --threads 1
check "and has no second head" sh -c "! '$trf' inspect m | grep -q sequence"
expect 0 "classify with other labels" "18 of 20 parameters come" "$trf" train --objective classify --tsv counts.tsv \
    --init-from pre \
    --extend-vocabulary --pooling first --head-layer yes --updates 1 --valid-size 0 --model m --threads 1
expect 0 "both losses with other labels" "23 of 25 parameters come" "$trf" train $both --tsv counts.tsv \
    --init-from pre \
    --extend-vocabulary --updates 1 --valid-size 0 --model m
expect 0 "labels of another kind" "5 labels" "$trf" train $both --tsv counts.tsv --updates 3 --valid-size 0 --model m
expect 0 "of one text" "masked tokens, and 4 labels" "$trf" inspect --objective pretrain --labels 4 --head-layer yes \
    --size tiny
expect 2 "no score of one head" "metric accuracy does not work" "$trf" train $both --next-sentences story --metric \
    accuracy --model m
expect 2 "shares of hidden tokens" "sum of at most 1" "$trf" train $both --next-sentences story --masked-share 0.9 \
    --random-share 0.2 --model m
expect 2 "pooling is the first row" "no effect on --objective pretrain" "$trf" train $both --pooling first \
    --next-sentences story --model m
printf 'one\n\ntwo\n\nthree\n' >alone
expect 1 "documents of one sentence" "no sentence follows another one" \
    "$trf" train $bert --next-sentences alone --model m
printf 'one\ntwo\n' >alone
expect 1 "two sentences" "need three sentences or more, one per line, got 2" \
    "$trf" train $bert --next-sentences alone --model m
expect 2 "pairs from two places" "do not work with it" \
    "$trf" train $bert --next-sentences story --tsv counts.tsv --model m
expect 2 "of another objective" "no effect on --objective tag" \
    "$trf" train --objective tag --next-sentences story --model m
expect 1 "without segments" "two texts, but the model has no segments" "$trf" train \
    --objective classify --next-sentences story --strict --updates 2 --valid-size 0 --model m
# three columns: whether both texts have the same word
awk 'BEGIN { srand(5); for (i = 0; i < 600; i++) { a = int(rand() * 6); b = rand() < 0.5 ? a : int(rand() * 6)
    print "x" a "\tx" b "\t" (a == b ? "same" : "other") } }' >equal.tsv
expect 0 "pairs in three columns" "accuracy 100" "$trf" train $bert --tsv equal.tsv --updates 400 \
    --seed 2 --model equal
printf 'x1\tx1\nx1\tx2\n\n' | "$trf" classify --model equal >out 2>err
check "their labels" test "$(cat out; echo .)" = "same
other

."
awk -F '\t' '{ print $0 "\tmore" }' equal.tsv >wide.tsv
expect 1 "four columns" "more than one tab" "$trf" train $bert --tsv wide.tsv --strict --model m
expect 0 "a layer of a masked head" "^done" "$trf" train --objective mask --text counting \
    --head-layer yes --updates 5 --valid-size 0 --model hidden --threads 1
expect 0 "is another layer for labels" "^done" "$trf" train --objective classify --tsv counts.tsv \
    --init-from hidden --pooling first --head-layer yes --extend-vocabulary --updates 2 \
    --valid-size 0 --model m --threads 1
expect 2 "a layer behind the mean" "head-layer must be 0 with head 1" "$trf" train \
    --objective classify --tsv counts.tsv --head-layer yes --pooling mean --updates 2 --model m
expect 0 "inspect shows both" "plus segments" "$trf" inspect nsp --trace
check "and the layer" grep -q "head.layer.weight (32, 32) and bias, then tanh" out

finish

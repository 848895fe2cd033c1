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
awk -F '\t' '{ n = split($1, d, " "); s = ""
    for (i = 1; i <= n; i++) s = s (i > 1 ? " " : "") (d[i] % 2 ? "odd" : "even")
    print $1 "\t" s }' train.tsv >parity.tsv
awk 'BEGIN { split("one two three four five six seven eight nine", w, " ")
    for (i = 0; i < 400; i++) {
        s = ""; for (j = 0; j < 6; j++) s = s (j ? " " : "") w[(i + j) % 9 + 1]
        print s } }' >counting
fast="$quick --updates 300"
expect 0 "train: a translator is trained" "^done" "$trf" train $plain --updates 20 --model good
expect 0 "train --objective classify: all labels are right in the end" "best: update [0-9]*, accuracy 100" \
    "$trf" train --objective classify --tsv counts.tsv $fast --model counts
printf '3 1 4 1\n\n5\n7 7 7 7 7\n' >four
expect 0 "classify: a text gets its label" "^4 digits$" "$trf" classify --model counts --input four
printf '4 digits\n\n1 digits\n5 digits\n' >wanted
"$trf" classify --model counts --input four >out 2>err
check "classify: each line gets its label, an empty one none" same out wanted
expect 0 "classify --json: labels come with probabilities" \
    '"labels":\[{"label":"4 digits","probability":0.9[0-9]*},{"label":"[1235] digits"' \
    "$trf" classify --model counts --input four --json
expect 0 "classify --json --top 1: only the best label is written" \
    '^{"line":1,"text":"3 1 4 1","labels":\[{"label":"4 digits","probability":[0-9.]*}\]}$' \
    "$trf" classify --model counts --input four --json --top 1
expect 0 "classify --scores: the probability is before the label" "^0.9[0-9]*	4 digits$" "$trf" classify \
    --model counts --input four --scores
expect 0 "train --pooling first --metric f1: a classifier is trained" "done: 300" "$trf" train --objective classify \
    --tsv counts.tsv --pooling first --metric f1 $fast --model m
check "train --metric f1: the F1 of the best model is told" grep -q "f1 [0-9.]*  best so far" err
expect 0 "train --objective tag: all labels are right in the end" "best: update [0-9]*, accuracy 100" "$trf" train \
    --objective tag --tsv parity.tsv $fast --model parity
printf 'odd odd even odd\n\nodd\nodd odd odd odd odd\n' >wanted
"$trf" tag --model parity --input four >out 2>err
check "tag: each word gets a label" same out wanted
expect 0 "tag --json: words come with labels and probabilities" \
    '^{"line":3,"words":\[{"word":"5","label":"odd","probability":0.9[0-9]*}\]}$' \
    "$trf" tag --model parity --input four --json
expect 0 "train --objective tag: a tagger of characters is trained" "done: " "$trf" train --objective tag \
    --tsv parity.tsv --tokens characters $fast --model letters
"$trf" tag --model letters --input four >out 2>err
check "tag: a tagger of characters gives a label to each word" same out wanted
expect 0 "train --objective tag --metric f1: F1 reaches 100" "f1 100" "$trf" train --objective tag --tsv parity.tsv \
    --metric f1 $fast --model m
expect 0 "train --objective causal: a language model learns to count" "best: update [0-9]*, loss" "$trf" train \
    --objective causal --text counting $fast --label-smoothing 0 --model counter
expect 0 "generate --prompt: the text goes on from the prompt" "^two three four five six seven$" "$trf" generate \
    --model counter --prompt "two three" --temperature 0
expect 0 "generate --input: each line goes on" "^nine one two three four five$" "$trf" generate --model counter \
    --input counting --temperature 0
check "generate --input: each line has an output line" lines_are 400 out
"$trf" generate --model counter --count 20 --seed 3 --threads 1 >one.thread
"$trf" generate --model counter --count 20 --seed 3 --threads 2 --batch-sentences 7 >out
check "generate --seed: two threads with other batches draw the same texts" same one.thread out
"$trf" generate --model counter --count 20 --seed 4 >out
check "generate --seed: another seed draws other texts" eval '! cmp -s one.thread out'
expect 0 "generate --json: a text is an object with its probability, tokens and end" \
    '^{"text":"two three.*","log_probability":-[0-9.]*,"tokens":4,"ended":"end"}$' \
    "$trf" generate --model counter --prompt "two three" --json --temperature 0
expect 0 "score: a language model scores a text" "^-[0-9.]*	7$" "$trf" score --model counter --target counting
check "score: a language model has an output line for each line" lines_are 400 out
check "score: a language model counts the words and an end mark a line" \
    test "$(awk '{ n += $2 } END { print n }' out)" -eq $(($(wc -w <counting) + 400))
expect 2 "score: a language model refuses --source" "give only --target FILE" "$trf" score --model counter \
    --source counting --target counting
expect 2 "score: a translator refuses --target without --source" "give --source FILE and --target FILE" "$trf" score \
    --model good --target train.names
expect 0 "generate: a prompt of 1202 words is taken" "^one two" "$trf" generate --seed 1 --model counter \
    --prompt "one two $(head -n 200 counting | tr '\n' ' ')"
expect 0 "train --objective causal: a language model of characters is trained" "done: " "$trf" train \
    --objective causal --text counting --documents file --tokens characters --chunk 64 $quick --updates 60 \
    --model speller
expect 0 "generate: a language model of characters writes a text" "" \
    "$trf" generate --seed 1 --model speller --prompt "one" \
    --max-tokens 40
expect 0 "train --objective causal --pack: a language model of packed texts is trained" "done: " "$trf" train \
    --objective causal --text counting --pack --chunk 20 $quick --updates 20 --model m
expect 0 "train --objective mask: a model of hidden words is trained" "best: update [0-9]*, loss" "$trf" train \
    --objective mask --text counting $fast --model masked
sed 'p;p;p;p;p;p;p;p;p' counting | tr '\n' ' ' | fold -w 400 >long
expect 0 "train --objective mask: texts longer than the model are taken" "done: 3 updates" "$trf" train \
    --objective mask --text long $quick --tokens words --source-bos yes --max-length 24 --valid-size 0 --updates 3 \
    --model m
expect 2 "train --objective mask: a --chunk without room for both marks is refused" \
    "2 to 22 tokens (--max-length minus 2), got 23" "$trf" train --objective mask --text long $fast --source-bos yes \
    --max-length 24 --chunk 23 --model no
expect 0 "train --objective span: a model of missing spans is trained" "best: update [0-9]*, loss" "$trf" train \
    --objective span --text counting $fast --model spans
expect 0 "generate: an encoder-decoder model draws texts" "" "$trf" generate --model spans --input counting \
    --temperature 0.5
for objective in "classify --tsv counts.tsv" "tag --tsv parity.tsv" "causal --text counting" \
    "mask --text counting --whole-words yes" "span --text counting"; do
    name=${objective%% *}
    "$trf" train --objective $objective $quick --updates 40 --valid-every 10 --model straight 2>err
    "$trf" train --objective $objective $quick --updates 15 --valid-every 10 --model halved 2>err
    expect 0 "train --objective $name: a run of 15 updates goes on to 40" "resumed from update 16" "$trf" train \
        --objective $objective $quick --updates 40 --valid-every 10 --model halved --resume
    check "train --objective $name: a resumed run makes the model of an unbroken one" same straight halved
done
{ cat counting; yes one | head -n 350 | tr '\n' ' '; echo; } >uneven
lengths="--objective mask --text uneven --chunk 400 $quick --valid-size 100 --valid-every 10 \
    --ema 0"
"$trf" train $lengths --updates 40 --model straight 2>wanted
"$trf" train $lengths --updates 15 --model halved 2>/dev/null
expect 0 "train: a run with a text longer than a batch goes on" "resumed from update 16" "$trf" train $lengths \
    --updates 40 --model halved --resume
grep '^validation: update [234]0' wanted >first
grep '^validation: update [234]0' err >out
check "train: a resumed run with a text longer than a batch has the validations of an unbroken one" same first out
check "train: a resumed run with a text longer than a batch has three validations" lines_are 3 out
{ yes "1 2 3	small" | head -n 70000; yes "7 8 9	large" | head -n 400; } | sed 's/\\t/\t/' \
    >sorted.tsv
expect 0 "train --objective classify: a file sorted by label is taken" "^done: 1 update," "$trf" train \
    --objective classify --tsv sorted.tsv $quick --updates 1 --model m
parameters() { sed -n 's/^\([0-9]*\) of \([0-9]*\) tensors come from.*/\1 \2/p' err; }
"$trf" train --objective classify --tsv counts.tsv --init-from counts --seed 5 --threads 1 \
    --updates 0 --model m 2>err
check "train --init-from: a classifier of the same labels takes all parameters" \
    eval 'set -- $(parameters); test $1 -eq $2'
expect 0 "train --init-from: a classifier of the same labels answers as before" "^4 digits$" "$trf" classify --model m \
    --input four
sed 's/1 digits/more digits/' counts.tsv >renamed.tsv
"$trf" train --objective classify --tsv renamed.tsv --init-from counts --seed 5 --threads 1 \
    --updates 0 --model m 2>err
check "train --init-from: a classifier of other labels takes all parameters but those of its head" \
    eval 'set -- $(parameters); test $1 -eq $(($2 - 2))'
expect 0 "train --init-from: a label that both classifiers have is answered as before" "^4 digits$" "$trf" classify \
    --model m --input four
expect 0 "train --init-from: --source-vocab-size is taken for the side that a language model lacks" "^done" \
    "$trf" train --tsv train.tsv --init-from counter --source-vocab-size 15 --min-count 2 --seed 5 --threads 1 \
    --updates 1 --model m
expect 2 "train --init-from: --target-vocab-size is refused for the side that a language model has" \
    "the vocabulary is that of the model\|without --extend-vocabulary" "$trf" train --tsv train.tsv \
    --init-from counter --target-vocab-size 15 --updates 1 --model m
expect 2 "train --objective span: characters are refused" "needs words or subwords" "$trf" train --objective span \
    --text counting --tokens characters $quick --updates 1 --model m
expect 0 "train --target-eos no: a translator is trained" "^done" "$trf" train --tsv train.tsv $quick --target-eos no \
    --updates 1 --model m
expect 0 "score: a translator without end marks scores pairs" "" "$trf" score --model m --source test.digits \
    --target test.names
check "score: a translator without end marks counts only words" test "$(awk '{ n += $2 } END { print n }' out)" \
    -eq "$(wc -w <test.names)"
expect 0 "train --init-from: a tagger begins with a model of hidden words" "tensors come from masked" "$trf" train \
    --objective tag --tsv parity.tsv --init-from masked --extend-vocabulary --seed 5 --threads 1 --updates 20 --model m
check "train --extend-vocabulary: words of the tagger's data are added" grep -q "source: 10 tokens are new" err
expect 0 "train --init-from --freeze: a translator is trained further" "tensors come from good" "$trf" train \
    --tsv train.tsv --init-from good --freeze "encoder.*" --freeze "*embed*" --seed 5 --threads 1 --updates 20 \
    --model tuned
check "train --freeze: frozen parameters are counted" grep -q "frozen: [1-9]" err
expect 2 "train --freeze: a pattern that fits no parameter is refused" "no parameter of the model matches" \
    "$trf" train --tsv train.tsv $small --freeze "nonsense*" --updates 1 --model m
expect 1 "train --init-from: another --d-model is refused" "TRF_E_SHAPE" "$trf" train --tsv train.tsv --init-from good \
    --d-model 32 --updates 1 --model m
expect 1 "train --resume: another objective is refused" "has another --objective" "$trf" train --objective tag \
    --tsv parity.tsv $fast --model counts --resume
expect 1 "tag: a classifier is refused" "was not trained with --objective tag" "$trf" tag --model counts --input four
expect 1 "classify: a tagger is refused" "was not trained with --objective classify" "$trf" classify \
    --model parity --input four
expect 1 "train --objective classify: data with only one label are refused" "there is one label" "$trf" train \
    --objective classify --source train.digits --target /dev/fd/3 --updates 1 --model m 3<<END
$(yes same | head -n 600)
END
{ head -n 500 parity.tsv; printf '1 2 3\todd even\n'; } >short.tsv
expect 0 "train --objective tag: a line with fewer labels than words is named" "short.tsv:501: 3 words, but 2 labels" \
    "$trf" train --objective tag --tsv short.tsv $quick --updates 2 --model m
expect 2 "train: --text is refused for a translator" "is for --objective causal" "$trf" train --text counting \
    --updates 1 --model m
expect 2 "train --objective causal: pairs are refused" "this --objective reads --text FILE, not pairs" "$trf" train \
    --objective causal \
    --tsv train.tsv --updates 1 --model m
expect 2 "train --objective causal: --metric bleu is refused" "--metric bleu does not work with" "$trf" train \
    --objective causal --text counting --metric bleu --model m
expect 2 "train --objective causal: --chunk 1 is refused" "--chunk takes 2 to" "$trf" train --objective causal \
    --text counting --chunk 1 --model m

# --- a log of f1, pooling, large batches, long lines --------------------------------------------
"$trf" train --objective classify --tsv counts.tsv $quick --pooling first --updates 2 \
    --model pooled 2>/dev/null
"$trf" train --objective classify --tsv counts.tsv --init-from pooled --seed 5 --threads 1 \
    --updates 2 --model m 2>/dev/null
expect 0 "train --init-from: the pooling is that of the model" "^head: label of the first token" "$trf" inspect m
"$trf" train --objective tag --tsv parity.tsv --metric f1 --valid-every 5 --log f1.log $quick \
    --updates 10 --model m 2>/dev/null
check "train --metric f1: the log names the metric" grep -q '"metric":"f1"' f1.log
if command -v gnuplot >/dev/null; then
    expect 0 "plot: a log with F1 has a plot of it" "^ *f1 *$" "$trf" plot f1.log
    expect 0 "plot --output: a log with F1 is drawn as a picture" "" "$trf" plot f1.log --output f1.svg
    check "plot --output: the picture has its end" grep -q '</svg>' f1.svg
    [ ! -c /dev/full ] || expect 1 "plot: a full disk at standard output is told" "cannot write standard output" \
        sh -c "'$trf' plot f1.log >/dev/full"
fi
expect 0 "train --patience: a perfect score ends the training" "(the score is perfect)" "$trf" train \
    --objective classify --tsv counts.tsv --seed 5 --threads 1 --batch-tokens 256 --init-from counts --valid-every 2 \
    --patience 4 --model m
{ cat parity.tsv;
  awk 'BEGIN { for (i = 0; i < 600; i++) printf "1 "; printf "\t"
    for (i = 0; i < 600; i++) printf "odd "; print "" }'; } >long.tsv
expect 0 "train --objective tag: a line that is too long is counted" "1 too long" "$trf" train --objective tag \
    --tsv long.tsv $quick --updates 1 --model m
expect 0 "classify --buffer 2000000: a buffer far larger than the text is taken" "" "$trf" classify --model counts \
    --input four --buffer 2000000
expect 2 "translate: --alignments of a language model are refused" "need source tokens" "$trf" translate \
    --model counter --input four --json --alignments

# --- text in chunks -----------------------------------------------------------------------------
awk '{ print $1 }' train.digits >short.text
awk '{ a = a " " $0 } NR % 10 == 0 { print substr(a, 2); a = "" }' train.digits >long.text
parts="--objective causal --text short.text --valid-text long.text --tokens words --d-model 16 \
    --n-heads 2 --d-ff 32 --decoder-layers 1 --threads 1
       --batch-tokens 256 --warmup 5"
expect 0 "train --chunk: a language model of chunks is trained" "^done" "$trf" train $parts --chunk 40 --updates 10 \
    --model chunks
expect 0 "train --resume: with another --chunk the search for the best model starts again" \
    "the search for the best model starts again" "$trf" train $parts --chunk 6 --updates 12 --model chunks --resume
# documents of 28 words in chunks of 11: most chunks begin in the middle of one
awk 'BEGIN { srand(3); split("amber birch cedar daisy elder fern grass hazel iris", w, " ")
    for (i = 0; i < 600; i++) {
        s = "BEGIN"
        for (j = 0; j < 26; j++) s = s " " w[1 + int(9 * rand())]
        print s " END"
    } }' \
    >documents
stream="--objective causal --tokens words --max-length 12 --threads 1 --d-model 64 --n-heads 4 --d-ff 128
    --decoder-layers 1 --warmup 50"
for more in "" --pack; do
    expect 0 "train on documents longer than a chunk${more:+, $more}" "^done" "$trf" train $stream $more \
        --text documents --updates 250 --model streamed
    expect 0 "documents longer than a chunk${more:+, $more}: generate from nothing" "" "$trf" generate --seed 1 \
        --model streamed --count 50 --max-tokens 40
    check "documents longer than a chunk${more:+, $more}: all 50 texts begin where a document begins" \
        [ "$(grep -c '^BEGIN' out)" -eq 50 ]
done
expect 0 "prepare packed documents" "" "$trf" prepare --model streamed --objective causal --pack --max-length 12 \
    --output packed.tokens documents
expect 0 "train on prepared packed documents" "^done" "$trf" train $stream --token-file packed.tokens \
    --vocab-from streamed --updates 1 --valid-size 0 --model prepared
expect 0 "train on prepared packed documents: the model knows where texts begin" "trained.stream: 1" \
    "$trf" inspect prepared
expect 0 "train on documents that fit in a chunk" "^done" "$trf" train --objective causal --tokens words \
    $quick --text documents --updates 1 --model whole
expect 0 "documents that fit in a chunk: inspect" "" "$trf" inspect whole
check "documents that fit in a chunk: texts begin behind BOS alone" sh -c "! grep -q trained.stream out"
expect 2 "train --documents file: --pack is refused" "no effect on --documents file" "$trf" train $parts \
    --documents file --pack --updates 1 --model m
expect 2 "train --objective causal: --max-length 2 is refused as no text fits" \
    "--max-length must be 3 or more for a text, got 2" "$trf" train --objective causal --text short.text \
    --max-length 2 --updates 1 --model m
expect 2 "train: --valid-text is refused for a translator" "--valid-text is for" "$trf" train $files $model \
    --valid-text counting --updates 1 --model m

# --- files that would be replaced, options that have no effect ----------------------------------
cp counting text
expect 1 "train: --model of the file that --text reads is refused" "--model 'text' is the file that --text reads" \
    "$trf" train --objective causal --text text $quick --updates 1 --model text
expect 1 "train: --log of the file that --valid-text reads is refused" \
    "--log 'text' is the file that --valid-text reads" "$trf" train --objective causal --text counting \
    --valid-text text $quick --updates 1 --model m --log text
cp masked other
expect 1 "train: --model of the file that --init-from reads is refused" \
    "--model 'other' is the file that --init-from reads" "$trf" train --objective mask --text counting \
    --init-from other --threads 1 --updates 1 --model other
check "train: files that --model and --log would replace stay as they were" \
    eval 'same text counting && same other masked'
expect 2 "train --objective tag: --mean-span is refused" "--mean-span has no effect on --objective tag" "$trf" train \
    --objective tag --tsv parity.tsv --mean-span 2 $quick --updates 1 --model m
expect 2 "train: --chunk is refused for a translator" "--chunk has no effect on --objective translate" "$trf" train \
    --tsv train.tsv --chunk 20 $quick --updates 1 --model m
expect 2 "train --objective causal: --target-eos is refused" "--target-eos has no effect on --objective causal" \
    "$trf" train --objective causal --text counting --target-eos yes $quick --updates 1 --model m
expect 2 "train: --extend-vocabulary is refused without --init-from" "--extend-vocabulary is for --init-from" \
    "$trf" train --tsv train.tsv --extend-vocabulary $quick --updates 1 --model m
expect 2 "train --init-from: --size is refused" "the sizes are those of that model" "$trf" train --tsv train.tsv \
    --init-from good --size base --updates 1 --model m
expect 1 "train --init-from: other --tokens are refused" "good was made with other --source-tokens" "$trf" train \
    --tsv train.tsv --init-from good --tokens characters --updates 1 --model m
expect 1 "train --init-from: --tying all is refused for a model with two vocabularies" \
    "needs one vocabulary for both sides, but good has two" "$trf" train --tsv train.tsv --init-from good --tying all \
    --threads 1 --updates 1 --model m
expect 2 "classify: --top is refused without --json" "--top needs --json" "$trf" classify --model counts \
    --input four --top 2
expect 1 "train --resume: another --pooling is refused" "has another --objective or --pooling" "$trf" train \
    --objective classify --tsv counts.tsv $fast --model counts --pooling first --resume

# --- labels that are numbers, and several at once -------------------------------------------------
awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" n / 2 }' train.tsv >halves.tsv
awk -F '\t' '{ split("", has); n = split($1, d, " ")
    for (i = 1; i <= n; i++) has[d[i] % 2] = 1
    print $1 "\t" (has[1] ? "odd" : "") (has[0] && has[1] ? ", " : "") (has[0] ? "even" : "") }' train.tsv >kinds.tsv
expect 0 "train --label-kind number: a model learns numbers" "best: update [0-9]*, loss 0.0" "$trf" train \
    --objective classify --label-kind number --tsv halves.tsv $fast --model halves --log halves.json
check "train --label-kind number: validations tell correlations" \
    grep -q 'loss [0-9.]*  pearson 0.9[0-9]*  spearman 0.9' err
expect 0 "classify: a text gets its number" "^\(1.[89]\|2\|2.[01]\)[0-9]*$" "$trf" classify --model halves --input four
check "classify: an empty line gets no number" test "$(sed -n 2p out)" = ""
expect 0 "classify --json: numbers" '^{"line":1,"text":"3 1 4 1","numbers":.[12].[0-9]*]}$' "$trf" classify \
    --model halves --input four --json
expect 0 "train --metric spearman: its best is told" "best: update [0-9]*, spearman 9" "$trf" train \
    --objective classify --label-kind number --metric spearman --tsv halves.tsv $fast --model m
expect 0 "train --label-kind any: a model learns several labels at once" "best: update" "$trf" train \
    --objective classify --label-kind any --metric f1 --tsv kinds.tsv $fast --model kinds
check "train --label-kind any: validations tell F1 and whole sets" \
    grep -q 'micro-F1 [19][0-9.]* %  accuracy [0-9.]* %' err
printf '2 2 2\n\n3 3\n1 2\n' >kinds.in
printf 'even\n\nodd\neven,odd\n' >wanted
"$trf" classify --model kinds --input kinds.in >out 2>err
check "classify: the labels that hold, with commas between them" same out wanted
expect 0 "inspect shows what labels are" "label-kind any" "$trf" inspect kinds
expect 0 "train --label-kind any --resume: the run goes on" "^done" "$trf" train \
    --objective classify --label-kind any --metric f1 --tsv kinds.tsv $quick --updates 310 --model kinds --resume
expect 0 "train --label-kind number --resume: the run goes on" "^done" "$trf" train \
    --objective classify --label-kind number --tsv halves.tsv $quick --updates 310 --model halves --resume
few="$quick --updates 2 --valid-size 0 --model m"
numbers="--objective classify --label-kind number"
{ head -n 300 halves.tsv; printf '1 2\t1.5x\n1\tnan\n2\tinf\n3\t1e39\n4\t\n5\t1 2\n'; } >broken.tsv
expect 0 "train --label-kind number: what is no number is left out" \
    "broken.tsv:301: byte 1 of the label: expected a number, got '1.5x'" "$trf" train $numbers --tsv broken.tsv $few
check "train --label-kind number: six lines are left out" grep -q "left out: 6 lines (6 without their labels)" err
for fault in "302: .*got 'nan'" "303: .*got 'inf'" "304: .*got '1e39'" "305: no number"; do
    check "train --label-kind number: $fault" grep -q "broken.tsv:$fault" err
done
expect 1 "train --label-kind number --strict stops" "301: byte 1" "$trf" train $numbers --tsv broken.tsv $few --strict
{ head -n 300 kinds.tsv; printf '1 2\tode\n1\todd,odd\n'; } >broken.tsv
expect 0 "train --label-kind any: a label twice" "302: the label 'odd' occurs twice" "$trf" train \
    --objective classify --label-kind any --tsv broken.tsv --valid-tsv broken.tsv $quick --updates 2 --model m
awk '{ print $1 "\t7" }' counting >constant.tsv
expect 0 "train --label-kind number: constant numbers have no correlation" "pearson nan" "$trf" train $numbers \
    --tsv constant.tsv $quick --updates 2 --model m
sed 's/7$/1e30/' constant.tsv >huge.tsv
expect 1 "train --label-kind number: numbers beyond what can be learned" "not finite" "$trf" train $numbers \
    --tsv huge.tsv $quick --updates 200 --model m
head -n 1 halves.tsv >single.tsv
expect 0 "train --label-kind number: a file of one line" "^done" "$trf" train $numbers --tsv single.tsv $few
sed 's/\t.*/\t/' single.tsv >empty.tsv
expect 1 "train --label-kind number: no number at all" "no text has numbers" "$trf" train $numbers --tsv empty.tsv $few
expect 1 "train --label-kind any: no label at all" "no text has a label" "$trf" train --objective classify \
    --label-kind any --tsv empty.tsv $few
expect 2 "train --metric f1 is refused for numbers" "f1 does not work with --label-kind number" "$trf" train $numbers \
    --metric f1 --tsv halves.tsv $quick --updates 2 --model m
expect 2 "train --metric pearson is refused for labels" "pearson does not work with --label-kind any" "$trf" train \
    --objective classify --label-kind any --metric pearson --tsv kinds.tsv $quick --updates 2 --model m
expect 2 "train --label-kind is for classify" "label-kind has no effect on --objective tag" "$trf" train \
    --objective tag --label-kind any --tsv parity.tsv $few
expect 0 "train --init-from: labels become numbers" "[0-9]* of [0-9]* tensors come from counts" "$trf" train $numbers \
    --tsv halves.tsv --init-from counts --seed 5 --threads 1 --updates 2 --model m
expect 1 "report: numbers are not compared" "its labels are numbers" "$trf" report halves.json --model halves \
    --data halves.tsv --output r.html

# --- beginning with a model of another objective ------------------------------------------------
expect 0 "train --init-from: a vocabulary that lacks all words of the source is told" \
    "100.0 % of the source's tokens are unknown.*--extend-vocabulary adds" "$trf" train --tsv train.tsv --columns 2,1 \
    --init-from good --seed 5 --threads 1 --updates 1 --model m
tuning="--tsv train.tsv --init-from good --conventions pytorch --seed 5 --threads 1 \
    --batch-tokens 256 --model tuned"
"$trf" train $tuning --updates 5 2>/dev/null
expect 0 "train --init-from: a run with --conventions goes on" "resumed from update 6" "$trf" train $tuning \
    --updates 8 --resume
expect 2 "train --init-from: --joint-vocabulary is refused" "sets the number of vocabularies" "$trf" train \
    --tsv train.tsv --init-from good --joint-vocabulary yes --updates 1 --model m
awk -F '\t' '{ print $1 "\t" $2 " indeed" }' train.tsv >indeed.tsv
expect 0 "train --tying all: a translator with one vocabulary is trained" "done: " "$trf" train --tsv train.tsv \
    --tying all $quick --updates 20 --model joint
expect 0 "train --extend-vocabulary: one vocabulary for both sides grows by a word" "both sides: 1 token is new" \
    "$trf" train --tsv indeed.tsv --init-from joint --extend-vocabulary --threads 1 --updates 200 --model m
expect 0 "train --extend-vocabulary: the new word is in an answer" "^[a-z ]* indeed$" "$trf" translate --model m \
    --input four
expect 0 "train --init-from: a translator takes its decoder from a language model" \
    "51 of 126 tensors come from counter" "$trf" train --tsv train.tsv --init-from counter --threads 1 --updates 20 \
    --model m
expect 0 "train --init-from: a translator from a language model writes end marks" "target-eos yes" "$trf" inspect m
expect 0 "train --init-from: a translator takes its encoder from a model of hidden words" \
    "tensors come from masked" "$trf" train --tsv train.tsv --init-from masked --threads 1 --updates 2 --model m
expect 1 "train --init-from: a model of which no parameter fits is refused" "no parameter of masked fits" "$trf" train \
    --objective causal --text counting --init-from masked --threads 1 --updates 2 --model m

# --- labels, lines and models that do not fit ---------------------------------------------------
{ head -n 300 counts.tsv; printf '1 2\tb\377d\n'; } >broken.tsv
expect 0 "train --objective classify: a label that is not UTF-8 is named" \
    "broken.tsv:301: expected UTF-8, got the byte 0xFF at offset 5" "$trf" train --objective classify --tsv broken.tsv \
    $quick --updates 2 --valid-size 0 --model m
check "train --objective classify: a label that is not UTF-8 is not counted" grep -q " 5 labels" err
{ head -n 300 parity.tsv; printf '1 2\tb\377d odd\n'; } >broken.tsv
expect 0 "train --objective tag: a line with a label that is not UTF-8 is named" \
    "broken.tsv:301: expected UTF-8, got the byte 0xFF at offset 5" "$trf" train --objective tag --tsv broken.tsv \
    $quick --updates 2 --valid-size 0 --model m
sed 's/odd/zzz/g' parity.tsv >renamed.tsv
expect 0 "train --objective tag: a tagger of other labels is trained" "done: " "$trf" train --objective tag \
    --tsv renamed.tsv $quick --updates 2 --model m
expect 1 "average: models of different labels are refused" "have different labels" "$trf" average parity m --output mean
expect 0 "inspect: the labels of a tagger are shown" "^2 labels: even | odd$" "$trf" inspect parity
expect 0 "inspect --json: the labels of a tagger are listed" '"labels":\["even","odd"\]' "$trf" inspect parity --json
for command in translate generate "score --source train.digits --target train.names"; do
    expect 1 "${command%% *}: a tagger is refused" "parity: an encoder-only model has no decoder" "$trf" \
        $command --model parity
done
printf '3 \377 1\n' >broken
expect 1 "tag: a word that is not UTF-8 is named by its line" \
    "broken:1: .*expected UTF-8, got the byte 0xFF at offset 2" "$trf" tag --model parity --input broken
printf 'two\n\377\nthree\n' >broken
expect 1 "generate: a line that is not UTF-8 is named" "broken:2: .*expected UTF-8" "$trf" generate --model counter \
    --input broken --temperature 0
check "generate: a line that is not UTF-8 has an empty output line" eval 'lines_are 3 out && [ -z "$(sed -n 2p out)" ]'
expect 1 "generate --json: a line that is not UTF-8 is an object that says unusable" '"ended":"unusable"' \
    "$trf" generate --model counter --input broken --json

# --- rare, long and many labels -----------------------------------------------------------------
awk 'BEGIN { for (i = 0; i < 400; i++)
    print "w" i % 37 " v" int(i / 37) "\t" (i == 10 ? "rare" : i % 2 ? "a" : "b") }' >rare.tsv
tiny="--threads 1 --d-model 16 --n-heads 2 --d-ff 32 --encoder-layers 1 --updates 2"
expect 0 "train --objective classify: a label that comes once is one of 3 labels" "texts; .* 3 labels" "$trf" train \
    --objective classify --tsv rare.tsv $tiny --strict --model labels
sed 's/rare$/a-label rare/' rare.tsv | sed '11!s/\(.*\)\t\(.*\)/\1\t\2 \2/' >tags.tsv
expect 0 "train --objective tag: a label that comes once is one of 4 labels" "texts; .* 4 labels" "$trf" train \
    --objective tag --tsv tags.tsv $tiny --strict --model tags
{ cat rare.tsv; printf 'x y\t'; head -c 3000 /dev/zero | tr '\0' l; echo; } >long.tsv
expect 0 "train --objective classify: a label of more than 1000 bytes is named" \
    "long.tsv:401: a label of 3000 bytes, at most 1000" "$trf" train --objective classify --tsv long.tsv $tiny \
    --model labels
expect 1 "train --strict: a label of more than 1000 bytes is refused" "long.tsv:401" "$trf" train --objective classify \
    --tsv long.tsv $tiny --strict --model labels
awk 'BEGIN { for (i = 0; i < 3000; i++) {
    printf "w" i % 7 " x\tl%d", i; for (j = 0; j < 45; j++) printf " and more"
    print "" } }' >many.tsv
expect 1 "train --objective classify: labels of a megabyte in all are refused" "labels have [0-9]* bytes in all" \
    "$trf" train --objective classify --tsv many.tsv $tiny --valid-size 0 --model labels
awk 'BEGIN { for (i = 0; i < 270000; i++) print "w" i % 7 "\t" i }' >own.tsv
expect 1 "train --objective classify: more than 65536 labels are refused" "more than 65536 labels" timeout 120 \
    "$trf" train --objective classify --tsv own.tsv $tiny --model labels
awk 'BEGIN { for (i = 0; i < 60000; i++) print "w" i % 7 "\t" i % 50000 }' >manifold.tsv
expect 0 "train --objective classify: 50000 labels are taken" "50000 labels" timeout 120 "$trf" train \
    --objective classify --tsv manifold.tsv --threads 1 --d-model 8 --n-heads 1 --d-ff 16 --encoder-layers 1 \
    --tokens words --valid-size 10000 --updates 1 --metric loss --model labels
awk 'BEGIN { for (i = 0; i < 200; i++)
    print "text" int(i / 2) "\t" (i == 20 ? "rare" : i % 4 < 2 ? "a" : "b") }' >twice.tsv
expect 0 "train: two pairs of one source are held out together, even if one has a rare label" \
    "held out: [0-9]*[02468] of 200" "$trf" train --objective classify --tsv twice.tsv $tiny --valid-size 150 \
    --model labels

# --- pairs of texts, and sentences that follow one another ---------------------------------------
# Sixty documents of eight sentences, about four topics with words of their own: a random sentence
# is of another topic in three cases of four.
awk 'BEGIN { srand(3); for (d = 0; d < 60; d++) { t = d % 4; for (i = 0; i < 8; i++) { s = ""
    for (k = 0; k < 4; k++) s = s (k ? " " : "") "w" t "_" int(rand() * 8); print s }; print "" } }' >story
bert="--objective classify --segments 2 --pooling first --head-layer yes --source-bos yes"
bert="$bert --encoder-layers 1 --d-model 32 --n-heads 2 --d-ff 64 --threads 1"
expect 0 "train --next-sentences: a classifier of sentence pairs is trained" "^399 texts" "$trf" train $bert \
    --next-sentences story --updates 300 --seed 3 --model nsp
check "train --next-sentences: at least 85 % of the pairs are told right" awk \
    '/^done/ { exit !($0 ~ /accuracy (8[5-9]|9)/) }' err
printf 'w0_1 w0_2\tw0_3 w0_4\nw0_1 w0_2\tw2_3 w2_4\n' >two.pairs
"$trf" classify --model nsp <two.pairs >out
check "classify: a sentence pair of one topic is next, one of two topics random" test "$(cat out)" = "next
random"
expect 0 "train --next-sentences: a run with seed 3 is made" "" "$trf" train $bert --next-sentences story --updates 5 \
    --seed 3 --model nsp2
expect 0 "train --next-sentences: a second run with seed 3 is made" "" "$trf" train $bert --next-sentences story \
    --updates 5 --seed 3 --model nsp3
check "train --next-sentences: the same seed makes the same model" same nsp2 nsp3
"$trf" train $bert --next-sentences story --updates 5 --seed 4 --model nsp3 2>err
check "train --next-sentences: another seed makes another model" test "$(cmp -s nsp2 nsp3; echo $?)" -eq 1
# hidden tokens and labels at once: the labels are learned as by classify, and the model goes on to either of both
both="--objective pretrain --segments 2 --head-layer yes --source-bos yes"
both="$both --encoder-layers 1 --d-model 32 --n-heads 2 --d-ff 64 --threads 1"
expect 0 "train --objective pretrain: the labels are learned" "labels: loss 0.[0-9]* accuracy [89][0-9]" "$trf" train \
    $both --next-sentences story --updates 300 --seed 3 --model pre --log pre.log --checkpoint pre.check
check "train --objective pretrain: the hidden tokens are learned" awk '/perplexity/ { p = $9 } END { exit !(p < 14) }' \
    err
check "train --objective pretrain: the loss is the sum of that of tokens and that of labels" \
    awk -F '[:,]' '/"validation"/ { for (i = NF - 1; i; i--) v[$i] = $(i + 1) + 0
    d = v["\"loss\""] - v["\"nll\""] - v["\"label_loss\""]; if (d < -1e-5 || d > 1e-5) bad = 1
    n++ } END { exit bad || n < 3 }' pre.log
"$trf" classify --model pre <two.pairs >out
check "classify: a model of --objective pretrain tells next sentences from random ones" test "$(cat out)" = "next
random"
expect 0 "inspect: a model of --objective pretrain has two heads" "head: masked tokens, and 2 labels of sequences" \
    "$trf" inspect pre --trace
check "inspect: a model of --objective pretrain shows the layer of its sequence head" \
    grep -q "sequence.layer.weight (32, 32) and bias, then tanh" out
check "inspect: a model of --objective pretrain shows its labels" grep -q "2 labels: next | random" out
expect 0 "train --objective pretrain: a run goes on" "update 305" "$trf" train $both --next-sentences story \
    --updates 305 --seed 3 --model pre --checkpoint pre.check --resume
expect 1 "train --resume: --objective mask is refused for a run of pretrain" "another --objective" "$trf" train \
    --objective mask --text story --updates 310 --model pre --checkpoint pre.check --resume
expect 0 "train --init-from: a classifier begins with a model of pretrain" "18 of 20 tensors come" "$trf" train \
    --objective classify --next-sentences story --init-from pre --pooling first --head-layer yes --updates 1 \
    --learning-rate 1e-9 --model m --threads 1
"$trf" inspect pre >out; "$trf" inspect m >more
check "train --init-from: the head's layer of a classifier is the pooler of its model of pretrain" \
    test "$(awk '/sequence.layer.weight/ { print $7, $8, $9 }' out)" = \
    "$(awk '/head.layer.weight/ { print $7, $8, $9 }' more)"
expect 0 "train --init-from: a model of hidden words begins with one of pretrain" "21 of 21 tensors come" \
    "$trf" train --objective mask --text story --init-from pre --updates 1 --valid-size 0 --model m --threads 1
check "train --init-from: a model of hidden words from one of pretrain has no sequence head" \
    sh -c "! '$trf' inspect m | grep -q sequence"
expect 0 "train --init-from: a classifier of other labels begins with a model of pretrain" "18 of 20 tensors come" \
    "$trf" train --objective classify --tsv counts.tsv --init-from pre --extend-vocabulary --pooling first \
    --head-layer yes --updates 1 --valid-size 0 --model m --threads 1
expect 0 "train --init-from: pretrain with other labels begins with a model of pretrain" "23 of 25 tensors come" \
    "$trf" train $both --tsv counts.tsv --init-from pre --extend-vocabulary --updates 1 --valid-size 0 --model m
expect 0 "train --objective pretrain: labels of single texts are taken" "5 labels" "$trf" train $both --tsv counts.tsv \
    --updates 3 --valid-size 0 --model m
expect 0 "inspect --objective pretrain: a planned model has its two heads" "masked tokens, and 4 labels" \
    "$trf" inspect --objective pretrain --labels 4 --head-layer yes --size tiny
expect 2 "train --objective pretrain: --metric accuracy is refused" "metric accuracy does not work" "$trf" train $both \
    --next-sentences story --metric accuracy --model m
expect 2 "train --objective pretrain: shares of hidden tokens that sum to more than 1 are refused" "sum of at most 1" \
    "$trf" train $both --next-sentences story --masked-share 0.9 --random-share 0.2 --model m
expect 2 "train --objective pretrain: --pooling is refused" "no effect on --objective pretrain" "$trf" train $both \
    --pooling first --next-sentences story --model m
printf 'one\n\ntwo\n\nthree\n' >alone
expect 1 "train --next-sentences: documents of one sentence are refused" "no sentence follows another one" \
    "$trf" train $bert --next-sentences alone --model m
printf 'one\ntwo\n' >alone
expect 1 "train --next-sentences: two sentences in all are refused" \
    "need three sentences or more, one per line, got 2" "$trf" train $bert --next-sentences alone --model m
expect 2 "train --next-sentences: --tsv beside it is refused" "do not work with it" \
    "$trf" train $bert --next-sentences story --tsv counts.tsv --model m
expect 2 "train --objective tag: --next-sentences is refused" "no effect on --objective tag" \
    "$trf" train --objective tag --next-sentences story --model m
expect 1 "train --next-sentences --strict: a model without segments is refused" \
    "two texts, but the model has no segments" "$trf" train --objective classify --next-sentences story --strict \
    --updates 2 --valid-size 0 --model m
# three columns: whether both texts have the same word
awk 'BEGIN { srand(5); for (i = 0; i < 600; i++) { a = int(rand() * 6); b = rand() < 0.5 ? a : int(rand() * 6)
    print "x" a "\tx" b "\t" (a == b ? "same" : "other") } }' >equal.tsv
expect 0 "train --segments 2: pairs of texts in three columns are learned" "accuracy 100" "$trf" train $bert \
    --tsv equal.tsv --updates 400 --seed 2 --model equal
printf 'x1\tx1\nx1\tx2\n\n' | "$trf" classify --model equal >out 2>err
check "classify --segments 2: each pair gets its label, an empty line none" test "$(cat out; echo .)" = "same
other

."
awk -F '\t' '{ print $0 "\tmore" }' equal.tsv >wide.tsv
expect 1 "train --segments 2 --strict: four columns are refused" "more than one tab" "$trf" train $bert --tsv wide.tsv \
    --strict --model m
expect 0 "train --objective mask --head-layer yes: a model of hidden words is trained" "^done" "$trf" train \
    --objective mask --text counting --head-layer yes --updates 5 --valid-size 0 --model hidden --threads 1
expect 0 "train --init-from: a classifier with a head layer begins with a model of hidden words that has one" "^done" \
    "$trf" train --objective classify --tsv counts.tsv --init-from hidden --pooling first --head-layer yes \
    --extend-vocabulary --updates 2 --valid-size 0 --model m --threads 1
expect 2 "train --objective classify: --head-layer is refused with --pooling mean" "head-layer must be 0 with head 1" \
    "$trf" train --objective classify --tsv counts.tsv --head-layer yes --pooling mean --updates 2 --model m
expect 0 "inspect --trace: segments are shown" "plus segments" "$trf" inspect nsp --trace
check "inspect --trace: the layer of the head is shown" grep -q "head.layer.weight (32, 32) and bias, then tanh" out

finish

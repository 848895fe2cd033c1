#!/bin/sh
# Subwords: sh tests/test_trf_subwords.sh build/trf
#
# SentencePiece models that trf learns or is given: normalisation, special pieces, line ends and
# blanks of programs, words of invisible characters, random cuts, and what --resume and --init-from
# keep. Without libsentencepiece trf says so, and uses words.

. "$(dirname "$0")/trf.sh"

trf=$anew

tiny="--d-model 16 --n-heads 2 --d-ff 32 --threads 1 --warmup 20"
says() { grep -q -e "$1" err; }
printf 'def f(x):\n    if x:\n\treturn  1\n\nend \n' >program
for i in $(seq 40); do cat program; done >programs
document="--objective causal --text programs --documents file $tiny --decoder-layers 1 --updates 1"
with_subwords=$("$trf" train --tsv train.tsv $model --tokens sentencepiece --vocab-size 60 --updates 1 --model m 2>&1 |
    grep -c 'subwords learned')

# --- text is written as it was and read composed ------------------------------------------------

if [ "$with_subwords" -eq 1 ]; then
once="$tiny --encoder-layers 1 --decoder-layers 1 --updates 1 --valid-size 0 --tokens sentencepiece"
apart="$once --joint-vocabulary no"
# Persian with a zero-width non-joiner, full-width marks, a no-break space, fractions
printf 'm\302\262 x 12 \302\275 \342\200\246\n\345\245\275\357\274\214\345\245\275\357\274\201\n' \
    >odd
{
    printf '\331\205\333\214\342\200\214\330\256\330\247\331\207\331\205\n'
    printf '10\302\240000 \342\202\254 \357\254\201n \342\226\205 \342\204\242\n'
} >>odd
for i in 1 2 3 4 5 6 7 8; do awk '{ print "line " NR "\t" $0 }' odd; done >odd.tsv
cut -f1 odd.tsv | head -4 >odd.source
writes() { "$trf" translate --model "$1" --input odd.source --prefixes "$2" --max-length-a 0 \
    --max-length-b 40 2>err |
    awk 'NR == FNR { want[NR] = $0; next } { n += index($0, want[FNR]) == 1 } END { exit n != 4 }' \
        "$2" -; }
expect 0 "one vocabulary of subwords for both sides" "both sides: .* subwords learned (unigram, --normalization nfc)" \
    "$trf" \
    train --tsv odd.tsv $once --model joint
check "nothing of the target is rewritten" writes joint odd
expect 0 "a vocabulary of subwords a side" "source: .* (unigram, --normalization nfc)" "$trf" train --tsv odd.tsv \
    $apart --model apart
check "subwords of the target keep its characters" says "target: .* (unigram, --normalization identity)"
check "subwords of the target rewrite nothing" writes apart odd
expect 0 "BPE for both sides" "both sides: .* (BPE, --normalization nfc)" "$trf" train --tsv odd.tsv \
    ${once%sentencepiece}sentencepiece:bpe --model bpe
check "BPE rewrites nothing of the target" writes bpe odd
expect 0 "SentencePiece's own rule" "both sides: .* (unigram, --normalization nfkc)" "$trf" train \
    --tsv odd.tsv $once --normalization nfkc \
    --model nfkc
"$trf" translate --model nfkc --input odd.source --prefixes odd --max-length-a 0 --max-length-b 40 \
    >out 2>err
check "m with a small 2 becomes m2" grep -q '^m2 x 12 1.2 \.\.\.' out

# A decomposed source equals the composed one. A decomposed target stays as it is; then so does all.
for i in 1 2 3 4 5 6 7 8; do printf \
    'caf\303\251 \303\261\tun caf\303\251\n\341\273\207 \355\225\234\tdeux\n'; done >accents.tsv
printf \
    'cafe\314\201 n\314\203\tun caf\303\251\ne\314\202\314\243 \341\204\222\341\205\241\341\206\253\tdeux\n' \
    >loose.tsv
head -2 accents.tsv >tight.tsv
alike() { "$trf" score --model "$1" --tsv tight.tsv >tight.scores 2>err && "$trf" score \
    --model "$1" --tsv loose.tsv >loose.scores 2>err &&
    cmp -s tight.scores loose.scores; }
for sides in "" "--joint-vocabulary no" "--normalization nfc"; do
    expect 0 "a vocabulary that keeps accents ($sides)" "--normalization nfc)" "$trf" train --tsv accents.tsv $once \
        $sides \
        --model accents
    check "a letter and its mark are one character ($sides)" alike accents
done
expect 0 "accents as they are" "--normalization identity)" "$trf" train --tsv accents.tsv $once \
    --normalization identity --model accents
if alike accents; then same=1; else same=0; fi
check "then they differ" [ $same -eq 0 ]
awk -F '\t' '{ print $2 "\t" $1 }' loose.tsv >turned.tsv
expect 0 "a decomposed target" "both sides: .* (unigram, --normalization identity)" \
    sh -c "cat turned.tsv turned.tsv accents.tsv >both.tsv &&
    '$trf' train --tsv both.tsv $once --model m"
cut -f1 loose.tsv >loose.prefixes
printf 'x\nx\n' >x
check "is written as it was" \
    sh -c \
    '"$0" translate --model m --input x --prefixes loose.prefixes --max-length-a 0 --max-length-b 40 2>err |
    awk "NR == FNR { want[NR] = \$0; next } { n += index(\$0, want[FNR]) == 1 } END { exit n != 2 }" loose.prefixes -' \
    "$trf"

# texts that read as SentencePiece's special pieces are texts
for i in 1 2 3 4 5 6 7 8; do printf 'a </s> b\tx <unk> y\nc <s> d\tz </s>\n'; done >special.tsv
printf 'a </s> b\nc <s> d\n' >special.source
printf 'x <unk> y\nz </s>\n' >special.prefixes
expect 0 "texts of special tokens" "subwords learned" "$trf" train --tsv special.tsv $once \
    --model special
"$trf" translate --model special --input special.source --prefixes special.prefixes \
    --max-length-a 0 --max-length-b 40 >out 2>err
check "are written" sh -c 'head -1 out | grep -q "^x <unk> y" && tail -1 out | grep -q "^z </s>"'
check "and known" sh -c '! grep -q unknown err'

# a file as one document: line ends, tabs and blanks are tokens
expect 0 "subwords have line ends" "target: .* subwords learned (unigram, --normalization identity)" \
    "$trf" train $document \
    --tokens sentencepiece --model program.m
check "a text with line ends needs no warning" sh -c '! grep -q "line end" err'
expect 0 "a program as a prompt" "" "$trf" generate --model program.m --prompt "$(cat program)" --max-tokens 1 \
    --seed 1 --json
check "a program is written as it was" grep -qF \
    '{"text":"def f(x):\u000a    if x:\u000a\u0009return  1\u000a\u000aend ' out
check "all of a program is known" sh -c '! grep -q unknown err'
expect 0 "--tokens auto takes characters for a program of short lines, whose blanks words lose" "target: characters" \
    "$trf" train $document --model program.m
check "characters of a program keep its line ends" sh -c '! grep -q "line end" err'
printf 'a b\n' >ab.txt
for i in $(seq 40); do cat ab.txt; done >abs
expect 0 "lines of their own have none" "" "$trf" train --objective causal --text abs $tiny \
    --decoder-layers 1 --updates 1 \
    --tokens sentencepiece --model m
check "blanks at their ends are not looked at" sh -c '! grep -q "line end" err'

# where subwords are not learned here
expect 2 "words are not normalized" "normalization is for subwords that are learned" "$trf" train \
    --tsv odd.tsv ${once%sentencepiece}words \
    --normalization nfc --model m
expect 2 "--normalization is not for another model" "normalization is not for --init-from" "$trf" train --tsv odd.tsv \
    --init-from joint --normalization nfc \
    --updates 1 --model m
expect 1 "--normalization is not for a checkpoint" "made with --normalization auto, now it is nfkc" "$trf" train \
    --tsv odd.tsv $once --normalization nfkc --model joint \
    --resume
expect 2 "a rule that is none" "normalization takes auto" "$trf" train --tsv odd.tsv $once \
    --normalization nfd --model m

# --- a word of invisible characters is one unknown token ----------------------------------------

for i in $(seq 100); do printf \
    'anna sees rome\tPER O LOC\nbert \342\200\213 likes oslo\tPER O O LOC\n'; done >tag.tsv
expect 0 "a word without a subword" "200 texts" "$trf" train --objective tag --tsv tag.tsv \
    --tokens sentencepiece --normalization nfkc \
    --model tag $tiny --encoder-layers 1 --updates 150 --valid-size 0
check "is no fault of its line" sh -c '! grep -q "left out" err'
printf 'anna sees rome\nanna \342\200\213 sees rome\n' >invisible
expect 0 "nor where it is labelled" "" "$trf" tag --model tag --input invisible
printf 'PER O LOC\nPER O O LOC\n' >want
check "an invisible character has a label as all have" same out want
else
echo "left out: libsentencepiece"
awk 'BEGIN { for (i = 0; i < 400; i++) print "w" i " x" i " y" i "\tv" i " z" i }' >new.tsv
expect 0 "subwords would do better" "uses words; install libsentencepiece-dev" "$trf" train \
    --tsv new.tsv $tiny --encoder-layers 1 \
    --decoder-layers 1 --updates 1 --valid-size 0 --model m
check "missing subwords are told last, before training" \
    sh -c 'grep -v "^done\|^update" err | tail -n 1 | grep -q "libsentencepiece-dev"'
fi

# --- SentencePiece models -----------------------------------------------------------------------
if "$trf" train --tsv train.tsv $model --tokens sentencepiece --vocab-size 30 --metric loss \
    --threads 1 --updates 2 --model pieces 2>err; then
    expect 0 "subwords of a model file" "subwords" "$trf" inspect pieces
    if command -v python3 >/dev/null; then
        check "inspect pieces is JSON" \
            sh -c \
            "'$trf' inspect pieces --json | python3 -c 'import json, sys; json.load(sys.stdin)'"
    fi
    check "trf inspect tells the vocabulary whole" eval \
        '"$trf" inspect --json pieces | awk -F "\"target_vocabulary\":" "{
        split(\$2, part, /\"size\":|,\"tokens\":\[|\]/)
        n = gsub(/\",\"/, 0, part[3]) + 1
    } END { exit !(n > 8 && n == part[2] - 4) }"'
    {
        cat train.tsv
        awk 'BEGIN {
            for (i = 0; i < 250000; i++) printf "%d%d%d%d", i % 7, i % 11 % 9, i % 13 % 5, i % 17 % 8
            print "\tone"
        }'
    } >endless.tsv
    expect 0 "a line of a million characters is not learned from" "left out: endless.tsv:601" \
        timeout 120 \
        "$trf" train --tsv endless.tsv $model --tokens sentencepiece --vocab-size 30 --metric loss \
        --threads 1 --updates 2 --model m
    expect 0 "BPE learns subwords" "subwords learned (BPE, --normalization nfc)" "$trf" train --tsv train.tsv $model \
        --tokens sentencepiece:bpe --vocab-size 60 \
        --threads 1 --updates 2 --model bpe
    expect 0 "more than there can be" "both sides: [0-9]* subwords learned" "$trf" train \
        --tsv train.tsv $model \
        --tokens sentencepiece:bpe --vocab-size 5000 --threads 1 --updates 2 --model m
    expect 0 "a vocabulary a side" "target: [0-9]* subwords learned" "$trf" train --tsv train.tsv \
        $model --threads 1 \
        --target-tokens sentencepiece --target-vocab-size 40 --updates 2 --model m
    perl \
        -e \
        'open F, "<", $ARGV[0]; binmode F; binmode STDOUT; undef $/; $_ = <F>; $n = unpack "Q<", $_;
        ($a, $b) = substr($_, 8, $n) =~ /"trf.source_vocab":\{[^}]*"data_offsets":\[(\d+),(\d+)\]/;
        print substr($_, 8 + $n + $a, $b - $a)' pieces >sentencepiece.model
    expect 0 "a SentencePiece model" "done: " "$trf" train --tsv train.tsv $model \
        --sentencepiece sentencepiece.model \
        --metric loss --threads 1 --updates 2 --model given
    check "subwords that are given are as good as those that are learned" same pieces given
    sp="--tsv train.tsv $model --metric loss --threads 1"
    expect 0 "the same subwords for both sides" "tying all" "$trf" train $sp \
        --source-sentencepiece sentencepiece.model \
        --target-sentencepiece ./sentencepiece.model --updates 1 --model m
    expect 0 "going on with the same SentencePiece model" "resumed" "$trf" train $sp \
        --sentencepiece sentencepiece.model --updates 3 --model given --resume
    expect 0 "going on with --tokens sentencepiece" "resumed" "$trf" train $sp --tokens sentencepiece --updates 4 \
        --model pieces --resume
    perl \
        -e \
        'open F, "<", $ARGV[0]; binmode F; binmode STDOUT; undef $/; $_ = <F>; $n = unpack "Q<", $_;
        ($a, $b) = substr($_, 8, $n) =~ /"trf.source_vocab":\{[^}]*"data_offsets":\[(\d+),(\d+)\]/;
        print substr($_, 8 + $n + $a, $b - $a)' bpe >other.model
    expect 1 "going on with another SentencePiece model" "a SentencePiece model other than 'other.model'" \
        "$trf" train $sp \
        --sentencepiece other.model --updates 5 --model given --resume
    expect 1 "going on with the other kind of subwords" "made with --source-tokens sentencepiece:unigram" "$trf" train \
        $sp --tokens sentencepiece:bpe --updates 5 --model pieces --resume
    check "refused subwords have changed nothing" eval \
        '"$trf" train $sp --updates 3 --model given --resume 2>&1 | grep -q "resumed from update 4"'
    expect 0 "a SentencePiece model for one side" "done: " "$trf" train --tsv train.tsv $model \
        --threads 1 --updates 2 \
        --target-sentencepiece sentencepiece.model --source-tokens words --metric loss --model given
    expect 0 "the side without subwords keeps its words" '"kind":"words"' "$trf" inspect given --json
    head -n 100 train.digits >some.digits; head -n 100 train.names | sed '50s/.*/fo\xfcr/' \
        >some.names
    expect 0 "a line that is not UTF-8" \
        "left out: some.names:50: expected UTF-8, got the byte 0xFC at offset 2" \
        "$trf" train --source some.digits --target some.names $model --tokens sentencepiece \
        --vocab-size 30 \
        --threads 1 --updates 2 --model m
    expect 1 "--strict ends at a line that is not UTF-8" "some.names:50: .*--strict" "$trf" train \
        --source some.digits --target some.names \
        $model --tokens sentencepiece --vocab-size 30 --strict --updates 2 --model m
    printf '1 2\n3 \377 4\n' >latin
    expect 1 "a line that is not UTF-8 is not translated" "latin:2: answered with an empty line: expected UTF-8" \
        "$trf" \
        translate --model pieces \
        --input latin --beam 1
    check "a line that is not UTF-8 keeps its place" eval 'lines_are 2 out && [ -z "$(sed -n 2p out)" ]'
    echo "3 1 4" | "$trf" translate --model pieces --beam 1 >out
    check "raw text" lines_are 1 out
    awk 'BEGIN {
        for (i = 0; i < 400; i++) {
            s = ""
            for (j = 0; j < 8; j++)
                s = s (j % 2 ? "" : " ") sprintf("%c%c%c", 234 + (i + j) % 3, 160 + (i * 7 + j) % 31,
                    130 + (i * 13 + j * 5) % 60)
            print substr(s, 2) "	" substr(s, 2)
        }
    }' >syllables.tsv
    expect 0 "more characters than subwords were meant" "subwords learned" "$trf" train \
        --tsv syllables.tsv $model --threads 1 \
        --tokens sentencepiece --updates 1 --model m
    expect 1 "fewer than were asked for" "below the number of distinct characters" "$trf" train \
        --tsv syllables.tsv $model \
        --tokens sentencepiece --vocab-size 100 --updates 1 --model m
    for kind in unigram bpe; do
        cut="--tsv train.tsv $model --tokens sentencepiece:$kind --vocab-size 60 \
            --subword-samples 3 --warmup 10 --threads 1 --metric loss"
        expect 0 "$kind cut at random" "^[0-9]* pairs; " "$trf" train $cut --updates 40 --model cut
        check "$kind: three copies" grep -q "^1710 pairs; " err
        expect 0 "$kind, first half" "" "$trf" train $cut --updates 15 --model halved
        expect 0 "$kind, second half" "resumed" "$trf" train $cut --updates 40 --model halved \
            --resume
        check "$kind: resumed = straight" same cut halved
        expect 0 "$kind, another seed" "" "$trf" train $cut --seeds 2 --updates 40 --model seeds
        check "$kind: the same of several" same cut seeds.seed-1
        expect 1 "$kind, other cuts" "original training: --subword-alpha was 0.1, now it is 0.6$" "$trf" \
            train $cut --subword-alpha 0.6 --updates 50 --model halved --resume
    done
    expect 0 "passes over three copies" "^done" "$trf" train $cut --epochs 2 --batch-tokens 200 \
        --model m
    check "are as long as planned" \
        awk '/ in all;/ { for (i = 1; i < NF; i++) if ($(i + 1) == "in") planned = $i }
        /^done/ { if (!($2 > 0.9 * planned && $2 < 1.1 * planned)) exit 1 }' err
    expect 2 "--subword-alpha of more than 1" "--subword-alpha takes" "$trf" train $cut --subword-alpha 1.5 \
        --updates 1 \
        --model m
    expect 2 "--vocab-size that is too large" "between 8 and 1048576" "$trf" train --tsv train.tsv $model \
        --tokens sentencepiece \
        --vocab-size 2147483647 --model m
else
    check "a trf without libsentencepiece says so" grep -q "built without libsentencepiece" err
    echo "left out: libsentencepiece"
fi
expect 2 "words cannot be cut" "--subword-samples 3 needs subwords" "$trf" train --tsv train.tsv \
    $small --subword-samples 3 --updates 1 --model m
expect 1 "a text as a SentencePiece model" "train.digits: " "$trf" train --tsv train.tsv $small \
    --sentencepiece train.digits --updates 1 --model m
if "$trf" train --tsv train.tsv $model --tokens sentencepiece --vocab-size 30 --metric loss \
    --threads 1 --updates 1 --model pieces 2>err; then
    open="--tsv train.tsv $small --source-tokens sentencepiece --source-vocab-size 30 \
        --target-tokens words --target-vocab-size 0"
    expect 0 "a training that leaves its subwords open" "" "$trf" train $open --updates 6 --model open
    expect 0 "the first half of a training that leaves its subwords open" "" "$trf" train $open --updates 3 \
        --model parts
    expect 0 "the second half has the subwords that were decided" "resumed" "$trf" train $open --updates 6 \
        --model parts --resume
    check "subwords that were decided stay in the checkpoint" same open.checkpoint parts.checkpoint
    expect 1 "fewer subwords than characters" "below the number of distinct characters" "$trf" train --tsv train.tsv \
        $small --tokens sentencepiece --vocab-size 8 --updates 1 --model m
    check "fewer subwords than characters are told before learning" test "$(grep -c 'learning subwords' err)" -eq 0
fi
if "$trf" train --tsv train.tsv --tying all --tokens sentencepiece $quick --updates 1 \
    --model pieces 2>err; then
    expect 0 "one vocabulary of subwords, cut at random" "^1[01][0-9][0-9] pairs" "$trf" train \
        --tsv train.tsv \
        --init-from pieces --subword-samples 2 \
        --threads 1 --updates 2 --model m
    yes 'ص ل ى ا ه ع ي و س م' | head -n 300 >letters.arabic
    awk \
        'BEGIN { s = "\357\267\272"; for (i = 0; i < 100; i++) print s s s s s "\t" (i % 2 ? "A" : "B") }' \
        \
        >ligatures.tsv
    expect 0 "subwords of Arabic letters" "done: " "$trf" train --objective mask --text letters.arabic \
        --tokens sentencepiece \
        --vocab-size 16 $quick --updates 2 --model m
    expect 0 "a character that becomes eighteen" "^95 texts" "$trf" train --objective tag \
        --tsv ligatures.tsv \
        --init-from m --threads 1 --updates 2 --model pieces
    cut -f 1 ligatures.tsv >ligatures
    expect 0 "in a text too" "^95 chunks" "$trf" train --objective mask --text ligatures \
        --init-from m --threads 1 \
        --updates 2 --model pieces
fi

# --- processors -----------------------------------------------------------------------------------
if [ -r /proc/self/status ]; then
    awk 'BEGIN { for (i = 0; i < 60000; i++) { x = (x * 1103515245 + 12345) % 2147483648
        printf "%s%d%s", i % 12 ? " " : "\n", x, substr("abcdefghijklmnop", x % 9, 6) } }' >large.text
    on_one() { grep -q '^Cpus_allowed_list:.[0-9]*$' "/proc/$1/status"; }
    run="--objective causal --text large.text ${quick% --threads 1} --tokens sentencepiece --updates 1 --valid-size 0"
    "$trf" train $run --model one --threads 1 2>err &
    wait_until on_one $!
    check "learning subwords uses as many processors as --threads says" on_one $!
    wait $!
    "$trf" train $run --model two --threads 2 2>err
    check "learned subwords do not depend on --threads" same one two
fi

finish

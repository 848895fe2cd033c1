#!/bin/sh
# Text that survives a translation: sh tests/test_trf_keep.sh build/trf
#
# trf train --keep makes tokens of what a pattern matches often; trf translate copies what it matches, as often as it
# is there, and answers have the texts of --phrase, --phrase-file and --glossary. Patterns that match everything,
# nothing or the empty text; terms in one another; answers without room.

. "$(dirname "$0")/trf.sh"

trf=$anew

awk 'BEGIN {
    split("red green blue one two three", from, " "); split("rot gruen blau eins zwei drei", to, " ")
    split("%s %d <b> {0} %%", mark, " ")
    for (i = 0; i < 240; i++) {
        a = i % 6 + 1; b = int(i / 6) % 6 + 1; m = i % 7 < 5 ? " " mark[i % 5 + 1] : ""
        print from[a] m " " from[b] "\t" to[a] m " " to[b]
    }
}' >pairs.tsv
marks() { grep -n -o -e '%[sd%]' -e '<b>' -e '{0}' "$1" | sort; }

for tokens in characters words; do
    expect 0 "train --keep: a model of $tokens is trained" "5 matches occur often enough to be a token" "$trf" train \
        --tsv pairs.tsv --tokens $tokens --keep printf --keep html --keep '[{][0-9][}]' --d-model 32 --n-heads 2 \
        --d-ff 64 --encoder-layers 1 --decoder-layers 1 --updates 120 --batch-tokens 300 --threads 1 --seed 2 \
        --valid-size 20 --model $tokens
done
printf '%s\n' 'red %s blue' 'green' 'one <b> two %d' '{0} three {0} %%' 'blue' >lines
"$trf" tokenize characters lines >out
check "train --keep: a text is cut at the symbols" [ "$(sed -n 1p out)" = "r e d ▁ %s ▁ b l u e" ]
marks lines >wanted
for tokens in characters words; do
    for beam in 1 2 5; do
        expect 0 "translate: beam $beam of $tokens copies what the patterns match" "" "$trf" translate $tokens lines \
            --beam $beam --strict
        marks out >found
        check "translate: beam $beam of $tokens, nothing else is such a match" same wanted found
    done
done
expect 0 "translate --n-best: the best answers are counted" "" "$trf" translate characters lines --n-best 3 --strict
"$trf" translate characters lines --keep none >plain 2>err
"$trf" translate characters lines --keep none --keep xyzzy >out 2>err
check "translate --keep: a pattern that matches nothing changes nothing" same plain out
"$trf" translate characters lines --keep none --keep 'x*' >out 2>err
check "translate --keep: a pattern that matches the empty text changes nothing" same plain out
"$trf" translate characters lines --keep none --keep 'blue$' --buffer 3 >out 2>err
check "translate --keep: a sentence without a match is not changed by others" eval \
    '[ "$(sed -n 2,4p out)" = "$(sed -n 2,4p plain)" ] && sed -n 1p out | grep -q blue'
expect 0 "translate --keep: a pattern that matches everything is copied" "red %s blue" "$trf" translate characters \
    lines --keep '.*'
expect 2 "translate: a --keep that is no pattern is refused" "^trf translate: --keep '(': Unmatched" "$trf" translate \
    characters lines --keep '('
expect 2 "train: a --keep that is no pattern is refused" "^trf train: --keep '(': Unmatched" "$trf" train --tsv \
    pairs.tsv --keep '(' --model none
expect 2 "translate: an empty --keep is refused" "expected a pattern, got nothing" "$trf" translate characters lines \
    --keep ''
expect 2 "train: --keep is for translate" "^trf train: --keep is for --objective translate$" "$trf" train --text lines \
    --objective causal --keep url --model none
echo 'red {7} blue' >unknown
expect 0 "translate: a match that the model cannot write is told" \
    "^trf translate: unknown:1: the answer has '{7}' 0 times instead of 1$" "$trf" translate words unknown
expect 1 "translate --strict: then the exit status is 1" "^trf translate: 1 of 1 answer must contain texts" "$trf" \
    translate words unknown --strict
echo '%s %s %s %s' >long
expect 1 "translate: a line with more matches than the answer has room for is told" \
    "the answer has '%s' 2 times instead of 4" "$trf" translate words long --strict --max-length-a 0 --max-length-b 2

# --- sentences ------------------------------------------------------------------------------------
if "$trf" --version | grep -q '^sentences: .*ICU'; then
    printf '%s\n' 'red one. Blue two!  green %s three?' '' '  one' 'Mr. Red is one.' >text
    printf '%s\n' 'red one.' 'Blue two!' 'green %s three?' 'one' 'Mr. Red is one.' >each
    "$trf" translate characters each >answers 2>err
    { printf '%s %s  %s\n\n' "$(sed -n 1p answers)" "$(sed -n 2p answers)" "$(sed -n 3p answers)"
      printf '  %s\n%s\n' "$(sed -n 4p answers)" "$(sed -n 5p answers)"; } >wanted
    expect 0 "translate --sentences: each sentence is translated, with the blanks between them" "" "$trf" translate \
        characters text --sentences en
    check "translate --sentences: the answers are those of the sentences alone" same wanted out
    expect 0 "translate --sentences: what the patterns match is copied in its sentence" "" "$trf" translate characters \
        text --sentences en --strict --buffer 1
    check "translate --sentences: batches of a line change nothing" same wanted out
    printf 'red \377. one\nblue\n' >broken
    expect 1 "translate --sentences: a line that is not UTF-8 is empty" "broken:1: answered with an empty line" "$trf" \
        translate characters broken --sentences en
    check "translate --sentences: the line after it is answered" [ -z "$(sed -n 1p out)" ] && [ -n "$(sed -n 2p out)" ]
    for option in --json --scores "--n-best 2" "--phrase eins" --alignments; do
        expect 2 "translate --sentences with $option is refused" "gives each line one answer" "$trf" translate \
            characters text --sentences en $option
    done
else echo "left out: --sentences, built without ICU"; fi

# --- phrases ------------------------------------------------------------------------------------
expect 0 "translate --phrase: each is in each answer, whatever its tokens" "" "$trf" translate characters lines \
    --phrase 'zwei drei' --phrase eins --strict
check "translate --phrase: both are in all answers" [ "$(grep -c 'zwei drei' out)$(grep -c eins out)" = 55 ]
expect 0 "translate --phrase: one that is given twice occurs twice" "" "$trf" translate characters lines --phrase eins \
    --phrase eins --strict
check "translate --phrase: it is twice in all answers" [ "$(grep -c 'eins.*eins' out)" = 5 ]
printf 'eins\tzwei\n\ndrei\n' >phrases
expect 0 "translate --phrase-file: line n is for line n" "" "$trf" translate words lines --phrase-file phrases --strict
check "translate --phrase-file: the first and the third line have them" eval \
    'sed -n 1p out | grep eins | grep -q zwei && sed -n 3p out | grep -q drei'
expect 1 "translate: a --phrase that is not UTF-8 is refused" "" "$trf" translate words lines \
    --phrase "$(printf '\377')"

# --- glossary -----------------------------------------------------------------------------------
printf 'red\tblau\nred %%s\tgruen\nre\tzwei\nblue\teins\n\n' >terms
printf 'red blue\n%s\nredred three\n' 'three red red' >lines
expect 0 "translate --glossary: terms of a line have their translations" "" "$trf" translate words lines \
    --glossary terms --strict
check "translate --glossary: the longest, whole words, as often as they are there" eval \
    'sed -n 1p out | grep blau | grep -q eins && sed -n 2p out | grep -q "blau.*blau" && ! sed -n 1p out | grep -q zwei'
awk 'BEGIN { for (i = 0; i < 100000; i++) print "term" i "\tdrei"; print "red\tblau" }' >many
awk 'BEGIN { for (i = 0; i < 300; i++) print "red blue" }' >lines
expect 0 "translate --glossary: a hundred thousand terms are read" "" timeout 120 "$trf" translate words lines \
    --glossary many --strict --beam 1
check "translate --glossary: all answers have the last one" [ "$(grep -c blau out)" = 300 ]
for line in red 'red\t' '\tblau' 'red\tblau\teins'; do
    printf "two\tzwei\n$line\n" >terms
    expect 1 "translate: a glossary with the line '$line' is refused" \
        "^trf translate: terms:2: expected a term, a tab and its translation$" "$trf" translate words lines \
        --glossary terms
done
printf 'red\tblau\nred\trot\n' >terms
expect 1 "translate: a term with two translations is refused" "'red' has two translations, 'blau' and 'rot'" "$trf" \
    translate words lines --glossary terms

finish

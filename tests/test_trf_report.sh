#!/bin/sh
# trf report from outside: sh tests/test_trf_report.sh build/trf
#
# Pages of small training runs: what the table says of them, figures beside those of the other commands, hostile data,
# and, where chromium is, the pages in a browser: wide and narrow, light and dark, with and without their script.

. "$(dirname "$0")/trf.sh"

# What a page says, without its elements.
words() { sed -e '/<script nonce/,/<\/script>/d' -e '/<style>/,/<\/style>/d' -e 's/<[^>]*>/ /g' "$1" |
    tr -s ' \n' '  '; }
has() { words "$1" | grep -q -e "$2"; }
lacks() { ! words "$1" | grep -q -e "$2"; }
# section PAGE NAME: that part of the page alone
section() { sed -n "/<section id=$2>/,/<\/section>/p" "$1"; }

common="--batch-tokens 256 --log-every 10 --warmup 20 --seed 5 --threads 1"
"$trf" train --tsv train.tsv $model $common --updates 400 --valid-every 100 --metric wer --model m \
    --log one.json 2>/dev/null
"$trf" train --tsv train.tsv --d-model 24 --n-heads 2 --d-ff 32 --encoder-layers 2 --decoder-layers 1 $common \
    --updates 40 \
    --valid-size 0 --model other --log two.json 2>/dev/null

# --- the table of the runs -------------------------------------------------------------------------------------------
expect 0 "report: two logs make a page" "" "$trf" report one.json two.json --output two.html
check "report: two logs: nothing is said on standard error" test ! -s err
check "report: two logs: the page names both runs" has two.html 'one, two'
section two.html runs | sed '/<details>/,$d' >table
section two.html runs | sed -n '/<details>/,$p' >same
check "report: two logs: options that differ are columns of the table" \
    grep -q '<th scope=col>d-model.*<th scope=col>encoder-layers.*<th scope=col class=n>weights' table
for option in seed n-heads d-ff tsv norm-place; do
    check "report: two logs: --$option, which is the same in both, is in the list of equal options" \
        grep -q "<dt>$option<dd>" same
    check "report: two logs: --$option, which is the same in both, is no column of the table" \
        test "$(grep -c "<th scope=col>$option[< ]" table)" -eq 0
done
check "report: two logs: d-model, which differs, is not in the list of equal options" \
    test "$(grep -c '<dt>d-model<' same)" -eq 0
check "report: two logs: the table has the values of the first run" grep -q '<tr><th scope=row>one<td>.*<td>16<td>' \
    table
check "report: two logs: the table has the values of the second run" \
    grep -q '<tr><th scope=row>two<td>.*<td>24<td>2<td>' table
weights=$("$trf" inspect m | sed -n 's/^weights: \([0-9]*\) .*/\1/p')
check "report: two logs: the table has the $weights weights that trf inspect counts" \
    test "$(tr -d '\342\200\257' <table | grep -c "<td class=n>$weights<td")" -eq 1
best=$(sed -n 's/.*"event":"validation".*"loss":\([0-9.]*\),"nll".*/\1/p' one.json | sort -n | head -n 1)
check "report: two logs: the table has the best validation loss of the first log, $best" \
    grep -q "<tr><th scope=row>one.*<td class=n>$(printf %.4f "$best") <small>at" table
check "report: two logs: a run without validation has a dash instead of a loss" \
    grep -q '<tr><th scope=row>two<td>.*<td class=n>–<td class=n>–<td class=n>–' table
check "report: two logs: the page tells how a run ended" has two.html '--updates reached'
check "report: two logs: the column of the best score has the name of the metric" grep -q 'class=n>best WER' table
expect 0 "report: one log alone makes a page" "" "$trf" report two.json --output alone.html
check "report: one log alone: no option is a column of the table" \
    test "$(section alone.html runs | grep -c '<th scope=col>d-model')" -eq 0
check "report: one log alone: the list has its options" grep -q '<dt>d-model<dd>24</div>' alone.html

# --- resumed, cut off, of equal names, never ended, no log ------------------------------------------------------------
"$trf" train --tsv train.tsv $small --updates 20 --model again --log again.json 2>/dev/null
"$trf" train --tsv train.tsv $small --updates 40 --model again --log again.json --resume 2>/dev/null
mkdir -p a b '<img src=x onerror=alert(1)>'
cp one.json a/run.json; cp two.json b/run.json; cp two.json '<img src=x onerror=alert(1)>/run.json'
{ head -n $(($(wc -l <one.json) * 2 / 3)) one.json && printf '{"event":"progr'; } >cut.json
grep -v '"event":"end"' one.json >killed.json
{ echo 'no JSON at all'; cat one.json; printf \
    '{"event":"progress","update":1e999,"loss":"x"}\n[1,2]\n{"a":{"b":{"c":1}}}\n\377\n'; } >odd.json
expect 0 "report: eight logs, some resumed, cut off or of equal names, make a page" "" "$trf" report again.json \
    a/run.json b/run.json b/run.json '<img src=x onerror=alert(1)>/run.json' cut.json killed.json odd.json \
    --output many.html
check "report: a log of a resumed run is told to be resumed" has many.html 'resumed 1 time'
section many.html curves | sed -n '/<h3>again/,/<\/table>/p' | grep -o 'row class=n>[0-9]*' | cut -d '>' -f 2 >updates
check "report: a resumed run has rows of updates" test "$(wc -l <updates)" -gt 2
check "report: the updates of a resumed run are in order" sort -n -c updates
check "report: logs of equal names are told apart by their folders, and one given twice by a number" has many.html \
    ' a/run .* b/run .* b/run (2) '
check "report: a tag in the name of a log is shown as text" has many.html '&lt;img src=x onerror=alert(1)&gt;/run'
check "report: a tag in the name of a log is no element of the page" test "$(grep -c '<img' many.html)" -eq 0
check "report: a log that is cut off is told to have no end, and one line that is not JSON" has many.html \
    ' cut .*no end in the log: training is still running or was killed; 1 line of the log cut off or not JSON'
check "report: a log of a killed run is told to have no end" has many.html \
    ' killed .*no end in the log: training is still running or was killed '
check "report: lines of a log that are not events are counted" has many.html \
    ' odd .*reached; 4 lines of the log cut off or not JSON'
expect 1 "report: a file that is no log is refused" \
    "train.tsv: no events of a training run; trf train --log writes them" "$trf" report train.tsv --output no.html
expect 1 "report: an empty log is refused" "no events of a training run" "$trf" report /dev/null --output no.html
expect 1 "report: a log that is not there is refused" "cannot read 'none.json'" "$trf" report none.json --output no.html
check "report: refused logs leave no page" test ! -e no.html

# --- answers: the same figures as other commands ----------------------------------------------------------------------
{ cat test.tsv; seq -s ' ' 1 600 | sed 's/[0-9][0-9]*/1/g; s/$/\tone/'; printf '\t\n4 zz\tfour\n'; } >data.tsv
expect 1 "report: --model and --data name a line that is too long for the model" \
    "data.tsv:41: not read by the model: 600 tokens, at most 511" "$trf" report one.json --model m --data data.tsv \
    --output data.html
check "report: --data: the lines that the model could not read are counted" \
    grep -q "1 of 43 lines could not be read by the model; the report has it with the reason" err
cut -f1 data.tsv | "$trf" translate --model m >answers 2>/dev/null
cut -f2 data.tsv >references
"$trf" eval references answers --worst 500 --by-length >evaluated
for figure in BLEU chrF2 exact WER CER; do
    value=$(sed -n "s/^$figure|[^=]*[a-z0-9.] = \([0-9.]*\).*/\1/p" evaluated)
    check "report: --data: $figure is $value, as trf eval has it" \
        grep -q "<th scope=row>$figure<td class=n>$value<td>" data.html
done
scores=$(awk '$1 == "4-7" {print $2 "<td class=n>" $3 "<td class=n>" $5 "<td class=n>" $4}' evaluated)
check "report: --data: scores by length are those of trf eval" \
    grep -q "<tr><th scope=row>4 to 7<td class=n>$scores<td>" data.html
sed -n '/^worst lines/,$p' evaluated | sed -n 's/^ *\([0-9]*\) *[0-9.]* *reference.*/\1/p' | grep -v -x 41 |
    head -n 20 >worst
section data.html answers | sed -n 's/<li data-line=\([0-9]*\) .*/\1/p' | grep -v -x 41 | head -n "$(wc -l <worst)" \
    >listed
check "report: --data: the worst lines come first, in the order of trf eval" same worst listed
check "report: --data: trf eval and the page have at least 10 worst lines to compare" test "$(wc -l <worst)" -ge 10
check "report: --data: a line that is too long for the model comes before the worst ones" \
    test "$(section data.html answers |
    sed -n 's/<li data-line=\([0-9]*\) .*/\1/p' | head -n 1)" -eq 41
check "report: --data: a line that is too long for the model counts as an empty answer" has data.html \
    '1 of them is too long for the model and counts as an empty answer'
check "report: --data: a line that is too long for the model is told with the reason, and its text is cut" \
    has data.html 'not read by the model reason 600 tokens, at most 511 source 1 1 1'
check "report: --data: words of the reference that the answer lacks are marked" \
    grep -q '<dt>reference<dd dir=auto>.*<del>[a-z ]*</del>' data.html
check "report: --data: words of the answer that the reference lacks are marked" \
    grep -q '<dt>answer<dd dir=auto>.*<ins>[a-z ]*</ins>' data.html
check "report: --data: unknown words are counted" has data.html '1 is unknown to it'
expect 0 "report: --worst 3 makes a page" "" "$trf" report one.json --model m --data test.tsv --worst 3 \
    --output few.html
check "report: --worst 3 shows three lines" test "$(grep -c '<li data-line' few.html)" -eq 3
check "report: --worst 3 tells the number of all lines" has few.html 'Of 40 lines of test.tsv .*The worst 3 of 40 lines'
expect 0 "report: --worst 0 makes a page" "" "$trf" report one.json --model m --data test.tsv --worst 0 \
    --output none.html
expect 0 "report: --columns 2,1 makes a page" "" "$trf" report one.json --model m --data test.tsv --columns 2,1 \
    --output columns.html
check "report: --model: the weights of the parts sum to those of the whole" \
    test "$(section data.html model | tr -d '\342\200\257' |
    sed -n 's/<tr><th scope=row>[a-z -]*<td class=n>\([0-9]*\)<td.*/\1/p' |
    awk '{ n += $1 } END { print n }')" -eq "$weights"
expect 0 "report: --model without --data makes a page" "" "$trf" report one.json --model m --output model.html
check "report: --model without --data tells the vocabulary and its special tokens" has model.html \
    'Source vocabulary 14 tokens (words), the special ones included. Special ids: pad 0, begin 1, end 2, unknown 3.'

# --- attention: two digits each, as trf translate has it --------------------------------------------------------------
sed 1q test.tsv >first.tsv
"$trf" report one.json --model m --data first.tsv --output first.html
cut -f1 first.tsv | "$trf" translate --model m --json --attention |
    sed 's/.*"attention":\[\[\(.*\)\]\].*/\1/; s/\],\[/,/g' >weights
digits=$(sed -n 's/.*<figure class=map .*data-cross=\([0-9]*\).*/\1/p' first.html)
check "report: attention: every weight of the page has two digits" test ${#digits} \
    -eq $((2 * 2 * $(tr ',' '\n' <weights | wc -l)))
check "report: attention: the mean of both heads is that of trf translate" awk -v digits="$digits" -F , '{
    for (i = 1; i <= NF; i++) {
        a = substr(digits, 2 * i - 1, 2) / 100; b = substr(digits, 2 * (NF + i) - 1, 2) / 100; d = (a + b) / 2 - $i;
        if (!(d < 0.0101 && d > -0.0101)) exit 1 } }' weights

# --- labels, words, texts ---------------------------------------------------------------------------------------------
awk -F '\t' '{ n = split($1, d, " "); print $1 "\t" (n > 3 ? "long <b>" : n > 1 ? "mid" : "short") }' train.tsv \
    >label.tsv
awk -F '\t' '{
    n = split($1, d, " "); s = ""
    for (i = 1; i <= n; i++) s = s (i > 1 ? " " : "") (d[i] > 4 ? "high" : "low")
    print $1 "\t" s
}' train.tsv >tags.tsv
tiny="--d-model 16 --n-heads 2 --d-ff 32 --batch-tokens 256 --warmup 5 --threads 1 --seed 3 \
    --updates 20 --valid-size 50 --log-every 5"
"$trf" train --objective classify --tsv label.tsv --encoder-layers 2 $tiny --model label --log label.json 2>/dev/null
"$trf" train --objective tag --tsv tags.tsv --encoder-layers 1 $tiny --model tag --log tag.json 2>/dev/null
"$trf" train --objective causal --text train.names --tokens words --decoder-layers 1 $tiny --model text \
    --log text.json 2>/dev/null
"$trf" train --objective mask --text train.names --tokens words --encoder-layers 1 $tiny --model mask \
    --log mask.json 2>/dev/null
{ head -n 50 label.tsv; printf '1 2\tunheard\n\tshort\n'; } >label.data
expect 0 "report: a classifier with data makes a page" "" "$trf" report label.json --model label --data label.data \
    --output label.html
cut -f1 label.data | "$trf" classify --model label >given
right=$(cut -f2 label.data | paste - given | awk -F '\t' '$1 == $2' | wc -l)
check "report: a classifier: the accuracy counts the $right lines that trf classify labels right" has label.html \
    "Accuracy $(awk -v n="$right" 'BEGIN { printf "%.2f", 100 * n / 52 }') %: $right of 52 lines"
check "report: a classifier: a label that the model does not know is counted" has label.html \
    '1 of them should have a label that the model does not know'
check "report: a classifier: its head is one of the parts of the model" grep -q '<th scope=row>head<td class=n>' \
    label.html
check "report: a classifier: the page has a table of confusions" grep -q "aria-label='Confusions'" label.html
{ head -n 50 tags.tsv; printf '1 2\tlow\n'; } >tags.data
expect 1 "report: a tagger: a line with fewer labels than words is named" \
    "tags.data:51: not read by the model: 2 words, but 1 label" "$trf" report tag.json --model tag --data tags.data \
    --output tag.html
head -n 50 tags.tsv | cut -f1 | "$trf" tag --model tag >given
right=$(head -n 50 tags.tsv | cut -f2 | paste - given |
    awk -F '\t' '{
        n = split($1, a, " ")
        split($2, b, " ")
        for (i = 1; i <= n; i++) r += a[i] == b[i]
    } END { print r }')
check "report: a tagger: the $right words that trf tag labels right are counted" has tag.html \
    "%: $right of [0-9]* words have the label"
check "report: a tagger: a line with fewer labels than words is not counted" has tag.html \
    'Of 50 lines of tags.data . 1 more is not counted'
head -n 30 train.names >texts
expect 0 "report: a language model with texts makes a page" "" "$trf" report text.json --model text --data texts \
    --output text.html
perplexity=$("$trf" score --model text texts 2>&1 >/dev/null | sed -n 's/.*perplexity \([0-9.]*\).*/\1/p')
# beside, above: the names of the rows and of the columns of the first picture
picture() { sed -n '/<svg class=decoder /,/<.svg>/p' text.html | sed '/<.svg>/q' | grep '<.text>'; }
beside() { picture | sed -n 's/.*text-anchor="end">\(.*\)<.text>.*/\1/p'; }
above() { picture | grep -v 'anchor="end"' | sed 's/<.text>.*//; s/.*>//'; }
check "report: a language model: its picture has several tokens" test "$(beside | wc -l)" -ge 2
check "report: a language model: its picture has a column for each token that it reads, a row for each that it writes" \
    test "$(above |
    tail -n +2)" = "$(beside | sed '$d')"
shown=$(words text.html | sed -n 's/.*Perplexity \([0-9.]*\) .*/\1/p')
check "report: a language model: the perplexity $perplexity of trf score is on the page, which has $shown" \
    awk -v a="$perplexity" -v b="$shown" 'BEGIN { exit !(a > 1 && (a - b) * (a - b) < 1e-6) }'
expect 1 "report: --data for a model of hidden tokens, which has no answers, is refused" \
    "mask: this model fills in hidden tokens" "$trf" report mask.json --model mask --data texts --output mask.html
expect 0 "report: a model of hidden tokens without --data makes a page" "" "$trf" report mask.json --model mask \
    --output mask.html
expect 2 "report: --columns for a language model is refused" "text is a language model" "$trf" report text.json \
    --model text --data texts --columns 1,2 --output no.html

# --- refusals ---------------------------------------------------------------------------------------------------------
printf '1\tone\n2 two\n' >wrong.tsv
expect 1 "report: --data: a line without a tab is refused" \
    "wrong.tsv:2: no tab between source and target; --data takes a source, a tab and a reference" "$trf" report \
    one.json --model m --data wrong.tsv --output no.html
printf '1\tone\n2\ttwo\tmore\n' >wrong.tsv
expect 1 "report: --data: a line of three columns is refused without --columns" \
    "wrong.tsv:2: more than one tab; --columns chooses two columns" "$trf" report one.json --model m --data wrong.tsv \
    --output no.html
expect 1 "report: --columns: a line of too few columns is refused" "wrong.tsv:1: fewer columns than --columns needs" \
    "$trf" report one.json --model m --data wrong.tsv --columns 1,3 --output no.html
: >empty
expect 1 "report: --data without any line is refused" "empty has no lines" "$trf" report one.json --model m \
    --data empty --output no.html
expect 2 "report: --data without --model is refused" "--data needs --model" "$trf" report one.json --data test.tsv \
    --output no.html
expect 2 "report: --columns without --data is refused" "--columns is for --data" "$trf" report one.json --columns 1,2 \
    --output no.html
expect 2 "report: no log is refused" "give one or more logs written by trf train --log" "$trf" report --output no.html
expect 2 "report: no --output is refused" "give --output FILE" "$trf" report one.json
expect 2 "report: an empty --output is refused" "give --output FILE" "$trf" report one.json --output ''
expect 1 "report: a model that is not there is refused" "cannot read 'nothing'" "$trf" report one.json --model nothing \
    --output no.html
expect 1 "report: a text given as the model is refused" "train.tsv" "$trf" report one.json --model train.tsv \
    --output no.html
check "report: refused data, models and options leave no page" test ! -e no.html
cp two.html before.html
expect 1 "report: a page that is there is not replaced without --overwrite" "exists: --overwrite replaces it" \
    "$trf" report one.json --output two.html
check "report: a page that is not replaced stays as it was" same two.html before.html
expect 1 "report: --output that names a log is refused" "names the log" "$trf" report one.json two.json \
    --output two.json --overwrite
expect 1 "report: --output that names the model is refused" "names the file of --model" "$trf" report one.json \
    --model m --output m --overwrite
expect 1 "report: --output that names the data is refused" "names the file of --data" "$trf" report one.json --model m \
    --data test.tsv --output test.tsv --overwrite
expect 1 "report: --output that names a folder is refused" "cannot write 'a': Is a directory" "$trf" report one.json \
    --output a --overwrite
expect 1 "report: --output in a folder that is not there is refused" "cannot write 'nowhere/x.html'" "$trf" report \
    one.json --output nowhere/x.html
expect 1 "report: a full disk is told" "cannot write '*/dev/full" "$trf" report one.json --output /dev/full
expect 1 "report: data without a tab are refused before an old page is replaced" "no tab" "$trf" report one.json \
    --model m --data label.json --output two.html --overwrite
check "report: refused data leave the old page as it was" same two.html before.html
echo "of a killed run" >two.html.tmp-0123abcd
expect 1 "report: a disk that fills up is told" "cannot write 'two.html': File too large" \
    sh -c "ulimit -f 4; '$trf' report one.json --output two.html --overwrite"
check "report: a disk that fills up leaves the old page as it was" same two.html before.html
expect 0 "report: --overwrite replaces the old page" "" "$trf" report one.json --output two.html --overwrite
check "report: --overwrite writes another page than the old one" test "$(cmp -s two.html before.html; echo $?)" -eq 1
"$trf" report one.json --output - >piped 2>err
check "report: --output - writes the page to standard output" same two.html piped
check "report: no temporary file is left, not even that of a killed run" test -z "$(ls | grep 'tmp-')"

# --- without gnuplot --------------------------------------------------------------------------------------------------
expect 0 "report: without gnuplot the tables take the place of the curves, and gnuplot is named" \
    "the report has tables instead of curves: gnuplot, which draws curves, is not installed" env PATH=/nonexistent \
    "$trf" report one.json two.json --output bare.html
check "report: without gnuplot the page says that there is no picture" has bare.html \
    'There is no picture: gnuplot, which draws curves, is not installed. The numbers are below.'
check "report: without gnuplot the numbers of the curves are open" grep -q '<details open><summary>The numbers' \
    bare.html
check "report: without gnuplot the best loss is among the numbers of the curves" section bare.html curves | \
    grep -q "<td class=n>$(printf %.4f "$best")"
if command -v gnuplot >/dev/null; then
    expect 0 "report: gnuplot draws the curves of two logs" "" "$trf" report one.json two.json --output drawn.html
    check "report: gnuplot draws six panels" test "$(grep -c '<figure class=curve' drawn.html)" -eq 6
    check "report: curves of gnuplot: no id is on the page twice" \
        test -z "$(grep -o "id=['\"][^'\"]*" drawn.html | sort | uniq -d)"
else echo "left out: gnuplot"; fi

# --- hostile data -----------------------------------------------------------------------------------------------------
mark=document.documentElement.dataset.ran
{
    printf '<script>%s=1</script>\t</script><script>%s=2</script>\n' $mark $mark
    printf '<img src=x onerror="%s=3">\t"><img src=x onerror=%s=4>\n' $mark $mark
    printf "'\"><svg onload=%s=5>\t<!-- <textarea> </style> </title> ]]> <plaintext>\n" $mark
    printf 'a NUL \000 in it\tone\n'
    printf 'broken \377\376 \303\tone two\n'
    printf '\342\200\256turned 1\tthree \342\200\2563 2\342\200\254 one\n'
    awk 'BEGIN { for (i = 0; i < 100000; i++) printf "x"; print "\tone" }'
    awk 'BEGIN { printf "1\t"; for (i = 0; i < 10000; i++) printf "one "; print "" }'
    printf '1 \327\220\327\221 2\t\327\220\327\221\327\222 \327\223\n'
    printf 'e\314\201\314\201\314\247 \342\200\213\360\237\221\251\342\200\215\360\237\222\273\tcafe\314\201\n'
    printf '\t\n1\t\n\tone\n'
} >hostile.tsv
expect 1 "report: hostile data: a NUL byte is named with its line" "hostile.tsv:4: not read by the model: a NUL byte" \
    "$trf" report one.json --model m --data hostile.tsv --output hostile.html
check "report: hostile data: all 13 lines are on the page" test "$(grep -c '<li data-line' hostile.html)" -eq 13
check "report: hostile data: a tag is shown as text" has hostile.html \
    '&lt;script&gt;document.documentElement.dataset.ran=1&lt;/script&gt;'
check "report: hostile data: the page has one script, its own" test "$(grep -c -i '<script' hostile.html)" -eq 1
check "report: hostile data: no element has a handler of events" \
    test "$(grep -c -i '<[a-z]*[^>]* on[a-z]*=' hostile.html)" -eq 0
check "report: hostile data: a NUL is shown by its code point" grep -q 'a NUL <span class=odd>U+0000</span> in it' \
    hostile.html
check "report: hostile data: broken bytes are shown by their values" \
    grep -q 'broken <span class=odd>0xFF</span><span class=odd>0xFE</span> <span class=odd>0xC3</span>' hostile.html
check "report: hostile data: a character that turns the direction of text is shown by its code point" \
    grep -q '<span class=odd>U+202E</span>turned' hostile.html
check "report: hostile data: no character that turns text or has no width is left" \
    test "$(grep -c -e "$(printf '\342\200\256')" -e "$(printf '\342\200\213')" hostile.html)" -eq 0
check "report: hostile data: a text of 100000 characters is cut" has hostile.html 'x … and 98.*000 more characters'
check "report: hostile data: the page loads nothing from elsewhere" \
    test "$(grep -o -i -e 'src=[^x]' -e 'href=.http' -e '@import' -e 'url(.http' hostile.html |
    wc -l)" -eq 0
if command -v python3 >/dev/null; then
    check "report: hostile data: the page is UTF-8 without control characters" python3 -c "
import sys
text = open('hostile.html', encoding='utf-8').read()
sys.exit(any(ord(c) < 32 and c not in '\n\t' or 0x7f <= ord(c) < 0xa0 for c in text))"
fi

# --- in a browser -----------------------------------------------------------------------------------------------------
for browser in chromium chromium-browser google-chrome; do command -v $browser >/dev/null && break; browser=; done
# probed PAGE: the page with the questions behind it, and without its policy, which would forbid them and what else runs
probed()
{
    awk -v probe="$source/tests/report_probe.js" '
        { sub(/<meta http-equiv=Content-Security-Policy [^>]*>/, "") }
        /^<\/body>/ { print "<script>"; while ((getline line <probe) > 0) print line; print "</script>" }
        { print }' "$1"
}
# browse PAGE WIDTH SCHEME: the answers, in `answers`. Scheme 0 is dark, 1 is light. A narrow page is in a frame.
browse()
{
    probed "$1" >inner.html
    printf '<!doctype html><iframe src=inner.html style="width:%dpx;height:900px;border:0"></iframe><script>
        onmessage = function (e) { for (var k in e.data) document.documentElement.dataset[k] = e.data[k]; }</script>' \
            "$2" >frame.html
    timeout -k 5 60 $browser --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir="$here/profile" \
        --virtual-time-budget=4000 \
        --window-size=1400,1000 --blink-settings=preferredColorScheme=$3 --dump-dom "file://$here/frame.html" \
        2>/dev/null |
        grep -m 1 '<html' >answers
}
answers() { grep -q "data-$1=\"$2\"" answers; }
if [ -n "$browser" ]; then
    for view in "data 1280 1" "data 400 0" "hostile 400 1" "hostile 1280 0" "label 400 1" "tag 400 0" "text 400 1" \
        "many 400 0"; do
        set -- $view
        browse "$1.html" "$2" "$3"
        check "browser, $view: the page has the width of its frame" answers width "$2"
        check "browser, $view: the page does not scroll sideways" answers scrolls false
        check "browser, $view: no script of the data has run" test "$(grep -c 'data-ran' answers)" -eq 0
        check "browser, $view: no element comes from the data" answers strangers 0
        check "browser, $view: the page has loaded nothing" answers loads 0
        check "browser, $view: every text has enough contrast ($(grep -o 'data-contrast="[^"]*"' answers))" \
            answers contrast enough
        check "browser, $view: the page has more than 50 texts" answers texts true
        check "browser, $view: the page is dark for scheme 0 alone" answers dark \
            "$(test "$3" = 0 && echo true || echo false)"
        check "browser, $view: every choice has a label" answers labelled true
        [ "$1" != many ] || continue
        check "browser, $view: lines can be put in the order of the file" answers sorted true
        check "browser, $view: no picture of attention is empty" answers empty 0
        check "browser, $view: one picture of attention is shown at a time" answers maps 1
        check "browser, $view: the last line that is chosen is shown" answers last true
    done
    browse data.html 1280 1
    check "browser: pictures of three kinds, each with a layer, two heads and their mean, are drawn" answers drawn 9
    check "browser: an arrow key tells the weight between two tokens" answers square \
        '[a-z<&][^"]* → [^"]*: [01]\.[0-9][0-9]'
    check "browser: another arrow key tells another weight" test "$(grep -o 'data-square="[^"]*' answers |
        cut -d '"' -f 2)" != "$(grep -o 'data-below="[^"]*' answers | cut -d '"' -f 2)"
    sed '/<script nonce/,/<\/script>/d' data.html >still.html
    probed still.html >inner.html
    browse still.html 400 1
    check "browser: without its script the page shows the picture of every line" answers maps \
        "$(grep -c '<figure class=map' data.html)"
    check "browser: without its script the page has no order to choose" test "$(grep -c 'data-sorted="true"' answers)" \
        -eq 0
else echo "left out: a browser (chromium)"; fi

finish
